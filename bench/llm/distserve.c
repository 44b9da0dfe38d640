/* bench/llm/distserve.c - what a split serves within limits, and how long its simulation and its search take
 *
 * DistServe (arXiv 2401.09670) reports up to 7.4 times the requests or 12.6 times tighter limits than systems that read
 * and continue on the same devices, and a search of at most 1.3 minutes. Here: its published times of a 13 B model on
 * one A100, prompts of 512 tokens and outputs of 64, requests by chance, three seeds; and a load for which the split
 * loses. The rate of the simulation stands next to a plain queue in a line, which has no events. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { BD_N = 1000, BD_SEEDS = 3 };
static const tllm_dist_profile bd_a100 = { 1,
                                           { 18.1025, .1019123, 7.12226e-6 },
                                           { { 19.9347, 6.26936e-4, .0385070 }, { 7.16619, 5.79800e-4, .158311 } },
                                           95,
                                           1 };
typedef struct bd_job {
    tiny_ctx *ctx;
    tllm_dist_config c;
    tllm_dist_request r[BD_N];
    tllm_dist_time t[BD_N];
    int what;
    double sum;
} bd_job;

static tllm_dist_config bd_config(int kind)
{
    tllm_dist_config c;
    memset(&c, 0, sizeof c);
    c.role = kind ? TLLM_DIST_SPLIT : TLLM_DIST_TOGETHER;
    c.prefill.instances = kind == 1 ? 1 : 2;
    c.decode.instances = 1;
    c.prefill.profile = c.decode.profile = &bd_a100;
    return c;
}
/* means over the seeds; *low and *high of the better split over together */
static void bd_goodput(tiny_ctx *ctx, double ttft, double tpot, int is_long, double mean[3], double *low, double *high)
{
    const tllm_dist_limits limits = { ttft, tpot };
    const tllm_dist_bisection b = { 16, .05 };
    int k, s;
    memset(mean, 0, 3 * sizeof *mean);
    *low = 1e300;
    *high = 0;
    for (s = 0; s < BD_SEEDS; s++) {
        double rate[3], best;
        tllm_dist_load load;
        memset(&load, 0, sizeof load);
        load.n = BD_N;
        load.seed = (uint64_t)s;
        if (is_long) {
            load.prompt = 545;
            load.output = 150;
            load.prompt_spread = load.output_spread = .6;
        }
        for (k = 0; k < 3; k++) {
            const tllm_dist_config c = bd_config(k);
            b_must(ctx, tllm_dist_goodput(ctx, &c, &load, &limits, &b, &rate[k]));
            mean[k] += rate[k] / BD_SEEDS;
        }
        best = (rate[1] > rate[2] ? rate[1] : rate[2]) / rate[0];
        if (best < *low) *low = best;
        if (best > *high) *high = best;
    }
    b_note("limits %g and %g ms%s: 2 together %.2f, 1 + 1 split %.2f, 2 + 1 split %.2f requests a second and device; "
           "the better split over together %.2f to %.2f on %d seeds",
           1e3 * ttft, 1e3 * tpot, is_long ? ", long prompts and outputs" : "", mean[0], mean[1], mean[2], *low, *high,
           BD_SEEDS);
}

static void bd_run(void *arg)
{
    bd_job *j = (bd_job *)arg;
    if (j->what == 0) b_must(j->ctx, tllm_dist_simulate(j->ctx, &j->c, j->r, BD_N, j->t, NULL));
    else if (j->what == 1) {
        double free_at = 0;
        int i;
        for (i = 0; i < BD_N; i++) {
            free_at = (j->r[i].arrival > free_at ? j->r[i].arrival : free_at) +
                      1e-3 * tllm_dist_prefill_ms(&bd_a100, 1, j->r[i].prompt, (double)j->r[i].prompt * j->r[i].prompt);
            j->t[i].first = free_at;
        }
    } else {
        static const tllm_dist_cluster cluster = { 2, 4, 80e9, 0 };
        static const tllm_dist_model model = { 40, 40, 26e9 };
        static const tllm_dist_limits limits = { .4, .04 };
        tllm_dist_load load;
        tllm_dist_plan plan;
        memset(&load, 0, sizeof load);
        b_must(j->ctx, tllm_dist_place(j->ctx, &cluster, &model, &bd_a100, 1, NULL, &load, &limits, 100, &plan));
        j->sum += plan.goodput;
    }
}

