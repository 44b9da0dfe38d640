/* src/llm/round/smooth.h - SmoothQuant: moves outliers of the inputs into the weights; and a linear layer with 8-bit
 * weights and 8-bit inputs (W8A8)
 *
 *   tllm_calib_largest(calib, x_most);                      largest |x| of each input: llm/round/calib.h
 *   tllm_smooth_largest(ctx, w, rows, n, w_most);           largest |w| of each column, over all matrices with these
 *                                                           inputs
 *   tllm_smooth_factors(ctx, 0.5f, x_most, w_most, n, s);
 *   tllm_smooth_columns(ctx, w, rows, n, s);                W diag(s); divide the inputs by s, for example in the gain
 *                                                           of the norm before (llm/round/fold.h)
 *
 *   tllm_w8a8 q = { codes, scales };                        rows * n bytes, rows floats
 *   tllm_w8a8_weights(ctx, w, rows, n, &q);                 a scale for each row
 *   tllm_w8a8_inputs(ctx, x, tokens, n, n, 0, &xq);         a scale for each token; or one for all, from a calibrated
 *                                                           maximum
 *   tllm_w8a8_product(ctx, &xq, tokens, &q, rows, n, bias, y, rows);
 *
 * The product is the int8 matrix product of math/matmul.h: exact sums of integers, then y = s_x s_w sum + bias in
 * float. */
#ifndef TINYI_SMOOTH_H
#define TINYI_SMOOTH_H
#include "core/op.h"
TINYI_C_BEGIN

/* s_j = max(x_j^alpha / max(w_j, 1e-5)^(1 - alpha), 1e-5). alpha, 0 to 1: how much of the outliers moves into the
 * weights; usually 0.5, for strong outliers 0.75 to 0.85. An input that was always 0, or whose weights are all 0, gets
 * factor 1. */
TINY_API tiny_status tllm_smooth_factors(tiny_ctx *ctx, float alpha, const float *x_most, const float *w_most,
                                         tiny_idx n, float *s);
/* most[j] = max(most[j], |w_rj|) over rows. Set most to zero before the first of several matrices. */
TINY_API tiny_status tllm_smooth_largest(tiny_ctx *ctx, const float *w, tiny_idx rows, tiny_idx n, float *most);
/* w (rows, n) *= s, by columns, in place */
TINY_API tiny_status tllm_smooth_columns(tiny_ctx *ctx, float *w, tiny_idx rows, tiny_idx n, const float *s);

typedef struct tllm_w8a8 {
    int8_t *code;                           /* (rows, n) */
    float *scale;                           /* (rows) */
} tllm_w8a8;
enum { TLLM_W8A8_MOST = 131071 };           /* most inputs: the sum of this many products 127 * 128 fits into 32 bits */

/* scale = max |w| of the row / 127, code = rint(w / scale); a row of zeros has scale 1. A NaN or an infinity is an
 * error that names the row. */
TINY_API tiny_status tllm_w8a8_weights(tiny_ctx *ctx, const float *w, tiny_idx rows, tiny_idx n, const tllm_w8a8 *q);
/* The same for inputs, ld apart. most above 0: one static scale, most / 127; larger inputs are clamped. */
TINY_API tiny_status tllm_w8a8_inputs(tiny_ctx *ctx, const float *x, tiny_idx tokens, tiny_idx n, tiny_idx ld,
                                      float most, const tllm_w8a8 *q);
/* y (tokens, rows), its rows ld apart; bias (rows) or NULL */
TINY_API tiny_status tllm_w8a8_product(tiny_ctx *ctx, const tllm_w8a8 *x, tiny_idx tokens, const tllm_w8a8 *w,
                                       tiny_idx rows, tiny_idx n, const float *bias, float *y, tiny_idx ld);

TINYI_C_END
#endif
