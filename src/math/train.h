/* src/math/train.h - a training loop, and parameters by name in a file
 *
 * tiny_train makes a dry run of the model and opens a tape of that size. Each step takes the next batch of a shuffled
 * order, computes the loss and the gradients, runs a step of the optimiser and calls the callback. The order of an
 * epoch depends only on the seed and the number of the epoch. So a run that was resumed from a file gives the same
 * results as one that never stopped. */
#ifndef TINYI_TRAIN_H
#define TINYI_TRAIN_H
#include "math/tape.h"
TINYI_C_BEGIN

typedef struct tiny_train_state {
    int64_t step, steps, epoch;             /* step: steps done, 1 in the first callback; steps: in all */
    double loss, grad_norm, factor;         /* of this step; factor: from the schedule */
    tiny_optim *optim;
    size_t tape_bytes;
} tiny_train_state;

/* Returns the loss of n samples, a single number on the tape. In the dry run (tiny_tape_dry) sample holds 0, 1, 2 ...
 * and the function must not read data of the tape; tiny_tape_rows works in both cases. */
typedef tiny_tensor (*tiny_model_fn)(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n);

typedef struct tiny_train_desc {
    const tiny_param *params;
    size_t n_params;
    tiny_model_fn model;
    /* before each step of the optimiser, with the gradients of the loss: it may change them, or compute those of
     * parameters that the loss reaches through others; a failure ends the training; may be NULL */
    tiny_status (*gradients)(void *user);
    /* after each step; nonzero ends the training with TINY_OK; may be NULL */
    int (*callback)(void *user, const tiny_train_state *state);
    void *user;
    uint32_t n_samples;
    /* 0: 32, or all samples if there are fewer. An incomplete last batch of an epoch is skipped. */
    tiny_idx batch;
    int64_t epochs;                         /* 0: 1 */
    uint64_t seed;
    int in_order;                           /* nonzero: no shuffling */
    tiny_optim_desc optim;
    tiny_schedule schedule;                 /* total 0: all steps */
    const char *save;                       /* file of parameters, optimiser and step; NULL: none */
    int64_t save_every;                     /* steps; 0: at the end only */
    int resume;                             /* nonzero: continue from the file save */
    /* steps of the schedule and of the order that are skipped; the optimiser begins afresh. Not with a file. */
    int64_t first;
} tiny_train_desc;

/* The sentence of a failure names the step. The parameters are then those after the last complete step. last may be
 * NULL. */
TINY_API tiny_status tiny_train(tiny_ctx *ctx, const tiny_train_desc *desc, tiny_train_state *last);

/* Copies the rows sample[0..n) of dense data of any type to the tape. */
TINY_API tiny_tensor tiny_tape_rows(tiny_tape *tape, const tiny_tensor *data, const uint32_t *sample, tiny_idx n);

/* Saves and loads parameters by name, and the state of the optimiser unless opt is NULL (core/box/checkpoint.h).
 * Loading fails unless the file has every parameter with the same type and shape. */
TINY_API tiny_status tiny_params_save(tiny_ctx *ctx, const char *path, const tiny_param *params, size_t n,
                                      const tiny_optim *opt);
TINY_API tiny_status tiny_params_load(tiny_ctx *ctx, const char *path, const tiny_param *params, size_t n,
                                      tiny_optim *opt);

TINYI_C_END
#endif
