/* src/gnn/render/nerf_fit.c - training of radiance fields from what is seen along rays
 * Papers   C. Sun et al., 2022 (arXiv 2111.11215), section 4; X. Yao et al., 2023 (arXiv 2309.10987).
 * Formula  loss = mean of (colour - truth)^2 over random rays, plus variation * mean over neighbours of (density -
 *          density')^2, plus entropy * mean of -r ln r - (1 - r) ln (1 - r), r the light behind a ray. Adam, grids and
 *          network with rates of their own that fall by an exponential to `decay`.
 * Left out the losses of single points of DVGO */
#include <string.h>
#include "gnn/render/nerf_inside.h"
#include "math/elem.h"

static void tinyi_nerf_variation(tgnn_nerf *net, double weight)
{
    const tiny_idx *n = net->desc.size, stride[3] = { n[1] * n[2], n[2], 1 }, all = n[0] * n[1] * n[2];
    const float *d = (const float *)net->params[0].value.data, by = (float)(2.0 * weight / (3.0 * (double)all));
    float *g = (float *)net->params[0].grad.data;
    tiny_idx i;
    int k;
    for (i = 0; i < all; i++)
        for (k = 0; k < 3; k++) {
            const tiny_idx at = i / stride[k] % n[k];
            float slope;
            if (at + 1 == n[k]) continue;
            slope = by * (d[i + stride[k]] - d[i]);
            g[i + stride[k]] += slope;
            g[i] -= slope;
        }
}

static tiny_status tinyi_nerf_optim(tiny_ctx *ctx, const tgnn_nerf *net, const tgnn_nerf_fit_desc *d, tiny_optim **out)
{
    tiny_optim_desc o;
    memset(&o, 0, sizeof o);
    o.group[0].kind = o.group[1].kind = TINY_OPTIM_ADAM;
    o.group[0].lr = d->rate_grid > 0.0 ? d->rate_grid : 0.1;
    o.group[1].lr = d->rate_net > 0.0 ? d->rate_net : 1e-3;
    return tiny_optim_open(ctx, net->params, net->n, &o, out);
}

TINY_API tiny_status tgnn_nerf_fit(tiny_ctx *ctx, tgnn_nerf *net, const tgnn_nerf_fit_desc *desc)
{
    tiny_optim *optim = NULL;
    tgnn_nerf_fit_state s;
    float *room = NULL;
    tiny_idx batch, i, n;
    double fall;
    int resize, stop = 0, k;
    size_t p;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !desc || !desc->rays || !desc->colours)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a field, rays and colours are needed");
    st = tinyi_nerf_fits(ctx, net, desc->rays, desc->colours);
    if (st) return st;
    if (desc->batch < 0 || desc->steps < 0 || !(desc->rate_grid >= 0.0) || !(desc->rate_net >= 0.0) ||
        !(desc->decay >= 0.0 && desc->decay <= 1.0) || !(desc->variation >= 0.0) || !(desc->entropy >= 0.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: batch, steps, rates and weights must not be negative, the decay "
                          "must be 0 to 1");
    n = desc->rays->dim[0];
    if (!n || n > (tiny_idx)0x7fffffff) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: no rays to learn from");
    for (i = 0; i < 3 * n; i++) {
        const float c = ((const float *)desc->colours->data)[i];
        if (!(c - c == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "nerf: the colour of ray %td is not finite", i / 3);
    }
    resize = desc->size[0] || desc->size[1] || desc->size[2];
    if (resize) {                           /* a third of the steps later it would be too late */
        tgnn_nerf_desc later = net->desc;
        for (k = 0; k < 3; k++) later.size[k] = desc->size[k];
        st = tinyi_nerf_check(ctx, &later);
        if (st) return st;
    }
    batch = desc->batch ? desc->batch : 512;
    memset(&s, 0, sizeof s);
    s.steps = desc->steps ? desc->steps : 1000;
    fall = tinyi_log64(desc->decay > 0.0 ? desc->decay : 0.1) / (double)s.steps;
    room = (float *)tinyi_alloc(ctx, (size_t)batch, 12 * sizeof *room);
    if (!room) return tiny_ctx_status(ctx);
    st = tinyi_nerf_optim(ctx, net, desc, &optim);
    while (!st && !stop && s.step < s.steps) {
        tiny_rng rng = tiny_rng_make(desc->seed, (uint64_t)s.step);
        const tiny_tensor rays = tiny_tensor_2d(room, TINY_F32, batch, 6),
                          truth = tiny_tensor_2d(room + 6 * batch, TINY_F32, batch, 3),
                          seen = tiny_tensor_2d(room + 9 * batch, TINY_F32, batch, 3);
        for (i = 0; i < batch; i++) {
            const tiny_idx at = (tiny_idx)tiny_rng_below(&rng, (uint32_t)n);
            for (k = 0; k < 6; k++) room[6 * i + k] = ((const float *)desc->rays->data)[6 * at + k];
            for (k = 0; k < 3; k++) room[6 * batch + 3 * i + k] = ((const float *)desc->colours->data)[3 * at + k];
        }
        if (resize && s.step == s.steps / 3) {
            tiny_optim_close(optim);
            optim = NULL;
            st = tgnn_nerf_resize(ctx, net, desc->size);
            if (!st) st = tinyi_nerf_optim(ctx, net, desc, &optim);
        }
        if (!st && (s.step % 16 == 0 || !net->empty)) st = tgnn_nerf_cull(ctx, net, NULL);
        if (st) break;
        for (p = 0; p < net->n; p++)
            memset(net->params[p].grad.data, 0, (size_t)tiny_tensor_count(&net->params[p].grad) * sizeof(float));
        st = tinyi_nerf_back(ctx, net, &rays, NULL, &truth, desc->entropy, &seen);
        if (!st && desc->variation > 0.0) tinyi_nerf_variation(net, desc->variation);
        if (!st) st = tiny_optim_step(optim, tinyi_exp64(fall * (double)s.step));
        if (st) break;
        for (s.loss = 0.0, i = 0; i < 3 * batch; i++) {
            const double e = (double)((float *)seen.data)[i] - (double)((float *)truth.data)[i];
            s.loss += e * e / (3.0 * (double)batch);
        }
        s.step++;
        if (desc->callback) stop = desc->callback(desc->user, &s);
    }
    tiny_optim_close(optim);
    tiny_free(ctx, room);
    tiny_free(net->ctx, net->empty);        /* of a density before the last steps */
    net->empty = NULL;
    return st ? st : tgnn_nerf_cull(ctx, net, NULL);
}
