/* tests/math/norm.c - norms against their formulas in double and by hand; offsets, outliers, strides, in place, bad
 * input */
#include "t.h"

enum { RMS, LAYER, LENGTH };

static void oracle(double *y, int kind, const float *x, const float *g, const float *b, size_t n, double eps)
{
    double mean = 0.0, ss = 0.0, r;
    size_t i;
    for (i = 0; kind == LAYER && i < n; i++) mean += (double)x[i] / (double)n;
    for (i = 0; i < n; i++) ss += ((double)x[i] - mean) * ((double)x[i] - mean);
    r = kind == LENGTH ? 1.0 / fmax(sqrt(ss), eps) : 1.0 / sqrt(ss / (double)n + eps);
    for (i = 0; i < n; i++) y[i] = ((double)x[i] - mean) * r * (g ? (double)g[i] : 1.0) + (b ? (double)b[i] : 0.0);
}

static double largest(const double *y, size_t n)
{
    double m = 0.0;
    size_t i;
    for (i = 0; i < n; i++) m = fmax(m, fabs(y[i]));
    return m;
}

static tiny_tensor rows_of(const float *x, size_t rows, size_t n)
{
    return tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, (tiny_idx)rows, (tiny_idx)n);
}
static tiny_tensor list_of(const float *x, size_t n)
{
    return tiny_tensor_1d((void *)(uintptr_t)x, TINY_F32, (tiny_idx)n);
}

static void test_by_hand(tiny_target target)
{
    static const float x[4] = { 3, 4, 1, 1 }, g[2] = { 2, 0.5f }, b[2] = { 10, 20 };
    tiny_tensor tx = rows_of(x, 2, 2), tg = list_of(g, 2), tb = list_of(b, 2), ty, ts;
    tiny_ctx *ctx = t_ctx(target, 1);
    float y[4], s[4];
    ty = rows_of(y, 2, 2);
    ts = rows_of(s, 2, 2);
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, -1.0f, &ty));         /* rms = sqrt(12.5) */
    T_RAN_ON(ctx, t_vectors(target));
    T_CLOSE(y[0], 0.8485281, 1e-7);
    T_CLOSE(y[1], 1.1313708, 2e-7);
    T_CLOSE(y[2], 1, 0);
    T_OK(tiny_rmsnorm(ctx, &tx, &tg, -1.0f, &ty));
    T_CLOSE(y[0], 1.6970563, 2e-7);
    T_CLOSE(y[1], 0.5656854, 1e-7);
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, 3.5f, &ty));          /* sqrt(12.5 + 3.5) = 4 */
    T_CLOSE(y[0], 0.75, 0);
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, 0.0f, &ty));          /* 1e-5 */
    T_CLOSE(y[2], 1.0 / sqrt(1.0 + 1e-5), 1e-7);
    T_OK(tiny_layernorm(ctx, &tx, &tg, &tb, -1.0f, &ty));   /* mean 3.5, deviation 0.5; the second row is constant */
    T_RAN_ON(ctx, t_vectors(target));
    T_CLOSE(y[0], 8, 2e-6);
    T_CLOSE(y[1], 20.5, 2e-6);
    T_OK(tiny_layernorm(ctx, &tx, &tg, &tb, 0.0f, &ty));
    T_CLOSE(y[2], 10, 0);
    T_CLOSE(y[3], 20, 0);
    T_OK(tiny_l2norm(ctx, &tx, 0.0f, &ty));
    T_RAN_ON(ctx, t_vectors(target));
    T_CLOSE(y[0], 0.6, 6e-8);
    T_CLOSE(y[1], 0.8, 6e-8);
    T_OK(tiny_l2norm(ctx, &tx, 10.0f, &ty));                /* the length is smaller than eps */
    T_CLOSE(y[1], 0.4, 6e-8);
    T_OK(tiny_add_rmsnorm(ctx, &tx, &tx, &tg, -1.0f, &ts, &ty));
    T_CLOSE(s[0], 6, 0);
    T_CLOSE(y[0], 1.6970563, 2e-7);
    T_OK(tiny_add_layernorm(ctx, &tx, &tx, &tg, &tb, -1.0f, &ts, &ty));
    T_CLOSE(s[1], 8, 0);
    T_CLOSE(y[0], 8, 2e-6);
    {
        /* two channels a group, two places: means 4 and -3, variances 5 and 0 */
        static const float image[8] = { 1, 3, 5, 7, -3, -3, -3, -3 }, cg[4] = { 1, 2, 3, 4 }, cb[4] = { 0, 1, 0, -1 };
        static const double want[8] = { -1.3416408, -0.4472136, 1.8944272, 3.6832816, 0, 0, -1, -1 };
        float out[8];
        tiny_tensor ti = tiny_tensor_3d((void *)(uintptr_t)image, TINY_F32, 1, 4, 2),
                    to = tiny_tensor_3d(out, TINY_F32, 1, 4, 2);
        tiny_tensor tcg = list_of(cg, 4), tcb = list_of(cb, 4);
        int i;
        T_OK(tiny_groupnorm(ctx, &ti, &tcg, &tcb, 2, 1e-12f, &to));
        T_RAN_ON(ctx, t_vectors(target));
        for (i = 0; i < 8; i++) T_CLOSE(out[i], want[i], 1e-6);
    }
    t_close(ctx);
}

