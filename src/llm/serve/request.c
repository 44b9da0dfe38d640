/* src/llm/serve/request.c - requests of an engine: taken in, turned into tokens and text, ended
 *
 * Intake    tllm_engine_submit may run on any thread. It works in a context of its own, under a mutex (the door) that
 *           the thread that steps never waits for: a large schema that another thread submits delays no token. The
 *           server (api.h) submits on the thread that steps, and there it does. Requests that have ended go into a
 *           list; the next thread that takes the mutex frees them.
 * Copies    all that a request points to is copied into its block, so its arrays may go after the submit. Grammars and
 *           adapters are large and shared: they stay the caller's. */
#include "llm/serve/engine_inside.h"
#include "llm/serve/speculate_inside.h"
#include "llm/sample/schema.h"
#include "core/time.h"
#include <string.h>
#include <stdio.h>

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* Sizes are counted with base NULL, then the same calls copy. */
typedef struct tinyi_packed { unsigned char *base; size_t at; int ok; } tinyi_packed;

static void *tinyi_pack(tinyi_packed *p, const void *from, size_t n, size_t each)
{
    size_t bytes, at = p->at;
    if (!tinyi_size_mul(n, each, &bytes) || bytes > SIZE_MAX / 4 || p->at > SIZE_MAX / 4) {
        p->ok = 0;
        return NULL;
    }
    p->at += (bytes + 15) & ~(size_t)15;
    if (!p->base) return NULL;
    if (bytes && from) memcpy(p->base + at, from, bytes);
    return p->base + at;
}

