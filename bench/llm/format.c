/* bench/llm/format.c - how fast are numbers packed into blocks, unpacked, and multiplied in place?
 *
 * One thread. A row counts the floats, four bytes each, next to the copy speed of this machine. The numbers are in the
 * second-level cache, as when a product unpacks its rows. Products: one row of activations and 64 rows of weights in
 * each format, compared with a plain loop: unpack a row, multiply floats. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { BF_N = 65536 };
typedef struct bf_arg { const tllm_format *f; float *x; void *q; } bf_arg;

static void bf_unpack(void *arg) { const bf_arg *a = (const bf_arg *)arg; a->f->unpack(a->q, a->x, BF_N); }
static void bf_pack(void *arg) { const bf_arg *a = (const bf_arg *)arg; a->f->pack(a->x, a->q, BF_N, NULL); }
static void bf_copy(void *arg) { const bf_arg *a = (const bf_arg *)arg; memcpy(a->q, a->x, BF_N * sizeof *a->x); }

enum { BF_WIDE = 1024, BF_HIGH = BF_N / BF_WIDE };
typedef struct bf_product { tiny_ctx *ctx; const tllm_format *f; void *q; float *x, *y, *row; } bf_product;
static void bf_multiply(void *arg)
{
    bf_product *a = (bf_product *)arg;
    const tiny_tensor x = tiny_tensor_2d(a->x, TINY_F32, 1, BF_WIDE), y = tiny_tensor_2d(a->y, TINY_F32, 1, BF_HIGH);
    const tiny_tensor w = tiny_tensor_2d(a->q, TINY_U8, BF_HIGH, (tiny_idx)tllm_format_bytes(a->f, BF_WIDE));
    b_must(a->ctx, tllm_matmul(a->ctx, &x, a->f->id, &w, NULL, &y));
}
static void bf_unpack_multiply(void *arg)
{
    bf_product *a = (bf_product *)arg;
    const size_t bytes = tllm_format_bytes(a->f, BF_WIDE);
    int r, i;
    for (r = 0; r < BF_HIGH; r++) {
        float sum[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
        a->f->unpack((unsigned char *)a->q + (size_t)r * bytes, a->row, BF_WIDE);
        for (i = 0; i < BF_WIDE; i++) sum[i % 8] += a->row[i] * a->x[i];
        a->y[r] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    }
}

static void bf_hill(float *x)               /* sums of two even distributions, about as weights are */
{
    uint32_t i, u;
    for (i = 0; i < BF_N; i++) {
        u = i * 2654435761u;
        x[i] = (float)((u >> 22) + (u >> 11 & 1023)) / 512.0f - 2.0f;
    }
}

/* a holds the same numbers in up to n formats */
static void bf_products(const bf_arg *a, int n, const float *x)
{
    enum { MOST = 40 };
    static bf_product p[MOST];
    static b_row rows[2 * MOST];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, 1);
    float *row = (float *)b_alloc(BF_WIDE * sizeof *row), *in = (float *)b_alloc(BF_WIDE * sizeof *in),
          *y = (float *)b_alloc(BF_HIGH * sizeof *y);
    int k, way, count = 0;
    memset(rows, 0, sizeof rows);
    memcpy(in, x, BF_WIDE * sizeof *in);
    for (k = 0; k < n; k++) {
        if (!a[k].f || a[k].f->flags & TLLM_FORMAT_PLAIN) continue;
        p[k].ctx = ctx;
        p[k].f = a[k].f;
        p[k].q = a[k].q;
        p[k].x = in;
        p[k].y = y;
        p[k].row = row;
        for (way = 0; way < 2; way++) {
            b_row *r = &rows[count++];
            r->what = a[k].f->name;
            r->target = way ? "unpacked" : tiny_target_name(tiny_ctx_target(ctx));
            r->threads = 1;
            r->limit = B_READ;
            r->flops = 2.0 * BF_N;
            r->bytes = (double)tllm_format_bytes(a[k].f, BF_N);
            r->run = way ? bf_unpack_multiply : bf_multiply;
            r->arg = &p[k];
            b_shape(r, "1x%dx%d", (int)BF_WIDE, (int)BF_HIGH);
        }
    }
    b_contest("Block formats, one row of activations", rows, count);
    tiny_ctx_close(ctx);
}

void bench_format(void)
{
    enum { MOST = 40 };
    static bf_arg a[MOST];
    static b_row rows[2][MOST];
    float *x = (float *)b_alloc(BF_N * sizeof *x);
    int n[2] = { 0, 0 }, k, way;
    memset(rows, 0, sizeof rows);
    bf_hill(x);
    for (k = -1; k < MOST - 1; k++) {
        const tllm_format *f = k < 0 ? NULL : tllm_format_at((size_t)k);
        if (k >= 0 && (!f || !f->pack)) { if (!f) break; continue; }
        a[k + 1].f = f;
        a[k + 1].x = x;
        a[k + 1].q = b_alloc(f ? tllm_format_bytes(f, BF_N) : BF_N * sizeof *x);
        if (f) f->pack(x, a[k + 1].q, BF_N, NULL);
        for (way = 0; way < 2; way++) {
            b_row *r = &rows[way][n[way]++];
            r->what = f ? f->name : "copy";
            r->target = f ? way ? "pack" : "unpack" : "memcpy";
            r->threads = 1;
            r->limit = B_COPY;
            r->bytes = BF_N * sizeof *x;
            r->run = !f ? bf_copy : way ? bf_pack : bf_unpack;
            r->arg = &a[k + 1];
            b_shape(r, "%d floats", (int)BF_N);
        }
    }
    b_contest("Block formats, packed to floats", rows[0], n[0]);
    bf_hill(x);                             /* unpacking wrote over it */
    b_contest("Block formats, floats to packed", rows[1], n[1]);
    bf_products(a, MOST, x);
}
