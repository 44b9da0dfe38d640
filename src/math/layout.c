/* src/math/layout.c - copy, permute, gather, scatter-add
 *
 * Copy      Axes of length 1 are dropped. The others are sorted by the stride of y and joined where both sides allow
 *           it. Three cases are left. Rows that are dense on both sides are copied. If x is dense along another axis
 *           than y, it is a transpose: tiles of 64 x 64 elements (16 KiB of f32 on either side stay in the first-level
 *           cache), made of blocks that are transposed in registers. Everything else is copied element by element.
 *           A block of N rows is transposed in registers by log2(N) rounds. Each round interleaves row i with row i +
 *           N/2.
 * Gather    Rows are copied in the order of the indices, and later rows are prefetched.
 * Scatter   For wide rows each thread owns some columns, else a range of destinations. Each thread reads all indices in
 *           order. So the additions into one number are in the order of the indices with any number of threads.
 * Cost      copy, permute, gather: each number is read once and written once. scatter-add: x once, y twice; every
 *           thread reads all indices.
 * Error     none. scatter-add gives the same bits too, because its order of additions is part of its definition.
 * Left out  accumulating scatter-add in double: it would need a second copy of y.                                   */
#include <stdio.h>
#include <string.h>
#include "math/table_inside.h"

/* ---- plain loops over any strides */

/* y = x over up to four axes, strides in elements, es bytes each */
static void tinyi_layout_nest(unsigned char *y, const tiny_idx *ys, const unsigned char *x, const tiny_idx *xs,
                              int rank, const tiny_idx *dim, size_t es)
{
    tiny_idx d[TINY_MAX_RANK], a[TINY_MAX_RANK], b[TINY_MAX_RANK], i, j, k, l, e = (tiny_idx)es;
    int r;
    for (r = 0; r < TINY_MAX_RANK; r++) {
        int from = r - (TINY_MAX_RANK - rank);
        d[r] = from >= 0 ? dim[from] : 1;
        a[r] = from >= 0 ? ys[from] * e : 0;
        b[r] = from >= 0 ? xs[from] * e : 0;
        if (!d[r]) return;                  /* the axes before it may be as long as an index reaches */
    }
    for (i = 0; i < d[0]; i++)
        for (j = 0; j < d[1]; j++)
            for (k = 0; k < d[2]; k++)
                for (l = 0; l < d[3]; l++)
                    memcpy(y + i * a[0] + j * a[1] + k * a[2] + l * a[3], x + i * b[0] + j * b[1] + k * b[2] + l * b[3],
                           es);
}

/* one row in steps of ys and xs bytes */
static void tinyi_layout_steps(unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, tiny_idx n,
                               size_t es)
{
    tiny_idx i;
    switch (es) {
    case 1: for (i = 0; i < n; i++) y[i * ys] = x[i * xs]; break;
    case 2: for (i = 0; i < n; i++) memcpy(y + i * ys, x + i * xs, 2); break;
    case 4: for (i = 0; i < n; i++) memcpy(y + i * ys, x + i * xs, 4); break;
    default: for (i = 0; i < n; i++) memcpy(y + i * ys, x + i * xs, 8); break;
    }
}

/* ---- copy and permute */

/* the strides of x in the order of the axes of y */
static void tinyi_layout_axes(const tiny_op *op, tiny_idx *xs)
{
    const tiny_tensor *x = op->in[0];
    const tiny_permute_params *p = (const tiny_permute_params *)op->params;
    int i, all_zero = 1;
    for (i = 0; p && i < x->rank; i++)
        if (p->axes[i]) all_zero = 0;
    for (i = 0; i < x->rank; i++)
        xs[i] = x->stride[op->kind != TINY_OP_PERMUTE ? i : all_zero ? x->rank - 1 - i : p->axes[i]];
}

static tiny_status tinyi_copy_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    (void)ctx;
    tinyi_want(&want[0], op->in[0]->dtype, op->in[0]->rank, op->in[0]->dim);
    return TINY_OK;
}

static tiny_status tinyi_permute_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0];
    const tiny_permute_params *p = (const tiny_permute_params *)op->params;
    tiny_idx dim[TINY_MAX_RANK];
    int i, all_zero = 1, seen = 0;
    for (i = 0; p && i < x->rank; i++)
        if (p->axes[i]) all_zero = 0;
    for (i = 0; i < x->rank; i++) {
        int a = all_zero ? x->rank - 1 - i : p->axes[i];
        if (a < 0 || a >= x->rank)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "permute: axes[%d] is %d, x has %d axes", i, a, x->rank);
        if (seen >> a & 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "permute: axis %d of x occurs twice", a);
        seen |= 1 << a;
        dim[i] = x->dim[a];
    }
    tinyi_want(&want[0], x->dtype, x->rank, dim);
    return TINY_OK;
}

TINY_REF_BEGIN
static void tinyi_copy_ref_op(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx xs[TINY_MAX_RANK];
    if (x->data == y->data && op->kind == TINY_OP_COPY) return;     /* the same view */
    tinyi_layout_axes(op, xs);
    tinyi_layout_nest((unsigned char *)y->data, y->stride, (const unsigned char *)x->data, xs, y->rank, y->dim,
                      tiny_dtype_bytes(x->dtype));
}
TINY_REF_END

