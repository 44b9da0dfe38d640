/* bench/llm/moe_fold.c - mixture layers over ranks: the experts against tiny_matmul, padded against dropless work, and
 * the exchange on a virtual clock with expert groups on fast links, and across data parallel ranks on slow ones */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef TINYLLM_NO_MOEFOLD
void bench_moe_fold(void) { }
#else

enum { BM_E = 8, BM_W = 512, BM_H = 1024, BM_T = 256, BM_RANKS = 16 };

typedef struct bm_layer {
    tiny_ctx *ctx;
    tllm_moe *moe;
    tllm_moe_weights w;
    const float *rows;
    const tiny_idx *count;
    float *a, *b, *out, *x;
} bm_layer;

static void bm_experts(void *arg)
{
    bm_layer *l = (bm_layer *)arg;
    b_must(l->ctx, tllm_moe_experts(l->moe, &l->w, l->rows, l->count, l->out));
}
static tiny_tensor bm_matrix(const float *p, tiny_idx rows, tiny_idx cols)
{
    return tiny_tensor_2d((void *)(uintptr_t)p, TINY_F32, rows, cols);
}
/* the same with the products of the table, an expert after the other */
static void bm_matmul(void *arg)
{
    bm_layer *l = (bm_layer *)arg;
    tiny_idx e, first = 0;
    for (e = 0; e < BM_E; first += l->count[e++]) {
        const tiny_idx n = l->count[e], at = e * BM_W * BM_H;
        const tiny_tensor x = bm_matrix(l->rows + first * BM_W, n, BM_W), y = bm_matrix(l->out + first * BM_W, n, BM_W);
        const tiny_tensor a = bm_matrix(l->a, n, BM_H), b = bm_matrix(l->b, n, BM_H);
        const tiny_tensor g = bm_matrix(l->w.gate + at, BM_W, BM_H), u = bm_matrix(l->w.up + at, BM_W, BM_H);
        const tiny_tensor d = bm_matrix(l->w.down + at, BM_H, BM_W);
        if (!n) continue;
        b_must(l->ctx, tiny_matmul(l->ctx, &x, &g, NULL, TINY_ACT_NONE, &a));
        b_must(l->ctx, tiny_matmul(l->ctx, &x, &u, NULL, TINY_ACT_NONE, &b));
        b_must(l->ctx, tiny_swiglu(l->ctx, &a, &b, &a));
        b_must(l->ctx, tiny_matmul(l->ctx, &a, &d, NULL, TINY_ACT_NONE, &y));
    }
}

/* Preferences of experts p_e ~ 1 / (e + 1)^skew: with Gumbel noise, a token's experts are drawn without replacement. */
static void bm_logits(float *logits, int tokens, int experts, double skew, uint64_t seed)
{
    tiny_rng rng = tiny_rng_make(seed, 77);
    int t, e;
    for (t = 0; t < tokens; t++)
        for (e = 0; e < experts; e++)
            logits[t * experts + e] =
                (float)(-skew * log((double)(e + 1)) - log(-log(tiny_rng_uniform64(&rng) * (1 - 1e-12) + 1e-13)));
}

static void bm_experts_rows(void)
{
    tllm_moe_desc d;
    bm_layer l;
    b_row r[2];
    float *logits = (float *)b_alloc(BM_T * BM_E * sizeof(float)), *w;
    int i;
    memset(&d, 0, sizeof d);
    memset(&l, 0, sizeof l);
    memset(r, 0, sizeof r);
    l.ctx = b_ctx(TINY_TARGET_AUTO, 1);
    d.n_expert = BM_E;
    d.k = 2;
    d.width = BM_W;
    d.hidden = BM_H;
    b_must(l.ctx, tllm_moe_open(l.ctx, &d, &l.moe));
    w = (float *)b_alloc((size_t)3 * BM_E * BM_W * BM_H * sizeof(float));
    l.w.gate = w;
    l.w.up = w + BM_E * BM_W * BM_H;
    l.w.down = w + 2 * BM_E * BM_W * BM_H;
    l.x = (float *)b_alloc((size_t)BM_T * BM_W * sizeof(float));
    l.a = (float *)b_alloc((size_t)2 * BM_T * BM_H * sizeof(float));
    l.b = (float *)b_alloc((size_t)2 * BM_T * BM_H * sizeof(float));
    l.out = (float *)b_alloc((size_t)2 * BM_T * BM_W * sizeof(float));
    bm_logits(logits, BM_T, BM_E, 0.6, 1);
    b_must(l.ctx, tllm_moe_route(l.moe, logits, BM_T));
    b_must(l.ctx, tllm_moe_dispatch(l.moe, l.x, &l.rows, &l.count));
    for (i = 0; i < 2; i++) {
        r[i].what = i ? "experts by tiny_matmul" : "experts, same bits";
        r[i].target = tiny_target_name(tiny_op_target(l.ctx, TINY_OP_MATMUL));
        r[i].threads = 1;
        r[i].limit = B_F32;
        r[i].flops = 2.0 * 2 * BM_T * 3 * BM_W * BM_H;
        r[i].run = i ? bm_matmul : bm_experts;
        r[i].arg = &l;
        b_shape(&r[i], "%d rows, %d of %dx%d", 2 * BM_T, BM_E, BM_W, BM_H);
    }
    b_contest("Experts of a mixture layer", r, 2);
    b_verdict("experts whose bits do not depend on the division / tiny_matmul", r[0].median_ns / r[1].median_ns, "<",
              2.0);
    tllm_moe_close(l.moe);
    b_free(logits);
    b_free(w);
    b_free(l.x);
    b_free(l.a);
    b_free(l.b);
    b_free(l.out);
    tiny_ctx_close(l.ctx);
}

