/* tests/math/twist.c - suppressed trivial weights: the proofs of attention 5 (SATA / TWIST), rows and tiles
 *
 * Truth    a row worked by hand, forward and back; its formula in double with the C library's exp;
 *          differences of five points; and invariants: an order, a shift of all scores, values of hidden keys.
 *          Thresholds are put into the widest gap between the ratios that occur, so that no result depends on a
 *          rounding. Similar but wrong formulas are excluded by name: rows divided by their new sum, a threshold on
 *          scores, the k largest, no gradient of s. */
#include "t.h"

static tiny_twist_params with(double t, double s)
{
    tiny_twist_params p;
    p.t = (float)t;
    p.s = (float)s;
    return p;
}
static tiny_status rows(tiny_ctx *ctx, const float *a, float *y, tiny_idx n_row, tiny_idx n, double t, double s)
{
    const tiny_twist_params p = with(t, s);
    tiny_tensor ta = tiny_tensor_2d((void *)(uintptr_t)a, TINY_F32, n_row, n),
                ty = tiny_tensor_2d(y, TINY_F32, n_row, n);
    return tiny_twist(ctx, &ta, NULL, &p, &ty);
}
static tiny_status back(tiny_ctx *ctx, const float *a, const float *g, float *da, float *ds, tiny_idx n_row, tiny_idx n,
                        double t, double s)
{
    const tiny_twist_params p = with(t, s);
    tiny_tensor ta = tiny_tensor_2d((void *)(uintptr_t)a, TINY_F32, n_row, n),
                tg = tiny_tensor_2d((void *)(uintptr_t)g, TINY_F32, n_row, n);
    tiny_tensor td = tiny_tensor_2d(da, TINY_F32, n_row, n), ts = tiny_tensor_2d(ds, TINY_F32, n_row, 1);
    return tiny_twist_backward(ctx, &ta, &tg, NULL, &p, &td, &ts);
}

/* the formula */
static void oracle(double *y, const double *a, tiny_idx n, double t, double s)
{
    double m = 0.0, d = 1e-6;
    tiny_idx i;
    for (i = 0; i < n; i++) m = fmax(m, a[i]);
    for (i = 0; i < n; i++) if (a[i] <= t * m) d += a[i];
    for (i = 0; i < n; i++) y[i] = a[i] <= t * m && s != 0.0 ? s * a[i] * a[i] / d : a[i];
}

/* weights of n scores */
static void softmax(double *a, const double *score, tiny_idx n)
{
    double m = -HUGE_VAL, l = 0.0;
    tiny_idx i;
    for (i = 0; i < n; i++) m = fmax(m, score[i]);
    for (i = 0; i < n; i++) l += a[i] = score[i] == -HUGE_VAL ? 0.0 : exp(score[i] - m);
    for (i = 0; i < n; i++) a[i] = l != 0.0 ? a[i] / l : 0.0;
}

static int up(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}
/* the middle of the widest gap between numbers from low to high */
static double gap(double *x, size_t n, double low, double high)
{
    double at = low, best = 0.0, where = low;
    size_t i;
    qsort(x, n, sizeof *x, up);
    for (i = 0; i <= n; i++) {
        const double to = i < n ? x[i] : high;
        if (to <= low) continue;
        if (fmin(to, high) - at > best) {
            best = fmin(to, high) - at;
            where = at + best / 2;
        }
        if (to >= high) break;
        at = to;
    }
    T_TRUE(best > 4e-6);
    return where;
}

static const double worked[8] = { .5, .2, .1, .05, .05, .04, .03, .03 },
                    worked_g[8] = { .3, -.2, .5, 1, -1, .7, .2, -.4 };

