/* src/math/layer.h - layers and losses that are made of rows, on a tape; curvature
 *
 * Each takes its tensors by address, runs and records, and gives a new tensor of the tape; a failure stays in the
 * tape. */
#ifndef TINYI_LAYER_H
#define TINYI_LAYER_H
#include "math/tape.h"
TINYI_C_BEGIN

/* w (out, in) */
TINY_API tiny_tensor tiny_tape_linear(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w,
                                      const tiny_tensor *bias, int act);
TINY_API tiny_tensor tiny_tape_add(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b);
TINY_API tiny_tensor tiny_tape_sub(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b);
/* with a mask: mask_mul */
TINY_API tiny_tensor tiny_tape_mul(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b);
TINY_API tiny_tensor tiny_tape_scale(tiny_tape *tape, const tiny_tensor *x, double alpha, double beta);
TINY_API tiny_tensor tiny_tape_clamp(tiny_tape *tape, const tiny_tensor *x, double low, double high);
TINY_API tiny_tensor tiny_tape_leaky_relu(tiny_tape *tape, const tiny_tensor *x, double slope);
/* of all numbers */
TINY_API tiny_tensor tiny_tape_mean(tiny_tape *tape, const tiny_tensor *x);
/* a copy without a gradient: stop_gradient */
TINY_API tiny_tensor tiny_tape_constant(tiny_tape *tape, const tiny_tensor *x);
/* a view where x is dense, else a copy */
TINY_API tiny_tensor tiny_tape_reshape(tiny_tape *tape, const tiny_tensor *x, int rank, const tiny_idx *dim);
/* all of one rank */
TINY_API tiny_tensor tiny_tape_concat(tiny_tape *tape, int n, const tiny_tensor *x, int axis);
/* zeros, for each axis */
TINY_API tiny_tensor tiny_tape_pad(tiny_tape *tape, const tiny_tensor *x, const tiny_idx *before,
                                   const tiny_idx *after);
/* c[i] z[index[i]]; z (m) */
TINY_API tiny_tensor tiny_tape_hash_gather(tiny_tape *tape, const tiny_tensor *z, const tiny_tensor *index,
                                           const tiny_tensor *c);
/* (N, C, H, W), nearest */
TINY_API tiny_tensor tiny_tape_upsample2x(tiny_tape *tape, const tiny_tensor *x);
/* (N, C, ...): means of floor(o C / n) .. ceil((o + 1) C / n) */
TINY_API tiny_tensor tiny_tape_channel_pool(tiny_tape *tape, const tiny_tensor *x, tiny_idx n_out);
/* w (C in, C out, R, S), the adjoint of conv2d with the same params: y is the size that conv2d would have made x from
 * with no row left over */
TINY_API tiny_tensor tiny_tape_conv_transpose(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w,
                                              const tiny_tensor *bias, const tiny_conv2d_params *params);
/* x (N, C, ...), g and b (C) or NULL. train: by the mean and variance of the batch; run_mean and run_var (C), where
 * given, take (1 - momentum) old + momentum new. Else by run_mean and run_var. */
typedef struct tiny_batch_norm_params { float eps, momentum; int train; } tiny_batch_norm_params;     /* 0: 1e-5, 0.1 */
TINY_API tiny_tensor tiny_tape_batch_norm(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *g,
                                          const tiny_tensor *b, const tiny_tensor *run_mean, const tiny_tensor *run_var,
                                          const tiny_batch_norm_params *params);
TINY_API tiny_tensor tiny_tape_cross_entropy(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *label,
                                             double smoothing);
/* mean (x - t)^2 */
TINY_API tiny_tensor tiny_tape_mse(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *target);
/* mean of d^2/2, or delta (|d| - delta/2) */
TINY_API tiny_tensor tiny_tape_huber(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *target, double delta);
/* T^2 mean over rows of KL(softmax(teacher / T) || softmax(student / T)); the teacher gets a gradient too unless it is
 * a constant */
TINY_API tiny_tensor tiny_tape_kl_distill(tiny_tape *tape, const tiny_tensor *student, const tiny_tensor *teacher,
                                          double temperature);

/* ---- second order: h = (g(w + e v) - g(w - e v)) / (2 e), e = 1e-3 |w| / |v|; f64 parameters. fn puts the gradients
 * at the present values into params[i].grad. Values are as before afterwards, gradients are not. */
typedef tiny_status (*tiny_gradient_fn)(void *user);
TINY_API tiny_status tiny_hvp(tiny_ctx *ctx, const tiny_param *params, size_t n, tiny_gradient_fn fn, void *user,
                              const tiny_tensor *v, const tiny_tensor *h);

TINYI_C_END
#endif
