/* src/llm/lab/kvcodec/arith.c - arithmetic coding with 32-bit bounds and 16-bit models
 * Paper    I. Witten, R. Neal, J. Cleary, "Arithmetic coding for data compression", CACM 30(6), 1987; as the KV codec
 *          of CacheGen (Y. Liu et al., 2024, arXiv 2310.07240) uses it: one static model a channel.
 * Formula  span = high - low + 1; high = low - 1 + floor(span c_hi / 2^16); low += floor(span c_lo / 2^16). Then, while
 *          possible: both below 2^31: output a 0; both above: output a 1; low in the second and high in the third
 *          quarter: the bit is not known yet, but the next one will be its opposite (pending). Decoder: count =
 *          floor(((value - low + 1) 2^16 - 1) / span) is in the slot of the symbol.
 * Fast     The shifts come in two runs: n1 equal leading bits of low and high, then n3 places where low has 1 and high
 *          0. Both double (range, value - low) in the same way, so the decoder keeps these two, counts zeros twice and
 *          shifts once. A table of the upper 8 bits of count gives the symbol; if slots end inside its piece, the next
 *          slots are searched. Eight streams are interleaved.
 * Cost     a symbol: one division 64/64 (decoder), three products, two counts of zeros; the plain form a loop over bits
 * Error    none: the same bits and symbols as the plain form */
#include "llm/lab/kvcodec/arith_inside.h"
#include <string.h>

#define TINYI_ARITH_HALF 0x80000000u
#define TINYI_ARITH_QUARTER 0x40000000u

TINYI_FN void tinyi_arith_table(uint16_t *cdf, const uint32_t *count, int n)
{
    uint64_t total = 0, sum = 0;
    int i;
    for (i = 0; i < n; i++) total += count[i];
    for (i = 0; i <= n; i++) {
        cdf[i] = (uint16_t)((uint64_t)(65535 - n) * (total ? sum : (uint64_t)i) / (total ? total : (uint64_t)n) +
                            (uint64_t)i);
        if (i < n) sum += count[i];
    }
}

TINYI_FN int tinyi_arith_valid(const uint16_t *cdf, int n)
{
    int i;
    if (n < 1 || n > TINYI_ARITH_SYMBOLS || cdf[0] != 0 || cdf[n] != 65535) return 0;
    for (i = 0; i < n; i++) if (cdf[i] >= cdf[i + 1]) return 0;
    return 1;
}

/* ---- plain ------------------------------------------------------------------------------------------------------ */

typedef struct tinyi_arith_bits { unsigned char *bytes; size_t room, n; } tinyi_arith_bits;     /* n: bits */
static void tinyi_arith_bit(tinyi_arith_bits *b, int bit)
{
    if (bit && b->n / 8 < b->room) b->bytes[b->n / 8] |= (unsigned char)(0x80 >> b->n % 8);
    b->n++;
}
static void tinyi_arith_emit(tinyi_arith_bits *b, int bit, size_t *pending)
{
    tinyi_arith_bit(b, bit);
    for (; *pending; --*pending) tinyi_arith_bit(b, !bit);
}

TINYI_INLINE uint32_t tinyi_arith_hi(const uint16_t *cdf, int n, int s) { return s + 1 == n ? 65536u : cdf[s + 1]; }

TINYI_FN size_t tinyi_arith_encode_ref(const uint16_t *const cdf[2], const int n_symbol[2], size_t period,
                                       const unsigned char *symbol, size_t step, size_t n, unsigned char *bytes,
                                       size_t room)
{
    uint32_t low = 0, high = 0xffffffffu;
    size_t pending = 0, i;
    tinyi_arith_bits b;
    b.bytes = bytes;
    b.room = room;
    b.n = 0;
    for (i = 0; i < n; i++) {
        const int m = i % period != 0, s = symbol[i * step];
        const uint64_t span = (uint64_t)high - low + 1;
        high = low - 1 + (uint32_t)(span * tinyi_arith_hi(cdf[m], n_symbol[m], s) >> 16);
        low = low + (uint32_t)(span * cdf[m][s] >> 16);
        for (;;) {
            if (high < TINYI_ARITH_HALF) tinyi_arith_emit(&b, 0, &pending);
            else if (low >= TINYI_ARITH_HALF) tinyi_arith_emit(&b, 1, &pending);
            else if (low >= TINYI_ARITH_QUARTER && high < 3 * TINYI_ARITH_QUARTER) {
                pending++;
                low = low << 1 & 0x7fffffffu;
                high = high << 1 | 0x80000001u;
                continue;
            } else break;
            low <<= 1;
            high = high << 1 | 1;
        }
    }
    pending++;
    tinyi_arith_emit(&b, low >= TINYI_ARITH_QUARTER, &pending);
    return (b.n + 7) / 8;
}

