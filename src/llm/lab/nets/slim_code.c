/* src/llm/lab/nets/slim_code.c - the frames of slim.h, and the controller of its width
 * Formula  code round(z / step), clamped, step = a / (2^(b-1) - 1). The rounding is the nearest, ties to even, and the
 *          product with 1 / step is that of the training: both give the same code.
 * Cost     of the controller: at most K times a few divisions.
 * Other    the bandwidth that the controller counts on is the mean minus one deviation, but not below the smallest of
 *          the last three transfers: when a link becomes ten times as fast, the deviation exceeds the mean. */
#include "llm/lab/nets/slim_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include "core/bytes.h"
#include "core/hash_inside.h"
#include <float.h>
#include <string.h>

/* ---- codes and frames
 *  0 version  1 bits, 128 added if coded  2 first member  3 members  4 channels of a member  5 height  6 width  7 zero
 *  8 checksum of scales and counts (u32)  12 bytes of the codes (u32)  16 CRC-32 of bytes 0 to 15 and the codes (u32)
 * then for each member its codes q + 2^(b-1) - 1, packed from the lowest bit, to a whole byte; coded: the length (u16)
 * and the bits of its stream. */

/* rint without a mode of rounding: |x| is below 2^22 */
static float tinyi_slim_rint(float x) { return (x + 12582912.0f) - 12582912.0f; }

TINYI_FN int tinyi_slim_code(float z, float inverse, int half)
{
    float u = z * inverse;
    if (u > (float)half) u = (float)half;
    if (u < (float)-half) u = (float)-half;
    return (int)tinyi_slim_rint(u) + half;
}

TINY_API size_t tllm_slim_frame_most(const tllm_slim *s, int count)
{
    if (!s || count < 1 || count > s->is.members) return 0;
    return TLLM_SLIM_HEAD + (size_t)count * (2 + tinyi_arith_most((size_t)s->each));
}

static void tinyi_slim_put_bits(unsigned char *to, size_t at, int bits, unsigned code)
{
    const size_t i = at / 8, shift = at % 8;
    to[i] = (unsigned char)(to[i] | code << shift);
    if (shift + (size_t)bits > 8) to[i + 1] = (unsigned char)(code >> (8 - shift));
}
static unsigned tinyi_slim_get_bits(const unsigned char *from, size_t at, int bits)
{
    const size_t i = at / 8, shift = at % 8;
    unsigned v = (unsigned)from[i] >> shift;
    if (shift + (size_t)bits > 8) v |= (unsigned)from[i + 1] << (8 - shift);
    return v & ((1u << bits) - 1);
}

