/* tests/llm/lab/bitweight/bitweight.c - digits of all 256 values and of normal ones, products of every design against
 * plain int32 sums, counts against closed forms, the walk through the nest against rows of PEs, nests as text, refused
 * arguments */
#include "t.h"

#ifdef TINYLLM_NO_BITWEIGHT
int main(void) { return t_done(); }
#else

/* ---- digits */

static void test_encoders(void)
{
    static const struct { int value; int8_t ent[4];
    } worked[5] = { { 11, { -1, -1, 1, 0 } },
                    { 91, { -1, -1, 2, 1 } },
                    { 127, { -1, 0, 0, 2 } },
                    { -128, { 0, 0, 0, -2 } },
                    { -3, { 1, -1, 0, 0 } } };
    static const uint64_t ent_has[9] = { 1, 15, 60, 108, 72, 0, 0, 0, 0 },
                          booth_has[9] = { 1, 12, 54, 108, 81, 0, 0, 0, 0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    uint64_t each[256];
    tllm_bw_digits d;
    int v, i, bad = 0, matches;
    for (v = -128; v < 128; v++) {
        const int sign = v < 0 ? -1 : 1;
        int8_t booth[4], ent[4];
        int a[4];
        tllm_bw_encode(TLLM_BW_BOOTH, (int8_t)v, booth);
        tllm_bw_encode(TLLM_BW_ENT, (int8_t)v, ent);
        bad += booth[0] + 4 * booth[1] + 16 * booth[2] + 64 * booth[3] != v ||
               ent[0] + 4 * ent[1] + 16 * ent[2] + 64 * ent[3] != v;
        /* Booth: pairs of the signed binary digits e_i = b_(i-1) - b_i */
        for (i = 0; i < 4; i++) {
            const unsigned u = (unsigned)v & 0xffu, e0 = i ? u >> (2 * i - 1) & 1u : 0u, e1 = u >> 2 * i & 1u,
                           e2 = u >> (2 * i + 1) & 1u;
            bad += booth[i] != (int)e0 - (int)e1 + 2 * ((int)e1 - (int)e2);
        }
        /* EN-T: -1, 0, 1, 2 are a complete residue system, so |v| has one such row of digits; the test searches it */
        matches = 0;
        for (i = 0; i < 256; i++) {
            a[0] = (i & 3) - 1;
            a[1] = (i >> 2 & 3) - 1;
            a[2] = (i >> 4 & 3) - 1;
            a[3] = (i >> 6 & 3) - 1;
            if (a[0] + 4 * a[1] + 16 * a[2] + 64 * a[3] != sign * v) continue;
            matches++;
            bad += ent[0] != sign * a[0] || ent[1] != sign * a[1] || ent[2] != sign * a[2] || ent[3] != sign * a[3];
        }
        bad += matches != 1;
    }
    T_EQ_INT(bad, 0);
    for (i = 0; i < 5; i++) {
        int8_t ent[4];
        tllm_bw_encode(TLLM_BW_ENT, (int8_t)worked[i].value, ent);
        T_SAME(ent, worked[i].ent, 4);
    }
    T_EQ_INT(tllm_bw_select(-2), 4);        /* enabled: 00 is -2B, 01 is B, 10 is 2B, 11 is -B */
    T_EQ_INT(tllm_bw_select(1), 5);
    T_EQ_INT(tllm_bw_select(2), 6);
    T_EQ_INT(tllm_bw_select(-1), 7);
    T_EQ_INT(tllm_bw_select(0), 0);
    for (v = 0; v < 256; v++) each[v] = 1;
    T_OK(tllm_bw_digits_of(ctx, TLLM_BW_ENT, each, &d));
    T_SAME(d.nonzero, ent_has, 9);
    T_CLOSE(d.mean, 747.0 / 256, 1e-12);    /* 2.918 */
    T_CLOSE(d.mean_slot, 748.0 / 256, 1e-12);
    T_EQ_INT(d.n, 256);
    T_EQ_INT(d.digit[0] + d.digit[1] + d.digit[3] + d.digit[4], 747);
    T_EQ_INT(d.digit[2], 4 * 256 - 747);
    T_OK(tllm_bw_digits_of(ctx, TLLM_BW_BOOTH, each, &d));
    T_SAME(d.nonzero, booth_has, 9);
    T_CLOSE(d.mean, 3.0, 1e-12);
    T_OK(tllm_bw_digits_of(ctx, TLLM_BW_BITS, each, &d));
    T_CLOSE(d.mean, 3.504, 5e-4);
    T_CLOSE(d.mean, 897.0 / 256, 1e-12);    /* 128 seven-bit numbers twice, without 0 once, and 128: 448 + 448 + 1 */
    t_close(ctx);
    T_PROOF("quantization 4",
            "both encoders exact for all 256 values, the five worked ones, histograms and means 2.918, 3.000, 3.504");
}

static double below(double x, double sigma) { return 0.5 * erfc(-x / sigma / sqrt(2.0)); }

/* normal numbers, truncated towards zero and cut: by the probabilities of the 256 values, and drawn */
static void test_normal(void)
{
    static const double ours[5][2] = {
        { 1.675, 1.755 }, { 2.064, 2.104 }, { 2.295, 2.322 }, { 2.458, 2.478 }, { 2.571, 2.587 }
    };
    static const double published[5] = { 1.75, 2.10, 2.32, 2.48, 2.60 }, low[5] = { 1.71, 2.05, 2.27, 2.45, 2.57 },
                        high[5] = { 1.75, 2.10, 2.32, 2.48, 2.60 };
    enum { DRAWN = 400000 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int8_t *w = (int8_t *)t_keep(DRAWN);
    tiny_rng rng = tiny_rng_make(4, 1);
    int s, v, i;
    for (s = 0; s < 5; s++) {
        const double sigma = 10 * (s + 1);
        double mean = 0, slot = 0;
        uint64_t count[256];
        tllm_bw_digits d;
        for (v = -128; v < 128; v++) {
            const double from = v > 0       ? v
                                : v == -128 ? -1e9
                                            : v - 1,
                         to = v < 0      ? v
                              : v == 127 ? 1e9
                                         : v + 1,
                         p = below(to, sigma) - below(from, sigma);
            int8_t digit[4];
            int n = 0;
            tllm_bw_encode(TLLM_BW_ENT, (int8_t)v, digit);
            for (i = 0; i < 4; i++) n += digit[i] != 0;
            mean += p * n;
            slot += p * (n ? n : 1);
        }
        T_CLOSE(mean, ours[s][0], 0.006);
        T_CLOSE(slot, ours[s][1], 0.006);
        memset(count, 0, sizeof count);
        for (i = 0; i < DRAWN; i++) {
            const double x = sigma * (double)tiny_rng_normal(&rng);
            w[i] = (int8_t)(x > 127 ? 127 : x < -128 ? -128 : x);
        }
        T_OK(tllm_bw_count(ctx, w, DRAWN, count));
        T_OK(tllm_bw_digits_of(ctx, TLLM_BW_ENT, count, &d));
        T_CLOSE(d.mean, mean, 0.01);
        T_CLOSE(d.mean_slot, slot, 0.01);
        T_CLOSE(d.mean, ours[s][0], 0.03);
        T_CLOSE(d.mean_slot, ours[s][1], 0.03);
        T_CLOSE(d.mean_slot, published[s], 0.03);           /* their K = 128 */
        T_TRUE(d.mean > low[s] - 0.04 && d.mean_slot < high[s] + 0.03);
    }
    t_close(ctx);
    T_PROOF("quantization 4", "mean digits of N(0, sigma), five sigmas, within 0.03 of the published figures");
}

/* ---- counting */

static void test_count(void)
{
    static const size_t lengths[] = { 0, 1, 7, 8, 9, 255, 4096, 1048577, 3000001 };
    size_t i, j;
    int threads;
    for (threads = 1; threads < 4; threads++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads);
        for (i = 0; i < T_COUNT(lengths); i++) {
            int8_t *w = (int8_t *)t_guarded_bytes(lengths[i] + 1);
            uint64_t got[256], want[256];
            for (j = 0; j < 256; j++) got[j] = want[j] = j;         /* they are added to the old values */
            for (j = 0; j < lengths[i]; j++) {
                w[j] = (int8_t)(t_rand_u64() >> 60 ? (int)(t_rand_u64() >> 56) - 128 : 5);
                want[(unsigned char)w[j]]++;
            }
            T_OK(tllm_bw_count(ctx, w, lengths[i], got));
            T_SAME(got, want, 256);
            t_free_blocks();
        }
        t_close(ctx);
    }
}

/* rows of any format become 8-bit codes with one scale a row, computed here in double */
static void test_rows(tiny_target target)
{
    static const char *const formats[] = { "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K", "I8" };
    enum { ROWS = 37, K = 512 };
    static float x[ROWS * K], back[K];
    static int8_t codes[ROWS * K];
    size_t f;
    int r, k;
    for (f = 0; f < T_COUNT(formats); f++) {
        tiny_ctx *ctx = t_ctx(target, 3);
        const tllm_format *form = tllm_format_by_name(formats[f]);
        const size_t row = tllm_format_bytes(form, K);
        unsigned char *w = (unsigned char *)t_keep(ROWS * row);
        uint64_t count[256], want[256], again[256];
        int bad = 0;
        memset(count, 0, sizeof count);
        memset(want, 0, sizeof want);
        memset(again, 0, sizeof again);
        for (k = 0; k < ROWS * K; k++) x[k] = t_rand_float(-1, 1) * t_rand_float(0, 3);
        for (r = 0; r < ROWS; r++) {
            if (r == 5) memset(x + r * K, 0, K * sizeof *x);
            if (form->pack) form->pack(x + r * K, w + (size_t)r * row, K, NULL);
            else
                for (k = 0; k < K; k++)
                    w[(size_t)r * row + (size_t)k] = (unsigned char)(r == 5 ? 0 : t_rand_below(256));
        }
        T_OK(tllm_bw_count_rows(ctx, form->id, w, ROWS, K, count, codes));
        T_OK(tllm_bw_count_rows(ctx, form->id, w, ROWS, K, again, NULL));
        T_SAME(again, count, 256);
        for (r = 0; r < ROWS; r++) {
            double most = 0;
            form->unpack(w + (size_t)r * row, back, K);
            for (k = 0; k < K; k++) most = fmax(most, fabs((double)back[k]));
            for (k = 0; k < K; k++) {
                const double q = most > 0 ? (double)back[k] * 127 / most : 0;
                bad += fabs((double)codes[r * K + k] - q) > 0.5 + 1e-4;
                want[(unsigned char)codes[r * K + k]]++;
            }
        }
        T_EQ_INT(bad, 0);
        T_SAME(count, want, 256);
        t_close(ctx);
    }
    {
        tiny_ctx *ctx = t_ctx(target, 2);
        uint64_t count[256];
        const tllm_format *floats = tllm_format_of(TLLM_FORMAT_F32);
        float one[4] = { 1, 2, 3, 4 };
        unsigned char bytes[16];            /* as a file has them */
        memset(count, 0, sizeof count);
        one[2] = NAN;
        floats->pack(one, bytes, 4, NULL);
        T_STATUS(tllm_bw_count_rows(ctx, TLLM_FORMAT_F32, bytes, 2, 2, count, NULL), TINY_E_NUMERIC,
                 "row 1 has a weight that is not finite");
        one[2] = -INFINITY;
        floats->pack(one, bytes, 4, NULL);
        T_STATUS(tllm_bw_count_rows(ctx, TLLM_FORMAT_F32, bytes, 2, 2, count, NULL), TINY_E_NUMERIC,
                 "row 1 has a weight that is not finite");
        for (k = 0; k < 256; k++) T_EQ_INT(count[k], 0);
        one[2] = 1e-45f;                    /* whose 127th part rounds to 0 */
        one[3] = 0;
        floats->pack(one, bytes, 4, NULL);
        T_OK(tllm_bw_count_rows(ctx, TLLM_FORMAT_F32, bytes, 2, 2, count, codes));
        T_TRUE(codes[0] == 64 && codes[1] == 127 && codes[2] == 1 && codes[3] == 0);
        T_STATUS(tllm_bw_count_rows(ctx, TLLM_FORMAT_Q8_0, bytes, 1, 33, count, NULL), TINY_E_SHAPE,
                 "33 weights are not whole blocks of Q8_0");
        T_STATUS(tllm_bw_count_rows(ctx, 63, bytes, 1, 1, count, NULL), TINY_E_UNSUPPORTED, "there is no format 63");
        T_STATUS(tllm_bw_count_rows(ctx, TLLM_FORMAT_F32, bytes, 0, 4, count, NULL), TINY_E_SHAPE,
                 "0 rows of 4 weights");
        T_STATUS(tllm_bw_count_rows(ctx, TLLM_FORMAT_F32, bytes, TINY_IDX_MAX / 2, 1 << 20, count, NULL),
                 TINY_E_OVERFLOW, "more than this machine can address");
        T_STATUS(tllm_bw_count_rows(ctx, TLLM_FORMAT_F32, NULL, 1, 4, count, NULL), TINY_E_ARGUMENT,
                 "the weights or the result");
        T_STATUS(tllm_bw_count(ctx, NULL, 3, count), TINY_E_ARGUMENT, "the weights or the result");
        t_close(ctx);
    }
}

/* ---- compression */

static void test_compress(void)
{
    int width, i, bad = 0;
    for (width = 1; width <= 32; width++) {
        const uint64_t wrap = (uint64_t)1 << width;
        for (i = 0; i < 4000; i++) {
            uint32_t in[3], out[2];
            int j;
            for (j = 0; j < 3; j++)
                in[j] = (uint32_t)(i % 7 ? t_rand_u64() : i % 2 ? 0 : 0xffffffffu) & (uint32_t)(wrap - 1);
            tllm_bw_compress(in, width, out);
            bad += ((uint64_t)out[0] + out[1]) % wrap != ((uint64_t)in[0] + in[1] + in[2]) % wrap || out[0] >= wrap ||
                   out[1] >= wrap;
        }
    }
    T_EQ_INT(bad, 0);
}

/* ---- products */

typedef struct matrices { int m, n, k; int8_t *a, *b; int32_t *c, *want; tiny_tensor ta, tb, tc; } matrices;

static matrices make(int m, int n, int k, int extreme)
{
    matrices x;
    int i, j, l;
    memset(&x, 0, sizeof x);
    x.m = m;
    x.n = n;
    x.k = k;
    x.a = (int8_t *)t_keep((size_t)(m * k));
    x.b = (int8_t *)t_keep((size_t)(k * n));
    x.c = (int32_t *)t_guarded_bytes((size_t)(m * n) * 4);
    x.want = (int32_t *)t_guarded_bytes((size_t)(m * n) * 4);
    for (i = 0; i < m * k; i++) x.a[i] = (int8_t)(extreme ? -128 : (int)t_rand_below(256) - 128);
    for (i = 0; i < k * n; i++)
        x.b[i] = (int8_t)(extreme ? (extreme > 1 && i % n == 1 ? 127 : -128) : (int)t_rand_below(256) - 128);
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            int32_t sum = 0;
            for (l = 0; l < k; l++) sum += x.a[i * k + l] * x.b[l * n + j];
            x.want[i * n + j] = sum;
        }
    x.ta = tiny_tensor_2d(x.a, TINY_I8, m, k);
    x.tb = tiny_tensor_2d(x.b, TINY_I8, k, n);
    x.tc = tiny_tensor_2d(x.c, TINY_I32, m, n);
    return x;
}

