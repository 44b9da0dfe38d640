/* tests/gnn/equivariant/harmonics.c - spherical harmonics: recorded numbers of e3nn, worked numbers, orthonormality,
 * rotations and reflections, derivatives by differences; the float forms against the double one */
#define T_GNN
#include "t.h"

enum { MOST = (TGNN_L_MAX + 1) * (TGNN_L_MAX + 1), SIDE = 2 * TGNN_L_MAX + 1 };

static tgnn_sph_harm_params how(int l_max, int norm, int solid)
{
    tgnn_sph_harm_params p;
    memset(&p, 0, sizeof p);
    p.l_max = l_max;
    p.norm = norm;
    p.solid = solid;
    return p;
}

/* one vector in double; s (3, count) may be NULL */
static void one(tiny_ctx *ctx, const double *v, const tgnn_sph_harm_params *p, double *y, double *s)
{
    const int count = tgnn_sph_harm_count(p->l_max);
    double x[3];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F64, 1, 3), ty = tiny_tensor_2d(y, TINY_F64, 1, count),
                ts = tiny_tensor_3d(s, TINY_F64, 1, 3, count);
    memcpy(x, v, sizeof x);
    if (s) T_OK(tgnn_sph_harm_slopes(ctx, &tx, p, &ty, &ts));
    else T_OK(tgnn_sph_harm(ctx, &tx, p, &ty));
}

static void random_vector(double *v)
{
    int j;
    do {
        for (j = 0; j < 3; j++) v[j] = (double)t_rand_float(-1, 1);
    } while (v[0] * v[0] + v[1] * v[1] + v[2] * v[2] < 0.01);
}

static void test_recorded(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const double *x = (const double *)t_shared_bytes("oracle/gnn/sh/xyz.f64", 18 * 3 * sizeof(double));
    double y[MOST];
    char name[64];
    int norm, l, i, k;
    for (l = 0; x && l <= 8; l++) {
        const double *want;
        (void)snprintf(name, sizeof name, "oracle/gnn/sh/Y_l%d_component.f64", l);
        want = (const double *)t_shared_bytes(name, (size_t)(18 * (2 * l + 1)) * sizeof(double));
        for (norm = 0; want && norm < 3; norm++) {
            const tgnn_sph_harm_params p = how(l, norm, 0);
            const double by = norm == TGNN_SH_NORM       ? 1 / sqrt(2 * l + 1)
                              : norm == TGNN_SH_INTEGRAL ? 1 / sqrt(4 * 3.14159265358979323846)
                                                         : 1;
            for (i = 0; i < 18; i++) {
                one(ctx, x + 3 * i, &p, y, NULL);
                for (k = 0; k < 2 * l + 1; k++) T_CLOSE(y[l * l + k], by * want[i * (2 * l + 1) + k], 1e-12);
            }
        }
    }
    t_close(ctx);
    T_PROOF("geometry 0", "harmonics of e3nn, degrees 0 to 8, three norms");
}

static void test_worked(tiny_target target)
{
    static const float want[16] = { 1,         .462910f,  .925820f,  1.388730f, .829925f,   .553283f,
                                    -.159719f, 1.659850f, 1.106567f, 1.038174f, 1.173691f,  .185577f,
                                    -1.111168f, .556731f, 1.564922f, .718736f };
    tiny_ctx *ctx = t_ctx(target, 1);
    float x[3] = { 1, 2, 3 }, y[16], sum = 0;
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 3), ty = tiny_tensor_2d(y, TINY_F32, 1, 16);
    tgnn_sph_harm_params p = how(3, TGNN_SH_COMPONENT, 0);
    int i;
    T_OK(tgnn_sph_harm(ctx, &tx, &p, &ty));
    for (i = 0; i < 16; i++) T_CLOSE(y[i], want[i], 1e-6);
    for (i = 9; i < 16; i++) sum += y[i] * y[i];
    T_CLOSE(sum, 7, 1e-5);
    p.solid = 1;                            /* sqrt3 (x, y, z), and sqrt15 x z first of the next degree */
    T_OK(tgnn_sph_harm(ctx, &tx, &p, &ty));
    for (i = 0; i < 3; i++) T_CLOSE(y[i + 1], sqrt(3) * (double)x[i], 1e-6);
    T_CLOSE(y[4], sqrt(15) * 3, 1e-5);
    T_CLOSE(y[6], sqrt(5) * (4 - 0.5 * 10), 1e-5);
    T_CLOSE(y[8], sqrt(15) / 2 * (9 - 1), 1e-5);
    x[0] = x[1] = x[2] = 0;                 /* no direction */
    p = how(3, TGNN_SH_INTEGRAL, 0);
    T_OK(tgnn_sph_harm(ctx, &tx, &p, &ty));
    T_CLOSE(y[0], .28209479, 1e-7);
    for (i = 1; i < 16; i++) T_TRUE(y[i] == 0);
    if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));
    t_close(ctx);
    T_PROOF("geometry 0", "v = (1, 2, 3): Y_1, Y_2, Y_3, their squares sum to 7");
}

