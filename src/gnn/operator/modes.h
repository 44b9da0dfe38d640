/* src/gnn/operator/modes.h - the low Fourier modes of fields on a grid: to modes, back to fields, products by mode
 *
 *   tgnn_modes_params p = { 0 };
 *   p.d = 2;  p.size[0] = p.size[1] = 64;  p.kept[0] = 16;  p.kept[1] = 9;
 *   tgnn_modes(ctx, &x, &p, &a);                           x (batch, 64 * 64, channels), a (batch, 16 * 9, 2, channels)
 *   tgnn_modes_mix(ctx, &a, &w, NULL, &b);                 w (16 * 9, 2, channels in, channels out)
 *   tgnn_modes_field(ctx, &b, &p, &y);
 *
 * This is a spectral convolution: gnn/operator/spectral.h has it as one call, with compressed weights and gradients. */
#ifndef TINYI_MODES_H
#define TINYI_MODES_H
#include "core/op.h"
TINYI_C_BEGIN

/* Modes of axis k < d - 1: the frequencies -floor(kept / 2) .. ceil(kept / 2) - 1 in this order; of the last axis:
 * 0 .. kept - 1, since the others are their conjugates. */
typedef struct tgnn_modes_params {
    int d;                                  /* axes, 1 to 3 */
    int adjoint;                            /* nonzero: the factors of the two directions change places, see below */
    tiny_idx size[3];                       /* points of each axis */
    tiny_idx kept[3];                       /* modes, at most size; of the last axis at most size / 2 + 1 */
} tgnn_modes_params;

/* With theta = 2 pi (f_1 n_1 / size_1 + ...), N points in all, and c = 1 for the frequencies 0 and (size even) size / 2
 * of the last axis, c = 2 for the others:
 *   modes        X_f = 1/N  sum over n of x_n exp(-i theta)
 *   modes_field  y_n = sum over f of c_f Re(X_f exp(i theta))
 * Modes that are not kept count as 0. With all modes, one undoes the other. adjoint exchanges 1/N and c: modes with
 * adjoint is then the transpose of modes_field, and the other way round, so that each is the gradient of the other.
 *
 * Points are in row-major order. Complex values have an axis of 2 before the channels, real parts first. f32, any
 * strides; f64 tensors are computed in double, by the reference.
 *   modes        x (batch, points, channels) -> y (batch, modes, 2, channels)
 *   modes_field  x (batch, modes, 2, channels) -> y (batch, points, channels) */
TINY_API tiny_status tgnn_modes(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_modes_params *params,
                                const tiny_tensor *y);
TINY_API tiny_status tgnn_modes_field(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_modes_params *params,
                                      const tiny_tensor *y);

/* y[a][f][c] = sum over k of x[a][f][k] w[f][k][c], complex: x (rows, modes, 2, k), w (modes, 2, k, channels),
 * y (rows, modes, 2, channels). params may be NULL. */
typedef struct tgnn_modes_mix_params { int conj_x, conj_w; } tgnn_modes_mix_params;     /* take conjugates */
TINY_API tiny_status tgnn_modes_mix(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *w,
                                    const tgnn_modes_mix_params *params, const tiny_tensor *y);
TINY_API const tiny_op_row *tgnn_modes_row(void);
TINY_API const tiny_op_row *tgnn_modes_field_row(void);
TINY_API const tiny_op_row *tgnn_modes_mix_row(void);

TINYI_C_END
#endif
