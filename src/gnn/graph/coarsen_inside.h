/* src/gnn/graph/coarsen_inside.h - the levels of a multilevel method: a graph, and smaller ones that look like it */
#ifndef TINYI_COARSEN_H
#define TINYI_COARSEN_H
#include "gnn/graph/graph_inside.h"
TINYI_C_BEGIN

/* An undirected graph with whole numbers as weights: each edge stands in the rows of both its ends, loops are left
 * out. */
typedef struct tinyi_level {
    tiny_idx n;
    int64_t *offset;                        /* n + 1 */
    int32_t *col, *weight;                  /* of the edges, by rows */
    int32_t *node_weight;                   /* n */
    int32_t heaviest;                       /* of node_weight */
    int32_t *up;                            /* n: the node of the next level that each became; NULL at the last */
} tinyi_level;

/* g in both directions: the weight between u and v is the sum over the edges u -> v and v -> u. edge_weights: what the
 * edges weigh, rounded to 1/1048576 of the heaviest, and at least that where it is not 0; else each counts 1.
 * node_weight NULL: ones. */
TINYI_FN tiny_status tinyi_level_make(tiny_ctx *ctx, tgnn_graph *g, const int32_t *node_weight, int edge_weights,
                                      tinyi_level *l);
/* Heavy-edge matching: pairs of nodes that weigh at most `most` together become one. Fills fine->up. */
TINYI_FN tiny_status tinyi_level_shrink(tiny_ctx *ctx, tinyi_level *fine, int64_t most, uint64_t seed,
                                        tinyi_level *coarse);
TINYI_FN void tinyi_level_free(tiny_ctx *ctx, tinyi_level *l);

TINYI_C_END
#endif
