/* tests/math/fft.c - against the sum in long double with the C library's sines, worked rows, impulses and tones,
 * Parseval, linearity, the inverse, two axes, strides, plans, bad input, failing allocations */
#define T_INTERNALS
#include "t.h"

#define PI_L 3.14159265358979323846264338327950288L

static double log_2(double n) { return n > 1.0 ? log(n) / log(2.0) : 0.0; }

/* The error of independent roundings, with a factor of about 4: transforms of n, three of up to 2.3 n + 64 for chirp;
 * the deterministic bound of the head comment has n^0.5 more. */
static double bound(size_t n, double size)
{
    return (3.0 + 2.0 * log_2((double)n)) * size / 16777216.0;
}

/* y[k] = sum x[j] exp(sign 2 pi i j k / n); pairs of doubles */
static void oracle(double *y, const double *x, size_t n, int sign)
{
    long double *w = (long double *)t_keep(2 * n * sizeof *w);
    size_t j, k, at;
    for (k = 0; k < n; k++) {
        w[2 * k] = cosl(2.0L * PI_L * (long double)k / (long double)n);
        w[2 * k + 1] = (long double)sign * sinl(2.0L * PI_L * (long double)k / (long double)n);
    }
    for (k = 0; k < n; k++) {
        long double re = 0.0L, im = 0.0L;
        for (j = 0, at = 0; j < n; j++, at = at + k >= n ? at + k - n : at + k) {
            re += (long double)x[2 * j] * w[2 * at] - (long double)x[2 * j + 1] * w[2 * at + 1];
            im += (long double)x[2 * j] * w[2 * at + 1] + (long double)x[2 * j + 1] * w[2 * at];
        }
        y[2 * k] = (double)re;
        y[2 * k + 1] = (double)im;
    }
}

static double largest(const double *x, size_t n)
{
    double m = 0.0;
    size_t i;
    for (i = 0; i < n; i++) if (fabs(x[i]) > m) m = fabs(x[i]);
    return m;
}

static double *doubles(size_t n) { return (double *)t_keep((n ? n : 1) * sizeof(double)); }

/* n values of y are near factor * want */
static int near_all(const float *y, const double *want, size_t n, double factor, double allowed, const char *what,
                    size_t length)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (!T_CLOSE(y[i], factor * want[i], allowed)) {
            printf("  %s, n %lu, value %lu\n", what, (unsigned long)length, (unsigned long)i);
            return 0;
        }
    return 1;
}

static tiny_fft_params with(int inverse, tiny_fft_norm norm, tiny_idx n)
{
    tiny_fft_params p;
    memset(&p, 0, sizeof p);
    p.inverse = inverse;
    p.norm = norm;
    p.n = n;
    return p;
}

/* ---- by hand */

static void test_by_hand(tiny_target target)
{
    static const float x[8] = { 1, 0, 2, 0, 3, 0, 4, 0 }, want[8] = { 10, 0, -2, 2, -2, 0, -2, -2 };
    static const float real[4] = { 1, 2, 3, 4 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float y[8], back[8], half[6], r[4];
    tiny_tensor tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, 4, 2), ty = tiny_tensor_2d(y, TINY_F32, 4, 2),
                tb = tiny_tensor_2d(back, TINY_F32, 4, 2);
    tiny_tensor tr = tiny_tensor_1d((void *)(uintptr_t)real, TINY_F32, 4), th = tiny_tensor_2d(half, TINY_F32, 3, 2),
                tq = tiny_tensor_1d(r, TINY_F32, 4);
    tiny_fft_params inverse = with(1, TINY_FFT_NORM_INVERSE, 0);
    int i;
    T_OK(tiny_fft(ctx, &tx, NULL, &ty));
    T_RAN_ON(ctx, t_vectors(target));
    for (i = 0; i < 8; i++) T_CLOSE(y[i], want[i], 0);
    T_OK(tiny_fft(ctx, &ty, &inverse, &tb));
    for (i = 0; i < 8; i++) T_CLOSE(back[i], x[i], 0);
    T_OK(tiny_rfft(ctx, &tr, NULL, &th));
    T_RAN_ON(ctx, t_vectors(target));
    for (i = 0; i < 6; i++) T_CLOSE(half[i], want[i], 1e-6);
    half[1] = half[5] = 9.0f;               /* must not count */
    T_OK(tiny_irfft(ctx, &th, NULL, &tq));
    T_RAN_ON(ctx, t_vectors(target));
    for (i = 0; i < 4; i++) T_CLOSE(r[i], real[i], 1e-6);
    t_close(ctx);
}

