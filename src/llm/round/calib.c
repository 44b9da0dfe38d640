/* src/llm/round/calib.c - statistics of the inputs of a linear layer
 *
 * Papers   E. Frantar et al., "GPTQ", 2022 (arXiv 2210.17323): H; J. Lin et al., "AWQ", 2023 (arXiv 2306.00978): mean
 *          |x|;
 *          G. Xiao et al., "SmoothQuant", 2022 (arXiv 2211.10438): max |x|
 * Formula  S[i][j] = sum over tokens of x[i] x[j] for i <= j; H = (2 / tokens) S; q[i], a[i] the sums of x^2, |x|; m[i]
 *          = max |x|
 * Data     S in double, rows n apart, zeros below the diagonal, as the Cholesky factorization of math/linalg reads it
 * Fast     S grows by matrix products: TINYI_CALIB_TOKENS tokens at a time, a strip of TINYI_CALIB_STRIP inputs times
 *          the strip itself and all later inputs, in f32; the strip is then added to S in double. Half of the square is
 *          thus never computed.
 * Cost     n^2 multiply-adds per token; S is read and written once for TINYI_CALIB_TOKENS tokens
 * Error    reference: a sum in double in order of the tokens. Fast: (TINYI_CALIB_TOKENS + 2) 2^-24 sum |x_i x_j|, from
 *          f32 sums
 * Left out weights of tokens; centred statistics */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/calib.h"
#include "math/matmul.h"

#define TINYI_CALIB_MAGIC 0x62696c63u
#define TINYI_CALIB_TOKENS 512
#define TINYI_CALIB_STRIP 256
#define TINYI_CALIB_MOST 5e17f              /* TINYI_CALIB_TOKENS squares of it, added up, are 1.3e38: a float yet */

struct tllm_calib {
    uint32_t magic;
    tiny_idx n;
    uint64_t tokens;
    int torn;                               /* a batch failed half way: some sums have it, others do not */
    double *square, *size, *s;              /* (n), (n), (n, n) or NULL */
    float *largest;                         /* (n) */
    float *sample;                          /* (TLLM_CALIB_MOST_SAMPLES, n) or NULL */
    tiny_idx n_sample;
    uint64_t every;                         /* tokens whose number is a multiple of it are samples: a power of 2 */
};

/* squares, sizes and largest of one; then products */
static int tinyi_calib_bytes(tiny_idx n, int flags, size_t *all)
{
    size_t one = 0, two = 0, some = 0;
    if (n < 1 || !tinyi_size_mul((size_t)n, 2 * sizeof(double) + sizeof(float), &one)) return 0;
    if (flags & TLLM_CALIB_PRODUCTS &&
        (!tinyi_size_mul((size_t)n, (size_t)n, &two) || !tinyi_size_mul(two, sizeof(double), &two)))
        return 0;
    if (flags & TLLM_CALIB_SAMPLES && !tinyi_size_mul((size_t)n, TLLM_CALIB_MOST_SAMPLES * sizeof(float), &some))
        return 0;
    return tinyi_size_add(one, two, all) && tinyi_size_add(*all, some, all) &&
           tinyi_size_add(*all, sizeof(tllm_calib) + 5 * TINYI_ALIGN, all) && *all <= (size_t)TINY_IDX_MAX;
}

TINY_API size_t tllm_calib_memory(tiny_idx n, int flags)
{
    size_t all;
    return tinyi_calib_bytes(n, flags, &all) ? all : 0;
}

TINY_API tiny_status tllm_calib_open(tiny_ctx *ctx, tiny_idx n, int flags, tllm_calib **out)
{
    tllm_calib *c;
    size_t all;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "calibrator: the result pointer is NULL");
    if (!tinyi_calib_bytes(n, flags, &all))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "calibrator: statistics of %td inputs: at least 1 is needed, and they must fit into memory",
                          n);
    c = (tllm_calib *)tinyi_alloc(ctx, 1, sizeof *c);
    if (!c) return tiny_ctx_status(ctx);
    memset(c, 0, sizeof *c);
    c->magic = TINYI_CALIB_MAGIC;
    c->n = n;
    c->every = 1;
    c->square = (double *)tinyi_alloc(ctx, (size_t)n, sizeof *c->square);
    if (c->square) c->size = (double *)tinyi_alloc(ctx, (size_t)n, sizeof *c->size);
    if (c->size) c->largest = (float *)tinyi_alloc(ctx, (size_t)n, sizeof *c->largest);
    if (c->largest && flags & TLLM_CALIB_PRODUCTS)
        c->s = (double *)tinyi_alloc(ctx, (size_t)n * (size_t)n, sizeof *c->s);
    if (c->largest && (c->s || !(flags & TLLM_CALIB_PRODUCTS)) && flags & TLLM_CALIB_SAMPLES)
        c->sample = (float *)tinyi_alloc(ctx, (size_t)n, TLLM_CALIB_MOST_SAMPLES * sizeof *c->sample);
    if (!c->largest || (flags & TLLM_CALIB_PRODUCTS && !c->s) || (flags & TLLM_CALIB_SAMPLES && !c->sample)) {
        st = tiny_ctx_status(ctx);
        tllm_calib_close(ctx, c);
        return st;
    }
    memset(c->square, 0, (size_t)n * sizeof *c->square);
    memset(c->size, 0, (size_t)n * sizeof *c->size);
    memset(c->largest, 0, (size_t)n * sizeof *c->largest);
    if (c->s) memset(c->s, 0, (size_t)n * (size_t)n * sizeof *c->s);
    *out = c;
    return TINY_OK;
}

