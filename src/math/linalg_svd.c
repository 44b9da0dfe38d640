/* src/math/linalg_svd.c - singular values and vectors
 *
 * Paper    one-sided Jacobi: M. Hestenes, J. SIAM 6, 1958; J. Demmel, K. Veselic, "Jacobi's method is more accurate
 *          than QR", SIAM J. Matrix Anal. Appl. 13(4), 1992. QR first: Z. Drmac, K. Veselic, same journal 29(4), 2008.
 * Formula  rows b_i of B = A^T (or of R^T after A = Q R) are rotated in pairs until |b_i . b_j| <= tol |b_i||b_j|, tol
 *          = (8 + n^0.5) 2^-53; the same rotations make V^T out of the identity. Then s_i = |b_i|, u_i = b_i / s_i. A
 *          row of |b_i| <= n 2^-53 max |b| is rounding noise: it is not rotated, and its u completes the orthonormal
 *          basis.
 * Fast     from 11 columns on the rotations start close to the result: V_0 are the eigenvectors of B B^T, B <- V_0^T B.
 *          The rotations repair the error that squaring B brings. The matrix product B B^T then shows which pairs are
 *          not orthogonal. Only those are rotated, in rounds of disjoint pairs over the team (a tournament, R. Brent,
 *          F. Luk, SIAM J. Sci. Stat. Comput. 6(1), 1985).
 * Cost     about 6 n^2 max(m, n) for QR and Q, 18 n^3 for the rest; the plain form 12 n^3 a sweep, 6 to 10 sweeps
 * Error    |A - U diag(s) Vt|, |U^T U - I|, |V^T V - I| (times |A|) at most c n 2^-53 |A| in the spectral norm, c about
 *          10
 * Left out bidiagonalization with divide and conquer (fewer operations); the largest few singular values only     */
#include "math/linalg_block_inside.h"
#include "math/elem.h"
#include <string.h>

#define TINYI_SVD_PLAIN 10                  /* up to so many columns the turns begin with the identity */
#define TINYI_SVD_SWEEPS 60

typedef struct tinyi_svd_job {
    tinyi_la_run run;
    tinyi_la_view a, u, s, vt;              /* a with at least as many rows as columns: else all stand turned */
    tinyi_la_eig g;                         /* of B B^T */
    double *w;                              /* (n, m): A^T, then its reflections */
    double *b, *v, *gram;                   /* (n, len), (n, n), (n, n) */
    double *ut;                             /* (n, m): rows of U^T */
    double *values, *diagonal, *block, *t, *wx;
    size_t *order;
    size_t m, n, len, ldw, ldb, ldv;
    int turned, qr, precondition, u_wanted;
    double tol, noise;                      /* noise: squared norms up to it */
    tiny_idx changed;
} tinyi_svd_job;

TINY_REF_BEGIN
/* cosine and sine that make rows with these products orthogonal; 0: they are, or one is noise */
static int tinyi_svd_angle(const tinyi_svd_job *job, double ii, double jj, double ij, double *c, double *s)
{
    double theta, t, size = ij < 0.0 ? -ij : ij;
    if (ii <= job->noise || jj <= job->noise || size <= job->tol * tinyi_sqrt64(ii) * tinyi_sqrt64(jj)) return 0;
    theta = (jj - ii) / (2.0 * ij);
    t = 1.0 / ((theta < 0.0 ? -theta : theta) + tinyi_sqrt64(theta * theta + 1.0));
    if (theta < 0.0) t = -t;
    *c = 1.0 / tinyi_sqrt64(t * t + 1.0);
    *s = t * *c;
    return 1;
}

static void tinyi_svd_noise(tinyi_svd_job *job, double largest)
{
    double f = (double)job->n * 1.1102230246251565e-16;
    job->tol = (8.0 + tinyi_sqrt64((double)job->n)) * 1.1102230246251565e-16;
    job->noise = f * f * largest;
}

