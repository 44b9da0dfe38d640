/* src/llm/lab/vision/merge.c - merging with re-activation, and its gradient: two operations
 * Paper    Y. Xiong et al., 2024 (arXiv 2403.09192), the authors' code; merging: D. Bolya et al., 2022 (arXiv
 *          2210.09461).
 * Formula  of one image, pairs i = 1 .. r with tokens src_i and dst_i, s the sizes:
 *            e_i = s x (src_i) + s x (dst_i);  h_i = (e_i - mean) / sqrt(var + eps);  Z_i = g h_i + b
 *            w1 = 2 sigmoid(sum_i pa_i Z_i);  w2_i = 2 sigmoid(Z_i . pb) - 1
 *            y[o] = (s x (from_o) + sum of s x (src_i) (1 + w1 w2_i) over i that go to o) / sum of s
 *          back, G_i = dy[o] / sum of s, P_i = G_i s x (src_i):
 *            dw1 = sum_i w2_i P_i, du = dw1 w1 (1 - w1 / 2);  dv_i = (P_i . w1) (1 - w2_i^2) / 2
 *            d_pa_i = Z_i . du;  d_pb = sum dv_i Z_i;  dZ_i = pa_i du + dv_i pb;  dg = sum dZ_i h_i, db = sum dZ_i
 *            dh = g dZ_i;  de_i = (dh - mean dh - h_i mean(dh h_i)) / sqrt(var + eps)
 *            dx[src_i] = s (G_i (1 + w1 w2_i) + de_i);  dx[dst_i] += s de_i;  dx[from_o] += s G
 *          The match and the sizes have no gradient.
 * Threads  forward: the weights of an image are one task, then each output is one; backward: an image is one task.
 *          Images are summed in order.
 * Cost     4 t d numbers moved, 10 r d flops for the weights, 30 r d backward: thousandths of a block.
 * Error    a sum of at most 20 terms of the cases is off by 20 u of its largest term. u_j, with |pa| <= 4 and |Z| <= 5,
 *          by (20 + 12) u sum |pa Z| < 1100 u in the worst case and 100 u where signs mix; w1 by half of that, and it
 *          is multiplied by a w2 below 1 and a share of y: SCALE 400 u.
 *          Back the same numbers are summed again over r and d: 2000 u of the largest number of each output.
 * Left out gradients of sizes: they count tokens. */
#include "llm/ops.h"
#include "llm/lab/vision/merge.h"
#include "math/table_inside.h"
#include "math/tape.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

enum { TINYI_TMERGE_PA, TINYI_TMERGE_PB, TINYI_TMERGE_G, TINYI_TMERGE_B };

typedef struct tinyi_tmerge {
    const tiny_tensor *x, *size, *dy, *w[4];
    tinyi_tome m;
    tiny_idx t, r, batch, d;
    double eps;
    tiny_dtype type;
} tinyi_tmerge;

static int tinyi_tmerge_read(const tiny_op *op, int back, tinyi_tmerge *a)
{
    const tllm_merge_params *p = (const tllm_merge_params *)op->params;
    int i;
    a->x = op->in[TINYI_TMERGE_X];
    a->size = op->in[TINYI_TMERGE_SIZE];
    a->dy = back ? op->in[TINYI_TMERGE_W] : NULL;
    for (i = 0; i < 4; i++) a->w[i] = op->in[TINYI_TMERGE_W + back + i];
    a->t = a->x->dim[0];
    a->batch = a->x->dim[1];
    a->d = a->x->dim[2];
    a->eps = p && p->eps > 0.0f ? (double)p->eps : 1e-5;
    a->type = a->x->dtype;
    if (!tinyi_tome_read(op->in[TINYI_TMERGE_MATCH], a->t, a->batch, &a->m)) return 0;
    a->r = a->m.r;
    return 1;
}

static tiny_status tinyi_tmerge_check(tiny_ctx *ctx, const tiny_op *op, int back, tinyi_tmerge *a)
{
    const char *name = back ? "merge_backward" : "merge";
    const tiny_tensor *x = op->in[TINYI_TMERGE_X], *size = op->in[TINYI_TMERGE_SIZE],
                      *match = op->in[TINYI_TMERGE_MATCH];
    const tllm_merge_params *p = (const tllm_merge_params *)op->params;
    char have[96], room[96];
    size_t count;
    int i, given = 0;
    if (!tinyi_is_real(x) || x->rank != 3)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is %s, it must be (tokens, batch, numbers) of f32 or f64", name,
                          tinyi_shape_text(x, have));
    if (size->dtype != x->dtype || size->rank != 2 || size->dim[0] != x->dim[0] || size->dim[1] != x->dim[1] ||
        !tiny_tensor_is_dense(size))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "%s: sizes are %s, they must be dense (tokens, batch) of the type of x, %s", name,
                          tinyi_shape_text(size, have), tinyi_shape_text(x, room));
    if (!tinyi_tmerge_read(op, back, a))
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "%s: the match is %s, it must be dense i32, %td + r x %td, with r at most half of %td tokens (%d at most)",
            name, tinyi_shape_text(match, have), 2 * x->dim[0], x->dim[1], x->dim[0], TLLM_TOME_TOKENS);
    for (i = 0; i < 4; i++) given += a->w[i] != NULL;
    if (given != 0 && given != 4)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: pa, pb, norm_g and norm_b go together", name);
    for (i = 0; i < given; i++)
        if (a->w[i]->dtype != x->dtype || a->w[i]->rank != 1 ||
            a->w[i]->dim[0] != (i == TINYI_TMERGE_PA ? a->r : a->d) || !tiny_tensor_is_dense(a->w[i]))
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %s, it must be dense, %td numbers of the type of x%s", name,
                              i == 0   ? "pa"
                              : i == 1 ? "pb"
                              : i == 2 ? "norm_g"
                                       : "norm_b",
                              tinyi_shape_text(a->w[i], have), i == TINYI_TMERGE_PA ? a->r : a->d,
                              i == TINYI_TMERGE_PA ? ": it was learnt for that many merges" : "");
    if (given && a->r > TLLM_PYRA_PAIRS)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: %td pairs with weights, %d at most", name, a->r,
                          TLLM_PYRA_PAIRS);
    if (p && !(p->eps >= 0.0f && p->eps < 1.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: eps %g is not between 0 and 1", name, (double)p->eps);
    /* workspace: rows of d for each pair of an image, and some for each image; views of stride 0 may be longer than any
     * memory */
    if (!tinyi_size_mul((size_t)a->r + 16, (size_t)a->d + 16, &count) || !tinyi_size_mul(count, 4, &count) ||
        !tinyi_size_add((size_t)a->d, (size_t)a->r + 16, &count) || !tinyi_size_mul(count, (size_t)a->batch, &count) ||
        count > SIZE_MAX / 64)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "%s: %td images with rows of %td numbers are more than can be addressed", name, a->batch,
                          a->d);
    /* data, but it leads to memory; not there while only shapes are asked for */
    return op->out[0] && match->data ? tinyi_tome_check(ctx, name, &a->m) : TINY_OK;
}

