/* src/gnn/train/train.h - trains nets on graphs: classes of nodes, links, classes of graphs
 *
 *   tgnn_nodes d = { 0 };
 *   d.graph = g; d.x = &x; d.label = label; d.split = split;           r train, v validation, t test, a character a node
 *   tgnn_net_make(ctx, "gcn", json, n_json, seed, &net);               gnn/layer/net.h: the layers, with their dropout
 *   how.decay = 5e-4;
 *   tgnn_train_nodes(ctx, net, &d, &how, &last);
 *   tgnn_net_write(ctx, "model.safetensors", net);
 *
 * Training goes on from the weights that the net has. Every draw (dropout, orders, pairs) depends on the seed and the step alone, and no
 * sum on the number of threads where the operations of the net have none that does (docs/graphs.md). The optimiser is Adam with coupled
 * decay (the decay is added to the gradient), as the papers have it.
 *
 * Early stopping: with patience p the loss of the validation part is looked at after each epoch; when p epochs have not lowered it, the
 * training ends, and the weights of the epoch with the lowest one come back. Without it the last epoch counts.                          */
#ifndef TINYI_GNN_TRAIN_H
#define TINYI_GNN_TRAIN_H
#include "gnn/layer/net.h"
TINYI_C_BEGIN
#ifndef TINY_NO_TRAIN

typedef struct tgnn_epoch {                 /* accuracies are shares, 0 .. 1 (links: areas under the ROC curve); NaN: there is no such part */
    int epoch;                              /* from 1 */
    double loss, val_loss;                  /* loss: of the training step, with dropout */
    double train, val, test;                /* as the net is, without dropout */
} tgnn_epoch;

typedef struct tgnn_train_desc {            /* all zero: 200 epochs of Adam, 0.01, no decay */
    uint64_t seed;
    int epochs;                             /* 0: 200 */
    int patience;                           /* 0: none */
    double lr;                              /* 0: 0.01 */
    double decay;                           /* of the weights of the first layer, as T. Kipf and M. Welling have it */
    int decay_all;                          /* nonzero: of all weights */
    int halve_every;                        /* epochs after which lr is halved, again and again; 0: never */
    int batch;                              /* graphs in a step; 0: 32 */
    int batch_norm;                         /* graphs: in gin layers; folded into the weights at the end */
    int (*callback)(void *user, const tgnn_epoch *epoch);      /* after each epoch, which is then judged; nonzero ends the training; may be NULL */
    void *user;
} tgnn_train_desc;

typedef struct tgnn_nodes {
    const tgnn_graph *graph;
    const tiny_tensor *x;                   /* (nodes, n_in) f32, dense; mostly zeros: they are found, and left out of the sums */
    const int32_t *relation;                /* rgcn: of each edge as it was given */
    const int32_t *label;                   /* -1: none */
    const char *split;                      /* r, v, t or - of node i at split[i * split_step] */
    tiny_idx split_step;                    /* 0: 1 */
} tgnn_nodes;
/* last: how it stands for the weights that the net then has; may be NULL. */
TINY_API tiny_status tgnn_train_nodes(tiny_ctx *ctx, tgnn_net *net, const tgnn_nodes *data, const tgnn_train_desc *desc, tgnn_epoch *last);

#endif
TINYI_C_END
#endif