static uint32_t tinyi_arith_next(const unsigned char *bytes, size_t n_bytes, size_t *bit)
{
    const size_t i = (*bit)++;
    return i / 8 < n_bytes ? (uint32_t)bytes[i / 8] >> (7 - i % 8) & 1u : 0;
}

TINYI_FN void tinyi_arith_decode_ref(const uint16_t *const cdf[2], const int n_symbol[2], size_t period,
                                     unsigned char *symbol, size_t step, size_t n, const unsigned char *bytes,
                                     size_t n_bytes)
{
    uint32_t low = 0, high = 0xffffffffu, value = 0;
    size_t i, bit = 0;
    while (bit < 32) value = value << 1 | tinyi_arith_next(bytes, n_bytes, &bit);
    for (i = 0; i < n; i++) {
        const int m = i % period != 0;
        const uint64_t span = (uint64_t)high - low + 1, count = (((uint64_t)value - low + 1) * 65536 - 1) / span;
        int s = 0;
        while (tinyi_arith_hi(cdf[m], n_symbol[m], s) <= count) s++;
        symbol[i * step] = (unsigned char)s;
        high = low - 1 + (uint32_t)(span * tinyi_arith_hi(cdf[m], n_symbol[m], s) >> 16);
        low = low + (uint32_t)(span * cdf[m][s] >> 16);
        for (;;) {
            if (high < TINYI_ARITH_HALF || low >= TINYI_ARITH_HALF) {
                low <<= 1;
                high = high << 1 | 1;
                value <<= 1;
            } else if (low >= TINYI_ARITH_QUARTER && high < 3 * TINYI_ARITH_QUARTER) {
                low = low << 1 & 0x7fffffffu;
                high = high << 1 | 0x80000001u;
                value = (value - TINYI_ARITH_QUARTER) << 1;
            } else break;
            value |= tinyi_arith_next(bytes, n_bytes, &bit);
        }
    }
}

/* ---- fast ------------------------------------------------------------------------------------------------------- */

/* leading zeros of x, which is not 0 */
TINYI_FORCE_INLINE unsigned tinyi_arith_zeros(uint32_t x)
{
#if defined __GNUC__ || defined __clang__
    return (unsigned)__builtin_clz(x);
#else
    unsigned n = 0;
    if (!(x >> 16)) { n += 16; x <<= 16; }
    if (!(x >> 24)) { n += 8; x <<= 8; }
    if (!(x >> 28)) { n += 4; x <<= 4; }
    if (!(x >> 30)) { n += 2; x <<= 2; }
    return n + !(x >> 31);
#endif
}

/* n_held < 8 bits wait, at the lower end */
typedef struct tinyi_arith_out { unsigned char *at; uint64_t held; unsigned n_held; } tinyi_arith_out;
/* n <= 32 bits */
TINYI_FORCE_INLINE void tinyi_arith_put(tinyi_arith_out *o, uint32_t bits, unsigned n)
{
    o->held = o->held << n | bits;
    for (o->n_held += n; o->n_held >= 8; o->n_held -= 8) *o->at++ = (unsigned char)(o->held >> (o->n_held - 8));
}
static void tinyi_arith_put_pending(tinyi_arith_out *o, uint32_t bit, size_t *pending)
{
    tinyi_arith_put(o, bit, 1);
    for (; *pending >= 32; *pending -= 32) tinyi_arith_put(o, bit - 1u, 32);
    tinyi_arith_put(o, bit ? 0u : (uint32_t)(((uint64_t)1 << *pending) - 1), (unsigned)*pending);
    *pending = 0;
}

