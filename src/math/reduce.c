/* src/math/reduce.c - sums, extremes and scalar products along an axis
 * Formula  sum x, sum x / n, sum x^2, sum a b, max x, min x, the index of max x, log sum e^x
 * Data     any strides. The axes that are summed are joined to as few runs as the strides allow. A run of stride 1 is
 *          read in place; other runs are gathered block by block. If the reduced axis is not dense but another axis is,
 *          columns are summed side by side instead: 1024 at a time, with their sums in the first-level cache.
 * Cost     one or two flops and 4 (dot: 8) bytes a value: memory-bound.
 * Error    Float inside a block of 4096 with four accumulators in each lane, double over the blocks and pieces. A value
 *          goes through at most n / 4 + 3 roundings, with n at most 4096 (columns: 256 + 1), and one at the end.
 *          LINEAR: (5 + n / 4) u. max, min, argmax: exact, but for the sign of a zero.
 *          logsumexp: the extended sum of math/softmax.c has a relative error of (n / 4 + 6) u, which is the absolute
 *          one of its logarithm, plus 2 u of the result. The result on |x| is at least ln 2 for n > 1, and exact for n
 *          = 1: LINEAR (10 + 0.4 n) u.
 *          Pieces and blocks do not depend on the number of threads, nor does the result. */
#include <string.h>
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"

#define TINYI_REDUCE_PIECE 32768            /* values of one result that a thread takes at once */
#define TINYI_REDUCE_FEW 64                 /* results below which long ones are cut in pieces */
#define TINYI_REDUCE_GATHER 1024
#define TINYI_REDUCE_TILE 1024              /* columns side by side: a page of each row */
#define TINYI_REDUCE_SOME 256               /* rows summed in float */

/* Axes of one set from the innermost outwards, joined where the strides allow; b: of the second factor. */
typedef struct tinyi_reduce_axes {
    int n;
    tiny_idx dim[TINY_MAX_RANK], x[TINY_MAX_RANK], b[TINY_MAX_RANK], y[TINY_MAX_RANK];
} tinyi_reduce_axes;

typedef struct tinyi_reduce_plan {
    int kind;
    tinyi_reduce_axes kept, gone;
    tiny_idx results, length;               /* how many; values in each */
    const float *x, *b;
    void *y;
    int columns;                            /* axis of kept that is dense while the reduced one is not; -1 */
    tiny_idx pieces, piece;                 /* of a result (columns: of rows), and their length */
} tinyi_reduce_plan;

static const tiny_reduce_params *tinyi_reduce_params_of(const tiny_op *op)
{
    static const tiny_reduce_params none = { 0, 0, 0 };
    return op->params ? (const tiny_reduce_params *)op->params : &none;
}

static void tinyi_reduce_push(tinyi_reduce_axes *a, tiny_idx dim, tiny_idx x, tiny_idx b, tiny_idx y, int join)
{
    int k = a->n - 1;
    if (dim == 1) return;
    if (join && k >= 0 && x == a->x[k] * a->dim[k] && b == a->b[k] * a->dim[k] && y == a->y[k] * a->dim[k]) {
        a->dim[k] *= dim;
        return;
    }
    k = a->n++;
    a->dim[k] = dim;
    a->x[k] = x;
    a->b[k] = b;
    a->y[k] = y;
}

static void tinyi_reduce_read(const tiny_op *op, tinyi_reduce_plan *p)
{
    const tiny_reduce_params *q = tinyi_reduce_params_of(op);
    const tiny_tensor *x = op->in[0], *b = op->kind == TINY_OP_DOT ? op->in[1] : x, *y = op->out[0];
    int i, at = y->rank - 1;
    memset(p, 0, sizeof *p);
    p->kind = op->kind;
    p->x = (const float *)x->data;
    p->b = (const float *)b->data;
    p->y = y->data;
    p->results = p->length = 1;
    for (i = x->rank - 1; i >= 0; i--) {
        int gone = q->all || i == x->rank - 1 - q->axis;
        if (gone) p->length *= x->dim[i];
        else p->results *= x->dim[i];
        tinyi_reduce_push(gone ? &p->gone : &p->kept, x->dim[i], x->stride[i], b->stride[i], gone ? 0 : y->stride[at],
                          1);
        if (!gone || q->keep) at--;
    }
    if (p->gone.n == 0) {
        p->gone.n = 1;
        p->gone.dim[0] = p->length;
        p->gone.x[0] = p->gone.b[0] = 1;
    }
}

