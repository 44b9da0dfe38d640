/* src/gnn/render/march.c - rays through a field of voxels: samples, weights, colours, and the way back to the grids
 * Formula  samples at t = t_in + i step inside the box; density and features by the eight corners around a sample;
 *          samples with alpha <= bound are dropped; w_i = alpha_i prod_{j<i} (1 - alpha_j); of the others those with w
 *          <= bound get no colour, but still take their part of the light; colour = sum w_i rgb_i + prod (1 - alpha)
 *          bg. Back: d alpha_i = (dw_i T_i) - (sum_{j>i} dw_j w_j + d rest . rest) / (1 - alpha_i).
 * Cost     a sample: eight numbers of density; a point that is left: eight times the features, and the network
 * Memory   a thread holds one ray. Rays are handed out 16 at a time. The way back is walked by one thread. */
#include <string.h>
#include "gnn/render/nerf_inside.h"
#include "gnn/render/spikes_inside.h"
#include "math/elem.h"
#include "math/table_inside.h"

TINYI_FN double tinyi_nerf_sigmoid(double x) { return 1.0 / (1.0 + tinyi_exp64(-x)); }

TINYI_FN tiny_idx tinyi_nerf_most(const tgnn_nerf *net)
{
    double length = 0.0;
    int i;
    for (i = 0; i < 3; i++) {
        const double side = net->desc.high[i] - net->desc.low[i];
        length += side * side;
    }
    return (tiny_idx)(tinyi_sqrt(length) / (net->desc.step * (net->cell[0] + net->cell[1] + net->cell[2]) / 3.0)) + 2;
}

TINYI_FN tiny_idx tinyi_nerf_corners(const tgnn_nerf *net, const float *at, tiny_idx step[8], float part[8])
{
    tiny_idx first = 0, stride[3];
    float f[3];
    int i, k;
    stride[2] = 1;
    stride[1] = net->desc.size[2];
    stride[0] = net->desc.size[1] * net->desc.size[2];
    for (i = 0; i < 3; i++) {
        tiny_idx c = (tiny_idx)at[i];
        if (c > net->desc.size[i] - 2) c = net->desc.size[i] - 2;
        f[i] = at[i] - (float)c;
        first += c * stride[i];
    }
    for (k = 0; k < 8; k++) {
        step[k] = (k & 4 ? stride[0] : 0) + (k & 2 ? stride[1] : 0) + (k & 1 ? stride[2] : 0);
        part[k] = (k & 4 ? f[0] : 1.0f - f[0]) * (k & 2 ? f[1] : 1.0f - f[1]) * (k & 1 ? f[2] : 1.0f - f[2]);
    }
    return first;
}

TINYI_FN int tinyi_nerf_unit(const float *ray, float *unit)
{
    double sum = 0.0, length;
    int i;
    for (i = 3; i < 6; i++) sum += (double)ray[i] * (double)ray[i];
    length = tinyi_sqrt(sum);
    for (i = 0; i < 3; i++) unit[i] = length > 0.0 ? (float)((double)ray[3 + i] / length) : 0.0f;
    return length > 0.0 && length - length == 0.0;
}

TINYI_FN void tinyi_nerf_weights(tinyi_nerf_sample *s, tiny_idx n, double bound, float *rest, tiny_idx *n_points)
{
    double light = 1.0;
    tiny_idx i;
    *n_points = 0;
    for (i = 0; i < n; i++) {
        s[i].w = (float)(light * (double)s[i].alpha);
        s[i].point = (double)s[i].w > bound ? (int32_t)(*n_points)++ : -1;
        light *= 1.0 - (double)s[i].alpha;
    }
    *rest = (float)light;
}