static uint64_t mapped(const tllm_bw_stats *s)
{
    return s->maps[0] + s->maps[1] + s->maps[2] + s->maps[3] + s->maps[4];
}

/* every design by the nest and by rows of PEs, on one and several threads: the same numbers, and the same counts four
 * times */
static void check_design(const tllm_bw_design *design, matrices *x, tiny_target target)
{
    tllm_bw_design d = *design;
    tllm_bw_stats s, fast, plain;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    d.audit = 1;
    memset(x->c, 0x55, (size_t)(x->m * x->n) * 4);
    T_OK(tllm_bw_gemm(ctx, &d, &x->ta, &x->tb, &x->tc, &plain));
    T_SAME(x->c, x->want, x->m * x->n);
    T_WALLS(x->c, x->m * x->n);
    T_EQ_INT(plain.broken, 0);
    t_close(ctx);
    ctx = t_ctx(target, 3);
    memset(x->c, 0x55, (size_t)(x->m * x->n) * 4);
    T_OK(tllm_bw_gemm(ctx, &d, &x->ta, &x->tb, &x->tc, &fast));
    T_SAME(x->c, x->want, x->m * x->n);
    T_WALLS(x->c, x->m * x->n);
    T_EQ_INT(fast.broken, 0);
    T_SAME(&fast, &plain, 1);
    d.audit = 0;
    memset(x->c, 0x55, (size_t)(x->m * x->n) * 4);
    T_OK(tllm_bw_gemm(ctx, &d, &x->ta, &x->tb, &x->tc, &s));
    T_SAME(x->c, x->want, x->m * x->n);
    T_SAME(&s, &plain, 1);
    T_OK(tllm_bw_cycles(ctx, &d, &x->ta, x->n, &s));
    T_SAME(&s, &plain, 1);
    t_close(ctx);
}