TINY_API tiny_status tllm_slim_pack(const tllm_slim *s, const float *z, int first, int count,
                                    const tllm_slim_pack_desc *desc, void *frame, size_t room, size_t *n)
{
    unsigned char *to = (unsigned char *)frame;
    const int bits = desc && desc->bits ? desc->bits : s ? s->is.bits : 0, coded = desc && desc->coded;
    const int half = bits >= 2 && bits <= 8 ? tinyi_slim_half(bits) : 0;
    size_t at = TLLM_SLIM_HEAD, each, k, bytes;
    int i;
    tiny_status st;
    if (n) *n = 0;
    if (!s) return TINY_E_ARGUMENT;
    if (!z || !frame || !n) return tinyi_slim_bad(s, "numbers, room for a frame and a result pointer are needed");
    st = tinyi_slim_range(s, first, count);
    if (st) return st;
    if (!half) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "slim: codes of %d bits; 2 to 8 are allowed", bits);
    if (coded && bits != s->is.bits)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "slim: the coder has counts for codes of %d bits, not %d",
                          s->is.bits, bits);
    each = (size_t)s->each;
    bytes = (each * (size_t)bits + 7) / 8;
    for (k = 0; k < (size_t)count * each; k++)
        if (!(z[k] >= -FLT_MAX && z[k] <= FLT_MAX))
            return tinyi_fail(s->ctx, TINY_E_NUMERIC, "slim: number %zu of member %d is not finite", k % each,
                              first + (int)(k / each));
    for (i = 0; i < count; i++) {
        const float inverse = 1.0f / tllm_slim_step(s, first + i, bits), *from = z + (size_t)i * each;
        size_t put = bytes;
        if (coded) {
            const uint16_t *cdf[2];
            cdf[0] = cdf[1] = s->cdf[first + i];
            for (k = 0; k < each; k++) s->symbol[k] = (unsigned char)tinyi_slim_code(from[k], inverse, half);
            put = 2 + tinyi_arith_encode(cdf, 1, s->symbol, 1, each, s->stream);
        }
        if (put > room || at > room - put)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "slim: the frame needs more than the %zu bytes given", room);
        if (coded) {
            if (put - 2 > 65535) return tinyi_slim_bad(s, "the stream of a member has more than 65535 bytes");
            to[at] = (unsigned char)((put - 2) & 255);
            to[at + 1] = (unsigned char)((put - 2) >> 8);
            memcpy(to + at + 2, s->stream, put - 2);
        } else {
            memset(to + at, 0, put);
            for (k = 0; k < each; k++)
                tinyi_slim_put_bits(to + at, k * (size_t)bits, bits, (unsigned)tinyi_slim_code(from[k], inverse, half));
        }
        at += put;
    }
    to[0] = TINYI_SLIM_VERSION;
    to[1] = (unsigned char)(bits | (coded ? 128 : 0));
    to[2] = (unsigned char)first;
    to[3] = (unsigned char)count;
    to[4] = (unsigned char)s->is.send;
    to[5] = (unsigned char)s->side[1][0];
    to[6] = (unsigned char)s->side[1][1];
    to[7] = 0;
    tinyi_put_le32(to + 8, s->id);
    tinyi_put_le32(to + 12, (uint32_t)(at - TLLM_SLIM_HEAD));
    tinyi_put_le32(to + 16, tinyi_crc32(tinyi_crc32(0, to, 16), to + TLLM_SLIM_HEAD, at - TLLM_SLIM_HEAD));
    *n = at;
    return TINY_OK;
}

static tiny_status tinyi_slim_damaged(const tllm_slim *s, const char *why)
{
    return tinyi_fail(s->ctx, TINY_E_FORMAT, "slim: frame: %s", why);
}

