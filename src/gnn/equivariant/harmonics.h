/* src/gnn/equivariant/harmonics.h - real spherical harmonics of vectors, up to degree 12, with their gradients
 *
 *   tgnn_sph_harm_params p = { 0 };
 *   p.l_max = 6;                                           49 numbers for each vector: degrees 0 to 6
 *   tgnn_sph_harm(ctx, &x, &p, &y);                        x (n, 3), y (n, 49)
 *
 * Order and signs of e3nn: y is the polar axis, number l l + l + m of a row is Y_lm, m = -l .. l. Y_1 is a multiple of
 * (x, y, z). With the polar angle b from y and the azimuth a from z towards x, Y_lm is P_l|m|(cos b) times
 * sqrt2 sin(|m| a), 1 or sqrt2 cos(m a) for m below, at and above 0, P without the sign of Condon and Shortley. */
#ifndef TINYI_HARMONICS_H
#define TINYI_HARMONICS_H
#include "core/op.h"
#include "gnn/equivariant/irreps.h"
TINYI_C_BEGIN

enum {
    TGNN_SH_COMPONENT,                      /* the squares of degree l sum to 2 l + 1 */
    TGNN_SH_NORM,                           /* to 1 */
    TGNN_SH_INTEGRAL                        /* to (2 l + 1) / (4 pi): orthonormal on the sphere */
};

typedef struct tgnn_sph_harm_params {       /* all zero: degree 0 alone, of the direction, by components */
    int l_max;                              /* degrees 0 .. l_max, at most TGNN_L_MAX */
    int norm;                               /* TGNN_SH_... */
    int solid;                              /* nonzero: |x|^l Y_lm(x / |x|), polynomials in x. 0: of the direction */
} tgnn_sph_harm_params;

/* How many numbers a row has: (l_max + 1)^2; 0: a degree that is not possible. */
TINY_API int tgnn_sph_harm_count(int l_max);

/* x (n, 3); y (n, count); f32, any strides. A vector 0 has no direction: its numbers above degree 0 are 0. f64 tensors
 * are computed in double, by the reference. */
TINY_API tiny_status tgnn_sph_harm(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_sph_harm_params *params,
                                   const tiny_tensor *y);
/* The same, and dy (n, 3, count): the derivatives of each number by the components of x. Without solid they are those
 * of a function of the direction: they fall as 1 / |x|, vectors shorter than 2^-126 count as that long, and those of a
 * vector 0 are 0. */
TINY_API tiny_status tgnn_sph_harm_slopes(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_sph_harm_params *params,
                                          const tiny_tensor *y, const tiny_tensor *dy);
/* dx (n, 3) = the sum over k of g[k] dY_k / dx, g (n, count): forces. It is the gradient of tgnn_sph_harm on a tape. */
TINY_API tiny_status tgnn_sph_harm_back(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g,
                                        const tgnn_sph_harm_params *params, const tiny_tensor *dx);
/* The same and ddy (n, 3, 3, count), the second derivatives. Those of the direction fall as 1 / |x|^2. */
TINY_API tiny_status tgnn_sph_harm_hessians(tiny_ctx *ctx, const tiny_tensor *x, const tgnn_sph_harm_params *params,
                                            const tiny_tensor *y, const tiny_tensor *dy, const tiny_tensor *ddy);
/* The gradient of a loss of forces, for w (n, 3) = dL/d(dx) of tgnn_sph_harm_back: dg (n, count) = dL/dg, the
 * derivatives of the harmonics along w, and dx (n, 3) = dL/dx, their Hessians times w, summed with g. A tape calls
 * it. */
TINY_API tiny_status tgnn_sph_harm_twice(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g,
                                         const tiny_tensor *w, const tgnn_sph_harm_params *params,
                                         const tiny_tensor *dg, const tiny_tensor *dx);
TINY_API const tiny_op_row *tgnn_sph_harm_hessians_row(void);
TINY_API const tiny_op_row *tgnn_sph_harm_twice_row(void);
TINY_API const tiny_op_row *tgnn_sph_harm_row(void);
TINY_API const tiny_op_row *tgnn_sph_harm_slopes_row(void);
TINY_API const tiny_op_row *tgnn_sph_harm_back_row(void);

TINYI_C_END
#endif
