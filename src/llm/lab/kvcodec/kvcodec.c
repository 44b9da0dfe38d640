/* src/llm/lab/kvcodec/kvcodec.c - CacheGen: keys and values as differences to anchors, quantized by rows, coded by
 * channels
 * Paper    Y. Liu et al., "CacheGen: KV cache compression and streaming for fast large language model serving", SIGCOMM
 *          2024 (arXiv 2310.07240), 5.1 and 5.2.
 * Formula  groups of 10 tokens, the first is the anchor. A row x (a token, a layer, keys or values) becomes q = round(x
 *          / s), s = mx / M, M = bins / 2 - 1, x^ = q s; mx is the largest |x| rounded up to a half, so that nothing is
 *          clamped. Anchors: 256 bins of the row itself; other tokens: bins of the level, of the difference to the
 *          DECODED anchor. Symbols q + M of a channel, token by token, are one stream of llm/lab/kvcodec/arith_inside.h
 *          with the channel's own tables, one for anchors and one for differences.
 * Layout   of a chunk, all little endian
 *          0   8 bytes "tinykvch"; u32 version (1); u32 flags: 1 lengths have 32 bits, 2 tables are inside
 *          16  u32 level; u32 number; u64 first token; u32 tokens; u32 layers
 *          40  u64 id of the tables; u64 bytes of the tables inside; u32 width of each part of each layer
 *          then the tables; a half for each part and token; the bytes of each stream, u16 or u32; the streams
 *          end u32 CRC-32 of all bytes before it
 * Cost     reading: for each symbol one step of the coder, one product and one sum; threads take eight channels at a
 *          time, then tokens
 * Error    |x - x^| <= s / 2 and 4 units of x: anchors directly, others relative to the decoded anchor. Every step is
 *          one correctly rounded operation, so all targets write the same bytes and read the same numbers.
 * Left out the choice of bins by width in the paper's units (0.5, 1, 1.5), which it does not define: bins are counts,
 *          as in its code. */
#include "llm/lab/kvcodec/kv_inside.h"
#include "core/half_inside.h"
#include "math/table_inside.h"
#include "math/elem.h"
#include "llm/token/parts_inside.h"
#include <stdio.h>
#include <string.h>

#define TINYI_KVC_VERSION 1
#define TINYI_KVC_HEAD 56
#define TINYI_KVC_WIDE 1u
#define TINYI_KVC_ALONE 2u
static const char tinyi_kvc_magic[8] = { 't', 'i', 'n', 'y', 'k', 'v', 'c', 'h' };
static const char *const tinyi_kvc_part_name[TLLM_KV_PARTS] = { "key", "value", "indexer key" };

/* ---- rows ------------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
/* the nearest integer, of two the even one; |x| < 2^22 */
static float tinyi_kvc_nearest(float x)
{
    const float shift = 12582912.0f;        /* 1.5 * 2^23: its unit is 1 */
    volatile float y = x + shift;
    return y - shift;
}
static float tinyi_kvc_largest_ref(const float *x, tiny_idx n)
{
    float most = 0.0f;
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const float a = x[i] < 0.0f ? -x[i] : x[i];
        if (!(a <= 3.402823466e38f)) return INFINITY;
        if (a > most) most = a;
    }
    return most;
}
static void tinyi_kvc_quantize_ref(int8_t *q, const float *x, tiny_idx n, float step)
{
    tiny_idx i;
    for (i = 0; i < n; i++) q[i] = (int8_t)tinyi_kvc_nearest(x[i] / step);
}
static void tinyi_kvc_dequantize_ref(float *y, const int8_t *q, tiny_idx n, float step)
{
    tiny_idx i;
    for (i = 0; i < n; i++) y[i] = (float)q[i] * step;
}
static void tinyi_kvc_combine_ref(float *y, const float *a, const float *b, tiny_idx n, int minus)
{
    tiny_idx i;
    for (i = 0; i < n; i++) y[i] = minus ? a[i] - b[i] : a[i] + b[i];
}
/* of a row whose largest number is scale (a half) at these bins */
static float tinyi_kvc_step(uint16_t scale, int bins) { return tinyi_f16_to_f32(scale) / (float)(bins / 2 - 1); }
TINY_REF_END

/* infinite where a number is not finite */
static float tinyi_kvc_largest(tiny_team *team, const float *x, tiny_idx n, int plain)
{
    float low, high;
    if (plain) return tinyi_kvc_largest_ref(x, n);
    if (!TINYI_K(team, attention_finite_f32)(x, n, 1, n)) return INFINITY;
    high = TINYI_K(team, max_f32)(x, (size_t)n);
    low = TINYI_K(team, min_f32)(x, (size_t)n);
    high = high > -low ? high : -low;
    return high > 0.0f ? high : 0.0f;       /* not -0 */
}

/* the least half that is not below x >= 0; infinite beyond 65504 */
static uint16_t tinyi_kvc_half_up(float x)
{
    const uint16_t h = tinyi_f32_to_f16(x);
    return (uint16_t)(h < 0x7c00u && tinyi_f16_to_f32(h) < x ? h + 1u : h);
}

