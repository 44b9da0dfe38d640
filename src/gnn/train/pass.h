/* src/gnn/train/pass.h - a net on a tape: the same layers as gnn/layer/layer.c, made of operations that have gradients, with dropout and
 * batch norms that only training knows
 *
 * Dropout: each number is 0 with probability p, else divided by 1 - p; the draws are 16 bits of Philox, so p is rounded to 1 / 65536.
 * Sparse features are multiplied by the first weights as a sum along edges, and their zeros are never touched. Batch norms stand behind
 * both Linear of each gin layer; tinyi_pass_fold puts them into its weights, so that what was trained is a plain net.               */
#ifndef TINYI_GNN_PASS_H
#define TINYI_GNN_PASS_H
#include "gnn/layer/net.h"
#include "math/layer.h"
#include "core/rng.h"
TINYI_C_BEGIN
#ifndef TINY_NO_TRAIN

#define TINYI_PASS_PARAMS (TGNN_NET_MOST * (TGNN_LAYER_WEIGHTS + 4))
typedef struct tinyi_pass_norm { tiny_tensor g, b, mean, var; } tinyi_pass_norm;

typedef struct tinyi_pass {
    tiny_ctx *ctx;
    tgnn_net *net;
    tiny_param param[TINYI_PASS_PARAMS];
    size_t n_params, n_values;              /* n_values: floats of all parameters and running values */
    tinyi_pass_norm norm[TGNN_NET_MOST][2]; /* data NULL: none */
    tiny_rng rng;
    int train;                              /* dropout, and norms by the batch */
    float *grads, *norms;                   /* what we took */
} tinyi_pass;

typedef struct tinyi_pass_input {
    const tgnn_graph *graph;
    tinyi_net_graphs graphs;
    tiny_tensor x;                          /* dense, rows divided by their sums where the net says so */
    float *owned;                           /* x, where it is ours */
    tiny_sparse sparse;                     /* offset NULL: x is used as it is */
    float *kept;                            /* its values after dropout */
    const int64_t *graph_at;
    tiny_idx n_graphs;
} tinyi_pass_input;

/* Parameters are the weights of the net, in place; groups of the optimiser: 0 for the first layer, 1 for the others. norms: batch norms
 * in gin layers, which then must have their biases. */
TINYI_FN tiny_status tinyi_pass_open(tiny_ctx *ctx, tgnn_net *net, int norms, uint64_t seed, tinyi_pass **out);
TINYI_FN void tinyi_pass_close(tinyi_pass *p);                     /* takes NULL */
TINYI_FN void tinyi_pass_keep(const tinyi_pass *p, float *values); /* all that training changes, n_values numbers */
TINYI_FN void tinyi_pass_back(tinyi_pass *p, const float *values);
TINYI_FN void tinyi_pass_fold(tinyi_pass *p);                      /* the norms are gone afterwards: nothing more can be trained */

/* x (nodes, n_in) stays the caller's; sparse: look whether it is worth it */
TINYI_FN tiny_status tinyi_pass_input_open(tinyi_pass *p, const tgnn_graph *g, const int32_t *relation, const tiny_tensor *x, int sparse, tinyi_pass_input *out);
TINYI_FN void tinyi_pass_input_close(tinyi_pass *p, tinyi_pass_input *in);

TINYI_FN tiny_tensor tinyi_pass_run(tiny_tape *t, tinyi_pass *p, const tinyi_pass_input *in);
/* A tape that what fn does just fits into; fn runs the pass and the loss, as it will. no_grad: for evaluation. */
typedef tiny_tensor (*tinyi_pass_fn)(tiny_tape *t, void *user);
TINYI_FN tiny_status tinyi_pass_tape(tinyi_pass *p, tinyi_pass_fn fn, void *user, int no_grad, tiny_tape **out);

#endif
TINYI_C_END
#endif
