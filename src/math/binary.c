/* src/math/binary.c - element-wise arithmetic on one or two tensors
 * Formula  y[i] = a[i] op b[i]; scale: y[i] = alpha x[i] + beta; axpy: y[i] = y[i] + alpha x[i], each step rounded.
 * Data     any strides, in the order of the memory of y (math/walk_inside.h); runs that are not dense go through a
 *          buffer on the stack.
 * Cost     one flop and 12 bytes an element: memory-bound.
 * Error    none: the same bits as the reference, on every target. */
#include <string.h>
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/walk_inside.h"

#define TINYI_BINARY_PIECE 32768            /* elements handed to a thread at once: some twenty microseconds */
#define TINYI_BINARY_BUFFER 256

static const tiny_scale_params *tinyi_binary_line(const tiny_op *op)
{
    static const tiny_scale_params none = { 0.0f, 0.0f };
    return op->params ? (const tiny_scale_params *)op->params : &none;
}

/* t under the shape of y: a length of 1, or an absent axis, is repeated by stride 0. No t: one number for all. */
static tiny_tensor tinyi_binary_view(const tiny_tensor *t, const tiny_tensor *y, const float *value)
{
    tiny_tensor v = *y;
    int i;
    v.data = t ? t->data : (void *)(uintptr_t)value;
    for (i = 0; i < y->rank; i++) {
        int own = t ? i - y->rank + t->rank : -1;
        v.stride[i] = own < 0 || t->dim[own] == 1 ? 0 : t->stride[own];
    }
    return v;
}

/* ---- shapes and cost */

static TINYI_NOINLINE tiny_status tinyi_binary_shape_of(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    tiny_idx dim[TINY_MAX_RANK];
    int i, rank = a->rank, behind_a, behind_b;
    if (!tinyi_is_real(a) || (b && b->dtype != a->dtype))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: the inputs must be f32, or f64, not %s", tinyi_op_row(op)->name,
                          tiny_dtype_name(!tinyi_is_real(a) ? a->dtype : b->dtype));
    if (!b) {
        tinyi_want(&want[0], a->dtype, rank, a->dim);
        return TINY_OK;
    }
    if (b->rank > rank) rank = b->rank;
    behind_a = rank - a->rank;
    behind_b = rank - b->rank;
    for (i = 0; i < rank; i++) {
        tiny_idx da = i < behind_a ? 1 : a->dim[i - behind_a], db = i < behind_b ? 1 : b->dim[i - behind_b];
        if (da != db && da != 1 && db != 1) {
            char ta[96], tb[96];
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s and %s do not fit together: axis %d has %td and %td values",
                              tinyi_op_row(op)->name, tinyi_shape_text(a, ta), tinyi_shape_text(b, tb), i, da, db);
        }
        dim[i] = da == 1 ? db : da;
    }
    tinyi_want(&want[0], a->dtype, rank, dim);
    return TINY_OK;
}

/* two of one shape, the usual case, first */
static tiny_status tinyi_binary_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    int i;
    if (!b || !tinyi_is_real(a) || a->dtype != b->dtype || a->rank != b->rank)
        return tinyi_binary_shape_of(ctx, op, want);
    want->dtype = a->dtype;
    want->rank = a->rank;
    for (i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i]) return tinyi_binary_shape_of(ctx, op, want);
        want->dim[i] = a->dim[i];
    }
    return TINY_OK;
}

static tiny_status tinyi_scale_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0];
    if (!tinyi_is_real(x))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: x must be f32 or f64, not %s", tinyi_op_row(op)->name,
                          tiny_dtype_name(x->dtype));
    tinyi_want(&want[0], x->dtype, x->rank, x->dim);
    return TINY_OK;
}

static void tinyi_binary_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->out[0]);
    cost->flops = n;
    cost->bytes = 12.0 * n;
}

/* ---- reference */

TINY_REF_BEGIN
/* In double: rounded to float once more, a sum, product or quotient of two floats is the float that one rounding
 * gives. */
static double tinyi_binary_one(int kind, double a, double b)
{
    switch (kind) {
    case TINY_OP_ADD: return a + b;
    case TINY_OP_SUB: return a - b;
    case TINY_OP_MUL: return a * b;
    case TINY_OP_DIV: return a / b;
    case TINY_OP_MINIMUM: return a != a ? a : a < b ? a : b;
    default: return a != a ? a : a > b ? a : b;
    }
}

static double tinyi_binary_at(const tiny_tensor *t, tiny_idx i)
{
    return tinyi_real(t->data, t->dtype, tinyi_walk_element(t, i));
}

