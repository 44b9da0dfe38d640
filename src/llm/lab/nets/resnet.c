/* src/llm/lab/nets/resnet.c - residual networks of a chosen shape
 * Papers   K. He et al., "Deep Residual Learning for Image Recognition", 2015 (arXiv 1512.03385), the shortcut without
 *          weights. G. Hinton, O. Vinyals, J. Dean, "Distilling the Knowledge in a Neural Network", 2015 (arXiv
 *          1503.02531). H. Li et al., 2016 (arXiv 1608.08710).
 * Formula  block: y = relu(x' + n2(w2 * relu(n1(w1 * x)))), x' the shortcut; the sum by the additive rule.
 * Data     one block: trained numbers, their gradients, running values. The logits of a teacher are computed once,
 *          since the images do not change.
 * Left out random crops and flips: the tasks here draw every image anew. */
#include "llm/lab/nets/resnet.h"
#include "math/layer.h"
#include "math/init.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <stdio.h>
#include <string.h>

#define TINYI_RES_PARAMS (3 * TLLM_SPACE_CONVS + 2)

struct tllm_resnet {
    tiny_ctx *ctx;
    tllm_space space;
    tllm_shape shape;
    tiny_dtype dtype;
    size_t n_conv, n_param, n_all;          /* n_conv: convolutions that are there */
    size_t conv[TLLM_SPACE_CONVS];          /* their numbers in the space */
    tiny_param param[TINYI_RES_PARAMS + 2 * TLLM_SPACE_CONVS];  /* weight, gain, bias of each; matrix; running values */
    char name[TINYI_RES_PARAMS + 2 * TLLM_SPACE_CONVS][24];
    void *numbers;
};

static tiny_tensor tinyi_res_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

/* ---- pieces */

TINYI_FN tiny_tensor tinyi_res_conv(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w, int stride)
{
    tiny_conv2d_params p;
    memset(&p, 0, sizeof p);
    p.stride[0] = p.stride[1] = stride ? stride : 1;
    p.pad[0] = p.pad[1] = p.pad[2] = p.pad[3] = 1;
    return tiny_tape_call(tape, TINY_OP_CONV2D, x, w, NULL, NULL, &p);
}

TINYI_FN tiny_tensor tinyi_res_sum(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b)
{
    const tiny_idx none[4] = { 0, 0, 0, 0 };
    tiny_idx more[4] = { 0, 0, 0, 0 };
    tiny_tensor t;
    if (tiny_tape_status(tape)) return tinyi_res_none();
    if (a->dim[1] < b->dim[1]) return tinyi_res_sum(tape, b, a);
    if (a->dim[1] == b->dim[1]) return tiny_tape_add(tape, a, b);
    more[1] = a->dim[1] - b->dim[1];
    t = tiny_tape_pad(tape, b, none, more);
    return tiny_tape_add(tape, a, &t);
}

TINYI_FN tiny_tensor tinyi_res_short(tiny_tape *tape, const tiny_tensor *x, int stride)
{
    tiny_patch_params p;
    if (stride <= 1 || tiny_tape_status(tape)) return *x;
    memset(&p, 0, sizeof p);
    p.size[0] = p.size[1] = stride;
    return tiny_tape_call(tape, TINY_OP_AVG_POOL, x, NULL, NULL, NULL, &p);
}

TINYI_FN tiny_tensor tinyi_res_relu(tiny_tape *tape, const tiny_tensor *x)
{
    return tiny_tape_call(tape, TINY_OP_RELU, x, NULL, NULL, NULL, NULL);
}

TINYI_FN tiny_tensor tinyi_res_mean(tiny_tape *tape, const tiny_tensor *x)
{
    tiny_idx dim[3];
    tiny_tensor t;
    if (tiny_tape_status(tape)) return tinyi_res_none();
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    dim[2] = x->dim[2] * x->dim[3];
    t = tiny_tape_reshape(tape, x, 3, dim);
    return tiny_tape_call(tape, TINY_OP_MEAN, &t, NULL, NULL, NULL, NULL);
}

TINYI_FN tiny_status tinyi_res_images(tiny_ctx *ctx, const tllm_space *space, const tllm_nn_set *set)
{
    tiny_status st = tinyi_nn_set_check(ctx, set, space->n_class);
    if (!st && (set->x.rank != 4 || set->x.dim[1] != space->in[0] || set->x.dim[2] != space->in[1] ||
                set->x.dim[3] != space->in[2]))
        st = tinyi_fail(ctx, TINY_E_SHAPE, "resnet: the images must be (n, %td, %td, %td)", space->in[0], space->in[1],
                        space->in[2]);
    return st;
}

