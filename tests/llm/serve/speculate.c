/* tests/llm/serve/speculate.c - drafts: the distribution of what is kept, texts with and without a draft, states that
 * hold the text alone */
#include "t.h"

static const char big[] = "examples/models/story.gguf", small[] = "examples/models/story-small.gguf";
enum { V = TLLM_STORY_VOCAB };

/* with results that do not depend on the number of rows of a pass */
static tllm_session *opened(tiny_ctx *ctx, const char *path, tiny_idx n_ctx)
{
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = n_ctx;
    d.exact = !strstr(path, "latent") && !strstr(path, "gla");       /* these refuse it */
    T_OK(tllm_session_open(ctx, path, &d, &s));
    return s;
}

static tllm_draft *drafted(tllm_session *s, tllm_session *model, int n, tllm_draft_rule rule, int always)
{
    tllm_draft_desc d;
    tllm_draft *a = NULL;
    memset(&d, 0, sizeof d);
    d.model = model;
    d.n = n;
    d.rule = rule;
    d.always = always;
    T_OK(tllm_draft_open(s, &d, &a));
    return a;
}

/* ---- the rule ---- */

/* The distribution of the token that comes out, integrated over u and v on a grid: x is proposed with q[x]. */
static double emitted(const double *p, const double *q, int n, double *out)
{
    const int grid = 400;
    double kept = 0.0;
    int x, i, j;
    memset(out, 0, (size_t)n * sizeof *out);
    for (x = 0; x < n; x++)
        for (i = 0; i < grid && q[x] > 0.0; i++)
            for (j = 0; j < grid; j++) {
                int32_t token[8], y;
                double work[8];
                int k;
                for (k = 0; k < n; k++) token[k] = k;
                memcpy(work, p, (size_t)n * sizeof *work);
                y = tllm_draft_choose(token, work, (size_t)n, q, x, (i + 0.5) / grid, (j + 0.5) / grid);
                T_TRUE(y >= 0 && y < n);
                if (y < 0 || y >= n) return 0.0;
                out[y] += q[x] / grid / grid;
                kept += y == x ? q[x] / grid / grid : 0.0;
            }
    return kept;
}

static void test_rule(void)
{
    static const double p[3] = { 0.5, 0.3, 0.2 };
    static const struct { double q[3], kept; } each[] = { { { 0.2, 0.7, 0.1 }, 0.6 },  /* the worked example */
                                                          { { 0.5, 0.3, 0.2 }, 1.0 },
                                                          { { 0.0, 0.0, 1.0 }, 0.2 },
                                                          { { 0.9, 0.0, 0.1 }, 0.6 } };
    int32_t token[3] = { 0, 1, 2 };
    double out[3], work[3] = { 0.5, 0.3, 0.2 };
    size_t k, i;
    T_PROOF("serving 3", "worked example: 0.6 kept, residual (0.75, 0, 0.25), emitted exactly p");
    for (k = 0; k < T_COUNT(each); k++) {
        T_CLOSE(emitted(p, each[k].q, 3, out), each[k].kept, 3e-3);
        for (i = 0; i < 3; i++) T_CLOSE(out[i], p[i], 3e-3);
    }
    /* refused: three quarters of v give token 0, the others token 2 */
    T_EQ_INT(tllm_draft_choose(token, work, 3, each[0].q, 1, 0.99, 0.7499), 0);
    memcpy(work, p, sizeof work);
    T_EQ_INT(tllm_draft_choose(token, work, 3, each[0].q, 1, 0.99, 0.7501), 2);
    memcpy(work, p, sizeof work);
    T_EQ_INT(tllm_draft_choose(token, work, 3, each[0].q, 1, 0.4285, 0.9), 1);      /* 3 / 7 = 0.42857 */
    memcpy(work, p, sizeof work);
    T_EQ_INT(tllm_draft_choose(token, work, 3, each[0].q, 1, 0.4287, 0.1), 0);
    /* a proposal that the draft could not have made is refused, and where p and q are equal nothing is left */
    memcpy(work, p, sizeof work);
    T_TRUE(tllm_draft_choose(token, work, 3, each[3].q, 1, 0.0, 0.0) == 1);        /* as the residual, 0.3 of 0.4 */
    memcpy(work, p, sizeof work);
    T_EQ_INT(tllm_draft_choose(token, work, 3, each[3].q, 1, 0.0, 0.9), 2);
    memcpy(work, p, sizeof work);
    T_EQ_INT(tllm_draft_choose(token, work, 3, p, 1, 1.0, 0.5), -1);
    T_PROOF("serving 3", "tokens of a pass and gains by the formula");
    T_CLOSE(tllm_draft_gain(0.8, 3, 0.0), 2.952, 5e-4);
    T_CLOSE(tllm_draft_gain(0.8, 5, 0.0), 3.689, 5e-4);
    T_CLOSE(tllm_draft_gain(0.8, 3, 0.1), 2.27, 5e-3);
    T_CLOSE(tllm_draft_gain(0.8, 5, 0.1), 2.46, 5e-3);
    T_CLOSE(tllm_draft_gain(0.9, 5, 0.0), 4.686, 5e-4);
    T_CLOSE(tllm_draft_gain(0.9, 5, 0.1), 3.12, 5e-3);
    T_CLOSE(tllm_draft_gain(1.0, 4, 0.0), 5.0, 1e-12);
    T_CLOSE(tllm_draft_gain(0.0, 4, 0.25), 0.5, 1e-12);
    T_CLOSE(tllm_draft_gain(0.5, 0, 3.0), 1.0, 0.0);
}

