/* src/math/sparse_lines_inside.h - compressed rows or columns (lines), through which every conversion of math/sparse.h
 * passes */
#ifndef TINYI_SPARSE_LINES_H
#define TINYI_SPARSE_LINES_H
#include "math/sparse.h"
TINYI_C_BEGIN

typedef struct tinyi_lines {
    tiny_idx n_lines;
    int64_t n;
    int64_t *offset;                        /* n_lines + 1 */
    int32_t *at;                            /* column of an entry in row lines, row in column lines */
    float *value;                           /* NULL: ones */
    int64_t *source;                        /* NULL: not wanted */
    int owned;                              /* else the arrays are those of a matrix */
    int merged;                             /* fewer entries than the arrays have room for */
} tinyi_lines;

/* Row lines of a (or of x), or column lines; sorted and merged as d says. Arrays that need no change stay those of
 * a. */
TINYI_FN tiny_status tinyi_lines_make(tiny_ctx *ctx, tinyi_lines *l, const tiny_sparse *a, const tiny_tensor *x,
                                      const tiny_sparse_desc *d, int by_col);
TINYI_FN void tinyi_lines_free(tiny_ctx *ctx, tinyi_lines *l);

TINYI_FN tiny_idx tinyi_sparse_words(const tiny_sparse *a);                     /* of a row of BITMAP */

TINYI_C_END
#endif