static void tinyi_kvc_combine(tiny_team *team, float *y, const float *a, const float *b, tiny_idx n, int minus,
                              int plain)
{
    if (plain) tinyi_kvc_combine_ref(y, a, b, n, minus);
    else TINYI_K(team, binary_f32)(minus ? TINYI_BINARY_SUB : TINYI_BINARY_ADD, y, a, b, (size_t)n, 1, 1);
}

static void tinyi_kvc_dequantize(tiny_team *team, float *y, const int8_t *q, tiny_idx n, uint16_t scale, int bins,
                                 int plain)
{
    const float step = tinyi_kvc_step(scale, bins);
    if (plain) tinyi_kvc_dequantize_ref(y, q, n, step);
    else TINYI_K(team, dequantize_i8)(y, q, (size_t)n, step);
}

/* 0: the row cannot be coded */
static int tinyi_kvc_quantize(tiny_team *team, int8_t *q, const float *x, tiny_idx n, uint16_t *scale, int bins,
                              int plain)
{
    const uint16_t h = tinyi_kvc_half_up(tinyi_kvc_largest(team, x, n, plain));
    if (h >= 0x7c00u) return 0;
    *scale = h;
    if (!h) memset(q, 0, (size_t)n);
    else if (plain) tinyi_kvc_quantize_ref(q, x, n, tinyi_kvc_step(h, bins));
    else TINYI_K(team, quantize_i8)(q, x, (size_t)n, tinyi_kvc_step(h, bins));
    return 1;
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

TINYI_FN void tinyi_kvc_job_of(tinyi_kvc_job *j, const tinyi_kvc_shape *s, tiny_idx layer, int part, int level)
{
    j->layer = layer;
    j->part = part;
    j->width = s->width[tinyi_kvc_part(s, 0, layer, part)];
    j->period = level == TINYI_KVC_PLAIN ? 1 : TINYI_KVC_GROUP;
    j->bins[0] = TINYI_KVC_ANCHOR;
    j->bins[1] = level == TINYI_KVC_PLAIN ? TINYI_KVC_ANCHOR : s->bins[tinyi_kvc_part(s, level, layer, part)];
    j->cdf[0] = j->cdf[1] = NULL;
    j->count[0] = j->count[1] = NULL;
}

/* the same, with tables */
static void tinyi_kvc_job_tables(tinyi_kvc_job *j, const tllm_kvcodec_tables *t, tiny_idx layer, int part, int level)
{
    const tinyi_kvc_shape *s = &t->shape;
    tinyi_kvc_job_of(j, s, layer, part, level);
    j->cdf[0] = t->cdf + s->at[tinyi_kvc_part(s, 0, layer, part)];
    j->cdf[1] = level == TINYI_KVC_PLAIN ? j->cdf[0] : t->cdf + s->at[tinyi_kvc_part(s, level, layer, part)];
}

/* the tables of a channel */
static void tinyi_kvc_channel(const tinyi_kvc_job *j, tiny_idx c, const uint16_t *cdf[2])
{
    cdf[0] = j->cdf[0] + c * (j->bins[0] + 1);
    cdf[1] = j->cdf[1] + c * (j->bins[1] + 1);
}

#define TINYI_KVC_ROUND(n) (((size_t)(n) + 15) & ~(size_t)15)      /* numbers of a row in a thread's memory */
static size_t tinyi_kvc_own(const tinyi_kvc_job *j)
{
    const size_t rows = TINYI_KVC_ROUND(j->width) * (2 * sizeof(float) + 1);
    return TINYI_MAX(rows, TINYI_ARITH_LANES * 2 * sizeof(tinyi_arith_model));
}

static void tinyi_kvc_group_in(tiny_team *team, const tinyi_kvc_job *j, tiny_idx t0, tiny_idx t1)
{
    float *x = (float *)team->own, *anchor = x + TINYI_KVC_ROUND(j->width);
    int8_t *q = (int8_t *)(anchor + TINYI_KVC_ROUND(j->width));
    tiny_idx t, c;
    for (t = t0; t < t1; t++) {
        const int rest = t % (tiny_idx)j->period != 0;
        j->kv->read(j->kv->user, j->layer, j->part, j->first + t, x);
        if (rest) tinyi_kvc_combine(team, x, x, anchor, j->width, 1, j->plain);
        if (!tinyi_kvc_quantize(team, q, x, j->width, &j->scale[t], j->bins[rest], j->plain)) {
            char says[200];
            (void)snprintf(says, sizeof says,
                           "cache codec: layer %td: the %s of token %td has a number that is not finite, or beyond "
                           "65504, or that far from its anchor",
                           j->layer, tinyi_kvc_part_name[j->part], j->first + t);
            tiny_team_fail(team, TINY_E_NUMERIC, says);
            memset(q, 0, (size_t)j->width);
            j->scale[t] = 0;
        }
        for (c = 0; c < j->width; c++)
            tinyi_kvc_symbol(j, c)[t * TINYI_ARITH_LANES] = (unsigned char)(q[c] + j->bins[rest] / 2 - 1);
        if (!rest && j->period > 1) tinyi_kvc_dequantize(team, anchor, q, j->width, j->scale[t], j->bins[0], j->plain);
    }
}

static void tinyi_kvc_channel_in(const tinyi_kvc_job *j, tiny_idx c)
{
    const unsigned char *symbol = tinyi_kvc_symbol(j, c);
    const uint16_t *cdf[2];
    tiny_idx t;
    if (j->cdf[0]) {
        unsigned char *stream = j->stream + (size_t)c * j->room;
        tinyi_kvc_channel(j, c, cdf);
        if (j->plain) {
            memset(stream, 0, j->room);
            j->length[c] = tinyi_arith_encode_ref(cdf, j->bins, j->period, symbol, TINYI_ARITH_LANES, (size_t)j->n,
                                                  stream, j->room);
        } else j->length[c] = tinyi_arith_encode(cdf, j->period, symbol, TINYI_ARITH_LANES, (size_t)j->n, stream);
    }
    for (t = 0; t < j->n && (j->count[0] || j->count[1]); t++) {
        const int rest = t % (tiny_idx)j->period != 0;
        if (j->count[rest]) j->count[rest][c * (j->bins[rest] + 1) + symbol[t * TINYI_ARITH_LANES]]++;
    }
}

static void tinyi_kvc_write_member(tiny_team *team, void *arg)
{
    tinyi_kvc_job *j = (tinyi_kvc_job *)arg;
    tiny_idx i0, i1;
    while (tiny_take(team, (j->n + TINYI_KVC_GROUP - 1) / TINYI_KVC_GROUP, 1, &i0, &i1))
        tinyi_kvc_group_in(team, j, i0 * TINYI_KVC_GROUP, TINYI_MIN(i1 * TINYI_KVC_GROUP, j->n));
    tiny_barrier(team);
    while (tiny_take(team, j->width, TINYI_ARITH_LANES, &i0, &i1))
        for (; i0 < i1; i0++) tinyi_kvc_channel_in(j, i0);
}

static void tinyi_kvc_group_out(tiny_team *team, const tinyi_kvc_job *j, tiny_idx t0, tiny_idx t1)
{
    float *x = (float *)team->own, *anchor = x + TINYI_KVC_ROUND(j->width);
    int8_t *q = (int8_t *)(anchor + TINYI_KVC_ROUND(j->width));
    tiny_idx t, c;
    for (t = t0; t < t1; t++) {
        const int rest = t % (tiny_idx)j->period != 0, m = j->bins[rest] / 2 - 1;
        float *y = rest ? x : anchor;
        /* tables have one slot more than rows use */
        for (c = 0; c < j->width; c++)
            q[c] = (int8_t)(TINYI_MIN((int)tinyi_kvc_symbol(j, c)[t * TINYI_ARITH_LANES], 2 * m) - m);
        tinyi_kvc_dequantize(team, y, q, j->width, j->scale[t], j->bins[rest], j->plain);
        if (rest) {
            tinyi_kvc_combine(team, x, x, anchor, j->width, 0, j->plain);
            /* so was every number that was coded; a half holds no more */
            for (c = 0; c < j->width; c++) x[c] = TINYI_MIN(TINYI_MAX(x[c], -65504.0f), 65504.0f);
        }
        j->kv->write(j->kv->user, j->layer, j->part, j->first + t, y);
    }
}

/* at most TINYI_ARITH_LANES channels from c on, side by side; model: two for each */
static void tinyi_kvc_channels_out(const tinyi_kvc_job *j, tinyi_arith_model *model, tiny_idx c, tiny_idx n)
{
    tinyi_arith_in in[TINYI_ARITH_LANES];
    const uint16_t *cdf[2];
    tiny_idx i;
    for (i = 0; i < n; i++, model += 2) {
        in[i].bytes = j->bytes + j->place[c + i];
        in[i].n_bytes = j->place[c + i + 1] - j->place[c + i];
        in[i].model[0] = model;
        in[i].model[1] = model + (j->period > 1);
        tinyi_kvc_channel(j, c + i, cdf);
        if (j->plain)
            tinyi_arith_decode_ref(cdf, j->bins, j->period, tinyi_kvc_symbol(j, c + i), TINYI_ARITH_LANES, (size_t)j->n,
                                   in[i].bytes, in[i].n_bytes);
        else {
            tinyi_arith_model_set(model, cdf[0], j->bins[0]);
            if (j->period > 1) tinyi_arith_model_set(model + 1, cdf[1], j->bins[1]);
        }
    }
    if (!j->plain) tinyi_arith_decode(in, (int)n, j->period, tinyi_kvc_symbol(j, c), TINYI_ARITH_LANES, (size_t)j->n);
}

static void tinyi_kvc_read_member(tiny_team *team, void *arg)
{
    const tinyi_kvc_job *j = (const tinyi_kvc_job *)arg;
    const tiny_idx lanes = TINYI_ARITH_LANES;
    tiny_idx i0, i1;
    while (tiny_take(team, (j->width + lanes - 1) / lanes, 1, &i0, &i1))
        for (; i0 < i1; i0++)
            tinyi_kvc_channels_out(j, (tinyi_arith_model *)team->own, i0 * lanes,
                                   TINYI_MIN(j->width - i0 * lanes, lanes));
    tiny_barrier(team);
    while (tiny_take(team, (j->n + TINYI_KVC_GROUP - 1) / TINYI_KVC_GROUP, 1, &i0, &i1))
        tinyi_kvc_group_out(team, j, i0 * TINYI_KVC_GROUP, TINYI_MIN(i1 * TINYI_KVC_GROUP, j->n));
}

/* Small parts are not worth a region of many threads. */
static tiny_status tinyi_kvc_run(tiny_ctx *ctx, tinyi_kvc_job *j, tiny_team_fn fn)
{
    j->plain = ctx->target == TINY_TARGET_REFERENCE;
    return tiny_parallel(ctx, j->plain || j->n * j->width < 4096 ? 1 : ctx->n_threads, 0, tinyi_kvc_own(j), fn, j);
}
TINYI_FN tiny_status tinyi_kvc_write_part(tiny_ctx *ctx, tinyi_kvc_job *j)
{
    return tinyi_kvc_run(ctx, j, tinyi_kvc_write_member);
}
TINYI_FN tiny_status tinyi_kvc_read_part(tiny_ctx *ctx, tinyi_kvc_job *j)
{
    return tinyi_kvc_run(ctx, j, tinyi_kvc_read_member);
}

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

typedef struct tinyi_kvc_size { size_t n_part, n_stream, widest; } tinyi_kvc_size;
static tinyi_kvc_size tinyi_kvc_size_of(const int32_t *width, tiny_idx n_layer)
{
    tinyi_kvc_size s;
    tiny_idx i;
    memset(&s, 0, sizeof s);
    for (i = 0; i < n_layer * TLLM_KV_PARTS; i++) {
        s.n_part += width[i] > 0;
        s.n_stream += (size_t)width[i];
        s.widest = TINYI_MAX(s.widest, (size_t)width[i]);
    }
    return s;
}

/* what encode holds besides its result; one block each */
typedef struct tinyi_kvc_pen {
    unsigned char *symbol, *stream;         /* of one part */
    uint16_t *scale;                        /* (parts, tokens) */
    size_t *length;                         /* (widest) */
    uint32_t *lengths;                      /* (streams) */
    size_t room;
    tllm_bytes payload;
} tinyi_kvc_pen;

static tiny_status tinyi_kvc_pen_open(tiny_ctx *ctx, tinyi_kvc_pen *p, const tinyi_kvc_size *s, size_t n)
{
    size_t a, b, c;
    memset(p, 0, sizeof *p);
    p->room = tinyi_arith_most(n);
    if (!tinyi_size_mul(tinyi_kvc_lanes(s->widest), n, &a) || !tinyi_size_mul(s->widest, p->room, &b) ||
        !tinyi_size_mul(s->n_part, n, &c))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "cache codec: %zu tokens with rows of %zu numbers are more than this machine can address", n,
                          s->widest);
    p->symbol = (unsigned char *)tiny_alloc(ctx, a);
    p->stream = (unsigned char *)tiny_alloc(ctx, b);
    p->scale = (uint16_t *)tinyi_alloc(ctx, c, sizeof *p->scale);
    p->length = (size_t *)tinyi_alloc(ctx, s->widest, sizeof *p->length);
    p->lengths = (uint32_t *)tinyi_alloc(ctx, s->n_stream, sizeof *p->lengths);
    return p->symbol && p->stream && p->scale && p->length && p->lengths ? TINY_OK : tiny_ctx_status(ctx);
}
static void tinyi_kvc_pen_close(tiny_ctx *ctx, tinyi_kvc_pen *p)
{
    tiny_free(ctx, p->symbol);
    tiny_free(ctx, p->stream);
    tiny_free(ctx, p->scale);
    tiny_free(ctx, p->length);
    tiny_free(ctx, p->lengths);
    tllm_bytes_free(ctx, &p->payload);
}

