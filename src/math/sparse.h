/* src/math/sparse.h - six forms of a sparse matrix, and the ways between them
 *
 * One struct for all forms; unused members are NULL or 0. Row and column numbers have 32 bits, offsets 64: a graph may
 * have more than 2^31 edges. A tiny_sparse is a view: its arrays belong to you, or (owned) to the context that made
 * them.
 *
 *   COO     row[n], col[n], value[n]                            entries in any order
 *   CSR     offset[n_rows + 1], col[n], value[n]                entries of row r: offset[r] .. offset[r + 1]
 *   CSC     offset[n_cols + 1], row[n], value[n]                the same by columns
 *   ELL     col[n_rows * width], value[n_rows * width]          row r: slots r * width ..; col -1 ends it (padding)
 *   BSR     offset[block rows + 1], col[n], value[n * block_rows * block_cols]
 *                                                               n blocks, col counts blocks and ascends in a row; each
 *                                                               block row-major, zeros stored; blocks at the edge are
 *                                                               padded
 *   BITMAP  bits[n_rows * words], offset[n_rows + 1], value[n]  words = (n_cols + 63) / 64; bit c % 64 of word c / 64
 *           says
 *                                                               that column c is there; values row by row, by column
 *
 * value NULL: every entry is 1 (not in BSR). Every conversion checks what it is given, takes linear time, and leaves
 * nothing behind when it fails. A conversion through BSR drops entries that are 0, like one from a dense matrix. */
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
    int owned;                              /* tiny_sparse_free gives the arrays back */
    tiny_idx n_rows, n_cols;                /* 0 .. 2147483647 */
    int64_t n;                              /* entries without padding; BSR: blocks */
    int64_t *offset;
    int32_t *row, *col;
    uint64_t *bits;
    float *value;
    /* COO, CSR, CSC: entry p was number source[p] of what it was made from (with_source) */
    int64_t *source;
    tiny_idx width;                         /* ELL: slots of a row */
    int block_rows, block_cols;             /* BSR */
} tiny_sparse;

/* What becomes of several entries at one place, in their order. SUM adds in double and rounds once; MAX takes a NaN as
 * the largest. ELL, BSR and BITMAP add what KEEP would keep. */
typedef enum tiny_duplicates {
    TINY_DUPLICATES_KEEP,
    TINY_DUPLICATES_SUM,
    TINY_DUPLICATES_FIRST,
    TINY_DUPLICATES_MAX
} tiny_duplicates;

typedef struct tiny_sparse_desc {           /* all zero: COO */
    tiny_sparse_form form;
    tiny_duplicates duplicates;
    int keep_order;                         /* CSR, CSC: entries of a row keep their order; else they ascend (stable) */
    /* COO, CSR, CSC: fill source; of merged entries the first's, with MAX the largest's */
    int with_source;
    int block_rows, block_cols;             /* BSR: needed */
    tiny_idx width;                         /* ELL: 0 takes the longest row */
} tiny_sparse_desc;

/* How many elements each array of a result has; 0: the array is not used. */
typedef struct tiny_sparse_room { size_t offset, row, col, bits, value, source; } tiny_sparse_room;

/* Order and range of everything, with a sentence that names the first fault. */
TINY_API tiny_status tiny_sparse_check(tiny_ctx *ctx, const tiny_sparse *a);

/* The arrays are taken from the context: give them back with tiny_sparse_free. out may not be a. */
TINY_API tiny_status tiny_sparse_convert(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                         tiny_sparse *out);
/* The same into your arrays: out has those pointers, room says how long they are. What is needed, tiny_sparse_size
 * tells before (it does most of the work of the conversion, unless that is between COO, CSR and CSC with duplicates
 * kept). */
TINY_API tiny_status tiny_sparse_size(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                      tiny_sparse_room *room);
TINY_API tiny_status tiny_sparse_convert_into(tiny_ctx *ctx, const tiny_sparse *a, const tiny_sparse_desc *desc,
                                              const tiny_sparse_room *room, tiny_sparse *out);

/* x and y: f32, rank 2, any strides. Entries are the numbers that are not 0 (NaN is one); duplicates are added. */
TINY_API tiny_status tiny_sparse_from_dense(tiny_ctx *ctx, const tiny_tensor *x, const tiny_sparse_desc *desc,
                                            tiny_sparse *out);
TINY_API tiny_status tiny_sparse_to_dense(tiny_ctx *ctx, const tiny_sparse *a, const tiny_tensor *y);

TINY_API void tiny_sparse_free(tiny_ctx *ctx, tiny_sparse *a);     /* takes NULL, and matrices that own nothing */
TINY_API const char *tiny_sparse_form_name(tiny_sparse_form form);  /* "csr"; "?" for an unknown one */

TINYI_C_END
#endif
