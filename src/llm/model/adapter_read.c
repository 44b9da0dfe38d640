/* src/llm/model/adapter_read.c - LoRA adapters and control vectors from GGUF files
 * File     LoRA: general.type "adapter", adapter.type "lora", general.architecture that of the model,
 *          adapter.lora.alpha; for a tensor NAME of n_in x n_out values NAME.lora_a of n_in x r and NAME.lora_b of r x
 *          n_out, experts as third axis; for token_embd.weight (n_embd x n_vocab) a row of r for each token in lora_a,
 *          r x n_embd in lora_b. Without alpha, or with 0, the scale is 1, as in other readers.
 *          Vector: general.architecture "controlvector", tensors direction.N of n_embd values, N from 1. */
#include "llm/model/model_inside.h"
#include "llm/model/adapter.h"
#include "llm/model/adapter_read_inside.h"
#include "llm/file/store_inside.h"
#include <stdio.h>
#include <string.h>

typedef struct tinyi_adapter_load {
    tiny_ctx *ctx;
    const tllm_gguf *g;
    const char *path;
    tllm_adapter *a;
    tiny_status st;
} tinyi_adapter_load;

static void tinyi_adapter_dims(const tllm_gguf_tensor *t, char text[120])
{
    int i;
    size_t at = 0;
    text[0] = 0;
    for (i = 0; i < t->rank && at < 100; i++)
        at += (size_t)snprintf(text + at, 120 - at, "%s%llu", i ? "x" : "", (unsigned long long)t->dim[i]);
}

static int tinyi_adapter_is(const tllm_gguf_tensor *t, tiny_idx d0, tiny_idx d1, tiny_idx d2)
{
    int i;
    for (i = 3; i < t->rank; i++) if (t->dim[i] != 1) return 0;
    return t->dim[0] == (uint64_t)d0 && (t->rank > 1 ? t->dim[1] : 1) == (uint64_t)d1 &&
           (t->rank > 2 ? t->dim[2] : 1) == (uint64_t)d2;
}

static int tinyi_adapter_readable(tinyi_adapter_load *ld, const tllm_gguf_tensor *t)
{
    const tllm_format *format = tllm_format_of(t->type);
    const size_t row = tllm_format_bytes(format, t->dim[0]);
    char name[TINYI_SHOW];
    uint64_t n = 1;
    int i;
    for (i = 1; i < t->rank; i++) n *= t->dim[i];           /* the reader has checked that this fits */
    if (row && format->unpack && !(format->flags & TLLM_FORMAT_ACTIVATIONS) && row <= t->bytes / n) return 1;
    ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                        "%s: tensor %s has type %s, which adapters do not support, or its rows of %llu values are not "
                        "whole blocks",
                        ld->path, tinyi_show(t->name, name), tllm_type_name(t->type), (unsigned long long)t->dim[0]);
    return 0;
}

/* Do A and B fit w? Leaves the rank. */
static void tinyi_adapter_pair(tinyi_adapter_load *ld, tinyi_lm_pair *p, const tinyi_lm_w *w,
                               const tllm_gguf_tensor *ta, const tllm_gguf_tensor *tb, int embd)
{
    char name[TINYI_SHOW], has_a[120], has_b[120];
    const uint64_t r = tb->dim[0];
    tiny_idx rank;
    int fits;
    if (ld->st) return;
    (void)tinyi_show(w->t->name, name);
    if (!w->format || w->v) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                            "%s: tensor %s of the model is not a matrix of a product: it takes no adapter",
                            ld->path, name);
        return;
    }
    if (w->scale) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                            "%s: tensor %s of the model has a separate scale: it takes no adapter", ld->path, name);
        return;
    }
    rank = r >= 1 && r <= (uint64_t)TINYI_LM_MOST ? (tiny_idx)r : 0;
    if (embd) fits = rank && tinyi_adapter_is(ta, rank, w->n_out, 1) && tinyi_adapter_is(tb, rank, w->n_in, 1);
    else fits = rank && tinyi_adapter_is(ta, w->n_in, rank, w->n_mat) && tinyi_adapter_is(tb, rank, w->n_out, w->n_mat);
    if (!fits) {
        tinyi_adapter_dims(ta, has_a);
        tinyi_adapter_dims(tb, has_b);
        if (embd)
            ld->st = tinyi_fail(ld->ctx, TINY_E_SHAPE,
                                "%s: tensor %s: lora_a is %s and lora_b %s; rank x %td and rank x %td are needed",
                                ld->path, name, has_a, has_b, w->n_out, w->n_in);
        else
            ld->st =
                tinyi_fail(ld->ctx, TINY_E_SHAPE,
                           "%s: tensor %s: lora_a is %s and lora_b %s; %td x rank and rank x %td are needed%s",
                           ld->path, name, has_a, has_b, w->n_in, w->n_out, w->n_mat > 1 ? ", for each expert" : "");
        return;
    }
    if (!tinyi_adapter_readable(ld, ta) || !tinyi_adapter_readable(ld, tb)) return;
    p->w = w;
    p->from_a = ta;
    p->from_b = tb;
    p->r = rank;
    if (rank > ld->a->rank) ld->a->rank = rank;
}

