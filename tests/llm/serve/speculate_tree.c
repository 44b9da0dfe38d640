/* tests/llm/serve/speculate_tree.c - trees of proposals: the rule for several candidates, texts with and without a
 * tree, the state after each token
 *
 * Truth    the rule by enumeration: every order of candidates, with the thresholds of its random numbers found by
 *          bisection, must give p exactly; chi-square against a 3-gram language; the text without a draft. */
#include "t.h"

static const char big[] = "examples/models/story.gguf", small[] = "examples/models/story-small.gguf",
                  latent[] = "examples/models/story-latent.gguf";
enum { V = TLLM_STORY_VOCAB, MOST = 6 };

/* ---- the rule ---- */

/* one call with random numbers u (n_x) and v */
static int32_t chosen(const double *p, const double *q, int n, const int32_t *x, int n_x, const double *u, double v)
{
    int32_t token[MOST];
    double a[MOST], b[MOST];
    int i;
    for (i = 0; i < n; i++) token[i] = i;
    memcpy(a, p, (size_t)n * sizeof *a);
    memcpy(b, q, (size_t)n * sizeof *b);
    return tllm_draft_tree_choose(token, a, (size_t)n, b, x, (size_t)n_x, u, v);
}

/* The distribution that comes out for given candidates: u[i] below its threshold accepts x[i]. */
static void for_these(const double *p, const double *q, int n, const int32_t *x, int n_x, double weight, double *out)
{
    const double never = 1.0 - 1e-15;
    double u[MOST], reach = weight, from = 0.0;
    int i, k;
    for (k = 0; k < n_x; k++) {
        double lo = 0.0, hi = 1.0;
        for (i = 0; i < n_x; i++) u[i] = never;
        for (i = 0; i < 60; i++) {          /* the threshold of u[k] */
            u[k] = 0.5 * (lo + hi);
            /* with u[k] = 0 it would be accepted if it ever is */
            if (chosen(p, q, n, x, k + 1, u, 0.5) == x[k]) {
                u[k] = lo + (hi - lo) * 0.5;
                lo = u[k];
            } else hi = u[k];
        }
        out[x[k]] += reach * hi;
        reach *= 1.0 - hi;
    }
    for (i = 0; i < n_x; i++) u[i] = never;
    while (reach > 1e-14 && from < 1.0 - 1e-13) {       /* v: steps from one token to the next */
        const int32_t y = chosen(p, q, n, x, n_x, u, from);
        double lo = from, hi = 1.0;
        if (y < 0) return;
        for (i = 0; i < 60; i++) {
            const double v = 0.5 * (lo + hi);
            if (chosen(p, q, n, x, n_x, u, v) == y) lo = v;
            else hi = v;
        }
        out[y] += reach * (hi - from);
        from = hi;
    }
}

static void all_orders(const double *p, const double *q, int n, int32_t *x, int at, int n_x, double weight,
                       double left, double *out)
{
    int i, k;
    if (at == n_x) { for_these(p, q, n, x, n_x, weight, out); return; }
    for (i = 0; i < n; i++) {
        int taken = 0;
        for (k = 0; k < at; k++) taken |= x[k] == i;
        if (taken || q[i] <= 0.0) continue;
        x[at] = i;
        all_orders(p, q, n, x, at + 1, n_x, weight * q[i] / left, left - q[i], out);
    }
}

