/* src/llm/lab/vptq/vptq.c - VPTQ: the bytes of a matrix: made, read and fully checked
 *
 * Paper    Y. Liu et al., "VPTQ: extreme low-bit vector post-training quantization for large language models", 2024
 *          (arXiv 2409.17066)
 * Format   see tllm_vptq_open in vptq.h. Codes run along the inputs of one row of vectors, so a product reads them
 *          sequentially.
 *          With one group and no outliers the codes are stored in the original order of inputs; otherwise the order is
 *          stored.
 * Rate     bits = b(k)/v + b(k2)/v over the inputs of groups, b(k0)/v0 over the outliers, b = log2 rounded up; 16 bits
 *          for each number of a book and each permuted input (32 from 65537 inputs on), and 32 for each normalized
 *          input; over rows n
 * Left out books as bf16: halves have 11 bits of precision, bf16 has 8, in the same space */
#include <string.h>
#include "core/box/box_inside.h"
#include "core/state_inside.h"
#include "llm/lab/vptq/vptq.h"
#include "llm/lab/vptq/vptq_inside.h"


static const unsigned char tinyi_vptq_magic[8] = { 'T', 'I', 'N', 'Y', 'V', 'P', 'Q', 0 };

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

TINYI_FN int tinyi_vptq_bits(tiny_idx k)
{
    int bits = 0;
    while (((tiny_idx)1 << bits) < k) bits++;
    return bits;
}

TINYI_FN tiny_idx tinyi_vptq_parts(const tllm_vptq *q) { return q->groups + (q->outliers > 0); }

TINYI_FN tiny_idx tinyi_vptq_unit(const tllm_vptq *q)
{
    tiny_idx a = q->v, b = q->outliers ? q->v0 : q->v;
    while (b) {
        const tiny_idx rest = a % b;
        a = b;
        b = rest;
    }
    return q->v / a * (q->outliers ? q->v0 : q->v);
}

static size_t tinyi_vptq_row_bytes(tiny_idx n, int bits) { return ((size_t)n * (size_t)bits + 31) / 32 * 4; }
static size_t tinyi_vptq_four(size_t n) { return (n + 3) / 4 * 4; }
TINYI_FN size_t tinyi_vptq_scales(const tllm_vptq *q)
{
    return TINYI_VPTQ_HEAD + (q->permuted ? (size_t)q->n * (q->n > 65536 ? 4 : 2) : 0);
}

TINYI_FN void tinyi_vptq_part_of(const tllm_vptq *q, tiny_idx p, tinyi_vptq_part *part)
{
    const tiny_idx apart = q->outliers > 0, g = p - apart, wide = (q->n - q->outliers) / q->groups;
    const int bits = tinyi_vptq_bits(q->k), bits2 = q->k2 ? tinyi_vptq_bits(q->k2) : 0;
    const size_t rows = (size_t)((q->rows + q->v - 1) / q->v), row = tinyi_vptq_row_bytes(wide, bits + bits2),
                 books = 2 * (size_t)q->v * (size_t)(q->k + q->k2);
    const size_t rows0 = apart ? (size_t)((q->rows + q->v0 - 1) / q->v0) : 0,
                 row0 = apart ? tinyi_vptq_row_bytes(q->outliers, tinyi_vptq_bits(q->k0)) : 0;
    const size_t index = tinyi_vptq_four(tinyi_vptq_scales(q) + (q->normalized ? 4 * (size_t)q->n : 0)),
                 book = index + rows0 * row0 + (size_t)q->groups * rows * row;
    const size_t entries0 = apart ? (size_t)1 << tinyi_vptq_bits(q->k0) : 0,
                 entries = ((size_t)1 << bits) + (bits2 ? (size_t)1 << bits2 : 0);
    memset(part, 0, sizeof *part);
    if (g < 0) {
        part->n = q->outliers;
        part->v = q->v0;
        part->k = q->k0;
        part->rows = (tiny_idx)rows0;
        part->bits = tinyi_vptq_bits(q->k0);
        part->row_bytes = row0;
        part->index = index;
        part->book = book;
        return;
    }
    part->at = q->outliers + g * wide;
    part->n = wide;
    part->v = q->v;
    part->k = q->k;
    part->k2 = q->k2;
    part->rows = (tiny_idx)rows;
    part->bits = bits;
    part->bits2 = bits2;
    part->row_bytes = row;
    part->index = index + rows0 * row0 + (size_t)g * rows * row;
    part->book = book + 2 * (size_t)q->v0 * (size_t)q->k0 + (size_t)g * books;
    part->book2 = part->book + 2 * (size_t)q->v * (size_t)q->k;
    part->entries = entries0 + (size_t)g * entries;
}

