/* bench/math/matmul.c - f32 products compared with the f32 peak and with the libraries of bench/peers */
#include "../bench.h"
#include "../peers/peers.h"
#include <stdio.h>
#include <string.h>

typedef struct bm_arg {
    tiny_ctx *ctx;
    tiny_tensor a, b, y;
    const b_peers *peers;
    float *fa, *fb, *fy;
    int m, n, k;
} bm_arg;

static void bm_ours(void *arg)
{
    bm_arg *g = (bm_arg *)arg;
    b_must(g->ctx, tiny_matmul(g->ctx, &g->a, &g->b, NULL, TINY_ACT_NONE, &g->y));
}
/* row-major 101, not transposed 111, transposed 112: b is (n, k), as weights are */
static void bm_openblas(void *arg)
{
    bm_arg *g = (bm_arg *)arg;
    g->peers->openblas_sgemm(101, 111, 112, g->m, g->n, g->k, 1.0f, g->fa, g->k, g->fb, g->k, 0.0f, g->fy, g->n);
}
static void bm_mkl(void *arg)
{
    bm_arg *g = (bm_arg *)arg;
    g->peers->mkl_sgemm(101, 111, 112, g->m, g->n, g->k, 1.0f, g->fa, g->k, g->fb, g->k, 0.0f, g->fy, g->n);
}
static void bm_dnnl(void *arg)
{
    bm_arg *g = (bm_arg *)arg;
    (void)g->peers->dnnl_sgemm('N', 'T', g->m, g->n, g->k, 1.0f, g->fa, g->k, g->fb, g->k, 0.0f, g->fy, g->n);
}

static void bm_plain(void *arg)
{
    bm_arg *g = (bm_arg *)arg;
    int i, j, k;
    for (i = 0; i < g->m; i++)
        for (j = 0; j < g->n; j++) {
            float s = 0;
            for (k = 0; k < g->k; k++) s += g->fa[i * g->k + k] * g->fb[j * g->k + k];
            g->fy[i * g->n + j] = s;
        }
}

static void bm_row(b_row *r, bm_arg *g, const char *by, void (*run)(void *), int threads)
{
    memset(r, 0, sizeof *r);
    r->what = "matmul f32";
    r->target = by;
    r->run = run;
    r->arg = g;
    r->threads = threads;
    r->limit = B_F32;
    r->flops = 2.0 * g->m * g->n * (double)g->k;
    r->bytes = 4.0 * ((double)g->m * g->k + (double)g->n * g->k + (double)g->m * g->n);
    b_shape(r, "%dx%dx%d", g->m, g->n, g->k);
}

static bm_arg bm_make(tiny_ctx *ctx, int m, int n, int k, const b_peers *peers, float *a, float *b, float *y)
{
    bm_arg g;
    g.ctx = ctx;
    g.m = m; g.n = n; g.k = k;
    g.fa = a; g.fb = b; g.fy = y;
    g.peers = peers;
    g.a = tiny_tensor_2d(a, TINY_F32, m, k);
    g.b = tiny_tensor_swap(tiny_tensor_2d(b, TINY_F32, n, k), 0, 1);
    g.y = tiny_tensor_2d(y, TINY_F32, m, n);
    return g;
}

void bench_matmul(void)
{
    static const int shapes[][3] = { { 512, 512, 512 }, { 2048, 2048, 2048 }, { 32, 4096, 4096 }, { 1, 4096, 4096 } };
    enum { N = sizeof shapes / sizeof *shapes, CURVE = 11 };
    const b_peers *peers = b_peers_load(b_threads);
    float *a = (float *)b_alloc((size_t)1 << 26), *b = (float *)b_alloc((size_t)1 << 26),
          *y = (float *)b_alloc((size_t)1 << 26);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const char *target = tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL));
    double x[CURVE], ours[CURVE], peak[CURVE];
    b_curve curves[2];
    int i, j;
    for (i = 0; i < N; i++) {
        b_row rows[5];
        bm_arg g = bm_make(ctx, shapes[i][0], shapes[i][1], shapes[i][2], peers, a, b, y);
        double best = 0, rate;
        char text[96];
        bm_row(&rows[0], &g, target, bm_ours, b_threads);
        bm_row(&rows[1], &g, "OpenBLAS", peers->openblas_sgemm ? bm_openblas : NULL, b_threads);
        bm_row(&rows[2], &g, "oneDNN", peers->dnnl_sgemm ? bm_dnnl : NULL, b_threads);
        bm_row(&rows[3], &g, "MKL", peers->mkl_sgemm ? bm_mkl : NULL, b_threads);
        bm_row(&rows[4], &g, "three loops", g.m * (double)g.n * g.k < 2e8 ? bm_plain : NULL, 1);
        b_contest("Matrix product, f32", rows, 5);
        rate = rows[0].flops / rows[0].median_ns;
        if (g.m > 8) {
            (void)snprintf(text, sizeof text, "%s over the f32 peak", rows[0].shape);
            b_verdict(text, rate * 1e9 / b_max[1].f32, ">", 0.6);
        }
        for (j = 1; j < 4; j++)
            if (rows[j].run && rows[j].flops / rows[j].median_ns > best) best = rows[j].flops / rows[j].median_ns;
        if (best > 0) {
            (void)snprintf(text, sizeof text, "%s over the fastest rival", rows[0].shape);
            b_verdict(text, rate / best, ">", 1.0);
        }
    }
    for (i = 0; i < CURVE; i++) {
        int n = (int)(32.0 * (i % 2 ? 1.5 : 1.0) * (double)(1 << i / 2));
        b_row row;
        bm_arg g = bm_make(ctx, n, n, n, peers, a, b, y);
        bm_row(&row, &g, target, bm_ours, b_threads);
        b_contest("Matrix product, f32, square", &row, 1);
        x[i] = n;
        ours[i] = row.flops / row.median_ns;
        peak[i] = b_max[1].f32 * 1e-9;
    }
    curves[0].name = target; curves[0].x = x; curves[0].y = ours; curves[0].n = CURVE;
    curves[1].name = "peak measured"; curves[1].x = x; curves[1].y = peak; curves[1].n = CURVE;
    b_svg("bench-matmul", "f32 matrix product, n x n x n, all threads", "n", "Gop/s", curves, 2);
    tiny_ctx_close(ctx);
}