static void test_rule(void)
{
    static const double p3[3] = { 0.5, 0.3, 0.2 }, q3[3] = { 0.2, 0.7, 0.1 };
    tiny_rng r = tiny_rng_make(5, 1);
    double out[MOST], p[MOST], q[MOST], u[2] = { 0.99, 0.0 };
    int32_t x[MOST] = { 1, 0 };
    int k, i, n_x;
    memset(out, 0, sizeof out);
    all_orders(p3, q3, 3, x, 0, 2, 1.0, 1.0, out);
    for (i = 0; i < 3; i++) T_CLOSE(out[i], p3[i], 1e-12);
    T_PROOF("serving 3", "tree with two candidates without replacement emits exactly p, enumerated");
    /* token 1 refused: p = (.75, 0, .25), q = (2/3, 0, 1/3): token 0 is then accepted, token 2 with 0.75 */
    x[0] = 1;
    x[1] = 0;
    u[1] = 0.999999;
    T_EQ_INT(chosen(p3, q3, 3, x, 2, u, 0.0), 0);
    x[1] = 2;
    u[1] = 0.7499;
    T_EQ_INT(chosen(p3, q3, 3, x, 2, u, 0.0), 2);
    u[1] = 0.7501;                          /* and then p = (1, 0, 0) */
    T_EQ_INT(chosen(p3, q3, 3, x, 2, u, 0.999), 0);
    for (k = 0; k < 12; k++) {              /* other distributions, some with zeros, 1 to 4 candidates */
        const int n = 3 + k % 3;
        double a = 0.0, b = 0.0;
        for (i = 0; i < n; i++) {
            a += p[i] = k % 4 == 1 && i == 0 ? 0.0 : tiny_rng_uniform64(&r);
            b += q[i] = k % 4 == 2 && i == 1 ? 0.0 : k % 4 == 3 && i < n - 2 ? 0.0 : tiny_rng_uniform64(&r);
        }
        for (i = 0; i < n; i++) {
            p[i] /= a;
            q[i] /= b;
        }
        if (k == 11) memcpy(q, p, sizeof q);            /* equal: the first candidate is always kept */
        for (n_x = 1; n_x <= (k % 4 == 3 ? 2 : k % 4 == 2 ? n - 1 : TINYI_MIN(n, 4)); n_x++) {
            memset(out, 0, sizeof out);
            all_orders(p, q, n, x, 0, n_x, 1.0, 1.0, out);
            for (i = 0; i < n; i++) T_CLOSE(out[i], p[i], 1e-10);
        }
    }
    /* the draft could not have drawn these: refused; nothing to draw from; missing arguments */
    {
        static const double zero[3] = { 0.0, 0.0, 1.0 }, none[3] = { 0.0, 0.0, 0.0 };
        x[0] = 0;
        u[0] = u[1] = 0.0;
        T_EQ_INT(chosen(p3, zero, 3, x, 1, u, 0.6), 1);
        T_EQ_INT(chosen(none, q3, 3, x, 1, u, 0.6), -1);
        T_EQ_INT(tllm_draft_tree_choose(NULL, p, 3, q, x, 1, u, 0.0), -1);
    }
}

static void test_sizes(void)
{
    tllm_draft_tree_size s;
    int w, n, k;
    T_TRUE(tllm_draft_tree_sizes(4, 2, 0, &s));            /* 2 + 4 + 8 + 16 */
    T_TRUE(s.n_node == 30 && s.n_leaf == 16 && s.n_seq == 17 && s.n_seq_draft == 15);
    T_TRUE(s.n_more == 16 * 32 && s.n_more_draft == 15 * 32);
    T_TRUE(tllm_draft_tree_sizes(4, 3, 0, &s));            /* 3 + 9 + 9 + 9: three tokens of a level get candidates */
    T_TRUE(s.n_node == 30 && s.parents[1] == 3 && s.parents[2] == 3 && s.parents[3] == 3 && s.n_leaf == 21);
    T_TRUE(tllm_draft_tree_sizes(4, 2, 8, &s));         /* the candidates along one path */
    T_TRUE(s.n_node == 8 && s.n_leaf == 5 && s.parents[1] == 1 && s.parents[2] == 1 && s.parents[3] == 1);
    T_TRUE(!tllm_draft_tree_sizes(4, 2, 33, &s) && !tllm_draft_tree_sizes(4, 2, -1, &s));
    T_TRUE(tllm_draft_tree_sizes(5, 1, 0, &s));         /* a chain */
    T_TRUE(s.n_node == 5 && s.n_leaf == 1 && s.n_seq_draft == 5);
    for (n = 1; n <= TLLM_DRAFT_TOKENS; n++)
        for (w = 1; w <= TLLM_DRAFT_TOKENS; w++) {
            int nodes = 0;
            T_TRUE(tllm_draft_tree_sizes(n, w, 0, &s));
            for (k = 0; k < n; k++) nodes += s.parents[k] * w;
            T_TRUE(s.n_node <= TLLM_DRAFT_TOKENS && nodes >= s.n_node && s.n_leaf >= 1);
        }
    T_TRUE(!tllm_draft_tree_sizes(0, 2, 0, &s) && !tllm_draft_tree_sizes(4, 33, 0, &s));
    T_TRUE(!tllm_draft_tree_sizes(4, 2, 0, NULL));
}

