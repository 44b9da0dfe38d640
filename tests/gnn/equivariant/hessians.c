/* tests/gnn/equivariant/hessians.c - second derivatives of spherical harmonics: differences of the first ones, the
 * equation of Laplace, Euler's rule for homogeneous functions, worked polynomials, float against double on each target,
 * training on forces by a tape against differences */
#define T_GNN
#include "t.h"

enum { MOST = (TGNN_L_MAX + 1) * (TGNN_L_MAX + 1) };

static tgnn_sph_harm_params how(int l_max, int norm, int solid)
{
    tgnn_sph_harm_params p;
    memset(&p, 0, sizeof p);
    p.l_max = l_max;
    p.norm = norm;
    p.solid = solid;
    return p;
}

typedef struct jet { double y[MOST], dy[3 * MOST], dd[9 * MOST]; } jet;

static void at(tiny_ctx *ctx, const double *v, const tgnn_sph_harm_params *p, jet *j)
{
    const int count = tgnn_sph_harm_count(p->l_max);
    double x[3];
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F64, 1, 3), ty = tiny_tensor_2d(j->y, TINY_F64, 1, count),
                      ts = tiny_tensor_3d(j->dy, TINY_F64, 1, 3, count),
                      td = tiny_tensor_4d(j->dd, TINY_F64, 1, 3, 3, count);
    memcpy(x, v, sizeof x);
    T_OK(tgnn_sph_harm_hessians(ctx, &tx, p, &ty, &ts, &td));
}

static void random_vector(double *v)
{
    int j;
    do {
        for (j = 0; j < 3; j++) v[j] = (double)t_rand_float(-1.3f, 1.3f);
    } while (v[0] * v[0] + v[1] * v[1] + v[2] * v[2] < 0.2);
}

/* values and slopes are those of tgnn_sph_harm_slopes, which differentiates the recursions; Hessians by differences */
static void test_differences(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static jet j;
    static double y[MOST], s[2][3 * MOST];
    int l, norm, solid, i, k, side, draw;
    for (l = 0; l <= TGNN_L_MAX; l += l < 4 ? 1 : 4)
        for (norm = 0; norm < 3; norm++)
            for (solid = 0; solid < 2; solid++)
                for (draw = 0; draw < 2; draw++) {
                    const tgnn_sph_harm_params p = how(l, norm, solid);
                    const int count = tgnn_sph_harm_count(l);
                    double v[3], w[3], most = 1;
                    const tiny_tensor tv = tiny_tensor_2d(w, TINY_F64, 1, 3),
                                      ty = tiny_tensor_2d(y, TINY_F64, 1, count);
                    random_vector(v);
                    if (draw == 1) v[0] = v[2] = 0;     /* the pole */
                    at(ctx, v, &p, &j);
                    for (i = 0; i < 3; i++) {
                        for (side = 0; side < 2; side++) {
                            const tiny_tensor ts = tiny_tensor_3d(s[side], TINY_F64, 1, 3, count);
                            memcpy(w, v, sizeof w);
                            w[i] += side ? 3e-6 : -3e-6;
                            T_OK(tgnn_sph_harm_slopes(ctx, &tv, &p, &ty, &ts));
                        }
                        for (k = 0; k < 3 * count; k++) most = fmax(most, fabs(j.dd[i * 3 * count + k]));
                        for (k = 0; k < 3 * count; k++)
                            T_CLOSE(j.dd[i * 3 * count + k], (s[1][k] - s[0][k]) / 6e-6, 1e-7 * most);
                    }
                    memcpy(w, v, sizeof w);
                    {
                        const tiny_tensor ts = tiny_tensor_3d(s[0], TINY_F64, 1, 3, count);
                        T_OK(tgnn_sph_harm_slopes(ctx, &tv, &p, &ty, &ts));
                    }
                    for (k = 0; k < count; k++) T_CLOSE(j.y[k], y[k], 1e-13 * most);
                    for (k = 0; k < 3 * count; k++) T_CLOSE(j.dy[k], s[0][k], 1e-12 * most);
                }
    t_close(ctx);
    T_PROOF("geometry 0", "Hessians to degree 12 by finite differences of the gradients");
}

