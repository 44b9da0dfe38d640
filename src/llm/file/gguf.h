/* src/llm/file/gguf.h - GGUF files: the metadata of a model, and its tensors in place
 *
 *   tllm_gguf *g;
 *   if (tllm_gguf_open(ctx, "model.gguf", &g)) ... the message names the file, the key or the tensor ...
 *   const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, "token_embd.weight");
 *   int64_t n_layer;
 *   if (!tllm_meta_i64(tllm_gguf_find(g, "llama.block_count"), 0, &n_layer)) ... missing, or not an integer ...
 *   tllm_gguf_close(ctx, g);
 *
 * Versions 2 and 3, little endian. The file is mapped. Opening reads the metadata and the list of tensors, but not the
 * data. Opening checks the whole header: every count against the bytes left, every tensor against the end of the file
 * and its neighbours, every key and name against duplicates. No file makes the call allocate more than twice its size
 * plus a megabyte.
 *
 * Safetensors files and the .bin files of llama2.c are opened as a tllm_gguf too: llm/file/open.h.
 *
 * Views (tllm_text, tllm_meta, tllm_gguf_tensor) are valid until the close. Any number of threads may read one
 * tllm_gguf. */
#ifndef TINYI_GGUF_H
#define TINYI_GGUF_H
#include "core/file.h"
TINYI_C_BEGIN

typedef struct tllm_text { const char *at; size_t n; } tllm_text;      /* n bytes without a final 0 */

/* the types of a value, numbered as in the file */
enum {
    TLLM_U8,
    TLLM_I8,
    TLLM_U16,
    TLLM_I16,
    TLLM_U32,
    TLLM_I32,
    TLLM_F32,
    TLLM_BOOL,
    TLLM_STRING,
    TLLM_ARRAY,
    TLLM_U64,
    TLLM_I64,
    TLLM_F64,
    TLLM_VALUE_TYPES
};

#define TLLM_MAX_RANK 6                     /* GGUF itself has at most 4; safetensors have more */
#define TLLM_MAX_KEY 65535                  /* bytes of a key or of the name of a tensor */
#define TLLM_MAX_PARTS 1000                 /* of a split file */

typedef struct tllm_meta {
    tllm_text key;
    /* scalar: both are its type; array: TLLM_ARRAY and the type of its items */
    short type, item_type;
    uint32_t hash;                          /* of the key */
    size_t count;                           /* items; 1 for a scalar */
    const unsigned char *at;                /* numbers: little endian, any alignment; texts: use tllm_meta_text */
} tllm_meta;

typedef struct tllm_gguf_tensor {
    tllm_text name;
    int type;                               /* id of llm/block/format.h, or a TLLM_TYPE_ below */
    int rank;
    uint64_t dim[TLLM_MAX_RANK];            /* dim[0] innermost, as in the file; 1 past the rank */
    const unsigned char *data;              /* aligned as in the file */
    size_t bytes;
    uint32_t hash, part;                    /* hash of the name; index of the file that holds the tensor, from 0 */
} tllm_gguf_tensor;

/* element types that only safetensors have; nothing here computes with them */
enum {
    TLLM_TYPE_BOOL = 0x10000,
    TLLM_TYPE_U8,
    TLLM_TYPE_U16,
    TLLM_TYPE_U32,
    TLLM_TYPE_U64,
    TLLM_TYPE_F8_E4M3,
    TLLM_TYPE_F8_E5M2
};

typedef struct tllm_gguf tllm_gguf;

/* path: a file, or any part of a split one (NAME-00001-of-0000N.gguf); all parts are opened. On failure *out is
 * NULL. */
TINY_API tiny_status tllm_gguf_open(tiny_ctx *ctx, const char *path, tllm_gguf **out);
/* Opens a file in memory, such as a model linked into the program. The bytes are not copied and must stay valid until
 * the close. */
TINY_API tiny_status tllm_gguf_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_gguf **out);
/* Opens n_bytes at offset of an open file; n_bytes 0: up to its end. The caller owns the descriptor and may close it
 * after the call. Error messages contain name; NULL: "descriptor N". */
TINY_API tiny_status tllm_gguf_open_fd(tiny_ctx *ctx, int fd, uint64_t offset, uint64_t n_bytes, const char *name,
                                       tllm_gguf **out);
TINY_API void tllm_gguf_close(tiny_ctx *ctx, tllm_gguf *g);     /* g may be NULL */

/* in the order of the file */
TINY_API size_t tllm_gguf_n_meta(const tllm_gguf *g);
TINY_API const tllm_meta *tllm_gguf_meta_at(const tllm_gguf *g, size_t i);     /* NULL past the end */
TINY_API const tllm_meta *tllm_gguf_find(const tllm_gguf *g, const char *key); /* NULL: not there */
TINY_API size_t tllm_gguf_n_tensors(const tllm_gguf *g);
TINY_API const tllm_gguf_tensor *tllm_gguf_tensor_at(const tllm_gguf *g, size_t i);
TINY_API const tllm_gguf_tensor *tllm_gguf_tensor_find(const tllm_gguf *g, const char *name);

/* the path in error messages; NULL past the last part */
TINY_API const char *tllm_gguf_path(const tllm_gguf *g, size_t part);
TINY_API size_t tllm_gguf_n_parts(const tllm_gguf *g);
TINY_API size_t tllm_gguf_bytes(const tllm_gguf *g, size_t part);       /* size of that file */
TINY_API size_t tllm_gguf_offset(const tllm_gguf *g, const tllm_gguf_tensor *tensor);   /* of its data in its file */
TINY_API uint32_t tllm_gguf_version(const tllm_gguf *g);                /* 2 or 3; 0 if the file is not GGUF */
TINY_API uint32_t tllm_gguf_alignment(const tllm_gguf *g);

/* These calls read item i of a value into *v and return 1; a scalar has item 0 alone. They return 0 and leave *v
 * unchanged if m is NULL, if i is past the end, or if the value cannot be converted without loss. Integers are not read
 * from floats or bools, bools only from bools. Each call costs O(1), also for texts. */
TINY_API int tllm_meta_i64(const tllm_meta *m, size_t i, int64_t *v);
TINY_API int tllm_meta_u64(const tllm_meta *m, size_t i, uint64_t *v);
TINY_API int tllm_meta_f64(const tllm_meta *m, size_t i, double *v);
TINY_API int tllm_meta_bool(const tllm_meta *m, size_t i, int *v);
TINY_API int tllm_meta_text(const tllm_meta *m, size_t i, tllm_text *v);

TINY_API int tllm_text_is(tllm_text text, const char *s);               /* 1: the same bytes */
TINY_API const char *tllm_value_name(int type);                         /* "u32"; "?" for an unknown one */
/* bytes of one number; 0 for texts, arrays and unknown types */
TINY_API size_t tllm_value_bytes(int type);
/* the type of a tensor: "Q4_K"; "?" for an unknown one */
TINY_API const char *tllm_type_name(int type);

TINYI_C_END
#endif
