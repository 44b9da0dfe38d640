/* src/llm/lab/kvcodec/kvcodec.h - keys and values of a text in few bits: to keep them, or to send them
 *
 *   tllm_kvcodec_profile_open(ctx, &kv, NULL, &p);                  once for a model: what its keys and values look
 *                                                                   like
 *   tllm_kvcodec_profile_add(p, &kv, 0, n_token);                   for some texts
 *   tllm_kvcodec_profile_tables(p, &tables);                        to be kept: tllm_kvcodec_tables_save
 *
 *   tllm_kvcodec_encode(ctx, tables, &kv, &desc, &bytes, &n);       a chunk of tokens at a level
 *   tllm_kvcodec_decode(ctx, tables, bytes, n, &kv);                its rows are written; chunks in any order, of any
 *                                                                   levels
 *
 *   tllm_kvcodec_save(session, tables, NULL, "talk.kv");            a session's text with its cache, and back
 *   tllm_kvcodec_load(session, tables, "talk.kv");
 *
 * Levels: 1 few bits, 2 the default, 3 more; 4 every token by itself with 8 bits. What is decoded differs from what was
 * encoded, by at most half a step of a row's largest number; the same bytes come from the same numbers on every machine
 * and target.
 *
 * Keys and values are reached through two functions that read and write a row, so they may lie anywhere. Tables are
 * read only: any number of contexts may use them. Everything else: one caller at a time. After a failure nothing was
 * written, unless said otherwise. */
#ifndef TINYI_KVCODEC_H
#define TINYI_KVCODEC_H
#include "llm/session/session.h"
TINYI_C_BEGIN

#define TLLM_KVCODEC_LEVELS 4
enum {
    TLLM_KV_KEY,
    TLLM_KV_VALUE,
    TLLM_KV_INDEX,
    TLLM_KV_PARTS
}; /* index: keys of an indexer, which few models have */

typedef struct tllm_kv {
    tiny_idx n_layer;
    /* (n_layer, TLLM_KV_PARTS): numbers of a token's row; 0: the layer has none */
    const int32_t *width;
    void (*read)(void *user, tiny_idx layer, int part, tiny_idx token, float *row);
    /* both: from several threads, never for one row at once */
    void (*write)(void *user, tiny_idx layer, int part, tiny_idx token, const float *row);
    void *user;
    /* that there is room for: decode refuses a chunk that goes beyond; 0: not said, then tllm_kvcodec_tell first */
    tiny_idx n_token;
} tllm_kv;

/* ---- tables: how often each symbol comes, for each layer and channel ---- */
typedef struct tllm_kvcodec_tables tllm_kvcodec_tables;
typedef struct tllm_kvcodec_profile tllm_kvcodec_profile;

/* Steps that the differences of a layer are given at a level: those of the paper's released tables for 32 and 80
 * layers, else by thirds of the depth. A level without differences: 256. 0: there is no such level, layer or part. */
TINY_API int tllm_kvcodec_bins(tiny_idx n_layer, tiny_idx layer, int part, int level);

/* bins: (3, n_layer, TLLM_KV_PARTS) for the levels 1, 2, 3, each 4..256; NULL: tllm_kvcodec_bins. Only widths are read
 * of kv. */
TINY_API tiny_status tllm_kvcodec_profile_open(tiny_ctx *ctx, const tllm_kv *kv, const int32_t *bins,
                                               tllm_kvcodec_profile **out);
TINY_API void tllm_kvcodec_profile_close(tllm_kvcodec_profile *p);         /* takes NULL; the context that opened it */
/* Counts n tokens from number first on, at every level. After a failure a part of them may have been counted: close the
 * profile. */
TINY_API tiny_status tllm_kvcodec_profile_add(tllm_kvcodec_profile *p, const tllm_kv *kv, tiny_idx first, tiny_idx n);
TINY_API tiny_status tllm_kvcodec_profile_tables(const tllm_kvcodec_profile *p, tllm_kvcodec_tables **out);

TINY_API tiny_status tllm_kvcodec_tables_open(tiny_ctx *ctx, const void *bytes, size_t n, tllm_kvcodec_tables **out);
/* for tiny_free */
TINY_API tiny_status tllm_kvcodec_tables_pack(tiny_ctx *ctx, const tllm_kvcodec_tables *t, void **bytes, size_t *n);
TINY_API tiny_status tllm_kvcodec_tables_load(tiny_ctx *ctx, const char *path, tllm_kvcodec_tables **out);
TINY_API tiny_status tllm_kvcodec_tables_save(tiny_ctx *ctx, const tllm_kvcodec_tables *t, const char *path);
TINY_API void tllm_kvcodec_tables_close(tiny_ctx *ctx, tllm_kvcodec_tables *t);    /* takes NULL */
TINY_API uint64_t tllm_kvcodec_tables_id(const tllm_kvcodec_tables *t);            /* a hash of all that is in them */

