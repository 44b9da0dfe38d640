/* src/math/softmax.h - softmax over the last axis, in four forms, and its logarithm
 *
 *   y = exp(scale x - max) / sum exp(scale x - max), f32; y may be exactly x.
 *   log_softmax: y = scale x - log sum exp(scale x).
 *   -inf gives 0. A row that holds only -inf gives zeros (log_softmax: -inf). +inf or NaN makes its whole row NaN. */
#ifndef TINYI_SOFTMAX_H
#define TINYI_SOFTMAX_H
#include "core/op.h"
TINYI_C_BEGIN

typedef enum tiny_softmax_form {
    TINY_SOFTMAX_AUTO,                      /* the fastest for the length, the target and the caches */
    /* max; store exp and sum; scale the stored values: reads 3n, writes 2n, n exp */
    TINY_SOFTMAX_RELOAD,
    TINY_SOFTMAX_RECOMPUTE,                 /* max; sum of exp; exp again and scale: reads 3n, writes n, 2n exp */
    TINY_SOFTMAX_ONLINE,                    /* max and sum in one pass; exp and scale: reads 2n, writes n, 2n exp */
    TINY_SOFTMAX_TWO_PASS                   /* sum as (p, e) without a max; exp and scale: reads 2n, writes n, 2n exp */
} tiny_softmax_form;

typedef struct tiny_softmax_params {
    float scale;                            /* 0: 1 */
    int form;                               /* tiny_softmax_form; log_softmax treats RELOAD as RECOMPUTE */
    /* AUTO uses TWO_PASS if a row of x and y takes more bytes than this; 0: the cache size of this processor */
    size_t cache_bytes;
} tiny_softmax_params;

/* params may be NULL */
TINY_API tiny_status tiny_softmax(tiny_ctx *ctx, const tiny_tensor *x, const tiny_softmax_params *params,
                                  const tiny_tensor *y);
TINY_API tiny_status tiny_log_softmax(tiny_ctx *ctx, const tiny_tensor *x, const tiny_softmax_params *params,
                                      const tiny_tensor *y);

#define TINYI_OPS_SOFTMAX(ROW) ROW(SOFTMAX, softmax) ROW(LOG_SOFTMAX, log_softmax)

/* ---- inside: what the bodies share ---- */

/* Rows are summed in blocks of at most this many values: float inside a block, double over the blocks. */
#define TINYI_SOFTMAX_BLOCK 4096

/* s = scale * x throughout; stream: store past the caches, y is 64-byte aligned then.
 *   row      a whole row of at most a block
 *   top      max s, ignoring NaN; -inf for n = 0
 *   sum      sum exp(s - top), stored too unless y is NULL
 *   exp      y = lambda exp(s - top)
 *   online   max and sum in one pass
 *   log      y = (s - top) - log_sum
 *   extsum   sum exp(s) = *m 2^*e; *e is inf if some s is too large, and -inf (*m 0) if all are too small
 *   extexp   y = lambda exp(s) 2^-e */
#define TINYI_KERNELS_SOFTMAX(K)                                                                                      \
    K(softmax_row_f32, void, (float *y, const float *x, size_t n, float scale))                                       \
    K(softmax_top_f32, float, (const float *x, size_t n, float scale))                                                \
    K(softmax_sum_f32, float, (float *y, const float *x, size_t n, float scale, float top))                           \
    K(softmax_exp_f32, void, (float *y, const float *x, size_t n, float scale, float top, float lambda, int stream))  \
    K(softmax_online_f32, void, (const float *x, size_t n, float scale, float *top, float *sum))                      \
    K(softmax_log_f32, void, (float *y, const float *x, size_t n, float scale, float top, float log_sum))             \
    K(softmax_extsum_f32, void, (const float *x, size_t n, float scale, float *m, float *e))                          \
    K(softmax_extexp_f32, void, (float *y, const float *x, size_t n, float scale, float lambda, float e, int stream))

TINYI_C_END
#endif
