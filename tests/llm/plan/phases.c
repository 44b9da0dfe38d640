/* tests/llm/plan/phases.c - prompts and answers on devices of their own, simulated
 *
 * Truth    queueing theory (M/D/1 and its relatives); worked times of a published profile; goodputs that another,
 *          simpler simulator gave for it; Little's law; the rules of the simulator, worked by hand for a few requests;
 *          a search by trying everything. */
#include "t.h"
#include <math.h>

/* a model of 13 billion weights on one A100, as the paper's simulator has it */
static const tllm_phases_time published = {
    1, { 18.1025, .1019123, 7.12226e-6 },
    { { 19.9347, 6.26936e-4, .0385070 }, { 7.16619, 5.79800e-4, .158311 } }, 0, 1
};
/* a prompt takes 50 ms, a step of answers 10 */
static const tllm_phases_time even = { 1, { 50, 0, 0 }, { { 10, 0, 0 }, { 10, 0, 0 } }, 0, 0 };

static tllm_phases of(const tllm_phases_time *time, tllm_phases_mode mode, int prompts, int answers)
{
    tllm_phases d;
    memset(&d, 0, sizeof d);
    d.time = time;
    d.n_time = 1;
    d.mode = mode;
    d.prompts.n = prompts;
    d.answers.n = answers;
    d.prompts.tp = d.prompts.pp = d.answers.tp = d.answers.pp = 1;
    return d;
}
static tllm_phases_load load_of(int n, double rate, double prompt, double answer)
{
    tllm_phases_load l;
    memset(&l, 0, sizeof l);
    l.n = n;
    l.rate = rate;
    l.prompt = prompt;
    l.answer = answer;
    l.seed = 1;
    return l;
}

static void test_queues(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_phases d = of(&even, TLLM_PHASES_PROMPTS, 1, 0);
    tllm_phases_load l = load_of(T_SLOW ? 40000 : 400000, 10, 1, 1);
    tllm_phases_request *r = (tllm_phases_request *)t_keep((size_t)l.n * sizeof *r);
    tllm_phases_report got;
    T_PROOF("serving 4", "queueing formulas: one device, two stages, cut over two; the crossover at K = 1.2");
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_ONE, 50, 10, 0), 75, 1e-9);
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_STAGES, 50, 10, 0), 54.1667, 1e-3);
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_CUT, 50, 10, 1.6), 38.3523, 1e-3);
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_ONE, 50, 16, 0), 150, 1e-9);
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_STAGES, 50, 16, 0), 58.3333, 1e-3);
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_CUT, 50, 16, 1.6), 46.875, 1e-3);
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_STAGES, 50, 4, 0), 51.4, 0.05);
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_CUT, 50, 4, 1.2), 45.8, 0.05);
    T_CLOSE(tllm_phases_wait(TLLM_QUEUE_CUT, 50, 10, 1.2), 56.5, 0.1);
    T_TRUE(isinf(tllm_phases_wait(TLLM_QUEUE_ONE, 50, 20, 0)));
    T_TRUE(isnan(tllm_phases_wait(TLLM_QUEUE_ONE, -1, 20, 0)) && isnan(tllm_phases_wait(TLLM_QUEUE_CUT, 50, 1, 0)));
    T_PROOF("serving 4", "the simulator against M/D/1, and against two stages");
    d.batch = 1;                            /* one prompt at a time */
    T_OK(tllm_phases_draw(ctx, &l, r));
    T_OK(tllm_phases_simulate(ctx, &d, r, (size_t)l.n, NULL, &got));
    T_CLOSE(got.first, 75, T_SLOW ? 3 : 0.8);
    d.prompts.pp = 2;
    T_OK(tllm_phases_simulate(ctx, &d, r, (size_t)l.n, NULL, &got));
    T_CLOSE(got.first, 54.17, T_SLOW ? 0.5 : 0.2);
    t_close(ctx);
}