static const tllm_gguf_tensor *tinyi_adapter_find(const tllm_gguf *g, tllm_text name, const char *suffix)
{
    char full[200];
    if (name.n > 180) return NULL;          /* no name in the table is that long */
    (void)snprintf(full, sizeof full, "%.*s%s", (int)name.n, name.at, suffix);
    return tllm_gguf_tensor_find(g, full);
}

/* The matrices of one layer (or of the model itself) that the file names: only counted with pair NULL. */
static void tinyi_adapter_layer(tinyi_adapter_load *ld, const tinyi_lm_layer *l, tinyi_lm_pair *pair)
{
    const tllm_model *m = ld->a->m;
    int t;
    for (t = 0; t < TINYI_T_COUNT && !ld->st; t++) {
        const tinyi_lm_w *w = l->w[t];
        const tllm_gguf_tensor *ta, *tb;
        /* rows of these are looked up, not multiplied with; an output that is the embedding is left alone */
        const int rows =
            l == &m->top && (t == TINYI_T_TOKEN_TYPES || t == TINYI_T_POSITION_EMBD || t == TINYI_T_PLE_EMBD);
        if (!w || !w->t || rows) continue;
        ta = tinyi_adapter_find(ld->g, w->t->name, ".lora_a");
        tb = tinyi_adapter_find(ld->g, w->t->name, ".lora_b");
        if (!ta || !tb) continue;           /* one alone is found afterwards */
        if (l == &m->top && t == TINYI_T_TOKEN_EMBD) tinyi_adapter_pair(ld, &ld->a->embd, w, ta, tb, 1);
        else {
            if (pair) tinyi_adapter_pair(ld, &pair[ld->a->n], w, ta, tb, 0);
            if (!ld->st) ld->a->n++;
        }
    }
}

static void tinyi_adapter_all(tinyi_adapter_load *ld, tinyi_lm_pair *pair)
{
    const tllm_model *m = ld->a->m;
    tiny_idx i;
    ld->a->n = 0;
    tinyi_adapter_layer(ld, &m->top, pair);
    for (i = 0; i < m->n_once; i++) tinyi_adapter_layer(ld, &m->layer[i], pair);
    for (i = 0; i < m->n_enc; i++) tinyi_adapter_layer(ld, &m->enc[i], pair);
}

/* Every tensor of the file must be of use. */
static void tinyi_adapter_rest(tinyi_adapter_load *ld)
{
    size_t i, k, n = tllm_gguf_n_tensors(ld->g);
    char name[TINYI_SHOW], base[TINYI_SHOW];
    if (!n && !ld->st) ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: the adapter has no tensors", ld->path);
    for (i = 0; i < n && !ld->st; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(ld->g, i);
        tllm_text whole = t->name;
        const int is_a = whole.n > 7 && !memcmp(whole.at + whole.n - 7, ".lora_a", 7),
                  is_b = whole.n > 7 && !memcmp(whole.at + whole.n - 7, ".lora_b", 7);
        (void)tinyi_show(t->name, name);
        if (!is_a && !is_b) {
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                                "%s: tensor %s is neither the lora_a nor the lora_b of a tensor", ld->path, name);
            return;
        }
        whole.n -= 7;
        (void)tinyi_show(whole, base);
        if (!tinyi_adapter_find(ld->a->m->file, whole, ""))
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor %s: the model %s has no tensor %s", ld->path, name,
                                ld->a->m->path, base);
        else if (!tinyi_adapter_find(ld->g, whole, is_a ? ".lora_b" : ".lora_a"))
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor %s has no matching %s", ld->path, name,
                                is_a ? "lora_b" : "lora_a");
        else {
            if (t == ld->a->embd.from_a || t == ld->a->embd.from_b) continue;
            for (k = 0; k < ld->a->n && t != ld->a->pair[k].from_a && t != ld->a->pair[k].from_b; k++) {}
            if (k == ld->a->n)
                ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                                    "%s: tensor %s: the model computes no product with %s: it takes no adapter",
                                    ld->path, name, base);
        }
    }
}

