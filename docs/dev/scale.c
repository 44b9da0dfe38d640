/* docs/dev/scale.c - prints the table of docs/dev/scale.md: exchanges and schedules on 2 to 8 real ranks, and on 2 to
 * 1024 simulated ones
 *
 *     make scale
 *
 * Real ranks are threads that exchange messages (tiny_local), with the delays of a line where the row names one. A
 * transport has at most TINY_NET_RANKS ranks, so larger numbers are computed: by the table of costs, the simulator of
 * schedules, counting, or draws. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1                   /* nanosleep */
#endif
#define TINYLLM_ALL
#include "tinyllm.h"
#include "../../examples/nap.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REAL = 3, SIMULATED = 10, MOST = 8, TURNS = 5, WEIGHTS = 65536, TOKENS = 64, EXPERTS = 4, STEPS = 16 };
static const double latency = 20e-3, bits_per_second = 1e8;

static void must(tiny_ctx *ctx, tiny_status st)
{
    if (!st) return;
    fprintf(stderr, "scale: %s\n", ctx ? tiny_ctx_message(ctx) : "no context");
    exit(1);
}
static void *need(void *p)
{
    if (!p) { fprintf(stderr, "scale: not enough memory\n"); exit(1); }
    return p;
}

/* ---- real ranks -------------------------------------------------------------------------------------------------- */

typedef struct job {
    tiny_local *local;
    void (*run)(struct job *j, tiny_ctx *ctx, tiny_net *net);
    int kind;
    double skew, got[MOST];
} job;
static void rank_main(tiny_team *team, void *arg)
{
    job *j = (job *)arg;
    tiny_net *net = tiny_local_net(j->local, team->i);
    tiny_ctx_desc d;
    tiny_ctx *ctx = NULL;
    memset(&d, 0, sizeof d);
    d.n_threads = 1;
    if (!net || team->n != net->world) must(NULL, TINY_E_ARGUMENT);
    must(ctx, tiny_ctx_open(&d, &ctx));
    j->run(j, ctx, net);
    net->close(net);
    tiny_ctx_close(ctx);
}
/* got of each rank; slow: over the line */
static void real(job *j, int world, int slow)
{
    tiny_local_desc d;
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    memset(&d, 0, sizeof d);
    memset(&cd, 0, sizeof cd);
    cd.n_threads = d.world = world;
    if (slow) {
        d.latency_ns = (uint64_t)(1e9 * latency + 0.5);
        d.bits_per_second = bits_per_second;
    }
    must(ctx, tiny_ctx_open(&cd, &ctx));
    must(ctx, tiny_local_open(ctx, &d, &j->local));
    must(ctx, tiny_parallel(ctx, world, 0, 0, rank_main, j));
    tiny_local_close(ctx, j->local);
    tiny_ctx_close(ctx);
}
static double slowest(const job *j, int world)
{
    double most = 0.0;
    int r;
    for (r = 0; r < world; r++) if (j->got[r] > most) most = j->got[r];
    return most;
}

/* seconds of an outer step in pairs (kind 0), or of a sum over all */
static void exchange(job *j, tiny_ctx *ctx, tiny_net *net)
{
    float *x = (float *)need(calloc(WEIGHTS, sizeof *x)), *work = (float *)need(calloc(WEIGHTS, sizeof *work));
    tllm_noloco *o = NULL;
    tllm_noloco_desc d;
    tiny_coll c;
    double t = 0.0;
    int k;
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    c.net = d.net = net;
    c.work = work;
    c.n_work = WEIGHTS * sizeof *work;
    d.theta = x;
    d.n = WEIGHTS;
    d.wait_ns = UINT64_MAX;
    if (!j->kind) must(ctx, tllm_noloco_open(ctx, &d, &o));
    for (k = -1; k < TURNS; k++) {          /* the first one brings the ranks together */
        if (k == 0) t = 1e-9 * (double)tiny_now_ns();
        if (o) must(ctx, tllm_noloco_outer(o, NULL));
        else must(ctx, tiny_coll_allreduce(ctx, &c, j->kind, x, WEIGHTS));
    }
    j->got[net->rank] = (1e-9 * (double)tiny_now_ns() - t) / TURNS;
    if (o) must(ctx, tllm_noloco_leave(o, 1));
    tllm_noloco_close(o);
    free(x);
    free(work);
}

