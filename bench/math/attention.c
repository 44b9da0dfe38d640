/* bench/math/attention.c - plain attention by tiles compared with the f32 peak and with the naive form that keeps all
 * scores
 *
 * Naive is the straightforward form with our own products: S = Q K^T for a head, softmax over rows with a mask for the
 * causal triangle, O = P V: n_query n_key floats of scores, written and read again. */
#include "../bench.h"
#include <math.h>
#include <string.h>

typedef struct ba_arg { tiny_ctx *ctx; tiny_tensor q, k, v, o, s, mask; tiny_attention_params p; } ba_arg;

static void ba_run(void *arg)
{
    ba_arg *a = (ba_arg *)arg;
    b_must(a->ctx, tiny_attention(a->ctx, &a->q, &a->k, &a->v, NULL, &a->p, &a->o));
}
static void ba_naive(void *arg)
{
    ba_arg *a = (ba_arg *)arg;
    tiny_softmax_params p;
    tiny_idx h;
    memset(&p, 0, sizeof p);
    for (h = 0; h < a->q.dim[1]; h++) {
        tiny_tensor q = b_head(&a->q, h), k = b_head(&a->k, h), v = b_head(&a->v, h), o = b_head(&a->o, h),
                    kt = tiny_tensor_swap(k, 0, 1);
        b_must(a->ctx, tiny_matmul(a->ctx, &q, &kt, NULL, TINY_ACT_NONE, &a->s));
        if (a->p.causal) b_must(a->ctx, tiny_add(a->ctx, &a->s, &a->mask, &a->s));
        p.scale = 1.0f / sqrtf((float)a->q.dim[2]);
        b_must(a->ctx, tiny_softmax(a->ctx, &a->s, &p, &a->s));
        b_must(a->ctx, tiny_matmul(a->ctx, &a->s, &v, NULL, TINY_ACT_NONE, &o));
    }
}

void bench_attention(void)
{
    /* queries, keys, heads, key heads, d, causal, naive */
    static const tiny_idx shapes[][7] = { { 512, 512, 12, 12, 64, 1, 0 }, { 512, 512, 8, 8, 128, 1, 0 },
                                          { 2048, 2048, 8, 8, 64, 1, 0 }, { 2048, 2048, 8, 8, 128, 1, 0 },
                                          { 2048, 2048, 8, 8, 64, 0, 0 }, { 2048, 2048, 8, 8, 64, 0, 1 },
                                          { 2048, 2048, 8, 8, 64, 1, 1 }, { 1, 2048, 32, 8, 128, 1, 0 } };
    enum { N = sizeof shapes / sizeof *shapes };
    float *x = (float *)b_alloc((size_t)1 << 26), *y = (float *)b_alloc((size_t)1 << 24),
          *s = (float *)b_alloc(sizeof(float) * 2048 * 2048), *mask = (float *)b_alloc(sizeof(float) * 2048 * 2048);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    b_row rows[N];
    ba_arg args[N];
    size_t j;
    int i;
    memset(rows, 0, sizeof rows);
    memset(args, 0, sizeof args);
    for (j = 0; j < 2048 * 2048; j++) mask[j] = j % 2048 > j / 2048 ? -INFINITY : 0.0f;
    for (i = 0; i < N; i++) {
        const tiny_idx *n = shapes[i];
        args[i].ctx = ctx;
        args[i].q = tiny_tensor_3d(x, TINY_F32, n[0], n[2], n[4]);
        args[i].k = tiny_tensor_3d(x + 1000, TINY_F32, n[1], n[3], n[4]);
        args[i].v = tiny_tensor_3d(x + ((size_t)1 << 23), TINY_F32, n[1], n[3], n[4]);
        args[i].o = tiny_tensor_3d(y, TINY_F32, n[0], n[2], n[4]);
        args[i].s = tiny_tensor_2d(s, TINY_F32, n[0], n[1]);
        args[i].mask = tiny_tensor_2d(mask, TINY_F32, n[0], n[1]);
        args[i].p.causal = n[5] != 0;
        rows[i].arg = &args[i];
        rows[i].run = n[6] ? ba_naive : ba_run;
        rows[i].what = n[6]       ? (n[5] ? "naive, causal" : "naive")
                       : n[0] > 1 ? (n[5] ? "prefill, causal" : "prefill")
                                  : "decode";
        rows[i].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_ATTENTION));
        rows[i].threads = b_threads;
        /* a causal square is half of the products */
        rows[i].flops = 4.0 * (double)(n[0] * n[2] * n[1] * n[4]) * (n[0] > 1 && n[5] ? 0.5 : 1.0);
        rows[i].bytes = 8.0 * (double)(n[1] * n[3] * n[4]);
        rows[i].limit = n[0] > 1 ? B_F32 : B_NONE;
        b_shape(&rows[i], "%tdx%td h%td/%td d%td", n[0], n[1], n[2], n[3], n[4]);
    }
    b_contest("Plain attention", rows, N);
    b_verdict("2048x2048 d64: naive / tiles", rows[5].median_ns / rows[4].median_ns, ">", 1.3);
    b_verdict("2048x2048 d64: all keys / causal", rows[4].median_ns / rows[2].median_ns, ">", 1.7);
    b_verdict("2048x2048 d64, causal: naive / tiles", rows[6].median_ns / rows[2].median_ns, ">", 2.0);
    b_verdict("2048x2048 d64, causal: of the f32 peak", rows[2].flops / rows[2].median_ns * 1e9 / b_max[1].f32, ">",
              0.6);
    b_verdict("2048x2048 d128, causal: of the f32 peak", rows[3].flops / rows[3].median_ns * 1e9 / b_max[1].f32, ">",
              0.6);
    b_headline("attention", "FlashAttention: exact attention without a score matrix, faster than the naive one",
               "T = S = 2048, 8 heads of 64",
               "naive / tiles %.2f, causal %.2f; all keys / causal %.2f; prefill, causal %.1f ms, %.2f of the f32 peak "
               "(d 128: %.2f)",
               rows[5].median_ns / rows[4].median_ns, rows[6].median_ns / rows[2].median_ns,
               rows[4].median_ns / rows[2].median_ns, rows[2].median_ns * 1e-6,
               rows[2].flops / rows[2].median_ns * 1e9 / b_max[1].f32,
               rows[3].flops / rows[3].median_ns * 1e9 / b_max[1].f32);
    tiny_ctx_close(ctx);
}
