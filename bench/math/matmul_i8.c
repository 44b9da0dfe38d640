/* bench/math/matmul_i8.c - int8 products compared with the int8 peak and with oneDNN */
#include "../bench.h"
#include "../peers/peers.h"
#include <stdio.h>
#include <string.h>

typedef struct bi_arg { tiny_ctx *ctx; int m, n, k; int8_t *a, *b; int32_t *y; const b_peers *peers; } bi_arg;

static void bi_ours(void *arg)
{
    bi_arg *g = (bi_arg *)arg;
    tiny_tensor a = tiny_tensor_2d(g->a, TINY_I8, g->m, g->k),
                b = tiny_tensor_swap(tiny_tensor_2d(g->b, TINY_I8, g->n, g->k), 0, 1),
                y = tiny_tensor_2d(g->y, TINY_I32, g->m, g->n);
    b_must(g->ctx, tiny_matmul_i8(g->ctx, &a, &b, NULL, NULL, NULL, TINY_ACT_NONE, &y));
}

static void bi_dnnl(void *arg)
{
    bi_arg *g = (bi_arg *)arg;
    static const int32_t zero[1] = { 0 };
    (void)g->peers->dnnl_s8('N', 'T', 'F', g->m, g->n, g->k, 1.0f, g->a, g->k, 0, g->b, g->k, 0, 0.0f, g->y, g->n,
                            zero);
}

void bench_matmul_i8(void)
{
    static const int shapes[][3] = { { 512, 512, 512 }, { 2048, 2048, 2048 }, { 32, 4096, 4096 } };
    enum { N = sizeof shapes / sizeof *shapes };
    const b_peers *peers = b_peers_load(b_threads);
    int8_t *a = (int8_t *)b_alloc((size_t)1 << 24), *b = (int8_t *)b_alloc((size_t)1 << 24);
    int32_t *y = (int32_t *)b_alloc((size_t)1 << 24);
    static const tiny_target targets[] = { TINY_TARGET_AMX, TINY_TARGET_AVX512, TINY_TARGET_AVX2, TINY_TARGET_NEON };
    tiny_ctx *ctx[4] = { NULL, NULL, NULL, NULL };
    int i, t;
    for (t = 0; t < 4; t++) if (tiny_target_runs_here(targets[t])) ctx[t] = b_ctx(targets[t], b_threads);
    for (i = 0; i < N; i++) {
        b_row rows[5];
        bi_arg args[5];
        char text[96];
        int best = -1;
        memset(rows, 0, sizeof rows);
        for (t = 0; t < 5; t++) {
            bi_arg *g = &args[t];
            g->ctx = t < 4 ? ctx[t] : NULL;
            g->m = shapes[i][0]; g->n = shapes[i][1]; g->k = shapes[i][2];
            g->a = a; g->b = b; g->y = y;
            g->peers = peers;
            rows[t].what = "matmul int8";
            rows[t].target = t < 4 ? tiny_target_name(targets[t]) : "oneDNN";
            rows[t].run = t < 4 ? (ctx[t] ? bi_ours : NULL) : peers->dnnl_s8 ? bi_dnnl : NULL;
            rows[t].arg = g;
            rows[t].threads = b_threads;
            rows[t].limit = B_I8;
            rows[t].flops = 2.0 * g->m * g->n * (double)g->k;
            rows[t].bytes = (double)g->m * g->k + (double)g->n * g->k + 4.0 * g->m * g->n;
            b_shape(&rows[t], "%dx%dx%d", g->m, g->n, g->k);
            if (t < 4 && rows[t].run && best < 0) best = t;
        }
        b_contest("Matrix product, int8", rows, 5);
        if (rows[4].run && best >= 0) {
            (void)snprintf(text, sizeof text, "int8 %s over oneDNN", rows[best].shape);
            b_verdict(text, rows[4].median_ns / rows[best].median_ns, ">", 0.9);
        }
    }
    for (t = 0; t < 4; t++) tiny_ctx_close(ctx[t]);
}
