/* src/math/linalg_qr.c - Householder QR and least squares
 *
 * Paper    G. Golub, C. Van Loan, "Matrix Computations", 4th ed., 2013: 5.2 (Householder QR, the sign of B. Parlett
 *          that makes the diagonal of R positive), 5.4.2 (column pivoting of P. Businger, G. Golub, Numer. Math. 7,
 *          1965); blocked reflections: see math/linalg_block_inside.h
 * Formula  column j: a <- a - v (v . a) for all columns a from j on, v from the part of column j from row j on, with
 *          norm sqrt(2)
 * Data     the workspace holds A^T: a column of A is a row there, and reflections run along rows. Row j: R above the
 *          diagonal in places 0 .. j - 1, v from j on. The diagonal of R is stored separately. Right-hand sides are
 *          more rows.
 * Cost     2n^2 (m - n/3), as much again for Q, 4mn for a right-hand side
 * Error    both forms: norms of A - Q R (relative to A) and of Q^T Q - I at most c m n 2^-53, c about 4, in the
 *          spectral norm (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., 19.3), in practice near
 *          n^0.5 2^-53
 * Rank     the reference pivots columns and computes their norms again in every step. The fast form first computes QR
 *          without pivoting, and |R^-1|. No pivot is below 1 / |R^-1|, so the rank is full if that is above the
 *          tolerance. If it is not, the plain form factors R again with pivoting.
 * Left out minimum-norm solutions of rank-deficient systems (tiny_svd gives them); updates of factors             */
#include "math/linalg_block_inside.h"
#include "math/elem.h"
#include <string.h>

typedef struct tinyi_qr_job {
    tinyi_la_run run;
    tinyi_la_view a, b, q, r, x;            /* QR: a, q, r; least squares: a, b, x */
    double *w, *p, *diagonal;               /* w (rows, m), p (k, m): Q^T, or R backward and its inverse */
    double *v, *t, *wx;                     /* one block of reflections, its T, workspace of tinyi_la_reflect */
    size_t m, n, k, n_b, rows, ld, ldp;
    size_t *order;
    double tolerance, scale;
    size_t rank;
} tinyi_qr_job;

TINY_REF_BEGIN
/* a - (a . v) v */
static void tinyi_qr_mirror(double *a, const double *v, size_t n)
{
    double s = tinyi_la_dot(a, v, n);
    size_t i;
    for (i = 0; i < n; i++) a[i] -= s * v[i];
}

/* k reflections of rows of w (rows, m); order not NULL: the row with the largest rest comes first, of the first
 * `movable` */
static void tinyi_qr_ref(double *w, size_t ld, size_t rows, size_t k, size_t m, double *diagonal, size_t *order,
                         size_t movable)
{
    size_t i, j, t;
    for (j = 0; j < k; j++) {
        double *v = w + j * ld + j;
        if (order) {
            double best = -1.0;
            size_t at = j;
            for (i = j; i < movable; i++) {
                double s = tinyi_la_dot(w + i * ld + j, w + i * ld + j, m - j);
                if (s > best) {
                    best = s;
                    at = i;
                }
            }
            for (t = 0; t < m && at != j; t++) {
                double s = w[j * ld + t];
                w[j * ld + t] = w[at * ld + t];
                w[at * ld + t] = s;
            }
            t = order[j];
            order[j] = order[at];
            order[at] = t;
        }
        tinyi_la_house(v, m - j, tinyi_la_dot(v + 1, v + 1, m - j - 1), diagonal + j);
        for (i = j + 1; i < rows; i++) tinyi_qr_mirror(w + i * ld + j, v, m - j);
    }
}

void tinyi_la_qr_ref(double *w, size_t ld, size_t rows, size_t k, size_t m, double *diagonal)
{
    tinyi_qr_ref(w, ld, rows, k, m, diagonal, NULL, 0);
}

void tinyi_la_qr_back_ref(const double *w, size_t ld, size_t k, size_t m, double *p, size_t ldp, size_t rows)
{
    size_t i, j;
    for (j = k; j-- > 0;)
        for (i = rows ? 0 : j; i < (rows ? rows : k); i++) tinyi_qr_mirror(p + i * ldp + j, w + j * ld + j, m - j);
}
TINY_REF_END

