/* src/math/layout.h - copy, permute, gather and scatter-add
 *
 * Any data type and any strides, except that scatter-add takes f32. Indices are i32 or i64 and count from 0. They are
 * checked while the operation runs. If one is out of range, the call fails with a sentence that names it; gather then
 * writes a row of zeros for it, and scatter-add skips its row. */
#ifndef TINYI_LAYOUT_H
#define TINYI_LAYOUT_H
#include "core/op.h"
TINYI_C_BEGIN

/* y = x, same dims and type, any strides on both sides. It also makes a dense copy of a transposed or sliced view. */
TINY_API tiny_status tiny_copy(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);

/* y.dim[i] = x.dim[axes[i]]; all zero reverses the axes (the transpose of a matrix). */
typedef struct tiny_permute_params { int axes[TINY_MAX_RANK]; } tiny_permute_params;
TINY_API tiny_status tiny_permute(tiny_ctx *ctx, const tiny_tensor *x, const int axes[TINY_MAX_RANK],
                                  const tiny_tensor *y);
TINY_API tiny_status tiny_transpose(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y);

/* y[p..., :] = x[index[p...], :]; x (n, ...), index any rank, y (dims of index, dims of x but the first). */
TINY_API tiny_status tiny_gather(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *index, const tiny_tensor *y);

/* y[index[p...], :] += x[p..., :]; y (n_rows, ...), x (dims of index, dims of y but the first), f32. Each number of y
 * gets its addends in the order of p, and each sum is rounded to f32: the same bits for any number of threads. */
typedef struct tiny_scatter_params { tiny_idx n_rows; } tiny_scatter_params;
TINY_API tiny_status tiny_scatter_add(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *index,
                                      const tiny_tensor *y);

#if defined __GNUC__ || defined __clang__
#define TINYI_PREFETCH(p) __builtin_prefetch((const void *)(p))
#else
#define TINYI_PREFETCH(p) ((void)(p))
#endif

#define TINYI_OPS_LAYOUT(ROW) \
    ROW(COPY, copy) ROW(PERMUTE, permute) ROW(GATHER, gather_rows) ROW(SCATTER_ADD, scatter_add)

/* ---- inside: what the bodies share ---- */

/* Steps are in bytes, those of index in elements; wide: the index is i64, else i32. */
#define TINYI_KERNELS_LAYOUT(K)                                                                                        \
    K(copy_rows, void, (unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, size_t n, size_t bytes)) \
    /* row a of y is column a of x: na rows of nb elements */                                                          \
    K(transpose_b1, void,                                                                                              \
      (unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, size_t na, size_t nb))                    \
    K(transpose_b2, void,                                                                                              \
      (unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, size_t na, size_t nb))                    \
    K(transpose_b4, void,                                                                                              \
      (unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, size_t na, size_t nb))                    \
    K(transpose_b8, void,                                                                                              \
      (unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, size_t na, size_t nb))                    \
    /* b4 for a y much larger than the caches: na and nb multiples of 16, y and ys of 64 */                            \
    K(transpose_past_b4, void,                                                                                         \
      (unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, size_t na, size_t nb))                    \
    /* every index is in range */                                                                                      \
    K(gather_rows, void,                                                                                               \
      (unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, const void *index, ptrdiff_t index_step,  \
       int wide, size_t n, size_t bytes))                                                                              \
    /* only rows low <= index < high take part */                                                                      \
    K(scatter_rows_f32, void,                                                                                          \
      (float *y, ptrdiff_t ys, const float *x, ptrdiff_t xs, const void *index, ptrdiff_t index_step, int wide,        \
       size_t n, size_t cols, int64_t low, int64_t high))

TINYI_C_END
#endif
