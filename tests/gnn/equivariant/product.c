/* tests/gnn/equivariant/product.c - products of features: the ways to one product agree, worked numbers, gamma as an
 * integral, equivariance of every kind, gradients by differences, what products express, bad input */
#define T_GNN
#include "t.h"

enum { SIDE = 2 * TGNN_L_MAX + 1 };

static tgnn_product_desc of(int kind, int l1, int l2, int l3)
{
    tgnn_product_desc d;
    memset(&d, 0, sizeof d);
    d.kind = kind;
    d.l1 = l1;
    d.l2 = l2;
    d.l3 = l3;
    return d;
}

static tgnn_product *open_plan(tiny_ctx *ctx, const tgnn_product_desc *d)
{
    tgnn_product *p = NULL;
    T_OK(tgnn_product_open(ctx, d, &p));
    return p;
}

/* n lanes in double */
static void run64(tiny_ctx *ctx, const tgnn_product *p, int n, double *x, double *y, double *w, double *out)
{
    const tiny_tensor tx = tiny_tensor_3d(x, TINY_F64, n, 1, tgnn_product_dim(p, TGNN_PRODUCT_X)),
                      ty = tiny_tensor_3d(y, TINY_F64, n, 1, tgnn_product_dim(p, TGNN_PRODUCT_Y)),
                      tw = tiny_tensor_3d(w, TINY_F64, n, 1, tgnn_product_dim(p, TGNN_PRODUCT_W)),
                      to = tiny_tensor_3d(out, TINY_F64, n, 1, tgnn_product_dim(p, TGNN_PRODUCT_OUT));
    T_OK(tgnn_product_run(ctx, p, &tx, &ty, w ? &tw : NULL, &to));
}

static double *random64(size_t n)
{
    double *x = (double *)t_keep(n * sizeof *x);
    size_t i;
    for (i = 0; i < n; i++) x[i] = (double)t_rand_float(-1, 1);
    return x;
}

static float *narrow(const double *x, size_t n)
{
    float *y = (float *)t_keep(n * sizeof *y);
    size_t i;
    for (i = 0; i < n; i++) y[i] = (float)x[i];
    return y;
}

/* ---- the ways to the same numbers: in double by the reference, in float on each target */

static void agree(tiny_ctx *ctx, tiny_target target, const tgnn_product_desc *a, const tgnn_product_desc *b)
{
    enum { N = 37 };
    tgnn_product *p = open_plan(ctx, a), *q = open_plan(ctx, b);
    const size_t d1 = (size_t)tgnn_product_dim(p, TGNN_PRODUCT_X), d2 = (size_t)tgnn_product_dim(p, TGNN_PRODUCT_Y),
                 d3 = (size_t)tgnn_product_dim(p, TGNN_PRODUCT_OUT), dw = (size_t)tgnn_product_dim(p, TGNN_PRODUCT_W);
    double *x = random64(N * d1), *y = random64(N * d2), *w = random64(N * dw + 1),
           *one = (double *)t_keep(N * d3 * sizeof(double)), *two = (double *)t_keep(N * d3 * sizeof(double)), size = 0;
    float *f1 = t_guarded(N * d3), *f2 = t_guarded(N * d3);
    const tiny_tensor tx = tiny_tensor_3d(narrow(x, N * d1), TINY_F32, 1, N, (tiny_idx)d1),
                      ty = tiny_tensor_3d(narrow(y, N * d2), TINY_F32, 1, N, (tiny_idx)d2),
                      tw = tiny_tensor_3d(narrow(w, N * dw), TINY_F32, 1, N, (tiny_idx)dw),
                      t1 = tiny_tensor_3d(f1, TINY_F32, 1, N, (tiny_idx)d3),
                      t2 = tiny_tensor_3d(f2, TINY_F32, 1, N, (tiny_idx)d3);
    size_t i;
    T_TRUE(tgnn_product_kind(p) == a->kind && tgnn_product_kind(q) == b->kind);
    run64(ctx, p, N, x, y, dw ? w : NULL, one);
    run64(ctx, q, N, x, y, dw ? w : NULL, two);
    for (i = 0; i < N * d3; i++) size = fmax(size, fabs(one[i]));
    for (i = 0; i < N * d3; i++) T_CLOSE(two[i], one[i], 1e-12);
    T_OK(tgnn_product_run(ctx, p, &tx, &ty, dw ? &tw : NULL, &t1));
    if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));
    T_OK(tgnn_product_run(ctx, q, &tx, &ty, dw ? &tw : NULL, &t2));
    T_WALLS(f1, N * d3);
    T_WALLS(f2, N * d3);
    for (i = 0; i < N * d3; i++) T_CLOSE(f1[i], one[i], 1e-5);
    for (i = 0; i < N * d3; i++) T_CLOSE(f2[i], one[i], 1e-5);
    T_TRUE(size > 0.1);
    tgnn_product_close(ctx, p);
    tgnn_product_close(ctx, q);
    t_free_blocks();
}

