/* src/llm/serve/engine_open.c - an engine: opened and closed, its own thread, and what other threads may see of it */
#include "llm/serve/engine_inside.h"
#include "llm/serve/speculate.h"
#include "llm/model/model_inside.h"
#include "core/time.h"
#include <string.h>

/* ---- a thread of its own ---------------------------------------------------------------------------------------- */

#if TINYI_HAVE_HELPERS
static void *tinyi_engine_main(void *user)
{
    tllm_engine *e = (tllm_engine *)user;
    int more = 1;
    tiny_status st = TINY_OK;
    for (;;) {
        tinyi_engine_lock(e);
        while (!e->quit && !e->n_all) (void)pthread_cond_wait(&e->work, &e->lock);
        if (st && !e->quit) tinyi_wait(&e->work, &e->lock, 10000000);   /* a step that failed is tried again */
        if (e->quit) break;
        tinyi_engine_unlock(e);
        st = tinyi_engine_round(e, &more);
    }
    tinyi_engine_unlock(e);
    return NULL;
}
#endif

TINY_API tiny_status tllm_engine_start(tllm_engine *e)
{
    tiny_status st = TINY_OK;
    if (!e) return TINY_E_ARGUMENT;
    if (e->stepping) return TINY_E_UNSUPPORTED;
#if TINYI_HAVE_HELPERS
    tinyi_engine_lock(e);
    if (e->threaded) st = TINY_E_UNSUPPORTED;
    e->quit = 0;
    e->threaded = 1;
    tinyi_engine_unlock(e);
    if (st) return st;
    if (pthread_create(&e->thread, NULL, tinyi_engine_main, e)) {
        e->threaded = 0;
        st = tinyi_fail(e->ctx, TINY_E_IO, "the system gave no thread for the engine");
    }
#else
    st = tinyi_fail(e->ctx, TINY_E_UNSUPPORTED, "this program was compiled without threads of the library");
#endif
    return st;
}

TINY_API void tllm_engine_stop(tllm_engine *e)
{
    if (!e) return;
#if TINYI_HAVE_HELPERS
    tinyi_engine_lock(e);
    e->quit = 1;
    (void)pthread_cond_signal(&e->work);
    tinyi_engine_unlock(e);
    if (!e->threaded) return;
    (void)pthread_join(e->thread, NULL);
    tinyi_engine_lock(e);
    e->threaded = 0;
    tinyi_engine_unlock(e);
#endif
}

TINY_API int tllm_engine_idle(tllm_engine *e, double seconds)
{
    int idle;
#if TINYI_HAVE_PTHREAD
    const uint64_t until = tiny_now_ns() + (uint64_t)(1e9 * (seconds > 0 ? TINYI_MIN(seconds, 1e9) : 0.0));
#endif
    if (!e) return 1;
    tinyi_engine_lock(e);
#if TINYI_HAVE_PTHREAD
    while (e->n_all && e->threaded) {
        const uint64_t now = tiny_now_ns();
        if (now >= until) break;
        tinyi_wait(&e->rest, &e->lock, until - now);
    }
#else
    (void)seconds;
#endif
    idle = e->n_all == 0;
    tinyi_engine_unlock(e);
    return idle;
}

/* ---- what it does ----------------------------------------------------------------------------------------------- */

TINY_API size_t tllm_engine_slots(tllm_engine *e, tllm_engine_slot *out, size_t room)
{
    if (!e) return 0;
    tinyi_engine_lock(e);
    if (out) memcpy(out, e->told_slot, TINYI_MIN(room, (size_t)e->d.slots) * sizeof *out);
    tinyi_engine_unlock(e);
    return (size_t)e->d.slots;
}

TINY_API void tllm_engine_count(tllm_engine *e, tllm_engine_counters *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (!e) return;
    tinyi_engine_lock(e);
    *out = e->told;
    out->waiting = e->n_waiting;
    tinyi_engine_unlock(e);
}

