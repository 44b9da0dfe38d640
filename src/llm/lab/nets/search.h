/* src/llm/lab/nets/search.h - TAS: a search for widths and depths under a limit of cost
 *
 *     tllm_tas_desc d = { 0 };
 *     d.target = 0.5 * tllm_space_flops(&space, &full);
 *     tllm_tas(ctx, &space, &task.train, &d, &shape, &state);
 *     tllm_resnet_open(ctx, &space, &shape, ...);         then trained from its first weights: llm/lab/nets/resnet.h
 *
 * One network has all widths and depths of the space (llm/lab/nets/space.h). Each step draws two widths for each
 * convolution and weighs them, and the depths of each stage, by what the draws say. One half of the samples trains the
 * weights of the network, the other half the logits of the choices, by the loss of the network and the expected cost.
 * The weights are thrown away: the result is the shape of the largest logits. X. Dong, Y. Yang, 2019 (arXiv
 * 1905.09717). */
#ifndef TINYI_LLM_SEARCH_H
#define TINYI_LLM_SEARCH_H
#include "llm/lab/nets/resnet.h"
TINYI_C_BEGIN

typedef struct tllm_tas_state {
    int64_t step, steps;
    double tau;
    double loss, choice_loss;               /* cross-entropy of the step of the weights, and of the logits */
    double expected;                        /* cost, by the probabilities of the choices */
    double flops;                           /* of the largest logits */
    int64_t found;                          /* the last step whose flops were between least and target; 0: none yet */
    const tllm_logits *logits;
} tllm_tas_state;

typedef struct tllm_tas_desc {           /* zero: the value in brackets */
    double target;                          /* cost of the result, at most */
    double slack;                           /* and at least target - slack * the cost of the whole space [0.05] */
    double cost_weight;                     /* of the cost in the loss of the logits [2] */
    int64_t epochs;                         /* of each half of the samples [30] */
    tiny_idx batch;                         /* [32, or all samples of a half if there are fewer] */
    double lr;                              /* of the weights: SGD, cosine, Nesterov 0.9, decay 5e-4 [0.1] */
    double choice_lr;                       /* of the logits: Adam, decay 1e-3 [1e-2; published: 1e-3, 600 epochs] */
    uint64_t seed;                          /* of weights, halves, order, draws */
    const tllm_logits *start;               /* first logits; NULL: N(0, 0.01^2) */
    tiny_dtype dtype;                       /* TINY_F64: plain loops, for checks [TINY_F32] */
    /* nonzero: each convolution computes all its channels from an image filled up with zeros, as the formula says;
     * 0: only the channels that are there. The same numbers. */
    int whole;
    int (*callback)(void *user, const tllm_tas_state *state);    /* after each step; nonzero ends; may be NULL */
    void *user;
} tllm_tas_desc;

/* The last shape whose cost was within the limits. Fails if there was none; last then has the state of the last step.
 * last may be NULL. */
TINY_API tiny_status tllm_tas(tiny_ctx *ctx, const tllm_space *space, const tllm_nn_set *set,
                                 const tllm_tas_desc *desc, tllm_shape *shape, tllm_tas_state *last);
/* The temperature of the draws, from 5 to 0.1: .1 + 4.9 (1 + cos(pi p)) / 2 after a share p of the search. */
TINY_API double tllm_tas_tau(double progress);

/* ---- one step by itself, for checks: loss and gradients of given draws */

typedef struct tllm_draws {                 /* what a step draws */
    size_t pair[TLLM_SPACE_CONVS][2];       /* numbers of the two widths */
    tllm_logits gumbel;
    double tau;
} tllm_draws;

typedef struct tllm_supernet tllm_supernet;
TINY_API tiny_status tllm_supernet_open(tiny_ctx *ctx, const tllm_space *space, const tllm_tas_desc *desc,
                                        tllm_supernet **out);       /* of desc: seed, dtype, whole */
TINY_API void tllm_supernet_close(tllm_supernet *net);              /* takes NULL */
TINY_API const tiny_param *tllm_supernet_params(const tllm_supernet *net, size_t *n);
/* Draws by the logits: two widths without replacement by p + 1e-7. */
TINY_API void tllm_supernet_draw(const tllm_supernet *net, const tllm_logits *logits, double tau, tiny_rng *rng,
                                 tllm_draws *draws);
/* Cross-entropy of the images with numbers sample[0..n). Not NULL: gradient receives that of the logits, through the
 * drawn choices only; NULL: the gradients of the weights are set. */
TINY_API tiny_status tllm_supernet_loss(tllm_supernet *net, const tllm_nn_set *set, const uint32_t *sample, tiny_idx n,
                                        const tllm_logits *logits, const tllm_draws *draws, double *loss,
                                        tllm_logits *gradient);

TINYI_C_END
#endif