static void tinyi_binary_ref(const tiny_op *op)
{
    const tiny_tensor *y = op->out[0];
    const float value = op->params ? ((const tiny_binary_params *)op->params)->value : 0.0f;
    const tiny_tensor a = tinyi_binary_view(op->in[0], y, NULL), b = tinyi_binary_view(op->in[1], y, &value);
    tiny_idx i, n = tiny_tensor_count(y);
    for (i = 0; i < n; i++)
        tinyi_real_set(
            y->data, y->dtype, tinyi_walk_element(y, i),
            tinyi_binary_one(op->kind, tinyi_binary_at(&a, i), op->in[1] ? tinyi_binary_at(&b, i) : (double)value));
}

static void tinyi_scale_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tiny_scale_params *p = tinyi_binary_line(op);
    tiny_idx i, n = tiny_tensor_count(y);
    for (i = 0; i < n; i++) {
        double product = (double)p->alpha * tinyi_binary_at(x, i);
        if (y->dtype != TINY_F64) product = (double)(float)product;     /* each step is rounded */
        tinyi_real_set(y->data, y->dtype, tinyi_walk_element(y, i),
                       op->kind == TINY_OP_AXPY ? tinyi_binary_at(y, i) + product : product + (double)p->beta);
    }
}
TINY_REF_END

/* ---- fast */

typedef struct tinyi_binary_job {
    int f;
    float alpha, beta;
    tinyi_fn_binary_f32 binary;
    tinyi_fn_scale_f32 scale;
    tinyi_fn_axpy_f32 axpy;
} tinyi_binary_job;

static void tinyi_binary_dense(const tinyi_binary_job *j, float *y, const float *a, const float *b, tiny_idx n,
                               tiny_idx sa, tiny_idx sb)
{
    if (j->f == TINYI_BINARY_SCALE) j->scale(y, a, (size_t)n, j->alpha, j->beta);
    else if (j->f == TINYI_BINARY_AXPY) j->axpy(y, a, (size_t)n, j->alpha);
    else j->binary(j->f, y, a, b, (size_t)n, sa, sb);
}

/* n elements that lie sy, sa and sb apart */
static void tinyi_binary_run(const tinyi_binary_job *j, float *y, tiny_idx sy, const float *a, tiny_idx sa,
                             const float *b, tiny_idx sb, tiny_idx n)
{
    float ba[TINYI_BINARY_BUFFER], bb[TINYI_BINARY_BUFFER], by[TINYI_BINARY_BUFFER];
    tiny_idx m;
    if (sy == 1 && (sa == 1 || (sa == 0 && j->f < TINYI_BINARY_SCALE)) && (sb == 1 || sb == 0)) {
        tinyi_binary_dense(j, y, a, b, n, sa, sb);
        return;
    }
    for (; n > 0; n -= m, y += m * sy, a += m * sa, b += m * sb) {
        m = TINYI_MIN(n, TINYI_BINARY_BUFFER);
        tinyi_row_gather(ba, a, m, sa);
        tinyi_row_gather(bb, b, m, sb);
        if (j->f == TINYI_BINARY_AXPY) tinyi_row_gather(by, y, m, sy);
        tinyi_binary_dense(j, by, ba, bb, m, 1, 1);
        tinyi_row_scatter(y, by, m, sy);
    }
}

static void tinyi_binary_walk(tiny_team *team, const tinyi_binary_job *j, const tiny_tensor *y, const tiny_tensor *a,
                              const tiny_tensor *b, const float *value)
{
    const tiny_tensor va = tinyi_binary_view(a, y, NULL), vb = tinyi_binary_view(b, y, value);
    const tiny_tensor *t[3];
    const tiny_idx size = (tiny_idx)sizeof(float);
    tinyi_walk w;
    tinyi_walk_at at;
    tiny_idx i0, i1;
    t[0] = y;
    t[1] = &va;
    t[2] = &vb;
    tinyi_walk_plan(&w, t, 3);
    while (tiny_take(team, w.total, TINYI_BINARY_PIECE, &i0, &i1))
        for (tinyi_walk_seek(&w, &at, i0, i1); at.run; tinyi_walk_next(&w, &at))
            tinyi_binary_run(j, (float *)(void *)at.p[0], w.step[0] / size, (const float *)(const void *)at.p[1],
                             w.step[1] / size, (const float *)(const void *)at.p[2], w.step[2] / size, at.run);
}

static int tinyi_binary_is_row(const tiny_tensor *t, const tiny_tensor *y)
{
    return t->rank == 1 && t->stride[0] == 1 && t->dim[0] == y->dim[0];
}

