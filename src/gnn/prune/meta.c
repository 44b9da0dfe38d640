/* src/gnn/prune/meta.c - meta pruning: a graph network rewrites a network so that it can be pruned
 * Paper    Y. Liu et al., "Meta Pruning via Graph Metanetworks: A Universal Meta Learning Framework for Network
 *          Pruning", 2025 (arXiv 2506.12041).
 * Formula  h = Lin(node), e = Lin(edge); s = +1 for the first half of the hidden numbers, -1 for the second.
 *          conv(x, j -> i, e): message B2(x)_i B1(x)_j e, n_i = Lin(mean, standard deviation, largest, least of its
 *          messages), d = B3(x)_j B4(x)_i e; B = SiLU(Lin).
 *          layer: x = LN(h); (n1, d1) = conv(x, edges, e); (n2, d2) = conv(x, reversed edges, s e), the same weights;
 *          h += n1 + n2; e += d1 + s d2. out: node + c Dec(h), edge + c Dec(e), Dec = Lin SiLU Lin LN, c = 0.01.
 *          s d2 = B3(x)_i B4(x)_j e, since s s = 1.
 * Fast     edges of a layer are a dense block (n_out, n_in, hidden): messages are products with repeated views of the
 *          nodes, and aggregates are reductions along an axis. Nothing is gathered or scattered.
 * Data     nodes without edges in one direction have aggregates of 0 there.
 * Left out transformers: no network of that kind is here. */
#include "gnn/prune/meta.h"
#include "math/layer.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <stdio.h>
#include <string.h>

/* ---- network to graph and back */

static int tinyi_meta_only_matrices(const tgnn_cnn_desc *is)
{
    size_t i;
    for (i = 0; i < is->n_layer; i++)
        if (is->layer[i].size) return 0;
    return 1;
}

TINY_API void tgnn_net_graph_close(tiny_ctx *ctx, tgnn_net_graph *graph)
{
    if (!graph) return;
    tiny_free(ctx, graph->memory);
    memset(graph, 0, sizeof *graph);
}

TINY_API tiny_status tgnn_net_graph_open(const tgnn_cnn *cnn, tgnn_net_graph *graph)
{
    const tgnn_cnn_desc *is = tgnn_cnn_is(cnn);
    const size_t bytes = cnn ? tiny_dtype_bytes(is->dtype) : 0;
    size_t i, n, m;
    tiny_status st;
    if (graph) memset(graph, 0, sizeof *graph);
    if (!cnn) return TINY_E_ARGUMENT;
    if (!graph) return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_ARGUMENT, "meta: a place for the graph is needed");
    graph->n_node = tgnn_cnn_nodes(cnn);
    graph->n_feature = tinyi_meta_only_matrices(is) ? 1 : 9;
    for (i = 0; i < is->n_layer; i++) {
        int k;
        for (k = 0; k < 1 + (is->layer[i].add != 0); k++) {
            tgnn_net_block *b = &graph->block[graph->n_block++];
            b->kind = !k ? TGNN_NET_LAYER : is->layer[i].side ? TGNN_NET_SIDE : TGNN_NET_SAME;
            b->layer = i;
            b->from = k ? (size_t)is->layer[i].add : i;
            b->to = i + 1;
            b->first = graph->n_edge;
            b->n_in = tgnn_cnn_channels(cnn, b->from);
            b->n_out = tgnn_cnn_channels(cnn, b->to);
            graph->n_edge += b->n_in * b->n_out;
        }
    }
    if (!tinyi_size_mul((size_t)graph->n_node, TGNN_NET_NODE, &n) ||
        !tinyi_size_mul((size_t)graph->n_edge, (size_t)graph->n_feature, &m) || !tinyi_size_add(n, m, &m))
        return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_OVERFLOW, "meta: the graph is too large");
    graph->memory = tinyi_alloc(tinyi_cnn_ctx(cnn), m, bytes);
    if (!graph->memory) return tiny_ctx_status(tinyi_cnn_ctx(cnn));
    graph->node = tiny_tensor_2d(graph->memory, is->dtype, graph->n_node, TGNN_NET_NODE);
    graph->edge = tiny_tensor_2d((unsigned char *)graph->memory + n * bytes, is->dtype, graph->n_edge,
                                 graph->n_feature);
    st = tgnn_net_graph_read(cnn, graph);
    if (st) tgnn_net_graph_close(tinyi_cnn_ctx(cnn), graph);
    return st;
}

/* The tensor of each number of a node of layer i; -1: none, neutral. */
static void tinyi_meta_slots(const tgnn_cnn *cnn, size_t i, int slot[TGNN_NET_NODE])
{
    const tgnn_cnn_at *a = tgnn_cnn_layers(cnn) + i;
    int k;
    for (k = 0; k < TGNN_NET_NODE; k++) slot[k] = -1;
    if (tinyi_meta_only_matrices(tgnn_cnn_is(cnn))) {
        slot[0] = a->bias;
        return;
    }
    slot[0] = a->gain;
    slot[1] = a->bias;
    slot[2] = a->mean;
    slot[3] = a->variance;
    slot[4] = a->side_gain;
    slot[5] = a->side_bias;
    slot[6] = a->side_mean;
    slot[7] = a->side_variance;
}