static int tinyi_svd_turns_ref(tinyi_svd_job *job)
{
    double *b = job->b, *v = job->v, largest;
    size_t n = job->n, len = job->len, i, j, k, sweep, turned = 1;
    for (sweep = 0; turned && sweep < TINYI_SVD_SWEEPS; sweep++) {
        for (largest = 0.0, i = 0; i < n; i++) {
            double ii = tinyi_la_dot(b + i * job->ldb, b + i * job->ldb, len);
            if (ii > largest) largest = ii;
        }
        tinyi_svd_noise(job, largest);
        for (turned = 0, i = 0; i + 1 < n; i++)
            for (j = i + 1; j < n; j++) {
                double *p = b + i * job->ldb, *q = b + j * job->ldb, c, s;
                if (!tinyi_svd_angle(job, tinyi_la_dot(p, p, len), tinyi_la_dot(q, q, len), tinyi_la_dot(p, q, len), &c,
                                     &s))
                    continue;
                turned++;
                for (k = 0; k < len; k++) {
                    double x = p[k], y = q[k];
                    p[k] = c * x - s * y;
                    q[k] = s * x + c * y;
                }
                p = v + i * job->ldv;
                q = v + j * job->ldv;
                for (k = 0; k < n; k++) {
                    double x = p[k], y = q[k];
                    p[k] = c * x - s * y;
                    q[k] = s * x + c * y;
                }
            }
    }
    return turned == 0;
}

/* values[i] = |b_i|, order descending (the first of equals first) */
static void tinyi_svd_sort(tinyi_svd_job *job)
{
    double largest = 0.0;
    size_t i, j;
    for (i = 0; i < job->n; i++) {
        double ss = tinyi_la_dot(job->b + i * job->ldb, job->b + i * job->ldb, job->len), x = tinyi_sqrt64(ss);
        if (ss > largest) largest = ss;
        for (j = i; j > 0 && job->values[j - 1] < x; j--) {
            job->values[j] = job->values[j - 1];
            job->order[j] = job->order[j - 1];
        }
        job->values[j] = x;
        job->order[j] = i;
    }
    tinyi_svd_noise(job, largest);
}

/* Row r of u (rows 0..r orthonormal, of length len): the unit vector with the largest part outside of them, that part
 * twice made orthogonal, at length one. left[k]: the squared part of unit vector k outside. */
static void tinyi_svd_complete(double *u, size_t ld, size_t r, size_t len, double *left)
{
    size_t k = 0, i, j, pass;
    double s, *x = u + r * ld;
    for (i = 1; i < len; i++)
        if (left[i] > left[k]) k = i;
    for (i = 0; i < len; i++) x[i] = i == k ? 1.0 : 0.0;
    for (pass = 0; pass < 2; pass++)
        for (i = 0; i < r; i++) {
            s = tinyi_la_dot(u + i * ld, x, len);
            for (j = 0; j < len; j++) x[j] -= s * u[i * ld + j];
        }
    s = 1.0 / tinyi_sqrt64(tinyi_la_dot(x, x, len));
    for (i = 0; i < len; i++) {
        x[i] *= s;
        left[i] -= x[i] * x[i];
    }
}
TINY_REF_END

/* ---- the turns on a team */

/* The product of rows i and j anew, and a turn where they are not orthogonal. */
static void tinyi_svd_pair(tiny_team *team, tinyi_svd_job *job, size_t i, size_t j)
{
    const tinyi_fn_la_dots dots = TINYI_K(team, la_dots);
    const tinyi_fn_la_rot rot = TINYI_K(team, la_rot);
    double *p = job->b + i * job->ldb, *q = job->b + j * job->ldb, ii = 0.0, jj = 0.0, ij = 0.0, c, s;
    dots(&ii, 1, p, job->ldb, 1, job->len, p, 1.0);
    dots(&jj, 1, q, job->ldb, 1, job->len, q, 1.0);
    dots(&ij, 1, p, job->ldb, 1, job->len, q, 1.0);
    if (!tinyi_svd_angle(job, ii, jj, ij, &c, &s)) return;
    rot(p, q, job->len, c, s);
    rot(job->v + i * job->ldv, job->v + j * job->ldv, job->n, c, s);
    tinyi_atomic_set(&job->changed, 1);
}

/* The upper triangle of B B^T: (n, ld). */
static void tinyi_svd_gram(tiny_team *team, const tinyi_svd_job *job, double *to, size_t ld)
{
    tinyi_la_product g;
    tinyi_la_fill(team, to, ld, job->n, job->n, 0.0);
    memset(&g, 0, sizeof g);
    g.c = to;
    g.a = g.b = job->b;
    g.ldc = ld;
    g.lda = g.ldb = job->ldb;
    g.m = g.n = job->n;
    g.k = job->len;
    g.b_turned = g.upper = 1;
    g.alpha = 1.0;
    tinyi_la_gemm(team, &g);
}