TINY_API void tllm_calib_close(tiny_ctx *ctx, tllm_calib *c)
{
    if (!c || c->magic != TINYI_CALIB_MAGIC || tinyi_ctx_check(ctx)) return;
    c->magic = 0;
    tiny_free(ctx, c->sample);
    tiny_free(ctx, c->s);
    tiny_free(ctx, c->largest);
    tiny_free(ctx, c->size);
    tiny_free(ctx, c->square);
    tiny_free(ctx, c);
}

TINY_API tiny_idx tllm_calib_n(const tllm_calib *c) { return c ? c->n : 0; }
TINY_API uint64_t tllm_calib_tokens(const tllm_calib *c) { return c ? c->tokens : 0; }
TINY_API tiny_tensor tllm_calib_products(const tllm_calib *c)
{
    return tiny_tensor_2d(c ? c->s : NULL, TINY_F64, c ? c->n : 0, c ? c->n : 0);
}

TINY_API tiny_idx tllm_calib_samples(const tllm_calib *c, const float **x)
{
    if (x) *x = c ? c->sample : NULL;
    return c ? c->n_sample : 0;
}

/* of rows, the first of which is token number tokens of all; where there is no room, every second sample goes */
static void tinyi_calib_keep(tllm_calib *c, const float *x, tiny_idx rows, tiny_idx ld)
{
    tiny_idx t, i;
    for (t = 0; c->sample && t < rows; t++) {
        if ((c->tokens + (uint64_t)t) % c->every) continue;
        if (c->n_sample == TLLM_CALIB_MOST_SAMPLES) {
            for (i = 1; 2 * i < c->n_sample; i++)
                memcpy(c->sample + i * c->n, c->sample + 2 * i * c->n, (size_t)c->n * sizeof *c->sample);
            c->n_sample /= 2;
            c->every *= 2;
            if ((c->tokens + (uint64_t)t) % c->every) continue;
        }
        memcpy(c->sample + c->n_sample++ * c->n, x + t * ld, (size_t)c->n * sizeof *c->sample);
    }
}

TINY_REF_BEGIN
TINY_API void tllm_calib_diagonal(const tllm_calib *c, float *h)
{
    tiny_idx i;
    for (i = 0; c && h && i < c->n; i++) h[i] = c->tokens ? (float)(2.0 * c->square[i] / (double)c->tokens) : 0.0f;
}
TINY_API void tllm_calib_mean(const tllm_calib *c, float *mean)
{
    tiny_idx i;
    for (i = 0; c && mean && i < c->n; i++) mean[i] = c->tokens ? (float)(c->size[i] / (double)c->tokens) : 0.0f;
}

/* squares, sizes and largest of inputs i0 to i1: in the order of the tokens, for any thread */
static void tinyi_calib_sums(tllm_calib *c, const float *x, tiny_idx rows, tiny_idx ld, tiny_idx i0, tiny_idx i1)
{
    tiny_idx t, i;
    for (t = 0; t < rows; t++)
        for (i = i0; i < i1; i++) {
            const float v = x[t * ld + i], a = v < 0.0f ? -v : v;
            c->square[i] += (double)v * (double)v;
            c->size[i] += (double)a;
            if (a > c->largest[i]) c->largest[i] = a;
        }
}

static void tinyi_calib_products_ref(tllm_calib *c, const float *x, tiny_idx rows, tiny_idx ld)
{
    tiny_idx t, i, j;
    for (t = 0; t < rows; t++)
        for (i = 0; i < c->n; i++) {
            const double v = (double)x[t * ld + i];
            for (j = i; j < c->n; j++) c->s[i * c->n + j] += v * (double)x[t * ld + j];
        }
}

/* the first number of n that is none, infinite or too large; n: there is none */
static tiny_idx tinyi_calib_strange(const float *x, tiny_idx n)
{
    tiny_idx i;
    for (i = 0; i < n && x[i] <= TINYI_CALIB_MOST && x[i] >= -TINYI_CALIB_MOST; i++) {}
    return i;
}
TINY_REF_END

TINY_API void tllm_calib_largest(const tllm_calib *c, float *largest)
{
    if (c && largest) memcpy(largest, c->largest, (size_t)c->n * sizeof *largest);
}