static TINYI_NOINLINE void tinyi_binary_any(tiny_team *team, const tiny_op *op)
{
    static const tiny_binary_params none = { 0.0f };
    const tiny_binary_params *p = op->params ? (const tiny_binary_params *)op->params : &none;
    tinyi_binary_job j;
    memset(&j, 0, sizeof j);
    j.f = op->kind - TINY_OP_ADD;
    j.binary = TINYI_K(team, binary_f32);
    tinyi_binary_walk(team, &j, op->out[0], op->in[0], op->in[1], &p->value);
}

static void tinyi_binary_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];
    if (b && y->rank == 1 && tinyi_binary_is_row(a, y) && tinyi_binary_is_row(b, y) && tinyi_binary_is_row(y, y) &&
        team->n == 1 && y->dim[0] <= TINYI_BINARY_PIECE)
        TINYI_K(team, binary_f32)
        (op->kind - TINY_OP_ADD, (float *)y->data, (const float *)a->data, (const float *)b->data, (size_t)y->dim[0], 1,
         1); /* short: planning would take longer */
    else tinyi_binary_any(team, op);
}

static void tinyi_scale_fast(tiny_team *team, const tiny_op *op)
{
    static const float zero = 0.0f;
    const tiny_scale_params *p = tinyi_binary_line(op);
    tinyi_binary_job j;
    memset(&j, 0, sizeof j);
    j.alpha = p->alpha;
    j.beta = p->beta;
    j.f = op->kind == TINY_OP_AXPY ? TINYI_BINARY_AXPY : TINYI_BINARY_SCALE;
    if (j.f == TINYI_BINARY_AXPY) j.axpy = TINYI_K(team, axpy_f32);
    else j.scale = TINYI_K(team, scale_f32);
    tinyi_binary_walk(team, &j, op->out[0], op->in[0], NULL, &zero);
}

/* ---- cases */

static void tinyi_binary_cases(tiny_case *c)
{
    int rank = c->index == 0 ? 1 : tiny_case_pick(c, TINY_MAX_RANK) + 1, form = tiny_case_pick(c, 5), i;
    tiny_binary_params p;
    c->in[0].rank = c->in[1].rank = rank;
    for (i = 0; i < rank; i++) {
        tiny_idx d = tiny_case_dim(c, i == rank - 1 ? rank == 1 ? 40000 : 300 : 5);
        c->in[0].dim[i] = c->in[1].dim[i] = d;
        if (form == 2 && tiny_case_pick(c, 2)) c->in[tiny_case_pick(c, 2)].dim[i] = 1;
    }
    if (form == 3) {                        /* a row for all rows */
        c->in[1].rank = 1;
        c->in[1].dim[0] = c->in[0].dim[rank - 1];
    }
    if (form == 4) {
        p.value = tiny_rng_normal(&c->rng);
        memcpy(c->params.bytes, &p, sizeof p);
        c->in[1].rank = -1;
    }
}

static void tinyi_scale_cases(tiny_case *c)
{
    int rank = c->index == 0 ? 1 : tiny_case_pick(c, TINY_MAX_RANK) + 1, i;
    tiny_scale_params p;
    c->in[0].rank = rank;
    for (i = 0; i < rank; i++) c->in[0].dim[i] = tiny_case_dim(c, i == rank - 1 ? rank == 1 ? 40000 : 300 : 5);
    p.alpha = tiny_rng_normal(&c->rng);
    p.beta = tiny_case_pick(c, 2) ? tiny_rng_normal(&c->rng) : 0.0f;
    memcpy(c->params.bytes, &p, sizeof p);
}

/* ---- rows */

static const short tinyi_kernels_of_binary[] = { TINYI_K_binary_f32, -1 };
static const short tinyi_kernels_of_scale[] = { TINYI_K_scale_f32, -1 };
static const short tinyi_kernels_of_axpy[] = { TINYI_K_axpy_f32, -1 };

TINYI_ROW tinyi_row_add = TINYI_ROW_OF("add", TINY_OP_ADD, TAKES(2, 1), GIVES(1), PARAMS(tiny_binary_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_binary_shape), REFERENCE(tinyi_binary_ref), FAST(tinyi_binary_fast, NULL), COST(tinyi_binary_cost),
    CASES(tinyi_binary_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_binary),
    KERNELS(tinyi_kernels_of_binary), SAYS("y = a + b"));
