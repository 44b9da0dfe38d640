/* src/llm/round/fold.c - folds: channels of a model that can be scaled without changing its function
 *
 * Papers   J. Lin et al., "AWQ", 2023 (arXiv 2306.00978), and G. Xiao et al., "SmoothQuant", 2022 (arXiv 2211.10438):
 *          the folds
 * Formula  W (x) = (W diag(c)) (x / c); x / c comes from a norm whose gain and bias were divided by c, or from rows of
 *          a matrix and their bias. A scaled number is w times the factors of its column and its row; each factor is
 *          the product of all factors so far, in double, rounded once
 * Legal    the list of folds: see fold_list.c
 * Data     for each changed tensor: a double for each column of each matrix, a double for each row
 * Cost     a fold: its channels times its matrices; floats: two multiplications per number; writing: all bytes of the
 *          file */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/fold_inside.h"

#define TINYI_FOLD_MAGIC 0x646c6f66u
#define TINYI_FOLD_NAME(t) (int)TINYI_MIN((t)->name.n, (size_t)200), (t)->name.at

TINY_API tiny_status tllm_folds_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_folds **out)
{
    tllm_model *m = NULL;
    tllm_folds *f;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!file || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: a file and a result pointer are needed");
    f = (tllm_folds *)tinyi_alloc(ctx, 1, sizeof *f);
    if (!f) return tiny_ctx_status(ctx);
    memset(f, 0, sizeof *f);
    f->magic = TINYI_FOLD_MAGIC;
    f->file = file;
    st = tllm_model_open(ctx, file, &m);
    if (!st) st = tinyi_fold_make(ctx, f, m);
    tllm_model_close(ctx, m);
    if (st) tllm_folds_close(ctx, f);
    else *out = f;
    return st;
}

TINY_API void tllm_folds_close(tiny_ctx *ctx, tllm_folds *f)
{
    size_t i;
    if (!f || f->magic != TINYI_FOLD_MAGIC || tinyi_ctx_check(ctx)) return;
    f->magic = 0;
    for (i = 0; f->item && i < f->n_item; i++) {
        tiny_free(ctx, f->item[i].row);
        tiny_free(ctx, f->item[i].column);
    }
    tiny_free(ctx, f->item);
    tiny_free(ctx, (void *)(uintptr_t)f->why);
    tiny_free(ctx, f->fold);
    tiny_free(ctx, f);
}

TINY_API size_t tllm_folds_n(const tllm_folds *f) { return f ? f->n : 0; }
TINY_API const tllm_fold *tllm_fold_at(const tllm_folds *f, size_t i) { return f && i < f->n ? &f->fold[i] : NULL; }
TINY_API const tllm_gguf *tllm_folds_file(const tllm_folds *f) { return f ? f->file : NULL; }
TINY_API const char *tllm_fold_why(const tllm_folds *f, tiny_idx layer, int kind)
{
    if (!f || layer < -1 || layer >= f->n_layer || kind < 0 || kind >= TLLM_FOLD_KINDS)
        return "there is no such layer or kind";
    return f->why[(layer + 1) * TLLM_FOLD_KINDS + kind];
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

TINYI_FN tinyi_fold_item *tinyi_fold_item_of(const tllm_folds *f, const tllm_gguf_tensor *t)
{
    const uintptr_t first = f && f->n_item ? (uintptr_t)f->item[0].t : 0, at = (uintptr_t)t;
    size_t i;
    if (!first || at < first || (at - first) % sizeof *t) return NULL;
    i = (size_t)((at - first) / sizeof *t); /* the tensors of a file lie one after the other */
    return i < f->n_item && f->item[i].t == t ? &f->item[i] : NULL;
}

/* ones, where there is no list yet */
static tiny_status tinyi_fold_ones(tiny_ctx *ctx, double **list, tiny_idx n)
{
    tiny_idx i;
    if (*list) return TINY_OK;
    *list = (double *)tinyi_alloc(ctx, (size_t)n, sizeof **list);
    for (i = 0; *list && i < n; i++) (*list)[i] = 1.0;
    return *list ? TINY_OK : tiny_ctx_status(ctx);
}
/* memory for all that a fold touches: afterwards nothing can fail */
static tiny_status tinyi_fold_room(tiny_ctx *ctx, tllm_folds *f, const tllm_fold *fold)
{
    tiny_status st = TINY_OK;
    int k;
    for (k = 0; !st && k < fold->n_from; k++) {
        tinyi_fold_item *it = tinyi_fold_item_of(f, fold->from[k].t);
        st = tinyi_fold_ones(ctx, &it->row, it->rows);
    }
    for (k = 0; !st && k < fold->n_to; k++) {
        tinyi_fold_item *it = tinyi_fold_item_of(f, fold->to[k].t);
        if (!it->vector) st = tinyi_fold_ones(ctx, &it->column, it->n_mat * it->len);
        else
            st = tinyi_fold_ones(ctx, &it->row,
                                 it->rows); /* a vector that is multiplied with: its numbers are its columns */
    }
    return st;
}
static void tinyi_fold_columns_by(tllm_folds *f, const tllm_fold *fold, const double *s)
{
    tiny_idx i, e;
    int k;
    for (k = 0; k < fold->n_to; k++) {
        tinyi_fold_item *it = tinyi_fold_item_of(f, fold->to[k].t);
        for (e = fold->to[k].mat; e < fold->to[k].mat + fold->to[k].n_mat && !it->vector; e++)
            for (i = 0; i < fold->n; i++) it->column[e * it->len + i] *= s[i];
        for (i = 0; i < fold->n && it->vector; i++) it->row[i] *= s[i];
    }
}

static tiny_status tinyi_fold_which(tiny_ctx *ctx, const tllm_folds *f, size_t i)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!f || f->magic != TINYI_FOLD_MAGIC)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: the folds are NULL or closed");
    if (i >= f->n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: index %zu is outside the list of %zu", i, f->n);
    return TINY_OK;
}

