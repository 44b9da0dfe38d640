/* src/llm/dist/megatron.c - tensor-parallel layers on a tape
 * Papers   M. Shoeybi et al., "Megatron-LM", 2019 (arXiv 1909.08053), section 3: f and g. D. Narayanan et al.,
 *          "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021 (arXiv 2104.04473),
 *          sections 2 and 4.1.
 * Formula  column  Y_r = X A_r     forward: X as it is; backward: dX = sum over ranks of dY_r A_r'
 *          row     Y = sum over ranks of X_r A_r    backward: dX_r = dY A_r'
 *          loss    m = max over ranks and columns, s = sum e^(x - m), z = the label's x - m, which one rank has;
 *                  L = mean of log s - z, dL/dx = (e^(x - m) / s - [column is the label]) / n
 * Cost     a sum of n numbers over t ranks sends 2 n (t - 1) / t of each (ring). A transformer layer has two in the
 *          forward and two in the backward pass; a recomputed forward pass repeats its two.
 * Method   A sum happens in place, before another operation reads the numbers, so the tape does not see it. Its
 *          gradient is the identity. What has another gradient is a row of its own. */
#include "llm/dist/megatron.h"
#include "core/state_inside.h"
#include "core/time.h"
#include "math/grad_inside.h"
#include <string.h>

struct tllm_tp {
    tiny_ctx *ctx;
    tiny_net *net;
    int way, rank, world;
    size_t n_most;
    uint64_t timeout_ns;
    tiny_coll coll;
    tiny_op_row enter, scatter, gather, given;
};
typedef struct tinyi_tpar_params { tllm_tp *tp; } tinyi_tpar_params;

/* ---- rows outside the table: copies with gradients of their own -------------------------------------------------- */

static tiny_status tinyi_tpar_copy_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    (void)ctx;
    want[0] = *op->in[0];
    return TINY_OK;
}
/* scatter: (rows, n) to (rows, n / t); gather: back */
static tiny_status tinyi_tpar_part_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want, int gather)
{
    const tllm_tp *tp = ((const tinyi_tpar_params *)op->params)->tp;
    const tiny_tensor *x = op->in[0];
    if (x->rank != 2 || x->dtype != TINY_F32 || !tiny_tensor_is_dense(x) || (!gather && x->dim[1] % tp->world))
        return tinyi_fail(ctx, TINY_E_SHAPE, "tensor ranks: %d of them share a dense matrix whose width they divide",
                          tp->world);
    want[0] = tiny_tensor_2d(NULL, TINY_F32, x->dim[0], gather ? x->dim[1] * tp->world : x->dim[1] / tp->world);
    return TINY_OK;
}
static tiny_status tinyi_tpar_scatter_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    return tinyi_tpar_part_shape(ctx, op, want, 0);
}
static tiny_status tinyi_tpar_gather_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    return tinyi_tpar_part_shape(ctx, op, want, 1);
}
static tiny_status tinyi_tpar_given_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    (void)ctx;
    want[0] = *op->in[1];
    return TINY_OK;
}

/* Where this rank's part of a dense x begins and ends: part r of t runs of numbers, not columns. */
static float *tinyi_tpar_part(const tllm_tp *tp, const tiny_tensor *x, size_t *n)
{
    *n = (size_t)tiny_tensor_count(x) / (size_t)tp->world;
    return (float *)x->data + *n * (size_t)tp->rank;
}

TINY_REF_BEGIN
static void tinyi_tpar_copy_ref(const tiny_op *op)
{
    memcpy(op->out[0]->data, op->in[0]->data, (size_t)tiny_tensor_count(op->in[0]) * sizeof(float));
}
static void tinyi_tpar_scatter_ref(const tiny_op *op)
{
    size_t n;
    const float *x = tinyi_tpar_part(((const tinyi_tpar_params *)op->params)->tp, op->in[0], &n);
    memcpy(op->out[0]->data, x, n * sizeof(float));
}
/* the own part; the others come afterwards */
static void tinyi_tpar_gather_ref(const tiny_op *op)
{
    size_t n;
    float *y = tinyi_tpar_part(((const tinyi_tpar_params *)op->params)->tp, op->out[0], &n);
    memcpy(y, op->in[0]->data, n * sizeof(float));
}
static void tinyi_tpar_given_ref(const tiny_op *op) { memcpy(op->out[0]->data, op->in[1]->data, sizeof(float)); }
TINY_REF_END

