/* src/llm/lab/nets/nn.c - small feed-forward networks with masks of their weights
 * Papers   K. He et al., 2015 (arXiv 1502.01852): first weights N(0, 2 / fan_in).
 * Formula  z = (w m) x + b, or the batch norm of (w m) x; y = max(z, 0) where the layer says so. The gradient of w is
 *          m dL/d(w m): exactly 0 where m is 0.
 * Data     one block: all weights, one layer after the other, then biases and norms; then the gradients in the same
 *          order; then running means and variances. The mask twice: bits, and numbers 0 and 1 for the product.
 * Cost     a mask costs one product a weight forward and one backward, next to the 3 batch of the layer. */
#include "llm/lab/nets/nn_inside.h"
#include "llm/lab/flashllm/csl.h"
#include "math/layer.h"
#include "math/init.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "core/box/checkpoint.h"
#include <stdio.h>
#include <string.h>

typedef struct tinyi_nn_at {                /* of a layer */
    int weight, gain, bias;                 /* numbers of parameters; -1: none */
    size_t running;                         /* its first running mean */
    tiny_idx shape[3];                      /* channels, height, width of its result */
} tinyi_nn_at;

struct tllm_nn {
    tiny_ctx *ctx;
    tllm_nn_desc is;
    tllm_nn_layer layer[TLLM_NN_LAYERS];
    tinyi_nn_at at[TLLM_NN_LAYERS];
    tllm_nn_weight weight[TLLM_NN_LAYERS];
    tiny_param param[3 * TLLM_NN_LAYERS];
    char name[3 * TLLM_NN_LAYERS][24];
    size_t n_weight, n_param, n_theta, n_all, n_running;
    tiny_idx n_out;
    void *numbers;
    tllm_mask mask;                         /* bits NULL: none */
    void *factor;                           /* the mask as numbers */
};

static void *tinyi_nn_number(const tllm_nn *nn, size_t i)
{
    return (unsigned char *)nn->numbers + i * tiny_dtype_bytes(nn->is.dtype);
}
TINYI_FN tiny_ctx *tinyi_nn_ctx(const tllm_nn *nn) { return nn->ctx; }
TINYI_FN void *tinyi_nn_theta(const tllm_nn *nn, int grad) { return tinyi_nn_number(nn, grad ? nn->n_all : 0); }

/* One parameter more. Without numbers only sizes are counted. */
static int tinyi_nn_add(tllm_nn *nn, int i_layer, const char *what, int rank, const tiny_idx *dim, size_t *at)
{
    tiny_param *p = &nn->param[nn->n_param];
    size_t count = 1;
    int i;
    for (i = 0; i < rank; i++)
        if (!tinyi_size_mul(count, (size_t)dim[i], &count)) return 0;
    (void)snprintf(nn->name[nn->n_param], sizeof nn->name[0], "%d.%s", i_layer, what);
    p->name = nn->name[nn->n_param];
    p->group = rank > 1 ? 0 : 1;
    if (nn->numbers) {
        p->value = tiny_tensor_nd(tinyi_nn_number(nn, *at), nn->is.dtype, rank, dim);
        p->grad = tiny_tensor_nd(tinyi_nn_number(nn, nn->n_all + *at), nn->is.dtype, rank, dim);
    }
    nn->n_param++;
    return tinyi_size_add(*at, count, at) && *at <= UINT32_MAX;
}

static tiny_status tinyi_nn_bad(const tllm_nn *nn, size_t i, const char *why)
{
    return tinyi_fail(nn->ctx, TINY_E_ARGUMENT, "nn: layer %zu: %s", i, why);
}

/* Every result of a sample has fewer than 2^32 numbers: products of a shape do not overflow. */
static int tinyi_nn_fits(const tiny_idx shape[3])
{
    size_t n;
    return tinyi_size_mul((size_t)shape[0], (size_t)shape[1], &n) && tinyi_size_mul(n, (size_t)shape[2], &n) &&
           n <= UINT32_MAX;
}

