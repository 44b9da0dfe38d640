/* src/gnn/quant/a2q_net.h - steps and bits of a net, learnt with its weights
 *
 *   tgnn_a2q_desc d = { 0 };
 *   d.bits = 2.0;                                          average bits of a feature
 *   tgnn_a2q_net_open(ctx, net, &d, &x, &q);
 *   how.a2q = q;
 *   tgnn_train_nodes(ctx, net, &data, &how, &last);        gnn/train/train.h; last.test: of the quantized net
 *   tgnn_quant_make(ctx, net, q, &small);                  gnn/quant/quant.h: integers only
 *   tgnn_a2q_net_close(ctx, q);
 *
 * These are quantized:
 *   features   the input of each product with weights: a step and bits for each node or group. Input features are not
 *              quantized if each row holds only zeros and one positive value: such a row is already a vector of
 *              integers times that value.
 *   weights    4 bits, a step for each output
 *   sums       the rows that are summed along edges: 4 bits, a step for each column
 * gcn layers multiply row j by 1 / sqrt(degree) before they quantize it, and row i after the sum. So only integers are
 * summed. gin layers apply the weights before they sum, which gives the same result. Dropout comes after quantization.
 * Layers may be gcn, gin, linear and readout. Every edge counts 1. */
#ifndef TINYI_GNN_A2Q_NET_H
#define TINYI_GNN_A2Q_NET_H
#include "gnn/layer/net.h"
#include "gnn/quant/a2q.h"
TINYI_C_BEGIN

#define TGNN_A2Q_MAPS (2 * TGNN_NET_MOST)
#define TGNN_A2Q_WEIGHT_BITS 4

/* all zero: the paper's settings for a GCN on Cora, except for the target and the steps of weights */
typedef struct tgnn_a2q_desc {
    double bits;                            /* target: average stored bits of a feature, over all products; 0: 2 */
    double kilobytes;                       /* target as memory; 0: use bits */
    /* of the penalty lambda max(0, M - target)^2, M in kilobytes; 0: 2.5; below 0: none */
    double lambda;
    double first_bits;                      /* at the start; 0: 4, and 5 for features that are never negative */
    /* number of groups of rows; a step belongs to a group, so other graphs can use it; 0: each node has a step */
    tiny_idx groups;
    int published;                          /* choose groups as the authors' program does: see tgnn_nearest */
    /* for comparison: one step and this many stored bits for all rows; 0: no */
    int uniform;
    /* steps of weights start at |N(0.1, 0.2)|, as in the authors' program, instead of values that fit the weights */
    int drawn;
    /* steps and bits of features learn from the loss; needed for classes of graphs */
    int task;
    /* 0: 0.1, 0.04 (features), 0.002 (weights; drawn: 0.02), 0.008 (sums) */
    double lr_bits, lr_step, lr_weight, lr_sum;
    uint64_t seed;
} tgnn_a2q_desc;

typedef struct tgnn_a2q_map {               /* a product of features and weights */
    int stage, weight;                      /* w[weight] of that stage of the net */
    int raw;                                /* features are not quantized */
    int positive;                           /* they are never negative: one bit less is stored */
    tiny_idx n_in, n_out, n_steps;          /* steps: nodes or groups; raw: none */
    float *step, *bits;                     /* of features, n_steps each */
    float *weight_step, *sum_step;          /* n_out each; sum_step NULL: the product is not summed along edges */
} tgnn_a2q_map;

typedef struct tgnn_a2q_net {
    tgnn_a2q_desc desc;
    tiny_idx n_nodes;                       /* 0: groups */
    int n_maps;
    tgnn_a2q_map map[TGNN_A2Q_MAPS];
    float *values;                          /* all steps and bits, one block */
    size_t n_values;
} tgnn_a2q_net;

/* x (nodes, n_in): the features that the net will be trained on. */
TINY_API tiny_status tgnn_a2q_net_open(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_desc *desc,
                                       const tiny_tensor *x, tgnn_a2q_net **out);
TINY_API void tgnn_a2q_net_close(tiny_ctx *ctx, tgnn_a2q_net *q);      /* takes NULL */

/* Runs the quantized net in floats, like tgnn_net_run. Training evaluates this form; gnn/quant/quant.h gives the same
 * results with integers. */
TINY_API tiny_status tgnn_a2q_net_run(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_net *q,
                                      const tgnn_net_input *in, const tiny_tensor *y, const tiny_tensor *before);

/* ---- inside: what the bodies share ---- */

/* The products of a net; raw, positive: of the features of the input. A layer of another kind is an error. */
TINYI_FN tiny_status tinyi_a2q_maps(tiny_ctx *ctx, const tgnn_net *net, int raw, int positive, tgnn_a2q_net *q);
/* The values of all maps in one block, n_steps for each that is not raw; cleared. */
TINYI_FN tiny_status tinyi_a2q_room(tiny_ctx *ctx, const tgnn_net *net, tgnn_a2q_net *q, tiny_idx n_steps);
/* 1 if each row of x holds only zeros and one positive value, which goes to factor (rows; may be NULL). positive: no
 * number is below 0. */
TINYI_FN int tinyi_a2q_raw(const tiny_tensor *x, float *factor, int *positive);
/* Checks that the steps were made for this net. */
TINYI_FN tiny_status tinyi_a2q_fits(tiny_ctx *ctx, const tgnn_net *net, const tgnn_a2q_net *q);
/* A dense matrix in memory of the context. */
TINYI_FN tiny_status tinyi_a2q_matrix(tiny_ctx *ctx, tiny_idx rows, tiny_idx cols, tiny_tensor *t);
/* 1 / sqrt(edges into each node), 0 where there are none */
TINYI_FN void tinyi_a2q_degrees(const tiny_sparse *g, float *root);

TINYI_C_END
#endif
