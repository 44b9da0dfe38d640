/* src/gnn/render/nerf_inside.h - what the field, its rays, its network and its training share */
#ifndef TINYI_NERF_INSIDE_H
#define TINYI_NERF_INSIDE_H
#include "gnn/render/nerf.h"
#include "core/state_inside.h"
TINYI_C_BEGIN

enum { TINYI_NERF_DENSITY, TINYI_NERF_FEATURES, TINYI_NERF_LAYER, TINYI_NERF_LEAK = TINYI_NERF_LAYER + 3,
       TINYI_NERF_PARAMS };
#define TINYI_NERF_INPUTS 128               /* at most: 64 features, a direction, 8 bands of 6 */

struct tgnn_nerf {
    tiny_ctx *ctx;
    tgnn_nerf_desc desc;
    int n_in;                               /* numbers that the network reads; 0: none */
    double cell[3], base;                   /* length of a voxel on each axis; the mean of them when it was opened */
    double shift;                           /* alpha of a density 0 is desc.alpha for a step of a voxel */
    size_t n;                               /* parameters; DIRECT: the grids alone */
    tiny_param params[TINYI_NERF_PARAMS];
    float *grids, *layers;                  /* values, then gradients */
    unsigned char *empty;                   /* (x, y, z) voxels, one less than corners; NULL: not known */
};

/* A sample of a ray that has an alpha above the bound. */
typedef struct tinyi_nerf_sample {
    float at[3];                            /* in voxels from the low corner */
    float alpha, w, slope;                  /* slope: of alpha by the density */
    /* along the ray; number among the points of the ray, -1: weight too small */
    int32_t step, point;
} tinyi_nerf_sample;

/* What the network of one ray works with; the arrays after `rgb` are NULL unless gradients are wanted. */
typedef struct tinyi_nerf_work {
    tinyi_nerf_sample *sample;
    int32_t *order, *gap;                   /* points in the order of time, and steps without input before each */
    float *x, *pre, *mid;                   /* (points, inputs), (points, hidden), (points, hidden) */
    float *v, *out;                         /* states of both layers and the input of the second; (points, 3) */
    uint32_t *bits;                         /* of both layers, one step */
    float *rgb;                             /* (points, 3), in the order along the ray */
    float *h[5];                            /* (points, repeats, hidden): h of both layers, d of both, spikes */
    float *d_out, *sum;                     /* (points, repeats, 3); a layer */
} tinyi_nerf_work;

/* the most samples that a ray can have */
TINYI_FN tiny_idx tinyi_nerf_most(const tgnn_nerf *net);
/* Samples of a ray, weights, and what is left of the light behind them; the number of samples. */
TINYI_FN tiny_idx tinyi_nerf_walk(const tgnn_nerf *net, const float *ray, tinyi_nerf_sample *sample, float *rest,
                                  uint64_t *n_samples, tiny_idx *n_points);
/* The first of n values at each corner around a place, and the parts of the eight corners. */
/* fills in the defaults of a description */
TINYI_FN tiny_status tinyi_nerf_check(tiny_ctx *ctx, tgnn_nerf_desc *d);
TINYI_FN tiny_idx tinyi_nerf_corners(const tgnn_nerf *net, const float *at, tiny_idx step[8], float part[8]);
TINYI_FN int tinyi_nerf_unit(const float *ray, float *unit);        /* the direction of length 1; 0: there is none */
TINYI_FN void tinyi_nerf_input(const tgnn_nerf *net, const float *at, const float *unit, float *x);
TINYI_FN void tinyi_nerf_direct(const tgnn_nerf *net, const float *at, float *rgb);
/* Colours of the points of a ray from w->x, in the order along the ray. pad: at least this many steps of time, the
 * first one at `first`; 0: only those that are needed. */
TINYI_FN void tinyi_nerf_network(const tgnn_nerf *net, const struct tiny_kernels *k, tinyi_nerf_work *w, tiny_idx n,
                                 tiny_idx pad, tiny_idx first, tgnn_nerf_count *count);
/* From d rgb (points, 3) to w->x, which becomes d x, and the gradients of the layers. */
TINYI_FN tiny_status tinyi_nerf_network_back(tgnn_nerf *net, tinyi_nerf_work *w, tiny_idx n, const float *d_rgb);
TINYI_FN size_t tinyi_nerf_work_bytes(const tgnn_nerf *net, int gradients);
TINYI_FN void tinyi_nerf_work_in(const tgnn_nerf *net, int gradients, void *memory, tinyi_nerf_work *w);
TINYI_FN tiny_status tinyi_nerf_fits(tiny_ctx *ctx, const tgnn_nerf *net, const tiny_tensor *rays,
                                     const tiny_tensor *colours);
/* Gradients of sum colour . slope, or, slope NULL, of the mean of (colour - truth)^2; plus entropy times that of the
 * rests. */
TINYI_FN tiny_status tinyi_nerf_back(tiny_ctx *ctx, tgnn_nerf *net, const tiny_tensor *rays, const tiny_tensor *slope,
                                     const tiny_tensor *truth, double entropy, const tiny_tensor *colours);
TINYI_FN double tinyi_nerf_sigmoid(double x);
TINYI_FN void tinyi_nerf_weights(tinyi_nerf_sample *s, tiny_idx n, double bound, float *rest, tiny_idx *n_points);

TINYI_C_END
#endif
