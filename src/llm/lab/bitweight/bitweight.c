/* src/llm/lab/bitweight/bitweight.c - digits of int8 numbers, digit statistics of weights, and loop nests of bit-serial
 * multiplier arrays
 * Paper    Q. Wu et al., "Exploring the Performance Improvement of Tensor Processing Engines through Transformation in
 *          the Bit-weight Dimension of MACs", HPCA 2025 (arXiv 2503.06342), and the authors' synthesis tables; EN-T: Q.
 *          Wu et al., 2024 (arXiv 2404.11887).
 * Formula  Booth: d_i = b_2i + b_(2i-1) - 2 b_(2i+1), b_-1 = 0. EN-T: m = |v|, t = bits 2i+1 and 2i of m plus carry;
 *          for i < 3 from t = 3 on d_i = t - 4 with carry 1, else d_i = t; d_3 = t; all negated for v < 0. S1: s =
 *          max|w| / 127, q = round(w / s), ties to even.
 * Fast     statistics read the bytes once: eight sets of 256 counters, because two increments of one counter in a row
 *          depend on each other. All threads make codes by the target's quantize_i8, row by row in the first-level
 *          cache.
 * Cost     count: n bytes read. Each call makes its table of digits (256 encodings); nothing is kept between calls.
 * Choices  The paper leaves the split of names open. Here OPT3 has an encoder in each PE, OPT4 (OPT4C) one for all PEs
 *          of a column, and GROUP (OPT4E) has lanes of k that share the registers of a PE; its lanes run independently
 *          and meet at the end of a tile. Adders of one weight's narrow sum are counted separately (OPT2 has four of
 *          them for each wide one).
 * Left out tiles of a memory hierarchy (one loop in time and one parallel for each of m, n, k), and the floating-point
 *          forms. */
#include "llm/lab/bitweight/bitweight_inside.h"
#include "core/thread.h"
#include "math/table_inside.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- digits */

TINY_API const char *tllm_bw_encoder_name(int encoder)
{
    static const char *const name[TLLM_BW_ENCODERS] = { "Booth", "EN-T", "bits" };
    return encoder >= 0 && encoder < TLLM_BW_ENCODERS ? name[encoder] : NULL;
}

TINY_REF_BEGIN
static void tinyi_bw_booth(int value, int8_t digit[TLLM_BW_DIGITS])
{
    const unsigned b = ((unsigned)value & 0xffu) << 1;     /* bit j + 1 is bit j of the value; bit 0 is b_-1 */
    int i;
    for (i = 0; i < TLLM_BW_DIGITS; i++)
        digit[i] = (int8_t)((int)(b >> (2 * i + 1) & 1u) + (int)(b >> 2 * i & 1u) - 2 * (int)(b >> (2 * i + 2) & 1u));
}

static void tinyi_bw_ent(int value, int8_t digit[TLLM_BW_DIGITS])
{
    const int sign = value < 0 ? -1 : 1, m = sign * value;
    int i, t, carry = 0;
    for (i = 0; i < TLLM_BW_DIGITS; i++) {
        t = (m >> 2 * i & 3) + carry;
        carry = i < TLLM_BW_DIGITS - 1 && t >= 3;
        digit[i] = (int8_t)(sign * (carry ? t - 4 : t));
    }
}

TINY_API void tllm_bw_compress(const uint32_t in[3], int width, uint32_t out[2])
{
    const uint32_t mask = width < 32 ? ((uint32_t)1 << width) - 1 : 0xffffffffu, x = in ? in[0] : 0, y = in ? in[1] : 0,
                   z = in ? in[2] : 0;
    if (!out) return;
    out[0] = (x ^ y ^ z) & mask;
    out[1] = ((x & y) | (x & z) | (y & z)) << 1 & mask;
}
TINY_REF_END

TINY_API void tllm_bw_encode(int encoder, int8_t value, int8_t digit[TLLM_BW_DIGITS])
{
    if (!digit) return;
    if (encoder == TLLM_BW_ENT) tinyi_bw_ent(value, digit);
    else tinyi_bw_booth(value, digit);
}

TINY_API int tllm_bw_select(int digit)
{
    return digit == -2 ? 4 | 0 : digit == 1 ? 4 | 1 : digit == 2 ? 4 | 2 : digit == -1 ? 4 | 3 : 0;
}

TINYI_FN void tinyi_bw_table_fill(tinyi_bw_table *t, int encoder)
{
    int v, i;
    for (v = -128; v < 128; v++) {
        int8_t digit[TLLM_BW_DIGITS];
        unsigned code = 0, n = 0;
        tllm_bw_encode(encoder, (int8_t)v, digit);
        for (i = 0; i < TLLM_BW_DIGITS; i++) {
            code |= (unsigned)tllm_bw_select(digit[i]) << 3 * i;
            n += digit[i] != 0;
        }
        t->code[v & 0xff] = (uint16_t)code;
        t->nonzero[v & 0xff] = (uint8_t)n;
    }
}

/* ---- statistics */

#define TINYI_BW_PIECE ((tiny_idx)1 << 19)  /* bytes counted before the 32-bit counters are added up */

