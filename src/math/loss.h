/* src/math/loss.h - cross-entropy of classes */
#ifndef TINYI_LOSS_H
#define TINYI_LOSS_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_cross_entropy_params {
    float smoothing;                        /* 0 <= e < 1: the target is 1 - e at the label and e / n everywhere */
    int skip;                               /* nonzero: rows with the label -1 are left out */
} tiny_cross_entropy_params;

/* y = mean over rows of log sum e^x - (1 - e) x[label] - e mean(x); x (..., n), label (...) i32 or i64 in 0..n-1, y of
 * rank 0;
 * 0 where no row is left. The labels must stand ready when the call is made. */
TINY_API tiny_status tiny_cross_entropy(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *label,
                                        const tiny_cross_entropy_params *params, const tiny_tensor *y);

#define TINYI_OPS_LOSS(ROW) ROW(CROSS_ENTROPY, cross_entropy)

TINYI_C_END
#endif
