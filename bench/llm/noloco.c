/* bench/llm/noloco.c - an outer step of NoLoCo beside a sum over all replicas
 *
 * Three views: messages whose time is log-normal, in a tree of sums and between two replicas (the paper's model, drawn
 * here); the virtual clock of core/net.h, where the messages of both programs are counted; and threads of this machine,
 * where only copies and arithmetic cost. The sum is that of core/collective.h, tree or ring, whichever is faster. */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef TINYLLM_NO_NOLOCO
void bench_noloco(void) {}
#else

enum { BY_MOST = 16, BY_N = 65536 };

typedef struct by_group {
    tiny_ctx *ctx, *one[BY_MOST];
    tiny_local *local;
    int world, way; /* way: 0 NoLoCo, else the sum */
    size_t n;
    float *theta[BY_MOST], *work[BY_MOST];
    tllm_noloco *o[BY_MOST];
    uint64_t clock[BY_MOST], late; /* of rank 1 */
} by_group;

static void by_rank(tiny_team *team, void *arg)
{
    by_group *g = (by_group *)arg;
    const int r = team->i;
    if (team->n != g->world) return;
    if (!g->way) {
        tllm_noloco_report report;
        if (r == 1) tllm_noloco_spend(g->o[r], g->late);
        b_must(g->one[r], tllm_noloco_outer(g->o[r], &report));
        g->clock[r] = report.clock;
    } else { /* the change of all, and the same arithmetic */
        tiny_coll c;
        memset(&c, 0, sizeof c);
        c.net = tiny_local_net(g->local, r);
        c.work = g->work[r];
        c.n_work = g->n * sizeof(float);
        c.clock = r == 1 ? g->late : 0;
        b_must(g->one[r], tiny_coll_allreduce(g->one[r], &c, g->way, g->theta[r], g->n));
        g->clock[r] = c.clock;
    }
}
static void by_run(void *arg)
{
    by_group *g = (by_group *)arg;
    b_must(g->ctx, tiny_parallel(g->ctx, g->world, 0, 0, by_rank, g));
}
static void by_open(by_group *g, int world, int way, size_t n, const tiny_local_desc *line)
{
    tiny_local_desc d;
    int r;
    memset(g, 0, sizeof *g);
    memset(&d, 0, sizeof d);
    if (line) d = *line;
    d.world = g->world = world;
    g->way = way;
    g->n = n;
    g->ctx = b_ctx(TINY_TARGET_AUTO, world);
    b_must(g->ctx, tiny_local_open(g->ctx, &d, &g->local));
    for (r = 0; r < world; r++) {
        tllm_noloco_desc nd;
        g->one[r] = b_ctx(TINY_TARGET_AUTO, 1);
        g->theta[r] = (float *)b_alloc(n * sizeof(float));
        g->work[r] = (float *)b_alloc(n * sizeof(float));
        if (way) continue;
        memset(&nd, 0, sizeof nd);
        nd.net = tiny_local_net(g->local, r);
        nd.theta = g->theta[r];
        nd.n = n;
        nd.wait_ns = UINT64_MAX;
        b_must(g->one[r], tllm_noloco_open(g->one[r], &nd, &g->o[r]));
    }
}
static void by_close(by_group *g)
{
    int r;
    for (r = 0; r < g->world; r++) {
        tllm_noloco_close(g->o[r]);
        b_free(g->theta[r]);
        b_free(g->work[r]);
        tiny_ctx_close(g->one[r]);
    }
    tiny_local_close(g->ctx, g->local);
    tiny_ctx_close(g->ctx);
}

/* milliseconds on the virtual clock until the last rank is done; *mean: of all */
static double by_virtual(int world, int way, uint64_t late, double *mean)
{
    tiny_local_desc d;
    by_group g;
    double most = 0.0;
    int r;
    memset(&d, 0, sizeof d);
    d.virtual_clock = 2;
    d.latency_ns = 20000000;
    d.bits_per_second = 1e8;
    by_open(&g, world, way, BY_N, &d);
    g.late = late;
    by_run(&g);
    for (*mean = 0.0, r = 0; r < world; r++) {
        const double ms = 1e-6 * (double)g.clock[r];
        *mean += ms / world;
        if (ms > most) most = ms;
    }
    by_close(&g);
    return most;
}