/* Offsets of result r. */
static void tinyi_reduce_result(const tinyi_reduce_plan *p, tiny_idx r, tiny_idx *x, tiny_idx *b, tiny_idx *y)
{
    int i;
    *x = *b = *y = 0;
    for (i = 0; i < p->kept.n; i++) {
        tiny_idx k = r % p->kept.dim[i];
        r /= p->kept.dim[i];
        *x += k * p->kept.x[i];
        *b += k * p->kept.b[i];
        *y += k * p->kept.y[i];
    }
}

/* Offsets of value k of a result, from the result's own; the return is how many follow in the same run. */
static tiny_idx tinyi_reduce_value(const tinyi_reduce_plan *p, tiny_idx k, tiny_idx *x, tiny_idx *b)
{
    tiny_idx in_run = k % p->gone.dim[0], rest = k / p->gone.dim[0];
    int i;
    *x = in_run * p->gone.x[0];
    *b = in_run * p->gone.b[0];
    for (i = 1; i < p->gone.n; i++) {
        tiny_idx d = rest % p->gone.dim[i];
        rest /= p->gone.dim[i];
        *x += d * p->gone.x[i];
        *b += d * p->gone.b[i];
    }
    return p->gone.dim[0] - in_run;
}

/* ---- shape and cost */

static tiny_status tinyi_reduce_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const char *name = tinyi_op_row(op)->name;
    const tiny_reduce_params *p = tinyi_reduce_params_of(op);
    const tiny_tensor *x = op->in[0], *b = op->in[1];
    tiny_idx dim[TINY_MAX_RANK];
    int i, n = 0;
    if (!tinyi_is_real(x) || (b && b->dtype != x->dtype))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: the input must be f32 or f64, not %s", name,
                          tiny_dtype_name(!tinyi_is_real(x) ? x->dtype : b->dtype));
    if (!p->all && (p->axis < 0 || p->axis >= x->rank))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: there is no axis %d, counted from the last, in a tensor of rank %d", name, p->axis,
                          x->rank);
    if (b) {
        int same = b->rank == x->rank;
        for (i = 0; same && i < x->rank; i++) same = b->dim[i] == x->dim[i];
        if (!same) {
            char tx[96], tb[96];
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: a is %s and b is %s; they must have the same shape", name,
                              tinyi_shape_text(x, tx), tinyi_shape_text(b, tb));
        }
    }
    for (i = 0; i < x->rank; i++) {
        int gone = p->all || i == x->rank - 1 - p->axis;
        if (!gone || p->keep) dim[n++] = gone ? 1 : x->dim[i];
    }
    if (op->kind == TINY_OP_ARGMAX && (p->all ? tiny_tensor_count(x) : x->dim[x->rank - 1 - p->axis]) > 0x7fffffff)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: too many values for an i32 index", name);
    tinyi_want(&want[0], op->kind == TINY_OP_ARGMAX ? TINY_I32 : x->dtype, n, dim);
    return TINY_OK;
}

static void tinyi_reduce_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->in[0]);
    cost->flops = op->kind == TINY_OP_LOGSUMEXP ? 20.0 * n : 2.0 * n;
    cost->bytes = op->kind == TINY_OP_DOT ? 8.0 * n : 4.0 * n;
}

static double tinyi_reduce_terms(const tiny_op *op)
{
    const tiny_reduce_params *p = tinyi_reduce_params_of(op);
    const tiny_tensor *x = op->in[0];
    tiny_idx n = p->all ? tiny_tensor_count(x) : x->dim[x->rank - 1 - p->axis];
    return (double)TINYI_MIN(n, TINYI_REDUCE_BLOCK);
}

/* ---- reference */

