/* src/llm/block/direct.c - block formats without a search
 *
 * Data     Q8_0: 32 int8 under a half; Q4_0, Q5_0: 32 codes of 4 (5) bits, value d (q - 8 or 16); Q4_1, Q5_1: d q + m;
 *          Q8_1: Q8_0 and d times the sum of its codes; Q8_K: 256 int8 under a float and the sums of 16 codes each;
 *          TQ1_0, TQ2_0: 256 of -1, 0, 1; MXFP4: 32 E2M1 numbers under a power of two; NVFP4: 16 each under an E4M3
 *          number; Q1_0: 128 signs; Q2_0: 64 of -1, 0, 1. Byte j of a block of 32 nibbles holds value j (low) and j +
 *          16.
 * Rounding half away from zero for signed codes, floor(v + 1/2) for codes with an offset, as the writers of these
 *          formats do. A scale so small that its inverse is infinite gives code 0 before the offset is subtracted
 * Search   Q4_0 to Q5_1 with importance only (kformats.c); without importance the formula, whose bytes programs compare
 * Left out importance for the other formats: no reader expects it */
#include "llm/block/direct_inside.h"

TINY_REF_BEGIN

/* ---- single numbers ------------------------------------------------------------------------------------------ */

TINYI_FN void tinyi_unpack_F32(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    size_t i;
    for (i = 0; i < n; i++) {
        const uint32_t u = tinyi_q_u32(b + 4 * i);
        memcpy(x + i, &u, 4);
    }
}
TINYI_FN void tinyi_pack_F32(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    size_t i;
    (void)importance;
    for (i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, 4);
        tinyi_put_le32(b + 4 * i, u);
    }
}
TINYI_FN void tinyi_unpack_F16(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    size_t i;
    for (i = 0; i < n; i++) x[i] = tinyi_q_half(b + 2 * i);
}
TINYI_FN void tinyi_pack_F16(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    size_t i;
    (void)importance;
    for (i = 0; i < n; i++) tinyi_put_le16(b + 2 * i, tinyi_f32_to_f16(x[i]));
}
TINYI_FN void tinyi_unpack_BF16(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    size_t i;
    for (i = 0; i < n; i++) x[i] = tinyi_bf16_to_f32(tinyi_q_u16(b + 2 * i));
}
TINYI_FN void tinyi_pack_BF16(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    size_t i;
    (void)importance;
    for (i = 0; i < n; i++) tinyi_put_le16(b + 2 * i, tinyi_f32_to_bf16(x[i]));
}

static uint64_t tinyi_direct_u64(const unsigned char *p)
{
    return (uint64_t)tinyi_q_u32(p) | (uint64_t)tinyi_q_u32(p + 4) << 32;
}
TINYI_FN void tinyi_unpack_F64(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    size_t i;
    for (i = 0; i < n; i++) {
        const uint64_t u = tinyi_direct_u64(b + 8 * i);
        double v;
        memcpy(&v, &u, 8);
        x[i] = v > 3.5e38 ? tinyi_bits_f32(0x7f800000u) : v < -3.5e38 ? tinyi_bits_f32(0xff800000u) : (float)v;
    }
}
TINYI_FN void tinyi_pack_F64(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    size_t i;
    (void)importance;
    for (i = 0; i < n; i++) {
        const double v = (double)x[i];
        uint64_t u;
        memcpy(&u, &v, 8);
        tinyi_put_le32(b + 8 * i, (uint32_t)u);
        tinyi_put_le32(b + 8 * i + 4, (uint32_t)(u >> 32));
    }
}
TINYI_FN void tinyi_unpack_I8(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    size_t i;
    for (i = 0; i < n; i++) x[i] = (float)((b[i] ^ 128) - 128);
}
TINYI_FN void tinyi_unpack_I16(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    size_t i;
    for (i = 0; i < n; i++) x[i] = (float)((tinyi_q_u16(b + 2 * i) ^ 0x8000) - 0x8000);
}
TINYI_FN void tinyi_unpack_I32(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    size_t i;
    for (i = 0; i < n; i++) x[i] = (float)((int64_t)(tinyi_q_u32(b + 4 * i) ^ 0x80000000u) - 2147483648LL);
}
TINYI_FN void tinyi_unpack_I64(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    size_t i;
    for (i = 0; i < n; i++) {
        const uint64_t u = tinyi_direct_u64(b + 8 * i);
        int64_t v;
        memcpy(&v, &u, 8);
        x[i] = (float)v;
    }
}

