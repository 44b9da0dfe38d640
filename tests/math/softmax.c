/* tests/math/softmax.c - numbers worked by hand, the four forms against each other and against libm in
 * double, shifts, long rows on several threads, special values, strides, bad input */
#define T_INTERNALS
#include "t.h"

static const char *const form_name[] = { "auto", "reload", "recompute", "online", "two-pass" };
#define FORMS 5

static tiny_status run(tiny_ctx *ctx, const float *x, float *y, tiny_idx rows, tiny_idx n, int form, float scale)
{
    tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, rows, n), ty = tiny_tensor_2d(y, TINY_F32, rows, n);
    tiny_softmax_params p;
    memset(&p, 0, sizeof p);
    p.form = form;
    p.scale = scale;
    return tiny_softmax(ctx, &tx, &p, &ty);
}

static tiny_status run_log(tiny_ctx *ctx, const float *x, float *y, tiny_idx rows, tiny_idx n, int form)
{
    tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, rows, n), ty = tiny_tensor_2d(y, TINY_F32, rows, n);
    tiny_softmax_params p;
    memset(&p, 0, sizeof p);
    p.form = form;
    return tiny_log_softmax(ctx, &tx, &p, &ty);
}

/* the definition, with the C library's exp */
static void oracle(double *y, const float *x, size_t n)
{
    double top = -HUGE_VAL, sum = 0.0;
    size_t i;
    for (i = 0; i < n; i++) if ((double)x[i] > top) top = (double)x[i];
    for (i = 0; i < n; i++) sum += y[i] = exp((double)x[i] - top);
    for (i = 0; i < n; i++) y[i] /= sum;
}

static float normal(void)               /* near enough: twelve uniforms */
{
    float s = -6.0f;
    int i;
    for (i = 0; i < 12; i++) s += t_rand_float(0.0f, 1.0f);
    return s;
}

/* ---- attention 1 (arXiv 2001.04438): numbers worked by hand */

static void test_by_hand(tiny_target target)
{
    static const float x[4][3] = { { 1, 2, 3 }, { 1000, 1001, 1002 }, { -1e4f, 0, 10 }, { 88.5f, 89, 90 } };
    static const double want[4][3] = { { 0.0900306, 0.2447285, 0.6652409 },
                                       { 0.0900306, 0.2447285, 0.6652409 },
                                       { 0, 0.0000454, 0.9999546 },
                                       { 0.1402444, 0.2312239, 0.6285316 } };
    tiny_ctx *ctx = t_ctx(target, 1);
    float y[3];
    int c, f, i;
    for (c = 0; c < 4; c++)
        for (f = 0; f < FORMS; f++) {
            T_OK(run(ctx, x[c], y, 1, 3, f, 0.0f));
            T_RAN_ON(ctx, t_vectors(target));
            for (i = 0; i < 3; i++) T_CLOSE(y[i], want[c][i], 2e-7);
            T_OK(run_log(ctx, x[c], y, 1, 3, f));
            for (i = 1; i < 3; i++) T_CLOSE(y[i], log(want[c][i]), 2e-3 * (c == 2) + 2e-6);
        }
    t_close(ctx);
    T_PROOF("attention 1", "worked rows: y");
}

