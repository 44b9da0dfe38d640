/* bench/math/elem.c - exp, tanh, erf and friends over arrays: in cache and far out of it, against copying */
#include "../bench.h"
#include <math.h>
#include <string.h>

typedef struct be_arg { tiny_ctx *ctx; int kind; tiny_tensor x, y; } be_arg;

static void be_run(void *arg)
{
    be_arg *a = (be_arg *)arg;
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = a->kind;
    op.in[0] = &a->x;
    op.out[0] = &a->y;
    (void)tiny_run(a->ctx, &op);
}

static void be_libm(void *arg)
{
    be_arg *a = (be_arg *)arg;
    const float *x = (const float *)a->x.data;
    float *y = (float *)a->y.data;
    tiny_idx i, n = a->x.dim[0];
    for (i = 0; i < n; i++) y[i] = expf(x[i]);
}

static void be_copy(void *arg)
{
    be_arg *a = (be_arg *)arg;
    memcpy(a->y.data, a->x.data, (size_t)a->x.dim[0] * 4);
}

void bench_elem(void)
{
    static const int kinds[] = { TINY_OP_EXP, TINY_OP_TANH, TINY_OP_ERF,  TINY_OP_SIGMOID,  TINY_OP_SIN,
                                 TINY_OP_LOG, TINY_OP_SILU, TINY_OP_GELU, TINY_OP_GELU_TANH };
    enum { N = sizeof kinds / sizeof *kinds };
    static const tiny_idx sizes[] = { 4096, (tiny_idx)1 << 26 };
    float *x = (float *)b_alloc(sizeof(float) << 26), *y = (float *)b_alloc(sizeof(float) << 26);
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    int s, i, t;
    for (i = 0; i < 1 << 26; i++) x[i] *= 8.0f;
    for (s = 0; s < 2; s++)
        for (t = 0; t < (b_threads > 1 && s ? 2 : 1); t++) {
            b_row rows[N + 2];
            be_arg args[N + 2];
            memset(rows, 0, sizeof rows);
            for (i = 0; i < N + 2; i++) {
                args[i].ctx = t ? all : one;
                args[i].kind = i < N ? kinds[i] : 0;
                args[i].x = tiny_tensor_1d(x, TINY_F32, sizes[s]);
                args[i].y = tiny_tensor_1d(y, TINY_F32, sizes[s]);
                rows[i].arg = &args[i];
                rows[i].threads = t ? b_threads : 1;
                rows[i].bytes = 8.0 * (double)sizes[s];
                rows[i].limit = s ? B_COPY : B_NONE;
                rows[i].what = i < N ? tiny_op_row_of(kinds[i])->name : i == N ? "copy" : "expf in a loop";
                rows[i].target = i < N    ? tiny_target_name(tiny_op_target(one, kinds[i]))
                                 : i == N ? "memcpy"
                                          : "C library";
                rows[i].run = i < N ? be_run : i == N ? (t ? NULL : be_copy) : (t ? NULL : be_libm);
                b_shape(&rows[i], "%td", sizes[s]);
            }
            b_contest(s ? "Elementary functions, out of cache" : "Elementary functions, in cache", rows, N + 2);
            if (s && t) {
                double best = 1e30;
                for (i = 0; i < 3; i++) {
                    double share = rows[i].bytes / rows[i].median_ns * 1e9 / b_max[1].copy;
                    if (share < best) best = share;
                }
                b_verdict("slowest of exp, tanh, erf over the copy bandwidth, all threads", best, ">", 0.8);
            }
        }
    tiny_ctx_close(one);
    tiny_ctx_close(all);
}
