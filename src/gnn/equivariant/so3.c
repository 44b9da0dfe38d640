/* src/gnn/equivariant/so3.c - rotations, Wigner D and 3j of real spherical harmonics
 * Papers   D: J. Ivanic, K. Ruedenberg, "Rotation Matrices for Real Spherical Harmonics. Direct Determination by
 *          Recursion", J. Phys. Chem. 100 (1996), with the corrections of 102 (1998). Its axes y, z, x are x, y, z
 *          here. 3j: G. Racah, "Theory of Complex Spectra II", Phys. Rev. 62 (1942), eq. 16. Random rotations: K.
 *          Shoemake, "Uniform Random Rotations", Graphics Gems III (1992).
 * Formula  D^1 = R;  D^l[m][n] = u U + v V + w W from D^(l-1) and R, at tinyi_so3_next below.
 *          Racah's sum with its factorials gathered into binomials, a = l1 + l2 - l3, b = l1 - l2 + l3,
 *          c = -l1 + l2 + l3:
 *            cg(m1, m2, m3) = sqrt(prod (l_i + m_i)! (l_i - m_i)! / (a! b! c! (l1 + l2 + l3 + 1)!)) S,
 *            S = sum_k (-1)^k B(a, k) B(b, l1 - m1 - k) B(c, l2 + m2 - k),  m3 = m1 + m2.
 *          S is a whole number below 2^53 up to degree 12, so nothing is lost where its terms cancel. The factor
 *          sqrt(2 l3 + 1) is left away: then the squares of all cg sum to 1. To real components:
 *            C[j][l][m] = Re sum_ikn q1[i][j] q2[k][l] conj(q3[n][m]) cg(i, k, n),
 *            column m of q: m = 0: 1 in row 0; m > 0: 1 / sqrt2 in row -m, (-1)^m / sqrt2 in row m;
 *            column -m: -i / sqrt2 in row -m, i (-1)^m / sqrt2 in row m; all times (-i)^l.
 * Cost     D of degree l: 30 operations for each of its numbers and those of all lower degrees. A table takes 9 ms and
 *          0.2 MB up to degree 6, 0.3 s and 5 MB up to 12.
 * Error    D 1e-14, 3j 1e-15. */
#include <string.h>
#include "gnn/equivariant/so3.h"
#include "core/state_inside.h"
#include "core/rng.h"
#include "math/elem.h"

#define TINYI_SO3_SIDE (2 * TGNN_L_MAX + 1)
#define TINYI_SO3_TURN 6.283185307179586476925286766559

static tiny_status tinyi_so3_place(tiny_ctx *ctx, const char *what, const void *in, const void *out)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!in || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: an input or the output is missing", what);
    return TINY_OK;
}

/* ---- rotations */

TINY_REF_BEGIN
/* a quaternion of length 1 */
static void tinyi_so3_from_quaternion(const double *q, double *r)
{
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    r[0] = 1.0 - 2.0 * (y * y + z * z);
    r[1] = 2.0 * (x * y - w * z);
    r[2] = 2.0 * (x * z + w * y);
    r[3] = 2.0 * (x * y + w * z);
    r[4] = 1.0 - 2.0 * (x * x + z * z);
    r[5] = 2.0 * (y * z - w * x);
    r[6] = 2.0 * (x * z - w * y);
    r[7] = 2.0 * (y * z + w * x);
    r[8] = 1.0 - 2.0 * (x * x + y * y);
}

/* scales n numbers to length 1; 0: they are all 0, or one is not finite */
static int tinyi_so3_unit(const double *x, int n, double *y)
{
    double most = 0.0, sum = 0.0;
    int i;
    for (i = 0; i < n; i++) {
        const double a = x[i] < 0.0 ? -x[i] : x[i];
        if (!(a - a == 0.0)) return 0;
        most = TINYI_MAX(most, a);
    }
    if (most == 0.0) return 0;
    for (i = 0; i < n; i++) sum += x[i] / most * (x[i] / most);
    for (i = 0; i < n; i++) y[i] = x[i] / most / tinyi_sqrt(sum);
    return 1;
}

