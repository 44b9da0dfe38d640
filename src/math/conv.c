/* src/math/conv.c - direct convolution
 *
 * Paper    the loop order follows J. Zhang, F. Franchetti, T. M. Low, "High Performance Zero-Memory Overhead Direct
 *          Convolutions", ICML 2018, and no im2col matrix is ever made.
 * Formula  y[n,k,i,j] = bias[k] + sum_{c,r,s} w[k,c,r,s] * x[n,c, i*sh - pt + r*dh, j*sw - pl + s*dw], zeros outside.
 * Method   The output of one image and group is cut in tiles. The input of a tile is copied once into a slab, with its
 *          zeros, rows `pitch` apart, and split by the remainder of row and column modulo the stride. In the slab the
 *          inputs of neighbouring outputs are neighbours for any stride, so tap t = (c, r, s) of output (i, j) is at
 *          off[t] + i * pitch + j. One table of offsets describes stride, dilation and padding. One kernel serves all
 *          of them: sum over t of w[k][t] * slab[off[t] + q] for a block of channels k and of positions q.
 *          For narrow outputs q runs over all rows at once: the result goes to a strip, from which the rows are copied,
 *          and a few positions between the rows are wasted. For wide outputs each row is computed by itself, straight
 *          into y.
 *          A kernel of one tap at stride 1 reads dense x in place, without a slab. The depthwise form computes four
 *          rows of outputs at a time, so that several of them use one row of inputs.
 *          Channels are taken in blocks whose slab fits the second-level cache; y holds the sums in between.
 * Cost     2 N K OH OW (C/groups) R S flops; x is copied once for each block of output channels.
 * Error    the reference sums products in double in the order c, r, s, adds the bias last and rounds once. The fast
 *          form starts from the bias and rounds each sum to float: |fast - ref| <= (n + 3) * 2^-24 * (|bias| + sum |w
 *          x|), n = (C/groups) R S + 1 terms.
 * Left out Winograd and FFT forms: their error does not keep this bound. Transposed convolution. */
#include <string.h>
#include "math/table_inside.h"
#include "math/rows_inside.h"

/* One or two dimensions, as two; channels within a group. */
typedef struct tinyi_conv {
    tiny_idx n, g, c, h, w, k, r, s, oh, ow;
    tiny_idx sh, sw, dh, dw, pt, pl;
    int relu;
    const float *x, *f, *bias;
    float *y;
    tiny_idx xs[4], fs[4], ys[4], bs;       /* strides, of the bias too */
} tinyi_conv;

static tiny_idx tinyi_conv_or1(int v) { return v ? v : 1; }

/* everything but the output size; params NULL: the defaults */
static void tinyi_conv_read(tinyi_conv *v, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *f = op->in[1], *b = op->in[2], *y = op->out[0];
    int flat = op->kind == TINY_OP_CONV1D, i;
    memset(v, 0, sizeof *v);
    v->sh = v->sw = v->dh = v->dw = v->g = 1;
    if (op->params && flat) {
        const tiny_conv1d_params *p = (const tiny_conv1d_params *)op->params;
        v->sw = tinyi_conv_or1(p->stride);
        v->dw = tinyi_conv_or1(p->dilation);
        v->pl = p->pad_left;
        v->g = tinyi_conv_or1(p->groups);
        v->relu = p->relu != 0;
    } else if (op->params) {
        const tiny_conv2d_params *p = (const tiny_conv2d_params *)op->params;
        v->sh = tinyi_conv_or1(p->stride[0]);
        v->sw = tinyi_conv_or1(p->stride[1]);
        v->dh = tinyi_conv_or1(p->dilation[0]);
        v->dw = tinyi_conv_or1(p->dilation[1]);
        v->pt = p->pad[0];
        v->pl = p->pad[1];
        v->g = tinyi_conv_or1(p->groups);
        v->relu = p->relu != 0;
    }
    v->n = x->dim[0];
    v->h = flat ? 1 : x->dim[2];
    v->w = x->dim[flat ? 2 : 3];
    v->c = f->dim[1];
    v->k = f->dim[0] / v->g;
    v->r = flat ? 1 : f->dim[2];
    v->s = f->dim[flat ? 2 : 3];
    v->x = (const float *)x->data;
    v->f = (const float *)f->data;
    for (i = 0; i < 4; i++) {
        int a = flat ? (i < 2 ? i : 2) : i;
        v->xs[i] = flat && i == 2 ? 0 : x->stride[a];
        v->fs[i] = flat && i == 2 ? 0 : f->stride[a];
        if (y) v->ys[i] = flat && i == 2 ? 0 : y->stride[a];
    }
    if (b) {
        v->bias = (const float *)b->data;
        v->bs = b->stride[0];
    }
    if (y) {
        v->y = (float *)y->data;
        v->oh = flat ? 1 : y->dim[2];
        v->ow = y->dim[flat ? 2 : 3];
    }
}