/* all parts to scales, lengths and payload; *wide: some length needs 32 bits */
static tiny_status tinyi_kvc_streams(tiny_ctx *ctx, const tllm_kvcodec_tables *t, const tllm_kv *kv,
                                     const tllm_kvcodec_desc *d, int level, tinyi_kvc_pen *p, int *wide)
{
    size_t at_part = 0, at_stream = 0;
    tinyi_kvc_job job;
    tiny_status st = TINY_OK;
    tiny_idx i, c;
    memset(&job, 0, sizeof job);
    job.kv = kv;
    job.first = d->first;
    job.n = d->n_token;
    job.symbol = p->symbol;
    job.stream = p->stream;
    job.room = p->room;
    job.length = p->length;
    *wide = 0;
    for (i = 0; i < kv->n_layer * TLLM_KV_PARTS && !st; i++) {
        if (!kv->width[i]) continue;
        tinyi_kvc_job_tables(&job, t, i / TLLM_KV_PARTS, (int)(i % TLLM_KV_PARTS), level);
        job.scale = p->scale + at_part++ * (size_t)d->n_token;
        st = tinyi_kvc_write_part(ctx, &job);
        for (c = 0; c < job.width && !st; c++) {
            const size_t n = p->length[c];
            st = tinyi_bytes_reserve(ctx, &p->payload, n);
            if (st) break;
            memcpy(p->payload.at + p->payload.n, p->stream + (size_t)c * p->room, n);
            p->payload.n += n;
            p->lengths[at_stream++] = (uint32_t)n;
            *wide |= n > 65535;
        }
    }
    return st;
}