static const float *tinyi_adapter_floats(const tllm_gguf_tensor *t, float **at)
{
    const tllm_format *format = tllm_format_of(t->type);
    const size_t row = tllm_format_bytes(format, t->dim[0]);
    const float *first = *at;
    uint64_t n = 1, i;
    int d;
    for (d = 1; d < t->rank; d++) n *= t->dim[d];
    for (i = 0; i < n; i++, *at += t->dim[0]) format->unpack(t->data + (size_t)i * row, *at, (size_t)t->dim[0]);
    return first;
}

static int tinyi_adapter_count(const tllm_gguf_tensor *t, size_t *floats)
{
    uint64_t n = 1;
    int d;
    for (d = 0; d < t->rank; d++) n *= t->dim[d];           /* the reader has checked that this fits */
    return n <= SIZE_MAX && tinyi_size_add(*floats, (size_t)n, floats);
}

static void tinyi_adapter_lora(tinyi_adapter_load *ld)
{
    tllm_adapter *a = ld->a;
    size_t floats = 0, i, j;
    float *at;
    int ok = 1;
    double alpha = 0.0;
    const tllm_meta *m = tllm_gguf_find(ld->g, "adapter.lora.alpha");
    if (m && (!tllm_meta_f64(m, 0, &alpha) || !(alpha - alpha == 0.0) || alpha > 1e30 || alpha < -1e30)) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: adapter.lora.alpha is not a finite number", ld->path);
        return;
    }
    if (tllm_gguf_find(ld->g, "adapter.alora.invocation_tokens")) {
        ld->st = tinyi_fail(
            ld->ctx, TINY_E_UNSUPPORTED,
            "%s: adapter.alora.invocation_tokens: adapters that start at a given token are not supported", ld->path);
        return;
    }
    a->scale_of = (float)alpha;
    tinyi_adapter_all(ld, NULL);
    if (ld->st) return;
    a->pair = (tinyi_lm_pair *)tinyi_alloc(ld->ctx, a->n, sizeof *a->pair);
    if (!a->pair) {
        ld->st = tiny_ctx_status(ld->ctx);
        return;
    }
    if (a->n) memset(a->pair, 0, a->n * sizeof *a->pair);
    tinyi_adapter_all(ld, a->pair);
    tinyi_adapter_rest(ld);
    if (ld->st) return;
    for (i = 0; i < a->n && ok; i++)
        ok = tinyi_adapter_count(a->pair[i].from_a, &floats) && tinyi_adapter_count(a->pair[i].from_b, &floats);
    if (a->embd.w)
        ok = ok && tinyi_adapter_count(a->embd.from_a, &floats) && tinyi_adapter_count(a->embd.from_b, &floats);
    if (!ok) {
        ld->st =
            tinyi_fail(ld->ctx, TINY_E_OVERFLOW, "%s: its numbers are more than this machine can address", ld->path);
        return;
    }
    at = a->data = (float *)tinyi_alloc(ld->ctx, floats, sizeof *a->data);
    if (!at) {
        ld->st = tiny_ctx_status(ld->ctx);
        return;
    }
    for (i = 0; i < a->n; i++) {
        a->pair[i].a = tinyi_adapter_floats(a->pair[i].from_a, &at);
        a->pair[i].b = tinyi_adapter_floats(a->pair[i].from_b, &at);
        a->pair[i].from_a = a->pair[i].from_b = NULL;       /* the file may be closed */
    }
    if (a->embd.w) {
        a->embd.a = tinyi_adapter_floats(a->embd.from_a, &at);
        a->embd.b = tinyi_adapter_floats(a->embd.from_b, &at);
        a->embd.from_a = a->embd.from_b = NULL;
    }
    a->n_params = (double)floats;
    a->n_floats = floats;
    /* by address: weights are taken one after the other, so that little moves */
    for (i = 1; i < a->n; i++)
        for (j = i; j > 0 && (uintptr_t)a->pair[j - 1].w > (uintptr_t)a->pair[j].w; j--) {
            const tinyi_lm_pair p = a->pair[j];
            a->pair[j] = a->pair[j - 1];
            a->pair[j - 1] = p;
        }
}