/* ---- a network */

/* One tensor more; without numbers only counted. grad: where its gradient begins, 0: it has none. */
static int tinyi_res_add(tllm_resnet *net, size_t conv, const char *what, int rank, const tiny_idx *dim, size_t *at,
                         size_t grad)
{
    tiny_param *p = &net->param[net->n_all];
    const size_t bytes = tiny_dtype_bytes(net->dtype);
    size_t n = 1;
    int i;
    for (i = 0; i < rank; i++)
        if (!tinyi_size_mul(n, (size_t)dim[i], &n)) return 0;
    if (conv < TLLM_SPACE_CONVS)
        (void)snprintf(net->name[net->n_all], sizeof net->name[0], "%u.%s", (unsigned)conv, what);
    else (void)snprintf(net->name[net->n_all], sizeof net->name[0], "%s", what);
    p->name = net->name[net->n_all];
    p->group = 0;
    if (net->numbers) {
        p->value = tiny_tensor_nd((unsigned char *)net->numbers + *at * bytes, net->dtype, rank, dim);
        p->grad = p->value;
        if (grad) p->grad.data = (unsigned char *)net->numbers + (grad + *at) * bytes;
    }
    net->n_all++;
    return tinyi_size_add(*at, n, at) && *at <= UINT32_MAX;
}

/* Called twice: to count, and with memory. *count: trained numbers; *more: running values after their gradients. */
static int tinyi_res_lay(tllm_resnet *net, size_t *count, size_t *more)
{
    const tllm_space *g = &net->space;
    size_t s, b, l, k, at = 0;
    tiny_idx dim[4], c = g->in[0];
    int ok = 1;
    net->n_all = net->n_conv = 0;
    dim[2] = dim[3] = 3;
    for (s = 0; s <= g->n_stage; s++) {     /* the stem is stage 0 of one convolution */
        const size_t n = s ? 2 * (size_t)net->shape.depth[s - 1] : 1, first = s ? tinyi_space_first(g, s - 1) : 0;
        tiny_idx in = c;                    /* channels that the next convolution reads */
        for (b = 0; b < n; b++) {
            l = first + b;
            net->conv[net->n_conv++] = l;
            dim[0] = net->shape.width[l];
            dim[1] = in;
            ok = ok && tinyi_res_add(net, l, "weight", 4, dim, &at, *count);
            ok = ok && tinyi_res_add(net, l, "gain", 1, dim, &at, *count);
            ok = ok && tinyi_res_add(net, l, "bias", 1, dim, &at, *count);
            in = dim[0];
            if (!s) c = in;
            else if (b % 2) in = c = g->plain ? in : TINYI_MAX(c, in);
        }
    }
    dim[0] = g->n_class;
    dim[1] = c;
    ok = ok && tinyi_res_add(net, TLLM_SPACE_CONVS, "head.weight", 2, dim, &at, *count);
    ok = ok && tinyi_res_add(net, TLLM_SPACE_CONVS, "head.bias", 1, dim, &at, *count);
    net->n_param = net->n_all;
    *count = at;
    at *= 2;
    for (k = 0; k < net->n_conv; k++) {
        dim[0] = net->shape.width[net->conv[k]];
        ok = ok && tinyi_res_add(net, net->conv[k], "mean", 1, dim, &at, 0);
        ok = ok && tinyi_res_add(net, net->conv[k], "variance", 1, dim, &at, 0);
    }
    *more = at - 2 * *count;
    return ok;
}

TINY_API void tllm_resnet_close(tllm_resnet *net)
{
    if (!net) return;
    tiny_free(net->ctx, net->numbers);
    tiny_free(net->ctx, net);
}