TINY_REF_BEGIN
/* a result whose values begin at elements x0 and b0 */
static double tinyi_reduce_one(const tinyi_reduce_plan *p, tiny_dtype type, tiny_idx x0, tiny_idx b0)
{
    const double infinity = (double)INFINITY;
    double r = 0.0, top = -infinity;
    tiny_idx k, at_x, at_b, best = -1;
    if (p->kind == TINY_OP_MAX || p->kind == TINY_OP_ARGMAX) r = -infinity;
    if (p->kind == TINY_OP_MIN) r = infinity;
    for (k = 0; p->kind == TINY_OP_LOGSUMEXP && k < p->length; k++) {
        (void)tinyi_reduce_value(p, k, &at_x, &at_b);
        r = tinyi_real(p->x, type, x0 + at_x);
        if (r > top) top = r;
    }
    if (top == -infinity) top = 0.0;
    if (p->kind == TINY_OP_LOGSUMEXP) r = 0.0;
    for (k = 0; k < p->length; k++) {
        double v, w;
        (void)tinyi_reduce_value(p, k, &at_x, &at_b);
        v = tinyi_real(p->x, type, x0 + at_x);
        w = tinyi_real(p->b, type, b0 + at_b);
        switch (p->kind) {
        case TINY_OP_DOT: r += v * w; break;
        case TINY_OP_NORM2: r += v * v; break;
        case TINY_OP_MAX: if (v > r || v != v) r = v; break;
        case TINY_OP_MIN: if (v < r || v != v) r = v; break;
        case TINY_OP_ARGMAX:
            if (best < 0 || v > r || (v != v && r == r)) { r = v; best = k; }
            break;
        case TINY_OP_LOGSUMEXP: r += tinyi_exp64(v - top); break;
        default: r += v; break;
        }
    }
    if (p->kind == TINY_OP_MEAN) r /= (double)p->length;
    if (p->kind == TINY_OP_ARGMAX) r = (double)best;
    if (p->kind == TINY_OP_LOGSUMEXP) r = top + tinyi_log64(r);
    return r;
}

static void tinyi_reduce_ref(const tiny_op *op)
{
    tinyi_reduce_plan p;
    tiny_idx r, x, b, y;
    tinyi_reduce_read(op, &p);
    for (r = 0; r < p.results; r++) {
        double v;
        tinyi_reduce_result(&p, r, &x, &b, &y);
        v = tinyi_reduce_one(&p, op->in[0]->dtype, x, b);
        if (p.kind == TINY_OP_ARGMAX) ((int32_t *)p.y)[y] = (int32_t)v;
        else tinyi_real_set(p.y, op->out[0]->dtype, y, v);
    }
}
TINY_REF_END

/* ---- fast: a result from runs of values */

/* What is known of some values: sum or extreme; index of the extreme; logsumexp: sum e^(x - top). */
typedef struct tinyi_reduce_state { double value, top; tiny_idx at; } tinyi_reduce_state;

static void tinyi_reduce_start(int kind, tinyi_reduce_state *s)
{
    s->value = kind == TINY_OP_MAX || kind == TINY_OP_ARGMAX ? -(double)INFINITY
               : kind == TINY_OP_MIN                         ? (double)INFINITY
                                                             : 0.0;
    s->top = -(double)INFINITY;
    s->at = -1;
}

/* part comes after s */
static void tinyi_reduce_merge(int kind, tinyi_reduce_state *s, const tinyi_reduce_state *part)
{
    switch (kind) {
    case TINY_OP_MAX:
        if (part->value > s->value || part->value != part->value) s->value = part->value;
        break;
    case TINY_OP_MIN:
        if (part->value < s->value || part->value != part->value) s->value = part->value;
        break;
    case TINY_OP_ARGMAX:
        if (part->at >= 0 &&
            (s->at < 0 || part->value > s->value || (part->value != part->value && s->value == s->value)))
            *s = *part;
        break;
    case TINY_OP_LOGSUMEXP:
        if (part->value == 0.0) break;
        if (s->value == 0.0) *s = *part;
        else if (part->top > s->top) {
            s->value = part->value + s->value * tinyi_exp64(s->top - part->top);
            s->top = part->top;
        } else s->value += part->value * (part->top == s->top ? 1.0 : tinyi_exp64(part->top - s->top));
        break;
    default: s->value += part->value; break;
    }
}

