/* src/math/binary.h - element-wise arithmetic: add, sub, mul, div, minimum, maximum, scale, axpy */
#ifndef TINYI_BINARY_H
#define TINYI_BINARY_H
#include "core/op.h"
TINYI_C_BEGIN

/* y = a op b, all f32. Shapes are aligned at the last axis; a dimension that is 1 or missing is repeated. y may be
 * exactly a or b. If the operation gets no b (NULL), `value` of the params replaces it.
 * minimum and maximum: NaN where a or b is NaN; of two zeros the second. */
typedef struct tiny_binary_params { float value; } tiny_binary_params;

TINY_API tiny_status tiny_add(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
TINY_API tiny_status tiny_sub(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
TINY_API tiny_status tiny_mul(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
TINY_API tiny_status tiny_div(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
TINY_API tiny_status tiny_minimum(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
TINY_API tiny_status tiny_maximum(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);

/* scale: y = alpha * x + beta, y may be exactly x. axpy: y += alpha * x, x and y of the same shape. Product and sum are
 * rounded separately. Zeros in the params are not defaults: alpha = beta = 0 gives zeros. */
typedef struct tiny_scale_params { float alpha, beta; } tiny_scale_params;

TINY_API tiny_status tiny_scale(tiny_ctx *ctx, const tiny_tensor *x, float alpha, float beta, const tiny_tensor *y);
TINY_API tiny_status tiny_axpy(tiny_ctx *ctx, const tiny_tensor *x, float alpha, const tiny_tensor *y);

#define TINYI_OPS_BINARY(ROW) \
    ROW(ADD, add) ROW(SUB, sub) ROW(MUL, mul) ROW(DIV, div) ROW(MINIMUM, minimum) ROW(MAXIMUM, maximum) \
    ROW(SCALE, scale) ROW(AXPY, axpy)

/* ---- inside: what the bodies share ---- */

/* the first six in the order of the kinds */
typedef enum tinyi_binary_f {
    TINYI_BINARY_ADD,
    TINYI_BINARY_SUB,
    TINYI_BINARY_MUL,
    TINYI_BINARY_DIV,
    TINYI_BINARY_MIN,
    TINYI_BINARY_MAX,
    TINYI_BINARY_SCALE,
    TINYI_BINARY_AXPY
} tinyi_binary_f;

/* a_step and b_step: 1, or 0 for one value that is used n times. y may be a or b. */
#define TINYI_KERNELS_BINARY(K)                                                                                        \
    K(binary_f32, void, (int f, float *y, const float *a, const float *b, size_t n, tiny_idx a_step, tiny_idx b_step)) \
    K(scale_f32, void, (float *y, const float *x, size_t n, float alpha, float beta))                                  \
    K(axpy_f32, void, (float *y, const float *x, size_t n, float alpha))

TINYI_C_END
#endif
