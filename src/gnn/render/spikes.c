/* src/gnn/render/spikes.c - the colour network of a ray: leaky neurons over the samples, counted additions, gradients
 * Paper    X. Yao et al., 2023 (arXiv 2309.10987), sections 3 and 4.
 * Formula  layers (inputs, hidden), (hidden, hidden), (hidden, 3), no biases; after the first two h = v + (x - v) /
 *          tau, s = [h >= 1], v = h (1 - s); rgb = sigmoid of the last one. Time runs over the points of a ray; v = 0
 *          at its start. Back: ds/dh = 4 g (1 - g), g = sigmoid(4 (h - 1)); v keeps its gradient by 1 - s, s in it is
 *          constant.
 * Bits     spikes are sets of bits; the layers after them add the rows of weights that are set and count them. A step
 *          without a point has the input 0: no neuron can fire in it, so it only lets v fade, and the result of a ray
 *          has the same bits as that of a padded tensor. Rays run one after the other: there is no padding to skip.
 * Left out spikes as inputs of the first layer (Bernoulli); times that are learnt for each neuron */
#include <string.h>
#include "gnn/render/nerf_inside.h"
#include "gnn/render/spikes_inside.h"
#include "math/elem.h"

TINYI_TABLE_CHOICE(tinyi_spike_kernels, tinyi_spike_kernels)

static const float *tinyi_spike_layer(const tgnn_nerf *net, int i)
{
    return (const float *)net->params[TINYI_NERF_LAYER + i].value.data;
}

static double tinyi_spike_leak(const tgnn_nerf *net, int i)
{
    const float *leaks = (const float *)net->params[TINYI_NERF_LEAK].value.data;
    return net->desc.learn_leak ? tinyi_nerf_sigmoid((double)leaks[i]) : 0.5;
}

/* ---- memory of a ray */

static tiny_idx tinyi_spike_repeats(const tgnn_nerf *net)
{
    return net->desc.net == TGNN_NERF_REPEAT ? net->desc.repeats : 1;
}

/* floats for each sample, and for the whole ray */
static size_t tinyi_spike_floats(const tgnn_nerf *net, int gradients, size_t *whole)
{
    const size_t h = net->n_in ? (size_t)net->desc.hidden : 0, in = (size_t)net->n_in;
    *whole = 3 * h + in + 64 + (gradients ? TINYI_MAX(h, in) * h : 0);
    return sizeof(tinyi_nerf_sample) / sizeof(float) + 2 + in + 2 * h + 6 +
           (gradients ? (size_t)tinyi_spike_repeats(net) * (5 * h + 3) : 0);
}

TINYI_FN size_t tinyi_nerf_work_bytes(const tgnn_nerf *net, int gradients)
{
    size_t whole, each = tinyi_spike_floats(net, gradients, &whole);
    return ((size_t)tinyi_nerf_most(net) * each + whole + 16) * sizeof(float);
}

TINYI_FN void tinyi_nerf_work_in(const tgnn_nerf *net, int gradients, void *memory, tinyi_nerf_work *w)
{
    const size_t most = (size_t)tinyi_nerf_most(net), h = net->n_in ? (size_t)net->desc.hidden : 0,
                 in = (size_t)net->n_in, r = (size_t)tinyi_spike_repeats(net);
    float *at = (float *)memory;
    int i;
    memset(w, 0, sizeof *w);
    w->x = at;                              /* and a row of zeros */
    at += (most + 1) * in;
    w->pre = at;
    at += most * h;
    w->mid = at;
    at += most * h;
    w->v = at;                              /* v of both layers, and the input of the second */
    at += 3 * h;
    w->out = at;
    at += most * 3;
    w->rgb = at;
    at += most * 3;
    for (i = 0; i < 5 && gradients; i++) {
        w->h[i] = at;
        at += most * r * h;
    }
    if (gradients) {
        w->d_out = at;
        at += most * r * 3;
        w->sum = at;
        at += TINYI_MAX(h, in) * h;
    }
    w->order = (int32_t *)(void *)at;
    w->gap = w->order + most;
    w->bits = (uint32_t *)(void *)(w->gap + most);
    w->sample = (tinyi_nerf_sample *)(void *)(w->bits + 32);
}

