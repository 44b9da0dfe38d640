/* src/math/linalg_eig.c - eigenvalues and vectors of a symmetric matrix
 *
 * Paper    n <= 32: C. Jacobi's rotations, cyclic by rows, with the formulas of H. Rutishauser, Numer. Math. 9, 1966.
 *          Larger: A. Householder's reduction to a tridiagonal T, then the implicit QL method of A. Dubrulle, R.
 *          Martin, J. Wilkinson, Numer. Math. 12, 1968.
 * Formula  reduction: v from row j right of the diagonal, p = A v, w = p - (v.p / 2) v, A <- A - v w^T - w v^T on the
 *          rest;
 *          A = Q T Q^T, Q = H_0 ... H_{n-3}. A sweep of QL from m-1 down to l with the shift of the 2 x 2 block at l;
 *          an off-diagonal e[i] counts as 0 when |e[i]| <= 2^-53 max (|d|, |e|).
 * Data     the upper triangle of the workspace, and the vectors as rows of Q^T: every rotation and reflection runs
 *          along rows.
 * Fast     reduction in panels of 32 columns: J. Dongarra, D. Sorensen, S. Hammarling, J. Comput. Appl. Math. 27, 1989
 *          (half of the work is a symmetric matrix times a vector, the other half one product of rank 64); Q by blocked
 *          reflections; QL records the rotations of 32 sweeps while the team applies those of the previous 32 to the
 *          vectors, four sweeps in one pass:
 *          F. Van Zee, R. van de Geijn, G. Quintana-Orti, "Restructuring the QR algorithm for dense symmetric
 *          matrices", ACM TOMS 40(3), 2014. n <= 8 runs the plain form on one thread, which is the fastest at that
 *          size.
 * Cost     4n^3/3 (reduction) + 4n^3/3 (Q) + about 5n^3 (rotations); eigenvalues alone 4n^3/3
 * Error    |A V - V diag(w)| and |V^T V - I| (times |A|) at most c n 2^-53 |A| in the spectral norm, c about 10;
 *          eigenvalues likewise
 * Left out divide and conquer (fewer operations from about n = 1000 on); a part of the spectrum only; generalized
 * problems */
#include "math/linalg_block_inside.h"
#include "math/elem.h"
#include <string.h>

#define TINYI_EIG_JACOBI 32                 /* up to this size in the plain form */
#define TINYI_EIG_SMALL 8                   /* and in the fast one */
#define TINYI_EIG_COLUMNS 32 /* of the vectors turned at once: n rows of 256 bytes should fit the second cache */

TINY_REF_BEGIN
static double tinyi_eig_abs(double x) { return x < 0 ? -x : x; }

/* ---- Jacobi: a (n, n) both triangles, rows of z get the vectors, d the values. The number of sweeps is bounded. */
static int tinyi_eig_jacobi(double *a, size_t ld, size_t n, double *d, double *z, size_t ldz)
{
    double largest = 0.0, least;
    size_t i, p, q, sweep, turned = 1;
    for (p = 0; p < n; p++)
        for (q = p; q < n; q++) {
            a[q * ld + p] = a[p * ld + q];
            if (tinyi_eig_abs(a[p * ld + q]) > largest) largest = tinyi_eig_abs(a[p * ld + q]);
        }
    least = largest * 1.3877787807814457e-17;       /* 2^-56 */
    for (p = 0; p < n; p++)
        for (q = 0; q < n; q++) z[p * ldz + q] = p == q ? 1.0 : 0.0;
    for (sweep = 0; turned && sweep < 60; sweep++)
        for (turned = 0, p = 0; p + 1 < n; p++)
            for (q = p + 1; q < n; q++) {
                double apq = a[p * ld + q], theta, t, c, s;
                if (tinyi_eig_abs(apq) <= least) continue;
                turned++;
                theta = (a[q * ld + q] - a[p * ld + p]) / (2.0 * apq);
                t = 1.0 / (tinyi_eig_abs(theta) + tinyi_sqrt64(theta * theta + 1.0));
                if (theta < 0.0) t = -t;
                c = 1.0 / tinyi_sqrt64(t * t + 1.0);
                s = t * c;
                for (i = 0; i < n; i++) {
                    double x = a[p * ld + i], y = a[q * ld + i];
                    if (i != p && i != q) {
                        a[p * ld + i] = a[i * ld + p] = c * x - s * y;
                        a[q * ld + i] = a[i * ld + q] = s * x + c * y;
                    }
                    x = z[p * ldz + i];
                    y = z[q * ldz + i];
                    z[p * ldz + i] = c * x - s * y;
                    z[q * ldz + i] = s * x + c * y;
                }
                a[p * ld + p] -= t * apq;
                a[q * ld + q] += t * apq;
                a[p * ld + q] = a[q * ld + p] = 0.0;
            }
    for (p = 0; p < n; p++) d[p] = a[p * ld + p];
    return turned == 0;
}