/* *sum += a b; 0: that is more than can be counted */
static int tinyi_vptq_count(uint64_t *sum, uint64_t a, uint64_t b)
{
    if (b && a > ((uint64_t)TINY_IDX_MAX - *sum) / b) return 0;
    *sum += a * b;
    return 1;
}

TINYI_FN size_t tinyi_vptq_bytes(const tllm_vptq *q)
{
    const uint64_t wide = (uint64_t)((q->n - q->outliers) / q->groups), n = (uint64_t)q->n, rows = (uint64_t)q->rows;
    const uint64_t bits = (uint64_t)(tinyi_vptq_bits(q->k) + (q->k2 ? tinyi_vptq_bits(q->k2) : 0));
    const uint64_t bits0 = q->outliers ? (uint64_t)q->outliers * (uint64_t)tinyi_vptq_bits(q->k0) : 0;
    uint64_t sum = TINYI_VPTQ_HEAD;
    /* places of codes are counted in bits */
    if (wide * bits > SIZE_MAX - 31 || bits0 > SIZE_MAX - 31) return 0;
    if (!tinyi_vptq_count(&sum, n, (q->permuted ? n > 65536 ? 4u : 2u : 0u) + (q->normalized ? 4u : 0u))) return 0;
    sum = (sum + 3) / 4 * 4;
    if (q->outliers &&
        (!tinyi_vptq_count(&sum, (rows + (uint64_t)q->v0 - 1) / (uint64_t)q->v0, (bits0 + 31) / 32 * 4) ||
         !tinyi_vptq_count(&sum, (uint64_t)q->k0, 2 * (uint64_t)q->v0)))
        return 0;
    if (!tinyi_vptq_count(&sum, (rows + (uint64_t)q->v - 1) / (uint64_t)q->v * (uint64_t)q->groups,
                          (wide * bits + 31) / 32 * 4))
        return 0;
    if (!tinyi_vptq_count(&sum, (uint64_t)(q->k + q->k2) * (uint64_t)q->v, 2 * (uint64_t)q->groups)) return 0;
    if (sum > (uint64_t)TINY_IDX_MAX - 64 || sum > SIZE_MAX - 64) return 0;
    return (size_t)((sum + 3) / 4 * 4 + TINYI_VPTQ_TAIL);
}