/* ---- the shape rule */

#define TINYI_CONV_MOST 32767               /* pad, stride, dilation */
#define TINYI_CONV_REACH (1 << 26)          /* floats of the smallest slab of one channel */

static tiny_status tinyi_conv_axis(tiny_ctx *ctx, const char *name, const char *axis, tiny_idx in, tiny_idx taps,
                                   int stride, int dilation, int before, int after, tiny_idx *out)
{
    int64_t reach, room;
    if (stride < 0 || stride > TINYI_CONV_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the stride of the %s is %d, it must be 1 to %d", name, axis,
                          stride, TINYI_CONV_MOST);
    if (dilation < 0 || dilation > TINYI_CONV_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the dilation of the %s is %d, it must be 1 to %d", name, axis,
                          dilation, TINYI_CONV_MOST);
    if (before < 0 || before > TINYI_CONV_MOST || after < 0 || after > TINYI_CONV_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the padding of the %s is %d and %d, it must be 0 to %d", name,
                          axis, before, after, TINYI_CONV_MOST);
    if (taps < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: w has %td taps along the %s, it needs one", name, taps, axis);
    room = (int64_t)in + before + after;
    if (taps - 1 > room) reach = room;      /* the product stays small, and the sentence comes all the same */
    else reach = (int64_t)(taps - 1) * tinyi_conv_or1(dilation);
    if (room <= reach)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "%s: the %s of x is %td with padding %d and %d, %td taps with dilation %d do not fit", name,
                          axis, in, before, after, taps, (int)tinyi_conv_or1(dilation));
    *out = (tiny_idx)((room - reach - 1) / tinyi_conv_or1(stride)) + 1;
    return TINY_OK;
}

static tiny_status tinyi_conv_shape_any(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want, const char *name, int rank,
                                        int groups)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *b = op->in[2];
    if (!tinyi_is_real(x) || w->dtype != x->dtype || (b && b->dtype != x->dtype))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: x is %s, w is %s, bias is %s, they must be f32 or all f64", name,
                          tiny_dtype_name(x->dtype), tiny_dtype_name(w->dtype),
                          b ? tiny_dtype_name(b->dtype) : "left out");
    if (x->rank != rank || w->rank != rank)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x has rank %d and w rank %d, both must be %d", name, x->rank, w->rank,
                          rank);
    if (groups < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                      "%s: %d groups; the number must not be negative", name, groups);
    if (!groups) groups = 1;
    if (x->dim[1] % groups || x->dim[1] / groups != w->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: w reads %td channels in each of %d groups, x has %td", name,
                          w->dim[1], groups, x->dim[1]);
    if (w->dim[0] % groups)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %td output channels do not divide into %d groups", name, w->dim[0],
                          groups);
    if (b && (b->rank != 1 || b->dim[0] != w->dim[0]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: bias must have %td values, one for each output channel", name,
                          w->dim[0]);
    (void)want;
    return TINY_OK;
}

static tiny_status tinyi_conv_reach(tiny_ctx *ctx, const char *name, const tiny_op *op)
{
    tinyi_conv v;
    double floats;
    tinyi_conv_read(&v, op);
    floats = (double)TINYI_MIN(v.sh, v.r) * (double)TINYI_MIN(v.sw, v.s) * (1.0 + (double)((v.r - 1) * v.dh / v.sh)) *
             (960.0 + (double)((v.s - 1) * v.dw / v.sw));
    if (floats > (double)TINYI_CONV_REACH)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: %tdx%td taps with dilation %tdx%td span more than %d inputs", name, v.r, v.s, v.dh,
                          v.dw, TINYI_CONV_REACH);
    if ((double)v.c * (double)v.r * (double)v.s > 2147483647.0)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: an output is the sum of more than 2147483647 products", name);
    return TINY_OK;
}