static void test_lengths(tiny_target target)
{
    static const size_t more[] = { 127, 128, 129, 255, 511, 768, 1000, 4095, 4096, 4099, 9000, 100001 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i;
    for (c = 1; c <= 70 + T_COUNT(more); c++) {
        size_t n = c <= 70 ? c : more[c - 71], m = n < 4096 ? n : 4096;
        float *x = t_rand(n, -3.0f, 3.0f), *g = t_rand(n, 0.5f, 2.0f), *b = t_rand(n, -1.0f, 1.0f),
              *r = t_rand(n, -1.0f, 1.0f);
        float *y = t_guarded(n), *z = t_guarded(n), *s = t_guarded(n);
        double *want = (double *)t_keep(n * sizeof *want), most;
        tiny_tensor tx = rows_of(x, 1, n), tg = list_of(g, n), tb = list_of(b, n), tr = rows_of(r, 1, n),
                    ty = rows_of(y, 1, n), tz = rows_of(z, 1, n), ts = rows_of(s, 1, n);
        int k;
        for (k = 0; k < 2; k++) {
            T_OK(tiny_rmsnorm(ctx, &tx, k ? &tg : NULL, 1e-5f, &ty));
            oracle(want, RMS, x, k ? g : NULL, NULL, n, 1e-5);
            for (i = 0; i < n; i++)
                if (!T_CLOSE(y[i], want[i], (5 + 0.125 * (double)m) * FLT_EPSILON * fabs(want[i]))) break;
            T_WALLS(y, n);
            memcpy(z, x, n * sizeof *z);
            T_OK(tiny_rmsnorm(ctx, &tz, k ? &tg : NULL, 1e-5f, &tz));
            T_SAME(z, y, n);
        }
        for (k = 0; k < 4; k++) {
            T_OK(tiny_layernorm(ctx, &tx, k & 1 ? &tg : NULL, k & 2 ? &tb : NULL, 1e-5f, &ty));
            oracle(want, LAYER, x, k & 1 ? g : NULL, k & 2 ? b : NULL, n, 1e-5);
            most = largest(want, n) + 2.0;
            for (i = 0; i < n; i++) if (!T_CLOSE(y[i], want[i], (8 + 0.2 * (double)m) * FLT_EPSILON * most)) break;
            T_WALLS(y, n);
            memcpy(z, x, n * sizeof *z);
            T_OK(tiny_layernorm(ctx, &tz, k & 1 ? &tg : NULL, k & 2 ? &tb : NULL, 1e-5f, &tz));
            T_SAME(z, y, n);
        }
        T_OK(tiny_l2norm(ctx, &tx, 0.0f, &ty));
        oracle(want, LENGTH, x, NULL, NULL, n, 1e-12);
        for (i = 0; i < n; i++)
            if (!T_CLOSE(y[i], want[i], (5 + 0.125 * (double)m) * FLT_EPSILON * fabs(want[i]))) break;
        T_WALLS(y, n);
        /* the sum with it: the same bits as a sum and then a norm */
        T_OK(tiny_add(ctx, &tx, &tr, &tz));
        T_OK(tiny_add_rmsnorm(ctx, &tx, &tr, &tg, 1e-5f, &ts, &ty));
        T_SAME(s, z, n);
        T_OK(tiny_rmsnorm(ctx, &tz, &tg, 1e-5f, &tz));
        T_SAME(y, z, n);
        T_WALLS(s, n);
        memcpy(z, x, n * sizeof *z);
        T_OK(tiny_add_layernorm(ctx, &tz, &tr, &tg, &tb, 1e-5f, &tz, &ty));       /* s in place of x */
        T_SAME(z, s, n);
        T_OK(tiny_layernorm(ctx, &ts, &tg, &tb, 1e-5f, &tz));
        T_SAME(y, z, n);
        t_free_blocks();
    }
    t_close(ctx);
}

/* A large common offset must not matter: x and x + 2^k on a grid where the sum is exact give the same deviations. */
static void test_offset(tiny_target target)
{
    enum { N = 1023 };
    static const float offset[] = { 0.0f, 1024.0f, 32768.0f, -1048576.0f };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_guarded(N), *moved = t_guarded(N), *y = t_guarded(N);
    double want[N];
    tiny_tensor tx = rows_of(moved, 1, N), ty = rows_of(y, 1, N), image = tiny_tensor_3d(moved, TINY_F32, 1, 1, N),
                out = tiny_tensor_3d(y, TINY_F32, 1, 1, N);
    size_t c;
    int i, first;
    for (i = 0; i < N; i++) x[i] = (float)((int)t_rand_below(65) - 32) / 8.0f;
    for (first = 0; first < 2; first++) {                   /* the second time the first value is an outlier */
        if (first) x[0] = 500.0f;
        oracle(want, LAYER, x, NULL, NULL, N, 1e-5);
        for (c = 0; c < T_COUNT(offset); c++) {
            for (i = 0; i < N; i++) moved[i] = x[i] + offset[c];
            T_OK(tiny_layernorm(ctx, &tx, NULL, NULL, 0.0f, &ty));
            for (i = 0; i < N; i++) if (!T_CLOSE(y[i], want[i], 4e-6 * (first ? 30 : 2))) break;
            T_OK(tiny_groupnorm(ctx, &image, NULL, NULL, 0, 0.0f, &out));
            for (i = 0; i < N; i++) if (!T_CLOSE(y[i], want[i], 4e-6 * (first ? 30 : 2))) break;
        }
    }
    t_close(ctx);
}

/* squares outside the range of float */
static void test_range(tiny_target target)
{
    static const float size[] = { 1e-30f, 1e-22f, 1e-12f, 1e12f, 1e20f, 1e30f };
    enum { N = 100 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_rand(N, -1.0f, 1.0f), *y = t_guarded(N);
    double want[N];
    tiny_tensor tx = rows_of(x, 1, N), ty = rows_of(y, 1, N), image = tiny_tensor_3d(x, TINY_F32, 1, 1, N),
                out = tiny_tensor_3d(y, TINY_F32, 1, 1, N);
    size_t c;
    int i;
    for (i = 0; i < N; i++) x[i] += x[i] < 0.0f ? -0.1f : 0.1f;
    for (c = 0; c < T_COUNT(size); c++) {
        for (i = 0; i < N; i++) x[i] *= size[c];
        T_OK(tiny_rmsnorm(ctx, &tx, NULL, -1.0f, &ty));
        oracle(want, RMS, x, NULL, NULL, N, 0.0);
        for (i = 0; i < N; i++) if (!T_CLOSE(y[i], want[i], 2e-6 * fabs(want[i]))) break;
        T_OK(tiny_l2norm(ctx, &tx, -1.0f, &ty));
        oracle(want, LENGTH, x, NULL, NULL, N, 0.0);
        for (i = 0; i < N; i++) if (!T_CLOSE(y[i], want[i], 2e-6 * fabs(want[i]))) break;
        T_OK(tiny_layernorm(ctx, &tx, NULL, NULL, -1.0f, &ty));
        oracle(want, LAYER, x, NULL, NULL, N, 0.0);
        for (i = 0; i < N; i++) if (!T_CLOSE(y[i], want[i], 4e-6)) break;
        T_OK(tiny_groupnorm(ctx, &image, NULL, NULL, 1, -1.0f, &out));
        for (i = 0; i < N; i++) if (!T_CLOSE(y[i], want[i], 4e-6)) break;
        for (i = 0; i < N; i++) x[i] /= size[c];
    }
    for (i = 0; i < N; i++) x[i] = i % 2 ? 0.0f : -0.0f;    /* nothing has no direction */
    T_OK(tiny_l2norm(ctx, &tx, -1.0f, &ty));
    for (i = 0; i < N; i++) T_CLOSE(y[i], 0, 0);
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, 0.0f, &ty));
    for (i = 0; i < N; i++) T_CLOSE(y[i], 0, 0);
    T_OK(tiny_layernorm(ctx, &tx, NULL, NULL, 0.0f, &ty));
    for (i = 0; i < N; i++) T_CLOSE(y[i], 0, 0);
    for (i = 0; i < N; i++) x[i] = 1e-40f;                  /* denormal, with eps */
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, 0.0f, &ty));
    for (i = 0; i < N; i++) T_CLOSE(y[i], (double)x[i] / sqrt(1e-5), 1e-44);
    x[3] = 1e15f;                                           /* one outlier dominates */
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, 0.0f, &ty));
    T_CLOSE(y[3], 10, 2e-6);
    T_OK(tiny_layernorm(ctx, &tx, NULL, NULL, 0.0f, &ty));
    T_CLOSE(y[3], sqrt(99.0), 1e-4);
    T_CLOSE(y[4], -sqrt(1.0 / 99.0), 1e-6);
    x[3] = INFINITY;
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, 0.0f, &ty));
    T_CLOSE(y[3], NAN, 0);
    T_CLOSE(y[4], 0, 0);
    T_OK(tiny_layernorm(ctx, &tx, NULL, NULL, 0.0f, &ty));
    for (i = 0; i < N; i++) T_CLOSE(y[i], NAN, 0);
    x[3] = NAN;
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, 0.0f, &ty));
    for (i = 0; i < N; i++) T_CLOSE(y[i], NAN, 0);
    T_OK(tiny_l2norm(ctx, &tx, 0.0f, &ty));
    for (i = 0; i < N; i++) T_CLOSE(y[i], NAN, 0);
    T_OK(tiny_groupnorm(ctx, &image, NULL, NULL, 1, 0.0f, &out));
    for (i = 0; i < N; i++) T_CLOSE(y[i], NAN, 0);
    t_close(ctx);
}

