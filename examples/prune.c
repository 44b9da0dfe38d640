/* examples/prune.c - removes most of the weights of a layer: a smaller file and a faster product
 *
 *     prune [--zeros PERCENT] [--outputs N] [--inputs N] [-o FILE] [--seed S] [--threads N] [--target NAME]
 *
 * The weights are random, 4096 x 4096 by default. In each row the 80 percent (--zeros) with the smallest |w| |x| are
 * removed; |x| is the norm of that input over a hundred rows. The result is written to a file (in memory without -o)
 * and read back. The size of the file, the time and the result are compared with those of the dense layer in f16. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "prune"
#include "options.h"
#include <math.h>

/* rows of x that are looked at; runs of which the median counts; rows at most in one */
enum { ROWS = 100, TIMES = 31, TOGETHER = 32 };

static const char usage[] = 
    "prune [options]       no model is read: the weights are random\n"
    "  --zeros PERCENT  weights that are removed; default: 80\n"
    "  --outputs N      outputs of the layer; default: 4096\n"
    "  --inputs N       inputs of the layer; default: 4096\n"
    "  -o FILE          write the result to a file; default: in memory\n"
    "  --seed S         seed of the weights and inputs; default: 1\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n";

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* the dense product, or with a the pruned one: median of its microseconds, and y; below 0 where it failed */
static double timed(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *w, const tllm_csl *a, const tiny_tensor *y)
{
    double us[TIMES];
    int i;
    for (i = -3; i < TIMES; i++) {
        const uint64_t start = tiny_now_ns();
        if (a ? tllm_flash_matmul(ctx, x, a, y) : tiny_matmul(ctx, x, w, NULL, TINY_ACT_NONE, y)) return -1;
        if (i >= 0) us[i] = (double)(tiny_now_ns() - start) / 1e3;
    }
    qsort(us, TIMES, sizeof *us, order);
    return us[TIMES / 2];
}

/* a becomes what its file holds: what is measured is what was written */
static tiny_status through_a_file(tiny_ctx *ctx, tllm_csl *a, const char *path, size_t *n)
{
    void *bytes;
    tiny_status st = tllm_csl_pack(ctx, a, &bytes, n);
    if (!st && path) st = tllm_csl_save(ctx, a, path);
    tllm_csl_free(ctx, a);
    if (!st) st = path ? tllm_csl_load(ctx, path, a) : tllm_csl_open(ctx, bytes, *n, a);
    tiny_free(ctx, bytes);
    return st;
}

/* rows of x times the dense matrix, turned, and the pruned one; 0: it failed */
static int show(tiny_ctx *ctx, int rows, tiny_tensor x, const tiny_tensor *turned, const tllm_csl *a, tiny_tensor one,
                tiny_tensor two)
{
    const float *y, *z;
    double dense, sparse, off = 0.0, size = 0.0;
    size_t i;
    x.dim[0] = one.dim[0] = two.dim[0] = rows;
    dense = timed(ctx, &x, turned, NULL, &one);
    sparse = dense < 0 ? -1 : timed(ctx, &x, turned, a, &two);
    if (sparse < 0) return 0;
    y = (const float *)one.data;
    z = (const float *)two.data;
    for (i = 0; i < (size_t)tiny_tensor_count(&one); i++) {
        off += ((double)y[i] - (double)z[i]) * ((double)y[i] - (double)z[i]);
        size += (double)y[i] * (double)y[i];
    }
    printf("%2d row%s of x: dense f16 %7.0f us, pruned %7.0f us: %.2f times as fast; answers differ by %.1e of their "
           "size\n",
           rows, rows > 1 ? "s" : " ", dense, sparse, dense / sparse, size > 0.0 ? sqrt(off / size) : 0.0);
    return 1;
}