/* rows that padding computes, over those that are wanted: Zipf 1.2, 16 experts, two of them, 1024 tokens */
static void bm_padded(void)
{
    enum { E = 16, T = 1024, SEEDS = 9 };
    static const double factor[3] = { 1.0, 1.25, 2.0 };
    float *logits = (float *)b_alloc(T * E * sizeof(float));
    double full[SEEDS], kept[3] = { 0 }, work[3] = { 0 }, sum = 0, least = 1e9, most = 0;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    int s, f, e;
    for (s = 0; s < SEEDS; s++) {
        tllm_moe_desc d;
        tllm_moe *moe;
        tllm_moe_plan p;
        tiny_idx top = 0;
        int n[E] = { 0 };
        memset(&d, 0, sizeof d);
        d.n_expert = E;
        d.k = 2;
        d.width = 1;
        bm_logits(logits, T, E, 1.2, (uint64_t)s + 1);
        b_must(ctx, tllm_moe_open(ctx, &d, &moe));
        b_must(ctx, tllm_moe_route(moe, logits, T));
        p = tllm_moe_plan_of(moe);
        for (e = 0; e < p.pairs; e++) n[p.expert[e]]++;
        for (e = 0; e < E; e++) if (n[e] > top) top = n[e];
        full[s] = (double)top * E / (double)p.pairs;
        sum += full[s];
        if (full[s] < least) least = full[s];
        if (full[s] > most) most = full[s];
        tllm_moe_close(moe);
        for (f = 0; f < 3; f++) {
            d.drop = TLLM_MOE_DROP_PROBS;
            d.pad = 1;
            d.factor = factor[f];
            b_must(ctx, tllm_moe_open(ctx, &d, &moe));
            b_must(ctx, tllm_moe_route(moe, logits, T));
            p = tllm_moe_plan_of(moe);
            kept[f] += (double)p.kept / (double)p.pairs / SEEDS;
            work[f] += (double)(p.capacity * E) / (double)p.kept / SEEDS;
            tllm_moe_close(moe);
        }
    }
    b_note("padding without dropping computes %.2f (%.2f to %.2f) rows for each that is wanted", sum / SEEDS, least,
           most);
    b_verdict("rows computed / rows wanted, padded so that nothing drops, Zipf 1.2", sum / SEEDS, ">", 1.0);
    b_headline(
        "moe-folding", "token dispatcher with and without dropping",
        "16 experts, two for each of 1024 tokens, wanted as 1 / e^1.2, nine seeds",
        "padded so that nothing is dropped: %.2f (%.2f to %.2f) rows computed for each wanted; capacity factor 1, "
        "1.25, 2: %.0f, %.0f, %.0f %% of the pairs kept, %.2f, %.2f, %.2f rows computed for each kept; dropless: 1",
        sum / SEEDS, least, most, 100 * kept[0], 100 * kept[1], 100 * kept[2], work[0], work[1], work[2]);
    b_free(logits);
    tiny_ctx_close(ctx);
}