/* ---- 8 bits --------------------------------------------------------------------------------------------------- */

static float tinyi_direct_largest(const float *x, float *v, int n)     /* v: x made harmless */
{
    float most = 0.0f;
    int j;
    for (j = 0; j < n; j++) {
        v[j] = tinyi_q_in(x[j]);
        if (tinyi_q_abs(v[j]) > most) most = tinyi_q_abs(v[j]);
    }
    return most;
}

TINYI_FN void tinyi_unpack_Q8_0(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int j;
    for (; n >= 32; n -= 32, x += 32, b += 34) {
        const float d = tinyi_q_half(b);
        for (j = 0; j < 32; j++) x[j] = (float)((b[2 + j] ^ 128) - 128) * d;
    }
}
TINYI_FN void tinyi_pack_Q8_0(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    float v[32];
    int j;
    (void)importance;
    for (; n >= 32; n -= 32, x += 32, b += 34) {
        const float d = tinyi_direct_largest(x, v, 32) / 127.0f, inverse = d > 0.0f ? 1.0f / d : 0.0f;
        tinyi_q_put_half(b, d);
        for (j = 0; j < 32; j++) b[2 + j] = (unsigned char)tinyi_q_away(v[j] * inverse);
    }
}

TINYI_FN void tinyi_unpack_Q8_1(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int j;
    for (; n >= 32; n -= 32, x += 32, b += 36) {
        const float d = tinyi_q_half(b);
        for (j = 0; j < 32; j++) x[j] = (float)((b[4 + j] ^ 128) - 128) * d;
    }
}
TINYI_FN void tinyi_pack_Q8_1(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    float v[32];
    int j, sum, c;
    (void)importance;
    for (; n >= 32; n -= 32, x += 32, b += 36) {
        const float d = tinyi_direct_largest(x, v, 32) / 127.0f, inverse = d > 0.0f ? 1.0f / d : 0.0f;
        for (j = sum = 0; j < 32; j++) {
            c = tinyi_q_away(v[j] * inverse);
            sum += c;
            b[4 + j] = (unsigned char)c;
        }
        tinyi_q_put_half(b, d);
        tinyi_q_put_half(b + 2, (float)sum * tinyi_q_half(b));
    }
}

TINYI_FN void tinyi_unpack_Q8_K(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int j;
    for (; n >= 256; n -= 256, x += 256, b += 292) {
        const float d = tinyi_bits_f32(tinyi_q_u32(b));
        for (j = 0; j < 256; j++) x[j] = d * (float)((b[4 + j] ^ 128) - 128);
    }
}
TINYI_FN void tinyi_pack_Q8_K(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    float v[256];
    int g, j, sum, c;
    (void)importance;
    for (; n >= 256; n -= 256, x += 256, b += 292) {
        const float d = tinyi_direct_largest(x, v, 256) / 127.0f, inverse = d > 0.0f ? 1.0f / d : 0.0f;
        tinyi_put_le32(b, tinyi_f32_bits(d));
        for (g = 0; g < 16; g++) {
            for (j = sum = 0; j < 16; j++) {
                c = tinyi_q_away(v[16 * g + j] * inverse);
                sum += c;
                b[4 + 16 * g + j] = (unsigned char)c;
            }
            tinyi_put_le16(b + 260 + 2 * g, (unsigned)sum & 0xffffu);
        }
    }
}

/* ---- 4 and 5 bits ------------------------------------------------------------------------------------------------ */

