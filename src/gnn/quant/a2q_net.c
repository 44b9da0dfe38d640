/* src/gnn/quant/a2q_net.c - steps and bits of a net as parameters of its training
 * Paper    Z. Zhu et al., A2Q (arXiv 2302.00193), sections 3.1 to 3.3; the settings are those of the authors' program
 *          for a GCN on Cora.
 * Method   The quantizers are operations on the tape. After the backward pass the penalty adds its derivative to the
 *          gradient of the bits,
 *              d/db lambda max(0, M - T)^2 = 2 lambda (M - T) f / 8192 for each row,
 *          then Adam makes its step and bits are clamped to 1 .. 8: since |b| is used, a b below 0 would grow again.
 *          With groups M counts only the rows of the training step, and T is the target of bits for those rows.
 * Left out features of edges, attention; batch norms (they would have to be folded into steps). */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/quant/a2q_net.h"
#include "gnn/train/pass_inside.h"
#include "gnn/graph/graph_inside.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/ops.h"

/* ---- what there is to quantize */

static int tinyi_a2q_is(const tgnn_stage *s, tgnn_layer_kind kind)
{
    return s->kind == TGNN_STAGE_CONV && s->layer.kind == kind;
}

tiny_status tinyi_a2q_maps(tiny_ctx *ctx, const tgnn_net *net, int raw, int positive, tgnn_a2q_net *q)
{
    int i, k;
    q->n_maps = 0;
    for (i = 0; i < net->n_stages; i++) {
        const tgnn_stage *s = &net->stage[i];
        const int gin = tinyi_a2q_is(s, TGNN_LAYER_GIN);
        if (s->kind == TGNN_STAGE_READOUT) {
            raw = positive = 0;
            continue;
        }
        if (s->kind == TGNN_STAGE_CONV && (!(gin || tinyi_a2q_is(s, TGNN_LAYER_GCN)) || s->layer.weighted))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                              "a2q: layer %d (%s) is %s%s; gcn and gin without weights of edges, linear layers and "
                              "readouts are quantized",
                              i + 1, s->name, tgnn_layer_name(s->layer.kind),
                              s->layer.weighted ? " with edge_weight" : "");
        for (k = 0; k <= gin; k++) {
            tgnn_a2q_map *m = &q->map[q->n_maps++];
            memset(m, 0, sizeof *m);
            m->stage = i;
            m->weight = 2 * k;
            m->raw = raw && !k;
            m->positive = k || positive;
            m->n_in = k ? s->hidden : s->n_in;
            m->n_out = gin && !k ? s->hidden : s->out;
        }
        raw = 0;
        positive = s->act == TGNN_ACT_RELU;
    }
    return TINY_OK;
}

/* whether the product of a map is summed along edges */
static int tinyi_a2q_summed(const tgnn_net *net, const tgnn_a2q_map *m)
{
    return net->stage[m->stage].kind == TGNN_STAGE_CONV && !m->weight;
}

tiny_status tinyi_a2q_room(tiny_ctx *ctx, const tgnn_net *net, tgnn_a2q_net *q, tiny_idx n_steps)
{
    float *at = NULL;
    int i;
    do {                                    /* counted, then handed out */
        size_t n = 0;
        for (i = 0; i < q->n_maps; i++) {
            tgnn_a2q_map *m = &q->map[i];
            const size_t rows = m->raw ? 0 : (size_t)n_steps, out = (size_t)m->n_out;
            size_t all;
            if (!tinyi_size_mul(rows, 2, &all) || !tinyi_size_add(all, 2 * out, &all) || !tinyi_size_add(n, all, &all))
                return tinyi_fail(ctx, TINY_E_OVERFLOW, "a2q: %td steps of layer %d", n_steps, m->stage + 1);
            if (at) {
                m->n_steps = (tiny_idx)rows;
                m->step = at + n;
                m->bits = m->step + rows;
                m->weight_step = m->bits + rows;
                m->sum_step = tinyi_a2q_summed(net, m) ? m->weight_step + out : NULL;
            }
            n = all;
        }
        if (at) return TINY_OK;
        q->n_values = n;
        at = q->values = (float *)tinyi_alloc(ctx, n, sizeof(float));
        if (at) memset(at, 0, n * sizeof(float));
    } while (at);
    return tiny_ctx_status(ctx);
}