/* a prompt of 192 tokens: read again, or its keys and values packed by one engine and taken by another */
enum { BD_PROMPT = 192 };
typedef struct bd_text { tiny_ctx *ctx; tllm_engine *from, *to; int32_t prompt[BD_PROMPT]; } bd_text;
static void bd_submit(bd_text *x, tllm_engine *e, uint64_t id, int keep)
{
    tllm_request r;
    int more = 1;
    memset(&r, 0, sizeof r);
    r.prompt = x->prompt;
    r.n_prompt = BD_PROMPT;
    r.n_most = 1;
    r.id = id;
    r.keep = keep;
    b_must(x->ctx, tllm_engine_submit(e, &r, NULL, NULL, 0));
    while (more) b_must(x->ctx, tllm_engine_step(e, &more));
}
static void bd_read(void *arg)
{
    bd_text *x = (bd_text *)arg;
    bd_submit(x, x->to, 2, 0);
}
static void bd_move(void *arg)
{
    bd_text *x = (bd_text *)arg;
    void *bytes;
    size_t n;
    b_must(x->ctx, tllm_engine_pack(x->from, 1, &bytes, &n));
    b_must(x->ctx, tllm_engine_put(x->to, 3, bytes, n));
    b_must(x->ctx, tllm_engine_release(x->to, 3));
    tiny_free(x->ctx, bytes);
}
static void bd_moves(tiny_ctx *ctx)
{
    static bd_text x;
    tllm_engine_desc d;
    b_row row[2];
    int i;
    memset(&d, 0, sizeof d);
    memset(row, 0, sizeof row);
    d.exact = 1;
    d.forget = 1;
    x.ctx = ctx;
    for (i = 0; i < BD_PROMPT; i++) x.prompt[i] = 3 + (i * 131 + i * i * 7) % 530;
    b_must(ctx, tllm_engine_open_file(ctx, "examples/models/story.gguf", &d, &x.from));
    b_must(ctx, tllm_engine_open_file(ctx, "examples/models/story.gguf", &d, &x.to));
    bd_submit(&x, x.from, 1, 1);
    for (i = 0; i < 2; i++) {
        row[i].what = "a text of 192 tokens";
        row[i].target = i ? "moved" : "read again";
        row[i].threads = 1;
        row[i].run = i ? bd_move : bd_read;
        row[i].arg = &x;
        b_shape(&row[i], "story.gguf, exact");
    }
    b_contest("Keys and values that move to another engine", row, 2);
    b_note("a text of 192 tokens: read again %.2f ms, packed and taken %.2f ms, %.0f kB, without the wire",
           row[0].median_ns * 1e-6, row[1].median_ns * 1e-6, 1e-3 * (double)tllm_engine_bytes(x.from, BD_PROMPT));
    tllm_engine_close(x.from);
    tllm_engine_close(x.to);
}

void bench_distserve(void)
{
    static bd_job job[3];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    tllm_dist_load load;
    double a[3], b[3], c[3], d[3], low[4], high[4];
    b_row row[3];
    int i;
    bd_goodput(ctx, .4, .04, 0, a, &low[0], &high[0]);
    bd_goodput(ctx, .4, .03, 0, b, &low[1], &high[1]);
    bd_goodput(ctx, .4, .06, 0, c, &low[2], &high[2]);
    bd_goodput(ctx, .25, .1, 1, d, &low[3], &high[3]);
    memset(row, 0, sizeof row);
    memset(&load, 0, sizeof load);
    load.n = BD_N;
    for (i = 0; i < 3; i++) {
        job[i].ctx = ctx;
        job[i].what = i;
        job[i].c = bd_config(1);
        b_must(ctx, tllm_dist_requests(ctx, &load, 10, job[i].r));
        row[i].what = i == 2 ? "a placement, 8 devices" : "1000 requests";
        row[i].target = i == 0 ? "by events" : i == 1 ? "a queue alone" : "search";
        row[i].threads = 1;
        row[i].run = bd_run;
        row[i].arg = &job[i];
        b_shape(&row[i], "512 + 64 tokens");
    }
    b_contest("Simulations of prefill and decode", row, 3);
    b_headline("distserve", "DistServe: up to 7.4x more requests or 12.6x tighter limits; a search within 1.3 minutes",
               "simulated, the published times of a 13 B model on one A100, prompts 512, outputs 64, 3 seeds (lowest "
               "to highest); long: log-normal, medians 545 and 150, limits 250 and 100 ms; search: 8 devices, one "
               "thread",
               "the better split over 2 devices together: %.2f to %.2f at limits of 400 and 40 ms, %.2f to %.2f at 30 "
               "ms, %.2f to %.2f at 60 ms, %.2f to %.2f for long prompts and outputs; 1000 requests %.2f ms, a search "
               "%.0f ms",
               low[0], high[0], low[1], high[1], low[2], high[2], low[3], high[3], row[0].median_ns * 1e-6,
               row[2].median_ns * 1e-6);
    bd_moves(ctx);
    tiny_ctx_close(ctx);
}
