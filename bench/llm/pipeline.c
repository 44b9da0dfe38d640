/* bench/llm/pipeline.c - pipelines: a perceptron on two ranks against one, and idle time against the formula
 *
 * GPipe (arXiv 1811.06965) reports 3.48 times the throughput for 8 stages and 32 micro-batches against 2 stages and one
 * (AmoebaNet), Megatron-LM (arXiv 2104.04473) 10 % and more by interleaved stages.
 * Here: 8 layers of 512, a batch of 256 or 2048 rows, a step of forward and backward passes. Ranks are threads of one
 * core each, joined by queues in memory. Baselines: one rank with one thread, and one rank with two threads, which is
 * what a user with one machine would do. Idle time: four ranks that sleep 5 ms for a forward and 10 ms for a backward
 * pass, so that two cores are enough for them. All rows take turns; figures are medians. Where other programs share the
 * processors, the processor time of a step says more: on two free cores two ranks would take half of it, times 9 / 8
 * for 8 micro-batches. */
#define _DEFAULT_SOURCE
#include "../bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef TINYLLM_NO_MEGATRON
void bench_pipeline(void) { }
#else

enum { BP_LAYERS = 8, BP_WIDTH = 512, BP_ROWS = 2048, BP_MOST = 4, BP_ROUNDS = 9, BP_GROUPS = 9 };

typedef struct bp_net { float *w, *dw, *x; int32_t *label; int pieces; tiny_op_row nap; double ms; } bp_net;
typedef struct bp_rank {
    tiny_ctx *ctx;
    tllm_pipe *pipe;
    tllm_pipe_result result;
    bp_net net;
    tiny_param p[BP_LAYERS];
} bp_rank;
typedef struct bp_group {
    tiny_ctx *team;
    tiny_local *local;
    int world, threads, micros, chunks, kind, keep, sleeps, rows;
    double ms;                              /* of a forward pass that sleeps */
    bp_rank rank[BP_MOST];
    double took[BP_ROUNDS], median, used[BP_ROUNDS];    /* used: processor time of the whole program */
} bp_group;

static tiny_tensor bp_piece(tiny_tape *tape, void *user, const tllm_pipe_at *at, const tiny_tensor *x)
{
    bp_net *n = (bp_net *)user;
    const int each = BP_LAYERS / n->pieces;
    const tiny_tensor label = tiny_tensor_1d(n->label + at->row, TINY_I32, at->rows);
    tiny_tensor h;
    int l;
    if (x) h = *x;
    else h = tiny_tensor_2d(n->x + at->row * BP_WIDTH, TINY_F32, at->rows, BP_WIDTH);
    for (l = at->piece * each; l < (at->piece + 1) * each; l++) {
        const tiny_tensor w = tiny_tensor_2d(n->w + (size_t)l * BP_WIDTH * BP_WIDTH, TINY_F32, BP_WIDTH, BP_WIDTH);
        h = tiny_tape_linear(tape, &h, &w, NULL, l < BP_LAYERS - 1 ? TINY_ACT_RELU : TINY_ACT_NONE);
    }
    return at->piece < n->pieces - 1 ? h : tiny_tape_cross_entropy(tape, &h, &label, 0.0);
}

/* ---- pieces that sleep */