static void test_gemm(tiny_target target)
{
    static const int shape[][3] = { { 1, 1, 1 }, { 3, 5, 7 }, { 17, 33, 40 }, { 33, 35, 19 }, { 70, 9, 65 } };
    tiny_ctx *ctx = t_ctx(target, 1);
    const tllm_bw_unit *u;
    size_t i, j;
    int encoder;
    for (j = 0; j < T_COUNT(shape); j++)
        for (i = 0; (u = tllm_bw_unit_at(i)) != NULL; i++)
            for (encoder = 0; encoder < 2; encoder++) {
                matrices x = make(shape[j][0], shape[j][1], shape[j][2], 0);
                tllm_bw_design d;
                if (T_SLOW && j > 2) continue;
                t_use(ctx);
                T_OK(tllm_bw_design_of(ctx, u->name, &d));
                d.encoder = encoder;
                d.zero_slot = (int)(i + j) % 2;
                d.pipeline = (int)(i + j) % 3;
                check_design(&d, &x, target);
                t_free_blocks();
            }
    t_close(ctx);
    T_PROOF("quantization 4", "C equals int32 GEMM for every design, ragged sizes");
    T_PROOF("quantization 4", "(S + C) mod 2^w is invariant at each compression");
}

/* -128 everywhere and the longest sums that each width holds; one more is refused */
static void test_extremes(tiny_target target)
{
    static const int widths[] = { 16, 18, 26, 32 };
    tiny_ctx *ctx = t_ctx(target, 1);
    const tllm_bw_unit *u;
    size_t i, w;
    for (w = 0; w < T_COUNT(widths); w++)
        for (i = 0; (u = tllm_bw_unit_at(i)) != NULL; i++) {
            const int most = ((1 << (widths[w] - 2)) - 1 + (1 << (widths[w] - 2))) >> 14,
                      k = widths[w] == 32 ? 4099 : most;
            matrices x = make(2, 3, k, 2);
            tllm_bw_design d;
            t_use(ctx);
            T_OK(tllm_bw_design_of(ctx, u->name, &d));
            d.width = widths[w];
            if (widths[w] < 32 || i % 4 == 2) check_design(&d, &x, target);
            t_free_blocks();
            if (widths[w] == 32) continue;
            x = make(1, 1, k + 1, 1);
            t_use(ctx);
            T_STATUS(tllm_bw_gemm(ctx, &d, &x.ta, &x.tb, &x.tc, NULL), TINY_E_OVERFLOW, "* 2^14, but an accumulator");
            t_free_blocks();
        }
    t_close(ctx);
    T_PROOF("quantization 4", "-128 everywhere, and the longest sums that 16, 18 and 26 bits hold");
    T_PROOF("quantization 4", "bad input: accumulator too narrow");
}