static tiny_status tinyi_tmerge_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    tinyi_tmerge a;
    tiny_idx dim[3];
    const tiny_status st = tinyi_tmerge_check(ctx, op, 0, &a);
    if (st) return st;
    dim[0] = a.t - a.r; dim[1] = a.batch; dim[2] = a.d;
    tinyi_want(want, a.type, 3, dim);
    return TINY_OK;
}

static tiny_status tinyi_tmerge_backward_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    tinyi_tmerge a;
    tiny_idx dim[2];
    char have[96];
    const tiny_status st = tinyi_tmerge_check(ctx, op, 1, &a);
    if (st) return st;
    if (a.dy->dtype != a.type || a.dy->rank != 3 || a.dy->dim[0] != a.t - a.r || a.dy->dim[1] != a.batch ||
        a.dy->dim[2] != a.d)
        return tinyi_fail(ctx, TINY_E_SHAPE, "merge_backward: dy is %s, it must be (%td, %td, %td) of the type of x",
                          tinyi_shape_text(a.dy, have), a.t - a.r, a.batch, a.d);
    dim[0] = 3; dim[1] = a.d;
    tinyi_want(&want[0], a.type, 3, a.x->dim);
    tinyi_want(&want[1], a.type, 1, &a.r);
    tinyi_want(&want[2], a.type, 2, dim);
    return TINY_OK;
}

/* ---- reference: every number out of the formula when it is asked for */

TINY_REF_BEGIN
static double tinyi_tmerge_at(const tiny_tensor *x, tiny_idx t, tiny_idx b, tiny_idx j)
{
    return tinyi_real(x->data, x->dtype, t * x->stride[0] + b * x->stride[1] + j * x->stride[2]);
}
static double tinyi_tmerge_size(const tinyi_tmerge *a, tiny_idx t, tiny_idx b)
{
    return tinyi_real(a->size->data, a->type, t * a->batch + b);
}
static double tinyi_tmerge_w(const tinyi_tmerge *a, int which, tiny_idx i)
{
    return tinyi_real(a->w[which]->data, a->type, i);
}
static tiny_idx tinyi_tmerge_src(const tinyi_tmerge *a, tiny_idx i, tiny_idx b) { return a->m.src[i * a->batch + b]; }
static tiny_idx tinyi_tmerge_dst(const tinyi_tmerge *a, tiny_idx i, tiny_idx b) { return a->m.dst[i * a->batch + b]; }
static tiny_idx tinyi_tmerge_goes(const tinyi_tmerge *a, tiny_idx i, tiny_idx b)
{
    return a->m.to[tinyi_tmerge_src(a, i, b) * a->batch + b];
}
static double tinyi_tmerge_source(const tinyi_tmerge *a, tiny_idx i, tiny_idx b, tiny_idx j)
{
    return tinyi_tmerge_size(a, tinyi_tmerge_src(a, i, b), b) * tinyi_tmerge_at(a->x, tinyi_tmerge_src(a, i, b), b, j);
}
/* the size of an output, and whether anything merges into it */
static double tinyi_tmerge_sum(const tinyi_tmerge *a, tiny_idx o, tiny_idx b, int *merged)
{
    double s = tinyi_tmerge_size(a, a->m.from[o * a->batch + b], b);
    tiny_idx i;
    for (*merged = 0, i = 0; i < a->r; i++)
        if (tinyi_tmerge_goes(a, i, b) == o) {
            s += tinyi_tmerge_size(a, tinyi_tmerge_src(a, i, b), b);
            *merged = 1;
        }
    return s;
}

typedef struct tinyi_tmerge_ref {            /* of one image */
    const tinyi_tmerge *a;
    tiny_idx b;
    double mean[TLLM_PYRA_PAIRS], r[TLLM_PYRA_PAIRS], w2[TLLM_PYRA_PAIRS];
} tinyi_tmerge_ref;

static double tinyi_tmerge_e(const tinyi_tmerge *a, tiny_idx i, tiny_idx b, tiny_idx j)
{
    return tinyi_tmerge_source(a, i, b, j) +
           tinyi_tmerge_size(a, tinyi_tmerge_dst(a, i, b), b) * tinyi_tmerge_at(a->x, tinyi_tmerge_dst(a, i, b), b, j);
}
static double tinyi_tmerge_h(const tinyi_tmerge_ref *f, tiny_idx i, tiny_idx j)
{
    return (tinyi_tmerge_e(f->a, i, f->b, j) - f->mean[i]) * f->r[i];
}
static double tinyi_tmerge_z(const tinyi_tmerge_ref *f, tiny_idx i, tiny_idx j)
{
    return tinyi_tmerge_w(f->a, TINYI_TMERGE_G, j) * tinyi_tmerge_h(f, i, j) + tinyi_tmerge_w(f->a, TINYI_TMERGE_B, j);
}
static double tinyi_tmerge_twice_sigmoid(double x) { return 2.0 / (1.0 + tinyi_exp64(-x)); }
static double tinyi_tmerge_w1(const tinyi_tmerge_ref *f, tiny_idx j)
{
    double u = 0.0;
    tiny_idx i;
    for (i = 0; i < f->a->r; i++) u += tinyi_tmerge_w(f->a, TINYI_TMERGE_PA, i) * tinyi_tmerge_z(f, i, j);
    return tinyi_tmerge_twice_sigmoid(u);
}

