/* src/math/twist.c - suppressing accumulated trivial attention
 * Paper    "Accumulated Trivial Attention Matters in Vision Transformers on Small Datasets", 2022 (arXiv 2210.12333),
 *          and its authors' code.
 * Formula  m = max a; Tr = {i: a[i] <= t m}; D = sum_Tr a + 1e-6;  y[i] = s a[i]^2 / D in Tr, else a[i]. No row is
 *          divided by its sum again. The gradient, with a constant set of trivial weights: Q = sum_Tr g a^2;  da[i] = s
 *          (2 a[i] g[i] / D - Q / D^2) in Tr, else g[i];  ds = Q / D.
 * Data     rows of any strides; t m is rounded like the weights, so that all f32 forms agree on which weights are
 *          trivial. A row that is not dense goes through a buffer of its length. A task is a row: a single long row
 *          uses one thread.
 * Cost     reads 3n and writes n; the gradient reads 7n and writes n. A row of attention stays in the first-level cache
 *          between the passes.
 * Error    D is summed as in softmax: blocks of 4096 (fewer for narrow vectors) in float with four accumulators in each
 *          lane, double above, (n/4 + 3) u with n <= 512. A trivial y has that relative error and 5 u: NORM (8 + n/4)
 *          u. The gradient: sum_Tr a da = s Q / D, so that s|Q| / D^2 <= max|da| and s 2a|g| / D <= 2 max|da|; Q is off
 *          by (n/4 + 5) u D max(a|g|) <= (n/4 + 5) u D^2 max|da| / s. Together (3/4 (n/4 + 5) for the second term, 2
 *          (n/4 + 8) for the first, and 2 (n/4 + 3) for D^2): NORM (32 + 1.25 n) u. d_s = Q / D is one number a row and
 *          may cancel: the bound holds for g of one sign, which the generated cases have; tests/math/twist.c compares
 *          both signs with double.
 * Left out the transform with a threshold that is learned (the paper keeps t fixed). */
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <string.h>

#define TINYI_TWIST_BLOCK 4096              /* weights of a task, and at most summed in float */

typedef struct tinyi_twist {
    double s;
    float t;
} tinyi_twist;

/* given: the input that holds s */
static tinyi_twist tinyi_twist_read(const tiny_op *op, int given)
{
    const tiny_twist_params *p = (const tiny_twist_params *)op->params;
    tinyi_twist w;
    w.t = p ? p->t : 0.0f;
    w.s = tinyi_twist_s(p ? p->s : 0.0f, op->in[given]);
    return w;
}

static tiny_status tinyi_twist_look(tiny_ctx *ctx, const char *name, const tiny_op *op, int given)
{
    const tiny_twist_params *p = (const tiny_twist_params *)op->params;
    const tiny_tensor *a = op->in[0];
    if (!tinyi_is_real(a))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: the weights must be f32 or f64, not %s", name,
                          tiny_dtype_name(a->dtype));
    if (a->rank < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: the weights are a single number; they need an axis to go over", name);
    return tinyi_twist_check(ctx, name, op, p ? p->t : 0.0f, p ? p->s : 0.0f, op->in[given]);
}

static tiny_status tinyi_twist_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_status st = tinyi_twist_look(ctx, "twist", op, 1);
    if (!st) tinyi_want(&want[0], op->in[0]->dtype, op->in[0]->rank, op->in[0]->dim);
    return st;
}

static tiny_status tinyi_twist_backward_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *a = op->in[0], *dy = op->in[1];
    tiny_status st = tinyi_twist_look(ctx, "twist_backward", op, 2);
    tiny_idx dim[TINY_MAX_RANK];
    char ta[96], tg[96];
    int i, same;
    if (st) return st;
    same = dy->dtype == a->dtype && dy->rank == a->rank;
    for (i = 0; same && i < a->rank; i++) same = dy->dim[i] == a->dim[i];
    if (!same)
        return tinyi_fail(ctx, TINY_E_SHAPE, "twist_backward: dy is %s, it must have the shape of the weights: %s",
                          tinyi_shape_text(dy, tg), tinyi_shape_text(a, ta));
    tinyi_want(&want[0], a->dtype, a->rank, a->dim);
    memcpy(dim, a->dim, sizeof dim);
    dim[a->rank - 1] = 1;
    tinyi_want(&want[1], a->dtype, a->rank, dim);
    return TINY_OK;
}

static void tinyi_twist_cost(const tiny_op *op, tiny_cost *cost)
{
    const double n = (double)tiny_tensor_count(op->in[0]);
    cost->flops = 6.0 * n;
    cost->bytes = 8.0 * n;
}
static void tinyi_twist_backward_cost(const tiny_op *op, tiny_cost *cost)
{
    const double n = (double)tiny_tensor_count(op->in[0]);
    cost->flops = 12.0 * n;
    cost->bytes = 12.0 * n;
}