static void bp_doze(double ms)
{
    const double until = b_now() + 1e-3 * ms;
    while (b_now() < until) {
#if defined __unix__ || defined __APPLE__
        struct timespec t;
        const double left = until - b_now();
        t.tv_sec = 0;
        t.tv_nsec = left > 0.0 ? (long)(1e9 * left) : 0;
        (void)nanosleep(&t, NULL);
#endif
    }
}
static tiny_status bp_nap_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    (void)ctx;
    want[0] = *op->in[0];
    return TINY_OK;
}
static void bp_nap_ref(const tiny_op *op)
{
    bp_doze(*(const double *)op->params);
    memcpy(op->out[0]->data, op->in[0]->data, (size_t)tiny_tensor_count(op->in[0]) * sizeof(float));
}
static void bp_nap_fast(tiny_team *team, const tiny_op *op)
{
    if (team->i == 0) bp_nap_ref(op);
}
static void bp_nap_cost(const tiny_op *op, tiny_cost *cost)
{
    cost->flops = 0.0;
    cost->bytes = 8.0 * (double)tiny_tensor_count(op->in[0]);
}
static tiny_status bp_nap_grad(tiny_grad *g, const tiny_op *op)
{
    if (!tiny_grad_dry(g)) bp_doze(2.0 * *(const double *)op->params);
    return tiny_grad_add(g, 0, tiny_grad_of(g, 0));
}
static tiny_tensor bp_sleeper(tiny_tape *tape, void *user, const tllm_pipe_at *at, const tiny_tensor *x)
{
    bp_net *n = (bp_net *)user;
    const tiny_tensor w = tiny_tensor_2d(n->w, TINY_F32, 1, 16);
    tiny_tensor out[TINY_OP_MAX_OUT];
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.row = &n->nap;
    op.in[0] = x ? x : &w;
    op.params = &n->ms;
    if (tiny_tape_op(tape, &op, out)) memset(out, 0, sizeof out[0]);
    return at->piece == n->pieces - 1 ? tiny_tape_mean(tape, &out[0]) : out[0];
}

/* ---- groups */

static void bp_open(bp_group *g, int rank)
{
    bp_rank *r = &g->rank[rank];
    bp_net *n = &r->net;
    tllm_pipe_desc d;
    tiny_idx width[2 * BP_MOST];
    int i, each;
    memset(&d, 0, sizeof d);
    memset(r, 0, sizeof *r);
    r->ctx = b_ctx(TINY_TARGET_AUTO, g->threads);
    n->pieces = g->world * g->chunks;
    each = g->sleeps ? 1 : BP_LAYERS / n->pieces;
    n->w = (float *)b_alloc(sizeof(float) * (g->sleeps ? 16 : (size_t)BP_LAYERS * BP_WIDTH * BP_WIDTH));
    n->dw = (float *)b_alloc(sizeof(float) * (g->sleeps ? 16 : (size_t)BP_LAYERS * BP_WIDTH * BP_WIDTH));
    n->x = (float *)b_alloc(sizeof(float) * BP_ROWS * BP_WIDTH);
    n->label = (int32_t *)b_alloc(sizeof(int32_t) * BP_ROWS);
    for (i = 0; i < BP_ROWS; i++) n->label[i] = i % BP_WIDTH;
    n->ms = g->ms / g->chunks;
    n->nap.name = "nap";
    n->nap.n_in = n->nap.n_in_needed = n->nap.n_out = 1;
    n->nap.params_size = sizeof(double);
    n->nap.shape = bp_nap_shape;
    n->nap.ref = bp_nap_ref;
    n->nap.fast = bp_nap_fast;
    n->nap.cost = bp_nap_cost;
    n->nap.grad = bp_nap_grad;
    for (i = 0; i < each; i++) {
        const size_t at = (size_t)(rank * each + i) * BP_WIDTH * BP_WIDTH;
        memset(&r->p[i], 0, sizeof r->p[i]);
        r->p[i].value = g->sleeps ? tiny_tensor_2d(n->w, TINY_F32, 1, 16)
                                  : tiny_tensor_2d(n->w + at, TINY_F32, BP_WIDTH, BP_WIDTH);
        r->p[i].grad = g->sleeps ? tiny_tensor_2d(n->dw, TINY_F32, 1, 16)
                                 : tiny_tensor_2d(n->dw + at, TINY_F32, BP_WIDTH, BP_WIDTH);
    }
    for (i = 0; i < n->pieces; i++) width[i] = g->sleeps ? 16 : BP_WIDTH;
    d.net = tiny_local_net(g->local, rank);
    d.schedule.kind = g->kind;
    d.schedule.micros = g->micros;
    d.schedule.chunks = g->chunks;
    d.keep = g->keep;
    d.rows = g->sleeps ? g->micros : g->rows;
    d.width = width;
    d.params = r->p;
    d.n_params = (size_t)each;
    d.run = g->sleeps ? bp_sleeper : bp_piece;
    d.user = n;
    b_must(r->ctx, tllm_pipe_open(r->ctx, &d, &r->pipe));
}

