/* tests/gnn/operator/oneway.c - one-way filters: the sum over an outer product written here, ordinary convolutions,
 * worked counts, exact and best factors, gradients by differences, bad input; the wave equation against its energy and
 * a standing wave; training of one exact step; networks of all kinds */
#define T_GNN
#include "t.h"

#define PI 3.14159265358979323846

static tiny_tape *open_tape(tiny_ctx *ctx, int no_grad)
{
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 24;
    d.no_grad = no_grad;
    T_OK(tiny_tape_open(ctx, &d, &tape));
    return tape;
}

static double at(const tiny_tensor *t, tiny_idx i)
{
    return t->dtype == TINY_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void set(const tiny_tensor *t, tiny_idx i, double v)
{
    if (t->dtype == TINY_F64) ((double *)t->data)[i] = v;
    else ((float *)t->data)[i] = (float)v;
}

static tiny_tensor drawn(tiny_dtype type, int rank, tiny_idx a, tiny_idx b, tiny_idx c)
{
    tiny_idx dim[3], i;
    tiny_tensor t;
    dim[0] = a;
    dim[1] = b;
    dim[2] = c;
    t = tiny_tensor_nd(NULL, type, rank, dim);
    t.data = t_keep((size_t)tiny_tensor_count(&t) * tiny_dtype_bytes(type));
    for (i = 0; i < tiny_tensor_count(&t); i++) set(&t, i, (double)t_rand_float(-1, 1));
    return t;
}

/* ---- the layer */

typedef struct layer {
    tgnn_oneway p;
    tiny_idx size[3], after[3], points, points_after, taps;
    tiny_tensor x, a, f, bias, kernel, y;
} layer;

static tgnn_oneway shape_of(int d, tiny_idx n_in, tiny_idx n_out, int rank, int k, int stride, int pad)
{
    tgnn_oneway p;
    memset(&p, 0, sizeof p);
    p.d = d;
    p.n_in = n_in;
    p.n_out = n_out;
    p.rank = rank;
    p.k = k;
    p.stride = stride;
    p.pad = pad;
    return p;
}

static layer make(tiny_ctx *ctx, const tgnn_oneway *p, tiny_dtype type, tiny_idx a, tiny_idx b, tiny_idx c)
{
    layer l;
    int i;
    memset(&l, 0, sizeof l);
    l.p = *p;
    l.size[0] = a;
    l.size[1] = b;
    l.size[2] = c;
    T_OK(tgnn_oneway_size(ctx, p, l.size, l.after));
    l.points = l.points_after = l.taps = 1;
    for (i = 0; i < p->d; i++) {
        l.points *= l.size[i];
        l.points_after *= l.after[i];
        l.taps *= p->k;
    }
    l.x = drawn(type, 3, 2, p->n_in, l.points);
    l.a = drawn(type, 2, p->n_out * p->rank, p->n_in, 0);
    l.f = drawn(type, 3, p->d, p->n_out * p->rank, p->k);
    l.bias = drawn(type, 1, p->n_out, 0, 0);
    l.kernel = drawn(type, 3, p->n_out, p->n_in, l.taps);
    l.y = drawn(type, 3, 2, p->n_out, l.points_after);
    return l;
}

/* y of one output point from the whole kernel, written apart from the library */
static double direct(const layer *l, tiny_idx n, tiny_idx o, tiny_idx p)
{
    double sum = at(&l->bias, o);
    tiny_idx c, t;
    for (c = 0; c < l->p.n_in; c++)
        for (t = 0; t < l->taps; t++) {
            tiny_idx tap = t, to = p, from = 0, by = 1;
            int i, inside = 1;
            for (i = l->p.d - 1; i >= 0; i--) {
                const tiny_idx j = to % l->after[i] * (l->p.stride ? l->p.stride : 1) + tap % l->p.k - l->p.pad;
                if (j < 0 || j >= l->size[i]) inside = 0;
                from += j * by;
                by *= l->size[i];
                to /= l->after[i];
                tap /= l->p.k;
            }
            if (inside)
                sum += at(&l->kernel, (o * l->p.n_in + c) * l->taps + t) *
                       at(&l->x, (n * l->p.n_in + c) * l->points + from);
        }
    return sum;
}

static void test_outer_product(tiny_target target)
{
    static const struct { int d, rank, k, stride, pad; tiny_idx n_in, n_out, size[3]; } form[] = {
        { 2, 1, 3, 1, 1, 3, 2, { 9, 17, 1 } }, { 2, 3, 5, 1, 2, 2, 3, { 12, 33, 1 } },
        { 2, 2, 3, 2, 1, 4, 2, { 11, 16, 1 } }, { 2, 2, 5, 3, 4, 1, 2, { 7, 21, 1 } },
        { 1, 2, 5, 1, 0, 3, 2, { 40, 1, 1 } },  { 1, 1, 7, 2, 3, 1, 1, { 31, 1, 1 } },
        { 3, 2, 3, 1, 1, 2, 2, { 4, 5, 18 } },  { 3, 1, 3, 2, 1, 2, 1, { 5, 6, 7 } },
        { 2, 1, 1, 1, 0, 2, 2, { 3, 3, 1 } }
    };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t i;
    int wide;
    for (i = 0; i < T_COUNT(form); i++)
        for (wide = 0; wide < 2; wide++) {
            const tgnn_oneway p = shape_of(form[i].d, form[i].n_in, form[i].n_out, form[i].rank, form[i].k,
                                           form[i].stride, form[i].pad);
            layer l = make(ctx, &p, wide ? TINY_F64 : TINY_F32, form[i].size[0], form[i].size[1], form[i].size[2]);
            tiny_tape *tape = open_tape(ctx, 1);
            tiny_tensor y;
            tiny_idx k, n = l.p.n_out * l.points_after;
            T_OK(tgnn_oneway_kernel(ctx, &p, &l.a, &l.f, &l.kernel));
            T_OK(tgnn_oneway_conv(ctx, &p, &l.x, &l.a, &l.f, &l.bias, l.size, &l.y));
            y = tgnn_tape_oneway(tape, &p, &l.x, &l.a, &l.f, &l.bias, l.size);
            if (T_OK(tiny_tape_status(tape)))
                for (k = 0; k < 2 * n; k++) {
                    T_CLOSE(at(&l.y, k), direct(&l, k / n, k % n / l.points_after, k % l.points_after),
                            wide ? 1e-14 : 1e-5);
                    T_CLOSE(at(&y, k), at(&l.y, k), wide ? 0 : 2e-6);
                }
            tiny_tape_close(tape);
            t_free_blocks();
        }
    t_close(ctx);
    T_PROOF("compression 8", "equals the dense convolution of the outer-product kernel (checked 4e-16)");
}

/* numbers that are not dense: every other sample, channels last */
static void test_strides(tiny_target target)
{
    static const int stride[] = { 1, 2, 3 };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t s;
    int part, down;
    for (s = 0; s < T_COUNT(stride); s++)
        for (part = 0; part < 3; part++)
            for (down = 0; down < 2; down++) {
                tgnn_lines_params p;
                tiny_tensor in[2], out, wide[2], want;
                tiny_idx after, k, points = 6 * 19;
                int j;
                memset(&p, 0, sizeof p);
                p.of = part;
                p.k = 5;
                p.stride = stride[s];
                p.pad = 3;
                p.terms = 2;
                p.outer = down ? 1 : 6;
                p.inner = down ? 6 : 1;
                p.length = 19;
                after = ((19 + 6 - 5) / stride[s] + 1) * 6;
                in[0] = part == TGNN_LINES_INPUT ? drawn(TINY_F32, 3, after, 3, 3) : drawn(TINY_F32, 3, points, 3, 6);
                in[1] = part == TGNN_LINES_WEIGHT ? drawn(TINY_F32, 3, after, 3, 3) : drawn(TINY_F32, 2, 5, 6, 0);
                out = part == TGNN_LINES_WEIGHT  ? drawn(TINY_F32, 2, 5, 6, 0)
                      : part == TGNN_LINES_INPUT ? drawn(TINY_F32, 3, points, 3, 6)
                                                 : drawn(TINY_F32, 3, after, 3, 3);
                for (j = 0; j < 2; j++) {   /* double, dense, in the order of the axes */
                    tiny_tensor *t = &in[j];
                    if (t->rank == 3) {
                        *t = tiny_tensor_swap(tiny_tensor_swap(*t, 0, 1), 1, 2);
                        wide[j] = drawn(TINY_F64, 3, t->dim[0], t->dim[1], t->dim[2]);
                    } else {
                        *t = tiny_tensor_swap(*t, 0, 1);
                        wide[j] = drawn(TINY_F64, 2, t->dim[0], t->dim[1], 0);
                    }
                    T_OK(tiny_convert(ctx, t, &wide[j]));
                }
                out = out.rank == 3 ? tiny_tensor_swap(tiny_tensor_swap(out, 0, 1), 1, 2) : tiny_tensor_swap(out, 0, 1);
                want = out.rank == 3 ? drawn(TINY_F64, 3, out.dim[0], out.dim[1], out.dim[2])
                                     : drawn(TINY_F64, 2, out.dim[0], out.dim[1], 0);
                T_OK(tgnn_lines(ctx, &wide[0], &wide[1], NULL, &p, &want));
                T_OK(tgnn_lines(ctx, &in[0], &in[1], NULL, &p, &out));
                T_RAN_ON(ctx, t_vectors(target));
                wide[0] = drawn(TINY_F64, want.rank, want.dim[0], want.dim[1], want.rank == 3 ? want.dim[2] : 0);
                T_OK(tiny_convert(ctx, &out, &wide[0]));
                for (k = 0; k < tiny_tensor_count(&want); k++) T_CLOSE(at(&wide[0], k), at(&want, k), 5e-5);
                t_free_blocks();
            }
    t_close(ctx);
}

static void test_counts(void)
{
    tgnn_oneway p = shape_of(2, 16, 32, 1, 3, 1, 1);
    T_CLOSE(tgnn_oneway_count(&p), 704, 0);
    T_CLOSE(tgnn_oneway_dense_count(&p), 4608, 0);
    p.k = 5;
    T_CLOSE(tgnn_oneway_count(&p), 832, 0);
    T_CLOSE(tgnn_oneway_dense_count(&p), 12800, 0);
    p = shape_of(3, 4, 2, 2, 3, 1, 1);
    T_CLOSE(tgnn_oneway_count(&p), 2 * 2 * (4 + 9), 0);
    T_PROOF("compression 8", "weights R Cout (Cin + 2k): 704 for 4608, 832 for 12800");
}

/* the drawn factors: their sums of outer products have the variance 2 / (n_in k^d) */
static void test_init(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tgnn_oneway p = shape_of(2, 8, 64, 2, 3, 1, 1);
    layer l = make(ctx, &p, TINY_F64, 4, 4, 1);
    double sum = 0;
    tiny_idx i, n = tiny_tensor_count(&l.kernel);
    int seed;
    for (seed = 1; seed <= 10; seed++) {
        T_OK(tgnn_oneway_init(ctx, &p, (uint64_t)seed, &l.a, &l.f));
        T_OK(tgnn_oneway_kernel(ctx, &p, &l.a, &l.f, &l.kernel));
        for (i = 0; i < n; i++) sum += at(&l.kernel, i) * at(&l.kernel, i) / (double)n / 10;
    }
    T_CLOSE(sum * 8 * 9 / 2, 1, 0.15);
    t_close(ctx);
}

/* ---- factors of kernels */

static void test_exact_rank(void)
{
    static const struct { int d, rank, k; tiny_idx n_in; } form[] = {
        { 2, 9, 3, 3 }, { 2, 15, 5, 3 }, { 2, 9, 3, 7 }, { 1, 3, 3, 5 }, { 3, 18, 3, 2 }, { 2, 11, 3, 4 }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < T_COUNT(form); i++) {
        const tgnn_oneway p = shape_of(form[i].d, form[i].n_in, 2, form[i].rank, form[i].k, 1, 1);
        layer l = make(ctx, &p, TINY_F64, 5, 5, 5);
        tiny_tensor back = drawn(TINY_F64, 3, 2, form[i].n_in, l.taps);
        double error = 1;
        tiny_idx k;
        T_OK(tgnn_oneway_fit(ctx, &p, &l.kernel, &l.a, &l.f, &error));
        T_OK(tgnn_oneway_kernel(ctx, &p, &l.a, &l.f, &back));
        T_CLOSE(error, 0, 1e-15);
        for (k = 0; k < tiny_tensor_count(&back); k++) T_CLOSE(at(&back, k), at(&l.kernel, k), 0);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("compression 8", "R >= Cin*k reproduces any kernel (construct from unfoldings)");
}

/* One channel: the best products of rank R leave the singular values from R + 1 on. Kernels that are sums of two
 * products are found again. */
static void test_best_rank(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double s[5];
    const tiny_tensor ts = tiny_tensor_1d(s, TINY_F64, 5);
    int rank, i, draw;
    for (rank = 1; rank < 5; rank++) {
        const tgnn_oneway p = shape_of(2, 1, 1, rank, 5, 1, 2);
        layer l = make(ctx, &p, TINY_F64, 5, 5, 1);
        const tiny_tensor square = tiny_tensor_2d(l.kernel.data, TINY_F64, 5, 5);
        double all = 0, rest = 0, error = 0;
        T_OK(tiny_svd(ctx, &square, NULL, &ts, NULL));
        for (i = 0; i < 5; i++) {
            all += s[i] * s[i];
            if (i >= rank) rest += s[i] * s[i];
        }
        T_OK(tgnn_oneway_fit(ctx, &p, &l.kernel, &l.a, &l.f, &error));
        T_CLOSE(error, sqrt(rest / all), 2e-3);
        T_TRUE(error >= sqrt(rest / all) - 1e-12);
        t_free_blocks();
    }
    for (draw = 0; draw < 3; draw++) {
        const tgnn_oneway p = shape_of(2, 4, 3, 2, 3, 1, 1);
        layer l = make(ctx, &p, TINY_F64, 5, 5, 1);
        double error = 1;
        T_OK(tgnn_oneway_kernel(ctx, &p, &l.a, &l.f, &l.kernel));
        T_OK(tgnn_oneway_fit(ctx, &p, &l.kernel, &l.a, &l.f, &error));
        T_TRUE(error < 0.02);
        t_free_blocks();
    }
    t_close(ctx);
}

/* 2 u + (1/2)^2 laplace u has singular values 1.112, .112, 0 */
static void test_stencil(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double m[9] = { 0, 0.25, 0, 0.25, 1, 0.25, 0, 0.25, 0 }, s[3];
    const tiny_tensor t = tiny_tensor_2d(m, TINY_F64, 3, 3), ts = tiny_tensor_1d(s, TINY_F64, 3);
    T_OK(tiny_svd(ctx, &t, NULL, &ts, NULL));
    T_CLOSE(s[0], 1.112, 5e-4);
    T_CLOSE(s[1], 0.112, 5e-4);
    T_CLOSE(s[2], 0, 1e-15);
    t_close(ctx);
    T_PROOF("compression 8", "the exact leapfrog stencil has spatial rank 2 (singular values 1.112, .112, 0)");
}

/* ---- gradients */

static void compare(tiny_ctx *ctx, const layer *l, tiny_param *param, const tiny_tensor *g)
{
    int i, side;
    for (i = 0; i < 4; i++) {
        tiny_idx k, j, n = tiny_tensor_count(&param[i].value);
        for (k = 0; k < n; k += 1 + n / 9) {
            const double old = at(&param[i].value, k);
            double sum[2];
            for (side = 0; side < 2; side++) {
                tiny_tape *t = open_tape(ctx, 1);
                tiny_tensor y;
                set(&param[i].value, k, old + (side ? 1e-5 : -1e-5));
                y = tgnn_tape_oneway(t, &l->p, &l->x, &l->a, &l->f, &l->bias, l->size);
                for (sum[side] = 0, j = 0; j < tiny_tensor_count(g) && y.data; j++)
                    sum[side] += at(&y, j) * at(&y, j) * at(g, j);
                tiny_tape_close(t);
            }
            set(&param[i].value, k, old);
            T_CLOSE(at(&param[i].grad, k), (sum[1] - sum[0]) / 2e-5, 1e-6 * (1 + fabs(at(&param[i].grad, k))));
        }
    }
}

static void test_gradients(void)
{
    static const struct { int d, rank, k, stride, pad; tiny_idx size[3]; } form[] = {
        { 2, 2, 3, 1, 1, { 5, 6, 1 } }, { 2, 1, 5, 2, 2, { 8, 7, 1 } }, { 1, 3, 3, 1, 0, { 9, 1, 1 } },
        { 3, 2, 3, 1, 1, { 3, 4, 3 } }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    int j;
    for (i = 0; i < T_COUNT(form); i++) {
        const tgnn_oneway p = shape_of(form[i].d, 2, 2, form[i].rank, form[i].k, form[i].stride, form[i].pad);
        layer l = make(ctx, &p, TINY_F64, form[i].size[0], form[i].size[1], form[i].size[2]);
        tiny_tape *tape = open_tape(ctx, 0);
        tiny_param param[4];
        tiny_tensor y;
        memset(param, 0, sizeof param);
        param[0].value = l.x;
        param[1].value = l.a;
        param[2].value = l.f;
        param[3].value = l.bias;
        for (j = 0; j < 4; j++) {
            param[j].grad = param[j].value;
            param[j].grad.data = t_keep((size_t)tiny_tensor_count(&param[j].value) * 8);
            T_OK(tiny_tape_param(tape, &param[j]));
        }
        y = tgnn_tape_oneway(tape, &p, &l.x, &l.a, &l.f, &l.bias, l.size);
        y = tiny_tape_mul(tape, &y, &y);
        tiny_tape_zero(tape);
        T_OK(tiny_tape_backward(tape, &y, &l.y));
        compare(ctx, &l, param, &l.y);
        tiny_tape_close(tape);
        t_free_blocks();
    }
    t_close(ctx);
    T_PROOF("compression 8", "gradient check");
}

/* sum of y w x by each of its three parts: the gradients of a part are the other two */
static void test_three_parts(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_lines_params p;
    tiny_tensor t[3];                       /* y, x, w */
    double want[3], got;
    int of, i;
    memset(&p, 0, sizeof p);
    p.k = 3;
    p.stride = 2;
    p.pad = 1;
    p.terms = 2;
    p.outer = 2;
    p.inner = 3;
    p.length = 7;
    t[0] = drawn(TINY_F64, 3, 2, 2, 2 * 4 * 3);
    t[1] = drawn(TINY_F64, 3, 2, 4, 2 * 7 * 3);
    t[2] = drawn(TINY_F64, 2, 4, 3, 0);
    for (of = 0; of < 3; of++) {
        const int a = of == TGNN_LINES_INPUT ? 0 : 1, b = of == TGNN_LINES_WEIGHT ? 0 : 2;
        tiny_tape *tape = open_tape(ctx, 0);
        tiny_param param[2];
        tiny_tensor y;
        tiny_op op;
        p.of = of;
        memset(param, 0, sizeof param);
        param[0].value = t[a];
        param[1].value = t[b];
        for (i = 0; i < 2; i++) {
            param[i].grad = param[i].value;
            param[i].grad.data = t_keep((size_t)tiny_tensor_count(&param[i].value) * 8);
            T_OK(tiny_tape_param(tape, &param[i]));
        }
        memset(&op, 0, sizeof op);
        op.kind = TGNN_OP_LINES;
        op.row = tgnn_lines_row();
        op.in[0] = &t[a];
        op.in[1] = &t[b];
        op.params = &p;
        T_OK(tiny_tape_op(tape, &op, &y));
        for (want[of] = 0, i = 0; i < (int)tiny_tensor_count(&y); i++) want[of] += at(&y, i) * at(&t[of], i);
        T_CLOSE(want[of], want[0], 1e-12 * fabs(want[0]));
        tiny_tape_zero(tape);
        T_OK(tiny_tape_backward(tape, &y, &t[of]));
        for (i = 0; i < 2; i++) {           /* bilinear: the value is the product with its gradient */
            tiny_idx k;
            for (got = 0, k = 0; k < tiny_tensor_count(&param[i].value); k++)
                got += at(&param[i].value, k) * at(&param[i].grad, k);
            T_CLOSE(got, want[0], 1e-12 * fabs(want[0]));
        }
        tiny_tape_close(tape);
    }
    t_close(ctx);
}

/* ---- waves */

static void bump(double *u, tiny_idx n, double y, double x, double width)
{
    tiny_idx i, j;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            u[i * n + j] = exp(-(((double)i - y) * ((double)i - y) + ((double)j - x) * ((double)j - x)) /
                               (2 * width * width));
}

/* .38067895 belongs to a bump of width 2 */
static void test_energy(void)
{
    enum { N = 32 };
    static double u[N * N], v[N * N], c[N * N];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_tensor tu = tiny_tensor_2d(u, TINY_F64, N, N), tv = tiny_tensor_2d(v, TINY_F64, N, N),
                      tc = tiny_tensor_2d(c, TINY_F64, N, N);
    double e = 0, start = 0;
    int i, j;
    bump(u, N, 16, 16, 2);
    memcpy(v, u, sizeof v);
    T_OK(tgnn_wave_energy(ctx, NULL, 0.5, &tu, &tv, &e));
    T_CLOSE(e, 0.38067895, 5e-9);
    T_OK(tgnn_wave_run(ctx, NULL, 0.5, 200, &tu, &tv));
    T_OK(tgnn_wave_energy(ctx, NULL, 0.5, &tu, &tv, &start));
    T_CLOSE(start, e, 1e-12);
    T_OK(tgnn_wave_run(ctx, NULL, 0.5, 200, &tv, &tu));     /* back in time */
    bump(c, N, 16, 16, 2);
    for (i = 0; i < N * N; i++) T_CLOSE(u[i], c[i], 1e-11);
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) c[i * N + j] = 0.75 + 0.25 * sin(0.3 * i) * cos(0.2 * j);
    bump(u, N, 10, 20, 1.5);
    memcpy(v, u, sizeof v);
    T_OK(tgnn_wave_energy(ctx, &tc, 0.6, &tu, &tv, &start));
    T_OK(tgnn_wave_run(ctx, &tc, 0.6, 333, &tu, &tv));
    T_OK(tgnn_wave_energy(ctx, &tc, 0.6, &tu, &tv, &e));
    T_CLOSE(e, start, 1e-12);
    t_close(ctx);
    T_PROOF("compression 8", "discrete energy is conserved: 0.38067895 equal to 1e-12 after 200 steps, 32x32");
}

/* sin sin cos(w t) with sin(w / 2)^2 = step^2 (sin(p pi / 2 (n + 1))^2 + sin(q ..)^2) */
static void test_standing_wave(void)
{
    enum { N = 20, T = 77 };
    static double u[N * N], v[N * N];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_tensor tu = tiny_tensor_2d(u, TINY_F64, N, N), tv = tiny_tensor_2d(v, TINY_F64, N, N);
    const double step = 0.7, a = sin(2 * PI / 2 / (N + 1)), b = sin(3 * PI / 2 / (N + 1));
    const double w = 2 * asin(step * sqrt(a * a + b * b));
    int i, j;
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) {
            u[i * N + j] = sin(2 * PI * (i + 1) / (N + 1)) * sin(3 * PI * (j + 1) / (N + 1));
            v[i * N + j] = u[i * N + j] * cos(w);
        }
    T_OK(tgnn_wave_run(ctx, NULL, step, T, &tu, &tv));
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++)
            T_CLOSE(u[i * N + j], sin(2 * PI * (i + 1) / (N + 1)) * sin(3 * PI * (j + 1) / (N + 1)) * cos(w * T),
                    1e-12);
    t_close(ctx);
}