static tiny_status tinyi_conv2d_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    static const tiny_conv2d_params none = { { 0, 0 }, { 0, 0 }, { 0, 0, 0, 0 }, 0, 0 };
    const tiny_conv2d_params *p = op->params ? (const tiny_conv2d_params *)op->params : &none;
    const tiny_tensor *x = op->in[0], *w = op->in[1];
    tiny_idx dim[4];
    tiny_status st = tinyi_conv_shape_any(ctx, op, want, "conv2d", 4, p->groups);
    if (!st)
        st = tinyi_conv_axis(ctx, "conv2d", "height", x->dim[2], w->dim[2], p->stride[0], p->dilation[0], p->pad[0],
                             p->pad[2], &dim[2]);
    if (!st)
        st = tinyi_conv_axis(ctx, "conv2d", "width", x->dim[3], w->dim[3], p->stride[1], p->dilation[1], p->pad[1],
                             p->pad[3], &dim[3]);
    if (!st) st = tinyi_conv_reach(ctx, "conv2d", op);
    if (st) return st;
    dim[0] = x->dim[0];
    dim[1] = w->dim[0];
    tinyi_want(&want[0], x->dtype, 4, dim);
    return TINY_OK;
}

static tiny_status tinyi_conv1d_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    static const tiny_conv1d_params none = { 0, 0, 0, 0, 0, 0 };
    const tiny_conv1d_params *p = op->params ? (const tiny_conv1d_params *)op->params : &none;
    const tiny_tensor *x = op->in[0], *w = op->in[1];
    tiny_idx dim[3];
    tiny_status st = tinyi_conv_shape_any(ctx, op, want, "conv1d", 3, p->groups);
    if (!st)
        st = tinyi_conv_axis(ctx, "conv1d", "length", x->dim[2], w->dim[2], p->stride, p->dilation, p->pad_left,
                             p->pad_right, &dim[2]);
    if (!st) st = tinyi_conv_reach(ctx, "conv1d", op);
    if (st) return st;
    dim[0] = x->dim[0];
    dim[1] = w->dim[0];
    tinyi_want(&want[0], x->dtype, 3, dim);
    return TINY_OK;
}

/* ---- the reference */

TINY_REF_BEGIN
static void tinyi_conv_ref_op(const tiny_op *op)
{
    const tiny_dtype type = op->in[0]->dtype;
    tinyi_conv v;
    tiny_idx n, k, i, j, c, r, s;
    tinyi_conv_read(&v, op);
    for (n = 0; n < v.n; n++)
        for (k = 0; k < v.g * v.k; k++)
            for (i = 0; i < v.oh; i++)
                for (j = 0; j < v.ow; j++) {
                    double sum = 0.0;
                    for (c = 0; c < v.c; c++)
                        for (r = 0; r < v.r; r++)
                            for (s = 0; s < v.s; s++) {
                                tiny_idx h = i * v.sh - v.pt + r * v.dh, w = j * v.sw - v.pl + s * v.dw;
                                int inside = h >= 0 && h < v.h && w >= 0 && w < v.w;
                                double x = inside ? tinyi_real(v.x, type,
                                                               n * v.xs[0] + (k / v.k * v.c + c) * v.xs[1] +
                                                                   h * v.xs[2] + w * v.xs[3])
                                                  : 0.0;
                                sum += tinyi_real(v.f, type, k * v.fs[0] + c * v.fs[1] + r * v.fs[2] + s * v.fs[3]) * x;
                            }
                    if (v.bias) sum += tinyi_real(v.bias, type, k * v.bs);
                    if (type == TINY_F32) sum = (double)tinyi_round_f32(sum);
                    tinyi_real_set(v.y, type, n * v.ys[0] + k * v.ys[1] + i * v.ys[2] + j * v.ys[3],
                                   v.relu && sum < 0.0 ? 0.0 : sum);
                }
}
TINY_REF_END

/* ---- the fast path */

#define TINYI_CONV_SLAB 32768               /* floats of a slab, unless one channel needs more */
#define TINYI_CONV_STRIP 65536              /* floats of the strip between kernel and y */
#define TINYI_CONV_WIDTH 960                /* columns of a tile at most */
#define TINYI_CONV_LONG \
    128 /* rows from here on are taken one by one: the last tile of a row is often narrow, and slow */

enum { TINYI_CONV_ONCE, TINYI_CONV_BY_ROW, TINYI_CONV_BY_STRIP, TINYI_CONV_DEPTH };

