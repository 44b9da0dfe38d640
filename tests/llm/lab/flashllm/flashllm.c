/* tests/llm/lab/flashllm/flashllm.c - pruned matrices in tiles of compressed lists, and their products
 *
 * Truth    places and orders of items worked by hand from the description of the format; the sizes by the formula of
 *          the format; the dense product in double, for every share of zeros and every number of rows up to 65, in both
 *          forms; values in 16 bits that are kept bit for bit; and memory with walls, for items with false places. */
#include "t.h"
#include "older.h"
#define U 5.9604645e-8

/* multiples of 1/64 below 2: exact in f16 and in bf16; each is kept with a probability of share */
static float *sparse_matrix(size_t n, double share)
{
    float *w = t_guarded(n);
    size_t i;
    for (i = 0; i < n; i++) {
        const int v = (int)t_rand_below(255) - 127;
        w[i] = t_rand_float(0.0f, 1.0f) < (float)share ? (float)(v ? v : 1) / 64.0f : 0.0f;
    }
    return w;
}
static uint32_t at(unsigned row, unsigned column, unsigned value)
{
    return (uint32_t)(row * 64 + column) << 16 | value;
}

/* ---- the format */

/* 1.0 is 3c00 and -2.5 is c100 in f16 */
static void test_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float *w = (float *)t_keep(128 * 130 * sizeof *w);
    tiny_tensor t = tiny_tensor_2d(w, TINY_F32, 128, 130);
    tllm_csl_desc d;
    tllm_csl a, b;
    size_t items, bytes;
    int i;
    memset(&d, 0, sizeof d);
    w[0] = 1.0f;                            /* tile 0: three items and one of padding at the first place that is 0 */
    w[3 * 130 + 5] = -2.5f;
    w[63 * 130 + 63] = 1.0f;
    w[64 * 130 + 129] = 1.0f;               /* row of tiles 1, tile column 2: row 0, column 1; three of padding */
    T_OK(tllm_csl_size(ctx, &t, NULL, &items, &bytes));
    T_EQ_INT(items, 8);
    T_EQ_INT(bytes, 4 * 8 + 4 * (6 + 2));
    T_OK(tllm_csl_build(ctx, &t, NULL, &a));
    T_TRUE(a.n_item == 8 && a.n_nonzero == 4 && a.down == 2 && a.across == 3 && tllm_csl_bytes(&a) == bytes);
    T_TRUE(a.item[0] == at(0, 0, 0x3c00) && a.item[1] == at(0, 1, 0) && a.item[2] == at(3, 5, 0xc100) &&
           a.item[3] == at(63, 63, 0x3c00));
    T_TRUE(a.item[4] == at(0, 0, 0) && a.item[5] == at(0, 1, 0x3c00) && a.item[6] == at(0, 2, 0) &&
           a.item[7] == at(0, 3, 0));
    {
        static const int32_t offset[] = { 0, 1, 1, 1, 1, 1, 2, 2 };    /* units of 4 items, the last one repeated */
        T_SAME(a.offset, offset, 8);
    }
    /* one row of tiles; column 5 of row 3 is 5 ^ 24 */
    T_OK(tllm_csl_convert(ctx, &a, TLLM_CSL_PUBLISHED, &b));
    T_TRUE(b.down == 1 && b.across == 3 && b.n_nonzero == 4 && b.offset[1] == 1 && b.offset[2] == 1 &&
           b.offset[3] == 2);
    for (i = 0; i < 4 && b.item[i] != at(3, 29, 0xc100); i++) {}
    T_TRUE(i < 4);
    for (i = 4; i < 8 && b.item[i] != at(64, 1, 0x3c00); i++) {}
    T_TRUE(i < 8);
    tllm_csl_free(ctx, &b);
    tllm_csl_free(ctx, &a);
    T_OK(tllm_csl_build(ctx, &t, NULL, &a));
    /* no fours: the first of each row, the second */
    T_OK(tllm_csl_convert(ctx, &a, TLLM_CSL_WOVEN, &b));
    T_TRUE(b.item[0] == a.item[0] && b.item[1] == a.item[2] && b.item[2] == a.item[3] && b.item[3] == a.item[1]);
    T_TRUE(b.item[4] == (at(0, 0, 0) | 0x10000000u) && b.item[5] == a.item[5]);     /* row 0 of tile 5: one four */
    tllm_csl_free(ctx, &b);
    tllm_csl_free(ctx, &a);
    /* row 0 full: two items in each bank, so 16 lanes take columns 0 2 4 .. 30, then 32 34 .., then 1 3 .., then 33 35
     * .. */
    memset(w, 0, 128 * 130 * sizeof *w);
    for (i = 0; i < 64; i++) w[i] = 1.0f;
    d.profile = TLLM_CSL_PUBLISHED;
    T_OK(tllm_csl_build(ctx, &t, &d, &b));
    T_TRUE(b.n_item == 64 && b.n_nonzero == 64);
    for (i = 0; i < 16; i++) {
        const unsigned lane = (unsigned)i;
        T_TRUE(b.item[4 * i] == at(0, 2 * lane, 0x3c00) && b.item[4 * i + 1] == at(0, 32 + 2 * lane, 0x3c00));
        T_TRUE(b.item[4 * i + 2] == at(0, 2 * lane + 1, 0x3c00) && b.item[4 * i + 3] == at(0, 33 + 2 * lane, 0x3c00));
    }
    tllm_csl_free(ctx, &b);
    t_close(ctx);
}

/* 4 (items + tiles + 2) bytes; as worked out: even with f16 at 50 % zeros, 1.67, 2.50 and 4.99 times smaller at 70,
 * 80 and 90 % */