static void test_samples(void)
{
    enum { N = 16, M = N * N };
    static float x[6 * 3 * M], y[6 * M], x2[3 * M], y2[M];
    static double u[M], v[M], c[M];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 6, 3, M), ty = tiny_tensor_3d(y, TINY_F32, 6, 1, M),
                tx2 = tiny_tensor_3d(x2, TINY_F32, 1, 3, M), ty2 = tiny_tensor_3d(y2, TINY_F32, 1, 1, M);
    const tiny_tensor tu = tiny_tensor_2d(u, TINY_F64, N, N), tv = tiny_tensor_2d(v, TINY_F64, N, N),
                      tc = tiny_tensor_2d(c, TINY_F64, N, N);
    tgnn_wave_data d;
    int i, s;
    double moved = 0;
    memset(&d, 0, sizeof d);
    d.n = N;
    d.pairs = 2;
    d.start = 3;
    T_OK(tgnn_wave_samples(ctx, &d, 5, 0, &tx, &ty));
    for (s = 0; s < 6; s++) {               /* the solver again, from what the sample shows */
        for (i = 0; i < M; i++) {
            u[i] = (double)x[s * 3 * M + i];
            v[i] = (double)x[s * 3 * M + M + i];
            c[i] = (double)x[s * 3 * M + 2 * M + i];
            T_TRUE(c[i] >= 0.4999999 && c[i] <= 1.0000001);
        }
        T_OK(tgnn_wave_run(ctx, &tc, 0.5, 8, &tu, &tv));
        for (i = 0; i < M; i++) {
            T_CLOSE(u[i], y[s * M + i], 2e-5);
            moved = fmax(moved, fabs(u[i] - (double)x[s * 3 * M + i]));
        }
    }
    T_TRUE(moved > 0.1);
    d.pairs = 1;                            /* the third trajectory alone */
    T_OK(tgnn_wave_samples(ctx, &d, 5, 2, &tx2, &ty2));
    T_SAME(x2, x + 4 * 3 * M, 3 * M);
    T_SAME(y2, y + 4 * M, M);
    t_close(ctx);
}