/* n <= TINYI_REDUCE_BLOCK dense values, the first of them value number first of the result */
static void tinyi_reduce_block(const tinyi_kernels *k, int kind, const float *x, const float *b, tiny_idx n,
                               tiny_idx first, tinyi_reduce_state *s)
{
    tinyi_reduce_state part;
    float v, top = 0.0f;
    double ln = 1.0;                        /* logarithm of what top is an exponent of */
    switch (kind) {
    case TINY_OP_DOT: v = TINYI_OF(k, dot_f32)(x, b, (size_t)n); break;
    case TINY_OP_NORM2: v = TINYI_OF(k, dot_f32)(x, x, (size_t)n); break;
    case TINY_OP_MAX: case TINY_OP_ARGMAX: v = TINYI_OF(k, max_f32)(x, (size_t)n); break;
    case TINY_OP_MIN: v = TINYI_OF(k, min_f32)(x, (size_t)n); break;
    case TINY_OP_LOGSUMEXP:
        if (n > 1) TINYI_OF(k, softmax_extsum_f32)(x, (size_t)n, 1.0f, &v, &top);
        if (n > 1 && top - top == 0.0f) ln = 0.69314718055994531;
        else
            TINYI_OF(k, softmax_online_f32)
            (x, (size_t)n, 1.0f, &top, &v); /* exact for one value; -inf only; too large for 2^top */
        break;
    default: v = TINYI_OF(k, sum_f32)(x, (size_t)n); break;
    }
    part.value = (double)v;
    part.top = (double)top * ln;
    part.at = -1;
    if (kind == TINY_OP_ARGMAX && (s->at < 0 || v > s->value || (v != v && s->value == s->value)))
        part.at = first + (tiny_idx)TINYI_OF(k, find_f32)(x, (size_t)n, v);
    tinyi_reduce_merge(kind, s, &part);
}

static void tinyi_reduce_range(const tinyi_kernels *k, const tinyi_reduce_plan *p, const float *x, const float *b,
                               tiny_idx k0, tiny_idx k1, tinyi_reduce_state *s)
{
    float dense_x[TINYI_REDUCE_GATHER], dense_b[TINYI_REDUCE_GATHER];
    const tiny_idx sx = p->gone.x[0], sb = p->gone.b[0];
    const int dense = sx == 1 && (sb == 1 || p->kind != TINY_OP_DOT);
    tinyi_reduce_start(p->kind, s);
    while (k0 < k1) {
        tiny_idx at_x, at_b, n = tinyi_reduce_value(p, k0, &at_x, &at_b);
        const float *from_x = x + at_x, *from_b = b + at_b;
        n = TINYI_MIN(n, k1 - k0);
        n = TINYI_MIN(n, dense ? TINYI_REDUCE_BLOCK : TINYI_REDUCE_GATHER);
        if (!dense) {
            tinyi_row_gather(dense_x, from_x, n, sx);
            from_x = dense_x;
            if (p->kind == TINY_OP_DOT) {
                tinyi_row_gather(dense_b, from_b, n, sb);
                from_b = dense_b;
            }
        }
        tinyi_reduce_block(k, p->kind, from_x, from_b, n, k0, s);
        k0 += n;
    }
}

static void tinyi_reduce_finish(const tinyi_reduce_plan *p, tiny_idx y, const tinyi_reduce_state *s)
{
    if (p->kind == TINY_OP_ARGMAX) ((int32_t *)p->y)[y] = (int32_t)s->at;
    else if (p->kind == TINY_OP_MEAN) ((float *)p->y)[y] = (float)(s->value / (double)p->length);
    else if (p->kind == TINY_OP_LOGSUMEXP)
        ((float *)p->y)[y] = (float)(s->value == 0.0 ? -(double)INFINITY : s->top + tinyi_log64(s->value));
    else ((float *)p->y)[y] = (float)s->value;
}

