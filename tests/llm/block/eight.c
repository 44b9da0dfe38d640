/* tests/llm/block/eight.c - matrices with eight rows side by side: the same blocks again, every number where the layout
 * says, products of every target against the reference within the bound of src/llm/block/matmul.c, integers exactly,
 * refused arguments */
#include "t.h"
#include "llm/block/product.h"

static const char *const formats[] = { "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K" };
static const int scale_at[][2] = {
    { 0, -1 }, { 0, -1 }, { 0, 2 }, { 0, -1 }, { 0, 2 }, { 0, 2 }, { 0, 2 }, { 208, -1 }
};
static const int halves[] = { 1, 1, 2, 1, 2, 2, 2, 1 };

static uint32_t drawn = 1;
static unsigned draw(void) { drawn = drawn * 1664525u + 1013904223u; return drawn >> 16; }

/* random bytes, whose halves are numbers of a realistic size, or 1 */
static unsigned char *weights(int i_format, tiny_idx n_out, tiny_idx k, int ones)
{
    const tllm_format *f = tllm_format_by_name(formats[i_format]);
    const size_t bytes = (size_t)n_out * tllm_format_bytes(f, (uint64_t)k);
    unsigned char *w = (unsigned char *)t_keep(bytes + 1);
    size_t b, i;
    int j;
    for (i = 0; i < bytes; i++) w[i] = (unsigned char)draw();
    for (b = 0; b < bytes; b += (size_t)f->bytes)
        for (j = 0; j < 2; j++)
            if (scale_at[i_format][j] >= 0) {
                const unsigned h = ones ? 0x3c00u : 0x1000u | (draw() & 0x8fffu);
                w[b + (size_t)scale_at[i_format][j]] = (unsigned char)h;
                w[b + (size_t)scale_at[i_format][j] + 1] = (unsigned char)(h >> 8);
            }
    return w;
}

