/* src/math/linalg.h - dense linear algebra
 *
 * Matrices are tensors of rank 2, f32 or f64, any strides; dimensions may be 0; a right-hand side may also be a
 * vector of rank 1. Types may be mixed. Everything is computed in double: an f32 answer is the double answer rounded
 * once.
 *
 *   tiny_tensor a = tiny_tensor_2d(h, TINY_F32, n, n), l = tiny_tensor_2d(factor, TINY_F32, n, n);
 *   if (tiny_cholesky(ctx, &a, &l)) puts(tiny_ctx_message(ctx));
 *
 * Inputs are copied into workspace of the context's allocator, and outputs are written at the end. So an output may
 * overlap any input, but not another output (TINY_E_ALIAS). After a failure other than a cancel, outputs are unchanged.
 * A NaN or an infinity in an input gives TINY_E_NUMERIC and a sentence with its position.
 *
 * A context on target REFERENCE runs the plain forms: + - * / and square roots of double in a fixed order, the same
 * bits on every machine. Other targets run blocked forms on the context's threads; their results differ only in
 * rounding. This file has Cholesky and triangular systems. LU, QR with least squares, eigenvalues and singular values
 * are in math/linalg_lu.h, math/linalg_qr.h, math/linalg_eig.h and math/linalg_svd.h. */
#ifndef TINYI_LINALG_H
#define TINYI_LINALG_H
#include "core/op.h"
#include "math/linalg_lu.h"
#include "math/linalg_qr.h"
#include "math/linalg_eig.h"
#include "math/linalg_svd.h"
TINYI_C_BEGIN

/* ---- Cholesky: A = L L^T, L lower with a positive diagonal
 * a (n, n), only its lower triangle is read; l (n, n), zeros above the diagonal. A pivot that is not positive gives
 * TINY_E_NUMERIC and a sentence with its index and value. */
TINY_API tiny_status tiny_cholesky(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *l);
/* L L^T X = B; b and x (n, r) or (n). Only the lower triangle of l is read. */
TINY_API tiny_status tiny_cholesky_solve(tiny_ctx *ctx, const tiny_tensor *l, const tiny_tensor *b,
                                         const tiny_tensor *x);
/* (L L^T)^-1, both triangles */
TINY_API tiny_status tiny_cholesky_inverse(tiny_ctx *ctx, const tiny_tensor *l, const tiny_tensor *inverse);

/* ---- triangular matrices; the other triangle is never read */
typedef struct tiny_tri_params {            /* all zero: lower, not transposed, with its own diagonal */
    int upper;                              /* t is upper */
    int transposed;                         /* solve T^T X = B, invert T^T */
    int unit;                               /* the diagonal counts as ones and is not read */
} tiny_tri_params;
/* T X = B; t (n, n), b and x (n, r) or (n); a zero on the diagonal gives TINY_E_NUMERIC. params may be NULL. */
TINY_API tiny_status tiny_tri_solve(tiny_ctx *ctx, const tiny_tensor *t, const tiny_tensor *b,
                                    const tiny_tri_params *params, const tiny_tensor *x);
/* T^-1 with zeros in the other triangle */
TINY_API tiny_status tiny_tri_inverse(tiny_ctx *ctx, const tiny_tensor *t, const tiny_tri_params *params,
                                      const tiny_tensor *inverse);

/* ---- inside: what the bodies share ---- */

/* kernels: see math/linalg.simd.h */
#define TINYI_KERNELS_LINALG(K)                                                                                 \
    K(la_peak, int, (const double *x, size_t n, double *largest))                                               \
    K(la_turn, void, (double *to, size_t wide, const double *b, size_t ldb, size_t k, size_t n))                \
    K(la_shape, int, (void))                                                                                    \
    K(la_tile, void,                                                                                            \
      (double *c, size_t ldc, const double *a, const double *b, size_t k, double alpha, size_t m, size_t n))    \
    K(la_comb, void,                                                                                            \
      (double *y, size_t n, const double *a, size_t lda, size_t k, const double *c, size_t cs, double alpha))   \
    K(la_dots, void,                                                                                            \
      (double *y, size_t ys, const double *a, size_t lda, size_t m, size_t n, const double *x, double alpha))   \
    K(la_rank1, void,                                                                                           \
      (double *a, size_t lda, size_t m, size_t n, const double *v, size_t vs, const double *x, double alpha))   \
    K(la_symv, void, (double *y, const double *x, const double *a, size_t lda, size_t i0, size_t i1, size_t n)) \
    K(la_rot, void, (double *p, double *q, size_t n, double c, double s))                                       \
    K(la_rot4, void, (double *z, size_t ld, size_t n, const double *const *cs, size_t lo, size_t hi))

TINYI_C_END
#endif