static void test_bytes(void)
{
    static const double zeros[] = { 0.5, 0.7, 0.8, 0.9 }, smaller[] = { 1.0, 1.67, 2.5, 4.99 };
    enum { N = 1024 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float *w = t_guarded((size_t)N * N);
    tiny_tensor t = tiny_tensor_2d(w, TINY_F32, N, N);
    size_t c;
    int i, j;
    for (c = 0; c < T_COUNT(zeros); c++) {
        size_t bytes;
        for (i = 0; i < N; i++)             /* the same number of zeros in every row */
            for (j = 0; j < N; j++) w[i * N + (j * 389 + i * 61) % N] = j < (int)(zeros[c] * N) ? 0.0f : 1.0f;
        T_OK(tllm_csl_size(ctx, &t, NULL, NULL, &bytes));
        T_CLOSE(2.0 * N * N / (double)bytes, smaller[c], 0.02 * smaller[c]);
    }
    t_close(ctx);
    T_PROOF("quantization 8",
            "bytes: 4 nnz padded + 4 (tiles + 2); 1.67, 2.50, 4.99 times smaller than f16 at 70, 80, 90 % zeros");
}

/* any 16 bits, but -0 and the quiet bit of NaN, through both profiles and through bytes; tiles that are empty, full,
 * cut at the edges */
static void test_identity(tiny_target target)
{
    static const short sizes[][2] = { { 1, 1 }, { 64, 64 }, { 63, 65 }, { 128, 64 }, { 129, 200 }, { 300, 70 } };
    tiny_ctx *ctx = t_ctx(target, 3);
    size_t c;
    int bf16, share, i;
    for (c = 0; c < T_COUNT(sizes); c++)
        for (bf16 = 0; bf16 < 2; bf16++)
            for (share = 0; share <= 8; share += 2) {
                const tiny_idx m = sizes[c][0], k = sizes[c][1];
                const size_t n = (size_t)(m * k);
                uint16_t *h = (uint16_t *)t_guarded_bytes(2 * n);
                float *want = t_guarded(n), *got = t_guarded(n);
                tiny_tensor t = tiny_tensor_2d(h, bf16 ? TINY_BF16 : TINY_F16, m, k),
                            y = tiny_tensor_2d(got, TINY_F32, m, k);
                tllm_csl_desc d;
                tllm_csl a, b, e, back, woven;
                void *bytes;
                size_t n_bytes, q;
                uint64_t nonzero = 0;
                unsigned char low[2];
                memset(&d, 0, sizeof d);
                d.bf16 = bf16;
                for (q = 0; q < n; q++) {
                    h[q] = (int)t_rand_below(8) < share ? (uint16_t)t_rand_u64() : t_rand_below(2) ? 0x8000u : 0;
                    if (q % 7 == 0 && share) h[q] = (uint16_t)(1 + t_rand_below(1023));    /* a denormal number */
                    nonzero += (h[q] & 0x7fffu) != 0;
                    low[0] = (unsigned char)h[q];
                    low[1] = (unsigned char)(h[q] >> 8);
                    /* of a file: the low byte first */
                    tllm_format_of(bf16 ? TLLM_FORMAT_BF16 : TLLM_FORMAT_F16)->unpack(low, &want[q], 1);
                    if (want[q] == 0.0f) want[q] = 0.0f;        /* and -0 is one of them */
                }
                T_OK(tllm_csl_build(ctx, &t, &d, &a));
                T_TRUE(a.n_nonzero == nonzero && a.n_item % 4 == 0 && a.n_item >= nonzero &&
                       a.n_item <= nonzero + 3 * (size_t)(a.down * a.across));
                T_OK(tllm_csl_check(ctx, &a));
                T_OK(tllm_csl_decode(ctx, &a, &y));
                /* a NaN is a NaN */
                for (q = 0; q < n; q++) if (want[q] != want[q] && got[q] != got[q]) got[q] = want[q];
                for (q = 0; q < n; q++) if (want[q] == 0.0f) want[q] = got[q] == 0.0f ? got[q] : want[q];
                T_SAME(got, want, n);
                T_WALLS(got, n);
                T_OK(tllm_csl_convert(ctx, &a, TLLM_CSL_PUBLISHED, &b));
                T_OK(tllm_csl_check(ctx, &b));
                T_TRUE(b.n_nonzero == nonzero);
                memset(got, 0x77, n * sizeof *got);
                T_OK(tllm_csl_decode(ctx, &b, &y));
                for (q = 0; q < n; q++) T_TRUE(got[q] == want[q] || (got[q] != got[q] && want[q] != want[q]));
                T_OK(tllm_csl_convert(ctx, &b, TLLM_CSL_ORDERED, &back));
                T_TRUE(back.n_item == a.n_item && back.bf16 == bf16);
                T_SAME(back.item, a.item, a.n_item);
                T_SAME(back.offset, a.offset, a.down * a.across + 2);
                tllm_csl_free(ctx, &back);
                T_OK(tllm_csl_convert(ctx, &b, TLLM_CSL_WOVEN, &woven));
                T_OK(tllm_csl_check(ctx, &woven));
                T_TRUE(woven.n_item == a.n_item && woven.n_nonzero == nonzero);
                memset(got, 0x77, n * sizeof *got);
                T_OK(tllm_csl_decode(ctx, &woven, &y));
                for (q = 0; q < n; q++) T_TRUE(got[q] == want[q] || (got[q] != got[q] && want[q] != want[q]));
                T_OK(tllm_csl_convert(ctx, &woven, TLLM_CSL_ORDERED, &back));
                T_SAME(back.item, a.item, a.n_item);
                for (i = 0; i < 3; i++) {
                    const tllm_csl *from = i == 2 ? &woven : i ? &b : &a;
                    T_OK(tllm_csl_pack(ctx, from, &bytes, &n_bytes));
                    T_EQ_INT(n_bytes, BOX_FRONT + (36 + tllm_csl_bytes(from) + 7) / 8 * 8 + BOX_END);
                    T_OK(tllm_csl_open(ctx, bytes, n_bytes, &e));
                    T_TRUE(e.n_out == m && e.k == k && e.profile == from->profile && e.bf16 == bf16 &&
                           e.n_nonzero == nonzero && e.n_item == from->n_item);
                    T_SAME(e.item, from->item, from->n_item);
                    T_SAME(e.offset, from->offset, from->down * from->across + 2);
                    tiny_free(ctx, bytes);
                    tllm_csl_free(ctx, &e);
                }
                for (q = 0; q + 1 < (size_t)(a.down * a.across) + 2; q++) T_TRUE(a.offset[q] <= a.offset[q + 1]);
                if (share == 8 && c == 3) T_TRUE(b.n_item == 8192 && b.n_nonzero + 3 >= nonzero);
                if (share == 0) T_TRUE(a.n_item == 0 && b.n_item == 0);
                tllm_csl_free(ctx, &a);
                tllm_csl_free(ctx, &b);
                tllm_csl_free(ctx, &back);
                tllm_csl_free(ctx, &woven);
                t_free_blocks();
            }
    t_close(ctx);
    T_PROOF(
        "quantization 8",
        "build + decode = identity, with -0.0, denormals, empty tiles, full tiles (8192 items), the last padded tile");
    T_PROOF("quantization 8", "offsets monotone");
    T_PROOF("quantization 8", "bad input: NaN value kept");
}

/* strides, and floats that 16 bits round: to 0, to infinity */
static void test_rounding(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float w[6] = { 1e-8f, 1.0f, -70000.0f, 65519.0f, -INFINITY, NAN }, y[6];
    tiny_tensor t = tiny_tensor_2d(w, TINY_F32, 2, 3), out = tiny_tensor_2d(y, TINY_F32, 2, 3),
                turned = tiny_tensor_swap(t, 0, 1), back = tiny_tensor_swap(out, 0, 1);
    tllm_csl_desc d;
    tllm_csl a;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_csl_build(ctx, &t, &d, &a), TINY_E_NUMERIC, "row 0, column 2 is too large for f16");
    T_TRUE(!a.block && !a.item && !a.n_item);
    T_STATUS(tllm_csl_size(ctx, &turned, &d, NULL, NULL), TINY_E_NUMERIC, "row 2, column 0 is too large");
    d.clamp = 1;
    T_OK(tllm_csl_build(ctx, &t, &d, &a));
    T_EQ_INT(a.n_nonzero, 5);
    T_OK(tllm_csl_decode(ctx, &a, &out));
    T_TRUE(y[0] == 0.0f && y[1] == 1.0f && y[2] == -65504.0f && y[3] == 65504.0f && y[4] == -INFINITY && y[5] != y[5]);
    tllm_csl_free(ctx, &a);
    memset(y, 0, sizeof y);
    T_OK(tllm_csl_build(ctx, &turned, &d, &a));
    T_TRUE(a.n_out == 3 && a.k == 2);
    T_OK(tllm_csl_decode(ctx, &a, &back));
    T_TRUE(y[0] == 0.0f && y[1] == 1.0f && y[2] == -65504.0f && y[5] != y[5]);
    tllm_csl_free(ctx, &a);
    d.clamp = 0;
    d.bf16 = 1;
    T_OK(tllm_csl_build(ctx, &t, &d, &a));
    T_EQ_INT(a.n_nonzero, 6);               /* bf16 reaches as far as f32 */
    tllm_csl_free(ctx, &a);
    w[3] = 3.4e38f;
    T_STATUS(tllm_csl_build(ctx, &t, &d, &a), TINY_E_NUMERIC, "row 1, column 0 is too large for bf16");
    t_close(ctx);
    T_PROOF("quantization 8", "bad input: f16 overflow of a value, clamped or refused by flag");
}