/* Copies numbers between a network and a graph: values, or gradients (0 where a tensor has none). */
static void tinyi_meta_move(const tgnn_cnn *cnn, const tgnn_net_graph *g, int to_graph, int grads)
{
    static const double neutral[TGNN_NET_NODE] = { 1, 0, 0, 1, 1, 0, 0, 1 };
    const int plain = g->n_feature == 1;
    size_t n_trained, s, b;
    const tiny_param *p = tgnn_cnn_params(cnn, &n_trained, NULL);
    const tiny_dtype type = g->node.dtype;
    int slot[TGNN_NET_NODE], k;
    tiny_idx c, o, i, t;
    for (s = 0; s <= tgnn_cnn_is(cnn)->n_layer; s++) {
        const tiny_idx first = tgnn_cnn_node(cnn, s);
        if (s) tinyi_meta_slots(cnn, s - 1, slot);
        for (c = 0; c < tgnn_cnn_channels(cnn, s); c++)
            for (k = 0; k < TGNN_NET_NODE; k++) {
                const tiny_idx at = (first + c) * TGNN_NET_NODE + k;
                const int own = s && slot[k] >= 0;
                if (!to_graph) {
                    if (own) tinyi_real_set(p[slot[k]].value.data, type, c, tinyi_real(g->node.data, type, at));
                } else if (grads) {
                    tinyi_real_set(g->node.data, type, at, own && (size_t)slot[k] < n_trained
                                                               ? tinyi_real(p[slot[k]].grad.data, type, c) : 0.0);
                } else
                    tinyi_real_set(g->node.data, type, at, own ? tinyi_real(p[slot[k]].value.data, type, c)
                                                               : plain ? 0.0 : neutral[k]);
            }
    }
    for (b = 0; b < g->n_block; b++) {
        const tgnn_net_block *e = &g->block[b];
        const tgnn_cnn_at *a = tgnn_cnn_layers(cnn) + e->layer;
        const tiny_param *w = e->kind == TGNN_NET_SAME ? NULL : &p[e->kind == TGNN_NET_SIDE ? a->side : a->weight];
        const tiny_idx taps = w && w->value.rank == 4 ? w->value.dim[2] * w->value.dim[3] : 1;
        const tiny_idx middle = g->n_feature / 2;       /* of a window of 3 x 3, or the only number */
        for (o = 0; o < e->n_out; o++)
            for (i = 0; i < e->n_in; i++)
                for (t = 0; t < g->n_feature; t++) {
                    const tiny_idx at = (e->first + o * e->n_in + i) * g->n_feature + t;
                    const tiny_idx from = (o * e->n_in + i) * taps + (taps == 9 ? t : 0);
                    const int there = w && (taps == 9 || t == middle);
                    if (!to_graph) {
                        if (there) tinyi_real_set(w->value.data, type, from, tinyi_real(g->edge.data, type, at));
                    } else if (there)
                        tinyi_real_set(g->edge.data, type, at,
                                       tinyi_real(grads ? w->grad.data : w->value.data, type, from));
                    else tinyi_real_set(g->edge.data, type, at, !w && !grads && o == i && t == middle ? 1.0 : 0.0);
                }
    }
}

static tiny_status tinyi_meta_fits(const tgnn_cnn *cnn, const tgnn_net_graph *g)
{
    if (!g || !g->memory || g->n_node != tgnn_cnn_nodes(cnn) || g->node.dtype != tgnn_cnn_is(cnn)->dtype ||
        g->n_block < tgnn_cnn_is(cnn)->n_layer || g->n_block > 2 * TGNN_CNN_LAYERS ||
        g->block[g->n_block - 1].to != tgnn_cnn_is(cnn)->n_layer)
        return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_SHAPE, "meta: the graph is of a network of another shape");
    return TINY_OK;
}

TINY_API tiny_status tgnn_net_graph_read(const tgnn_cnn *cnn, tgnn_net_graph *graph)
{
    size_t n, i;
    const tiny_param *p = tgnn_cnn_params(cnn, &n, &i);
    tiny_idx k;
    tiny_status st;
    if (!cnn) return TINY_E_ARGUMENT;
    st = tinyi_meta_fits(cnn, graph);
    if (st) return st;
    for (; i-- > 0;)
        for (k = 0; k < tiny_tensor_count(&p[i].value); k++) {
            const double x = tinyi_real(p[i].value.data, p[i].value.dtype, k);
            if (x != x || (i >= n && strstr(p[i].name, "variance") && x < 0.0))
                return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_NUMERIC, "meta: number %td of %s is %g", k, p[i].name, x);
        }
    tinyi_meta_move(cnn, graph, 1, 0);
    return TINY_OK;
}

TINY_API tiny_status tgnn_net_graph_write(const tgnn_net_graph *graph, tgnn_cnn *cnn)
{
    tiny_status st;
    if (!cnn) return TINY_E_ARGUMENT;
    st = tinyi_meta_fits(cnn, graph);
    if (!st) tinyi_meta_move(cnn, graph, 0, 0);
    return st;
}

/* ---- the metanetwork */

#define TINYI_META_LAYERS 16
enum { TINYI_META_B = 4, TINYI_META_EACH = 2 * (TINYI_META_B + 1) };        /* weight and bias of B1 .. B4 and of n */
#define TINYI_META_PARAMS (TINYI_META_EACH * TINYI_META_LAYERS + 12)

