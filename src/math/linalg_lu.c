/* src/math/linalg_lu.c - LU with partial pivoting, systems, inverses
 *
 * Paper    G. Golub, C. Van Loan, "Matrix Computations", 4th ed., 2013, 3.4; fast: right-looking, by panels of 64
 *          columns and strips of 16
 * Formula  step k exchanges rows k and p, |A[p][k]| = max i>=k |A[i][k]| (the first of equals), then for i > k
 *          A[i][k] /= A[k][k] and A[i][j] -= A[i][k] A[k][j], j > k
 * Cost     2n^3/3; 2n^2 for a right-hand side; 2n^3 for an inverse in all
 * Error    backward, both forms: |P A - L U| <= n 2^-53 |L||U| / (1 - n 2^-53) element by element, a system with 3n
 *          instead of n; |U| stays below 2^(n-1) max |A| and in practice below n max |A|
 * Left out complete pivoting, iterative refinement, updates of factors                                            */
#include "math/linalg_block_inside.h"
#include "math/elem.h"
#include <string.h>

#define TINYI_LU_STRIP 16                   /* columns of a panel that are eliminated one by one */
#define TINYI_LU_LD (TINYI_LA_NB + 8) /* of a panel: an odd number of cache lines, so that a column touches all sets \
                                       */

typedef struct tinyi_lu_job {
    tinyi_la_run run;
    tinyi_la_view a, p, b, x;               /* p: the pivots; b NULL: the identity */
    double *am, *xm, *um;                   /* um: U backward, as a lower triangle */
    int32_t *pivot;
    size_t n, r, ld, ldx;
    int factor, solve;
    double *panel;                          /* (n, TINYI_LU_LD) */
    double best[TINY_MAX_THREADS];
    size_t best_at[TINY_MAX_THREADS];
} tinyi_lu_job;

TINY_REF_BEGIN
static double tinyi_lu_abs(double x) { return x < 0 ? -x : x; }

static int tinyi_lu_pivot(tiny_team *team, tinyi_lu_job *job, size_t k, double s)
{
    if (s != 0.0 && s - s == 0.0) return 1;
    tinyi_la_fail(team, &job->run, TINY_E_NUMERIC, "the matrix is singular: column %zu of %zu has no pivot (%g)", k + 1,
                  job->n, s);
    return 0;
}

static void tinyi_lu_ref(tiny_team *team, tinyi_lu_job *job)
{
    double *a = job->am;
    size_t n = job->n, ld = job->ld, i, j, k, p;
    for (k = 0; k < n; k++) {
        for (p = k, i = k + 1; i < n; i++)
            if (tinyi_lu_abs(a[i * ld + k]) > tinyi_lu_abs(a[p * ld + k])) p = i;
        if (!tinyi_lu_pivot(team, job, k, a[p * ld + k])) return;
        job->pivot[k] = (int32_t)p;
        for (j = 0; j < n && p != k; j++) {
            double s = a[k * ld + j];
            a[k * ld + j] = a[p * ld + j];
            a[p * ld + j] = s;
        }
        for (i = k + 1; i < n; i++) {
            double l = a[i * ld + k] / a[k * ld + k];
            a[i * ld + k] = l;
            for (j = k + 1; j < n; j++) a[i * ld + j] -= l * a[k * ld + j];
        }
    }
}
TINY_REF_END

/* Rows i0..i1 of the panel, i0 >= j: divides column j - 1 by its pivot, takes what was eliminated out of column j (and
 * out of the strip, or of all that is right of it when a new strip begins), and finds the largest of column j. */
