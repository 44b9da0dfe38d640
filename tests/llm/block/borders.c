/* tests/llm/block/borders.c - products with block formats at every border of the tiles: 1 to 40 rows of activations, up
 * to 37 rows of weights, odd numbers of blocks, weights at odd addresses, as they are and repacked, a row with an
 * infinite number or NaN among others, and empty products
 *
 * Truth    scales of 1 and activations that 8 bits hold exactly: sums of integers below 2^24 (code books: of eighths
 *          below 2^21), made here in plain C from the unpacked weights, are what every target must give to the bit.
 *          Products of bytes on AMX must have the bits of avx512 for any activations. bfloat16 holds integers up to 256
 *          exactly, too. */
#include "t.h"

static const struct { const char *name; int at[2]; } form[] = { { "Q8_0", { 0, -1 } },  { "Q4_0", { 0, -1 } },
                                                                { "Q5_1", { 0, 2 } },   { "IQ4_NL", { 0, -1 } },
                                                                { "Q4_K", { 0, 2 } },   { "Q6_K", { 208, -1 } },
                                                                { "Q2_K", { 80, 82 } }, { "TQ2_0", { 64, -1 } },
                                                                { "TQ1_0", { 52, -1 } }, { "MXFP4", { -4, -1 } },
                                                                { "NVFP4", { -2, -1 } }, { "Q1_0", { 0, -1 } },
                                                                { "Q2_0", { 0, -1 } },  { "IQ2_XXS", { 0, -1 } },
                                                                { "IQ2_XS", { 0, -1 } }, { "IQ2_S", { 0, -1 } },
                                                                { "IQ3_XXS", { 0, -1 } }, { "IQ3_S", { 0, -1 } },
                                                                { "IQ1_S", { 0, -1 } }, { "IQ1_M", { -3, -1 } } };
enum { MOST = 40, OUT = 37, K = 19 * 32 };

/* random codes; halves that scale are 1, and so are the four scales of NVFP4 (-2), the half that IQ1_M has in four high
 * halves of bytes (-3) and the exponent of MXFP4 (-4) */
static void fill(const tllm_format *f, const int *at, unsigned char *w, size_t bytes)
{
    size_t b;
    int j;
    for (b = 0; b < bytes; b++) w[b] = (unsigned char)t_rand_below(256);
    for (b = 0; b < bytes; b += (size_t)f->bytes) {
        if (at[0] == -2) memset(w + b, 0x40, 4);
        if (at[0] == -4) w[b] = 127;
        for (j = 0; j < 4 && at[0] == -3; j++)
            w[b + 49 + 2 * (size_t)j] = (unsigned char)((w[b + 49 + 2 * (size_t)j] & 15) | (0x3c00 >> 4 * j & 15) << 4);
        for (j = 0; j < 2; j++)
            if (at[j] >= 0) {
                w[b + (size_t)at[j]] = 0;
                w[b + (size_t)at[j] + 1] = 0x3c;
            }
    }
}

static void product(tiny_ctx *ctx, const tllm_format *f, int repacked, const unsigned char *w, tiny_idx n,
                    tiny_idx n_out, tiny_idx k, const float *x, const float *want, int strange)
{
    float *y = t_guarded((size_t)(n * n_out));
    const tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, k),
                      tw = tiny_tensor_2d((void *)(uintptr_t)w, TINY_U8, n_out,
                                          (tiny_idx)tllm_format_bytes(f, (uint64_t)k)),
                      ty = tiny_tensor_2d(y, TINY_F32, n, n_out);
    tiny_idx i, wrong = 0;
    T_OK(tllm_matmul(ctx, &tx, repacked ? f->id | TLLM_REPACKED : f->id, &tw, NULL, &ty));
    /* row `strange` is infinite or NaN: y - y is not 0 then */
    for (i = 0; i < n * n_out; i++) wrong += i / n_out == strange ? y[i] - y[i] == 0.0f : !(y[i] == want[i]);
    if (!T_EQ_INT(wrong, 0))
        printf("  %s%s, %d rows, %d x %d, strange %d\n", f->name, repacked ? " repacked" : "", (int)n, (int)n_out,
               (int)k, strange);
    T_WALLS(y, (size_t)(n * n_out));
}

