/* tests/math/linalg.c - dense linear algebra: residuals within bounds, closed forms, small matrices by hand, bad input
 *
 * u = 2^-53. Every check runs on each SIMD target and on the reference.                                              */
#include "t.h"

#define U (DBL_EPSILON / 2)
static const size_t lengths[] = { 1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 63, 65, 100, 131, 150 };

/* ---- matrices of doubles, dense */

static double *mat(size_t m, size_t n) { return (double *)t_guarded_bytes(m * n * sizeof(double)); }
static double *rand_mat(size_t m, size_t n)
{
    double *a = mat(m, n);
    size_t i;
    for (i = 0; i < m * n; i++) a[i] = (double)(int64_t)(t_rand_u64() >> 11) / 4503599627370496.0 - 1.0;
    return a;
}
static tiny_tensor view(double *a, size_t m, size_t n) { return tiny_tensor_2d(a, TINY_F64, (tiny_idx)m, (tiny_idx)n); }
static tiny_tensor vec(double *a, size_t n) { return tiny_tensor_1d(a, TINY_F64, (tiny_idx)n); }

/* c = a b, or |a||b| when of sizes; at, bt: transposed. The sum is compensated (A. Neumaier): off by 2 u |a||b| at
 * most. */
static void product(double *c, const double *a, int at, const double *b, int bt, size_t m, size_t n, size_t k,
                    int sizes)
{
    size_t i, j, p;
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) {
            volatile double lost;           /* no compiler option may drop it */
            double s = 0, rest = 0;
            for (p = 0; p < k; p++) {
                double v = a[at ? p * m + i : i * k + p] * b[bt ? j * k + p : p * n + j], t;
                if (sizes) v = fabs(v);
                t = s + v;
                lost = fabs(s) >= fabs(v) ? (s - t) + v : (v - t) + s;
                rest += lost;
                s = t;
            }
            c[i * n + j] = s + rest;
        }
}
static double norm(const double *a, size_t n)
{
    double s = 0;
    size_t i;
    for (i = 0; i < n; i++) s += a[i] * a[i];
    return sqrt(s);
}
static double far_from(const double *a, const double *b, size_t n)
{
    double s = 0;
    size_t i;
    for (i = 0; i < n; i++) s += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(s);
}
/* Frobenius norm of Q^T Q - I, q (m, n) */
static double askew(const double *q, size_t m, size_t n)
{
    double *g = mat(n, n), s;
    size_t i;
    product(g, q, 1, q, 0, n, n, m, 0);
    for (i = 0; i < n; i++) g[i * n + i] -= 1.0;
    s = norm(g, n * n);
    return s;
}
static double *positive(size_t n)
{
    double *b = rand_mat(n, n), *a = mat(n, n);
    size_t i;
    product(a, b, 0, b, 1, n, n, n, 0);
    for (i = 0; i < n; i++) a[i * n + i] += 0.5;
    return a;
}
static double *symmetric(size_t n)
{
    double *a = rand_mat(n, n);
    size_t i, j;
    for (i = 0; i < n; i++)
        for (j = 0; j < i; j++) a[j * n + i] = a[i * n + j];
    return a;
}
static double binomial(size_t n, size_t k)
{
    double b = 1;
    size_t i;
    for (i = 0; i < k; i++) b = b * (double)(n - i) / (double)(i + 1);
    return b;
}

/* ---- Cholesky and triangles */

static void test_cholesky(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i, j, k;
    for (c = 0; c < T_COUNT(lengths); c++) {
        const size_t n = lengths[c];
        double *a = positive(n), *l = mat(n, n), *ll = mat(n, n), *size = mat(n, n), *b = rand_mat(n, 5),
               *x = mat(n, 5), *ax = mat(n, 5), *inverse = mat(n, n), *one = mat(n, n);
        tiny_tensor ta = view(a, n, n), tl = view(l, n, n), tb = view(b, n, 5), tx = view(x, n, 5),
                    ti = view(inverse, n, n);
        double cond;
        for (i = 0; i < n; i++)
            for (j = i + 1; j < n; j++) {
                one[i * n + j] = a[i * n + j];
                a[i * n + j] = (double)NAN;         /* never read */
            }
        T_OK(tiny_cholesky(ctx, &ta, &tl));
        T_RAN_ON(ctx, t_vectors(target));
        T_WALLS(l, n * n);
        for (i = 0; i < n; i++)
            for (j = i + 1; j < n; j++) {
                T_TRUE(l[i * n + j] == 0.0);
                a[i * n + j] = one[i * n + j];
            }
        product(ll, l, 0, l, 1, n, n, n, 0);
        product(size, l, 0, l, 1, n, n, n, 1);
        for (i = 0; i < n * n; i++) T_CLOSE(ll[i], a[i], (double)(n + 2) * 2 * U * size[i]);
        for (i = 0; i < n; i++)
            for (j = i + 1; j < n; j++) l[i * n + j] = (double)INFINITY;
        T_OK(tiny_cholesky_solve(ctx, &tl, &tb, &tx));
        T_OK(tiny_cholesky_inverse(ctx, &tl, &ti));
        product(ax, a, 0, x, 0, n, 5, n, 0);
        T_CLOSE(far_from(ax, b, n * 5), 0, 4.0 * (double)(n + 1) * U * norm(a, n * n) * norm(x, n * 5));
        product(one, a, 0, inverse, 0, n, n, n, 0);
        for (i = 0; i < n; i++) one[i * n + i] -= 1.0;
        cond = norm(a, n * n) * norm(inverse, n * n);
        T_CLOSE(norm(one, n * n), 0, 4.0 * (double)(n + 1) * U * cond);
        for (i = 0; i < n; i++)
            for (j = 0; j < i; j++) T_TRUE(inverse[i * n + j] == inverse[j * n + i]);
        T_OK(tiny_cholesky(ctx, &ta, &ta));         /* in place */
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                if (n < 64 || target == TINY_TARGET_REFERENCE) T_TRUE(a[i * n + j] == (j > i ? 0.0 : l[i * n + j]));
    }
    {   /* worked on paper, and Pascal's matrix, whose factor is Pascal's triangle: all in whole numbers */
        double a[9] = { 4, 0, 0, 12, 37, 0, -16, -43, 98 }, want[9] = { 2, 0, 0, 6, 1, 0, -8, 5, 3 }, *p = mat(24, 24),
               *l = mat(24, 24);
        tiny_tensor ta = view(a, 3, 3), tp = view(p, 24, 24), tl = view(l, 24, 24);
        T_OK(tiny_cholesky(ctx, &ta, &ta));
        T_SAME(a, want, 9);
        for (i = 0; i < 24; i++)
            for (j = 0; j < 24; j++) p[i * 24 + j] = binomial(i + j, i);
        T_OK(tiny_cholesky(ctx, &tp, &tl));
        for (i = 0; i < 24; i++)
            for (j = 0; j < 24; j++) T_TRUE(l[i * 24 + j] == (j > i ? 0.0 : binomial(i, j)));
        T_OK(tiny_tri_inverse(ctx, &tl, NULL, &tl));
        for (k = 0; k < 24 * 24; k++) {
            i = k / 24;
            j = k % 24;
            T_TRUE(l[k] == (j > i ? 0.0 : (i + j) % 2 ? -binomial(i, j) : binomial(i, j)));
        }
    }
    t_close(ctx);
}