typedef struct tinyi_layout_plan {
    unsigned char *y;
    const unsigned char *x;
    int n;                                  /* axes left, outermost first */
    tiny_idx dim[TINY_MAX_RANK], xs[TINY_MAX_RANK], ys[TINY_MAX_RANK];      /* steps in bytes */
} tinyi_layout_plan;

static int tinyi_layout_make(tinyi_layout_plan *p, const tiny_tensor *x, const tiny_idx *xs, const tiny_tensor *y,
                             size_t es)
{
    tiny_idx e = (tiny_idx)es;
    int i, j, n = 0;
    p->y = (unsigned char *)y->data;
    p->x = (const unsigned char *)x->data;
    for (i = 0; i < y->rank; i++) {
        tiny_idx d = y->dim[i], sy = y->stride[i] * e, sx = xs[i] * e, size = sy < 0 ? -sy : sy;
        if (d == 0) return 0;
        if (d == 1) continue;
        for (j = n++; j > 0 && (p->ys[j - 1] < 0 ? -p->ys[j - 1] : p->ys[j - 1]) < size; j--) {
            p->dim[j] = p->dim[j - 1];
            p->ys[j] = p->ys[j - 1];
            p->xs[j] = p->xs[j - 1];
        }
        p->dim[j] = d;
        p->ys[j] = sy;
        p->xs[j] = sx;
    }
    for (i = n - 2; i >= 0; i--)
        if (p->ys[i] == p->ys[i + 1] * p->dim[i + 1] && p->xs[i] == p->xs[i + 1] * p->dim[i + 1]) {
            p->dim[i] *= p->dim[i + 1];
            p->ys[i] = p->ys[i + 1];
            p->xs[i] = p->xs[i + 1];
            for (j = i + 1, n--; j < n; j++) {
                p->dim[j] = p->dim[j + 1];
                p->ys[j] = p->ys[j + 1];
                p->xs[j] = p->xs[j + 1];
            }
        }
    if (n == 0) {
        p->dim[0] = 1;
        p->ys[0] = p->xs[0] = e;
        n = 1;
    }
    p->n = n;
    return 1;
}

#define TINYI_LAYOUT_TILE 64                /* elements a side */
#define TINYI_LAYOUT_BYTES 131072           /* moved by one piece of work */

/* Matrices of more bytes than that mind where pages and sets of the caches end: tiles are larger, so that a page that
 * was found once serves some hundred bytes, and those of small elements, whose blocks take only parts of a line, pass
 * through dense copies on both sides. */
#define TINYI_LAYOUT_LARGE 2097152.0
#define TINYI_LAYOUT_PAST 33554432.0        /* from here on transposes of 4-byte elements write past the caches */
#define TINYI_LAYOUT_ROW 256 /* bytes of a row of a dense copy, 64 apart so that rows fall into different sets */
#define TINYI_LAYOUT_STEP (TINYI_LAYOUT_ROW + 64)

static void tinyi_copy_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    size_t es = tiny_dtype_bytes(op->in[0]->dtype);
    (void)n_threads;
    (void)shared_bytes;
    if (es <= 2 && (double)es * (double)tiny_tensor_count(op->in[0]) > TINYI_LAYOUT_LARGE)
        *own_bytes = 2 * TINYI_LAYOUT_ROW / es * TINYI_LAYOUT_STEP;
}

