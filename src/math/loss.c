/* src/math/loss.c - cross-entropy of classes, with label smoothing
 * Paper    C. Szegedy et al., "Rethinking the Inception Architecture", 2016 (arXiv 1512.00567), section 7: smoothing.
 * Formula  (1/N) sum over rows of  log sum_j e^x[j] - (1 - e) x[label] - e (1/n) sum_j x[j]
 * Data     rows of any strides; rows that are not dense go through a buffer of each thread. The loss of each row is
 *          kept in double, and one thread adds them in the order of rows: the result does not depend on the number of
 *          threads.
 * Cost     one exponential and 4 bytes a number.
 * Error    the sum of exponentials has the relative error (n/4 + 6) u, with n at most 1024 (blocks), and its logarithm
 *          that absolute error. The sum of x is off by (n/4 + 3) u of the absolute values. A loss with smoothing e is
 *          at least e log n (Jensen), without one rarely below 1 for the generated rows of 64 and more numbers: SCALE
 *          (80 + 3 n) u. */
#include "math/loss.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include "math/walk_inside.h"

#define TINYI_LOSS_BLOCK 1024

static const tiny_cross_entropy_params *tinyi_loss_params(const tiny_op *op)
{
    static const tiny_cross_entropy_params none = { 0.0f, 0 };
    return op->params ? (const tiny_cross_entropy_params *)op->params : &none;
}

TINYI_FN tiny_idx tinyi_loss_label(const tiny_op *op, tiny_idx r)
{
    const tiny_tensor *label = op->in[1];
    tiny_idx at = tinyi_walk_element(label, r);
    return label->dtype == TINY_I64 ? (tiny_idx)((const int64_t *)label->data)[at]
                                    : (tiny_idx)((const int32_t *)label->data)[at];
}

static tiny_status tinyi_loss_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_cross_entropy_params *p = tinyi_loss_params(op);
    const tiny_tensor *x = op->in[0], *label = op->in[1];
    char tx[96], tl[96];
    tiny_idx r, n;
    int i, same = label->rank + 1 == x->rank;
    if (!tinyi_is_real(x))
        return tinyi_fail(ctx, TINY_E_DTYPE, "cross_entropy: x must be f32 or f64, not %s", tiny_dtype_name(x->dtype));
    if (label->dtype != TINY_I32 && label->dtype != TINY_I64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "cross_entropy: the labels must be i32 or i64, not %s",
                          tiny_dtype_name(label->dtype));
    for (i = 0; same && i < label->rank; i++) same = label->dim[i] == x->dim[i];
    if (!same)
        return tinyi_fail(ctx, TINY_E_SHAPE, "cross_entropy: x is %s and the labels are %s; each row of x needs one",
                          tinyi_shape_text(x, tx), tinyi_shape_text(label, tl));
    if (!(p->smoothing >= 0.0f && p->smoothing < 1.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cross_entropy: smoothing %g must be at least 0 and below 1",
                          (double)p->smoothing);
    n = x->dim[x->rank - 1];
    for (r = 0; op->out[0] && r < tiny_tensor_count(label); r++) {
        tiny_idx l = tinyi_loss_label(op, r);
        if ((l < 0 || l >= n) && !(p->skip && l == -1))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "cross_entropy: label %td is %td, but there are %td classes", r, l,
                              n);
    }
    tinyi_want(&want[0], x->dtype, 0, NULL);
    return TINY_OK;
}

static void tinyi_loss_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->in[0]);
    cost->flops = 30.0 * n;
    cost->bytes = 4.0 * n;
}

static double tinyi_loss_terms(const tiny_op *op)
{
    tiny_idx n = tinyi_row_length(op->in[0]);
    return (double)TINYI_MIN(n, TINYI_LOSS_BLOCK);
}

TINY_REF_BEGIN
static void tinyi_loss_ref(const tiny_op *op)
{
    const double e = (double)tinyi_loss_params(op)->smoothing;
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tiny_idx rows = tiny_tensor_count(op->in[1]), n = tinyi_row_length(x), step = tinyi_row_step(x);
    double loss = 0.0;
    tiny_idx r, i, count = 0;
    for (r = 0; r < rows; r++) {
        const tiny_idx at = tinyi_row_at(x, r), label = tinyi_loss_label(op, r);
        double top = -(double)INFINITY, sum = 0.0, mean = 0.0;
        if (label < 0) continue;
        for (i = 0; i < n; i++) {
            double v = tinyi_real(x->data, x->dtype, at + i * step);
            if (v > top) top = v;
        }
        if (top == -(double)INFINITY) top = 0.0;
        for (i = 0; i < n; i++) sum += tinyi_exp64(tinyi_real(x->data, x->dtype, at + i * step) - top);
        for (i = 0; e != 0.0 && i < n; i++) mean += tinyi_real(x->data, x->dtype, at + i * step);
        mean /= (double)n;
        loss += top + tinyi_log64(sum) - (1.0 - e) * tinyi_real(x->data, x->dtype, at + label * step) - e * mean;
        count++;
    }
    tinyi_real_set(y->data, y->dtype, 0, count ? loss / (double)count : 0.0);
}
TINY_REF_END

