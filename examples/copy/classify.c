/* examples/copy/classify.c - classifies the nodes of a graph with a network trained on a few labels
 *
 *     cc -O2 -fopenmp examples/copy/classify.c -I. -o classify && ./classify [FOLDER MODEL.safetensors]
 *
 * FOLDER holds edges.tsv, features.coo (or .npy), labels.txt and splits.txt. The network is written to MODEL. Without
 * arguments a graph with four classes is made. Training uses 20 labels of each class, the test other nodes. */
#define TINYGNN_WITH_FIT
#define TINYGNN_IMPLEMENTATION
#include "tinygnn.h"
#include <stdio.h>
#include <string.h>

static int show(void *user, const tgnn_epoch *e)    /* after each epoch; nonzero would end the training */
{
    (void)user;
    if (e->epoch % 50 == 0) printf("epoch %3d  loss %.3f  validation %.3f\n", e->epoch, e->loss, e->val);
    return 0;
}

int main(int argc, char **argv)
{
    tgnn_data data;
    tgnn_nodes nodes = { 0 };
    tgnn_net_desc shape = { TGNN_LAYER_GCN, 0, 0, 16, 0, 2, 0, 1, 0.5f };   /* 16 hidden numbers, dropout 0.5 */
    tgnn_train_desc how = { 0 };
    tgnn_epoch last = { 0 };
    tgnn_net *net = NULL;
    const char *why = NULL;
    tiny_ctx *ctx = NULL;
    tiny_status st;
    if (argc != 1 && argc != 3) return fputs("classify [FOLDER MODEL.safetensors]\n", stderr), 2;
    memset(&data, 0, sizeof data);
    st = tiny_ctx_open(NULL, &ctx);
    if (!st) st = argc > 1 ? tgnn_data_read(ctx, argv[1], &data) : tgnn_data_planted(ctx, 1000, 4, 10.0, 0.9, 1, &data);
    if (!st && (!data.x.data || !data.label || !data.split)) {
        why = "features.coo, labels.txt and splits.txt are needed";
        st = TINY_E_ARGUMENT;
    }
    shape.n_in = data.x.dim[1];
    shape.n_out = data.n_class;
    if (!st) st = tgnn_net_usual(ctx, &shape, 1, &net);
    nodes.graph = data.graph;
    nodes.x = &data.x;
    nodes.label = data.label;
    nodes.split = data.split;               /* r: learn from this node, v: validation, t: test */
    nodes.split_step = data.n_split;
    how.decay = 5e-4;
    how.callback = show;
    if (!st) st = tgnn_train_nodes(ctx, net, &nodes, &how, &last);
    if (!st) printf("%.3f of the test nodes get the right one of %d classes\n", last.test, (int)data.n_class);
    if (!st && argc > 2) st = tgnn_net_write(ctx, argv[2], net);    /* examples/minimal_gnn.c runs it */
    if (!why) why = ctx ? tiny_ctx_message(ctx) : tiny_status_text(st);
    if (st) fprintf(stderr, "classify: %s\n", why);
    tgnn_net_free(ctx, net);
    if (ctx) tgnn_data_free(ctx, &data);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