TINY_API const tllm_gguf *tllm_engine_file(const tllm_engine *e) { return e ? e->file : NULL; }
TINY_API const tllm_model *tllm_engine_model(const tllm_engine *e) { return e ? e->model : NULL; }
TINY_API const tllm_vocab *tllm_engine_vocab(const tllm_engine *e) { return e ? e->vocab : NULL; }
TINY_API tiny_idx tllm_engine_context(const tllm_engine *e) { return e ? (tiny_idx)e->most : 0; }

/* ---- open and close --------------------------------------------------------------------------------------------- */

static tiny_status tinyi_engine_desc(tllm_engine *e, const tllm_engine_desc *desc, tllm_state_desc *state)
{
    const tllm_about *a = &e->text.about;
    tllm_engine_desc *d = &e->d;
    if (desc) *d = *desc;
    if (a->output != TLLM_LOGITS || a->is_encoder || a->has_decoder)
        return tinyi_fail(e->ctx, TINY_E_UNSUPPORTED, "%s: an engine serves decoders that give logits", a->arch);
    if (!d->slots) d->slots = 8;
    if (!d->context) d->context = TINYI_MIN(a->n_context, 4096);
    if (!d->page) d->page = 16;
    if (!d->budget) d->budget = 256;
    if (!d->queue) d->queue = 256;
    if (d->slots < 1 || d->slots > TLLM_ENGINE_MOST_SLOTS || d->context < 2 || d->budget < 1 || d->cells < 0 ||
        d->page < 1 || d->context > TINY_IDX_MAX / 4096 || d->budget > TINY_IDX_MAX / 4096)
        return tinyi_fail(e->ctx, TINY_E_ARGUMENT,
                          "an engine of %td slots with %td tokens each, pages of %td, a budget of %td: at least 1 (2 "
                          "tokens), and at most %d slots",
                          d->slots, d->context, d->page, d->budget, TLLM_ENGINE_MOST_SLOTS);
    if (d->mode != TLLM_ENGINE_PAGED && d->mode != TLLM_ENGINE_WINDOW)
        return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "%d is no mode of an engine", (int)d->mode);
    if (d->mode == TLLM_ENGINE_WINDOW) {
        if (d->cells || d->reserve)
            return tinyi_fail(e->ctx, TINY_E_ARGUMENT,
                              "in a window each slot has the room of a context: cells and reserve are for pages");
        d->page = d->context;
    }
    d->page = TINYI_MIN(d->page, d->context);
    if (d->draft_n < 0 || d->draft_n > TLLM_DRAFT_TOKENS || d->draft_match < 0)
        return tinyi_fail(e->ctx, TINY_E_ARGUMENT,
                          "an engine proposes 0 to %d tokens after at least 1 that agree, not %d after %d",
                          TLLM_DRAFT_TOKENS, d->draft_n, d->draft_match);
    if (!d->draft_match) d->draft_match = 2;
    if (!d->draft_n && d->draft_model) d->draft_n = 4;
    if (d->draft_n && a->is_recurrent)
        return tinyi_fail(e->ctx, TINY_E_UNSUPPORTED, "%s has recurrent layers: refused tokens cannot be taken back",
                          a->arch);
    memset(state, 0, sizeof *state);
    state->n_ctx = d->context;
    state->n_batch = d->slots + d->budget;
    state->n_seq = d->slots;
    state->n_page = d->page;
    state->n_cells = d->cells;
    state->type_k = d->type_k;
    state->type_v = d->type_v;
    state->exact = d->exact;
    return TINY_OK;
}

