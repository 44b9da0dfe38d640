/* tests/llm/lab/vptq/kmeans.c - a few centres for many vectors
 *
 * Truth    brute force for the nearest, and means of clusters in double */
#include "t.h"
#include <float.h>
#include <math.h>

static double distance2(const float *a, const float *b, tiny_idx v)
{
    double d = 0;
    tiny_idx j;
    for (j = 0; j < v; j++) d += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
    return d;
}

static void test_kmeans(tiny_target target)
{
    static const short vs[] = { 1, 2, 3, 5, 8, 16, 33 }, ks[] = { 1, 2, 7, 16, 17, 40, 64 };
    enum { N = 403 };
    size_t s;
    for (s = 0; s < T_COUNT(vs); s++) {
        tiny_ctx *ctx = t_ctx(target, 1), *two = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
        const tiny_idx v = vs[s], k = ks[s];
        float *x = t_rand((size_t)(N * v), -1, 1), *weight = t_rand(N, 0.01f, 3), *c = t_guarded((size_t)(k * v)),
              *other = t_guarded((size_t)(k * v));
        uint32_t *code = (uint32_t *)t_guarded_bytes(N * 4), *code2 = (uint32_t *)t_guarded_bytes(N * 4);
        double *mean = (double *)t_keep((size_t)(k * (v + 1)) * sizeof *mean), error = 0, again;
        tllm_kmeans_desc d;
        tllm_kmeans_about about, b;
        tiny_idx i, j, e;
        memset(&d, 0, sizeof d);
        d.k = k;
        d.seed = 11 + s;
        d.iters = 400;
        d.sample = N;
        d.tol = 1e-12;                      /* until nothing moves: then means and nearest agree */
        t_use(ctx);
        T_OK(tllm_kmeans(ctx, &d, x, N, v, weight, c, code, &about));
        T_RAN_ON(ctx, t_vectors(target));
        T_TRUE(about.iters > 0 && about.iters < 400);
        for (i = 0; i < N; i++) {
            double best = distance2(x + i * v, c, v);
            for (e = 1; e < k; e++) best = fmin(best, distance2(x + i * v, c + e * v, v));
            T_TRUE(code[i] < (uint32_t)k);
            T_CLOSE(distance2(x + i * v, c + (tiny_idx)code[i] * v, v), best, 1e-6 * best);
            error += (double)weight[i] * best;
            for (j = 0; j < v; j++) mean[(tiny_idx)code[i] * (v + 1) + j] += (double)weight[i] * (double)x[i * v + j];
            mean[(tiny_idx)code[i] * (v + 1) + v] += (double)weight[i];
        }
        T_CLOSE(about.error, error, 1e-5 * error);
        for (e = 0; e < k; e++)
            for (j = 0; j < v; j++) T_CLOSE(c[e * v + j], mean[e * (v + 1) + j] / mean[e * (v + 1) + v], 1e-6);
        T_OK(tllm_kmeans(two, &d, x, N, v, weight, other, code2, &b));          /* the same bits by two threads, */
        T_SAME(other, c, k * v);
        T_SAME(code2, code, N);
        T_TRUE(b.error == about.error && b.iters == about.iters);
        t_use(plain);
        T_OK(tllm_kmeans(plain, &d, x, N, v, weight, other, NULL, &b));         /* and by the reference */
        T_SAME(other, c, k * v);
        T_TRUE(b.error == about.error);
        d.seed += 1000;                     /* another draw ends elsewhere */
        T_OK(tllm_kmeans(plain, &d, x, N, v, weight, other, NULL, &b));
        T_TRUE(k == 1 || memcmp(other, c, (size_t)(k * v) * sizeof *c));
        d.iters = 1;                        /* one round is no better than all */
        T_OK(tllm_kmeans(plain, &d, x, N, v, weight, other, NULL, &b));
        again = b.error;
        T_TRUE(again >= 0.999 * error);
        T_WALLS(c, 0);
        T_WALLS(other, 0);
        T_WALLS(code, 0);
        t_close(plain);
        t_close(two);
        t_close(ctx);
        t_free_blocks();
    }
}

