/* src/llm/lab/kvcodec/kvtables.c - tables of a cache codec: counting, writing, reading
 *
 * Layout   all little endian
 *          0   8 bytes "tinykvta"; u32 version (1); u32 layers; u32 levels, bit l: differences of level l (1..3) are
 *              there
 *          20  u32 width of each part of each layer; u16 steps for each level that is there, layer and part
 *          then for each layer, part with a width, and channel: the anchors' table, and that of the differences for
 *          each level a table: u8 lo, u8 hi, the first and the last symbol that was counted; u16 cdf[lo + 1] ..
 *          cdf[hi]. The formula of llm/lab/kvcodec/arith_inside.h gives the values outside.
 *          end u32 CRC-32 of all bytes before it
 * The name of tables (their id) is the XXH64 of these bytes. */
#include "llm/lab/kvcodec/kv_inside.h"
#include "core/box/box_inside.h"
#include <string.h>

#define TINYI_KVT_VERSION 1
#define TINYI_KVT_HEAD 20
static const char tinyi_kvt_magic[8] = { 't', 'i', 'n', 'y', 'k', 'v', 't', 'a' };

TINY_API int tllm_kvcodec_bins(tiny_idx n_layer, tiny_idx layer, int part, int level)
{
    const int value = part == TLLM_KV_VALUE;
    if (layer < 0 || layer >= n_layer || n_layer > TINYI_KVC_MOST_LAYERS || part < 0 || part >= TLLM_KV_PARTS ||
        level < 1 || level > TLLM_KVCODEC_LEVELS)
        return 0;
    if (level == TINYI_KVC_PLAIN) return TINYI_KVC_ANCHOR;
    if (level == 3) return 32;
    if (n_layer == 32 && value) return level == 1 ? (layer < 2 ? 16 : 12) : (layer < 2 ? 32 : 16);
    if (n_layer == 32) return level == 1 ? (layer < 20 ? 16 : 12) : (layer < 10 ? 32 : 16);
    if (n_layer == 80 && level == 2) return layer < (value ? 20 : 40) ? 32 : 16;
    if (level == 2) return layer * 3 < n_layer ? 32 : 16;
    return layer * 3 < (value ? n_layer : 2 * n_layer) ? 16 : 12;
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_kvc_shape_check(tiny_ctx *ctx, tiny_idx n_layer, const int32_t *width)
{
    tiny_idx i;
    if (n_layer < 1 || n_layer > TINYI_KVC_MOST_LAYERS || !width)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: %td layers: 1 to %d with their widths are needed",
                          n_layer, TINYI_KVC_MOST_LAYERS);
    for (i = 0; i < n_layer * TLLM_KV_PARTS; i++)
        if (width[i] < 0 || width[i] > TINYI_KVC_MOST_WIDTH)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "cache codec: layer %td: a row of %ld numbers: the limits are 0 and %d",
                              i / TLLM_KV_PARTS, (long)width[i], TINYI_KVC_MOST_WIDTH);
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_kvc_kv_check(tiny_ctx *ctx, const tllm_kv *kv)
{
    if (!kv) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: the keys and values are NULL");
    return tinyi_kvc_shape_check(ctx, kv->n_layer, kv->width);
}

TINYI_FN tiny_status tinyi_kvc_width_check(tiny_ctx *ctx, const tinyi_kvc_shape *s, tiny_idx n_layer,
                                           const int32_t *width)
{
    tiny_idx i;
    if (s->n_layer != n_layer)
        return tinyi_fail(ctx, TINY_E_SHAPE, "cache codec: %td layers, but the tables or the cache are for %td",
                          n_layer, s->n_layer);
    for (i = 0; i < n_layer * TLLM_KV_PARTS; i++)
        if (s->width[i] != width[i])
            return tinyi_fail(ctx, TINY_E_SHAPE,
                              "cache codec: layer %td: a row of %ld numbers, but the tables or the cache are for %ld",
                              i / TLLM_KV_PARTS, (long)width[i], (long)s->width[i]);
    return TINY_OK;
}