static void test_ways(tiny_target target)
{
    static const int l[][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 1, 1, 2 }, { 2, 1, 3 }, { 2, 2, 2 },
                                { 3, 2, 5 }, { 4, 4, 4 }, { 2, 4, 1 }, { 5, 3, 8 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i;
    for (i = 0; i < T_COUNT(l); i++) {
        tgnn_product_desc a = of(TGNN_PRODUCT_GAUNT_LIST, l[i][0], l[i][1], l[i][2]), b = a;
        b.kind = TGNN_PRODUCT_GAUNT_GRID;
        agree(ctx, target, &a, &b);
        b.n_polar = 12;                     /* a finer grid gives the same */
        b.n_azimuth = 25;
        agree(ctx, target, &a, &b);
        b = a;
        b.kind = TGNN_PRODUCT_GAUNT_FOURIER;
        agree(ctx, target, &a, &b);
        a = of(TGNN_PRODUCT_CG_DENSE, l[i][0], l[i][1], l[i][2]);
        a.norm = (int)(i % 3);
        a.even = i % 2;
        a.apart = i % 4 == 1;
        a.weighted = i % 3 == 2;
        b = a;
        b.kind = TGNN_PRODUCT_CG_SPARSE;
        agree(ctx, target, &a, &b);
    }
    t_close(ctx);
    T_PROOF("geometry 1", "the ways to Gaunt's product agree: 1e-12 in double, 1e-5 in float");
    T_PROOF("geometry 1", "Clebsch-Gordan: dense = sparse");
}

/* ---- numbers worked by hand and with other programs */

static void test_worked(tiny_target target)
{
    static const float want[9] = { 1.692569f, 0, 0, 0, -.218510f, -.327765f, -.378470f, 1.201803f, 1.529568f };
    static const int kinds[] = { TGNN_PRODUCT_GAUNT_LIST, TGNN_PRODUCT_GAUNT_GRID, TGNN_PRODUCT_GAUNT_FOURIER };
    tiny_ctx *ctx = t_ctx(target, 1);
    float x[4] = { 0, 1, 2, 3 }, y[4] = { 0, -1, .5f, 2 }, out[9];
    const tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 1, 1, 4), ty = tiny_tensor_3d(y, TINY_F32, 1, 1, 4);
    size_t i;
    int k;
    for (i = 0; i < T_COUNT(kinds); i++) {
        const tgnn_product_desc d = of(kinds[i], 1, 1, 2);
        const tiny_tensor to = tiny_tensor_3d(out, TINY_F32, 1, 1, 9);
        tgnn_product *p = open_plan(ctx, &d);
        T_OK(tgnn_product_run(ctx, p, &tx, &ty, NULL, &to));
        for (k = 0; k < 9; k++) T_CLOSE(out[k], want[k], 2e-6);
        for (k = 1; k < 4 && kinds[i] == TGNN_PRODUCT_GAUNT_LIST; k++) T_TRUE(out[k] == 0);
        T_CLOSE(out[0], 6 / sqrt(4 * 3.14159265358979), 1e-6);      /* gamma / sqrt3 times the dot product */
        tgnn_product_close(ctx, p);
    }
    {                                       /* the path (1, 1, 1) is the cross product over sqrt6: (2.5, -5, 2.5) */
        tgnn_product_desc d = of(TGNN_PRODUCT_CG, 1, 1, 1);
        const tiny_tensor to = tiny_tensor_3d(out, TINY_F32, 1, 1, 4);
        tgnn_product *p = open_plan(ctx, &d);
        T_OK(tgnn_product_run(ctx, p, &tx, &ty, NULL, &to));
        T_CLOSE(out[0], 6 / sqrt(3), 2e-6);
        T_CLOSE(out[1], 2.5 / sqrt(6), 2e-6);
        T_CLOSE(out[2], -5 / sqrt(6), 2e-6);
        T_CLOSE(out[3], 2.5 / sqrt(6), 2e-6);
        tgnn_product_close(ctx, p);
    }
    t_close(ctx);
    T_PROOF("geometry 1", "worked numbers of L = 1: the scalar, no vector part, degree 2");
}

