/* tests/llm/round/plain.c - plain rounding of weights
 *
 * Truth    examples worked by hand; the formulas of the three conventions in double, by libm's
 *          nearbyint; a search of ranges against all of its ranges one by one, each as a layer of its own; int8
 *          products whose integers are exact */
#include "t.h"
#include <math.h>

typedef struct held { tllm_plain q; tllm_plain_sizes size; } held;
static held room(tiny_ctx *ctx, const tllm_plain_desc *d, tiny_idx rows, tiny_idx n)
{
    held h;
    memset(&h, 0, sizeof h);
    T_OK(tllm_plain_size(ctx, d, rows, n, &h.size));
    h.q.code = (uint8_t *)t_guarded_bytes(h.size.codes);
    h.q.scale = (uint16_t *)t_guarded_bytes(h.size.scales * 2);
    h.q.zero = (uint8_t *)t_guarded_bytes(h.size.scales);
    return h;
}
static float half_of(uint16_t h)
{
    const unsigned char b[2] = { (unsigned char)h, (unsigned char)(h >> 8) };
    float x;
    tllm_format_of(TLLM_FORMAT_F16)->unpack(b, &x, 1);
    return x;
}
static uint16_t to_half(double x)
{
    const float f = (float)x;
    unsigned char b[2];
    tllm_format_of(TLLM_FORMAT_F16)->pack(&f, b, 1, NULL);
    return (uint16_t)(b[0] | b[1] << 8);
}