/* Shapes and places of all layers; called twice, before and after the numbers have memory. */
static tiny_status tinyi_nn_lay(tllm_nn *nn)
{
    tiny_idx shape[3], dim[4];
    size_t i, at = 0;
    int pass;
    memcpy(shape, nn->is.in, sizeof shape);
    if (!tinyi_nn_fits(shape)) return tinyi_nn_bad(nn, 0, "a sample of more than 2^32 - 1 numbers");
    nn->n_weight = nn->n_param = nn->n_running = 0;
    for (i = 0; i < nn->is.n_layer; i++) {
        const tllm_nn_layer *l = &nn->layer[i];
        tinyi_nn_at *a = &nn->at[i];
        tllm_nn_weight *w = &nn->weight[nn->n_weight];
        a->weight = a->gain = a->bias = -1;
        if (l->kind == TLLM_NN_MAX_POOL) {
            if (shape[1] < l->size || shape[2] < l->size) return tinyi_nn_bad(nn, i, "the window exceeds the image");
            shape[1] = (shape[1] - l->size) / l->stride + 1;
            shape[2] = (shape[2] - l->size) / l->stride + 1;
            memcpy(a->shape, shape, sizeof shape);
            continue;
        }
        dim[0] = l->n_out;
        if (l->kind == TLLM_NN_DENSE) {
            dim[1] = shape[0] * shape[1] * shape[2];
            shape[1] = shape[2] = 1;
        } else {
            dim[1] = shape[0];
            dim[2] = dim[3] = l->size;
            shape[1] = (shape[1] - 1) / l->stride + 1;
            shape[2] = (shape[2] - 1) / l->stride + 1;
        }
        shape[0] = l->n_out;
        memcpy(a->shape, shape, sizeof shape);
        if (!tinyi_nn_fits(shape)) return tinyi_nn_bad(nn, i, "a result of more than 2^32 - 1 numbers");
        w->first = at;
        w->positions = shape[1] * shape[2];
        a->weight = (int)nn->n_param;
        if (!tinyi_nn_add(nn, (int)i, "weight", l->kind == TLLM_NN_DENSE ? 2 : 4, dim, &at))
            return tinyi_nn_bad(nn, i, "more than 2^32 - 1 numbers so far");
        w->name = nn->param[a->weight].name;
        w->value = nn->param[a->weight].value;
        w->grad = nn->param[a->weight].grad;
        nn->n_weight++;
    }
    nn->n_theta = at;
    for (i = 0; i < nn->is.n_layer; i++)
        for (pass = nn->layer[i].norm ? 0 : 1; pass < 2 && nn->at[i].weight >= 0; pass++) {
            *(pass ? &nn->at[i].bias : &nn->at[i].gain) = (int)nn->n_param;
            if (!tinyi_nn_add(nn, (int)i, pass ? "bias" : "gain", 1, &nn->layer[i].n_out, &at))
                return tinyi_nn_bad(nn, i, "more than 2^32 - 1 numbers so far");
        }
    nn->n_all = at;
    for (i = 0; i < nn->is.n_layer; i++) {
        nn->at[i].running = nn->n_running;
        if (nn->layer[i].norm) nn->n_running += 2 * (size_t)nn->layer[i].n_out;
    }
    nn->n_out = shape[0];
    if (shape[1] != 1 || shape[2] != 1 || nn->at[nn->is.n_layer - 1].weight < 0)
        return tinyi_nn_bad(nn, nn->is.n_layer - 1, "the last layer must be dense");
    return TINY_OK;
}

static tiny_status tinyi_nn_check(tiny_ctx *ctx, tllm_nn *nn, const tllm_nn_desc *d)
{
    size_t i;
    if (!d || !d->layer || !d->n_layer || d->n_layer > TLLM_NN_LAYERS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "nn: 1 to %d layers are needed", TLLM_NN_LAYERS);
    if (d->dtype != TINY_F32 && d->dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "nn: the weights are f32 or f64, not %s", tiny_dtype_name(d->dtype));
    nn->is = *d;
    for (i = 0; i < 3; i++) {
        if (i && !nn->is.in[i]) nn->is.in[i] = 1;
        if (nn->is.in[i] < 1 || nn->is.in[i] > INT32_MAX)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "nn: a sample of %td x %td x %td numbers", d->in[0], d->in[1],
                              d->in[2]);
    }
    memcpy(nn->layer, d->layer, d->n_layer * sizeof *d->layer);
    nn->is.layer = nn->layer;
    for (i = 0; i < d->n_layer; i++) {
        tllm_nn_layer *l = &nn->layer[i];
        if (l->kind < 0 || l->kind >= TLLM_NN_KINDS) return tinyi_nn_bad(nn, i, "an unknown kind");
        if (l->kind == TLLM_NN_MAX_POOL) {
            if (!l->size) l->size = 2;
            if (!l->stride) l->stride = l->size;
            if (l->n_out || l->norm || l->relu) return tinyi_nn_bad(nn, i, "a pool has no outputs, norm or relu");
        } else if (l->n_out < 1 || l->n_out > INT32_MAX) return tinyi_nn_bad(nn, i, "at least one output is needed");
        if (l->kind == TLLM_NN_CONV) {
            if (!l->size) l->size = 3;
            if (!l->stride) l->stride = 1;
            if (l->size % 2 == 0) return tinyi_nn_bad(nn, i, "the side of its window must be odd");
        }
        if (l->size < 0 || l->stride < 0 || l->size > 255 || l->stride > 255)
            return tinyi_nn_bad(nn, i, "side and step of a window are 1 to 255");
    }
    return TINY_OK;
}

TINY_API void tllm_nn_close(tllm_nn *nn)
{
    if (!nn) return;
    tllm_mask_close(nn->ctx, &nn->mask);
    tiny_free(nn->ctx, nn->factor);
    tiny_free(nn->ctx, nn->numbers);
    tiny_free(nn->ctx, nn);
}

static tiny_status tinyi_nn_make(tiny_ctx *ctx, const tllm_nn_desc *desc, tllm_nn **out)
{
    const size_t bytes = desc && desc->dtype == TINY_F64 ? 8 : 4;
    tllm_nn *nn = (tllm_nn *)tinyi_alloc(ctx, 1, sizeof *nn);
    tiny_status st;
    size_t n = 0;
    *out = NULL;
    if (!nn) return tiny_ctx_status(ctx);
    memset(nn, 0, sizeof *nn);
    nn->ctx = ctx;
    st = tinyi_nn_check(ctx, nn, desc);
    if (!st) st = tinyi_nn_lay(nn);
    if (!st && (nn->n_all > SIZE_MAX / 64 || !tinyi_size_mul(2 * nn->n_all + nn->n_running, bytes, &n)))
        st = tinyi_fail(ctx, TINY_E_OVERFLOW, "nn: %zu numbers are more than can be addressed", nn->n_all);
    if (!st) {
        nn->numbers = tinyi_alloc(ctx, n, 1);
        if (!nn->numbers) st = tiny_ctx_status(ctx);
        else memset(nn->numbers, 0, n);
    }
    if (!st) st = tinyi_nn_lay(nn);
    if (st) tllm_nn_close(nn);
    else *out = nn;
    return st;
}

