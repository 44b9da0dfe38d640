/* bench/llm/nets.c - sparse networks: an epoch of M128 with a mask and without, against the same epoch in plain loops;
 * GradSign as products of signs against one pass a sample, as published; the exact choice of the best weights;
 * products with shared weights against those of the same weights in memory */
#include "../bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef TINYLLM_NO_NETS
void bench_nets(void) { }
#else

enum { BN_B = 100, BN_STEPS = 60, BN_N = 21760 };
static const int bn_size[4] = { 32, 128, 128, 10 };

/* ---- M128 in plain loops: a step of 100 samples with Adam, or the signs of the gradient of each sample. The inner
 * loops run over numbers that lie side by side: compilers make vectors of them. */
typedef struct bn_plain {
    float *w, *g, *m, *v, *keep;            /* weights of all layers, one after the other */
    float *a[4], *d[4];                     /* a[0] is not used */
    float b[3][128], gb[3][128], mb[3][128], vb[3][128];
    const float *x;
    const int32_t *label;
    int16_t *sum;
    int steps;
} bn_plain;

static void bn_pass(bn_plain *q, int from, int n)
{
    const float *w = q->w, *keep = q->keep;
    int l, s, i, j;
    for (l = 0; l < 3; w += bn_size[l] * bn_size[l + 1], keep += bn_size[l] * bn_size[l + 1], l++)
        for (s = 0; s < n; s++)
            for (i = 0; i < bn_size[l + 1]; i++) {
                const float *row = w + i * bn_size[l], *mask = keep + i * bn_size[l],
                            *x = (l ? q->a[l] : q->x + from * 32) + s * bn_size[l];
                float sum[8] = { 0, 0, 0, 0, 0, 0, 0, 0 }, y;
                for (j = 0; j < bn_size[l]; j += 8) {
                    int k;
                    for (k = 0; k < 8; k++) sum[k] += row[j + k] * mask[j + k] * x[j + k];
                }
                y = q->b[l][i] + ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
                q->a[l + 1][s * bn_size[l + 1] + i] = l < 2 && y < 0.0f ? 0.0f : y;
            }
    for (s = 0; s < n; s++) {
        float *y = q->a[3] + s * 10, *d = q->d[3] + s * 10, top = y[0], sum = 0.0f;
        for (i = 1; i < 10; i++) if (y[i] > top) top = y[i];
        for (i = 0; i < 10; i++) sum += d[i] = expf(y[i] - top);
        for (i = 0; i < 10; i++) d[i] = (d[i] / sum - (i == q->label[from + s] ? 1.0f : 0.0f)) / (float)n;
    }
    memset(q->g, 0, BN_N * sizeof(float));
    memset(q->gb, 0, sizeof q->gb);
    for (l = 2; l >= 0; l--) {
        const int n_in = bn_size[l], n_out = bn_size[l + 1], at = l == 2 ? 20480 : l == 1 ? 4096 : 0;
        memset(q->d[l], 0, (size_t)(n * n_in) * sizeof(float));
        for (s = 0; s < n; s++)
            for (i = 0; i < n_out; i++) {
                const float e = q->d[l + 1][s * n_out + i], *x = (l ? q->a[l] : q->x + from * 32) + s * n_in,
                            *row = q->w + at + i * n_in, *mask = q->keep + at + i * n_in;
                float *g = q->g + at + i * n_in, *d = q->d[l] + s * n_in;
                if (e == 0.0f) continue;
                q->gb[l][i] += e;
                for (j = 0; j < n_in; j++) g[j] += e * x[j];
                if (l) for (j = 0; j < n_in; j++) d[j] += e * row[j] * mask[j];
            }
        for (i = 0; l && i < n * n_in; i++) if (q->a[l][i] <= 0.0f) q->d[l][i] = 0.0f;
    }
}

static void bn_adam(float *w, const float *g, float *m, float *v, int n, float rate, float root)
{
    int i;
    for (i = 0; i < n; i++) {
        m[i] += 0.1f * (g[i] - m[i]);
        v[i] += 0.001f * (g[i] * g[i] - v[i]);
        w[i] -= rate * m[i] / (sqrtf(v[i]) * root + 1e-8f);
    }
}