TINY_REF_BEGIN
int tinyi_a2q_raw(const tiny_tensor *x, float *factor, int *positive)
{
    tiny_idx i, j;
    int raw = 1;
    *positive = 1;
    for (i = 0; i < x->dim[0]; i++) {
        const float *row = (const float *)x->data + i * x->stride[0];
        float is = 0.0f;
        for (j = 0; j < x->dim[1]; j++) {
            const float v = row[j * x->stride[1]];
            if (!(v >= 0.0f)) *positive = 0;
            if (v == 0.0f) continue;
            if (is == 0.0f) is = v;
            else if (v != is) raw = 0;
        }
        if (factor) factor[i] = is;
    }
    return raw && *positive;
}

void tinyi_a2q_degrees(const tiny_sparse *g, float *root)
{
    tiny_idx i;
    for (i = 0; i < g->n_rows; i++)
        root[i] = g->offset[i + 1] > g->offset[i]
                      ? (float)(1.0 / tinyi_sqrt64((double)(g->offset[i + 1] - g->offset[i])))
                      : 0.0f;
}

/* a step for each output so that most weights are in range: twice their mean over sqrt(7) (S. Esser et al., LSQ, arXiv
 * 1902.08153) */
static void tinyi_a2q_start(const tgnn_a2q_map *m, const tiny_tensor *w)
{
    tiny_idx i, j;
    for (i = 0; i < m->n_out; i++) {
        double sum = 0.0;
        for (j = 0; j < m->n_in; j++) {
            const float v = ((const float *)w->data)[i * m->n_in + j];
            sum += (double)(v < 0.0f ? -v : v);
        }
        sum *= 2.0 / 2.6457513110645907 / (double)m->n_in;
        m->weight_step[i] = sum > 1e-4 ? (float)sum : 1e-4f;
    }
}

/* |N(mean, deviation)|, never 0 */
static void tinyi_a2q_draw(tiny_rng *rng, float *to, tiny_idx n, float mean, float deviation)
{
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const float v = mean + deviation * tiny_rng_normal(rng), a = v < 0.0f ? -v : v;
        to[i] = a > 1e-4f ? a : 1e-4f;
    }
}
TINY_REF_END

