/* tests/math/matmul.c - products against integers that floats hold exactly, hand-worked ones, the reference, and bad input */
#include "t.h"

static void small_ints(float *x, size_t n, int most)
{
    size_t i;
    for (i = 0; i < n; i++) x[i] = (float)((int)t_rand_below((uint32_t)(2 * most + 1)) - most);
}

/* every sum is an integer below 2^24: any order of summation gives the same bits, and so must every target */
static void test_exact_integers(tiny_target target)
{
    static const int shape[][3] = { { 1, 1, 1 }, { 1, 17, 33 }, { 3, 5, 7 }, { 8, 64, 65 }, { 9, 31, 100 }, { 13, 47, 16 }, { 33, 65, 129 }, { 70, 97, 40 }, { 120, 150, 430 }, { 130, 33, 1 } };
    static const int threads[] = { 1, 2, 3, 7 };
    size_t c, w;
    for (c = 0; c < T_COUNT(shape); c++)
        for (w = 0; w < 3; w++) {           /* b as (k, n); as weights (n, k); y transposed */
            tiny_ctx *ctx = t_ctx(target, threads[(c + w) % 4]);
            const int m = shape[c][0], n = shape[c][1], k = shape[c][2];
            float *a = t_guarded((size_t)(m * k)), *b = t_guarded((size_t)(k * n)), *y = t_guarded((size_t)(m * n)), *bias = t_guarded((size_t)n);
            tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, m, k), tb = tiny_tensor_2d(b, TINY_F32, k, n), ty = tiny_tensor_2d(y, TINY_F32, m, n), tbias = tiny_tensor_1d(bias, TINY_F32, n);
            int i, j, p, wrong = 0;
            small_ints(a, (size_t)(m * k), 9);
            small_ints(b, (size_t)(k * n), 9);
            small_ints(bias, (size_t)n, 99);
            if (w == 1) tb = tiny_tensor_swap(tiny_tensor_2d(b, TINY_F32, n, k), 0, 1);
            if (w == 2) ty = tiny_tensor_swap(tiny_tensor_2d(y, TINY_F32, n, m), 0, 1);
            T_OK(tiny_matmul(ctx, &ta, &tb, &tbias, w == 1 ? TINY_ACT_RELU : TINY_ACT_NONE, &ty));
            for (i = 0; i < m; i++)
                for (j = 0; j < n; j++) {
                    long s = (long)bias[j];
                    for (p = 0; p < k; p++) s += (long)a[i * k + p] * (long)b[p * tb.stride[0] + j * tb.stride[1]];
                    if (w == 1 && s < 0) s = 0;
                    wrong += y[i * ty.stride[0] + j * ty.stride[1]] != (float)s;
                }
            if (!T_EQ_INT(wrong, 0)) printf("    at %dx%dx%d, form %d\n", m, n, k, (int)w);
            T_WALLS(y, m * n);
            t_close(ctx);
        }
}

/* f16 and bf16 hold small integers exactly too */
static void test_half_weights(tiny_target target)
{
    static const int shape[][3] = { { 1, 33, 100 }, { 2, 7, 64 }, { 20, 50, 70 } };
    size_t c;
    int type;
    for (c = 0; c < T_COUNT(shape); c++)
        for (type = 0; type < 2; type++) {
            tiny_ctx *ctx = t_ctx(target, 2);
            const int m = shape[c][0], n = shape[c][1], k = shape[c][2];
            float *a = t_guarded((size_t)(m * k)), *y = t_guarded((size_t)(m * n));
            uint16_t *b = (uint16_t *)t_guarded_bytes((size_t)(n * k) * 2);
            int *v = (int *)t_keep((size_t)(n * k) * sizeof(int));
            tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, m, k), tb = tiny_tensor_swap(tiny_tensor_2d(b, type ? TINY_BF16 : TINY_F16, n, k), 0, 1), ty = tiny_tensor_2d(y, TINY_F32, m, n);
            int i, j, p, wrong = 0;
            small_ints(a, (size_t)(m * k), 9);
            for (i = 0; i < n * k; i++) {
                float f;
                uint32_t bits;
                v[i] = (int)t_rand_below(5) - 2;
                f = (float)v[i];
                memcpy(&bits, &f, 4);
                /* -2..2 by hand: bf16 is the upper half; f16 has 5 exponent bits with bias 15 */
                b[i] = type ? (uint16_t)(bits >> 16) : v[i] == 0 ? 0 : (uint16_t)((v[i] < 0 ? 0x8000 : 0) | (abs(v[i]) == 1 ? 0x3c00 : 0x4000));
            }
            T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
            for (i = 0; i < m; i++)
                for (j = 0; j < n; j++) {
                    long s = 0;
                    for (p = 0; p < k; p++) s += (long)a[i * k + p] * v[j * k + p];
                    wrong += y[i * n + j] != (float)s;
                }
            T_EQ_INT(wrong, 0);
            T_WALLS(y, m * n);
            t_close(ctx);
        }
}

