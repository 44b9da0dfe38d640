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

TINYI_C_END
#endif