static void tinyi_layout_turn(tiny_team *team, const tinyi_layout_plan *p, int across, size_t es)
{
    const int last = p->n - 1;
    const tiny_idx tile = TINYI_LAYOUT_TILE, e = (tiny_idx)es, ys = p->ys[across], xs = p->xs[last];
    const tinyi_fn_copy_rows rows = TINYI_OF(team->k, copy_rows);
    unsigned char *in = (unsigned char *)team->own, *out;
    tiny_idx na = p->dim[across], nb = p->dim[last], big = tile, ta, tb, total = 1, grain, u, u1, a, b;
    tinyi_fn_transpose_b4 turn, past = NULL;
    double bytes = (double)es;
    int i;
    switch (es) {
    case 1: turn = TINYI_K(team, transpose_b1); break;
    case 2: turn = TINYI_K(team, transpose_b2); break;
    case 4: turn = TINYI_K(team, transpose_b4); break;
    default: turn = TINYI_K(team, transpose_b8); break;
    }
    for (i = 0; i <= last; i++) {
        bytes *= (double)p->dim[i];
        if (i != across && i != last) total *= p->dim[i];
    }
    if (es > 2 || bytes <= TINYI_LAYOUT_LARGE) in = NULL;
    if (bytes > TINYI_LAYOUT_LARGE) big = in ? TINYI_LAYOUT_ROW / e : 1024 / e;
    out = in ? in + big * TINYI_LAYOUT_STEP : NULL;
    /* lines are not read before they are written, and the caches keep what they have */
    if (es == 4 && bytes >= TINYI_LAYOUT_PAST && (uintptr_t)p->y % 64 == 0) past = TINYI_K(team, transpose_past_b4);
    for (i = 0; i < last && past; i++)
        if (p->ys[i] % 64) past = NULL;
    ta = (na + big - 1) / big;
    tb = (nb + big - 1) / big;
    total *= ta * tb;
    grain = TINYI_LAYOUT_BYTES / (e * TINYI_MIN(na, big) * TINYI_MIN(nb, big));
    while (tiny_take(team, total, TINYI_MAX(grain, 1), &u, &u1))
        for (; u < u1; u++) {
            tiny_idx r = u, b0 = r % tb * big, b1 = TINYI_MIN(nb, b0 + big), a0, a1;
            unsigned char *y = p->y, *to;
            const unsigned char *x = p->x, *from;
            r /= tb;
            a0 = r % ta * big;
            a1 = TINYI_MIN(na, a0 + big);
            r /= ta;
            for (i = last - 1; i >= 0; i--)
                if (i != across) {
                    y += r % p->dim[i] * p->ys[i];
                    x += r % p->dim[i] * p->xs[i];
                    r /= p->dim[i];
                }
            y += a0 * ys + b0 * e;
            x += a0 * e + b0 * xs;
            if (in) rows(in, TINYI_LAYOUT_STEP, x, xs, (size_t)(b1 - b0), (size_t)((a1 - a0) * e));
            for (a = 0; a < a1 - a0; a += tile)
                for (b = 0; b < b1 - b0; b += tile) {
                    tiny_idx ma = TINYI_MIN(a1 - a0 - a, tile), mb = TINYI_MIN(b1 - b0 - b, tile),
                             to_step = in ? TINYI_LAYOUT_STEP : ys, from_step = in ? TINYI_LAYOUT_STEP : xs;
                    to = (in ? out : y) + a * to_step + b * e;
                    from = (in ? in : x) + a * e + b * from_step;
                    if (past && ma == tile && mb == tile) past(to, to_step, from, from_step, (size_t)ma, (size_t)mb);
                    else turn(to, to_step, from, from_step, (size_t)ma, (size_t)mb);
                }
            if (in) rows(y, ys, out, TINYI_LAYOUT_STEP, (size_t)(a1 - a0), (size_t)((b1 - b0) * e));
        }
}

/* the start of row r of the axes before the last two or the last one */
static void tinyi_layout_at(const tinyi_layout_plan *p, int axes, tiny_idx r, tiny_idx *oy, tiny_idx *ox)
{
    int i;
    *oy = *ox = 0;
    for (i = axes - 1; i >= 0; i--) {
        *oy += r % p->dim[i] * p->ys[i];
        *ox += r % p->dim[i] * p->xs[i];
        r /= p->dim[i];
    }
}

static void tinyi_layout_rows(tiny_team *team, const tinyi_layout_plan *p, size_t es)
{
    const tinyi_fn_copy_rows rows = TINYI_K(team, copy_rows);
    const int last = p->n - 1;
    tiny_idx bytes = p->dim[last] * (tiny_idx)es, cuts = (bytes + TINYI_LAYOUT_BYTES - 1) / TINYI_LAYOUT_BYTES, run,
             total = 1, u, u1, oy, ox;
    int i;
    if (last == 0 || cuts > 1) {            /* long rows: each in cuts of its own */
        for (i = 0; i < last; i++) total *= p->dim[i];
        while (tiny_take(team, total * cuts, 1, &u, &u1))
            for (; u < u1; u++) {
                tiny_idx c = u % cuts * TINYI_LAYOUT_BYTES;
                tinyi_layout_at(p, last, u / cuts, &oy, &ox);
                memcpy(p->y + oy + c, p->x + ox + c, (size_t)TINYI_MIN(bytes - c, (tiny_idx)TINYI_LAYOUT_BYTES));
            }
        return;
    }
    run = p->dim[last - 1];
    for (i = 0; i < last; i++) total *= p->dim[i];
    while (tiny_take(team, total, TINYI_MAX(TINYI_LAYOUT_BYTES / bytes, 1), &u, &u1))
        while (u < u1) {
            tiny_idx first = u % run, n = TINYI_MIN(run - first, u1 - u);
            tinyi_layout_at(p, last, u, &oy, &ox);
            rows(p->y + oy, p->ys[last - 1], p->x + ox, p->xs[last - 1], (size_t)n, (size_t)bytes);
            u += n;
        }
}

static void tinyi_layout_single(tiny_team *team, const tinyi_layout_plan *p, size_t es)
{
    const int last = p->n - 1;
    tiny_idx n = p->dim[last], cuts = (n + TINYI_LAYOUT_BYTES / 8 - 1) / (TINYI_LAYOUT_BYTES / 8), total = cuts, u, u1,
             oy, ox;
    int i;
    for (i = 0; i < last; i++) total *= p->dim[i];
    while (tiny_take(team, total, TINYI_MAX(TINYI_LAYOUT_BYTES / 8 / n, 1), &u, &u1))
        for (; u < u1; u++) {
            tiny_idx c = u % cuts * (TINYI_LAYOUT_BYTES / 8);
            tinyi_layout_at(p, last, u / cuts, &oy, &ox);
            tinyi_layout_steps(p->y + oy + c * p->ys[last], p->ys[last], p->x + ox + c * p->xs[last], p->xs[last],
                               TINYI_MIN(n - c, (tiny_idx)(TINYI_LAYOUT_BYTES / 8)), es);
        }
}