TINY_API tiny_status tllm_resnet_open(tiny_ctx *ctx, const tllm_space *space, const tllm_shape *shape, uint64_t seed,
                                      tiny_dtype dtype, tllm_resnet **out)
{
    tllm_shape full;
    tllm_resnet *net;
    tiny_rng rng = tiny_rng_make(seed, 0x726573);
    size_t n = 0, more = 0, k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "resnet: a result pointer is needed");
    if (dtype != TINY_F32 && dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "resnet: the weights are f32 or f64, not %s", tiny_dtype_name(dtype));
    st = tllm_space_full(ctx, space, &full);
    if (!st && shape) st = tllm_space_check(ctx, space, shape);
    if (st) return st;
    net = (tllm_resnet *)tinyi_alloc(ctx, 1, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    net->ctx = ctx;
    net->space = *space;
    net->shape = shape ? *shape : full;
    net->dtype = dtype;
    if (!tinyi_res_lay(net, &n, &more) || n > UINT32_MAX / 4)
        st = tinyi_fail(ctx, TINY_E_OVERFLOW, "resnet: more than 2^30 weights");
    else {
        net->numbers = tinyi_alloc(ctx, 2 * n + more, tiny_dtype_bytes(dtype));
        if (!net->numbers) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        memset(net->numbers, 0, (2 * n + more) * tiny_dtype_bytes(dtype));
        (void)tinyi_res_lay(net, &n, &more);
    }
    for (k = 0; !st && k < net->n_conv; k++) {
        st = tiny_init_he(ctx, &rng, &net->param[3 * k].value, 0);
        if (!st) st = tiny_init_constant(ctx, &net->param[3 * k + 1].value, 1.0);
        if (!st) st = tiny_init_constant(ctx, &net->param[net->n_param + 2 * k + 1].value, 1.0);
    }
    if (!st) st = tiny_init_he(ctx, &rng, &net->param[3 * net->n_conv].value, 0);
    if (st) tllm_resnet_close(net);
    else *out = net;
    return st;
}

TINY_API const tllm_space *tllm_resnet_space(const tllm_resnet *net) { return net ? &net->space : NULL; }
TINY_API const tllm_shape *tllm_resnet_shape(const tllm_resnet *net) { return net ? &net->shape : NULL; }
TINY_API const tiny_param *tllm_resnet_params(const tllm_resnet *net, size_t *n, size_t *n_all)
{
    if (n) *n = net ? net->n_param : 0;
    if (n_all) *n_all = net ? net->n_all : 0;
    return net ? net->param : NULL;
}

/* convolution k of the network and its norm */
static tiny_tensor tinyi_res_layer(tiny_tape *tape, const tllm_resnet *net, size_t k, const tiny_tensor *x, int stride,
                                   int train)
{
    const tiny_param *p = &net->param[3 * k], *run = &net->param[net->n_param + 2 * k];
    tiny_batch_norm_params norm;
    tiny_tensor y = tinyi_res_conv(tape, x, &p->value, stride);
    memset(&norm, 0, sizeof norm);
    norm.train = train;
    return tiny_tape_batch_norm(tape, &y, &p[1].value, &p[2].value, &run[0].value, &run[1].value, &norm);
}

TINY_API tiny_tensor tllm_resnet_run(tiny_tape *tape, const tllm_resnet *net, const tiny_tensor *x, int train)
{
    tiny_tensor h, y, z;
    size_t s, k = 1;
    int b;
    if (!tape || tiny_tape_status(tape)) return tinyi_res_none();
    if (!net || !x || tiny_tensor_check(x) || x->dtype != net->dtype || x->rank != 4 || x->dim[0] < 1 ||
        x->dim[1] != net->space.in[0] || x->dim[2] != net->space.in[1] || x->dim[3] != net->space.in[2]) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, "resnet: x must be (at least 1, channels, height, width) of the "
                                                    "space, of the type of the weights");
        return tinyi_res_none();
    }
    h = tinyi_res_layer(tape, net, 0, x, net->space.stem_stride, train);
    h = tinyi_res_relu(tape, &h);
    for (s = 0; s < net->space.n_stage; s++)
        for (b = 0; b < net->shape.depth[s]; b++, k += 2) {
            const int stride = b ? 1 : net->space.stage[s].stride;
            y = tinyi_res_layer(tape, net, k, &h, stride, train);
            y = tinyi_res_relu(tape, &y);
            y = tinyi_res_layer(tape, net, k + 1, &y, 1, train);
            if (!net->space.plain) {
                z = tinyi_res_short(tape, &h, stride);
                y = tinyi_res_sum(tape, &y, &z);
            }
            h = tinyi_res_relu(tape, &y);
        }
    h = tinyi_res_mean(tape, &h);
    return tiny_tape_linear(tape, &h, &net->param[3 * net->n_conv].value, &net->param[3 * net->n_conv + 1].value,
                            TINY_ACT_NONE);
}