static void tinyi_lu_column(tiny_team *team, tinyi_lu_job *job, size_t j, size_t nb, size_t i0, size_t i1)
{
    const tinyi_fn_la_comb comb = TINYI_K(team, la_comb);
    const tinyi_fn_la_rank1 rank1 = TINYI_K(team, la_rank1);
    const size_t ld = TINYI_LU_LD, strip = j % TINYI_LU_STRIP;
    double *p = job->panel, best = job->best[team->i];
    size_t i, at = job->best_at[team->i];
    if (j) {
        double f = 1.0 / p[(j - 1) * ld + j - 1];
        for (i = i0; i < i1; i++) p[i * ld + j - 1] *= f;
        if (strip)
            rank1(p + i0 * ld + j, ld, i1 - i0, TINYI_MIN(nb, j - strip + TINYI_LU_STRIP) - j, p + i0 * ld + j - 1, ld,
                  p + (j - 1) * ld + j, -1.0);
        else
            for (i = i0; i < i1; i++)
                comb(p + i * ld + j, nb - j, p + (j - TINYI_LU_STRIP) * ld + j, ld, TINYI_LU_STRIP,
                     p + i * ld + j - TINYI_LU_STRIP, 1, -1.0);
    }
    for (i = i0; i < i1; i++) {
        double s = p[i * ld + j];
        if (s < 0.0) s = -s;
        if (s > best || (s == best && i < at) || s != s) {
            best = s;
            at = i;
        }
    }
    job->best[team->i] = best;
    job->best_at[team->i] = at;
}

/* The row of the pivot of column j goes up; at the end of a strip its rows of U right of it are made. One thread. */
static void tinyi_lu_step(tiny_team *team, tinyi_lu_job *job, size_t j, size_t nb, size_t k0, int first, int last)
{
    const tinyi_fn_la_comb comb = TINYI_K(team, la_comb);
    const size_t ld = TINYI_LU_LD, from = j - j % TINYI_LU_STRIP;
    double *p = job->panel, best = -1.0;
    size_t i, at = j;
    int t;
    for (t = first; t < last; t++)
        if (job->best_at[t] != SIZE_MAX &&
            (job->best[t] > best || (job->best[t] == best && job->best_at[t] < at) || job->best[t] != job->best[t])) {
            best = job->best[t];
            at = job->best_at[t];
        }
    if (!tinyi_lu_pivot(team, job, k0 + j, p[at * ld + j])) return;
    job->pivot[k0 + j] = (int32_t)(k0 + at);
    for (i = 0; i < nb && at != j; i++) {
        double s = p[j * ld + i];
        p[j * ld + i] = p[at * ld + i];
        p[at * ld + i] = s;
    }
    if (j + 1 != from + TINYI_LU_STRIP || j + 1 >= nb) return;
    for (i = from + 1; i <= j; i++)
        comb(p + i * ld + j + 1, nb - j - 1, p + from * ld + j + 1, ld, i - from, p + i * ld + from, 1, -1.0);
}

/* The panel of rows k0.. and columns k0..k0+nb, in place in job->panel (m, nb). */
static void tinyi_lu_panel(tiny_team *team, tinyi_lu_job *job, size_t k0, size_t m, size_t nb, int alone)
{
    double *p = job->panel;
    size_t i, j;
    tiny_idx i0, i1;
    for (j = 0; j < nb; j++) {
        job->best[team->i] = -1.0;
        job->best_at[team->i] = SIZE_MAX;
        if (alone) {
            tinyi_lu_column(team, job, j, nb, j, m);
            tinyi_lu_step(team, job, j, nb, k0, team->i, team->i + 1);
        } else {
            while (tiny_take(team, (tiny_idx)(m - j), 256, &i0, &i1))
                tinyi_lu_column(team, job, j, nb, j + (size_t)i0, j + (size_t)i1);
            tiny_barrier(team);
            if (team->i == 0) tinyi_lu_step(team, job, j, nb, k0, 0, team->n);
            tiny_barrier(team);
        }
        if (tinyi_atomic_get(&job->run.failed)) return;
    }
    if (alone || team->i == 0)
        for (i = nb; i < m; i++) p[i * TINYI_LU_LD + nb - 1] /= p[(nb - 1) * TINYI_LU_LD + nb - 1];
}