static tllm_sched schedule(int stages, int chunks)
{
    tllm_sched s;
    s.kind = TLLM_SCHED_1F1B;
    s.stages = stages;
    s.micros = 2 * stages;
    s.chunks = chunks;
    return s;
}
/* seconds of a step of a pipeline with `kind` chunks; a stage sleeps 5 ms forward and 10 ms backward */
static void pipeline(job *j, tiny_ctx *ctx, tiny_net *net)
{
    tllm_pipe_desc d;
    tllm_pipe *pipe = NULL;
    tiny_idx width[2 * MOST];
    tiny_param p;
    sleeper s;
    double t = 0.0;
    int k;
    memset(&d, 0, sizeof d);
    sleeper_make(&s);
    memset(&p, 0, sizeof p);
    s.pieces = net->world * j->kind;
    s.ms = 5.0 / j->kind;
    p.name = "w";
    p.value = tiny_tensor_2d(s.w, TINY_F32, 1, 4);
    p.grad = tiny_tensor_2d(s.dw, TINY_F32, 1, 4);
    for (k = 0; k < s.pieces; k++) width[k] = 4;
    d.net = net;
    d.schedule = schedule(net->world, j->kind);
    d.rows = d.schedule.micros;
    d.keep = 1;
    d.width = width;
    d.params = &p;
    d.n_params = 1;
    d.run = sleep_piece;
    d.user = &s;
    must(ctx, tllm_pipe_open(ctx, &d, &pipe));
    for (k = -1; k < TURNS; k++) {
        if (k == 0) t = 1e-9 * (double)tiny_now_ns();
        must(ctx, tllm_pipe_run(pipe, k + 1, NULL));
    }
    j->got[net->rank] = (1e-9 * (double)tiny_now_ns() - t) / TURNS;
    tllm_pipe_close(pipe);
}

/* The two experts of the tokens of a rank, by draws without replacement of which e has the weight 1 / (e + 1)^skew. */
static void draw(int world, int rank, double skew, int (*pair)[2])
{
    const int n = EXPERTS * world;
    double *sum = (double *)need(malloc((size_t)n * sizeof *sum));
    tiny_rng rng = tiny_rng_make(5, (uint64_t)rank);
    int t, i, e;
    for (e = 0; e < n; e++) sum[e] = (e ? sum[e - 1] : 0.0) + pow(e + 1.0, -skew);
    for (t = 0; t < TOKENS; t++)
        for (i = 0; i < 2; i++)
            do {
                const double u = tiny_rng_uniform64(&rng) * sum[n - 1];
                int lo = 0, hi = n - 1;
                while (lo < hi) {
                    const int mid = (lo + hi) / 2;
                    if (sum[mid] > u) hi = mid;
                    else lo = mid + 1;
                }
                pair[t][i] = lo;
            } while (i && pair[t][1] == pair[t][0]);
    free(sum);
}
/* rows of a rank after the exchange of a mixture layer */
static void experts(job *j, tiny_ctx *ctx, tiny_net *net)
{
    const int n = EXPERTS * net->world;
    int pair[TOKENS][2], t, e;
    float *logits = (float *)need(calloc((size_t)TOKENS * (size_t)n, sizeof *logits)), x[TOKENS * 4] = { 0 };
    const float *rows;
    const tiny_idx *count;
    tllm_moe_desc d;
    tllm_moe *moe = NULL;
    memset(&d, 0, sizeof d);
    d.net = net;
    d.n_expert = n;
    d.k = 2;
    d.width = 4;
    draw(net->world, net->rank, j->skew, pair);
    for (t = 0; t < TOKENS; t++)
        for (e = 0; e < 2; e++) logits[t * n + pair[t][e]] = 9.0f - (float)e;
    must(ctx, tllm_moe_open(ctx, &d, &moe));
    must(ctx, tllm_moe_route(moe, logits, TOKENS));
    must(ctx, tllm_moe_dispatch(moe, x, &rows, &count));
    j->got[net->rank] = (double)tllm_moe_plan_of(moe).rows;
    tllm_moe_close(moe);
    free(logits);
}
static double counted(int world, double skew)
{
    int pair[TOKENS][2], *rows = (int *)need(calloc((size_t)world, sizeof *rows)), r, t, most = 0;
    for (r = 0; r < world; r++) {
        draw(world, r, skew, pair);
        for (t = 0; t < TOKENS; t++) {
            rows[pair[t][0] / EXPERTS]++;
            rows[pair[t][1] / EXPERTS]++;
        }
    }
    for (r = 0; r < world; r++) if (rows[r] > most) most = rows[r];
    free(rows);
    return most / (2.0 * TOKENS);
}