TINY_API tiny_status tllm_nn_open(tiny_ctx *ctx, const tllm_nn_desc *desc, tllm_nn **out)
{
    tllm_nn *nn = NULL;
    tiny_rng rng;
    size_t i;
    tiny_idx k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "nn: a result pointer is needed");
    st = tinyi_nn_make(ctx, desc, &nn);
    if (st) return st;
    rng = tiny_rng_make(desc->seed, 0x6e6e);
    for (i = 0; !st && i < nn->n_weight; i++) st = tiny_init_he(ctx, &rng, &nn->weight[i].value, 0);
    for (i = 0; !st && i < nn->is.n_layer; i++) {
        const tinyi_nn_at *a = &nn->at[i];
        if (a->gain < 0) continue;
        st = tiny_init_constant(ctx, &nn->param[a->gain].value, 1.0);
        for (k = 0; k < nn->layer[i].n_out; k++)
            tinyi_real_set(tinyi_nn_number(nn, 2 * nn->n_all + a->running), nn->is.dtype, nn->layer[i].n_out + k, 1.0);
    }
    if (st) tllm_nn_close(nn);
    else *out = nn;
    return st;
}

TINY_API tiny_status tllm_nn_copy(const tllm_nn *nn, tiny_dtype dtype, tllm_nn **out)
{
    tllm_nn_desc d;
    tllm_nn *y = NULL;
    size_t i;
    tiny_status st;
    if (out) *out = NULL;
    if (!nn) return TINY_E_ARGUMENT;
    if (!out) return tinyi_fail(nn->ctx, TINY_E_ARGUMENT, "nn: a result pointer is needed");
    d = nn->is;
    d.dtype = dtype;
    st = tinyi_nn_make(nn->ctx, &d, &y);
    for (i = 0; !st && i < 2 * nn->n_all + nn->n_running; i++)
        tinyi_real_set(y->numbers, dtype, (tiny_idx)i, tinyi_real(nn->numbers, nn->is.dtype, (tiny_idx)i));
    if (!st) st = tllm_nn_mask(y, tllm_nn_masked(nn));
    if (st) tllm_nn_close(y);
    else *out = y;
    return st;
}

TINY_API const tllm_nn_desc *tllm_nn_is(const tllm_nn *nn) { return nn ? &nn->is : NULL; }
TINY_API const tiny_param *tllm_nn_params(const tllm_nn *nn, size_t *n)
{
    if (n) *n = nn ? nn->n_param : 0;
    return nn ? nn->param : NULL;
}
TINY_API const tllm_nn_weight *tllm_nn_weights(const tllm_nn *nn, size_t *n)
{
    if (n) *n = nn ? nn->n_weight : 0;
    return nn ? nn->weight : NULL;
}
TINY_API const tllm_mask *tllm_nn_masked(const tllm_nn *nn) { return nn && nn->mask.bits ? &nn->mask : NULL; }

TINY_API tllm_nn_cost tllm_nn_cost_of(const tllm_nn *nn)
{
    tllm_nn_cost c;
    size_t i;
    memset(&c, 0, sizeof c);
    for (i = 0; nn && i < nn->n_weight; i++) {
        const tllm_nn_weight *w = &nn->weight[i];
        const size_t n = (size_t)tiny_tensor_count(&w->value);
        const size_t kept = nn->mask.bits ? tllm_mask_count(&nn->mask, w->first, n) : n;
        c.n_weight += n;
        c.n_kept += kept;
        c.flops += 2.0 * (double)n * (double)w->positions;
        c.flops_kept += 2.0 * (double)kept * (double)w->positions;
        c.n_empty += !kept;
    }
    c.n_param = nn ? nn->n_all : 0;
    return c;
}

TINY_API tiny_status tllm_nn_mask(tllm_nn *nn, const tllm_mask *mask)
{
    tllm_mask bits;
    size_t i;
    if (!nn) return TINY_E_ARGUMENT;
    if (!mask) {
        tllm_mask_close(nn->ctx, &nn->mask);
        tiny_free(nn->ctx, nn->factor);
        nn->factor = NULL;
        return TINY_OK;
    }
    if (!mask->bits || mask->n != nn->n_theta)
        return tinyi_fail(nn->ctx, TINY_E_SHAPE, "nn: a mask of %zu bits for %zu weights", mask->n, nn->n_theta);
    if (!nn->mask.bits) {                   /* both or nothing */
        void *factor;
        tiny_status st = tllm_mask_open(nn->ctx, nn->n_theta, &bits);
        if (st) return st;
        factor = tinyi_alloc(nn->ctx, nn->n_theta, tiny_dtype_bytes(nn->is.dtype));
        if (!factor) {
            tllm_mask_close(nn->ctx, &bits);
            return tiny_ctx_status(nn->ctx);
        }
        nn->mask = bits;
        nn->factor = factor;
    }
    if (mask != &nn->mask) memcpy(nn->mask.bits, mask->bits, (nn->n_theta + 7) / 8);
    for (i = 0; i < nn->n_theta; i++)
        tinyi_real_set(nn->factor, nn->is.dtype, (tiny_idx)i, tllm_mask_has(mask, i) ? 1.0 : 0.0);
    return TINY_OK;
}

TINY_API void tllm_nn_clear(tllm_nn *nn)
{
    size_t i;
    for (i = 0; nn && nn->mask.bits && i < nn->n_theta; i++)
        if (!tllm_mask_has(&nn->mask, i)) tinyi_real_set(nn->numbers, nn->is.dtype, (tiny_idx)i, 0.0);
}

