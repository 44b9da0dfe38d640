/* src/llm/lab/nets/snnet.h - SN-Net on the tape: trained networks joined by linear layers, and trained together
 *
 *     tllm_resmlp_open(ctx, &d, &small);  ...  &large;           two residual networks, trained: tllm_snnet_fit of one
 *     tllm_snnet_anchor a[2] = { tllm_resmlp_anchor(small), tllm_resmlp_anchor(large) };
 *     tllm_snnet_open(ctx, a, 2, 1, &net);                        18 networks of 6 blocks each
 *     tllm_snnet_init(net, &task.train, 200);                     least squares over 200 samples
 *     tllm_snnet_fit(net, &task.train, &fit, NULL);               each step trains one network, drawn at random
 *     tllm_snnet_measure(net, &task.test, cost, right);           then tllm_stitch_select (llm/compress/stitch.h)
 *
 * A network is a number: a switch at run time copies nothing. One thread at a time may use a tllm_snnet. */
#ifndef TINYI_LLM_SNNET_H
#define TINYI_LLM_SNNET_H
#include "llm/compress/stitch.h"
#include "llm/lab/nets/task.h"
#include "math/train.h"
TINYI_C_BEGIN

/* A trained network as a list of blocks. Its callbacks record on the tape; features are (..., width) f32, and the
 * blocks keep their shape. Everything that they use must outlive the tllm_snnet. */
typedef struct tllm_snnet_anchor {
    tllm_stitch_size size;
    const tiny_param *params;
    size_t n_params;
    tiny_tensor (*first)(void *user, tiny_tape *tape, const tiny_tensor *x);       /* samples to features */
    tiny_tensor (*block)(void *user, tiny_tape *tape, int i, const tiny_tensor *h);
    tiny_tensor (*last)(void *user, tiny_tape *tape, const tiny_tensor *h);        /* features to logits */
    void *user;
} tllm_snnet_anchor;

typedef struct tllm_snnet tllm_snnet;

/* The anchors are copied, the cheapest first: as tllm_stitch_plan asks. Linear layers begin with N(0, 1 / inputs),
 * drawn by the seed; tllm_snnet_init gives better ones. One anchor alone is allowed: tllm_snnet_fit then trains it. */
TINY_API tiny_status tllm_snnet_open(tiny_ctx *ctx, const tllm_snnet_anchor *anchor, int n_anchor, uint64_t seed,
                                     tllm_snnet **out);
TINY_API void tllm_snnet_close(tllm_snnet *net);            /* takes NULL */
TINY_API const tllm_stitch *tllm_snnet_networks(const tllm_snnet *net, size_t *n);
/* of all anchors and linear layers ("stitch.0.3.weight"), the latter in optimiser group 1 */
TINY_API const tiny_param *tllm_snnet_params(const tllm_snnet *net, size_t *n);
/* cost of network i (tllm_stitch_cost); 0 past the end */
TINY_API double tllm_snnet_size_of(const tllm_snnet *net, size_t i, double *ops);

/* First values of all linear layers by least squares over the first n samples of the set: a layer gets the mean of the
 * solutions of the networks that share it. More feature vectors than the width of a front are needed. *left (may be
 * NULL): mean share of the squares that the layers leave (tllm_stitch_solve). After a failure the layers are
 * unchanged. */
TINY_API tiny_status tllm_snnet_init(tllm_snnet *net, const tllm_nn_set *set, tiny_idx n, double *left);

/* Logits of network i. */
TINY_API tiny_tensor tllm_snnet_run(tiny_tape *tape, const tllm_snnet *net, size_t i, const tiny_tensor *x);
TINY_API tiny_status tllm_snnet_right(const tllm_snnet *net, size_t i, const tllm_nn_set *set, tiny_idx *n_right);
/* params, ops and right of all networks; each list may be NULL. right: share of the samples */
TINY_API tiny_status tllm_snnet_measure(const tllm_snnet *net, const tllm_nn_set *set, double *params, double *ops,
                                        double *right);

typedef struct tllm_snnet_fit_state { int64_t step, steps; size_t network; double loss; } tllm_snnet_fit_state;
typedef struct tllm_snnet_fit_desc {        /* zero: the value in brackets */
    tiny_idx batch;                         /* [100, or all samples if there are fewer] */
    int64_t steps;                          /* [50 epochs] */
    double lr;                              /* of Adam, falling linearly to 0 [1e-3] */
    double stitch_lr;                       /* of the linear layers, as a multiple of lr [1] */
    uint64_t seed;                          /* of the networks and of the order of the samples */
    /* the loss of the logits of samples x, a single number; NULL: cross-entropy with the labels of the set */
    tiny_tensor (*loss)(void *user, tiny_tape *tape, const tiny_tensor *logits, const tiny_tensor *x);
    void *loss_user;
    /* distillation: the loss is (1 - teach) cross-entropy + teach KL from these logits, which get no gradient */
    double teach;
    tiny_tensor (*teacher)(void *user, tiny_tape *tape, const tiny_tensor *x);
    void *teacher_user;
    /* after each step; nonzero ends the training with TINY_OK; may be NULL */
    int (*callback)(void *user, const tllm_snnet_fit_state *state);
    void *user;
} tllm_snnet_fit_desc;
/* Each step draws one of all networks, anchors included, with equal chances, and runs one Adam over all parameters.
 * desc and last may be NULL. After a failure the parameters are those of the last complete step. */
TINY_API tiny_status tllm_snnet_fit(tllm_snnet *net, const tllm_nn_set *set, const tllm_snnet_fit_desc *desc,
                                    tllm_snnet_fit_state *last);

/* ---- a residual network to stitch: h = A0 x + a0; depth times h <- h + B relu(A h + a) + b; logits C h + c */
typedef struct tllm_resmlp_desc {           /* zero: the value in brackets */
    tiny_idx n_in, n_class, width;
    tiny_idx hidden;                        /* [2 width] */
    int depth;                              /* [6] */
    uint64_t seed;
} tllm_resmlp_desc;
typedef struct tllm_resmlp tllm_resmlp;
TINY_API tiny_status tllm_resmlp_open(tiny_ctx *ctx, const tllm_resmlp_desc *desc, tllm_resmlp **out);
TINY_API void tllm_resmlp_close(tllm_resmlp *m);            /* takes NULL */
TINY_API tllm_snnet_anchor tllm_resmlp_anchor(tllm_resmlp *m);
/* the whole network at once, for comparison */
TINY_API tiny_tensor tllm_resmlp_run(tiny_tape *tape, const tllm_resmlp *m, const tiny_tensor *x);

TINYI_C_END
#endif
