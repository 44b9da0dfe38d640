/* src/llm/compress/stitch_fit.c - the first values of a stitch
 * Paper    Z. Pan, J. Cai, B. Zhuang, "Stitchable Neural Networks", 2023 (arXiv 2302.06586), 3.2
 * Formula  min |A W^T + 1 c^T - B|^2 + r (|W|^2 + |c|^2): A the features after block f of the front, B those that enter
 *          block e of the back. Solved as the least squares of [A 1; sqrt(r) I] and [B; 0]
 * Cost     QR of (n + d1 + 1) x (d1 + 1) numbers in double
 * Error    the ridge r moves the solution by the share r / (r + s^2) in the direction of singular value s. Without it a
 *          channel that is constant would leave the solution open. With it [A 1]^T (A W^T + 1 c^T - B) = -r (W, c)^T */
#include "llm/compress/stitch_fit.h"
#include "core/state_inside.h"
#include "math/linalg.h"
#include "math/elem.h"
#include "math/rows_inside.h"

#define TINYI_STITCH_RIDGE 1e-6

static int tinyi_stitch_is(const tiny_tensor *t, int rank)
{
    return t && !tiny_tensor_check(t) && t->rank == rank && (t->dtype == TINY_F32 || t->dtype == TINY_F64);
}
static double tinyi_stitch_at(const tiny_tensor *t, tiny_idx i, tiny_idx k)
{
    return tinyi_real(t->data, t->dtype, i * t->stride[0] + k * t->stride[1]);
}

TINY_REF_BEGIN
/* share of the squares of b around its mean that a w^T + bias leaves */
static double tinyi_stitch_left(const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *x)
{
    const double *m = (const double *)x->data;
    const tiny_idx n = a->dim[0], d1 = a->dim[1], d2 = b->dim[1];
    double left = 0.0, all = 0.0;
    tiny_idx i, j, k;
    for (j = 0; j < d2; j++) {
        double mean = 0.0;
        for (i = 0; i < n; i++) mean += tinyi_stitch_at(b, i, j) / (double)n;
        for (i = 0; i < n; i++) {
            const double v = tinyi_stitch_at(b, i, j);
            double y = m[d1 * d2 + j];
            for (k = 0; k < d1; k++) y += tinyi_stitch_at(a, i, k) * m[k * d2 + j];
            left += (y - v) * (y - v);
            all += (v - mean) * (v - mean);
        }
    }
    return all > 0.0 ? left / all : 0.0;
}

/* [a 1; sqrt(r) I] and [b; 0]: their least squares are those of the ridge */
static void tinyi_stitch_stack(const tiny_tensor *a, const tiny_tensor *b, double *left, double *right)
{
    const tiny_idx n = a->dim[0], d1 = a->dim[1], d2 = b->dim[1], cols = d1 + 1;
    double sum = (double)n, ridge;
    tiny_idx i, k;
    for (i = 0; i < n; i++) {
        for (k = 0; k < d1; k++) {
            const double v = tinyi_stitch_at(a, i, k);
            left[i * cols + k] = v;
            sum += v * v;
        }
        left[i * cols + d1] = 1.0;
        for (k = 0; k < d2; k++) right[i * d2 + k] = tinyi_stitch_at(b, i, k);
    }
    ridge = tinyi_sqrt64(TINYI_STITCH_RIDGE * sum / (double)cols);
    for (i = 0; i < cols; i++) {
        for (k = 0; k < cols; k++) left[(n + i) * cols + k] = k == i ? ridge : 0.0;
        for (k = 0; k < d2; k++) right[(n + i) * d2 + k] = 0.0;
    }
}
TINY_REF_END

TINY_API tiny_status tllm_stitch_solve(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *w,
                                       const tiny_tensor *bias, double *left)
{
    tiny_tensor ta, tb, tx;
    double *memory;
    size_t rows, cols, n_a, n_b, n_x, all;
    tiny_idx j, k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (left) *left = 0.0;
    if (st) return st;
    if (!tinyi_stitch_is(a, 2) || !tinyi_stitch_is(b, 2) || !tinyi_stitch_is(w, 2) || !tinyi_stitch_is(bias, 1))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitch: features, weights (d2, d1) and bias (d2) of f32 or f64");
    if (a->dim[0] != b->dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "stitch: the front gives %td feature vectors and the back %td: their numbers of tokens "
                          "differ",
                          a->dim[0], b->dim[0]);
    if (w->dim[0] != b->dim[1] || w->dim[1] != a->dim[1] || bias->dim[0] != b->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "stitch: weights %td x %td and %td biases cannot map %td numbers to %td",
                          w->dim[0], w->dim[1], bias->dim[0], a->dim[1], b->dim[1]);
    if (a->dim[0] <= a->dim[1])
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "stitch: %td feature vectors of %td numbers; more vectors than numbers are needed", a->dim[0],
                          a->dim[1]);
    cols = (size_t)a->dim[1] + 1;
    if (!tinyi_size_add((size_t)a->dim[0], cols, &rows) || !tinyi_size_mul(rows, cols, &n_a) ||
        !tinyi_size_mul(rows, (size_t)b->dim[1], &n_b) || !tinyi_size_mul(cols, (size_t)b->dim[1], &n_x) ||
        !tinyi_size_add(n_a, n_b, &all) || !tinyi_size_add(all, n_x, &all))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "stitch: %td feature vectors are more than can be addressed",
                          a->dim[0]);
    memory = (double *)tinyi_alloc(ctx, all, sizeof *memory);
    if (!memory) return tiny_ctx_status(ctx);
    tinyi_stitch_stack(a, b, memory, memory + n_a);
    ta = tiny_tensor_2d(memory, TINY_F64, (tiny_idx)rows, (tiny_idx)cols);
    tb = tiny_tensor_2d(memory + n_a, TINY_F64, (tiny_idx)rows, b->dim[1]);
    tx = tiny_tensor_2d(memory + n_a + n_b, TINY_F64, (tiny_idx)cols, b->dim[1]);
    st = tiny_lstsq(ctx, &ta, &tb, 0.0, &tx, NULL);
    for (j = 0; !st && j < b->dim[1]; j++) {
        const double *x = (const double *)tx.data;
        for (k = 0; k < a->dim[1]; k++)
            tinyi_real_set(w->data, w->dtype, j * w->stride[0] + k * w->stride[1], x[k * b->dim[1] + j]);
        tinyi_real_set(bias->data, bias->dtype, j * bias->stride[0], x[a->dim[1] * b->dim[1] + j]);
    }
    if (!st && left) *left = tinyi_stitch_left(a, b, &tx);
    tiny_free(ctx, memory);
    return st;
}