/* tables of these tokens alone, for one level */
static tiny_status tinyi_kvc_tables_alone(tiny_ctx *ctx, const tllm_kvcodec_tables *like, const tllm_kv *kv,
                                          const tllm_kvcodec_desc *d, int level, tllm_kvcodec_tables **out)
{
    tllm_kvcodec_profile p;
    void *count = NULL;
    tiny_status st;
    memset(&p, 0, sizeof p);
    p.ctx = ctx;
    st = tinyi_kvc_shape_open(ctx, kv->n_layer, kv->width, like ? like->shape.bins + kv->n_layer * TLLM_KV_PARTS : NULL,
                              level < TINYI_KVC_PLAIN ? 1u << level : 0u, sizeof *p.count, &p.shape, &count);
    p.count = (uint32_t *)count;
    if (!st) st = tinyi_kvc_count(&p, kv, d->first, d->n_token, level == TINYI_KVC_PLAIN);
    if (!st) st = tinyi_kvc_tables_of(ctx, &p.shape, p.count, out);
    tiny_free(ctx, p.shape.at);
    tiny_free(ctx, p.count);
    return st;
}

static tiny_status tinyi_kvc_level_check(tiny_ctx *ctx, const tllm_kvcodec_tables *t, int level)
{
    if (level < TINYI_KVC_PLAIN && !(t->shape.levels >> level & 1))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: the tables have no level %d", level);
    return TINY_OK;
}