static double tinyi_twist_terms(const tiny_op *op)
{
    const tiny_idx n = tinyi_row_length(op->in[0]);
    return (double)TINYI_MIN(n, TINYI_TWIST_BLOCK / 8);
}

/* ---- reference */

TINY_REF_BEGIN
/* largest trivial weight of a row, and D; 0: some number is not finite */
static int tinyi_twist_ref_measure(const tiny_tensor *a, tiny_idx at, tiny_idx n, float t, double *low, double *d)
{
    const tiny_idx step = tinyi_row_step(a);
    double m = -(double)INFINITY, x;
    tiny_idx i;
    for (i = 0; i < n; i++) {
        x = tinyi_real(a->data, a->dtype, at + i * step);
        if (!(x - x == 0.0)) return 0;
        if (x > m) m = x;
    }
    *low = (double)t * m;
    if (a->dtype == TINY_F32) *low = (double)(float)*low;
    for (*d = 0.0, i = 0; i < n; i++) {
        x = tinyi_real(a->data, a->dtype, at + i * step);
        if (x <= *low) *d += x;
    }
    *d += TINYI_TWIST_LEAST;
    return 1;
}

static void tinyi_twist_ref(const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *y = op->out[0];
    const tinyi_twist w = tinyi_twist_read(op, 1);
    const tiny_idx rows = tinyi_row_count(a), n = tinyi_row_length(a), a_step = tinyi_row_step(a),
                   y_step = tinyi_row_step(y);
    tiny_idx r, i;
    for (r = 0; r < rows; r++) {
        const tiny_idx at = tinyi_row_at(a, r), to = tinyi_row_at(y, r);
        double low = 0.0, d = 1.0;
        const int good = tinyi_twist_ref_measure(a, at, n, w.t, &low, &d);
        for (i = 0; i < n; i++) {
            const double x = tinyi_real(a->data, a->dtype, at + i * a_step);
            tinyi_real_set(y->data, y->dtype, to + i * y_step,
                           !good                       ? (double)INFINITY - (double)INFINITY
                           : w.s == 0.0 || !(x <= low) ? x
                                                       : w.s * x * x / d);
        }
    }
}

static void tinyi_twist_backward_ref(const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *g = op->in[1], *da = op->out[0], *ds = op->out[1];
    const tinyi_twist w = tinyi_twist_read(op, 2);
    const tiny_idx rows = tinyi_row_count(a), n = tinyi_row_length(a), a_step = tinyi_row_step(a),
                   g_step = tinyi_row_step(g), d_step = tinyi_row_step(da);
    tiny_idx r, i;
    for (r = 0; r < rows; r++) {
        const tiny_idx at = tinyi_row_at(a, r), from = tinyi_row_at(g, r), to = tinyi_row_at(da, r);
        double low = 0.0, d = 1.0, q = 0.0;
        const int good = tinyi_twist_ref_measure(a, at, n, w.t, &low, &d), on = w.s != 0.0;
        for (i = 0; i < n; i++) {
            const double x = tinyi_real(a->data, a->dtype, at + i * a_step),
                         u = tinyi_real(g->data, g->dtype, from + i * g_step);
            if (on && x <= low) q += u * x * x;
        }
        if (!good) q = (double)INFINITY - (double)INFINITY;
        for (i = 0; i < n; i++) {
            const double x = tinyi_real(a->data, a->dtype, at + i * a_step),
                         u = tinyi_real(g->data, g->dtype, from + i * g_step);
            tinyi_real_set(da->data, da->dtype, to + i * d_step,
                           !good                ? q
                           : !on || !(x <= low) ? u
                                                : w.s * (2.0 * x * u / d - q / (d * d)));
        }
        tinyi_real_set(ds->data, ds->dtype, tinyi_row_at(ds, r), q / d);
    }
}
TINY_REF_END

/* ---- fast */

/* the same as the reference's, of a dense row */
static int tinyi_twist_measure(tiny_team *team, const float *a, tiny_idx n, float t, float *low, double *d)
{
    const tiny_idx block = tinyi_softmax_block(team->k);
    tiny_idx i;
    *low = t * TINYI_OF(team->k, softmax_top_f32)(a, (size_t)n, 1.0f);
    for (*d = 0.0, i = 0; i < n; i += block)
        *d += (double)TINYI_OF(team->k, twist_sum_f32)(a + i, (size_t)TINYI_MIN(n - i, block), *low);
    if (!(*d - *d == 0.0)) return 0;
    *d += TINYI_TWIST_LEAST;
    return 1;
}

static void tinyi_twist_none(float *y, tiny_idx n)
{
    const float none = tinyi_round_f32((double)INFINITY - (double)INFINITY);
    tiny_idx i;
    for (i = 0; i < n; i++) y[i] = none;
}