/* t = .3, s = .5: the last six are trivial, their sum is .3 */
static void test_proof_5_worked(tiny_target target)
{
    static const double want[8] = { .5, .2, .016667, .004167, .004167, .002667, .0015, .0015 };
    static const double want_da[8] = { .3, -.2, .133666, .133666, -.199666, .060333, -.013, -.073 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float a[8], g[8], y[8], da[8], ds[1];
    double sum = 0.0, trivial = 0.0;
    int i;
    for (i = 0; i < 8; i++) {
        a[i] = (float)worked[i];
        g[i] = (float)worked_g[i];
    }
    T_OK(rows(ctx, a, y, 1, 8, .3, .5));
    T_RAN_ON(ctx, t_vectors(target));
    for (i = 0; i < 8; i++) {
        T_CLOSE(y[i], want[i], 6e-7);
        sum += (double)y[i];
        trivial += i > 1 ? (double)y[i] : 0.0;
    }
    T_CLOSE(sum, .730667, 6e-7);            /* and no row is divided by it */
    T_CLOSE(trivial, .030667, 6e-7);
    T_OK(back(ctx, a, g, da, ds, 1, 8, .3, .5));
    T_RAN_ON(ctx, t_vectors(target));
    for (i = 0; i < 8; i++) T_CLOSE(da[i], want_da[i], 6e-7);
    T_CLOSE(ds[0], .0198, 1e-6);
    T_OK(rows(ctx, a, a, 1, 8, .3, .5));    /* in place */
    T_SAME(a, y, 8);
    t_close(ctx);
    T_PROOF("attention 5", "worked row: a', sums");
    T_PROOF("attention 5", "worked row: da, ds");
}

/* dL/da and dL/ds of L = g . y by differences of five points, in double */
static double loss(tiny_ctx *ctx, double *a, double *s, double *y)
{
    const tiny_twist_params p = with(.3, 7);            /* the tensor replaces params.s */
    tiny_tensor ta = tiny_tensor_1d(a, TINY_F64, 8), ts = tiny_tensor_1d(s, TINY_F64, 1),
                ty = tiny_tensor_1d(y, TINY_F64, 8);
    double sum = 0.0;
    int i;
    T_OK(tiny_twist(ctx, &ta, &ts, &p, &ty));
    for (i = 0; i < 8; i++) sum += worked_g[i] * y[i];
    return sum;
}
static void test_proof_5_differences(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    const tiny_twist_params p = with(.3, 7);
    const double h = 1e-4;
    double a[8], s[1] = { .5 }, y[8], g[8], da[8], ds[1];
    tiny_tensor ta = tiny_tensor_1d(a, TINY_F64, 8), ts = tiny_tensor_1d(s, TINY_F64, 1),
                tg = tiny_tensor_1d(g, TINY_F64, 8), td = tiny_tensor_1d(da, TINY_F64, 8);
    tiny_tensor tds = tiny_tensor_1d(ds, TINY_F64, 1);
    int i, k;
    memcpy(a, worked, sizeof a);
    memcpy(g, worked_g, sizeof g);
    T_OK(tiny_twist_backward(ctx, &ta, &tg, &ts, &p, &td, &tds));
    for (i = 0; i < 9; i++) {
        double *x = i < 8 ? &a[i] : s, keep = *x, f[4];
        for (k = 0; k < 4; k++) {
            *x = keep + h * (k < 2 ? k - 2 : k - 1);
            f[k] = loss(ctx, a, s, y);
        }
        *x = keep;
        T_CLOSE((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h), i < 8 ? da[i] : ds[0], 1e-11);
    }
    t_close(ctx);
    T_PROOF("attention 5", "gradients match differences to 1e-11");
}

/* s on a tape: its gradient through the row, and through attention by tiles, against differences of the loss */
static double tape_loss(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *k, const tiny_tensor *v,
                        const tiny_tensor *g, const tiny_param *s, int tiles, int with_grad)
{
    tiny_reduce_params all = { 0, 1, 0 };
    tiny_attention_params p;
    tiny_tape *tape;
    tiny_tensor o, l;
    tiny_op op;
    double value;
    T_OK(tiny_tape_open(ctx, NULL, &tape));
    T_OK(tiny_tape_param(tape, s));
    if (tiles) {
        memset(&p, 0, sizeof p);
        p.twist_t = .2f;
        memset(&op, 0, sizeof op);
        op.kind = TINY_OP_ATTENTION;
        op.in[0] = q; op.in[1] = k; op.in[2] = v; op.in[4] = &s->value;
        op.params = &p;
        T_OK(tiny_tape_op(tape, &op, &o));
    } else {
        const tiny_twist_params t = with(.2, 0);
        o = tiny_tape_call(tape, TINY_OP_TWIST, v, &s->value, NULL, NULL, &t);
    }
    l = tiny_tape_call(tape, TINY_OP_DOT, &o, g, NULL, NULL, &all);
    value = *(double *)l.data;
    if (with_grad) T_OK(tiny_tape_backward(tape, &l, NULL));
    T_OK(tiny_tape_status(tape));
    tiny_tape_close(tape);
    return value;
}
static void test_proof_5_gradient_of_s(tiny_target target)
{
    enum { T = 5, N = 12, H = 4, KV = 2, D = 3 };
    tiny_ctx *ctx = t_ctx(target, 1);
    double q[T * H * D], k[N * KV * D], v[N * KV * D], g[T * H * D], weights[2 * N], gw[2 * N],
        value[1] = { .6 }, grad[1] = { 0 }, up_, down;
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F64, T, H, D), tk = tiny_tensor_3d(k, TINY_F64, N, KV, D),
                tv = tiny_tensor_3d(v, TINY_F64, N, KV, D), tg = tiny_tensor_3d(g, TINY_F64, T, H, D);
    tiny_tensor tw = tiny_tensor_2d(weights, TINY_F64, 2, N), tgw = tiny_tensor_2d(gw, TINY_F64, 2, N);
    tiny_param s;
    int i, tiles;
    for (i = 0; i < T * H * D; i++) { q[i] = (double)t_rand_float(-2, 2); g[i] = (double)t_rand_float(-1, 1); }
    for (i = 0; i < N * KV * D; i++) { k[i] = (double)t_rand_float(-2, 2); v[i] = (double)t_rand_float(-1, 1); }
    for (i = 0; i < 2 * N; i++) { weights[i] = (double)t_rand_float(0, 1); gw[i] = (double)t_rand_float(-1, 1); }
    memset(&s, 0, sizeof s);
    s.name = "s";
    for (tiles = 0; tiles < 2; tiles++)
        for (i = 0; i < 2; i++) {           /* s of rank 1, of rank 0 */
            s.value = tiny_tensor_nd(value, TINY_F64, i, tq.dim);
            s.grad = tiny_tensor_nd(grad, TINY_F64, i, tq.dim);
            s.value.dim[0] = s.grad.dim[0] = 1;
            grad[0] = 0;
            (void)tape_loss(ctx, &tq, &tk, tiles ? &tv : &tw, tiles ? &tg : &tgw, &s, tiles, 1);
            value[0] = .6 + 1e-3;           /* the loss is a line in s */
            up_ = tape_loss(ctx, &tq, &tk, tiles ? &tv : &tw, tiles ? &tg : &tgw, &s, tiles, 0);
            value[0] = .6 - 1e-3;
            down = tape_loss(ctx, &tq, &tk, tiles ? &tv : &tw, tiles ? &tg : &tgw, &s, tiles, 0);
            value[0] = .6;
            T_CLOSE(grad[0], (up_ - down) / 2e-3, 1e-11);
            T_TRUE(fabs(grad[0]) > 1e-4);
        }
    t_close(ctx);
    T_PROOF("attention 5", "gradient of s through rows and tiles");
}

/* ---- rows: properties of all */