static void tinyi_tmerge_ref_open(tinyi_tmerge_ref *f, const tinyi_tmerge *a, tiny_idx b)
{
    tiny_idx i, j;
    f->a = a;
    f->b = b;
    for (i = 0; i < a->r && a->w[0]; i++) {
        double sum = 0.0, var = 0.0, v = 0.0;
        for (j = 0; j < a->d; j++) sum += tinyi_tmerge_e(a, i, b, j);
        f->mean[i] = sum / (double)TINYI_MAX(a->d, 1);
        for (j = 0; j < a->d; j++) {
            const double e = tinyi_tmerge_e(a, i, b, j) - f->mean[i];
            var += e * e;
        }
        f->r[i] = 1.0 / tinyi_sqrt64(var / (double)TINYI_MAX(a->d, 1) + a->eps);
        for (j = 0; j < a->d; j++) v += tinyi_tmerge_z(f, i, j) * tinyi_tmerge_w(a, TINYI_TMERGE_PB, j);
        f->w2[i] = tinyi_tmerge_twice_sigmoid(v) - 1.0;
    }
}

static void tinyi_tmerge_ref_run(const tiny_op *op)
{
    const tiny_tensor *y = op->out[0];
    tinyi_tmerge_ref f;
    tinyi_tmerge a;
    tiny_idx b, o, i, j;
    if (!tinyi_tmerge_read(op, 0, &a)) return;
    for (b = 0; b < a.batch; b++) {
        tinyi_tmerge_ref_open(&f, &a, b);
        for (o = 0; o < a.t - a.r; o++) {
            const tiny_idx from = a.m.from[o * a.batch + b];
            int merged;
            const double s = tinyi_tmerge_sum(&a, o, b, &merged);
            for (j = 0; j < a.d; j++) {
                double sum = tinyi_tmerge_size(&a, from, b) * tinyi_tmerge_at(a.x, from, b, j);
                for (i = 0; i < a.r; i++)
                    if (tinyi_tmerge_goes(&a, i, b) == o)
                        sum +=
                            tinyi_tmerge_source(&a, i, b, j) * (a.w[0] ? 1.0 + tinyi_tmerge_w1(&f, j) * f.w2[i] : 1.0);
                tinyi_real_set(y->data, a.type, o * y->stride[0] + b * y->stride[1] + j * y->stride[2],
                               merged ? sum / s : tinyi_tmerge_at(a.x, from, b, j));
            }
        }
    }
}

/* dL/d(size x (src_i)) that comes from y, before the weights */
static double tinyi_tmerge_given(const tinyi_tmerge *a, tiny_idx i, tiny_idx b, tiny_idx j)
{
    const tiny_idx o = tinyi_tmerge_goes(a, i, b);
    int merged;
    return tinyi_tmerge_at(a->dy, o, b, j) / tinyi_tmerge_sum(a, o, b, &merged);
}
static double tinyi_tmerge_du(const tinyi_tmerge_ref *f, tiny_idx j)
{
    const double w1 = tinyi_tmerge_w1(f, j);
    double sum = 0.0;
    tiny_idx i;
    for (i = 0; i < f->a->r; i++)
        sum += tinyi_tmerge_given(f->a, i, f->b, j) * tinyi_tmerge_source(f->a, i, f->b, j) * f->w2[i];
    return sum * w1 * (1.0 - 0.5 * w1);
}
static void tinyi_tmerge_more(const tiny_tensor *y, tiny_idx at, double x)
{
    tinyi_real_set(y->data, y->dtype, at, tinyi_real(y->data, y->dtype, at) + x);
}
static void tinyi_tmerge_clear(const tiny_tensor *y)
{
    tiny_idx i, j;
    for (i = 0; i < tinyi_row_count(y); i++)
        for (j = 0; j < tinyi_row_length(y); j++)
            tinyi_real_set(y->data, y->dtype, tinyi_row_at(y, i) + j * tinyi_row_step(y), 0.0);
}

/* Sums over images, and those into a target of several sources, are rounded at each addend. */
static void tinyi_tmerge_ref_pair(const tinyi_tmerge_ref *f, const tiny_op *op, tiny_idx i)
{
    const tinyi_tmerge *a = f->a;
    const tiny_tensor *dx = op->out[0], *dn = op->out[2];
    const tiny_idx b = f->b, src = tinyi_tmerge_src(a, i, b) * dx->stride[0] + b * dx->stride[1],
                   dst = tinyi_tmerge_dst(a, i, b) * dx->stride[0] + b * dx->stride[1];
    const double s = tinyi_tmerge_size(a, tinyi_tmerge_src(a, i, b), b),
                 s_dst = tinyi_tmerge_size(a, tinyi_tmerge_dst(a, i, b), b);
    double dv = 0.0, d_pa = 0.0, mean = 0.0, slope = 0.0;
    tiny_idx j;
    for (j = 0; j < a->d; j++)
        dv += tinyi_tmerge_given(a, i, b, j) * tinyi_tmerge_source(a, i, b, j) * tinyi_tmerge_w1(f, j);
    dv *= 0.5 * (1.0 - f->w2[i] * f->w2[i]);
    for (j = 0; j < a->d; j++) {
        const double du = tinyi_tmerge_du(f, j), z = tinyi_tmerge_z(f, i, j), h = tinyi_tmerge_h(f, i, j),
                     dz = tinyi_tmerge_w(a, TINYI_TMERGE_PA, i) * du + dv * tinyi_tmerge_w(a, TINYI_TMERGE_PB, j);
        d_pa += z * du;
        tinyi_tmerge_more(dn, j * dn->stride[1], dv * z);
        tinyi_tmerge_more(dn, dn->stride[0] + j * dn->stride[1], dz * h);
        tinyi_tmerge_more(dn, 2 * dn->stride[0] + j * dn->stride[1], dz);
        mean += tinyi_tmerge_w(a, TINYI_TMERGE_G, j) * dz;
        slope += tinyi_tmerge_w(a, TINYI_TMERGE_G, j) * dz * h;
    }
    tinyi_tmerge_more(op->out[1], i * op->out[1]->stride[0], d_pa);
    for (j = 0; j < a->d; j++) {
        const double dz =
            tinyi_tmerge_w(a, TINYI_TMERGE_PA, i) * tinyi_tmerge_du(f, j) + dv * tinyi_tmerge_w(a, TINYI_TMERGE_PB, j);
        const double de = f->r[i] * (tinyi_tmerge_w(a, TINYI_TMERGE_G, j) * dz - mean / (double)a->d -
                                     tinyi_tmerge_h(f, i, j) * slope / (double)a->d);
        tinyi_real_set(dx->data, a->type, src + j * dx->stride[2],
                       s * (tinyi_tmerge_given(a, i, b, j) * (1.0 + tinyi_tmerge_w1(f, j) * f->w2[i]) + de));
        tinyi_tmerge_more(dx, dst + j * dx->stride[2], s_dst * de);
    }
}

