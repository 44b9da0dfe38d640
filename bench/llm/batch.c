/* bench/llm/batch.c - sequences that decode together: does one more lower the rate?
 *
 * Products of 1 to 64 rows of activations with weights of 2048 x 2048, in the blocks of each format and repacked, one
 * thread. Numbers of rows take turns, and each gets the least of its rounds: what other programs take is not what one
 * row more costs. A fall is a number of rows with which less is multiplied in a second than with one row less, by more
 * than 2 %. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { BB_WIDE = 2048, BB_ROWS = 64 };
typedef struct bb_arg {
    tiny_ctx *ctx;
    const tllm_format *f;
    const unsigned char *w;
    int repacked, n;
    float *x, *y;
} bb_arg;

static void bb_multiply(void *arg)
{
    const bb_arg *a = (const bb_arg *)arg;
    const tiny_tensor w = tiny_tensor_2d((void *)(uintptr_t)a->w, TINY_U8, BB_WIDE,
                                         (tiny_idx)tllm_format_bytes(a->f, BB_WIDE)),
                      x = tiny_tensor_2d(a->x, TINY_F32, a->n, BB_WIDE),
                      y = tiny_tensor_2d(a->y, TINY_F32, a->n, BB_WIDE);
    b_must(a->ctx, tllm_matmul(a->ctx, &x, a->repacked ? a->f->id | TLLM_REPACKED : a->f->id, &w, NULL, &y));
}
static void bb_contest(const bb_arg *of)
{
    static const int n[] = { 1, 4, 8, 16, 17, 32, 33, 64 };
    enum { COUNT = sizeof n / sizeof *n };
    static b_row rows[COUNT];
    static bb_arg a[COUNT];
    char title[100];
    int i;
    memset(rows, 0, sizeof rows);
    for (i = 0; i < COUNT; i++) {
        a[i] = *of;
        a[i].n = n[i];
        rows[i].what = of->f->name;
        rows[i].target = of->repacked ? "repacked" : "in place";
        rows[i].threads = 1;
        rows[i].limit = B_I8;
        rows[i].flops = 2.0 * n[i] * BB_WIDE * BB_WIDE;
        rows[i].bytes = (double)(tllm_format_bytes(of->f, BB_WIDE) * BB_WIDE);
        rows[i].run = bb_multiply;
        rows[i].arg = &a[i];
        b_shape(&rows[i], "%dx%dx%d", n[i], (int)BB_WIDE, (int)BB_WIDE);
    }
    (void)snprintf(title, sizeof title, "1 to 64 rows of activations, %s %s", of->f->name, rows[0].target);
    b_contest(title, rows, COUNT);
}

static void bb_form(bb_arg *a)
{
    const int rounds = b_quick ? 5 : 40;
    double best[BB_ROWS + 1], worst = 0.0, at, took, more;
    int n, r, falls = 0, worst_at = 1;
    char text[100];
    for (n = 1; n <= BB_ROWS; n++) best[n] = 1e30;
    for (r = 0; r < rounds; r++)
        for (n = 1; n <= BB_ROWS; n++) {
            a->n = n;
            at = b_now();
            bb_multiply(a);
            took = b_now() - at;
            if (took < best[n]) best[n] = took;
        }
    for (n = 2; n <= BB_ROWS; n++) {
        more = best[n] / n / (best[n - 1] / (n - 1)) - 1.0;
        falls += more > 0.02;
        if (more > worst) {
            worst = more;
            worst_at = n;
        }
    }
    (void)snprintf(text, sizeof text, "%s%s", a->f->name, a->repacked ? " repacked" : "");
    b_note("%s: falls in 1..%d: %d, worst %.1f %% (%d rows); us a row of 1, 4, 8, 16, 64: %.0f %.0f %.0f %.0f %.0f",
           text, (int)BB_ROWS, falls, 100.0 * worst, worst_at, 1e6 * best[1], 0.25e6 * best[4], 0.125e6 * best[8],
           1e6 / 16.0 * best[16], 1e6 / BB_ROWS * best[BB_ROWS]);
    (void)snprintf(text, sizeof text, "%s%s, 16 rows over one", a->f->name, a->repacked ? " repacked" : "");
    b_verdict(text, 16.0 * best[1] / best[16], ">=", 4.0);
}

void bench_batch(void)
{
    static const char *const names[] = { "Q4_0", "Q4_K", "Q8_0", "Q6_K", "Q5_0", "MXFP4", "IQ4_XS" };
    const size_t n = b_quick ? 2 : sizeof names / sizeof *names;
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    float *x = (float *)b_alloc((size_t)BB_ROWS * BB_WIDE * sizeof *x),
          *y = (float *)b_alloc((size_t)BB_ROWS * BB_WIDE * sizeof *y);
    size_t i;
    int r;
    for (i = 0; i < n; i++) {
        const tllm_format *f = tllm_format_by_name(names[i]);
        const size_t row = tllm_format_bytes(f, BB_WIDE);
        unsigned char *w = (unsigned char *)b_alloc(row * BB_WIDE), *e = NULL;
        bb_arg a;
        for (r = 0; r < BB_WIDE; r++)
            if (r < 16) f->pack(x + r * BB_WIDE, w + (size_t)r * row, BB_WIDE, NULL);
            else memcpy(w + (size_t)r * row, w + (size_t)((r * 7 + r / 16) % 16) * row, row);
        a.ctx = ctx;
        a.f = f;
        a.w = w;
        a.repacked = 0;
        a.x = x;
        a.y = y;
        if (i == 0) bb_contest(&a);
        bb_form(&a);
        if (tllm_repack_has(ctx, f->id) == 2) {
            a.w = e = (unsigned char *)b_alloc(row * BB_WIDE);
            a.repacked = 1;
            b_must(ctx, tllm_repack(ctx, f->id, w, BB_WIDE, BB_WIDE, e));
            if (i == 0) bb_contest(&a);
            bb_form(&a);
        }
        b_free(e);
        b_free(w);
    }
    b_free(x);
    b_free(y);
    tiny_ctx_close(ctx);
}