static void test_triangles(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i, j;
    int w;
    for (c = 0; c < T_COUNT(lengths); c++)
        for (w = 0; w < 8; w++) {
            const size_t n = lengths[c];
            const tiny_tri_params p = { w & 1, w >> 1 & 1, w >> 2 & 1 };
            double *t = rand_mat(n, n), *e = mat(n, n), *b = rand_mat(n, 3), *x = mat(n, 3), *v = mat(n, 1),
                   *tx = mat(n, 3), *size = mat(n, 3), *inverse = mat(n, n), *one = mat(n, n);
            tiny_tensor tt = view(t, n, n), tb = view(b, n, 3), to = view(x, n, 3), ti = view(inverse, n, n),
                        tc = vec(b, n), tv = vec(v, n);
            for (i = 0; i < n; i++)
                for (j = 0; j < n; j++) {
                    double y = i == j ? 2.0 + t[i * n + j] : t[i * n + j] / (double)n;
                    if (p.upper ? j < i : j > i) t[i * n + j] = (double)NAN;
                    else t[i * n + j] = y;
                    if (i == j && p.unit) t[i * n + j] = (double)NAN;
                    y = i == j && p.unit ? 1.0 : (p.upper ? j < i : j > i) ? 0.0 : y;
                    e[p.transposed ? j * n + i : i * n + j] = y;
                }
            tc.stride[0] = 3;
            T_OK(tiny_tri_solve(ctx, &tt, &tb, &p, &to));
            T_RAN_ON(ctx, t_vectors(target));
            T_OK(tiny_tri_solve(ctx, &tt, &tc, &p, &tv));
            T_OK(tiny_tri_inverse(ctx, &tt, &p, &ti));
            T_WALLS(x, n * 3);
            product(tx, e, 0, x, 0, n, 3, n, 0);
            product(size, e, 0, x, 0, n, 3, n, 1);
            for (i = 0; i < n * 3; i++) T_CLOSE(tx[i], b[i], 2.0 * (double)(n + 2) * U * size[i]);
            for (i = 0; i < n; i++) T_CLOSE(v[i], x[i * 3], 8.0 * (double)(n + 1) * U * norm(x, n * 3));
            product(one, e, 0, inverse, 0, n, n, n, 0);
            for (i = 0; i < n; i++) one[i * n + i] -= 1.0;
            T_CLOSE(norm(one, n * n), 0, 2.0 * (double)(n + 1) * U * norm(e, n * n) * norm(inverse, n * n));
            for (i = 0; i < n; i++)
                for (j = 0; j < n; j++)
                    if (p.upper != p.transposed ? j < i : j > i) T_TRUE(inverse[i * n + j] == 0.0);
        }
    t_close(ctx);
}

/* ---- LU */

static void test_lu(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 3);
    size_t c, i, j, k;
    for (c = 0; c < T_COUNT(lengths); c++) {
        const size_t n = lengths[c];
        double *a = rand_mat(n, n), *lu = mat(n, n), *l = mat(n, n), *up = mat(n, n), *pa = mat(n, n), *got = mat(n, n),
               *size = mat(n, n), *b = rand_mat(n, 4), *x = mat(n, 4), *ax = mat(n, 4), *ab = mat(n, 4);
        int32_t *pivot = (int32_t *)t_guarded_bytes(n * 4);
        tiny_tensor ta = view(a, n, n), tlu = view(lu, n, n), tp = tiny_tensor_1d(pivot, TINY_I32, (tiny_idx)n),
                    tb = view(b, n, 4), tx = view(x, n, 4);
        double growth;
        T_OK(tiny_lu(ctx, &ta, &tlu, &tp));
        T_RAN_ON(ctx, t_vectors(target));
        T_WALLS(lu, n * n);
        T_WALLS(pivot, n);
        memcpy(pa, a, n * n * sizeof *a);
        for (k = 0; k < n; k++) {
            T_TRUE(pivot[k] >= (int32_t)k && pivot[k] < (int32_t)n);
            for (j = 0; j < n; j++) {
                double s = pa[k * n + j];
                pa[k * n + j] = pa[(size_t)pivot[k] * n + j];
                pa[(size_t)pivot[k] * n + j] = s;
            }
        }
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++) {
                l[i * n + j] = j < i ? lu[i * n + j] : j == i;
                up[i * n + j] = j < i ? 0.0 : lu[i * n + j];
                T_TRUE(fabs(l[i * n + j]) <= 1.0 + 2 * U);
            }
        product(got, l, 0, up, 0, n, n, n, 0);
        product(size, l, 0, up, 0, n, n, n, 1);
        for (i = 0; i < n * n; i++) T_CLOSE(got[i], pa[i], (double)(n + 2) * 2 * U * size[i]);
        growth = norm(size, n * n);
        T_OK(tiny_lu_solve(ctx, &tlu, &tp, &tb, &tx));
        product(ax, a, 0, x, 0, n, 4, n, 0);
        T_CLOSE(far_from(ax, b, n * 4), 0, 6.0 * (double)n * U * growth * norm(x, n * 4));
        T_OK(tiny_solve(ctx, &ta, &tb, &tb));       /* in place */
        product(ab, a, 0, b, 0, n, 4, n, 0);
        T_CLOSE(far_from(ab, ax, n * 4), 0, 12.0 * (double)n * U * growth * norm(b, n * 4));
        T_OK(tiny_inverse(ctx, &ta, &tlu));
        product(got, a, 0, lu, 0, n, n, n, 0);
        for (i = 0; i < n; i++) got[i * n + i] -= 1.0;
        T_CLOSE(norm(got, n * n), 0, 6.0 * (double)n * U * growth * norm(lu, n * n));
    }
    {   /* determinants of Hilbert matrices are one over whole numbers; relative error up to n u cond */
        static const double one_over[6] = { 1, 12, 2160, 6048000, 266716800000.0, 186313420339200000.0 },
                            cond[6] = { 1, 20, 525, 15514, 476608, 1.5e7 };
        static const double inverse3[9] = { 9, -36, 30, -36, 192, -180, 30, -180, 180 };
        for (k = 1; k <= 6; k++) {
            double h[36], det = 1, inv[36];
            int32_t pivot[6];
            tiny_tensor th = view(h, k, k), tp = tiny_tensor_1d(pivot, TINY_I32, (tiny_idx)k), ti = view(inv, k, k);
            for (i = 0; i < k; i++)
                for (j = 0; j < k; j++) h[i * k + j] = 1.0 / (double)(i + j + 1);
            T_OK(tiny_inverse(ctx, &th, &ti));
            for (i = 0; i < 9 && k == 3; i++) T_CLOSE(inv[i], inverse3[i], 3 * U * 525 * 192);
            T_OK(tiny_lu(ctx, &th, &th, &tp));
            for (i = 0; i < k; i++) det *= pivot[i] == (int32_t)i ? h[i * k + i] : -h[i * k + i];
            T_CLOSE(det * one_over[k - 1], 1.0, 4.0 * (double)k * U * cond[k - 1]);
        }
    }
    {   /* rows change places: worked on paper, and ties go to the first */
        double a[9] = { 0, 2, 1, 1, 1, 1, -1, 1, 3 }, want[9] = { 1, 1, 1, 0, 2, 1, -1, 1, 3 };
        int32_t pivot[3], swaps[3] = { 1, 1, 2 };
        tiny_tensor ta = view(a, 3, 3), tp = tiny_tensor_1d(pivot, TINY_I32, 3);
        T_OK(tiny_lu(ctx, &ta, &ta, &tp));
        T_SAME(a, want, 9);
        T_SAME(pivot, swaps, 3);
    }
    t_close(ctx);
}

