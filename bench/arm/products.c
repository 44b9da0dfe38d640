/* bench/arm/products.c - products with block formats between marks that bench/arm/count.c sees; run by bench/arm/run.sh
 *
 *   products FORMAT ROWS...      for each number of rows of activations: a product with 1024 rows of 2048 weights
 *   products FORMAT+ ROWS...     the same with repacked weights (src/llm/block/eight.h)
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
    char name[32];
    const int repacked = argc > 1 && strchr(argv[1], '+') != NULL;
    const tllm_format *f;
    tiny_ctx *ctx = NULL;
    tiny_ctx_desc d;
    unsigned char *w, *e;
    size_t bytes, i;
    uint32_t seed = 1;
    int a;
    snprintf(name, sizeof name, "%.*s", argc > 1 ? (int)strcspn(argv[1], "+") : 0, argc > 1 ? argv[1] : "");
    f = tllm_format_by_name(name);
    if (!f || !f->pack) { fprintf(stderr, "products FORMAT[+] ROWS...\n"); return 2; }
    memset(&d, 0, sizeof d);
    d.n_threads = 1;
    bytes = tllm_format_bytes(f, K);
    w = (unsigned char *)malloc(bytes * OUT);
    e = (unsigned char *)malloc(bytes * OUT);
    if (!w || !e || tiny_ctx_open(&d, &ctx)) return 1;
#define DRAW ((float)(int)((seed = seed * 1664525u + 1013904223u) >> 16) / 32768.0f - 1.0f)
    for (i = 0; i < OUT; i++) {
        size_t j;
        for (j = 0; j < K; j++) row[j] = DRAW;
        f->pack(row, w + i * bytes, K, NULL);
    }
    if (repacked && tllm_repack(ctx, f->id, w, OUT, K, e)) return 1;
    for (i = 0; i < (size_t)MOST * K; i++) x[i] = DRAW;
    printf("%s\n", tllm_matmul_pass(ctx));
    for (a = 2; a < argc; a++) {
        const tiny_idx n = atoi(argv[a]) < MOST ? atoi(argv[a]) : MOST;
        const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, K),
                          tw = tiny_tensor_2d(repacked ? e : w, TINY_U8, OUT, (tiny_idx)bytes),
                          ty = tiny_tensor_2d(y, TINY_F32, n, OUT);
        const int format = f->id | (repacked ? TLLM_REPACKED : 0);
        double sum = 0.0;
        if (tllm_matmul(ctx, &tx, format, &tw, NULL, &ty)) return 1;
        syscall(0x777, 2 * a);
        if (tllm_matmul(ctx, &tx, format, &tw, NULL, &ty)) return 1;
        syscall(0x777, 2 * a + 1);
        for (i = 0; i < (size_t)(n * OUT); i++) sum += (double)y[i];
        printf("%ld %g\n", (long)n, sum);
    }
    tiny_ctx_close(ctx);
    free(w);
    free(e);
    return 0;
}
