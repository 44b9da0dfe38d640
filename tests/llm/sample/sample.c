/* tests/llm/sample/sample.c - each step against its definition, by hand or in a slower form, and draws against their
 * probabilities */
#include "t.h"
#include <math.h>
#include <stdlib.h>

#define N_MAX 512
static float logit_of(double p) { return p > 0.0 ? (float)log(p) : -INFINITY; }

/* the probabilities p after one step: compared with want (most probable first) */
static void leaves(tllm_step step, const double *p, int n, const int32_t *text, int n_text, const double *want,
                   int n_want)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_sampler *s;
    float logits[N_MAX];
    int32_t token;
    double have;
    int i;
    for (i = 0; i < n; i++) logits[i] = logit_of(p[i]);
    T_OK(tllm_sampler_open(ctx, &step, 1, n, 1, &s));
    for (i = 0; i < n_text; i++) T_OK(tllm_sampler_accept(s, text[i]));
    T_OK(tllm_sample(s, logits, &token));
    for (i = 0; tllm_sampler_left(s, (size_t)i, &token, &have); i++)
        if (i < n_want) T_TRUE(fabs(have - want[i]) < 1e-6);
    T_EQ_INT(i, n_want);
    tllm_sampler_close(s);
    t_close(ctx);
}

static void test_by_hand(void)
{
    static const double four[4] = { 0.1, 0.2, 0.3, 0.4 }, peak[4] = { 0.97, 0.01, 0.01, 0.01 },
                        flat[4] = { 0.4, 0.2, 0.2, 0.2 };
    static const double third[2] = { 4.0 / 7, 3.0 / 7 }, three[3] = { 4.0 / 9, 3.0 / 9, 2.0 / 9 },
                        all[4] = { 0.4, 0.3, 0.2, 0.1 };
    static const double one[1] = { 1.0 }, sixth[3] = { 1.0 / 3, 1.0 / 3, 1.0 / 3 },
                        five[5] = { 0.2, 0.2, 0.2, 0.2, 0.2 };
    static const double cool[4] = { 0.16 / 0.3, 0.09 / 0.3, 0.04 / 0.3, 0.01 / 0.3 };
    static const double fourth[4] = { 0.25, 0.25, 0.25, 0.25 }, rest[2] = { 2.0 / 3, 1.0 / 3 };
    static const int32_t zero[1] = { 0 };
    double halved[5], presence[5], sum = 4.0 + exp(-0.5 * 2), low;
    tllm_bias ban[1];
    leaves(tllm_step_top_k(1), four, 4, NULL, 0, one, 1);
    leaves(tllm_step_top_k(3), four, 4, NULL, 0, three, 3);
    leaves(tllm_step_top_k(4), four, 4, NULL, 0, all, 4);
    leaves(tllm_step_top_k(0), four, 4, NULL, 0, all, 4);
    leaves(tllm_step_greedy(), four, 4, NULL, 0, one, 1);
    leaves(tllm_step_temperature(0.0f), four, 4, NULL, 0, one, 1);
    leaves(tllm_step_temperature(1e-38f), peak, 4, NULL, 0, one, 1);
    leaves(tllm_step_temperature(0.5f), four, 4, NULL, 0, cool, 4);
    leaves(tllm_step_top_p(0.0f), four, 4, NULL, 0, one, 1);
    leaves(tllm_step_top_p(0.69f), four, 4, NULL, 0, third, 2);
    leaves(tllm_step_top_p(0.8f), four, 4, NULL, 0, three, 3);
    leaves(tllm_step_top_p(1.0f), four, 4, NULL, 0, all, 4);
    leaves(tllm_step_min_p(0.26f), four, 4, NULL, 0, three, 3);
    leaves(tllm_step_min_p(0.51f), four, 4, NULL, 0, third, 2);
    leaves(tllm_step_min_p(0.76f), four, 4, NULL, 0, one, 1);
    /* entropy of flat is 1.3322: 0.2 (1.6094) is nearer to it than 0.4 (0.9163) */
    leaves(tllm_step_typical(0.5f), peak, 4, NULL, 0, one, 1);
    leaves(tllm_step_typical(0.5f), flat, 4, NULL, 0, sixth, 3);
    /* logits -2.303 -1.609 -1.204 -0.916: mean -1.508, deviation 0.5207 */
    leaves(tllm_step_top_n_sigma(1.0f), four, 4, NULL, 0, third, 2);
    leaves(tllm_step_top_n_sigma(0.5f), four, 4, NULL, 0, one, 1);
    leaves(tllm_step_top_n_sigma(3.0f), four, 4, NULL, 0, all, 4);
    /* 0.4 and 0.3 are above 0.25: the lower of the two stays, and all below */
    leaves(tllm_step_xtc(1.0f, 0.35f), four, 4, NULL, 0, all, 4);
    {
        static const double left[3] = { 0.5, 1.0 / 3, 1.0 / 6 };
        leaves(tllm_step_xtc(1.0f, 0.25f), four, 4, NULL, 0, left, 3);
    }
    leaves(tllm_step_xtc(1.0f, 0.15f), four, 4, NULL, 0, rest, 2);
    leaves(tllm_step_xtc(0.0f, 0.15f), four, 4, NULL, 0, all, 4);
    leaves(tllm_step_xtc(1.0f, 0.51f), four, 4, NULL, 0, all, 4);
    /* logits of 0.2 are negative: they are multiplied, ln 0.2 becomes 50 ln 0.2 */
    low = exp(49.0 * log(0.2));
    halved[0] = halved[1] = halved[2] = halved[3] = 1.0 / (4.0 + low);
    halved[4] = low / (4.0 + low);
    leaves(tllm_step_penalties(8, 50.0f, 0.0f, 0.0f), five, 5, zero, 1, halved, 5);
    presence[0] = presence[1] = presence[2] = presence[3] = 1.0 / sum;
    presence[4] = exp(-1.0) / sum;
    leaves(tllm_step_penalties(8, 1.0f, 0.75f, 0.25f), five, 5, zero, 1, presence, 5);
    ban[0].token = 0;
    ban[0].add = -INFINITY;
    leaves(tllm_step_bias(ban, 1), five, 5, NULL, 0, fourth, 4);
}

