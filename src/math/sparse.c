/* src/math/sparse.c - the checks of a matrix, and the public calls; the conversions are in math/sparse_lines.c and
 * math/sparse_forms.c */
#include "math/sparse.h"
#include "math/bits_inside.h"
#include "math/sparse_forms_inside.h"
#include "core/state_inside.h"
#include <string.h>

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
    if (!a->offset) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse %s: the offsets are missing", form);
    if (a->offset[0] != 0)
        return tinyi_fail(ctx, TINY_E_FORMAT, "sparse %s: offset[0] is %lld, it must be 0", form,
                          (long long)a->offset[0]);
    for (i = 0; i < lines; i++)
        if (a->offset[i + 1] < a->offset[i])
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse %s: offset[%td] is %lld, less than the previous %lld", form,
                              i + 1, (long long)a->offset[i + 1], (long long)a->offset[i]);
    if (a->offset[lines] != a->n)
        return tinyi_fail(ctx, TINY_E_FORMAT, "sparse %s: the last offset is %lld, but there are %lld entries", form,
                          (long long)a->offset[lines], (long long)a->n);
    return TINY_OK;
}

static tiny_status tinyi_sparse_check_ell(tiny_ctx *ctx, const tiny_sparse *a)
{
    int64_t n = 0;
    tiny_idx r, j;
    if (a->width < 0 || (a->width && a->n_rows > (TINY_IDX_MAX / 16) / a->width))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse ell: a width of %td is negative or too large", a->width);
    if (!a->col && a->n_rows > 0 && a->width > 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse ell: the columns are missing");
    for (r = 0; a->width && r < a->n_rows; r++) {
        const int32_t *c = a->col + r * a->width;
        for (j = 0; j < a->width && c[j] != -1; j++, n++)
            if (c[j] < 0 || c[j] >= a->n_cols)
                return tinyi_fail(ctx, TINY_E_FORMAT, "sparse ell: row %td, slot %td: column %ld, the matrix has %td",
                                  r, j, (long)c[j], a->n_cols);
        for (; j < a->width; j++)
            if (c[j] != -1)
                return tinyi_fail(ctx, TINY_E_FORMAT,
                                  "sparse ell: row %td, slot %td: column %ld after the padding", r, j,
                                  (long)c[j]);
    }
    if (n != a->n)
        return tinyi_fail(ctx, TINY_E_FORMAT, "sparse ell: the rows hold %lld entries, n is %lld", (long long)n,
                          (long long)a->n);
    return TINY_OK;
}

static tiny_status tinyi_sparse_check_bsr(tiny_ctx *ctx, const tiny_sparse *a)
{
    tiny_idx lines, cols, i;
    int64_t p, bad;
    tiny_status st;
    if (a->block_rows < 1 || a->block_cols < 1 || a->block_rows > 32767 || a->block_cols > 32767)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse bsr: blocks of %dx%d, each side must be 1 to 32767",
                          a->block_rows, a->block_cols);
    lines = tinyi_sparse_block_rows(a);
    cols = tinyi_sparse_block_cols(a);
    st = tinyi_sparse_check_offsets(ctx, a, lines);
    if (st) return st;
    if (a->n && (!a->col || !a->value))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse bsr: the %s are missing", a->col ? "values" : "columns");
    bad = tinyi_sparse_outside(a->col, a->n, cols);
    if (bad < a->n)
        return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bsr: block %lld: column %ld, there are %td columns of blocks",
                          (long long)bad, (long)a->col[bad], cols);
    for (i = 0; i < lines; i++)
        for (p = a->offset[i] + 1; p < a->offset[i + 1]; p++)
            if (a->col[p] <= a->col[p - 1])
                return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bsr: row of blocks %td: column %ld follows %ld", i,
                                  (long)a->col[p], (long)a->col[p - 1]);
    return TINY_OK;
}