TINY_API tiny_status tgnn_a2q_net_open(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_desc *desc,
                                       const tiny_tensor *x, tgnn_a2q_net **out)
{
    tgnn_a2q_desc none;
    tgnn_a2q_net *q;
    tiny_rng rng;
    tiny_idx k;
    int i, raw, positive;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    memset(&none, 0, sizeof none);
    if (!desc) desc = &none;
    if (!net || !x || !out || tiny_tensor_check(x) || x->dtype != TINY_F32 || x->rank != 2 || x->dim[1] != net->n_in ||
        net->n_in < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "a2q: a net, its features (nodes, %td) f32 and an output pointer are required",
                          net ? net->n_in : 0);
    if (!(desc->bits >= 0.0 && desc->bits <= 8.0) || !(desc->kilobytes >= 0.0 && desc->kilobytes < 1e12) ||
        !(desc->lambda > -1e12 && desc->lambda < 1e12) || !(desc->first_bits >= 0.0 && desc->first_bits <= 8.0) ||
        desc->groups < 0 || desc->groups > 1 << 24 || desc->uniform < 0 || desc->uniform > 7)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "a2q: %g bits, %g kilobytes, lambda %g, %g bits at first, %td groups, %d bits for all: bits "
                          "are 0 to 8, of all 1 to 7, groups at most 2^24",
                          desc->bits, desc->kilobytes, desc->lambda, desc->first_bits, desc->groups, desc->uniform);
    if (!(desc->lr_bits >= 0.0 && desc->lr_bits < 1e6 && desc->lr_step >= 0.0 && desc->lr_step < 1e6 &&
          desc->lr_weight >= 0.0 && desc->lr_weight < 1e6 && desc->lr_sum >= 0.0 && desc->lr_sum < 1e6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a2q: lr %g, %g, %g, %g: none may be negative", desc->lr_bits,
                          desc->lr_step, desc->lr_weight, desc->lr_sum);
    q = (tgnn_a2q_net *)tiny_alloc(ctx, sizeof *q);
    if (!q) return tiny_ctx_status(ctx);
    memset(q, 0, sizeof *q);
    q->desc = *desc;
    if (q->desc.bits == 0.0) q->desc.bits = 2.0;
    if (q->desc.lambda == 0.0) q->desc.lambda = 2.5;
    q->n_nodes = desc->groups || desc->uniform ? 0 : x->dim[0];
    raw = tinyi_a2q_raw(x, NULL, &positive);
    st = tinyi_a2q_maps(ctx, net, raw, positive, q);
    if (!st && !q->n_maps) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "a2q: the net has no weights");
    if (!st) st = tinyi_a2q_room(ctx, net, q, desc->uniform ? 1 : desc->groups ? desc->groups : x->dim[0]);
    if (!st) st = tinyi_a2q_fits(ctx, net, q);
    rng = tiny_rng_make(desc->seed, 0x613271);
    for (i = 0; !st && i < q->n_maps; i++) {
        tgnn_a2q_map *m = &q->map[i];
        const double first = desc->uniform            ? (double)(desc->uniform + m->positive)
                             : desc->first_bits > 0.0 ? desc->first_bits
                             : m->positive            ? 5.0
                                                      : 4.0;
        if (desc->groups && !desc->uniform) tinyi_a2q_draw(&rng, m->step, m->n_steps, 0.1f, 0.2f);
        else tinyi_a2q_draw(&rng, m->step, m->n_steps, 0.01f, 0.01f);
        for (k = 0; k < m->n_steps; k++) m->bits[k] = (float)first;
        if (desc->drawn) tinyi_a2q_draw(&rng, m->weight_step, m->n_out, 0.1f, 0.2f);
        else tinyi_a2q_start(m, &net->stage[m->stage].layer.w[m->weight]);
        if (m->sum_step) tinyi_a2q_draw(&rng, m->sum_step, m->n_out, 0.01f, 0.01f);
    }
    if (st) tgnn_a2q_net_close(ctx, q);
    else *out = q;
    return st;
}

tiny_status tinyi_a2q_fits(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_net *q)
{
    int i, k, used = 0;
    for (i = 0; i < q->n_maps; i++) {
        const tiny_tensor *w =
            q->map[i].stage < net->n_stages ? &net->stage[q->map[i].stage].layer.w[q->map[i].weight] : NULL;
        if (!w || !w->data || w->rank != 2 || w->dim[0] != q->map[i].n_out || w->dim[1] != q->map[i].n_in ||
            !tiny_tensor_is_dense(w) || (q->map[i].sum_step != NULL) != tinyi_a2q_summed(net, &q->map[i]))
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "a2q: product %d is not one of this net: the steps were made for another", i + 1);
    }
    for (i = 0; i < net->n_stages; i++)
        for (k = 0; k < 3; k += 2)
            used += k == 0 ? net->stage[i].kind != TGNN_STAGE_READOUT : tinyi_a2q_is(&net->stage[i], TGNN_LAYER_GIN);
    if (used != q->n_maps)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a2q: the net has %d products, but the steps were made for %d", used,
                          q->n_maps);
    return TINY_OK;
}

TINY_API void tgnn_a2q_net_close(tiny_ctx *ctx, tgnn_a2q_net *q)
{
    if (!q) return;
    tiny_free(ctx, q->values);
    tiny_free(ctx, q);
}

/* ---- run in floats */

tiny_status tinyi_a2q_matrix(tiny_ctx *ctx, tiny_idx rows, tiny_idx cols, tiny_tensor *t)
{
    size_t n;
    if (!tinyi_size_mul((size_t)rows, (size_t)cols, &n))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "a2q: %td x %td numbers", rows, cols);
    *t = tiny_tensor_2d(tinyi_alloc(ctx, n, sizeof(float)), TINY_F32, rows, cols);
    return t->data ? TINY_OK : tiny_ctx_status(ctx);
}