/* Trees of proposals from a toy language whose next token depends on the last two: what comes out at each depth has
 * the distribution of the target, for drafts that are good, bad, and almost never right. */
enum { TOY = 5, DEEP = 3, WIDE = 2 };
static void toy(int which, int a, int b, double *p)
{
    double sum = 0.0;
    int i;
    for (i = 0; i < TOY; i++) sum += p[i] = (i * 7 + a * 3 + b * 5) % 11 + 1;
    for (i = 0; i < TOY; i++) p[i] /= sum;
    if (which == 0)
        for (i = 0; i < TOY; i++) p[i] = 0.8 * p[i] + 0.2 / TOY;
    if (which == 1) toy(-1, b, a + 1, p);
    if (which == 2) {
        for (i = 0, sum = 0.0; i < TOY; i++) sum += p[i] = 1.0 / (p[i] * p[i] * p[i] * p[i]);
        for (i = 0; i < TOY; i++) p[i] /= sum;
    }
}
static int32_t drawn(const double *p, tiny_rng *r)
{
    double sum = 0.0, u;
    int i, last = 0;
    for (i = 0; i < TOY; i++) {
        sum += p[i];
        if (p[i] > 0.0) last = i;
    }
    u = tiny_rng_uniform64(r) * sum;
    for (i = 0; i < last; i++)
        if ((u -= p[i]) < 0.0) break;
    return i;
}