static void test_by_hand(tiny_target target)
{
    static float a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 7, 8, 9, 10, 11, 12 }, bias[2] = { -60, 0 };
    static const float want[4] = { 58, 64, 139, 154 };
    float y[4];
    tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, 2, 3), tb = tiny_tensor_2d(b, TINY_F32, 3, 2), ty = tiny_tensor_2d(y, TINY_F32, 2, 2), t1 = tiny_tensor_1d(bias, TINY_F32, 2);
    tiny_ctx *ctx = t_ctx(target, 1);
    T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
    T_SAME(y, want, 4);
    T_RAN_ON(ctx, target == TINY_TARGET_AMX ? TINY_TARGET_AVX512 : target);
    T_OK(tiny_matmul(ctx, &ta, &tb, &t1, TINY_ACT_RELU2, &ty));
    T_CLOSE(y[0], 0, 0);
    T_CLOSE(y[2], 79 * 79, 0);
    T_OK(tiny_matmul(ctx, &ta, &tb, &t1, TINY_ACT_SILU, &ty));
    T_CLOSE(y[0], -2 / (1 + exp(2.0)), 1e-6);               /* 58 - 60 */
    T_OK(tiny_matmul(ctx, &ta, &tb, &t1, TINY_ACT_GELU, &ty));
    T_CLOSE(y[0], -1 * (1 + erf(-2 / sqrt(2.0))), 1e-6);
    t_close(ctx);
}

/* batches, a side that is repeated, and NaN that stays in its row */
static void test_batches(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float a[2 * 3 * 4], b[4 * 5], y[2 * 3 * 5];
    tiny_tensor ta = tiny_tensor_3d(a, TINY_F32, 2, 3, 4), tb = tiny_tensor_2d(b, TINY_F32, 4, 5), ty = tiny_tensor_3d(y, TINY_F32, 2, 3, 5);
    int q, i, j, p;
    small_ints(a, 24, 5);
    small_ints(b, 20, 5);
    a[13] = NAN;
    T_OK(tiny_matmul(ctx, &ta, &tb, NULL, TINY_ACT_NONE, &ty));
    for (q = 0; q < 2; q++)
        for (i = 0; i < 3; i++)
            for (j = 0; j < 5; j++) {
                double s = 0;
                for (p = 0; p < 4; p++) s += (double)a[(q * 3 + i) * 4 + p] * (double)b[p * 5 + j];
                T_CLOSE(y[(q * 3 + i) * 5 + j], s, 0);
            }
    t_close(ctx);
}

