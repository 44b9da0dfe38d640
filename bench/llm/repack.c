/* bench/llm/repack.c - one row of activations times weights in memory, in the blocks of each format and with eight rows
 * interleaved
 *
 * Decoding reads every weight once for a token, so the limit is how fast the machine reads. Each matrix is larger than
 * the last-level cache; next to it, in turn with the products, a plain stream reads the same bytes from several places
 * at once. The verdicts divide by its rate in the same rounds. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { BR_WIDE = 2048 };
#ifndef BR_QUICK
#define BR_QUICK 4                          /* formats of a quick run */
#endif
typedef struct br_arg {
    tiny_ctx *ctx;
    int format;
    const unsigned char *w;
    tiny_idx high;
    size_t bytes;
    float *x, *y;
} br_arg;

static void br_multiply(void *arg)
{
    const br_arg *a = (const br_arg *)arg;
    const tiny_tensor x = tiny_tensor_2d(a->x, TINY_F32, 1, BR_WIDE), y = tiny_tensor_2d(a->y, TINY_F32, 1, a->high);
    tiny_tensor w;
    if (a->format == TLLM_FORMAT_F16) {
        w = tiny_tensor_2d((void *)(uintptr_t)a->w, TINY_F16, a->high, BR_WIDE);
        w = tiny_tensor_swap(w, 0, 1);
        b_must(a->ctx, tiny_matmul(a->ctx, &x, &w, NULL, TINY_ACT_NONE, &y));
        return;
    }
    w = tiny_tensor_2d((void *)(uintptr_t)a->w, TINY_U8, a->high, (tiny_idx)(a->bytes / (size_t)a->high));
    b_must(a->ctx, tllm_matmul(a->ctx, &x, a->format, &w, NULL, &y));
}
static void br_read(void *arg)
{
    const br_arg *a = (const br_arg *)arg;
    b_stream(a->ctx, a->w, a->bytes);
}

/* rows of weights of which sixteen were packed, so that filling them takes no longer than measuring */
static void br_fill(const tllm_format *f, unsigned char *w, tiny_idx high, const float *x)
{
    const size_t row = tllm_format_bytes(f, BR_WIDE);
    tiny_idx i;
    for (i = 0; i < high; i++)
        if (i < 16) f->pack(x + i * BR_WIDE, w + (size_t)i * row, BR_WIDE, NULL);
        else memcpy(w + (size_t)i * row, w + (size_t)((i * 7 + i / 16) % 16) * row, row);
}

static void br_format(const char *name, size_t size, float *x, int threads)
{
    static br_arg a[3];
    static b_row rows[3];
    const tllm_format *f = tllm_format_by_name(name);
    const size_t row = tllm_format_bytes(f, BR_WIDE);
    const tiny_idx high = (tiny_idx)(size / row) / 32 * 32;
    const size_t bytes = (size_t)high * row;
    unsigned char *w = (unsigned char *)b_alloc(bytes), *e = NULL;
    float *y = (float *)b_alloc((size_t)high * sizeof *y);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, threads);
    char title[100], text[100];
    int i, n = 2;
    memset(rows, 0, sizeof rows);
    br_fill(f, w, high, x);
    if (tllm_repack_has(ctx, f->id) == 2) {
        e = (unsigned char *)b_alloc(bytes);
        b_must(ctx, tllm_repack(ctx, f->id, w, high, BR_WIDE, e));
        n = 3;
    }
    for (i = 0; i < n; i++) {
        a[i].ctx = ctx;
        a[i].format = i == 2 ? f->id | TLLM_REPACKED : f->id;
        a[i].w = i == 2 ? e : w;
        a[i].high = high;
        a[i].bytes = bytes;
        a[i].x = x;
        a[i].y = y;
        rows[i].what = i ? f->name : "reading";
        rows[i].target = i == 2 ? "repacked" : i ? "in place" : "four places";
        rows[i].threads = threads;
        rows[i].limit = B_READ;
        rows[i].flops = i ? 2.0 * (double)high * BR_WIDE : 0.0;
        rows[i].bytes = (double)bytes;
        rows[i].run = i ? br_multiply : br_read;
        rows[i].arg = &a[i];
        b_shape(&rows[i], "1x%dx%d", (int)BR_WIDE, (int)high);
    }
    (void)snprintf(title, sizeof title, "One row of activations, weights in memory: %s, %d thread%s", f->name, threads,
                   threads > 1 ? "s" : "");
    b_contest(title, rows, n);
    for (i = 1; i < n; i++) {
        (void)snprintf(text, sizeof text, "%s %s, of reading in the same rounds", f->name, rows[i].target);
        b_verdict(text, rows[0].median_ns / rows[i].median_ns, ">=", 0.9);
    }
    tiny_ctx_close(ctx);
    b_free(e);
    b_free(y);
    b_free(w);
}

void bench_repack(void)
{
    static const char *const names[] = { "Q4_0", "Q8_0",   "Q4_K",   "Q6_K", "Q5_0", "Q4_1",  "Q5_1", "Q5_K",
                                         "F16",  "IQ4_NL", "IQ4_XS", "Q2_K", "Q3_K", "MXFP4", "TQ2_0" };
    const size_t size = (size_t)128 << 20;  /* beyond the caches of most processors */
    float *x = (float *)b_alloc((size_t)16 * BR_WIDE * sizeof *x);
    const size_t n = b_quick ? BR_QUICK : sizeof names / sizeof *names;
    size_t i;
    int t;
    for (i = 0; i < n; i++)
        for (t = 1; t <= (b_quick || b_threads < 2 ? 1 : 2); t++) br_format(names[i], size, x, t);
    b_free(x);
}