/* Solid harmonics: the Laplacian is 0, H x = (l - 1) grad. Of the direction: the Laplacian is -l (l + 1) Y / |x|^2,
 * H x = -grad. Both: the Hessian is symmetric. */
static void test_equations(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static jet j;
    const int count = MOST;
    int solid, draw, l, k, a, b;
    for (solid = 0; solid < 2; solid++)
        for (draw = 0; draw < 6; draw++) {
            const tgnn_sph_harm_params p = how(TGNN_L_MAX, draw % 3, solid);
            double v[3], r2;
            random_vector(v);
            at(ctx, v, &p, &j);
            r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
            for (l = 0; l <= TGNN_L_MAX; l++)
                for (k = l * l; k < (l + 1) * (l + 1); k++) {
                    double trace = 0, most = 1;
                    for (a = 0; a < 9; a++) most = fmax(most, fabs(j.dd[a * count + k]));
                    for (a = 0; a < 3; a++) {
                        double sum = 0;
                        trace += j.dd[4 * a * count + k];
                        for (b = 0; b < 3; b++) {
                            sum += j.dd[(3 * a + b) * count + k] * v[b];
                            T_TRUE(j.dd[(3 * a + b) * count + k] == j.dd[(3 * b + a) * count + k]);
                        }
                        T_CLOSE(sum, (solid ? l - 1 : -1) * j.dy[a * count + k], 1e-12 * most);
                    }
                    T_CLOSE(trace, solid ? 0 : -l * (l + 1) * j.y[k] / r2, 1e-11 * most);
                }
        }
    t_close(ctx);
    T_PROOF("geometry 0", "Laplacian of the solid harmonics is 0; homogeneity");
}

/* sqrt15 x z, sqrt15 x y, sqrt5 (y^2 - (x^2 + z^2) / 2), sqrt15 y z, sqrt15 / 2 (z^2 - x^2); vector 0 */
static void test_worked(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const tgnn_sph_harm_params p = how(2, TGNN_SH_COMPONENT, 1), flat = how(2, TGNN_SH_COMPONENT, 0);
    float x[6] = { 1, 2, 3, 0, 0, 0 }, y[18], s[54], d[162];
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(y, TINY_F32, 2, 9),
                      ts = tiny_tensor_3d(s, TINY_F32, 2, 3, 9), td = tiny_tensor_4d(d, TINY_F32, 2, 3, 3, 9);
    const double a = sqrt(15), b = sqrt(5);
    int n, i;
    T_OK(tgnn_sph_harm_hessians(ctx, &tx, &p, &ty, &ts, &td));
    for (n = 0; n < 2; n++) {
        const float *h = d + 81 * n;        /* h[(3 i + j) 9 + k] */
        T_CLOSE(h[2 * 9 + 4], a, 1e-6);
        T_CLOSE(h[6 * 9 + 4], a, 1e-6);
        T_CLOSE(h[1 * 9 + 5], a, 1e-6);
        T_CLOSE(h[0 * 9 + 6], -b, 1e-6);
        T_CLOSE(h[4 * 9 + 6], 2 * b, 1e-6);
        T_CLOSE(h[8 * 9 + 6], -b, 1e-6);
        T_CLOSE(h[5 * 9 + 7], a, 1e-6);
        T_CLOSE(h[0 * 9 + 8], -a, 1e-6);
        T_CLOSE(h[8 * 9 + 8], a, 1e-6);
        for (i = 0; i < 9; i++) T_CLOSE(h[i * 9] + h[i * 9 + 1] + h[i * 9 + 2] + h[i * 9 + 3], 0, 0);
        T_CLOSE(h[4 * 9 + 4], 0, 0);
    }
    T_OK(tgnn_sph_harm_hessians(ctx, &tx, &flat, &ty, &ts, &td));
    for (i = 0; i < 81; i++) T_TRUE(d[81 + i] == 0);
    for (i = 0; i < 27; i++) T_TRUE(s[27 + i] == 0);
    for (i = 1; i < 9; i++) T_TRUE(y[9 + i] == 0);
    if (target != TINY_TARGET_REFERENCE) T_RAN_ON(ctx, t_vectors(target));
    t_close(ctx);
}

