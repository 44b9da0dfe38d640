/* bench/arm/products.c - products with block formats between marks that bench/arm/count.c sees; run by bench/arm/run.sh
 *
 *   products FORMAT ROWS...      for each number of rows of activations: a product with 1024 rows of 2048 weights
 *
 * Each product runs once before it is counted, so that the first touch of memory stays outside. Prints the pass of the
 * kernels, then for each number of rows a checksum, which keeps the products alive. */
#define _GNU_SOURCE
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

enum { K = 2048, OUT = 1024, MOST = 512 };

int main(int argc, char **argv)
{
    static float x[MOST * K], y[MOST * OUT], row[K];
    const tllm_format *f = argc > 1 ? tllm_format_by_name(argv[1]) : NULL;
    tiny_ctx *ctx = NULL;
    tiny_ctx_desc d;
    unsigned char *w;
    size_t bytes, i;
    uint32_t seed = 1;
    int a;
    if (!f || !f->pack) { fprintf(stderr, "products FORMAT ROWS...\n"); return 2; }
    memset(&d, 0, sizeof d);
    d.n_threads = 1;
    bytes = tllm_format_bytes(f, K);
    w = (unsigned char *)malloc(bytes * OUT);
    if (!w || tiny_ctx_open(&d, &ctx)) return 1;
#define DRAW ((float)(int)((seed = seed * 1664525u + 1013904223u) >> 16) / 32768.0f - 1.0f)
    for (i = 0; i < OUT; i++) {
        size_t j;
        for (j = 0; j < K; j++) row[j] = DRAW;
        f->pack(row, w + i * bytes, K, NULL);
    }
    for (i = 0; i < (size_t)MOST * K; i++) x[i] = DRAW;
    printf("%s\n", tllm_matmul_pass(ctx));
    for (a = 2; a < argc; a++) {
        const tiny_idx n = atoi(argv[a]) < MOST ? atoi(argv[a]) : MOST;
        const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, K), tw = tiny_tensor_2d(w, TINY_U8, OUT, (tiny_idx)bytes),
                          ty = tiny_tensor_2d(y, TINY_F32, n, OUT);
        double sum = 0.0;
        if (tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty)) return 1;
        syscall(0x777, 2 * a);
        if (tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty)) return 1;
        syscall(0x777, 2 * a + 1);
        for (i = 0; i < (size_t)(n * OUT); i++) sum += (double)y[i];
        printf("%ld %g\n", (long)n, sum);
    }
    tiny_ctx_close(ctx);
    free(w);
    return 0;
}