/* gamma of some triples: the Gaunt product over the Clebsch-Gordan one. The numbers are those of the specification. */
static void test_gamma(void)
{
    static const struct { int l[3]; double v; } gamma[] = { { { 0, 0, 0 }, .282095 }, { { 1, 1, 0 }, .488603 },
                                                             { { 1, 1, 2 }, .690988 }, { { 1, 2, 3 }, .846284 },
                                                             { { 2, 2, 2 }, .753930 }, { { 2, 2, 4 }, 1.011503 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    size_t g;
    int i, k;
    for (g = 0; g < T_COUNT(gamma); g++) {
        const int *l = gamma[g].l;
        tgnn_product_desc a = of(TGNN_PRODUCT_CG_SPARSE, l[0], l[1], l[2]), b = a;
        double x[25] = { 0 }, y[25] = { 0 }, cg[25], gaunt[25], most = 0;
        tgnn_product *p = open_plan(ctx, &a), *q;
        b.kind = TGNN_PRODUCT_GAUNT_GRID;
        q = open_plan(ctx, &b);
        for (i = 0; i < 2 * l[0] + 1; i++) x[l[0] * l[0] + i] = (double)t_rand_float(-1, 1);
        for (i = 0; i < 2 * l[1] + 1; i++) y[l[1] * l[1] + i] = (double)t_rand_float(-1, 1);
        run64(ctx, p, 1, x, y, NULL, cg);
        run64(ctx, q, 1, x, y, NULL, gaunt);
        for (k = l[2] * l[2]; k < (l[2] + 1) * (l[2] + 1); k++) {
            most = fmax(most, fabs(cg[k]));
            T_CLOSE(gaunt[k], gamma[g].v * cg[k], 1e-6);
        }
        T_TRUE(most > 0.01);
        tgnn_product_close(ctx, p);
        tgnn_product_close(ctx, q);
    }
    t_close(ctx);
    T_PROOF("geometry 1", "gamma: the integral over the grid is gamma times the coupling");
}

/* The product at a point: sum out_k Y_k(r) = (sum x_i Y_i(r)) (sum y_j Y_j(r)) where l3 = l1 + l2. Harmonics are those
 * of tgnn_sph_harm, recorded from e3nn in the tests there. */
static void test_pointwise(void)
{
    enum { L1 = 3, L2 = 4, L3 = 7 };
    static const int kinds[] = { TGNN_PRODUCT_GAUNT_LIST, TGNN_PRODUCT_GAUNT_GRID, TGNN_PRODUCT_GAUNT_FOURIER };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_sph_harm_params harm;
    size_t kind;
    int i, k;
    memset(&harm, 0, sizeof harm);
    harm.l_max = L3;
    harm.norm = TGNN_SH_INTEGRAL;
    for (kind = 0; kind < T_COUNT(kinds); kind++) {
        const tgnn_product_desc d = of(kinds[kind], L1, L2, L3);
        double *x = random64((L1 + 1) * (L1 + 1)), *y = random64((L2 + 1) * (L2 + 1)), out[64];
        tgnn_product *p = open_plan(ctx, &d);
        run64(ctx, p, 1, x, y, NULL, out);
        for (k = 0; k < 10; k++) {
            double v[3], h[64], fx = 0, fy = 0, f = 0;
            tiny_tensor tv = tiny_tensor_2d(v, TINY_F64, 1, 3), th = tiny_tensor_2d(h, TINY_F64, 1, 64);
            for (i = 0; i < 3; i++) v[i] = (double)t_rand_float(-1, 1);
            T_OK(tgnn_sph_harm(ctx, &tv, &harm, &th));
            for (i = 0; i < (L1 + 1) * (L1 + 1); i++) fx += x[i] * h[i];
            for (i = 0; i < (L2 + 1) * (L2 + 1); i++) fy += y[i] * h[i];
            for (i = 0; i < (L3 + 1) * (L3 + 1); i++) f += out[i] * h[i];
            T_CLOSE(f, fx * fy, 1e-12);
        }
        tgnn_product_close(ctx, p);
    }
    t_close(ctx);
    T_PROOF("geometry 1", "Gaunt's product is the product of the functions at each point");
}

/* ---- equivariance: every kind goes through this one test */

/* blocks of degrees l[i], each multiplied by D of r and by sign[i] */
static void turn(tiny_ctx *ctx, const int *l, const double *sign, int n, const double *r, const double *from,
                 double *to)
{
    static double d[SIDE * SIDE];
    int i, a, b, at = 0;
    for (i = 0; i < n; at += 2 * l[i] + 1, i++) {
        const int side = 2 * l[i] + 1;
        T_OK(tgnn_wigner_d(ctx, l[i], r, d));
        for (a = 0; a < side; a++) {
            double sum = 0;
            for (b = 0; b < side; b++) sum += d[a * side + b] * from[at + b];
            to[at + a] = (sign ? sign[i] : 1) * sum;
        }
    }
}

/* degrees 0 .. l of c channels, or one for each path */
static void turn_all(tiny_ctx *ctx, const int *l, const double *sign, int n, int c, tiny_idx d, const double *r,
                     const double *from, double *to)
{
    int u;
    for (u = 0; u < c; u++) turn(ctx, l, sign, n, r, from + u * d, to + u * d);
}

/* with `channels`, one y for all channels of x */
static void equivariant(tiny_ctx *ctx, const tgnn_product_desc *d)
{
    static int l1[400], l2[400], l3[400];
    static double sign[400];
    tgnn_product *p = open_plan(ctx, d);
    const tiny_idx d1 = tgnn_product_dim(p, TGNN_PRODUCT_X), d2 = tgnn_product_dim(p, TGNN_PRODUCT_Y),
                   d3 = tgnn_product_dim(p, TGNN_PRODUCT_OUT), dw = tgnn_product_dim(p, TGNN_PRODUCT_W);
    const int c = d->channels > 1 ? d->channels : 1;
    /* a matrix product, and paths that are summed, mix both parities: their features are even, and a reflection acts
     * as the rotation in it */
    const int mixed = d->kind == TGNN_PRODUCT_MATRIX || d->kind == TGNN_PRODUCT_CP ||
                      (d->kind == TGNN_PRODUCT_FOLD && !d->even);
    double *x = random64((size_t)(c * d1)), *y = random64((size_t)d2), *w = random64((size_t)(c * dw) + 1),
           *tx = random64((size_t)(c * d1)), *ty = random64((size_t)d2), *out = random64((size_t)(c * d3)),
           *turned = random64((size_t)(c * d3)), *want = random64((size_t)(c * d3)), most = 0;
    float *fo = t_guarded((size_t)(c * d3)), *fw = narrow(w, (size_t)(c * dw));
    int n3 = 0, i, k, path[3];
    for (i = 0; i <= d->l1; i++) l1[i] = i;
    for (i = 0; i <= d->l2; i++) l2[i] = i;
    if (d->apart)
        for (; tgnn_product_path(p, n3, path); n3++) {
            l3[n3] = path[2];
            sign[n3] = (path[0] + path[1] + path[2]) & 1 ? -1 : 1;     /* (-1)^(l1 + l2) and not (-1)^l3 */
        }
    else
        for (; n3 <= d->l3; n3++) {
            l3[n3] = n3;
            sign[n3] = d->kind == TGNN_PRODUCT_VECTOR ? -1 : 1;        /* pseudo-tensors */
        }
    for (k = 0; k < 6; k++) {
        const int mirror = k & 1 && !mixed;
        double r[9];
        T_OK(tgnn_rotation_random(ctx, 11, (uint64_t)k, r));
        for (i = 0; mirror && i < 9; i++) r[i] = -r[i];
        turn_all(ctx, l1, NULL, d->l1 + 1, c, d1, r, x, tx);
        turn(ctx, l2, NULL, d->l2 + 1, r, y, ty);
        {
            const tiny_tensor a = tiny_tensor_3d(x, TINY_F64, 1, c, d1), b = tiny_tensor_3d(y, TINY_F64, 1, 1, d2),
                              ta = tiny_tensor_3d(tx, TINY_F64, 1, c, d1), tb = tiny_tensor_3d(ty, TINY_F64, 1, 1, d2),
                              by = tiny_tensor_3d(w, TINY_F64, 1, c, dw), to = tiny_tensor_3d(out, TINY_F64, 1, c, d3),
                              tt = tiny_tensor_3d(turned, TINY_F64, 1, c, d3);
            T_OK(tgnn_product_run(ctx, p, &a, &b, d->weighted ? &by : NULL, &to));
            T_OK(tgnn_product_run(ctx, p, &ta, &tb, d->weighted ? &by : NULL, &tt));
        }
        turn_all(ctx, l3, mirror ? sign : NULL, n3, c, d3, r, out, want);
        for (i = 0; i < c * d3; i++) T_CLOSE(turned[i], want[i], 1e-12);
        {
            const tiny_tensor a = tiny_tensor_3d(narrow(tx, (size_t)(c * d1)), TINY_F32, 1, c, d1),
                              b = tiny_tensor_3d(narrow(ty, (size_t)d2), TINY_F32, 1, 1, d2),
                              by = tiny_tensor_3d(fw, TINY_F32, 1, c, dw), to = tiny_tensor_3d(fo, TINY_F32, 1, c, d3);
            T_OK(tgnn_product_run(ctx, p, &a, &b, d->weighted ? &by : NULL, &to));
            T_WALLS(fo, c * d3);
            for (i = 0; i < c * d3; i++) T_CLOSE(fo[i], want[i], 1e-5);
        }
    }
    for (i = 0; i < d3; i++) most = fmax(most, fabs(out[i]));
    T_TRUE(most > 0.005);
    tgnn_product_close(ctx, p);
    t_free_blocks();
}

/* exact factors: any rank below these is equivariant up to its bound alone, which cp.c tests */
static void equivariant_factors(tiny_ctx *ctx)
{
    int l, wide;
    for (l = 1; l <= 2; l++)
        for (wide = 0; wide < 2; wide++) {
            tgnn_product_desc d = of(TGNN_PRODUCT_CP, l, l, l);
            tgnn_cp_desc cd;
            tgnn_cp *cp = NULL;
            memset(&cd, 0, sizeof cd);
            cd.l = l;
            cd.rank = tgnn_cp_rank(l, TGNN_CP_EXACT);
            if (!T_OK(tgnn_cp_fit(ctx, &cd, &cp))) return;
            d.cp = cp;
            d.channels = wide ? 7 : 0;
            d.weighted = d.shared = wide;
            equivariant(ctx, &d);
            tgnn_cp_close(ctx, cp);
        }
}

/* a plan for irreps: "2x0e+3x1o+1x2e" each block by its own degree and parity */
static void equivariant_paths(tiny_ctx *ctx)
{
    static const char *const text[3] = { "2x0e+3x1o+1x2e+2x1e", "1x0e+1x1o+2x2e", "2x0e+2x0o+3x1o+2x1e+1x2o+2x3o" };
    tgnn_irrep list[3][8];
    int l[3][20], n[3], blocks[3], i, j, k, side;
    double parity[3][20], *in[3], *out[3], w[400];
    tgnn_paths_desc d;
    tgnn_product *p = NULL;
    tiny_tensor t[3], tw;
    memset(&d, 0, sizeof d);
    for (side = 0; side < 3; side++) {
        T_OK(tgnn_irreps_parse(ctx, text[side], list[side], 8, &n[side]));
        for (i = 0, blocks[side] = 0; i < n[side]; i++)
            for (j = 0; j < list[side][i].mul; j++) {
                l[side][blocks[side]] = list[side][i].l;
                /* D has (-1)^l */
                parity[side][blocks[side]++] = list[side][i].parity * (list[side][i].l & 1 ? -1 : 1);
            }
    }
    d.in1 = list[0];
    d.n_in1 = n[0];
    d.in2 = list[1];
    d.n_in2 = n[1];
    d.out = list[2];
    d.n_out = n[2];
    if (!T_OK(tgnn_paths_open(ctx, &d, &p))) return;
    T_TRUE(tgnn_product_dim(p, TGNN_PRODUCT_W) <= 400);
    for (i = 0; i < 400; i++) w[i] = (double)t_rand_float(-1, 1);
    for (side = 0; side < 3; side++) {
        const tiny_idx dim = tgnn_product_dim(p, side == 2 ? TGNN_PRODUCT_OUT : side);
        in[side] = random64((size_t)dim);
        out[side] = random64((size_t)dim);
        t[side] = tiny_tensor_2d(in[side], TINY_F64, 1, dim);
    }
    tw = tiny_tensor_2d(w, TINY_F64, 1, tgnn_product_dim(p, TGNN_PRODUCT_W));
    T_OK(tgnn_paths_run(ctx, p, &t[0], &t[1], &tw, &t[2]));
    for (k = 0; k < 6; k++) {
        double r[9], *want = random64((size_t)t[2].dim[1]);
        tiny_tensor a = t[0], b = t[1], c = t[2];
        T_OK(tgnn_rotation_random(ctx, 12, (uint64_t)k, r));
        for (i = 0; k & 1 && i < 9; i++) r[i] = -r[i];
        for (side = 0; side < 3; side++)
            turn(ctx, l[side], k & 1 ? parity[side] : NULL, blocks[side], r, in[side], side == 2 ? want : out[side]);
        a.data = out[0];
        b.data = out[1];
        c.data = out[2];
        T_OK(tgnn_paths_run(ctx, p, &a, &b, &tw, &c));
        for (i = 0; i < c.dim[1]; i++) T_CLOSE(out[2][i], want[i], 1e-12);
    }
    tgnn_product_close(ctx, p);
    t_free_blocks();
}

static void test_equivariance(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_product_desc d;
    int kind;
    for (kind = 0; kind < TGNN_PRODUCT_CP; kind++) {
        d = of(kind, 2, 3, 4);
        d.even = kind == TGNN_PRODUCT_FOLD;
        if (kind <= TGNN_PRODUCT_CG_SPARSE) {
            d.apart = 1;
            equivariant(ctx, &d);
            d.apart = 0;                    /* sums of paths of one parity, with weights */
            d.even = d.weighted = 1;
            d.norm = TGNN_PRODUCT_COMPONENT;
        }
        equivariant(ctx, &d);
        d.channels = 7;                     /* one y for all: for FOLD another kernel */
        d.l1 = 3;
        d.l2 = 1;
        d.l3 = 2;
        equivariant(ctx, &d);
        if (kind < TGNN_PRODUCT_FOLD) continue;
        d.even = 0;                         /* both parities, and one weight a channel */
        d.weighted = d.shared = 1;
        d.norm = TGNN_PRODUCT_NORM;
        equivariant(ctx, &d);
    }
    equivariant_factors(ctx);
    equivariant_paths(ctx);
    t_close(ctx);
    T_PROOF("geometry 1", "parity: each path has the sign (-1)^(l1 + l2) in a reflection");
    T_PROOF("geometry 1", "every kind is equivariant under rotations and reflections: 1e-12, in float 1e-5");
}

/* ---- gradients: by differences in double; the same program on each target in float */

static void test_gradients(tiny_target target)
{
    static const int kinds[] = { TGNN_PRODUCT_CG_DENSE, TGNN_PRODUCT_CG_SPARSE, TGNN_PRODUCT_GAUNT_LIST,
                                 TGNN_PRODUCT_GAUNT_FOURIER, TGNN_PRODUCT_GAUNT_GRID, TGNN_PRODUCT_VECTOR,
                                 TGNN_PRODUCT_MATRIX };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t kind;
    int which, i, k;
    for (kind = 0; kind < T_COUNT(kinds) * 2; kind++) {
        tgnn_product_desc d = of(kinds[kind / 2], 2, 1, 2);
        tgnn_product *p;
        double *in[3], *g, *grad[3], *out;
        float *f[3];
        tiny_tensor t[3], tg, td[3], fd[3], fin[3], fg;
        tiny_idx dim[4];
        if (kind & 1) {                     /* weights are for couplings */
            if (kinds[kind / 2] > TGNN_PRODUCT_CG_SPARSE) continue;
            d.weighted = 1;
            d.apart = kinds[kind / 2] == TGNN_PRODUCT_CG_DENSE;
        }
        p = open_plan(ctx, &d);
        for (i = 0; i < 4; i++) dim[i] = tgnn_product_dim(p, i);
        out = random64((size_t)dim[TGNN_PRODUCT_OUT]);
        g = random64((size_t)dim[TGNN_PRODUCT_OUT]);
        tg = tiny_tensor_3d(g, TINY_F64, 1, 1, dim[TGNN_PRODUCT_OUT]);
        fg = tiny_tensor_3d(narrow(g, (size_t)dim[TGNN_PRODUCT_OUT]), TINY_F32, 1, 1, dim[TGNN_PRODUCT_OUT]);
        for (i = 0; i < 3; i++) {
            in[i] = random64((size_t)dim[i] + 1);
            grad[i] = random64((size_t)dim[i] + 1);
            f[i] = t_guarded((size_t)dim[i]);
            t[i] = tiny_tensor_3d(in[i], TINY_F64, 1, 1, dim[i]);
            td[i] = tiny_tensor_3d(grad[i], TINY_F64, 1, 1, dim[i]);
            fd[i] = tiny_tensor_3d(f[i], TINY_F32, 1, 1, dim[i]);
            fin[i] = tiny_tensor_3d(narrow(in[i], (size_t)dim[i]), TINY_F32, 1, 1, dim[i]);
        }
        T_OK(tgnn_product_back(ctx, p, &t[0], &t[1], dim[2] ? &t[2] : NULL, &tg, &td[0], &td[1],
                               dim[2] ? &td[2] : NULL));
        T_OK(tgnn_product_back(ctx, p, &fin[0], &fin[1], dim[2] ? &fin[2] : NULL, &fg, &fd[0], &fd[1],
                               dim[2] ? &fd[2] : NULL));
        T_RAN_ON(ctx, t_vectors(target));
        for (which = 0; which < 3; which++) {
            T_WALLS(f[which], dim[which]);
            for (i = 0; i < dim[which]; i++) {
                double kept = in[which][i], sum = 0;
                for (k = -1; k <= 1; k += 2) {
                    int j;
                    in[which][i] = kept + 1e-3 * k;         /* linear in each: the difference is exact */
                    run64(ctx, p, 1, in[0], in[1], dim[2] ? in[2] : NULL, out);
                    for (j = 0; j < dim[TGNN_PRODUCT_OUT]; j++) sum += k * g[j] * out[j];
                }
                in[which][i] = kept;
                T_CLOSE(grad[which][i], sum / 2e-3, 1e-10);
                T_CLOSE(f[which][i], grad[which][i], 1e-5);
            }
        }
        tgnn_product_close(ctx, p);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("geometry 1", "gradients of every kind by finite differences");
}

/* On a tape, y with one channel for all: its gradient is the sum over the channels. */
static void test_tape(void)
{
    enum { N = 2, C = 3, DX = 9, DY = 4 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tgnn_product_desc d = of(TGNN_PRODUCT_GAUNT, 2, 1, 2);
    tgnn_product *p = open_plan(ctx, &d);
    double *x = random64(N * C * DX), *y = random64(N * DY), *g = random64(N * C * DX), dx[N * C * DX], dy[N * DY],
           at[2];
    tiny_param px, py;
    tiny_tensor tg = tiny_tensor_3d(g, TINY_F64, N, C, DX);
    tiny_tape_desc td;
    int side, i;
    memset(&td, 0, sizeof td);
    td.bytes = 1 << 20;
    memset(&px, 0, sizeof px);
    memset(&py, 0, sizeof py);
    px.name = "x";
    py.name = "y";
    px.value = tiny_tensor_3d(x, TINY_F64, N, C, DX);
    px.grad = tiny_tensor_3d(dx, TINY_F64, N, C, DX);
    py.value = tiny_tensor_3d(y, TINY_F64, N, 1, DY);
    py.grad = tiny_tensor_3d(dy, TINY_F64, N, 1, DY);
    for (i = -1; i < N * DY; i++)
        for (side = 0; side < (i < 0 ? 1 : 2); side++) {
            const double kept = i < 0 ? 0 : y[i];
            tiny_tape *tape;
            tiny_tensor wide, out;
            if (i >= 0) y[i] = kept + (side ? -1e-3 : 1e-3);
            T_OK(tiny_tape_open(ctx, &td, &tape));
            T_OK(tiny_tape_param(tape, &px));
            T_OK(tiny_tape_param(tape, &py));
            wide = py.value;
            wide.dim[1] = C;
            wide.stride[1] = 0;
            out = tgnn_tape_product(tape, p, &px.value, &wide, NULL);
            out = tiny_tape_mul(tape, &out, &tg);
            out = tiny_tape_mean(tape, &out);
            T_OK(tiny_tape_status(tape));
            if (out.data) at[side] = *(double *)out.data;
            if (i < 0) {
                tiny_tape_zero(tape);
                T_OK(tiny_tape_backward(tape, &out, NULL));
            }
            tiny_tape_close(tape);
            if (i >= 0) y[i] = kept;
            if (side) T_CLOSE(dy[i], (at[0] - at[1]) / 2e-3, 1e-11);
        }
    tgnn_product_close(ctx, p);
    t_close(ctx);
}

/* ---- layouts: channels last, first, and one y for all channels give the same bits; any number of threads */

static void test_layouts(tiny_target target)
{
    static const int sizes[][2] = {
        { 1, 1 }, { 1, 5 }, { 3, 7 }, { 7, 1 }, { 2, 33 }, { 1, 64 }, { 70, 1 }, { 5, 31 }
    };
    tiny_ctx *ctx = t_ctx(target, 2), *single = t_ctx(target, 1);
    size_t s;
    int z, c, k;
    for (s = 0; s < T_COUNT(sizes); s++) {
        const int n = sizes[s][0], ch = sizes[s][1];
        tgnn_product_desc d = of(TGNN_PRODUCT_CG, 2, 1, 2);
        tgnn_product *p;
        float *x, *y, *w, *out, *last, *xl;
        tiny_tensor tx, ty, tw, to, txl, tol;
        tiny_idx n_w;
        d.weighted = 1;
        p = open_plan(ctx, &d);
        n_w = tgnn_product_dim(p, TGNN_PRODUCT_W);
        x = t_rand((size_t)(n * ch * 9), -1, 1);
        xl = (float *)t_keep((size_t)(n * ch * 9) * 4);
        y = t_rand((size_t)n * 4, -1, 1);
        w = t_rand((size_t)(ch * n_w), -1, 1);
        out = t_guarded((size_t)(n * ch * 9));
        last = t_guarded((size_t)(n * ch * 9));
        tx = tiny_tensor_3d(x, TINY_F32, n, ch, 9);
        ty = tiny_tensor_3d(y, TINY_F32, n, ch, 4);
        ty.stride[0] = 4;
        ty.stride[1] = 0;                   /* one for all channels */
        tw = tiny_tensor_3d(w, TINY_F32, n, ch, n_w);
        tw.stride[0] = 0;                   /* the same weights for all samples */
        to = tiny_tensor_3d(out, TINY_F32, n, ch, 9);
        T_OK(tgnn_product_run(ctx, p, &tx, &ty, &tw, &to));
        T_RAN_ON(ctx, t_vectors(target));
        T_WALLS(out, n * ch * 9);
        for (z = 0; z < n; z++)
            for (c = 0; c < ch; c++)
                for (k = 0; k < 9; k++) xl[(z * 9 + k) * ch + c] = x[(z * ch + c) * 9 + k];
        txl = tiny_tensor_swap(tiny_tensor_3d(xl, TINY_F32, n, 9, ch), 1, 2);
        tol = tiny_tensor_swap(tiny_tensor_3d(last, TINY_F32, n, 9, ch), 1, 2);
        T_OK(tgnn_product_run(single, p, &txl, &ty, &tw, &tol));
        T_WALLS(last, n * ch * 9);
        for (z = 0; z < n; z++)
            for (c = 0; c < ch; c++)
                for (k = 0; k < 9; k++) T_SAME(&last[(z * 9 + k) * ch + c], &out[(z * ch + c) * 9 + k], 1);
        {                                   /* each lane alone in double */
            double a[9], b[4], e[16], o[9];
            z = n - 1;
            c = ch - 1;
            for (k = 0; k < 9; k++) a[k] = (double)x[(z * ch + c) * 9 + k];
            for (k = 0; k < 4; k++) b[k] = (double)y[z * 4 + k];
            for (k = 0; k < n_w; k++) e[k] = (double)w[c * n_w + k];
            run64(ctx, p, 1, a, b, e, o);
            for (k = 0; k < 9; k++) T_CLOSE(out[(z * ch + c) * 9 + k], o[k], 2e-6);
        }
        tgnn_product_close(ctx, p);
        t_free_blocks();
    }
    t_close(single);
    t_now.ctx = ctx;
    t_close(ctx);
}

/* ---- what products express, and what they couple: the table of the specification */

static void test_measures(void)
{
    static const int cg[4][2] = { { 5, 6 }, { 15, 19 }, { 34, 44 }, { 65, 85 } },
                     free_of_gaunt[4][2] = { { 4, 5 }, { 7, 9 }, { 10, 13 }, { 13, 17 } },
                     couplings[4][2] = { { 4, 5 }, { 11, 14 }, { 23, 30 }, { 42, 55 } };
    static uint8_t couples[5 * 5 * 9];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int l, wide, rank, count, l1, l2, l3;
    for (l = 1; l <= 4; l++)
        for (wide = 0; wide < 2; wide++) {
            tgnn_product_desc d = of(TGNN_PRODUCT_CG, l, l, (1 + wide) * l);
            tgnn_product *p;
            d.weighted = 1;
            d.apart = l & 1;
            p = open_plan(ctx, &d);
            T_OK(tgnn_product_expressivity(ctx, p, 3, &rank));
            T_EQ_INT(rank, cg[l - 1][wide]);
            T_OK(tgnn_product_interactions(ctx, p, couples, &count));
            T_EQ_INT(count, cg[l - 1][wide]);
            tgnn_product_close(ctx, p);
            d = of(l & 1 ? TGNN_PRODUCT_GAUNT_GRID : TGNN_PRODUCT_GAUNT_LIST, l, l, (1 + wide) * l);
            p = open_plan(ctx, &d);
            T_OK(tgnn_product_expressivity(ctx, p, 4, &rank));
            T_EQ_INT(rank, free_of_gaunt[l - 1][wide]);
            T_OK(tgnn_product_interactions(ctx, p, couples, &count));
            T_EQ_INT(count, couplings[l - 1][wide]);
            T_TRUE(!couples[(1 * (l + 1) + 1) * ((1 + wide) * l + 1) + 1]);     /* no cross product */
            tgnn_product_close(ctx, p);
            if (wide && l == 4) continue;   /* enough */
            d = of(TGNN_PRODUCT_VECTOR, l, l, (1 + wide) * l);
            p = open_plan(ctx, &d);
            T_OK(tgnn_product_interactions(ctx, p, couples, &count));
            for (l1 = 0; l1 <= l; l1++)     /* exactly the paths that Gaunt's product lacks */
                for (l2 = 0; l2 <= l; l2++)
                    for (l3 = 0; l3 <= d.l3; l3++)
                        T_EQ_INT(couples[(l1 * (l + 1) + l2) * (d.l3 + 1) + l3],
                                 (l1 + l2 + l3) % 2 && l3 <= l1 + l2 && l1 <= l2 + l3 && l2 <= l1 + l3);
            tgnn_product_close(ctx, p);
            d = of(TGNN_PRODUCT_MATRIX, l, l, (1 + wide) * l);
            p = open_plan(ctx, &d);
            T_OK(tgnn_product_interactions(ctx, p, couples, &count));
            T_TRUE(count > couplings[l - 1][wide] && couples[(1 * (l + 1) + 1) * (d.l3 + 1) + 1]);
            tgnn_product_close(ctx, p);
        }
    t_close(ctx);
    T_PROOF("geometry 1", "expressivity and interactability, L = 1 to 4; no cross product in Gaunt's, all odd paths in "
                          "that of vector fields");
}

/* ---- the choice */

static void test_choice(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int l;
    for (l = 1; l <= 7; l++) {
        tgnn_product_desc d = of(TGNN_PRODUCT_CG, l, l, l);
        tgnn_product *p = open_plan(ctx, &d), *q;
        T_EQ_INT(tgnn_product_kind(p), TGNN_PRODUCT_CG_SPARSE);
        T_TRUE(strstr(tgnn_product_why(p), "Clebsch-Gordan, sparse, the cheapest (cost of a channel: Clebsch-Gordan, "
                                           "dense ") == tgnn_product_why(p));
        d.kind = TGNN_PRODUCT_CG_DENSE;
        q = open_plan(ctx, &d);
        T_TRUE(tgnn_product_operations(p) < tgnn_product_operations(q));
        tgnn_product_close(ctx, p);
        tgnn_product_close(ctx, q);
        /* measured for results to degree 2 L: the list is faster to L = 5, the grid from 6 on */
        d.kind = TGNN_PRODUCT_GAUNT;
        d.l3 = 2 * l < 11 ? 2 * l : 11;
        p = open_plan(ctx, &d);
        T_EQ_INT(tgnn_product_kind(p), l <= 5 ? TGNN_PRODUCT_GAUNT_LIST : TGNN_PRODUCT_GAUNT_GRID);
        T_TRUE(strstr(tgnn_product_why(p), "Gaunt by Fourier series ") && strchr(tgnn_product_why(p), ')'));
        tgnn_product_close(ctx, p);
    }
    {                                       /* (1, 1, 1) by hand: 16 products, and 16 numbers of C that are not 0 */
        const tgnn_product_desc d = of(TGNN_PRODUCT_CG, 1, 1, 1);
        tgnn_product *p = open_plan(ctx, &d);
        T_TRUE(tgnn_product_operations(p) == 32);
        tgnn_product_close(ctx, p);
    }
    t_close(ctx);
}

#ifndef TINY_NO_CONFORM
static void test_conform(tiny_target target)
{
    t_conform(target, tgnn_product_row(), 60);
    t_conform(target, tgnn_product_back_row(), 60);
}
#endif

/* tables and reference of every kind, in double: the same bits on every machine */
static void test_bits(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_REFERENCE, 1);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    double x[25], y[25], out[25];
    int kind, i, k;
    for (i = 0; i < 25; i++) {
        x[i] = ((i * 7 + 3) % 11 - 5) / 8.0;
        y[i] = ((i * 5 + 1) % 13 - 6) / 16.0;
    }
    for (kind = TGNN_PRODUCT_CG_DENSE; kind <= TGNN_PRODUCT_MATRIX; kind++) {
        const tgnn_product_desc d = of(kind, 4, 4, 4);
        tgnn_product *p;
        if (kind == TGNN_PRODUCT_GAUNT) continue;           /* a choice */
        p = open_plan(ctx, &d);
        run64(ctx, p, 1, x, y, NULL, out);
        for (i = 0; p && i < 25; i++) {
            uint64_t u;
            memcpy(&u, &out[i], 8);
            for (k = 0; k < 8; k++) hash = (hash ^ (u >> 8 * k & 255)) * UINT64_C(0x100000001b3);
        }
        tgnn_product_close(ctx, p);
    }
    if (!T_TRUE(hash == UINT64_C(0xa617b6e8e865b8a4))) printf("the hash is %016" PRIx64 "\n", hash);
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    tgnn_product_desc d = of(TGNN_PRODUCT_GAUNT_GRID, 2, 2, 4), good;
    tgnn_product *p = NULL;
    float x[2 * 3 * 9] = { 0 }, out[2 * 3 * 25];
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 2, 3, 9), to = tiny_tensor_3d(out, TINY_F32, 2, 3, 25), bent = tx;
    int rank, l[3];
    good = d;
    d.n_polar = 5;
    d.n_azimuth = 9;
    T_OK(tgnn_product_open(ctx, &d, &p));
    tgnn_product_close(ctx, p);
    d.n_azimuth = 8;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT,
             "a grid of 5 polar angles and 8 azimuths is not exact for these degrees, it needs 5 and 9");
    T_TRUE(!p);
    d.n_polar = 4;
    d.n_azimuth = 9;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "a grid of 4 polar angles and 9 azimuths is not exact");
    d.kind = TGNN_PRODUCT_VECTOR;
    d.n_polar = 5;                          /* fields have one degree more: 6 and 12 */
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "is not exact for these degrees, it needs 6 and 12");
    d = good;
    d.n_polar = 100000;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "at most");
    d.n_polar = -1;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "a grid of -1 polar angles");
    d = good;
    d.kind = TGNN_PRODUCT_GAUNT_LIST;
    d.n_polar = 5;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "Gaunt by list has no grid");
    d = good;
    d.kind = TGNN_PRODUCT_KINDS;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "kind 11");
    d = good;
    d.l2 = 13;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "degree 13, it must be 0 to 12");
    d.l2 = -1;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "degree -1");
    d = good;
    d.weighted = 1;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "Gaunt by grid has no norms, paths or weights");
    d = of(TGNN_PRODUCT_CG, 1, 1, 1);
    d.norm = 3;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "norm 3");
    d = of(TGNN_PRODUCT_VECTOR, 12, 1, 12);
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_ARGUMENT, "vector fields takes degrees up to 11");
    d = of(TGNN_PRODUCT_CG, 11, 11, 11);
    d.apart = 1;
    T_STATUS(tgnn_product_open(ctx, &d, &p), TINY_E_UNSUPPORTED, "the plan needs");
    T_STATUS(tgnn_product_open(ctx, NULL, &p), TINY_E_ARGUMENT, "is missing");
    T_STATUS(tgnn_product_open(ctx, &good, NULL), TINY_E_ARGUMENT, "is missing");
    p = open_plan(ctx, &good);
    T_OK(tgnn_product_run(ctx, p, &tx, &tx, NULL, &to));
    bent.dim[2] = 8;
    T_STATUS(tgnn_product_run(ctx, p, &bent, &tx, NULL, &to), TINY_E_SHAPE, "x is 2x3x8 f32, it must be 2 x 3 x 9 f32");
    T_STATUS(tgnn_product_run(ctx, p, &tx, &bent, NULL, &to), TINY_E_SHAPE, "y is 2x3x8 f32");
    T_STATUS(tgnn_product_run(ctx, p, &tx, &tx, &tx, &to), TINY_E_SHAPE, "w is 2x3x9 f32, it must be 2 x 3 x 0");
    bent = to;
    bent.dim[2] = 24;
    T_STATUS(tgnn_product_run(ctx, p, &tx, &tx, NULL, &bent), TINY_E_SHAPE, "output 0");
    T_STATUS(tgnn_product_run(ctx, NULL, &tx, &tx, NULL, &to), TINY_E_ARGUMENT, "the plan is missing");
    T_STATUS(tgnn_product_run(ctx, p, &tx, NULL, NULL, &to), TINY_E_ARGUMENT, "is missing");
    T_STATUS(tgnn_product_expressivity(ctx, NULL, 1, &rank), TINY_E_ARGUMENT, "a plan for degrees");
    T_STATUS(tgnn_product_expressivity(ctx, p, 1, NULL), TINY_E_ARGUMENT, "is missing");
    T_STATUS(tgnn_product_interactions(ctx, p, NULL, &rank), TINY_E_ARGUMENT, "is missing");
    T_TRUE(!tgnn_product_path(p, 0, l) && !tgnn_product_path(NULL, 0, l) && tgnn_product_kind(NULL) == -1);
    T_TRUE(tgnn_product_dim(p, 7) == -1 && tgnn_product_dim(NULL, 0) == -1);
    T_TRUE(!strcmp(tgnn_product_kind_name(99), "?") && !strcmp(tgnn_product_why(NULL), ""));
    tgnn_product_close(ctx, p);
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tiny_ctx *own = NULL;
        tgnn_product *q = NULL;
        tgnn_product_desc e = of(TGNN_PRODUCT_GAUNT, 1, 1, 1);
        uint8_t couples[8];
        if (tiny_ctx_open(&desc, &own)) continue;
        if (!tgnn_product_open(own, &e, &q)) {
            (void)tgnn_product_interactions(own, q, couples, &rank);
            (void)tgnn_product_expressivity(own, q, 1, &rank);
        }
        tgnn_product_close(own, q);
        tiny_ctx_close(own);
    })
    t_close(ctx);
    T_PROOF("geometry 1", "a grid that is too small is an error");
}