/* an impulse at j is a tone of frequency j, and a tone is an impulse */
static void test_impulse_and_tone(tiny_target target)
{
    static const size_t len[] = { 1, 2, 3, 8, 16, 31, 37, 60, 96, 128, 251, 1000, 1024 };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t c, k, n, j;
    for (c = 0; c < T_COUNT(len); c++)
        for (n = len[c], j = 0; j < n; j += n / 5 + 1) {
            float *x = t_guarded(2 * n), *y = t_guarded(2 * n);
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, (tiny_idx)n, 2),
                        ty = tiny_tensor_2d(y, TINY_F32, (tiny_idx)n, 2);
            memset(x, 0, 2 * n * sizeof *x);
            x[2 * j] = 1.0f;
            T_OK(tiny_fft(ctx, &tx, NULL, &ty));
            for (k = 0; k < n; k++) {
                double angle = 2.0 * (double)PI_L * (double)(j * k % n) / (double)n;
                T_CLOSE(y[2 * k], cos(angle), bound(n, 1.0));
                T_CLOSE(y[2 * k + 1], -sin(angle), bound(n, 1.0));
                x[2 * k] = (float)cos(angle);
                x[2 * k + 1] = (float)sin(angle);
            }
            T_OK(tiny_fft(ctx, &tx, NULL, &ty));
            for (k = 0; k < n; k++) {
                T_CLOSE(y[2 * k], k == j ? (double)n : 0.0, bound(n, (double)n));
                T_CLOSE(y[2 * k + 1], 0.0, bound(n, (double)n));
            }
            T_WALLS(y, 2 * n);
        }
    t_close(ctx);
}

/* ---- every length, against the sum */

#define ROWS 19

static void one_length(tiny_ctx *ctx, tiny_target target, size_t n)
{
    const size_t bins = n / 2 + 1;
    const double root = sqrt((double)n);
    float *x = t_rand(2 * n * ROWS, -1.0f, 1.0f), *y = t_guarded(2 * n * ROWS), *z = t_guarded(2 * n),
          *h = t_guarded(2 * bins * ROWS), *q = t_guarded(n * ROWS);
    double *from = doubles(2 * n), *want = doubles(2 * n), *inverse = doubles(2 * n), size, energy = 0.0, sum = 0.0;
    tiny_fft_params p;
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, (tiny_idx)n, 2), ty = tiny_tensor_2d(y, TINY_F32, (tiny_idx)n, 2),
                tz = tiny_tensor_2d(z, TINY_F32, (tiny_idx)n, 2), tq, th;
    size_t i, r;
    for (i = 0; i < 2 * n; i++) from[i] = (double)x[i];
    oracle(want, from, n, -1);
    oracle(inverse, from, n, 1);
    size = largest(want, 2 * n);
    T_OK(tiny_fft(ctx, &tx, NULL, &ty));
    T_RAN_ON(ctx, t_vectors(target));
    near_all(y, want, 2 * n, 1.0, bound(n, size), "forward", n);
    for (i = 0; i < 2 * n; i++) {
        energy += from[i] * from[i];
        sum += (double)y[i] * (double)y[i];
    }
    T_CLOSE(sum, energy * (double)n, 2.0 * bound(n, energy * (double)n));
    p = with(1, TINY_FFT_NORM_INVERSE, 0);
    T_OK(tiny_fft(ctx, &ty, &p, &tz));
    near_all(z, from, 2 * n, 1.0, 2.0 * bound(n, 2.0), "and back", n);
    T_WALLS(z, 2 * n);
    p = with(1, TINY_FFT_NORM_NONE, 0);
    size = largest(inverse, 2 * n);
    T_OK(tiny_fft(ctx, &tx, &p, &tz));
    near_all(z, inverse, 2 * n, 1.0, bound(n, size), "inverse", n);
    p.norm = TINY_FFT_NORM_BOTH;
    T_OK(tiny_fft(ctx, &tx, &p, &tz));
    near_all(z, inverse, 2 * n, 1.0 / root, bound(n, size / root), "inverse, both", n);
    p = with(0, TINY_FFT_NORM_FORWARD, 0);
    T_OK(tiny_fft(ctx, &tx, &p, &tz));
    near_all(z, want, 2 * n, 1.0 / (double)n, bound(n, largest(want, 2 * n) / (double)n), "forward, forward", n);

    /* many rows: the others are the first one, larger */
    for (r = 1; r < ROWS; r++)
        for (i = 0; i < 2 * n; i++) x[2 * n * r + i] = (float)(1 << r % 3) * x[i];
    tx = tiny_tensor_3d(x, TINY_F32, ROWS, (tiny_idx)n, 2);
    ty = tiny_tensor_3d(y, TINY_F32, ROWS, (tiny_idx)n, 2);
    size = largest(want, 2 * n);
    T_OK(tiny_fft(ctx, &tx, NULL, &ty));
    for (r = 0; r < ROWS; r++)
        if (!near_all(y + 2 * n * r, want, 2 * n, (double)(1 << r % 3), bound(n, (double)(1 << r % 3) * size), "many",
                      n))
            break;
    T_WALLS(y, 2 * n * ROWS);

    /* real rows: x as 19 rows of n values */
    for (i = 0; i < n; i++) {
        from[2 * i] = (double)x[i];
        from[2 * i + 1] = 0.0;
    }
    for (r = 1; r < ROWS; r++)
        for (i = 0; i < n; i++) x[n * r + i] = (float)(1 << r % 3) * x[i];
    oracle(want, from, n, -1);
    size = largest(want, 2 * n);
    tq = tiny_tensor_1d(x, TINY_F32, (tiny_idx)n);
    th = tiny_tensor_2d(h, TINY_F32, (tiny_idx)bins, 2);
    T_OK(tiny_rfft(ctx, &tq, NULL, &th));
    T_RAN_ON(ctx, t_vectors(target));
    near_all(h, want, 2 * bins, 1.0, bound(n, size), "real", n);
    T_CLOSE(h[1], 0.0, bound(n, size));
    tq = tiny_tensor_2d(x, TINY_F32, ROWS, (tiny_idx)n);
    th = tiny_tensor_3d(h, TINY_F32, ROWS, (tiny_idx)bins, 2);
    T_OK(tiny_rfft(ctx, &tq, NULL, &th));
    T_WALLS(h, 2 * bins * ROWS);
    for (r = 0; r < ROWS; r++)
        if (!near_all(h + 2 * bins * r, want, 2 * bins, (double)(1 << r % 3), bound(n, (double)(1 << r % 3) * size),
                      "real, many", n))
            break;
    p = with(0, TINY_FFT_NORM_INVERSE, (tiny_idx)n);
    tq = tiny_tensor_2d(q, TINY_F32, ROWS, (tiny_idx)n);
    T_OK(tiny_irfft(ctx, &th, &p, &tq));
    T_RAN_ON(ctx, t_vectors(target));
    for (r = 0; r < ROWS; r++)
        for (i = 0; i < n; i++)
            if (!T_CLOSE(q[n * r + i], x[n * r + i], 2.0 * bound(n, 8.0))) {
                printf("  real and back, n %lu, row %lu, value %lu\n", (unsigned long)n, (unsigned long)r,
                       (unsigned long)i);
                r = ROWS - 1;
                break;
            }
    T_WALLS(q, n * ROWS);
}

