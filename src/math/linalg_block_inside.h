/* src/math/linalg_block_inside.h - inside linear algebra: matrices in workspace, and the blocked steps on a team
 *
 * Workspace matrices are row-major doubles, element (i, j) at i * ld + j. The blocked forms put nearly all work into
 * one product, C += alpha op(A) op(B), made as K. Goto and R. van de Geijn, "Anatomy of high-performance matrix
 * multiplication", ACM TOMS 34(3), 2008: A and B packed in panels of a register tile, TINYI_LA_KC steps deep.
 * Left out: a packing that is shared by threads for A (each packs what it multiplies), and forms for many small
 * matrices. */
#ifndef TINYI_LINALG_BLOCK_H
#define TINYI_LINALG_BLOCK_H
#include "math/linalg.h"
#include "math/table_inside.h"
TINYI_C_BEGIN

/* ---- the way in and out */

/* A tensor that was checked, as a matrix: a vector counts as one column. */
typedef struct tinyi_la_view {
    const tiny_tensor *t;                   /* NULL: an output that is not needed */
    const char *name;
    size_t rows, cols;
    tiny_idx at, si, sj;                    /* element (0, 0), strides of rows and columns */
    int turned, row_back, col_back;         /* how it differs from the tensor: for sentences */
} tinyi_la_view;

enum { TINYI_LA_VECTOR = 1, TINYI_LA_OUT = 2, TINYI_LA_INT = 4, TINYI_LA_OPTIONAL = 8 };
TINYI_FN tiny_status tinyi_la_look(tiny_ctx *ctx, const char *what, const char *name, const tiny_tensor *t, int flags,
                                   tinyi_la_view *v);
/* TINY_E_SHAPE unless v is rows x cols */
TINYI_FN tiny_status tinyi_la_want(tiny_ctx *ctx, const char *what, const tinyi_la_view *v, size_t rows, size_t cols);
TINYI_FN tiny_status tinyi_la_square(tiny_ctx *ctx, const char *what, const tinyi_la_view *v);
TINYI_FN tiny_status tinyi_la_apart(tiny_ctx *ctx, const char *what, const tinyi_la_view *a, const tinyi_la_view *b);
TINYI_FN tinyi_la_view tinyi_la_turned(tinyi_la_view v);    /* the transpose */
/* rows and columns from the last to the first: upper becomes lower */
TINYI_FN tinyi_la_view tinyi_la_backward(tinyi_la_view v);
TINYI_FN tinyi_la_view tinyi_la_upward(tinyi_la_view v);    /* rows only */

/* Leading dimension for n columns: whole vectors, and not a multiple of 512 bytes, which would put a column into few
 * sets of the caches. */
TINYI_FN size_t tinyi_la_ld(size_t n);
/* rows x ld doubles; NULL: the context has the sentence */
TINYI_FN double *tinyi_la_alloc(tiny_ctx *ctx, size_t rows, size_t ld);

