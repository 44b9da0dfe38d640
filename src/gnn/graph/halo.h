/* src/gnn/graph/halo.h - what each part of a graph needs of the others
 *
 * Part t computes its own nodes; for that it needs the features of its halo: the nodes outside that have an edge into
 * it. Before a layer each part u sends the rows send(u, t) to t, which puts them behind its own, in the order of the
 * halo; then the local graph of t gives the same sums as the whole one. */
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
    int32_t *send;                          /* those of part t that part u needs: from send_at[t * k + u] on */
} tgnn_halo;

/* part: 0 .. k - 1 of each node, 1 <= k <= TGNN_HALO_PARTS; from tgnn_partition or anywhere. Parts may be empty. */
TINY_API tiny_status tgnn_halo_make(tiny_ctx *ctx, tgnn_graph *g, int k, const int32_t *part, tgnn_halo *out);
TINY_API void tgnn_halo_free(tiny_ctx *ctx, tgnn_halo *h);         /* takes NULL */
/* The edges into part t as a graph of two sets of nodes: destination i is own node i of t; sources are its own nodes,
 * then its halo. Edge numbers stay those of g's edges. */
TINY_API tiny_status tgnn_halo_graph(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_halo *h, int t, tgnn_graph **out);

TINYI_C_END
#endif