/* designs that no name has: the transformations one after the other, on nests with other orders */
static void test_transforms(tiny_target target)
{
    static const struct { const char *from; int apply[4];
    } way[] = { { "mac", { 0, -1, -1, -1 } },
                { "mac", { TLLM_BW_OPT1, TLLM_BW_OPT2, -1, -1 } },
                { "mac-ws", { TLLM_BW_OPT1, TLLM_BW_OPT2, -1, -1 } },
                { "mac-cube", { TLLM_BW_OPT1, TLLM_BW_OPT2, -1, -1 } },
                { "mac", { TLLM_BW_OPT3, -1, -1, -1 } },
                { "mac", { TLLM_BW_OPT4, -1, -1, -1 } },
                { "mac-cube", { TLLM_BW_OPT1, TLLM_BW_OPT3, TLLM_BW_OPT4, -1 } },
                { "mac-cube", { TLLM_BW_OPT3, -1, -1, -1 } },
                { "opt4c-32", { TLLM_BW_SYNC_K, -1, -1, -1 } },
                { "opt4e", { TLLM_BW_SYNC_K, -1, -1, -1 } },
                { "opt3", { TLLM_BW_GROUP, TLLM_BW_SYNC_K, -1, -1 } },
                { "opt3", { TLLM_BW_SYNC_K, TLLM_BW_OPT4, TLLM_BW_GROUP, -1 } },
                { "opt1-pe", { TLLM_BW_OPT2, -1, -1, -1 } },
                { "opt4c", { TLLM_BW_SYNC_K, -1, -1, -1 } },
                { "mac-pe", { TLLM_BW_OPT3, -1, -1, -1 } } };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t i;
    int j, zero;
    for (i = 0; i < T_COUNT(way); i++)
        for (zero = 0; zero < 2; zero++) {
            matrices x = make(35, 34, 29, 0);
            tllm_bw_design d;
            t_use(ctx);
            T_OK(tllm_bw_design_of(ctx, way[i].from, &d));
            for (j = 0; j < 4 && way[i].apply[j] >= 0; j++) T_OK(tllm_bw_transform(ctx, &d, way[i].apply[j], 3));
            d.zero_slot = zero;
            for (j = 0; j < 35 * 29; j++) x.a[j] = (int8_t)(t_rand_below(3) ? x.a[j] : 0);
            for (j = 0; j < 35 * 34; j++) {
                int32_t sum = 0;
                int k;
                for (k = 0; k < 29; k++) sum += x.a[j / 34 * 29 + k] * x.b[k * 34 + j % 34];
                x.want[j] = sum;
            }
            check_design(&d, &x, target);
            t_free_blocks();
        }
    {                                       /* digits one after the other, also those that are 0 */
        matrices x = make(20, 19, 21, 0);
        tllm_bw_design d;
        tllm_bw_stats s;
        t_use(ctx);
        T_OK(tllm_bw_design_of(ctx, "opt1", &d));
        d.loop[d.n_loops - 1].parallel = 0;
        d.place[TLLM_BW_HALF_REDUCE] = d.n_loops;
        check_design(&d, &x, target);
        t_use(ctx);
        T_OK(tllm_bw_cycles(ctx, &d, &x.ta, x.n, &s));
        T_EQ_INT(s.cycles, 2 * 2 * 21 * 4);
        T_EQ_INT(s.compressions, 20 * 19 * 21 * 4);
        d.place[TLLM_BW_ADD] = d.n_loops - 1;
        check_design(&d, &x, target);
    }
    t_close(ctx);
    T_PROOF("quantization 4", "OPT1 = OPT2 = OPT3 results identical, and other orders of the transformations");
}

/* ---- counts against closed forms */

static tllm_bw_stats stats_of(tiny_ctx *ctx, const char *name, const matrices *x, int zero_slot, int pipeline)
{
    tllm_bw_design d;
    tllm_bw_stats s;
    memset(&s, 0, sizeof s);
    T_OK(tllm_bw_design_of(ctx, name, &d));
    d.zero_slot = zero_slot;
    d.pipeline = pipeline;
    T_OK(tllm_bw_gemm(ctx, &d, &x->ta, &x->tb, &x->tc, &s));
    return s;
}

