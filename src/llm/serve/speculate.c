/* src/llm/serve/speculate.c - drafts: what they propose, what is kept, and how much is worth proposing
 *
 * The tokens whose keys and values are in the state of the session are its text and, after it, the proposals that were
 * not refused so far: state = text + x[at .. ahead). rows holds the logits after the first of these passes' tokens and
 * after each proposal. When a token is fed that was proposed, its row is there already. When another one is fed, the
 * rest is taken back and a new pass begins. */
#include "llm/serve/speculate_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <string.h>

typedef struct tinyi_draft {
    tinyi_draft_base b;                     /* first; a slot for each proposal */
    size_t n;                               /* proposals of a pass, at most */
    int32_t x[TLLM_DRAFT_TOKENS + 1];       /* proposals, at 1, 2, ...; x[0]: the token that the pass began with */
    size_t at, ahead;                       /* proposals kept, and proposed */
    /* what was measured: seconds of a pass over i + 1 tokens, i > 0, and of a step of the draft (0: not yet), and the
     * share of proposals kept at each place after those before it were kept */
    double pass[TLLM_DRAFT_TOKENS + 1], step, keep[TLLM_DRAFT_TOKENS];
} tinyi_draft;

TINY_API double tllm_draft_gain(double keep, int n, double cost)
{
    double tokens = 1.0, all = 1.0;
    int i;
    for (i = 0; i < n; i++) tokens += all *= keep;
    return n < 0 ? 0.0 : tokens / ((double)n * cost + 1.0);
}

/* ---- what chains and trees share -------------------------------------------------------------------------------- */

TINYI_FN tiny_status tinyi_draft_vocab(tllm_session *s, const tllm_session *m)
{
    const tllm_vocab *a = s->vocab, *b = m->vocab;
    int32_t t;
    if (s->about.n_vocab != m->about.n_vocab)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the draft has %td tokens in its vocabulary, and the model %td",
                          m->about.n_vocab, s->about.n_vocab);
    for (t = 0; t < (int32_t)s->about.n_vocab; t++) {
        const tllm_text x = tllm_vocab_text(a, t), y = tllm_vocab_text(b, t);
        if (x.n != y.n || (x.n && memcmp(x.at, y.at, x.n) != 0))
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "token %d of the draft is another text than that of the model",
                              (int)t);
    }
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_draft_desc(tllm_session *s, const tllm_draft_desc *desc, tllm_draft_desc *out)
{
    tllm_draft_desc d;
    tiny_status st = tinyi_session_text(s, 1);
    if (st) return st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (!d.n) d.n = d.model ? 4 : 8;
    if (!d.match) d.match = 2;
    if (d.n < 1 || d.n > TLLM_DRAFT_TOKENS)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "a draft proposes 1 to %d tokens at once, not %d", TLLM_DRAFT_TOKENS,
                          d.n);
    if (d.match < 1 || (d.rule != TLLM_DRAFT_SAME && d.rule != TLLM_DRAFT_MOST))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the %s of the draft is %d", d.match < 1 ? "match" : "rule",
                          d.match < 1 ? d.match : (int)d.rule);
    if (d.model == s) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the draft is the session of the text itself");
    if (d.model) {
        st = tinyi_session_text(d.model, 1);
        if (!st) st = tinyi_draft_vocab(s, d.model);
    }
    if (!st && (s->about.is_recurrent || (d.model && d.model->about.is_recurrent)))
        st = tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s has recurrent layers: refused tokens cannot be taken back",
                        (s->about.is_recurrent ? s : d.model)->about.arch);
    if (!st && d.model && (s->about.has_decoder || d.model->about.has_decoder))
        st = tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "a model with an encoder has no draft model");
    *out = d;
    return st;
}

