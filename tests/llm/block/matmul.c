/* tests/llm/block/matmul.c - products with block formats: every format, target and number of rows against the
 * reference, within the bound that the head of src/llm/block/matmul.c derives; integers exactly; refused arguments; the
 * conformance kit */
#include "t.h"
#include "llm/block/product.h"

static const char *const formats[] = { "Q8_0",  "Q4_0",    "Q4_1",   "Q5_0",   "Q5_1",    "Q2_K",  "Q3_K",
                                       "Q4_K",  "Q5_K",    "Q6_K",   "IQ4_NL", "IQ4_XS",  "MXFP4", "TQ2_0",
                                       "TQ1_0", "NVFP4",   "Q1_0",   "Q2_0",   "IQ2_XXS", "IQ2_XS", "IQ2_S",
                                       "IQ3_XXS", "IQ3_S", "IQ1_S",  "IQ1_M",  "F16" };
#define N_INTEGER 25                        /* the first ones have integer kernels; */
#define FIRST_BOOK 18                       /* code books, with a scale for 16 numbers, from here on */

/* the place of the halves that scale a block; -1: none; MXFP4 has a power of two; -2: see below; -3: NVFP4 has four
 * scales of a byte */
static const int scale_at[N_INTEGER][2] = { { 0, -1 },   { 0, -1 },  { 0, 2 },   { 0, -1 },   { 0, 2 },  { 80, 82 },
                                            { 108, -1 }, { 0, 2 },   { 0, 2 },   { 208, -1 }, { 0, -1 }, { 0, -1 },
                                            { -1, -1 },  { 64, -1 }, { 52, -1 }, { -3, -1 },  { 0, -1 }, { 0, -1 },
                                            { 0, -1 },   { 0, -1 },  { 0, -1 },  { 0, -1 },   { 0, -1 }, { 0, -1 },
                                            { -2, -1 } };
/* the four high halves of bytes that IQ1_M keeps its scale in, lowest first */
static const int scale_of_iq1m[4] = { 49, 51, 53, 55 };

static uint32_t drawn = 1;
static unsigned draw(void) { drawn = drawn * 1664525u + 1013904223u; return drawn >> 16; }

/* Random bytes are blocks of every format; only their scales must be numbers of a realistic size. */
static unsigned char *weights(const tllm_format *f, tiny_idx n_out, tiny_idx k, int ones)
{
    const size_t bytes = (size_t)n_out * tllm_format_bytes(f, (uint64_t)k), n = bytes / (size_t)f->bytes;
    unsigned char *w = (unsigned char *)t_keep(bytes + 1);
    size_t b, i;
    int at = -1, j;
    for (j = 0; j < N_INTEGER; j++) if (!strcmp(formats[j], f->name)) at = j;
    for (b = 0; b < n; b++) {
        unsigned char *p = w + b * (size_t)f->bytes;
        if (at < 0) {                       /* formats with scales inside other fields: as their writer packs */
            float x[256], *importance = NULL, imp[256];
            for (i = 0; i < (size_t)f->values; i++) {
                x[i] = (float)((int)(draw() % 2001) - 1000) * 2e-5f;
                imp[i] = 1.0f;
            }
            if (f->flags & TLLM_FORMAT_WANTS_IMPORTANCE) importance = imp;
            f->pack(x, p, (size_t)f->values, importance);
            continue;
        }
        for (i = 0; i < (size_t)f->bytes; i++) p[i] = (unsigned char)draw();
        for (j = 0; j < 2; j++)
            if (scale_at[at][j] >= 0) {
                /* 1; 2^-11 to 2^-8 with either sign */
                const unsigned h = ones ? 0x3c00u : 0x1000u | (draw() & 0x8fffu);
                p[scale_at[at][j]] = (unsigned char)h;
                p[scale_at[at][j] + 1] = (unsigned char)(h >> 8);
            }
        if (scale_at[at][0] == -2) {
            const unsigned h = ones ? 0x3c00u : 0x1000u | (draw() & 0x8fffu);
            for (j = 0; j < 4; j++)
                p[scale_of_iq1m[j]] = (unsigned char)((p[scale_of_iq1m[j]] & 15) | (h >> 4 * j & 15) << 4);
        }
        if (scale_at[at][0] == -1) p[0] = (unsigned char)(ones ? 128 : 110 + draw() % 12);
        if (scale_at[at][0] == -3 && ones) memset(p, 0x40, 4);      /* otherwise any byte is one */
    }
    return w;
}

/* which kernels must have run */
static tiny_target meant(tiny_target target, int i_format, tiny_idx n)
{
    const char *name = formats[i_format];
    if (target != TINY_TARGET_AMX) return target;
    if (!strcmp(name, "F16") || n < 9) return TINY_TARGET_AVX512;
    if (n > TINYLLM_AMX_BYTES) return TINY_TARGET_AMX;              /* tiles of bfloat16 */
    /* of bytes, but for formats with a scale for 16 numbers */
    return n >= 11 && i_format < FIRST_BOOK && !strstr("Q2_K Q3_K Q6_K NVFP4", name) ? TINY_TARGET_AMX
                                                                                     : TINY_TARGET_AVX512;
}
/* the target amx: not of bfloat16 */
static int as_bytes(tiny_idx n) { return n < 9 || n <= TINYLLM_AMX_BYTES; }
/* k of the form that ran: bfloat16, integers, or floats only; the row's own is the largest of them */
static double bound_of(tiny_target target, int i_format, tiny_idx n)
{
    if (target == TINY_TARGET_AMX && meant(target, i_format, n) == TINY_TARGET_AMX)
        return as_bytes(n) ? 66100.0 : 131400.0;
    if (target == TINY_TARGET_SCALAR && i_format >= FIRST_BOOK && n > 8) return 4.0;
    /* targets with vectors: integers for any number of rows */
    return i_format < N_INTEGER && (target == TINY_TARGET_AVX2 || target == TINY_TARGET_AVX512 ||
                                    target == TINY_TARGET_W128 || target == TINY_TARGET_NEON || n < 32 || n % 32)
               ? 66100.0
               : 4.0;
}