static void test_counts(tiny_target target)
{
    enum { M = 50, N = 70, K = 37, MN = M * N, MNK = M * N * K };
    tiny_ctx *ctx = t_ctx(target, 2);
    matrices x = make(M, N, K, 0);
    uint64_t count[256], per_row = 0, worst = 0, nonzero = 0;
    tllm_bw_digits booth, ent;
    tllm_bw_stats s;
    int m, k, i;
    t_use(ctx);
    memset(count, 0, sizeof count);
    T_OK(tllm_bw_count(ctx, x.a, M * K, count));
    T_OK(tllm_bw_digits_of(ctx, TLLM_BW_BOOTH, count, &booth));
    T_OK(tllm_bw_digits_of(ctx, TLLM_BW_ENT, count, &ent));
    s = stats_of(ctx, "mac", &x, 0, 0);
    T_EQ_INT(s.cycles, 4 * 5 * K);
    T_EQ_INT(s.adds, MNK);
    T_EQ_INT(s.encodes, MNK);
    T_EQ_INT(s.shifts, 4 * MNK);
    T_EQ_INT(s.compressions, 3 * MNK);
    T_EQ_INT(s.compressed_bits, 3 * 32 * MNK);
    T_EQ_INT(s.register_bits, 256 * 32);
    T_EQ_INT(s.lanes, 256);
    T_EQ_INT(s.bubbles, 256 * 20 * K - MNK);
    for (i = 0; i < 5; i++) T_EQ_INT(s.maps[i], booth.digit[i] * N);
    s = stats_of(ctx, "opt1", &x, 0, 0);
    T_EQ_INT(s.cycles, 4 * 5 * K);          /* the same cycles, shorter ones */
    T_EQ_INT(s.adds, MN);
    T_EQ_INT(s.compressions, 4 * MNK);
    T_EQ_INT(s.register_bits, 256 * 64);
    s = stats_of(ctx, "opt1", &x, 0, 3);
    T_EQ_INT(s.cycles, 4 * 5 * (K + 3));
    s = stats_of(ctx, "mac-ws", &x, 0, 2);
    T_EQ_INT(s.cycles, 5 * 3 * (M + 2));
    T_EQ_INT(s.adds, MNK);
    s = stats_of(ctx, "opt1-ws", &x, 0, 0);
    T_EQ_INT(s.cycles, 5 * 3 * M);
    T_EQ_INT(s.adds, MN * 3);               /* sums leave the array after each 16 of k */
    s = stats_of(ctx, "mac-cube", &x, 0, 0);
    T_EQ_INT(s.cycles, 7 * 9 * 5);
    T_EQ_INT(s.lanes, 512);
    s = stats_of(ctx, "opt2", &x, 0, 0);
    T_EQ_INT(s.cycles, M * 5 * 3);          /* ceil(K / 16) steps for each row of 16 outputs */
    T_EQ_INT(s.adds, MN);
    T_EQ_INT(s.narrow_adds, 4 * MN);
    T_EQ_INT(s.shifts, 4 * MN);
    T_EQ_INT(s.encodes, M * K * 5);         /* at the edge: once for 16 columns */
    T_EQ_INT(s.compressions, 4 * MNK + 2 * MN);
    T_EQ_INT(s.compressed_bits, 4 * MNK * 16 + 2 * MN * 32);       /* 10 + log2 64 bits */
    T_EQ_INT(s.register_bits, 16 * 4 * 2 * 16);
    for (m = 0; m < M; m++) {
        uint64_t row = 0;
        for (k = 0; k < K; k++) {
            int8_t digit[4];
            tllm_bw_encode(TLLM_BW_ENT, x.a[m * K + k], digit);
            for (i = 0; i < 4; i++) row += digit[i] != 0;
        }
        nonzero += row;
        worst = row > worst ? row : worst;
        if (m == 31 || m == M - 1) {
            per_row += worst;
            worst = 0;
        }
    }
    s = stats_of(ctx, "opt3", &x, 0, 0);
    T_EQ_INT(s.cycles, 3 * per_row);        /* two tiles of 32 rows, each as long as its longest; three of 32 columns */
    T_EQ_INT(s.adds, MN);
    T_EQ_INT(s.encodes, MNK);
    T_EQ_INT(mapped(&s), nonzero * N);
    T_EQ_INT(s.maps[2], 0);
    T_EQ_INT(s.compressions, nonzero * N);
    T_EQ_INT(s.bubbles, 1024 * s.cycles - nonzero * N);
    s = stats_of(ctx, "opt4c-32", &x, 0, 0);
    T_EQ_INT(s.cycles, 3 * per_row);
    T_EQ_INT(s.encodes, M * K * 3);         /* once for a column of 32 */
    T_EQ_INT(s.register_bits, 32 * 32 * 64);
    s = stats_of(ctx, "opt4c", &x, 0, 0);
    T_EQ_INT(s.cycles, 3 * nonzero);        /* one column never waits */
    s = stats_of(ctx, "opt4e", &x, 0, 0);
    T_EQ_INT(s.register_bits, 8 * 32 * 64); /* as many lanes as 32 columns, a quarter of the registers */
    T_EQ_INT(s.lanes, 1024);
    T_TRUE(s.cycles >= 3 * nonzero / 32);
    memset(x.a, 0, M * K);
    s = stats_of(ctx, "opt3", &x, 0, 0);
    T_EQ_INT(s.cycles, 0);
    T_EQ_INT(mapped(&s), 0);
    for (i = 0; i < MN; i++) T_TRUE(x.c[i] == 0);
    s = stats_of(ctx, "opt3", &x, 1, 0);
    T_EQ_INT(s.cycles, 2 * 3 * K);          /* a slot is spent all the same */
    T_EQ_INT(s.bubbles, 1024 * s.cycles);
    T_TRUE(ent.n == M * K);
    t_close(ctx);
    T_PROOF("quantization 4", "adder count falls from M N K to M N");
    T_PROOF("quantization 4", "cycles of every design by closed forms; of all-zero A under OPT3: 0");
}