typedef struct tinyi_a2q_run { tiny_ctx *ctx; const tgnn_net *net; const tgnn_a2q_net *q; } tinyi_a2q_run;

/* z = quant(x) quant(W)' of map i */
static tiny_status tinyi_a2q_run_product(tinyi_a2q_run *r, int i, const tiny_tensor *x, const tiny_tensor *z)
{
    const tgnn_a2q_map *m = &r->q->map[i];
    const tiny_tensor *w = &r->net->stage[m->stage].layer.w[m->weight];
    const tiny_tensor step = tiny_tensor_1d(m->step, TINY_F32, m->n_steps),
                      bits = tiny_tensor_1d(m->bits, TINY_F32, m->n_steps),
                      scale = tiny_tensor_1d(m->weight_step, TINY_F32, m->n_out);
    tiny_tensor xq = *x, wq, index, turned;
    tgnn_nearest nearest;
    tgnn_a2q_params p;
    void *group = NULL, *own = NULL;
    tiny_status st;
    memset(&p, 0, sizeof p);
    memset(&nearest, 0, sizeof nearest);
    st = tinyi_a2q_matrix(r->ctx, m->n_out, m->n_in, &wq);
    if (!st && !m->raw && !r->q->n_nodes) {
        group = tinyi_alloc(r->ctx, (size_t)x->dim[0], sizeof(int32_t));
        st = group ? tgnn_nearest_make(r->ctx, m->step, m->bits, m->n_steps, r->q->desc.published, &nearest)
                   : tiny_ctx_status(r->ctx);
        if (!st) st = tgnn_nearest_assign(r->ctx, &nearest, x, (int32_t *)group);
    }
    if (!st && !m->raw) {
        index = tiny_tensor_1d(group, TINY_I32, x->dim[0]);
        st = tinyi_a2q_matrix(r->ctx, x->dim[0], m->n_in, &xq);
        own = xq.data;
        if (!st) st = tgnn_a2q(r->ctx, x, &step, &bits, group ? &index : NULL, &p, &xq);
    }
    p.bits = TGNN_A2Q_WEIGHT_BITS;
    if (!st) st = tgnn_a2q(r->ctx, w, &scale, NULL, NULL, &p, &wq);
    turned = tiny_tensor_swap(wq, 0, 1);
    if (!st) st = tiny_matmul(r->ctx, &xq, &turned, NULL, TINY_ACT_NONE, z);
    tiny_free(r->ctx, wq.data);
    tiny_free(r->ctx, own);
    tiny_free(r->ctx, group);
    tgnn_nearest_free(r->ctx, &nearest);
    return st;
}

/* y = sums of quant(z) along the edges, without the bias; z is used up */
static tiny_status tinyi_a2q_run_sum(tinyi_a2q_run *r, const tgnn_graph *g, const tgnn_stage *s, const tgnn_a2q_map *m,
                                     const tiny_tensor *z, const tiny_tensor *y)
{
    const tiny_sparse *a = tgnn_graph_in(g);
    const tiny_tensor offset = tiny_tensor_1d(a->offset, TINY_I64, a->n_rows + 1),
                      col = tiny_tensor_1d(a->col, TINY_I32, (tiny_idx)a->n),
                      step = tiny_tensor_1d(m->sum_step, TINY_F32, m->n_out);
    const tgnn_layer *l = &s->layer;
    tgnn_a2q_params p;
    tiny_tensor root, zq;
    tiny_status st = tinyi_a2q_matrix(r->ctx, a->n_rows, 1, &root);
    memset(&p, 0, sizeof p);
    p.by_column = 1;
    p.bits = TGNN_A2Q_WEIGHT_BITS;
    memset(&zq, 0, sizeof zq);
    if (!st) tinyi_a2q_degrees(a, (float *)root.data);
    root.dim[1] = m->n_out;
    root.stride[1] = 0;
    if (!st) st = tinyi_a2q_matrix(r->ctx, z->dim[0], m->n_out, &zq);
    if (!st && l->kind == TGNN_LAYER_GCN) st = tiny_mul(r->ctx, z, &root, z);
    if (!st) st = tgnn_a2q(r->ctx, z, &step, NULL, NULL, &p, &zq);
    if (!st) st = tiny_spmm(r->ctx, &offset, &zq, &col, NULL, NULL, NULL, y);
    if (!st && l->kind == TGNN_LAYER_GCN) st = tiny_mul(r->ctx, y, &root, y);
    else if (!st) st = tiny_axpy(r->ctx, &zq, 1.0f + (l->w[4].data ? *(const float *)l->w[4].data : l->eps), y);
    tiny_free(r->ctx, root.data);
    tiny_free(r->ctx, zq.data);
    return st;
}