/* (p, n) of single values, (m, e) of their sums, and the logarithm of the sum that comes with them */
static void test_extended(tiny_target target)
{
    static const float x[6] = { 1, 2, 3, 1000, 1001, 1002 };
    static const double p[3] = { 1.359141, 0.923632, 1.255346 };
    static const float e[6] = { 1, 3, 4, 1443, 1444, 1446 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float m, n;
    int i;
    for (i = 0; i < 6; i++) {
        ctx->k->softmax_extsum_f32(x + i, 1, 1.0f, &m, &n);
        T_CLOSE(n, e[i], 0);
        if (i < 3) T_CLOSE(m, p[i], 1e-6);
    }
    ctx->k->softmax_extsum_f32(x, 3, 1.0f, &m, &n);
    T_CLOSE(m, 1.887055, 1e-6);
    T_CLOSE(n, 4, 0);
    T_CLOSE(log((double)m) + (double)n * 0.69314718055994531, 3.40760596, 1e-6);
    ctx->k->softmax_extsum_f32(x + 3, 3, 1.0f, &m, &n);
    T_CLOSE(m, 1.123875, 1e-6);
    T_CLOSE(n, 1446, 0);
    ctx->k->softmax_extsum_f32(x, 3, 2.0f, &m, &n);         /* scaled: 2, 4, 6 */
    T_CLOSE((double)m * pow(2.0, (double)n), exp(2.0) + exp(4.0) + exp(6.0), 1e-4);
    t_close(ctx);
    T_PROOF("attention 1", "worked rows: p, n and sums");
}

/* A row dealt out to A accumulators, each summed alone, the sums added by the rule of extended numbers: A = 1 to 4
 * give the same to 1e-6. Rows whose exponents are far apart and far from 0, so that a sum that forgets a lane's
 * exponent, or keeps it as an int, shows. */
static void test_accumulators(tiny_target target)
{
    static const float centre[] = { 0.0f, 900.0f, -8000.0f, 3e5f }, width[] = { 3.0f, 60.0f };
    static const size_t length[] = { 1, 3, 17, 100, 1000 };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t c, w, k, i;
    for (c = 0; c < T_COUNT(centre); c++)
        for (w = 0; w < T_COUNT(width); w++)
            for (k = 0; k < T_COUNT(length); k++) {
                const size_t n = length[k];
                float *x = t_rand(n, centre[c] - width[w], centre[c] + width[w]), *part = t_guarded(n);
                double whole = 0.0;
                int of;
                for (of = 1; of <= 4; of++) {
                    double m = 0.0, e = -HUGE_VAL, size;
                    int a;
                    for (a = 0; a < of; a++) {
                        size_t count = 0;
                        float am, ae;
                        for (i = (size_t)a; i < n; i += (size_t)of) part[count++] = x[i];
                        if (!count) continue;
                        ctx->k->softmax_extsum_f32(part, count, 1.0f, &am, &ae);
                        if ((double)ae > e) { m = e > -HUGE_VAL ? m * pow(2.0, e - (double)ae) : 0.0; e = (double)ae; }
                        m += (double)am * pow(2.0, (double)ae - e);
                    }
                    size = log(m) + e * 0.69314718055994531;
                    if (of == 1) whole = size;
                    T_CLOSE(size, whole, 1e-6);                 /* of a logarithm: 1e-6 of the sum */
                }
            }
    t_close(ctx);
    T_PROOF("attention 1", "A = 1 to 4 accumulators agree to 1e-6");
}

/* ---- lengths, in place */

static void test_lengths(tiny_target target)
{
    static const size_t more[] = { 127, 128, 129, 255, 511, 513, 1000, 4095, 4096, 4097, 8193, 16384, 16385, 40000 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i;
    int f;
    for (c = 1; c <= 100 + T_COUNT(more); c++) {
        size_t n = c <= 100 ? c : more[c - 101];
        float *x = t_guarded(n), *y = t_guarded(n);
        double *want = (double *)t_keep(n * sizeof *want);
        for (i = 0; i < n; i++) x[i] = 6.0f * normal();
        oracle(want, x, n);
        for (f = 0; f < FORMS; f++) {
            T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
            for (i = 0; i < n; i++)
                if (!T_CLOSE(y[i], want[i], 4e-7)) { printf("  n %lu, %s\n", (unsigned long)n, form_name[f]); break; }
            T_WALLS(y, n);
            T_OK(run_log(ctx, x, y, 1, (tiny_idx)n, f));
            for (i = 0; i < n; i++)
                if (!T_CLOSE(y[i], log(want[i]), 1e-6 * (1.0 + fabs(log(want[i]))))) {
                    printf("  n %lu, log, %s\n", (unsigned long)n, form_name[f]);
                    break;
                }
            T_WALLS(y, n);
        }
        for (f = 0; f < FORMS; f++) {
            float *z = t_guarded(n);
            T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
            memcpy(z, x, n * sizeof *z);
            T_OK(run(ctx, z, z, 1, (tiny_idx)n, f, 0.0f));
            T_SAME(z, y, n);
            T_WALLS(z, n);
        }
    }
    t_close(ctx);
    T_PROOF("attention 1", "equal to the forms of 0.1 and to double to 4e-7");
    T_PROOF("attention 1", "all n from 1 to 100");
}

/* ---- accuracy over a wide range; how far a form may be from another */

static void test_wide(tiny_target target)
{
    enum { N = 4096 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_guarded(N), *y[FORMS];
    double *want = (double *)t_keep(N * sizeof *want);
    int f, i;
    for (i = 0; i < N; i++) x[i] = 30.0f * normal();
    oracle(want, x, N);
    for (f = 0; f < FORMS; f++) {
        double sum = 0.0, worst = 0.0;
        y[f] = t_guarded(N);
        T_OK(run(ctx, x, y[f], 1, N, f, 0.0f));
        for (i = 0; i < N; i++) {
            sum += (double)y[f][i];
            if (want[i] > 1.2e-38) worst = fmax(worst, fabs((double)y[f][i] - want[i]) / want[i]);
            else T_TRUE((double)y[f][i] <= 1.2e-38);
        }
        for (i = 0; f > 0 && i < N; i++) if (!T_CLOSE(y[f][i], y[0][i], 4e-7)) break;
        T_CLOSE(sum, 1, 1e-6);
        /* a difference s - mu is rounded, (p, n) is not */
        if (getenv("T_SAY")) printf("%s worst %.3g sum %.10f\n", form_name[f], worst, sum);
        T_TRUE(worst < (f == TINY_SOFTMAX_TWO_PASS ? 6e-7 : 6e-6));
    }
    t_close(ctx);
    T_PROOF("attention 1", "4096 values N(0, 30): two passes within 6e-7 of double, the sum 1");
}

/* Values on a grid that a shift leaves exact: the differences are the same, and so must the weights be. */
static void test_shift(tiny_target target)
{
    enum { N = 1003 };
    static const float shift[] = { 1.0f, -64.0f, 1024.0f, -8192.0f, 10000.0f };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_guarded(N), *moved = t_guarded(N), *y = t_guarded(N), *z = t_guarded(N);
    size_t c;
    int f, i;
    for (i = 0; i < N; i++) x[i] = (float)((int)t_rand_below(4096) - 2048) / 256.0f;
    for (c = 0; c < T_COUNT(shift); c++) {
        for (i = 0; i < N; i++) moved[i] = x[i] + shift[c];
        for (f = 0; f < FORMS; f++) {
            T_OK(run(ctx, x, y, 1, N, f, 0.0f));
            T_OK(run(ctx, moved, z, 1, N, f, 0.0f));
            if (f == TINY_SOFTMAX_TWO_PASS)
                for (i = 0; i < N; i++) { if (!T_CLOSE(z[i], y[i], 6e-7 * (double)y[i])) break; }
            else T_SAME(z, y, N);
        }
    }
    t_close(ctx);
    T_PROOF("attention 1", "shift invariance on a grid");
}

static void test_scale(tiny_target target)
{
    static const float scale[] = { 0.125f, 8.0f, -1.0f, 0.3f, -2.7f };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_guarded(777), *s = t_guarded(777), *y = t_guarded(777), *z = t_guarded(777);
    size_t c;
    int f, i;
    for (i = 0; i < 777; i++) x[i] = 2.0f * normal();
    for (c = 0; c < T_COUNT(scale); c++) {
        for (i = 0; i < 777; i++) s[i] = scale[c] * x[i];
        for (f = 0; f < FORMS; f++) {
            T_OK(run(ctx, x, y, 1, 777, f, scale[c]));
            T_OK(run(ctx, s, z, 1, 777, f, 0.0f));
            T_SAME(y, z, 777);
        }
    }
    t_close(ctx);
}

/* ---- special values */

static void expect_all(const float *y, size_t n, double want)
{
    size_t i;
    for (i = 0; i < n; i++) if (!T_CLOSE(y[i], want, 0)) break;
}

static void test_special(tiny_target target)
{
    static const size_t len[] = { 1, 3, 16, 17, 70, 300, 5000, 70000 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i;
    int f;
    for (c = 0; c < T_COUNT(len); c++) {
        size_t n = len[c], at;
        float *x = t_guarded(n), *y = t_guarded(n);
        for (f = 0; f < FORMS; f++) {
            /* nothing but -inf */
            for (i = 0; i < n; i++) x[i] = -INFINITY;
            T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
            expect_all(y, n, 0.0);
            T_OK(run_log(ctx, x, y, 1, (tiny_idx)n, f));
            expect_all(y, n, -HUGE_VAL);
            /* one number among -inf has all the weight */
            for (at = 0; at < n; at += 1 + n / 3) {
                for (i = 0; i < n; i++) x[i] = -INFINITY;
                x[at] = -3.0f;
                T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
                for (i = 0; i < n; i++) if (!T_CLOSE(y[i], i == at ? 1.0 : 0.0, 2e-7)) break;
                T_OK(run_log(ctx, x, y, 1, (tiny_idx)n, f));
                for (i = 0; i < n; i++) if (!T_CLOSE(y[i], i == at ? 0.0 : -HUGE_VAL, 2e-6)) break;
                /* +inf, NaN: everything NaN */
                for (i = 0; i < n; i++) x[i] = (float)(i % 7);
                x[at] = INFINITY;
                T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
                expect_all(y, n, NAN);
                T_OK(run_log(ctx, x, y, 1, (tiny_idx)n, f));
                expect_all(y, n, NAN);
                x[at] = NAN;
                T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
                expect_all(y, n, NAN);
                T_OK(run_log(ctx, x, y, 1, (tiny_idx)n, f));
                expect_all(y, n, NAN);
                for (i = 0; i < n; i++) x[i] = -INFINITY;       /* NaN among -inf: there is no maximum to speak of */
                x[at] = NAN;
                T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
                expect_all(y, n, NAN);
                x[at] = INFINITY;
                T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
                expect_all(y, n, NAN);
            }
            /* denormals and zeros of both signs are all e^0 */
            for (i = 0; i < n; i++) x[i] = i % 3 == 0 ? -0.0f : i % 3 == 1 ? 1e-42f : -1e-40f;
            T_OK(run(ctx, x, y, 1, (tiny_idx)n, f, 0.0f));
            for (i = 0; i < n; i++) if (!T_CLOSE(y[i], 1.0 / (double)n, 2e-7 / (double)n)) break;
            T_WALLS(y, n);
        }
    }
    t_close(ctx);
    T_PROOF("attention 1", "bad input: -inf only, one +inf, NaN, denormals");
}

/* Values far from zero: 2^n with n up to 2^22 in the two-pass form, and beyond. */
static void test_far(tiny_target target)
{
    static const float base[] = { 9000.0f, 1e5f, 1e6f, 2.8e6f, 3.5e6f, 1e7f, 3e30f };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t c;
    int f, k, i, sign;
    for (c = 0; c < T_COUNT(base); c++)
        for (sign = -1; sign <= 1; sign += 2) {
            float x[40], y[40], one = c < 6 ? 1.0f : 1e24f;
            double want[40];
            for (k = 1; k <= 40; k += 13)
                for (f = 0; f < FORMS; f++) {
                    for (i = 0; i < k; i++) x[i] = (float)sign * base[c] + (float)(i % 5) * one;
                    oracle(want, x, (size_t)k);
                    T_OK(run(ctx, x, y, 1, k, f, 0.0f));
                    for (i = 0; i < k; i++)
                        if (!T_CLOSE(y[i], want[i], 4e-7)) {
                            printf("  %g, %s\n", (double)x[0], form_name[f]);
                            break;
                        }
                }
        }
    {
        /* a mask of large negative numbers: below a score it is nothing, alone it is all there is */
        float x[6] = { -1e9f, 3.0f, -1e9f, -FLT_MAX, 2.0f, -1e30f }, y[6];
        for (f = 0; f < FORMS; f++) {
            T_OK(run(ctx, x, y, 1, 6, f, 0.0f));
            T_CLOSE(y[1], 0.7310586, 2e-7);
            T_CLOSE(y[4], 0.2689414, 2e-7);
            T_CLOSE(y[0] + y[2] + y[3] + y[5], 0, 0);
            x[1] = x[4] = -1e9f;
            T_OK(run(ctx, x, y, 1, 6, f, 0.0f));
            T_CLOSE(y[0], 0.25, 1e-7);
            T_CLOSE(y[3] + y[5], 0, 0);
            x[1] = 3.0f;
            x[4] = 2.0f;
        }
    }
    t_close(ctx);
    T_PROOF("attention 1", "the reduction holds to 4e6");
}

/* ---- long rows: shared by the threads, the same bits for each number of them */

static void test_threads(tiny_target target)
{
    enum { N = 150001, ROWS = 3 };
    tiny_ctx *ctx[3];
    float *x = t_guarded(ROWS * N), *y = t_guarded(ROWS * N), *z = t_guarded(ROWS * N);
    double *want = (double *)t_keep(ROWS * N * sizeof *want);
    int t, f, i, r;
    for (i = 0; i < ROWS * N; i++) x[i] = t_rand_float(-9.0f, 9.0f) + (float)(i / 4096);
    for (r = 0; r < ROWS; r++) oracle(want + r * N, x + r * N, N);
    for (t = 0; t < 3; t++) ctx[t] = t_ctx(target, t + 1);
    for (f = 0; f < FORMS; f++) {
        T_OK(run(ctx[0], x, y, ROWS, N, f, 0.0f));
        for (i = 0; i < ROWS * N; i++) if (!T_CLOSE(y[i], want[i], 4e-7)) break;
        T_WALLS(y, ROWS * N);
        for (t = 1; t < 3; t++) {
            memset(z, 0x55, ROWS * N * sizeof *z);
            T_OK(run(ctx[t], x, z, ROWS, N, f, 0.0f));
            T_SAME(z, y, ROWS * N);
            T_WALLS(z, ROWS * N);
        }
        T_OK(run_log(ctx[0], x, y, ROWS, N, f));
        T_OK(run_log(ctx[1], x, z, ROWS, N, f));
        T_SAME(z, y, ROWS * N);
        T_RAN_ON(ctx[1], t_vectors(target));
    }
    for (t = 0; t < 3; t++) t_close(ctx[t]);
}

/* A result of 32 MB and more takes non-temporal stores; y starts four bytes after a cache line. */
static void test_stream(tiny_target target)
{
    enum { N = 8 * 1024 * 1024 + 77 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x, *y;
    int f, i;
    if (target == TINY_TARGET_SCALAR) { t_close(ctx); return; }     /* stores as always */
    x = t_guarded(N);
    y = t_guarded(N);
    for (i = 0; i < N; i++) x[i] = (float)(i & 1023) / 128.0f;
    for (f = TINY_SOFTMAX_RECOMPUTE; f < FORMS; f++) {
        double sum = 0.0;
        memset(y, 0, N * sizeof *y);
        T_OK(run(ctx, x, y, 1, N, f, 0.0f));
        for (i = 0; i < N; i++) sum += (double)y[i];
        T_CLOSE(sum, 1, 1e-6);
        for (i = 1024; i < N; i++) if (!T_CLOSE(y[i], y[i & 1023], 1e-6 * (double)y[i])) break;
        T_WALLS(y, N);
    }
    t_close(ctx);
}

/* ---- AUTO: three passes in the cache, two beyond it */

static void test_choice(tiny_target target)
{
    enum { N = 10000 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_rand(N, -4.0f, 4.0f), *y = t_guarded(N), *z = t_guarded(N);
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, N), ty = tiny_tensor_1d(y, TINY_F32, N);
    tiny_softmax_params p;
    memset(&p, 0, sizeof p);
    p.cache_bytes = 2 * N * sizeof(float) - 1;              /* x and y do not fit */
    T_OK(tiny_softmax(ctx, &tx, &p, &ty));
    T_OK(run(ctx, x, z, 1, N, TINY_SOFTMAX_TWO_PASS, 0.0f));
    T_SAME(y, z, N);
    p.cache_bytes = 2 * N * sizeof(float);
    T_OK(tiny_softmax(ctx, &tx, &p, &ty));
    T_OK(run(ctx, x, z, 1, N, TINY_SOFTMAX_RELOAD, 0.0f));
    T_SAME(y, z, N);
    memcpy(y, x, N * sizeof *y);                            /* in place there is only one row */
    p.cache_bytes = N * sizeof(float);
    T_OK(tiny_softmax(ctx, &ty, &p, &ty));
    T_SAME(y, z, N);
    t_close(ctx);
}

/* ---- strides: rows apart, transposed, backwards, one row for all */

static void test_strides(tiny_target target)
{
    enum { ROWS = 5, N = 83 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *room = t_guarded(4 * ROWS * N), *out = t_guarded(4 * ROWS * N), *x = t_guarded(ROWS * N),
          *y = t_guarded(ROWS * N);
    int c, d, r, i, f;
    for (i = 0; i < 4 * ROWS * N; i++) room[i] = 3.0f * normal();
    for (c = 0; c < 5; c++)
        for (d = 0; d < 4; d++)
            for (f = 0; f < FORMS; f++) {
                tiny_tensor tx = tiny_tensor_2d(room, TINY_F32, ROWS, N), ty = tiny_tensor_2d(out, TINY_F32, ROWS, N);
                tiny_softmax_params p;
                memset(&p, 0, sizeof p);
                p.form = f;
                if (c == 1) tx.stride[0] = N + 3;
                if (c == 2) { tx.stride[0] = 1; tx.stride[1] = ROWS; }
                if (c == 3) { tx.data = room + N - 1; tx.stride[1] = -1; }
                if (c == 4) tx.stride[0] = 0;
                if (d == 1) ty.stride[0] = 2 * N;
                if (d == 2) { ty.stride[0] = 1; ty.stride[1] = ROWS; }
                if (d == 3) { ty.stride[0] = 3 * N; ty.stride[1] = 3; }
                for (r = 0; r < ROWS; r++)
                    for (i = 0; i < N; i++) x[r * N + i] = ((float *)tx.data)[r * tx.stride[0] + i * tx.stride[1]];
                T_OK(run(ctx, x, y, ROWS, N, f, 0.0f));
                memset(out, 0, 4 * ROWS * N * sizeof *out);
                T_OK(tiny_softmax(ctx, &tx, &p, &ty));
                for (r = 0; r < ROWS; r++)
                    for (i = 0; i < N; i++) {
                        float *at = out + r * ty.stride[0] + i * ty.stride[1];
                        if (!T_CLOSE(*at, y[r * N + i], 0)) r = ROWS, i = N;
                        *at = 0.0f;
                    }
                for (i = 0; i < 4 * ROWS * N; i++) if (!T_CLOSE(out[i], 0, 0)) break;       /* and nothing between */
            }
    t_close(ctx);
}

/* ---- refused arguments, and empty ones */

static void test_bad(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float x[12] = { 0 }, y[12];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, 4), ty = tiny_tensor_2d(y, TINY_F32, 3, 4), t;
    tiny_softmax_params p;
    memset(&p, 0, sizeof p);
    T_STATUS(tiny_softmax(ctx, NULL, NULL, &ty), TINY_E_ARGUMENT, "input 0 is missing");
    T_STATUS(tiny_softmax(ctx, &tx, NULL, NULL), TINY_E_ARGUMENT, "output 0 is missing");
    T_STATUS(tiny_softmax(NULL, &tx, NULL, &ty), TINY_E_ARGUMENT, NULL);
    t = tiny_tensor_nd(x, TINY_F32, 0, NULL);
    T_STATUS(tiny_softmax(ctx, &t, NULL, &t), TINY_E_SHAPE, "single number");
    t = tiny_tensor_2d(x, TINY_F16, 3, 4);
    T_STATUS(tiny_softmax(ctx, &t, NULL, &ty), TINY_E_DTYPE, "must be f32 or f64, not f16");
    T_STATUS(tiny_softmax(ctx, &tx, NULL, &t), TINY_E_DTYPE, "3x4 f32");
    t = tiny_tensor_2d(y, TINY_F32, 4, 3);
    T_STATUS(tiny_log_softmax(ctx, &tx, NULL, &t), TINY_E_SHAPE, "it must be 3x4 f32");
    t = tiny_tensor_1d(x + 1, TINY_F32, 11);
    tx = tiny_tensor_1d(x, TINY_F32, 11);
    T_STATUS(tiny_softmax(ctx, &tx, NULL, &t), TINY_E_ALIAS, "overlaps");
    t = tiny_tensor_1d(y, TINY_F32, 11);
    p.form = 9;
    T_STATUS(tiny_softmax(ctx, &tx, &p, &t), TINY_E_ARGUMENT, "form 9 is unknown");
    p.form = -1;
    T_STATUS(tiny_log_softmax(ctx, &tx, &p, &t), TINY_E_ARGUMENT, "form -1 is unknown");
    p.form = 0;
    p.scale = INFINITY;
    T_STATUS(tiny_softmax(ctx, &tx, &p, &t), TINY_E_ARGUMENT, "scale is not a finite number");
    p.scale = NAN;
    T_STATUS(tiny_softmax(ctx, &tx, &p, &t), TINY_E_ARGUMENT, "scale is not a finite number");
    tx = tiny_tensor_2d(NULL, TINY_F32, 0, 4);
    t = tiny_tensor_2d(NULL, TINY_F32, 0, 4);
    T_OK(tiny_softmax(ctx, &tx, NULL, &t));
    tx = tiny_tensor_2d(NULL, TINY_F32, 4, 0);
    t = tiny_tensor_2d(NULL, TINY_F32, 4, 0);
    T_OK(tiny_softmax(ctx, &tx, NULL, &t));
    T_OK(tiny_log_softmax(ctx, &tx, NULL, &t));
    t_close(ctx);
    T_PROOF("attention 1", "bad input: n = 0, null");
}

static void test_allocations(void)
{
    enum { N = 200000 };
    float *x = t_rand(2 * N, -2.0f, 2.0f), *y = t_guarded(N);
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 2);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&desc, &ctx)) {
            tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, N); tiny_tensor ty = tiny_tensor_1d(y, TINY_F32, N);
            tiny_status st = tiny_softmax(ctx, &tx, NULL, &ty);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            tx.stride[0] = 2;
            st = tiny_softmax(ctx, &tx, NULL, &ty);
            T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            tiny_ctx_close(ctx);
        }
    )
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_extended);
    T_RUN_TARGETS(test_accumulators);
    T_RUN_TARGETS(test_lengths);
    T_RUN_TARGETS(test_wide);
    T_RUN_TARGETS(test_shift);
    T_RUN_TARGETS(test_scale);
    T_RUN_TARGETS(test_special);
    T_RUN_TARGETS(test_far);
    T_RUN_TARGETS(test_threads);
    T_RUN_TARGETS(test_stream);
    T_RUN_TARGETS(test_choice);
    T_RUN_TARGETS(test_strides);
    T_RUN_TARGETS(test_bad);
    T_RUN(test_allocations);
    return t_done();
}