/* The sum in order of i, with the bits of the references. */
TINY_REF_BEGIN
TINYI_INLINE double tinyi_la_dot(const double *a, const double *b, size_t n)
{
    double s = 0.0;
    size_t i;
    for (i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}
TINY_REF_END

/* A procedure is one region from load to store. The reference is the same with one thread and plain set. */
typedef struct tinyi_la_run {
    const char *what;                       /* its name, for sentences */
    int plain;
    size_t n;                               /* the largest dimension of any product in it */
    tiny_idx failed;                        /* set before a barrier, read after it */
    double largest[TINY_MAX_THREADS];       /* magnitude loaded, by each thread */
} tinyi_la_run;
/* arg starts with a tinyi_la_run. Few flops run on one thread. */
TINYI_FN tiny_status tinyi_la_go(tiny_ctx *ctx, const char *what, double flops, size_t n, tiny_team_fn fn, void *arg);
TINYI_FN void tinyi_la_fail(tiny_team *team, tinyi_la_run *run, tiny_status status, const char *format, ...)
    TINYI_PRINTF(4, 5);

/* ---- steps of a team: all threads call, each ends with a barrier, and one must stand before */

/* What is loaded: UPPER j >= i, LOWER j <= i, STRICT j < i; the rest of the workspace stays as it was. What is stored:
 * UPPER with zeros below, MIRROR the upper triangle as a symmetric matrix. */
enum { TINYI_LA_ALL, TINYI_LA_UPPER, TINYI_LA_LOWER, TINYI_LA_STRICT, TINYI_LA_MIRROR };
/* A value that is not finite fails the run: nonzero. */
TINYI_FN int tinyi_la_load(tiny_team *team, tinyi_la_run *run, const tinyi_la_view *v, int part, double *to, size_t ld);
TINYI_FN void tinyi_la_store(tiny_team *team, const tinyi_la_view *v, int part, const double *from, size_t ld);
/* zeros but for it */
TINYI_FN void tinyi_la_fill(tiny_team *team, double *x, size_t ld, size_t rows, size_t cols, double diagonal);
/* rows from the last to the first */
TINYI_FN void tinyi_la_flip(tiny_team *team, double *x, size_t ld, size_t rows, size_t cols);
/* Brings the matrix that was loaded last near 1 where its squares would overflow or vanish; returns the factor it was
 * multiplied by, a power of 2. */
TINYI_FN double tinyi_la_rescale(tiny_team *team, const tinyi_la_run *run, double *x, size_t ld, size_t rows,
                                 size_t cols);

#define TINYI_LA_KC 256                     /* depth of a packed block */
#define TINYI_LA_NC 2040                    /* its columns: 4 MiB; a multiple of every tile width */
#define TINYI_LA_MC 96                      /* rows packed by one thread: 192 KiB; a multiple of every tile height */
#define TINYI_LA_NB 64                      /* columns factored between two products */

typedef struct tinyi_la_product {           /* c (m, n) += alpha a b */
    double *c;
    const double *a, *b;
    size_t ldc, lda, ldb, m, n, k;
    int a_turned, b_turned;                 /* a is stored (k, m), b is stored (n, k) */
    int upper;                              /* only what touches j >= i is needed; the rest may be written or not */
    double alpha;
} tinyi_la_product;
TINYI_FN void tinyi_la_gemm(tiny_team *team, const tinyi_la_product *g);
/* the usual ones in one line: c (m, n) -= op(a) b */
TINYI_FN void tinyi_la_sub(tiny_team *team, double *c, size_t ldc, const double *a, size_t lda, int a_turned,
                           const double *b, size_t ldb, int b_turned, size_t m, size_t n, size_t k);

/* X = T^-1 X; t lower (n, n), x (n, r). unit: its diagonal counts as ones. inverse: x comes as the identity and r =
 * n. */
TINYI_FN void tinyi_la_lower_solve(tiny_team *team, const double *t, size_t ldt, size_t n, int unit, double *x,
                                   size_t ldx, size_t r, int inverse);
/* tinyi_la_lower_solve, or the plain form on one thread */
TINYI_FN void tinyi_la_solve(tiny_team *team, int plain, const double *t, size_t ldt, size_t n, int unit, double *x,
                             size_t ldx, size_t r, int inverse);
/* the upper triangle of M^T M, m lower (n, n) with zeros above */
TINYI_FN void tinyi_la_lower_square(tiny_team *team, const double *m, size_t ldm, size_t n, double *c, size_t ldc);

/* Householder vector: on return (I - v v^T) of the old x is (*beta, 0, ..., 0), *beta >= 0, and x holds v. The norm of
 * v is the root of 2, or 0 when nothing had to be done. ss: sum of squares of x[1..n); below 1e-280 it counts as 0,
 * which after tinyi_la_rescale is far below any rounding. */
TINYI_FN void tinyi_la_house(double *x, size_t n, double ss, double *beta);

/* Reflections by the rows of v (k, n), k <= TINYI_LA_WY: the product of I - v_i v_i^T for i = 0..k-1 is I - V^T T V, T
 * upper.
 * R. Schreiber, C. Van Loan, "A storage-efficient WY representation", SIAM J. Sci. Stat. Comput. 10(1), 1989. */
#define TINYI_LA_WY 32
TINYI_FN void tinyi_la_wy(tiny_team *team, const double *v, size_t ldv, size_t k, size_t n, double *t);
/* x (m, n) -= ((x V^T) op(T)) V; w: workspace of 2 * TINYI_LA_WY rows of tinyi_la_ld(m) */
TINYI_FN void tinyi_la_reflect(tiny_team *team, double *x, size_t ldx, size_t m, const double *v, size_t ldv, size_t k,
                               size_t n, const double *t, int t_turned, double *w);

/* ---- QR and eigenvalues as steps: see math/linalg_qr.c and math/linalg_eig.c */

/* k reflections of the rows of w (rows, m) from the left; diagonal (k), v (TINYI_LA_WY, ld), t (TINYI_LA_WY squared),
 * wx (2 TINYI_LA_WY, tinyi_la_ld(rows)) */
TINYI_FN void tinyi_la_qr(tiny_team *team, double *w, size_t ld, size_t rows, size_t k, size_t m, double *diagonal,
                          double *v, double *t, double *wx);
/* p (rows, m) <- p H_{k-1} ... H_0; rows 0 says that row i of p is the unit vector i for i < k, and p has k rows */
TINYI_FN void tinyi_la_qr_back(tiny_team *team, const double *w, size_t ld, size_t k, size_t m, double *p, size_t ldp,
                               size_t rows, double *v, double *t, double *wx);
/* the two in plain form, on one thread */
TINYI_FN void tinyi_la_qr_ref(double *w, size_t ld, size_t rows, size_t k, size_t m, double *diagonal);
TINYI_FN void tinyi_la_qr_back_ref(const double *w, size_t ld, size_t k, size_t m, double *p, size_t ldp, size_t rows);

#define TINYI_EIG_SWEEPS 32                 /* of rotations, written down before they are used */
typedef struct tinyi_eig_batch {
    double *cs;                             /* (TINYI_EIG_SWEEPS, n, 2): cosines and sines */
    size_t n, lo[TINYI_EIG_SWEEPS], hi[TINYI_EIG_SWEEPS], group[TINYI_EIG_SWEEPS];
} tinyi_eig_batch;

typedef struct tinyi_la_eig {
    double *a;                              /* (n, n), of the caller: upper triangle in, vectors as rows out */
    double *d;                              /* (n): values ascending */
    double *e, *z, *v, *w, *t, *wx, *part, *cs;
    size_t *order;
    size_t n, ld, ldz;
    tinyi_eig_batch batch[2];
    int vectors, more;
} tinyi_la_eig;
TINYI_FN tiny_status tinyi_la_eig_alloc(tiny_ctx *ctx, tinyi_la_eig *g, size_t n, int vectors);
TINYI_FN void tinyi_la_eig_free(tiny_ctx *ctx, tinyi_la_eig *g);
TINYI_FN void tinyi_la_eig_run(tiny_team *team, tinyi_la_run *run, tinyi_la_eig *g);
/* -1 when the largest of x (the first of equals) is negative, else 1 */
TINYI_FN double tinyi_la_sign(const double *x, size_t n);

TINYI_C_END
#endif