typedef struct bm_sim { tiny_local *local; tllm_folding f; double skew; uint64_t seed, ns[BM_RANKS]; } bm_sim;
static void bm_rank(tiny_team *team, void *arg)
{
    bm_sim *s = (bm_sim *)arg;
    const int rank = team->i;
    tllm_levels_desc l;
    tllm_levels *levels;
    tllm_moe_desc d;
    tllm_moe *moe;
    const float *rows;
    const tiny_idx *count;
    tiny_ctx *ctx;
    float *logits, *x;
    if (team->n != BM_RANKS) return;
    ctx = b_ctx(TINY_TARGET_AUTO, 1);
    logits = (float *)b_alloc(1024 * 16 * sizeof(float));
    x = (float *)b_alloc(1024 * 512 * sizeof(float));
    bm_logits(logits, 1024, 16, s->skew, 1000 * s->seed + (uint64_t)rank);
    memset(&l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    l.net = tiny_local_net(s->local, rank);
    l.n_level = 2;
    l.level[0].ranks = 4;
    l.level[0].bits_per_second = 1e11;
    l.level[0].latency_ns = l.level[1].latency_ns = 5000;
    l.level[1].ranks = BM_RANKS;
    l.level[1].bits_per_second = 1e10;
    b_must(ctx, tllm_levels_open(ctx, &l, &levels));
    d.net = tllm_levels_net(levels);
    d.folding = &s->f;
    d.n_expert = 16;
    d.k = 2;
    d.width = 512;
    d.timeout_ns = UINT64_C(120000000000);
    b_must(ctx, tllm_moe_open(ctx, &d, &moe));
    b_must(ctx, tllm_moe_route(moe, logits, 1024));
    b_must(ctx, tllm_moe_dispatch(moe, x, &rows, &count));
    s->ns[rank] = tllm_moe_clock(moe, 0);
    tllm_moe_close(moe);
    d.net->close(d.net);
    tllm_levels_close(ctx, levels);
    b_free(logits);
    b_free(x);
    tiny_ctx_close(ctx);
}
/* milliseconds of a dispatch, the slowest rank */
static double bm_time(tiny_ctx *ctx, int ep, int across, double skew, uint64_t seed)
{
    tiny_local_desc d;
    bm_sim s;
    uint64_t most = 0;
    int r;
    memset(&d, 0, sizeof d);
    memset(&s, 0, sizeof s);
    d.world = BM_RANKS;
    d.queue_bytes = 65536;
    d.virtual_clock = 1;
    s.f.tp = s.f.cp = 2;
    s.f.dp = 4;
    s.f.ep = ep;
    s.f.across = across;
    s.skew = skew;
    s.seed = seed;
    b_must(ctx, tiny_local_open(ctx, &d, &s.local));
    b_must(ctx, tiny_parallel(ctx, BM_RANKS, 0, 0, bm_rank, &s));
    tiny_local_close(ctx, s.local);
    for (r = 0; r < BM_RANKS; r++) if (s.ns[r] > most) most = s.ns[r];
    return 1e-6 * (double)most;
}
static void bm_links(void)
{
    static const int ep[4] = { 2, 4, 8, 16 };
    const int seeds = b_quick ? 1 : 3;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, BM_RANKS);
    double folded[4][3], across[4][3];
    int i, s;
    for (i = 0; i < 4; i++) {
        double least = 1e9, most = 0;
        for (s = 0; s < seeds; s++) {
            const double skew = s == 0 ? 0.0 : s == 1 ? 0.6 : 1.2;
            folded[i][s] = bm_time(ctx, ep[i], 0, skew, (uint64_t)s + 1);
            across[i][s] = bm_time(ctx, ep[i], 1, skew, (uint64_t)s + 1);
            if (across[i][s] / folded[i][s] < least) least = across[i][s] / folded[i][s];
            if (across[i][s] / folded[i][s] > most) most = across[i][s] / folded[i][s];
        }
        b_note("ep %2d: dispatch %.3f ms folded, %.3f ms across dp; %.2f to %.2f times for skews 0 to 1.2", ep[i],
               folded[i][0], across[i][0], least, most);
    }
    b_verdict("ep 4 across dp / folded into the fast group", across[1][0] / folded[1][0], ">", 8.0);
    if (b_quick) return;
    b_headline(
        "moe-folding", "folding: 49.3 % utilisation for Mixtral 8x22B, 39.0 % for Qwen2-57B-A14B on H100",
        "virtual clock, 16 ranks, 1024 tokens of 512 floats each, two of 16 experts, 100 Gbit/s in groups of 4, 10 "
        "Gbit/s between them, 5 us a message; experts wanted alike, and as 1 / e^0.6 and 1 / e^1.2",
        "time of a dispatch across data parallel ranks over that of a folded group: ep 2 %.1f, %.1f, %.1f; ep 4 %.1f, "
        "%.1f, %.1f; ep 8 %.2f, %.2f, %.2f; ep 16 %.2f; ep 4 takes %.2f ms folded and %.2f ms across",
        across[0][0] / folded[0][0], across[0][1] / folded[0][1], across[0][2] / folded[0][2],
        across[1][0] / folded[1][0], across[1][1] / folded[1][1], across[1][2] / folded[1][2],
        across[2][0] / folded[2][0], across[2][1] / folded[2][1], across[2][2] / folded[2][2],
        across[3][0] / folded[3][0], folded[1][0], across[1][0]);
    tiny_ctx_close(ctx);
}

void bench_moe_fold(void)
{
    bm_experts_rows();
    bm_padded();
    bm_links();
}
#endif