/* reflections k0..k1 as rows of v with zeros before them; columns count from k0 */
static void tinyi_qr_block(tiny_team *team, const double *w, size_t ld, size_t k0, size_t k1, size_t m, double *v)
{
    tiny_idx j0, j1;
    while (tiny_take(team, (tiny_idx)(k1 - k0), 8, &j0, &j1))
        for (; j0 < j1; j0++) {
            size_t j = (size_t)j0;
            memset(v + j * ld, 0, j * sizeof *v);
            memcpy(v + j * ld + j, w + (k0 + j) * ld + k0 + j, (m - k0 - j) * sizeof *v);
        }
    tiny_barrier(team);
}

void tinyi_la_qr(tiny_team *team, double *w, size_t ld, size_t rows, size_t k, size_t m, double *diagonal, double *v,
                 double *t, double *wx)
{
    const tinyi_fn_la_dots dots = TINYI_K(team, la_dots);
    const tinyi_fn_la_rank1 rank1 = TINYI_K(team, la_rank1);
    size_t k0, k1, j;
    tiny_idx i0, i1;
    for (k0 = 0; k0 < k; k0 = k1) {
        int alone = team->n == 1 || m - k0 < 1024;      /* shorter rows are done before a barrier would be */
        k1 = TINYI_MIN(k0 + TINYI_LA_WY, k);
        for (j = k0; j < k1; j++) {
            double *x = w + j * ld + j, with[TINYI_LA_WY];
            if (team->i == 0) {
                double ss = 0.0;
                dots(&ss, 1, x + 1, ld, 1, m - j - 1, x + 1, 1.0);
                tinyi_la_house(x, m - j, ss, diagonal + j);
            }
            if (alone) {
                if (team->i != 0) continue;
                memset(with, 0, sizeof with);
                dots(with, 1, x + ld, ld, k1 - j - 1, m - j, x, 1.0);
                rank1(x + ld, ld, k1 - j - 1, m - j, with, 1, x, -1.0);
                continue;
            }
            tiny_barrier(team);
            while (tiny_take(team, (tiny_idx)(k1 - j - 1), 4, &i0, &i1)) {
                double *y = x + (size_t)(i0 + 1) * ld;
                memset(with, 0, sizeof with);
                dots(with, 1, y, ld, (size_t)(i1 - i0), m - j, x, 1.0);
                rank1(y, ld, (size_t)(i1 - i0), m - j, with, 1, x, -1.0);
            }
            tiny_barrier(team);
        }
        if (alone) tiny_barrier(team);
        tinyi_qr_block(team, w, ld, k0, k1, m, v);
        tinyi_la_wy(team, v, ld, k1 - k0, m - k0, t);
        tinyi_la_reflect(team, w + k1 * ld + k0, ld, rows - k1, v, ld, k1 - k0, m - k0, t, 0, wx);
    }
}

void tinyi_la_qr_back(tiny_team *team, const double *w, size_t ld, size_t k, size_t m, double *p, size_t ldp,
                      size_t rows, double *v, double *t, double *wx)
{
    size_t k0, k1, i;
    for (k1 = k; k1 > 0; k1 = k0) {
        k0 = (k1 - 1) / TINYI_LA_WY * TINYI_LA_WY;
        i = rows ? 0 : k0;
        tinyi_qr_block(team, w, ld, k0, k1, m, v);
        tinyi_la_wy(team, v, ld, k1 - k0, m - k0, t);
        tinyi_la_reflect(team, p + i * ldp + k0, ldp, (rows ? rows : k) - i, v, ld, k1 - k0, m - k0, t, 1, wx);
    }
}