/* what: 0 opens, 1 runs, 2 closes */
typedef struct bp_job { bp_group *g; int what; } bp_job;
static void bp_do(bp_group *g, int rank, int what)
{
    bp_rank *r = &g->rank[rank];
    if (what == 0) bp_open(g, rank);
    if (what == 1) b_must(r->ctx, tllm_pipe_run(r->pipe, 0, &r->result));
    if (what < 2) return;
    tllm_pipe_close(r->pipe);
    b_free(r->net.w);
    b_free(r->net.dw);
    b_free(r->net.x);
    b_free(r->net.label);
    tiny_ctx_close(r->ctx);
}
static void bp_team(tiny_team *team, void *arg)
{
    const bp_job *j = (const bp_job *)arg;
    if (team->n != j->g->world) b_must(NULL, TINY_E_UNSUPPORTED);
    bp_do(j->g, team->i, j->what);
}
static void bp_all(bp_group *g, int what)
{
    bp_job j;
    j.g = g;
    j.what = what;
    if (g->world == 1) {
        bp_do(g, 0, what);
        return;
    }
    if (what == 0) {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        d.world = g->world;
        g->team = b_ctx(TINY_TARGET_AUTO, g->world);
        b_must(g->team, tiny_local_open(g->team, &d, &g->local));
    }
    b_must(g->team, tiny_parallel(g->team, g->world, 0, 0, bp_team, &j));
    if (what < 2) return;
    tiny_local_close(g->team, g->local);
    tiny_ctx_close(g->team);
}

static int bp_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
/* The groups take turns; milliseconds. */
static void bp_rounds(bp_group *g, int n, int rounds)
{
    int i, k;
    for (i = 0; i < n; i++) bp_all(&g[i], 0);
    for (k = -1; k < rounds; k++)
        for (i = 0; i < n; i++) {
            const double t = b_now();
            const clock_t c = clock();
            bp_all(&g[i], 1);
            if (k < 0) continue;
            g[i].took[k] = 1e3 * (b_now() - t);
            g[i].used[k] = 1e3 * (double)(clock() - c) / CLOCKS_PER_SEC;
        }
    for (i = 0; i < n; i++) {
        qsort(g[i].took, (size_t)rounds, sizeof *g[i].took, bp_order);
        qsort(g[i].used, (size_t)rounds, sizeof *g[i].used, bp_order);
        g[i].median = g[i].took[rounds / 2];
    }
}

static bp_group bp_make(int world, int threads, int micros, int kind, int keep, int rows)
{
    bp_group g;
    memset(&g, 0, sizeof g);
    g.rows = rows;
    g.world = world;
    g.threads = threads;
    g.micros = micros;
    g.kind = kind;
    g.keep = keep;
    g.chunks = 1;
    return g;
}