TINY_API tiny_status tllm_slim_unpack(const tllm_slim *s, const void *frame, size_t n, int *have, float *z)
{
    const unsigned char *from = (const unsigned char *)frame;
    size_t each, bytes, at, k;
    int bits, coded, first, count, i;
    if (!s) return TINY_E_ARGUMENT;
    if (!frame || !have || !z) return tinyi_slim_bad(s, "a frame, the members so far and room for numbers are needed");
    if (n < TLLM_SLIM_HEAD) return tinyi_slim_damaged(s, "shorter than its header");
    if (from[0] != TINYI_SLIM_VERSION || from[7]) return tinyi_slim_damaged(s, "of another version");
    if (tinyi_le32(from + 12) != n - TLLM_SLIM_HEAD)
        return tinyi_slim_damaged(s, "its length is not that of its header: cut, or too long");
    if (tinyi_le32(from + 16) != tinyi_crc32(tinyi_crc32(0, from, 16), from + TLLM_SLIM_HEAD, n - TLLM_SLIM_HEAD))
        return tinyi_slim_damaged(s, "its checksum is wrong");
    if (from[4] != s->is.send || from[5] != s->side[1][0] || from[6] != s->side[1][1])
        return tinyi_fail(s->ctx, TINY_E_SHAPE, "slim: frame: members of %d x %d x %d; the tail takes %td x %td x %td",
                          from[4], from[5], from[6], s->is.send, s->side[1][0], s->side[1][1]);
    if (tinyi_le32(from + 8) != s->id) return tinyi_slim_damaged(s, "made with other scales: both ends need one file");
    bits = from[1] & 127;
    coded = from[1] >> 7;
    first = from[2];
    count = from[3];
    if (bits < 2 || bits > 8 || (coded && bits != s->is.bits)) return tinyi_slim_damaged(s, "codes of invalid bits");
    if (count < 1 || first > s->is.members - count || (first && s->is.prefix))
        return tinyi_slim_damaged(s, "members that do not exist");
    if (first && first != *have) return tinyi_slim_damaged(s, "the members before its own have not arrived");
    each = (size_t)s->each;
    bytes = (each * (size_t)bits + 7) / 8;
    from += TLLM_SLIM_HEAD;
    n -= TLLM_SLIM_HEAD;
    if (!coded && n != bytes * (size_t)count) return tinyi_slim_damaged(s, "too few or too many codes");
    for (i = 0, at = 0; i < count; i++) {   /* everything is checked before z changes */
        if (coded) {
            if (n - at < 2 || n - at - 2 < (size_t)(from[at] | from[at + 1] << 8))
                return tinyi_slim_damaged(s, "a stream ends beyond it");
            at += 2 + (size_t)(from[at] | from[at + 1] << 8);
            if (i + 1 == count && at != n) return tinyi_slim_damaged(s, "too few or too many codes");
            continue;
        }
        for (k = 0; k < each; k++)
            if (tinyi_slim_get_bits(from + at, k * (size_t)bits, bits) == (1u << bits) - 1)
                return tinyi_slim_damaged(s, "a code that no number has");
        at += bytes;
    }
    for (i = 0, at = 0; i < count; i++) {
        const float step = tllm_slim_step(s, first + i, bits);
        float *to = z + (size_t)(first + i) * each;
        const int half = tinyi_slim_half(bits);
        if (coded) {
            tinyi_arith_in in;
            memset(&in, 0, sizeof in);
            in.n_bytes = (size_t)(from[at] | from[at + 1] << 8);
            in.bytes = from + at + 2;
            in.model[0] = in.model[1] = &s->model[first + i];
            tinyi_arith_decode(&in, 1, 1, s->symbol, 1, each);
            for (k = 0; k < each; k++) to[k] = (float)(s->symbol[k] - half) * step;
            at += 2 + in.n_bytes;
            continue;
        }
        for (k = 0; k < each; k++)
            to[k] = (float)((int)tinyi_slim_get_bits(from + at, k * (size_t)bits, bits) - half) * step;
        at += bytes;
    }
    *have = first + count;
    return TINY_OK;
}

TINY_API double tllm_slim_entropy(const tllm_slim *s, int member)
{
    double all = 0.0, sum = 0.0;
    int q;
    if (!s || member < 0 || member >= s->is.members) return 0.0;
    for (q = 0; q < s->levels; q++) all += (double)s->count[member * s->levels + q];
    for (q = 0; q < s->levels; q++) {
        const double p = (double)s->count[member * s->levels + q] / all;
        if (p > 0.0) sum -= p * tinyi_log64(p) * 1.4426950408889634;
    }
    return sum;
}


/* ---- the controller */

static double tinyi_slim_ewma(double old, double x, double share) { return old > 0.0 ? old + share * (x - old) : x; }

/* Of a width that was not measured: from the nearest that was, in proportion for the encoder. */
static double tinyi_slim_known(const double *x, int members, int m, int linear)
{
    int d, i;
    for (d = 0; d < members; d++)
        for (i = m - d; i <= m + d; i += d ? 2 * d : 1)
            if (i >= 1 && i <= members && x[i - 1] > 0.0) return linear ? x[i - 1] * (double)m / (double)i : x[i - 1];
    return 0.0;
}