static void one_shape(tiny_ctx *ctx, tiny_target target, int i_format, tiny_idx n, tiny_idx n_out, tiny_idx k,
                      int with_bias)
{
    const tllm_format *f = tllm_format_by_name(formats[i_format]);
    const tiny_idx row = (tiny_idx)tllm_format_bytes(f, (uint64_t)k);
    unsigned char *w = weights(f, n_out, k, 0);
    float *x = t_rand((size_t)(n * k), -2.0f, 2.0f), *bias = t_rand((size_t)n_out, -1.0f, 1.0f),
          *y = t_guarded((size_t)(n * n_out));
    float *want = (float *)t_keep((size_t)(n * n_out) * sizeof *want),
          *size = (float *)t_keep((size_t)(n * n_out) * sizeof *size);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, k), tw = tiny_tensor_2d(w, TINY_U8, n_out, row),
                tb = tiny_tensor_1d(bias, TINY_F32, n_out);
    tiny_tensor ty = tiny_tensor_2d(want, TINY_F32, n, n_out);
    tllm_matmul_params p = { 0, 0, 0 };
    tiny_op op = op_of(&tx, &tw, with_bias ? &tb : NULL, &ty, &p);
    tiny_idx i;
    x[0] = 9.0f;                            /* one outlier */
    p.format = f->id;
    T_OK(tiny_run_reference(ctx, &op));
    p.magnitude = 1;
    ty.data = size;
    op.in[2] = NULL;
    T_OK(tiny_run_reference(ctx, &op));
    p.magnitude = 0;
    ty.data = y;
    op.in[2] = with_bias ? &tb : NULL;
    T_OK(tiny_run(ctx, &op));
    T_RAN_ON(ctx, meant(target, i_format, n));
    for (i = 0; i < n * n_out; i++) {
        const double allowed = (bound_of(target, i_format, n) + 1.01 * (double)(k + 2)) / 16777216.0 *
                                   (double)size[i] +
                               (with_bias ? 2.0 / 16777216.0 : 0.0) + fabs((double)want[i]) / 8388608.0;
        if (!T_CLOSE(y[i], want[i], allowed)) {
            printf("  %s, %d rows, %d x %d, number %d\n", f->name, (int)n, (int)n_out, (int)k, (int)i);
            break;
        }
    }
    T_WALLS(y, (size_t)(n * n_out));
    t_free_blocks();
}

static void test_against_reference(tiny_target target)
{
    static const tiny_idx rows[] = { 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 16, 31, 64 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int i, j;
    for (i = 0; i < (int)T_COUNT(formats); i++) {
        const int unit = tllm_format_by_name(formats[i])->values;
        for (j = 0; j < (int)T_COUNT(rows); j++) {
            if (T_SLOW && (i + j) % 4) continue;
            one_shape(ctx, target, i, rows[j], 37, unit == 256 ? 512 : unit == 1 ? 291 : 9 * unit, j % 2);
        }
        one_shape(ctx, target, i, 33, 131, 768, 1);
        one_shape(ctx, target, i, 1, 1, unit, 0);
        one_shape(ctx, target, i, 100, 3, unit, 0);
        /* more rows than are packed at once */
        if (i % 3 == 0 && !T_SLOW) one_shape(ctx, target, i, 530, 40, 256, 1);
    }
    t_close(ctx);
}

/* A kernel may read over the end of a row whose length is no multiple of 256. What stands there, here infinite scales,
 * must change nothing. */
static void test_end_of_row(tiny_target target)
{
    static const tiny_idx lengths[] = { 32, 224, 288, 896, 1152 };
    enum { OUT = 12, BAD = 5, MOST = 3 };
    tiny_ctx *ctx = t_ctx(target, 1);
    int i, j, n, r;
    for (i = 0; i < N_INTEGER; i++) {
        const tllm_format *f = tllm_format_by_name(formats[i]);
        if (f->values != 32 || scale_at[i][0] < 0) continue;
        for (j = 0; j < (int)T_COUNT(lengths); j++)
            for (n = 1; n <= MOST; n += MOST - 1) {
                const tiny_idx k = lengths[j], row = (tiny_idx)tllm_format_bytes(f, (uint64_t)k);
                unsigned char *w = weights(f, OUT, k, 0);
                float *x = t_rand((size_t)(MOST * k), -2.0f, 2.0f), *y = t_guarded(MOST * OUT), want[MOST * OUT];
                tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, k), tw = tiny_tensor_2d(w, TINY_U8, OUT, row),
                            ty = tiny_tensor_2d(want, TINY_F32, n, OUT);
                tllm_matmul_params p = { 0, 0, 0 };
                tiny_op op = op_of(&tx, &tw, NULL, &ty, &p);
                tiny_idx b;
                p.format = f->id;
                T_OK(tiny_run(ctx, &op));
                for (b = BAD * row; b < (BAD + 1) * row; b += f->bytes)
                    for (r = 0; r < 2; r++)
                        if (scale_at[i][r] >= 0) { w[b + scale_at[i][r]] = 0; w[b + scale_at[i][r] + 1] = 0x7c; }
                ty.data = y;
                T_OK(tiny_run(ctx, &op));
                for (r = 0; r < n * OUT; r++)
                    if (r % OUT != BAD && !T_TRUE(y[r] == want[r]))
                        printf("  %s, %d numbers, %d rows: row %d\n", f->name, (int)k, n, r % OUT);
                t_free_blocks();
            }
    }
    t_close(ctx);
}