/* Which pairs i < j are not orthogonal: then gram[i][j] is not 0. */
static void tinyi_svd_look(tiny_team *team, tinyi_svd_job *job)
{
    double largest = 0.0;
    size_t n = job->n, i, j;
    tiny_idx i0, i1;
    tinyi_svd_gram(team, job, job->gram, job->ldv);
    for (i = 0; i < n; i++) largest = TINYI_MAX(largest, job->gram[i * job->ldv + i]);
    if (team->i == 0) tinyi_svd_noise(job, largest);
    tiny_barrier(team);
    while (tiny_take(team, (tiny_idx)n, 8, &i0, &i1))
        for (i = (size_t)i0; i < (size_t)i1; i++)
            for (j = i + 1; j < n; j++) {
                double c, s, *at = job->gram + i * job->ldv + j;
                *at = tinyi_svd_angle(job, job->gram[i * job->ldv + i], job->gram[j * job->ldv + j], *at, &c, &s);
            }
    tiny_barrier(team);
}

/* The k-th pair of round r of a tournament of n2 (even) players: all pairs meet once in n2 - 1 rounds. */
static void tinyi_svd_meet(size_t n2, size_t r, size_t k, size_t *i, size_t *j)
{
    size_t a = k == 0 ? n2 - 1 : (r + k) % (n2 - 1), b = (r + n2 - 1 - k) % (n2 - 1);
    *i = TINYI_MIN(a, b);
    *j = TINYI_MAX(a, b);
}

static int tinyi_svd_turns(tiny_team *team, tinyi_svd_job *job)
{
    size_t n = job->n, n2 = (n + 1) & ~(size_t)1, sweep, r, k, i, j;
    tiny_idx k0, k1;
    for (sweep = 0; sweep < TINYI_SVD_SWEEPS; sweep++) {
        tiny_barrier(team);
        if (team->i == 0) job->changed = 0;
        tinyi_svd_look(team, job);
        for (r = 0; r + 1 < n2; r++) {
            int any = 0;                    /* every thread comes to the same answer */
            for (k = 0; k < n2 / 2 && !any; k++) {
                tinyi_svd_meet(n2, r, k, &i, &j);
                any = j < n && job->gram[i * job->ldv + j] != 0.0;
            }
            if (!any) continue;
            while (tiny_take(team, (tiny_idx)(n2 / 2), 8, &k0, &k1))
                for (; k0 < k1; k0++) {
                    tinyi_svd_meet(n2, r, (size_t)k0, &i, &j);
                    if (j < n && job->gram[i * job->ldv + j] != 0.0) tinyi_svd_pair(team, job, i, j);
                }
            tiny_barrier(team);
        }
        tiny_barrier(team);
        if (!tinyi_atomic_get(&job->changed)) return 1;
    }
    return 0;
}

/* V_0 from the eigenvectors of B B^T, largest first, and B <- V_0^T B. */
static void tinyi_svd_precondition(tiny_team *team, tinyi_svd_job *job)
{
    tinyi_la_product g;
    size_t n = job->n, i;
    tiny_idx i0, i1;
    tinyi_svd_gram(team, job, job->g.a, job->g.ld);
    tinyi_la_eig_run(team, &job->run, &job->g);
    if (tinyi_atomic_get(&job->run.failed)) return;
    while (tiny_take(team, (tiny_idx)n, 16, &i0, &i1))
        for (i = (size_t)i0; i < (size_t)i1; i++)
            memcpy(job->v + i * job->ldv, job->g.a + (n - 1 - i) * job->g.ld, n * sizeof(double));
    tiny_barrier(team);
    tinyi_la_fill(team, job->ut, job->ldw, n, job->len, 0.0);
    memset(&g, 0, sizeof g);
    g.c = job->ut;
    g.a = job->v;
    g.b = job->b;
    g.ldc = job->ldw;
    g.lda = job->ldv;
    g.ldb = job->ldb;
    g.m = g.k = n;
    g.n = job->len;
    g.alpha = 1.0;
    tinyi_la_gemm(team, &g);
    while (tiny_take(team, (tiny_idx)n, 16, &i0, &i1))
        for (i = (size_t)i0; i < (size_t)i1; i++)
            memcpy(job->b + i * job->ldb, job->ut + i * job->ldw, job->len * sizeof(double));
    tiny_barrier(team);
}

/* Rows of ut: b_i / s_i in order, completed, then with the reflections of Q; rows of gram: V^T in order, with its
 * signs. */