/* nodes and weights of Gauss and Legendre for n points, from cos b = 1 down */
static void gauss(int n, double *node, double *weight)
{
    int i, k, round;
    for (i = 0; i < n; i++) {
        double t = cos(3.14159265358979323846 * (i + 0.75) / (n + 0.5)), slope = 1;
        for (round = 0; round < 50; round++) {
            double p0 = 1, p1 = t;
            for (k = 2; k <= n; k++) {
                const double p2 = ((2 * k - 1) * t * p1 - (k - 1) * p0) / k;
                p0 = p1;
                p1 = p2;
            }
            slope = n * (t * p1 - p0) / (t * t - 1);
            t -= p1 / slope;
        }
        node[i] = t;
        weight[i] = 2 / ((1 - t * t) * slope * slope);
    }
}

static void test_orthonormal(void)
{
    enum { NB = TGNN_L_MAX + 1, NA = 2 * TGNN_L_MAX + 1 };
    static double sum[MOST][MOST], y[MOST];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tgnn_sph_harm_params p = how(TGNN_L_MAX, TGNN_SH_INTEGRAL, 0);
    double node[NB], weight[NB], worst = 0;
    int b, a, i, j;
    memset(sum, 0, sizeof sum);
    gauss(NB, node, weight);
    for (b = 0; b < NB; b++)
        for (a = 0; a < NA; a++) {
            const double angle = 2 * 3.14159265358979323846 * a / NA, s = sqrt(1 - node[b] * node[b]);
            double v[3];
            v[0] = s * sin(angle);
            v[1] = node[b];
            v[2] = s * cos(angle);
            one(ctx, v, &p, y, NULL);
            for (i = 0; i < MOST; i++)
                for (j = 0; j < MOST; j++) sum[i][j] += weight[b] * 2 * 3.14159265358979323846 / NA * y[i] * y[j];
        }
    for (i = 0; i < MOST; i++)
        for (j = 0; j < MOST; j++) worst = fmax(worst, fabs(sum[i][j] - (i == j)));
    T_CLOSE(worst, 0, 1e-13);
    t_close(ctx);
    T_PROOF("geometry 0", "Y is orthonormal on the grid to 1e-13");
}