/* Chains of proposals from a toy language: the next token depends on the last two. What comes out at each depth has the
 * distribution of the target, for drafts that are good, bad, and almost never right. */
enum { TOY = 5, DEEP = 4 };
static void toy(int which, int a, int b, double *p)
{
    double sum = 0.0;
    int i;
    for (i = 0; i < TOY; i++) sum += p[i] = which < 0 ? ((i * 7 + a * 3 + b * 5) % 11 + 1) : 0.0;
    for (i = 0; i < TOY; i++) p[i] /= sum > 0.0 ? sum : 1.0;
    if (which < 0) return;
    toy(-1, a, b, p);
    if (which == 0)                         /* good */
        for (i = 0; i < TOY; i++) p[i] = 0.8 * p[i] + 0.2 / TOY;
    if (which == 1) toy(-1, b, a + 1, p);   /* bad */
    if (which == 2)                         /* nearly all on the rarest token */
        for (i = 0, sum = 0.0; i < TOY; i++) sum += p[i] = 1.0 / (p[i] * p[i] * p[i] * p[i]);
    for (i = 0; which == 2 && i < TOY; i++) p[i] /= sum;
}

static int32_t drawn(const double *p, tiny_rng *r)
{
    double u = tiny_rng_uniform64(r);
    int i;
    for (i = 0; i < TOY - 1; i++)
        if ((u -= p[i]) < 0.0) break;
    return i;
}

static void test_chains(void)
{
    int which;
    T_PROOF("serving 3", "chi-square of 10^5 tokens of a 3-gram target at each depth, three drafts");
    for (which = 0; which < 3; which++) {
        static double seen[DEEP + 1][TOY][TOY][TOY];
        tiny_rng r = tiny_rng_make(7, (uint64_t)which);
        int32_t text[3] = { 0, 1, 0 };
        uint64_t n_all = 0;
        int a, b, i, depth;
        memset(seen, 0, sizeof seen);
        while (n_all < 100000) {            /* a pass: DEEP proposals, checked in turn */
            int32_t x[DEEP];
            double p[TOY], q[DEEP][TOY];
            int h[2] = { text[0], text[1] };
            for (i = 0; i < DEEP; i++) {
                toy(which, h[0], h[1], q[i]);
                x[i] = drawn(q[i], &r);
                h[0] = h[1];
                h[1] = x[i];
            }
            for (depth = 0; depth <= DEEP; depth++, n_all++) {
                int32_t token[TOY] = { 0, 1, 2, 3, 4 }, y;
                toy(-1, text[0], text[1], p);
                if (depth < DEEP) {
                    const double u = tiny_rng_uniform64(&r), v = tiny_rng_uniform64(&r);
                    y = tllm_draft_choose(token, p, TOY, q[depth], x[depth], u, v);
                } else y = drawn(p, &r);
                seen[depth][text[0]][text[1]][y]++;
                text[0] = text[1];
                text[1] = y;
                if (depth < DEEP && y != x[depth]) break;
            }
        }
        for (depth = 0; depth <= DEEP; depth++) {
            double chi = 0.0, freedom = 0.0;
            for (a = 0; a < TOY; a++)
                for (b = 0; b < TOY; b++) {
                    double p[TOY], n = 0.0;
                    toy(-1, a, b, p);
                    for (i = 0; i < TOY; i++) n += seen[depth][a][b][i];
                    if (n < 100.0) continue;
                    for (i = 0; i < TOY; i++) {
                        const double d = seen[depth][a][b][i] - n * p[i];
                        chi += d * d / (n * p[i]);
                    }
                    freedom += TOY - 1;
                }
            /* 3.29 standard deviations above the mean: p > 0.001 */
            if (freedom > 0.0) T_TRUE(chi < freedom + 3.29 * sqrt(2.0 * freedom) + 4.0);
            if (!depth) T_TRUE(freedom > 50.0);
        }
    }
}

