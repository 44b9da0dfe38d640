/* src/llm/round/reading.c - a model that reads a text under a watch
 * Left out readings that stop after the last needed layer */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/reading_inside.h"
#include "llm/block/format.h"

TINYI_FN uint32_t tinyi_reading_layer_of(tllm_text name)
{
    uint32_t n = 0;
    size_t i;
    if (name.n < 5 || memcmp(name.at, "blk.", 4)) return UINT32_MAX;
    for (i = 4; i < name.n && name.at[i] >= '0' && name.at[i] <= '9' && n < 1000000; i++)
        n = 10 * n + (uint32_t)(name.at[i] - '0');
    return i > 4 ? n : UINT32_MAX;
}
TINYI_FN tiny_idx tinyi_reading_matrices(const tllm_gguf_tensor *t)
{
    const size_t one = tllm_format_bytes(tllm_format_of(t->type), t->dim[0]) * (size_t)t->dim[1];
    return one ? (tiny_idx)(t->bytes / one) : 0;
}
TINYI_FN void tinyi_reading_order(const tllm_gguf_tensor *const *first, size_t step, size_t n, uint32_t *order,
                                  uint32_t *key)
{
    size_t i, k;
    for (i = 0; i < n; i++) {               /* stable; lists are short */
        const tllm_gguf_tensor *t =
            *(const tllm_gguf_tensor *const *)(const void *)((const unsigned char *)(const void *)first + i * step);
        const uint32_t layer = tinyi_reading_layer_of(t->name);
        for (k = i; k > 0 && key[k - 1] > layer; k--) {
            key[k] = key[k - 1];
            order[k] = order[k - 1];
        }
        key[k] = layer;
        order[k] = (uint32_t)i;
    }
}

TINYI_FN void tinyi_reading_told(const tinyi_reading *r, double share)
{
    if (r->ctx->desc.progress) r->ctx->desc.progress(r->ctx->desc.user, r->what, r->done + r->part * share);
}

TINYI_FN tiny_status tinyi_reading_open(tinyi_reading *r, const tllm_gguf *file)
{
    tiny_ctx *ctx = r->ctx;
    tiny_ctx_desc cd;
    tllm_state_desc sd;
    tiny_idx i;
    tiny_status st;
    memset(&sd, 0, sizeof sd);
    if (r->window < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: windows of %td tokens; at least 1 is needed", r->what, r->window);
    st = tllm_watch_open(ctx, file, &r->watch);
    if (st) return st;
    cd = ctx->desc;
    cd.accel = tllm_watch_hook(r->watch);
    cd.n_threads = ctx->n_threads;
    cd.target = ctx->target;
    cd.progress = NULL;
    st = tiny_ctx_open(&cd, &r->run);
    if (st) return tinyi_fail(ctx, st, "%s: no context for the model: %s", r->what, tiny_status_text(st));
    st = tllm_model_open(r->run, file, &r->model);
    if (!st) tllm_model_about(r->model, &r->about);
    if (!st && r->about.has_decoder)
        st = tinyi_fail(r->run, TINY_E_UNSUPPORTED,
                        "%s: %s has an encoder and a decoder; a text alone gives no input for the decoder",
                        r->what, r->about.arch);
    if (!r->window) r->window = 512;
    r->window = TINYI_MIN(r->window, TINYI_MIN(r->about.n_context, r->n_token));
    sd.n_ctx = sd.n_batch = r->window;
    if (!st) st = tllm_state_open(r->run, r->model, &sd, &r->state);
    if (st) return tinyi_fail(ctx, st, "%s", tiny_ctx_message(r->run));
    for (i = 0; i < r->n_token; i++)
        if (r->token[i] < 0 || r->token[i] >= r->about.n_vocab)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: token %td of the text is %d, but the model has %td", r->what,
                              i, (int)r->token[i], r->about.n_vocab);
    return TINY_OK;
}

TINYI_FN void tinyi_reading_close(tinyi_reading *r)
{
    tiny_free(r->ctx, r->out);
    tllm_state_close(r->run, r->state);
    tllm_model_close(r->run, r->model);
    tiny_ctx_close(r->run);
    tllm_watch_close(r->watch);
}

