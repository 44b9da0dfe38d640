/* src/llm/round/scaled.c - makes a model easier to round: scales its folds by AWQ or by SmoothQuant
 * Order    the text is read for as many layers as fit into memory; then their folds in the order of the list, each with
 *          the matrices that the earlier folds left; then the ranges of their matrices. Factors do not change the
 *          inputs of later layers: the function is the same
 * Inputs   of a fold: those of its first consumer that has any; of several matrices, the one with the most tokens.
 *          Experts use all tokens of their router if it reads the same input
 * Cost     a reading, and tllm_awq_scale and tllm_awq_clip for every matrix; memory in floats: the matrices of one
 *          fold, and the samples of one
 * Left out outputs of whole blocks; ranges of embedding and output */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/reading_inside.h"
#include "llm/round/scaled.h"
#include "llm/round/calib.h"
#include "llm/round/smooth.h"

#define TINYI_SCALED_MAGIC 0x6c616373u

typedef struct tinyi_scaled_item {
    const tllm_gguf_tensor *t;
    int format;
    tiny_idx groups;
    uint8_t *step;                          /* (matrices, rows, groups): ranges that are cut, or NULL */
} tinyi_scaled_item;

struct tllm_scaled {
    uint32_t magic;
    tiny_ctx *ctx;                          /* while something is computed */
    tllm_scaled_desc d;
    tllm_folds *folds;
    tinyi_scaled_item *item;                /* of the list, by layers */
    size_t n;
    tinyi_reading read;
    tllm_scaled_about about;
};

static tinyi_scaled_item *tinyi_scaled_find(const tllm_scaled *s, const tllm_gguf_tensor *t)
{
    size_t i;
    for (i = 0; i < s->n && s->item[i].t != t; i++) {}
    return i < s->n ? &s->item[i] : NULL;
}

/* samples of inputs over what the columns were multiplied with: a copy; NULL after a failure of memory */
static float *tinyi_scaled_inputs(const tllm_scaled *s, const tllm_gguf_tensor *t, tiny_idx mat, const tllm_calib *c,
                                  tiny_idx *tokens)
{
    const double *by = tllm_folds_columns(s->folds, t, mat);
    const tiny_idx n = tllm_calib_n(c);
    const float *from;
    float *x;
    tiny_idx k, i;
    *tokens = tllm_calib_samples(c, &from);
    x = (float *)tinyi_alloc(s->ctx, (size_t)*tokens * (size_t)n, sizeof *x);
    for (k = 0; x && k < *tokens; k++)
        for (i = 0; i < n; i++)
            x[k * n + i] = by && by[i] > 0.0 ? (float)((double)from[k * n + i] / by[i]) : from[k * n + i];
    return x;
}

/* ---- a fold ------------------------------------------------------------------------------------------------------ */

/* what its consumers read; *end: of which of them, *mat: of which matrix */
static const tllm_calib *tinyi_scaled_seen(const tllm_scaled *s, const tllm_fold *f, const tllm_fold_end **end,
                                           tiny_idx *mat)
{
    const tllm_calib *best = NULL;
    tiny_idx e;
    int k;
    for (k = 0; k < f->n_to && !best; k++)
        for (e = f->to[k].mat; e < f->to[k].mat + f->to[k].n_mat; e++) {
            const tllm_calib *c = tllm_watch_of(s->read.watch, f->to[k].t, e);
            if (!c || tllm_calib_n(c) != f->n || (best && tllm_calib_tokens(c) <= tllm_calib_tokens(best))) continue;
            best = c;
            *end = &f->to[k];
            *mat = e;
        }
    return best;
}