static void tinyi_bw_count_bytes(const unsigned char *w, size_t n, uint64_t count[256])
{
    uint32_t c[8][256];
    size_t i = 0;
    int v, s;
    memset(c, 0, sizeof c);
    for (; i + 8 <= n; i += 8) {
        uint64_t x;
        memcpy(&x, w + i, 8);
        c[0][x & 0xff]++;
        c[1][x >> 8 & 0xff]++;
        c[2][x >> 16 & 0xff]++;
        c[3][x >> 24 & 0xff]++;
        c[4][x >> 32 & 0xff]++;
        c[5][x >> 40 & 0xff]++;
        c[6][x >> 48 & 0xff]++;
        c[7][x >> 56]++;
    }
    for (; i < n; i++) c[0][w[i]]++;
    for (v = 0; v < 256; v++) for (s = 0; s < 8; s++) count[v] += c[s][v];
}

typedef struct tinyi_bw_counting {
    const unsigned char *w;
    tiny_idx rows, k;                       /* without a format: rows bytes */
    const tllm_format *format;              /* NULL: bytes */
    size_t row_bytes;
    int8_t *codes;
    uint64_t (*count)[256];                 /* one for each thread */
    /* the first row, of each thread, with a weight that is not finite; rows: none */
    tiny_idx *bad;
} tinyi_bw_counting;

static void tinyi_bw_count_team(tiny_team *team, void *arg)
{
    const tinyi_bw_counting *j = (const tinyi_bw_counting *)arg;
    tiny_idx i0, i1;
    while (tiny_take(team, j->rows, TINYI_BW_PIECE, &i0, &i1))
        tinyi_bw_count_bytes(j->w + i0, (size_t)(i1 - i0), j->count[team->i]);
}

static void tinyi_bw_rows_team(tiny_team *team, void *arg)
{
    const tinyi_bw_counting *j = (const tinyi_bw_counting *)arg;
    const tinyi_fn_quantize_i8 quantize = TINYI_K(team, quantize_i8);
    float *row = (float *)team->own;
    int8_t *room = (int8_t *)(row + j->k);
    tiny_idx r, r1, i;
    while (tiny_take(team, j->rows, 4, &r, &r1))
        for (; r < r1; r++) {
            int8_t *q = j->codes ? j->codes + r * j->k : room;
            /* the bits of magnitudes have the order of their numbers, with infinity and NaN last */
            uint32_t top = 0;
            float most;
            j->format->unpack(j->w + (size_t)r * j->row_bytes, row, (size_t)j->k);
            for (i = 0; i < j->k; i++) {
                uint32_t x;
                memcpy(&x, &row[i], sizeof x);
                x &= 0x7fffffffu;
                top = x > top ? x : top;
            }
            memcpy(&most, &top, sizeof most);
            if (top >= 0x7f800000u) {
                if (r < j->bad[team->i]) j->bad[team->i] = r;
                continue;
            }
            if (top) quantize(q, row, (size_t)j->k, most / 127.0f > 0.0f ? most / 127.0f : most);
            else memset(q, 0, (size_t)j->k);
            tinyi_bw_count_bytes((const unsigned char *)q, (size_t)j->k, j->count[team->i]);
        }
}

static tiny_status tinyi_bw_counted(tiny_ctx *ctx, tinyi_bw_counting *j, int threads, size_t own, tiny_team_fn fn,
                                    uint64_t count[256])
{
    tiny_idx bad = j->rows;
    tiny_status st;
    int i, v;
    j->count = (uint64_t (*)[256])tinyi_alloc(ctx, (size_t)threads, sizeof *j->count + sizeof *j->bad);
    if (!j->count) return tiny_ctx_status(ctx);
    memset(j->count, 0, (size_t)threads * sizeof *j->count);
    j->bad = (tiny_idx *)(j->count + threads);
    for (i = 0; i < threads; i++) j->bad[i] = j->rows;
    st = tiny_parallel(ctx, threads, 0, own, fn, j);
    for (i = 0; i < threads; i++) bad = TINYI_MIN(bad, j->bad[i]);
    if (!st && bad < j->rows)
        st = tinyi_fail(ctx, TINY_E_NUMERIC, "bit weights: row %td has a weight that is not finite", bad);
    for (i = 0; i < threads && !st; i++) for (v = 0; v < 256; v++) count[v] += j->count[i][v];
    tiny_free(ctx, j->count);
    return st;
}

TINY_API tiny_status tllm_bw_count(tiny_ctx *ctx, const int8_t *w, size_t n, uint64_t count[256])
{
    tiny_status st = tinyi_ctx_check(ctx);
    tinyi_bw_counting j;
    if (st) return st;
    if ((!w && n) || !count)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: the weights or the result pointer is NULL");
    if (n > (size_t)TINY_IDX_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "bit weights: %zu weights are more than this machine can address", n);
    memset(&j, 0, sizeof j);
    j.w = (const unsigned char *)w;
    j.rows = (tiny_idx)n;
    return tinyi_bw_counted(ctx, &j, j.rows <= 2 * TINYI_BW_PIECE ? 1 : ctx->n_threads, 0, tinyi_bw_count_team, count);
}

