/* src/math/edges.c - sums over edges; the checks of offsets, columns and sizes that all edge operations share
 * Paper    J. Gilmer et al., "Neural Message Passing for Quantum Chemistry", 2017: messages and their sums.
 * Formula  in math/edges.h.
 * Threads  Work is counted as edges + rows and cut into at most 256 equal pieces, whatever the number of threads. A
 *          piece owns the rows that begin in it. A row with more edges than two pieces (a hub) is processed piece by
 *          piece, and its partial sums are added in the order of the pieces. So the result does not depend on the
 *          number of threads, and a hub does not keep one thread busy while the others wait.
 * Cost     spmm reads one row of x for each edge: 4 f bytes at a random place. The sums of a row stay in registers, 8
 *          vectors at a time. Rows of x are prefetched 12 to 32 edges ahead, so the time is close to that of the random
 *          reads alone.
 * Error    one float rounding for each of n edges, and those of adding e, of the product and of the division of a mean:
 *          LINEAR (n + 5) u.
 * Gradients math/edges_grad.c. The edges that give max and min are not stored: the backward pass finds them again. */
#include <stdio.h>
#include <string.h>
#include "math/edges_inside.h"
#include "math/rows_inside.h"

#define TINYI_EDGE_PIECES 256
#define TINYI_EDGE_GRAIN 4096               /* edges + rows of a piece at least */
#define TINYI_EDGE_NEAR 1048576.0           /* bytes of a table that a second-level cache keeps */
#define TINYI_EDGE_RUN \
    2048 /* edges whose columns are checked before the kernel takes their rows: they stay in the first cache */

/* ---- what every operation along edges has: offsets, columns, sizes */

void tinyi_edge_read(tinyi_edge_op *o, const tiny_tensor *offset, const tiny_tensor *col, tiny_idx m, tiny_idx n_x)
{
    o->offset = (const int64_t *)offset->data;
    o->col = col ? (const int32_t *)col->data : NULL;
    o->n = offset->dim[0] - 1;
    o->m = m;
    o->n_x = n_x;
    o->grain = TINYI_MAX((int64_t)(m + o->n) / TINYI_EDGE_PIECES + 1, (int64_t)TINYI_EDGE_GRAIN);
    o->pieces = (tiny_idx)(((int64_t)(m + o->n) + o->grain - 1) / o->grain);
    if (o->pieces < 1) o->pieces = 1;
}

