/* src/gnn/operator/fno.h - Fourier neural operators: networks from fields to fields; patches, losses, random fields
 *
 *   tgnn_fno_desc d = { 0 };
 *   tgnn_fno *net;
 *   d.d = 2;  d.modes[0] = d.modes[1] = 16;  d.n_in = d.n_out = 1;  d.kind = TGNN_SPECTRAL_TUCKER;  d.ratio = 0.1;
 *   tgnn_fno_open(ctx, &d, &net);
 *   y = tgnn_tape_fno(tape, net, &x, size);                for training; tgnn_fno_params are its parameters
 *   loss = tgnn_tape_relative_l2(tape, &y, &truth);
 *   tgnn_fno_run(ctx, net, &x, size, &y);                  for use
 *
 * Fields are (samples, points, channels), points in row-major order. A network runs on grids of any size. */
#ifndef TINYI_FNO_H
#define TINYI_FNO_H
#include "gnn/operator/spectral.h"
TINYI_C_BEGIN

typedef struct tgnn_fno_desc {
    int d;
    tiny_idx modes[3];                      /* as in tgnn_spectral_desc */
    tiny_idx n_in, n_out;                   /* channels of the fields */
    tiny_idx width;                         /* channels inside; 0: 32 */
    int layers;                             /* blocks; 0: 4; at most 16 */
    int kind;                               /* of the spectral weights, and how they are used: tgnn_spectral_desc */
    double ratio;
    int separable, rebuild;
    int joint;                              /* nonzero: one tensor of weights for all blocks */
    int no_grid;                            /* nonzero: the coordinates of the points are not appended to the input */
    int norm;                               /* nonzero: instance norm after the convolution and after the block */
    int tanh;                               /* nonzero: tanh before the convolution */
    double pad;                             /* zeros after each axis, this part of its length; removed at the end */
    tiny_idx lift, project, mlp;            /* hidden channels; 0: 2 width, 2 width, width / 2 */
    uint64_t seed;                          /* of the first weights */
} tgnn_fno_desc;

typedef struct tgnn_fno tgnn_fno;
/* The network and its gradients, in memory of the context, with drawn weights. */
TINY_API tiny_status tgnn_fno_open(tiny_ctx *ctx, const tgnn_fno_desc *desc, tgnn_fno **out);
TINY_API void tgnn_fno_close(tgnn_fno *net);               /* takes NULL */
TINY_API const tgnn_fno_desc *tgnn_fno_description(const tgnn_fno *net);    /* with the defaults filled in */
TINY_API const tiny_param *tgnn_fno_params(const tgnn_fno *net, size_t *n);
TINY_API double tgnn_fno_count(const tgnn_fno *net);        /* real numbers of all parameters */
/* A safetensors file: the parameters by name, and the description as a line of "__metadata__" (docs/papers/tfno.md,
 * with the Python for weights of neuraloperator). A file is written completely or not at all. */
TINY_API tiny_status tgnn_fno_load(tiny_ctx *ctx, const char *path, tgnn_fno **out);
TINY_API tiny_status tgnn_fno_save(tiny_ctx *ctx, const tgnn_fno *net, const char *path);

/* x (samples, points, n_in) on a grid size[0 .. d), y (samples, points, n_out). A failure stays in the tape. The
 * parameters get gradients once they were given to the tape (tiny_tape_param). */
TINY_API tiny_tensor tgnn_tape_fno(tiny_tape *tape, const tgnn_fno *net, const tiny_tensor *x, const tiny_idx *size);
/* The same without a tape: one sample at a time, in the workspace of one block. f32. */
TINY_API tiny_status tgnn_fno_run(tiny_ctx *ctx, const tgnn_fno *net, const tiny_tensor *x, const tiny_idx *size,
                                  const tiny_tensor *y);
/* The bytes of that workspace. */
TINY_API tiny_status tgnn_fno_workspace(tiny_ctx *ctx, const tgnn_fno *net, const tiny_idx *size, size_t *bytes);

/* ---- patches of periodic fields in two dimensions
 *
 * 2^levels patches on each axis, row by row, each with `pad` points more on each side. Level 0 is the patch itself.
 * Level l has as many points, is centred on the patch, and shows 2^l times its extent: the field at every 2^l-th point.
 *   split   x (samples, rows * columns, C) -> y (samples * patches, rows and columns of a patch, C * (levels + 1))
 *   join    y (samples * patches, rows and columns of a patch, C) -> x, without the padding */
typedef struct tgnn_patches {
    int levels;                             /* 0 to 8 */
    tiny_idx size[2], pad[2];               /* of the field; points added on each side of a patch */
} tgnn_patches;
/* Rows and columns of a patch with its padding. 2^levels must divide the size, and so must 4^levels if levels > 0. */
TINY_API tiny_status tgnn_patch_size(tiny_ctx *ctx, const tgnn_patches *p, tiny_idx patch[2]);
TINY_API tiny_status tgnn_patch_split(tiny_ctx *ctx, const tgnn_patches *p, const tiny_tensor *x, const tiny_tensor *y);
TINY_API tiny_status tgnn_patch_join(tiny_ctx *ctx, const tgnn_patches *p, const tiny_tensor *y, const tiny_tensor *x);
TINY_API tiny_tensor tgnn_tape_patch_join(tiny_tape *tape, const tgnn_patches *p, const tiny_tensor *y);

/* ---- losses: means over the samples of |y - t| / |t|
 *
 * L2: of the values. H1: of the values and their differences along each axis, |u|^2 + sum |du/dx_k|^2, the domain of
 * length 1: central ones, periodic or with one-sided ends. */
TINY_API tiny_tensor tgnn_tape_relative_l2(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *t);
TINY_API tiny_tensor tgnn_tape_relative_h1(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *t, int d,
                                           const tiny_idx *size, int periodic);

/* ---- Gaussian random fields, periodic, of mean 0
 *
 * The mode of frequencies k has the variance scale^2 (|k|^2 + tau^2)^-alpha. Field i of a seed is the same whatever
 * else is drawn. */
typedef struct tgnn_random_field {
    int d;                                  /* 1 or 2 */
    tiny_idx size[2];
    double alpha, tau, scale;               /* 0: 2, 3, 1 */
} tgnn_random_field;
/* y (n, points): the fields first .. first + n - 1 */
TINY_API tiny_status tgnn_random_fields(tiny_ctx *ctx, const tgnn_random_field *desc, uint64_t seed, uint64_t first,
                                        const tiny_tensor *y);

TINYI_C_END
#endif