/* ---- QR and least squares */

static void test_qr(tiny_target target)
{
    static const size_t rows[] = { 1, 5, 1, 8, 9, 33, 20, 64, 70, 65, 150, 40, 131 },
                        cols[] = { 1, 1, 5, 8, 4, 33, 50, 10, 64, 65, 33, 120, 131 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i, j;
    for (c = 0; c < T_COUNT(rows); c++) {
        const size_t m = rows[c], n = cols[c], k = m < n ? m : n;
        double *a = rand_mat(m, n), *q = mat(m, k), *r = mat(k, n), *qr = mat(m, n), *r2 = mat(k, n);
        tiny_tensor ta = view(a, m, n), tq = view(q, m, k), tr = view(r, k, n), tr2 = view(r2, k, n);
        const double bound = 4.0 * (double)((m > n ? m : n) + 4) * U;
        T_OK(tiny_qr(ctx, &ta, &tq, &tr));
        T_RAN_ON(ctx, t_vectors(target));
        T_WALLS(q, m * k);
        T_WALLS(r, k * n);
        product(qr, q, 0, r, 0, m, n, k, 0);
        T_CLOSE(far_from(qr, a, m * n), 0, bound * norm(a, m * n));
        T_CLOSE(askew(q, m, k), 0, bound * sqrt((double)k));
        for (i = 0; i < k; i++) {
            T_TRUE(r[i * n + i] >= 0.0);
            for (j = 0; j < i; j++) T_TRUE(r[i * n + j] == 0.0);
        }
        T_OK(tiny_qr(ctx, &ta, NULL, &tr2));
        T_CLOSE(far_from(r, r2, k * n), 0, bound * norm(a, m * n));
        T_OK(tiny_qr(ctx, &ta, &tq, NULL));
    }
    {   /* on paper */
        double a[4] = { 3, 1, 4, 2 }, q[4], r[4], want_q[4] = { 0.6, -0.8, 0.8, 0.6 }, want_r[4] = { 5, 2.2, 0, 0.4 };
        tiny_tensor ta = view(a, 2, 2), tq = view(q, 2, 2), tr = view(r, 2, 2);
        T_OK(tiny_qr(ctx, &ta, &tq, &tr));
        for (i = 0; i < 4; i++) {
            T_CLOSE(q[i], want_q[i], 20 * U);
            T_CLOSE(r[i], want_r[i], 20 * U);
        }
    }
    t_close(ctx);
}

static void test_lstsq(tiny_target target)
{
    static const size_t rows[] = { 1, 6, 9, 33, 80, 150, 64, 131 }, cols[] = { 1, 6, 4, 33, 20, 70, 64, 100 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i, j;
    tiny_idx rank;
    for (c = 0; c < T_COUNT(rows); c++) {
        const size_t m = rows[c], n = cols[c];
        double *a = rand_mat(m, n), *b = rand_mat(m, 3), *x = mat(n, 3), *r = mat(m, 3), *ar = mat(n, 3);
        tiny_tensor ta = view(a, m, n), tb = view(b, m, 3), tx = view(x, n, 3);
        double big;
        for (i = 0; i < n; i++) a[i * n + i] += 4.0;
        big = norm(a, m * n);
        rank = -1;
        T_OK(tiny_lstsq(ctx, &ta, &tb, 0.0, &tx, &rank));
        T_RAN_ON(ctx, t_vectors(target));
        T_EQ_INT(rank, n);
        product(r, a, 0, x, 0, m, 3, n, 0);
        for (i = 0; i < m * 3; i++) r[i] -= b[i];
        product(ar, a, 1, r, 0, n, 3, m, 0);        /* the residual is orthogonal to the columns */
        T_CLOSE(norm(ar, n * 3), 0, 16.0 * (double)m * U * big * (big * norm(x, n * 3) + norm(b, m * 3)));
        if (n < 3) continue;
        for (i = 0; i < m; i++) a[i * n + 2] = a[i * n] - 2.0 * a[i * n + 1];      /* now one column too many */
        for (i = 0; i < n * 3; i++) x[i] = 7.0;
        T_STATUS(tiny_lstsq(ctx, &ta, &tb, 0.0, &tx, &rank), TINY_E_NUMERIC,
                 "lstsq: the columns of a depend on each other: rank");
        T_EQ_INT(rank, n - 1);
        for (i = 0; i < n * 3; i++) T_TRUE(x[i] == 7.0);
    }
    {   /* a line through three points, on paper: 5 - 3 t */
        double a[6] = { 1, 0, 1, 1, 1, 2 }, b[3] = { 6, 0, 0 }, x[2];
        tiny_tensor ta = view(a, 3, 2), tb = vec(b, 3), tx = vec(x, 2);
        T_OK(tiny_lstsq(ctx, &ta, &tb, 0.0, &tx, NULL));
        T_CLOSE(x[0], 5.0, 100 * U);
        T_CLOSE(x[1], -3.0, 100 * U);
        for (j = 0; j < 3; j++) a[2 * j + 1] = 1.0 + 1e-9 * (double)j;     /* nearly the other column */
        T_OK(tiny_lstsq(ctx, &ta, &tb, 0.0, &tx, &rank));
        T_EQ_INT(rank, 2);
        T_STATUS(tiny_lstsq(ctx, &ta, &tb, 1e-6, &tx, &rank), TINY_E_NUMERIC, "rank 1 of 2 at tolerance 1e-06");
        T_EQ_INT(rank, 1);
        memset(a, 0, sizeof a);
        T_STATUS(tiny_lstsq(ctx, &ta, &tb, 0.0, &tx, &rank), TINY_E_NUMERIC, "rank 0 of 2");
    }
    t_close(ctx);
}

/* ---- eigenvalues */

static const double pi = 3.14159265358979323846;

/* A V = V diag(w), V orthonormal, ascending, signs; the values must be right within bound * norm */
static void check_eigh(tiny_ctx *ctx, tiny_target target, const double *a, size_t n, const double *want)
{
    double *lower = mat(n, n), *w = mat(n, 1), *w2 = mat(n, 1), *v = mat(n, n), *av = mat(n, n), *vw = mat(n, n),
           trace = 0, sum = 0;
    tiny_tensor ta = view(lower, n, n), tw = vec(w, n), tw2 = vec(w2, n), tv = view(v, n, n);
    const double big = norm(a, n * n), bound = 20.0 * (double)(n + 2) * U * big;
    size_t i, j;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) lower[i * n + j] = j > i ? (double)NAN : a[i * n + j];     /* never read */
    T_OK(tiny_eigh(ctx, &ta, &tw, &tv));
    T_RAN_ON(ctx, n > 8 || target == TINY_TARGET_REFERENCE ? t_vectors(target) : tiny_ctx_ran_on(ctx));
    T_WALLS(w, n);
    T_WALLS(v, n * n);
    T_OK(tiny_eigh(ctx, &ta, &tw2, NULL));
    product(av, a, 0, v, 0, n, n, n, 0);
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) vw[i * n + j] = v[i * n + j] * w[j];
    T_CLOSE(far_from(av, vw, n * n), 0, bound);
    T_CLOSE(askew(v, n, n), 0, 20.0 * (double)(n + 2) * U * sqrt((double)n));
    for (j = 0; j < n; j++) {
        double best = 0;
        trace += a[j * n + j];
        sum += w[j];
        if (j) T_TRUE(w[j] >= w[j - 1]);
        T_CLOSE(w2[j], w[j], bound);
        if (want) T_CLOSE(w[j], want[j], bound);
        for (i = 0; i < n; i++)
            if (fabs(v[i * n + j]) > fabs(best)) best = v[i * n + j];
        T_TRUE(best > 0.0);
    }
    T_CLOSE(sum, trace, (double)n * bound);
}

