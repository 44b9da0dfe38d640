/* src/gnn/render/nerf_ref.c - one ray in plain loops: what march.c and spikes.c must give
 *
 * The steps of the formulas, in double: every sample of the ray, padded tensors of time, spikes as the numbers 0 and 1,
 * products with all weights. Additions are counted one by one where a spike is 1. */
#include <string.h>
#include "gnn/render/nerf_inside.h"
#include "math/elem.h"

typedef struct tinyi_nerf_plain {
    const tgnn_nerf *net;
    double *x;                              /* (steps of time, inputs) */
    double *v[2], *s[2], *pre;              /* states and spikes of both layers, the input of one */
    double *alpha, *w, *rgb;                /* of the samples of the ray */
    int32_t *step, *point;                  /* step of each sample; its number among the points, or -1 */
    float *place;                           /* of the samples: (x, y, z) in voxels */
    tgnn_nerf_count count;
} tinyi_nerf_plain;

TINY_REF_BEGIN
/* value c of a grid with n values at each corner, between the eight corners around a place */
static double tinyi_nerf_between_ref(const tgnn_nerf *net, int which, const float *place, int n, int c)
{
    const float *grid = (const float *)net->params[which].value.data;
    const tiny_idx *size = net->desc.size;
    double sum = 0.0;
    int a, b, e, i;
    for (a = 0; a < 2; a++)
        for (b = 0; b < 2; b++)
            for (e = 0; e < 2; e++) {
                const int corner[3] = { a, b, e };
                tiny_idx at = 0;
                double part = 1.0;
                for (i = 0; i < 3; i++) {
                    tiny_idx cell = (tiny_idx)place[i];
                    double f;
                    if (cell > size[i] - 2) cell = size[i] - 2;
                    f = (double)place[i] - (double)cell;
                    part *= corner[i] ? f : 1.0 - f;
                    at = at * size[i] + cell + corner[i];
                }
                sum += part * (double)grid[at * n + c];
            }
    return sum;
}

/* samples of the ray with an alpha above the bound; their number */
static tiny_idx tinyi_nerf_samples_ref(tinyi_nerf_plain *p, const float *ray, const float *unit)
{
    const tgnn_nerf *net = p->net;
    const tgnn_nerf_desc *d = &net->desc;
    const double length = d->step * (net->cell[0] + net->cell[1] + net->cell[2]) / 3.0, interval = length / net->base;
    double in = 0.0, out = 1e30;
    tiny_idx n = 0, i;
    int k;
    for (k = 0; k < 3; k++) {
        double a = (d->low[k] - (double)ray[k]) / (double)unit[k], b = (d->high[k] - (double)ray[k]) / (double)unit[k];
        double t;
        if (unit[k] == 0.0f) {
            if ((double)ray[k] < d->low[k] || (double)ray[k] > d->high[k]) return 0;
            continue;
        }
        if (a > b) {
            t = a;
            a = b;
            b = t;
        }
        if (a > in) in = a;
        if (b < out) out = b;
    }
    for (i = 0; i < tinyi_nerf_most(net) && in + length * (double)i <= out; i++) {
        float *place = p->place + 3 * n;
        double x;
        for (k = 0; k < 3; k++) {
            const double at = ((double)ray[k] + (in + length * (double)i) * (double)unit[k] - d->low[k]) / net->cell[k];
            place[k] = (float)(at < 0.0 ? 0.0 : at > (double)(d->size[k] - 1) ? (double)(d->size[k] - 1) : at);
        }
        p->count.samples++;
        x = tinyi_nerf_between_ref(net, TINYI_NERF_DENSITY, place, 1, 0) + net->shift;
        p->alpha[n] = 1.0 - tinyi_exp64(-interval * (x > 40.0 ? x : tinyi_log64(1.0 + tinyi_exp64(x))));
        p->step[n] = (int32_t)i;
        if (p->alpha[n] > d->bound) n++;
    }
    return n;
}

