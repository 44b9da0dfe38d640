/* src/llm/model/load.c - reading a model file: numbers with their limits, tensors with their shapes */
#include "llm/model/model_inside.h"
#include <stdio.h>
#include <string.h>

/* memory that lives as long as the model: a chain of blocks, so that hundreds of small vectors cost few allocations */
typedef struct tinyi_lm_block { struct tinyi_lm_block *next; size_t used, size; } tinyi_lm_block;
#define TINYI_LM_BLOCK_HEAD 64
#define TINYI_LM_BLOCK 16384

static const char *const tinyi_lm_names[] = {
#define TINYI_LM_TENSOR_NAME(name, text) text,
    TINYI_LM_TENSORS(TINYI_LM_TENSOR_NAME)
#undef TINYI_LM_TENSOR_NAME
};

TINYI_FN void *tinyi_lm_keep(tinyi_lm_load *ld, size_t n, size_t bytes_each)
{
    size_t bytes;
    tinyi_lm_block *b = ld->m->blocks;
    unsigned char *p;
    if (ld->st) return NULL;
    if (!tinyi_size_mul(n, bytes_each, &bytes) || bytes > SIZE_MAX - 2 * TINYI_LM_BLOCK) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_OVERFLOW, "%s: %zu times %zu bytes are more than this machine can address",
                            ld->m->path, n, bytes_each);
        return NULL;
    }
    bytes = (bytes + 63) & ~(size_t)63;
    if (!b || b->size - b->used < bytes) {
        const int large = bytes > TINYI_LM_BLOCK / 4;
        const size_t size = large ? bytes : TINYI_LM_BLOCK;
        tinyi_lm_block *fresh = (tinyi_lm_block *)tinyi_alloc(ld->ctx, 1, TINYI_LM_BLOCK_HEAD + size);
        if (!fresh) { ld->st = tiny_ctx_status(ld->ctx); return NULL; }
        fresh->size = size;
        fresh->used = 0;
        if (large && b) { fresh->next = b->next; b->next = fresh; }     /* the half-full one stays in front */
        else { fresh->next = b; ld->m->blocks = fresh; }
        b = fresh;
    }
    p = (unsigned char *)b + TINYI_LM_BLOCK_HEAD + b->used;
    b->used += bytes;
    return memset(p, 0, bytes);
}

TINYI_FN void tinyi_lm_blocks_free(tiny_ctx *ctx, struct tinyi_lm_block *b)
{
    while (b) {
        struct tinyi_lm_block *next = b->next;
        tiny_free(ctx, b);
        b = next;
    }
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

TINYI_FN const tllm_meta *tinyi_lm_meta(tinyi_lm_load *ld, const char *key)
{
    char full[160];
    (void)snprintf(full, sizeof full, "%s%s.%s", ld->m->prefix, TINYI_LM_ARCH(ld->m)->name, key);
    return tllm_gguf_find(ld->g, full);
}

TINYI_FN tiny_idx tinyi_lm_count(tinyi_lm_load *ld, const char *key, tiny_idx i, tiny_idx missing, tiny_idx least,
                                 tiny_idx most)
{
    const tllm_meta *m = tinyi_lm_meta(ld, key);
    int64_t v = 0;
    if (ld->st) return least;
    if (!m) {
        if (missing >= 0) return missing;
        ld->st =
            tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s is missing", ld->m->path, TINYI_LM_ARCH(ld->m)->name, key);
        return least;
    }
    if (m->type == TLLM_ARRAY) {
        if (i < 0 || (size_t)i >= m->count) {
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s has %zu items, none for layer %td", ld->m->path,
                                TINYI_LM_ARCH(ld->m)->name, key, m->count, i);
            return least;
        }
    } else i = 0;
    if (!tllm_meta_i64(m, (size_t)i, &v)) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s is %s, not a whole number", ld->m->path,
                            TINYI_LM_ARCH(ld->m)->name, key, tllm_value_name(m->item_type));
        return least;
    }
    if (v < (int64_t)least || v > (int64_t)most) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s is %lld, not in %td..%td", ld->m->path,
                            TINYI_LM_ARCH(ld->m)->name, key, (long long)v, least, most);
        return least;
    }
    return (tiny_idx)v;
}