static void test_eigh(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i, j;
    for (c = 0; c < T_COUNT(lengths); c++) check_eigh(ctx, target, symmetric(lengths[c]), lengths[c], NULL);
    for (c = 0; c < T_COUNT(lengths); c++) {
        /* second differences: 2 - 2 cos(k pi / (n + 1)); all ones: n once, 0 else; a diagonal out of order */
        const size_t n = lengths[c];
        double *a = mat(n, n), *ones = mat(n, n), *d = mat(n, n), *want = mat(n, 1), *want1 = mat(n, 1),
               *want2 = mat(n, 1);
        for (i = 0; i < n; i++) {
            for (j = 0; j < n; j++) {
                a[i * n + j] = i == j ? 2.0 : i + 1 == j || j + 1 == i ? -1.0 : 0.0;
                ones[i * n + j] = 1.0;
                d[i * n + j] = i == j ? (double)((i * 7) % n) : 0.0;
            }
            want[i] = 2.0 - 2.0 * cos((double)(i + 1) * pi / (double)(n + 1));
            want1[i] = i + 1 == n ? (double)n : 0.0;
            want2[i] = (double)i;
        }
        check_eigh(ctx, target, a, n, want);
        check_eigh(ctx, target, ones, n, want1);
        if (n % 7) check_eigh(ctx, target, d, n, want2);
    }
    {   /* on paper: 1 and 3 */
        double a[4] = { 2, 1, 1, 2 }, w[2], v[4];
        tiny_tensor ta = view(a, 2, 2), tw = vec(w, 2), tv = view(v, 2, 2);
        T_OK(tiny_eigh(ctx, &ta, &tw, &tv));
        T_CLOSE(w[0], 1.0, 8 * U);
        T_CLOSE(w[1], 3.0, 8 * U);
        T_CLOSE(fabs(v[0]), sqrt(0.5), 8 * U);
        T_CLOSE(v[0] * v[2], -0.5, 8 * U);
        T_CLOSE(v[1] * v[3], 0.5, 8 * U);
    }
    {   /* J. Wilkinson's W21+: the two largest agree to 14 digits and are none the less apart */
        double *a = mat(21, 21), *w = mat(21, 1);
        tiny_tensor ta = view(a, 21, 21), tw = vec(w, 21);
        memset(a, 0, 21 * 21 * sizeof *a);
        for (i = 0; i < 21; i++) {
            a[i * 22] = i < 10 ? (double)(10 - i) : (double)i - 10.0;
            if (i) a[i * 22 - 1] = 1.0;
        }
        check_eigh(ctx, target, a, 1, NULL);
        T_OK(tiny_eigh(ctx, &ta, &tw, NULL));
        T_CLOSE(w[20], 10.746194182903393, 500 * U);
        T_CLOSE(w[19], 10.746194182903322, 500 * U);
        T_CLOSE(w[0], -1.125441522119984, 500 * U);
    }
    t_close(ctx);
}