static void tinyi_qr_team(tiny_team *team, void *arg)
{
    tinyi_qr_job *job = (tinyi_qr_job *)arg;
    tinyi_la_view a = tinyi_la_turned(job->a), q = tinyi_la_turned(job->q), r = tinyi_la_turned(job->r);
    double *w = job->w, f;
    size_t j, i, k = job->k;
    tiny_idx j0, j1;
    if (tinyi_la_load(team, &job->run, &a, TINYI_LA_ALL, w, job->ld)) return;
    f = tinyi_la_rescale(team, &job->run, w, job->ld, job->n, job->m);
    if (job->run.plain) tinyi_la_qr_ref(w, job->ld, job->n, k, job->m, job->diagonal);
    else tinyi_la_qr(team, w, job->ld, job->n, k, job->m, job->diagonal, job->v, job->t, job->wx);
    if (job->q.t) {
        tinyi_la_fill(team, job->p, job->ldp, k, job->m, 1.0);
        if (job->run.plain) tinyi_la_qr_back_ref(w, job->ld, k, job->m, job->p, job->ldp, 0);
        else tinyi_la_qr_back(team, w, job->ld, k, job->m, job->p, job->ldp, 0, job->v, job->t, job->wx);
        tinyi_la_store(team, &q, TINYI_LA_ALL, job->p, job->ldp);
    }
    if (!job->r.t) return;
    while (tiny_take(team, (tiny_idx)job->n, 16, &j0, &j1))
        for (j = (size_t)j0; j < (size_t)j1; j++) {
            if (j < k) w[j * job->ld + j] = job->diagonal[j];
            for (i = 0; i < k && i <= j; i++) w[j * job->ld + i] /= f;
            for (; i < k; i++) w[j * job->ld + i] = 0.0;
        }
    tiny_barrier(team);
    tinyi_la_store(team, &r, TINYI_LA_ALL, w, job->ld);
}

static tiny_status tinyi_qr_alloc(tiny_ctx *ctx, tinyi_qr_job *job)
{
    job->ld = tinyi_la_ld(job->m);
    job->w = tinyi_la_alloc(ctx, job->rows, job->ld);
    if (!job->w || !(job->diagonal = tinyi_la_alloc(ctx, job->k, 1))) return tiny_ctx_status(ctx);
    if (ctx->target == TINY_TARGET_REFERENCE) return TINY_OK;
    if (!(job->v = tinyi_la_alloc(ctx, TINYI_LA_WY, job->ld)) ||
        !(job->t = tinyi_la_alloc(ctx, TINYI_LA_WY, TINYI_LA_WY)) ||
        !(job->wx = tinyi_la_alloc(ctx, 2 * TINYI_LA_WY, tinyi_la_ld(job->rows))))
        return tiny_ctx_status(ctx);
    return TINY_OK;
}

static void tinyi_qr_free(tiny_ctx *ctx, tinyi_qr_job *job)
{
    tiny_free(ctx, job->order);
    tiny_free(ctx, job->p);
    tiny_free(ctx, job->wx);
    tiny_free(ctx, job->t);
    tiny_free(ctx, job->v);
    tiny_free(ctx, job->diagonal);
    tiny_free(ctx, job->w);
}

TINY_API tiny_status tiny_qr(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *q, const tiny_tensor *r)
{
    tinyi_qr_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&job, 0, sizeof job);
    if (!st) st = tinyi_la_look(ctx, "qr", "a", a, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "qr", "q", q, TINYI_LA_OUT | TINYI_LA_OPTIONAL, &job.q);
    if (!st) st = tinyi_la_look(ctx, "qr", "r", r, TINYI_LA_OUT | TINYI_LA_OPTIONAL, &job.r);
    if (st) return st;
    job.m = job.a.rows;
    job.n = job.rows = job.a.cols;
    job.k = TINYI_MIN(job.m, job.n);
    st = tinyi_la_want(ctx, "qr", &job.q, job.m, job.k);
    if (!st) st = tinyi_la_want(ctx, "qr", &job.r, job.k, job.n);
    if (!st) st = tinyi_la_apart(ctx, "qr", &job.q, &job.r);
    if (st) return st;
    st = tinyi_qr_alloc(ctx, &job);
    job.ldp = job.ld;
    if (!st && q && !(job.p = tinyi_la_alloc(ctx, job.k, job.ldp))) st = tiny_ctx_status(ctx);
    if (!st)
        st = tinyi_la_go(ctx, "qr", 2.0 * (double)job.k * (double)job.n * (double)job.m, TINYI_MAX(job.m, job.n),
                         tinyi_qr_team, &job);
    tinyi_qr_free(ctx, &job);
    return st;
}

