/* src/gnn/operator/unet.c - encoder-decoders of convolutions over fields, ordinary or compressed before training
 * Paper    "A priori compression of convolutional neural networks for wave simulators", 2023 (arXiv 2304.04964); the
 *          form of the network is that of O. Ronneberger, P. Fischer, T. Brox, "U-Net", 2015 (arXiv 1505.04597).
 * Formula  see unet.h. SEPARABLE: F. Chollet, 2017 (arXiv 1610.02357). CP: V. Lebedev et al., 2015 (arXiv 1412.6553),
 *          K[o,c,i,j] = sum over r of d[o,r] a[r,c] v[r,i] h[r,j]
 * Memory   a run has one tape for one sample
 * Left out norms; transposed convolutions */
#include <stdio.h>
#include <string.h>
#include "gnn/operator/unet.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/layer.h"
#include "math/rows_inside.h"
#include "math/train.h"

#define TINYI_UNET_LEVELS 6
#define TINYI_UNET_LAYERS (2 * TINYI_UNET_LEVELS + 2)
#define TINYI_UNET_NAME 32
#define TINYI_UNET_WEIGHTS 268435456.0      /* of a layer at most, as an ordinary convolution and as it is */
#define TINYI_UNET_NUMBERS 8                /* of the description in a file */

typedef struct tinyi_unet_layer {
    tgnn_oneway shape;                      /* channels, taps, stride; rank: of ONEWAY and CP */
    size_t first;                           /* its first parameter; the bias is the last */
    int n;                                  /* of them */
} tinyi_unet_layer;

struct tgnn_unet {
    tiny_ctx *ctx;
    tgnn_unet_desc desc;
    int layers;
    tinyi_unet_layer layer[TINYI_UNET_LAYERS];
    size_t n, n_floats;
    tiny_param param[4 * TINYI_UNET_LAYERS];
    char name[4 * TINYI_UNET_LAYERS][TINYI_UNET_NAME];
    float *memory;                          /* values, then gradients */
};

static const char *const tinyi_unet_kinds[TGNN_UNET_KINDS] = { "dense", "oneway", "separable", "cp" };
TINY_API const char *tgnn_unet_kind_name(int kind)
{
    return kind >= 0 && kind < TGNN_UNET_KINDS ? tinyi_unet_kinds[kind] : NULL;
}

/* ---- layers and their parameters */

static void tinyi_unet_add(tgnn_unet *net, int layer, const char *what, int rank, tiny_idx a, tiny_idx b, tiny_idx c,
                           tiny_idx d)
{
    tiny_param *p = &net->param[net->n];
    tiny_idx dim[4];
    dim[0] = a;
    dim[1] = b;
    dim[2] = c;
    dim[3] = d;
    memset(p, 0, sizeof *p);
    (void)snprintf(net->name[net->n], TINYI_UNET_NAME, "%d.%s", layer, what);
    p->name = net->name[net->n];
    p->value = p->grad = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    net->n++;
    net->n_floats += (size_t)tiny_tensor_count(&p->value);
}

static void tinyi_unet_layer_add(tgnn_unet *net, int i)
{
    tinyi_unet_layer *l = &net->layer[i];
    const tgnn_oneway *s = &l->shape;
    const tiny_idx rows = s->rank * s->n_out;
    l->first = net->n;
    switch (net->desc.kind) {
    case TGNN_UNET_ONEWAY:
        tinyi_unet_add(net, i, "channels", 2, rows, s->n_in, 0, 0);
        tinyi_unet_add(net, i, "axes", 3, 2, rows, s->k, 0);
        break;
    case TGNN_UNET_SEPARABLE:
        tinyi_unet_add(net, i, "taps", 4, s->n_in, 1, s->k, s->k);
        tinyi_unet_add(net, i, "mixture", 4, s->n_out, s->n_in, 1, 1);
        break;
    case TGNN_UNET_CP:
        tinyi_unet_add(net, i, "channels", 2, s->rank, s->n_in, 0, 0);
        tinyi_unet_add(net, i, "axes", 3, 2, s->rank, s->k, 0);
        tinyi_unet_add(net, i, "mixture", 4, s->n_out, s->rank, 1, 1);
        break;
    default: tinyi_unet_add(net, i, "weight", 4, s->n_out, s->n_in, s->k, s->k);
    }
    tinyi_unet_add(net, i, "bias", 1, s->n_out, 0, 0, 0);
    l->n = (int)(net->n - l->first);
}

