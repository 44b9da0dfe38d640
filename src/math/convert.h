/* src/math/convert.h - one data type to another, and int8 with a scale */
#ifndef TINYI_CONVERT_H
#define TINYI_CONVERT_H
#include "core/op.h"
#include "core/half.h"
TINYI_C_BEGIN

#define TINYI_OPS_CONVERT(ROW) \
    ROW(CONVERT, convert) ROW(QUANTIZE_I8, quantize_i8) ROW(DEQUANTIZE_I8, dequantize_i8)

#define TINYI_KERNELS_CONVERT(K) \
    K(f32_to_f16, void, (uint16_t *y, const float *x, size_t n)) \
    K(f16_to_f32, void, (float *y, const uint16_t *x, size_t n)) \
    K(f32_to_bf16, void, (uint16_t *y, const float *x, size_t n)) \
    K(bf16_to_f32, void, (float *y, const uint16_t *x, size_t n)) \
    K(quantize_i8, void, (int8_t *y, const float *x, size_t n, float scale)) \
    K(dequantize_i8, void, (float *y, const int8_t *x, size_t n, float scale))

TINYI_C_END
#endif