/* ---- training of one exact step: u and u- in, u+ out */

typedef struct step_data { tgnn_oneway p; tiny_tensor x, y, a, f; tiny_idx size[2]; } step_data;

static tiny_tensor step_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    step_data *d = (step_data *)user;
    tiny_tensor y;
    (void)sample;
    (void)n;
    y = tgnn_tape_oneway(tape, &d->p, &d->x, &d->a, &d->f, NULL, d->size);
    return tgnn_tape_relative_l2(tape, &y, &d->y);
}

/* fields of independent numbers, so that every part of the stencil matters as much */
static double trained(tiny_ctx *ctx, int rank, int steps)
{
    enum { N = 12, M = N * N, S = 4 };
    static float x[S * 2 * M], y[S * M], a[8], ag[8], f[24], fg[24];
    static double u[M], v[M];
    const tiny_tensor tu = tiny_tensor_2d(u, TINY_F64, N, N), tv = tiny_tensor_2d(v, TINY_F64, N, N);
    tiny_rng rng = tiny_rng_make(7, 7);
    tiny_train_desc d;
    tiny_train_state last;
    tiny_param param[2];
    step_data s;
    int i, k;
    memset(&d, 0, sizeof d);
    memset(param, 0, sizeof param);
    for (k = 0; k < S; k++) {
        for (i = 0; i < M; i++) {
            u[i] = (double)(x[2 * k * M + i] = tiny_rng_normal(&rng));
            v[i] = (double)(x[(2 * k + 1) * M + i] = tiny_rng_normal(&rng));
        }
        T_OK(tgnn_wave_run(ctx, NULL, 0.5, 1, &tu, &tv));
        for (i = 0; i < M; i++) y[k * M + i] = (float)u[i];
    }
    s.p = shape_of(2, 2, 1, rank, 3, 1, 1);
    s.size[0] = s.size[1] = N;
    s.x = tiny_tensor_3d(x, TINY_F32, S, 2, M);
    s.y = tiny_tensor_3d(y, TINY_F32, S, 1, M);
    s.a = tiny_tensor_2d(a, TINY_F32, rank, 2);
    s.f = tiny_tensor_3d(f, TINY_F32, 2, rank, 3);
    T_OK(tgnn_oneway_init(ctx, &s.p, 3, &s.a, &s.f));
    param[0].value = param[0].grad = s.a;
    param[0].grad.data = ag;
    param[1].value = param[1].grad = s.f;
    param[1].grad.data = fg;
    d.params = param;
    d.n_params = 2;
    d.model = step_loss;
    d.user = &s;
    d.n_samples = 1;
    d.batch = 1;
    d.epochs = steps;
    d.optim.group[0].lr = 0.05;
    d.schedule.kind = TINY_SCHEDULE_COSINE;
    T_OK(tiny_train(ctx, &d, &last));
    return last.loss;
}

