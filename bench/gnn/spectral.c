/* bench/gnn/spectral.c - a spectral convolution of one field: to 16 modes on each axis, products by mode, and back
 *
 * The rival is the plain loop: each axis a sum with its table of cosines and sines, kept modes only, channels
 * innermost, one thread. The limit that is quoted for such layers is the FFT: "rfft2 and irfft2" are the two transforms
 * of all channels alone, by the FFT of this library with plans, all modes, no products. neuraloperator (Python) is not
 * part of this run: docs/papers/tfno.md has it. */
#include "../bench.h"
#include "tinygnn.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BP_CHANNELS = 32, BP_MODES = 16, BP_LOW = BP_MODES / 2 + 1, BP_KEPT = BP_MODES * BP_LOW };

typedef struct bp {
    tiny_ctx *ctx;
    int form, n;                            /* 0: whole, 1: modes, 2: mix, 3: field, 4: the loop, 5: FFT alone */
    tgnn_modes_params p;
    tiny_tensor x, a, w, b, y;
    tiny_fft_params fft;
    tiny_fft_plan *plan[2];
    tiny_tensor planes, spectrum, back;
    float *table, *rows;                    /* cosines and sines of k / n; (n, BP_LOW) complex of all channels */
} bp;

static void bp_turn(float *to, const float *from, const float *table, int n, int k, int inverse, int channels)
{
    int c;
    const float co = table[2 * (k % n)], si = inverse ? table[2 * (k % n) + 1] : -table[2 * (k % n) + 1];
    for (c = 0; c < channels; c++) {
        to[c] += from[c] * co - from[channels + c] * si;
        to[channels + c] += from[c] * si + from[channels + c] * co;
    }
}

static void bp_loop(const bp *h)
{
    enum { C = BP_CHANNELS };
    const int n = h->n;
    const float *x = (const float *)h->x.data, *w = (const float *)h->w.data;
    float *a = (float *)h->a.data, *b = (float *)h->b.data, *y = (float *)h->y.data, *rows = h->rows;
    int i, j, f, g, c, o;
    memset(rows, 0, (size_t)(n * BP_LOW) * 2 * C * sizeof *rows);
    memset(a, 0, (size_t)BP_KEPT * 2 * C * sizeof *a);
    memset(b, 0, (size_t)BP_KEPT * 2 * C * sizeof *b);
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            for (g = 0; g < BP_LOW; g++) {
                const float *from = x + (i * n + j) * C;
                float *to = rows + (i * BP_LOW + g) * 2 * C;
                const float co = h->table[2 * (g * j % n)], si = h->table[2 * (g * j % n) + 1];
                for (c = 0; c < C; c++) {
                    to[c] += from[c] * co;
                    to[C + c] -= from[c] * si;
                }
            }
    for (f = 0; f < BP_MODES; f++)
        for (i = 0; i < n; i++)
            for (g = 0; g < BP_LOW; g++)
                bp_turn(a + (f * BP_LOW + g) * 2 * C, rows + (i * BP_LOW + g) * 2 * C, h->table, n,
                        (f - BP_MODES / 2 + n) * i, 0, C);
    for (f = 0; f < BP_KEPT; f++)
        for (c = 0; c < C; c++) {
            const float re = a[f * 2 * C + c] / (float)(n * n), im = a[f * 2 * C + C + c] / (float)(n * n);
            const float *wr = w + (f * 2 * C + c) * C, *wi = w + ((f * 2 + 1) * C + c) * C;
            for (o = 0; o < C; o++) {
                b[f * 2 * C + o] += re * wr[o] - im * wi[o];
                b[f * 2 * C + C + o] += re * wi[o] + im * wr[o];
            }
        }
    memset(rows, 0, (size_t)(n * BP_LOW) * 2 * C * sizeof *rows);
    memset(y, 0, (size_t)(n * n) * C * sizeof *y);
    for (i = 0; i < n; i++)
        for (f = 0; f < BP_MODES; f++)
            for (g = 0; g < BP_LOW; g++)
                bp_turn(rows + (i * BP_LOW + g) * 2 * C, b + (f * BP_LOW + g) * 2 * C, h->table, n,
                        (f - BP_MODES / 2 + n) * i, 1, C);
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            for (g = 0; g < BP_LOW; g++) {
                const float *from = rows + (i * BP_LOW + g) * 2 * C;
                float *to = y + (i * n + j) * C;
                const float by = g ? 2.0f : 1.0f, co = by * h->table[2 * (g * j % n)],
                            si = by * h->table[2 * (g * j % n) + 1];
                for (c = 0; c < C; c++) to[c] += from[c] * co - from[C + c] * si;
            }
}

