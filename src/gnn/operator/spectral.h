/* src/gnn/operator/spectral.h - spectral convolutions with whole or compressed weights, on a tape
 *
 *   tgnn_spectral_desc d = { 0 };
 *   tgnn_spectral s;
 *   d.d = 2;  d.modes[0] = d.modes[1] = 16;  d.n_in = d.n_out = 32;  d.kind = TGNN_SPECTRAL_TUCKER;  d.ratio = 0.1;
 *   tgnn_spectral_plan(ctx, &d, &s);                       ranks, and the shapes of s.weight[0 .. s.n_weights)
 *   ... give each of them memory (data); tgnn_spectral_init(ctx, &s, seed) or your own numbers ...
 *   y = tgnn_tape_spectral(tape, &s, &x, size, NULL, 0);   x (batch, points, channels), points in row-major order
 *
 * y = F^-1 (W_f (F x)_f) for the kept modes f, as in the layer SpectralConv of the Python package neuraloperator. The
 * weight W (in, out, modes ...) is complex: one number for each pair of channels and mode, or factors of it. */
#ifndef TINYI_SPECTRAL_H
#define TINYI_SPECTRAL_H
#include "math/tape.h"
#include "gnn/operator/modes.h"
TINYI_C_BEGIN

enum {
    TGNN_SPECTRAL_DENSE,
    TGNN_SPECTRAL_CP,                       /* a sum of products of vectors, one for each axis */
    TGNN_SPECTRAL_TUCKER,                   /* a small core, and a matrix for each axis */
    TGNN_SPECTRAL_TT,                       /* a chain of cores, one for each axis */
    TGNN_SPECTRAL_KINDS
};

typedef struct tgnn_spectral_desc {
    int d;                                  /* axes of the grid, 1 to 3 */
    /* For each axis the number of modes of a whole spectrum: the frequencies -modes / 2 .. modes / 2 - 1, and of the
     * last axis 0 .. modes / 2. An odd number counts as the even one below it, except 1: frequency 0 alone. */
    tiny_idx modes[3];
    tiny_idx n_in, n_out;
    int kind;                               /* TGNN_SPECTRAL_... */
    double ratio;                           /* numbers of the factors over those of the whole weight, above 0 */
    int separable;                          /* channels are not mixed: the weight has one axis for both; n_in = n_out */
    int layers;                             /* above 1: one weight for so many layers, with an axis more */
    int rebuild;                            /* nonzero: the whole weight is computed from the factors in each call */
} tgnn_spectral_desc;

/* The weights of a kind, as s.weight lists them. Complex numbers have an axis of 2; M is the product of the modes, L of
 * the layers. Axes: those of the layers (if L > 1), of the channels in and out (separable: one), of the modes.
 *   DENSE   (L M, 2, in, out); separable: (L M, 2, channels)
 *   CP      lambda (1, 2, R), then a factor (axis, 2, R) for layers and modes, and (2, channels, R) for channels
 *   TUCKER  core (R_layers R_modes ..., 2, R_in, R_out), separable: (..., 2, R_channels); factors as CP's, of their R
 *   TT      a core (2, R before, axis, R after) for each axis, in the order above */
#define TGNN_SPECTRAL_WEIGHTS 7
#define TGNN_SPECTRAL_AXES 6
typedef struct tgnn_spectral {
    tgnn_spectral_desc desc;
    tiny_idx kept[3];                       /* modes that the weights have on each axis */
    int n_axes, n_weights;
    tiny_idx axis[TGNN_SPECTRAL_AXES];      /* lengths, in the order above */
    tiny_idx rank[TGNN_SPECTRAL_AXES + 1];  /* CP: [0]; TUCKER: of each axis; TT: before each axis, and 1 */
    tiny_tensor weight[TGNN_SPECTRAL_WEIGHTS];
    const char *name[TGNN_SPECTRAL_WEIGHTS];    /* "lambda", "core", "factor.0" ... */
    double n_numbers;                       /* complex numbers of all weights */
} tgnn_spectral;

/* Checks the description and fills s: f32 shapes without memory. Ranks follow neuraloperator's rules:
 *   CP      ratio * (product of the axes) / (sum of the axes)
 *   TUCKER  c * axis, at least 1, with c^n * product + c * (sum of squares) = ratio * product
 *   TT      proportional to the means of neighbouring axes, so that the numbers of the cores sum to ratio * product */
TINY_API tiny_status tgnn_spectral_plan(tiny_ctx *ctx, const tgnn_spectral_desc *desc, tgnn_spectral *s);
/* Draws all weights: the numbers of the whole weight get the standard deviation sqrt(2 / (in + out)). */
TINY_API tiny_status tgnn_spectral_init(tiny_ctx *ctx, const tgnn_spectral *s, uint64_t seed);

/* x (batch, points, n_in) on a grid of size[0 .. d), y (batch, points, n_out) on one of to[0 .. d); NULL: of the same
 * size. A grid that has fewer modes than the weights uses the middle of them, lowest frequencies first. layer: of a
 * joint weight, else 0. A failure stays in the tape, as in math/layer.h. */
TINY_API tiny_tensor tgnn_tape_spectral(tiny_tape *tape, const tgnn_spectral *s, const tiny_tensor *x,
                                        const tiny_idx *size, const tiny_idx *to, int layer);
/* The whole weight (modes, 2, in, out), or (modes, 2, channels) if it is separable, of kept[k] <= s->kept[k] modes on
 * each axis. */
TINY_API tiny_tensor tgnn_tape_spectral_weight(tiny_tape *tape, const tgnn_spectral *s, const tiny_idx *kept,
                                               int layer);

TINYI_C_END
#endif