static void tinyi_tmerge_ref_back(const tiny_op *op)
{
    const tiny_tensor *dx = op->out[0];
    tinyi_tmerge_ref f;
    tinyi_tmerge a;
    tiny_idx b, o, i, j;
    if (!tinyi_tmerge_read(op, 1, &a)) return;
    tinyi_tmerge_clear(op->out[1]);
    tinyi_tmerge_clear(op->out[2]);
    for (b = 0; b < a.batch; b++) {
        tinyi_tmerge_ref_open(&f, &a, b);
        for (o = 0; o < a.t - a.r; o++) {
            const tiny_idx from = a.m.from[o * a.batch + b];
            int merged;
            const double s = tinyi_tmerge_sum(&a, o, b, &merged),
                         share = merged ? tinyi_tmerge_size(&a, from, b) / s : 1.0;
            for (j = 0; j < a.d; j++)
                tinyi_real_set(dx->data, a.type, from * dx->stride[0] + b * dx->stride[1] + j * dx->stride[2],
                               share * tinyi_tmerge_at(a.dy, o, b, j));
        }
        for (i = 0; i < a.r; i++) {
            const tiny_idx src = tinyi_tmerge_src(&a, i, b);
            if (a.w[0]) tinyi_tmerge_ref_pair(&f, op, i);
            else for (j = 0; j < a.d; j++)
                    tinyi_real_set(dx->data, a.type, src * dx->stride[0] + b * dx->stride[1] + j * dx->stride[2],
                                   tinyi_tmerge_size(&a, src, b) * tinyi_tmerge_given(&a, i, b, j));
        }
    }
}
TINY_REF_END

/* ---- fast: rows of d numbers, with the kernels that the house has */

typedef struct tinyi_tmerge_fast {
    tinyi_tmerge a;
    tinyi_fn_axpy_f32 axpy;
    tinyi_fn_dot_f32 dot;
    tinyi_fn_sum_f32 sum;
    tinyi_fn_scale_f32 scale;
    tinyi_fn_binary_f32 binary;
    tinyi_fn_layernorm_f32 norm;
    tinyi_fn_sigmoid_f32 sigmoid;
    size_t n;
    const float *pa, *pb, *g, *b;
    float *row[6];                          /* of this thread */
    float *h;                               /* (r, d) of this thread, backward */
    float *w1, *w2;                         /* shared: (batch, d), (batch, r) */
    float *sums;                            /* shared, backward: (batch, r + 3 d) */
} tinyi_tmerge_fast;

static size_t tinyi_tmerge_round(size_t n) { return (n + 15) / 16 * 16; }

static void tinyi_tmerge_work_of(const tiny_op *op, int back, size_t *shared_bytes, size_t *own_bytes)
{
    tinyi_tmerge a;
    size_t d, r;
    *shared_bytes = *own_bytes = 0;
    if (!tinyi_tmerge_read(op, back, &a)) return;
    d = tinyi_tmerge_round((size_t)a.d);
    r = (size_t)a.r;
    *own_bytes = (6 * d + (back && a.w[0] ? r * d + r : 0)) * sizeof(float);
    if (a.w[0])
        *shared_bytes = ((size_t)a.batch * (d + r) + (back ? (size_t)a.batch * (r + 3 * d) : 0)) * sizeof(float);
}
static void tinyi_tmerge_work(const tiny_op *op, int n, size_t *shared_bytes, size_t *own_bytes)
{
    (void)n;
    tinyi_tmerge_work_of(op, 0, shared_bytes, own_bytes);
}
static void tinyi_tmerge_backward_work(const tiny_op *op, int n, size_t *shared_bytes, size_t *own_bytes)
{
    (void)n;
    tinyi_tmerge_work_of(op, 1, shared_bytes, own_bytes);
}

static int tinyi_tmerge_fast_open(tiny_team *team, const tiny_op *op, int back, tinyi_tmerge_fast *f)
{
    size_t d;
    int i;
    if (!tinyi_tmerge_read(op, back, &f->a)) return 0;
    d = tinyi_tmerge_round((size_t)f->a.d);
    f->n = (size_t)f->a.d;
    f->dot = TINYI_K(team, dot_f32);
    f->sum = TINYI_K(team, sum_f32);
    f->scale = TINYI_K(team, scale_f32);
    f->binary = TINYI_K(team, binary_f32);
    f->norm = TINYI_K(team, layernorm_f32);
    f->sigmoid = TINYI_K(team, sigmoid_f32);
    f->axpy = TINYI_K(team, axpy_f32);
    for (i = 0; i < 6; i++) f->row[i] = (float *)team->own + (size_t)i * d;
    f->h = f->row[5] + d;
    if (!f->a.w[0]) return 1;
    f->pa = (const float *)f->a.w[TINYI_TMERGE_PA]->data;
    f->pb = (const float *)f->a.w[TINYI_TMERGE_PB]->data;
    f->g = (const float *)f->a.w[TINYI_TMERGE_G]->data;
    f->b = (const float *)f->a.w[TINYI_TMERGE_B]->data;
    f->w1 = (float *)team->shared;
    f->w2 = f->w1 + (size_t)f->a.batch * d;
    f->sums = f->w2 + f->a.batch * f->a.r;
    return 1;
}