/* Fills at and n_value from the rest. 0: more than can be counted. */
static int tinyi_kvc_shape_places(tinyi_kvc_shape *s)
{
    tiny_idx layer;
    int kind, part;
    s->n_value = 0;
    for (kind = 0; kind < 4; kind++)
        for (layer = 0; layer < s->n_layer; layer++)
            for (part = 0; part < TLLM_KV_PARTS; part++) {
                const size_t i = tinyi_kvc_part(s, kind, layer, part);
                size_t n;
                s->at[i] = s->n_value;
                if (kind && !(s->levels >> kind & 1)) continue;
                if (!tinyi_size_mul((size_t)s->width[tinyi_kvc_part(s, 0, layer, part)], (size_t)s->bins[i] + 1, &n) ||
                    !tinyi_size_add(s->n_value, n, &s->n_value))
                    return 0;
            }
    return 1;
}

TINYI_FN tiny_status tinyi_kvc_shape_open(tiny_ctx *ctx, tiny_idx n_layer, const int32_t *width, const int32_t *bins,
                                          unsigned levels, size_t each, tinyi_kvc_shape *s, void **values)
{
    const size_t n = (size_t)n_layer * TLLM_KV_PARTS;
    tiny_status st = tinyi_kvc_shape_check(ctx, n_layer, width);
    size_t bytes = 0;
    tiny_idx i;
    int kind;
    memset(s, 0, sizeof *s);
    *values = NULL;
    if (st) return st;
    s->n_layer = n_layer;
    s->levels = levels & 14u;
    /* the shape is small: 4096 layers make 600 KB */
    s->at = (size_t *)tinyi_alloc(ctx, n, 4 * sizeof *s->at + 5 * sizeof *s->width);
    if (!s->at) return tiny_ctx_status(ctx);
    s->width = (int32_t *)(void *)(s->at + 4 * n);
    s->bins = s->width + n;
    memcpy(s->width, width, n * sizeof *width);
    for (kind = 0; kind < 4; kind++)
        for (i = 0; i < (tiny_idx)n; i++) {
            const int32_t b = !kind  ? TINYI_KVC_ANCHOR
                              : bins ? bins[(kind - 1) * (tiny_idx)n + i]
                                     : tllm_kvcodec_bins(n_layer, i / TLLM_KV_PARTS, (int)(i % TLLM_KV_PARTS), kind);
            s->bins[kind * (tiny_idx)n + i] = b;
            if ((b < 4 || b > 256) && width[i] && (s->levels >> kind & 1))
                st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                                "cache codec: layer %td, level %d: %ld steps: the limits are 4 and 256",
                                i / TLLM_KV_PARTS, kind, (long)b);
        }
    if (!st && (!tinyi_kvc_shape_places(s) || !tinyi_size_mul(s->n_value, each, &bytes)))
        st = tinyi_fail(ctx, TINY_E_OVERFLOW,
                        "cache codec: tables of %td layers are larger than this machine can address", n_layer);
    if (!st) {
        *values = tiny_alloc(ctx, bytes);
        if (!*values) st = tiny_ctx_status(ctx);
    }
    if (st) {
        tiny_free(ctx, s->at);
        memset(s, 0, sizeof *s);
    } else memset(*values, 0, bytes);
    return st;
}

/* ---- profiles --------------------------------------------------------------------------------------------------- */

TINY_API tiny_status tllm_kvcodec_profile_open(tiny_ctx *ctx, const tllm_kv *kv, const int32_t *bins,
                                               tllm_kvcodec_profile **out)
{
    tllm_kvcodec_profile *p;
    void *count = NULL;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: the result pointer is NULL");
    st = tinyi_kvc_kv_check(ctx, kv);
    if (st) return st;
    p = (tllm_kvcodec_profile *)tiny_alloc(ctx, sizeof *p);
    if (!p) return tiny_ctx_status(ctx);
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    st = tinyi_kvc_shape_open(ctx, kv->n_layer, kv->width, bins, 14u, sizeof *p->count, &p->shape, &count);
    p->count = (uint32_t *)count;
    if (st) tllm_kvcodec_profile_close(p);
    else *out = p;
    return st;
}

