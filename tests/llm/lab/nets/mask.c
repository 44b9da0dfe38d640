/* tests/llm/lab/nets/mask.c - masks: exact choices against a sort in the test, the cubic schedule */
#include "t.h"

#ifdef TINYLLM_NO_NETS
int main(void) { return t_done(); }
#else

static void test_schedule(void)
{
    static const double want[11] = { 0, .2439, .4392, .5913, .7056, .7875, .8424, .8757, .8928, .8991, .9 };
    tllm_gradual g;
    int64_t t, before = -1;
    int i, due = 0;
    memset(&g, 0, sizeof g);
    g.to = 0.9; g.start = 100; g.every = 7; g.n = 10;
    for (i = 0; i < 11; i++) T_CLOSE(tllm_gradual_at(&g, 100 + 7 * i), want[i], 5e-5);
    T_CLOSE(tllm_gradual_at(&g, 0), 0.0, 0.0);
    T_CLOSE(tllm_gradual_at(&g, 100 + 7 * 10), 0.9, 0.0);
    T_CLOSE(tllm_gradual_at(&g, INT64_MAX), 0.9, 0.0);
    for (t = 0; t < 400; t++) {
        const int is = tllm_gradual_due(&g, t);
        due += is;
        T_TRUE(!is || (t >= 100 && t <= 170 && (before < 0 || t - before == 7)));
        if (is) before = t;
        T_TRUE(!t || tllm_gradual_at(&g, t) >= tllm_gradual_at(&g, t - 1));
        T_TRUE(is || !t || tllm_gradual_at(&g, t) == tllm_gradual_at(&g, t - 1));   /* changes only at events */
    }
    T_EQ_INT(due, 11);
    g.from = 0.5;
    T_CLOSE(tllm_gradual_at(&g, 3), 0.5, 0.0);
    T_CLOSE(tllm_gradual_at(&g, 100 + 35), 0.9 - 0.4 / 8, 1e-12);
    T_PROOF("compression 2", "0 to 0.9 in 10 events: the eleven numbers");
    T_PROOF("compression 2", "sparsity is monotone");
}

typedef struct one { double s; size_t i; } one;
static int by_score(const void *a, const void *b)
{
    const one *p = (const one *)a, *q = (const one *)b;
    return p->s < q->s ? -1 : p->s > q->s ? 1 : p->i < q->i ? -1 : p->i > q->i;
}

