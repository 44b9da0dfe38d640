/* tests/math/reduce.c - sums and extremes along any axis against plain loops in double; threads, special values, bad
 * input */
#include "t.h"

typedef tiny_status (*call)(tiny_ctx *ctx, const tiny_tensor *x, const tiny_reduce_params *params,
                            const tiny_tensor *y);
static const struct { const char *name; call f; int kind;
} ops[] = { { "sum", tiny_sum, TINY_OP_SUM },
            { "mean", tiny_mean, TINY_OP_MEAN },
            { "norm2", tiny_norm2, TINY_OP_NORM2 },
            { "max", tiny_max, TINY_OP_MAX },
            { "min", tiny_min, TINY_OP_MIN },
            { "argmax", tiny_argmax, TINY_OP_ARGMAX },
            { "logsumexp", tiny_logsumexp, TINY_OP_LOGSUMEXP } };

/* one result over n values with distance step; *magnitude: the unit of the error */
static double oracle(int kind, const float *x, const float *b, size_t n, tiny_idx step, tiny_idx b_step,
                     double *magnitude)
{
    double r = kind == TINY_OP_MAX || kind == TINY_OP_LOGSUMEXP ? -HUGE_VAL
               : kind == TINY_OP_MIN                            ? HUGE_VAL
                                                                : 0.0,
           top = -HUGE_VAL;
    long best = -1;
    size_t i;
    *magnitude = 0.0;
    for (i = 0; i < n; i++) if ((double)x[(tiny_idx)i * step] > top) top = (double)x[(tiny_idx)i * step];
    for (i = 0; i < n; i++) {
        double v = (double)x[(tiny_idx)i * step], w = (double)b[(tiny_idx)i * b_step];
        if (kind == TINY_OP_DOT) { r += v * w; *magnitude += fabs(v * w); }
        else if (kind == TINY_OP_NORM2) { r += v * v; *magnitude += v * v; }
        else if (kind == TINY_OP_MAX) { if (v > r) r = v; }
        else if (kind == TINY_OP_MIN) { if (v < r) r = v; }
        else if (kind == TINY_OP_ARGMAX) { if (best < 0 || v > r) { r = v; best = (long)i; } }
        else if (kind == TINY_OP_LOGSUMEXP) r = i ? r + exp(v - top) : exp(v - top);
        else { r += v; *magnitude += fabs(v); }
    }
    if (kind == TINY_OP_MEAN) { r /= (double)n; *magnitude /= (double)n; }
    if (kind == TINY_OP_ARGMAX) return (double)best;
    if (kind == TINY_OP_LOGSUMEXP) { r = n ? log(r) + top : -HUGE_VAL; *magnitude = fabs(top) + log((double)n + 1.0); }
    return r;
}

static double bound(size_t n) { return (10.0 + 0.4 * (double)(n < 4096 ? n : 4096)) * FLT_EPSILON / 2.0; }

static void *result(tiny_tensor *y, int kind, int rank, const tiny_idx *dim)
{
    *y = tiny_tensor_nd(NULL, kind == TINY_OP_ARGMAX ? TINY_I32 : TINY_F32, rank, dim);
    return y->data = t_guarded((size_t)tiny_tensor_count(y));
}
static double value(const tiny_tensor *y, tiny_idx i)
{
    return y->dtype == TINY_I32 ? (double)((int32_t *)y->data)[i] : (double)((float *)y->data)[i];
}

static void test_by_hand(tiny_target target)
{
    static const double want[2][7] = { { 6, 2, 14, 3, 1, 1, 3.40760596 }, { -15, -5, 77, -4, -6, 0, -3.59239404 } };
    float x[6] = { 1, 3, 2, -4, -5, -6 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 2, 3), y;
    tiny_idx two = 2;
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t k;
    for (k = 0; k < T_COUNT(ops); k++) {
        (void)result(&y, ops[k].kind, 1, &two);
        T_OK(ops[k].f(ctx, &tx, NULL, &y));
        T_RAN_ON(ctx, t_vectors(target));
        T_CLOSE(value(&y, 0), want[0][k], 1e-6);
        T_CLOSE(value(&y, 1), want[1][k], 1e-6);
    }
    (void)result(&y, TINY_OP_DOT, 1, &two);
    T_OK(tiny_dot(ctx, &tx, &tx, NULL, &y));
    T_RAN_ON(ctx, t_vectors(target));
    T_CLOSE(value(&y, 0), 14, 0);
    T_CLOSE(value(&y, 1), 77, 0);
    t_close(ctx);
}

