/* src/llm/serve/speculate.c - drafts: what they propose, what is kept, and how much is worth proposing
 *
 * The tokens whose keys and values are in the state of the session are its text and, after it, the proposals that were
 * not refused so far: state = text + x[at .. ahead). rows holds the logits after the first of these passes' tokens and
 * after each proposal. When a token is fed that was proposed, its row is there already. When another one is fed, the
 * rest is taken back and a new pass begins. */
#include "llm/serve/speculate_inside.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <string.h>

typedef struct tinyi_draft {
    tllm_draft calls;                       /* first: what tllm_generate sees */
    tiny_ctx *ctx;
    tllm_session *s;
    tllm_draft_desc d;
    size_t n, n_vocab;
    int32_t x[TLLM_DRAFT_TOKENS + 1];       /* proposals, at 1, 2, ...; x[0]: the token that the pass began with */
    float *rows;                            /* (n + 1, n_vocab) */
    size_t at, ahead;                       /* proposals kept, and proposed */
    size_t exact;                           /* tokens of the draft that were computed in the order of its layers */
    tinyi_draft_pick pick;
    /* TLLM_DRAFT_MOST: what the draft draws proposal i from, (n, n_vocab) each; dense (n_vocab), zero between calls */
    int weighs;
    int32_t *q_token, *p_token;             /* p_token, p (n_vocab): candidates of the model */
    double *q, *dense, *p;
    size_t q_n[TLLM_DRAFT_TOKENS];
    tllm_sampler *sampler;                  /* of the draft */
    tiny_rng rng;
    /* what was measured: seconds of a pass over i + 1 tokens and of a step of the draft (0: not yet), and the share of
     * proposals kept at each place after those before it were kept */
    double pass[TLLM_DRAFT_TOKENS + 1], step, keep[TLLM_DRAFT_TOKENS];
    unsigned since, patience;               /* passes without proposals in a row; after so many they are tried */
    tllm_draft_counts count;
} tinyi_draft;

TINYI_FN double tinyi_draft_clock(void) { return 1e-9 * (double)tiny_now_ns(); }

TINY_API double tllm_draft_gain(double keep, int n, double cost)
{
    double tokens = 1.0, all = 1.0;
    int i;
    for (i = 0; i < n; i++) tokens += all *= keep;
    return n < 0 ? 0.0 : tokens / ((double)n * cost + 1.0);
}

/* Texts of the draft's tokens must mean the same to the model. */
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

TINYI_FN size_t tinyi_draft_chain(const tllm_step *chain, size_t n_steps, tllm_step *own, int *draws)
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

static tiny_status tinyi_draft_begin(tllm_draft *draft, const tllm_session *s, const tllm_step *chain, size_t n_steps,
                                     uint64_t seed, int guided)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    tllm_step own[TLLM_DRAFT_TOKENS + 1];
    size_t n;
    int draws = 0;
    if (a->s != s) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "the draft was opened for another session");
    n = tinyi_draft_chain(chain, n_steps, own, &draws);
    a->weighs = a->d.model && a->d.rule == TLLM_DRAFT_MOST && !guided && draws;
    if (!a->weighs) own[n++] = tllm_step_greedy();
    a->at = a->ahead = 0;
    tllm_sampler_close(a->sampler);
    a->sampler = NULL;
    a->rng = tiny_rng_make(seed, 0x64726166u);              /* a stream apart from that of the samplers */
    return a->d.model ? tllm_sampler_open(a->ctx, own, n, (int32_t)a->n_vocab, seed ^ 0x6f776eu, &a->sampler) : TINY_OK;
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
    size_t i, n = 0;
    int32_t chosen;
    double u, v;
    const size_t from = a->at * a->n_vocab;
    const tiny_status st = tllm_sample(sampler, logits, token);
    if (st || !a->weighs || a->at == a->ahead) return st;
    while (tllm_sampler_left(sampler, n, &a->p_token[n], &a->p[n])) n++;
    for (i = 0; i < a->q_n[a->at]; i++) a->dense[a->q_token[from + i]] = a->q[from + i];
    u = tiny_rng_uniform64(&a->rng);
    v = tiny_rng_uniform64(&a->rng);
    chosen = tllm_draft_choose(a->p_token, a->p, n, a->dense, a->x[a->at + 1], u, v);
    if (chosen >= 0) *token = chosen;
    for (i = 0; i < a->q_n[a->at]; i++) a->dense[a->q_token[from + i]] = 0.0;
    return TINY_OK;
}

