/* src/gnn/layer/layer.c - graph convolutions
 * Papers   GCN: T. Kipf, M. Welling, 2017 (arXiv 1609.02907), eq. 2. GraphSAGE: W. Hamilton et al., 2017 (1706.02216),
 *          algorithm 1.
 *          GAT: P. Velickovic et al., 2018 (1710.10903), eq. 1-6. GATv2: S. Brody et al., 2022 (2105.14491), eq. 7.
 *          GIN: K. Xu et al., 2019 (1810.00826), eq. 4.1; GINE: W. Hu et al., 2020 (1905.12265). R-GCN: M.
 *          Schlichtkrull et al., 2018 (1703.06103), eq. 2 and 3. Graph transformer: Y. Shi et al., 2021 (2009.03509),
 *          eq. 1-4 without the gate. SGC: F. Wu et al., 2019 (1902.07153), eq. 8. APPNP: J. Gasteiger et al., 2019
 *          (1810.05997), eq. 4.
 * Method   Each layer is a few operations of the table, in the cheaper order: GCN multiplies by W first if that makes
 *          rows shorter. R-GCN sums over a graph with a row for each (relation, node), so that one spmm serves all
 *          relations.
 * Left out block-diagonal R-GCN, edge features of GAT, residual gates of the transformer, dropout: these functions are
 *          for inference only. */
#include <stdio.h>
#include <string.h>
#include "gnn/layer/layer.h"
#include "gnn/graph/graph_inside.h"
#include "gnn/graph/npy.h"
#include "math/elem.h"
#include "math/ops.h"

#define TINYI_LAYER_NAME(name, text) text,
static const char *const tinyi_layer_names[] = { TGNN_LAYERS(TINYI_LAYER_NAME) };
#undef TINYI_LAYER_NAME

static const char *const tinyi_layer_weights[TGNN_LAYER_COUNT][TGNN_LAYER_WEIGHTS] = {
    { "lin.weight", "bias", NULL, NULL, NULL, NULL, NULL, NULL, NULL },
    { "lin_l.weight", "lin_l.bias", "lin_r.weight", NULL, NULL, NULL, NULL, NULL, NULL },
    { "lin.weight", "att_src", "att_dst", "bias", NULL, NULL, NULL, NULL, NULL },
    { "lin_l.weight", "lin_l.bias", "lin_r.weight", "lin_r.bias", "att", "bias", NULL, NULL, NULL },
    { "nn.0.weight", "nn.0.bias", "nn.2.weight", "nn.2.bias", "eps", NULL, NULL, NULL, NULL },
    { "nn.0.weight", "nn.0.bias", "nn.2.weight", "nn.2.bias", "eps", "lin.weight", "lin.bias", NULL, NULL },
    { "weight", "root", "bias", "comp", NULL, NULL, NULL, NULL, NULL },
    { "lin_query.weight", "lin_query.bias", "lin_key.weight", "lin_key.bias", "lin_value.weight", "lin_value.bias",
      "lin_edge.weight", "lin_skip.weight", "lin_skip.bias" },
    { "lin.weight", "lin.bias", NULL, NULL, NULL, NULL, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }
};

TINY_API const char *tgnn_layer_name(tgnn_layer_kind kind)
{
    return (unsigned)kind < (unsigned)TGNN_LAYER_COUNT ? tinyi_layer_names[kind] : "?";
}
TINY_API const char *tgnn_layer_weight(tgnn_layer_kind kind, int i)
{
    return (unsigned)kind < (unsigned)TGNN_LAYER_COUNT && i >= 0 && i < TGNN_LAYER_WEIGHTS
               ? tinyi_layer_weights[kind][i]
               : NULL;
}

/* ---- weights */

/* weight i of the layer, checked: rank, and dims that are not 0 here; NULL into *out when it is not there */
static tiny_status tinyi_layer_take(tiny_ctx *ctx, const tgnn_layer *l, int i, int rank, tiny_idx d0, tiny_idx d1,
                                    int needed, tiny_tensor *room, const tiny_tensor **out)
{
    const tiny_tensor *w = &l->w[i];
    char text[96];
    int k;
    *out = NULL;
    if (!w->data) {
        if (!needed) return TINY_OK;
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the weight %s is missing", tgnn_layer_name(l->kind),
                          tgnn_layer_weight(l->kind, i));
    }
    if (tiny_tensor_check(w) || w->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: %s is not an f32 tensor", tgnn_layer_name(l->kind),
                          tgnn_layer_weight(l->kind, i));
    *room = *w;
    while (room->rank > rank && room->dim[0] == 1) {   /* att of PyG is (1, heads, c) */
        for (k = 1; k < room->rank; k++) {
            room->dim[k - 1] = room->dim[k];
            room->stride[k - 1] = room->stride[k];
        }
        room->rank--;
    }
    if (room->rank != rank || (d0 && room->dim[0] != d0) || (rank > 1 && d1 && room->dim[1] != d1))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          rank == 1 ? "%s: %s is %s, it must have %td numbers"
                                    : "%s: %s is %s, it must be %td x %td (0: any)",
                          tgnn_layer_name(l->kind), tgnn_layer_weight(l->kind, i), tinyi_shape_text(w, text), d0, d1);
    *out = room;
    return TINY_OK;
}