/* Probabilities that reach the share exactly: eight alike weigh 1 each, and k of them are k / 8. The fewest that reach
 * it are k, the first k; the least more takes one more. */
static void test_reached_exactly(void)
{
    int form, k, more, i;
    for (form = 0; form < 2; form++)
        for (k = 1; k < 8; k++)
            for (more = 0; more < 2; more++) {
                const float p = more ? nextafterf((float)k / 8, 1.0f) : (float)k / 8;
                tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
                tllm_step step = form ? tllm_step_typical(p) : tllm_step_top_p(p);
                tllm_sampler *s;
                float logits[8];
                int32_t token;
                double have;
                for (i = 0; i < 8; i++) logits[i] = -1.25f;
                T_OK(tllm_sampler_open(ctx, &step, 1, 8, 1, &s));
                T_OK(tllm_sample(s, logits, &token));
                for (i = 0; tllm_sampler_left(s, (size_t)i, &token, &have); i++) {
                    T_EQ_INT(token, i);
                    T_CLOSE(have, 1.0 / (k + more), 1e-12);
                }
                T_EQ_INT(i, k + more);
                tllm_sampler_close(s);
                t_close(ctx);
            }
}

/* penalty of each token by the definition of dry: the longest earlier copy of the end that the token would lengthen */
static int dry_length(const int32_t *t, int n, int32_t token, const int32_t *breaker, int n_breakers)
{
    int i, z, best = 0, j;
    for (j = 0; j < n_breakers; j++)
        if (breaker[j] == token) return 0;
    for (i = 0; i + 1 < n; i++) {           /* a copy that ends at i and is followed by t[i + 1] */
        if (t[i + 1] != token) continue;
        for (z = 0; z <= i && t[i - z] == t[n - 1 - z]; z++) {
            for (j = 0; j < n_breakers && breaker[j] != t[n - 1 - z]; j++) {}
            if (j < n_breakers) break;
        }
        if (z > best) best = z;
    }
    return best;
}
static void test_dry(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_rng r = tiny_rng_make(5, 0);
    int round, i, n_hit = 0;
    for (round = 0; round < 300; round++) {
        const int n_vocab = 2 + round % 5, n = 1 + (int)tiny_rng_below(&r, 60), window = round % 3 ? -1 : 20,
                  used = window < 0 || n < window ? n : window;
        int32_t text[64], token, breaker[1];
        float logits[8];
        double p, want[8], total = 0.0;
        tllm_sampler *s;
        tllm_step step;
        breaker[0] = 0;
        step = tllm_step_dry(window, 0.8f, 1.75f, 2, breaker, round % 2);
        for (i = 0; i < n; i++) text[i] = (int32_t)tiny_rng_below(&r, (uint32_t)n_vocab);
        for (i = 0; i < n_vocab; i++) logits[i] = tiny_rng_normal(&r);
        T_OK(tllm_sampler_open(ctx, &step, 1, n_vocab, 1, &s));
        for (i = 0; i < n; i++) T_OK(tllm_sampler_accept(s, text[i]));
        T_OK(tllm_sample(s, logits, &token));
        for (i = 0; i < n_vocab; i++) {
            const int length = dry_length(text + n - used, used, i, breaker, round % 2);
            n_hit += length >= 2;
            want[i] = (double)logits[i] - (length >= 2 ? 0.8 * pow(1.75, length - 2) : 0.0);
            total += exp(want[i]);
        }
        for (i = 0; tllm_sampler_left(s, (size_t)i, &token, &p); i++)
            if (!T_TRUE(fabs(p - exp(want[token]) / total) < 1e-5))
                printf("    round %d token %d\n", round, (int)token);
        T_EQ_INT(i, n_vocab);
        tllm_sampler_close(s);
        if (t_now.checks_failed) break;
    }
    T_TRUE(n_hit > 100);
    t_close(ctx);
}