/* Y(R v) = D Y(v), in double, and in float on each target */
static void test_turned(tiny_target target)
{
    static double d[SIDE * SIDE], y[MOST], turned[MOST];
    static float yf[2 * MOST];
    tiny_ctx *ctx = t_ctx(target, 1);
    const tgnn_sph_harm_params p = how(TGNN_L_MAX, TGNN_SH_COMPONENT, 0);
    float x[6];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(yf, TINY_F32, 2, MOST);
    int k, l, i, j;
    for (k = 0; k < 20; k++) {
        double r[9], v[3], w[3];
        T_OK(tgnn_rotation_random(ctx, 5, (uint64_t)k, r));
        for (i = 0; k & 1 && i < 9; i++) r[i] = -r[i];
        random_vector(v);
        for (i = 0; i < 3; i++) {
            w[i] = r[3 * i] * v[0] + r[3 * i + 1] * v[1] + r[3 * i + 2] * v[2];
            x[i] = (float)v[i];
            x[3 + i] = (float)w[i];
        }
        one(ctx, v, &p, y, NULL);
        one(ctx, w, &p, turned, NULL);
        T_OK(tgnn_sph_harm(ctx, &tx, &p, &ty));
        for (l = 0; l <= TGNN_L_MAX; l++) {
            T_OK(tgnn_wigner_d(ctx, l, r, d));
            for (i = 0; i < 2 * l + 1; i++) {
                double sum = 0, sum_f = 0;
                for (j = 0; j < 2 * l + 1; j++) {
                    sum += d[i * (2 * l + 1) + j] * y[l * l + j];
                    sum_f += d[i * (2 * l + 1) + j] * (double)yf[l * l + j];
                }
                T_CLOSE(sum, turned[l * l + i], 1e-12);
                T_CLOSE(sum_f, yf[MOST + l * l + i], 5e-5);
            }
        }
    }
    t_close(ctx);
    T_PROOF("geometry 0", "Y(R v) = D(R) Y(v), rotations and reflections, to degree 12");
}

/* by central differences in double, and Euler's rule: r . grad of a polynomial of degree l is l times it */
static void test_slopes(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static double y[MOST], s[3 * MOST], up[MOST], down[MOST];
    int k, form, j, l, m;
    for (k = 0; k < 12; k++)
        for (form = 0; form < 6; form++) {
            const tgnn_sph_harm_params p = how(TGNN_L_MAX, form % 3, form / 3);
            const double h = 1e-5;
            double v[3], w[3];
            random_vector(v);
            one(ctx, v, &p, y, s);
            one(ctx, v, &p, up, NULL);
            T_SAME(up, y, MOST);
            for (j = 0; j < 3; j++) {
                memcpy(w, v, sizeof w);
                w[j] = v[j] + h;
                one(ctx, w, &p, up, NULL);
                w[j] = v[j] - h;
                one(ctx, w, &p, down, NULL);
                for (l = 0; l < MOST; l++) T_CLOSE((up[l] - down[l]) / (2 * h), s[j * MOST + l], 2e-4);
            }
            for (l = 0; l <= TGNN_L_MAX; l++)
                for (m = l * l; m < (l + 1) * (l + 1); m++) {
                    double along = 0;
                    for (j = 0; j < 3; j++) along += v[j] * s[j * MOST + m];
                    T_CLOSE(along, p.solid ? l * y[m] : 0, 1e-12);
                }
        }
    t_close(ctx);
    T_PROOF("geometry 0", "gradients by finite differences");
}

/* the largest number of each degree, so that small ones do not hide behind those of others */
static void compare(const float *got, const double *want, int l_max, double units, double extra)
{
    int l, m;
    for (l = 0; l <= l_max; l++) {
        double most = 0;
        for (m = l * l; m < (l + 1) * (l + 1); m++) most = fmax(most, fabs(want[m]));
        for (m = l * l; m < (l + 1) * (l + 1); m++)
            T_CLOSE(got[m], want[m], units * (1 + l) * most * FLT_EPSILON / 2 + extra);
    }
}