int main(int argc, char **argv)
{
    static const int rows[] = { 1, 8, TOGETHER };
    double zeros = 80;
    int m = 4096, k = 4096, c, ok = 0;
    const char *path = NULL;
    uint64_t seed = 1;
    tiny_ctx_desc desc = { 0 };
    const option options[] = { A_NUMBER("--zeros", &zeros, 0, 100),
                               A_WHOLE("--outputs", &m, 1, 16384),
                               A_WHOLE("--inputs", &k, 1, 16384),
                               A_TEXT("-o", &path),
                               A_SEED("--seed", &seed),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target) };
    tiny_ctx *ctx = NULL;
    tllm_csl_desc how = { 0 };
    float *w, *x, *y, *norm;
    void *half;
    tllm_csl a;
    size_t i, n, n_bytes;
    READ_OPTIONS(argc, argv, usage, options);
    if (must_not_write(path, 0)) return 2;
    desc.cancel = cancelled;
    desc.log = hear;
    stop_on_signals_whole();
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    memset(&a, 0, sizeof a);
    n = (size_t)m * (size_t)k;
    w = (float *)tiny_alloc(ctx, n * sizeof *w);
    half = tiny_alloc(ctx, n * 2);
    x = (float *)tiny_alloc(ctx, (size_t)k * ROWS * sizeof *x);
    y = (float *)tiny_alloc(ctx, (size_t)m * 2 * TOGETHER * sizeof *y);
    norm = (float *)tiny_alloc(ctx, (size_t)k * sizeof *norm);
    if (w && half && x && y && norm) {
        const tiny_tensor weights = tiny_tensor_2d(w, TINY_F32, m, k),
                          turned = tiny_tensor_swap(tiny_tensor_2d(half, TINY_F16, m, k), 0, 1),
                          some = tiny_tensor_2d(x, TINY_F32, ROWS, k);
        const tiny_tensor one = tiny_tensor_2d(y, TINY_F32, TOGETHER, m),
                          two = tiny_tensor_2d(y + (size_t)m * TOGETHER, TINY_F32, TOGETHER, m);
        tiny_rng rng = tiny_rng_make(seed, 1);
        for (i = 0; i < n; i++) w[i] = 0.02f * tiny_rng_normal(&rng);
        for (i = 0; i < (size_t)k; i++) norm[i] = 0.0f;
        for (i = 0; i < (size_t)k * ROWS; i++) {        /* some inputs are larger than others */
            x[i] = tiny_rng_normal(&rng) * (i % (size_t)k % 16 ? 1.0f : 4.0f);
            norm[i % (size_t)k] += x[i] * x[i];
        }
        for (i = 0; i < (size_t)k; i++) norm[i] = sqrtf(norm[i]);
        how.profile = TLLM_CSL_WOVEN;                   /* for products; what others read is TLLM_CSL_PUBLISHED */
        ok = !tllm_csl_prune(ctx, &weights, norm, zeros / 100.0) && !tllm_csl_build(ctx, &weights, &how, &a) &&
             !through_a_file(ctx, &a, path, &n_bytes);
        if (ok) {
            tllm_format_of(TLLM_FORMAT_F16)->pack(w, half, n, NULL);
            printf("%d x %d, %.0f %% zeros: %s has %.1f MB, the dense layer in f16 %.1f MB: %.2f times smaller\n", m, k,
                   100.0 - 100.0 * (double)a.n_nonzero / (double)n, path ? path : "its file", (double)n_bytes / 1e6,
                   2.0 * (double)n / 1e6, 2.0 * (double)n / (double)n_bytes);
        }
        for (c = 0; ok && c < 3; c++) ok = show(ctx, rows[c], some, &turned, &a, one, two);
    }
    if (!ok) say(stopped_by ? "stopped" : tiny_ctx_message(ctx));
    tllm_csl_free(ctx, &a);
    tiny_free(ctx, norm);
    tiny_free(ctx, y);
    tiny_free(ctx, x);
    tiny_free(ctx, half);
    tiny_free(ctx, w);
    tiny_ctx_close(ctx);
    return exit_status(!ok && stopped_by ? 128 + stopped_by : !ok);
}