/* ---- singular values */

static void check_svd(tiny_ctx *ctx, tiny_target target, double *a, size_t m, size_t n, const double *want)
{
    const size_t k = m < n ? m : n;
    double *u = mat(m, k), *s = mat(k, 1), *s2 = mat(k, 1), *vt = mat(k, n), *us = mat(m, k), *got = mat(m, n),
           *v = mat(n, k);
    tiny_tensor ta = view(a, m, n), tu = view(u, m, k), ts = vec(s, k), ts2 = vec(s2, k), tvt = view(vt, k, n);
    const double big = norm(a, m * n), bound = 20.0 * (double)((m > n ? m : n) + 2) * U;
    size_t i, j;
    T_OK(tiny_svd(ctx, &ta, &tu, &ts, &tvt));
    T_RAN_ON(ctx, t_vectors(target));
    T_WALLS(u, m * k);
    T_WALLS(s, k);
    T_WALLS(vt, k * n);
    T_OK(tiny_svd(ctx, &ta, NULL, &ts2, NULL));
    for (i = 0; i < m; i++)
        for (j = 0; j < k; j++) us[i * k + j] = u[i * k + j] * s[j];
    product(got, us, 0, vt, 0, m, n, k, 0);
    T_CLOSE(far_from(got, a, m * n), 0, bound * big);
    for (i = 0; i < n; i++)
        for (j = 0; j < k; j++) v[i * k + j] = vt[j * n + i];
    T_CLOSE(askew(u, m, k), 0, bound * sqrt((double)k));
    T_CLOSE(askew(v, n, k), 0, bound * sqrt((double)k));
    for (j = 0; j < k; j++) {
        double best = 0;
        T_TRUE(s[j] >= 0.0 && (j == 0 || s[j] <= s[j - 1]));
        T_CLOSE(s2[j], s[j], bound * big);
        if (want) T_CLOSE(s[j], want[j], bound * big);
        for (i = 0; i < n; i++)
            if (fabs(vt[j * n + i]) > fabs(best)) best = vt[j * n + i];
        T_TRUE(best > 0.0);
    }
}