static int tinyi_layer_heads(const tgnn_layer *l)
{
    int i = l->kind == TGNN_LAYER_GAT ? 1 : l->kind == TGNN_LAYER_GATV2 ? 4 : -1;
    if (l->heads > 0) return l->heads;
    if (i >= 0 && l->w[i].data && l->w[i].rank >= 2 && l->w[i].dim[l->w[i].rank - 2] >= 1 &&
        l->w[i].dim[l->w[i].rank - 2] <= 0x7fffffff)
        return (int)l->w[i].dim[l->w[i].rank - 2];
    return 1;
}

TINY_API tiny_idx tgnn_layer_width(const tgnn_layer *l, tiny_idx n_in)
{
    int i;
    tiny_idx n;
    if (!l || (unsigned)l->kind >= (unsigned)TGNN_LAYER_COUNT) return 0;
    if (l->kind == TGNN_LAYER_APPNP) return n_in;
    if (l->kind == TGNN_LAYER_RGCN)
        return l->w[0].data && l->w[0].rank == 3   ? l->w[0].dim[2]
               : l->w[1].data && l->w[1].rank == 2 ? l->w[1].dim[1]
                                                   : 0;
    i = l->kind == TGNN_LAYER_GIN || l->kind == TGNN_LAYER_GINE ? 2 : l->kind == TGNN_LAYER_TRANSFORMER ? 4 : 0;
    n = l->w[i].data && l->w[i].rank == 2 ? l->w[i].dim[0] : 0;
    if (l->average && (l->kind == TGNN_LAYER_GAT || l->kind == TGNN_LAYER_GATV2 || l->kind == TGNN_LAYER_TRANSFORMER))
        return n % tinyi_layer_heads(l) ? 0 : n / tinyi_layer_heads(l);
    return n;
}

/* ---- the graph of a layer */

/* row r n + i: the edges of relation r into i */
static tiny_status tinyi_layer_relations(tiny_ctx *ctx, const tgnn_layer *l, const tgnn_graph *g,
                                         const int32_t *relation, int64_t n_relation, tgnn_graph **out)
{
    const tiny_sparse *a = &g->in;
    tiny_idx n_rel = l->w[3].data ? l->w[3].dim[0] : l->w[0].data ? l->w[0].dim[0] : 0, i;
    tiny_sparse coo;
    int64_t p, p1 = 0;
    tiny_status st = TINY_OK;
    if (!relation || n_relation < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rgcn: the relations of the edges are missing");
    if (n_rel < 1 || (a->n_rows && n_rel > 0x7fffffff / a->n_rows))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "rgcn: %td relations of %td nodes", n_rel, a->n_rows);
    memset(&coo, 0, sizeof coo);
    coo.form = TINY_COO;
    coo.n_rows = n_rel * a->n_rows;
    coo.n_cols = a->n_cols;
    coo.n = a->n;
    coo.col = a->col;
    coo.row = (int32_t *)tinyi_alloc(ctx, (size_t)a->n, sizeof *coo.row);
    if (!coo.row) return tiny_ctx_status(ctx);
    for (i = 0; !st && i < a->n_rows && tinyi_row_next(a, i, &p, &p1); i++)
        for (; !st && p < p1; p++) {
            const int64_t e = a->source ? *(const volatile int64_t *)(a->source + p) : p;       /* read once */
            const int32_t r = e >= 0 && e < n_relation ? relation[e] : -1;
            if (e < 0 || e >= n_relation)
                st = tinyi_fail(ctx, TINY_E_FORMAT,
                                "rgcn: an edge has the number %lld, but there are relations for %lld edges",
                                (long long)e,
                                (long long)n_relation);
            else if (r < 0 || r >= n_rel)
                st = tinyi_fail(ctx, TINY_E_FORMAT, "rgcn: edge %lld has relation %ld, there are %td", (long long)e,
                                (long)r, n_rel);
            else coo.row[p] = (int32_t)(r * a->n_rows + i);
        }
    if (!st && i < a->n_rows) st = tinyi_rows_changed(ctx, "rgcn", a);
    if (!st) st = tgnn_graph_from_sparse(ctx, &coo, out);
    /* the columns of a file, which may have changed on the way */
    if (!st && !a->owned && tiny_sparse_check(ctx, &(*out)->in)) {
        tgnn_graph_close(ctx, *out);
        *out = NULL;
        st = tinyi_rows_changed(ctx, "rgcn", a);
    }
    tiny_free(ctx, coo.row);
    return st;
}