static void tinyi_direct_unpack45(const unsigned char *b, float *x, size_t n, int bits, int shifted)
{
    const int head = shifted ? 4 : 2, high_bytes = bits == 5 ? 4 : 0;
    int j;
    for (; n >= 32; n -= 32, x += 32, b += head + high_bytes + 16) {
        const float d = tinyi_q_half(b), m = shifted ? tinyi_q_half(b + 2) : 0.0f;
        const uint32_t high = bits == 5 ? tinyi_q_u32(b + head) : 0;
        const unsigned char *code = b + head + high_bytes;
        for (j = 0; j < 16; j++) {
            const int low = (code[j] & 15) | (int)(high >> j & 1) << 4, up = code[j] >> 4 | (int)(high >> (j + 16) & 1)
                                                                                                << 4;
            if (shifted) {
                x[j] = (float)low * d + m;
                x[j + 16] = (float)up * d + m;
            } else {
                x[j] = (float)(low - (1 << (bits - 1))) * d;
                x[j + 16] = (float)(up - (1 << (bits - 1))) * d;
            }
        }
    }
}
TINYI_FN void tinyi_q_put45(unsigned char *b, const unsigned char *code, int bits, int shifted)
{
    uint32_t high = 0;
    int j;
    b += shifted ? 4 : 2;
    for (j = 0; j < 32; j++) high |= (uint32_t)(code[j] >> 4 & 1) << j;
    if (bits == 5) {
        tinyi_put_le32(b, high);
        b += 4;
    }
    for (j = 0; j < 16; j++) b[j] = (unsigned char)((code[j] & 15) | (code[j + 16] & 15) << 4);
}
static void tinyi_direct_pack45(const float *x, unsigned char *b, size_t n, const float *importance, int bits,
                                int shifted)
{
    const int head = shifted ? 4 : 2, high_bytes = bits == 5 ? 4 : 0, top = (1 << bits) - 1;
    float v[32];
    unsigned char found[32], code[32];
    int j;
    for (; n >= 32; n -= 32, x += 32, b += head + high_bytes + 16, importance = importance ? importance + 32 : NULL) {
        float lowest, highest, largest, d, inverse, offset = 0.5f, base = 0.0f;
        lowest = highest = largest = tinyi_q_in(x[0]);
        for (j = 0; j < 32; j++) {
            v[j] = tinyi_q_in(x[j]);
            if (v[j] < lowest) lowest = v[j];
            if (v[j] > highest) highest = v[j];
            if (tinyi_q_abs(v[j]) > tinyi_q_abs(largest)) largest = v[j];
        }
        if (shifted) {
            d = (highest - lowest) / (float)top;
            base = lowest;
            tinyi_q_put_half(b + 2, base);
        } else {
            d = largest / (float)(-(1 << (bits - 1)));
            offset += (float)(1 << (bits - 1));
        }
        inverse = d != 0.0f ? 1.0f / d : 0.0f;
        if (importance) {
            if (shifted) {
                tinyi_q_search_line(x, importance, bits, &d, &base, found);
                tinyi_q_put_half(b + 2, base);
            } else {
                d = tinyi_q_search_even(x, importance, bits, found);
            }
        }
        tinyi_q_put_half(b, d);
        for (j = 0; j < 32; j++)
            code[j] = (unsigned char)(importance ? found[j]
                                                 : tinyi_q_min(tinyi_q_cut((v[j] - base) * inverse + offset), top));
        tinyi_q_put45(b, code, bits, shifted);
    }
}

#define TINYI_DIRECT_45(name, bits, shifted)                                                    \
    TINYI_FN void tinyi_unpack_##name(const void *q, float *x, size_t n)                        \
    {                                                                                           \
        tinyi_direct_unpack45((const unsigned char *)q, x, n, bits, shifted);                   \
    }                                                                                           \
    TINYI_FN void tinyi_pack_##name(const float *x, void *q, size_t n, const float *importance) \
    {                                                                                           \
        tinyi_direct_pack45(x, (unsigned char *)q, n, importance, bits, shifted);               \
    }
TINYI_DIRECT_45(Q4_0, 4, 0)
TINYI_DIRECT_45(Q4_1, 4, 1)
TINYI_DIRECT_45(Q5_0, 5, 0)
TINYI_DIRECT_45(Q5_1, 5, 1)
#undef TINYI_DIRECT_45

/* ---- three values ------------------------------------------------------------------------------------------------ */

TINYI_FN void tinyi_unpack_TQ2_0(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int j, l;
    for (; n >= 256; n -= 256, x += 256, b += 66) {
        const float d = tinyi_q_half(b + 64);
        for (j = 0; j < 256; j += 32)
            for (l = 0; l < 32; l++) x[j + l] = (float)((b[j / 128 * 32 + l] >> (j / 32 % 4 * 2) & 3) - 1) * d;
    }
}
TINYI_FN void tinyi_pack_TQ2_0(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    float v[256];
    int j, l;
    (void)importance;
    for (; n >= 256; n -= 256, x += 256, b += 66) {
        const float d = tinyi_direct_largest(x, v, 256), inverse = d > 0.0f ? 1.0f / d : 0.0f;
        memset(b, 0, 64);
        for (j = 0; j < 256; j += 32)
            for (l = 0; l < 32; l++) {
                unsigned char *at = b + j / 128 * 32 + l;
                *at = (unsigned char)(*at | (tinyi_q_away(v[j + l] * inverse) + 1) << (j / 32 % 4 * 2));
            }
        tinyi_q_put_half(b + 64, d);
    }
}

