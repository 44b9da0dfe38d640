/* src/math/patch.c - windows over images
 * Papers   K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional Neural Networks for Document
 *          Processing", 2006: convolution by im2col, which is how the gradients of math/conv.h are computed.
 * Formula  see math/patch.h.
 * Data     any strides. One piece of work is one plane (n, c), for im2col one (n, c, r, s). No other piece writes
 *          there, and each sum is in the order of r, s.
 * Cost     im2col reads and writes each number size0 size1 times; col2im adds as often.
 * Error    im2col, max_pool exact. col2im, avg_pool: at most n = size0 size1 roundings of partial sums: LINEAR (n + 1)
 *          u. */
#include "math/patch.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

static tiny_idx tinyi_patch_or(int v, tiny_idx other) { return v ? v : other; }

/* Everything but what the row asks for; col2im: n and c from the columns. */
TINYI_FN void tinyi_patch_read(tinyi_patch *q, const tiny_op *op)
{
    const tiny_patch_params *p = (const tiny_patch_params *)op->params;
    const tiny_tensor *x = op->in[0];
    const int pool = op->kind == TINY_OP_MAX_POOL || op->kind == TINY_OP_AVG_POOL;
    q->r = p->size[0];
    q->s = p->size[1];
    q->sh = tinyi_patch_or(p->stride[0], pool ? q->r : 1);
    q->sw = tinyi_patch_or(p->stride[1], pool ? q->s : 1);
    q->dh = tinyi_patch_or(p->dilation[0], 1);
    q->dw = tinyi_patch_or(p->dilation[1], 1);
    q->pt = p->pad[0];
    q->pl = p->pad[1];
    q->h = op->kind == TINY_OP_COL2IM ? p->image[0] : x->dim[2];
    q->w = op->kind == TINY_OP_COL2IM ? p->image[1] : x->dim[3];
    q->oh = (q->h + p->pad[0] + p->pad[2] - q->dh * (q->r - 1) - 1) / q->sh + 1;
    q->ow = (q->w + p->pad[1] + p->pad[3] - q->dw * (q->s - 1) - 1) / q->sw + 1;
    q->n = op->kind == TINY_OP_COL2IM ? x->dim[1] / (q->oh * q->ow) : x->dim[0];
    q->c = op->kind == TINY_OP_COL2IM ? x->dim[0] / (q->r * q->s) : x->dim[1];
}

#define TINYI_PATCH_MOST 32767

