/* bench/llm/bipolar.c - bit planes against the other products: 4096 x 4096 weights, 1, 8 and 64 rows of activations
 *
 * The alternatives: our f32 product, our int8 product (its activations are int8 already; the others quantize theirs in
 * their time) and our products with Q8_0 and Q4_0 blocks. Rows of bit planes quantize and pack their activations in
 * their time. All rows of a contest take turns. A matrix that fits in the last-level cache is read from there, which
 * would not happen in a whole model. */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BB_N = 4096, BB_PAIRS = 8, BB_RIVALS = 4 };
static const struct {
    int p, q;
    const char *name;
} bb_pair[BB_PAIRS] = { { 1, 1, "W1A1" }, { 1, 4, "W1A4" }, { 2, 2, "W2A2" }, { 2, 4, "W2A4" },
                        { 3, 4, "W3A4" }, { 4, 4, "W4A4" }, { 4, 8, "W4A8" }, { 8, 8, "W8A8" } };
typedef struct bb_arg {
    tiny_ctx *ctx;
    const tllm_bipolar *w;
    int bits, format;
    tiny_tensor x, planes, scale_a, scale_b, y;
} bb_arg;

static void bb_planes(void *arg)
{
    const bb_arg *a = (const bb_arg *)arg;
    b_must(a->ctx, tllm_bipolar_matmul(a->ctx, a->w, &a->x, a->bits, NULL, &a->y));
}
static void bb_f32(void *arg)
{
    const bb_arg *a = (const bb_arg *)arg;
    b_must(a->ctx, tiny_matmul(a->ctx, &a->x, &a->planes, NULL, TINY_ACT_NONE, &a->y));
}
static void bb_i8(void *arg)
{
    const bb_arg *a = (const bb_arg *)arg;
    b_must(a->ctx, tiny_matmul_i8(a->ctx, &a->x, &a->planes, &a->scale_a, &a->scale_b, NULL, TINY_ACT_NONE, &a->y));
}
static void bb_blocks(void *arg)
{
    const bb_arg *a = (const bb_arg *)arg;
    b_must(a->ctx, tllm_matmul(a->ctx, &a->x, a->format, &a->planes, NULL, &a->y));
}

/* relative error of the product, in percent: the cost of so few bits on normal weights and activations, next to their
 * saving */
static double bb_error(const float *y, const float *want, size_t n)
{
    double d = 0, s = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        d += (double)(y[i] - want[i]) * (double)(y[i] - want[i]);
        s += (double)want[i] * (double)want[i];
    }
    return 100.0 * sqrt(d / s);
}

static int8_t bb_byte(float x) { return (int8_t)(x < -5.0f ? -125.0f : x > 5.0f ? 125.0f : x * 25.0f); }

static void *bb_packed(int format, const float *w, size_t *row)
{
    const tllm_format *f = tllm_format_of(format);
    unsigned char *to;
    int i;
    *row = tllm_format_bytes(f, BB_N);
    to = (unsigned char *)b_alloc(*row * BB_N);
    for (i = 0; i < BB_N; i++) f->pack(w + (size_t)i * BB_N, to + (size_t)i * *row, BB_N, NULL);
    return to;
}

