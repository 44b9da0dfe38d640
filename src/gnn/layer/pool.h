/* src/gnn/layer/pool.h - top-k pooling: each graph of a batch keeps its best nodes
 *
 *   tiny_tensor s = tiny_tensor_1d(room, TINY_F32, n);
 *   tgnn_pool top;
 *   tgnn_pool_score(ctx, &x, &p, &s);                              s = x p / |p|, p: the weight of TopKPooling
 *   tgnn_pool_make(ctx, g, graph_at, n_graphs, &s, 0.5, &top);     keeps half of each graph and the edges inside it
 *   tgnn_pool_run(ctx, &top, &x, &s, &y);                          y (top.n, features): kept rows times tanh of their
 *                                                                  score
 *   ... layers on top.graph with top.graph_at ...
 *   tgnn_pool_free(ctx, &top);
 *
 * Graph U-Nets (H. Gao, S. Ji, 2019, arXiv 1905.05178, eq. 2). The results are those of TopKPooling in PyTorch
 * Geometric with its defaults; p is its select.weight. To unpool, call tiny_scatter_add with top.node. On a tape use
 * tgnn_tape_pool_score, tgnn_pool_make and tgnn_tape_pool: x and p get gradients, the choice of nodes has none. */
#ifndef TINYI_GNN_POOL_H
#define TINYI_GNN_POOL_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

typedef struct tgnn_pool {
    tiny_idx n, n_graphs;                   /* n: number of nodes that are kept */
    /* their numbers in the old graph, in each graph the highest score first; of equal scores the lower number first */
    int32_t *node;
    int64_t *graph_at;                      /* where each graph begins among them, n_graphs + 1 */
    tgnn_graph *graph;                      /* node[i] becomes node i; edges keep their numbers */
} tgnn_pool;

/* score (nodes) f32, x (nodes, f), p of f numbers, not all 0. */
TINY_API tiny_status tgnn_pool_score(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *p,
                                     const tiny_tensor *score);
/* ratio: 0 < ratio < 1 keeps ceil(ratio * nodes) of each graph, computed in float as PyTorch does. A ratio of 1 or more
 * keeps that many nodes, or all if there are fewer. graph_at NULL: all are one graph. score: n numbers in any shape, no
 * NaN. */
TINY_API tiny_status tgnn_pool_make(tiny_ctx *ctx, const tgnn_graph *g, const int64_t *graph_at, tiny_idx n_graphs,
                                    const tiny_tensor *score, double ratio, tgnn_pool *out);
TINY_API tiny_status tgnn_pool_run(tiny_ctx *ctx, const tgnn_pool *pool, const tiny_tensor *x, const tiny_tensor *score,
                                   const tiny_tensor *y);
TINY_API void tgnn_pool_free(tiny_ctx *ctx, tgnn_pool *pool);      /* takes NULL, and one that failed to be made */

TINYI_C_END
#endif
