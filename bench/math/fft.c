/* bench/math/fft.c - transforms with a plan, compared with the textbook's recursive one of radix 2; and the making of
 * tables */
#include "../bench.h"
#include <math.h>
#include <string.h>

typedef struct bf_arg {
    tiny_ctx *ctx;
    tiny_fft_plan *plan;
    tiny_tensor x, y;
    int two, real;
    const float *w;                         /* of the rival: cos and -sin of 2 pi k / n */
    float *room;
} bf_arg;

static void bf_run(void *arg)
{
    bf_arg *a = (bf_arg *)arg;
    tiny_fft_params p;
    memset(&p, 0, sizeof p);
    p.plan = a->plan;
    if (a->real) b_must(a->ctx, tiny_rfft(a->ctx, &a->x, &p, &a->y));
    else if (a->two) b_must(a->ctx, tiny_fft2(a->ctx, &a->x, &p, &a->y));
    else b_must(a->ctx, tiny_fft(a->ctx, &a->x, &p, &a->y));
}

static void bf_recursive(float *y, const float *x, float *room, const float *w, size_t n, size_t step, size_t w_step)
{
    size_t k, h = n / 2;
    if (n == 1) {
        y[0] = x[0];
        y[1] = x[1];
        return;
    }
    bf_recursive(room, x, y, w, h, 2 * step, 2 * w_step);
    bf_recursive(room + n, x + 2 * step, y + n, w, h, 2 * step, 2 * w_step);
    for (k = 0; k < h; k++) {
        const float *t = w + 2 * k * w_step, *a = room + 2 * k, *b = room + n + 2 * k;
        const float re = b[0] * t[0] - b[1] * t[1], im = b[0] * t[1] + b[1] * t[0];
        y[2 * k] = a[0] + re;
        y[2 * k + 1] = a[1] + im;
        y[n + 2 * k] = a[0] - re;
        y[n + 2 * k + 1] = a[1] - im;
    }
}
static void bf_rival(void *arg)
{
    bf_arg *a = (bf_arg *)arg;
    const size_t n = (size_t)a->x.dim[a->x.rank - 2];
    bf_recursive((float *)a->y.data, (const float *)a->x.data, a->room, a->w, n, 1, 1);
}

void bench_fft(void)
{
    static const tiny_idx len[] = { 256, 1000, 1009, 1024, 4096, 65536 };
    enum { LENGTHS = 6, ROWS = 2 * LENGTHS + 5 };
    const size_t most = (size_t)2 * 512 * 512;
    float *x = (float *)b_alloc(most * 4), *y = (float *)b_alloc(most * 4),
          *w = (float *)b_alloc(2 * 65536 * 4 * LENGTHS), *room = (float *)b_alloc(2 * 65536 * 4);
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    const char *target = tiny_target_name(tiny_op_target(one, TINY_OP_FFT));
    bf_arg args[ROWS];
    b_row rows[ROWS];
    int i, r = 0;
    size_t k;
    memset(args, 0, sizeof args);
    memset(rows, 0, sizeof rows);
    for (i = 0; i < LENGTHS; i++) {
        const double n = (double)len[i], flops = 5.0 * n * log2(n);
        float *wi = w + 2 * 65536 * i;
        for (k = 0; k < (size_t)len[i] / 2; k++) {
            wi[2 * k] = (float)cos(6.283185307179586 * (double)k / n);
            wi[2 * k + 1] = (float)-sin(6.283185307179586 * (double)k / n);
        }
        args[r].ctx = one;
        args[r].x = tiny_tensor_2d(x, TINY_F32, len[i], 2);
        args[r].y = tiny_tensor_2d(y, TINY_F32, len[i], 2);
        b_must(one, tiny_fft_plan_open(one, len[i], TINY_FFT_COMPLEX, 1, &args[r].plan));
        rows[r].what = "fft, one row";
        rows[r].target = target;
        rows[r].run = bf_run;
        rows[r].flops = flops;
        b_shape(&rows[r++], "%td", len[i]);
        if (len[i] & (len[i] - 1)) continue;
        args[r] = args[r - 1];
        args[r].plan = NULL;
        args[r].w = wi;
        args[r].room = room;
        rows[r].what = "recursive radix 2";
        rows[r].target = "textbook";
        rows[r].run = bf_rival;
        rows[r].flops = flops;
        b_shape(&rows[r++], "%td", len[i]);
    }
    /* the same with the tables made in the call; many rows; a picture; a real row */
    args[r].ctx = one;
    args[r].x = tiny_tensor_2d(x, TINY_F32, 1024, 2);
    args[r].y = tiny_tensor_2d(y, TINY_F32, 1024, 2);
    rows[r].what = "fft, no plan";
    rows[r].flops = 5.0 * 1024 * 10;
    b_shape(&rows[r++], "1024");
    args[r].ctx = all;
    args[r].x = tiny_tensor_3d(x, TINY_F32, 1000, 256, 2);
    args[r].y = tiny_tensor_3d(y, TINY_F32, 1000, 256, 2);
    rows[r].what = "fft, no plan";
    rows[r].threads = b_threads;
    rows[r].flops = 5.0 * 1000 * 256 * 8;
    b_shape(&rows[r++], "1000 x 256");
    args[r].ctx = all;
    args[r].two = 1;
    args[r].x = tiny_tensor_3d(x, TINY_F32, 512, 512, 2);
    args[r].y = tiny_tensor_3d(y, TINY_F32, 512, 512, 2);
    rows[r].what = "fft2, no plan";
    rows[r].threads = b_threads;
    rows[r].flops = 5.0 * 512 * 512 * 18;
    b_shape(&rows[r++], "512x512");
    args[r].ctx = one;
    args[r].real = 1;
    args[r].x = tiny_tensor_1d(x, TINY_F32, 4096);
    args[r].y = tiny_tensor_2d(y, TINY_F32, 2049, 2);
    b_must(one, tiny_fft_plan_open(one, 4096, TINY_FFT_REAL, 1, &args[r].plan));
    rows[r].what = "rfft, one row";
    rows[r].flops = 2.5 * 4096 * 12;
    b_shape(&rows[r++], "4096");
    for (i = 0; i < r; i++) {
        if (!rows[i].run) rows[i].run = bf_run;
        if (!rows[i].target) rows[i].target = target;
        if (!rows[i].threads) rows[i].threads = 1;
        rows[i].limit = B_F32;
        rows[i].arg = &args[i];
    }
    b_contest("Fourier transforms, 5 n log2 n operations each", rows, r);
    for (i = 0; i < r; i++) tiny_fft_plan_close(one, args[i].plan);
    tiny_ctx_close(one);
    tiny_ctx_close(all);
}
