/* bench/llm/snnet.c - SN-Net: 18 networks of two trained ones; first values by least squares against random ones; the
 * family after shared training against networks of the same sizes trained one by one; a switch against a load */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

#ifdef TINYLLM_NO_SNNET
void bench_snnet(void) { }
#else

enum { BSN_NETS = 18, BSN_SEEDS = 3, BSN_ALONE = 4 };
static const tiny_idx bsn_alone[BSN_ALONE] = { 28, 37, 47, 56 };     /* widths between those of the anchors */

typedef struct bsn_result {                 /* share of the test set that is right */
    double before[2][BSN_NETS];             /* least squares, random */
    double soon[2][BSN_NETS];               /* after 300 shared steps */
    double after[BSN_NETS], alone[BSN_ALONE], params[BSN_NETS], alone_params[BSN_ALONE];
} bsn_result;

static tllm_resmlp *bsn_mlp(tiny_ctx *ctx, tiny_idx width, uint64_t seed)
{
    tllm_resmlp_desc d;
    tllm_resmlp *m = NULL;
    memset(&d, 0, sizeof d);
    d.n_in = 32;
    d.n_class = 10;
    d.width = width;
    d.seed = seed;
    b_must(ctx, tllm_resmlp_open(ctx, &d, &m));
    return m;
}

static void bsn_fit(tiny_ctx *ctx, tllm_snnet *net, const tllm_nn_task *task, int64_t steps, double lr, uint64_t seed)
{
    tllm_snnet_fit_desc d;
    memset(&d, 0, sizeof d);
    d.steps = steps;
    d.lr = lr;
    d.seed = seed;
    b_must(ctx, tllm_snnet_fit(net, &task->train, &d, NULL));
}

/* a network trained by itself; its share of right answers */
static tllm_resmlp *bsn_alone_of(tiny_ctx *ctx, const tllm_nn_task *task, tiny_idx width, int64_t steps, uint64_t seed,
                                 double *right, double *params)
{
    tllm_resmlp *m = bsn_mlp(ctx, width, seed);
    const tllm_snnet_anchor a = tllm_resmlp_anchor(m);
    tllm_snnet *one = NULL;
    b_must(ctx, tllm_snnet_open(ctx, &a, 1, seed, &one));
    bsn_fit(ctx, one, task, steps, 2e-3, seed);
    b_must(ctx, tllm_snnet_measure(one, &task->test, params, NULL, right));
    tllm_snnet_close(one);
    return m;
}

/* trained once; the anchors of every family begin with its numbers */
static void bsn_copy(const tllm_resmlp *from, tllm_resmlp *to)
{
    const tllm_snnet_anchor a = tllm_resmlp_anchor((tllm_resmlp *)(uintptr_t)from), b = tllm_resmlp_anchor(to);
    size_t i;
    for (i = 0; i < a.n_params; i++)
        memcpy(b.params[i].value.data, a.params[i].value.data,
               (size_t)tiny_tensor_count(&a.params[i].value) * sizeof(float));
}

static void bsn_seed(tiny_ctx *ctx, uint64_t seed, bsn_result *r)
{
    const int64_t anchor_steps = b_quick ? 60 : 1200, shared = b_quick ? 60 : 6000, soon = b_quick ? 20 : 300;
    tllm_nn_task task;
    tllm_resmlp *trained[2], *m[2];
    tllm_snnet_anchor a[2];
    tllm_snnet *net = NULL;
    double right, params;
    int k, way;
    b_must(ctx, tllm_nn_task_open(ctx, TLLM_TASK_MIX60, seed, 0, 0, &task));
    for (k = 0; k < 2; k++) trained[k] = bsn_alone_of(ctx, &task, k ? 64 : 20, anchor_steps, seed, &right, &params);
    for (way = 1; way >= 0; way--) {
        for (k = 0; k < 2; k++) {
            m[k] = bsn_mlp(ctx, k ? 64 : 20, seed);
            bsn_copy(trained[k], m[k]);
            a[k] = tllm_resmlp_anchor(m[k]);
        }
        b_must(ctx, tllm_snnet_open(ctx, a, 2, seed, &net));
        if (!way) b_must(ctx, tllm_snnet_init(net, &task.train, 500, NULL));
        b_must(ctx, tllm_snnet_measure(net, &task.test, r->params, NULL, r->before[way]));
        bsn_fit(ctx, net, &task, soon, 1e-3, seed);
        b_must(ctx, tllm_snnet_measure(net, &task.test, NULL, NULL, r->soon[way]));
        if (!way) {                         /* the whole run begins again from the same first values */
            for (k = 0; k < 2; k++) bsn_copy(trained[k], m[k]);
            b_must(ctx, tllm_snnet_init(net, &task.train, 500, NULL));
            bsn_fit(ctx, net, &task, shared, 1e-3, seed);
            b_must(ctx, tllm_snnet_measure(net, &task.test, NULL, NULL, r->after));
        }
        tllm_snnet_close(net);
        for (k = 0; k < 2; k++) tllm_resmlp_close(m[k]);
    }
    for (k = 0; k < BSN_ALONE; k++)
        tllm_resmlp_close(
            bsn_alone_of(ctx, &task, bsn_alone[k], anchor_steps, seed, &r->alone[k], &r->alone_params[k]));
    for (k = 0; k < 2; k++) tllm_resmlp_close(trained[k]);
    tllm_nn_task_close(ctx, &task);
}

