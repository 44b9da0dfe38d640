/* src/core/safetensors.h - safetensors files: reads and writes their header
 *
 *   u64 n   n bytes of JSON   data
 *   { "__metadata__": { "key": "text", ... },
 *     "name": { "dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24] }, ... }
 *
 * A walk over the header reports each entry to a sink, in file order, and allocates nothing. A reader that needs a
 * table walks twice: once to count, once to fill it. Types, shapes, sizes and offsets are checked before an entry is
 * reported. At the end the walk checks that the sizes of all tensors add up to the size of the data. It does not check
 * for duplicate names or overlapping tensors: that needs a table. */
#ifndef TINYI_CORE_SAFETENSORS_H
#define TINYI_CORE_SAFETENSORS_H
#include "core/doc/json.h"
TINYI_C_BEGIN

/* ---- inside: what the bodies share ---- */

#define TINYI_SAFETENSORS_MAX_HEADER 100000000  /* bytes, as in the format's own reader */
#define TINYI_SAFETENSORS_MAX_RANK 6
#define TINYI_SAFETENSORS_MAX_NAME 65535    /* bytes */

/* name in the file, bytes of a value */
#define TINYI_SAFETENSORS_TYPES(T)                                                                                    \
    T(F32, 4) T(F16, 2) T(BF16, 2) T(F64, 8) T(I8, 1) T(I16, 2) T(I32, 4) T(I64, 8) T(BOOL, 1) T(U8, 1) T(U16, 2)     \
    T(U32, 4) T(U64, 8) T(F8_E4M3, 1) T(F8_E5M2, 1)
#define TINYI_SAFETENSORS_ENUM(name, bytes) TINYI_ST_##name,
typedef enum tinyi_st_type { TINYI_SAFETENSORS_TYPES(TINYI_SAFETENSORS_ENUM) TINYI_ST_TYPES } tinyi_st_type;
#undef TINYI_SAFETENSORS_ENUM

typedef struct tinyi_st_tensor {
    tinyi_json_text name;
    tinyi_st_type type;
    int rank;
    uint64_t dim[TINYI_SAFETENSORS_MAX_RANK];   /* as in the file: the last is the innermost */
    const unsigned char *data;
    size_t bytes;
} tinyi_st_tensor;

/* either may be NULL */
typedef struct tinyi_st_sink {
    void *arg;
    void (*meta)(void *arg, tinyi_json_text key, tinyi_json_text value);
    void (*tensor)(void *arg, const tinyi_st_tensor *tensor);
} tinyi_st_sink;

/* path is used in error sentences; the bytes are those of the whole file. */
TINYI_FN tiny_status tinyi_st_walk(tiny_ctx *ctx, const char *path, const void *bytes, size_t n_bytes,
                                   const tinyi_st_sink *sink);

/* The header of a file to write, into `room` bytes at `to`. TINYI_ST_HEAD(tensors, bytes of the longest name) bytes are
 * enough. Add an entry for each tensor in the order of the data, then the end. Names must not need escapes. */
#define TINYI_ST_HEAD(n, name) (64 + (size_t)(n) * ((size_t)(name) + 100 + 21 * TINYI_SAFETENSORS_MAX_RANK))
typedef struct tinyi_st_head {
    unsigned char *to;
    size_t room, n, data;                   /* bytes in all, of header, of the data that entries stand for */
} tinyi_st_head;
TINYI_FN void tinyi_st_begin(tinyi_st_head *h, void *to, size_t room);
TINYI_FN void tinyi_st_entry(tinyi_st_head *h, const char *name, tinyi_st_type type, int rank, const tiny_idx *dim);
TINYI_FN unsigned char *tinyi_st_end(tinyi_st_head *h);    /* where the data go */

TINYI_C_END
#endif