static tiny_status tinyi_a2q_run_stage(void *arg, int i, const tgnn_graph *g, const tiny_tensor *x,
                                       const tiny_tensor *y)
{
    tinyi_a2q_run *r = (tinyi_a2q_run *)arg;
    const tgnn_stage *s = &r->net->stage[i];
    const int gin = tinyi_a2q_is(s, TGNN_LAYER_GIN);
    const tgnn_a2q_map *m;
    tiny_tensor z, h;
    int k = 0;
    tiny_status st;
    memset(&z, 0, sizeof z);
    memset(&h, 0, sizeof h);
    while (r->q->map[k].stage != i) k++;
    m = &r->q->map[k];
    if (s->kind == TGNN_STAGE_LINEAR) {
        st = tinyi_a2q_run_product(r, k, x, y);
    } else {
        st = tinyi_a2q_matrix(r->ctx, x->dim[0], m->n_out, &z);
        if (!st && gin) st = tinyi_a2q_matrix(r->ctx, x->dim[0], m->n_out, &h);
        if (!st) st = tinyi_a2q_run_product(r, k, x, &z);
        if (!st) st = tinyi_a2q_run_sum(r, g, s, m, &z, gin ? &h : y);
    }
    if (!st && gin) {
        if (s->layer.w[1].data) st = tiny_add(r->ctx, &h, &s->layer.w[1], &h);
        if (!st) st = tiny_relu(r->ctx, &h, &h);
        if (!st) st = tinyi_a2q_run_product(r, k + 1, &h, y);
    }
    if (!st && s->layer.w[gin ? 3 : 1].data) st = tiny_add(r->ctx, y, &s->layer.w[gin ? 3 : 1], y);
    tiny_free(r->ctx, z.data);
    tiny_free(r->ctx, h.data);
    return st;
}

TINY_API tiny_status tgnn_a2q_net_run(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_net *q,
                                      const tgnn_net_input *in, const tiny_tensor *y, const tiny_tensor *before)
{
    tinyi_a2q_run r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!net || !q) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a2q: the net or its steps are missing");
    st = tinyi_a2q_fits(ctx, net, q);
    if (st) return st;
    r.ctx = ctx;
    r.net = net;
    r.q = q;
    return tinyi_net_run_by(ctx, net, in, y, before, tinyi_a2q_run_stage, &r);
}

/* ---- training */

typedef struct tinyi_a2q_learn {
    tinyi_pass_guest guest;
    tiny_ctx *ctx;
    tgnn_a2q_net *q;
    float *grads;                           /* n_values, as the values lie */
    int64_t *count;                         /* groups: rows that took each, for each map */
    tiny_idx rows[TGNN_A2Q_MAPS];           /* of the last run */
    tgnn_nearest nearest;                   /* room for the groups of a map */
    uint64_t *room;
} tinyi_a2q_learn;

static tiny_tensor tinyi_a2q_call(tinyi_pass_at *a, const tiny_tensor *x, float *step, tiny_idx n, float *bits,
                                  const tiny_tensor *index, const tgnn_a2q_params *p)
{
    const tiny_tensor s = tiny_tensor_1d(step, TINY_F32, n), b = tiny_tensor_1d(bits, TINY_F32, n);
    tiny_tensor out[TINY_OP_MAX_OUT];
    tiny_op op;
    memset(&op, 0, sizeof op);
    memset(out, 0, sizeof out);
    op.kind = TGNN_OP_A2Q;
    op.row = tgnn_a2q_row();
    op.in[0] = x;
    op.in[1] = &s;
    op.in[2] = bits ? &b : NULL;
    op.in[3] = index;
    op.params = p;
    (void)tiny_tape_op(a->t, &op, out);
    return out[0];
}

