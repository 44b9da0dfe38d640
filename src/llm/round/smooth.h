/* src/llm/round/smooth.h - SmoothQuant: outliers of the inputs move into the weights; and a linear layer of 8-bit
 * weights and 8-bit inputs (W8A8)
 *
 *   tllm_calib_largest(calib, x_most);                      largest |x| of each input: llm/round/calib.h
 *   tllm_smooth_largest(ctx, w, rows, n, w_most);           of each column of the weights; of all that read these
 *                                                           inputs
 *   tllm_smooth_factors(ctx, 0.5f, x_most, w_most, n, s);
 *   tllm_smooth_columns(ctx, w, rows, n, s);                W diag(s); the inputs come divided by s: the gain of the
 *                                                           norm before is (llm/round/fold.h)
 *
 *   tllm_w8a8 q = { codes, scales };                        rows * n bytes, rows floats
 *   tllm_w8a8_weights(ctx, w, rows, n, &q);                 a scale for each row
 *   tllm_w8a8_inputs(ctx, x, tokens, n, n, 0, &xq);         a scale for each token; or one for all, from a calibrated
 *                                                           maximum
 *   tllm_w8a8_product(ctx, &xq, tokens, &q, rows, n, bias, y, rows);
 *
 * The product is the int8 matrix product of math/matmul.h: sums of integers, exact, then y = s_x s_w sum + bias in
 * float. */
#ifndef TINYI_SMOOTH_H
#define TINYI_SMOOTH_H
#include "core/op.h"
TINYI_C_BEGIN

/* s_j = max(x_j^alpha / max(w_j, 1e-5)^(1 - alpha), 1e-5). alpha 0 to 1: how much of the outliers moves; 0.5, and 0.75
 * to 0.85 where they are strong.
 * An input that was never anything but 0, and one that no weight reads, keep 1: whatever comes there later is as large
 * as it was. */
TINY_API tiny_status tllm_smooth_factors(tiny_ctx *ctx, float alpha, const float *x_most, const float *w_most,
                                         tiny_idx n, float *s);
/* most[j] = max(most[j], |w_rj|) over rows: of several matrices, one call each, most all zero before the first */
TINY_API tiny_status tllm_smooth_largest(tiny_ctx *ctx, const float *w, tiny_idx rows, tiny_idx n, float *most);
TINY_API tiny_status tllm_smooth_columns(tiny_ctx *ctx, float *w, tiny_idx rows, tiny_idx n, const float *s);

typedef struct tllm_w8a8 {
    int8_t *code;                           /* (rows, n) */
    float *scale;                           /* (rows) */
} tllm_w8a8;
enum { TLLM_W8A8_MOST = 131071 };           /* inputs: so many products of 127 and 128 are a 32-bit sum yet */

/* scale = max |w| of the row / 127, code = rint(w / scale); a row of zeros has scale 1. A NaN or an infinity is refused
 * by its row. */
TINY_API tiny_status tllm_w8a8_weights(tiny_ctx *ctx, const float *w, tiny_idx rows, tiny_idx n, const tllm_w8a8 *q);
/* The same of inputs that lie ld apart. most above 0: static, scale = most / 127 for all, larger ones are cut. */
TINY_API tiny_status tllm_w8a8_inputs(tiny_ctx *ctx, const float *x, tiny_idx tokens, tiny_idx n, tiny_idx ld,
                                      float most, const tllm_w8a8 *q);
/* y (tokens, rows), rows of it ld apart; bias (rows) or NULL */
TINY_API tiny_status tllm_w8a8_product(tiny_ctx *ctx, const tllm_w8a8 *x, tiny_idx tokens, const tllm_w8a8 *w,
                                       tiny_idx rows, tiny_idx n, const float *bias, float *y, tiny_idx ld);

TINYI_C_END
#endif
