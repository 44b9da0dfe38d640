/* src/math/bits_inside.h - bits that are set, and matrices of bits turned round
 *
 * For forms that keep numbers bit by bit: codes of a few bits become planes, one bit of every code side by side, and
 * back.
 * Words are numbers, not bytes: bit 0 is the lowest on every machine. */
#ifndef TINYI_BITS_H
#define TINYI_BITS_H
#include "core/config.h"
TINYI_C_BEGIN

/* the bits that are set: pairs, fours, bytes, then all bytes by one product */
TINYI_INLINE int tinyi_bits_count(uint64_t w)
{
#if (defined __GNUC__ || defined __clang__) && \
    (defined __POPCNT__ || defined __aarch64__) /* one instruction; elsewhere a call of a table */
    return __builtin_popcountll((unsigned long long)w);
#else
    w -= w >> 1 & UINT64_C(0x5555555555555555);
    w = (w & UINT64_C(0x3333333333333333)) + (w >> 2 & UINT64_C(0x3333333333333333));
    w = (w + (w >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (int)(w * UINT64_C(0x0101010101010101) >> 56);
#endif
}

/* A word as 8 rows of 8 bits, row i being bits 8 i .. 8 i + 7, turned round: bit 8 i + j becomes bit 8 j + i. So byte k
 * of the answer holds bit k of eight codes, code i at bit i. */
TINYI_INLINE uint64_t tinyi_bits_transpose8(uint64_t w)
{
    /* bits that differ from those they change places with */
    uint64_t t = (w ^ w >> 7) & UINT64_C(0x00aa00aa00aa00aa);
    w ^= t ^ t << 7;
    t = (w ^ w >> 14) & UINT64_C(0x0000cccc0000cccc);
    w ^= t ^ t << 14;
    t = (w ^ w >> 28) & UINT64_C(0x00000000f0f0f0f0);
    return w ^ t ^ t << 28;
}

/* The same of 64 rows of 64 bits, in place: bit j of word i becomes bit i of word j. */
TINYI_FN void tinyi_bits_transpose64(uint64_t w[64]);

TINYI_C_END
#endif