static void test_lengths(tiny_target target)
{
    static const size_t more[] = { 127, 255, 257, 1000, 4095, 4096, 4097, 20000, 65535, 65537, 200001 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, k;
    for (c = 1; c <= 70 + T_COUNT(more); c++) {
        size_t n = c <= 70 ? c : more[c - 71];
        float *x = t_rand(n, -3.0f, 3.0f), *b = t_rand(n, -3.0f, 3.0f);
        tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, (tiny_idx)n), tb = tiny_tensor_1d(b, TINY_F32, (tiny_idx)n), y;
        double m, want;
        for (k = 0; k < T_COUNT(ops); k++) {
            (void)result(&y, ops[k].kind, 0, NULL);
            T_OK(ops[k].f(ctx, &tx, NULL, &y));
            want = oracle(ops[k].kind, x, x, n, 1, 1, &m);
            if (!T_CLOSE(value(&y, 0), want, bound(n) * m)) printf("  %s of %lu\n", ops[k].name, (unsigned long)n);
            T_WALLS(y.data, 1);
        }
        (void)result(&y, TINY_OP_DOT, 0, NULL);
        T_OK(tiny_dot(ctx, &tx, &tb, NULL, &y));
        want = oracle(TINY_OP_DOT, x, b, n, 1, 1, &m);
        T_CLOSE(value(&y, 0), want, bound(n) * m);
        t_free_blocks();
    }
    t_close(ctx);
}

