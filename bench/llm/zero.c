/* bench/llm/zero.c - ZeRO-topo: codes of gradients against plain loops, transfers of a step on a virtual clock with
 * links of three classes against ZeRO-3 and ZeRO++, and the loss of a training with codes against one without */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef TINYLLM_NO_ZEROTOPO
void bench_zero(void) { }
#else

enum { BZ_N = 1 << 20, BZ_MOST = 64, BZ_SMALL = 1 << 18 };
typedef struct bz_codes { tiny_ctx *ctx; tllm_codes c; float *x; unsigned char *to; int plain, back; } bz_codes;
static void bz_run(void *arg)
{
    bz_codes *j = (bz_codes *)arg;
    if (j->back)
        b_must(j->ctx, (j->plain ? tllm_codes_unpack_ref : tllm_codes_unpack)(j->ctx, &j->c, j->to, BZ_N, j->x));
    else b_must(j->ctx, (j->plain ? tllm_codes_pack_ref : tllm_codes_pack)(j->ctx, &j->c, j->x, BZ_N, NULL, j->to));
}
static void bz_contest(void)
{
    static const char *const what[8] = {
        "8 bits, code", "8 bits, plain loops", "8 bits, decode", "8 bits, plain loops",
        "4 bits, code", "4 bits, plain loops", "4 bits, decode", "4 bits, plain loops"
    };
    bz_codes j[8];
    b_row r[8];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    int i;
    memset(r, 0, sizeof r);
    memset(j, 0, sizeof j);
    for (i = 0; i < 8; i++) {
        j[i].ctx = ctx;
        j[i].c.bits = i < 4 ? 8 : 4;
        j[i].plain = i % 2;
        j[i].back = i / 2 % 2;
        j[i].x = (float *)b_alloc(BZ_N * sizeof(float));
        j[i].to = (unsigned char *)b_alloc(2 * BZ_N);
        b_must(ctx, tllm_codes_pack(ctx, &j[i].c, j[i].x, BZ_N, NULL, j[i].to));
        r[i].what = what[i];
        r[i].target = j[i].plain ? "C" : tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL));
        r[i].threads = 1;
        r[i].limit = B_COPY;
        r[i].bytes = BZ_N * 4.0 + (double)tllm_codes_bytes(&j[i].c, BZ_N);
        r[i].run = bz_run;
        r[i].arg = &j[i];
        b_shape(&r[i], "%d numbers", (int)BZ_N);
    }
    b_contest("Codes of weights and gradients that travel", r, 8);
    b_verdict("coding by plain loops over ours, 4 bits", r[5].median_ns / r[4].median_ns, ">", 1.0);
    b_verdict("decoding by plain loops over ours, 4 bits", r[7].median_ns / r[6].median_ns, ">", 1.0);
    b_headline(
        "zero-topo", "quantized collectives: INT8 weights, INT4 gradients", "2^20 numbers, blocks of 256, one thread",
        "8 bits: coded in %.0f us (plain loops %.0f), decoded in %.0f (%.0f); 4 bits: %.0f (%.0f) and %.0f (%.0f)",
        r[0].median_ns * 1e-3, r[1].median_ns * 1e-3, r[2].median_ns * 1e-3, r[3].median_ns * 1e-3,
        r[4].median_ns * 1e-3, r[5].median_ns * 1e-3, r[6].median_ns * 1e-3, r[7].median_ns * 1e-3);
    for (i = 0; i < 8; i++) {
        b_free(j[i].x);
        b_free(j[i].to);
    }
    tiny_ctx_close(ctx);
}

/* ---- links of three classes: 2^18 weights on links as much slower, so that a step takes as long as one of 1e8 */

