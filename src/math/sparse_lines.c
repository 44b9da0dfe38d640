/* src/math/sparse_lines.c - conversions through compressed rows or columns
 *
 * Method   Everything passes through compressed rows (or, for CSC, compressed columns), called lines here. A stable
 *          counting sort (count, prefix sum, place) moves the entries to their lines. Lines whose entries do not ascend
 *          are sorted, by insertion up to 32 entries and by radix sort above (math/sort.h). Duplicates are then next to
 *          each other. A change between CSR and CSC needs no sort: placing the lines in order leaves each result line
 *          ascending.
 *          With several threads each one counts and places a piece of the entries, with its own table of counts. The
 *          pieces keep their order, so the result is the same for any number of threads.
 * Cost     linear in entries + rows + columns (BITMAP: + words, dense: + elements). Memory besides the result: one copy
 *          of the entries, and for each thread one count a line (only when there are at least four entries a line).
 * Error    none, but for sums of duplicates: in double, in their order, rounded once.
 * Left out hash tables for matrices with far more lines than entries: COO holds those.                              */
#include "math/sparse_lines_inside.h"
#include "math/bits_inside.h"
#include "math/sort.h"
#include "math/rows_inside.h"
#include "core/state_inside.h"
#include <string.h>

tiny_idx tinyi_sparse_words(const tiny_sparse *a) { return (a->n_cols + 63) / 64; }

void tinyi_lines_free(tiny_ctx *ctx, tinyi_lines *l)
{
    if (l->owned) {
        tiny_free(ctx, l->offset);
        tiny_free(ctx, l->at);
        tiny_free(ctx, l->value);
        tiny_free(ctx, l->source);
    }
    memset(l, 0, sizeof *l);
}

static tiny_status tinyi_lines_take(tiny_ctx *ctx, tinyi_lines *l, tiny_idx n_lines, int64_t n, int with_value,
                                    int with_source)
{
    memset(l, 0, sizeof *l);
    l->n_lines = n_lines;
    l->n = n;
    l->owned = 1;
    l->offset = (int64_t *)tinyi_alloc(ctx, (size_t)n_lines + 1, sizeof *l->offset);
    if (l->offset) l->at = (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *l->at);
    if (l->at && with_value) l->value = (float *)tinyi_alloc(ctx, (size_t)n, sizeof *l->value);
    if (l->at && with_source) l->source = (int64_t *)tinyi_alloc(ctx, (size_t)n, sizeof *l->source);
    if (l->at && (l->value || !with_value) && (l->source || !with_source)) return TINY_OK;
    tinyi_lines_free(ctx, l);
    return tiny_ctx_status(ctx);
}

/* Entries to their lines. Where they come from: line[p] (COO), or lines of the other direction, whose entries name the
 * line. */
typedef struct tinyi_place_job {
    const int32_t *line, *at;               /* at NULL: the number of the other line */
    const int64_t *other;                   /* offsets of the other lines */
    tiny_idx n_other;
    const float *value;
    tinyi_lines *to;
    int64_t *count;                         /* (pieces, n_lines); one piece counts in to->offset */
    int pieces;
} tinyi_place_job;

#define TINYI_PLACE_THREADED 262144

static int64_t tinyi_place_cut(int64_t n, int i, int pieces)
{
    return n / pieces * i + TINYI_MIN(n % pieces, (int64_t)i);
}

static void tinyi_place_move(const tinyi_place_job *job, int64_t p0, int64_t p1, int64_t *place)
{
    tinyi_lines *to = job->to;
    tiny_idx other = 0, high = job->n_other, mid;
    int64_t p, q;
    if (!job->at) {                         /* the last other line that begins at p0 or before */
        while (high - other > 1) {
            mid = other + (high - other) / 2;
            if (job->other[mid] <= p0) other = mid;
            else high = mid;
        }
    }
    for (p = p0; p < p1; p++) {
        if (!job->at) while (job->other[other + 1] <= p) other++;
        q = place[job->line[p]]++;
        to->at[q] = job->at ? job->at[p] : (int32_t)other;
        if (to->value) to->value[q] = job->value[p];
        if (to->source) to->source[q] = p;
    }
}