/* features of map i, quantized */
static tiny_tensor tinyi_a2q_features(tinyi_pass_at *a, tinyi_a2q_learn *l, int i, const tiny_tensor *x)
{
    tgnn_a2q_map *m = &l->q->map[i];
    int64_t *count = l->count + i * (l->q->desc.groups ? l->q->desc.groups : 1);
    tiny_tensor index, none;
    tgnn_a2q_params p;
    tiny_idx k;
    memset(&p, 0, sizeof p);
    memset(&none, 0, sizeof none);
    p.task = l->q->desc.task;
    if (!x->data) return none;
    l->rows[i] = x->dim[0];
    if (l->q->n_nodes) return tinyi_a2q_call(a, x, m->step, m->n_steps, m->bits, NULL, &p);
    index = tiny_tape_new(a->t, TINY_I32, 1, &x->dim[0]);
    if (!index.data) return none;
    if (!tiny_tape_dry(a->t)) {
        int32_t *group = (int32_t *)index.data;
        tinyi_nearest_fill(&l->nearest, m->step, m->bits, m->n_steps, l->q->desc.published, l->room);
        (void)tgnn_nearest_assign(l->ctx, &l->nearest, x, group);
        memset(count, 0, (size_t)m->n_steps * sizeof *count);
        for (k = 0; k < x->dim[0]; k++) count[group[k]]++;
    }
    return tinyi_a2q_call(a, x, m->step, m->n_steps, m->bits, &index, &p);
}

static tiny_tensor tinyi_a2q_weights(tinyi_pass_at *a, const tgnn_a2q_map *m)
{
    tgnn_a2q_params p;
    memset(&p, 0, sizeof p);
    p.bits = TGNN_A2Q_WEIGHT_BITS;
    p.task = 1;
    return tinyi_a2q_call(a, &a->l->w[m->weight], m->weight_step, m->n_out, NULL, NULL, &p);
}

/* 1 / sqrt(edges into each node) as a column that is repeated for each feature */
static tiny_tensor tinyi_a2q_roots(tinyi_pass_at *a, tiny_idx f)
{
    const tiny_sparse *g = tgnn_graph_in(a->in->graphs.of[a->s - a->p->net->stage]);
    tiny_tensor d = tiny_tape_new(a->t, TINY_F32, 1, &g->n_rows), y;
    memset(&y, 0, sizeof y);
    if (!d.data) return y;
    if (!tiny_tape_dry(a->t)) tinyi_a2q_degrees(g, (float *)d.data);
    y = tiny_tensor_2d(d.data, TINY_F32, g->n_rows, f);
    y.stride[0] = 1;
    y.stride[1] = 0;
    return y;
}

static tiny_tensor tinyi_a2q_product(tinyi_pass_at *a, tinyi_a2q_learn *l, int i, const tiny_tensor *x)
{
    const tgnn_a2q_map *m = &l->q->map[i];
    const tiny_tensor w = tinyi_a2q_weights(a, m);
    tiny_tensor q;
    if (!x) return tinyi_pass_product(a, NULL, &w);
    q = m->raw ? *x : tinyi_a2q_features(a, l, i, x);
    if (!m->weight) q = tinyi_pass_drop(a, &q, a->s->dropout);
    return tinyi_pass_product(a, &q, &w);
}

