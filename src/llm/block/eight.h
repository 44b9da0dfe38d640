/* src/llm/block/eight.h - repacked matrices in block formats: eight rows interleaved
 *
 *   tllm_repack(ctx, TLLM_FORMAT_Q4_0, w, n_out, k, to);                  the same number of bytes in another order
 *   tllm_matmul(ctx, &x, TLLM_FORMAT_Q4_0 | TLLM_REPACKED, &to_tensor, NULL, &y);
 *
 * Each row of a group of eight uses one lane of a vector. The group is stored block by block: first the scales of the
 * eight rows, then vectors of 32 bytes with four codes of each row. A product then needs no shuffle and no sum over
 * lanes.
 * Repacking is exact: tllm_repack_back gives the original bytes. Rows after the last whole group of eight are stored
 * unchanged at the end. The layout is the same on every machine, and every target can multiply it. avx2, avx512, amx
 * and neon with dotprod have kernels for it; other targets extract the blocks first and gain nothing. */
#ifndef TINYI_EIGHT_H
#define TINYI_EIGHT_H
#include "core/op.h"
TINYI_C_BEGIN

#define TLLM_REPACKED \
    0x1000 /* added to a TLLM_FORMAT_ in tllm_matmul: w is the output of tllm_repack for all its rows, dense */

/* 0: the format cannot be repacked; 1: it can, but the target of ctx has no faster kernels for it; 2: it has. */
TINY_API int tllm_repack_has(const tiny_ctx *ctx, int format);
/* w: n_out rows of k numbers in blocks, dense; to: room for the same number of bytes, not overlapping w. */
TINY_API tiny_status tllm_repack(tiny_ctx *ctx, int format, const void *w, tiny_idx n_out, tiny_idx k, void *to);
/* The inverse: writes the original bytes to w. */
TINY_API tiny_status tllm_repack_back(tiny_ctx *ctx, int format, const void *repacked, tiny_idx n_out, tiny_idx k,
                                      void *w);

/* ---- inside: what the bodies share ---- */

/* Copies blocks b .. b + n - 1 of row r of a repacked matrix to `to`, in the original layout. row_bytes: of a row;
 * n_out: rows of the matrix. */
TINYI_FN void tinyi_eight_row(int format, const unsigned char *w, tiny_idx row_bytes, tiny_idx n_out, tiny_idx r,
                              tiny_idx b, tiny_idx n, unsigned char *to);
/* packs up to eight rows, row_step bytes apart, into one group; missing rows become blocks of zeros */
TINYI_FN void tinyi_eight_group(int format, const unsigned char *w, tiny_idx row_step, tiny_idx rows, tiny_idx blocks,
                                unsigned char *to);

TINYI_C_END
#endif