/* direction.N: N, or -1 */
static tiny_idx tinyi_adapter_number(tllm_text name)
{
    tiny_idx n = 0;
    size_t i;
    if (name.n < 11 || name.n > 16 || memcmp(name.at, "direction.", 10) || (name.at[10] == '0' && name.n > 11))
        return -1;
    for (i = 10; i < name.n; i++) {
        if (name.at[i] < '0' || name.at[i] > '9') return -1;
        n = n * 10 + (name.at[i] - '0');
    }
    return n;
}

static void tinyi_adapter_vector(tinyi_adapter_load *ld)
{
    tllm_adapter *a = ld->a;
    const tllm_model *m = a->m;
    const size_t n = tllm_gguf_n_tensors(ld->g);
    char name[TINYI_SHOW], dims[120];
    tllm_text hint;
    size_t i, floats;
    float *at;
    if (m->n_enc || TINYI_LM_ARCH(m)->block == TINYI_LM_ALTUP) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED, "%s: models of architecture %s take no control vector",
                            ld->path, TINYI_LM_ARCH(m)->name);
        return;
    }
    if (!n) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: the control vector has no tensors", ld->path);
        return;
    }
    for (i = 0; i < n && !ld->st; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(ld->g, i);
        const tiny_idx layer = tinyi_adapter_number(t->name);
        (void)tinyi_show(t->name, name);
        if (layer < 1)
            ld->st =
                tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor %s is not a direction.N with N from 1", ld->path, name);
        else if (layer >= m->n_layer)
            ld->st = tinyi_fail(ld->ctx, TINY_E_SHAPE,
                                "%s: tensor %s is for a layer that the model does not have: its last is %td", ld->path,
                                name, m->n_layer - 1);
        else if (!tinyi_adapter_is(t, m->n_embd, 1, 1)) {
            tinyi_adapter_dims(t, dims);
            ld->st = tinyi_fail(ld->ctx, TINY_E_SHAPE, "%s: tensor %s is %s, but the model is %td wide", ld->path, name,
                                dims, m->n_embd);
        } else (void)tinyi_adapter_readable(ld, t);
    }
    if (ld->st) return;
    /* names are unique in a file, so there are fewer of them than layers */
    a->direction = (const float **)tinyi_alloc(ld->ctx, (size_t)m->n_layer, sizeof *a->direction);
    floats = n * (size_t)m->n_embd;
    at = a->data = a->direction ? (float *)tinyi_alloc(ld->ctx, floats, sizeof *a->data) : NULL;
    if (!at) {
        ld->st = tiny_ctx_status(ld->ctx);
        return;
    }
    memset((void *)(uintptr_t)a->direction, 0, (size_t)m->n_layer * sizeof *a->direction);
    for (i = 0; i < n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(ld->g, i);
        a->direction[tinyi_adapter_number(t->name)] = tinyi_adapter_floats(t, &at);
    }
    a->n = n;
    a->first = 1;
    a->last = m->n_layer - 1;
    a->n_params = (double)floats;
    a->n_floats = floats;
    if (tllm_meta_text(tllm_gguf_find(ld->g, "controlvector.model_hint"), 0, &hint) &&
        !tllm_text_is(hint, TINYI_LM_ARCH(m)->name))
        tinyi_log(ld->ctx, TINY_LOG_WARNING, "%s: made for %s, but the model is %s", ld->path, tinyi_show(hint, name),
                  TINYI_LM_ARCH(m)->name);
}