static void tinyi_lu_exchange(double *a, size_t ld, const int32_t *pivot, size_t k0, size_t k1, size_t c0, size_t c1)
{
    size_t k, j;
    for (k = k0; k < k1; k++) {
        double *x = a + k * ld, *y = a + (size_t)pivot[k] * ld;
        if (x == y) continue;
        for (j = c0; j < c1; j++) {
            double s = x[j];
            x[j] = y[j];
            y[j] = s;
        }
    }
}

static void tinyi_lu_blocked(tiny_team *team, tinyi_lu_job *job)
{
    const tinyi_fn_la_comb comb = TINYI_K(team, la_comb);
    double *a = job->am;
    size_t n = job->n, ld = job->ld, k0, k1, i;
    tiny_idx c0, c1;
    for (k0 = 0; k0 < n; k0 = k1) {
        int alone = team->n == 1 || n - k0 < 768;       /* shorter columns are done before a barrier would be */
        k1 = TINYI_MIN(k0 + TINYI_LA_NB, n);
        while (tiny_take(team, (tiny_idx)(n - k0), 64, &c0, &c1))
            for (; c0 < c1; c0++)
                memcpy(job->panel + c0 * TINYI_LU_LD, a + (k0 + (size_t)c0) * ld + k0, (k1 - k0) * sizeof *a);
        tiny_barrier(team);
        if (!alone || team->i == 0) tinyi_lu_panel(team, job, k0, n - k0, k1 - k0, alone);
        tiny_barrier(team);
        if (tinyi_atomic_get(&job->run.failed)) return;
        while (tiny_take(team, (tiny_idx)(n - k0), 64, &c0, &c1))
            for (; c0 < c1; c0++)
                memcpy(a + (k0 + (size_t)c0) * ld + k0, job->panel + c0 * TINYI_LU_LD, (k1 - k0) * sizeof *a);
        tiny_barrier(team);
        while (tiny_take(team, (tiny_idx)n, 64, &c0, &c1)) {            /* the columns beside the panel */
            size_t d0 = (size_t)c0, d1 = (size_t)c1, right = TINYI_MAX(d0, k1);
            if (d0 < k0) tinyi_lu_exchange(a, ld, job->pivot, k0, k1, d0, TINYI_MIN(d1, k0));
            if (right >= d1) continue;
            tinyi_lu_exchange(a, ld, job->pivot, k0, k1, right, d1);
            for (i = k0 + 1; i < k1; i++)
                comb(a + i * ld + right, d1 - right, a + k0 * ld + right, ld, i - k0, a + i * ld + k0, 1, -1.0);
        }
        tiny_barrier(team);
        tinyi_la_sub(team, a + k1 * ld + k1, ld, a + k1 * ld + k0, ld, 0, a + k0 * ld + k1, ld, 0, n - k1, n - k1,
                     k1 - k0);
    }
}

/* um = U backward */
static void tinyi_lu_turn(tiny_team *team, tinyi_lu_job *job)
{
    size_t n = job->n, j;
    tiny_idx i, i0, i1;
    while (tiny_take(team, (tiny_idx)n, 16, &i0, &i1))
        for (i = i0; i < i1; i++)
            for (j = 0; j <= (size_t)i; j++)
                job->um[(size_t)i * job->ld + j] = job->am[(n - 1 - (size_t)i) * job->ld + n - 1 - j];
    tiny_barrier(team);
}

/* The pivots of a caller: each must be a row from k on. */
static int tinyi_lu_read_pivots(tiny_team *team, tinyi_lu_job *job)
{
    size_t k;
    if (team->i == 0)
        for (k = 0; k < job->n; k++) {
            int32_t p = ((const int32_t *)job->p.t->data)[(tiny_idx)k * job->p.si];
            if (p < 0 || (size_t)p < k || (size_t)p >= job->n) {
                tinyi_la_fail(team, &job->run, TINY_E_ARGUMENT, "pivot[%zu] is %d, it must be %zu to %zu", k, (int)p, k,
                              job->n - 1);
                break;
            }
            if (job->am[k * job->ld + k] == 0.0) {
                tinyi_la_fail(team, &job->run, TINY_E_NUMERIC, "the diagonal of lu is 0 at %zu", k);
                break;
            }
            job->pivot[k] = p;
        }
    tiny_barrier(team);
    return tinyi_atomic_get(&job->run.failed) != 0;
}

