/* src/gnn/graph/halo.h - the nodes that each part of a graph needs from the other parts
 *
 * Part t computes its own nodes. For that it needs the features of its halo: the nodes outside of t that have an edge
 * into t. Before a layer, each part u sends the rows send(u, t) to t. Part t appends them to its own rows, in the order
 * of the halo. The local graph of t then gives the same sums as the whole graph. */
#ifndef TINYI_HALO_H
#define TINYI_HALO_H
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

#define TGNN_HALO_PARTS 4096

typedef struct tgnn_halo {                  /* all lists ascend */
    int k;
    tiny_idx n;
    int64_t *own_at;                        /* (k + 1) */
    int32_t *own;                           /* (n) nodes of part t: own[own_at[t]] .. own[own_at[t + 1] - 1] */
    int64_t *halo_at;                       /* (k + 1) */
    int32_t *halo;                          /* nodes outside t with an edge into t */
    int64_t *send_at;                       /* (k * k + 1) */
    int32_t *send;                          /* nodes of part t that part u needs: from send_at[t * k + u] on */
} tgnn_halo;

/* part: 0 .. k - 1 for each node, from tgnn_partition or elsewhere; 1 <= k <= TGNN_HALO_PARTS. Parts may be empty. */
TINY_API tiny_status tgnn_halo_make(tiny_ctx *ctx, tgnn_graph *g, int k, const int32_t *part, tgnn_halo *out);
TINY_API void tgnn_halo_free(tiny_ctx *ctx, tgnn_halo *h);         /* takes NULL */
/* The edges into part t as a bipartite graph: destination i is own node i of t; sources are its own nodes, then its
 * halo. Edges keep the numbers that they have in g. */
TINY_API tiny_status tgnn_halo_graph(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_halo *h, int t, tgnn_graph **out);

TINYI_C_END
#endif