TINY_API tiny_status tllm_fold_scale(tiny_ctx *ctx, tllm_folds *f, size_t at, const float *s)
{
    const tllm_fold *fold;
    double *d;
    tiny_idx i;
    int k;
    tiny_status st = tinyi_fold_which(ctx, f, at);
    if (st) return st;
    fold = &f->fold[at];
    if (!s) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: the factors are NULL");
    for (i = 0; i < fold->n; i++)
        if (!(s[i] > 0.0f && s[i] <= 3e38f))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "fold: the factor of channel %td of %.*s is %g; it must be above 0 and finite", i,
                              TINYI_FOLD_NAME(fold->from[0].t), (double)s[i]);
    d = (double *)tinyi_alloc(ctx, (size_t)fold->n, sizeof *d);
    if (!d) return tiny_ctx_status(ctx);
    for (i = 0; i < fold->n; i++) d[i] = (double)s[i];
    st = tinyi_fold_room(ctx, f, fold);
    if (!st) {
        for (k = 0; k < fold->n_from; k++) {
            double *row = tinyi_fold_item_of(f, fold->from[k].t)->row + fold->from[k].row;
            for (i = 0; i < fold->n; i++) row[i] /= d[i];
        }
        tinyi_fold_columns_by(f, fold, d);
    }
    tiny_free(ctx, d);
    return st;
}

TINY_API tiny_status tllm_fold_gain(tiny_ctx *ctx, tllm_folds *f, size_t at)
{
    const tllm_fold *fold;
    tinyi_fold_item *it;
    double *d;
    float *gain;
    tiny_idx i;
    tiny_status st = tinyi_fold_which(ctx, f, at);
    if (st) return st;
    fold = &f->fold[at];
    if (!fold->from_norm)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: %.*s is not a norm: it has no gain",
                          TINYI_FOLD_NAME(fold->from[0].t));
    if (fold->n_from > 1)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "fold: %.*s is added after the gain, so the gain alone cannot move into the matrices",
                          TINYI_FOLD_NAME(fold->from[1].t));
    it = tinyi_fold_item_of(f, fold->from[0].t);
    d = (double *)tinyi_alloc(ctx, (size_t)fold->n, sizeof *d);
    gain = d ? (float *)tinyi_alloc(ctx, (size_t)fold->n, sizeof *gain) : NULL;
    st = gain ? tinyi_fold_room(ctx, f, fold) : tiny_ctx_status(ctx);
    if (!st) {
        if (!it->ones) tllm_format_of(it->t->type)->unpack(it->t->data, gain, (size_t)fold->n);
        for (i = 0; i < fold->n && !st; i++) {
            d[i] = (it->ones ? 1.0 : (double)gain[i]) * it->row[i];
            if (!(d[i] - d[i] == 0.0))
                st = tinyi_fail(ctx, TINY_E_NUMERIC, "fold: %.*s has %g for channel %td", TINYI_FOLD_NAME(it->t), d[i],
                                i);
        }
    }
    if (!st) {
        tinyi_fold_columns_by(f, fold, d);
        for (i = 0; i < fold->n; i++) it->row[i] = 1.0;
        it->ones = 1;
    }
    tiny_free(ctx, gain);
    tiny_free(ctx, d);
    return st;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

TINY_API int tllm_folds_touch(const tllm_folds *f, const tllm_gguf_tensor *t)
{
    const tinyi_fold_item *it = tinyi_fold_item_of(f, t);
    return it && (it->row || it->column || it->ones);
}
TINY_API const double *tllm_folds_columns(const tllm_folds *f, const tllm_gguf_tensor *t, tiny_idx mat)
{
    const tinyi_fold_item *it = tinyi_fold_item_of(f, t);
    return it && it->column && mat >= 0 && mat < it->n_mat ? it->column + mat * it->len : NULL;
}