/* params.alone: the rows of a product have the bits that each has by itself, whatever their number, with threads that
 * cut w anywhere, alone and next to products of other sizes; one row holds an infinite number. */
static void test_bits_alone(tiny_target target)
{
    static const tiny_idx rows[] = { 2, 3, 8, 9, 17, 33, 40 };
    enum { OUT = 37, OTHER = 5, MOST = 40 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int i, j, changed = 0;
    for (i = 0; i < (int)T_COUNT(formats); i++) {
        const tllm_format *f = tllm_format_by_name(formats[i]);
        const tiny_idx k = f->values == 256 ? 512 : f->values == 1 ? 291 : 9 * f->values,
                       row = (tiny_idx)tllm_format_bytes(f, (uint64_t)k);
        unsigned char *w = weights(f, OUT, k, 0), *w2 = weights(f, OTHER, k, 0);
        float *x = t_rand((size_t)(MOST * k), -2.0f, 2.0f), *y = t_guarded(MOST * OUT), *y2 = t_guarded(MOST * OTHER),
              *want = (float *)t_keep(MOST * OUT * sizeof *want), *plain = (float *)t_keep(MOST * OUT * sizeof *plain);
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, k), tw[2], ty = tiny_tensor_2d(want, TINY_F32, 1, OUT), ty2;
        tllm_matmul_params p = { 0, 0, 1 };
        tiny_op op[2];
        const tiny_op *both[2];
        tw[0] = tiny_tensor_2d(w2, TINY_U8, OTHER, row);
        tw[1] = tiny_tensor_2d(w, TINY_U8, OUT, row);
        p.format = f->id;
        op[1] = op_of(&tx, &tw[1], NULL, &ty, &p);
        op[0] = op_of(&tx, &tw[0], NULL, &ty2, &p);
        x[11 * k + 1] = INFINITY;
        for (j = 0; j < MOST; j++) {
            tx.data = x + j * k;
            ty.data = want + j * OUT;
            T_OK(tiny_run(ctx, &op[1]));
        }
        tx.data = x;
        for (j = 0; j < (int)T_COUNT(rows); j++) {
            const tiny_idx n = rows[j];
            tx.dim[0] = ty.dim[0] = n;
            ty.data = y;
            ty2 = tiny_tensor_2d(y2, TINY_F32, n, OTHER);
            both[0] = &op[0];
            both[1] = &op[1];
            T_OK(tiny_run_list(ctx, both, 2));
            if (!T_SAME(y, want, n * OUT)) printf("  %s, %d rows\n", f->name, (int)n);
            p.alone = 0;
            ty.data = plain;
            T_OK(tiny_run(ctx, &op[1]));
            p.alone = 1;
            changed += memcmp(plain, want, (size_t)(n * OUT) * sizeof *plain) != 0;
        }
        T_WALLS(y, MOST * OUT);
        t_free_blocks();
    }
    /* without it they have other bits somewhere: this test can fail */
    if (target != TINY_TARGET_SCALAR) T_TRUE(changed > 0);
    t_close(ctx);
}

/* Scales of 1 and activations that 8 bits hold exactly: the result is an integer, the same on every target. */
static void test_integers(tiny_target target)
{
    static const tiny_idx rows[] = { 1, 2, 3, 4, 7, 8, 9, 11, 31, 40 };
    tiny_ctx *ctx = t_ctx(target, 1);
    int i, j, same = 0;
    for (i = 0; i < N_INTEGER; i++)
        for (j = 0; j < (int)T_COUNT(rows); j++) {
            const tllm_format *f = tllm_format_by_name(formats[i]);
            const tiny_idx n = rows[j], k = 256, n_out = 19;
            float *x = (float *)t_keep((size_t)(n * k) * sizeof *x), *y = t_guarded((size_t)(n * n_out)),
                  *want = (float *)t_keep((size_t)(n * n_out) * sizeof *want);
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, k),
                        tw = tiny_tensor_2d(weights(f, n_out, k, 1), TINY_U8, n_out,
                                            (tiny_idx)tllm_format_bytes(f, (uint64_t)k));
            tiny_tensor ty = tiny_tensor_2d(want, TINY_F32, n, n_out);
            tllm_matmul_params p = { 0, 0, 0 };
            tiny_op op = op_of(&tx, &tw, NULL, &ty, &p);
            tiny_idx q;
            if (target == TINY_TARGET_AMX && !as_bytes(n)) continue;
            p.format = f->id;
            for (q = 0; q < n * k; q++) x[q] = q % 32 == 5 ? 127.0f : (float)((int)(draw() % 7) - 3);
            T_OK(tiny_run_reference(ctx, &op));
            ty.data = y;
            T_OK(tiny_run(ctx, &op));
            for (q = 0; q < n * n_out; q++) {
                if (!T_TRUE(y[q] == want[q])) {
                    printf("  %s, %d rows: %.9g, not %.9g\n", f->name, (int)n, (double)y[q], (double)want[q]);
                    break;
                }
                same++;
            }
            T_WALLS(y, (size_t)(n * n_out));
            t_free_blocks();
        }
    if (getenv("T_VERBOSE")) printf("  %d integers the same [%s]\n", same, tiny_target_name(target));
    t_close(ctx);
}

