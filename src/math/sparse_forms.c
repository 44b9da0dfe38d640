/* src/math/sparse_forms.c - conversions to and from ELL, BSR, BITMAP and dense matrices */
#include "math/sparse_forms_inside.h"
#include "core/state_inside.h"
#include <string.h>

tiny_idx tinyi_sparse_block_rows(const tiny_sparse *a) { return (a->n_rows + a->block_rows - 1) / a->block_rows; }

tiny_idx tinyi_sparse_block_cols(const tiny_sparse *a) { return (a->n_cols + a->block_cols - 1) / a->block_cols; }

/* An array of the result: the caller's, or taken. */
static tiny_status tinyi_sparse_array(tiny_ctx *ctx, const tiny_sparse *out, const tiny_sparse_room *room,
                                      const char *name, void **array, size_t have, size_t n, size_t bytes_each)
{
    if (room) {
        if (n > have || (n && !*array))
            return tinyi_fail(ctx, TINY_E_WORKSPACE, "sparse %s: %s has room for %zu, %zu are needed",
                              tiny_sparse_form_name(out->form), name, *array ? have : (size_t)0, n);
        return TINY_OK;
    }
    *array = tinyi_alloc(ctx, n, bytes_each);
    return *array ? TINY_OK : tiny_ctx_status(ctx);
}

static tiny_status tinyi_sparse_take(tiny_ctx *ctx, tiny_sparse *out, const tiny_sparse_room *need,
                                     const tiny_sparse_room *room)
{
    tiny_status st = TINY_OK;
    void *p;
#define TINYI_SPARSE_TAKE(name, type)                                                                        \
    p = room ? (void *)out->name : NULL;                                                                     \
    out->name = NULL;                                                                                        \
    if (!st && need->name)                                                                                   \
        st = tinyi_sparse_array(ctx, out, room, #name, &p, room ? room->name : 0, need->name, sizeof(type)); \
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

/* entries of row r as blocks: their columns, ascending, into col (when not NULL); returns how many. next: a place in
 * each row. */
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

tiny_status tinyi_sparse_to_bsr(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out, const tiny_sparse_room *room,
                                tiny_sparse_room *told)
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
    if (!tinyi_size_mul((size_t)n, size, &values))
        st = tinyi_fail(ctx, TINY_E_OVERFLOW, "sparse bsr: %lld blocks of %dx%d are more than this machine can address",
                        (long long)n, br, bc);
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
                out->value[(size_t)q * size + (size_t)(r - i * br) * (size_t)bc + (size_t)(l->at[p] % bc)] =
                    l->value ? l->value[p] : 1.0f;
            }
    }
    if (!lines) out->offset[0] = 0;
    tiny_free(ctx, next);
    return TINY_OK;
}

tiny_status tinyi_sparse_to_ell(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out, tiny_idx width,
                                const tiny_sparse_room *room, tiny_sparse_room *told)
{
    tiny_sparse_room need;
    int64_t longest = 0, p;
    tiny_idx r, j;
    size_t slots;
    tiny_status st = TINY_OK;
    for (r = 0; r < l->n_lines; r++) longest = TINYI_MAX(longest, l->offset[r + 1] - l->offset[r]);
    if (width == 0) width = (tiny_idx)longest;
    if (longest > width)
        return tinyi_fail(ctx, TINY_E_SHAPE, "sparse ell: a row has %lld entries, the width is %td", (long long)longest,
                          width);
    if (!tinyi_size_mul((size_t)l->n_lines, (size_t)width, &slots) || slots > (size_t)TINY_IDX_MAX / 16)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "sparse ell: %td rows of %td slots are more than this machine can address", l->n_lines,
                          width);
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

tiny_status tinyi_sparse_to_bitmap(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out, const tiny_sparse_room *room,
                                   tiny_sparse_room *told)
{
    tiny_sparse_room need;
    tiny_idx words = tinyi_sparse_words(out), r;
    int64_t p;
    tiny_status st = TINY_OK;
    memset(&need, 0, sizeof need);
    if (!tinyi_size_mul((size_t)l->n_lines, (size_t)words, &need.bits) || need.bits > (size_t)TINY_IDX_MAX / 16)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "sparse bitmap: %td rows of %td words are more than this machine can address", l->n_lines,
                          words);
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
        for (p = l->offset[r]; p < l->offset[r + 1]; p++)
            out->bits[r * words + l->at[p] / 64] |= (uint64_t)1 << (l->at[p] % 64);
    return TINY_OK;
}

tiny_status tinyi_sparse_to_lists(tiny_ctx *ctx, tinyi_lines *l, tiny_sparse *out, const tiny_sparse_room *room,
                                  tiny_sparse_room *told)
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
        if (out->form == TINY_COO && !(row = (int32_t *)tinyi_alloc(ctx, (size_t)l->n, sizeof *row)))
            return tiny_ctx_status(ctx);
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