static void test_toy(void)
{
    int which;
    for (which = 0; which < 3; which++) {
        static double seen[DEEP + 1][TOY][TOY][TOY];
        tiny_rng r = tiny_rng_make(11, (uint64_t)which);
        int32_t text[2] = { 0, 1 };
        uint64_t n_all = 0, n_first = 0, n_second = 0;
        int a, b, i, depth;
        memset(seen, 0, sizeof seen);
        while (n_all < 100000) {            /* candidates are drawn where they are needed: the draws are the same */
            for (depth = 0; depth <= DEEP; depth++, n_all++) {
                int32_t token[TOY] = { 0, 1, 2, 3, 4 }, x[WIDE], y;
                double p[TOY], q[TOY], left[TOY], u[WIDE];
                toy(-1, text[0], text[1], p);
                if (depth < DEEP) {
                    toy(which, text[0], text[1], q);
                    memcpy(left, q, sizeof left);
                    for (i = 0; i < WIDE; i++) {
                        x[i] = drawn(left, &r);
                        left[x[i]] = 0.0;
                        u[i] = tiny_rng_uniform64(&r);
                    }
                    y = tllm_draft_tree_choose(token, p, TOY, q, x, WIDE, u, tiny_rng_uniform64(&r));
                    n_first += y == x[0];
                    n_second += y == x[1];
                } else y = drawn(p, &r);
                if (!T_TRUE(y >= 0 && y < TOY)) return;
                seen[depth][text[0]][text[1]][y]++;
                text[0] = text[1];
                text[1] = y;
                if (depth < DEEP && y != x[0] && y != x[1]) break;
            }
        }
        T_TRUE(n_first > 1000 && n_second > 1000);
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
    T_PROOF("serving 3", "trees: chi-square of 10^5 tokens of a 3-gram target at each depth, three drafts");
}

/* ---- texts ---- */

/* with results that do not depend on the number of rows of a pass */
static tllm_session *opened(tiny_ctx *ctx, const char *path, tiny_idx n_ctx, tiny_idx n_seq)
{
    tllm_state_desc d;
    tllm_session *s = NULL;
    memset(&d, 0, sizeof d);
    d.n_ctx = n_ctx;
    d.n_seq = n_seq;
    d.exact = !strstr(path, "latent");
    T_OK(tllm_session_open(ctx, path, &d, &s));
    return s;
}

static tllm_draft *drafted(tllm_session *s, tllm_session *model, int n, int width, int most, tllm_draft_rule rule,
                           int always)
{
    tllm_draft_desc d;
    tllm_draft *a = NULL;
    memset(&d, 0, sizeof d);
    d.model = model;
    d.n = n;
    d.rule = rule;
    d.always = always;
    T_OK(tllm_draft_tree_open(s, &d, width, most, &a));
    return a;
}

typedef struct kept { char text[16384]; size_t n; int stop_after; } kept;
static int keep(void *user, const char *bytes, size_t n)
{
    kept *k = (kept *)user;
    if (n < sizeof k->text - k->n) {
        memcpy(k->text + k->n, bytes, n);
        k->n += n;
    }
    return k->stop_after && --k->stop_after == 0;
}

/* The session holds the text alone, in its own sequence alone, and goes on from it. */
static void goes_on(tiny_ctx *ctx, tllm_session *s, const char *path)
{
    size_t n, i;
    const int32_t *t = tllm_session_tokens(s, &n), more[2] = { 40, 41 };
    tllm_state *state = tllm_session_state(s);
    const float *got, *want;
    tllm_session *fresh;
    T_EQ_INT(tllm_state_length(state), n);
    for (i = 1; i < (size_t)tllm_state_sequences(state); i++) T_EQ_INT(tllm_seq_length(state, (tiny_idx)i), 0);
    T_EQ_INT(tllm_state_free_cells(state), (tllm_session_context(s) + 15) / 16 * 16 * tllm_state_sequences(state) -
                                               ((tiny_idx)n + 15) / 16 * 16);
    if (n + 2 > (size_t)tllm_session_context(s)) return;
    fresh = opened(ctx, path, 0, 0);
    if (!fresh) return;
    T_OK(tllm_session_feed(fresh, t, n, NULL));
    T_OK(tllm_session_feed(fresh, more, 2, &want));
    T_OK(tllm_session_feed(s, more, 2, &got));
    for (i = 0; got && want && i < V; i++) T_CLOSE(got[i], want[i], 0.0);
    tllm_session_close(fresh);
}

static void test_same(tiny_target target)
{
    static const struct { const char *prompt; int chain, n_most, n, width; const char *gbnf; } each[] = {
        { "Lily had a", 1, 12, 2, 3, NULL },
        { "Once upon a time", 0, 24, 4, 2, NULL },
        { "One day", 2, 12, 2, 4, NULL },
        { "One day", 1, 1, 4, 2, NULL },
        { "Once upon a time", 1, 16, 3, 2, "root ::= [b-zA-Z ,.]+" },
    };
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_session *s = opened(ctx, small, 128, 22), *m = opened(ctx, latent, 128, 15);
    size_t k, n_each = target == TINY_TARGET_REFERENCE ? 1 : target == TINY_TARGET_SCALAR ? T_COUNT(each) : 2;
    for (k = 0; s && m && k < n_each; k++) {
        tllm_step chain[3];
        tllm_generate_desc d;
        tllm_generate_result want, got;
        tllm_grammar *g = NULL;
        tllm_draft_counts c;
        static kept plain, same;
        memset(&d, 0, sizeof d);
        memset(&plain, 0, sizeof plain);
        memset(&same, 0, sizeof same);
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
        d.user = &same;
        d.draft = drafted(s, m, each[k].n, each[k].width, k == 1 ? 8 : 0, k == 4 ? TLLM_DRAFT_MOST : TLLM_DRAFT_SAME,
                          1);
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s, each[k].prompt, strlen(each[k].prompt), &d, &got));
        tllm_draft_count(d.draft, &c);
        T_TRUE(plain.n == same.n && !memcmp(plain.text, same.text, same.n));
        T_TRUE(got.n_made == want.n_made && got.end == want.end);
        /* each token fed was the first of a pass or a kept proposal */
        T_EQ_INT(c.passes + c.kept, got.n_made - (got.end == TLLM_END_CONTEXT));
        T_TRUE(c.kept <= c.proposed);
        if (each[k].n_most != 1) T_TRUE(c.kept > c.passes / 4 && c.proposed > 4 * c.passes);
        tllm_draft_close(d.draft);
        goes_on(ctx, s, small);
        tllm_grammar_close(ctx, g);
    }
    T_PROOF("serving 3", "trees: the text is that without a draft, bit for bit: greedy, seeded, penalties, a grammar");
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