TINY_API tiny_status tllm_bw_count_rows(tiny_ctx *ctx, int format, const void *w, tiny_idx rows, tiny_idx k,
                                        uint64_t count[256], int8_t *codes)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tinyi_bw_counting j;
    size_t all;
    if (st) return st;
    memset(&j, 0, sizeof j);
    j.format = tllm_format_of(format);
    if (!w || !count)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: the weights or the result pointer is NULL");
    if (!j.format) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "bit weights: there is no format %d", format);
    if (rows < 1 || k < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "bit weights: %td rows of %td weights: at least 1 of each is needed", rows,
                          k);
    j.row_bytes = tllm_format_bytes(j.format, (uint64_t)k);
    if (!j.row_bytes)
        return tinyi_fail(ctx, TINY_E_SHAPE, "bit weights: %td weights are not whole blocks of %s, which hold %d", k,
                          j.format->name, j.format->values);
    if (!tinyi_size_mul((size_t)rows, j.row_bytes, &all) || !tinyi_size_mul((size_t)rows, (size_t)k, &all) ||
        all > (size_t)TINY_IDX_MAX || !tinyi_size_mul((size_t)k, 5, &all))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "bit weights: %td rows of %td weights are more than this machine can address", rows, k);
    j.w = (const unsigned char *)w;
    j.rows = rows;
    j.k = k;
    j.codes = codes;
    return tinyi_bw_counted(ctx, &j, (double)rows * (double)k < 65536.0 ? 1 : ctx->n_threads, all, tinyi_bw_rows_team,
                            count);
}

TINY_API tiny_status tllm_bw_digits_of(tiny_ctx *ctx, int encoder, const uint64_t count[256], tllm_bw_digits *digits)
{
    tiny_status st = tinyi_ctx_check(ctx);
    double sum = 0;
    int v, i;
    if (st) return st;
    if (!count || !digits)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: the counts or the result pointer is NULL");
    if (!tllm_bw_encoder_name(encoder))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: there is no encoder %d", encoder);
    memset(digits, 0, sizeof *digits);
    for (v = -128; v < 128; v++) {
        const uint64_t n = count[v & 0xff];
        int nonzero = 0;
        if (encoder == TLLM_BW_BITS) for (i = 0; i < 8; i++) nonzero += (v < 0 ? -v : v) >> i & 1;
        else {
            int8_t digit[TLLM_BW_DIGITS];
            tllm_bw_encode(encoder, (int8_t)v, digit);
            for (i = 0; i < TLLM_BW_DIGITS; i++) {
                nonzero += digit[i] != 0;
                digits->digit[digit[i] + 2] += n;
            }
        }
        digits->n += n;
        digits->nonzero[nonzero] += n;
    }
    for (i = 0; i < 9; i++) sum += (double)digits->nonzero[i] * i;
    if (!digits->n) return TINY_OK;
    digits->mean = sum / (double)digits->n;
    digits->mean_slot = (sum + (double)digits->nonzero[0]) / (double)digits->n;
    return TINY_OK;
}

/* ---- designs: what can be built */

static const char *const tinyi_bw_dim[TLLM_BW_DIMS] = { "m", "n", "k", "bw" };
static const char *const tinyi_bw_primitive[TLLM_BW_PRIMITIVES] = { "encode", "map",        "shift", "half_reduce",
                                                                    "add",    "accumulate", "sync" };

static int tinyi_bw_find(const tllm_bw_design *d, int dim, int parallel)
{
    int i;
    for (i = 0; i < d->n_loops; i++)
        if (d->loop[i].dim == dim && (dim == TLLM_BW_BW || !d->loop[i].parallel == !parallel)) return i;
    return -1;
}

static int tinyi_bw_first_parallel(const tllm_bw_design *d)
{
    int i;
    for (i = 0; i < d->n_loops; i++) if (d->loop[i].parallel && d->loop[i].dim != TLLM_BW_BW) return i;
    return -1;
}

/* a loop over dim inside that many loops */
static int tinyi_bw_inside(const tllm_bw_design *d, int dim, int from)
{
    int i;
    for (i = from; i < d->n_loops; i++) if (d->loop[i].dim == dim) return 1;
    return 0;
}

/* add at every k, of all digits at once: the register holds S alone */
TINYI_FN int tinyi_bw_fused(const tllm_bw_design *d)
{
    return d->place[TLLM_BW_SHIFT] == d->n_loops && !tinyi_bw_inside(d, TLLM_BW_K, d->place[TLLM_BW_ADD]) &&
           d->loop[tinyi_bw_find(d, TLLM_BW_BW, 0)].parallel;
}