static tiny_status tinyi_unet_list(tgnn_unet *net)
{
    const tgnn_unet_desc *d = &net->desc;
    int i;
    net->layers = 2 * d->levels + 2;
    for (i = 0; i < net->layers; i++) {
        tgnn_oneway *s = &net->layer[i].shape;
        tiny_status st;
        s->d = 2;
        s->k = d->k;
        s->pad = d->k / 2;
        s->rank = d->rank;
        s->stride = i >= 1 && i <= d->levels ? 2 : 1;
        s->n_in = i == 0 ? d->n_in : i > d->levels + 1 ? 2 * d->width : d->width;
        s->n_out = i == net->layers - 1 ? d->n_out : d->width;
        st = tinyi_oneway_check(net->ctx, s);
        if (st) return st;
        if (tgnn_oneway_dense_count(s) > TINYI_UNET_WEIGHTS || tgnn_oneway_count(s) > TINYI_UNET_WEIGHTS)
            return tinyi_fail(net->ctx, TINY_E_OVERFLOW,
                              "unet: layer %d, %td to %td channels, has more than %.0f weights", i, s->n_in, s->n_out,
                              TINYI_UNET_WEIGHTS);
        tinyi_unet_layer_add(net, i);
    }
    return TINY_OK;
}

/* He: normal of the variance 2 / inputs, for products of factors spread over them; biases are 0 */
static tiny_status tinyi_unet_draw(tgnn_unet *net)
{
    int i, k;
    tiny_status st = TINY_OK;
    for (i = 0; !st && i < net->layers; i++) {
        const tinyi_unet_layer *l = &net->layer[i];
        const tiny_param *p = net->param + l->first;
        const tgnn_oneway *s = &l->shape;
        const double taps = (double)(s->k * s->k), n_in = (double)s->n_in;
        double std[3];
        std[0] = std[1] = std[2] = tinyi_sqrt(2.0 / (n_in * taps));
        if (net->desc.kind == TGNN_UNET_ONEWAY) {
            st = tgnn_oneway_init(net->ctx, s, net->desc.seed * 64 + (uint64_t)i, &p[0].value, &p[1].value);
            continue;
        }
        if (net->desc.kind == TGNN_UNET_SEPARABLE) {
            std[0] = tinyi_sqrt(1.0 / taps);
            std[1] = tinyi_sqrt(2.0 / n_in);
        } else if (net->desc.kind == TGNN_UNET_CP) {
            std[0] = tinyi_sqrt(1.0 / n_in);
            std[1] = tinyi_sqrt(1.0 / (double)s->k);
            std[2] = tinyi_sqrt(2.0 / (double)s->rank);
        }
        for (k = 0; k < l->n - 1; k++) {
            tiny_rng rng = tiny_rng_make(net->desc.seed, l->first + (size_t)k);
            float *w = (float *)p[k].value.data;
            const tiny_idx n = tiny_tensor_count(&p[k].value);
            tiny_idx j;
            tiny_rng_fill_normal(&rng, w, (size_t)n);
            for (j = 0; j < n; j++) w[j] *= (float)std[k];
        }
    }
    return st;
}