static tiny_status tinyi_draft_settle(tllm_draft *draft)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    const tiny_idx n = (tiny_idx)a->s->n;
    a->at = a->ahead = 0;
    return tllm_state_length(a->s->state) > n ? tllm_seq_trim(a->s->state, 0, n) : TINY_OK;
}

/* What followed the last earlier place with the same end of the text, the longest that is found: up to 3 tokens more
 * than must agree. The text is t (n). */
static size_t tinyi_draft_repeat(const int32_t *t, size_t n, size_t match, int32_t *x, size_t most)
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

#define TINYI_DRAFT_COMPARE 16u             /* rounds after which the slower order is tried again */
TINYI_FN int tinyi_draft_choose(tinyi_draft_pick *p, const tllm_session *m, int always)
{
    int other;
    if (!m->state->order || always) return m->state->order != NULL;
    other = p->t[1] <= 0.0 || (p->t[0] > 0.0 && p->t[1] < p->t[0]);
    return ++p->round % TINYI_DRAFT_COMPARE ? other : !other;
}
TINYI_FN void tinyi_draft_took(tinyi_draft_pick *p, int other, double seconds)
{
    double *t = &p->t[other != 0];
    *t = *t > 0.0 ? 0.8 * *t + 0.2 * seconds : seconds;
}

TINYI_FN void tinyi_draft_order(tllm_session *m, int on)
{
    if (m->state->order) m->state->order->on = on;
}

TINYI_FN tiny_status tinyi_draft_read(tllm_session *m, const int32_t *t, size_t held, size_t *exact,
                                      const float **logits)
{
    const tinyi_lm_order *order = m->state->order;
    tiny_status st = TINY_OK;
    tinyi_draft_order(m, 0);
    if (order && !order->keeps && m->n > *exact) st = tllm_session_trim(m, *exact);
    if (!st) st = tllm_session_set(m, t, held, logits, NULL);
    *exact = m->n;
    return st;
}

/* Proposes at most n tokens after the text t (held) of the session; *n: how many. */
static tiny_status tinyi_draft_propose(tinyi_draft *a, const int32_t *t, size_t held, size_t *n)
{
    tllm_session *m = a->d.model;
    const float *logits = NULL;
    const size_t most = *n;
    const int other = m && tinyi_draft_choose(&a->pick, m, a->d.always);
    size_t i, j;
    double start;
    tiny_status st = TINY_OK;
    *n = 0;
    if (!m) {
        *n = tinyi_draft_repeat(t, held, (size_t)a->d.match, a->x + 1, most);
        return TINY_OK;
    }
    if (held + most > (size_t)m->n_ctx) return TINY_OK;     /* the context of the draft is full */
    st = tinyi_draft_read(m, t, held, &a->exact, &logits);
    for (i = 0, start = tinyi_draft_clock(); i < most && !st; i++) {
        int32_t *x = &a->x[i + 1];
        double now;
        if (i) {
            tinyi_draft_order(m, other);
            st = tllm_session_feed(m, x - 1, 1, &logits);
            tinyi_draft_order(m, 0);
        }
        if (!st) st = tllm_sample(a->sampler, logits, x);
        if (st) break;
        for (j = 0; a->weighs; j++)
            if (!tllm_sampler_left(a->sampler, j, &a->q_token[i * a->n_vocab + j], &a->q[i * a->n_vocab + j])) break;
        a->q_n[i] = a->weighs ? j : 0;
        now = tinyi_draft_clock();
        if (i) tinyi_draft_took(&a->pick, other, now - start);
        if (i) a->step = a->step > 0.0 ? 0.8 * a->step + 0.2 * (now - start) : now - start;
        start = now;
        *n = i + 1;
        if (tllm_vocab_is_end(m->vocab, *x)) break;
    }
    return st;
}

/* How many tokens to propose, at most n: the number with the most tokens of text in a second, as far as is known. A
 * pass of a size that was never tried is taken to cost as much as the largest smaller one. */
static size_t tinyi_draft_pace(tinyi_draft *a, size_t n)
{
    double tokens = 1.0, all = 1.0, pass = a->pass[0], most;
    size_t i, best = 0;
    if (a->d.always || a->pass[0] <= 0.0) return n;
    if (a->since >= a->patience) {
        a->patience = TINYI_MIN(2 * a->patience, TINYI_DRAFT_TRY_MOST);
        return n;
    }
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
    if (best) a->patience = TINYI_DRAFT_TRY;
    return best;
}

