/* examples/minimal_gnn.c - runs a network on a graph: minimal_gnn [MODEL.safetensors EDGES FEATURES.npy]
 *
 * It prints the class of each node, which is the index of its largest output. The classify example of examples/copy
 * trains such a model. Without files it makes a ring of ten nodes and a network with random weights. */
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const tgnn_net_desc shape = { TGNN_LAYER_GCN, 2, 3, 8, 0, 2, 0, 0, 0 };
    const int32_t from[10] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, to[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 0 };
    const tgnn_edges ring = { 10, 10, 10, from, to, NULL };
    float feature[20] = { 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1 };
    const tiny_tensor made = tiny_tensor_2d(feature, TINY_F32, 10, 2);
    tgnn_net_input in = { 0 };
    tgnn_graph *graph = NULL;
    tgnn_net *net = NULL;
    tgnn_array x = { { 0 } };
    tiny_tensor y = { 0 };
    tiny_ctx *ctx = NULL;
    tiny_idx i, j, k;
    tiny_status st;
    if (argc > 1 && !strcmp(argv[1], "--help")) return puts("minimal_gnn [MODEL.safetensors EDGES FEATURES.npy]") < 0;
    if (argc != 1 && argc != 4) return fputs("minimal_gnn [MODEL.safetensors EDGES FEATURES.npy]\n", stderr), 2;
    st = tiny_ctx_open(NULL, &ctx);
    if (!st) st = argc > 1 ? tgnn_net_read(ctx, argv[1], &net) : tgnn_net_usual(ctx, &shape, 1, &net);
    if (!st) st = argc > 1 ? tgnn_graph_read(ctx, argv[2], NULL, &graph) : tgnn_graph_make(ctx, &ring, NULL, &graph);
    if (!st && argc > 1) st = tgnn_array_read(ctx, argv[3], NULL, &x);
    in.graph = graph;
    in.x = argc > 1 ? &x.t : &made;
    if (!st) {
        y = tiny_tensor_2d(NULL, TINY_F32, tgnn_graph_nodes(graph), net->n_out);
        y.data = tiny_alloc(ctx, sizeof(float) * (size_t)tiny_tensor_count(&y));
        st = y.data ? tgnn_net_run(ctx, net, &in, &y, NULL) : tiny_ctx_status(ctx);
    }
    for (i = 0; !st && i < y.dim[0]; i++) {
        const float *row = (const float *)y.data + i * y.dim[1];
        for (j = 1, k = 0; j < y.dim[1]; j++)
            if (row[j] > row[k]) k = j;
        printf("%ld\n", (long)k);
    }
    if (st) fprintf(stderr, "minimal_gnn: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    tiny_free(ctx, y.data);
    tgnn_array_free(ctx, &x);
    tgnn_graph_close(ctx, graph);
    tgnn_net_free(ctx, net);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