TINYI_FN float tinyi_lm_real_at(tinyi_lm_load *ld, const char *key, tiny_idx i, float missing)
{
    const tllm_meta *m = tinyi_lm_meta(ld, key);
    double v = 0;
    if (ld->st) return missing;
    if (!m) return missing;
    if (m->type != TLLM_ARRAY) i = 0;
    if ((size_t)i >= m->count && m->type == TLLM_ARRAY && i > 0) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s has %zu items, none for layer %td", ld->m->path,
                            TINYI_LM_ARCH(ld->m)->name, key, m->count, i);
        return missing;
    }
    if (!tllm_meta_f64(m, (size_t)i, &v) || !(v - v == 0.0) || v > 1e30 || v < -1e30) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s is not a finite number", ld->m->path,
                            TINYI_LM_ARCH(ld->m)->name, key);
        return missing;
    }
    return (float)v;
}
TINYI_FN float tinyi_lm_real(tinyi_lm_load *ld, const char *key, float missing)
{
    return tinyi_lm_real_at(ld, key, 0, missing);
}

TINYI_FN int tinyi_lm_bool(tinyi_lm_load *ld, const char *key, tiny_idx i, int missing)
{
    const tllm_meta *m = tinyi_lm_meta(ld, key);
    int v = missing;
    if (ld->st || !m) return missing;
    if (!tllm_meta_bool(m, m->type == TLLM_ARRAY && i > 0 ? (size_t)i : 0, &v))
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s has no bool for layer %td", ld->m->path,
                            TINYI_LM_ARCH(ld->m)->name, key, i < 0 ? 0 : i);
    return v;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

static void tinyi_lm_name(char full[128], const tinyi_lm_load *ld, const tinyi_lm_layer *l, int t, const char *suffix)
{
    if (l->i < 0) (void)snprintf(full, 128, "%s%s%s", ld->part, tinyi_lm_names[t], suffix);
    /* not %td, which the printf of small C libraries (newlib) does not know */
    else (void)snprintf(full, 128, "%sblk.%ld.%s%s", ld->part, (long)l->i, tinyi_lm_names[t], suffix);
}

TINYI_FN const tllm_gguf_tensor *tinyi_lm_find(tinyi_lm_load *ld, const tinyi_lm_layer *l, int t, const char *suffix)
{
    char full[128];
    const tllm_gguf_tensor *found;
    if (ld->st) return NULL;
    tinyi_lm_name(full, ld, l, t, suffix ? suffix : ".weight");
    found = tllm_gguf_tensor_find(ld->g, full);
    if (found || suffix) return found;
    tinyi_lm_name(full, ld, l, t, "");
    return tllm_gguf_tensor_find(ld->g, full);
}

static void tinyi_lm_missing(tinyi_lm_load *ld, const tinyi_lm_layer *l, int t, const char *suffix)
{
    char full[128];
    tinyi_lm_name(full, ld, l, t, suffix);
    if (!ld->st) ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor %s is missing", ld->m->path, full);
}

static void tinyi_lm_dims_text(const tllm_gguf_tensor *t, char text[120])
{
    int i;
    size_t at = 0;
    text[0] = 0;
    for (i = 0; i < t->rank && at < 100; i++)
        at += (size_t)snprintf(text + at, 120 - at, "%s%llu", i ? "x" : "", (unsigned long long)t->dim[i]);
}

static void tinyi_lm_wrong(tinyi_lm_load *ld, const tllm_gguf_tensor *t, const char *want)
{
    char have[120];
    tinyi_lm_dims_text(t, have);
    if (!ld->st)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor %.*s is %s, not %s", ld->m->path,
                            (int)TINYI_MIN(t->name.n, 80), t->name.at, have, want);
}

/* numbers of a tensor as floats */
static const float *tinyi_lm_floats(tinyi_lm_load *ld, const tllm_gguf_tensor *t, tiny_idx count)
{
    const tllm_format *format = tllm_format_of(t->type);
    uint64_t n = 1;
    int i;
    float *v;
    char want[60];
    if (ld->st) return NULL;
    for (i = 0; i < t->rank; i++) n *= t->dim[i];           /* the reader has checked that this fits */
    if (n != (uint64_t)count) {
        (void)snprintf(want, sizeof want, "%td numbers", count);
        tinyi_lm_wrong(ld, t, want);
        return NULL;
    }
    if (!format || tllm_format_bytes(format, n) != t->bytes || (format->flags & TLLM_FORMAT_ACTIVATIONS)) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor %.*s has type %s, which models do not support",
                            ld->m->path, (int)TINYI_MIN(t->name.n, 80), t->name.at, tllm_type_name(t->type));
        return NULL;
    }
    v = (float *)tinyi_lm_keep(ld, (size_t)count, sizeof *v);
    if (!v) return NULL;
    format->unpack(t->data, v, (size_t)count);
    ld->m->n_params += (double)count;
    return v;
}