tiny_idx tinyi_edge_first(const tinyi_edge_op *o, tiny_idx piece)
{
    tiny_idx low = 0, high = o->n;
    int64_t u = (int64_t)piece * o->grain;
    if (piece == 0) return 0;
    if (piece >= o->pieces) return o->n;
    while (low < high) {
        tiny_idx mid = low + (high - low) / 2;
        if (o->offset[mid] < u - mid) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* What is wrong with row r; 0: nothing. */
static int tinyi_edge_fault(const tinyi_edge_op *o, tiny_idx r, char says[160], const char *name)
{
    int64_t p0 = o->offset[r], p1 = o->offset[r + 1], p;
    uint32_t bad = 0;
    if (p0 < 0 || p1 < p0 || p1 > o->m || (r == 0 && p0 != 0) || (r == o->n - 1 && p1 != o->m)) {
        if (says)
            (void)snprintf(says, 160, "%s: row %td has the edges %lld to %lld of %lld", name, r, (long long)p0,
                           (long long)p1, (long long)o->m);
        return 1;
    }
    for (p = p0; o->col && p < p1; p++) bad |= (uint32_t)((uint32_t)o->col[p] >= (uint32_t)o->n_x);
    if (!bad) return 0;
    for (p = p0; p < p1 && (uint32_t)o->col[p] < (uint32_t)o->n_x; p++) {}
    if (says)
        (void)snprintf(says, 160, "%s: edge %lld comes from row %ld, there are %td", name, (long long)p,
                       p < p1 ? (long)o->col[p] : -1L, o->n_x);
    return 1;
}

int tinyi_edge_refused(tiny_team *team, const tinyi_edge_op *o, tiny_idx r, const char *name)
{
    char says[160];
    if (!tinyi_edge_fault(o, r, says, name)) return 0;
    tiny_team_fail(team, TINY_E_ARGUMENT, says);
    return 1;
}

tiny_status tinyi_edge_shapes(tiny_ctx *ctx, const tiny_op *op, const char *name, const tiny_tensor *col, tiny_idx m,
                              tiny_idx n_x, tiny_dtype type, const tiny_tensor *dense[3])
{
    const tiny_tensor *offset = op->in[0];
    int i;
    if (offset->dtype != TINY_I64 || offset->rank != 1 || offset->dim[0] < 1)
        return tinyi_fail(ctx, offset->dtype != TINY_I64 ? TINY_E_DTYPE : TINY_E_SHAPE,
                          "%s: offset must be i64 of rank 1, with one number more than rows", name);
    if (col && (col->dtype != TINY_I32 || col->rank != 1))
        return tinyi_fail(ctx, col->dtype != TINY_I32 ? TINY_E_DTYPE : TINY_E_SHAPE, "%s: col must be i32 of rank 1",
                          name);
    if (n_x > 0x7fffffff && col)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %td rows, the maximum is 2147483647", name, n_x);
    if (!tiny_tensor_is_dense(offset) || (col && !tiny_tensor_is_dense(col)))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: offset and col must be dense", name);
    for (i = 0; i < 3; i++) {
        char text[96];
        if (dense[i] && (dense[i]->dtype != type || !tiny_tensor_is_dense(dense[i])))
            return tinyi_fail(ctx, dense[i]->dtype != type ? TINY_E_DTYPE : TINY_E_SHAPE,
                              "%s: weights and features of edges must be dense %s, not %s", name, tiny_dtype_name(type),
                              tinyi_shape_text(dense[i], text));
    }
    /* the reference has no way to refuse: where it, or an accelerator, shall answer, everything is looked at before */
    if ((ctx->target == TINY_TARGET_REFERENCE || ctx->desc.accel || type == TINY_F64) && op->out[0] && offset->data &&
        (!col || col->data)) {
        tinyi_edge_op o;
        char says[160];
        tiny_idx r;
        tinyi_edge_read(&o, offset, col, m, n_x);
        if (o.n == 0 && o.m)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %lld edges and no rows", name, (long long)o.m);
        for (r = 0; r < o.n; r++)
            if (tinyi_edge_fault(&o, r, says, name)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s", says);
    }
    return TINY_OK;
}

/* Narrow rows are asked for longer before: the memory answers as many lines at once as it can, and by then the row at
 * hand must be done. Measured with rows of 64 bytes, 256 and 1024: 32, 16 and 12. */
void tinyi_edge_rows(tinyi_edges *j, const tiny_tensor *x)
{
    j->x = (const float *)x->data;
    j->x_row = x->stride[0];
    j->f = (size_t)x->dim[1];
    j->ahead = j->f <= 16 ? 32 : j->f <= 128 ? 16 : 12;
    j->askew = (uintptr_t)x->data % 64 != 0 || x->stride[0] % 16 != 0;
}

tiny_status tinyi_edge_float(tiny_ctx *ctx, const char *name, const char *which, const tiny_tensor *t, tiny_dtype table)
{
    const tiny_dtype type = table == TINY_F64 ? TINY_F64 : TINY_F32;
    char text[96];
    if (t->dtype == type && t->rank == 2) return TINY_OK;
    return tinyi_fail(ctx, t->dtype != type ? TINY_E_DTYPE : TINY_E_SHAPE, "%s: %s is %s, it must be %s of rank 2",
                      name, which, tinyi_shape_text(t, text), tiny_dtype_name(type));
}

double tinyi_edge_longest(const tiny_op *op)
{
    const int64_t *offset = (const int64_t *)op->in[0]->data;
    int64_t most = 1;
    tiny_idx r;
    for (r = 0; r + 1 < op->in[0]->dim[0]; r++) most = TINYI_MAX(most, offset[r + 1] - offset[r]);
    return (double)most;
}

tiny_status tinyi_edge_call(tiny_ctx *ctx, int kind, const tiny_tensor *const in[6], const void *params,
                            const tiny_tensor *out)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    memcpy(op.in, in, 6 * sizeof *in);
    op.out[0] = out;
    op.params = params;
    return tiny_run(ctx, &op);
}

double tinyi_edge_bytes(double m, tiny_idx n, tiny_idx f)
{
    const double table = 4.0 * (double)n * (double)f, all = 4.0 * m * (double)f;
    return table <= TINYI_EDGE_NEAR && table < all ? table : all;
}

void tinyi_edge_fill(tiny_case *c, int i_input, void *data)
{
    int64_t *offset = (int64_t *)data;
    tiny_idx n = c->in[i_input].dim[0] - 1, r;
    uint32_t m = (uint32_t)c->limit[i_input];
    int hub = n > 2 && tiny_case_pick(c, 2);
    for (r = 0; r <= n; r++) offset[r] = (int64_t)((uint64_t)m * (uint64_t)r / (uint64_t)(n ? n : 1));
    for (r = 1; r < n; r++)
        offset[r] = hub ? (r <= n / 2 ? (int64_t)tiny_rng_below(&c->rng, m / 4 + 1)
                                      : (int64_t)(m - tiny_rng_below(&c->rng, m / 4 + 1)))
                        : (int64_t)tiny_rng_below(&c->rng, m + 1);
    for (r = 2; r < n; r++) {               /* few enough for insertion */
        const int64_t at = offset[r];
        tiny_idx k = r;
        for (; k > 1 && offset[k - 1] > at; k--) offset[k] = offset[k - 1];
        offset[k] = at;
    }
    offset[0] = 0;
}

void tinyi_edge_case(tiny_case *c, tiny_idx n, tiny_idx m, tiny_idx n_x, int i_col)
{
    c->in[0] = tiny_tensor_1d(NULL, TINY_I64, n + 1);
    c->fill[0] = TINY_FILL_TABLE;
    c->limit[0] = m;
    c->dense[0] = 1;
    c->fill_table = tinyi_edge_fill;
    c->in[i_col] = tiny_tensor_1d(NULL, TINY_I32, m);
    c->fill[i_col] = TINY_FILL_INDEX;
    c->limit[i_col] = n_x;
    c->dense[i_col] = 1;
}

/* ---- spmm */

TINYI_FN const tiny_spmm_params *tinyi_spmm_params_of(const tiny_op *op)
{
    static const tiny_spmm_params none = { 0, 0 };
    return op->params ? (const tiny_spmm_params *)op->params : &none;
}

static tiny_status tinyi_spmm_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[TINYI_SPMM_X], *col = op->in[TINYI_SPMM_COL], *w = op->in[TINYI_SPMM_W],
                      *e = op->in[TINYI_SPMM_E], *dense[3];
    const tiny_spmm_params *p = tinyi_spmm_params_of(op);
    tiny_idx dim[2], m;
    tiny_status st = tinyi_edge_float(ctx, "spmm", "x", x, x->dtype);
    if (st) return st;
    if ((unsigned)p->reduce >= (unsigned)TINY_EDGE_REDUCE_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "spmm: %d is not a valid reduction", p->reduce);
    m = col ? col->rank == 1 ? col->dim[0] : 0 : x->dim[0];
    if (w && (w->rank < 1 || w->rank > 2 || w->dim[0] != m))
        return tinyi_fail(ctx, TINY_E_SHAPE, "spmm: w must have a row for each of the %td edges", m);
    if (w && w->rank == 2 && (w->dim[1] < 1 || x->dim[1] % w->dim[1]))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "spmm: %td features cannot be divided into %td heads", x->dim[1], w->dim[1]);
    if (e && (e->rank != 2 || e->dim[0] != m || e->dim[1] != x->dim[1]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "spmm: e must have %td rows of %td features", m, x->dim[1]);
    dense[0] = w;
    dense[1] = e;
    dense[2] = NULL;
    st = tinyi_edge_shapes(ctx, op, "spmm", col, m, x->dim[0], x->dtype, dense);
    if (st) return st;
    dim[0] = op->in[0]->dim[0] - 1;
    dim[1] = x->dim[1];
    tinyi_want(&want[0], x->dtype, 2, dim);
    return TINY_OK;
}

typedef struct tinyi_spmm_op {
    tinyi_edge_op o;
    tinyi_edges j;
    const tiny_tensor *x, *y, *w, *e;
    int plain, reduce;
} tinyi_spmm_op;

static void tinyi_spmm_read(const tiny_op *op, tinyi_spmm_op *s)
{
    const tiny_tensor *x = op->in[TINYI_SPMM_X], *col = op->in[TINYI_SPMM_COL], *w = op->in[TINYI_SPMM_W],
                      *e = op->in[TINYI_SPMM_E];
    const tiny_spmm_params *p = tinyi_spmm_params_of(op);
    tinyi_edge_read(&s->o, op->in[0], col, col ? col->dim[0] : x->dim[0], x->dim[0]);
    memset(&s->j, 0, sizeof s->j);
    s->x = x, s->w = w, s->e = e, s->y = op->out[0];
    s->reduce = p->reduce;
    s->j.col = s->o.col;
    s->j.m = s->o.m;
    tinyi_edge_rows(&s->j, x);
    s->j.heads = w && w->rank == 2 ? (size_t)w->dim[1] : 1;
    s->j.w = w ? (const float *)w->data : NULL;
    s->j.e = e ? (const float *)e->data : NULL;
    s->j.reduce = p->reduce;
    s->j.relu = p->relu != 0;
    s->plain = !e && !s->j.relu && p->reduce < TINY_EDGE_MAX;
}

TINY_REF_BEGIN
/* row r by the formula, value by value */
static void tinyi_spmm_row(const tinyi_spmm_op *s, tiny_idx r)
{
    const tiny_dtype type = s->x->dtype;
    const tiny_idx n = s->x->dim[1], each = s->j.heads ? n / (tiny_idx)s->j.heads : n;
    int64_t p0 = s->o.offset[r], p1 = s->o.offset[r + 1], p;
    tiny_idx f;
    for (f = 0; f < n; f++) {
        double sum = 0.0;
        for (p = p0; p < p1; p++) {
            double v =
                tinyi_real(s->x->data, type,
                           (s->o.col ? (tiny_idx)s->o.col[p] : (tiny_idx)p) * s->x->stride[0] + f * s->x->stride[1]);
            if (s->e) v += tinyi_real(s->e->data, type, (tiny_idx)p * n + f);
            if (s->j.relu && v < 0.0) v = 0.0;
            if (s->w) v *= tinyi_real(s->w->data, type, (tiny_idx)p * (tiny_idx)s->j.heads + f / each);
            if (s->reduce < TINY_EDGE_MAX) sum += v;
            else if (p == p0 || v != v || (sum == sum && (s->reduce == TINY_EDGE_MAX ? v > sum : v < sum))) sum = v;
        }
        if (s->reduce == TINY_EDGE_MEAN && p1 > p0) sum /= (double)(p1 - p0);
        tinyi_real_set(s->y->data, type, r * s->y->stride[0] + f * s->y->stride[1], sum);
    }
}

static void tinyi_spmm_ref(const tiny_op *op)
{
    tinyi_spmm_op s;
    tiny_idx r;
    tinyi_spmm_read(op, &s);
    for (r = 0; r < s.o.n; r++) tinyi_spmm_row(&s, r);
}
TINY_REF_END

/* 1: the kernels take it as it lies */
static int tinyi_spmm_dense(const tinyi_spmm_op *s)
{
    return s->j.f > 0 && (s->x->stride[1] == 1 || s->x->dim[1] == 1) && (s->y->stride[1] == 1 || s->y->dim[1] == 1);
}

/* pieces of hubs at most: each has more than two pieces of edges */
static size_t tinyi_spmm_slots(const tinyi_spmm_op *s)
{
    return (size_t)(s->o.m / s->o.grain) + (size_t)(s->o.m / (2 * s->o.grain)) + 2;
}

static void tinyi_spmm_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    tinyi_spmm_op s;
    (void)n_threads;
    (void)own;
    tinyi_spmm_read(op, &s);
    if (tinyi_spmm_dense(&s) && s.o.m > 2 * s.o.grain)
        *shared = (size_t)s.o.pieces * sizeof(tiny_idx) + tinyi_spmm_slots(&s) * s.j.f * sizeof(float) + 64;
}