struct tgnn_meta {
    tiny_ctx *ctx;
    tgnn_meta_desc is;
    size_t n_param;
    /* weight and bias of: node, edge; B1 .. B4 and n of each layer; node 1, 2, edge 1, 2 */
    tiny_param param[TINYI_META_PARAMS];
    char name[TINYI_META_PARAMS][16];
    void *numbers;
};

TINY_API void tgnn_meta_close(tgnn_meta *meta)
{
    if (!meta) return;
    tiny_free(meta->ctx, meta->numbers);
    tiny_free(meta->ctx, meta);
}

/* Number k: its weight (out, in) and bias. */
static void tinyi_meta_linear(const tgnn_meta *m, size_t k, tiny_idx *n_out, tiny_idx *n_in)
{
    const tiny_idx h = m->is.hidden, f = m->is.n_feature;
    const size_t out = 2 + (TINYI_META_B + 1) * (size_t)m->is.layers;
    *n_out = *n_in = h;
    if (k < 2) *n_in = k ? f : TGNN_NET_NODE;
    else if (k >= out) {
        if (k - out == 1) *n_out = TGNN_NET_NODE;
        if (k - out == 3) *n_out = f;
    } else if ((k - 2) % (TINYI_META_B + 1) == TINYI_META_B) *n_in = 4 * h;
}

TINY_API tiny_status tgnn_meta_open(tiny_ctx *ctx, const tgnn_meta_desc *desc, tgnn_meta **out)
{
    tgnn_meta *m;
    tiny_rng rng;
    size_t k, n, at = 0, bytes;
    int pass;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "meta: a description and a result pointer are needed");
    if (desc->dtype != TINY_F32 && desc->dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "meta: the weights are f32 or f64, not %s", tiny_dtype_name(desc->dtype));
    m = (tgnn_meta *)tinyi_alloc(ctx, 1, sizeof *m);
    if (!m) return tiny_ctx_status(ctx);
    memset(m, 0, sizeof *m);
    m->ctx = ctx;
    m->is = *desc;
    if (!m->is.hidden) m->is.hidden = 64;
    if (!m->is.layers) m->is.layers = 8;
    if (!m->is.n_feature) m->is.n_feature = 9;
    if (m->is.scale == 0.0) m->is.scale = 0.01;
    if (m->is.scale < 0.0) m->is.scale = 0.0;
    if (m->is.hidden < 2 || m->is.hidden > 1024 || m->is.hidden % 2 || m->is.layers < 1 ||
        m->is.layers > TINYI_META_LAYERS || (m->is.n_feature != 1 && m->is.n_feature != 9) || !(m->is.scale < 1e6))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                        "meta: %d hidden numbers (even, 2 to 1024), %d layers (1 to %d), edges of %d numbers (1 or 9)",
                        m->is.hidden, m->is.layers, TINYI_META_LAYERS, m->is.n_feature);
    bytes = tiny_dtype_bytes(desc->dtype);
    n = 6 + (TINYI_META_B + 1) * (size_t)m->is.layers;
    for (pass = 0; !st && pass < 2; pass++) {
        const size_t all = at;
        for (at = k = 0; k < 2 * n; k++) {
            tiny_idx dim[2];
            tiny_param *p = &m->param[k];
            tinyi_meta_linear(m, k / 2, &dim[0], &dim[1]);
            if (pass) {
                (void)snprintf(m->name[k], sizeof m->name[0], "%u.%s", (unsigned)(k / 2), k % 2 ? "bias" : "weight");
                p->name = m->name[k];
                p->value = tiny_tensor_nd((unsigned char *)m->numbers + at * bytes, desc->dtype, k % 2 ? 1 : 2, dim);
                p->grad = p->value;
                p->grad.data = (unsigned char *)m->numbers + (all + at) * bytes;
            }
            at += (size_t)dim[0] * (k % 2 ? 1 : (size_t)dim[1]);
        }
        if (pass) continue;
        m->numbers = tinyi_alloc(ctx, 2 * at, bytes);
        if (!m->numbers) st = tiny_ctx_status(ctx);
        else memset(m->numbers, 0, 2 * at * bytes);
    }
    m->n_param = 2 * n;
    rng = tiny_rng_make(desc->seed, 0x6d657461);
    for (k = 0; !st && k < 2 * n; k++) {
        /* Uniform, +-1 / sqrt(inputs). Biases must not be 0: a norm of Lin(edge) alone would lose the size of the edge.
         * The last matrix of each decoder stays 0, so that training begins with no change. */
        const tiny_tensor *w = &m->param[k].value;
        const double most = 1.0 / tinyi_sqrt64((double)m->param[k - k % 2].value.dim[1]);
        tiny_idx i;
        if (k / 2 == n - 3 || k / 2 == n - 1) continue;
        for (i = 0; i < tiny_tensor_count(w); i++)
            tinyi_real_set(w->data, w->dtype, i, most * (2.0 * tiny_rng_uniform64(&rng) - 1.0));
    }
    if (st) tgnn_meta_close(m);
    else *out = m;
    return st;
}

TINY_API const tiny_param *tgnn_meta_params(const tgnn_meta *meta, size_t *n)
{
    if (n) *n = meta ? meta->n_param : 0;
    return meta ? meta->param : NULL;
}

