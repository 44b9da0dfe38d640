/* src/gnn/render/nerf.c - radiance fields on voxels: the grids, their files, other sizes, empty voxels
 * Papers   C. Sun, M. Sun, H. Chen, "Direct Voxel Grid Optimization", 2022 (arXiv 2111.11215); X. Yao et al., "Spiking
 *          NeRF: Making Bio-inspired Neural Networks See through the Real World", 2023 (arXiv 2309.10987).
 * Formula  alpha = 1 - (1 + exp(density + shift))^-interval, shift = ln(1 / (1 - alpha_0) - 1), interval = the length
 *          of a step in voxels of the size at first. A voxel is empty if all eight corners have density + shift <=
 *          ln(bound / interval): between them the density is no larger, and alpha <= interval exp(density + shift).
 * Left out the sampling of the authors' first stage; scenes without a box */
#include <string.h>
#include "gnn/render/nerf_inside.h"
#include "core/file.h"
#include "math/elem.h"
#include "math/init.h"
#include "math/train.h"

#define TINYI_NERF_NUMBERS 26               /* of a description in a file */
#define TINYI_NERF_SIDE 512

TINY_API double tgnn_nerf_energy(const tgnn_nerf_count *count)
{
    return count ? 4.6e-12 * (double)count->multiply_adds + 0.9e-12 * (double)count->additions : 0.0;
}

/* ---- open and close */

TINYI_FN tiny_status tinyi_nerf_check(tiny_ctx *ctx, tgnn_nerf_desc *d)
{
    int i, box = 0;
    for (i = 0; i < 3; i++) box |= d->low[i] != 0.0 || d->high[i] != 0.0;
    if (d->net < 0 || d->net >= TGNN_NERF_NETS || d->time < 0 || d->time > TGNN_NERF_PADDED)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: there is no network %d or no time %d", d->net, d->time);
    if (!d->features) d->features = d->net == TGNN_NERF_DIRECT ? 3 : 12;
    if (!d->hidden) d->hidden = 128;
    if (!d->bands) d->bands = 4;
    if (!d->repeats) d->repeats = 4;
    if (d->alpha == 0.0) d->alpha = 0.01;
    if (d->step == 0.0) d->step = 0.5;
    if (d->bound == 0.0) d->bound = 1e-4;
    for (i = 0; i < 3; i++) {
        if (!box) {
            d->low[i] = -1.0;
            d->high[i] = 1.0;
        }
        if (d->size[i] < 2 || d->size[i] > TINYI_NERF_SIDE)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: %td corners on axis %d, there can be 2 to %d", d->size[i], i,
                              TINYI_NERF_SIDE);
        if (!(d->high[i] > d->low[i]) || !(d->high[i] - d->low[i] < 1e30))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: the box reaches from %g to %g on axis %d", d->low[i],
                              d->high[i], i);
        if (!(d->background[i] - d->background[i] == 0.0))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: the background is not finite");
    }
    if (d->features < 1 || d->features > 64 || (d->net == TGNN_NERF_DIRECT && d->features != 3))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: %d features, there can be 1 to 64, and 3 without a network",
                          d->features);
    if (d->hidden < 32 || d->hidden > 512 || d->hidden % 32)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: %d neurons in a layer, it must be a multiple of 32 up to 512",
                          d->hidden);
    if (d->bands < 0 || d->bands > 8 || d->repeats < 1 || d->repeats > 64)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: %d bands and %d repeats, there can be 1 to 8 and 1 to 64",
                          d->bands,
                          d->repeats);
    if (!(d->alpha > 0.0 && d->alpha < 1.0) || !(d->step >= 0.01 && d->step <= 16.0) ||
        !(d->bound > 0.0 && d->bound < 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "nerf: alpha %g and bound %g must be between 0 and 1, and the step %g 0.01 to 16", d->alpha,
                          d->bound, d->step);
    return TINY_OK;
}

/* grids of this size: values 0, gradients 0 */
static tiny_status tinyi_nerf_grids(tgnn_nerf *net, const tiny_idx size[3], float **memory, tiny_param to[2])
{
    const size_t n = (size_t)size[0] * (size_t)size[1] * (size_t)size[2];
    size_t all;
    tiny_idx dim[4];
    int i;
    if (!tinyi_size_mul(n, (size_t)(1 + net->desc.features), &all))
        return tinyi_fail(net->ctx, TINY_E_OVERFLOW, "nerf: the grids have more numbers than this machine can address");
    *memory = (float *)tinyi_alloc(net->ctx, all, 2 * sizeof **memory);
    if (!*memory) return tiny_ctx_status(net->ctx);
    memset(*memory, 0, 2 * all * sizeof **memory);
    memset(to, 0, 2 * sizeof *to);
    for (i = 0; i < 3; i++) dim[i] = size[i];
    dim[3] = net->desc.features;
    to[0].name = "density";
    to[0].value = tiny_tensor_nd(*memory, TINY_F32, 3, dim);
    to[0].grad = tiny_tensor_nd(*memory + all, TINY_F32, 3, dim);
    to[1].name = "features";
    to[1].value = tiny_tensor_nd(*memory + n, TINY_F32, 4, dim);
    to[1].grad = tiny_tensor_nd(*memory + all + n, TINY_F32, 4, dim);
    return TINY_OK;
}

