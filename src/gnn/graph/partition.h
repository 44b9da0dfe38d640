/* src/gnn/graph/partition.h - a graph in k parts of one size, with few edges between them
 *
 *   int32_t *part = ...;                                     one for each node
 *   tgnn_partition_info info;
 *   tgnn_partition(ctx, graph, 8, NULL, part, &info);        part[v] is 0 .. 7; info.cut edges cross
 *
 * Edges count in both directions, loops do not matter. The same seed gives the same parts on every machine with any
 * number of threads. */
#ifndef TINYI_PARTITION_H
#define TINYI_PARTITION_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

typedef struct tgnn_partition_desc {        /* all zero: nodes and edges count 1, 3 % of room */
    /* a part weighs at most (1 + imbalance) of the mean, see info.limit; 0: 0.03 */
    double imbalance;
    const int32_t *node_weight;             /* of each node, 0 or more; NULL: ones. Together up to 2147483647 */
    int edge_weights;                       /* edges count as much as they weigh (finite, not negative); else 1 */
    /* first halves that are grown for each cut in two; 0: 8, or 2 where the graph did not get small */
    int tries;
    int passes;                             /* of refinement on each level; 0: 8 */
    uint64_t seed;
} tgnn_partition_desc;

typedef struct tgnn_partition_info {
    /* weight of the graph's edges between parts, counted anew on the graph as it is: an */
    double cut;
    /*   undirected edge that stands there in both directions counts twice; and how many */
    int64_t cut_edges;
    int64_t heaviest, lightest;             /* parts */
    /* no part of tgnn_partition or tgnn_partition_stream is heavier: (1 + imbalance) of the mean, rounded */
    int64_t limit;
                                            /*   down, or the mean, rounded up, plus the heaviest node less 1, where
                                             *   that is more */
    int levels;                             /* graphs on the way down, the first included; 0: none was made */
} tgnn_partition_info;

/* 1 <= k <= nodes (k = 1 also for none). Every part has a node. info may be NULL. Memory while it works: about 50 bytes
 * an edge of g and 150 a node. */
TINY_API tiny_status tgnn_partition(tiny_ctx *ctx, tgnn_graph *g, int k, const tgnn_partition_desc *desc, int32_t *part,
                                    tgnn_partition_info *info);
/* One look at each node, for graphs that are too large for that: node v goes where the most of its neighbours are
 * already, less the fuller the part is (I. Stanton, G. Kliot, "Streaming Graph Partitioning for Large Distributed
 * Graphs", 2012, linear deterministic greedy). Only edges into v are looked at. No part is heavier than the limit;
 * parts may be empty. edge_weights, tries, passes and seed mean nothing here. */
TINY_API tiny_status tgnn_partition_stream(tiny_ctx *ctx, const tgnn_graph *g, int k, const tgnn_partition_desc *desc,
                                           int32_t *part, tgnn_partition_info *info);
/* What parts from anywhere cut and weigh. desc: node_weight, edge_weights, imbalance; NULL: none. */
TINY_API tiny_status tgnn_partition_measure(tiny_ctx *ctx, const tgnn_graph *g, int k, const tgnn_partition_desc *desc,
                                            const int32_t *part, tgnn_partition_info *info);

TINYI_C_END
#endif