TINY_API tiny_status tgnn_rotation_quaternion(tiny_ctx *ctx, const double q[4], double *r)
{
    double unit[4];
    const tiny_status st = tinyi_so3_place(ctx, "rotation", q, r);
    if (st) return st;
    if (!tinyi_so3_unit(q, 4, unit))
        return tinyi_fail(ctx, TINY_E_NUMERIC, "rotation: the quaternion %g %g %g %g has no direction", q[0], q[1],
                          q[2], q[3]);
    tinyi_so3_from_quaternion(unit, r);
    return TINY_OK;
}

TINY_API tiny_status tgnn_rotation_axis(tiny_ctx *ctx, const double axis[3], double angle, double *r)
{
    double q[4], s;
    const tiny_status st = tinyi_so3_place(ctx, "rotation", axis, r);
    if (st) return st;
    if (!tinyi_so3_unit(axis, 3, q + 1))
        return tinyi_fail(ctx, TINY_E_NUMERIC, "rotation: the axis %g %g %g has no direction", axis[0], axis[1],
                          axis[2]);
    if (!(angle - angle == 0.0)) return tinyi_fail(ctx, TINY_E_NUMERIC, "rotation: the angle is not a finite number");
    tinyi_sincos64(0.5 * angle, &s, &q[0]);
    q[1] *= s;
    q[2] *= s;
    q[3] *= s;
    tinyi_so3_from_quaternion(q, r);
    return TINY_OK;
}

TINY_API tiny_status tgnn_rotation_euler(tiny_ctx *ctx, double a, double b, double c, double *r)
{
    double sa, ca, sb, cb, sc, cc;
    const tiny_status st = tinyi_so3_place(ctx, "rotation", r, r);
    if (st) return st;
    if (!(a - a == 0.0 && b - b == 0.0 && c - c == 0.0))
        return tinyi_fail(ctx, TINY_E_NUMERIC, "rotation: an angle of %g %g %g is not a finite number", a, b, c);
    tinyi_sincos64(a, &sa, &ca);
    tinyi_sincos64(b, &sb, &cb);
    tinyi_sincos64(c, &sc, &cc);
    r[0] = ca * cc - sa * cb * sc;
    r[1] = sa * sb;
    r[2] = ca * sc + sa * cb * cc;
    r[3] = sb * sc;
    r[4] = cb;
    r[5] = -sb * cc;
    r[6] = -sa * cc - ca * cb * sc;
    r[7] = ca * sb;
    r[8] = -sa * sc + ca * cb * cc;
    return TINY_OK;
}

/* atan by its series after the angle is halved three times: tan(t / 2) = x / (1 + sqrt(1 + x^2)) */
static double tinyi_so3_atan(double x)
{
    double x2, sum = 0.0;
    int k;
    for (k = 0; k < 3; k++) x = x / (1.0 + tinyi_sqrt(1.0 + x * x));        /* |x| <= 0.0985 */
    x2 = x * x;
    for (k = 9; k >= 0; k--) sum = sum * x2 + (k & 1 ? -1.0 : 1.0) / (double)(2 * k + 1);
    return 8.0 * x * sum;
}

/* the angle of the point (c, s), -pi .. pi; 0 for (0, 0) */
static double tinyi_so3_angle(double s, double c)
{
    const double as = s < 0.0 ? -s : s, ac = c < 0.0 ? -c : c;
    double t;
    if (as == 0.0 && ac == 0.0) return 0.0;
    t = as <= ac ? tinyi_so3_atan(as / ac) : 0.25 * TINYI_SO3_TURN - tinyi_so3_atan(ac / as);
    if (c < 0.0) t = 0.5 * TINYI_SO3_TURN - t;
    return s < 0.0 ? -t : t;
}

static double tinyi_so3_det(const double *r)
{
    return r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) +
           r[2] * (r[3] * r[7] - r[4] * r[6]);
}

