/* src/math/layer.h - layers and losses on a tape; Hessian-vector products
 *
 * Each function runs at once, records its operations and returns a new tensor of the tape. A failure stays in the tape:
 * see tiny_tape_status. */
#ifndef TINYI_LAYER_H
#define TINYI_LAYER_H
#include "math/tape.h"
TINYI_C_BEGIN

/* w (out, in) */
TINY_API tiny_tensor tiny_tape_linear(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w,
                                      const tiny_tensor *bias, int act);
TINY_API tiny_tensor tiny_tape_add(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b);
TINY_API tiny_tensor tiny_tape_sub(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b);
/* also applies a mask */
TINY_API tiny_tensor tiny_tape_mul(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b);
TINY_API tiny_tensor tiny_tape_scale(tiny_tape *tape, const tiny_tensor *x, double alpha, double beta);
TINY_API tiny_tensor tiny_tape_clamp(tiny_tape *tape, const tiny_tensor *x, double low, double high);
TINY_API tiny_tensor tiny_tape_leaky_relu(tiny_tape *tape, const tiny_tensor *x, double slope);
/* over all numbers */
TINY_API tiny_tensor tiny_tape_mean(tiny_tape *tape, const tiny_tensor *x);
/* a copy through which no gradient flows */
TINY_API tiny_tensor tiny_tape_constant(tiny_tape *tape, const tiny_tensor *x);
/* a view where x is dense, else a copy */
TINY_API tiny_tensor tiny_tape_reshape(tiny_tape *tape, const tiny_tensor *x, int rank, const tiny_idx *dim);
/* n tensors of the same rank */
TINY_API tiny_tensor tiny_tape_concat(tiny_tape *tape, int n, const tiny_tensor *x, int axis);
/* adds before[i] and after[i] zeros on axis i */
TINY_API tiny_tensor tiny_tape_pad(tiny_tape *tape, const tiny_tensor *x, const tiny_idx *before,
                                   const tiny_idx *after);
/* y[i] = c[i] z[index[i]]; z (m) */
TINY_API tiny_tensor tiny_tape_hash_gather(tiny_tape *tape, const tiny_tensor *z, const tiny_tensor *index,
                                           const tiny_tensor *c);
/* (N, C, H, W), nearest */
TINY_API tiny_tensor tiny_tape_upsample2x(tiny_tape *tape, const tiny_tensor *x);
/* (N, C, ...): output channel o is the mean of input channels floor(o C / n_out) .. ceil((o + 1) C / n_out) - 1 */
TINY_API tiny_tensor tiny_tape_channel_pool(tiny_tape *tape, const tiny_tensor *x, tiny_idx n_out);
/* The adjoint of conv2d with the same params; w (C in, C out, R, S). y has the smallest size from which conv2d makes a
 * tensor of the size of x. */
TINY_API tiny_tensor tiny_tape_conv_transpose(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w,
                                              const tiny_tensor *bias, const tiny_conv2d_params *params);
/* x (N, C, ...), g and b (C) or NULL. With train it uses the mean and variance of the batch, and sets run_mean and
 * run_var (C), if given, to (1 - momentum) old + momentum new. Otherwise it uses run_mean and run_var. */
typedef struct tiny_batch_norm_params { float eps, momentum; int train; } tiny_batch_norm_params;     /* 0: 1e-5, 0.1 */
TINY_API tiny_tensor tiny_tape_batch_norm(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *g,
                                          const tiny_tensor *b, const tiny_tensor *run_mean, const tiny_tensor *run_var,
                                          const tiny_batch_norm_params *params);
TINY_API tiny_tensor tiny_tape_cross_entropy(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *label,
                                             double smoothing);
/* mean (x - t)^2 */
TINY_API tiny_tensor tiny_tape_mse(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *target);
/* mean of d^2/2, and of delta (|d| - delta/2) where |d| > delta; d = x - target */
TINY_API tiny_tensor tiny_tape_huber(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *target, double delta);
/* T^2 mean over rows of KL(softmax(teacher / T) || softmax(student / T)). The teacher gets a gradient too; use
 * tiny_tape_constant to prevent that. */
TINY_API tiny_tensor tiny_tape_kl_distill(tiny_tape *tape, const tiny_tensor *student, const tiny_tensor *teacher,
                                          double temperature);

/* ---- Hessian-vector product: h = (g(w + e v) - g(w - e v)) / (2 e), e = 1e-3 |w| / |v|, for f64 parameters. fn stores
 * the gradients at the current values in params[i].grad. Afterwards the values are restored, the gradients are not. */
typedef tiny_status (*tiny_gradient_fn)(void *user);
TINY_API tiny_status tiny_hvp(tiny_ctx *ctx, const tiny_param *params, size_t n, tiny_gradient_fn fn, void *user,
                              const tiny_tensor *v, const tiny_tensor *h);
/* The same with e = step |w| / |v|. */
TINY_API tiny_status tiny_hvp_step(tiny_ctx *ctx, const tiny_param *params, size_t n, tiny_gradient_fn fn, void *user,
                                   const tiny_tensor *v, const tiny_tensor *h, double step);

TINYI_C_END
#endif