static void tinyi_copy_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx xs[TINY_MAX_RANK];
    size_t es = tiny_dtype_bytes(x->dtype);
    tinyi_layout_plan p;
    int i;
    (void)TINYI_K(team, copy_rows);
    if (x->data == y->data && op->kind == TINY_OP_COPY) return;
    tinyi_layout_axes(op, xs);
    if (!tinyi_layout_make(&p, x, xs, y, es)) return;
    if (p.ys[p.n - 1] == (tiny_idx)es) {
        if (p.xs[p.n - 1] == (tiny_idx)es) {
            tinyi_layout_rows(team, &p, es);
            return;
        }
        for (i = p.n - 2; i >= 0; i--)
            if (p.xs[i] == (tiny_idx)es) {
                tinyi_layout_turn(team, &p, i, es);
                return;
            }
    }
    tinyi_layout_single(team, &p, es);
}

static void tinyi_copy_cost(const tiny_op *op, tiny_cost *cost)
{
    cost->flops = 0.0;
    cost->bytes = 2.0 * (double)tiny_dtype_bytes(op->in[0]->dtype) * (double)tiny_tensor_count(op->in[0]);
}

static void tinyi_copy_cases(tiny_case *c)
{
    tiny_idx dim[TINY_MAX_RANK];
    int rank = tiny_case_pick(c, TINY_MAX_RANK + 1), i;
    for (i = 0; i < rank; i++) dim[i] = tiny_case_dim(c, rank < 3 ? 300 : rank == 3 ? 70 : 24);
    c->in[0] = tiny_tensor_nd(NULL, (tiny_dtype)tiny_case_pick(c, TINY_DTYPE_COUNT), rank, dim);
    c->fill[0] = TINY_FILL_ANY;
}

static void tinyi_permute_cases(tiny_case *c)
{
    tiny_permute_params *p = (tiny_permute_params *)(void *)&c->params;
    int i;
    tinyi_copy_cases(c);
    for (i = 0; i < TINY_MAX_RANK; i++) p->axes[i] = 0;
    if (c->in[0].rank < 2 || tiny_case_pick(c, 4) == 0) return;
    for (i = 0; i < c->in[0].rank; i++) {   /* a random order: each axis takes the place of an earlier one */
        int j = tiny_case_pick(c, i + 1);
        p->axes[i] = p->axes[j];
        p->axes[j] = i;
    }
}

static const short tinyi_kernels_of_copy[] = { TINYI_K_copy_rows,
                                               TINYI_K_transpose_b1,
                                               TINYI_K_transpose_b2,
                                               TINYI_K_transpose_b4,
                                               TINYI_K_transpose_b8,
                                               TINYI_K_transpose_past_b4,
                                               -1 };
TINYI_ROW tinyi_row_copy = TINYI_ROW_OF("copy", TINY_OP_COPY, TAKES(1, 1), GIVES(1), NO_PARAMS, FLAGS(TINY_OP_INPLACE),
    SHAPE(tinyi_copy_shape), REFERENCE(tinyi_copy_ref_op), FAST(tinyi_copy_fast, tinyi_copy_work),
    COST(tinyi_copy_cost), CASES(tinyi_copy_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL),
    GRADIENT(tinyi_grad_copy), KERNELS(tinyi_kernels_of_copy), SAYS("y = x, any strides"));
TINYI_ROW tinyi_row_permute = TINYI_ROW_OF("permute", TINY_OP_PERMUTE, TAKES(1, 1), GIVES(1),
    PARAMS(tiny_permute_params), FLAGS(0),
    SHAPE(tinyi_permute_shape), REFERENCE(tinyi_copy_ref_op), FAST(tinyi_copy_fast, tinyi_copy_work),
    COST(tinyi_copy_cost), CASES(tinyi_permute_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL),
    GRADIENT(tinyi_grad_copy), KERNELS(tinyi_kernels_of_copy), SAYS("y.axis[i] = x.axis[axes[i]]"));

TINY_API tiny_status tiny_copy(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_COPY, x, NULL, NULL, y);
}

TINY_API tiny_status tiny_permute(tiny_ctx *ctx, const tiny_tensor *x, const int axes[TINY_MAX_RANK],
                                  const tiny_tensor *y)
{
    tiny_permute_params p;
    int i;
    memset(&p, 0, sizeof p);
    for (i = 0; axes && x && i < x->rank && i < TINY_MAX_RANK; i++) p.axes[i] = axes[i];
    return tinyi_call(ctx, TINY_OP_PERMUTE, x, NULL, &p, y);
}

TINY_API tiny_status tiny_transpose(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tiny_permute(ctx, x, NULL, y);
}

/* ---- rows by index */

TINYI_INLINE int64_t tinyi_index_at(const void *index, ptrdiff_t at, int wide)
{
    return wide ? ((const int64_t *)index)[at] : (int64_t)((const int32_t *)index)[at];
}