TINYI_FN tiny_status tinyi_draft_fill(tinyi_draft_base *b, tllm_session *s, const tllm_draft_desc *d, size_t rows,
                                      size_t slots)
{
    const size_t n = (size_t)s->about.n_vocab;
    b->calls.count = &b->count;
    b->ctx = s->ctx;
    b->s = s;
    b->d = *d;
    b->n_vocab = n;
    b->pace.patience = TINYI_DRAFT_TRY;
    b->rows = (float *)tinyi_alloc(s->ctx, rows * n, sizeof *b->rows);
    if (!b->rows) return tiny_ctx_status(s->ctx);
    if (!d->model || d->rule != TLLM_DRAFT_MOST) return TINY_OK;
    b->q_token = (int32_t *)tinyi_alloc(s->ctx, (slots + 1) * n, sizeof *b->q_token);
    b->q = b->q_token ? (double *)tinyi_alloc(s->ctx, (slots + 2) * n, sizeof *b->q) : NULL;
    if (!b->q) return tiny_ctx_status(s->ctx);
    b->p_token = b->q_token + slots * n;
    b->dense = b->q + slots * n;
    b->p = b->dense + n;
    memset(b->dense, 0, n * sizeof *b->dense);
    return TINY_OK;
}

TINYI_FN void tinyi_draft_empty(tinyi_draft_base *b)
{
    tllm_sampler_close(b->sampler);
    tiny_free(b->ctx, b->rows);
    tiny_free(b->ctx, b->q_token);
    tiny_free(b->ctx, b->q);
}

/* Of the chain of a text, the steps that need no text and no caller, because that would have to be taken back. own:
 * room for TLLM_DRAFT_TOKENS steps; returns their number. *draws: the text is drawn, by steps without a memory. */
static size_t tinyi_draft_chain(const tllm_step *chain, size_t n_steps, tllm_step *own, int *draws)
{
    size_t i, n = 0;
    int greedy = 0, moves = 0;
    for (i = 0; i < n_steps; i++) {
        const tllm_step_kind kind = chain[i].kind;
        greedy |= kind == TLLM_STEP_GREEDY || (kind == TLLM_STEP_TEMPERATURE && chain[i].x[0] == 0.0f);
        moves |= kind == TLLM_STEP_MIROSTAT_1 || kind == TLLM_STEP_MIROSTAT_2;
        if (n < TLLM_DRAFT_TOKENS && kind != TLLM_STEP_PENALTIES && kind != TLLM_STEP_DRY && kind != TLLM_STEP_FILTER &&
            kind != TLLM_STEP_XTC && kind < TLLM_STEP_MIROSTAT_1)
            own[n++] = chain[i];
    }
    *draws = !greedy && !moves;
    return n;
}

TINYI_FN tiny_status tinyi_draft_start(tinyi_draft_base *b, const tllm_session *s, const tllm_step *chain,
                                       size_t n_steps, uint64_t seed, int guided, uint64_t stream, int greedy)
{
    tllm_step own[TLLM_DRAFT_TOKENS + 1];
    size_t n;
    int draws = 0;
    if (b->s != s) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the draft was opened for another session");
    n = tinyi_draft_chain(chain, n_steps, own, &draws);
    b->weighs = b->d.model && b->d.rule == TLLM_DRAFT_MOST && !guided && draws;
    if (!b->weighs) own[n++] = tllm_step_greedy();
    tllm_sampler_close(b->sampler);
    b->sampler = NULL;
    b->rng = tiny_rng_make(seed, stream);   /* apart from those of the samplers */
    if (!b->d.model || !(b->weighs || greedy)) return TINY_OK;
    return tllm_sampler_open(b->ctx, own, n, (int32_t)b->n_vocab, seed ^ 0x6f776eu, &b->sampler);
}

TINYI_FN void tinyi_draft_keep(tinyi_draft_base *b, size_t slot)
{
    const size_t from = slot * b->n_vocab;
    size_t n = 0;
    while (tllm_sampler_left(b->sampler, n, &b->q_token[from + n], &b->q[from + n])) n++;
    b->q_n[slot] = n;
}
TINYI_FN void tinyi_draft_weigh(tinyi_draft_base *b, size_t slot, tllm_sampler *sampler, size_t *n)
{
    const size_t from = slot * b->n_vocab;
    size_t i;
    for (*n = 0; tllm_sampler_left(sampler, *n, &b->p_token[*n], &b->p[*n]); ++*n) {}
    for (i = 0; i < b->q_n[slot]; i++) b->dense[b->q_token[from + i]] = b->q[from + i];
}
TINYI_FN void tinyi_draft_weighed(tinyi_draft_base *b, size_t slot)
{
    size_t i;
    for (i = 0; i < b->q_n[slot]; i++) b->dense[b->q_token[slot * b->n_vocab + i]] = 0.0;
}