TINY_API void tllm_kvcodec_profile_close(tllm_kvcodec_profile *p)
{
    if (!p) return;
    tiny_free(p->ctx, p->shape.at);
    tiny_free(p->ctx, p->count);
    tiny_free(p->ctx, p);
}

TINYI_FN tiny_status tinyi_kvc_count(tllm_kvcodec_profile *p, const tllm_kv *kv, tiny_idx first, tiny_idx n, int all)
{
    const tinyi_kvc_shape *s = &p->shape;
    tinyi_kvc_job job;
    tiny_idx widest = 1, i;
    size_t bytes;
    int level;
    tiny_status st = tinyi_kvc_kv_check(p->ctx, kv);
    if (!st) st = tinyi_kvc_width_check(p->ctx, s, kv->n_layer, kv->width);
    if (st) return st;
    if (first < 0 || n < 1 || n > TINYI_KVC_MOST_TOKENS || !kv->read)
        return tinyi_fail(
            p->ctx, TINY_E_ARGUMENT,
            "cache codec: %td tokens from index %td on: 1 to %d at once and a function that reads them are needed", n,
            first, TINYI_KVC_MOST_TOKENS);
    if (p->n_token + (uint64_t)n > UINT32_MAX)
        return tinyi_fail(p->ctx, TINY_E_OVERFLOW, "cache codec: a profile counts at most %lu tokens",
                          (unsigned long)UINT32_MAX);
    for (i = 0; i < s->n_layer * TLLM_KV_PARTS; i++) widest = TINYI_MAX(widest, (tiny_idx)s->width[i]);
    memset(&job, 0, sizeof job);
    if (!tinyi_size_mul(tinyi_kvc_lanes((size_t)widest) + 2, (size_t)n, &bytes))
        return tinyi_fail(p->ctx, TINY_E_OVERFLOW, "cache codec: %td tokens are more than this machine can address", n);
    job.scale = (uint16_t *)tiny_alloc(p->ctx, bytes);
    if (!job.scale) return tiny_ctx_status(p->ctx);
    job.symbol = (unsigned char *)(job.scale + n);
    job.kv = kv;
    job.first = first;
    job.n = n;
    for (i = 0; i < s->n_layer * TLLM_KV_PARTS && !st; i++)
        for (level = 1; level <= TINYI_KVC_PLAIN && s->width[i] && !st; level++) {
            if (level < TINYI_KVC_PLAIN ? !(s->levels >> level & 1) : !all) continue;
            tinyi_kvc_job_of(&job, s, i / TLLM_KV_PARTS, (int)(i % TLLM_KV_PARTS), level);
            if (!all || level == TINYI_KVC_PLAIN) job.count[0] = p->count + s->at[i];
            if (level < TINYI_KVC_PLAIN)
                job.count[1] = p->count + s->at[(size_t)level * (size_t)s->n_layer * TLLM_KV_PARTS + (size_t)i];
            st = tinyi_kvc_write_part(p->ctx, &job);
        }
    tiny_free(p->ctx, job.scale);
    if (!st) p->n_token += (uint64_t)n;
    return st;
}

TINY_API tiny_status tllm_kvcodec_profile_add(tllm_kvcodec_profile *p, const tllm_kv *kv, tiny_idx first, tiny_idx n)
{
    return p ? tinyi_kvc_count(p, kv, first, n, 1) : TINY_E_ARGUMENT;
}