/* fails where R R^T is not 1 */
static tiny_status tinyi_so3_check(tiny_ctx *ctx, const char *what, const double *r)
{
    int i, j;
    for (i = 0; i < 3; i++)
        for (j = 0; j < 3; j++) {
            const double dot = r[3 * i] * r[3 * j] + r[3 * i + 1] * r[3 * j + 1] + r[3 * i + 2] * r[3 * j + 2];
            const double off = dot - (i == j ? 1.0 : 0.0);
            if (!(off <= 1e-6 && off >= -1e-6))
                return tinyi_fail(ctx, TINY_E_NUMERIC,
                                  "%s: rows %d and %d of the rotation have the product %g, it must be %d", what, i, j,
                                  dot, i == j);
        }
    return TINY_OK;
}

TINY_API tiny_status tgnn_rotation_angles(tiny_ctx *ctx, const double *r, double abc[3])
{
    tiny_status st = tinyi_so3_place(ctx, "rotation", r, abc);
    double sb;
    if (!st) st = tinyi_so3_check(ctx, "rotation", r);
    if (st) return st;
    if (tinyi_so3_det(r) < 0.0) return tinyi_fail(ctx, TINY_E_NUMERIC, "rotation: a reflection has no Euler angles");
    sb = tinyi_sqrt(r[1] * r[1] + r[7] * r[7]);
    abc[1] = tinyi_so3_angle(sb, r[4]);
    if (sb > 1e-14) {
        abc[0] = tinyi_so3_angle(r[1], r[7]);
        abc[2] = tinyi_so3_angle(r[3], -r[5]);
    } else {
        abc[0] = tinyi_so3_angle(r[4] > 0.0 ? r[2] : -r[2], r[0]);
        abc[2] = 0.0;
    }
    return TINY_OK;
}

TINY_API tiny_status tgnn_rotation_random(tiny_ctx *ctx, uint64_t seed, uint64_t i, double *r)
{
    const tiny_status st = tinyi_so3_place(ctx, "rotation", r, r);
    tiny_rng rng = tiny_rng_make(seed, i);
    double q[4], u, s, c;
    if (st) return st;
    u = tiny_rng_uniform64(&rng);
    tinyi_sincos64(TINYI_SO3_TURN * tiny_rng_uniform64(&rng), &s, &c);
    q[0] = tinyi_sqrt(1.0 - u) * s;
    q[1] = tinyi_sqrt(1.0 - u) * c;
    tinyi_sincos64(TINYI_SO3_TURN * tiny_rng_uniform64(&rng), &s, &c);
    q[2] = tinyi_sqrt(u) * s;
    q[3] = tinyi_sqrt(u) * c;
    tinyi_so3_from_quaternion(q, r);
    return TINY_OK;
}

/* ---- Wigner D */

/* D of degree l - 1 and R, as the recursion reads them: rows and columns from -(l - 1) to l - 1, and from -1 to 1 */
typedef struct tinyi_so3_step { const double *r, *d; int l; } tinyi_so3_step;

static double tinyi_so3_r(const tinyi_so3_step *s, int i, int j) { return s->r[3 * (i + 1) + j + 1]; }
static double tinyi_so3_d(const tinyi_so3_step *s, int m, int n)
{
    return s->d[(m + s->l - 1) * (2 * s->l - 1) + n + s->l - 1];
}

static double tinyi_so3_p(const tinyi_so3_step *s, int i, int m, int n)
{
    const int l = s->l;
    if (n == l)
        return tinyi_so3_r(s, i, 1) * tinyi_so3_d(s, m, l - 1) - tinyi_so3_r(s, i, -1) * tinyi_so3_d(s, m, 1 - l);
    if (n == -l)
        return tinyi_so3_r(s, i, 1) * tinyi_so3_d(s, m, 1 - l) + tinyi_so3_r(s, i, -1) * tinyi_so3_d(s, m, l - 1);
    return tinyi_so3_r(s, i, 0) * tinyi_so3_d(s, m, n);
}

