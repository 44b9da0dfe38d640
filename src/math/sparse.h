/* src/math/sparse.h - sparse matrices in six forms, and conversions between them
 *
 * One struct holds all forms; unused members are NULL or 0. Row and column numbers have 32 bits, offsets 64: there may
 * be more than 2^31 entries. A tiny_sparse is a view. Its arrays belong to you, or to the context that made them
 * (owned).
 *
 *   COO     row[n], col[n], value[n]                            entries in any order
 *   CSR     offset[n_rows + 1], col[n], value[n]                entries of row r: offset[r] .. offset[r + 1]
 *   CSC     offset[n_cols + 1], row[n], value[n]                the same by columns
 *   ELL     col[n_rows * width], value[n_rows * width]          row r: from slot r * width on; col -1 ends it (padding)
 *   BSR     offset[block rows + 1], col[n], value[n * block_rows * block_cols]
 *                                                               n blocks, col counts blocks and ascends in a row; each
 *                                                               block row-major, zeros stored, padded at the edges
 *   BITMAP  bits[n_rows * words], offset[n_rows + 1], value[n]  words = (n_cols + 63) / 64; bit c % 64 of word c / 64
 *                                                               is set if column c has an entry; values in the order
 *                                                               of rows, then columns
 *
 * value NULL: every entry is 1 (not in BSR). Every conversion checks its input, takes linear time, and frees its memory
 * if it fails. A conversion through BSR drops entries that are 0, like one from a dense matrix. */
#ifndef TINYI_SPARSE_H
#define TINYI_SPARSE_H
#include "core/tensor.h"
#include "core/ctx.h"
TINYI_C_BEGIN

typedef enum tiny_sparse_form {
    TINY_COO,
    TINY_CSR,
    TINY_CSC,
    TINY_ELL,
    TINY_BSR,
    TINY_BITMAP,
    TINY_SPARSE_FORM_COUNT
} tiny_sparse_form;

typedef struct tiny_sparse {
    tiny_sparse_form form;
    int owned;                              /* tiny_sparse_free frees the arrays */
    tiny_idx n_rows, n_cols;                /* 0 .. 2147483647 */
    int64_t n;                              /* entries without padding; BSR: blocks */
    int64_t *offset;
    int32_t *row, *col;
    uint64_t *bits;
    float *value;
    /* COO, CSR, CSC: entry p was entry source[p] of the input of the conversion (with_source) */
    int64_t *source;
    tiny_idx width;                         /* ELL: slots of a row */
    int block_rows, block_cols;             /* BSR */
} tiny_sparse;

/* How several entries at one place are merged, in their order. SUM adds in double and rounds once; MAX takes a NaN as
 * the largest. ELL, BSR and BITMAP treat KEEP as SUM. */
typedef enum tiny_duplicates {
    TINY_DUPLICATES_KEEP,
    TINY_DUPLICATES_SUM,
    TINY_DUPLICATES_FIRST,
    TINY_DUPLICATES_MAX
} tiny_duplicates;

typedef struct tiny_sparse_desc {           /* all zero: COO */
    tiny_sparse_form form;
    tiny_duplicates duplicates;
    int keep_order;                         /* CSR, CSC: entries of a row keep their order; else sorted (stable) */
    /* COO, CSR, CSC: fill source. A merged entry gets the source of the first, with MAX of the largest. */
    int with_source;
    int block_rows, block_cols;             /* BSR: required */
    tiny_idx width;                         /* ELL: 0 means the length of the longest row */
} tiny_sparse_desc;

/* The number of elements in each array of a result; 0: the array is not used. */
typedef struct tiny_sparse_room { size_t offset, row, col, bits, value, source; } tiny_sparse_room;

/* Checks the order and range of all numbers. The sentence names the first fault. */
TINY_API tiny_status tiny_sparse_check(tiny_ctx *ctx, const tiny_sparse *a);

/* The context allocates the arrays: free them with tiny_sparse_free. out must not be a. */
TINY_API tiny_status tiny_sparse_convert(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                         tiny_sparse *out);
/* The same into your own arrays: out has their pointers, room their lengths. tiny_sparse_size computes the lengths that
 * are needed. It does most of the work of a conversion, except between COO, CSR and CSC with duplicates kept. */
TINY_API tiny_status tiny_sparse_size(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                      tiny_sparse_room *room);
TINY_API tiny_status tiny_sparse_convert_into(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                              const tiny_sparse_room *room, tiny_sparse *out);

/* x and y: f32, rank 2, any strides. Every number that is not 0 becomes an entry, NaN too. to_dense adds duplicates. */
TINY_API tiny_status tiny_sparse_from_dense(tiny_ctx *ctx, const tiny_tensor *x, const tiny_sparse_desc *desc,
                                            tiny_sparse *out);
TINY_API tiny_status tiny_sparse_to_dense(tiny_ctx *ctx, const tiny_sparse *a, const tiny_tensor *y);

TINY_API void tiny_sparse_free(tiny_ctx *ctx, tiny_sparse *a);     /* takes NULL, and matrices that own nothing */
TINY_API const char *tiny_sparse_form_name(tiny_sparse_form form);  /* "csr"; "?" for an unknown one */

TINYI_C_END
#endif
