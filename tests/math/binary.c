/* tests/math/binary.c - two tensors to one: every operation bit for bit, broadcasting, strides, in place, special
 * values */
#include "t.h"

typedef tiny_status (*call)(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y);
static const struct { const char *name; call f; int kind;
} ops[] = { { "add", tiny_add, TINY_OP_ADD },
            { "sub", tiny_sub, TINY_OP_SUB },
            { "mul", tiny_mul, TINY_OP_MUL },
            { "div", tiny_div, TINY_OP_DIV },
            { "minimum", tiny_minimum, TINY_OP_MINIMUM },
            { "maximum", tiny_maximum, TINY_OP_MAXIMUM } };

static float one(int kind, float a, float b)
{
    switch (kind) {
    case TINY_OP_ADD: return a + b;
    case TINY_OP_SUB: return a - b;
    case TINY_OP_MUL: return a * b;
    case TINY_OP_DIV: return a / b;
    case TINY_OP_MINIMUM: return a != a || b != b ? NAN : a < b ? a : b;
    default: return a != a || b != b ? NAN : a > b ? a : b;
    }
}

/* the same bits, or both NaN */
static int same(float got, float want) { return (got != got && want != want) || !memcmp(&got, &want, 4); }

#define T_BITS(got, want) (same(got, want) ? 1 : (T_CLOSE(got, want, 0), T_TRUE(same(got, want))))

/* Against the operators of C over any strides; a number counts as a tensor of rank 0. */
static void check(const tiny_tensor *a, const tiny_tensor *b, float value, const tiny_tensor *y, int kind)
{
    tiny_idx i, n = tiny_tensor_count(y);
    for (i = 0; i < n; i++) {
        tiny_idx at[3] = { 0, 0, 0 }, rest = i;
        const tiny_tensor *t[3];
        int k, axis;
        t[0] = a;
        t[1] = b;
        t[2] = y;
        for (axis = y->rank - 1; axis >= 0; axis--) {
            for (k = 0; k < 3; k++) {
                int own = t[k] ? axis - y->rank + t[k]->rank : -1;
                if (own >= 0 && t[k]->dim[own] > 1) at[k] += rest % y->dim[axis] * t[k]->stride[own];
            }
            rest /= y->dim[axis];
        }
        if (!T_BITS(((float *)y->data)[at[2]],
                    one(kind, ((float *)a->data)[at[0]], b ? ((float *)b->data)[at[1]] : value))) {
            printf("  element %ld\n", (long)i);
            return;
        }
    }
}

static void test_by_hand(tiny_target target)
{
    static const float want[6][3] = { { 6, 1, -1 },        { -4, 3, 1 },  { 5, -2, -0.0f },
                                      { 0.2f, -2, -0.0f }, { 1, -1, -1 }, { 5, 2, 0 } };
    float a[3] = { 1, 2, 0 }, b[3] = { 5, -1, -1 }, y[3];
    tiny_tensor ta = tiny_tensor_1d(a, TINY_F32, 3), tb = tiny_tensor_1d(b, TINY_F32, 3),
                ty = tiny_tensor_1d(y, TINY_F32, 3);
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t k;
    for (k = 0; k < T_COUNT(ops); k++) {
        T_OK(ops[k].f(ctx, &ta, &tb, &ty));
        T_RAN_ON(ctx, t_vectors(target));
        T_SAME(y, want[k], 3);
    }
    T_OK(tiny_scale(ctx, &ta, 3.0f, -1.0f, &ty));
    T_RAN_ON(ctx, t_vectors(target));
    T_CLOSE(y[0], 2, 0);
    T_CLOSE(y[1], 5, 0);
    T_CLOSE(y[2], -1, 0);
    T_OK(tiny_axpy(ctx, &tb, 2.0f, &ty));
    T_RAN_ON(ctx, t_vectors(target));
    T_CLOSE(y[0], 12, 0);
    T_CLOSE(y[1], 3, 0);
    T_CLOSE(y[2], -3, 0);
    t_close(ctx);
}