typedef struct tinyi_conv_plan {
    /* remainders modulo the stride that some tap has: tap r has number r % ph */
    tiny_idx ph, pw;
    tiny_idx th, tw, nth, ntw;              /* outputs of a tile; tiles */
    tiny_idx rows, pitch, plane;            /* of one channel and remainder; of one channel in all */
    tiny_idx cb;                            /* channels of a slab */
    tiny_idx q;                             /* positions of a tile, those between the rows too */
    tiny_idx kc;                            /* output channels at a time, at most */
    int how, in_place;                      /* in_place: x itself is the slab */
    int dense_f;                            /* w is dense: no copy */
    size_t slab, strip, taps;               /* elements of own workspace */
} tinyi_conv_plan;

static tiny_idx tinyi_conv_gcd(tiny_idx a, tiny_idx b) { while (b) { tiny_idx t = a % b; a = b; b = t; } return a; }

static void tinyi_conv_size(const tinyi_conv *v, tinyi_conv_plan *p)
{
    p->rows = p->th + (v->r - 1) * v->dh / v->sh;
    p->pitch = p->tw + (v->s - 1) * v->dw / v->sw;
    p->plane = p->ph * p->pw * p->rows * p->pitch;
}

static void tinyi_conv_make(const tinyi_conv *v, tinyi_conv_plan *p)
{
    tiny_idx target = v->c * v->k > 4 ? 512 : 4096, dense = 1;
    int i;
    p->ph = TINYI_MIN(v->r, v->sh / tinyi_conv_gcd(v->sh, v->dh));
    p->pw = TINYI_MIN(v->s, v->sw / tinyi_conv_gcd(v->sw, v->dw));
    p->ntw = (v->ow + TINYI_CONV_WIDTH - 1) / TINYI_CONV_WIDTH;
    p->tw = p->ntw > 1 ? TINYI_CONV_WIDTH : v->ow;
    p->th = TINYI_MAX(TINYI_MIN(target / p->tw, v->oh), 1);
    p->nth = (v->oh + p->th - 1) / p->th;
    p->th = (v->oh + p->nth - 1) / p->nth;
    tinyi_conv_size(v, p);
    while (p->th > 1 && p->plane > TINYI_CONV_SLAB) {
        p->th = (p->th + 1) / 2;
        tinyi_conv_size(v, p);
    }
    p->nth = (v->oh + p->th - 1) / p->th;
    p->cb = TINYI_MAX(TINYI_MIN(TINYI_CONV_SLAB / p->plane, v->c), 1);
    p->q = (p->th - 1) * p->pitch + p->tw;
    if (v->ys[3] == 1 && v->c == 1 && v->k < 4 && v->oh > 1) p->how = TINYI_CONV_DEPTH;
    else if (v->ys[3] == 1 && p->pitch == p->tw && p->ntw == 1 && (p->th == 1 || v->ys[2] == v->ow))
        p->how = TINYI_CONV_ONCE;
    else if (v->ys[3] == 1 && (p->th == 1 || p->tw >= TINYI_CONV_LONG)) p->how = TINYI_CONV_BY_ROW;
    else p->how = TINYI_CONV_BY_STRIP;
    /* one tap, and positions as dense in x as in y: nothing to pack */
    p->in_place = p->how == TINYI_CONV_ONCE && v->r * v->s == 1 && v->sh * v->sw == 1 && v->pt == 0 && v->pl == 0 &&
                  v->oh == v->h && v->ow == v->w && v->c > 0 && v->xs[3] == 1 && (v->h == 1 || v->xs[2] == v->w) &&
                  p->th * p->tw >= 16 && (v->oh - 1) % p->th * p->tw + p->tw >= 16 && v->xs[1] >= 0 &&
                  v->xs[1] <= 0x7fffffff / v->c &&
                  (v->xs[1] < 1024 || v->c <= 64); /* planes in too many pages are slow to reach */
    if (p->in_place) {
        p->cb = v->c;
        p->plane = v->xs[1];
    }
    p->kc = TINYI_MAX(v->k, 1);
    if (p->how == TINYI_CONV_BY_STRIP) p->kc = TINYI_MIN(p->kc, TINYI_MAX(TINYI_CONV_STRIP / p->q / 8 * 8, 16));
    p->slab = p->in_place ? 0 : (size_t)(p->cb * p->plane) + TINYI_CONV_SLACK;
    p->strip = p->how == TINYI_CONV_BY_STRIP ? (size_t)(p->kc * p->q) : 0;
    p->taps = (size_t)(p->cb * v->r * v->s);
    for (p->dense_f = 1, i = 3; i >= 0; i--) {
        tiny_idx d = i == 0 ? v->g * v->k : i == 1 ? v->c : i == 2 ? v->r : v->s;
        if (d > 1 && v->fs[i] != dense) p->dense_f = 0;
        dense *= d;
    }
}

