/* tests/fuzz/vptq.c - any bytes as a matrix of vectors of code books; an accepted matrix is expanded, multiplied in
 * every form, and compared with the plain form
 *
 * The first byte chooses: bit 0 the checksum is corrected first, bit 1 the number of bytes in the head too, bits 2 and
 * 3 the use of a refused matrix: through tiny_run, which does not check codes. The rest is the file. After a change of
 * the format the corpus is written anew:
 *
 *     cc -std=c99 -DVPTQ_CORPUS -DTINYLLM_ALL -DTINYLLM_IMPLEMENTATION -I. -Itests -Itests/fuzz tests/fuzz/vptq.c -o
 *     build/vptq-corpus -pthread -lm build/vptq-corpus tests/fuzz/corpus/vptq */
#include "tinyllm.h"
#include "boxed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef VPTQ_CORPUS
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int rows, n, v, k, k2, v0, k0, groups, normalize;
        float outliers;
    } all[] = { { "one", 13, 40, 4, 16, 0, 0, 0, 1, 0, 0 },      { "odd-book", 10, 33, 3, 11, 5, 0, 0, 1, 0, 0 },
                { "normalized", 9, 20, 8, 4, 0, 0, 0, 1, 1, 0 }, { "groups", 12, 30, 6, 8, 4, 0, 0, 3, 0, 0 },
                { "apart", 16, 41, 8, 16, 0, 4, 9, 2, 1, 10 },   { "sixteen", 32, 12, 16, 3, 2, 0, 0, 1, 0, 0 } };
    tiny_ctx *ctx;
    size_t i;
    if (argc != 2 || tiny_ctx_open(NULL, &ctx)) return 2;
    for (i = 0; i < sizeof all / sizeof all[0]; i++) {
        tllm_vptq_desc d;
        tllm_vptq q;
        char path[500];
        FILE *f;
        memset(&d, 0, sizeof d);
        d.v = all[i].v;
        d.k = all[i].k;
        d.k2 = all[i].k2;
        d.v0 = all[i].v0;
        d.k0 = all[i].k0;
        d.groups = all[i].groups;
        d.normalize = all[i].normalize;
        d.outliers = all[i].outliers;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], all[i].name);
        if (tllm_vptq_random(ctx, &d, all[i].rows, all[i].n, i, &q)) abort();
        f = fopen(path, "wb");
        if (!f || fputc(3, f) == EOF || fwrite(q.bytes, 1, q.n_bytes, f) != q.n_bytes || fclose(f)) abort();
        if (i % 2) {                        /* every other one in a box too */
            tiny_file in;
            (void)snprintf(path, sizeof path, "%s/box-%s", argv[1], all[i].name);
            if (tllm_vptq_save(ctx, &q, "build/vptq-corpus.tmp") || tiny_file_open(ctx, "build/vptq-corpus.tmp", &in))
                abort();
            f = fopen(path, "wb");
            if (!f || fputc(1, f) == EOF || fwrite(in.bytes, 1, in.n_bytes, f) != in.n_bytes || fclose(f)) abort();
            tiny_file_close(ctx, &in);
        }
        tllm_vptq_close(ctx, &q);
    }
    tiny_ctx_close(ctx);
    return 0;
}
#else
static uint64_t number_at(const unsigned char *p, int n)
{
    uint64_t x = 0;
    while (n--) x = x << 8 | p[n];
    return x;
}

enum { MOST = 2048 };
static float x[3 * MOST], y[3 * MOST], z[3 * MOST], row[MOST];
static tiny_ctx *plain, *fast;

/* every form, and the plain one; finite: nothing in it is anything else */
static void multiply(const tllm_vptq *q, int finite)
{
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 3, q->n), ty = tiny_tensor_2d(y, TINY_F32, 3, q->rows),
                      tz = tiny_tensor_2d(z, TINY_F32, 3, q->rows);
    tiny_idx i;
    int form;
    const tiny_status st = tllm_vptq_matmul(plain, &tx, q, &tz);
    for (form = 0; form < TLLM_VPTQ_FORMS; form++) {
        if (tllm_vptq_matmul_as(fast, &tx, q, (tllm_vptq_form)form, &ty) != st) abort();
        for (i = 0; !st && finite && i < 3 * q->rows; i++) {
            const double off = (double)y[i] - (double)z[i],
                         room = 1e-4 * (double)q->n * (65504.0 * 65504.0 * 2 + 65504.0);
            if (!(off <= room && off >= -room)) abort();
        }
    }
    if (st && !*tiny_ctx_message(plain)) abort();
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static unsigned char room[1 << 18];
    const size_t n = size - 1;
    tllm_vptq q;
    tiny_idx i;
    if (size < 1 || size > sizeof room) return;
    if (!plain) {
        tiny_ctx_desc d;
        memset(&d, 0, sizeof d);
        d.n_threads = 1;
        if (tiny_ctx_open(&d, &fast)) abort();
        d.target = TINY_TARGET_REFERENCE;
        if (tiny_ctx_open(&d, &plain)) abort();
        for (i = 0; i < 3 * MOST; i++) x[i] = (float)((int)(i * 37 % 101) - 50) / 64.0f;
    }
    memcpy(room, data + 1, n);
    if (data[0] & 2 && n >= 88 && room[0] == 'T')
        for (i = 0; i < 8; i++) room[64 + i] = (unsigned char)((uint64_t)n >> 8 * i);
    if (data[0] & 1) reseal(room, n, 4, 1);
    if (tllm_vptq_open(ctx, room, n, &q)) {
        if (!*tiny_ctx_message(ctx) || q.bytes || q.block) abort();
        if (!(data[0] & 12) || n < 88) return;
        q.bytes = room;                     /* random codes and books, with the head as it is */
        q.n_bytes = n;
        q.rows = (tiny_idx)(number_at(room + 16, 8) & 0x7fffffff);
        q.n = (tiny_idx)(number_at(room + 24, 8) & 0x7fffffff);
        if (q.rows <= MOST && q.n <= MOST) multiply(&q, 0);
        return;
    }
    if (q.n > MOST || q.rows > MOST) return;
    if (tllm_vptq_expand(fast, &q, q.rows - 1, 1, row, q.n)) abort();
    for (i = 0; i < q.n; i++)
        if (row[i] - row[i] != 0.0f) abort();       /* everything that was taken is finite */
    multiply(&q, 1);
    tllm_vptq_close(ctx, &q);
}

#define FUZZ_NAME "vptq"
#include "engine.h"
#endif