/* ---- implicit QL, one sweep at a time */

typedef struct tinyi_eig_ql {
    double *d, *e;                          /* e[i] couples i and i + 1 */
    size_t n, l;
    int tries;
    double least;
} tinyi_eig_ql;

/* 1: one sweep was made, its rotations of (i, i + 1) stand in cs[2 i], cs[2 i + 1] for i = *hi - 1 down to *lo. 0: all
 * done.
 * -1: no end after 60 sweeps for one value. */
static int tinyi_eig_sweep(tinyi_eig_ql *q, double *cs, size_t *lo, size_t *hi)
{
    double *d = q->d, *e = q->e, g, r, s = 1.0, c = 1.0, p = 0.0;
    size_t m, i;
    for (;; q->l++, q->tries = 0) {
        if (q->l + 1 >= q->n) return 0;
        for (m = q->l; m + 1 < q->n; m++)
            if (tinyi_eig_abs(e[m]) <= q->least) break;
        if (m > q->l) break;
    }
    if (q->tries++ == 60) return -1;
    /* the eigenvalue of the block at l that is nearer to d[l], subtracted from d[m] */
    g = (d[q->l + 1] - d[q->l]) / (2.0 * e[q->l]);
    r = tinyi_sqrt64(g * g + 1.0);
    g = d[m] - d[q->l] + e[q->l] / (g < 0.0 ? g - r : g + r);
    *hi = m;
    for (i = m; i-- > q->l;) {
        double f = s * e[i], b = c * e[i], size = f * f + g * g;
        if (size < 1e-250) {                /* squares of tiny numbers lose their digits */
            double x = f * 1.3407807929942597e154, y = g * 1.3407807929942597e154;      /* times 2^512 */
            r = tinyi_sqrt64(x * x + y * y);
            c = r == 0.0 ? 1.0 : y / r;
            s = r == 0.0 ? 0.0 : x / r;
            r *= 7.458340731200207e-155;
        } else {
            r = tinyi_sqrt64(size);
            c = 1.0 / r;
            s = f * c;
            c *= g;
        }
        e[i + 1] = r;
        if (r == 0.0) {                     /* the matrix falls apart here */
            d[i + 1] -= p;
            e[m] = 0.0;
            *lo = i + 1;
            return 1;
        }
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2.0 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        cs[2 * i] = c;
        cs[2 * i + 1] = s;
    }
    d[q->l] -= p;
    e[q->l] = g;
    e[m] = 0.0;
    *lo = q->l;
    return 1;
}

static void tinyi_eig_ql_begin(tinyi_eig_ql *q, double *d, double *e, size_t n)
{
    double largest = 0.0;
    size_t i;
    q->d = d;
    q->e = e;
    q->n = n;
    q->l = 0;
    q->tries = 0;
    if (n) e[n - 1] = 0.0;
    for (i = 0; i < n; i++) {
        if (tinyi_eig_abs(d[i]) > largest) largest = tinyi_eig_abs(d[i]);
        if (tinyi_eig_abs(e[i]) > largest) largest = tinyi_eig_abs(e[i]);
    }
    q->least = largest * 1.1102230246251565e-16;    /* 2^-53: what the reduction leaves uncertain anyway */
}