/* ---- least squares */

/* The rank of w (rows of the factored part of length n are columns of R) or of A: see the head comment. order gets the
 * columns. */
static void tinyi_lstsq_pivot(tiny_team *team, tinyi_qr_job *job, size_t length)
{
    size_t j;
    if (team->i == 0) {
        for (j = 0; j < job->n; j++) job->order[j] = j;
        tinyi_qr_ref(job->w, job->ld, job->rows, job->n, length, job->diagonal, job->order, job->n);
        for (j = 0; j < job->n && job->diagonal[j] > job->tolerance * job->diagonal[0]; j++) {}
        job->rank = j;
    }
    tiny_barrier(team);
}

/* 1: no pivot of the factored w can be below the tolerance */
static int tinyi_lstsq_full(tiny_team *team, tinyi_qr_job *job)
{
    double largest = 0.0, s;
    size_t n = job->n, ld = job->ld, i, j;
    tiny_idx j0, j1;
    /* R^T as a lower triangle, then its inverse in the upper half of p */
    double *low = job->p, *inv = job->p + n * job->ldp;
    while (tiny_take(team, (tiny_idx)n, 16, &j0, &j1))
        for (j = (size_t)j0; j < (size_t)j1; j++) {
            memcpy(low + j * job->ldp, job->w + j * ld, j * sizeof *low);
            low[j * job->ldp + j] = job->diagonal[j];
        }
    tinyi_la_fill(team, inv, job->ldp, n, n, 1.0);
    for (j = 0; j < n; j++) {
        if (job->diagonal[j] == 0.0) return 0;
        for (s = 0.0, i = 0; i <= j; i++) s += low[j * job->ldp + i] * low[j * job->ldp + i];
        if (s > largest) largest = s;
    }
    tinyi_la_lower_solve(team, low, job->ldp, n, 0, inv, job->ldp, n, 1);
    for (s = 0.0, j = 0; j < n; j++)
        for (i = 0; i <= j; i++) s += inv[j * job->ldp + i] * inv[j * job->ldp + i];
    return s * job->tolerance * job->tolerance * largest < 0.25;
}

static void tinyi_lstsq_team(tiny_team *team, void *arg)
{
    tinyi_qr_job *job = (tinyi_qr_job *)arg;
    tinyi_la_view a = tinyi_la_turned(job->a), b = tinyi_la_turned(job->b), x = tinyi_la_upward(job->x);
    double *w = job->w, *up, *y, fa, fb;
    size_t n = job->n, m = job->m, ld = job->ld, i, j, c;
    tiny_idx j0, j1;
    if (tinyi_la_load(team, &job->run, &a, TINYI_LA_ALL, w, ld)) return;
    fa = tinyi_la_rescale(team, &job->run, w, ld, n, m);
    if (tinyi_la_load(team, &job->run, &b, TINYI_LA_ALL, w + n * ld, ld)) return;
    fb = tinyi_la_rescale(team, &job->run, w + n * ld, ld, job->n_b, m);
    if (job->run.plain) tinyi_lstsq_pivot(team, job, m);
    else {
        tinyi_la_qr(team, w, ld, job->rows, n, m, job->diagonal, job->v, job->t, job->wx);
        if (tinyi_lstsq_full(team, job)) {
            if (team->i == 0) {
                for (j = 0; j < n; j++) job->order[j] = j;
                job->rank = n;
            }
            tiny_barrier(team);
        } else {
            tiny_barrier(team);
            while (tiny_take(team, (tiny_idx)n, 16, &j0, &j1))
                for (j = (size_t)j0; j < (size_t)j1; j++) {
                    w[j * ld + j] = job->diagonal[j];
                    memset(w + j * ld + j + 1, 0, (n - j - 1) * sizeof *w);
                }
            tiny_barrier(team);
            tinyi_lstsq_pivot(team, job, n);
        }
    }
    if (job->rank < n) {
        if (team->i == 0)
            tinyi_la_fail(team, &job->run, TINY_E_NUMERIC,
                          "the columns of a depend on each other: rank %zu of %zu at tolerance %g", job->rank, n,
                          job->tolerance);
        return;
    }
    /* R backward as a lower triangle, Q^T B backward, and the solution back in the order of the columns */
    up = job->p;
    y = job->p + n * job->ldp;
    while (tiny_take(team, (tiny_idx)n, 16, &j0, &j1))
        for (i = (size_t)j0; i < (size_t)j1; i++) {
            for (j = 0; j <= i; j++) {
                size_t row = n - 1 - i, column = n - 1 - j;
                up[i * job->ldp + j] = row == column ? job->diagonal[row] : w[column * ld + row];
            }
            for (c = 0; c < job->n_b; c++) y[i * job->ldp + c] = w[(n + c) * ld + n - 1 - i];
        }
    tiny_barrier(team);
    tinyi_la_solve(team, job->run.plain, up, job->ldp, n, 0, y, job->ldp, job->n_b, 0);
    while (tiny_take(team, (tiny_idx)n, 16, &j0, &j1))
        for (i = (size_t)j0; i < (size_t)j1; i++)
            for (c = 0; c < job->n_b; c++)
                up[(n - 1 - job->order[n - 1 - i]) * job->ldp + c] = y[i * job->ldp + c] * fa / fb;
    tiny_barrier(team);
    tinyi_la_store(team, &x, TINYI_LA_ALL, up, job->ldp);
}