static tiny_status tinyi_sparse_check_bitmap(tiny_ctx *ctx, const tiny_sparse *a)
{
    tiny_idx words = tinyi_sparse_words(a), r, w;
    tiny_status st = tinyi_sparse_check_offsets(ctx, a, a->n_rows);
    if (st) return st;
    if (!words && a->n)
        return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bitmap: %lld entries in no columns", (long long)a->n);
    if (!a->bits && a->n_rows && words) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse bitmap: the bits are missing");
    for (r = 0; words && r < a->n_rows; r++) {
        const uint64_t *b = a->bits + r * words;
        int64_t n = 0;
        for (w = 0; w < words; w++) n += tinyi_bits_count(b[w]);
        if (a->n_cols % 64 && b[words - 1] >> (a->n_cols % 64))
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bitmap: row %td has bits beyond column %td", r,
                              a->n_cols - 1);
        if (n != a->offset[r + 1] - a->offset[r])
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse bitmap: row %td has %lld bits, its offsets count %lld", r,
                              (long long)n, (long long)(a->offset[r + 1] - a->offset[r]));
    }
    return TINY_OK;
}

TINY_API tiny_status tiny_sparse_check(tiny_ctx *ctx, const tiny_sparse *a)
{
    tiny_status st = tinyi_ctx_check(ctx);
    const char *form;
    int64_t bad;
    if (st) return st;
    if (!a) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: the matrix is missing");
    if ((unsigned)a->form >= (unsigned)TINY_SPARSE_FORM_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: form %d is unknown", (int)a->form);
    form = tiny_sparse_form_name(a->form);
    if (a->n_rows < 0 || a->n_cols < 0)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "sparse %s: %td rows and %td columns: neither may be negative", form, a->n_rows, a->n_cols);
    if ((uint64_t)a->n_rows > 0x7fffffffu || (uint64_t)a->n_cols > 0x7fffffffu)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "sparse %s: %td rows and %td columns, the maximum is 2147483647", form,
                          a->n_rows, a->n_cols);
    if (a->n < 0 || (uint64_t)a->n > (uint64_t)TINY_IDX_MAX / 16)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "sparse %s: %lld entries are negative or too many", form, (long long)a->n);
    switch (a->form) {
    case TINY_COO:
        if (a->n && (!a->row || !a->col))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse coo: the %s are missing", a->row ? "columns" : "rows");
        bad = TINYI_MIN(tinyi_sparse_outside(a->row, a->n, a->n_rows), tinyi_sparse_outside(a->col, a->n, a->n_cols));
        if (bad < a->n)
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse coo: entry %lld is at (%ld, %ld), the matrix is %tdx%td",
                              (long long)bad, (long)a->row[bad], (long)a->col[bad], a->n_rows, a->n_cols);
        return TINY_OK;
    case TINY_CSR:
        st = tinyi_sparse_check_offsets(ctx, a, a->n_rows);
        if (st) return st;
        if (a->n && !a->col) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse csr: the columns are missing");
        bad = tinyi_sparse_outside(a->col, a->n, a->n_cols);
        if (bad < a->n)
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse csr: entry %lld is in column %ld, the matrix has %td",
                              (long long)bad, (long)a->col[bad], a->n_cols);
        return TINY_OK;
    case TINY_CSC:
        st = tinyi_sparse_check_offsets(ctx, a, a->n_cols);
        if (st) return st;
        if (a->n && !a->row) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse csc: the rows are missing");
        bad = tinyi_sparse_outside(a->row, a->n, a->n_rows);
        if (bad < a->n)
            return tinyi_fail(ctx, TINY_E_FORMAT, "sparse csc: entry %lld is in row %ld, the matrix has %td",
                              (long long)bad, (long)a->row[bad], a->n_rows);
        return TINY_OK;
    case TINY_ELL: return tinyi_sparse_check_ell(ctx, a);
    case TINY_BSR: return tinyi_sparse_check_bsr(ctx, a);
    default: return tinyi_sparse_check_bitmap(ctx, a);
    }
}

/* ---- the calls */

