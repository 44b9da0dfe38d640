/* src/llm/lab/nets/snnet.c - stitchable networks on the tape
 * Paper    Z. Pan, J. Cai, B. Zhuang, "Stitchable Neural Networks", 2023 (arXiv 2302.06586), algorithm 1
 * Formula  each step: a network k drawn uniformly of all, one step of Adam on the loss of k over one batch. A parameter
 *          that k does not use has the gradient 0 and moves by what its moments hold
 * Order    network and batch of step t come from the seed and t alone
 * Data     linear layers: one block, weights (d2, d1), then biases (d2), layer by layer, pair by pair; then gradients
 * Left out one optimiser state for each network; distillation from labels that a teacher made hard */
#include "llm/lab/nets/snnet.h"
#include "llm/compress/stitch_fit.h"
#include "math/grad_inside.h"
#include "math/init.h"
#include "math/layer.h"
#include "math/elem.h"
#include "math/rows_inside.h"
#include "math/table_inside.h"
#include <stdio.h>
#include <string.h>

typedef struct tinyi_snnet_layer {          /* of a pair of anchors */
    int pair;
    tiny_tensor w, bias;
    char name[2][40];
} tinyi_snnet_layer;

struct tllm_snnet {
    tiny_ctx *ctx;
    tllm_snnet_anchor anchor[TLLM_STITCH_ANCHORS];
    tllm_stitch_size size[TLLM_STITCH_ANCHORS];
    int n_anchor;
    tllm_stitch *plan;
    size_t n_plan, n_layer, n_params;
    size_t first[TLLM_STITCH_ANCHORS];      /* number of the first layer of each pair */
    tinyi_snnet_layer *layer;
    tiny_param *param;
    float *numbers;
    size_t n_numbers;                       /* half of them values, half gradients */
};

static tiny_tensor tinyi_snnet_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

/* ---- open */

TINY_API void tllm_snnet_close(tllm_snnet *net)
{
    if (!net) return;
    tiny_free(net->ctx, net->numbers);
    tiny_free(net->ctx, net->param);
    tiny_free(net->ctx, net->layer);
    tiny_free(net->ctx, net->plan);
    tiny_free(net->ctx, net);
}

/* Names and places of the linear layers; without memory only n_numbers is counted. */
static int tinyi_snnet_lay(tllm_snnet *net)
{
    size_t at = 0, i = 0, k, n;
    int p, j;
    for (p = 0; p + 1 < net->n_anchor; p++)
        for (j = 0; j < tllm_stitch_layers(net->size[p].depth, net->size[p + 1].depth); j++, i++) {
            const tiny_idx d1 = net->size[p].width, d2 = net->size[p + 1].width;
            tinyi_snnet_layer *l = &net->layer[i];
            if (!tinyi_size_mul((size_t)d1 + 1, (size_t)d2, &n) || n > UINT32_MAX / 4 - at) return 0;
            if (net->numbers) {
                l->pair = p;
                l->w = tiny_tensor_2d(net->numbers + at, TINY_F32, d2, d1);
                l->bias = tiny_tensor_1d(net->numbers + at + (size_t)(d1 * d2), TINY_F32, d2);
                (void)snprintf(l->name[0], sizeof l->name[0], "stitch.%d.%d.weight", p, j);
                (void)snprintf(l->name[1], sizeof l->name[1], "stitch.%d.%d.bias", p, j);
                for (k = 0; k < 2; k++) {
                    tiny_param *q = &net->param[net->n_params++];
                    q->name = l->name[k];
                    q->value = q->grad = k ? l->bias : l->w;
                    q->grad.data = (float *)q->value.data + net->n_numbers;
                    q->group = 1;
                }
            }
            at += n;
        }
    net->n_numbers = at;
    return 1;
}