static void tinyi_svd_vectors(tiny_team *team, tinyi_svd_job *job)
{
    size_t n = job->n, len = job->len, i, j, r;
    tiny_idx i0, i1;
    for (r = 0; r < n && job->values[r] * job->values[r] > job->noise && job->values[r] > 0.0; r++) {}
    while (tiny_take(team, (tiny_idx)n, 16, &i0, &i1))
        for (i = (size_t)i0; i < (size_t)i1; i++) {
            const double *b = job->b + job->order[i] * job->ldb, *v = job->v + job->order[i] * job->ldv;
            double *u = job->ut + i * job->ldw, *to = job->gram + i * job->ldv;
            for (j = 0; j < job->m; j++) u[j] = i < r && j < len ? b[j] / job->values[i] : 0.0;
            for (j = 0; j < n; j++) to[j] = v[j];
        }
    tiny_barrier(team);
    if (team->i == 0 && r < n && job->u_wanted) {
        double *left = job->b;              /* its rows have been read */
        for (j = 0; j < len; j++)
            for (left[j] = 1.0, i = 0; i < r; i++) left[j] -= job->ut[i * job->ldw + j] * job->ut[i * job->ldw + j];
        for (i = r; i < n; i++) tinyi_svd_complete(job->ut, job->ldw, i, len, left);
    }
    tiny_barrier(team);
    if (job->qr) {
        if (job->run.plain) tinyi_la_qr_back_ref(job->w, job->ldw, n, job->m, job->ut, job->ldw, n);
        else tinyi_la_qr_back(team, job->w, job->ldw, n, job->m, job->ut, job->ldw, n, job->block, job->t, job->wx);
    }
    while (tiny_take(team, (tiny_idx)n, 16, &i0, &i1))
        for (i = (size_t)i0; i < (size_t)i1; i++) {
            double *u = job->ut + i * job->ldw, *v = job->gram + i * job->ldv;
            if ((job->turned ? tinyi_la_sign(u, job->m) : tinyi_la_sign(v, n)) > 0.0) continue;
            for (j = 0; j < job->m; j++) u[j] = -u[j];
            for (j = 0; j < n; j++) v[j] = -v[j];
        }
    tiny_barrier(team);
}

static void tinyi_svd_team(tiny_team *team, void *arg)
{
    tinyi_svd_job *job = (tinyi_svd_job *)arg;
    tinyi_la_view a = tinyi_la_turned(job->a), u = tinyi_la_turned(job->u);
    size_t n = job->n, i, j;
    tiny_idx i0, i1;
    double f;
    int fine = 1;
    if (tinyi_la_load(team, &job->run, &a, TINYI_LA_ALL, job->w, job->ldw)) return;
    f = tinyi_la_rescale(team, &job->run, job->w, job->ldw, n, job->m);
    if (job->qr) {
        if (job->run.plain) tinyi_la_qr_ref(job->w, job->ldw, n, n, job->m, job->diagonal);
        else tinyi_la_qr(team, job->w, job->ldw, n, n, job->m, job->diagonal, job->block, job->t, job->wx);
    }
    while (tiny_take(team, (tiny_idx)n, 16, &i0, &i1))
        for (i = (size_t)i0; i < (size_t)i1; i++)
            for (j = 0; j < job->len; j++) {
                double x = job->w[i * job->ldw + j];
                job->b[i * job->ldb + j] = !job->qr || j < i ? x : j == i ? job->diagonal[i] : 0.0;
            }
    tiny_barrier(team);
    if (job->precondition) tinyi_svd_precondition(team, job);
    else tinyi_la_fill(team, job->v, job->ldv, n, n, 1.0);
    if (tinyi_atomic_get(&job->run.failed)) return;
    if (job->run.plain) fine = tinyi_svd_turns_ref(job);
    else fine = tinyi_svd_turns(team, job);
    if (team->i == 0) {
        if (!fine)
            tinyi_la_fail(team, &job->run, TINY_E_NUMERIC, "the columns did not become orthogonal in %d sweeps",
                          TINYI_SVD_SWEEPS);
        tinyi_svd_sort(job);
    }
    tiny_barrier(team);
    if (tinyi_atomic_get(&job->run.failed)) return;
    if (job->u.t || job->vt.t) tinyi_svd_vectors(team, job);
    if (team->i == 0)
        for (i = 0; i < n; i++) job->values[i] /= f;
    tiny_barrier(team);
    tinyi_la_store(team, &job->s, TINYI_LA_ALL, job->values, 1);
    tinyi_la_store(team, &u, TINYI_LA_ALL, job->ut, job->ldw);
    tinyi_la_store(team, &job->vt, TINYI_LA_ALL, job->gram, job->ldv);
}