static tiny_status tinyi_bw_check_loops(tiny_ctx *ctx, const tllm_bw_design *d)
{
    int seen[TLLM_BW_DIMS][2] = { { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 } }, i, dim;
    if (d->n_loops < 1 || d->n_loops > TLLM_BW_LOOPS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: a nest of %d loops; the limits are 1 and %d", d->n_loops,
                          TLLM_BW_LOOPS);
    for (i = 0; i < d->n_loops; i++) {
        const tllm_bw_loop *l = &d->loop[i];
        if (l->dim < 0 || l->dim >= TLLM_BW_DIMS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "bit weights: loop %d runs over dimension %d; the dimensions are m, n, k and bw", i,
                              l->dim);
        if (l->dim == TLLM_BW_BW ? l->size != TLLM_BW_DIGITS
            : l->parallel        ? l->size < 1 || l->size > TLLM_BW_WIDEST
                                 : l->size != 0)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: loop %d, %s over %s, has size %td; %s", i,
                              l->parallel ? "parallel" : "in time", tinyi_bw_dim[l->dim], l->size,
                              l->dim == TLLM_BW_BW ? "there are 4 digits"
                              : l->parallel        ? "the limits are 1 and 65536"
                                                   : "it must be 0: the operands give the number of iterations");
        if (seen[l->dim][l->dim != TLLM_BW_BW && l->parallel]++)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: loop %d is a second loop over %s, %s", i,
                              tinyi_bw_dim[l->dim], l->parallel ? "parallel" : "in time");
        if (l->sparse && (l->dim != TLLM_BW_BW || l->parallel || i != d->n_loops - 1))
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "bit weights: loop %d is sparse; only an innermost loop over bw in time may be", i);
    }
    for (dim = 0; dim < TLLM_BW_DIMS; dim++)
        if (!seen[dim][0])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: there is no loop %sover %s",
                              dim == TLLM_BW_BW ? "" : "in time ", tinyi_bw_dim[dim]);
    return TINY_OK;
}

static tiny_status tinyi_bw_check_places(tiny_ctx *ctx, const tllm_bw_design *d)
{
    const int *at = d->place, bw = tinyi_bw_find(d, TLLM_BW_BW, 0), n = d->n_loops, first = tinyi_bw_first_parallel(d);
    const int m_time = tinyi_bw_find(d, TLLM_BW_M, 0), n_time = tinyi_bw_find(d, TLLM_BW_N, 0),
              k_time = tinyi_bw_find(d, TLLM_BW_K, 0);
    const int out = m_time > n_time ? m_time : n_time;
    int i;
    for (i = 0; i < TLLM_BW_PRIMITIVES; i++)
        if (at[i] < (i == TLLM_BW_SYNC ? -1 : 0) || at[i] > n)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: %s is inside %d loops of %d",
                              tinyi_bw_primitive[i], at[i], n);
    if (first >= 0 && first < out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bit weights: the loops over m and n in time must be outside all parallel loops");
    if (at[TLLM_BW_MAP] != n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bit weights: map needs m, n, k and bw: it must be inside all %d loops, not %d", n,
                          at[TLLM_BW_MAP]);
    if (at[TLLM_BW_ENCODE] > bw)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bit weights: encode makes all digits at once: it must be outside the loop over bw");
    if (at[TLLM_BW_ADD] <= out || at[TLLM_BW_ACCUMULATE] <= out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bit weights: add and accumulate must be inside the loops over m and n in time");
    if (at[TLLM_BW_SHIFT] == n) {
        if (bw != n - 1)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "bit weights: shift before the sum needs the loop over bw innermost");
        if (at[TLLM_BW_HALF_REDUCE] != (d->loop[bw].parallel ? bw : n) || at[TLLM_BW_ADD] > bw ||
            at[TLLM_BW_ACCUMULATE] > bw)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "bit weights: with shift before the sum, half_reduce takes %s, and add and accumulate "
                              "must be outside the loop over bw",
                              d->loop[bw].parallel ? "all four products at once, outside of the loop over bw"
                                                   : "one product at a time, inside all loops");
    } else if (!d->loop[bw].parallel || at[TLLM_BW_SHIFT] != bw + 1 || at[TLLM_BW_HALF_REDUCE] != n ||
               at[TLLM_BW_ADD] != bw || at[TLLM_BW_ACCUMULATE] != bw + 1 || !tinyi_bw_inside(d, TLLM_BW_K, bw))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bit weights: with shift after the sum, shift and accumulate must be directly inside a "
                          "parallel loop over bw and add directly outside it; half_reduce must be inside all loops, "
                          "and a loop over k inside bw");
    if (at[TLLM_BW_SYNC] >= 0 && at[TLLM_BW_SYNC] != first)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bit weights: sync is inside %d loops; the first parallel loop needs it inside %d",
                          at[TLLM_BW_SYNC], first);
    if (d->loop[bw].sparse && (k_time < out || (first >= 0 && at[TLLM_BW_SYNC] < 0)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bit weights: with a sparse loop, k in time must be inside m and n in time, and parallel "
                          "loops need a sync");
    return TINY_OK;
}

TINY_API tiny_status tllm_bw_check(tiny_ctx *ctx, const tllm_bw_design *d, tiny_idx k)
{
    const int width = d && d->width ? d->width : 32;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!d) return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: there is no design");
    if (d->encoder != TLLM_BW_BOOTH && d->encoder != TLLM_BW_ENT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: there is no encoder %d that makes four digits",
                          d->encoder);
    if (width < 16 || width > 32)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: an accumulator of %d bits; the limits are 16 and 32",
                          width);
    if (d->pipeline < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: a pipeline of %d cycles", d->pipeline);
    st = tinyi_bw_check_loops(ctx, d);
    if (!st) st = tinyi_bw_check_places(ctx, d);
    /* -128 times -128, k times */
    if (!st && k > (tiny_idx)((((uint32_t)1 << (width - 1)) - 1) >> 14))
        st = tinyi_fail(
            ctx, TINY_E_OVERFLOW,
            "bit weights: sums of %td products reach %td * 2^14, but an accumulator of %d bits holds only %td products",
            k, k, width, (tiny_idx)((((uint32_t)1 << (width - 1)) - 1) >> 14));
    return st;
}