static void tinyi_kvc_put(tinyi_writer *w, const tllm_kv *kv, const tllm_kvcodec_desc *d, int level, uint64_t id,
                          const void *inside, size_t n_inside, const tinyi_kvc_pen *p, const tinyi_kvc_size *s,
                          int wide)
{
    size_t i;
    tinyi_wr_bytes(w, tinyi_kvc_magic, 8);
    tinyi_wr(w, TINYI_KVC_VERSION, 4);
    tinyi_wr(w, (wide ? TINYI_KVC_WIDE : 0u) | (n_inside ? TINYI_KVC_ALONE : 0u), 4);
    tinyi_wr(w, (uint64_t)level, 4);
    tinyi_wr(w, d->chunk, 4);
    tinyi_wr(w, (uint64_t)d->first, 8);
    tinyi_wr(w, (uint64_t)d->n_token, 4);
    tinyi_wr(w, (uint64_t)kv->n_layer, 4);
    tinyi_wr(w, id, 8);
    tinyi_wr(w, n_inside, 8);
    for (i = 0; i < (size_t)kv->n_layer * TLLM_KV_PARTS; i++) tinyi_wr(w, (uint32_t)kv->width[i], 4);
    tinyi_wr_bytes(w, inside, n_inside);
    for (i = 0; i < s->n_part * (size_t)d->n_token; i++) tinyi_wr(w, p->scale[i], 2);
    for (i = 0; i < s->n_stream; i++) tinyi_wr(w, p->lengths[i], wide ? 4 : 2);
    tinyi_wr_bytes(w, p->payload.at, p->payload.n);
}

TINY_API tiny_status tllm_kvcodec_encode(tiny_ctx *ctx, const tllm_kvcodec_tables *tables, const tllm_kv *kv,
                                         const tllm_kvcodec_desc *desc, void **bytes, size_t *n)
{
    tllm_kvcodec_tables *own = NULL;
    tinyi_kvc_size size;
    tinyi_kvc_pen pen;
    tinyi_writer w;
    void *inside = NULL;
    size_t n_inside = 0;
    int level, wide = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (bytes) *bytes = NULL;
    if (st) return st;
    if (!bytes || !n || !desc)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "cache codec: a description and two result pointers are needed");
    *n = 0;
    level = desc->level ? desc->level : 2;
    st = tinyi_kvc_kv_check(ctx, kv);
    if (st) return st;
    if (level < 1 || level > TLLM_KVCODEC_LEVELS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: level %d: the limits are 1 and %d", desc->level,
                          TLLM_KVCODEC_LEVELS);
    if (desc->n_token < 1 || desc->n_token > TINYI_KVC_MOST_TOKENS || desc->first < 0 ||
        desc->first > TINY_IDX_MAX / 2 - TINYI_KVC_MOST_TOKENS || !kv->read)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "cache codec: %td tokens from index %td on: a chunk needs 1 to %d tokens and a function that reads them",
            desc->n_token, desc->first, TINYI_KVC_MOST_TOKENS);
    if (!tables && !desc->alone)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "cache codec: tables are NULL, and the chunk is not to contain its own");
    if (tables) st = tinyi_kvc_width_check(ctx, &tables->shape, kv->n_layer, kv->width);
    if (!st && tables) st = tinyi_kvc_level_check(ctx, tables, level);
    if (st) return st;
    size = tinyi_kvc_size_of(kv->width, kv->n_layer);
    if (!size.n_part) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: no layer has keys or values");
    if (desc->alone) {
        st = tinyi_kvc_tables_alone(ctx, tables, kv, desc, level, &own);
        if (!st) st = tllm_kvcodec_tables_pack(ctx, own, &inside, &n_inside);
        tables = own;
    }
    memset(&pen, 0, sizeof pen);
    if (!st) st = tinyi_kvc_pen_open(ctx, &pen, &size, (size_t)desc->n_token);
    if (!st) st = tinyi_kvc_streams(ctx, tables, kv, desc, level, &pen, &wide);
    memset(&w, 0, sizeof w);
    if (!st) {
        tinyi_kvc_put(&w, kv, desc, level, tables->id, inside, n_inside, &pen, &size, wide);
        w.at = (unsigned char *)tiny_alloc(ctx, w.n + 4);
        if (!w.at) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        w.n = 0;
        tinyi_kvc_put(&w, kv, desc, level, tables->id, inside, n_inside, &pen, &size, wide);
        tinyi_wr(&w, tinyi_crc32(0, w.at, w.n), 4);
        *bytes = w.at;
        *n = w.n;
    }
    tinyi_kvc_pen_close(ctx, &pen);
    tllm_kvcodec_tables_close(ctx, own);
    tiny_free(ctx, inside);
    return st;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