TINY_API tiny_status tllm_kvcodec_profile_tables(const tllm_kvcodec_profile *p, tllm_kvcodec_tables **out)
{
    if (out) *out = NULL;
    if (!p) return TINY_E_ARGUMENT;
    if (!out) return tinyi_fail(p->ctx, TINY_E_ARGUMENT, "cache codec: the result pointer is NULL");
    if (!p->n_token)
        return tinyi_fail(p->ctx, TINY_E_ARGUMENT,
                          "cache codec: no token was counted, so no tables can be made");
    return tinyi_kvc_tables_of(p->ctx, &p->shape, p->count, out);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_kvt_open(tiny_ctx *ctx, tiny_idx n_layer, const int32_t *width, const int32_t *bins,
                                  unsigned levels, tllm_kvcodec_tables **out)
{
    tllm_kvcodec_tables *t = (tllm_kvcodec_tables *)tiny_alloc(ctx, sizeof *t);
    void *cdf = NULL;
    tiny_status st;
    *out = NULL;
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    st = tinyi_kvc_shape_open(ctx, n_layer, width, bins, levels, sizeof *t->cdf, &t->shape, &cdf);
    t->cdf = (uint16_t *)cdf;
    if (st) tllm_kvcodec_tables_close(ctx, t);
    else *out = t;
    return st;
}

TINY_API void tllm_kvcodec_tables_close(tiny_ctx *ctx, tllm_kvcodec_tables *t)
{
    if (!t) return;
    tiny_free(ctx, t->shape.at);
    tiny_free(ctx, t->cdf);
    tiny_free(ctx, t);
}
TINY_API uint64_t tllm_kvcodec_tables_id(const tllm_kvcodec_tables *t) { return t ? t->id : 0; }

static void tinyi_kvt_write_table(tinyi_writer *w, const uint16_t *cdf, int n)
{
    int lo = 0, hi = n - 1, i;
    while (lo < n - 1 && cdf[lo + 1] == lo + 1) lo++;
    while (hi > lo && cdf[hi] == 65535 - n + hi) hi--;
    tinyi_wr(w, (uint64_t)lo, 1);
    tinyi_wr(w, (uint64_t)hi, 1);
    for (i = lo + 1; i <= hi; i++) tinyi_wr(w, cdf[i], 2);
}

static void tinyi_kvt_write(tinyi_writer *w, const tllm_kvcodec_tables *t)
{
    const tinyi_kvc_shape *s = &t->shape;
    const tiny_idx n = s->n_layer * TLLM_KV_PARTS;
    tiny_idx i, c;
    int kind;
    tinyi_wr_bytes(w, tinyi_kvt_magic, 8);
    tinyi_wr(w, TINYI_KVT_VERSION, 4);
    tinyi_wr(w, (uint64_t)s->n_layer, 4);
    tinyi_wr(w, s->levels, 4);
    for (i = 0; i < n; i++) tinyi_wr(w, (uint32_t)s->width[i], 4);
    for (kind = 1; kind < 4; kind++)
        for (i = 0; i < n && (s->levels >> kind & 1); i++) tinyi_wr(w, (uint32_t)s->bins[kind * n + i], 2);
    for (i = 0; i < n; i++)
        for (c = 0; c < s->width[i]; c++)
            for (kind = 0; kind < 4; kind++) {
                const tiny_idx at = kind * n + i;
                if (!kind || (s->levels >> kind & 1))
                    tinyi_kvt_write_table(w, t->cdf + s->at[at] + (size_t)c * ((size_t)s->bins[at] + 1), s->bins[at]);
            }
}

TINY_API tiny_status tllm_kvcodec_tables_pack(tiny_ctx *ctx, const tllm_kvcodec_tables *t, void **bytes, size_t *n)
{
    tinyi_writer w;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!bytes || !n || !t)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "cache codec: tables and two result pointers are needed");
    *bytes = NULL;
    *n = 0;
    memset(&w, 0, sizeof w);
    tinyi_kvt_write(&w, t);
    w.at = (unsigned char *)tiny_alloc(ctx, w.n + 4);
    if (!w.at) return tiny_ctx_status(ctx);
    w.n = 0;
    tinyi_kvt_write(&w, t);
    tinyi_wr(&w, tinyi_crc32(0, w.at, w.n), 4);
    *bytes = w.at;
    *n = w.n;
    return TINY_OK;
}