typedef struct tinyi_calib_job {
    tllm_calib *c;
    const float *x, *strip;
    tiny_idx rows, ld, i0, wide, ld_strip;
} tinyi_calib_job;
static void tinyi_calib_sums_team(tiny_team *team, void *arg)
{
    const tinyi_calib_job *j = (const tinyi_calib_job *)arg;
    tiny_idx i0, i1;
    while (tiny_take(team, j->c->n, 64, &i0, &i1)) tinyi_calib_sums(j->c, j->x, j->rows, j->ld, i0, i1);
}
/* a strip of products, whose first row is row i0 of S, from column i0 on; numbers below the diagonal are not needed */
static void tinyi_calib_strip_team(tiny_team *team, void *arg)
{
    const tinyi_calib_job *j = (const tinyi_calib_job *)arg;
    tiny_idx r, r1, k;
    while (tiny_take(team, j->wide, 8, &r, &r1))
        for (; r < r1; r++) {
            double *to = j->c->s + (j->i0 + r) * j->c->n + j->i0;
            const float *from = j->strip + r * j->ld_strip;
            for (k = r; k < j->c->n - j->i0; k++) to[k] += (double)from[k];
        }
}

static tiny_status tinyi_calib_fast(tiny_ctx *ctx, tinyi_calib_job *j, float *strip)
{
    tllm_calib *c = j->c;
    tiny_status st = TINY_OK;
    for (j->i0 = 0; !st && j->i0 < c->n; j->i0 += j->wide) {
        tiny_tensor a, b, y;
        j->wide = TINYI_MIN(c->n - j->i0, TINYI_CALIB_STRIP);
        j->ld_strip = c->n - j->i0;
        a = tiny_tensor_2d((void *)(uintptr_t)(j->x + j->i0), TINY_F32, j->rows, j->wide);
        b = tiny_tensor_2d((void *)(uintptr_t)(j->x + j->i0), TINY_F32, j->rows, j->ld_strip);
        a.stride[0] = b.stride[0] = j->ld;
        a = tiny_tensor_swap(a, 0, 1);
        y = tiny_tensor_2d(strip, TINY_F32, j->wide, j->ld_strip);
        st = tiny_matmul(ctx, &a, &b, NULL, TINY_ACT_NONE, &y);
        if (!st) st = tiny_parallel_loose(ctx, j->wide * j->ld_strip < 65536 ? 1 : 0, 0, 0, tinyi_calib_strip_team, j);
    }
    return st;
}

TINY_API tiny_status tllm_calib_add(tiny_ctx *ctx, tllm_calib *c, const float *x, tiny_idx rows, tiny_idx ld)
{
    tinyi_calib_job j;
    float *strip = NULL;
    tiny_idx t, at;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!c || c->magic != TINYI_CALIB_MAGIC)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "calibrator: the calibrator is NULL or closed");
    if (c->torn)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "calibrator: a batch failed and its sums are invalid; open another one");
    if (rows < 0 || (rows && (!x || ld < c->n)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "calibrator: %td rows of %td inputs, %td apart%s", rows, c->n, ld,
                          x ? "" : ", and x is NULL");
    for (t = 0; t < rows; t++)
        if ((at = tinyi_calib_strange(x + t * ld, c->n)) < c->n)
            return tinyi_fail(
                ctx, TINY_E_NUMERIC,
                "calibrator: input %td of token %llu is %g; the limit is 5e17, and the whole batch is refused", at,
                (unsigned long long)c->tokens + (unsigned long long)t, (double)x[t * ld + at]);
    if (!rows) return TINY_OK;
    memset(&j, 0, sizeof j);
    j.c = c;
    j.ld = ld;
    if (ctx->target == TINY_TARGET_REFERENCE) {
        tinyi_calib_sums(c, x, rows, ld, 0, c->n);
        if (c->s) tinyi_calib_products_ref(c, x, rows, ld);
        tinyi_calib_keep(c, x, rows, ld);
        c->tokens += (uint64_t)rows;
        return TINY_OK;
    }
    if (c->s) {
        strip = (float *)tinyi_alloc(ctx, (size_t)TINYI_MIN(c->n, TINYI_CALIB_STRIP) * (size_t)c->n, sizeof *strip);
        if (!strip) return tiny_ctx_status(ctx);
    }
    for (; !st && rows > 0; rows -= j.rows, x += j.rows * ld) {
        j.x = x;
        j.rows = TINYI_MIN(rows, TINYI_CALIB_TOKENS);
        j.strip = strip;
        if (strip) st = tinyi_calib_fast(ctx, &j, strip);
        if (!st) st = tiny_parallel_loose(ctx, j.rows * c->n < 65536 ? 1 : 0, 0, 0, tinyi_calib_sums_team, &j);
        if (!st) tinyi_calib_keep(c, x, j.rows, ld);
        if (!st) c->tokens += (uint64_t)j.rows;
    }
    c->torn = st != TINY_OK;
    tiny_free(ctx, strip);
    return st;
}

