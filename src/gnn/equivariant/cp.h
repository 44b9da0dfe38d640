/* src/gnn/equivariant/cp.h - low-rank factors of the tensor of all couplings
 *
 *   tgnn_cp_desc d = { 0 };
 *   tgnn_cp *cp;
 *   d.l = 2;  d.rank = tgnn_cp_rank(2, TGNN_CP_SQUARE);  d.file = "cp-2-28.ckpt";
 *   tgnn_cp_fit(ctx, &d, &cp);                             fitted once, read from the file afterwards
 *   product.kind = TGNN_PRODUCT_CP;  product.cp = cp;      gnn/equivariant/product.h
 *   tgnn_cp_close(ctx, cp);
 *
 * M[i][j][k] is the sum of C[l1][l2][l3] over all paths with degrees up to l, each in its block, (l + 1)^2 numbers on
 * each axis. Its factors are A, B and C with M[i][j][k] = sum_r A[r][i] B[r][j] C[r][k] up to tgnn_cp_error. A product
 * with them turns with space only up to an error:
 *   |m(D x, D y) - D m(x, y)| <= 2 |M - M'| |x| |y| for every rotation D, |M - M'| the Frobenius norm. */
#ifndef TINYI_CP_H
#define TINYI_CP_H
#include "gnn/equivariant/so3.h"
TINYI_C_BEGIN

#define TGNN_CP_L_MAX 6
#define TGNN_CP_RANK_MAX 2401               /* (6 + 1)^4 */

/* The ranks that the paper tries: 7 l, 7 l^2 (its default), 16 floor(ln(l + 1)^2), (l + 1)^4, which is exact. */
enum { TGNN_CP_LINEAR, TGNN_CP_SQUARE, TGNN_CP_LOG, TGNN_CP_EXACT };
TINY_API int tgnn_cp_rank(int l, int schedule);             /* at least 1; 0: no such degree or schedule */

typedef struct tgnn_cp_desc {
    int l;                                  /* degrees 0 .. l, 0 to TGNN_CP_L_MAX */
    int rank;                               /* 1 to TGNN_CP_RANK_MAX; from (l + 1)^4 on the factors are exact */
    int starts;                             /* random starts, of which the best is kept; 0: 3 */
    int sweeps;                             /* of each; 0: 2000 */
    double tol;                             /* stops when the loss changes by less than this part; 0: 1e-8 */
    double ridge;                           /* above 0: the same in every sweep, instead of max(1e-9, 1e-3 0.99^t) */
    uint64_t seed;
    /* NULL: none. A file that exists is read, and must be of this degree and rank; else the factors are fitted and
     * written. A damaged file is an error and never replaced. */
    const char *file;
    /* After each sweep: loss is |M - M'|^2 + ridge (|A|^2 + |B|^2 + |C|^2). Nonzero ends this start. May be NULL. */
    int (*watch)(void *user, int start, int sweep, double loss);
    void *user;
} tgnn_cp_desc;

typedef struct tgnn_cp tgnn_cp;
TINY_API tiny_status tgnn_cp_fit(tiny_ctx *ctx, const tgnn_cp_desc *desc, tgnn_cp **out);
TINY_API void tgnn_cp_close(tiny_ctx *ctx, tgnn_cp *cp);    /* takes NULL */
/* A file with a checksum, written completely or not at all. */
TINY_API tiny_status tgnn_cp_save(tiny_ctx *ctx, const tgnn_cp *cp, const char *path);
TINY_API tiny_status tgnn_cp_load(tiny_ctx *ctx, const char *path, tgnn_cp **out);

TINY_API int tgnn_cp_degree(const tgnn_cp *cp);             /* -1 for NULL */
TINY_API int tgnn_cp_terms(const tgnn_cp *cp);              /* the rank; 0 for NULL */
TINY_API double tgnn_cp_error(const tgnn_cp *cp);           /* |M - M'| / |M| */
TINY_API double tgnn_cp_norm(const tgnn_cp *cp);            /* |M|: the root of the number of paths */
/* factor 0, 1 or 2: (rank, (l + 1)^2) numbers; NULL for another one */
TINY_API const double *tgnn_cp_factor(const tgnn_cp *cp, int which);

TINYI_C_END
#endif