static void test_svd(tiny_target target)
{
    static const size_t rows[] = { 1, 4, 1, 3, 9, 10, 11, 40, 12, 33, 33, 65, 130, 7, 70 },
                        cols[] = { 1, 1, 4, 3, 6, 10, 11, 12, 40, 33, 70, 64, 30, 130, 70 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i, j;
    for (c = 0; c < T_COUNT(rows); c++) check_svd(ctx, target, rand_mat(rows[c], cols[c]), rows[c], cols[c], NULL);
    /* rank two, and nothing at all: u and vt are orthonormal all the same */
    for (c = 0; c < T_COUNT(rows); c++) {
        const size_t m = rows[c], n = cols[c];
        double *p = rand_mat(m, 2), *q = rand_mat(2, n), *a = mat(m, n), *none = mat(m < n ? m : n, 1);
        product(a, p, 0, q, 0, m, n, 2, 0);
        check_svd(ctx, target, a, m, n, NULL);
        memset(a, 0, m * n * sizeof *a);
        memset(none, 0, (m < n ? m : n) * sizeof *none);
        check_svd(ctx, target, a, m, n, none);
    }
    for (c = 0; c < 12; c++) {                  /* ones in the lower triangle: 1 / (2 cos(k pi / (2 n + 1))) */
        const size_t n = lengths[c];
        double *a = mat(n, n), *want = mat(n, 1);
        for (i = 0; i < n; i++) {
            for (j = 0; j < n; j++) a[i * n + j] = j <= i;
            want[i] = 0.5 / cos((double)(n - i) * pi / (double)(2 * n + 1));
        }
        check_svd(ctx, target, a, n, n, want);
    }
    /* sqrt(45) and sqrt(5), on paper; Hadamard: all alike; powers of ten on a diagonal, each to full relative
     * accuracy */
    {
        double *a = mat(2, 2), *h = mat(32, 32), *d = mat(20, 20), want[2], same[32], s[20];
        tiny_tensor td = view(d, 20, 20), ts = vec(s, 20);
        a[0] = 3; a[1] = 0; a[2] = 4; a[3] = 5;
        want[0] = sqrt(45.0);
        want[1] = sqrt(5.0);
        check_svd(ctx, target, a, 2, 2, want);
        for (i = 0; i < 32 * 32; i++) {
            size_t bits = i / 32 & i % 32, odd = 0;
            for (; bits; bits &= bits - 1) odd ^= 1;
            h[i] = odd ? -1.0 : 1.0;
        }
        for (i = 0; i < 32; i++) same[i] = sqrt(32.0);
        check_svd(ctx, target, h, 32, 32, same);
        memset(d, 0, 400 * sizeof *d);
        for (i = 0; i < 14; i++) d[i * 20 + (i + 3) % 20] = pow(10.0, (double)i - 10.0);
        T_OK(tiny_svd(ctx, &td, NULL, &ts, NULL));
        for (i = 0; i < 14; i++) T_CLOSE(s[i], pow(10.0, 3.0 - (double)i), 100 * U * s[i]);
        T_TRUE(s[14] == 0.0 && s[19] == 0.0);
    }
    t_close(ctx);
}

/* ---- properties of all */

/* 2^-300 and 2^300 times the matrix: the same answers but for the factor */
static void test_scale(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    enum { N = 40 };
    static const int power[] = { -700, -300, 300, 700 };
    double *a = symmetric(N), *f = mat(N, N), *w = mat(N, 1), *w1 = mat(N, 1), *s = mat(N, 1), *s1 = mat(N, 1),
           *r = mat(N, N), *r1 = mat(N, N), *b = rand_mat(N, 1), *x = mat(N, 1), *x1 = mat(N, 1);
    tiny_tensor ta = view(a, N, N), tf = view(f, N, N), tw = vec(w, N), tw1 = vec(w1, N), ts = vec(s, N),
                ts1 = vec(s1, N), tr = view(r, N, N), tr1 = view(r1, N, N), tb = vec(b, N), tx = vec(x, N),
                tx1 = vec(x1, N);
    size_t c, i;
    for (i = 0; i < N; i++) a[i * N + i] += 8.0;
    T_OK(tiny_eigh(ctx, &ta, &tw, NULL));
    T_OK(tiny_svd(ctx, &ta, NULL, &ts, NULL));
    T_OK(tiny_qr(ctx, &ta, NULL, &tr));
    T_OK(tiny_lstsq(ctx, &ta, &tb, 0.0, &tx, NULL));
    for (c = 0; c < T_COUNT(power); c++) {
        for (i = 0; i < N * N; i++) f[i] = ldexp(a[i], power[c]);
        T_OK(tiny_eigh(ctx, &tf, &tw1, NULL));
        T_OK(tiny_svd(ctx, &tf, NULL, &ts1, NULL));
        T_OK(tiny_qr(ctx, &tf, NULL, &tr1));
        T_OK(tiny_lstsq(ctx, &tf, &tb, 0.0, &tx1, NULL));
        for (i = 0; i < N; i++) {
            T_CLOSE(ldexp(w1[i], -power[c]), w[i], 40 * N * U * 16);
            T_CLOSE(ldexp(s1[i], -power[c]), s[i], 40 * N * U * 16);
            T_CLOSE(ldexp(x1[i], power[c]), x[i], 400 * N * U);
        }
        for (i = 0; i < N * N; i++) T_CLOSE(ldexp(r1[i], -power[c]), r[i], 8 * N * U * 16);
    }
    t_close(ctx);
}

/* f32 in and out is f64 rounded once; strides of every kind change nothing. One thread: the order of sums is fixed. */
static void test_views(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    enum { N = 37 };
    double *a = positive(N), *l = mat(N, N), *w = mat(N, 1), *v = mat(N, N), *s = mat(N, 1);
    float *f = t_guarded(N * N), *fl = t_guarded(N * N), *fw = t_guarded(N), *fv = t_guarded(N * N),
          *wide = t_guarded(N * N * 6);
    tiny_tensor ta = view(a, N, N), tl = view(l, N, N), tw = vec(w, N), tv = view(v, N, N), ts = vec(s, N);
    tiny_tensor ff = tiny_tensor_2d(f, TINY_F32, N, N), ffl = tiny_tensor_2d(fl, TINY_F32, N, N),
                ffw = tiny_tensor_1d(fw, TINY_F32, N), ffv = tiny_tensor_2d(fv, TINY_F32, N, N), tw6;
    size_t i, j;
    for (i = 0; i < N * N; i++) a[i] = f[i] = (float)a[i];
    T_OK(tiny_cholesky(ctx, &ta, &tl));
    T_OK(tiny_cholesky(ctx, &ff, &ffl));
    T_OK(tiny_eigh(ctx, &ta, &tw, &tv));
    T_OK(tiny_eigh(ctx, &ff, &ffw, &ffv));
    for (i = 0; i < N * N; i++) {
        T_TRUE(fl[i] == (float)l[i]);
        T_TRUE(fv[i] == (float)v[i]);
        if (i < N) T_TRUE(fw[i] == (float)w[i]);
    }
    T_OK(tiny_svd(ctx, &ff, NULL, &ts, NULL));
    /* rows backward and 6 N apart, columns 2 apart; the vectors of A with its rows and columns backward are those of A
     * backward */
    tw6 = ff;
    tw6.data = wide + (N - 1) * 6 * N;
    tw6.stride[0] = -6 * N;
    tw6.stride[1] = 2;
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) wide[(N - 1 - i) * 6 * N + 2 * j] = f[i * N + j];
    T_OK(tiny_cholesky(ctx, &tw6, &tw6));
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) T_TRUE(wide[(N - 1 - i) * 6 * N + 2 * j] == fl[i * N + j]);
    tw6 = tiny_tensor_swap(tw6, 0, 1);          /* L^T, so an upper one: solving with it transposed is solving with L */
    {
        const tiny_tri_params p = { 1, 1, 0 };
        tiny_tensor x1 = vec(w, N), x2 = vec(s, N);
        for (i = 0; i < N; i++) w[i] = s[i] = (double)i;
        T_OK(tiny_tri_solve(ctx, &tw6, &x1, &p, &x1));
        T_OK(tiny_tri_solve(ctx, &ffl, &x2, NULL, &x2));
        T_SAME(w, s, N);
    }
    t_close(ctx);
}

static tiny_tensor whole[8];
static double *pool[8];

/* call i of all procedures on matrices of pool: 0 a, 1 and 2 outputs, 3 vector output, 4 right-hand side, 5 pivots */
static tiny_status call(tiny_ctx *ctx, int i)
{
    static const tiny_tri_params upper = { 1, 0, 0 };
    tiny_tensor *a = whole, *o = whole + 1, *o2 = whole + 2, *v = whole + 3, *b = whole + 4, *p = whole + 5;
    switch (i) {
    case 0: return tiny_cholesky(ctx, a, o);
    case 1: return tiny_cholesky_solve(ctx, a, b, v);
    case 2: return tiny_cholesky_inverse(ctx, a, o);
    case 3: return tiny_tri_solve(ctx, a, b, &upper, v);
    case 4: return tiny_tri_inverse(ctx, a, &upper, o);
    case 5: return tiny_lu(ctx, a, o, p);
    case 6: return tiny_lu_solve(ctx, a, whole + 6, b, v);
    case 7: return tiny_solve(ctx, a, b, v);
    case 8: return tiny_inverse(ctx, a, o);
    case 9: return tiny_qr(ctx, a, o, o2);
    case 10: return tiny_lstsq(ctx, a, b, 0.0, v, NULL);
    case 11: return tiny_eigh(ctx, a, v, o);
    case 12: return tiny_svd(ctx, a, o, v, o2);
    default: return TINY_OK;
    }
}
enum { CALLS = 13 };
static const char *const call_name[CALLS] = { "cholesky",  "cholesky_solve", "cholesky_inverse",
                                              "tri_solve", "tri_inverse",    "lu",
                                              "lu_solve",  "solve",          "inverse",
                                              "qr",        "lstsq",          "eigh",
                                              "svd" };