/* ---- transformations */

static void tinyi_bw_move(tllm_bw_design *d, int from, int to)
{
    const tllm_bw_loop l = d->loop[from];
    int i;
    for (i = from; i > to; i--) d->loop[i] = d->loop[i - 1];
    d->loop[to] = l;
}

TINY_API tiny_status tllm_bw_transform(tiny_ctx *ctx, tllm_bw_design *design, int transform, tiny_idx size)
{
    tiny_status st = tllm_bw_check(ctx, design, 0);
    tllm_bw_design d;
    const char *not_here = NULL;
    int *at, bw, n, i, k_first, n_lanes, k_time, out, first;
    if (st) return st;
    d = *design;
    at = d.place;
    n = d.n_loops;
    bw = tinyi_bw_find(&d, TLLM_BW_BW, 0);
    n_lanes = tinyi_bw_find(&d, TLLM_BW_N, 1);
    k_time = tinyi_bw_find(&d, TLLM_BW_K, 0);
    first = tinyi_bw_first_parallel(&d);
    out = tinyi_bw_find(&d, TLLM_BW_M, 0) > tinyi_bw_find(&d, TLLM_BW_N, 0) ? tinyi_bw_find(&d, TLLM_BW_M, 0)
                                                                            : tinyi_bw_find(&d, TLLM_BW_N, 0);
    for (k_first = out + 1; k_first < n && d.loop[k_first].dim != TLLM_BW_K; k_first++) {}
    switch (transform) {
    case TLLM_BW_OPT1:
        if (k_first == n || at[TLLM_BW_ADD] <= k_first)
            not_here = "OPT1: add is already outside the loop over k";
        else at[TLLM_BW_ADD] = k_first;
        break;
    case TLLM_BW_OPT2:
        if (!d.loop[bw].parallel || bw != n - 1) not_here = "OPT2: the loop over bw must be innermost and parallel";
        else if (!tinyi_bw_inside(&d, TLLM_BW_K, at[TLLM_BW_ADD]))
            not_here = "OPT2: add must first be outside the loop over k (OPT1)";
        else {
            const int to = at[TLLM_BW_ADD];
            tinyi_bw_move(&d, bw, to);
            at[TLLM_BW_ENCODE] = n_lanes >= 0 && n_lanes < to ? n_lanes : to;
            at[TLLM_BW_SHIFT] = at[TLLM_BW_ACCUMULATE] = to + 1;
            at[TLLM_BW_HALF_REDUCE] = n;
        }
        break;
    case TLLM_BW_OPT3:
        if (!d.loop[bw].parallel || bw != n - 1) not_here = "OPT3: the loop over bw must be innermost and parallel";
        else if (k_time < out) not_here = "OPT3: the loop over k in time must be inside those over m and n";
        else {
            d.loop[bw].parallel = 0;
            d.loop[bw].sparse = 1;
            at[TLLM_BW_HALF_REDUCE] = n;
            at[TLLM_BW_SYNC] = first;
        }
        break;
    case TLLM_BW_OPT4:
        if (n_lanes < 0) not_here = "OPT4: there is no parallel loop over n whose PEs could share an encoder";
        else if (at[TLLM_BW_ENCODE] <= n_lanes)
            not_here = "OPT4: the encoder is already outside the loop over n";
        else at[TLLM_BW_ENCODE] = n_lanes;
        break;
    case TLLM_BW_GROUP:
        if (!d.loop[bw].sparse) not_here = "GROUP: the loop over bw must be sparse first (OPT3)";
        else if (tinyi_bw_find(&d, TLLM_BW_K, 1) >= 0) not_here = "GROUP: there is a parallel loop over k already";
        else if (size < 2 || size > TLLM_BW_WIDEST) not_here = "GROUP: it takes 2 to 65536 lanes";
        else if (n == TLLM_BW_LOOPS) not_here = "GROUP: the nest has as many loops as it can have";
        else {
            for (i = n; i > k_time; i--) d.loop[i] = d.loop[i - 1];
            d.n_loops++;
            d.loop[k_time].size = size;
            d.loop[k_time].parallel = 1;
            for (i = 0; i < TLLM_BW_PRIMITIVES; i++) at[i] += at[i] > k_time;
            at[TLLM_BW_SYNC] = tinyi_bw_first_parallel(&d);
        }
        break;
    case TLLM_BW_SYNC_K:
        if (!d.loop[bw].sparse || first < 0)
            not_here = "SYNC: the loop over bw must be sparse first (OPT3), beside parallel ones";
        else if (k_time < first) not_here = "SYNC: the lanes wait at every k already";
        else {
            tinyi_bw_move(&d, k_time, first);
            for (i = 0; i < TLLM_BW_PRIMITIVES; i++) at[i] += at[i] > first && at[i] <= k_time;
            at[TLLM_BW_ADD] = at[TLLM_BW_ACCUMULATE] = first;
            at[TLLM_BW_SYNC] = first + 1;
        }
        break;
    default: return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: there is no transformation %d", transform);
    }
    if (not_here) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "bit weights: %s", not_here);
    st = tllm_bw_check(ctx, &d, 0);
    if (!st) *design = d;
    return st;
}

