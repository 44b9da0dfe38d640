/* bench/llm/phases.c - prompts and answers apart and together: goodputs by the published profile of a 13B model, and
 * the time of a simulation and of a search */
#include "bench.h"
#include <stdio.h>
#include <string.h>

#ifdef TINYLLM_NO_PHASES
void bench_phases(void) { }
#else

typedef struct bp_arg {
    tiny_ctx *ctx;
    tllm_phases d;
    tllm_phases_load load;
    tllm_phases_request *request;
    tllm_phases_report report;
} bp_arg;
static void bp_simulate(void *arg)
{
    bp_arg *a = (bp_arg *)arg;
    b_must(a->ctx, tllm_phases_simulate(a->ctx, &a->d, a->request, (size_t)a->load.n, NULL, &a->report));
}
static void bp_search(void *arg)
{
    bp_arg *a = (bp_arg *)arg;
    const tllm_phases_limit limit = { 400, 40, 0, 0 };
    const tllm_phases_cluster c = { 2, 8, 80e9, 26e9, 40, 40, 0 };
    tllm_phases_placement p;
    b_must(a->ctx, tllm_phases_search(a->ctx, &a->d, &c, &a->load, &limit, 20, &p));
}

void bench_phases(void)
{
    static const tllm_phases_time published = {
        1, { 18.1025, .1019123, 7.12226e-6 },
        { { 19.9347, 6.26936e-4, .0385070 }, { 7.16619, 5.79800e-4, .158311 } }, 0, 1
    };
    static const double each[3] = { 40, 30, 60 };
    double rate[3][3];
    b_row r[2];
    bp_arg a;
    int i, k;
    memset(&a, 0, sizeof a);
    a.ctx = b_ctx(TINY_TARGET_AUTO, 1);
    a.d.time = &published;
    a.d.n_time = 1;
    a.d.prompts.tp = a.d.prompts.pp = a.d.answers.tp = a.d.answers.pp = a.d.answers.n = 1;
    a.load.n = 1000;
    a.load.rate = 10;
    a.load.prompt = 512;
    a.load.answer = 64;
    a.load.seed = 1;
    for (i = 0; i < 3; i++)
        for (k = 0; k < 3; k++) {
            tllm_phases_limit limit = { 400, 0, 16, 0.05 };
            limit.each = each[i];
            a.d.mode = k ? TLLM_PHASES_APART : TLLM_PHASES_TOGETHER;
            a.d.prompts.n = k == 1 ? 1 : 2;
            b_must(a.ctx, tllm_phases_goodput(a.ctx, &a.d, &a.load, &limit, &rate[i][k]));
        }
    a.request = (tllm_phases_request *)b_alloc((size_t)a.load.n * sizeof *a.request);
    b_must(a.ctx, tllm_phases_draw(a.ctx, &a.load, a.request));
    a.d.prompts.n = 1;
    memset(r, 0, sizeof r);
    r[0].what = "1000 requests, 1 + 1";
    r[0].run = bp_simulate;
    r[1].what = "search, 16 devices";
    r[1].run = bp_search;
    for (i = 0; i < 2; i++) {
        r[i].target = "plain C";
        r[i].arg = &a;
        r[i].threads = 1;
    }
    b_contest("DistServe: simulator and search, prompts of 512, answers of 64", r, 2);
    b_verdict("minutes of a search", r[1].median_ns / 6e10, "<", 1.3);
    b_headline("distserve", "up to 7.4 times more requests, or 12.6 times tighter limits",
               "the published profile of a 13B model on an A100, 1000 requests of 512 and 64 tokens, nine in ten "
               "within 400 ms to the first token; simulated",
               "requests a second and device, two together, 1 + 1, 2 + 1: at 40 ms a token %.2f, %.2f, %.2f; at 30 ms "
               "%.2f, %.2f, %.2f; at 60 ms %.2f, %.2f, %.2f", rate[0][0], rate[0][1], rate[0][2], rate[1][0],
               rate[1][1], rate[1][2], rate[2][0], rate[2][1], rate[2][2]);
    b_free(a.request);
    tiny_ctx_close(a.ctx);
}
#endif