/* a row of x where it is, or copied to room */
static const float *tinyi_tmerge_row(const tiny_tensor *x, tiny_idx t, tiny_idx b, float *room)
{
    const float *at = (const float *)x->data + t * x->stride[0] + b * x->stride[1];
    if (x->dim[2] <= 1 || x->stride[2] == 1) return at;
    tinyi_row_gather(room, at, x->dim[2], x->stride[2]);
    return room;
}
static void tinyi_tmerge_store(const tinyi_tmerge_fast *f, const tiny_tensor *y, tiny_idx t, tiny_idx b,
                               const float *row)
{
    float *at = (float *)y->data + t * y->stride[0] + b * y->stride[1];
    if (y->dim[2] <= 1 || y->stride[2] == 1) {
        if (at != row) memcpy(at, row, f->n * sizeof *row);
    } else tinyi_row_scatter(at, row, y->dim[2], y->stride[2]);
}
static float tinyi_tmerge_size_f32(const tinyi_tmerge *a, tiny_idx t, tiny_idx b)
{
    return ((const float *)a->size->data)[t * a->batch + b];
}
static float tinyi_tmerge_sum_f32(const tinyi_tmerge *a, tiny_idx o, tiny_idx b, int *merged)
{
    float s = tinyi_tmerge_size_f32(a, a->m.from[o * a->batch + b], b);
    tiny_idx i;
    for (*merged = 0, i = 0; i < a->r; i++)
        if (tinyi_tmerge_goes(a, i, b) == o) {
            s += tinyi_tmerge_size_f32(a, tinyi_tmerge_src(a, i, b), b);
            *merged = 1;
        }
    return s;
}

/* e_i to row 0 */
static void tinyi_tmerge_pair_row(const tinyi_tmerge_fast *f, tiny_idx i, tiny_idx b)
{
    const tinyi_tmerge *a = &f->a;
    const tiny_idx src = tinyi_tmerge_src(a, i, b), dst = tinyi_tmerge_dst(a, i, b);
    f->scale(f->row[0], tinyi_tmerge_row(a->x, src, b, f->row[5]), f->n, tinyi_tmerge_size_f32(a, src, b), 0.0f);
    f->axpy(f->row[0], tinyi_tmerge_row(a->x, dst, b, f->row[5]), f->n, tinyi_tmerge_size_f32(a, dst, b));
}

/* w1 and w2 of an image; rows 0, 1 and 5 are used */
static void tinyi_tmerge_weights(const tinyi_tmerge_fast *f, tiny_idx b)
{
    const tinyi_tmerge *a = &f->a;
    float *w1 = f->w1 + (size_t)b * tinyi_tmerge_round(f->n), *w2 = f->w2 + b * a->r;
    tiny_idx i;
    memset(w1, 0, f->n * sizeof *w1);
    for (i = 0; i < a->r && f->n; i++) {
        tinyi_tmerge_pair_row(f, i, b);
        f->norm(f->row[1], f->row[0], f->g, f->b, f->n, (float)a->eps);
        f->axpy(w1, f->row[1], f->n, f->pa[i]);
        w2[i] = 2.0f * tinyi_sigmoid_ref(f->dot(f->row[1], f->pb, f->n)) - 1.0f;
    }
    f->sigmoid(w1, w1, f->n);
    f->scale(w1, w1, f->n, 2.0f, 0.0f);
}

static void tinyi_tmerge_output(const tinyi_tmerge_fast *f, const tiny_tensor *y, tiny_idx o, tiny_idx b)
{
    const tinyi_tmerge *a = &f->a;
    const tiny_idx from = a->m.from[o * a->batch + b];
    const float *x = tinyi_tmerge_row(a->x, from, b, f->row[5]);
    tiny_idx i;
    int merged;
    const float s = tinyi_tmerge_sum_f32(a, o, b, &merged);
    float *at = (float *)y->data + o * y->stride[0] + b * y->stride[1];
    if (!merged) {
        tinyi_tmerge_store(f, y, o, b, x);
        return;
    }
    if (y->dim[2] > 1 && y->stride[2] != 1) at = f->row[0];
    f->scale(at, x, f->n, tinyi_tmerge_size_f32(a, from, b), 0.0f);
    for (i = 0; i < a->r; i++) {
        const tiny_idx src = tinyi_tmerge_src(a, i, b);
        const float *of = at;
        if (tinyi_tmerge_goes(a, i, b) != o) continue;
        of = tinyi_tmerge_row(a->x, src, b, f->row[5]);
        if (a->w[0]) {
            f->scale(f->row[1], f->w1 + (size_t)b * tinyi_tmerge_round(f->n), f->n, f->w2[b * a->r + i], 1.0f);
            f->binary(TINYI_BINARY_MUL, f->row[1], f->row[1], of, f->n, 1, 1);
            of = f->row[1];
        }
        f->axpy(at, of, f->n, tinyi_tmerge_size_f32(a, src, b));
    }
    f->binary(TINYI_BINARY_DIV, at, at, &s, f->n, 1, 0);
    tinyi_tmerge_store(f, y, o, b, at);
}

static void tinyi_tmerge_fast_run(tiny_team *team, const tiny_op *op)
{
    tinyi_tmerge_fast f;
    tiny_idx i, end;
    if (!tinyi_tmerge_fast_open(team, op, 0, &f)) return;
    if (f.a.w[0]) {
        while (tiny_take(team, f.a.batch, 1, &i, &end)) for (; i < end; i++) tinyi_tmerge_weights(&f, i);
        tiny_barrier(team);
    }
    while (tiny_take(team, (f.a.t - f.a.r) * f.a.batch, 16, &i, &end))
        for (; i < end && f.n; i++) tinyi_tmerge_output(&f, op->out[0], i / f.a.batch, i % f.a.batch);
}