TINYI_FN void tinyi_nn_bare(tllm_nn *nn)
{
    size_t i;
    tiny_idx k;
    for (i = 0; i < nn->is.n_layer; i++) {
        const tinyi_nn_at *a = &nn->at[i];
        const tiny_idx n = nn->layer[i].n_out;
        for (k = 0; k < n && a->bias >= 0; k++) tinyi_real_set(nn->param[a->bias].value.data, nn->is.dtype, k, 0.0);
        for (k = 0; k < n && a->gain >= 0; k++) {
            void *gain = nn->param[a->gain].value.data, *run = tinyi_nn_number(nn, 2 * nn->n_all + a->running);
            const double g = tinyi_real(gain, nn->is.dtype, k);
            tinyi_real_set(gain, nn->is.dtype, k, g < 0.0 ? -g : g);
            tinyi_real_set(run, nn->is.dtype, k, 0.0);
        }
    }
}

TINYI_FN void tinyi_nn_assign(tllm_nn *nn, const tllm_nn *from)
{
    const size_t bytes = tiny_dtype_bytes(nn->is.dtype);
    memcpy(nn->numbers, from->numbers, nn->n_all * bytes);
    if (nn->n_running)
        memcpy(tinyi_nn_number(nn, 2 * nn->n_all), tinyi_nn_number(from, 2 * nn->n_all), nn->n_running * bytes);
}

TINYI_FN tiny_idx tinyi_nn_layer_width(const tllm_nn *nn, size_t i_weight, tiny_idx shape[3])
{
    size_t i, seen = 0;
    for (i = 0; i < nn->is.n_layer; i++)
        if (nn->at[i].weight >= 0 && seen++ == i_weight) {
            memcpy(shape, nn->at[i].shape, 3 * sizeof *shape);
            return shape[0] * shape[1] * shape[2];
        }
    return 0;
}

/* ---- the run */

static tiny_tensor tinyi_nn_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

static tiny_tensor tinyi_nn_norm_of(tiny_tape *tape, const tllm_nn *nn, size_t i, const tiny_tensor *x,
                                    tinyi_nn_norm norm)
{
    const tinyi_nn_at *a = &nn->at[i];
    const tiny_idx n = nn->layer[i].n_out;
    tiny_tensor mean = tiny_tensor_1d(tinyi_nn_number(nn, 2 * nn->n_all + a->running), nn->is.dtype, n),
                var = tiny_tensor_1d(tinyi_nn_number(nn, 2 * nn->n_all + a->running + (size_t)n), nn->is.dtype, n);
    const int batch = norm == TINYI_NORM_BATCH || (norm == TINYI_NORM_SAMPLE && nn->layer[i].kind == TLLM_NN_CONV);
    tiny_batch_norm_params p;
    memset(&p, 0, sizeof p);
    p.train = batch || norm == TINYI_NORM_TRAIN || norm == TINYI_NORM_FILL;
    if (norm == TINYI_NORM_FILL) p.momentum = 1.0f;
    return tiny_tape_batch_norm(tape, x, &nn->param[a->gain].value, &nn->param[a->bias].value, batch ? NULL : &mean,
                                batch ? NULL : &var, &p);
}

TINYI_FN tiny_tensor tinyi_nn_run(tiny_tape *tape, const tllm_nn *nn, const tiny_tensor *x, tinyi_nn_norm norm,
                                  const tinyi_nn_taps *taps)
{
    tiny_tensor h, w, m;
    tiny_idx dim[2];
    size_t i, k = 0;
    if (!tape || tiny_tape_status(tape)) return tinyi_nn_none();
    if (!nn || !x || tiny_tensor_check(x) || x->dtype != nn->is.dtype || (x->rank != 2 && x->rank != 4) ||
        x->dim[0] < 1 || x->dim[1] != (x->rank == 2 ? nn->is.in[0] * nn->is.in[1] * nn->is.in[2] : nn->is.in[0]) ||
        (x->rank == 4 && (x->dim[2] != nn->is.in[1] || x->dim[3] != nn->is.in[2])) ||
        (x->rank == 2 && nn->layer[0].kind != TLLM_NN_DENSE)) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, "nn: x must be (at least 1, numbers) or (at least 1, channels, "
                                                    "height, width), of the type of the weights");
        return tinyi_nn_none();
    }
    h = *x;
    for (i = 0; i < nn->is.n_layer; i++) {
        const tllm_nn_layer *l = &nn->layer[i];
        const tinyi_nn_at *a = &nn->at[i];
        const int normed = l->norm && norm != TINYI_NORM_OFF, tapped = taps && taps->add;
        const tiny_tensor *bias = l->norm ? NULL : &nn->param[a->bias < 0 ? 0 : a->bias].value;
        const int fused = l->relu && !normed && !tapped;
        if (l->kind == TLLM_NN_MAX_POOL) {
            tiny_patch_params p;
            memset(&p, 0, sizeof p);
            p.size[0] = p.size[1] = l->size;
            p.stride[0] = p.stride[1] = l->stride;
            h = tiny_tape_call(tape, TINY_OP_MAX_POOL, &h, NULL, NULL, NULL, &p);
            continue;
        }
        w = nn->param[a->weight].value;
        if (nn->factor) {
            m = w;
            m.data = (unsigned char *)nn->factor + nn->weight[k].first * tiny_dtype_bytes(nn->is.dtype);
            w = tiny_tape_mul(tape, &w, &m);
        }
        if (l->kind == TLLM_NN_DENSE) {
            dim[0] = h.dim[0];
            dim[1] = nn->param[a->weight].value.dim[1];
            if (h.rank == 4) h = tiny_tape_reshape(tape, &h, 2, dim);
            if (taps && taps->in) taps->in[k] = h;
            h = tiny_tape_linear(tape, &h, &w, bias, fused ? TINY_ACT_RELU : TINY_ACT_NONE);
        } else {
            tiny_conv2d_params p;
            memset(&p, 0, sizeof p);
            p.stride[0] = p.stride[1] = l->stride;
            p.pad[0] = p.pad[1] = p.pad[2] = p.pad[3] = l->size / 2;
            p.relu = fused;
            if (taps && taps->in) taps->in[k] = h;
            h = tiny_tape_call(tape, TINY_OP_CONV2D, &h, &w, bias, NULL, &p);
        }
        if (tapped) h = tiny_tape_add(tape, &h, &taps->add[k]);
        if (taps && taps->out) taps->out[k] = h;
        if (normed) h = tinyi_nn_norm_of(tape, nn, i, &h, norm);
        if (l->relu && !fused) h = tiny_tape_call(tape, TINY_OP_RELU, &h, NULL, NULL, NULL, NULL);
        if (taps && taps->act) taps->act[k] = h;
        if (tiny_tape_status(tape)) return tinyi_nn_none();
        k++;
    }
    return h;
}