/* bytes that a rank sends in a step of Just One Byte, the mean of 16 */
static tiny_status flat(void *user, tllm_onebyte *o, uint64_t step, uint32_t sample, double *value)
{
    const float *w = tllm_onebyte_tensor(o, 0);
    (void)user;
    (void)step;
    (void)sample;
    *value = (double)w[0] * (double)w[0];
    return TINY_OK;
}
static uint64_t sent(const tiny_net *net)
{
    uint64_t n = 0;
    int r;
    for (r = 0; r < net->world; r++) n += net->count[r].bytes_sent;
    return n;
}
static void onebyte(job *j, tiny_ctx *ctx, tiny_net *net)
{
    float w[16] = { 1.0f };
    tiny_tensor t = tiny_tensor_1d(w, TINY_F32, 16);
    tllm_onebyte_desc d;
    tllm_onebyte *o = NULL;
    uint64_t before = 0;
    int k;
    memset(&d, 0, sizeof d);
    d.net = net;
    d.tensor = &t;
    d.n_tensor = 1;
    d.loss = flat;
    d.lr = 0.01;
    d.wait_ns = d.lost_ns = UINT64_C(60000000000);
    must(ctx, tllm_onebyte_open(ctx, &d, &o));
    for (k = 0; k < 2 * STEPS; k++) {
        if (k == STEPS) before = sent(net);
        must(ctx, tllm_onebyte_step(o, NULL));
    }
    j->got[net->rank] = (double)(sent(net) - before) / STEPS;
    must(ctx, net->rank ? TINY_OK : tllm_onebyte_end(o));
    if (net->rank) must(ctx, tllm_onebyte_step(o, NULL));       /* hears of the end */
    tllm_onebyte_close(o);
}

/* ---- simulated --------------------------------------------------------------------------------------------------- */