/* ---- forward */

/* The second and third layer from the spikes in w->bits: out (3), or out += with more. */
static void tinyi_spike_rest(const tgnn_nerf *net, const tinyi_spike_kernels *k, tinyi_nerf_work *w, float *out,
                             float *h2, int more, tgnn_nerf_count *count)
{
    const size_t n = (size_t)net->desc.hidden, words = n / 32;
    uint32_t *second = w->bits + 16;
    const size_t first = k->add(w->v + 2 * n, w->bits, tinyi_spike_layer(net, 1), words, n, 0);
    size_t fired;
    k->fire(second, h2, w->v + n, w->v + 2 * n, (float)tinyi_spike_leak(net, 1), n);
    fired = k->add(out, second, tinyi_spike_layer(net, 2), words, 3, more);
    count->spikes[0] += first;
    count->spikes[1] += fired;
    count->additions += first * n + fired * 3;
}

/* every step of time of a padded tensor, with its zeros */
static void tinyi_spike_padded(const tgnn_nerf *net, const tinyi_spike_kernels *k, tinyi_nerf_work *w, tiny_idx n,
                               tiny_idx pad, tiny_idx first, tgnn_nerf_count *count)
{
    const size_t h = (size_t)net->desc.hidden, in = (size_t)net->n_in;
    const float *zeros = w->x + (size_t)tinyi_nerf_most(net) * in;
    tiny_idx t, i = 0;
    float none[3];
    for (t = 0; t < pad; t++) {
        const tiny_idx point = net->desc.flip ? n - 1 - i : i,
                       at = i >= n                                 ? -1
                            : net->desc.time == TGNN_NERF_CONDENSED ? i
                            : net->desc.flip                       ? pad - 1 - (w->order[point] - first)
                                                                   : w->order[point] - first;
        const int here = at == t;
        k->dense(w->pre, here ? w->x + (size_t)point * in : zeros, tinyi_spike_layer(net, 0), 1, in, h);
        k->fire(w->bits, NULL, w->v, w->pre, (float)tinyi_spike_leak(net, 0), h);
        tinyi_spike_rest(net, k, w, here ? w->out + 3 * point : none, NULL, 0, count);
        if (here) i++;
    }
}

/* h, if kept, is in the order of time */
static void tinyi_spike_ragged(const tgnn_nerf *net, const tinyi_spike_kernels *k, tinyi_nerf_work *w, tiny_idx n,
                               tgnn_nerf_count *count)
{
    const size_t h = (size_t)net->desc.hidden;
    const tiny_idx repeats = tinyi_spike_repeats(net);
    const float leak[2] = { (float)tinyi_spike_leak(net, 0), (float)tinyi_spike_leak(net, 1) };
    tiny_idx i, r;
    int c;
    k->dense(w->pre, w->x, tinyi_spike_layer(net, 0), (size_t)n, (size_t)net->n_in, h);
    for (i = 0; i < n; i++) {
        const tiny_idx point = net->desc.flip ? n - 1 - i : i;
        w->gap[i] = 0;
        if (i && net->desc.time == TGNN_NERF_PADDED && net->desc.net == TGNN_NERF_SPIKES) {
            const int32_t apart = w->order[point] - w->order[net->desc.flip ? point + 1 : point - 1];
            w->gap[i] = (apart < 0 ? -apart : apart) - 1;
            k->fade(w->v, leak[0], (size_t)w->gap[i], h);
            k->fade(w->v + h, leak[1], (size_t)w->gap[i], h);
            count->gap_steps += (uint64_t)w->gap[i];
        }
        if (net->desc.net == TGNN_NERF_REPEAT) memset(w->v, 0, 2 * h * sizeof *w->v);
        for (r = 0; r < repeats; r++) {
            const size_t at = (size_t)(i * repeats + r) * h;
            k->fire(w->bits, w->h[0] ? w->h[0] + at : NULL, w->v, w->pre + (size_t)point * h, leak[0], h);
            tinyi_spike_rest(net, k, w, w->out + 3 * point, w->h[1] ? w->h[1] + at : NULL, r > 0, count);
        }
        for (c = 0; c < 3; c++) w->out[3 * point + c] /= (float)repeats;
    }
}