static void tinyi_nerf_input_ref(const tgnn_nerf *net, const float *place, const float *unit, double *x)
{
    int n = 0, c, b, k, part;
    for (c = 0; c < net->desc.features; c++)
        x[n++] = tinyi_nerf_between_ref(net, TINYI_NERF_FEATURES, place, net->desc.features, c);
    for (k = 0; k < 3; k++) x[n++] = (double)unit[k];
    for (part = 0; part < 2; part++)
        for (k = 0; k < 3; k++)
            for (b = 0; b < net->desc.bands; b++)
                x[n++] = part ? tinyi_cos64((double)unit[k] * (double)(1 << b))
                              : tinyi_sin64((double)unit[k] * (double)(1 << b));
}

/* y = x w, w (rows, columns) */
static void tinyi_nerf_product_ref(const tgnn_nerf *net, int layer, const double *x, double *y)
{
    const tiny_tensor *t = &net->params[TINYI_NERF_LAYER + layer].value;
    tiny_idx i, j;
    for (j = 0; j < t->dim[1]; j++) {
        y[j] = 0.0;
        for (i = 0; i < t->dim[0]; i++) y[j] += x[i] * (double)((const float *)t->data)[i * t->dim[1] + j];
    }
}

/* one step of time from an input of the network to the three numbers before the sigmoid */
static void tinyi_nerf_step_ref(tinyi_nerf_plain *p, const double *x, double *out)
{
    const tgnn_nerf *net = p->net;
    const double *from = x;
    int layer, j;
    for (layer = 0; layer < 2; layer++) {
        const float *leaks = (const float *)net->params[TINYI_NERF_LEAK].value.data;
        const double leak = tinyi_nerf_sigmoid(net->desc.learn_leak ? (double)leaks[layer] : 0.0);
        tinyi_nerf_product_ref(net, layer, from, p->pre);
        for (j = 0; j < net->desc.hidden; j++) {
            const double h = p->v[layer][j] + (p->pre[j] - p->v[layer][j]) * leak;
            if (net->desc.net == TGNN_NERF_FLOAT) p->s[layer][j] = p->pre[j] > 0.0 ? p->pre[j] : 0.0;
            else p->s[layer][j] = h >= 1.0 ? 1.0 : 0.0;
            p->v[layer][j] = h * (1.0 - p->s[layer][j]);
            if (net->desc.net != TGNN_NERF_FLOAT && p->s[layer][j] == 1.0) {
                p->count.spikes[layer]++;
                p->count.additions += (uint64_t)(layer ? 3 : net->desc.hidden);
            }
        }
        from = p->s[layer];
    }
    tinyi_nerf_product_ref(net, 2, from, out);
}

