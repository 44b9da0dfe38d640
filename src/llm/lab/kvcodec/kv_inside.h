/* src/llm/lab/kvcodec/kv_inside.h - what tables and chunks of a cache are inside */
#ifndef TINYI_KVINSIDE_H
#define TINYI_KVINSIDE_H
#include "core/bytes.h"
#include "core/hash_inside.h"
#include "core/state_inside.h"
#include "llm/lab/kvcodec/arith_inside.h"
#include "llm/lab/kvcodec/kvcodec.h"
TINYI_C_BEGIN

#define TINYI_KVC_GROUP 10 /* tokens of a group: an anchor, and those coded by their difference to it */
#define TINYI_KVC_CHUNK 1500
#define TINYI_KVC_ANCHOR 256                /* steps of anchors */
#define TINYI_KVC_PLAIN 4                   /* the level without differences */
#define TINYI_KVC_MOST_LAYERS 4096
#define TINYI_KVC_MOST_WIDTH (1 << 20)
#define TINYI_KVC_MOST_TOKENS (1 << 20)     /* of a chunk */

/* Which parts there are, and where what is kept of a channel lies. Kinds: 0 anchors, 1..3 differences of that level. */
typedef struct tinyi_kvc_shape {
    tiny_idx n_layer;
    unsigned levels;                        /* bit l: differences of level l are there */
    int32_t *width;                         /* (n_layer, TLLM_KV_PARTS) */
    int32_t *bins;                          /* (4, n_layer, TLLM_KV_PARTS); kind 0: TINYI_KVC_ANCHOR */
    /* the same: of the first channel of a part; each channel has bins + 1 values */
    size_t *at;
    size_t n_value;                         /* of all kinds */
} tinyi_kvc_shape;
TINYI_INLINE size_t tinyi_kvc_part(const tinyi_kvc_shape *s, int kind, tiny_idx layer, int part)
{
    return (size_t)((kind * s->n_layer + layer) * TLLM_KV_PARTS + part);
}

struct tllm_kvcodec_tables {
    tinyi_kvc_shape shape;
    uint16_t *cdf;                          /* (n_value) */
    uint64_t id;
};
struct tllm_kvcodec_profile {
    tiny_ctx *ctx;
    tinyi_kvc_shape shape;
    uint32_t *count;                        /* (n_value); the last of each channel stays 0 */
    uint64_t n_token;
};

/* Checks widths and bins, takes one block for the shape and `each` bytes a value after it; *values: that memory. */
TINYI_FN tiny_status tinyi_kvc_shape_open(tiny_ctx *ctx, tiny_idx n_layer, const int32_t *width, const int32_t *bins,
                                          unsigned levels, size_t each, tinyi_kvc_shape *s, void **values);
TINYI_FN tiny_status tinyi_kvc_tables_of(tiny_ctx *ctx, const tinyi_kvc_shape *shape, const uint32_t *count,
                                         tllm_kvcodec_tables **out);
/* What pack writes, from the start of c on; c is after it at the end. */
TINYI_FN tiny_status tinyi_kvc_tables_read(tiny_ctx *ctx, const char *where, tinyi_cursor *c,
                                           tllm_kvcodec_tables **out);
TINYI_FN tiny_status tinyi_kvc_width_check(tiny_ctx *ctx, const tinyi_kvc_shape *s, tiny_idx n_layer,
                                           const int32_t *width);
TINYI_FN tiny_status tinyi_kvc_kv_check(tiny_ctx *ctx, const tllm_kv *kv);

/* one part of a layer, on its way to symbols and streams or back */
typedef struct tinyi_kvc_job {
    const tllm_kv *kv;
    tiny_idx layer, first, n;               /* tokens */
    int part, plain;                        /* plain: the reference */
    tiny_idx width;
    size_t period;                          /* tokens of a group; 1: every token is an anchor */
    int bins[2];                            /* of anchors, of differences */
    const uint16_t *cdf[2];                 /* of the first channel of both; writing, NULL: no streams */
    uint32_t *count[2];                     /* writing: the same, to be counted; or NULL */
    /* (width / TINYI_ARITH_LANES, n, TINYI_ARITH_LANES): what a thread writes shares no cache line with others */
    unsigned char *symbol;
    uint16_t *scale;                        /* (n) halves */
    unsigned char *stream;                  /* writing: (width, room) */
    size_t room;
    size_t *length;                         /* writing: (width) bytes of each */
    const unsigned char *bytes;             /* reading: the streams, one after the other */
    const size_t *place;                    /* reading: (width + 1) where each begins */
} tinyi_kvc_job;
TINYI_INLINE size_t tinyi_kvc_lanes(size_t width)
{
    return (width + TINYI_ARITH_LANES - 1) / TINYI_ARITH_LANES * TINYI_ARITH_LANES;
}
/* the first of channel c; the next one TINYI_ARITH_LANES further */
TINYI_INLINE unsigned char *tinyi_kvc_symbol(const tinyi_kvc_job *j, tiny_idx c)
{
    return j->symbol + c / TINYI_ARITH_LANES * j->n * TINYI_ARITH_LANES + c % TINYI_ARITH_LANES;
}
TINYI_FN tiny_status tinyi_kvc_write_part(tiny_ctx *ctx, tinyi_kvc_job *job);
TINYI_FN tiny_status tinyi_kvc_read_part(tiny_ctx *ctx, tinyi_kvc_job *job);
TINYI_FN void tinyi_kvc_job_of(tinyi_kvc_job *job, const tinyi_kvc_shape *s, tiny_idx layer, int part, int level);
/* counts n tokens at the levels of p and, with all, every token as an anchor; else the anchors of these levels'
 * groups */
TINYI_FN tiny_status tinyi_kvc_count(tllm_kvcodec_profile *p, const tllm_kv *kv, tiny_idx first, tiny_idx n, int all);

/* A sequence of a state as keys and values. The widths are taken from the context's memory: tiny_free(ctx, *width). */
typedef struct tinyi_kvs_view { const tllm_state *state; tiny_idx seq; } tinyi_kvs_view;
TINYI_FN tiny_status tinyi_kvs_view_at(const tllm_state *state, tiny_idx seq, tinyi_kvs_view *v, tllm_kv *kv,
                                       int32_t **width);

/* All that decode looks at before it writes. */
TINYI_FN tiny_status tinyi_kvc_check(tiny_ctx *ctx, const tllm_kvcodec_tables *tables, const void *bytes, size_t n,
                                     const tllm_kv *kv, tllm_kvcodec_about *about);

TINYI_C_END
#endif