/* ---- the plain form of the larger ones */

static void tinyi_eig_reduce_ref(double *a, size_t ld, size_t n, double *d, double *e, double *w)
{
    size_t i, j, t;
    for (j = 0; j + 1 < n; j++) {
        double *v = a + j * ld, ss = 0.0, half = 0.0;
        for (i = j + 2; i < n; i++) ss += v[i] * v[i];
        d[j] = v[j];
        tinyi_la_house(v + j + 1, n - j - 1, ss, e + j);
        for (i = j + 1; i < n; i++) {
            double s = 0.0;
            for (t = j + 1; t < n; t++) s += (t < i ? a[t * ld + i] : a[i * ld + t]) * v[t];
            w[i] = s;
        }
        for (i = j + 1; i < n; i++) half += w[i] * v[i];
        half *= 0.5;
        for (i = j + 1; i < n; i++) w[i] -= half * v[i];
        for (i = j + 1; i < n; i++)
            for (t = i; t < n; t++) a[i * ld + t] -= v[i] * w[t] + w[i] * v[t];
    }
    if (n) d[n - 1] = a[(n - 1) * ld + n - 1];
}

/* z = Q^T: the identity times H_{n-2} ... H_0 */
static void tinyi_eig_back_ref(const double *a, size_t ld, size_t n, double *z, size_t ldz)
{
    size_t i, j, t;
    for (j = n - 1; j-- > 0;)
        for (i = j + 1; i < n; i++) {
            const double *v = a + j * ld;
            double s = 0.0;
            for (t = j + 1; t < n; t++) s += z[i * ldz + t] * v[t];
            for (t = j + 1; t < n; t++) z[i * ldz + t] -= s * v[t];
        }
}

static int tinyi_eig_ql_ref(double *d, double *e, size_t n, double *z, size_t ldz, double *cs)
{
    tinyi_eig_ql q;
    size_t lo = 0, hi = 0, i, t;
    int more;
    tinyi_eig_ql_begin(&q, d, e, n);
    while ((more = tinyi_eig_sweep(&q, cs, &lo, &hi)) > 0)
        for (i = hi; z && i-- > lo;) {
            double c = cs[2 * i], s = cs[2 * i + 1], *x = z + i * ldz, *y = x + ldz;
            for (t = 0; t < n; t++) {
                double f = y[t];
                y[t] = s * x[t] + c * f;
                x[t] = c * x[t] - s * f;
            }
        }
    return more == 0;
}
TINY_REF_END

/* ---- the reduction on a team */

/* Row j of A, brought up to date by the q rows of v and w before it, becomes a reflection. */
static void tinyi_eig_row(tiny_team *team, tinyi_la_eig *g, size_t j, size_t q)
{
    const tinyi_fn_la_comb comb = TINYI_K(team, la_comb);
    const tinyi_fn_la_dots dots = TINYI_K(team, la_dots);
    double *x = g->a + j * g->ld + j, *v = g->v + q * g->ld, ss = 0.0;
    size_t n = g->n - j;
    comb(x, n, g->w + j, g->ld, q, g->v + j, g->ld, -1.0);
    comb(x, n, g->v + j, g->ld, q, g->w + j, g->ld, -1.0);
    g->d[j] = x[0];
    dots(&ss, 1, x + 2, g->ld, 1, n - 2, x + 2, 1.0);
    tinyi_la_house(x + 1, n - 1, ss, g->e + j);
    memset(v, 0, (j + 1) * sizeof *v);
    memcpy(v + j + 1, x + 1, (n - 1) * sizeof *v);
}