TINYI_FN tiny_tensor tinyi_nn_loss(tiny_tape *tape, const tllm_nn *nn, const tllm_nn_set *set, const uint32_t *sample,
                                   tiny_idx n)
{
    const tiny_tensor x = tiny_tape_rows(tape, &set->x, sample, n),
                      label = tiny_tape_rows(tape, &set->label, sample, n);
    const tiny_param *p = tllm_nn_params(nn, NULL);
    size_t k, n_weight;
    tiny_tensor y;
    (void)tllm_nn_weights(nn, &n_weight);
    for (k = 0; k < n_weight; k++) (void)tiny_tape_param(tape, &p[k]);
    y = tinyi_nn_run(tape, nn, &x, TINYI_NORM_TRAIN, NULL);
    return tiny_tape_cross_entropy(tape, &y, &label, 0.0);
}

TINY_API tiny_tensor tllm_nn_run(tiny_tape *tape, const tllm_nn *nn, const tiny_tensor *x, int train)
{
    return tinyi_nn_run(tape, nn, x, train ? TINYI_NORM_TRAIN : TINYI_NORM_RUNNING, NULL);
}

static tiny_status tinyi_nn_tape(const tinyi_nn_pass *p, size_t bytes, int dry, int no_grad, tiny_tape **tape)
{
    tiny_tape_desc d;
    size_t i;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.bytes = bytes;
    d.dry = dry;
    d.no_grad = no_grad;
    st = tiny_tape_open(p->nn->ctx, &d, tape);
    for (i = 0; !st && !no_grad && i < p->nn->n_param; i++) st = tiny_tape_param(*tape, &p->nn->param[i]);
    for (i = 0; !st && !no_grad && i < p->n_more; i++) st = tiny_tape_param(*tape, &p->more[i]);
    return st;
}

static tiny_status tinyi_nn_pass_once(tinyi_nn_pass *p, tiny_tape *tape)
{
    tiny_tensor y = tinyi_nn_run(tape, p->nn, &p->batch.x, p->norm, p->taps);
    if (p->scale != 0.0 && p->scale != 1.0) y = tiny_tape_scale(tape, &y, p->scale, 0.0);
    if (p->goal == TINYI_GOAL_LOSS) y = tiny_tape_cross_entropy(tape, &y, &p->batch.label, 0.0);
    else {
        tiny_reduce_params all;
        memset(&all, 0, sizeof all);
        all.all = 1;
        y = tiny_tape_call(tape, TINY_OP_SUM, &y, NULL, NULL, NULL, &all);
    }
    tiny_tape_zero(tape);
    if (!tiny_tape_status(tape) && !tiny_tape_dry(tape)) p->value = tinyi_real(y.data, y.dtype, 0);
    return tiny_tape_backward(tape, &y, NULL);
}

TINYI_FN tiny_status tinyi_nn_pass_open(tinyi_nn_pass *p)
{
    tiny_tape *dry = NULL;
    size_t bytes = 0;
    tiny_status st = tinyi_nn_tape(p, 0, 1, 0, &dry);
    p->tape = NULL;
    if (!st) st = tinyi_nn_pass_once(p, dry);
    if (!st) bytes = tiny_tape_high(dry);
    tiny_tape_close(dry);
    if (!st) st = tinyi_nn_tape(p, bytes, 0, 0, &p->tape);
    if (!st) p->mark = tiny_tape_now(p->tape);
    return st;
}

TINYI_FN tiny_status tinyi_nn_pass_run(tinyi_nn_pass *p)
{
    tiny_status st;
    tiny_tape_release(p->tape, p->mark);
    st = tinyi_nn_pass_once(p, p->tape);
    if (!p->stay) tiny_tape_release(p->tape, p->mark);
    return st;
}

TINYI_FN void tinyi_nn_pass_close(tinyi_nn_pass *p)
{
    tiny_tape_close(p->tape);
    p->tape = NULL;
}