/* one row, or a part of a hub; a mean is still to be divided */
static void tinyi_spmm_part(const tiny_team *team, const tinyi_spmm_op *s, float *y, int64_t p0, int64_t p1)
{
    tinyi_edges j = s->j;
    int64_t at[2];
    at[0] = p0;
    at[1] = p1;
    if (s->reduce == TINY_EDGE_MEAN) j.reduce = TINY_EDGE_SUM;
    if (s->plain || p0 == p1) TINYI_OF(team->k, spmm_f32)(y, 0, &j, at, 1);
    else TINYI_OF(team->k, spmm_any_f32)(y, &j, p0, p1);
}

static void tinyi_spmm_mean(const tiny_team *team, const tinyi_spmm_op *s, float *y, int64_t n)
{
    if (s->reduce == TINY_EDGE_MEAN && n > 1) TINYI_OF(team->k, scale_f32)(y, y, s->j.f, 1.0f / (float)n, 0.0f);
}

/* How many rows from r on the kernel takes at once: none is a hub, and nothing is wrong with them. 0: row r is for
 * itself. */
static tiny_idx tinyi_spmm_run(const tinyi_spmm_op *s, tiny_idx r, tiny_idx r1)
{
    const int64_t *offset = s->o.offset, p0 = offset[r],
                  most = TINYI_MIN(s->o.m, p0 > s->o.m ? 0 : p0 + TINYI_EDGE_RUN);
    uint32_t bad = 0;
    tiny_idx i = r;
    int64_t p;
    if (!s->plain || p0 < 0 || (r == 0 && p0 != 0)) return 0;
    while (i < r1 && offset[i + 1] >= offset[i] && offset[i + 1] <= most) i++;
    if (i == s->o.n && i > r && offset[i] != s->o.m) i--;
    for (p = p0; s->o.col && p < offset[i]; p++) bad |= (uint32_t)((uint32_t)s->o.col[p] >= (uint32_t)s->o.n_x);
    return bad ? 0 : i - r;
}

