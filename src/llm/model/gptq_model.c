/* src/llm/model/gptq_model.c - the matrices of a model by GPTQ
 * Cost     a reading of the text for each part of the matrices, with the products of their inputs; then tllm_gptq_blocks of each
 * Left out readings that stop behind the last layer that is wanted                                                                */
#include <string.h>
#include "core/state.h"
#include "llm/model/gptq_model.h"
#include "llm/model/watch.h"
#include "llm/quant/format.h"

#if !defined TINY_ONLY_MODELS && !defined TINYLLM_NO_GPTQ

typedef struct tinyi_gptq_model {
    tiny_ctx *ctx, *run;                    /* run: of the model, with the hook of the watch */
    tllm_gptq_model_desc d;
    tllm_watch *watch;
    tllm_model *model;
    tllm_state *state;
    tllm_about about;
    const int32_t *token;
    tiny_idx n_token;
    float *out;                             /* logits of a window, where the output matrix is among those that are watched */
    double done, part;                      /* of the whole work: behind us, in this reading */
    tllm_gptq_tensor *list;
    uint32_t *order;                        /* of the list, by layers */
    size_t n;
} tinyi_gptq_model;

/* blk.N.: N; what belongs to no layer comes last */
static uint32_t tinyi_gptq_layer_of(tllm_text name)
{
    uint32_t n = 0;
    size_t i;
    if (name.n < 5 || memcmp(name.at, "blk.", 4)) return UINT32_MAX;
    for (i = 4; i < name.n && name.at[i] >= '0' && name.at[i] <= '9' && n < 1000000; i++) n = 10 * n + (uint32_t)(name.at[i] - '0');
    return i > 4 ? n : UINT32_MAX;
}
static tiny_idx tinyi_gptq_matrices(const tllm_gguf_tensor *t)
{
    const size_t one = tllm_format_bytes(tllm_format_of(t->type), t->dim[0]) * (size_t)t->dim[1];
    return one ? (tiny_idx)(t->bytes / one) : 0;
}
static void tinyi_gptq_told(const tinyi_gptq_model *m, double share)
{
    if (m->ctx->desc.progress) m->ctx->desc.progress(m->ctx->desc.user, "gptq", m->done + m->part * share);
}

/* the text once, in windows that do not see each other */
static tiny_status tinyi_gptq_read(tinyi_gptq_model *m, int logits)
{
    tiny_idx at, n;
    tiny_status st = TINY_OK;
    for (at = 0; !st && at < m->n_token; at += n) {
        n = TINYI_MIN(m->n_token - at, m->d.window);
        if (m->about.is_encoder) st = tllm_forward_all(m->state, m->token + at, n, NULL);
        else {
            tllm_state_clear(m->state);
            st = tllm_forward(m->state, m->token + at, n, 0, logits ? n : 0, logits ? m->out : NULL);
        }
        if (st) return tinyi_fail(m->ctx, st, "%s", tiny_ctx_message(m->run));
        st = tllm_watch_status(m->watch);   /* its sentence is in ctx */
        tinyi_gptq_told(m, 0.7 * (double)(at + n) / (double)m->n_token);
    }
    return st;
}