/* sizes that a matrix may have, from any source */
static tiny_status tinyi_vptq_shape(tiny_ctx *ctx, const char *where, tiny_status as, const tllm_vptq *q)
{
    if (q->rows < 1 || q->n < 1 || q->rows > INT32_MAX || q->n > INT32_MAX)
        return tinyi_fail(ctx, as, "%s: %td rows of %td inputs; the limits are 1 and 2^31 - 1", where, q->rows, q->n);
    if (q->v < 1 || q->v > TLLM_VPTQ_MOST_V || q->v > q->rows)
        return tinyi_fail(ctx, as,
                          "%s: a vector of %td outputs in a matrix of %td; the limits are 1 and %d, and the matrix",
                          where, q->v, q->rows, TLLM_VPTQ_MOST_V);
    if (q->k < 2 || q->k > TLLM_KMEANS_MOST_K)
        return tinyi_fail(ctx, as, "%s: a book of %td vectors; the limits are 2 and %td", where, q->k,
                          TLLM_KMEANS_MOST_K);
    if (q->k2 && (q->k2 < 2 || q->k2 > TLLM_KMEANS_MOST_K))
        return tinyi_fail(ctx, as, "%s: a second book of %td vectors; none, or 2 to %td", where, q->k2,
                          TLLM_KMEANS_MOST_K);
    if (q->k2 && tinyi_vptq_bits(q->k) + tinyi_vptq_bits(q->k2) > 32)
        return tinyi_fail(ctx, as, "%s: codes of %d and %d bits are more than 32", where, tinyi_vptq_bits(q->k),
                          tinyi_vptq_bits(q->k2));
    if (q->groups < 1 || q->outliers < 0 || q->outliers > q->n - 1 || q->groups > q->n - q->outliers ||
        (q->n - q->outliers) % q->groups)
        return tinyi_fail(ctx, as, "%s: %td inputs, %td of them outliers, cannot be divided into %td groups", where,
                          q->n, q->outliers, q->groups);
    if (q->outliers &&
        (q->v0 < 1 || q->v0 > TLLM_VPTQ_MOST_V || q->v0 > q->rows || q->k0 < 2 || q->k0 > TLLM_KMEANS_MOST_K))
        return tinyi_fail(
            ctx, as,
            "%s: the outliers have a book of %td vectors of %td outputs; 2 to %td, of 1 to %d of %td outputs",
            where, q->k0, q->v0, TLLM_KMEANS_MOST_K, TLLM_VPTQ_MOST_V, q->rows);
    if (q->outliers && tinyi_vptq_unit(q) > 64)
        return tinyi_fail(
            ctx, as,
            "%s: vectors of %td and of %td outputs end at a common row only every %td rows; the limit is every 64",
            where, q->v, q->v0, tinyi_vptq_unit(q));
    if (!q->outliers && (q->v0 || q->k0))
        return tinyi_fail(ctx, as,
                          "%s: no input is an outlier, but there is a book of %td vectors of %td outputs for outliers",
                          where, q->k0, q->v0);
    if (q->permuted && q->groups == 1 && !q->outliers)
        return tinyi_fail(ctx, as, "%s: one group without outliers keeps its order, but another is stored", where);
    if (!tinyi_vptq_bytes(q))
        return tinyi_fail(ctx, as == TINY_E_FORMAT ? as : TINY_E_OVERFLOW,
                          "%s: %td rows of %td inputs are more than this machine can address", where, q->rows, q->n);
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_vptq_sizes(tiny_ctx *ctx, const char *where, const tllm_vptq_desc *desc,
                                      tllm_vptq_desc *whole, tiny_idx rows, tiny_idx n, tllm_vptq *q)
{
    double apart;
    memset(q, 0, sizeof *q);
    memset(whole, 0, sizeof *whole);
    if (desc) *whole = *desc;
    if (!whole->v) whole->v = 8;
    if (!whole->k) whole->k = 256;
    if (!whole->v0) whole->v0 = whole->v;
    if (!whole->k0) whole->k0 = whole->k;
    if (!whole->groups) whole->groups = 1;
    if (whole->damp == 0.0f) whole->damp = 0.01f;
    if (!whole->block) whole->block = 128;
    if (!(whole->outliers >= 0.0f && whole->outliers < 100.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %g percent of the inputs as outliers; at least 0, and below 100",
                          where, (double)whole->outliers);
    if (rows < 1 || n < 1 || n > INT32_MAX || rows > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: %td rows of %td inputs; the limits are 1 and 2^31 - 1", where, rows, n);
    if (whole->groups < 1 || whole->groups > n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %td groups of %td inputs", where, whole->groups, n);
    q->rows = rows;
    q->n = n;
    q->v = whole->v;
    q->k = whole->k;
    q->k2 = whole->k2;
    q->groups = whole->groups;
    apart = (double)n * (double)whole->outliers / 100.0;
    q->outliers = (tiny_idx)apart;
    q->outliers += (double)q->outliers < apart;
    if (q->outliers < n) q->outliers += (n - q->outliers) % q->groups;
    if (q->outliers) {
        q->v0 = whole->v0;
        q->k0 = whole->k0;
    }
    q->permuted = !whole->in_order && (q->groups > 1 || q->outliers);
    q->normalized = whole->normalize != 0;
    return tinyi_vptq_shape(ctx, where, TINY_E_ARGUMENT, q);
}

TINY_API tiny_status tllm_vptq_rate(tiny_ctx *ctx, const tllm_vptq_desc *desc, tiny_idx rows, tiny_idx n, double *bits,
                                    size_t *bytes)
{
    tllm_vptq_desc d;
    tllm_vptq q;
    double sum, inside;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_vptq_sizes(ctx, "vptq_rate", desc, &d, rows, n, &q);
    if (st) return st;
    inside = (double)(n - q.outliers);
    sum = (double)rows * inside * (double)(tinyi_vptq_bits(q.k) + (q.k2 ? tinyi_vptq_bits(q.k2) : 0)) / (double)q.v +
          16.0 * (double)q.v * (double)(q.k + q.k2) * (double)q.groups;
    if (q.outliers)
        sum += (double)rows * (double)q.outliers * (double)tinyi_vptq_bits(q.k0) / (double)q.v0 +
               16.0 * (double)q.v0 * (double)q.k0;
    sum += (double)n * ((q.permuted ? n > 65536 ? 32.0 : 16.0 : 0.0) + (q.normalized ? 32.0 : 0.0));
    if (bits) *bits = sum / ((double)rows * (double)n);
    if (bytes) *bytes = tinyi_vptq_bytes(&q);
    return TINY_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_vptq_write_head(const tllm_vptq *q, unsigned char *to)
{
    tinyi_writer w;
    w.at = to;
    w.n = 0;
    tinyi_wr_bytes(&w, tinyi_vptq_magic, sizeof tinyi_vptq_magic);
    tinyi_wr(&w, 1, 4);
    tinyi_wr(&w, (q->permuted ? 1u : 0u) | (q->normalized ? 2u : 0u), 4);
    tinyi_wr(&w, (uint64_t)q->rows, 8);
    tinyi_wr(&w, (uint64_t)q->n, 8);
    tinyi_wr(&w, (uint64_t)q->v, 4);
    tinyi_wr(&w, (uint64_t)q->k, 4);
    tinyi_wr(&w, (uint64_t)q->k2, 4);
    tinyi_wr(&w, (uint64_t)q->groups, 4);
    tinyi_wr(&w, (uint64_t)q->v0, 4);
    tinyi_wr(&w, (uint64_t)q->k0, 4);
    tinyi_wr(&w, (uint64_t)q->outliers, 8);
    tinyi_wr(&w, (uint64_t)tinyi_vptq_bytes(q), 8);
    tinyi_wr(&w, 0, 8);
}

TINYI_FN unsigned char *tinyi_vptq_begin(tiny_ctx *ctx, tllm_vptq *q)
{
    unsigned char *to;
    q->n_bytes = tinyi_vptq_bytes(q);
    q->block = to = (unsigned char *)tinyi_alloc(ctx, q->n_bytes, 1);
    q->bytes = to;
    if (!to) return NULL;
    memset(to, 0, q->n_bytes);
    tinyi_vptq_write_head(q, to);
    return to;
}

TINYI_FN void tinyi_vptq_seal(unsigned char *bytes, size_t n_bytes)
{
    const uint32_t sum = tinyi_crc32(0, bytes, n_bytes - 4);
    tinyi_put_le32(bytes + n_bytes - 4, sum);
}

/* code word j of a row whose bits there are still 0 */
TINYI_FN void tinyi_vptq_put(unsigned char *row, tiny_idx j, int width, uint32_t word)
{
    const size_t bit = (size_t)j * (size_t)width;
    uint64_t v = (uint64_t)word << (bit & 7);
    unsigned char *at = row + (bit >> 3);
    for (; v; v >>= 8, at++) *at = (unsigned char)(*at | (v & 255u));
}

static void tinyi_vptq_put_half(unsigned char *to, float x) { tinyi_put_le16(to, tinyi_f32_to_f16(x)); }

TINYI_FN void tinyi_vptq_fill(const tllm_vptq *q, unsigned char *to, tiny_rng *rng)
{
    const size_t wide = q->n > 65536 ? 4 : 2;
    tinyi_vptq_part part;
    tiny_idx p, r, i;
    tinyi_vptq_write_head(q, to);
    /* a permutation in its place: each takes that of one before it, or its own */
    for (i = 0; q->permuted && i < q->n; i++) {
        const tiny_idx j = (tiny_idx)tiny_rng_below(rng, (uint32_t)i + 1);
        unsigned char *a = to + TINYI_VPTQ_HEAD + (size_t)i * wide, *b = to + TINYI_VPTQ_HEAD + (size_t)j * wide;
        memcpy(a, b, wide);
        tinyi_put_le(b, (uint64_t)i, wide);
    }
    for (i = 0; q->normalized && i < 2 * q->n; i++)
        tinyi_vptq_put_half(to + tinyi_vptq_scales(q) + 2 * (size_t)i,
                            tiny_rng_uniform(rng) + (i < q->n ? 0.5f : -0.5f));
    for (p = 0; p < tinyi_vptq_parts(q); p++) {
        tinyi_vptq_part_of(q, p, &part);
        for (r = 0; r < part.rows; r++)
            for (i = 0; i < part.n; i++) {
                const uint32_t c1 = tiny_rng_below(rng, (uint32_t)part.k),
                               c2 = part.k2 ? tiny_rng_below(rng, (uint32_t)part.k2) : 0;
                tinyi_vptq_put(to + part.index + (size_t)r * part.row_bytes, i, part.bits + part.bits2,
                               part.k2 ? c2 << part.bits | c1 : c1);
            }
        for (i = 0; i < part.v * (part.k + part.k2); i++)
            tinyi_vptq_put_half(to + part.book + 2 * (size_t)i, tiny_rng_normal(rng));
    }
    tinyi_vptq_seal(to, tinyi_vptq_bytes(q));
}

TINY_API tiny_status tllm_vptq_random(tiny_ctx *ctx, const tllm_vptq_desc *desc, tiny_idx rows, tiny_idx n,
                                      uint64_t seed, tllm_vptq *out)
{
    tllm_vptq_desc d;
    tllm_vptq q;
    tiny_rng rng = tiny_rng_make(seed, 0);
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "vptq_random: a result pointer is needed");
    st = tinyi_vptq_sizes(ctx, "vptq_random", desc, &d, rows, n, &q);
    if (st) return st;
    if (!tinyi_vptq_begin(ctx, &q)) return tiny_ctx_status(ctx);
    tinyi_vptq_fill(&q, (unsigned char *)q.block, &rng);
    *out = q;
    return TINY_OK;
}

TINY_API void tllm_vptq_close(tiny_ctx *ctx, tllm_vptq *q)
{
    if (!q) return;
    tiny_free(ctx, q->block);
    memset(q, 0, sizeof *q);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

TINYI_FN tiny_status tinyi_vptq_head(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes,
                                     tllm_vptq *q)
{
    tinyi_cursor c = tinyi_cursor_make(bytes, n_bytes);
    const unsigned char *p = NULL;
    uint32_t version = 0, flags = 0, v = 0, k = 0, k2 = 0, groups = 0, v0 = 0, k0 = 0;
    uint64_t rows = 0, n = 0, outliers = 0, all = 0, none = 0;
    tiny_idx i;
    tiny_status st;
    memset(q, 0, sizeof *q);
    if (!bytes || n_bytes < TINYI_VPTQ_HEAD + TINYI_VPTQ_TAIL || !tinyi_rd_bytes(&c, 8, &p) ||
        memcmp(p, tinyi_vptq_magic, 8))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %zu bytes that are not a matrix of vectors", where,
                          bytes ? n_bytes : 0);
    (void)(tinyi_rd_u32(&c, &version) && tinyi_rd_u32(&c, &flags) && tinyi_rd_u64(&c, &rows) && tinyi_rd_u64(&c, &n) &&
           tinyi_rd_u32(&c, &v) && tinyi_rd_u32(&c, &k) && tinyi_rd_u32(&c, &k2) && tinyi_rd_u32(&c, &groups) &&
           tinyi_rd_u32(&c, &v0) && tinyi_rd_u32(&c, &k0) && tinyi_rd_u64(&c, &outliers) && tinyi_rd_u64(&c, &all) &&
           tinyi_rd_u64(&c, &none));
    if (version != 1 || flags > 3 || none)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: version %u with flags %u; version 1 with flags up to 3 is known",
                          where, (unsigned)version, (unsigned)flags);
    if (rows > INT32_MAX || n > INT32_MAX || outliers > INT32_MAX || v > INT32_MAX || k > INT32_MAX || k2 > INT32_MAX ||
        groups > INT32_MAX || v0 > INT32_MAX || k0 > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: %llu rows of %llu inputs with books of %u, %u and %u: all sizes are below 2^31", where,
                          (unsigned long long)rows, (unsigned long long)n, (unsigned)k, (unsigned)k2, (unsigned)k0);
    q->rows = (tiny_idx)rows;
    q->n = (tiny_idx)n;
    q->v = (tiny_idx)v;
    q->k = (tiny_idx)k;
    q->k2 = (tiny_idx)k2;
    q->groups = (tiny_idx)groups;
    q->v0 = (tiny_idx)v0;
    q->k0 = (tiny_idx)k0;
    q->outliers = (tiny_idx)outliers;
    q->permuted = (int)(flags & 1);
    q->normalized = (int)(flags >> 1 & 1);
    st = tinyi_vptq_shape(ctx, where, TINY_E_FORMAT, q);
    if (st) return st;
    if (all != n_bytes || tinyi_vptq_bytes(q) != n_bytes)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: %td rows of %td inputs are %zu bytes, but the header says %llu, and there are %zu",
                          where, q->rows, q->n, tinyi_vptq_bytes(q), (unsigned long long)all, n_bytes);
    q->bytes = bytes;
    q->n_bytes = n_bytes;
    for (i = 0; q->permuted && i < q->n; i++)
        if (tinyi_vptq_input(q, i) >= q->n || tinyi_vptq_input(q, i) < 0)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: place %td is input %td of %td", where, i, tinyi_vptq_input(q, i),
                              q->n);
    return TINY_OK;
}

static tiny_status tinyi_vptq_order(tiny_ctx *ctx, const char *where, const tllm_vptq *q)
{
    unsigned char *seen;
    tiny_idx i, twice = -1;
    if (!q->permuted) return TINY_OK;
    seen = (unsigned char *)tinyi_alloc(ctx, (size_t)q->n / 8 + 1, 1);
    if (!seen) return tiny_ctx_status(ctx);
    memset(seen, 0, (size_t)q->n / 8 + 1);
    for (i = 0; i < q->n && twice < 0; i++) {
        const tiny_idx o = tinyi_vptq_input(q, i);
        if (seen[o / 8] >> o % 8 & 1) twice = i;
        seen[o / 8] = (unsigned char)(seen[o / 8] | 1 << o % 8);
    }
    tiny_free(ctx, seen);
    if (twice >= 0)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: place %td is input %td, which occurs before", where, twice,
                          tinyi_vptq_input(q, twice));
    return TINY_OK;
}

