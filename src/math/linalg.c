/* src/math/linalg.c - Cholesky factors and triangles
 *
 * Paper    A.-L. Cholesky's method as in G. Golub, C. Van Loan, "Matrix Computations", 4th ed., 2013, 4.2 and 3.1
 * Formula  L[i][j] = (A[i][j] - sum p<j L[i][p] L[j][p]) / L[j][j],  L[j][j] = sqrt(A[j][j] - sum p<j L[j][p]^2)
 *          x[i] = (b[i] - sum p<i T[i][p] x[p]) / T[i][i]
 * Data     the workspace holds U = L^T row by row, so that both forms run along rows. Every triangle is read as a lower
 *          one: a transposed one by its strides, an upper one with rows and columns in reverse order.
 * Cost     n^3/3 (factor), n^2 per right-hand side, n^3/3 (inverse of a triangle), 2n^3/3 more for (L L^T)^-1
 * Error    backward: |A - L L^T| <= (n + 1) 2^-53 |L||L^T| / (1 - (n + 1) 2^-53) element by element, both forms (sums
 *          of n products in any order); |T x - b| <= (n + 1) 2^-53 |T||x| likewise; then one rounding for f32
 * Left out pivoting for semidefinite matrices (add to the diagonal instead, as GPTQ does); packed storage          */
#include "math/linalg_block_inside.h"
#include "math/elem.h"
#include <string.h>

/* ---- Cholesky */

typedef struct tinyi_chol_job {
    tinyi_la_run run;
    tinyi_la_view a, l;
    double *u;
    size_t n, ld;
} tinyi_chol_job;

static int tinyi_chol_pivot(tiny_team *team, tinyi_chol_job *job, size_t j, double s)
{
    if (s > 0.0 && s - s == 0.0) return 1;
    tinyi_la_fail(team, &job->run, TINY_E_NUMERIC, "pivot %zu of %zu is %g: the matrix is not positive definite", j + 1,
                  job->n, s);
    return 0;
}

TINY_REF_BEGIN
static void tinyi_chol_ref(tiny_team *team, tinyi_chol_job *job)
{
    double *u = job->u;
    size_t n = job->n, ld = job->ld, i, j, p;
    for (j = 0; j < n; j++) {
        double s = u[j * ld + j], d;
        for (p = 0; p < j; p++) s -= u[p * ld + j] * u[p * ld + j];
        if (!tinyi_chol_pivot(team, job, j, s)) return;
        u[j * ld + j] = d = tinyi_sqrt64(s);
        for (i = j + 1; i < n; i++) {
            s = u[j * ld + i];
            for (p = 0; p < j; p++) s -= u[p * ld + j] * u[p * ld + i];
            u[j * ld + i] = s / d;
        }
    }
}
TINY_REF_END

/* rows k0..k1 of U right of column c0 (c0 >= k1), or the square itself */
static void tinyi_chol_rows(tiny_team *team, double *u, size_t ld, size_t k0, size_t k1, size_t c0, size_t c1)
{
    const tinyi_fn_la_comb comb = TINYI_K(team, la_comb);
    size_t i, j;
    for (j = k0; j < k1; j++) {
        double f = 1.0 / u[j * ld + j];
        comb(u + j * ld + c0, c1 - c0, u + k0 * ld + c0, ld, j - k0, u + k0 * ld + j, ld, -1.0);
        for (i = c0; i < c1; i++) u[j * ld + i] *= f;
    }
}

static void tinyi_chol_square(tiny_team *team, tinyi_chol_job *job, size_t k0, size_t k1)
{
    const tinyi_fn_la_comb comb = TINYI_K(team, la_comb);
    double *u = job->u;
    size_t ld = job->ld, i, j;
    for (j = k0; j < k1; j++) {
        double f;
        comb(u + j * ld + j, k1 - j, u + k0 * ld + j, ld, j - k0, u + k0 * ld + j, ld, -1.0);
        if (!tinyi_chol_pivot(team, job, j, u[j * ld + j])) return;
        f = tinyi_sqrt64(u[j * ld + j]);
        u[j * ld + j] = f;
        f = 1.0 / f;
        for (i = j + 1; i < k1; i++) u[j * ld + i] *= f;
    }
}

static void tinyi_chol_blocked(tiny_team *team, tinyi_chol_job *job)
{
    tinyi_la_product g;
    size_t n = job->n, ld = job->ld, k0, k1;
    tiny_idx c0, c1;
    memset(&g, 0, sizeof g);
    for (k0 = 0; k0 < n; k0 = k1) {
        k1 = TINYI_MIN(k0 + TINYI_LA_NB, n);
        if (team->i == 0) tinyi_chol_square(team, job, k0, k1);
        tiny_barrier(team);
        if (tinyi_atomic_get(&job->run.failed)) return;
        while (tiny_take(team, (tiny_idx)(n - k1), 64, &c0, &c1))
            tinyi_chol_rows(team, job->u, ld, k0, k1, k1 + (size_t)c0, k1 + (size_t)c1);
        tiny_barrier(team);
        g.c = job->u + k1 * ld + k1;
        g.a = g.b = job->u + k0 * ld + k1;
        g.ldc = g.lda = g.ldb = ld;
        g.m = g.n = n - k1;
        g.k = k1 - k0;
        g.a_turned = g.upper = 1;
        g.alpha = -1.0;
        tinyi_la_gemm(team, &g);
    }
}

