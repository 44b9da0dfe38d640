/* src/llm/lab/nets/resnet.h - a residual network of a chosen shape: trained, taught by another one, cut by its filters
 *
 *     tllm_resnet_open(ctx, &space, &shape, 1, TINY_F32, &net);           llm/lab/nets/space.h
 *     fit.teacher = full;                                                 NULL: plain training
 *     tllm_resnet_fit(net, &task.train, &fit);
 *     tllm_resnet_right(net, &task.test, &n_right);
 *
 * One thread at a time may use a network. */
#ifndef TINYI_LLM_RESNET_H
#define TINYI_LLM_RESNET_H
#include "llm/lab/nets/space.h"
#include "llm/lab/nets/task.h"
#include "math/train.h"
TINYI_C_BEGIN

typedef struct tllm_resnet tllm_resnet;

/* shape NULL: all of the space. Weights N(0, 2 / fan_in) by the seed. F64: plain loops, for checks. */
TINY_API tiny_status tllm_resnet_open(tiny_ctx *ctx, const tllm_space *space, const tllm_shape *shape, uint64_t seed,
                                      tiny_dtype dtype, tllm_resnet **out);
TINY_API void tllm_resnet_close(tllm_resnet *net);          /* takes NULL */
TINY_API const tllm_space *tllm_resnet_space(const tllm_resnet *net);
TINY_API const tllm_shape *tllm_resnet_shape(const tllm_resnet *net);
/* The trained numbers first, then *n_all - *n running means and variances of norms, which have no gradient. */
TINY_API const tiny_param *tllm_resnet_params(const tllm_resnet *net, size_t *n, size_t *n_all);
/* Logits (n, classes) of images (n, channels, height, width). train: norms use the mean and variance of the batch. */
TINY_API tiny_tensor tllm_resnet_run(tiny_tape *tape, const tllm_resnet *net, const tiny_tensor *x, int train);
TINY_API tiny_status tllm_resnet_right(const tllm_resnet *net, const tllm_nn_set *set, tiny_idx *n_right);

typedef struct tllm_resnet_fit_desc {       /* zero: the value in brackets */
    tiny_idx batch;                         /* [50, or all samples if there are fewer] */
    int64_t epochs;                         /* [30] */
    double lr;                              /* of SGD with momentum 0.9 (Nesterov), times a cosine to 0 [0.1] */
    double decay;                           /* added to the gradient; below 0: none [5e-4] */
    uint64_t seed;                          /* of the order of the samples */
    /* Not NULL: loss (1 - a) CE + a T^2 KL(softmax(teacher / T) || softmax(net / T)). Its numbers do not change. G.
     * Hinton et al., 2015 (arXiv 1503.02531). */
    const tllm_resnet *teacher;
    double share, temperature;              /* a [0.9] and T [4] */
    int (*callback)(void *user, const tiny_train_state *state);     /* nonzero ends the training; may be NULL */
    void *user;
} tllm_resnet_fit_desc;
/* desc may be NULL. After a failure the network has the numbers of the last complete step. */
TINY_API tiny_status tllm_resnet_fit(tllm_resnet *net, const tllm_nn_set *set, const tllm_resnet_fit_desc *desc);

/* A network of a smaller shape that keeps, of the first convolution of each block, the filters with the largest sums of
 * |w|, and of everything else the first ones. H. Li et al., "Pruning Filters for Efficient ConvNets", 2016 (arXiv
 * 1608.08710): only these convolutions can lose filters in any order, since no shortcut reads them. */
TINY_API tiny_status tllm_resnet_filters(const tllm_resnet *net, const tllm_shape *shape, tllm_resnet **out);

/* All numbers, by name. Loading expects the same space, shape and type. */
TINY_API tiny_status tllm_resnet_save(const tllm_resnet *net, const char *path);
TINY_API tiny_status tllm_resnet_load(tllm_resnet *net, const char *path);

/* ---- inside: what the search shares ---- */

TINYI_FN tiny_tensor tinyi_res_conv(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w, int stride);
/* The additive rule: the common channels added, the others as they are. */
TINYI_FN tiny_tensor tinyi_res_sum(tiny_tape *tape, const tiny_tensor *a, const tiny_tensor *b);
TINYI_FN tiny_tensor tinyi_res_short(tiny_tape *tape, const tiny_tensor *x, int stride);   /* the mean of each window */
TINYI_FN tiny_tensor tinyi_res_relu(tiny_tape *tape, const tiny_tensor *x);
TINYI_FN tiny_tensor tinyi_res_mean(tiny_tape *tape, const tiny_tensor *x);     /* (N, C, H, W) to (N, C) */
TINYI_FN tiny_status tinyi_res_images(tiny_ctx *ctx, const tllm_space *space, const tllm_nn_set *set);

TINYI_C_END
#endif