/* scale invariance, zero mean, unit variance */
static void test_invariants(tiny_target target)
{
    enum { N = 777 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_rand(N, -5.0f, 9.0f), *y = t_guarded(N), *z = t_guarded(N);
    tiny_tensor tx = rows_of(x, 1, N), ty = rows_of(y, 1, N), tz = rows_of(z, 1, N);
    double sum = 0.0, squares = 0.0;
    int i;
    T_OK(tiny_layernorm(ctx, &tx, NULL, NULL, -1.0f, &ty));
    for (i = 0; i < N; i++) {
        sum += (double)y[i];
        squares += (double)y[i] * (double)y[i];
    }
    T_CLOSE(sum / N, 0, 1e-6);
    T_CLOSE(squares / N, 1, 1e-5);
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, -1.0f, &ty));
    T_OK(tiny_scale(ctx, &tx, 4.0f, 0.0f, &tz));            /* a power of two: the same bits */
    T_OK(tiny_rmsnorm(ctx, &tz, NULL, -1.0f, &tz));
    T_SAME(y, z, N);
    T_OK(tiny_l2norm(ctx, &tx, -1.0f, &ty));
    for (i = 0, squares = 0.0; i < N; i++) squares += (double)y[i] * (double)y[i];
    T_CLOSE(squares, 1, 1e-5);
    t_close(ctx);
}