/* Indices in their order, and the rows of x (scatter) or y (gather) that belong to them: runs of equal steps. */
typedef struct tinyi_layout_list {
    const unsigned char *index;
    unsigned char *rows;
    tiny_idx n, run;                        /* run: how many follow each other with the same steps */
    ptrdiff_t index_step, row_step;         /* in elements; in bytes */
    int wide, rank;
    const tiny_tensor *index_t, *rows_t;
    size_t es;
    int rows_dense;                         /* the axes inside a row lie dense, in rows and in the table */
    size_t row_count;                       /* elements of a row */
} tinyi_layout_list;

/* inside: dense from axis first on */
static int tinyi_layout_dense_from(const tiny_tensor *t, int first)
{
    tiny_idx step = 1;
    int i;
    for (i = t->rank - 1; i >= first; i--) {
        if (t->dim[i] > 1 && t->stride[i] != step) return 0;
        step *= t->dim[i];
    }
    return 1;
}

static void tinyi_layout_list_make(tinyi_layout_list *l, const tiny_tensor *index, const tiny_tensor *rows,
                                   const tiny_tensor *table)
{
    int i, q = index->rank;
    l->index = (const unsigned char *)index->data;
    l->rows = (unsigned char *)rows->data;
    l->wide = index->dtype == TINY_I64;
    l->rank = q;
    l->index_t = index;
    l->rows_t = rows;
    l->es = tiny_dtype_bytes(rows->dtype);
    l->n = tiny_tensor_count(index);
    l->run = 1;
    l->index_step = 0;
    l->row_step = 0;
    if (q > 0) {
        l->run = index->dim[q - 1];
        l->index_step = index->stride[q - 1];
        l->row_step = rows->stride[q - 1] * (tiny_idx)l->es;
        for (i = q - 2; i >= 0; i--) {
            if (index->stride[i] != index->stride[i + 1] * index->dim[i + 1] ||
                rows->stride[i] != rows->stride[i + 1] * rows->dim[i + 1])
                break;
            l->run *= index->dim[i];
        }
    }
    l->rows_dense = tinyi_layout_dense_from(rows, q) && tinyi_layout_dense_from(table, 1);
    l->row_count = 1;
    for (i = 1; i < table->rank; i++) l->row_count *= (size_t)table->dim[i];
}

/* index and row number p; returns how many from there on follow in equal steps */
static tiny_idx tinyi_layout_list_at(const tinyi_layout_list *l, tiny_idx p, const void **index, unsigned char **row)
{
    tiny_idx r = p, io = 0, ro = 0;
    int i;
    for (i = l->rank - 1; i >= 0; i--) {
        io += r % l->index_t->dim[i] * l->index_t->stride[i];
        ro += r % l->index_t->dim[i] * l->rows_t->stride[i];
        r /= l->index_t->dim[i];
    }
    *index = l->index + io * (l->wide ? 8 : 4);
    *row = l->rows + ro * (tiny_idx)l->es;
    return l->run - p % l->run;
}

/* the first of n that is not a row of the table; n if all are */
static tiny_idx tinyi_layout_bad(const void *index, ptrdiff_t step, int wide, tiny_idx n, tiny_idx n_rows)
{
    tiny_idx i = 0, j;
    /* blocks without a branch inside: one is bad hardly ever */
    for (; i < n; i += 256) {
        tiny_idx end = TINYI_MIN(n, i + 256);
        uint64_t bad = 0;
        if (wide)
            for (j = i; j < end; j++)
                bad |= (uint64_t)((uint64_t)((const int64_t *)index)[j * step] >= (uint64_t)n_rows);
        else
            for (j = i; j < end; j++)
                bad |= (uint64_t)((uint64_t)(int64_t)((const int32_t *)index)[j * step] >= (uint64_t)n_rows);
        if (bad) break;
    }
    for (j = i; j < n; j++)
        if ((uint64_t)tinyi_index_at(index, j * step, wide) >= (uint64_t)n_rows) return j;
    return n;
}

static void tinyi_layout_says(char says[160], const char *name, tiny_idx at, int64_t value, const char *what,
                              tiny_idx n_rows)
{
    (void)snprintf(says, 160, "%s: index %td is %lld, but %s has %td rows", name, at, (long long)value, what, n_rows);
}

/* The reference cannot fail, and an accelerator need not look: for them the indices are read beforehand. They stand
 * ready then, while in a list that runs in one region they may still be computed by an operation before. */
static tiny_status tinyi_layout_look(tiny_ctx *ctx, const tiny_op *op, const char *name, const char *what,
                                     tiny_idx n_rows)
{
    const tiny_tensor *index = op->in[1];
    char says[160];
    tiny_idx p, n;
    tiny_tensor row;
    tinyi_layout_list l;
    if ((ctx->target != TINY_TARGET_REFERENCE && !ctx->desc.accel && op->in[0]->dtype != TINY_F64) || !op->out[0] ||
        !index->data)
        return TINY_OK;
    row = *index;                           /* the list wants rows; the indices stand in for them */
    tinyi_layout_list_make(&l, index, &row, &row);
    for (p = 0; p < l.n; p += n) {
        const void *at;
        unsigned char *unused;
        tiny_idx bad;
        n = tinyi_layout_list_at(&l, p, &at, &unused);
        bad = tinyi_layout_bad(at, l.index_step, l.wide, n, n_rows);
        if (bad < n) {
            tinyi_layout_says(says, name, p + bad, tinyi_index_at(at, bad * l.index_step, l.wide), what, n_rows);
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s", says);
        }
    }
    return TINY_OK;
}

