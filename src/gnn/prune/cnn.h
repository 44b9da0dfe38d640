/* src/gnn/prune/cnn.h - small convolution networks with shortcuts: what meta pruning rewrites and cuts
 *
 *     tgnn_cnn_layer layer[3] = { { 0 } };
 *     tgnn_cnn_desc d = { { 0 } };
 *     layer[0].n_out = 8; layer[0].size = 3; layer[0].norm = layer[0].relu = 1;
 *     layer[1] = layer[0]; layer[1].add = 1;              plus the result of the first layer
 *     layer[2].n_out = 10;                                size 0: a matrix over the mean of the image
 *     d.in[0] = 1; d.in[1] = d.in[2] = 16; d.layer = layer; d.n_layer = 3; d.seed = 1;
 *     tgnn_cnn_open(ctx, &d, &cnn);
 *
 * Signal 0 is the input, signal k the result of the k-th layer, which reads signal k - 1. Its channels are the nodes of
 * the graph of the network (gnn/prune/meta.h). One thread at a time may use a network. */
#ifndef TINYI_GNN_CNN_H
#define TINYI_GNN_CNN_H
#include "math/train.h"
TINYI_C_BEGIN

#define TGNN_CNN_LAYERS 48                  /* most layers */

typedef struct tgnn_cnn_layer {             /* zero: the value in brackets */
    tiny_idx n_out;
    int size;                               /* 3 or 1: a convolution; 0: a matrix. After a matrix only matrices */
    int stride;                             /* [1] */
    int norm;                               /* nonzero: a batch norm in place of the bias; not of a matrix */
    int relu;                               /* after the shortcut */
    int add;                                /* k > 0: adds signal k, of the same shape */
    int side;                               /* nonzero: through a convolution of 1 x 1 with a batch norm: any shape */
} tgnn_cnn_layer;

typedef struct tgnn_cnn_desc {
    tiny_idx in[3];                         /* channels, height, width; a vector: numbers, 1, 1 */
    const tgnn_cnn_layer *layer;            /* copied */
    size_t n_layer;
    uint64_t seed;                          /* of the first weights: N(0, 2 / fan_in) */
    tiny_dtype dtype;                       /* TINY_F64: plain loops, for checks [TINY_F32] */
} tgnn_cnn_desc;

typedef struct tgnn_cnn tgnn_cnn;

typedef struct tgnn_images { tiny_tensor x, label; } tgnn_images;           /* x (n, C, H, W) f32; label (n) i32 */

/* The tensors of a layer: numbers in tgnn_cnn_params; -1: none. */
typedef struct tgnn_cnn_at {
    int weight, gain, bias, mean, variance;
    int side, side_gain, side_bias, side_mean, side_variance;
    int side_stride;
    tiny_idx shape[3];                      /* channels, height, width of the result */
} tgnn_cnn_at;

TINY_API tiny_status tgnn_cnn_open(tiny_ctx *ctx, const tgnn_cnn_desc *desc, tgnn_cnn **out);
TINY_API void tgnn_cnn_close(tgnn_cnn *cnn);                /* takes NULL */
TINY_API tiny_status tgnn_cnn_copy(const tgnn_cnn *cnn, tgnn_cnn **out);
TINY_API const tgnn_cnn_desc *tgnn_cnn_is(const tgnn_cnn *cnn);
TINY_API const tgnn_cnn_at *tgnn_cnn_layers(const tgnn_cnn *cnn);
/* The first *n are trained; means and variances of norms follow, up to *n_all, without gradients. */
TINY_API const tiny_param *tgnn_cnn_params(const tgnn_cnn *cnn, size_t *n, size_t *n_all);
TINY_API tiny_idx tgnn_cnn_channels(const tgnn_cnn *cnn, size_t signal);
TINY_API double tgnn_cnn_flops(const tgnn_cnn *cnn);        /* of an image: two for each product of a weight */

/* Logits (n, outputs) of x (n, C, H, W). train: norms use the mean and variance of the batch. */
TINY_API tiny_tensor tgnn_cnn_run(tiny_tape *tape, const tgnn_cnn *cnn, const tiny_tensor *x, int train);
TINY_API tiny_status tgnn_cnn_right(const tgnn_cnn *cnn, const tgnn_images *set, tiny_idx *n_right);

typedef struct tgnn_cnn_fit_desc {          /* zero: the value in brackets */
    tiny_idx batch;                         /* [50, or all images if there are fewer] */
    int64_t epochs;                         /* [10] */
    double lr;                              /* SGD, momentum 0.9 (Nesterov), decay 5e-4, cosine to 0 [0.05] */
    uint64_t seed;                          /* of the order */
    int (*callback)(void *user, const tiny_train_state *state);     /* nonzero ends the training; may be NULL */
    void *user;
} tgnn_cnn_fit_desc;
TINY_API tiny_status tgnn_cnn_fit(tgnn_cnn *cnn, const tgnn_images *set, const tgnn_cnn_fit_desc *desc);

/* ---- inside: what the bodies share ---- */

TINYI_FN tiny_ctx *tinyi_cnn_ctx(const tgnn_cnn *cnn);
TINYI_FN tiny_status tinyi_cnn_set_check(const tgnn_cnn *cnn, const tgnn_images *set);
/* x of these images in the type of the weights, and their labels, in one block: tiny_free(ctx, out->x.data) */
TINYI_FN tiny_status tinyi_cnn_rows(const tgnn_cnn *cnn, const tgnn_images *set, tiny_idx first, tiny_idx n,
                                    tgnn_images *out);

TINYI_C_END
#endif
