/* src/llm/block/eight.c - repacked matrices in block formats: eight rows interleaved
 * Layout   of a block of eight rows, lane i is row i:
 *          8 halves, the scales; 8 more halves if the format has minima
 *          Q4_K, Q5_K: 96 bytes, four times 32 numbers of six bits (scales of groups 0-3 and 4-7, minima of 0-3 and
 *          4-7; number 8 g + i is that of group g % 4 and row i). Byte j holds number j of the first, second, third
 *          quarter in vectors 0, 1, 2; the fourth has two bits in each of them, above.
 *          Q6_K: 16 times 8 bytes, the scales of groups of 16
 *          then vectors of 32 bytes, four of each row; vector v of 32 (Q6_K: of 16) numbers has numbers 4 v .. 4 v + 3:
 *          Q8_0 eight of them. Q4_0, Q4_1: four, which hold vectors 0-3 below and 4-7 above. Q4_K: of 64 numbers eight,
 *          the first 32 below and the others above. Five bits: for 32 numbers five, vectors 0-4 below, and above them
 *          three bits each: 0-2 of vector 5; 3, 4 of 5, 4 of 7; 0-2 of 6; 3, 4 of 6, 3 of 7; 0-2 of 7. Q6_K: for each
 *          16 numbers three, vectors 0-2 below, and above them two bits each of vector 3.
 * Cost     one pass over the bytes, row by row, at the speed of plain C.
 * Error    none: a permutation of bits. */
#include <string.h>
#include "core/state_inside.h"
#include "llm/block/eight.h"
#include "llm/block/block_inside.h"
#include "llm/block/blocks_inside.h"
#include "llm/block/format.h"

/* how many halves a block has, where its fifth bits (0: none) and its codes begin, and how many times 32 numbers it
 * has */
typedef struct tinyi_eight_form { int format, halves, fifth, codes, wide; } tinyi_eight_form;

static const tinyi_eight_form *tinyi_eight_form_of(int format)
{
    static const tinyi_eight_form forms[] = { { TLLM_FORMAT_Q8_0, 1, 0, 2, 1 },   { TLLM_FORMAT_Q4_0, 1, 0, 2, 1 },
                                              { TLLM_FORMAT_Q4_1, 2, 0, 4, 1 },   { TLLM_FORMAT_Q5_0, 1, 2, 6, 1 },
                                              { TLLM_FORMAT_Q5_1, 2, 4, 8, 1 },   { TLLM_FORMAT_Q4_K, 2, 0, 16, 8 },
                                              { TLLM_FORMAT_Q5_K, 2, 16, 48, 8 }, { TLLM_FORMAT_Q6_K, 1, 0, 0, 8 } };
    size_t i;
    for (i = 0; i < TINYI_COUNT(forms); i++)
        if (forms[i].format == format) return &forms[i];
    return NULL;
}

/* to: bytes of e become those of b, or b's those of e */
TINYI_FORCE_INLINE void tinyi_eight_move(unsigned char *e, unsigned char *b, size_t n, int back)
{
    if (back) memcpy(b, e, n);
    else memcpy(e, b, n);
}

/* Codes go four at a time, one in each byte of 32 bits: those bits of each byte of x that `ones` has, `by` bits up. */
#define TINYI_EIGHT_OF(x, by, ones) ((x) >> (by) & (ones) * 0x01010101u)

