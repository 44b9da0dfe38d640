/* src/math/twist.h - TWIST: suppresses the sum of many small attention weights, after the softmax
 *
 *     tiny_twist_params p;
 *     p.t = 0.1f;                             weights of at most a tenth of the largest in their row are trivial
 *     p.s = 0.5f;
 *     tiny_softmax(ctx, &scores, NULL, &a);
 *     tiny_twist(ctx, &a, NULL, &p, &a);      a trivial weight becomes s a^2 / (sum of the trivial ones + 1e-6)
 *
 * The other weights do not change. The row is not normalised again: its sum is less than 1. n equal trivial weights are
 * divided by n / s. s = 0 switches it off: y = a.
 * "Accumulated Trivial Attention Matters in Vision Transformers on Small Datasets", 2022 (arXiv 2210.12333).
 *
 * a (..., n) holds weights of at least 0. A number that is not finite makes its whole row NaN. tiny_attention does the
 * same without a matrix of weights: see twist_t and twist_s of its params. */
#ifndef TINYI_TWIST_H
#define TINYI_TWIST_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_twist_params {
    float t;                                /* at least 0; the authors used 0.1 (ViT) and 0.05 (PiT) */
    /* the authors started with 0.5 and trained one s for each layer, with its own learning rate (1e-3 to 7e-5) */
    float s;
} tiny_twist_params;

/* s: NULL, or a tensor of one number that replaces params.s and gets a gradient. y may be exactly a. */
TINY_API tiny_status tiny_twist(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *s,
                                const tiny_twist_params *params, const tiny_tensor *y);
/* The gradient without a tape: d_a has the shape of a. d_s (..., 1) has one number for each row; dL/ds is their sum.
 * The choice of trivial weights counts as constant. With s = 0, d_a is dy and d_s is 0. */
TINY_API tiny_status tiny_twist_backward(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *dy,
                                         const tiny_tensor *s, const tiny_twist_params *params, const tiny_tensor *d_a,
                                         const tiny_tensor *d_s);

#define TINYI_OPS_TWIST(ROW) ROW(TWIST, twist) ROW(TWIST_BACKWARD, twist_backward)

/* ---- inside: what the bodies share ---- */

/* for the operations that have such params */
#define TINYI_TWIST_LEAST 1e-6 /* added to the sum of the trivial weights, so that nothing is divided by 0 */
TINYI_FN double tinyi_twist_s(float s, const tiny_tensor *given);
TINYI_FN tiny_status tinyi_twist_check(tiny_ctx *ctx, const char *name, const tiny_op *op, float t, float s,
                                       const tiny_tensor *given);

/* trivial: a[i] <= low
 *   sum    of the trivial ones; not finite where some number is not
 *   write  y = f a^2 where trivial, else a                     dot   sum g a^2 over the trivial ones
 *   back   da = f a g - c where trivial, else g                                                                  */
#define TINYI_KERNELS_TWIST(K)                                                                                        \
    K(twist_sum_f32, float, (const float *a, size_t n, float low))                                                    \
    K(twist_write_f32, void, (float *y, const float *a, size_t n, float low, float f))                                \
    K(twist_dot_f32, float, (const float *a, const float *g, size_t n, float low))                                    \
    K(twist_back_f32, void, (float *da, const float *a, const float *g, size_t n, float low, float f, float c))

TINYI_C_END
#endif