/* a row where it lies, or gathered into room */
static const float *tinyi_twist_row(const tiny_tensor *x, tiny_idx r, float *room)
{
    const tiny_idx step = tinyi_row_step(x);
    const float *row = tinyi_row_f32(x, r);
    if (step == 1) return row;
    tinyi_row_gather(room, row, tinyi_row_length(x), step);
    return room;
}

static void tinyi_twist_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    (void)n_threads;
    (void)shared;
    if (tinyi_row_step(op->in[0]) != 1 || tinyi_row_step(op->out[0]) != 1)
        *own = (size_t)tinyi_row_length(op->in[0]) * sizeof(float);
}

static void tinyi_twist_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *y = op->out[0];
    const tinyi_twist w = tinyi_twist_read(op, 1);
    const tiny_idx rows = tinyi_row_count(a), n = tinyi_row_length(a), y_step = tinyi_row_step(y);
    const tinyi_fn_twist_write_f32 write = TINYI_K(team, twist_write_f32);
    float *room = (float *)team->own, low;
    tiny_idx r, end;
    double d;
    if (n == 0) return;
    while (tiny_take(team, rows, TINYI_MAX(TINYI_TWIST_BLOCK / n, 1), &r, &end))
        for (; r < end; r++) {
            const float *x = tinyi_twist_row(a, r, room);
            float *to = y_step == 1 ? tinyi_row_f32(y, r) : room;
            if (!tinyi_twist_measure(team, x, n, w.t, &low, &d)) tinyi_twist_none(to, n);
            else if (w.s != 0.0) write(to, x, (size_t)n, low, (float)(w.s / d));
            else if (to != x) memcpy(to, x, (size_t)n * sizeof *x);
            if (y_step != 1) tinyi_row_scatter(tinyi_row_f32(y, r), room, n, y_step);
        }
}

static void tinyi_twist_backward_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    (void)n_threads;
    (void)shared;
    if (tinyi_row_step(op->in[0]) != 1 || tinyi_row_step(op->in[1]) != 1 || tinyi_row_step(op->out[0]) != 1)
        *own = (size_t)tinyi_row_length(op->in[0]) * 2 * sizeof(float); /* the result lies where the gradient lay */
}

static void tinyi_twist_backward_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *g = op->in[1], *da = op->out[0], *ds = op->out[1];
    const tinyi_twist w = tinyi_twist_read(op, 2);
    const tiny_idx rows = tinyi_row_count(a), n = tinyi_row_length(a), d_step = tinyi_row_step(da);
    const tinyi_fn_twist_back_f32 back = TINYI_K(team, twist_back_f32);
    const tiny_idx block = tinyi_softmax_block(team->k);
    float *room = (float *)team->own, low;
    tiny_idx r, end, i;
    double d, q;
    while (tiny_take(team, rows, TINYI_MAX(TINYI_TWIST_BLOCK / TINYI_MAX(n, 1), 1), &r, &end))
        for (; r < end; r++) {
            const float *x = tinyi_twist_row(a, r, room), *u = tinyi_twist_row(g, r, room ? room + n : NULL);
            float *to = d_step == 1 ? tinyi_row_f32(da, r) : room + n;
            if (!tinyi_twist_measure(team, x, n, w.t, &low, &d)) {
                tinyi_twist_none(to, n);
                tinyi_twist_none(tinyi_row_f32(ds, r), 1);
            } else {
                for (q = 0.0, i = 0; i < n && w.s != 0.0; i += block)
                    q += (double)TINYI_OF(team->k, twist_dot_f32)(x + i, u + i, (size_t)TINYI_MIN(n - i, block), low);
                if (w.s != 0.0) back(to, x, u, (size_t)n, low, (float)(2.0 * w.s / d), (float)(w.s * q / (d * d)));
                else if (to != u) memcpy(to, u, (size_t)n * sizeof *u);
                *tinyi_row_f32(ds, r) = (float)(q / d);
            }
            if (d_step != 1) tinyi_row_scatter(tinyi_row_f32(da, r), room + n, n, d_step);
        }
}

/* ---- rows */

static void tinyi_twist_cases(tiny_case *c)
{
    static const float t[] = { 0.05f, 0.1f, 0.3f, 0.7f, 1.0f, 1.5f, 0.0f };
    const int rank = 1 + tiny_case_pick(c, 3);
    tiny_twist_params p;
    int i;
    c->in[0].rank = rank;
    for (i = 0; i < rank; i++) c->in[0].dim[i] = tiny_case_dim(c, i < rank - 1 ? 5 : tiny_case_pick(c, 4) ? 300 : 9000);
    c->fill[0] = TINY_FILL_POSITIVE;
    p.t = t[tiny_case_pick(c, 7)];
    p.s = tiny_case_pick(c, 6) ? tiny_rng_normal(&c->rng) : 0.0f;
    memcpy(c->params.bytes, &p, sizeof p);
    c->in[1].rank = tiny_case_pick(c, 2) - 1;               /* s as a tensor, or not */
    c->no_specials = c->no_denormals = 1;
}
static void tinyi_twist_backward_cases(tiny_case *c)
{
    tinyi_twist_cases(c);
    c->in[2] = c->in[1];
    c->in[1] = c->in[0];
    c->fill[1] = TINY_FILL_POSITIVE;
}