TINY_API tiny_status tgnn_unet_open(tiny_ctx *ctx, const tgnn_unet_desc *desc, tgnn_unet **out)
{
    tgnn_unet *net;
    tgnn_unet_desc *d;
    float *at;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: a description and an output are needed");
    net = (tgnn_unet *)tinyi_alloc(ctx, 1, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    net->ctx = ctx;
    d = &net->desc;
    *d = *desc;
    if (d->width == 0) d->width = 32;
    d->levels = d->levels == 0 ? 1 : d->levels == -1 ? 0 : d->levels;
    if (d->k == 0) d->k = 5;
    if (d->kind != TGNN_UNET_ONEWAY && d->kind != TGNN_UNET_CP) d->rank = 1;
    else if (d->rank == 0)
        d->rank = d->kind == TGNN_UNET_CP && d->width <= 1024 ? (int)d->width : 1;
    if (d->kind < 0 || d->kind >= TGNN_UNET_KINDS)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: kind %d is unknown", d->kind);
    else if (desc->levels < -1 || d->levels > TINYI_UNET_LEVELS)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: %d levels, there can be 1 to %d, or none (-1)", desc->levels,
                        TINYI_UNET_LEVELS);
    if (!st) st = tinyi_unet_list(net);
    if (!st) {
        net->memory = (float *)tinyi_alloc(ctx, net->n_floats, 2 * sizeof *net->memory);
        if (!net->memory) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        memset(net->memory, 0, 2 * net->n_floats * sizeof *net->memory);
        for (i = 0, at = net->memory; i < net->n; i++) {
            net->param[i].value.data = at;
            net->param[i].grad.data = at + net->n_floats;
            at += tiny_tensor_count(&net->param[i].value);
        }
        st = tinyi_unet_draw(net);
    }
    if (st) tgnn_unet_close(net);
    else *out = net;
    return st;
}

TINY_API void tgnn_unet_close(tgnn_unet *net)
{
    tiny_ctx *ctx;
    if (!net) return;
    ctx = net->ctx;
    tiny_free(ctx, net->memory);
    tiny_free(ctx, net);
}

TINY_API const tgnn_unet_desc *tgnn_unet_description(const tgnn_unet *net) { return net ? &net->desc : NULL; }
TINY_API const tiny_param *tgnn_unet_params(const tgnn_unet *net, size_t *n)
{
    if (n) *n = net ? net->n : 0;
    return net ? net->param : NULL;
}
TINY_API double tgnn_unet_count(const tgnn_unet *net) { return net ? (double)net->n_floats : 0.0; }

TINY_API double tgnn_unet_flops(const tgnn_unet *net, const tiny_idx *size)
{
    double sum = 0.0;
    int i;
    if (!net || !size) return 0.0;
    for (i = 0; i < net->layers; i++) {
        const tgnn_oneway *s = &net->layer[i].shape;
        /* halvings of the field after this layer, and before it */
        const int after = i <= net->desc.levels ? i : TINYI_MIN(net->desc.levels, net->layers - 1 - i);
        const double to = (double)size[0] * (double)size[1] / (double)((tiny_idx)1 << 2 * after);
        const double step = s->stride == 2 ? 2.0 : 1.0, from = to * step * step, middle = to * step;
        const double n = (double)s->n_in, o = (double)s->n_out, r = (double)s->rank, k = (double)s->k;
        switch (net->desc.kind) {
        case TGNN_UNET_ONEWAY: sum += r * o * (n * from + k * middle + k * to); break;
        case TGNN_UNET_SEPARABLE: sum += (n * k * k + o * n) * to; break;
        case TGNN_UNET_CP: sum += r * (n * from + k * middle + (k + o) * to); break;
        default: sum += o * n * k * k * to;
        }
    }
    return 2.0 * sum;
}

/* ---- the network */

static tiny_tensor tinyi_unet_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

static tiny_tensor tinyi_unet_conv2d(tiny_tape *tape, const tiny_tensor *x, const tiny_idx *size, const tiny_tensor *w,
                                     const tiny_tensor *bias, int stride, int groups)
{
    tiny_conv2d_params p;
    tiny_tensor t, y;
    tiny_idx dim[4];
    memset(&p, 0, sizeof p);
    p.stride[0] = p.stride[1] = stride;
    p.pad[0] = p.pad[1] = p.pad[2] = p.pad[3] = (int)w->dim[2] / 2;
    p.groups = groups;
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    dim[2] = size[0];
    dim[3] = size[1];
    t = tiny_tape_reshape(tape, x, 4, dim);
    y = tiny_tape_call(tape, TINY_OP_CONV2D, &t, w, bias, NULL, &p);
    if (tiny_tape_status(tape)) return tinyi_unet_none();
    dim[1] = y.dim[1];
    dim[2] = y.dim[2] * y.dim[3];
    return tiny_tape_reshape(tape, &y, 3, dim);
}