/* the worked numbers have exact scales: those of halves are within half a unit of 2^-11 of them */
static void test_by_hand(tiny_target target)
{
    static const float w[4] = { 0.9f, -0.31f, 0.12f, -1.5f };
    static const int s1[4] = { 4, -1, 1, -7 }, asym[4] = { 15, 7, 10, 0 };
    static const double s1_back[4] = { 0.857143, -0.214286, 0.214286, -1.5 },
                        asym_back[4] = { 0.96, -0.32, 0.16, -1.44 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_plain_desc d;
    float back[4];
    held h;
    int i;
    memset(&d, 0, sizeof d);
    d.kind = TLLM_PLAIN_S1;
    d.group = TLLM_PLAIN_ROW;
    h = room(ctx, &d, 1, 4);
    T_OK(tllm_plain_round(ctx, &d, w, 1, 4, NULL, &h.q));
    T_OK(tllm_plain_expand(ctx, &d, &h.q, 1, 4, back));
    T_CLOSE(half_of(h.q.scale[0]), 0.2142857, 0.2142857 / 2048);
    T_EQ_INT(h.q.scale[0], to_half(1.5 / 7));
    for (i = 0; i < 4; i++) {
        T_EQ_INT((int)h.q.code[i] - h.q.zero[0], s1[i]);
        T_CLOSE(back[i], s1_back[i], fabs(s1_back[i]) / 2048 + 1e-6);
    }
    d.kind = TLLM_PLAIN_ASYM;
    T_OK(tllm_plain_round(ctx, &d, w, 1, 4, NULL, &h.q));
    T_OK(tllm_plain_expand(ctx, &d, &h.q, 1, 4, back));
    T_CLOSE(half_of(h.q.scale[0]), 0.16, 0.16 / 2048);
    T_EQ_INT(h.q.zero[0], 9);
    for (i = 0; i < 4; i++) {
        T_EQ_INT(h.q.code[i], asym[i]);
        T_CLOSE(back[i], asym_back[i], fabs(asym_back[i]) / 2048 + 1e-6);
    }
    t_close(ctx);
    T_PROOF("quantization 0", "S1 4-bit on w=(0.9,-0.31,0.12,-1.5): s=0.2142857, q=(4,-1,1,-7)");
    T_PROOF("quantization 0", "Asymmetric: s=0.16, z=9, u=(15,7,10,0)");
}

/* a group by the formulas: scale, zero and codes of n numbers of the range p */
static void by_formula(const tllm_plain_desc *d, const float *w, tiny_idx n, double p, uint16_t *scale, int *zero)
{
    const int top = (1 << d->bits) - 1;
    double lo = 0, hi = 0, s;
    tiny_idx i;
    for (i = 0; i < n; i++) {
        lo = fmin(lo, (double)w[i]);
        hi = fmax(hi, (double)w[i]);
    }
    if (d->kind == TLLM_PLAIN_ASYM && lo == 0 && hi == 0) { lo = -1; hi = 1; }
    lo *= p;
    hi *= p;
    s = d->kind == TLLM_PLAIN_S1   ? fmax(hi, -lo) / (double)((1 << (d->bits - 1)) - 1)
        : d->kind == TLLM_PLAIN_S2 ? 2 * fmax(hi, -lo) / top
                                   : (hi - lo) / top;
    *scale = to_half(s + 0.0);              /* a maximum of 0 may be -0 */
    *zero = 1 << (d->bits - 1);
    if (!*scale) *scale = to_half(1);
    else if (d->kind == TLLM_PLAIN_ASYM) *zero = (int)fmin(nearbyint(-lo / (double)half_of(*scale)), top);
}

static void test_formulas(tiny_target target)
{
    static const tiny_idx groups[] = { 32, 7, 300, TLLM_PLAIN_ROW, TLLM_PLAIN_TENSOR };
    enum { ROWS = 5, N = 75 };
    tiny_ctx *ctx = t_ctx(target, 2);
    int kind, bits, far = 0, all = 0;
    size_t g;
    for (kind = 0; kind < TLLM_PLAIN_KINDS; kind++)
        for (bits = kind == TLLM_PLAIN_S1 ? 2 : 1; bits <= 8; bits++)
            for (g = 0; g < T_COUNT(groups); g++) {
                float *w = t_rand(ROWS * N, -1.5f, 1.0f), *back = t_guarded(ROWS * N);
                tllm_plain_desc d;
                held h;
                tiny_idx r, i;
                memset(&d, 0, sizeof d);
                d.kind = kind;
                d.bits = bits;
                d.group = groups[g];
                for (i = 0; i < N; i++) {   /* a row of zeros, one that vanishes as a half, one that is positive */
                    w[i] = 0.0f;
                    w[N + i] *= 1e-9f;
                    w[2 * N + i] = fabsf(w[2 * N + i]);
                }
                h = room(ctx, &d, ROWS, N);
                T_OK(tllm_plain_round(ctx, &d, w, ROWS, N, NULL, &h.q));
                T_OK(tllm_plain_expand(ctx, &d, &h.q, ROWS, N, back));
                for (r = 0; r < ROWS; r++)
                    for (i = 0; i < N; i++) {
                        const size_t at =
                            groups[g] == TLLM_PLAIN_TENSOR ? 0 : (size_t)(r * h.size.groups + i / h.size.group);
                        const tiny_idx first = i / h.size.group * h.size.group;
                        uint16_t scale;
                        double s, v;
                        int zero, code;
                        if (groups[g] == TLLM_PLAIN_TENSOR) by_formula(&d, w, ROWS * N, 1, &scale, &zero);
                        else
                            by_formula(&d, w + r * N + first, first + h.size.group > N ? N - first : h.size.group, 1,
                                       &scale, &zero);
                        T_EQ_INT(h.q.scale[at], scale);
                        T_EQ_INT(h.q.zero[at], zero);
                        s = (double)half_of(scale);
                        v = (double)w[r * N + i] / s;
                        code = (int)fmax(0, fmin(nearbyint(v) + zero, (1 << bits) - 1));
                        all++;
                        /* only where the division in float lands on the other side of a middle */
                        if (h.q.code[r * N + i] != code) {
                            far++;
                            T_CLOSE(fabs(v - floor(v)), 0.5, 1e-5);
                        }
                        T_CLOSE(back[r * N + i], s * (h.q.code[r * N + i] - zero),
                                1e-6 * fabs((double)back[r * N + i]));
                        if (r < 1 || (r == 1 && groups[g] != TLLM_PLAIN_TENSOR)) T_EQ_INT(h.q.code[r * N + i], zero);
                    }
                T_WALLS(h.q.code, 0);
                T_WALLS(h.q.scale, 0);
                T_WALLS(h.q.zero, 0);
                T_WALLS(back, 0);
                t_free_blocks();
            }
    T_TRUE(far * 1000 < all);
    t_close(ctx);
    T_PROOF("quantization 0", "g not dividing N");
    T_PROOF("quantization 0", "g > N");
    T_PROOF("quantization 0", "zero rows");
}

/* 8.5e-8 is between the two smallest halves and becomes the smaller, 2^-24: the code of 0 would be 364 of 255, and is
 * clamped */
static void test_least_scale(tiny_target target)
{
    static const float w[4] = { -255 * 8.5e-8f, 0.0f, -1e-6f, -5e-6f };
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_plain_desc d;
    tllm_plain q;
    uint8_t code[4], zero[1];
    uint16_t scale[1];
    float back[4];
    int i;
    memset(&d, 0, sizeof d);
    d.kind = TLLM_PLAIN_ASYM;
    d.bits = 8;
    d.group = TLLM_PLAIN_ROW;
    q.code = code;
    q.scale = scale;
    q.zero = zero;
    T_OK(tllm_plain_round(ctx, &d, w, 1, 4, NULL, &q));
    T_EQ_INT(scale[0], 1);
    T_EQ_INT(zero[0], 255);
    T_OK(tllm_plain_expand(ctx, &d, &q, 1, 4, back));
    T_CLOSE(back[0], -255 * ldexp(1.0, -24), 0);
    for (i = 1; i < 4; i++) T_CLOSE(back[i], w[i], ldexp(0.5, -24));
    t_close(ctx);
}

/* the search finds the best of its ranges, plain and weighted, and the first of equals */
static void test_clip(tiny_target target)
{
    enum { ROWS = 6, N = 96, CLIP = 75 };
    tiny_ctx *ctx = t_ctx(target, 2);
    double gain = 0;
    int kind, weighted;
    for (kind = 0; kind < TLLM_PLAIN_KINDS; kind++)
        for (weighted = 0; weighted < 2; weighted++) {
            float *w = t_rand(ROWS * N, -1, 1), *h = t_rand(N, 0, 1), *back = t_guarded(ROWS * N),
                  *plain = t_guarded(ROWS * N);
            tllm_plain_desc d;
            held q, whole;
            tiny_idx r, i;
            memset(&d, 0, sizeof d);
            d.kind = kind;
            d.bits = 3;
            d.group = TLLM_PLAIN_ROW;
            for (i = 0; i < ROWS * N; i++) w[i] = w[i] * w[i] * w[i];       /* a few are large */
            whole = room(ctx, &d, ROWS, N);
            T_OK(tllm_plain_round(ctx, &d, w, ROWS, N, NULL, &whole.q));
            T_OK(tllm_plain_expand(ctx, &d, &whole.q, ROWS, N, plain));
            d.clip = CLIP;
            q = room(ctx, &d, ROWS, N);
            T_OK(tllm_plain_round(ctx, &d, w, ROWS, N, weighted ? h : NULL, &q.q));
            T_OK(tllm_plain_expand(ctx, &d, &q.q, ROWS, N, back));
            for (r = 0; r < ROWS; r++) {
                double least = 1e30, got = 0, before = 0;
                int c;
                for (c = 0; c <= CLIP; c++) {
                    uint16_t scale;
                    int zero;
                    double sum = 0, s;
                    by_formula(&d, w + r * N, N, (double)(1.0f - (float)c / 100.0f), &scale, &zero);
                    s = (double)half_of(scale);
                    for (i = 0; i < N; i++) {
                        const double u = fmax(0, fmin(nearbyint((double)w[r * N + i] / s) + zero, 7));
                        sum += (weighted ? (double)h[i] : 1) * pow(s * (u - zero) - (double)w[r * N + i], 2);
                    }
                    if (sum < least) least = sum;
                }
                for (i = 0; i < N; i++) {
                    got += (weighted ? (double)h[i] : 1) * pow((double)back[r * N + i] - (double)w[r * N + i], 2);
                    before += (weighted ? (double)h[i] : 1) * pow((double)plain[r * N + i] - (double)w[r * N + i], 2);
                }
                T_CLOSE(got, least, 1e-5 * least);
                T_TRUE(got <= before);
                gain += got / before / (2 * ROWS * TLLM_PLAIN_KINDS);
            }
            t_free_blocks();
        }
    T_TRUE(gain < 0.9);
    {                                       /* zeros lose nothing under any range: the whole one stays */
        float *w = (float *)t_keep(8 * sizeof *w);
        tllm_plain_desc d;
        held q;
        memset(&d, 0, sizeof d);
        d.kind = TLLM_PLAIN_ASYM;
        d.clip = CLIP;
        q = room(ctx, &d, 1, 8);
        T_OK(tllm_plain_round(ctx, &d, w, 1, 8, NULL, &q.q));
        T_EQ_INT(q.q.scale[0], to_half(2.0 / 15));
        T_EQ_INT(q.q.zero[0], 8);
    }
    t_close(ctx);
}

/* the same bits from every target and any number of threads */
static void test_same(tiny_target target)
{
    enum { ROWS = 300, N = 200 };
    tiny_ctx *ctx = t_ctx(target, 3), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    float *w = t_rand(ROWS * N, -1, 1);
    tllm_plain_desc d;
    held a, b;
    memset(&d, 0, sizeof d);
    d.clip = 20;
    d.group = 64;
    a = room(ctx, &d, ROWS, N);
    b = room(ctx, &d, ROWS, N);
    T_OK(tllm_plain_round(plain, &d, w, ROWS, N, NULL, &a.q));
    T_OK(tllm_plain_round(ctx, &d, w, ROWS, N, NULL, &b.q));
    T_SAME(a.q.code, b.q.code, ROWS * N);
    T_SAME(a.q.scale, b.q.scale, a.size.scales);
    T_SAME(a.q.zero, b.q.zero, a.size.scales);
    t_close(plain);
    t_close(ctx);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float w[64], h[32], back[64];
    tllm_plain_sizes size;
    tllm_plain_desc d;
    held q;
    int i;
    for (i = 0; i < 64; i++) w[i] = (float)i;
    for (i = 0; i < 32; i++) h[i] = 1.0f;
    memset(&d, 0, sizeof d);
    d.group = 16;
    q = room(ctx, &d, 2, 32);
    d.bits = 9;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_ARGUMENT, "codes of 9 bits; the limits are 1");
    d.bits = -1;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_ARGUMENT, "codes of -1 bits; the limits are 1");
    d.bits = 1;
    d.kind = TLLM_PLAIN_S1;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_ARGUMENT, "S1 with 1 bit has no level other");
    d.kind = 3;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_ARGUMENT,
             "convention 3; there are S2 (0), S1 (1) and ASYM (2)");
    d.kind = TLLM_PLAIN_S2;
    d.bits = 4;
    d.group = -3;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_ARGUMENT, "groups of -3 inputs; use at least 1");
    d.group = 16;
    d.clip = 100;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_ARGUMENT,
             "clip is 100; the limits are 0 and 99");
    d.clip = 0;
    T_STATUS(tllm_plain_round(ctx, &d, w, 0, 32, NULL, &q.q), TINY_E_ARGUMENT, "a layer of 0 rows of 32 inputs");
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 0, NULL, &q.q), TINY_E_ARGUMENT, "a layer of 2 rows of 0 inputs");
    T_STATUS(tllm_plain_size(ctx, &d, TINY_IDX_MAX / 2, 4, &size), TINY_E_OVERFLOW,
             "more than this machine can address");
    T_STATUS(tllm_plain_size(ctx, &d, 2, 4, NULL), TINY_E_ARGUMENT, "the result pointer is NULL");
    T_STATUS(tllm_plain_round(ctx, &d, NULL, 2, 32, NULL, &q.q), TINY_E_ARGUMENT, "but one is NULL");
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, NULL), TINY_E_ARGUMENT, "but one is NULL");
    T_STATUS(tllm_plain_round(NULL, &d, w, 2, 32, NULL, &q.q), TINY_E_ARGUMENT, NULL);
    w[40] = NAN;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_NUMERIC, "the weight in row 1, input 8 is nan");
    w[40] = -INFINITY;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_NUMERIC, "the weight in row 1, input 8 is -inf");
    w[40] = 1e7f;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_NUMERIC,
             "row 1, inputs 0 to 15: a magnitude of 1e+07 in 4 bits (S2) needs a scale above 65504, the largest half");
    d.group = TLLM_PLAIN_TENSOR;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q), TINY_E_NUMERIC,
             "row 1, inputs 0 to 31: a magnitude of 1e+07");
    d.clip = 3;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, h, &q.q), TINY_E_UNSUPPORTED, "needs a scale for a row or a group");
    w[40] = 40.0f;
    T_OK(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q));
    d.group = 16;
    h[31] = -1.0f;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, h, &q.q), TINY_E_NUMERIC, "the weight of errors of input 31 is -1");
    h[31] = NAN;
    T_STATUS(tllm_plain_round(ctx, &d, w, 2, 32, h, &q.q), TINY_E_NUMERIC, "input 31 is nan");
    T_OK(tllm_plain_round(ctx, &d, w, 2, 32, NULL, &q.q));
    q.q.code[33] = 16;
    T_STATUS(tllm_plain_expand(ctx, &d, &q.q, 2, 32, back), TINY_E_FORMAT,
             "code 16 in row 1, input 1; with 4 bits the largest is 15");
    t_close(ctx);
    T_PROOF("quantization 0", "NaN/Inf weights");
    T_PROOF("quantization 0", "b outside 1..8");
    T_PROOF("quantization 0", "huge outlier overflowing f16 scale");
}

int main(void)
{
    T_RUN_FORMS(test_by_hand);
    T_RUN_FORMS(test_formulas);
    T_RUN_FORMS(test_least_scale);
    T_RUN_FORMS(test_clip);
    T_RUN_FORMS(test_same);
    T_RUN(test_refused);
    return t_done();
}