/* mean, least and most over the seeds of the mean over the stitches */
static void bsn_spread(const bsn_result *r, int n, size_t at, double out[3])
{
    int s, k;
    out[0] = 0.0;
    out[1] = 1.0;
    out[2] = 0.0;
    for (s = 0; s < n; s++) {
        const double *x = (const double *)(const void *)((const char *)&r[s] + at);
        double mean = 0.0;
        for (k = 2; k < BSN_NETS; k++) mean += x[k] / (BSN_NETS - 2);
        out[0] += mean / n;
        if (mean < out[1]) out[1] = mean;
        if (mean > out[2]) out[2] = mean;
    }
}

/* ---- a switch of a session between the story models */
typedef struct bsn_switch { tllm_session *s; tiny_ctx *ctx; size_t k[2]; int turn; const char *path; } bsn_switch;
static void bsn_turn(void *user)
{
    bsn_switch *q = (bsn_switch *)user;
    q->turn ^= 1;
    b_must(q->ctx, tllm_session_stitch(q->s, q->k[q->turn], NULL));
}
static void bsn_load(void *user)            /* what a program without stitches does: another file, the text again */
{
    bsn_switch *q = (bsn_switch *)user;
    tllm_session *s = NULL;
    const int32_t *token;
    size_t n;
    token = tllm_session_tokens(q->s, &n);
    b_must(q->ctx, tllm_session_open(q->ctx, q->path, NULL, &s));
    b_must(q->ctx, tllm_session_feed(s, token, n, NULL));
    tllm_session_close(s);
}