/* y = y + or max or min part, by the rule of the operation */
static void tinyi_spmm_join(const tinyi_spmm_op *s, float *y, const float *part)
{
    size_t f;
    for (f = 0; f < s->j.f; f++) {
        float v = part[f];
        if (s->reduce < TINY_EDGE_MAX) y[f] += v;
        else if (y[f] == y[f] && (v != v || (s->reduce == TINY_EDGE_MAX ? v > y[f] : v < y[f]))) y[f] = v;
    }
}

static void tinyi_spmm_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_spmm_op s;
    tiny_idx k, k1, r, r1, t, n_tasks = 0, *hub;
    float *slot;
    int hubs, dense;
    tinyi_spmm_read(op, &s);
    (void)TINYI_K(team, spmm_f32);
    if (s.o.n == 0) {
        if (s.o.m && team->i == 0) tiny_team_fail(team, TINY_E_ARGUMENT, "spmm: there are edges, but no rows");
        return;
    }
    dense = tinyi_spmm_dense(&s);
    hubs = dense && s.o.m > 2 * s.o.grain;
    slot = (float *)team->shared;
    hub = (tiny_idx *)(void *)((unsigned char *)team->shared +
                               (hubs ? (tinyi_spmm_slots(&s) * s.j.f * sizeof(float) + 63) / 64 * 64 : 0));
    if (hubs) {                             /* also for pieces that a cancel leaves out */
        for (k = 0; team->i == 0 && k < s.o.pieces; k++) hub[k] = -1;
        tiny_barrier(team);
    }
    while (tiny_take(team, s.o.pieces, 1, &k, &k1))
        for (; k < k1; k++)
            for (r = tinyi_edge_first(&s.o, k), r1 = tinyi_edge_first(&s.o, k + 1); r < r1; r++) {
                const tiny_idx run = dense ? tinyi_spmm_run(&s, r, r1) : 0;
                const int64_t p0 = s.o.offset[r], p1 = s.o.offset[r + 1];
                float *y = (float *)s.y->data + r * s.y->stride[0];
                if (run > 0) {
                    TINYI_OF(team->k, spmm_f32)(y, s.y->stride[0], &s.j, s.o.offset + r, run);
                    r += run - 1;
                } else if (tinyi_edge_refused(team, &s.o, r, "spmm")) {
                    for (t = 0; t < s.y->dim[1]; t++) y[t * s.y->stride[1]] = 0.0f;
                } else if (!dense) tinyi_spmm_row(&s, r);
                else if (hubs && p1 - p0 > 2 * s.o.grain) hub[k] = r;
                else {
                    tinyi_spmm_part(team, &s, y, p0, p1);
                    tinyi_spmm_mean(team, &s, y, p1 - p0);
                }
            }
    if (!hubs) return;
    tiny_barrier(team);
    for (k = 0; k < s.o.pieces; k++)
        if (hub[k] >= 0)
            n_tasks += (tiny_idx)((s.o.offset[hub[k] + 1] - s.o.offset[hub[k]] + s.o.grain - 1) / s.o.grain);
    if ((size_t)n_tasks > tinyi_spmm_slots(&s)) return;     /* rows that overlap: refused above */
    while (n_tasks && tiny_take(team, n_tasks, 1, &t, &k1))
        for (; t < k1; t++) {
            tiny_idx before = 0, parts = 0;
            for (k = 0; k < s.o.pieces; k++) {
                if (hub[k] < 0) continue;
                parts = (tiny_idx)((s.o.offset[hub[k] + 1] - s.o.offset[hub[k]] + s.o.grain - 1) / s.o.grain);
                if (t < before + parts) break;
                before += parts;
            }
            if (k < s.o.pieces) {
                int64_t p0 = s.o.offset[hub[k]] + (int64_t)(t - before) * s.o.grain, p1 = s.o.offset[hub[k] + 1];
                tinyi_spmm_part(team, &s, slot + (size_t)t * s.j.f, p0, TINYI_MIN(p1, p0 + s.o.grain));
            }
        }
    tiny_barrier(team);
    if (team->i) return;
    for (t = 0, k = 0; k < s.o.pieces; k++) {
        int64_t n, done;
        float *y;
        if (hub[k] < 0) continue;
        n = s.o.offset[hub[k] + 1] - s.o.offset[hub[k]];
        y = (float *)s.y->data + hub[k] * s.y->stride[0];
        for (done = 0; done < n; done += s.o.grain, t++) {
            if (done) tinyi_spmm_join(&s, y, slot + (size_t)t * s.j.f);
            else memcpy(y, slot + (size_t)t * s.j.f, s.j.f * sizeof *y);
        }
        tinyi_spmm_mean(team, &s, y, n);
    }
}

