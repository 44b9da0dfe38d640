/* src/math/linalg_svd.h - singular values; math/linalg.h has the general rules */
#ifndef TINYI_LINALG_SVD_H
#define TINYI_LINALG_SVD_H
#include "core/op.h"
TINYI_C_BEGIN

/* singular values: A = U diag(s) Vt, k = min(m, n)
 * a (m, n), u (m, k), s (k) descending, vt (k, n). The columns of u and the rows of vt are orthonormal; the largest
 * component of each row of vt is positive. u and vt may be NULL. */
TINY_API tiny_status tiny_svd(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *u, const tiny_tensor *s,
                              const tiny_tensor *vt);

TINYI_C_END
#endif
