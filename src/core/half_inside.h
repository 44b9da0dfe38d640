/* src/core/half_inside.h - 16-bit floats, one value at a time
 *
 * Formula  f16: 1 sign, 5 exponent (bias 15), 10 fraction bits; bf16: the upper half of a float. To 16 bits rounds to
 *          nearest, ties to even; subnormals are kept; what rounds past the largest value becomes infinite; NaN stays
 *          NaN, becomes quiet, and keeps the upper bits of its payload. Integer work only: the same bits everywhere. */
#ifndef TINYI_HALF_H
#define TINYI_HALF_H
#include <string.h>
#include "core/config.h"
TINYI_C_BEGIN

/* inline by force: 32-bit x86 returns floats by way of the x87, which makes a signalling NaN quiet */
TINYI_FORCE_INLINE uint32_t tinyi_f32_bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
TINYI_FORCE_INLINE float tinyi_bits_f32(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

TINYI_FORCE_INLINE float tinyi_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = h & 0x7fffu;
    int up = 0;
    if (a >= 0x7c00u)
        return tinyi_bits_f32(sign | 0x7f800000u | (a & 0x3ffu) << 13 | (a > 0x7c00u ? 0x400000u : 0u));
    if (a >= 0x400u) return tinyi_bits_f32(sign | ((a << 13) + 0x38000000u));
    if (a == 0) return tinyi_bits_f32(sign);
    while (!(a & 0x400u)) { a <<= 1; up++; }    /* 0.frac * 2^-14 = 1.frac * 2^(-14 - up) */
    return tinyi_bits_f32(sign | (uint32_t)(113 - up) << 23 | (a & 0x3ffu) << 13);
}

TINYI_INLINE uint16_t tinyi_f32_to_f16(float x)
{
    uint32_t u = tinyi_f32_bits(x), a = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
    uint32_t m, down, half, r;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x1ffu));
    if (a >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    if (a >= 0x38800000u) return (uint16_t)(sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);
    if (a <= 0x33000000u) return (uint16_t)sign;            /* up to 2^-25, half of the smallest: even is 0 */
    m = (a & 0x7fffffu) | 0x800000u;
    down = 126u - (a >> 23);                                /* unit 2^-24: 14..24 bits fall off */
    half = (uint32_t)1 << (down - 1);
    r = (m + half - 1 + (m >> down & 1u)) >> down;
    return (uint16_t)(sign | r);
}

TINYI_FORCE_INLINE float tinyi_bf16_to_f32(uint16_t h) { return tinyi_bits_f32((uint32_t)h << 16); }

TINYI_INLINE uint16_t tinyi_f32_to_bf16(float x)
{
    uint32_t u = tinyi_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

TINYI_C_END
#endif