static tiny_tensor tinyi_meta_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

static tiny_tensor tinyi_meta_lin(tiny_tape *tape, const tgnn_meta *m, size_t k, const tiny_tensor *x, int silu)
{
    tiny_tensor y = tiny_tape_linear(tape, x, &m->param[2 * k].value, &m->param[2 * k + 1].value, TINY_ACT_NONE);
    return silu ? tiny_tape_call(tape, TINY_OP_SILU, &y, NULL, NULL, NULL, NULL) : y;
}

/* rows first .. first + n - 1 of x (rows, hidden), repeated along one axis of (n_out, n_in, hidden) */
static tiny_tensor tinyi_meta_spread(const tiny_tensor *x, tiny_idx first, const tgnn_net_block *b, int by_out)
{
    tiny_tensor t = *x;
    t.data = (unsigned char *)x->data + first * x->stride[0] * (tiny_idx)tiny_dtype_bytes(x->dtype);
    t.rank = 3;
    t.dim[0] = b->n_out;
    t.dim[1] = b->n_in;
    t.dim[2] = x->dim[1];
    t.stride[0] = by_out ? x->stride[0] : 0;
    t.stride[1] = by_out ? 0 : x->stride[0];
    t.stride[2] = 1;
    return t;
}

/* the edges of a block of e (edges, hidden) */
static tiny_tensor tinyi_meta_edges(const tiny_tensor *e, const tgnn_net_block *b)
{
    tiny_tensor t = *e;
    t.data = (unsigned char *)e->data + b->first * e->dim[1] * (tiny_idx)tiny_dtype_bytes(e->dtype);
    t.rank = 3;
    t.dim[0] = b->n_out;
    t.dim[1] = b->n_in;
    t.dim[2] = e->dim[1];
    t.stride[0] = b->n_in * e->dim[1];
    t.stride[1] = e->dim[1];
    t.stride[2] = 1;
    return t;
}

/* p_o q_i e */
static tiny_tensor tinyi_meta_product(tiny_tape *tape, const tiny_tensor *p, tiny_idx p_at, const tiny_tensor *q,
                                      tiny_idx q_at, const tiny_tensor *e, const tgnn_net_block *b)
{
    const tiny_tensor at = tinyi_meta_edges(e, b), o = tinyi_meta_spread(p, p_at, b, 1),
                      i = tinyi_meta_spread(q, q_at, b, 0);
    tiny_tensor t = tiny_tape_mul(tape, &at, &o);
    if (tiny_tape_status(tape)) return tinyi_meta_none();
    return tiny_tape_mul(tape, &t, &i);
}

/* (nodes, 4 hidden) of messages (n_out, n_in, hidden) along the axis that is not that of the nodes */
static tiny_tensor tinyi_meta_gather(tiny_tape *tape, const tiny_tensor *x, int over_out)
{
    tiny_reduce_params r;
    tiny_tensor part[4], square;
    memset(&r, 0, sizeof r);
    r.axis = over_out ? 2 : 1;              /* counted from the last */
    part[0] = tiny_tape_call(tape, TINY_OP_MEAN, x, NULL, NULL, NULL, &r);
    square = tiny_tape_mul(tape, x, x);
    square = tiny_tape_call(tape, TINY_OP_MEAN, &square, NULL, NULL, NULL, &r);
    part[1] = tiny_tape_mul(tape, &part[0], &part[0]);
    part[1] = tiny_tape_sub(tape, &square, &part[1]);
    part[1] = tiny_tape_scale(tape, &part[1], 1.0, 1e-5);
    part[1] = tiny_tape_call(tape, TINY_OP_SQRT, &part[1], NULL, NULL, NULL, NULL);
    part[2] = tiny_tape_call(tape, TINY_OP_MAX, x, NULL, NULL, NULL, &r);
    part[3] = tiny_tape_call(tape, TINY_OP_MIN, x, NULL, NULL, NULL, &r);
    if (tiny_tape_status(tape)) return tinyi_meta_none();
    return tiny_tape_concat(tape, 4, part, 1);
}

/* One direction: aggregates of the messages of all nodes. e: of the edges, times s in the reversed direction. */
static tiny_tensor tinyi_meta_messages(tiny_tape *tape, const tgnn_net_graph *g, const tiny_tensor b[TINYI_META_B],
                                       const tiny_tensor *e, int reversed, const tiny_idx *start, size_t n_signal)
{
    tiny_tensor message[TGNN_CNN_LAYERS], of[TGNN_CNN_LAYERS + 1], all;
    size_t s, k;
    tiny_idx dim[2];
    for (s = 0; s < n_signal; s++) {
        int n = 0;
        for (k = 0; k < g->n_block && !tiny_tape_status(tape); k++) {
            const tgnn_net_block *block = &g->block[k];
            if ((reversed ? block->from : block->to) != s || n == TGNN_CNN_LAYERS) continue;
            message[n++] = reversed ? tinyi_meta_product(tape, &b[0], start[block->to], &b[1], start[s], e, block)
                                    : tinyi_meta_product(tape, &b[1], start[s], &b[0], start[block->from], e, block);
        }
        if (tiny_tape_status(tape)) return tinyi_meta_none();
        if (!n) {
            dim[0] = start[s + 1] - start[s];
            dim[1] = 4 * e->dim[1];
            of[s] = tiny_tape_new(tape, e->dtype, 2, dim);
            if (of[s].data && !tiny_tape_dry(tape))
                memset(of[s].data, 0, (size_t)tiny_tensor_count(&of[s]) * tiny_dtype_bytes(e->dtype));
            continue;
        }
        all = n == 1 ? message[0] : tiny_tape_concat(tape, n, message, reversed ? 0 : 1);
        of[s] = tinyi_meta_gather(tape, &all, reversed);
    }
    if (tiny_tape_status(tape)) return tinyi_meta_none();
    return tiny_tape_concat(tape, (int)n_signal, of, 0);
}

