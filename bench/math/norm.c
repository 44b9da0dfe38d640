/* bench/math/norm.c - norms over rows: the limit is reading and writing the rows */
#include "../bench.h"
#include <string.h>

typedef struct bn_arg { tiny_ctx *ctx; int kind; tiny_tensor x, g, y; } bn_arg;

static void bn_run(void *arg)
{
    bn_arg *a = (bn_arg *)arg;
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = a->kind;
    op.in[0] = &a->x;
    op.in[1] = &a->g;
    op.out[0] = &a->y;
    b_must(a->ctx, tiny_run(a->ctx, &op));
}

void bench_norm(void)
{
    static const tiny_idx shapes[][2] = { { 1, 4096 }, { 512, 768 }, { 16384, 4096 } };
    float *x = (float *)b_alloc((size_t)16384 * 4096 * 4), *y = (float *)b_alloc((size_t)16384 * 4096 * 4),
          *g = (float *)b_alloc(4096 * 4);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    b_row rows[6];
    bn_arg args[6];
    int i;
    memset(rows, 0, sizeof rows);
    for (i = 0; i < 6; i++) {
        const tiny_idx *s = shapes[i / 2];
        args[i].ctx = ctx;
        args[i].kind = i & 1 ? TINY_OP_LAYERNORM : TINY_OP_RMSNORM;
        args[i].x = tiny_tensor_2d(x, TINY_F32, s[0], s[1]);
        args[i].y = tiny_tensor_2d(y, TINY_F32, s[0], s[1]);
        args[i].g = tiny_tensor_1d(g, TINY_F32, s[1]);
        rows[i].arg = &args[i];
        rows[i].run = bn_run;
        rows[i].what = tiny_op_row_of(args[i].kind)->name;
        rows[i].target = tiny_target_name(tiny_op_target(ctx, args[i].kind));
        rows[i].threads = b_threads;
        rows[i].bytes = 8.0 * (double)(s[0] * s[1]);
        rows[i].limit = i >= 4 ? B_COPY : B_NONE;
        b_shape(&rows[i], "%tdx%td", s[0], s[1]);
    }
    b_contest("Norms", rows, 6);
    tiny_ctx_close(ctx);
}
