/* src/llm/lab/bipolar/bipolar.h - products of 1..8-bit weights with 1..8-bit activations, computed on bit planes
 *
 *   tllm_bipolar w;
 *   tllm_bipolar_make(ctx, &weights, NULL, 3, 128, &w);             f32 (n, k) to 3 bits, a scale for each 128
 *                                                                   numbers of a row
 *   tllm_bipolar_matmul(ctx, &w, &x, 4, NULL, &y);                  y (m, n) = x w^T; x (m, k) is packed to 4 bits
 *   tllm_bipolar_free(ctx, &w);
 *
 * A code c of b bits means v = 2 c - (2^b - 1): the odd integers from -(2^b - 1) to 2^b - 1. Bit i counts +2^i if it is
 * set, else -2^i. There is no zero, no sign bit and no zero point, so every pair of bit planes is multiplied the same
 * way: over K numbers the product is K minus twice the number of differing bits. Signed integers are stored exactly:
 * the code of q is q + 2^(b-1), which means q = (v - 1) / 2.
 *
 * Integer results are exact and the same on every target. This is the feature BIPOLAR of docs/guide/options.md. */
#ifndef TINYI_BIPOLAR_H
#define TINYI_BIPOLAR_H
#include "core/op.h"
TINYI_C_BEGIN

#define TLLM_BIPOLAR_BITS 8
#define TLLM_BIPOLAR_ROWS 16 /* rows of a panel; one bit of 32 numbers of each row is a line of 64 bytes */

typedef struct tllm_bipolar {
    tiny_idx n, k, group;                   /* rows, numbers of a row, numbers that share a scale (0: the row) */
    int bits, is_signed;                    /* is_signed: a code means (v - 1) / 2 */
    size_t n_bytes;
    /* [panel of 16 rows][32 numbers][plane][row] of 4 bytes; number i at bit i % 8 of byte i / 8 */
    unsigned char *planes;
    float *scale;                           /* (n, groups); NULL: none */
    int32_t *sum;                           /* (n, groups), sums of v; NULL unless is_signed */
} tllm_bipolar;

/* bytes of the planes: bits / 8 per number, with rows rounded up to 16 and numbers to 64; SIZE_MAX: overflow, or bits
 * not in 1..8 */
TINY_API size_t tllm_bipolar_bytes(tiny_idx n, tiny_idx k, int bits);
/* groups of a row; the last may be shorter */
TINY_API tiny_idx tllm_bipolar_groups(tiny_idx k, tiny_idx group);

/* w (n, k) f32; code (n, k) u8; scale (n, groups) f32. s = max|w| / (2^bits - 1) over a group, c = clamp(rint((w / s +
 * 2^bits - 1) / 2)): codes mean s v. A group of zeros, or of numbers too small for a scale, has scale 0. group: 0 or a
 * multiple of 64. NaN and infinities are errors, and then nothing is written. */
TINY_API tiny_status tllm_bipolar_quantize(tiny_ctx *ctx, const tiny_tensor *w, int bits, tiny_idx group,
                                           const tiny_tensor *code, const tiny_tensor *scale);

/* Packs w (n, k): f32, which is quantized; u8, codes; or i8, signed integers of `bits` bits. A code or integer with
 * more bits is an error. scale (n, groups) f32 for codes and integers, NULL: none; with f32 it must be NULL. Free *out
 * with tllm_bipolar_free. */
TINY_API tiny_status tllm_bipolar_make(tiny_ctx *ctx, const tiny_tensor *w, const tiny_tensor *scale, int bits,
                                       tiny_idx group, tllm_bipolar *out);
TINY_API void tllm_bipolar_free(tiny_ctx *ctx, tllm_bipolar *w);           /* also after a failed make */
/* the code of number i of a row; -1: out of range */
TINY_API int tllm_bipolar_code(const tllm_bipolar *w, tiny_idx row, tiny_idx i);

/* y (m, n) = x w^T. x (m, k):
 *   f32   quantized to abits per row, or per group of w; a group with a NaN or an infinity makes its row of y NaN
 *   u8    codes, of which the low abits are used; scale_x (m, groups) f32, or NULL
 *   i8    signed integers, of which the low abits are used; w must be signed too
 * y is i32, the exact sums, if neither side has scales. Otherwise it is f32: the sum over groups of scale_w scale_x
 * times the exact sum. */
TINY_API tiny_status tllm_bipolar_matmul(tiny_ctx *ctx, const tllm_bipolar *w, const tiny_tensor *x, int abits,
                                         const tiny_tensor *scale_x, const tiny_tensor *y);
/* the bit counting used: "vpopcntd", "pshufb", "cnt", "plain C"; on the reference target "reference" */
TINY_API const char *tllm_bipolar_pass(const tiny_ctx *ctx);

/* ---- the operation: for conformance tests, recorders and accelerators
 * in: x (m, k); planes u8 (bytes), whose bits beyond number k must be 0, because the product counts them; scale_w (n,
 * groups), scale_x (m, groups) f32, sum_w (n, groups) i32, each optional. out: y */
typedef struct tllm_bipolar_params {
    tiny_idx n, group;
    int wbits, abits, signed_w;
    /* nonzero: the reference adds absolute values, for its error bound */
    int magnitude;
} tllm_bipolar_params;
TINY_API const tiny_op_row *tllm_bipolar_row(void);

TINYI_C_END
#endif