/* layer i of a field of this size, which becomes that of the result */
static tiny_tensor tinyi_unet_apply(tiny_tape *tape, const tgnn_unet *net, const tiny_tensor *x, tiny_idx *size, int i)
{
    const tinyi_unet_layer *l = &net->layer[i];
    const tiny_param *p = net->param + l->first;
    const tiny_tensor *bias = &p[l->n - 1].value;
    tgnn_oneway s = l->shape;
    tiny_idx after[2];
    tiny_tensor y;
    after[0] = (size[0] + s.stride - 1) / s.stride;
    after[1] = (size[1] + s.stride - 1) / s.stride;
    switch (net->desc.kind) {
    case TGNN_UNET_ONEWAY: y = tgnn_tape_oneway(tape, &s, x, &p[0].value, &p[1].value, bias, size); break;
    case TGNN_UNET_SEPARABLE:
        y = tinyi_unet_conv2d(tape, x, size, &p[0].value, NULL, s.stride, (int)s.n_in);
        y = tinyi_unet_conv2d(tape, &y, after, &p[1].value, bias, 1, 1);
        break;
    case TGNN_UNET_CP:                      /* one product for each of `rank` channels, then their mixture */
        s.n_out = s.rank;
        s.rank = 1;
        y = tgnn_tape_oneway(tape, &s, x, &p[0].value, &p[1].value, NULL, size);
        y = tinyi_unet_conv2d(tape, &y, after, &p[2].value, bias, 1, 1);
        break;
    default: y = tinyi_unet_conv2d(tape, x, size, &p[0].value, bias, s.stride, 1);
    }
    size[0] = after[0];
    size[1] = after[1];
    return i == net->layers - 1 ? y : tiny_tape_call(tape, TINY_OP_GELU, &y, NULL, NULL, NULL, NULL);
}

static tiny_tensor tinyi_unet_double(tiny_tape *tape, const tiny_tensor *x, tiny_idx *size)
{
    tiny_idx dim[4];
    tiny_tensor t;
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    dim[2] = size[0];
    dim[3] = size[1];
    t = tiny_tape_reshape(tape, x, 4, dim);
    t = tiny_tape_upsample2x(tape, &t);
    size[0] *= 2;
    size[1] *= 2;
    dim[2] = size[0] * size[1];
    return tiny_tape_reshape(tape, &t, 3, dim);
}

static tiny_status tinyi_unet_fits(tiny_ctx *ctx, const tgnn_unet *net, const tiny_tensor *x, const tiny_idx *size)
{
    char text[96];
    int i;
    if (!net || !x || !size) return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: a network, x and its size are needed");
    for (i = 0; i < 2; i++) {
        const tiny_idx least = (tiny_idx)net->desc.k << net->desc.levels;
        if (size[i] < 1 || size[i] > 16384 || size[i] % ((tiny_idx)1 << net->desc.levels))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: axis %d has %td points, the number must be a multiple of "
                              "%d, at most 16384", i, size[i], 1 << net->desc.levels);
        if (size[i] < least)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: axis %d has %td points, filters of %d taps and %d levels "
                              "need %td", i, size[i], net->desc.k, net->desc.levels, least);
    }
    if (tiny_tensor_check(x) || x->rank != 3 || x->dim[0] < 1 || x->dim[1] != net->desc.n_in ||
        x->dim[2] != size[0] * size[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "unet: x is %s, it must be at least one sample x %td x %td",
                          tiny_tensor_check(x) ? "no tensor" : tinyi_shape_text(x, text), net->desc.n_in,
                          size[0] * size[1]);
    return TINY_OK;
}