/* ---- what is worth its time ------------------------------------------------------------------------------------- */

TINYI_FN double tinyi_draft_clock(void) { return 1e-9 * (double)tiny_now_ns(); }

TINYI_FN void tinyi_draft_time(double *mean, double seconds)
{
    if (*mean <= 0.0) *mean = seconds;
    else *mean += (seconds < *mean ? 0.5 : 0.2) * (seconds - *mean);
}

TINYI_FN tinyi_draft_next tinyi_draft_turn(tinyi_draft_pace *p)
{
    if (p->plain <= 0.0 || p->with >= TINYI_DRAFT_TRY) return TINYI_DRAFT_PLAIN;
    if (p->without < p->patience) return TINYI_DRAFT_AS_MEASURED;
    p->patience = TINYI_MIN(2 * p->patience, TINYI_DRAFT_TRY_MOST);
    return TINYI_DRAFT_PROPOSE;
}
TINYI_FN void tinyi_draft_gained(tinyi_draft_pace *p) { p->patience = TINYI_DRAFT_TRY; }

TINYI_FN void tinyi_draft_passed(tinyi_draft_base *b, size_t proposed, double seconds)
{
    tinyi_draft_pace *p = &b->pace;
    p->with = proposed ? p->with + 1 : 0;
    p->without = proposed ? 0 : p->without + 1;
    if (!proposed) tinyi_draft_time(&p->plain, seconds);
    b->count.pass_seconds += seconds;
    b->count.passes++;
    b->count.proposed += proposed;
}

#define TINYI_DRAFT_COMPARE 16u             /* rounds after which the slower order is tried again */
TINYI_FN int tinyi_draft_other(tinyi_draft_base *b)
{
    tinyi_draft_pick *p = &b->pick;
    const tinyi_lm_order *order = b->d.model ? b->d.model->state->order : NULL;
    int other;
    if (!order || b->d.always) return order != NULL;
    other = p->t[1] <= 0.0 || (p->t[0] > 0.0 && p->t[1] < p->t[0]);
    return ++p->round % TINYI_DRAFT_COMPARE ? other : !other;
}
TINYI_FN void tinyi_draft_took(tinyi_draft_pick *p, int other, double seconds)
{
    tinyi_draft_time(&p->t[other != 0], seconds);
}

TINYI_FN void tinyi_draft_order(tllm_session *m, int on)
{
    if (m->state->order) m->state->order->on = on;
}

TINYI_FN tiny_status tinyi_draft_read(tinyi_draft_base *b, const int32_t *t, size_t held, const float **logits,
                                      size_t *fresh)
{
    tllm_session *m = b->d.model;
    const tinyi_lm_order *order = m->state->order;
    size_t same = 0;
    tiny_status st = TINY_OK;
    tinyi_draft_order(m, 0);
    if (order && !order->keeps && m->n > b->exact) st = tllm_session_trim(m, b->exact);
    if (!st) st = tllm_session_set(m, t, held, logits, &same);
    b->exact = m->n;
    *fresh = held - same;
    return st;
}