static void tinyi_loss_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    (void)n_threads;
    *shared = (size_t)tiny_tensor_count(op->in[1]) * sizeof(double);
    if (tinyi_row_step(op->in[0]) != 1) *own = (size_t)tinyi_row_length(op->in[0]) * sizeof(float);
}

static double tinyi_loss_row(const tinyi_kernels *k, const float *x, tiny_idx n, tiny_idx label, double e)
{
    double top = -(double)INFINITY, sum = 0.0, mean = 0.0;
    tiny_idx i;
    for (i = 0; i < n; i += TINYI_LOSS_BLOCK) {
        float t, s;
        TINYI_OF(k, softmax_online_f32)(x + i, (size_t)TINYI_MIN(n - i, TINYI_LOSS_BLOCK), 1.0f, &t, &s);
        if ((double)t > top) {
            sum = sum == 0.0 ? 0.0 : sum * tinyi_exp64(top - (double)t);
            top = (double)t;
        }
        if (s != 0.0f) sum += (double)s * tinyi_exp64((double)t - top);
        if (e != 0.0) mean += (double)TINYI_OF(k, sum_f32)(x + i, (size_t)TINYI_MIN(n - i, TINYI_LOSS_BLOCK));
    }
    if (top == -(double)INFINITY) top = 0.0;
    return top + tinyi_log64(sum) - (1.0 - e) * (double)x[label] - (e != 0.0 ? e * mean / (double)n : 0.0);
}

static void tinyi_loss_fast(tiny_team *team, const tiny_op *op)
{
    const double e = (double)tinyi_loss_params(op)->smoothing;
    const tiny_tensor *x = op->in[0];
    const tiny_idx rows = tiny_tensor_count(op->in[1]), n = tinyi_row_length(x), step = tinyi_row_step(x);
    double *each = (double *)team->shared, loss = 0.0;
    tiny_idx r, r1, count = 0;
    (void)TINYI_K(team, softmax_online_f32);
    while (tiny_take(team, rows, TINYI_MAX(1, 16384 / TINYI_MAX(n, 1)), &r, &r1))
        for (; r < r1; r++) {
            const tiny_idx label = tinyi_loss_label(op, r);
            const float *from = tinyi_row_f32(x, r);
            if (label < 0) continue;
            if (step != 1) {
                tinyi_row_gather((float *)team->own, from, n, step);
                from = (const float *)team->own;
            }
            each[r] = tinyi_loss_row(team->k, from, n, label, e);
        }
    tiny_barrier(team);
    if (team->i != 0) return;
    for (r = 0; r < rows; r++)
        if (tinyi_loss_label(op, r) >= 0) {
            loss += each[r];
            count++;
        }
    *(float *)op->out[0]->data = (float)(count ? loss / (double)count : 0.0);
}

static void tinyi_loss_cases(tiny_case *c)
{
    tiny_cross_entropy_params *p = (tiny_cross_entropy_params *)(void *)&c->params;
    tiny_idx dim[3];
    int rank = 1 + tiny_case_pick(c, 3), i;
    for (i = 0; i < rank - 1; i++) dim[i] = tiny_case_dim(c, 40);
    dim[rank - 1] = 1 + tiny_case_dim(c, 3000);
    if (dim[rank - 1] < 64 || tiny_case_pick(c, 2)) p->smoothing = 0.25f;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    c->in[1] = tiny_tensor_nd(NULL, tiny_case_pick(c, 2) ? TINY_I64 : TINY_I32, rank - 1, dim);
    c->fill[1] = TINY_FILL_INDEX;
    c->limit[1] = dim[rank - 1];
    c->no_specials = 1;
}

static const short tinyi_kernels_of_loss[] = { TINYI_K_softmax_online_f32, TINYI_K_sum_f32, -1 };
TINYI_ROW tinyi_row_cross_entropy = TINYI_ROW_OF("cross_entropy", TINY_OP_CROSS_ENTROPY, TAKES(2, 2), GIVES(1),
    PARAMS(tiny_cross_entropy_params), FLAGS(TINY_OP_F64),
    SHAPE(tinyi_loss_shape), REFERENCE(tinyi_loss_ref), FAST(tinyi_loss_fast, tinyi_loss_work), COST(tinyi_loss_cost),
    CASES(tinyi_loss_cases), BOUND(TINY_BOUND_SCALE, 80, 3), TERMS(tinyi_loss_terms),
    GRADIENT(tinyi_grad_cross_entropy), KERNELS(tinyi_kernels_of_loss),
    SAYS("y = mean(log sum e^x - (1 - e) x[label] - e mean(x))"));

TINY_API tiny_status tiny_cross_entropy(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *label,
                                        const tiny_cross_entropy_params *params, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_CROSS_ENTROPY, x, label, params, y);
}