TINYI_FN tiny_idx tinyi_nerf_walk(const tgnn_nerf *net, const float *ray, tinyi_nerf_sample *sample, float *rest,
                                  uint64_t *n_samples, tiny_idx *n_points)
{
    const tgnn_nerf_desc *d = &net->desc;
    const float *density = (const float *)net->params[0].value.data;
    const double voxel = (net->cell[0] + net->cell[1] + net->cell[2]) / 3.0, length = d->step * voxel,
                 interval = length / net->base, limit = tinyi_log64(d->bound / interval) - net->shift;
    double in = 0.0, out = 1e30;
    float unit[3], part[8];
    tiny_idx n = 0, step[8], most = tinyi_nerf_most(net), i;
    int k, miss = 0;
    *rest = 1.0f;
    *n_points = 0;
    (void)tinyi_nerf_unit(ray, unit);
    for (k = 0; k < 3; k++) {               /* the part of the ray inside the box */
        const double from = (double)ray[k], by = (double)unit[k];
        if (by == 0.0) miss |= from < d->low[k] || from > d->high[k];
        else {
            const double a = (d->low[k] - from) / by, b = (d->high[k] - from) / by;
            in = TINYI_MAX(in, TINYI_MIN(a, b));
            out = TINYI_MIN(out, TINYI_MAX(a, b));
        }
    }
    for (i = 0; !miss && i < most && in + length * (double)i <= out; i++) {
        const double t = in + length * (double)i;
        tinyi_nerf_sample *s = &sample[n];
        double x = 0.0, e, alpha;
        tiny_idx first, cell = 0;
        for (k = 0; k < 3; k++) {
            const double p = ((double)ray[k] + t * (double)unit[k] - d->low[k]) / net->cell[k],
                         top = (double)(d->size[k] - 1);
            s->at[k] = (float)(p < 0.0 ? 0.0 : p > top ? top : p);
            cell = cell * (d->size[k] - 1) + TINYI_MIN((tiny_idx)s->at[k], d->size[k] - 2);
        }
        if (net->empty && net->empty[cell]) continue;
        ++*n_samples;
        first = tinyi_nerf_corners(net, s->at, step, part);
        for (k = 0; k < 8; k++) x += (double)part[k] * (double)density[first + step[k]];
        if (x <= limit) continue;           /* alpha <= interval exp(x + shift) */
        x += net->shift;
        e = x > 40.0 ? 0.0 : tinyi_exp64(x);
        alpha = 1.0 - tinyi_exp64(-interval * (x > 40.0 ? x : tinyi_log64(1.0 + e)));
        if (alpha <= d->bound) continue;
        s->alpha = (float)alpha;
        s->slope = (float)(interval * (x > 40.0 ? 1.0 : e / (1.0 + e)) * (1.0 - alpha));
        s->step = (int32_t)i;
        n++;
    }
    tinyi_nerf_weights(sample, n, d->bound, rest, n_points);
    return n;
}

static void tinyi_nerf_features(const tgnn_nerf *net, const float *at, float *x)
{
    const float *f = (const float *)net->params[1].value.data;
    const int n = net->desc.features;
    tiny_idx step[8], first;
    float part[8];
    int c, k;
    first = tinyi_nerf_corners(net, at, step, part);
    for (c = 0; c < n; c++) x[c] = 0.0f;
    for (k = 0; k < 8; k++) {
        const float *from = f + (first + step[k]) * n;
        for (c = 0; c < n; c++) x[c] += part[k] * from[c];
    }
}

/* features, the direction, sines and cosines of 1, 2, 4 ... times the direction */
TINYI_FN void tinyi_nerf_input(const tgnn_nerf *net, const float *at, const float *unit, float *x)
{
    int n = net->desc.features, b, k;
    tinyi_nerf_features(net, at, x);
    for (k = 0; k < 3; k++) x[n++] = unit[k];
    for (k = 0; k < 3; k++)
        for (b = 0; b < net->desc.bands; b++, n++) {
            double s, c;
            tinyi_sincos64((double)unit[k] * (double)(1 << b), &s, &c);
            x[n] = (float)s;
            x[n + 3 * net->desc.bands] = (float)c;
        }
}