TINY_API tiny_status tgnn_layer_graph(tiny_ctx *ctx, const tgnn_layer *layer, const tgnn_graph *g,
                                      const int32_t *relation, int64_t n_relation, tgnn_graph **out)
{
    tgnn_normalize_desc d;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!layer || !g || !out || (unsigned)layer->kind >= (unsigned)TGNN_LAYER_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "layer: the layer, the graph or the output pointer is missing");
    if (layer->kind == TGNN_LAYER_RGCN) return tinyi_layer_relations(ctx, layer, g, relation, n_relation, out);
    memset(&d, 0, sizeof d);
    switch (layer->kind) {
    case TGNN_LAYER_GCN: case TGNN_LAYER_SGC: case TGNN_LAYER_APPNP:
        d.norm = TGNN_NORM_SYMMETRIC;
        d.add_loops = !layer->no_loops;
        d.ignore_weights = !layer->weighted;
        break;
    case TGNN_LAYER_GAT: case TGNN_LAYER_GATV2:
        d.add_loops = d.drop_loops = !layer->no_loops;
        break;
    default: break;
    }
    return tgnn_graph_normalize(ctx, g, &d, out);
}

/* ---- running */

/* what lies between: every block of a run, given back at its end */
typedef struct tinyi_layer_run {
    tiny_ctx *ctx;
    const tgnn_layer *l;
    tiny_tensor offset, col, value;
    tiny_idx n;
    void *held[12];
    int n_held;
} tinyi_layer_run;

static tiny_status tinyi_layer_room(tinyi_layer_run *r, tiny_idx rows, tiny_idx cols, tiny_tensor *t)
{
    size_t n;
    void *p;
    if (!tinyi_size_mul((size_t)rows, (size_t)cols, &n))
        return tinyi_fail(r->ctx, TINY_E_OVERFLOW, "%s: %td x %td numbers", tgnn_layer_name(r->l->kind), rows, cols);
    p = tinyi_alloc(r->ctx, n, sizeof(float));
    if (!p) return tiny_ctx_status(r->ctx);
    r->held[r->n_held++] = p;
    *t = tiny_tensor_2d(p, TINY_F32, rows, cols);
    return TINY_OK;
}

/* y = act(x W' + b) with weights i and i_b of the layer; y is made when its data is NULL */
static tiny_status tinyi_layer_linear(tinyi_layer_run *r, const tiny_tensor *x, int i, int i_b, int act, tiny_tensor *y)
{
    tiny_tensor w_room, b_room, turned;
    const tiny_tensor *w, *b = NULL;
    tiny_status st = tinyi_layer_take(r->ctx, r->l, i, 2, 0, x->dim[1], 1, &w_room, &w);
    if (!st && i_b >= 0) st = tinyi_layer_take(r->ctx, r->l, i_b, 1, w->dim[0], 0, 0, &b_room, &b);
    if (!st && !y->data) st = tinyi_layer_room(r, x->dim[0], w->dim[0], y);
    if (st) return st;
    turned = tiny_tensor_swap(*w, 0, 1);
    return tiny_matmul(r->ctx, x, &turned, b, act, y);
}

/* y += b for each row, where there is a bias */
static tiny_status tinyi_layer_bias(tinyi_layer_run *r, int i, const tiny_tensor *y)
{
    tiny_tensor room;
    const tiny_tensor *b;
    tiny_status st = tinyi_layer_take(r->ctx, r->l, i, 1, y->dim[1], 0, 0, &room, &b);
    return st || !b ? st : tiny_add(r->ctx, y, b, y);
}

static tiny_status tinyi_layer_sum(tinyi_layer_run *r, const tiny_tensor *x, int weighted, const tiny_tensor *e,
                                   int reduce, int relu, const tiny_tensor *y)
{
    tiny_spmm_params p;
    memset(&p, 0, sizeof p);
    p.reduce = reduce;
    p.relu = relu;
    return tiny_spmm(r->ctx, &r->offset, x, &r->col, weighted ? &r->value : NULL, e, &p, y);
}

