/* bench/math/conv.c - direct convolution against the f32 peak, and im2col with our own product (the straightforward
 * form) */
#include "../bench.h"
#include <stdlib.h>
#include <string.h>

typedef struct bc_arg { tiny_ctx *ctx; tiny_tensor x, w, y, patches, wm, ym; tiny_conv2d_params p; } bc_arg;

static void bc_run(void *arg)
{
    bc_arg *a = (bc_arg *)arg;
    b_must(a->ctx, tiny_conv2d(a->ctx, &a->x, &a->w, NULL, &a->p, &a->y));
}

/* patches[(c, r, s)][(i, j)], then one matrix product: stride 1, padding 1, 3 x 3 */
static void bc_im2col(void *arg)
{
    bc_arg *a = (bc_arg *)arg;
    const tiny_idx c = a->x.dim[1], h = a->x.dim[2], w = a->x.dim[3];
    const float *x = (const float *)a->x.data;
    float *p = (float *)a->patches.data;
    tiny_idx k, r, s, i, j;
    for (k = 0; k < c; k++)
        for (r = 0; r < 3; r++)
            for (s = 0; s < 3; s++)
                for (i = 0; i < h; i++)
                    for (j = 0; j < w; j++) {
                        tiny_idx ii = i + r - 1, jj = j + s - 1;
                        *p++ = ii >= 0 && ii < h && jj >= 0 && jj < w ? x[(k * h + ii) * w + jj] : 0.0f;
                    }
    b_must(a->ctx, tiny_matmul(a->ctx, &a->wm, &a->patches, NULL, TINY_ACT_NONE, &a->ym));
}

void bench_conv(void)
{
    /* channels in, size, channels out, groups */
    static const tiny_idx shapes[][4] = {
        { 64, 56, 64, 1 }, { 128, 28, 128, 1 }, { 256, 14, 256, 1 }, { 128, 56, 128, 128 }
    };
    enum { N = 4 };
    float *x = (float *)b_alloc((size_t)1 << 22), *w = (float *)b_alloc((size_t)1 << 22),
          *y = (float *)b_alloc((size_t)1 << 22);
    float *patches = (float *)b_alloc((size_t)64 * 9 * 56 * 56 * 4);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    b_row rows[2 * N];
    bc_arg args[N];
    int i;
    memset(rows, 0, sizeof rows);
    memset(args, 0, sizeof args);
    for (i = 0; i < N; i++) {
        const tiny_idx *s = shapes[i];
        tiny_idx ck = s[0] / s[3];
        bc_arg *a = &args[i];
        a->ctx = ctx;
        a->p.pad[0] = a->p.pad[1] = a->p.pad[2] = a->p.pad[3] = 1;
        a->p.groups = (int)s[3];
        a->x = tiny_tensor_4d(x, TINY_F32, 1, s[0], s[1], s[1]);
        a->w = tiny_tensor_4d(w, TINY_F32, s[2], ck, 3, 3);
        a->y = tiny_tensor_4d(y, TINY_F32, 1, s[2], s[1], s[1]);
        a->patches = tiny_tensor_2d(patches, TINY_F32, s[0] * 9, s[1] * s[1]);
        a->wm = tiny_tensor_2d(w, TINY_F32, s[2], s[0] * 9);
        a->ym = tiny_tensor_2d(y, TINY_F32, s[2], s[1] * s[1]);
        rows[2 * i].what = s[3] == 1 ? "conv2d 3x3" : "conv2d 3x3 depthwise";
        rows[2 * i].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_CONV2D));
        rows[2 * i].run = bc_run;
        rows[2 * i + 1].what = "im2col and matmul";
        rows[2 * i + 1].target = "C and ours";
        rows[2 * i + 1].run = s[3] == 1 ? bc_im2col : NULL;
        rows[2 * i].arg = rows[2 * i + 1].arg = a;
        rows[2 * i].threads = rows[2 * i + 1].threads = b_threads;
        rows[2 * i].limit = rows[2 * i + 1].limit = B_F32;
        rows[2 * i].flops = rows[2 * i + 1].flops = 2.0 * 9.0 * (double)(ck * s[2] * s[1] * s[1]);
        rows[2 * i].bytes = rows[2 * i + 1].bytes = 4.0 * (double)((s[0] + s[2]) * s[1] * s[1] + s[2] * ck * 9);
        b_shape(&rows[2 * i], "%tdx%tdx%td to %td", s[0], s[1], s[1], s[2]);
        b_shape(&rows[2 * i + 1], "%tdx%tdx%td to %td", s[0], s[1], s[1], s[2]);
    }
    b_contest("Convolution", rows, 2 * N);
    tiny_ctx_close(ctx);
}