/* The largest codes times the largest activations, all of one sign: sums of a group are as large as they can be, and
 * must still fit. */
static void test_largest(tiny_target target)
{
    static const tiny_idx rows[] = { 1, 3, 8, 9 };
    static const unsigned char fill[] = { 0xff, 0x7f, 0x80, 0x00 };
    enum { OUT = 3, K = 256, MOST = 9 };
    tiny_ctx *ctx = t_ctx(target, 1);
    int i, j, b;
    for (i = 0; i < N_INTEGER * 8; i++) {
        const tllm_format *f = tllm_format_by_name(formats[i / 8]);
        const tiny_idx row = (tiny_idx)tllm_format_bytes(f, K);
        unsigned char *w = weights(f, OUT, K, 1);
        float x[MOST * K], y[MOST * OUT], want[MOST * OUT], size[MOST * OUT];
        tiny_idx q;
        for (q = 0; q < OUT * row; q++) {
            const int at = (int)(q % f->bytes), *s = scale_at[i / 8];
            if (s[0] == -2) {
                w[q] = at % 2 && at > 48 ? (unsigned char)((w[q] & 0xf0) | (fill[i / 2 % 4] & 15)) : fill[i / 2 % 4];
                continue;
            }
            if (s[0] < 0 ? at > (s[0] == -3 ? 3 : 0)
                         : at != s[0] && at != s[0] + 1 && (s[1] < 0 || (at != s[1] && at != s[1] + 1)))
                w[q] = fill[i / 2 % 4];
        }
        for (q = 0; q < MOST * K; q++) x[q] = i % 2 ? -1.0f : 1.0f;
        for (j = 0; j < (int)T_COUNT(rows); j++) {
            const tiny_idx n = rows[j];
            const double allowed = (bound_of(target, i / 8, n) + 1.01 * (K + 2)) / 16777216.0;
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, K), tw = tiny_tensor_2d(w, TINY_U8, OUT, row),
                        ty = tiny_tensor_2d(want, TINY_F32, n, OUT);
            tllm_matmul_params p = { 0, 0, 0 };
            tiny_op op = op_of(&tx, &tw, NULL, &ty, &p);
            p.format = f->id;
            T_OK(tiny_run_reference(ctx, &op));
            p.magnitude = 1;
            ty.data = size;
            T_OK(tiny_run_reference(ctx, &op));
            p.magnitude = 0;
            ty.data = y;
            T_OK(tiny_run(ctx, &op));
            for (b = 0; b < (int)(n * OUT); b++)
                if (!T_TRUE(fabs((double)y[b] - (double)want[b]) <= allowed * (double)size[b])) {
                    printf("  %s, %d rows, codes of 0x%02x: %.9g, not %.9g\n", f->name, (int)n, fill[i / 2 % 4],
                           (double)y[b], (double)want[b]);
                    break;
                }
        }
        t_free_blocks();
    }
    t_close(ctx);
}

/* Blocks whose scale is 0 add nothing, whatever their codes, next to blocks that do. */
static void test_scale_of_zero(tiny_target target)
{
    static const tiny_idx rows[] = { 1, 2, 5, 9 };
    enum { OUT = 3, K = 512, MOST = 9 };
    tiny_ctx *ctx = t_ctx(target, 1);
    int i, j, l;
    for (i = 0; i < N_INTEGER; i++) {
        const tllm_format *f = tllm_format_by_name(formats[i]);
        const tiny_idx row = (tiny_idx)tllm_format_bytes(f, K), half = row / 2 / f->bytes;
        unsigned char *w = weights(f, OUT, K, 1);
        float x[MOST * K], y[MOST * OUT], want[MOST * OUT];
        tiny_idx q, b;
        if (scale_at[i][0] == -1) { t_free_blocks(); continue; }        /* powers of two: there is no 0 */
        for (q = 0; q < OUT; q++)
            for (b = 0; b < half; b++) {
                unsigned char *p = w + q * row + b * f->bytes;
                for (j = 0; j < 2; j++) if (scale_at[i][j] >= 0) p[scale_at[i][j]] = p[scale_at[i][j] + 1] = 0;
                for (j = 0; j < 4 && scale_at[i][0] == -2; j++) p[scale_of_iq1m[j]] &= 15;
                if (scale_at[i][0] == -3) memset(p, b % 2 ? 0 : 0x7f, 4);   /* 0x7f stands for 0 too */
            }
        for (q = 0; q < MOST * K; q++) x[q] = (float)((int)(draw() % 255) - 127);
        for (q = 0; q < MOST; q++) for (b = 0; b < K; b += 32) x[q * K + b] = 127.0f;     /* 8 bits hold them exactly */
        for (j = 0; j < (int)T_COUNT(rows); j++) {
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, rows[j], K), tw = tiny_tensor_2d(w, TINY_U8, OUT, row),
                        ty = tiny_tensor_2d(want, TINY_F32, rows[j], OUT);
            tiny_tensor half_w = tiny_tensor_2d(w, TINY_U8, OUT, row / 2),
                        half_x = tiny_tensor_2d(x, TINY_F32, rows[j], K / 2), other_w = half_w, other_x = half_x;
            if (target == TINY_TARGET_AMX && rows[j] > 8) continue;
            ty.data = y;
            half_w.stride[0] = other_w.stride[0] = row;
            half_x.stride[0] = other_x.stride[0] = K;
            T_OK(tllm_matmul(ctx, &half_x, f->id, &half_w, NULL, &ty));
            for (l = 0; l < rows[j] * OUT; l++)
                if (!T_TRUE(y[l] == 0.0f)) {
                    printf("  %s, %d rows: %g\n", f->name, (int)rows[j], (double)y[l]);
                    break;
                }
            other_w.data = w + row / 2;
            other_x.data = x + K / 2;
            ty.data = want;
            T_OK(tllm_matmul(ctx, &other_x, f->id, &other_w, NULL, &ty));
            ty.data = y;
            T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty));
            for (l = 0; l < rows[j] * OUT; l++)
                if (!T_CLOSE(y[l], want[l], 1e-4 * fabs((double)want[l]) + 1e-2)) {
                    printf("  %s, %d rows\n", f->name, (int)rows[j]);
                    break;
                }
        }
        t_free_blocks();
    }
    t_close(ctx);
}