static tiny_status tinyi_engine_fill(tllm_engine *e, const tllm_engine_desc *desc)
{
    tiny_ctx *ctx = e->ctx;
    const tllm_pages *pages;
    tllm_state_desc sd;
    tiny_ctx_desc cd;
    tiny_status st;
    size_t slots, n_vocab, ahead, i;
    tllm_model_about(e->model, &e->text.about);
    e->text.ctx = ctx;
    e->text.vocab = (tllm_vocab *)(uintptr_t)e->vocab;  /* read only: a session has it without const */
    st = tinyi_engine_desc(e, desc, &sd);
    if (st) return st;
    memset(&cd, 0, sizeof cd);
    cd.allocator = ctx->desc.allocator;
    cd.max_bytes = ctx->desc.max_bytes;
    cd.n_threads = 1;
    cd.target = ctx->target;
    st = tiny_ctx_open(&cd, &e->in);
    if (st) {
        e->in = NULL;
        return tinyi_fail(ctx, st, "the engine has no memory for its intake");
    }
    st = tllm_state_open(ctx, e->model, &sd, &e->state);
    if (st) return st;
    if (e->d.draft_model) st = tinyi_engine_draft_open(e);
    if (st) return st;
    pages = &e->state->pages;
    e->n_page = pages->block;
    e->n_pages = pages->n_block;
    e->most = (size_t)TINYI_MIN(e->d.context, e->n_pages * e->n_page);
    if (e->model->top.w[TINYI_T_POSITION_EMBD])          /* learned positions end somewhere */
        e->most = (size_t)TINYI_MIN((tiny_idx)e->most, e->model->top.w[TINYI_T_POSITION_EMBD]->n_out);
    slots = (size_t)e->d.slots;
    n_vocab = (size_t)e->text.about.n_vocab;
    ahead = TINYI_MIN(slots * (size_t)e->d.draft_n, (size_t)e->d.budget);
    e->slot = (tinyi_slot *)tinyi_alloc(ctx, slots, sizeof *e->slot);
    e->token = (int32_t *)tinyi_alloc(ctx, slots * (size_t)e->d.context, sizeof *e->token);
    e->item = (tllm_item *)tinyi_alloc(ctx, 2 * slots + (size_t)e->d.budget, sizeof *e->item);
    e->row = (tinyi_request **)tinyi_alloc(ctx, slots, sizeof *e->row);
    e->held = (size_t *)tinyi_alloc(ctx, 3 * slots, sizeof *e->held);
    e->told_slot = (tllm_engine_slot *)tinyi_alloc(ctx, slots, sizeof *e->told_slot);
    e->top = (tllm_engine_top *)tinyi_alloc(ctx, TLLM_ENGINE_MOST_TOP, sizeof *e->top);
    e->top_p = (double *)tinyi_alloc(ctx, TLLM_ENGINE_MOST_TOP, sizeof *e->top_p);
    e->top_t = (int32_t *)tinyi_alloc(ctx, TLLM_ENGINE_MOST_TOP, sizeof *e->top_t);
    e->logits = (float *)tinyi_alloc(ctx, (slots + TINYI_ENGINE_WANTS + ahead) * n_vocab, sizeof *e->logits);
    e->masked = (float *)tinyi_alloc(ctx, n_vocab, sizeof *e->masked);
    e->may = (unsigned char *)tinyi_alloc(ctx, n_vocab, 1);
    e->piece = (char *)tiny_alloc(ctx, tllm_piece_most(e->vocab));
    if (!e->slot || !e->token || !e->item || !e->row || !e->held || !e->told_slot || !e->top || !e->top_p ||
        !e->top_t || !e->logits || !e->masked || !e->may || !e->piece)
        return tiny_ctx_status(ctx);
    memset(e->slot, 0, slots * sizeof *e->slot);
    memset(e->told_slot, 0, slots * sizeof *e->told_slot);
    e->from = e->held + slots;
    e->to = e->from + slots;
    for (i = 0; i < slots; i++) e->slot[i].token = e->token + i * (size_t)e->d.context;
    tinyi_engine_publish(e, NULL);
    return TINY_OK;
}

