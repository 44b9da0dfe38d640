/* src/gnn/graph/community.h - communities of a graph, and the order of nodes that puts what belongs together near each
 * other
 *
 *   tgnn_communities(ctx, graph, NULL, label, &n_label);
 *   tgnn_order_by_part(ctx, n, n_label, label, order);
 *   tgnn_graph_permute(ctx, graph, order, &near);          sums over the edges of `near` find their rows in the cache
 *   tiny_gather(ctx, &x, &order_as_tensor, &x_near);       features in the same order */
#ifndef TINYI_COMMUNITY_H
#define TINYI_COMMUNITY_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

typedef struct tgnn_communities_desc {      /* all zero: up to 6 rounds, communities of up to about 4096 nodes */
    int rounds;                             /* 0: 6 */
    /* a community with so many takes nobody more, see below; 0: 4096; negative: no limit */
    tiny_idx most_nodes;
    uint64_t seed;                          /* decides between labels that are equally frequent */
} tgnn_communities_desc;

/* Label propagation: in each round a node takes the label that most of its edges come from, its own where that is one
 * of several, until no more than one node in fifty changes. Nodes go in 8 groups (64 neighbouring numbers at a time),
 * one after the other: those of one group do not see each other's change, so a community may pass most_nodes by what
 * one group adds, and of two nodes that are alone only the one with the larger number moves. label[v] is 0 .. *n_label
 * - 1, numbered by the first node of each. The same seed gives the same labels with any number of threads. */
TINY_API tiny_status tgnn_communities(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_communities_desc *desc,
                                      int32_t *label, tiny_idx *n_label);
/* Nodes by part or label (0 .. k - 1), in each by number: an order for tgnn_graph_permute. */
TINY_API tiny_status tgnn_order_by_part(tiny_ctx *ctx, tiny_idx n, tiny_idx k, const int32_t *part, uint32_t *order);

TINYI_C_END
#endif
