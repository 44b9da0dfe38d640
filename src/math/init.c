/* src/math/init.c - initial values of weights */
#include "math/init.h"
#include "math/table_inside.h"
#include "math/elem.h"

TINYI_FN tiny_status tinyi_init_check(tiny_ctx *ctx, const tiny_tensor *w)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tiny_tensor_check(w);
    if (st) return tinyi_fail(ctx, st, "initial values: the tensor is missing");
    if ((w->dtype != TINY_F32 && w->dtype != TINY_F64) || !tiny_tensor_is_dense(w))
        return tinyi_fail(ctx, TINY_E_DTYPE, "initial values: the tensor must be dense f32 or f64, this one is %s%s",
                          tiny_dtype_name(w->dtype), tiny_tensor_is_dense(w) ? "" : " with gaps");
    return TINY_OK;
}

TINYI_FN void tinyi_init_put(const tiny_tensor *w, tiny_idx i, double x)
{
    if (w->dtype == TINY_F64) ((double *)w->data)[i] = x;
    else ((float *)w->data)[i] = (float)x;
}

static double tinyi_init_fan(const tiny_tensor *w, int out)
{
    double n = 1.0;
    int i;
    for (i = 0; i < w->rank; i++)
        if (w->rank == 1 || i != (out ? 1 : 0)) n *= (double)w->dim[i];
    return n > 0.0 ? n : 1.0;
}

TINY_API tiny_status tiny_init_constant(tiny_ctx *ctx, const tiny_tensor *w, double value)
{
    tiny_status st = tinyi_init_check(ctx, w);
    tiny_idx i;
    for (i = 0; !st && i < tiny_tensor_count(w); i++) tinyi_init_put(w, i, value);
    return st;
}

TINY_API tiny_status tiny_init_normal(tiny_ctx *ctx, tiny_rng *rng, const tiny_tensor *w, double deviation)
{
    tiny_status st = tinyi_init_check(ctx, w);
    tiny_idx i;
    if (!st && (!rng || !(deviation >= 0.0)))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "initial values: a generator and a deviation of at least 0 are required");
    for (i = 0; !st && i < tiny_tensor_count(w); i++) tinyi_init_put(w, i, deviation * (double)tiny_rng_normal(rng));
    return st;
}

TINY_API tiny_status tiny_init_he(tiny_ctx *ctx, tiny_rng *rng, const tiny_tensor *w, int fan_out)
{
    tiny_status st = tinyi_init_check(ctx, w);
    return st ? st : tiny_init_normal(ctx, rng, w, tinyi_sqrt64(2.0 / tinyi_init_fan(w, fan_out)));
}

TINY_API tiny_status tiny_init_xavier(tiny_ctx *ctx, tiny_rng *rng, const tiny_tensor *w)
{
    tiny_status st = tinyi_init_check(ctx, w);
    double reach;
    tiny_idx i;
    if (!st && !rng) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "initial values: a generator is required");
    if (st) return st;
    reach = tinyi_sqrt64(6.0 / (tinyi_init_fan(w, 0) + tinyi_init_fan(w, 1)));
    for (i = 0; i < tiny_tensor_count(w); i++) tinyi_init_put(w, i, reach * (2.0 * tiny_rng_uniform64(rng) - 1.0));
    return TINY_OK;
}