static tiny_status tinyi_patch_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const char *name = tinyi_op_row(op)->name;
    const tiny_patch_params *p = (const tiny_patch_params *)op->params;
    const tiny_tensor *x = op->in[0];
    const int back = op->kind == TINY_OP_COL2IM;
    char text[96];
    tiny_idx dim[4];
    tinyi_patch q;
    int i;
    if (!tinyi_is_real(x))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: x must be f32 or f64, not %s", name, tiny_dtype_name(x->dtype));
    if (x->rank != (back ? 2 : 4))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is %s, it must have rank %d", name, tinyi_shape_text(x, text),
                          back ? 2 : 4);
    if (!p) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the params are missing; a window has no default size", name);
    for (i = 0; i < 2; i++) {
        tiny_idx room = back ? p->image[i] : x->dim[2 + i],
                 reach = ((tiny_idx)p->size[i] - 1) * tinyi_patch_or(p->dilation[i], 1);
        if (p->size[i] < 1 || p->size[i] > TINYI_PATCH_MOST || p->stride[i] < 0 || p->stride[i] > TINYI_PATCH_MOST ||
            p->dilation[i] < 0 || p->dilation[i] > TINYI_PATCH_MOST || p->pad[i] < 0 || p->pad[i] > TINYI_PATCH_MOST ||
            p->pad[i + 2] < 0 || p->pad[i + 2] > TINYI_PATCH_MOST || p->image[i] < 0)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "%s: axis %d: size %d, stride %d, dilation %d, padding %d and %d: one is not in 0 to %d, "
                              "or the size is 0",
                              name, i, p->size[i], p->stride[i], p->dilation[i], p->pad[i], p->pad[i + 2],
                              TINYI_PATCH_MOST);
        if (reach >= room + p->pad[i] + p->pad[i + 2])
            return tinyi_fail(
                ctx, TINY_E_SHAPE,
                "%s: axis %d has %td numbers with padding %d and %d; a window of %d with dilation %d does not fit",
                name, i, room, p->pad[i], p->pad[i + 2], p->size[i], (int)tinyi_patch_or(p->dilation[i], 1));
        if (!back && op->kind != TINY_OP_IM2COL && (p->pad[i] > reach || p->pad[i + 2] > reach))
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "%s: axis %d: padding %d and %d lets a window of %d lie outside of x", name, i,
                              p->pad[i], p->pad[i + 2], p->size[i]);
    }
    tinyi_patch_read(&q, op);
    if (back && (x->dim[0] % (q.r * q.s) || x->dim[1] % (q.oh * q.ow)))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "%s: x is %s, its rows must be a multiple of %td taps, its columns of %td places", name,
                          tinyi_shape_text(x, text), q.r * q.s, q.oh * q.ow);
    if (op->kind == TINY_OP_IM2COL) {
        if ((double)q.c * (double)q.r * (double)q.s > 9e15 || (double)q.n * (double)q.oh * (double)q.ow > 9e15)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: the columns are more than this machine can address", name);
        dim[0] = q.c * q.r * q.s;
        dim[1] = q.n * q.oh * q.ow;
        tinyi_want(&want[0], x->dtype, 2, dim);
        return TINY_OK;
    }
    dim[0] = q.n;
    dim[1] = q.c;
    dim[2] = back ? q.h : q.oh;
    dim[3] = back ? q.w : q.ow;
    tinyi_want(&want[0], x->dtype, 4, dim);
    return TINY_OK;
}

static void tinyi_patch_cost(const tiny_op *op, tiny_cost *cost)
{
    tinyi_patch q;
    double taps;
    tinyi_patch_read(&q, op);
    taps = (double)q.n * (double)q.c * (double)q.oh * (double)q.ow * (double)(q.r * q.s);
    cost->flops = taps;
    cost->bytes = op->kind == TINY_OP_MAX_POOL || op->kind == TINY_OP_AVG_POOL ? 4.0 * taps : 8.0 * taps;
}

static double tinyi_patch_terms(const tiny_op *op)
{
    const tiny_patch_params *p = (const tiny_patch_params *)op->params;
    return (double)p->size[0] * (double)p->size[1];
}

static tiny_idx tinyi_patch_at(const tiny_tensor *x, tiny_idx n, tiny_idx c, tiny_idx h, tiny_idx w)
{
    return n * x->stride[0] + c * x->stride[1] + h * x->stride[2] + w * x->stride[3];
}

/* ---- reference */

