/* src/math/binary.c - sums, products, and what else takes two numbers to one
 * Formula  y[i] = a[i] op b[i]; scale: y[i] = alpha x[i] + beta; axpy: y[i] = y[i] + alpha x[i], each step rounded.
 * Data     any strides. Axes are sorted by the stride of y and joined where all three tensors allow it, so that dense
 *          tensors are one row, whatever their rank; rows that are not dense go through a buffer on the stack.
 * Cost     one flop and 12 bytes an element: memory decides.
 * Error    none: the same bits as the reference, on every target.                                                      */
#include <string.h>
#include "math/table.h"
#include "math/rows.h"

#define TINYI_BINARY_PIECE 32768            /* elements handed to a thread at once: some twenty microseconds */
#define TINYI_BINARY_BUFFER 256

static const tiny_scale_params *tinyi_binary_line(const tiny_op *op)
{
    static const tiny_scale_params none = { 0.0f, 0.0f };
    return op->params ? (const tiny_scale_params *)op->params : &none;
}

/* ---- shapes and cost */

static tiny_status tinyi_binary_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    tiny_idx dim[TINY_MAX_RANK];
    int i, rank = a->rank, behind_a, behind_b;
    if (a->dtype != TINY_F32 || (b && b->dtype != TINY_F32))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: the inputs must be f32, not %s", tiny_op_row_of(op->kind)->name,
                          tiny_dtype_name(a->dtype != TINY_F32 ? a->dtype : b->dtype));
    if (!b) {
        tinyi_want(&want[0], TINY_F32, rank, a->dim);
        return TINY_OK;
    }
    if (b->rank > rank) rank = b->rank;
    behind_a = rank - a->rank;
    behind_b = rank - b->rank;
    for (i = 0; i < rank; i++) {
        tiny_idx da = i < behind_a ? 1 : a->dim[i - behind_a], db = i < behind_b ? 1 : b->dim[i - behind_b];
        if (da != db && da != 1 && db != 1) {
            char ta[96], tb[96];
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s and %s do not fit together: axis %d has %td and %td values", tiny_op_row_of(op->kind)->name,
                              tinyi_shape_text(a, ta), tinyi_shape_text(b, tb), i, da, db);
        }
        dim[i] = da == 1 ? db : da;
    }
    tinyi_want(&want[0], TINY_F32, rank, dim);
    return TINY_OK;
}

static tiny_status tinyi_scale_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0];
    if (x->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: x must be f32, not %s", tiny_op_row_of(op->kind)->name, tiny_dtype_name(x->dtype));
    tinyi_want(&want[0], TINY_F32, x->rank, x->dim);
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
static float tinyi_binary_one(int kind, float a, float b)
{
    float y;
    switch (kind) {
    case TINY_OP_ADD: y = a + b; break;
    case TINY_OP_SUB: y = a - b; break;
    case TINY_OP_MUL: y = a * b; break;
    case TINY_OP_DIV: y = a / b; break;
    case TINY_OP_MINIMUM: y = a != a ? a : a < b ? a : b; break;
    default: y = a != a ? a : a > b ? a : b; break;
    }
    return y != y ? tinyi_bits_f32(0x7fc00000u) : y;
}

/* Offset of element i of y, in row-major order, in a tensor whose axes of length 1 (or absent ones) are repeated. */
static tiny_idx tinyi_binary_at(const tiny_tensor *t, const tiny_tensor *y, tiny_idx i)
{
    tiny_idx at = 0;
    int k, behind = y->rank - t->rank;
    for (k = y->rank - 1; k >= 0; k--) {
        if (k >= behind && t->dim[k - behind] != 1) at += i % y->dim[k] * t->stride[k - behind];
        i /= y->dim[k];
    }
    return at;
}

static void tinyi_binary_ref(const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];
    float value = op->params ? ((const tiny_binary_params *)op->params)->value : 0.0f;
    tiny_idx i, n = tiny_tensor_count(y);
    for (i = 0; i < n; i++) {
        float p = ((const float *)a->data)[tinyi_binary_at(a, y, i)];
        float q = b ? ((const float *)b->data)[tinyi_binary_at(b, y, i)] : value;
        ((float *)y->data)[tinyi_binary_at(y, y, i)] = tinyi_binary_one(op->kind, p, q);
    }
}