/* r NULL: counts only */
static void tinyi_request_copy(tinyi_packed *p, const tllm_request *d, size_t room, tinyi_request *to)
{
    tinyi_request none, *r = to ? to : &none;
    const size_t n_steps = (d->chain ? d->n_steps : 1) + (d->n_bias > 0);
    const char **stop;
    size_t i, at = d->n_bias > 0;
    (void)tinyi_pack(p, NULL, 1, sizeof *r);
    r->text = (int32_t *)tinyi_pack(p, NULL, room, sizeof *r->text);
    r->chain = (tllm_step *)tinyi_pack(p, NULL, n_steps, sizeof *r->chain);
    r->of.bias = (const tllm_bias *)tinyi_pack(p, d->bias, d->n_bias, sizeof *d->bias);
    r->of.begin = (const int32_t *)tinyi_pack(p, d->begin, d->n_begin, sizeof *d->begin);
    stop = (const char **)tinyi_pack(p, NULL, d->n_stop, sizeof *stop);
    if (to) {
        r->n_steps = n_steps;
        memcpy(r->text, d->prompt, d->n_prompt * sizeof *r->text);
        if (d->n_bias) r->chain[0] = tllm_step_bias(r->of.bias, (int32_t)d->n_bias);
        if (d->chain && d->n_steps) memcpy(r->chain + at, d->chain, d->n_steps * sizeof *r->chain);
        if (!d->chain) r->chain[at] = tllm_step_greedy();
        r->of.stop = stop;
    }
    for (i = 0; i < (d->chain ? d->n_steps : 0); i++) {
        const tllm_step *s = &d->chain[i];
        void *list;
        if (s->kind == TLLM_STEP_BIAS) {
            list = tinyi_pack(p, s->bias, (size_t)s->n, sizeof *s->bias);
            if (to) r->chain[at + i].bias = (const tllm_bias *)list;
        } else if (s->kind == TLLM_STEP_DRY) {
            list = tinyi_pack(p, s->breakers, (size_t)s->x[2], sizeof *s->breakers);
            if (to) r->chain[at + i].breakers = (const int32_t *)list;
        }
    }
    for (i = 0; i < d->n_stop; i++) {
        const char *text = (const char *)tinyi_pack(p, d->stop[i], strlen(d->stop[i]) + 1, 1);
        if (to) stop[i] = text;
    }
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static tiny_status tinyi_request_check(const tllm_engine *e, const tllm_request *r)
{
    tiny_ctx *ctx = e->in;
    const int n_vocab = (int)e->text.about.n_vocab, n_texts = !!r->grammar + !!r->gbnf + !!r->schema;
    size_t i;
    if (!r->n_prompt || !r->prompt) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the prompt has no tokens");
    if (r->n_prompt >= e->most)
        return tinyi_fail(ctx, TINY_E_WORKSPACE,
                          "the prompt has %zu tokens, but prompt and answer together may have %zu", r->n_prompt,
                          e->most);
    if (r->keep && e->d.mode != TLLM_ENGINE_PAGED)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "keep: a window keeps no slots; it needs pages");
    for (i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= n_vocab)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "token %zu of the prompt is %d, but the vocabulary has %d", i,
                              (int)r->prompt[i], n_vocab);
    if (r->n_begin && (!r->begin || n_texts || r->n_begin > e->most - r->n_prompt))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "the answer is to begin with %zu tokens%s: without a grammar, and at most %zu after this "
                          "prompt", r->n_begin, r->begin ? "" : ", but their list is NULL", e->most - r->n_prompt);
    for (i = 0; i < r->n_begin; i++)
        if (r->begin[i] < 0 || r->begin[i] >= n_vocab)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "token %zu that the answer is to begin with is %d, but the "
                                                    "vocabulary has %d", i, (int)r->begin[i], n_vocab);
    if (r->n_steps > TLLM_ENGINE_MOST_STEPS || (r->n_steps && !r->chain))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the chain has %zu steps%s: at most %d", r->n_steps,
                          r->chain ? "" : ", but is NULL", TLLM_ENGINE_MOST_STEPS);
    if (r->n_bias > (size_t)n_vocab || (r->n_bias && !r->bias))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%zu biases%s: at most one for each of %d tokens", r->n_bias,
                          r->bias ? "" : ", but their list is NULL", n_vocab);
    if (r->n_bias) {
        const tllm_step bias = tllm_step_bias(r->bias, (int32_t)r->n_bias);
        const tiny_status st = tinyi_sampler_check(ctx, &bias, 1, n_vocab);
        if (st) return st;
    }
    for (i = 0; r->chain && i < r->n_steps; i++)         /* before the list is read */
        if (r->chain[i].kind == TLLM_STEP_BIAS && r->chain[i].n > n_vocab)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d biases: at most one for each of %d tokens",
                              (int)r->chain[i].n, n_vocab);
    if (r->chain) {
        const tiny_status st = tinyi_sampler_check(ctx, r->chain, r->n_steps, n_vocab);
        if (st) return st;
    }
    if (r->n_stop > TLLM_ENGINE_MOST_STOPS || (r->n_stop && !r->stop))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%zu stop strings%s: at most %d", r->n_stop,
                          r->stop ? "" : ", but their list is NULL", TLLM_ENGINE_MOST_STOPS);
    for (i = 0; i < r->n_stop; i++) {
        size_t n = 0;
        while (r->stop[i] && n <= TLLM_ENGINE_MOST_STOP_BYTES && r->stop[i][n]) n++;
        if (!n || n > TLLM_ENGINE_MOST_STOP_BYTES)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "stop string %zu is %s: it must have 1 to %d bytes", i,
                              !r->stop[i] ? "NULL" : n ? "too long" : "empty", TLLM_ENGINE_MOST_STOP_BYTES);
    }
    if (n_texts > 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "a request may have a grammar, a text in GBNF or a schema, not %d of them", n_texts);
    if (n_texts && !TINYI_HAS(GRAMMAR))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "grammars are not compiled into this program");
    if (r->adapter && !TINYI_HAS(ADAPTERS))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "adapters are not compiled into this program");
    if (!(r->adapter_weight > -1e6f && r->adapter_weight < 1e6f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the weight %g of the adapter is invalid", (double)r->adapter_weight);
    if (r->n_top > TLLM_ENGINE_MOST_TOP)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%zu alternatives for each token: at most %d", r->n_top,
                          TLLM_ENGINE_MOST_TOP);
    return TINY_OK;
}

