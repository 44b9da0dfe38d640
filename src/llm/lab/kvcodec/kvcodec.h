/* src/llm/lab/kvcodec/kvcodec.h - compresses the keys and values of a text, for storage or transfer
 *
 *   tllm_kvcodec_profile_open(ctx, &kv, NULL, &p);                  once per model: statistics of its keys and values
 *   tllm_kvcodec_profile_add(p, &kv, 0, n_token);                   for each of some typical texts
 *   tllm_kvcodec_profile_tables(p, &tables);                        store them: tllm_kvcodec_tables_save
 *
 *   tllm_kvcodec_encode(ctx, tables, &kv, &desc, &bytes, &n);       a chunk of tokens at a level
 *   tllm_kvcodec_decode(ctx, tables, bytes, n, &kv);                writes its rows; chunks in any order and of any
 *                                                                   level
 *
 *   tllm_kvcodec_save(session, tables, NULL, "talk.kv");            the text of a session with its cache, and back
 *   tllm_kvcodec_load(session, tables, "talk.kv");
 *
 * Levels: 1 has the fewest bits, 2 is the default, 3 has more bits, 4 codes every token by itself with 8 bits per
 * number. The codec is lossy: a decoded number differs by at most half a quantization step of its row. The same numbers
 * give the same bytes on every machine and target.
 *
 * The caller provides two functions that read and write a row of keys or values (tllm_kv), so the rows may be stored
 * anywhere. Tables are read-only: any number of contexts may use them. One thread at a time may use a profile or a
 * session. After a failure nothing was written, unless stated otherwise. */
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
}; /* index: keys of an indexer; few models have one */

typedef struct tllm_kv {
    tiny_idx n_layer;
    /* (n_layer, TLLM_KV_PARTS): numbers of a token's row; 0: the layer has none */
    const int32_t *width;
    void (*read)(void *user, tiny_idx layer, int part, tiny_idx token, float *row);
    /* read and write are called by several threads at the same time, but never for the same row */
    void (*write)(void *user, tiny_idx layer, int part, tiny_idx token, const float *row);
    void *user;
    /* tokens that there is room for: decode refuses a chunk beyond them. 0: not checked, so call tllm_kvcodec_tell
     * first */
    tiny_idx n_token;
} tllm_kv;

/* ---- tables: the frequency of each symbol, for each layer and channel ---- */
typedef struct tllm_kvcodec_tables tllm_kvcodec_tables;
typedef struct tllm_kvcodec_profile tllm_kvcodec_profile;

/* The number of quantization steps for a layer at a level. Below level 4 most tokens are coded as differences from an
 * anchor token. For 32 and 80 layers these are the numbers of the paper's released tables, otherwise one number for
 * each third of the depth. Level 4 has no differences: 256. 0: no such level, layer or part. */
TINY_API int tllm_kvcodec_bins(tiny_idx n_layer, tiny_idx layer, int part, int level);

/* bins: (3, n_layer, TLLM_KV_PARTS) for the levels 1, 2, 3, each 4..256; NULL: tllm_kvcodec_bins. Reads only the widths
 * of kv. */
TINY_API tiny_status tllm_kvcodec_profile_open(tiny_ctx *ctx, const tllm_kv *kv, const int32_t *bins,
                                               tllm_kvcodec_profile **out);
TINY_API void tllm_kvcodec_profile_close(tllm_kvcodec_profile *p);         /* p may be NULL; close it before ctx */
/* Counts n tokens from index first on, at every level. After a failure some of them may have been counted: close the
 * profile. */
TINY_API tiny_status tllm_kvcodec_profile_add(tllm_kvcodec_profile *p, const tllm_kv *kv, tiny_idx first, tiny_idx n);
TINY_API tiny_status tllm_kvcodec_profile_tables(const tllm_kvcodec_profile *p, tllm_kvcodec_tables **out);

TINY_API tiny_status tllm_kvcodec_tables_open(tiny_ctx *ctx, const void *bytes, size_t n, tllm_kvcodec_tables **out);
/* free *bytes with tiny_free */
TINY_API tiny_status tllm_kvcodec_tables_pack(tiny_ctx *ctx, const tllm_kvcodec_tables *t, void **bytes, size_t *n);
TINY_API tiny_status tllm_kvcodec_tables_load(tiny_ctx *ctx, const char *path, tllm_kvcodec_tables **out);
TINY_API tiny_status tllm_kvcodec_tables_save(tiny_ctx *ctx, const tllm_kvcodec_tables *t, const char *path);
TINY_API void tllm_kvcodec_tables_close(tiny_ctx *ctx, tllm_kvcodec_tables *t);    /* t may be NULL */
TINY_API uint64_t tllm_kvcodec_tables_id(const tllm_kvcodec_tables *t);            /* a hash of their contents */

