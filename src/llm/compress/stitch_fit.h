/* src/llm/compress/stitch_fit.h - SN-Net: first values of the linear layer between two networks, by least squares */
#ifndef TINYI_STITCH_FIT_H
#define TINYI_STITCH_FIT_H
#include "llm/compress/stitch.h"
TINYI_C_BEGIN

/* The linear layer that maps a to b best: w (d2, d1) and bias (d2) minimise |a w^T + bias - b|^2 + r (|w|^2 +
 * |bias|^2), with r = 1e-6 of the mean square of the columns of a and the ones. a (n, d1), b (n, d2), n > d1. Types f32
 * or f64. *left (may be NULL): |a w^T + bias - b|^2 as a share of |b - mean of b|^2. */
TINY_API tiny_status tllm_stitch_solve(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *w,
                                       const tiny_tensor *bias, double *left);

TINYI_C_END
#endif