/* w of row q from the product p = A v of the matrix before this panel */
static void tinyi_eig_w(tiny_team *team, tinyi_la_eig *g, size_t j, size_t q)
{
    const tinyi_fn_la_comb comb = TINYI_K(team, la_comb);
    const tinyi_fn_la_dots dots = TINYI_K(team, la_dots);
    double *v = g->v + q * g->ld + j + 1, *w = g->w + q * g->ld + j + 1, with[2 * TINYI_LA_WY], half = 0.0;
    size_t n = g->n - j - 1, i;
    memset(with, 0, sizeof with);
    dots(with, 1, g->w + j + 1, g->ld, q, n, v, 1.0);
    dots(with + TINYI_LA_WY, 1, g->v + j + 1, g->ld, q, n, v, 1.0);
    comb(w, n, g->v + j + 1, g->ld, q, with, 1, -1.0);
    comb(w, n, g->w + j + 1, g->ld, q, with + TINYI_LA_WY, 1, -1.0);
    dots(&half, 1, w, g->ld, 1, n, v, 0.5);
    for (i = 0; i < n; i++) w[i] -= half * v[i];
}

static void tinyi_eig_reduce(tiny_team *team, tinyi_la_eig *g)
{
    const tinyi_fn_la_symv symv = TINYI_K(team, la_symv);
    tinyi_la_product rank;
    double *a = g->a, *mine = g->part + (size_t)team->i * g->ld;
    size_t n = g->n, ld = g->ld, k0, k1, j, i;
    tiny_idx i0, i1;
    int t;
    for (k0 = 0; k0 + 1 < n; k0 = k1) {
        k1 = TINYI_MIN(k0 + TINYI_LA_WY, n - 1);
        for (j = k0; j < k1; j++) {
            size_t rest = n - j - 1, q = j - k0;
            double *v = g->v + q * ld + j + 1, *w = g->w + q * ld + j + 1, *at = a + (j + 1) * ld + j + 1;
            int alone = team->n == 1 || rest < 256;
            if (team->i == 0) {
                tinyi_eig_row(team, g, j, q);
                memset(g->w + q * ld, 0, ld * sizeof *w);
            }
            if (alone) {
                if (team->i) continue;
                symv(w, v, at, ld, 0, rest, rest);
                tinyi_eig_w(team, g, j, q);
                continue;
            }
            tiny_barrier(team);
            memset(mine, 0, rest * sizeof *mine);
            while (tiny_take(team, (tiny_idx)rest, (tiny_idx)(rest / (8 * (size_t)team->n) / 4 * 4 + 4), &i0, &i1))
                symv(mine, v, at, ld, (size_t)i0, (size_t)i1, rest);
            tiny_barrier(team);
            if (team->i) continue;
            for (t = 0; t < team->n; t++)
                for (i = 0; i < rest; i++) w[i] += g->part[(size_t)t * ld + i];
            tinyi_eig_w(team, g, j, q);
        }
        if (team->i == 0)                   /* A - v^T w - w^T v = A - [v; w]^T [w; v]: v once more behind w */
            memcpy(g->w + TINYI_LA_WY * ld, g->v, TINYI_LA_WY * ld * sizeof *a);
        tiny_barrier(team);
        memset(&rank, 0, sizeof rank);
        rank.c = a + k1 * ld + k1;
        rank.ldc = rank.lda = rank.ldb = ld;
        rank.m = rank.n = n - k1;
        rank.a = g->v + k1;
        rank.b = g->w + k1;
        rank.k = k1 - k0 == TINYI_LA_WY ? 2 * TINYI_LA_WY : k1 - k0;
        rank.a_turned = rank.upper = 1;
        rank.alpha = -1.0;
        tinyi_la_gemm(team, &rank);
        if (k1 - k0 < TINYI_LA_WY) {        /* the last panel: v and w do not touch */
            rank.a = g->w + k1;
            rank.b = g->v + k1;
            tinyi_la_gemm(team, &rank);
        }
    }
    if (team->i == 0 && n) g->d[n - 1] = a[(n - 1) * ld + n - 1];
}

