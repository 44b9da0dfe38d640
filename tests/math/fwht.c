/* tests/math/fwht.c - Walsh-Hadamard: matrices written down by hand and by their recursion, mathematical identities,
 * invalid input */
#include "t.h"

static tiny_status fwht(tiny_ctx *ctx, float *x, tiny_idx rows, tiny_idx n, tiny_idx block, float scale, float *y)
{
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, rows, n), ty = tiny_tensor_2d(y, TINY_F32, rows, n);
    tiny_fwht_params p = { 0, 0.0f, 0 };
    p.block = block;
    p.scale = scale;
    return tiny_fwht(ctx, &tx, &p, &ty);
}

/* H_4 (1 2 3 4) worked on paper; the unit vectors give the columns of H, which are its rows */
static void test_by_hand(tiny_target target)
{
    static const float want[4] = { 10, -2, -4, 0 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_guarded(4), *y = t_guarded(4), *e = t_guarded(128 * 128), *h = t_guarded(128 * 128);
    int i, j, n;
    for (i = 0; i < 4; i++) x[i] = (float)(i + 1);
    T_OK(fwht(ctx, x, 1, 4, 0, 1.0f, y));
    T_SAME(y, want, 4);
    T_WALLS(y, 4);
    T_RAN_ON(ctx, t_vectors(target));
    for (i = 0; i < 128 * 128; i++) e[i] = i / 128 == i % 128 ? 1.0f : 0.0f;
    T_OK(fwht(ctx, e, 128, 128, 0, 1.0f, h));
    T_TRUE(h[0] == 1.0f);
    for (n = 1; n < 128; n *= 2)            /* H_2n = (H_n H_n; H_n -H_n) */
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) {
                const float v = h[i * 128 + j];
                T_TRUE(h[i * 128 + j + n] == v && h[(i + n) * 128 + j] == v && h[(i + n) * 128 + j + n] == -v);
            }
    t_close(ctx);
}

/* small integers: every way of summing them is exact, so that fast and reference agree in every bit */
static void test_exact(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    tiny_idx n, i;
    for (n = 1; n <= 2048; n *= 2) {
        const tiny_idx blocks = n > 256 ? 1 : 3, rows = n > 64 ? 2 : 7, all = blocks * rows * n;
        float *x = t_guarded((size_t)all), *y = t_guarded((size_t)all), *z = t_guarded((size_t)all);
        for (i = 0; i < all; i++) x[i] = (float)((int)t_rand_below(201) - 100);
        T_OK(fwht(ctx, x, rows, blocks * n, n, 1.0f, y));
        T_OK(fwht(plain, x, rows, blocks * n, n, 1.0f, z));
        T_SAME(y, z, all);
        T_WALLS(y, all);
    }
    t_close(plain);
    t_close(ctx);
}

/* twice is the identity, and lengths stay, when it is orthonormal; the error bound of the head comment twice */
static void test_orthonormal(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tiny_idx n, i;
    int k = 0;
    for (n = 1; n <= 8192; n *= 4, k += 2) {
        float *x = t_rand((size_t)n, -1.0f, 1.0f), *y = t_guarded((size_t)n), *z = t_guarded((size_t)n);
        double a = 0, b = 0, u = FLT_EPSILON / 2;
        T_OK(fwht(ctx, x, 1, n, 0, 0.0f, y));
        T_OK(fwht(ctx, y, 1, n, 0, 0.0f, z));
        for (i = 0; i < n; i++) {
            a += (double)x[i] * x[i];
            b += (double)y[i] * y[i];
        }
        T_CLOSE(sqrt(b), sqrt(a), (k + 2) * u * sqrt(a));
        for (i = 0; i < n; i++) T_CLOSE(z[i], x[i], 2 * (k + 2) * u * sqrt(a));
    }
    T_PROOF("quantization 0", "FWHT applied twice is the identity; norms kept");
    t_close(ctx);
}

