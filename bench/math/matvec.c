/* bench/math/matvec.c - one row times a matrix: f32, f16, bf16 and int8 weights against the read bandwidth of the same
 * run
 *
 * The weights of a row cycle through copies that no cache holds, as the layers of a model do; where the last-level
 * cache is shared and huge, "read" is the rate of a plain stream from the same kind of memory. */
#include "../bench.h"
#include "../peers/peers.h"
#include <stdio.h>
#include <string.h>

#define BV_RING ((size_t)1 << 29)
typedef struct bv_arg {
    tiny_ctx *ctx;
    tiny_idx n, k, copies, at;
    tiny_dtype dtype;
    unsigned char *w;
    float *x, *y;
    int8_t *xi;
    int32_t *yi;
    const b_peers *peers;
} bv_arg;

static void *bv_next(bv_arg *v)
{
    v->at = (v->at + 1) % v->copies;
    return v->w + (size_t)v->at * (size_t)(v->n * v->k) * tiny_dtype_bytes(v->dtype);
}

static void bv_ours(void *arg)
{
    bv_arg *v = (bv_arg *)arg;
    tiny_tensor b = tiny_tensor_swap(tiny_tensor_2d(bv_next(v), v->dtype, v->n, v->k), 0, 1);
    if (v->dtype == TINY_I8) {
        tiny_tensor a = tiny_tensor_2d(v->xi, TINY_I8, 1, v->k), y = tiny_tensor_2d(v->yi, TINY_I32, 1, v->n);
        b_must(v->ctx, tiny_matmul_i8(v->ctx, &a, &b, NULL, NULL, NULL, TINY_ACT_NONE, &y));
    } else {
        tiny_tensor a = tiny_tensor_2d(v->x, TINY_F32, 1, v->k), y = tiny_tensor_2d(v->y, TINY_F32, 1, v->n);
        b_must(v->ctx, tiny_matmul(v->ctx, &a, &b, NULL, TINY_ACT_NONE, &y));
    }
}

static void bv_openblas(void *arg)
{
    bv_arg *v = (bv_arg *)arg;
    v->peers->openblas_sgemv(101, 111, (int)v->n, (int)v->k, 1.0f, (const float *)bv_next(v), (int)v->k, v->x, 1, 0.0f,
                             v->y, 1);
}

static void bv_mkl(void *arg)
{
    bv_arg *v = (bv_arg *)arg;
    v->peers->mkl_sgemv(101, 111, (int)v->n, (int)v->k, 1.0f, (const float *)bv_next(v), (int)v->k, v->x, 1, 0.0f, v->y,
                        1);
}

static void bv_stream(void *arg)
{
    bv_arg *v = (bv_arg *)arg;
    b_stream(v->ctx, bv_next(v), (size_t)(v->n * v->k) * 4);
}

void bench_matvec(void)
{
    enum { BLAS = 4, MKL, STREAM, ROWS };
    static const tiny_idx shapes[][2] = { { 4096, 4096 }, { 11008, 4096 } };
    static const tiny_dtype types[] = { TINY_F32, TINY_F16, TINY_BF16, TINY_I8 };
    const b_peers *peers = b_peers_load(b_threads);
    unsigned char *w = (unsigned char *)b_alloc(BV_RING);
    float *x = (float *)b_alloc(4096 * 4), *y = (float *)b_alloc(11008 * 4);
    int8_t *xi = (int8_t *)b_alloc(4096);
    int32_t *yi = (int32_t *)b_alloc(11008 * 4);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    int s, t;
    for (s = 0; s < 2; s++) {
        b_row rows[ROWS];
        bv_arg args[ROWS];
        char text[96];
        memset(rows, 0, sizeof rows);
        for (t = 0; t < ROWS; t++) {
            bv_arg *v = &args[t];
            v->ctx = ctx;
            v->n = shapes[s][0]; v->k = shapes[s][1];
            v->dtype = types[t < BLAS ? t : 0];
            v->w = w; v->x = x; v->y = y; v->xi = xi; v->yi = yi;
            v->peers = peers;
            v->copies = (tiny_idx)(BV_RING / ((size_t)(v->n * v->k) * tiny_dtype_bytes(v->dtype)));
            v->at = 0;
            rows[t].what = t == 1        ? "matvec f16"
                           : t == 2      ? "matvec bf16"
                           : t == 3      ? "matvec int8"
                           : t == STREAM ? "read alone"
                                         : "matvec f32";
            rows[t].target = t < BLAS
                                 ? tiny_target_name(tiny_op_target(ctx, t == 3 ? TINY_OP_MATMUL_I8 : TINY_OP_MATMUL))
                             : t == BLAS ? "OpenBLAS"
                             : t == MKL  ? "MKL"
                                         : "limit";
            rows[t].run = t < BLAS           ? bv_ours
                          : t == BLAS        ? (peers->openblas_sgemv ? bv_openblas : NULL)
                          : t == STREAM      ? bv_stream
                          : peers->mkl_sgemv ? bv_mkl
                                             : NULL;
            rows[t].arg = v;
            rows[t].threads = b_threads;
            rows[t].limit = B_READ;
            rows[t].bytes = (double)(v->n * v->k) * (double)tiny_dtype_bytes(v->dtype);
            rows[t].flops = 2.0 * (double)(v->n * v->k);
            b_shape(&rows[t], "%tdx%td", v->n, v->k);
        }
        b_contest("Matrix times vector, weights out of cache", rows, ROWS);
        for (t = 0; t < BLAS; t++) {
            (void)snprintf(text, sizeof text, "%s %s over reading alone, in turns", rows[t].what, rows[t].shape);
            b_verdict(text, rows[t].bytes / rows[t].median_ns / (rows[STREAM].bytes / rows[STREAM].median_ns), ">",
                      0.9);
        }
        if (rows[BLAS].run)
            b_verdict("matvec f32 over OpenBLAS sgemv", rows[BLAS].median_ns / rows[0].median_ns, ">", 1.0);
    }
    tiny_ctx_close(ctx);
}
