/* src/gnn/equivariant/so3.h - rotations, how features turn with them (Wigner D), and how features couple (real 3j)
 *
 *   double r[9], d[49];
 *   tgnn_rotation_random(ctx, 7, 0, r);                      y = R x, row by row
 *   tgnn_wigner_d(ctx, 3, r, d);                             7 x 7: Y_3(R x) = D Y_3(x)
 *
 * Conventions of e3nn: y is the polar axis, a feature of degree 1 is (x, y, z), the components of degree l stand in the
 * order m = -l .. l of the harmonics in gnn/equivariant/harmonics.h. All matrices are row-major, in double. A rotation
 * may also be a reflection: any matrix with R R^T = 1. */
#ifndef TINYI_SO3_H
#define TINYI_SO3_H
#include "gnn/equivariant/irreps.h"
TINYI_C_BEGIN

/* ---- rotations: r[9], y_i = sum_j r[3 i + j] x_j */

/* by angle about an axis of any length but 0, counter-clockwise seen from its tip */
TINY_API tiny_status tgnn_rotation_axis(tiny_ctx *ctx, const double axis[3], double angle, double *r);
/* of a quaternion q[0] + q[1] i + q[2] j + q[3] k, of any length but 0 */
TINY_API tiny_status tgnn_rotation_quaternion(tiny_ctx *ctx, const double q[4], double *r);
/* R_y(a) R_x(b) R_y(c) */
TINY_API tiny_status tgnn_rotation_euler(tiny_ctx *ctx, double a, double b, double c, double *r);
/* The angles a, b, c of a rotation, 0 <= b <= pi; where b is 0 or pi only a and c together count, and c is 0. Fails for
 * a reflection. */
TINY_API tiny_status tgnn_rotation_angles(tiny_ctx *ctx, const double *r, double abc[3]);
/* number i of the rotations of a seed: uniform over all rotations, the same on every machine */
TINY_API tiny_status tgnn_rotation_random(tiny_ctx *ctx, uint64_t seed, uint64_t i, double *r);

/* D of degree l <= TGNN_L_MAX: d has (2 l + 1)^2 numbers. D(R1 R2) = D(R1) D(R2). A reflection is -1 times a rotation,
 * and D of -1 is (-1)^l here; for an irrep of the other parity, change the sign where det R is -1. Fails where
 * |R R^T - 1| > 1e-6. */
TINY_API tiny_status tgnn_wigner_d(tiny_ctx *ctx, int l, const double *r, double *d);

/* ---- couplings: C[l1][l2][l3] of shape (2 l1 + 1, 2 l2 + 1, 2 l3 + 1), the one tensor (times a factor) that does not
 * change when all three axes turn; sum of squares 1, sign as e3nn's wigner_3j */

/* the whole tensor, zeros included; fails where |l1 - l2| <= l3 <= l1 + l2 does not hold */
TINY_API tiny_status tgnn_wigner_3j(tiny_ctx *ctx, int l1, int l2, int l3, double *c);

typedef struct tgnn_coupling { double value; uint8_t i, j, k; } tgnn_coupling;     /* C[i][j][k] */
typedef struct tgnn_so3 tgnn_so3;

/* Computes the numbers that are not 0 of all couplings with l1, l2, l3 <= l_max, sorted by i, j, k. Read-only
 * afterwards: threads may share it. */
TINY_API tiny_status tgnn_so3_open(tiny_ctx *ctx, int l_max, tgnn_so3 **out);
TINY_API void tgnn_so3_close(tiny_ctx *ctx, tgnn_so3 *so3);                         /* takes NULL */
TINY_API int tgnn_so3_l_max(const tgnn_so3 *so3);                                   /* -1 for NULL */
/* The list of one coupling and its length *n; NULL and 0 where there is none. */
TINY_API const tgnn_coupling *tgnn_so3_couplings(const tgnn_so3 *so3, int l1, int l2, int l3, size_t *n);

TINYI_C_END
#endif