/* rows with gaps, columns, backward: the same numbers as dense rows */
static void test_views(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(5 * 96 * 3, -2.0f, 2.0f), *y = t_guarded(5 * 96 * 3), *dx = t_guarded(5 * 96),
          *dy = t_guarded(5 * 96);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 5, 96), ty = tiny_tensor_2d(y, TINY_F32, 96, 5);
    int i, j;
    tx.stride[0] = 96 * 3;
    tx.stride[1] = 3;
    ty = tiny_tensor_swap(ty, 0, 1);
    ty.data = y + 95 * 5;
    ty.stride[1] = -5;
    for (i = 0; i < 5; i++)
        for (j = 0; j < 96; j++) dx[i * 96 + j] = x[i * 96 * 3 + j * 3];
    {
        tiny_fwht_params p = { 0, 0.0f, 0 };
        p.block = 32;
        p.scale = 0.25f;
        T_OK(tiny_fwht(ctx, &tx, &p, &ty));
    }
    T_OK(fwht(ctx, dx, 5, 96, 32, 0.25f, dy));
    for (i = 0; i < 5; i++)
        for (j = 0; j < 96; j++) T_TRUE(y[(95 - j) * 5 + i] == dy[i * 96 + j]);
    t_close(ctx);
}

/* The definition of a Hadamard matrix: all entries 1 or -1, all rows orthogonal. Every available order up to 256, four
 * times and eight times an order too, and the option transposed gives the transpose. In a product of matrices each
 * factor is found again. */
static void test_orders(tiny_target target)
{
    enum { MOST = 376 };
    static const tiny_idx larger[] = { 96, 344, 160, 376 };     /* 376 = 8 * 47 */
    tiny_ctx *ctx = t_ctx(target, 2);
    float *e = t_guarded(MOST * MOST), *h = t_guarded(MOST * MOST), *back = t_guarded(MOST * MOST),
          *small = t_guarded(12 * 12);
    tiny_fwht_params p = { 0, 1.0f, 0 };
    tiny_idx order, n, i, j, k, wrong;
    int found = 0, turned;
    for (order = 4; order < 256 + 16; order += 4) {
        n = order < 256 ? order : larger[(order - 256) / 4];
        if (tiny_fwht_block(n) != n) continue;
        found++;
        for (i = 0; i < n * n; i++) e[i] = i / n == i % n ? 1.0f : 0.0f;
        for (turned = 0; turned < 2; turned++) {
            tiny_tensor te = tiny_tensor_2d(e, TINY_F32, n, n), th = tiny_tensor_2d(turned ? back : h, TINY_F32, n, n);
            p.transposed = turned;
            T_OK(tiny_fwht(ctx, &te, &p, &th));
        }
        for (i = 0, wrong = 0; i < n; i++)
            for (j = 0; j < n; j++) {
                float dot = 0.0f;
                wrong += h[i * n + j] * h[i * n + j] != 1.0f || h[i * n + j] != back[j * n + i];
                for (k = 0; k < n && j <= i; k++) dot += h[i * n + k] * h[j * n + k];
                wrong += j <= i && dot != (i == j ? (float)n : 0.0f);
            }
        if (wrong) printf("    order %ld\n", (long)n);
        T_TRUE(wrong == 0);
        T_TRUE(turned == 2);
        if (n == 12) memcpy(small, h, 144 * sizeof *h);
        if (n == 96)
            for (i = 0; i < 96; i++)
                for (j = 0; j < 96; j++)
                    T_TRUE(h[i * 96 + j] == small[i / 8 * 12 + j / 8] * h[i % 8 * 96 + j % 8] * small[0]);
    }
    T_TRUE(found >= 50);
    /* orders of models: widths of networks that are used */
    T_TRUE(tiny_fwht_block(11008) == 11008 && tiny_fwht_block(14336) == 14336 && tiny_fwht_block(13824) == 13824 &&
           tiny_fwht_block(5632) == 5632);
    T_TRUE(tiny_fwht_block(4864) == 4864 && tiny_fwht_block(8960) == 8960 && tiny_fwht_block(18944) == 18944 &&
           tiny_fwht_block(172) == 172);
    T_TRUE(tiny_fwht_block(92) == 4 && tiny_fwht_block(52) == 4 && tiny_fwht_block(7) == 1 && tiny_fwht_block(0) == 0 &&
           tiny_fwht_block(-8) == 0);
    t_close(ctx);
}