static void test_rows_against_double(tiny_target target)
{
    static const tiny_idx length[] = { 1,  2,  3,  7,   8,   9,   15,   16,   17,   31,   33,
                                       63, 64, 65, 127, 197, 577, 1000, 4095, 4096, 4097, 20000 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    for (c = 0; c < T_COUNT(length); c++) {
        const tiny_idx n = length[c];
        const size_t m = (size_t)n;
        float *a = t_guarded(m), *g = t_guarded(m), *y = t_guarded(m), *da = t_guarded(m), *ds = t_guarded(1);
        double *wide = (double *)t_keep(m * sizeof *wide), *want = (double *)t_keep(m * sizeof *want),
               *score = (double *)t_keep(m * sizeof *score), t, d = 1e-6, q = 0.0, abs_q = 0.0, top = 0.0;
        tiny_idx i;
        for (i = 0; i < n; i++) score[i] = (double)t_rand_float(-4, 4);
        softmax(wide, score, n);
        for (i = 0; i < n; i++) {
            a[i] = (float)wide[i];
            g[i] = t_rand_float(-1, 1);
            wide[i] = (double)a[i];
            top = fmax(top, wide[i]);
        }
        for (i = 0; i < n; i++) score[i] = wide[i] / top;
        t = (double)(float)gap(score, m, .04, .9);
        oracle(want, wide, n, t, .7f);
        T_OK(rows(ctx, a, y, 1, n, t, .7));
        for (i = 0; i < n; i++) if (!T_CLOSE(y[i], want[i], 1e-6 * want[i] + 1e-12)) break;
        T_WALLS(y, m);
        for (i = 0; i < n; i++)
            if (wide[i] <= t * top) {
                d += wide[i];
                q += (double)g[i] * wide[i] * wide[i];
                abs_q += fabs((double)g[i]) * wide[i] * wide[i];
            }
        T_OK(back(ctx, a, g, da, ds, 1, n, t, .7));
        for (i = 0; i < n; i++)
            if (!T_CLOSE(da[i],
                         wide[i] <= t * top ? (double).7f * (2 * wide[i] * (double)g[i] / d - q / (d * d))
                                            : (double)g[i],
                         2e-6 * (2 * wide[i] * fabs((double)g[i]) / d + abs_q / (d * d)) + 1e-12))
                break;
        T_CLOSE(ds[0], q / d, 2e-6 * abs_q / d + 1e-12);
        T_WALLS(da, m);
        T_WALLS(ds, 1);
    }
    t_close(ctx);
}

/* Below the smallest ratio nothing is trivial; nor with t = 0; s = 0 switches all off, for any t. Bit for bit,
 * forward and back. */
static void test_proof_5_identity(tiny_target target)
{
    enum { N = 77 };
    static const double off[3][2] = { { .049, .5 }, { 0, .5 }, { 1, 0 } };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *a = t_rand(3 * N, .05f, 1.0f), *g = t_rand(3 * N, -1, 1), *y = t_guarded(3 * N), *da = t_guarded(3 * N),
          ds[3];
    int c;
    for (c = 0; c < 3; c++) {
        T_OK(rows(ctx, a, y, 3, N, off[c][0], off[c][1]));
        T_SAME(y, a, 3 * N);
        T_OK(back(ctx, a, g, da, ds, 3, N, off[c][0], off[c][1]));
        T_SAME(da, g, 3 * N);
        T_TRUE(ds[0] == 0 && ds[1] == 0 && ds[2] == 0);
    }
    a[5] = 0.0f;                            /* a hidden key's weight stays 0 */
    T_OK(rows(ctx, a, y, 3, N, .5, .5));
    T_TRUE(y[5] == 0.0f);
    t_close(ctx);
    T_PROOF("attention 5", "t below all ratios is the identity");
}

/* n equal weights: trivial from t = 1 on, all of them, and then divided by n / s; so it is no choice of the k largest,
 * in which k of n stay */
static void test_proof_5_equal_weights(tiny_target target)
{
    static const tiny_idx length[] = { 1, 5, 64, 129, 4096 };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t c;
    for (c = 0; c < T_COUNT(length); c++) {
        const tiny_idx n = length[c];
        float *a = t_guarded((size_t)n), *y = t_guarded((size_t)n);
        tiny_idx i;
        for (i = 0; i < n; i++) a[i] = 1.0f / (float)n;
        T_OK(rows(ctx, a, y, 1, n, .999, .5));
        T_SAME(y, a, n);
        T_OK(rows(ctx, a, y, 1, n, 1, .5));
        /* the bound of the row */
        for (i = 0; i < n; i++)
            T_CLOSE(y[i], .5 / (double)n / (double)n / (1 + 1e-6),
                    (n < 200 ? 1e-6 : .5 * 136 * 0x1p-24) / (double)n / (double)n);
    }
    t_close(ctx);
    T_PROOF("attention 5", "equal weights: trivial only from t = 1 on");
}

/* Rows with the same weights in another order have their results in that order; a row sum follows the formula, and is
 * not 1. */
static void test_proof_5_order_and_sum(tiny_target target)
{
    enum { N = 101 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *a = t_guarded(2 * N), *y = t_guarded(2 * N);
    double wide[N], ratio[N], sum = 0.0, want = 0.0, small = 1e-6, squares = 0.0, top = 0.0, t;
    int i;
    for (i = 0; i < N; i++) sum += wide[i] = exp(3 * (double)t_rand_float(-1, 1));
    for (i = 0; i < N; i++) {
        a[i] = (float)(wide[i] / sum);
        a[N + (i * 37 + 11) % N] = a[i];
        top = fmax(top, (double)a[i]);
    }
    for (i = 0; i < N; i++) ratio[i] = (double)a[i] / top;
    t = gap(ratio, N, .1, .6);
    T_OK(rows(ctx, a, y, 2, N, t, .5));
    for (i = 0, sum = 0.0; i < N; i++) {
        T_CLOSE(y[N + (i * 37 + 11) % N], y[i], 1e-6 * (double)y[i]);
        sum += (double)y[i];
        if ((double)a[i] > t * top) want += (double)a[i];
        else { small += (double)a[i]; squares += (double)a[i] * (double)a[i]; }
    }
    want += .5 * squares / small;
    T_CLOSE(sum, want, 1e-6);
    T_TRUE(sum < .99);
    t_close(ctx);
    T_PROOF("attention 5", "permutation equivariance, no renormalisation");
}

/* strides: columns of a matrix, and a result with gaps */
static void test_strides(tiny_target target)
{
    enum { R = 6, N = 50 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *a = t_rand(R * N, 0, 1), *turned = t_guarded(R * N), *y = t_guarded(R * N), *apart = t_guarded(2 * R * N),
          *g = t_rand(R * N, -1, 1), *da = t_guarded(R * N), *db = t_guarded(R * N), ds[R], dt[R];
    const tiny_twist_params p = with(.37, .5);
    tiny_tensor ta = tiny_tensor_2d(turned, TINY_F32, N, R), ty = tiny_tensor_2d(apart, TINY_F32, R, 2 * N),
                tg = tiny_tensor_2d(g, TINY_F32, R, N), td = tiny_tensor_2d(db, TINY_F32, N, R);
    tiny_tensor ts = tiny_tensor_2d(dt, TINY_F32, R, 1);
    int r, i;
    for (r = 0; r < R; r++) for (i = 0; i < N; i++) turned[i * R + r] = a[r * N + i];
    ta = tiny_tensor_swap(ta, 0, 1);
    ty.dim[1] = N;
    ty.stride[1] = 2;
    T_OK(rows(ctx, a, y, R, N, .37, .5));
    T_OK(tiny_twist(ctx, &ta, NULL, &p, &ty));
    for (r = 0; r < R; r++) for (i = 0; i < N; i++) if (!T_CLOSE(apart[2 * (r * N + i)], y[r * N + i], 0)) break;
    T_OK(tiny_twist(ctx, &ta, NULL, &p, &ta));
    for (r = 0; r < R; r++) for (i = 0; i < N; i++) if (!T_CLOSE(turned[i * R + r], y[r * N + i], 0)) break;
    for (r = 0; r < R; r++) for (i = 0; i < N; i++) turned[i * R + r] = a[r * N + i];
    td = tiny_tensor_swap(td, 0, 1);
    T_OK(back(ctx, a, g, da, ds, R, N, .37, .5));
    T_OK(tiny_twist_backward(ctx, &ta, &tg, NULL, &p, &td, &ts));
    for (r = 0; r < R; r++) for (i = 0; i < N; i++) if (!T_CLOSE(db[i * R + r], da[r * N + i], 0)) break;
    T_SAME(ds, dt, R);
    t_close(ctx);
}

/* ---- tiles */

/* bias 1: a window and a slope, 2: for each head, with hidden keys */
typedef struct form { tiny_idx n_query, n_key, n_head, n_kv, d, d_v; int causal, bias; float cap; } form;
typedef struct problem {
    form f;
    float *q, *k, *v, *b;
    tiny_tensor tq, tk, tv, tb;
    tiny_attention_params p;
    double *score, *want;
} problem;

/* scores and weights in double; t is put into a gap */
static problem make(const form *f, int grid)
{
    problem x;
    const size_t nq = (size_t)(f->n_query * f->n_head * f->d), nk = (size_t)(f->n_key * f->n_kv * f->d),
                 nv = (size_t)(f->n_key * f->n_kv * f->d_v), pairs = (size_t)(f->n_head * f->n_query * f->n_key);
    double *ratio = (double *)t_keep((pairs + 1) * sizeof *ratio),
           *w = (double *)t_keep((size_t)(f->n_key + 1) * sizeof *w),
           *y = (double *)t_keep((size_t)(f->n_key + 1) * sizeof *y);
    tiny_idx t, h, c, i;
    size_t n = 0, j;
    memset(&x, 0, sizeof x);
    x.f = *f;
    x.q = t_rand(nq, -1.7f, 1.7f);
    x.k = t_rand(nk, -1.7f, 1.7f);
    x.v = t_rand(nv, -1.7f, 1.7f);
    x.b = t_guarded(f->bias == 2 ? pairs : f->bias ? (size_t)(f->n_query * f->n_key) : 1);
    if (grid) for (j = 0; j < nq; j++) x.q[j] = 0.0f;
    for (h = 0; h < (f->bias == 2 ? f->n_head : f->bias ? 1 : 0); h++)
        for (t = 0; t < f->n_query; t++)
            for (c = 0; c < f->n_key; c++)
                x.b[(h * f->n_query + t) * f->n_key + c] =
                    f->bias == 1      ? (t - c < 0 || t - c >= 9 ? -INFINITY : -.1f * (float)(t - c))
                    : t_rand_below(3) ? t_rand_float(-1, 1)
                                      : -INFINITY;
    x.tq = tiny_tensor_3d(x.q, TINY_F32, f->n_query, f->n_head, f->d);
    x.tk = tiny_tensor_3d(x.k, TINY_F32, f->n_key, f->n_kv, f->d);
    x.tv = tiny_tensor_3d(x.v, TINY_F32, f->n_key, f->n_kv, f->d_v);
    x.tb = f->bias == 2 ? tiny_tensor_3d(x.b, TINY_F32, f->n_head, f->n_query, f->n_key)
                        : tiny_tensor_2d(x.b, TINY_F32, f->n_query, f->n_key);
    x.p.causal = f->causal;
    x.p.softcap = f->cap;
    x.p.twist_s = .5f;
    x.score = (double *)t_keep((pairs + 1) * sizeof *x.score);
    x.want = (double *)t_keep((size_t)(f->n_query * f->n_head * f->d_v + 1) * sizeof *x.want);
    for (h = 0; h < f->n_head; h++)
        for (t = 0; t < f->n_query; t++) {
            double *s = x.score + (h * f->n_query + t) * f->n_key, top = 0.0;
            for (c = 0; c < f->n_key; c++) {
                double sum = 0.0;
                for (i = 0; i < f->d; i++)
                    sum += (double)x.q[(t * f->n_head + h) * f->d + i] *
                           (double)x.k[(c * f->n_kv + h / (f->n_head / f->n_kv)) * f->d + i];
                sum /= sqrt((double)f->d);
                if (f->cap > 0.0f) sum = (double)f->cap * tanh(sum / (double)f->cap);
                if (f->bias) sum += (double)x.b[((f->bias == 2 ? h * f->n_query : 0) + t) * f->n_key + c];
                s[c] = f->causal && c > f->n_key - f->n_query + t ? -HUGE_VAL : sum;
            }
            softmax(w, s, f->n_key);
            for (c = 0; c < f->n_key; c++) top = fmax(top, w[c]);
            for (c = 0; c < f->n_key; c++) if (w[c] > 0.0) ratio[n++] = w[c] / top;
        }
    x.p.twist_t = grid ? 1.0f : (float)gap(ratio, n, .07, .3);
    for (h = 0; h < f->n_head; h++)
        for (t = 0; t < f->n_query; t++) {
            softmax(w, x.score + (h * f->n_query + t) * f->n_key, f->n_key);
            oracle(y, w, f->n_key, (double)x.p.twist_t, (double)x.p.twist_s);
            for (i = 0; i < f->d_v; i++) {
                double sum = 0.0;
                for (c = 0; c < f->n_key; c++)
                    sum += y[c] * (double)x.v[(c * f->n_kv + h / (f->n_head / f->n_kv)) * f->d_v + i];
                x.want[(t * f->n_head + h) * f->d_v + i] = sum;
            }
        }
    return x;
}
static tiny_status tiled(tiny_ctx *ctx, const problem *x, float *o)
{
    tiny_tensor to = tiny_tensor_3d(o, TINY_F32, x->f.n_query, x->f.n_head, x->f.d_v);
    return tiny_attention(ctx, &x->tq, &x->tk, &x->tv, x->f.bias ? &x->tb : NULL, &x->p, &to);
}
/* the same by rows: softmax, twist, product, a head at a time; scores as given */
static void by_rows(tiny_ctx *ctx, const problem *x, float *o)
{
    const form *f = &x->f;
    float *s = t_guarded((size_t)(f->n_query * f->n_key));
    const tiny_twist_params p = with((double)x->p.twist_t, (double)x->p.twist_s);
    tiny_tensor ts = tiny_tensor_2d(s, TINY_F32, f->n_query, f->n_key), v, y;
    tiny_idx h, i;
    for (h = 0; h < f->n_head; h++) {
        for (i = 0; i < f->n_query * f->n_key; i++) s[i] = (float)x->score[h * f->n_query * f->n_key + i];
        v = tiny_tensor_2d(x->v + h / (f->n_head / f->n_kv) * f->d_v, TINY_F32, f->n_key, f->d_v);
        v.stride[0] = f->n_kv * f->d_v;
        y = tiny_tensor_2d(o + h * f->d_v, TINY_F32, f->n_query, f->d_v);
        y.stride[0] = f->n_head * f->d_v;
        T_OK(tiny_softmax(ctx, &ts, NULL, &ts));
        T_OK(tiny_twist(ctx, &ts, NULL, &p, &ts));
        T_OK(tiny_matmul(ctx, &ts, &v, NULL, TINY_ACT_NONE, &y));
    }
}

static const form forms[] = { { 1, 1, 1, 1, 1, 1, 0, 0, 0 },
                              { 5, 40, 2, 2, 16, 16, 0, 0, 0 },
                              { 65, 65, 2, 2, 16, 16, 0, 0, 0 },
                              { 40, 130, 3, 1, 33, 20, 0, 0, 0 },
                              { 70, 197, 2, 2, 64, 64, 1, 0, 0 },
                              { 130, 100, 2, 1, 16, 7, 1, 0, 0 },
                              { 33, 63, 4, 2, 24, 32, 0, 1, 0 },
                              { 33, 64, 4, 2, 24, 32, 0, 2, 0 },
                              { 3, 300, 8, 2, 40, 40, 1, 2, 0 },
                              { 50, 129, 2, 2, 32, 17, 0, 0, 2 },
                              { 100, 257, 1, 1, 64, 64, 1, 1, 3 },
                              { 1, 2000, 4, 4, 16, 16, 0, 0, 0 },
                              { 100, 1500, 1, 1, 8, 8, 1, 0, 0 },
                              { 40, 3000, 1, 1, 8, 8, 0, 0, 0 },
                              /* whole tiles of rows and of keys: no rest */
                              { 64, 64, 8, 1, 16, 16, 1, 0, 0 },
                              { 96, 128, 4, 1, 8, 8, 0, 0, 0 },
                              /* from here on not all scores are stored: 32 rows and more, few rows */
                              { 40, 4300, 1, 1, 8, 17, 0, 0, 0 },
                              { 130, 4300, 1, 1, 8, 8, 1, 0, 0 },
                              { 3, 8400, 2, 1, 8, 19, 0, 0, 0 },
                              { 33, 4200, 2, 2, 4, 4, 0, 2, 0 } };

/* Tiles, rows and double agree to 1e-6, in every form of masks, groups, caps and sizes of attention. */
static void test_proof_5_tiles_are_rows(tiny_target target)
{
    size_t c;
    int threads, i;
    for (c = 0; c < T_COUNT(forms); c++)
        for (threads = 1; threads < 4; threads += 2) {
            tiny_ctx *ctx = t_ctx(target, threads);
            problem x = make(&forms[c], 0);
            const int n = (int)(x.f.n_query * x.f.n_head * x.f.d_v);
            float *o = t_guarded((size_t)n), *r = t_guarded((size_t)n);
            T_OK(tiled(ctx, &x, o));
            T_RAN_ON(ctx, t_vectors(target));
            by_rows(ctx, &x, r);
            for (i = 0; i < n; i++)
                if (!T_CLOSE(o[i], x.want[i], 1e-6) || !T_CLOSE(r[i], x.want[i], 1e-6)) {
                    printf("    form %d, %d threads\n", (int)c, threads);
                    break;
                }
            T_WALLS(o, n);
            t_close(ctx);
        }
    T_PROOF("attention 5", "tiled form equals row form to 1e-6");
}

/* equal weights by tiles: scores are all 0; from t = 1 on s / n times the mean of the values, below it the mean */
static void test_proof_5_equal_scores(tiny_target target)
{
    static const form f = { 9, 150, 2, 1, 8, 5, 0, 0, 0 };
    tiny_ctx *ctx = t_ctx(target, 1);
    problem x = make(&f, 1);
    float o[9 * 2 * 5];
    int i, j;
    T_OK(tiled(ctx, &x, o));
    for (i = 0; i < 90; i++) {
        double mean = 0.0;
        for (j = 0; j < 150; j++) mean += (double)x.v[j * 5 + i % 5] / 150;
        T_CLOSE(o[i], .5 / 150 / (1 + 1e-6) * mean, 1e-8);
        T_CLOSE(x.want[i], .5 / 150 / (1 + 1e-6) * mean, 1e-8);
    }
    x.p.twist_t = .999f;
    T_OK(tiled(ctx, &x, o));
    for (i = 0; i < 90; i++) {
        double mean = 0.0;
        for (j = 0; j < 150; j++) mean += (double)x.v[j * 5 + i % 5] / 150;
        T_CLOSE(o[i], mean, 1e-6);
    }
    t_close(ctx);
}

/* o of v and of u give that of 2 v - 3 u; keys in another order give the same, queries in another order theirs; a
 * constant on all scores of a row changes nothing: the threshold is for weights, not for scores; s = 0 and t below all
 * ratios are plain attention, the first bit for bit */
static void test_proof_5_tile_invariants(tiny_target target)
{
    enum { T = 37, N = 141, H = 4, KV = 2, D = 16, DV = 12 };
    static const form f = { T, N, H, KV, D, DV, 0, 0, 0 };
    tiny_ctx *ctx = t_ctx(target, 2);
    problem x = make(&f, 0), y = x;
    float *o = t_guarded(T * H * DV), *u = t_rand(N * KV * DV, -1, 1), *ou = t_guarded(T * H * DV),
          *mix = t_guarded(N * KV * DV), *om = t_guarded(T * H * DV), *kp = t_guarded(N * KV * D),
          *vp = t_guarded(N * KV * DV);
    float *qp = t_guarded(T * H * D), *shift = t_guarded(T * N);
    tiny_tensor tb = tiny_tensor_2d(shift, TINY_F32, T, N), to = tiny_tensor_3d(ou, TINY_F32, T, H, DV);
    int i, j;
    T_OK(tiled(ctx, &x, o));
    y.tv.data = u;
    T_OK(tiled(ctx, &y, ou));
    for (i = 0; i < N * KV * DV; i++) mix[i] = 2 * x.v[i] - 3 * u[i];
    y.tv.data = mix;
    T_OK(tiled(ctx, &y, om));
    for (i = 0; i < T * H * DV; i++) if (!T_CLOSE(om[i], 2 * (double)o[i] - 3 * (double)ou[i], 4e-6)) break;
    for (i = 0; i < N; i++) {
        const int at = (i * 50 + 3) % N;
        memcpy(kp + at * KV * D, x.k + i * KV * D, KV * D * sizeof *kp);
        memcpy(vp + at * KV * DV, x.v + i * KV * DV, KV * DV * sizeof *vp);
    }
    y.tk.data = kp;
    y.tv.data = vp;
    T_OK(tiled(ctx, &y, ou));
    for (i = 0; i < T * H * DV; i++) if (!T_CLOSE(ou[i], o[i], 1e-6)) break;
    for (i = 0; i < T; i++) memcpy(qp + (i * 10 + 5) % T * H * D, x.q + i * H * D, H * D * sizeof *qp);
    y = x;
    y.tq.data = qp;
    T_OK(tiled(ctx, &y, ou));
    for (i = 0; i < T; i++)
        for (j = 0; j < H * DV; j++)
            if (!T_CLOSE(ou[(i * 10 + 5) % T * H * DV + j], o[i * H * DV + j], 1e-6)) break;
    for (i = 0; i < T * N; i++) shift[i] = i / N % 2 ? 16.0f : -16.0f;
    T_OK(tiny_attention(ctx, &x.tq, &x.tk, &x.tv, &tb, &x.p, &to));
    /* a score of 16 is rounded to 1e-6 */
    for (i = 0; i < T * H * DV; i++) if (!T_CLOSE(ou[i], o[i], 5e-6)) break;
    y = x;
    y.p.twist_s = 0.0f;
    T_OK(tiled(ctx, &y, ou));
    y.p.twist_t = 0.0f;
    T_OK(tiled(ctx, &y, om));
    T_SAME(ou, om, T * H * DV);
    y.p.twist_s = .5f;
    y.p.twist_t = 1e-9f;
    T_OK(tiled(ctx, &y, ou));
    for (i = 0; i < T * H * DV; i++) if (!T_CLOSE(ou[i], om[i], 1e-6)) break;
    t_close(ctx);
    T_PROOF("attention 5", "scaling v scales o");
}

/* Where the trivial weights sum to about 1e-6, the 1e-6 that is added counts: a lone a of 1e-6 becomes s a / 2, by rows
 * and by tiles. */
static void test_tiny_sums(tiny_target target)
{
    static const float a[2] = { 1.0f, 1e-6f }, q[1] = { 1 }, v[2] = { 0, 1 };
    const float k[2] = { 0, logf(1e-6f) };
    const tiny_tensor tq = tiny_tensor_3d((void *)(uintptr_t)q, TINY_F32, 1, 1, 1),
                      tk = tiny_tensor_3d((void *)(uintptr_t)k, TINY_F32, 2, 1, 1),
                      tv = tiny_tensor_3d((void *)(uintptr_t)v, TINY_F32, 2, 1, 1);
    tiny_ctx *ctx = t_ctx(target, 1);
    tiny_attention_params p;
    float y[2], o[1];
    const tiny_tensor to = tiny_tensor_3d(o, TINY_F32, 1, 1, 1);
    memset(&p, 0, sizeof p);
    p.twist_t = .1f;
    p.twist_s = .5f;
    T_OK(rows(ctx, a, y, 1, 2, .1, .5));
    T_CLOSE(y[1], 2.5e-7, 1e-12);
    T_OK(tiny_attention(ctx, &tq, &tk, &tv, NULL, &p, &to));
    T_CLOSE(o[0], 2.5e-7, 1e-12);
    t_close(ctx);
}

/* from 1345 keys on the workspace of the tiles does not grow */
static void test_proof_5_no_long_buffer(void)
{
    const tiny_op_row *row = tiny_op_row_of(TINY_OP_ATTENTION);
    float one[1] = { 0 };
    size_t own[3], shared;
    tiny_attention_params p;
    tiny_op op;
    int i;
    memset(&p, 0, sizeof p);
    p.twist_t = .1f;
    p.twist_s = .5f;
    for (i = 0; i < 3; i++) {
        tiny_tensor q = tiny_tensor_3d(one, TINY_F32, i == 0 ? 1400 : i == 1 ? 10000 : 1000000, 1, 64), o = q;
        memset(&op, 0, sizeof op);
        op.kind = TINY_OP_ATTENTION;
        op.in[0] = op.in[1] = op.in[2] = &q;
        op.out[0] = &o;
        op.params = &p;
        row->work(&op, 1, &shared, &own[i]);
    }
    T_EQ_INT(own[1], own[0]);
    T_EQ_INT(own[2], own[0]);
    T_TRUE(own[0] < (size_t)1 << 20);
}

/* ---- bad and odd input */

static void test_odd_rows(tiny_target target)
{
    enum { N = 21 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *a = t_rand(4 * N, .01f, 1), *y = t_guarded(4 * N), *g = t_rand(4 * N, -1, 1), *da = t_guarded(4 * N), ds[4],
          one[1] = { 1 }, out[1];
    int i, kind;
    for (kind = 0; kind < 3; kind++) {
        a[N + 3] = kind == 0 ? NAN : kind == 1 ? INFINITY : -INFINITY;
        for (i = 0; i < N; i++) a[2 * N + i] = 0.0f;            /* nothing is seen */
        T_OK(rows(ctx, a, y, 4, N, .4, .5));
        T_OK(back(ctx, a, g, da, ds, 4, N, .4, .5));
        for (i = 0; i < 4 * N; i++) {
            T_TRUE((y[i] != y[i]) == (i / N == 1));
            T_TRUE((da[i] != da[i]) == (i / N == 1));
            if (i / N == 2) T_TRUE(y[i] == 0.0f && da[i] == 0.0f);
        }
        T_TRUE(ds[0] == ds[0] && ds[1] != ds[1] && ds[2] == 0.0f);
    }
    T_OK(rows(ctx, one, out, 1, 1, .9, .5));
    T_TRUE(out[0] == 1.0f);
    T_OK(rows(ctx, one, out, 1, 1, 1, .5));
    T_CLOSE(out[0], .5 / 1.000001, 1e-7);
    T_OK(rows(ctx, one, out, 5, 0, .5, .5));
    T_OK(rows(ctx, one, out, 0, 5, .5, .5));
    ds[0] = 3;
    T_OK(back(ctx, one, one, out, ds, 1, 0, .5, .5));           /* nothing hangs on s */
    T_TRUE(ds[0] == 0.0f);
    t_close(ctx);
    T_PROOF("attention 5", "bad input: NaN row, n = 0, one element");
}

/* a query that sees nothing: zeros; hidden keys may hold anything; a visible infinity passes through both kinds of
 * weights; a NaN in a score reaches its row and no other */
static void odd_tiles(tiny_ctx *ctx, int NQ, int NK)
{
    enum { D = 3, DV = 19 };
    float *q = t_rand((size_t)(NQ * D), -1, 1), *k = t_rand((size_t)(NK * D), -1, 1),
          *v = t_rand((size_t)(NK * DV), -1, 1), *bias = t_guarded((size_t)(NQ * NK)),
          *o = t_guarded((size_t)(NQ * DV)), *want = t_guarded((size_t)(NQ * DV));
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, NQ, 1, D), tk = tiny_tensor_3d(k, TINY_F32, NK, 1, D),
                tv = tiny_tensor_3d(v, TINY_F32, NK, 1, DV);
    tiny_tensor tb = tiny_tensor_2d(bias, TINY_F32, NQ, NK), to = tiny_tensor_3d(o, TINY_F32, NQ, 1, DV),
                tw = tiny_tensor_3d(want, TINY_F32, NQ, 1, DV);
    tiny_attention_params p;
    tiny_op op;
    int i, kind;
    memset(&p, 0, sizeof p);
    p.twist_t = .2f;
    p.twist_s = .5f;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_ATTENTION;
    op.in[0] = &tq; op.in[1] = &tk; op.in[2] = &tv; op.in[3] = &tb;
    op.out[0] = &tw;
    op.params = &p;
    for (kind = 0; kind < 3; kind++) {
        for (i = 0; i < NQ * NK; i++)
            bias[i] = i / NK == 2 || i % NK == 3 || i % NK == 67 ? -INFINITY : i % NK == 20 ? 4.0f : 0.0f;
        v[3 * DV + 4] = INFINITY;
        v[67 * DV + 18] = NAN;
        v[20 * DV + 1] = kind == 1 ? INFINITY : 0.5f;           /* the largest weight */
        v[30 * DV + 2] = kind == 1 ? -INFINITY : 0.5f;          /* a trivial one */
        if (kind == 2) bias[4 * NK + 9] = NAN;
        T_OK(tiny_attention(ctx, &tq, &tk, &tv, &tb, &p, &to));
        T_OK(tiny_run_reference(ctx, &op));
        for (i = 0; i < NQ * DV; i++) {
            const int row = i / DV;
            if (row == 2) T_TRUE(o[i] == 0.0f && want[i] == 0.0f);
            else if (kind == 2 && row == 4) T_TRUE(o[i] != o[i] && want[i] != want[i]);
            else if (kind == 1 && (i % DV == 1 || i % DV == 2))
                T_TRUE(o[i] == (i % DV == 1 ? INFINITY : -INFINITY) && want[i] == o[i]);
            else if (!T_TRUE(o[i] == o[i]) || !T_CLOSE(o[i], want[i], 2e-6)) break;
        }
    }
}
static void test_odd_tiles(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    odd_tiles(ctx, 5, 70);
    odd_tiles(ctx, 40, 70);
    odd_tiles(ctx, 40, 4200);               /* not all scores are stored */
    t_close(ctx);
    T_PROOF("attention 5", "bad input: all-masked row gives zeros");
}


static void test_refused(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float x[12] = { .1f, .2f, .7f }, y[12], two[2] = { .5f, .5f }, nan1[1] = { NAN };
    double wide[1] = { .5 };
    tiny_tensor a = tiny_tensor_2d(x, TINY_F32, 1, 3), o = tiny_tensor_2d(y, TINY_F32, 1, 3),
                s2 = tiny_tensor_1d(two, TINY_F32, 2), sn = tiny_tensor_1d(nan1, TINY_F32, 1),
                s64 = tiny_tensor_1d(wide, TINY_F64, 1);
    tiny_tensor none = tiny_tensor_nd(x, TINY_F32, 0, a.dim), h = tiny_tensor_1d(x, TINY_F16, 3),
                short_ = tiny_tensor_2d(two, TINY_F32, 1, 2), ds = tiny_tensor_2d(y + 6, TINY_F32, 1, 1);
    tiny_tensor q = tiny_tensor_3d(x, TINY_F32, 1, 1, 3), z = tiny_tensor_3d(y, TINY_F32, 1, 1, 3);
    tiny_attention_params p;
    tiny_twist_params w;
    tiny_op op;
    T_STATUS(rows(ctx, x, y, 1, 3, -.1, .5), TINY_E_ARGUMENT,
             "twist: the threshold t is -0.1; it must be finite and at least 0");
    T_STATUS(rows(ctx, x, y, 1, 3, (double)NAN, .5), TINY_E_ARGUMENT, "the threshold t is");
    T_STATUS(rows(ctx, x, y, 1, 3, (double)INFINITY, .5), TINY_E_ARGUMENT, "the threshold t is inf");
    T_STATUS(rows(ctx, x, y, 1, 3, .1, (double)NAN), TINY_E_NUMERIC, "twist: the factor s is");
    T_STATUS(rows(ctx, x, y, 1, 3, .1, (double)INFINITY), TINY_E_NUMERIC, "the factor s is inf");
    w = with(.1, .5);
    T_STATUS(tiny_twist(ctx, &a, &sn, &w, &o), TINY_E_NUMERIC, "the factor s is");
    T_STATUS(tiny_twist(ctx, &a, &s2, &w, &o), TINY_E_SHAPE, "s is 2 f32, it must be one number");
    T_STATUS(tiny_twist(ctx, &a, &s64, &w, &o), TINY_E_DTYPE, "s is f64, the weights f32");
    T_STATUS(tiny_twist(ctx, &none, NULL, &w, &none), TINY_E_SHAPE, "need an axis");
    T_STATUS(tiny_twist(ctx, &h, NULL, &w, &h), TINY_E_DTYPE, "must be f32 or f64, not f16");
    T_STATUS(tiny_twist(ctx, NULL, NULL, &w, &o), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_twist(ctx, &a, NULL, &w, NULL), TINY_E_ARGUMENT, NULL);
    T_OK(tiny_twist(ctx, &a, NULL, NULL, &o));      /* all zero: off */
    T_SAME(x, y, 3);
    T_STATUS(tiny_twist_backward(ctx, &a, &short_, NULL, &w, &o, &ds), TINY_E_SHAPE,
             "twist_backward: dy is 1x2 f32, it must have the shape of the weights: 1x3 f32");
    T_STATUS(tiny_twist_backward(ctx, &a, &a, &sn, &w, &o, &ds), TINY_E_NUMERIC, "twist_backward: the factor s is");
    T_STATUS(tiny_twist_backward(ctx, &a, &a, NULL, &w, &o, &short_), TINY_E_SHAPE,
             "output 1 is 1x2 f32, it must be 1x1 f32");
    memset(&p, 0, sizeof p);
    p.twist_s = .5f;
    p.twist_t = -1;
    T_STATUS(tiny_attention(ctx, &q, &q, &q, NULL, &p, &z), TINY_E_ARGUMENT, "attention: the threshold t is -1");
    p.twist_t = .1f;
    p.twist_s = NAN;
    T_STATUS(tiny_attention(ctx, &q, &q, &q, NULL, &p, &z), TINY_E_NUMERIC, "attention: the factor s is");
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_ATTENTION;
    op.in[0] = op.in[1] = op.in[2] = &q;
    op.out[0] = &z;
    op.in[4] = &s2;
    T_STATUS(tiny_run(ctx, &op), TINY_E_SHAPE, "attention: s is 2 f32");
    op.in[4] = &sn;
    T_STATUS(tiny_run(ctx, &op), TINY_E_NUMERIC, "attention: the factor s is");
    t_close(ctx);
    T_PROOF("attention 5", "bad input: t < 0, s NaN");
}

static void test_conformance(tiny_target target)
{
    t_conform(target, tiny_op_row_of(TINY_OP_TWIST), 200);
    t_conform(target, tiny_op_row_of(TINY_OP_TWIST_BACKWARD), 200);
    t_conform(target, tiny_op_row_of(TINY_OP_ATTENTION), 120);
    T_PROOF("attention 5", "gradients match differences to 1e-11");
}

int main(void)
{
    T_RUN_TARGETS(test_proof_5_worked);
    T_RUN_TARGETS(test_proof_5_differences);
    T_RUN_TARGETS(test_proof_5_gradient_of_s);
    T_RUN_TARGETS(test_rows_against_double);
    T_RUN_TARGETS(test_proof_5_identity);
    T_RUN_TARGETS(test_proof_5_equal_weights);
    T_RUN_TARGETS(test_proof_5_order_and_sum);
    T_RUN_TARGETS(test_strides);
    T_RUN_TARGETS(test_proof_5_tiles_are_rows);
    T_RUN_TARGETS(test_proof_5_equal_scores);
    T_RUN_TARGETS(test_proof_5_tile_invariants);
    T_RUN_TARGETS(test_tiny_sums);
    T_RUN(test_proof_5_no_long_buffer);
    T_RUN_TARGETS(test_odd_rows);
    T_RUN_TARGETS(test_odd_tiles);
    T_RUN_TARGETS(test_refused);
    T_RUN_TARGETS(test_conformance);
    return t_done();
}
