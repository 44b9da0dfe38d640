/* src/gnn/quant/quant.c - turns a trained net into one of integers, and runs it
 * Paper    Z. Zhu et al., A2Q (arXiv 2302.00193), section 3.1 and its appendix on integer arithmetic.
 * Formula  gcn, D the edges into each node:  Z = a_i s_j (Xint Wint);  B = quant(D^-1/2 Z) by column, steps t_j;
 *          Y = D^-1/2 t_j (A Bint) + bias. gin: B = quant(Z), Y = t_j (A Bint + (1 + eps) Bint) + bias, relu, and one
 *          more product.
 * Error    the codes are those of the net on the tape, unless a number is within a few units in the last place of a
 *          tie. Where the codes agree, results differ by at most 6 units in the last place in each layer. */
#include <stdio.h>
#include <string.h>
#include "gnn/quant/quant.h"
#include "gnn/graph/graph_inside.h"
#include "gnn/layer/net_file_inside.h"
#include "core/state_inside.h"
#include "math/ops.h"

/* ---- made */

TINY_API void tgnn_quant_free(tiny_ctx *ctx, tgnn_quant *n)
{
    int i;
    if (!n) return;
    tgnn_net_free(ctx, n->net);
    tgnn_a2q_net_close(ctx, n->q);
    for (i = 0; i < TGNN_A2Q_MAPS; i++) tiny_free(ctx, n->code[i]);
    tgnn_nibbles_free(ctx, &n->turned);
    tiny_free(ctx, n);
}

tiny_status tinyi_quant_turn(tiny_ctx *ctx, tgnn_quant *n)
{
    const tgnn_a2q_map *m = &n->q->map[0];
    int8_t *row;
    tiny_idx i, j;
    tiny_status st;
    if (!m->raw) return TINY_OK;
    row = (int8_t *)tinyi_alloc(ctx, (size_t)m->n_out, 1);
    if (!row) return tiny_ctx_status(ctx);
    st = tgnn_nibbles_make(ctx, m->n_in, m->n_out, &n->turned);
    for (i = 0; !st && i < m->n_in; i++) {
        for (j = 0; j < m->n_out; j++) row[j] = n->code[0][j * m->n_in + i];
        tgnn_nibbles_put(&n->turned, i, row);
    }
    tiny_free(ctx, row);
    return st;
}

TINY_REF_BEGIN
static void tinyi_quant_codes(const float *w, const float *step, tiny_idx n_out, tiny_idx n_in, int8_t *to)
{
    const float limit = (float)tgnn_a2q_limit(TGNN_A2Q_WEIGHT_BITS);
    tiny_idx i, j;
    for (i = 0; i < n_out; i++)
        for (j = 0; j < n_in; j++) {
            const float v = w[i * n_in + j];
            const int c = tinyi_a2q_code(v, tinyi_a2q_step(step[i]), limit);
            to[i * n_in + j] = (int8_t)(v < 0.0f ? -c : c);
        }
}

/* steps above 0, whole bits */
static void tinyi_quant_whole(float *step, float *bits, tiny_idx n)
{
    tiny_idx i;
    for (i = 0; step && i < n; i++) step[i] = tinyi_a2q_step(step[i]);
    for (i = 0; bits && i < n; i++) bits[i] = (float)tgnn_a2q_round(bits[i]);
}
TINY_REF_END

/* of the net, all but the matrices that become codes */
static tiny_status tinyi_quant_net(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_net *q, tgnn_net **out)
{
    int i, k;
    tgnn_net *n = (tgnn_net *)tiny_alloc(ctx, sizeof *n);
    *out = n;
    if (!n) return tiny_ctx_status(ctx);
    *n = *net;
    for (i = 0; i < TGNN_NET_MOST; i++) {
        memset(n->stage[i].layer.w, 0, sizeof n->stage[i].layer.w);
        memset(n->stage[i].layer.owned, 0, sizeof n->stage[i].layer.owned);
    }
    for (i = 0; i < net->n_stages; i++)
        for (k = 0; k < TGNN_LAYER_WEIGHTS; k++) {
            const tiny_tensor *w = &net->stage[i].layer.w[k];
            tgnn_layer *l = &n->stage[i].layer;
            size_t bytes;
            int m = 0;
            while (m < q->n_maps && !(q->map[m].stage == i && q->map[m].weight == k)) m++;
            if (!w->data || m < q->n_maps) continue;
            if (!tiny_tensor_is_dense(w))
                return tinyi_fail(ctx, TINY_E_SHAPE, "quant: weight %d of layer %d is not dense", k, i + 1);
            bytes = (size_t)tiny_tensor_count(w) * sizeof(float);
            l->owned[k] = tiny_alloc(ctx, bytes);
            if (!l->owned[k]) return tiny_ctx_status(ctx);
            memcpy(l->owned[k], w->data, bytes);
            l->w[k] = *w;
            l->w[k].data = l->owned[k];
        }
    return TINY_OK;
}