/* y[at of token t] += alpha row */
static void tinyi_tmerge_to(const tinyi_tmerge_fast *f, const tiny_tensor *y, tiny_idx t, tiny_idx b, const float *row,
                            float alpha)
{
    float *at = (float *)y->data + t * y->stride[0] + b * y->stride[1];
    tiny_idx j;
    if (y->dim[2] <= 1 || y->stride[2] == 1) f->axpy(at, row, f->n, alpha);
    else for (j = 0; j < y->dim[2]; j++) at[j * y->stride[2]] += alpha * row[j];
}

/* G_i to row 2, P_i to row 3 */
static void tinyi_tmerge_given_row(const tinyi_tmerge_fast *f, tiny_idx i, tiny_idx b)
{
    const tinyi_tmerge *a = &f->a;
    const tiny_idx src = tinyi_tmerge_src(a, i, b), o = tinyi_tmerge_goes(a, i, b);
    int merged;
    const float s = tinyi_tmerge_sum_f32(a, o, b, &merged);
    f->binary(TINYI_BINARY_DIV, f->row[2], tinyi_tmerge_row(a->dy, o, b, f->row[5]), &s, f->n, 1, 0);
    f->scale(f->row[3], tinyi_tmerge_row(a->x, src, b, f->row[5]), f->n, tinyi_tmerge_size_f32(a, src, b), 0.0f);
    f->binary(TINYI_BINARY_MUL, f->row[3], f->row[3], f->row[2], f->n, 1, 1);
}

/* 1 / sqrt(var + eps) of row 0 */
TINY_REF_BEGIN
static float tinyi_tmerge_spread(const tinyi_tmerge_fast *f)
{
    double sum = 0.0, var = 0.0;
    size_t j;
    for (j = 0; j < f->n; j++) sum += (double)f->row[0][j];
    sum /= (double)f->n;
    for (j = 0; j < f->n; j++) var += ((double)f->row[0][j] - sum) * ((double)f->row[0][j] - sum);
    return (float)(1.0 / tinyi_sqrt64(var / (double)f->n + f->a.eps));
}
TINY_REF_END

static void tinyi_tmerge_image_back(const tinyi_tmerge_fast *f, const tiny_op *op, tiny_idx b)
{
    const tinyi_tmerge *a = &f->a;
    const size_t n = f->n, d = tinyi_tmerge_round(n);
    const float *w1 = f->w1 + (size_t)b * d, *w2 = f->w2 + b * a->r;
    float *d_pa = f->sums + (size_t)b * ((size_t)a->r + 3 * d), *d_pb = d_pa + a->r, *dg = d_pb + d, *db = dg + d,
          *spread = f->h + (size_t)a->r * d, *du = f->row[4], half = -0.5f;
    tiny_idx i;
    tinyi_tmerge_weights(f, b);
    memset(d_pa, 0, ((size_t)a->r + 3 * d) * sizeof *d_pa);
    memset(du, 0, n * sizeof *du);
    for (i = 0; i < a->r; i++) {
        tinyi_tmerge_pair_row(f, i, b);
        f->norm(f->h + (size_t)i * d, f->row[0], NULL, NULL, n, (float)a->eps);
        spread[i] = tinyi_tmerge_spread(f);
        tinyi_tmerge_given_row(f, i, b);
        f->axpy(du, f->row[3], n, w2[i]);
    }
    f->scale(f->row[0], w1, n, half, 1.0f);
    f->binary(TINYI_BINARY_MUL, f->row[0], f->row[0], w1, n, 1, 1);
    f->binary(TINYI_BINARY_MUL, du, du, f->row[0], n, 1, 1);
    for (i = 0; i < a->r; i++) {
        const float *h = f->h + (size_t)i * d;
        const tiny_idx src = tinyi_tmerge_src(a, i, b), dst = tinyi_tmerge_dst(a, i, b);
        const float s = tinyi_tmerge_size_f32(a, src, b);
        float dv, mean, slope, *z = f->row[0], *dz = f->row[1], *de = f->row[3];
        tinyi_tmerge_given_row(f, i, b);
        dv = 0.5f * (1.0f - w2[i] * w2[i]) * f->dot(f->row[3], w1, n);
        f->binary(TINYI_BINARY_MUL, z, h, f->g, n, 1, 1);
        f->axpy(z, f->b, n, 1.0f);
        d_pa[i] = f->dot(z, du, n);
        f->axpy(d_pb, z, n, dv);
        f->scale(dz, du, n, f->pa[i], 0.0f);
        f->axpy(dz, f->pb, n, dv);
        f->axpy(db, dz, n, 1.0f);
        f->binary(TINYI_BINARY_MUL, z, dz, h, n, 1, 1);
        f->axpy(dg, z, n, 1.0f);
        f->binary(TINYI_BINARY_MUL, dz, dz, f->g, n, 1, 1);     /* dh */
        mean = f->sum(dz, n) / (float)a->d;
        slope = f->dot(dz, h, n) / (float)a->d;
        f->scale(de, dz, n, spread[i], -spread[i] * mean);
        f->axpy(de, h, n, -spread[i] * slope);
        tinyi_tmerge_to(f, op->out[0], dst, b, de, tinyi_tmerge_size_f32(a, dst, b));
        f->scale(z, w1, n, w2[i], 1.0f);
        f->binary(TINYI_BINARY_MUL, z, z, f->row[2], n, 1, 1);
        f->axpy(z, de, n, 1.0f);
        f->scale(z, z, n, s, 0.0f);
        tinyi_tmerge_store(f, op->out[0], src, b, z);
    }
}

