/* src/llm/lab/nets/fit.h - training of small networks: with masks, gradual pruning, lottery tickets
 *
 *     tllm_gradual g = { 0 };                             0 to 90 % zeros between steps 120 and 920
 *     tllm_nn_fit_desc d = { 0 };
 *     g.to = 0.9; g.start = 120; g.every = 20; g.n = 40; g.hard = 1;
 *     d.gradual = &g;
 *     tllm_nn_fit(nn, &task.train, &d, NULL);             Adam 2e-3, cosine, batches of 100, 25 epochs
 *
 * A network with a mask is trained with it: masked weights get no gradient and keep their values bit for bit. */
#ifndef TINYI_LLM_FIT_H
#define TINYI_LLM_FIT_H
#include "llm/lab/nets/nn.h"
TINYI_C_BEGIN

typedef struct tllm_nn_fit_state {
    int64_t step, steps;                    /* done in this training, and all of it */
    int round, rounds;                      /* of a lottery: 0 is the dense training */
    double loss;
    size_t n_kept;
} tllm_nn_fit_state;

typedef struct tllm_nn_fit_desc {           /* zero: the value in brackets */
    tiny_idx batch;                         /* [100, or all samples if there are fewer] */
    int64_t epochs;                         /* [25] */
    double lr;                              /* of Adam, times a cosine that ends at 0 [2e-3] */
    uint64_t seed;                          /* of the order of the samples */
    int64_t first;                          /* begins at this step of the schedule and of the order */
    const tllm_gradual *gradual;            /* NULL: the mask stays as it is */
    /* after each step, after its event; nonzero ends the training with TINY_OK; may be NULL */
    int (*callback)(void *user, const tllm_nn_fit_state *state);
    void *user;
} tllm_nn_fit_desc;

/* desc and last may be NULL. After a failure nn has the numbers of the last complete step. */
TINY_API tiny_status tllm_nn_fit(tllm_nn *nn, const tllm_nn_set *set, const tllm_nn_fit_desc *desc,
                                 tllm_nn_fit_state *last);
/* The event of gradual pruning that follows this step, for a loop of your own; does nothing if none is due. */
TINY_API tiny_status tllm_nn_gradual(tllm_nn *nn, const tllm_gradual *g, int64_t step);

/* Lottery ticket with rewinding: trains to the end; removes a share of the remaining weights, the smallest of all
 * layers together; sets the others back to their values of step `rewind`; trains from there; and so on until
 * round(keep n) weights are left. The last training gives the result. keep 1 is plain training. The whole costs
 * rounds + 1 trainings. J. Frankle et al., 2019 (arXiv 1912.05671). */
typedef struct tllm_nn_lottery_desc {
    tllm_nn_fit_desc fit;                   /* of each training; without gradual and first */
    double keep;                            /* 0 < keep <= 1 */
    double share;                           /* removed in a round [0.2] */
    int64_t rewind;                         /* [4 % of the steps]; -1: step 0 */
    /* nonzero: only the rate goes back to that step, the remaining weights stay trained. A. Renda, J. Frankle,
     * M. Carbin, 2020 (arXiv 2003.02389). With share 1 - keep: pruned once after training and tuned. */
    int rate_only;
} tllm_nn_lottery_desc;
TINY_API tiny_status tllm_nn_lottery(tllm_nn *nn, const tllm_nn_set *set, const tllm_nn_lottery_desc *desc,
                                     tllm_nn_fit_state *last);
TINY_API int tllm_nn_lottery_rounds(double keep, double share);     /* ceil(ln keep / ln (1 - share)); 0: invalid */

TINYI_C_END
#endif