TINY_API tiny_status tgnn_quant_make(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_net *q, tgnn_quant **out)
{
    tgnn_quant *n;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!net || !q || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "quant: a net, its steps and an output pointer are required");
    n = (tgnn_quant *)tiny_alloc(ctx, sizeof *n);
    if (!n) return tiny_ctx_status(ctx);
    memset(n, 0, sizeof *n);
    st = tinyi_a2q_fits(ctx, net, q);
    if (!st) st = tinyi_quant_net(ctx, net, q, &n->net);
    if (!st) {
        n->q = (tgnn_a2q_net *)tiny_alloc(ctx, sizeof *n->q);
        if (!n->q) st = tiny_ctx_status(ctx);
        else memset(n->q, 0, sizeof *n->q);
    }
    if (!st) {
        n->q->desc = q->desc;
        n->q->n_nodes = q->n_nodes;
        st = tinyi_a2q_maps(ctx, net, q->map[0].raw, q->map[0].positive, n->q);
    }
    for (i = 0; !st && i < q->n_maps; i++) {
        const tgnn_a2q_map *m = &q->map[i];
        char what[96];
        (void)snprintf(what, sizeof what, "layer %d (%s)", m->stage + 1, net->stage[m->stage].name);
        st = tgnn_a2q_check(ctx, what, m->step, m->bits, m->n_steps);
        if (!st) st = tgnn_a2q_check(ctx, what, m->weight_step, NULL, m->n_out);
        if (!st) st = tgnn_a2q_check(ctx, what, m->sum_step, NULL, m->n_out);
    }
    if (!st) st = tinyi_a2q_room(ctx, net, n->q, q->n_nodes ? q->n_nodes : q->desc.uniform ? 1 : q->desc.groups);
    if (!st) memcpy(n->q->values, q->values, q->n_values * sizeof(float));
    for (i = 0; !st && i < q->n_maps; i++) {
        tgnn_a2q_map *m = &n->q->map[i];
        const float *w = (const float *)net->stage[m->stage].layer.w[m->weight].data;
        tiny_idx k;
        for (k = 0; !st && k < m->n_out * m->n_in; k++)
            if (w[k] != w[k])
                st = tinyi_fail(ctx, TINY_E_NUMERIC, "quant: layer %d (%s): weight %td is NaN", m->stage + 1,
                                net->stage[m->stage].name, k);
        tinyi_quant_whole(m->step, m->bits, m->n_steps);
        tinyi_quant_whole(m->weight_step, NULL, m->n_out);
        tinyi_quant_whole(m->sum_step, NULL, m->n_out);
        n->code[i] = st ? NULL : (int8_t *)tinyi_alloc(ctx, (size_t)(m->n_out * m->n_in), 1);
        if (!st && !n->code[i]) st = tiny_ctx_status(ctx);
        if (!st) tinyi_quant_codes(w, m->weight_step, m->n_out, m->n_in, n->code[i]);
    }
    if (!st) {
        const int input = q->map[0].raw        ? TINYI_QUANT_RAW
                          : q->map[0].positive ? TINYI_QUANT_POSITIVE
                                               : TINYI_QUANT_SIGNED;
        n->net->quant = 1 + 3 * input +
                        (q->n_nodes          ? TINYI_QUANT_NODES
                         : q->desc.published ? TINYI_QUANT_PUBLISHED
                                             : TINYI_QUANT_GROUPS);
        st = tinyi_quant_turn(ctx, n);
    }
    if (st) tgnn_quant_free(ctx, n);
    else *out = n;
    return st;
}

