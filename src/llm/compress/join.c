/* src/llm/compress/join.c - two models and the stitches between them in one file
 *
 * Paper    Z. Pan, J. Cai, B. Zhuang, "Stitchable Neural Networks", 2023 (arXiv 2302.06586)
 * Formula  stitch (f, e): A the stream after layer f of the front, B the stream before layer e of the back (after layer
 *          e - 1, or the embedding), one row for each token; W, c = argmin |A W^T + 1 c^T - B|^2. Stitches that share a
 *          linear layer: the mean of their solutions
 * Cost     a pass of each model over the text, and a QR for each stitch
 * Left out more than two models; layers whose numbers of heads differ within a model */
#include <stdio.h>
#include <string.h>
#include "core/state_inside.h"
#include "llm/compress/join_inside.h"
#include "llm/compress/stitch_fit.h"
#include "llm/file/store_inside.h"
#include "llm/session/stitched.h"

/* ---- may they be joined? */

static tiny_status tinyi_join_model(tiny_ctx *ctx, const tllm_model *m)
{
    const char *why = NULL;
    tiny_idx i;
    tiny_status st = tinyi_stream_model(ctx, "join", m);
    if (!st) st = tinyi_stream_tops(ctx, "join", m, 1);
    if (st) return st;
    if (m->embd_scale != 1.0f || m->n_once < m->n_layer || m->rescale > 0 || m->routes)
        why = "its stream is scaled, or its layers run more than once";
    for (i = 0; i < m->n_layer && !why; i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        if (l->mix != TINYI_LM_ATTN || l->mix2 != TINYI_LM_NO_MIX || l->cross || l->kv_from != i || l->local)
            why = "a layer has something other than attention with keys of its own over the whole text";
        else if (!l->ffn || l->moe || !l->norm1 || (!l->norm2 && m->block != TINYI_LM_PARALLEL) || l->post1 ||
                 l->post2 || l->w[TINYI_T_LAYER_SCALE])
            why = "a layer is not attention and a dense network, each after a norm and without one behind it";
        else if (l->n_head != m->layer[0].n_head || l->n_kv != m->layer[0].n_kv || l->n_ff != m->layer[0].n_ff)
            why = "its layers differ in their numbers of heads or neurons";
    }
    return why ? tinyi_fail(ctx, TINY_E_UNSUPPORTED, "join: %s: %s", m->path, why) : TINY_OK;
}

static int tinyi_join_same_value(const tllm_meta *a, const tllm_meta *b)
{
    const unsigned char *x, *y;
    size_t i, n, k;
    tllm_text s, t;
    if (!a || !b || a->type != b->type || a->item_type != b->item_type || a->count != b->count) return 0;
    if (a->item_type == TLLM_STRING) {
        for (i = 0; i < a->count; i++)
            if (!tllm_meta_text(a, i, &s) || !tllm_meta_text(b, i, &t) || s.n != t.n ||
                (s.n && memcmp(s.at, t.at, s.n)))
                return 0;
        return 1;
    }
    tinyi_store_value(a, &x, &n);
    tinyi_store_value(b, &y, &k);
    return n == k && (!n || !memcmp(x, y, n));
}

/* Keys of the architecture and of the vocabulary that front has must be those of back, but for sizes. */
static tiny_status tinyi_join_keys(tiny_ctx *ctx, const tllm_gguf *front, const tllm_gguf *back, const char *arch)
{
    static const char *const sizes[] = { "embedding_length",        "block_count",      "feed_forward_length",
                                         "attention.head_count",    "context_length",   "attention.head_count_kv",
                                         "attention.key_length",    "vocab_size",       "attention.value_length",
                                         "rope.dimension_count" };
    const size_t n = strlen(arch);
    size_t i, k;
    char key[200];
    for (i = 0; i < tllm_gguf_n_meta(front); i++) {
        const tllm_meta *m = tllm_gguf_meta_at(front, i);
        const int own = m->key.n > n && !memcmp(m->key.at, arch, n) && m->key.at[n] == '.';
        if (!own && !(m->key.n > 15 && !memcmp(m->key.at, "tokenizer.ggml.", 15))) continue;
        for (k = 0; own && k < TINYI_COUNT(sizes); k++) {
            tllm_text rest = m->key;
            rest.at += n + 1;
            rest.n -= n + 1;
            if (tllm_text_is(rest, sizes[k])) break;
        }
        if (own && k < TINYI_COUNT(sizes)) continue;
        if (m->key.n >= sizeof key) continue;
        memcpy(key, m->key.at, m->key.n);
        key[m->key.n] = 0;
        if (!tinyi_join_same_value(m, tllm_gguf_find(back, key)))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: %s and %s differ in %s: a stitch cannot change it",
                              tllm_gguf_path(front, 0), tllm_gguf_path(back, 0), key);
    }
    return TINY_OK;
}