static void bn_epoch_loops(void *arg)
{
    bn_plain *q = (bn_plain *)arg;
    int step, l, i;
    for (step = 0; step < BN_STEPS; step++) {
        float rate, root;
        bn_pass(q, step * BN_B, BN_B);
        for (i = 0; i < BN_N; i++) q->g[i] *= q->keep[i];
        q->steps++;
        rate = (float)(2e-3 / (1.0 - pow(0.9, q->steps)));
        root = (float)(1.0 / sqrt(1.0 - pow(0.999, q->steps)));
        bn_adam(q->w, q->g, q->m, q->v, BN_N, rate, root);
        for (l = 0; l < 3; l++) bn_adam(q->b[l], q->gb[l], q->mb[l], q->vb[l], bn_size[l + 1], rate, root);
    }
}

static void bn_signs_loops(void *arg)
{
    bn_plain *q = (bn_plain *)arg;
    int s, i;
    memset(q->sum, 0, BN_N * sizeof *q->sum);
    for (s = 0; s < 64; s++) {
        bn_pass(q, s, 1);
        for (i = 0; i < BN_N; i++) q->sum[i] = (int16_t)(q->sum[i] + (q->g[i] > 0.0f) - (q->g[i] < 0.0f));
    }
}

/* ---- ours */

typedef struct bn_net { tiny_ctx *ctx; tllm_nn *nn; tllm_nn_task *task; tllm_nn_set first; int plain; } bn_net;

static void bn_epoch(void *arg)
{
    bn_net *b = (bn_net *)arg;
    tllm_nn_fit_desc d;
    memset(&d, 0, sizeof d);
    d.epochs = 1;
    b_must(b->ctx, tllm_nn_fit(b->nn, &b->task->train, &d, NULL));
}

static void bn_signs(void *arg)
{
    bn_net *b = (bn_net *)arg;
    tllm_proxy_desc d;
    double score;
    memset(&d, 0, sizeof d);
    d.data = &b->first;
    d.plain = b->plain;
    b_must(b->ctx, tllm_nn_proxy(b->nn, &d, &score));
}

typedef struct bn_top { tiny_ctx *ctx; tllm_mask mask; double *score; size_t *order; size_t n; } bn_top;
static const double *bn_score;
static int bn_by_score(const void *p, const void *q)
{
    const size_t a = *(const size_t *)p, b = *(const size_t *)q;
    return bn_score[a] < bn_score[b] ? -1 : bn_score[a] > bn_score[b] ? 1 : a < b ? -1 : a > b;
}
static void bn_top_ours(void *arg)
{
    bn_top *t = (bn_top *)arg;
    b_must(t->ctx, tllm_mask_top(t->ctx, &t->mask, 0, t->n, t->score, t->n / 10));
}
static void bn_top_qsort(void *arg)
{
    bn_top *t = (bn_top *)arg;
    size_t i;
    for (i = 0; i < t->n; i++) t->order[i] = i;
    bn_score = t->score;
    qsort(t->order, t->n, sizeof *t->order, bn_by_score);
    for (i = 0; i < t->n; i++) tllm_mask_put(&t->mask, t->order[i], i >= t->n - t->n / 10);
}

static void bn_sorting(void)
{
    bn_top t;
    b_row r[2];
    tiny_rng rng = tiny_rng_make(1, 1);
    size_t i;
    memset(&t, 0, sizeof t);
    memset(r, 0, sizeof r);
    t.ctx = b_ctx(TINY_TARGET_AUTO, 1);
    t.n = b_quick ? 21760 : 807936;         /* M128; 32-512-512-512-512-10 */
    t.score = (double *)b_alloc(t.n * sizeof *t.score);
    t.order = (size_t *)b_alloc(t.n * sizeof *t.order);
    for (i = 0; i < t.n; i++) t.score[i] = fabs((double)tiny_rng_normal(&rng));
    b_must(t.ctx, tllm_mask_open(t.ctx, t.n, &t.mask));
    for (i = 0; i < 2; i++) {
        r[i].what = i ? "exact top 10 %" : "exact top 10 %, qsort";
        r[i].target = i ? "C" : "libc";
        r[i].threads = 1;
        r[i].run = i ? bn_top_ours : bn_top_qsort;
        r[i].arg = &t;
        b_shape(&r[i], "%lu", (unsigned long)t.n);
    }
    b_contest("Choice of the best weights of a network", r, 2);
    tllm_mask_close(t.ctx, &t.mask);
    b_free(t.score);
    b_free(t.order);
    tiny_ctx_close(t.ctx);
}