/* ---- products */

static void products_of(tiny_target target, tiny_idx m, tiny_idx k, int bf16, double share, int profile)
{
    enum { N = 65 };
    tiny_ctx *ctx = t_ctx(target, 3), *alone = t_ctx(target, 1);
    const float *w = sparse_matrix((size_t)(m * k), share);
    float *x = t_rand((size_t)(N * k), -1, 1), *y = t_guarded((size_t)(N * m)), *z = t_guarded((size_t)(N * m));
    double *want = (double *)t_keep((size_t)(N * m) * sizeof *want),
           *size = (double *)t_keep((size_t)(N * m) * sizeof *size);
    tiny_tensor tw = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, m, k);
    tllm_csl_desc d;
    tllm_csl a;
    tiny_idx n, i, r, c;
    int form;
    memset(&d, 0, sizeof d);
    d.bf16 = bf16;
    d.profile = profile;
    T_OK(tllm_csl_build(ctx, &tw, &d, &a));
    for (i = 0; i < N; i++)
        for (r = 0; r < m; r++)
            for (c = 0; c < k; c++) {
                const double v = (double)w[r * k + c] * (double)x[i * k + c];
                want[i * m + r] += v;
                size[i * m + r] += fabs(v);
            }
    for (n = 1; n <= N; n += T_SLOW && n > 2 ? 7 : 1)
        for (form = TLLM_FLASH_AUTO; form < TLLM_FLASH_FORMS; form++) {
            const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, k), ty = tiny_tensor_2d(y, TINY_F32, n, m),
                              tz = tiny_tensor_2d(z, TINY_F32, n, m);
            memset(y, 0x77, (size_t)(n * m) * sizeof *y);
            T_OK(tllm_flash_matmul_as(ctx, &tx, &a, (tllm_flash_form)form, &ty));
            T_RAN_ON(ctx, t_vectors(target));
            for (i = 0; i < n * m; i++) T_CLOSE(y[i], want[i], TINYI_MIN(((double)k + 2.0) * U, 1e-5) * size[i]);
            if (n % 9 != 1) continue;
            /* the same bits from one thread, */
            T_OK(tllm_flash_matmul_as(alone, &tx, &a, (tllm_flash_form)form, &tz));
            T_SAME(z, y, n * m);
            T_OK(tllm_flash_matmul_as(ctx, &tx, &a, (tllm_flash_form)form, &tz));       /* and again */
            T_SAME(z, y, n * m);
        }
    T_WALLS(y, N * m);
    T_WALLS(x, N * k);
    tllm_csl_free(ctx, &a);
    t_close(alone);
    t_close(ctx);
    t_free_blocks();
}

static void products(tiny_target target, tiny_idx m, tiny_idx k, int bf16, double share)
{
    products_of(target, m, k, bf16, share, TLLM_CSL_ORDERED);
    products_of(target, m, k, bf16, share, TLLM_CSL_WOVEN);
}

