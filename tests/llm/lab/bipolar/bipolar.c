/* tests/llm/lab/bipolar/bipolar.c - bit planes: numbers worked by hand, sums of 64-bit integers, the promises of the
 * format, invalid input */
#include "t.h"

#define U (1.0 / 16777216.0)

static int64_t value(int code, int bits) { return 2 * (int64_t)code - ((1 << bits) - 1); }

static uint8_t *codes(size_t n, int bits)
{
    uint8_t *c = (uint8_t *)t_guarded_bytes(n);
    size_t i;
    for (i = 0; i < n; i++) c[i] = (uint8_t)t_rand_below(1u << bits);
    return c;
}

static tiny_tensor table(void *data, tiny_dtype dtype, tiny_idx rows, tiny_idx columns)
{
    return tiny_tensor_2d(data, dtype, rows, columns);
}

/* v = 2 c - (2^n - 1): column 0 of the product with the code of 1; and the planes of all codes agree */
static void test_codes(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int bits, c, b;
    for (bits = 1; bits <= 8; bits++) {
        const int n = 1 << bits;
        uint8_t *all = (uint8_t *)t_guarded_bytes((size_t)n), one = 1;
        int32_t *y = (int32_t *)t_guarded_bytes((size_t)n * 4);
        tiny_tensor tw = table(all, TINY_U8, n, 1), tx = table(&one, TINY_U8, 1, 1), ty = table(y, TINY_I32, 1, n);
        tllm_bipolar w;
        for (c = 0; c < n; c++) all[c] = (uint8_t)c;
        T_OK(tllm_bipolar_make(ctx, &tw, NULL, bits, 0, &w));
        T_OK(tllm_bipolar_matmul(ctx, &w, &tx, 1, NULL, &ty));
        T_WALLS(y, n);
        for (c = 0; c < n; c++) {
            int v = 0;
            for (b = 0; b < bits; b++) v += (c >> b & 1 ? 1 : -1) * (1 << b);
            T_EQ_INT(y[c], 2 * c - (n - 1));
            T_EQ_INT(v, y[c]);
            T_EQ_INT(tllm_bipolar_code(&w, c, 0), c);
        }
        T_EQ_INT(w.n_bytes, (n + 15) / 16 * 2 * 64 * bits);
        tllm_bipolar_free(ctx, &w);
    }
    t_close(ctx);
    T_PROOF("quantization 3", "all codes n = 1..8 satisfy v = 2c - (2^n - 1)");
}

static void test_by_hand(tiny_target target)
{
    static uint8_t a[8] = { 3, 0, 2, 1, 3, 3, 0, 1 }, o[8] = { 1, 1, 0, 1, 0, 0, 1, 1 };
    static int8_t q[4] = { -2, 1, 0, -1 }, p[4] = { 1, 1, -2, 0 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tiny_tensor ta = table(a, TINY_U8, 1, 8), to = table(o, TINY_U8, 1, 8), tq = table(q, TINY_I8, 1, 4),
                tp = table(p, TINY_I8, 1, 4), ty;
    tllm_bipolar wa, wo, wq;
    int32_t y = 0;
    int i, pop[2] = { 0, 0 };
    ty = table(&y, TINY_I32, 1, 1);
    T_OK(tllm_bipolar_make(ctx, &ta, NULL, 2, 0, &wa));
    T_OK(tllm_bipolar_make(ctx, &to, NULL, 1, 0, &wo));
    /* a line of 64 bytes is a plane of 16 rows: row 0 is its first four, planes are 64 bytes apart */
    T_EQ_INT(wa.planes[0], 0xb9);
    T_EQ_INT(wa.planes[64], 0x35);
    T_EQ_INT(wo.planes[0], 0xcb);
    for (i = 0; i < 8; i++) {
        pop[0] += (wa.planes[0] ^ wo.planes[0]) >> i & 1;
        pop[1] += (wa.planes[64] ^ wo.planes[0]) >> i & 1;
    }
    T_TRUE(pop[0] == 4 && pop[1] == 7 && 8 - 2 * pop[0] == 0 && 8 - 2 * pop[1] == -6);
    T_OK(tllm_bipolar_matmul(ctx, &wa, &to, 1, NULL, &ty));
    T_EQ_INT(y, -12);
    if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));
    T_OK(tllm_bipolar_matmul(ctx, &wo, &ta, 2, NULL, &ty));        /* the other way round */
    T_EQ_INT(y, -12);
    T_OK(tllm_bipolar_make(ctx, &tq, NULL, 2, 0, &wq));
    T_EQ_INT(tllm_bipolar_code(&wq, 0, 0), 0);
    T_EQ_INT(tllm_bipolar_code(&wq, 0, 1), 3);
    T_TRUE(tllm_bipolar_code(&wq, 1, 0) == -1 && tllm_bipolar_code(&wq, 0, 4) == -1 &&
           tllm_bipolar_code(&wq, -1, 0) == -1 && tllm_bipolar_code(&wq, 0, -1) == -1);
    T_OK(tllm_bipolar_matmul(ctx, &wq, &tp, 2, NULL, &ty));
    T_EQ_INT(y, -1);
    tllm_bipolar_free(ctx, &wa);
    tllm_bipolar_free(ctx, &wo);
    tllm_bipolar_free(ctx, &wq);
    t_close(ctx);
    T_PROOF("quantization 3", "worked: planes 0xB9, 0x35, 0xCB, popcounts 4 and 7, D = 0 and -6, dot -12");
    T_PROOF("quantization 3", "bridge: q = (-2,1,0,-1), p = (1,1,-2,0): dot -1 both ways");
}