TINYI_FN void tinyi_nerf_direct(const tgnn_nerf *net, const float *at, float *rgb)
{
    int c;
    tinyi_nerf_features(net, at, rgb);
    for (c = 0; c < 3; c++) rgb[c] = (float)tinyi_nerf_sigmoid((double)rgb[c]);
}

/* ---- parts by themselves */

TINY_API tiny_status tgnn_nerf_composite(tiny_ctx *ctx, int n, const float *alpha, const float *rgb,
                                         const float background[3], float *w, float *rest, float *colour)
{
    double light = 1.0, sum[3] = { 0.0, 0.0, 0.0 };
    tiny_status st = tinyi_ctx_check(ctx);
    int i, c;
    if (st) return st;
    if (n < 0 || (n && (!alpha || !w)) || !rest || (colour && (!background || (n && !rgb))))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "nerf: alphas, weights and the rest are needed, for a colour also colours "
                          "and a background");
    for (i = 0; i < n; i++) {
        if (!(alpha[i] >= 0.0f && alpha[i] <= 1.0f))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: alpha %d is %g, it must be 0 to 1", i, (double)alpha[i]);
        w[i] = (float)(light * (double)alpha[i]);
        light *= 1.0 - (double)alpha[i];
        for (c = 0; c < 3 && colour; c++) sum[c] += (double)w[i] * (double)rgb[3 * i + c];
    }
    *rest = (float)light;
    for (c = 0; c < 3 && colour; c++) colour[c] = (float)(sum[c] + light * (double)background[c]);
    return TINY_OK;
}

/* ---- rendering */