static void test_back(void)
{
    static const int rows[] = { 1, 7, 8, 9, 16, 21, 40 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    size_t i, j;
    int k;
    for (i = 0; i < T_COUNT(formats); i++)
        for (j = 0; j < T_COUNT(rows); j++)
            for (k = 1; k < 4; k += 2) {
                const tllm_format *f = tllm_format_by_name(formats[i]);
                const tiny_idx n = rows[j], wide = k * f->values;
                const size_t bytes = (size_t)n * tllm_format_bytes(f, (uint64_t)wide);
                unsigned char *w = weights((int)i, n, wide, 0), *e = (unsigned char *)t_guarded((bytes + 3) / 4),
                              *back = (unsigned char *)t_guarded((bytes + 3) / 4);
                T_OK(tllm_repack(ctx, f->id, w, n, wide, e));
                T_OK(tllm_repack_back(ctx, f->id, e, n, wide, back));
                T_SAME(back, w, bytes);
                T_SAME(e + (size_t)(n / 8 * 8) * (bytes / (size_t)n), w + (size_t)(n / 8 * 8) * (bytes / (size_t)n),
                       (size_t)(n % 8) * (bytes / (size_t)n));
                T_WALLS(e, bytes);
                T_WALLS(back, bytes);
                t_free_blocks();
            }
    t_close(ctx);
}

/* code n of row i of a group's first block, taken from the bytes as the head of eight.c draws them */
static int code_at(int i_format, const unsigned char *e, int i, int n)
{
    const int v = n % 32 / 4, b = 4 * i + n % 4, at = 16 * halves[i_format];
    const char *name = formats[i_format];
    const unsigned char *p = e + at;
    if (!strcmp(name, "Q8_0")) return (signed char)p[32 * v + b];
    if (!strcmp(name, "Q4_0") || !strcmp(name, "Q4_1")) return p[32 * (v % 4) + b] >> v / 4 * 4 & 15;
    if (!strcmp(name, "Q4_K")) return p[96 + n / 64 * 256 + 32 * v + b] >> n / 32 % 2 * 4 & 15;
    if (!strcmp(name, "Q6_K")) {
        p += 128 + n / 16 * 96 + b;
        return n % 16 / 4 < 3 ? p[32 * (n % 16 / 4)] & 63 : p[0] >> 6 | p[32] >> 6 << 2 | p[64] >> 6 << 4;
    }
    p += (strcmp(name, "Q5_K") ? 0 : 96 + n / 32 * 160) + b;
    if (v < 5) return p[32 * v] & 31;
    if (v == 5) return p[0] >> 5 | (p[32] >> 5 & 3) << 3;
    if (v == 6) return p[64] >> 5 | (p[96] >> 5 & 3) << 3;
    return p[128] >> 5 | p[96] >> 7 << 3 | p[32] >> 7 << 4;
}
/* the scale and the offset of number n: integers where halves are 1 */
static int scale_of(int i_format, const unsigned char *e, int i, int n, int *low)
{
    const char *name = formats[i_format];
    const int g = n / 32, at = 8 * (g % 4) + i;
    *low = !strcmp(name, "Q4_0")                            ? -8
           : !strcmp(name, "Q5_0")                          ? -16
           : !strcmp(name, "Q4_1") || !strcmp(name, "Q5_1") ? 1
                                                            : 0;
    if (!strcmp(name, "Q6_K")) {
        const int s = (signed char)e[16 + n / 16 * 8 + i];
        *low = -32 * s;
        return s;
    }
    if (!strcmp(name, "Q4_K") || !strcmp(name, "Q5_K")) {
        const unsigned char *p = e + 32 + at;
        *low = -(g < 4 ? p[64] & 63 : p[0] >> 6 | p[32] >> 6 << 2 | p[64] >> 6 << 4);
        return p[g < 4 ? 0 : 32] & 63;
    }
    return 1;
}
/* Every number is where the layout says: its value from the repacked bytes equals the format's unpack of the row. */
static void test_layout(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t j;
    int i, n, low;
    for (j = 0; j < T_COUNT(formats); j++) {
        const tllm_format *f = tllm_format_by_name(formats[j]);
        unsigned char *w = weights((int)j, 8, f->values, 1), *e = (unsigned char *)t_keep(8 * (size_t)f->bytes);
        float x[256];
        T_OK(tllm_repack(ctx, f->id, w, 8, f->values, e));
        for (i = 0; i < 8; i++) {
            f->unpack(w + (size_t)i * (size_t)f->bytes, x, (size_t)f->values);
            for (n = 0; n < f->values; n++) {
                const int s = scale_of((int)j, e, i, n, &low);
                if (!T_EQ_INT((int)x[n], s * code_at((int)j, e, i, n) + low)) {
                    printf("  %s row %d number %d\n", f->name, i, n);
                    break;
                }
            }
        }
        t_free_blocks();
    }
    t_close(ctx);
}

typedef struct shape { tiny_idx n, n_out, k; } shape;

static void one_product(tiny_ctx *ctx, tiny_target target, int i_format, shape s, int with_bias, int strange, int apart)
{
    const tllm_format *f = tllm_format_by_name(formats[i_format]);
    const tiny_idx row = (tiny_idx)tllm_format_bytes(f, (uint64_t)s.k), n = s.n, n_out = s.n_out, count = n * n_out;
    const double k = target == TINY_TARGET_AMX && n >= 9 ? 131400.0 : 66100.0;
    unsigned char *w = weights(i_format, n_out, s.k, 0), *e = (unsigned char *)t_keep((size_t)(n_out * row));
    float *x = t_rand((size_t)(n * s.k), -2.0f, 2.0f), *bias = t_rand((size_t)n_out, -1.0f, 1.0f),
          *y = t_guarded((size_t)(count * (apart ? 3 : 1))), *want = (float *)t_keep((size_t)count * sizeof *want);
    float *size = (float *)t_keep((size_t)count * sizeof *size), *same = (float *)t_keep((size_t)count * sizeof *same);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, s.k), tw = tiny_tensor_2d(w, TINY_U8, n_out, row),
                te = tiny_tensor_2d(e, TINY_U8, n_out, row), tb = tiny_tensor_1d(bias, TINY_F32, n_out);
    tiny_tensor ty = tiny_tensor_2d(want, TINY_F32, n, n_out);
    tllm_matmul_params p = { 0, 0, 0 };
    tiny_op op = op_of(&tx, &tw, with_bias ? &tb : NULL, &ty, &p);
    tiny_idx i, j;
    x[0] = 9.0f;                            /* one outlier */
    if (strange) x[(n - 1) * s.k + 3] = INFINITY;
    p.format = f->id;
    T_OK(tllm_repack(ctx, f->id, w, n_out, s.k, e));
    T_OK(tiny_run_reference(ctx, &op));
    op.in[1] = &te;                         /* the reference reads both forms */
    p.format |= TLLM_REPACKED;
    ty.data = same;
    T_OK(tiny_run_reference(ctx, &op));
    T_SAME(same, want, (size_t)count);
    p.magnitude = 1;
    ty.data = size;
    op.in[2] = NULL;
    T_OK(tiny_run_reference(ctx, &op));
    p.magnitude = 0;
    ty.data = y;
    if (apart) { ty.stride[0] = 3 * n_out; ty.stride[1] = 3; }
    op.in[2] = with_bias ? &tb : NULL;
    T_OK(tiny_run(ctx, &op));
    T_TRUE(tiny_ctx_ran_on(ctx) == target || target == TINY_TARGET_AMX || strange);
    for (i = 0; i < n; i++)
        for (j = 0; j < n_out; j++) {
            const tiny_idx at = i * n_out + j;
            const float got = apart ? y[3 * at] : y[at];
            const double allowed = (k + 1.01 * (double)(s.k + 2)) / 16777216.0 * (double)size[at] +
                                   (with_bias ? 2.0 / 16777216.0 : 0.0) + fabs((double)want[at]) / 8388608.0;
            if (strange && i == n - 1) {    /* infinite or NaN, as in the reference */
                if (!T_TRUE(got == want[at] || (got != got && want[at] != want[at]))) break;
            } else if (!T_CLOSE(got, want[at], allowed)) {
                printf("  %s, %d rows, %d x %d, row %d number %d\n", f->name, (int)n, (int)n_out, (int)s.k, (int)i,
                       (int)j);
                break;
            }
        }
    T_WALLS(y, (size_t)(count * (apart ? 3 : 1)));
    /* the same bits one by one and all at once */
    p.alone = 1;
    T_OK(tiny_run(ctx, &op));
    for (i = 0; i < n; i++) {
        tiny_tensor one = tiny_tensor_2d(same + i * n_out, TINY_F32, 1, n_out);
        tx.dim[0] = 1;
        tx.data = x + i * s.k;
        op.out[0] = &one;
        T_OK(tiny_run(ctx, &op));
        for (j = 0; j < n_out; j++)
            if (memcmp(&same[i * n_out + j], &y[(apart ? 3 : 1) * (i * n_out + j)], sizeof *y)) break;
        if (!T_TRUE(j == n_out)) printf("  %s, row %d of %d alone\n", f->name, (int)i, (int)n);
    }
    t_free_blocks();
}

