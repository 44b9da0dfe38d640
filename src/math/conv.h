/* src/math/conv.h - convolution over images and over sequences
 *
 *     y[n, k, i, j] = act(bias[k] + sum over c, r, s of w[k, c, r, s] * x[n, c', i * stride - pad + r * dilation, ...])
 *
 * x (N, C, H, W), w (K, C / groups, R, S), bias (K) or NULL, y (N, K, OH, OW), all f32, any strides. Group g of output
 * channels reads group g of input channels; groups == C is the depthwise form. Numbers outside x are zeros, and they
 * are multiplied too: an infinite weight times such a zero is NaN.
 * OH = (H + pad top + pad bottom - dilation * (R - 1) - 1) / stride + 1.
 * In one dimension: x (N, C, L), w (K, C / groups, S), y (N, K, OL); pad_left = dilation * (S - 1) alone makes it
 * causal. */
#ifndef TINYI_CONV_H
#define TINYI_CONV_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_conv2d_params {         /* all zero: stride 1, no padding, dilation 1, one group, no activation */
    int stride[2], dilation[2];             /* down, across; 0 means 1 */
    int pad[4];                             /* top, left, bottom, right */
    int groups;                             /* 0 means 1 */
    int relu;                               /* nonzero: y below 0 becomes 0; NaN stays */
} tiny_conv2d_params;

typedef struct tiny_conv1d_params {
    int stride, dilation;
    int pad_left, pad_right;
    int groups;
    int relu;
} tiny_conv1d_params;

/* bias and params may be NULL. */
TINY_API tiny_status tiny_conv2d(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *w, const tiny_tensor *bias,
                                 const tiny_conv2d_params *params, const tiny_tensor *y);
TINY_API tiny_status tiny_conv1d(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *w, const tiny_tensor *bias,
                                 const tiny_conv1d_params *params, const tiny_tensor *y);

#define TINYI_OPS_CONV(ROW) ROW(CONV2D, conv2d) ROW(CONV1D, conv1d)

/* ---- inside: what the bodies share ---- */

#define TINYI_CONV_SLACK 16 /* floats after a slab that the kernel may read, never use, when !first or n < 16 */

/* conv_pack: each row of the slab is width long: 0 up to low, then x[0], x[step] ... up to high, then 0.
 * conv_strip: y[k * ys + i] = act(start + sum over t of w[k * ws + t] * x[off[t] + i]) for k < rows, i < n; start is
 * bias[k] (0 without bias) when first, else what y holds. act is ReLU or nothing. */
/* conv_depth: y[i * ys + j] = act(start + sum over t of w[t] * x[off[t] + i * pitch + j]) for i < rows, j < n;
 * conv_depth3:
 * 3 x 3 taps next to each other, w[3 r + s] * x[(i + r) * pitch + j + s].
 * patch_add: y[i * ys + j] += x[i * xs + j] for i < rows, j < n; y and x do not overlap. */
#define TINYI_KERNELS_CONV(K)                                                                                       \
    K(conv_pack_f32, void,                                                                                          \
      (float *slab, ptrdiff_t pitch, const float *x, ptrdiff_t row, ptrdiff_t step, size_t rows, size_t low,        \
       size_t high, size_t width))                                                                                  \
    K(conv_strip_f32, void,                                                                                         \
      (float *y, ptrdiff_t ys, const float *x, const int32_t *off, size_t taps, const float *w, ptrdiff_t ws,       \
       const float *bias, size_t rows, size_t n, int first, int relu))                                              \
    K(conv_depth_f32, void,                                                                                         \
      (float *y, ptrdiff_t ys, const float *x, ptrdiff_t pitch, const int32_t *off, size_t taps, const float *w,    \
       float start, size_t rows, size_t n, int relu))                                                               \
    K(conv_depth3_f32, void,                                                                                        \
      (float *y, ptrdiff_t ys, const float *x, ptrdiff_t pitch, const float *w, float start, size_t rows, size_t n, \
       int relu))                                                                                                   \
    K(patch_add_f32, void, (float *y, ptrdiff_t ys, const float *x, ptrdiff_t xs, size_t rows, size_t n))

TINYI_C_END
#endif