static tiny_status tinyi_snnet_make(tllm_snnet *net)
{
    tiny_ctx *ctx = net->ctx;
    int depth[TLLM_STITCH_ANCHORS], i;
    size_t n = 0, k;
    tiny_status st;
    for (i = 0; i < net->n_anchor; i++) {
        const tllm_snnet_anchor *a = &net->anchor[i];
        if (!a->first || !a->block || !a->last || (a->n_params && !a->params))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "snnet: anchor %d lacks a callback or its parameters", i);
        if (a->size.width < 1 || a->size.width > 1 << 20)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "snnet: anchor %d has features of %td numbers", i, a->size.width);
        net->size[i] = a->size;
        depth[i] = a->size.depth;
        n += a->n_params;
        net->first[i] = net->n_layer;
        if (i + 1 < net->n_anchor)
            net->n_layer += (size_t)tllm_stitch_layers(a->size.depth, net->anchor[i + 1].size.depth);
    }
    st = tllm_stitch_plan(ctx, depth, net->n_anchor, NULL, 0, &net->n_plan);
    if (st) return st;
    net->plan = (tllm_stitch *)tinyi_alloc(ctx, net->n_plan, sizeof *net->plan);
    if (net->plan)
        net->layer = (tinyi_snnet_layer *)tinyi_alloc(ctx, net->n_layer ? net->n_layer : 1, sizeof *net->layer);
    if (net->layer) net->param = (tiny_param *)tinyi_alloc(ctx, n + 2 * net->n_layer, sizeof *net->param);
    if (!net->param) return tiny_ctx_status(ctx);
    st = tllm_stitch_plan(ctx, depth, net->n_anchor, net->plan, net->n_plan, &net->n_plan);
    for (i = 0; i < net->n_anchor; i++)
        for (k = 0; k < net->anchor[i].n_params; k++) {
            net->param[net->n_params] = net->anchor[i].params[k];
            net->param[net->n_params++].group = 0;
        }
    if (!st && !tinyi_snnet_lay(net))
        st = tinyi_fail(ctx, TINY_E_OVERFLOW, "snnet: the linear layers are more than can be addressed");
    if (st || !net->n_layer) return st;
    net->numbers = (float *)tinyi_alloc(ctx, 2 * net->n_numbers, sizeof *net->numbers);
    if (!net->numbers) return tiny_ctx_status(ctx);
    memset(net->numbers, 0, 2 * net->n_numbers * sizeof *net->numbers);
    (void)tinyi_snnet_lay(net);
    return TINY_OK;
}

TINY_API tiny_status tllm_snnet_open(tiny_ctx *ctx, const tllm_snnet_anchor *anchor, int n_anchor, uint64_t seed,
                                     tllm_snnet **out)
{
    tllm_snnet *net;
    tiny_rng rng;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!anchor || !out || n_anchor < 1 || n_anchor > TLLM_STITCH_ANCHORS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "snnet: 1 to %d anchors are needed, and where to put the result",
                          TLLM_STITCH_ANCHORS);
    net = (tllm_snnet *)tinyi_alloc(ctx, 1, sizeof *net);
    if (!net) return tiny_ctx_status(ctx);
    memset(net, 0, sizeof *net);
    net->ctx = ctx;
    net->n_anchor = n_anchor;
    memcpy(net->anchor, anchor, (size_t)n_anchor * sizeof *anchor);
    st = tinyi_snnet_make(net);
    rng = tiny_rng_make(seed, 0x736e6574);
    for (i = 0; !st && i < net->n_layer; i++)
        st = tiny_init_normal(ctx, &rng, &net->layer[i].w, 1.0 / tinyi_sqrt64((double)net->layer[i].w.dim[1]));
    if (st) tllm_snnet_close(net);
    else *out = net;
    return st;
}

TINY_API const tllm_stitch *tllm_snnet_networks(const tllm_snnet *net, size_t *n)
{
    if (n) *n = net ? net->n_plan : 0;
    return net ? net->plan : NULL;
}
TINY_API const tiny_param *tllm_snnet_params(const tllm_snnet *net, size_t *n)
{
    if (n) *n = net ? net->n_params : 0;
    return net ? net->param : NULL;
}
TINY_API double tllm_snnet_size_of(const tllm_snnet *net, size_t i, double *ops)
{
    double params = 0.0;
    if (ops) *ops = 0.0;
    if (net && i < net->n_plan) tllm_stitch_cost(net->size, &net->plan[i], &params, ops);
    return params;
}

/* ---- the run */

