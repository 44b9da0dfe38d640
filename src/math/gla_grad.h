/* src/math/gla_grad.h - gated linear attention, backwards */
#ifndef TINYI_GLA_GRAD_H
#define TINYI_GLA_GRAD_H
#include "math/gla.h"
TINYI_C_BEGIN

/* The gradient without a tape. Inputs: d_o (T, H, V), the gradient of o, and d_state_out (H, K, V) or NULL, that of the
 * last state. Outputs: d_qkg (3, T, H, K) for q, k and g, d_v (T, H, V), and d_state (H, K, V) for the first state. */
TINY_API tiny_status tiny_gla_backward(tiny_ctx *ctx, const tiny_tensor *state, const tiny_tensor *q,
                                       const tiny_tensor *k, const tiny_tensor *v, const tiny_tensor *d_o,
                                       const tiny_tensor *g, const tiny_tensor *d_state_out,
                                       const tiny_gla_params *params, const tiny_tensor *d_qkg, const tiny_tensor *d_v,
                                       const tiny_tensor *d_state);

#define TINYI_OPS_GLA_GRAD(ROW) ROW(GLA_BACKWARD, gla_backward)

TINYI_C_END
#endif
