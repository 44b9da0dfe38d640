/* src/llm/lab/weave/weave_sgd.h - trains linear models on a tllm_weave, reading only as many bits of each number as a
 * step needs
 *
 *   tllm_weave_sgd_desc d = { 0 };                           least squares, batches of 16, 2 to 8 bits depending on the
 *                                                            loss
 *   tllm_weave_state s = { 0 };
 *   float *model = ...;                                      n_feature zeros; one more with d.intercept
 *   while (s.epoch < 30) tllm_weave_epoch(ctx, &data, label, &d, &s, model);
 *   tllm_weave_plain_model(ctx, &data, model, d.intercept, weight, &bias);      for original samples: bias + weight . x
 *
 * One thread at a time may train a model. After a failure model and state are unchanged. */
#ifndef TINYI_WEAVE_SGD_H
#define TINYI_WEAVE_SGD_H
#include "llm/lab/weave/weave.h"
TINYI_C_BEGIN

/* tasks. Labels of LINEAR: any finite numbers; of LOGISTIC: 0 and 1; of SVM: -1 and 1 */
enum { TLLM_WEAVE_LINEAR, TLLM_WEAVE_LOGISTIC, TLLM_WEAVE_SVM };

typedef struct tllm_weave_state {           /* all zero at the start of a training */
    int epoch;                              /* finished epochs */
    int bits;                               /* bits of the next epoch; 0 before the first */
    /* loss on all 32 bits after the last epoch that measured it, and after the one before */
    double loss, loss_before;
    uint64_t bytes, bytes_loss;             /* bytes of the lines read by steps and by losses so far */
} tllm_weave_state;

typedef struct tllm_weave_sgd_desc {        /* all zero: the defaults below */
    int task;                               /* TLLM_WEAVE_LINEAR */
    int bits;                               /* of every epoch, 1 .. 32; 0: a schedule */
    int bits_first, bits_most;              /* of the schedule; 0: 2 and 8 */
    /* one more bit after an epoch whose loss fell by less than this share; 0: 0.01 */
    double gain;
    /* replaces that rule: returns the bits of the next epoch, 1 .. 32 */
    int (*schedule)(void *user, const tllm_weave_state *s);
    void *user;
    double lr, decay;                       /* of epoch e: lr decay^sqrt(e + 1); 0: 1 / n_feature, and 1 */
    double l2;                              /* adds l2 / 2 |weights|^2 to the loss */
    tiny_idx batch;                         /* samples of a step, in the order of the store; 0: 16 */
    /* nonzero: a number truncated to s bits means the middle of its interval, x_s + 2^-(s + 1); not in constant
     * features */
    int midpoint;
    int intercept;                          /* nonzero: model[n_feature] is added to every product and learned */
    /* not 0: the factor of a step is 2^-shift instead of lr / batch, and each change of a weight is rounded down to a
     * multiple of 2^-23, as in a fixed-point model */
    int shift;
    /* not 0: this many models learn in parallel, each from its own part of the samples; the result is their mean */
    int average;
    int loss;                               /* nonzero: measure the loss after every epoch; the gain rule always does */
} tllm_weave_sgd_desc;

/* Runs one epoch over all samples. Without average the features are divided among the threads: on a given target the
 * model is the same for any number of threads. With average the models are divided among them: the result is the same
 * for equal `average`. Neither has a data race. */
TINY_API tiny_status tllm_weave_epoch(tiny_ctx *ctx, const tllm_weave *data, const float *label,
                                      const tllm_weave_sgd_desc *desc, tllm_weave_state *state, float *model);
/* Mean loss on all 32 bits: (dot - y)^2 / 2, log(1 + exp(dot)) - y dot, or max(0, 1 - y dot). Reads task, l2 and
 * intercept of desc. */
TINY_API tiny_status tllm_weave_loss(tiny_ctx *ctx, const tllm_weave *data, const float *label,
                                     const tllm_weave_sgd_desc *desc, const float *model, double *loss);
/* The model for the original samples: bias + sum weight[j] x[j]. */
TINY_API tiny_status tllm_weave_plain_model(tiny_ctx *ctx, const tllm_weave *data, const float *model, int intercept,
                                            float *weight, float *bias);

TINYI_C_END
#endif
