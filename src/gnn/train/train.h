/* src/gnn/train/train.h - trains nets on graphs: classes of nodes, links, classes of graphs
 *
 *   tgnn_nodes d = { 0 };
 *   d.graph = g; d.x = &x; d.label = label; d.split = split;           for each node: r train, v validation, t test
 *   tgnn_net_make(ctx, "gcn", json, n_json, seed, &net);               gnn/layer/net.h: the layers, with their dropout
 *   how.decay = 5e-4;
 *   tgnn_train_nodes(ctx, net, &d, &how, &last);
 *   tgnn_net_write(ctx, "model.safetensors", net);
 *
 * Training starts from the current weights of the net. Every draw (dropout, orders, pairs) depends only on the seed and
 * the step. The sums of a backward pass depend on the number of threads in their last bits. The optimiser is
 * Adam, with the decay added to the gradient, as in the papers.
 *
 * Early stopping: with patience p, training ends when the validation loss has not improved for p epochs. The net then
 * gets the weights of the epoch with the lowest validation loss. Without patience it keeps the weights of the last
 * epoch. */
#ifndef TINYI_GNN_TRAIN_H
#define TINYI_GNN_TRAIN_H
#include "gnn/layer/pool.h"
#include "math/tape.h"
#include "gnn/layer/net.h"
TINYI_C_BEGIN

/* Links of an undirected graph in three parts. Pairs are n[k] sources, then their n[k] destinations. */
typedef struct tgnn_links {
    /* the links of the training part, in both directions: the only edges for messages */
    tgnn_graph *graph;
    tiny_idx n[3];                          /* training, validation, test */
    /* none: the same number of pairs without an edge; NULL for the training part, where each step draws them */
    int32_t *link[3], *none[3];
} tgnn_links;
/* val, test: shares of all links. All edges between two nodes count as one link. Loops are ignored. */
TINY_API tiny_status tgnn_links_split(tiny_ctx *ctx, const tgnn_graph *g, double val, double test, uint64_t seed,
                                      tgnn_links *out);
TINY_API void tgnn_links_free(tiny_ctx *ctx, tgnn_links *links);   /* takes NULL */
/* The area under the ROC curve when the score of a pair is the scalar product of its two rows of z. It is 1 if every
 * link scores higher than every pair in none. */
TINY_API tiny_status tgnn_links_area(tiny_ctx *ctx, const tiny_tensor *z, const int32_t *link, const int32_t *none,
                                     tiny_idx n, double *area);

/* Accuracies are 0 .. 1 (links: areas under the ROC curve); NaN: there is no such part. */
typedef struct tgnn_epoch {
    int epoch;                              /* from 1 */
    double loss, val_loss;                  /* loss: of the training step, with dropout */
    double train, val, test;                /* accuracies, without dropout */
} tgnn_epoch;

typedef struct tgnn_train_desc {            /* all zero: 200 epochs of Adam, 0.01, no decay */
    uint64_t seed;
    int epochs;                             /* 0: 200 */
    int patience;                           /* 0: none */
    double lr;                              /* 0: 0.01 */
    double decay;                           /* of the weights of the first layer, as in T. Kipf and M. Welling */
    int decay_all;                          /* nonzero: of all weights */
    int halve_every;                        /* halve lr every this many epochs; 0: never */
    int batch;                              /* graphs in a step; 0: 32 */
    /* nodes of two classes: evaluate the area under the ROC curve of class 1, as for links; see tgnn_train_nodes */
    int area;
    int batch_norm;                         /* graphs: in gin layers; folded into the weights at the end */
    /* steps and bits that are learnt with the weights (gnn/quant/a2q_net.h); NULL: none */
    struct tgnn_a2q_net *a2q;
    /* called after each epoch; every epoch is then evaluated. Nonzero ends the training. May be NULL */
    int (*callback)(void *user, const tgnn_epoch *epoch);
    void *user;
} tgnn_train_desc;

typedef struct tgnn_nodes {
    const tgnn_graph *graph;
    /* (nodes, n_in) f32, dense; if most numbers are zeros, the products skip them */
    const tiny_tensor *x;
    const int32_t *relation;                /* rgcn: of each edge in input order */
    int64_t n_relation;                     /* number of edges in the input */
    const int32_t *label;                   /* -1: none */
    const char *split;                      /* r, v, t or - of node i at split[i * split_step] */
    tiny_idx split_step;                    /* 0: 1 */
} tgnn_nodes;
/* last: the results for the final weights of the net; may be NULL. With desc->area, train, val and test are areas and
 * val_loss is 1 - val: with patience the net gets the weights of the epoch with the largest val. */
TINY_API tiny_status tgnn_train_nodes(tiny_ctx *ctx, tgnn_net *net, const tgnn_nodes *data, const tgnn_train_desc *desc,
                                      tgnn_epoch *last);

typedef struct tgnn_graphs {
    /* all graphs in one (tgnn_graph_batch); no edge between two of them */
    const tgnn_graph *graph;
    const tiny_tensor *x;                   /* (nodes, n_in) f32, dense */
    const int64_t *graph_at;                /* where the nodes of each begin, n_graphs + 1 */
    tiny_idx n_graphs;
    const int32_t *label;                   /* of each graph; -1: none */
    const char *split;                      /* of each graph, as above */
    tiny_idx split_step;
} tgnn_graphs;
/* The net must have a readout. batch: 256 at most. train of an epoch is only computed at the end, for last. */
TINY_API tiny_status tgnn_train_graphs(tiny_ctx *ctx, tgnn_net *net, const tgnn_graphs *data,
                                       const tgnn_train_desc *desc, tgnn_epoch *last);

/* The net gives each node a vector of any width. val is an area, and val_loss is 1 - val. */
TINY_API tiny_status tgnn_train_links(tiny_ctx *ctx, tgnn_net *net, const tgnn_links *data, const tiny_tensor *x,
                                      const tgnn_train_desc *desc, tgnn_epoch *last);

/* Pooling (gnn/layer/pool.h) on the tape. p (1, f), like select.weight; the score is (nodes, 1). In a dry run any pool
 * with the right n will do. */
TINY_API tiny_tensor tgnn_tape_pool_score(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *p);
TINY_API tiny_tensor tgnn_tape_pool(tiny_tape *tape, const tgnn_pool *pool, const tiny_tensor *x,
                                    const tiny_tensor *score);

TINYI_C_END
#endif