TINY_API size_t tgnn_quant_bytes(const tgnn_quant *n)
{
    size_t bytes = 0;
    int i, k;
    if (!n || !n->net || !n->q) return 0;
    for (i = 0; i < n->net->n_stages; i++)
        for (k = 0; k < TGNN_LAYER_WEIGHTS; k++)
            if (n->net->stage[i].layer.w[k].data) bytes += (size_t)tiny_tensor_count(&n->net->stage[i].layer.w[k]) * 4;
    for (i = 0; i < n->q->n_maps; i++) {
        const tgnn_a2q_map *m = &n->q->map[i];
        bytes += (size_t)m->n_out * (size_t)((m->n_in + 1) / 2) + (size_t)m->n_out * (m->sum_step ? 8 : 4) +
                 (size_t)m->n_steps * 5;
    }
    return bytes;
}

/* ---- run */

typedef struct tinyi_quant_run {
    tiny_ctx *ctx;
    const tgnn_quant *n;
    tgnn_quant_report *report;
} tinyi_quant_run;

/* z = x W of a map whose features are 0 or one number a row */
static tiny_status tinyi_quant_raw(tinyi_quant_run *r, const tgnn_a2q_map *m, const tiny_tensor *x,
                                   const tiny_tensor *z)
{
    tiny_sparse_desc d;
    tiny_sparse s;
    float *factor = (float *)tinyi_alloc(r->ctx, (size_t)x->dim[0], sizeof *factor);
    int positive;
    tiny_status st = factor ? TINY_OK : tiny_ctx_status(r->ctx);
    memset(&d, 0, sizeof d);
    memset(&s, 0, sizeof s);
    d.form = TINY_CSR;
    if (!st && !tinyi_a2q_raw(x, factor, &positive))
        st = tinyi_fail(r->ctx, TINY_E_ARGUMENT,
                        "quant: the net was made for rows of x that hold 0 and one number above it; these hold others");
    if (!st) st = tiny_sparse_from_dense(r->ctx, x, &d, &s);
    if (!st) st = tgnn_nibbles_sum(r->ctx, &s, &r->n->turned, 0.0f, factor, m->weight_step, NULL, z);
    tiny_sparse_free(r->ctx, &s);
    tiny_free(r->ctx, factor);
    return st;
}

static tiny_status tinyi_quant_product(tinyi_quant_run *r, int i, const tiny_tensor *x, const tiny_tensor *z)
{
    const tgnn_a2q_map *m = &r->n->q->map[i];
    const tiny_tensor w = tiny_tensor_2d(r->n->code[i], TINY_I8, m->n_out, m->n_in),
                      scale = tiny_tensor_1d(m->weight_step, TINY_F32, m->n_out);
    tgnn_nearest nearest;
    tgnn_packed packed;
    int32_t *group = NULL;
    tiny_status st = TINY_OK;
    if (m->raw) return tinyi_quant_raw(r, m, x, z);
    memset(&nearest, 0, sizeof nearest);
    memset(&packed, 0, sizeof packed);
    if (!r->n->q->n_nodes) {
        st = tgnn_nearest_make(r->ctx, m->step, m->bits, m->n_steps, r->n->q->desc.published, &nearest);
        if (!st) group = (int32_t *)tinyi_alloc(r->ctx, (size_t)x->dim[0], sizeof *group);
        if (!st && !group) st = tiny_ctx_status(r->ctx);
        if (!st) st = tgnn_nearest_assign(r->ctx, &nearest, x, group);
    }
    if (!st) st = tgnn_packed_make(r->ctx, x, m->step, m->bits, m->n_steps, group, m->positive, &packed);
    if (!st) st = tgnn_packed_product(r->ctx, &packed, &w, &scale, z);
    if (!st && r->report) {
        r->report->numbers += (uint64_t)packed.n * (uint64_t)packed.f;
        r->report->bits += packed.n_bits;
        r->report->bytes += packed.n_bytes;
        r->report->step_bytes += (size_t)packed.n * 5;
    }
    tgnn_packed_free(r->ctx, &packed);
    tgnn_nearest_free(r->ctx, &nearest);
    tiny_free(r->ctx, group);
    return st;
}