static void view(tiny_tensor *t, float *room, int how)
{
    tiny_idx rows = t->dim[0], n = t->dim[1];
    t->data = room;
    t->stride[0] = n;
    t->stride[1] = 1;
    if (how == 1) t->stride[0] = n + 5;
    if (how == 2) { t->stride[0] = 1; t->stride[1] = rows; }
    if (how == 3) { t->stride[0] = 3 * n; t->stride[1] = 3; }
    if (how == 4) { t->data = room + rows * n - 1; t->stride[0] = -n; t->stride[1] = -1; }
}

static void test_strides(tiny_target target)
{
    enum { ROWS = 5, N = 67 };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    float *x = t_rand(4 * ROWS * N, -2.0f, 2.0f), *r = t_rand(4 * ROWS * N, -2.0f, 2.0f), *y = t_guarded(4 * ROWS * N),
          *s = t_guarded(4 * ROWS * N);
    float *want_y = t_guarded(4 * ROWS * N), *want_s = t_guarded(4 * ROWS * N), *g = t_rand(2 * N, 0.5f, 2.0f),
          *b = t_rand(2 * N, -1.0f, 1.0f);
    int i, j, k, e, kind;
    for (i = 0; i < 5; i++)
        for (j = 0; j < 5; j++)
            for (k = 0; k < 5; k++)
                for (kind = 0; kind < 5; kind++) {
                    tiny_tensor tx = rows_of(NULL, ROWS, N), tr = tx, ty = tx, ts = tx, tg = list_of(g, N),
                                tb = list_of(b, N), wy, ws;
                    int turn;
                    view(&tx, x, i);
                    view(&tr, r, k);
                    view(&ty, y, j);
                    view(&ts, s, k);
                    if (k & 1) tg.stride[0] = 2;
                    if (j & 1) tb.stride[0] = 2;
                    for (e = 0; e < 4 * ROWS * N; e++) y[e] = s[e] = want_y[e] = want_s[e] = -9.0f;
                    wy = ty;
                    ws = ts;
                    wy.data = want_y + ((float *)ty.data - y);
                    ws.data = want_s + ((float *)ts.data - s);
                    for (turn = 0; turn < 2; turn++) {
                        tiny_ctx *c = turn ? plain : ctx;
                        tiny_tensor *py = turn ? &wy : &ty, *ps = turn ? &ws : &ts;
                        if (kind == 0) T_OK(tiny_rmsnorm(c, &tx, &tg, 0.0f, py));
                        if (kind == 1) T_OK(tiny_layernorm(c, &tx, &tg, &tb, 0.0f, py));
                        if (kind == 2) T_OK(tiny_l2norm(c, &tx, 0.0f, py));
                        if (kind == 3) T_OK(tiny_add_rmsnorm(c, &tx, &tr, &tg, 0.0f, ps, py));
                        if (kind == 4) T_OK(tiny_add_layernorm(c, &tx, &tr, &tg, &tb, 0.0f, ps, py));
                    }
                    for (e = 0; e < 4 * ROWS * N; e++)
                        if (!T_CLOSE(y[e], want_y[e], want_y[e] == -9.0f ? 0 : 3e-6 * 4) ||
                            !T_CLOSE(s[e], want_s[e], 0))
                            break;
                }
    t_close(plain);
    t_close(ctx);
}