static tiny_status tinyi_gptq_one(tinyi_gptq_model *m, tllm_gptq_tensor *q)
{
    const tllm_gguf_tensor *t = q->t;
    const tllm_format *from = tllm_format_of(t->type), *to = tllm_format_of(q->format);
    const tiny_idx n = (tiny_idx)t->dim[0], rows = (tiny_idx)t->dim[1], matrices = tinyi_gptq_matrices(t);
    const size_t in = tllm_format_bytes(from, t->dim[0]) * (size_t)rows, out = tllm_format_bytes(to, t->dim[0]) * (size_t)rows;
    tllm_gptq_desc d = m->d.gptq;
    float *w;
    tiny_idx i;
    tiny_status st = TINY_OK;
    if (q->damp != 0.0f) d.damp = q->damp;
    for (i = 0; i < matrices; i++)
        if (tllm_watch_of(m->watch, t, i)) break;
    if (i == matrices) return TINY_OK;
    w = (float *)tinyi_alloc(m->ctx, (size_t)rows * (size_t)n, sizeof *w);
    if (!w) return m->ctx->status;
    for (i = 0; !st && i < matrices; i++) {
        const tllm_calib *c = tllm_watch_of(m->watch, t, i);
        const tiny_tensor h = tllm_calib_products(c);
        tllm_gptq_about a;
        from->unpack(t->data + (size_t)i * in, w, (size_t)rows * (size_t)n);
        if (c) {
            st = tllm_gptq_blocks(m->ctx, &d, q->format, w, rows, n, &h, (unsigned char *)q->to + (size_t)i * out, &a);
            if (st) break;
            q->about.loss += a.loss;
            q->about.damp = TINYI_MAX(q->about.damp, a.damp);
            q->about.doubled = TINYI_MAX(q->about.doubled, a.doubled);
            q->about.rounded |= a.rounded;
            q->about.dead = TINYI_MAX(q->about.dead, a.dead);
        } else to->pack(w, (unsigned char *)q->to + (size_t)i * out, (size_t)rows * (size_t)n, NULL);      /* an expert that no token came to */
        q->tokens = i ? TINYI_MIN(q->tokens, tllm_calib_tokens(c)) : tllm_calib_tokens(c);
    }
    tiny_free(m->ctx, w);
    if (!st) st = tllm_watch_replace(m->watch, t, q->format, q->to);
    q->found = !st;
    return st;
}

static tiny_status tinyi_gptq_passes(tinyi_gptq_model *m)
{
    double all = 0.0;
    size_t i, j, k;
    tiny_status st = TINY_OK;
    for (i = 0; i < m->n; i++) all += (double)m->list[i].t->bytes + 1.0;
    for (i = 0; !st && i < m->n; i = j) {
        size_t room = 0;
        double part = 0.0;
        int logits = 0;
        for (j = i; j < m->n; j = k) {      /* whole layers, as many as have room; one at least */
            const uint32_t layer = tinyi_gptq_layer_of(m->list[m->order[j]].t->name);
            size_t more = 0;
            for (k = j; k < m->n && tinyi_gptq_layer_of(m->list[m->order[k]].t->name) == layer; k++) {
                const tllm_gguf_tensor *t = m->list[m->order[k]].t;
                more += tllm_calib_memory((tiny_idx)t->dim[0], TLLM_CALIB_PRODUCTS) * (size_t)tinyi_gptq_matrices(t);
                if (m->d.each_layer && layer == UINT32_MAX) { k++; break; }
            }
            if (j > i && (m->d.each_layer || room + more > m->d.room)) break;
            room += more;
        }
        for (k = i; !st && k < j; k++) {
            const tllm_gptq_tensor *q = &m->list[m->order[k]];
            logits |= tinyi_gptq_layer_of(q->t->name) == UINT32_MAX;
            part += (double)q->t->bytes + 1.0;
            st = tllm_watch_pick(m->watch, q->t, TLLM_CALIB_PRODUCTS);
        }
        m->part = part / all;
        if (!st && logits && !m->out && !m->about.is_encoder) {
            m->out = (float *)tinyi_alloc(m->ctx, (size_t)m->d.window * (size_t)m->about.n_out, sizeof *m->out);
            if (!m->out) st = m->ctx->status;
        }
        if (!st) st = tinyi_gptq_read(m, logits);
        for (k = i; !st && k < j; k++) {
            st = tinyi_gptq_one(m, &m->list[m->order[k]]);
            tinyi_gptq_told(m, 0.7 + 0.3 * (double)(k + 1 - i) / (double)(j - i));
        }
        m->done += m->part;
        tllm_watch_forget(m->watch);
    }
    return st;
}