/* ---- gather */

static tiny_status tinyi_gather_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *index = op->in[1];
    tiny_idx dim[2 * TINY_MAX_RANK];
    int i, n = 0;
    if (index->dtype != TINY_I32 && index->dtype != TINY_I64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "gather: index is %s, it must be i32 or i64",
                          tiny_dtype_name(index->dtype));
    if (x->rank < 1) return tinyi_fail(ctx, TINY_E_SHAPE, "gather: x has no rows to choose from");
    for (i = 0; i < index->rank; i++) dim[n++] = index->dim[i];
    for (i = 1; i < x->rank; i++) dim[n++] = x->dim[i];
    if (n > TINY_MAX_RANK)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "gather: an index of rank %d with rows of rank %d gives rank %d, the maximum is %d",
                          index->rank,
                          x->rank - 1, n, TINY_MAX_RANK);
    tinyi_want(&want[0], x->dtype, n, dim);
    return tinyi_layout_look(ctx, op, "gather", "x", x->dim[0]);
}

TINY_REF_BEGIN
static void tinyi_gather_ref_op(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *index = op->in[1], *y = op->out[0];
    static const tiny_idx none[TINY_MAX_RANK] = { 0, 0, 0, 0 };
    static const unsigned char zero[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
    size_t es = tiny_dtype_bytes(x->dtype);
    int q = index->rank;
    tinyi_layout_list l;
    tiny_idx p;
    tinyi_layout_list_make(&l, index, y, x);
    for (p = 0; p < l.n; p++) {
        const void *at;
        unsigned char *row;
        int64_t ix;
        (void)tinyi_layout_list_at(&l, p, &at, &row);
        ix = tinyi_index_at(at, 0, l.wide);
        if (ix >= 0 && ix < x->dim[0])
            tinyi_layout_nest(row, y->stride + q,
                              (const unsigned char *)x->data + (tiny_idx)ix * x->stride[0] * (tiny_idx)es,
                              x->stride + 1, x->rank - 1, x->dim + 1, es);
        else tinyi_layout_nest(row, y->stride + q, zero, none, x->rank - 1, x->dim + 1, es);
    }
}
TINY_REF_END

static void tinyi_gather_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *index = op->in[1], *y = op->out[0];
    const tinyi_fn_gather_rows rows = TINYI_K(team, gather_rows);
    tiny_idx p, p1, grain, n, bad, x_step;
    size_t bytes;
    tinyi_layout_list l;
    tinyi_layout_list_make(&l, index, y, x);
    if (l.n == 0) return;
    bytes = l.row_count * l.es;
    grain = (tiny_idx)(65536 / (bytes + 16)) + 1;
    x_step = x->stride[0] * (tiny_idx)l.es;
    while (tiny_take(team, l.n, grain, &p, &p1))
        for (; p < p1; p += n) {
            const void *at;
            unsigned char *row;
            n = TINYI_MIN(tinyi_layout_list_at(&l, p, &at, &row), p1 - p);
            bad = tinyi_layout_bad(at, l.index_step, l.wide, n, x->dim[0]);
            if (bad < n) {
                char says[160];
                tinyi_layout_says(says, "gather", p + bad, tinyi_index_at(at, bad * l.index_step, l.wide), "x",
                                  x->dim[0]);
                tiny_team_fail(team, TINY_E_ARGUMENT, says);
            }
            if (bad == n && l.rows_dense) {
                if (bytes)
                    rows(row, l.row_step, (const unsigned char *)x->data, x_step, at, l.index_step, l.wide, (size_t)n,
                         bytes);
                continue;
            }
            for (bad = 0; bad < n; bad++) {
                static const tiny_idx none[TINY_MAX_RANK] = { 0, 0, 0, 0 };
                static const unsigned char zero[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
                int64_t ix = tinyi_index_at(at, bad * l.index_step, l.wide);
                int good = ix >= 0 && ix < x->dim[0];
                tinyi_layout_nest(row + bad * l.row_step, y->stride + l.rank,
                                  good ? (const unsigned char *)x->data + (tiny_idx)ix * x_step : zero,
                                  good ? x->stride + 1 : none, x->rank - 1, x->dim + 1, l.es);
            }
        }
}

static void tinyi_gather_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->out[0]);
    cost->flops = 0.0;
    cost->bytes = 2.0 * (double)tiny_dtype_bytes(op->in[0]->dtype) * n + 8.0 * (double)tiny_tensor_count(op->in[1]);
}