static tiny_status tinyi_svd_alloc(tiny_ctx *ctx, tinyi_svd_job *job)
{
    const size_t n = job->n;
    if (job->precondition) {
        tiny_status st = tinyi_la_eig_alloc(ctx, &job->g, n, 1);
        if (st || !(job->g.a = tinyi_la_alloc(ctx, n, job->g.ld))) return st ? st : tiny_ctx_status(ctx);
    }
    if (!(job->w = tinyi_la_alloc(ctx, n, job->ldw)) || !(job->b = tinyi_la_alloc(ctx, TINYI_MAX(n, 1), job->ldb)) ||
        !(job->v = tinyi_la_alloc(ctx, n, job->ldv)) || !(job->gram = tinyi_la_alloc(ctx, n, job->ldv)) ||
        !(job->ut = tinyi_la_alloc(ctx, n, job->ldw)) || !(job->values = tinyi_la_alloc(ctx, 2 * TINYI_MAX(n, 1), 1)) ||
        !(job->order = (size_t *)tinyi_alloc(ctx, n, sizeof *job->order)))
        return tiny_ctx_status(ctx);
    job->diagonal = job->values + n;
    if (!job->qr || ctx->target == TINY_TARGET_REFERENCE) return TINY_OK;
    if (!(job->block = tinyi_la_alloc(ctx, TINYI_LA_WY, job->ldw)) ||
        !(job->t = tinyi_la_alloc(ctx, TINYI_LA_WY, TINYI_LA_WY)) ||
        !(job->wx = tinyi_la_alloc(ctx, 2 * TINYI_LA_WY, job->ldv)))
        return tiny_ctx_status(ctx);
    return TINY_OK;
}

TINY_API tiny_status tiny_svd(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *u, const tiny_tensor *s,
                              const tiny_tensor *vt)
{
    tinyi_svd_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    size_t k;
    double n, m;
    memset(&job, 0, sizeof job);
    if (!st) st = tinyi_la_look(ctx, "svd", "a", a, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "svd", "u", u, TINYI_LA_OUT | TINYI_LA_OPTIONAL, &job.u);
    if (!st) st = tinyi_la_look(ctx, "svd", "s", s, TINYI_LA_OUT | TINYI_LA_VECTOR, &job.s);
    if (!st) st = tinyi_la_look(ctx, "svd", "vt", vt, TINYI_LA_OUT | TINYI_LA_OPTIONAL, &job.vt);
    if (st) return st;
    k = TINYI_MIN(job.a.rows, job.a.cols);
    st = tinyi_la_want(ctx, "svd", &job.u, job.a.rows, k);
    if (!st) st = tinyi_la_want(ctx, "svd", &job.s, k, 1);
    if (!st) st = tinyi_la_want(ctx, "svd", &job.vt, k, job.a.cols);
    if (!st) st = tinyi_la_apart(ctx, "svd", &job.u, &job.s);
    if (!st) st = tinyi_la_apart(ctx, "svd", &job.u, &job.vt);
    if (!st) st = tinyi_la_apart(ctx, "svd", &job.s, &job.vt);
    if (st) return st;
    if (job.a.rows < job.a.cols) {          /* A^T = V diag(s) U^T */
        tinyi_la_view v = job.vt;
        job.vt = tinyi_la_turned(job.u);
        job.u = tinyi_la_turned(v);
        job.a = tinyi_la_turned(job.a);
        job.turned = 1;
    }
    job.m = job.a.rows;
    job.n = job.a.cols;
    job.u_wanted = job.u.t != NULL || job.turned;
    job.qr = job.m > job.n;
    job.len = job.qr ? job.n : job.m;
    job.precondition = job.n > TINYI_SVD_PLAIN && ctx->target != TINY_TARGET_REFERENCE;
    job.ldw = tinyi_la_ld(job.m);
    job.ldb = tinyi_la_ld(job.len);
    job.ldv = tinyi_la_ld(job.n);
    st = tinyi_svd_alloc(ctx, &job);
    n = (double)job.n;
    m = (double)job.m;
    if (!st) st = tinyi_la_go(ctx, "svd", n * n * (6.0 * m + 18.0 * n), job.m, tinyi_svd_team, &job);
    tiny_free(ctx, job.wx);
    tiny_free(ctx, job.t);
    tiny_free(ctx, job.block);
    tiny_free(ctx, job.order);
    tiny_free(ctx, job.values);
    tiny_free(ctx, job.ut);
    tiny_free(ctx, job.gram);
    tiny_free(ctx, job.v);
    tiny_free(ctx, job.b);
    tiny_free(ctx, job.w);
    tiny_free(ctx, job.g.a);
    tinyi_la_eig_free(ctx, &job.g);
    return st;
}

