/* src/gnn/operator/fno.c - Fourier neural operators: lift, blocks of a spectral convolution and an MLP, projection
 * Paper    Z. Li et al., 2020 (arXiv 2010.08895), section 4; J. Kossaifi et al., 2023 (arXiv 2310.00120), section 3.
 * Formula  z = lift([x, grid]): two linear layers, GELU between; then for each block
 *            o = F^-1 W F(z) + b + S z,  GELU unless it is the last;  z = mlp(o) + g z,  GELU unless it is the last
 *          with two linear layers and GELU in mlp and one number g for each channel; y = project(z), two linear layers.
 *          Options: tanh before F, instance norm after F^-1 and after the block, zeros after each axis. These are the
 *          blocks of neuraloperator 2.0 with its defaults.
 * Memory   the run uses one tape for one step (lift, a block, projection) of one sample, and one field between them
 * Left out the order with activations first; other skips than a linear one and a gate; interpolation between blocks */
#include <stdio.h>
#include <string.h>
#include "gnn/operator/fno.h"
#include "core/state_inside.h"
#include "core/bytes.h"
#include "core/file.h"
#include "core/safetensors.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/init.h"
#include "math/layer.h"
#include "math/rows_inside.h"

#define TINYI_FNO_BLOCKS 16
#define TINYI_FNO_NAME 48
#define TINYI_FNO_EPS 1e-5                  /* of the instance norm */
#define TINYI_FNO_LINE 1024                 /* bytes of the description in a file */
#define TINYI_FNO_MOST 65536                /* channels anywhere */

struct tgnn_fno {
    tiny_ctx *ctx;
    tgnn_fno_desc desc;
    tgnn_spectral plan[TINYI_FNO_BLOCKS];   /* joint: the first one alone */
    size_t block[TINYI_FNO_BLOCKS], project;        /* where their parameters begin */
    size_t n, n_floats;
    tiny_param *params;
    char (*names)[TINYI_FNO_NAME];
    float *memory;                          /* values, then gradients */
};

/* ---- the list of parameters; without memory it is counted only */

static void tinyi_fno_add(tgnn_fno *net, const char *name, int rank, const tiny_idx *dim)
{
    tiny_tensor t = tiny_tensor_nd(NULL, TINY_F32, rank, dim);
    const size_t n = (size_t)tiny_tensor_count(&t);
    if (net->memory) {
        tiny_param *p = &net->params[net->n];
        memset(p, 0, sizeof *p);
        (void)snprintf(net->names[net->n], TINYI_FNO_NAME, "%s", name);
        p->name = net->names[net->n];
        p->value = p->grad = t;
        p->value.data = net->memory + net->n_floats;
    }
    net->n++;
    net->n_floats += n;
}

/* PLACE.WHAT.weight (out, in) and its bias */
static void tinyi_fno_linear(tgnn_fno *net, const char *place, int i, tiny_idx out, tiny_idx in)
{
    char name[TINYI_FNO_NAME];
    tiny_idx dim[2];
    dim[0] = out;
    dim[1] = in;
    (void)snprintf(name, sizeof name, "%s.%d.weight", place, i);
    tinyi_fno_add(net, name, 2, dim);
    (void)snprintf(name, sizeof name, "%s.%d.bias", place, i);
    tinyi_fno_add(net, name, 1, dim);
}

static void tinyi_fno_list(tgnn_fno *net)
{
    const tgnn_fno_desc *d = &net->desc;
    char name[TINYI_FNO_NAME];
    tiny_idx dim[2];
    int i, k;
    net->n = net->n_floats = 0;
    dim[0] = dim[1] = d->width;
    tinyi_fno_linear(net, "lift", 0, d->lift, d->n_in + (d->no_grid ? 0 : d->d));
    tinyi_fno_linear(net, "lift", 1, d->width, d->lift);
    for (i = 0; i < d->layers; i++) {
        tgnn_spectral *s = &net->plan[d->joint ? 0 : i];
        net->block[i] = net->n;
        (void)snprintf(name, sizeof name, "block.%d.bias", i);
        tinyi_fno_add(net, name, 1, dim);
        (void)snprintf(name, sizeof name, "block.%d.skip", i);
        tinyi_fno_add(net, name, 2, dim);
        (void)snprintf(name, sizeof name, "block.%d.gate", i);
        tinyi_fno_add(net, name, 1, dim);
        (void)snprintf(name, sizeof name, "block.%d.mlp", i);
        tinyi_fno_linear(net, name, 0, d->mlp, d->width);
        tinyi_fno_linear(net, name, 1, d->width, d->mlp);
        for (k = 0; k < s->n_weights && !(d->joint && i); k++) {
            if (d->joint) (void)snprintf(name, sizeof name, "blocks.%s", s->name[k]);
            else (void)snprintf(name, sizeof name, "block.%d.%s", i, s->name[k]);
            if (net->memory) s->weight[k].data = net->memory + net->n_floats;
            tinyi_fno_add(net, name, s->weight[k].rank, s->weight[k].dim);
        }
    }
    net->project = net->n;
    tinyi_fno_linear(net, "project", 0, d->project, d->width);
    tinyi_fno_linear(net, "project", 1, d->n_out, d->project);
}