static void test_products(tiny_target target)
{
    static const shape shapes[] = { { 1, 8, 256 },    { 1, 7, 256 },   { 1, 31, 512 },  { 1, 64, 1024 },
                                    { 1, 325, 2048 }, { 2, 40, 512 },  { 3, 33, 256 },  { 4, 48, 768 },
                                    { 5, 9, 512 },    { 6, 16, 256 },  { 7, 23, 512 },  { 8, 72, 512 },
                                    { 9, 41, 256 },   { 13, 40, 512 }, { 19, 45, 256 }, { 33, 72, 512 } },
                       odd[] = { { 1, 19, 32 }, { 1, 40, 96 }, { 2, 24, 288 },
                                 { 3, 8, 544 }, { 8, 24, 96 }, { 20, 21, 288 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i, j;
    for (i = 0; i < T_COUNT(formats); i++) {
        for (j = 0; j < T_COUNT(shapes); j++) one_product(ctx, target, (int)i, shapes[j], j % 2 == 1, 0, 0);
        for (j = 0; j < T_COUNT(odd) && tllm_format_by_name(formats[i])->values == 32; j++)
            one_product(ctx, target, (int)i, odd[j], j % 2 == 0, 0, 0);
        one_product(ctx, target, (int)i, shapes[2], 1, 1, 0);
        one_product(ctx, target, (int)i, shapes[7], 0, 1, 0);
        one_product(ctx, target, (int)i, shapes[14], 0, 1, 0);
        one_product(ctx, target, (int)i, shapes[2], 0, 0, 1);
        one_product(ctx, target, (int)i, shapes[5], 1, 0, 1);
    }
    t_close(ctx);
}

/* Scales of 1 and activations that are their own codes: sums are integers, and have the same bits as with the original
 * blocks. */
static void test_integers(tiny_target target)
{
    static const tiny_idx n[] = { 1, 2, 3, 4, 7, 8, 13 };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t i, j;
    tiny_idx a;
    for (i = 0; i < T_COUNT(formats); i++)
        for (j = 0; j < T_COUNT(n); j++) {
            const tllm_format *f = tllm_format_by_name(formats[i]);
            const tiny_idx k = 256, n_out = 37, row = (tiny_idx)tllm_format_bytes(f, (uint64_t)k);
            unsigned char *w = weights((int)i, n_out, k, 1), *e = (unsigned char *)t_keep((size_t)(n_out * row));
            float *x = (float *)t_keep((size_t)(n[j] * k) * sizeof *x), *y = t_guarded((size_t)(n[j] * n_out)),
                  *z = t_guarded((size_t)(n[j] * n_out));
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n[j], k), tw = tiny_tensor_2d(w, TINY_U8, n_out, row),
                        te = tiny_tensor_2d(e, TINY_U8, n_out, row);
            tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, n[j], n_out), tz = tiny_tensor_2d(z, TINY_F32, n[j], n_out);
            for (a = 0; a < n[j] * k; a++)
                x[a] = a % 32 ? (float)((int)(draw() % 255) - 127) : draw() % 2 ? 127.0f : -127.0f;
            T_OK(tllm_repack(ctx, f->id, w, n_out, k, e));
            T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty));
            T_OK(tllm_matmul(ctx, &tx, f->id | TLLM_REPACKED, &te, NULL, &tz));
            if (!T_SAME(z, y, (size_t)(n[j] * n_out))) printf("  %s, %d rows\n", f->name, (int)n[j]);
            t_free_blocks();
        }
    t_close(ctx);
}