/* ---- chains ----------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_draft_begin(tllm_draft *draft, const tllm_session *s, const tllm_step *chain, size_t n_steps,
                                     uint64_t seed, int guided)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    a->at = a->ahead = 0;
    return tinyi_draft_start(&a->b, s, chain, n_steps, seed, guided, 0x64726166u, 1);
}

TINY_REF_BEGIN
TINY_API int32_t tllm_draft_choose(const int32_t *token, double *p, size_t n, const double *q, int32_t x, double u,
                                   double v)
{
    double sum = 0.0, kept = 0.0;
    size_t i, last = n;
    if (!token || !p || !q || x < 0) return -1;
    for (i = 0; i < n; i++) if (token[i] == x) kept = p[i];
    if (q[x] > 0.0 && u * q[x] < kept) return x;
    for (i = 0; i < n; i++) {
        p[i] = p[i] > q[token[i]] ? p[i] - q[token[i]] : 0.0;
        sum += p[i];
        if (p[i] > 0.0) last = i;
    }
    if (last == n) return -1;
    for (i = 0, v *= sum; i < last; i++)
        if ((v -= p[i]) < 0.0) break;
    return token[i];
}
TINY_REF_END

static tiny_status tinyi_draft_sample(tllm_draft *draft, tllm_sampler *sampler, const float *logits, int32_t *token)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    tinyi_draft_base *b = &a->b;
    size_t n;
    int32_t chosen;
    double u, v;
    const tiny_status st = tllm_sample(sampler, logits, token);
    if (st || !b->weighs || a->at == a->ahead) return st;
    tinyi_draft_weigh(b, a->at, sampler, &n);
    u = tiny_rng_uniform64(&b->rng);
    v = tiny_rng_uniform64(&b->rng);
    chosen = tllm_draft_choose(b->p_token, b->p, n, b->dense, a->x[a->at + 1], u, v);
    if (chosen >= 0) *token = chosen;
    tinyi_draft_weighed(b, a->at);
    return TINY_OK;
}

static tiny_status tinyi_draft_settle(tllm_draft *draft)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    const tllm_session *s = a->b.s;
    const tiny_idx n = (tiny_idx)s->n;
    a->at = a->ahead = 0;
    return tllm_state_length(s->state) > n ? tllm_seq_trim(s->state, 0, n) : TINY_OK;
}

TINYI_FN size_t tinyi_draft_repeat(const int32_t *t, size_t n, size_t match, int32_t *x, size_t most)
{
    size_t at, i, found = 0, best = match;
    for (at = n - 1; at > 0 && best <= match + 3; at--) {   /* t[at - 1] is the end of an earlier place */
        for (i = 0; i < at && i <= match + 3 && t[at - 1 - i] == t[n - 1 - i]; i++) {}
        if (i >= best) {
            found = at;
            best = i + 1;
        }
    }
    for (i = 0; found && i < most && found + i < n; i++) x[i] = t[found + i];
    return i;
}

/* Proposes at most n tokens after the text t (held) of the session; *n: how many. */
static tiny_status tinyi_draft_propose(tinyi_draft *a, const int32_t *t, size_t held, size_t *n)
{
    tinyi_draft_base *b = &a->b;
    tllm_session *m = b->d.model;
    const float *logits = NULL;
    const size_t most = *n;
    const int other = tinyi_draft_other(b);
    size_t i, fresh = 0;
    double start = tinyi_draft_clock();
    tiny_status st;
    *n = 0;
    if (!m) {
        *n = tinyi_draft_repeat(t, held, (size_t)b->d.match, a->x + 1, most);
        return TINY_OK;
    }
    if (held + most > (size_t)m->n_ctx) return TINY_OK;     /* the context of the draft is full */
    st = tinyi_draft_read(b, t, held, &logits, &fresh);
    /* one proposal needs no step of its own: reading what the last pass added is the step */
    if (most == 1 && fresh <= 2) tinyi_draft_time(&a->step, tinyi_draft_clock() - start);
    for (i = 0, start = tinyi_draft_clock(); i < most && !st; i++) {
        int32_t *x = &a->x[i + 1];
        double now;
        if (i) {
            tinyi_draft_order(m, other);
            st = tllm_session_feed(m, x - 1, 1, &logits);
            tinyi_draft_order(m, 0);
        }
        if (!st) st = tllm_sample(b->sampler, logits, x);
        if (st) break;
        if (b->weighs) tinyi_draft_keep(b, i);
        now = tinyi_draft_clock();
        if (i) tinyi_draft_took(&b->pick, other, now - start);
        if (i) tinyi_draft_time(&a->step, now - start);
        start = now;
        *n = i + 1;
        if (tllm_vocab_is_end(m->vocab, *x)) break;
    }
    return st;
}

/* How many tokens to propose, at most n: the number with the most tokens of text in a second, as far as is known. A
 * pass of a size that was never tried is taken to cost as much as the largest smaller one. */