TINYI_ROW tinyi_row_sub = TINYI_ROW_OF("sub", TINY_OP_SUB, TAKES(2, 1), GIVES(1), PARAMS(tiny_binary_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_binary_shape), REFERENCE(tinyi_binary_ref), FAST(tinyi_binary_fast, NULL), COST(tinyi_binary_cost),
    CASES(tinyi_binary_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_binary),
    KERNELS(tinyi_kernels_of_binary), SAYS("y = a - b"));
TINYI_ROW tinyi_row_mul = TINYI_ROW_OF("mul", TINY_OP_MUL, TAKES(2, 1), GIVES(1), PARAMS(tiny_binary_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_binary_shape), REFERENCE(tinyi_binary_ref), FAST(tinyi_binary_fast, NULL), COST(tinyi_binary_cost),
    CASES(tinyi_binary_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_binary),
    KERNELS(tinyi_kernels_of_binary), SAYS("y = a * b"));
TINYI_ROW tinyi_row_div = TINYI_ROW_OF("div", TINY_OP_DIV, TAKES(2, 1), GIVES(1), PARAMS(tiny_binary_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_binary_shape), REFERENCE(tinyi_binary_ref), FAST(tinyi_binary_fast, NULL), COST(tinyi_binary_cost),
    CASES(tinyi_binary_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_binary),
    KERNELS(tinyi_kernels_of_binary), SAYS("y = a / b"));
TINYI_ROW tinyi_row_minimum = TINYI_ROW_OF("minimum", TINY_OP_MINIMUM, TAKES(2, 1), GIVES(1),
    PARAMS(tiny_binary_params), FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_binary_shape), REFERENCE(tinyi_binary_ref), FAST(tinyi_binary_fast, NULL), COST(tinyi_binary_cost),
    CASES(tinyi_binary_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_binary),
    KERNELS(tinyi_kernels_of_binary), SAYS("y = min(a, b), NaN where one is"));
TINYI_ROW tinyi_row_maximum = TINYI_ROW_OF("maximum", TINY_OP_MAXIMUM, TAKES(2, 1), GIVES(1),
    PARAMS(tiny_binary_params), FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_binary_shape), REFERENCE(tinyi_binary_ref), FAST(tinyi_binary_fast, NULL), COST(tinyi_binary_cost),
    CASES(tinyi_binary_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_binary),
    KERNELS(tinyi_kernels_of_binary), SAYS("y = max(a, b), NaN where one is"));
TINYI_ROW tinyi_row_scale = TINYI_ROW_OF("scale", TINY_OP_SCALE, TAKES(1, 1), GIVES(1), PARAMS(tiny_scale_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_scale_shape), REFERENCE(tinyi_scale_ref), FAST(tinyi_scale_fast, NULL), COST(tinyi_binary_cost),
    CASES(tinyi_scale_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_binary),
    KERNELS(tinyi_kernels_of_scale), SAYS("y = alpha x + beta"));
TINYI_ROW tinyi_row_axpy = TINYI_ROW_OF("axpy", TINY_OP_AXPY, TAKES(1, 1), GIVES(1), PARAMS(tiny_scale_params),
    FLAGS(TINY_OP_ACCUMULATES | TINY_OP_F64),
    SHAPE(tinyi_scale_shape), REFERENCE(tinyi_scale_ref), FAST(tinyi_scale_fast, NULL), COST(tinyi_binary_cost),
    CASES(tinyi_scale_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_binary),
    KERNELS(tinyi_kernels_of_axpy), SAYS("y = y + alpha x"));

/* ---- typed calls */

TINY_API tiny_status tiny_add(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_ADD, a, b, NULL, y);
}
TINY_API tiny_status tiny_sub(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_SUB, a, b, NULL, y);
}
TINY_API tiny_status tiny_mul(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_MUL, a, b, NULL, y);
}
TINY_API tiny_status tiny_div(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_DIV, a, b, NULL, y);
}
TINY_API tiny_status tiny_minimum(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_MINIMUM, a, b, NULL, y);
}
TINY_API tiny_status tiny_maximum(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_MAXIMUM, a, b, NULL, y);
}

TINY_API tiny_status tiny_scale(tiny_ctx *ctx, const tiny_tensor *x, float alpha, float beta, const tiny_tensor *y)
{
    tiny_scale_params p;
    p.alpha = alpha;
    p.beta = beta;
    return tinyi_call(ctx, TINY_OP_SCALE, x, NULL, &p, y);
}

TINY_API tiny_status tiny_axpy(tiny_ctx *ctx, const tiny_tensor *x, float alpha, const tiny_tensor *y)
{
    tiny_scale_params p;
    p.alpha = alpha;
    p.beta = 0.0f;
    return tinyi_call(ctx, TINY_OP_AXPY, x, NULL, &p, y);
}