static size_t tinyi_conv_aligned(size_t floats) { return (floats + 15) & ~(size_t)15; }

static int tinyi_conv_empty(const tinyi_conv *v) { return v->n == 0 || v->k == 0 || v->oh == 0 || v->ow == 0; }

static void tinyi_conv_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    tinyi_conv v;
    tinyi_conv_plan p;
    (void)n_threads;
    tinyi_conv_read(&v, op);
    if (tinyi_conv_empty(&v)) return;
    tinyi_conv_make(&v, &p);
    if (!p.dense_f) *shared_bytes = (size_t)(v.g * v.k * v.c * v.r * v.s) * sizeof(float);
    *own_bytes =
        (tinyi_conv_aligned(p.slab) + tinyi_conv_aligned(p.strip) + tinyi_conv_aligned((size_t)p.kc) + p.taps) *
        sizeof(float);
}

/* a / b, upward; small planes feel each division */
static tiny_idx tinyi_conv_up(tiny_idx a, tiny_idx b) { return b == 1 ? a : (a + b - 1) / b; }

/* channels c0..c1 of image n, group g, for the tile at output (i0, j0) */
static void tinyi_conv_pack(const tinyi_conv *v, const tinyi_conv_plan *p, tinyi_fn_conv_pack_f32 kernel, float *slab,
                            tiny_idx n, tiny_idx g, tiny_idx c0, tiny_idx c1, tiny_idx i0, tiny_idx j0)
{
    tiny_idx c, a, b;
    for (c = c0; c < c1; c++) {
        const float *x = v->x + n * v->xs[0] + (g * v->c + c) * v->xs[1];
        for (a = 0; a < p->ph; a++)
            for (b = 0; b < p->pw; b++, slab += p->rows * p->pitch) {
                /* row i of the slab is row top + i * sh of x, column j is column left + j * sw; up..down, low..high are
                 * inside */
                tiny_idx top = i0 * v->sh - v->pt + (a ? a * v->dh % v->sh : 0),
                         left = j0 * v->sw - v->pl + (b ? b * v->dw % v->sw : 0);
                tiny_idx up = top >= 0 ? 0 : TINYI_MIN(tinyi_conv_up(-top, v->sh), p->rows),
                         low = left >= 0 ? 0 : TINYI_MIN(tinyi_conv_up(-left, v->sw), p->pitch);
                tiny_idx down = top >= v->h ? up : TINYI_MAX(TINYI_MIN(tinyi_conv_up(v->h - top, v->sh), p->rows), up);
                tiny_idx high =
                    left >= v->w ? low : TINYI_MAX(TINYI_MIN(tinyi_conv_up(v->w - left, v->sw), p->pitch), low);
                if (low == high) up = down = p->rows;
                memset(slab, 0, (size_t)(up * p->pitch) * sizeof *slab);
                if (up < down)
                    kernel(slab + up * p->pitch, p->pitch,
                           x + (top + up * v->sh) * v->xs[2] + (left + low * v->sw) * v->xs[3], v->sh * v->xs[2],
                           v->sw * v->xs[3], (size_t)(down - up), (size_t)low, (size_t)high, (size_t)p->pitch);
                memset(slab + down * p->pitch, 0, (size_t)((p->rows - down) * p->pitch) * sizeof *slab);
            }
    }
}