static tiny_status tinyi_scaled_awq(tllm_scaled *s, const tllm_fold *f, tllm_awq_matrix *m, int n_m,
                                    const tllm_calib *c, const tllm_fold_end *end, tiny_idx mat, float *factor,
                                    int *taken)
{
    const double *by = tllm_folds_columns(s->folds, end->t, mat);
    tllm_awq_about about;
    tiny_idx tokens, i;
    float *mean = (float *)tinyi_alloc(s->ctx, (size_t)f->n, sizeof *mean),
          *x = mean ? tinyi_scaled_inputs(s, end->t, mat, c, &tokens) : NULL;
    tiny_status st = x ? TINY_OK : tiny_ctx_status(s->ctx);
    if (!st) {
        tllm_calib_mean(c, mean);
        for (i = 0; by && i < f->n; i++) mean[i] = by[i] > 0.0 ? (float)((double)mean[i] / by[i]) : mean[i];
        st = tllm_awq_scale(s->ctx, &s->d.awq, m, n_m, f->n, mean, x, tokens, factor, &about);
    }
    if (!st) {
        if (about.plain >= 0.0) {           /* else there is nothing to compare it with */
            s->about.loss += about.loss;
            s->about.plain += about.plain;
        }
        s->about.alpha += about.alpha;
        *taken = about.alpha > 0.0;
    }
    tiny_free(s->ctx, x);
    tiny_free(s->ctx, mean);
    return st;
}

static tiny_status tinyi_scaled_smooth(tllm_scaled *s, const tllm_fold *f, const tllm_awq_matrix *m, int n_m,
                                       const tllm_calib *c, const tllm_fold_end *end, tiny_idx mat, float *factor)
{
    const double *by = tllm_folds_columns(s->folds, end->t, mat);
    float *x = (float *)tinyi_alloc(s->ctx, (size_t)f->n, sizeof *x),
          *w = x ? (float *)tinyi_alloc(s->ctx, (size_t)f->n, sizeof *w) : NULL;
    tiny_status st = w ? TINY_OK : tiny_ctx_status(s->ctx);
    tiny_idx i;
    int k;
    if (!st) {
        memset(w, 0, (size_t)f->n * sizeof *w);
        tllm_calib_largest(c, x);
        for (i = 0; by && i < f->n; i++) x[i] = by[i] > 0.0 ? (float)((double)x[i] / by[i]) : x[i];
    }
    for (k = 0; !st && k < n_m; k++) st = tllm_smooth_largest(s->ctx, m[k].w, m[k].rows, f->n, w);
    if (!st) st = tllm_smooth_factors(s->ctx, s->d.alpha, x, w, f->n, factor);
    if (!st) s->about.alpha += (double)s->d.alpha;
    tiny_free(s->ctx, w);
    tiny_free(s->ctx, x);
    return st;
}