static tiny_tensor tinyi_snnet_blocks(tiny_tape *tape, const tllm_snnet_anchor *a, int from, int to, tiny_tensor h)
{
    for (; from < to && !tiny_tape_status(tape); from++) h = a->block(a->user, tape, from, &h);
    return h;
}

/* features (..., d1) to (..., d2) */
static tiny_tensor tinyi_snnet_linear(tiny_tape *tape, const tinyi_snnet_layer *l, const tiny_tensor *h)
{
    tiny_idx dim[TINY_MAX_RANK], rows[2];
    tiny_tensor x = *h;
    if (tiny_tape_status(tape)) return tinyi_snnet_none();
    if (h->rank < 2 || h->dim[h->rank - 1] != l->w.dim[1]) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, "snnet: the features of an anchor have another width than it says");
        return tinyi_snnet_none();
    }
    memcpy(dim, h->dim, sizeof dim);
    rows[0] = tiny_tensor_count(h) / l->w.dim[1];
    rows[1] = l->w.dim[1];
    if (h->rank > 2) x = tiny_tape_reshape(tape, &x, 2, rows);
    x = tiny_tape_linear(tape, &x, &l->w, &l->bias, TINY_ACT_NONE);
    dim[h->rank - 1] = l->w.dim[0];
    return h->rank > 2 ? tiny_tape_reshape(tape, &x, h->rank, dim) : x;
}

TINY_API tiny_tensor tllm_snnet_run(tiny_tape *tape, const tllm_snnet *net, size_t i, const tiny_tensor *x)
{
    const tllm_snnet_anchor *front, *back;
    const tllm_stitch *s;
    tiny_tensor h;
    if (!tape || tiny_tape_status(tape)) return tinyi_snnet_none();
    if (!net || !x || i >= net->n_plan) {
        (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "snnet: samples and the number of a network are needed");
        return tinyi_snnet_none();
    }
    s = &net->plan[i];
    front = &net->anchor[s->front];
    back = &net->anchor[s->back];
    h = front->first(front->user, tape, x);
    if (s->front != s->back) {
        h = tinyi_snnet_blocks(tape, front, 0, s->f + 1, h);
        h = tinyi_snnet_linear(tape, &net->layer[net->first[s->front] + (size_t)s->layer], &h);
    }
    h = tinyi_snnet_blocks(tape, back, s->e, back->size.depth, h);
    return tiny_tape_status(tape) ? tinyi_snnet_none() : back->last(back->user, tape, &h);
}

static tiny_status tinyi_snnet_tape(const tllm_snnet *net, size_t bytes, int dry, int no_grad, tiny_tape **tape)
{
    tiny_tape_desc d;
    size_t i;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.bytes = bytes;
    d.dry = dry;
    d.no_grad = no_grad;
    st = tiny_tape_open(net->ctx, &d, tape);
    for (i = 0; !st && !no_grad && i < net->n_params; i++) st = tiny_tape_param(*tape, &net->param[i]);
    return st;
}

static tllm_nn_set tinyi_snnet_part(const tllm_nn_set *set, tiny_idx at, tiny_idx n)
{
    const tiny_idx each = tiny_tensor_count(&set->x) / set->x.dim[0];
    tllm_nn_set part = *set;
    part.x.data = (float *)set->x.data + at * each;
    part.label.data = (int32_t *)set->label.data + at;
    part.x.dim[0] = part.label.dim[0] = n;
    return part;
}

static tiny_status tinyi_snnet_set(const tllm_snnet *net, const tllm_nn_set *set)
{
    return tinyi_nn_set_check(net->ctx, set, INT32_MAX);        /* the loss compares labels with the logits */
}