static double smaller(double a, double b) { return a < b ? a : b; }
/* Rows of the table of costs. Its function takes as many ranks as a transport has: up to there both must agree. */
static double cost(int way, int world)
{
    const tiny_coll_line line = { latency, 8.0 / bits_per_second, 0.0 };
    const double n = 4.0 * WEIGHTS, p = world,
                 want = way == TINY_COMM_TREE ? 2.0 * log2(p) * (latency + n * line.byte)
                                              : 2.0 * (p - 1.0) * latency + 2.0 * (p - 1.0) / p * n * line.byte;
    if (world <= TINY_NET_RANKS && fabs(tiny_coll_cost(TINY_COST_ALLREDUCE + way, world, n, &line) - want) > 1e-9) {
        fprintf(stderr, "scale: %d ranks: tiny_coll_cost differs from its formula\n", world);
        exit(1);
    }
    return want;
}
static double ratio_of_costs(int world)
{
    return smaller(cost(TINY_COMM_TREE, world), cost(TINY_COMM_RING, world)) /
           (latency + 2.0 * 4.0 * WEIGHTS * 8.0 / bits_per_second);
}
/* the paper's model: a tree of sums whose messages take e^(sigma z), over a pair's two */
static double tree(tiny_rng *r, int level, double sigma)
{
    double a, b;
    if (!level) return 0.0;
    a = tree(r, level - 1, sigma) + exp(sigma * (double)tiny_rng_normal(r));
    b = tree(r, level - 1, sigma) + exp(sigma * (double)tiny_rng_normal(r));
    return a > b ? a : b;
}
static double drawn(int level, double sigma)
{
    tiny_rng rng = tiny_rng_make(1, 2);
    double sum = 0.0;
    int k;
    for (k = 0; k < 400; k++) sum += tree(&rng, level, sigma) / 400;
    return sum / ((1.0 + erf(sigma / 2)) * exp(sigma * sigma / 2));
}
static double idle(tiny_ctx *ctx, int stages, int chunks)
{
    const tllm_sched s = schedule(stages, chunks);
    const tllm_sched_time t = { 1.0, 2.0, 0.0, 0.0 };
    double total = 0.0;
    must(ctx, tllm_sched_simulate(ctx, &s, NULL, &t, NULL, NULL, &total));
    return 100.0 * (total / (3.0 * s.micros) - 1.0);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void row(const char *what, const double *a, const double *b, int digits)
{
    int i;
    printf("| %s |", what);
    for (i = 0; i < REAL; i++)
        if (a) printf(" %.*f |", digits, a[i]);
        else printf(" |");
    for (i = 0; i < SIMULATED; i++) printf(" %.*f |", digits, b[i]);
    printf("\n");
    (void)fflush(stdout);
}

int main(void)
{
    static job j;
    double a[REAL], b[SIMULATED], late[REAL];
    tiny_ctx *ctx = NULL;
    int i, chunks, k;
    must(ctx, tiny_ctx_open(NULL, &ctx));
    printf("| | 2 | 4 | 8 |");
    for (i = 0; i < SIMULATED; i++) printf(" %d |", 2 << i);
    printf("\n|---|");
    for (i = 0; i < REAL + SIMULATED; i++) printf("---|");
    printf("\n");
    j.run = exchange;
    for (i = 0; i < REAL; i++) {
        double pair, sum;
        j.kind = 0;
        real(&j, 2 << i, 1);
        pair = slowest(&j, 2 << i);
        j.kind = TINY_COMM_TREE;
        real(&j, 2 << i, 1);
        sum = slowest(&j, 2 << i);
        j.kind = TINY_COMM_RING;
        real(&j, 2 << i, 1);
        a[i] = smaller(sum, slowest(&j, 2 << i)) / pair;
    }
    for (i = 0; i < SIMULATED; i++) b[i] = ratio_of_costs(2 << i);
    row("NoLoCo: a sum over all / an outer step in pairs", a, b, 2);
    for (i = 0; i < SIMULATED; i++) b[i] = drawn(i + 1, 1.0);
    row("the same, log-normal messages, sigma 1", NULL, b, 1);
    j.run = pipeline;
    for (chunks = 1; chunks < 3; chunks++) {
        for (i = 0; i < REAL; i++) {
            j.kind = chunks;
            real(&j, 2 << i, 0);
            late[i] = 100.0 * (slowest(&j, 2 << i) / (15e-3 * 2 * (2 << i)) - 1.0);
        }
        for (i = 0; i < SIMULATED; i++) b[i] = idle(ctx, 2 << i, chunks);
        row(chunks == 1 ? "1F1B: idle / useful time, %" : "interleaved, two chunks: idle / useful time, %", late, b, 1);
    }
    j.run = experts;
    for (k = 0; k < 2; k++) {
        j.skew = k ? 0.6 : 0.0;
        for (i = 0; i < REAL; i++) {
            real(&j, 2 << i, 0);
            a[i] = slowest(&j, 2 << i) / (2.0 * TOKENS);
        }
        for (i = 0; i < SIMULATED; i++) b[i] = counted(2 << i, j.skew);
        row(k ? "MoE: rows of the busiest rank / mean, experts wanted as 1 / e^0.6"
              : "MoE: rows of the busiest rank / mean, experts wanted alike", a, b, 2);
    }
    j.run = onebyte;
    for (k = 0; k < 2; k++) {
        for (i = 0; i < REAL; i++) {
            real(&j, 2 << i, 0);
            a[i] = j.got[k ? 0 : 1];
        }
        for (i = 0; i < SIMULATED; i++) b[i] = k ? ((2 << i) - 1) * (9.5 + (2 << i)) : 5.0;
        row(k ? "Just One Byte: bytes a step from rank 0" : "Just One Byte: bytes a step from another machine", a, b,
            k ? 1 : 0);
    }
    tiny_ctx_close(ctx);
    return 0;
}