/* float, odd numbers of vectors, any strides, against double */
static void test_fast(tiny_target target)
{
    enum { N = 21 };
    static float x[N * 3], g[N * MOST], w[N * 3], y[N * MOST], s[N * 3 * MOST], d[N * 9 * MOST], dg[N * MOST],
        dx[N * 3];
    static double xd[N * 3], yd[N * MOST], sd[N * 3 * MOST], dd[N * 9 * MOST], gd[N * MOST], wd[N * 3], dgd[N * MOST],
        dxd[N * 3];
    static const int degree[] = { 0, 1, 2, 3, 5, 8, 12 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    int solid, i, turned;
    for (c = 0; c < T_COUNT(degree); c++)
        for (solid = 0; solid < 2; solid++)
            for (turned = 0; turned < 2; turned++) {
                const tgnn_sph_harm_params p = how(degree[c], (int)c % 3, solid);
                const int m = tgnn_sph_harm_count(degree[c]);
                const double bound = 5e-7 * (8 + degree[c] * degree[c]);
                tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, 3), tg = tiny_tensor_2d(g, TINY_F32, N, m),
                            tw = tiny_tensor_2d(w, TINY_F32, N, 3), ty = tiny_tensor_2d(y, TINY_F32, N, m),
                            ts = tiny_tensor_3d(s, TINY_F32, N, 3, m), td = tiny_tensor_4d(d, TINY_F32, N, 3, 3, m),
                            tdg = tiny_tensor_2d(dg, TINY_F32, N, m), tdx = tiny_tensor_2d(dx, TINY_F32, N, 3);
                tiny_tensor ux = tiny_tensor_2d(xd, TINY_F64, N, 3), ug = tiny_tensor_2d(gd, TINY_F64, N, m),
                            uw = tiny_tensor_2d(wd, TINY_F64, N, 3), uy = tiny_tensor_2d(yd, TINY_F64, N, m),
                            us = tiny_tensor_3d(sd, TINY_F64, N, 3, m), ud = tiny_tensor_4d(dd, TINY_F64, N, 3, 3, m),
                            udg = tiny_tensor_2d(dgd, TINY_F64, N, m), udx = tiny_tensor_2d(dxd, TINY_F64, N, 3);
                double most[5] = { 0, 0, 0, 0, 0 };
                for (i = 0; i < N; i++) {
                    double v[3];
                    int j;
                    random_vector(v);
                    for (j = 0; j < 3; j++) {
                        xd[3 * i + j] = (double)(x[3 * i + j] = (float)v[j]);
                        wd[3 * i + j] = (double)(w[3 * i + j] = t_rand_float(-1, 1));
                    }
                }
                for (i = 0; i < N * m; i++) gd[i] = (double)(g[i] = t_rand_float(-1, 1));
                if (turned) {               /* the numbers of a vector far apart */
                    tiny_tensor *t[5];
                    int k;
                    t[0] = &ty;
                    t[1] = &tdg;
                    t[2] = &tdx;
                    t[3] = &ts;
                    t[4] = &td;
                    for (k = 0; k < 3; k++) {
                        t[k]->stride[0] = 1;
                        t[k]->stride[1] = N;
                    }
                    ts.stride[0] = 1;
                    ts.stride[1] = N;
                    ts.stride[2] = 3 * N;
                    td.stride[0] = 1;
                    td.stride[1] = N;
                    td.stride[2] = 3 * N;
                    td.stride[3] = 9 * N;
                }
                T_OK(tgnn_sph_harm_hessians(ctx, &tx, &p, &ty, &ts, &td));
                T_OK(tgnn_sph_harm_hessians(ctx, &ux, &p, &uy, &us, &ud));
                T_OK(tgnn_sph_harm_twice(ctx, &tx, &tg, &tw, &p, &tdg, &tdx));
                T_RAN_ON(ctx, t_vectors(target));
                T_OK(tgnn_sph_harm_twice(ctx, &ux, &ug, &uw, &p, &udg, &udx));
                for (i = 0; i < N * 9 * m; i++) {
                    if (i < N * m) most[0] = fmax(most[0], fabs(yd[i])), most[3] = fmax(most[3], fabs(dgd[i]));
                    if (i < N * 3 * m) most[1] = fmax(most[1], fabs(sd[i]));
                    if (i < N * 3) most[4] = fmax(most[4], fabs(dxd[i]));
                    most[2] = fmax(most[2], fabs(dd[i]));
                }
                for (i = 0; i < N * 9 * m; i++) {
                    const int n = i / (9 * m), a = i / (3 * m) % 3, b = i / m % 3, k = i % m;
                    T_CLOSE(d[n * td.stride[0] + a * td.stride[1] + b * td.stride[2] + k * td.stride[3]], dd[i],
                            bound * most[2]);
                    if (i >= N * 3 * m) continue;
                    T_CLOSE(s[i / (3 * m) * ts.stride[0] + b * ts.stride[1] + k * ts.stride[2]], sd[i],
                            bound * most[1]);
                    if (i < N * m) {
                        T_CLOSE(y[i / m * ty.stride[0] + k * ty.stride[1]], yd[i], bound * most[0]);
                        T_CLOSE(dg[i / m * tdg.stride[0] + k * tdg.stride[1]], dgd[i], bound * (most[3] + 1e-30));
                    }
                    if (i < N * 3)
                        T_CLOSE(dx[i / 3 * tdx.stride[0] + i % 3 * tdx.stride[1]], dxd[i], bound * (most[4] + 1e-30));
                }
            }
    t_close(ctx);
}