static tiny_tensor tinyi_a2q_stage(tinyi_pass_at *a, int i)
{
    tinyi_a2q_learn *l = (tinyi_a2q_learn *)a->p->guest->arg;
    tgnn_a2q_params columns;
    tiny_tensor z, y, root, own;
    int k = 0;
    while (k < l->q->n_maps - 1 && l->q->map[k].stage != i) k++;
    z = tinyi_a2q_product(a, l, k, a->x);
    if (a->s->kind == TGNN_STAGE_LINEAR) return tinyi_pass_plus(a, &z, 1);
    memset(&columns, 0, sizeof columns);
    columns.by_column = 1;
    columns.bits = TGNN_A2Q_WEIGHT_BITS;
    if (a->l->kind == TGNN_LAYER_GCN) {
        root = tinyi_a2q_roots(a, l->q->map[k].n_out);
        z = tiny_tape_mul(a->t, &z, &root);
        z = tinyi_a2q_call(a, &z, l->q->map[k].sum_step, l->q->map[k].n_out, NULL, NULL, &columns);
        y = tinyi_pass_spmm(a, &z, NULL, TINY_EDGE_SUM);
        y = tiny_tape_mul(a->t, &y, &root);
        return tinyi_pass_plus(a, &y, 1);
    }
    z = tinyi_a2q_call(a, &z, l->q->map[k].sum_step, l->q->map[k].n_out, NULL, NULL, &columns);
    y = tinyi_pass_spmm(a, &z, NULL, TINY_EDGE_SUM);
    own = tiny_tape_scale(a->t, &z, 1.0 + (double)(a->l->w[4].data ? *(const float *)a->l->w[4].data : a->l->eps), 0.0);
    y = tiny_tape_add(a->t, &y, &own);
    y = tinyi_pass_plus(a, &y, 1);
    y = tiny_tape_call(a->t, TINY_OP_RELU, &y, NULL, NULL, NULL, NULL);
    y = tinyi_a2q_product(a, l, k + 1, &y);
    return tinyi_pass_plus(a, &y, 3);
}

TINY_REF_BEGIN
static double tinyi_a2q_penalty(void *arg)
{
    tinyi_a2q_learn *l = (tinyi_a2q_learn *)arg;
    tgnn_a2q_net *q = l->q;
    double m = 0.0, target = 0.0, slope;
    tiny_idx k;
    int i;
    if (q->desc.uniform || q->desc.lambda < 0.0) return 0.0;
    for (i = 0; i < q->n_maps; i++) {
        const tgnn_a2q_map *map = &q->map[i];
        for (k = 0; k < map->n_steps; k++) {
            const double stored =
                (double)(map->bits[k] < 0.0f ? -map->bits[k] : map->bits[k]) - (map->positive ? 1.0 : 0.0);
            m += stored * (double)map->n_in / 8192.0 * (q->n_nodes ? 1.0 : (double)l->count[i * q->desc.groups + k]);
        }
        if (!map->raw) target += q->desc.bits * (double)map->n_in * (double)l->rows[i] / 8192.0;
    }
    if (q->desc.kilobytes > 0.0) target = q->desc.kilobytes;
    if (m <= target) return 0.0;
    for (i = 0; i < q->n_maps; i++) {
        const tgnn_a2q_map *map = &q->map[i];
        slope = 2.0 * q->desc.lambda * (m - target) * (double)map->n_in / 8192.0;
        for (k = 0; k < map->n_steps; k++) {
            float *g = l->grads + (map->bits + k - q->values);
            const double rows = q->n_nodes ? 1.0 : (double)l->count[i * q->desc.groups + k];
            *g = (float)((double)*g + (map->bits[k] < 0.0f ? -slope : slope) * rows);
        }
    }
    return q->desc.lambda * (m - target) * (m - target);
}

static void tinyi_a2q_bring_back(void *arg)
{
    const tgnn_a2q_net *q = ((tinyi_a2q_learn *)arg)->q;
    tiny_idx k;
    int i;
    for (i = 0; i < q->n_maps; i++)
        for (k = 0; k < q->map[i].n_steps; k++) {
            float *b = &q->map[i].bits[k];
            *b = *b < 1.0f ? 1.0f : *b > (float)TGNN_A2Q_BITS ? (float)TGNN_A2Q_BITS : *b;
        }
}
TINY_REF_END

