/* src/gnn/graph/partition.h - cuts a graph into k parts of about equal size with few edges between them
 *
 *   int32_t *part = ...;                                     one for each node
 *   tgnn_partition_info info;
 *   tgnn_partition(ctx, graph, 8, NULL, part, &info);        part[v] is 0 .. 7; info.cut edges cross
 *
 * Edges count in both directions, loops are ignored. The same seed gives the same parts on every machine with any
 * number of threads. */
#ifndef TINYI_PARTITION_H
#define TINYI_PARTITION_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

typedef struct tgnn_partition_desc {        /* all zero: nodes and edges count 1, imbalance 0.03 */
    /* a part weighs at most (1 + imbalance) times the mean, see info.limit; 0: 0.03 */
    double imbalance;
    const int32_t *node_weight;             /* of each node, at least 0; NULL: ones. Their sum: up to 2147483647 */
    int edge_weights;                       /* use the weights of edges (finite, not negative); else each counts 1 */
    /* initial halves that are tried for each bisection; 0: 8, or 2 if coarsening left a large graph */
    int tries;
    int passes;                             /* of refinement on each level; 0: 8 */
    uint64_t seed;
} tgnn_partition_desc;

typedef struct tgnn_partition_info {
    /* Weight and number of the edges between parts. If the graph has both directions of an edge, it counts twice. */
    double cut;
    int64_t cut_edges;
    int64_t heaviest, lightest;             /* weights of parts */
    /* The largest weight that tgnn_partition and tgnn_partition_stream allow for a part. It is the larger of two
     * numbers: (1 + imbalance) times the mean, rounded down; and the mean, rounded up, plus the heaviest node less
     * 1. */
    int64_t limit;
    int levels;                             /* number of graphs, g and the coarsened ones; 0: none was made */
} tgnn_partition_info;

/* 1 <= k <= nodes (k = 1 also for an empty graph). Every part has a node. info may be NULL. While it works it needs
 * about 50 bytes for each edge of g and 150 for each node. */
TINY_API tiny_status tgnn_partition(tiny_ctx *ctx, tgnn_graph *g, int k, const tgnn_partition_desc *desc, int32_t *part,
                                    tgnn_partition_info *info);
/* One pass over the nodes, for graphs that are too large for tgnn_partition. Each node goes to the part that already
 * has the largest number of its neighbours; fuller parts score lower (I. Stanton, G. Kliot, "Streaming Graph
 * Partitioning for Large Distributed Graphs", 2012, linear deterministic greedy). Only edges into the node count. No
 * part is heavier than the limit; parts may be empty. edge_weights, tries, passes and seed are ignored. */
TINY_API tiny_status tgnn_partition_stream(tiny_ctx *ctx, const tgnn_graph *g, int k, const tgnn_partition_desc *desc,
                                           int32_t *part, tgnn_partition_info *info);
/* Measures the cut and the weights of any partition. It uses node_weight, edge_weights and imbalance of desc, which may
 * be NULL. */
TINY_API tiny_status tgnn_partition_measure(tiny_ctx *ctx, const tgnn_graph *g, int k, const tgnn_partition_desc *desc,
                                            const int32_t *part, tgnn_partition_info *info);

TINYI_C_END
#endif
