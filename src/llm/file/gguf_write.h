/* src/llm/file/gguf_write.h - writing GGUF files, as a stream
 *
 *   tllm_writer_desc d = { 0 };
 *   d.path = "out.gguf";
 *   tllm_writer_open(ctx, &d, &w);
 *   for (i = 0; i < tllm_gguf_n_meta(g); i++)              copy the keys of another file
 *       tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(g, i));
 *   tllm_writer_put_u32(ctx, w, "general.file_type", 7);   replace one of them
 *   for (i = 0; i < n; i++)                                first declare all tensors
 *       tllm_writer_put_tensor(ctx, w, name, type, rank, dim, NULL);
 *   for (i = 0; i < n; i++)                                then write their bytes in the same order
 *       tllm_writer_data(ctx, w, bytes, n_bytes);
 *   st = tllm_writer_finish(ctx, w);
 *   tllm_writer_close(ctx, w);
 *
 * The file is written as path.part and renamed to path when it is complete: readers see the old file or the new one.
 * After a failure every further call returns the same failure, so it is enough to check the last status. One thread at
 * a time may use a writer. */
#ifndef TINYI_GGUF_WRITE_H
#define TINYI_GGUF_WRITE_H
#include "llm/file/gguf.h"
TINYI_C_BEGIN

typedef struct tllm_writer tllm_writer;

typedef struct tllm_writer_desc {           /* all zero: version 3, alignment 32, one file, into memory */
    const char *path;                       /* NULL: into memory */
    uint32_t version;                       /* 2 or 3; 0: 3 */
    uint32_t alignment;                     /* 0: the value of general.alignment, or 32 */
    /* not 0: splits NAME.gguf into NAME-00001-of-0000N.gguf ... if the tensors have more bytes than this. Each part has
     * at most this many bytes of tensors, or a single larger tensor. 0: one file */
    uint64_t part_bytes;
} tllm_writer_desc;

/* desc may be NULL. On failure *out is NULL. */
TINY_API tiny_status tllm_writer_open(tiny_ctx *ctx, const tllm_writer_desc *desc, tllm_writer **out);
TINY_API void tllm_writer_close(tiny_ctx *ctx, tllm_writer *w);        /* w may be NULL; deletes an unfinished file */

/* Put a key. A key that was put before keeps its position and gets the new value. The writer sets split.no, split.count
 * and split.tensors.count itself; putting them does nothing. value points to the C type of the value: uint8_t for
 * TLLM_U8 and TLLM_BOOL, float for TLLM_F32, tllm_text for TLLM_STRING ...; items points to count of them. Keys and
 * values are copied. */
TINY_API tiny_status tllm_writer_put(tiny_ctx *ctx, tllm_writer *w, const char *key, int type, const void *value);
TINY_API tiny_status tllm_writer_put_array(tiny_ctx *ctx, tllm_writer *w, const char *key, int item_type,
                                           const void *items, size_t count);
TINY_API tiny_status tllm_writer_put_meta(tiny_ctx *ctx, tllm_writer *w, const tllm_meta *m);
TINY_API tiny_status tllm_writer_put_u32(tiny_ctx *ctx, tllm_writer *w, const char *key, uint32_t v);
TINY_API tiny_status tllm_writer_put_i32(tiny_ctx *ctx, tllm_writer *w, const char *key, int32_t v);
TINY_API tiny_status tllm_writer_put_u64(tiny_ctx *ctx, tllm_writer *w, const char *key, uint64_t v);
TINY_API tiny_status tllm_writer_put_f32(tiny_ctx *ctx, tllm_writer *w, const char *key, float v);
TINY_API tiny_status tllm_writer_put_bool(tiny_ctx *ctx, tllm_writer *w, const char *key, int v);
TINY_API tiny_status tllm_writer_put_text(tiny_ctx *ctx, tllm_writer *w, const char *key, const char *text);

/* Declares a tensor of the given type (llm/block/format.h) and dimensions, dim[0] innermost. data: its bytes, which
 * must stay valid until tllm_writer_finish; NULL: they follow through tllm_writer_data. */
TINY_API tiny_status tllm_writer_put_tensor(tiny_ctx *ctx, tllm_writer *w, tllm_text name, int type, int rank,
                                            const uint64_t *dim, const void *data);
/* The next bytes of the tensors put without data, in pieces of any size. After the first call no key and no tensor can
 * be put. */
TINY_API tiny_status tllm_writer_data(tiny_ctx *ctx, tllm_writer *w, const void *bytes, size_t n_bytes);
/* Writes the rest and renames the file to its path. Fails with the name of the first tensor whose bytes are missing. */
TINY_API tiny_status tllm_writer_finish(tiny_ctx *ctx, tllm_writer *w);
/* The finished file of a writer without path, *n_bytes long; owned by the writer and valid until its close. */
TINY_API const void *tllm_writer_memory(const tllm_writer *w, size_t *n_bytes);

TINYI_C_END
#endif