/* ---- texts ---- */

typedef struct kept { char text[8192]; size_t n; int stop_after; } kept;
static int keep(void *user, const char *bytes, size_t n)
{
    kept *k = (kept *)user;
    if (n < sizeof k->text - k->n) {
        memcpy(k->text + k->n, bytes, n);
        k->n += n;
    }
    return k->stop_after && --k->stop_after == 0;
}

/* The tokens that the session holds after the text are those of the text, and its state goes on from them. */
static void goes_on(tiny_ctx *ctx, tllm_session *s, const char *path)
{
    size_t n, i;
    const int32_t *t = tllm_session_tokens(s, &n), more[2] = { 40, 41 };
    const float *got, *want;
    tllm_session *fresh;
    T_EQ_INT(tllm_state_length(tllm_session_state(s)), n);
    if (n + 2 > (size_t)tllm_session_context(s)) return;
    fresh = opened(ctx, path, 0);
    if (!fresh) return;
    T_OK(tllm_session_feed(fresh, t, n, NULL));
    T_OK(tllm_session_feed(fresh, more, 2, &want));
    T_OK(tllm_session_feed(s, more, 2, &got));
    for (i = 0; got && want && i < V; i++) T_CLOSE(got[i], want[i], 0.0);
    tllm_session_close(fresh);
}

static void test_same(tiny_target target)
{
    static const struct { const char *prompt; int chain, n_most, n; const char *gbnf; } each[] = {
        { "Once upon a time", 0, 60, 4, NULL },
        { "Lily had a", 1, 40, 4, NULL },
        { "One day", 2, 40, 7, NULL },
        { "One day", 1, 1, 4, NULL },
        { "Once upon a time", 1, 60, 3, "root ::= [b-zA-Z ,.]+" },
    };
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_session *s = opened(ctx, big, 0), *m = opened(ctx, small, 0);
    size_t k;
    int with;
    T_PROOF("serving 3", "the text is that without a draft: greedy, seeded, penalties, grammar, lookup");
    for (k = 0; s && m && k < T_COUNT(each); k++) {
        tllm_step chain[3];
        tllm_generate_desc d;
        tllm_generate_result want, got;
        tllm_grammar *g = NULL;
        static kept plain, same;
        memset(&d, 0, sizeof d);
        memset(&plain, 0, sizeof plain);
        if (each[k].chain == 2) chain[d.n_steps++] = tllm_step_penalties(32, 1.1f, 0.1f, 0.0f);
        if (each[k].chain) chain[d.n_steps++] = tllm_step_temperature(0.7f);
        if (each[k].chain) d.chain = chain;
        if (each[k].chain == 2) chain[d.n_steps++] = tllm_step_top_p(0.9f);
        if (each[k].gbnf) T_OK(tllm_grammar_open(ctx, each[k].gbnf, strlen(each[k].gbnf), "root", &g));
        d.grammar = g;
        d.seed = 11 + k;
        d.n_most = (size_t)each[k].n_most;
        d.past_end = 1;
        d.text = keep;
        d.user = &plain;
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s, each[k].prompt, strlen(each[k].prompt), &d, &want));
        /* a model, repetitions, a model asked for the other rule */
        for (with = 0; with < (target == TINY_TARGET_REFERENCE ? 1 : 3); with++) {
            tllm_draft_counts c;
            memset(&same, 0, sizeof same);
            d.user = &same;
            d.draft = drafted(s, with == 1 ? NULL : m, each[k].n, with == 2 ? TLLM_DRAFT_MOST : TLLM_DRAFT_SAME, 1);
            T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
            T_OK(tllm_generate(s, each[k].prompt, strlen(each[k].prompt), &d, &got));
            tllm_draft_count(d.draft, &c);
            if (with < 2 || !each[k].chain || each[k].gbnf) {
                T_TRUE(plain.n == same.n && !memcmp(plain.text, same.text, same.n));
                T_TRUE(got.n_made == want.n_made && got.end == want.end);
            }
            /* each token fed was the first of a pass or a kept proposal */
            T_EQ_INT(c.passes + c.kept, got.n_made - (got.end == TLLM_END_CONTEXT));
            T_TRUE(c.kept <= c.proposed);
            if (with == 0 && each[k].n_most != 1) T_TRUE(c.kept > c.passes / 4 && c.proposed > c.passes);
            tllm_draft_close(d.draft);
            d.draft = NULL;
            goes_on(ctx, s, big);
        }
        tllm_grammar_close(ctx, g);
    }
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

