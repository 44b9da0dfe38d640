/* src/math/sparse_forms_inside.h - the six forms of math/sparse.h, made of row or column lines */
#ifndef TINYI_SPARSE_FORMS_H
#define TINYI_SPARSE_FORMS_H
#include "math/sparse_lines_inside.h"
TINYI_C_BEGIN

/* out has its form and shape. room: its arrays are the caller's and so long, else they are taken from the context;
 * told: only what is needed is written, and out stays. */
TINYI_FN tiny_status tinyi_sparse_to_ell(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out, tiny_idx width,
                                         const tiny_sparse_room *room, tiny_sparse_room *told);
TINYI_FN tiny_status tinyi_sparse_to_bsr(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out,
                                         const tiny_sparse_room *room, tiny_sparse_room *told);
TINYI_FN tiny_status tinyi_sparse_to_bitmap(tiny_ctx *ctx, const tinyi_lines *l, tiny_sparse *out,
                                            const tiny_sparse_room *room, tiny_sparse_room *told);
/* COO, CSR, CSC: what fits is handed over, and l owns it no longer; the rest is copied */
TINYI_FN tiny_status tinyi_sparse_to_lists(tiny_ctx *ctx, tinyi_lines *l, tiny_sparse *out,
                                           const tiny_sparse_room *room, tiny_sparse_room *told);

TINYI_FN tiny_idx tinyi_sparse_block_rows(const tiny_sparse *a);                /* rows of blocks, of BSR */
TINYI_FN tiny_idx tinyi_sparse_block_cols(const tiny_sparse *a);

TINYI_C_END
#endif
