/* src/math/slope.h - derivatives of the elementary functions, for the gradients */
#ifndef TINYI_SLOPE_H
#define TINYI_SLOPE_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_slope_params { int of; } tiny_slope_params;     /* TINY_OP_EXP ... TINY_OP_GELU_TANH */

/* dx = dy f'(x); x, dy and dx of the same shape; dx may be dy. f'(0) is 0 for relu, relu2 and abs. For round dx is dy
 * (the straight-through estimate of Y. Bengio et al., 2013, arXiv 1308.3432). */
TINY_API tiny_status tiny_slope(tiny_ctx *ctx, int of, const tiny_tensor *x, const tiny_tensor *dy,
                                const tiny_tensor *dx);
/* y = x to the nearest integer, ties to even. */
TINY_API tiny_status tiny_round(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);

#define TINYI_OPS_SLOPE(ROW) ROW(SLOPE, slope) ROW(ROUND, round)

/* ---- inside: what the bodies share ---- */

#define TINYI_KERNELS_SLOPE(K)                                                              \
    K(slope_f32, void, (int of, float *dx, const float *x, const float *dy, size_t n))      \
    K(nearest_f32, void, (float *y, const float *x, size_t n))

TINYI_C_END
#endif