/* a weight that is a row of count floats, of a tensor of the file */
static tinyi_lm_w *tinyi_lm_row(tinyi_lm_load *ld, const tllm_gguf_tensor *found, tiny_idx count)
{
    tinyi_lm_w *w = (tinyi_lm_w *)tinyi_lm_keep(ld, 1, sizeof *w);
    if (!w) return NULL;
    w->t = found;
    w->n_in = count;
    w->n_out = w->n_mat = 1;
    w->dtype = -1;
    w->v = tinyi_lm_floats(ld, found, count);
    return ld->st ? NULL : w;
}

static tinyi_lm_w *tinyi_lm_vec_of(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx count, int needed)
{
    const tllm_gguf_tensor *found = tinyi_lm_find(ld, l, t, NULL), *bias;
    tinyi_lm_w *w;
    if (ld->st) return NULL;
    if (!found) {
        if (needed) tinyi_lm_missing(ld, l, t, ".weight");
        return NULL;
    }
    w = tinyi_lm_row(ld, found, count);
    if (!w) return NULL;
    bias = tinyi_lm_find(ld, l, t, ".bias");
    if (bias)
        w->bias = tinyi_lm_floats(ld, bias,
                                  t == TINYI_T_SSM_CONV && found->dim[0] > 0 ? count / (tiny_idx)found->dim[0] : count);
    bias = tinyi_lm_find(ld, l, t, ".scale");
    if (bias) {
        w->n_scale = (tiny_idx)bias->dim[0];
        w->scale = tinyi_lm_floats(ld, bias, w->n_scale);
    }
    if (!ld->st) l->w[t] = w;
    return ld->st ? NULL : w;
}

TINYI_FN const tinyi_lm_w *tinyi_lm_vec(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx count)
{
    return tinyi_lm_vec_of(ld, l, t, count, 1);
}
TINYI_FN const tinyi_lm_w *tinyi_lm_may_vec(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx count)
{
    return tinyi_lm_vec_of(ld, l, t, count, 0);
}

TINYI_FN const tinyi_lm_w *tinyi_lm_bias(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx count, int needed)
{
    const tllm_gguf_tensor *found = tinyi_lm_find(ld, l, t, ".bias");
    tinyi_lm_w *w;
    if (ld->st) return NULL;
    if (!found) {
        if (needed) tinyi_lm_missing(ld, l, t, ".bias");
        return NULL;
    }
    w = tinyi_lm_row(ld, found, count);
    if (w) l->w[t] = w;
    return w;
}

static int tinyi_lm_little_endian(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 1;
}

TINYI_FN int tinyi_lm_in_place(const tllm_format *t)
{
    return tinyi_lm_little_endian() &&
           (t->id == TLLM_FORMAT_F32 || t->id == TLLM_FORMAT_F16 || t->id == TLLM_FORMAT_BF16);
}