static void tinyi_place_team(tiny_team *team, void *arg)
{
    const tinyi_place_job *job = (const tinyi_place_job *)arg;
    tinyi_lines *to = job->to;
    tiny_idx n = to->n_lines, i, p, p1;
    int64_t q;
    int k;
    /* pieces are cut by the plan, not by the team: it may be smaller */
    while (tiny_take(team, job->pieces, 1, &p, &p1))
        for (; p < p1; p++) {
            int64_t *c = job->count + p * n, end = tinyi_place_cut(to->n, (int)p + 1, job->pieces);
            memset(c, 0, (size_t)n * sizeof *c);
            for (q = tinyi_place_cut(to->n, (int)p, job->pieces); q < end; q++) c[job->line[q]]++;
        }
    tiny_barrier(team);
    if (team->i == 0) {
        int64_t at = 0;
        for (i = 0; i < n; i++) {
            to->offset[i] = at;
            for (k = 0; k < job->pieces; k++) {
                int64_t *c = job->count + k * n + i, here = *c;
                *c = at;
                at += here;
            }
        }
        to->offset[n] = at;
    }
    tiny_barrier(team);
    while (tiny_take(team, job->pieces, 1, &p, &p1))
        for (; p < p1; p++)
            tinyi_place_move(job, tinyi_place_cut(to->n, (int)p, job->pieces),
                             tinyi_place_cut(to->n, (int)p + 1, job->pieces), job->count + p * n);
}

static tiny_status tinyi_place(tiny_ctx *ctx, tinyi_place_job *job)
{
    tinyi_lines *to = job->to;
    tiny_idx n = to->n_lines, i;
    int64_t q, at = 0;
    tiny_status st;
    job->pieces = TINYI_MIN(tiny_ctx_threads(ctx), 16);
    if (job->pieces > 1 && to->n >= TINYI_PLACE_THREADED && to->n / 4 >= n) {
        job->count = (int64_t *)tinyi_alloc(ctx, (size_t)n * (size_t)job->pieces, sizeof *job->count);
        if (!job->count) return tiny_ctx_status(ctx);
        st = tiny_parallel_loose(ctx, job->pieces, 0, 0, tinyi_place_team, job);
        tiny_free(ctx, job->count);
        return st;
    }
    /* one piece: offset[i + 1] counts, then holds the place of line i, and ends as its end */
    memset(to->offset, 0, ((size_t)n + 1) * sizeof *to->offset);
    for (q = 0; q < to->n; q++) to->offset[job->line[q] + 1]++;
    for (i = 0; i < n; i++) {
        int64_t here = to->offset[i + 1];
        to->offset[i + 1] = at;
        at += here;
    }
    tinyi_place_move(job, 0, to->n, to->offset + 1);
    return TINY_OK;
}

/* ---- lines in order, duplicates side by side, and then as one */

#define TINYI_LINE_SHORT 32
#define TINYI_LINE_LONG 65536               /* sorted by one thread, with scratch for the longest */

static int tinyi_line_ascends(const int32_t *at, int64_t n)
{
    int64_t i;
    for (i = 1; i < n; i++)
        if (at[i] < at[i - 1]) return 0;
    return 1;
}

