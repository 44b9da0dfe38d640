/* src/gnn/equivariant/harmonics_inside.h - the kernels of harmonics, as harmonics.c calls them and each target has them
 *
 * A block holds vectors side by side: number k of vector i is at k * step + i. */
#ifndef TINYI_GNN_HARMONICS_H
#define TINYI_GNN_HARMONICS_H
#include "gnn/equivariant/harmonics.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

#define TINYI_SPH_MOST ((TGNN_L_MAX + 1) * (TGNN_L_MAX + 1))    /* numbers of a vector */
#define TINYI_SPH_PAIRS ((TGNN_L_MAX + 1) * (TGNN_L_MAX + 2) / 2)
#define TINYI_SPH_AT(l, m) ((l) * ((l) + 1) / 2 + (m))

/* The factors of the recursions, the norm in them, at TINYI_SPH_AT(l, m):
 *   q_mm = diagonal[m], q_lm = a y q_(l-1,m) - b r^2 q_(l-2,m)
 *   dq_lm/dy = along q_(l-1,m), dq_lm/dx = -across x q_(l-1,m+1), and so for z */
typedef struct tinyi_sph_plan {
    int l_max, solid;
    float diagonal[TGNN_L_MAX + 1];
    float a[TINYI_SPH_PAIRS], b[TINYI_SPH_PAIRS], along[TINYI_SPH_PAIRS], across[TINYI_SPH_PAIRS];
} tinyi_sph_plan;

/* n is a multiple of lanes.
 *   values   y of the vectors x (3 rows of the block)
 *   slopes   y, and s: the 3 * count rows of their derivatives by x, then y, then z; with factor not NULL its row gets
 *            the number that they must still be multiplied by
 *   dots     dx[j] = factor * the sum over the n_terms rows k of g[k] s[j][k]
 *   hessians y, s (3 count rows) and d (9 count rows: x x, x y, .. z z) of the vectors x, which it replaces
 *   twice    dg (count rows) and dx (3 rows) of the vectors x and their w and g (3 and count rows); x is replaced, y
 *            and d (count rows each) are scratch. Both have a plan of solid harmonics; x has room for a fourth row
 *   past     copies n numbers past the caches, where the target can; y begins on a line, n is a multiple of 16. With
 *            n = 0 it waits for those of all earlier calls: a fence after each block would halve the rate */
/* Derivatives of solid harmonics as sums of those of one degree less: links 0 and 1 are those by x, 2 by y, 3 and 4 by
 * z (harmonics_twice.c). solid 0: the numbers are those of the direction. */
typedef struct tinyi_sph_links {
    int count, solid;
    short at[TINYI_SPH_MOST][5];
    float by[TINYI_SPH_MOST][5];
} tinyi_sph_links;

typedef struct tinyi_sph_kernels {
    tiny_target from;
    int lanes;
    void (*values)(const tinyi_sph_plan *p, float *y, size_t step, const float *x, size_t n);
    void (*slopes)(const tinyi_sph_plan *p, float *y, float *s, float *factor, size_t step, const float *x, size_t n);
    void (*dots)(float *dx, const float *g, const float *s, const float *factor, size_t n_terms, size_t step, size_t n);
    void (*hessians)(const tinyi_sph_plan *p, const tinyi_sph_links *links, float *x, float *y, float *s, float *d,
                     size_t step, size_t n);
    void (*twice)(const tinyi_sph_plan *p, const tinyi_sph_links *links, float *x, const float *w, float *y,
                  const float *g, float *d, float *dg, float *dx, size_t step, size_t n);
    void (*past)(float *y, const float *x, size_t n);
} tinyi_sph_kernels;
TINYI_TABLES(tinyi_sph_kernels, tinyi_sph_kernels)

/* The numbers of one vector in double, and s[3][count] where it is not NULL: their derivatives. The reference. */
TINYI_FN void tinyi_sph_one(const double *vector, const tgnn_sph_harm_params *p, double *y, double *s);

/* n rows of count numbers without gaps from a block, n a multiple of 4; writes up to 3 numbers after the last row */
TINYI_FN void tinyi_sph_fours(const tiny_team *team, float *to, const float *block, tiny_idx step, tiny_idx n,
                              tiny_idx count);

/* what second derivatives share with harmonics.c */
TINYI_FN double tinyi_sph_unit(double *v);      /* v becomes its direction; 1 / |v|, or 0 */
TINYI_FN void tinyi_sph_plan_make(tinyi_sph_plan *plan, const tgnn_sph_harm_params *p);
TINYI_FN tiny_status tinyi_sph_check(tiny_ctx *ctx, const tiny_op *op);
TINYI_FN tiny_status tinyi_sph_grad(tiny_grad *g, const tiny_op *op);
TINYI_FN tiny_status tinyi_sph_back_grad(tiny_grad *g, const tiny_op *op);
TINYI_FN tiny_status tinyi_sph_slopes_grad(tiny_grad *g, const tiny_op *op);

TINYI_C_END
#endif