static tiny_status tinyi_layer_gcn(tinyi_layer_run *r, const tiny_tensor *x, const tiny_tensor *y)
{
    tiny_tensor h, out = *y;
    tiny_status st;
    memset(&h, 0, sizeof h);
    if (y->dim[1] <= x->dim[1]) {
        st = tinyi_layer_linear(r, x, 0, -1, TINY_ACT_NONE, &h);
        if (!st) st = tinyi_layer_sum(r, &h, 1, NULL, TINY_EDGE_SUM, 0, y);
        return st ? st : tinyi_layer_bias(r, 1, y);
    }
    st = tinyi_layer_room(r, r->n, x->dim[1], &h);
    if (!st) st = tinyi_layer_sum(r, x, 1, NULL, TINY_EDGE_SUM, 0, &h);
    return st ? st : tinyi_layer_linear(r, &h, 0, 1, TINY_ACT_NONE, &out);
}

static tiny_status tinyi_layer_sage(tinyi_layer_run *r, const tiny_tensor *x, const tiny_tensor *y)
{
    tiny_tensor h, own, out = *y;
    tiny_status st;
    memset(&own, 0, sizeof own);
    st = tinyi_layer_room(r, r->n, x->dim[1], &h);
    if (!st) st = tinyi_layer_sum(r, x, 0, NULL, r->l->aggr, 0, &h);
    if (!st) st = tinyi_layer_linear(r, &h, 0, 1, TINY_ACT_NONE, &out);
    if (!st && r->l->w[2].data) {
        st = tinyi_layer_linear(r, x, 2, -1, TINY_ACT_NONE, &own);
        if (!st && own.dim[1] != y->dim[1])
            st = tinyi_fail(r->ctx, TINY_E_SHAPE, "sage: lin_r gives %td numbers, lin_l %td", own.dim[1], y->dim[1]);
        if (!st) st = tiny_add(r->ctx, y, &own, y);
    }
    return !st && r->l->normalize ? tiny_l2norm(r->ctx, y, 1e-12f, y) : st;
}

/* the heads of h side by side, or their mean, then the bias */
static tiny_status tinyi_layer_heads_out(tinyi_layer_run *r, const tiny_tensor *h, int heads, int i_bias,
                                         const tiny_tensor *y)
{
    tiny_status st = TINY_OK;
    if (r->l->average) {
        tiny_tensor cube = tiny_tensor_3d(h->data, TINY_F32, h->dim[0], heads, h->dim[1] / heads);
        tiny_reduce_params p;
        memset(&p, 0, sizeof p);
        p.axis = 1;
        st = tiny_mean(r->ctx, &cube, &p, y);
    }
    return st || i_bias < 0 ? st : tinyi_layer_bias(r, i_bias, y);
}

/* sum of softmax(scores) v_j: at once, or in steps where e takes part or alpha is asked for */
static tiny_status tinyi_layer_attend(tinyi_layer_run *r, const tiny_tensor *a, const tiny_tensor *b,
                                      const tiny_tensor *v, const tiny_tensor *att, const tiny_tensor *e,
                                      const tiny_sddmm_params *p, const tiny_tensor *alpha, const tiny_tensor *y)
{
    tiny_tensor s;
    tiny_status st;
    if (!alpha && !e) return tiny_edge_attention(r->ctx, &r->offset, &r->col, a, b, v, att, p, y);
    if (alpha) s = *alpha;
    else {
        st = tinyi_layer_room(r, r->col.dim[0], p->heads, &s);
        if (st) return st;
    }
    st = tiny_sddmm(r->ctx, &r->offset, &r->col, a, b, att, e, p, &s);
    if (!st) st = tiny_segment_softmax(r->ctx, &r->offset, &s, &s);
    return st ? st : tiny_spmm(r->ctx, &r->offset, v, &r->col, &s, e, NULL, y);
}

static tiny_status tinyi_layer_split(tinyi_layer_run *r, tiny_idx width, int heads)
{
    return heads > 0 && width % heads == 0 && width > 0
               ? TINY_OK
               : tinyi_fail(r->ctx, TINY_E_SHAPE,
                            "%s: %td features cannot be divided into %d heads", tgnn_layer_name(r->l->kind),
                            width, heads);
}