static tiny_status tinyi_request_grammar(tllm_engine *e, const tllm_request *d, tllm_grammar **out)
{
    char *text = NULL;
    size_t n = 0;
    tiny_status st;
    if (!TINYI_HAS(GRAMMAR) || (!d->gbnf && !d->schema)) return TINY_OK;
    if (d->gbnf) return tllm_grammar_open(e->in, d->gbnf, d->n_gbnf, "root", out);
    st = tllm_schema_grammar(e->in, d->schema, d->n_schema, &text, &n);
    if (!st) st = tllm_grammar_open(e->in, text, n, "root", out);
    tiny_free(e->in, text);
    return st;
}

/* ---- submit and cancel ------------------------------------------------------------------------------------------ */

static void tinyi_engine_door(tllm_engine *e, int in)
{
#if TINYI_HAVE_PTHREAD
    if (in) (void)pthread_mutex_lock(&e->door);
    else (void)pthread_mutex_unlock(&e->door);
#else
    (void)e;
    (void)in;
#endif
}

static tinyi_request *tinyi_engine_find(const tllm_engine *e, uint64_t id)
{
    tinyi_request *r;
    for (r = e->all; r && (r->id != id || r->ended); r = r->after) {}
    return r;
}

/* under the lock: a number, a place in the inbox, or why there is none */
static tiny_status tinyi_engine_enter(tllm_engine *e, tinyi_request *r)
{
    if (e->closing) return tinyi_fail(e->in, TINY_E_CANCELLED, "the engine is being closed");
    if (e->n_waiting >= e->d.queue)
        return tinyi_fail(e->in, TINY_E_WORKSPACE, "the queue is full: %zu requests wait", e->n_waiting);
    if (r->id && tinyi_engine_find(e, r->id))
        return tinyi_fail(e->in, TINY_E_ARGUMENT, "the id %llu is that of a request that did not end",
                          (unsigned long long)r->id);
    while (!r->id) {
        const uint64_t id = ++e->next_id;
        if (id && !tinyi_engine_find(e, id)) r->id = id;
    }
    r->number = e->next_number++;
    if (e->inbox_last) e->inbox_last->next = r;
    else e->inbox = r;
    e->inbox_last = r;
    r->after = e->all;
    if (e->all) e->all->before = r;
    e->all = r;
    e->n_all++;
    e->n_waiting++;
    e->told.accepted++;
    e->told.waiting = e->n_waiting;
    return TINY_OK;
}

static tiny_status tinyi_request_make(tllm_engine *e, const tllm_request *d, tinyi_request **out)
{
    const size_t left = e->most - d->n_prompt, most = d->n_most ? TINYI_MIN(d->n_most, left) : left;
    const size_t room = d->n_prompt + (d->prompt_only ? 0 : most) + 1;
    tinyi_packed p;
    tinyi_request *r;
    tllm_grammar *g = NULL;
    tiny_status st = tinyi_request_grammar(e, d, &g);
    if (st) return st;
    memset(&p, 0, sizeof p);
    p.ok = 1;
    tinyi_request_copy(&p, d, room, NULL);
    r = p.ok ? (tinyi_request *)tiny_alloc(e->in, p.at) : NULL;
    if (!r) {
        if (TINYI_HAS(GRAMMAR)) tllm_grammar_close(e->in, g);
        return p.ok ? tiny_ctx_status(e->in) : tinyi_fail(e->in, TINY_E_OVERFLOW, "the request is too large");
    }
    memset(r, 0, sizeof *r);
    p.base = (unsigned char *)r;
    p.at = 0;
    r->of = *d;
    tinyi_request_copy(&p, d, room, r);
    r->of.prompt = r->text;
    r->of.chain = NULL;
    r->of.gbnf = r->of.schema = NULL;
    r->own = g;
    if (g) r->of.grammar = g;
    if (d->adapter_weight == 0.0f) r->of.adapter_weight = 1.0f;
    r->id = d->id;
    r->n_text = d->n_prompt;
    r->n_told = d->prompt_logprobs ? 1 : d->n_prompt;
    r->slot = -1;
    r->guess = -1;
    r->keep = TINYI_AHEAD_KEEP;
    r->patience = TINYI_DRAFT_TRY;
    r->submitted = tiny_now_ns();
    *out = r;
    return TINY_OK;
}