static void test_one_step(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const double one = trained(ctx, 1, 300), two = trained(ctx, 2, 600), three = trained(ctx, 3, 600);
    T_TRUE(one > 0.2);
    T_TRUE(three < 1e-4);
    T_TRUE(two > 2e-3 && two < one);        /* it gets closer for ever, with growing factors */
    t_close(ctx);
    T_PROOF("compression 8", "an R = 3 layer trained on one-step data must reach < 1e-3 relative error, R = 1 cannot");
}

/* ---- networks */

static void test_nets(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_idx size[2] = { 12, 20 };
    const char *folder = getenv("TMPDIR");
    char path[256];
    int kind, levels;
    (void)snprintf(path, sizeof path, "%.180s/t_unet_%ld.box", folder && *folder ? folder : "/tmp", (long)getpid());
    for (kind = 0; kind < TGNN_UNET_KINDS; kind++)
        for (levels = -1; levels < 3; levels += 1 + (levels == -1)) {
            tgnn_unet_desc d;
            tgnn_unet *net = NULL, *again = NULL;
            tiny_tape *tape = open_tape(ctx, 1);
            tiny_tensor x = drawn(TINY_F32, 3, 2, 3, 240), y = drawn(TINY_F32, 3, 2, 2, 240), t;
            tiny_idx i;
            size_t n = 0;
            memset(&d, 0, sizeof d);
            d.n_in = 3;
            d.n_out = 2;
            d.width = 4;
            d.k = 3;
            d.levels = levels;
            d.kind = kind;
            d.rank = 2;
            d.seed = 9;
            T_OK(tgnn_unet_open(ctx, &d, &net));
            t = tgnn_tape_unet(tape, net, &x, size);
            T_OK(tiny_tape_status(tape));
            T_OK(tgnn_unet_run(ctx, net, &x, size, &y));
            for (i = 0; i < 480 && t.data; i++) T_CLOSE(at(&y, i), at(&t, i), 1e-6);
            T_TRUE(tgnn_unet_params(net, &n) != NULL && n >= 2 * (2 + 2 * (size_t)(levels < 0 ? 0 : levels)));
            T_OK(tgnn_unet_save(ctx, net, path));
            T_OK(tgnn_unet_load(ctx, path, &again));
            t = drawn(TINY_F32, 3, 2, 2, 240);
            T_OK(tgnn_unet_run(ctx, again, &x, size, &t));
            T_SAME((float *)t.data, (float *)y.data, 480);
            T_TRUE(tgnn_unet_count(net) == tgnn_unet_count(again) && tgnn_unet_flops(net, size) > 0);
            tgnn_unet_close(again);
            tgnn_unet_close(net);
            tiny_tape_close(tape);
            t_free_blocks();
        }
    (void)remove(path);
    t_close(ctx);
}

