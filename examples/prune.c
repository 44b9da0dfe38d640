/* examples/prune.c - a layer with most of its weights gone: a smaller file, and a faster product
 *
 *     prune [ZEROS %] [OUTPUTS] [INPUTS] [FILE]        80 4096 4096 layer.csl
 *
 * Takes random weights, of each row the share with the smallest |w| |x| away (|x|: how large that input was over a hundred rows), writes what
 * is left as a file, reads it back, and compares file, time and answer with the dense layer in f16.                                     */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 100, TIMES = 31 };            /* rows of x that are looked at; runs of which the median counts */

static tiny_ctx *ctx;

static void must(tiny_status status)
{
    if (!status) return;
    fprintf(stderr, "prune: %s: %s\n", tiny_status_text(status), tiny_ctx_message(ctx));
    exit(1);
}
static void *room(size_t n, size_t each)
{
    void *p = calloc(n, each);
    if (p) return p;
    fputs("prune: no memory\n", stderr);
    exit(1);
}
static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* the dense product, or with a the pruned one: median of its microseconds, and y */
static double timed(const tiny_tensor *x, const tiny_tensor *w, const tllm_csl *a, const tiny_tensor *y)
{
    double us[TIMES];
    int i;
    for (i = -3; i < TIMES; i++) {
        const uint64_t start = tiny_now_ns();
        must(a ? tllm_flash_matmul(ctx, x, a, y) : tiny_matmul(ctx, x, w, NULL, TINY_ACT_NONE, y));
        if (i >= 0) us[i] = (double)(tiny_now_ns() - start) / 1e3;
    }
    qsort(us, TIMES, sizeof *us, order);
    return us[TIMES / 2];
}

int main(int argc, char **argv)
{
    static const int rows[] = { 1, 8, 32 };
    const double zeros = argc > 1 ? atof(argv[1]) / 100.0 : 0.8;
    const tiny_idx m = argc > 2 ? atoi(argv[2]) : 4096, k = argc > 3 ? atoi(argv[3]) : 4096;
    const char *path = argc > 4 ? argv[4] : "layer.csl";
    tiny_rng rng = tiny_rng_make(1, 1);
    tiny_tensor w, x, y, turned, t;
    float *norm;
    tllm_csl_desc how = { 0 };
    tllm_csl a;
    size_t i, n;
    int c;
    if (argc > 5 || !(zeros >= 0.0 && zeros <= 1.0) || m < 1 || k < 1) {
        fputs("usage: prune [ZEROS %] [OUTPUTS] [INPUTS] [FILE]\n", stderr);
        return 2;
    }
    must(tiny_ctx_open(NULL, &ctx));
    n = (size_t)m * (size_t)k;
    w = tiny_tensor_2d(room(n, 4), TINY_F32, m, k);
    t = tiny_tensor_2d(room(n, 2), TINY_F16, m, k);
    x = tiny_tensor_2d(room((size_t)k * ROWS, 4), TINY_F32, ROWS, k);
    y = tiny_tensor_2d(room((size_t)m * 64, 4), TINY_F32, 64, m);
    norm = (float *)room((size_t)k, sizeof *norm);
    for (i = 0; i < n; i++) ((float *)w.data)[i] = 0.02f * tiny_rng_normal(&rng);
    for (i = 0; i < (size_t)k * ROWS; i++) {            /* some inputs are larger than others */
        const float v = tiny_rng_normal(&rng) * (i % (size_t)k % 16 ? 1.0f : 4.0f);
        ((float *)x.data)[i] = v;
        norm[i % (size_t)k] += v * v;
    }
    for (i = 0; i < (size_t)k; i++) norm[i] = sqrtf(norm[i]);
    must(tllm_csl_prune(ctx, &w, norm, zeros));
    how.profile = TLLM_CSL_WOVEN;                       /* for products; what others read is TLLM_CSL_PUBLISHED */
    must(tllm_csl_build(ctx, &w, &how, &a));
    must(tllm_csl_save(ctx, &a, path));
    tllm_csl_free(ctx, &a);
    must(tllm_csl_load(ctx, path, &a));                 /* what is measured is what was written */
    tllm_format_of(TLLM_FORMAT_F16)->pack((const float *)w.data, t.data, n, NULL);
    turned = tiny_tensor_swap(t, 0, 1);
    printf("%td x %td, %.0f %% zeros: %s has %.1f MB, the dense layer in f16 %.1f MB: %.2f times smaller\n", m, k, 100.0 - 100.0 * (double)a.n_nonzero / (double)n, path,
           (double)(tllm_csl_bytes(&a) + 52) / 1e6, 2.0 * (double)n / 1e6, 2.0 * (double)n / (double)(tllm_csl_bytes(&a) + 52));
    for (c = 0; c < 3; c++) {
        tiny_tensor some = x, one = y, two = y;
        double dense, sparse, off = 0.0, size = 0.0;
        some.dim[0] = one.dim[0] = two.dim[0] = rows[c];
        two.data = (float *)y.data + (size_t)m * 32;
        dense = timed(&some, &turned, NULL, &one);
        sparse = timed(&some, &turned, &a, &two);
        for (i = 0; i < (size_t)m * (size_t)rows[c]; i++) {
            const double d = (double)((float *)one.data)[i] - (double)((float *)two.data)[i];
            off += d * d;
            size += (double)((float *)one.data)[i] * (double)((float *)one.data)[i];
        }
        printf("%2d row%s of x: dense f16 %7.0f us, pruned %7.0f us: %.2f times as fast; answers differ by %.1e of their size\n", rows[c], rows[c] > 1 ? "s" : " ", dense, sparse, dense / sparse,
               size > 0.0 ? sqrt(off / size) : 0.0);
    }
    tllm_csl_free(ctx, &a);
    tiny_ctx_close(ctx);
    free(norm);
    free(y.data);
    free(x.data);
    free(t.data);
    free(w.data);
    return 0;
}
