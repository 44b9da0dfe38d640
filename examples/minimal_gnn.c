/* examples/minimal_gnn.c - one round of messages: minimal_gnn [EDGES] */
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    tgnn_graph *graph = NULL;
    tiny_ctx *ctx = NULL;
    tiny_status st;
    if (argc > 1 && !strcmp(argv[1], "--help")) return puts("minimal_gnn [EDGES]") < 0;
    st = tiny_ctx_open(NULL, &ctx);
    /* an edge list, Matrix Market, .npz ...; without a file a graph of 1000 nodes in 4 classes */
    if (!st)
        st = argc > 1 ? tgnn_graph_read(ctx, argv[1], NULL, &graph) : tgnn_planted(ctx, 1000, 4, 8.0, 0.9, 1, &graph);
    if (st) fprintf(stderr, "minimal_gnn: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    else printf("%td nodes, %lld edges\n", tgnn_graph_nodes(graph), (long long)tgnn_graph_edges(graph));
    tgnn_graph_close(ctx, graph);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