TINYI_FN tiny_status tinyi_reading_run(tinyi_reading *r, int logits, double share)
{
    tiny_idx at, n;
    tiny_status st = TINY_OK;
    if (logits && !r->out && !r->about.is_encoder) {
        r->out = (float *)tinyi_alloc(r->ctx, (size_t)r->window * (size_t)r->about.n_out, sizeof *r->out);
        if (!r->out) return tiny_ctx_status(r->ctx);
    }
    for (at = 0; !st && at < r->n_token; at += n) {
        n = TINYI_MIN(r->n_token - at, r->window);
        if (r->about.is_encoder) st = tllm_forward_all(r->state, r->token + at, n, NULL);
        else {
            tllm_state_clear(r->state);
            st = tllm_forward(r->state, r->token + at, n, 0, logits ? n : 0, logits ? r->out : NULL);
        }
        if (st) return tinyi_fail(r->ctx, st, "%s", tiny_ctx_message(r->run));
        st = tllm_watch_status(r->watch);   /* its sentence is in ctx */
        tinyi_reading_told(r, share * (double)(at + n) / (double)r->n_token);
    }
    return st;
}

/* what reading_passes has of its list */
typedef struct tinyi_reading_list {
    const unsigned char *first;
    size_t step;
    uint32_t *order, *key;
} tinyi_reading_list;
static const tllm_gguf_tensor *tinyi_reading_at(const tinyi_reading_list *l, size_t i)
{
    return *(const tllm_gguf_tensor *const *)(const void *)(l->first + l->order[i] * l->step);
}

static tiny_status tinyi_reading_parts(tinyi_reading *r, const tinyi_reading_list *l, size_t n, size_t most,
                                       int each_layer, tiny_status (*one)(void *user, size_t k), void *user)
{
    double all = 0.0;
    size_t i, j, k;
    tiny_status st = TINY_OK;
    for (i = 0; i < n; i++) all += (double)tinyi_reading_at(l, i)->bytes + 1.0;
    for (i = 0; !st && i < n; i = j) {
        size_t room = 0;
        double part = 0.0;
        int logits = 0;
        for (j = i; j < n; j = k) {         /* whole layers, as many as have room; one at least */
            const uint32_t layer = l->key[j];
            size_t more = 0;
            for (k = j; k < n && l->key[k] == layer; k++) {
                const tllm_gguf_tensor *t = tinyi_reading_at(l, k);
                more += tllm_calib_memory((tiny_idx)t->dim[0], TLLM_CALIB_PRODUCTS) * (size_t)tinyi_reading_matrices(t);
                if (each_layer && layer == UINT32_MAX) { k++; break; }
            }
            if (j > i && (each_layer || room + more > most)) break;
            room += more;
        }
        for (k = i; !st && k < j; k++) {
            const tllm_gguf_tensor *t = tinyi_reading_at(l, k);
            logits |= l->key[k] == UINT32_MAX;
            part += (double)t->bytes + 1.0;
            st = tllm_watch_pick(r->watch, t, TLLM_CALIB_PRODUCTS);
        }
        r->part = part / all;
        if (!st) st = tinyi_reading_run(r, logits, 0.7);
        for (k = i; !st && k < j; k++) {
            st = one(user, l->order[k]);
            tinyi_reading_told(r, 0.7 + 0.3 * (double)(k + 1 - i) / (double)(j - i));
        }
        r->done += r->part;
        tllm_watch_forget(r->watch);
    }
    return st;
}

TINYI_FN tiny_status tinyi_reading_passes(tinyi_reading *r, const tllm_gguf_tensor *const *first, size_t step, size_t n,
                                          size_t room, int each_layer, tiny_status (*one)(void *user, size_t k),
                                          void *user)
{
    tinyi_reading_list l;
    tiny_status st = TINY_OK;
    l.first = (const unsigned char *)(const void *)first;
    l.step = step;
    l.order = (uint32_t *)tinyi_alloc(r->ctx, n, sizeof *l.order);
    l.key = l.order ? (uint32_t *)tinyi_alloc(r->ctx, n, sizeof *l.key) : NULL;
    if (!l.key) st = tiny_ctx_status(r->ctx);
    if (!st) {
        tinyi_reading_order(first, step, n, l.order, l.key);
        st = tinyi_reading_parts(r, &l, n, room, each_layer, one, user);
    }
    tiny_free(r->ctx, l.key);
    tiny_free(r->ctx, l.order);
    return st;
}
