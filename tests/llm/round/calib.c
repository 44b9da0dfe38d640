/* tests/llm/round/calib.c - statistics of the inputs of a layer
 *
 * Truth    an H worked by hand; sums in long double; the reference, whose bits do not depend on how the tokens
 *          are cut into batches */
#include "t.h"
#include <math.h>
#define U 5.9604645e-8

static void test_by_hand(tiny_target target)
{
    static const float x[6] = { 1, 0.9f, 0.9f, 1, 1, 1 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_calib *c;
    tiny_tensor s;
    const double *h;
    float diagonal[2], mean[2], largest[2];
    T_OK(tllm_calib_open(ctx, 2, TLLM_CALIB_PRODUCTS, &c));
    tllm_calib_diagonal(c, diagonal);
    T_TRUE(diagonal[0] == 0.0f && diagonal[1] == 0.0f);     /* before the first token */
    T_OK(tllm_calib_add(ctx, c, x, 3, 2));
    s = tllm_calib_products(c);
    h = (const double *)s.data;
    T_EQ_INT(tllm_calib_tokens(c), 3);
    T_EQ_INT(tllm_calib_n(c), 2);
    T_CLOSE(2 * h[0], 5.62, 1e-6);          /* H = 2 X^T X */
    T_CLOSE(2 * h[1], 5.60, 1e-6);
    T_CLOSE(h[2], 0, 0);
    T_CLOSE(2 * h[3], 5.62, 1e-6);
    tllm_calib_diagonal(c, diagonal);
    tllm_calib_mean(c, mean);
    tllm_calib_largest(c, largest);
    T_CLOSE(diagonal[0], 5.62 / 3, 1e-6);
    T_CLOSE(mean[1], 2.9 / 3, 1e-6);
    T_CLOSE(largest[0], 1, 0);
    tllm_calib_close(ctx, c);
    t_close(ctx);
}

/* batches of odd sizes, rows apart, against long double; widths around the strips and the vectors */
static void test_sums(tiny_target target)
{
    static const short widths[] = { 1, 3, 17, 255, 256, 257, 600 };
    static const short batches[] = { 1, 0, 7, 513, 40, 600 };
    enum { MOST = 1200 };
    tiny_ctx *ctx = t_ctx(target, 3);
    size_t k, b;
    for (k = 0; k < T_COUNT(widths); k++) {
        const tiny_idx n = widths[k], ld = n + 3, tokens = widths[k] > 300 ? 60 : 1161;
        float *x = t_rand((size_t)(MOST * ld), -1, 1), *diagonal = t_guarded((size_t)n), *mean = t_guarded((size_t)n),
              *largest = t_guarded((size_t)n);
        tllm_calib *c;
        const double *s;
        tiny_idx at = 0, i, j, t;
        for (i = 0; i < MOST; i++) {
            x[i * ld + n] = NAN;            /* between the rows: never read */
            x[i * ld] *= 30.0f;
        }
        T_OK(tllm_calib_open(ctx, n, TLLM_CALIB_PRODUCTS, &c));
        for (b = 0; b < T_COUNT(batches) && at < tokens; b++) {
            const tiny_idx rows = tokens - at < batches[b] ? tokens - at : batches[b];
            T_OK(tllm_calib_add(ctx, c, x + at * ld, rows, ld));
            at += rows;
        }
        T_EQ_INT(tllm_calib_tokens(c), at);
        s = (const double *)tllm_calib_products(c).data;
        tllm_calib_diagonal(c, diagonal);
        tllm_calib_mean(c, mean);
        tllm_calib_largest(c, largest);
        for (i = 0; i < n; i += 1 + n / 40) {
            long double square = 0, size = 0;
            float most = 0;
            for (t = 0; t < at; t++) {
                square += (long double)x[t * ld + i] * (long double)x[t * ld + i];
                size += fabsl((long double)x[t * ld + i]);
                most = fmaxf(most, fabsf(x[t * ld + i]));
            }
            T_CLOSE(diagonal[i], 2 * square / (long double)at, 1e-6 * (double)diagonal[i]);
            T_CLOSE(mean[i], size / (long double)at, 1e-6 * (double)mean[i]);
            T_CLOSE(largest[i], most, 0);
            for (j = 0; j < n; j++) {
                long double sum = 0, whole = 0;
                for (t = 0; t < at && j >= i; t++) {
                    const long double one = (long double)x[t * ld + i] * (long double)x[t * ld + j];
                    sum += one;
                    whole += fabsl(one);
                }
                T_CLOSE(s[i * n + j], sum, (target == TINY_TARGET_REFERENCE ? 1e-12 : 514 * U) * (double)whole);
            }
        }
        T_WALLS(diagonal, 0);
        T_WALLS(mean, 0);
        T_WALLS(largest, 0);
        tllm_calib_close(ctx, c);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("quantization 0", "T < N");
}

/* the reference: one batch or many, the same bits; without products the rest is the same */
static void test_batches(void)
{
    enum { N = 19, T = 33 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    float *x = t_rand(N * T, -1, 1), a[N], b[N];
    tllm_calib *one, *many, *none;
    int t;
    T_OK(tllm_calib_open(ctx, N, TLLM_CALIB_PRODUCTS, &one));
    T_OK(tllm_calib_open(ctx, N, TLLM_CALIB_PRODUCTS, &many));
    T_OK(tllm_calib_open(ctx, N, 0, &none));
    T_OK(tllm_calib_add(ctx, one, x, T, N));
    T_OK(tllm_calib_add(ctx, none, x, T, N));
    for (t = 0; t < T; t += 4) T_OK(tllm_calib_add(ctx, many, x + t * N, T - t < 4 ? T - t : 4, N));
    T_SAME((const double *)tllm_calib_products(one).data, (const double *)tllm_calib_products(many).data, N * N);
    tllm_calib_mean(one, a);
    tllm_calib_mean(none, b);
    T_SAME(a, b, N);
    T_TRUE(tllm_calib_products(none).data == NULL);
    T_TRUE(tllm_calib_memory(N, 0) < tllm_calib_memory(N, TLLM_CALIB_PRODUCTS));
    T_TRUE(tllm_calib_memory(N, TLLM_CALIB_PRODUCTS) >= N * N * 8);
    tllm_calib_close(ctx, one);
    tllm_calib_close(ctx, many);
    tllm_calib_close(ctx, none);
    t_close(ctx);
}

/* samples: tokens 0, e, 2 e ..., in batches of any size, and at least half the room once it was full */
static void test_samples(tiny_target target)
{
    enum { N = 5, ALL = 5000, ROOM = TLLM_CALIB_MOST_SAMPLES };
    static const short batches[] = { 1, 200, 311, 1, 600, 37, 2000, 1850 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(N * ALL, -1, 1);
    const float *kept = NULL;
    tllm_calib *c, *none;
    size_t b;
    tiny_idx at = 0, n, i, every;
    T_OK(tllm_calib_open(ctx, N, TLLM_CALIB_SAMPLES, &c));
    T_OK(tllm_calib_open(ctx, N, 0, &none));
    T_EQ_INT(tllm_calib_samples(c, &kept), 0);
    for (b = 0; b < T_COUNT(batches); b++) {
        T_OK(tllm_calib_add(ctx, c, x + at * N, batches[b], N));
        at += batches[b];
        n = tllm_calib_samples(c, &kept);
        for (every = 1; (at - 1) / every + 1 > ROOM; every *= 2) {}
        T_EQ_INT(n, (at - 1) / every + 1);
        T_TRUE(n == at || n >= ROOM / 2);
        for (i = 0; i < n; i++) T_SAME(kept + i * N, x + i * every * N, N);
    }
    T_EQ_INT(at, ALL);
    T_EQ_INT(tllm_calib_samples(none, &kept), 0);
    T_TRUE(kept == NULL && tllm_calib_samples(NULL, NULL) == 0);
    T_TRUE(tllm_calib_memory(N, TLLM_CALIB_SAMPLES) >= tllm_calib_memory(N, 0) + ROOM * N * sizeof(float));
    T_EQ_INT(tllm_calib_memory(TINY_IDX_MAX / 64, TLLM_CALIB_SAMPLES), 0);
    tllm_calib_close(ctx, none);
    tllm_calib_close(ctx, c);
    t_close(ctx);
}

static void test_refused(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float x[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    double before[9];
    tllm_calib *c;
    T_STATUS(tllm_calib_open(ctx, 0, 0, &c), TINY_E_ARGUMENT, "statistics of 0 inputs");
    T_TRUE(c == NULL);
    T_STATUS(tllm_calib_open(ctx, TINY_IDX_MAX / 8, TLLM_CALIB_PRODUCTS, &c), TINY_E_ARGUMENT,
             "they must fit into memory");
    T_EQ_INT(tllm_calib_memory(TINY_IDX_MAX / 8, TLLM_CALIB_PRODUCTS), 0);
    T_STATUS(tllm_calib_open(ctx, 3, 0, NULL), TINY_E_ARGUMENT, "the result pointer is NULL");
    T_OK(tllm_calib_open(ctx, 3, TLLM_CALIB_PRODUCTS, &c));
    T_OK(tllm_calib_add(ctx, c, x, 4, 3));
    memcpy(before, tllm_calib_products(c).data, sizeof before);
    x[7] = NAN;
    T_STATUS(tllm_calib_add(ctx, c, x, 4, 3), TINY_E_NUMERIC, "input 1 of token 6 is nan");
    x[7] = INFINITY;
    T_STATUS(tllm_calib_add(ctx, c, x, 4, 3), TINY_E_NUMERIC, "input 1 of token 6 is inf");
    x[7] = -6e17f;
    T_STATUS(tllm_calib_add(ctx, c, x, 4, 3), TINY_E_NUMERIC, "the whole batch is refused");
    T_SAME(before, (const double *)tllm_calib_products(c).data, 9);
    T_EQ_INT(tllm_calib_tokens(c), 4);
    T_STATUS(tllm_calib_add(ctx, c, x, -1, 3), TINY_E_ARGUMENT, "-1 rows of 3 inputs");
    T_STATUS(tllm_calib_add(ctx, c, x, 1, 2), TINY_E_ARGUMENT, "2 apart");
    T_STATUS(tllm_calib_add(ctx, c, NULL, 1, 3), TINY_E_ARGUMENT, "and x is NULL");
    T_STATUS(tllm_calib_add(ctx, NULL, x, 1, 3), TINY_E_ARGUMENT, "the calibrator is NULL or closed");
    T_OK(tllm_calib_add(ctx, c, NULL, 0, 3));
    tllm_calib_close(ctx, c);
    tllm_calib_close(ctx, NULL);
    t_close(ctx);
}

/* the largest inputs that are taken: as many of them as are added up in floats */
static void test_largest(tiny_target target)
{
    enum { ROWS = 512, MOST = 300 };
    static const short widths[] = { 3, MOST };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_guarded(ROWS * MOST);
    size_t k;
    int i, j;
    for (k = 0; k < T_COUNT(widths); k++) {
        const int n = widths[k];
        const double want = ROWS * (double)5e17f * (double)5e17f, *s;
        tllm_calib *c;
        for (i = 0; i < ROWS * n; i++) x[i] = i % n & 1 ? -5e17f : 5e17f;
        T_OK(tllm_calib_open(ctx, n, TLLM_CALIB_PRODUCTS, &c));
        T_OK(tllm_calib_add(ctx, c, x, ROWS, n));
        s = (const double *)tllm_calib_products(c).data;
        for (i = 0; i < n; i++)
            for (j = i; j < n; j++) T_CLOSE(s[i * n + j], (i ^ j) & 1 ? -want : want, 514 * U * want);
        tllm_calib_close(ctx, c);
    }
    t_close(ctx);
}

static void test_allocations(void)
{
    float *x = t_rand(300 * 70, -1, 1);
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        tllm_calib *c = NULL;
        if (tiny_ctx_open(&desc, &ctx)) continue;
        if (!tllm_calib_open(ctx, 300, TLLM_CALIB_PRODUCTS, &c) && tllm_calib_add(ctx, c, x, 70, 300)) {
            T_TRUE(tiny_ctx_status(ctx) == TINY_E_MEMORY);
            T_TRUE(tllm_calib_add(ctx, c, x, 70, 300) == TINY_OK || t_alloc.for_ever ||
                   tiny_ctx_status(ctx) == TINY_E_ARGUMENT);
        }
        tllm_calib_close(ctx, c);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN_FORMS(test_by_hand);
    T_RUN_FORMS(test_sums);
    T_RUN(test_batches);
    T_RUN_FORMS(test_samples);
    T_RUN_FORMS(test_refused);
    T_RUN_FORMS(test_largest);
    T_RUN(test_allocations);
    return t_done();
}