static void tinyi_scale_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tiny_scale_params *p = tinyi_binary_line(op);
    tiny_idx i, n = tiny_tensor_count(y);
    for (i = 0; i < n; i++) {
        float *to = (float *)y->data + tinyi_binary_at(y, y, i);
        float product = p->alpha * ((const float *)x->data)[tinyi_binary_at(x, y, i)];
        float sum = op->kind == TINY_OP_AXPY ? *to + product : product + p->beta;
        *to = sum != sum ? tinyi_bits_f32(0x7fc00000u) : sum;
    }
}
TINY_REF_END

/* ---- fast */

/* Axes from the innermost outwards; y, a, b: strides. */
typedef struct tinyi_binary_walk {
    int rank;
    tiny_idx dim[TINY_MAX_RANK], y[TINY_MAX_RANK], a[TINY_MAX_RANK], b[TINY_MAX_RANK];
    const float *pa, *pb;
    float *py;
} tinyi_binary_walk;

TINYI_INLINE tiny_idx tinyi_binary_stride(const tiny_tensor *t, int axis) { return axis < 0 || t->dim[axis] == 1 ? 0 : t->stride[axis]; }
TINYI_INLINE tiny_idx tinyi_binary_size(tiny_idx stride) { return stride < 0 ? -stride : stride; }

/* b may be NULL: then value, once. */
static void tinyi_binary_plan(tinyi_binary_walk *w, const tiny_tensor *y, const tiny_tensor *a, const tiny_tensor *b, const float *value)
{
    int i, k, n = 0;
    w->py = (float *)y->data;
    w->pa = (const float *)a->data;
    w->pb = b ? (const float *)b->data : value;
    for (i = y->rank - 1; i >= 0; i--) {
        tiny_idx d = y->dim[i], sy = y->stride[i], sa = tinyi_binary_stride(a, i - y->rank + a->rank), sb = b ? tinyi_binary_stride(b, i - y->rank + b->rank) : 0;
        if (d == 1) continue;
        for (k = n++; k > 0 && tinyi_binary_size(w->y[k - 1]) > tinyi_binary_size(sy); k--) {
            w->dim[k] = w->dim[k - 1]; w->y[k] = w->y[k - 1]; w->a[k] = w->a[k - 1]; w->b[k] = w->b[k - 1];
        }
        w->dim[k] = d; w->y[k] = sy; w->a[k] = sa; w->b[k] = sb;
    }
    if (n == 0) {
        w->dim[0] = 1;
        w->y[0] = w->a[0] = w->b[0] = 1;
        n = 1;
    }
    for (i = 1, k = 0; i < n; i++) {
        if (w->y[i] == w->y[k] * w->dim[k] && w->a[i] == w->a[k] * w->dim[k] && w->b[i] == w->b[k] * w->dim[k]) {
            w->dim[k] *= w->dim[i];
            continue;
        }
        k++;
        w->dim[k] = w->dim[i]; w->y[k] = w->y[i]; w->a[k] = w->a[i]; w->b[k] = w->b[i];
    }
    w->rank = k + 1;
}

typedef struct tinyi_binary_job {
    int f;
    float alpha, beta;
    tinyi_fn_binary_f32 binary;
    tinyi_fn_scale_f32 scale;
    tinyi_fn_axpy_f32 axpy;
} tinyi_binary_job;

static void tinyi_binary_dense(const tinyi_binary_job *j, float *y, const float *a, const float *b, tiny_idx n, tiny_idx sa, tiny_idx sb)
{
    if (j->f == TINYI_BINARY_SCALE) j->scale(y, a, (size_t)n, j->alpha, j->beta);
    else if (j->f == TINYI_BINARY_AXPY) j->axpy(y, a, (size_t)n, j->alpha);
    else j->binary(j->f, y, a, b, (size_t)n, sa, sb);
}