static void prepare(size_t n)
{
    int i;
    size_t j;
    pool[0] = positive(n);
    for (i = 1; i < 7; i++) pool[i] = rand_mat(n, n);
    for (i = 0; i < 3; i++) whole[i] = view(pool[i], n, n);
    whole[3] = vec(pool[3], n);
    whole[4] = vec(pool[4], n);
    whole[5] = tiny_tensor_1d(pool[5], TINY_I32, (tiny_idx)n);
    whole[6] = tiny_tensor_1d(pool[6], TINY_I32, (tiny_idx)n);
    for (j = 0; j < n; j++) ((int32_t *)(void *)pool[6])[j] = (int32_t)j;
}

/* after a failure no output has changed; a NaN is reported with its place */
static void test_not_finite(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    enum { N = 45 };
    double *before[6];
    size_t j;
    int i, k;
    prepare(N);
    for (k = 1; k < 6; k++) before[k] = (double *)memcpy(mat(N, N), pool[k], N * N * sizeof(double));
    for (i = 0; i < CALLS; i++) {
        const int upper = i == 3 || i == 4;
        const size_t row = upper ? 7 : 40, column = upper ? 40 : 7;
        const double kept = pool[0][row * N + column];
        char part[80];
        pool[0][row * N + column] = i % 2 ? (double)NAN : -(double)INFINITY;
        (void)snprintf(part, sizeof part, "%s: %s has a NaN or an infinity at row %d, column %d", call_name[i],
                       i == 1 || i == 2 ? "l"
                       : upper          ? "t"
                       : i == 6         ? "lu"
                                        : "a",
                       (int)row, (int)column);
        T_STATUS(call(ctx, i), TINY_E_NUMERIC, part);
        pool[0][row * N + column] = kept;
        if (i == 1 || i == 3 || i == 6 || i == 7 || i == 10) {
            const double b = pool[4][9];
            pool[4][9] = (double)NAN;
            T_STATUS(call(ctx, i), TINY_E_NUMERIC, "b has a NaN or an infinity at row 9, column 0");
            pool[4][9] = b;
        }
        for (k = 1; k < 6; k++) T_SAME(pool[k], before[k], N * N);
        T_OK(call(ctx, i));
        for (k = 1; k < 4; k++) memcpy(pool[k], before[k], N * N * sizeof(double));
        memcpy(pool[5], before[5], N * N * sizeof(double));
    }
    for (j = 0; j < N; j++) pool[0][20 * N + j] = 0.0;
    pool[0][20 * N + 20] = -3.0;
    T_STATUS(call(ctx, 0), TINY_E_NUMERIC, "cholesky: pivot 21 of 45 is -3: the matrix is not positive definite");
    pool[0][20 * N + 20] = 0.0;
    T_STATUS(call(ctx, 3), TINY_E_NUMERIC, "tri_solve: the diagonal of t is 0 at 20");
    T_STATUS(call(ctx, 1), TINY_E_NUMERIC, "cholesky_solve: the diagonal of l is 0 at 20");
    T_STATUS(call(ctx, 6), TINY_E_NUMERIC, "lu_solve: the diagonal of lu is 0 at 20");
    T_STATUS(call(ctx, 7), TINY_E_NUMERIC, "solve: the matrix is singular: column 45 of 45 has no pivot");
    for (k = 1; k < 6; k++) T_SAME(pool[k], before[k], N * N);
    t_close(ctx);
}

