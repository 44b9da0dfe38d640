/* src/math/loss.h - cross-entropy of classes */
#ifndef TINYI_LOSS_H
#define TINYI_LOSS_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_cross_entropy_params {
    float smoothing;                        /* 0 <= e < 1: the target is 1 - e at the label plus e / n everywhere */
    int skip;                               /* nonzero: skips rows with the label -1 */
} tiny_cross_entropy_params;

/* y = mean over rows of log sum exp(x) - (1 - e) x[label] - e mean(x); x (..., n), label (...) i32 or i64 in 0..n-1, y
 * of rank 0. Without any row y is 0. The call checks the labels first, so they must not be outputs of the same
 * tiny_run_list. */
TINY_API tiny_status tiny_cross_entropy(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *label,
                                        const tiny_cross_entropy_params *params, const tiny_tensor *y);

#define TINYI_OPS_LOSS(ROW) ROW(CROSS_ENTROPY, cross_entropy)

TINYI_C_END
#endif