static tiny_status tinyi_nerf_layers(tgnn_nerf *net)
{
    static const char *const names[4] = { "layer.0", "layer.1", "layer.2", "leak" };
    const tiny_idx h = net->desc.hidden;
    tiny_idx dim[4][2];
    size_t n = 0, count;
    tiny_status st = TINY_OK;
    int i;
    dim[0][0] = net->n_in;
    dim[0][1] = dim[1][0] = dim[1][1] = dim[2][0] = h;
    dim[2][1] = 3;
    dim[3][0] = 2;
    for (i = 0; i < 3; i++) n += (size_t)(dim[i][0] * dim[i][1]);
    n += 2;
    net->layers = (float *)tinyi_alloc(net->ctx, n, 2 * sizeof *net->layers);
    if (!net->layers) return tiny_ctx_status(net->ctx);
    memset(net->layers, 0, 2 * n * sizeof *net->layers);
    for (i = 0, count = 0; !st && i < 4; i++) {
        tiny_param *p = &net->params[TINYI_NERF_LAYER + i];
        tiny_rng rng = tiny_rng_make(net->desc.seed, (uint64_t)i);
        memset(p, 0, sizeof *p);
        p->name = names[i];
        p->group = 1;
        p->value = tiny_tensor_nd(net->layers + count, TINY_F32, i < 3 ? 2 : 1, dim[i]);
        p->grad = tiny_tensor_nd(net->layers + n + count, TINY_F32, i < 3 ? 2 : 1, dim[i]);
        count += (size_t)tiny_tensor_count(&p->value);
        if (i < 3) {                        /* uniform, +-sqrt(6 / inputs): weights stand as (in, out) */
            const float most = (float)tinyi_sqrt(6.0 / (double)dim[i][0]);
            tiny_rng_fill_uniform(&rng, (float *)p->value.data, (size_t)(dim[i][0] * dim[i][1]), -most, most);
        }
    }                                       /* leak: sigmoid(0) = 1/2, which is tau = 2 */
    return st;
}

static void tinyi_nerf_lengths(tgnn_nerf *net)
{
    int i;
    for (i = 0; i < 3; i++)
        net->cell[i] = (net->desc.high[i] - net->desc.low[i]) / (double)(net->desc.size[i] - 1);
}