/* y = sums of z along the edges, whole numbers, and the bias of the layer */
static tiny_status tinyi_quant_sum(tinyi_quant_run *r, const tgnn_graph *g, const tgnn_stage *s, const tgnn_a2q_map *m,
                                   const tiny_tensor *z, const tiny_tensor *y)
{
    const tgnn_layer *l = &s->layer;
    const tiny_sparse *a = tgnn_graph_in(g);
    const int gin = l->kind == TGNN_LAYER_GIN;
    tgnn_nibbles t;
    float *root = NULL;
    tiny_status st = tgnn_nibbles_make(r->ctx, z->dim[0], m->n_out, &t);
    if (!st && !gin) {
        root = (float *)tinyi_alloc(r->ctx, (size_t)a->n_rows, sizeof *root);
        if (!root) st = tiny_ctx_status(r->ctx);
        else tinyi_a2q_degrees(a, root);
    }
    if (!st) st = tgnn_nibbles_quantize(r->ctx, z, root, m->sum_step, &t);
    if (!st)
        st = tgnn_nibbles_sum(r->ctx, a, &t, gin ? 1.0f + (l->w[4].data ? *(const float *)l->w[4].data : l->eps) : 0.0f,
                              root, m->sum_step, (const float *)l->w[1].data, y);
    tiny_free(r->ctx, root);
    tgnn_nibbles_free(r->ctx, &t);
    return st;
}

static tiny_status tinyi_quant_step(void *arg, int i, const tgnn_graph *g, const tiny_tensor *x, const tiny_tensor *y)
{
    tinyi_quant_run *r = (tinyi_quant_run *)arg;
    const tgnn_stage *s = &r->n->net->stage[i];
    const tgnn_a2q_map *m;
    tiny_tensor z, h;
    int k = 0;
    tiny_status st;
    memset(&z, 0, sizeof z);
    memset(&h, 0, sizeof h);
    while (r->n->q->map[k].stage != i) k++;
    m = &r->n->q->map[k];
    if (s->kind == TGNN_STAGE_LINEAR) {
        st = tinyi_quant_product(r, k, x, y);
        return st || !s->layer.w[1].data ? st : tiny_add(r->ctx, y, &s->layer.w[1], y);
    }
    st = tinyi_a2q_matrix(r->ctx, x->dim[0], m->n_out, &z);
    if (!st) st = tinyi_quant_product(r, k, x, &z);
    if (!st && s->layer.kind == TGNN_LAYER_GCN) st = tinyi_quant_sum(r, g, s, m, &z, y);
    else if (!st) {
        st = tinyi_a2q_matrix(r->ctx, x->dim[0], m->n_out, &h);
        if (!st) st = tinyi_quant_sum(r, g, s, m, &z, &h);
        if (!st) st = tiny_relu(r->ctx, &h, &h);
        if (!st) st = tinyi_quant_product(r, k + 1, &h, y);
        if (!st && s->layer.w[3].data) st = tiny_add(r->ctx, y, &s->layer.w[3], y);
    }
    tiny_free(r->ctx, z.data);
    tiny_free(r->ctx, h.data);
    return st;
}

TINY_API tiny_status tgnn_quant_run(tiny_ctx *ctx, const tgnn_quant *n, const tgnn_net_input *in, const tiny_tensor *y,
                                    const tiny_tensor *before, tgnn_quant_report *report)
{
    tinyi_quant_run r;
    tiny_status st = tinyi_ctx_check(ctx);
    if (report) memset(report, 0, sizeof *report);
    if (st) return st;
    if (!n || !in || !in->graph) return tinyi_fail(ctx, TINY_E_ARGUMENT, "quant: the net or the graph is missing");
    if (n->q->n_nodes && n->q->n_nodes != tgnn_graph_nodes(in->graph))
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "quant: the net has steps for each of %td nodes, the graph has %td; steps of groups fit any graph",
            n->q->n_nodes, tgnn_graph_nodes(in->graph));
    r.ctx = ctx;
    r.n = n;
    r.report = report;
    return tinyi_net_run_by(ctx, n->net, in, y, before, tinyi_quant_step, &r);
}
