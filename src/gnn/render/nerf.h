/* src/gnn/render/nerf.h - radiance fields on voxels, coloured by a spiking network whose time runs along the rays
 *
 *   tgnn_nerf_desc d = { 0 };
 *   tgnn_nerf_fit_desc f = { 0 };
 *   d.size[0] = d.size[1] = d.size[2] = 48;
 *   tgnn_nerf_open(ctx, &d, &net);
 *   f.rays = &rays;  f.colours = &colours;                 (n, 6) starts and directions, (n, 3) what is seen
 *   tgnn_nerf_fit(ctx, net, &f);
 *   tgnn_nerf_render(ctx, net, &rays, &seen, &count);      seen (n, 3)
 *   tgnn_nerf_energy(&count);                              by counted multiplications and additions
 *
 * A ray is sampled at equal steps inside a box. Density and features are read between the corners of voxels; the colour
 * of a sample comes from a network of two hidden layers. Its neurons are spikes over time, and the samples of a ray are
 * the time, so that after the first layer it only adds. */
#ifndef TINYI_NERF_H
#define TINYI_NERF_H
#include "math/tape.h"
TINYI_C_BEGIN

/* where colours come from */
enum {
    TGNN_NERF_SPIKES,                       /* spiking neurons; time is the order of the samples of a ray */
    TGNN_NERF_FLOAT,                        /* the same layers with ReLU */
    TGNN_NERF_REPEAT,                       /* spiking neurons; each sample `repeats` times by itself, then the mean */
    TGNN_NERF_DIRECT,                       /* no network: sigmoid of three features, for a first rough shape */
    TGNN_NERF_NETS
};
/* time of TGNN_NERF_SPIKES */
enum {
    TGNN_NERF_CONDENSED,                    /* TCP: the next sample that is left is the next step of time */
    TGNN_NERF_PADDED                        /* TP: a sample that was dropped is a step with the input 0 */
};

typedef struct tgnn_nerf_desc {
    tiny_idx size[3];                       /* corners of voxels on each axis, 2 to 512 */
    double low[3], high[3];                 /* the box; all zero: -1 to 1 */
    int net, time;
    int features;                           /* of a corner; 0: 12 (DIRECT: 3); at most 64 */
    int hidden;                             /* neurons of a layer, a multiple of 32 up to 512; 0: 128 */
    int bands;                              /* sines and cosines of the direction times 1, 2, 4 ...; 0: 4; at most 8 */
    int repeats;                            /* 0: 4; at most 64 */
    int flip;                               /* nonzero: time runs from far to near */
    int padded;                             /* SPIKES, nonzero: every ray takes as many steps of time as the longest
                                             * one, as tensors do: the same colours, for comparison */
    int learn_leak;                         /* nonzero: 1 / tau of each layer is learnt; else tau is 2 */
    double alpha;                           /* of every sample at first; 0: 0.01 */
    double step;                            /* between samples, in voxels; 0: 0.5 */
    double bound;                           /* samples of at most this alpha or weight are dropped; 0: 1e-4 */
    double background[3];
    uint64_t seed;                          /* of the first weights */
} tgnn_nerf_desc;

/* What a rendering counted. Samples: inside the box and not in empty voxels. Points: those that reach the network. */
typedef struct tgnn_nerf_count {
    uint64_t rays, samples, points;
    uint64_t spikes[2];                     /* of the two hidden layers */
    uint64_t multiply_adds, additions;      /* of the network: products of layers, and weights added for spikes */
    uint64_t steps, padded_steps;           /* steps of time: those computed; rays x the most of a ray, as tensors do */
    uint64_t gap_steps;                     /* PADDED: steps between the samples of a ray whose input is 0 */
} tgnn_nerf_count;
/* In joule: 4.6 pJ for a multiply-add, 0.9 pJ for an addition (45 nm; M. Horowitz, 2014). A model, no measurement. */
TINY_API double tgnn_nerf_energy(const tgnn_nerf_count *count);

typedef struct tgnn_nerf tgnn_nerf;
TINY_API tiny_status tgnn_nerf_open(tiny_ctx *ctx, const tgnn_nerf_desc *desc, tgnn_nerf **out);
TINY_API void tgnn_nerf_close(tgnn_nerf *net);             /* takes NULL */
TINY_API const tgnn_nerf_desc *tgnn_nerf_description(const tgnn_nerf *net);         /* with the defaults filled in */
/* "density" (x, y, z), "features" (x, y, z, features), "layer.0" (inputs, hidden), "layer.1" (hidden, hidden),
 * "layer.2" (hidden, 3), "leak" (2). Layers have no biases. The grids are in group 0, the rest in group 1. */