static void test_products(tiny_target target)
{
    static const double shares[] = { 0.0, 0.01, 0.1, 0.3, 0.5, 1.0 };
    size_t c;
    for (c = 0; c < T_COUNT(shares); c++) products(target, 130, 200, (int)c % 2, shares[c]);
    products(target, 64, 64, 0, 1.0);
    products(target, 1, 1, 0, 1.0);
    products(target, 3, 1500, 1, 0.4);      /* k in parts */
    products(target, 70, 1100, 0, 0.2);
    T_PROOF("quantization 8", "spmm = dense reference to 1e-5 for densities 0, .01, .1, .3, .5, 1 and N = 1..65");
    /* .01: most tiles are padded, and IMAGE is one of the forms */
    T_PROOF("quantization 8", "padding items never change the image");
}

/* x and y with strides, and y in columns */
static void test_strides(tiny_target target)
{
    enum { M = 150, K = 130, N = 20 };
    tiny_ctx *ctx = t_ctx(target, 2);
    const float *w = sparse_matrix(M * K, 0.3);
    float *x = t_rand(N * K, -1, 1), *xt = t_guarded(K * N), *y = t_guarded(N * M), *yt = t_guarded(M * N * 2);
    tiny_tensor tw = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, M, K), tx = tiny_tensor_2d(x, TINY_F32, N, K),
                ty = tiny_tensor_2d(y, TINY_F32, N, M), sx, sy;
    tllm_csl a;
    int form, i, j;
    for (i = 0; i < N; i++) for (j = 0; j < K; j++) xt[j * N + i] = x[i * K + j];
    sx = tiny_tensor_swap(tiny_tensor_2d(xt, TINY_F32, K, N), 0, 1);
    sy = tiny_tensor_swap(tiny_tensor_2d(yt, TINY_F32, M, N), 0, 1);
    sy.stride[0] = 2;
    sy.stride[1] = 2 * N;
    T_OK(tllm_csl_build(ctx, &tw, NULL, &a));
    for (form = 1; form < TLLM_FLASH_FORMS; form++) {
        T_OK(tllm_flash_matmul_as(ctx, &tx, &a, (tllm_flash_form)form, &ty));
        T_OK(tllm_flash_matmul_as(ctx, &sx, &a, (tllm_flash_form)form, &sy));
        for (i = 0; i < N; i++) for (j = 0; j < M; j++) T_TRUE(yt[(j * N + i) * 2] == y[i * M + j]);
    }
    tllm_csl_free(ctx, &a);
    t_close(ctx);
}

/* Only stored numbers are multiplied: infinities and NaN where the matrix is 0, also at places of the padding, have no
 * effect. */
static void test_not_finite(tiny_target target)
{
    enum { M = 70, K = 90, N = 3 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *w = (float *)t_keep(M * K * sizeof *w), *x = t_rand(N * K, -1, 1), y[N * M];
    tiny_tensor tw = tiny_tensor_2d(w, TINY_F32, M, K), tx = tiny_tensor_2d(x, TINY_F32, N, K),
                ty = tiny_tensor_2d(y, TINY_F32, N, M);
    tllm_csl a;
    int form, i;
    w[0 * K + 2] = 1.0f;                    /* the tile is padded at places 0, 1, 3 */
    w[5 * K + 80] = 2.0f;
    w[6 * K + 81] = INFINITY;
    w[7 * K + 82] = NAN;
    x[0] = INFINITY;
    x[K + 1] = NAN;
    x[2 * K + 80] = -INFINITY;
    T_OK(tllm_csl_build(ctx, &tw, NULL, &a));
    for (form = 0; form < TLLM_FLASH_FORMS; form++) {
        T_OK(tllm_flash_matmul_as(ctx, &tx, &a, (tllm_flash_form)form, &ty));
        for (i = 0; i < N; i++) {
            T_TRUE(y[i * M] == x[i * K + 2] && y[i * M + 5] == 2.0f * x[i * K + 80] && y[i * M + 1] == 0.0f);
            T_TRUE(y[i * M + 6] == (x[i * K + 81] > 0 ? INFINITY : -INFINITY) && y[i * M + 7] != y[i * M + 7]);
        }
    }
    x[0] = x[K + 1] = 0.5f;
    x[2 * K + 80] = 3.0f;
    for (form = 0; form < TLLM_FLASH_FORMS; form++) {           /* finite x, values that are not */
        T_OK(tllm_flash_matmul_as(ctx, &tx, &a, (tllm_flash_form)form, &ty));
        for (i = 0; i < N; i++) T_TRUE(y[i * M + 7] != y[i * M + 7] && y[i * M + 6] - y[i * M + 6] != 0.0f);
    }
    tllm_csl_free(ctx, &a);
    t_close(ctx);
}

/* The same beyond 64 rows of x, which are made 64 at a time, and with k in parts: few rows of tiles, and tiles enough
 * to cut. */
static void not_finite_at(tiny_target target, tiny_idx m, tiny_idx k, tiny_idx n, int profile)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    const float *w = sparse_matrix((size_t)(m * k), 0.2);
    float *x = t_rand((size_t)(n * k), -1, 1), *y = t_guarded((size_t)(n * m));
    tiny_tensor tw = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, m, k), tx = tiny_tensor_2d(x, TINY_F32, n, k),
                ty = tiny_tensor_2d(y, TINY_F32, n, m);
    tllm_csl_desc d;
    tllm_csl a;
    tiny_idx i, r, c;
    int form;
    memset(&d, 0, sizeof d);
    d.profile = profile;
    x[(n - 2) * k + k / 2] = INFINITY;
    x[k - 1] = NAN;
    T_OK(tllm_csl_build(ctx, &tw, &d, &a));
    for (form = 0; form < TLLM_FLASH_FORMS; form++) {
        int finite = 0, infinite = 0, nan = 0;
        memset(y, 0x77, (size_t)(n * m) * sizeof *y);
        T_OK(tllm_flash_matmul_as(ctx, &tx, &a, (tllm_flash_form)form, &ty));
        T_RAN_ON(ctx, t_vectors(target));
        for (i = 0; i < n; i++)
            for (r = 0; r < m; r++) {
                double want = 0, size = 0;
                for (c = 0; c < k; c++) {
                    if (w[r * k + c] == 0.0f) continue;
                    want += (double)w[r * k + c] * (double)x[i * k + c];
                    size += fabs((double)w[r * k + c] * (double)x[i * k + c]);
                }
                if (want != want) {
                    T_TRUE(y[i * m + r] != y[i * m + r]);
                    nan++;
                } else if (size - size != 0.0) {
                    T_TRUE((double)y[i * m + r] == want);
                    infinite++;
                } else {
                    T_CLOSE(y[i * m + r], want, ((double)k + 2.0) * U * size);
                    finite++;
                }
            }
        T_TRUE(nan > 0 && infinite > 0 && finite > (n - 2) * m - 1);
    }
    T_WALLS(y, n * m);
    tllm_csl_free(ctx, &a);
    t_close(ctx);
    t_free_blocks();
}