/* ---- QL on a team: one thread writes rotations down, all apply those of the batch before */

static void tinyi_eig_fill(tinyi_la_eig *g, tinyi_eig_ql *q, tinyi_eig_batch *b)
{
    size_t i, f, s;
    for (b->n = 0; b->n < TINYI_EIG_SWEEPS && g->more > 0; b->n += g->more > 0)
        g->more = tinyi_eig_sweep(q, b->cs + 2 * g->n * b->n, &b->lo[b->n], &b->hi[b->n]);
    /* four in one pass where their ranges are much the same; each gets the range of all, with rotations by nothing */
    for (s = 0; s < b->n; s++) {
        size_t lo = SIZE_MAX, hi = 0, true_length = 0;
        b->group[s] = 1;
        if (s + 4 > b->n) continue;
        for (f = s; f < s + 4; f++) {
            lo = TINYI_MIN(lo, b->lo[f]);
            hi = TINYI_MAX(hi, b->hi[f]);
            true_length += b->hi[f] - b->lo[f];
        }
        if (hi - lo < 8 || (hi - lo) * 16 > true_length * 5) continue;
        for (f = s; f < s + 4; f++) {
            double *cs = b->cs + 2 * g->n * f;
            for (i = lo; i < hi; i++)
                if (i < b->lo[f] || i >= b->hi[f]) {
                    cs[2 * i] = 1.0;
                    cs[2 * i + 1] = 0.0;
                }
        }
        b->lo[s] = lo;
        b->hi[s] = hi;
        b->group[s] = 4;
        s += 3;
    }
}

static void tinyi_eig_turn(tiny_team *team, const tinyi_la_eig *g, const tinyi_eig_batch *b, size_t c0, size_t c1)
{
    const tinyi_fn_la_rot rot = TINYI_K(team, la_rot);
    const tinyi_fn_la_rot4 rot4 = TINYI_K(team, la_rot4);
    const double *cs[4];
    size_t s, i, f;
    for (s = 0; s < b->n; s += b->group[s]) {
        for (f = 0; f < b->group[s]; f++) cs[f] = b->cs + 2 * g->n * (s + f);
        if (b->group[s] == 4) rot4(g->z + c0, g->ldz, c1 - c0, cs, b->lo[s], b->hi[s]);
        else
            for (i = b->hi[s]; i-- > b->lo[s];)
                rot(g->z + i * g->ldz + c0, g->z + (i + 1) * g->ldz + c0, c1 - c0, cs[0][2 * i], cs[0][2 * i + 1]);
    }
}

static void tinyi_eig_vectors(tiny_team *team, tinyi_la_eig *g)
{
    tinyi_eig_ql q;                         /* of thread 0 */
    tiny_idx c, c0, c1, chunks = (tiny_idx)((g->n + TINYI_EIG_COLUMNS - 1) / TINYI_EIG_COLUMNS);
    int b = 0;
    if (team->i == 0) {
        tinyi_eig_ql_begin(&q, g->d, g->e, g->n);
        g->more = 1;
        tinyi_eig_fill(g, &q, &g->batch[0]);
    }
    tiny_barrier(team);
    for (; g->batch[b].n; b = 1 - b) {
        if (team->i == 0) tinyi_eig_fill(g, &q, &g->batch[1 - b]);
        while (tiny_take(team, chunks, 1, &c0, &c1))
            for (c = c0; c < c1; c++)
                tinyi_eig_turn(team, g, &g->batch[b], (size_t)c * TINYI_EIG_COLUMNS,
                               TINYI_MIN((size_t)(c + 1) * TINYI_EIG_COLUMNS, g->n));
        tiny_barrier(team);
    }
}

/* ---- everything in order */

