/* src/math/sparse.c - conversions between sparse forms
 *
 * Method   Everything passes through compressed rows (or, for CSC, compressed columns), called lines here. Entries come
 *          to their line by a stable counting sort: count, add up, place. Lines whose entries do not ascend are sorted by
 *          insertion up to 32 entries and by radix above (math/sort.h); then duplicates stand side by side. A change
 *          between CSR and CSC needs no sort: placing the lines in order leaves each result line ascending.
 *          With threads each counts and places a piece of the entries, with a table of counts of its own; pieces stand in
 *          order, so the result is the same for any number of threads.
 * Cost     linear in entries + rows + columns (BITMAP: + words, dense: + elements). Memory besides the result: one copy of
 *          the entries, and for each thread one count a line (only when there are at least four entries a line).
 * Error    none, but for sums of duplicates: in double, in their order, rounded once.
 * Left out hash tables for matrices with far more lines than entries: COO holds those.                              */
#include <string.h>
#include "math/sparse.h"
#include "math/sort.h"
#include "math/rows.h"
#include "core/state.h"

TINY_API const char *tiny_sparse_form_name(tiny_sparse_form form)
{
    static const char *const names[] = { "coo", "csr", "csc", "ell", "bsr", "bitmap" };
    return (unsigned)form < (unsigned)TINY_SPARSE_FORM_COUNT ? names[form] : "?";
}

TINY_API void tiny_sparse_free(tiny_ctx *ctx, tiny_sparse *a)
{
    if (!a) return;
    if (a->owned) {
        tiny_free(ctx, a->offset);
        tiny_free(ctx, a->row);
        tiny_free(ctx, a->col);
        tiny_free(ctx, a->bits);
        tiny_free(ctx, a->value);
        tiny_free(ctx, a->source);
    }
    memset(a, 0, sizeof *a);
}

static tiny_idx tinyi_sparse_words(const tiny_sparse *a) { return (a->n_cols + 63) / 64; }

static tiny_idx tinyi_sparse_block_rows(const tiny_sparse *a) { return (a->n_rows + a->block_rows - 1) / a->block_rows; }

static tiny_idx tinyi_sparse_block_cols(const tiny_sparse *a) { return (a->n_cols + a->block_cols - 1) / a->block_cols; }