static double tinyi_so3_next(const tinyi_so3_step *s, int m, int n)
{
    const double root2 = 1.4142135623730950488;
    const int l = s->l, am = m < 0 ? -m : m, an = n < 0 ? -n : n, zero = m == 0;
    const double below = an == l ? 2.0 * l * (2.0 * l - 1.0) : (double)((l + n) * (l - n));
    const double u = tinyi_sqrt((double)((l + m) * (l - m)) / below);
    const double v = 0.5 * tinyi_sqrt((zero ? 2.0 : 1.0) * (double)((l + am - 1) * (l + am)) / below) *
                     (zero ? -1.0 : 1.0);
    const double w = zero ? 0.0 : -0.5 * tinyi_sqrt((double)((l - am - 1) * (l - am)) / below);
    double sum = u != 0.0 ? u * tinyi_so3_p(s, 0, m, n) : 0.0;
    if (m == 0) sum += v * (tinyi_so3_p(s, 1, 1, n) + tinyi_so3_p(s, -1, -1, n));
    else if (m > 0) {
        sum += v * (tinyi_so3_p(s, 1, m - 1, n) * (m == 1 ? root2 : 1.0) -
                    (m == 1 ? 0.0 : tinyi_so3_p(s, -1, 1 - m, n)));
        if (w != 0.0) sum += w * (tinyi_so3_p(s, 1, m + 1, n) + tinyi_so3_p(s, -1, -m - 1, n));
    } else {
        sum += v * ((m == -1 ? 0.0 : tinyi_so3_p(s, 1, m + 1, n)) +
                    tinyi_so3_p(s, -1, -m - 1, n) * (m == -1 ? root2 : 1.0));
        if (w != 0.0) sum += w * (tinyi_so3_p(s, 1, m - 1, n) - tinyi_so3_p(s, -1, 1 - m, n));
    }
    return sum;
}

static void tinyi_so3_wigner(int l, const double *r, double *d)
{
    double room[2][TINYI_SO3_SIDE * TINYI_SO3_SIDE];
    tinyi_so3_step s;
    int m, n;
    room[0][0] = 1.0;
    for (s.l = 1; s.l <= l; s.l++) {
        double *to = room[s.l & 1];
        s.r = r;
        s.d = room[~s.l & 1];
        for (m = -s.l; m <= s.l; m++)
            for (n = -s.l; n <= s.l; n++)
                to[(m + s.l) * (2 * s.l + 1) + n + s.l] =
                    s.l == 1 ? r[3 * (m + 1) + n + 1] : tinyi_so3_next(&s, m, n);
    }
    memcpy(d, room[l & 1], (size_t)((2 * l + 1) * (2 * l + 1)) * sizeof *d);
}

TINY_API tiny_status tgnn_wigner_d(tiny_ctx *ctx, int l, const double *r, double *d)
{
    tiny_status st = tinyi_so3_place(ctx, "wigner_d", r, d);
    if (st) return st;
    if (l < 0 || l > TGNN_L_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "wigner_d: degree %d, it must be 0 to %d", l, TGNN_L_MAX);
    st = tinyi_so3_check(ctx, "wigner_d", r);
    if (!st) tinyi_so3_wigner(l, r, d);
    return st;
}

/* ---- 3j */

/* all factorials and binomials that occur; the binomials are exact */
typedef struct tinyi_so3_counts {
    double factorial[3 * TGNN_L_MAX + 2];
    int64_t binomial[TINYI_SO3_SIDE][TINYI_SO3_SIDE];
} tinyi_so3_counts;

static void tinyi_so3_count(tinyi_so3_counts *t)
{
    int n, k;
    t->factorial[0] = 1.0;
    for (n = 1; n <= 3 * TGNN_L_MAX + 1; n++) t->factorial[n] = t->factorial[n - 1] * (double)n;
    for (n = 0; n < TINYI_SO3_SIDE; n++)
        for (k = 0; k <= n; k++)
            t->binomial[n][k] = k == 0 || k == n ? 1 : t->binomial[n - 1][k - 1] + t->binomial[n - 1][k];
}

static int64_t tinyi_so3_binomial(const tinyi_so3_counts *t, int n, int k)
{
    return k < 0 || k > n ? 0 : t->binomial[n][k];
}