TINY_API tiny_status tllm_snnet_right(const tllm_snnet *net, size_t i, const tllm_nn_set *set, tiny_idx *n_right)
{
    tiny_tape *tape = NULL;
    size_t bytes = 0;
    tiny_idx at, n, k, right = 0;
    int dry;
    tiny_status st;
    if (n_right) *n_right = 0;
    if (!net) return TINY_E_ARGUMENT;
    if (!n_right || i >= net->n_plan)
        return tinyi_fail(net->ctx, TINY_E_ARGUMENT, "snnet: network %zu of %zu, and where to put the result", i,
                          net->n_plan);
    st = tinyi_snnet_set(net, set);
    if (st) return st;
    n = TINYI_MIN(set->x.dim[0], 250);
    for (dry = 1; !st && dry >= 0; dry--) {
        st = tinyi_snnet_tape(net, bytes, dry, 1, &tape);
        for (at = 0; !st && at < (dry ? n : set->x.dim[0]); at += n) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            const tllm_nn_set part = tinyi_snnet_part(set, at, TINYI_MIN(n, set->x.dim[0] - at));
            tiny_tensor y = tllm_snnet_run(tape, net, i, &part.x);
            y = tiny_tape_call(tape, TINY_OP_ARGMAX, &y, NULL, NULL, NULL, NULL);
            st = tiny_tape_status(tape);
            for (k = 0; !st && !dry && k < part.x.dim[0]; k++)
                right += ((const int32_t *)y.data)[k] == ((const int32_t *)part.label.data)[k];
            tiny_tape_release(tape, mark);
        }
        bytes = tiny_tape_high(tape);
        tiny_tape_close(tape);
        tape = NULL;
    }
    if (!st) *n_right = right;
    return st;
}

TINY_API tiny_status tllm_snnet_measure(const tllm_snnet *net, const tllm_nn_set *set, double *params, double *ops,
                                        double *right)
{
    size_t i;
    tiny_idx n = 0;
    tiny_status st = TINY_OK;
    if (!net) return TINY_E_ARGUMENT;
    for (i = 0; !st && i < net->n_plan; i++) {
        double own_ops = 0.0;
        const double own = tllm_snnet_size_of(net, i, &own_ops);
        if (params) params[i] = own;
        if (ops) ops[i] = own_ops;
        if (right) st = tllm_snnet_right(net, i, set, &n);
        if (!st && right) right[i] = (double)n / (double)set->x.dim[0];
    }
    return st;
}

/* ---- first values of the linear layers */

/* after: features after each of the blocks 0 .. depth - 1; at [0] those before block 0 */
static void tinyi_snnet_features(tiny_tape *tape, const tllm_snnet_anchor *a, const tiny_tensor *x, tiny_tensor *after)
{
    int i;
    after[0] = a->first(a->user, tape, x);
    for (i = 0; i < a->size.depth && !tiny_tape_status(tape); i++)
        after[i + 1] = a->block(a->user, tape, i, &after[i]);
}

static tiny_tensor tinyi_snnet_rows(const tiny_tensor *h)
{
    const tiny_idx width = h->dim[h->rank - 1];
    return tiny_tensor_2d(h->data, h->dtype, tiny_tensor_count(h) / width, width);
}

/* All layers of a pair, from the features of both anchors, into fresh (as net->numbers). */
static tiny_status tinyi_snnet_pair(const tllm_snnet *net, int pair, const tiny_tensor *front, const tiny_tensor *back,
                                    float *fresh, float *one, double *left, size_t *n_left)
{
    size_t i, k, shares;
    int j;
    tiny_status st = TINY_OK;
    for (j = 0; !st && j < tllm_stitch_layers(net->size[pair].depth, net->size[pair + 1].depth); j++) {
        const tinyi_snnet_layer *l = &net->layer[net->first[pair] + (size_t)j];
        const size_t at = (size_t)((const float *)l->w.data - net->numbers);
        const size_t n = (size_t)((l->w.dim[1] + 1) * l->w.dim[0]);
        tiny_tensor w = l->w, bias = l->bias;
        w.data = one;
        bias.data = one + l->w.dim[0] * l->w.dim[1];
        for (k = 0; k < n; k++) fresh[at + k] = 0.0f;
        for (i = shares = 0; i < net->n_plan; i++)
            shares += net->plan[i].front == pair && net->plan[i].back == pair + 1 && net->plan[i].layer == j;
        for (i = 0; !st && i < net->n_plan; i++) {
            const tllm_stitch *s = &net->plan[i];
            tiny_tensor a, b;
            double part = 0.0;
            if (s->front != pair || s->back != pair + 1 || s->layer != j) continue;
            a = tinyi_snnet_rows(&front[s->f + 1]);
            b = tinyi_snnet_rows(&back[s->e]);
            st = tllm_stitch_solve(net->ctx, &a, &b, &w, &bias, &part);
            for (k = 0; !st && k < n; k++) fresh[at + k] += one[k] / (float)shares;
            *left += part;
            ++*n_left;
        }
    }
    return st;
}

