/* src/math/linalg_lu.h - LU with partial pivoting; math/linalg.h has the general rules */
#ifndef TINYI_LINALG_LU_H
#define TINYI_LINALG_LU_H
#include "core/op.h"
TINYI_C_BEGIN

/* LU with partial pivoting: P A = L U
 * a and lu (n, n): lu holds U with its diagonal and, below it, L without its unit diagonal. pivot: i32 (n); step k
 * exchanged rows k and pivot[k] >= k. A column without a pivot gives TINY_E_NUMERIC. */
TINY_API tiny_status tiny_lu(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *lu, const tiny_tensor *pivot);
TINY_API tiny_status tiny_lu_solve(tiny_ctx *ctx, const tiny_tensor *lu, const tiny_tensor *pivot, const tiny_tensor *b,
                                   const tiny_tensor *x);
/* A X = B and A^-1 by LU */
TINY_API tiny_status tiny_solve(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *x);
TINY_API tiny_status tiny_inverse(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *inverse);

TINYI_C_END
#endif