TINY_API tiny_status tllm_engine_submit(tllm_engine *e, const tllm_request *d, uint64_t *id, char *error,
                                        size_t n_error)
{
    tinyi_request *r = NULL;
    tiny_status st;
    if (id) *id = 0;
    if (error && n_error) error[0] = 0;
    if (!e || !d) return TINY_E_ARGUMENT;
    tinyi_engine_door(e, 1);
    tinyi_engine_sweep(e, -1);
    st = tinyi_request_check(e, d);
    if (!st) st = tinyi_request_make(e, d, &r);
    tinyi_engine_lock(e);
    if (!st) st = tinyi_engine_enter(e, r);
    if (st) e->told.refused++;
    else if (id) *id = r->id;
#if TINYI_HAVE_PTHREAD
    if (!st) (void)pthread_cond_signal(&e->work);
#endif
    tinyi_engine_unlock(e);
    if (st && error && n_error) (void)snprintf(error, n_error, "%s", tiny_ctx_message(e->in));
    if (st && r) {
        if (TINYI_HAS(GRAMMAR)) tllm_grammar_close(e->in, r->own);
        tiny_free(e->in, r);
    }
    tinyi_engine_door(e, 0);
    if (!st && e->d.wake) e->d.wake(e->d.user);
    return st;
}

TINY_API tiny_status tllm_engine_cancel(tllm_engine *e, uint64_t id)
{
    tinyi_request *r;
    if (!e) return TINY_E_ARGUMENT;
    tinyi_engine_lock(e);
    r = tinyi_engine_find(e, id);
    if (r) r->cancelled = 1;
#if TINYI_HAVE_PTHREAD
    if (r) (void)pthread_cond_signal(&e->work);
#endif
    tinyi_engine_unlock(e);
    if (r && e->d.wake) e->d.wake(e->d.user);
    return r ? TINY_OK : TINY_E_ARGUMENT;
}

/* wait: 1: takes the door; 0: only if it is free; -1: the caller has it */
TINYI_FN void tinyi_engine_sweep(tllm_engine *e, int wait)
{
    tinyi_request *r, *next;
#if TINYI_HAVE_PTHREAD
    if (wait == 0 && pthread_mutex_trylock(&e->door)) return;
#endif
    if (wait > 0) tinyi_engine_door(e, 1);
    tinyi_engine_lock(e);
    r = e->dead;
    e->dead = NULL;
    tinyi_engine_unlock(e);
    for (; r; r = next) {
        next = r->next;
        if (TINYI_HAS(GRAMMAR)) tllm_grammar_close(e->in, r->own);
        tiny_free(e->in, r);
    }
    if (wait >= 0) tinyi_engine_door(e, 0);
}