static void test_not_finite_in_parts(tiny_target target)
{
    int profile;
    for (profile = 0; profile < TLLM_CSL_PROFILES; profile++) {
        if (profile == TLLM_CSL_PUBLISHED) continue;
        not_finite_at(target, 70, 90, 67, profile);         /* the infinity is in row 65 */
        not_finite_at(target, 70, 700, 5, profile);
        not_finite_at(target, 30, 1100, 67, profile);
    }
}

/* items with any bits as places: every read stays in the memory of the call, every write in y */
static void test_hostile_items(tiny_target target)
{
    enum { M = 100, K = 140, N = 9, TILES = 6, ITEMS = TILES * 1000 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int32_t *item = (int32_t *)t_guarded_bytes(ITEMS * 4), *offset = (int32_t *)t_guarded_bytes((TILES + 2) * 4);
    float *x = t_rand(N * K, -1, 1), *y = t_guarded(N * M);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, K), ti = tiny_tensor_1d(item, TINY_I32, ITEMS),
                to = tiny_tensor_1d(offset, TINY_I32, TILES + 2), ty = tiny_tensor_2d(y, TINY_F32, N, M), bad;
    tllm_flash_params p;
    tiny_op op;
    int i;
    memset(&op, 0, sizeof op);
    memset(&p, 0, sizeof p);
    p.n_out = M;
    op.row = tllm_flash_row();
    op.in[0] = &tx;
    op.in[1] = &ti;
    op.in[2] = &to;
    op.out[0] = &ty;
    op.params = &p;
    for (i = 0; i < ITEMS; i++) item[i] = (int32_t)(uint32_t)t_rand_u64();
    for (i = 0; i <= TILES + 1; i++) offset[i] = TINYI_MIN(i, TILES) * 250;
    for (p.form = 0; p.form < TLLM_FLASH_FORMS; p.form++)
        for (p.woven = 0; p.woven < 2; p.woven++) {
            T_OK(tiny_run(ctx, &op));
            T_OK(tiny_run_reference(ctx, &op));
            x[5] = p.form == TLLM_FLASH_IMAGE ? NAN : 1.0f;
        }
    p.woven = 0;
    T_WALLS(y, N * M);
    T_WALLS(x, N * K);
    p.form = 0;
#define BAD(change, undo, status, part) (change, T_STATUS(tiny_run(ctx, &op), status, part), undo)
    BAD(offset[3] = 2000, offset[3] = 750, TINY_E_ARGUMENT, "tile 2 of 4096 places goes from offset 500 to 2000");
    BAD(offset[3] = 400, offset[3] = 750, TINY_E_ARGUMENT, "tile 2 of 4096 places goes from offset 500 to 400");
    BAD(offset[0] = -1, offset[0] = 0, TINY_E_ARGUMENT, "tile 0 of 4096 places goes from offset -1");
    BAD(offset[TILES + 1] = 7, offset[TILES + 1] = 1500, TINY_E_ARGUMENT, "offsets end at 1500 and 7");
    BAD((offset[TILES] = offset[TILES + 1] = 1501), (offset[TILES] = offset[TILES + 1] = 1500), TINY_E_ARGUMENT,
        "for 6000 items");
    BAD(p.n_out = 0, p.n_out = M, TINY_E_ARGUMENT, "0 outputs");
    BAD(p.form = 9, p.form = 0, TINY_E_ARGUMENT, "form 9");
    BAD(p.bf16 = 2, p.bf16 = 0, TINY_E_ARGUMENT, "values 2");
    BAD(p.n_out = 200, p.n_out = M, TINY_E_SHAPE, "8 offsets for 4 by 3 tiles");
    BAD(op.params = NULL, op.params = &p, TINY_E_ARGUMENT, "0 outputs");
    bad = ti;
    bad.dtype = TINY_F32;
    BAD(op.in[1] = &bad, op.in[1] = &ti, TINY_E_SHAPE, "they must be dense i32");
    bad = to;
    bad.stride[0] = 2;
    bad.dim[0] = 4;
    BAD(op.in[2] = &bad, op.in[2] = &to, TINY_E_SHAPE, "they must be dense i32");
    bad = tx;
    bad.dtype = TINY_I32;
    BAD(op.in[0] = &bad, op.in[0] = &tx, TINY_E_SHAPE, "2 axes of f32");
    BAD(ty.dim[1] = M - 1, ty.dim[1] = M, TINY_E_SHAPE, "it must be 9x100 f32");
#undef BAD
    T_OK(tiny_run(ctx, &op));
    t_close(ctx);
}

/* ---- bad input */

static void test_bad_matrices(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const float *w = sparse_matrix(130 * 70, 0.2);
    float y[130];
    tiny_tensor tw = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, 130, 70), t, tx,
                ty = tiny_tensor_2d(y, TINY_F32, 1, 130);
    tllm_csl_desc d;
    tllm_csl a, b, e, p;
    uint32_t *item, fours;
    int32_t *offset;
    int i;
    memset(&d, 0, sizeof d);
    T_OK(tllm_csl_build(ctx, &tw, NULL, &a));
    item = (uint32_t *)t_keep(a.n_item * 4);
    offset = (int32_t *)t_keep(8 * 4);
    memcpy(item, a.item, a.n_item * 4);
    memcpy(offset, a.offset, 8 * 4);
    b = a;
    b.block = NULL;
    b.item = item;
    b.offset = offset;
    T_OK(tllm_csl_check(ctx, &b));
