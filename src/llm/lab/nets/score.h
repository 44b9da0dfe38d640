/* src/llm/lab/nets/score.h - scores of weights before training, and the masks that they give
 *
 *     tllm_score_desc d = { 0 };
 *     d.kind = TLLM_SCORE_SYNFLOW;
 *     tllm_nn_prune(nn, &d, 0.05, NULL);                  keeps 5 % of the weights; then tllm_nn_fit
 *
 *   RANDOM     N(0, 1) by the seed
 *   MAGNITUDE  |w|
 *   SNIP       |w dL/dw|, L the mean cross-entropy of a few samples of each class (N. Lee et al., 2018, arXiv
 *              1810.02340)
 *   GRASP      w (H g), g the gradient and H the Hessian of L with logits / T: the highest keep the flow of gradients
 *              (C. Wang et al., 2020, arXiv 2002.07376)
 *   SYNFLOW    |w| dR/d|w|, R the sum of the outputs for an input of ones, with |w| in place of w and biases 0: no
 *              data. Every layer has the same sum, R (H. Tanaka et al., 2020, arXiv 2006.05467)
 *
 * Two public programs define them differently. Both are here, by name:
 *
 *                  TLLM_SCORE_SYNAPTIC_FLOW                       TLLM_SCORE_ZERO_COST
 *   SNIP           divided by the sum over all weights            not divided
 *   GRASP          T = 200, w H g over the size of its sum        T = 1, - w H g
 *   batch norms    with running values                            of the batch; SYNFLOW without them
 *
 * All scores are computed in double, on a copy: neither weights nor mask of the network change. */
#ifndef TINYI_LLM_SCORE_H
#define TINYI_LLM_SCORE_H
#include "llm/lab/nets/nn.h"
TINYI_C_BEGIN

typedef enum tllm_score_kind {
    TLLM_SCORE_RANDOM,
    TLLM_SCORE_MAGNITUDE,
    TLLM_SCORE_SNIP,
    TLLM_SCORE_GRASP,
    TLLM_SCORE_SYNFLOW,
    TLLM_SCORE_KINDS
} tllm_score_kind;

enum { TLLM_SCORE_SYNAPTIC_FLOW, TLLM_SCORE_ZERO_COST };

typedef struct tllm_score_desc {            /* zero: the value in brackets */
    int kind;
    int as;                                 /* which program's definition */
    const tllm_nn_set *data;                /* for SNIP and GRASP */
    /* of each class, drawn by the seed [10; GRASP 25]; -1: the whole set */
    tiny_idx per_class;
    uint64_t seed;
    double temperature;                     /* GRASP [200; ZERO_COST 1] */
    /* GRASP: the Hessian is applied by a central difference of this length, relative to the size of the weights [1e-6].
     * Long steps cross the kinks of ReLU, whose jumps the published scores do not contain. */
    double step;
    /* for tllm_nn_prune: round r of R leaves keep^((r + 1) / R) [SYNFLOW 100; others 1] */
    int rounds;
} tllm_score_desc;

TINY_API const char *tllm_score_name(int kind);             /* "magnitude"; NULL: unknown */
/* A score for each weight. Masked weights count as 0, and their score is 0. scale_log2, if given: the true scores are
 * score * 2^scale_log2; it is 0 unless SYNFLOW would leave the range of doubles. */
TINY_API tiny_status tllm_nn_score(const tllm_nn *nn, const tllm_score_desc *desc, double *score, double *scale_log2);
/* Masks all but max(1, round(keep n)) weights, 0 < keep <= 1: those with the highest scores of the whole network stay.
 * Masked weights stay masked. n_empty, if given: the number of layers without a weight; they cut the network. */
TINY_API tiny_status tllm_nn_prune(tllm_nn *nn, const tllm_score_desc *desc, double keep, size_t *n_empty);

TINYI_C_END
#endif