/* 1000 greedy tokens through several shifts of a context of 256, with a chain and with a tree. */
static void test_long(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = opened(ctx, small, 0, 17), *m = opened(ctx, latent, 0, 15);
    tllm_generate_desc d;
    static kept plain, same;
    int k;
    memset(&d, 0, sizeof d);
    d.n_most = 1000;
    d.past_end = d.shift = 1;
    d.keep = 3;
    d.text = keep;
    memset(&plain, 0, sizeof plain);
    d.user = &plain;
    if (s && m) T_OK(tllm_generate(s, "Once upon a time", 16, &d, NULL));
    for (k = 0; k < 2 && s && m; k++) {
        memset(&same, 0, sizeof same);
        d.user = &same;
        if (k) d.draft = drafted(s, m, 4, 2, 8, TLLM_DRAFT_SAME, 1);
        else {
            tllm_draft_desc chain;
            memset(&chain, 0, sizeof chain);
            chain.model = m;
            chain.always = 1;
            T_OK(tllm_draft_open(s, &chain, &d.draft));
        }
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, NULL));
        T_TRUE(plain.n > 2000 && same.n == plain.n);
        T_TRUE(!memcmp(plain.text, same.text, same.n));
        tllm_draft_close(d.draft);
    }
    T_PROOF("serving 3", "1000 greedy tokens with a chain and with a tree are those of plain decoding");
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