/* tiles of bytes give any activations the bits that avx512 gives them */
static void amx_as_avx512(tiny_ctx *tiles)
{
    /* vectors multiply these on both targets */
    static const char fine[] = "Q2_K Q6_K NVFP4 IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M";
    tiny_ctx *vectors = t_ctx(TINY_TARGET_AVX512, 1);
    size_t s;
    tiny_idx n, i;
    for (s = 0; s < T_COUNT(form); s++)
        for (n = 2; n <= (TINYLLM_AMX_BYTES < 50 ? TINYLLM_AMX_BYTES : 50); n++) {
            const tllm_format *f = tllm_format_by_name(form[s].name);
            const tiny_idx n_out = 1 + 7 * n % 60, k = f->values > 32 ? 2 * (tiny_idx)f->values : 32 * (1 + n % 20);
            const size_t bytes = (size_t)n_out * tllm_format_bytes(f, (uint64_t)k);
            unsigned char *w = (unsigned char *)t_keep(bytes);
            float *x = t_rand((size_t)(n * k), -3.0f, 3.0f), *y = t_guarded((size_t)(n * n_out)),
                  *want = t_guarded((size_t)(n * n_out));
            const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, k),
                              tw = tiny_tensor_2d(w, TINY_U8, n_out, (tiny_idx)tllm_format_bytes(f, (uint64_t)k));
            tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, n, n_out);
            fill(f, form[s].at, w, bytes);
            T_OK(tllm_matmul(tiles, &tx, f->id, &tw, NULL, &ty));
            T_RAN_ON(tiles, n < 11 || strstr(fine, form[s].name) ? TINY_TARGET_AVX512 : TINY_TARGET_AMX);
            ty.data = want;
            T_OK(tllm_matmul(vectors, &tx, f->id, &tw, NULL, &ty));
            i = n * n_out;
            if (!T_SAME(y, want, i)) printf("  %s, %d rows, %d x %d\n", f->name, (int)n, (int)n_out, (int)k);
            T_WALLS(y, (size_t)i);
            t_free_blocks();
        }
    t_close(vectors);
}

static void test_borders(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tiny_idx n, i, r, q;
    size_t s;
    for (s = 0; s < T_COUNT(form); s++) {
        const tllm_format *f = tllm_format_by_name(form[s].name);
        for (n = 1; n <= MOST; n++) {
            const tiny_idx n_out = 1 + (n * 11 + (tiny_idx)s) % OUT,
                           k = f->values > 32 ? f->values * (1 + n % (K / f->values)) : 32 * (1 + 2 * (n % 10));
            const size_t bytes = (size_t)n_out * tllm_format_bytes(f, (uint64_t)k);
            unsigned char *w = (unsigned char *)t_keep(bytes + 1) + 1,
                          *turned = (unsigned char *)t_keep(bytes + 1) + 1;
            float *x = (float *)t_keep((size_t)(n * k) * sizeof *x), row[K],
                  *want = (float *)t_keep((size_t)(n * n_out) * sizeof *want), kept;
            const tiny_idx bad = (tiny_idx)t_rand_below((uint32_t)n),
                           at = bad * k + (tiny_idx)t_rand_below((uint32_t)k);
            int repacked;
            if (target == TINY_TARGET_AMX && n > 8 && n > TINYLLM_AMX_BYTES) {     /* bfloat16 */
                t_free_blocks();
                continue;
            }
            fill(f, form[s].at, w, bytes);
            for (q = 0; q < n * k; q++) x[q] = q % 32 == 5 ? 127.0f : (float)t_rand_below(7) - 3.0f;
            for (r = 0; r < n_out; r++) {
                f->unpack(w + (size_t)r * tllm_format_bytes(f, (uint64_t)k), row, (size_t)k);
                for (i = 0; i < n; i++) {
                    double sum = 0.0;
                    for (q = 0; q < k; q++) sum += (double)row[q] * (double)x[i * k + q];
                    want[i * n_out + r] = (float)sum;
                    T_TRUE(fabs(sum) < (form[s].name[0] == 'I' ? 2097152.0 : 16777216.0));
                }
            }
            for (repacked = 0; repacked < 2; repacked++) {
                if (repacked) {
                    if (!tllm_repack_has(ctx, f->id)) break;
                    T_OK(tllm_repack(ctx, f->id, w, n_out, k, turned));
                }
                product(ctx, f, repacked, repacked ? turned : w, n, n_out, k, x, want, -1);
                kept = x[at];
                x[at] = n % 2 ? (float)NAN : -INFINITY;
                product(ctx, f, repacked, repacked ? turned : w, n, n_out, k, x, want, (int)bad);
                x[at] = kept;
            }
            t_free_blocks();
        }
    }
    if (target == TINY_TARGET_AMX) amx_as_avx512(ctx);
    t_close(ctx);
}