static tiny_status tinyi_layer_gat(tinyi_layer_run *r, const tiny_tensor *x, const tiny_tensor *y,
                                   const tiny_tensor *alpha)
{
    const int heads = tinyi_layer_heads(r->l);
    tiny_tensor h, side[2], product, room, out = *y, cube, parts;
    const tiny_tensor *att;
    tiny_sddmm_params p;
    tiny_idx c;
    int k;
    tiny_status st;
    memset(&h, 0, sizeof h);
    memset(&p, 0, sizeof p);
    st = tinyi_layer_linear(r, x, 0, -1, TINY_ACT_NONE, &h);
    if (!st) st = tinyi_layer_split(r, h.dim[1], heads);
    if (st) return st;
    c = h.dim[1] / heads;
    st = tinyi_layer_room(r, r->n, h.dim[1], &product);
    for (k = 0; !st && k < 2; k++) {        /* att_src . h and att_dst . h, head by head */
        st = tinyi_layer_room(r, r->n, heads, &side[k]);
        if (!st) st = tinyi_layer_take(r->ctx, r->l, 1 + k, 2, heads, c, 1, &room, &att);
        if (st) return st;
        cube = tiny_tensor_3d(h.data, TINY_F32, r->n, heads, c);
        parts = tiny_tensor_3d(product.data, TINY_F32, r->n, heads, c);
        st = tiny_mul(r->ctx, &cube, att, &parts);
        if (!st) st = tiny_sum(r->ctx, &parts, NULL, &side[k]);
    }
    p.add = 1;
    p.heads = heads;
    p.slope = r->l->slope == 0.0f ? 0.2f : r->l->slope;
    if (!st && r->l->average) out = product;
    if (!st) st = tinyi_layer_attend(r, &side[1], &side[0], &h, NULL, NULL, &p, alpha, &out);
    return st ? st : tinyi_layer_heads_out(r, &out, heads, 3, y);
}

static tiny_status tinyi_layer_gatv2(tinyi_layer_run *r, const tiny_tensor *x, const tiny_tensor *y,
                                     const tiny_tensor *alpha)
{
    const int heads = tinyi_layer_heads(r->l);
    tiny_tensor left, right, room, flat, out = *y;
    const tiny_tensor *att;
    tiny_sddmm_params p;
    tiny_status st;
    memset(&left, 0, sizeof left);
    memset(&right, 0, sizeof right);
    memset(&p, 0, sizeof p);
    st = tinyi_layer_linear(r, x, 0, 1, TINY_ACT_NONE, &left);
    if (!st) st = tinyi_layer_linear(r, x, 2, 3, TINY_ACT_NONE, &right);
    if (!st) st = tinyi_layer_split(r, left.dim[1], heads);
    if (!st) st = tinyi_layer_take(r->ctx, r->l, 4, 2, heads, left.dim[1] / heads, 1, &room, &att);
    if (st) return st;
    if (!tiny_tensor_is_dense(att)) return tinyi_fail(r->ctx, TINY_E_SHAPE, "gatv2: att must be dense");
    flat = tiny_tensor_1d(att->data, TINY_F32, left.dim[1]);
    p.add = 1;
    p.heads = heads;
    p.slope = r->l->slope == 0.0f ? 0.2f : r->l->slope;
    if (r->l->average) st = tinyi_layer_room(r, r->n, left.dim[1], &out);
    if (!st) st = tinyi_layer_attend(r, &right, &left, &left, &flat, NULL, &p, alpha, &out);
    return st ? st : tinyi_layer_heads_out(r, &out, heads, 5, y);
}

/* the features of edges in the order of the rows */
static tiny_status tinyi_layer_edge_rows(tinyi_layer_run *r, const tgnn_graph *g, const tiny_tensor *e,
                                         tiny_tensor *out)
{
    tiny_tensor index = tiny_tensor_1d(g->in.source, TINY_I64, (tiny_idx)g->in.n);
    tiny_status st;
    if (e->rank != 2 || e->dtype != TINY_F32 || !g->in.source)
        return tinyi_fail(r->ctx, TINY_E_SHAPE, "%s: e must be f32 with a row for each edge of the input",
                          tgnn_layer_name(r->l->kind));
    st = tinyi_layer_room(r, (tiny_idx)g->in.n, e->dim[1], out);
    return st ? st : tiny_gather(r->ctx, e, &index, out);
}