static tiny_status tinyi_scaled_fold(tllm_scaled *s, size_t at)
{
    const tllm_fold *f = tllm_fold_at(s->folds, at);
    const tllm_fold_end *end = NULL;
    const tllm_calib *c;
    tllm_awq_matrix *m;
    float *factor;
    tiny_idx mat = 0, e;
    size_t room = 0;
    int k, n_m = 0, taken = 1;
    tiny_status st = TINY_OK;
    for (k = 0; k < f->n_to; k++)           /* the matrices that will be rounded */
        if (!f->to[k].vector && tinyi_scaled_find(s, f->to[k].t)) room += (size_t)f->to[k].n_mat;
    if (!room) return TINY_OK;
    c = tinyi_scaled_seen(s, f, &end, &mat);
    if (!c) {
        s->about.unknown++;
        return TINY_OK;
    }
    m = (tllm_awq_matrix *)tinyi_alloc(s->ctx, room, sizeof *m);
    factor = m ? (float *)tinyi_alloc(s->ctx, (size_t)f->n, sizeof *factor) : NULL;
    if (!factor) st = tiny_ctx_status(s->ctx);
    for (k = 0; !st && k < f->n_to; k++) {
        const tinyi_scaled_item *it = f->to[k].vector ? NULL : tinyi_scaled_find(s, f->to[k].t);
        for (e = f->to[k].mat; it && !st && e < f->to[k].mat + f->to[k].n_mat; e++) {
            const tiny_idx rows = (tiny_idx)it->t->dim[1];
            float *w = (float *)tinyi_alloc(s->ctx, (size_t)rows, (size_t)f->n * sizeof *w);
            if (!w) {
                st = tiny_ctx_status(s->ctx);
                break;
            }
            m[n_m].w = w;
            m[n_m].rows = rows;
            m[n_m++].format = it->format;
            st = tllm_folds_floats(s->ctx, s->folds, it->t, e * rows, rows, w);
        }
    }
    if (!st && s->d.way == TLLM_SCALE_AWQ) st = tinyi_scaled_awq(s, f, m, n_m, c, end, mat, factor, &taken);
    else if (!st) st = tinyi_scaled_smooth(s, f, m, n_m, c, end, mat, factor);
    if (!st && taken) st = tllm_fold_scale(s->ctx, s->folds, at, factor);
    if (!st) s->about.folds++;
    while (n_m > 0) tiny_free(s->ctx, (void *)(uintptr_t)m[--n_m].w);
    tiny_free(s->ctx, factor);
    tiny_free(s->ctx, m);
    return st;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static int tinyi_scaled_has(tllm_text name, const char *part)
{
    const size_t n = strlen(part);
    size_t i;
    for (i = 0; i + n <= name.n; i++)
        if (!memcmp(name.at + i, part, n)) return 1;
    return 0;
}

static tiny_status tinyi_scaled_clip(tllm_scaled *s, tinyi_scaled_item *it)
{
    const tiny_idx n = (tiny_idx)it->t->dim[0], rows = (tiny_idx)it->t->dim[1],
                   matrices = tinyi_reading_matrices(it->t);
    size_t each, all, i;
    tiny_idx e, tokens;
    float *w;
    tiny_status st = TINY_OK;
    it->groups = tllm_awq_groups(&s->d.awq, it->format, n);
    if (!it->groups || tinyi_scaled_has(it->t->name, "attn_q") || tinyi_scaled_has(it->t->name, "attn_k"))
        return TINY_OK;
    for (e = 0; e < matrices && !tllm_watch_of(s->read.watch, it->t, e); e++) {}
    if (e == matrices) return TINY_OK;      /* its inputs are not known */
    each = (size_t)rows * (size_t)it->groups;
    all = each * (size_t)matrices;
    it->step = (uint8_t *)tinyi_alloc(s->ctx, all, 1);
    w = it->step ? (float *)tinyi_alloc(s->ctx, (size_t)rows, (size_t)n * sizeof *w) : NULL;
    if (!w) return tiny_ctx_status(s->ctx);
    memset(it->step, 0, all);
    for (e = 0; !st && e < matrices; e++) {
        const tllm_calib *c = tllm_watch_of(s->read.watch, it->t, e);
        float *x = c ? tinyi_scaled_inputs(s, it->t, e, c, &tokens) : NULL;
        if (!c) continue;                   /* an expert that no token came to */
        st = x ? tllm_folds_floats(s->ctx, s->folds, it->t, e * rows, rows, w) : tiny_ctx_status(s->ctx);
        if (!st) st = tllm_awq_clip(s->ctx, &s->d.awq, it->format, w, rows, n, x, tokens, it->step + (size_t)e * each);
        tiny_free(s->ctx, x);
    }
    for (i = 0; !st && i < all; i++) s->about.cut += it->step[i] > 0;
    s->about.groups += all;
    tiny_free(s->ctx, w);
    return st;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int tinyi_scaled_wants(void *user, const tllm_gguf_tensor *t)
{
    const tinyi_scaled_item *it = tinyi_scaled_find((const tllm_scaled *)user, t);
    return it && it->step;
}
static tiny_status tinyi_scaled_edit(void *user, const tllm_gguf_tensor *t, tiny_idx mat, float *w)
{
    const tllm_scaled *s = (const tllm_scaled *)user;
    const tinyi_scaled_item *it = tinyi_scaled_find(s, t);
    const tiny_idx rows = (tiny_idx)t->dim[1];
    if (!it || !it->step) return TINY_OK;
    return tllm_awq_cut(s->ctx, &s->d.awq, it->format, w, rows, (tiny_idx)t->dim[0],
                        it->step + (size_t)mat * (size_t)rows * (size_t)it->groups);
}
TINY_API tiny_status tllm_scaled_put(tiny_ctx *ctx, tllm_scaled *s, tllm_writer *w)
{
    tllm_folds_edit e;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!s || s->magic != TINYI_SCALED_MAGIC)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "scale: the model is NULL or closed");
    e.user = s;
    e.wants = tinyi_scaled_wants;
    e.edit = tinyi_scaled_edit;
    s->ctx = ctx;
    return tllm_folds_put(ctx, s->folds, w, &e);
}