/* the network of the headline, and a dense one that is compressed without loss */
static void test_compress(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_idx size[2] = { 8, 8 }, large[2] = { 64, 64 };
    tgnn_unet_desc d;
    tgnn_unet *net = NULL, *small = NULL, *none = NULL;
    tiny_tensor x = drawn(TINY_F32, 3, 1, 2, 64), y = drawn(TINY_F32, 3, 1, 1, 64), z = drawn(TINY_F32, 3, 1, 1, 64);
    double error = 1, dense;
    int i;
    memset(&d, 0, sizeof d);
    d.n_in = 3;
    d.n_out = 1;
    T_OK(tgnn_unet_open(ctx, &d, &net));    /* 3-32, 32-32 of stride 2, 32-32, 64-1, 5 x 5 taps */
    dense = tgnn_unet_count(net);
    T_CLOSE(dense, 2400 + 2 * 25600 + 1600 + 97, 0);
    T_CLOSE(tgnn_unet_flops(net, large), 2.0 * 4096 * (2400 + 2 * 25600 / 4 + 1600), 0);
    tgnn_unet_close(net);
    d.kind = TGNN_UNET_ONEWAY;
    d.rank = 2;
    T_OK(tgnn_unet_open(ctx, &d, &net));
    T_CLOSE(tgnn_unet_count(net), 2 * (32 * 13 + 2 * 32 * 42 + 74) + 97, 0);
    tgnn_unet_close(net);
    d.kind = TGNN_UNET_DENSE;
    d.n_in = 2;
    d.width = 3;
    d.k = 3;
    T_OK(tgnn_unet_open(ctx, &d, &net));
    T_OK(tgnn_unet_run(ctx, net, &x, size, &y));
    T_OK(tgnn_unet_compress(ctx, net, 9, &small, &error));
    T_CLOSE(error, 0, 1e-7);
    T_OK(tgnn_unet_run(ctx, small, &x, size, &z));
    for (i = 0; i < 64; i++) T_CLOSE(at(&z, i), at(&y, i), 2e-6);
    T_STATUS(tgnn_unet_compress(ctx, small, 2, &none, NULL), TINY_E_ARGUMENT, "only a network of ordinary");
    tgnn_unet_close(net);
    tgnn_unet_close(small);
    t_close(ctx);
}