/* ---- the text of a request -------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_request_fail(tllm_engine *e, tinyi_request *r, tiny_status st)
{
    r->status = st;
    r->over = 1;
    tinyi_keep_says(r->error, sizeof r->error, tiny_ctx_message(e->ctx));
}

TINYI_FN tiny_status tinyi_request_open(tllm_engine *e, tinyi_request *r)
{
    size_t i;
    tiny_status st;
    if (r->opened) return TINY_OK;
    r->opened = 1;
    st = tllm_sampler_open(e->ctx, r->chain, r->n_steps, (int32_t)e->text.about.n_vocab, r->of.seed, &r->g.sampler);
    if (!st) st = tllm_stop_open(e->ctx, r->of.stop, r->of.n_stop, &r->g.stop);
    if (TINYI_HAS(GRAMMAR) && !st && r->of.grammar) {
        st = tllm_grammar_begin(e->ctx, r->of.grammar, &r->g.state);
        r->g.piece = e->piece;
        r->g.masked = e->masked;
        r->g.may = e->may;
    }
    for (i = 0; i < r->of.n_prompt && !st; i++) st = tllm_sampler_accept(r->g.sampler, r->text[i]);
    r->stream = tllm_stream_start(e->vocab, r->of.special ? TLLM_DECODE_SPECIAL : 0);
    r->stream.bare = 0;
    return st;
}

TINYI_FN void tinyi_request_close(tllm_engine *e, tinyi_request *r)
{
    tllm_sampler_close(r->g.sampler);
    tllm_stop_close(r->g.stop);
    tllm_bytes_free(e->ctx, &r->g.bytes);
    tiny_free(e->ctx, r->g.out);
    if (TINYI_HAS(GRAMMAR)) tllm_grammar_free(e->ctx, r->g.state);
    memset(&r->g, 0, sizeof r->g);
}

typedef struct tinyi_heard { const char *at; size_t n; } tinyi_heard;
static int tinyi_request_hear(void *user, const char *bytes, size_t n)
{
    tinyi_heard *h = (tinyi_heard *)user;
    h->at = bytes;
    h->n = n;
    return 0;
}
/* the text that may be shown; *ended: a stop string was found */
static tiny_status tinyi_request_say(tllm_engine *e, tinyi_request *r, int last, tinyi_heard *h, int *ended)
{
    tllm_generate_desc d;
    memset(&d, 0, sizeof d);
    memset(h, 0, sizeof *h);
    d.text = tinyi_request_hear;
    d.user = h;
    return tinyi_generate_say(&e->text, &r->g, &d, last, &r->end, ended);
}

static tiny_status tinyi_request_logprobs(tllm_engine *e, const tinyi_request *r, const float *logits,
                                          tllm_engine_token *t)
{
    const int32_t n_vocab = (int32_t)e->text.about.n_vocab, k = (int32_t)TINYI_MIN(r->of.n_top, (size_t)n_vocab);
    int32_t i;
    tiny_status st = TINY_OK;
    if (!r->of.logprobs && !t->prompt && !k) return TINY_OK;
    st = tllm_logprob(e->ctx, logits, n_vocab, t->token, &t->logprob);
    if (!st && k) st = tllm_logprobs(e->ctx, logits, n_vocab, k, e->top_t, e->top_p);
    for (i = 0; i < k && !st; i++) {
        e->top[i].token = e->top_t[i];
        e->top[i].logprob = e->top_p[i];
    }
    t->top = e->top;
    t->n_top = st ? 0 : (size_t)k;
    return st;
}

static void tinyi_request_tell(tinyi_request *r, const tllm_engine_token *t)
{
    if (!r->of.token || !r->of.token(r->of.user, t) || r->over) return;
    r->over = 1;
    r->end = TLLM_END_CALLER;
}

TINYI_FN void tinyi_request_prompt(tllm_engine *e, tinyi_request *r, size_t first)
{
    size_t i, k = 0;
    for (i = first; i < first + r->n_now && !r->over; i++) {
        tllm_engine_token t;
        tiny_status st;
        if (i + 1 < r->n_told || i + 1 >= r->of.n_prompt) continue;
        memset(&t, 0, sizeof t);
        t.id = r->id;
        t.token = r->text[i + 1];
        t.index = i + 1;
        t.prompt = 1;
        st = tinyi_request_logprobs(e, r, r->rows + k++ * (size_t)e->text.about.n_vocab, &t);
        r->n_told = i + 2;
        if (st) tinyi_request_fail(e, r, st);
        else tinyi_request_tell(r, &t);
    }
}