TINY_API tiny_status tgnn_nerf_open(tiny_ctx *ctx, const tgnn_nerf_desc *desc, tgnn_nerf **out)
{
    tgnn_nerf *net;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a description and an output are needed");
    net = (tgnn_nerf *)tinyi_alloc(ctx, 1, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    net->ctx = ctx;
    net->desc = *desc;
    st = tinyi_nerf_check(ctx, &net->desc);
    if (!st) {
        const int none = net->desc.net == TGNN_NERF_DIRECT;
        tinyi_nerf_lengths(net);
        net->base = (net->cell[0] + net->cell[1] + net->cell[2]) / 3.0;
        net->shift = tinyi_log64(1.0 / (1.0 - net->desc.alpha) - 1.0);
        net->n_in = none ? 0 : net->desc.features + 3 + 6 * net->desc.bands;
        net->n = none ? 2 : (size_t)TINYI_NERF_PARAMS - !net->desc.learn_leak;
        st = tinyi_nerf_grids(net, net->desc.size, &net->grids, net->params);
        if (!st && !none) st = tinyi_nerf_layers(net);
        if (!st && !none) {                 /* features near 0, so that the first layer learns */
            tiny_rng rng = tiny_rng_make(net->desc.seed, 9);
            tiny_rng_fill_uniform(&rng, (float *)net->params[1].value.data,
                                  (size_t)tiny_tensor_count(&net->params[1].value), -0.1f, 0.1f);
        }
    }
    if (st) tgnn_nerf_close(net);
    else *out = net;
    return st;
}

TINY_API void tgnn_nerf_close(tgnn_nerf *net)
{
    tiny_ctx *ctx;
    if (!net) return;
    ctx = net->ctx;
    tiny_free(ctx, net->grids);
    tiny_free(ctx, net->layers);
    tiny_free(ctx, net->empty);
    tiny_free(ctx, net);
}

TINY_API const tgnn_nerf_desc *tgnn_nerf_description(const tgnn_nerf *net) { return net ? &net->desc : NULL; }
TINY_API const tiny_param *tgnn_nerf_params(const tgnn_nerf *net, size_t *n)
{
    if (n) *n = net ? net->n : 0;
    return net ? net->params : NULL;
}

/* ---- files: the parameters, and the description as a tensor of numbers */

static void tinyi_nerf_numbers(double *v, tgnn_nerf *net, int read)
{
    tgnn_nerf_desc *d = &net->desc;
    size_t n = 0;
    int i;
#define TINYI_NERF_NUMBER(type, field)         \
    if (read) (field) = (type)v[n];            \
    else v[n] = (double)(field);               \
    n++;
    for (i = 0; i < 3; i++) {
        TINYI_NERF_NUMBER(tiny_idx, d->size[i])
    }
    TINYI_NERF_NUMBER(int, d->net)
    TINYI_NERF_NUMBER(int, d->time)
    TINYI_NERF_NUMBER(int, d->features)
    TINYI_NERF_NUMBER(int, d->hidden)
    TINYI_NERF_NUMBER(int, d->bands)
    TINYI_NERF_NUMBER(int, d->repeats)
    TINYI_NERF_NUMBER(int, d->flip)
    TINYI_NERF_NUMBER(int, d->learn_leak)
    TINYI_NERF_NUMBER(int, d->padded)
    for (i = 0; i < 3; i++) {               /* from here on: not whole numbers */
        TINYI_NERF_NUMBER(double, d->low[i])
        TINYI_NERF_NUMBER(double, d->high[i])
        TINYI_NERF_NUMBER(double, d->background[i])
    }
    TINYI_NERF_NUMBER(double, d->alpha)
    TINYI_NERF_NUMBER(double, d->step)
    TINYI_NERF_NUMBER(double, d->bound)
    TINYI_NERF_NUMBER(double, net->base)
#undef TINYI_NERF_NUMBER
    for (; n < TINYI_NERF_NUMBERS; n++) if (!read) v[n] = 0.0;
}

static tiny_param tinyi_nerf_described(double *v)
{
    tiny_param p;
    memset(&p, 0, sizeof p);
    p.name = "nerf";
    p.value = tiny_tensor_1d(v, TINY_F64, TINYI_NERF_NUMBERS);
    p.grad = p.value;
    return p;
}

TINY_API tiny_status tgnn_nerf_save(tiny_ctx *ctx, const tgnn_nerf *net, const char *path)
{
    double v[TINYI_NERF_NUMBERS];
    tiny_param list[TINYI_NERF_PARAMS + 1];
    tgnn_nerf copy;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a field and a path are needed");
    copy = *net;
    tinyi_nerf_numbers(v, &copy, 0);
    list[0] = tinyi_nerf_described(v);
    memcpy(list + 1, net->params, net->n * sizeof *list);
    return tiny_params_save(ctx, path, list, net->n + 1, NULL);
}

TINY_API tiny_status tgnn_nerf_load(tiny_ctx *ctx, const char *path, tgnn_nerf **out)
{
    double v[TINYI_NERF_NUMBERS];
    tiny_param p = tinyi_nerf_described(v);
    tgnn_nerf from, *net = NULL;
    tiny_file file;
    double floats;
    tiny_status st = tinyi_ctx_check(ctx);
    size_t i;
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a path and an output are needed");
    st = tiny_params_load(ctx, path, &p, 1, NULL);
    for (i = 0; !st && i < TINYI_NERF_NUMBERS; i++)
        if (i < 12 ? !(v[i] >= 0.0 && v[i] <= TINYI_NERF_SIDE) : !(v[i] - v[i] == 0.0))
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: number %zu of the description of the field is %g", path, i, v[i]);
    if (st) return st;
    memset(&from, 0, sizeof from);
    tinyi_nerf_numbers(v, &from, 1);
    if (!(from.base > 0.0))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the description of the field has a voxel of length %g", path,
                          from.base);
    st = tinyi_nerf_check(ctx, &from.desc);
    if (!st) st = tiny_file_open(ctx, path, &file);
    if (st) return st;
    floats = (double)(from.desc.size[0] * from.desc.size[1] * from.desc.size[2]) * (1.0 + from.desc.features);
    if (floats > (double)file.n_bytes / sizeof(float))  /* before memory is taken */
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the grids that are described have more numbers than the file", path);
    tiny_file_close(ctx, &file);
    if (!st) st = tgnn_nerf_open(ctx, &from.desc, &net);
    if (!st) {
        net->base = from.base;
        st = tiny_params_load(ctx, path, net->params, net->n, NULL);
    }
    if (st) tgnn_nerf_close(net);
    else *out = net;
    return st;
}