/* shared: a state for each piece of each result */
static void tinyi_reduce_runs(tiny_team *team, const tinyi_reduce_plan *p, tinyi_reduce_state *shared)
{
    const tinyi_kernels *k = team->k;
    tinyi_reduce_state s;
    tiny_idx i, i0, i1, x, b, y;
    if (p->pieces == 1) {
        while (tiny_take(team, p->results, TINYI_REDUCE_PIECE / TINYI_MAX(p->length, 1), &i0, &i1))
            for (i = i0; i < i1; i++) {
                tinyi_reduce_result(p, i, &x, &b, &y);
                tinyi_reduce_range(k, p, p->x + x, p->b + b, 0, p->length, &s);
                tinyi_reduce_finish(p, y, &s);
            }
        return;
    }
    while (tiny_take(team, p->results * p->pieces, 1, &i0, &i1))
        for (i = i0; i < i1; i++) {
            tiny_idx first = i % p->pieces * p->piece;
            tinyi_reduce_result(p, i / p->pieces, &x, &b, &y);
            tinyi_reduce_range(k, p, p->x + x, p->b + b, first, TINYI_MIN(first + p->piece, p->length), &shared[i]);
        }
    tiny_barrier(team);
    while (tiny_take(team, p->results, 1, &i0, &i1))
        for (i = i0; i < i1; i++) {
            tiny_idx j;
            s = shared[i * p->pieces];
            for (j = 1; j < p->pieces; j++) tinyi_reduce_merge(p->kind, &s, &shared[i * p->pieces + j]);
            tinyi_reduce_result(p, i, &x, &b, &y);
            tinyi_reduce_finish(p, y, &s);
        }
}

/* ---- fast: columns side by side */

static tiny_idx tinyi_reduce_tiles(const tinyi_reduce_plan *p)
{
    return (p->kept.dim[p->columns] - 1) / TINYI_REDUCE_TILE + 1;
}

/* Where tile number t begins. */
static void tinyi_reduce_tile(const tinyi_reduce_plan *p, tiny_idx t, tiny_idx *x, tiny_idx *y, tiny_idx *cols)
{
    tiny_idx n = p->kept.dim[p->columns], first = t % tinyi_reduce_tiles(p) * TINYI_REDUCE_TILE;
    int i;
    t /= tinyi_reduce_tiles(p);
    *x = first;
    *y = first * p->kept.y[p->columns];
    *cols = TINYI_MIN(n - first, TINYI_REDUCE_TILE);
    for (i = 0; i < p->kept.n; i++) {
        if (i == p->columns) continue;
        *x += t % p->kept.dim[i] * p->kept.x[i];
        *y += t % p->kept.dim[i] * p->kept.y[i];
        t /= p->kept.dim[i];
    }
}

/* floats from a kernel, or doubles from another piece */
static void tinyi_reduce_join(int f, double *sum, const float *part32, const double *part64, tiny_idx cols)
{
    tiny_idx c;
    for (c = 0; c < cols; c++) {
        double v = part32 ? (double)part32[c] : part64[c];
        if (f == TINYI_REDUCE_MAX) { if (v > sum[c] || v != v) sum[c] = v; }
        else if (f == TINYI_REDUCE_MIN) { if (v < sum[c] || v != v) sum[c] = v; }
        else sum[c] += v;
    }
}

static void tinyi_reduce_put(const tinyi_reduce_plan *p, tiny_idx y, const double *sum, tiny_idx cols)
{
    const double over = p->kind == TINY_OP_MEAN ? (double)p->length : 1.0;
    tiny_idx c;
    for (c = 0; c < cols; c++) ((float *)p->y)[y + c * p->kept.y[p->columns]] = (float)(sum[c] / over);
}