/* n elements of the innermost axis */
static void tinyi_binary_piece(const tinyi_binary_job *j, const tinyi_binary_walk *w, float *y, const float *a, const float *b, tiny_idx n)
{
    float ba[TINYI_BINARY_BUFFER], bb[TINYI_BINARY_BUFFER], by[TINYI_BINARY_BUFFER];
    tiny_idx sy = w->y[0], sa = w->a[0], sb = w->b[0], m;
    int fits = (sa == 1 || (sa == 0 && j->f < TINYI_BINARY_SCALE)) && (sb == 1 || sb == 0);
    if (sy == 1 && fits) {
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

static void tinyi_binary_walk_all(tiny_team *team, const tinyi_binary_job *j, const tinyi_binary_walk *w)
{
    tiny_idx n = w->dim[0], outer = 1, pieces, u, u0, u1, length;
    int i;
    for (i = 1; i < w->rank; i++) outer *= w->dim[i];
    if (n == 0 || outer == 0) return;
    if (w->rank == 1 && team->n == 1 && n <= TINYI_BINARY_PIECE) {
        tinyi_binary_piece(j, w, w->py, w->pa, w->pb, n);
        return;
    }
    pieces = (n - 1) / TINYI_BINARY_PIECE + 1;
    length = TINYI_MIN(n, TINYI_BINARY_PIECE);
    while (tiny_take(team, outer * pieces, TINYI_BINARY_PIECE / length, &u0, &u1)) {
        tiny_idx at[TINY_MAX_RANK], first = u0 % pieces * TINYI_BINARY_PIECE, row = u0 / pieces, y = 0, a = 0, b = 0;
        for (i = 1; i < w->rank; i++) {
            at[i] = row % w->dim[i];
            row /= w->dim[i];
            y += at[i] * w->y[i];
            a += at[i] * w->a[i];
            b += at[i] * w->b[i];
        }
        for (u = u0; u < u1; u++) {
            tinyi_binary_piece(j, w, w->py + y + first * w->y[0], w->pa + a + first * w->a[0], w->pb + b + first * w->b[0],
                               TINYI_MIN(n - first, TINYI_BINARY_PIECE));
            first += TINYI_BINARY_PIECE;
            if (first < n) continue;
            first = 0;
            for (i = 1; i < w->rank; i++) {     /* the next row, as an odometer */
                y += w->y[i]; a += w->a[i]; b += w->b[i];
                if (++at[i] < w->dim[i]) break;
                at[i] = 0;
                y -= w->y[i] * w->dim[i]; a -= w->a[i] * w->dim[i]; b -= w->b[i] * w->dim[i];
            }
        }
    }
}

static void tinyi_binary_fast(tiny_team *team, const tiny_op *op)
{
    static const tiny_binary_params none = { 0.0f };
    const tiny_binary_params *p = op->params ? (const tiny_binary_params *)op->params : &none;
    tinyi_binary_job j;
    tinyi_binary_walk w;
    memset(&j, 0, sizeof j);
    j.f = op->kind - TINY_OP_ADD;
    j.binary = TINYI_K(team, binary_f32);
    tinyi_binary_plan(&w, op->out[0], op->in[0], op->in[1], &p->value);
    tinyi_binary_walk_all(team, &j, &w);
}

static void tinyi_scale_fast(tiny_team *team, const tiny_op *op)
{
    static const float zero = 0.0f;
    const tiny_scale_params *p = tinyi_binary_line(op);
    tinyi_binary_job j;
    tinyi_binary_walk w;
    memset(&j, 0, sizeof j);
    j.alpha = p->alpha;
    j.beta = p->beta;
    j.f = op->kind == TINY_OP_AXPY ? TINYI_BINARY_AXPY : TINYI_BINARY_SCALE;
    if (j.f == TINYI_BINARY_AXPY) j.axpy = TINYI_K(team, axpy_f32);
    else j.scale = TINYI_K(team, scale_f32);
    tinyi_binary_plan(&w, op->out[0], op->in[0], NULL, &zero);
    tinyi_binary_walk_all(team, &j, &w);
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

TINYI_ROW tinyi_row_add = { "add", TINY_OP_ADD, 2, 1, 1, sizeof(tiny_binary_params), TINY_OP_INPLACE | TINY_OP_INPLACE_1,
    tinyi_binary_shape, tinyi_binary_ref, tinyi_binary_fast, NULL, tinyi_binary_cost, tinyi_binary_cases, { TINY_BOUND_EXACT, 0, 0 },
    NULL, NULL, NULL, tinyi_kernels_of_binary, "y = a + b" };
TINYI_ROW tinyi_row_sub = { "sub", TINY_OP_SUB, 2, 1, 1, sizeof(tiny_binary_params), TINY_OP_INPLACE | TINY_OP_INPLACE_1,
    tinyi_binary_shape, tinyi_binary_ref, tinyi_binary_fast, NULL, tinyi_binary_cost, tinyi_binary_cases, { TINY_BOUND_EXACT, 0, 0 },
    NULL, NULL, NULL, tinyi_kernels_of_binary, "y = a - b" };
TINYI_ROW tinyi_row_mul = { "mul", TINY_OP_MUL, 2, 1, 1, sizeof(tiny_binary_params), TINY_OP_INPLACE | TINY_OP_INPLACE_1,
    tinyi_binary_shape, tinyi_binary_ref, tinyi_binary_fast, NULL, tinyi_binary_cost, tinyi_binary_cases, { TINY_BOUND_EXACT, 0, 0 },
    NULL, NULL, NULL, tinyi_kernels_of_binary, "y = a * b" };
TINYI_ROW tinyi_row_div = { "div", TINY_OP_DIV, 2, 1, 1, sizeof(tiny_binary_params), TINY_OP_INPLACE | TINY_OP_INPLACE_1,
    tinyi_binary_shape, tinyi_binary_ref, tinyi_binary_fast, NULL, tinyi_binary_cost, tinyi_binary_cases, { TINY_BOUND_EXACT, 0, 0 },
    NULL, NULL, NULL, tinyi_kernels_of_binary, "y = a / b" };
TINYI_ROW tinyi_row_minimum = { "minimum", TINY_OP_MINIMUM, 2, 1, 1, sizeof(tiny_binary_params), TINY_OP_INPLACE | TINY_OP_INPLACE_1,
    tinyi_binary_shape, tinyi_binary_ref, tinyi_binary_fast, NULL, tinyi_binary_cost, tinyi_binary_cases, { TINY_BOUND_EXACT, 0, 0 },
    NULL, NULL, NULL, tinyi_kernels_of_binary, "y = min(a, b), NaN where one is" };
TINYI_ROW tinyi_row_maximum = { "maximum", TINY_OP_MAXIMUM, 2, 1, 1, sizeof(tiny_binary_params), TINY_OP_INPLACE | TINY_OP_INPLACE_1,
    tinyi_binary_shape, tinyi_binary_ref, tinyi_binary_fast, NULL, tinyi_binary_cost, tinyi_binary_cases, { TINY_BOUND_EXACT, 0, 0 },
    NULL, NULL, NULL, tinyi_kernels_of_binary, "y = max(a, b), NaN where one is" };
TINYI_ROW tinyi_row_scale = { "scale", TINY_OP_SCALE, 1, 1, 1, sizeof(tiny_scale_params), TINY_OP_INPLACE,
    tinyi_scale_shape, tinyi_scale_ref, tinyi_scale_fast, NULL, tinyi_binary_cost, tinyi_scale_cases, { TINY_BOUND_EXACT, 0, 0 },
    NULL, NULL, NULL, tinyi_kernels_of_scale, "y = alpha x + beta" };
TINYI_ROW tinyi_row_axpy = { "axpy", TINY_OP_AXPY, 1, 1, 1, sizeof(tiny_scale_params), TINY_OP_ACCUMULATES,
    tinyi_scale_shape, tinyi_scale_ref, tinyi_scale_fast, NULL, tinyi_binary_cost, tinyi_scale_cases, { TINY_BOUND_EXACT, 0, 0 },
    NULL, NULL, NULL, tinyi_kernels_of_axpy, "y = y + alpha x" };

/* ---- typed calls */

static tiny_status tinyi_binary_call(tiny_ctx *ctx, int kind, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.in[0] = a;
    op.in[1] = b;
    op.out[0] = y;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tiny_add(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y) { return tinyi_binary_call(ctx, TINY_OP_ADD, a, b, y); }
TINY_API tiny_status tiny_sub(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y) { return tinyi_binary_call(ctx, TINY_OP_SUB, a, b, y); }
TINY_API tiny_status tiny_mul(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y) { return tinyi_binary_call(ctx, TINY_OP_MUL, a, b, y); }
TINY_API tiny_status tiny_div(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y) { return tinyi_binary_call(ctx, TINY_OP_DIV, a, b, y); }
TINY_API tiny_status tiny_minimum(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y) { return tinyi_binary_call(ctx, TINY_OP_MINIMUM, a, b, y); }
TINY_API tiny_status tiny_maximum(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y) { return tinyi_binary_call(ctx, TINY_OP_MAXIMUM, a, b, y); }

TINY_API tiny_status tiny_scale(tiny_ctx *ctx, const tiny_tensor *x, float alpha, float beta, const tiny_tensor *y)
{
    tiny_scale_params p;
    tiny_op op;
    memset(&op, 0, sizeof op);
    p.alpha = alpha;
    p.beta = beta;
    op.kind = TINY_OP_SCALE;
    op.in[0] = x;
    op.out[0] = y;
    op.params = &p;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tiny_axpy(tiny_ctx *ctx, const tiny_tensor *x, float alpha, const tiny_tensor *y)
{
    tiny_scale_params p;
    tiny_op op;
    memset(&op, 0, sizeof op);
    p.alpha = alpha;
    p.beta = 0.0f;
    op.kind = TINY_OP_AXPY;
    op.in[0] = x;
    op.out[0] = y;
    op.params = &p;
    return tiny_run(ctx, &op);
}
