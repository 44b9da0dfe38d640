/* src/gnn/graph/inside.h - what a graph is inside */
#ifndef TINYI_GRAPH_INSIDE_H
#define TINYI_GRAPH_INSIDE_H
#include "core/state.h"
#include "gnn/graph/graph.h"
TINYI_C_BEGIN

struct tgnn_graph {
    tiny_sparse in;                         /* CSR with source */
    tiny_sparse by_source;                  /* CSC of in, the owner of out's arrays */
    tiny_sparse out;                        /* the same arrays, seen as CSR of sources */
    int has_out;
    tiny_file file;                         /* where the arrays of in lie in a mapped file */
};

/* A graph around in, which passed tiny_sparse_check and whose arrays it takes over, also when this fails. */
TINYI_FN tiny_status tinyi_graph_wrap(tiny_ctx *ctx, tiny_sparse *in, tgnn_graph **out);

/* what a desc asks for can be done */
TINYI_FN tiny_status tinyi_graph_desc_check(tiny_ctx *ctx, const tgnn_graph_desc *d);

/* Row r of a matrix: p0 .. p1, also when its file changed since it was checked; columns outside are for the caller to see. */
TINYI_INLINE void tinyi_row_range(const tiny_sparse *a, tiny_idx r, int64_t *p0, int64_t *p1)
{
    const int64_t from = a->offset[r], to = a->offset[r + 1];
    *p0 = from;
    *p1 = from >= 0 && to <= a->n && from < to ? to : from;
}

TINYI_C_END
#endif