static tiny_status tinyi_layer_gin(tinyi_layer_run *r, const tgnn_graph *g, const tiny_tensor *x, const tiny_tensor *e,
                                   const tiny_tensor *y)
{
    const int edges = r->l->kind == TGNN_LAYER_GINE && e;
    tiny_tensor sum, hidden, rows, room, out = *y;
    const tiny_tensor *eps;
    tiny_tensor message;
    tiny_status st;
    memset(&hidden, 0, sizeof hidden);
    memset(&message, 0, sizeof message);
    st = tinyi_layer_take(r->ctx, r->l, 4, 1, 1, 0, 0, &room, &eps);
    /* eps of PyG has rank 0 or 1 */
    if (st && r->l->w[4].data && r->l->w[4].rank == 0 && r->l->w[4].dtype == TINY_F32) {
        eps = &r->l->w[4];
        st = TINY_OK;
    }
    if (!st && edges) st = tinyi_layer_edge_rows(r, g, e, &rows);
    if (!st && edges) st = tinyi_layer_linear(r, &rows, 5, 6, TINY_ACT_NONE, &message);
    if (!st && edges && message.dim[1] != x->dim[1])
        st =
            tinyi_fail(r->ctx, TINY_E_SHAPE, "gine: lin gives %td numbers for %td features", message.dim[1], x->dim[1]);
    if (!st) st = tinyi_layer_room(r, r->n, x->dim[1], &sum);
    if (!st) st = tinyi_layer_sum(r, x, 0, edges ? &message : NULL, TINY_EDGE_SUM, r->l->kind == TGNN_LAYER_GINE, &sum);
    if (!st) st = tiny_axpy(r->ctx, x, 1.0f + (eps ? *(const float *)eps->data : r->l->eps), &sum);
    if (!st) st = tinyi_layer_linear(r, &sum, 0, 1, TINY_ACT_RELU, &hidden);
    return st ? st : tinyi_layer_linear(r, &hidden, 2, 3, TINY_ACT_NONE, &out);
}

static tiny_status tinyi_layer_transformer(tinyi_layer_run *r, const tgnn_graph *g, const tiny_tensor *x,
                                           const tiny_tensor *e, const tiny_tensor *y, const tiny_tensor *alpha)
{
    const int heads = tinyi_layer_heads(r->l);
    tiny_tensor q, k, v, skip, rows, message, out = *y;
    tiny_sddmm_params p;
    tiny_status st;
    memset(&q, 0, sizeof q);
    memset(&p, 0, sizeof p);
    k = v = skip = message = q;
    st = tinyi_layer_linear(r, x, 0, 1, TINY_ACT_NONE, &q);
    if (!st) st = tinyi_layer_linear(r, x, 2, 3, TINY_ACT_NONE, &k);
    if (!st) st = tinyi_layer_linear(r, x, 4, 5, TINY_ACT_NONE, &v);
    if (!st) st = tinyi_layer_split(r, v.dim[1], heads);
    if (!st && e && r->l->w[6].data) {
        st = tinyi_layer_edge_rows(r, g, e, &rows);
        if (!st) st = tinyi_layer_linear(r, &rows, 6, -1, TINY_ACT_NONE, &message);
    }
    if (st) return st;
    p.heads = heads;
    p.scale = (float)(1.0 / tinyi_sqrt64((double)(v.dim[1] / heads)));
    if (r->l->average) st = tinyi_layer_room(r, r->n, v.dim[1], &out);
    if (!st) st = tinyi_layer_attend(r, &q, &k, &v, NULL, message.data ? &message : NULL, &p, alpha, &out);
    if (!st) st = tinyi_layer_heads_out(r, &out, heads, -1, y);
    if (st || !r->l->w[7].data) return st;
    st = tinyi_layer_linear(r, x, 7, 8, TINY_ACT_NONE, &skip);
    if (!st && skip.dim[1] != y->dim[1])
        st = tinyi_fail(r->ctx, TINY_E_SHAPE, "transformer: lin_skip gives %td numbers, the heads %td", skip.dim[1],
                        y->dim[1]);
    return st ? st : tiny_add(r->ctx, y, &skip, y);
}

