/* src/gnn/graph/community.h - communities of a graph, and a node order that keeps each community together
 *
 *   tgnn_communities(ctx, graph, NULL, label, &n_label);
 *   tgnn_order_by_part(ctx, n, n_label, label, order);
 *   tgnn_graph_permute(ctx, graph, order, &near);          sums over the edges of `near` use the cache better
 *   tiny_gather(ctx, &x, &order_as_tensor, &x_near);       features in the same order */
#ifndef TINYI_COMMUNITY_H
#define TINYI_COMMUNITY_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

typedef struct tgnn_communities_desc {      /* all zero: up to 6 rounds, communities of up to about 4096 nodes */
    int rounds;                             /* 0: 6 */
    /* a community of this size accepts no more nodes, see below; 0: 4096; negative: no limit */
    tiny_idx most_nodes;
    uint64_t seed;                          /* decides between labels that are equally frequent */
} tgnn_communities_desc;

/* Label propagation: in each round a node takes the most frequent label among the sources of its edges. If its own
 * label is one of several most frequent ones, it keeps that. The rounds end when at most one node in fifty changes.
 * Nodes are updated in 8 groups, one after the other; 64 consecutive nodes are in the same group. Nodes of one group do
 * not see each other's changes. So a community may exceed most_nodes by the nodes that one group adds. Between two
 * communities of one node each, only the node with the larger number moves. label[v] is 0 .. *n_label - 1, in the order
 * of the first node of each label. The same seed gives the same labels with any number of threads. */
TINY_API tiny_status tgnn_communities(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_communities_desc *desc,
                                      int32_t *label, tiny_idx *n_label);
/* Sorts the nodes by part or label (0 .. k - 1), then by number: an order for tgnn_graph_permute. */
TINY_API tiny_status tgnn_order_by_part(tiny_ctx *ctx, tiny_idx n, tiny_idx k, const int32_t *part, uint32_t *order);

TINYI_C_END
#endif