TINY_API tiny_status tllm_snnet_init(tllm_snnet *net, const tllm_nn_set *set, tiny_idx n, double *left)
{
    tiny_tensor *after[2] = { NULL, NULL };
    float *fresh = NULL, *one = NULL;
    tiny_tape *tape = NULL;
    size_t bytes = 0, n_left = 0;
    double sum = 0.0;
    int pair, dry, i;
    tiny_status st;
    tllm_nn_set part;
    if (left) *left = 0.0;
    if (!net) return TINY_E_ARGUMENT;
    st = tinyi_snnet_set(net, set);
    if (st) return st;
    if (n < 1 || n > set->x.dim[0])
        return tinyi_fail(net->ctx, TINY_E_ARGUMENT, "snnet: %td samples of a set of %td", n, set->x.dim[0]);
    if (!net->n_layer) return TINY_OK;
    part = tinyi_snnet_part(set, 0, n);
    fresh = (float *)tinyi_alloc(net->ctx, 2 * net->n_numbers, sizeof *fresh);
    if (!fresh) return tiny_ctx_status(net->ctx);
    one = fresh + net->n_numbers;
    for (i = 0; i < 2; i++) {
        after[i] = (tiny_tensor *)tinyi_alloc(net->ctx, TLLM_STITCH_BLOCKS + 1, sizeof **after);
        if (!after[i]) st = tiny_ctx_status(net->ctx);
    }
    for (pair = 0; !st && pair + 1 < net->n_anchor; pair++)
        for (dry = 1, bytes = 0; !st && dry >= 0; dry--) {
            st = tinyi_snnet_tape(net, bytes, dry, 1, &tape);
            for (i = 0; !st && i < 2; i++) {
                tinyi_snnet_features(tape, &net->anchor[pair + i], &part.x, after[i]);
                st = tiny_tape_status(tape);
            }
            if (!st && !dry) st = tinyi_snnet_pair(net, pair, after[0], after[1], fresh, one, &sum, &n_left);
            bytes = tiny_tape_high(tape);
            tiny_tape_close(tape);
            tape = NULL;
        }
    if (!st) memcpy(net->numbers, fresh, net->n_numbers * sizeof *fresh);
    if (!st && left) *left = sum / (double)n_left;
    tiny_free(net->ctx, after[1]);
    tiny_free(net->ctx, after[0]);
    tiny_free(net->ctx, fresh);
    return st;
}

/* ---- training */

typedef struct tinyi_snnet_fit {
    const tllm_snnet *net;
    const tllm_snnet_fit_desc *d;
    const tllm_nn_set *set;
    const uint32_t *order;
    tiny_idx batch;
} tinyi_snnet_fit;

static tiny_status tinyi_snnet_step(const tinyi_snnet_fit *f, tiny_tape *tape, size_t network, tiny_idx at,
                                    double *loss)
{
    const tiny_tensor x = tiny_tape_rows(tape, &f->set->x, f->order + at, f->batch);
    const tiny_tensor label = tiny_tape_rows(tape, &f->set->label, f->order + at, f->batch);
    tiny_tensor y = tllm_snnet_run(tape, f->net, network, &x), l, t;
    l = f->d->loss ? f->d->loss(f->d->loss_user, tape, &y, &x) : tiny_tape_cross_entropy(tape, &y, &label, 0.0);
    if (f->d->teacher && f->d->teach > 0.0) {
        t = f->d->teacher(f->d->teacher_user, tape, &x);
        t = tiny_tape_constant(tape, &t);
        t = tiny_tape_kl_distill(tape, &y, &t, 1.0);
        t = tiny_tape_scale(tape, &t, f->d->teach, 0.0);
        l = tiny_tape_scale(tape, &l, 1.0 - f->d->teach, 0.0);
        l = tiny_tape_add(tape, &l, &t);
    }
    tiny_tape_zero(tape);
    if (!tiny_tape_status(tape) && !tiny_tape_dry(tape)) *loss = tinyi_real(l.data, l.dtype, 0);
    return tiny_tape_backward(tape, &l, NULL);
}

