/* bench/llm/smooth.c - SmoothQuant and AWQ: linear layers of bytes, outliers, and the loss of story models
 *
 * SmoothQuant (arXiv 2211.10438) reports up to 1.56 times the speed of f16 and half the memory; AWQ (arXiv 2306.00978)
 * less loss than plain rounding. Here: the product of bytes compared with those of floats, halves and Q8_0; the loss of
 * a layer with two outlier channels; and the story models on plain grids, as
 * bench/llm/gptq.c has them. */
#include "grids.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- speed ------------------------------------------------------------------------------------------------------- */

enum { BS_F32, BS_F16, BS_Q8, BS_W8A8, BS_INPUTS, BS_KINDS };
typedef struct bs_arg {
    tiny_ctx *ctx;
    int kind;
    tiny_idx n, tokens;
    float *x, *y, *w;
    uint16_t *half;
    unsigned char *q8;
    tllm_w8a8 wq, xq;
} bs_arg;

static void bs_run(void *arg)
{
    bs_arg *a = (bs_arg *)arg;
    const tiny_tensor x = tiny_tensor_2d(a->x, TINY_F32, a->tokens, a->n),
                      y = tiny_tensor_2d(a->y, TINY_F32, a->tokens, a->n);
    if (a->kind == BS_F32 || a->kind == BS_F16) {
        const tiny_tensor w = a->kind == BS_F32 ? tiny_tensor_2d(a->w, TINY_F32, a->n, a->n)
                                                : tiny_tensor_2d(a->half, TINY_F16, a->n, a->n),
                          v = tiny_tensor_swap(w, 0, 1);
        b_must(a->ctx, tiny_matmul(a->ctx, &x, &v, NULL, TINY_ACT_NONE, &y));
    } else if (a->kind == BS_Q8) {
        const tiny_tensor w = tiny_tensor_2d(a->q8, TINY_U8, a->n, a->n / 32 * 34);
        b_must(a->ctx, tllm_matmul(a->ctx, &x, TLLM_FORMAT_Q8_0, &w, NULL, &y));
    } else {
        b_must(a->ctx, tllm_w8a8_inputs(a->ctx, a->x, a->tokens, a->n, a->n, 0, &a->xq));
        if (a->kind == BS_W8A8)
            b_must(a->ctx, tllm_w8a8_product(a->ctx, &a->xq, a->tokens, &a->wq, a->n, a->n, NULL, a->y, a->n));
    }
}

static void bs_speed(int threads, tiny_idx n, tiny_idx tokens, double *faster)
{
    static const char *const what[BS_KINDS] = { "f32 weights", "f16 weights", "Q8_0 weights",
                                                "W8A8, inputs made bytes too", "of which the inputs" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, threads);
    const size_t all = (size_t)(n * n);
    bs_arg a[BS_KINDS];
    b_row r[BS_KINDS];
    char title[80];
    int k;
    memset(a, 0, sizeof a);
    memset(r, 0, sizeof r);
    a[0].ctx = ctx;
    a[0].n = n;
    a[0].tokens = tokens;
    a[0].x = (float *)b_alloc((size_t)(tokens * n) * sizeof(float));
    a[0].y = (float *)b_alloc((size_t)(tokens * n) * sizeof(float));
    a[0].w = (float *)b_alloc(all * sizeof(float));
    a[0].half = (uint16_t *)b_alloc(all * 2);
    a[0].q8 = (unsigned char *)b_alloc(all / 32 * 34);
    a[0].wq.code = (int8_t *)b_alloc(all);
    a[0].wq.scale = (float *)b_alloc((size_t)n * sizeof(float));
    a[0].xq.code = (int8_t *)b_alloc((size_t)(tokens * n));
    a[0].xq.scale = (float *)b_alloc((size_t)tokens * sizeof(float));
    bg_normal(a[0].x, (size_t)(tokens * n), 1);
    bg_normal(a[0].w, all, 2);
    tllm_format_of(TLLM_FORMAT_F16)->pack(a[0].w, a[0].half, all, NULL);
    tllm_format_of(TLLM_FORMAT_Q8_0)->pack(a[0].w, a[0].q8, all, NULL);
    b_must(ctx, tllm_w8a8_weights(ctx, a[0].w, n, n, &a[0].wq));
    for (k = 0; k < BS_KINDS; k++) {
        const double bytes[BS_KINDS] = { 4, 2, 34.0 / 32, 1, 0 };
        a[k] = a[0];
        a[k].kind = k;
        r[k].what = what[k];
        r[k].target = tiny_target_name(tiny_op_target(ctx, k == BS_W8A8 ? TINY_OP_MATMUL_I8 : TINY_OP_MATMUL));
        r[k].threads = threads;
        r[k].limit = k < BS_Q8 ? B_F32 : k == BS_INPUTS ? B_READ : B_I8;
        r[k].flops = k == BS_INPUTS ? (double)(tokens * n) : 2.0 * (double)(tokens * n) * (double)n;
        r[k].bytes = bytes[k] * (double)all + 5.0 * (double)(tokens * n);
        r[k].run = bs_run;
        r[k].arg = &a[k];
        b_shape(&r[k], "%dx%dx%d", (int)tokens, (int)n, (int)n);
    }
    (void)snprintf(title, sizeof title, "W8A8: %d tokens", (int)tokens);
    b_contest(title, r, BS_KINDS);
    faster[0] = r[BS_F32].median_ns / r[BS_W8A8].median_ns;
    faster[1] = r[BS_F16].median_ns / r[BS_W8A8].median_ns;
    faster[2] = r[BS_Q8].median_ns / r[BS_W8A8].median_ns;
    b_free(a[0].x);
    b_free(a[0].y);
    b_free(a[0].w);
    b_free(a[0].half);
    b_free(a[0].q8);
    b_free(a[0].wq.code);
    b_free(a[0].wq.scale);
    b_free(a[0].xq.code);
    b_free(a[0].xq.scale);
    tiny_ctx_close(ctx);
}