/* A copy is bound by memory: one thread does it. */
static void tinyi_tpar_copy_fast(tiny_team *team, const tiny_op *op) { if (team->i == 0) tinyi_tpar_copy_ref(op); }
static void tinyi_tpar_scatter_fast(tiny_team *team, const tiny_op *op)
{
    if (team->i == 0) tinyi_tpar_scatter_ref(op);
}
static void tinyi_tpar_gather_fast(tiny_team *team, const tiny_op *op) { if (team->i == 0) tinyi_tpar_gather_ref(op); }
static void tinyi_tpar_given_fast(tiny_team *team, const tiny_op *op) { if (team->i == 0) tinyi_tpar_given_ref(op); }

static void tinyi_tpar_cost(const tiny_op *op, tiny_cost *c)
{
    c->flops = 0.0;
    c->bytes = 8.0 * (double)tiny_tensor_count(op->out[0]);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_tpar_allreduce(tllm_tp *tp, float *x, size_t n, int op)
{
    tp->coll.op = op;
    tp->coll.until = tiny_now_ns() + tp->timeout_ns;
    return tiny_coll_allreduce(tp->ctx, &tp->coll, tp->way, x, n);
}

static int tinyi_tpar_alone(const tllm_tp *tp) { return !tp || tp->world == 1; }

/* x on the tape becomes the sum over the ranks. */
static void tinyi_tpar_sum_here(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x, int op)
{
    const size_t n = (size_t)tiny_tensor_count(x);
    if (tinyi_tpar_alone(tp) || tiny_tape_dry(tape) || tiny_tape_status(tape) || !n) return;
    if (n > tp->n_most) {
        (void)tinyi_tape_refuse(tape, TINY_E_WORKSPACE, "tensor ranks: the sum is longer than desc.n_most");
        return;
    }
    if (tinyi_tpar_allreduce(tp, (float *)x->data, n, op))
        (void)tinyi_tape_refuse(tape, tiny_ctx_status(tp->ctx), tp->net->says);
}

static tiny_status tinyi_tpar_enter_grad(tiny_grad *g, const tiny_op *op)
{
    tllm_tp *tp = ((const tinyi_tpar_params *)op->params)->tp;
    const size_t n = (size_t)tiny_tensor_count(op->in[0]);
    tiny_tensor sum;
    tiny_status st = tiny_grad_run(g, TINY_OP_COPY, tiny_grad_of(g, 0), NULL, NULL, &sum);
    if (st) return st;
    if (n > tp->n_most)
        return tinyi_fail(tp->ctx, TINY_E_WORKSPACE, "tensor ranks: a sum of %zu numbers, desc.n_most is %zu", n,
                          tp->n_most);
    if (!tiny_grad_dry(g)) st = tinyi_tpar_allreduce(tp, (float *)sum.data, n, TINY_COLL_SUM);
    return st ? st : tiny_grad_add(g, 0, &sum);
}

/* all parts of a dense x, of which this rank has its own */
static tiny_status tinyi_tpar_collect(tllm_tp *tp, const tiny_tensor *x)
{
    tp->coll.until = tiny_now_ns() + tp->timeout_ns;
    return tiny_coll_allgather(tp->ctx, &tp->coll, TINY_COLL_RING, x->data,
                               (size_t)tiny_tensor_count(x) / (size_t)tp->world);
}

static tiny_status tinyi_tpar_scatter_grad(tiny_grad *g, const tiny_op *op)
{
    tllm_tp *tp = ((const tinyi_tpar_params *)op->params)->tp;
    tiny_tensor dx, dy;
    tiny_status st = tinyi_grad_dense(g, tiny_grad_of(g, 0), &dy);
    size_t n;
    if (!st) st = tiny_grad_new(g, TINY_F32, 2, op->in[0]->dim, &dx);
    if (!st && !tiny_grad_dry(g)) {
        float *part = tinyi_tpar_part(tp, &dx, &n);
        memcpy(part, dy.data, n * sizeof(float));
        st = tinyi_tpar_collect(tp, &dx);
    }
    return st ? st : tiny_grad_add(g, 0, &dx);
}

static tiny_status tinyi_tpar_gather_grad(tiny_grad *g, const tiny_op *op)
{
    tllm_tp *tp = ((const tinyi_tpar_params *)op->params)->tp;
    tiny_tensor dx, dy;
    tiny_status st = tinyi_grad_dense(g, tiny_grad_of(g, 0), &dy);
    size_t n;
    if (!st) st = tiny_grad_new(g, TINY_F32, 2, op->in[0]->dim, &dx);
    if (!st && !tiny_grad_dry(g)) {
        const float *part = tinyi_tpar_part(tp, &dy, &n);
        memcpy(dx.data, part, n * sizeof(float));
    }
    return st ? st : tiny_grad_add(g, 0, &dx);
}

static tiny_status tinyi_tpar_given_grad(tiny_grad *g, const tiny_op *op)
{
    return tiny_grad_give(g, 0, TINY_OP_MUL, op->in[2], tiny_grad_of(g, 0), NULL);
}

static void tinyi_tpar_row_make(tiny_op_row *r, const char *name, int n_in,
                              tiny_status (*shape)(tiny_ctx *, const tiny_op *, tiny_tensor *),
                              void (*ref)(const tiny_op *), void (*fast)(tiny_team *, const tiny_op *),
                              tiny_grad_fn grad)
{
    memset(r, 0, sizeof *r);
    r->name = name;
    r->n_in = r->n_in_needed = n_in;
    r->n_out = 1;
    r->params_size = sizeof(tinyi_tpar_params);
    r->shape = shape;
    r->ref = ref;
    r->fast = fast;
    r->cost = tinyi_tpar_cost;
    r->grad = grad;
    r->bound.kind = TINY_BOUND_EXACT;
}

TINY_API tiny_status tllm_tp_open(tiny_ctx *ctx, const tllm_tp_desc *desc, tllm_tp **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_tp *tp;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tensor ranks: a description and an output are needed");
    if (desc->way < 0 || desc->way >= TINY_COMM_WAYS || desc->way == TINY_COMM_DIRECT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tensor ranks: way %d must be 0 or a tiny_comm_way after DIRECT",
                          desc->way);
    tp = (tllm_tp *)tinyi_alloc(ctx, 1, sizeof *tp);
    if (!tp) return tiny_ctx_status(ctx);
    memset(tp, 0, sizeof *tp);
    tp->ctx = ctx;
    tp->net = desc->net;
    tp->world = desc->net ? desc->net->world : 1;
    tp->rank = desc->net ? desc->net->rank : 0;
    tp->way = desc->way ? desc->way : TINY_COMM_RING;
    tp->n_most = desc->n_most;
    tp->timeout_ns = desc->timeout_ns ? desc->timeout_ns : UINT64_C(60000000000);
    tinyi_tpar_row_make(&tp->enter, "tp_enter", 1, tinyi_tpar_copy_shape, tinyi_tpar_copy_ref, tinyi_tpar_copy_fast,
                      tinyi_tpar_enter_grad);
    tinyi_tpar_row_make(&tp->scatter, "tp_scatter", 1, tinyi_tpar_scatter_shape, tinyi_tpar_scatter_ref,
                      tinyi_tpar_scatter_fast, tinyi_tpar_scatter_grad);
    tinyi_tpar_row_make(&tp->gather, "tp_gather", 1, tinyi_tpar_gather_shape, tinyi_tpar_gather_ref,
                        tinyi_tpar_gather_fast, tinyi_tpar_gather_grad);
    tinyi_tpar_row_make(&tp->given, "tp_loss", 3, tinyi_tpar_given_shape, tinyi_tpar_given_ref, tinyi_tpar_given_fast,
                      tinyi_tpar_given_grad);
    tp->coll.net = desc->net;
    tp->coll.n_work = tp->world > 1 ? tiny_coll_work(tp->world, desc->n_most, sizeof(float)) : 0;
    if (tp->coll.n_work == SIZE_MAX) {
        tiny_free(ctx, tp);
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "tensor ranks: sums of %zu numbers cannot be addressed", desc->n_most);
    }
    if (tp->coll.n_work) tp->coll.work = tinyi_alloc(ctx, tp->coll.n_work, 1);
    if (tp->coll.n_work && !tp->coll.work) {
        tiny_free(ctx, tp);
        return tiny_ctx_status(ctx);
    }
    *out = tp;
    return TINY_OK;
}