/* ---- chunks ---- */
typedef struct tllm_kvcodec_desc {          /* all zero: level 2; of encode also: no tokens, which is refused */
    int level;                              /* 1..4; 0: 2 */
    /* of the kv; tllm_kvcodec_save takes all, cut into chunks of n_token (0: 1500) */
    tiny_idx first, n_token;
    uint32_t chunk;                         /* its number, as the caller likes; tllm_kvcodec_save counts them */
    /* nonzero: tables of these very tokens go along, about as large again as a short chunk */
    int alone;
} tllm_kvcodec_desc;

typedef struct tllm_kvcodec_about {
    int level, alone;
    tiny_idx n_layer, first, n_token;
    uint32_t chunk;
    uint64_t tables;                        /* tllm_kvcodec_tables_id of those that it was coded with */
    uint64_t n_element;                     /* numbers of all rows */
    /* the whole; tables, scales, lengths and streams in it */
    size_t n_bytes, table_bytes, scale_bytes, length_bytes, stream_bytes;
} tllm_kvcodec_about;

/* tables may be NULL for a chunk that is alone. *bytes: for tiny_free. Numbers that are not finite, or beyond 65504,
 * are refused; below level 4 also rows that are further than this from their anchor. */
TINY_API tiny_status tllm_kvcodec_encode(tiny_ctx *ctx, const tllm_kvcodec_tables *tables, const tllm_kv *kv,
                                         const tllm_kvcodec_desc *desc, void **bytes, size_t *n);
/* Checks everything that can be checked without tables. */
TINY_API tiny_status tllm_kvcodec_tell(tiny_ctx *ctx, const void *bytes, size_t n, tllm_kvcodec_about *about);
/* Writes the rows of the tokens that the chunk says; kv has room for them. Refused bytes write nothing; where memory
 * ends midway, rows may have been written. */
TINY_API tiny_status tllm_kvcodec_decode(tiny_ctx *ctx, const tllm_kvcodec_tables *tables, const void *bytes, size_t n,
                                         const tllm_kv *kv);

/* ---- the coder by itself: one stream of n symbols under one model of 2..256 symbols ---- */
/* cdf: n + 1 values, floor((65535 - n) cum_i / total) + i: a symbol that was never counted has a slot too. n outside
 * 2..256: nothing is written. */
TINY_API void tllm_kvcodec_cdf(uint16_t *cdf, const uint32_t *count, int n);
/* At most 2 n + n / 1024 + 8 bytes, which is the room that is needed. */
TINY_API tiny_status tllm_kvcodec_code(tiny_ctx *ctx, const uint16_t *cdf, int n_symbol, const unsigned char *symbol,
                                       size_t n, unsigned char *bytes, size_t *n_bytes);
/* Any bytes give n symbols: who cut or changed them is for the caller to see. */
TINY_API tiny_status tllm_kvcodec_uncode(tiny_ctx *ctx, const uint16_t *cdf, int n_symbol, const unsigned char *bytes,
                                         size_t n_bytes, unsigned char *symbol, size_t n);

/* ---- sessions ---- */
/* The text that a session holds and its cache in chunks, one file. For the same model and the same adapters; keys and
 * values may be kept in another format there. Recurrent layers and encoders are refused. */
TINY_API tiny_status tllm_kvcodec_save(tllm_session *s, const tllm_kvcodec_tables *tables,
                                       const tllm_kvcodec_desc *desc, const char *path);
/* The session holds that text afterwards; refused files change nothing, and where memory ends midway it holds no
 * text. */
TINY_API tiny_status tllm_kvcodec_load(tllm_session *s, const tllm_kvcodec_tables *tables, const char *path);
/* Counts what the session holds; without tokens, or with a model that has no such cache, a failure; as
 * tllm_kvcodec_profile_add after one. */
TINY_API tiny_status tllm_kvcodec_profile_session(tllm_kvcodec_profile *p, tllm_session *s);
TINY_API tiny_status tllm_kvcodec_profile_of(tllm_session *s, tllm_kvcodec_profile **out);    /* opened for its model */

typedef struct tllm_kvcodec_file {          /* what stands in a file of tllm_kvcodec_save */
    tiny_idx n_token, n_chunk;
    const int32_t *token;                   /* (n_token) */
    const tllm_kvcodec_about *chunk;        /* (n_chunk) */
    size_t n_bytes;
    void *block;
} tllm_kvcodec_file;
TINY_API tiny_status tllm_kvcodec_file_open(tiny_ctx *ctx, const char *path, tllm_kvcodec_file *out);
TINY_API void tllm_kvcodec_file_close(tiny_ctx *ctx, tllm_kvcodec_file *file);     /* takes one that failed to open */

TINYI_C_END
#endif