/* ---- a layer whose weights are read from a short array */

typedef struct bn_share { tiny_ctx *ctx; tllm_share *share; tiny_tensor x, w, y; } bn_share;
static void bn_share_dense(void *arg)
{
    bn_share *b = (bn_share *)arg;
    b_must(b->ctx, tiny_matmul(b->ctx, &b->x, &b->w, NULL, 0, &b->y));
}
static void bn_share_fused(void *arg)
{
    bn_share *b = (bn_share *)arg;
    b_must(b->ctx, tllm_share_linear(b->share, 0, &b->x, &b->y));
}
static void bn_share_gather(void *arg)
{
    bn_share *b = (bn_share *)arg;
    tiny_tensor w = tiny_tensor_1d(b->w.data, TINY_F32, b->w.dim[0] * b->w.dim[1]);
    b_must(b->ctx, tllm_share_gather(b->share, 0, &w));
    bn_share_dense(arg);
}

/* 1 and 8 rows of x; W of n x n numbers, 64 MB in a whole run, from 64 Ki of them: 256 KB, the size of a cache */
static void bn_sharing(void)
{
    static const char *const what[4] = { "x W^T, W in memory", "W made again, then x W^T", "shared, folded",
                                         "shared, tiles of 32 x 32" };
    const tiny_idx n = b_quick ? 1024 : 4096;
    tllm_share_matrix shape;
    tllm_share_desc d;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    float *w = (float *)b_alloc((size_t)(n * n) * sizeof *w), *x = (float *)b_alloc((size_t)(8 * n) * sizeof *x),
          *y = (float *)b_alloc((size_t)(8 * n) * sizeof *y);
    double ratio[2], tiles = 0.0;
    bn_share b[4];
    b_row r[4];
    tiny_idx rows;
    int k;
    memset(&shape, 0, sizeof shape);
    memset(&d, 0, sizeof d);
    shape.rows = shape.cols = n;
    shape.sigma = sqrt(2.0 / (double)n);
    d.matrix = &shape;
    d.n_matrix = 1;
    d.m = 65536;
    for (rows = 1; rows <= 8; rows += 7) {
        memset(b, 0, sizeof b);
        memset(r, 0, sizeof r);
        for (k = 0; k < 4; k++) {
            b[k].ctx = ctx;
            d.map = k == 3 ? TLLM_SHARE_TILE : TLLM_SHARE_FOLD;
            b_must(ctx, tllm_share_open(ctx, &d, &b[k].share));
            b[k].x = tiny_tensor_2d(x, TINY_F32, rows, n);
            b[k].y = tiny_tensor_2d(y, TINY_F32, rows, n);
            b[k].w = tiny_tensor_2d(w, TINY_F32, n, n);
            b[k].w.stride[0] = 1;
            b[k].w.stride[1] = n;
            r[k].what = what[k];
            r[k].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL));
            r[k].threads = 1;
            r[k].run = k == 0 ? bn_share_dense : k == 1 ? bn_share_gather : bn_share_fused;
            r[k].arg = &b[k];
            r[k].flops = 2.0 * (double)rows * (double)n * (double)n;
            r[k].bytes = k < 2 ? 4.0 * (double)n * (double)n : 4.0 * 65536.0;
            r[k].limit = k ? B_F32 : B_READ;
            b_shape(&r[k], "%td x %td x %td", (ptrdiff_t)rows, (ptrdiff_t)n, (ptrdiff_t)n);
        }
        b_contest(rows == 1 ? "Shared weights: one row of x" : "Shared weights: eight rows of x", r, 4);
        ratio[rows > 1] = r[0].median_ns / r[2].median_ns;
        if (rows == 1) tiles = r[0].median_ns / r[3].median_ns;
        for (k = 0; k < 4; k++) tllm_share_close(b[k].share);
    }
    b_verdict("one row: dense from memory over shared, folded", ratio[0], ">=", 1.0);
    b_headline("rps", "the weights of a layer come from a cache instead of memory",
               "a layer of 4096 x 4096 from 65536 numbers, one thread; the dense product reads 64 MB",
               "%.2f times as fast as the dense product for one row of x (tiles %.2f), %.2f for eight", ratio[0], tiles,
               ratio[1]);
    b_free(w);
    b_free(x);
    b_free(y);
    tiny_ctx_close(ctx);
}