static void tinyi_tmerge_fast_back(tiny_team *team, const tiny_op *op)
{
    tinyi_tmerge_fast f;
    tiny_idx i, end, b;
    if (!tinyi_tmerge_fast_open(team, op, 1, &f)) return;
    while (tiny_take(team, f.a.batch, 1, &b, &end))
        for (; b < end && f.n; b++) {
            for (i = 0; i < f.a.t - f.a.r; i++) {
                const tiny_idx from = f.a.m.from[i * f.a.batch + b];
                int merged;
                const float s = tinyi_tmerge_sum_f32(&f.a, i, b, &merged);
                f.scale(f.row[0], tinyi_tmerge_row(f.a.dy, i, b, f.row[5]), f.n,
                        merged ? tinyi_tmerge_size_f32(&f.a, from, b) / s : 1.0f, 0.0f);
                tinyi_tmerge_store(&f, op->out[0], from, b, f.row[0]);
            }
            if (f.a.w[0]) tinyi_tmerge_image_back(&f, op, b);
            else for (i = 0; i < f.a.r; i++) {
                tinyi_tmerge_given_row(&f, i, b);
                f.scale(f.row[2], f.row[2], f.n, tinyi_tmerge_size_f32(&f.a, tinyi_tmerge_src(&f.a, i, b), b), 0.0f);
                tinyi_tmerge_store(&f, op->out[0], tinyi_tmerge_src(&f.a, i, b), b, f.row[2]);
            }
        }
    tiny_barrier(team);
    if (team->i) return;
    tinyi_tmerge_clear(op->out[1]);
    tinyi_tmerge_clear(op->out[2]);
    for (b = 0; b < f.a.batch && f.a.w[0] && f.n; b++) {
        const size_t d = tinyi_tmerge_round(f.n);
        const float *sums = f.sums + (size_t)b * ((size_t)f.a.r + 3 * d);
        for (i = 0; i < f.a.r; i++) ((float *)op->out[1]->data)[i * op->out[1]->stride[0]] += sums[i];
        for (i = 0; i < 3 * f.a.d; i++)
            ((float *)op->out[2]->data)[i / f.a.d * op->out[2]->stride[0] + i % f.a.d * op->out[2]->stride[1]] +=
                sums[f.a.r + i / f.a.d * (tiny_idx)d + i % f.a.d];
    }
}

static void tinyi_tmerge_cost(const tiny_op *op, tiny_cost *c)
{
    const double x = (double)tiny_tensor_count(op->in[0]);
    c->flops = 2.0 * x;
    c->bytes = 8.0 * x;
}

/* ---- cases: pairs of a random match */

static void tinyi_tmerge_fill(tiny_case *c, int i_input, void *data)
{
    const tiny_idx t = c->in[0].dim[0], batch = c->in[0].dim[1], r = c->in[TINYI_TMERGE_MATCH].dim[0] - 2 * t;
    int32_t *to = (int32_t *)data, *from = to + t * batch, *src = from + (t - r) * batch, *dst = src + r * batch;
    tiny_idx b, i, k;
    if (i_input == TINYI_TMERGE_SIZE) {
        for (i = 0; i < t * batch; i++) ((float *)data)[i] = (float)(1 + tiny_case_pick(c, 4));
        return;
    }
    /* sources: the first r even tokens from a drawn one on; targets: any odd ones */
    for (b = 0; b < batch; b++) {
        const tiny_idx first = r ? tiny_case_pick(c, (int)((t + 1) / 2 - r + 1)) : 0;
        for (i = k = 0; i < t; i++)
            if (i % 2 || i / 2 < first || i / 2 >= first + r) {
                from[k * batch + b] = (int32_t)i;
                to[i * batch + b] = (int32_t)k++;
            }
        for (i = 0; i < r; i++) {
            src[i * batch + b] = (int32_t)(2 * (first + i));
            dst[i * batch + b] = 2 * tiny_case_pick(c, (int)(t / 2)) + 1;
            to[src[i * batch + b] * batch + b] = to[dst[i * batch + b] * batch + b];
        }
    }
}

static void tinyi_tmerge_cases_of(tiny_case *c, int back)
{
    tllm_merge_params p;
    tiny_idx dim[3], m[2], r;
    int i;
    memset(&p, 0, sizeof p);
    dim[0] = tiny_case_dim(c, 40);
    dim[1] = 1 + tiny_case_pick(c, 3);
    /* one number alone is its own mean: what the norm divides then is rounding */
    dim[2] = 1 + tiny_case_dim(c, 90);
    r = tiny_case_pick(c, (int)(dim[0] / 2) + 1);
    m[0] = 2 * dim[0] + r; m[1] = dim[1];
    c->in[TINYI_TMERGE_X] = tiny_tensor_nd(NULL, TINY_F32, 3, dim);
    c->in[TINYI_TMERGE_SIZE] = tiny_tensor_nd(NULL, TINY_F32, 2, dim);
    c->in[TINYI_TMERGE_MATCH] = tiny_tensor_nd(NULL, TINY_I32, 2, m);
    c->fill[TINYI_TMERGE_SIZE] = c->fill[TINYI_TMERGE_MATCH] = TINY_FILL_TABLE;
    c->dense[TINYI_TMERGE_SIZE] = c->dense[TINYI_TMERGE_MATCH] = 1;
    c->fill_table = tinyi_tmerge_fill;
    if (back) {
        dim[0] -= r;
        c->in[TINYI_TMERGE_W] = tiny_tensor_nd(NULL, TINY_F32, 3, dim);
    }
    for (i = 0; i < 4; i++) {
        c->in[TINYI_TMERGE_W + back + i] = tiny_tensor_nd(NULL, TINY_F32, 1, i == TINYI_TMERGE_PA ? &r : &dim[2]);
        c->dense[TINYI_TMERGE_W + back + i] = 1;
        if (c->index % 4 == 3) c->in[TINYI_TMERGE_W + back + i].rank = -1;
    }
    if (tiny_case_pick(c, 3) == 0) p.eps = 1e-3f;
    c->no_specials = c->no_denormals = 1;
    memcpy(c->params.bytes, &p, sizeof p);
}
static void tinyi_tmerge_cases(tiny_case *c) { tinyi_tmerge_cases_of(c, 0); }
static void tinyi_tmerge_backward_cases(tiny_case *c) { tinyi_tmerge_cases_of(c, 1); }

static tiny_status tinyi_grad_merge(tiny_grad *g, const tiny_op *op);
static const short tinyi_tmerge_kernels[] = { TINYI_K_axpy_f32,    TINYI_K_scale_f32,
                                              TINYI_K_binary_f32,  TINYI_K_layernorm_f32,
                                              TINYI_K_dot_f32,     TINYI_K_sum_f32,
                                              TINYI_K_sigmoid_f32, -1 };
