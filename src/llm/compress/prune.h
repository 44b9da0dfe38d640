/* src/llm/compress/prune.h - numbers of a matrix that become 0, all at once and without training
 *
 *   tllm_csl_prune(ctx, &w, norm, 0.8);              80 % of each row; norm[c] = the size of column c of the inputs, or
 *                                                    NULL
 *
 * llm/lab/flashllm multiplies with what is left. */
#ifndef TINYI_PRUNE_H
#define TINYI_PRUNE_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* One-shot pruning: of each row of w (n_out, k) f32 the share of the numbers with the smallest |w[r][c]| norm[c]
 * becomes 0 (of equal ones those further left); norm (k), the size of what column c meets, or NULL: 1. */
TINY_API tiny_status tllm_csl_prune(tiny_ctx *ctx, const tiny_tensor *w, const float *norm, double share);

TINYI_C_END
#endif