/* shared: the sums of each piece of each tile; own: those of a tile in double and in float */
static void tinyi_reduce_columns(tiny_team *team, const tinyi_reduce_plan *p, double *shared)
{
    const tinyi_fn_reduce_cols_f32 kernel = TINYI_K(team, reduce_cols_f32);
    const int f = p->kind == TINY_OP_MAX     ? TINYI_REDUCE_MAX
                  : p->kind == TINY_OP_MIN   ? TINYI_REDUCE_MIN
                  : p->kind == TINY_OP_NORM2 ? TINYI_REDUCE_NORM2
                                             : TINYI_REDUCE_SUM;
    const float start = f == TINYI_REDUCE_MAX ? -INFINITY : f == TINYI_REDUCE_MIN ? INFINITY : 0.0f;
    double *sum = (double *)team->own;
    float *acc = (float *)(sum + TINYI_REDUCE_TILE);
    tiny_idx tiles = p->results / p->kept.dim[p->columns] * tinyi_reduce_tiles(p), u, u0, u1, x, y, cols, r, c;
    while (tiny_take(team, tiles * p->pieces, 1, &u0, &u1))
        for (u = u0; u < u1; u++) {
            tiny_idx first = u % p->pieces * p->piece, end = TINYI_MIN(first + p->piece, p->length);
            tinyi_reduce_tile(p, u / p->pieces, &x, &y, &cols);
            for (c = 0; c < cols; c++) sum[c] = (double)start;
            for (r = first; r < end; r += TINYI_REDUCE_SOME) {
                for (c = 0; c < cols; c++) acc[c] = start;
                kernel(f, acc, p->x + x + r * p->gone.x[0], p->gone.x[0], (size_t)TINYI_MIN(end - r, TINYI_REDUCE_SOME),
                       (size_t)cols);
                tinyi_reduce_join(f, sum, acc, NULL, cols);
            }
            if (p->pieces > 1) memcpy(shared + u * TINYI_REDUCE_TILE, sum, (size_t)cols * sizeof *sum);
            else tinyi_reduce_put(p, y, sum, cols);
        }
    if (p->pieces == 1) return;
    tiny_barrier(team);
    while (tiny_take(team, tiles, 1, &u0, &u1))
        for (u = u0; u < u1; u++) {
            double *total = shared + u * p->pieces * TINYI_REDUCE_TILE;
            tinyi_reduce_tile(p, u, &x, &y, &cols);
            for (r = 1; r < p->pieces; r++) tinyi_reduce_join(f, total, NULL, total + r * TINYI_REDUCE_TILE, cols);
            tinyi_reduce_put(p, y, total, cols);
        }
}

/* ---- fast: which of the two, and in how many pieces. Only the operation decides, not the threads. */

static void tinyi_reduce_choose(const tiny_op *op, tinyi_reduce_plan *p)
{
    int i, sums = op->kind == TINY_OP_SUM || op->kind == TINY_OP_MEAN || op->kind == TINY_OP_NORM2 ||
                  op->kind == TINY_OP_MAX || op->kind == TINY_OP_MIN;
    tiny_idx units;
    tinyi_reduce_read(op, p);
    p->columns = -1;
    p->pieces = 1;
    p->piece = p->length;
    if (p->results == 0 || p->length == 0) return;
    for (i = 0; sums && p->gone.n == 1 && p->gone.x[0] != 1 && i < p->kept.n; i++)
        if (p->kept.x[i] == 1 && p->kept.dim[i] >= 8) p->columns = i;
    if (p->columns < 0) {
        if (p->results >= TINYI_REDUCE_FEW || p->length < 2 * TINYI_REDUCE_PIECE) return;
        p->piece = TINYI_REDUCE_PIECE;
    } else {
        tiny_idx cols = TINYI_MIN(p->kept.dim[p->columns], TINYI_REDUCE_TILE);
        units = p->results / p->kept.dim[p->columns] * tinyi_reduce_tiles(p);
        if (units >= TINYI_REDUCE_FEW || p->length < 4 * (TINYI_REDUCE_PIECE / cols)) return;
        p->piece = TINYI_REDUCE_PIECE / cols;
        /* no more than a few pieces for each: their sums are added by one thread */
        if (p->length / p->piece >= TINYI_REDUCE_FEW) p->piece = p->length / TINYI_REDUCE_FEW + 1;
    }
    p->pieces = (p->length - 1) / p->piece + 1;
}

static void tinyi_reduce_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    tinyi_reduce_plan p;
    (void)n_threads;
    tinyi_reduce_choose(op, &p);
    if (p.columns >= 0) *own = TINYI_REDUCE_TILE * (sizeof(double) + sizeof(float));
    if (p.pieces == 1) return;
    if (p.columns < 0) *shared = (size_t)(p.results * p.pieces) * sizeof(tinyi_reduce_state);
    else
        *shared = (size_t)(p.results / p.kept.dim[p.columns] * tinyi_reduce_tiles(&p) * p.pieces) * TINYI_REDUCE_TILE *
                  sizeof(double);
}

static void tinyi_reduce_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_reduce_plan p;
    tinyi_reduce_choose(op, &p);
    (void)TINYI_K(team, sum_f32);
    if (p.columns >= 0) tinyi_reduce_columns(team, &p, (double *)team->shared);
    else tinyi_reduce_runs(team, &p, (tinyi_reduce_state *)team->shared);
}