/* The first two tokens of many texts under TLLM_DRAFT_MOST against the model's own probabilities. */
static void test_most(void)
{
    enum { TEXTS = 400 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s = opened(ctx, small, 64, 7), *m = opened(ctx, latent, 64, 3);
    const tllm_step chain[2] = { tllm_step_top_k(12), tllm_step_temperature(1.3f) };
    static int seen[2][V];
    tllm_generate_desc d;
    tllm_draft_counts c;
    tllm_easyspec_desc layers;
    tllm_easyspec *fuzzy = NULL;
    tllm_tokens t;
    tllm_sampler *sampler = NULL;
    const float *x = NULL;
    double p_top = 0.0;
    int32_t token, top = -1, longer[64];
    size_t i, n, many[2] = { 0, 0 };
    int k;
    memset(&t, 0, sizeof t);
    memset(&d, 0, sizeof d);
    memset(seen, 0, sizeof seen);
    if (!s || !m) { t_close(ctx); return; }
    T_OK(tllm_encode(ctx, tllm_session_vocab(s), "Once upon a time Lily", 21, TLLM_ENCODE_ENDS, &t));
    T_OK(tllm_sampler_open(ctx, chain, 2, V, 0, &sampler));
    T_OK(tllm_session_set(s, t.id, t.n, &x, NULL));
    T_OK(tllm_sample(sampler, x, &token));
    T_TRUE(tllm_sampler_left(sampler, 0, &top, &p_top) != 0);
    d.chain = chain;
    d.n_steps = 2;
    d.n_most = 3;
    d.past_end = 1;
    memset(&layers, 0, sizeof layers);
    layers.n = 2;                           /* the draft is fuzzy, too */
    T_OK(tllm_easyspec_open(m, &layers, &fuzzy));
    d.draft = drafted(s, m, 2, 2, 0, TLLM_DRAFT_MOST, 1);
    for (i = 0; i < TEXTS; i++) {
        const int32_t *made;
        d.seed = i;
        T_OK(tllm_generate_tokens(s, t.id, t.n, &d, NULL));
        made = tllm_session_tokens(s, &n) + t.n;
        seen[0][made[0]]++;
        many[0]++;
        if (made[0] != top) continue;
        seen[1][made[1]]++;
        many[1]++;
    }
    tllm_draft_count(d.draft, &c);
    T_TRUE(c.proposed > TEXTS / 2 && c.kept > TEXTS / 4 && c.kept < c.proposed);
    T_TRUE(many[1] > 40);
    memcpy(longer, t.id, t.n * sizeof *longer);
    longer[t.n] = top;
    for (k = 0; k < 2; k++) {
        double p, chi = 0.0, freedom = -1.0;
        T_OK(tllm_session_set(s, longer, t.n + (size_t)k, &x, NULL));
        T_OK(tllm_sample(sampler, x, &token));
        for (i = 0; tllm_sampler_left(sampler, i, &token, &p); i++) {
            const double e = (double)many[k] * p;
            if (e < 5.0) continue;
            chi += (seen[k][token] - e) * (seen[k][token] - e) / e;
            freedom += 1.0;
        }
        T_TRUE(freedom >= 1.0 && chi < freedom + 3.29 * sqrt(2.0 * freedom) + 4.0);
    }
    T_PROOF("serving 3", "chi-square: trees of a fuzzy draft under TLLM_DRAFT_MOST have the model's distribution");
    tllm_sampler_close(sampler);
    tllm_draft_close(d.draft);
    tllm_easyspec_close(fuzzy);
    tllm_tokens_free(ctx, &t);
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

static int stop_now(void *user) { return ++*(int *)user > 60; }

/* Ends inside a kept path, full contexts of the text and of the draft, few pages, cancelling. */
static void test_ends(void)
{
    static const char *const stop[1] = { "the" };
    int asked = 0, k;
    tiny_ctx_desc c;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *cancels = NULL;
    tllm_session *s = opened(ctx, big, 64, 17), *m = opened(ctx, small, 0, 15), *tight = opened(ctx, small, 24, 15);
    tllm_session *few = NULL;
    tllm_state_desc sd;
    tllm_generate_desc d;
    tllm_generate_result want, got;
    static kept plain, same;
    if (!s || !m || !tight) { t_close(ctx); return; }
    for (k = 0; k < 5; k++) {
        memset(&d, 0, sizeof d);
        d.n_most = k == 0 ? 23 : 0;
        if (k == 1) { d.stop = stop; d.n_stop = 1; }
        d.text = keep;
        memset(&plain, 0, sizeof plain);
        plain.stop_after = k == 3 ? 7 : 0;
        d.user = &plain;
        d.past_end = k == 4;
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, &want));
        memset(&same, 0, sizeof same);
        same.stop_after = k == 3 ? 7 : 0;
        d.user = &same;
        d.draft = drafted(s, k == 4 ? tight : m, 4, 2, 0, TLLM_DRAFT_SAME, 1);
        T_OK(tllm_session_set(s, NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, &got));
        T_TRUE(want.end == got.end && want.n_made == got.n_made);
        T_TRUE(plain.n == same.n && !memcmp(plain.text, same.text, same.n));
        if (k == 1) T_EQ_INT(got.end, TLLM_END_STRING);
        if (k == 3) T_EQ_INT(got.end, TLLM_END_CALLER);
        if (k == 4) T_EQ_INT(got.end, TLLM_END_CONTEXT);
        tllm_draft_close(d.draft);
        goes_on(ctx, s, big);
    }
    /* pages for the text and little more: no trees, the same text */
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = 64;
    sd.n_seq = 17;
    sd.n_cells = 80;
    sd.exact = 1;
    T_OK(tllm_session_open(ctx, big, &sd, &few));
    if (few) {
        tllm_draft_counts n;
        memset(&same, 0, sizeof same);
        d.user = &same;
        d.draft = drafted(few, m, 4, 2, 0, TLLM_DRAFT_SAME, 1);
        T_OK(tllm_generate(few, "Once upon a time", 16, &d, &got));
        tllm_draft_count(d.draft, &n);
        T_TRUE(!n.proposed && got.end == TLLM_END_CONTEXT);
        T_TRUE(plain.n == same.n && !memcmp(plain.text, same.text, same.n));
        tllm_draft_close(d.draft);
        tllm_session_close(few);
    }
    tllm_session_close(tight);
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
    memset(&c, 0, sizeof c);
    c.cancel = stop_now;
    c.user = &asked;
    T_OK(tiny_ctx_open(&c, &cancels));
    s = opened(cancels, big, 128, 17);
    m = opened(cancels, small, 128, 15);
    memset(&d, 0, sizeof d);
    if (s && m) {
        size_t n;
        d.draft = drafted(s, m, 4, 2, 0, TLLM_DRAFT_SAME, 1);
        T_OK(tllm_generate(s, "Once upon a time", 16, &d, &got));
        T_EQ_INT(got.end, TLLM_END_CALLER);
        (void)tllm_session_tokens(s, &n);
        T_EQ_INT(tllm_state_length(tllm_session_state(s)), n);
        tllm_draft_close(d.draft);
    }
    tllm_session_close(m);
    tllm_session_close(s);
    tiny_ctx_close(cancels);
    T_PROOF("serving 3", "trees: cache lengths and free pages after every outcome; a full draft; few pages");
}