/* values, slopes and forces of each target: lengths around the width, strides, odd addresses, walls */
static void test_fast(tiny_target target)
{
    static const int lengths[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130, 515 };
    static double y64[MOST], s64[3 * MOST];
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    int i, j, k;
    for (c = 0; c < T_COUNT(lengths) * 3; c++) {
        const int n = lengths[c % T_COUNT(lengths)], form = (int)(c / T_COUNT(lengths)), gap = form == 2;
        const int l_max = (int)(c * 5 % (TGNN_L_MAX + 1)), count = tgnn_sph_harm_count(l_max);
        const tgnn_sph_harm_params p = how(l_max, (int)(c % 3), form == 1);
        float *x = t_rand((size_t)n * 3, -2, 2), *y = t_guarded((size_t)(n * count)), *plain,
              *s = t_guarded((size_t)(n * count) * 3), *g = t_rand((size_t)(n * count), -1, 1),
              *dx = t_guarded((size_t)n * 3), *wide = t_guarded((size_t)(n * (2 * count + 3)));
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, 3), ty = tiny_tensor_2d(y, TINY_F32, n, count),
                    ts = tiny_tensor_3d(s, TINY_F32, n, 3, count), tg = tiny_tensor_2d(g, TINY_F32, n, count),
                    tdx = tiny_tensor_2d(dx, TINY_F32, n, 3), apart = ty;
        plain = t_guarded((size_t)(n * count));
        ty.data = plain;
        T_OK(tgnn_sph_harm(ctx, &tx, &p, &ty));
        T_RAN_ON(ctx, t_vectors(target));
        T_WALLS(plain, n * count);
        ty.data = y;
        T_OK(tgnn_sph_harm_slopes(ctx, &tx, &p, &ty, &ts));
        T_OK(tgnn_sph_harm_back(ctx, &tx, &tg, &p, &tdx));
        T_WALLS(y, n * count);
        T_WALLS(s, 3 * n * count);
        T_WALLS(dx, 3 * n);
        for (i = 0; i < n; i++) {
            double v[3], forces[3] = { 0, 0, 0 }, sizes[3] = { 0, 0, 0 };
            for (j = 0; j < 3; j++) v[j] = (double)x[3 * i + j];
            one(ctx, v, &p, y64, s64);
            compare(plain + i * count, y64, l_max, 16, 0);
            compare(y + i * count, y64, l_max, 16, 0);
            for (j = 0; j < 3; j++) {
                double most[3 * MOST];
                /* a component may be small where the others of that degree are not */
                for (k = 0; k < count; k++)
                    most[k] = fmax(fabs(s64[k]), fmax(fabs(s64[count + k]), fabs(s64[2 * count + k])));
                for (k = 0; k < count; k++) {
                    const int l = (int)sqrt((double)k);
                    double large = 0;
                    int m;
                    for (m = l * l; m < (l + 1) * (l + 1); m++) large = fmax(large, most[m]);
                    T_CLOSE(s[(i * 3 + j) * count + k], s64[j * count + k], 24 * (1 + l) * large * FLT_EPSILON / 2);
                    forces[j] += (double)g[i * count + k] * s64[j * count + k];
                    sizes[j] += fabs((double)g[i * count + k]) * large;
                }
                T_CLOSE(dx[3 * i + j], forces[j], 24 * (1 + l_max) * sizes[j] * FLT_EPSILON / 2);
            }
        }
        /* the same bits into rows with gaps, into columns, and from columns */
        apart.data = wide + 1;
        apart.stride[0] = 2 * count + 3;
        apart.stride[1] = gap ? 2 : 1;
        T_OK(tgnn_sph_harm(ctx, &tx, &p, &apart));
        for (i = 0; i < n; i++)
            for (k = 0; k < count; k++)
                T_SAME(&wide[1 + i * (2 * count + 3) + k * (gap ? 2 : 1)], &plain[i * count + k], 1);
        T_WALLS(wide, n * (2 * count + 3));
        if (n < 200) {
            float *turned = t_guarded((size_t)(n * count) * 3), *across = t_guarded((size_t)n * 3),
                  *again = t_guarded((size_t)n * 3);
            tiny_tensor tt = tiny_tensor_3d(turned, TINY_F32, 3, count, n), ta = tiny_tensor_2d(across, TINY_F32, 3, n),
                        tn = tiny_tensor_2d(again, TINY_F32, n, 3), tgc = tg;
            for (i = 0; i < n; i++)
                for (j = 0; j < 3; j++) across[j * n + i] = x[3 * i + j];
            tt = tiny_tensor_swap(tiny_tensor_swap(tt, 0, 2), 1, 2);
            ta = tiny_tensor_swap(ta, 0, 1);
            T_OK(tgnn_sph_harm_slopes(ctx, &ta, &p, &ty, &tt));
            for (i = 0; i < n; i++)
                for (j = 0; j < 3; j++)
                    for (k = 0; k < count; k++)
                        T_SAME(&turned[(j * count + k) * n + i], &s[(i * 3 + j) * count + k], 1);
            tgc.data = turned;
            tgc.stride[0] = 1;
            tgc.stride[1] = n;
            for (i = 0; i < n; i++)
                for (k = 0; k < count; k++) turned[k * n + i] = g[i * count + k];
            T_OK(tgnn_sph_harm_back(ctx, &ta, &tgc, &p, &tn));
            T_SAME(again, dx, 3 * n);
        }
        t_free_blocks();
    }
    t_close(ctx);
}