TINY_REF_BEGIN
/* 0: a number is finite in the file and not any more */
static int tinyi_fold_row(const tinyi_fold_item *it, tiny_idx row, float *x)
{
    const tiny_idx mat = it->n_mat > 1 ? row / (tiny_idx)it->t->dim[1] : 0;
    const double *column = it->column ? it->column + mat * it->len : NULL, by = it->row ? it->row[row] : 1.0;
    tiny_idx i;
    int ok = 1;
    for (i = 0; i < it->len; i++) {
        const float was = it->ones ? 1.0f : x[i], is = (float)((double)was * (column ? column[i] : 1.0) * by);
        ok &= is - is == 0.0f || !(was - was == 0.0f);
        x[i] = is;
    }
    return ok;
}
TINY_REF_END

TINY_API tiny_status tllm_folds_floats(tiny_ctx *ctx, const tllm_folds *f, const tllm_gguf_tensor *t, tiny_idx row,
                                       tiny_idx rows, float *out)
{
    const tinyi_fold_item *it;
    const tllm_format *format;
    size_t bytes;
    tiny_idx r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    it = tinyi_fold_item_of(f, t);
    if (!it || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: a tensor of the file and a result pointer are needed");
    if (row < 0 || rows < 0 || row > it->rows - rows)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: %td rows from row %td on, but %.*s has %td", rows, row,
                          TINYI_FOLD_NAME(t), it->rows);
    format = tllm_format_of(t->type);
    bytes = format && format->unpack ? tllm_format_bytes(format, (uint64_t)it->len) : 0;
    if (it->vector && format && format->unpack) {     /* a vector: its blocks hold many of its rows */
        if (row || rows != it->rows)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: the vector %.*s can only be read as a whole",
                              TINYI_FOLD_NAME(t));
        format->unpack(t->data, out, (size_t)rows);
    } else if (!bytes)
        return tinyi_fail(ctx, TINY_E_FORMAT, "fold: %.*s has type %s, which models do not support",
                          TINYI_FOLD_NAME(t), tllm_type_name(t->type));
    for (r = 0; r < rows; r++) {
        if (!it->vector) format->unpack(t->data + (size_t)(row + r) * bytes, out + r * it->len, (size_t)it->len);
        if (!tinyi_fold_row(it, row + r, out + r * it->len))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "fold: row %td of %.*s has numbers that overflow with their factors", row + r,
                              TINYI_FOLD_NAME(t));
    }
    return TINY_OK;
}

/* ---- the folded model as a file ---------------------------------------------------------------------------------- */

static int tinyi_fold_wanted(const tllm_folds *f, const tllm_gguf_tensor *t, const tllm_folds_edit *edit)
{
    return tllm_folds_touch(f, t) || (edit && edit->wants && edit->wants(edit->user, t));
}

/* all matrices of a tensor, one after the other */
static tiny_status tinyi_fold_put(tiny_ctx *ctx, const tllm_folds *f, const tinyi_fold_item *it,
                                  const tllm_folds_edit *edit, tllm_writer *w)
{
    const tiny_idx rows = it->rows / it->n_mat;
    float *x = (float *)tinyi_alloc(ctx, (size_t)rows, (size_t)it->len * sizeof *x);
    const tllm_format *f32 = tllm_format_of(TLLM_FORMAT_F32);
    tiny_idx e;
    tiny_status st = x ? TINY_OK : tiny_ctx_status(ctx);
    for (e = 0; !st && e < it->n_mat; e++) {
        st = tllm_folds_floats(ctx, f, it->t, e * rows, rows, x);
        if (!st && edit && edit->edit && !it->vector) st = edit->edit(edit->user, it->t, e, x);
        if (!st) {
            f32->pack(x, x, (size_t)(rows * it->len), NULL);           /* the bytes of a file, in place */
            st = tllm_writer_data(ctx, w, x, (size_t)(rows * it->len) * sizeof *x);
        }
    }
    tiny_free(ctx, x);
    return st;
}

TINY_API tiny_status tllm_folds_put(tiny_ctx *ctx, const tllm_folds *f, tllm_writer *w, const tllm_folds_edit *edit)
{
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!f || f->magic != TINYI_FOLD_MAGIC || !w)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fold: folds and a writer are needed");
    for (i = 0; !st && i < tllm_gguf_n_meta(f->file); i++)
        st = tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(f->file, i));
    for (i = 0; !st && i < f->n_item; i++) {
        const tllm_gguf_tensor *t = f->item[i].t;
        st = tllm_writer_put_tensor(ctx, w, t->name, tinyi_fold_wanted(f, t, edit) ? TLLM_FORMAT_F32 : t->type, t->rank,
                                    t->dim, NULL);
    }
    for (i = 0; !st && i < f->n_item; i++) {
        const tllm_gguf_tensor *t = f->item[i].t;
        if (ctx->desc.cancel && ctx->desc.cancel(ctx->desc.user))
            return tinyi_fail(ctx, TINY_E_CANCELLED, "fold: the cancel callback asked to stop");
        st = tinyi_fold_wanted(f, t, edit) ? tinyi_fold_put(ctx, f, &f->item[i], edit, w)
                                           : tllm_writer_data(ctx, w, t->data, t->bytes);
    }
    return st;
}