void bench_bipolar(void)
{
    static bb_arg a[BB_RIVALS + BB_PAIRS];
    static b_row rows[BB_RIVALS + BB_PAIRS];
    static const int ms[] = { 1, 8, 64 }, formats[2] = { TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    float *w = (float *)b_alloc((size_t)BB_N * BB_N * sizeof *w), *x = (float *)b_alloc(64 * BB_N * sizeof *x);
    float *y = (float *)b_alloc(64 * BB_N * sizeof *y), *want = (float *)b_alloc(64 * BB_N * sizeof *want);
    int8_t *w8 = (int8_t *)b_alloc((size_t)BB_N * BB_N), *x8 = (int8_t *)b_alloc(64 * BB_N);
    float *ones = (float *)b_alloc(BB_N * sizeof *ones);
    void *blocks[2];
    size_t row[2], i;
    tllm_bipolar planes[BB_PAIRS];
    tiny_rng rng = tiny_rng_make(7, 0);
    double us[3][BB_PAIRS], per[3][BB_PAIRS], pq[BB_PAIRS], bits[BB_PAIRS], mb[BB_PAIRS], error[BB_PAIRS],
        rival[3][BB_RIVALS];
    b_curve curves[3];
    char text[160];
    int c, r, t;
    for (i = 0; i < (size_t)BB_N * BB_N; i++) w[i] = tiny_rng_normal(&rng);
    for (i = 0; i < 64 * BB_N; i++) x[i] = tiny_rng_normal(&rng);
    for (i = 0; i < (size_t)BB_N * BB_N; i++) w8[i] = bb_byte(w[i]);
    for (i = 0; i < 64 * BB_N; i++) x8[i] = bb_byte(x[i]);
    for (i = 0; i < BB_N; i++) ones[i] = 1.0f / 625.0f;
    for (r = 0; r < 2; r++) blocks[r] = bb_packed(formats[r], w, &row[r]);
    for (r = 0; r < BB_PAIRS; r++) {
        const tiny_tensor tw = tiny_tensor_2d(w, TINY_F32, BB_N, BB_N);
        b_must(all, tllm_bipolar_make(all, &tw, NULL, bb_pair[r].p, 0, &planes[r]));
        pq[r] = (double)(bb_pair[r].p * bb_pair[r].q);
        bits[r] = (double)bb_pair[r].p;
        mb[r] = (double)planes[r].n_bytes * 1e-6;
    }
    for (t = 1; t <= (b_quick || b_threads < 2 ? 1 : 2); t++)
        for (c = 0; c < 3; c++) {
            const int m = ms[c], threads = t == 1 ? b_threads : 1;
            tiny_ctx *ctx = t == 1 ? all : one;
            memset(rows, 0, sizeof rows);
            memset(a, 0, sizeof a);
            for (r = 0; r < BB_RIVALS + BB_PAIRS; r++) {
                a[r].ctx = ctx;
                a[r].x = tiny_tensor_2d(x, TINY_F32, m, BB_N);
                a[r].y = tiny_tensor_2d(y, TINY_F32, m, BB_N);
                rows[r].threads = threads;
                rows[r].flops = 2.0 * m * BB_N * BB_N;
                rows[r].limit = m == 1 ? B_READ : B_NONE;
                rows[r].arg = &a[r];
                b_shape(&rows[r], "%dx%dx%d", m, (int)BB_N, (int)BB_N);
            }
            rows[0].what = "f32";
            rows[0].run = bb_f32;
            rows[0].bytes = 4.0 * BB_N * BB_N;
            a[0].planes = tiny_tensor_2d(w, TINY_F32, BB_N, BB_N);
            a[0].planes = tiny_tensor_swap(a[0].planes, 0, 1);
            a[0].y.data = want;
            rows[1].what = "int8";
            rows[1].run = bb_i8;
            rows[1].bytes = (double)BB_N * BB_N;
            a[1].x = tiny_tensor_2d(x8, TINY_I8, m, BB_N);
            a[1].planes = tiny_tensor_2d(w8, TINY_I8, BB_N, BB_N);
            a[1].planes = tiny_tensor_swap(a[1].planes, 0, 1);
            a[1].scale_a = tiny_tensor_1d(ones, TINY_F32, m);
            a[1].scale_b = tiny_tensor_1d(ones, TINY_F32, BB_N);
            for (r = 0; r < 2; r++) {
                rows[2 + r].what = tllm_format_of(formats[r])->name;
                rows[2 + r].run = bb_blocks;
                rows[2 + r].bytes = (double)row[r] * BB_N;
                a[2 + r].format = formats[r];
                a[2 + r].planes = tiny_tensor_2d(blocks[r], TINY_U8, BB_N, (tiny_idx)row[r]);
            }
            for (r = 0; r < BB_RIVALS; r++) rows[r].target = "ours";
            for (r = 0; r < BB_PAIRS; r++) {
                bb_arg *at = &a[BB_RIVALS + r];
                b_row *to = &rows[BB_RIVALS + r];
                at->w = &planes[r];
                at->bits = bb_pair[r].q;
                to->what = bb_pair[r].name;
                to->target = tllm_bipolar_pass(ctx);
                to->run = bb_planes;
                to->bytes = (double)planes[r].n_bytes;
                if (m == 64 && t == 1) {
                    bb_f32(&a[0]);
                    bb_planes(at);
                    error[r] = bb_error(y, want, (size_t)m * BB_N);
                }
            }
            (void)snprintf(text, sizeof text, "Bit planes: %d row%s of activations, 4096 x 4096 weights, %d thread%s",
                           m, m > 1 ? "s" : "", threads, threads > 1 ? "s" : "");
            b_contest(text, rows, BB_RIVALS + BB_PAIRS);
            for (r = 0; r < BB_PAIRS; r++) {
                const double mine = rows[BB_RIVALS + r].median_ns;
                b_note("%s: %5.2f times as fast as f32, %5.2f as int8, %5.2f as Q8_0, %5.2f as Q4_0%s", bb_pair[r].name,
                       rows[0].median_ns / mine, rows[1].median_ns / mine, rows[2].median_ns / mine,
                       rows[3].median_ns / mine,
                       rows[1].median_ns < mine || rows[3].median_ns < mine ? " (loses)" : "");
                if (t > 1) continue;
                us[c][r] = mine * 1e-3;
                per[c][r] = us[c][r] / pq[r] / us[c][0];
            }
            for (r = 0; r < BB_RIVALS && t == 1; r++) rival[c][r] = rows[r].median_ns * 1e-3;
        }
    for (r = 0; r < BB_PAIRS; r++)
        b_note("%s: %.2f MB, %.3f MB a bit; 64 rows: time / (p q) is %.2f of that of W1A1; error of the product %.1f "
               "%% (normal numbers, one scale a row)",
               bb_pair[r].name, mb[r], mb[r] / bits[r], per[2][r], error[r]);
    b_verdict("W1A1 against int8, 64 rows", rival[2][1] / us[2][0], ">=", 2.0);
    b_verdict("W2A2 against int8, 64 rows", rival[2][1] / us[2][2], ">=", 1.0);
    b_verdict("W2A4 against int8, 64 rows (where they should be even)", rival[2][1] / us[2][3], ">=", 1.0);
    b_verdict("time by p q, 64 rows: W4A4 / 16 W1A1", per[2][5], "<=", 1.25);
    b_headline("bipolar", "Bipolar-INT: up to 2.4 times CUTLASS products, 13 at the lowest precision (first version)",
               "4096 x 4096 weights, packing of activations is included; time of our int8 product over time of this "
               "one",
               "W1A1, W1A4, W2A2, W3A4, W4A4, W4A8: 1 row %.2f, %.2f, %.2f, %.2f, %.2f, %.2f; 8 rows %.2f, %.2f, %.2f, "
               "%.2f, %.2f, %.2f; 64 rows %.2f, %.2f, %.2f, %.2f, %.2f, %.2f",
               rival[0][1] / us[0][0], rival[0][1] / us[0][1], rival[0][1] / us[0][2], rival[0][1] / us[0][4],
               rival[0][1] / us[0][5], rival[0][1] / us[0][6], rival[1][1] / us[1][0], rival[1][1] / us[1][1],
               rival[1][1] / us[1][2], rival[1][1] / us[1][4], rival[1][1] / us[1][5], rival[1][1] / us[1][6],
               rival[2][1] / us[2][0], rival[2][1] / us[2][1], rival[2][1] / us[2][2], rival[2][1] / us[2][4],
               rival[2][1] / us[2][5], rival[2][1] / us[2][6]);
    for (c = 0; c < 3; c++) {
        curves[c].name = c == 0 ? "1 row" : c == 1 ? "8 rows" : "64 rows";
        curves[c].x = pq;
        curves[c].y = per[c];
        curves[c].n = BB_PAIRS;
    }
    b_svg("bipolar", "Bit planes: time of a pair of bits, W1A1 = 1", "p q", "time / (p q)", curves, 3);
    curves[0].name = "planes";
    curves[0].x = bits;
    curves[0].y = mb;
    b_svg("bipolar-bytes", "Bit planes: bytes of 4096 x 4096 weights", "bits of a weight", "MB", curves, 1);
    for (r = 0; r < BB_PAIRS; r++) tllm_bipolar_free(all, &planes[r]);
    tiny_ctx_close(one);
    tiny_ctx_close(all);
    for (r = 0; r < 2; r++) b_free(blocks[r]);
    b_free(ones);
    b_free(x8);
    b_free(w8);
    b_free(want);
    b_free(y);
    b_free(x);
    b_free(w);
}