static int tinyi_sparse_bits(uint64_t w)
{
#if defined __GNUC__ || defined __clang__
    return __builtin_popcountll((unsigned long long)w);
#else
    w -= w >> 1 & 0x5555555555555555u;
    w = (w & 0x3333333333333333u) + (w >> 2 & 0x3333333333333333u);
    w = (w + (w >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (int)(w * 0x0101010101010101u >> 56);
#endif
}

/* ---- checking */

/* the first of n numbers that is not 0 <= x < limit; n if there is none */
static int64_t tinyi_sparse_outside(const int32_t *x, int64_t n, tiny_idx limit)
{
    int64_t i = 0, j;
    for (; i < n; i += 1024) {
        int64_t end = TINYI_MIN(n, i + 1024);
        uint32_t bad = 0;
        for (j = i; j < end; j++) bad |= (uint32_t)((uint32_t)x[j] >= (uint32_t)limit);
        if (!bad) continue;
        for (j = i; j < end; j++)
            if ((uint32_t)x[j] >= (uint32_t)limit) return j;
    }
    return n;
}

static tiny_status tinyi_sparse_check_offsets(tiny_ctx *ctx, const tiny_sparse *a, tiny_idx lines)
{
    const char *form = tiny_sparse_form_name(a->form);
    tiny_idx i;
    if (!a->offset) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse %s: there are no offsets", form);
    if (a->offset[0] != 0) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse %s: offset[0] is %lld, it must be 0", form, (long long)a->offset[0]);
    for (i = 0; i < lines; i++)
        if (a->offset[i + 1] < a->offset[i])
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse %s: offset[%td] is %lld, less than the %lld before", form, i + 1, (long long)a->offset[i + 1], (long long)a->offset[i]);
    if (a->offset[lines] != a->n)
        return tinyi_fail(ctx, TINY_E_FORMAT, "sparse %s: the last offset is %lld, but there are %lld entries", form, (long long)a->offset[lines], (long long)a->n);
    return TINY_OK;
}

static tiny_status tinyi_sparse_check_ell(tiny_ctx *ctx, const tiny_sparse *a)
{
    int64_t n = 0;
    tiny_idx r, j;
    if (a->width < 0 || (a->width && a->n_rows > (TINY_IDX_MAX / 16) / a->width)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse ell: a width of %td", a->width);
    if (!a->col && a->n_rows > 0 && a->width > 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse ell: there are no columns");
    for (r = 0; a->width && r < a->n_rows; r++) {
        const int32_t *c = a->col + r * a->width;
        for (j = 0; j < a->width && c[j] != -1; j++, n++)
            if (c[j] < 0 || c[j] >= a->n_cols) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse ell: row %td, slot %td: column %ld, the matrix has %td", r, j, (long)c[j], a->n_cols);
        for (; j < a->width; j++)
            if (c[j] != -1) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse ell: row %td, slot %td: column %ld after the padding began", r, j, (long)c[j]);
    }
    if (n != a->n) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse ell: the rows hold %lld entries, n is %lld", (long long)n, (long long)a->n);
    return TINY_OK;
}

static tiny_status tinyi_sparse_check_bsr(tiny_ctx *ctx, const tiny_sparse *a)
{
    tiny_idx lines, cols, i;
    int64_t p, bad;
    tiny_status st;
    if (a->block_rows < 1 || a->block_cols < 1 || a->block_rows > 32767 || a->block_cols > 32767)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse bsr: blocks of %dx%d, each side must be 1 to 32767", a->block_rows, a->block_cols);
    lines = tinyi_sparse_block_rows(a);
    cols = tinyi_sparse_block_cols(a);
    st = tinyi_sparse_check_offsets(ctx, a, lines);
    if (st) return st;
    if (a->n && (!a->col || !a->value)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse bsr: there are no %s", a->col ? "values" : "columns");
    bad = tinyi_sparse_outside(a->col, a->n, cols);
    if (bad < a->n) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bsr: block %lld: column %ld, there are %td columns of blocks", (long long)bad, (long)a->col[bad], cols);
    for (i = 0; i < lines; i++)
        for (p = a->offset[i] + 1; p < a->offset[i + 1]; p++)
            if (a->col[p] <= a->col[p - 1])
                return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bsr: row of blocks %td: column %ld follows %ld", i, (long)a->col[p], (long)a->col[p - 1]);
    return TINY_OK;
}

static tiny_status tinyi_sparse_check_bitmap(tiny_ctx *ctx, const tiny_sparse *a)
{
    tiny_idx words = tinyi_sparse_words(a), r, w;
    tiny_status st = tinyi_sparse_check_offsets(ctx, a, a->n_rows);
    if (st) return st;
    if (!words && a->n) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bitmap: %lld entries in no columns", (long long)a->n);
    if (!a->bits && a->n_rows && words) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse bitmap: there are no bits");
    for (r = 0; words && r < a->n_rows; r++) {
        const uint64_t *b = a->bits + r * words;
        int64_t n = 0;
        for (w = 0; w < words; w++) n += tinyi_sparse_bits(b[w]);
        if (a->n_cols % 64 && b[words - 1] >> (a->n_cols % 64)) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bitmap: row %td has bits beyond column %td", r, a->n_cols - 1);
        if (n != a->offset[r + 1] - a->offset[r])
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bitmap: row %td has %lld bits, its offsets count %lld", r, (long long)n, (long long)(a->offset[r + 1] - a->offset[r]));
    }
    return TINY_OK;
}

TINY_API tiny_status tiny_sparse_check(tiny_ctx *ctx, const tiny_sparse *a)
{
    tiny_status st = tinyi_ctx_check(ctx);
    const char *form;
    int64_t bad;
    if (st) return st;
    if (!a) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: there is no matrix");
    if ((unsigned)a->form >= (unsigned)TINY_SPARSE_FORM_COUNT) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: form %d is unknown", (int)a->form);
    form = tiny_sparse_form_name(a->form);
    if (a->n_rows < 0 || a->n_cols < 0) return tinyi_fail(ctx, TINY_E_SHAPE, "sparse %s: %td rows and %td columns", form, a->n_rows, a->n_cols);
    if ((uint64_t)a->n_rows > 0x7fffffffu || (uint64_t)a->n_cols > 0x7fffffffu)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "sparse %s: %td rows and %td columns, a 32-bit number counts up to 2147483647", form, a->n_rows, a->n_cols);
    if (a->n < 0 || (uint64_t)a->n > (uint64_t)TINY_IDX_MAX / 16) return tinyi_fail(ctx, TINY_E_OVERFLOW, "sparse %s: %lld entries", form, (long long)a->n);
    switch (a->form) {
    case TINY_COO:
        if (a->n && (!a->row || !a->col)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse coo: there are no %s", a->row ? "columns" : "rows");
        bad = TINYI_MIN(tinyi_sparse_outside(a->row, a->n, a->n_rows), tinyi_sparse_outside(a->col, a->n, a->n_cols));
        if (bad < a->n)
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse coo: entry %lld stands at (%ld, %ld), the matrix is %tdx%td", (long long)bad, (long)a->row[bad], (long)a->col[bad],
                              a->n_rows, a->n_cols);
        return TINY_OK;
    case TINY_CSR:
        st = tinyi_sparse_check_offsets(ctx, a, a->n_rows);
        if (st) return st;
        if (a->n && !a->col) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse csr: there are no columns");
        bad = tinyi_sparse_outside(a->col, a->n, a->n_cols);
        if (bad < a->n) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse csr: entry %lld stands in column %ld, the matrix has %td", (long long)bad, (long)a->col[bad], a->n_cols);
        return TINY_OK;
    case TINY_CSC:
        st = tinyi_sparse_check_offsets(ctx, a, a->n_cols);
        if (st) return st;
        if (a->n && !a->row) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse csc: there are no rows");
        bad = tinyi_sparse_outside(a->row, a->n, a->n_rows);
        if (bad < a->n) return tinyi_fail(ctx, TINY_E_FORMAT, "sparse csc: entry %lld stands in row %ld, the matrix has %td", (long long)bad, (long)a->row[bad], a->n_rows);
        return TINY_OK;
    case TINY_ELL: return tinyi_sparse_check_ell(ctx, a);
    case TINY_BSR: return tinyi_sparse_check_bsr(ctx, a);
    default: return tinyi_sparse_check_bitmap(ctx, a);
    }
}

/* ---- lines: compressed rows or columns on the way */

typedef struct tinyi_lines {
    tiny_idx n_lines;
    int64_t n;
    int64_t *offset;                        /* n_lines + 1 */
    int32_t *at;                            /* column of an entry in row lines, row in column lines */
    float *value;                           /* NULL: ones */
    int64_t *source;                        /* NULL: not wanted */
    int owned;                              /* else the arrays are those of a matrix */
    int merged;                             /* fewer entries than the arrays have room for */
} tinyi_lines;

static void tinyi_lines_free(tiny_ctx *ctx, tinyi_lines *l)
{
    if (l->owned) {
        tiny_free(ctx, l->offset);
        tiny_free(ctx, l->at);
        tiny_free(ctx, l->value);
        tiny_free(ctx, l->source);
    }
    memset(l, 0, sizeof *l);
}

static tiny_status tinyi_lines_take(tiny_ctx *ctx, tinyi_lines *l, tiny_idx n_lines, int64_t n, int with_value, int with_source)
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

/* Entries to their lines. Where they come from: line[p] (COO), or lines of the other direction, whose entries name the line. */
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

static int64_t tinyi_place_cut(int64_t n, int i, int pieces) { return n / pieces * i + TINYI_MIN(n % pieces, (int64_t)i); }

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
        for (; p < p1; p++) tinyi_place_move(job, tinyi_place_cut(to->n, (int)p, job->pieces), tinyi_place_cut(to->n, (int)p + 1, job->pieces), job->count + p * n);
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
        st = tiny_parallel(ctx, job->pieces, 0, 0, tinyi_place_team, job);
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
            else if (how == TINY_DUPLICATES_MAX && value && (value[j] > value[best] || value[j] != value[j]) && value[best] == value[best]) best = j;
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
    for (job.longest = 0, i = 0; i < l->n_lines; i++) job.longest = TINYI_MAX(job.longest, l->offset[i + 1] - l->offset[i]);
    if (how != TINY_DUPLICATES_KEEP) {
        job.left = (int64_t *)tinyi_alloc(ctx, (size_t)l->n_lines, sizeof *job.left);
        if (!job.left) return tiny_ctx_status(ctx);
    }
    own = job.longest > TINYI_LINE_SHORT ? (size_t)TINYI_MIN(job.longest, TINYI_LINE_LONG) * 16 : 0;
    if (job.longest > TINYI_LINE_LONG) shared = (size_t)job.longest * 16;
    st = tiny_parallel(ctx, l->n < 65536 ? 1 : 0, shared, own, tinyi_order_team, &job);
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
static int tinyi_sparse_wants_value(const float *value, tiny_duplicates how) { return value != NULL || how == TINY_DUPLICATES_SUM; }

static void tinyi_lines_ones(tinyi_lines *l, const float *value)
{
    int64_t p;
    if (l->value && !value) for (p = 0; p < l->n; p++) l->value[p] = 1.0f;
}

static tiny_status tinyi_lines_from_entries(tiny_ctx *ctx, tinyi_lines *l, tiny_idx n_lines, int64_t n, const int32_t *line, const int32_t *at, const int64_t *other, tiny_idx n_other,
                                            const float *value, int with_value, int with_source)
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
static tiny_status tinyi_lines_same(tiny_ctx *ctx, tinyi_lines *l, tiny_idx n_lines, int64_t n, int64_t *offset, int32_t *at, float *value, int with_value, int with_source,
                                    const tiny_sparse_desc *d)
{
    tiny_idx i;
    int64_t p;
    int clean = !with_source;               /* without duplicates nothing is added, and no values are needed */
    for (i = 0; i < n_lines && clean; i++)
        for (p = offset[i] + 1; p < offset[i + 1]; p++)
            if ((at[p] < at[p - 1] && !d->keep_order) || (at[p] <= at[p - 1] && d->duplicates != TINY_DUPLICATES_KEEP)) { clean = 0; break; }
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
            tiny_idx first = (tiny_idx)p * size + r % a->block_rows * a->block_cols, c0 = (tiny_idx)a->col[p] * a->block_cols;
            for (j = 0; j < a->block_cols && c0 + j < a->n_cols; j++)
                if (a->value[first + j] != 0.0f) TINYI_WALK_PUT(c0 + j, a->value[first + j], first + j);
        }
    } else {
        tiny_idx words = tinyi_sparse_words(a);
        for (p = a->offset[r], j = 0; j < words; j++) {
            uint64_t w = a->bits[r * words + j];
            for (; w; w &= w - 1, p++) TINYI_WALK_PUT(j * 64 + tinyi_sparse_bits((w & (0 - w)) - 1), a->value ? a->value[p] : 1.0f, p);
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

static tiny_status tinyi_lines_walk(tiny_ctx *ctx, tinyi_lines *l, const tiny_sparse *a, const tiny_tensor *x, int with_value, int with_source)
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
    st = tiny_parallel(ctx, rows < 256 ? 1 : 0, 0, 0, tinyi_walk_team, &job);
    if (!st) st = tiny_prefix_i64(ctx, l->offset, (size_t)rows, l->offset);
    if (!st) st = tinyi_lines_take(ctx, &full, rows, l->offset[rows], with_value, with_source);
    if (!st) {
        memcpy(full.offset, l->offset, ((size_t)rows + 1) * sizeof *full.offset);
        tinyi_lines_free(ctx, l);
        *l = full;
        job.fill = 1;
        st = tiny_parallel(ctx, rows < 256 ? 1 : 0, 0, 0, tinyi_walk_team, &job);
    }
    if (st) tinyi_lines_free(ctx, l);
    return st;
}

/* Row lines of a (or of x), or column lines; sorted and merged as d says. */
static tiny_status tinyi_lines_make(tiny_ctx *ctx, tinyi_lines *l, const tiny_sparse *a, const tiny_tensor *x, const tiny_sparse_desc *d, int by_col)
{
    tiny_status st = TINY_OK;
    int sort = !d->keep_order;
    if (x || a->form >= TINY_ELL) {
        int with_value = x || a->form == TINY_BSR || tinyi_sparse_wants_value(a->value, d->duplicates);
        st = tinyi_lines_walk(ctx, l, a, x, with_value, d->with_source);
        if (!st && by_col) {                /* turned over: the sources travel by hand */
            tinyi_lines t;
            tiny_idx n_cols = x ? x->dim[1] : a->n_cols;
            st = tinyi_lines_from_entries(ctx, &t, n_cols, l->n, l->at, NULL, l->offset, l->n_lines, l->value, with_value, d->with_source);
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
            st = tinyi_lines_from_entries(ctx, l, n_lines, a->n, by_col ? a->col : a->row, by_col ? a->row : a->col, NULL, 0, a->value, with_value, d->with_source);
        else if ((a->form == TINY_CSC) == by_col)
            st = tinyi_lines_same(ctx, l, n_lines, a->n, a->offset, by_col ? a->row : a->col, a->value, with_value, d->with_source, d);
        else
            st = tinyi_lines_from_entries(ctx, l, n_lines, a->n, by_col ? a->col : a->row, NULL, a->offset, by_col ? a->n_rows : a->n_cols, a->value, with_value, d->with_source);
    }
    if (st) return st;
    if (l->owned && (sort || d->duplicates != TINY_DUPLICATES_KEEP)) st = tinyi_lines_order(ctx, l, sort, d->duplicates);
    if (st) tinyi_lines_free(ctx, l);
    return st;
}

/* ---- out of lines */

/* An array of the result: the caller's, or taken. */
static tiny_status tinyi_sparse_array(tiny_ctx *ctx, const tiny_sparse *out, const tiny_sparse_room *room, const char *name, void **array, size_t have, size_t n, size_t bytes_each)
{
    if (room) {
        if (n > have || (n && !*array))
            return tinyi_fail(ctx, TINY_E_WORKSPACE, "sparse %s: %s has room for %zu, %zu are needed", tiny_sparse_form_name(out->form), name, *array ? have : (size_t)0, n);
        return TINY_OK;
    }
    *array = tinyi_alloc(ctx, n, bytes_each);
    return *array ? TINY_OK : tiny_ctx_status(ctx);
}

static tiny_status tinyi_sparse_take(tiny_ctx *ctx, tiny_sparse *out, const tiny_sparse_room *need, const tiny_sparse_room *room)
{
    tiny_status st = TINY_OK;
    void *p;
#define TINYI_SPARSE_TAKE(name, type)                                                                                       \
    p = room ? (void *)out->name : NULL;                                                                                    \
    out->name = NULL;                                                                                                       \
    if (!st && need->name) st = tinyi_sparse_array(ctx, out, room, #name, &p, room ? room->name : 0, need->name, sizeof(type)); \
    if (need->name) out->name = (type *)p;
    TINYI_SPARSE_TAKE(offset, int64_t)
    TINYI_SPARSE_TAKE(row, int32_t)
    TINYI_SPARSE_TAKE(col, int32_t)
    TINYI_SPARSE_TAKE(bits, uint64_t)
    TINYI_SPARSE_TAKE(value, float)
    TINYI_SPARSE_TAKE(source, int64_t)
#undef TINYI_SPARSE_TAKE
    return st;
}

/* entries of row r as blocks: their columns, ascending, into col (when not NULL); returns how many. next: a place in each row. */
static int64_t tinyi_sparse_blocks(const tinyi_lines *l, tiny_idx line, int br, int bc, int64_t *next, int32_t *col)
{
    tiny_idx r0 = line * br, r1 = TINYI_MIN(r0 + br, l->n_lines), r;
    int64_t n = 0;
    for (r = r0; r < r1; r++) next[r - r0] = l->offset[r];
    for (;;) {
        int64_t least = INT64_MAX;
        for (r = r0; r < r1; r++)
            if (next[r - r0] < l->offset[r + 1] && l->at[next[r - r0]] < least) least = l->at[next[r - r0]];
        if (least == INT64_MAX) return n;
        least /= bc;
        if (col) col[n] = (int32_t)least;
        n++;
        for (r = r0; r < r1; r++)
            while (next[r - r0] < l->offset[r + 1] && l->at[next[r - r0]] / bc == least) next[r - r0]++;
    }
}

static tiny_status tinyi_sparse_to_bsr(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out, const tiny_sparse_room *room, tiny_sparse_room *told)
{
    tiny_sparse_room need;
    int br = out->block_rows, bc = out->block_cols;
    tiny_idx lines = tinyi_sparse_block_rows(out), i, r;
    size_t size = (size_t)br * (size_t)bc, values = 0;
    int64_t *next = (int64_t *)tinyi_alloc(ctx, (size_t)br, sizeof *next), n = 0, p, q;
    tiny_status st;
    if (!next) return tiny_ctx_status(ctx);
    for (i = 0; i < lines; i++) n += tinyi_sparse_blocks(l, i, br, bc, next, NULL);
    memset(&need, 0, sizeof need);
    need.offset = (size_t)lines + 1;
    need.col = (size_t)n;
    st = TINY_OK;
    if (!tinyi_size_mul((size_t)n, size, &values)) st = tinyi_fail(ctx, TINY_E_OVERFLOW, "sparse bsr: %lld blocks of %dx%d are more than this machine can address", (long long)n, br, bc);
    need.value = values;
    if (told) *told = need;
    else if (!st) st = tinyi_sparse_take(ctx, out, &need, room);
    if (st || told) {
        tiny_free(ctx, next);
        return st;
    }
    if (values) memset(out->value, 0, values * sizeof *out->value);
    out->n = n;
    for (n = 0, i = 0; i < lines; i++) {
        out->offset[i] = n;
        n += tinyi_sparse_blocks(l, i, br, bc, next, out->col + n);
        out->offset[i + 1] = n;
        for (r = i * br; r < TINYI_MIN((i + 1) * br, l->n_lines); r++)
            for (q = out->offset[i], p = l->offset[r]; p < l->offset[r + 1]; p++) {
                while (out->col[q] < l->at[p] / bc) q++;
                out->value[(size_t)q * size + (size_t)(r - i * br) * (size_t)bc + (size_t)(l->at[p] % bc)] = l->value ? l->value[p] : 1.0f;
            }
    }
    if (!lines) out->offset[0] = 0;
    tiny_free(ctx, next);
    return TINY_OK;
}

static tiny_status tinyi_sparse_to_ell(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out, tiny_idx width, const tiny_sparse_room *room, tiny_sparse_room *told)
{
    tiny_sparse_room need;
    int64_t longest = 0, p;
    tiny_idx r, j;
    size_t slots;
    tiny_status st = TINY_OK;
    for (r = 0; r < l->n_lines; r++) longest = TINYI_MAX(longest, l->offset[r + 1] - l->offset[r]);
    if (width == 0) width = (tiny_idx)longest;
    if (longest > width) return tinyi_fail(ctx, TINY_E_SHAPE, "sparse ell: a row has %lld entries, the width is %td", (long long)longest, width);
    if (!tinyi_size_mul((size_t)l->n_lines, (size_t)width, &slots) || slots > (size_t)TINY_IDX_MAX / 16)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "sparse ell: %td rows of %td slots are more than this machine can address", l->n_lines, width);
    memset(&need, 0, sizeof need);
    need.col = slots;
    need.value = l->value ? slots : 0;
    if (told) {
        *told = need;
        return TINY_OK;
    }
    st = tinyi_sparse_take(ctx, out, &need, room);
    if (st) return st;
    out->width = width;
    out->n = l->n;
    for (r = 0; r < l->n_lines; r++) {
        for (j = 0, p = l->offset[r]; p < l->offset[r + 1]; p++, j++) {
            out->col[r * width + j] = l->at[p];
            if (out->value) out->value[r * width + j] = l->value[p];
        }
        for (; j < width; j++) {
            out->col[r * width + j] = -1;
            if (out->value) out->value[r * width + j] = 0.0f;
        }
    }
    return TINY_OK;
}

static tiny_status tinyi_sparse_to_bitmap(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out, const tiny_sparse_room *room, tiny_sparse_room *told)
{
    tiny_sparse_room need;
    tiny_idx words = tinyi_sparse_words(out), r;
    int64_t p;
    tiny_status st = TINY_OK;
    memset(&need, 0, sizeof need);
    if (!tinyi_size_mul((size_t)l->n_lines, (size_t)words, &need.bits) || need.bits > (size_t)TINY_IDX_MAX / 16)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "sparse bitmap: %td rows of %td words are more than this machine can address", l->n_lines, words);
    need.offset = (size_t)l->n_lines + 1;
    need.value = l->value ? (size_t)l->n : 0;
    if (told) {
        *told = need;
        return TINY_OK;
    }
    st = tinyi_sparse_take(ctx, out, &need, room);
    if (st) return st;
    out->n = l->n;
    if (need.bits) memset(out->bits, 0, need.bits * sizeof *out->bits);
    memcpy(out->offset, l->offset, need.offset * sizeof *out->offset);
    if (need.value) memcpy(out->value, l->value, need.value * sizeof *out->value);
    for (r = 0; r < l->n_lines; r++)
        for (p = l->offset[r]; p < l->offset[r + 1]; p++) out->bits[r * words + l->at[p] / 64] |= (uint64_t)1 << (l->at[p] % 64);
    return TINY_OK;
}

/* COO, CSR, CSC: what fits is handed over, the rest is copied */
static tiny_status tinyi_sparse_to_lists(tiny_ctx *ctx, tinyi_lines *l, tiny_sparse *out, const tiny_sparse_room *room, tiny_sparse_room *told)
{
    tiny_sparse_room need;
    tiny_idx r;
    int64_t p;
    tiny_status st;
    memset(&need, 0, sizeof need);
    if (out->form != TINY_COO) need.offset = (size_t)l->n_lines + 1;
    if (out->form != TINY_CSR) need.row = (size_t)l->n;
    if (out->form != TINY_CSC) need.col = (size_t)l->n;
    need.value = l->value ? (size_t)l->n : 0;
    need.source = l->source ? (size_t)l->n : 0;
    if (told) {
        *told = need;
        return TINY_OK;
    }
    if (!room && l->owned && !l->merged) {
        int32_t *row = NULL;
        if (out->form == TINY_COO && !(row = (int32_t *)tinyi_alloc(ctx, (size_t)l->n, sizeof *row))) return tiny_ctx_status(ctx);
        out->offset = l->offset;
        out->row = out->form == TINY_CSC ? l->at : row;
        out->col = out->form == TINY_CSC ? NULL : l->at;
        out->value = l->value;
        out->source = l->source;
        l->owned = 0;
    } else {
        st = tinyi_sparse_take(ctx, out, &need, room);
        if (st) return st;
        if (need.offset) memcpy(out->offset, l->offset, need.offset * sizeof *out->offset);
        if (l->n) memcpy(out->form == TINY_CSC ? out->row : out->col, l->at, (size_t)l->n * sizeof *l->at);
        if (need.value) memcpy(out->value, l->value, need.value * sizeof *out->value);
        if (need.source) memcpy(out->source, l->source, need.source * sizeof *out->source);
    }
    out->n = l->n;
    if (out->form == TINY_COO) {
        for (r = 0; r < l->n_lines; r++)
            for (p = l->offset[r]; p < l->offset[r + 1]; p++) out->row[p] = (int32_t)r;
        if (!room && !need.offset && out->offset) {
            tiny_free(ctx, out->offset);
            out->offset = NULL;
        }
    }
    return TINY_OK;
}

/* ---- the calls */

/* a or x; room: into the arrays of out; told: only what is needed */
static tiny_status tinyi_sparse_do(tiny_ctx *ctx, const tiny_sparse *a, const tiny_tensor *x, const tiny_sparse_desc *desc, const tiny_sparse_room *room, tiny_sparse_room *told,
                                   tiny_sparse *out)
{
    tiny_sparse_desc d;
    tiny_sparse made;
    tinyi_lines l;
    tiny_status st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if ((unsigned)d.form >= (unsigned)TINY_SPARSE_FORM_COUNT) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: form %d is unknown", (int)d.form);
    if ((unsigned)d.duplicates > (unsigned)TINY_DUPLICATES_MAX) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: %d is no way to treat duplicates", (int)d.duplicates);
    if (d.keep_order && d.duplicates != TINY_DUPLICATES_KEEP) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: duplicates are merged in sorted rows only, not with keep_order");
    if (d.form == TINY_BSR && (d.block_rows < 1 || d.block_cols < 1 || d.block_rows > 32767 || d.block_cols > 32767))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse bsr: blocks of %dx%d, each side must be 1 to 32767", d.block_rows, d.block_cols);
    if (d.form == TINY_ELL && d.width < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse ell: a width of %td", d.width);
    if (d.form >= TINY_ELL) {
        if (d.duplicates == TINY_DUPLICATES_KEEP) d.duplicates = TINY_DUPLICATES_SUM;
        d.keep_order = 0;
        d.with_source = 0;
    }
    memset(&made, 0, sizeof made);
    if (room) made = *out;
    made.form = d.form;
    made.owned = room == NULL;
    made.n_rows = x ? x->dim[0] : a->n_rows;
    made.n_cols = x ? x->dim[1] : a->n_cols;
    made.width = 0;
    made.block_rows = d.form == TINY_BSR ? d.block_rows : 0;
    made.block_cols = d.form == TINY_BSR ? d.block_cols : 0;
    st = tinyi_lines_make(ctx, &l, a, x, &d, d.form == TINY_CSC);
    if (st) return st;
    /* ones that were written only to be added up are no news when nothing was added */
    if (l.owned && l.value && a && !a->value && !l.merged) {
        tiny_free(ctx, l.value);
        l.value = NULL;
    }
    switch (d.form) {
    case TINY_ELL: st = tinyi_sparse_to_ell(ctx, &l, &made, d.width, room, told); break;
    case TINY_BSR: st = tinyi_sparse_to_bsr(ctx, &l, &made, room, told); break;
    case TINY_BITMAP: st = tinyi_sparse_to_bitmap(ctx, &l, &made, room, told); break;
    default: st = tinyi_sparse_to_lists(ctx, &l, &made, room, told); break;
    }
    tinyi_lines_free(ctx, &l);
    if (st) {
        if (!room) tiny_sparse_free(ctx, &made);
    } else if (!told) *out = made;
    return st;
}

TINY_API tiny_status tiny_sparse_convert(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc, tiny_sparse *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || out == a) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: the result needs a struct of its own");
    memset(out, 0, sizeof *out);
    st = tiny_sparse_check(ctx, a);
    return st ? st : tinyi_sparse_do(ctx, a, NULL, desc, NULL, NULL, out);
}

TINY_API tiny_status tiny_sparse_size(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc, tiny_sparse_room *room)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!room) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: there is no place for the sizes");
    memset(room, 0, sizeof *room);
    st = tiny_sparse_check(ctx, a);
    if (st) return st;
    if (desc && (unsigned)desc->form <= TINY_CSC && a->form <= TINY_CSC && desc->duplicates == TINY_DUPLICATES_KEEP) {
        size_t n = (size_t)a->n;
        room->offset = desc->form == TINY_COO ? 0 : (size_t)(desc->form == TINY_CSR ? a->n_rows : a->n_cols) + 1;
        room->row = desc->form == TINY_CSR ? 0 : n;
        room->col = desc->form == TINY_CSC ? 0 : n;
        room->value = a->value ? n : 0;
        room->source = desc->with_source ? n : 0;
        return TINY_OK;
    }
    return tinyi_sparse_do(ctx, a, NULL, desc, NULL, room, NULL);
}

TINY_API tiny_status tiny_sparse_convert_into(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc, const tiny_sparse_room *room, tiny_sparse *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || out == a || !room) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: the result needs a struct of its own, with arrays and their sizes");
    if (out->owned) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: the arrays of the result belong to a context");
    st = tiny_sparse_check(ctx, a);
    return st ? st : tinyi_sparse_do(ctx, a, NULL, desc, room, NULL, out);
}

static tiny_status tinyi_sparse_dense_check(tiny_ctx *ctx, const tiny_tensor *x)
{
    tiny_status st = tiny_tensor_check(x);
    char text[96];
    if (st) return tinyi_fail(ctx, st, "sparse: the dense matrix is no tensor (%s)", tiny_status_text(st));
    if (x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, x->dtype != TINY_F32 ? TINY_E_DTYPE : TINY_E_SHAPE, "sparse: the dense matrix is %s, it must be f32 of rank 2", tinyi_shape_text(x, text));
    if ((uint64_t)x->dim[0] > 0x7fffffffu || (uint64_t)x->dim[1] > 0x7fffffffu)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "sparse: %td rows and %td columns, a 32-bit number counts up to 2147483647", x->dim[0], x->dim[1]);
    return TINY_OK;
}

