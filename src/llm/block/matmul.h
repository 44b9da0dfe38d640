/* src/llm/block/matmul.h - products with matrices in block formats, without unpacking the whole matrix
 *
 *   y (n, n_out) = x (n, k) w^T + bias
 *
 * w is stored as in a model file: n_out rows of k numbers in a block format, as bytes (u8, n_out x row bytes; a row is
 * contiguous, rows may be any distance apart). No unpacked copy of w is kept.
 *
 *   few rows of x   x is quantized to 8 bits, with a scale for each 32 numbers, and multiplied as integers directly
 *                   with the blocks
 *   from 2 to 16    avx2, avx512, neon, w128: the same with rows of w expanded to bytes
 *   from 32         all others: rows of w are unpacked to float32 in a panel in the second-level cache, and multiplied
 *                   there. With AMX the panel is bfloat16 and is used from 37 rows on */
#ifndef TINYI_BLOCK_MATMUL_H
#define TINYI_BLOCK_MATMUL_H
#include "core/op.h"
TINYI_C_BEGIN

/* The target amx: 9 to this many rows of x are multiplied as bytes, more of them as bfloat16. Bytes have half of the
 * error; bfloat16 takes less time from about 40 rows on (docs/dev/speed.md). 0: no products of bytes from 9 rows on. */
#ifndef TINYLLM_AMX_BYTES
#define TINYLLM_AMX_BYTES 36
#endif

typedef struct tllm_matmul_params {
    int format;                             /* TLLM_FORMAT_... of w */
    /* nonzero: the reference computes the magnitude M of its error bound instead of y; see the head of matmul.c */
    int magnitude;
    /* nonzero: the bits of a row of y depend on its row of x and on w alone, not on the number of rows. Few and many
     * rows then go through the same kernel, up to eight at a time (repacked: one); w is read from memory once for up to
     * 32 of them */
    int alone;
} tllm_matmul_params;

/* x (n, k), y (n, n_out) and bias (n_out), or bias NULL: f32. format: TLLM_FORMAT_... of w. */
TINY_API tiny_status tllm_matmul(tiny_ctx *ctx, const tiny_tensor *x, int format, const tiny_tensor *w,
                                 const tiny_tensor *bias, const tiny_tensor *y);
/* y[i] = x w[i]^T + bias[i] for 1 to 3 matrices with the same x, such as queries, keys and values. The results have the
 * same bits as separate calls. The call starts the threads once, and quantizes x once if the formats allow it. bias
 * NULL: no bias. The y must not overlap. */
TINY_API tiny_status tllm_matmul_together(tiny_ctx *ctx, const tiny_tensor *x, int n, const int *format,
                                          const tiny_tensor *const *w, const tiny_tensor *const *bias,
                                          const tiny_tensor *const *y);
/* The name of the kernels that these products use: "scalar", "w128", "neon", "neondot" (dotprod), "neonmm" (dotprod and
 * i8mm), "avx2", "avx2vnni", "avx512half", "amx"; "reference" if the context has no kernels. */
TINY_API const char *tllm_matmul_pass(const tiny_ctx *ctx);
/* The row of the operation: for tiny_op.row, recordings, tiny_conform_desc.rows. */
TINY_API const tiny_op_row *tllm_matmul_row(void);

/* ---- inside: what the bodies share ---- */

/* the same for operations that the caller has already checked */
TINYI_FN tiny_status tinyi_blk_products(tiny_ctx *ctx, const tiny_op *const *ops, size_t n);

TINYI_C_END
#endif