TINY_API tiny_status tllm_nn_right(const tllm_nn *nn, const tllm_nn_set *set, tiny_idx *n_right)
{
    tinyi_nn_pass p;
    tllm_nn_set some;
    tiny_tape *tape = NULL;
    size_t bytes = 0;
    tiny_idx at, n, i, right = 0;
    int dry;
    tiny_status st;
    if (n_right) *n_right = 0;
    if (!nn) return TINY_E_ARGUMENT;
    if (!n_right) return tinyi_fail(nn->ctx, TINY_E_ARGUMENT, "nn: a result pointer is needed");
    st = tinyi_nn_set_check(nn->ctx, set, nn->n_out);
    if (st) return st;
    memset(&p, 0, sizeof p);
    p.nn = nn;
    n = TINYI_MIN(set->x.dim[0], 250);
    for (dry = 1; !st && dry >= 0; dry--) {
        st = tinyi_nn_tape(&p, bytes, dry, 1, &tape);
        for (at = 0; !st && at < (dry ? n : set->x.dim[0]); at += n) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            const tiny_idx each = tiny_tensor_count(&set->x) / set->x.dim[0];
            tllm_nn_set part = *set;
            tiny_tensor y;
            part.x.data = (float *)set->x.data + at * each;
            part.label.data = (int32_t *)set->label.data + at;
            part.x.dim[0] = part.label.dim[0] = TINYI_MIN(n, set->x.dim[0] - at);
            memset(&some, 0, sizeof some);
            if (nn->is.dtype != TINY_F32)
                st = tinyi_nn_set_rows(nn->ctx, &part, NULL, part.x.dim[0], nn->is.dtype, &some);
            if (!st) {
                y = tllm_nn_run(tape, nn, some.x.data ? &some.x : &part.x, 0);
                y = tiny_tape_call(tape, TINY_OP_ARGMAX, &y, NULL, NULL, NULL, NULL);
                st = tiny_tape_status(tape);
            }
            for (i = 0; !st && !dry && i < part.x.dim[0]; i++)
                right += ((const int32_t *)y.data)[i] == ((const int32_t *)part.label.data)[i];
            tiny_free(nn->ctx, some.x.data);
            tiny_tape_release(tape, mark);
        }
        bytes = tiny_tape_high(tape);
        tiny_tape_close(tape);
        tape = NULL;
    }
    if (!st) *n_right = right;
    return st;
}

/* ---- files */

static const char *const tinyi_nn_forms[TLLM_NN_FORMS] = { "plain", "bits", "steps", "tiles" };

TINY_API const char *tllm_nn_form_name(int form)
{
    return form < 0 || form >= TLLM_NN_FORMS ? NULL : tinyi_nn_forms[form];
}

static int tinyi_nn_kept(const tllm_nn *nn, size_t i) { return !nn->mask.bits || tllm_mask_has(&nn->mask, i); }

/* rows of a layer: (out) rows of the rest */
static void tinyi_nn_rows(const tllm_nn_weight *w, size_t *rows, size_t *cols)
{
    *rows = (size_t)w->value.dim[0];
    *cols = (size_t)tiny_tensor_count(&w->value) / *rows;
}

static tiny_status tinyi_nn_tiles(const tllm_nn *nn, const tllm_nn_weight *w, size_t *bytes)
{
    size_t rows, cols, i, items;
    tllm_csl_desc d;
    tiny_tensor t;
    float *x;
    tiny_status st;
    tinyi_nn_rows(w, &rows, &cols);
    x = (float *)tinyi_alloc(nn->ctx, rows * cols, sizeof *x);
    if (!x) return tiny_ctx_status(nn->ctx);
    for (i = 0; i < rows * cols; i++)       /* only the places of the items count; a kept 0 is stored too */
        x[i] = tinyi_nn_kept(nn, w->first + i) ? 1.0f : 0.0f;
    memset(&d, 0, sizeof d);
    t = tiny_tensor_2d(x, TINY_F32, (tiny_idx)rows, (tiny_idx)cols);
    st = tllm_csl_size(nn->ctx, &t, &d, &items, bytes);
    tiny_free(nn->ctx, x);
    return st;
}

TINY_API tiny_status tllm_nn_bytes(const tllm_nn *nn, int form, size_t *bytes)
{
    size_t i, rows, cols, kept, more, sum = 0;
    tiny_status st = TINY_OK;
    if (bytes) *bytes = 0;
    if (!nn) return TINY_E_ARGUMENT;
    if (!bytes || form < 0 || form >= TLLM_NN_FORMS)
        return tinyi_fail(nn->ctx, TINY_E_ARGUMENT, "nn: form %d; there are 0 to %d", form, TLLM_NN_FORMS - 1);
    for (i = 0; !st && i < nn->n_weight; i++) {
        const tllm_nn_weight *w = &nn->weight[i];
        tinyi_nn_rows(w, &rows, &cols);
        kept = nn->mask.bits ? tllm_mask_count(&nn->mask, w->first, rows * cols) : rows * cols;
        more = 4 * rows * cols;
        if (form == TLLM_NN_BITS) more = 4 * kept + (rows * cols + 7) / 8;
        if (form == TLLM_NN_STEPS) more = 6 * kept + 4 * rows;
        if (form == TLLM_NN_TILES) st = tinyi_nn_tiles(nn, w, &more);
        sum += more;
    }
    if (!st) *bytes = sum;
    return st;
}

static const char *tinyi_nn_entry(char text[48], const char *name, const char *what)
{
    (void)snprintf(text, 48, "%s%s", name, what);
    return text;
}