/* by hand: one block of Q4_0 with scale 2 and codes 9, so that each weight is 2; 32 ones give 64 */
static void test_by_hand(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    unsigned char w[18];
    float x[32], bias[1] = { 0.5f }, y[1] = { 0.0f };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 32), tw = tiny_tensor_2d(w, TINY_U8, 1, 18),
                tb = tiny_tensor_1d(bias, TINY_F32, 1), ty = tiny_tensor_2d(y, TINY_F32, 1, 1);
    int i;
    memset(w, 0x99, sizeof w);
    w[0] = 0;
    w[1] = 0x40;
    for (i = 0; i < 32; i++) x[i] = 1.0f;
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, &tb, &ty));
    T_CLOSE(y[0], 64.5, 1e-4);
    for (i = 0; i < 32; i++) x[i] = 1e-38f; /* small ones keep their eight bits */
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &ty));
    T_CLOSE(y[0], 64e-38, 64e-38 / 200);
    x[3] = INFINITY;
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &ty));
    T_TRUE(y[0] > 1e38f && y[0] == y[0] + 1.0f);
    x[4] = NAN;
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &ty));
    T_TRUE(y[0] != y[0]);
    t_close(ctx);
}

/* of many rows two hold an infinity, one of them beyond whole groups of 8: their results are infinite, and the others
 * are unaffected */
static void test_special_rows_among_many(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    unsigned char w[3 * 18];
    float x[41 * 32], y[41 * 3];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 41, 32), tw = tiny_tensor_2d(w, TINY_U8, 3, 18),
                ty = tiny_tensor_2d(y, TINY_F32, 41, 3);
    int i, wrong = 0;
    memset(w, 0x99, sizeof w);
    for (i = 0; i < 3; i++) { w[18 * i] = 0; w[18 * i + 1] = 0x40; }
    for (i = 0; i < 41 * 32; i++) x[i] = 1.0f;
    x[21 * 32 + 5] = x[40 * 32 + 7] = INFINITY;
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &ty));
    for (i = 0; i < 41 * 3; i++)
        wrong += i / 3 == 21 || i / 3 == 40 ? !(y[i] > 1e38f) : !(fabs((double)y[i] - 64.0) < 1e-3);
    T_EQ_INT(wrong, 0);
    t_close(ctx);
}

/* One special row after whole panels, where the remaining rows are an odd number of a few blocks each: their flags come
 * after codes that are rounded up to pairs of rows. */
static void test_special_row_after_panels(tiny_target target)
{
    static const struct {
        tiny_idx n, k;
    } some[] = { { 53, 768 }, { 41, 1792 }, { 39, 2304 }, { 37, 3072 }, { 35, 4864 } };
    enum { OUT = 5 };
    tiny_ctx *ctx = t_ctx(target, 2);
    const tllm_format *f = tllm_format_by_name("Q8_0");
    float *x = (float *)t_keep(53 * 4864 * sizeof *x), y[53 * OUT];
    tiny_idx i, j;
    size_t s;
    for (s = 0; s < T_COUNT(some); s++) {
        const tiny_idx n = some[s].n, k = some[s].k;
        unsigned char *w = weights(f, OUT, k, 0);
        const tiny_tensor tw = tiny_tensor_2d(w, TINY_U8, OUT, (tiny_idx)tllm_format_bytes(f, (uint64_t)k)),
                          tx = tiny_tensor_2d(x, TINY_F32, n, k), ty = tiny_tensor_2d(y, TINY_F32, n, OUT);
        for (i = 32; i < n; i++) {
            int wrong = 0;
            for (j = 0; j < n * k; j++) x[j] = (float)((int)(j * 7 % 23) - 11);
            x[i * k + 70] = NAN;
            T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty));
            for (j = 0; j < n * OUT; j++) wrong += (j / OUT == i) != (y[j] != y[j]);
            if (!T_EQ_INT(wrong, 0)) printf("  row %d of %d, %d numbers\n", (int)i, (int)n, (int)k);
        }
    }
    t_close(ctx);
}

/* One special row alone, each of them in turn, for numbers of rows around whole groups of 8: the rows beyond the groups
 * have flags of their own. */
