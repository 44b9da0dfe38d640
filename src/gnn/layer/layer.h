/* src/gnn/layer/layer.h - graph convolutions, with weights from PyTorch Geometric
 *
 *   tgnn_layer conv1;
 *   tgnn_layer_read(ctx, "model.npz", "conv1.", TGNN_LAYER_GCN, &conv1);          weights by their names
 *   tgnn_layer_graph(ctx, &conv1, g, NULL, 0, &s);                                once for each graph
 *   tgnn_layer_run(ctx, &conv1, s, &x, NULL, &y, NULL);
 *
 * Weight matrices are (out, in), as in torch.nn.Linear: y = x W' + b. Those of R-GCN are (relations, in, out).
 * Names are those of the state_dict of the layer; (1, heads, c) counts as (heads, c). A missing weight has data NULL
 * and its term is skipped. x_j: features of a source, x_i: of the destination; sums go over the edges j -> i. S: the
 * normalised adjacency matrix.
 *
 * Each kind: its formula, then the names of its weights.
 *
 *   GCN          sum norm_ij x_j W' + b
 *                lin.weight bias
 *   SAGE         aggr_j(x_j) W_l' + b_l + x_i W_r'
 *                lin_l.weight lin_l.bias lin_r.weight
 *   GAT          sum alpha_ij h_j + b, h = x W', alpha = softmax of leaky(att_src . h_j + att_dst . h_i) for each head
 *                lin.weight att_src att_dst bias
 *   GATV2        sum alpha_ij l_j + b, l = x W_l' + b_l, r = x W_r' + b_r, alpha = softmax of att . leaky(l_j + r_i)
 *                lin_l.weight lin_l.bias lin_r.weight lin_r.bias att bias
 *   GIN          mlp((1 + eps) x_i + sum x_j), mlp: Linear, ReLU, Linear
 *                nn.0.weight nn.0.bias nn.2.weight nn.2.bias eps
 *   GINE         the same with relu(x_j + e_ij W_e' + b_e) in place of x_j
 *                the five of GIN, lin.weight lin.bias
 *   RGCN         x_i root + b + sum_r mean over relation r of x_j W_r; with comp, W_r = sum_b comp[r][b] weight[b]
 *                weight root bias comp
 *   TRANSFORMER  sum alpha_ij (v_j + e_ij W_e') + x_i W_s' + b_s, alpha = softmax of q_i . (k_j + e_ij W_e') / sqrt c
 *                lin_query.weight .bias lin_key.weight .bias lin_value.weight .bias
 *                lin_edge.weight lin_skip.weight .bias
 *   SGC          S^steps x W' + b
 *                lin.weight lin.bias
 *   APPNP        z = (1 - alpha) S z + alpha x, steps times, from x
 *                no weights */
#ifndef TINYI_GNN_LAYER_H
#define TINYI_GNN_LAYER_H
#include "math/edges_score.h"
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

#define TGNN_LAYERS(L)                                                                                                \
    L(GCN, "gcn") L(SAGE, "sage") L(GAT, "gat") L(GATV2, "gatv2") L(GIN, "gin") L(GINE, "gine") L(RGCN, "rgcn")       \
    L(TRANSFORMER, "transformer") L(SGC, "sgc") L(APPNP, "appnp")
#define TGNN_LAYER_ENUM(name, text) TGNN_LAYER_##name,
typedef enum tgnn_layer_kind { TGNN_LAYERS(TGNN_LAYER_ENUM) TGNN_LAYER_COUNT } tgnn_layer_kind;
#undef TGNN_LAYER_ENUM

#define TGNN_LAYER_WEIGHTS 9
typedef struct tgnn_layer {
    tgnn_layer_kind kind;
    int heads;                              /* attention: 0 means 1, or the number in the weight att */
    int average;                            /* attention: average the heads; else concatenate them */
    /* SAGE: a tiny_edge_reduce; 0 is TINY_EDGE_SUM; PyG's default is TINY_EDGE_MEAN */
    int aggr;
    int normalize;                          /* SAGE: scale the rows of y to length 1 */
    int no_loops;                           /* GCN, SGC, APPNP, GAT, GATV2: add no loops to the graph */
    /* GCN, SGC, APPNP: use the weights of the graph; else every edge weighs 1 */
    int weighted;
    int steps;                              /* SGC: 0 means 2; APPNP: 0 means 10 */
    float alpha;                            /* APPNP: 0 means 0.1 */
    float slope;                            /* GAT, GATV2: 0 means 0.2 */
    float eps;                              /* GIN, GINE: used if there is no weight eps */
    tiny_tensor w[TGNN_LAYER_WEIGHTS];      /* f32, in the order of the names above; views */
    void *owned[TGNN_LAYER_WEIGHTS];        /* memory of tgnn_layer_read */
} tgnn_layer;

TINY_API const char *tgnn_layer_name(tgnn_layer_kind kind);        /* "gcn"; "?" for an unknown one */
/* the name of weight i, such as "lin.weight"; NULL: the kind has no such weight */
TINY_API const char *tgnn_layer_weight(tgnn_layer_kind kind, int i);

/* Makes the graph that the layer sums over: adds loops, normalises, splits relations. relation: for RGCN the relation
 * of each edge in the order of the input, 0 .. relations - 1 of the layer's weights; n_relation: the number of edges.
 * For other kinds pass NULL and 0. Close *out with tgnn_graph_close. */
TINY_API tiny_status tgnn_layer_graph(tiny_ctx *ctx, const tgnn_layer *layer, const tgnn_graph *g,
                                      const int32_t *relation, int64_t n_relation, tgnn_graph **out);

/* y (nodes, out) from x (nodes, in). e (edges in the order of the input, features) is for GINE and TRANSFORMER, and may
 * be NULL. alpha (edges of the layer's graph, heads) receives the attention of GAT, GATV2 and TRANSFORMER, or is NULL.
 * Memory for intermediate results is taken from the context and freed. */
TINY_API tiny_status tgnn_layer_run(tiny_ctx *ctx, const tgnn_layer *layer, const tgnn_graph *g, const tiny_tensor *x,
                                    const tiny_tensor *e, const tiny_tensor *y, const tiny_tensor *alpha);
/* The width of y; 0: the weights do not fit together. */
TINY_API tiny_idx tgnn_layer_width(const tgnn_layer *layer, tiny_idx n_in);

/* Reads weights with the names prefix + name of the table above from a .npz file. Python writes one with
 * numpy.savez(path, **{k: v.numpy() for k, v in model.state_dict().items()}). Weights that the file does not have get
 * data NULL. kind and heads are set, all other members are 0. */
TINY_API tiny_status tgnn_layer_read(tiny_ctx *ctx, const char *path, const char *prefix, tgnn_layer_kind kind,
                                     tgnn_layer *out);
TINY_API void tgnn_layer_free(tiny_ctx *ctx, tgnn_layer *layer);   /* takes NULL */

TINYI_C_END
#endif