typedef struct tinyi_kvc_open {             /* a chunk that was looked through: where its pieces lie */
    tllm_kvcodec_about about;
    tinyi_cursor width, tables, scale, length;
    const unsigned char *stream;
    int wide;
} tinyi_kvc_open;

/* the next length of a stream; that it is there was seen before */
static uint32_t tinyi_kvc_length(tinyi_cursor *c, int wide)
{
    uint32_t v = 0;
    uint16_t u = 0;
    if (wide) (void)tinyi_rd_u32(c, &v);
    else if (tinyi_rd_u16(c, &u)) v = u;
    return v;
}

static tiny_status tinyi_kvc_look(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tinyi_kvc_open *o)
{
    tinyi_cursor c = tinyi_cursor_make(bytes, n_bytes), at, end;
    tllm_kvcodec_about *a = &o->about;
    const unsigned char *p;
    uint32_t version = 0, flags = 0, level = 0, tokens = 0, layers = 0, v = 0, sum = 0;
    uint64_t first = 0, inside = 0, channels = 0, parts = 0, total = 0, need, i;
    memset(o, 0, sizeof *o);
    if (!bytes || n_bytes < TINYI_KVC_HEAD + 4 || !tinyi_rd_bytes(&c, 8, &p) || memcmp(p, tinyi_kvc_magic, 8))
        return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: %zu bytes that are not a chunk", bytes ? n_bytes : 0);
    (void)(tinyi_rd_u32(&c, &version) && tinyi_rd_u32(&c, &flags) && tinyi_rd_u32(&c, &level) &&
           tinyi_rd_u32(&c, &a->chunk) && tinyi_rd_u64(&c, &first) && tinyi_rd_u32(&c, &tokens) &&
           tinyi_rd_u32(&c, &layers) && tinyi_rd_u64(&c, &a->tables) && tinyi_rd_u64(&c, &inside));
    if (version != TINYI_KVC_VERSION)
        return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: a chunk of version %u; only version %d is supported",
                          (unsigned)version, TINYI_KVC_VERSION);
    end = tinyi_cursor_make((const unsigned char *)bytes + n_bytes - 4, 4);
    (void)tinyi_rd_u32(&end, &sum);
    if (sum != tinyi_crc32(0, (const unsigned char *)bytes, n_bytes - 4))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "cache codec: the chunk is damaged or truncated: its CRC-32 does not match");
    c.left -= 4;
    if (flags & ~(TINYI_KVC_WIDE | TINYI_KVC_ALONE))
        return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: a chunk with the unknown flags %x", (unsigned)flags);
    if (level < 1 || level > TLLM_KVCODEC_LEVELS)
        return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: a chunk of level %u: the limits are 1 and %d",
                          (unsigned)level, TLLM_KVCODEC_LEVELS);
    if (tokens < 1 || tokens > TINYI_KVC_MOST_TOKENS || first > (uint64_t)(PTRDIFF_MAX / 2 - TINYI_KVC_MOST_TOKENS))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "cache codec: a chunk of %u tokens from index %llu on: the limits are 1 and %d",
                          (unsigned)tokens, (unsigned long long)first, TINYI_KVC_MOST_TOKENS);
    if (layers < 1 || layers > TINYI_KVC_MOST_LAYERS)
        return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: a chunk of %u layers: the limits are 1 and %d",
                          (unsigned)layers, TINYI_KVC_MOST_LAYERS);
    o->width = c;
    if (!tinyi_rd_bytes(&c, (size_t)layers * TLLM_KV_PARTS * 4, &p))
        return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: the chunk ends within its widths");
    at = o->width;
    for (i = 0; i < (uint64_t)layers * TLLM_KV_PARTS; i++) {
        (void)tinyi_rd_u32(&at, &v);
        if (v > TINYI_KVC_MOST_WIDTH)
            return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: layer %u of the chunk has rows of %lu numbers",
                              (unsigned)(i / TLLM_KV_PARTS), (unsigned long)v);
        channels += v;
        parts += v > 0;
    }
    if (inside > c.left || (inside > 0) != ((flags & TINYI_KVC_ALONE) != 0))
        return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: %llu bytes of tables in a chunk of %zu",
                          (unsigned long long)inside, n_bytes);
    o->tables = tinyi_cursor_make(c.at, (size_t)inside);
    (void)tinyi_rd_bytes(&c, (size_t)inside, &p);
    need = parts * tokens * 2;              /* below 2^14 2^20 2 */
    if (!parts || !tinyi_count_fits(&c, need, 1))
        return tinyi_fail(
            ctx, TINY_E_FORMAT,
            "cache codec: the scales of %llu parts and %u tokens take more than the %zu bytes that are left",
            (unsigned long long)parts, (unsigned)tokens, c.left);
    o->scale = c;
    (void)tinyi_rd_bytes(&c, (size_t)need, &p);
    o->wide = (flags & TINYI_KVC_WIDE) != 0;
    if (!tinyi_count_fits(&c, channels, o->wide ? 4 : 2))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "cache codec: the lengths of %llu streams take more than the %zu bytes that are left",
                          (unsigned long long)channels, c.left);
    o->length = c;
    (void)tinyi_rd_bytes(&c, (size_t)channels * (o->wide ? 4 : 2), &p);
    o->stream = c.at;
    at = o->length;
    for (i = 0; i < channels; i++) total += tinyi_kvc_length(&at, o->wide);
    if (total != c.left)
        return tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: the streams of a chunk take %llu bytes, but there are %zu",
                          (unsigned long long)total, c.left);
    at = o->scale;
    for (i = 0; i < need / 2; i++) {
        uint16_t u = 0;
        (void)tinyi_rd_u16(&at, &u);
        if (u >= 0x7c00u)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "cache codec: scale %llu of the chunk is %04x: not a finite number of at least 0",
                              (unsigned long long)i, u);
    }
    a->level = (int)level;
    a->alone = inside > 0;
    a->n_layer = (tiny_idx)layers;
    a->first = (tiny_idx)first;
    a->n_token = (tiny_idx)tokens;
    a->n_element = channels * tokens;
    a->n_bytes = n_bytes;
    a->table_bytes = (size_t)inside;
    a->scale_bytes = (size_t)need;
    a->length_bytes = (size_t)channels * (o->wide ? 4 : 2);
    a->stream_bytes = c.left;
    return TINY_OK;
}