static tiny_tensor tinyi_meta_norm(tiny_tape *tape, const tiny_tensor *x)
{
    return tiny_tape_call(tape, TINY_OP_LAYERNORM, x, NULL, NULL, NULL, NULL);
}

/* x + scale Dec(h) */
static tiny_tensor tinyi_meta_decode(tiny_tape *tape, const tgnn_meta *m, size_t k, const tiny_tensor *h,
                                     const tiny_tensor *x)
{
    tiny_tensor y = tinyi_meta_norm(tape, h);
    y = tinyi_meta_lin(tape, m, k, &y, 1);
    y = tinyi_meta_lin(tape, m, k + 1, &y, 0);
    y = tiny_tape_scale(tape, &y, m->is.scale, 0.0);
    return tiny_tape_add(tape, x, &y);
}

TINY_API tiny_status tgnn_meta_run(tiny_tape *tape, const tgnn_meta *meta, const tgnn_net_graph *graph,
                                   tiny_tensor *node, tiny_tensor *edge)
{
    tiny_tensor h, e, se, x, b[TINYI_META_B], n[2], sign, change[2 * TGNN_CNN_LAYERS];
    tiny_idx start[TGNN_CNN_LAYERS + 2];
    const size_t signals = graph && graph->n_block ? graph->block[graph->n_block - 1].to + 1 : 0;
    size_t k, i, at = 2;
    int layer, dir;
    if (!tape || !meta) return TINY_E_ARGUMENT;
    if (tiny_tape_status(tape)) return tiny_tape_status(tape);
    if (!graph || !graph->memory || !node || !edge || signals > TGNN_CNN_LAYERS + 1)
        return tinyi_fail(meta->ctx, TINY_E_ARGUMENT, "meta: a graph, and places for nodes and edges are needed");
    if (graph->n_feature != meta->is.n_feature || graph->node.dtype != meta->is.dtype)
        return tinyi_fail(meta->ctx, TINY_E_SHAPE, "meta: edges of %d numbers (%s); the metanetwork is for %d (%s)",
                          graph->n_feature, tiny_dtype_name(graph->node.dtype), meta->is.n_feature,
                          tiny_dtype_name(meta->is.dtype));
    start[0] = 0;
    start[1] = graph->block[0].n_in;
    for (k = 0; k < graph->n_block; k++)
        if (graph->block[k].kind == TGNN_NET_LAYER)
            start[graph->block[k].to + 1] = start[graph->block[k].to] + graph->block[k].n_out;
    h = tinyi_meta_lin(tape, meta, 0, &graph->node, 0);
    e = tinyi_meta_lin(tape, meta, 1, &graph->edge, 0);
    sign = tiny_tape_new(tape, meta->is.dtype, 1, &e.dim[1]);
    for (i = 0; sign.data && !tiny_tape_dry(tape) && i < (size_t)meta->is.hidden; i++)
        tinyi_real_set(sign.data, sign.dtype, (tiny_idx)i, 2 * i < (size_t)meta->is.hidden ? 1.0 : -1.0);
    for (layer = 0; layer < meta->is.layers && !tiny_tape_status(tape); layer++, at += TINYI_META_B + 1) {
        x = tinyi_meta_norm(tape, &h);
        for (i = 0; i < TINYI_META_B; i++) b[i] = tinyi_meta_lin(tape, meta, at + i, &x, 1);
        se = tiny_tape_mul(tape, &e, &sign);
        for (dir = 0; dir < 2 && !tiny_tape_status(tape); dir++) {
            n[dir] = tinyi_meta_messages(tape, graph, b, dir ? &se : &e, dir, start, signals);
            n[dir] = tinyi_meta_lin(tape, meta, at + TINYI_META_B, &n[dir], 0);
        }
        for (k = 0; k < graph->n_block && !tiny_tape_status(tape); k++) {
            const tgnn_net_block *block = &graph->block[k];
            const tiny_idx from = start[block->from], to = start[block->to];
            tiny_tensor d1 = tinyi_meta_product(tape, &b[3], to, &b[2], from, &e, block),
                        d2 = tinyi_meta_product(tape, &b[2], to, &b[3], from, &e, block);
            tiny_idx dim[2];
            d1 = tiny_tape_add(tape, &d1, &d2);
            dim[0] = block->n_in * block->n_out;
            dim[1] = meta->is.hidden;
            change[k] = tiny_tape_reshape(tape, &d1, 2, dim);
        }
        if (tiny_tape_status(tape)) break;
        h = tiny_tape_add(tape, &h, &n[0]);
        h = tiny_tape_add(tape, &h, &n[1]);
        x = tiny_tape_concat(tape, (int)graph->n_block, change, 0);
        e = tiny_tape_add(tape, &e, &x);
    }
    if (!tiny_tape_status(tape)) {
        *node = tinyi_meta_decode(tape, meta, at, &h, &graph->node);
        *edge = tinyi_meta_decode(tape, meta, at + 2, &e, &graph->edge);
    }
    return tiny_tape_status(tape);
}