/* small integers again, with views, and there and back: the transpose undoes it */
static void test_orders_exact(tiny_target target)
{
    static const tiny_idx order[] = { 12, 20, 40, 56, 144, 28 * 16, 44 * 8, 172 * 4, 104 };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t k;
    tiny_idx i;
    for (k = 0; k < sizeof order / sizeof order[0]; k++) {
        const tiny_idx n = order[k], all = 3 * 2 * n;
        float *x = t_guarded((size_t)all), *y = t_guarded((size_t)all), *z = t_guarded((size_t)all),
              *wide = t_guarded((size_t)all * 2);
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 2 * n), ty = tiny_tensor_2d(y, TINY_F32, 3, 2 * n),
                    tw = tiny_tensor_2d(wide, TINY_F32, 3, 2 * n);
        tiny_fwht_params p = { 0, 1.0f, 0 };
        p.block = n;
        p.transposed = (int)(k & 1);
        for (i = 0; i < all; i++) x[i] = (float)((int)t_rand_below(201) - 100);
        T_OK(tiny_fwht(ctx, &tx, &p, &ty));
        ty.data = z;
        T_OK(tiny_fwht(plain, &tx, &p, &ty));
        T_SAME(y, z, all);
        T_WALLS(y, all);
        tw.stride[0] = 4 * n;
        tw.stride[1] = 2;
        T_OK(tiny_fwht(ctx, &tx, &p, &tw));
        for (i = 0; i < all; i++) T_TRUE(wide[2 * i] == y[i]);
        p.transposed = !p.transposed;
        ty.data = z;
        T_OK(tiny_fwht(ctx, &tw, &p, &ty));
        for (i = 0; i < all; i++) T_TRUE(z[i] == x[i] * (float)n);
    }
    t_close(plain);
    t_close(ctx);
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[24] = { 0 }, y[24];
    tiny_tensor h = tiny_tensor_1d(x, TINY_F16, 4), f = tiny_tensor_1d(y, TINY_F32, 4),
                one = tiny_tensor_nd(x, TINY_F32, 0, NULL), r = tiny_tensor_nd(y, TINY_F32, 0, NULL);
    T_STATUS(fwht(ctx, x, 1, 14, 0, 0, y), TINY_E_SHAPE, "no matrix of order 14 here; blocks of 2 divide it");
    T_STATUS(fwht(ctx, x, 1, 24, 6, 0, y), TINY_E_SHAPE, "no matrix of order 6 here");
    T_STATUS(fwht(ctx, x, 1, 12, 8, 0, y), TINY_E_SHAPE, "rows of 12 values are not whole blocks of 8");
    T_STATUS(fwht(ctx, x, 1, 12, -4, 0, y), TINY_E_ARGUMENT, "negative");
    T_STATUS(fwht(ctx, x, 1, 8, 0, NAN, y), TINY_E_ARGUMENT, "not finite");
    T_STATUS(fwht(ctx, x, 1, 8, 0, 1, x), TINY_E_ALIAS, NULL);
    T_STATUS(fwht(ctx, NULL, 1, 8, 0, 1, y), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_fwht(ctx, &h, NULL, &f), TINY_E_DTYPE, "f16");
    T_STATUS(tiny_fwht(ctx, &one, NULL, &r), TINY_E_SHAPE, "rank 1");
    T_OK(fwht(ctx, x, 3, 0, 0, 1, y));      /* nothing to do */
    T_OK(fwht(ctx, x, 0, 8, 0, 1, y));
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_exact);
    T_RUN_TARGETS(test_orthonormal);
    T_RUN_TARGETS(test_views);
    T_RUN_TARGETS(test_orders);
    T_RUN_TARGETS(test_orders_exact);
    T_RUN(test_bad_input);
    return t_done();
}