static tiny_status tinyi_vptq_codes(tiny_ctx *ctx, const char *where, const tllm_vptq *q, const tinyi_vptq_part *part)
{
    const unsigned width = (unsigned)(part->bits + part->bits2),
                   spare = (unsigned)(8 * part->row_bytes - (size_t)part->n * width);
    const uint32_t low = tinyi_vptq_mask(part->bits);
    /* every word is a code */
    const int all = part->k == (tiny_idx)1 << part->bits && (!part->k2 || part->k2 == (tiny_idx)1 << part->bits2);
    tiny_idx r, i;
    for (r = 0; r < part->rows; r++) {
        const unsigned char *row = q->bytes + part->index + (size_t)r * part->row_bytes;
        if (spare && tinyi_le32(row + part->row_bytes - 4) >> (32 - spare))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: bits are set after the codes of row %td of vectors", where, r);
        for (i = 0; i < part->n && !all; i++) {
            const uint32_t word = tinyi_vptq_word(row, (size_t)i, width, tinyi_vptq_mask((int)width)), c1 = word & low,
                           c2 = part->k2 ? word >> part->bits : 0;
            if ((tiny_idx)c1 >= part->k || (part->k2 && (tiny_idx)c2 >= part->k2))
                return tinyi_fail(ctx, TINY_E_FORMAT,
                                  "%s: the code in row %td of vectors, place %td is %u, %u of books of %td and %td",
                                  where, r, part->at + i, (unsigned)c1, (unsigned)c2, part->k, part->k2);
        }
    }
    for (i = 0; i < part->v * (part->k + part->k2); i++)
        if ((q->bytes[part->book + 2 * (size_t)i + 1] & 0x7cu) == 0x7cu)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: number %td of the books for place %td on is not finite", where,
                              i, part->at);
    return TINY_OK;
}