TINYI_FN void tinyi_request_draw(tllm_engine *e, tinyi_request *r, const float *logits)
{
    tllm_engine_token t;
    tinyi_heard heard;
    int ended = 0;
    tiny_status st;
    r->end = TLLM_END_LENGTH;
    if (r->of.prompt_only) {
        r->over = 1;
        return;
    }
    memset(&t, 0, sizeof t);
    st = TINYI_HAS(GRAMMAR) && r->g.state ? tinyi_generate_guided(&e->text, &r->g, logits, &t.token)
                                          : tllm_sample(r->g.sampler, logits, &t.token);
    if (!st && r->n_made < r->of.n_begin) t.token = r->of.begin[r->n_made];
    if (!st && t.token < 0) {
        r->end = TLLM_END_GRAMMAR;
        r->over = 1;
        return;
    }
    if (!st && tllm_vocab_is_end(e->vocab, t.token) && (!r->of.past_end || r->g.state)) {
        r->end = TLLM_END_TOKEN;
        r->over = 1;
        return;
    }
    t.id = r->id;
    t.index = r->n_made;
    if (!st) st = tllm_sampler_accept(r->g.sampler, t.token);
    if (!st) st = tllm_stream_next(e->ctx, &r->stream, t.token, &r->g.bytes);
    if (!st) st = tinyi_request_say(e, r, 0, &heard, &ended);
    if (!st) st = tinyi_request_logprobs(e, r, logits, &t);
    if (st) {
        tinyi_request_fail(e, r, st);
        return;
    }
    t.text = heard.n ? heard.at : "";
    t.n_text = heard.n;
    if (!r->first) r->first = tiny_now_ns();
    r->n_made++;
    e->now.made_tokens++;
    r->over = ended || r->n_text >= e->most || r->n_made == r->of.n_most;
    if (!ended && r->n_text >= e->most) r->end = TLLM_END_CONTEXT;
    r->text[r->n_text++] = t.token;
    tinyi_request_tell(r, &t);
}

TINYI_FN void tinyi_request_end(tllm_engine *e, tinyi_request *r)
{
    tllm_engine_result x;
    tinyi_heard heard;
    const uint64_t now = tiny_now_ns();
    int ended = 0;
    memset(&x, 0, sizeof x);
    memset(&heard, 0, sizeof heard);
    /* a caller that asked to stop gets no more text */
    if (!r->status && r->opened && r->end != TLLM_END_CALLER && r->end != TLLM_END_STRING) {
        const tllm_end why = r->end;
        tiny_status st = tllm_stream_end(e->ctx, &r->stream, &r->g.bytes);
        if (!st) st = tinyi_request_say(e, r, 1, &heard, &ended);
        if (st) tinyi_request_fail(e, r, st);
        else if (!ended) r->end = why;
    }
    x.id = r->id;
    x.end = r->end;
    x.status = r->status;
    x.error = r->error;
    x.text = heard.n ? heard.at : "";
    x.n_text = heard.n;
    x.stop = r->end == TLLM_END_STRING && r->g.found ? r->of.stop[r->g.found - 1] : NULL;
    x.n_prompt = r->of.n_prompt;
    x.n_cached = r->n_cached;
    x.n_made = r->n_made;
    x.n_again = r->n_again;
    x.n_proposed = r->n_proposed;
    x.n_kept = r->n_kept;
    x.start_seconds = 1e-9 * (double)((r->started ? r->started : now) - r->submitted);
    x.first_seconds = 1e-9 * (double)((r->first ? r->first : now) - r->submitted);
    x.seconds = 1e-9 * (double)(now - r->submitted);
    x.user = r->of.user;
    tinyi_engine_lock(e);
    r->ended = 1;
    tinyi_engine_unlock(e);
    if (r->of.end) r->of.end(r->of.user, &x);
    tinyi_request_close(e, r);
    tinyi_engine_lock(e);
    e->now.ended++;
    e->now.failed += r->status != TINY_OK;
    e->now.cancelled += !r->status && r->end == TLLM_END_CALLER;
    if (r->before) r->before->after = r->after;
    else e->all = r->after;
    if (r->after) r->after->before = r->before;
    e->n_all--;
    r->next = e->dead;
    e->dead = r;
    tinyi_engine_unlock(e);
}