/* 32 numbers of five bits, of group g where a block has eight; e: 160 bytes from lane i on. Back: into zeros. */
static void tinyi_eight_five(const tinyi_eight_form *f, unsigned char *e, unsigned char *b, int g, int back)
{
    unsigned char *low = b + f->codes + (f->wide == 1 ? 0 : g / 2 * 32), *high = b + f->fifth;
    uint32_t c[8], x[5], bits = f->wide == 1 ? tinyi_q_u32(high) : 0;
    int v;
    if (back) {
        for (v = 0; v < 5; v++) {
            x[v] = tinyi_q_u32(e + 32 * v);
            c[v] = TINYI_EIGHT_OF(x[v], 0, 31u);
        }
        c[5] = TINYI_EIGHT_OF(x[0], 5, 7u) | TINYI_EIGHT_OF(x[1], 5, 3u) << 3;
        c[6] = TINYI_EIGHT_OF(x[2], 5, 7u) | TINYI_EIGHT_OF(x[3], 5, 3u) << 3;
        c[7] = TINYI_EIGHT_OF(x[4], 5, 7u) | TINYI_EIGHT_OF(x[3], 7, 1u) << 3 | TINYI_EIGHT_OF(x[1], 7, 1u) << 4;
    }
    for (v = 0; v < 8; v++) {
        unsigned char *at = low + (f->wide == 1 ? v % 4 : v) * 4;
        const int up = f->wide == 1 ? v / 4 * 4 : g % 2 * 4;
        if (!back) {                        /* bit b of four becomes the lowest of byte b */
            const uint32_t fifth = f->wide == 1 ? (bits >> 4 * v & 15u) * 0x00204081u & 0x01010101u
                                                : TINYI_EIGHT_OF(tinyi_q_u32(high + 4 * v), g, 1u);
            c[v] = TINYI_EIGHT_OF(tinyi_q_u32(at), up, 15u) | fifth << 4;
            continue;
        }
        tinyi_put_le32(at, tinyi_q_u32(at) | TINYI_EIGHT_OF(c[v], 0, 15u) << up);
        if (f->wide == 1) bits |= ((TINYI_EIGHT_OF(c[v], 4, 1u) * 0x01020408u) >> 24 & 15u) << 4 * v;
        else tinyi_put_le32(high + 4 * v, tinyi_q_u32(high + 4 * v) | TINYI_EIGHT_OF(c[v], 4, 1u) << g);
    }
    if (back) {
        if (f->wide == 1) tinyi_put_le32(high, bits);
        return;
    }
    x[0] = c[0] | TINYI_EIGHT_OF(c[5], 0, 7u) << 5;
    x[1] = c[1] | TINYI_EIGHT_OF(c[5], 3, 3u) << 5 | TINYI_EIGHT_OF(c[7], 4, 1u) << 7;
    x[2] = c[2] | TINYI_EIGHT_OF(c[6], 0, 7u) << 5;
    x[3] = c[3] | TINYI_EIGHT_OF(c[6], 3, 3u) << 5 | TINYI_EIGHT_OF(c[7], 3, 1u) << 7;
    x[4] = c[4] | TINYI_EIGHT_OF(c[7], 0, 7u) << 5;
    for (v = 0; v < 5; v++) tinyi_put_le32(e + 32 * v, x[v]);
}

/* the twelve bytes of Q4_K and Q5_K; e: 96 bytes, of which lane i is row i */
static void tinyi_eight_scales(unsigned char *e, unsigned char *b, int i, int back)
{
    int j;
    for (j = 0; j < 4; j++) {
        unsigned char *p = e + 8 * j + i;
        if (back) {
            const int s = p[0] & 63, s4 = p[32] & 63, m = p[64] & 63,
                      m4 = p[0] >> 6 | p[32] >> 6 << 2 | p[64] >> 6 << 4;
            b[j] = (unsigned char)(s | (s4 >> 4) << 6);
            b[4 + j] = (unsigned char)(m | (m4 >> 4) << 6);
            b[8 + j] = (unsigned char)((s4 & 15) | (m4 & 15) << 4);
        } else {
            const int s4 = (b[8 + j] & 15) | b[j] >> 6 << 4, m4 = b[8 + j] >> 4 | b[4 + j] >> 6 << 4;
            p[0] = (unsigned char)((b[j] & 63) | (m4 & 3) << 6);
            p[32] = (unsigned char)(s4 | (m4 >> 2 & 3) << 6);
            p[64] = (unsigned char)((b[4 + j] & 63) | (m4 >> 4) << 6);
        }
    }
}