TINY_API void tllm_tp_close(tllm_tp *tp)
{
    if (!tp) return;
    tiny_free(tp->ctx, tp->coll.work);
    tiny_free(tp->ctx, tp);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static tiny_tensor tinyi_tpar_run(tiny_tape *tape, tllm_tp *tp, const tiny_op_row *row, const tiny_tensor *a,
                                const tiny_tensor *b, const tiny_tensor *c)
{
    tiny_tensor out[TINY_OP_MAX_OUT];
    tinyi_tpar_params params;
    tiny_op op;
    memset(&op, 0, sizeof op);
    memset(out, 0, sizeof out);
    params.tp = tp;
    op.row = row;
    op.in[0] = a;
    op.in[1] = b;
    op.in[2] = c;
    op.params = &params;
    if (tiny_tape_op(tape, &op, out)) memset(out, 0, sizeof out[0]);
    return out[0];
}

/* dense x, or an empty tensor and a failure in the tape */
static tiny_tensor tinyi_tpar_dense(tiny_tape *tape, const tiny_tensor *x)
{
    tiny_tensor none;
    memset(&none, 0, sizeof none);
    if (!tape || tiny_tape_status(tape)) return none;
    if (!x || x->dtype != TINY_F32) {
        (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "tensor ranks: a tensor of f32 is needed");
        return none;
    }
    return tiny_tape_reshape(tape, x, x->rank, x->dim);
}

TINY_API tiny_tensor tllm_tp_enter(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x)
{
    tiny_tensor d = tinyi_tpar_dense(tape, x);
    if (tinyi_tpar_alone(tp) || !d.data) return d;
    return tinyi_tpar_run(tape, tp, &tp->enter, &d, NULL, NULL);
}

TINY_API tiny_tensor tllm_tp_column(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x, const tiny_tensor *w,
                                    const tiny_tensor *bias, int act)
{
    tiny_tensor h = tllm_tp_enter(tape, tp, x);
    return tiny_tape_linear(tape, &h, w, bias, act);
}

TINY_API tiny_tensor tllm_tp_row(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x, const tiny_tensor *w,
                                 const tiny_tensor *bias)
{
    tiny_tensor y = tiny_tape_linear(tape, x, w, tinyi_tpar_alone(tp) ? bias : NULL, TINY_ACT_NONE);
    if (!y.data || tinyi_tpar_alone(tp)) return y;
    tinyi_tpar_sum_here(tape, tp, &y, TINY_COLL_SUM);
    return bias ? tiny_tape_add(tape, &y, bias) : y;
}

TINY_API tiny_tensor tllm_tp_scatter(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x)
{
    tiny_tensor d = tinyi_tpar_dense(tape, x);
    if (tinyi_tpar_alone(tp) || !d.data) return d;
    return tinyi_tpar_run(tape, tp, &tp->scatter, &d, NULL, NULL);
}

TINY_API tiny_tensor tllm_tp_gather(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x)
{
    tiny_tensor d = tinyi_tpar_dense(tape, x);
    if (tinyi_tpar_alone(tp) || !d.data) return d;
    d = tinyi_tpar_run(tape, tp, &tp->gather, &d, NULL, NULL);
    if (d.data && !tiny_tape_dry(tape) && tinyi_tpar_collect(tp, &d))
        (void)tinyi_tape_refuse(tape, tiny_ctx_status(tp->ctx), tp->net->says);
    return d;
}

/* loss and gradient from p = e^(x - m), s = sum over all columns, z = the label's logit minus m */
static void tinyi_tpar_loss(float *p, const float *s, const float *z, const int32_t *label, tiny_idx n, tiny_idx v,
                          tiny_idx first, float *loss)
{
    double sum = 0.0;
    tiny_idx r;
    for (r = 0; r < n; r++) {
        sum += (double)s[r] - (double)z[r];
        if (label[r] >= first && label[r] < first + v) p[r * v + label[r] - first] -= 1.0f;
    }
    *loss = (float)(sum / (double)n);
}

static tiny_status tinyi_tpar_entropy(tllm_tp *tp, tiny_ctx *ctx, const tiny_tensor *x, const int32_t *label,
                                    const tiny_tensor *p, const tiny_tensor *most, const tiny_tensor *sz, float *loss)
{
    const tiny_idx n = x->dim[0], v = x->dim[1], first = tinyi_tpar_alone(tp) ? 0 : v * tp->rank;
    tiny_reduce_params keep = { 0, 0, 1 };
    tiny_scale_params scale;
    tiny_tensor s = tiny_tensor_2d(sz->data, TINY_F32, n, 1);
    float *z = (float *)sz->data + n, *m = (float *)most->data;
    tiny_idx r;
    tiny_status st = tinyi_call(ctx, TINY_OP_MAX, x, NULL, &keep, most);
    if (!st && !tinyi_tpar_alone(tp)) st = tinyi_tpar_allreduce(tp, m, (size_t)n, TINY_COLL_MAX);
    if (!st) st = tinyi_call(ctx, TINY_OP_SUB, x, most, NULL, p);
    for (r = 0; !st && r < n; r++)
        z[r] = label[r] >= first && label[r] < first + v ? ((const float *)p->data)[r * v + label[r] - first] : 0.0f;
    if (!st) st = tinyi_call(ctx, TINY_OP_EXP, p, NULL, NULL, p);
    if (!st) st = tinyi_call(ctx, TINY_OP_SUM, p, NULL, &keep, &s);
    if (!st && !tinyi_tpar_alone(tp)) st = tinyi_tpar_allreduce(tp, (float *)sz->data, 2 * (size_t)n, TINY_COLL_SUM);
    if (!st) st = tinyi_call(ctx, TINY_OP_DIV, p, &s, NULL, p);
    if (!st) st = tinyi_call(ctx, TINY_OP_LOG, &s, NULL, NULL, &s);
    if (st) return st;
    tinyi_tpar_loss((float *)p->data, (const float *)s.data, z, label, n, v, first, loss);
    scale.alpha = 1.0f / (float)n;
    scale.beta = 0.0f;
    return tinyi_call(ctx, TINY_OP_SCALE, p, NULL, &scale, p);
}

TINY_API tiny_tensor tllm_tp_cross_entropy(tiny_tape *tape, tllm_tp *tp, const tiny_tensor *x, const tiny_tensor *label)
{
    tiny_tensor d = tinyi_tpar_dense(tape, x), p, most, sz, loss;
    tiny_idx dim[2], r, all;
    memset(&loss, 0, sizeof loss);
    if (!d.data) return loss;
    if (d.rank != 2 || !label || !label->data || label->dtype != TINY_I32 || label->rank != 1 ||
        !tiny_tensor_is_dense(label) || label->dim[0] != d.dim[0] || d.dim[0] < 1) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, "tensor ranks: logits (n, columns) and labels (n) i32 are needed");
        return loss;
    }
    if (tinyi_tpar_alone(tp)) return tiny_tape_cross_entropy(tape, &d, label, 0.0);
    all = d.dim[1] * tp->world;
    for (r = 0; r < d.dim[0]; r++)
        if (((const int32_t *)label->data)[r] < 0 || ((const int32_t *)label->data)[r] >= all) {
            (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "tensor ranks: a label is outside of the vocabulary");
            return loss;
        }
    if (2 * (size_t)d.dim[0] > tp->n_most) {
        (void)tinyi_tape_refuse(tape, TINY_E_WORKSPACE, "tensor ranks: desc.n_most is below two numbers a row");
        return loss;
    }
    p = tiny_tape_new(tape, TINY_F32, 2, d.dim);
    dim[0] = d.dim[0];
    dim[1] = 1;
    most = tiny_tape_new(tape, TINY_F32, 2, dim);
    dim[0] = 2 * d.dim[0];
    sz = tiny_tape_new(tape, TINY_F32, 1, dim);
    loss = tiny_tape_new(tape, TINY_F32, 0, NULL);
    if (!loss.data) return loss;
    if (!tiny_tape_dry(tape) && tinyi_tpar_entropy(tp, tiny_tape_ctx(tape), &d, (const int32_t *)label->data, &p, &most,
                                                 &sz, (float *)loss.data))
        (void)tinyi_tape_refuse(tape, tiny_ctx_status(tp->ctx),
                                *tp->net->says ? tp->net->says : "tensor ranks: the loss failed");
    return tinyi_tpar_run(tape, tp, &tp->given, &d, &loss, &p);
}