TINY_API tiny_status tllm_adapter_open(tiny_ctx *ctx, const tllm_model *model, const tllm_gguf *file,
                                       tllm_adapter **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tinyi_adapter_load ld;
    tllm_text arch, type;
    char shown[TINYI_SHOW];
    int has_arch, has_type;
    if (!TINYI_HAS(ADAPTERS) && !st)
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "adapters are not compiled into this program");
    if (out) *out = NULL;
    if (st) return st;
    if (!model || !file || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "adapter: the model, the file or the result pointer is NULL");
    memset(&ld, 0, sizeof ld);
    ld.ctx = ctx;
    ld.g = file;
    ld.path = tllm_gguf_path(file, 0);
    ld.a = (tllm_adapter *)tinyi_alloc(ctx, 1, sizeof *ld.a);
    if (!ld.a) return tiny_ctx_status(ctx);
    memset(ld.a, 0, sizeof *ld.a);
    ld.a->magic = TINYI_ADAPTER_MAGIC;
    ld.a->m = model;
    has_arch = tllm_meta_text(tllm_gguf_find(file, "general.architecture"), 0, &arch);
    has_type = tllm_meta_text(tllm_gguf_find(file, "general.type"), 0, &type);
    if (has_arch && tllm_text_is(arch, "controlvector") && TINYI_LM_SLICED(model))
        ld.st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                           "%s: the model %s is sliced: directions of the original stream do not fit its layers",
                           ld.path, model->path);
    else if (has_arch && tllm_text_is(arch, "controlvector")) {
        ld.a->kind = TLLM_ADAPTER_VECTOR;
        tinyi_adapter_vector(&ld);
    } else if (!has_type || !tllm_text_is(type, "adapter"))
        ld.st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: neither an adapter nor a control vector: its general.type is %s",
                           ld.path, has_type ? tinyi_show(type, shown) : "missing");
    else if (!tllm_meta_text(tllm_gguf_find(file, "adapter.type"), 0, &type) || !tllm_text_is(type, "lora"))
        ld.st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: adapter.type is not lora", ld.path);
    else if (TINYI_LM_SLICED(model))
        ld.st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                           "%s: the model %s was sliced after this adapter was made: merge the adapter into the "
                           "original model, then slice the result",
                           ld.path, model->path);
    else if (model->rotated || tllm_gguf_find(model->file, "rotation.stream"))
        ld.st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                           "%s: the model %s was rotated after this adapter was made: merge the adapter into the "
                           "original model, then rotate the result",
                           ld.path, model->path);
    else if (!has_arch || !tllm_text_is(arch, model->arch->name))
        ld.st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: made for architecture %s, but the model %s is %s", ld.path,
                           has_arch ? tinyi_show(arch, shown) : "(none)", model->path, model->arch->name);
    else tinyi_adapter_lora(&ld);
    if (ld.st) tllm_adapter_close(ctx, ld.a);
    else *out = ld.a;
    return ld.st;
}

TINY_API tiny_status tllm_adapter_load(tiny_ctx *ctx, const tllm_model *model, const char *path, tllm_adapter **out)
{
    tllm_gguf *g;
    tiny_status st;
    if (out) *out = NULL;
    st = tllm_gguf_open(ctx, path, &g);
    if (st) return st;
    st = tllm_adapter_open(ctx, model, g, out);
    tllm_gguf_close(ctx, g);
    return st;
}

TINY_API void tllm_adapter_close(tiny_ctx *ctx, tllm_adapter *a)
{
    if (!a) return;
    tiny_free(ctx, a->pair);
    tiny_free(ctx, a->data);
    tiny_free(ctx, (void *)(uintptr_t)a->direction);
    tiny_free(ctx, a);
}

TINY_API void tllm_adapter_tell(const tllm_adapter *a, tllm_adapter_about *about)
{
    if (!about) return;
    memset(about, 0, sizeof *about);
    if (!a) return;
    about->kind = a->kind;
    about->n_places = a->n + (a->embd.w ? 1 : 0);
    about->rank = a->rank;
    about->alpha = (double)a->scale_of;
    about->first = a->first;
    about->last = a->last;
    about->n_params = a->n_params;
}

TINY_API tiny_status tllm_adapter_layers(tiny_ctx *ctx, tllm_adapter *a, tiny_idx first, tiny_idx last)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!a || a->kind != TLLM_ADAPTER_VECTOR)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "layers can be chosen only for a control vector");
    if (first < 1 || last < first || last >= a->m->n_layer)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "layers %td to %td: the limits are 1 and %td", first, last,
                          a->m->n_layer - 1);
    a->first = first;
    a->last = last;
    return TINY_OK;
}