TINYI_FN tiny_status tinyi_nerf_fits(tiny_ctx *ctx, const tgnn_nerf *net, const tiny_tensor *rays,
                                     const tiny_tensor *colours)
{
    const tiny_tensor *t[2];
    const float *density;
    tiny_idx i, n;
    char text[96];
    int k, c;
    if (!net) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a field is needed");
    t[0] = rays;
    t[1] = colours;
    for (k = 0; k < 2; k++) {
        if (!t[k] || tiny_tensor_check(t[k]))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: %s are no tensor", k ? "the colours" : "the rays");
        if (t[k]->dtype != TINY_F32 || t[k]->rank != 2 || t[k]->dim[1] != (k ? 3 : 6) || t[k]->dim[0] != rays->dim[0] ||
            !tiny_tensor_is_dense(t[k]))
            return tinyi_fail(ctx, TINY_E_SHAPE, "nerf: %s are %s %s, they must be dense f32 %td x %d",
                              k ? "the colours" : "the rays", tinyi_shape_text(t[k], text),
                              tiny_dtype_name(t[k]->dtype),
                              rays->rank ? rays->dim[0] : 1, k ? 3 : 6);
    }
    for (i = 0; i < rays->dim[0]; i++) {
        const float *ray = (const float *)rays->data + 6 * i;
        float unit[3];
        for (c = 0; c < 6; c++)
            if (!(ray[c] - ray[c] == 0.0f))
                return tinyi_fail(ctx, TINY_E_NUMERIC, "nerf: number %d of ray %td is not finite", c, i);
        if (!tinyi_nerf_unit(ray, unit)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: ray %td has no direction", i);
    }
    n = tiny_tensor_count(&net->params[0].value);
    density = (const float *)net->params[0].value.data;
    for (i = 0; i < n; i++)
        if (!(density[i] - density[i] == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "nerf: the density at the corner (%td, %td, %td) is not finite",
                              i / (net->desc.size[1] * net->desc.size[2]), i / net->desc.size[2] % net->desc.size[1],
                              i % net->desc.size[2]);
    return TINY_OK;
}

typedef struct tinyi_nerf_reach { int32_t low, high, most; } tinyi_nerf_reach;
typedef struct tinyi_nerf_job {
    const tgnn_nerf *net;
    const tiny_tensor *rays, *colours;
    tgnn_nerf_count *count;                 /* of each 16 rays */
    tinyi_nerf_reach *reach;
    tiny_idx pad, low;                      /* steps of time of every ray, 0: as many as it has; number of the first */
} tinyi_nerf_job;

/* Samples and colours of one ray; the number of samples. pad: as tinyi_nerf_network */
static tiny_idx tinyi_nerf_ray(const tgnn_nerf *net, const struct tiny_kernels *k, const float *ray, tiny_idx pad,
                               tiny_idx first, tinyi_nerf_work *w, float *colour, float *behind, tiny_idx *points,
                               tgnn_nerf_count *count)
{
    double sum[3] = { 0.0, 0.0, 0.0 };
    float unit[3], rest;
    tiny_idx n_points, i;
    const tiny_idx n = tinyi_nerf_walk(net, ray, w->sample, &rest, &count->samples, &n_points);
    int c;
    *behind = rest;
    *points = n_points;
    (void)tinyi_nerf_unit(ray, unit);
    count->rays++;
    count->points += (uint64_t)n_points;
    for (i = 0; i < n; i++)
        if (w->sample[i].point >= 0) {
            if (net->n_in) tinyi_nerf_input(net, w->sample[i].at, unit, w->x + w->sample[i].point * net->n_in);
            else tinyi_nerf_direct(net, w->sample[i].at, w->rgb + 3 * w->sample[i].point);
            w->order[w->sample[i].point] = w->sample[i].step;
        }
    if (net->n_in) tinyi_nerf_network(net, k, w, n_points, pad, first, count);
    for (i = 0; i < n; i++)
        for (c = 0; c < 3 && w->sample[i].point >= 0; c++)
            sum[c] += (double)w->sample[i].w * (double)w->rgb[3 * w->sample[i].point + c];
    for (c = 0; c < 3; c++) colour[c] = (float)(sum[c] + (double)rest * net->desc.background[c]);
    return n;
}

static void tinyi_nerf_team(tiny_team *team, void *arg)
{
    tinyi_nerf_job *job = (tinyi_nerf_job *)arg;
    tinyi_nerf_work w;
    tiny_idx i0, i1, i, points;
    float rest;
    tinyi_nerf_work_in(job->net, 0, team->own, &w);
    if (job->net->n_in) team->ran_on = tinyi_spike_kernels_of(team->k)->from;
    while (tiny_take(team, job->rays->dim[0], 16, &i0, &i1))
        for (i = i0; i < i1; i++)
            (void)tinyi_nerf_ray(job->net, team->k, (const float *)job->rays->data + 6 * i, job->pad, job->low, &w,
                                 (float *)job->colours->data + 3 * i, &rest, &points, &job->count[i / 16]);
    tiny_barrier(team);
}

/* The first and the last step of all points, and the most points of a ray: the size of a padded tensor. */
static void tinyi_nerf_extent(tiny_team *team, void *arg)
{
    tinyi_nerf_job *job = (tinyi_nerf_job *)arg;
    tinyi_nerf_work w;
    tiny_idx i0, i1, i, k;
    tinyi_nerf_work_in(job->net, 0, team->own, &w);
    while (tiny_take(team, job->rays->dim[0], 16, &i0, &i1))
        for (i = i0; i < i1; i++) {
            tinyi_nerf_reach *r = &job->reach[i / 16];
            uint64_t samples = 0;
            tiny_idx points;
            float rest;
            const tiny_idx n = tinyi_nerf_walk(job->net, (const float *)job->rays->data + 6 * i, w.sample, &rest,
                                               &samples, &points);
            for (k = 0; k < n; k++)
                if (w.sample[k].point >= 0) {
                    if (!r->most || w.sample[k].step < r->low) r->low = w.sample[k].step;
                    if (w.sample[k].step > r->high) r->high = w.sample[k].step;
                    if (w.sample[k].point >= r->most) r->most = w.sample[k].point + 1;
                }
        }
    tiny_barrier(team);
}

TINY_API tiny_status tgnn_nerf_render(tiny_ctx *ctx, const tgnn_nerf *net, const tiny_tensor *rays,
                                      const tiny_tensor *colours, tgnn_nerf_count *count)
{
    tinyi_nerf_job job;
    tinyi_nerf_reach reach;
    tgnn_nerf_count all;
    tiny_idx pieces, i, steps;
    const size_t each = sizeof *job.count + sizeof *job.reach;
    tiny_status st = tinyi_ctx_check(ctx);
    if (count) memset(count, 0, sizeof *count);
    if (st) return st;
    st = tinyi_nerf_fits(ctx, net, rays, colours);
    if (st || !rays->dim[0]) return st;
    pieces = (rays->dim[0] + 15) / 16;
    memset(&all, 0, sizeof all);
    memset(&reach, 0, sizeof reach);
    memset(&job, 0, sizeof job);
    job.net = net;
    job.rays = rays;
    job.colours = colours;
    job.count = (tgnn_nerf_count *)tinyi_alloc(ctx, (size_t)pieces, each);
    if (!job.count) return tiny_ctx_status(ctx);
    memset(job.count, 0, (size_t)pieces * each);
    job.reach = (tinyi_nerf_reach *)(void *)(job.count + pieces);
    if (net->desc.padded || count)
        st = tiny_parallel(ctx, 0, 0, tinyi_nerf_work_bytes(net, 0), tinyi_nerf_extent, &job);
    for (i = 0; i < pieces; i++) {
        const tinyi_nerf_reach *r = &job.reach[i];
        if (!r->most) continue;
        if (!reach.most || r->low < reach.low) reach.low = r->low;
        reach.high = TINYI_MAX(reach.high, r->high);
        reach.most = TINYI_MAX(reach.most, r->most);
    }
    steps = net->desc.time == TGNN_NERF_PADDED && reach.most ? reach.high - reach.low + 1 : reach.most;
    if (net->desc.padded) {
        job.pad = steps;
        job.low = reach.low;
    }
    if (!st) st = tiny_parallel(ctx, 0, 0, tinyi_nerf_work_bytes(net, 0), tinyi_nerf_team, &job);
    for (i = 0; i < pieces; i++) {
        const tgnn_nerf_count *c = &job.count[i];
        all.rays += c->rays;
        all.samples += c->samples;
        all.points += c->points;
        all.spikes[0] += c->spikes[0];
        all.spikes[1] += c->spikes[1];
        all.multiply_adds += c->multiply_adds;
        all.additions += c->additions;
        all.gap_steps += c->gap_steps;
    }
    all.steps = all.points * (uint64_t)(net->desc.net == TGNN_NERF_REPEAT ? net->desc.repeats : 1) + all.gap_steps;
    all.padded_steps = net->desc.net == TGNN_NERF_SPIKES ? all.rays * (uint64_t)steps : all.steps;
    if (count && !st) *count = all;
    tiny_free(ctx, job.count);
    return st;
}

/* ---- gradients */

/* d alpha, and from there to the corners of the density; d_w and d_rest are given */
static void tinyi_nerf_alpha_back(tgnn_nerf *net, const tinyi_nerf_sample *s, tiny_idx n, const float *d_w,
                                  double behind)
{
    float *grad = (float *)net->params[0].grad.data;
    tiny_idx i, step[8], first;
    float part[8];
    int k;
    for (i = n - 1; i >= 0; i--) {          /* behind: sum of d w_j w_j of those after i, and that of the background */
        const double alpha = (double)s[i].alpha, keep = 1.0 - alpha, light = alpha > 0.0 ? (double)s[i].w / alpha : 0.0,
                     d_alpha = (double)d_w[i] * light - (keep > 1e-6 ? behind / keep : 0.0);
        behind += (double)d_w[i] * (double)s[i].w;
        first = tinyi_nerf_corners(net, s[i].at, step, part);
        for (k = 0; k < 8; k++) grad[first + step[k]] += (float)(d_alpha * (double)s[i].slope * (double)part[k]);
    }
}

static void tinyi_nerf_features_back(tgnn_nerf *net, const float *at, const float *dx)
{
    float *grad = (float *)net->params[1].grad.data;
    const int n = net->desc.features;
    tiny_idx step[8], first;
    float part[8];
    int c, k;
    first = tinyi_nerf_corners(net, at, step, part);
    for (k = 0; k < 8; k++)
        for (c = 0; c < n; c++) grad[(first + step[k]) * n + c] += part[k] * dx[c];
}

TINYI_FN tiny_status tinyi_nerf_back(tiny_ctx *ctx, tgnn_nerf *net, const tiny_tensor *rays, const tiny_tensor *slope,
                                     const tiny_tensor *truth, double entropy, const tiny_tensor *colours)
{
    tgnn_nerf_count count;
    tinyi_nerf_work w;
    float *d_w, *d_rgb;
    void *memory;
    const size_t most = (size_t)tinyi_nerf_most(net), bytes = tinyi_nerf_work_bytes(net, 1);
    tiny_idx r, i;
    tiny_status st = TINY_OK;
    int c;
    memory = tinyi_alloc(ctx, bytes + 4 * most * sizeof(float), 1);
    if (!memory) return tiny_ctx_status(ctx);
    tinyi_nerf_work_in(net, 1, memory, &w);
    d_w = (float *)(void *)((unsigned char *)memory + bytes);
    d_rgb = d_w + most;
    memset(&count, 0, sizeof count);
    for (r = 0; r < rays->dim[0] && !st; r++) {
        float *seen = (float *)colours->data + 3 * r, rest, d[3];
        double behind = 0.0;
        tiny_idx n_points;
        const tiny_idx n = tinyi_nerf_ray(net, ctx->k, (const float *)rays->data + 6 * r, 0, 0, &w, seen, &rest,
                                          &n_points, &count);
        for (c = 0; c < 3; c++) {
            d[c] = slope ? ((const float *)slope->data)[3 * r + c]
                         : (seen[c] - ((const float *)truth->data)[3 * r + c]) * 2.0f / (3.0f * (float)rays->dim[0]);
            behind += (double)d[c] * net->desc.background[c] * (double)rest;
        }
        /* d (-r ln r - (1 - r) ln (1 - r)) / dr, r the rest; no steeper than at 1e-4 */
        if (entropy > 0.0) {
            const double left = TINYI_MIN(TINYI_MAX((double)rest, 1e-4), 1.0 - 1e-4);
            behind += entropy / (double)rays->dim[0] * tinyi_log64((1.0 - left) / left) * (double)rest;
        }
        for (i = 0; i < n; i++) {
            const tinyi_nerf_sample *s = &w.sample[i];
            for (d_w[i] = 0.0f, c = 0; c < 3 && s->point >= 0; c++) {
                d_w[i] += d[c] * w.rgb[3 * s->point + c];
                d_rgb[3 * s->point + c] = d[c] * s->w;
            }
        }
        tinyi_nerf_alpha_back(net, w.sample, n, d_w, behind);
        if (net->n_in) st = tinyi_nerf_network_back(net, &w, n_points, d_rgb);
        for (i = 0; i < n && !st; i++) {
            const tinyi_nerf_sample *s = &w.sample[i];
            float direct[3];
            if (s->point < 0) continue;
            for (c = 0; c < 3 && !net->n_in; c++) {
                const float z = w.rgb[3 * s->point + c];
                direct[c] = d_rgb[3 * s->point + c] * z * (1.0f - z);
            }
            tinyi_nerf_features_back(net, s->at, net->n_in ? w.x + s->point * net->n_in : direct);
        }
    }
    tiny_free(ctx, memory);
    return st;
}

TINY_API tiny_status tgnn_nerf_backward(tiny_ctx *ctx, tgnn_nerf *net, const tiny_tensor *rays,
                                        const tiny_tensor *slope, const tiny_tensor *colours)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    st = tinyi_nerf_fits(ctx, net, rays, colours);
    if (!st) st = tinyi_nerf_fits(ctx, net, rays, slope);
    return st || !rays->dim[0] ? st : tinyi_nerf_back(ctx, net, rays, slope, NULL, 0.0, colours);
}