TINY_API const tiny_param *tgnn_nerf_params(const tgnn_nerf *net, size_t *n);
TINY_API tiny_status tgnn_nerf_save(tiny_ctx *ctx, const tgnn_nerf *net, const char *path);
TINY_API tiny_status tgnn_nerf_load(tiny_ctx *ctx, const char *path, tgnn_nerf **out);
/* The density of another field, read at the corners of this one. Give both the same alpha. */
TINY_API tiny_status tgnn_nerf_shape(tiny_ctx *ctx, tgnn_nerf *net, const tgnn_nerf *from);
/* Both grids with other sizes. Gradients are 0 afterwards; the parameters have other memory. */
TINY_API tiny_status tgnn_nerf_resize(tiny_ctx *ctx, tgnn_nerf *net, const tiny_idx size[3]);
/* Finds the voxels in which no sample can have an alpha above the bound, which rendering then skips: with the same
 * results. Call it again after the density was changed; fit does so. part, if not NULL: the part that is left. */
TINY_API tiny_status tgnn_nerf_cull(tiny_ctx *ctx, tgnn_nerf *net, double *part);

/* rays (n, 6): a start and a direction of any length; colours (n, 3). f32, dense. count may be NULL: it costs a second
 * walk along the rays. */
TINY_API tiny_status tgnn_nerf_render(tiny_ctx *ctx, const tgnn_nerf *net, const tiny_tensor *rays,
                                      const tiny_tensor *colours, tgnn_nerf_count *count);
/* The whole formula in plain loops, for one ray: padded tensors of time, spikes as numbers, products of all weights. */
TINY_API tiny_status tgnn_nerf_ref(tiny_ctx *ctx, const tgnn_nerf *net, const float ray[6], float colour[3],
                                   tgnn_nerf_count *count);
/* Adds the gradients of sum over rays of colour . slope, slope (n, 3), to the parameters; colours as render's. */
TINY_API tiny_status tgnn_nerf_backward(tiny_ctx *ctx, tgnn_nerf *net, const tiny_tensor *rays,
                                        const tiny_tensor *slope, const tiny_tensor *colours);

/* ---- parts, each by itself */

/* w_i = alpha_i prod_{j<i} (1 - alpha_j); *rest = prod (1 - alpha). colour, if not NULL: sum w_i rgb_i + rest
 * background. */
TINY_API tiny_status tgnn_nerf_composite(tiny_ctx *ctx, int n, const float *alpha, const float *rgb,
                                         const float background[3], float *w, float *rest, float *colour);
/* Leaky neurons over n steps: h = v + (x - v) leak, s = [h >= 1], v = h (1 - s), v = 0 at first. gap[i]: steps with the
 * input 0 before step i; NULL: none. h and s may be NULL. */
TINY_API tiny_status tgnn_nerf_neuron(tiny_ctx *ctx, int n, const float *x, const int32_t *gap, double leak, float *h,
                                      float *s);
/* dx from ds, with ds/dh = 4 g (1 - g), g = sigmoid(4 (h - 1)), the reset detached; *d_leak may be NULL. */
TINY_API tiny_status tgnn_nerf_neuron_back(tiny_ctx *ctx, int n, const float *x, const int32_t *gap, double leak,
                                           const float *ds, float *dx, double *d_leak);

/* ---- training */

typedef struct tgnn_nerf_fit_state { int64_t step, steps; double loss; } tgnn_nerf_fit_state;
typedef struct tgnn_nerf_fit_desc {
    const tiny_tensor *rays, *colours;      /* (n, 6), (n, 3) */
    tiny_idx batch;                         /* rays of a step; 0: 512 */
    int64_t steps;                          /* 0: 1000 */
    double rate_grid, rate_net;             /* of Adam; 0: 0.1 and 1e-3 */
    double decay;                           /* factor of both at the end; 0: 0.1 */
    double variation;                       /* weight of the total variation of the density; 0: none */
    double entropy;                         /* weight of the entropy of the light behind the box, which clears fog */
    tiny_idx size[3];                       /* not 0: the grids get this size after a third of the steps */
    uint64_t seed;
    int (*callback)(void *user, const tgnn_nerf_fit_state *state);  /* nonzero ends the training; may be NULL */
    void *user;
} tgnn_nerf_fit_desc;
/* Mean squared errors of colours, over random rays. */
TINY_API tiny_status tgnn_nerf_fit(tiny_ctx *ctx, tgnn_nerf *net, const tgnn_nerf_fit_desc *desc);

TINYI_C_END
#endif