/* ---- geometry of features, compared with counting the right answers alone */

static void bn_right(void *arg)
{
    bn_net *b = (bn_net *)arg;
    tiny_idx right;
    b_must(b->ctx, tllm_nn_right(b->nn, &b->first, &right));
}
static void bn_geometry(void *arg)
{
    bn_net *b = (bn_net *)arg;
    tllm_geometry g;
    b_must(b->ctx, tllm_nn_geometry(b->nn, &b->first, &g));
    tllm_geometry_close(b->ctx, &g);
}
static void bn_robust(const tllm_nn_desc *d, const tllm_nn_task *task)
{
    bn_net b;
    b_row r[2];
    int k;
    memset(&b, 0, sizeof b);
    memset(r, 0, sizeof r);
    b.ctx = b_ctx(TINY_TARGET_AUTO, 1);
    b.first = task->test;
    b_must(b.ctx, tllm_nn_open(b.ctx, d, &b.nn));
    for (k = 0; k < 2; k++) {
        r[k].what = k ? "features and their geometry" : "right answers alone";
        r[k].target = k ? "C, double" : tiny_target_name(tiny_op_target(b.ctx, TINY_OP_MATMUL));
        r[k].threads = 1;
        r[k].run = k ? bn_geometry : bn_right;
        r[k].arg = &b;
        b_shape(&r[k], "3000 samples of M128");
    }
    b_contest("Geometry of features", r, 2);
    b_headline("robustness", "the geometry of the last layer explains what breaks", "3000 samples of M128, one thread",
               "%.1f ms, %.1f times the time of counting the right answers", r[1].median_ns * 1e-6,
               r[1].median_ns / r[0].median_ns);
    tllm_nn_close(b.nn);
    tiny_ctx_close(b.ctx);
}