static void test_groups(tiny_target target)
{
    static const tiny_idx shape[][5] = { /* rank, images, channels, then places */
                                         { 4, 2, 12, 5, 7 }, { 4, 1, 32, 16, 16 }, { 3, 3, 12, 100, 1 },
                                         { 2, 5, 24, 1, 1 }, { 4, 1, 12, 1, 3 },   { 4, 1, 2, 200, 130 }
    };
    static const int groups[] = { 1, 2, 4, 12 };
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t c, k;
    int how;
    for (c = 0; c < T_COUNT(shape); c++)
        for (how = 0; how < 4; how++) {
            tiny_tensor x = tiny_tensor_nd(NULL, TINY_F32, (int)shape[c][0], shape[c] + 1), y = x, w, g, b;
            size_t count = (size_t)tiny_tensor_count(&x), i;
            float *out = t_guarded(2 * count), *want = t_guarded(2 * count);
            x.data = t_rand(2 * count, -1.0f, 3.0f);
            if (how == 1 && x.rank == 4) {                  /* channels last in memory */
                x.stride[1] = 1;
                x.stride[3] = x.dim[1];
                x.stride[2] = x.dim[1] * x.dim[3];
            }
            if (how == 2) for (i = 0; i < (size_t)x.rank; i++) y.stride[i] *= 2;
            if (how == 3) for (i = 0; i + 1 < (size_t)x.rank; i++) x.stride[i] *= 2;
            y.data = out;
            w = y;
            w.data = want;
            g = tiny_tensor_1d(t_rand((size_t)x.dim[1], 0.5f, 2.0f), TINY_F32, x.dim[1]);
            b = tiny_tensor_1d(t_rand((size_t)x.dim[1], -1.0f, 1.0f), TINY_F32, x.dim[1]);
            for (k = 0; k < T_COUNT(groups); k++) {
                if (x.dim[1] % groups[k]) continue;
                for (i = 0; i < 2 * count; i++) out[i] = want[i] = 0.0f;
                T_OK(tiny_groupnorm(ctx, &x, how & 1 ? &g : NULL, how & 2 ? &b : NULL, groups[k], 0.0f, &y));
                T_OK(tiny_groupnorm(plain, &x, how & 1 ? &g : NULL, how & 2 ? &b : NULL, groups[k], 0.0f, &w));
                for (i = 0; i < 2 * count; i++) if (!T_CLOSE(out[i], want[i], 8e-6)) break;
                T_WALLS(out, 2 * count);
            }
            t_free_blocks();
        }
    t_close(plain);
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[24] = { 0 }, y[24], s[24], g[4] = { 1, 1, 1, 1 };
    tiny_tensor tx = rows_of(x, 3, 4), ty = rows_of(y, 3, 4), ts = rows_of(s, 3, 4), tg = list_of(g, 4), t;
    T_STATUS(tiny_rmsnorm(ctx, NULL, &tg, 0.0f, &ty), TINY_E_ARGUMENT, "rmsnorm: input 0 is missing");
    T_STATUS(tiny_rmsnorm(NULL, &tx, &tg, 0.0f, &ty), TINY_E_ARGUMENT, NULL);
    t = list_of(g, 3);
    T_STATUS(tiny_rmsnorm(ctx, &tx, &t, 0.0f, &ty), TINY_E_SHAPE,
             "g is 3 f32, it must have 4 values, one for each value of a row of x");
    T_STATUS(tiny_layernorm(ctx, &tx, &tg, &t, 0.0f, &ty), TINY_E_SHAPE, "b is 3 f32, it must have 4 values");
    t = rows_of(g, 1, 4);
    T_STATUS(tiny_layernorm(ctx, &tx, &t, NULL, 0.0f, &ty), TINY_E_SHAPE, "g is 1x4 f32");
    t = tiny_tensor_1d(g, TINY_BF16, 4);
    T_STATUS(tiny_rmsnorm(ctx, &tx, &t, 0.0f, &ty), TINY_E_DTYPE, "input 1 must be f32, or all f64, not bf16");
    t = tiny_tensor_nd(x, TINY_F32, 0, NULL);
    T_STATUS(tiny_l2norm(ctx, &t, 0.0f, &ty), TINY_E_SHAPE, "needs an axis to go over");
    T_STATUS(tiny_rmsnorm(ctx, &tx, &tg, INFINITY, &ty), TINY_E_ARGUMENT, "eps is not a finite number");
    T_STATUS(tiny_rmsnorm(ctx, &tx, &tg, NAN, &ty), TINY_E_ARGUMENT, "eps is not a finite number");
    t = rows_of(x + 1, 3, 4);
    T_STATUS(tiny_rmsnorm(ctx, &tx, &tg, 0.0f, &t), TINY_E_ALIAS, "overlaps");
    t = rows_of(s, 4, 3);
    T_STATUS(tiny_add_rmsnorm(ctx, &tx, &t, NULL, 0.0f, &ty, &ts), TINY_E_SHAPE, "x is 3x4 f32 and r is 4x3 f32");
    T_STATUS(tiny_add_rmsnorm(ctx, &tx, NULL, NULL, 0.0f, &ts, &ty), TINY_E_ARGUMENT, "input 1 is missing");
    T_STATUS(tiny_add_layernorm(ctx, &tx, &tx, NULL, NULL, 0.0f, &ts, NULL), TINY_E_ARGUMENT, "output 1 is missing");
    T_STATUS(tiny_add_layernorm(ctx, &tx, &tx, NULL, NULL, 0.0f, &ty, &ty), TINY_E_ALIAS, "overlap");
    t = list_of(x, 4);
    T_STATUS(tiny_groupnorm(ctx, &t, NULL, NULL, 2, 0.0f, &ty), TINY_E_SHAPE,
             "needs an axis of images and one of channels");
    T_STATUS(tiny_groupnorm(ctx, &tx, NULL, NULL, 3, 0.0f, &ty), TINY_E_ARGUMENT,
             "4 channels cannot be divided into 3 groups");
    T_STATUS(tiny_groupnorm(ctx, &tx, NULL, NULL, -2, 0.0f, &ty), TINY_E_ARGUMENT,
             "4 channels cannot be divided into -2 groups");
    t = list_of(g, 3);
    T_STATUS(tiny_groupnorm(ctx, &tx, &t, NULL, 2, 0.0f, &ty), TINY_E_SHAPE, "one for each channel of x");
    tx = rows_of(NULL, 3, 0);
    ty = rows_of(NULL, 3, 0);
    T_OK(tiny_rmsnorm(ctx, &tx, NULL, 0.0f, &ty));
    T_OK(tiny_layernorm(ctx, &tx, NULL, NULL, 0.0f, &ty));
    T_OK(tiny_groupnorm(ctx, &tx, NULL, NULL, 0, 0.0f, &ty));
    tx = rows_of(NULL, 0, 4);
    ty = rows_of(NULL, 0, 4);
    T_OK(tiny_l2norm(ctx, &tx, 0.0f, &ty));
    T_OK(tiny_groupnorm(ctx, &tx, NULL, NULL, 2, 0.0f, &ty));
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_lengths);
    T_RUN_TARGETS(test_offset);
    T_RUN_TARGETS(test_range);
    T_RUN_TARGETS(test_invariants);
    T_RUN_TARGETS(test_strides);
    T_RUN_TARGETS(test_groups);
    T_RUN(test_bad);
    return t_done();
}
