/* src/math/matmul.h - products of matrices, with bias and activation
 *
 *   a (..., m, k), b (..., k, n), y (..., m, n), rank 2 to 4. Any strides: pass weights stored as (n, k) as the view
 *   tiny_tensor_swap(w, 0, 1). Leading axes are batches; an axis that is 1 or missing is repeated. bias (n) may be
 *   NULL. With at most 12 rows m or columns n, a matrix-vector kernel runs. Results do not depend on the number of
 *   threads. */
#ifndef TINYI_MATMUL_H
#define TINYI_MATMUL_H
#include "core/op.h"
TINYI_C_BEGIN

typedef enum tiny_act {
    TINY_ACT_NONE,
    TINY_ACT_RELU,
    TINY_ACT_RELU2,
    TINY_ACT_SILU,
    TINY_ACT_GELU,
    TINY_ACT_GELU_TANH,
    TINY_ACT_COUNT
} tiny_act;

typedef struct tiny_matmul_params { int act; } tiny_matmul_params;

/* y = act(a b + bias). a, bias, y f32; b f32, f16 or bf16. */
TINY_API tiny_status tiny_matmul(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *bias,
                                 int act, const tiny_tensor *y);

/* a i8 or u8, b i8. Without scales y is i32: the sum modulo 2^32 (with k below 65793 it does not overflow).
 * With scale_a (m), scale_b (n) or both, y is f32: act(scale_a[i] scale_b[j] sum + bias[j]). */
TINY_API tiny_status tiny_matmul_i8(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b,
                                    const tiny_tensor *scale_a, const tiny_tensor *scale_b, const tiny_tensor *bias,
                                    int act, const tiny_tensor *y);

#define TINYI_OPS_MATMUL(ROW) ROW(MATMUL, matmul) ROW(MATMUL_I8, matmul_i8)

/* ---- inside: what the bodies share ---- */

/* The sizes of a target: rows and columns of its tiles, and the blocks that its caches hold. */
typedef struct tinyi_gemm_shape {
    int mr, nr;                             /* a tile is mr x nr; mr is 12 or 6, with smaller tiles for what is left */
    int kc, nc, mc;                         /* depth of a block, columns of a block, rows of a piece of work */
} tinyi_gemm_shape;

/* The same for the int8 product. */
typedef struct tinyi_gemm_i8_shape {
    int bytes;                              /* of a packed number: 1, or 2 in the form of pairs */
    int rows, columns;                      /* of a tile at most: parts of 128, and 16 or 32 */
} tinyi_gemm_i8_shape;

/* While it computes, a tile prefetches into the second-level cache, from two addresses on: one line every two steps of
 * k, then step bytes further. */
typedef struct tinyi_gemm_ahead { const unsigned char *a, *b; ptrdiff_t step; } tinyi_gemm_ahead;

/* Panels: v holds nr columns side by side, [k][nr], zeros where there are none; s holds rows, [k][w] with w the tile
 * height that tinyi_gemm_height gives for their number. add: y += instead of y =.
 *   gemm_f32_pack   k rows of n columns (f32, f16, bf16; ld elements apart) to panels
 *   gemm_f32_turn   rows that are dense along k (f32, f16, bf16; at most 32 of halves), step elements apart, to
 *                   [k][width]; rows <= width
 *   gemm_f32_tile   y (mr x nr) from one s and one v panel; fetches lines from two other places on the way
 *   gemm_f32_rows   the same with rows of s in place, and v with its rows v_k apart: only nr columns are read
 *   gemv_*_dot      y[r * y_row + c * y_col] = sum_k w[r][k] x[c][k], n_x <= 4
 *   gemv_axpy       y[j] += sum_k x[k * x_k] w[k][j]
 *   gemv_pick       y[j] += sum_k x[k] w[list[k]][j]
 *   gemm_i8_*       see math/gemm_i8_inside.h */
/* A matrix times vectors: bytes of the matrix in a piece, and how far ahead of a row is fetched; see gemv.simd.h. */
#ifndef TINYI_GEMV_BYTES
#define TINYI_GEMV_BYTES (256 << 10)
#endif
#define TINYI_GEMV_AHEAD 1024

#define TINYI_KERNELS_MATMUL(K)                                                                                     \
    K(gemm_f32_shape, void, (tinyi_gemm_shape * shape))                                                             \
    K(gemm_f32_pack, void, (float *v, const void *b, int dtype, ptrdiff_t ld, size_t k, size_t n))                  \
    K(gemm_f32_turn, void,                                                                                          \
      (float *to, ptrdiff_t width, const void *x, int dtype, ptrdiff_t step, size_t rows, size_t k))                \
    K(gemm_f32_tile, void,                                                                                          \
      (float *y, ptrdiff_t y_row, const float *s, const float *v, size_t k, int mr, int nr, int add,                \
       const tinyi_gemm_ahead *ahead))                                                                              \
    K(gemm_f32_rows, void,                                                                                          \
      (float *y, ptrdiff_t y_row, const float *s, ptrdiff_t s_row, const float *v, ptrdiff_t v_k, size_t k, int mr, \
       int nr, int add))                                                                                            \
    K(gemv_dot, void,                                                                                               \
      (float *y, ptrdiff_t y_row, ptrdiff_t y_col, const void *w, int dtype, ptrdiff_t w_row, size_t n_row,         \
       const float *x, ptrdiff_t x_row, int n_x, size_t k))                                                         \
    K(gemv_axpy, void,                                                                                              \
      (float *y, const void *w, int dtype, ptrdiff_t w_k, const float *x, ptrdiff_t x_k, size_t k, size_t n))       \
    K(gemv_pick, void,                                                                                              \
      (float *y, const void *w, int dtype, ptrdiff_t w_k, const int32_t *list, const float *x, size_t k, size_t n)) \
    K(gemm_i8_begin, void, (void))                                                                                  \
    K(gemm_i8_end, void, (void))                                                                                    \
        K(gemm_i8_tile, void,                                                                                       \
          (int32_t * y, ptrdiff_t y_row, const uint8_t *a, ptrdiff_t a_row, const int8_t *b, ptrdiff_t b_panel,     \
           size_t k, const int32_t *start_a, const int32_t *start_b, int rows, int columns))                        \
            K(gemm_i8_shape, void, (tinyi_gemm_i8_shape * shape))                                                   \
                K(gemm_i8_row, int32_t, (uint8_t * to, const uint8_t *x, int is_signed, size_t n))                  \
                    K(gemm_i8_start, void, (int32_t * sums, int8_t * to, const int8_t *panel, size_t k))            \
                        K(gemm_i8_weave, void, (int8_t * to, const int8_t *x, ptrdiff_t row, size_t n))             \
                            K(gemm_i8_dot, void,                                                                    \
                              (int32_t * y, ptrdiff_t y_step, const int8_t *b, ptrdiff_t b_row, size_t n,           \
                               const uint8_t *a, int a_signed, size_t k))

TINYI_C_END
#endif