static void test_one_special_row(tiny_target target)
{
    static const char *const some[] = { "Q4_0", "Q8_0", "Q4_K", "Q6_K", "Q5_0", "IQ2_XXS", "IQ3_S" };
    enum { K = 256, OUT = 11, MOST = 27 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = (float *)t_keep(MOST * K * sizeof *x), y[MOST * OUT], want[MOST * OUT];
    tiny_idx n, i, j;
    size_t s;
    for (s = 0; s < T_COUNT(some); s++) {
        const tllm_format *f = tllm_format_by_name(some[s]);
        unsigned char *w = weights(f, OUT, K, 0);
        const tiny_tensor tw = tiny_tensor_2d(w, TINY_U8, OUT, (tiny_idx)tllm_format_bytes(f, K));
        for (i = 0; i < MOST * K; i++) x[i] = (float)((int)(i * 7 % 23) - 11);
        for (n = 1; n <= MOST; n += n == 15 ? 7 : 1) {
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, K), ty = tiny_tensor_2d(want, TINY_F32, n, OUT);
            T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty));
            ty.data = y;
            for (i = 0; i < n; i++) {
                const float kept = x[i * K + 70];
                int wrong = 0;
                x[i * K + 70] = -INFINITY;
                T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty));
                x[i * K + 70] = kept;
                for (j = 0; j < n * OUT; j++)
                    if (j / OUT != i) wrong += y[j] != want[j];
                    else { /* - infinity times a weight: its sign, or nothing that is a number where it is 0 */
                        float row[K];
                        f->unpack(w + j % OUT * tw.dim[1], row, K);
                        wrong += row[70] == 0.0f ? y[j] == y[j] : y[j] != (row[70] > 0.0f ? -INFINITY : INFINITY);
                    }
                if (!T_EQ_INT(wrong, 0)) { printf("  %s, row %d of %d\n", f->name, (int)i, (int)n); n = MOST; break; }
            }
        }
    }
    t_free_blocks();
    t_close(ctx);
}

static void test_refused_and_recorded(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    unsigned char w[36] = { 0 };
    float x[64] = { 0 }, y[4];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 64), tw = tiny_tensor_2d(w, TINY_U8, 1, 36),
                ty = tiny_tensor_2d(y, TINY_F32, 1, 1), bad;
    tiny_recording *rec = NULL;
    T_STATUS(tllm_matmul(ctx, &tx, 77, &tw, NULL, &ty), TINY_E_ARGUMENT, "no format has the id 77");
    T_STATUS(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q8_0, &tw, NULL, &ty), TINY_E_SHAPE,
             "rows of 36 bytes are not 64 numbers of Q8_0");
    bad = tiny_tensor_2d(x, TINY_F32, 1, 63);
    T_STATUS(tllm_matmul(ctx, &bad, TLLM_FORMAT_Q4_0, &tw, NULL, &ty), TINY_E_SHAPE, "63 numbers of Q4_0");
    bad = tiny_tensor_2d(x, TINY_F32, 1, 36);
    T_STATUS(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &bad, NULL, &ty), TINY_E_DTYPE, "w must be bytes");
    bad = tw;
    bad.stride[1] = 0;
    T_STATUS(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &bad, NULL, &ty), TINY_E_UNSUPPORTED, "must be contiguous");
    bad = tiny_tensor_1d(y + 1, TINY_F32, 2);
    T_STATUS(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, &bad, &ty), TINY_E_SHAPE, "bias must be 1 numbers");
    bad = tiny_tensor_2d(y, TINY_F32, 1, 2);
    T_STATUS(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &bad), TINY_E_SHAPE, "it must be 1x1 f32");
    T_OK(tiny_record_start(ctx, &rec));
    T_OK(tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_0, &tw, NULL, &ty));
    T_OK(tiny_record_stop(ctx));
    T_EQ_INT(tiny_recording_count(rec), 1);
    T_TRUE(tiny_recording_at(rec, 0)->row == tllm_matmul_row());
    T_CLOSE(tiny_op_cost(tiny_recording_at(rec, 0)).flops, 128, 0);
    T_CLOSE(tiny_op_cost(tiny_recording_at(rec, 0)).bytes, 36 + 4 * 65, 0);
    tiny_recording_free(ctx, rec);
    t_close(ctx);
}

static void kit_row(void *user, const tiny_conform_row *row)
{
    (void)user;
    if (row->n_failed) printf("  %s\n", row->first_failure);
    if (getenv("T_VERBOSE")) printf("  %d cases, %.3g of the bound\n", row->n_cases, row->worst_of_bound);
}
static void test_conformance(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    const tiny_op_row *rows[2];
    tiny_conform_desc desc;
    int failed = -1;
    memset(&desc, 0, sizeof desc);
    rows[0] = tllm_matmul_row();
    rows[1] = NULL;
    desc.rows = rows;
    desc.row = kit_row;
    desc.n_cases = T_SLOW ? 21 : 84;
    T_OK(tiny_conform(ctx, &desc, &failed));
    T_EQ_INT(failed, 0);
    t_close(ctx);
}

/* Products of one x together have the bits that they have one by one: every format together with itself and with
 * another, numbers of rows of all forms, a row with an infinity, a bias for one of them. */
