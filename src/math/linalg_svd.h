/* src/math/linalg_svd.h - singular values; see math/linalg.h for what holds for all */
#ifndef TINYI_LINALG_SVD_H
#define TINYI_LINALG_SVD_H
#include "core/op.h"
TINYI_C_BEGIN

/* singular values: A = U diag(s) Vt, k = min(m, n)
 * a (m, n), u (m, k), s (k) descending, vt (k, n); orthonormal columns of u and rows of vt, the largest component of
 * each row of vt positive. u and vt may be NULL. */
TINY_API tiny_status tiny_svd(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *u, const tiny_tensor *s,
                              const tiny_tensor *vt);

TINYI_C_END
#endif
