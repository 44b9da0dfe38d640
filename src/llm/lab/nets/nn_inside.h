/* src/llm/lab/nets/nn_inside.h - what scores and proxies share with the network */
#ifndef TINYI_LLM_NN_INSIDE_H
#define TINYI_LLM_NN_INSIDE_H
#include "llm/lab/nets/nn.h"
TINYI_C_BEGIN

/* How batch norms compute. */
typedef enum tinyi_nn_norm {
    TINYI_NORM_RUNNING,                     /* with running values */
    TINYI_NORM_TRAIN,                       /* with those of the batch, which change the running ones */
    TINYI_NORM_FILL,                        /* the same; they become the running ones */
    TINYI_NORM_BATCH,                       /* with those of the batch */
    TINYI_NORM_SAMPLE,                      /* after a convolution with those of the batch, else with running values */
    TINYI_NORM_OFF
} tinyi_nn_norm;

/* For each layer of weights: add is added to its result before the activation (zeros: their gradient is that of the
 * result); in, out and act receive its input, that result, and what the next layer gets. Any pointer may be NULL. */
typedef struct tinyi_nn_taps { const tiny_tensor *add; tiny_tensor *in, *out, *act; } tinyi_nn_taps;

TINYI_FN tiny_tensor tinyi_nn_run(tiny_tape *tape, const tllm_nn *nn, const tiny_tensor *x, tinyi_nn_norm norm,
                                  const tinyi_nn_taps *taps);
/* Mean cross-entropy of n samples of a set. The weights are the first parameters of the tape. */
TINYI_FN tiny_tensor tinyi_nn_loss(tiny_tape *tape, const tllm_nn *nn, const tllm_nn_set *set, const uint32_t *sample,
                                   tiny_idx n);
TINYI_FN tiny_ctx *tinyi_nn_ctx(const tllm_nn *nn);
/* value and gradient of all weights, one after the other */
TINYI_FN void *tinyi_nn_theta(const tllm_nn *nn, int grad);
/* Sets biases to 0 and running means to 0, variances to 1, gains to their size: what SynFlow runs on. */
TINYI_FN void tinyi_nn_bare(tllm_nn *nn);
/* All numbers of a copy of the same type; the mask stays. */
TINYI_FN void tinyi_nn_assign(tllm_nn *nn, const tllm_nn *from);
TINYI_FN tiny_idx tinyi_nn_layer_width(const tllm_nn *nn, size_t i_weight, tiny_idx shape[3]);    /* of its result */

/* A function of the network, made ready to be computed and differentiated as often as one likes. */
typedef enum tinyi_nn_goal { TINYI_GOAL_LOSS, TINYI_GOAL_SUM } tinyi_nn_goal;
typedef struct tinyi_nn_pass {
    const tllm_nn *nn;
    tllm_nn_set batch;                      /* x of the type of the weights */
    tinyi_nn_goal goal;                     /* mean cross-entropy of scale logits, or their sum */
    double scale;                           /* 0: 1 */
    tinyi_nn_norm norm;
    const tinyi_nn_taps *taps;
    const tiny_param *more;                 /* parameters beside those of the network */
    size_t n_more;
    tiny_tape *tape;
    double value;                           /* of the last run */
    int stay;                               /* nonzero: tensors of the last run stay valid until the next one */
    tiny_tape_mark mark;
} tinyi_nn_pass;
TINYI_FN tiny_status tinyi_nn_pass_open(tinyi_nn_pass *p);
TINYI_FN tiny_status tinyi_nn_pass_run(tinyi_nn_pass *p);     /* sets the gradients */
TINYI_FN void tinyi_nn_pass_close(tinyi_nn_pass *p);

TINYI_C_END
#endif
