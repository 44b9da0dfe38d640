/* src/math/patch.h - windows over images: im2col, col2im, pooling
 *
 * x (N, C, H, W); windows of size[0] x size[1] taps.
 *   OH = (H + pad top + pad bottom - dilation (size - 1) - 1) / stride + 1
 *   im2col   y (C size0 size1, N OH OW): y[(c, r, s)][(n, i, j)] = x[n, c, i stride - top + r dilation, ...], 0 outside
 *   col2im   the adjoint: y (N, C, H, W), each pixel is the sum of the numbers that im2col would copy from it; the
 *            params give H and W as image
 *   max_pool, avg_pool   y (N, C, OH, OW): the largest number of each window; the mean, with zeros outside */
#ifndef TINYI_PATCH_H
#define TINYI_PATCH_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_patch_params {
    int size[2];                            /* down, across */
    int stride[2], dilation[2];             /* 0: 1; the stride of pools: size */
    int pad[4];                             /* top, left, bottom, right */
    int image[2];                           /* col2im: H, W */
} tiny_patch_params;

TINY_API tiny_status tiny_im2col(tiny_ctx *ctx, const tiny_tensor *x, const tiny_patch_params *params,
                                 const tiny_tensor *y);
TINY_API tiny_status tiny_col2im(tiny_ctx *ctx, const tiny_tensor *x, const tiny_patch_params *params,
                                 const tiny_tensor *y);
TINY_API tiny_status tiny_max_pool(tiny_ctx *ctx, const tiny_tensor *x, const tiny_patch_params *params,
                                   const tiny_tensor *y);
TINY_API tiny_status tiny_avg_pool(tiny_ctx *ctx, const tiny_tensor *x, const tiny_patch_params *params,
                                   const tiny_tensor *y);

#define TINYI_OPS_PATCH(ROW) ROW(IM2COL, im2col) ROW(COL2IM, col2im) ROW(MAX_POOL, max_pool) ROW(AVG_POOL, avg_pool)

/* ---- inside: what the bodies share ---- */

typedef struct tinyi_patch { tiny_idx n, c, h, w, r, s, oh, ow, sh, sw, dh, dw, pt, pl; } tinyi_patch;

TINYI_C_END
#endif