/* Logits of all images into y (n, classes) of the type of the weights. */
static tiny_status tinyi_res_logits(const tllm_resnet *net, const tllm_nn_set *set, void *y)
{
    const tiny_idx each = net->space.in[0] * net->space.in[1] * net->space.in[2], n = TINYI_MIN(set->x.dim[0], 200);
    const size_t bytes = tiny_dtype_bytes(net->dtype);
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    tiny_idx at;
    tiny_status st = TINY_OK;
    int dry;
    memset(&d, 0, sizeof d);
    d.no_grad = 1;
    for (dry = 1; !st && dry >= 0; dry--) {
        d.dry = dry;
        st = tiny_tape_open(net->ctx, &d, &tape);
        for (at = 0; !st && at < (dry ? 1 : set->x.dim[0]); at += n) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            tllm_nn_set part = *set, wide;
            tiny_tensor z;
            memset(&wide, 0, sizeof wide);
            part.x.data = (float *)set->x.data + at * each;
            part.label.data = (int32_t *)set->label.data + at;
            part.x.dim[0] = part.label.dim[0] = TINYI_MIN(n, set->x.dim[0] - at);
            if (net->dtype != TINY_F32)
                st = tinyi_nn_set_rows(net->ctx, &part, NULL, part.x.dim[0], net->dtype, &wide);
            if (!st) {
                z = tllm_resnet_run(tape, net, wide.x.data ? &wide.x : &part.x, 0);
                st = tiny_tape_status(tape);
                if (!st && !dry)
                    memcpy((unsigned char *)y + (size_t)(at * net->space.n_class) * bytes, z.data,
                           (size_t)(part.x.dim[0] * net->space.n_class) * bytes);
            }
            tiny_free(net->ctx, wide.x.data);
            tiny_tape_release(tape, mark);
        }
        d.bytes = tiny_tape_high(tape);
        tiny_tape_close(tape);
        tape = NULL;
    }
    return st;
}

TINY_API tiny_status tllm_resnet_right(const tllm_resnet *net, const tllm_nn_set *set, tiny_idx *n_right)
{
    tiny_idx i, k, best, n;
    void *y;
    tiny_status st;
    if (n_right) *n_right = 0;
    if (!net) return TINY_E_ARGUMENT;
    if (!n_right) return tinyi_fail(net->ctx, TINY_E_ARGUMENT, "resnet: a result pointer is needed");
    st = tinyi_res_images(net->ctx, &net->space, set);
    if (st) return st;
    n = net->space.n_class;
    y = tinyi_alloc(net->ctx, (size_t)(set->x.dim[0] * n), tiny_dtype_bytes(net->dtype));
    if (!y) return tiny_ctx_status(net->ctx);
    st = tinyi_res_logits(net, set, y);
    for (i = 0; !st && i < set->x.dim[0]; i++) {
        for (best = 0, k = 1; k < n; k++)
            if (tinyi_real(y, net->dtype, i * n + k) > tinyi_real(y, net->dtype, i * n + best)) best = k;
        *n_right += ((const int32_t *)set->label.data)[i] == (int32_t)best;
    }
    tiny_free(net->ctx, y);
    return st;
}

/* ---- training */

typedef struct tinyi_res_fit {
    const tllm_resnet *net;
    tllm_nn_set set;                        /* of the type of the weights */
    tiny_tensor taught;                     /* logits of the teacher; data NULL: none */
    double share, temperature;
    int (*callback)(void *user, const tiny_train_state *state);
    void *user;
} tinyi_res_fit;

static int tinyi_res_step(void *user, const tiny_train_state *state)
{
    const tinyi_res_fit *f = (const tinyi_res_fit *)user;
    return f->callback(f->user, state);
}

static tiny_tensor tinyi_res_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    const tinyi_res_fit *f = (const tinyi_res_fit *)user;
    const tiny_tensor x = tiny_tape_rows(tape, &f->set.x, sample, n),
                      label = tiny_tape_rows(tape, &f->set.label, sample, n);
    tiny_tensor y = tllm_resnet_run(tape, f->net, &x, 1), ce = tiny_tape_cross_entropy(tape, &y, &label, 0.0), t, kl;
    if (!f->taught.data) return ce;
    t = tiny_tape_rows(tape, &f->taught, sample, n);
    kl = tiny_tape_kl_distill(tape, &y, &t, f->temperature);
    ce = tiny_tape_scale(tape, &ce, 1.0 - f->share, 0.0);
    kl = tiny_tape_scale(tape, &kl, f->share, 0.0);
    return tiny_tape_add(tape, &ce, &kl);
}

