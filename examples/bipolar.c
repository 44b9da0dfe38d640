/* examples/bipolar.c - time and error of products with weights and activations of few bits
 *
 *     bipolar [--size N] [--rows M] [--weights P] [--activations Q] [--group G] [--seed S] [--threads N]
 *             [--target NAME]
 *
 * The weights, N x N, and M rows of activations are random and normally distributed. By default all pairs of 1, 2, 3, 4
 * and 8 bits are measured. Each line has the bytes of the weights, the time of the product including quantizing and
 * packing its activations, and its error compared with the product in f32. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "bipolar"
#include "options.h"
#include <math.h>

static const char usage[] =
    "bipolar [options]      products of few bits next to the product of floats: size, time, error\n"
    "  --size N         inputs and outputs of the layer; default: 1024\n"
    "  --rows M         rows of inputs at once; default: 1\n"
    "  --weights P      bits of a weight, 1 to 8; default: 1, 2, 3, 4 and 8\n"
    "  --activations Q  bits of an input, 1 to 8; default: 1, 2, 3, 4 and 8\n"
    "  --group G        inputs that share a scale of the weights; default: a whole row\n"
    "  --seed S         seed of weights and inputs; default: 1\n"
    "  --threads N      default: one per processor\n"
    "  --target T       scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n";

typedef struct product { tiny_ctx *ctx; const tllm_bipolar *w; tiny_tensor x, dense, y; int bits; } product;

static tiny_status run(const product *p)
{
    return p->w ? tllm_bipolar_matmul(p->ctx, p->w, &p->x, p->bits, NULL, &p->y)
                : tiny_matmul(p->ctx, &p->x, &p->dense, NULL, TINY_ACT_NONE, &p->y);
}

/* microseconds, the least of some rounds; below 0 where it failed */
static double time_of(const product *p)
{
    double least = 1e30;
    int i;
    for (i = 0; i < 9; i++) {
        const uint64_t t = tiny_now_ns();
        double us;
        if (run(p)) return -1;
        us = (double)(tiny_now_ns() - t) * 1e-3;
        if (us < least) least = us;
    }
    return least;
}

static int show(product *p, const tiny_tensor *weights, int bits, int group, const float *want, double f32_us)
{
    const size_t n = (size_t)tiny_tensor_count(&p->y);
    const float *y = (const float *)p->y.data;
    double off = 0, size = 0, us;
    tllm_bipolar w;
    size_t i;
    if (tllm_bipolar_make(p->ctx, weights, NULL, bits, group, &w)) return 0;
    p->w = &w;
    us = time_of(p);
    for (i = 0; i < n; i++) {
        off += (double)(y[i] - want[i]) * (double)(y[i] - want[i]);
        size += (double)want[i] * (double)want[i];
    }
    printf("W%dA%d %10.2f MB %10.1f us %8.2f x %9.1f %%\n", bits, p->bits, (double)w.n_bytes * 1e-6, us, f32_us / us,
           size > 0 ? 100.0 * sqrt(off / size) : 0.0);
    tllm_bipolar_free(p->ctx, &w);
    p->w = NULL;
    return us >= 0;
}

int main(int argc, char **argv)
{
    static const int some[] = { 1, 2, 3, 4, 8 };
    int n = 1024, m = 1, wbits = 0, abits = 0, group = 0, i, j, ok = 1;
    uint64_t seed = 1;
    tiny_ctx_desc desc = { 0 };
    const option options[] = { A_WHOLE("--size", &n, 1, 32768),
                               A_WHOLE("--rows", &m, 1, 4096),
                               A_WHOLE("--weights", &wbits, 1, 8),
                               A_WHOLE("--activations", &abits, 1, 8),
                               A_WHOLE("--group", &group, 0, 32768),
                               A_SEED("--seed", &seed),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target) };
    tiny_ctx *ctx = NULL;
    product p;
    float *w, *x, *y, *want;
    tiny_tensor weights;
    tiny_rng rng;
    size_t k;
    double f32_us = 0;
    READ_OPTIONS(argc, argv, usage, options);
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    memset(&p, 0, sizeof p);
    w = (float *)tiny_alloc(ctx, (size_t)n * (size_t)n * sizeof *w);
    x = (float *)tiny_alloc(ctx, (size_t)m * (size_t)n * sizeof *x);
    y = (float *)tiny_alloc(ctx, (size_t)m * (size_t)n * sizeof *y);
    want = (float *)tiny_alloc(ctx, (size_t)m * (size_t)n * sizeof *want);
    if (w && x && y && want) {
        rng = tiny_rng_make(seed, 0);
        for (k = 0; k < (size_t)n * (size_t)n; k++) w[k] = tiny_rng_normal(&rng);
        for (k = 0; k < (size_t)m * (size_t)n; k++) x[k] = tiny_rng_normal(&rng);
        weights = tiny_tensor_2d(w, TINY_F32, n, n);
        p.ctx = ctx;
        p.x = tiny_tensor_2d(x, TINY_F32, m, n);
        p.dense = tiny_tensor_swap(weights, 0, 1);
        p.y = tiny_tensor_2d(want, TINY_F32, m, n);
        f32_us = time_of(&p);
        ok = f32_us >= 0;
        p.y.data = y;
        printf("%d x %d weights, %d row%s of activations, bits counted by %s\n", n, n, m, m > 1 ? "s" : "",
               tllm_bipolar_pass(ctx));
        printf("%-4s %13s %13s %10s %11s\n", "", "weights", "product", "of f32", "error");
        printf("f32  %10.2f MB %10.1f us\n", 4e-6 * n * n, f32_us);
        for (i = 0; ok && i < 5; i++)
            for (j = 0; ok && j < 5; j++) {
                if ((wbits && i) || (abits && j)) continue;
                p.bits = abits ? abits : some[j];
                ok = show(&p, &weights, wbits ? wbits : some[i], group, want, f32_us);
            }
    } else ok = 0;
    if (!ok) say(tiny_ctx_message(ctx));
    tiny_free(ctx, want);
    tiny_free(ctx, y);
    tiny_free(ctx, x);
    tiny_free(ctx, w);
    tiny_ctx_close(ctx);
    return exit_status(!ok);
}