/* Byte k of a TQ1_0 block holds the values of places first, first + step, first + 2 step, ...: 5 of them, or 4 for the
 * last bytes. */
static int tinyi_direct_trits(int k, int *first, int *step)
{
    *first = k < 32 ? k : k < 48 ? 160 + k - 32 : 240 + k - 48;
    *step = k < 32 ? 32 : k < 48 ? 16 : 4;
    return k < 48 ? 5 : 4;
}
TINYI_FN void tinyi_unpack_TQ1_0(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int k, i, first, step;
    for (; n >= 256; n -= 256, x += 256, b += 54) {
        const float d = tinyi_q_half(b + 52);
        for (k = 0; k < 52; k++) {
            const int count = tinyi_direct_trits(k, &first, &step);
            unsigned left = b[k];           /* a fraction of 256: times 3, the digit is what goes over */
            for (i = 0; i < count; i++, left &= 255) {
                left *= 3;
                x[first + i * step] = (float)((int)(left >> 8) - 1) * d;
            }
        }
    }
}
TINYI_FN void tinyi_pack_TQ1_0(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    float v[256];
    int k, i, first, step;
    (void)importance;
    for (; n >= 256; n -= 256, x += 256, b += 54) {
        const float d = tinyi_direct_largest(x, v, 256), inverse = d > 0.0f ? 1.0f / d : 0.0f;
        for (k = 0; k < 52; k++) {
            const int count = tinyi_direct_trits(k, &first, &step);
            int number = 0;
            for (i = 0; i < 5; i++)
                number = 3 * number + (i < count ? tinyi_q_away(v[first + i * step] * inverse) + 1 : 0);
            /* rounded up: the digits come out again by cutting */
            b[k] = (unsigned char)((number * 256 + 242) / 243);
        }
        tinyi_q_put_half(b + 52, d);
    }
}

/* ---- E2M1 -------------------------------------------------------------------------------------------------------- */