TINY_API tiny_status tiny_lstsq(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, double tolerance,
                                const tiny_tensor *x, tiny_idx *rank)
{
    tinyi_qr_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    size_t p_rows = 0;
    memset(&job, 0, sizeof job);
    if (!st) st = tinyi_la_look(ctx, "lstsq", "a", a, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "lstsq", "b", b, TINYI_LA_VECTOR, &job.b);
    if (!st) st = tinyi_la_look(ctx, "lstsq", "x", x, TINYI_LA_OUT | TINYI_LA_VECTOR, &job.x);
    if (st) return st;
    job.m = job.a.rows;
    job.n = job.k = job.a.cols;
    job.n_b = job.b.cols;
    if (job.m < job.n)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "lstsq: a is %zu x %zu, it must have at least as many rows as columns: use tiny_svd for a "
                          "minimum-norm solution",
                          job.m, job.n);
    if (!(tolerance >= 0.0 && tolerance < 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "lstsq: the tolerance %g is not in 0 to 1", tolerance);
    st = tinyi_la_want(ctx, "lstsq", &job.b, job.m, job.n_b);
    if (!st) st = tinyi_la_want(ctx, "lstsq", &job.x, job.n, job.n_b);
    if (st) return st;
    job.tolerance = tolerance > 0.0
                        ? tolerance
                        : (double)job.m * (a->dtype == TINY_F32 ? 1.1920928955078125e-7 : 2.220446049250313e-16);
    job.ldp = tinyi_la_ld(TINYI_MAX(job.n, job.n_b));
    if (!tinyi_size_add(job.n, job.n_b, &job.rows) || !tinyi_size_mul(job.n, 2, &p_rows))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "lstsq: too many columns");
    st = tinyi_qr_alloc(ctx, &job);
    if (!st && !(job.p = tinyi_la_alloc(ctx, p_rows, job.ldp))) st = tiny_ctx_status(ctx);
    if (!st && !(job.order = (size_t *)tinyi_alloc(ctx, job.n, sizeof *job.order))) st = tiny_ctx_status(ctx);
    if (!st) {
        job.rank = SIZE_MAX;
        st = tinyi_la_go(ctx, "lstsq", 2.0 * (double)job.n * (double)job.rows * (double)job.m,
                         TINYI_MAX(job.m, job.rows), tinyi_lstsq_team, &job);
        if (rank && job.rank != SIZE_MAX) *rank = (tiny_idx)job.rank;
    }
    tinyi_qr_free(ctx, &job);
    return st;
}