static tiny_status tinyi_join_pair(tiny_ctx *ctx, const tllm_model *a, const tllm_model *b)
{
    static const char *const rope[3] = { "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight" };
    const tinyi_lm_layer *l = &a->layer[0], *r = &b->layer[0];
    int i;
    if (a->arch != b->arch)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: %s is a %s model, %s a %s model; stitches need one architecture",
                          a->path, TINYI_LM_ARCH(a)->name, b->path, TINYI_LM_ARCH(b)->name);
    if (a->n_vocab != b->n_vocab)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: %s has %td tokens and %s %td: they need one vocabulary", a->path,
                          a->n_vocab, b->path, b->n_vocab);
    if (a->n_embd > b->n_embd)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "join: %s is wider (%td) than %s (%td): stitches lead from the narrower model to the "
                          "wider one",
                          a->path, a->n_embd, b->path, b->n_embd);
    if (!tllm_stitch_layers((int)a->n_layer, (int)b->n_layer))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "join: %s has %td layers and %s %td: the narrower model needs at least 2, and at most those "
                          "of the wider one",
                          a->path, a->n_layer, b->path, b->n_layer);
    if (l->d_k != r->d_k || l->d_v != r->d_v || a->rope[0].n_rot != b->rope[0].n_rot)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "join: heads of %s have %td numbers, those of %s %td: one file has one size of a head",
                          a->path, l->d_k, b->path, r->d_k);
    for (i = 0; i < 3; i++) {
        const tllm_gguf_tensor *s = tllm_gguf_tensor_find(a->file, rope[i]),
                               *t = tllm_gguf_tensor_find(b->file, rope[i]);
        if ((s != NULL) != (t != NULL) || (s && (s->bytes != t->bytes || memcmp(s->data, t->data, s->bytes))))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: %s and %s differ in %s: positions must be rotated alike",
                              a->path, b->path, rope[i]);
    }
    return tinyi_join_keys(ctx, a->file, b->file, TINYI_LM_ARCH(a)->name);
}

TINY_API void tllm_join_close(tiny_ctx *ctx, tllm_join *j)
{
    int i;
    if (!j || tinyi_ctx_check(ctx)) return;
    for (i = 0; i < 2; i++) {
        tllm_model_close(ctx, j->side[i].m);
        tiny_free(ctx, j->side[i].stream);
        tiny_free(ctx, j->side[i].weight);
    }
    tiny_free(ctx, j->plan);
    tiny_free(ctx, j->linear);
    j->magic = 0;
    tiny_free(ctx, j);
}

