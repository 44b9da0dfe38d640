/* src/llm/round/gptq_model.c - GPTQ for the matrices of a model
 * Cost     one reading of the text for each part of the matrices, with the products of their inputs; then
 *          tllm_gptq_blocks for each matrix */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/gptq_model.h"
#include "llm/round/reading_inside.h"
#include "llm/block/format.h"

typedef struct tinyi_gptq_model {
    tiny_ctx *ctx;
    tllm_gptq_model_desc d;
    tinyi_reading read;
    tllm_gptq_tensor *list;
    size_t n;
} tinyi_gptq_model;

static tiny_status tinyi_gptq_one(void *user, size_t k)
{
    tinyi_gptq_model *m = (tinyi_gptq_model *)user;
    tllm_gptq_tensor *q = &m->list[k];
    const tllm_gguf_tensor *t = q->t;
    const tllm_format *from = tllm_format_of(t->type), *to = tllm_format_of(q->format);
    const tiny_idx n = (tiny_idx)t->dim[0], rows = (tiny_idx)t->dim[1], matrices = tinyi_reading_matrices(t);
    const size_t in = tllm_format_bytes(from, t->dim[0]) * (size_t)rows,
                 out = tllm_format_bytes(to, t->dim[0]) * (size_t)rows;
    tllm_gptq_desc d = m->d.gptq;
    float *w;
    tiny_idx i;
    tiny_status st = TINY_OK;
    if (q->damp != 0.0f) d.damp = q->damp;
    for (i = 0; i < matrices; i++)
        if (tllm_watch_of(m->read.watch, t, i)) break;
    if (i == matrices) return TINY_OK;
    w = (float *)tinyi_alloc(m->ctx, (size_t)rows * (size_t)n, sizeof *w);
    if (!w) return tiny_ctx_status(m->ctx);
    for (i = 0; !st && i < matrices; i++) {
        const tllm_calib *c = tllm_watch_of(m->read.watch, t, i);
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
        } else
            to->pack(w, (unsigned char *)q->to + (size_t)i * out, (size_t)rows * (size_t)n,
                     NULL); /* an expert that no token came to */
        q->tokens = i ? TINYI_MIN(q->tokens, tllm_calib_tokens(c)) : tllm_calib_tokens(c);
    }
    tiny_free(m->ctx, w);
    if (!st) st = tllm_watch_replace(m->read.watch, t, q->format, q->to);
    q->found = !st;
    return st;
}

static tiny_status tinyi_gptq_model_check(tinyi_gptq_model *m)
{
    size_t i;
    for (i = 0; i < m->n; i++) {
        tllm_gptq_tensor *q = &m->list[i];
        const tllm_gguf_tensor *t = q->t;
        const tllm_format *f = tllm_format_of(q->format);
        if (!t || !q->to)
            return tinyi_fail(m->ctx, TINY_E_ARGUMENT,
                              "gptq: entry %zu of the list has no tensor or no result pointer", i);
        if (t->rank < 2 || !tinyi_reading_matrices(t) || t->dim[0] > INT32_MAX || t->dim[1] > INT32_MAX)
            return tinyi_fail(m->ctx, TINY_E_ARGUMENT, "gptq: %.*s is not a readable matrix",
                              (int)TINYI_MIN(t->name.n, (size_t)200), t->name.at);
        if (!tllm_gptq_has(q->format) || !tllm_format_bytes(f, t->dim[0]))
            return tinyi_fail(m->ctx, TINY_E_UNSUPPORTED,
                              "gptq: %.*s has rows of %llu numbers; %s cannot be made of them",
                              (int)TINYI_MIN(t->name.n, (size_t)200), t->name.at, (unsigned long long)t->dim[0],
                              f ? f->name : "that format");
        q->found = 0;
        q->tokens = 0;
        memset(&q->about, 0, sizeof q->about);
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_gptq_model(tiny_ctx *ctx, const tllm_gguf *file, const tllm_gptq_model_desc *desc,
                                     const int32_t *token, tiny_idx n_token, tllm_gptq_tensor *list, size_t n)
{
    tinyi_gptq_model m;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&m, 0, sizeof m);
    m.ctx = ctx;
    m.list = list;
    m.n = n;
    if (desc) m.d = *desc;
    if (!file || !token || n_token < 1 || !list || !n || n > UINT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "gptq: a file, at least one token of text and at least one tensor are needed");
    if (!m.d.room) m.d.room = (size_t)1 << 30;
    m.read.what = "gptq";
    m.read.ctx = ctx;
    m.read.token = token;
    m.read.n_token = n_token;
    m.read.window = m.d.window;
    st = tinyi_reading_open(&m.read, file);
    if (!st) st = tinyi_gptq_model_check(&m);
    if (!st)
        st = tinyi_reading_passes(&m.read, &list->t, sizeof *list, n, m.d.room, m.d.each_layer, tinyi_gptq_one, &m);
    tinyi_reading_close(&m.read);
    return st;
}