TINY_API double tllm_slim_control_time(const tllm_slim_control *c, int m)
{
    double w, low;
    int i;
    if (!c || m < 1 || m > c->members || c->members > TLLM_SLIM_MEMBERS || !(c->bandwidth > 0.0)) return 0.0;
    w = c->bandwidth - tinyi_sqrt64(c->variance > 0.0 ? c->variance : 0.0);
    for (low = c->last[0], i = 1; i < c->n_last; i++) low = TINYI_MIN(low, c->last[i]);
    w = TINYI_MAX(w, low);
    return tinyi_slim_known(c->encode, c->members, m, 1) + (double)c->bytes[m - 1] / w + 0.5 * c->rtt +
           tinyi_slim_known(c->decode, c->members, m, 0);
}

static int tinyi_slim_fits(const tllm_slim_control *c, double limit)
{
    int m = c->members;
    while (m && !(tllm_slim_control_time(c, m) <= limit)) m--;
    return m;
}

static int tinyi_slim_is_time(double x) { return x >= 0.0 && x < 1e9; }

static int tinyi_slim_take_in(tllm_slim_control *c, const tllm_slim_seen *seen)
{
    if (seen->m < 0 || seen->m > c->members || !tinyi_slim_is_time(seen->encode) ||
        !tinyi_slim_is_time(seen->transfer) || !tinyi_slim_is_time(seen->decode) || !tinyi_slim_is_time(seen->rtt))
        return 0;
    if (!seen->m) return 1;
    if (seen->encode > 0.0) c->encode[seen->m - 1] = tinyi_slim_ewma(c->encode[seen->m - 1], seen->encode, 0.2);
    if (seen->decode > 0.0) c->decode[seen->m - 1] = tinyi_slim_ewma(c->decode[seen->m - 1], seen->decode, 0.2);
    if (seen->rtt > 0.0) c->rtt = tinyi_slim_ewma(c->rtt, seen->rtt, 0.2);
    if (seen->transfer > 0.0) {
        const double x = (double)seen->bytes / seen->transfer, d = x - c->bandwidth;
        if (!seen->bytes) return 0;
        if (!c->m || !(c->bandwidth > 0.0)) {   /* after a pause old transfers say nothing */
            c->bandwidth = x;
            c->variance = 0.0;
            c->n_last = 0;
        } else {
            c->bandwidth += 0.3 * d;
            c->variance = 0.7 * (c->variance + 0.3 * d * d);
        }
        c->last[2] = c->last[1];
        c->last[1] = c->last[0];
        c->last[0] = x;
        if (c->n_last < 3) c->n_last++;
    }
    return 1;
}

TINY_API int tllm_slim_control_next(tllm_slim_control *c, const tllm_slim_seen *seen)
{
    const double margin = c && c->margin != 0.0 ? c->margin : 0.9;
    int i, now, up;
    if (!c || c->members < 1 || c->members > TLLM_SLIM_MEMBERS || !(c->deadline > 0.0 && c->deadline < 1e9) ||
        !(margin > 0.0 && margin <= 1.0) || c->good < 0 || c->probe < 0)
        return -1;
    for (i = 0; i < c->members; i++) if (!c->bytes[i]) return -1;
    if (!seen) return c->m = 1;
    if (!tinyi_slim_take_in(c, seen)) return -1;
    if (!(c->bandwidth > 0.0)) return c->m = 1;         /* nothing was answered so far */
    now = tinyi_slim_fits(c, c->deadline);
    up = tinyi_slim_fits(c, margin * c->deadline);
    if (now < c->m) {
        c->m = now;
        c->n_good = c->idle = 0;
    } else if (!c->m) {
        if (seen->m && up) {                /* the trial of a pause */
            c->m = 1;
            c->idle = 0;
        } else if (++c->idle >= (c->probe ? c->probe : 8)) {
            c->idle = 0;
            return 1;
        }
    } else if (up > c->m) {
        if (++c->n_good >= (c->good ? c->good : 3)) {
            c->m = up;
            c->n_good = 0;
        }
    } else c->n_good = 0;
    return c->m;
}