static tiny_status tinyi_snnet_fit_check(const tllm_snnet *net, const tllm_snnet_fit_desc *d, tiny_idx n)
{
    if (d->batch < 0 || d->batch > n || d->steps < 0)
        return tinyi_fail(net->ctx, TINY_E_ARGUMENT, "snnet: batches of %td of %td samples, %lld steps", d->batch, n,
                          (long long)d->steps);
    if (!(d->lr >= 0.0 && d->lr < 1e6 && d->stitch_lr >= 0.0 && d->stitch_lr < 1e6 && d->teach >= 0.0 &&
          d->teach <= 1.0))
        return tinyi_fail(net->ctx, TINY_E_ARGUMENT,
                          "snnet: a rate of %g, of stitches %g times it, and a teacher's share of %g", d->lr,
                          d->stitch_lr, d->teach);
    return TINY_OK;
}

TINY_API tiny_status tllm_snnet_fit(tllm_snnet *net, const tllm_nn_set *set, const tllm_snnet_fit_desc *desc,
                                    tllm_snnet_fit_state *last)
{
    tllm_snnet_fit_desc d;
    tllm_snnet_fit_state s;
    tinyi_snnet_fit f;
    tiny_optim_desc od;
    tiny_schedule schedule;
    tiny_optim *optim = NULL;
    tiny_tape *tape = NULL;
    uint32_t *order;
    size_t k, bytes = 0;
    int64_t at, batches;
    tiny_status st;
    memset(&s, 0, sizeof s);
    memset(&d, 0, sizeof d);
    if (last) *last = s;
    if (!net) return TINY_E_ARGUMENT;
    if (desc) d = *desc;
    st = tinyi_snnet_set(net, set);
    if (!st) st = tinyi_snnet_fit_check(net, &d, set->x.dim[0]);
    if (st) return st;
    f.net = net;
    f.d = &d;
    f.set = set;
    f.batch = d.batch ? d.batch : TINYI_MIN(100, set->x.dim[0]);
    batches = set->x.dim[0] / f.batch;
    s.steps = d.steps ? d.steps : 50 * batches;
    order = (uint32_t *)tinyi_alloc(net->ctx, (size_t)set->x.dim[0], sizeof *order);
    if (!order) return tiny_ctx_status(net->ctx);
    f.order = order;
    for (at = 0; at < set->x.dim[0]; at++) order[at] = (uint32_t)at;
    for (k = 0; !st && k < net->n_plan; k++) {          /* the tape must hold the largest of all networks */
        st = tinyi_snnet_tape(net, 0, 1, 0, &tape);
        if (!st) st = tinyi_snnet_step(&f, tape, k, 0, &s.loss);
        if (!st) bytes = TINYI_MAX(bytes, tiny_tape_high(tape));
        tiny_tape_close(tape);
        tape = NULL;
    }
    memset(&od, 0, sizeof od);
    od.group[0].kind = od.group[1].kind = TINY_OPTIM_ADAM;
    od.group[0].lr = d.lr != 0.0 ? d.lr : 1e-3;
    od.group[1].lr = od.group[0].lr * (d.stitch_lr != 0.0 ? d.stitch_lr : 1.0);
    memset(&schedule, 0, sizeof schedule);
    schedule.kind = TINY_SCHEDULE_LINEAR;
    schedule.total = s.steps;
    if (!st) st = tinyi_snnet_tape(net, bytes, 0, 0, &tape);
    if (!st) st = tiny_optim_open(net->ctx, net->param, net->n_params, &od, &optim);
    for (at = 0; !st && at < s.steps; at++) {
        const tiny_tape_mark mark = tiny_tape_now(tape);
        tiny_rng rng;
        if (at % batches == 0) {
            rng = tiny_rng_make(d.seed, (uint64_t)(at / batches));
            tiny_rng_permutation(&rng, order, (uint32_t)set->x.dim[0]);
        }
        rng = tiny_rng_make(d.seed ^ 0x64726177u, (uint64_t)at);
        s.network = tiny_rng_below(&rng, (uint32_t)net->n_plan);
        st = tinyi_snnet_step(&f, tape, s.network, (tiny_idx)(at % batches) * f.batch, &s.loss);
        if (!st) st = tiny_optim_step(optim, tiny_schedule_at(&schedule, at));
        if (st) break;
        tiny_tape_release(tape, mark);
        s.step = at + 1;
        if (d.callback && d.callback(d.user, &s)) break;
    }
    tiny_optim_close(optim);
    tiny_tape_close(tape);
    tiny_free(net->ctx, order);
    if (last) *last = s;
    return st;
}

