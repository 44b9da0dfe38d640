/* src/math/reduce.h - reductions over one axis or over all: sum, mean, norm2, max, min, argmax, logsumexp, dot */
#ifndef TINYI_REDUCE_H
#define TINYI_REDUCE_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_reduce_params {
    int axis;                               /* counted from the last: 0 is the last axis, 1 the one before */
    int all;                                /* nonzero: over all axes */
    int keep;                               /* nonzero: y keeps a reduced axis with the length 1; 0: it is removed */
} tiny_reduce_params;

/* x f32, y f32 (argmax: i32). params NULL: over the last axis. Over an empty axis: sum and norm2 0, mean NaN, max -inf,
 * min +inf, argmax -1, logsumexp -inf.
 *   norm2       sum of squares
 *   max, min    NaN where one value is NaN
 *   argmax      index of the first of the largest values; of the first NaN, if there is one
 *   logsumexp   log sum exp(x); -inf where all values are -inf, NaN where a value is NaN or +inf */
TINY_API tiny_status tiny_sum(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                              const tiny_tensor *y);
TINY_API tiny_status tiny_mean(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                               const tiny_tensor *y);
TINY_API tiny_status tiny_norm2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                                const tiny_tensor *y);
TINY_API tiny_status tiny_max(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                              const tiny_tensor *y);
TINY_API tiny_status tiny_min(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                              const tiny_tensor *y);
TINY_API tiny_status tiny_argmax(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                                 const tiny_tensor *y);
TINY_API tiny_status tiny_logsumexp(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                                    const tiny_tensor *y);
/* sum a b along an axis; a and b of the same shape */
TINY_API tiny_status tiny_dot(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b,
                              const tiny_reduce_params *params, const tiny_tensor *y);

#define TINYI_OPS_REDUCE(ROW) \
    ROW(DOT, dot) ROW(SUM, sum) ROW(MEAN, mean) ROW(NORM2, norm2) ROW(MAX, max) ROW(MIN, min) ROW(ARGMAX, argmax) \
    ROW(LOGSUMEXP, logsumexp)

/* ---- inside: what the bodies share ---- */

typedef enum tinyi_reduce_f { TINYI_REDUCE_SUM, TINYI_REDUCE_NORM2, TINYI_REDUCE_MAX, TINYI_REDUCE_MIN } tinyi_reduce_f;

/* At most this many values are summed in float; blocks are added in double. */
#define TINYI_REDUCE_BLOCK 4096

/* max and min: NaN where one is; find: the first place of v, or of a NaN when v is one, n where there is none; cols:
 * acc[c] = acc[c] f x[r][c] over rows that lie stride apart */
#define TINYI_KERNELS_REDUCE(K)                                                                                       \
    K(sum_f32, float, (const float *x, size_t n))                                                                     \
    K(dot_f32, float, (const float *a, const float *b, size_t n))                                                     \
    K(max_f32, float, (const float *x, size_t n))                                                                     \
    K(min_f32, float, (const float *x, size_t n))                                                                     \
    K(find_f32, size_t, (const float *x, size_t n, float v))                                                          \
    K(reduce_cols_f32, void, (int f, float *acc, const float *x, tiny_idx stride, size_t rows, size_t cols))

TINYI_C_END
#endif