static void test_lengths(tiny_target target)
{
    static const size_t more[] = { 127, 255, 257, 1000, 40000, 100001 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, k, i;
    for (c = 1; c <= 70 + T_COUNT(more); c++) {
        size_t n = c <= 70 ? c : more[c - 71];
        float *a = t_rand(n, -2.0f, 2.0f), *b = t_rand(n, -2.0f, 2.0f), *y = t_guarded(n), *z = t_guarded(n);
        tiny_tensor ta = tiny_tensor_1d(a, TINY_F32, (tiny_idx)n), tb = tiny_tensor_1d(b, TINY_F32, (tiny_idx)n),
                    ty = tiny_tensor_1d(y, TINY_F32, (tiny_idx)n);
        tiny_tensor tz = tiny_tensor_1d(z, TINY_F32, (tiny_idx)n);
        for (k = 0; k < T_COUNT(ops); k++) {
            T_OK(ops[k].f(ctx, &ta, &tb, &ty));
            check(&ta, &tb, 0.0f, &ty, ops[k].kind);
            T_WALLS(y, n);
            memcpy(z, a, n * sizeof *z);
            T_OK(ops[k].f(ctx, &tz, &tb, &tz));             /* in place of a, of b, of both */
            T_SAME(z, y, n);
            memcpy(z, b, n * sizeof *z);
            T_OK(ops[k].f(ctx, &ta, &tz, &tz));
            T_SAME(z, y, n);
            T_OK(ops[k].f(ctx, &ta, &ta, &ty));
            memcpy(z, a, n * sizeof *z);
            T_OK(ops[k].f(ctx, &tz, &tz, &tz));
            T_SAME(z, y, n);
            T_WALLS(z, n);
        }
        T_OK(tiny_scale(ctx, &ta, 1.7f, 0.3f, &ty));
        for (i = 0; i < n; i++) {
            float product = 1.7f * a[i];
            z[i] = product + 0.3f;
        }
        T_SAME(y, z, n);
        T_OK(tiny_axpy(ctx, &tb, -0.7f, &ty));
        for (i = 0; i < n; i++) {
            float product = -0.7f * b[i];
            z[i] += product;
        }
        T_SAME(y, z, n);
        T_WALLS(y, n);
        T_OK(tiny_scale(ctx, &ta, 2.0f, 0.0f, &ta));
        t_free_blocks();
    }
    t_close(ctx);
}

/* A dimension of 1 or an absent one is repeated; so is stride 0. */
static void test_broadcast(tiny_target target)
{
    /* of a, of b; 0 ends: right-aligned, filled from the front */
    static const tiny_idx shape[][2][4] = { { { 3, 4, 5, 33 }, { 3, 4, 5, 33 } }, { { 3, 4, 5, 33 }, { 1, 4, 1, 33 } },
                                            { { 3, 1, 5, 1 }, { 1, 4, 1, 33 } },  { { 1, 1, 1, 1 }, { 3, 4, 5, 17 } },
                                            { { 2, 2, 70, 1 }, { 2, 2, 70, 9 } }, { { 1, 1, 1, 900 }, { 1, 1, 40, 1 } },
                                            { { 4, 1, 1, 5 }, { 1, 3, 2, 5 } } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, k;
    for (c = 0; c < T_COUNT(shape); c++) {
        tiny_tensor a = tiny_tensor_nd(NULL, TINY_F32, 4, shape[c][0]),
                    b = tiny_tensor_nd(NULL, TINY_F32, 4, shape[c][1]), y;
        tiny_idx dim[4];
        int i;
        for (i = 0; i < 4; i++) dim[i] = a.dim[i] > b.dim[i] ? a.dim[i] : b.dim[i];
        a.data = t_rand((size_t)tiny_tensor_count(&a), 0.5f, 2.0f);
        b.data = t_rand((size_t)tiny_tensor_count(&b), -2.0f, -0.5f);
        y = tiny_tensor_nd(NULL, TINY_F32, 4, dim);
        y.data = t_guarded((size_t)tiny_tensor_count(&y));
        for (k = 0; k < T_COUNT(ops); k++) {
            T_OK(ops[k].f(ctx, &a, &b, &y));
            check(&a, &b, 0.0f, &y, ops[k].kind);
            T_WALLS(y.data, tiny_tensor_count(&y));
        }
    }
    {
        /* absent axes, and a number */
        float *a = t_rand(6 * 35, -1.0f, 1.0f), *b = t_rand(35, 1.0f, 2.0f), *y = t_guarded(6 * 35);
        tiny_tensor ta = tiny_tensor_3d(a, TINY_F32, 2, 3, 35), tb = tiny_tensor_1d(b, TINY_F32, 35),
                    ty = tiny_tensor_3d(y, TINY_F32, 2, 3, 35);
        tiny_tensor none = tiny_tensor_nd(b, TINY_F32, 0, NULL);
        for (k = 0; k < T_COUNT(ops); k++) {
            tiny_binary_params p;
            tiny_op op;
            T_OK(ops[k].f(ctx, &ta, &tb, &ty));
            check(&ta, &tb, 0.0f, &ty, ops[k].kind);
            T_OK(ops[k].f(ctx, &tb, &ta, &ty));
            check(&tb, &ta, 0.0f, &ty, ops[k].kind);
            T_OK(ops[k].f(ctx, &none, &ta, &ty));
            check(&none, &ta, 0.0f, &ty, ops[k].kind);
            memset(&op, 0, sizeof op);
            op.kind = ops[k].kind;
            op.in[0] = &ta;
            op.out[0] = &ty;
            op.params = &p;
            p.value = 0.7f;
            T_OK(tiny_run(ctx, &op));
            check(&ta, NULL, 0.7f, &ty, ops[k].kind);
            op.params = NULL;
            T_OK(tiny_run(ctx, &op));
            check(&ta, NULL, 0.0f, &ty, ops[k].kind);
            T_OK(ops[k].f(ctx, &none, NULL, &none));
        }
    }
    t_close(ctx);
}

static void view(tiny_tensor *t, float *room, int how)
{
    tiny_idx rows = t->dim[0], cols = t->dim[1];
    t->data = room;
    t->stride[0] = cols;
    t->stride[1] = 1;
    if (how == 1) t->stride[0] = cols + 5;
    if (how == 2) { t->stride[0] = 1; t->stride[1] = rows; }
    if (how == 3) { t->stride[0] = 3 * cols; t->stride[1] = 3; }
    if (how == 4) { t->data = room + rows * cols - 1; t->stride[0] = -cols; t->stride[1] = -1; }
    if (how == 5) t->stride[0] = 0;
    if (how == 6) t->stride[1] = 0;
}

static void test_strides(tiny_target target)
{
    enum { ROWS = 7, COLS = 301 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *a = t_rand(4 * ROWS * COLS, -2.0f, 2.0f), *b = t_rand(4 * ROWS * COLS, -2.0f, 2.0f),
          *y = t_guarded(4 * ROWS * COLS), *before = t_guarded(4 * ROWS * COLS);
    int i, j, k;
    size_t e, op;
    for (i = 0; i < 7; i++)
        for (j = 0; j < 7; j++)
            for (k = 0; k < 5; k++) {
                tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, ROWS, COLS), tb = ta, ty = ta;
                view(&ta, a, i);
                view(&tb, b, j);
                view(&ty, y, k);
                for (op = 0; op < T_COUNT(ops); op += 1 + (size_t)((i + j + k) % 4)) {
                    memset(y, 0x77, 4 * ROWS * COLS * sizeof *y);
                    memcpy(before, y, 4 * ROWS * COLS * sizeof *y);
                    T_OK(ops[op].f(ctx, &ta, &tb, &ty));
                    check(&ta, &tb, 0.0f, &ty, ops[op].kind);
                    for (e = 0; e < ROWS * COLS; e++)
                        ((float *)ty.data)[(tiny_idx)(e / COLS) * ty.stride[0] + (tiny_idx)(e % COLS) * ty.stride[1]] =
                            before[0];
                    T_SAME(y, before, 4 * ROWS * COLS);     /* nothing between the elements */
                }
                T_OK(tiny_scale(ctx, &ta, 1.0f, 0.0f, &ty));
                T_OK(tiny_axpy(ctx, &ta, 1.0f, &ty));
                for (e = 0; e < ROWS * COLS; e++) {
                    float x =
                        ((float *)ta.data)[(tiny_idx)(e / COLS) * ta.stride[0] + (tiny_idx)(e % COLS) * ta.stride[1]];
                    if (!T_CLOSE(((float *)ty
                                      .data)[(tiny_idx)(e / COLS) * ty.stride[0] + (tiny_idx)(e % COLS) * ty.stride[1]],
                                 x + x, 0))
                        break;
                }
            }
    t_close(ctx);
}

static void test_special(tiny_target target)
{
    static const float v[] = { 0.0f,    -0.0f,           1.0f,    -1.0f,    INFINITY, -INFINITY, NAN, 1e-45f,
                               -1e-40f, 1.17549435e-38f, FLT_MAX, -FLT_MAX, 3e38f,    1e-30f };
    enum { V = T_COUNT(v), N = V * V };
    float a[N], b[N], y[N];
    tiny_tensor ta = tiny_tensor_1d(a, TINY_F32, N), tb = tiny_tensor_1d(b, TINY_F32, N),
                ty = tiny_tensor_1d(y, TINY_F32, N);
    tiny_ctx *ctx = t_ctx(target, 1), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t i, k;
    for (i = 0; i < N; i++) {
        a[i] = v[i / V];
        b[i] = v[i % V];
    }
    for (k = 0; k < T_COUNT(ops); k++) {
        T_OK(ops[k].f(ctx, &ta, &tb, &ty));
        check(&ta, &tb, 0.0f, &ty, ops[k].kind);
        T_OK(ops[k].f(plain, &ta, &tb, &ty));
        T_RAN_ON(plain, TINY_TARGET_REFERENCE);
        check(&ta, &tb, 0.0f, &ty, ops[k].kind);
    }
    T_OK(tiny_scale(ctx, &ta, 0.0f, 0.0f, &ty));
    for (i = 0; i < N; i++) if (!T_CLOSE(y[i], a[i] * 0.0f, 0)) break;
    t_close(plain);
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float a[12] = { 0 }, b[12] = { 0 }, y[12];
    tiny_tensor ta = tiny_tensor_2d(a, TINY_F32, 3, 4), tb = tiny_tensor_2d(b, TINY_F32, 3, 4),
                ty = tiny_tensor_2d(y, TINY_F32, 3, 4), t;
    T_STATUS(tiny_add(NULL, &ta, &tb, &ty), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_add(ctx, NULL, &tb, &ty), TINY_E_ARGUMENT, "add: input 0 is missing");
    T_STATUS(tiny_add(ctx, &ta, &tb, NULL), TINY_E_ARGUMENT, "add: output 0 is missing");
    t = tiny_tensor_2d(b, TINY_F32, 3, 3);
    T_STATUS(tiny_mul(ctx, &ta, &t, &ty), TINY_E_SHAPE,
             "3x4 f32 and 3x3 f32 do not fit together: axis 1 has 4 and 3 values");
    t = tiny_tensor_2d(b, TINY_I32, 3, 4);
    T_STATUS(tiny_sub(ctx, &ta, &t, &ty), TINY_E_DTYPE, "must be f32, or f64, not i32");
    T_STATUS(tiny_scale(ctx, &t, 1.0f, 0.0f, &ty), TINY_E_DTYPE, "must be f32 or f64, not i32");
    t = tiny_tensor_2d(y, TINY_F32, 4, 3);
    T_STATUS(tiny_div(ctx, &ta, &tb, &t), TINY_E_SHAPE, "output 0 is 4x3 f32, it must be 3x4 f32");
    T_STATUS(tiny_axpy(ctx, &ta, 1.0f, &t), TINY_E_SHAPE, "it must be 3x4 f32");
    T_STATUS(tiny_axpy(ctx, &ta, 1.0f, &ta), TINY_E_ALIAS, "overlaps");
    t = tiny_tensor_2d(a, TINY_F32, 1, 4);
    tb = tiny_tensor_2d(a, TINY_F32, 3, 4);
    T_STATUS(tiny_add(ctx, &ty, &t, &tb), TINY_E_ALIAS, "overlaps");     /* a row of the output is the other input */
    ty.stride[0] = 0;
    T_STATUS(tiny_add(ctx, &ta, &ta, &ty), TINY_E_ALIAS, "same address");
    ta = tiny_tensor_2d(NULL, TINY_F32, 0, 4);
    tb = tiny_tensor_2d(b, TINY_F32, 1, 4);
    ty = tiny_tensor_2d(y, TINY_F32, 0, 4);
    T_OK(tiny_add(ctx, &ta, &tb, &ty));
    T_OK(tiny_scale(ctx, &ta, 1.0f, 0.0f, &ty));
    T_OK(tiny_axpy(ctx, &ta, 1.0f, &ty));
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_lengths);
    T_RUN_TARGETS(test_broadcast);
    T_RUN_TARGETS(test_strides);
    T_RUN_TARGETS(test_special);
    T_RUN(test_bad);
    return t_done();
}