static size_t tinyi_draft_many(tinyi_draft *a, size_t n)
{
    tinyi_draft_pace *pace = &a->b.pace;
    double tokens = 1.0, all = 1.0, pass, most;
    size_t i, best = 0;
    tinyi_draft_next next;
    if (a->b.d.always || !n) return n;
    next = tinyi_draft_turn(pace);
    if (next != TINYI_DRAFT_AS_MEASURED) return next == TINYI_DRAFT_PROPOSE ? n : 0;
    pass = pace->plain;
    most = tokens / pass;
    for (i = 1; i <= n; i++) {
        double rate;
        tokens += all *= a->keep[i - 1];
        if (a->pass[i] > pass) pass = a->pass[i];
        /* a step of the draft also reads the token that the last pass added */
        rate = tokens / (pass + (double)(i + 1) * a->step);
        if (rate > most) {
            most = rate;
            best = i;
        }
    }
    if (best) tinyi_draft_gained(pace);
    return best;
}

static tiny_status tinyi_draft_feed(tllm_draft *draft, int32_t token, size_t most, const float **logits)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    tinyi_draft_base *b = &a->b;
    tllm_session *s = b->s;
    const int kept = a->at < a->ahead && token == a->x[a->at + 1];
    size_t n = 0;
    double start;
    tiny_status st;
    *logits = NULL;
    if (a->at < a->ahead) a->keep[a->at] += 0.05 * ((double)kept - a->keep[a->at]);
    if (kept) {
        s->token[s->n++] = token;
        b->count.kept++;
        *logits = b->rows + ++a->at * b->n_vocab;
        return TINY_OK;
    }
    st = tinyi_draft_settle(draft);
    if (st) return st;
    if (s->n < (size_t)s->n_ctx) {
        s->token[s->n] = a->x[0] = token;   /* the text with this token, which is not computed yet */
        n = TINYI_MIN(TINYI_MIN(a->n, (size_t)s->n_ctx - s->n - 1), most);
        n = tinyi_draft_many(a, n);
        start = tinyi_draft_clock();
        if (n) st = tinyi_draft_propose(a, s->token, s->n + 1, &n);
        b->count.draft_seconds += tinyi_draft_clock() - start;
        if (st) return st;
    }
    start = tinyi_draft_clock();
    if (!n) st = tllm_session_feed(s, &token, 1, logits);      /* the same call as without a draft */
    else {
        st = tllm_forward(s->state, a->x, (tiny_idx)n + 1, (int64_t)s->n, (tiny_idx)n + 1, b->rows);
        if (!st) {
            s->n++;
            a->ahead = n;
            *logits = b->rows;
        }
    }
    if (st) return st;
    start = tinyi_draft_clock() - start;
    if (n) tinyi_draft_time(&a->pass[n], start);
    tinyi_draft_passed(b, n, start);
    return TINY_OK;
}

static void tinyi_draft_close(tllm_draft *draft)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    tinyi_draft_empty(&a->b);
    tiny_free(a->b.ctx, a);
}

TINY_API tiny_status tllm_draft_open(tllm_session *s, const tllm_draft_desc *desc, tllm_draft **out)
{
    tllm_draft_desc d;
    tinyi_draft *a;
    size_t i;
    tiny_status st = tinyi_session_text(s, 1);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "tllm_draft_open: the result pointer is NULL");
    st = tinyi_draft_desc(s, desc, &d);
    if (st) return st;
    a = (tinyi_draft *)tiny_alloc(s->ctx, sizeof *a);
    if (!a) return tiny_ctx_status(s->ctx);
    memset(a, 0, sizeof *a);
    a->b.calls.begin = tinyi_draft_begin;
    a->b.calls.sample = tinyi_draft_sample;
    a->b.calls.feed = tinyi_draft_feed;
    a->b.calls.settle = tinyi_draft_settle;
    a->b.calls.close = tinyi_draft_close;
    a->n = TINYI_MIN((size_t)d.n, (size_t)s->n_batch - 1);         /* a pass is one piece; 0: nothing is proposed */
    for (i = 0; i < TLLM_DRAFT_TOKENS; i++) a->keep[i] = 0.8;
    st = tinyi_draft_fill(&a->b, s, &d, a->n + 1, a->n);
    if (st) tinyi_draft_close(&a->b.calls);
    else *out = &a->b.calls;
    return st;
}

TINY_API void tllm_draft_close(tllm_draft *draft)
{
    if (draft) draft->close(draft);
}

TINY_API void tllm_draft_count(const tllm_draft *draft, tllm_draft_counts *out)
{
    if (!out) return;
    memset(out, 0, sizeof *out);
    if (draft) *out = *draft->count;
}