/* vectors of any length have a direction; NaN and infinity have none, and touch no other vector */
static void test_ends(tiny_target target)
{
    static const float ends[][3] = { { 0, 0, 0 },          { -0.0f, 0, 0 },       { 1e-45f, 0, 0 },
                                     { 0, 3e-39f, -4e-39f }, { 1e-30f, 2e-30f, 0 }, { 3e38f, -3e38f, 3e38f },
                                     { 0, 1e30f, 1 },      { 0, 1, 0 },           { 0, -1, 0 },
                                     { 1e-20f, 1, 1e-20f }, { INFINITY, 0, 0 },    { 1, -INFINITY, 1 },
                                     { NAN, 0, 0 },        { 0, NAN, 1 },         { 0, 0, -NAN },
                                     { 1, 2, 3 } };
    enum { N = (int)(sizeof ends / sizeof *ends), L = 5, COUNT = (L + 1) * (L + 1) };
    static float y[N * COUNT], s[3 * N * COUNT], again[COUNT];
    static double y64[COUNT], s64[3 * COUNT];
    tiny_ctx *ctx = t_ctx(target, 1);
    float x[N * 3], last[3] = { 1, 2, 3 };
    const tgnn_sph_harm_params p = how(L, TGNN_SH_COMPONENT, 0);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, 3), ty = tiny_tensor_2d(y, TINY_F32, N, COUNT),
                ts = tiny_tensor_3d(s, TINY_F32, N, 3, COUNT), tl = tiny_tensor_2d(last, TINY_F32, 1, 3),
                ta = tiny_tensor_2d(again, TINY_F32, 1, COUNT);
    int i, j, k;
    memcpy(x, ends, sizeof x);
    T_OK(tgnn_sph_harm_slopes(ctx, &tx, &p, &ty, &ts));
    for (i = 0; i < N; i++) {
        double v[3], length = 0;
        for (j = 0; j < 3; j++) v[j] = (double)x[3 * i + j];
        one(ctx, v, &p, y64, s64);
        length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (k = 0; k < COUNT; k++) {
            T_CLOSE(y[i * COUNT + k], y64[k], 1e-5);
            T_TRUE(k == 0 || length - length == 0 ? y[i * COUNT + k] == y[i * COUNT + k]
                                                  : y[i * COUNT + k] != y[i * COUNT + k]);
            for (j = 0; j < 3; j++) {
                const float got = s[(i * 3 + j) * COUNT + k];
                if (length - length != 0) T_TRUE(k == 0 ? got == 0 : got != got);
                else if (length == 0 || k == 0) T_TRUE(got == 0);
                else if (fabs(s64[j * COUNT + k]) < 3e38)
                    T_CLOSE(got * fmax(length, 1.2e-38), s64[j * COUNT + k] * fmax(length, 1.2e-38), 1e-4);
                else T_TRUE(fabs((double)got) > 3e38);
            }
        }
    }
    T_OK(tgnn_sph_harm(ctx, &tl, &p, &ta));
    T_SAME(again, y + (N - 1) * COUNT, COUNT);
    tx.dim[0] = ty.dim[0] = ts.dim[0] = 0;  /* no vectors */
    T_OK(tgnn_sph_harm_slopes(ctx, &tx, &p, &ty, &ts));
    T_OK(tgnn_sph_harm(ctx, &tx, &p, &ty));
    ty.dim[1] = 1;
    T_OK(tgnn_sph_harm(ctx, &tx, NULL, &ty));                   /* degree 0 */
    t_close(ctx);
    T_PROOF("geometry 0", "bad input: NaN vectors, the zero vector");
}