static void test_conformance(tiny_target target) { t_conform(target, tgnn_lines_row(), T_SLOW ? 20 : 150); }

/* ---- bad input */

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_oneway p = shape_of(2, 2, 2, 1, 3, 1, 1), q;
    layer l = make(ctx, &p, TINY_F32, 6, 6, 1);
    static double u[36], c[36];
    tiny_tensor tu = tiny_tensor_2d(u, TINY_F64, 6, 6), tc = tiny_tensor_2d(c, TINY_F64, 6, 6), tv = tu, t;
    const tiny_idx small[2] = { 2, 6 }, odd[2] = { 7, 8 };
    tgnn_unet_desc d;
    tgnn_unet *net = NULL;
    tgnn_wave_data w;
    double e = 0;
    int i;
    q = p;
    q.k = 4;
    T_STATUS(tgnn_oneway_conv(ctx, &q, &l.x, &l.a, &l.f, NULL, l.size, &l.y), TINY_E_ARGUMENT, "must be odd");
    q = p;
    q.rank = 0;
    T_STATUS(tgnn_oneway_conv(ctx, &q, &l.x, &l.a, &l.f, NULL, l.size, &l.y), TINY_E_ARGUMENT, "a rank of 0");
    q.rank = 1000;
    T_STATUS(tgnn_oneway_init(ctx, &q, 1, &l.a, &l.f), TINY_E_ARGUMENT, "a rank of 1000");
    T_STATUS(tgnn_oneway_conv(ctx, &p, &l.x, &l.a, &l.f, NULL, small, &l.y), TINY_E_ARGUMENT,
             "axis 0 has 2 points, filters of 3 taps");
    q = p;
    q.d = 4;
    T_STATUS(tgnn_oneway_size(ctx, &q, small, l.after), TINY_E_ARGUMENT, "4 axes");
    q = p;
    q.pad = 3;
    T_STATUS(tgnn_oneway_size(ctx, &q, l.size, l.after), TINY_E_ARGUMENT, "3 zeros");
    q = p;
    q.stride = -1;
    T_STATUS(tgnn_oneway_size(ctx, &q, l.size, l.after), TINY_E_ARGUMENT, "stride of -1");
    q = p;
    q.n_in = 0;
    T_STATUS(tgnn_oneway_size(ctx, &q, l.size, l.after), TINY_E_ARGUMENT, "0 channels");
    T_STATUS(tgnn_oneway_conv(ctx, &p, &l.y, &l.f, &l.f, NULL, l.size, &l.y), TINY_E_SHAPE, "the filters are");
    t = l.x;
    t.dim[2] = 35;
    T_STATUS(tgnn_oneway_conv(ctx, &p, &t, &l.a, &l.f, NULL, l.size, &l.y), TINY_E_SHAPE, "x is");
    T_STATUS(tgnn_oneway_conv(ctx, &p, &l.x, &l.a, &l.f, NULL, l.size, &t), TINY_E_SHAPE, "y is");
    T_STATUS(tgnn_oneway_conv(ctx, &p, &l.x, &l.a, &l.f, &l.a, l.size, &l.y), TINY_E_SHAPE, "bias");
    T_STATUS(tgnn_oneway_kernel(ctx, &p, &l.a, &l.f, &l.a), TINY_E_SHAPE, "the kernel is");
    set(&l.kernel, 5, HUGE_VAL);
    T_STATUS(tgnn_oneway_fit(ctx, &p, &l.kernel, &l.a, &l.f, &e), TINY_E_NUMERIC, "0, 0, 5 of the kernel");
    for (i = 0; i < 36; i++) c[i] = 0.9;
    tv.data = t_keep(36 * 8);
    memset(tv.data, 0, 36 * 8);
    T_STATUS(tgnn_wave_run(ctx, NULL, 0.71, 1, &tu, &tv), TINY_E_ARGUMENT, "c dt / h is 0.71");
    T_OK(tgnn_wave_run(ctx, &tc, 0.71, 1, &tu, &tv));
    c[7] = 1.1;
    T_STATUS(tgnn_wave_run(ctx, &tc, 0.71, 1, &tu, &tv), TINY_E_ARGUMENT, "c dt / h is 0.781");
    c[7] = -1;
    T_STATUS(tgnn_wave_run(ctx, &tc, 0.1, 1, &tu, &tv), TINY_E_NUMERIC, "c is -1 at point 7");
    T_STATUS(tgnn_wave_run(ctx, NULL, 0.0, 1, &tu, &tv), TINY_E_ARGUMENT, "c dt / h is 0");
    T_STATUS(tgnn_wave_run(ctx, NULL, 0.5, -1, &tu, &tv), TINY_E_ARGUMENT, "-1 steps");
    T_STATUS(tgnn_wave_run(ctx, NULL, 0.5, 1, &tu, &tu), TINY_E_ALIAS, "one tensor");
    T_STATUS(tgnn_wave_energy(ctx, NULL, 0.5, &l.x, &tv, &e), TINY_E_SHAPE, "dense square");
    memset(&w, 0, sizeof w);
    w.n = 6;
    T_STATUS(tgnn_wave_samples(ctx, &w, 1, 0, &l.x, &l.y), TINY_E_SHAPE, "samples x 3 x 36");
    w.n = 2;
    T_STATUS(tgnn_wave_samples(ctx, &w, 1, 0, &l.x, &l.y), TINY_E_ARGUMENT, "2 points a side");
    memset(&d, 0, sizeof d);
    d.n_in = 2;
    d.n_out = 1;
    d.kind = 9;
    T_STATUS(tgnn_unet_open(ctx, &d, &net), TINY_E_ARGUMENT, "kind 9");
    d.kind = TGNN_UNET_ONEWAY;
    d.levels = 7;
    T_STATUS(tgnn_unet_open(ctx, &d, &net), TINY_E_ARGUMENT, "7 levels");
    d.levels = 1;
    d.k = 2;
    T_STATUS(tgnn_unet_open(ctx, &d, &net), TINY_E_ARGUMENT, "must be odd");
    d.k = 63;
    d.width = 65536;
    T_STATUS(tgnn_unet_open(ctx, &d, &net), TINY_E_OVERFLOW, "more than 268435456 weights");
    d.k = 3;
    d.width = 2;
    T_OK(tgnn_unet_open(ctx, &d, &net));
    T_STATUS(tgnn_unet_run(ctx, net, &l.x, odd, &l.y), TINY_E_ARGUMENT, "a multiple of 2");
    T_STATUS(tgnn_unet_run(ctx, net, &l.x, small, &l.y), TINY_E_ARGUMENT, "need 6");
    T_STATUS(tgnn_unet_run(ctx, net, &l.a, l.size, &l.y), TINY_E_SHAPE, "x is");
    tgnn_unet_close(net);
    net = NULL;
    T_TRUE(tgnn_unet_load(ctx, "/dev/null", &net) != TINY_OK && !net);
    t_close(ctx);
    T_PROOF("compression 8", "bad input: even k, R = 0, CFL violated, n < k");
}

int main(void)
{
    T_RUN_TARGETS(test_outer_product);
    T_RUN_TARGETS(test_strides);
    T_RUN(test_counts);
    T_RUN(test_init);
    T_RUN(test_exact_rank);
    T_RUN(test_best_rank);
    T_RUN(test_stencil);
    T_RUN(test_gradients);
    T_RUN(test_three_parts);
    T_RUN(test_energy);
    T_RUN(test_standing_wave);
    T_RUN(test_samples);
    T_RUN(test_one_step);
    T_RUN(test_nets);
    T_RUN(test_compress);
    T_RUN_TARGETS(test_conformance);
    T_RUN(test_bad);
    return t_done();
}
