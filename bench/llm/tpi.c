/* bench/llm/tpi.c - one model over ranks with a slow line: one rank, two and four, few bits on the wire, audits
 *
 * TPI-LLM (arXiv 2410.00531) reports 26.1 s a token for 70 billion weights on 8 devices of 8 GB with 300 Mbit/s, and
 * for 7 billion 1.2 s with all weights in memory.
 * Here: 8 layers, f16, ranks are threads of one core's time each, a delay line between them, 300 Mbit/s in each
 * direction unless it says otherwise. The baseline is one rank with one thread. A machine of two cores cannot show more
 * than a factor of 2, and less with four ranks. Groups take turns; medians. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { STEPS = 8, ROUNDS = 9, BATCH = 16, VOCAB = 32, MOST = 4, GROUPS = 6 };

typedef struct bt_kind { const char *name; int world, wire, every; } bt_kind;
typedef struct bt_job {
    bt_kind kind;
    const void *at;
    size_t n;
    double ms, mbit;
    tiny_local *local;
    double seconds, kb;                     /* of rank 0: for STEPS tokens; sent to each other rank */
} bt_job;

static void bt_rank(tiny_team *team, void *arg)
{
    bt_job *j = (bt_job *)arg;
    const int rank = team->i, world = j->kind.world;
    tllm_narrow_desc nd;
    tllm_audit_desc ad;
    tllm_lead_desc ld;
    tiny_comm_desc cd;
    tllm_narrow *narrow = NULL;
    tllm_audit *audit = NULL;
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_lead *lead = NULL;
    tiny_comm *comm = NULL;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    if (team->n != world) b_must(NULL, TINY_E_UNSUPPORTED);
    memset(&nd, 0, sizeof nd);
    memset(&ad, 0, sizeof ad);
    memset(&ld, 0, sizeof ld);
    memset(&cd, 0, sizeof cd);
    b_must(ctx, tllm_gguf_open_memory(ctx, j->at, j->n, &file));
    b_must(ctx, tllm_model_open(ctx, file, &model));
    nd.inner = tiny_local_net(j->local, rank);
    nd.format = j->kind.wire;
    nd.n_most = cd.n_most = tllm_lead_most(model, world, BATCH);
    b_must(ctx, tllm_narrow_open(ctx, &nd, &narrow));
    cd.net = tllm_narrow_net(narrow);
    if (!rank && j->kind.every) {
        ad.inner = cd.net;
        ad.file = file;
        ad.n_batch = BATCH;
        ad.every = j->kind.every;
        ad.format = j->kind.wire;
        b_must(ctx, tllm_audit_open(ctx, &ad, &audit));
        cd.net = tllm_audit_net(audit);
    }
    cd.way = world > 2 ? TINY_COMM_STAR : TINY_COMM_AUTO;        /* as in a star of sockets */
    b_must(ctx, tiny_comm_open(ctx, &cd, &comm));
    b_must(ctx, tllm_model_cut_by(ctx, model, rank, world, NULL));
    ld.model = model;
    ld.comm = comm;
    ld.n_ctx = 64;
    ld.n_batch = BATCH;
    ld.audit = audit;
    b_must(ctx, tllm_lead_open(ctx, &ld, &lead));
    if (rank) b_must(ctx, tllm_lead_follow(lead, NULL, NULL));
    else {
        int32_t token[BATCH];
        float logits[VOCAB];
        double from;
        uint64_t bytes;
        int i;
        for (i = 0; i < BATCH; i++) token[i] = i % VOCAB;
        b_must(ctx, tllm_lead_forward(lead, token, BATCH, 0, logits));
        bytes = world > 1 ? tiny_comm_net(comm)->count[1].bytes_sent : 0;
        from = b_now();
        for (i = 0; i < STEPS; i++) b_must(ctx, tllm_lead_forward(lead, token + i, 1, BATCH + i, logits));
        j->seconds = b_now() - from;
        if (world > 1) j->kb = 1e-3 * (double)(tiny_comm_net(comm)->count[1].bytes_sent - bytes) / STEPS;
        b_must(ctx, tllm_lead_stop(lead));
    }
    tllm_lead_close(lead);
    tllm_model_close(ctx, model);
    tiny_comm_close(comm);
    tllm_audit_close(ctx, audit);
    tllm_narrow_close(ctx, narrow);
    tllm_gguf_close(ctx, file);
    tiny_ctx_close(ctx);
}