/* every p, q and K against 64-bit sums, one row of x and three of w; then shapes beyond a panel and a tile */
static void test_lengths(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const int step = T_SLOW || target == TINY_TARGET_REFERENCE ? 37 : 1;
    uint8_t *cw = codes(3 * 1030, 8), *cx = codes(1030, 8);
    int32_t *y = (int32_t *)t_guarded_bytes(3 * 4);
    tiny_tensor ty = table(y, TINY_I32, 1, 3);
    int k, p, q, j, i;
    for (k = 1; k <= 1030; k += k < 66 ? 1 : step)
        for (p = 1; p <= 8; p++) {
            uint8_t c[3 * 1030];
            tiny_tensor tw = table(c, TINY_U8, 3, k), tx = table(cx, TINY_U8, 1, k);
            tllm_bipolar w;
            for (i = 0; i < 3 * k; i++) c[i] = (uint8_t)(cw[i] >> (8 - p));
            T_OK(tllm_bipolar_make(ctx, &tw, NULL, p, 0, &w));
            for (q = 1; q <= 8; q++) {
                T_OK(tllm_bipolar_matmul(ctx, &w, &tx, q, NULL, &ty));      /* of x the lower q bits count */
                for (j = 0; j < 3; j++) {
                    int64_t want = 0;
                    for (i = 0; i < k; i++) want += value(c[j * k + i], p) * value(cx[i] & ((1 << q) - 1), q);
                    if (y[j] != want) T_EQ_INT(y[j], want);
                }
                T_WALLS(y, 3);
            }
            tllm_bipolar_free(ctx, &w);
        }
    t_close(ctx);
    if (step == 1) T_PROOF("quantization 3", "equality with an int64 reference for all p, q in 1..8, K = 1..1030");
}

static void test_shapes(tiny_target target)
{
    static const short ns[] = { 1, 15, 16, 17, 40 }, ms[] = { 1, 2, 3, 4, 5, 9, 67 },
                       ks[] = { 1, 63, 64, 65, 333, 1030 };
    tiny_ctx *ctx = t_ctx(target, 3);
    int p, q, turn = 0;
    for (p = 1; p <= 8; p++)
        for (q = 1; q <= 8; q++, turn++) {
            const int n = ns[turn % (int)T_COUNT(ns)], m = ms[turn % (int)T_COUNT(ms)], k = ks[turn % (int)T_COUNT(ks)];
            uint8_t *cw = codes((size_t)(n * k), p), *cx = codes((size_t)(m * k), q);
            int32_t *y = (int32_t *)t_guarded_bytes((size_t)(m * n) * 4);
            tiny_tensor tw = table(cw, TINY_U8, n, k), tx = table(cx, TINY_U8, m, k), ty = table(y, TINY_I32, m, n),
                        turned;
            tllm_bipolar w;
            int i, j, t;
            T_OK(tllm_bipolar_make(ctx, &tw, NULL, p, 0, &w));
            T_OK(tllm_bipolar_matmul(ctx, &w, &tx, q, NULL, &ty));
            T_WALLS(y, m * n);
            for (t = 0; t < m; t++)
                for (j = 0; j < n; j++) {
                    int64_t want = 0;
                    for (i = 0; i < k; i++) want += value(cw[j * k + i], p) * value(cx[t * k + i], q);
                    if (y[t * n + j] != want) T_EQ_INT(y[t * n + j], want);
                }
            /* nothing was lost */
            for (i = 0; i < n * k; i += 7) T_EQ_INT(tllm_bipolar_code(&w, i / k, i % k), cw[i]);
            /* y column by column */
            turned = tiny_tensor_swap(table(t_guarded_bytes((size_t)(m * n) * 4), TINY_I32, n, m), 0, 1);
            T_OK(tllm_bipolar_matmul(ctx, &w, &tx, q, NULL, &turned));
            for (t = 0; t < m; t++)
                for (j = 0; j < n; j++)
                    if (((int32_t *)turned.data)[j * m + t] != y[t * n + j])
                        T_EQ_INT(((int32_t *)turned.data)[j * m + t], y[t * n + j]);
            tllm_bipolar_free(ctx, &w);
        }
    t_close(ctx);
    T_PROOF("quantization 3", "odd sizes");
}

