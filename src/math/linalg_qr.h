/* src/math/linalg_qr.h - QR and least squares; math/linalg.h has the general rules */
#ifndef TINYI_LINALG_QR_H
#define TINYI_LINALG_QR_H
#include "core/op.h"
TINYI_C_BEGIN

/* QR: A = Q R, k = min(m, n); a (m, n), q (m, k) with orthonormal columns, r (k, n) upper with a diagonal >= 0.
 * q or r may be NULL. */
TINY_API tiny_status tiny_qr(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *q, const tiny_tensor *r);
/* Minimises |A X - B| column by column; a (m, n) with m >= n, b (m, r) or (m), x (n, r) or (n). The rank is the number
 * of pivots of a column-pivoted QR that are above tolerance times the largest one. tolerance 0: m * 2^-52 for an f64 a,
 * m * 2^-23 for an f32 a. rank < n gives TINY_E_NUMERIC. *rank is set if the factorisation was made; rank may be
 * NULL. */
TINY_API tiny_status tiny_lstsq(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, double tolerance,
                                const tiny_tensor *x, tiny_idx *rank);

TINYI_C_END
#endif