/* 32 columns, K = 128, sigma 20: the cost of waiting, at the end of K and at every k */
static void test_sync(void)
{
    enum { M = 32 * 200, K = 128 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int8_t *a = (int8_t *)t_keep(M * K);
    tiny_tensor ta = tiny_tensor_2d(a, TINY_I8, M, K);
    tiny_rng rng = tiny_rng_make(7, 1);
    tllm_bw_design d;
    tllm_bw_stats s;
    int i, each;
    for (i = 0; i < M * K; i++) {
        const double v = 20 * (double)tiny_rng_normal(&rng);
        a[i] = (int8_t)(v > 127 ? 127 : v < -128 ? -128 : v);
    }
    T_OK(tllm_bw_design_of(ctx, "opt4c-32", &d));
    for (each = 0; each < 2; each++) {
        double mean;
        if (each) T_OK(tllm_bw_transform(ctx, &d, TLLM_BW_SYNC_K, 0));
        T_OK(tllm_bw_cycles(ctx, &d, &ta, 32, &s));
        mean = (double)(s.lanes * s.cycles - s.bubbles) / (double)s.lanes;
        T_CLOSE((double)s.cycles / mean, each ? 1.61 : 1.07, each ? 0.04 : 0.005);
    }
    t_close(ctx);
    T_PROOF("quantization 4", "sync: time over mean 1.07 at the end of K, 1.61 at every k");
}

/* ---- the rest */

static void test_views(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    matrices x = make(12, 18, 10, 0);
    int8_t at[12 * 10], bt[18 * 10];
    int32_t ct[18 * 12];
    tllm_bw_design d;
    int i, j;
    t_use(ctx);
    for (i = 0; i < 12; i++) for (j = 0; j < 10; j++) at[j * 12 + i] = x.a[i * 10 + j];
    for (i = 0; i < 10; i++) for (j = 0; j < 18; j++) bt[j * 10 + i] = x.b[i * 18 + j];
    {
        tiny_tensor a = tiny_tensor_swap(tiny_tensor_2d(at, TINY_I8, 10, 12), 0, 1),
                    b = tiny_tensor_swap(tiny_tensor_2d(bt, TINY_I8, 18, 10), 0, 1),
                    c = tiny_tensor_swap(tiny_tensor_2d(ct, TINY_I32, 18, 12), 0, 1);
        T_OK(tllm_bw_design_of(ctx, "opt2", &d));
        T_OK(tllm_bw_gemm(ctx, &d, &a, &b, &c, NULL));
        for (i = 0; i < 12; i++) for (j = 0; j < 18; j++) T_EQ_INT(ct[j * 12 + i], x.want[i * 18 + j]);
    }
    t_close(ctx);
}

static void test_text(void)
{
    static const char mac[] =
        "for m in M / 16\n"
        "  for n in N / 16\n"
        "    parallel m in 16\n"
        "      parallel n in 16\n"
        "        accumulate S of 32 bits\n"
        "        for k in K\n"
        "          encode A[m][k] (Booth)\n"
        "          parallel bw in 4\n"
        "            map the digit to -2B .. 2B of B[k][n]\n"
        "            shift by 2 bw\n"
        "          half_reduce the products and S\n"
        "          add into S\n";
    static const char opt2[] =
        "for m in M\n"
        "  for n in N / 16\n"
        "    encode A[m][k] (EN-T) for all k\n"
        "    parallel n in 16\n"
        "      parallel bw in 4\n"
        "        accumulate (S, C) of 10 + log2 k bits\n"
        "        for k in K / 16\n"
        "          parallel k in 16\n"
        "            map the digit to -2B .. 2B of B[k][n]\n"
        "            half_reduce into (S, C)\n"
        "        shift S + C by 2 bw\n"
        "      add the four sums\n";
    static const char sync_k[] =
        "for m in M / 32\n"
        "  for n in N / 32\n"
        "    accumulate (S, C) of 32 bits for all m, n\n"
        "    for k in K\n"
        "      parallel m in 32\n"
        "        encode A[m][k] (EN-T)\n"
        "        parallel n in 32\n"
        "          for bw in digits that are not 0\n"
        "            map the digit to -2B .. 2B of B[k][n]\n"
        "            shift by 2 bw\n"
        "            half_reduce into (S, C)\n"
        "      sync\n"
        "    add S + C for all m, n\n";
    static const struct {
        const char *name, *want;
    } known[3] = { { "mac", mac }, { "opt2", opt2 }, { "opt4c-32", sync_k } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char text[1024], little[20];
    const tllm_bw_unit *u;
    tllm_bw_design d;
    size_t i;
    for (i = 0; i < 3; i++) {
        T_OK(tllm_bw_design_of(ctx, known[i].name, &d));
        if (i == 2) T_OK(tllm_bw_transform(ctx, &d, TLLM_BW_SYNC_K, 0));
        T_EQ_INT(tllm_bw_text(&d, text, sizeof text), strlen(known[i].want) + 1);
        T_EQ_TEXT(text, known[i].want);
    }
    for (i = 0; (u = tllm_bw_unit_at(i)) != NULL; i++) {
        T_OK(tllm_bw_design_of(ctx, u->name, &d));
        T_TRUE(tllm_bw_text(&d, text, sizeof text) == strlen(text) + 1 && strstr(text, "encode") &&
               strstr(text, "add"));
    }
    T_TRUE(tllm_bw_text(&d, little, sizeof little) == strlen(text) + 1 && strlen(little) == 19 &&
           !strncmp(text, little, 19));
    T_TRUE(tllm_bw_text(&d, NULL, 0) == strlen(text) + 1);
    d.n_loops = 0;
    T_TRUE(tllm_bw_text(&d, text, sizeof text) == 1 && !*text);
    t_close(ctx);
    T_PROOF("quantization 4", "the printer gives the nests of the baseline, OPT2 and OPT4 with sync");
}

static const tllm_bw_unit *unit(const char *name)
{
    const tllm_bw_unit *u;
    size_t i;
    for (i = 0; (u = tllm_bw_unit_at(i)) != NULL; i++) if (!strcmp(u->name, name)) return u;
    T_TRUE(u != NULL);
    return NULL;
}

/* the published table, by hand: 16 x 16 of 595737 um2 at 154 MHz and the others; products in that many cycles */
static void test_rates(void)
{
    double rate, area, base;
    tllm_bw_rate(unit("mac"), 256, 1, &rate, &base);
    T_CLOSE(rate, 2 * 256 * 154e6, 1);
    T_CLOSE(base, 2 * 256 * 154e6 / 0.595737, 1e3);
    tllm_bw_rate(unit("opt1"), 256, 1, NULL, &area);
    T_CLOSE(area / base, (322.0 / 154) * (595737.0 / 575546), 1e-9);       /* 2.164 */
    tllm_bw_rate(unit("mac-pe"), 1, 1, NULL, &base);
    tllm_bw_rate(unit("opt1-pe"), 1, 1, NULL, &area);
    T_CLOSE(area / base, (870.0 / 600) * (1666.0 / 1668), 1e-9);           /* 1.448 */
    tllm_bw_rate(unit("mac-ws"), 256, 1, NULL, &base);
    tllm_bw_rate(unit("opt1-ws"), 256, 1, NULL, &area);
    T_CLOSE(area / base, 1.319, 1e-3);
    tllm_bw_rate(unit("mac-cube"), 512, 1, NULL, &base);
    tllm_bw_rate(unit("opt1-cube"), 512, 1, NULL, &area);
    T_CLOSE(area / base, 1.417, 1e-3);
    tllm_bw_rate(unit("opt4c"), 32, 2.06, &rate, &area);
    T_CLOSE(rate, 2 * 32 * 1694e6 / 2.06, 1);
    T_CLOSE(area, rate / 0.040865, 1e3);
    tllm_bw_rate(unit("opt3"), 32, 1, &rate, &area);
    T_TRUE(rate == 0 && area == 0);
    tllm_bw_rate(unit("mac"), 32, 0, &rate, &area);
    T_TRUE(rate == 0 && area == 0);
    tllm_bw_rate(NULL, 1, 1, &rate, NULL);
    T_TRUE(rate == 0);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    matrices x = make(4, 4, 4, 0);
    tiny_tensor none, one;
    tllm_bw_design d, good;
    tllm_bw_stats s;
    uint64_t count[256] = { 0 };
    tllm_bw_digits digits;
    t_use(ctx);
    T_OK(tllm_bw_design_of(ctx, "mac", &good));
#define BAD(change, status, says)                                           \
    d = good;                                                               \
    change;                                                                 \
    T_STATUS(tllm_bw_gemm(ctx, &d, &x.ta, &x.tb, &x.tc, &s), status, says); \
    T_STATUS(tllm_bw_cycles(ctx, &d, &x.ta, 4, &s), status, says)
    BAD(d.loop[2].dim = 4, TINY_E_ARGUMENT, "loop 2 runs over dimension 4; the dimensions are m, n, k and bw");
    BAD(d.loop[2].dim = -1, TINY_E_ARGUMENT, "loop 2 runs over dimension -1");
    BAD(d.loop[2].size = 0, TINY_E_ARGUMENT, "loop 2, parallel over m, has size 0; the limits are 1 and 65536");
    BAD(d.loop[3].size = 65537, TINY_E_ARGUMENT, "has size 65537");
    BAD(d.loop[0].size = 4, TINY_E_ARGUMENT,
        "loop 0, in time over m, has size 4; it must be 0: the operands give the number of iterations");
    BAD(d.loop[5].size = 3, TINY_E_ARGUMENT, "there are 4 digits");
    BAD(d.n_loops = 0, TINY_E_ARGUMENT, "a nest of 0 loops");
    BAD(d.n_loops = 9, TINY_E_ARGUMENT, "a nest of 9 loops");
    BAD(d.n_loops = 5, TINY_E_ARGUMENT, "there is no loop over bw");
    BAD(d.loop[4].dim = TLLM_BW_M, TINY_E_ARGUMENT, "loop 4 is a second loop over m, in time");
    BAD(d.loop[4].parallel = 1; d.loop[4].size = 2, TINY_E_ARGUMENT, "there is no loop in time over k");
    BAD(d.loop[3].sparse = 1, TINY_E_ARGUMENT, "loop 3 is sparse");
    BAD(d.loop[5].sparse = 1, TINY_E_ARGUMENT, "loop 5 is sparse");
    BAD(d.place[TLLM_BW_MAP] = 5, TINY_E_ARGUMENT, "map needs m, n, k and bw");
    BAD(d.place[TLLM_BW_MAP] = 7, TINY_E_ARGUMENT, "map is inside 7 loops of 6");
    BAD(d.place[TLLM_BW_ADD] = -1, TINY_E_ARGUMENT, "add is inside -1 loops");
    BAD(d.place[TLLM_BW_ENCODE] = 6, TINY_E_ARGUMENT, "encode makes all digits at once");
    BAD(d.place[TLLM_BW_ADD] = 1, TINY_E_ARGUMENT, "add and accumulate must be inside the loops over m and n in time");
    BAD(d.place[TLLM_BW_ADD] = 6, TINY_E_ARGUMENT, "add and accumulate must be outside the loop over bw");
    BAD(d.place[TLLM_BW_HALF_REDUCE] = 6, TINY_E_ARGUMENT, "half_reduce takes all four products at once");
    BAD(d.place[TLLM_BW_SHIFT] = 5, TINY_E_ARGUMENT, "with shift after the sum, shift and accumulate must be");
    BAD(d.place[TLLM_BW_SYNC] = 4, TINY_E_ARGUMENT,
        "sync is inside 4 loops; the first parallel loop needs it inside 2");
    BAD(d.encoder = 2, TINY_E_ARGUMENT, "there is no encoder 2 that makes four digits");
    BAD(d.width = 15, TINY_E_ARGUMENT, "an accumulator of 15 bits");
    BAD(d.width = 33, TINY_E_ARGUMENT, "an accumulator of 33 bits");
    BAD(d.width = 16, TINY_E_OVERFLOW, "sums of 4 products reach 4 * 2^14, but an accumulator of 16 bits holds only 1");
    BAD(d.pipeline = -1, TINY_E_ARGUMENT, "a pipeline of -1 cycles");
    BAD(d.loop[2] = good.loop[1];
        d.loop[1] = good.loop[2], TINY_E_ARGUMENT, "m and n in time must be outside all parallel loops");
    BAD(d.loop[4] = good.loop[5]; d.loop[5] = good.loop[4];
        d.place[TLLM_BW_ENCODE] = 4, TINY_E_ARGUMENT, "needs the loop over bw innermost");
#undef BAD
    T_OK(tllm_bw_design_of(ctx, "opt3", &d));
    d.place[TLLM_BW_SYNC] = -1;
    T_STATUS(tllm_bw_check(ctx, &d, 0), TINY_E_ARGUMENT, "parallel loops need a sync");
    T_STATUS(tllm_bw_check(ctx, NULL, 0), TINY_E_ARGUMENT, "there is no design");
    T_STATUS(tllm_bw_design_of(ctx, "opt5", &d), TINY_E_UNSUPPORTED, "there is no design opt5");
    d = good;
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_OPT2, 0), TINY_E_UNSUPPORTED,
             "OPT2: add must first be outside the loop over k");
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_GROUP, 4), TINY_E_UNSUPPORTED,
             "GROUP: the loop over bw must be sparse first");
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_SYNC_K, 4), TINY_E_UNSUPPORTED,
             "SYNC: the loop over bw must be sparse first");
    T_STATUS(tllm_bw_transform(ctx, &d, 6, 4), TINY_E_ARGUMENT, "there is no transformation 6");
    T_TRUE(!memcmp(&d, &good, sizeof d));
    T_OK(tllm_bw_transform(ctx, &d, TLLM_BW_OPT1, 0));
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_OPT1, 0), TINY_E_UNSUPPORTED,
             "OPT1: add is already outside the loop over k");
    T_OK(tllm_bw_transform(ctx, &d, TLLM_BW_OPT3, 0));
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_OPT3, 0), TINY_E_UNSUPPORTED,
             "OPT3: the loop over bw must be innermost and parallel");
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_OPT2, 0), TINY_E_UNSUPPORTED,
             "OPT2: the loop over bw must be innermost and parallel");
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_GROUP, 1), TINY_E_UNSUPPORTED, "GROUP: it takes 2 to 65536 lanes");
    T_OK(tllm_bw_transform(ctx, &d, TLLM_BW_OPT4, 0));
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_OPT4, 0), TINY_E_UNSUPPORTED,
             "OPT4: the encoder is already outside the loop over n");
    T_OK(tllm_bw_transform(ctx, &d, TLLM_BW_SYNC_K, 0));
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_SYNC_K, 0), TINY_E_UNSUPPORTED,
             "SYNC: the lanes wait at every k already");
    T_OK(tllm_bw_transform(ctx, &d, TLLM_BW_GROUP, 4));
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_GROUP, 4), TINY_E_UNSUPPORTED,
             "GROUP: there is a parallel loop over k already");
    T_OK(tllm_bw_design_of(ctx, "mac-ws", &d));
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_OPT3, 0), TINY_E_UNSUPPORTED,
             "OPT3: the loop over k in time must be inside those over m and n");
    T_OK(tllm_bw_design_of(ctx, "mac-pe", &d));
    T_STATUS(tllm_bw_transform(ctx, &d, TLLM_BW_OPT4, 0), TINY_E_UNSUPPORTED, "OPT4: there is no parallel loop over n");
    none = tiny_tensor_2d(x.a, TINY_I8, 4, 0);
    one = tiny_tensor_2d(x.b, TINY_I8, 0, 4);
    T_STATUS(tllm_bw_gemm(ctx, &good, &none, &one, &x.tc, NULL), TINY_E_SHAPE,
             "a product of 4 x 0 by 0 x 4: each must be at least 1");
    T_STATUS(tllm_bw_cycles(ctx, &good, &x.ta, 0, &s), TINY_E_SHAPE, "each must be at least 1");
    T_STATUS(tllm_bw_cycles(ctx, &good, &x.ta, TINY_IDX_MAX, &s), TINY_E_OVERFLOW,
             "exceed the limit of the counters");
    one = tiny_tensor_2d(x.b, TINY_I8, 3, 4);
    T_STATUS(tllm_bw_gemm(ctx, &good, &x.ta, &one, &x.tc, NULL), TINY_E_SHAPE, "4 x 4 times 3 x 4 is not 4 x 4");
    T_STATUS(tllm_bw_gemm(ctx, &good, &x.ta, &x.tc, &x.tc, NULL), TINY_E_DTYPE, "b is 4x4 i32, not a matrix of i8");
    one = tiny_tensor_1d(x.b, TINY_I8, 4);
    T_STATUS(tllm_bw_gemm(ctx, &good, &x.ta, &one, &x.tc, NULL), TINY_E_SHAPE, "b is");
    T_STATUS(tllm_bw_gemm(ctx, &good, NULL, &x.tb, &x.tc, NULL), TINY_E_ARGUMENT, "there is no a");
    one = tiny_tensor_2d(x.c, TINY_I8, 4, 4);
    T_STATUS(tllm_bw_gemm(ctx, &good, &one, &x.tb, &x.tc, NULL), TINY_E_ALIAS, "c overlaps a or b");
    T_STATUS(tllm_bw_digits_of(ctx, 3, count, &digits), TINY_E_ARGUMENT, "there is no encoder 3");
    T_STATUS(tllm_bw_digits_of(ctx, 0, NULL, &digits), TINY_E_ARGUMENT, "the counts or the result");
    T_OK(tllm_bw_digits_of(ctx, 0, count, &digits));
    T_TRUE(digits.n == 0 && digits.mean == 0);
    T_TRUE(tllm_bw_encoder_name(-1) == NULL && tllm_bw_encoder_name(3) == NULL && tllm_bw_unit_at(1000) == NULL);
    T_TRUE(tllm_bw_gemm(NULL, &good, &x.ta, &x.tb, &x.tc, NULL) != TINY_OK);
    t_close(ctx);
    T_PROOF("quantization 4", "bad input: zero sizes, unknown loop dimension, spatial size 0");
}