/* What an operation takes, or a file, which is a box around that. */
static const tinyi_box_kind tinyi_vptq_box = {
    "vptq", "matrix of vectors", 2, "TINYVPQ", 0, 0, 0, TINYI_VPTQ_HEAD + TINYI_VPTQ_TAIL
};

static tiny_status tinyi_vptq_read(tiny_ctx *ctx, const char *where, const unsigned char *bytes, size_t n_bytes,
                                   tllm_vptq *q)
{
    tinyi_vptq_part part;
    tinyi_cursor body;
    size_t at, from;
    tiny_idx p, i;
    int plain;
    tiny_status st = tinyi_box_body(ctx, where, &tinyi_vptq_box, bytes, n_bytes, 0, &body, &plain);
    if (st) return st;
    bytes = body.at;
    n_bytes = body.left;
    st = tinyi_vptq_head(ctx, where, bytes, n_bytes, q);
    if (st) return st;
    if (tinyi_crc32(0, bytes, n_bytes - 4) != tinyi_le32(bytes + n_bytes - 4))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: damaged or truncated: the CRC-32 does not match", where);
    st = tinyi_vptq_order(ctx, where, q);
    for (i = 0; !st && q->normalized && i < 2 * q->n; i++)
        if ((bytes[tinyi_vptq_scales(q) + 2 * (size_t)i + 1] & 0x7cu) == 0x7cu)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the %s of place %td is not finite", where,
                              i < q->n ? "scale" : "bias", i % q->n);
    for (p = 0; !st && p < tinyi_vptq_parts(q); p++) {
        tinyi_vptq_part_of(q, p, &part);
        st = tinyi_vptq_codes(ctx, where, q, &part);
    }
    if (st) return st;
    tinyi_vptq_part_of(q, 0, &part);
    from = tinyi_vptq_scales(q) + (q->normalized ? 4 * (size_t)q->n : 0);
    for (at = from; at < part.index; at++)
        if (bytes[at]) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: padding byte %zu is not 0", where, at);
    tinyi_vptq_part_of(q, tinyi_vptq_parts(q) - 1, &part);
    for (at = part.book + 2 * (size_t)part.v * (size_t)(part.k + part.k2); at < n_bytes - 4; at++)
        if (bytes[at]) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: padding byte %zu is not 0", where, at);
    return TINY_OK;
}

