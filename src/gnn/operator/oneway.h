/* src/gnn/operator/oneway.h - convolutions of one-way filters, and the wave equation as data for them
 *
 *   tgnn_oneway p = { 0 };
 *   p.d = 2;  p.n_in = 16;  p.n_out = 32;  p.rank = 2;  p.k = 5;  p.pad = 2;
 *   tgnn_oneway_init(ctx, &p, seed, &a, &f);               a (64, 16), f (2, 64, 5)
 *   y = tgnn_tape_oneway(tape, &p, &x, &a, &f, &bias, size);               for training
 *   tgnn_oneway_conv(ctx, &p, &x, &a, &f, &bias, size, &y);                for use
 *
 * A kernel of an ordinary convolution is (n_in, k, k) numbers for each output channel. Here it is a sum of `rank` outer
 * products of one filter through the channels and one along each axis: rank (n_in + d k) numbers. gnn/operator/unet.h
 * makes networks of them. */
#ifndef TINYI_ONEWAY_H
#define TINYI_ONEWAY_H
#include "math/tape.h"
TINYI_C_BEGIN

/* z[s][p] = sum over c of a[s][c] x[c][p] for each s = o rank + r; then the filter f[0][s] along the first axis,
 * f[1][s] along the second ..; y[o] = bias[o] + the sum of the `rank` results of o. With several axes the stride and
 * the zeros are those of each. Fields are (batch, channels, points), points in row-major order. */
typedef struct tgnn_oneway {
    int d;                                  /* axes, 1 to 3 */
    tiny_idx n_in, n_out;                   /* channels */
    int rank;                               /* at least 1 */
    int k;                                  /* taps of a filter, odd */
    int stride, pad;                        /* stride 0: 1; zeros on each side, below k; (k - 1) / 2 keeps the size */
} tgnn_oneway;

/* Weights without the bias: rank n_out (n_in + d k); of the ordinary convolution: n_out n_in k^d. */
TINY_API double tgnn_oneway_count(const tgnn_oneway *p);
TINY_API double tgnn_oneway_dense_count(const tgnn_oneway *p);
/* The size of y. Each axis of x must have k points or more. */
TINY_API tiny_status tgnn_oneway_size(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_idx *size, tiny_idx *after);
/* a (n_out rank, n_in) and f (d, n_out rank, k), f32 or f64: normal, of the variance
 * (2 / (rank n_in k^d))^(1 / (d + 1)), so that the sum of the outer products has the variance 2 / (n_in k^d) (He). */
TINY_API tiny_status tgnn_oneway_init(tiny_ctx *ctx, const tgnn_oneway *p, uint64_t seed, const tiny_tensor *a,
                                      const tiny_tensor *f);
/* x (batch, n_in, points) -> (batch, n_out, points'); bias (n_out) or NULL. A failure stays in the tape. */
TINY_API tiny_tensor tgnn_tape_oneway(tiny_tape *tape, const tgnn_oneway *p, const tiny_tensor *x, const tiny_tensor *a,
                                      const tiny_tensor *f, const tiny_tensor *bias, const tiny_idx *size);
/* The same without a tape: one sample at a time. */
TINY_API tiny_status tgnn_oneway_conv(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *x, const tiny_tensor *a,
                                      const tiny_tensor *f, const tiny_tensor *bias, const tiny_idx *size,
                                      const tiny_tensor *y);
/* The kernel of the same ordinary convolution: kernel (n_out, n_in, k^d). */
TINY_API tiny_status tgnn_oneway_kernel(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *a, const tiny_tensor *f,
                                        const tiny_tensor *kernel);
/* The other way round, for a kernel that is trained already: of each output channel the best outer products that
 * alternating least squares finds. A rank of k^d or of n_in k^(d - 1) gives every kernel exactly. *error, which may be
 * NULL: |difference| / |kernel|. */
TINY_API tiny_status tgnn_oneway_fit(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *kernel,
                                     const tiny_tensor *a, const tiny_tensor *f, double *error);

/* ---- the wave equation u_tt = c^2 laplace u on n x n points with u = 0 around them
 *
 * Leapfrog: u+ = 2 u - u- + (c step)^2 (sum of the four neighbours - 4 u), with step = dt / h. It is stable for
 * c step <= 1 / sqrt 2; larger steps are refused. c, u and before are dense f64 (n, n); c NULL: 1 everywhere. */
TINY_API tiny_status tgnn_wave_run(tiny_ctx *ctx, const tiny_tensor *c, double step, tiny_idx steps,
                                   const tiny_tensor *u, const tiny_tensor *before);
/* 1/2 |(u - before) / c|^2 + 1/2 step^2 (sum over links of the differences of u times those of before): the leapfrog
 * conserves it. */
TINY_API tiny_status tgnn_wave_energy(tiny_ctx *ctx, const tiny_tensor *c, double step, const tiny_tensor *u,
                                      const tiny_tensor *before, double *energy);

/* Trajectories by seed. Each starts at rest with 1 to 3 Gaussian bumps of width 1.5 to 3 and size 0.5 to 1 of either
 * sign, in a smooth random c between 0.5 and 1. Sample (trajectory i, pair j) shows step t = start + j every and asks
 * for step t + ahead. Trajectory i of a seed is the same whatever else is drawn. */
typedef struct tgnn_wave_data {             /* zero: the value in brackets */
    tiny_idx n;                             /* points of a side [64] */
    tiny_idx ahead;                         /* steps to predict [8] */
    tiny_idx start, every;                  /* first step shown [0]; steps between samples [8] */
    tiny_idx pairs;                         /* samples of a trajectory [1] */
    double step;                            /* dt / h [0.5] */
    int plain;                              /* nonzero: c is 1 everywhere */
} tgnn_wave_data;
/* x (samples, 3, n n): u_t, u_(t-1), c; y (samples, 1, n n): u_(t + ahead); f32, dense. Sample number
 * i pairs + j for the trajectories first .. first + samples / pairs - 1. */
TINY_API tiny_status tgnn_wave_samples(tiny_ctx *ctx, const tgnn_wave_data *desc, uint64_t seed, uint64_t first,
                                       const tiny_tensor *x, const tiny_tensor *y);

/* ---- inside: what the bodies share ---- */

TINYI_FN tiny_status tinyi_oneway_check(tiny_ctx *ctx, const tgnn_oneway *p);
TINYI_FN tiny_status tinyi_oneway_kernel_fits(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *a,
                                              const tiny_tensor *f, const tiny_tensor *kernel);

TINYI_C_END
#endif