/* ---- the nest as text */

typedef struct tinyi_bw_writer { char *text; size_t n_bytes, n; } tinyi_bw_writer;

static void tinyi_bw_write(tinyi_bw_writer *w, const char *format, ...) TINYI_PRINTF(2, 3);
static void tinyi_bw_write(tinyi_bw_writer *w, const char *format, ...)
{
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(w->n < w->n_bytes ? w->text + w->n : NULL, w->n < w->n_bytes ? w->n_bytes - w->n : 0, format, args);
    va_end(args);
    if (n > 0) w->n += (size_t)n;
}

/* one line, " for all k" after it where loops that its operands depend on are further inside */
static void tinyi_bw_line(tinyi_bw_writer *w, const tllm_bw_design *d, int depth, const char *what, unsigned dims)
{
    const char *sep = " for all ";
    int i, dim;
    tinyi_bw_write(w, "%*s%s", 2 * depth, "", what);
    for (dim = 0; dim < TLLM_BW_DIMS; dim++)
        for (i = depth; i < d->n_loops; i++)
            if (d->loop[i].dim == dim && dims >> dim & 1u) {
                tinyi_bw_write(w, "%s%s", sep, tinyi_bw_dim[dim]);
                sep = ", ";
                break;
            }
    tinyi_bw_write(w, "\n");
}

static void tinyi_bw_nest(tinyi_bw_writer *w, const tllm_bw_design *d, int depth)
{
    enum { M = 1 << TLLM_BW_M, N = 1 << TLLM_BW_N, K = 1 << TLLM_BW_K };
    static const char upper[] = "MNK";
    const int *at = d->place, late = at[TLLM_BW_SHIFT] < d->n_loops, fused = tinyi_bw_fused(d),
              width = d->width ? d->width : 32;
    char text[96];
    if (at[TLLM_BW_ACCUMULATE] == depth) {
        if (late) (void)snprintf(text, sizeof text, "accumulate (S, C) of 10 + log2 k bits");
        else
            (void)snprintf(text, sizeof text, fused ? "accumulate S of %d bits" : "accumulate (S, C) of %d bits",
                           width);
        tinyi_bw_line(w, d, depth, text, M | N);
    }
    if (at[TLLM_BW_ENCODE] == depth) {
        (void)snprintf(text, sizeof text, "encode A[m][k] (%s)", tllm_bw_encoder_name(d->encoder));
        tinyi_bw_line(w, d, depth, text, M | K);
    }
    if (depth < d->n_loops) {
        const tllm_bw_loop *l = &d->loop[depth];
        const int other = l->dim == TLLM_BW_BW ? -1 : tinyi_bw_find(d, l->dim, !l->parallel);
        tinyi_bw_write(w, "%*s%s %s in ", 2 * depth, "", l->parallel ? "parallel" : "for", tinyi_bw_dim[l->dim]);
        if (l->sparse)
            tinyi_bw_write(w, "digits that are not 0%s\n", d->zero_slot ? ", one cycle where there is none" : "");
        else if (l->size) tinyi_bw_write(w, "%td\n", l->size);
        else if (other >= 0) tinyi_bw_write(w, "%c / %td\n", upper[l->dim], d->loop[other].size);
        else tinyi_bw_write(w, "%c\n", upper[l->dim]);
        tinyi_bw_nest(w, d, depth + 1);
    }
    if (at[TLLM_BW_MAP] == depth) tinyi_bw_line(w, d, depth, "map the digit to -2B .. 2B of B[k][n]", 0);
    if (!late && at[TLLM_BW_SHIFT] == depth) tinyi_bw_line(w, d, depth, "shift by 2 bw", 0);
    if (at[TLLM_BW_HALF_REDUCE] == depth)
        tinyi_bw_line(w, d, depth, fused ? "half_reduce the products and S" : "half_reduce into (S, C)", 0);
    if (late && at[TLLM_BW_SHIFT] == depth) tinyi_bw_line(w, d, depth, "shift S + C by 2 bw", M | N);
    if (at[TLLM_BW_ADD] == depth)
        tinyi_bw_line(w, d, depth, late ? "add the four sums" : fused ? "add into S" : "add S + C", M | N);
    if (at[TLLM_BW_SYNC] == depth) tinyi_bw_line(w, d, depth, "sync", 0);
}

TINY_API size_t tllm_bw_text(const tllm_bw_design *design, char *text, size_t n_bytes)
{
    tinyi_bw_writer w;
    w.text = text;
    w.n_bytes = text ? n_bytes : 0;
    w.n = 0;
    if (w.n_bytes) text[0] = 0;
    if (design && !tinyi_bw_check_loops(NULL, design) && !tinyi_bw_check_places(NULL, design) &&
        tllm_bw_encoder_name(design->encoder))
        tinyi_bw_nest(&w, design, 0);
    return w.n + 1;
}

/* ---- designs with a name; areas and frequencies: the authors' tables */