TINY_API tiny_status tllm_kvcodec_tell(tiny_ctx *ctx, const void *bytes, size_t n, tllm_kvcodec_about *about)
{
    tinyi_kvc_open o;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!about) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: the result pointer is NULL");
    st = tinyi_kvc_look(ctx, bytes, n, &o);
    *about = o.about;
    return st;
}

/* the chunk against the tables and the place it is to be written to */
static tiny_status tinyi_kvc_match(tiny_ctx *ctx, const tllm_kvcodec_tables *t, const tinyi_kvc_open *o,
                                   const tllm_kv *kv)
{
    tinyi_cursor c = o->width;
    tiny_status st = tinyi_kvc_width_check(ctx, &t->shape, kv->n_layer, kv->width);
    tiny_idx i;
    if (st) return st;
    if (o->about.n_layer != kv->n_layer)
        return tinyi_fail(ctx, TINY_E_SHAPE, "cache codec: a chunk of %td layers for a cache of %td", o->about.n_layer,
                          kv->n_layer);
    for (i = 0; i < kv->n_layer * TLLM_KV_PARTS; i++) {
        uint32_t v = 0;
        (void)tinyi_rd_u32(&c, &v);
        if (v != (uint32_t)kv->width[i])
            return tinyi_fail(
                ctx, TINY_E_SHAPE, "cache codec: layer %td of the chunk has a %s of %lu numbers, but the cache %ld",
                i / TLLM_KV_PARTS, tinyi_kvc_part_name[i % TLLM_KV_PARTS], (unsigned long)v, (long)kv->width[i]);
    }
    if (t->id != o->about.tables)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "cache codec: the chunk was coded with tables %016llx, but these are %016llx",
                          (unsigned long long)o->about.tables, (unsigned long long)t->id);
    return tinyi_kvc_level_check(ctx, t, o->about.level);
}

/* Everything is looked at, nothing is touched; *own: tables that the chunk brought along, which become *tables. */
static tiny_status tinyi_kvc_ready(tiny_ctx *ctx, const tllm_kvcodec_tables **tables, const void *bytes, size_t n,
                                   const tllm_kv *kv, tinyi_kvc_open *o, tllm_kvcodec_tables **own)
{
    tiny_status st = tinyi_kvc_kv_check(ctx, kv);
    *own = NULL;
    if (!st && !kv->write) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: the function that writes rows is NULL");
    if (!st) st = tinyi_kvc_look(ctx, bytes, n, o);
    if (!st && kv->n_token && (o->about.first > kv->n_token || o->about.n_token > kv->n_token - o->about.first))
        st = tinyi_fail(ctx, TINY_E_WORKSPACE,
                        "cache codec: the chunk has %td tokens from index %td on, but there is room for %td",
                        o->about.n_token, o->about.first, kv->n_token);
    if (st) return st;
    if (o->about.alone) {
        st = tinyi_kvc_tables_read(ctx, "cache codec", &o->tables, own);
        if (!st && o->tables.left)
            st = tinyi_fail(ctx, TINY_E_FORMAT, "cache codec: %zu bytes follow the tables in a chunk", o->tables.left);
        *tables = *own;
    } else if (!*tables)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                        "cache codec: the chunk was coded with tables %016llx, but no tables are given",
                        (unsigned long long)o->about.tables);
    return st ? st : tinyi_kvc_match(ctx, *tables, o, kv);
}

TINYI_FN tiny_status tinyi_kvc_check(tiny_ctx *ctx, const tllm_kvcodec_tables *tables, const void *bytes, size_t n,
                                     const tllm_kv *kv, tllm_kvcodec_about *about)
{
    tllm_kvcodec_tables *own;
    tinyi_kvc_open o;
    const tiny_status st = tinyi_kvc_ready(ctx, &tables, bytes, n, kv, &o, &own);
    if (!st) *about = o.about;
    tllm_kvcodec_tables_close(ctx, own);
    return st;
}