static tiny_tensor tinyi_unet_layers(tiny_tape *tape, const tgnn_unet *net, const tiny_tensor *x, const tiny_idx *of)
{
    tiny_tensor kept[TINYI_UNET_LEVELS], both[2], y = *x;
    tiny_idx size[2];
    int i, at = 0;
    size[0] = of[0];
    size[1] = of[1];
    y = tinyi_unet_apply(tape, net, &y, size, at++);
    for (i = 0; i < net->desc.levels && !tiny_tape_status(tape); i++) {
        kept[i] = y;
        y = tinyi_unet_apply(tape, net, &y, size, at++);
    }
    if (!tiny_tape_status(tape)) y = tinyi_unet_apply(tape, net, &y, size, at++);
    for (i = net->desc.levels - 1; i >= 0 && !tiny_tape_status(tape); i--) {
        both[0] = tinyi_unet_double(tape, &y, size);
        both[1] = kept[i];
        y = tiny_tape_concat(tape, 2, both, 1);
        if (!tiny_tape_status(tape)) y = tinyi_unet_apply(tape, net, &y, size, at++);
    }
    return tiny_tape_status(tape) ? tinyi_unet_none() : y;
}

TINY_API tiny_tensor tgnn_tape_unet(tiny_tape *tape, const tgnn_unet *net, const tiny_tensor *x, const tiny_idx *size)
{
    tiny_ctx *ctx;
    if (!tape || tiny_tape_status(tape)) return tinyi_unet_none();
    ctx = tiny_tape_ctx(tape);
    if (tinyi_unet_fits(ctx, net, x, size)) {
        (void)tinyi_tape_refuse(tape, tiny_ctx_status(ctx), tiny_ctx_message(ctx));
        return tinyi_unet_none();
    }
    return tinyi_unet_layers(tape, net, x, size);
}

TINY_API tiny_status tgnn_unet_run(tiny_ctx *ctx, const tgnn_unet *net, const tiny_tensor *x, const tiny_idx *size,
                                   const tiny_tensor *y)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_tape_mark mark;
    tiny_tensor from, to, t;
    char text[96];
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_unet_fits(ctx, net, x, size);
    if (st) return st;
    if (x->dtype != TINY_F32) return tinyi_fail(ctx, TINY_E_DTYPE, "unet: x must be f32");
    if (!y || tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 3 || y->dim[0] != x->dim[0] ||
        y->dim[1] != net->desc.n_out || y->dim[2] != x->dim[2])
        return tinyi_fail(ctx, TINY_E_SHAPE, "unet: y is %s, it must be %td x %td x %td f32",
                          y && !tiny_tensor_check(y) ? tinyi_shape_text(y, text) : "no tensor", x->dim[0],
                          net->desc.n_out, x->dim[2]);
    from = *x;
    from.dim[0] = 1;
    memset(&d, 0, sizeof d);
    d.dry = d.no_grad = 1;
    st = tiny_tape_open(ctx, &d, &tape);
    if (st) return st;
    (void)tinyi_unet_layers(tape, net, &from, size);
    st = tiny_tape_status(tape);
    d.bytes = tiny_tape_high(tape);
    tiny_tape_close(tape);
    tape = NULL;
    d.dry = 0;
    if (!st) st = tiny_tape_open(ctx, &d, &tape);
    for (i = 0; !st && i < x->dim[0]; i++) {
        mark = tiny_tape_now(tape);
        to = *y;
        to.dim[0] = 1;
        from.data = (float *)x->data + i * x->stride[0];
        to.data = (float *)y->data + i * y->stride[0];
        t = tinyi_unet_layers(tape, net, &from, size);
        st = tiny_tape_status(tape);
        if (!st) st = tiny_copy(ctx, &t, &to);
        tiny_tape_release(tape, mark);
    }
    tiny_tape_close(tape);
    return st;
}