static tiny_status tinyi_engine_start(tiny_ctx *ctx, const char *call, const void *needed, tllm_engine **out,
                                      tllm_engine **e)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!needed || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the %s is NULL", call,
                          out ? "model, vocabulary or path" : "result pointer");
    *e = (tllm_engine *)tiny_alloc(ctx, sizeof **e);
    if (!*e) return tiny_ctx_status(ctx);
    memset(*e, 0, sizeof **e);
    (*e)->ctx = ctx;
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_init(&(*e)->door, NULL);
    (void)pthread_mutex_init(&(*e)->lock, NULL);
    (void)pthread_cond_init(&(*e)->work, NULL);
    (void)pthread_cond_init(&(*e)->rest, NULL);
#endif
    return TINY_OK;
}

TINY_API tiny_status tllm_engine_open(tiny_ctx *ctx, const tllm_model *model, const tllm_vocab *vocab,
                                      const tllm_engine_desc *desc, tllm_engine **out)
{
    tllm_engine *e = NULL;
    tiny_status st = tinyi_engine_start(ctx, "tllm_engine_open", vocab ? (const void *)model : NULL, out, &e);
    if (st) return st;
    e->model = model;
    e->vocab = vocab;
    st = tinyi_engine_fill(e, desc);
    if (st) tllm_engine_close(e);
    else *out = e;
    return st;
}

TINY_API tiny_status tllm_engine_open_file(tiny_ctx *ctx, const char *path, const tllm_engine_desc *desc,
                                           tllm_engine **out)
{
    tllm_engine *e = NULL;
    tiny_status st = tinyi_engine_start(ctx, "tllm_engine_open_file", path, out, &e);
    if (st) return st;
    st = tllm_file_open(ctx, path, &e->file);
    if (!st) st = tllm_model_open(ctx, e->file, &e->own_model);
    if (!st) st = tllm_vocab_open(ctx, e->file, &e->own_vocab);
    e->model = e->own_model;
    e->vocab = e->own_vocab;
    if (!st) st = tinyi_engine_fill(e, desc);
    if (st) tllm_engine_close(e);
    else *out = e;
    return st;
}

TINY_API void tllm_engine_close(tllm_engine *e)
{
    tiny_ctx *ctx;
    tinyi_request *r;
    if (!e) return;
    ctx = e->ctx;
    tllm_engine_stop(e);
    tinyi_engine_lock(e);
    e->closing = 1;
    e->inbox = e->inbox_last = NULL;        /* they are in `all` too */
    tinyi_engine_unlock(e);
    while ((r = e->all) != NULL) {          /* no other thread may call any more */
        r->end = TLLM_END_CALLER;
        tinyi_request_end(e, r);
    }
    if (e->in) tinyi_engine_sweep(e, 1);
    tiny_ctx_close(e->in);
    tllm_state_close(ctx, e->state);
    tinyi_engine_draft_close(e);
    if (TINYI_HAS(GRAMMAR)) tllm_pieces_close(ctx, e->text.pieces);
    tiny_free(ctx, e->slot);
    tiny_free(ctx, e->token);
    tiny_free(ctx, e->item);
    tiny_free(ctx, e->row);
    tiny_free(ctx, e->held);
    tiny_free(ctx, e->told_slot);
    tiny_free(ctx, e->top);
    tiny_free(ctx, e->top_p);
    tiny_free(ctx, e->top_t);
    tiny_free(ctx, e->logits);
    tiny_free(ctx, e->masked);
    tiny_free(ctx, e->may);
    tiny_free(ctx, e->piece);
    tllm_vocab_close(ctx, e->own_vocab);
    tllm_model_close(ctx, e->own_model);
    tllm_gguf_close(ctx, e->file);
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_destroy(&e->rest);
    (void)pthread_cond_destroy(&e->work);
    (void)pthread_mutex_destroy(&e->lock);
    (void)pthread_mutex_destroy(&e->door);
#endif
    tiny_free(ctx, e);
}