static void together(tiny_ctx *ctx, int i_format, int other, tiny_idx n, tiny_idx k, int strange)
{
    const tllm_format *f[3];
    static const tiny_idx n_out[3] = { 67, 8, 45 };
    float *x = t_rand((size_t)(n * k), -2.0f, 2.0f), *bias = t_rand(8, -1.0f, 1.0f), *alone[3], *y[3];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, k), tw[3], ty[3], tb = tiny_tensor_1d(bias, TINY_F32, 8);
    const tiny_tensor *pw[3], *py[3], *pb[3] = { NULL, NULL, NULL };
    int i, format[3];
    pb[1] = &tb;
    if (strange) x[(n - 1) * k + 3] = INFINITY;
    for (i = 0; i < 3; i++) {
        f[i] = tllm_format_by_name(formats[i == 2 ? other : i_format]);
        format[i] = f[i]->id;
        tw[i] = tiny_tensor_2d(weights(f[i], n_out[i], k, 0), TINY_U8, n_out[i],
                               (tiny_idx)tllm_format_bytes(f[i], (uint64_t)k));
        alone[i] = (float *)t_keep((size_t)(n * n_out[i]) * sizeof(float));
        y[i] = t_guarded((size_t)(n * n_out[i]));
        ty[i] = tiny_tensor_2d(alone[i], TINY_F32, n, n_out[i]);
        T_OK(tllm_matmul(ctx, &tx, format[i], &tw[i], pb[i], &ty[i]));
        ty[i].data = y[i];
        pw[i] = &tw[i];
        py[i] = &ty[i];
    }
    T_OK(tllm_matmul_together(ctx, &tx, 3, format, pw, pb, py));
    for (i = 0; i < 3; i++) {
        if (!T_SAME(y[i], alone[i], n * n_out[i]))
            printf("  %s with %s, %d rows, matrix %d\n", formats[i_format], formats[other], (int)n, i);
        T_WALLS(y[i], (size_t)(n * n_out[i]));
    }
    t_free_blocks();
}
static void test_together(tiny_target target)
{
    static const tiny_idx rows[] = { 1, 2, 7, 8, 9, 12, 33 };
    int threads, i, j;
    for (threads = 1; threads <= 2; threads++) {
        tiny_ctx *ctx = t_ctx(target, threads);
        for (i = 0; i < (int)T_COUNT(formats); i++)
            for (j = 0; j < (i < N_INTEGER ? (int)T_COUNT(rows) : threads == 2);
                 j++) { /* the others only go as a list, and are slow to pack */
                const int other = (i + j) % N_INTEGER;
                const int whole =
                    tllm_format_by_name(formats[i])->values > 32 || tllm_format_by_name(formats[other])->values > 32;
                together(ctx, i, j % 2 && i < N_INTEGER ? i : other, rows[j], whole ? 512 : 288, (i + j) % 3 == 0);
            }
        t_close(ctx);
    }
}

/* The result of a row of weights does not depend on its neighbours, nor on the place of results: kernels that take
 * several rows or blocks at once have the bits of one by one, for whole numbers of super-blocks and others. */
static void test_rows_alone(tiny_target target)
{
    static const tiny_idx depth[] = { 256, 512, 768, 1024, 1280, 2048, 1312, 1344, 1408, 4096 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tiny_idx r;
    int i, j;
    for (i = 0; i < N_INTEGER; i++)
        for (j = 0; j < (int)T_COUNT(depth); j++) {
            const tllm_format *f = tllm_format_by_name(formats[i]);
            const tiny_idx k = depth[j], n_out = 11,
                           bytes = k % f->values ? 0 : (tiny_idx)tllm_format_bytes(f, (uint64_t)k);
            float *x, *all, *apart, one;
            unsigned char *w;
            tiny_tensor tx, tw, ty, to;
            if (!bytes) continue;
            x = t_rand((size_t)k, -2.0f, 2.0f);
            w = weights(f, n_out, k, 0);
            all = t_guarded((size_t)n_out);
            apart = t_guarded((size_t)(2 * n_out));
            tx = tiny_tensor_2d(x, TINY_F32, 1, k);
            tw = tiny_tensor_2d(w, TINY_U8, n_out, bytes);
            ty = tiny_tensor_2d(all, TINY_F32, 1, n_out);
            T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty));
            to = tiny_tensor_2d(apart, TINY_F32, 1, n_out);
            to.stride[0] = 2 * n_out;
            to.stride[1] = 2;
            T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &to));
            tw.dim[0] = to.dim[1] = 1;
            to.data = &one;
            for (r = 0; r < n_out; r++) {
                tw.data = w + r * bytes;
                T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &to));
                if (!T_SAME(&one, all + r, 1) || !T_SAME(&one, apart + 2 * r, 1)) {
                    printf("  %s, rows of %d, row %d\n", f->name, (int)k, (int)r);
                    break;
                }
            }
            T_WALLS(all, (size_t)n_out);
            t_free_blocks();
        }
    for (i = 0; i < N_INTEGER; i++) {
        one_shape(ctx, target, i, 1, 11, 256, 0);
        one_shape(ctx, target, i, 1, 13, 1280, 1);
    }
    t_close(ctx);
}

/* Workers join a product at any time, before its first barrier or after it. Whichever threads take part, the bits are
 * those of one thread. */