static tiny_status tinyi_kvt_name(tiny_ctx *ctx, tllm_kvcodec_tables *t)
{
    void *bytes;
    size_t n;
    tiny_status st = tllm_kvcodec_tables_pack(ctx, t, &bytes, &n);
    if (st) return st;
    t->id = tinyi_hash_of(bytes, n - 4);
    tiny_free(ctx, bytes);
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_kvc_tables_of(tiny_ctx *ctx, const tinyi_kvc_shape *s, const uint32_t *count,
                                         tllm_kvcodec_tables **out)
{
    const tiny_idx n = s->n_layer * TLLM_KV_PARTS;
    tllm_kvcodec_tables *t;
    tiny_idx i, c;
    int kind;
    tiny_status st = tinyi_kvt_open(ctx, s->n_layer, s->width, s->bins + n, s->levels, &t);
    if (st) return st;
    for (kind = 0; kind < 4; kind++)
        for (i = 0; i < n; i++)
            for (c = 0; c < s->width[i] && (!kind || (s->levels >> kind & 1)); c++) {
                const int bins = s->bins[kind * n + i];
                const size_t at = s->at[kind * n + i] + (size_t)c * ((size_t)bins + 1);
                tinyi_arith_table(t->cdf + at, count + at, bins);
            }
    st = tinyi_kvt_name(ctx, t);
    if (st) tllm_kvcodec_tables_close(ctx, t);
    else *out = t;
    return st;
}

/* ---- reading: each count is compared with what the bytes could hold before memory is taken ----------------------- */

static tiny_status tinyi_kvt_read_table(tiny_ctx *ctx, const char *where, tinyi_cursor *c, uint16_t *cdf, int n)
{
    uint8_t lo = 0, hi = 0;
    int i;
    if (!tinyi_rd_u8(c, &lo) || !tinyi_rd_u8(c, &hi) || lo > hi || hi >= n)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: a table from symbol %d to %d of %d", where, lo, hi, n);
    for (i = 0; i <= lo; i++) cdf[i] = (uint16_t)i;
    for (; i <= hi; i++)
        if (!tinyi_rd_u16(c, &cdf[i])) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: a table is truncated", where);
    for (; i <= n; i++) cdf[i] = (uint16_t)(65535 - n + i);
    if (tinyi_arith_valid(cdf, n)) return TINY_OK;
    for (i = lo; cdf[i] < cdf[i + 1]; i++) {}
    return tinyi_fail(ctx, TINY_E_FORMAT, "%s: a table does not rise from %d to %d at symbol %d: it has no slot", where,
                      cdf[i], cdf[i + 1], i);
}

TINYI_FN tiny_status tinyi_kvc_tables_read(tiny_ctx *ctx, const char *where, tinyi_cursor *c, tllm_kvcodec_tables **out)
{
    const unsigned char *start = c->at, *magic, *skip;
    tinyi_cursor body = *c, widths, steps[3];
    tllm_kvcodec_tables *t = NULL;
    uint32_t version = 0, n_layer = 0, levels = 0, v = 0, sum = 0;
    uint64_t channels = 0, least;
    size_t n, i, k, kinds = 1;
    int32_t *dims;
    tiny_status st;
    *out = NULL;
    if (body.left < TINYI_KVT_HEAD + 4 || !tinyi_rd_bytes(&body, 8, &magic) || memcmp(magic, tinyi_kvt_magic, 8))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: these are not the tables of a cache codec", where);
    (void)(tinyi_rd_u32(&body, &version) && tinyi_rd_u32(&body, &n_layer) && tinyi_rd_u32(&body, &levels));
    if (version != TINYI_KVT_VERSION)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tables of version %u; only version %d is supported", where,
                          (unsigned)version, TINYI_KVT_VERSION);
    if (n_layer < 1 || n_layer > TINYI_KVC_MOST_LAYERS || (levels & ~14u))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: tables of %u layers and levels %x are invalid", where,
                          (unsigned)n_layer, (unsigned)levels);
    n = (size_t)n_layer * TLLM_KV_PARTS;
    widths = body;
    for (k = 1; k < 4; k++) kinds += levels >> k & 1;
    if (!tinyi_rd_bytes(&body, 4 * n, &skip))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the tables end within their widths", where);
    for (k = 0; k < 3; k++) {
        steps[k] = body;
        if ((levels >> (k + 1) & 1) && !tinyi_rd_bytes(&body, 2 * n, &skip))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the tables end within their steps", where);
    }
    dims = (int32_t *)tinyi_alloc(ctx, 4 * n, sizeof *dims);
    if (!dims) return tiny_ctx_status(ctx);
    for (i = 0; i < n; i++) {
        (void)tinyi_rd_u32(&widths, &v);
        dims[i] = v > TINYI_KVC_MOST_WIDTH ? -1 : (int32_t)v;
        channels += v;
    }
    for (k = 0; k < 3; k++)
        for (i = 0; i < n; i++) {
            uint16_t b = 4;
            if (levels >> (k + 1) & 1) (void)tinyi_rd_u16(&steps[k], &b);
            dims[(k + 1) * n + i] = b;
        }
    least = 2 * kinds;
    if (!tinyi_count_fits(&body, channels, least))
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: tables of %llu channels do not fit into %zu bytes", where,
                        (unsigned long long)channels, body.left);
    else st = tinyi_kvt_open(ctx, (tiny_idx)n_layer, dims, dims + n, levels, &t);
    if (st == TINY_E_ARGUMENT) st = TINY_E_FORMAT;     /* the sentence stays */
    for (i = 0; i < n && !st; i++) {
        tiny_idx ch;
        for (ch = 0; ch < t->shape.width[i] && !st; ch++)
            for (k = 0; k < 4 && !st; k++) {
                const int b = t->shape.bins[k * n + i];
                if (!k || (levels >> k & 1))
                    st = tinyi_kvt_read_table(ctx, where, &body,
                                              t->cdf + t->shape.at[k * n + i] + (size_t)ch * ((size_t)b + 1), b);
            }
    }
    tiny_free(ctx, dims);
    if (!st) {
        n = (size_t)(body.at - start);
        if (!tinyi_rd_u32(&body, &sum) || sum != tinyi_crc32(0, start, n))
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the tables are damaged or truncated: their CRC-32 does not match",
                            where);
        else st = tinyi_kvt_name(ctx, t);   /* of what they say, not of how it was written */
    }
    if (st) tllm_kvcodec_tables_close(ctx, t);
    else {
        *c = body;
        *out = t;
    }
    return st;
}