static tiny_status tinyi_draft_feed(tllm_draft *draft, int32_t token, size_t most, const float **logits)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    tllm_session *s = a->s;
    const int kept = a->at < a->ahead && token == a->x[a->at + 1];
    size_t n = 0;
    double start;
    tiny_status st;
    *logits = NULL;
    if (a->at < a->ahead) a->keep[a->at] += 0.05 * ((double)kept - a->keep[a->at]);
    if (kept) {
        s->token[s->n++] = token;
        a->count.kept++;
        *logits = a->rows + ++a->at * a->n_vocab;
        return TINY_OK;
    }
    st = tinyi_draft_settle(draft);
    if (st) return st;
    if (s->n < (size_t)s->n_ctx) {
        s->token[s->n] = a->x[0] = token;   /* the text with this token, which is not computed yet */
        n = TINYI_MIN(TINYI_MIN(a->n, (size_t)s->n_ctx - s->n - 1), most);
        n = tinyi_draft_pace(a, n);
        start = tinyi_draft_clock();
        if (n) st = tinyi_draft_propose(a, s->token, s->n + 1, &n);
        a->count.draft_seconds += tinyi_draft_clock() - start;
        if (st) return st;
    }
    if (!n) {                               /* the same call as without a draft */
        start = tinyi_draft_clock();
        st = tllm_session_feed(s, &token, 1, logits);
    } else {
        start = tinyi_draft_clock();
        st = tllm_forward(s->state, a->x, (tiny_idx)n + 1, (int64_t)s->n, (tiny_idx)n + 1, a->rows);
        if (!st) {
            s->n++;
            a->ahead = n;
            *logits = a->rows;
        }
    }
    if (st) return st;
    start = tinyi_draft_clock() - start;
    a->pass[n] = a->pass[n] > 0.0 ? 0.8 * a->pass[n] + 0.2 * start : start;
    a->since = n ? 0 : a->since + 1;
    a->count.pass_seconds += start;
    a->count.passes++;
    a->count.proposed += n;
    return TINY_OK;
}

static void tinyi_draft_close(tllm_draft *draft)
{
    tinyi_draft *a = (tinyi_draft *)draft;
    tllm_sampler_close(a->sampler);
    tiny_free(a->ctx, a->rows);
    tiny_free(a->ctx, a->q_token);
    tiny_free(a->ctx, a->q);
    tiny_free(a->ctx, a);
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
    a->calls.begin = tinyi_draft_begin;
    a->calls.sample = tinyi_draft_sample;
    a->calls.feed = tinyi_draft_feed;
    a->calls.settle = tinyi_draft_settle;
    a->calls.close = tinyi_draft_close;
    a->calls.count = &a->count;
    a->ctx = s->ctx;
    a->s = s;
    a->d = d;
    a->n = TINYI_MIN((size_t)d.n, (size_t)s->n_batch - 1);         /* a pass is one piece; 0: nothing is proposed */
    a->n_vocab = (size_t)s->about.n_vocab;
    for (i = 0; i < TLLM_DRAFT_TOKENS; i++) a->keep[i] = 0.8;
    a->patience = TINYI_DRAFT_TRY;
    a->rows = (float *)tinyi_alloc(s->ctx, (a->n + 1) * a->n_vocab, sizeof *a->rows);
    if (a->rows && d.model && d.rule == TLLM_DRAFT_MOST) {
        a->q_token = (int32_t *)tinyi_alloc(s->ctx, (a->n + 1) * a->n_vocab, sizeof *a->q_token);
        a->q = (double *)tinyi_alloc(s->ctx, (a->n + 2) * a->n_vocab, sizeof *a->q);
        if (a->q_token && a->q) {
            a->p_token = a->q_token + a->n * a->n_vocab;
            a->dense = a->q + a->n * a->n_vocab;
            a->p = a->dense + a->n_vocab;
            memset(a->dense, 0, a->n_vocab * sizeof *a->dense);
        }
    }
    if (!a->rows || (d.model && d.rule == TLLM_DRAFT_MOST && (!a->q_token || !a->q))) {
        tllm_draft_close(&a->calls);
        return tiny_ctx_status(s->ctx);
    }
    *out = &a->calls;
    return TINY_OK;
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
