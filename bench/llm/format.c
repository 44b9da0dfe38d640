/* bench/llm/format.c - how fast are numbers packed into blocks, and taken out again?
 *
 * One thread. A row counts the floats, four bytes each, beside the speed at which this machine copies; the numbers lie in the
 * second-level cache, as they do where a product unpacks its rows.                                                       */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { BF_N = 65536 };
typedef struct bf_arg { const tllm_format *f; float *x; void *q; } bf_arg;

static void bf_unpack(void *arg) { const bf_arg *a = (const bf_arg *)arg; a->f->unpack(a->q, a->x, BF_N); }
static void bf_pack(void *arg) { const bf_arg *a = (const bf_arg *)arg; a->f->pack(a->x, a->q, BF_N, NULL); }
static void bf_copy(void *arg) { const bf_arg *a = (const bf_arg *)arg; memcpy(a->q, a->x, BF_N * sizeof *a->x); }

static void bf_hill(float *x)               /* sums of two even distributions, about as weights are */
{
    uint32_t i, u;
    for (i = 0; i < BF_N; i++) {
        u = i * 2654435761u;
        x[i] = (float)((u >> 22) + (u >> 11 & 1023)) / 512.0f - 2.0f;
    }
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
}