/* one tile of one image, for output channels k0..k1 of group g */
static void tinyi_conv_unit(const tinyi_conv *v, const tinyi_conv_plan *p, const tinyi_kernels *kernels, const float *f,
                            float *own, const int32_t *off, tiny_idx n, tiny_idx g, tiny_idx i0, tiny_idx j0,
                            tiny_idx k0, tiny_idx k1)
{
    const tinyi_fn_conv_strip_f32 kernel = TINYI_OF(kernels, conv_strip_f32);
    float *slab = own, *strip = slab + tinyi_conv_aligned(p->slab), *bias = strip + tinyi_conv_aligned(p->strip);
    tiny_idx taps = v->c * v->r * v->s, kg = g * v->k + k0, c0 = 0, c1, i, k;
    tiny_idx th = TINYI_MIN(p->th, v->oh - i0), tw = TINYI_MIN(p->tw, v->ow - j0);
    float *y = v->y + n * v->ys[0] + kg * v->ys[1] + i0 * v->ys[2] + j0 * v->ys[3];
    if (v->bias)
        for (k = k0; k < k1; k++) bias[k - k0] = v->bias[(g * v->k + k) * v->bs];
    do {
        int first = c0 == 0, relu;
        const float *w = f + kg * taps + c0 * v->r * v->s;
        size_t t;
        c1 = TINYI_MIN(v->c, c0 + p->cb);
        t = (size_t)((c1 - c0) * v->r * v->s);
        relu = v->relu && c1 == v->c;
        if (!p->in_place) tinyi_conv_pack(v, p, TINYI_OF(kernels, conv_pack_f32), slab, n, g, c0, c1, i0, j0);
        if (p->how == TINYI_CONV_DEPTH)
            for (k = k0; k < k1; k++) {
                float *to = y + (k - k0) * v->ys[1], start = v->bias ? bias[k - k0] : 0.0f;
                const float *wk = w + (k - k0) * taps;
                if (v->r == 3 && v->s == 3 && v->sh * v->sw * v->dh * v->dw == 1)
                    TINYI_OF(kernels, conv_depth3_f32)
                    (to, v->ys[2], slab, p->pitch, wk, start, (size_t)th, (size_t)tw, relu);
                else
                    TINYI_OF(kernels, conv_depth_f32)
                    (to, v->ys[2], slab, p->pitch, off, t, wk, start, (size_t)th, (size_t)tw, relu);
            }
        else if (p->how == TINYI_CONV_BY_STRIP)
            kernel(strip, p->q, slab, off, t, w, taps, v->bias ? bias : NULL, (size_t)(k1 - k0),
                   (size_t)((th - 1) * p->pitch + tw), first, relu);
        else if (p->how == TINYI_CONV_ONCE)
            kernel(y, v->ys[1], p->in_place ? v->x + n * v->xs[0] + g * v->c * v->xs[1] + i0 * v->xs[2] : slab, off, t,
                   w, taps, v->bias ? bias : NULL, (size_t)(k1 - k0), (size_t)(th * tw), first, relu);
        else
            for (k = k0; k < k1; k += 8)    /* a few channels over all rows: their weights stay near */
                for (i = 0; i < th; i++)
                    kernel(y + (k - k0) * v->ys[1] + i * v->ys[2], v->ys[1], slab + i * p->pitch, off, t,
                           w + (k - k0) * taps, taps, v->bias ? bias + (k - k0) : NULL,
                           (size_t)TINYI_MIN(k1 - k, (tiny_idx)8), (size_t)tw, first, relu);
        c0 = c1;
    } while (c0 < v->c);
    if (p->how != TINYI_CONV_BY_STRIP) return;
    for (k = k0; k < k1; k++, y += v->ys[1], strip += p->q)
        for (i = 0; i < th; i++) {
            float *to = y + i * v->ys[2];
            const float *from = strip + i * p->pitch;
            if (v->ys[3] == 1) memcpy(to, from, (size_t)tw * sizeof *to);
            else tinyi_row_scatter(to, from, tw, v->ys[3]);
        }
}