void bench_pipeline(void)
{
    static const char *const name[BP_GROUPS] = { "one rank, one thread",
                                         "one rank, two threads",
                                         "two ranks, 1 micro-batch",
                                         "two ranks, 8, recomputed",
                                         "two ranks, 8, all kept",
                                         "two ranks, 8, 1F1B, recomputed",
                                         "2048 rows: one rank",
                                         "2048 rows: two ranks, 8",
                                         "2048 rows: two ranks, 8, kept" };
    static bp_group g[BP_GROUPS], s[12];
    const int rounds = b_quick ? 3 : BP_ROUNDS;
    double formula[12], worst = 0.0, free_of[4];
    int i, k;
    g[0] = bp_make(1, 1, 1, TLLM_SCHED_GPIPE, 1, 256);
    g[1] = bp_make(1, 2, 1, TLLM_SCHED_GPIPE, 1, 256);
    g[2] = bp_make(2, 1, 1, TLLM_SCHED_GPIPE, 0, 256);
    g[3] = bp_make(2, 1, 8, TLLM_SCHED_GPIPE, 0, 256);
    g[4] = bp_make(2, 1, 8, TLLM_SCHED_GPIPE, 1, 256);
    g[5] = bp_make(2, 1, 8, TLLM_SCHED_1F1B, 0, 256);
    g[6] = bp_make(1, 1, 1, TLLM_SCHED_GPIPE, 1, 2048);
    g[7] = bp_make(2, 1, 8, TLLM_SCHED_GPIPE, 0, 2048);
    g[8] = bp_make(2, 1, 8, TLLM_SCHED_GPIPE, 1, 2048);
    bp_rounds(g, BP_GROUPS, rounds);
    b_note("8 layers of 512, 256 rows or 2048, a step; median of %d rounds (least to most), processor time, what "
           "the last rank holds", rounds);
    for (i = 0; i < BP_GROUPS; i++) {
        const tllm_pipe_result *r = &g[i].rank[g[i].world - 1].result;
        b_note("  %-30s %7.2f ms (%.2f to %.2f)  %5.2fx  used %7.2f ms  inputs %4.0f KB, inside %5.0f KB", name[i],
               g[i].median, g[i].took[0], g[i].took[rounds - 1], g[i < 6 ? 0 : 6].median / g[i].median,
               g[i].used[rounds / 2],
               (double)r->stash_bytes / 1e3, (double)r->inner_bytes / 1e3);
    }
    for (i = 0; i < 4; i++)
        free_of[i] = g[i < 2 ? 0 : 6].used[rounds / 2] /
                     (g[i < 2 ? 3 + i : 5 + i].used[rounds / 2] / 2.0 * 9.0 / 8.0);
    b_headline("gpipe", "throughput of 8 stages, 32 micro-batches over 2 stages, 1: 3.48x (AmoebaNet), 6.3x "
               "(Transformer)",
               "two ranks of one thread each, 8 layers of 512, 256 rows; against one rank with one thread; medians",
               "8 micro-batches %.2fx with recomputation, %.2fx without (goal 1.6, ideal 1.78); 1 micro-batch %.2fx; "
               "one rank with two threads %.2fx; by processor time on two free cores %.2fx with recomputation, %.2fx "
               "without; of 2048 rows %.2fx and %.2fx",
               g[0].median / g[3].median, g[0].median / g[4].median, g[0].median / g[2].median,
               g[0].median / g[1].median, free_of[0], free_of[1], free_of[2], free_of[3]);
    for (i = 0; i < BP_GROUPS; i++) bp_all(&g[i], 2);
    for (i = 0; i < 12; i++) {              /* 4, 8, 16, 32 micro-batches; gpipe, 1f1b, interleaved */
        tllm_sched q;
        const tllm_sched_time t = { 5.0, 10.0, 0.0, 0.0 };
        tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
        k = i % 3;
        s[i] = bp_make(4, 1, 4 << i / 3, k ? TLLM_SCHED_1F1B : TLLM_SCHED_GPIPE, 1, 0);
        s[i].chunks = k == 2 ? 2 : 1;
        s[i].sleeps = 1;
        s[i].ms = 5.0;
        q.kind = s[i].kind;
        q.stages = 4;
        q.micros = s[i].micros;
        q.chunks = s[i].chunks;
        b_must(ctx, tllm_sched_simulate(ctx, &q, NULL, &t, NULL, NULL, &formula[i]));
        tiny_ctx_close(ctx);
    }
    bp_rounds(s, 12, b_quick ? 1 : 5);
    b_note("four ranks that sleep 5 ms forward, 10 ms backward: measured, by the formula");
    for (i = 0; i < 12; i++) {
        const double off = s[i].median / formula[i] - 1.0;
        if (off > worst) worst = off;
        b_note("  %2d micro-batches, %-13s %7.1f ms %7.1f ms %+5.1f %%", s[i].micros,
               i % 3 == 0 ? "gpipe" : i % 3 == 1 ? "1f1b" : "1f1b, 2 chunks", s[i].median, formula[i], 100.0 * off);
        bp_all(&s[i], 2);
    }
    b_headline("megatron", "interleaved stages: 10 % and more throughput (GPT-3 sizes on 96 GPUs)",
               "four ranks that sleep 5 ms forward and 10 ms backward, 8 micro-batches, two chunks; threads",
               "1F1B over interleaved %.3fx (formula 33 / 28.5 = 1.158); measured at most %.1f %% above the formula "
               "for 4 to 32 micro-batches (goal 3 %%)",
               s[4].median / s[5].median, 100.0 * worst);
}
#endif