#define BAD(what, change, undo, status, part) (change, T_STATUS(tllm_csl_check(ctx, what), status, part), undo)
    BAD(&b, item[2] |= 0xffff0000u, item[2] = a.item[2], TINY_E_FORMAT, "tile 0: item 2 is at place 65535 of 4096");
    BAD(&b, item[2] = 4096u << 16, item[2] = a.item[2], TINY_E_FORMAT, "item 2 is at place 4096 of 4096");
    BAD(&b, item[3] = item[2], item[3] = a.item[3], TINY_E_FORMAT, "two items are at place");
    BAD(&b, (item[3] = a.item[2], item[2] = a.item[3]), (item[2] = a.item[2], item[3] = a.item[3]), TINY_E_FORMAT,
        "comes after place");
    BAD(&b, offset[2] = offset[1] - 1, offset[2] = a.offset[2], TINY_E_FORMAT, "offset 2 falls from");
    BAD(&b, offset[0] = 1, offset[0] = 0, TINY_E_FORMAT, "the first offset is 1, not 0");
    BAD(&b, offset[3] += 2000, offset[3] = a.offset[3], TINY_E_FORMAT, "but only 4096 places");
    BAD(&b, offset[7] = 0x7fffffff, offset[7] = a.offset[7], TINY_E_FORMAT, "it must repeat");
    BAD(&b, b.n_item -= 4, b.n_item += 4, TINY_E_FORMAT, "offsets end at");
    BAD(&b, b.n_nonzero++, b.n_nonzero--, TINY_E_FORMAT, "values are not 0, but the header says");
    BAD(&b, b.k = 66, b.k = 70, TINY_E_FORMAT, "holds a value outside the 130 by 66 numbers");
    BAD(&b, b.across = 3, b.across = 2, TINY_E_FORMAT, "by 3 tiles for 130 by 70");
    BAD(&b, b.n_out = -5, b.n_out = 130, TINY_E_SHAPE, "-5 rows");
    BAD(&b, b.n_out = 0, b.n_out = 130, TINY_E_SHAPE, "0 rows of 70 numbers");
    BAD(&b, b.profile = 3, b.profile = 0, TINY_E_ARGUMENT, "profile 3");
    BAD(&b, b.offset = NULL, b.offset = offset, TINY_E_ARGUMENT, "offsets and items is needed");
    BAD(NULL, (void)0, (void)0, TINY_E_ARGUMENT, "is needed");
#undef BAD
    T_OK(tllm_csl_check(ctx, &b));
    T_OK(tllm_csl_convert(ctx, &a, TLLM_CSL_WOVEN, &p));
    memcpy(item, p.item, p.n_item * 4);
    b.profile = TLLM_CSL_WOVEN;
    T_OK(tllm_csl_check(ctx, &b));
    T_TRUE(item[0] >> 28 > 0);
    fours = item[0] >> 28 | item[1] >> 28 << 4 | item[2] >> 28 << 8;
    for (i = 0; i < 3; i++) item[i] = (item[i] & 0x0fffffffu) | ((fours + 1) >> 4 * i & 15u) << 28;
    T_STATUS(tllm_csl_check(ctx, &b), TINY_E_FORMAT, " is not in the row of the item before");
    item[0] = p.item[0];
    item[2] |= 0xf0000000u;
    T_STATUS(tllm_csl_check(ctx, &b), TINY_E_FORMAT, " groups of four in ");
    item[1] = p.item[1];
    item[2] = p.item[2];
    item[3] |= 0x10000000u;
    T_STATUS(tllm_csl_check(ctx, &b), TINY_E_FORMAT, "tile 0: item 3 is at place");
    memcpy(item, a.item, a.n_item * 4);
    b.profile = TLLM_CSL_ORDERED;
    tllm_csl_free(ctx, &p);
    item[2] = 4096u << 16;                  /* and every call that reads all of it reports it */
    T_STATUS(tllm_csl_convert(ctx, &b, 1, &p), TINY_E_FORMAT, "csl_convert: tile 0: item 2 is at place 4096");
    T_STATUS(tllm_csl_convert(ctx, &a, 3, &p), TINY_E_ARGUMENT, "no profile 3");
    T_STATUS(tllm_csl_convert(ctx, &a, 1, &a), TINY_E_ARGUMENT, "other than the matrix itself");
    t = tw;
    t.dtype = TINY_I32;
    T_STATUS(tllm_csl_build(ctx, &t, NULL, &p), TINY_E_ARGUMENT, "f32, f16 or bf16");
    T_STATUS(tllm_csl_build(ctx, NULL, NULL, &p), TINY_E_ARGUMENT, "f32, f16 or bf16");
    T_STATUS(tllm_csl_build(ctx, &tw, NULL, NULL), TINY_E_ARGUMENT, "a result pointer");
    t = tw;
    t.dim[1] = 0;
    T_STATUS(tllm_csl_build(ctx, &t, NULL, &p), TINY_E_SHAPE, "130 rows of 0 numbers");
    t = tw;
    t.dim[0] = 0x7fffffff;
    t.dim[1] = 1 << 21;
    t.stride[0] = t.stride[1] = 0;          /* one number, again and again: 2^40 tiles */
    T_STATUS(tllm_csl_build(ctx, &t, NULL, &p), TINY_E_OVERFLOW, "more than offsets can index");
    d.profile = -1;
    T_STATUS(tllm_csl_build(ctx, &tw, &d, &p), TINY_E_ARGUMENT, "no profile -1");
    T_STATUS(tllm_csl_decode(ctx, &a, &ty), TINY_E_SHAPE, "y must be 130 by 70");
    tx = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, 1, 70);
    T_OK(tllm_csl_convert(ctx, &a, TLLM_CSL_PUBLISHED, &p));
    T_STATUS(tllm_flash_matmul(ctx, &tx, &p, &ty), TINY_E_UNSUPPORTED, "tllm_csl_convert makes it ordered");
    tx.dim[1] = 69;
    T_STATUS(tllm_flash_matmul(ctx, &tx, &a, &ty), TINY_E_SHAPE, "69 numbers, but those of the matrix 70");
    T_STATUS(tllm_flash_matmul(ctx, NULL, &a, &ty), TINY_E_ARGUMENT, "input 0 is missing");
    T_STATUS(tllm_flash_matmul(ctx, &tx, NULL, &ty), TINY_E_ARGUMENT, "the matrix is NULL");
    tx.dim[1] = 70;
    for (i = 0; i < 5; i++) {               /* changed sizes: nothing is counted beyond the possible */
        static const tiny_idx down[] = { TINY_IDX_MAX, TINY_IDX_MAX / 2, 0, -1, 3 },
                              across[] = { TINY_IDX_MAX, 2, 2, 2, -TINY_IDX_MAX };
        e = a;
        e.down = down[i];
        e.across = across[i];
        T_STATUS(tllm_flash_matmul(ctx, &tx, &e, &ty), TINY_E_SHAPE, "tiles; the counts must be above 0");
        T_TRUE(tllm_flash_form_of(ctx, &e, 1) == TLLM_FLASH_AUTO);
        if (i != 2) T_TRUE(tllm_csl_bytes(&e) == SIZE_MAX);
    }
    e = a;
    e.n_item = (size_t)PTRDIFF_MAX + 1;
    T_STATUS(tllm_flash_matmul(ctx, &tx, &e, &ty), TINY_E_OVERFLOW, " items are more than memory can hold");
    T_TRUE(tllm_csl_bytes(&e) == SIZE_MAX);
    e.n_item = SIZE_MAX / 4 - 8;            /* 6 tiles, and 2 more offsets: it just fits, and no item more does */
    T_TRUE(tllm_csl_bytes(&e) == SIZE_MAX / 4 * 4);
    e.n_item++;
    T_TRUE(tllm_csl_bytes(&e) == SIZE_MAX && tllm_csl_bytes(NULL) == 0);
    tllm_csl_free(ctx, &p);
    tllm_csl_free(ctx, &a);
    tllm_csl_free(ctx, NULL);
    t_close(ctx);
    T_PROOF("quantization 8", "bad input: position >= tile size, offsets decreasing or past the end");
}