static void tinyi_conv_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_conv v;
    tinyi_conv_plan p;
    const float *f;
    float *own = (float *)team->own;
    int32_t *off;
    tiny_idx u, u1, kc, nk, each, total, grain, c, r, s;
    double flops;
    (void)TINYI_K(team, conv_strip_f32);
    tinyi_conv_read(&v, op);
    if (tinyi_conv_empty(&v)) return;
    tinyi_conv_make(&v, &p);
    f = v.f;
    if (!p.dense_f) {
        float *dense = (float *)team->shared;
        tiny_idx rows = v.g * v.k * v.c;
        while (tiny_take(team, rows, TINYI_MAX(16384 / (v.r * v.s), 1), &u, &u1))
            for (; u < u1; u++)
                for (r = 0; r < v.r; r++)
                    for (s = 0; s < v.s; s++)
                        dense[(u * v.r + r) * v.s + s] =
                            v.f[u / v.c * v.fs[0] + u % v.c * v.fs[1] + r * v.fs[2] + s * v.fs[3]];
        tiny_barrier(team);
        f = dense;
    }
    off = (int32_t *)(void *)(own + tinyi_conv_aligned(p.slab) + tinyi_conv_aligned(p.strip) +
                              tinyi_conv_aligned((size_t)p.kc));
    for (r = 0; r < v.r; r++)
        for (s = 0; s < v.s; s++) {
            tiny_idx at = ((r % p.ph * p.pw + s % p.pw) * p.rows + r * v.dh / v.sh) * p.pitch + s * v.dw / v.sw;
            for (c = 0; c < TINYI_MIN(p.cb, v.c); c++, at += p.plane) off[(c * v.r + r) * v.s + s] = (int32_t)at;
        }
    if (p.slab) memset(own + p.slab - TINYI_CONV_SLACK, 0, TINYI_CONV_SLACK * sizeof(float));
    /* too few tiles for the threads: fewer channels at a time */
    kc = p.kc;
    while (kc > 16 && v.n * v.g * p.nth * p.ntw * ((v.k + kc - 1) / kc) < 3 * (tiny_idx)team->n && team->n > 1)
        kc = (kc / 2 + 7) / 8 * 8;
    nk = (v.k + kc - 1) / kc;
    each = p.nth * p.ntw * nk;              /* pieces of one image and group */
    total = v.n * v.g * each;
    flops = 2.0 * (double)TINYI_MIN(kc, v.k) * (double)p.q * (double)(v.c * v.r * v.s);
    grain = flops > 1e6 ? 1 : (tiny_idx)(1e6 / (flops + 1e4)) + 1;
    while (tiny_take(team, total, grain, &u, &u1))
        for (; u < u1; u++) {
            tiny_idx tile = u, inside = 0, g, k0, i0 = 0, j0 = 0;
            if (each > 1) {
                tile = u / each;
                inside = u - tile * each;
                i0 = inside / (p.ntw * nk);
                inside -= i0 * (p.ntw * nk);
                j0 = inside / nk;
                inside -= j0 * nk;
            }
            k0 = inside * kc;
            g = v.n == 1 ? tile : tile % v.g;
            tinyi_conv_unit(&v, &p, team->k, f, own, off, v.n == 1 ? 0 : tile / v.g, g, i0 * p.th, j0 * p.tw, k0,
                            TINYI_MIN(v.k, k0 + kc));
        }
}

static void tinyi_conv_cost(const tiny_op *op, tiny_cost *cost)
{
    double taps = (double)tiny_tensor_count(op->in[1]) / (op->in[1]->dim[0] ? (double)op->in[1]->dim[0] : 1.0);
    cost->flops = 2.0 * taps * (double)tiny_tensor_count(op->out[0]);
    cost->bytes = 4.0 * ((double)tiny_tensor_count(op->in[0]) + (double)tiny_tensor_count(op->in[1]) +
                         (double)tiny_tensor_count(op->out[0]));
}

static double tinyi_conv_terms(const tiny_op *op)
{
    return (double)tiny_tensor_count(op->in[1]) / (op->in[1]->dim[0] ? (double)op->in[1]->dim[0] : 1.0) + 1.0;
}

/* ---- cases */

static void tinyi_conv_case(tiny_case *c, int rank, int depth, tiny_idx groups, tiny_idx taps_h, tiny_idx taps_w,
                            tiny_idx h, tiny_idx w)
{
    tiny_idx dim[4];
    tiny_idx cg = depth ? 1 : tiny_case_dim(c, 40), kg = depth ? 1 + tiny_case_pick(c, 2) : tiny_case_dim(c, 40);
    dim[0] = 1 + tiny_case_pick(c, 2);
    dim[1] = cg * groups;
    dim[2] = rank == 3 ? w : h;
    dim[3] = w;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    dim[0] = kg * groups;
    dim[1] = cg;
    dim[2] = rank == 3 ? taps_w : taps_h;
    dim[3] = taps_w;
    c->in[1] = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    c->in[2] = tiny_tensor_1d(NULL, TINY_F32, dim[0]);
    if (tiny_case_pick(c, 2)) c->in[2].rank = -1;
    c->fill[0] = c->fill[1] = c->fill[2] = TINY_FILL_NORMAL;
}