/* The first three tokens of many texts under TLLM_DRAFT_MOST against the model's own probabilities of the first two. */
static void test_most(void)
{
    enum { TEXTS = 800 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = opened(ctx, small, 64), *m = opened(ctx, "examples/models/story-latent.gguf", 64);
    const tllm_step chain[2] = { tllm_step_top_k(12), tllm_step_temperature(1.3f) };
    static int first[V], second[V];
    tllm_generate_desc d;
    tllm_draft_counts c;
    tllm_tokens t;
    tllm_sampler *sampler = NULL;
    const float *x = NULL;
    double p, chi = 0.0, freedom = -1.0;
    int32_t token, top = -1, then;
    size_t i, k, n;
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    T_PROOF("serving 3", "TLLM_DRAFT_MOST with a model: the tokens have the model's distribution");
    if (!s || !m) { t_close(ctx); return; }
    T_OK(tllm_encode(ctx, tllm_session_vocab(s), "Once upon a time Lily", 21, TLLM_ENCODE_ENDS, &t));
    d.chain = chain;
    d.n_steps = 2;
    d.n_most = 3;
    d.past_end = 1;
    d.draft = drafted(s, m, 2, TLLM_DRAFT_MOST, 1);
    for (i = 0; i < TEXTS; i++) {
        d.seed = i;
        T_OK(tllm_generate_tokens(s, t.id, t.n, &d, NULL));
        k = t.n;
        first[tllm_session_tokens(s, &n)[k]]++;
    }
    tllm_draft_count(d.draft, &c);
    /* the draft is another model, so some proposals are refused, and most are not */
    T_TRUE(c.proposed > TEXTS / 2 && c.kept > c.proposed / 4 && c.kept < c.proposed);
    T_OK(tllm_sampler_open(ctx, chain, 2, V, 0, &sampler));
    T_OK(tllm_session_set(s, t.id, t.n, &x, NULL));
    T_OK(tllm_sample(sampler, x, &token));
    for (i = 0; tllm_sampler_left(sampler, i, &token, &p); i++) {
        const double e = TEXTS * p;
        if (!i) top = token;
        if (e >= 5.0) {
            chi += (first[token] - e) * (first[token] - e) / e;
            freedom += 1.0;
        }
    }
    T_TRUE(freedom >= 3.0 && chi < freedom + 3.29 * sqrt(2.0 * freedom) + 4.0);
    /* the token after the most probable first one was proposed, unless the first proposal was refused */
    for (i = 0, k = 0; i < TEXTS; i++) {
        d.seed = i + TEXTS;
        T_OK(tllm_generate_tokens(s, t.id, t.n, &d, NULL));
        if (tllm_session_tokens(s, &n)[t.n] != top) continue;
        second[tllm_session_tokens(s, &n)[t.n + 1]]++;
        k++;
    }
    T_TRUE(k > 40);
    t.id[t.n] = 0;
    {
        int32_t longer[64];
        memcpy(longer, t.id, t.n * sizeof *longer);
        longer[t.n] = top;
        T_OK(tllm_session_set(s, longer, t.n + 1, &x, NULL));
    }
    T_OK(tllm_sample(sampler, x, &then));
    for (i = 0, chi = 0.0, freedom = -1.0; tllm_sampler_left(sampler, i, &token, &p); i++) {
        const double e = (double)k * p;
        if (e < 5.0) continue;
        chi += (second[token] - e) * (second[token] - e) / e;
        freedom += 1.0;
    }
    T_TRUE(freedom >= 1.0 && chi < freedom + 3.29 * sqrt(2.0 * freedom) + 4.0);
    tllm_sampler_close(sampler);
    tllm_draft_close(d.draft);
    tllm_tokens_free(ctx, &t);
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

static int stop_now(void *user) { return ++*(int *)user > 40; }

/* Ends inside a run of kept proposals, full contexts of the text and of the draft, shifts, cancelling. */
static void test_ends(void)
{
    int asked = 0;
    tiny_ctx_desc c;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *cancels = NULL;
    tllm_session *s = opened(ctx, big, 64), *m = opened(ctx, small, 0), *tight = opened(ctx, small, 24);
    static const char *const stop[1] = { "the" };
    tllm_generate_desc d;
    tllm_generate_result want, got;
    static kept plain, same;
    int k;
    if (!s || !m || !tight) { t_close(ctx); return; }
    T_PROOF("serving 3", "cache lengths after every outcome; ends inside a kept run; a full draft");
    for (k = 0; k < 6; k++) {
        memset(&d, 0, sizeof d);
        d.n_most = k == 0 ? 23 : 0;
        if (k == 1) { d.stop = stop; d.n_stop = 1; }
        d.shift = k == 2 || k == 5;
        d.past_end = k == 2 || k == 5;
        if (d.shift) d.n_most = 150;
        d.keep = 3;
        d.text = keep;
        memset(&plain, 0, sizeof plain);
        plain.stop_after = k == 3 ? 7 : 0;
        d.user = &plain;
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, &want));
        memset(&same, 0, sizeof same);
        same.stop_after = k == 3 ? 7 : 0;
        d.user = &same;
        d.draft = drafted(s, k >= 4 ? tight : m, 5, TLLM_DRAFT_SAME, 1);
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, &got));
        T_TRUE(want.end == got.end && want.n_made == got.n_made);
        T_TRUE(plain.n == same.n && !memcmp(plain.text, same.text, same.n));
        if (k == 1) T_EQ_INT(got.end, TLLM_END_STRING);
        if (k == 3) T_EQ_INT(got.end, TLLM_END_CALLER);
        tllm_draft_close(d.draft);
        if (!d.shift) goes_on(ctx, s, big);
    }
    tllm_session_close(tight);
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
    memset(&c, 0, sizeof c);
    c.cancel = stop_now;
    c.user = &asked;
    T_OK(tiny_ctx_open(&c, &cancels));
    s = opened(cancels, big, 0);
    m = opened(cancels, small, 0);
    memset(&d, 0, sizeof d);
    if (s && m) {
        d.draft = drafted(s, m, 4, TLLM_DRAFT_SAME, 1);
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, &got));
        T_EQ_INT(got.end, TLLM_END_CALLER);
        T_EQ_INT(tllm_state_length(tllm_session_state(s)), (tllm_session_tokens(s, &got.n_prompt), got.n_prompt));
        tllm_draft_close(d.draft);
    }
    tllm_session_close(m);
    tllm_session_close(s);
    tiny_ctx_close(cancels);
}

