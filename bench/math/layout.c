/* bench/math/layout.c - moving numbers: transpose and gather against copying the same bytes; sorting against qsort */
#include "../bench.h"
#include <stdlib.h>
#include <string.h>

enum { SIDE = 4096, ROWS = 65536, WIDE = 256, KEYS = 1 << 20 };
typedef struct bl_arg { tiny_ctx *ctx; float *a, *b; int32_t *index; uint32_t *key, *work; } bl_arg;

static void bl_transpose(void *arg)
{
    bl_arg *l = (bl_arg *)arg;
    tiny_tensor x = tiny_tensor_2d(l->a, TINY_F32, SIDE, SIDE), y = tiny_tensor_2d(l->b, TINY_F32, SIDE, SIDE);
    b_must(l->ctx, tiny_transpose(l->ctx, &x, &y));
}

static void bl_gather(void *arg)
{
    bl_arg *l = (bl_arg *)arg;
    tiny_tensor x = tiny_tensor_2d(l->a, TINY_F32, ROWS, WIDE), i = tiny_tensor_1d(l->index, TINY_I32, ROWS),
                y = tiny_tensor_2d(l->b, TINY_F32, ROWS, WIDE);
    b_must(l->ctx, tiny_gather(l->ctx, &x, &i, &y));
}

static void bl_scatter(void *arg)
{
    bl_arg *l = (bl_arg *)arg;
    tiny_tensor x = tiny_tensor_2d(l->a, TINY_F32, ROWS, WIDE), i = tiny_tensor_1d(l->index, TINY_I32, ROWS),
                y = tiny_tensor_2d(l->b, TINY_F32, ROWS, WIDE);
    b_must(l->ctx, tiny_scatter_add(l->ctx, &x, &i, &y));
}

static void bl_copy(void *arg)
{
    bl_arg *l = (bl_arg *)arg;
    memcpy(l->b, l->a, (size_t)SIDE * SIDE * 4);
}

static void bl_sort(void *arg)
{
    bl_arg *l = (bl_arg *)arg;
    memcpy(l->work, l->key, KEYS * 4);
    b_must(l->ctx, tiny_sort_u32(l->ctx, l->work, NULL, KEYS, 0));
}

static int bl_order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void bl_qsort(void *arg)
{
    bl_arg *l = (bl_arg *)arg;
    memcpy(l->work, l->key, KEYS * 4);
    qsort(l->work, KEYS, 4, bl_order);
}

void bench_layout(void)
{
    static const struct { const char *what, *by, *shape; void (*run)(void *); double bytes; int ours; } plan[] = {
        { "transpose f32", NULL, "4096x4096", bl_transpose, 8.0 * SIDE * SIDE, TINY_OP_PERMUTE },
        { "gather random rows", NULL, "65536x256", bl_gather, 8.0 * ROWS * WIDE, TINY_OP_GATHER },
        { "scatter-add", NULL, "65536x256", bl_scatter, 12.0 * ROWS * WIDE, TINY_OP_SCATTER_ADD },
        { "copy, one thread", "memcpy", "64 MB", bl_copy, 8.0 * SIDE * SIDE, 0 },
        { "sort u32", "plain C", "1048576", bl_sort, 8.0 * KEYS, 0 },
        { "sort u32", "qsort", "1048576", bl_qsort, 8.0 * KEYS, 0 },
    };
    enum { N = sizeof plan / sizeof *plan };
    b_row rows[N];
    bl_arg a;
    tiny_rng r = tiny_rng_make(1, 2);
    int i;
    a.ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    a.a = (float *)b_alloc((size_t)SIDE * SIDE * 4);
    a.b = (float *)b_alloc((size_t)SIDE * SIDE * 4);
    a.index = (int32_t *)b_alloc(ROWS * 4);
    a.key = (uint32_t *)b_alloc(KEYS * 4);
    a.work = (uint32_t *)b_alloc(KEYS * 4);
    for (i = 0; i < ROWS; i++) a.index[i] = (int32_t)tiny_rng_below(&r, ROWS);
    for (i = 0; i < KEYS; i++) a.key[i] = tiny_rng_u32(&r);
    memset(rows, 0, sizeof rows);
    for (i = 0; i < N; i++) {
        rows[i].what = plan[i].what;
        rows[i].target = plan[i].by ? plan[i].by : tiny_target_name(tiny_op_target(a.ctx, plan[i].ours));
        rows[i].run = plan[i].run;
        rows[i].arg = &a;
        rows[i].bytes = plan[i].bytes;
        rows[i].limit = i < 4 ? B_COPY : B_NONE;
        rows[i].threads = i < 3 ? b_threads : 1;
        b_shape(&rows[i], "%s", plan[i].shape);
    }
    b_contest("Moving numbers", rows, N);
    b_verdict("sort of a million u32, times faster than qsort", rows[5].median_ns / rows[4].median_ns, ">", 1);
    tiny_ctx_close(a.ctx);
}
