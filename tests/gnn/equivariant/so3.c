/* tests/gnn/equivariant/so3.c - rotations, Wigner D, 3j: recorded numbers of e3nn, worked numbers, group laws */
#define T_GNN
#include "t.h"

enum { SIDE = 2 * TGNN_L_MAX + 1 };

static const double *numbers(const char *file, size_t n)
{
    char path[100];
    (void)snprintf(path, sizeof path, "oracle/gnn/%.80s", file);
    return (const double *)t_shared_bytes(path, n * sizeof(double));
}

static void times(const double *a, const double *b, int n, double *c)
{
    int i, j, k;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            double sum = 0;
            for (k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

/* a random rotation; every second one with a reflection */
static void random_rotation(tiny_ctx *ctx, int i, double *r)
{
    int j;
    T_OK(tgnn_rotation_random(ctx, 11, (uint64_t)i, r));
    for (j = 0; i & 1 && j < 9; j++) r[j] = -r[j];
}

static double det(const double *r)
{
    return r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) + r[2] * (r[3] * r[7] - r[4] * r[6]);
}

static void test_rotations(void)
{
    static const double worked[9] = { .634773,  .190379, -.748878, -.574132, .764842,
                                      -.292215, .517142, .615445,  .594804 };
    static const double z[3] = { 0, 0, 2 }, tilted[3] = { 1e-200, 2e-200, -2e-200 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    double r[9], s[9], abc[3], q[4], mean[9] = { 0 };
    int i, j, k;
    T_OK(tgnn_rotation_euler(ctx, 0.3, 0.7, -1.1, r));
    for (i = 0; i < 9; i++) T_CLOSE(r[i], worked[i], 1e-6);
    T_OK(tgnn_rotation_axis(ctx, z, 1.5707963267948966, r));    /* x goes to y, y to -x */
    T_CLOSE(r[3], 1, 1e-15);
    T_CLOSE(r[1], -1, 1e-15);
    T_CLOSE(r[8], 1, 1e-15);
    T_CLOSE(r[0], 0, 1e-15);
    T_OK(tgnn_rotation_axis(ctx, tilted, 0.8, r));
    for (i = 0; i < 3; i++) {               /* the axis stays, the trace is 1 + 2 cos */
        double turned = 0;
        for (j = 0; j < 3; j++) turned += r[3 * i + j] * tilted[j] * 1e200;
        T_CLOSE(turned, tilted[i] * 1e200, 1e-14);
    }
    T_CLOSE(r[0] + r[4] + r[8], 1 + 2 * cos(0.8), 1e-14);
    q[0] = cos(0.4) * 5;
    for (i = 0; i < 3; i++) q[i + 1] = sin(0.4) * 5 * tilted[i] * 1e200 / 3;
    T_OK(tgnn_rotation_quaternion(ctx, q, s));
    for (i = 0; i < 9; i++) T_CLOSE(s[i], r[i], 1e-15);
    for (k = 0; k < 2000; k++) {
        T_OK(tgnn_rotation_random(ctx, 3, (uint64_t)k, r));
        T_CLOSE(det(r), 1, 1e-14);
        for (i = 0; i < 3; i++)
            for (j = 0; j < 3; j++) {
                double dot = 0;
                int l;
                for (l = 0; l < 3; l++) dot += r[3 * i + l] * r[3 * j + l];
                T_CLOSE(dot, i == j, 2e-15);
            }
        for (i = 0; i < 9; i++) mean[i] += r[i] / 2000;
        T_OK(tgnn_rotation_angles(ctx, r, abc));
        T_TRUE(abc[1] >= 0 && abc[1] <= 3.1415926535897936);
        T_OK(tgnn_rotation_euler(ctx, abc[0], abc[1], abc[2], s));
        for (i = 0; i < 9; i++) T_CLOSE(s[i], r[i], 1e-14);
    }
    for (i = 0; i < 9; i++) T_CLOSE(mean[i], 0, 0.052);     /* four deviations: an entry has the variance 1 / 3 */
    for (k = 0; k < 4; k++) {                               /* poles: b is 0 or pi */
        T_OK(tgnn_rotation_euler(ctx, 2.5, k & 1 ? 3.141592653589793 : 0.0, k & 2 ? 0.7 : 0.0, r));
        T_OK(tgnn_rotation_angles(ctx, r, abc));
        T_OK(tgnn_rotation_euler(ctx, abc[0], abc[1], abc[2], s));
        for (i = 0; i < 9; i++) T_CLOSE(s[i], r[i], 1e-14);
    }
    t_close(ctx);
    T_PROOF("geometry 0", "R(.3,.7,-1.1) as worked");
}

static void test_wigner(void)
{
    const double *angles = numbers("wigner_d/angles_yxy.f64", 12), *rotations = numbers("wigner_d/R.f64", 36);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    static double d[SIDE * SIDE], e[SIDE * SIDE], f[SIDE * SIDE], both[SIDE * SIDE];
    double r[9], s[9], t[9];
    char name[64];
    int k, l, i;
    for (l = 0; l <= 6; l++) {
        const int n = (2 * l + 1) * (2 * l + 1);
        const double *want;
        (void)snprintf(name, sizeof name, "wigner_d/D_l%d.f64", l);
        want = numbers(name, (size_t)(4 * n));
        for (k = 0; k < 4 && want && angles && rotations; k++) {
            T_OK(tgnn_rotation_euler(ctx, angles[3 * k], angles[3 * k + 1], angles[3 * k + 2], r));
            for (i = 0; i < 9; i++) T_CLOSE(r[i], rotations[9 * k + i], 1e-15);
            T_OK(tgnn_wigner_d(ctx, l, r, d));
            for (i = 0; i < n; i++) T_CLOSE(d[i], want[n * k + i], 1e-12);
        }
    }
    for (k = 0; k < 8; k++) {
        random_rotation(ctx, k, r);
        random_rotation(ctx, k / 2 + 10, s);
        times(r, s, 3, t);
        T_OK(tgnn_wigner_d(ctx, 1, r, d));
        for (i = 0; i < 9; i++) T_CLOSE(d[i], r[i], 0);
        for (l = 0; l <= TGNN_L_MAX; l++) {
            const int side = 2 * l + 1;
            int a, b, c;
            T_OK(tgnn_wigner_d(ctx, l, r, d));
            T_OK(tgnn_wigner_d(ctx, l, s, e));
            T_OK(tgnn_wigner_d(ctx, l, t, f));
            times(d, e, side, both);
            for (i = 0; i < side * side; i++) T_CLOSE(both[i], f[i], 1e-13);
            for (a = 0; a < side; a++)
                for (b = 0; b < side; b++) {
                    double dot = 0;
                    for (c = 0; c < side; c++) dot += d[a * side + c] * d[b * side + c];
                    T_CLOSE(dot, a == b, 1e-13);
                }
        }
    }
    t_close(ctx);
    T_PROOF("geometry 0", "Wigner D of e3nn, degrees 0 to 6");
    T_PROOF("geometry 0", "D(R1 R2) = D(R1) D(R2), D^1 = R");
}

static void test_3j(void)
{
    static const struct { int i, j, k; double v; } worked[] = {
        { 0, 0, 2, -.182574 }, { 0, 0, 4, -.316228 }, { 0, 1, 1, .316228 }, { 0, 2, 0, .316228 },
        { 1, 1, 2, .365148 },  { 1, 2, 3, .316228 },  { 2, 2, 2, -.182574 }, { 2, 2, 4, .316228 },
    };
    static double c[SIDE * SIDE * SIDE];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    const int whole = t_find("oracle/gnn/wigner_3j/coefficients.f64") != NULL, most = whole ? 6 : 3;
    const double *want = whole ? numbers("wigner_3j/coefficients.f64", 98245)
                               : numbers("wigner_3j/to-degree-3.f64", 3436);
    int l1, l2, l3, i, j, k;
    size_t w;
    for (l1 = 0; l1 <= most && want; l1++)
        for (l2 = 0; l2 <= most; l2++)
            for (l3 = abs(l1 - l2); l3 <= l1 + l2 && l3 <= most; l3++) {
                const int n = (2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1);
                T_OK(tgnn_wigner_3j(ctx, l1, l2, l3, c));
                for (i = 0; i < n; i++) T_CLOSE(c[i], want[i], 1e-12);
                want += n;
            }
    T_OK(tgnn_wigner_3j(ctx, 1, 1, 0, c));
    for (i = 0; i < 9; i++) T_CLOSE(c[i], i % 4 == 0 ? 1 / sqrt(3) : 0, 1e-15);
    T_OK(tgnn_wigner_3j(ctx, 1, 1, 1, c));  /* the cross product: (1, 2, 3) x (-1, .5, 2) = (2.5, -5, 2.5) */
    {
        static const double a[3] = { 1, 2, 3 }, b[3] = { -1, .5, 2 }, cross[3] = { 2.5, -5, 2.5 };
        for (k = 0; k < 3; k++) {
            double sum = 0;
            for (i = 0; i < 3; i++)
                for (j = 0; j < 3; j++) sum += sqrt(6) * c[9 * i + 3 * j + k] * a[i] * b[j];
            T_CLOSE(sum, cross[k], 1e-14);
        }
    }
    T_OK(tgnn_wigner_3j(ctx, 1, 1, 2, c));
    for (w = 0; w < T_COUNT(worked); w++) {
        T_CLOSE(c[worked[w].i * 15 + worked[w].j * 5 + worked[w].k], worked[w].v, 1e-6);
        T_CLOSE(c[worked[w].j * 15 + worked[w].i * 5 + worked[w].k], worked[w].v, 1e-6);
    }
    t_close(ctx);
    T_PROOF("geometry 0", "3j of e3nn, all couplings of the recorded degrees");
    T_PROOF("geometry 0", "C[1,1,0], C[1,1,1] as a cross product, C[1,1,2] as worked");
}

/* what does not change when all three axes turn, up to the highest degrees; square sum 1 */
static void test_invariance(void)
{
    static const int triples[][3] = { { 0, 0, 0 },  { 1, 1, 1 },   { 2, 3, 4 },    { 3, 3, 5 },   { 6, 5, 4 },
                                      { 7, 7, 7 },  { 12, 1, 11 }, { 12, 12, 12 }, { 12, 12, 0 }, { 9, 11, 10 },
                                      { 6, 6, 12 }, { 5, 12, 8 } };
    static double c[SIDE * SIDE * SIDE], a[SIDE * SIDE * SIDE], b[SIDE * SIDE * SIDE], d[SIDE * SIDE];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    size_t t;
    int turn, axis, i, j;
    for (t = 0; t < T_COUNT(triples); t++)
        for (turn = 0; turn < 2; turn++) {
            const int *l = triples[t];
            const int n = (2 * l[0] + 1) * (2 * l[1] + 1) * (2 * l[2] + 1);
            /* of a reflection D has the sign (-1)^l, which C keeps only where l1 + l2 + l3 is even */
            const double sign = turn && (l[0] + l[1] + l[2]) % 2 ? -1 : 1;
            double r[9], sum = 0;
            random_rotation(ctx, turn, r);
            T_OK(tgnn_wigner_3j(ctx, l[0], l[1], l[2], c));
            memcpy(a, c, (size_t)n * sizeof *a);
            for (axis = 0; axis < 3; axis++) {
                /* the last axis is turned and becomes the first: after three times all stand as before */
                const int side = 2 * l[2 - axis] + 1, rest = n / side;
                int k;
                T_OK(tgnn_wigner_d(ctx, l[2 - axis], r, d));
                for (i = 0; i < side; i++)
                    for (j = 0; j < rest; j++) {
                        double s = 0;
                        for (k = 0; k < side; k++) s += a[j * side + k] * d[k * side + i];
                        b[i * rest + j] = s;
                    }
                memcpy(a, b, (size_t)n * sizeof *a);
            }
            for (i = 0; i < n; i++) {
                T_CLOSE(a[i], sign * c[i], 1e-13);
                sum += c[i] * c[i];
            }
            T_CLOSE(sum, 1, 1e-13);
        }
    t_close(ctx);
    T_PROOF("geometry 0", "3j are invariant under rotations and reflections, to degree 12");
}

static void test_table(void)
{
    static const int paths[7] = { 1, 5, 15, 34, 65, 111, 175 }, dense[7] = { 1, 55, 615, 3436, 13075, 38991, 98245 },
                     kept[7] = { 1, 16, 137, 611, 2052, 5265, 11896 };
    static double c[SIDE * SIDE * SIDE];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    int l_max, l1, l2, l3;
    for (l_max = 0; l_max <= 6; l_max++) {
        tgnn_so3 *so3 = NULL;
        int n_paths = 0, n_dense = 0, n_kept = 0;
        if (!T_OK(tgnn_so3_open(ctx, l_max, &so3))) break;
        T_EQ_INT(tgnn_so3_l_max(so3), l_max);
        for (l1 = 0; l1 <= l_max; l1++)
            for (l2 = 0; l2 <= l_max; l2++)
                for (l3 = 0; l3 <= l_max; l3++) {
                    size_t n, i;
                    const tgnn_coupling *list = tgnn_so3_couplings(so3, l1, l2, l3, &n);
                    const int b = 2 * l2 + 1, e = 2 * l3 + 1;
                    int at, last = -1, kinds = 0;
                    if (l3 > l1 + l2 || l1 > l2 + l3 || l2 > l1 + l3) {
                        T_TRUE(!list && n == 0);
                        continue;
                    }
                    n_paths++;
                    n_dense += (2 * l1 + 1) * b * e;
                    n_kept += (int)n;
                    T_OK(tgnn_wigner_3j(ctx, l1, l2, l3, c));
                    for (i = 0; i < n; i++) {
                        at = (list[i].i * b + list[i].j) * e + list[i].k;
                        T_TRUE(at > last);
                        last = at;
                        T_CLOSE(list[i].value, c[at], 0);
                    }
                    for (at = 0; at < (2 * l1 + 1) * b * e; at++) kinds += c[at] != 0;
                    T_EQ_INT(kinds, n);
                }
        T_EQ_INT(n_paths, paths[l_max]);
        T_EQ_INT(n_dense, dense[l_max]);
        T_EQ_INT(n_kept, kept[l_max]);
        T_TRUE(!tgnn_so3_couplings(so3, l_max + 1, 0, 0, NULL) && !tgnn_so3_couplings(so3, -1, 0, 0, NULL));
        tgnn_so3_close(ctx, so3);
    }
    T_EQ_INT(tgnn_so3_l_max(NULL), -1);
    t_close(ctx);
    T_PROOF("geometry 0", "paths, dense entries and nonzeros of the tables, L = 1 to 6");
}

static void test_bad(void)
{
    static const double zero[4] = { 0, 0, 0, 0 };
    static double d[SIDE * SIDE * SIDE];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    double r[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 }, v[3] = { 1, NAN, 0 }, abc[3];
    tgnn_so3 *so3 = NULL;
    T_STATUS(tgnn_rotation_axis(ctx, zero, 1, r), TINY_E_NUMERIC, "the axis 0 0 0 has no direction");
    T_STATUS(tgnn_rotation_axis(ctx, v, 1, r), TINY_E_NUMERIC, "has no direction");
    v[1] = 2;
    T_STATUS(tgnn_rotation_axis(ctx, v, INFINITY, r), TINY_E_NUMERIC, "the angle is not a finite number");
    T_STATUS(tgnn_rotation_quaternion(ctx, zero, r), TINY_E_NUMERIC, "the quaternion 0 0 0 0");
    T_STATUS(tgnn_rotation_euler(ctx, 0, NAN, 0, r), TINY_E_NUMERIC, "is not a finite number");
    T_STATUS(tgnn_rotation_axis(ctx, NULL, 1, r), TINY_E_ARGUMENT, "is missing");
    T_STATUS(tgnn_rotation_random(ctx, 1, 1, NULL), TINY_E_ARGUMENT, "is missing");
    T_OK(tgnn_wigner_d(ctx, 2, r, d));
    T_STATUS(tgnn_wigner_d(ctx, 13, r, d), TINY_E_ARGUMENT, "degree 13, it must be 0 to 12");
    T_STATUS(tgnn_wigner_d(ctx, -1, r, d), TINY_E_ARGUMENT, "degree -1");
    T_STATUS(tgnn_wigner_d(ctx, 1, NULL, d), TINY_E_ARGUMENT, "is missing");
    r[4] = -1;
    T_OK(tgnn_wigner_d(ctx, 2, r, d));      /* a mirror */
    T_STATUS(tgnn_rotation_angles(ctx, r, abc), TINY_E_NUMERIC, "a reflection has no Euler angles");
    r[4] = 1.001;
    T_STATUS(tgnn_wigner_d(ctx, 2, r, d), TINY_E_NUMERIC, "rows 1 and 1 of the rotation have the product");
    r[4] = NAN;
    T_STATUS(tgnn_wigner_d(ctx, 2, r, d), TINY_E_NUMERIC, "rows 0 and 1 of the rotation");
    T_STATUS(tgnn_wigner_3j(ctx, 1, 1, 3, d), TINY_E_ARGUMENT, "degrees 1, 1 and 3 do not couple");
    T_STATUS(tgnn_wigner_3j(ctx, 4, 1, 1, d), TINY_E_ARGUMENT, "do not couple");
    T_STATUS(tgnn_wigner_3j(ctx, 13, 13, 0, d), TINY_E_ARGUMENT, "degree 13");
    T_STATUS(tgnn_wigner_3j(ctx, 0, 0, 0, NULL), TINY_E_ARGUMENT, "is missing");
    T_STATUS(tgnn_so3_open(ctx, 13, &so3), TINY_E_ARGUMENT, "degree 13");
    T_STATUS(tgnn_so3_open(ctx, 2, NULL), TINY_E_ARGUMENT, "is missing");
    T_TRUE(!so3);
    tgnn_so3_close(ctx, NULL);
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *own = NULL;
        if (tiny_ctx_open(&desc, &own)) continue;
        (void)tgnn_so3_open(own, 2, &so3);
        tgnn_so3_close(own, so3);
        so3 = NULL;
        tiny_ctx_close(own);
    })
    t_close(ctx);
    T_PROOF("geometry 0", "bad input: l > table, triangle violation, R that is not orthogonal");
}

int main(void)
{
    T_RUN(test_rotations);
    T_RUN(test_wigner);
    T_RUN(test_3j);
    T_RUN(test_invariance);
    T_RUN(test_table);
    T_RUN(test_bad);
    return t_done();
}