TINY_API tiny_status tllm_join_open(tiny_ctx *ctx, const tllm_gguf *front, const tllm_gguf *back,
                                    const tllm_join_desc *desc, tllm_join **out)
{
    tllm_join *j;
    const tllm_format *f;
    int i, depth[2];
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!front || !back || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: two model files are needed, and where to put the result");
    f = tllm_format_of(desc ? desc->format : TLLM_FORMAT_F32);
    if (!f || !f->pack || f->flags & TLLM_FORMAT_ACTIVATIONS || (desc && desc->window < 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: a format that can be written, and a window of at least 1 token");
    j = (tllm_join *)tinyi_alloc(ctx, 1, sizeof *j);
    if (!j) return tiny_ctx_status(ctx);
    memset(j, 0, sizeof *j);
    j->magic = TINYI_JOIN_MAGIC;
    if (desc) j->d = *desc;
    j->side[0].file = front;
    j->side[1].file = back;
    for (i = 0; i < 2 && !st; i++) {
        st = tllm_model_open(ctx, j->side[i].file, &j->side[i].m);
        if (!st) st = tinyi_join_model(ctx, j->side[i].m);
    }
    if (!st) st = tinyi_join_pair(ctx, j->side[0].m, j->side[1].m);
    for (i = 0; i < 2 && !st; i++) {
        j->about.width[i] = j->side[i].m->n_embd;
        j->about.n_layer[i] = j->side[i].m->n_layer;
        depth[i] = (int)j->side[i].m->n_layer;
    }
    if (!st && tllm_format_bytes(f, (uint64_t)j->about.width[0]) == 0)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "join: rows of %td numbers are not whole blocks of %s", j->about.width[0],
                        f->name);
    if (!st) {
        j->about.n_linear = (size_t)tllm_stitch_layers(depth[0], depth[1]);
        st = tllm_stitch_plan(ctx, depth, 2, NULL, 0, &j->about.n);
    }
    if (!st) {
        j->plan = (tllm_stitch *)tinyi_alloc(ctx, j->about.n, sizeof *j->plan);
        st = j->plan ? tllm_stitch_plan(ctx, depth, 2, j->plan, j->about.n, &j->about.n) : tiny_ctx_status(ctx);
    }
    if (st) tllm_join_close(ctx, j);
    else *out = j;
    return st;
}

TINY_API tllm_join_about tllm_join_what(const tllm_join *j)
{
    tllm_join_about none;
    memset(&none, 0, sizeof none);
    return j && j->magic == TINYI_JOIN_MAGIC ? j->about : none;
}

/* ---- the text */

static tiny_status tinyi_join_stopped(tiny_ctx *ctx, double done)
{
    if (ctx->desc.progress) ctx->desc.progress(ctx->desc.user, "join", done);
    return ctx->desc.cancel && ctx->desc.cancel(ctx->desc.user)
               ? tinyi_fail(ctx, TINY_E_CANCELLED, "join: the cancel callback asked to stop")
               : TINY_OK;
}

/* The streams of a model over the text, in windows. */
static tiny_status tinyi_join_read(tiny_ctx *ctx, const tllm_join *j, tinyi_join_side *s, const int32_t *token,
                                   tiny_idx n, double done)
{
    const tllm_model *m = s->m;
    const tiny_idx D = m->n_embd;
    tllm_state_desc room;
    tllm_state *state = NULL;
    tinyi_lm_fwd f;
    tiny_idx window = j->d.window ? j->d.window : 256, at, now, i;
    float *x;
    size_t all;
    tiny_status st;
    window = TINYI_MIN(window, TINYI_MIN(m->n_context, n));
    if (!tinyi_size_mul((size_t)(m->n_layer + 1), (size_t)n, &all) || !tinyi_size_mul(all, (size_t)D, &all))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "join: the streams of %td tokens are more than can be addressed", n);
    tiny_free(ctx, s->stream);
    s->stream = (float *)tinyi_alloc(ctx, all, sizeof *s->stream);
    if (!s->stream) return tiny_ctx_status(ctx);
    x = (float *)tinyi_alloc(ctx, (size_t)window + 1, (size_t)D * sizeof *x);
    if (!x) return tiny_ctx_status(ctx);
    memset(&room, 0, sizeof room);
    room.n_ctx = room.n_batch = window;
    st = tllm_state_open(ctx, m, &room, &state);
    for (at = 0; at < n && !st; at += now) {
        now = TINYI_MIN(window, n - at);
        st = tinyi_join_stopped(ctx, done + 0.3 * (double)at / (double)n);
        if (!st) st = tinyi_stream_begin(ctx, "join", state, token + at, now, &f);
        if (st) break;
        tinyi_lm_embed(&f, x);
        tinyi_lm_rope_tables(&f);
        for (i = 0; i <= m->n_layer && !f.st; i++) {
            if (i) tinyi_lm_layer_run(&f, &m->layer[i - 1], x);
            memcpy(s->stream + (i * n + at) * D, x, (size_t)(now * D) * sizeof *x);
        }
        st = f.st;
    }
    tllm_state_close(ctx, state);
    tiny_free(ctx, x);
    return st;
}