/* Weights in bfloat16, whether x is rounded to it or not: numbers that it holds exactly, rows of odd lengths, and rows
 * of weights that lie apart. */
static void test_bfloat(tiny_target target)
{
    static const short lengths[] = { 1, 2, 31, 33, 64, 255, 300, 513 };
    tiny_ctx *ctx = t_ctx(target, 2);
    const tllm_format *f = tllm_format_of(TLLM_FORMAT_BF16);
    tiny_idx n, i, r, q;
    for (n = 1; n <= 70; n += n < MOST ? 1 : 5) {
        const tiny_idx n_out = 1 + n * 11 % 70, k = lengths[n % (tiny_idx)T_COUNT(lengths)],
                       apart = 2 * (k + n % 3);
        float *x = (float *)t_keep((size_t)(n * k) * sizeof *x), *row = (float *)t_keep((size_t)k * sizeof *row),
              *want = (float *)t_keep((size_t)(n * n_out) * sizeof *want), *y = t_guarded((size_t)(n * n_out));
        unsigned char *w = (unsigned char *)t_keep((size_t)(n_out * apart) + 1) + 1;
        const tiny_idx bad = (tiny_idx)t_rand_below((uint32_t)n);
        const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, k), ty = tiny_tensor_2d(y, TINY_F32, n, n_out);
        tiny_tensor tw = tiny_tensor_2d(w, TINY_U8, n_out, 2 * k);
        int strange;
        tw.stride[0] = apart;
        for (i = 0; i < n_out * apart; i++) w[i] = 0xff;            /* NaN between rows */
        for (q = 0; q < n * k; q++) x[q] = (float)t_rand_below(201) - 100.0f;
        for (r = 0; r < n_out; r++) {
            for (q = 0; q < k; q++) row[q] = (float)t_rand_below(255) - 127.0f;
            f->pack(row, w + r * apart, (size_t)k, NULL);
            for (i = 0; i < n; i++) {
                double sum = 0.0;
                for (q = 0; q < k; q++) sum += (double)row[q] * (double)x[i * k + q];
                want[i * n_out + r] = (float)sum;
            }
        }
        for (strange = 0; strange < 2; strange++) {
            tiny_idx wrong = 0;
            if (strange) x[bad * k + k / 2] = n % 2 ? (float)NAN : INFINITY;
            T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_BF16, &tw, NULL, &ty));
            for (i = 0; i < n * n_out; i++)
                wrong += strange && i / n_out == bad ? y[i] - y[i] == 0.0f : !(y[i] == want[i]);
            if (!T_EQ_INT(wrong, 0)) printf("  %d rows, %d x %d\n", (int)n, (int)n_out, (int)k);
            T_WALLS(y, (size_t)(n * n_out));
        }
        t_free_blocks();
    }
    t_close(ctx);
}

/* no rows of activations, no rows of weights: nothing is read or written; no numbers in a row */
static void test_empty(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float x[32], y[1] = { 5.0f }, sums[120];
    unsigned char w[34];
    int n, i;
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 0, 32), tw = tiny_tensor_2d(w, TINY_U8, 1, 34),
                ty = tiny_tensor_2d(y, TINY_F32, 0, 1);
    memset(w, 0, sizeof w);
    memset(x, 0, sizeof x);
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q8_0, &tw, NULL, &ty));
    tx = tiny_tensor_2d(x, TINY_F32, 1, 32);
    tw = tiny_tensor_2d(w, TINY_U8, 0, 34);
    ty = tiny_tensor_2d(y, TINY_F32, 1, 0);
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q8_0, &tw, NULL, &ty));
    T_TRUE(y[0] == 5.0f);
    for (n = 1; n <= 40; n += 13)           /* rows of no numbers: sums of nothing */
        for (i = 0; i < 2; i++) {
            const int format = i ? TLLM_FORMAT_IQ1_S : TLLM_FORMAT_Q4_K;
            int r, wrong = 0;
            for (r = 0; r < 120; r++) sums[r] = 5.0f;
            tx = tiny_tensor_2d(x, TINY_F32, n, 0);
            tw = tiny_tensor_2d(w, TINY_U8, 3, 0);
            ty = tiny_tensor_2d(sums, TINY_F32, n, 3);
            T_OK(tllm_matmul(ctx, &tx, format, &tw, NULL, &ty));
            for (r = 0; r < 120; r++) wrong += sums[r] != (r < 3 * n ? 0.0f : 5.0f);
            T_EQ_INT(wrong, 0);
        }
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_borders);
    T_RUN_TARGETS(test_bfloat);
    T_RUN_TARGETS(test_empty);
    return t_done();
}