/* ---- chunks ---- */
typedef struct tllm_kvcodec_desc {          /* all zero: level 2; encode needs n_token */
    int level;                              /* 1..4; 0: 2 */
    /* the tokens to encode; tllm_kvcodec_save takes all, in chunks of n_token (0: 1500) */
    tiny_idx first, n_token;
    uint32_t chunk;                         /* its number, chosen by the caller; tllm_kvcodec_save counts from 0 */
    /* nonzero: the chunk contains its own tables, made from its tokens; they are about as large as a short chunk */
    int alone;
} tllm_kvcodec_desc;

typedef struct tllm_kvcodec_about {
    int level, alone;
    tiny_idx n_layer, first, n_token;
    uint32_t chunk;
    uint64_t tables;                        /* tllm_kvcodec_tables_id of its tables */
    uint64_t n_element;                     /* numbers of all rows */
    /* total, and the parts: tables, scales, lengths and streams */
    size_t n_bytes, table_bytes, scale_bytes, length_bytes, stream_bytes;
} tllm_kvcodec_about;

/* tables may be NULL if desc->alone is set. Free *bytes with tiny_free. A number that is NaN or above 65504 in
 * magnitude is an error; so is, below level 4, a row that differs from its anchor by more than 65504. */
TINY_API tiny_status tllm_kvcodec_encode(tiny_ctx *ctx, const tllm_kvcodec_tables *tables, const tllm_kv *kv,
                                         const tllm_kvcodec_desc *desc, void **bytes, size_t *n);
/* Describes a chunk, and checks everything that can be checked without tables. */
TINY_API tiny_status tllm_kvcodec_tell(tiny_ctx *ctx, const void *bytes, size_t n, tllm_kvcodec_about *about);
/* Writes the rows of the tokens of the chunk; kv must have room for them. Invalid bytes write nothing; after a failed
 * allocation some rows may have been written. */
TINY_API tiny_status tllm_kvcodec_decode(tiny_ctx *ctx, const tllm_kvcodec_tables *tables, const void *bytes, size_t n,
                                         const tllm_kv *kv);

/* ---- the entropy coder alone: one stream of n symbols with one model of 2..256 symbols ---- */
/* Makes the cumulative table of a model from counts: cdf has n + 1 values, floor((65535 - n) cum_i / total) + i, where
 * cum_i is the sum of the counts before symbol i. Symbols that were never counted get a slot too. n outside 2..256:
 * nothing is written. */
TINY_API void tllm_kvcodec_cdf(uint16_t *cdf, const uint32_t *count, int n);
/* bytes needs room for 2 n + n / 1024 + 8 bytes, the most that are written. */
TINY_API tiny_status tllm_kvcodec_code(tiny_ctx *ctx, const uint16_t *cdf, int n_symbol, const unsigned char *symbol,
                                       size_t n, unsigned char *bytes, size_t *n_bytes);
/* Any bytes decode to n symbols: the caller must detect truncated or changed bytes. */
TINY_API tiny_status tllm_kvcodec_uncode(tiny_ctx *ctx, const uint16_t *cdf, int n_symbol, const unsigned char *bytes,
                                         size_t n_bytes, unsigned char *symbol, size_t n);

/* ---- sessions ---- */
/* Writes the text of a session and its cache in chunks to one file. It can be loaded with the same model and the same
 * adapters; the formats of keys and values may differ. Recurrent layers and encoders are refused. */
TINY_API tiny_status tllm_kvcodec_save(tllm_session *s, const tllm_kvcodec_tables *tables,
                                       const tllm_kvcodec_desc *desc, const char *path);
/* Makes the session hold the text of the file. An invalid file changes nothing; after a failed allocation the session
 * holds no text. */
TINY_API tiny_status tllm_kvcodec_load(tllm_session *s, const tllm_kvcodec_tables *tables, const char *path);
/* Counts the tokens of the session. Fails without tokens, or if the model has no such cache. After a failure some
 * of them may have been counted: close the profile. */
TINY_API tiny_status tllm_kvcodec_profile_session(tllm_kvcodec_profile *p, tllm_session *s);
TINY_API tiny_status tllm_kvcodec_profile_of(tllm_session *s, tllm_kvcodec_profile **out);    /* opened for its model */

typedef struct tllm_kvcodec_file {          /* the contents of a file of tllm_kvcodec_save */
    tiny_idx n_token, n_chunk;
    const int32_t *token;                   /* (n_token) */
    const tllm_kvcodec_about *chunk;        /* (n_chunk) */
    size_t n_bytes;
    void *block;
} tllm_kvcodec_file;
TINY_API tiny_status tllm_kvcodec_file_open(tiny_ctx *ctx, const char *path, tllm_kvcodec_file *out);
TINY_API void tllm_kvcodec_file_close(tiny_ctx *ctx, tllm_kvcodec_file *file);     /* also after a failed open */

TINYI_C_END
#endif