static void tinyi_conv2d_cases(tiny_case *c)
{
    tiny_conv2d_params *p = (tiny_conv2d_params *)(void *)&c->params;
    tiny_idx t[2], in[2];
    /* plain: the 3 x 3 of image models */
    int i, plain = c->index % 5 == 2, depth = tiny_case_pick(c, 4) == 0 || c->index % 10 == 2;
    memset(p, 0, sizeof *p);
    for (i = 0; i < 2; i++) {
        t[i] = 1 + tiny_case_pick(c, tiny_case_pick(c, 4) ? 3 : 7);
        p->stride[i] = tiny_case_pick(c, 4);
        p->dilation[i] = tiny_case_pick(c, 3);
        p->pad[i] = tiny_case_pick(c, 4);
        p->pad[2 + i] = tiny_case_pick(c, 4);
        if (plain) t[i] = 3, p->stride[i] = p->dilation[i] = 1;
        in[i] = (t[i] - 1) * tinyi_conv_or1(p->dilation[i]) + tiny_case_dim(c, i ? 70 : 20);
    }
    p->groups = tiny_case_pick(c, 4);
    p->relu = tiny_case_pick(c, 2);
    tinyi_conv_case(c, 4, depth, tinyi_conv_or1(p->groups), t[0], t[1], in[0], in[1]);
}

static void tinyi_conv1d_cases(tiny_case *c)
{
    tiny_conv1d_params *p = (tiny_conv1d_params *)(void *)&c->params;
    tiny_idx t = 1 + tiny_case_pick(c, tiny_case_pick(c, 4) ? 4 : 20), length;
    /* drawn in statements of their own: compilers order arguments as they like */
    int depthwise;
    memset(p, 0, sizeof *p);
    p->stride = tiny_case_pick(c, 4);
    p->dilation = tiny_case_pick(c, 4);
    p->pad_left = tiny_case_pick(c, 10);
    p->pad_right = tiny_case_pick(c, 3);
    p->groups = tiny_case_pick(c, 4);
    p->relu = tiny_case_pick(c, 2);
    depthwise = tiny_case_pick(c, 4) == 0;
    length = (t - 1) * tinyi_conv_or1(p->dilation) + tiny_case_dim(c, 1500);
    tinyi_conv_case(c, 3, depthwise, tinyi_conv_or1(p->groups), 1, t, 1, length);
}

static const short tinyi_kernels_of_conv[] = { TINYI_K_conv_strip_f32, TINYI_K_conv_depth_f32, TINYI_K_conv_depth3_f32,
                                               TINYI_K_conv_pack_f32, -1 };
TINYI_ROW tinyi_row_conv2d = TINYI_ROW_OF("conv2d", TINY_OP_CONV2D, TAKES(3, 2), GIVES(1), PARAMS(tiny_conv2d_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_conv2d_shape), REFERENCE(tinyi_conv_ref_op), FAST(tinyi_conv_fast, tinyi_conv_work),
    COST(tinyi_conv_cost), CASES(tinyi_conv2d_cases), BOUND(TINY_BOUND_LINEAR, 3.0, 1.0), TERMS(tinyi_conv_terms),
    GRADIENT(tinyi_grad_conv), KERNELS(tinyi_kernels_of_conv),
    SAYS("y[k,i,j] = bias[k] + sum_crs w[k,c,r,s] x[c, i*sh-pt+r*dh, j*sw-pl+s*dw]"));
TINYI_ROW tinyi_row_conv1d = TINYI_ROW_OF("conv1d", TINY_OP_CONV1D, TAKES(3, 2), GIVES(1), PARAMS(tiny_conv1d_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_conv1d_shape), REFERENCE(tinyi_conv_ref_op), FAST(tinyi_conv_fast, tinyi_conv_work),
    COST(tinyi_conv_cost), CASES(tinyi_conv1d_cases), BOUND(TINY_BOUND_LINEAR, 3.0, 1.0), TERMS(tinyi_conv_terms),
    GRADIENT(tinyi_grad_conv), KERNELS(tinyi_kernels_of_conv),
    SAYS("y[k,j] = bias[k] + sum_cs w[k,c,s] x[c, j*stride-pad+s*dilation]"));

/* ---- the typed calls */

static tiny_status tinyi_conv_run(tiny_ctx *ctx, int kind, const tiny_tensor *x, const tiny_tensor *w,
                                  const tiny_tensor *bias, const void *params, const tiny_tensor *y)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.in[0] = x;
    op.in[1] = w;
    op.in[2] = bias;
    op.out[0] = y;
    op.params = params;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tiny_conv2d(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *w, const tiny_tensor *bias,
                                 const tiny_conv2d_params *params, const tiny_tensor *y)
{
    return tinyi_conv_run(ctx, TINY_OP_CONV2D, x, w, bias, params, y);
}

TINY_API tiny_status tiny_conv1d(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *w, const tiny_tensor *bias,
                                 const tiny_conv1d_params *params, const tiny_tensor *y)
{
    return tinyi_conv_run(ctx, TINY_OP_CONV1D, x, w, bias, params, y);
}