TINY_API tiny_status tllm_kvcodec_decode(tiny_ctx *ctx, const tllm_kvcodec_tables *tables, const void *bytes, size_t n,
                                         const tllm_kv *kv)
{
    tllm_kvcodec_tables *own = NULL;
    tinyi_kvc_open o;
    tinyi_kvc_job job;
    size_t *place = NULL;
    tiny_idx i, c;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&job, 0, sizeof job);
    st = tinyi_kvc_ready(ctx, &tables, bytes, n, kv, &o, &own);
    if (!st) {
        const tinyi_kvc_size size = tinyi_kvc_size_of(kv->width, kv->n_layer);
        job.symbol = (unsigned char *)tinyi_alloc(ctx, tinyi_kvc_lanes(size.widest), (size_t)o.about.n_token);
        job.scale = (uint16_t *)tinyi_alloc(ctx, (size_t)o.about.n_token, sizeof *job.scale);
        place = (size_t *)tinyi_alloc(ctx, size.widest + 1, sizeof *place);
        if (!job.symbol || !job.scale || !place) st = tiny_ctx_status(ctx);
        job.kv = kv;
        job.first = o.about.first;
        job.n = o.about.n_token;
        job.bytes = o.stream;
        job.place = place;
    }
    for (i = 0; !st && i < kv->n_layer * TLLM_KV_PARTS; i++) {
        if (!kv->width[i]) continue;
        tinyi_kvc_job_tables(&job, tables, i / TLLM_KV_PARTS, (int)(i % TLLM_KV_PARTS), o.about.level);
        for (c = 0; c < job.n; c++) (void)tinyi_rd_u16(&o.scale, &job.scale[c]);
        for (c = 0, place[0] = 0; c < job.width; c++) place[c + 1] = place[c] + tinyi_kvc_length(&o.length, o.wide);
        st = tinyi_kvc_read_part(ctx, &job);
        job.bytes += place[job.width];
    }
    tiny_free(ctx, job.symbol);
    tiny_free(ctx, job.scale);
    tiny_free(ctx, place);
    tllm_kvcodec_tables_close(ctx, own);
    return st;
}

/* ---- the coder by itself ---------------------------------------------------------------------------------------- */

TINY_API void tllm_kvcodec_cdf(uint16_t *cdf, const uint32_t *count, int n)
{
    if (cdf && count && n >= 2 && n <= TINYI_ARITH_SYMBOLS) tinyi_arith_table(cdf, count, n);
}

static tiny_status tinyi_kvc_coder_check(tiny_ctx *ctx, const uint16_t *cdf, int n_symbol, int given)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!cdf || !given) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: a table, symbols and bytes are needed");
    if (n_symbol < 2 || !tinyi_arith_valid(cdf, n_symbol))
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "cache codec: the table of %d symbols does not rise from 0 to 65535: every symbol needs a slot", n_symbol);
    return TINY_OK;
}

TINY_API tiny_status tllm_kvcodec_code(tiny_ctx *ctx, const uint16_t *cdf, int n_symbol, const unsigned char *symbol,
                                       size_t n, unsigned char *bytes, size_t *n_bytes)
{
    const uint16_t *both[2];
    int n_both[2];
    size_t i;
    tiny_status st = tinyi_kvc_coder_check(ctx, cdf, n_symbol, symbol && bytes && n_bytes);
    if (st) return st;
    for (i = 0; i < n; i++)
        if (symbol[i] >= n_symbol)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache codec: symbol %zu is %d, but the table has %d", i, symbol[i],
                              n_symbol);
    both[0] = both[1] = cdf;
    n_both[0] = n_both[1] = n_symbol;
    if (ctx->target == TINY_TARGET_REFERENCE) {
        memset(bytes, 0, tinyi_arith_most(n));
        *n_bytes = tinyi_arith_encode_ref(both, n_both, 1, symbol, 1, n, bytes, tinyi_arith_most(n));
    } else *n_bytes = tinyi_arith_encode(both, 1, symbol, 1, n, bytes);
    return TINY_OK;
}

TINY_API tiny_status tllm_kvcodec_uncode(tiny_ctx *ctx, const uint16_t *cdf, int n_symbol, const unsigned char *bytes,
                                         size_t n_bytes, unsigned char *symbol, size_t n)
{
    const uint16_t *both[2];
    int n_both[2];
    tiny_status st = tinyi_kvc_coder_check(ctx, cdf, n_symbol, symbol && bytes);
    if (st) return st;
    both[0] = both[1] = cdf;
    n_both[0] = n_both[1] = n_symbol;
    if (ctx->target == TINY_TARGET_REFERENCE) tinyi_arith_decode_ref(both, n_both, 1, symbol, 1, n, bytes, n_bytes);
    else {
        tinyi_arith_model model;
        tinyi_arith_in in;
        memset(&in, 0, sizeof in);
        tinyi_arith_model_set(&model, cdf, n_symbol);
        in.bytes = bytes;
        in.n_bytes = n_bytes;
        in.model[0] = in.model[1] = &model;
        tinyi_arith_decode(&in, 1, 1, symbol, 1, n);
    }
    return TINY_OK;
}