static void tinyi_chol_team(tiny_team *team, void *arg)
{
    tinyi_chol_job *job = (tinyi_chol_job *)arg;
    tinyi_la_view a = tinyi_la_turned(job->a), l = tinyi_la_turned(job->l);
    if (tinyi_la_load(team, &job->run, &a, TINYI_LA_UPPER, job->u, job->ld)) return;
    if (job->run.plain) tinyi_chol_ref(team, job);
    else tinyi_chol_blocked(team, job);
    if (!tinyi_atomic_get(&job->run.failed)) tinyi_la_store(team, &l, TINYI_LA_UPPER, job->u, job->ld);
}

TINY_API tiny_status tiny_cholesky(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *l)
{
    tinyi_chol_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_la_look(ctx, "cholesky", "a", a, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "cholesky", "l", l, TINYI_LA_OUT, &job.l);
    if (!st) st = tinyi_la_square(ctx, "cholesky", &job.a);
    if (!st) st = tinyi_la_want(ctx, "cholesky", &job.l, job.a.rows, job.a.rows);
    if (st) return st;
    job.n = job.a.rows;
    job.ld = tinyi_la_ld(job.n);
    job.u = tinyi_la_alloc(ctx, job.n, job.ld);
    if (!job.u) return tiny_ctx_status(ctx);
    st =
        tinyi_la_go(ctx, "cholesky", (double)job.n * (double)job.n * (double)job.n / 3.0, job.n, tinyi_chol_team, &job);
    tiny_free(ctx, job.u);
    return st;
}

/* ---- one triangle, or two for L L^T, and a right-hand side */

typedef struct tinyi_tri_job {
    tinyi_la_run run;
    tinyi_la_view t, b, x;                  /* t as a lower triangle; b.t NULL: the identity */
    int unit, twice, backward;
    double *tm, *xm;
    size_t n, r, ldt, ldx;
} tinyi_tri_job;

TINY_REF_BEGIN
static void tinyi_tri_ref(const double *t, size_t ldt, size_t n, int unit, double *x, size_t ldx, size_t r)
{
    size_t i, j, p;
    for (j = 0; j < r; j++)
        for (i = 0; i < n; i++) {
            double s = x[i * ldx + j];
            for (p = 0; p < i; p++) s -= t[i * ldt + p] * x[p * ldx + j];
            x[i * ldx + j] = unit ? s : s / t[i * ldt + i];
        }
}

/* upper triangle of M^T M for a lower M */
static void tinyi_tri_square_ref(const double *m, size_t ldm, size_t n, double *c, size_t ldc)
{
    size_t i, j, p;
    for (i = 0; i < n; i++)
        for (j = i; j < n; j++) {
            double s = 0.0;
            for (p = j; p < n; p++) s += m[p * ldm + i] * m[p * ldm + j];
            c[i * ldc + j] = s;
        }
}
TINY_REF_END

void tinyi_la_solve(tiny_team *team, int plain, const double *t, size_t ldt, size_t n, int unit, double *x, size_t ldx,
                    size_t r, int inverse)
{
    if (plain) tinyi_tri_ref(t, ldt, n, unit, x, ldx, r);
    else tinyi_la_lower_solve(team, t, ldt, n, unit, x, ldx, r, inverse);
}

/* loads t, refuses a zero on its diagonal */
static int tinyi_tri_load(tiny_team *team, tinyi_tri_job *job, const tinyi_la_view *t)
{
    size_t i;
    if (tinyi_la_load(team, &job->run, t, job->unit ? TINYI_LA_STRICT : TINYI_LA_LOWER, job->tm, job->ldt)) return 1;
    if (team->i == 0 && !job->unit)
        for (i = 0; i < job->n; i++)
            if (job->tm[i * job->ldt + i] == 0.0) {
                tinyi_la_fail(team, &job->run, TINY_E_NUMERIC, "the diagonal of %s is 0 at %zu", t->name,
                              t->row_back ? job->n - 1 - i : i);
                break;
            }
    tiny_barrier(team);
    return tinyi_atomic_get(&job->run.failed) != 0;
}

