/* src/llm/compress/prune.h - one-shot pruning: sets numbers of a matrix to 0 without training
 *
 *   tllm_csl_prune(ctx, &w, norm, 0.8);              80 % of each row; norm[c] = norm of input column c; may be NULL
 *
 * llm/lab/flashllm multiplies with the result. */
#ifndef TINYI_PRUNE_H
#define TINYI_PRUNE_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* In each row of w (n_out, k) f32, sets this share of the numbers to 0: those with the smallest |w[r][c]| norm[c];
 * among equal ones the leftmost first. norm (k): norm[c] is the norm of input c over some text; NULL: all 1. */
TINY_API tiny_status tllm_csl_prune(tiny_ctx *ctx, const tiny_tensor *w, const float *norm, double share);

TINYI_C_END
#endif
