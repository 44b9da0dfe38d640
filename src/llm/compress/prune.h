/* src/llm/compress/prune.h - one-shot pruning: sets numbers of a matrix to 0 without training
 *
 *   tllm_csl_prune(ctx, &w, norm, 0.8);              80 % of each row; norm[c] = norm of input column c; may be NULL
 *
 * llm/lab/flashllm multiplies with the result. */
#ifndef TINYI_PRUNE_H
#define TINYI_PRUNE_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* Sets the share of the numbers with the smallest |w[r][c]| norm[c] in each row of w (n_out, k) f32 to 0; of equal ones
 * those further left. norm (k): the norm of the inputs of column c; NULL: 1. */
TINY_API tiny_status tllm_csl_prune(tiny_ctx *ctx, const tiny_tensor *w, const float *norm, double share);

TINYI_C_END
#endif