TINY_API tiny_status tgnn_unet_compress(tiny_ctx *ctx, const tgnn_unet *dense, int rank, tgnn_unet **out,
                                        double *error)
{
    tgnn_unet_desc d;
    tgnn_unet *net = NULL;
    double most = 0.0;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (error) *error = 0.0;
    if (st) return st;
    if (!dense || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: a network and an output are needed");
    if (dense->desc.kind != TGNN_UNET_DENSE)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: only a network of ordinary convolutions can be compressed");
    if (rank < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: a rank of %d, it must be at least 1", rank);
    d = dense->desc;
    d.levels = d.levels ? d.levels : -1;
    d.kind = TGNN_UNET_ONEWAY;
    d.rank = rank;
    st = tgnn_unet_open(ctx, &d, &net);
    for (i = 0; !st && i < net->layers; i++) {
        const tiny_param *from = dense->param + dense->layer[i].first, *to = net->param + net->layer[i].first;
        const tgnn_oneway *s = &net->layer[i].shape;
        const tiny_tensor kernel = tiny_tensor_3d(from[0].value.data, TINY_F32, s->n_out, s->n_in, s->k * s->k);
        double e = 0.0;
        st = tgnn_oneway_fit(ctx, s, &kernel, &to[0].value, &to[1].value, &e);
        most = TINYI_MAX(most, e);
        if (!st) st = tiny_copy(ctx, &from[1].value, &to[2].value);
    }
    if (st) tgnn_unet_close(net);
    else {
        *out = net;
        if (error) *error = most;
    }
    return st;
}

/* ---- files: the description is one more tensor */

static tiny_param tinyi_unet_numbers(float numbers[TINYI_UNET_NUMBERS])
{
    tiny_param p;
    memset(&p, 0, sizeof p);
    p.name = "unet";
    p.value = tiny_tensor_1d(numbers, TINY_F32, TINYI_UNET_NUMBERS);
    return p;
}

TINY_API tiny_status tgnn_unet_save(tiny_ctx *ctx, const tgnn_unet *net, const char *path)
{
    float numbers[TINYI_UNET_NUMBERS];
    tiny_param all[4 * TINYI_UNET_LAYERS + 1];
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: a network and a path are needed");
    numbers[0] = (float)net->desc.n_in;
    numbers[1] = (float)net->desc.n_out;
    numbers[2] = (float)net->desc.width;
    numbers[3] = (float)(net->desc.levels ? net->desc.levels : -1);
    numbers[4] = (float)net->desc.k;
    numbers[5] = (float)net->desc.kind;
    numbers[6] = (float)net->desc.rank;
    numbers[7] = 0.0f;
    all[0] = tinyi_unet_numbers(numbers);
    memcpy(all + 1, net->param, net->n * sizeof *all);
    return tiny_params_save(ctx, path, all, net->n + 1, NULL);
}

TINY_API tiny_status tgnn_unet_load(tiny_ctx *ctx, const char *path, tgnn_unet **out)
{
    float numbers[TINYI_UNET_NUMBERS];
    tgnn_unet_desc d;
    tgnn_unet *net = NULL;
    tiny_param first;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "unet: a path and an output are needed");
    memset(numbers, 0, sizeof numbers);
    first = tinyi_unet_numbers(numbers);
    st = tiny_params_load(ctx, path, &first, 1, NULL);
    for (i = 0; !st && i < TINYI_UNET_NUMBERS; i++)
        if (!(numbers[i] >= -1.0f && numbers[i] <= 65536.0f) || numbers[i] != (float)(int)numbers[i])
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: number %d of the description of the network is %g", path, i,
                            (double)numbers[i]);
    if (st) return st;
    memset(&d, 0, sizeof d);
    d.n_in = (tiny_idx)numbers[0];
    d.n_out = (tiny_idx)numbers[1];
    d.width = (tiny_idx)numbers[2];
    d.levels = (int)numbers[3];
    d.k = (int)numbers[4];
    d.kind = (int)numbers[5];
    d.rank = (int)numbers[6];
    st = tgnn_unet_open(ctx, &d, &net);
    if (!st) st = tiny_params_load(ctx, path, net->param, net->n, NULL);
    if (st) tgnn_unet_close(net);
    else *out = net;
    return st;
}