static void bp_run(void *arg)
{
    bp *h = (bp *)arg;
    const int all = h->form == 0;
    if (all || h->form == 1) b_must(h->ctx, tgnn_modes(h->ctx, &h->x, &h->p, &h->a));
    if (all || h->form == 2) b_must(h->ctx, tgnn_modes_mix(h->ctx, &h->a, &h->w, NULL, &h->b));
    if (all || h->form == 3) b_must(h->ctx, tgnn_modes_field(h->ctx, &h->b, &h->p, &h->y));
    if (h->form == 4) bp_loop(h);
    if (h->form == 5) {
        h->fft.plan = h->plan[0];
        b_must(h->ctx, tiny_rfft2(h->ctx, &h->planes, &h->fft, &h->spectrum));
        h->fft.plan = h->plan[1];
        b_must(h->ctx, tiny_irfft2(h->ctx, &h->spectrum, &h->fft, &h->back));
    }
}

static void bp_size(tiny_ctx *one, tiny_ctx *all, int n, double *loop, double *fft)
{
    static const char *const what[7] = { "spectral conv", "spectral conv", "modes", "modes_mix", "modes_field",
                                         "a plain loop", "rfft2 and irfft2" };
    static const int form[7] = { 0, 0, 1, 2, 3, 4, 5 };
    static bp h[7];
    const size_t points = (size_t)(n * n) * BP_CHANNELS, modes = (size_t)BP_KEPT * 2 * BP_CHANNELS,
                 bins = (size_t)(n * (n / 2 + 1)) * 2 * BP_CHANNELS;
    float *x = (float *)b_alloc(points * 4), *y = (float *)b_alloc(points * 4), *a = (float *)b_alloc(modes * 4),
          *b = (float *)b_alloc(modes * 4), *w = (float *)b_alloc(modes * BP_CHANNELS * 4),
          *rows = (float *)b_alloc((size_t)(n * BP_LOW) * 2 * BP_CHANNELS * 4),
          *table = (float *)b_alloc((size_t)n * 8), *spectrum = (float *)b_alloc(bins * 4);
    tiny_fft_plan *plan[2];
    b_row row[7];
    char title[96];
    int i;
    memset(row, 0, sizeof row);
    for (i = 0; i < n; i++) {
        table[2 * i] = (float)cos(2 * 3.14159265358979323846 * i / n);
        table[2 * i + 1] = (float)sin(2 * 3.14159265358979323846 * i / n);
    }
    b_must(one, tiny_fft_plan_open(one, n, TINY_FFT_REAL, n * BP_CHANNELS, &plan[0]));
    b_must(one, tiny_fft_plan_open(one, n, TINY_FFT_REAL_INVERSE, n * BP_CHANNELS, &plan[1]));
    for (i = 0; i < 7; i++) {
        bp *s = &h[i];
        memset(s, 0, sizeof *s);
        s->ctx = i == 1 ? all : one;
        s->form = form[i];
        s->n = n;
        s->p.d = 2;
        s->p.size[0] = s->p.size[1] = n;
        s->p.kept[0] = BP_MODES;
        s->p.kept[1] = BP_LOW;
        s->x = tiny_tensor_3d(x, TINY_F32, 1, n * n, BP_CHANNELS);
        s->y = tiny_tensor_3d(y, TINY_F32, 1, n * n, BP_CHANNELS);
        s->a = tiny_tensor_4d(a, TINY_F32, 1, BP_KEPT, 2, BP_CHANNELS);
        s->b = tiny_tensor_4d(b, TINY_F32, 1, BP_KEPT, 2, BP_CHANNELS);
        s->w = tiny_tensor_4d(w, TINY_F32, BP_KEPT, 2, BP_CHANNELS, BP_CHANNELS);
        s->planes = tiny_tensor_3d(x, TINY_F32, BP_CHANNELS, n, n);
        s->back = tiny_tensor_3d(y, TINY_F32, BP_CHANNELS, n, n);
        s->spectrum = tiny_tensor_4d(spectrum, TINY_F32, BP_CHANNELS, n, n / 2 + 1, 2);
        s->plan[0] = plan[0];
        s->plan[1] = plan[1];
        s->table = table;
        s->rows = rows;
        row[i].what = what[i];
        row[i].target = form[i] == 4 ? "plain C" : tiny_target_name(tiny_ctx_target(s->ctx));
        row[i].threads = i == 1 ? b_threads : 1;
        row[i].limit = form[i] == 2 ? B_READ : form[i] == 5 ? B_NONE : B_F32;
        row[i].flops = BP_CHANNELS * (form[i] == 2 ? 0.0 : form[i] == 5 ? 2 * 2.5 * n * n * 2 * log2((double)n)
                                                         : (form[i] == 1 || form[i] == 3 ? 1 : 2) *
                                                               (2.0 * n * n * BP_LOW + 4.0 * n * BP_KEPT)) +
                       (form[i] == 2 || form[i] == 0 || form[i] == 4 ? 8.0 * BP_KEPT * BP_CHANNELS * BP_CHANNELS : 0.0);
        row[i].bytes = form[i] == 2 ? 8.0 * BP_KEPT * BP_CHANNELS * BP_CHANNELS : (double)points * 8;
        row[i].run = bp_run;
        row[i].arg = s;
        b_shape(&row[i], "%d x %d x %d", n, n, BP_CHANNELS);
    }
    (void)snprintf(title, sizeof title, "Spectral convolution, %d x %d points, %d channels, %d modes", n, n,
                   BP_CHANNELS, BP_MODES);
    b_contest(title, row, 7);
    *loop = row[5].median_ns / row[0].median_ns;
    *fft = row[6].median_ns / row[0].median_ns;
    b_note("one thread: %.1f us to modes, %.1f us products, %.1f us back", row[2].median_ns / 1e3,
           row[3].median_ns / 1e3, row[4].median_ns / 1e3);
    tiny_fft_plan_close(one, plan[0]);
    tiny_fft_plan_close(one, plan[1]);
    b_free(x);
    b_free(y);
    b_free(a);
    b_free(b);
    b_free(w);
    b_free(rows);
    b_free(table);
    b_free(spectrum);
}

void bench_spectral(void)
{
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    double loop[2], fft[2];
    bp_size(one, all, 64, &loop[0], &fft[0]);
    bp_size(one, all, b_quick ? 32 : 128, &loop[1], &fft[1]);
    b_verdict("a plain loop over the spectral convolution at 64 x 64, one thread", loop[0], ">", 2.0);
    b_headline("tfno", "time of a forward pass: FFT-bound",
               "64 x 64 and 128 x 128 points, 32 channels, 16 modes, one thread",
               "a plain loop / ours %.1f and %.1f; rfft2 and irfft2 alone / ours %.1f and %.1f", loop[0], loop[1],
               fft[0], fft[1]);
    tiny_ctx_close(one);
    tiny_ctx_close(all);
}