/* Frequencies of many draws against the probabilities: chi square with 7 degrees of freedom stays below 24.3 with odds
 * 0.999. */
static void test_draws(void)
{
    static const double p[8] = { 0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.05, 0.01 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_sampler *s, *again;
    float logits[8];
    int count[8] = { 0 }, i, n = 40000;
    double chi = 0.0;
    int32_t token, other;
    for (i = 0; i < 8; i++) logits[i] = logit_of(p[i]);
    T_OK(tllm_sampler_open(ctx, NULL, 0, 8, 42, &s));
    T_OK(tllm_sampler_open(ctx, NULL, 0, 8, 42, &again));
    for (i = 0; i < n; i++) {
        T_OK(tllm_sample(s, logits, &token));
        T_OK(tllm_sample(again, logits, &other));
        if (!T_EQ_INT(token, other)) break;
        count[token]++;
    }
    for (i = 0; i < 8; i++) chi += (count[i] - n * p[i]) * (count[i] - n * p[i]) / (n * p[i]);
    T_TRUE(chi < 24.3 && chi > 0.5);
    tllm_sampler_reset(s);
    tllm_sampler_reset(again);
    for (i = 0; i < 50; i++) {
        T_OK(tllm_sample(s, logits, &token));
        T_OK(tllm_sample(again, logits, &other));
        T_EQ_INT(token, other);
    }
    tllm_sampler_close(s);
    tllm_sampler_close(again);
    t_close(ctx);
}

/* On a Zipf law both forms hold the mean surprise near tau, and the cut of version 2 is where it should be. */
static void test_mirostat(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float logits[N_MAX];
    double z = 0.0;
    int version, i;
    for (i = 0; i < N_MAX; i++) z += 1.0 / (i + 1);
    for (i = 0; i < N_MAX; i++) logits[i] = logit_of(1.0 / (i + 1) / z);
    for (version = 1; version <= 2; version++) {
        tllm_step step = version == 1 ? tllm_step_mirostat_1(3.0f, 0.1f) : tllm_step_mirostat_2(3.0f, 0.1f);
        tllm_sampler *s;
        double mean = 0.0;
        int32_t token;
        T_OK(tllm_sampler_open(ctx, &step, 1, N_MAX, 7, &s));
        for (i = 0; i < 3000; i++) {
            double p, kept = 0.0;
            int32_t t;
            size_t k;
            T_OK(tllm_sample(s, logits, &token));
            for (k = 0; tllm_sampler_left(s, k, &t, &p); k++) {
                kept += 1.0 / (t + 1) / z;
                T_EQ_INT(t, (int)k);        /* a cut of the tail */
            }
            if (i >= 500) mean -= log(1.0 / (token + 1) / z / kept) / log(2.0) / 2500;
            if (t_now.checks_failed) break;
        }
        if (!T_TRUE(fabs(mean - 3.0) < 0.15)) printf("    version %d: mean surprise %g\n", version, mean);
        tllm_sampler_close(s);
    }
    t_close(ctx);
}

/* Typical may remove the most probable token; a later step computes surprise over the remaining ones. Of 0.3 and 64
 * alike, one of them a little more, typical keeps 46 of the 64, 5.5 bits each: mu of 2 bits leaves the largest, mu of 6
 * bits all. */
static void test_mirostat_behind_typical(void)
{
    int wide;
    for (wide = 0; wide < 2; wide++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tllm_sampler *s;
        tllm_step chain[2];
        float logits[65];
        int32_t token;
        double p;
        size_t n;
        int i;
        logits[0] = logit_of(0.3);
        for (i = 1; i < 65; i++) logits[i] = logit_of(0.7 / 64);
        logits[9] += 0.001f;
        chain[0] = tllm_step_typical(0.5f);
        chain[1] = tllm_step_mirostat_2(wide ? 3.0f : 1.0f, 0.0f);     /* mu starts at twice this */
        T_OK(tllm_sampler_open(ctx, chain, 2, 65, 1, &s));
        T_OK(tllm_sample(s, logits, &token));
        for (n = 0; tllm_sampler_left(s, n, &token, &p); n++)
            if (!n) T_EQ_INT(token, 9);
        T_EQ_INT(n, wide ? 46 : 1);
        tllm_sampler_close(s);
        t_close(ctx);
    }
}

static int not_seven(void *user, int32_t token) { (void)user; return token != 7; }
/* After a filter and after xtc the largest is another, too. Of 0.6 for token 7 and 40 of 0.01 each, one of them a
 * little more, the filter leaves the 40, 5.3 bits each; xtc takes 7 away where 8 is above its threshold too, and leaves
 * 8 with p = 0.2 / 0.59, 1.6 bits, and 39. */
static void test_mirostat_without_the_largest(void)
{
    int way;
    for (way = 0; way < 4; way++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tllm_sampler *s;
        tllm_step chain[3];
        float logits[41];
        int32_t token;
        double p;
        size_t n;
        int i;
        for (i = 0; i < 41; i++) logits[i] = logit_of(i == 7 ? 0.6 : 0.01);
        logits[20] += 0.001f;
        if (way >= 2) logits[8] = logit_of(0.2);
        chain[0] = tllm_step_top_p(0.99999f);               /* keeps all; probabilities are known before */
        chain[1] = way < 2 ? tllm_step_filter(not_seven, NULL) : tllm_step_xtc(1.0f, 0.15f);
        chain[2] = tllm_step_mirostat_2(way % 2 ? 3.5f : way ? 2.5f : 1.0f, 0.0f);
        T_OK(tllm_sampler_open(ctx, chain, 3, 41, 1, &s));
        T_OK(tllm_sample(s, logits, &token));
        for (n = 0; tllm_sampler_left(s, n, &token, &p); n++) T_TRUE(token != 7);
        T_EQ_INT(n, way % 2 ? 40 : 1);
        tllm_sampler_close(s);
        t_close(ctx);
    }
}

/* The counts of a penalty for one draw are cleared before the next, also after a step that removed tokens. */
static void test_penalties_behind_a_cut(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const double p[6] = { 0.3, 0.25, 0.2, 0.15, 0.07, 0.03 };
    tllm_step chain[3];
    tllm_sampler *s;
    float logits[6];
    int32_t token;
    double have;
    int i, round;
    for (i = 0; i < 6; i++) logits[i] = logit_of(p[i]);
    chain[0] = tllm_step_top_k(4);
    chain[1] = tllm_step_penalties(2, 1.0f, 0.0f, 1.0f);
    T_OK(tllm_sampler_open(ctx, chain, 2, 6, 1, &s));
    for (round = 0; round < 4; round++) {
        double sum = 0, want[4];
        T_OK(tllm_sampler_accept(s, round));                /* the last two are punished, once */
        T_OK(tllm_sample(s, logits, &token));
        for (i = 0; i < 4; i++) sum += want[i] = p[i] * (i == round || i == round - 1 ? exp(-1.0) : 1.0);
        for (i = 0; tllm_sampler_left(s, (size_t)i, &token, &have); i++) T_CLOSE(have, want[token] / sum, 1e-6);
        T_EQ_INT(i, 4);
    }
    tllm_sampler_close(s);
    t_close(ctx);
}

/* Weights that are denormal or 0: e^-720 and e^-1000 next to 1. */
static void test_far_below(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_sampler *s;
    float logits[64];
    int32_t token;
    double p;
    int i;
    for (i = 0; i < 64; i++) logits[i] = i == 40 ? 500.0f : i % 2 ? -220.0f : -500.0f;
    T_OK(tllm_sampler_open(ctx, NULL, 0, 64, 1, &s));
    T_OK(tllm_sample(s, logits, &token));
    T_EQ_INT(token, 40);
    for (i = 0; tllm_sampler_left(s, (size_t)i, &token, &p); i++)
        if (i == 0) T_CLOSE(p, 1.0, 0);
        else if (token % 2) T_CLOSE(p, exp(-720.0), 1e-8 * exp(-720.0));
        else T_CLOSE(p, 0, 0);
    T_EQ_INT(i, 64);
    tllm_sampler_close(s);
    t_close(ctx);
}

/* Quotients beyond floats: greedy, whichever side of 0 the logits are. */
static void test_tiny_temperature(void)
{
    static const float t[3] = { 1e-30f, 1e-38f, 1.4e-45f }, far[4] = { 1e10f, 3e38f, -1e10f, -3e38f };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, j, k;
    for (i = 0; i < 3; i++)
        for (j = 0; j < 4; j++) {
            tllm_step step = tllm_step_temperature(t[i]);
            tllm_sampler *s;
            float logits[20];
            int32_t token;
            for (k = 0; k < 20; k++) logits[k] = far[j] - 1e-3f * (float)fabs((double)far[j]) * (float)(k != 7);
            T_OK(tllm_sampler_open(ctx, &step, 1, 20, 1, &s));
            if (T_OK(tllm_sample(s, logits, &token))) T_EQ_INT(token, 7);
            tllm_sampler_close(s);
        }
    t_close(ctx);
}

/* The chain is applied in its order: a temperature before a cut by probability changes the cut. */
static void test_order(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const double p[4] = { 0.5, 0.25, 0.15, 0.1 };
    int order;
    for (order = 0; order < 2; order++) {
        tllm_step chain[2];
        tllm_sampler *s;
        float logits[4];
        int32_t token;
        double q;
        int i;
        for (i = 0; i < 4; i++) logits[i] = logit_of(p[i]);
        chain[order] = tllm_step_temperature(0.25f);
        chain[1 - order] = tllm_step_top_p(0.9f);
        T_OK(tllm_sampler_open(ctx, chain, 2, 4, 3, &s));
        T_OK(tllm_sample(s, logits, &token));
        for (i = 0; tllm_sampler_left(s, (size_t)i, &token, &q); i++) {}
        T_EQ_INT(i, order ? 3 : 1);         /* 0.5^4 / sum is 0.93 */
        tllm_sampler_close(s);
    }
    t_close(ctx);
}

/* ---- a whole vocabulary, where no step sorts it: the same sets as by sorting, with many equal logits ------------- */

enum { N_LARGE = 3001 };
static float large_x[N_LARGE];
static double large_key[N_LARGE];
static int by_key(const void *a, const void *b)
{
    const int i = *(const int *)a, j = *(const int *)b;
    return large_key[i] < large_key[j] ? -1 : large_key[i] > large_key[j] ? 1 : i - j;
}
/* the tokens that a step keeps, by its definition: sorted by key, cut where the sum reaches p or after n */
static int slow_cut(int by_distance, double p, int n_most, char *kept)
{
    int order[N_LARGE], i, n = 0;
    double sum = 0.0, total = 0.0, entropy = 0.0, top = -INFINITY;
    memset(kept, 0, N_LARGE);
    for (i = 0; i < N_LARGE; i++) top = large_x[i] > top ? (double)large_x[i] : top;
    for (i = 0; i < N_LARGE; i++) total += exp((double)large_x[i] - top);
    for (i = 0; i < N_LARGE; i++)
        if (large_x[i] > -INFINITY)
            entropy -= exp((double)large_x[i] - top) / total * ((double)large_x[i] - top - log(total));
    for (i = 0; i < N_LARGE; i++) {
        order[i] = i;
        large_key[i] = by_distance ? fabs(top + log(total) - (double)large_x[i] - entropy) : -(double)large_x[i];
    }
    qsort(order, N_LARGE, sizeof order[0], by_key);
    while (n < n_most && large_x[order[n]] > -INFINITY && (n == 0 || sum < p)) {
        kept[order[n]] = 1;
        sum += exp((double)large_x[order[n++]] - top) / total;
    }
    return n;
}
static void large_step(tiny_target target, tllm_step step, const char *kept, int n, uint64_t seed, int round)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_sampler *s;
    int32_t token;
    double p, before = 2.0;
    int32_t last = -1;
    int i;
    T_OK(tllm_sampler_open(ctx, &step, 1, N_LARGE, seed, &s));
    T_OK(tllm_sample(s, large_x, &token));
    T_TRUE(kept[token]);
    for (i = 0; tllm_sampler_left(s, (size_t)i, &token, &p); i++) {
        if (!T_TRUE(kept[token] && p <= before)) break;
        if (last >= 0 && large_x[token] == large_x[last]) T_TRUE(token > last);
        before = p;
        last = token;
    }
    if (!T_EQ_INT(i, n)) printf("    round %d, step %d\n", round, (int)step.kind);
    tllm_sampler_close(s);
    t_close(ctx);
}
static void test_large(tiny_target target)
{
    static const double nucleus[4] = { 0.0, 0.31, 0.951, 0.99991 };
    static const int most[5] = { 1, 40, 64, 65, 2900 };
    char kept[N_LARGE];
    int round, i, n;
    for (round = 0; round < 6; round++) {
        /* flat, usual and steep ones, far from 0 too, where a float holds few digits; on a grid, so that many are
         * equal */
        const double spread = round % 3 == 0 ? 0.05 : round % 3 == 1 ? 2.6 : 30.0, offset = 500.0 * (round / 2 - 1);
        double sum = 0.0, square = 0.0, top = -1e30;
        tiny_rng r = tiny_rng_make((uint64_t)round, 0);
        for (i = 0; i < N_LARGE; i++) {
            large_x[i] = (float)(offset + spread / 16 * floor(16.0 * (double)tiny_rng_normal(&r)));
            if (round == 4 && i % 7 == 0) large_x[i] = -INFINITY;
            else { sum += (double)large_x[i]; square += 1.0; if ((double)large_x[i] > top) top = (double)large_x[i]; }
        }
        for (i = 0; i < 4; i++) {
            n = slow_cut(0, nucleus[i], N_LARGE, kept);
            large_step(target, tllm_step_top_p((float)nucleus[i]), kept, n, 1, round);
            n = slow_cut(1, nucleus[i], N_LARGE, kept);
            large_step(target, tllm_step_typical((float)nucleus[i]), kept, n, 1, round);
        }
        for (i = 0; i < 5; i++) {
            n = slow_cut(0, 2.0, most[i], kept);
            large_step(target, tllm_step_top_k(most[i]), kept, n, 2, round);
        }
        for (n = i = 0; i < N_LARGE; i++) n += kept[i] = (double)large_x[i] >= top + log(0.01f);
        large_step(target, tllm_step_min_p(0.01f), kept, n, 3, round);
        for (n = i = 0; i < N_LARGE; i++) n += kept[i] = (double)large_x[i] >= top;
        large_step(target, tllm_step_min_p(1.0f), kept, n, 3, round);
        {                                   /* all above go but the last of the least probable of them */
            double total = 0.0;
            int stays = -1, above = 0;
            for (i = 0; i < N_LARGE; i++) total += exp((double)large_x[i] - top);
            for (n = i = 0; i < N_LARGE; i++) {
                n += kept[i] = large_x[i] > -INFINITY;
                if (exp((double)large_x[i] - top) / total < 0.00099) continue;
                n -= kept[i];
                kept[i] = 0;
                above++;
                if (stays < 0 || large_x[i] <= large_x[stays]) stays = i;
            }
            if (above) n += kept[stays] = 1;
            large_step(target, tllm_step_xtc(1.0f, 0.00099f), kept, n, 5, round);
        }
        {
            double mean = sum / square, deviation = 0.0;
            for (i = 0; i < N_LARGE; i++)
                if (large_x[i] > -INFINITY)
                    deviation += ((double)large_x[i] - mean) * ((double)large_x[i] - mean) / square;
            for (n = i = 0; i < N_LARGE; i++) n += kept[i] = (double)large_x[i] >= top - 1.5 * sqrt(deviation);
            large_step(target, tllm_step_top_n_sigma(1.5f), kept, n, 4, round);
        }
    }
}