static void test_lengths(tiny_target target)
{
    static const size_t more[] = { 96, 97, 101, 120, 127, 128, 192, 210, 251, 256, 502, 1000, 1009, 1024, 4096 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t n;
    for (n = 1; n <= 70 + T_COUNT(more); n++) {
        one_length(ctx, target, n <= 70 ? n : more[n - 71]);
        t_free_blocks();
    }
    t_close(ctx);
}

/* long ones: the transforms of a tone and a shifted impulse are known without a sum */
static void test_long(tiny_target target)
{
    static const size_t len[] = { 65536, 100000, 65537, 30030, 131071 };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t c, i, n;
    for (c = 0; c < T_COUNT(len); c++) {
        float *x, *y, *z;
        tiny_tensor tx, ty, tz;
        tiny_fft_params p = with(1, TINY_FFT_NORM_INVERSE, 0);
        double sum = 0.0, energy = 0.0;
        n = len[c];
        x = t_rand(2 * n, -1.0f, 1.0f);
        y = t_guarded(2 * n);
        z = t_guarded(2 * n);
        tx = tiny_tensor_2d(x, TINY_F32, (tiny_idx)n, 2);
        ty = tiny_tensor_2d(y, TINY_F32, (tiny_idx)n, 2);
        tz = tiny_tensor_2d(z, TINY_F32, (tiny_idx)n, 2);
        T_OK(tiny_fft(ctx, &tx, NULL, &ty));
        T_OK(tiny_fft(ctx, &ty, &p, &tz));
        for (i = 0; i < 2 * n; i++) {
            energy += (double)x[i] * (double)x[i];
            sum += (double)y[i] * (double)y[i];
            if (!T_CLOSE(z[i], x[i], bound(n, 4.0))) break;
        }
        T_CLOSE(sum, energy * (double)n, bound(n, energy * (double)n));
        memset(x, 0, 2 * n * sizeof *x);
        x[2 * 777] = 1.0f;
        T_OK(tiny_fft(ctx, &tx, NULL, &ty));
        for (i = 0; i < n; i++) {
            double angle = 2.0 * (double)PI_L * (double)(777 * i % n) / (double)n;
            if (!T_CLOSE(y[2 * i], cos(angle), bound(n, 1.0)) || !T_CLOSE(y[2 * i + 1], -sin(angle), bound(n, 1.0)))
                break;
        }
        T_WALLS(y, 2 * n);
        t_free_blocks();
    }
    t_close(ctx);
}

static void test_linear(tiny_target target)
{
    enum { N = 360 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *a = t_rand(2 * N, -1.0f, 1.0f), *b = t_rand(2 * N, -1.0f, 1.0f), *c = t_guarded(2 * N),
          *fa = t_guarded(2 * N), *fb = t_guarded(2 * N), *fc = t_guarded(2 * N);
    tiny_tensor t[6];
    int i;
    for (i = 0; i < 2 * N; i++) c[i] = 2.0f * a[i] - 0.5f * b[i];
    t[0] = tiny_tensor_2d(a, TINY_F32, N, 2);
    t[1] = tiny_tensor_2d(b, TINY_F32, N, 2);
    t[2] = tiny_tensor_2d(c, TINY_F32, N, 2);
    t[3] = tiny_tensor_2d(fa, TINY_F32, N, 2);
    t[4] = tiny_tensor_2d(fb, TINY_F32, N, 2);
    t[5] = tiny_tensor_2d(fc, TINY_F32, N, 2);
    for (i = 0; i < 3; i++) T_OK(tiny_fft(ctx, &t[i], NULL, &t[3 + i]));
    for (i = 0; i < 2 * N; i++) T_CLOSE(fc[i], 2.0 * (double)fa[i] - 0.5 * (double)fb[i], 3.0 * bound(N, 60.0));
    t_close(ctx);
}

/* ---- two axes */

static void test_two_axes(tiny_target target)
{
    static const size_t shapes[][2] = { { 1, 1 }, { 3, 4 }, { 16, 16 }, { 17, 33 }, { 20, 37 }, { 41, 6 }, { 64, 30 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c, i, j, m, n, bins;
    for (c = 0; c < T_COUNT(shapes); c++) {
        float *x, *y, *z, *h, *q;
        double *row, *want, *column, *out, size;
        tiny_tensor tx, ty, tz, tq, th;
        tiny_fft_params p = with(1, TINY_FFT_NORM_INVERSE, 0);
        m = shapes[c][0];
        n = shapes[c][1];
        bins = n / 2 + 1;
        x = t_rand(2 * m * n, -1.0f, 1.0f);
        y = t_guarded(2 * m * n);
        z = t_guarded(2 * m * n);
        h = t_guarded(2 * m * bins);
        q = t_guarded(m * n);
        row = doubles(2 * n);
        want = doubles(2 * m * n);
        column = doubles(2 * m);
        out = doubles(2 * m);
        for (i = 0; i < m; i++) {
            for (j = 0; j < 2 * n; j++) row[j] = (double)x[2 * n * i + j];
            oracle(want + 2 * n * i, row, n, -1);
        }
        for (j = 0; j < n; j++) {
            for (i = 0; i < m; i++) {
                column[2 * i] = want[2 * (n * i + j)];
                column[2 * i + 1] = want[2 * (n * i + j) + 1];
            }
            oracle(out, column, m, -1);
            for (i = 0; i < m; i++) {
                want[2 * (n * i + j)] = out[2 * i];
                want[2 * (n * i + j) + 1] = out[2 * i + 1];
            }
        }
        size = largest(want, 2 * m * n);
        tx = tiny_tensor_3d(x, TINY_F32, (tiny_idx)m, (tiny_idx)n, 2);
        ty = tiny_tensor_3d(y, TINY_F32, (tiny_idx)m, (tiny_idx)n, 2);
        tz = tiny_tensor_3d(z, TINY_F32, (tiny_idx)m, (tiny_idx)n, 2);
        T_OK(tiny_fft2(ctx, &tx, NULL, &ty));
        T_RAN_ON(ctx, t_vectors(target));
        near_all(y, want, 2 * m * n, 1.0, 2.0 * bound(m * n, size), "two axes", m * n);
        T_OK(tiny_fft2(ctx, &ty, &p, &tz));
        for (i = 0; i < 2 * m * n; i++) T_CLOSE(z[i], x[i], 2.0 * bound(m * n, 3.0));
        /* a real picture has the half spectrum of the complex one with imaginary parts of 0 */
        for (i = 0; i < m * n; i++) {
            z[2 * i] = x[i];
            z[2 * i + 1] = 0.0f;
        }
        T_OK(tiny_fft2(ctx, &tz, NULL, &ty));
        tq = tiny_tensor_2d(x, TINY_F32, (tiny_idx)m, (tiny_idx)n);
        th = tiny_tensor_3d(h, TINY_F32, (tiny_idx)m, (tiny_idx)bins, 2);
        T_OK(tiny_rfft2(ctx, &tq, NULL, &th));
        for (i = 0; i < m; i++)
            for (j = 0; j < 2 * bins; j++) T_CLOSE(h[2 * bins * i + j], y[2 * n * i + j], 2.0 * bound(m * n, size));
        p = with(0, TINY_FFT_NORM_INVERSE, (tiny_idx)n);
        tq = tiny_tensor_2d(q, TINY_F32, (tiny_idx)m, (tiny_idx)n);
        T_OK(tiny_irfft2(ctx, &th, &p, &tq));
        for (i = 0; i < m * n; i++) T_CLOSE(q[i], x[i], 2.0 * bound(m * n, 3.0));
        T_WALLS(y, 2 * m * n);
        T_WALLS(h, 2 * m * bins);
        t_free_blocks();
    }
    t_close(ctx);
}

/* ---- strides */

static void test_strides(tiny_target target)
{
    static const tiny_idx len[] = { 1, 2, 5, 24, 31, 37, 60, 128 };
    enum { A = 3, B = 21 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    for (c = 0; c < T_COUNT(len); c++) {
        const tiny_idx n = len[c], bins = n / 2 + 1;
        float *x = t_rand((size_t)(2 * A * B * n), -1.0f, 1.0f), *y = t_guarded((size_t)(2 * A * B * n)),
              *want = t_guarded((size_t)(2 * A * B * n));
        float *wide = t_guarded((size_t)(3 * 4 * A * B * n)), *h = t_guarded((size_t)(2 * A * B * bins)),
              *q = t_guarded((size_t)(A * B * n));
        tiny_tensor tx = tiny_tensor_4d(x, TINY_F32, A, B, n, 2), tw = tiny_tensor_4d(want, TINY_F32, A, B, n, 2), s, t;
        tiny_idx i, j, k, e;
        int form;
        T_OK(tiny_fft(ctx, &tx, NULL, &tw));
        for (form = 0; form < 4; form++) {
            /* 0: adjacent columns, in and out; 1: out only; 2: parts apart and gaps; 3: backward */
            s = tiny_tensor_4d(wide, TINY_F32, A, B, n, 2);
            if (form < 2) {
                s.stride[0] = 2 * B * n;
                s.stride[1] = 2;
                s.stride[2] = 2 * B;
            } else if (form == 2) {
                s.stride[3] = 2 * A * B * n;
                s.stride[2] = 2;
                s.stride[1] = 2 * n;
                s.stride[0] = 2 * n * B;
            } else {
                s.data = wide + 2 * (A * B * n) - 2;
                for (i = 0; i < 3; i++) s.stride[i] = -s.stride[i];
            }
            for (i = 0; i < A; i++)
                for (j = 0; j < B; j++)
                    for (k = 0; k < n; k++)
                        for (e = 0; e < 2; e++)
                            ((float *)s.data)[i * s.stride[0] + j * s.stride[1] + k * s.stride[2] + e * s.stride[3]] =
                                x[((i * B + j) * n + k) * 2 + e];
            t = s;
            if (form != 1) T_OK(tiny_fft(ctx, &s, NULL, &tx));
            else T_OK(tiny_fft(ctx, &s, NULL, &tw));
            if (form != 1)
                for (i = 0; i < 2 * A * B * n; i++)
                    if (!T_CLOSE(x[i], want[i], 2.0 * bound((size_t)n, 40.0))) {
                        printf("  n %td, form %d\n", n, form);
                        break;
                    }
            /* back to x, then out through the strides */
            for (i = 0; i < A; i++)
                for (j = 0; j < B; j++)
                    for (k = 0; k < n; k++)
                        for (e = 0; e < 2; e++)
                            x[((i * B + j) * n + k) * 2 + e] =
                                ((float *)
                                     s.data)[i * s.stride[0] + j * s.stride[1] + k * s.stride[2] + e * s.stride[3]];
            T_OK(tiny_fft(ctx, &tx, NULL, &t));
            for (i = 0; i < A; i++)
                for (j = 0; j < B; j++)
                    for (k = 0; k < n; k++)
                        for (e = 0; e < 2; e++)
                            T_CLOSE(((float *)
                                         t.data)[i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + e * t.stride[3]],
                                    want[((i * B + j) * n + k) * 2 + e], 2.0 * bound((size_t)n, 40.0));
            if (form == 0) {                /* columns on both sides */
                for (i = 0; i < A; i++)
                    for (j = 0; j < B; j++)
                        for (k = 0; k < n; k++)
                            for (e = 0; e < 2; e++)
                                wide[i * s.stride[0] + j * s.stride[1] + k * s.stride[2] + e] =
                                    x[((i * B + j) * n + k) * 2 + e];
                t.data = y;
                T_OK(tiny_fft(ctx, &s, NULL, &t));
                for (i = 0; i < A; i++)
                    for (j = 0; j < B; j++)
                        for (k = 0; k < n; k++)
                            for (e = 0; e < 2; e++)
                                T_CLOSE(y[i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + e],
                                        want[((i * B + j) * n + k) * 2 + e], 2.0 * bound((size_t)n, 40.0));
                T_WALLS(y, 2 * A * B * n);
            }
        }
        /* real rows: the first axis of an (n, B) picture, to and from a spectrum that is turned too */
        {
            float *hd = t_guarded((size_t)(2 * B * bins)), *xt = t_guarded((size_t)(B * n));
            tiny_tensor dense = tiny_tensor_2d(xt, TINY_F32, B, n), hdense = tiny_tensor_3d(hd, TINY_F32, B, bins, 2);
            tiny_tensor turned = tiny_tensor_swap(tiny_tensor_2d(x, TINY_F32, n, B), 0, 1),
                        hturned = tiny_tensor_swap(tiny_tensor_3d(h, TINY_F32, bins, B, 2), 0, 1);
            tiny_tensor back = tiny_tensor_swap(tiny_tensor_2d(q, TINY_F32, n, B), 0, 1);
            tiny_fft_params p = with(0, TINY_FFT_NORM_INVERSE, n);
            for (j = 0; j < B; j++)
                for (k = 0; k < n; k++) xt[j * n + k] = x[k * B + j];
            T_OK(tiny_rfft(ctx, &dense, NULL, &hdense));
            T_OK(tiny_rfft(ctx, &turned, NULL, &hturned));
            for (j = 0; j < B; j++)
                for (k = 0; k < bins; k++)
                    for (e = 0; e < 2; e++)
                        T_CLOSE(h[(k * B + j) * 2 + e], hd[(j * bins + k) * 2 + e], 2.0 * bound((size_t)n, 40.0));
            T_OK(tiny_irfft(ctx, &hturned, &p, &back));
            for (i = 0; i < B * n; i++) T_CLOSE(q[i], x[i], 2.0 * bound((size_t)n, 3.0));
        }
        t_free_blocks();
    }
    t_close(ctx);
}

/* ---- plans */

static void test_plans(tiny_target target)
{
    static const tiny_idx len[] = { 1, 6, 37, 64, 100, 255, 1009 };
    tiny_ctx *ctx = t_ctx(target, 2);
    size_t c;
    int rows, kind;
    for (c = 0; c < T_COUNT(len); c++)
        for (rows = 0; rows <= 33; rows += 33)
            for (kind = 0; kind < 3; kind++) {
                const tiny_idx n = len[c], bins = n / 2 + 1, m = 33,
                               nx = kind == 0   ? 2 * n
                                    : kind == 1 ? n
                                                : 2 * bins,
                               ny = kind == 0   ? 2 * n
                                    : kind == 1 ? 2 * bins
                                                : n;
                float *x = t_rand((size_t)(m * nx), -1.0f, 1.0f), *y = t_guarded((size_t)(m * ny)),
                      *z = t_guarded((size_t)(m * ny)), *o = t_guarded((size_t)(m * ny));
                tiny_tensor tx =
                    kind == 1 ? tiny_tensor_2d(x, TINY_F32, m, n) : tiny_tensor_3d(x, TINY_F32, m, nx / 2, 2);
                tiny_tensor ty = kind == 2 ? tiny_tensor_2d(y, TINY_F32, m, n)
                                           : tiny_tensor_3d(y, TINY_F32, m, ny / 2, 2),
                            tz = ty, to = ty;
                tiny_status (*const of[3])(tiny_ctx *, const tiny_tensor *, const tiny_fft_params *,
                                           const tiny_tensor *) = { tiny_fft, tiny_rfft, tiny_irfft };
                tiny_fft_params p = with(0, TINY_FFT_NORM_INVERSE, kind == 2 ? n : 0);
                tiny_fft_plan *plan = NULL;
                tiny_idx i;
                tz.data = z;
                to.data = o;
                T_OK(of[kind](ctx, &tx, &p, &to));
                T_OK(tiny_fft_plan_open(ctx, n, (tiny_fft_kind)kind, rows, &plan));
                p.plan = plan;
                T_OK(of[kind](ctx, &tx, &p, &ty));
                T_RAN_ON(ctx, t_vectors(target));
                for (i = 0; i < m * ny; i++) T_CLOSE(y[i], o[i], bound((size_t)n, 2.0 * (double)n));
                if (plan) {
                    void *work = t_guarded_bytes((tiny_fft_plan_bytes(plan) + 63) / 64 * 64);
                    T_OK(tiny_fft_plan_run(plan, &tx, 0, TINY_FFT_NORM_INVERSE, &tz, work));
                    T_SAME(z, y, m * ny);
                    if (kind == 0) {        /* in place */
                        T_OK(tiny_fft_plan_run(plan, &tx, 0, TINY_FFT_NORM_INVERSE, &tx, work));
                        T_SAME(x, y, m * ny);
                    }
                    T_WALLS(work, 0);
                    T_TRUE(tiny_fft_plan_run(plan, &tx, 0, TINY_FFT_NORM_COUNT, &tz, work) == TINY_E_ARGUMENT);
                    T_TRUE(tiny_fft_plan_run(plan, &tx, 0, TINY_FFT_NORM_NONE, &tz, NULL) == TINY_E_ARGUMENT);
                    tz.dim[0]--;
                    T_TRUE(tiny_fft_plan_run(plan, &tx, 0, TINY_FFT_NORM_NONE, &tz, work) == TINY_E_SHAPE);
                    tz.dim[0]++;
                    tx.dim[1]++;
                    T_TRUE(tiny_fft_plan_run(plan, &tx, 0, TINY_FFT_NORM_NONE, &tz, work) == TINY_E_SHAPE);
                    tx.dim[1]--;
                    tx.dtype = TINY_I32;
                    T_TRUE(tiny_fft_plan_run(plan, &tx, 0, TINY_FFT_NORM_NONE, &tz, work) == TINY_E_DTYPE);
                }
                tiny_fft_plan_close(ctx, plan);
                t_free_blocks();
            }
    tiny_fft_plan_close(ctx, NULL);
    T_EQ_INT(tiny_fft_plan_bytes(NULL), 0);
    t_close(ctx);
}

/* ---- bad input */

static void test_bad(void)
{
    tiny_ctx *scalar = t_ctx(TINY_TARGET_SCALAR, 1), *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float a[64], b[64];
    tiny_tensor x = tiny_tensor_2d(a, TINY_F32, 8, 2), y = tiny_tensor_2d(b, TINY_F32, 8, 2),
                r = tiny_tensor_1d(a, TINY_F32, 8), h = tiny_tensor_2d(b, TINY_F32, 5, 2), t;
    tiny_fft_params p = with(0, TINY_FFT_NORM_COUNT, 0);
    tiny_fft_plan *plan = NULL, *other = NULL;
    memset(a, 0, sizeof a);
    T_STATUS(tiny_fft(ctx, &x, &p, &y), TINY_E_ARGUMENT, "fft: norm 4 is unknown");
    t = tiny_tensor_2d(a, TINY_F32, 8, 3);
    T_STATUS(tiny_fft(ctx, &t, NULL, &t), TINY_E_SHAPE,
             "fft: the last axis of x (8x3 f32) must be 2, real and imaginary part");
    t = tiny_tensor_2d(a, TINY_I32, 8, 2);
    T_STATUS(tiny_fft(ctx, &t, NULL, &y), TINY_E_DTYPE, "fft: x is i32, it must be f32");
    t = tiny_tensor_1d(a, TINY_F32, 2);
    T_STATUS(tiny_fft(ctx, &t, NULL, &y), TINY_E_SHAPE, "it must have at least rank 2");
    t = tiny_tensor_2d(a, TINY_F32, 0, 2);
    T_STATUS(tiny_fft(ctx, &t, NULL, &t), TINY_E_SHAPE, "fft: a row has 0 values, it must have at least one");
    t = tiny_tensor_1d(a, TINY_F32, 0);
    T_STATUS(tiny_rfft(ctx, &t, NULL, &y), TINY_E_SHAPE, "rfft: a row has 0 values, it must have at least one");
    t = tiny_tensor_4d(a, TINY_F32, 2, 2, 2, 2);
    T_STATUS(tiny_rfft(ctx, &t, NULL, &y), TINY_E_SHAPE, "more than 4 axes");
    t = tiny_tensor_1d(a, TINY_F32, TINY_IDX_MAX / 16);
    t.stride[0] = 0;
    T_STATUS(tiny_rfft(ctx, &t, NULL, &y), TINY_E_OVERFLOW, "are not supported");
    p = with(0, TINY_FFT_NORM_NONE, 8);
    T_STATUS(tiny_fft(ctx, &x, &p, &y), TINY_E_ARGUMENT, "fft: n is 8, but only irfft uses it");
    p.n = 7;
    T_STATUS(tiny_irfft(ctx, &h, &p, &r), TINY_E_ARGUMENT, "irfft: 5 bins do not give rows of 7 values");
    t = tiny_tensor_2d(b, TINY_F32, 1, 2);
    T_STATUS(tiny_irfft(ctx, &t, NULL, &r), TINY_E_ARGUMENT, "irfft: 1 bins do not give rows of 0 values");
    T_STATUS(tiny_fft2(ctx, &x, NULL, &y), TINY_E_SHAPE, "fft2: y is 8x2 f32, it must be (..., m, n, 2)");
    T_STATUS(tiny_fft2(ctx, NULL, NULL, &y), TINY_E_ARGUMENT, "fft2: x is missing");
    T_STATUS(tiny_fft(ctx, &x, NULL, &x), TINY_E_ALIAS, NULL);
    T_STATUS(tiny_fft_plan_open(ctx, 0, TINY_FFT_COMPLEX, 0, &plan), TINY_E_SHAPE, "fft plan: a row has 0 values");
    T_TRUE(plan == NULL);
    T_STATUS(tiny_fft_plan_open(ctx, -5, TINY_FFT_REAL, 0, &plan), TINY_E_SHAPE, "fft plan: a row has -5 values");
    T_STATUS(tiny_fft_plan_open(ctx, TINY_IDX_MAX, TINY_FFT_REAL, 0, &plan), TINY_E_OVERFLOW, "are not supported");
    T_STATUS(tiny_fft_plan_open(ctx, 8, (tiny_fft_kind)3, 0, &plan), TINY_E_ARGUMENT, "a valid kind (3)");
    T_STATUS(tiny_fft_plan_open(ctx, 8, TINY_FFT_REAL, -1, &plan), TINY_E_ARGUMENT, "not negative (-1)");
    T_STATUS(tiny_fft_plan_open(ctx, 8, TINY_FFT_REAL, 0, NULL), TINY_E_ARGUMENT, NULL);
    T_TRUE(tiny_fft_plan_open(NULL, 8, TINY_FFT_REAL, 0, &plan) == TINY_E_ARGUMENT && plan == NULL);
    T_OK(tiny_fft_plan_open(ctx, 8, TINY_FFT_REAL, 0, &plan));
    p = with(0, TINY_FFT_NORM_NONE, 0);
    p.plan = plan;
    T_STATUS(tiny_fft(ctx, &x, &p, &y), TINY_E_ARGUMENT,
             "fft: the plan is for real rows of 8 values, not for complex rows of 8");
    T_STATUS(tiny_irfft(ctx, &h, &p, &r), TINY_E_ARGUMENT,
             "irfft: the plan is for real rows of 8 values, not for half spectra of 8");
    if (tiny_ctx_target(ctx) != TINY_TARGET_SCALAR) {
        T_OK(tiny_fft_plan_open(scalar, 8, TINY_FFT_REAL, 0, &other));
        p.plan = other;
        T_STATUS(tiny_rfft(ctx, &r, &p, &h), TINY_E_ARGUMENT, "rfft: the plan was made for another target");
        tiny_fft_plan_close(scalar, other);
    }
    tiny_fft_plan_close(ctx, plan);
    /* no rows: nothing to do */
    t = tiny_tensor_3d(a, TINY_F32, 0, 8, 2);
    y = tiny_tensor_3d(b, TINY_F32, 0, 8, 2);
    T_OK(tiny_fft(ctx, &t, NULL, &y));
    t_close(ctx);
    t_close(scalar);
}

static void test_allocations(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tiny_status st = tiny_ctx_open(&desc, &ctx);
        tiny_fft_plan *plan = NULL;
        if (!st) {
            float x[2 * 37 * 3] = { 0 };
            float y[2 * 37 * 3];
            tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, 3, 37, 2);
            tiny_tensor ty = tiny_tensor_3d(y, TINY_F32, 3, 37, 2);
            st = tiny_fft_plan_open(ctx, 37, TINY_FFT_COMPLEX, 3, &plan);
            if (!st) {
                tiny_fft_params p = with(0, TINY_FFT_NORM_INVERSE, 0);
                p.plan = plan;
                st = tiny_fft(ctx, &tx, &p, &ty);
            } else T_TRUE(plan == NULL);
            if (!st) st = tiny_fft2(ctx, &tx, NULL, &ty);
            tiny_fft_plan_close(ctx, plan);
        }
        T_TRUE(st == (t_alloc.hit ? TINY_E_MEMORY : TINY_OK));
        tiny_ctx_close(ctx);
    )
}

/* ---- the kit, on this target */

static void test_conformance(tiny_target target)
{
    static const char *const name[] = { "fft", "rfft", "irfft" };
    tiny_ctx *ctx = t_ctx(target, 2);
    tiny_conform_desc desc;
    int i, failed = 0;
    memset(&desc, 0, sizeof desc);
    for (i = 0; i < 3; i++) {
        desc.op = name[i];
        T_OK(tiny_conform(ctx, &desc, &failed));
        T_EQ_INT(failed, 0);
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_by_hand);
    T_RUN_TARGETS(test_impulse_and_tone);
    T_RUN_TARGETS(test_lengths);
    T_RUN_TARGETS(test_long);
    T_RUN_TARGETS(test_linear);
    T_RUN_TARGETS(test_two_axes);
    T_RUN_TARGETS(test_strides);
    T_RUN_TARGETS(test_plans);
    T_RUN(test_bad);
    T_RUN(test_allocations);
    T_RUN_TARGETS(test_conformance);
    return t_done();
}