/* ---- rows */

static void tinyi_reduce_case(tiny_case *c, int inputs)
{
    int rank = c->index == 0 ? 1 : tiny_case_pick(c, TINY_MAX_RANK) + 1, i, j, largest;
    tiny_reduce_params p;
    memset(&p, 0, sizeof p);
    p.axis = tiny_case_pick(c, rank);
    p.all = tiny_case_pick(c, 4) == 0;
    p.keep = tiny_case_pick(c, 2);
    largest = tiny_case_pick(c, rank);
    for (i = 0; i < rank; i++) {
        tiny_idx d = tiny_case_dim(c, i == largest ? rank < 3 ? 70000 : 1000 : rank == 2 ? 40 : 6);
        for (j = 0; j < inputs; j++) c->in[j].dim[i] = d;
    }
    for (j = 0; j < inputs; j++) c->in[j].rank = rank;
    memcpy(c->params.bytes, &p, sizeof p);
}
static void tinyi_reduce_cases(tiny_case *c) { tinyi_reduce_case(c, 1); }
static void tinyi_logsumexp_cases(tiny_case *c)
{
    tinyi_reduce_case(c, 1);
    /* |-inf| would leave a finite result without a magnitude to measure it by */
    c->no_specials = 1;
}
static void tinyi_dot_cases(tiny_case *c) { tinyi_reduce_case(c, 2); }

static const short tinyi_kernels_of_dot[] = { TINYI_K_dot_f32, -1 };
static const short tinyi_kernels_of_sum[] = { TINYI_K_sum_f32, TINYI_K_reduce_cols_f32, -1 };
static const short tinyi_kernels_of_norm2[] = { TINYI_K_dot_f32, TINYI_K_reduce_cols_f32, -1 };
static const short tinyi_kernels_of_max[] = { TINYI_K_max_f32, TINYI_K_reduce_cols_f32, -1 };
static const short tinyi_kernels_of_min[] = { TINYI_K_min_f32, TINYI_K_reduce_cols_f32, -1 };
static const short tinyi_kernels_of_argmax[] = { TINYI_K_max_f32, TINYI_K_find_f32, -1 };
static const short tinyi_kernels_of_logsumexp[] = { TINYI_K_softmax_extsum_f32, TINYI_K_softmax_online_f32, -1 };

TINYI_ROW tinyi_row_dot = TINYI_ROW_OF("dot", TINY_OP_DOT, TAKES(2, 2), GIVES(1), PARAMS(tiny_reduce_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_reduce_shape), REFERENCE(tinyi_reduce_ref), FAST(tinyi_reduce_fast, tinyi_reduce_work),
    COST(tinyi_reduce_cost), CASES(tinyi_dot_cases), BOUND(TINY_BOUND_LINEAR, 5, 0.25), TERMS(tinyi_reduce_terms),
    GRADIENT(tinyi_grad_reduce), KERNELS(tinyi_kernels_of_dot), SAYS("y = sum a b"));
TINYI_ROW tinyi_row_sum = TINYI_ROW_OF("sum", TINY_OP_SUM, TAKES(1, 1), GIVES(1), PARAMS(tiny_reduce_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_reduce_shape), REFERENCE(tinyi_reduce_ref), FAST(tinyi_reduce_fast, tinyi_reduce_work),
    COST(tinyi_reduce_cost), CASES(tinyi_reduce_cases), BOUND(TINY_BOUND_LINEAR, 5, 0.25), TERMS(tinyi_reduce_terms),
    GRADIENT(tinyi_grad_reduce), KERNELS(tinyi_kernels_of_sum), SAYS("y = sum x"));
TINYI_ROW tinyi_row_mean = TINYI_ROW_OF("mean", TINY_OP_MEAN, TAKES(1, 1), GIVES(1), PARAMS(tiny_reduce_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_reduce_shape), REFERENCE(tinyi_reduce_ref), FAST(tinyi_reduce_fast, tinyi_reduce_work),
    COST(tinyi_reduce_cost), CASES(tinyi_reduce_cases), BOUND(TINY_BOUND_LINEAR, 5, 0.25), TERMS(tinyi_reduce_terms),
    GRADIENT(tinyi_grad_reduce), KERNELS(tinyi_kernels_of_sum), SAYS("y = sum x / n"));