TINY_REF_BEGIN
static void tinyi_patch_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tinyi_patch q;
    tiny_idx n, c, r, s, i, j;
    tinyi_patch_read(&q, op);
    if (op->kind == TINY_OP_COL2IM) {
        for (n = 0; n < q.n; n++) for (c = 0; c < q.c; c++) for (i = 0; i < q.h; i++) for (j = 0; j < q.w; j++) {
            double sum = 0.0;
            for (r = 0; r < q.r; r++)
                for (s = 0; s < q.s; s++) {
                    tiny_idx a = i + q.pt - r * q.dh, b = j + q.pl - s * q.dw;
                    if (a < 0 || b < 0 || a % q.sh || b % q.sw || a / q.sh >= q.oh || b / q.sw >= q.ow) continue;
                    sum += tinyi_real(x->data, x->dtype,
                                      ((c * q.r + r) * q.s + s) * x->stride[0] +
                                          ((n * q.oh + a / q.sh) * q.ow + b / q.sw) * x->stride[1]);
                }
            tinyi_real_set(y->data, y->dtype, tinyi_patch_at(y, n, c, i, j), sum);
        }
        return;
    }
    for (n = 0; n < q.n; n++) for (c = 0; c < q.c; c++) for (i = 0; i < q.oh; i++) for (j = 0; j < q.ow; j++) {
        double sum = 0.0, top = -(double)INFINITY;
        for (r = 0; r < q.r; r++)
            for (s = 0; s < q.s; s++) {
                tiny_idx h = i * q.sh - q.pt + r * q.dh, w = j * q.sw - q.pl + s * q.dw;
                int inside = h >= 0 && h < q.h && w >= 0 && w < q.w;
                double v = inside ? tinyi_real(x->data, x->dtype, tinyi_patch_at(x, n, c, h, w)) : 0.0;
                if (op->kind == TINY_OP_IM2COL)
                    tinyi_real_set(
                        y->data, y->dtype,
                        ((c * q.r + r) * q.s + s) * y->stride[0] + ((n * q.oh + i) * q.ow + j) * y->stride[1], v);
                sum += v;
                if (inside && (v > top || v != v)) top = v;
            }
        if (op->kind == TINY_OP_IM2COL) continue;
        tinyi_real_set(y->data, y->dtype, tinyi_patch_at(y, n, c, i, j),
                       op->kind == TINY_OP_MAX_POOL ? top : sum / (double)(q.r * q.s));
    }
}
TINY_REF_END

/* ---- fast */

/* places j of 0..ow whose tap stands inside: low <= j < high */
static void tinyi_patch_inside(tiny_idx taps_at, tiny_idx stride, tiny_idx length, tiny_idx places, tiny_idx *low,
                               tiny_idx *high)
{
    tiny_idx first = taps_at < 0 ? (-taps_at + stride - 1) / stride : 0,
             end = taps_at >= length ? 0 : (length - 1 - taps_at) / stride + 1;
    *high = TINYI_MIN(places, TINYI_MAX(end, 0));
    *low = TINYI_MIN(first, *high);
}

static void tinyi_im2col_piece(const tinyi_kernels *k, const tinyi_patch *q, const tiny_tensor *x,
                               const tiny_tensor *y, tiny_idx u)
{
    const tiny_idx s = u % q->s, r = u / q->s % q->r, c = u / (q->s * q->r) % q->c, n = u / (q->s * q->r * q->c),
                   xs = x->stride[3] * q->sw, ys = y->stride[1];
    float *to = (float *)y->data + ((c * q->r + r) * q->s + s) * y->stride[0] + n * q->oh * q->ow * ys;
    tiny_idx i, j, low, high, top, end;
    tinyi_patch_inside(s * q->dw - q->pl, q->sw, q->w, q->ow, &low, &high);
    if (ys == 1) {
        tinyi_patch_inside(r * q->dh - q->pt, q->sh, q->h, q->oh, &top, &end);
        memset(to, 0, (size_t)(top * q->ow) * sizeof *to);
        memset(to + end * q->ow, 0, (size_t)((q->oh - end) * q->ow) * sizeof *to);
        if (top < end)
            TINYI_OF(k, conv_pack_f32)
            (to + top * q->ow, q->ow,
             (const float *)x->data + tinyi_patch_at(x, n, c, top * q->sh - q->pt + r * q->dh, 0) +
                 (s * q->dw - q->pl + low * q->sw) * x->stride[3],
             q->sh * x->stride[2], xs, (size_t)(end - top), (size_t)low, (size_t)high, (size_t)q->ow);
        return;
    }
    for (i = 0; i < q->oh; i++, to += q->ow * ys) {
        const tiny_idx h = i * q->sh - q->pt + r * q->dh;
        const int out = h < 0 || h >= q->h;
        const float *from =
            out ? NULL : (const float *)x->data + tinyi_patch_at(x, n, c, h, 0) + (s * q->dw - q->pl) * x->stride[3];
        for (j = 0; j < (out ? q->ow : low); j++) to[j * ys] = 0.0f;
        if (out) continue;
        for (j = low; j < high; j++) to[j * ys] = from[j * xs];
        for (j = high; j < q->ow; j++) to[j * ys] = 0.0f;
    }
}