static void test_late_workers(tiny_target target)
{
    static const tiny_idx rows[] = { 8, 9, 16, 40 };
    tiny_ctx *ctx = t_ctx(target, 1), *many = t_ctx(target, 3);
    const tllm_format *f = tllm_format_by_name("Q4_0");
    const tiny_idx k = 512, n_out = 300;
    int j, round;
    for (j = 0; j < (int)T_COUNT(rows); j++) {
        const tiny_idx n = rows[j];
        float *x = t_rand((size_t)(n * k), -2.0f, 2.0f), *want = (float *)t_keep((size_t)(n * n_out) * sizeof(float)),
              *y = t_guarded((size_t)(n * n_out));
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, k), ty = tiny_tensor_2d(want, TINY_F32, n, n_out);
        tiny_tensor tw =
            tiny_tensor_2d(weights(f, n_out, k, 0), TINY_U8, n_out, (tiny_idx)tllm_format_bytes(f, (uint64_t)k));
        T_OK(tllm_matmul(ctx, &tx, f->id, &tw, NULL, &ty));
        ty.data = y;
        for (round = 0; round < (T_SLOW ? 5 : 60); round++) {
            memset(y, 0, (size_t)(n * n_out) * sizeof *y);
            T_OK(tllm_matmul(many, &tx, f->id, &tw, NULL, &ty));
            if (!T_SAME(y, want, n * n_out)) { printf("  %d rows, round %d\n", (int)n, round); break; }
        }
        T_WALLS(y, (size_t)(n * n_out));
        t_free_blocks();
    }
    t_close(many);
    t_close(ctx);
}

/* a pool that only counts its calls; the caller then does the work alone */
static int asked;
static int only_asked(void *user, int n, void (*task)(void *arg, int i), void *arg)
{
    (void)user; (void)n; (void)task; (void)arg;
    asked++;
    return 0;
}
static void test_one_region(void)
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 2);
    tiny_ctx *ctx = NULL;
    static unsigned char w[3000 * 1152];
    static float x[2048], out[3][3000], outs[3000];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 2048), tw = tiny_tensor_2d(w, TINY_U8, 3000, 1152), ty[3], shared,
                bias;
    const tiny_tensor *pw[3], *py[3], *pb[3] = { NULL, NULL, NULL };
    int format[3], i;
    d.pool.run = only_asked;
    T_OK(tiny_ctx_open(&d, &ctx));
    t_use(ctx);
    for (i = 0; i < 3; i++) {
        ty[i] = tiny_tensor_2d(out[i], TINY_F32, 1, 3000);
        pw[i] = &tw;
        py[i] = &ty[i];
        format[i] = TLLM_FORMAT_Q4_0;
    }
    asked = 0;
    T_STATUS(tllm_matmul_together(ctx, &tx, 3, format, pw, NULL, py), TINY_E_ARGUMENT, "did not");
    T_EQ_INT(asked, 1);
    T_STATUS(tllm_matmul_together(ctx, &tx, 0, format, pw, NULL, py), TINY_E_ARGUMENT, "1 to 3 matrices with formats");
    T_STATUS(tllm_matmul_together(ctx, &tx, 4, format, pw, NULL, py), TINY_E_ARGUMENT, "1 to 3 matrices with formats");
    T_STATUS(tllm_matmul_together(ctx, &tx, 3, NULL, pw, NULL, py), TINY_E_ARGUMENT, "1 to 3 matrices with formats");
    shared = tiny_tensor_2d(out[1], TINY_F32, 1, 3000);
    py[2] = &shared;
    T_STATUS(tllm_matmul_together(ctx, &tx, 3, format, pw, NULL, py), TINY_E_ALIAS,
             "outputs 1 and 2 of joint products overlap");
    shared = tiny_tensor_2d(w, TINY_F32, 1, 3000);
    T_STATUS(tllm_matmul_together(ctx, &tx, 1, format, pw + 2, NULL, py + 2), TINY_E_ALIAS, "overlaps input 1");
    shared = tiny_tensor_2d(out[2], TINY_F32, 1, 3000);
    bias = tiny_tensor_1d(out[0], TINY_F32, 3000);              /* one by one this is a sum of two products */
    pb[1] = &bias;
    T_STATUS(tllm_matmul_together(ctx, &tx, 3, format, pw, pb, py), TINY_E_ALIAS,
             "output 0 of joint products overlaps an input of product 1");
    shared = tiny_tensor_2d(outs, TINY_F32, 1, 2999);
    T_STATUS(tllm_matmul_together(ctx, &tx, 3, format, pw, NULL, py), TINY_E_SHAPE,
             "output 0 is 1x2999 f32, it must be 1x3000 f32");
    tiny_ctx_close(ctx);
}

/* an allocator that fails: a status each time, and nothing is left over */
static void test_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        static unsigned char w[64 * 144];
        static float x[40 * 256], y[40 * 64];
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 40, 256), tw = tiny_tensor_2d(w, TINY_U8, 64, 144),
                    ty = tiny_tensor_2d(y, TINY_F32, 40, 64);
        if (!tiny_ctx_open(&d, &ctx)) {
            (void)tllm_matmul(ctx, &tx, TLLM_FORMAT_Q4_K, &tw, NULL, &ty);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_special_rows_among_many);
    T_RUN_TARGETS(test_one_special_row);
    T_RUN_TARGETS(test_special_row_after_panels);
    T_RUN_TARGETS(test_integers);
    T_RUN_TARGETS(test_largest);
    T_RUN_TARGETS(test_scale_of_zero);
    T_RUN_TARGETS(test_against_reference);
    T_RUN_TARGETS(test_end_of_row);
    T_RUN_EVERY_TARGET(test_rows_alone);
    T_RUN_EVERY_TARGET(test_bits_alone);
    T_RUN_TARGETS(test_late_workers);
    T_RUN_TARGETS(test_together);
    T_RUN_TARGETS(test_conformance);
    T_RUN(test_one_region);
    T_RUN(test_refused_and_recorded);
    T_RUN(test_memory);
    return t_done();
}