/* <l1 m1 l2 m2 | l3 m1 + m2> / sqrt(2 l3 + 1) */
static double tinyi_so3_cg(const tinyi_so3_counts *t, const int *l, int m1, int m2)
{
    const int a = l[0] + l[1] - l[2], b = l[0] - l[1] + l[2], c = l[1] + l[2] - l[0], m3 = m1 + m2;
    double f;
    int64_t sum = 0;
    int k;
    if (m3 > l[2] || m3 < -l[2]) return 0.0;
    for (k = 0; k <= a; k++)
        sum += (k & 1 ? -1 : 1) * t->binomial[a][k] * tinyi_so3_binomial(t, b, l[0] - m1 - k) *
               tinyi_so3_binomial(t, c, l[1] + m2 - k);
    if (!sum) return 0.0;
    f = t->factorial[l[0] + m1] / t->factorial[a];
    f *= t->factorial[l[0] - m1] / t->factorial[b];
    f *= t->factorial[l[1] + m2] / t->factorial[c];
    f *= t->factorial[l[1] - m2] / t->factorial[l[0] + l[1] + l[2] + 1];
    f *= t->factorial[l[2] + m3] * t->factorial[l[2] - m3];
    return (double)sum * tinyi_sqrt(f);
}

typedef struct tinyi_so3_complex { double re, im; } tinyi_so3_complex;
static tinyi_so3_complex tinyi_so3_times(tinyi_so3_complex a, tinyi_so3_complex b)
{
    tinyi_so3_complex c;
    c.re = a.re * b.re - a.im * b.im;
    c.im = a.re * b.im + a.im * b.re;
    return c;
}

/* q[row][m] without (-i)^l; rows other than m and -m are 0 */
static tinyi_so3_complex tinyi_so3_q(int row, int m)
{
    const double half = 0.70710678118654752440;
    tinyi_so3_complex c = { 0.0, 0.0 };
    if (m == 0) c.re = row == 0 ? 1.0 : 0.0;
    else if (m > 0) c.re = row < 0 ? half : m & 1 ? -half : half;
    else c.im = row < 0 ? -half : m & 1 ? -half : half;
    return c;
}

/* C[m1][m2][m3]: at most four complex terms, (-i)^(l1 + l2 - l3) in front */
static double tinyi_so3_real(const tinyi_so3_counts *counts, const int *l, int m1, int m2, int m3)
{
    const int a1 = m1 < 0 ? -m1 : m1, a2 = m2 < 0 ? -m2 : m2, a3 = m3 < 0 ? -m3 : m3;
    tinyi_so3_complex sum = { 0.0, 0.0 };
    int i, k;
    if (a3 != a1 + a2 && a3 != a1 - a2 && a3 != a2 - a1) return 0.0;
    for (i = -a1; i <= a1; i += a1 ? 2 * a1 : 1)
        for (k = -a2; k <= a2; k += a2 ? 2 * a2 : 1) {
            tinyi_so3_complex q3, t;
            const int n = i + k;
            double cg;
            if (n != a3 && n != -a3) continue;
            q3 = tinyi_so3_q(n, m3);
            q3.im = -q3.im;
            t = tinyi_so3_times(tinyi_so3_times(tinyi_so3_q(i, m1), tinyi_so3_q(k, m2)), q3);
            cg = tinyi_so3_cg(counts, l, i, k);
            sum.re += t.re * cg;
            sum.im += t.im * cg;
        }
    switch ((l[0] + l[1] - l[2]) & 3) {
    case 0: return sum.re;
    case 1: return sum.im;
    case 2: return -sum.re;
    default: return -sum.im;
    }
}
TINY_REF_END

static int tinyi_so3_triangle(int l1, int l2, int l3)
{
    return l3 <= l1 + l2 && l1 <= l2 + l3 && l2 <= l1 + l3;
}

TINY_API tiny_status tgnn_wigner_3j(tiny_ctx *ctx, int l1, int l2, int l3, double *c)
{
    const tiny_status st = tinyi_so3_place(ctx, "wigner_3j", c, c);
    tinyi_so3_counts counts;
    int l[3], i, j, k;
    if (st) return st;
    l[0] = l1;
    l[1] = l2;
    l[2] = l3;
    for (i = 0; i < 3; i++)
        if (l[i] < 0 || l[i] > TGNN_L_MAX)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "wigner_3j: degree %d, it must be 0 to %d", l[i], TGNN_L_MAX);
    if (!tinyi_so3_triangle(l1, l2, l3))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "wigner_3j: degrees %d, %d and %d do not couple: one is above the sum "
                          "of the others", l1, l2, l3);
    tinyi_so3_count(&counts);
    for (i = -l1; i <= l1; i++)
        for (j = -l2; j <= l2; j++)
            for (k = -l3; k <= l3; k++) *c++ = tinyi_so3_real(&counts, l, i, j, k);
    return TINY_OK;
}