/* statistics of items i to j - 1, and of what else their folds read */
static tiny_status tinyi_scaled_pick(tllm_scaled *s, size_t i, size_t j, uint32_t first, uint32_t last)
{
    const int flags = s->d.way == TLLM_SCALE_AWQ ? TLLM_CALIB_SAMPLES : 0;
    size_t k;
    int e;
    tiny_status st = TINY_OK;
    for (k = 0; !st && k < tllm_folds_n(s->folds); k++) {   /* routers first: what they see is what all experts see */
        const tllm_fold *f = tllm_fold_at(s->folds, k);
        if (f->layer < 0 || (uint32_t)f->layer < first || (uint32_t)f->layer > last || !(s->d.kinds & 1u << f->kind))
            continue;
        for (e = 0; !st && e < f->n_to; e++)
            if (!f->to[e].vector && f->to[e].t->rank > 1) st = tllm_watch_pick(s->read.watch, f->to[e].t, flags);
    }
    for (k = i; !st && k < j && flags; k++) st = tllm_watch_pick(s->read.watch, s->item[k].t, flags);
    return st;
}

static tiny_status tinyi_scaled_passes(tllm_scaled *s)
{
    const int flags = s->d.way == TLLM_SCALE_AWQ ? TLLM_CALIB_SAMPLES : 0;
    double all = 0.0;
    size_t i, j, k, of_layers = 0;
    tiny_status st = TINY_OK;
    while (of_layers < s->n && tinyi_reading_layer_of(s->item[of_layers].t->name) != UINT32_MAX)
        all += (double)s->item[of_layers++].t->bytes + 1.0;
    for (i = 0; !st && i < of_layers; i = j) {
        const uint32_t first = tinyi_reading_layer_of(s->item[i].t->name);
        uint32_t last = first;
        size_t room = 0;
        double part = 0.0;
        for (j = i; j < of_layers; j = k) { /* whole layers, as many as have room; one at least */
            const uint32_t layer = tinyi_reading_layer_of(s->item[j].t->name);
            size_t more = 0;
            for (k = j; k < of_layers && tinyi_reading_layer_of(s->item[k].t->name) == layer; k++)
                more += tllm_calib_memory((tiny_idx)s->item[k].t->dim[0], flags) *
                        (size_t)tinyi_reading_matrices(s->item[k].t);
            if (j > i && room + more > s->d.room) break;
            room += more;
            last = layer;
        }
        for (k = i; k < j; k++) part += (double)s->item[k].t->bytes + 1.0;
        s->read.part = part / all;
        st = tinyi_scaled_pick(s, i, j, first, last);
        if (!st) st = tinyi_reading_run(&s->read, 0, 0.5);
        for (k = 0; !st && k < tllm_folds_n(s->folds); k++) {
            const tllm_fold *f = tllm_fold_at(s->folds, k);
            if (f->layer < 0 || (uint32_t)f->layer < first || (uint32_t)f->layer > last ||
                !(s->d.kinds & 1u << f->kind))
                continue;
            st = tinyi_scaled_fold(s, k);
            tinyi_reading_told(&s->read,
                               0.5 + 0.3 * (double)((uint32_t)f->layer - first + 1) / (double)(last - first + 1));
        }
        for (k = i; !st && k < j && flags && !s->d.no_clip; k++) {
            st = tinyi_scaled_clip(s, &s->item[k]);
            tinyi_reading_told(&s->read, 0.8 + 0.2 * (double)(k + 1 - i) / (double)(j - i));
        }
        s->read.done += s->read.part;
        tllm_watch_forget(s->read.watch);
    }
    if (s->about.folds) s->about.alpha /= (double)s->about.folds;
    return st;
}

static tiny_status tinyi_scaled_check(tllm_scaled *s, const tllm_scaled_tensor *list)
{
    const char *why;
    size_t i;
    int any = 0;
    for (i = 0; i < s->n; i++) {
        const tllm_gguf_tensor *t = list[i].t;
        const tllm_format *f = tllm_format_of(list[i].format);
        if (!t || t->rank < 2 || !tinyi_reading_matrices(t) || t->dim[0] > INT32_MAX || t->dim[1] > INT32_MAX)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: entry %zu of the list is not a readable matrix",
                              s->read.what, i);
        if (list[i].format && (!f || !tllm_format_bytes(f, t->dim[0])))
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                              "%s: %.*s has rows of %llu numbers, which are not whole blocks of %s", s->read.what,
                              (int)TINYI_MIN(t->name.n, (size_t)200), t->name.at, (unsigned long long)t->dim[0],
                              f ? f->name : "any format");
    }
    for (i = 0; i < tllm_folds_n(s->folds); i++) any |= (int)(s->d.kinds >> tllm_fold_at(s->folds, i)->kind & 1u);
    if (any) return TINY_OK;
    why = tllm_fold_why(s->folds, s->read.about.n_layer > 0 ? 0 : -1, TLLM_FOLD_MIX);
    return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s: %s has no fold to scale; the reason for its first layer: %s",
                      s->read.what, s->read.about.arch, why ? why : "its folds are of other kinds");
}