/* scratch: 2 n of them, unless n <= TINYI_LINE_SHORT */
static void tinyi_line_sort(int32_t *at, float *value, int64_t *source, int64_t n, uint64_t *scratch)
{
    int64_t i, j;
    if (n <= TINYI_LINE_SHORT) {
        for (i = 1; i < n; i++) {
            int32_t t = at[i];
            float v = value ? value[i] : 0.0f;
            int64_t s = source ? source[i] : 0;
            for (j = i; j > 0 && at[j - 1] > t; j--) {
                at[j] = at[j - 1];
                if (value) value[j] = value[j - 1];
                if (source) source[j] = source[j - 1];
            }
            at[j] = t;
            if (value) value[j] = v;
            if (source) source[j] = s;
        }
        return;
    }
    for (i = 0; i < n; i++) scratch[i] = (uint64_t)(uint32_t)at[i] << 32 | (uint32_t)i;
    tinyi_sort_pairs(scratch, scratch + n, (size_t)n);
    for (i = 0; i < n; i++) at[i] = (int32_t)(scratch[i] >> 32);
    if (value) {
        float *t = (float *)(void *)(scratch + n);
        memcpy(t, value, (size_t)n * sizeof *t);
        for (i = 0; i < n; i++) value[i] = t[(uint32_t)scratch[i]];
    }
    if (source) {
        int64_t *t = (int64_t *)(void *)(scratch + n);
        memcpy(t, source, (size_t)n * sizeof *t);
        for (i = 0; i < n; i++) source[i] = t[(uint32_t)scratch[i]];
    }
}

/* merges what stands at one place of an ascending line; returns how many are left */
static int64_t tinyi_line_merge(int32_t *at, float *value, int64_t *source, int64_t n, tiny_duplicates how)
{
    int64_t i, j, m = 0;
    for (i = 0; i < n; i = j) {
        double sum = value ? (double)value[i] : 1.0;
        int64_t best = i;
        for (j = i + 1; j < n && at[j] == at[i]; j++) {
            if (how == TINY_DUPLICATES_SUM) sum += value ? (double)value[j] : 1.0;
            else if (how == TINY_DUPLICATES_MAX && value && (value[j] > value[best] || value[j] != value[j]) &&
                     value[best] == value[best])
                best = j;
        }
        at[m] = at[i];
        if (value) value[m] = how == TINY_DUPLICATES_SUM && j > i + 1 ? tinyi_round_f32(sum) : value[best];
        if (source) source[m] = source[best];
        m++;
    }
    return m;
}

typedef struct tinyi_order_job {
    tinyi_lines *l;
    int sort;
    tiny_duplicates how;
    int64_t *left;                          /* entries of each line after merging; NULL: no merging */
    int64_t longest;
} tinyi_order_job;

static void tinyi_order_line(const tinyi_order_job *job, tiny_idx i, uint64_t *scratch)
{
    const tinyi_lines *l = job->l;
    int64_t p = l->offset[i], n = l->offset[i + 1] - p;
    float *v = l->value ? l->value + p : NULL;
    int64_t *s = l->source ? l->source + p : NULL;
    if (job->sort && !tinyi_line_ascends(l->at + p, n)) tinyi_line_sort(l->at + p, v, s, n, scratch);
    if (job->left) job->left[i] = tinyi_line_merge(l->at + p, v, s, n, job->how);
}

static void tinyi_order_team(tiny_team *team, void *arg)
{
    const tinyi_order_job *job = (const tinyi_order_job *)arg;
    const tinyi_lines *l = job->l;
    tiny_idx grain = l->n / 16384 >= l->n_lines ? 1 : (tiny_idx)(l->n_lines / (l->n / 16384 + 1)) + 1, i, i1;
    while (tiny_take(team, l->n_lines, grain, &i, &i1))
        for (; i < i1; i++)
            if (l->offset[i + 1] - l->offset[i] <= TINYI_LINE_LONG) tinyi_order_line(job, i, (uint64_t *)team->own);
    if (job->longest <= TINYI_LINE_LONG) return;
    tiny_barrier(team);
    if (team->i == 0)
        for (i = 0; i < l->n_lines; i++)
            if (l->offset[i + 1] - l->offset[i] > TINYI_LINE_LONG) tinyi_order_line(job, i, (uint64_t *)team->shared);
}

