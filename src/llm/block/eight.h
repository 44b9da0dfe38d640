/* src/llm/block/eight.h - matrices in block formats, repacked: eight rows side by side
 *
 *   tllm_repack(ctx, TLLM_FORMAT_Q4_0, w, n_out, k, to);                  as many bytes as before, in another order
 *   tllm_matmul(ctx, &x, TLLM_FORMAT_Q4_0 | TLLM_REPACKED, &to_tensor, NULL, &y);
 *
 * A block of one row becomes a lane: groups of eight rows, block after block, and within one the scales of the eight
 * rows together, then vectors of 32 bytes with four codes of each row. So a product needs no shuffle and no sum over
 * lanes. Nothing is rounded and nothing added: tllm_repack_back gives the same bytes again. Rows beyond whole eights
 * stay as they are, at the end. The layout is the same on every machine, and every target multiplies it; avx2 has
 * kernels for it, the others take the blocks out again first and gain nothing. */
#ifndef TINYI_EIGHT_H
#define TINYI_EIGHT_H
#include "core/op.h"
TINYI_C_BEGIN

#define TLLM_REPACKED \
    0x1000 /* beside a TLLM_FORMAT_ in tllm_matmul: w is what tllm_repack made of all its rows, dense */

/* Has the format such a form? 2: and the kernels of the context are faster for it; 1: they are not; 0: it has none. */
TINY_API int tllm_repack_has(const tiny_ctx *ctx, int format);
/* w: n_out rows of k numbers in blocks, dense; to: as many bytes, elsewhere. */
TINY_API tiny_status tllm_repack(tiny_ctx *ctx, int format, const void *w, tiny_idx n_out, tiny_idx k, void *to);
TINY_API tiny_status tllm_repack_back(tiny_ctx *ctx, int format, const void *repacked, tiny_idx n_out, tiny_idx k,
                                      void *w);

/* ---- inside: what the bodies share ---- */

/* Blocks b .. b + n of row r out of a repacked matrix whose rows have row_bytes: to n blocks, side by side. n_out: rows
 * of the matrix. */
TINYI_FN void tinyi_eight_row(int format, const unsigned char *w, tiny_idx row_bytes, tiny_idx n_out, tiny_idx r,
                              tiny_idx b, tiny_idx n, unsigned char *to);
/* up to eight rows, row_step bytes apart, to one group; rows that are not there become blocks of zeros */
TINYI_FN void tinyi_eight_group(int format, const unsigned char *w, tiny_idx row_step, tiny_idx rows, tiny_idx blocks,
                                unsigned char *to);

TINYI_C_END
#endif