static tiny_status tinyi_layer_rgcn(tinyi_layer_run *r, const tiny_tensor *x, const tiny_tensor *y)
{
    tiny_tensor w_room, c_room, root_room, all, part, made, w2;
    const tiny_tensor *w, *comp, *root;
    tiny_idx n = x->dim[0], n_rel, k;
    tiny_status st = tinyi_layer_take(r->ctx, r->l, 3, 2, 0, 0, 0, &c_room, &comp);
    if (!st) st = tinyi_layer_take(r->ctx, r->l, 0, 3, comp ? comp->dim[1] : 0, x->dim[1], 1, &w_room, &w);
    if (!st) st = tinyi_layer_take(r->ctx, r->l, 1, 2, x->dim[1], y->dim[1], 0, &root_room, &root);
    if (st) return st;
    n_rel = comp ? comp->dim[0] : w->dim[0];
    if (r->n != n_rel * n)
        return tinyi_fail(r->ctx, TINY_E_SHAPE, "rgcn: the graph has %td rows, %td relations of %td nodes need %td",
                          r->n, n_rel, n, n_rel * n);
    if (!tiny_tensor_is_dense(w)) return tinyi_fail(r->ctx, TINY_E_SHAPE, "rgcn: weight must be dense");
    if (comp) {                             /* W_r = sum_b comp[r][b] V_b: one product */
        tiny_tensor flat = tiny_tensor_2d(w->data, TINY_F32, w->dim[0], w->dim[1] * w->dim[2]);
        st = tinyi_layer_room(r, n_rel, flat.dim[1], &made);
        if (!st) st = tiny_matmul(r->ctx, comp, &flat, NULL, TINY_ACT_NONE, &made);
        if (st) return st;
        w2 = tiny_tensor_3d(made.data, TINY_F32, n_rel, w->dim[1], w->dim[2]);
    } else w2 = *w;
    st = tinyi_layer_room(r, r->n, x->dim[1], &all);
    if (!st) st = tinyi_layer_sum(r, x, 0, NULL, TINY_EDGE_MEAN, 0, &all);
    if (!st) st = tinyi_layer_room(r, n, y->dim[1], &part);
    if (!st && root) st = tiny_matmul(r->ctx, x, root, NULL, TINY_ACT_NONE, y);
    else if (!st && tiny_tensor_count(y)) memset(y->data, 0, (size_t)tiny_tensor_count(y) * sizeof(float));
    for (k = 0; !st && k < n_rel; k++) {
        tiny_tensor rows = tiny_tensor_2d((float *)all.data + k * n * x->dim[1], TINY_F32, n, x->dim[1]);
        tiny_tensor weight =
            tiny_tensor_2d((float *)w2.data + k * w2.dim[1] * w2.dim[2], TINY_F32, w2.dim[1], w2.dim[2]);
        st = tiny_matmul(r->ctx, &rows, &weight, NULL, TINY_ACT_NONE, &part);
        if (!st) st = tiny_add(r->ctx, y, &part, y);
    }
    return st ? st : tinyi_layer_bias(r, 2, y);
}

static tiny_status tinyi_layer_spread(tinyi_layer_run *r, const tiny_tensor *x, const tiny_tensor *y)
{
    const int sgc = r->l->kind == TGNN_LAYER_SGC, steps = r->l->steps > 0 ? r->l->steps : sgc ? 2 : 10;
    const float alpha = r->l->alpha == 0.0f ? 0.1f : r->l->alpha;
    tiny_tensor z[2], out = *y, from = *x;
    int k;
    tiny_status st = tinyi_layer_room(r, r->n, x->dim[1], &z[0]);
    if (!st) st = tinyi_layer_room(r, r->n, x->dim[1], &z[1]);
    for (k = 0; !st && k < steps; k++) {
        const tiny_tensor *to = !sgc && k == steps - 1 ? y : &z[k & 1];
        st = tinyi_layer_sum(r, &from, 1, NULL, TINY_EDGE_SUM, 0, to);
        if (!st && !sgc) st = tiny_scale(r->ctx, to, 1.0f - alpha, 0.0f, to);
        if (!st && !sgc) st = tiny_axpy(r->ctx, x, alpha, to);
        from = *to;
    }
    if (!st && sgc && r->l->w[0].data) return tinyi_layer_linear(r, &from, 0, 1, TINY_ACT_NONE, &out);
    return !st && sgc ? tiny_copy(r->ctx, &from, y) : st;
}