/* few different vectors; unused centres; two points and two weights */
static void test_kmeans_edges(tiny_target target)
{
    enum { N = 100 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float x[2 * N], weight[N], c[32], one[3] = { 0, 3, 4 }, w3[3] = { 1, 1, 2 };
    uint32_t code[N];
    tllm_kmeans_desc d;
    tllm_kmeans_about about;
    int i, k;
    memset(&d, 0, sizeof d);
    for (i = 0; i < N; i++) {               /* five different ones, one of them with both zeros */
        x[2 * i] = (float)(i % 5);
        x[2 * i + 1] = i % 5 ? 1.5f : i % 2 ? 0.0f : -0.0f;
    }
    for (k = 5; k <= 16; k++) {
        d.k = k;
        T_OK(tllm_kmeans(ctx, &d, x, N, 2, NULL, c, code, &about));
        T_TRUE(about.error == 0 && (about.iters == 0) == (k > 5));
        /* of equal centres the lowest */
        for (i = 0; i < N; i++) T_TRUE(code[i] < 5 && c[2 * code[i]] == x[2 * i] && c[2 * code[i] + 1] == x[2 * i + 1]);
    }
    /* ninety vectors of weight 0 draw most centres, ten with weight are elsewhere */
    for (i = 0; i < N; i++) {
        x[2 * i] = i < 90 ? (float)i * 0.001f : (float)(1000 + 17 * i);
        x[2 * i + 1] = (float)(i * i % 31);
        weight[i] = i < 90 ? 0.0f : 1.0f;
    }
    d.k = 10;
    T_OK(tllm_kmeans(ctx, &d, x, N, 2, weight, c, code, &about));
    T_TRUE(about.reseeded > 0);
    T_TRUE(about.error == 0);
    d.k = 2;
    d.tol = 1e-9;
    /* 0 | 3, 4, wherever it begins: from 3 and 4 the middle of 0 and 3 is further from 3 than 4 is */
    T_OK(tllm_kmeans(ctx, &d, one, 3, 1, w3, c, code, &about));
    T_TRUE(code[0] != code[1] && code[1] == code[2]);
    T_CLOSE(c[code[1]], 11.0 / 3.0, 1e-6);
    d.k = 3;
    d.sample = 1;
    /* three vectors are looked at: codes and error are of all */
    for (i = 0; i < N; i++) x[i] = (float)(i % 3) + (float)i * 1e-6f;
    T_OK(tllm_kmeans(ctx, &d, x, N, 1, NULL, c, code, &about));
    for (i = 0; i < N; i++) {
        double best = fabs((double)x[i] - (double)c[code[i]]);
        for (k = 0; k < 3; k++) T_TRUE(fabs((double)x[i] - (double)c[k]) >= best - 1e-7);
    }
    d.k = 4;
    d.sample = 0;
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 1, NULL, c, code, NULL), TINY_E_ARGUMENT, "4 centres of 3 vectors");
    d.k = -1;
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 1, NULL, c, code, NULL), TINY_E_ARGUMENT, "-1 centres");
    d.k = 2;
    T_STATUS(tllm_kmeans(ctx, &d, one, 0, 1, NULL, c, code, NULL), TINY_E_OVERFLOW, "0 vectors");
    T_STATUS(tllm_kmeans(ctx, &d, one, TINY_IDX_MAX, 1, NULL, c, code, NULL), TINY_E_OVERFLOW,
             "vectors; the limits are 1, 2^32 - 2");
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 0, NULL, c, code, NULL), TINY_E_ARGUMENT, "vectors of 0 numbers");
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 65, NULL, c, code, NULL), TINY_E_ARGUMENT, "vectors of 65 numbers; the");
    T_STATUS(tllm_kmeans(ctx, &d, NULL, 3, 1, NULL, c, code, NULL), TINY_E_ARGUMENT,
             "vectors and a result pointer");
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 1, NULL, NULL, code, NULL), TINY_E_ARGUMENT,
             "vectors and a result pointer");
    T_STATUS(tllm_kmeans(NULL, &d, one, 3, 1, NULL, c, code, NULL), TINY_E_ARGUMENT, NULL);
    d.iters = -1;
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 1, NULL, c, code, NULL), TINY_E_ARGUMENT, "iters -1,");
    d.iters = 0;
    d.tol = NAN;
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 1, NULL, c, code, NULL), TINY_E_ARGUMENT, "tol nan");
    d.tol = 0;
    w3[1] = -1;
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 1, w3, c, code, NULL), TINY_E_NUMERIC, "vector 1 has weight -1");
    w3[1] = INFINITY;
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 1, w3, c, code, NULL), TINY_E_NUMERIC, "vector 1 has weight inf");
    one[2] = NAN;
    T_STATUS(tllm_kmeans(ctx, &d, one, 3, 1, NULL, c, code, NULL), TINY_E_NUMERIC, "number 0 of vector 2 is nan");
    t_close(ctx);
}

/* Numbers at the limit of floats: squares of their differences are infinite, and every code is still that of an
 * existing centre. */
static void test_kmeans_far(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_guarded(6), *c = t_guarded(4);
    uint32_t *code = (uint32_t *)t_guarded_bytes(6 * 4);
    tllm_kmeans_desc d;
    int seed, i;
    memset(&d, 0, sizeof d);
    d.k = 2;
    d.iters = 2;
    for (seed = 0; seed < 12; seed++) {     /* some draws begin without 3e38 */
        x[0] = 0; x[1] = 1; x[2] = 3e38f; x[3] = -3e38f; x[4] = FLT_MAX; x[5] = 2;
        d.seed = (uint64_t)seed;
        T_OK(tllm_kmeans(ctx, &d, x, 6, 1, NULL, c, code, NULL));
        for (i = 0; i < 6; i++) T_TRUE(code[i] < 2);
        x[0] = x[1] = 3e38f; x[2] = 0; x[3] = 1; x[4] = 3e38f; x[5] = 3e38f;
        T_OK(tllm_kmeans(ctx, &d, x, 3, 2, NULL, c, code, NULL));
        for (i = 0; i < 3; i++) T_TRUE(code[i] < 2);
    }
    T_WALLS(c, 0);
    T_WALLS(code, 0);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_kmeans);
    T_RUN_FORMS(test_kmeans_edges);
    T_RUN_FORMS(test_kmeans_far);
    return t_done();
}