TINYI_FN tiny_status tinyi_tpar_sum_list(tiny_ctx *ctx, tiny_net *net, const tiny_param *params, size_t n_params,
                                         uint64_t timeout_ns)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_tp_desc d;
    tllm_tp *tp = NULL;
    size_t i;
    if (st) return st;
    if (n_params && !params) return tinyi_fail(ctx, TINY_E_ARGUMENT, "sum of gradients: the list is NULL");
    if (!net || net->world == 1) return TINY_OK;
    memset(&d, 0, sizeof d);
    d.net = net;
    d.timeout_ns = timeout_ns;
    for (i = 0; i < n_params; i++) {
        if (tiny_tensor_check(&params[i].grad) || params[i].grad.dtype != TINY_F32 ||
            !tiny_tensor_is_dense(&params[i].grad))
            return tinyi_fail(ctx, TINY_E_DTYPE, "sum of gradients: gradient %zu must be dense and f32", i);
        d.n_most = TINYI_MAX(d.n_most, (size_t)tiny_tensor_count(&params[i].grad));
    }
    st = tllm_tp_open(ctx, &d, &tp);
    for (i = 0; !st && i < n_params; i++)
        st = tinyi_tpar_allreduce(tp, (float *)params[i].grad.data, (size_t)tiny_tensor_count(&params[i].grad),
                                TINY_COLL_SUM);
    tllm_tp_close(tp);
    return st;
}

TINY_API tiny_status tllm_tp_sum(tiny_ctx *ctx, tiny_net *net, const tiny_param *params, size_t n_params)
{
    return tinyi_tpar_sum_list(ctx, net, params, n_params, 0);
}