static tiny_status tinyi_join_solve(tiny_ctx *ctx, tllm_join *j, tiny_idx n)
{
    const tiny_idx d1 = j->about.width[0], d2 = j->about.width[1];
    const size_t each = (size_t)((d1 + 1) * d2);
    size_t i, k, share[TLLM_STITCH_BLOCKS];
    float *one = (float *)tinyi_alloc(ctx, each, sizeof *one);
    tiny_tensor w, bias;
    tiny_status st = one ? TINY_OK : tiny_ctx_status(ctx);
    if (st) return st;
    memset(share, 0, sizeof share);
    memset(j->linear, 0, j->about.n_linear * each * sizeof *one);
    for (i = 2; i < j->about.n; i++) share[j->plan[i].layer]++;
    w = tiny_tensor_2d(one, TINY_F32, d2, d1);
    bias = tiny_tensor_1d(one + d1 * d2, TINY_F32, d2);
    for (i = 2; i < j->about.n && !st; i++) {
        const tllm_stitch *s = &j->plan[i];
        const tiny_tensor a = tiny_tensor_2d(j->side[0].stream + (s->f + 1) * n * d1, TINY_F32, n, d1),
                          b = tiny_tensor_2d(j->side[1].stream + s->e * n * d2, TINY_F32, n, d2);
        float *to = j->linear + (size_t)s->layer * each;
        double left = 0.0;
        st = tinyi_join_stopped(ctx, 0.6 + 0.4 * (double)i / (double)j->about.n);
        if (!st) st = tllm_stitch_solve(ctx, &a, &b, &w, &bias, &left);
        for (k = 0; k < each && !st; k++) to[k] += one[k] / (float)share[s->layer];
        j->about.left += left / (double)(j->about.n - 2);
    }
    tiny_free(ctx, one);
    return st;
}

TINY_API tiny_status tllm_join_fit(tiny_ctx *ctx, tllm_join *j, const int32_t *token, tiny_idx n)
{
    tiny_idx i;
    size_t each;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!j || j->magic != TINYI_JOIN_MAGIC || !token || n < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: two models that were opened and at least one token are needed");
    if (n <= j->about.width[0])
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "join: the text has %td tokens; more than the %td channels of the narrower model are needed",
                          n, j->about.width[0]);
    for (i = 0; i < n; i++)
        if (token[i] < 0 || token[i] >= j->side[0].m->n_vocab)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: token %td of the text is %d, but the models have %td", i,
                              (int)token[i], j->side[0].m->n_vocab);
    j->about.tokens = 0;
    j->about.left = 0.0;
    each = (size_t)((j->about.width[0] + 1) * j->about.width[1]);
    if (!j->linear) j->linear = (float *)tinyi_alloc(ctx, j->about.n_linear * each, sizeof *j->linear);
    if (!j->linear) return tiny_ctx_status(ctx);
    for (i = 0; i < 2 && !st; i++) st = tinyi_join_read(ctx, j, &j->side[i], token, n, 0.3 * (double)i);
    if (!st) st = tinyi_join_solve(ctx, j, n);
    if (!st) j->about.tokens = n;
    return st;
}

/* ---- the file */

static tiny_status tinyi_join_put_keys(tiny_ctx *ctx, const tllm_join *j, const double *bits, tllm_writer *w)
{
    const tllm_model *a = j->side[0].m, *b = j->side[1].m;
    const char *name[8] = { "stitch.embedding_length",     "stitch.block_count",
                            "stitch.feed_forward_length",  "stitch.attention.head_count",
                            "stitch.attention.head_count_kv", "attention.key_length",
                            "attention.value_length",      "context_length" };
    tiny_idx value[8];
    char key[160];
    float *f;
    size_t i;
    tiny_status st = tinyi_stream_keys(ctx, j->side[1].file, TINYI_STITCHED_PREFIX, w);
    value[0] = a->n_embd;
    value[1] = a->n_layer;
    value[2] = a->layer[0].n_ff;
    value[3] = a->layer[0].n_head;
    value[4] = a->layer[0].n_kv;
    value[5] = b->layer[0].d_k;
    value[6] = b->layer[0].d_v;
    value[7] = TINYI_MIN(a->n_context, b->n_context);
    for (i = 0; i < 8 && !st; i++) {
        (void)snprintf(key, sizeof key, "%s%s.%s", TINYI_STITCHED_PREFIX, TINYI_LM_ARCH(b)->name, name[i]);
        st = tllm_writer_put_u32(ctx, w, key, (uint32_t)value[i]);
    }
    if (st || !bits) return st;
    f = (float *)tinyi_alloc(ctx, j->about.n, sizeof *f);
    if (!f) return tiny_ctx_status(ctx);
    for (i = 0; i < j->about.n; i++) f[i] = (float)bits[i];
    (void)snprintf(key, sizeof key, "%s%s.stitch.bits", TINYI_STITCHED_PREFIX, TINYI_LM_ARCH(b)->name);
    st = tllm_writer_put_array(ctx, w, key, TLLM_F32, f, j->about.n);
    tiny_free(ctx, f);
    return st;
}

