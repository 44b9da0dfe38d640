/* src/gnn/graph/graph.h - a graph: edges by destination, by source, and what layers want of them
 *
 * An edge s -> d carries a message from its source s to its destination d. The graph holds compressed rows of
 * destinations (tgnn_graph_in); the rows of sources are made when they are first asked for (tgnn_graph_out). Both are
 * plain tiny_sparse matrices, so everything of math/sparse.h and math/graph.h takes them as they are. Rows ascend;
 * edges at one place keep their order. What the edges carry (weights, features) stands in the order of the rows of
 * tgnn_graph_in: number source[p] of that matrix is the number of the edge as it was given, -1 for a loop that was
 * added.
 *
 * A graph belongs to the context that made it, and does not change. Two threads may read one graph when tgnn_graph_out
 * was called before. */
#ifndef TINYI_GRAPH_H
#define TINYI_GRAPH_H
#include "core/file.h"
#include "math/sparse.h"
TINYI_C_BEGIN

typedef struct tgnn_graph tgnn_graph;

typedef struct tgnn_edges {                 /* a view: the arrays are yours */
    /* 0: one more than the largest number; for one set of nodes give both the same */
    tiny_idx n_src, n_dst;
    int64_t n;
    const int32_t *src, *dst;
    const float *weight;                    /* NULL: every edge weighs 1 */
} tgnn_edges;

typedef struct tgnn_graph_desc {            /* all zero: the edges as they are, between one set of nodes */
    tiny_idx n_nodes;                       /* at least so many; 0: as many as the edges name, or the file says */
    tiny_duplicates duplicates;             /* several edges from s to d */
    int symmetrize;                         /* each edge in both directions; both carry its number */
    int drop_loops;
    int add_loops;                          /* a loop of weight 1 for every node that has none */
    /* sources and destinations are two sets of nodes: no symmetrize, no loops */
    int bipartite;
} tgnn_graph_desc;

/* Every number is checked. desc may be NULL. */
TINY_API tiny_status tgnn_graph_make(tiny_ctx *ctx, const tgnn_edges *edges, const tgnn_graph_desc *desc,
                                     tgnn_graph **out);
/* From a matrix of any form, rows = destinations; it is checked and copied. */
TINY_API tiny_status tgnn_graph_from_sparse(tiny_ctx *ctx, const tiny_sparse *a, tgnn_graph **out);
TINY_API void tgnn_graph_close(tiny_ctx *ctx, tgnn_graph *g);      /* takes NULL */

TINY_API tiny_idx tgnn_graph_nodes(const tgnn_graph *g);           /* destinations */
TINY_API tiny_idx tgnn_graph_sources(const tgnn_graph *g);
TINY_API int64_t tgnn_graph_edges(const tgnn_graph *g);
TINY_API const tiny_sparse *tgnn_graph_in(const tgnn_graph *g);    /* CSR: row d, columns its sources */
/* CSR: row s, columns its destinations; source[q] is the place p of that edge in tgnn_graph_in. */
TINY_API tiny_status tgnn_graph_out(tiny_ctx *ctx, tgnn_graph *g, const tiny_sparse **out);

/* Sum of the weights of each row into degree[n]; by_source: of each source. counted: 1 for each edge, whatever it
 * weighs. */
TINY_API tiny_status tgnn_graph_degrees(tiny_ctx *ctx, tgnn_graph *g, int by_source, int counted, float *degree);

/* The weights that convolutions want, as a new graph.
 *   SYMMETRIC  w / sqrt(degree of the source) / sqrt(degree of the destination), both by destination as in GCN (eq. 2
 *              of Kipf and Welling); a degree of 0 gives 0
 *   ROW        w / degree of the destination: each row sums to 1 */
typedef enum tgnn_norm { TGNN_NORM_NONE, TGNN_NORM_SYMMETRIC, TGNN_NORM_ROW } tgnn_norm;
typedef struct tgnn_normalize_desc {
    tgnn_norm norm;
    int ignore_weights;                     /* as if every edge weighed 1 */
    /* before: every node gets exactly one loop, of weight 1 or of what its last one weighed */
    int add_loops;
    int drop_loops;                         /* before: none is left; with add_loops, each weighs 1 */
} tgnn_normalize_desc;
TINY_API tiny_status tgnn_graph_normalize(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_normalize_desc *desc,
                                          tgnn_graph **out);

/* Node order[i] becomes node i, on both sides; order names every node once. Edge numbers stay those of the old graph's
 * edges. */
TINY_API tiny_status tgnn_graph_permute(tiny_ctx *ctx, const tgnn_graph *g, const uint32_t *order, tgnn_graph **out);

/* The nodes node[0 .. n - 1], each named once, and the edges among them (the induced subgraph): node[i] becomes i. Edge
 * numbers stay those of the old graph's edges. */
TINY_API tiny_status tgnn_graph_induced(tiny_ctx *ctx, const tgnn_graph *g, const int32_t *node, tiny_idx n,
                                        tgnn_graph **out);

/* An order of the nodes that brings neighbours together, or hubs to the front.
 *   DEGREE  most edges first
 *   BFS     breadth first from the node of least degree of each component
 *   RCM     reverse Cuthill-McKee: breadth first, neighbours by ascending degree, the whole turned round
 *           (E. Cuthill, J. McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969; A. George, 1971)
 * Edges count in both directions. */
typedef enum tgnn_order_kind { TGNN_ORDER_DEGREE, TGNN_ORDER_BFS, TGNN_ORDER_RCM } tgnn_order_kind;
TINY_API tiny_status tgnn_graph_order(tiny_ctx *ctx, tgnn_graph *g, tgnn_order_kind kind, uint32_t *order);

/* Several graphs as one: nodes and edges one after the other (the block-diagonal union of a batch). graph_at[n + 1]:
 * where the nodes of each begin; it is the offset array of a segment reduction over graphs. Empty graphs are allowed.
 * Edge numbers of a graph follow the highest of the graph before. */
TINY_API tiny_status tgnn_graph_batch(tiny_ctx *ctx, const tgnn_graph *const *graphs, tiny_idx n, int64_t *graph_at,
                                      tgnn_graph **out);

/* Synthetic graphs, the same for a seed on every machine: in a clone without data they are what programs work on.
 *   planted  n nodes in k classes (class of node i: i % k), each with `degree` edges drawn on average, a share `inside`
 *            of them to its own class; the others to a class drawn from all k; both directions, loops and doubles left
 *            out
 *   rmat     2^scale nodes, n_edges edges by the recursive quadrants .57 .19 .19 .05 with 10% noise a level, numbers
 *            shuffled (D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT", 2004): degrees follow a power law; doubles
 *            stay */
TINY_API tiny_status tgnn_planted(tiny_ctx *ctx, tiny_idx n, int k, double degree, double inside, uint64_t seed,
                                  tgnn_graph **out);
TINY_API tiny_status tgnn_rmat(tiny_ctx *ctx, int scale, int64_t n_edges, uint64_t seed, tgnn_graph **out);

TINYI_C_END
#endif