static tiny_status tinyi_nn_put(const tllm_nn *nn, tiny_checkpoint_writer *f, const tllm_nn_weight *w, int form)
{
    size_t rows, cols, r, c, n = 0, last;
    char text[48];
    float *value;
    unsigned char *bits, *step;
    int32_t *row;
    tiny_tensor t;
    tiny_status st = TINY_OK;
    tinyi_nn_rows(w, &rows, &cols);
    if (form == TLLM_NN_STEPS && cols > 65536)
        return tinyi_fail(nn->ctx, TINY_E_UNSUPPORTED, "nn: %s has rows of %zu numbers; steps reach 65536", w->name,
                          cols);
    value = (float *)tinyi_alloc(nn->ctx, rows * cols, 4);
    bits = value ? (unsigned char *)tinyi_alloc(nn->ctx, (rows * cols + 7) / 8, 1) : NULL;
    step = bits ? (unsigned char *)tinyi_alloc(nn->ctx, rows * cols, 2) : NULL;
    row = step ? (int32_t *)tinyi_alloc(nn->ctx, rows, 4) : NULL;
    if (!row) st = tiny_ctx_status(nn->ctx);
    else memset(bits, 0, (rows * cols + 7) / 8);
    for (r = 0; !st && r < rows; r++) {
        const size_t before = n;
        for (c = last = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            const int has = tinyi_nn_kept(nn, w->first + i);
            if (!has && form != TLLM_NN_PLAIN) continue;
            value[n] = has ? (float)tinyi_real(w->value.data, w->value.dtype, (tiny_idx)i) : 0.0f;
            if (has) bits[i / 8] = (unsigned char)(bits[i / 8] | 1u << i % 8);
            step[2 * n] = (unsigned char)((c - last) & 255u);
            step[2 * n++ + 1] = (unsigned char)((c - last) >> 8);
            last = c;
        }
        row[r] = (int32_t)(n - before);
    }
    if (!st) {
        t = tiny_tensor_1d(value, TINY_F32, (tiny_idx)n);
        st = tiny_checkpoint_put_tensor(nn->ctx, f, tinyi_nn_entry(text, w->name, "/value"), &t);
    }
    if (!st && form != TLLM_NN_STEPS)       /* plain: the mask too, since a kept weight may be 0 */
        st = tiny_checkpoint_put_bytes(nn->ctx, f, tinyi_nn_entry(text, w->name, "/bits"), bits, (rows * cols + 7) / 8);
    if (!st && form == TLLM_NN_STEPS) {
        t = tiny_tensor_1d(row, TINY_I32, (tiny_idx)rows);
        st = tiny_checkpoint_put_tensor(nn->ctx, f, tinyi_nn_entry(text, w->name, "/row"), &t);
        if (!st) st = tiny_checkpoint_put_bytes(nn->ctx, f, tinyi_nn_entry(text, w->name, "/step"), step, 2 * n);
    }
    tiny_free(nn->ctx, row);
    tiny_free(nn->ctx, step);
    tiny_free(nn->ctx, bits);
    tiny_free(nn->ctx, value);
    return st;
}

TINY_API tiny_status tllm_nn_save(const tllm_nn *nn, const char *path, int form)
{
    tiny_checkpoint_writer_desc d;
    tiny_checkpoint_writer *f = NULL;
    char text[48];
    size_t i;
    tiny_tensor t;
    tiny_status st;
    if (!nn) return TINY_E_ARGUMENT;
    if (!path || form < 0 || form >= TLLM_NN_TILES)
        return tinyi_fail(nn->ctx, TINY_E_ARGUMENT, "nn: a path is needed, and a form that can be saved, not %d", form);
    memset(&d, 0, sizeof d);
    d.path = path;
    st = tiny_checkpoint_create(nn->ctx, &d, &f);
    if (!st) st = tiny_checkpoint_put_text(nn->ctx, f, "form", tinyi_nn_forms[form]);
    for (i = 0; !st && i < nn->n_weight; i++) st = tinyi_nn_put(nn, f, &nn->weight[i], form);
    for (i = nn->n_weight; !st && i < nn->n_param; i++)
        st = tiny_checkpoint_put_tensor(nn->ctx, f, tinyi_nn_entry(text, nn->param[i].name, ""), &nn->param[i].value);
    if (!st && nn->n_running) {
        t = tiny_tensor_1d(tinyi_nn_number(nn, 2 * nn->n_all), nn->is.dtype, (tiny_idx)nn->n_running);
        st = tiny_checkpoint_put_tensor(nn->ctx, f, "running", &t);
    }
    if (!st) st = tiny_checkpoint_finish(nn->ctx, f);
    tiny_checkpoint_writer_close(nn->ctx, f);
    return st;
}

static tiny_status tinyi_nn_damaged(const tllm_nn *nn, const char *path, const tllm_nn_weight *w, const char *why)
{
    return tinyi_fail(nn->ctx, TINY_E_FORMAT, "nn: %s: %s: %s", path, w->name, why);
}

