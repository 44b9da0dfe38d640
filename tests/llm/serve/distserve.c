/* tests/llm/serve/distserve.c - prefill and decode on devices of their own: queues, simulation, goodput, placement
 *
 * Truth    formulas worked by hand, and a queue of our own in five lines; times of the published profile, worked by
 *          hand; goodputs of a simulator that was written elsewhere for the same profile (its random stream is another,
 *          so 10 %); Little's law; small cases worked event by event; placements found by trying all. */
#include "t.h"

static const tllm_dist_profile a100 = { 1,
                                        { 18.1025, .1019123, 7.12226e-6 },
                                        { { 19.9347, 6.26936e-4, .0385070 }, { 7.16619, 5.79800e-4, .158311 } },
                                        95,
                                        1 };
/* a prompt takes 10 ms, a token 1 ms, whatever their length */
static const tllm_dist_profile plain = { 1, { 10, 0, 0 }, { { 1, 0, 0 }, { 1, 0, 0 } }, 0, 0 };

static tllm_dist_config split(const tllm_dist_profile *p, int prefills, int decodes)
{
    tllm_dist_config c;
    memset(&c, 0, sizeof c);
    c.prefill.instances = prefills;
    c.decode.instances = decodes;
    c.prefill.profile = c.decode.profile = p;
    if (!decodes) c.role = TLLM_DIST_TOGETHER;
    return c;
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

static double mean_of(tiny_ctx *ctx, const tllm_dist_config *c, double rate, int n)
{
    tllm_dist_request *r = (tllm_dist_request *)t_keep((size_t)n * sizeof *r);
    tllm_dist_time *t = (tllm_dist_time *)t_keep((size_t)n * sizeof *t);
    tllm_dist_load load;
    double sum = 0;
    int i;
    memset(&load, 0, sizeof load);
    load.n = n;
    load.prompt = load.output = 1;
    T_OK(tllm_dist_requests(ctx, &load, rate, r));
    T_OK(tllm_dist_simulate(ctx, c, r, (size_t)n, t, NULL));
    for (i = 0; i < n; i++) sum += t[i].first - r[i].arrival;
    return 1e3 * sum / n;
}
static void test_queues(void)
{
    static const tllm_dist_profile d50 = { 1, { 50, 0, 0 }, { { 1, 0, 0 }, { 1, 0, 0 } }, 0, 1e-9 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_dist_config c = split(&d50, 1, 0);
    double free_at = 0, sum = 0;
    int i;
    T_CLOSE(1e3 * tllm_queue_single(.05, 10), 75.0, .05);
    T_CLOSE(1e3 * tllm_queue_pipeline(.05, 10), 54.2, .05);
    T_CLOSE(1e3 * tllm_queue_tensor(.05, 10, 1.6), 38.4, .05);
    T_CLOSE(1e3 * tllm_queue_single(.05, 16), 150.0, .05);
    T_CLOSE(1e3 * tllm_queue_pipeline(.05, 16), 58.3, .05);
    T_CLOSE(1e3 * tllm_queue_tensor(.05, 16, 1.6), 46.9, .05);
    T_CLOSE(1e3 * tllm_queue_pipeline(.05, 4), 51.4, .05);
    T_CLOSE(1e3 * tllm_queue_tensor(.05, 4, 1.2), 45.8, .05);
    T_CLOSE(1e3 * tllm_queue_tensor(.05, 10, 1.2), 56.5, .05);
    T_TRUE(tllm_queue_single(.05, 20) > 1e300 && tllm_queue_single(-1, 1) != tllm_queue_single(-1, 1));
    T_PROOF("serving 4", "queues, D 50 ms: 75.0, 54.2, 38.4; 150.0, 58.3, 46.9; the crossover at K 1.2");
    c.role = TLLM_DIST_PREFILL;
    c.prompt_tokens = 1;
    T_CLOSE(mean_of(ctx, &c, 10, 150000), 75.0, .02 * 75);
    c.prefill.pp = 2;
    T_CLOSE(mean_of(ctx, &c, 10, 100000), 54.2, .02 * 54);
    {   /* the same stream through a queue in a line */
        tllm_dist_request r[2000];
        tllm_dist_time t[2000];
        tllm_dist_load load;
        memset(&load, 0, sizeof load);
        load.n = 2000;
        load.prompt = load.output = 1;
        c.prefill.pp = 1;
        T_OK(tllm_dist_requests(ctx, &load, 15, r));
        T_OK(tllm_dist_simulate(ctx, &c, r, 2000, t, NULL));
        for (i = 0; i < 2000; i++) {
            free_at = (r[i].arrival > free_at ? r[i].arrival : free_at) + .05;
            sum += fabs(free_at - t[i].first);
        }
        T_CLOSE(sum, 0, 1e-6);
        load.cv = 2;                        /* gamma: mean 1 / rate, deviation 2 / rate */
        T_OK(tllm_dist_requests(ctx, &load, 1, r));
        for (sum = 0, i = 1; i < 2000; i++) {
            const double gap = r[i].arrival - r[i - 1].arrival;
            sum += (gap - 1) * (gap - 1);
        }
        T_CLOSE(r[1999].arrival / 2000, 1, .15);
        T_CLOSE(sqrt(sum / 1999), 2, .4);
    }
    t_close(ctx);
    T_PROOF("serving 4", "simulated M/D/1 and two stages agree with the formulas");
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static void test_times(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double rows[30], fit[3];
    int i;
    T_CLOSE(tllm_dist_prefill_ms(&a100, 1, 512, 512 * 512), 72.1, .06);
    T_CLOSE(tllm_dist_decode_ms(&a100, 1, 32 * 600, 32), 33.2, .06);
    T_CLOSE(tllm_dist_decode_ms(&a100, 1, 100 * 600, 100), 57.8, .06);
    T_CLOSE(tllm_dist_prefill_ms(&a100, 2, 512, 512 * 512), 72.149 / 2 + 2, .01);
    T_CLOSE(tllm_dist_kv(64, 72, 128, 2, 512) * 1e-9, 1.21, .005);
    T_PROOF("serving 4", "prefill of 512 tokens 72.1; decode of 32 x 600 33.2, of 100 x 600 57.8; 1.21 GB of keys");
    for (i = 0; i < 10; i++) {              /* a sweep that follows the law gives its numbers back */
        rows[3 * i] = 100 + 371 * i % 2000;
        rows[3 * i + 1] = rows[3 * i] * rows[3 * i] / (1 + i % 3);
        rows[3 * i + 2] = tllm_dist_prefill_ms(&a100, 1, rows[3 * i], rows[3 * i + 1]);
    }
    T_OK(tllm_dist_fit(ctx, rows, 10, fit));
    for (i = 0; i < 3; i++) T_CLOSE(fit[i], a100.prefill[i], 1e-6 * a100.prefill[i]);
    T_STATUS(tllm_dist_fit(ctx, rows, 2, fit), TINY_E_ARGUMENT, "needs 3 measured rows, not 2");
    for (i = 0; i < 30; i++) rows[i] = 1;
    T_STATUS(tllm_dist_fit(ctx, rows, 10, fit), TINY_E_NUMERIC, "do not vary");
    T_STATUS(tllm_dist_fit(ctx, NULL, 10, fit), TINY_E_ARGUMENT, "measured rows");
    t_close(ctx);
}

/* ---- events, worked by hand: a prompt 10 ms, a token 1 ms -------------------------------------------------------- */

static void test_events(void)
{
    static const tllm_dist_request two[2] = { { 0, 100, 4 }, { .002, 100, 4 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_dist_config c = split(&plain, 1, 1);
    tllm_dist_time t[3];
    tllm_dist_sum sum;
    T_EQ_INT(tllm_dist_devices(&c), 2);
    c.kv_bytes = 1000;
    c.link = 101e3 / .005;                  /* 5 ms for 101 tokens */
    T_OK(tllm_dist_simulate(ctx, &c, two, 2, t, &sum));
    /* read 0-10, fetched 10-15, tokens at 16, 17, 18; the second is read 10-20 and fetched 20-25 */
    T_CLOSE(t[0].first, .010, 1e-12);
    T_CLOSE(t[0].done, .018, 1e-12);
    T_CLOSE(t[1].first, .020, 1e-12);
    T_CLOSE(t[1].done, .028, 1e-12);
    T_CLOSE(sum.moved, 2 * 101e3, 1e-6);
    T_CLOSE(sum.area, .018 + .026, 1e-9);
    /* together: the second prompt comes first, then both have a token each step */
    c = split(&plain, 1, 0);
    T_OK(tllm_dist_simulate(ctx, &c, two, 2, t, &sum));
    T_CLOSE(t[0].first, .010, 1e-12);
    T_CLOSE(t[1].first, .020, 1e-12);
    T_CLOSE(t[0].done, .023, 1e-12);
    T_CLOSE(t[1].done, .023, 1e-12);
    T_CLOSE(sum.moved, 0, 0);
    {   /* the second text has left its instance when the third one comes: that one goes there */
        static const tllm_dist_request three[3] = { { 0, 100, 500 }, { .02, 100, 2 }, { .2, 100, 2 } };
        c = split(&plain, 1, 2);
        T_OK(tllm_dist_simulate(ctx, &c, three, 3, t, &sum));
        T_TRUE(t[0].decode == 0 && t[1].decode == 1 && t[2].decode == 1);
    }
    {   /* nine of ten, by nearest rank: 1 to 10 seconds to the first token, 10 to 1 of a further one */
        tllm_dist_request ten[10];
        tllm_dist_time u[10];
        tllm_dist_score score;
        int i;
        memset(u, 0, sizeof u);
        for (i = 0; i < 10; i++) {
            ten[i].arrival = i;
            ten[i].prompt = 1;
            ten[i].output = 3;
            u[i].first = i + 1 + (i * 3 + 4) % 10;
            u[i].done = u[i].first + 2.0 * (10 - i);
        }
        T_OK(tllm_dist_score_of(ctx, ten, u, 10, &score));
        T_CLOSE(score.ttft, 9, 1e-12);
        T_CLOSE(score.tpot, 9, 1e-12);
    }
    {   /* pages of 16 tokens: a prompt takes 4, the whole text 6, so two do not fit to their ends into 9 */
        static const tllm_dist_request tight[3] = { { 0, 60, 30 }, { 0, 60, 30 }, { 0, 60, 30 } };
        c = split(&plain, 1, 1);
        c.decode.pages = 9;                 /* the second is put aside */
        c.accept = 1;
        T_OK(tllm_dist_simulate(ctx, &c, tight, 3, t, &sum));
        T_TRUE(sum.swaps >= 1 && t[2].done > t[0].done);
        c.prefill.pages = 6;                /* and prefill may hold one prompt: it waits until decode has fetched it */
        T_OK(tllm_dist_simulate(ctx, &c, tight, 3, t, &sum));
        T_TRUE(t[2].first >= t[1].first + .010 - 1e-12);
        c = split(&plain, 1, 0);
        c.prefill.pages = 9;
        T_OK(tllm_dist_simulate(ctx, &c, tight, 3, t, &sum));
        T_TRUE(sum.swaps >= 1);
        /* one runs at a time; the second waits with 4 of 9 pages, so the first has to make room for it */
        c = split(&plain, 1, 1);
        c.decode.pages = 9;
        c.rows = 1;
        c.accept = 1;
        T_OK(tllm_dist_simulate(ctx, &c, tight, 3, t, &sum));
        T_TRUE(sum.swaps >= 1);
        c = split(&plain, 1, 0);
        c.prefill.pages = 5;
        T_STATUS(tllm_dist_simulate(ctx, &c, tight, 3, t, &sum), TINY_E_ARGUMENT, "request 0 needs 6 pages");
    }
    {   /* One runs, one waits with 5 of 100 pages, which is a twentieth: no other is fetched. Prefill holds three. */
        tllm_dist_request six[6];
        tllm_dist_time u[6];
        int i;
        for (i = 0; i < 6; i++) {
            six[i].arrival = 0;
            six[i].prompt = 70;
            six[i].output = 150;
        }
        c = split(&plain, 1, 1);
        c.decode.pages = 100;
        c.prefill.pages = 17;
        c.prompt_tokens = 1;
        c.rows = 1;
        T_OK(tllm_dist_simulate(ctx, &c, six, 6, u, &sum));
        T_CLOSE(u[4].first, .050, 1e-12);
        T_CLOSE(u[5].first, .010 + .149 + .010, 1e-9);     /* when the first text is complete and the third fetched */
        c.accept = 1;
        T_OK(tllm_dist_simulate(ctx, &c, six, 6, u, &sum));
        T_CLOSE(u[5].first, .060, 1e-12);
    }
    t_close(ctx);
    T_PROOF("serving 4", "moved bytes equal the formula");
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

enum { N = 600 };
static void test_invariants(void)
{
    static tllm_dist_request r[N];
    static tllm_dist_time t[N], again[N];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int k, i;
    for (k = 0; k < 12; k++) {
        tllm_dist_config c = split(&a100, 1 + k % 3, k % 4);
        tllm_dist_load load;
        tllm_dist_sum sum;
        double latency = 0, moved = 0, cut = 0;
        memset(&load, 0, sizeof load);
        load.n = N;
        load.seed = (uint64_t)k;
        load.cv = k % 2 ? 1.5 : 0;
        load.prompt_spread = load.output_spread = .5;
        c.prefill.pp = 1 + k % 2;
        c.decode.pp = 1 + k / 6;
        c.prefill.pages = k % 5 ? 0 : 400;
        c.decode.pages = k % 3 ? 0 : 500;
        c.kv_bytes = 800e3;
        c.link = 20e9;
        c.in_turn = k % 2;
        if (k == 3 || k == 7) { c.dies = 1; c.dies_at = 20; }
        T_OK(tllm_dist_requests(ctx, &load, 3 + k, r));
        T_OK(tllm_dist_simulate(ctx, &c, r, N, t, &sum));
        for (i = 0; i < N; i++) {
            if (!(t[i].first > r[i].arrival && t[i].done >= t[i].first && t[i].prefills >= 1)) break;
            latency += t[i].done - r[i].arrival;
            cut += t[i].prefills > 1;
            moved += r[i].output > 1 ? c.kv_bytes * (r[i].prompt + 1) : 0;
        }
        if (!T_EQ_INT(i, N)) printf("  case %d: request %d\n", k, i);          /* none is lost */
        T_CLOSE(sum.area, latency, 1e-6 * latency);
        /* Little: the mean number is the rate of arrivals times the mean time, where no long queue is left */
        if (sum.end < 1.03 * r[N - 1].arrival)
            T_CLOSE(sum.area / sum.end, latency / r[N - 1].arrival, .03 * sum.area / sum.end);
        if (c.role == TLLM_DIST_SPLIT && !c.dies) T_CLOSE(sum.moved, moved, 1e-9 * moved);
        if (c.dies) T_TRUE(cut > 0 && sum.moved > moved);          /* what it had is read again */
        for (i = 0; i < N && c.dies; i++) T_TRUE(t[i].decode != 0 || t[i].done <= 20.001);
        T_OK(tllm_dist_simulate(ctx, &c, r, N, again, NULL));
        T_SAME((char *)t, (char *)again, sizeof t);
    }
    t_close(ctx);
    T_PROOF("serving 4", "no request lost, Little's law, the same answer again");
    T_PROOF("serving 4", "bad input: decode dies with pages not yet fetched: the prompts are read again");
}

/* ---- goodput ----------------------------------------------------------------------------------------------------- */

static double goodput(tiny_ctx *ctx, int kind, double ttft, double tpot, const tllm_dist_load *load)
{
    static const tllm_dist_bisection b = { 16, .1 };
    const tllm_dist_limits limits = { ttft, tpot };
    tllm_dist_config c = split(&a100, kind == 1 ? 1 : 2, kind > 0);
    double rate = -1;
    c.in_turn = 1;
    T_OK(tllm_dist_goodput(ctx, &c, load, &limits, &b, &rate));
    return rate;
}
static void test_goodput(void)
{
    static const double want[3][4] = { { .040, 4.2, 5.5, 5.9 }, { .030, 2.5, 5.5, 3.7 }, { .060, 5.9, 5.5, 8.0 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_dist_load load;
    double got[3][3], wide;
    int i, k;
    memset(&load, 0, sizeof load);
    load.n = 1000;
    for (i = 0; i < 3; i++)
        for (k = 0; k < 3; k++) {
            got[i][k] = goodput(ctx, k, .4, want[i][0], &load);
            T_CLOSE(got[i][k], want[i][k + 1], .1 * want[i][k + 1]);
        }
    T_PROOF("serving 4", "goodput at 400 ms and 40, 30, 60 ms: 4.2 5.5 5.9, 2.5 5.5 3.7, 5.9 5.5 8.0 within 10 %");
    for (k = 0; k < 3; k++) {
        T_TRUE(got[1][k] <= got[0][k] && got[0][k] <= got[2][k]);
        wide = goodput(ctx, k, .6, .04, &load);
        T_TRUE(wide >= got[0][k]);
    }
    T_PROOF("serving 4", "goodput does not fall when a limit is loosened");
    load.n = 500;
    load.prompt = 545;
    load.output = 150;
    load.prompt_spread = load.output_spread = .6;
    for (k = 0; k < 3; k++) got[0][k] = goodput(ctx, k, .25, .1, &load);
    T_TRUE(got[0][0] > 1.2 * got[0][1] && got[0][0] > 1.2 * got[0][2]);
    T_PROOF("serving 4", "long prompts and outputs with loose limits: together wins");
    t_close(ctx);
}

/* ---- placement --------------------------------------------------------------------------------------------------- */

static void test_placement(void)
{
    static const tllm_dist_model model = { 40, 40, 26e9 };
    const tllm_dist_limits tight = { .2, .03 }, loose = { .25, .1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_dist_profile list[2];
    tllm_dist_load load;
    int slow, i, j, pp, pd, role, case_of;
    memset(&load, 0, sizeof load);
    load.n = 60;
    list[0] = list[1] = a100;
    list[1].tp = 2;
    for (i = 0; i < 3; i++) {               /* two devices: 1.7 times as fast */
        list[1].prefill[i] /= 1.7;
        list[1].decode[0][i] /= 1.7;
        list[1].decode[1][i] /= 1.7;
    }
    for (case_of = 0; case_of < 4; case_of++) {
        tllm_dist_cluster cluster = { 2, case_of % 2 ? 3 : 4, 30e9, 0 };
        const int in_node = cluster.devices;
        int fewest = 99;
        const tllm_dist_limits *limits = case_of < 2 ? &tight : &loose;
        tllm_dist_plan plan;
        double best[TLLM_DIST_ROLES] = { 0 }, rate;
        cluster.slow = slow = case_of % 2;
        load.prompt = case_of < 2 ? 0 : 545;
        load.output = case_of < 2 ? 0 : 150;
        load.prompt_spread = load.output_spread = case_of < 2 ? 0 : .6;
        T_OK(tllm_dist_place(ctx, &cluster, &model, list, 2, NULL, &load, limits, 40, &plan));
        for (i = 0; i < 2; i++)             /* all of them */
            for (pp = 1; pp <= 2 * in_node / (i + 1); pp++)
                for (role = 1; role < TLLM_DIST_ROLES; role++) {
                    tllm_dist_config c = split(&list[i], 1, 1);
                    if (40 % pp) continue;
                    c.role = role;
                    c.prefill.pp = c.decode.pp = pp;
                    T_OK(tllm_dist_goodput(ctx, &c, &load, limits, NULL, &rate));
                    if (role == TLLM_DIST_TOGETHER && rate >= best[role]) {
                        const int n = tllm_dist_devices(&c);
                        fewest = rate > best[role] || n < fewest ? n : fewest;
                    }
                    if (rate > best[role]) best[role] = rate;
                }
        T_CLOSE(plan.together, best[TLLM_DIST_TOGETHER], 1e-12);
        if (!slow)
            best[0] = best[TLLM_DIST_PREFILL] > 0 && best[TLLM_DIST_DECODE] > 0
                          ? 1 / (1 / best[TLLM_DIST_PREFILL] + 1 / best[TLLM_DIST_DECODE])
                          : 0;
        for (i = 0; i < 2 && slow; i++)
            for (j = 0; j < 2; j++)
                for (pp = 1; pp <= 8; pp++)
                    for (pd = 1; pd <= 8; pd++)
                        for (role = 1; role <= 2; role++) {        /* nodes that a part spans */
                            tllm_dist_config c = split(&list[i], 1, 1);
                            if (pp % role || pd % role || 40 % pp || 40 % pd) continue;
                            if ((i + 1) * pp / role + (j + 1) * pd / role > in_node) continue;
                            c.decode.profile = &list[j];
                            c.prefill.pp = pp;
                            c.decode.pp = pd;
                            T_OK(tllm_dist_goodput(ctx, &c, &load, limits, NULL, &rate));
                            if (rate > best[0]) best[0] = rate;
                        }
        T_CLOSE(plan.split, best[0], 1e-12);
        T_CLOSE(plan.goodput, best[0] > plan.together ? best[0] : plan.together, 1e-12);
        T_EQ_INT(plan.best.role, case_of < 2 ? TLLM_DIST_SPLIT : TLLM_DIST_TOGETHER);
        if (plan.best.role == TLLM_DIST_TOGETHER) T_EQ_INT(tllm_dist_devices(&plan.best), fewest);
        T_TRUE(plan.prefills >= 1 && (plan.decodes >= 1) == (plan.best.role == TLLM_DIST_SPLIT));
    }
    t_close(ctx);
    T_PROOF("serving 4", "search equals exhaustive on small clusters, fast and slow, and says where together wins");
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_dist_config c = split(&a100, 1, 1);
    tllm_dist_profile odd = a100, list[2];
    tllm_dist_request r[20];
    tllm_dist_time t[20];
    tllm_dist_load load;
    tllm_dist_limits limits = { .4, .04 };
    tllm_dist_score score;
    tllm_dist_cluster cluster = { 1, 2, 80e9, 0 };
    tllm_dist_model model = { 40, 40, 26e9 };
    tllm_dist_plan plan;
    tllm_dist_bisection b = { 1e10, 0 };
    double rate;
    int i;
    memset(&load, 0, sizeof load);
    load.n = 20;
    list[0] = list[1] = a100;
    T_OK(tllm_dist_requests(ctx, &load, 1, r));
    T_STATUS(tllm_dist_simulate(ctx, NULL, r, 20, t, NULL), TINY_E_ARGUMENT, "configuration is NULL");
    T_STATUS(tllm_dist_simulate(ctx, &c, NULL, 20, t, NULL), TINY_E_ARGUMENT, "needs requests");
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 0, t, NULL), TINY_E_ARGUMENT, "needs requests");
    r[3].prompt = 0;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "request 3: arrival");
    r[3].prompt = 5;
    r[4].arrival = 0;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "request 4: arrival 0");
    c.role = 9;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "role 9");
    c.role = 0;
    c.decode.instances = 0;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "decode: 0 instances");
    c.decode.instances = 1;
    c.prefill.pp = 65;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "prefill: 1 instances of 65 stages");
    c.prefill.pp = 1;
    c.prefill.profile = NULL;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "no profile");
    odd.prefill[1] = -1;
    c.prefill.profile = &odd;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "number 1 of a profile is negative");
    memset(&odd, 0, sizeof odd);
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "take no time");
    odd = a100;
    odd.tp = -1;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "tp, threshold");
    c.prefill.profile = &a100;
    c.link = -1;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "or link is negative");
    c.link = 0;
    c.dies = 1;
    T_STATUS(tllm_dist_simulate(ctx, &c, r, 20, t, NULL), TINY_E_ARGUMENT, "another one must be left");
    c.dies = 0;
    T_STATUS(tllm_dist_requests(ctx, NULL, 1, r), TINY_E_ARGUMENT, "the load is NULL");
    T_STATUS(tllm_dist_requests(ctx, &load, 0, r), TINY_E_ARGUMENT, "a rate of 0");
    T_STATUS(tllm_dist_requests(ctx, &load, 1, NULL), TINY_E_ARGUMENT, "no room");
    load.n = 9;
    T_STATUS(tllm_dist_requests(ctx, &load, 1, r), TINY_E_ARGUMENT, "9 requests");
    load.n = 20;
    load.cv = -1;
    T_STATUS(tllm_dist_requests(ctx, &load, 1, r), TINY_E_ARGUMENT, "negative or too large");
    load.cv = 0;
    T_STATUS(tllm_dist_score_of(ctx, r, t, 9, &score), TINY_E_ARGUMENT, "9 requests");
    T_STATUS(tllm_dist_score_of(ctx, r, NULL, 20, &score), TINY_E_ARGUMENT, "needs requests");
    T_STATUS(tllm_dist_goodput(ctx, &c, &load, NULL, NULL, &rate), TINY_E_ARGUMENT, "needs a configuration");
    limits.ttft = 0;
    T_STATUS(tllm_dist_goodput(ctx, &c, &load, &limits, NULL, &rate), TINY_E_ARGUMENT, "limits of 0 and 0.04");
    limits.ttft = .4;
    T_STATUS(tllm_dist_goodput(ctx, &c, &load, &limits, &b, &rate), TINY_E_ARGUMENT, "a bisection of 1e+10");
    T_STATUS(tllm_dist_place(ctx, NULL, &model, list, 1, NULL, &load, &limits, 1, &plan), TINY_E_ARGUMENT, "a cluster");
    T_STATUS(tllm_dist_place(ctx, &cluster, &model, list, 0, NULL, &load, &limits, 1, &plan), TINY_E_ARGUMENT,
             "profiles");
    T_STATUS(tllm_dist_place(ctx, &cluster, &model, list, 2, NULL, &load, &limits, 1, &plan), TINY_E_ARGUMENT,
             "two profiles for 1 devices");
    T_STATUS(tllm_dist_place(ctx, &cluster, &model, list, 1, NULL, &load, &limits, 0, &plan), TINY_E_ARGUMENT,
             "a rate of 0");
    model.layers = 0;
    T_STATUS(tllm_dist_place(ctx, &cluster, &model, list, 1, NULL, &load, &limits, 1, &plan), TINY_E_ARGUMENT,
             "a model of 0 layers");
    model.layers = 40;
    cluster.memory = 1e9;
    T_STATUS(tllm_dist_place(ctx, &cluster, &model, list, 1, NULL, &load, &limits, 1, &plan), TINY_E_UNSUPPORTED,
             "fits on no group");
    cluster.memory = 80e9;
    limits.tpot = .001;
    T_STATUS(tllm_dist_place(ctx, &cluster, &model, list, 1, NULL, &load, &limits, 1, &plan), TINY_E_UNSUPPORTED,
             "no placement keeps limits of 0.4 and 0.001");
    cluster.nodes = 0;
    T_STATUS(tllm_dist_place(ctx, &cluster, &model, list, 1, NULL, &load, &limits, 1, &plan), TINY_E_ARGUMENT,
             "a cluster of 0 nodes");
    t_close(ctx);
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        ctx = NULL;
        if (!tiny_ctx_open(&desc, &ctx)) {
            limits.tpot = .04;
            for (i = 0; i < 20; i++) r[i].arrival = i;
            (void)tllm_dist_simulate(ctx, &c, r, 20, t, NULL);
            (void)tllm_dist_goodput(ctx, &c, &load, &limits, NULL, &rate);
        }
        tiny_ctx_close(ctx);
    )
    T_PROOF("serving 4", "bad input: fits nowhere, rate 0, fewer than 10, limits, profile; each its own sentence");
}

int main(void)
{
    T_RUN(test_queues);
    T_RUN(test_times);
    T_RUN(test_events);
    T_RUN(test_invariants);
    T_RUN(test_goodput);
    T_RUN(test_placement);
    T_RUN(test_bad);
    return t_done();
}