/* X = A^-1 B or A^-1, stored */
static void tinyi_lu_apply(tiny_team *team, tinyi_lu_job *job)
{
    tinyi_la_view x = tinyi_la_upward(job->x);
    size_t n = job->n, k;
    tiny_idx c0, c1;
    int inverse = !job->b.t;
    if (inverse) tinyi_la_fill(team, job->xm, job->ldx, n, n, 1.0);
    else {
        if (tinyi_la_load(team, &job->run, &job->b, TINYI_LA_ALL, job->xm, job->ldx)) return;
        while (tiny_take(team, (tiny_idx)job->r, 64, &c0, &c1))
            tinyi_lu_exchange(job->xm, job->ldx, job->pivot, 0, n, (size_t)c0, (size_t)c1);
        tiny_barrier(team);
    }
    tinyi_la_solve(team, job->run.plain, job->am, job->ld, n, 1, job->xm, job->ldx, job->r, inverse);
    tinyi_la_flip(team, job->xm, job->ldx, n, job->r);
    tinyi_lu_turn(team, job);
    tinyi_la_solve(team, job->run.plain, job->um, job->ld, n, 0, job->xm, job->ldx, job->r, 0);
    if (inverse) {                          /* (U^-1 L^-1) P: the columns go back where the rows came from */
        while (tiny_take(team, (tiny_idx)n, 16, &c0, &c1))
            for (; c0 < c1; c0++) {
                double *row = job->xm + (size_t)c0 * job->ldx, s;
                for (k = n; k-- > 0;) {
                    size_t p = (size_t)job->pivot[k];
                    s = row[k];
                    row[k] = row[p];
                    row[p] = s;
                }
            }
        tiny_barrier(team);
    }
    tinyi_la_store(team, &x, TINYI_LA_ALL, job->xm, job->ldx);
}

static void tinyi_lu_team(tiny_team *team, void *arg)
{
    tinyi_lu_job *job = (tinyi_lu_job *)arg;
    size_t k;
    if (tinyi_la_load(team, &job->run, &job->a, TINYI_LA_ALL, job->am, job->ld)) return;
    if (job->factor) {
        if (job->run.plain) tinyi_lu_ref(team, job);
        else tinyi_lu_blocked(team, job);
    } else (void)tinyi_lu_read_pivots(team, job);
    if (tinyi_atomic_get(&job->run.failed)) return;
    if (job->solve) {
        tinyi_lu_apply(team, job);
        return;
    }
    tinyi_la_store(team, &job->x, TINYI_LA_ALL, job->am, job->ld);
    if (team->i == 0)
        for (k = 0; k < job->n; k++) ((int32_t *)job->p.t->data)[(tiny_idx)k * job->p.si] = job->pivot[k];
}

