/* bench/math/attention.c - plain attention by tiles against the reference and against the f32 peak */
#include "../bench.h"
#include <string.h>

typedef struct ba_arg { tiny_ctx *ctx; tiny_tensor q, k, v, o; tiny_attention_params p; } ba_arg;

static void ba_run(void *arg)
{
    ba_arg *a = (ba_arg *)arg;
    b_must(a->ctx, tiny_attention(a->ctx, &a->q, &a->k, &a->v, NULL, &a->p, &a->o));
}

void bench_attention(void)
{
    /* queries, keys, heads, key heads, d */
    static const tiny_idx shapes[][5] = { { 512, 512, 12, 12, 64 }, { 512, 512, 8, 8, 128 }, { 1, 2048, 32, 8, 128 } };
    float *x = (float *)b_alloc((size_t)1 << 26), *y = (float *)b_alloc((size_t)1 << 24);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    b_row rows[3];
    ba_arg args[3];
    int i;
    memset(rows, 0, sizeof rows);
    memset(args, 0, sizeof args);
    for (i = 0; i < 3; i++) {
        const tiny_idx *s = shapes[i];
        args[i].ctx = ctx;
        args[i].q = tiny_tensor_3d(x, TINY_F32, s[0], s[2], s[4]);
        args[i].k = tiny_tensor_3d(x + 1000, TINY_F32, s[1], s[3], s[4]);
        args[i].v = tiny_tensor_3d(x + ((size_t)1 << 23), TINY_F32, s[1], s[3], s[4]);
        args[i].o = tiny_tensor_3d(y, TINY_F32, s[0], s[2], s[4]);
        args[i].p.causal = 1;
        rows[i].arg = &args[i];
        rows[i].run = ba_run;
        rows[i].what = s[0] > 1 ? "attention, prefill" : "attention, decode";
        rows[i].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_ATTENTION));
        rows[i].threads = b_threads;
        /* a causal square is half of the products */
        rows[i].flops = 4.0 * (double)(s[0] * s[2] * s[1] * s[4]) * (s[0] > 1 ? 0.5 : 1.0);
        rows[i].bytes = 8.0 * (double)(s[1] * s[3] * s[4]);
        rows[i].limit = s[0] > 1 ? B_F32 : B_NONE;
        b_shape(&rows[i], "%tdx%td h%td/%td d%td", s[0], s[1], s[2], s[3], s[4]);
    }
    b_contest("Plain attention", rows, 3);
    tiny_ctx_close(ctx);
}