/* The weights of a layer from the file to y, and their bits to mask. */
static tiny_status tinyi_nn_get(const tllm_nn *nn, const char *path, const tiny_checkpoint *c, const tllm_nn_weight *w,
                                int form, float *y, tllm_mask *mask)
{
    size_t rows, cols, r, i, n, n_step = 0, n_value = 0, col, place;
    const tiny_checkpoint_entry *e;
    const void *bytes = NULL;
    const unsigned char *at;
    char text[48];
    float *value = NULL;
    int32_t *row = NULL;
    tiny_tensor t;
    tiny_status st;
    tinyi_nn_rows(w, &rows, &cols);
    e = tiny_checkpoint_find(c, tinyi_nn_entry(text, w->name, "/value"));
    if (!e || e->kind != TINY_CHECKPOINT_TENSOR || e->dtype != TINY_F32 || e->rank != 1 || e->dim[0] < 0 ||
        (size_t)e->dim[0] > rows * cols || (form == TLLM_NN_PLAIN && (size_t)e->dim[0] != rows * cols))
        return tinyi_nn_damaged(nn, path, w, "its values are missing, or more than the layer has");
    n_value = (size_t)e->dim[0];
    st = tiny_checkpoint_get_bytes(nn->ctx, c, tinyi_nn_entry(text, w->name, form == TLLM_NN_STEPS ? "/step" : "/bits"),
                                   &bytes, &n_step);
    if (st) return st;
    at = (const unsigned char *)bytes;
    if (n_step != (form == TLLM_NN_STEPS ? 2 * n_value : (rows * cols + 7) / 8))
        return tinyi_nn_damaged(nn, path, w, "the number of its indices is not that of its values");
    value = (float *)tinyi_alloc(nn->ctx, n_value ? n_value : 1, 4);
    row = value ? (int32_t *)tinyi_alloc(nn->ctx, rows, 4) : NULL;
    if (!row) st = tiny_ctx_status(nn->ctx);
    if (!st) {
        t = tiny_tensor_1d(value, TINY_F32, (tiny_idx)n_value);
        st = tiny_checkpoint_get_tensor(nn->ctx, c, tinyi_nn_entry(text, w->name, "/value"), &t);
    }
    if (!st && form == TLLM_NN_STEPS) {
        t = tiny_tensor_1d(row, TINY_I32, (tiny_idx)rows);
        st = tiny_checkpoint_get_tensor(nn->ctx, c, tinyi_nn_entry(text, w->name, "/row"), &t);
    }
    for (i = 0; !st && i < rows * cols; i++) {
        y[i] = 0.0f;
        tllm_mask_put(mask, w->first + i, 0);
    }
    n = 0;
    for (i = 0; !st && form != TLLM_NN_STEPS && i < rows * cols; i++) {
        const int has = at[i / 8] >> i % 8 & 1;
        if (has && n == n_value) st = tinyi_nn_damaged(nn, path, w, "more bits than values");
        else if (has || form == TLLM_NN_PLAIN) {
            tllm_mask_put(mask, w->first + i, has);
            y[i] = has ? value[n] : 0.0f;
            n++;
        }
    }
    for (r = 0; !st && form == TLLM_NN_STEPS && r < rows; r++) {
        if (row[r] < 0 || (size_t)row[r] > n_value - n || (size_t)row[r] > cols) {
            st = tinyi_nn_damaged(nn, path, w, "a row has more numbers than there are");
            break;
        }
        for (col = i = 0; !st && i < (size_t)row[r]; i++, n++) {
            const size_t by = (size_t)at[2 * n] | (size_t)at[2 * n + 1] << 8;
            col += by;
            if (col >= cols || (i && !by)) st = tinyi_nn_damaged(nn, path, w, "a step leaves its row or stands still");
            else {
                place = r * cols + col;
                y[place] = value[n];
                tllm_mask_put(mask, w->first + place, 1);
            }
        }
    }
    if (!st && n != n_value) st = tinyi_nn_damaged(nn, path, w, "fewer indices than values");
    tiny_free(nn->ctx, row);
    tiny_free(nn->ctx, value);
    return st;
}

TINY_API tiny_status tllm_nn_load(tllm_nn *nn, const char *path)
{
    tiny_checkpoint_desc d;
    tiny_checkpoint *c = NULL;
    tllm_mask mask;
    const char *says = NULL;
    char text[48];
    float *theta = NULL;
    size_t i;
    int form = 0;
    tiny_tensor t;
    tiny_status st;
    if (!nn) return TINY_E_ARGUMENT;
    if (!path) return tinyi_fail(nn->ctx, TINY_E_ARGUMENT, "nn: a path is needed");
    memset(&d, 0, sizeof d);
    memset(&mask, 0, sizeof mask);
    d.path = path;
    st = tiny_checkpoint_open(nn->ctx, &d, &c);
    if (!st) st = tiny_checkpoint_get_text(nn->ctx, c, "form", &says);
    for (; !st && form < TLLM_NN_TILES && strcmp(says, tinyi_nn_forms[form]); form++) {}
    if (!st && form == TLLM_NN_TILES) st = tinyi_fail(nn->ctx, TINY_E_FORMAT, "nn: %s: an unknown form", path);
    if (!st) st = tllm_mask_open(nn->ctx, nn->n_theta, &mask);
    if (!st) {
        theta = (float *)tinyi_alloc(nn->ctx, nn->n_theta, sizeof *theta);
        if (!theta) st = tiny_ctx_status(nn->ctx);
    }
    for (i = 0; !st && i < nn->n_weight; i++)
        st = tinyi_nn_get(nn, path, c, &nn->weight[i], form, theta + nn->weight[i].first, &mask);
    for (i = nn->n_weight; !st && i < nn->n_param; i++)
        st = tiny_checkpoint_expect(nn->ctx, c, tinyi_nn_entry(text, nn->param[i].name, ""), &nn->param[i].value);
    t = tiny_tensor_1d(tinyi_nn_number(nn, 2 * nn->n_all), nn->is.dtype, (tiny_idx)nn->n_running);
    if (!st && nn->n_running) st = tiny_checkpoint_expect(nn->ctx, c, "running", &t);
    if (!st) st = tllm_nn_mask(nn, &mask);              /* the last that needs memory; nothing has changed before it */
    for (i = 0; !st && i < nn->n_theta; i++)
        tinyi_real_set(nn->numbers, nn->is.dtype, (tiny_idx)i, (double)theta[i]);
    for (i = nn->n_weight; !st && i < nn->n_param; i++) {
        tiny_tensor into = nn->param[i].value;
        st = tiny_checkpoint_get_tensor(nn->ctx, c, tinyi_nn_entry(text, nn->param[i].name, ""), &into);
    }
    if (!st && nn->n_running) st = tiny_checkpoint_get_tensor(nn->ctx, c, "running", &t);
    tiny_free(nn->ctx, theta);
    tllm_mask_close(nn->ctx, &mask);
    tiny_checkpoint_close(nn->ctx, c);
    return st;
}
