/* src/llm/compress/join_train.h - SN-Net for model files: trains two joined models and their linear layers together
 *
 *   tllm_join_fit(ctx, j, token, n);                       first values (llm/compress/join.h)
 *   tllm_join_train_desc d = { 0 };
 *   d.steps = 600;
 *   tllm_join_train(ctx, j, token, n, &d, NULL);
 *   tllm_join_put(ctx, j, NULL, writer);                   the trained weights, in the formats of the files
 *
 * Each step draws one of all networks, the two models included, and a piece of the text (llm/lab/nets/snnet.h). */
#ifndef TINYI_JOIN_TRAIN_H
#define TINYI_JOIN_TRAIN_H
#include "llm/compress/join.h"
#include "llm/lab/nets/snnet.h"
TINYI_C_BEGIN

typedef struct tllm_join_train_desc {       /* zero: the value in brackets */
    int64_t steps;                          /* [500] */
    tiny_idx sequences;                     /* pieces of a step [1] */
    double lr;                              /* of Adam, falling linearly to 0 [3e-4] */
    double stitch_lr;                       /* of the linear layers, as a multiple of lr [1] */
    uint64_t seed;
    /* after each step, loss in nats per token; nonzero ends the training with TINY_OK; may be NULL */
    int (*callback)(void *user, const tllm_snnet_fit_state *state);
    void *user;
} tllm_join_train_desc;

/* token: n tokens, cut into pieces of the window of the description of j. Both models must be of the architecture
 * "llama", without biases, scaled rotations and experts. desc and last may be NULL. Memory: 4 times the weights in
 * floats, and the tape. After a failure j is as before. */
TINY_API tiny_status tllm_join_train(tiny_ctx *ctx, tllm_join *j, const int32_t *token, tiny_idx n,
                                     const tllm_join_train_desc *desc, tllm_snnet_fit_state *last);

TINYI_C_END
#endif