/* Sorts (unless the lines keep their order) and merges (unless duplicates are kept). The lines are owned. */
static tiny_status tinyi_lines_order(tiny_ctx *ctx, tinyi_lines *l, int sort, tiny_duplicates how)
{
    tinyi_order_job job;
    size_t own, shared = 0;
    int64_t to = 0;
    tiny_idx i;
    tiny_status st;
    job.l = l;
    job.sort = sort;
    job.how = how;
    job.left = NULL;
    for (job.longest = 0, i = 0; i < l->n_lines; i++)
        job.longest = TINYI_MAX(job.longest, l->offset[i + 1] - l->offset[i]);
    if (how != TINY_DUPLICATES_KEEP) {
        job.left = (int64_t *)tinyi_alloc(ctx, (size_t)l->n_lines, sizeof *job.left);
        if (!job.left) return tiny_ctx_status(ctx);
    }
    own = job.longest > TINYI_LINE_SHORT ? (size_t)TINYI_MIN(job.longest, TINYI_LINE_LONG) * 16 : 0;
    if (job.longest > TINYI_LINE_LONG) shared = (size_t)job.longest * 16;
    st = tiny_parallel_loose(ctx, l->n < 65536 ? 1 : 0, shared, own, tinyi_order_team, &job);
    if (!st && job.left) {                  /* close the gaps */
        for (i = 0; i < l->n_lines; i++) {
            int64_t from = l->offset[i], n = job.left[i];
            if (to != from) {
                memmove(l->at + to, l->at + from, (size_t)n * sizeof *l->at);
                if (l->value) memmove(l->value + to, l->value + from, (size_t)n * sizeof *l->value);
                if (l->source) memmove(l->source + to, l->source + from, (size_t)n * sizeof *l->source);
            }
            l->offset[i] = to;
            to += n;
        }
        l->merged = to != l->n;
        l->offset[l->n_lines] = l->n = to;
    }
    tiny_free(ctx, job.left);
    return st;
}

/* ---- into lines */

/* Owned lines with one value each where duplicates are to be added and there are no values. */
static int tinyi_sparse_wants_value(const float *value, tiny_duplicates how)
{
    return value != NULL || how == TINY_DUPLICATES_SUM;
}

static void tinyi_lines_ones(tinyi_lines *l, const float *value)
{
    int64_t p;
    if (l->value && !value) for (p = 0; p < l->n; p++) l->value[p] = 1.0f;
}

static tiny_status tinyi_lines_from_entries(tiny_ctx *ctx, tinyi_lines *l, tiny_idx n_lines, int64_t n,
                                            const int32_t *line, const int32_t *at, const int64_t *other,
                                            tiny_idx n_other, const float *value, int with_value, int with_source)
{
    tinyi_place_job job;
    float *values;
    tiny_status st = tinyi_lines_take(ctx, l, n_lines, n, with_value, with_source);
    if (st) return st;
    memset(&job, 0, sizeof job);
    job.line = line;
    job.at = at;
    job.other = other;
    job.n_other = n_other;
    job.value = value;
    job.to = l;
    values = l->value;
    if (!value) l->value = NULL;            /* nothing to move */
    st = tinyi_place(ctx, &job);
    l->value = values;
    tinyi_lines_ones(l, value);
    if (st) tinyi_lines_free(ctx, l);
    return st;
}