static void test_profile(void)
{
    tllm_phases d = of(&published, TLLM_PHASES_APART, 1, 1);
    double x[12], y[12], time[12], abc[3];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i;
    T_PROOF("serving 4", "times of the published profile: 72.1, 33.2 and 57.8 ms");
    T_CLOSE(tllm_phases_prompt_time(&d, 1, 1, 512, 512.0 * 512.0), 72.149, 1e-3);
    T_CLOSE(tllm_phases_token_time(&d, 1, 1, 32 * 600.0, 32), 33.204, 1e-3);
    T_CLOSE(tllm_phases_token_time(&d, 1, 1, 100 * 600.0, 100), 57.785, 1e-3);
    T_CLOSE(tllm_phases_prompt_time(&d, 1, 2, 512, 512.0 * 512.0), 72.149 / 2 + 2, 1e-3);
    T_TRUE(isnan(tllm_phases_prompt_time(&d, 2, 1, 1, 1)) && isnan(tllm_phases_token_time(NULL, 1, 1, 1, 1)));
    for (i = 0; i < 12; i++) {
        x[i] = 100 * i;
        y[i] = 3 * (i % 5);
        time[i] = 7 + 0.25 * x[i] + 1.5 * y[i] + (i % 2 ? 1e-3 : -1e-3);
    }
    T_OK(tllm_phases_fit(ctx, x, y, time, 12, abc));
    T_CLOSE(abc[0], 7, 0.01);
    T_CLOSE(abc[1], 0.25, 1e-4);
    T_CLOSE(abc[2], 1.5, 1e-3);
    T_STATUS(tllm_phases_fit(ctx, x, x, time, 12, abc), TINY_E_ARGUMENT, "do not tell");
    T_STATUS(tllm_phases_fit(ctx, x, y, time, 2, abc), TINY_E_ARGUMENT, "three measured");
    y[3] = NAN;
    T_STATUS(tllm_phases_fit(ctx, x, y, time, 12, abc), TINY_E_NUMERIC, "measurement 3");
    t_close(ctx);
}