static void tinyi_spmm_cost(const tiny_op *op, tiny_cost *cost)
{
    tinyi_spmm_op s;
    double m, f;
    tinyi_spmm_read(op, &s);
    m = (double)s.o.m;
    f = (double)s.j.f;
    cost->flops = m * f * (s.j.w ? 2.0 : 1.0);
    cost->bytes =
        tinyi_edge_bytes(m, s.o.n_x, s.x->dim[1]) +
        m * (4.0 * f * (s.j.e ? 1.0 : 0.0) + (s.o.col ? 4.0 : 0.0) + (s.j.w ? 4.0 * (double)s.j.heads : 0.0)) +
        (double)s.o.n * (8.0 + 4.0 * f);
}

static double tinyi_spmm_terms(const tiny_op *op) { return tinyi_edge_longest(op); }

static void tinyi_spmm_cases(tiny_case *c)
{
    tiny_idx n = tiny_case_dim(c, 150), big = tiny_case_pick(c, 8) == 0,
             m = big ? 9000 + tiny_case_dim(c, 6000) : tiny_case_dim(c, 600), heads = 1 + tiny_case_pick(c, 4);
    tiny_idx each = tiny_case_dim(c, big ? 20 : 300 / heads), n_x = tiny_case_dim(c, 200), f = heads * each;
    tiny_spmm_params p;
    memset(&p, 0, sizeof p);
    p.reduce = tiny_case_pick(c, 4);
    p.relu = tiny_case_pick(c, 4) == 0;
    tinyi_edge_case(c, n, m, n_x, TINYI_SPMM_COL);
    if (tiny_case_pick(c, 5) == 0) {
        c->in[TINYI_SPMM_COL].rank = -1;
        n_x = m;
    }
    c->in[TINYI_SPMM_X] = tiny_tensor_2d(NULL, TINY_F32, n_x, f);
    c->in[TINYI_SPMM_W] = heads > 1 ? tiny_tensor_2d(NULL, TINY_F32, m, heads) : tiny_tensor_1d(NULL, TINY_F32, m);
    if (tiny_case_pick(c, 3) == 0) c->in[TINYI_SPMM_W].rank = -1;
    c->in[TINYI_SPMM_E] = tiny_tensor_2d(NULL, TINY_F32, m, f);
    if (tiny_case_pick(c, 3)) c->in[TINYI_SPMM_E].rank = -1;
    c->dense[TINYI_SPMM_W] = c->dense[TINYI_SPMM_E] = 1;
    memcpy(c->params.bytes, &p, sizeof p);
    /* of absolute values the largest, also where the smallest is asked for */
    if (p.reduce == TINY_EDGE_MIN) p.reduce = TINY_EDGE_MAX;
    c->has_magnitude_params = 1;
    memcpy(c->magnitude_params.bytes, &p, sizeof p);
}