static void test_bad_input(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    double room[64] = { 0 };
    uint16_t half[4] = { 0 };
    tiny_tensor t22 = view(room, 2, 2), o22 = view(room + 8, 2, 2), t23 = view(room, 2, 3),
                h = tiny_tensor_2d(half, TINY_F16, 2, 2), v2 = vec(room + 16, 2), v3 = vec(room + 24, 3),
                cube = tiny_tensor_3d(room, TINY_F64, 2, 2, 2), same = view(room + 32, 2, 2),
                p2 = tiny_tensor_1d(room + 40, TINY_I32, 2), far, none = view(NULL, 2, 2);
    tiny_idx rank;
    int i;
    for (i = 0; i < 4; i++) room[i] = i % 3 ? 0.0 : 1.0;
    T_TRUE(tiny_cholesky(NULL, &t22, &o22) == TINY_E_ARGUMENT);
    T_STATUS(tiny_cholesky(ctx, NULL, &o22), TINY_E_ARGUMENT, "cholesky: a is missing");
    T_STATUS(tiny_cholesky(ctx, &t22, NULL), TINY_E_ARGUMENT, "cholesky: l is missing");
    T_STATUS(tiny_cholesky(ctx, &none, &o22), TINY_E_ARGUMENT, "cholesky: a");
    T_STATUS(tiny_cholesky(ctx, &t23, &o22), TINY_E_SHAPE, "cholesky: a is 2 x 3, it must be square");
    T_STATUS(tiny_cholesky(ctx, &t22, &t23), TINY_E_SHAPE, "cholesky: l is 2 x 3, it must be 2 x 2");
    T_STATUS(tiny_cholesky(ctx, &h, &o22), TINY_E_DTYPE, "cholesky: a is f16");
    T_STATUS(tiny_cholesky(ctx, &cube, &o22), TINY_E_SHAPE, "rank 3");
    T_STATUS(tiny_cholesky(ctx, &v2, &o22), TINY_E_SHAPE, "rank 1");
    T_STATUS(tiny_tri_solve(ctx, &t22, NULL, NULL, &v2), TINY_E_ARGUMENT, "tri_solve: b is missing");
    T_STATUS(tiny_tri_solve(ctx, &t22, &v3, NULL, &v2), TINY_E_SHAPE, "tri_solve: b is 3 x 1, it must be 2 x 1");
    T_STATUS(tiny_tri_solve(ctx, &t22, &v2, NULL, &v3), TINY_E_SHAPE, "tri_solve: x is 3 x 1");
    T_STATUS(tiny_lu(ctx, &t22, &o22, &v2), TINY_E_DTYPE, "lu: pivot is f64, it must be i32");
    same.stride[0] = 1;
    T_STATUS(tiny_cholesky(ctx, &t22, &same), TINY_E_ALIAS, "two elements of l");
    same.stride[0] = 0;
    T_STATUS(tiny_cholesky(ctx, &t22, &same), TINY_E_ALIAS, "two elements of l");
    T_STATUS(tiny_qr(ctx, &t22, &o22, &o22), TINY_E_ALIAS, "qr: outputs q and r overlap");
    v2.data = room + 9;
    T_STATUS(tiny_eigh(ctx, &t22, &v2, &o22), TINY_E_ALIAS, "eigh: outputs w and v overlap");
    T_STATUS(tiny_svd(ctx, &t22, &o22, &v2, NULL), TINY_E_ALIAS, "svd: outputs u and s overlap");
    v2.data = room + 16;
    ((int32_t *)(void *)(room + 40))[0] = 2;
    T_STATUS(tiny_lu_solve(ctx, &t22, &p2, &v2, &v2), TINY_E_ARGUMENT, "lu_solve: pivot[0] is 2, it must be 0 to 1");
    ((int32_t *)(void *)(room + 40))[0] = 1;
    ((int32_t *)(void *)(room + 40))[1] = 0;
    T_STATUS(tiny_lu_solve(ctx, &t22, &p2, &v2, &v2), TINY_E_ARGUMENT, "lu_solve: pivot[1] is 0, it must be 1 to 1");
    T_STATUS(tiny_lstsq(ctx, &t23, &v2, 0.0, &v3, &rank), TINY_E_SHAPE, "lstsq: a is 2 x 3");
    T_STATUS(tiny_lstsq(ctx, &t22, &v2, -1.0, &v2, &rank), TINY_E_ARGUMENT, "tolerance");
    T_STATUS(tiny_lstsq(ctx, &t22, &v2, (double)NAN, &v2, &rank), TINY_E_ARGUMENT, "tolerance");
    /* no machine has this */
    far = view(room, (size_t)1 << (sizeof(size_t) * 4 - 4), (size_t)1 << (sizeof(size_t) * 4 - 4));
    {
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *small_ctx = NULL;
        desc.max_bytes = 1 << 20;
        T_TRUE(tiny_ctx_open(&desc, &small_ctx) == TINY_OK);
        for (i = 0; i < 3; i++) {
            tiny_status st = i == 0   ? tiny_cholesky(small_ctx, &far, &far)
                             : i == 1 ? tiny_inverse(small_ctx, &far, &far)
                                      : tiny_qr(small_ctx, &far, NULL, &far);
            T_TRUE((st == TINY_E_MEMORY || st == TINY_E_OVERFLOW) && *tiny_ctx_message(small_ctx));
        }
        tiny_ctx_close(small_ctx);
    }
    {   /* nothing at all is a matrix too */
        tiny_tensor e = view(NULL, 0, 0), e3 = view(NULL, 3, 0), v0 = vec(NULL, 0),
                    p0 = tiny_tensor_1d(NULL, TINY_I32, 0), u = view(NULL, 3, 0), vt = view(NULL, 0, 0),
                    x = view(NULL, 0, 1), b = view(room, 3, 1);
        T_OK(tiny_cholesky(ctx, &e, &e));
        T_OK(tiny_cholesky_solve(ctx, &e, &v0, &v0));
        T_OK(tiny_cholesky_inverse(ctx, &e, &e));
        T_OK(tiny_tri_inverse(ctx, &e, NULL, &e));
        T_OK(tiny_lu(ctx, &e, &e, &p0));
        T_OK(tiny_lu_solve(ctx, &e, &p0, &v0, &v0));
        T_OK(tiny_solve(ctx, &e, &v0, &v0));
        T_OK(tiny_inverse(ctx, &e, &e));
        T_OK(tiny_qr(ctx, &e3, &u, &vt));
        T_OK(tiny_lstsq(ctx, &e3, &b, 0.0, &x, &rank));
        T_EQ_INT(rank, 0);
        T_OK(tiny_eigh(ctx, &e, &v0, &e));
        T_OK(tiny_svd(ctx, &e3, &u, &v0, &vt));
    }
    t_close(ctx);
}

static int stop(void *user) { return --*(int *)user < 0; }

/* every allocation fails in turn: a status, nothing changed, nothing lost; and a cancel in the middle: its own status,
 * nothing lost */
static void test_failing(void)
{
    enum { N = 90 };
    double *before[6];
    int i, k, hold;
    prepare(N);
    for (k = 1; k < 6; k++) before[k] = (double *)memcpy(mat(N, N), pool[k], N * N * sizeof(double));
    for (i = 0; i < CALLS; i++) {
        T_EACH_ALLOCATION(
            tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
            tiny_ctx *ctx = NULL;
            if (!tiny_ctx_open(&desc, &ctx)) {
                tiny_status st = call(ctx, i);
                T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
                T_TRUE(st == TINY_OK || *tiny_ctx_message(ctx));
                for (k = 1; k < 4; k++)
                    if (st) T_SAME(pool[k], before[k], N * N);
                    else memcpy(pool[k], before[k], N * N * sizeof(double));
            }
            tiny_ctx_close(ctx);
        )
        for (hold = 0; hold < 4; hold++) {
            tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
            tiny_ctx *ctx = NULL;
            int left = hold * 3;
            desc.cancel = stop;
            desc.user = &left;
            T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK);
            t_use(ctx);
            if (call(ctx, i) != TINY_OK) T_EQ_INT(tiny_ctx_status(ctx), TINY_E_CANCELLED);
            t_close(ctx);
        }
        for (k = 1; k < 6; k++) memcpy(pool[k], before[k], N * N * sizeof(double));
        for (k = 0; k < N; k++) ((int32_t *)(void *)pool[6])[k] = k;
    }
}

int main(void)
{
    T_RUN_FORMS(test_cholesky);
    T_RUN_FORMS(test_triangles);
    T_RUN_FORMS(test_lu);
    T_RUN_FORMS(test_qr);
    T_RUN_FORMS(test_lstsq);
    T_RUN_FORMS(test_eigh);
    T_RUN_FORMS(test_svd);
    T_RUN_FORMS(test_scale);
    T_RUN_FORMS(test_views);
    T_RUN_FORMS(test_not_finite);
    T_RUN(test_bad_input);
    T_RUN(test_failing);
    return t_done();
}