static void bsn_sessions(void)
{
    static const char *const path[2] = { "examples/models/story-small.gguf", "examples/models/story.gguf" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g[2];
    tllm_join *j = NULL;
    tllm_writer *w = NULL;
    int32_t token[512];
    bsn_switch q;
    b_row row[2];
    const void *bytes;
    size_t n_bytes, i;
    int k;
    for (i = 0; i < 512; i++) token[i] = (int32_t)(260 + i * 37 % 284);
    for (k = 0; k < 2; k++) b_must(ctx, tllm_gguf_open(ctx, path[k], &g[k]));
    b_must(ctx, tllm_join_open(ctx, g[0], g[1], NULL, &j));
    b_must(ctx, tllm_join_fit(ctx, j, token, 512));
    b_must(ctx, tllm_writer_open(ctx, NULL, &w));
    b_must(ctx, tllm_join_put(ctx, j, NULL, w));
    b_must(ctx, tllm_writer_finish(ctx, w));
    bytes = tllm_writer_memory(w, &n_bytes);
    memset(&q, 0, sizeof q);
    q.ctx = ctx;
    q.k[0] = 8;
    q.k[1] = 9;
    q.path = path[1];
    b_must(ctx, tllm_session_open_memory(ctx, bytes, n_bytes, NULL, &q.s));
    b_must(ctx, tllm_session_feed(q.s, token, 32, NULL));
    memset(row, 0, sizeof row);
    row[0].what = "switch to another network";
    row[0].target = tiny_target_name(tiny_ctx_target(ctx));
    row[0].run = bsn_turn;
    row[1].what = "open story.gguf, read the text";
    row[1].target = "two files";
    row[1].run = bsn_load;
    for (k = 0; k < 2; k++) {
        b_shape(&row[k], "32 tokens");
        row[k].threads = 1;
        row[k].arg = &q;
    }
    b_contest("stitched story models, one thread", row, 2);
    tllm_session_close(q.s);
    tllm_writer_close(ctx, w);
    tllm_join_close(ctx, j);
    for (k = 0; k < 2; k++) tllm_gguf_close(ctx, g[k]);
    tiny_ctx_close(ctx);
}

void bench_snnet(void)
{
    static bsn_result r[BSN_SEEDS];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    const int n = b_quick ? 1 : BSN_SEEDS;
    double x[2][BSN_NETS], y[2][BSN_NETS], ls[3], random[3], soon[3], soon_random[3], after[3], first = 0, last = 0;
    double small = 0, large = 0;
    b_curve curve[2];
    int s, k;
    for (s = 0; s < n; s++) bsn_seed(ctx, (uint64_t)s + 1, &r[s]);
    bsn_spread(r, n, offsetof(bsn_result, before[0]), ls);
    bsn_spread(r, n, offsetof(bsn_result, before[1]), random);
    bsn_spread(r, n, offsetof(bsn_result, soon[0]), soon);
    bsn_spread(r, n, offsetof(bsn_result, soon[1]), soon_random);
    bsn_spread(r, n, offsetof(bsn_result, after), after);
    for (k = 0; k < BSN_NETS; k++) {
        double mean = 0, least = 1, most = 0;
        for (s = 0; s < n; s++) {
            const double v = r[s].after[k];
            mean += v / n;
            if (v < least) least = v;
            if (v > most) most = v;
        }
        x[0][k] = r[0].params[k] / 1000;
        y[0][k] = 100 * (1 - mean);
        if (k == 0) small = mean;
        if (k == 1) large = mean;
        if (k == 2) first = mean;
        if (k == BSN_NETS - 1) last = mean;
        b_note("MIX60, network %d: %.1f thousand weights, %.1f %% right (%.1f to %.1f) after the shared steps; before "
               "any %.1f by least squares, %.1f random",
               k, x[0][k], 100 * mean, 100 * least, 100 * most, 100 * r[0].before[0][k], 100 * r[0].before[1][k]);
    }
    for (k = 0; k < BSN_ALONE; k++) {
        double mean = 0;
        for (s = 0; s < n; s++) mean += r[s].alone[k] / n;
        x[1][k] = r[0].alone_params[k] / 1000;
        y[1][k] = 100 * (1 - mean);
        b_note("MIX60, %d wide, trained alone: %.1f thousand weights, %.1f %% right", (int)bsn_alone[k],
               x[1][k], 100 * mean);
    }
    b_verdict("right before any training, least squares over random values", ls[0] / random[0], ">", 3);
    b_verdict("points that least squares are ahead after 300 shared steps", 100 * (soon[0] - soon_random[0]), ">", 5);
    /* a line from the smallest to the largest */
    for (k = 1; k < BSN_NETS; k++) {
        int at = k;
        for (; at > 0 && x[0][at] < x[0][at - 1]; at--) {
            const double tx = x[0][at], ty = y[0][at];
            x[0][at] = x[0][at - 1];
            y[0][at] = y[0][at - 1];
            x[0][at - 1] = tx;
            y[0][at - 1] = ty;
        }
    }
    curve[0].name = "18 networks of one training";
    curve[1].name = "trained one by one";
    for (k = 0; k < 2; k++) {
        curve[k].x = x[k];
        curve[k].y = y[k];
        curve[k].n = k ? BSN_ALONE : BSN_NETS;
    }
    if (!b_quick)
        b_svg("snnet", "MIX60: networks stitched of 20 and 64 channels", "thousand weights", "% wrong", curve, 2);
    b_headline("snnet", "SN-Net: one network covers 71 points between DeiT-Ti, S and B, after 50 epochs",
               "MIX60, residual networks of 6 blocks, 20 and 64 wide: 16 stitches, 5 linear layers; 3 seeds (worst to "
               "best); Adam 1e-3",
               "stitches before any training: least squares %.1f (%.1f to %.1f) %%, random %.1f (%.1f to %.1f); "
               "after 300 shared steps %.1f (%.1f to %.1f), %.1f (%.1f to %.1f); after 6000 steps %.1f (%.1f to %.1f): "
               "%.1f for the earliest switch, %.1f for the latest, the two models %.1f and %.1f",
               100 * ls[0], 100 * ls[1], 100 * ls[2], 100 * random[0], 100 * random[1], 100 * random[2], 100 * soon[0],
               100 * soon[1], 100 * soon[2], 100 * soon_random[0], 100 * soon_random[1], 100 * soon_random[2],
               100 * after[0], 100 * after[1], 100 * after[2], 100 * first, 100 * last, 100 * small, 100 * large);
    tiny_ctx_close(ctx);
    bsn_sessions();
}
#endif