TINY_API tiny_status tllm_scaled_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_scaled_desc *desc,
                                      const int32_t *token, tiny_idx n_token, const tllm_scaled_tensor *list, size_t n,
                                      tllm_scaled **out)
{
    tllm_scaled *s;
    uint32_t *order = NULL, *key = NULL;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!file || !out || !token || n_token < 1 || !list || !n || n > UINT32_MAX)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "scale: a file, at least one token of text, at least one matrix and a result pointer are needed");
    if (desc && (desc->way < TLLM_SCALE_AWQ || desc->way > TLLM_SCALE_SMOOTH))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "scale: way %d; there are AWQ (0) and SmoothQuant (1)", desc->way);
    if (desc && desc->way == TLLM_SCALE_SMOOTH && !(desc->alpha >= 0.0f && desc->alpha <= 1.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "smooth: alpha is %g; the limits are 0 and 1", (double)desc->alpha);
    s = (tllm_scaled *)tinyi_alloc(ctx, 1, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->magic = TINYI_SCALED_MAGIC;
    s->ctx = ctx;
    s->n = n;
    if (desc) s->d = *desc;
    if (!s->d.room) s->d.room = (size_t)1 << 30;
    if (!s->d.kinds)
        s->d.kinds = 1u << TLLM_FOLD_MIX | 1u << TLLM_FOLD_FEED |
                     (s->d.way == TLLM_SCALE_AWQ ? 1u << TLLM_FOLD_VALUE | 1u << TLLM_FOLD_DOWN : 0u);
    s->read.what = s->d.way == TLLM_SCALE_AWQ ? "awq" : "smooth";
    s->read.ctx = ctx;
    s->read.token = token;
    s->read.n_token = n_token;
    s->read.window = s->d.window;
    st = tllm_folds_open(ctx, file, &s->folds);
    if (!st) st = tinyi_reading_open(&s->read, file);
    if (!st) st = tinyi_scaled_check(s, list);
    if (!st) {
        s->item = (tinyi_scaled_item *)tinyi_alloc(ctx, n, sizeof *s->item);
        if (s->item) {
            memset(s->item, 0, n * sizeof *s->item);
            order = (uint32_t *)tinyi_alloc(ctx, n, sizeof *order);
        }
        if (order) key = (uint32_t *)tinyi_alloc(ctx, n, sizeof *key);
        if (!key) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        tinyi_reading_order(&list->t, sizeof *list, n, order, key);
        for (i = 0; i < n; i++) {
            s->item[i].t = list[order[i]].t;
            s->item[i].format = list[order[i]].format;
        }
        st = tinyi_scaled_passes(s);
    }
    tiny_free(ctx, key);
    tiny_free(ctx, order);
    tinyi_reading_close(&s->read);
    memset(&s->read, 0, sizeof s->read);
    if (st) tllm_scaled_close(ctx, s);
    else *out = s;
    return st;
}

TINY_API void tllm_scaled_close(tiny_ctx *ctx, tllm_scaled *s)
{
    size_t i;
    if (!s || s->magic != TINYI_SCALED_MAGIC || tinyi_ctx_check(ctx)) return;
    s->magic = 0;
    for (i = 0; s->item && i < s->n; i++) tiny_free(ctx, s->item[i].step);
    tiny_free(ctx, s->item);
    tllm_folds_close(ctx, s->folds);
    tiny_free(ctx, s);
}

TINY_API tllm_scaled_about tllm_scaled_what(const tllm_scaled *s)
{
    tllm_scaled_about none;
    memset(&none, 0, sizeof none);
    return s ? s->about : none;
}
TINY_API tllm_folds *tllm_scaled_folds(tllm_scaled *s) { return s ? s->folds : NULL; }