/* every axis of shapes that take each of the ways through: rows, columns, pieces of both, gathers */
static void test_axes(tiny_target target)
{
    static const tiny_idx shape[][4] = { { 3, 4, 5, 33 },  { 1, 2, 300, 40 }, { 1, 1, 22000, 3 }, { 1, 1, 1000, 70 },
                                         { 2, 3, 1, 600 }, { 1, 9, 9, 1 },    { 66, 1, 2, 200 },  { 1, 1, 260, 300 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, k;
    int axis, keep, swapped;
    for (c = 0; c < T_COUNT(shape); c++)
        for (swapped = 0; swapped < 3; swapped++) {
            tiny_tensor x = tiny_tensor_nd(NULL, TINY_F32, 4, shape[c]), b;
            size_t count = (size_t)tiny_tensor_count(&x);
            x.data = t_rand(count, -2.0f, 2.0f);
            b = x;
            b.data = t_rand(count, -2.0f, 2.0f);
            if (swapped == 1) {
                x = tiny_tensor_swap(x, 2, 3);
                b = tiny_tensor_swap(b, 2, 3);
            }
            if (swapped == 2) {
                x = tiny_tensor_swap(x, 0, 3);
                b = tiny_tensor_swap(b, 0, 3);
            }
            for (axis = 0; axis < 4; axis++)
                for (k = swapped ? (size_t)axis % 3 : 0; k <= T_COUNT(ops); k += swapped ? 3 : 1) {
                    int kind = k < T_COUNT(ops) ? ops[k].kind : TINY_OP_DOT, gone = 3 - axis, rank = 0, i;
                    tiny_reduce_params p;
                    tiny_tensor y;
                    tiny_idx dim[4], r, n_result;
                    memset(&p, 0, sizeof p);
                    p.axis = axis;
                    p.keep = keep = (int)(k + c) % 2;
                    for (i = 0; i < 4; i++) if (i != gone || keep) dim[rank++] = i == gone ? 1 : x.dim[i];
                    (void)result(&y, kind, rank, dim);
                    T_OK(k < T_COUNT(ops) ? ops[k].f(ctx, &x, &p, &y) : tiny_dot(ctx, &x, &b, &p, &y));
                    n_result = tiny_tensor_count(&y);
                    for (r = 0; r < n_result; r++) {
                        tiny_idx rest = r, at = 0;
                        double m, want;
                        for (i = 3; i >= 0; i--) {
                            if (i == gone) continue;
                            at += rest % x.dim[i] * x.stride[i];
                            rest /= x.dim[i];
                        }
                        want = oracle(kind, (float *)x.data + at, (float *)b.data + at, (size_t)x.dim[gone],
                                      x.stride[gone], b.stride[gone], &m);
                        if (!T_CLOSE(value(&y, r), want, bound((size_t)x.dim[gone]) * m)) {
                            printf("  case %lu, %s over axis %d\n", (unsigned long)c,
                                   k < T_COUNT(ops) ? ops[k].name : "dot", axis);
                            break;
                        }
                    }
                    T_WALLS(y.data, n_result);
                }
            t_free_blocks();
        }
    t_close(ctx);
}

/* Everything at once, of a tensor with gaps; and a result that is written with a stride. */
static void test_all(tiny_target target)
{
    enum { A = 4, B = 50, C = 500 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *room = t_rand(A * B * (C + 7), -2.0f, 2.0f), *dense = t_guarded(A * B * C);
    tiny_tensor x = tiny_tensor_3d(room, TINY_F32, A, B, C), y;
    tiny_reduce_params p;
    tiny_idx i, r;
    size_t k;
    memset(&p, 0, sizeof p);
    p.all = 1;
    x.stride[1] = C + 7;
    x.stride[0] = B * (C + 7);
    for (i = 0; i < A * B * C; i++) dense[i] = room[i / C * (C + 7) + i % C];
    for (k = 0; k < T_COUNT(ops); k++) {
        double m, want = oracle(ops[k].kind, dense, dense, A * B * C, 1, 1, &m);
        (void)result(&y, ops[k].kind, 0, NULL);
        T_OK(ops[k].f(ctx, &x, &p, &y));
        T_CLOSE(value(&y, 0), want, bound(A * B * C) * m);
        {
            static const tiny_idx ones[3] = { 1, 1, 1 };
            p.keep = 1;
            (void)result(&y, ops[k].kind, 3, ones);
            T_OK(ops[k].f(ctx, &x, &p, &y));
            T_CLOSE(value(&y, 0), want, bound(A * B * C) * m);
            p.keep = 0;
        }
    }
    {
        float *out = t_guarded(3 * A * B);
        tiny_tensor ty = tiny_tensor_2d(out, TINY_F32, A, B);
        double m, want;
        for (i = 0; i < 3 * A * B; i++) out[i] = -7.0f;
        ty.stride[0] = 3;
        ty.stride[1] = 3 * A;
        T_OK(tiny_sum(ctx, &x, NULL, &ty));
        for (r = 0; r < A * B; r++) {
            want = oracle(TINY_OP_SUM, dense + r * C, dense, C, 1, 1, &m);
            T_CLOSE(out[r / B * 3 + r % B * 3 * A], want, bound(C) * m);
        }
        for (i = 0; i < 3 * A * B; i++) if (i % 3 && !T_CLOSE(out[i], -7, 0)) break;
        T_WALLS(out, 3 * A * B);
    }
    t_close(ctx);
}

/* The pieces of a long sum are the same for any number of threads, and so are its bits. */
static void test_threads(tiny_target target)
{
    static const tiny_idx shape[][2] = { { 1, 300000 }, { 3, 100000 }, { 50000, 5 }, { 20000, 9 }, { 2000, 300 } };
    tiny_ctx *ctx[3];
    size_t c, k;
    int t, axis;
    for (t = 0; t < 3; t++) ctx[t] = t_ctx(target, t + 1);
    for (c = 0; c < T_COUNT(shape); c++) {
        size_t n = (size_t)(shape[c][0] * shape[c][1]);
        float *x = t_rand(n, -2.0f, 5.0f), *first = t_guarded(n), *y = t_guarded(n);
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, shape[c][0], shape[c][1]), ty;
        for (axis = 0; axis < 2; axis++)
            for (k = 0; k < T_COUNT(ops); k++) {
                tiny_idx results = shape[c][axis];
                tiny_reduce_params p;
                memset(&p, 0, sizeof p);
                p.axis = axis;
                ty = tiny_tensor_1d(first, ops[k].kind == TINY_OP_ARGMAX ? TINY_I32 : TINY_F32, results);
                T_OK(ops[k].f(ctx[0], &tx, &p, &ty));
                for (t = 1; t < 3; t++) {
                    memset(y, 0, (size_t)results * sizeof *y);
                    ty.data = y;
                    T_OK(ops[k].f(ctx[t], &tx, &p, &ty));
                    T_SAME(y, first, results);
                }
            }
        t_free_blocks();
    }
    for (t = 0; t < 3; t++) t_close(ctx[t]);
}

/* A sum that a float accumulator would lose: 2^24 ones and more stop at 2^24; and a cancelling one. */
static void test_long(tiny_target target)
{
    enum { N = 20000000 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float one = 1.0f, two[2] = { 1e8f, 1.0f }, got;
    tiny_tensor x = tiny_tensor_1d(&one, TINY_F32, N), y = tiny_tensor_nd(&got, TINY_F32, 0, NULL);
    tiny_reduce_params p;
    x.stride[0] = 0;
    T_OK(tiny_sum(ctx, &x, NULL, &y));
    T_CLOSE(got, N, 0);
    T_OK(tiny_logsumexp(ctx, &x, NULL, &y));
    T_CLOSE(got, 1.0 + log((double)N), 8e-6);          /* equal terms round the same way */
    memset(&p, 0, sizeof p);
    p.all = 1;
    x = tiny_tensor_2d(two, TINY_F32, 100000, 2);
    x.stride[0] = 0;
    T_OK(tiny_mean(ctx, &x, &p, &y));
    T_CLOSE(got, 50000000.5, 4);
    t_close(ctx);
}

static void test_special(tiny_target target)
{
    static const size_t len[] = { 1, 5, 16, 33, 100, 5000, 70000 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i, at;
    for (c = 0; c < T_COUNT(len); c++) {
        size_t n = len[c];
        float *x = t_guarded(n), got;
        int32_t where;
        tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, (tiny_idx)n), y = tiny_tensor_nd(&got, TINY_F32, 0, NULL),
                    yi = tiny_tensor_nd(&where, TINY_I32, 0, NULL);
        for (at = 0; at < n; at += 1 + n / 4) {
            for (i = 0; i < n; i++) x[i] = (float)(i % 3) - 5.0f;
            x[at] = NAN;
            x[n - 1] = NAN;                                     /* argmax: the first of them */
            T_OK(tiny_max(ctx, &tx, NULL, &y));
            T_CLOSE(got, NAN, 0);
            T_OK(tiny_min(ctx, &tx, NULL, &y));
            T_CLOSE(got, NAN, 0);
            T_OK(tiny_sum(ctx, &tx, NULL, &y));
            T_CLOSE(got, NAN, 0);
            T_OK(tiny_logsumexp(ctx, &tx, NULL, &y));
            T_CLOSE(got, NAN, 0);
            T_OK(tiny_argmax(ctx, &tx, NULL, &yi));
            T_EQ_INT(where, at);
            for (i = 0; i < n; i++) x[i] = -INFINITY;
            T_OK(tiny_logsumexp(ctx, &tx, NULL, &y));
            T_CLOSE(got, -HUGE_VAL, 0);
            T_OK(tiny_argmax(ctx, &tx, NULL, &yi));
            T_EQ_INT(where, 0);
            T_OK(tiny_max(ctx, &tx, NULL, &y));
            T_CLOSE(got, -HUGE_VAL, 0);
            x[at] = 2.5f;
            T_OK(tiny_logsumexp(ctx, &tx, NULL, &y));
            T_CLOSE(got, 2.5, n == 1 ? 0 : 3e-7);
            T_OK(tiny_argmax(ctx, &tx, NULL, &yi));
            T_EQ_INT(where, at);
            T_OK(tiny_max(ctx, &tx, NULL, &y));
            T_CLOSE(got, 2.5, 0);
            x[at] = INFINITY;                                   /* inf - inf of neighbours is no NaN of the data */
            T_OK(tiny_max(ctx, &tx, NULL, &y));
            T_CLOSE(got, HUGE_VAL, 0);
            T_OK(tiny_min(ctx, &tx, NULL, &y));
            T_CLOSE(got, n == 1 ? HUGE_VAL : -HUGE_VAL, 0);
            T_OK(tiny_argmax(ctx, &tx, NULL, &yi));
            T_EQ_INT(where, at);
            T_OK(tiny_logsumexp(ctx, &tx, NULL, &y));
            T_CLOSE(got, NAN, 0);
            T_OK(tiny_norm2(ctx, &tx, NULL, &y));
            T_CLOSE(got, HUGE_VAL, 0);
        }
        for (at = 0; at < n; at += 1 + n / 4) {
            for (i = 0; i < n; i++) x[i] = i % 2 ? INFINITY : -INFINITY;
            x[at] = NAN;
            T_OK(tiny_argmax(ctx, &tx, NULL, &yi));
            T_EQ_INT(where, at);
            T_OK(tiny_max(ctx, &tx, NULL, &y));
            T_CLOSE(got, NAN, 0);
        }
        for (i = 0; i < n; i++) x[i] = 1e-42f;
        T_OK(tiny_sum(ctx, &tx, NULL, &y));
        T_CLOSE(got, (double)n * (double)1e-42f, 1e-40);
        T_OK(tiny_max(ctx, &tx, NULL, &y));
        T_CLOSE(got, 1e-42f, 0);
        t_free_blocks();
    }
    {
        /* by columns too */
        float x[2000], got[20];
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 100, 20), y = tiny_tensor_1d(got, TINY_F32, 20);
        tiny_reduce_params p;
        memset(&p, 0, sizeof p);
        p.axis = 1;
        for (i = 0; i < 2000; i++) x[i] = -1.0f;
        x[3] = x[20 * 99 + 4] = x[20 * 50 + 17] = NAN;
        x[20 * 7 + 5] = -INFINITY;
        T_OK(tiny_max(ctx, &tx, &p, &y));
        for (i = 0; i < 20; i++) T_CLOSE(got[i], i == 3 || i == 4 || i == 17 ? (double)NAN : -1.0, 0);
        T_OK(tiny_min(ctx, &tx, &p, &y));
        for (i = 0; i < 20; i++)
            T_CLOSE(got[i], i == 3 || i == 4 || i == 17 ? (double)NAN : i == 5 ? -HUGE_VAL : -1.0, 0);
    }
    t_close(ctx);
}

static void test_nothing(tiny_target target)
{
    static const double want[7] = { 0, 0, 0, -HUGE_VAL, HUGE_VAL, -1, -HUGE_VAL };
    tiny_ctx *ctx = t_ctx(target, 1);
    tiny_tensor x = tiny_tensor_2d(NULL, TINY_F32, 3, 0), y;
    tiny_idx three = 3, zero = 0;
    tiny_reduce_params p;
    size_t k;
    int i;
    memset(&p, 0, sizeof p);
    p.axis = 1;
    for (k = 0; k < T_COUNT(ops); k++) {
        (void)result(&y, ops[k].kind, 1, &three);
        T_OK(ops[k].f(ctx, &x, NULL, &y));
        for (i = 0; i < 3; i++) T_CLOSE(value(&y, i), ops[k].kind == TINY_OP_MEAN ? (double)NAN : want[k], 0);
        (void)result(&y, ops[k].kind, 1, &zero);
        T_OK(ops[k].f(ctx, &x, &p, &y));
    }
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[12] = { 0 }, got[12];
    int32_t where[12];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 4), y = tiny_tensor_1d(got, TINY_F32, 3), t;
    tiny_reduce_params p;
    memset(&p, 0, sizeof p);
    T_STATUS(tiny_sum(ctx, NULL, NULL, &y), TINY_E_ARGUMENT, "sum: input 0 is missing");
    T_STATUS(tiny_dot(ctx, &tx, NULL, NULL, &y), TINY_E_ARGUMENT, "dot: input 1 is missing");
    p.axis = 2;
    T_STATUS(tiny_sum(ctx, &tx, &p, &y), TINY_E_ARGUMENT, "no axis 2, counted from the last, in a tensor of rank 2");
    p.axis = -1;
    T_STATUS(tiny_max(ctx, &tx, &p, &y), TINY_E_ARGUMENT, "no axis -1");
    t = tiny_tensor_nd(x, TINY_F32, 0, NULL);
    T_STATUS(tiny_mean(ctx, &t, NULL, &y), TINY_E_ARGUMENT, "in a tensor of rank 0");
    p.axis = 0;
    p.keep = 1;
    T_STATUS(tiny_sum(ctx, &tx, &p, &y), TINY_E_SHAPE, "output 0 is 3 f32, it must be 3x1 f32");
    t = tiny_tensor_1d(where, TINY_I32, 3);
    T_STATUS(tiny_sum(ctx, &tx, NULL, &t), TINY_E_DTYPE, "it must be 3 f32");
    T_OK(tiny_argmax(ctx, &tx, NULL, &t));
    T_STATUS(tiny_argmax(ctx, &tx, NULL, &y), TINY_E_DTYPE, "it must be 3 i32");
    t = tiny_tensor_2d(x, TINY_BF16, 1, 4);
    T_STATUS(tiny_sum(ctx, &t, NULL, &y), TINY_E_DTYPE, "must be f32 or f64, not bf16");
    t = tiny_tensor_2d(got, TINY_F32, 3, 3);
    T_STATUS(tiny_dot(ctx, &tx, &t, NULL, &y), TINY_E_SHAPE, "a is 3x4 f32 and b is 3x3 f32");
    t = tiny_tensor_1d(x, TINY_F32, 3);
    T_STATUS(tiny_sum(ctx, &tx, NULL, &t), TINY_E_ALIAS, "overlaps");
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_lengths);
    T_RUN_TARGETS(test_axes);
    T_RUN_TARGETS(test_all);
    T_RUN_TARGETS(test_threads);
    T_RUN_TARGETS(test_long);
    T_RUN_TARGETS(test_special);
    T_RUN_TARGETS(test_nothing);
    T_RUN(test_bad);
    return t_done();
}