/* a: the matrix, or its factors with p; b and x: a system, or the factors in x, or b NULL and the inverse in x */
static tiny_status tinyi_lu_go(tiny_ctx *ctx, const char *what, tinyi_lu_job *job)
{
    tiny_status st = tinyi_la_square(ctx, what, &job->a);
    double n = (double)job->a.rows;
    job->n = job->r = job->a.rows;
    if (!st && job->n > 0x7fffffff)
        st = tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: %zu rows are too many for an i32 pivot", what, job->n);
    if (!st && job->p.t) st = tinyi_la_want(ctx, what, &job->p, job->n, 1);
    if (!st && job->b.t) st = tinyi_la_want(ctx, what, &job->b, job->n, job->b.cols);
    if (job->b.t) job->r = job->b.cols;
    if (!st) st = tinyi_la_want(ctx, what, &job->x, job->n, job->r);
    if (st) return st;
    job->ld = tinyi_la_ld(job->n);
    job->ldx = tinyi_la_ld(job->r);
    job->am = job->xm = job->um = job->panel = NULL;
    job->am = tinyi_la_alloc(ctx, job->n, job->ld);
    job->pivot = job->am ? (int32_t *)tinyi_alloc(ctx, job->n, sizeof *job->pivot) : NULL;
    st = job->pivot ? TINY_OK : tiny_ctx_status(ctx);
    if (!st && job->factor && !(job->panel = tinyi_la_alloc(ctx, job->n, TINYI_LU_LD))) st = tiny_ctx_status(ctx);
    if (!st && job->solve && !(job->xm = tinyi_la_alloc(ctx, job->n, job->ldx))) st = tiny_ctx_status(ctx);
    if (!st && job->solve && !(job->um = tinyi_la_alloc(ctx, job->n, job->ld))) st = tiny_ctx_status(ctx);
    if (!st)
        st = tinyi_la_go(
            ctx, what, (job->factor ? n * n * n * 2.0 / 3.0 : 0.0) + (job->solve ? 2.0 * n * n * (double)job->r : 0.0),
            TINYI_MAX(job->n, job->r), tinyi_lu_team, job);
    tiny_free(ctx, job->um);
    tiny_free(ctx, job->xm);
    tiny_free(ctx, job->panel);
    tiny_free(ctx, job->pivot);
    tiny_free(ctx, job->am);
    return st;
}

TINY_API tiny_status tiny_lu(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *lu, const tiny_tensor *pivot)
{
    tinyi_lu_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&job, 0, sizeof job);
    job.factor = 1;
    if (!st) st = tinyi_la_look(ctx, "lu", "a", a, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "lu", "lu", lu, TINYI_LA_OUT, &job.x);
    if (!st) st = tinyi_la_look(ctx, "lu", "pivot", pivot, TINYI_LA_OUT | TINYI_LA_VECTOR | TINYI_LA_INT, &job.p);
    if (!st) st = tinyi_la_apart(ctx, "lu", &job.x, &job.p);
    return st ? st : tinyi_lu_go(ctx, "lu", &job);
}

TINY_API tiny_status tiny_lu_solve(tiny_ctx *ctx, const tiny_tensor *lu, const tiny_tensor *pivot, const tiny_tensor *b,
                                   const tiny_tensor *x)
{
    tinyi_lu_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&job, 0, sizeof job);
    job.solve = 1;
    if (!st) st = tinyi_la_look(ctx, "lu_solve", "lu", lu, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "lu_solve", "pivot", pivot, TINYI_LA_VECTOR | TINYI_LA_INT, &job.p);
    if (!st) st = tinyi_la_look(ctx, "lu_solve", "b", b, TINYI_LA_VECTOR, &job.b);
    if (!st) st = tinyi_la_look(ctx, "lu_solve", "x", x, TINYI_LA_OUT | TINYI_LA_VECTOR, &job.x);
    return st ? st : tinyi_lu_go(ctx, "lu_solve", &job);
}

TINY_API tiny_status tiny_solve(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *x)
{
    tinyi_lu_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&job, 0, sizeof job);
    job.factor = job.solve = 1;
    if (!st) st = tinyi_la_look(ctx, "solve", "a", a, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "solve", "b", b, TINYI_LA_VECTOR, &job.b);
    if (!st) st = tinyi_la_look(ctx, "solve", "x", x, TINYI_LA_OUT | TINYI_LA_VECTOR, &job.x);
    return st ? st : tinyi_lu_go(ctx, "solve", &job);
}

TINY_API tiny_status tiny_inverse(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *inverse)
{
    tinyi_lu_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&job, 0, sizeof job);
    job.factor = job.solve = 1;
    if (!st) st = tinyi_la_look(ctx, "inverse", "a", a, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "inverse", "inverse", inverse, TINYI_LA_OUT, &job.x);
    return st ? st : tinyi_lu_go(ctx, "inverse", &job);
}

