/* src/gnn/graph/graph.h - graphs: edges by destination and by source, normalisation, orders, batches
 *
 * An edge s -> d carries a message from its source s to its destination d. The graph holds a row of edges for each
 * destination (tgnn_graph_in). The first call of tgnn_graph_out makes the rows of the sources. Both are plain
 * tiny_sparse matrices: all functions of math/sparse.h and math/edges.h take them. The columns of a row ascend; edges
 * between the same two nodes keep their order. Weights and features of edges are in the order of tgnn_graph_in:
 * source[p] of that matrix is the number of the edge in the input, -1 for an added loop.
 *
 * A graph belongs to the context that made it, and does not change. Several threads may read one graph, each with its
 * own context, after one call of tgnn_graph_out. */
#ifndef TINYI_GRAPH_H
#define TINYI_GRAPH_H
#include "core/file.h"
#include "math/sparse.h"
TINYI_C_BEGIN

typedef struct tgnn_graph tgnn_graph;

typedef struct tgnn_edges {                 /* a view: the arrays are yours */
    /* 0: one more than the largest number; set both to the same value unless the graph is bipartite */
    tiny_idx n_src, n_dst;
    int64_t n;
    const int32_t *src, *dst;
    const float *weight;                    /* NULL: every edge weighs 1 */
} tgnn_edges;

typedef struct tgnn_graph_desc {            /* all zero: the edges unchanged, one set of nodes */
    tiny_idx n_nodes;                       /* the least number of nodes; 0: from the edges or the file */
    tiny_duplicates duplicates;             /* how several edges from s to d are merged */
    int symmetrize;                         /* adds the reverse of each edge, with the same edge number */
    int drop_loops;
    int add_loops;                          /* adds a loop of weight 1 to every node that has none */
    /* sources and destinations are two sets of nodes; no symmetrize, no loops */
    int bipartite;
} tgnn_graph_desc;

/* Checks every number. desc may be NULL. */
TINY_API tiny_status tgnn_graph_make(tiny_ctx *ctx, const tgnn_edges *edges, const tgnn_graph_desc *desc,
                                     tgnn_graph **out);
/* From a matrix of any form, rows = destinations. Checks and copies it. */
TINY_API tiny_status tgnn_graph_from_sparse(tiny_ctx *ctx, const tiny_sparse *a, tgnn_graph **out);
TINY_API void tgnn_graph_close(tiny_ctx *ctx, tgnn_graph *g);      /* takes NULL */

TINY_API tiny_idx tgnn_graph_nodes(const tgnn_graph *g);           /* destinations */
TINY_API tiny_idx tgnn_graph_sources(const tgnn_graph *g);
TINY_API int64_t tgnn_graph_edges(const tgnn_graph *g);
TINY_API const tiny_sparse *tgnn_graph_in(const tgnn_graph *g);    /* CSR: row d, columns its sources */
/* CSR: row s, columns its destinations; source[q] is the position p of that edge in tgnn_graph_in. */
TINY_API tiny_status tgnn_graph_out(tiny_ctx *ctx, tgnn_graph *g, const tiny_sparse **out);

/* degree (n): the sum of the weights of the edges into each destination; with by_source, of the edges out of each
 * source. With counted every edge counts 1. */
TINY_API tiny_status tgnn_graph_degrees(tiny_ctx *ctx, tgnn_graph *g, int by_source, int counted, float *degree);

/* A new graph with the normalised weights that convolutions need.
 *   SYMMETRIC  w / sqrt(degree of the source) / sqrt(degree of the destination), both degrees by destination as in GCN
 *              (eq. 2 of Kipf and Welling); a degree of 0 gives 0
 *   ROW        w / degree of the destination: each row sums to 1 */
typedef enum tgnn_norm { TGNN_NORM_NONE, TGNN_NORM_SYMMETRIC, TGNN_NORM_ROW } tgnn_norm;
typedef struct tgnn_normalize_desc {
    tgnn_norm norm;
    int ignore_weights;                     /* every edge weighs 1 */
    /* first gives every node exactly one loop, with the weight of its last loop, or 1 if it had none */
    int add_loops;
    int drop_loops;                         /* first removes all loops; those of add_loops then weigh 1 */
} tgnn_normalize_desc;
TINY_API tiny_status tgnn_graph_normalize(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_normalize_desc *desc,
                                          tgnn_graph **out);

/* Node order[i] becomes node i, as source and as destination. order holds every node once. Edges keep their numbers. */
TINY_API tiny_status tgnn_graph_permute(tiny_ctx *ctx, const tgnn_graph *g, const uint32_t *order, tgnn_graph **out);

/* The subgraph induced by node[0 .. n - 1], each of them once: node[i] becomes node i. Edges keep their numbers. */
TINY_API tiny_status tgnn_graph_induced(tiny_ctx *ctx, const tgnn_graph *g, const int32_t *node, tiny_idx n,
                                        tgnn_graph **out);

/* An order of the nodes that puts neighbours close together, or hubs first.
 *   DEGREE  most edges first
 *   BFS     breadth first from the node of least degree of each component
 *   RCM     reverse Cuthill-McKee: breadth first, neighbours by ascending degree, then reversed
 *           (E. Cuthill, J. McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969; A. George, 1971)
 * Edges count in both directions. */
typedef enum tgnn_order_kind { TGNN_ORDER_DEGREE, TGNN_ORDER_BFS, TGNN_ORDER_RCM } tgnn_order_kind;
TINY_API tiny_status tgnn_graph_order(tiny_ctx *ctx, tgnn_graph *g, tgnn_order_kind kind, uint32_t *order);

/* Joins several graphs into one (the block-diagonal union of a batch): nodes and edges follow one another. Graph i has
 * the nodes graph_at[i] .. graph_at[i + 1] - 1. The n + 1 numbers of graph_at are also the offsets of a segment
 * reduction over graphs. Graphs may be empty. Edge numbers of a graph follow the highest number of the previous one. */
TINY_API tiny_status tgnn_graph_batch(tiny_ctx *ctx, const tgnn_graph *const *graphs, tiny_idx n, int64_t *graph_at,
                                      tgnn_graph **out);

/* Synthetic graphs. The same seed gives the same graph on every machine.
 *   planted  n nodes in k classes; node i has class i % k. On average `degree` edges are drawn for each node. A share
 *            `inside` of them goes to its own class, the others go to a class drawn from all k. Both directions,
 *            without loops and duplicates.
 *   rmat     2^scale nodes, n_edges edges by the recursive quadrants .57 .19 .19 .05 with 10% noise on each level, node
 *            numbers shuffled (D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT", 2004). Degrees follow a power law.
 *            Duplicates are kept. */
TINY_API tiny_status tgnn_planted(tiny_ctx *ctx, tiny_idx n, int k, double degree, double inside, uint64_t seed,
                                  tgnn_graph **out);
TINY_API tiny_status tgnn_rmat(tiny_ctx *ctx, int scale, int64_t n_edges, uint64_t seed, tgnn_graph **out);

TINYI_C_END
#endif