/* ---- the table */

struct tgnn_so3 {
    int l_max;
    size_t *start;                          /* (l_max + 1)^3 + 1, by l1, l2, l3 */
    tgnn_coupling *list;
};

/* Appends the couplings of all degrees to list, or only counts them where it is NULL. */
static size_t tinyi_so3_fill(int l_max, size_t *start, tgnn_coupling *list)
{
    tinyi_so3_counts counts;
    size_t n = 0, at = 0;
    int l[3], i, j, k;
    tinyi_so3_count(&counts);
    for (l[0] = 0; l[0] <= l_max; l[0]++)
        for (l[1] = 0; l[1] <= l_max; l[1]++)
            for (l[2] = 0; l[2] <= l_max; l[2]++) {
                start[at++] = n;
                if (!tinyi_so3_triangle(l[0], l[1], l[2])) continue;
                for (i = -l[0]; i <= l[0]; i++)
                    for (j = -l[1]; j <= l[1]; j++)
                        for (k = -l[2]; k <= l[2]; k++) {
                            const double v = tinyi_so3_real(&counts, l, i, j, k);
                            if (v == 0.0) continue;
                            if (list) {
                                list[n].value = v;
                                list[n].i = (uint8_t)(i + l[0]);
                                list[n].j = (uint8_t)(j + l[1]);
                                list[n].k = (uint8_t)(k + l[2]);
                            }
                            n++;
                        }
            }
    start[at] = n;
    return n;
}

TINY_API void tgnn_so3_close(tiny_ctx *ctx, tgnn_so3 *so3)
{
    if (!so3 || tinyi_ctx_check(ctx)) return;
    tiny_free(ctx, so3->start);
    tiny_free(ctx, so3->list);
    tiny_free(ctx, so3);
}

TINY_API tiny_status tgnn_so3_open(tiny_ctx *ctx, int l_max, tgnn_so3 **out)
{
    const size_t side = (size_t)l_max + 1;
    tgnn_so3 *so3;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "so3: the place of the table is missing");
    if (l_max < 0 || l_max > TGNN_L_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "so3: degree %d, it must be 0 to %d", l_max, TGNN_L_MAX);
    so3 = (tgnn_so3 *)tinyi_alloc(ctx, 1, sizeof *so3);
    if (!so3) return tiny_ctx_status(ctx);
    memset(so3, 0, sizeof *so3);
    so3->l_max = l_max;
    so3->start = (size_t *)tinyi_alloc(ctx, side * side * side + 1, sizeof *so3->start);
    if (so3->start)
        so3->list = (tgnn_coupling *)tinyi_alloc(ctx, tinyi_so3_fill(l_max, so3->start, NULL), sizeof *so3->list);
    if (!so3->list) {
        st = tiny_ctx_status(ctx);
        tgnn_so3_close(ctx, so3);
        return st;
    }
    (void)tinyi_so3_fill(l_max, so3->start, so3->list);
    *out = so3;
    return TINY_OK;
}

TINY_API int tgnn_so3_l_max(const tgnn_so3 *so3) { return so3 ? so3->l_max : -1; }

TINY_API const tgnn_coupling *tgnn_so3_couplings(const tgnn_so3 *so3, int l1, int l2, int l3, size_t *n)
{
    size_t at;
    if (n) *n = 0;
    if (!so3 || l1 < 0 || l2 < 0 || l3 < 0 || l1 > so3->l_max || l2 > so3->l_max || l3 > so3->l_max) return NULL;
    at = ((size_t)l1 * ((size_t)so3->l_max + 1) + (size_t)l2) * ((size_t)so3->l_max + 1) + (size_t)l3;
    if (so3->start[at] == so3->start[at + 1]) return NULL;
    if (n) *n = so3->start[at + 1] - so3->start[at];
    return so3->list + so3->start[at];
}