/* a or x; room: into the arrays of out; told: only what is needed */
static tiny_status tinyi_sparse_do(tiny_ctx *ctx, const tiny_sparse *a, const tiny_tensor *x,
                                   const tiny_sparse_desc *desc, const tiny_sparse_room *room, tiny_sparse_room *told,
                                   tiny_sparse *out)
{
    tiny_sparse_desc d;
    tiny_sparse made;
    tinyi_lines l;
    tiny_status st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if ((unsigned)d.form >= (unsigned)TINY_SPARSE_FORM_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: form %d is unknown", (int)d.form);
    if ((unsigned)d.duplicates > (unsigned)TINY_DUPLICATES_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: %d is not a valid tiny_duplicates", (int)d.duplicates);
    if (d.keep_order && d.duplicates != TINY_DUPLICATES_KEEP)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "sparse: duplicates cannot be merged with keep_order");
    if (d.form == TINY_BSR && (d.block_rows < 1 || d.block_cols < 1 || d.block_rows > 32767 || d.block_cols > 32767))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse bsr: blocks of %dx%d, each side must be 1 to 32767",
                          d.block_rows, d.block_cols);
    if (d.form == TINY_ELL && d.width < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse ell: a width of %td is negative or too large", d.width);
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

TINY_API tiny_status tiny_sparse_convert(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                         tiny_sparse *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || out == a) return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                            "sparse: the result must be another struct than the input");
    memset(out, 0, sizeof *out);
    st = tiny_sparse_check(ctx, a);
    return st ? st : tinyi_sparse_do(ctx, a, NULL, desc, NULL, NULL, out);
}

TINY_API tiny_status tiny_sparse_size(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                      tiny_sparse_room *room)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!room) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: the output for the sizes is missing");
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

TINY_API tiny_status tiny_sparse_convert_into(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                              const tiny_sparse_room *room, tiny_sparse *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || out == a || !room)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "sparse: the result must be another struct, with arrays and their sizes");
    if (out->owned) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: the arrays of the result belong to a context");
    st = tiny_sparse_check(ctx, a);
    return st ? st : tinyi_sparse_do(ctx, a, NULL, desc, room, NULL, out);
}

static tiny_status tinyi_sparse_dense_check(tiny_ctx *ctx, const tiny_tensor *x)
{
    tiny_status st = tiny_tensor_check(x);
    char text[96];
    if (st) return tinyi_fail(ctx, st, "sparse: the dense matrix is not a valid tensor (%s)", tiny_status_text(st));
    if (x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, x->dtype != TINY_F32 ? TINY_E_DTYPE : TINY_E_SHAPE,
                          "sparse: the dense matrix is %s, it must be f32 of rank 2", tinyi_shape_text(x, text));
    if ((uint64_t)x->dim[0] > 0x7fffffffu || (uint64_t)x->dim[1] > 0x7fffffffu)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "sparse: %td rows and %td columns, the maximum is 2147483647", x->dim[0],
                          x->dim[1]);
    return TINY_OK;
}

TINY_API tiny_status tiny_sparse_from_dense(tiny_ctx *ctx, const tiny_tensor *x, const tiny_sparse_desc *desc,
                                            tiny_sparse *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sparse: the result pointer is missing");
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
        return tinyi_fail(ctx, TINY_E_SHAPE, "sparse: the matrix is %tdx%td, the dense one %tdx%td", a->n_rows,
                          a->n_cols, y->dim[0], y->dim[1]);
    memset(&d, 0, sizeof d);
    d.form = TINY_CSR;
    d.duplicates = TINY_DUPLICATES_SUM;
    st = tinyi_lines_make(ctx, &l, a, NULL, &d, 0);
    if (st) return st;
    job.l = &l;
    job.y = y;
    st = tiny_parallel_loose(ctx, (double)a->n_rows * (double)a->n_cols < 65536.0 ? 1 : 0, 0, 0, tinyi_dense_team,
                             &job);
    tinyi_lines_free(ctx, &l);
    return st;
}