TINY_API tiny_status tllm_resnet_fit(tllm_resnet *net, const tllm_nn_set *set, const tllm_resnet_fit_desc *desc)
{
    tllm_resnet_fit_desc d;
    tinyi_res_fit f;
    tiny_train_desc t;
    tiny_status st;
    if (!net) return TINY_E_ARGUMENT;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    memset(&f, 0, sizeof f);
    memset(&t, 0, sizeof t);
    f.net = net;
    f.callback = d.callback;
    f.user = d.user;
    f.share = d.share != 0.0 ? d.share : 0.9;
    f.temperature = d.temperature != 0.0 ? d.temperature : 4.0;
    st = tinyi_res_images(net->ctx, &net->space, set);
    if (st) return st;
    if (!(d.lr >= 0.0 && d.lr < 1e6) || !(d.decay < 1e6) || !(f.share > 0.0 && f.share <= 1.0) ||
        !(f.temperature > 0.0 && f.temperature < 1e6))
        return tinyi_fail(net->ctx, TINY_E_ARGUMENT, "resnet: rate %g, decay %g, share %g and temperature %g; "
                          "rate and temperature are above 0, the share is up to 1", d.lr, d.decay, f.share,
                          f.temperature);
    if (d.teacher && (d.teacher == net || d.teacher->dtype != net->dtype ||
                      d.teacher->space.n_class != net->space.n_class))
        return tinyi_fail(net->ctx, TINY_E_ARGUMENT,
                          "resnet: the teacher must be another network with the same type and classes");
    if (d.teacher) st = tinyi_res_images(net->ctx, &d.teacher->space, set);
    f.set = *set;
    if (!st && net->dtype != TINY_F32)
        st = tinyi_nn_set_rows(net->ctx, set, NULL, set->x.dim[0], net->dtype, &f.set);
    if (!st && d.teacher) {
        f.taught = tiny_tensor_2d(NULL, net->dtype, set->x.dim[0], net->space.n_class);
        f.taught.data = tinyi_alloc(net->ctx, (size_t)tiny_tensor_count(&f.taught), tiny_dtype_bytes(net->dtype));
        if (!f.taught.data) st = tiny_ctx_status(net->ctx);
        else st = tinyi_res_logits(d.teacher, set, f.taught.data);
    }
    if (!st) {
        t.params = net->param;
        t.n_params = net->n_param;
        t.model = tinyi_res_loss;
        t.callback = d.callback ? tinyi_res_step : NULL;
        t.user = &f;
        t.n_samples = (uint32_t)set->x.dim[0];
        t.batch = d.batch ? d.batch : TINYI_MIN(50, set->x.dim[0]);
        t.epochs = d.epochs ? d.epochs : 30;
        t.seed = d.seed;
        t.optim.group[0].kind = TINY_OPTIM_SGD;
        t.optim.group[0].lr = d.lr != 0.0 ? d.lr : 0.1;
        t.optim.group[0].momentum = 0.9;
        t.optim.group[0].nesterov = 1;
        t.optim.group[0].decay = d.decay < 0.0 ? 0.0 : d.decay != 0.0 ? d.decay : 5e-4;
        t.schedule.kind = TINY_SCHEDULE_COSINE;
        st = tiny_train(net->ctx, &t, NULL);
    }
    tiny_free(net->ctx, f.taught.data);
    if (net->dtype != TINY_F32 && f.set.x.data != set->x.data) tiny_free(net->ctx, f.set.x.data);
    return st;
}

/* ---- filters */

/* The n rows of w with the largest sums of |w|, ascending by index; ties keep the lower index. */
static void tinyi_res_largest(const tiny_tensor *w, tiny_idx n, tiny_idx *keep)
{
    const tiny_idx rows = w->dim[0], each = tiny_tensor_count(w) / rows;
    tiny_idx r, q, i, better, m = 0;
    for (r = 0; r < rows; r++) {            /* kept if fewer than n rows are better; rows are few */
        double mine = 0.0;
        for (i = 0; i < each; i++) {
            const double x = tinyi_real(w->data, w->dtype, r * each + i);
            mine += x < 0.0 ? -x : x;
        }
        for (better = q = 0; q < rows; q++) {
            double other = 0.0;
            for (i = 0; i < each; i++) {
                const double x = tinyi_real(w->data, w->dtype, q * each + i);
                other += x < 0.0 ? -x : x;
            }
            better += other > mine || (!(other < mine) && q < r);
        }
        if (better < n) keep[m++] = r;
    }
}