/* Three matrices together, of different formats, one of them not repacked: the same bits as one by one, with any number
 * of threads. */
static void test_together(tiny_target target)
{
    static const tiny_idx rows[] = { 1, 3, 8, 21 };
    static const int kind[3][3] = { { 1, 5, 7 }, { 0, 0, 0 }, { 2, 3, 6 } };
    static const tiny_idx high[3] = { 1000, 264, 323 };
    int threads, t, i, in_place;
    size_t j;
    for (threads = 1; threads < 4; threads += 1 + T_SLOW)
        for (t = 0; t < 3; t++)
            for (j = T_SLOW; j < T_COUNT(rows); j += 1 + T_SLOW)
                for (in_place = -1; in_place < 3; in_place++) {
                    tiny_ctx *ctx = t_ctx(target, threads);
                    const tiny_idx k = 512;
                    float *x = t_rand((size_t)(rows[j] * k), -1.0f, 1.0f), *y[3], *z[3];
                    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, rows[j], k), tw[3], ty[3], tz[3];
                    const tiny_tensor *pw[3], *py[3];
                    int format[3];
                    for (i = 0; i < 3; i++) {
                        const tllm_format *f = tllm_format_by_name(formats[kind[t][i]]);
                        const tiny_idx row = (tiny_idx)tllm_format_bytes(f, (uint64_t)k);
                        unsigned char *w = weights(kind[t][i], high[i], k, 0),
                                      *e = (unsigned char *)t_keep((size_t)(high[i] * row));
                        T_OK(tllm_repack(ctx, f->id, w, high[i], k, e));
                        format[i] = f->id | (i == in_place ? 0 : TLLM_REPACKED);
                        y[i] = t_guarded((size_t)(rows[j] * high[i]));
                        z[i] = t_guarded((size_t)(rows[j] * high[i]));
                        tw[i] = tiny_tensor_2d(i == in_place ? w : e, TINY_U8, high[i], row);
                        ty[i] = tiny_tensor_2d(y[i], TINY_F32, rows[j], high[i]);
                        tz[i] = tiny_tensor_2d(z[i], TINY_F32, rows[j], high[i]);
                        pw[i] = &tw[i];
                        py[i] = &ty[i];
                        T_OK(tllm_matmul(ctx, &tx, format[i], &tw[i], NULL, &tz[i]));
                    }
                    T_OK(tllm_matmul_together(ctx, &tx, 3, format, pw, NULL, py));
                    for (i = 0; i < 3; i++) {
                        T_SAME(y[i], z[i], (size_t)(rows[j] * high[i]));
                        T_WALLS(y[i], (size_t)(rows[j] * high[i]));
                    }
                    t_free_blocks();
                    t_close(ctx);
                }
}