/* ---- use and training */

/* Runs the metanetwork over a graph; train: parameters of the metanetwork on the tape. The results go to out, which has
 * the same shape. *tape: NULL at first, else it has room for this graph; the caller releases its marks. */
static tiny_status tinyi_meta_tape(const tgnn_meta *m, const tgnn_net_graph *g, int train, tiny_tape **tape)
{
    tiny_tape_desc d;
    tiny_tensor node, edge, a, b;
    size_t i;
    int dry;
    tiny_status st = TINY_OK;
    memset(&d, 0, sizeof d);
    d.no_grad = !train;
    *tape = NULL;
    for (dry = 1; !st && dry >= 0; dry--) {
        d.dry = dry;
        st = tiny_tape_open(m->ctx, &d, tape);
        for (i = 0; !st && train && i < m->n_param; i++) st = tiny_tape_param(*tape, &m->param[i]);
        if (st || !dry) continue;
        st = tgnn_meta_run(*tape, m, g, &node, &edge);
        if (!st && train) {                 /* what tinyi_meta_back does */
            a = tiny_tape_mul(*tape, &node, &g->node);
            b = tiny_tape_mul(*tape, &edge, &g->edge);
            a = tiny_tape_mean(*tape, &a);
            b = tiny_tape_mean(*tape, &b);
            a = tiny_tape_scale(*tape, &a, 2.0, 0.0);
            b = tiny_tape_scale(*tape, &b, 2.0, 0.0);
            a = tiny_tape_add(*tape, &a, &b);
            st = tiny_tape_backward(*tape, &a, NULL);
        }
        d.bytes = tiny_tape_high(*tape);
        tiny_tape_close(*tape);
        *tape = NULL;
    }
    if (st) {
        tiny_tape_close(*tape);
        *tape = NULL;
    }
    return st;
}

static void tinyi_meta_take(const tgnn_cnn *was, tgnn_cnn *cnn, tgnn_net_graph *g, const tiny_tensor *node,
                            const tiny_tensor *edge)
{
    const size_t bytes = tiny_dtype_bytes(node->dtype);
    size_t n, all, i;
    const tiny_param *p, *q = tgnn_cnn_params(was, NULL, NULL);
    tiny_idx k;
    memcpy(g->node.data, node->data, (size_t)tiny_tensor_count(node) * bytes);
    memcpy(g->edge.data, edge->data, (size_t)tiny_tensor_count(edge) * bytes);
    tinyi_meta_move(cnn, g, 0, 0);
    p = tgnn_cnn_params(cnn, &n, &all);
    for (i = n; i < all; i++)
        for (k = 0; strstr(p[i].name, "variance") && k < tiny_tensor_count(&p[i].value); k++) {
            const double least = 1e-6 * tinyi_real(q[i].value.data, q[i].value.dtype, k);
            if (!(tinyi_real(p[i].value.data, p[i].value.dtype, k) >= least))
                tinyi_real_set(p[i].value.data, p[i].value.dtype, k, least);
        }
}

TINY_API tiny_status tgnn_meta_rewrite(const tgnn_meta *meta, const tgnn_cnn *cnn, tgnn_cnn **out)
{
    tgnn_net_graph g;
    tiny_tape *tape = NULL;
    tiny_tensor node, edge;
    tgnn_cnn *y = NULL;
    tiny_status st;
    if (out) *out = NULL;
    if (!meta) return TINY_E_ARGUMENT;
    if (!cnn || !out) return tinyi_fail(meta->ctx, TINY_E_ARGUMENT, "meta: a network and a result pointer are needed");
    st = tgnn_net_graph_open(cnn, &g);
    if (st) return st;
    st = tinyi_meta_tape(meta, &g, 0, &tape);
    if (!st) st = tgnn_meta_run(tape, meta, &g, &node, &edge);
    if (!st) st = tgnn_cnn_copy(cnn, &y);
    if (!st) tinyi_meta_take(cnn, y, &g, &node, &edge);
    tiny_tape_close(tape);
    tgnn_net_graph_close(meta->ctx, &g);
    if (!st) *out = y;
    return st;
}

TINY_API tiny_status tgnn_meta_forces(const tgnn_cnn *cnn, double alpha, double *force)
{
    size_t group[TGNN_CNN_LAYERS + 1], k;
    tiny_status st;
    tiny_idx c;
    if (!cnn) return TINY_E_ARGUMENT;
    if (!(alpha > 0.0 && alpha < 1e9))
        return tinyi_fail(tinyi_cnn_ctx(cnn), TINY_E_ARGUMENT,
                          "meta: forces with alpha %g; it must be above 0 and below 1e9", alpha);
    st = tgnn_cnn_importance(cnn, NULL, 0, force);
    if (st) return st;
    tgnn_cnn_ties(cnn, group);
    for (k = 0; k <= tgnn_cnn_is(cnn)->n_layer; k++) {
        double *f = force + tgnn_cnn_node(cnn, k), most = f[0], least = f[0];
        const tiny_idx n = tgnn_cnn_channels(cnn, k);
        if (!tgnn_cnn_free(cnn, group, k)) continue;
        for (c = 1; c < n; c++) {
            most = TINYI_MAX(most, f[c]);
            least = TINYI_MIN(least, f[c]);
        }
        for (c = 0; c < n; c++)
            f[c] = most > least ? tinyi_exp64(tinyi_log64(alpha) * (most - f[c]) / (most - least)) : 1.0;
    }
    return TINY_OK;
}