/* A context whose passes take long: its cancel callback, which operations poll, waits. */
static int waits(void *user)
{
    const uint64_t until = tiny_now_ns() + *(const uint64_t *)user;
    while (tiny_now_ns() < until) {}
    return 0;
}
static tiny_ctx *slow_ctx(uint64_t *wait_ns)
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    d.cancel = waits;
    d.user = wait_ns;
    T_OK(tiny_ctx_open(&d, &ctx));
    return ctx;
}

/* Without `always` the draft measures. One that is slower than the model is given up, and tried again after 32, 64, ...
 * passes. It is so slow that no other program on the machine can change the answer. One that costs little and is always
 * right proposes in the second pass. The text stays the same. */
static void test_pace(void)
{
    static const int at_once[3] = { 4, 1, 4 };
    uint64_t wait_ns = 0;
    tiny_ctx *fast = t_ctx(TINY_TARGET_AUTO, 1), *slow = slow_ctx(&wait_ns);
    tllm_session *s[2], *m[2];
    int k;
    s[0] = opened(fast, small, 0);
    m[0] = opened(slow, big, 0);
    s[1] = opened(slow, small, 0);
    m[1] = opened(fast, small, 0);          /* proposes the tokens of the model itself */
    for (k = 0; k < 3 && s[0] && m[0] && s[1] && m[1]; k++) {
        const int pays = k == 2, n = at_once[k];
        tllm_generate_desc d;
        tllm_draft_counts c;
        static kept plain, same;
        memset(&d, 0, sizeof d);
        memset(&plain, 0, sizeof plain);
        memset(&same, 0, sizeof same);
        d.past_end = 1;
        d.n_most = 120;
        d.text = keep;
        d.user = &plain;
        T_OK(tllm_session_set(s[pays], NULL, 0, NULL, NULL));
        wait_ns = 0;
        T_OK(tllm_generate(s[pays], "Lily", 4, &d, NULL));
        wait_ns = pays ? 10000 : 100000;
        d.user = &same;
        d.draft = drafted(s[pays], m[pays], n, TLLM_DRAFT_SAME, 0);
        T_OK(tllm_session_set(s[pays], NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s[pays], "Lily", 4, &d, NULL));
        tllm_draft_count(d.draft, &c);
        T_TRUE(plain.n == same.n && !memcmp(plain.text, same.text, same.n));
        T_TRUE(c.passes + c.kept == 120 && c.draft_seconds > 0.0 && c.pass_seconds > 0.0);
        if (pays) T_TRUE(c.kept >= 4);      /* the first proposals; the others by what a busy machine measures */
        else T_TRUE(c.proposed > 0 && c.proposed <= 5 * (uint64_t)n && c.passes > 90);
        tllm_draft_close(d.draft);
    }
    T_PROOF("serving 3", "a draft that loses time is given up by itself, and tried again");
    for (k = 0; k < 2; k++) {
        tllm_session_close(m[k]);
        tllm_session_close(s[k]);
    }
    t_close(slow);
    t_close(fast);
}

