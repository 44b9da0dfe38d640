/* src/math/linalg_eig.h - symmetric eigenvalues; math/linalg.h has the general rules */
#ifndef TINYI_LINALG_EIG_H
#define TINYI_LINALG_EIG_H
#include "core/op.h"
TINYI_C_BEGIN

/* eigenvalues and vectors of a symmetric matrix: A V = V diag(w)
 * a (n, n), only its lower triangle is read; w (n) ascending; v (n, n), whose columns are the orthonormal vectors. The
 * largest component of each vector (the first of equals) is positive. v may be NULL. */
TINY_API tiny_status tiny_eigh(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *w, const tiny_tensor *v);

TINYI_C_END
#endif