/* int8 is exact on every target: extremes, both kinds of a, all forms, against 64-bit integers */
static void test_int8(tiny_target target)
{
    static const int shape[][3] = { { 1, 5, 3 }, { 1, 40, 300 }, { 7, 33, 64 }, { 9, 16, 65 }, { 31, 33, 130 }, { 40, 70, 257 }, { 64, 96, 1100 }, { 150, 20, 70 } };
    size_t c;
    int form;
    for (c = 0; c < T_COUNT(shape); c++)
        for (form = 0; form < 8; form++) {  /* a unsigned?, b as weights?, y turned? */
            tiny_ctx *ctx = t_ctx(target, 1 + (int)(c % 3));
            const int m = shape[c][0], n = shape[c][1], k = shape[c][2];
            unsigned char *a = (unsigned char *)t_guarded_bytes((size_t)(m * k));
            signed char *b = (signed char *)t_guarded_bytes((size_t)(n * k));
            int32_t *y = (int32_t *)t_guarded_bytes((size_t)(m * n) * 4);
            tiny_tensor ta = tiny_tensor_2d(a, form & 1 ? TINY_U8 : TINY_I8, m, k), tb = tiny_tensor_2d(b, TINY_I8, k, n), ty = tiny_tensor_2d(y, TINY_I32, m, n);
            int i, j, p, wrong = 0;
            if (form & 2) tb = tiny_tensor_swap(tiny_tensor_2d(b, TINY_I8, n, k), 0, 1);
            if (form & 4) ty = tiny_tensor_swap(tiny_tensor_2d(y, TINY_I32, n, m), 0, 1);
            for (i = 0; i < m * k; i++) a[i] = (unsigned char)(t_rand_below(8) ? t_rand_below(256) : form & 1 ? 255 : 128);
            for (i = 0; i < n * k; i++) b[i] = (signed char)(t_rand_below(8) ? (int)t_rand_below(256) - 128 : -128);
            T_OK(tiny_matmul_i8(ctx, &ta, &tb, NULL, NULL, NULL, TINY_ACT_NONE, &ty));
            for (i = 0; i < m; i++)
                for (j = 0; j < n; j++) {
                    long long s = 0;
                    for (p = 0; p < k; p++) s += (long long)(form & 1 ? (int)a[i * k + p] : (int)(signed char)a[i * k + p]) * b[p * tb.stride[0] + j * tb.stride[1]];
                    wrong += y[i * ty.stride[0] + j * ty.stride[1]] != s;
                }
            if (!T_EQ_INT(wrong, 0)) printf("    at %dx%dx%d, form %d\n", m, n, k, form);
            T_WALLS(y, m * n);
            t_close(ctx);
        }
}

/* the largest sums that int32 holds, and long rows: 131071 * 128 * 128 < 2^31 */
static void test_int8_long(tiny_target target)
{
    enum { K = 131071 };
    signed char *a = (signed char *)t_keep(12 * K), *b = (signed char *)t_keep(K);
    int32_t y[12];
    tiny_ctx *ctx = t_ctx(target, 2);
    tiny_tensor ta = tiny_tensor_2d(a, TINY_I8, 12, K), tb = tiny_tensor_2d(b, TINY_I8, K, 1), ty = tiny_tensor_2d(y, TINY_I32, 12, 1);
    int i;
    memset(a, -128, 12 * K);
    memset(b, -128, K);
    T_OK(tiny_matmul_i8(ctx, &ta, &tb, NULL, NULL, NULL, TINY_ACT_NONE, &ty));
    for (i = 0; i < 12; i++) T_EQ_INT(y[i], (intmax_t)K * 16384);
    ta.dim[0] = ty.dim[0] = 1;
    memset(b, 127, K);
    T_OK(tiny_matmul_i8(ctx, &ta, &tb, NULL, NULL, NULL, TINY_ACT_NONE, &ty));
    T_EQ_INT(y[0], (intmax_t)K * -16256);
    t_close(ctx);
}