static void test_top(void)
{
    static const size_t len[] = { 1, 2, 7, 8, 9, 63, 64, 65, 1000 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    size_t c, i, k, round;
    for (c = 0; c < T_COUNT(len); c++)
        for (round = 0; round < 3; round++) {
            const size_t n = len[c], all = n + 13, first = round == 1 ? 5 : 0;
            double *s = (double *)t_keep(n * sizeof *s);
            one *o = (one *)t_keep(n * sizeof *o);
            tllm_mask m;
            T_OK(tllm_mask_open(ctx, all, &m));
            T_EQ_INT(tllm_mask_count(&m, 0, all), all);
            for (i = 0; i < n; i++) {
                s[i] = round == 2 ? 1.5 : (double)t_rand_float(-2, 2);      /* all equal: the lowest indices go */
                if (i % 5 == 3) s[i] = i % 2 ? 0.0 : -0.0;
                if (i == 11) s[i] = 1e300;
                if (i == 17) s[i] = -INFINITY;
                o[i].s = s[i];
                o[i].i = i;
            }
            qsort(o, n, sizeof *o, by_score);
            for (k = 0; k <= n; k += n > 9 ? n / 9 : 1) {
                T_OK(tllm_mask_top(ctx, &m, first, n, s, k));
                T_EQ_INT(tllm_mask_count(&m, first, n), k);
                T_EQ_INT(tllm_mask_count(&m, 0, all), k + 13);
                for (i = 0; i < n; i++) T_EQ_INT(tllm_mask_has(&m, first + o[i].i), i >= n - k);
            }
            T_EQ_INT(m.bits[(all - 1) / 8] >> ((all - 1) % 8 + 1), 0);
            tllm_mask_close(ctx, &m);
        }
    t_close(ctx);
}

static void test_part(void)
{
    T_EQ_INT(tllm_mask_part(0.5, 5), 2);                /* 2.5: to the even one */
    T_EQ_INT(tllm_mask_part(0.5, 7), 4);                /* 3.5 */
    T_EQ_INT(tllm_mask_part(0.25, 10), 2);
    T_EQ_INT(tllm_mask_part(0.26, 10), 3);
    T_EQ_INT(tllm_mask_part(0.0, 10), 0);
    T_EQ_INT(tllm_mask_part(-1.0, 10), 0);
    T_EQ_INT(tllm_mask_part(NAN, 10), 0);
    T_EQ_INT(tllm_mask_part(2.0, 10), 10);
    T_EQ_INT(tllm_mask_part(1.0, 21760), 21760);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double s[4] = { 1, 2, NAN, 4 };
    tllm_gradual g;
    tllm_mask m;
    T_STATUS(tllm_mask_open(ctx, 0, &m), TINY_E_ARGUMENT, "at least one number");
    T_STATUS(tllm_mask_open(ctx, SIZE_MAX, &m), TINY_E_OVERFLOW, "the limit is");
    T_OK(tllm_mask_open(ctx, 4, &m));
    T_STATUS(tllm_mask_top(ctx, &m, 0, 4, s, 2), TINY_E_NUMERIC, "number 2 is NaN");
    T_EQ_INT(tllm_mask_count(&m, 0, 4), 4);
    T_STATUS(tllm_mask_top(ctx, &m, 0, 4, s, 5), TINY_E_ARGUMENT, "the 5 best");
    T_STATUS(tllm_mask_top(ctx, &m, 2, 3, s, 1), TINY_E_ARGUMENT, "numbers 2 to 5, of 4");
    T_STATUS(tllm_mask_top(ctx, &m, SIZE_MAX, 2, s, 1), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_mask_top(ctx, &m, 0, 4, NULL, 1), TINY_E_ARGUMENT, NULL);
    T_EQ_INT(tllm_mask_has(&m, 4), 0);
    T_EQ_INT(tllm_mask_has(NULL, 0), 0);
    tllm_mask_put(&m, 4, 1);
    T_EQ_INT(m.bits[0], 15);
    tllm_mask_close(ctx, &m);
    tllm_mask_close(ctx, NULL);
    memset(&g, 0, sizeof g);
    g.to = 0.9; g.every = 20; g.n = 40;
    T_OK(tllm_gradual_check(ctx, &g));
    g.to = 1.0;
    T_STATUS(tllm_gradual_check(ctx, &g), TINY_E_ARGUMENT, "from 0 to 1;");
    g.to = NAN;
    T_STATUS(tllm_gradual_check(ctx, &g), TINY_E_ARGUMENT, "share of zeros");
    g.to = 0.4; g.from = 0.5;
    T_STATUS(tllm_gradual_check(ctx, &g), TINY_E_ARGUMENT, "from 0.5 to 0.4");
    g.from = 0.0; g.every = 0;
    T_STATUS(tllm_gradual_check(ctx, &g), TINY_E_ARGUMENT, "one every 0 steps");
    g.every = INT64_MAX; g.n = 3;
    T_STATUS(tllm_gradual_check(ctx, &g), TINY_E_ARGUMENT, "events");
    g.every = 1; g.start = -1;
    T_STATUS(tllm_gradual_check(ctx, &g), TINY_E_ARGUMENT, "events");
    T_STATUS(tllm_gradual_check(ctx, NULL), TINY_E_ARGUMENT, "a schedule is needed");
    T_CLOSE(tllm_gradual_at(NULL, 5), 0.0, 0.0);
    T_EQ_INT(tllm_gradual_due(NULL, 5), 0);
    t_close(ctx);
    T_PROOF("compression 2", "bad input: s_f >= 1, s_f < s_i, dt = 0");
}

/* the allocations of a choice fail, one after the other */
static void test_memory(void)
{
    double s[100];
    int i;
    for (i = 0; i < 100; i++) s[i] = (double)(i * 37 % 100);
    T_EACH_ALLOCATION({
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_mask m;
        memset(&m, 0, sizeof m);
        if (!tiny_ctx_open(&cd, &ctx)) {
            if (!tllm_mask_open(ctx, 100, &m)) {
                if (tllm_mask_top(ctx, &m, 0, 100, s, 30)) T_EQ_INT(tllm_mask_count(&m, 0, 100), 100);
                else T_EQ_INT(tllm_mask_count(&m, 0, 100), 30);
            }
            tllm_mask_close(ctx, &m);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN(test_schedule);
    T_RUN(test_top);
    T_RUN(test_part);
    T_RUN(test_bad);
    T_RUN(test_memory);
    return t_done();
}
#endif