static void tinyi_a2q_leave(void *arg)
{
    tinyi_a2q_learn *l = (tinyi_a2q_learn *)arg;
    tiny_ctx *ctx = l->ctx;
    tiny_free(ctx, l->grads);
    tiny_free(ctx, l->count);
    tiny_free(ctx, l->room);
    tgnn_nearest_free(ctx, &l->nearest);
    tiny_free(ctx, l);
}

static void tinyi_a2q_param(tinyi_pass *p, tinyi_a2q_learn *l, const char *name, float *value, tiny_idx n, int group)
{
    tiny_param *q;
    if (!value || !n) return;
    q = &p->param[p->n_params++];
    q->name = name;
    q->value = tiny_tensor_1d(value, TINY_F32, n);
    q->grad = tiny_tensor_1d(l->grads + (value - l->q->values), TINY_F32, n);
    q->group = group;
    p->n_values += (size_t)n;
}

tiny_status tinyi_a2q_join(tgnn_a2q_net *q, tinyi_pass *p)
{
    const size_t m = (size_t)(q->desc.groups ? q->desc.groups : 1);
    tinyi_a2q_learn *l;
    int i;
    tiny_status st;
    for (i = 0; i < p->net->n_stages; i++)
        if (p->norm[i][0].g.data)
            return tinyi_fail(p->ctx, TINY_E_UNSUPPORTED,
                              "a2q: layer %d (%s): batch norms cannot be trained with quantization", i + 1,
                              p->net->stage[i].name);
    st = tinyi_a2q_fits(p->ctx, p->net, q);
    if (st) return st;
    l = (tinyi_a2q_learn *)tiny_alloc(p->ctx, sizeof *l);
    if (!l) return tiny_ctx_status(p->ctx);
    memset(l, 0, sizeof *l);
    l->ctx = p->ctx;
    l->q = q;
    l->grads = (float *)tinyi_alloc(p->ctx, q->n_values, sizeof *l->grads);
    l->count = l->grads ? (int64_t *)tinyi_alloc(p->ctx, m, (size_t)q->n_maps * sizeof *l->count) : NULL;
    l->room = l->count ? (uint64_t *)tinyi_alloc(p->ctx, m, 2 * sizeof *l->room) : NULL;
    l->nearest.limit = l->room ? (float *)tinyi_alloc(p->ctx, m, sizeof(float)) : NULL;
    l->nearest.group = l->nearest.limit ? (int32_t *)tinyi_alloc(p->ctx, m, sizeof(int32_t)) : NULL;
    if (!l->nearest.group) {
        tinyi_a2q_leave(l);
        return tiny_ctx_status(p->ctx);
    }
    memset(l->grads, 0, q->n_values * sizeof *l->grads);
    memset(l->count, 0, m * (size_t)q->n_maps * sizeof *l->count);
    for (i = 0; i < q->n_maps; i++) {
        const tgnn_a2q_map *map = &q->map[i];
        tinyi_a2q_param(p, l, "a2q.bits", q->desc.uniform ? NULL : map->bits, map->n_steps, 2);
        tinyi_a2q_param(p, l, "a2q.step", map->step, map->n_steps, 3);
        tinyi_a2q_param(p, l, "a2q.weight_step", map->weight_step, map->n_out, 4);
        tinyi_a2q_param(p, l, "a2q.sum_step", map->sum_step, map->n_out, 5);
    }
    l->guest.arg = l;
    l->guest.dense = !q->map[0].raw;
    l->guest.lr[2] = q->desc.lr_bits > 0.0 ? q->desc.lr_bits : 0.1;
    l->guest.lr[3] = q->desc.lr_step > 0.0 ? q->desc.lr_step : 0.04;
    l->guest.lr[4] = q->desc.lr_weight > 0.0 ? q->desc.lr_weight : q->desc.drawn ? 0.02 : 0.002;
    l->guest.lr[5] = q->desc.lr_sum > 0.0 ? q->desc.lr_sum : 0.008;
    l->guest.stage = tinyi_a2q_stage;
    l->guest.before = tinyi_a2q_penalty;
    l->guest.after = tinyi_a2q_bring_back;
    l->guest.leave = tinyi_a2q_leave;
    p->guest = &l->guest;
    return TINY_OK;
}