TINYI_FN size_t tinyi_arith_encode(const uint16_t *const cdf[2], size_t period, const unsigned char *symbol,
                                   size_t step, size_t n, unsigned char *bytes)
{
    uint32_t low = 0, high = 0xffffffffu;
    size_t pending = 0, i, turn = 0;
    tinyi_arith_out o;
    o.at = bytes;
    o.held = 0;
    o.n_held = 0;
    for (i = 0; i < n; i++) {
        const uint16_t *c = cdf[turn != 0] + symbol[i * step];
        const uint64_t span = (uint64_t)high - low + 1;
        const uint32_t top = c[1] == 65535 ? 65536u : c[1];         /* 65535 stands at the end of a table only */
        unsigned n1, n3;
        if (++turn == period) turn = 0;
        high = low - 1 + (uint32_t)(span * top >> 16);
        low = low + (uint32_t)(span * c[0] >> 16);
        /* below 19: a slot is at least 2^-16 of more than 2^30 */
        n1 = tinyi_arith_zeros(low ^ high);
        if (n1) {
            tinyi_arith_put_pending(&o, low >> 31, &pending);
            tinyi_arith_put(&o, (uint32_t)((uint64_t)(low << 1) >> (33 - n1)), n1 - 1);
            low <<= n1;
            high = ~(~high << n1);
        }
        n3 = tinyi_arith_zeros((~low | high) << 1);
        pending += n3;
        low = low << n3 & 0x7fffffffu;
        high = ~(~high << n3) | 0x80000000u;
    }
    pending++;
    tinyi_arith_put_pending(&o, low >= TINYI_ARITH_QUARTER, &pending);
    if (o.n_held) tinyi_arith_put(&o, 0, 8 - o.n_held);
    return (size_t)(o.at - bytes);
}

TINYI_FN void tinyi_arith_model_set(tinyi_arith_model *m, const uint16_t *cdf, int n)
{
    int s, j;
    for (s = 0; s < n; s++) m->slot[s] = cdf[s];
    m->slot[n] = 65536;
    for (s = 0, j = 0; j < 256; j++) {
        while (m->slot[s + 1] <= 256u * (unsigned)j) s++;
        m->first[j] = (unsigned char)s;
    }
}

/* the 57 or more bits of a stream from number bit on, at the upper end */
TINYI_FORCE_INLINE uint64_t tinyi_arith_window(const tinyi_arith_in *in)
{
    const size_t at = in->bit >> 3;
    uint64_t w = 0;
    if (at + 8 <= in->n_bytes) {
        const unsigned char *p = in->bytes + at;
        w = (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32 |
            (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | p[7];
    } else {
        size_t i;
        for (i = at; i < in->n_bytes; i++) w |= (uint64_t)in->bytes[i] << (56 - 8 * (i - at));
    }
    return w << (in->bit & 7);
}

TINYI_FORCE_INLINE unsigned char tinyi_arith_symbol(tinyi_arith_in *in, const tinyi_arith_model *m)
{
    const uint64_t span = (uint64_t)in->range + 1;
    const uint32_t count = (uint32_t)((((uint64_t)in->at + 1) * 65536 - 1) / span);     /* at <= range: below 65536 */
    uint32_t low, high, lo;
    unsigned s = m->first[count >> 8], n1, n;
    while (m->slot[s + 1] <= count) s++;
    lo = (uint32_t)(span * m->slot[s] >> 16);
    low = in->low + lo;
    high = in->low + (uint32_t)(span * m->slot[s + 1] >> 16) - 1;
    n1 = tinyi_arith_zeros(low ^ high);
    n = n1 + tinyi_arith_zeros((~(low << n1) | ~(~high << n1)) << 1);
    in->range = ~(~(high - low) << n);
    in->low = low << n & 0x7fffffffu;
    in->at = (in->at - lo) << n | (uint32_t)(tinyi_arith_window(in) >> 1 >> (63 - n));
    in->bit += n;
    return (unsigned char)s;
}

TINYI_FN void tinyi_arith_decode(tinyi_arith_in *in, int n_in, size_t period, unsigned char *symbol, size_t step,
                                 size_t n)
{
    size_t i, turn = 0;
    int j;
    for (j = 0; j < n_in; j++) {
        in[j].low = 0;
        in[j].range = 0xffffffffu;
        in[j].bit = 0;
        in[j].at = (uint32_t)(tinyi_arith_window(&in[j]) >> 32);
        in[j].bit = 32;
    }
    for (i = 0; i < n; i++, symbol += step) {
        const int m = turn != 0;
        if (++turn == period) turn = 0;
        if (n_in == TINYI_ARITH_LANES)
            for (j = 0; j < TINYI_ARITH_LANES; j++) symbol[j] = tinyi_arith_symbol(&in[j], in[j].model[m]);
        else for (j = 0; j < n_in; j++) symbol[j] = tinyi_arith_symbol(&in[j], in[j].model[m]);
    }
}
