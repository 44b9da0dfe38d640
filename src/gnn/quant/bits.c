/* src/gnn/quant/bits.c - numbers of a few bits, eight at a time
 * Method   Eight numbers of b bits are one word of 8 b bits. It is spread in three steps: into halves, quarters and
 *          single numbers. Each step moves the upper half of every field to the position where it begins after
 *          spreading. Packing does the same steps in reverse.
 * Cost     9 operations on a word for eight numbers, in plain C: no table, no branch. */
#include <string.h>
#include "gnn/quant/bits.h"
#include "core/target.h"

TINY_API size_t tgnn_bits_bytes(size_t n, int bits)
{
    const size_t whole = n / 8, rest = n % 8;
    if (bits < 0 || bits > 8 || (bits && whole > (SIZE_MAX - 8) / (size_t)bits)) return SIZE_MAX;
    return whole * (size_t)bits + (rest * (size_t)bits + 7) / 8;
}

/* masks of the lower parts of the fields at each step: 4 b bits of 64, 2 b of 32 twice, b of 16 four times; and b of
 * 8 */
typedef struct tinyi_bits_way { uint64_t four, two, one, each; int b; } tinyi_bits_way;

TINYI_FORCE_INLINE tinyi_bits_way tinyi_bits_plan(int b)
{
    tinyi_bits_way w;
    w.b = b;
    w.four = (UINT64_C(1) << 4 * b) - 1;
    w.two = ((UINT64_C(1) << 2 * b) - 1) * UINT64_C(0x0000000100000001);
    w.one = ((UINT64_C(1) << b) - 1) * UINT64_C(0x0001000100010001);
    w.each = ((UINT64_C(1) << b) - 1) * UINT64_C(0x0101010101010101);
    return w;
}

TINYI_FORCE_INLINE uint64_t tinyi_bits_spread(const tinyi_bits_way *w, uint64_t x)
{
    x = (x & w->four) | (x & w->four << 4 * w->b) << (32 - 4 * w->b);
    x = (x & w->two) | (x & w->two << 2 * w->b) << (16 - 2 * w->b);
    return (x & w->one) | (x & w->one << w->b) << (8 - w->b);
}

TINYI_FORCE_INLINE uint64_t tinyi_bits_gather(const tinyi_bits_way *w, uint64_t x)
{
    x &= w->each;
    x = (x & w->one) | (x >> (8 - w->b) & w->one << w->b);
    x = (x & w->two) | (x >> (16 - 2 * w->b) & w->two << 2 * w->b);
    return (x & w->four) | (x >> (32 - 4 * w->b) & w->four << 4 * w->b);
}

/* n bytes, the lowest first */
TINYI_FORCE_INLINE uint64_t tinyi_bits_get(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
    size_t i;
    TINYI_UNROLL
    for (i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

TINYI_FORCE_INLINE void tinyi_bits_put(unsigned char *p, uint64_t v, size_t n)
{
    size_t i;
    TINYI_UNROLL
    for (i = 0; i < n; i++) p[i] = (unsigned char)(v >> 8 * i);
}

/* whole eights with a width that the compiler knows */
TINYI_FORCE_INLINE void tinyi_bits_pack_eights(unsigned char *to, const uint8_t *code, size_t n, int bits)
{
    const tinyi_bits_way w = tinyi_bits_plan(bits);
    for (; n >= 8; n -= 8, code += 8, to += bits)
        tinyi_bits_put(to, tinyi_bits_gather(&w, tinyi_bits_get(code, 8)), (size_t)bits);
}

TINYI_FORCE_INLINE void tinyi_bits_unpack_eights(uint8_t *code, const unsigned char *from, size_t n, int bits)
{
    const tinyi_bits_way w = tinyi_bits_plan(bits);
    for (; n >= 8; n -= 8, code += 8, from += bits)
        tinyi_bits_put(code, tinyi_bits_spread(&w, tinyi_bits_get(from, (size_t)bits)), 8);
}

#define TINYI_BITS_WIDTHS(W) W(1) W(2) W(3) W(4) W(5) W(6) W(7)

TINY_API void tgnn_bits_pack(unsigned char *to, const uint8_t *code, size_t n, int bits)
{
    tinyi_bits_way w;
    if (bits < 1 || bits > 8 || !to || !code) return;
    if (bits == 8) {
        if (n) memcpy(to, code, n);
        return;
    }
    switch (bits) {
#define TINYI_BITS_CASE(b) case b: tinyi_bits_pack_eights(to, code, n, b); break;
    TINYI_BITS_WIDTHS(TINYI_BITS_CASE)
#undef TINYI_BITS_CASE
    default: break;
    }
    w = tinyi_bits_plan(bits);
    if (n % 8)
        tinyi_bits_put(to + n / 8 * (size_t)bits, tinyi_bits_gather(&w, tinyi_bits_get(code + n / 8 * 8, n % 8)),
                       tgnn_bits_bytes(n % 8, bits));
}

TINY_API void tgnn_bits_unpack(uint8_t *code, const unsigned char *from, size_t n, int bits)
{
    tinyi_bits_way w;
    if (!code) return;
    if (bits < 1 || bits > 8 || !from) {
        if (n) memset(code, 0, n);
        return;
    }
    if (bits == 8) {
        if (n) memcpy(code, from, n);
        return;
    }
    switch (bits) {
#define TINYI_BITS_CASE(b) case b: tinyi_bits_unpack_eights(code, from, n, b); break;
    TINYI_BITS_WIDTHS(TINYI_BITS_CASE)
#undef TINYI_BITS_CASE
    default: break;
    }
    w = tinyi_bits_plan(bits);
    if (n % 8)
        tinyi_bits_put(code + n / 8 * 8,
                       tinyi_bits_spread(&w, tinyi_bits_get(from + n / 8 * (size_t)bits, tgnn_bits_bytes(n % 8, bits))),
                       n % 8);
}
