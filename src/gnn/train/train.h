/* src/gnn/train/train.h - trains nets on graphs: classes of nodes, links, classes of graphs
 *
 *   tgnn_nodes d = { 0 };
 *   d.graph = g; d.x = &x; d.label = label; d.split = split;           r train, v validation, t test, a character a
 *                                                                      node
 *   tgnn_net_make(ctx, "gcn", json, n_json, seed, &net);               gnn/layer/net.h: the layers, with their dropout
 *   how.decay = 5e-4;
 *   tgnn_train_nodes(ctx, net, &d, &how, &last);
 *   tgnn_net_write(ctx, "model.safetensors", net);
 *
 * Training goes on from the weights that the net has. Every draw (dropout, orders, pairs) depends on the seed and the
 * step alone, and no sum on the number of threads where the operations of the net have none that does
 * (docs/guide/graphs.md).
 * The optimiser is Adam with coupled decay (the decay is added to the gradient), as the papers have it.
 *
 * Early stopping: with patience p the loss of the validation part is looked at after each epoch; when p epochs have not
 * lowered it, the training ends, and the weights of the epoch with the lowest one come back. Without it the last epoch
 * counts. */
#ifndef TINYI_GNN_TRAIN_H
#define TINYI_GNN_TRAIN_H
#include "gnn/layer/pool.h"
#include "math/tape.h"
#include "gnn/layer/net.h"
TINYI_C_BEGIN

/* Links of an undirected graph in three parts. Pairs are n[k] sources, then their n[k] destinations. */
typedef struct tgnn_links {
    /* the links of the training part, in both directions: messages go along these only */
    tgnn_graph *graph;
    tiny_idx n[3];                          /* training, validation, test */
    /* none: as many pairs without an edge; of the training part NULL, they are drawn in each step */
    int32_t *link[3], *none[3];
} tgnn_links;
/* val, test: shares of all links. Edges in both directions, several ones and loops count as one link and none. */
TINY_API tiny_status tgnn_links_split(tiny_ctx *ctx, const tgnn_graph *g, double val, double test, uint64_t seed,
                                      tgnn_links *out);
TINY_API void tgnn_links_free(tiny_ctx *ctx, tgnn_links *links);   /* takes NULL */
/* The area under the ROC curve of the products of rows of z: 1 where each link has a larger one than each pair that is
 * none. */
TINY_API tiny_status tgnn_links_area(tiny_ctx *ctx, const tiny_tensor *z, const int32_t *link, const int32_t *none,
                                     tiny_idx n, double *area);

/* accuracies are shares, 0 .. 1 (links: areas under the ROC curve); NaN: there is no such part */
typedef struct tgnn_epoch {
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
    /* nodes of two classes: judged by the area under the ROC curve of class 1, as links are; see tgnn_train_nodes */
    int area;
    int batch_norm;                         /* graphs: in gin layers; folded into the weights at the end */
    /* steps and bits that are learnt with the weights (gnn/quant/a2q_net.h); NULL: none */
    struct tgnn_a2q_net *a2q;
    /* after each epoch, which is then judged; nonzero ends the training; may be NULL */
    int (*callback)(void *user, const tgnn_epoch *epoch);
    void *user;
} tgnn_train_desc;

typedef struct tgnn_nodes {
    const tgnn_graph *graph;
    /* (nodes, n_in) f32, dense; mostly zeros: they are found, and left out of the sums */
    const tiny_tensor *x;
    const int32_t *relation;                /* rgcn: of each edge as it was given */
    int64_t n_relation;                     /* so many edges were given */
    const int32_t *label;                   /* -1: none */
    const char *split;                      /* r, v, t or - of node i at split[i * split_step] */
    tiny_idx split_step;                    /* 0: 1 */
} tgnn_nodes;
/* last: how it stands for the weights that the net then has; may be NULL. With desc->area, train, val and test are
 * areas and val_loss is 1 - val: with patience the weights of the epoch with the largest one come back. */
TINY_API tiny_status tgnn_train_nodes(tiny_ctx *ctx, tgnn_net *net, const tgnn_nodes *data, const tgnn_train_desc *desc,
                                      tgnn_epoch *last);

typedef struct tgnn_graphs {
    /* all of them, one after the other (tgnn_graph_batch); no edge leads from one into another */
    const tgnn_graph *graph;
    const tiny_tensor *x;                   /* (nodes, n_in) f32, dense */
    const int64_t *graph_at;                /* where the nodes of each begin, n_graphs + 1 */
    tiny_idx n_graphs;
    const int32_t *label;                   /* of each graph; -1: none */
    const char *split;                      /* of each graph, as above */
    tiny_idx split_step;
} tgnn_graphs;
/* The net has a readout. batch: 256 at most. last->train is told at the end only. */
TINY_API tiny_status tgnn_train_graphs(tiny_ctx *ctx, tgnn_net *net, const tgnn_graphs *data,
                                       const tgnn_train_desc *desc, tgnn_epoch *last);

/* The net gives each node a vector, of any width. val_loss is 1 - val, areas both. */
TINY_API tiny_status tgnn_train_links(tiny_ctx *ctx, tgnn_net *net, const tgnn_links *data, const tiny_tensor *x,
                                      const tgnn_train_desc *desc, tgnn_epoch *last);

/* Pooling (gnn/layer/pool.h) on the tape. p (1, f), as select.weight is; the score (nodes, 1). In a dry run any pool
 * with the right n does. */
TINY_API tiny_tensor tgnn_tape_pool_score(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *p);
TINY_API tiny_tensor tgnn_tape_pool(tiny_tape *tape, const tgnn_pool *pool, const tiny_tensor *x,
                                    const tiny_tensor *score);

TINYI_C_END
#endif
