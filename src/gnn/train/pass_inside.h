/* src/gnn/train/pass_inside.h - a net on a tape: the same layers as gnn/layer/layer.c, made of operations that have
 * gradients, with dropout and batch norms that only training knows
 *
 * Dropout: each number is 0 with probability p, else divided by 1 - p; the draws are 16 bits of Philox, so p is rounded
 * to 1 / 65536.
 * Sparse features are multiplied by the first weights as a sum along edges, and their zeros are never touched. Batch
 * norms stand behind both Linear of each gin layer; tinyi_pass_fold puts them into its weights, so that what was
 * trained is a plain net. */
#ifndef TINYI_GNN_PASS_H
#define TINYI_GNN_PASS_H
#include "gnn/layer/net.h"
#include "math/layer.h"
#include "core/rng.h"
TINYI_C_BEGIN

#define TINYI_PASS_PARAMS \
    (TGNN_NET_MOST * (TGNN_LAYER_WEIGHTS + 4 + 8)) /* weights, norms, and what a quantizer learns */
typedef struct tinyi_pass_norm { tiny_tensor g, b, mean, var; } tinyi_pass_norm;

typedef struct tinyi_pass_at tinyi_pass_at;

/* What takes the place of the layers (gnn/quant/a2q_net.h). Its parameters stand behind those of the pass, in groups
 * from 2 on. */
typedef struct tinyi_pass_guest {
    void *arg;
    int dense;                              /* sparse features are not asked for */
    double lr[TINY_OPTIM_GROUPS];           /* of the groups; 0: none */
    /* convolution or linear layer i without its act; a->x before dropout */
    tiny_tensor (*stage)(tinyi_pass_at *a, int i);
    /* each step of the optimiser: adds to gradients, returns what the loss has more */
    double (*before)(void *arg);
    void (*after)(void *arg);
    void (*leave)(void *arg);               /* the pass is closed */
} tinyi_pass_guest;

typedef struct tinyi_pass {
    tiny_ctx *ctx;
    tgnn_net *net;
    tiny_param param[TINYI_PASS_PARAMS];
    size_t n_params, n_values;              /* n_values: floats of all parameters and running values */
    tinyi_pass_norm norm[TGNN_NET_MOST][2]; /* data NULL: none */
    tiny_rng rng;
    int train;                              /* dropout, and norms by the batch */
    float *grads, *norms;                   /* what we took */
    const tinyi_pass_guest *guest;          /* NULL: none */
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

struct tinyi_pass_at {                      /* one stage of a run */
    tiny_tape *t;
    tinyi_pass *p;
    const tinyi_pass_input *in;
    const tgnn_stage *s;
    const tgnn_layer *l;
    tiny_tensor offset, col, value;         /* of the graph of the stage */
    const tiny_tensor *x;                   /* NULL: the sparse rows of the input */
    tiny_tensor s_offset, s_col, s_value;
};

/* Parameters are the weights of the net, in place; groups of the optimiser: 0 for the first layer, 1 for the others.
 * norms: batch norms in gin layers, which then must have their biases. */
TINYI_FN tiny_status tinyi_pass_open(tiny_ctx *ctx, tgnn_net *net, int norms, uint64_t seed, tinyi_pass **out);
TINYI_FN void tinyi_pass_close(tinyi_pass *p);                     /* takes NULL */
TINYI_FN void tinyi_pass_keep(const tinyi_pass *p, float *values); /* all that training changes, n_values numbers */
TINYI_FN void tinyi_pass_back(tinyi_pass *p, const float *values);
/* the norms are gone afterwards: nothing more can be trained */
TINYI_FN void tinyi_pass_fold(tinyi_pass *p);

/* x (nodes, n_in) stays the caller's; sparse: look whether it is worth it */
TINYI_FN tiny_status tinyi_pass_input_open(tinyi_pass *p, const tgnn_graph *g, const int32_t *relation,
                                           int64_t n_relation, const tiny_tensor *x, int sparse, tinyi_pass_input *out);
TINYI_FN void tinyi_pass_input_close(tinyi_pass *p, tinyi_pass_input *in);

/* steps and bits of gnn/quant/a2q_net.h as the guest of a pass, until it is closed */
struct tgnn_a2q_net;
#ifndef TINYI_NO_QUANT
TINYI_FN tiny_status tinyi_a2q_join(struct tgnn_a2q_net *q, tinyi_pass *p);
#endif

/* for a guest: dropout of x; x W' of weight w (x NULL: of the sparse rows); y and bias i_bias (below 0: none); a sum
 * along the edges */
TINYI_FN tiny_tensor tinyi_pass_drop(tinyi_pass_at *a, const tiny_tensor *x, float drop);
TINYI_FN tiny_tensor tinyi_pass_product(tinyi_pass_at *a, const tiny_tensor *x, const tiny_tensor *w);
TINYI_FN tiny_tensor tinyi_pass_plus(tinyi_pass_at *a, const tiny_tensor *y, int i_bias);
TINYI_FN tiny_tensor tinyi_pass_spmm(tinyi_pass_at *a, const tiny_tensor *x, const tiny_tensor *w, int reduce);

TINYI_FN tiny_tensor tinyi_pass_run(tiny_tape *t, tinyi_pass *p, const tinyi_pass_input *in);
/* A tape that what fn does just fits into; fn runs the pass and the loss, as it will. no_grad: for evaluation. */
typedef tiny_tensor (*tinyi_pass_fn)(tiny_tape *t, void *user);
TINYI_FN tiny_status tinyi_pass_tape(tinyi_pass *p, tinyi_pass_fn fn, void *user, int no_grad, tiny_tape **out);

TINYI_C_END
#endif
