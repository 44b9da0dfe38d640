/* src/gnn/operator/unet.h - encoder-decoders of convolutions over fields in two dimensions, ordinary or compressed
 *
 *   tgnn_unet_desc d = { 0 };
 *   tgnn_unet *net;
 *   d.n_in = 3;  d.n_out = 1;  d.kind = TGNN_UNET_ONEWAY;  d.rank = 2;
 *   tgnn_unet_open(ctx, &d, &net);
 *   y = tgnn_tape_unet(tape, net, &x, size);               for training; tgnn_unet_params are its parameters
 *   tgnn_unet_run(ctx, net, &x, size, &y);                 for use
 *
 * Layers: n_in -> width; for each level width -> width with stride 2; width -> width; for each level, after the field
 * was made twice as large and the one from before the stride was appended, 2 width -> width, the last of them -> n_out.
 * These are 2 levels + 2 convolutions of k x k taps, GELU after all but the last. Fields are (samples, channels,
 * points), points in row-major order; the sides must be multiples of 2^levels. */
#ifndef TINYI_UNET_H
#define TINYI_UNET_H
#include "gnn/operator/oneway.h"
TINYI_C_BEGIN

typedef enum tgnn_unet_kind {
    TGNN_UNET_DENSE,                        /* ordinary convolutions */
    TGNN_UNET_ONEWAY,                       /* `rank` one-way products for each output channel */
    TGNN_UNET_SEPARABLE,                    /* k x k taps on each channel by itself, then a product of channels */
    TGNN_UNET_CP,                           /* `rank` one-way products for all output channels, and their mixture */
    TGNN_UNET_KINDS
} tgnn_unet_kind;
TINY_API const char *tgnn_unet_kind_name(int kind);         /* "oneway"; NULL: unknown */

typedef struct tgnn_unet_desc {             /* zero: the value in brackets */
    tiny_idx n_in, n_out;
    tiny_idx width;                         /* channels inside [32] */
    int levels;                             /* [1]; -1: none; at most 6 */
    int k;                                  /* taps of an axis, odd [5] */
    int kind;
    int rank;                               /* of ONEWAY [1] and CP [width] */
    uint64_t seed;                          /* of the first weights */
} tgnn_unet_desc;

typedef struct tgnn_unet tgnn_unet;
TINY_API tiny_status tgnn_unet_open(tiny_ctx *ctx, const tgnn_unet_desc *desc, tgnn_unet **out);
TINY_API void tgnn_unet_close(tgnn_unet *net);              /* takes NULL */
TINY_API const tgnn_unet_desc *tgnn_unet_description(const tgnn_unet *net);     /* with the defaults filled in */
TINY_API const tiny_param *tgnn_unet_params(const tgnn_unet *net, size_t *n);
TINY_API double tgnn_unet_count(const tgnn_unet *net);      /* weights and biases */
TINY_API double tgnn_unet_flops(const tgnn_unet *net, const tiny_idx *size);    /* of one sample, in convolutions */

/* x (samples, n_in, size[0] size[1]) -> (samples, n_out, size[0] size[1]). A failure stays in the tape. */
TINY_API tiny_tensor tgnn_tape_unet(tiny_tape *tape, const tgnn_unet *net, const tiny_tensor *x, const tiny_idx *size);
/* The same without a tape, f32, one sample at a time. */
TINY_API tiny_status tgnn_unet_run(tiny_ctx *ctx, const tgnn_unet *net, const tiny_tensor *x, const tiny_idx *size,
                                   const tiny_tensor *y);
/* Compression after training: a network of one-way filters of this rank, from an ordinary one (tgnn_oneway_fit).
 * *error, which may be NULL: the largest relative error of a layer's kernels. */
TINY_API tiny_status tgnn_unet_compress(tiny_ctx *ctx, const tgnn_unet *dense, int rank, tgnn_unet **out,
                                        double *error);
/* A checkpoint with the description and the parameters by name. */
TINY_API tiny_status tgnn_unet_save(tiny_ctx *ctx, const tgnn_unet *net, const char *path);
TINY_API tiny_status tgnn_unet_load(tiny_ctx *ctx, const char *path, tgnn_unet **out);

TINYI_C_END
#endif