/* the product of a code is the sum of those of its bits, each taken as a code of one */
static void test_planes(tiny_target target)
{
    enum { N = 21, M = 6, K = 200 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int p, i, b, side;
    for (side = 0; side < 2; side++)
        for (p = 1; p <= 8; p++) {
            uint8_t *cw = codes(N * K, p), *cx = codes(M * K, p), one[N * K], *split = side ? cx : cw;
            int32_t y[M * N], z[M * N], sum[M * N] = { 0 };
            const int size = side ? M * K : N * K;
            tiny_tensor tw = table(cw, TINY_U8, N, K), tx = table(cx, TINY_U8, M, K), ty = table(y, TINY_I32, M, N),
                        tz = table(z, TINY_I32, M, N);
            tllm_bipolar w;
            T_OK(tllm_bipolar_make(ctx, &tw, NULL, p, 0, &w));
            T_OK(tllm_bipolar_matmul(ctx, &w, &tx, p, NULL, &ty));
            for (b = 0; b < p; b++) {
                tllm_bipolar part;
                tiny_tensor t1 = table(one, TINY_U8, side ? M : N, K);
                for (i = 0; i < size; i++) one[i] = split[i] >> b & 1;
                if (side) T_OK(tllm_bipolar_matmul(ctx, &w, &t1, 1, NULL, &tz));
                else {
                    T_OK(tllm_bipolar_make(ctx, &t1, NULL, 1, 0, &part));
                    T_OK(tllm_bipolar_matmul(ctx, &part, &tx, p, NULL, &tz));
                    tllm_bipolar_free(ctx, &part);
                }
                for (i = 0; i < M * N; i++) sum[i] += z[i] * (1 << b);
            }
            T_SAME(y, sum, M * N);
            tllm_bipolar_free(ctx, &w);
        }
    t_close(ctx);
    T_PROOF("quantization 3", "GEMM linear in each plane");
}

/* signed integers of any number of bits, with and without scales, whole rows and groups */
static void test_signed(tiny_target target)
{
    enum { N = 19, M = 5, K = 330 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int p, q, i, j, t;
    for (p = 1; p <= 8; p++)
        for (q = 1; q <= 8; q += p == 4 ? 1 : 3) {
            int8_t *sw = (int8_t *)t_guarded_bytes(N * K), *sx = (int8_t *)t_guarded_bytes(M * K);
            int32_t *y = (int32_t *)t_guarded_bytes(M * N * 4);
            float *f = t_guarded(M * N), *scale = t_rand(N * 6, 0.1f, 2.0f), *scale_x = t_rand(M * 6, -2.0f, 2.0f);
            tiny_tensor tw = table(sw, TINY_I8, N, K), tx = table(sx, TINY_I8, M, K), ty = table(y, TINY_I32, M, N),
                        tf = table(f, TINY_F32, M, N), ts, tsx;
            tllm_bipolar w;
            const int group = q % 2 ? 64 : 0, groups = group ? 6 : 1;
            for (i = 0; i < N * K; i++) sw[i] = (int8_t)((int)t_rand_below(1u << p) - (1 << (p - 1)));
            for (i = 0; i < M * K; i++) sx[i] = (int8_t)((int)t_rand_below(1u << q) - (1 << (q - 1)));
            T_OK(tllm_bipolar_make(ctx, &tw, NULL, p, group, &w));
            T_OK(tllm_bipolar_matmul(ctx, &w, &tx, q, NULL, &ty));
            T_WALLS(y, M * N);
            for (t = 0; t < M; t++)
                for (j = 0; j < N; j++) {
                    int64_t want = 0;
                    for (i = 0; i < K; i++) want += (int64_t)sw[j * K + i] * sx[t * K + i];
                    T_EQ_INT(y[t * N + j], want);
                }
            tllm_bipolar_free(ctx, &w);
            ts = table(scale, TINY_F32, N, groups);
            tsx = table(scale_x, TINY_F32, M, groups);
            T_OK(tllm_bipolar_make(ctx, &tw, &ts, p, group, &w));
            T_OK(tllm_bipolar_matmul(ctx, &w, &tx, q, &tsx, &tf));
            for (t = 0; t < M; t++)
                for (j = 0; j < N; j++) {
                    double want = 0.0, size = 0.0;
                    int g;
                    for (g = 0; g < groups; g++) {
                        int64_t sum = 0;
                        for (i = g * 64; i < (group && g * 64 + 64 < K ? g * 64 + 64 : K); i++)
                            sum += (int64_t)sw[j * K + i] * sx[t * K + i];
                        want += (double)sum * (double)scale[j * groups + g] * (double)scale_x[t * groups + g];
                        size += fabs((double)sum * (double)scale[j * groups + g] * (double)scale_x[t * groups + g]);
                    }
                    T_CLOSE(f[t * N + j], want, (groups + 3) * U * size);
                }
            tllm_bipolar_free(ctx, &w);
        }
    t_close(ctx);
}

/* floats: codes are the nearest of their grid, the same on every target, and the product is that of their values */
static void test_floats(tiny_target target)
{
    enum { N = 35, M = 6, K = 500 };
    static const short groups_of[] = { 0, 64, 128, 192, 512 };
    tiny_ctx *ctx = t_ctx(target, 3), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    int p, q, i, j, t;
    for (p = 1; p <= 8; p++) {
        const int group = groups_of[p % 5], g_of = group && group < K ? group : K, groups = (K + g_of - 1) / g_of;
        float *fw = t_rand(N * K, -1.3f, 1.0f), *fx = t_rand(M * K * 2, -3.0f, 4.0f),
              *scale = t_guarded((size_t)(N * groups)), *s2 = t_guarded((size_t)(N * groups)), *y = t_guarded(M * N);
        float *sx = t_guarded((size_t)(M * groups));
        uint8_t *code = (uint8_t *)t_guarded_bytes(N * K), *c2 = (uint8_t *)t_guarded_bytes(N * K),
                *cx = (uint8_t *)t_guarded_bytes(M * K);
        tiny_tensor tw = table(fw, TINY_F32, N, K), tx = table(fx, TINY_F32, M, K), tc = table(code, TINY_U8, N, K),
                    tc2 = table(c2, TINY_U8, N, K), ts = table(scale, TINY_F32, N, groups),
                    ts2 = table(s2, TINY_F32, N, groups), ty = table(y, TINY_F32, M, N), tcx = table(cx, TINY_U8, M, K),
                    tsx = table(sx, TINY_F32, M, groups);
        tllm_bipolar w;
        q = 1 + (p * 3) % 8;
        memset(fw + 3 * K, 0, 70 * sizeof *fw);                     /* a group of zeros, or a part of a row */
        tx.stride[0] = 2 * K;                                       /* x with every second number */
        tx.stride[1] = 2;
        if (p % 2) tx.stride[0] = K, tx.stride[1] = 1;
        T_OK(tllm_bipolar_quantize(plain, &tw, p, group, &tc2, &ts2));
        t_use(ctx);
        T_OK(tllm_bipolar_quantize(ctx, &tw, p, group, &tc, &ts));
        T_WALLS(code, N * K);
        T_SAME(code, c2, N * K);
        T_SAME(scale, s2, N * groups);
        for (j = 0; j < N; j++)
            for (i = 0; i < K; i++) {
                const double s = (double)scale[j * groups + i / g_of];
                T_CLOSE(s * (double)value(code[j * K + i], p), fw[j * K + i], s * (1.0 + 1e-5));
            }
        T_OK(tllm_bipolar_quantize(ctx, &tx, q, group, &tcx, &tsx));
        T_OK(tllm_bipolar_make(ctx, &tw, NULL, p, group, &w));
        T_SAME(w.scale, scale, N * groups);
        T_OK(tllm_bipolar_matmul(ctx, &w, &tx, q, NULL, &ty));
        T_WALLS(y, M * N);
        for (t = 0; t < M; t++)
            for (j = 0; j < N; j++) {
                double want = 0.0, size = 0.0;
                int g;
                for (g = 0; g < groups; g++) {
                    int64_t sum = 0;
                    double one;
                    for (i = g * g_of; i < K && i < (g + 1) * g_of; i++)
                        sum += value(code[j * K + i], p) * value(cx[t * K + i], q);
                    one = (double)sum * (double)scale[j * groups + g] * (double)sx[t * groups + g];
                    want += one;
                    size += fabs(one);
                }
                T_CLOSE(y[t * N + j], want, (groups + 3) * U * size);
            }
        if (p == 3) {                       /* a NaN takes its row along, an infinity too, and the others stay */
            float *z = t_guarded(M * N);
            tiny_tensor tz = table(z, TINY_F32, M, N);
            fx[2 * tx.stride[0] + 17 * tx.stride[1]] = NAN;
            fx[4 * tx.stride[0] + 499 * tx.stride[1]] = -INFINITY;
            T_OK(tllm_bipolar_matmul(ctx, &w, &tx, q, NULL, &tz));
            for (t = 0; t < M; t++)
                for (j = 0; j < N; j++)
                    if (t == 2 || t == 4) T_TRUE(z[t * N + j] != z[t * N + j]);
                    else T_TRUE(z[t * N + j] == y[t * N + j]);
        }
        if (p == 5) {                       /* a row of zeros gives zeros, whatever its codes */
            memset(fx, 0, (size_t)(M * K * 2) * sizeof *fx);
            T_OK(tllm_bipolar_matmul(ctx, &w, &tx, q, NULL, &ty));
            for (i = 0; i < M * N; i++) T_TRUE(y[i] == 0.0f);
            T_OK(tllm_bipolar_quantize(ctx, &tx, q, group, &tcx, &tsx));
            for (i = 0; i < M * groups; i++) T_TRUE(sx[i] == 0.0f);
        }
        tllm_bipolar_free(ctx, &w);
        t_free_blocks();
    }
    t_close(plain);
    t_close(ctx);
    T_PROOF("quantization 3", "bad input: all-zero row, NaN");
}

/* values exactly halfway between two codes: the even code */
static void test_ties(tiny_target target)
{
    static float x[8] = { 3, 2, 0, -2, -3, 1, -1, 0.5f };       /* 2 bits: s = 1, grid -3 -1 1 3 */
    static const uint8_t want[8] = { 3, 2, 2, 0, 0, 2, 1, 2 };      /* 2.5 to 2, 1.5 to 2, 0.5 to 0 */
    tiny_ctx *ctx = t_ctx(target, 1);
    uint8_t code[8];
    float s;
    tiny_tensor tx = table(x, TINY_F32, 1, 8), tc = table(code, TINY_U8, 1, 8), ts = table(&s, TINY_F32, 1, 1);
    T_OK(tllm_bipolar_quantize(ctx, &tx, 2, 0, &tc, &ts));
    T_TRUE(s == 1.0f);
    T_SAME(code, want, 8);
    t_close(ctx);
}

/* scales whose product with the sum is beyond f32 before the other scale makes it small: a finite product is a
 * number */
static void test_extremes(tiny_target target)
{
    static const int ks[3] = { 256, 256, 33100 }, of[3] = { 0, 64, 0 };     /* 33100: sums in 64 bits */
    /* 1e-44 has no scale */
    static const float w_most[3] = { 1e38f, 1e-12f, 1e-44f }, x_most[3] = { 0.0f, 1e-12f, 1e38f };
    tiny_ctx *ctx = t_ctx(target, 1);
    int turn, i, j, t, g;
    for (turn = 0; turn < 3; turn++) {
        const int k = ks[turn], groups = of[turn] ? k / of[turn] : 1, group = k / groups;
        float *fw = t_guarded((size_t)(3 * k)), *fx = t_guarded((size_t)(3 * k)), *sx = t_guarded((size_t)(3 * groups)),
              *y = t_guarded(9);
        uint8_t *cx = (uint8_t *)t_guarded_bytes((size_t)(3 * k));
        tiny_tensor tw = table(fw, TINY_F32, 3, k), tx = table(fx, TINY_F32, 3, k), tc = table(cx, TINY_U8, 3, k),
                    ts = table(sx, TINY_F32, 3, groups), ty = table(y, TINY_F32, 3, 3);
        tllm_bipolar w;
        for (i = 0; i < 3 * k; i++) {
            fw[i] = w_most[i / k] * (i % 5 ? 1.0f : -0.25f);
            fx[i] = x_most[i / k] * (i % 3 ? 1.0f : -0.5f);
        }
        T_OK(tllm_bipolar_make(ctx, &tw, NULL, 8, of[turn], &w));
        T_OK(tllm_bipolar_quantize(ctx, &tx, 8, of[turn], &tc, &ts));
        T_OK(tllm_bipolar_matmul(ctx, &w, &tx, 8, NULL, &ty));
        T_WALLS(y, 9);
        for (t = 0; t < 3; t++)
            for (j = 0; j < 3; j++) {
                double want = 0.0, size = 0.0;
                for (g = 0; g < groups; g++) {
                    int64_t sum = 0;
                    double one;
                    for (i = g * group; i < (g + 1) * group; i++)
                        sum += value(tllm_bipolar_code(&w, j, i), 8) * value(cx[t * k + i], 8);
                    one = (double)sum * (double)w.scale[j * groups + g] * (double)sx[t * groups + g];
                    want += one;
                    size += fabs(one);
                }
                if (t == 0 || j == 2) T_TRUE(y[t * 3 + j] == 0.0f && want == 0.0);
                else if (t == 2 && j == 0) T_TRUE(y[t * 3 + j] > FLT_MAX && want > (double)FLT_MAX);
                else {
                    T_TRUE(want > 1e-23);
                    T_CLOSE(y[t * 3 + j], want, (groups + 3) * U * size);
                }
            }
        tllm_bipolar_free(ctx, &w);
    }
    t_close(ctx);
}

/* rows whose sums are beyond 32 bits: pieces of K, added in 64 */
static void test_long(tiny_target target)
{
    enum { K = 70001 };
    tiny_ctx *ctx = t_ctx(target, 2);
    uint8_t *cw = codes(2 * K, 8), *cx = codes(K, 8);
    int8_t *sw = (int8_t *)t_guarded_bytes(2 * K), *sx = (int8_t *)t_guarded_bytes(K);
    float scale[2] = { 1.0f, 0.5f }, y[2];
    int32_t sums[2];
    int64_t want[2] = { 0, 0 };
    tiny_tensor tw = table(cw, TINY_U8, 2, K), tx = table(cx, TINY_U8, 1, K), ts = table(scale, TINY_F32, 2, 1),
                ty = table(y, TINY_F32, 1, 2), ti = table(sums, TINY_I32, 1, 2);
    tllm_bipolar w;
    int i, j;
    for (i = 0; i < K; i++) cw[i] = cx[i] = 255;                /* 70001 * 255 * 255, more than 2^32 */
    T_OK(tllm_bipolar_make(ctx, &tw, &ts, 8, 0, &w));
    T_OK(tllm_bipolar_matmul(ctx, &w, &tx, 8, NULL, &ty));
    for (i = 0; i < K; i++) want[1] += value(cw[K + i], 8) * 255;
    T_TRUE(y[0] == (float)((int64_t)K * 255 * 255));
    T_CLOSE(y[1], 0.5 * (double)want[1], 3 * U * fabs(0.5 * (double)want[1]));
    tllm_bipolar_free(ctx, &w);
    T_OK(tllm_bipolar_make(ctx, &tw, NULL, 8, 0, &w));
    T_STATUS(tllm_bipolar_matmul(ctx, &w, &tx, 8, NULL, &ti), TINY_E_OVERFLOW, "may be beyond 32 bits");
    T_OK(tllm_bipolar_matmul(ctx, &w, &tx, 1, NULL, &ti));      /* of one bit they fit */
    T_EQ_INT(sums[0], K * 255);
    tllm_bipolar_free(ctx, &w);
    for (i = 0; i < 2 * K; i++) sw[i] = (int8_t)(i < K ? -128 : (int)t_rand_below(256) - 128);
    for (i = 0; i < K; i++) sx[i] = (int8_t)(i % 3 ? -128 : 127);
    tw = table(sw, TINY_I8, 2, K);
    tx = table(sx, TINY_I8, 1, K);
    T_OK(tllm_bipolar_make(ctx, &tw, &ts, 8, 0, &w));
    T_OK(tllm_bipolar_matmul(ctx, &w, &tx, 8, NULL, &ty));
    for (j = 0; j < 2; j++) {
        for (want[j] = 0, i = 0; i < K; i++) want[j] += (int64_t)sw[j * K + i] * sx[i];
        T_CLOSE(y[j], (double)scale[j] * (double)want[j], 3 * U * fabs((double)want[j]));
    }
    tllm_bipolar_free(ctx, &w);
    t_close(ctx);
    T_PROOF("quantization 3", "int32 accumulators: beyond 33 k at 8x8, split K");
}

/* groups that are each beyond 32 bits, and a last one that is not: all of them count */
static void test_long_groups(tiny_target target)
{
    enum { K = 100100, GROUP = 33024, GROUPS = 4 };
    const int n = T_SLOW || target == TINY_TARGET_REFERENCE ? 3 : 18,
              m = T_SLOW || target == TINY_TARGET_REFERENCE ? 2 : 5;
    tiny_ctx *ctx = t_ctx(target, 2);
    int is_signed, i, j, t, g;
    for (is_signed = 0; is_signed < 2; is_signed++) {
        const tiny_dtype type = is_signed ? TINY_I8 : TINY_U8;
        uint8_t *cw = codes((size_t)n * K, 8), *cx = codes((size_t)m * K, 8);
        float *scale = t_rand((size_t)(n * GROUPS), 0.1f, 2.0f), *scale_x = t_rand((size_t)(m * GROUPS), -2.0f, 2.0f),
              *y = t_guarded((size_t)(m * n));
        tiny_tensor tw = table(cw, type, n, K), tx = table(cx, type, m, K), ts = table(scale, TINY_F32, n, GROUPS),
                    tsx = table(scale_x, TINY_F32, m, GROUPS), ty = table(y, TINY_F32, m, n);
        tllm_bipolar w;
        T_OK(tllm_bipolar_make(ctx, &tw, &ts, 8, GROUP, &w));
        T_OK(tllm_bipolar_matmul(ctx, &w, &tx, 8, &tsx, &ty));
        T_WALLS(y, m * n);
        for (t = 0; t < m; t++)
            for (j = 0; j < n; j++) {
                double want = 0.0, size = 0.0;
                for (g = 0; g < GROUPS; g++) {
                    const int end = g < GROUPS - 1 ? (g + 1) * GROUP : K;
                    int64_t sum = 0;
                    double one;
                    for (i = g * GROUP; i < end; i++) {
                        const int a = cw[j * K + i], b = cx[t * K + i];
                        sum += is_signed ? (int64_t)(int8_t)a * (int8_t)b : value(a, 8) * value(b, 8);
                    }
                    one = (double)sum * (double)scale[j * GROUPS + g] * (double)scale_x[t * GROUPS + g];
                    want += one;
                    size += fabs(one);
                }
                T_CLOSE(y[t * n + j], want, (GROUPS + 3) * U * size);
            }
        tllm_bipolar_free(ctx, &w);
        t_free_blocks();
    }
    t_close(ctx);
}

static void test_bad_input(tiny_target target)
{
    enum { N = 20, K = 130 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *f = t_rand(N * K, -1, 1), *y = t_guarded(4 * N), *scale = t_rand(N * 3, 0.5f, 1), old = f[77];
    uint8_t *c = codes(N * K, 3), *big = codes(N * K, 2);
    int8_t *s = (int8_t *)t_guarded_bytes(N * K);
    tiny_tensor tf = table(f, TINY_F32, N, K), tc = table(c, TINY_U8, N, K), ts = table(s, TINY_I8, N, K),
                ty = table(y, TINY_F32, 4, N);
    tiny_tensor tx = table(f, TINY_F32, 4, K), tsc = table(scale, TINY_F32, N, 3), b, planes;
    tllm_bipolar w, v;
    tllm_bipolar_params p;
    tiny_op op;
    int i;
    for (i = 0; i < N * K; i++) s[i] = (int8_t)((int)t_rand_below(8) - 4);
    T_STATUS(tllm_bipolar_make(ctx, &tf, NULL, 0, 0, &w), TINY_E_ARGUMENT, "weights of 0 bits");
    T_STATUS(tllm_bipolar_make(ctx, &tf, NULL, 9, 0, &w), TINY_E_ARGUMENT, "weights of 9 bits; there are 1 to 8");
    T_TRUE(!w.planes && !w.scale);
    T_STATUS(tllm_bipolar_make(ctx, &tf, NULL, 4, 65, &w), TINY_E_ARGUMENT, "groups of 65 numbers");
    T_STATUS(tllm_bipolar_make(ctx, &tf, NULL, 4, -64, &w), TINY_E_ARGUMENT, "groups of -64 numbers");
    T_STATUS(tllm_bipolar_make(ctx, &tf, &tsc, 4, 64, &w), TINY_E_SHAPE, "scales belong to codes");
    T_STATUS(tllm_bipolar_make(ctx, &tc, &tsc, 3, 0, &w), TINY_E_SHAPE, "must be 20 x 1 f32");
    T_STATUS(tllm_bipolar_make(ctx, NULL, NULL, 4, 0, &w), TINY_E_ARGUMENT, "weights with two axes");
    T_STATUS(tllm_bipolar_make(ctx, &tf, NULL, 4, 0, NULL), TINY_E_ARGUMENT, "the result pointer is NULL");
    b = tf;
    b.dim[1] = 0;
    T_STATUS(tllm_bipolar_make(ctx, &b, NULL, 4, 0, &w), TINY_E_SHAPE, "rows of 0 numbers: there is nothing to sum");
    b = tf;
    b.dtype = TINY_I32;
    T_STATUS(tllm_bipolar_make(ctx, &b, NULL, 4, 0, &w), TINY_E_DTYPE, "not i32");
    b = table(f, TINY_F32, TINY_IDX_MAX / 4, TINY_IDX_MAX / 4);
    b.stride[0] = b.stride[1] = 0;
    T_STATUS(tllm_bipolar_make(ctx, &b, NULL, 4, 0, &w), TINY_E_OVERFLOW, "more than this machine can address");
    b = table(f, TINY_F32, 1, TINY_IDX_MAX);
    T_STATUS(tllm_bipolar_make(ctx, &b, NULL, 4, 0, &w), TINY_E_OVERFLOW, "weights of 1 rows of ");
    f[77] = NAN;
    T_STATUS(tllm_bipolar_make(ctx, &tf, NULL, 4, 0, &w), TINY_E_NUMERIC, "number 77 of row 0 is NaN");
    f[77] = INFINITY;
    T_STATUS(tllm_bipolar_make(ctx, &tf, NULL, 4, 0, &w), TINY_E_NUMERIC, "number 77 of row 0 is infinite");
    T_TRUE(!w.planes && !w.scale);
    f[77] = old;
    big[K + 5] = 4;
    b = table(big, TINY_U8, N, K);
    T_STATUS(tllm_bipolar_make(ctx, &b, NULL, 2, 0, &w), TINY_E_ARGUMENT, "number 5 of row 1 is 4; 2 bits hold 0 to 3");
    s[2 * K] = -5;
    T_STATUS(tllm_bipolar_make(ctx, &ts, NULL, 3, 0, &w), TINY_E_ARGUMENT,
             "number 0 of row 2 is -5; 3 bits hold -4 to 3");
    s[2 * K] = 0;
    T_STATUS(tllm_bipolar_quantize(ctx, &tc, 3, 0, &tc, &tsc), TINY_E_DTYPE, "must be f32, not u8");
    T_STATUS(tllm_bipolar_quantize(ctx, &tf, 3, 0, &tc, &tsc), TINY_E_SHAPE, "scales 20 x 1 f32");
    T_TRUE(tllm_bipolar_bytes(16, 64, 0) == SIZE_MAX && tllm_bipolar_bytes(16, 64, 9) == SIZE_MAX &&
           tllm_bipolar_bytes(16, 0, 1) == SIZE_MAX && tllm_bipolar_bytes(-1, 64, 1) == SIZE_MAX &&
           tllm_bipolar_bytes(TINY_IDX_MAX / 2, TINY_IDX_MAX / 2, 8) == SIZE_MAX &&
           tllm_bipolar_bytes(16, 64, 1) == 128);
    T_OK(tllm_bipolar_make(ctx, &tc, NULL, 3, 64, &w));
    T_OK(tllm_bipolar_make(ctx, &ts, NULL, 3, 64, &v));
    T_OK(tllm_bipolar_matmul(ctx, &w, &tx, 4, NULL, &ty));
    T_STATUS(tllm_bipolar_matmul(ctx, &w, &tx, 0, NULL, &ty), TINY_E_ARGUMENT, "activations of 0");
    T_STATUS(tllm_bipolar_matmul(ctx, &w, &tx, 9, NULL, &ty), TINY_E_ARGUMENT,
             "weights of 3 bits and activations of 9");
    T_STATUS(tllm_bipolar_matmul(ctx, NULL, &tx, 4, NULL, &ty), TINY_E_ARGUMENT, "bipolar: the weights are NULL");
    T_STATUS(tllm_bipolar_matmul(ctx, &w, NULL, 4, NULL, &ty), TINY_E_ARGUMENT, "bipolar: x is NULL");
    T_TRUE(tllm_bipolar_code(NULL, 0, 0) == -1);
    b = tx;
    b.dim[1] = K - 1;
    T_STATUS(tllm_bipolar_matmul(ctx, &w, &b, 4, NULL, &ty), TINY_E_SHAPE, "x must have rows of 130 numbers");
    b = tsc;
    b.dim[0] = 4;
    T_STATUS(tllm_bipolar_matmul(ctx, &w, &tx, 4, &b, &ty), TINY_E_ARGUMENT, "its scales are computed");
    b = table(s, TINY_I8, 4, K);
    T_STATUS(tllm_bipolar_matmul(ctx, &w, &b, 4, NULL, &ty), TINY_E_ARGUMENT, "signed activations need signed weights");
    b = table(c, TINY_U8, 4, K);
    T_STATUS(tllm_bipolar_matmul(ctx, &w, &b, 3, &tsc, &ty), TINY_E_SHAPE, "scale_x is 20x3 f32, it must be 4 x 3 f32");
    T_STATUS(tllm_bipolar_matmul(ctx, &w, &b, 3, NULL, &ty), TINY_E_DTYPE, "output 0 is 4x20 f32, it must be 4x20 i32");
    T_OK(tllm_bipolar_matmul(ctx, &v, &tx, 4, NULL, &ty));      /* signed weights, unsigned activations */
    memset(&op, 0, sizeof op);
    memset(&p, 0, sizeof p);
    planes = tiny_tensor_1d(w.planes, TINY_U8, (tiny_idx)w.n_bytes);
    op.row = tllm_bipolar_row();
    op.in[0] = &tx;
    op.in[1] = &planes;
    op.out[0] = &ty;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "weights of 0 bits and activations of 0");
    p.n = N;
    p.wbits = 3;
    p.abits = 4;
    op.params = &p;
    T_OK(tiny_run(ctx, &op));
    planes.dim[0]--;
    T_STATUS(tiny_run(ctx, &op), TINY_E_SHAPE, "of 20 rows of 130 numbers of 3 bits there are 2304 bytes");
    planes.dim[0]++;
    p.group = 32;
    T_STATUS(tiny_run(ctx, &op), TINY_E_ARGUMENT, "groups of 32");
    p.group = 0;
    p.n = -1;
    T_STATUS(tiny_run(ctx, &op), TINY_E_OVERFLOW, "-1 rows");
    tllm_bipolar_free(ctx, &w);
    tllm_bipolar_free(ctx, &v);
    T_STATUS(tllm_bipolar_matmul(ctx, &v, &tx, 4, NULL, &ty), TINY_E_ARGUMENT, "bipolar: the weights are NULL");
    T_TRUE(tllm_bipolar_code(&v, 0, 0) == -1);
    tllm_bipolar_free(ctx, &v);
    tllm_bipolar_free(ctx, NULL);
    t_close(ctx);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(target, 2);
        ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tiny_status st = tllm_bipolar_make(ctx, &tf, NULL, 3, 64, &w);
            T_TRUE(!st || (st == TINY_E_MEMORY && !w.planes && !w.scale));
            if (!st) {
                st = tllm_bipolar_matmul(ctx, &w, &tx, 4, NULL, &ty);
                T_TRUE(!st || st == TINY_E_MEMORY);
            }
            tllm_bipolar_free(ctx, &w);
        }
        tiny_ctx_close(ctx);)
    T_PROOF("quantization 3", "bad input: bits 0 or 9, K = 0");
}