static void tinyi_gather_cases(tiny_case *c)
{
    tiny_idx dim[TINY_MAX_RANK], idim[2];
    int rank = 1 + tiny_case_pick(c, 3), q = 1 + tiny_case_pick(c, TINYI_MIN(2, TINY_MAX_RANK - rank + 1)), i;
    dim[0] = tiny_case_dim(c, 300);
    for (i = 1; i < rank; i++) dim[i] = tiny_case_dim(c, rank == 2 ? 300 : 20);
    for (i = 0; i < q; i++) idim[i] = tiny_case_dim(c, q == 1 ? 500 : 20);
    c->in[0] = tiny_tensor_nd(NULL, (tiny_dtype)tiny_case_pick(c, TINY_DTYPE_COUNT), rank, dim);
    c->in[1] = tiny_tensor_nd(NULL, tiny_case_pick(c, 2) ? TINY_I64 : TINY_I32, q, idim);
    c->fill[0] = TINY_FILL_ANY;
    c->fill[1] = TINY_FILL_INDEX;
    c->limit[1] = dim[0];
}

static const short tinyi_kernels_of_gather[] = { TINYI_K_gather_rows, -1 };
TINYI_ROW tinyi_row_gather_rows = TINYI_ROW_OF("gather", TINY_OP_GATHER, TAKES(2, 2), GIVES(1), NO_PARAMS, FLAGS(0),
    SHAPE(tinyi_gather_shape), REFERENCE(tinyi_gather_ref_op), FAST(tinyi_gather_fast, NULL), COST(tinyi_gather_cost),
    CASES(tinyi_gather_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_gather),
    KERNELS(tinyi_kernels_of_gather), SAYS("y[p] = x[index[p]]"));

TINY_API tiny_status tiny_gather(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *index, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_GATHER, x, index, NULL, y);
}

/* ---- scatter-add */

static tiny_status tinyi_scatter_add_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *index = op->in[1];
    const tiny_scatter_params *p = (const tiny_scatter_params *)op->params;
    tiny_idx dim[TINY_MAX_RANK];
    int i, n = 1;
    if (x->dtype != TINY_F32 && x->dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "scatter_add: x is %s, it must be f32 or f64", tiny_dtype_name(x->dtype));
    if (index->dtype != TINY_I32 && index->dtype != TINY_I64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "scatter_add: index is %s, it must be i32 or i64",
                          tiny_dtype_name(index->dtype));
    if (x->rank < index->rank)
        return tinyi_fail(ctx, TINY_E_SHAPE, "scatter_add: index has rank %d, x only %d", index->rank, x->rank);
    for (i = 0; i < index->rank; i++)
        if (x->dim[i] != index->dim[i])
            return tinyi_fail(ctx, TINY_E_SHAPE, "scatter_add: axis %d of index is %td, of x %td", i, index->dim[i],
                              x->dim[i]);
    if (x->rank - index->rank + 1 > TINY_MAX_RANK)
        return tinyi_fail(ctx, TINY_E_SHAPE, "scatter_add: rows of rank %d, the maximum is %d", x->rank - index->rank,
                          TINY_MAX_RANK - 1);
    dim[0] = p ? p->n_rows : 0;
    if (dim[0] < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                      "scatter_add: n_rows is %td; it must not be negative", dim[0]);
    for (i = index->rank; i < x->rank; i++) dim[n++] = x->dim[i];
    tinyi_want(&want[0], x->dtype, n, dim);
    return tinyi_layout_look(ctx, op, "scatter_add", "y", dim[0]);
}

/* y += x over up to three axes */
TINY_REF_BEGIN
static void tinyi_layout_add(void *y, const tiny_idx *ys, const void *x, const tiny_idx *xs, int rank,
                             const tiny_idx *dim, tiny_dtype type)
{
    const float *from = (const float *)x;
    const double *from64 = (const double *)x;
    float *to = (float *)y;
    double *to64 = (double *)y;
    tiny_idx i, j, k, d[3], a[3], b[3];
    int r;
    for (r = 0; r < 3; r++) {
        int axis = r - (3 - rank);
        d[r] = axis >= 0 ? dim[axis] : 1;
        a[r] = axis >= 0 ? ys[axis] : 0;
        b[r] = axis >= 0 ? xs[axis] : 0;
    }
    for (i = 0; i < d[0]; i++)
        for (j = 0; j < d[1]; j++)
            for (k = 0; k < d[2]; k++) {
                tiny_idx at = i * a[0] + j * a[1] + k * a[2], of = i * b[0] + j * b[1] + k * b[2];
                if (type == TINY_F64) to64[at] += from64[of];
                else to[at] += from[of];
            }
}

static void tinyi_scatter_add_ref_op(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *index = op->in[1], *y = op->out[0];
    tinyi_layout_list l;
    tiny_idx p;
    tinyi_layout_list_make(&l, index, x, y);
    for (p = 0; p < l.n; p++) {
        const void *at;
        unsigned char *row;
        int64_t ix;
        (void)tinyi_layout_list_at(&l, p, &at, &row);
        ix = tinyi_index_at(at, 0, l.wide);
        if (ix < 0 || ix >= y->dim[0]) continue;
        tinyi_layout_add((unsigned char *)y->data + (tiny_idx)ix * y->stride[0] * (tiny_idx)l.es, y->stride + 1, row,
                         x->stride + l.rank, y->rank - 1, y->dim + 1, x->dtype);
    }
}
TINY_REF_END