/* d ascending, and where each came from */
static void tinyi_eig_sort(tinyi_la_eig *g)
{
    size_t i, j;
    for (i = 0; i < g->n; i++) {
        double x = g->d[i];
        for (j = i; j > 0 && g->d[j - 1] > x; j--) {
            g->d[j] = g->d[j - 1];
            g->order[j] = g->order[j - 1];
        }
        g->d[j] = x;
        g->order[j] = i;
    }
}

double tinyi_la_sign(const double *x, size_t n)
{
    double best = 0.0, sign = 1.0;
    size_t i;
    for (i = 0; i < n; i++)
        if (tinyi_eig_abs(x[i]) > best) {
            best = tinyi_eig_abs(x[i]);
            sign = x[i] < 0.0 ? -1.0 : 1.0;
        }
    return sign;
}

void tinyi_la_eig_run(tiny_team *team, tinyi_la_run *run, tinyi_la_eig *g)
{
    size_t n = g->n, i, j;
    tiny_idx i0, i1;
    int fine = 1;
    if (n <= (run->plain ? TINYI_EIG_JACOBI : TINYI_EIG_SMALL)) {
        if (team->i == 0) fine = tinyi_eig_jacobi(g->a, g->ld, n, g->d, g->z, g->ldz);
    } else if (run->plain) {
        tinyi_eig_reduce_ref(g->a, g->ld, n, g->d, g->e, g->part);
        if (g->vectors) {
            tinyi_la_fill(team, g->z, g->ldz, n, n, 1.0);
            tinyi_eig_back_ref(g->a, g->ld, n, g->z, g->ldz);
        }
        fine = tinyi_eig_ql_ref(g->d, g->e, n, g->vectors ? g->z : NULL, g->ldz, g->batch[0].cs);
    } else {
        tinyi_eig_reduce(team, g);
        if (g->vectors) {
            tinyi_la_fill(team, g->z, g->ldz, n, n, 1.0);
            tinyi_la_qr_back(team, g->a + 1, g->ld, n - 1, n - 1, g->z + g->ldz + 1, g->ldz, 0, g->v, g->t, g->wx);
            tinyi_eig_vectors(team, g);
            fine = g->more == 0;
        } else if (team->i == 0) fine = tinyi_eig_ql_ref(g->d, g->e, n, NULL, 0, g->batch[0].cs);
    }
    if (team->i == 0) {
        if (!fine) tinyi_la_fail(team, run, TINY_E_NUMERIC, "the eigenvalues did not converge");
        tinyi_eig_sort(g);
    }
    tiny_barrier(team);
    if (tinyi_atomic_get(&run->failed) || !g->vectors) return;
    while (tiny_take(team, (tiny_idx)n, 16, &i0, &i1))
        for (i = (size_t)i0; i < (size_t)i1; i++) {
            const double *from = g->z + g->order[i] * g->ldz;
            double sign = tinyi_la_sign(from, n);
            for (j = 0; j < n; j++) g->a[i * g->ld + j] = sign * from[j];
        }
    tiny_barrier(team);
}

tiny_status tinyi_la_eig_alloc(tiny_ctx *ctx, tinyi_la_eig *g, size_t n, int vectors)
{
    const size_t ld = tinyi_la_ld(n);
    double *cs;
    memset(g, 0, sizeof *g);
    g->n = n;
    g->ld = g->ldz = ld;
    g->vectors = vectors;
    g->d = tinyi_la_alloc(ctx, 2 * ld, 1);
    if (!g->d || !(g->order = (size_t *)tinyi_alloc(ctx, ld, sizeof *g->order))) return tiny_ctx_status(ctx);
    g->e = g->d + ld;
    if ((vectors || n <= TINYI_EIG_JACOBI) && !(g->z = tinyi_la_alloc(ctx, n, ld))) return tiny_ctx_status(ctx);
    if (n <= TINYI_EIG_SMALL) return TINY_OK;
    if (!(g->part = tinyi_la_alloc(ctx, (size_t)ctx->n_threads, ld)) ||
        !(g->cs = cs = tinyi_la_alloc(ctx, 4 * TINYI_EIG_SWEEPS, ld)) ||
        !(g->v = tinyi_la_alloc(ctx, 3 * TINYI_LA_WY, ld)) || !(g->wx = tinyi_la_alloc(ctx, 2 * TINYI_LA_WY, ld)) ||
        !(g->t = tinyi_la_alloc(ctx, TINYI_LA_WY, TINYI_LA_WY)))
        return tiny_ctx_status(ctx);
    g->w = g->v + TINYI_LA_WY * ld;
    g->batch[0].cs = cs;
    g->batch[1].cs = cs + 2 * TINYI_EIG_SWEEPS * ld;
    return TINY_OK;
}