static void test_conformance(tiny_target target) { t_conform(target, tllm_bipolar_row(), T_SLOW ? 12 : 60); }

static void test_pass(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const char *pass = tllm_bipolar_pass(ctx);
    if (target == TINY_TARGET_SCALAR) T_EQ_TEXT(pass, "plain C");
    else if (target == TINY_TARGET_NEON) T_EQ_TEXT(pass, "cnt");
    else if (target == TINY_TARGET_W128 || target == TINY_TARGET_AVX2) T_EQ_TEXT(pass, "pshufb");
    else T_TRUE(!strcmp(pass, "vpopcntd") || !strcmp(pass, "pshufb"));
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_codes);
    T_RUN_FORMS(test_by_hand);
    T_RUN_FORMS(test_lengths);
    T_RUN_FORMS(test_shapes);
    T_RUN_FORMS(test_planes);
    T_RUN_FORMS(test_signed);
    T_RUN_FORMS(test_floats);
    T_RUN_FORMS(test_ties);
    T_RUN_FORMS(test_extremes);
    T_RUN_FORMS(test_long);
    T_RUN_FORMS(test_long_groups);
    T_RUN_TARGETS(test_pass);
    T_RUN_TARGETS(test_conformance);
    T_RUN_FORMS(test_bad_input);
    return t_done();
}
