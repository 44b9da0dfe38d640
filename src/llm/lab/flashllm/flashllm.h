/* src/llm/lab/flashllm/flashllm.h - products with pruned matrices: zeros are neither stored nor read
 *
 *   y (n, n_out) = x (n, k) a^T                             a: llm/lab/flashllm/csl.h, ordered or woven
 *
 *   tllm_csl_desc d = { 0 };
 *   d.profile = TLLM_CSL_WOVEN;                            faster than ordered
 *   tllm_csl_build(ctx, &w, &d, &a);
 *   tllm_flash_matmul(ctx, &x, &a, &y);
 *
 * Two forms with one result, within rounding:
 *
 *   IMAGE      the form of the paper ("load as sparse, compute as dense"): a tile is expanded to 64 x 64 floats, zeros
 *              included, in the first-level cache, and multiplied by a dense kernel
 *   DIRECT     each stored number is multiplied directly: y[row] += value x[column] for all rows of x at once. The
 *              parts of y and x that a tile uses stay in the first-level cache
 *
 * AUTO takes the form expected to be faster, by the share of zeros, the rows of x and the vector width: DIRECT if about
 * half of the numbers or more are zeros. Zeros are not multiplied: if x is infinite or NaN where the matrix is 0, y
 * does not become NaN. Equal calls give equal bits for any number of threads. */
#ifndef TINYI_FLASHLLM_H
#define TINYI_FLASHLLM_H
#include "core/op.h"
#include "llm/lab/flashllm/csl.h"
TINYI_C_BEGIN

typedef enum tllm_flash_form { TLLM_FLASH_AUTO, TLLM_FLASH_IMAGE, TLLM_FLASH_DIRECT, TLLM_FLASH_FORMS } tllm_flash_form;

typedef struct tllm_flash_params {
    tiny_idx n_out;
    int bf16;
    int form;
    int woven;                              /* the profile; 0: ordered */
    /* nonzero: the reference adds absolute values, for its error bound */
    int magnitude;
} tllm_flash_params;

/* x (n, k), y (n, n_out) f32, any strides. tllm_flash_matmul chooses the form (AUTO). */
TINY_API tiny_status tllm_flash_matmul(tiny_ctx *ctx, const tiny_tensor *x, const tllm_csl *a, const tiny_tensor *y);
TINY_API tiny_status tllm_flash_matmul_as(tiny_ctx *ctx, const tiny_tensor *x, const tllm_csl *a, tllm_flash_form form,
                                          const tiny_tensor *y);
/* the form that AUTO chooses for n rows of x */
TINY_API tllm_flash_form tllm_flash_form_of(const tiny_ctx *ctx, const tllm_csl *a, tiny_idx n);
/* The row of the operation. Inputs: x (n, k) f32; items (dense, i32, their 32 bits) and offsets (dense, i32) of an
 * ordered or woven matrix. Offsets are checked with each call, positions are not: for a matrix that tllm_csl_check
 * refuses, y is undefined, but no memory is accessed out of bounds. */
TINY_API const tiny_op_row *tllm_flash_row(void);

TINYI_C_END
#endif