/* the same bits for any number of threads and any place in the batch, and past the caches */
static void test_threads(tiny_target target)
{
    enum { N = 180000, L = 6, COUNT = 49, PIECE = 1001 };
    const tgnn_sph_harm_params p = how(L, TGNN_SH_COMPONENT, 0);
    float *x = t_rand(3 * N, -1, 1), *want = t_guarded((size_t)N * COUNT), *got;
    float *room = (float *)t_guarded_bytes((size_t)N * COUNT * 4 + 64);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, 3), ty = tiny_tensor_2d(want, TINY_F32, N, COUNT), part, to;
    tiny_ctx *ctx = t_ctx(target, 1);
    int i, n;
    got = (float *)(void *)((unsigned char *)room + (64 - (uintptr_t)room % 64) % 64);    /* rows on lines: past */
    for (i = 0; i < N; i += PIECE) {        /* pieces of 2 MB are not */
        part = tx;
        to = ty;
        part.data = x + 3 * i;
        to.data = want + COUNT * i;
        part.dim[0] = to.dim[0] = N - i < PIECE ? N - i : PIECE;
        T_OK(tgnn_sph_harm(ctx, &part, &p, &to));
    }
    t_close(ctx);
    for (n = 1; n <= 3; n++) {
        ctx = t_ctx(target, n);
        ty.data = got;
        memset(got, 0, (size_t)N * COUNT * 4);
        T_OK(tgnn_sph_harm(ctx, &tx, &p, &ty));
        T_SAME(got, want, (size_t)N * COUNT);
        t_close(ctx);
    }
    T_PROOF("geometry 0", "harmonics: the same bits for 1 to 3 threads and any batch");
}

/* the tape: sum of g y has the gradient that sph_harm_back gives */
static void test_tape(void)
{
#if defined TINY_NO_TRAIN
    T_SKIP("no tape in this program");
#else
    enum { N = 21, L = 4, COUNT = 25 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_sph_harm_params p = how(L, TGNN_SH_NORM, 0);
    float *x = t_rand(N * 3, -1, 1), *g = t_rand(N * COUNT, -1, 1), grad[N * 3], want[N * 3];
    tiny_tensor tg = tiny_tensor_2d(g, TINY_F32, N, COUNT), tw = tiny_tensor_2d(want, TINY_F32, N, 3), loss;
    tiny_param param;
    tiny_tape_desc d;
    tiny_tape *tape;
    int i;
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 20;
    memset(&param, 0, sizeof param);
    param.value = tiny_tensor_2d(x, TINY_F32, N, 3);
    param.grad = tiny_tensor_2d(grad, TINY_F32, N, 3);
    T_OK(tiny_tape_open(ctx, &d, &tape));
    T_OK(tiny_tape_param(tape, &param));
    loss = tiny_tape_call(tape, TGNN_OP_SPH_HARM, &param.value, NULL, NULL, NULL, &p);
    loss = tiny_tape_mul(tape, &loss, &tg);
    loss = tiny_tape_mean(tape, &loss);
    tiny_tape_zero(tape);
    T_OK(tiny_tape_backward(tape, &loss, NULL));
    T_OK(tgnn_sph_harm_back(ctx, &param.value, &tg, &p, &tw));
    for (i = 0; i < 3 * N; i++) T_CLOSE(grad[i], want[i] / (N * COUNT), 1e-8);
    tiny_tape_close(tape);
    t_close(ctx);
#endif
}

/* the reference gives the same bits on every machine: FNV-1a over its floats, byte by byte from the lowest */
static void test_bits(void)
{
    enum { N = 40 };
    static float y[N * MOST], s[3 * N * MOST];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    const tgnn_sph_harm_params p = how(TGNN_L_MAX, TGNN_SH_NORM, 0);
    float *x = t_rand(3 * N, -1, 1);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, 3), ty = tiny_tensor_2d(y, TINY_F32, N, MOST),
                ts = tiny_tensor_3d(s, TINY_F32, N, 3, MOST);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    int i, k;
    T_OK(tgnn_sph_harm_slopes(ctx, &tx, &p, &ty, &ts));
    for (i = 0; i < 4 * N * MOST; i++) {
        uint32_t u;
        memcpy(&u, i < N * MOST ? &y[i] : &s[i - N * MOST], 4);
        for (k = 0; k < 4; k++) hash = (hash ^ (u >> 8 * k & 255)) * UINT64_C(0x100000001b3);
    }
    if (!T_TRUE(hash == UINT64_C(0x2ebdfb121e748da6))) printf("the hash is %016" PRIx64 "\n", hash);
    t_close(ctx);
}