static void test_int8_scales(tiny_target target)
{
    enum { M = 20, N = 35, K = 70 };
    tiny_ctx *ctx = t_ctx(target, 2);
    signed char a[M * K], b[K * N];
    float y[M * N], *sa = t_rand(M, 0.01f, 0.1f), *sb = t_rand(N, 0.01f, 0.1f), *bias = t_rand(N, -1.0f, 1.0f);
    tiny_tensor ta = tiny_tensor_2d(a, TINY_I8, M, K), tb = tiny_tensor_2d(b, TINY_I8, K, N), ty = tiny_tensor_2d(y, TINY_F32, M, N);
    tiny_tensor tsa = tiny_tensor_1d(sa, TINY_F32, M), tsb = tiny_tensor_1d(sb, TINY_F32, N), tbias = tiny_tensor_1d(bias, TINY_F32, N);
    int i, j, p, k;
    for (i = 0; i < M * K; i++) a[i] = (signed char)((int)t_rand_below(256) - 128);
    for (i = 0; i < K * N; i++) b[i] = (signed char)((int)t_rand_below(256) - 128);
    for (k = 0; k < 2; k++) {
        ta.dim[0] = ty.dim[0] = tsa.dim[0] = k ? M : 2;
        T_OK(tiny_matmul_i8(ctx, &ta, &tb, &tsa, &tsb, &tbias, TINY_ACT_NONE, &ty));
        for (i = 0; i < ta.dim[0]; i++)
            for (j = 0; j < N; j++) {
                long s = 0;
                double want;
                for (p = 0; p < K; p++) s += a[i * K + p] * b[p * N + j];
                want = (double)s * (double)sa[i] * (double)sb[j] + (double)bias[j];
                T_CLOSE(y[i * N + j], want, 6.0 / 16777216 * (fabs((double)s * (double)sa[i] * (double)sb[j]) + 1));
            }
    }
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[64] = { 0 }, y[64];
    signed char q[64] = { 0 };
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 2, 3), b = tiny_tensor_2d(x, TINY_F32, 2, 2), o = tiny_tensor_2d(y, TINY_F32, 2, 2), v = tiny_tensor_1d(x, TINY_F32, 3), i8 = tiny_tensor_2d(q, TINY_I8, 3, 2);
    T_STATUS(tiny_matmul(ctx, &a, &b, NULL, TINY_ACT_NONE, &o), TINY_E_SHAPE, "a row of a has 3 numbers, a column of b has 2");
    b.dim[0] = 3;
    T_STATUS(tiny_matmul(ctx, &a, &b, &v, TINY_ACT_NONE, &o), TINY_E_SHAPE, "bias is 3 f32, it must have 2");
    T_STATUS(tiny_matmul(ctx, &a, &b, NULL, 99, &o), TINY_E_ARGUMENT, "activation 99 is unknown");
    T_STATUS(tiny_matmul(ctx, &a, &b, NULL, -1, &o), TINY_E_ARGUMENT, "activation -1");
    T_STATUS(tiny_matmul(ctx, &a, &v, NULL, TINY_ACT_NONE, &o), TINY_E_SHAPE, "at least two axes");
    T_STATUS(tiny_matmul(ctx, &a, &i8, NULL, TINY_ACT_NONE, &o), TINY_E_DTYPE, "not i8");
    T_STATUS(tiny_matmul_i8(ctx, &a, &i8, NULL, NULL, NULL, TINY_ACT_NONE, &o), TINY_E_DTYPE, "a must be i8 or u8, not f32");
    o = a;
    T_STATUS(tiny_matmul(ctx, &a, &b, NULL, TINY_ACT_NONE, &o), TINY_E_SHAPE, "output 0 is 2x3 f32, it must be 2x2 f32");
    o = tiny_tensor_2d(x + 1, TINY_F32, 2, 2);
    T_STATUS(tiny_matmul(ctx, &a, &b, NULL, TINY_ACT_NONE, &o), TINY_E_ALIAS, "output 0 overlaps input 0");
    t_close(ctx);
}

static void test_each_allocation(void)
{
    static float a[40 * 40];
    static float y[40 * 40];
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, 40, 40);
        tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 40, 40);
        if (!tiny_ctx_open(&d, &ctx)) {
            tiny_status st = tiny_matmul(ctx, &ta, &ta, NULL, TINY_ACT_NONE, &ty);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_exact_integers);
    T_RUN_TARGETS(test_half_weights);
    T_RUN_TARGETS(test_batches);
    T_RUN_TARGETS(test_int8);
    T_RUN_TARGETS(test_int8_long);
    T_RUN_TARGETS(test_int8_scales);
    T_RUN(test_refused);
    T_RUN(test_each_allocation);
    return t_done();
}