TINY_API tiny_status tgnn_layer_run(tiny_ctx *ctx, const tgnn_layer *layer, const tgnn_graph *g, const tiny_tensor *x,
                                    const tiny_tensor *e, const tiny_tensor *y, const tiny_tensor *alpha)
{
    tinyi_layer_run r;
    tiny_idx width, n_y;
    const char *name;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!layer || !g || !x || !y || (unsigned)layer->kind >= (unsigned)TGNN_LAYER_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "layer: the layer, the graph, x or y is missing");
    name = tgnn_layer_name(layer->kind);
    if (tiny_tensor_check(x) || x->dtype != TINY_F32 || x->rank != 2 || tiny_tensor_check(y) || y->dtype != TINY_F32 ||
        y->rank != 2 || !tiny_tensor_is_dense(y))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x and y must be f32 of rank 2, and y dense", name);
    if (x->dim[0] != g->in.n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x has %td rows for %td nodes", name, x->dim[0], g->in.n_cols);
    if (g->in.n_rows != g->in.n_cols && layer->kind != TGNN_LAYER_RGCN)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: the graph has %td sources and %td destinations", name, g->in.n_cols,
                          g->in.n_rows);
    n_y = layer->kind == TGNN_LAYER_RGCN ? x->dim[0] : g->in.n_rows;
    width = layer->kind == TGNN_LAYER_SGC && !layer->w[0].data ? x->dim[1] : tgnn_layer_width(layer, x->dim[1]);
    if (y->dim[0] != n_y || y->dim[1] != width)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: y is %td x %td, the weights give %td x %td", name, y->dim[0],
                          y->dim[1], n_y, width);
    memset(&r, 0, sizeof r);
    r.ctx = ctx;
    r.l = layer;
    r.n = g->in.n_rows;
    r.offset = tiny_tensor_1d(g->in.offset, TINY_I64, g->in.n_rows + 1);
    r.col = tiny_tensor_1d(g->in.col, TINY_I32, (tiny_idx)g->in.n);
    r.value = tiny_tensor_1d(g->in.value, TINY_F32, (tiny_idx)g->in.n);
    if ((layer->kind == TGNN_LAYER_GCN || layer->kind == TGNN_LAYER_SGC || layer->kind == TGNN_LAYER_APPNP) &&
        !g->in.value)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: the graph is not normalised; use the graph of tgnn_layer_graph", name);
    switch (layer->kind) {
    case TGNN_LAYER_GCN: st = tinyi_layer_gcn(&r, x, y); break;
    case TGNN_LAYER_SAGE: st = tinyi_layer_sage(&r, x, y); break;
    case TGNN_LAYER_GAT: st = tinyi_layer_gat(&r, x, y, alpha); break;
    case TGNN_LAYER_GATV2: st = tinyi_layer_gatv2(&r, x, y, alpha); break;
    case TGNN_LAYER_GIN: case TGNN_LAYER_GINE: st = tinyi_layer_gin(&r, g, x, e, y); break;
    case TGNN_LAYER_RGCN: st = tinyi_layer_rgcn(&r, x, y); break;
    case TGNN_LAYER_TRANSFORMER: st = tinyi_layer_transformer(&r, g, x, e, y, alpha); break;
    default: st = tinyi_layer_spread(&r, x, y); break;
    }
    while (r.n_held) tiny_free(ctx, r.held[--r.n_held]);
    return st;
}

/* ---- weights from a file */

TINY_API void tgnn_layer_free(tiny_ctx *ctx, tgnn_layer *l)
{
    int i;
    if (!l) return;
    for (i = 0; i < TGNN_LAYER_WEIGHTS; i++) tiny_free(ctx, l->owned[i]);
    memset(l, 0, sizeof *l);
}

TINY_API tiny_status tgnn_layer_read(tiny_ctx *ctx, const char *path, const char *prefix, tgnn_layer_kind kind,
                                     tgnn_layer *out)
{
    tiny_file f;
    int i, found = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!path || !out || (unsigned)kind >= (unsigned)TGNN_LAYER_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "layer: the path or the output is missing, or the kind is invalid");
    memset(out, 0, sizeof *out);
    out->kind = kind;
    st = tiny_file_open(ctx, path, &f);
    for (i = 0; !st && i < TGNN_LAYER_WEIGHTS && tinyi_layer_weights[kind][i]; i++) {
        char member[200], file[208];
        tgnn_array a;
        if (snprintf(member, sizeof member, "%s%s", prefix ? prefix : "", tinyi_layer_weights[kind][i]) >=
            (int)sizeof member) {
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the prefix of a weight is too long", path);
            break;
        }
        (void)snprintf(file, sizeof file, "%s.npy", member);
        if (!tinyi_zip_has(f.bytes, f.n_bytes, file)) continue;
        st = tgnn_array_read_memory(ctx, path, f.bytes, f.n_bytes, member, &a);
        if (st) break;
        out->w[i] = a.t;
        out->owned[i] = a.t.data;
        found++;
        if (a.t.dtype != TINY_F32)
            st = tinyi_fail(ctx, TINY_E_DTYPE, "%s: %s is %s, weights are f32", path, member,
                            tiny_dtype_name(a.t.dtype));
    }
    if (!st && !found && tinyi_layer_weights[kind][0])
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: there is no weight %s%s", path, prefix ? prefix : "",
                        tinyi_layer_weights[kind][0]);
    tiny_file_close(ctx, &f);
    if (st) tgnn_layer_free(ctx, out);
    else out->heads = kind == TGNN_LAYER_GAT || kind == TGNN_LAYER_GATV2 ? tinyi_layer_heads(out) : 0;
    return st;
}