/* Programs from outside: what a plan hands to the operation, with one number changed. */
static void test_hostile(void)
{
    enum { HEAD = 8 };
    static const struct {
        int at, value;
    } bad[] = { { 0, 9000 }, { 0, -1 },      { 1, 100 },      { 5, 0 },        { 6, 1000 },      { 7, -5 },
                { HEAD, 0 }, { HEAD, 5000 }, { HEAD + 1, 9 }, { HEAD + 1, 3 }, { HEAD + 2, -1 }, { HEAD + 3, 100000 },
                { 17, -7 },  { -2, 30000 },  { -2, 20 } };
    int32_t code[HEAD + 4 * 2 + 2 * 2] = { 5, 1, 1, 0, 0, 2, 2, 2,  3, 1, 0, 1,  4, 0, 1, 2,  0, 1,  1, 0 }, kept[20];
    float coef[2] = { 0.5f, 2 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    float x[1] = { 3 }, y[1] = { 5 }, out[2];
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 1, 1, 1), ty = tiny_tensor_3d(y, TINY_F32, 1, 1, 1),
                tc = tiny_tensor_1d(code, TINY_I32, 20), tf = tiny_tensor_1d(coef, TINY_F32, 2),
                to = tiny_tensor_3d(out, TINY_F32, 1, 1, 2);
    tiny_op op;
    size_t i;
    memset(&op, 0, sizeof op);
    op.row = tgnn_product_row();
    op.kind = op.row->kind;
    op.in[0] = &tx;
    op.in[1] = &ty;
    op.in[2] = &tc;
    op.in[3] = &tf;
    op.out[0] = &to;
    T_OK(tiny_run(ctx, &op));
    T_TRUE(out[0] == 7.5f && out[1] == 10);
    for (i = 0; i < T_COUNT(bad); i++) {
        memcpy(kept, code, sizeof kept);
        code[bad[i].at < 0 ? 20 + bad[i].at : bad[i].at] = bad[i].value;
        T_TRUE(tiny_run(ctx, &op) != TINY_OK);
        memcpy(code, kept, sizeof kept);
    }
    tc.dim[0] = 7;
    T_STATUS(tiny_run(ctx, &op), TINY_E_SHAPE, "a program is a dense row of i32");
    tc.dim[0] = 19;
    T_STATUS(tiny_run(ctx, &op), TINY_E_SHAPE, "does not fill 19 numbers");
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_ways);
    T_RUN_TARGETS(test_worked);
    T_RUN(test_gamma);
    T_RUN(test_pointwise);
    T_RUN_TARGETS(test_equivariance);
    T_RUN_TARGETS(test_gradients);
    T_RUN(test_tape);
    T_RUN_TARGETS(test_layouts);
    T_RUN(test_measures);
    T_RUN(test_choice);
    T_RUN(test_bits);
#ifndef TINY_NO_CONFORM
    T_RUN_TARGETS(test_conform);
#endif
    T_RUN(test_bad);
    T_RUN(test_hostile);
    return t_done();
}
