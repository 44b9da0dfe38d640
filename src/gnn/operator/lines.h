/* src/gnn/operator/lines.h - filters along one axis of a field, with both of their transposes
 *
 *   tgnn_lines_params p = { 0 };
 *   p.k = 5;  p.pad = 2;  p.outer = 1;  p.length = 64;  p.inner = 64;      down the columns of 64 x 64 points
 *   tgnn_lines(ctx, &x, &w, NULL, &p, &y);                 x and y (batch, channels, 64 * 64), w (channels, 5)
 *
 * gnn/operator/oneway.h makes convolutions of them. */
#ifndef TINYI_LINES_H
#define TINYI_LINES_H
#include "core/op.h"
TINYI_C_BEGIN

/* With R = terms, o an output channel, r < R and the points of x as (outer, length, inner):
 *   APPLY    y[n][o][a, i, b] = bias[o] + sum over r, t of w[o R + r][t] x[n][o R + r][a, i stride + t - pad, b]
 *   INPUT    x[n][o R + r][a, j, b] = sum over i, t with i stride + t - pad = j of w[o R + r][t] y[n][o][a, i, b]
 *   WEIGHT   w[o R + r][t] = sum over n, a, i, b of y[n][o][a, i, b] x[n][o R + r][a, i stride + t - pad, b]
 * Points outside of x are zeros. INPUT and WEIGHT are the gradients of APPLY, and each is a gradient of the others.
 * x (batch, C R, outer * length * inner), w (C R, k), bias (C), y (batch, C, outer * length' * inner) with
 * length' = (length + 2 pad - k) / stride + 1. f32, any strides; f64 is computed in double, by the reference. */
typedef enum tgnn_lines_part { TGNN_LINES_APPLY, TGNN_LINES_INPUT, TGNN_LINES_WEIGHT } tgnn_lines_part;
typedef struct tgnn_lines_params {
    int of;                                 /* what is computed */
    int k, stride, pad;                     /* stride 0: 1; pad on each side, less than k */
    int terms;                              /* 0: 1 */
    tiny_idx outer, length, inner;          /* of x; outer and inner 0: 1 */
} tgnn_lines_params;

/* APPLY: a is x, b is w, bias may be NULL; INPUT: y, w; WEIGHT: x, y. The others take no bias. */
TINY_API tiny_status tgnn_lines(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *bias,
                                const tgnn_lines_params *params, const tiny_tensor *out);
TINY_API const tiny_op_row *tgnn_lines_row(void);

TINYI_C_END
#endif