/* y[o, i, ...] = x[rows[o], columns[i], ...]; NULL: the first ones */
static void tinyi_res_take(const tiny_tensor *x, const tiny_tensor *y, const tiny_idx *rows, const tiny_idx *columns)
{
    const tiny_idx ni = y->rank > 1 ? y->dim[1] : 1, xi = x->rank > 1 ? x->dim[1] : 1;
    const tiny_idx taps = y->rank > 2 ? y->dim[2] * y->dim[3] : 1;
    tiny_idx o, i, t;
    for (o = 0; o < y->dim[0]; o++)
        for (i = 0; i < ni; i++)
            for (t = 0; t < taps; t++)
                tinyi_real_set(y->data, y->dtype, (o * ni + i) * taps + t,
                               tinyi_real(x->data, x->dtype,
                                          ((rows ? rows[o] : o) * xi + (columns ? columns[i] : i)) * taps + t));
}

TINY_API tiny_status tllm_resnet_filters(const tllm_resnet *net, const tllm_shape *shape, tllm_resnet **out)
{
    tllm_resnet *y = NULL;
    tiny_idx *keep = NULL, widest = 1;
    size_t k, j = 0, l;
    int kept = 0, i;                        /* keep holds the filters of the convolution before */
    tiny_status st;
    if (out) *out = NULL;
    if (!net) return TINY_E_ARGUMENT;
    if (!out) return tinyi_fail(net->ctx, TINY_E_ARGUMENT, "resnet: a result pointer is needed");
    st = tllm_space_check(net->ctx, &net->space, shape);
    for (k = 0; !st && k < net->space.n_stage; k++)
        if (shape->depth[k] > net->shape.depth[k])
            st = tinyi_fail(net->ctx, TINY_E_ARGUMENT, "resnet: stage %zu has %d blocks, not %d", k,
                            net->shape.depth[k], shape->depth[k]);
    for (k = 0; !st && k < net->n_conv; k++) {
        l = net->conv[k];
        widest = TINYI_MAX(widest, net->shape.width[l]);
        if (shape->width[l] > net->shape.width[l])
            st = tinyi_fail(net->ctx, TINY_E_ARGUMENT, "resnet: convolution %zu has %td channels, not %td", l,
                            net->shape.width[l], shape->width[l]);
    }
    if (!st) st = tllm_resnet_open(net->ctx, &net->space, shape, 0, net->dtype, &y);
    if (!st) {
        keep = (tiny_idx *)tinyi_alloc(net->ctx, (size_t)widest, sizeof *keep);
        if (!keep) st = tiny_ctx_status(net->ctx);
    }
    for (k = 0; !st && k < y->n_conv; k++) {
        const int inner = y->conv[k] % 2 == 1;          /* the first of a block: 1, 3, 5 .. */
        while (net->conv[j] != y->conv[k]) j++;
        if (inner) tinyi_res_largest(&net->param[3 * j].value, shape->width[y->conv[k]], keep);
        tinyi_res_take(&net->param[3 * j].value, &y->param[3 * k].value, inner ? keep : NULL, kept ? keep : NULL);
        for (i = 1; i < 3; i++)
            tinyi_res_take(&net->param[3 * j + (size_t)i].value, &y->param[3 * k + (size_t)i].value,
                           inner ? keep : NULL, NULL);
        for (i = 0; i < 2; i++)
            tinyi_res_take(&net->param[net->n_param + 2 * j + (size_t)i].value,
                           &y->param[y->n_param + 2 * k + (size_t)i].value, inner ? keep : NULL, NULL);
        kept = inner;
    }
    for (i = 0; !st && i < 2; i++)
        tinyi_res_take(&net->param[3 * net->n_conv + (size_t)i].value, &y->param[3 * y->n_conv + (size_t)i].value, NULL,
                       NULL);
    tiny_free(net->ctx, keep);
    if (st) tllm_resnet_close(y);
    else *out = y;
    return st;
}

/* ---- files */

TINY_API tiny_status tllm_resnet_save(const tllm_resnet *net, const char *path)
{
    return net ? tiny_params_save(net->ctx, path, net->param, net->n_all, NULL) : TINY_E_ARGUMENT;
}

TINY_API tiny_status tllm_resnet_load(tllm_resnet *net, const char *path)
{
    return net ? tiny_params_load(net->ctx, path, net->param, net->n_all, NULL) : TINY_E_ARGUMENT;
}