static const tinyi_lm_w *tinyi_lm_matrix(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx n_in, tiny_idx n_out,
                                         tiny_idx n_mat, int needed)
{
    const tllm_gguf_tensor *found = tinyi_lm_find(ld, l, t, NULL), *side;
    tinyi_lm_w *w;
    char want[100];
    size_t row;
    int i, ok;
    if (ld->st) return NULL;
    if (!found) {
        if (needed) tinyi_lm_missing(ld, l, t, ".weight");
        return NULL;
    }
    if (n_in <= 0 || n_out <= 0 || n_mat < 0) {
        if (n_mat) (void)snprintf(want, sizeof want, "%tdx%tdx%td", n_in, n_out, n_mat);
        else (void)snprintf(want, sizeof want, "%tdx%td", n_in, n_out);
        tinyi_lm_wrong(ld, found, want);
        return NULL;
    }
    ok = found->dim[0] == (uint64_t)n_in;
    if (n_mat) ok = ok && found->rank == 3 && found->dim[1] == (uint64_t)n_out && found->dim[2] == (uint64_t)n_mat;
    else {                                  /* one more axis of 1 is harmless */
        ok = ok && (found->rank > 1 ? found->dim[1] : 1) == (uint64_t)n_out;
        for (i = 2; i < found->rank; i++) ok = ok && found->dim[i] == 1;
    }
    if (!ok) {
        if (n_mat) (void)snprintf(want, sizeof want, "%tdx%tdx%td", n_in, n_out, n_mat);
        else (void)snprintf(want, sizeof want, "%tdx%td", n_in, n_out);
        tinyi_lm_wrong(ld, found, want);
        return NULL;
    }
    w = (tinyi_lm_w *)tinyi_lm_keep(ld, 1, sizeof *w);
    if (!w) return NULL;
    w->t = found;
    w->format = tllm_format_of(found->type);
    w->n_in = n_in;
    w->n_out = n_out;
    w->n_mat = n_mat ? n_mat : 1;
    row = tllm_format_bytes(w->format, (uint64_t)n_in);
    if (!w->format || !row || !w->format->unpack || (w->format->flags & TLLM_FORMAT_ACTIVATIONS)) {
        ld->st = tinyi_fail(
            ld->ctx, TINY_E_FORMAT,
            "%s: tensor %.*s has type %s, which matrices cannot have, or its rows of %td values are not whole blocks",
            ld->m->path, (int)TINYI_MIN(found->name.n, 80), found->name.at, tllm_type_name(found->type), n_in);
        return NULL;
    }
    if (row > found->bytes / (size_t)w->n_mat / (size_t)n_out) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor %.*s has %zu bytes, but its %td rows need %zu each",
                            ld->m->path, (int)TINYI_MIN(found->name.n, 80), found->name.at, found->bytes,
                            n_out * w->n_mat, row);
        return NULL;
    }
    w->row_bytes = w->row_step = row;
    w->dtype = -1;
    if (tinyi_lm_little_endian()) {
        if (found->type == TLLM_FORMAT_F32 && !((uintptr_t)found->data & 3)) w->dtype = TINY_F32;
        if (found->type == TLLM_FORMAT_F16 && !((uintptr_t)found->data & 1)) w->dtype = TINY_F16;
        if (found->type == TLLM_FORMAT_BF16 && !((uintptr_t)found->data & 1)) w->dtype = TINY_BF16;
    }
    ld->m->n_params += (double)n_in * (double)n_out * (double)w->n_mat;
    side = tinyi_lm_find(ld, l, t, ".bias");
    if (side) w->bias = tinyi_lm_floats(ld, side, n_out * w->n_mat);
    side = tinyi_lm_find(ld, l, t, ".scale");
    if (side) {
        w->n_scale = side->rank == 1 && side->dim[0] == (uint64_t)w->n_mat ? w->n_mat : 1;
        if (t == TINYI_T_ROUTER) w->n_scale = n_in;         /* gemma4: of the input of the router */
        w->scale = tinyi_lm_floats(ld, side, w->n_scale);
    }
    if (!ld->st) l->w[t] = w;
    return ld->st ? NULL : w;
}

TINYI_FN const tinyi_lm_w *tinyi_lm_need(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx n_in, tiny_idx n_out,
                                         tiny_idx n_mat)
{
    return tinyi_lm_matrix(ld, l, t, n_in, n_out, n_mat, 1);
}
TINYI_FN const tinyi_lm_w *tinyi_lm_may(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx n_in, tiny_idx n_out,
                                        tiny_idx n_mat)
{
    return tinyi_lm_matrix(ld, l, t, n_in, n_out, n_mat, 0);
}

TINYI_FN tiny_idx tinyi_lm_width(tinyi_lm_load *ld, const tinyi_lm_layer *l, int t)
{
    const tllm_gguf_tensor *found = tinyi_lm_find(ld, l, t, NULL);
    return found && found->rank > 1 && found->dim[1] <= (uint64_t)TINY_IDX_MAX / 4 ? (tiny_idx)found->dim[1] : 0;
}

TINYI_FN void tinyi_lm_disagree(tinyi_lm_load *ld, const tinyi_lm_layer *l, const char *what, tiny_idx a, tiny_idx b)
{
    if (!ld->st)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: layer %td: %s: %td and %td", ld->m->path, l->i, what, a, b);
}

TINYI_FN int tinyi_lm_small(tinyi_lm_load *ld, const tinyi_lm_layer *l, tiny_idx a, tiny_idx b)
{
    if (ld->st) return 0;
    if (a >= 0 && b >= 0 && (b == 0 || a <= ((tiny_idx)1 << 28) / b)) return 1;
    ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: layer %td: %td times %td numbers are more than a row may have",
                        ld->m->path, l->i, a, b);
    return 0;
}