static const tiny_op_row tinyi_row_merge = TINYI_ROW_OF("tome_merge", TLLM_OP_TOME_MERGE, TAKES(7, 3), GIVES(1),
    PARAMS(tllm_merge_params), FLAGS(TINY_OP_F64 | TINY_OP_LOOSE),
    SHAPE(tinyi_tmerge_shape), REFERENCE(tinyi_tmerge_ref_run), FAST(tinyi_tmerge_fast_run, tinyi_tmerge_work),
    COST(tinyi_tmerge_cost), CASES(tinyi_tmerge_cases), BOUND(TINY_BOUND_SCALE, 400.0, 0.0), TERMS(NULL),
    GRADIENT(tinyi_grad_merge), KERNELS(tinyi_tmerge_kernels),
    SAYS("y = sums of size x over merged tokens / sums of size; sources times 1 + w1 w2 (PYRA)"));
static const tiny_op_row tinyi_row_merge_backward = TINYI_ROW_OF("tome_merge_backward", TLLM_OP_TOME_MERGE_BACKWARD,
    TAKES(8, 4), GIVES(3), PARAMS(tllm_merge_params), FLAGS(TINY_OP_F64 | TINY_OP_LOOSE),
    SHAPE(tinyi_tmerge_backward_shape), REFERENCE(tinyi_tmerge_ref_back),
    FAST(tinyi_tmerge_fast_back, tinyi_tmerge_backward_work), COST(tinyi_tmerge_cost),
    CASES(tinyi_tmerge_backward_cases), BOUND(TINY_BOUND_SCALE, 2000.0, 0.0), TERMS(NULL), GRADIENT(NULL),
    KERNELS(tinyi_tmerge_kernels), SAYS("dx, d_pa and (d_pb, d_g, d_b) of tome_merge"));
TINY_API const tiny_op_row *tllm_tome_merge_row(void) { return &tinyi_row_merge; }
TINY_API const tiny_op_row *tllm_tome_merge_backward_row(void) { return &tinyi_row_merge_backward; }

TINYI_FN void tinyi_tmerge_op(tiny_op *op, int back, const tiny_tensor *x, const tiny_tensor *size,
                              const tiny_tensor *match, const tllm_pyra_weights *w)
{
    memset(op, 0, sizeof *op);
    op->row = back ? &tinyi_row_merge_backward : &tinyi_row_merge;
    op->kind = op->row->kind;
    op->in[TINYI_TMERGE_X] = x;
    op->in[TINYI_TMERGE_SIZE] = size;
    op->in[TINYI_TMERGE_MATCH] = match;
    if (!w) return;
    op->in[TINYI_TMERGE_W + back] = w->pa;
    op->in[TINYI_TMERGE_W + back + 1] = w->pb;
    op->in[TINYI_TMERGE_W + back + 2] = w->norm_g;
    op->in[TINYI_TMERGE_W + back + 3] = w->norm_b;
}

TINY_API tiny_status tllm_tome_merge(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *size,
                                     const tiny_tensor *match, const tllm_pyra_weights *w, const tiny_tensor *y)
{
    tiny_op op;
    tinyi_tmerge_op(&op, 0, x, size, match, w);
    op.out[0] = y;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tllm_tome_merge_backward(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *size,
                                              const tiny_tensor *match, const tllm_pyra_weights *w,
                                              const tiny_tensor *dy, const tiny_tensor *dx, const tiny_tensor *d_pa,
                                              const tiny_tensor *d_pbn)
{
    tiny_op op;
    tinyi_tmerge_op(&op, 1, x, size, match, w);
    op.in[TINYI_TMERGE_W] = dy;
    op.out[0] = dx;
    op.out[1] = d_pa;
    op.out[2] = d_pbn;
    return tiny_run(ctx, &op);
}

static tiny_status tinyi_grad_merge(tiny_grad *g, const tiny_op *op)
{
    tllm_pyra_weights w;
    tiny_tensor dx, d_pa, rest, part;
    tiny_idx dim[2];
    tiny_op back;
    int i;
    tiny_status st = tiny_grad_new(g, op->in[0]->dtype, 3, op->in[0]->dim, &dx);
    dim[0] = op->in[TINYI_TMERGE_MATCH]->dim[0] - 2 * op->in[0]->dim[0];
    if (!st) st = tiny_grad_new(g, op->in[0]->dtype, 1, dim, &d_pa);
    dim[0] = 3; dim[1] = op->in[0]->dim[2];
    if (!st) st = tiny_grad_new(g, op->in[0]->dtype, 2, dim, &rest);
    if (st) return st;
    w.pa = op->in[TINYI_TMERGE_W];
    w.pb = op->in[TINYI_TMERGE_W + 1];
    w.norm_g = op->in[TINYI_TMERGE_W + 2];
    w.norm_b = op->in[TINYI_TMERGE_W + 3];
    tinyi_tmerge_op(&back, 1, op->in[0], op->in[1], op->in[2], &w);
    back.params = op->params;
    back.in[TINYI_TMERGE_W] = tiny_grad_of(g, 0);
    back.out[0] = &dx;
    back.out[1] = &d_pa;
    back.out[2] = &rest;
    st = tiny_grad_op(g, &back);
    if (!st && tiny_grad_wants(g, TINYI_TMERGE_X)) st = tiny_grad_add(g, TINYI_TMERGE_X, &dx);
    if (!st && w.pa && tiny_grad_wants(g, TINYI_TMERGE_W)) st = tiny_grad_add(g, TINYI_TMERGE_W, &d_pa);
    for (i = 0; i < 3 && !st && w.pa; i++) {
        part = tiny_tensor_1d((unsigned char *)rest.data + (size_t)(i * rest.stride[0]) * tiny_dtype_bytes(rest.dtype),
                              rest.dtype, rest.dim[1]);
        if (tiny_grad_wants(g, TINYI_TMERGE_W + 1 + i)) st = tiny_grad_add(g, TINYI_TMERGE_W + 1 + i, &part);
    }
    return st;
}