static void tinyi_spike_relu(float *x, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

TINYI_FN void tinyi_nerf_network(const tgnn_nerf *net, const struct tiny_kernels *kernels, tinyi_nerf_work *w,
                                 tiny_idx n, tiny_idx pad, tiny_idx first, tgnn_nerf_count *count)
{
    const tinyi_spike_kernels *k = tinyi_spike_kernels_of(kernels);
    const size_t h = (size_t)net->desc.hidden, in = (size_t)net->n_in;
    tiny_idx i;
    count->multiply_adds += (uint64_t)n * in * h;
    memset(w->v, 0, 3 * h * sizeof *w->v);
    if (pad) memset(w->x + (size_t)tinyi_nerf_most(net) * in, 0, in * sizeof *w->x);
    if (net->desc.net == TGNN_NERF_FLOAT) {
        float *a = w->h[0] ? w->h[0] : w->pre, *b = w->h[1] ? w->h[1] : w->mid;
        k->dense(a, w->x, tinyi_spike_layer(net, 0), (size_t)n, in, h);
        tinyi_spike_relu(a, (size_t)n * h);
        k->dense(b, a, tinyi_spike_layer(net, 1), (size_t)n, h, h);
        tinyi_spike_relu(b, (size_t)n * h);
        k->dense(w->out, b, tinyi_spike_layer(net, 2), (size_t)n, h, 3);
        count->multiply_adds += (uint64_t)n * (h * h + 3 * h);
    } else if (pad && net->desc.net == TGNN_NERF_SPIKES) tinyi_spike_padded(net, k, w, n, pad, first, count);
    else tinyi_spike_ragged(net, k, w, n, count);
    for (i = 0; i < 3 * n; i++) w->rgb[i] = (float)tinyi_nerf_sigmoid((double)w->out[i]);
}

/* ---- one neuron, and its way back */

TINYI_INLINE float tinyi_spike_slope(float h)
{
    const double g = tinyi_nerf_sigmoid(4.0 * ((double)h - 1.0));
    return (float)(4.0 * g * (1.0 - g));
}

/* In place from ds (steps, each `apart` floats after the one before) to dx. g4: slopes of all steps, same places. */
static double tinyi_spike_unroll(float *d, const float *h, const float *slope, const int32_t *gap, double leak,
                                 tiny_idx n, size_t apart)
{
    double back = 0.0, d_leak = 0.0;        /* back: d v after the step that is looked at */
    tiny_idx i;
    for (i = n - 1; i >= 0; i--) {
        const size_t at = (size_t)i * apart;
        const double z = (double)h[at], dh = (double)d[at] * (double)slope[at] + (z >= 1.0 ? 0.0 : back);
        double start = 0.0, v, fade = 1.0;
        int32_t k;
        if (i > 0) start = (double)h[at - apart] >= 1.0 ? 0.0 : (double)h[at - apart];
        for (k = 0; gap && i > 0 && k < gap[i]; k++) fade *= 1.0 - leak;
        v = start * fade;
        d_leak += dh * (z - v) / leak;
        back = dh * (1.0 - leak);
        if (gap && i > 0 && gap[i] > 0) {   /* not divided by 1 - leak, which may be 0 */
            d_leak -= (double)gap[i] * dh * v;
            back *= fade;
        }
        d[at] = (float)(dh * leak);
    }
    return d_leak;
}

static tiny_status tinyi_spike_line(tiny_ctx *ctx, int n, const float *x, const int32_t *gap, double leak)
{
    int i;
    if (n < 0 || (n && !x)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: inputs of a neuron are needed");
    if (!(leak > 0.0 && leak <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a leak of %g, it must be above 0 and at most 1", leak);
    for (i = 0; i < n; i++) {
        if (!(x[i] - x[i] == 0.0f)) return tinyi_fail(ctx, TINY_E_NUMERIC, "nerf: input %d is not finite", i);
        if (gap && gap[i] < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: a gap of %d steps", (int)gap[i]);
    }
    return TINY_OK;
}

TINY_API tiny_status tgnn_nerf_neuron(tiny_ctx *ctx, int n, const float *x, const int32_t *gap, double leak, float *h,
                                      float *s)
{
    float v[32], in[32], z[32];
    const tinyi_spike_kernels *k;
    uint32_t bits;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    st = tinyi_spike_line(ctx, n, x, gap, leak);
    if (st) return st;
    k = tinyi_spike_kernels_of(ctx->k);
    memset(v, 0, sizeof v);
    memset(in, 0, sizeof in);
    for (i = 0; i < n; i++) {
        if (gap) k->fade(v, (float)leak, (size_t)gap[i], 32);
        in[0] = x[i];
        k->fire(&bits, z, v, in, (float)leak, 32);
        if (h) h[i] = z[0];
        if (s) s[i] = (float)(bits & 1u);
    }
    return TINY_OK;
}

TINY_API tiny_status tgnn_nerf_neuron_back(tiny_ctx *ctx, int n, const float *x, const int32_t *gap, double leak,
                                           const float *ds, float *dx, double *d_leak)
{
    float *h;
    double sum;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (st) return st;
    if (n && (!ds || !dx)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nerf: slopes of spikes and of inputs are needed");
    st = tinyi_spike_line(ctx, n, x, gap, leak);
    if (st || !n) return st;
    h = (float *)tinyi_alloc(ctx, (size_t)n, 2 * sizeof *h);
    if (!h) return tiny_ctx_status(ctx);
    st = tgnn_nerf_neuron(ctx, n, x, gap, leak, h, NULL);
    for (i = 0; i < n; i++) {
        h[n + i] = tinyi_spike_slope(h[i]);
        dx[i] = ds[i];
    }
    sum = tinyi_spike_unroll(dx, h, h + n, gap, leak, n, 1);
    if (d_leak) *d_leak = sum;
    tiny_free(ctx, h);
    return st;
}

/* ---- the way back through the layers */

/* grad (rows, columns) += a' b with a (n, rows), b (n, columns) */
static tiny_status tinyi_spike_weights_back(tgnn_nerf *net, int layer, const float *a, const float *b, tiny_idx n,
                                            float *sum)
{
    const tiny_tensor *grad = &net->params[TINYI_NERF_LAYER + layer].grad;
    const tiny_idx rows = grad->dim[0], columns = grad->dim[1];
    const tiny_tensor ta = tiny_tensor_2d((void *)(uintptr_t)a, TINY_F32, n, rows),
                      tb = tiny_tensor_2d((void *)(uintptr_t)b, TINY_F32, n, columns),
                      ts = tiny_tensor_2d(sum, TINY_F32, rows, columns), turned = tiny_tensor_swap(ta, 0, 1);
    const tiny_status st = tiny_matmul(net->ctx, &turned, &tb, NULL, TINY_ACT_NONE, &ts);
    float *to = (float *)grad->data;
    tiny_idx i;
    for (i = 0; i < rows * columns && !st; i++) to[i] += sum[i];
    return st;
}

/* y (n, rows of the layer) = b w' */
static tiny_status tinyi_spike_inputs_back(tgnn_nerf *net, int layer, const float *b, tiny_idx n, float *y)
{
    const tiny_tensor *w = &net->params[TINYI_NERF_LAYER + layer].value;
    const tiny_tensor tb = tiny_tensor_2d((void *)(uintptr_t)b, TINY_F32, n, w->dim[1]),
                      ty = tiny_tensor_2d(y, TINY_F32, n, w->dim[0]), turned = tiny_tensor_swap(*w, 0, 1);
    return tiny_matmul(net->ctx, &tb, &turned, NULL, TINY_ACT_NONE, &ty);
}

/* From ds in d to the input of the neurons. slope is scratch of the same size, and holds the spikes afterwards. */
static tiny_status tinyi_spike_neurons_back(tgnn_nerf *net, int layer, float *d, const float *h, float *slope,
                                            const int32_t *gap, tiny_idx points)
{
    const tiny_idx repeats = tinyi_spike_repeats(net), n = points * repeats;
    const size_t width = (size_t)net->desc.hidden, all = (size_t)n * width;
    const double leak = tinyi_spike_leak(net, layer);
    const tiny_tensor t = tiny_tensor_1d(slope, TINY_F32, (tiny_idx)all);
    double d_leak = 0.0;
    tiny_status st;
    tiny_idx i;
    size_t k;
    if (net->desc.net == TGNN_NERF_FLOAT) {
        for (k = 0; k < all; k++) {
            d[k] = h[k] > 0.0f ? d[k] : 0.0f;
            slope[k] = h[k];
        }
        return TINY_OK;
    }
    for (k = 0; k < all; k++) slope[k] = 4.0f * (h[k] - 1.0f);
    st = tiny_sigmoid(net->ctx, &t, &t);
    for (k = 0; k < all; k++) slope[k] = 4.0f * slope[k] * (1.0f - slope[k]);
    for (k = 0; k < width; k++)
        if (net->desc.net == TGNN_NERF_SPIKES)
            d_leak += tinyi_spike_unroll(d + k, h + k, slope + k, gap, leak, n, width);
        else
            for (i = 0; i < points; i++) {
                const size_t at = (size_t)(i * repeats) * width + k;
                d_leak += tinyi_spike_unroll(d + at, h + at, slope + at, NULL, leak, repeats, width);
            }
    for (k = 0; k < all; k++) slope[k] = h[k] >= 1.0f ? 1.0f : 0.0f;
    if (net->desc.learn_leak)
        ((float *)net->params[TINYI_NERF_LEAK].grad.data)[layer] += (float)(d_leak * leak * (1.0 - leak));
    return st;
}

TINYI_FN tiny_status tinyi_nerf_network_back(tgnn_nerf *net, tinyi_nerf_work *w, tiny_idx n, const float *d_rgb)
{
    const tiny_idx repeats = tinyi_spike_repeats(net), rows = n * repeats;
    const size_t h = (size_t)net->desc.hidden;
    float *d_out = w->d_out, *d2 = w->h[2], *d1 = w->h[3], *spikes = w->h[4];
    tiny_status st = TINY_OK;
    tiny_idx i, r, point;
    size_t k;
    const int flip = net->desc.flip && net->desc.net != TGNN_NERF_FLOAT;   /* without time: along the ray */
    int c;
    if (!n) return TINY_OK;
    for (i = 0; i < n; i++)                 /* in the order of time, and for each repeat */
        for (r = 0; r < repeats; r++)
            for (c = 0; c < 3; c++) {
                point = flip ? n - 1 - i : i;
                d_out[(i * repeats + r) * 3 + c] = d_rgb[3 * point + c] * w->rgb[3 * point + c] *
                                                   (1.0f - w->rgb[3 * point + c]) / (float)repeats;
            }
    st = tinyi_spike_inputs_back(net, 2, d_out, rows, d2);
    if (!st) st = tinyi_spike_neurons_back(net, 1, d2, w->h[1], spikes, w->gap, n);
    if (!st) st = tinyi_spike_weights_back(net, 2, spikes, d_out, rows, w->sum);
    if (!st) st = tinyi_spike_inputs_back(net, 1, d2, rows, d1);
    if (!st) st = tinyi_spike_neurons_back(net, 0, d1, w->h[0], spikes, w->gap, n);
    if (!st) st = tinyi_spike_weights_back(net, 1, spikes, d2, rows, w->sum);
    for (i = 0; i < n && !st; i++) {        /* the input of all repeats is one; back to the order along the ray */
        point = flip ? n - 1 - i : i;
        for (k = 0; k < h; k++) {
            float sum = 0.0f;
            for (r = 0; r < repeats; r++) sum += d1[(size_t)(i * repeats + r) * h + k];
            w->pre[(size_t)point * h + k] = sum;
        }
    }
    if (!st) st = tinyi_spike_weights_back(net, 0, w->x, w->pre, n, w->sum);
    if (!st) st = tinyi_spike_inputs_back(net, 0, w->pre, n, w->x);
    return st;
}
