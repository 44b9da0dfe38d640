/* src/math/norm.h - normalisation of rows and of groups of channels */
#ifndef TINYI_NORM_H
#define TINYI_NORM_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_norm_params {
    float eps;                              /* 0: 1e-5 (l2norm 1e-12); below 0: none */
    int groups;                             /* groupnorm only; 0: 1 */
} tiny_norm_params;

/* Over the last axis of n values, all f32. g and b have n values each; NULL means ones and zeros. y may be exactly x.
 *   rmsnorm     y = g x / sqrt(mean x^2 + eps)
 *   layernorm   y = g (x - mean) / sqrt(variance + eps) + b
 *   l2norm      y = x / max(sqrt(sum x^2), eps); zeros for a row of zeros
 *   groupnorm   as layernorm over each group of channels of each image of x (image, channel, ...); g and b have one
 *               value for each channel, and the number of channels is a multiple of groups
 *   add_rmsnorm, add_layernorm   s = x + r, then the norm of s; s may be exactly x */
TINY_API tiny_status tiny_rmsnorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g, float eps,
                                  const tiny_tensor *y);
TINY_API tiny_status tiny_layernorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g, const tiny_tensor *b,
                                    float eps, const tiny_tensor *y);
TINY_API tiny_status tiny_l2norm(tiny_ctx *ctx, const tiny_tensor *x, float eps, const tiny_tensor *y);
TINY_API tiny_status tiny_groupnorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g, const tiny_tensor *b,
                                    int groups, float eps, const tiny_tensor *y);
TINY_API tiny_status tiny_add_rmsnorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *r, const tiny_tensor *g,
                                      float eps, const tiny_tensor *s, const tiny_tensor *y);
TINY_API tiny_status tiny_add_layernorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *r, const tiny_tensor *g,
                                        const tiny_tensor *b, float eps, const tiny_tensor *s, const tiny_tensor *y);

#define TINYI_OPS_NORM(ROW) \
    ROW(RMSNORM, rmsnorm) ROW(LAYERNORM, layernorm) ROW(L2NORM, l2norm) ROW(GROUPNORM, groupnorm) \
    ROW(ADD_RMSNORM, add_rmsnorm) ROW(ADD_LAYERNORM, add_layernorm)

/* ---- inside: what the bodies share ---- */

/* (x - mid - rest) * r is the normalised value; mid is a float near the mean */
typedef struct tinyi_norm_fit { float mid, rest, r; } tinyi_norm_fit;

/* g and b may be NULL, y may be x. moments: sum and sum of squares of x - mid. affine: y = g ((x - mid - rest) r) +
 * b */
#define TINYI_KERNELS_NORM(K)                                                                                       \
    K(rmsnorm_f32, void, (float *y, const float *x, const float *g, size_t n, float eps))                           \
    K(layernorm_f32, void, (float *y, const float *x, const float *g, const float *b, size_t n, float eps))         \
    K(norm_moments_f32, void, (const float *x, size_t n, float mid, double *sum, double *squares))                  \
    K(norm_affine_f32, void, (float *y, const float *x, size_t n, const tinyi_norm_fit *fit, float g, float b))

/* Squares of floats leave the range of float above 1e19 and below 1e-19. Sums outside these limits are computed again
 * in double, which is rare. Small ones matter only if eps is small too. */
#define TINYI_NORM_BLOCK 4096               /* values summed in float at most */
TINYI_INLINE int tinyi_norm_doubtful(double squares, float eps)
{
    return !(squares < 1e37) || (squares < 1e-20 && eps < 1e-10f);
}
/* fit from sum and squares about fit->mid over n values; x: the values, for a doubtful row */
TINYI_FN void tinyi_norm_finish(tinyi_norm_fit *fit, const float *x, size_t n, double sum, double squares, float eps);

TINYI_C_END
#endif