/* tables as they stand in a chunk, or a file, which is a box around them */
static const tinyi_box_kind tinyi_kvt_box = { "cache-tables",    "tables of a cache codec", 2, "tinykvta", 0, 0, 0,
                                              TINYI_KVT_HEAD + 4 };

static tiny_status tinyi_kvt_read(tiny_ctx *ctx, const char *where, const void *bytes, size_t n,
                                  tllm_kvcodec_tables **out)
{
    tinyi_cursor c;
    int plain;
    tiny_status st = tinyi_box_body(ctx, where, &tinyi_kvt_box, bytes, n, 0, &c, &plain);
    if (!st) st = tinyi_kvc_tables_read(ctx, where, &c, out);
    if (!st && c.left) {
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: %zu bytes follow the tables", where, c.left);
        tllm_kvcodec_tables_close(ctx, *out);
        *out = NULL;
    }
    return st;
}

TINY_API tiny_status tllm_kvcodec_tables_open(tiny_ctx *ctx, const void *bytes, size_t n, tllm_kvcodec_tables **out)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!bytes || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: bytes of tables and a result pointer are needed");
    return tinyi_kvt_read(ctx, "cache codec", bytes, n, out);
}

TINY_API tiny_status tllm_kvcodec_tables_load(tiny_ctx *ctx, const char *path, tllm_kvcodec_tables **out)
{
    tiny_file f;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: a path of tables and a result pointer are needed");
    st = tiny_file_copy(ctx, path, &f);
    if (!st) st = tinyi_kvt_read(ctx, path, f.bytes, f.n_bytes, out);
    tiny_file_close(ctx, &f);
    return st;
}

TINY_API tiny_status tllm_kvcodec_tables_save(tiny_ctx *ctx, const tllm_kvcodec_tables *t, const char *path)
{
    tinyi_box box;
    void *bytes;
    size_t n;
    tiny_status st = tllm_kvcodec_tables_pack(ctx, t, &bytes, &n);
    if (st) return st;
    st = tinyi_box_open(ctx, &box, path, &tinyi_kvt_box, n);
    if (!st) st = tinyi_box_add(ctx, &box, bytes, n);
    st = tinyi_box_done(ctx, &box, st);
    tiny_free(ctx, bytes);
    return st;
}
