/* src/llm/serve/engine_draft.c - a smaller model that proposes tokens to the requests of an engine
 *
 * The draft has a sequence for each slot. Before a pass it first reads what its sequence lacks of the text of each
 * request that gets proposals, and drops what the text has not: proposals that were refused, or the text of an earlier
 * request. One pass of the draft serves all of them. Then each further pass gives the next proposal of each.
 * A long text is read in pieces of the budget; until it is read, its request gets no proposals. */
#include "llm/serve/engine_inside.h"
#include "llm/serve/speculate_inside.h"
#include <string.h>

/* How many tokens the draft's sequence has of the text, without its last one. The others are dropped. */
static size_t tinyi_engine_draft_same(tllm_engine *e, const tinyi_request *r)
{
    const int32_t *t = e->draft_token + (size_t)r->slot * (size_t)e->d.context;
    const size_t held = (size_t)tllm_seq_length(e->draft, r->slot);
    size_t n = 0;
    while (n < held && n + 1 < r->n_text && t[n] == r->text[n]) n++;
    if (n < held && tllm_seq_trim(e->draft, r->slot, (tiny_idx)n)) {
        tllm_seq_clear(e->draft, r->slot);
        n = 0;
    }
    return n;
}

/* the next item of a pass of the draft; the sequence has `at` tokens before it */
static void tinyi_engine_draft_put(tllm_engine *e, const tinyi_request *r, size_t at, int32_t token, int want,
                                   size_t *items)
{
    tllm_item *x = &e->item[(*items)++];
    x->token = token;
    x->seq = (int32_t)r->slot;
    x->pos = -1;
    x->want = want;
    e->draft_token[(size_t)r->slot * (size_t)e->d.context + at] = token;
}

TINYI_FN tiny_status tinyi_engine_draft(tllm_engine *e, size_t n)
{
    const size_t n_vocab = (size_t)e->text.about.n_vocab;
    const double start = tinyi_draft_clock();
    size_t i, k, items = 0, made = 0, depth, left = (size_t)e->d.budget;
    tiny_status st = TINY_OK;
    for (i = 0; i < n; i++) {
        tinyi_request *r = e->row[i];
        size_t same, take;
        if (!r->n_ahead) continue;
        same = tinyi_engine_draft_same(e, r);
        take = TINYI_MIN(r->n_text - same, left);
        left -= take;
        for (k = 0; k < take; k++, same++)
            tinyi_engine_draft_put(e, r, same, r->text[same], same + 1 == r->n_text, &items);
        if (same < r->n_text) r->n_ahead = 0;
    }
    for (depth = 0; items && !st; depth++) {
        size_t row = 0;
        st = tllm_forward_batch(e->draft, e->item, (tiny_idx)items, e->draft_logits);
        for (i = items = 0; i < n && !st; i++) {
            tinyi_request *r = e->row[i];
            int32_t *x = &r->text[r->n_text + depth];
            if (r->n_ahead <= depth) continue;
            st = tllm_sample(e->draft_greedy, e->draft_logits + row++ * n_vocab, x);
            if (st) break;
            made++;
            if (tllm_vocab_is_end(e->vocab, *x)) r->n_ahead = depth + 1;
            if (depth + 1 < r->n_ahead) tinyi_engine_draft_put(e, r, r->n_text + depth, *x, 1, &items);
        }
    }
    if (st)                                 /* the step goes on without them */
        for (i = 0; i < n; i++) e->row[i]->n_ahead = 0;
    for (i = 0; i < n; i++) e->row[i]->guess = e->row[i]->n_ahead ? e->row[i]->text[e->row[i]->n_text] : -1;
    /* seconds of a proposal; reading a long text is not part of them */
    if (made && left + made >= (size_t)e->d.budget)
        tinyi_draft_time(&e->draft_seconds, (tinyi_draft_clock() - start) / (double)made);
    return st == TINY_E_CANCELLED ? st : TINY_OK;
}

/* Vocabulary, model and sizes, checked; the state of the draft. */
TINYI_FN tiny_status tinyi_engine_draft_open(tllm_engine *e)
{
    const size_t slots = (size_t)e->d.slots;
    const tllm_step greedy = tllm_step_greedy();
    tllm_session draft;
    tllm_state_desc sd;
    tiny_status st;
    memset(&draft, 0, sizeof draft);
    memset(&sd, 0, sizeof sd);
    if (!e->d.draft_vocab) return tinyi_fail(e->ctx, TINY_E_ARGUMENT, "the draft has a model, but no vocabulary");
    tllm_model_about(e->d.draft_model, &draft.about);
    draft.vocab = (tllm_vocab *)(uintptr_t)e->d.draft_vocab;    /* read only */
    if (draft.about.output != TLLM_LOGITS || draft.about.is_encoder || draft.about.has_decoder)
        return tinyi_fail(e->ctx, TINY_E_UNSUPPORTED, "%s: a draft is a decoder that gives logits", draft.about.arch);
    if (draft.about.is_recurrent)
        return tinyi_fail(e->ctx, TINY_E_UNSUPPORTED, "%s has recurrent layers: refused tokens cannot be taken back",
                          draft.about.arch);
    st = tinyi_draft_vocab(&e->text, &draft);
    if (st) return st;
    sd.n_ctx = e->d.context;
    sd.n_batch = e->d.slots + e->d.budget;
    sd.n_seq = e->d.slots;
    sd.n_page = e->d.page;
    st = tllm_state_open(e->ctx, e->d.draft_model, &sd, &e->draft);
    if (!st) st = tllm_sampler_open(e->ctx, &greedy, 1, (int32_t)e->text.about.n_vocab, 0, &e->draft_greedy);
    if (st) return st;
    e->draft_most = (size_t)e->d.context;
    if (e->d.draft_model->top.w[TINYI_T_POSITION_EMBD])  /* learned positions end somewhere */
        e->draft_most = (size_t)TINYI_MIN(e->d.context, e->d.draft_model->top.w[TINYI_T_POSITION_EMBD]->n_out);
    e->draft_token = (int32_t *)tinyi_alloc(e->ctx, slots * (size_t)e->d.context, sizeof *e->draft_token);
    e->draft_logits = (float *)tinyi_alloc(e->ctx, slots * (size_t)e->text.about.n_vocab, sizeof *e->draft_logits);
    return e->draft_token && e->draft_logits ? TINY_OK : tiny_ctx_status(e->ctx);
}

TINYI_FN void tinyi_engine_draft_close(tllm_engine *e)
{
    tllm_state_close(e->ctx, e->draft);
    tllm_sampler_close(e->draft_greedy);
    tiny_free(e->ctx, e->draft_token);
    tiny_free(e->ctx, e->draft_logits);
}