void bench_nets(void)
{
    static const char *const what[7] = { "M128 epoch, plain loops",
                                         "M128 epoch",
                                         "M128 epoch, 90 % masked",
                                         "M128 epoch, 90 % masked",
                                         "GradSign, plain loops",
                                         "GradSign, a pass a sample",
                                         "GradSign, product of signs" };
    static bn_plain plain;
    tllm_nn_layer l[3];
    tllm_nn_desc d;
    tllm_nn_task task;
    tllm_mask mask;
    bn_net net[7];
    b_row r[7];
    tiny_ctx *ctx[2];
    size_t i;
    int k;
    memset(l, 0, sizeof l);
    memset(&d, 0, sizeof d);
    memset(net, 0, sizeof net);
    memset(r, 0, sizeof r);
    l[0].n_out = l[1].n_out = 128;
    l[0].relu = l[1].relu = 1;
    l[2].n_out = 10;
    d.in[0] = 32; d.layer = l; d.n_layer = 3; d.seed = 1;
    ctx[0] = b_ctx(TINY_TARGET_AUTO, 1);
    ctx[1] = b_ctx(TINY_TARGET_AUTO, b_threads);
    b_must(ctx[0], tllm_nn_task_open(ctx[0], TLLM_TASK_MIX60, 1, 0, 0, &task));
    b_must(ctx[0], tllm_mask_open(ctx[0], BN_N, &mask));
    for (i = 0; i < BN_N; i++) tllm_mask_put(&mask, i, i % 10 == 0);
    plain.x = (const float *)task.train.x.data;
    plain.label = (const int32_t *)task.train.label.data;
    plain.w = (float *)b_alloc(BN_N * 5 * sizeof(float));
    plain.g = plain.w + BN_N;
    plain.m = plain.g + BN_N;
    plain.v = plain.m + BN_N;
    plain.keep = plain.v + BN_N;
    memset(plain.m, 0, 2 * BN_N * sizeof(float));
    plain.sum = (int16_t *)b_alloc(BN_N * sizeof *plain.sum);
    for (i = 0; i < BN_N; i++) plain.keep[i] = i % 10 == 0 ? 1.0f : 0.0f;
    for (k = 0; k < 4; k++) {
        plain.a[k] = k ? (float *)b_alloc(BN_B * 128 * sizeof(float)) : NULL;
        plain.d[k] = (float *)b_alloc(BN_B * 128 * sizeof(float));
    }
    for (k = 0; k < 7; k++) {
        const int loops = k == 0 || k == 4, threads = k == 3 ? 1 : 0;
        net[k].ctx = ctx[threads];
        net[k].task = &task;
        net[k].first = task.train;
        net[k].first.x.dim[0] = net[k].first.label.dim[0] = 64;
        net[k].plain = k == 5;
        if (!loops) b_must(net[k].ctx, tllm_nn_open(net[k].ctx, &d, &net[k].nn));
        if (k == 2 || k == 3) b_must(net[k].ctx, tllm_nn_mask(net[k].nn, &mask));
        r[k].what = what[k];
        r[k].run = k == 0 ? bn_epoch_loops : k == 4 ? bn_signs_loops : k < 4 ? bn_epoch : bn_signs;
        r[k].arg = loops ? (void *)&plain : (void *)&net[k];
        r[k].target = loops ? "C" : tiny_target_name(tiny_op_target(net[k].ctx, TINY_OP_MATMUL));
        r[k].threads = threads ? b_threads : 1;
        r[k].flops = k < 4 ? 6.0 * BN_N * BN_B * BN_STEPS : 0.0;
        r[k].limit = k < 4 ? B_F32 : B_NONE;
        b_shape(&r[k], k < 4 ? "%d x 100 samples" : "%d samples, 21760 w", k < 4 ? BN_STEPS : 64);
    }
    {
        const tllm_nn_weight *w = tllm_nn_weights(net[1].nn, NULL);
        memcpy(plain.w, w[0].value.data, BN_N * sizeof(float));
    }
    b_contest("Sparse networks: training with a mask, GradSign", r, 7);
    b_verdict("masked epoch over plain loops, one thread", r[2].median_ns / r[0].median_ns, "<=", 1.3);
    b_verdict("masked epoch over one without a mask", r[2].median_ns / r[1].median_ns, "<=", 1.3);
    b_verdict("GradSign: loops over product of signs", r[4].median_ns / r[6].median_ns, ">", 1.0);
    b_headline("gradual", "training with masks costs little next to dense training",
               "an epoch of M128, 60 batches of 100, Adam, 90 % masked, one thread",
               "%.2f of the time of plain loops with a mask, %.2f of that of our dense epoch (%.1f ms)",
               r[2].median_ns / r[0].median_ns, r[2].median_ns / r[1].median_ns, r[1].median_ns * 1e-6);
    b_headline("gradsign", "scores in seconds instead of trainings",
               "M128 untrained, 64 samples, one thread",
               "%.2f ms: %.1f times as fast as one pass a sample, %.1f times as plain loops, %.4f of a training",
               r[6].median_ns * 1e-6, r[5].median_ns / r[6].median_ns, r[4].median_ns / r[6].median_ns,
               r[6].median_ns / (25.0 * r[1].median_ns));
    bn_robust(&d, &task);
    for (k = 0; k < 7; k++) tllm_nn_close(net[k].nn);
    for (k = 0; k < 4; k++) {
        if (k) b_free(plain.a[k]);
        b_free(plain.d[k]);
    }
    b_free(plain.w);
    b_free(plain.sum);
    tllm_mask_close(ctx[0], &mask);
    tllm_nn_task_close(ctx[0], &task);
    tiny_ctx_close(ctx[0]);
    tiny_ctx_close(ctx[1]);
    bn_sorting();
    bn_sharing();
}
#endif