/* A session that computes one token at a time has no room for proposals: plain decoding. */
static void test_none(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = NULL, *m = opened(ctx, small, 0);
    tllm_state_desc sd;
    tllm_generate_desc d;
    tllm_draft_counts c;
    static kept plain, same;
    memset(&sd, 0, sizeof sd);
    memset(&d, 0, sizeof d);
    memset(&plain, 0, sizeof plain);
    memset(&same, 0, sizeof same);
    sd.n_batch = 1;
    T_OK(tllm_session_open(ctx, big, &sd, &s));
    if (!s || !m) { t_close(ctx); return; }
    d.n_most = 30;
    d.past_end = 1;
    d.text = keep;
    d.user = &plain;
    T_OK(tllm_generate(s, "Lily", 4, &d, NULL));
    d.user = &same;
    d.draft = drafted(s, m, 4, TLLM_DRAFT_SAME, 1);
    T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
    T_OK(tllm_generate(s, "Lily", 4, &d, NULL));
    tllm_draft_count(d.draft, &c);
    T_TRUE(plain.n == same.n && !memcmp(plain.text, same.text, same.n));
    T_TRUE(c.passes == 30 && !c.proposed && !c.kept);
    tllm_draft_close(d.draft);
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

/* a chain or a tree that draws */
static void short_text(tllm_session *s, tllm_session *m, int tree)
{
    const tllm_step chain[1] = { tllm_step_temperature(0.8f) };
    tllm_generate_desc g;
    tllm_draft_desc d;
    memset(&g, 0, sizeof g);
    memset(&d, 0, sizeof d);
    d.model = m;
    d.n = 2;
    d.rule = TLLM_DRAFT_MOST;
    d.always = 1;
    g.chain = chain;
    g.n_steps = 1;
    g.n_most = 4;
    if (!(tree ? tllm_draft_tree_open(s, &d, 2, 4, &g.draft) : tllm_draft_open(s, &d, &g.draft)))
        (void)tllm_generate(s, "x", 1, &g, NULL);
    tllm_draft_close(g.draft);
}

/* Every allocation fails once and for ever: nothing is left over. */
static void test_allocations(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tllm_state_desc sd;
    tllm_session *s = NULL, *m = NULL;
    int k;
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = 32;
    sd.n_seq = 5;
    T_OK(tllm_session_open(ctx, small, &sd, &s));
    T_OK(tllm_session_open(ctx, small, &sd, &m));
    for (k = 0; k < 2 && s && m; k++) {
        short_text(s, m, k);                /* takes the workspace that sessions and the context keep */
        T_EACH_ALLOCATION(short_text(s, m, k);)
    }
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tllm_session *s = opened(ctx, big, 0), *m = opened(ctx, small, 0);
    tllm_session *gla = opened(ctx, "examples/models/story-gla.gguf", 0);
    tllm_draft_desc d;
    tllm_draft *a = (tllm_draft *)&d;
    tllm_generate_desc g;
    tllm_draft_counts c;
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    if (!s || !m || !gla) { t_close(ctx); return; }
    T_STATUS(tllm_draft_open(NULL, &d, &a), TINY_E_ARGUMENT, NULL);
    T_TRUE(!a);
    T_STATUS(tllm_draft_open(s, &d, NULL), TINY_E_ARGUMENT, "result pointer");
    d.model = s;
    T_STATUS(tllm_draft_open(s, &d, &a), TINY_E_ARGUMENT, "the session of the text itself");
    d.model = m;
    d.n = TLLM_DRAFT_TOKENS + 1;
    T_STATUS(tllm_draft_open(s, &d, &a), TINY_E_ARGUMENT, "1 to 32 tokens at once, not 33");
    d.n = -1;
    T_STATUS(tllm_draft_open(s, &d, &a), TINY_E_ARGUMENT, "not -1");
    d.n = 0;
    d.match = -2;
    T_STATUS(tllm_draft_open(s, &d, &a), TINY_E_ARGUMENT, "match of the draft is -2");
    d.match = 0;
    d.rule = (tllm_draft_rule)7;
    T_STATUS(tllm_draft_open(s, &d, &a), TINY_E_ARGUMENT, "rule of the draft is 7");
    d.rule = TLLM_DRAFT_SAME;
    d.model = gla;
    T_STATUS(tllm_draft_open(s, &d, &a), TINY_E_UNSUPPORTED, "cannot be taken back");
    d.model = NULL;
    T_STATUS(tllm_draft_open(gla, &d, &a), TINY_E_UNSUPPORTED, "cannot be taken back");
    T_OK(tllm_draft_open(m, NULL, &a));
    g.draft = a;
    T_STATUS(tllm_generate(s, "x", 1, &g, NULL), TINY_E_ARGUMENT, "opened for another session");
    tllm_draft_count(a, &c);
    T_TRUE(!c.passes && !c.proposed);
    tllm_draft_count(NULL, &c);
    tllm_draft_count(a, NULL);
    tllm_draft_close(a);
    tllm_draft_close(NULL);
    tllm_session_close(gla);
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_rule);
    T_RUN(test_chains);
    T_RUN_FORMS(test_same);
    T_RUN(test_most);
    T_RUN(test_ends);
    T_RUN(test_pace);
    T_RUN(test_none);
    T_RUN(test_allocations);
    T_RUN(test_refused);
    return t_done();
}