static void test_conformance(tiny_target target)
{
    t_conform(target, tgnn_sph_harm_row(), T_SLOW ? 10 : 80);
    t_conform(target, tgnn_sph_harm_slopes_row(), T_SLOW ? 10 : 80);
    t_conform(target, tgnn_sph_harm_back_row(), T_SLOW ? 10 : 80);
}

static void test_bad(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float x[6] = { 1, 2, 3, 4, 5, 6 }, y[3 * 16];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(y, TINY_F32, 2, 4),
                ts = tiny_tensor_3d(y, TINY_F32, 2, 3, 4), tdx = tiny_tensor_2d(y, TINY_F32, 2, 3), flat = tx;
    tgnn_sph_harm_params p = how(1, 0, 0);
    T_EQ_INT(tgnn_sph_harm_count(3), 16);
    T_EQ_INT(tgnn_sph_harm_count(12), 169);
    T_EQ_INT(tgnn_sph_harm_count(13), 0);
    T_EQ_INT(tgnn_sph_harm_count(-1), 0);
    T_OK(tgnn_sph_harm(ctx, &tx, &p, &ty));
    p.l_max = 13;
    T_STATUS(tgnn_sph_harm(ctx, &tx, &p, &ty), TINY_E_ARGUMENT, "degree 13, it must be 0 to 12");
    p.l_max = -1;
    T_STATUS(tgnn_sph_harm_slopes(ctx, &tx, &p, &ty, &ts), TINY_E_ARGUMENT, "degree -1");
    T_STATUS(tgnn_sph_harm_back(ctx, &tx, &ty, &p, &tdx), TINY_E_ARGUMENT, "degree -1");
    p.l_max = 1;
    p.norm = 3;
    T_STATUS(tgnn_sph_harm(ctx, &tx, &p, &ty), TINY_E_ARGUMENT, "norm 3, it must be 0 to 2");
    p.norm = 0;
    flat.rank = 1;
    flat.dim[0] = 6;
    flat.stride[0] = 1;
    T_STATUS(tgnn_sph_harm(ctx, &flat, &p, &ty), TINY_E_SHAPE, "it must be n x 3");
    flat = tx;
    flat.dtype = TINY_I32;
    T_STATUS(tgnn_sph_harm(ctx, &flat, &p, &ty), TINY_E_SHAPE, "2x3 i32, it must be n x 3 f32 or f64");
    ty.dim[1] = 3;
    T_STATUS(tgnn_sph_harm(ctx, &tx, &p, &ty), TINY_E_SHAPE, NULL);
    T_STATUS(tgnn_sph_harm_back(ctx, &tx, &ty, &p, &tdx), TINY_E_SHAPE, "g is 2x3 f32, it must be 2 x 4 f32");
    ty.dim[1] = 4;
    T_STATUS(tgnn_sph_harm(ctx, NULL, &p, &ty), TINY_E_ARGUMENT, NULL);
    T_STATUS(tgnn_sph_harm(ctx, &tx, &p, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tgnn_sph_harm_slopes(ctx, &tx, &p, &ty, NULL), TINY_E_ARGUMENT, NULL);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_recorded);
    T_RUN_FORMS(test_worked);
    T_RUN(test_orthonormal);
    T_RUN_FORMS(test_turned);
    T_RUN(test_slopes);
    T_RUN_TARGETS(test_fast);
    T_RUN_FORMS(test_ends);
    T_RUN_TARGETS(test_threads);
    T_RUN(test_tape);
    T_RUN(test_bits);
    T_RUN_TARGETS(test_conformance);
    T_RUN_FORMS(test_bad);
    return t_done();
}
