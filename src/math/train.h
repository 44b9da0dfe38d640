/* src/math/train.h - a training loop, and parameters by name in a file
 *
 * tiny_train makes a dry run of the model, takes a tape of that size, and then for each step: the next batch of a
 * shuffled order, the model's loss, the gradients, a step of the optimiser, the callback. The order of an epoch depends
 * on the seed and its number only, so that a run that was resumed from a file goes the way of one that never
 * stopped. */
#ifndef TINYI_TRAIN_H
#define TINYI_TRAIN_H
#include "math/tape.h"
TINYI_C_BEGIN

typedef struct tiny_train_state {
    int64_t step, steps, epoch;             /* step counts from 1 after the first */
    double loss, grad_norm, factor;         /* of this step; factor: of the schedule */
    tiny_optim *optim;
    size_t tape_bytes;
} tiny_train_state;

/* The loss of n samples, a single number on the tape. In the dry run sample holds 0, 1, 2 ... and nothing may be read
 * from the tape (tiny_tape_dry); tiny_tape_rows minds that by itself. */
typedef tiny_tensor (*tiny_model_fn)(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n);

typedef struct tiny_train_desc {
    const tiny_param *params;
    size_t n_params;
    tiny_model_fn model;
    /* after each step; nonzero ends the training with TINY_OK; may be NULL */
    int (*callback)(void *user, const tiny_train_state *state);
    void *user;
    uint32_t n_samples;
    /* 0: 32, or all where there are fewer; what is left of an epoch is left out */
    tiny_idx batch;
    int64_t epochs;                         /* 0: 1 */
    uint64_t seed;
    int in_order;                           /* nonzero: no shuffling */
    tiny_optim_desc optim;
    tiny_schedule schedule;                 /* total 0: all steps */
    const char *save;                       /* file of parameters, optimiser and step; NULL: none */
    int64_t save_every;                     /* steps; 0: at the end only */
    int resume;                             /* nonzero: begin with what is in save */
} tiny_train_desc;

/* The sentence of a failure names the step. What is left then: the parameters after the last whole step. last may be
 * NULL. */
TINY_API tiny_status tiny_train(tiny_ctx *ctx, const tiny_train_desc *desc, tiny_train_state *last);

/* Rows sample[0..n) of dense data of any type, copied to the tape. */
TINY_API tiny_tensor tiny_tape_rows(tiny_tape *tape, const tiny_tensor *data, const uint32_t *sample, tiny_idx n);

/* Parameters by name, and the state of the optimiser where opt is not NULL (core/box/checkpoint.h). Loading wants every
 * parameter to be there, of the same type and shape. */
TINY_API tiny_status tiny_params_save(tiny_ctx *ctx, const char *path, const tiny_param *params, size_t n,
                                      const tiny_optim *opt);
TINY_API tiny_status tiny_params_load(tiny_ctx *ctx, const char *path, const tiny_param *params, size_t n,
                                      tiny_optim *opt);

TINYI_C_END
#endif