/* reg force value onto the gradients of a tensor; of a weight the forces of both its axes add up */
static double tinyi_meta_pull(const tiny_param *p, double reg, const double *row, const double *column)
{
    const tiny_tensor *w = &p->value;
    const tiny_idx columns = w->rank > 1 ? w->dim[1] : 1, taps = w->rank > 2 ? w->dim[2] * w->dim[3] : 1;
    double penalty = 0.0;
    tiny_idx r, c, t;
    for (r = 0; r < w->dim[0]; r++)
        for (c = 0; c < columns; c++)
            for (t = 0; t < taps; t++) {
                const tiny_idx at = (r * columns + c) * taps + t;
                const double x = tinyi_real(w->data, w->dtype, at), f = reg * (row[r] + (column ? column[c] : 0.0));
                tinyi_real_set(p->grad.data, p->grad.dtype, at, tinyi_real(p->grad.data, p->grad.dtype, at) + f * x);
                penalty += 0.5 * f * x * x;
            }
    return penalty;
}

TINY_API tiny_status tgnn_meta_gradient(tgnn_cnn *cnn, const tgnn_images *set, tiny_idx batch, double alpha, double reg,
                                        double *loss, double *penalty)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    size_t n, i;
    const tiny_param *p = tgnn_cnn_params(cnn, &n, NULL);
    double *force, sum = 0.0, pull = 0.0;
    tiny_idx at, batches = 0;
    tiny_ctx *ctx;
    int dry;
    tiny_status st;
    if (!cnn) return TINY_E_ARGUMENT;
    ctx = tinyi_cnn_ctx(cnn);
    st = tinyi_cnn_set_check(cnn, set);
    if (st) return st;
    if (!batch) batch = TINYI_MIN(500, set->x.dim[0]);
    if (batch < 1 || batch > set->x.dim[0] || !(reg >= 0.0 && reg < 1e9))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "meta: batches of %td of %td images, reg %g: a batch "
                          "has 1 to all images, and reg is not below 0", batch, set->x.dim[0], reg);
    force = (double *)tinyi_alloc(ctx, (size_t)tgnn_cnn_nodes(cnn), sizeof *force);
    if (!force) return tiny_ctx_status(ctx);
    st = tgnn_meta_forces(cnn, alpha, force);
    memset(&d, 0, sizeof d);
    for (dry = 1; !st && dry >= 0; dry--) {
        d.dry = dry;
        st = tiny_tape_open(ctx, &d, &tape);
        for (i = 0; !st && i < n; i++) st = tiny_tape_param(tape, &p[i]);
        if (!st) tiny_tape_zero(tape);
        for (at = 0; !st && at + batch <= (dry ? batch : set->x.dim[0]); at += batch) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            tgnn_images part;
            tiny_tensor y;
            st = tinyi_cnn_rows(cnn, set, at, batch, &part);
            if (st) break;
            y = tgnn_cnn_run(tape, cnn, &part.x, 1);
            y = tiny_tape_cross_entropy(tape, &y, &part.label, 0.0);
            st = tiny_tape_backward(tape, &y, NULL);
            if (!st && !dry) {
                sum += tinyi_real(y.data, y.dtype, 0);
                batches++;
            }
            tiny_free(ctx, part.x.data);
            tiny_tape_release(tape, mark);
        }
        d.bytes = tiny_tape_high(tape);
        tiny_tape_close(tape);
        tape = NULL;
    }
    for (i = 0; !st && i < tgnn_cnn_is(cnn)->n_layer; i++) {
        const tgnn_cnn_at *a = tgnn_cnn_layers(cnn) + i;
        const double *made = force + tgnn_cnn_node(cnn, i + 1), *read = force + tgnn_cnn_node(cnn, i),
                     *added = force + tgnn_cnn_node(cnn, (size_t)tgnn_cnn_is(cnn)->layer[i].add);
        pull += tinyi_meta_pull(&p[a->weight], reg, made, read);
        if (a->gain >= 0) pull += tinyi_meta_pull(&p[a->gain], reg, made, NULL);
        if (a->side < 0) continue;
        pull += tinyi_meta_pull(&p[a->side], reg, made, added);
        pull += tinyi_meta_pull(&p[a->side_gain], reg, made, NULL);
    }
    if (!st && loss) *loss = sum / (double)batches;
    if (!st && penalty) *penalty = pull;
    tiny_free(ctx, force);
    return st;
}

