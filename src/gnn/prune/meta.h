/* src/gnn/prune/meta.h - meta pruning: a graph network rewrites a network so that it can be pruned
 *
 *     tgnn_meta_open(ctx, &md, &meta);
 *     tgnn_meta_train(meta, nets, n, &images, &td);       trained networks of one family
 *     tgnn_meta_rewrite(meta, other, &cnn);               another one of that family, rewritten: the same shape
 *     tgnn_cnn_fit(cnn, &images, &fit);                   then tgnn_cnn_choose, tgnn_cnn_cut, tgnn_cnn_fit
 *
 * The graph of a network: a node for each channel of each signal (gnn/prune/cnn.h), an edge for each pair of channels
 * that a layer connects. Edges of a layer are a dense block. The metanetwork computes a small change of each number. It
 * learns changes after which whole groups of channels are small and the network is still right. */
#ifndef TINYI_GNN_META_H
#define TINYI_GNN_META_H
#include "gnn/prune/group.h"
TINYI_C_BEGIN

/* ---- a network as a graph, and back bit for bit */

#define TGNN_NET_NODE 8                     /* numbers of a node: gain, bias, mean, variance of the norm; of the side */
typedef enum tgnn_net_edge { TGNN_NET_LAYER, TGNN_NET_SIDE, TGNN_NET_SAME } tgnn_net_edge;
typedef struct tgnn_net_block {             /* edge number first + o n_in + i goes from channel i to channel o */
    int kind;                               /* a layer, the weights of its side, or a shortcut without weights */
    size_t layer, from, to;                 /* signals */
    tiny_idx first, n_in, n_out;
} tgnn_net_block;

typedef struct tgnn_net_graph {
    tiny_idx n_node, n_edge;
    int n_feature;                          /* of an edge: 9, a window of 3 x 3; 1 if the network has matrices only */
    size_t n_block;
    tgnn_net_block block[2 * TGNN_CNN_LAYERS];
    tiny_tensor node, edge;                 /* (n_node, 8) and (n_edge, n_feature), of the type of the network */
    void *memory;
} tgnn_net_graph;

/* Neutral nodes are 1, 0, 0, 1, twice; a layer without norm has its bias as number 1. Networks of matrices only: the
 * bias as number 0, zeros after it. Windows of 1 x 1 and matrices are in the centre. A shortcut without weights: 1 in
 * the centre between equal channels, 0 elsewhere. NaN and variances below 0 are refused. */
TINY_API tiny_status tgnn_net_graph_open(const tgnn_cnn *cnn, tgnn_net_graph *graph);
TINY_API void tgnn_net_graph_close(tiny_ctx *ctx, tgnn_net_graph *graph);
TINY_API tiny_status tgnn_net_graph_read(const tgnn_cnn *cnn, tgnn_net_graph *graph);       /* network to graph */
TINY_API tiny_status tgnn_net_graph_write(const tgnn_net_graph *graph, tgnn_cnn *cnn);      /* and back */

/* ---- the metanetwork */

typedef struct tgnn_meta_desc {             /* zero: the value in brackets */
    int hidden;                             /* even [64] */
    int layers;                             /* [8] */
    int n_feature;                          /* of an edge: 9 or 1 [9] */
    double scale;                           /* of the change; below 0: none [0.01] */
    uint64_t seed;
    tiny_dtype dtype;                       /* as that of the networks [TINY_F32] */
} tgnn_meta_desc;

typedef struct tgnn_meta tgnn_meta;
/* The decoders begin with zeros: an untrained metanetwork changes nothing. */
TINY_API tiny_status tgnn_meta_open(tiny_ctx *ctx, const tgnn_meta_desc *desc, tgnn_meta **out);
TINY_API void tgnn_meta_close(tgnn_meta *meta);             /* takes NULL */
TINY_API const tiny_param *tgnn_meta_params(const tgnn_meta *meta, size_t *n);
/* node and edge: new tensors of the tape, of the shapes of those of the graph */
TINY_API tiny_status tgnn_meta_run(tiny_tape *tape, const tgnn_meta *meta, const tgnn_net_graph *graph,
                                   tiny_tensor *node, tiny_tensor *edge);
/* A new network with the numbers that the metanetwork gives. Variances are at least 1e-6 of what they were. */
TINY_API tiny_status tgnn_meta_rewrite(const tgnn_meta *meta, const tgnn_cnn *cnn, tgnn_cnn **out);

/* Forces that shrink a group: alpha^((max I - I_c) / (max I - min I)) for each channel (tgnn_cnn_nodes), I the
 * importance within its group; 1 where all are equal; 0 where no channel may be removed. */
TINY_API tiny_status tgnn_meta_forces(const tgnn_cnn *cnn, double alpha, double *force);
/* Sets the gradients of cnn to the sum over batches of those of the cross-entropy, + reg * force * value for the rows,
 * gains and columns of each channel. *loss, *penalty (may be NULL): mean cross-entropy, and half the sum of reg force
 * value^2. */
TINY_API tiny_status tgnn_meta_gradient(tgnn_cnn *cnn, const tgnn_images *set, tiny_idx batch, double alpha, double reg,
                                        double *loss, double *penalty);

typedef struct tgnn_meta_state { int64_t step, steps, epoch; double loss, penalty; } tgnn_meta_state;
typedef struct tgnn_meta_train_desc {       /* zero: the value in brackets */
    int64_t epochs;                         /* each reads every network once [100] */
    tiny_idx batch;                         /* [500, or all images if there are fewer] */
    double lr, decay;                       /* AdamW [1e-3, 5e-4] */
    int64_t drop;                           /* the rate is a tenth from this epoch on [3] */
    double alpha, reg;                      /* of the forces [16, 10] */
    uint64_t seed;                          /* of the order */
    /* after each epoch: how good the metanetwork is; the best one is the result. NULL: the last one */
    tiny_status (*judge)(void *user, const tgnn_meta *meta, int64_t epoch, double *score);
    int (*callback)(void *user, const tgnn_meta_state *state);      /* after each step; nonzero ends; may be NULL */
    void *user;
} tgnn_meta_train_desc;
/* desc may be NULL. The networks do not change. */
TINY_API tiny_status tgnn_meta_train(tgnn_meta *meta, const tgnn_cnn *const *nets, size_t n, const tgnn_images *set,
                                     const tgnn_meta_train_desc *desc);

TINYI_C_END
#endif