static void tinyi_col2im_piece(const tinyi_kernels *k, const tinyi_patch *q, const tiny_tensor *x,
                               const tiny_tensor *y, tiny_idx u)
{
    const tiny_idx c = u % q->c, n = u / q->c, ys = y->stride[3] * q->sw, xs = x->stride[1];
    float *plane = (float *)y->data + tinyi_patch_at(y, n, c, 0, 0);
    tiny_idx i, j, r, s, low, high, top, end;
    for (i = 0; i < q->h; i++)
        for (j = 0; j < q->w; j++) plane[i * y->stride[2] + j * y->stride[3]] = 0.0f;
    for (r = 0; r < q->r; r++)
        for (s = 0; s < q->s; s++) {
            const float *from =
                (const float *)x->data + ((c * q->r + r) * q->s + s) * x->stride[0] + n * q->oh * q->ow * xs;
            tinyi_patch_inside(s * q->dw - q->pl, q->sw, q->w, q->ow, &low, &high);
            if (xs == 1 && ys == 1) {
                tinyi_patch_inside(r * q->dh - q->pt, q->sh, q->h, q->oh, &top, &end);
                if (top < end && low < high)
                    TINYI_OF(k, patch_add_f32)
                    (plane + (top * q->sh - q->pt + r * q->dh) * y->stride[2] + s * q->dw - q->pl + low,
                     q->sh * y->stride[2], from + top * q->ow + low, q->ow, (size_t)(end - top), (size_t)(high - low));
                continue;
            }
            for (i = 0; i < q->oh; i++, from += q->ow * xs) {
                const tiny_idx h = i * q->sh - q->pt + r * q->dh;
                float *to;
                if (h < 0 || h >= q->h || low >= high) continue;
                to = plane + h * y->stride[2] + (s * q->dw - q->pl) * y->stride[3];
                for (j = low; j < high; j++) to[j * ys] += from[j * xs];
            }
        }
}

/* v if it is larger or NaN, else top: by bits, since a branch would be mispredicted half of the time */
static float tinyi_patch_larger(float top, float v)
{
    const uint32_t takes = 0u - ((uint32_t)(v > top) | (uint32_t)(v != v));
    return tinyi_bits_f32((tinyi_f32_bits(v) & takes) | (tinyi_f32_bits(top) & ~takes));
}

/* A row of windows at a time: each tap is one pass over the places where it stands inside. Every place still takes its
 * taps in the order of r, s, so that bits do not depend on the order of the passes. */
static void tinyi_pool_piece(const tinyi_patch *q, const tiny_tensor *x, const tiny_tensor *y, tiny_idx u, int largest)
{
    const tiny_idx c = u % q->c, n = u / q->c, xs = x->stride[3] * q->sw, ys = y->stride[3];
    const float *plane = (const float *)x->data + tinyi_patch_at(x, n, c, 0, 0);
    float *to = (float *)y->data + tinyi_patch_at(y, n, c, 0, 0);
    const float many = (float)(q->r * q->s);
    tiny_idx i, j, r, s, low, high, lows[8], highs[8];
    for (s = 0; s < TINYI_MIN(q->s, 8); s++)            /* divisions, once a plane */
        tinyi_patch_inside(s * q->dw - q->pl, q->sw, q->w, q->ow, &lows[s], &highs[s]);
    for (i = 0; i < q->oh; i++, to += y->stride[2]) {
        for (j = 0; j < q->ow; j++) to[j * ys] = largest ? -INFINITY : 0.0f;
        for (r = 0; r < q->r; r++) {
            const tiny_idx h = i * q->sh - q->pt + r * q->dh;
            if (h < 0 || h >= q->h) continue;
            for (s = 0; s < q->s; s++) {
                const float *from = plane + h * x->stride[2] + (s * q->dw - q->pl) * x->stride[3];
                if (s < 8) low = lows[s], high = highs[s];
                else tinyi_patch_inside(s * q->dw - q->pl, q->sw, q->w, q->ow, &low, &high);
                if (largest)
                    for (j = low; j < high; j++) to[j * ys] = tinyi_patch_larger(to[j * ys], from[j * xs]);
                else for (j = low; j < high; j++) to[j * ys] += from[j * xs];
            }
        }
        for (j = 0; !largest && j < q->ow; j++) to[j * ys] /= many;
    }
}