enum { TINYI_BW_OS, TINYI_BW_WS, TINYI_BW_TREE };
static const struct {
    tllm_bw_unit unit;
    int form;
    tiny_idx m, n, k;
    unsigned transforms;
    int group;
} tinyi_bw_units[] = {
#define TINYI_BW_1 (1u << TLLM_BW_OPT1)
#define TINYI_BW_3 (TINYI_BW_1 | 1u << TLLM_BW_OPT3)
#define TINYI_BW_4 (TINYI_BW_3 | 1u << TLLM_BW_OPT4)
    { { "mac-pe", "one multiply-accumulate unit", 1666e-6, 600, 0 }, TINYI_BW_OS, 1, 1, 1, 0, 0 },
    { { "opt1-pe", "the same with OPT1", 1668e-6, 870, 0 }, TINYI_BW_OS, 1, 1, 1, TINYI_BW_1, 0 },
    { { "mac", "16 x 16, outputs stay", 595737e-6, 154, 1 }, TINYI_BW_OS, 16, 16, 1, 0, 0 },
    { { "opt1", "the same with OPT1", 575546e-6, 322, 1 }, TINYI_BW_OS, 16, 16, 1, TINYI_BW_1, 0 },
    { { "mac-ws", "16 x 16, weights stay", 415393e-6, 182, 1 }, TINYI_BW_WS, 1, 16, 16, 0, 0 },
    { { "opt1-ws", "the same with OPT1", 524171e-6, 303, 1 }, TINYI_BW_WS, 1, 16, 16, TINYI_BW_1, 0 },
    { { "mac-cube", "8 x 8 x 8", 778476e-6, 159, 1 }, TINYI_BW_OS, 8, 8, 8, 0, 0 },
    { { "opt1-cube", "the same with OPT1", 864067e-6, 250, 1 }, TINYI_BW_OS, 8, 8, 8, TINYI_BW_1, 0 },
    { { "opt2", "16 trees of 16 products", 311363e-6, 690, 1 },
      TINYI_BW_TREE,
      1,
      16,
      16,
      TINYI_BW_1 | 1u << TLLM_BW_OPT2,
      0 },
    { { "opt3", "32 x 32, an encoder in each PE", 0, 0, 0 }, TINYI_BW_OS, 32, 32, 1, TINYI_BW_3, 0 },
    { { "opt4c", "a column of 32 PEs, one encoder", 40865e-6, 1694, 1 }, TINYI_BW_OS, 1, 32, 1, TINYI_BW_4, 0 },
    { { "opt4c-32", "32 such columns", 0, 0, 0 }, TINYI_BW_OS, 32, 32, 1, TINYI_BW_4, 0 },
    { { "opt4e", "8 such columns, 4 lanes of k a PE", 0, 0, 0 },
      TINYI_BW_OS,
      8,
      32,
      1,
      TINYI_BW_4 | 1u << TLLM_BW_GROUP,
      4 },
#undef TINYI_BW_1
#undef TINYI_BW_3
#undef TINYI_BW_4
};
#define TINYI_BW_UNITS (sizeof tinyi_bw_units / sizeof *tinyi_bw_units)

TINY_API const tllm_bw_unit *tllm_bw_unit_at(size_t i) { return i < TINYI_BW_UNITS ? &tinyi_bw_units[i].unit : NULL; }

static void tinyi_bw_loop_put(tllm_bw_design *d, int dim, int parallel, tiny_idx size)
{
    tllm_bw_loop *l = &d->loop[d->n_loops];
    if (parallel && size == 1) return;
    l->dim = dim;
    l->size = size;
    l->parallel = parallel;
    d->n_loops++;
}

TINY_API tiny_status tllm_bw_design_of(tiny_ctx *ctx, const char *name, tllm_bw_design *design)
{
    /* loops in time, from the outside; and which of the parallel ones stands before the last of them */
    static const int time[3][3] = { { TLLM_BW_M, TLLM_BW_N, TLLM_BW_K },
                                    { TLLM_BW_N, TLLM_BW_K, TLLM_BW_M },
                                    { TLLM_BW_M, TLLM_BW_N, TLLM_BW_K } };
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_bw_design d;
    size_t u;
    int i, form;
    if (st) return st;
    if (!name || !design)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bit weights: the name or the result pointer is NULL");
    for (u = 0; u < TINYI_BW_UNITS && strcmp(tinyi_bw_units[u].unit.name, name); u++) {}
    if (u == TINYI_BW_UNITS)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "bit weights: there is no design %.40s; \"mac\" and \"opt4c\" are two of %d", name,
                          (int)TINYI_BW_UNITS);
    memset(&d, 0, sizeof d);
    form = tinyi_bw_units[u].form;
    for (i = 0; i < 2; i++) tinyi_bw_loop_put(&d, time[form][i], 0, 0);
    if (form == TINYI_BW_WS) tinyi_bw_loop_put(&d, TLLM_BW_M, 0, 0);
    tinyi_bw_loop_put(&d, TLLM_BW_M, 1, tinyi_bw_units[u].m);
    tinyi_bw_loop_put(&d, TLLM_BW_N, 1, tinyi_bw_units[u].n);
    d.place[TLLM_BW_ACCUMULATE] = d.n_loops;
    if (form != TINYI_BW_WS) tinyi_bw_loop_put(&d, TLLM_BW_K, 0, 0);
    tinyi_bw_loop_put(&d, TLLM_BW_K, 1, tinyi_bw_units[u].k);
    if (form == TINYI_BW_WS) d.place[TLLM_BW_ACCUMULATE] = d.n_loops;       /* sums move from PE to PE */
    d.place[TLLM_BW_ENCODE] = d.place[TLLM_BW_HALF_REDUCE] = d.place[TLLM_BW_ADD] = d.n_loops;
    tinyi_bw_loop_put(&d, TLLM_BW_BW, 1, TLLM_BW_DIGITS);
    d.place[TLLM_BW_MAP] = d.place[TLLM_BW_SHIFT] = d.n_loops;
    d.place[TLLM_BW_SYNC] = -1;
    /* as the authors' circuits have it */
    d.encoder = tinyi_bw_units[u].transforms > 1u << TLLM_BW_OPT1 ? TLLM_BW_ENT : TLLM_BW_BOOTH;
    for (i = 0; i < TLLM_BW_TRANSFORMS && !st; i++)
        if (tinyi_bw_units[u].transforms >> i & 1u) st = tllm_bw_transform(ctx, &d, i, tinyi_bw_units[u].group);
    if (!st) *design = d;
    return st;
}