TINYI_ROW tinyi_row_norm2 = TINYI_ROW_OF("norm2", TINY_OP_NORM2, TAKES(1, 1), GIVES(1), PARAMS(tiny_reduce_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_reduce_shape), REFERENCE(tinyi_reduce_ref), FAST(tinyi_reduce_fast, tinyi_reduce_work),
    COST(tinyi_reduce_cost), CASES(tinyi_reduce_cases), BOUND(TINY_BOUND_LINEAR, 5, 0.25), TERMS(tinyi_reduce_terms),
    GRADIENT(tinyi_grad_reduce), KERNELS(tinyi_kernels_of_norm2), SAYS("y = sum x^2"));
TINYI_ROW tinyi_row_max = TINYI_ROW_OF("max", TINY_OP_MAX, TAKES(1, 1), GIVES(1), PARAMS(tiny_reduce_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_reduce_shape), REFERENCE(tinyi_reduce_ref), FAST(tinyi_reduce_fast, tinyi_reduce_work),
    COST(tinyi_reduce_cost), CASES(tinyi_reduce_cases), BOUND(TINY_BOUND_ULP, 0, 0), TERMS(NULL),
    GRADIENT(tinyi_grad_extreme), KERNELS(tinyi_kernels_of_max), SAYS("y = max x"));
TINYI_ROW tinyi_row_min = TINYI_ROW_OF("min", TINY_OP_MIN, TAKES(1, 1), GIVES(1), PARAMS(tiny_reduce_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_reduce_shape), REFERENCE(tinyi_reduce_ref), FAST(tinyi_reduce_fast, tinyi_reduce_work),
    COST(tinyi_reduce_cost), CASES(tinyi_reduce_cases), BOUND(TINY_BOUND_ULP, 0, 0), TERMS(NULL),
    GRADIENT(tinyi_grad_extreme), KERNELS(tinyi_kernels_of_min), SAYS("y = min x"));
TINYI_ROW tinyi_row_argmax = TINYI_ROW_OF("argmax", TINY_OP_ARGMAX, TAKES(1, 1), GIVES(1), PARAMS(tiny_reduce_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_reduce_shape), REFERENCE(tinyi_reduce_ref), FAST(tinyi_reduce_fast, tinyi_reduce_work),
    COST(tinyi_reduce_cost), CASES(tinyi_reduce_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(NULL),
    KERNELS(tinyi_kernels_of_argmax), SAYS("y = the first i with the largest x[i]"));
TINYI_ROW tinyi_row_logsumexp = TINYI_ROW_OF("logsumexp", TINY_OP_LOGSUMEXP, TAKES(1, 1), GIVES(1),
    PARAMS(tiny_reduce_params), FLAGS(TINY_OP_F64),
    SHAPE(tinyi_reduce_shape), REFERENCE(tinyi_reduce_ref), FAST(tinyi_reduce_fast, tinyi_reduce_work),
    COST(tinyi_reduce_cost), CASES(tinyi_logsumexp_cases), BOUND(TINY_BOUND_LINEAR, 10, 0.4), TERMS(tinyi_reduce_terms),
    GRADIENT(tinyi_grad_reduce), KERNELS(tinyi_kernels_of_logsumexp), SAYS("y = log sum exp(x)"));

TINY_API tiny_status tiny_sum(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                              const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_SUM, x, NULL, params, y);
}
TINY_API tiny_status tiny_mean(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                               const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_MEAN, x, NULL, params, y);
}
TINY_API tiny_status tiny_norm2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                                const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_NORM2, x, NULL, params, y);
}
TINY_API tiny_status tiny_max(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                              const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_MAX, x, NULL, params, y);
}
TINY_API tiny_status tiny_min(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                              const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_MIN, x, NULL, params, y);
}
TINY_API tiny_status tiny_argmax(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                                 const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_ARGMAX, x, NULL, params, y);
}
TINY_API tiny_status tiny_logsumexp(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                                    const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_LOGSUMEXP, x, NULL, params, y);
}
TINY_API tiny_status tiny_dot(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b,
                              const tiny_reduce_params *params, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_DOT, a, b, params, y);
}