TINY_API tiny_status tllm_vptq_open(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_vptq *out)
{
    tllm_vptq q;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "vptq_open: a result pointer is needed");
    st = tinyi_vptq_read(ctx, "vptq_open", (const unsigned char *)bytes, n_bytes, &q);
    if (!st) *out = q;
    return st;
}

TINY_API tiny_status tllm_vptq_load(tiny_ctx *ctx, const char *path, tllm_vptq *out)
{
    tiny_file f;
    tllm_vptq q;
    void *block = NULL;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!path || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vptq_load: a path and a result pointer are needed");
    st = tiny_file_open(ctx, path, &f);     /* all of it is copied, and what was copied is checked */
    if (!st && !(block = tinyi_alloc(ctx, f.n_bytes, 1))) st = tiny_ctx_status(ctx);
    if (!st && f.n_bytes) memcpy(block, f.bytes, f.n_bytes);
    if (!st) st = tinyi_vptq_read(ctx, path, (const unsigned char *)block, f.n_bytes, &q);
    tiny_file_close(ctx, &f);
    if (st) tiny_free(ctx, block);
    else {
        q.block = block;
        *out = q;
    }
    return st;
}

/* a matrix that a caller hands in: its sizes, and that they are those of its bytes */
static tiny_status tinyi_vptq_given(tiny_ctx *ctx, const char *where, const tllm_vptq *q)
{
    tiny_status st;
    if (!q || !q->bytes) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the matrix is NULL", where);
    st = tinyi_vptq_shape(ctx, where, TINY_E_ARGUMENT, q);
    if (!st && tinyi_vptq_bytes(q) != q->n_bytes)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %td rows of %td inputs are %zu bytes, not %zu", where, q->rows, q->n,
                        tinyi_vptq_bytes(q), q->n_bytes);
    return st;
}