/* A context whose passes take long: its cancel callback, which operations poll, waits. */
static int waits(void *user)
{
    const uint64_t until = tiny_now_ns() + *(const uint64_t *)user;
    while (tiny_now_ns() < until) {}
    return 0;
}

/* Without `always` trees are given up where they lose; the draft is so slow that no other program on the machine can
 * change that. The text stays the same. */
static void test_pace(void)
{
    uint64_t wait_ns = 0;
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *fast = t_ctx(TINY_TARGET_AUTO, 1), *slow = NULL;
    tllm_session *s[2], *m[2];
    int k;
    cd.cancel = waits;
    cd.user = &wait_ns;
    T_OK(tiny_ctx_open(&cd, &slow));
    s[0] = opened(fast, small, 0, 17);
    m[0] = opened(slow, big, 0, 15);
    s[1] = opened(slow, small, 0, 17);
    m[1] = opened(fast, small, 0, 15);
    for (k = 0; k < 2 && s[0] && m[0] && s[1] && m[1]; k++) {
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
        T_OK(tllm_session_set(s[k], NULL, 0, NULL, NULL));
        wait_ns = 0;
        T_OK(tllm_generate(s[k], "Lily", 4, &d, NULL));
        wait_ns = k ? 10000 : 100000;
        d.user = &same;
        d.draft = drafted(s[k], m[k], 4, 2, 8, TLLM_DRAFT_SAME, 0);
        T_OK(tllm_session_set(s[k], NULL, 0, NULL, NULL));
        T_OK(tllm_generate(s[k], "Lily", 4, &d, NULL));
        tllm_draft_count(d.draft, &c);
        T_TRUE(plain.n == same.n && !memcmp(plain.text, same.text, same.n));
        T_TRUE(c.passes + c.kept == 120 && c.draft_seconds > 0.0 && c.pass_seconds > 0.0);
        if (k) T_TRUE(c.kept >= 3);         /* the first tree; the others by what a busy machine measures */
        else T_TRUE(c.proposed > 0 && c.proposed <= 5 * 8 && c.passes > 90);
        tllm_draft_close(d.draft);
    }
    T_PROOF("serving 3", "a tree that loses time is given up by itself, and tried again");
    for (k = 0; k < 2; k++) {
        tllm_session_close(m[k]);
        tllm_session_close(s[k]);
    }
    t_close(slow);
    t_close(fast);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tllm_session *s = opened(ctx, big, 64, 17), *m = opened(ctx, small, 64, 15), *one = opened(ctx, small, 64, 0), *gla;
    tllm_draft_desc d;
    tllm_draft *a = (tllm_draft *)&d;
    tllm_generate_desc g;
    tllm_state_desc sd;
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    memset(&sd, 0, sizeof sd);
    T_OK(tllm_session_open(ctx, "examples/models/story-gla.gguf", &sd, &gla));
    if (!s || !m || !one || !gla) { t_close(ctx); return; }
    T_STATUS(tllm_draft_tree_open(NULL, &d, 2, 0, &a), TINY_E_ARGUMENT, NULL);
    T_TRUE(!a);
    T_STATUS(tllm_draft_tree_open(s, &d, 2, 0, NULL), TINY_E_ARGUMENT, "result pointer");
    T_STATUS(tllm_draft_tree_open(s, NULL, 2, 0, &a), TINY_E_ARGUMENT, "needs a draft model");
    d.model = s;
    T_STATUS(tllm_draft_tree_open(s, &d, 2, 0, &a), TINY_E_ARGUMENT, "the session of the text itself");
    d.model = m;
    T_STATUS(tllm_draft_tree_open(s, &d, 33, 0, &a), TINY_E_ARGUMENT, "1 to 32 candidates after a token, not 33");
    T_STATUS(tllm_draft_tree_open(s, &d, -1, 0, &a), TINY_E_ARGUMENT, "not -1");
    T_STATUS(tllm_draft_tree_open(s, &d, 2, 40, &a), TINY_E_ARGUMENT, "a tree has 1 to 32 tokens, not 40");
    d.n = 33;
    T_STATUS(tllm_draft_tree_open(s, &d, 2, 0, &a), TINY_E_ARGUMENT, "1 to 32 tokens at once, not 33");
    d.n = 4;
    T_STATUS(tllm_draft_tree_open(s, &d, 3, 0, &a), TINY_E_ARGUMENT,
             "the session of the model has 17 sequences, but trees of this size need 22");
    d.model = one;
    T_STATUS(tllm_draft_tree_open(s, &d, 2, 0, &a), TINY_E_ARGUMENT, "the session of the draft has 1 sequences");
    d.model = gla;
    T_STATUS(tllm_draft_tree_open(s, &d, 2, 0, &a), TINY_E_UNSUPPORTED, "cannot be taken back");
    d.model = m;
    d.rule = (tllm_draft_rule)7;
    T_STATUS(tllm_draft_tree_open(s, &d, 2, 0, &a), TINY_E_ARGUMENT, "rule of the draft is 7");
    d.rule = TLLM_DRAFT_MOST;
    T_OK(tllm_draft_tree_open(s, &d, 2, 0, &a));
    g.draft = a;
    T_STATUS(tllm_generate(one, "x", 1, &g, NULL), TINY_E_ARGUMENT, "opened for another session");
    tllm_draft_close(a);
    tllm_session_close(gla);
    tllm_session_close(one);
    tllm_session_close(m);
    tllm_session_close(s);
    sd.n_seq = 17;
    sd.n_batch = 16;
    T_OK(tllm_session_open(ctx, big, &sd, &s));
    m = opened(ctx, small, 64, 15);
    d.model = m;
    if (s && m)
        T_STATUS(tllm_draft_tree_open(s, &d, 2, 0, &a), TINY_E_ARGUMENT,
                 "computes 16 tokens at once, but trees of this size need 31");
    tllm_session_close(m);
    tllm_session_close(s);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_rule);
    T_RUN(test_sizes);
    T_RUN(test_toy);
    T_RUN_FORMS(test_same);
    T_RUN(test_long);
    T_RUN(test_most);
    T_RUN(test_ends);
    T_RUN(test_pace);
    T_RUN(test_refused);
    return t_done();
}