static uint32_t crc(const unsigned char *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    int k;
    for (; n; n--, p++) for (c ^= *p, k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    return ~c;
}
static void put(unsigned char *p, uint64_t v, int bytes) { for (; bytes; bytes--, v >>= 8) *p++ = (unsigned char)v; }

static void test_bad_bytes(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const float *w = sparse_matrix(66 * 65, 0.05);
    tiny_tensor tw = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, 66, 65);
    unsigned char *bytes, *work;
    void *made;
    size_t n, i;
    tllm_csl a, b;
    T_OK(tllm_csl_build(ctx, &tw, NULL, &a));
    T_OK(tllm_csl_pack(ctx, &a, &made, &n));
    T_TRUE(tllm_csl_open(ctx, made, n - 8, &b) != TINY_OK);
    bytes = older(made, "TINYCSL", 1, 4, &n);       /* all else in the older form, whose body is the same */
    put(bytes + n - 4, crc(bytes, n - 4), 4);
    for (i = 0; i < n; i++) {               /* cut anywhere; any bit turned */
        unsigned char *cut = (unsigned char *)t_guarded_bytes(i);
        memcpy(cut, bytes, i);
        T_TRUE(tllm_csl_open(ctx, cut, i, &b) != TINY_OK && *tiny_ctx_message(ctx) && !b.block && !b.n_item);
        (void)cut;
    }
    work = (unsigned char *)t_keep(n + 8);
    for (i = 0; i < n; i++) {
        memcpy(work, bytes, n);
        work[i] = (unsigned char)(work[i] ^ 1u << i % 8);
        T_TRUE(tllm_csl_open(ctx, work, n, &b) != TINY_OK && *tiny_ctx_message(ctx));
    }
#define BAD(at, v, width, status, part)                                                          \
    (memcpy(work, bytes, n), put(work + (at), v, width), put(work + n - 4, crc(work, n - 4), 4), \
     T_STATUS(tllm_csl_open(ctx, work, n, &b), status, part))
    BAD(0, 'X', 1, TINY_E_FORMAT, "not a matrix of tiles");
    BAD(8, 2, 4, TINY_E_VERSION, "version 2");
    BAD(12, 8, 4, TINY_E_FORMAT, "flags 8");
    BAD(12, 5, 4, TINY_E_FORMAT, "flags 5");
    BAD(16, 0, 8, TINY_E_SHAPE, "0 rows of 65");
    BAD(16, UINT64_MAX, 8, TINY_E_SHAPE, "18446744073709551615 rows");
    BAD(16, 0x7fffffff, 8, TINY_E_FORMAT, "are not the");
    BAD(24, (uint64_t)1 << 63, 8, TINY_E_SHAPE, "rows of 9223372036854775808 numbers");
    BAD(24, 129, 8, TINY_E_FORMAT, "6 tiles");
    BAD(32, UINT64_MAX, 8, TINY_E_FORMAT, "18446744073709551615 of them values");
    BAD(32, 1, 8, TINY_E_FORMAT, "the header says 1");
    BAD(40, (uint64_t)1 << 62, 8, TINY_E_FORMAT, "4611686018427387904 items");
    BAD(40, UINT64_MAX - 3, 8, TINY_E_FORMAT, "items");
    BAD(40, a.n_item + 4, 8, TINY_E_FORMAT, "are not the");
    BAD(40, a.n_item - 1, 8, TINY_E_FORMAT, "are not the");
    BAD(48, 1, 4, TINY_E_FORMAT, "the first offset is 1");
    BAD(52, 0x80000000u, 4, TINY_E_FORMAT, "offset 1 falls from 0 to -1");
    BAD(52, 0x7fffffffu, 4, TINY_E_FORMAT, "places");
    BAD(48 + 4 * 6 + 2, 4096, 2, TINY_E_FORMAT, "is at place 4096 of 4096");
    BAD(12, 1, 4, TINY_E_FORMAT, NULL);     /* as the other profile it has other tiles */
#undef BAD
    T_STATUS(tllm_csl_open(ctx, NULL, 0, &b), TINY_E_FORMAT, "its 0 bytes are not a matrix");
    T_STATUS(tllm_csl_open(ctx, bytes, n, NULL), TINY_E_ARGUMENT, "the result pointer is NULL");
    memcpy(work, bytes, n);
    put(work + n, crc(work, n), 4);
    T_STATUS(tllm_csl_open(ctx, work, n + 4, &b), TINY_E_FORMAT, "bytes that follow");
    T_OK(tllm_csl_open(ctx, bytes, n, &b));
    tllm_csl_free(ctx, &b);
    tllm_csl_free(ctx, &a);
    tiny_free(ctx, made);
    t_close(ctx);
    T_PROOF("quantization 8", "bad input: nnz overflow");
}