TINY_API tiny_status tllm_vptq_save(tiny_ctx *ctx, const tllm_vptq *q, const char *path)
{
    tinyi_box box;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st && !path) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "vptq_save: a path is needed");
    if (!st) st = tinyi_vptq_given(ctx, "vptq_save", q);
    if (st) return st;
    st = tinyi_box_open(ctx, &box, path, &tinyi_vptq_box, q->n_bytes);
    if (!st) st = tinyi_box_add(ctx, &box, q->bytes, q->n_bytes);
    return tinyi_box_done(ctx, &box, st);
}

/* ---- back to numbers --------------------------------------------------------------------------------------------- */

TINY_API uint32_t tllm_vptq_code(const tllm_vptq *q, tiny_idx row, tiny_idx input)
{
    tinyi_vptq_part part;
    tiny_idx at = 0, p;
    if (!q || !q->bytes || row < 0 || row >= q->rows || input < 0 || input >= q->n) return UINT32_MAX;
    while (at < q->n - 1 && tinyi_vptq_input(q, at) != input) at++;
    p = at < q->outliers ? 0 : (at - q->outliers) / ((q->n - q->outliers) / q->groups) + (q->outliers > 0);
    tinyi_vptq_part_of(q, p, &part);
    return tinyi_vptq_word(q->bytes + part.index + (size_t)(row / part.v) * part.row_bytes, (size_t)(at - part.at),
                           (unsigned)(part.bits + part.bits2), tinyi_vptq_mask(part.bits + part.bits2));
}

TINY_API size_t tllm_vptq_book(const tllm_vptq *q, tiny_idx group, int second, float *to)
{
    tinyi_vptq_part part;
    size_t n, i, at;
    if (!q || !q->bytes || group < -1 || group >= q->groups || (group < 0 && (!q->outliers || second)) || second < 0 ||
        second > 1)
        return 0;
    tinyi_vptq_part_of(q, group + (q->outliers > 0), &part);
    n = (size_t)part.v * (size_t)(second ? part.k2 : part.k);
    at = second ? part.book2 : part.book;
    for (i = 0; to && i < n; i++) to[i] = tinyi_f16_to_f32(tinyi_le16(q->bytes + at + 2 * i));
    return n;
}