TINY_API tiny_status tiny_sparse_from_dense(tiny_ctx *ctx, const tiny_tensor *x, const tiny_sparse_desc *desc, tiny_sparse *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: the result needs a struct");
    memset(out, 0, sizeof *out);
    st = tinyi_sparse_dense_check(ctx, x);
    return st ? st : tinyi_sparse_do(ctx, NULL, x, desc, NULL, NULL, out);
}

typedef struct tinyi_dense_job { const tinyi_lines *l; const tiny_tensor *y; } tinyi_dense_job;

static void tinyi_dense_team(tiny_team *team, void *arg)
{
    const tinyi_dense_job *job = (const tinyi_dense_job *)arg;
    const tinyi_lines *l = job->l;
    tiny_idx n = job->y->dim[1], step = job->y->stride[1], r, r1, j;
    int64_t p;
    while (tiny_take(team, l->n_lines, 65536 / (n + 1) + 1, &r, &r1))
        for (; r < r1; r++) {
            float *y = (float *)job->y->data + r * job->y->stride[0];
            if (step == 1) memset(y, 0, (size_t)n * sizeof *y);
            else for (j = 0; j < n; j++) y[j * step] = 0.0f;
            for (p = l->offset[r]; p < l->offset[r + 1]; p++) y[l->at[p] * step] = l->value ? l->value[p] : 1.0f;
        }
}

TINY_API tiny_status tiny_sparse_to_dense(tiny_ctx *ctx, const tiny_sparse *a, const tiny_tensor *y)
{
    tiny_sparse_desc d;
    tinyi_dense_job job;
    tinyi_lines l;
    tiny_status st = tiny_sparse_check(ctx, a);
    if (!st) st = tinyi_sparse_dense_check(ctx, y);
    if (st) return st;
    if (y->dim[0] != a->n_rows || y->dim[1] != a->n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE, "sparse: the matrix is %tdx%td, the dense one %tdx%td", a->n_rows, a->n_cols, y->dim[0], y->dim[1]);
    memset(&d, 0, sizeof d);
    d.form = TINY_CSR;
    d.duplicates = TINY_DUPLICATES_SUM;
    st = tinyi_lines_make(ctx, &l, a, NULL, &d, 0);
    if (st) return st;
    job.l = &l;
    job.y = y;
    st = tiny_parallel(ctx, (double)a->n_rows * (double)a->n_cols < 65536.0 ? 1 : 0, 0, 0, tinyi_dense_team, &job);
    tinyi_lines_free(ctx, &l);
    return st;
}