static tllm_zero_desc bz_system(int k, int ranks)
{
    tllm_zero_desc d;
    memset(&d, 0, sizeof d);
    d.s_os = ranks;
    d.s_w = k < 2 ? ranks : 2;
    d.s_g = k < 2 ? ranks : 8;
    d.s_2 = d.hop = k == 1 ? 8 : 0;
    d.weight_bits = k ? 8 : 16;
    d.grad_bits = d.net_bits = k ? 4 : 16;
    return d;
}
typedef struct bz_sim { tiny_local *local; int ranks, system, batches; uint64_t ns[BZ_MOST]; } bz_sim;
static void bz_rank(tiny_team *team, void *arg)
{
    static const tiny_idx layer[1] = { BZ_SMALL };
    bz_sim *s = (bz_sim *)arg;
    const double scale = (double)BZ_SMALL / 1e8;
    tllm_levels_desc l;
    tllm_levels *levels;
    tllm_zero_desc d = bz_system(s->system, s->ranks);
    tllm_zero *z;
    tiny_ctx *ctx;
    float *w;
    int b;
    if (team->n != s->ranks) return;
    ctx = b_ctx(TINY_TARGET_AUTO, 1);
    w = (float *)b_alloc(BZ_SMALL * sizeof(float));
    memset(&l, 0, sizeof l);
    l.net = tiny_local_net(s->local, team->i);
    l.n_level = 3;
    l.level[0].ranks = 2;
    l.level[0].bits_per_second = 1.6e12 * scale;
    l.level[1].ranks = 8;
    l.level[1].bits_per_second = 4e11 * scale;
    l.level[2].ranks = s->ranks;
    l.level[2].bits_per_second = 1e11 * scale;
    b_must(ctx, tllm_levels_open(ctx, &l, &levels));
    d.net = tllm_levels_net(levels);
    d.layer = layer;
    d.n_layer = 1;
    d.timeout_ns = UINT64_C(600000000000);
    b_must(ctx, tllm_zero_open(ctx, &d, w, &z));
    for (b = 0; b < s->batches; b++) {
        b_must(ctx, tllm_zero_weights(z, 0, 0, w));
        b_must(ctx, tllm_zero_weights(z, 0, 1, w));
        b_must(ctx, tllm_zero_gradient(z, 0, w));
    }
    b_must(ctx, tllm_zero_step(z, 1.0, 1.0));
    s->ns[team->i] = tllm_zero_clock(z, 0);
    tllm_zero_close(z);
    d.net->close(d.net);
    tllm_levels_close(ctx, levels);
    b_free(w);
    tiny_ctx_close(ctx);
}
static double bz_time(tiny_ctx *ctx, int ranks, int system, int batches)
{
    tiny_local_desc d;
    bz_sim s;
    uint64_t most = 0;
    int r;
    memset(&d, 0, sizeof d);
    memset(&s, 0, sizeof s);
    d.world = s.ranks = ranks;
    d.queue_bytes = 16384;
    d.virtual_clock = 1;
    s.system = system;
    s.batches = batches;
    b_must(ctx, tiny_local_open(ctx, &d, &s.local));
    b_must(ctx, tiny_parallel(ctx, ranks, 0, 0, bz_rank, &s));
    tiny_local_close(ctx, s.local);
    for (r = 0; r < ranks; r++) if (s.ns[r] > most) most = s.ns[r];
    return 1e-6 * (double)most;
}
static void bz_links(void)
{
    static const tllm_level level[3] = { { 2, 0, 1.6e12 }, { 8, 0, 4e11 }, { BZ_MOST, 0, 1e11 } };
    const int from = b_quick ? 0 : 2;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, BZ_MOST);
    double t[3][3][2], worst = 0;
    int r, k, b;
    memset(t, 0, sizeof t);
    for (r = 0; r <= from; r++)
        for (k = 0; k < 3; k++)
            for (b = 0; b < (b_quick ? 1 : 2); b++) {
                const tllm_zero_desc d = bz_system(k, 16 << r);
                tllm_zero_cost c;
                t[r][k][b] = bz_time(ctx, 16 << r, k, b ? 4 : 1);
                b_must(ctx, tllm_zero_cost_of(ctx, &d, 16 << r, 1e8, b ? 4 : 1, level, 3, &c));
                if (fabs(1e3 * c.seconds / t[r][k][b] - 1) > worst) worst = fabs(1e3 * c.seconds / t[r][k][b] - 1);
            }
    for (r = 0; r <= from; r++)
        b_note("%d ranks, ms of a step of one small batch: ZeRO-3 %.2f, ZeRO++ %.2f, topo %.2f", 16 << r, t[r][0][0],
               t[r][1][0], t[r][2][0]);
    b_verdict("ZeRO-3 / topo, one small batch", t[from][0][0] / t[from][2][0], ">", 2.0);
    b_verdict("largest difference between formulas and the virtual clock", worst, "<", 0.05);
    if (!b_quick)
        b_headline(
            "zero-topo", "1.71x per worker over ZeRO++ for 20B on up to 384 GCDs; scaling efficiency 0.94",
            "virtual clock, transfers alone, 1e8 weights, pairs of 200, nodes of 50, a network of 12.5 GB/s; one small "
            "batch a step, and four",
            "64 ranks: ZeRO-3 %.1f ms, ZeRO++ %.1f, topo %.1f; topo %.2f and %.2f times faster than ZeRO++, %.2f and "
            "%.2f times than ZeRO-3; 16, 32, 64 ranks: topo %.2f, %.2f, %.2f ms; formulas within %.1f %%",
            t[2][0][0], t[2][1][0], t[2][2][0], t[2][1][0] / t[2][2][0], t[2][1][1] / t[2][2][1],
            t[2][0][0] / t[2][2][0], t[2][0][1] / t[2][2][1], t[0][2][0], t[1][2][0], t[2][2][0], 100 * worst);
    tiny_ctx_close(ctx);
}