TINY_API void tllm_bw_rate(const tllm_bw_unit *unit, double products, double cycles, double *per_second,
                           double *per_mm2)
{
    const double rate = unit && cycles > 0 ? 2.0 * products * unit->mhz * 1e6 / cycles : 0.0;
    if (per_second) *per_second = rate;
    if (per_mm2) *per_mm2 = unit && unit->mm2 > 0 ? rate / unit->mm2 : 0.0;
}

/* ---- a design taken apart for a product */

TINYI_FN tiny_status tinyi_bw_plan_make(tiny_ctx *ctx, const tllm_bw_design *d, tiny_idx m, tiny_idx n, tiny_idx k,
                                        tinyi_bw_plan *p)
{
    tiny_status st = tllm_bw_check(ctx, d, k);
    double work = (double)m * (double)n * (double)k;
    int i, dim, last = -1;
    if (st) return st;
    if (m < 1 || n < 1 || k < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "bit weights: a product of %td x %td by %td x %td: each must be at least 1", m, k, k, n);
    if (work > 1e15)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "bit weights: %td x %td x %td products exceed the limit of the counters, 10^15", m, n,
                          k);
    memset(p, 0, sizeof *p);
    p->size[TLLM_BW_M] = m;
    p->size[TLLM_BW_N] = n;
    p->size[TLLM_BW_K] = k;
    p->bw = tinyi_bw_find(d, TLLM_BW_BW, 0);
    p->bw_parallel = d->loop[p->bw].parallel;
    p->sparse = d->loop[p->bw].sparse;
    p->late = d->place[TLLM_BW_SHIFT] < d->n_loops;
    for (dim = 0; dim < 3; dim++) {
        p->time[dim] = tinyi_bw_find(d, dim, 0);
        p->par[dim] = tinyi_bw_find(d, dim, 1);
        p->lanes[dim] = p->par[dim] < 0 ? 1 : d->loop[p->par[dim]].size;
        p->turns[dim] = (p->size[dim] - 1) / p->lanes[dim] + 1;
        if (p->time[dim] > last) last = p->time[dim];
    }
    p->fills = 1;
    for (i = d->n_loops - 1; i >= 0; i--) {
        int j;
        dim = d->loop[i].dim;
        p->stride[i] = 1;
        p->trips[i] = dim == TLLM_BW_BW ? TLLM_BW_DIGITS : d->loop[i].parallel ? p->lanes[dim] : p->turns[dim];
        for (j = i + 1; j < d->n_loops; j++) if (d->loop[j].dim == dim) p->stride[i] *= p->trips[j];
        if (dim != TLLM_BW_BW && !d->loop[i].parallel && i != last) p->fills *= (uint64_t)p->trips[i];
    }
    p->run = 1;
    p->registers = 1;
    for (i = 0; i < d->n_loops; i++) {
        const int is_k = d->loop[i].dim == TLLM_BW_K;
        if (is_k && i >= d->place[TLLM_BW_ADD]) p->run *= p->trips[i];
        p->carried |= is_k && i < d->place[TLLM_BW_ADD];
        if (d->loop[i].parallel && (is_k ? i < d->place[TLLM_BW_ACCUMULATE] : d->loop[i].dim != TLLM_BW_BW))
            p->registers *= (uint64_t)d->loop[i].size;
    }
    p->run = TINYI_MIN(p->run, k);
    p->width = d->width ? d->width : 32;
    p->mask = p->width < 32 ? ((uint32_t)1 << p->width) - 1 : 0xffffffffu;
    for (p->narrow = 10; ((tiny_idx)1 << (p->narrow - 10)) < p->run; p->narrow++) {}
    p->narrow_mask = ((uint32_t)1 << p->narrow) - 1;
    if (p->late) p->registers *= (uint64_t)(TLLM_BW_DIGITS * 2 * p->narrow + (p->carried ? p->width : 0));
    else p->registers *= (uint64_t)(tinyi_bw_fused(d) ? p->width : 2 * p->width);
    return TINY_OK;
}

