/* src/llm/file/store_inside.h - the tables of tllm_gguf, filled by the readers of GGUF, safetensors and .bin files
 *
 * A reader counts first and fills later. The memory it needs is thus known, and compared with the size of the file,
 * before it is allocated. Keys and names are found by their hash. The tables are sorted by (hash, name). A look-up
 * takes log(n) steps even if a hostile file has many names with one hash, and duplicates are adjacent. */
#ifndef TINYI_STORE_H
#define TINYI_STORE_H
#include "core/state_inside.h"
#include "core/bytes.h"
#include "llm/file/gguf.h"
TINYI_C_BEGIN

typedef struct tinyi_store_part {
    tiny_file file;
    char *path;                             /* owned */
    size_t kv_at, info_at, data_at;         /* offsets in the file; GGUF only */
    size_t n_whole;                         /* bytes of the file; more than file.n_bytes if only its head was read */
    size_t n_meta, n_tensors, n_steps;
    uint32_t version, alignment;
    uint64_t split_no, split_count, split_tensors;
} tinyi_store_part;

struct tllm_gguf {
    size_t n_parts, n_meta, n_tensors;
    tinyi_store_part *part;
    tllm_meta *meta;
    tllm_gguf_tensor *tensor;
    uint32_t *meta_order, *tensor_order;    /* by hash, then length, then bytes */
    /* (n_steps) starts of every TINYI_TEXT_STEP-th item of arrays of texts */
    const unsigned char **step;
    size_t n_steps;
    void *tables;
    unsigned char *made;                    /* owned: keys and names of a file that is not GGUF, in GGUF form */
    size_t made_bytes;
    int kind;                               /* TLLM_FILE_ of llm/file/open.h */
};

/* Keys in GGUF form and names, written in two passes. In the first, at is NULL and only n and n_keys grow. The file may
 * be changed by another program before the second pass: nothing is written past room, and n then differs from the
 * count. */
typedef struct tinyi_made { unsigned char *at; size_t n, n_keys, room; } tinyi_made;

/* An array of more texts than this has a table with the start of every TINYI_TEXT_STEP-th text; tllm_meta.at is that
 * table. */
#define TINYI_TEXT_STEP 8

#define TINYI_STORE_EXTRA ((size_t)1 << 20) /* allocations of a file are limited to twice its size plus this */

TINYI_FN const char *tinyi_show(tllm_text text, char shown[TINYI_SHOW]);
TINYI_FN tllm_text tinyi_text(const char *s);

/* g with room for n_parts, all zero. */
TINYI_FN tiny_status tinyi_store_open(tiny_ctx *ctx, size_t n_parts, tllm_gguf **out);
TINYI_FN tiny_status tinyi_store_path(tiny_ctx *ctx, tinyi_store_part *part, const char *path);
/* the memory that a file of this size may take */
TINYI_FN size_t tinyi_store_most(size_t file_bytes);
/* Allocates the tables for the counts in g and n_steps; fails above that limit. */
TINYI_FN tiny_status tinyi_store_tables(tiny_ctx *ctx, tllm_gguf *g, size_t n_steps, size_t file_bytes);
/* After all keys and tensors are stored: hashes, order, duplicates, overlaps. */
TINYI_FN tiny_status tinyi_store_finish(tiny_ctx *ctx, tllm_gguf *g);

/* Reads key i of n_meta at the cursor: checks its value, fills *m and moves the cursor past it. step may be NULL: then
 * only *n_steps grows; else it has room for most_steps. path: for error messages. */
TINYI_FN tiny_status tinyi_store_key(tiny_ctx *ctx, const char *path, tinyi_cursor *c, size_t i, size_t n_meta,
                                     tllm_meta *m, const unsigned char **step, size_t most_steps, size_t *n_steps);
/* the error of a second pass that did not find what the first one counted */
TINYI_FN tiny_status tinyi_store_changed(tiny_ctx *ctx, const char *path);
TINYI_FN void tinyi_made_bytes(tinyi_made *m, const void *bytes, size_t n);
TINYI_FN void tinyi_made_le(tinyi_made *m, uint64_t v, size_t n);              /* n bytes, little endian */
TINYI_FN void tinyi_made_key(tinyi_made *m, const char *key, int type);        /* the value comes next */
TINYI_FN void tinyi_made_array(tinyi_made *m, const char *key, int item_type, size_t count);
TINYI_FN void tinyi_made_u32(tinyi_made *m, const char *key, uint64_t v);
TINYI_FN void tinyi_made_f32(tinyi_made *m, const char *key, float v);
TINYI_FN void tinyi_made_text(tinyi_made *m, const char *key, const char *text);
/* g->made with room for what was counted. */
TINYI_FN tiny_status tinyi_store_make(tiny_ctx *ctx, tllm_gguf *g, const tinyi_made *counted, size_t file_bytes);
/* Fills g->meta from g->made, which holds g->n_meta keys. The tables are allocated, with room for its text marks. */
TINYI_FN tiny_status tinyi_store_made(tiny_ctx *ctx, tllm_gguf *g);

/* Builds a GGUF view of an open file and takes ownership of the file, also on failure. is_path: the other parts are
 * found by path. */
TINYI_FN tiny_status tinyi_gguf_build(tiny_ctx *ctx, const char *path, int is_path, tiny_file *file, tllm_gguf **out);
/* The same if file has only the bytes up to the data of the tensors, of n_whole. The data pointers then lie outside of
 * it: they are its start plus the offset in the file. */
TINYI_FN tiny_status tinyi_gguf_build_head(tiny_ctx *ctx, const char *path, int is_path, tiny_file *file,
                                           size_t n_whole, tllm_gguf **out);

/* the bytes of a value as in the file: the number, the text with its length, or the items */
TINYI_FN void tinyi_store_value(const tllm_meta *m, const unsigned char **at, size_t *n_bytes);

/* bytes of the tensor t from its type, rank and dims; 0 if a dimension is 0 */
TINYI_FN tiny_status tinyi_store_size(tiny_ctx *ctx, const char *path, const tllm_gguf_tensor *t, size_t *bytes);

TINYI_C_END
#endif
