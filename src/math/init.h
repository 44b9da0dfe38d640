/* src/math/init.h - initial values of weights; tiny_init_orthogonal is in math/optim.h */
#ifndef TINYI_INIT_H
#define TINYI_INIT_H
#include "core/rng.h"
#include "core/ctx.h"
TINYI_C_BEGIN

TINY_API tiny_status tiny_init_constant(tiny_ctx *ctx, const tiny_tensor *w, double value);
TINY_API tiny_status tiny_init_normal(tiny_ctx *ctx, tiny_rng *rng, const tiny_tensor *w, double deviation);
/* N(0, 2 / fan); fan is fan_in, or with fan_out nonzero fan_out: see math/optim.h */
TINY_API tiny_status tiny_init_he(tiny_ctx *ctx, tiny_rng *rng, const tiny_tensor *w, int fan_out);
/* uniform, +-sqrt(6 / (in + out)) */
TINY_API tiny_status tiny_init_xavier(tiny_ctx *ctx, tiny_rng *rng, const tiny_tensor *w);

/* ---- inside: what the bodies share ---- */

TINYI_FN tiny_status tinyi_init_check(tiny_ctx *ctx, const tiny_tensor *w);
TINYI_FN void tinyi_init_put(const tiny_tensor *w, tiny_idx i, double x);

TINYI_C_END
#endif