/* ---- forces on a tape: E = sum of squares of (harmonics c), F = dE/dx by sph_harm_back, L = |F - target|^2 and a part
 * of the slopes; its gradients by x and by the weights c */

typedef struct forces {
    tgnn_sph_harm_params p;
    tiny_idx n, m;
    tiny_param x, c;
    tiny_tensor target, part;
} forces;

static tiny_tensor loss_of(tiny_tape *tape, const forces *f)
{
    tiny_tensor y, g, force, out[2];
    tiny_op op;
    memset(&y, 0, sizeof y);
    memset(&op, 0, sizeof op);
    op.kind = TGNN_OP_SPH_HARM;
    op.row = tgnn_sph_harm_row();
    op.in[0] = &f->x.value;
    op.params = &f->p;
    if (tiny_tape_op(tape, &op, &y)) return y;
    g = tiny_tape_mul(tape, &y, &f->c.value);       /* dE/dy of E = sum c y^2 / 2 */
    op.kind = TGNN_OP_SPH_HARM_BACK;
    op.row = tgnn_sph_harm_back_row();
    op.in[1] = &g;
    if (tiny_tape_op(tape, &op, &force)) return y;
    op.kind = TGNN_OP_SPH_HARM_SLOPES;
    op.row = tgnn_sph_harm_slopes_row();
    op.in[1] = NULL;
    if (tiny_tape_op(tape, &op, out)) return y;
    force = tiny_tape_mse(tape, &force, &f->target);
    out[0] = tiny_tape_mul(tape, &out[0], &out[0]);
    out[0] = tiny_tape_mean(tape, &out[0]);
    out[1] = tiny_tape_mul(tape, &out[1], &f->part);
    out[1] = tiny_tape_mul(tape, &out[1], &out[1]);
    out[1] = tiny_tape_mean(tape, &out[1]);
    force = tiny_tape_add(tape, &force, &out[0]);
    return tiny_tape_add(tape, &force, &out[1]);
}

static tiny_tape *open_tape(tiny_ctx *ctx, int no_grad)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 22;
    d.no_grad = no_grad;
    T_OK(tiny_tape_open(ctx, &d, &tape));
    return tape;
}

static tiny_tensor drawn(int rank, tiny_idx a, tiny_idx b, tiny_idx c)
{
    tiny_idx dim[3], i;
    tiny_tensor t;
    dim[0] = a;
    dim[1] = b;
    dim[2] = c;
    t = tiny_tensor_nd(NULL, TINY_F64, rank, dim);
    t.data = t_keep((size_t)tiny_tensor_count(&t) * 8);
    for (i = 0; i < tiny_tensor_count(&t); i++) ((double *)t.data)[i] = (double)t_rand_float(-1, 1);
    return t;
}