static void test_files(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const float *w = sparse_matrix(100 * 100, 0.1);
    tiny_tensor tw = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, 100, 100);
    char path[400];
    tllm_csl a, b;
    const char *folder = getenv("TMPDIR");
    (void)snprintf(path, sizeof path, "%s/tiny-flashllm-%ld.csl", folder ? folder : "/tmp",
                   (long)t_rand_below(1000000));
    T_OK(tllm_csl_build(ctx, &tw, NULL, &a));
    T_OK(tllm_csl_save(ctx, &a, path));
    T_OK(tllm_csl_load(ctx, path, &b));
    T_TRUE(b.n_item == a.n_item);
    T_SAME(b.item, a.item, a.n_item);
    tllm_csl_free(ctx, &b);
    (void)remove(path);
    T_STATUS(tllm_csl_load(ctx, path, &b), TINY_E_IO, NULL);
    T_STATUS(tllm_csl_load(ctx, NULL, &b), TINY_E_ARGUMENT, "a path");
    T_STATUS(tllm_csl_save(ctx, &a, NULL), TINY_E_ARGUMENT, "a path");
    tllm_csl_free(ctx, &a);
    t_close(ctx);
}

static void test_memory(tiny_target target)
{
    const float *w = sparse_matrix(200 * 140, 0.3);
    float *x = t_rand(5 * 140, -1, 1), *y = t_guarded(5 * 200);
    tiny_tensor tw = tiny_tensor_2d((void *)(uintptr_t)w, TINY_F32, 200, 140), tx = tiny_tensor_2d(x, TINY_F32, 5, 140),
                ty = tiny_tensor_2d(y, TINY_F32, 5, 200);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(target, 2);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&cd, &ctx)) {
            tllm_csl a; tllm_csl b; tllm_csl e;
            void *bytes = NULL;
            size_t n = 0;
            tiny_status st = tllm_csl_build(ctx, &tw, NULL, &a);
            if (!st) st = tllm_csl_convert(ctx, &a, 1, &b);
            else memset(&b, 0, sizeof b);
            if (!st) st = tllm_csl_pack(ctx, &b, &bytes, &n);
            memset(&e, 0, sizeof e);
            if (!st) st = tllm_csl_open(ctx, bytes, n, &e);
            if (!st) st = tllm_flash_matmul(ctx, &tx, &a, &ty);
            if (!st) st = tllm_csl_prune(ctx, &ty, NULL, 0.5);
            T_TRUE(!st || st == TINY_E_MEMORY);
            tiny_free(ctx, bytes);
            tllm_csl_free(ctx, &a);
            tllm_csl_free(ctx, &b);
            tllm_csl_free(ctx, &e);
        }
        tiny_ctx_close(ctx);)
}

/* |w| norm: 3 1 2 0.5 with norms 1 1 0.1 8 is 3 1 0.2 4; half of it goes */
/* the choice of AUTO: item by item for few items, the image for many items and many rows of x */
static void test_choice(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const float *thin = sparse_matrix(256 * 256, 0.1), *full = sparse_matrix(256 * 256, 1.0);
    tiny_tensor t = tiny_tensor_2d((void *)(uintptr_t)thin, TINY_F32, 256, 256);
    tllm_csl a, b;
    T_OK(tllm_csl_build(ctx, &t, NULL, &a));
    t.data = (void *)(uintptr_t)full;
    T_OK(tllm_csl_build(ctx, &t, NULL, &b));
    T_TRUE(tllm_flash_form_of(ctx, &a, 1) == TLLM_FLASH_DIRECT && tllm_flash_form_of(ctx, &a, 32) == TLLM_FLASH_DIRECT);
    T_TRUE(tllm_flash_form_of(ctx, &b, 32) == TLLM_FLASH_IMAGE && tllm_flash_form_of(ctx, NULL, 1) == TLLM_FLASH_AUTO);
    tllm_csl_free(ctx, &a);
    tllm_csl_free(ctx, &b);
    t_close(ctx);
}

static void test_conformance(tiny_target target) { t_conform(target, tllm_flash_row(), T_SLOW ? 18 : 72); }

static void test_reference(void)
{
    products(TINY_TARGET_REFERENCE, 70, 130, 0, 0.3);
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_bytes);
    T_RUN(test_rounding);
    T_RUN(test_reference);
    T_RUN_FORMS(test_identity);
    T_RUN_TARGETS(test_products);
    T_RUN_FORMS(test_strides);
    T_RUN_FORMS(test_not_finite);
    T_RUN_FORMS(test_not_finite_in_parts);
    T_RUN_FORMS(test_hostile_items);
    T_RUN_TARGETS(test_conformance);
    T_RUN_FORMS(test_memory);
    T_RUN(test_bad_matrices);
    T_RUN(test_bad_bytes);
    T_RUN(test_files);
    T_RUN(test_choice);
    return t_done();
}