/* the same tokens on every target, through chains that begin with the whole vocabulary and change it */
static void test_same_everywhere(tiny_target target)
{
    static const tllm_bias bias[3] = { { 5, 2.0f }, { 6, -INFINITY }, { 5, 1.5f } };
    static int32_t want[7][20];
    static int known;                       /* the first target has filled want */
    int c, i, j;
    for (c = 0; c < 7; c++) {
        tiny_ctx *ctx = t_ctx(target, 1);
        tiny_rng r = tiny_rng_make(9, 0);
        tllm_sampler *s;
        tllm_step chain[3];
        int32_t token;
        chain[0] = tllm_step_penalties(64, 1.2f, 0.1f, 0.1f);
        chain[1] = c % 2 ? tllm_step_temperature(0.9f) : tllm_step_bias(bias, 3);
        chain[2] = c == 1   ? tllm_step_top_k(40)
                   : c == 2 ? tllm_step_top_p(0.9f)
                   : c == 3 ? tllm_step_typical(0.9f)
                   : c == 4 ? tllm_step_xtc(0.7f, 0.002f)
                   : c == 5 ? tllm_step_mirostat_1(4.0f, 0.2f)
                            : tllm_step_mirostat_2(4.0f, 0.2f);
        T_OK(tllm_sampler_open(ctx, chain, c ? 3 : 2, N_LARGE, 77, &s));
        for (i = 0; i < 20; i++) {
            for (j = 0; j < N_LARGE; j++) large_x[j] = 2.0f * tiny_rng_normal(&r);
            T_OK(tllm_sample(s, large_x, &token));
            T_OK(tllm_sampler_accept(s, token));
            if (!known) want[c][i] = token;
            T_EQ_INT(token, want[c][i]);
            if (c % 2 == 0) T_TRUE(token != 6);
        }
        tllm_sampler_close(s);
        t_close(ctx);
    }
    known = 1;
}