/* ---- open and close */

static tiny_status tinyi_fno_check(tiny_ctx *ctx, tgnn_fno_desc *d)
{
    tiny_idx *hidden[4];
    int i;
    if (d->width == 0) d->width = 32;
    if (d->layers == 0) d->layers = 4;
    if (d->layers < 1 || d->layers > TINYI_FNO_BLOCKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: %d blocks, there can be 1 to %d", d->layers, TINYI_FNO_BLOCKS);
    if (d->width < 1 || d->width > TINYI_FNO_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: a width of %td, it must be 1 to %d", d->width, TINYI_FNO_MOST);
    if (d->lift == 0) d->lift = 2 * d->width;
    if (d->project == 0) d->project = 2 * d->width;
    if (d->mlp == 0) d->mlp = d->width / 2 + (d->width == 1);
    if (d->n_in < 1 || d->n_out < 1 || d->n_in > TINYI_FNO_MOST || d->n_out > TINYI_FNO_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: %td channels in and %td out, both must be 1 to %d", d->n_in,
                          d->n_out, TINYI_FNO_MOST);
    hidden[0] = &d->lift;
    hidden[1] = &d->project;
    hidden[2] = &d->mlp;
    for (i = 0; i < 3; i++)
        if (*hidden[i] < 1 || *hidden[i] > 2 * TINYI_FNO_MOST)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: %td hidden channels, there can be 1 to %d", *hidden[i],
                              2 * TINYI_FNO_MOST);
    if (!(d->pad >= 0.0 && d->pad <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: a padding of %g, it must be 0 to 1", d->pad);
    return TINY_OK;
}

static tiny_status tinyi_fno_draw(tgnn_fno *net)
{
    tiny_status st = TINY_OK;
    size_t i, at;
    int k;
    for (i = 0; i < net->n; i++) {          /* uniform, +-1 / sqrt(inputs), for linear layers and all biases */
        const tiny_tensor *t = &net->params[i].value;
        const char *end = strrchr(net->params[i].name, '.');
        tiny_rng rng = tiny_rng_make(net->desc.seed, i);
        const float most = (float)(1.0 / tinyi_sqrt((double)(t->rank == 2 ? t->dim[1] : net->desc.width)));
        tiny_rng_fill_uniform(&rng, (float *)t->data, (size_t)tiny_tensor_count(t), -most, most);
        if (end && !strcmp(end, ".gate")) st = tiny_init_constant(net->ctx, t, 1.0);
        if (st) return st;
    }
    for (k = 0; k < (net->desc.joint ? 1 : net->desc.layers); k++) {
        at = (size_t)k + 1000;
        st = tgnn_spectral_init(net->ctx, &net->plan[k], net->desc.seed * 4096 + at);
        if (st) return st;
    }
    return TINY_OK;
}

TINY_API tiny_status tgnn_fno_open(tiny_ctx *ctx, const tgnn_fno_desc *desc, tgnn_fno **out)
{
    tgnn_spectral_desc s;
    tgnn_fno *net;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    int k;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: a description and an output are needed");
    net = (tgnn_fno *)tinyi_alloc(ctx, 1, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    net->ctx = ctx;
    net->desc = *desc;
    st = tinyi_fno_check(ctx, &net->desc);
    memset(&s, 0, sizeof s);
    s.d = desc->d;
    memcpy(s.modes, desc->modes, sizeof s.modes);
    s.n_in = s.n_out = net->desc.width;
    s.kind = desc->kind;
    s.ratio = desc->ratio;
    s.separable = desc->separable;
    s.rebuild = desc->rebuild;
    s.layers = desc->joint ? net->desc.layers : 0;
    for (k = 0; !st && k < (desc->joint ? 1 : net->desc.layers); k++) st = tgnn_spectral_plan(ctx, &s, &net->plan[k]);
    if (!st) {
        tinyi_fno_list(net);
        net->params = (tiny_param *)tinyi_alloc(ctx, net->n, sizeof *net->params);
        if (net->params) net->names = (char (*)[TINYI_FNO_NAME])tinyi_alloc(ctx, net->n, sizeof *net->names);
        if (net->names) net->memory = (float *)tinyi_alloc(ctx, net->n_floats, 2 * sizeof *net->memory);
        if (!net->memory) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        float *grad = net->memory + net->n_floats;
        tinyi_fno_list(net);
        memset(grad, 0, net->n_floats * sizeof *grad);
        for (i = 0; i < net->n; i++) {
            net->params[i].grad.data = grad;
            grad += tiny_tensor_count(&net->params[i].grad);
        }
        st = tinyi_fno_draw(net);
    }
    if (st) tgnn_fno_close(net);
    else *out = net;
    return st;
}

TINY_API void tgnn_fno_close(tgnn_fno *net)
{
    tiny_ctx *ctx;
    if (!net) return;
    ctx = net->ctx;
    tiny_free(ctx, net->memory);
    tiny_free(ctx, net->names);
    tiny_free(ctx, net->params);
    tiny_free(ctx, net);
}

TINY_API const tgnn_fno_desc *tgnn_fno_description(const tgnn_fno *net) { return net ? &net->desc : NULL; }
TINY_API const tiny_param *tgnn_fno_params(const tgnn_fno *net, size_t *n)
{
    if (n) *n = net ? net->n : 0;
    return net ? net->params : NULL;
}
TINY_API double tgnn_fno_count(const tgnn_fno *net) { return net ? (double)net->n_floats : 0.0; }

/* ---- the network */

static tiny_tensor tinyi_fno_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

static tiny_tensor tinyi_fno_unary(tiny_tape *tape, int kind, const tiny_tensor *x)
{
    return tiny_tape_call(tape, kind, x, NULL, NULL, NULL, NULL);
}

/* two linear layers with GELU between them */
static tiny_tensor tinyi_fno_mlp(tiny_tape *tape, const tiny_param *p, const tiny_tensor *x)
{
    tiny_tensor h = tiny_tape_linear(tape, x, &p[0].value, &p[1].value, TINY_ACT_NONE);
    h = tinyi_fno_unary(tape, TINY_OP_GELU, &h);
    return tiny_tape_linear(tape, &h, &p[2].value, &p[3].value, TINY_ACT_NONE);
}

/* (x - mean) / sqrt(variance + eps) of each channel of a sample */
static tiny_tensor tinyi_fno_norm(tiny_tape *tape, const tiny_tensor *x)
{
    tiny_reduce_params points;
    tiny_tensor m, c, v;
    memset(&points, 0, sizeof points);
    points.axis = 1;
    points.keep = 1;
    m = tiny_tape_call(tape, TINY_OP_MEAN, x, NULL, NULL, NULL, &points);
    c = tiny_tape_sub(tape, x, &m);
    v = tiny_tape_mul(tape, &c, &c);
    v = tiny_tape_call(tape, TINY_OP_MEAN, &v, NULL, NULL, NULL, &points);
    v = tiny_tape_scale(tape, &v, 1.0, TINYI_FNO_EPS);
    v = tinyi_fno_unary(tape, TINY_OP_RSQRT, &v);
    return tiny_tape_mul(tape, &c, &v);
}

/* The grid of z: with the zeros after each axis. */
static void tinyi_fno_sizes(const tgnn_fno *net, const tiny_idx *size, tiny_idx *padded)
{
    int i;
    for (i = 0; i < net->desc.d; i++) padded[i] = size[i] + (tiny_idx)(net->desc.pad * (double)size[i] + 0.5);
}

/* zeros after each axis of (samples, points, channels), or their removal */
static tiny_tensor tinyi_fno_frame(tiny_tape *tape, const tgnn_fno *net, const tiny_tensor *x, const tiny_idx *from,
                                   const tiny_idx *to)
{
    const tiny_idx none[TINY_MAX_RANK] = { 0, 0, 0, 0 };
    tiny_tensor t = *x;
    tiny_idx dim[3], after[TINY_MAX_RANK] = { 0, 0, 0, 0 };
    int i, k;
    for (k = 0; k < net->desc.d && !tiny_tape_status(tape); k++) {
        if (from[k] == to[k]) continue;
        dim[0] = x->dim[0];
        dim[1] = from[k];
        dim[2] = x->dim[2];
        for (i = 0; i < k; i++) dim[0] *= to[i];
        for (i = k + 1; i < net->desc.d; i++) dim[2] *= from[i];
        t = tiny_tape_reshape(tape, &t, 3, dim);
        after[1] = to[k] - from[k];
        if (to[k] > from[k]) t = tiny_tape_pad(tape, &t, none, after);
        else t.dim[1] = to[k];
    }
    dim[0] = x->dim[0];
    dim[1] = 1;
    dim[2] = x->dim[2];
    for (i = 0; i < net->desc.d; i++) dim[1] *= to[i];
    return tiny_tape_reshape(tape, &t, 3, dim);
}

static tiny_tensor tinyi_fno_begin(tiny_tape *tape, const tgnn_fno *net, const tiny_tensor *x, const tiny_idx *size)
{
    tiny_tensor in[2], z;
    tiny_idx dim[3], padded[3], i;
    int k;
    in[0] = *x;
    if (!net->desc.no_grid) {
        dim[0] = 1;
        dim[1] = x->dim[1];
        dim[2] = net->desc.d;
        in[1] = tiny_tape_new(tape, x->dtype, 3, dim);
        for (i = 0; in[1].data && !tiny_tape_dry(tape) && i < dim[1]; i++) {
            tiny_idx at = i;
            for (k = net->desc.d - 1; k >= 0; k--) {
                tinyi_real_set(in[1].data, x->dtype, i * dim[2] + k, (double)(at % size[k]) / (double)size[k]);
                at /= size[k];
            }
        }
        in[1].dim[0] = x->dim[0];
        in[1].stride[0] = 0;
        in[0] = tiny_tape_concat(tape, 2, in, 2);
    }
    z = tinyi_fno_mlp(tape, net->params, &in[0]);
    tinyi_fno_sizes(net, size, padded);
    return tiny_tape_status(tape) ? tinyi_fno_none() : tinyi_fno_frame(tape, net, &z, size, padded);
}

static tiny_tensor tinyi_fno_block(tiny_tape *tape, const tgnn_fno *net, const tiny_tensor *z, const tiny_idx *size,
                                   int i)
{
    const tiny_param *p = net->params + net->block[i];
    const int last = i == net->desc.layers - 1, joint = net->desc.joint != 0;
    tiny_tensor in = *z, o, s, m;
    if (net->desc.tanh) in = tinyi_fno_unary(tape, TINY_OP_TANH, z);
    o = tgnn_tape_spectral(tape, &net->plan[joint ? 0 : i], &in, size, NULL,
                           joint && net->desc.layers > 1 ? i : 0);
    o = tiny_tape_add(tape, &o, &p[0].value);
    if (net->desc.norm) o = tinyi_fno_norm(tape, &o);
    s = tiny_tape_linear(tape, z, &p[1].value, NULL, TINY_ACT_NONE);
    o = tiny_tape_add(tape, &o, &s);
    if (!last) o = tinyi_fno_unary(tape, TINY_OP_GELU, &o);
    m = tinyi_fno_mlp(tape, p + 3, &o);
    s = tiny_tape_mul(tape, z, &p[2].value);
    o = tiny_tape_add(tape, &m, &s);
    if (net->desc.norm) o = tinyi_fno_norm(tape, &o);
    return last ? o : tinyi_fno_unary(tape, TINY_OP_GELU, &o);
}

static tiny_tensor tinyi_fno_end(tiny_tape *tape, const tgnn_fno *net, const tiny_tensor *z, const tiny_idx *size)
{
    tiny_idx padded[3];
    tiny_tensor t;
    tinyi_fno_sizes(net, size, padded);
    t = tinyi_fno_frame(tape, net, z, padded, size);
    return tinyi_fno_mlp(tape, net->params + net->project, &t);
}

/* x, and the size of the grid */
static tiny_status tinyi_fno_fits(tiny_ctx *ctx, const tgnn_fno *net, const tiny_tensor *x, const tiny_idx *size)
{
    tiny_idx points = 1;
    char text[96];
    int i;
    if (!net || !x || !size) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: a network, x and its grid are needed");
    for (i = 0; i < net->desc.d; i++) {
        if (size[i] < 1 || size[i] > (tiny_idx)1 << 24 || points > TINY_IDX_MAX / 4 / size[i])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: axis %d has %td points, it must have 1 to %d", i, size[i],
                              1 << 24);
        points *= size[i];
    }
    if (tiny_tensor_check(x)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: x is no tensor");
    if (x->rank != 3 || x->dim[0] < 1 || x->dim[1] != points || x->dim[2] != net->desc.n_in)
        return tinyi_fail(ctx, TINY_E_SHAPE, "fno: x is %s, it must be at least one sample x %td x %td",
                          tinyi_shape_text(x, text), points, net->desc.n_in);
    return TINY_OK;
}

TINY_API tiny_tensor tgnn_tape_fno(tiny_tape *tape, const tgnn_fno *net, const tiny_tensor *x, const tiny_idx *size)
{
    tiny_idx padded[3];
    tiny_tensor z;
    tiny_ctx *ctx;
    int i;
    if (!tape || tiny_tape_status(tape)) return tinyi_fno_none();
    ctx = tiny_tape_ctx(tape);
    if (tinyi_fno_fits(ctx, net, x, size)) {
        (void)tinyi_tape_refuse(tape, tiny_ctx_status(ctx), tiny_ctx_message(ctx));
        return tinyi_fno_none();
    }
    tinyi_fno_sizes(net, size, padded);
    z = tinyi_fno_begin(tape, net, x, size);
    for (i = 0; i < net->desc.layers && !tiny_tape_status(tape); i++) z = tinyi_fno_block(tape, net, &z, padded, i);
    return tiny_tape_status(tape) ? tinyi_fno_none() : tinyi_fno_end(tape, net, &z, size);
}

/* ---- without a tape of the caller */

/* One sample, step by step: what a step left is copied out, and its memory used again. */
static tiny_status tinyi_fno_steps(tiny_tape *tape, const tgnn_fno *net, const tiny_tensor *x, const tiny_idx *size,
                                   const tiny_tensor *z, const tiny_tensor *y)
{
    const tiny_tape_mark mark = tiny_tape_now(tape);
    tiny_idx padded[3];
    int i;
    tinyi_fno_sizes(net, size, padded);
    for (i = -1; i <= net->desc.layers; i++) {
        const tiny_tensor t = i < 0                   ? tinyi_fno_begin(tape, net, x, size)
                              : i < net->desc.layers ? tinyi_fno_block(tape, net, z, padded, i)
                                                     : tinyi_fno_end(tape, net, z, size);
        tiny_status st = tiny_tape_status(tape);
        if (!st && !tiny_tape_dry(tape)) st = tiny_copy(net->ctx, &t, i < net->desc.layers ? z : y);
        if (st) return st;
        tiny_tape_release(tape, mark);
    }
    return TINY_OK;
}

/* z of one sample, and the bytes of the tape */
static tiny_status tinyi_fno_measure(tiny_ctx *ctx, const tgnn_fno *net, const tiny_idx *size, tiny_tensor *z,
                                     size_t *bytes)
{
    tiny_idx padded[3], points[2] = { 1, 1 };
    float dummy[1] = { 0.0f };
    tiny_tape_desc d;
    tiny_tape *tape;
    tiny_tensor x, y;
    tiny_status st;
    int i;
    tinyi_fno_sizes(net, size, padded);
    for (i = 0; i < net->desc.d; i++) {
        points[0] *= size[i];
        points[1] *= padded[i];
    }
    x = tiny_tensor_3d(dummy, TINY_F32, 1, points[0], net->desc.n_in);
    y = tiny_tensor_3d(dummy, TINY_F32, 1, points[0], net->desc.n_out);
    *z = tiny_tensor_3d(dummy, TINY_F32, 1, points[1], net->desc.width);
    memset(&d, 0, sizeof d);
    d.dry = d.no_grad = 1;
    st = tiny_tape_open(ctx, &d, &tape);
    if (st) return st;
    st = tinyi_fno_steps(tape, net, &x, size, z, &y);
    *bytes = tiny_tape_high(tape);
    tiny_tape_close(tape);
    return st;
}

TINY_API tiny_status tgnn_fno_workspace(tiny_ctx *ctx, const tgnn_fno *net, const tiny_idx *size, size_t *bytes)
{
    float dummy[1] = { 0.0f };
    tiny_tensor x, z;
    tiny_idx points = 1;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (bytes) *bytes = 0;
    if (st) return st;
    if (!net || !size || !bytes)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: a network, a grid and an output are needed");
    for (i = 0; i < net->desc.d; i++)
        points = size[i] > 0 && points < 1 << 24 ? points * TINYI_MIN(size[i], 1 << 24) : 0;
    x = tiny_tensor_3d(dummy, TINY_F32, 1, points, net->desc.n_in);
    st = tinyi_fno_fits(ctx, net, &x, size);
    if (!st) st = tinyi_fno_measure(ctx, net, size, &z, bytes);
    if (!st) *bytes += (size_t)tiny_tensor_count(&z) * sizeof(float);
    return st;
}

TINY_API tiny_status tgnn_fno_run(tiny_ctx *ctx, const tgnn_fno *net, const tiny_tensor *x, const tiny_idx *size,
                                  const tiny_tensor *y)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_tensor z, from, to;
    tiny_idx i;
    char text[96];
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    st = tinyi_fno_fits(ctx, net, x, size);
    if (st) return st;
    if (x->dtype != TINY_F32) return tinyi_fail(ctx, TINY_E_DTYPE, "fno: x must be f32");
    if (!y || tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 3 || y->dim[0] != x->dim[0] ||
        y->dim[1] != x->dim[1] || y->dim[2] != net->desc.n_out)
        return tinyi_fail(ctx, TINY_E_SHAPE, "fno: y is %s, it must be %td x %td x %td f32",
                          y && !tiny_tensor_check(y) ? tinyi_shape_text(y, text) : "no tensor", x->dim[0], x->dim[1],
                          net->desc.n_out);
    memset(&d, 0, sizeof d);
    st = tinyi_fno_measure(ctx, net, size, &z, &d.bytes);
    if (st) return st;
    z.data = tinyi_alloc(ctx, (size_t)tiny_tensor_count(&z), sizeof(float));
    if (!z.data) return tiny_ctx_status(ctx);
    d.no_grad = 1;
    st = tiny_tape_open(ctx, &d, &tape);
    for (i = 0; !st && i < x->dim[0]; i++) {
        from = *x;
        to = *y;
        from.dim[0] = to.dim[0] = 1;
        from.data = (float *)x->data + i * x->stride[0];
        to.data = (float *)y->data + i * y->stride[0];
        st = tinyi_fno_steps(tape, net, &from, size, &z, &to);
    }
    tiny_tape_close(tape);
    tiny_free(ctx, z.data);
    return st;
}

/* ---- files */

static const char *const tinyi_fno_kinds[TGNN_SPECTRAL_KINDS] = { "dense", "cp", "tucker", "tt" };

/* the keys of the description that hold a whole number, and where */
static tiny_idx *tinyi_fno_size_of(tgnn_fno_desc *d, tinyi_json_text key)
{
    static const char *const names[] = { "in", "out", "width", "lift", "project", "mlp" };
    tiny_idx *const at[] = { &d->n_in, &d->n_out, &d->width, &d->lift, &d->project, &d->mlp };
    size_t i;
    for (i = 0; i < TINYI_COUNT(names); i++) if (tinyi_json_text_is(key, names[i])) return at[i];
    return NULL;
}

static int *tinyi_fno_flag_of(tgnn_fno_desc *d, tinyi_json_text key)
{
    static const char *const names[] = { "d", "layers", "separable", "joint", "no_grid", "norm", "tanh" };
    int *const at[] = { &d->d, &d->layers, &d->separable, &d->joint, &d->no_grid, &d->norm, &d->tanh };
    size_t i;
    for (i = 0; i < TINYI_COUNT(names); i++) if (tinyi_json_text_is(key, names[i])) return at[i];
    return NULL;
}

/* {"d":2,"modes":[16,16],"in":1,"out":1,"width":32,"layers":4,"kind":"tucker","ratio":0.1} */
static tiny_status tinyi_fno_parse(tiny_ctx *ctx, const char *path, const unsigned char *text, size_t n,
                                   tgnn_fno_desc *d)
{
    tinyi_json_walk w;
    tinyi_json_item it;
    int n_modes = -1, depth = 0;
    tiny_status st = tinyi_json_begin(&w, ctx, path, "the description of the network", text, n, n);
    memset(d, 0, sizeof *d);
    while (!st && !(st = tinyi_json_next(&w, &it)) && it.type != TINYI_JSON_END) {
        int *flag = it.key.at ? tinyi_fno_flag_of(d, it.key) : NULL, k;
        tiny_idx *size = it.key.at ? tinyi_fno_size_of(d, it.key) : NULL;
        if (it.type == TINYI_JSON_MAP && depth == 0) depth = 1;
        else if (it.type == TINYI_JSON_CLOSE) n_modes = n_modes >= 0 ? -1 : n_modes;
        else if (it.type == TINYI_JSON_LIST && it.key.at && tinyi_json_text_is(it.key, "modes")) n_modes = 0;
        else if (it.type == TINYI_JSON_INT && n_modes >= 0 && n_modes < 3 && it.i > 0 && it.i <= 1 << 20)
            d->modes[n_modes++] = (tiny_idx)it.i;
        else if (it.type == TINYI_JSON_INT && size && it.i >= 0 && it.i <= 1 << 20) *size = (tiny_idx)it.i;
        else if ((it.type == TINYI_JSON_INT || it.type == TINYI_JSON_BOOL) && flag && it.i >= 0 && it.i <= 1024)
            *flag = (int)it.i;
        else if ((it.type == TINYI_JSON_FLOAT || it.type == TINYI_JSON_INT) && it.key.at &&
                 (tinyi_json_text_is(it.key, "ratio") || tinyi_json_text_is(it.key, "pad")))
            *(tinyi_json_text_is(it.key, "pad") ? &d->pad : &d->ratio) =
                it.type == TINYI_JSON_INT ? (double)it.i : it.f;
        else if (it.type == TINYI_JSON_TEXT && it.key.at && tinyi_json_text_is(it.key, "kind")) {
            for (k = 0; k < TGNN_SPECTRAL_KINDS && !tinyi_json_text_is(it.text, tinyi_fno_kinds[k]); k++) {}
            d->kind = k;                    /* an unknown one is refused with the rest of the description */
        } else {
            char key[64];
            (void)tiny_plain(key, sizeof key, it.key.at, it.key.at ? it.key.n : 0);
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: the description of the network has \"%s\" with an unknown value",
                              path, key);
        }
    }
    return st;
}

typedef struct tinyi_fno_reader {
    tiny_ctx *ctx;
    const char *path;
    tgnn_fno *net;
    unsigned char line[TINYI_FNO_LINE];
    size_t n_line, n_lines;
    unsigned char *seen;                    /* of each parameter */
    tiny_status st;
} tinyi_fno_reader;

static void tinyi_fno_meta(void *arg, tinyi_json_text key, tinyi_json_text value)
{
    tinyi_fno_reader *r = (tinyi_fno_reader *)arg;
    if (!tinyi_json_text_is(key, "fno")) return;
    r->n_lines++;
    r->n_line = value.n <= sizeof r->line ? tinyi_json_plain(r->line, sizeof r->line, value) : 0;
}

static void tinyi_fno_tensor(void *arg, const tinyi_st_tensor *t)
{
    tinyi_fno_reader *r = (tinyi_fno_reader *)arg;
    tiny_tensor *to;
    char name[64], want[96];
    size_t i, k, n;
    int same;
    if (r->st) return;
    (void)tiny_plain(name, sizeof name, t->name.at, t->name.n);
    for (i = 0; i < r->net->n && !tinyi_json_text_is(t->name, r->net->params[i].name); i++) {}
    if (i == r->net->n) {
        r->st = tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: tensor %s is not part of the network that is described", r->path,
                           name);
        return;
    }
    to = &r->net->params[i].value;
    same = t->type == TINYI_ST_F32 && t->rank == to->rank && !r->seen[i];
    for (k = 0; same && k < (size_t)to->rank; k++) same = t->dim[k] == (uint64_t)to->dim[k];
    if (!same) {
        r->st = tinyi_fail(r->ctx, TINY_E_FORMAT, "%s: tensor %s must be there once, as %s", r->path, name,
                           tinyi_shape_text(to, want));
        return;
    }
    n = (size_t)tiny_tensor_count(to);
    for (k = 0; k < n; k++) ((float *)to->data)[k] = tinyi_bits_f32(tinyi_le32(t->data + 4 * k));
    r->seen[i] = 1;
}

TINY_API tiny_status tgnn_fno_load(tiny_ctx *ctx, const char *path, tgnn_fno **out)
{
    tinyi_fno_reader *r = NULL;
    tinyi_st_sink sink;
    tgnn_fno_desc desc;
    tiny_file file;
    tiny_status st = tinyi_ctx_check(ctx);
    size_t i;
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: a path and an output are needed");
    st = tiny_file_open(ctx, path, &file);
    if (st) return st;
    r = (tinyi_fno_reader *)tinyi_alloc(ctx, 1, sizeof *r);
    if (!r) st = tiny_ctx_status(ctx);
    if (!st) {
        memset(r, 0, sizeof *r);
        r->ctx = ctx;
        r->path = path;
        memset(&sink, 0, sizeof sink);
        sink.arg = r;
        sink.meta = tinyi_fno_meta;
        st = tinyi_st_walk(ctx, path, file.bytes, file.n_bytes, &sink);
        if (!st && (r->n_lines != 1 || !r->n_line))
            st = tinyi_fail(ctx, TINY_E_FORMAT,
                            "%s: \"__metadata__\" must have one \"fno\", the description of the network, of at most %d "
                            "bytes",
                            path, TINYI_FNO_LINE);
    }
    if (!st) st = tinyi_fno_parse(ctx, path, r->line, r->n_line, &desc);
    if (!st) st = tgnn_fno_open(ctx, &desc, &r->net);
    if (!st) {
        r->seen = (unsigned char *)tinyi_alloc(ctx, r->net->n, 1);
        if (!r->seen) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        memset(r->seen, 0, r->net->n);
        sink.meta = NULL;
        sink.tensor = tinyi_fno_tensor;
        st = tinyi_st_walk(ctx, path, file.bytes, file.n_bytes, &sink);
        if (!st) st = r->st;
        for (i = 0; !st && i < r->net->n; i++)
            if (!r->seen[i])
                st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: tensor %s is missing", path, r->net->params[i].name);
    }
    if (!st) *out = r->net;
    else if (r) tgnn_fno_close(r->net);
    if (r) tiny_free(ctx, r->seen);
    tiny_free(ctx, r);
    tiny_file_close(ctx, &file);
    return st;
}

TINY_API tiny_status tgnn_fno_save(tiny_ctx *ctx, const tgnn_fno *net, const char *path)
{
    const tgnn_fno_desc *d;
    tinyi_st_head head;
    unsigned char *bytes, *to;
    size_t room, i, k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fno: a network and a path are needed");
    d = &net->desc;
    room = TINYI_ST_HEAD(net->n, TINYI_FNO_NAME) + TINYI_FNO_LINE;
    if (!tinyi_size_add(room, net->n_floats * sizeof(float), &room))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "fno: the file would be larger than this machine can address");
    bytes = (unsigned char *)tiny_alloc(ctx, room);
    if (!bytes) return tiny_ctx_status(ctx);
    tinyi_st_begin(&head, bytes, room);
    head.n += (size_t)snprintf(
        (char *)bytes + head.n, TINYI_FNO_LINE,
        "\"__metadata__\":{\"fno\":\"{\\\"d\\\":%d,\\\"modes\\\":[%td,%td,%td],\\\"in\\\":%td,\\\"out\\\":%td,"
        "\\\"width\\\":%td,\\\"layers\\\":%d,\\\"kind\\\":\\\"%s\\\",\\\"ratio\\\":%.9g,\\\"separable\\\":%d,"
        "\\\"joint\\\":%d,\\\"no_grid\\\":%d,\\\"norm\\\":%d,\\\"tanh\\\":%d,\\\"pad\\\":%.9g,\\\"lift\\\":%td,"
        "\\\"project\\\":%td,\\\"mlp\\\":%td}\"}",
        d->d, TINYI_MAX(d->modes[0], 1), TINYI_MAX(d->modes[1], 1), TINYI_MAX(d->modes[2], 1), d->n_in, d->n_out,
        d->width, d->layers, tinyi_fno_kinds[d->kind], d->ratio, d->separable != 0, d->joint != 0, d->no_grid != 0,
        d->norm != 0, d->tanh != 0, d->pad, d->lift, d->project, d->mlp);
    for (i = 0; i < net->n; i++)
        tinyi_st_entry(&head, net->params[i].name, TINYI_ST_F32, net->params[i].value.rank, net->params[i].value.dim);
    to = tinyi_st_end(&head);
    for (i = 0; i < net->n; i++) {
        const float *x = (const float *)net->params[i].value.data;
        const size_t n = (size_t)tiny_tensor_count(&net->params[i].value);
        for (k = 0; k < n; k++, to += 4) tinyi_put_le(to, tinyi_f32_bits(x[k]), 4);
    }
    st = tiny_file_write(ctx, path, bytes, (size_t)(to - bytes));
    tiny_free(ctx, bytes);
    return st;
}