/* The gradient of the network's numbers back through the metanetwork: that of sum of v node' + sum of v edge'. */
static tiny_status tinyi_meta_back(tiny_tape *tape, const tgnn_net_graph *v, const tiny_tensor *node,
                                   const tiny_tensor *edge)
{
    tiny_tensor a = tiny_tape_mul(tape, node, &v->node), b = tiny_tape_mul(tape, edge, &v->edge);
    a = tiny_tape_mean(tape, &a);
    b = tiny_tape_mean(tape, &b);
    a = tiny_tape_scale(tape, &a, (double)tiny_tensor_count(node), 0.0);
    b = tiny_tape_scale(tape, &b, (double)tiny_tensor_count(edge), 0.0);
    a = tiny_tape_add(tape, &a, &b);
    tiny_tape_zero(tape);
    return tiny_tape_backward(tape, &a, NULL);
}

static tiny_status tinyi_meta_step(tgnn_meta *m, const tgnn_cnn *net, const tgnn_images *set,
                                   const tgnn_meta_train_desc *d, tgnn_meta_state *state)
{
    tgnn_net_graph g, v;
    tiny_tape *tape = NULL;
    tiny_tensor node, edge;
    tgnn_cnn *cnn = NULL;
    tiny_status st;
    memset(&v, 0, sizeof v);
    st = tgnn_net_graph_open(net, &g);
    if (!st) st = tgnn_net_graph_open(net, &v);
    if (!st) st = tinyi_meta_tape(m, &g, 1, &tape);
    if (!st) st = tgnn_meta_run(tape, m, &g, &node, &edge);
    if (!st) st = tgnn_cnn_copy(net, &cnn);
    if (!st) {
        tinyi_meta_take(net, cnn, &v, &node, &edge);
        st = tgnn_meta_gradient(cnn, set, d->batch, d->alpha, d->reg, &state->loss, &state->penalty);
    }
    if (!st) {
        tinyi_meta_move(cnn, &v, 1, 1);
        st = tinyi_meta_back(tape, &v, &node, &edge);
    }
    tiny_tape_close(tape);
    tgnn_cnn_close(cnn);
    tgnn_net_graph_close(m->ctx, &v);
    tgnn_net_graph_close(m->ctx, &g);
    return st;
}

TINY_API tiny_status tgnn_meta_train(tgnn_meta *meta, const tgnn_cnn *const *nets, size_t n, const tgnn_images *set,
                                     const tgnn_meta_train_desc *desc)
{
    tgnn_meta_train_desc d;
    tgnn_meta_state state;
    tiny_optim_desc o;
    tiny_optim *optim = NULL;
    tiny_rng rng;
    uint32_t *order = NULL;
    void *best = NULL;
    size_t bytes = 0, k;
    double score, top = 0.0;
    int stop = 0, judged = 0;
    tiny_status st = TINY_OK;
    if (!meta) return TINY_E_ARGUMENT;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (!d.epochs) d.epochs = 100;
    if (d.lr == 0.0) d.lr = 1e-3;
    if (d.decay == 0.0) d.decay = 5e-4;
    if (!d.drop) d.drop = 3;
    if (d.alpha == 0.0) d.alpha = 16.0;
    if (d.reg == 0.0) d.reg = 10.0;
    if (!nets || !n || n > 65536 || d.epochs < 1 || !(d.lr > 0.0 && d.lr < 1e6))
        return tinyi_fail(meta->ctx, TINY_E_ARGUMENT, "meta: %zu networks, %lld epochs, a rate of %g: at "
                          "least one network and epoch, and a rate above 0 are needed", n, (long long)d.epochs, d.lr);
    for (k = 0; k < n; k++)
        if (!nets[k]) return tinyi_fail(meta->ctx, TINY_E_ARGUMENT, "meta: network %zu is missing", k);
    memset(&o, 0, sizeof o);
    memset(&state, 0, sizeof state);
    o.group[0].kind = TINY_OPTIM_ADAMW;
    o.group[0].lr = d.lr;
    o.group[0].decay = d.decay;
    for (k = 0; k < meta->n_param; k++)
        bytes += (size_t)tiny_tensor_count(&meta->param[k].value) * tiny_dtype_bytes(meta->is.dtype);
    st = tiny_optim_open(meta->ctx, meta->param, meta->n_param, &o, &optim);
    if (!st) {
        order = (uint32_t *)tinyi_alloc(meta->ctx, n, sizeof *order);
        best = order ? tinyi_alloc(meta->ctx, bytes, 1) : NULL;
        if (!best) st = tiny_ctx_status(meta->ctx);
    }
    rng = tiny_rng_make(d.seed, 0x6f72);
    state.steps = d.epochs * (int64_t)n;
    for (state.epoch = 1; !st && !stop && state.epoch <= d.epochs; state.epoch++) {
        tiny_rng_permutation(&rng, order, (uint32_t)n);
        for (k = 0; !st && !stop && k < n; k++) {
            st = tinyi_meta_step(meta, nets[order[k]], set, &d, &state);
            if (!st) st = tiny_optim_step(optim, state.epoch > d.drop ? 0.1 : 1.0);
            state.step++;
            if (!st && d.callback) stop = d.callback(d.user, &state);
        }
        if (st || !d.judge) continue;
        st = d.judge(d.user, meta, state.epoch, &score);
        if (!st && (!judged || score > top)) {
            judged = 1;
            top = score;
            memcpy(best, meta->numbers, bytes);
        }
    }
    if (judged) memcpy(meta->numbers, best, bytes);
    tiny_free(meta->ctx, best);
    tiny_free(meta->ctx, order);
    tiny_optim_close(optim);
    return st;
}