static void tinyi_patch_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tinyi_kernels *k = team->k;
    tiny_idx u, u1, total;
    tinyi_patch q;
    tinyi_patch_read(&q, op);
    (void)TINYI_K(team, conv_pack_f32);
    total = q.n * q.c * (op->kind == TINY_OP_IM2COL ? q.r * q.s : 1);
    while (tiny_take(team, total, TINYI_MAX(1, 8192 / TINYI_MAX(1, q.oh * q.ow)), &u, &u1))
        for (; u < u1; u++) {
            if (op->kind == TINY_OP_IM2COL) tinyi_im2col_piece(k, &q, x, y, u);
            else if (op->kind == TINY_OP_COL2IM) tinyi_col2im_piece(k, &q, x, y, u);
            else tinyi_pool_piece(&q, x, y, u, op->kind == TINY_OP_MAX_POOL);
        }
}

static void tinyi_patch_case(tiny_case *c, tiny_patch_params *p, tiny_idx *h, tiny_idx *w, int pool)
{
    int i;
    for (i = 0; i < 2; i++) {
        p->size[i] = 1 + tiny_case_pick(c, 4);
        p->stride[i] = tiny_case_pick(c, 4);
        p->dilation[i] = tiny_case_pick(c, 3);
        p->pad[i] = tiny_case_pick(c, pool ? p->size[i] : 3);
        p->pad[i + 2] = tiny_case_pick(c, pool ? p->size[i] : 3);
    }
    *h = 10 + tiny_case_dim(c, 24);         /* 3 taps of dilation 2 fit */
    *w = 10 + tiny_case_dim(c, 24);
}

static void tinyi_im2col_cases(tiny_case *c)
{
    tiny_patch_params *p = (tiny_patch_params *)(void *)&c->params;
    tiny_idx dim[4];
    dim[0] = 1 + tiny_case_pick(c, 3);
    dim[1] = tiny_case_dim(c, 9);
    tinyi_patch_case(c, p, &dim[2], &dim[3], 0);
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 4, dim);
}

static void tinyi_pool_cases(tiny_case *c)
{
    tiny_patch_params *p = (tiny_patch_params *)(void *)&c->params;
    tiny_idx dim[4];
    dim[0] = 1 + tiny_case_pick(c, 3);
    dim[1] = tiny_case_dim(c, 9);
    tinyi_patch_case(c, p, &dim[2], &dim[3], 1);
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 4, dim);
}

static void tinyi_col2im_cases(tiny_case *c)
{
    tiny_patch_params *p = (tiny_patch_params *)(void *)&c->params;
    tiny_idx dim[2], h, w, n = 1 + tiny_case_pick(c, 3), channels = tiny_case_dim(c, 9), stride[2], dilation[2];
    int i;
    tinyi_patch_case(c, p, &h, &w, 0);
    p->image[0] = (int)h;
    p->image[1] = (int)w;
    for (i = 0; i < 2; i++) {
        stride[i] = tinyi_patch_or(p->stride[i], 1);
        dilation[i] = tinyi_patch_or(p->dilation[i], 1);
    }
    dim[0] = channels * p->size[0] * p->size[1];
    dim[1] = n * ((h + p->pad[0] + p->pad[2] - dilation[0] * (p->size[0] - 1) - 1) / stride[0] + 1) *
             ((w + p->pad[1] + p->pad[3] - dilation[1] * (p->size[1] - 1) - 1) / stride[1] + 1);
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 2, dim);
}