static const short tinyi_kernels_of_spmm[] = { TINYI_K_spmm_f32, TINYI_K_spmm_any_f32, TINYI_K_scale_f32, -1 };
TINYI_ROW tinyi_row_spmm = TINYI_ROW_OF("spmm", TINY_OP_SPMM, TAKES(5, 2), GIVES(1), PARAMS(tiny_spmm_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_spmm_shape), REFERENCE(tinyi_spmm_ref), FAST(tinyi_spmm_fast, tinyi_spmm_work), COST(tinyi_spmm_cost),
    CASES(tinyi_spmm_cases), BOUND(TINY_BOUND_LINEAR, 5, 1), TERMS(tinyi_spmm_terms), GRADIENT(tinyi_grad_spmm),
    KERNELS(tinyi_kernels_of_spmm), SAYS("y[r] = reduce_p w[p] act(x[col[p]] + e[p])"));

TINY_API tiny_status tiny_spmm(tiny_ctx *ctx, const tiny_tensor *offset, const tiny_tensor *x, const tiny_tensor *col,
                               const tiny_tensor *w, const tiny_tensor *e, const tiny_spmm_params *params,
                               const tiny_tensor *y)
{
    const tiny_tensor *const in[6] = { offset, x, col, w, e, NULL };
    return tinyi_edge_call(ctx, TINY_OP_SPMM, in, params, y);
}

TINY_API tiny_status tiny_spmm_csr(tiny_ctx *ctx, const tiny_sparse *a, const tiny_tensor *x, tiny_edge_reduce reduce,
                                   const tiny_tensor *y)
{
    tiny_tensor offset, col, w;
    tiny_spmm_params p = { 0, 0 };
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!a || a->form != TINY_CSR || !a->offset)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "spmm: the matrix must be in CSR form");
    if (x && x->rank == 2 && x->dim[0] != a->n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE, "spmm: the matrix has %td columns, x %td rows", a->n_cols, x->dim[0]);
    p.reduce = (int)reduce;
    offset = tiny_tensor_1d(a->offset, TINY_I64, a->n_rows + 1);
    col = tiny_tensor_1d(a->col, TINY_I32, (tiny_idx)a->n);
    w = tiny_tensor_1d(a->value, TINY_F32, (tiny_idx)a->n);
    return tiny_spmm(ctx, &offset, x, &col, a->value ? &w : NULL, NULL, &p, y);
}