static int stop_now(void *user) { return ++*(int *)user > 2; }

static void test_memory(void)
{
    matrices x = make(20, 20, 20, 0);
    tiny_ctx_desc desc;
    tiny_ctx *stopped = NULL;
    int asked = 0, reference;
    for (reference = 0; reference < 2; reference++) {
        T_EACH_ALLOCATION(
            tiny_ctx_desc e = t_desc(reference ? TINY_TARGET_REFERENCE : TINY_TARGET_AUTO, 1); tiny_ctx *ctx = NULL;
            uint64_t count[256] = { 0 }; tllm_bw_design d; tllm_bw_stats s; if (!tiny_ctx_open(&e, &ctx)) {
                if (!tllm_bw_design_of(ctx, "opt2", &d) && !tllm_bw_gemm(ctx, &d, &x.ta, &x.tb, &x.tc, &s) &&
                    !tllm_bw_cycles(ctx, &d, &x.ta, 5, &s) && !tllm_bw_count(ctx, x.a, 400, count))
                    (void)tllm_bw_count_rows(ctx, TLLM_FORMAT_I8, x.a, 20, 20, count, NULL);
            } tiny_ctx_close(ctx);)
    }
    desc = t_desc(TINY_TARGET_AUTO, 1);
    desc.cancel = stop_now;
    desc.user = &asked;
    if (!tiny_ctx_open(&desc, &stopped)) {
        tllm_bw_design d;
        t_use(stopped);
        T_OK(tllm_bw_design_of(stopped, "mac-pe", &d));
        asked = 2;
        T_STATUS(tllm_bw_gemm(stopped, &d, &x.ta, &x.tb, &x.tc, NULL), TINY_E_CANCELLED, NULL);
        t_close(stopped);
    }
}

int main(void)
{
    T_RUN(test_encoders);
    T_RUN(test_normal);
    T_RUN(test_count);
    T_RUN_FORMS(test_rows);
    T_RUN(test_compress);
    T_RUN_FORMS(test_gemm);
    T_RUN_FORMS(test_extremes);
    T_RUN_FORMS(test_transforms);
    T_RUN_FORMS(test_counts);
    T_RUN(test_sync);
    T_RUN_FORMS(test_views);
    T_RUN(test_text);
    T_RUN(test_rates);
    T_RUN(test_refused);
    T_RUN(test_memory);
    return t_done();
}
#endif