/* milliseconds of a token of each group on one line: medians and the middle half */
static void bt_line(bt_job *j, int n, double ms, double mbit, double *median)
{
    static double took[GROUPS][ROUNDS];
    const int rounds = b_quick ? 3 : ROUNDS;
    int round, g, i;
    for (round = 0; round < rounds; round++)
        for (g = 0; g < n; g++) {
            tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, j[g].kind.world);
            tiny_local_desc d;
            double t;
            memset(&d, 0, sizeof d);
            d.world = j[g].kind.world;
            d.latency_ns = (uint64_t)(1e6 * ms);
            d.bits_per_second = 1e6 * mbit;
            b_must(ctx, tiny_local_open(ctx, &d, &j[g].local));
            b_must(ctx, tiny_parallel(ctx, d.world, 0, 0, bt_rank, &j[g]));
            tiny_local_close(ctx, j[g].local);
            tiny_ctx_close(ctx);
            t = 1e3 * j[g].seconds / STEPS;
            for (i = round; i > 0 && took[g][i - 1] > t; i--) took[g][i] = took[g][i - 1];
            took[g][i] = t;
        }
    for (g = 0; g < n; g++) {
        median[g] = took[g][rounds / 2];
        b_note("%g ms, %g Mbit/s: %s: %.2f ms a token (%.2f to %.2f), %.1f KB to each rank", ms, mbit, j[g].kind.name,
               median[g], took[g][rounds / 4], took[g][rounds - 1 - rounds / 4], j[g].kb);
    }
}

void bench_tpi(void)
{
    static const bt_kind kind[GROUPS] = { { "1 rank", 1, TLLM_FORMAT_F32, 0 },
                                          { "2 ranks", 2, TLLM_FORMAT_F32, 0 },
                                          { "2 ranks, f16", 2, TLLM_FORMAT_F16, 0 },
                                          { "2 ranks, 8 bits", 2, TLLM_FORMAT_Q8_0, 0 },
                                          { "2 ranks, an audit a token", 2, TLLM_FORMAT_F32, 1 },
                                          { "4 ranks", 4, TLLM_FORMAT_F32, 0 } };
    static const double line[4][2] = { { 0, 0 }, { 1, 300 }, { 4, 300 }, { 0.2, 10 } };
    double ms[4][GROUPS];
    bt_job job[GROUPS];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    const int d = b_quick ? 256 : 768;
    const void *at = NULL;
    size_t n = 0;
    tllm_writer *w = b_layers(ctx, d, &at, &n);
    int i;
    for (i = 0; i < GROUPS; i++) {
        memset(&job[i], 0, sizeof job[i]);
        job[i].kind = kind[i];
        job[i].at = at;
        job[i].n = n;
    }
    for (i = 0; i < 4; i++) bt_line(job, GROUPS, line[i][0], line[i][1], ms[i]);
    b_verdict("10 Mbit/s: f32 / 8 bits on the wire", ms[3][1] / ms[3][3], ">", 1.2);
    b_verdict("time with an audit a token / without", ms[0][4] / ms[0][1], "<", 1.25);
    b_headline("tpi-llm", "TPI-LLM: 26.1 s a token, 70 B f32 weights on 8 devices; 7 B: 1.2 s resident",
               "8 layers of d 768, f16, ranks as threads of one machine, one each, delays in memory; median of 9",
               "ms a token on 1, 2, 4 ranks, no delay: %.2f, %.2f, %.2f; 1 ms and 300 Mbit/s, 2 and 4 ranks: %.1f, "
               "%.1f; 4 ms: %.1f, %.1f; 0.2 ms and 10 Mbit/s, 2 ranks, f32, f16, 8 bits: %.1f, %.1f, %.1f; an audit "
               "in every token: %.2f",
               ms[0][0], ms[0][1], ms[0][5], ms[1][1], ms[1][5], ms[2][1], ms[2][5], ms[3][1], ms[3][2], ms[3][3],
               ms[0][4]);
    tllm_writer_close(ctx, w);
    tiny_ctx_close(ctx);
}