static void tinyi_nerf_ray_ref(tinyi_nerf_plain *p, const float *ray, const float *unit, float *colour)
{
    const tgnn_nerf *net = p->net;
    const tgnn_nerf_desc *d = &net->desc;
    const tiny_idx n = tinyi_nerf_samples_ref(p, ray, unit);
    const size_t width = (size_t)(net->n_in ? d->hidden : 0);
    tiny_idx i, t, time = 0, points = 0, first = 0, last = 0;
    double light = 1.0, out[3], sum[3] = { 0.0, 0.0, 0.0 };
    int c, r;
    p->count.rays = 1;
    for (i = 0; i < n; i++) {               /* weights, and the points that are left */
        p->w[i] = light * p->alpha[i];
        light *= 1.0 - p->alpha[i];
        p->point[i] = (float)p->w[i] > (float)d->bound ? (int32_t)points : -1;
        if (p->point[i] < 0) continue;
        if (!points++) first = p->step[i];
        last = p->step[i];
    }
    p->count.points = (uint64_t)points;
    p->count.steps = (uint64_t)(d->net == TGNN_NERF_REPEAT ? points * d->repeats : points);
    p->count.multiply_adds = (uint64_t)points * (uint64_t)net->n_in * width;
    if (d->net == TGNN_NERF_FLOAT) p->count.multiply_adds += (uint64_t)points * (width * width + 3 * width);
    time = points;
    if (d->net == TGNN_NERF_SPIKES && d->time == TGNN_NERF_PADDED && points) time = last - first + 1;
    if (d->net == TGNN_NERF_SPIKES) p->count.gap_steps = (uint64_t)(time - points);
    p->count.steps += p->count.gap_steps;
    p->count.padded_steps = d->net == TGNN_NERF_SPIKES ? (uint64_t)time : p->count.steps;
    for (c = 0; c < 2 && width; c++) memset(p->v[c], 0, width * sizeof(double));
    memset(p->x, 0, (size_t)(time * net->n_in) * sizeof *p->x);
    for (i = 0; i < n && net->n_in; i++) {  /* to their steps of time */
        t = time == points ? p->point[i] : p->step[i] - first;
        if (d->flip && d->net == TGNN_NERF_SPIKES) t = time - 1 - t;
        if (p->point[i] >= 0) tinyi_nerf_input_ref(net, p->place + 3 * i, unit, p->x + t * net->n_in);
    }
    for (t = 0; t < time && net->n_in; t++)
        for (r = 0; r < (d->net == TGNN_NERF_REPEAT ? d->repeats : 1); r++) {
            const tiny_idx along = d->flip && d->net == TGNN_NERF_SPIKES ? time - 1 - t : t;
            for (c = 0; c < 2 && (d->net == TGNN_NERF_FLOAT || (d->net == TGNN_NERF_REPEAT && !r)); c++)
                memset(p->v[c], 0, width * sizeof(double));
            tinyi_nerf_step_ref(p, p->x + t * net->n_in, out);
            for (c = 0; c < 3; c++) p->rgb[3 * along + c] = (r ? p->rgb[3 * along + c] : 0.0) + out[c];
        }
    for (i = 0; i < n; i++) {
        if (p->point[i] < 0) continue;
        t = time == points ? p->point[i] : p->step[i] - first;
        for (c = 0; c < 3; c++) {
            const double z = net->n_in ? p->rgb[3 * t + c] / (d->net == TGNN_NERF_REPEAT ? d->repeats : 1)
                                       : tinyi_nerf_between_ref(net, TINYI_NERF_FEATURES, p->place + 3 * i, 3, c);
            sum[c] += p->w[i] * tinyi_nerf_sigmoid(z);
        }
    }
    for (c = 0; c < 3; c++) colour[c] = (float)(sum[c] + light * d->background[c]);
}
TINY_REF_END

TINY_API tiny_status tgnn_nerf_ref(tiny_ctx *ctx, const tgnn_nerf *net, const float ray[6], float colour[3],
                                   tgnn_nerf_count *count)
{
    tiny_tensor one, to;
    tinyi_nerf_plain p;
    float unit[3], copy[6];
    size_t most, h;
    double *at;
    tiny_status st = tinyi_ctx_check(ctx);
    if (count) memset(count, 0, sizeof *count);
    if (st) return st;
    if (!net || !ray || !colour)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a field, a ray and a colour are needed");
    memcpy(copy, ray, sizeof copy);
    one = tiny_tensor_2d(copy, TINY_F32, 1, 6);
    to = tiny_tensor_2d(colour, TINY_F32, 1, 3);
    st = tinyi_nerf_fits(ctx, net, &one, &to);
    if (st) return st;
    (void)tinyi_nerf_unit(ray, unit);
    memset(&p, 0, sizeof p);
    most = (size_t)tinyi_nerf_most(net);
    h = (size_t)net->desc.hidden;
    at = (double *)tinyi_alloc(ctx, most * ((size_t)net->n_in + 5 + 3) + 5 * h, sizeof *at);
    if (!at) return tiny_ctx_status(ctx);
    p.net = net;
    p.x = at;
    p.v[0] = at + most * (size_t)net->n_in;
    p.v[1] = p.v[0] + h;
    p.s[0] = p.v[1] + h;
    p.s[1] = p.s[0] + h;
    p.pre = p.s[1] + h;
    p.alpha = p.pre + h;
    p.w = p.alpha + most;
    p.rgb = p.w + most;
    p.step = (int32_t *)(void *)(p.rgb + 3 * most);
    p.point = p.step + most;
    p.place = (float *)(void *)(p.point + most);        /* five numbers of four bytes: in the last three of eight */
    tinyi_nerf_ray_ref(&p, ray, unit, colour);
    if (count) *count = p.count;
    tiny_free(ctx, at);
    return TINY_OK;
}