static const short tinyi_kernels_of_patch[] = { TINYI_K_conv_pack_f32, TINYI_K_patch_add_f32, -1 };
TINYI_ROW tinyi_row_im2col = TINYI_ROW_OF("im2col", TINY_OP_IM2COL, TAKES(1, 1), GIVES(1), PARAMS(tiny_patch_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_patch_shape), REFERENCE(tinyi_patch_ref), FAST(tinyi_patch_fast, NULL), COST(tinyi_patch_cost),
    CASES(tinyi_im2col_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_im2col),
    KERNELS(tinyi_kernels_of_patch), SAYS("y[c r s, n i j] = x[n, c, window (i, j), tap (r, s)]"));
TINYI_ROW tinyi_row_col2im = TINYI_ROW_OF("col2im", TINY_OP_COL2IM, TAKES(1, 1), GIVES(1), PARAMS(tiny_patch_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_patch_shape), REFERENCE(tinyi_patch_ref), FAST(tinyi_patch_fast, NULL), COST(tinyi_patch_cost),
    CASES(tinyi_col2im_cases), BOUND(TINY_BOUND_LINEAR, 1, 1), TERMS(tinyi_patch_terms), GRADIENT(tinyi_grad_im2col),
    KERNELS(tinyi_kernels_of_patch), SAYS("y[n, c, h, w] = sum of the columns' numbers of that pixel"));
TINYI_ROW tinyi_row_max_pool = TINYI_ROW_OF("max_pool", TINY_OP_MAX_POOL, TAKES(1, 1), GIVES(1),
    PARAMS(tiny_patch_params), FLAGS(TINY_OP_F64),
    SHAPE(tinyi_patch_shape), REFERENCE(tinyi_patch_ref), FAST(tinyi_patch_fast, NULL), COST(tinyi_patch_cost),
    CASES(tinyi_pool_cases), BOUND(TINY_BOUND_ULP, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_max_pool),
    KERNELS(tinyi_kernels_of_patch), SAYS("y = max over each window"));
TINYI_ROW tinyi_row_avg_pool = TINYI_ROW_OF("avg_pool", TINY_OP_AVG_POOL, TAKES(1, 1), GIVES(1),
    PARAMS(tiny_patch_params), FLAGS(TINY_OP_F64),
    SHAPE(tinyi_patch_shape), REFERENCE(tinyi_patch_ref), FAST(tinyi_patch_fast, NULL), COST(tinyi_patch_cost),
    CASES(tinyi_pool_cases), BOUND(TINY_BOUND_LINEAR, 2, 1), TERMS(tinyi_patch_terms), GRADIENT(tinyi_grad_avg_pool),
    KERNELS(tinyi_kernels_of_patch), SAYS("y = mean over each window, zeros outside"));

TINY_API tiny_status tiny_im2col(tiny_ctx *ctx, const tiny_tensor *x, const tiny_patch_params *params,
                                 const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_IM2COL, x, NULL, params, y);
}
TINY_API tiny_status tiny_col2im(tiny_ctx *ctx, const tiny_tensor *x, const tiny_patch_params *params,
                                 const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_COL2IM, x, NULL, params, y);
}
TINY_API tiny_status tiny_max_pool(tiny_ctx *ctx, const tiny_tensor *x, const tiny_patch_params *params,
                                   const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_MAX_POOL, x, NULL, params, y);
}
TINY_API tiny_status tiny_avg_pool(tiny_ctx *ctx, const tiny_tensor *x, const tiny_patch_params *params,
                                   const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_AVG_POOL, x, NULL, params, y);
}