/* avx2 and above, and NEON where its byte dots are used */
static int has_kernels(const tiny_ctx *ctx)
{
    const char *pass = tllm_matmul_pass(ctx);
#ifdef __ARM_FEATURE_DOTPROD
    if (!strcmp(pass, "neon")) return 1;
#endif
    return tiny_ctx_target(ctx) >= TINY_TARGET_AVX2 || !strcmp(pass, "neondot") || !strcmp(pass, "neonmm");
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    unsigned char *w = weights(1, 16, 64, 0), e[16 * 36];
    float x[64], y[16];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 64), tw = tiny_tensor_2d(e, TINY_U8, 16, 36),
                ty = tiny_tensor_2d(y, TINY_F32, 1, 16), half = tiny_tensor_2d(e, TINY_U8, 8, 36);
    memset(x, 0, sizeof x);
    T_STATUS(tllm_repack(ctx, TLLM_FORMAT_Q2_K, w, 16, 256, e), TINY_E_UNSUPPORTED,
             "Q2_K (format 10) has no form with eight interleaved rows");
    T_STATUS(tllm_repack(ctx, TLLM_FORMAT_F16, w, 16, 64, e), TINY_E_UNSUPPORTED, "F16 (format 1) has no form");
    T_STATUS(tllm_repack(ctx, 999, w, 16, 64, e), TINY_E_UNSUPPORTED, "no such format (format 999)");
    T_STATUS(tllm_repack(ctx, TLLM_FORMAT_Q4_0, w, 16, 63, e), TINY_E_ARGUMENT,
             "16 rows of 63 numbers are not a matrix of Q4_0");
    T_STATUS(tllm_repack(ctx, TLLM_FORMAT_Q4_0, w, -1, 64, e), TINY_E_ARGUMENT, "-1 rows of 64 numbers");
    T_STATUS(tllm_repack(ctx, TLLM_FORMAT_Q4_0, w, TINY_IDX_MAX / 2, 64, e), TINY_E_ARGUMENT,
             "not a matrix of Q4_0 that this machine can hold");
    T_STATUS(tllm_repack(ctx, TLLM_FORMAT_Q4_0, NULL, 16, 64, e), TINY_E_ARGUMENT, "the matrix or the result");
    T_STATUS(tllm_repack(ctx, TLLM_FORMAT_Q4_0, w, 16, 64, NULL), TINY_E_ARGUMENT, "the matrix or the result");
    T_STATUS(tllm_repack(ctx, TLLM_FORMAT_Q4_0, w, 16, 64, w + 36), TINY_E_ALIAS, "overlaps");
    T_OK(tllm_repack(ctx, TLLM_FORMAT_Q4_0, NULL, 0, 64, NULL));
    T_STATUS(tllm_repack(NULL, TLLM_FORMAT_Q4_0, w, 16, 64, e), TINY_E_ARGUMENT, NULL);
    T_OK(tllm_repack(ctx, TLLM_FORMAT_Q4_0, w, 16, 64, e));
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0 | TLLM_REPACKED, &tw, NULL, &ty));
    half.stride[0] = 72;
    ty.dim[1] = 8;
    T_STATUS(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0 | TLLM_REPACKED, &half, NULL, &ty), TINY_E_UNSUPPORTED,
             "a repacked w must be dense");
    tx.dim[1] = 2;
    half = tiny_tensor_2d(e, TINY_U8, 8, 4);
    T_STATUS(tllm_matmul(ctx, &tx, TLLM_FORMAT_F16 | TLLM_REPACKED, &half, NULL, &ty), TINY_E_UNSUPPORTED,
             "F16 has no form with eight interleaved rows");
    T_EQ_INT(tllm_repack_has(ctx, TLLM_FORMAT_Q3_K), 0);
    T_EQ_INT(tllm_repack_has(ctx, 999), 0);
    T_TRUE(tllm_repack_has(ctx, TLLM_FORMAT_Q4_0) >= 1);
    T_EQ_INT(tllm_repack_has(ctx, TLLM_FORMAT_Q4_0), has_kernels(ctx) ? 2 : 1);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_back);
    T_RUN(test_layout);
    T_RUN_FORMS(test_products);
    T_RUN_FORMS(test_integers);
    T_RUN_FORMS(test_together);
    T_RUN(test_refused);
    return t_done();
}