/* ---- a residual network */

struct tllm_resmlp {
    tiny_ctx *ctx;
    tllm_resmlp_desc is;
    tiny_param *param;                      /* A0, a0; for each block A, a, B, b; C, c */
    char (*name)[24];
    size_t n_param;
    float *numbers;
};

TINY_API void tllm_resmlp_close(tllm_resmlp *m)
{
    if (!m) return;
    tiny_free(m->ctx, m->numbers);
    tiny_free(m->ctx, m->name);
    tiny_free(m->ctx, m->param);
    tiny_free(m->ctx, m);
}

/* Places of all parameters, two for each matrix; returns the numbers of all. */
static size_t tinyi_resmlp_lay(tllm_resmlp *m)
{
    const tllm_resmlp_desc *d = &m->is;
    const int n = 2 * d->depth + 2;
    size_t at = 0, all = m->n_param;        /* 0 in the first pass */
    int i, k;
    m->n_param = 0;
    for (i = 0; i < n; i++) {
        const tiny_idx in = !i ? d->n_in : i == n - 1 || i % 2 ? d->width : d->hidden;
        const tiny_idx to = i == n - 1 ? d->n_class : !i || i % 2 == 0 ? d->width : d->hidden;
        for (k = 0; k < 2; k++) {
            tiny_param *p = &m->param[m->n_param];
            if (m->numbers) {
                (void)snprintf(m->name[m->n_param], sizeof *m->name, "%d.%s", i, k ? "bias" : "weight");
                p->name = m->name[m->n_param];
                p->value = k ? tiny_tensor_1d(m->numbers + at, TINY_F32, to)
                             : tiny_tensor_2d(m->numbers + at, TINY_F32, to, in);
                p->grad = p->value;
                p->grad.data = m->numbers + all + at;
                p->group = 0;
            }
            at += (size_t)to * (size_t)(k ? 1 : in);
            m->n_param++;
        }
    }
    return at;
}

TINY_API tiny_status tllm_resmlp_open(tiny_ctx *ctx, const tllm_resmlp_desc *desc, tllm_resmlp **out)
{
    tllm_resmlp *m;
    tiny_rng rng;
    size_t n, i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out || desc->n_in < 1 || desc->n_class < 1 || desc->width < 1 || desc->hidden < 0 ||
        desc->depth < 0 || desc->n_in > 65536 || desc->n_class > 65536 || desc->width > 65536 ||
        desc->hidden > 65536 || desc->depth > 64)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "resmlp: sizes of 1 to 65536, a depth of 1 to 64, and where to put it");
    m = (tllm_resmlp *)tinyi_alloc(ctx, 1, sizeof *m);
    if (!m) return tiny_ctx_status(ctx);
    memset(m, 0, sizeof *m);
    m->ctx = ctx;
    m->is = *desc;
    if (!m->is.hidden) m->is.hidden = 2 * m->is.width;
    if (!m->is.depth) m->is.depth = 6;
    n = 4 * (size_t)m->is.depth + 4;
    m->param = (tiny_param *)tinyi_alloc(ctx, n, sizeof *m->param);
    if (m->param) m->name = (char(*)[24])tinyi_alloc(ctx, n, sizeof *m->name);
    if (m->name) {
        n = tinyi_resmlp_lay(m);
        m->numbers = (float *)tinyi_alloc(ctx, 2 * n, sizeof *m->numbers);
    }
    if (!m->numbers) st = tiny_ctx_status(ctx);
    else {
        memset(m->numbers, 0, 2 * n * sizeof *m->numbers);
        m->n_param = n;
        (void)tinyi_resmlp_lay(m);
    }
    rng = tiny_rng_make(m->is.seed, 0x726d6c70);
    for (i = 0; !st && i < m->n_param; i += 2) st = tiny_init_he(ctx, &rng, &m->param[i].value, 0);
    /* the second matrix of each block begins small, so that a block begins near the identity */
    for (i = 4; !st && i + 2 < m->n_param; i += 4) {
        float *w = (float *)m->param[i].value.data;
        tiny_idx k;
        for (k = 0; k < tiny_tensor_count(&m->param[i].value); k++) w[k] *= 0.5f;
    }
    if (st) tllm_resmlp_close(m);
    else *out = m;
    return st;
}