static void tinyi_eight_six(unsigned char *e, unsigned char *b, int i, int back)
{
    uint32_t c[4];
    int g, n;
    tinyi_eight_move(e + 2 * i, b + 208, 2, back);
    e += 16;
    for (g = 0; g < 16; g++) tinyi_eight_move(e + 8 * g + i, b + 192 + g, 1, back);
    e += 128 + 4 * i;
    if (back) memset(b, 0, 192);
    for (g = 0; g < 16; g++, e += 96) {
        unsigned char *low = b + g / 8 * 64 + g % 4 * 16, *high = b + 128 + g / 8 * 32 + g % 2 * 16;
        const int up = g % 8 / 4 * 4, shift = g % 8 / 2 * 2;
        for (n = 0; n < 4 && !back; n++)
            c[n] = TINYI_EIGHT_OF(tinyi_q_u32(low + 4 * n), up, 15u) |
                   TINYI_EIGHT_OF(tinyi_q_u32(high + 4 * n), shift, 3u) << 4;
        for (n = 0; n < 3 && !back; n++) tinyi_put_le32(e + 32 * n, c[n] | TINYI_EIGHT_OF(c[3], 2 * n, 3u) << 6);
        if (!back) continue;
        for (n = 0, c[3] = 0; n < 3; n++) {
            const uint32_t x = tinyi_q_u32(e + 32 * n);
            c[n] = TINYI_EIGHT_OF(x, 0, 63u);
            c[3] |= TINYI_EIGHT_OF(x, 6, 3u) << 2 * n;
        }
        for (n = 0; n < 4; n++) {           /* into zeros */
            tinyi_put_le32(low + 4 * n, tinyi_q_u32(low + 4 * n) | TINYI_EIGHT_OF(c[n], 0, 15u) << up);
            tinyi_put_le32(high + 4 * n, tinyi_q_u32(high + 4 * n) | TINYI_EIGHT_OF(c[n], 4, 3u) << shift);
        }
    }
}

/* block b of row i of eight, in or out of e */
static void tinyi_eight_block(const tinyi_eight_form *f, unsigned char *e, unsigned char *b, int i, int back)
{
    int h, v, g;
    if (f->format == TLLM_FORMAT_Q6_K) {
        tinyi_eight_six(e, b, i, back);
        return;
    }
    for (h = 0; h < f->halves; h++, e += 16) tinyi_eight_move(e + 2 * i, b + 2 * h, 2, back);
    if (f->wide == 8) {
        tinyi_eight_scales(e, b + 4, i, back);
        e += 96;
    }
    if (f->fifth) {
        if (back) memset(b + f->fifth, 0, f->wide == 1 ? 20 : 160);     /* codes follow them */
        for (g = 0; g < f->wide; g++) tinyi_eight_five(f, e + 160 * g + 4 * i, b, g, back);
    } else
        for (v = 0; v < (f->wide == 8 ? 32 : f->format == TLLM_FORMAT_Q8_0 ? 8 : 4); v++)
            tinyi_eight_move(e + 32 * v + 4 * i, b + f->codes + 4 * v, 4, back);
}

TINYI_FN void tinyi_eight_row(int format, const unsigned char *w, tiny_idx row_bytes, tiny_idx n_out, tiny_idx r,
                              tiny_idx b, tiny_idx n, unsigned char *to)
{
    const tinyi_eight_form *f = tinyi_eight_form_of(format);
    const size_t bytes = (size_t)tllm_format_of(format)->bytes;
    if (r >= n_out / 8 * 8) {
        memcpy(to, w + (size_t)r * (size_t)row_bytes + (size_t)b * bytes, (size_t)n * bytes);
        return;
    }
    w += (size_t)(r / 8 * 8) * (size_t)row_bytes;
    for (; n; n--, b++, to += bytes)
        tinyi_eight_block(f, (unsigned char *)(uintptr_t)(w + (size_t)b * 8 * bytes), to, (int)(r % 8), 1);
}

TINYI_FN void tinyi_eight_group(int format, const unsigned char *w, tiny_idx row_step, tiny_idx rows, tiny_idx blocks,
                                unsigned char *to)
{
    const tinyi_eight_form *f = tinyi_eight_form_of(format);
    const size_t bytes = (size_t)tllm_format_of(format)->bytes;
    tiny_idx b;
    int i;
    if (rows < 8) memset(to, 0, 8 * (size_t)blocks * bytes);
    for (b = 0; b < blocks; b++)
        for (i = 0; i < (int)rows; i++)
            tinyi_eight_block(f, to + (size_t)b * 8 * bytes,
                              (unsigned char *)(uintptr_t)(w + (size_t)i * (size_t)row_step + (size_t)b * bytes), i, 0);
}