static void tinyi_tri_team(tiny_team *team, void *arg)
{
    tinyi_tri_job *job = (tinyi_tri_job *)arg;
    tinyi_la_view t = job->t, x = job->x;
    int identity = !job->b.t;
    if (tinyi_tri_load(team, job, &t)) return;
    if (identity) tinyi_la_fill(team, job->xm, job->ldx, job->n, job->r, 1.0);
    else if (tinyi_la_load(team, &job->run, &job->b, TINYI_LA_ALL, job->xm, job->ldx)) return;
    tinyi_la_solve(team, job->run.plain, job->tm, job->ldt, job->n, job->unit, job->xm, job->ldx, job->r, identity);
    if (job->twice && identity) {           /* (L L^T)^-1 = M^T M, M = L^-1; the room of L is free again */
        if (job->run.plain) tinyi_tri_square_ref(job->xm, job->ldx, job->n, job->tm, job->ldt);
        else tinyi_la_lower_square(team, job->xm, job->ldx, job->n, job->tm, job->ldt);
        tinyi_la_store(team, &x, TINYI_LA_MIRROR, job->tm, job->ldt);
        return;
    }
    if (job->twice) {                       /* L^T as a lower triangle, and the rows of x backward with it */
        t = tinyi_la_backward(tinyi_la_turned(t));
        tinyi_la_flip(team, job->xm, job->ldx, job->n, job->r);
        if (tinyi_tri_load(team, job, &t)) return;
        tinyi_la_solve(team, job->run.plain, job->tm, job->ldt, job->n, job->unit, job->xm, job->ldx, job->r, 0);
        x = tinyi_la_upward(x);
    }
    tinyi_la_store(team, &x, TINYI_LA_ALL, job->xm, job->ldx);
}

/* solve 0: the inverse, without b. twice: t is L of L L^T. */
static tiny_status tinyi_tri_go(tiny_ctx *ctx, const char *what, const tiny_tensor *t, int solve, const tiny_tensor *b,
                                const tiny_tri_params *params, int twice, const tiny_tensor *x)
{
    tinyi_tri_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    const char *t_name = twice ? "l" : "t", *x_name = solve ? "x" : "inverse";
    double n;
    memset(&job.b, 0, sizeof job.b);
    if (!st) st = tinyi_la_look(ctx, what, t_name, t, 0, &job.t);
    if (!st && solve) st = tinyi_la_look(ctx, what, "b", b, TINYI_LA_VECTOR, &job.b);
    if (!st) st = tinyi_la_look(ctx, what, x_name, x, solve ? TINYI_LA_OUT | TINYI_LA_VECTOR : TINYI_LA_OUT, &job.x);
    if (!st) st = tinyi_la_square(ctx, what, &job.t);
    if (!st && solve) st = tinyi_la_want(ctx, what, &job.b, job.t.rows, job.b.cols);
    if (st) return st;
    job.n = job.t.rows;
    job.r = solve ? job.b.cols : job.n;
    st = tinyi_la_want(ctx, what, &job.x, job.n, job.r);
    if (st) return st;
    job.unit = params && params->unit;
    job.twice = twice;
    if (params && params->transposed) job.t = tinyi_la_turned(job.t);
    if (params && !params->upper != !params->transposed) {
        job.t = tinyi_la_backward(job.t);
        if (solve) job.b = tinyi_la_upward(job.b);
        job.x = solve ? tinyi_la_upward(job.x) : tinyi_la_backward(job.x);
    }
    job.ldt = tinyi_la_ld(job.n);
    job.ldx = tinyi_la_ld(job.r);
    n = (double)job.n;
    job.xm = NULL;
    job.tm = tinyi_la_alloc(ctx, job.n, job.ldt);
    if (job.tm) job.xm = tinyi_la_alloc(ctx, job.n, job.ldx);
    st = job.xm ? tinyi_la_go(ctx, what, n * n * (double)job.r, TINYI_MAX(job.n, job.r), tinyi_tri_team, &job)
                : tiny_ctx_status(ctx);
    tiny_free(ctx, job.xm);
    tiny_free(ctx, job.tm);
    return st;
}

TINY_API tiny_status tiny_cholesky_solve(tiny_ctx *ctx, const tiny_tensor *l, const tiny_tensor *b,
                                         const tiny_tensor *x)
{
    return tinyi_tri_go(ctx, "cholesky_solve", l, 1, b, NULL, 1, x);
}

TINY_API tiny_status tiny_cholesky_inverse(tiny_ctx *ctx, const tiny_tensor *l, const tiny_tensor *inverse)
{
    return tinyi_tri_go(ctx, "cholesky_inverse", l, 0, NULL, NULL, 1, inverse);
}

TINY_API tiny_status tiny_tri_solve(tiny_ctx *ctx, const tiny_tensor *t, const tiny_tensor *b,
                                    const tiny_tri_params *params, const tiny_tensor *x)
{
    return tinyi_tri_go(ctx, "tri_solve", t, 1, b, params, 0, x);
}

TINY_API tiny_status tiny_tri_inverse(tiny_ctx *ctx, const tiny_tensor *t, const tiny_tri_params *params,
                                      const tiny_tensor *inverse)
{
    return tinyi_tri_go(ctx, "tri_inverse", t, 0, NULL, params, 0, inverse);
}