/* ---- two outlier channels, x30 and x20, among 128 ---------------------------------------------------------------- */

enum { BS_N = 128, BS_ROWS = 128, BS_TOKENS = 512 };
/* relative squared error of the outputs; alpha below 0: without smoothing */
static double bs_lost(tiny_ctx *ctx, double alpha, int fixed)
{
    static float x[BS_TOKENS * BS_N], w[BS_ROWS * BS_N], y[BS_TOKENS * BS_ROWS], want[BS_TOKENS * BS_ROWS];
    static int8_t xc[BS_TOKENS * BS_N], wc[BS_ROWS * BS_N];
    static float xs[BS_TOKENS], ws[BS_ROWS];
    float s[BS_N], x_most[BS_N] = { 0 }, w_most[BS_N] = { 0 }, most = 0;
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, BS_TOKENS, BS_N),
                tw = tiny_tensor_swap(tiny_tensor_2d(w, TINY_F32, BS_ROWS, BS_N), 0, 1);
    tiny_tensor ty = tiny_tensor_2d(want, TINY_F32, BS_TOKENS, BS_ROWS);
    double off = 0, size = 0;
    tllm_w8a8 xq, wq;
    int t, i;
    bg_normal(x, BS_TOKENS * BS_N, 11);
    bg_normal(w, BS_ROWS * BS_N, 12);
    for (t = 0; t < BS_TOKENS; t++) {
        x[t * BS_N + 17] *= 30;
        x[t * BS_N + 90] *= 20;
    }
    b_must(ctx, tiny_matmul(ctx, &tx, &tw, NULL, TINY_ACT_NONE, &ty));
    if (alpha >= 0) {
        for (t = 0; t < BS_TOKENS; t++)
            for (i = 0; i < BS_N; i++) x_most[i] = fmaxf(x_most[i], fabsf(x[t * BS_N + i]));
        b_must(ctx, tllm_smooth_largest(ctx, w, BS_ROWS, BS_N, w_most));
        b_must(ctx, tllm_smooth_factors(ctx, (float)alpha, x_most, w_most, BS_N, s));
        b_must(ctx, tllm_smooth_columns(ctx, w, BS_ROWS, BS_N, s));
        for (t = 0; t < BS_TOKENS; t++)
            for (i = 0; i < BS_N; i++) x[t * BS_N + i] /= s[i];
    }
    for (i = 0; i < BS_TOKENS * BS_N; i++) most = fmaxf(most, fabsf(x[i]));
    xq.code = xc;
    xq.scale = xs;
    wq.code = wc;
    wq.scale = ws;
    b_must(ctx, tllm_w8a8_weights(ctx, w, BS_ROWS, BS_N, &wq));
    b_must(ctx, tllm_w8a8_inputs(ctx, x, BS_TOKENS, BS_N, BS_N, fixed ? most : 0, &xq));
    b_must(ctx, tllm_w8a8_product(ctx, &xq, BS_TOKENS, &wq, BS_ROWS, BS_N, NULL, y, BS_ROWS));
    for (i = 0; i < BS_TOKENS * BS_ROWS; i++) {
        off += ((double)y[i] - (double)want[i]) * ((double)y[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    return off / size;
}

/* ---- the story models -------------------------------------------------------------------------------------------- */

/* the model with its folds scaled, in memory; closed with its writer */
static tllm_gguf *bs_scaled(tiny_ctx *ctx, const tllm_gguf *g, const tllm_scaled_desc *d, const int32_t *token,
                            tllm_scaled_about *about, tllm_writer **w)
{
    tllm_scaled_tensor list[128];
    tllm_scaled *s;
    tllm_writer_desc wd;
    tllm_gguf *made;
    const void *bytes;
    size_t i, n = 0;
    memset(&wd, 0, sizeof wd);
    for (i = 0; i < tllm_gguf_n_tensors(g) && n < 128; i++)
        if (bg_is_matrix(tllm_gguf_tensor_at(g, i))) {
            list[n].t = tllm_gguf_tensor_at(g, i);
            list[n++].format = 0;
        }
    b_must(ctx, tllm_scaled_open(ctx, g, d, token, BG_TOKENS, list, n, &s));
    *about = tllm_scaled_what(s);
    b_must(ctx, tllm_writer_open(ctx, &wd, w));
    b_must(ctx, tllm_scaled_put(ctx, s, *w));
    b_must(ctx, tllm_writer_finish(ctx, *w));
    tllm_scaled_close(ctx, s);
    bytes = tllm_writer_memory(*w, &i);
    b_must(ctx, tllm_gguf_open_memory(ctx, bytes, i, &made));
    return made;
}

/* RTN and AWQ in 4 and in 3 bits, GPTQ in 4, and which differences are significant: bench/llm/gptq.c has the rest */
static void bs_story(tiny_ctx *ctx, const char *path)
{
    tllm_scaled_desc d;
    tllm_scaled_about about;
    static const char *const apart_text[3] = { "better than", "not significantly different from", "worse than" };
    double full, gptq, rtn[2], awq[2];
    bg_made by_gptq, by_rtn[2], by_awq[2];
    tllm_gguf *g;
    int32_t *token;
    int b, more[3];
    if (tllm_gguf_open(ctx, path, &g)) { b_note("%s", tiny_ctx_message(ctx)); return; }
    token = bg_stories(BG_TOKENS);
    memset(&d, 0, sizeof d);
    d.awq.grid.kind = TLLM_PLAIN_ASYM;
    d.awq.grid.group = 64;
    d.awq.grid.bits = 4;
    d.window = BG_WINDOW;
    by_gptq = bg_make(ctx, g, BG_GPTQ, &d.awq.grid);
    full = bg_above(ctx, g);
    gptq = bg_above(ctx, by_gptq.file);
    for (b = 0; b < 2; b++) {
        bg_made scaled;
        d.awq.grid.bits = 4 - b;
        by_rtn[b] = bg_make(ctx, g, BG_RTN, &d.awq.grid);
        scaled.file = bs_scaled(ctx, g, &d, token, &about, &scaled.memory);
        by_awq[b] = bg_make(ctx, scaled.file, BG_RTN, &d.awq.grid);
        bg_drop(ctx, &scaled);
        rtn[b] = bg_above(ctx, by_rtn[b].file);
        awq[b] = bg_above(ctx, by_awq[b].file);
        b_note("%s, %d bits, bits a token above the floor: unchanged %.4f, RTN %.4f, AWQ %.4f; loss %.3f of that "
               "without factors, mean power %.2f, %.0f %% of ranges cut",
               path, 4 - b, full, rtn[b], awq[b], about.loss / about.plain, about.alpha,
               100.0 * (double)about.cut / (double)about.groups);
    }
    more[0] = bg_worse(ctx, "AWQ4 compared with GPTQ4", by_awq[0].file, by_gptq.file);
    more[1] = bg_worse(ctx, "RTN4 compared with AWQ4", by_rtn[0].file, by_awq[0].file);
    more[2] = bg_worse(ctx, "RTN3 compared with AWQ3", by_rtn[1].file, by_awq[1].file);
    bg_drop(ctx, &by_gptq);
    for (b = 0; b < 2; b++) {
        bg_drop(ctx, &by_rtn[b]);
        bg_drop(ctx, &by_awq[b]);
    }
    b_verdict("story model: RTN3 loses more than AWQ3 (1), not significant (0)", more[2], ">", 0);
    b_verdict("story model, bits above the floor: RTN3 lost / RTN4 lost", (rtn[1] - full) / (rtn[0] - full), ">", 2);
    b_headline(
        "awq", "order of perplexity: FP < GPTQ4 <= AWQ4 < RTN4 << RTN3",
        "examples/models/story.gguf, matrices of the layers as ASYM in groups of 64, 16384 tokens of other stories "
        "read; bits a token above the floor of the language; significant: 95 of 100 samples of the stories agree",
        "unchanged %.4f, GPTQ4 %.4f, AWQ4 %.4f, RTN4 %.4f, RTN3 %.4f; AWQ3 %.4f; AWQ4 is %s GPTQ4, RTN4 %s AWQ4, RTN3 "
        "%s AWQ3",
        full, gptq, awq[0], rtn[0], rtn[1], awq[1], apart_text[more[0] + 1], apart_text[more[1] + 1],
        apart_text[more[2] + 1]);
    b_free(token);
    tllm_gguf_close(ctx, g);
}

void bench_smooth(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const tiny_idx n = b_quick ? 1024 : 4096;
    double one[3], many[3], alone[3], plain[2], smooth[2];
    bs_speed(b_threads, n, b_quick ? 128 : 512, many);
    bs_speed(1, n, 128, alone);
    bs_speed(b_threads, n, 1, one);
    b_verdict("W8A8 / f32 weights, speed, many tokens", many[0], ">", 1.56);
    b_verdict("W8A8 / f16 weights, speed, many tokens", many[1], ">", 1.56);
    b_headline("smoothquant", "SmoothQuant: W8A8 up to 1.56 times the speed of f16, half its memory",
               "a layer of 4096 x 4096, 512 tokens, the conversion of the inputs to bytes included; two threads",
               "%.2f times the product with f16 weights (f32 weights: %.2f, Q8_0: %.2f), half the memory; one token: "
               "%.2f times; 128 tokens on one thread: %.2f",
               many[1], many[0], many[2], one[1], alone[1]);
    plain[0] = bs_lost(ctx, -1, 0);
    plain[1] = bs_lost(ctx, -1, 1);
    smooth[0] = bs_lost(ctx, 0.5, 0);
    smooth[1] = bs_lost(ctx, 0.5, 1);
    b_note("two outlier channels (x30, x20) among 128, W8A8, relative squared error: a scale for each token %.3g, "
           "smoothed by 0.5 %.3g, by 0.75 %.3g, by 0.85 %.3g; one for all %.3g, %.3g, %.3g, %.3g",
           plain[0], smooth[0], bs_lost(ctx, 0.75, 0), bs_lost(ctx, 0.85, 0), plain[1], smooth[1],
           bs_lost(ctx, 0.75, 1), bs_lost(ctx, 0.85, 1));
    b_verdict("outliers, W8A8 by tokens: lost / lost with alpha 0.5", plain[0] / smooth[0], ">", 2);
    b_headline("smoothquant", "SmoothQuant: 8 bits without loss where there are outliers",
               "two channels x30 and x20 among 128, 128 outputs, 512 tokens; relative squared error of the outputs",
               "a scale for each token %.2g, with alpha 0.5 %.2g; one calibrated for all %.2g, with alpha 0.5 %.2g",
               plain[0], smooth[0], plain[1], smooth[1]);
    bs_story(ctx, "examples/models/story.gguf");
    tiny_ctx_close(ctx);
}
