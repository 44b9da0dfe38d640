/* src/llm/block/blocks_inside.h - shared by the packers of all formats: bytes, rounding, clamping of special values */
#ifndef TINYI_BLOCKS_H
#define TINYI_BLOCKS_H
#include "core/bytes.h"
#include "core/half_inside.h"
#include "llm/block/format.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

TINY_REF_BEGIN
TINYI_INLINE uint16_t tinyi_q_u16(const unsigned char *p) { return tinyi_le16(p); }
TINYI_INLINE uint32_t tinyi_q_u32(const unsigned char *p) { return tinyi_le32(p); }
TINYI_INLINE float tinyi_q_half(const unsigned char *p) { return tinyi_f16_to_f32(tinyi_q_u16(p)); }
/* Half of an E4M3 number without sign, since the codes under it are doubled; 0x7f is not a number there and 0 here. */
TINYI_INLINE float tinyi_q_e4m3(int s)
{
    const int e = s >> 3 & 15, m = s & 7;
    if (s == 0x7f) return 0.0f;
    return e ? tinyi_bits_f32((uint32_t)(e - 8 + 127) << 23 | (uint32_t)m << 20) : (float)m * (1.0f / 1024.0f);
}

/* A scale as half, at most the largest finite one: an infinite scale would make 0 * inf of every zero code. */
TINYI_INLINE uint16_t tinyi_q_to_half(float d)
{
    uint16_t h = tinyi_f32_to_f16(d);
    return (h & 0x7fffu) >= 0x7c00u ? (uint16_t)((h & 0x8000u) | 0x7bffu) : h;
}
TINYI_INLINE void tinyi_q_put_half(unsigned char *p, float d) { tinyi_put_le16(p, tinyi_q_to_half(d)); }

/* An input of a format whose scale is a half: no product of such a scale reaches 2^40, and squares of 2^40 are still
 * floats. */
TINYI_INLINE float tinyi_q_in(float x)
{
    return x != x ? 0.0f : x > 1099511627776.0f ? 1099511627776.0f : x < -1099511627776.0f ? -1099511627776.0f : x;
}

/* To the nearest integer, half away from zero, as the writers of the formats do; what no int32 can hold becomes 0. */
TINYI_INLINE int tinyi_q_away(float v)
{
    float a = v < 0.0f ? -v : v;
    int i;
    if (!(a < 2147483648.0f)) return 0;
    i = (int)a;
    if (a - (float)i >= 0.5f) i++;          /* exact: the difference of a float and its integer part */
    return v < 0.0f ? -i : i;
}
/* Rounds towards zero; a value outside int32 becomes 0. */
TINYI_INLINE int tinyi_q_cut(float v) { return v > -2147483648.0f && v < 2147483648.0f ? (int)v : 0; }
TINYI_INLINE float tinyi_q_abs(float x) { return x < 0.0f ? -x : x; }
TINYI_INLINE int tinyi_q_min(int a, int b) { return a < b ? a : b; }
TINYI_INLINE int tinyi_q_clamp(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
TINYI_INLINE float tinyi_q_nearest(float v) { return (v + 12582912.0f) - 12582912.0f; }    /* |v| < 2^22 */
TINY_REF_END

/* Shared by both families with a search (kformats.c). */
/* Copies n values to y with special values clamped, and their weights to w: importance scaled to a maximum of 1, or
 * ones. Returns 0, and does not set y and w, if the values are so small that every code gives 0. */
TINYI_FN int tinyi_q_weigh(const float *x, const float *importance, int n, float *y, float *w);
/* Finds a half D for n groups with wanted scales s. The error of group g is c[g] (s[g] - D m)^2 with an integer m from
 * lo to hi (odd: m = 2 k + 1 for k from lo to hi). Writes the best few to out, best first, and returns their number. */
#define TINYI_Q_KEEP 6
TINYI_FN int tinyi_q_scales(const float *s, const float *c, int n, int lo, int hi, int odd, float *out);

/* Fit 32 values as D (code - 2^(bits - 1)), or as d code + m, with the least weighted error found. */
TINYI_FN float tinyi_q_search_even(const float *x, const float *importance, int bits, unsigned char *code);
TINYI_FN void tinyi_q_search_line(const float *x, const float *importance, int bits, float *d, float *m,
                                  unsigned char *code);

/* Codes into a block whose scales are there already: 32 or 256 of them, those of Q3_K and Q6_K with their sign; and
 * what a scale is there. */
/* Q4_0, Q5_0; shifted: Q4_1, Q5_1 */
TINYI_FN void tinyi_q_put45(unsigned char *b, const unsigned char *code, int bits, int shifted);
TINYI_FN void tinyi_q_put45_K(unsigned char *b, const unsigned char *code, int bits);
TINYI_FN void tinyi_q_put_Q2_K(unsigned char *b, const unsigned char *code);
TINYI_FN void tinyi_q_put_Q3_K(unsigned char *b, const signed char *code);
TINYI_FN void tinyi_q_put_Q6_K(unsigned char *b, const signed char *code);
TINYI_FN int tinyi_q_scale_Q3_K(const unsigned char *b, int g);
/* of Q4_K and Q5_K: scale and minimum of group g */
TINYI_FN void tinyi_q_scale6(const unsigned char *s, int g, int *k, int *m);

/* 16 bytes of two codes each, low halves first, to signed codes: eight at once */
TINYI_INLINE void tinyi_q_codes_Q4_0(int8_t *code, const unsigned char *q)
{
    const uint64_t fours = UINT64_C(0x0f0f0f0f0f0f0f0f), top = UINT64_C(0x8080808080808080);
    uint64_t w, low, high;
    int i;
    for (i = 0; i < 16; i += 8) {
        memcpy(&w, q + i, 8);
        low = (((w & fours) | top) - fours / 15 * 8) ^ top;         /* minus 8 in each byte */
        high = (((w >> 4 & fours) | top) - fours / 15 * 8) ^ top;
        memcpy(code + i, &low, 8);
        memcpy(code + 16 + i, &high, 8);
    }
}
/* n numbers of whole blocks as floats; those of Q8_0 and Q4_0 by the kernel of the target */
TINYI_INLINE void tinyi_q_floats(tiny_team *team, const tllm_format *f, float *to, const unsigned char *from, size_t n)
{
    const tinyi_fn_dequantize_i8 unpack = TINYI_K(team, dequantize_i8);
    int8_t code[256];
    size_t i, m;
    if (f->id == TLLM_FORMAT_Q8_0)
        for (; n >= 32; n -= 32, to += 32, from += 34) unpack(to, (const int8_t *)from + 2, 32, tinyi_q_half(from));
    else if (f->id == TLLM_FORMAT_Q4_0)
        for (; n >= 32; n -= m, to += m, from += 18 * (m / 32)) {       /* codes are read long after they are written */
            m = TINYI_MIN(n / 32, 8) * 32;
            for (i = 0; i < m; i += 32) tinyi_q_codes_Q4_0(code + i, from + 18 * (i / 32) + 2);
            for (i = 0; i < m; i += 32) unpack(to + i, code + i, 32, tinyi_q_half(from + 18 * (i / 32)));
        }
    else f->unpack(from, to, n);
}

/* Declares the two functions of a format. */
#define TINYI_Q_UNPACK(name) TINYI_FN void tinyi_unpack_##name(const void *q, float *x, size_t n);
#define TINYI_Q_PACK(name) TINYI_FN void tinyi_pack_##name(const float *x, void *q, size_t n, const float *importance);
#define TINYI_Q_DECLARE(name) TINYI_Q_UNPACK(name) TINYI_Q_PACK(name)

TINYI_C_END
#endif