/* ---- a regression by one matrix, 64 inputs, 16 outputs, 8 ranks: the loss with codes over that without */

enum { BZ_IN = 64, BZ_OUT = 16, BZ_EACH = 32, BZ_STEPS = 150 };
typedef struct bz_train { tiny_local *local; tllm_zero_desc d; uint64_t seed; double loss[8]; } bz_train;
static void bz_learn(tiny_team *team, void *arg)
{
    static const tiny_idx layer[1] = { BZ_IN * BZ_OUT };
    bz_train *j = (bz_train *)arg;
    float *x, *y, *w, *g, *zero;
    tllm_zero_desc d = j->d;
    tllm_zero *z;
    tiny_rng rng = tiny_rng_make(j->seed, 100 + (uint64_t)team->i), truth = tiny_rng_make(j->seed, 1);
    tiny_ctx *ctx;
    int t, s, i, o;
    if (team->n != 8) return;
    ctx = b_ctx(TINY_TARGET_AUTO, 1);
    x = (float *)b_alloc(BZ_EACH * BZ_IN * sizeof(float));
    y = (float *)b_alloc(BZ_EACH * BZ_OUT * sizeof(float));
    w = (float *)b_alloc(BZ_IN * BZ_OUT * sizeof(float));
    g = (float *)b_alloc(BZ_IN * BZ_OUT * sizeof(float));
    zero = (float *)b_alloc(BZ_IN * BZ_OUT * sizeof(float));
    memset(zero, 0, BZ_IN * BZ_OUT * sizeof *zero);
    tiny_rng_fill_normal(&rng, x, BZ_EACH * BZ_IN);
    tiny_rng_fill_normal(&truth, w, BZ_IN * BZ_OUT);
    for (s = 0; s < BZ_EACH; s++)
        for (o = 0; o < BZ_OUT; o++) {
            y[s * BZ_OUT + o] = tiny_rng_normal(&rng);
            for (i = 0; i < BZ_IN; i++) y[s * BZ_OUT + o] += 0.25f * w[o * BZ_IN + i] * x[s * BZ_IN + i];
        }
    d.net = tiny_local_net(j->local, team->i);
    d.layer = layer;
    d.n_layer = 1;
    d.optim.lr = 0.01;
    d.timeout_ns = UINT64_C(600000000000);
    b_must(ctx, tllm_zero_open(ctx, &d, zero, &z));
    for (t = 0; t <= BZ_STEPS; t++) {
        b_must(ctx, tllm_zero_weights(z, 0, 0, w));
        memset(g, 0, BZ_IN * BZ_OUT * sizeof *g);
        j->loss[team->i] = 0;
        for (s = 0; s < BZ_EACH; s++)
            for (o = 0; o < BZ_OUT; o++) {
                float e = -y[s * BZ_OUT + o];
                for (i = 0; i < BZ_IN; i++) e += w[o * BZ_IN + i] * x[s * BZ_IN + i];
                for (i = 0; i < BZ_IN; i++) g[o * BZ_IN + i] += e * x[s * BZ_IN + i];
                j->loss[team->i] += (double)e * (double)e / BZ_EACH / BZ_OUT / 8;
            }
        if (t == BZ_STEPS) break;
        b_must(ctx, tllm_zero_gradient(z, 0, g));
        b_must(ctx, tllm_zero_step(z, 1.0 / (8 * BZ_EACH), 1.0));
    }
    tllm_zero_close(z);
    d.net->close(d.net);
    b_free(x);
    b_free(y);
    b_free(w);
    b_free(g);
    b_free(zero);
    tiny_ctx_close(ctx);
}
static double bz_loss(tiny_ctx *ctx, int codes, uint64_t seed)
{
    tiny_local_desc d;
    bz_train j;
    double loss = 0;
    int r;
    memset(&d, 0, sizeof d);
    memset(&j, 0, sizeof j);
    d.world = 8;
    d.queue_bytes = 65536;
    j.seed = seed;
    j.d.s_w = 2;
    j.d.s_g = 4;
    j.d.block = codes == 1 ? 256 : 64;
    j.d.full = !codes;
    if (!codes) j.d.weight_bits = j.d.grad_bits = j.d.net_bits = 32;
    j.d.by_chance = codes == 3;
    b_must(ctx, tiny_local_open(ctx, &d, &j.local));
    b_must(ctx, tiny_parallel(ctx, 8, 0, 0, bz_learn, &j));
    tiny_local_close(ctx, j.local);
    for (r = 0; r < 8; r++) loss += j.loss[r];
    return loss;
}
static void bz_losses(void)
{
    const int seeds = b_quick ? 1 : 5;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 8);
    double sum[4] = { 0 }, least[4] = { 9, 9, 9, 9 }, most[4] = { 0 };
    int s, k;
    for (s = 0; s < seeds; s++) {
        const double exact = bz_loss(ctx, 0, (uint64_t)s + 1);
        for (k = 1; k < 4; k++) {
            const double ratio = bz_loss(ctx, k, (uint64_t)s + 1) / exact;
            sum[k] += ratio / seeds;
            if (ratio < least[k]) least[k] = ratio;
            if (ratio > most[k]) most[k] = ratio;
        }
    }
    b_verdict("loss with codes of 8 and 4 bits over exact, blocks of 64", sum[2], "<", 1.01);
    if (!b_quick)
        b_headline(
            "zero-topo", "training with codes of 8 and 4 bits",
            "a linear map of 64 inputs to 16 outputs with noise, 256 samples, 8 ranks as (2, 4, 8), 150 steps of Adam, "
            "five seeds",
            "loss over the exact one: blocks of 256 %.4f (%.4f to %.4f), of 64 %.4f (%.4f to %.4f), of 64 rounded by "
            "chance %.4f (%.4f to %.4f)",
            sum[1], least[1], most[1], sum[2], least[2], most[2], sum[3], least[3], most[3]);
    tiny_ctx_close(ctx);
}

void bench_zero(void)
{
    bz_contest();
    bz_losses();
    bz_links();
}
#endif