static void test_forces(void)
{
    static const int degree[] = { 1, 3, 6 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t c;
    int solid, i, which, side;
    for (c = 0; c < T_COUNT(degree); c++)
        for (solid = 0; solid < 2; solid++) {
            tiny_tape *tape = open_tape(ctx, 0);
            tiny_tensor loss;
            forces f;
            memset(&f, 0, sizeof f);
            f.p = how(degree[c], TGNN_SH_NORM, solid);
            f.n = 4;
            f.m = tgnn_sph_harm_count(degree[c]);
            f.x.value = drawn(2, f.n, 3, 0);
            for (i = 0; i < 4; i++) random_vector((double *)f.x.value.data + 3 * i);
            f.c.value = drawn(2, f.n, f.m, 0);
            f.x.grad = drawn(2, f.n, 3, 0);
            f.c.grad = drawn(2, f.n, f.m, 0);
            f.target = drawn(2, f.n, 3, 0);
            f.part = drawn(3, f.n, 3, f.m);
            T_OK(tiny_tape_param(tape, &f.x));
            T_OK(tiny_tape_param(tape, &f.c));
            loss = loss_of(tape, &f);
            tiny_tape_zero(tape);
            T_OK(tiny_tape_backward(tape, &loss, NULL));
            for (which = 0; which < 2; which++) {
                const tiny_param *p = which ? &f.c : &f.x;
                const int n = (int)tiny_tensor_count(&p->value);
                for (i = 0; i < n; i += 1 + n / 20) {
                    double *v = (double *)p->value.data + i, old = *v, l[2] = { 0, 0 };
                    for (side = 0; side < 2; side++) {
                        tiny_tape *t = open_tape(ctx, 1);
                        tiny_tensor y;
                        *v = old + (side ? 1e-5 : -1e-5);
                        y = loss_of(t, &f);
                        if (T_OK(tiny_tape_status(t))) l[side] = *(double *)y.data;
                        tiny_tape_close(t);
                    }
                    *v = old;
                    T_CLOSE(((double *)p->grad.data)[i], (l[1] - l[0]) / 2e-5, 1e-6 * (1 + fabs(l[0])));
                }
            }
            tiny_tape_close(tape);
            t_free_blocks();
        }
    t_close(ctx);
    T_PROOF("geometry 0", "second derivatives through the tape: the gradient of a loss of forces");
}

static void test_conformance(tiny_target target)
{
    t_conform(target, tgnn_sph_harm_hessians_row(), T_SLOW ? 5 : 25);
    t_conform(target, tgnn_sph_harm_twice_row(), T_SLOW ? 5 : 25);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[6] = { 1, 2, 3, 4, 5, 6 }, y[100];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), ty = tiny_tensor_2d(y, TINY_F32, 2, 4),
                ts = tiny_tensor_3d(y, TINY_F32, 2, 3, 4), td = tiny_tensor_4d(y, TINY_F32, 2, 3, 3, 4);
    tgnn_sph_harm_params p = how(13, 0, 0);
    T_STATUS(tgnn_sph_harm_hessians(ctx, &tx, &p, &ty, &ts, &td), TINY_E_ARGUMENT, "degree 13");
    T_STATUS(tgnn_sph_harm_twice(ctx, &tx, &ty, &tx, &p, &ty, &tx), TINY_E_ARGUMENT, "degree 13");
    p.l_max = 1;
    T_STATUS(tgnn_sph_harm_hessians(ctx, &ty, &p, &ty, &ts, &td), TINY_E_SHAPE, "it must be n x 3");
    T_STATUS(tgnn_sph_harm_twice(ctx, &tx, &tx, &tx, &p, &ty, &tx), TINY_E_SHAPE, "g is 2x3 f32");
    T_STATUS(tgnn_sph_harm_hessians(ctx, &tx, &p, &ty, &ts, NULL), TINY_E_ARGUMENT, NULL);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_differences);
    T_RUN(test_equations);
    T_RUN_FORMS(test_worked);
    T_RUN_TARGETS(test_fast);
    T_RUN(test_forces);
    T_RUN_TARGETS(test_conformance);
    T_RUN(test_bad);
    return t_done();
}