static const short tinyi_twist_kernels[] = { TINYI_K_twist_write_f32, TINYI_K_twist_sum_f32, TINYI_K_softmax_top_f32,
                                             -1 };
static const short tinyi_twist_backward_kernels[] = { TINYI_K_twist_back_f32, TINYI_K_twist_dot_f32,
                                                      TINYI_K_twist_sum_f32, TINYI_K_softmax_top_f32, -1 };

TINYI_ROW tinyi_row_twist = TINYI_ROW_OF("twist", TINY_OP_TWIST, TAKES(2, 1), GIVES(1), PARAMS(tiny_twist_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_twist_shape), REFERENCE(tinyi_twist_ref), FAST(tinyi_twist_fast, tinyi_twist_work),
    COST(tinyi_twist_cost), CASES(tinyi_twist_cases), BOUND(TINY_BOUND_NORM, 8, 0.25), TERMS(tinyi_twist_terms),
    GRADIENT(tinyi_grad_twist), KERNELS(tinyi_twist_kernels),
    SAYS("y = s a^2 / sum of the trivial where a <= t max a, else a"));
TINYI_ROW tinyi_row_twist_backward = TINYI_ROW_OF("twist_backward", TINY_OP_TWIST_BACKWARD, TAKES(3, 2), GIVES(2),
    PARAMS(tiny_twist_params), FLAGS(TINY_OP_F64),
    SHAPE(tinyi_twist_backward_shape), REFERENCE(tinyi_twist_backward_ref),
    FAST(tinyi_twist_backward_fast, tinyi_twist_backward_work), COST(tinyi_twist_backward_cost),
    CASES(tinyi_twist_backward_cases), BOUND(TINY_BOUND_NORM, 32, 1.25), TERMS(tinyi_twist_terms), GRADIENT(NULL),
    KERNELS(tinyi_twist_backward_kernels),
    SAYS("da = s (2 a dy / D - Q / D^2) where a <= t max a, else dy; ds = Q / D; Q = sum dy a^2, D = sum a of these"));

TINY_API tiny_status tiny_twist(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *s,
                                const tiny_twist_params *params, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_TWIST, a, s, params, y);
}

TINY_API tiny_status tiny_twist_backward(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *dy,
                                         const tiny_tensor *s, const tiny_twist_params *params, const tiny_tensor *d_a,
                                         const tiny_tensor *d_s)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_TWIST_BACKWARD;
    op.in[0] = a; op.in[1] = dy; op.in[2] = s;
    op.out[0] = d_a; op.out[1] = d_s;
    op.params = params;
    return tiny_run(ctx, &op);
}

tiny_status tinyi_grad_twisted(tiny_grad *g, const tiny_tensor *a, const tiny_tensor *dy, const tiny_tensor *s,
                               const tiny_twist_params *params, tiny_tensor *d_a, tiny_tensor *d_s)
{
    static const tiny_reduce_params all = { 0, 1, 0 };
    tiny_idx dim[TINY_MAX_RANK];
    tiny_tensor rows, sum;
    tiny_op op;
    tiny_status st = tiny_grad_new(g, a->dtype, a->rank, a->dim, d_a);
    memcpy(dim, a->dim, sizeof dim);
    dim[a->rank - 1] = 1;
    if (!st) st = tiny_grad_new(g, a->dtype, a->rank, dim, &rows);
    if (st) return st;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_TWIST_BACKWARD;
    op.in[0] = a; op.in[1] = dy; op.in[2] = s;
    op.out[0] = d_a; op.out[1] = &rows;
    op.params = params;
    st = tiny_grad_op(g, &op);
    if (st || !s) return st;
    st = tiny_grad_run(g, TINY_OP_SUM, &rows, NULL, &all, &sum);
    *d_s = *s;                              /* one number, under the shape that s has */
    d_s->data = sum.data;
    return st;
}

tiny_status tinyi_grad_twist(tiny_grad *g, const tiny_op *op)
{
    tiny_tensor da, ds;
    tiny_status st = tinyi_grad_twisted(g, op->in[0], tiny_grad_of(g, 0), op->in[1],
                                        (const tiny_twist_params *)op->params, &da, &ds);
    if (!st) st = tiny_grad_add(g, 0, &da);
    return st || !op->in[1] ? st : tiny_grad_add(g, 1, &ds);
}
