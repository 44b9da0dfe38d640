/* src/math/convert.h - conversions between data types, and int8 with a scale
 *
 * convert        Any of the nine types to any other. Each value is rounded once, to the nearest, ties to even.
 *                To a float type: a value that is too large becomes infinite, NaN stays NaN.
 *                To an integer type: a value out of range becomes the largest or smallest integer, NaN becomes 0.
 * quantize_i8    y = round(x / scale) to the nearest, ties to even, clamped to -128 .. 127; NaN (so 0/0 too) gives 0
 * dequantize_i8  y = x * scale
 *                scale: f32, one value for all, or one for each row: the dims of x without the last axis.
 *
 * Every result has the same bits on every target, because it is one correctly rounded step.
 * There is no stochastic rounding and no zero point: the int8 matrix product takes symmetric int8. */
#ifndef TINYI_CONVERT_H
#define TINYI_CONVERT_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_convert_params {
    tiny_dtype to;                          /* type of the output; 0 is TINY_F32 */
} tiny_convert_params;

/* Converts to the type of y. Same shape, any strides, no overlap. */
TINY_API tiny_status tiny_convert(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);
/* x f32, y i8 of the same shape */
TINY_API tiny_status tiny_quantize_i8(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *scale,
                                      const tiny_tensor *y);
/* x i8, y f32 of the same shape */
TINY_API tiny_status tiny_dequantize_i8(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *scale,
                                        const tiny_tensor *y);

#define TINYI_OPS_CONVERT(ROW) \
    ROW(CONVERT, convert) ROW(QUANTIZE_I8, quantize_i8) ROW(DEQUANTIZE_I8, dequantize_i8)

/* ---- inside: what the bodies share ---- */

#define TINYI_KERNELS_CONVERT(K) \
    K(f32_to_f16, void, (uint16_t *y, const float *x, size_t n)) \
    K(f16_to_f32, void, (float *y, const uint16_t *x, size_t n)) \
    K(f32_to_bf16, void, (uint16_t *y, const float *x, size_t n)) \
    K(bf16_to_f32, void, (float *y, const uint16_t *x, size_t n)) \
    K(quantize_i8, void, (int8_t *y, const float *x, size_t n, float scale)) \
    K(dequantize_i8, void, (float *y, const int8_t *x, size_t n, float scale))

TINYI_C_END
#endif
