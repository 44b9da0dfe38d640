/* src/llm/block/matmul.h - products with matrices that stay in their block format
 *
 *   y (n, n_out) = x (n, k) w^T + bias
 *
 * w is what a model file holds: n_out rows of k numbers in one of the block formats, as bytes (u8, n_out x row bytes,
 * rows dense in themselves; where they start does not matter). Nothing is unpacked into memory of its own, and no
 * second copy is kept.
 *
 *   n up to 8     activations are quantized to 8 bits, a scale for each 32, and multiplied as integers on the blocks as
 *                 they lie
 *   n from 9 on   avx2: the same with rows of w expanded to bytes
 *   n of more     rows of w are unpacked into a panel in the second-level cache, float32 or (AMX) bfloat16, and
 *                 multiplied there
 *
 * Formats without integer kernels (NVFP4, Q1_0, Q2_0) are unpacked for few rows too. */
#ifndef TINYI_BLOCK_MATMUL_H
#define TINYI_BLOCK_MATMUL_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tllm_matmul_params {
    int format;                             /* TLLM_FORMAT_..., what w holds */
    /* nonzero: the reference adds up the sizes that its bound is made of; see the head of matmul.c */
    int magnitude;
} tllm_matmul_params;

/* x, bias (n_out numbers or NULL), y f32. */
TINY_API tiny_status tllm_matmul(tiny_ctx *ctx, const tiny_tensor *x, int format, const tiny_tensor *w,
                                 const tiny_tensor *bias, const tiny_tensor *y);
/* y[i] = x w[i]^T + bias[i] for 1 to 3 matrices that read the same x, such as queries, keys and values: the same bits
 * as one by one, in one region of threads, x quantized once where the formats allow it. bias NULL: none has one. No two
 * of y may overlap. */
TINY_API tiny_status tllm_matmul_together(tiny_ctx *ctx, const tiny_tensor *x, int n, const int *format,
                                          const tiny_tensor *const *w, const tiny_tensor *const *bias,
                                          const tiny_tensor *const *y);
/* Whose kernels such products run on, as finely as passes are compiled: "scalar", "w128", "neon", "neondot" and
 * "neonmm" (with dotprod, with i8mm too), "avx2", "avx2vnni", "avx512half", "amx"; "reference" where the context has no
 * kernels. */
TINY_API const char *tllm_matmul_pass(const tiny_ctx *ctx);
/* Its row: for tiny_op.row, recordings, tiny_conform_desc.rows. */
TINY_API const tiny_op_row *tllm_matmul_row(void);

/* ---- inside: what the bodies share ---- */

/* the same for operations that their caller has put together rightly */
TINYI_FN tiny_status tinyi_blk_products(tiny_ctx *ctx, const tiny_op *const *ops, size_t n);

TINYI_C_END
#endif