static tiny_status tinyi_gptq_model_check(tinyi_gptq_model *m)
{
    size_t i;
    for (i = 0; i < m->n; i++) {
        tllm_gptq_tensor *q = &m->list[i];
        const tllm_gguf_tensor *t = q->t;
        const tllm_format *f = tllm_format_of(q->format);
        if (!t || !q->to) return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "gptq: entry %zu of the list has no tensor, or no place for its blocks", i);
        if (t->rank < 2 || !tinyi_gptq_matrices(t) || t->dim[0] > INT32_MAX || t->dim[1] > INT32_MAX)
            return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "gptq: %.*s is no matrix that can be read", (int)TINYI_MIN(t->name.n, (size_t)200), t->name.at);
        if (!tllm_gptq_has(q->format) || !tllm_format_bytes(f, t->dim[0]))
            return tinyi_fail(m->ctx, TINY_E_UNSUPPORTED, "gptq: %.*s has rows of %llu numbers; %s cannot be made of them so", (int)TINYI_MIN(t->name.n, (size_t)200), t->name.at,
                              (unsigned long long)t->dim[0], f ? f->name : "that format");
        q->found = 0;
        q->tokens = 0;
        memset(&q->about, 0, sizeof q->about);
    }
    for (i = 0; i < (size_t)m->n_token; i++)
        if (m->token[i] < 0 || m->token[i] >= m->about.n_vocab) return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "gptq: token %zu of the text is %d, the model has %td", i, (int)m->token[i], m->about.n_vocab);
    return TINY_OK;
}

TINY_API tiny_status tllm_gptq_model(tiny_ctx *ctx, const tllm_gguf *file, const tllm_gptq_model_desc *desc, const int32_t *token, tiny_idx n_token, tllm_gptq_tensor *list, size_t n)
{
    tinyi_gptq_model m;
    tiny_ctx_desc cd;
    tllm_state_desc sd;
    uint32_t *key = NULL;
    size_t i, k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&m, 0, sizeof m);
    memset(&sd, 0, sizeof sd);
    m.ctx = ctx;
    m.token = token;
    m.n_token = n_token;
    m.list = list;
    m.n = n;
    if (desc) m.d = *desc;
    if (!file || !token || n_token < 1 || !list || !n || n > UINT32_MAX) return tinyi_fail(ctx, TINY_E_ARGUMENT, "gptq: a file, at least one token of text and at least one tensor are wanted");
    if (m.d.window < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "gptq: windows of %td tokens; at least 1", m.d.window);
    if (!m.d.room) m.d.room = (size_t)1 << 30;
    st = tllm_watch_open(ctx, file, &m.watch);
    if (st) return st;
    cd = ctx->desc;
    cd.accel = tllm_watch_hook(m.watch);
    cd.n_threads = ctx->n_threads;
    cd.target = ctx->target;
    cd.progress = NULL;
    st = tiny_ctx_open(&cd, &m.run);
    if (st) (void)tinyi_fail(ctx, st, "gptq: no context for the model: %s", tiny_status_text(st));
    else {
        st = tllm_model_open(m.run, file, &m.model);
        if (!st) tllm_model_about(m.model, &m.about);
        if (!st && m.about.has_decoder) st = tinyi_fail(m.run, TINY_E_UNSUPPORTED, "gptq: %s has an encoder and a decoder; a text alone does not say what the second is asked", m.about.arch);
        if (!m.d.window) m.d.window = 512;
        m.d.window = TINYI_MIN(m.d.window, TINYI_MIN(m.about.n_context, n_token));
        sd.n_ctx = sd.n_batch = m.d.window;
        if (!st) st = tllm_state_open(m.run, m.model, &sd, &m.state);
        if (st) (void)tinyi_fail(ctx, st, "%s", tiny_ctx_message(m.run));
    }
    if (!st) st = tinyi_gptq_model_check(&m);
    if (!st) m.order = (uint32_t *)tinyi_alloc(ctx, n, sizeof *m.order);
    if (m.order) key = (uint32_t *)tinyi_alloc(ctx, n, sizeof *key);
    if (!st && !key) st = ctx->status;
    for (i = 0; !st && i < n; i++) {        /* stable; lists are short */
        const uint32_t layer = tinyi_gptq_layer_of(list[i].t->name);
        for (k = i; k > 0 && key[k - 1] > layer; k--) {
            key[k] = key[k - 1];
            m.order[k] = m.order[k - 1];
        }
        key[k] = layer;
        m.order[k] = (uint32_t)i;
    }
    if (!st) st = tinyi_gptq_passes(&m);
    tiny_free(ctx, key);
    tiny_free(ctx, m.order);
    tiny_free(ctx, m.out);
    tllm_state_close(m.run, m.state);
    tllm_model_close(m.run, m.model);
    tiny_ctx_close(m.run);
    tllm_watch_close(m.watch);
    return st;
}

#endif
