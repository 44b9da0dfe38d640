/* src/llm/lab/nets/nn.h - small feed-forward networks on a tape, described layer by layer, with masks of their weights
 *
 *     tllm_nn_layer layer[3] = { { 0 } };                 dense layers unless kind says otherwise
 *     tllm_nn_desc d = { 0 };
 *     layer[0].n_out = layer[1].n_out = 128; layer[0].relu = layer[1].relu = 1; layer[2].n_out = 10;
 *     d.in[0] = 32; d.layer = layer; d.n_layer = 3; d.seed = 1;
 *     tllm_nn_open(ctx, &d, &nn);                         M128: 32-128-128-10, 21760 weights
 *     tllm_nn_fit(nn, &task.train, NULL, NULL);           llm/lab/nets/fit.h
 *     tllm_nn_right(nn, &task.test, &n_right);
 *
 * The weights are the numbers of matrices and kernels. Biases and norms are not weights: they are never pruned. Weight
 * number i is the i-th number of all layers, one layer after the other, each in row-major order. A mask
 * (llm/lab/nets/mask.h) has a bit for each. A network with a mask computes with w * m; a weight with the bit 0 gets no
 * gradient. One thread at a time may use a network. */
#ifndef TINYI_LLM_NN_H
#define TINYI_LLM_NN_H
#include "llm/lab/nets/mask.h"
#include "llm/lab/nets/task.h"
#include "math/train.h"
TINYI_C_BEGIN

#define TLLM_NN_LAYERS 64                   /* most layers */

typedef enum tllm_nn_kind { TLLM_NN_DENSE, TLLM_NN_CONV, TLLM_NN_MAX_POOL, TLLM_NN_KINDS } tllm_nn_kind;

typedef struct tllm_nn_layer {              /* zero: the value in brackets */
    int kind;
    tiny_idx n_out;                         /* outputs of a dense layer, channels of a convolution */
    /* CONV: side of the window, odd [3], its step [1], (size - 1) / 2 zeros around the image; MAX_POOL: side and step
     * [2, size] */
    int size, stride;
    int norm;                               /* nonzero: a batch norm in place of the bias */
    int relu;
} tllm_nn_layer;

typedef struct tllm_nn_desc {
    tiny_idx in[3];                         /* numbers of a sample; channels, height, width of an image */
    const tllm_nn_layer *layer;             /* copied */
    size_t n_layer;
    uint64_t seed;                          /* of the first weights: N(0, 2 / fan_in); biases are 0 */
    tiny_dtype dtype;                       /* TINY_F64: plain loops, for scores and checks [TINY_F32] */
} tllm_nn_desc;

typedef struct tllm_nn tllm_nn;

typedef struct tllm_nn_weight {             /* of a layer */
    const char *name;                       /* "0.weight" */
    tiny_tensor value, grad;                /* (out, in) or (channels out, channels in, size, size) */
    size_t first;                           /* number of its first weight */
    tiny_idx positions;                     /* pixels where a kernel is applied; 1 for a matrix */
} tllm_nn_weight;

typedef struct tllm_nn_cost {
    size_t n_weight, n_kept;                /* kept: with the bit 1 */
    size_t n_param;                         /* weights, biases and norms */
    double flops, flops_kept;               /* of a sample: two for each weight and position */
    size_t n_empty;                         /* layers in which no weight is kept: the network is cut there */
} tllm_nn_cost;

TINY_API tiny_status tllm_nn_open(tiny_ctx *ctx, const tllm_nn_desc *desc, tllm_nn **out);
TINY_API void tllm_nn_close(tllm_nn *nn);                   /* takes NULL */
/* The same network with the same numbers and mask, in another type. */
TINY_API tiny_status tllm_nn_copy(const tllm_nn *nn, tiny_dtype dtype, tllm_nn **out);
TINY_API const tllm_nn_desc *tllm_nn_is(const tllm_nn *nn);
/* Optimiser group 0: weights; 1: biases and norms. */
TINY_API const tiny_param *tllm_nn_params(const tllm_nn *nn, size_t *n);
TINY_API const tllm_nn_weight *tllm_nn_weights(const tllm_nn *nn, size_t *n);
TINY_API tllm_nn_cost tllm_nn_cost_of(const tllm_nn *nn);

/* Copies the mask; NULL: none. The weights keep their values. */
TINY_API tiny_status tllm_nn_mask(tllm_nn *nn, const tllm_mask *mask);
TINY_API const tllm_mask *tllm_nn_masked(const tllm_nn *nn);        /* NULL: no mask */
TINY_API void tllm_nn_clear(tllm_nn *nn);   /* sets the masked weights to 0 */

/* Logits (n, outputs) of x (n, numbers) or (n, channels, height, width), of the type of the weights. train: batch norms
 * use the mean and variance of the batch and update their running values. */
TINY_API tiny_tensor tllm_nn_run(tiny_tape *tape, const tllm_nn *nn, const tiny_tensor *x, int train);
/* *n_right: the number of samples whose largest logit (the first of equals) is that of the label */
TINY_API tiny_status tllm_nn_right(const tllm_nn *nn, const tllm_nn_set *set, tiny_idx *n_right);

/* ---- files: biases and norms, and the kept weights in one of these forms. Loading checks everything first: after a
 * failure nn is unchanged. Masked weights are loaded as 0. */
typedef enum tllm_nn_form {
    TLLM_NN_PLAIN,                          /* 4 bytes a weight, zeros included */
    TLLM_NN_BITS,                           /* 4 bytes a kept weight, a bit for each weight */
    TLLM_NN_STEPS,                          /* 4 bytes a kept weight, 2 for its distance in the row, 4 a row */
    TLLM_NN_TILES,                          /* tiles of compressed lists, f16 (llm/lab/flashllm/csl.h); size only */
    TLLM_NN_FORMS
} tllm_nn_form;
TINY_API const char *tllm_nn_form_name(int form);           /* "plain", "bits", "steps", "tiles"; NULL: unknown */
/* Bytes of all weights in this form, with their indices and without names and biases. */
TINY_API tiny_status tllm_nn_bytes(const tllm_nn *nn, int form, size_t *bytes);
TINY_API tiny_status tllm_nn_save(const tllm_nn *nn, const char *path, int form);
TINY_API tiny_status tllm_nn_load(tllm_nn *nn, const char *path);

TINYI_C_END
#endif