/* ---- whole matrices */

typedef struct tinyi_eight_job {
    int format, back;
    const unsigned char *from;
    unsigned char *to;
    tiny_idx n_out, blocks, row_bytes;
} tinyi_eight_job;

static void tinyi_eight_team(tiny_team *team, void *arg)
{
    const tinyi_eight_job *j = (const tinyi_eight_job *)arg;
    const tiny_idx groups = j->n_out / 8, rest = j->n_out % 8, grain = TINYI_MAX(1, 65536 / (8 * j->row_bytes));
    tiny_idx g, end, i;
    while (tiny_take(team, groups + (rest > 0), grain, &g, &end))
        for (; g < end; g++) {
            const size_t at = (size_t)g * 8 * (size_t)j->row_bytes;
            if (g == groups) memcpy(j->to + at, j->from + at, (size_t)(rest * j->row_bytes));
            else if (!j->back) tinyi_eight_group(j->format, j->from + at, j->row_bytes, 8, j->blocks, j->to + at);
            else
                for (i = 0; i < 8; i++)
                    tinyi_eight_row(j->format, j->from, j->row_bytes, j->n_out, 8 * g + i, 0, j->blocks,
                                    j->to + at + (size_t)(i * j->row_bytes));
        }
}

static tiny_status tinyi_eight_run(tiny_ctx *ctx, int format, const void *from, tiny_idx n_out, tiny_idx k, void *to,
                                   int back)
{
    const tllm_format *f = tllm_format_of(format);
    tinyi_eight_job j;
    size_t row, bytes;
    uintptr_t a, b;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!f || tinyi_eight_of(format) < 0)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "repack: %s (format %d) has no form with eight interleaved rows",
                          f ? f->name : "no such format", format);
    row = k > 0 ? tllm_format_bytes(f, (uint64_t)k) : 0;
    if (n_out < 0 || !row || !tinyi_size_mul(row, (size_t)n_out, &bytes) || bytes > (size_t)TINY_IDX_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "repack: %td rows of %td numbers are not a matrix of %s that this machine can hold", n_out, k,
                          f->name);
    if (!n_out) return TINY_OK;
    if (!from || !to)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "repack: the matrix or the result pointer is NULL");
    a = (uintptr_t)from;
    b = (uintptr_t)to;
    if (a < b + bytes && b < a + bytes)
        return tinyi_fail(ctx, TINY_E_ALIAS, "repack: the result overlaps the matrix");
    j.format = format;
    j.back = back;
    j.from = (const unsigned char *)from;
    j.to = (unsigned char *)to;
    j.n_out = n_out;
    j.blocks = k / f->values;
    j.row_bytes = (tiny_idx)row;
    return tiny_parallel_loose(ctx, bytes < 65536 ? 1 : 0, 0, 0, tinyi_eight_team, &j);
}

TINY_API tiny_status tllm_repack(tiny_ctx *ctx, int format, const void *w, tiny_idx n_out, tiny_idx k, void *to)
{
    return tinyi_eight_run(ctx, format, w, n_out, k, to, 0);
}
TINY_API tiny_status tllm_repack_back(tiny_ctx *ctx, int format, const void *repacked, tiny_idx n_out, tiny_idx k,
                                      void *w)
{
    return tinyi_eight_run(ctx, format, repacked, n_out, k, w, 1);
}

TINY_API int tllm_repack_has(const tiny_ctx *ctx, int format)
{
    if (!tllm_format_of(format) || tinyi_eight_of(format) < 0) return 0;
    if (tinyi_ctx_check(ctx) || ctx->target == TINY_TARGET_REFERENCE) return 1;
    return tinyi_blk_kernels_of(ctx->k)->eight ? 2 : 1;
}