static int even(void *user, int32_t token) { ++*(int *)user; return token % 2 == 0; }
static int none(void *user, int32_t token) { (void)user; (void)token; return 0; }

static void test_filter_and_logprobs(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_step step;
    tllm_sampler *s;
    float logits[5] = { 1, 9, 2, 8, 2 };
    double z = 0.0, lp[3];
    int asked = 0, i;
    int32_t token, top[3];
    step = tllm_step_filter(even, &asked);
    T_OK(tllm_sampler_open(ctx, &step, 1, 5, 3, &s));
    for (i = 0; i < 100; i++) {
        T_OK(tllm_sample(s, logits, &token));
        T_EQ_INT(token % 2, 0);
    }
    T_EQ_INT(asked, 500);
    tllm_sampler_close(s);
    step = tllm_step_filter(none, NULL);
    T_OK(tllm_sampler_open(ctx, &step, 1, 5, 3, &s));
    T_STATUS(tllm_sample(s, logits, &token), TINY_E_NUMERIC, "no candidate is left");
    tllm_sampler_close(s);
    for (i = 0; i < 5; i++) z += exp((double)logits[i]);
    T_OK(tllm_logprobs(ctx, logits, 5, 3, top, lp));
    T_TRUE(top[0] == 1 && top[1] == 3 && top[2] == 2);     /* of equals the lower */
    for (i = 0; i < 3; i++) T_TRUE(fabs(lp[i] - log(exp((double)logits[top[i]]) / z)) < 1e-12);
    T_OK(tllm_logprob(ctx, logits, 5, 4, &lp[0]));
    T_TRUE(fabs(lp[0] - (2 - log(z))) < 1e-12);
    T_STATUS(tllm_logprob(ctx, logits, 5, 5, &lp[0]), TINY_E_ARGUMENT, "token 5 is outside the vocabulary of 5");
    T_STATUS(tllm_logprobs(ctx, logits, 5, 6, top, lp), TINY_E_ARGUMENT, "6 tokens are wanted of 5");
    t_close(ctx);
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_step chain[2];
    tllm_sampler *s = NULL;
    float logits[3] = { 1, 2, 3 };
    int32_t token;
    tllm_bias bias[1];
    memset(chain, 0, sizeof chain);
    T_STATUS(tllm_sampler_open(ctx, NULL, 1, 3, 0, &s), TINY_E_ARGUMENT, "the chain");
    T_STATUS(tllm_sampler_open(ctx, NULL, 0, 0, 0, &s), TINY_E_ARGUMENT, "a vocabulary cannot have 0 tokens");
    chain[0].kind = (tllm_step_kind)99;
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "step kind 99 is unknown");
    chain[0] = tllm_step_temperature(-1.0f);
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "temperature: t is -1");
    chain[0] = tllm_step_temperature(NAN);
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "temperature: t is");
    chain[0] = tllm_step_top_p(1.5f);
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "top-p: p is 1.5");
    chain[0] = tllm_step_top_k(-3);
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "top-k: -3 is negative");
    chain[0] = tllm_step_penalties(-2, 1.0f, 0.0f, 0.0f);
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "penalties: -2 is negative");
    chain[0] = tllm_step_penalties(8, 0.0f, 0.0f, 0.0f);
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "penalties: repeat is 0");
    chain[0] = tllm_step_mirostat_2(5.0f, 0.1f);
    chain[1] = tllm_step_top_k(2);
    T_STATUS(tllm_sampler_open(ctx, chain, 2, 3, 0, &s), TINY_E_ARGUMENT, "must be the last step");
    bias[0].token = 3;
    bias[0].add = 1.0f;
    chain[0] = tllm_step_bias(bias, 1);
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "token 3 is outside the vocabulary of 3");
    chain[0] = tllm_step_filter(NULL, NULL);
    T_STATUS(tllm_sampler_open(ctx, chain, 1, 3, 0, &s), TINY_E_ARGUMENT, "the callback is NULL");
    T_TRUE(s == NULL);
    T_OK(tllm_sampler_open(ctx, NULL, 0, 3, 0, &s));
    T_STATUS(tllm_sampler_accept(s, 3), TINY_E_ARGUMENT, "token 3 is outside the vocabulary of 3");
    T_STATUS(tllm_sampler_accept(s, -1), TINY_E_ARGUMENT, "token -1");
    T_STATUS(tllm_sample(s, NULL, &token), TINY_E_ARGUMENT, "the logits or the token pointer is NULL");
    logits[1] = NAN;
    T_STATUS(tllm_sample(s, logits, &token), TINY_E_NUMERIC, "the logit of token 1 is");
    logits[1] = INFINITY;
    T_STATUS(tllm_sample(s, logits, &token), TINY_E_NUMERIC, "the logit of token 1 is inf");
    logits[0] = logits[1] = logits[2] = -INFINITY;
    T_STATUS(tllm_sample(s, logits, &token), TINY_E_NUMERIC, "no candidate is left");
    logits[2] = -3.0e38f;
    T_OK(tllm_sample(s, logits, &token));
    T_EQ_INT(token, 2);
    tllm_sampler_close(s);
    tllm_sampler_close(NULL);
    t_close(ctx);
}