/* the time of a tree of sums with 2^level leaves, both children sending, messages of time e^(sigma z) */
static double by_tree(tiny_rng *r, int level, double sigma)
{
    double a, b;
    if (!level) return 0.0;
    a = by_tree(r, level - 1, sigma) + exp(sigma * (double)tiny_rng_normal(r));
    b = by_tree(r, level - 1, sigma) + exp(sigma * (double)tiny_rng_normal(r));
    return a > b ? a : b;
}

void bench_noloco(void)
{
    static const int levels[2] = { 6, 10 };
    static const double sigmas[3] = { 0.0, 0.5, 1.0 };
    double ratio[2][3], ms[3][2], late[2], mean, mean_late[2];
    tiny_rng rng = tiny_rng_make(1, 2);
    by_group g[2];
    b_row r[2];
    int i, k, w;
    for (i = 0; i < 2; i++)
        for (k = 0; k < 3; k++) {
            const double pair = (1.0 + erf(sigmas[k] / 2)) * exp(sigmas[k] * sigmas[k] / 2);
            const int rounds = (i ? 300 : 4000) / (b_quick ? 20 : 1);
            double sum = 0.0;
            for (w = 0; w < rounds; w++) sum += by_tree(&rng, levels[i], sigmas[k]) / rounds;
            ratio[i][k] = sum / pair;
        }
    b_note("log-normal messages, sigma 0, 0.5, 1: a tree over a pair %.1f, %.1f, %.1f (64 replicas), %.1f, %.1f, %.1f "
           "(1024)",
           ratio[0][0], ratio[0][1], ratio[0][2], ratio[1][0], ratio[1][1], ratio[1][2]);
    for (i = 0; i < 3; i++) {
        const double tree = by_virtual(4 << i, TINY_COMM_TREE, 0, &mean),
                     ring = by_virtual(4 << i, TINY_COMM_RING, 0, &mean);
        ms[i][0] = by_virtual(4 << i, 0, 0, &mean);
        ms[i][1] = tree < ring ? tree : ring;
        b_note("%d replicas, 20 ms, 100 Mbit/s, 65536 numbers: pairs %.1f ms, sum %.1f ms (tree %.1f, ring %.1f)",
               4 << i, ms[i][0], ms[i][1], tree, ring);
    }
    late[0] = by_virtual(8, 0, 200000000, &mean_late[0]);
    late[1] = by_virtual(8, TINY_COMM_TREE, 200000000, &mean_late[1]);
    b_note("8 replicas, one 200 ms late: a replica is done after %.1f ms on average with pairs, %.1f with a sum",
           mean_late[0], mean_late[1]);
    b_verdict("sum over pairs, 16 replicas", ms[2][1] / ms[2][0], ">", 2.0);
    memset(r, 0, sizeof r);
    for (i = 0; i < 2; i++) {
        by_open(&g[i], 4, i ? TINY_COMM_RING : 0, BY_N, NULL);
        r[i].what = i ? "ring all-reduce" : "outer step in pairs";
        r[i].run = by_run;
        r[i].arg = &g[i];
        r[i].target = tiny_target_name(tiny_op_target(g[i].ctx, TINY_OP_ADD));
        r[i].threads = 4;
        r[i].bytes = 4.0 * 8.0 * BY_N;
        b_shape(&r[i], "4 x 65536");
    }
    b_contest("NoLoCo: an outer step of 4 threads", r, 2);
    by_close(&g[0]);
    by_close(&g[1]);
    b_headline(
        "noloco", "a tree all-reduce takes log2 N pair exchanges, more with log-normal times",
        "the paper's model, drawn; and the messages of this library on a virtual clock of 20 ms and 100 Mbit/s, 65536 "
        "numbers, ports that carry one message at a time",
        "sigma 0, 0.5, 1: %.1f, %.1f, %.1f (N = 64), %.1f, %.1f, %.1f (N = 1024); 4, 8, 16 replicas: %.0f, %.0f, %.0f "
        "ms "
        "in pairs, %.0f, %.0f, %.0f with the faster of tree and ring; one of 8 replicas 200 ms late: %.0f and %.0f ms "
        "for a replica on average",
        ratio[0][0], ratio[0][1], ratio[0][2], ratio[1][0], ratio[1][1], ratio[1][2], ms[0][0], ms[1][0], ms[2][0],
        ms[0][1], ms[1][1], ms[2][1], mean_late[0], mean_late[1]);
    (void)late;
}
#endif