static tiny_tensor tinyi_resmlp_linear(const tllm_resmlp *m, tiny_tape *tape, int i, const tiny_tensor *x, int act)
{
    return tiny_tape_linear(tape, x, &m->param[2 * i].value, &m->param[2 * i + 1].value, act);
}
static tiny_tensor tinyi_resmlp_first(void *user, tiny_tape *tape, const tiny_tensor *x)
{
    return tinyi_resmlp_linear((const tllm_resmlp *)user, tape, 0, x, TINY_ACT_NONE);
}
static tiny_tensor tinyi_resmlp_block(void *user, tiny_tape *tape, int i, const tiny_tensor *h)
{
    const tllm_resmlp *m = (const tllm_resmlp *)user;
    tiny_tensor y = tinyi_resmlp_linear(m, tape, 2 * i + 1, h, TINY_ACT_RELU);
    y = tinyi_resmlp_linear(m, tape, 2 * i + 2, &y, TINY_ACT_NONE);
    return tiny_tape_add(tape, h, &y);
}
static tiny_tensor tinyi_resmlp_last(void *user, tiny_tape *tape, const tiny_tensor *h)
{
    const tllm_resmlp *m = (const tllm_resmlp *)user;
    return tinyi_resmlp_linear(m, tape, 2 * m->is.depth + 1, h, TINY_ACT_NONE);
}

TINY_API tiny_tensor tllm_resmlp_run(tiny_tape *tape, const tllm_resmlp *m, const tiny_tensor *x)
{
    tiny_tensor h;
    tllm_resmlp *own = (tllm_resmlp *)(uintptr_t)m;
    int i;
    if (!tape || tiny_tape_status(tape)) return tinyi_snnet_none();
    if (!m || !x) {
        (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "resmlp: a network and samples are needed");
        return tinyi_snnet_none();
    }
    h = tinyi_resmlp_first(own, tape, x);
    for (i = 0; i < m->is.depth; i++) h = tinyi_resmlp_block(own, tape, i, &h);
    return tinyi_resmlp_last(own, tape, &h);
}

TINY_API tllm_snnet_anchor tllm_resmlp_anchor(tllm_resmlp *m)
{
    tllm_snnet_anchor a;
    double in, w, hidden, n;
    memset(&a, 0, sizeof a);
    if (!m) return a;
    in = (double)m->is.n_in;
    w = (double)m->is.width;
    hidden = (double)m->is.hidden;
    n = (double)m->is.n_class;
    a.size.width = m->is.width;
    a.size.depth = m->is.depth;
    a.size.ops[TLLM_STITCH_FIRST] = in * w;
    a.size.ops[TLLM_STITCH_BLOCK] = 2.0 * w * hidden;
    a.size.ops[TLLM_STITCH_LAST] = w * n;
    a.size.params[TLLM_STITCH_FIRST] = (in + 1.0) * w;
    a.size.params[TLLM_STITCH_BLOCK] = 2.0 * w * hidden + w + hidden;
    a.size.params[TLLM_STITCH_LAST] = (w + 1.0) * n;
    a.params = m->param;
    a.n_params = m->n_param;
    a.first = tinyi_resmlp_first;
    a.block = tinyi_resmlp_block;
    a.last = tinyi_resmlp_last;
    a.user = m;
    return a;
}