static void test_memory_fails(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_step chain[1];
        tllm_sampler *s = NULL;
        int i;
        tiny_status st = tiny_ctx_open(&desc, &ctx);
        chain[0] = tllm_step_penalties(-1, 1.1f, 0.0f, 0.0f);
        if (!st) st = tllm_sampler_open(ctx, chain, 1, 50, 1, &s);
        for (i = 0; !st && i < 600; i++) st = tllm_sampler_accept(s, i % 50);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        tllm_sampler_close(s);
        tiny_ctx_close(ctx);
    })
}

/* Every cut of a text into pieces gives the same output, and no part of a stop string is ever output. */
static void test_stop(void)
{
    static const char *const strings[3] = { "</s>", "abab!", "b!x" };
    static const struct { const char *text, *want; int stopped;
    } c[7] = {
        { "hello", "hello", 0 }, { "hello</s>more", "hello", 1 },  { "a < b </ s", "a < b </ s", 0 },
        { "</</s>", "</", 1 },   { "abaabababab!", "abaabab", 2 }, { "xb!", "xb!", 0 },
        { "xb!x", "x", 3 },
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_stop *stop;
    size_t i, cut;
    T_OK(tllm_stop_open(ctx, strings, 3, &stop));
    T_EQ_INT(tllm_stop_held_most(stop), 5);
    for (i = 0; i < 7; i++)
        for (cut = 0; cut < ((size_t)1 << (strlen(c[i].text) - 1)); cut++) {
            char out[64];
            size_t n = 0, at, from = 0, len = strlen(c[i].text), got;
            int stopped = 0;
            tllm_stop_reset(stop);
            for (at = 1; at <= len; at++)
                if (at == len || cut >> (at - 1) & 1) {
                    int now;
                    tllm_stop_feed(stop, c[i].text + from, at - from, out + n, &got, &now);
                    n += got;
                    from = at;
                    if (now) stopped = now;
                    T_TRUE(n <= strlen(c[i].want));
                }
            if (!stopped) {
                tllm_stop_flush(stop, out + n, &got);
                n += got;
            }
            T_EQ_INT(stopped, c[i].stopped);
            if (!T_TRUE(n == strlen(c[i].want) && !memcmp(out, c[i].want, n)))
                printf("    %s gives %.*s\n", c[i].text, (int)n, out);
            if (t_now.checks_failed) break;
        }
    tllm_stop_close(stop);
    {                                       /* of two that end together the longer one, in any order of the list */
        static const char *const nested[3] = { "bc", "abc", "c!" };
        char out[8];
        size_t got;
        int now;
        T_OK(tllm_stop_open(ctx, nested, 3, &stop));
        tllm_stop_feed(stop, "xabc", 4, out, &got, &now);
        T_TRUE(got == 1 && out[0] == 'x' && now == 2);
        tllm_stop_reset(stop);
        tllm_stop_feed(stop, "xbc", 3, out, &got, &now);
        T_TRUE(got == 1 && out[0] == 'x' && now == 1);
        tllm_stop_close(stop);
    }
    {
        static const char *const empty[2] = { "a", "" };
        T_STATUS(tllm_stop_open(ctx, empty, 2, &stop), TINY_E_ARGUMENT, "stop string 2 is empty");
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_reached_exactly);
    T_RUN(test_dry);
    T_RUN(test_draws);
    T_RUN(test_mirostat);
    T_RUN(test_mirostat_behind_typical);
    T_RUN(test_mirostat_without_the_largest);
    T_RUN(test_penalties_behind_a_cut);
    T_RUN(test_far_below);
    T_RUN(test_tiny_temperature);
    T_RUN(test_order);
    T_RUN_TARGETS(test_large);
    T_RUN_TARGETS(test_same_everywhere);
    T_RUN(test_filter_and_logprobs);
    T_RUN(test_bad_input);
    T_RUN(test_memory_fails);
    T_RUN(test_stop);
    return t_done();
}
