/* src/llm/serve/kept.c - what a request's slot holds, as bytes for another engine, and back
 *
 * A slot is kept by its id: place, eviction and admission of the engine pass it by, except for the request of that id.
 * The bytes are those of tllm_state_pack with the tokens of the slot, so that they check themselves. */
#include "llm/serve/engine_inside.h"
#include "llm/model/model_inside.h"
#include <string.h>

/* The calls below touch the state: its thread, between two steps, and pages. */
static tiny_status tinyi_kept_check(tllm_engine *e, const char *call)
{
    int threaded;
    tinyi_engine_lock(e);
    threaded = e->threaded;
    tinyi_engine_unlock(e);
    if (threaded || e->stepping) return TINY_E_UNSUPPORTED;     /* the context belongs to another thread */
    if (e->d.mode != TLLM_ENGINE_PAGED)
        return tinyi_fail(e->ctx, TINY_E_UNSUPPORTED, "%s: a window keeps no slots; it needs pages", call);
    return TINY_OK;
}
TINYI_FN tiny_idx tinyi_kept_slot(const tllm_engine *e, uint64_t id)
{
    tiny_idx i;
    for (i = 0; id && i < e->d.slots; i++) if (e->slot[i].kept == id && !e->slot[i].r) return i;
    return -1;
}

TINY_API tiny_status tllm_engine_pack(tllm_engine *e, uint64_t id, void **bytes, size_t *n_bytes)
{
    tiny_idx i;
    tiny_status st;
    if (bytes) *bytes = NULL;
    if (n_bytes) *n_bytes = 0;
    if (!e) return TINY_E_ARGUMENT;
    st = tinyi_kept_check(e, "tllm_engine_pack");
    if (st) return st;
    i = tinyi_kept_slot(e, id);
    if (i < 0)
        return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "no slot is kept for request %llu", (unsigned long long)id);
    return tllm_state_pack(e->state, i, e->slot[i].token, (tiny_idx)e->slot[i].n, bytes, n_bytes);
}

TINY_API int tllm_engine_room(const tllm_engine *e, size_t n, size_t tokens)
{
    tiny_idx i, slots = 0, pages;
    if (!e || e->d.mode != TLLM_ENGINE_PAGED) return 0;
    pages = tllm_pages_free(&e->state->pages);
    for (i = 0; i < e->d.slots; i++) {
        const tinyi_slot *s = &e->slot[i];
        if (s->r || s->kept) continue;
        slots++;
        pages += ((tiny_idx)s->n + e->n_page - 1) / e->n_page;
    }
    /* each one fills its last page in part, and begins another one with its first new token; each that runs may too */
    return (size_t)slots >= n && pages >= (tiny_idx)(tokens / (size_t)e->n_page + 2 * n) + (tiny_idx)e->now.running;
}

TINY_API size_t tllm_engine_bytes(const tllm_engine *e, size_t tokens)
{
    return e && tokens <= (size_t)TINY_IDX_MAX / 65536 ? tinyi_lm_pack_bytes(e->state, tokens) : 0;
}

TINYI_FN tiny_status tinyi_kept_place(tllm_engine *e, const char *call, uint64_t id, const void *bytes, tiny_idx *at)
{
    tiny_idx i;
    tiny_status st = tinyi_kept_check(e, call);
    *at = -1;
    if (st) return st;
    if (!id || !bytes || tinyi_kept_slot(e, id) >= 0)
        return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "%s: the bytes are NULL, or %llu is 0 or kept already", call,
                          (unsigned long long)id);
    for (i = 0; i < e->d.slots; i++)
        if (!e->slot[i].r && !e->slot[i].kept &&
            (*at < 0 || (e->slot[i].n ? e->slot[i].used : 0) < (e->slot[*at].n ? e->slot[*at].used : 0)))
            *at = i;
    if (*at < 0) return tinyi_fail(e->ctx, TINY_E_WORKSPACE, "%s: no slot is free now", call);
    tinyi_slot_empty(e, *at);
    return TINY_OK;
}
TINYI_FN void tinyi_kept_hold(tllm_engine *e, tiny_idx at, uint64_t id, size_t n)
{
    tinyi_slot *s = &e->slot[at];
    s->n = n;
    s->adapter = NULL;
    s->weight = 0.0f;
    s->used = ++e->clock;
    s->kept = id;
}

TINY_API tiny_status tllm_engine_put(tllm_engine *e, uint64_t id, const void *bytes, size_t n_bytes)
{
    tiny_idx at, n = 0;
    tiny_status st;
    if (!e) return TINY_E_ARGUMENT;
    st = tinyi_kept_place(e, "tllm_engine_put", id, bytes, &at);
    if (st) return st;
    do st = tllm_state_unpack(e->state, at, bytes, n_bytes, e->slot[at].token, e->d.context, &n);
    while (st == TINY_E_WORKSPACE && tinyi_engine_evict(e, at));
    if (!st && (n != tllm_seq_length(e->state, at) || (n && tllm_seq_next(e->state, at) != (int64_t)n))) {
        tinyi_slot_empty(e, at);
        st = tinyi_fail(e->ctx, TINY_E_FORMAT, "the bytes for request %llu are not those of a text from its beginning",
                        (unsigned long long)id);
    }
    if (!st) tinyi_kept_hold(e, at, id, (size_t)n);
    return st;
}

TINY_API tiny_status tllm_engine_release(tllm_engine *e, uint64_t id)
{
    tiny_idx i;
    tiny_status st;
    if (!e) return TINY_E_ARGUMENT;
    st = tinyi_kept_check(e, "tllm_engine_release");
    if (st) return st;
    i = tinyi_kept_slot(e, id);
    if (i < 0)
        return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "no slot is kept for request %llu", (unsigned long long)id);
    e->slot[i].kept = 0;
    if (e->d.forget || e->slot[i].adapter || e->slot[i].inexact) tinyi_slot_empty(e, i);
    return TINY_OK;
}