void tinyi_la_eig_free(tiny_ctx *ctx, tinyi_la_eig *g)
{
    tiny_free(ctx, g->t);
    tiny_free(ctx, g->wx);
    tiny_free(ctx, g->v);
    tiny_free(ctx, g->cs);
    tiny_free(ctx, g->part);
    tiny_free(ctx, g->z);
    tiny_free(ctx, g->order);
    tiny_free(ctx, g->d);
}

typedef struct tinyi_eigh_job {
    tinyi_la_run run;
    tinyi_la_view a, w, v;
    tinyi_la_eig g;
} tinyi_eigh_job;

static void tinyi_eigh_team(tiny_team *team, void *arg)
{
    tinyi_eigh_job *job = (tinyi_eigh_job *)arg;
    tinyi_la_view a = tinyi_la_turned(job->a), v = tinyi_la_turned(job->v);
    double f;
    size_t i;
    if (tinyi_la_load(team, &job->run, &a, TINYI_LA_UPPER, job->g.a, job->g.ld)) return;
    f = tinyi_la_rescale(team, &job->run, job->g.a, job->g.ld, job->g.n, job->g.n);
    tinyi_la_eig_run(team, &job->run, &job->g);
    if (tinyi_atomic_get(&job->run.failed)) return;
    if (team->i == 0)
        for (i = 0; i < job->g.n; i++) job->g.d[i] /= f;
    tiny_barrier(team);
    tinyi_la_store(team, &job->w, TINYI_LA_ALL, job->g.d, 1);
    tinyi_la_store(team, &v, TINYI_LA_ALL, job->g.a, job->g.ld);
}

TINY_API tiny_status tiny_eigh(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *w, const tiny_tensor *v)
{
    tinyi_eigh_job job;
    tiny_status st = tinyi_ctx_check(ctx);
    double n;
    if (!st) st = tinyi_la_look(ctx, "eigh", "a", a, 0, &job.a);
    if (!st) st = tinyi_la_look(ctx, "eigh", "w", w, TINYI_LA_OUT | TINYI_LA_VECTOR, &job.w);
    if (!st) st = tinyi_la_look(ctx, "eigh", "v", v, TINYI_LA_OUT | TINYI_LA_OPTIONAL, &job.v);
    if (!st) st = tinyi_la_square(ctx, "eigh", &job.a);
    if (!st) st = tinyi_la_want(ctx, "eigh", &job.w, job.a.rows, 1);
    if (!st) st = tinyi_la_want(ctx, "eigh", &job.v, job.a.rows, job.a.rows);
    if (!st) st = tinyi_la_apart(ctx, "eigh", &job.w, &job.v);
    if (st) return st;
    n = (double)job.a.rows;
    st = tinyi_la_eig_alloc(ctx, &job.g, job.a.rows, v != NULL);
    if (!st && !(job.g.a = tinyi_la_alloc(ctx, job.g.n, job.g.ld))) st = tiny_ctx_status(ctx);
    if (!st) st = tinyi_la_go(ctx, "eigh", n * n * n * (v ? 8.0 : 1.3), job.g.n, tinyi_eigh_team, &job);
    tiny_free(ctx, job.g.a);
    tinyi_la_eig_free(ctx, &job.g);
    return st;
}