/* lines that stand in the right direction already: copied when they must change */
static tiny_status tinyi_lines_same(tiny_ctx *ctx, tinyi_lines *l, tiny_idx n_lines, int64_t n, int64_t *offset,
                                    int32_t *at, float *value, int with_value, int with_source,
                                    const tiny_sparse_desc *d)
{
    tiny_idx i;
    int64_t p;
    int clean = !with_source;               /* without duplicates nothing is added, and no values are needed */
    for (i = 0; i < n_lines && clean; i++)
        for (p = offset[i] + 1; p < offset[i + 1]; p++)
            if ((at[p] < at[p - 1] && !d->keep_order) ||
                (at[p] <= at[p - 1] && d->duplicates != TINY_DUPLICATES_KEEP)) {
                clean = 0;
                break;
            }
    if (clean) {
        memset(l, 0, sizeof *l);
        l->n_lines = n_lines;
        l->n = n;
        l->offset = offset;
        l->at = at;
        l->value = value;
        return TINY_OK;
    }
    {
        tiny_status st = tinyi_lines_take(ctx, l, n_lines, n, with_value, with_source);
        if (st) return st;
    }
    memcpy(l->offset, offset, ((size_t)n_lines + 1) * sizeof *offset);
    if (n) memcpy(l->at, at, (size_t)n * sizeof *at);
    if (n && value) memcpy(l->value, value, (size_t)n * sizeof *value);
    tinyi_lines_ones(l, value);
    if (l->source) for (p = 0; p < n; p++) l->source[p] = p;
    return TINY_OK;
}

/* ELL, BSR, BITMAP and dense: their rows are walked twice, to count and to fill. */
typedef struct tinyi_walk_job {
    const tiny_sparse *a;                   /* or */
    const tiny_tensor *x;
    tinyi_lines *l;
    int fill;
} tinyi_walk_job;

static int64_t tinyi_walk_row(const tinyi_walk_job *job, tiny_idx r, int64_t q)
{
    const tiny_sparse *a = job->a;
    tinyi_lines *l = job->l;
    int64_t n = 0, p;
    tiny_idx j;
#define TINYI_WALK_PUT(c, v, s)                                 \
    do {                                                        \
        if (job->fill) {                                        \
            l->at[q + n] = (int32_t)(c);                        \
            if (l->value) l->value[q + n] = (v);                \
            if (l->source) l->source[q + n] = (int64_t)(s);     \
        }                                                       \
        n++;                                                    \
    } while (0)
    if (job->x) {
        const float *x = (const float *)job->x->data + r * job->x->stride[0];
        tiny_idx step = job->x->stride[1];
        for (j = 0; j < job->x->dim[1]; j++)
            if (x[j * step] != 0.0f) TINYI_WALK_PUT(j, x[j * step], r * job->x->dim[1] + j);
    } else if (a->form == TINY_ELL) {
        for (j = 0; j < a->width && a->col[r * a->width + j] >= 0; j++)
            TINYI_WALK_PUT(a->col[r * a->width + j], a->value ? a->value[r * a->width + j] : 1.0f, r * a->width + j);
    } else if (a->form == TINY_BSR) {
        tiny_idx line = r / a->block_rows, size = (tiny_idx)a->block_rows * a->block_cols;
        for (p = a->offset[line]; p < a->offset[line + 1]; p++) {
            tiny_idx first = (tiny_idx)p * size + r % a->block_rows * a->block_cols,
                     c0 = (tiny_idx)a->col[p] * a->block_cols;
            for (j = 0; j < a->block_cols && c0 + j < a->n_cols; j++)
                if (a->value[first + j] != 0.0f) TINYI_WALK_PUT(c0 + j, a->value[first + j], first + j);
        }
    } else {
        tiny_idx words = tinyi_sparse_words(a);
        for (p = a->offset[r], j = 0; j < words; j++) {
            uint64_t w = a->bits[r * words + j];
            for (; w; w &= w - 1, p++)
                TINYI_WALK_PUT(j * 64 + tinyi_bits_count((w & (0 - w)) - 1), a->value ? a->value[p] : 1.0f, p);
        }
    }
#undef TINYI_WALK_PUT
    return n;
}