/* Few requests, worked by hand: prompts 50 ms each alone, steps of 10 ms whoever shares them. */
static void test_by_hand(void)
{
    static const tllm_phases_request r[3] = { { 0, 20, 3 }, { 10, 20, 3 }, { 20, 20, 1 } },
                                     a[3] = { { 0, 20, 3 }, { 9, 20, 3 }, { 20, 20, 1 } },
                                     b[2] = { { 0, 20, 11 }, { 10, 20, 3 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_phases d = of(&even, TLLM_PHASES_APART, 1, 1);
    tllm_phases_times t[3];
    tllm_phases_report got;
    d.batch = 20;
    d.token_bytes = 1000;
    d.link = 1e6;                           /* 20 ms for a cache */
    T_OK(tllm_phases_simulate(ctx, &d, r, 3, t, &got));
    /* prompts end at 50, 100, 150; caches are there at 70, 120; steps at 80, 90; 130, 140 */
    T_TRUE(t[0].first == 50 && t[1].first == 100 && t[2].first == 150);
    T_TRUE(t[0].end == 90 && t[1].end == 140 && t[2].end == 150);
    T_CLOSE(got.moved, 40000, 0);
    T_CLOSE(got.first, (50 + 90 + 130) / 3.0, 1e-9);
    T_CLOSE(got.each, (20 + 20 + 0) / 3.0, 1e-9);
    d.batch = 0;                            /* the two that wait go together */
    d.link = 0;
    T_OK(tllm_phases_simulate(ctx, &d, r, 3, t, &got));
    T_TRUE(t[1].first == 100 && t[2].first == 100 && t[0].end == 70 && t[1].end == 120);
    d.mode = TLLM_PHASES_TOGETHER;          /* prompts first */
    d.batch = 20;
    T_OK(tllm_phases_simulate(ctx, &d, r, 3, t, &got));
    T_TRUE(t[2].first == 150 && t[0].end == 170 && t[1].end == 170);
    d.mode = TLLM_PHASES_ANSWERS;           /* with their first token at 0, 9, 20; the third has no other */
    T_OK(tllm_phases_simulate(ctx, &d, a, 3, t, &got));
    T_TRUE(t[0].end == 20 && t[1].end == 30 && t[2].end == 20);
    /* cells for one prompt on the side that reads: the next waits until the first was fetched */
    d.mode = TLLM_PHASES_APART;
    d.link = 1e6;
    d.prompt_cells = 20;
    d.page = 1;
    T_OK(tllm_phases_simulate(ctx, &d, r, 3, t, &got));
    T_TRUE(t[0].first == 50 && t[1].first == 120 && t[2].first == 190);
    /* and on the other side: the second cache is fetched when the first request has ended, at 170 */
    d.prompt_cells = 0;
    d.answer_cells = 35;
    T_OK(tllm_phases_simulate(ctx, &d, b, 2, t, &got));
    T_TRUE(t[0].end == 170 && t[1].first == 100 && t[1].end == 210);
    t_close(ctx);
}

static void test_cells(void)
{
    static const tllm_phases_request r[2] = { { 0, 10, 11 }, { 1, 10, 11 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_phases d = of(&even, TLLM_PHASES_ANSWERS, 1, 1);
    tllm_phases_times t[2];
    tllm_phases_report got;
    int mode;
    for (mode = 0; mode < 2; mode++) {
        d.mode = mode ? TLLM_PHASES_TOGETHER : TLLM_PHASES_ANSWERS;
        d.page = 1;
        d.prompt_cells = d.answer_cells = 30;
        /* both have 15 cells after 5 tokens; the newer one goes, and returns when the older one has ended */
        T_OK(tllm_phases_simulate(ctx, &d, r, 2, t, &got));
        T_EQ_INT(t[0].swaps, 0);
        T_EQ_INT(t[1].swaps, 1);
        T_TRUE(got.swaps == 1 && t[1].end > t[0].end);
        d.prompt_cells = d.answer_cells = 42;
        T_OK(tllm_phases_simulate(ctx, &d, r, 2, t, &got));
        T_TRUE(got.swaps == 0);
        d.prompt_cells = d.answer_cells = 20;
        T_STATUS(tllm_phases_simulate(ctx, &d, r, 2, t, &got), TINY_E_WORKSPACE, "too long for the cells");
    }
    t_close(ctx);
}

static void test_goodput(void)
{
    /* limits; two devices together, 1 + 1, 2 + 1: another simulator's goodputs */
    static const double want[3][5] = { { 400, 40, 4.2, 5.5, 5.9 },
                                       { 400, 30, 2.5, 5.5, 3.7 },
                                       { 400, 60, 5.9, 5.5, 8.0 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_phases_load l = load_of(1000, 0, 512, 64);
    tllm_phases_limit limit = { 0, 0, 16, 0.05 };
    double rate, last, long_ones[3];
    int i, k;
    T_PROOF("serving 4", "goodput of the published profile within 10 % of another simulator: nine cases");
    for (i = 0; i < 3; i++)
        for (k = 0; k < 3; k++) {
            tllm_phases d = of(&published, k ? TLLM_PHASES_APART : TLLM_PHASES_TOGETHER, k == 1 ? 1 : 2, 1);
            d.in_turn = 1;
            limit.first = want[i][0];
            limit.each = want[i][1];
            T_OK(tllm_phases_goodput(ctx, &d, &l, &limit, &rate));
            T_CLOSE(rate, want[i][2 + k], 0.1 * want[i][2 + k]);
        }
    T_PROOF("serving 4", "long prompts and answers with loose limits: together wins, and the search says so");
    l.prompt = 545;
    l.answer = 150;
    l.prompt_sigma = l.answer_sigma = 0.6;
    limit.first = 250;
    limit.each = 100;
    for (k = 0; k < 3; k++) {
        tllm_phases d = of(&published, k ? TLLM_PHASES_APART : TLLM_PHASES_TOGETHER, k == 1 ? 1 : 2, 1);
        d.in_turn = 1;
        T_OK(tllm_phases_goodput(ctx, &d, &l, &limit, &long_ones[k]));
    }
    T_CLOSE(long_ones[0], 4.25, 0.425);
    T_TRUE(long_ones[0] > 1.2 * long_ones[1] && long_ones[0] > 1.2 * long_ones[2]);
    T_PROOF("serving 4", "goodput never falls when a limit is loosened");
    for (last = 0, i = 0; i < 6; i++) {
        tllm_phases d = of(&published, TLLM_PHASES_APART, 1, 1);
        l = load_of(300, 0, 512, 64);
        limit.first = 100 + 60 * i;
        limit.each = 24 + 4 * i;
        T_OK(tllm_phases_goodput(ctx, &d, &l, &limit, &rate));
        T_TRUE(rate >= last);
        last = rate;
    }
    T_TRUE(last > 0);
    t_close(ctx);
}

static void test_laws(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_phases_load l = load_of(3000, 9, 300, 40);
    tllm_phases_request *r = (tllm_phases_request *)t_keep(3000 * sizeof *r);
    tllm_phases_times *t = (tllm_phases_times *)t_keep(3000 * sizeof *t),
                      *u = (tllm_phases_times *)t_keep(3000 * sizeof *u);
    tllm_phases_report got, again;
    double tokens = 0;
    int i, mode;
    T_PROOF("serving 4", "Little's law within 3 %, no request is lost, bytes that move equal the formula");
    l.prompt_sigma = l.answer_sigma = 0.5;
    l.varies = 1.5;
    T_OK(tllm_phases_draw(ctx, &l, r));
    for (i = 0; i < 3000; i++) tokens += r[i].answer > 1 ? r[i].prompt : 0;
    for (mode = 0; mode < 4; mode++) {
        tllm_phases d = of(&published, (tllm_phases_mode)mode, 2, 1);
        int late = 0;
        d.prompt_cells = 20000;
        d.answer_cells = 9000;
        d.token_bytes = 819200;
        d.link = 12e9;
        d.answers.n = 2;
        d.prompts.pp = mode == 1 ? 1 : 2;
        T_OK(tllm_phases_simulate(ctx, &d, r, 3000, t, &got));
        T_CLOSE(got.inside, 3000 / got.span * got.stay, 0.03 * got.inside);
        for (i = 0; i < 3000; i++) late += t[i].first < r[i].at || t[i].end < t[i].first || t[i].end > 1e9;
        T_EQ_INT(late, 0);
        T_CLOSE(got.moved, mode == TLLM_PHASES_APART ? tokens * 819200 : 0, 1);
        T_OK(tllm_phases_simulate(ctx, &d, r, 3000, u, &again));
        T_TRUE(!memcmp(t, u, 3000 * sizeof *t) && !memcmp(&got, &again, sizeof got));
    }
    T_PROOF("serving 4", "keys and values of OPT-66B, 512 tokens: 1.21 GB");
    T_CLOSE(2.0 * 64 * 72 * 128 * 2 * 512, 1.208e9, 1e6);
    t_close(ctx);
}

/* The search against trying everything: rows of a profile for one and two devices a layer. */
static void test_search(void)
{
    tllm_phases_time two[2];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_phases d = of(&published, TLLM_PHASES_APART, 1, 1);
    tllm_phases_load l = load_of(200, 0, 512, 64);
    tllm_phases_limit limit = { 150, 25, 16, 0.1 };
    tllm_phases_cluster c = { 1, 4, 80e9, 26e9, 40, 40, 0 };
    tllm_phases_placement p;
    double best[3] = { 0, 0, 0 }, rate;
    int tp, pp, kind, j;
    two[0] = two[1] = published;
    two[1].tp = 2;
    for (j = 0; j < 3; j++) {
        two[1].prompt[j] /= 1.7;
        two[1].token[0][j] /= 1.7;
        two[1].token[1][j] /= 1.7;
    }
    d.time = two;
    d.n_time = 2;
    T_PROOF("serving 4", "the search equals trying everything, on fast and on slow links");
    T_OK(tllm_phases_search(ctx, &d, &c, &l, &limit, 20, &p));
    for (kind = 0; kind < 3; kind++)
        for (tp = 1; tp <= 2; tp++)
            for (pp = 1; pp <= 4 / tp; pp++) {
                tllm_phases one = d;
                if (40 % pp) continue;
                one.prompts.tp = one.answers.tp = tp;
                one.prompts.pp = one.answers.pp = pp;
                one.mode = kind == 0 ? TLLM_PHASES_PROMPTS : kind == 1 ? TLLM_PHASES_ANSWERS : TLLM_PHASES_TOGETHER;
                T_OK(tllm_phases_goodput(ctx, &one, &l, &limit, &rate));
                if (rate > best[kind]) best[kind] = rate;
            }
    T_CLOSE(p.prompts_rate, best[0], 1e-12);
    T_CLOSE(p.answers_rate, best[1], 1e-12);
    T_CLOSE(p.one, best[2], 1e-12);
    T_CLOSE(p.apart, 1 / (1 / best[0] + 1 / best[1]), 1e-12);
    T_EQ_INT(p.apart_wins, p.apart > p.one);
    T_TRUE(p.prompts.n * p.prompts.tp * p.prompts.pp * best[0] >= 20 &&
           (p.prompts.n - 1) * p.prompts.tp * p.prompts.pp * best[0] < 20);
    T_TRUE(p.apart_wins);                   /* tight limits */
    c.slow = 1;
    T_OK(tllm_phases_search(ctx, &d, &c, &l, &limit, 20, &p));
    for (best[0] = 0, tp = 1; tp <= 2; tp++)
        for (pp = 1; tp * pp < 4; pp++)
            for (kind = 1; kind <= 2; kind++)
                for (j = 1; tp * pp + kind * j <= 4; j++) {
                    tllm_phases one = d;
                    if (40 % pp || 40 % j) continue;
                    one.prompts.tp = tp;
                    one.prompts.pp = pp;
                    one.answers.tp = kind;
                    one.answers.pp = j;
                    T_OK(tllm_phases_goodput(ctx, &one, &l, &limit, &rate));
                    if (rate > best[0]) best[0] = rate;
                }
    T_CLOSE(p.prompts_rate, best[0], 1e-12);
    /* loose limits, long texts: together wins */
    c.slow = 0;
    l = load_of(300, 0, 545, 150);
    l.prompt_sigma = l.answer_sigma = 0.6;
    limit.first = 250;
    limit.each = 100;
    c.devices = 1;
    T_OK(tllm_phases_search(ctx, &d, &c, &l, &limit, 20, &p));
    T_TRUE(!p.apart_wins && p.devices == p.together.n);
    c.memory = 20e9;
    T_PROOF("serving 4", "bad input: the model fits nowhere");
    T_STATUS(tllm_phases_search(ctx, &d, &c, &l, &limit, 20, &p), TINY_E_WORKSPACE, "fits into no placement");
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_phases d = of(&published, TLLM_PHASES_APART, 1, 1), odd;
    tllm_phases_load l = load_of(100, 5, 512, 64), bad;
    tllm_phases_limit limit = { 400, 40, 0, 0 };
    tllm_phases_cluster c = { 1, 1, 80e9, 26e9, 40, 40, 0 };
    tllm_phases_placement p;
    tllm_phases_request r[100];
    tllm_phases_report got;
    tllm_phases_time t = published;
    double rate;
    T_PROOF("serving 4", "bad input: rate 0, fewer than 10 requests, limits of 0, a missing row of the profile");
    T_OK(tllm_phases_draw(ctx, &l, r));
    bad = l; bad.rate = 0;
    T_STATUS(tllm_phases_draw(ctx, &bad, r), TINY_E_ARGUMENT, "rate of 0");
    bad = l; bad.n = 9;
    T_STATUS(tllm_phases_goodput(ctx, &d, &bad, &limit, &rate), TINY_E_ARGUMENT, "9 requests, expected 10");
    bad = l; bad.prompt = 0;
    T_STATUS(tllm_phases_draw(ctx, &bad, r), TINY_E_ARGUMENT, "have 1 to");
    bad = l; bad.varies = NAN;
    T_STATUS(tllm_phases_draw(ctx, &bad, r), TINY_E_ARGUMENT, "vary by 0 to 100");
    limit.each = 0;
    T_STATUS(tllm_phases_goodput(ctx, &d, &l, &limit, &rate), TINY_E_ARGUMENT, "limits must be above 0");
    limit.each = 40;
    T_STATUS(tllm_phases_search(ctx, &d, &c, &l, &limit, 0, &p), TINY_E_ARGUMENT, "rate of 0");
    odd = d; odd.answers.tp = 2;
    T_STATUS(tllm_phases_simulate(ctx, &odd, r, 100, NULL, &got), TINY_E_ARGUMENT, "no row for layers cut over 2");
    odd = d; odd.prompts.n = 0;
    T_STATUS(tllm_phases_simulate(ctx, &odd, r, 100, NULL, &got), TINY_E_ARGUMENT, "0 instances for prompts");
    odd = d; odd.answers.pp = 65;
    T_STATUS(tllm_phases_simulate(ctx, &odd, r, 100, NULL, &got), TINY_E_ARGUMENT, "65 stages for answers");
    odd = d; odd.mode = (tllm_phases_mode)9;
    T_STATUS(tllm_phases_simulate(ctx, &odd, r, 100, NULL, &got), TINY_E_ARGUMENT, "unknown mode 9");
    odd = d; odd.link = -1;
    T_STATUS(tllm_phases_simulate(ctx, &odd, r, 100, NULL, &got), TINY_E_ARGUMENT, "may not be negative");
    odd = d; odd.n_time = 0;
    T_STATUS(tllm_phases_simulate(ctx, &odd, r, 100, NULL, &got), TINY_E_ARGUMENT, "profile of 0 rows");
    odd = d; odd.time = &t; t.prompt[1] = -1;
    T_STATUS(tllm_phases_simulate(ctx, &odd, r, 100, NULL, &got), TINY_E_ARGUMENT, "row 0 of the profile");
    r[50].at = 0;
    T_STATUS(tllm_phases_simulate(ctx, &d, r, 100, NULL, &got), TINY_E_ARGUMENT, "request 50 does not arrive after");
    r[50].at = r[49].at; r[50].answer = 0;
    T_STATUS(tllm_phases_simulate(ctx, &d, r, 100, NULL, &got), TINY_E_ARGUMENT, "request 50 has a prompt");
    T_STATUS(tllm_phases_simulate(ctx, &d, NULL, 100, NULL, &got), TINY_E_ARGUMENT, "are needed");
    T_STATUS(tllm_phases_search(ctx, &d, NULL, &l, &limit, 1, &p), TINY_E_ARGUMENT, "are needed");
    c.nodes = 0;
    T_STATUS(tllm_phases_search(ctx, &d, &c, &l, &limit, 1, &p), TINY_E_ARGUMENT, "must be above 0");
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_queues);
    T_RUN(test_profile);
    T_RUN(test_by_hand);
    T_RUN(test_cells);
    T_RUN(test_goodput);
    T_RUN(test_laws);
    T_RUN(test_search);
    T_RUN(test_bad);
    return t_done();
}