static void tinyi_scatter_add_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *index = op->in[1], *y = op->out[0];
    const tinyi_fn_scatter_rows_f32 rows = TINYI_K(team, scatter_rows_f32);
    tiny_idx p, n, u, u1, cols, cut, pieces, bad;
    int by_column;
    tinyi_layout_list l;
    tinyi_layout_list_make(&l, index, x, y);
    cols = (tiny_idx)l.row_count;
    if (l.n == 0) return;
    /* a piece is a range of columns (whole cache lines) or of destinations; each walks all indices */
    by_column = l.rows_dense && cols >= 32 * (tiny_idx)team->n;
    if (by_column) {
        cut = (cols + 2 * team->n - 1) / (2 * team->n);
        cut = TINYI_MAX((cut + 15) / 16 * 16, 32);
        pieces = (cols + cut - 1) / cut;
    } else {
        cut = (y->dim[0] + team->n - 1) / team->n;
        pieces = cut ? (y->dim[0] + cut - 1) / cut : 1;
    }
    if (team->n == 1) {
        by_column = 0;
        pieces = 1;
        cut = y->dim[0];
    }
    while (tiny_take(team, TINYI_MAX(pieces, 1), 1, &u, &u1))
        for (; u < u1; u++) {
            tiny_idx c0 = by_column ? u * cut : 0, c1 = by_column ? TINYI_MIN(cols, c0 + cut) : cols;
            tiny_idx low = by_column ? 0 : u * cut, high = by_column ? y->dim[0] : TINYI_MIN(y->dim[0], low + cut);
            for (p = 0; p < l.n; p += n) {
                const void *at;
                unsigned char *row;
                n = tinyi_layout_list_at(&l, p, &at, &row);
                if (u == 0 && (bad = tinyi_layout_bad(at, l.index_step, l.wide, n, y->dim[0])) < n) {
                    char says[160];
                    tinyi_layout_says(says, "scatter_add", p + bad, tinyi_index_at(at, bad * l.index_step, l.wide), "y",
                                      y->dim[0]);
                    tiny_team_fail(team, TINY_E_ARGUMENT, says);
                }
                if (cols == 0) continue;
                if (l.rows_dense)
                    rows((float *)y->data + c0, y->stride[0], (const float *)(const void *)row + c0,
                         l.row_step / (tiny_idx)sizeof(float), at, l.index_step, l.wide, (size_t)n, (size_t)(c1 - c0),
                         low, high);
                else
                    for (bad = 0; bad < n; bad++) {
                        int64_t ix = tinyi_index_at(at, bad * l.index_step, l.wide);
                        if (ix >= low && ix < high)
                            tinyi_layout_add((float *)y->data + (tiny_idx)ix * y->stride[0], y->stride + 1,
                                             (const float *)(const void *)(row + bad * l.row_step), x->stride + l.rank,
                                             y->rank - 1, y->dim + 1, TINY_F32);
                    }
            }
        }
}

static void tinyi_scatter_add_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->in[0]);
    cost->flops = n;
    cost->bytes = 12.0 * n + 8.0 * (double)tiny_tensor_count(op->in[1]);
}

static void tinyi_scatter_add_cases(tiny_case *c)
{
    tiny_scatter_params *p = (tiny_scatter_params *)(void *)&c->params;
    tiny_idx dim[TINY_MAX_RANK];
    int q = 1 + tiny_case_pick(c, 2), rank = q + tiny_case_pick(c, 3), i;
    for (i = 0; i < rank; i++) dim[i] = tiny_case_dim(c, rank < 3 ? 300 : 20);
    p->n_rows = tiny_case_dim(c, 200);
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    c->in[1] = tiny_tensor_nd(NULL, tiny_case_pick(c, 2) ? TINY_I64 : TINY_I32, q, dim);
    c->fill[0] = TINY_FILL_NORMAL;
    c->fill[1] = TINY_FILL_INDEX;
    c->limit[1] = p->n_rows;
}

static const short tinyi_kernels_of_scatter_add[] = { TINYI_K_scatter_rows_f32, -1 };
TINYI_ROW tinyi_row_scatter_add = TINYI_ROW_OF("scatter_add", TINY_OP_SCATTER_ADD, TAKES(2, 2), GIVES(1),
    PARAMS(tiny_scatter_params), FLAGS(TINY_OP_ACCUMULATES | TINY_OP_F64),
    SHAPE(tinyi_scatter_add_shape), REFERENCE(tinyi_scatter_add_ref_op), FAST(tinyi_scatter_add_fast, NULL),
    COST(tinyi_scatter_add_cost), CASES(tinyi_scatter_add_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL),
    GRADIENT(tinyi_grad_scatter_add), KERNELS(tinyi_kernels_of_scatter_add),
    SAYS("y[index[p]] += x[p], in the order of p"));

TINY_API tiny_status tiny_scatter_add(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *index,
                                      const tiny_tensor *y)
{
    tiny_scatter_params p;
    p.n_rows = y && y->rank > 0 && y->rank <= TINY_MAX_RANK ? y->dim[0] : 0;
    return tinyi_call(ctx, TINY_OP_SCATTER_ADD, x, index, &p, y);
}