/* twice the number */
static const signed char tinyi_direct_e2m1[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* The code with the nearest value; of two at the same distance the first one. */
static int tinyi_direct_nearest(float x, float d)
{
    int i, best = 0;
    float least = tinyi_q_abs(0.0f * d - x);
    const int first = x < 0.0f ? 9 : 1;
    /* also where x is so large that all distances round to it */
    if (d > 0.0f && tinyi_q_abs(x) > 12.0f * d) return first + 6;
    for (i = first; i < first + 7; i++) {
        const float off = tinyi_q_abs((float)tinyi_direct_e2m1[i] * d - x);
        if (off < least) { least = off; best = i; }
    }
    return best;
}

static float tinyi_direct_power(int e)      /* 2^(e - 128) */
{
    return tinyi_bits_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* The exponent of a float, floor(log2 a), a > 0. */
static int tinyi_direct_exponent(float a)
{
    const uint32_t u = tinyi_f32_bits(a);
    int e = (int)(u >> 23) - 127;
    uint32_t m;
    if (u >> 23) return e;
    for (e = -127, m = u << 1; !(m & 0x800000u); m <<= 1) e--;
    return e;
}

/* As tinyi_q_in, for the formats whose scale reaches further. */
static float tinyi_direct_wide(float x)
{
    return x != x ? 0.0f : x > 1e38f ? 1e38f : x < -1e38f ? -1e38f : x;
}

TINYI_FN void tinyi_unpack_MXFP4(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int j;
    for (; n >= 32; n -= 32, x += 32, b += 17) {
        const float d = tinyi_direct_power(b[0]);
        for (j = 0; j < 16; j++) {
            x[j] = (float)tinyi_direct_e2m1[b[1 + j] & 15] * d;
            x[j + 16] = (float)tinyi_direct_e2m1[b[1 + j] >> 4] * d;
        }
    }
}
TINYI_FN void tinyi_pack_MXFP4(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    int j, e;
    (void)importance;
    for (; n >= 32; n -= 32, x += 32, b += 17) {
        float most = 0.0f, d, v[32];
        for (j = 0; j < 32; j++) {
            v[j] = tinyi_direct_wide(x[j]);
            if (tinyi_q_abs(v[j]) > most) most = tinyi_q_abs(v[j]);
        }
        e = most > 0.0f ? tinyi_direct_exponent(most) + 125 : 0;
        b[0] = (unsigned char)e;
        d = tinyi_direct_power(b[0]);
        for (j = 0; j < 16; j++)
            b[1 + j] = (unsigned char)(tinyi_direct_nearest(v[j], d) | tinyi_direct_nearest(v[j + 16], d) << 4);
    }
}

static int tinyi_direct_to_e4m3(float x)    /* half up */
{
    const uint32_t u = tinyi_f32_bits(x);
    int e, m;
    if (!(x > 0.0f)) return 0;
    e = (int)(u >> 23) - 120;
    if (e <= 0) return tinyi_q_min((int)(x * 512.0f + 0.5f), 7);
    m = 8 * e + (int)((u >> 20 & 7) + (u >> 19 & 1));
    return m < 8 * 15 ? m : 0x7e;           /* the writer of the format uses nothing from 256 to 416 */
}
TINYI_FN void tinyi_unpack_NVFP4(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int s, j;
    for (; n >= 64; n -= 64, x += 64, b += 36)
        for (s = 0; s < 4; s++) {
            const float d = tinyi_q_e4m3(b[s]);
            for (j = 0; j < 8; j++) {
                x[16 * s + j] = (float)tinyi_direct_e2m1[b[4 + 8 * s + j] & 15] * d;
                x[16 * s + j + 8] = (float)tinyi_direct_e2m1[b[4 + 8 * s + j] >> 4] * d;
            }
        }
}
TINYI_FN void tinyi_pack_NVFP4(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    int s, j;
    (void)importance;
    for (; n >= 64; n -= 64, x += 64, b += 36)
        for (s = 0; s < 4; s++) {
            float v[16], d;
            b[s] = (unsigned char)tinyi_direct_to_e4m3(tinyi_direct_largest(x + 16 * s, v, 16) / 6.0f);
            d = tinyi_q_e4m3(b[s]);
            for (j = 0; j < 8; j++)
                b[4 + 8 * s + j] =
                    (unsigned char)(tinyi_direct_nearest(v[j], d) | tinyi_direct_nearest(v[j + 8], d) << 4);
        }
}

/* ---- one and two bits -------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_unpack_Q1_0(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int j;
    for (; n >= 128; n -= 128, x += 128, b += 18) {
        const float d = tinyi_q_half(b);
        for (j = 0; j < 128; j++) x[j] = b[2 + j / 8] >> j % 8 & 1 ? d : -d;
    }
}
TINYI_FN void tinyi_pack_Q1_0(const float *x, void *q, size_t n, const float *importance)      /* d: the mean of |x| */
{
    unsigned char *b = (unsigned char *)q;
    int j;
    (void)importance;
    for (; n >= 128; n -= 128, x += 128, b += 18) {
        float sum = 0.0f;
        memset(b, 0, 18);
        for (j = 0; j < 128; j++) {
            const float v = tinyi_q_in(x[j]);
            sum += tinyi_q_abs(v);
            if (v >= 0.0f) b[2 + j / 8] = (unsigned char)(b[2 + j / 8] | 1 << j % 8);
        }
        tinyi_q_put_half(b, sum / 128.0f);
    }
}
TINYI_FN void tinyi_unpack_Q2_0(const void *q, float *x, size_t n)
{
    const unsigned char *b = (const unsigned char *)q;
    int j;
    for (; n >= 64; n -= 64, x += 64, b += 18) {
        const float d = tinyi_q_half(b);
        for (j = 0; j < 64; j++) x[j] = (float)((b[2 + j / 4] >> j % 4 * 2 & 3) - 1) * d;
    }
}
TINYI_FN void tinyi_pack_Q2_0(const float *x, void *q, size_t n, const float *importance)
{
    unsigned char *b = (unsigned char *)q;
    float v[64];
    int j;
    (void)importance;
    for (; n >= 64; n -= 64, x += 64, b += 18) {
        const float d = tinyi_direct_largest(x, v, 64), inverse = d > 0.0f ? 1.0f / d : 0.0f;
        memset(b, 0, 18);
        tinyi_q_put_half(b, d);
        for (j = 0; j < 64; j++) {
            const float c = v[j] * inverse; /* infinite or not a number where the inverse is infinite */
            b[2 + j / 4] =
                (unsigned char)(b[2 + j / 4] | (tinyi_q_abs(c) < 2.0f ? tinyi_q_away(c) + 1 : 0) << j % 4 * 2);
        }
    }
}

TINY_REF_END