/* ---- other sizes, and empty voxels */

/* Values of one field read between its corners, at the corners of another one whose boxes may differ. */
static void tinyi_nerf_resample(const tgnn_nerf *from, int which, const tgnn_nerf *box, const tiny_idx size[3],
                                float *to)
{
    const tiny_tensor *t = &from->params[which].value;
    const tiny_idx n = which == TINYI_NERF_FEATURES ? from->desc.features : 1;
    tiny_idx at[3], step[8], c, first;
    float place[3], part[8];
    int i;
    for (at[0] = 0; at[0] < size[0]; at[0]++)
        for (at[1] = 0; at[1] < size[1]; at[1]++)
            for (at[2] = 0; at[2] < size[2]; at[2]++, to += n) {
                for (i = 0; i < 3; i++) {
                    const double x = box->desc.low[i] + (box->desc.high[i] - box->desc.low[i]) * (double)at[i] /
                                                            (double)(size[i] - 1);
                    const double most = (double)(from->desc.size[i] - 1), p = (x - from->desc.low[i]) / from->cell[i];
                    place[i] = (float)(p < 0.0 ? 0.0 : p > most ? most : p);
                }
                first = tinyi_nerf_corners(from, place, step, part);
                for (c = 0; c < n; c++) {
                    double sum = 0.0;
                    for (i = 0; i < 8; i++)
                        sum += (double)part[i] * (double)((const float *)t->data)[(first + step[i]) * n + c];
                    to[c] = (float)sum;
                }
            }
}

TINY_API tiny_status tgnn_nerf_shape(tiny_ctx *ctx, tgnn_nerf *net, const tgnn_nerf *from)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !from || net == from) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: two fields are needed");
    tinyi_nerf_resample(from, TINYI_NERF_DENSITY, net, net->desc.size, (float *)net->params[0].value.data);
    tiny_free(net->ctx, net->empty);
    net->empty = NULL;
    return TINY_OK;
}

TINY_API tiny_status tgnn_nerf_resize(tiny_ctx *ctx, tgnn_nerf *net, const tiny_idx size[3])
{
    tgnn_nerf_desc d;
    tiny_param grid[2];
    float *memory;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    if (!net || !size) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a field and a size are needed");
    d = net->desc;
    for (i = 0; i < 3; i++) d.size[i] = size[i];
    st = tinyi_nerf_check(ctx, &d);
    if (!st) st = tinyi_nerf_grids(net, size, &memory, grid);
    if (st) return st;
    for (i = 0; i < 2; i++) tinyi_nerf_resample(net, i, net, size, (float *)grid[i].value.data);
    tiny_free(net->ctx, net->grids);
    tiny_free(net->ctx, net->empty);
    net->empty = NULL;
    net->grids = memory;
    memcpy(net->params, grid, sizeof grid);
    net->desc = d;
    tinyi_nerf_lengths(net);
    return TINY_OK;
}

TINY_API tiny_status tgnn_nerf_cull(tiny_ctx *ctx, tgnn_nerf *net, double *part)
{
    tiny_idx at[3], n[3], all = 1, left = 0, step[8], first;
    unsigned char *to;
    const float *density;
    double limit, length;
    float place[3], parts[8];
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (part) *part = 1.0;
    if (st) return st;
    if (!net) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a field is needed");
    for (i = 0; i < 3; i++) all *= n[i] = net->desc.size[i] - 1;
    tiny_free(net->ctx, net->empty);
    net->empty = (unsigned char *)tinyi_alloc(net->ctx, (size_t)all, 1);
    if (!net->empty) return tiny_ctx_status(net->ctx);
    density = (const float *)net->params[0].value.data;
    length = (net->cell[0] + net->cell[1] + net->cell[2]) / 3.0;
    limit = tinyi_log64(net->desc.bound / (net->desc.step * length / net->base)) - net->shift;
    to = net->empty;
    for (at[0] = 0; at[0] < n[0]; at[0]++)
        for (at[1] = 0; at[1] < n[1]; at[1]++)
            for (at[2] = 0; at[2] < n[2]; at[2]++, to++) {
                for (i = 0; i < 3; i++) place[i] = (float)at[i];
                first = tinyi_nerf_corners(net, place, step, parts);
                for (*to = 1, i = 0; i < 8; i++)    /* less a little: sums of eight are rounded */
                    if (!((double)density[first + step[i]] <= limit - 1e-3)) *to = 0;
                left += !*to;
            }
    if (part) *part = (double)left / (double)all;
    return TINY_OK;
}