static void tinyi_walk_team(tiny_team *team, void *arg)
{
    const tinyi_walk_job *job = (const tinyi_walk_job *)arg;
    tiny_idx r, r1;
    while (tiny_take(team, job->l->n_lines, 64, &r, &r1))
        for (; r < r1; r++) {
            if (job->fill) (void)tinyi_walk_row(job, r, job->l->offset[r]);
            else job->l->offset[r] = tinyi_walk_row(job, r, 0);
        }
}

static tiny_status tinyi_lines_walk(tiny_ctx *ctx, tinyi_lines *l, const tiny_sparse *a, const tiny_tensor *x,
                                    int with_value, int with_source)
{
    tinyi_walk_job job;
    tinyi_lines full;
    tiny_idx rows = x ? x->dim[0] : a->n_rows;
    tiny_status st = tinyi_lines_take(ctx, l, rows, 0, 0, 0);
    if (st) return st;
    job.a = a;
    job.x = x;
    job.l = l;
    job.fill = 0;
    st = tiny_parallel_loose(ctx, rows < 256 ? 1 : 0, 0, 0, tinyi_walk_team, &job);
    if (!st) st = tiny_prefix_i64(ctx, l->offset, (size_t)rows, l->offset);
    if (!st) st = tinyi_lines_take(ctx, &full, rows, l->offset[rows], with_value, with_source);
    if (!st) {
        memcpy(full.offset, l->offset, ((size_t)rows + 1) * sizeof *full.offset);
        tinyi_lines_free(ctx, l);
        *l = full;
        job.fill = 1;
        st = tiny_parallel_loose(ctx, rows < 256 ? 1 : 0, 0, 0, tinyi_walk_team, &job);
    }
    if (st) tinyi_lines_free(ctx, l);
    return st;
}

tiny_status tinyi_lines_make(tiny_ctx *ctx, tinyi_lines *l, const tiny_sparse *a, const tiny_tensor *x,
                             const tiny_sparse_desc *d, int by_col)
{
    tiny_status st = TINY_OK;
    int sort = !d->keep_order;
    if (x || a->form >= TINY_ELL) {
        int with_value = x || a->form == TINY_BSR || tinyi_sparse_wants_value(a->value, d->duplicates);
        st = tinyi_lines_walk(ctx, l, a, x, with_value, d->with_source);
        if (!st && by_col) {                /* turned over: the sources travel by hand */
            tinyi_lines t;
            tiny_idx n_cols = x ? x->dim[1] : a->n_cols;
            st = tinyi_lines_from_entries(ctx, &t, n_cols, l->n, l->at, NULL, l->offset, l->n_lines, l->value,
                                          with_value, d->with_source);
            if (!st && t.source) {
                int64_t p;
                for (p = 0; p < t.n; p++) t.source[p] = l->source[t.source[p]];
            }
            tinyi_lines_free(ctx, l);
            if (st) return st;
            *l = t;
        }
    } else {
        int with_value = tinyi_sparse_wants_value(a->value, d->duplicates);
        tiny_idx n_lines = by_col ? a->n_cols : a->n_rows;
        if (a->form == TINY_COO)
            st = tinyi_lines_from_entries(ctx, l, n_lines, a->n, by_col ? a->col : a->row, by_col ? a->row : a->col,
                                          NULL, 0, a->value, with_value, d->with_source);
        else if ((a->form == TINY_CSC) == by_col)
            st = tinyi_lines_same(ctx, l, n_lines, a->n, a->offset, by_col ? a->row : a->col, a->value, with_value,
                                  d->with_source, d);
        else
            st = tinyi_lines_from_entries(ctx, l, n_lines, a->n, by_col ? a->col : a->row, NULL, a->offset,
                                          by_col ? a->n_rows : a->n_cols, a->value, with_value, d->with_source);
    }
    if (st) return st;
    if (l->owned && (sort || d->duplicates != TINY_DUPLICATES_KEEP))
        st = tinyi_lines_order(ctx, l, sort, d->duplicates);
    if (st) tinyi_lines_free(ctx, l);
    return st;
}