/* numbers of a trained tensor in the format of the file, a row at a time */
static tiny_status tinyi_join_repack(tiny_ctx *ctx, const tllm_gguf_tensor *t, const float *x, tllm_writer *w)
{
    const tllm_format *f = tllm_format_of(t->type);
    const size_t cols = (size_t)t->dim[0], bytes = tllm_format_bytes(f, cols), rows = t->bytes / bytes;
    void *row = tinyi_alloc(ctx, bytes, 1);
    size_t i;
    tiny_status st = row ? TINY_OK : tiny_ctx_status(ctx);
    for (i = 0; i < rows && !st; i++) {
        f->pack(x + i * cols, row, cols, NULL);
        st = tllm_writer_data(ctx, w, row, bytes);
    }
    tiny_free(ctx, row);
    return st;
}

/* declared first, then their bytes */
static tiny_status tinyi_join_tensors(tiny_ctx *ctx, const tllm_join *j, tllm_writer *w, int data)
{
    const tllm_format *f = tllm_format_of(j->d.format);
    const tiny_idx d1 = j->about.width[0], d2 = j->about.width[1];
    const size_t each = (size_t)((d1 + 1) * d2), bytes = (size_t)d2 * tllm_format_bytes(f, (uint64_t)d1);
    void *packed = data ? tinyi_alloc(ctx, bytes + (size_t)d2 * sizeof(float), 1) : NULL;
    char name[280];
    size_t i, from;
    int k;
    tiny_status st = data && !packed ? tiny_ctx_status(ctx) : TINY_OK;
    for (k = 1; k >= 0; k--)
        for (i = from = 0; i < tllm_gguf_n_tensors(j->side[k].file) && !st; i++) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(j->side[k].file, i);
            tllm_text text = t->name;
            if (data && j->side[k].weight) {
                st = tinyi_join_repack(ctx, t, j->side[k].weight + from, w);
                from += (size_t)tinyi_join_count(t);
            } else if (data) st = tllm_writer_data(ctx, w, t->data, t->bytes);
            else {
                if (!k) {
                    (void)snprintf(name, sizeof name, "front.%.*s", (int)TINYI_MIN(t->name.n, (size_t)200), t->name.at);
                    text.at = name;
                    text.n = strlen(name);
                }
                st = tllm_writer_put_tensor(ctx, w, text, t->type, t->rank, t->dim, NULL);
            }
        }
    for (i = 0; i < j->about.n_linear && !st; i++)
        for (k = 0; k < 2 && !st; k++) {
            const float *x = j->linear + i * each + (k ? d1 * d2 : 0);
            const uint64_t dim[2] = { (uint64_t)(k ? d2 : d1), (uint64_t)d2 };
            const tllm_format *own = k ? tllm_format_of(TLLM_FORMAT_F32) : f;
            tllm_text text;
            (void)snprintf(name, sizeof name, "stitch.%lu.%s", (unsigned long)i, k ? "bias" : "weight");
            text.at = name;
            text.n = strlen(name);
            if (!data) st = tllm_writer_put_tensor(ctx, w, text, own->id, 2 - k, dim, NULL);
            else {
                const size_t n = (size_t)(k ? d2 : d1 * d2);
                own->pack(x, packed, n, NULL);
                st = tllm_writer_data(ctx, w, packed, tllm_format_bytes(own, (uint64_t)n));
            }
        }
    tiny_free(ctx, packed);
    return st;
}

TINY_API tiny_status tllm_join_put(tiny_ctx *ctx, const tllm_join *j, const double *bits, tllm_writer *w)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!j || j->magic != TINYI_JOIN_MAGIC || !w || !j->about.tokens)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: two models that have read a text, and a writer are needed");
    st = tinyi_join_put_keys(ctx, j, bits, w);
    if (!st) st = tinyi_join_tensors(ctx, j, w, 0);
    return st ? st : tinyi_join_tensors(ctx, j, w, 1);
}