typedef struct tinyi_vptq_out {
    const tllm_vptq *q;
    float *to;
    const float *book;                      /* all of them, as they are */
    size_t first;                           /* where in the bytes */
    tiny_idx row0, rows, ld;
} tinyi_vptq_out;

TINY_REF_BEGIN
/* rows of one vector, row s of them, in a part */
static void tinyi_vptq_expand_row(const tinyi_vptq_out *o, const tinyi_vptq_part *part, tiny_idx s)
{
    const unsigned char *row = o->q->bytes + part->index + (size_t)s * part->row_bytes;
    const unsigned width = (unsigned)(part->bits + part->bits2);
    const float *c = o->book + (part->book - o->first) / 2,
                *d = part->k2 ? o->book + (part->book2 - o->first) / 2 : NULL;
    const tiny_idx j0 = TINYI_MAX(o->row0 - s * part->v, 0), j1 = TINYI_MIN(o->row0 + o->rows - s * part->v, part->v);
    tiny_idx i, j;
    for (i = 0; i < part->n; i++) {
        const uint32_t word = tinyi_vptq_word(row, (size_t)i, width, tinyi_vptq_mask((int)width));
        const tiny_idx c1 = (tiny_idx)(word & tinyi_vptq_mask(part->bits)), c2 = d ? (tiny_idx)(word >> part->bits) : 0;
        const float scale = tinyi_vptq_scale(o->q, part->at + i), bias = tinyi_vptq_bias(o->q, part->at + i);
        float *to = o->to + (s * part->v - o->row0) * o->ld + tinyi_vptq_input(o->q, part->at + i);
        for (j = j0; j < j1; j++) {
            float x = c1 < part->k ? c[c1 * part->v + j] : 0.0f;
            if (d && c2 < part->k2) x += d[c2 * part->v + j];
            if (o->q->normalized) {
                x *= scale;
                x += bias;
            }
            to[j * o->ld] = x;
        }
    }
}
TINY_REF_END

static void tinyi_vptq_expand_team(tiny_team *team, void *arg)
{
    const tinyi_vptq_out *o = (const tinyi_vptq_out *)arg;
    const tiny_idx unit = tinyi_vptq_unit(o->q), first = o->row0 / unit, last = (o->row0 + o->rows - 1) / unit;
    tinyi_vptq_part part;
    tiny_idx u, u1, p, s;
    while (tiny_take(team, last - first + 1, 1, &u, &u1))
        for (; u < u1; u++)
            for (p = 0; p < tinyi_vptq_parts(o->q); p++) {
                tinyi_vptq_part_of(o->q, p, &part);
                for (s = (first + u) * unit / part.v; s < (first + u + 1) * unit / part.v && s < part.rows; s++)
                    if (s * part.v < o->row0 + o->rows && (s + 1) * part.v > o->row0)
                        tinyi_vptq_expand_row(o, &part, s);
            }
}

TINY_API tiny_status tllm_vptq_expand(tiny_ctx *ctx, const tllm_vptq *q, tiny_idx row0, tiny_idx rows, float *to,
                                      tiny_idx ld)
{
    tinyi_vptq_out o;
    tinyi_vptq_part part;
    size_t end, i;
    float *book;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_vptq_given(ctx, "vptq_expand", q);
    if (st) return st;
    if (!to || row0 < 0 || rows < 0 || rows > q->rows - row0 || ld < q->n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "vptq_expand: rows %td to %td of %td, %td apart: they must exist, be at least %td apart, and "
                          "have a result pointer",
                          row0, row0 + rows, q->rows, ld, q->n);
    if (!rows) return TINY_OK;
    tinyi_vptq_part_of(q, 0, &part);
    o.first = part.book;
    tinyi_vptq_part_of(q, tinyi_vptq_parts(q) - 1, &part);
    end = part.book + 2 * (size_t)part.v * (size_t)(part.k + part.k2);
    book = (float *)tinyi_alloc(ctx, (end - o.first) / 2, sizeof *book);
    if (!book) return tiny_ctx_status(ctx);
    for (i = 0; i < (end - o.first) / 2; i++) book[i] = tinyi_f16_to_f32(tinyi_le16(q->bytes + o.first + 2 * i));
    o.q = q;
    o.to = to;
    o.book = book;
    o.row0 = row0;
    o.rows = rows;
    o.ld = ld;
    st = tiny_parallel_loose(ctx, rows * q->n < 65536 ? 1 : 0, 0, 0, tinyi_vptq_expand_team, &o);
    tiny_free(ctx, book);
    return st;
}

