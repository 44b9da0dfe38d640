/* tests/fuzz/weave.c - any bytes as a file of a weaved store, and any numbers as samples: an accepted store is read by
 * the fast and the plain form
 *
 * The first byte chooses: 0 mod 3 the rest is the file; 1 the rest gives the entries of a valid checkpoint; 2 it is
 * samples. */
#include "tinyllm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tiny_ctx *plain;

typedef struct bytes_of { const uint8_t *p; size_t n; } bytes_of;
static unsigned take(bytes_of *b)
{
    if (!b->n) return 0;
    b->n--;
    return *b->p++;
}
static float number(bytes_of *b)
{
    uint32_t u = take(b);
    float x;
    u |= take(b) << 8;
    u |= take(b) << 16;
    u |= (uint32_t)take(b) << 24;
    memcpy(&x, &u, 4);
    return x;
}

/* bits outside all samples and features become 0 */
static void clear_padding(unsigned char *lines, const tllm_weave *w)
{
    const tiny_idx chunks = (w->n_feature + 63) / 64;
    tiny_idx i, j;
    int k;
    for (i = 0; i < (w->n + 7) / 8 * 8; i++)
        for (j = i < w->n ? w->n_feature : 0; j < 64 * chunks; j++)
            for (k = 0; k < 32; k++)
                lines[(i / 8 * chunks + j / 64) * 2048 + 64 * k + 8 * (i % 8) + j % 64 / 8] &=
                    (unsigned char)~(1 << j % 8);
}

/* every precision and form of the store: plain and fast codes are the same, and nothing is touched outside */
static void use(tiny_ctx *ctx, const tllm_weave *w, unsigned what)
{
    const tiny_idx m = w->n < 12 ? w->n : 12, f = w->n_feature;
    const int bits = 1 + (int)(what % 32);
    uint32_t *a, *b;
    float *v, *y;
    tiny_tensor t;
    tiny_idx i;
    if (f > 600) return;
    a = (uint32_t *)calloc((size_t)(m * f), 4);
    b = (uint32_t *)calloc((size_t)(m * f), 4);
    v = (float *)calloc((size_t)f + 1, 4);
    y = (float *)calloc((size_t)w->n, 4);
    if (!a || !b || !v || !y) abort();
    t = tiny_tensor_2d(a, TINY_I32, m, f);
    if (tllm_weave_read(ctx, w, w->n - m, bits, &t)) abort();
    t.data = b;
    if (tllm_weave_read(plain, w, w->n - m, bits, &t) || memcmp(a, b, (size_t)(m * f) * 4)) abort();
    for (i = 0; i <= f; i++) v[i] = 1.0f;
    if (tllm_weave_dot(ctx, w, w->n - m, m, bits, (int)(what / 32 % 4), v, y)) abort();
    for (i = 0; i < m; i++) if (!(y[i] >= 0.0f && y[i] <= (float)f * 1.001f)) abort();
    if (w->n <= 64) {
        tllm_weave_sgd_desc d;
        tllm_weave_state s, s2;
        tllm_weave clean = *w;
        unsigned char *lines = (unsigned char *)malloc(w->n_bytes);
        float *v2 = (float *)malloc(((size_t)f + 1) * 4);
        tiny_status st;
        if (!lines || !v2) abort();
        memcpy(lines, w->lines, w->n_bytes);
        clear_padding(lines, w);
        clean.lines = lines;
        memcpy(v2, v, ((size_t)f + 1) * 4);
        memset(&d, 0, sizeof d);
        memset(&s, 0, sizeof s);
        memset(&s2, 0, sizeof s2);
        for (i = 0; i < w->n; i++) y[i] = (float)(i % 2);
        d.task = (int)(what / 5 % 2);
        d.bits = bits;
        d.batch = 1 + (tiny_idx)(what % 20);
        d.midpoint = (int)(what / 7 % 2);
        d.intercept = (int)(what / 3 % 2);
        d.average = what % 11 == 0;
        d.loss = 1;
        st = tllm_weave_epoch(ctx, w, y, &d, &s, v);
        if (st && !*tiny_ctx_message(ctx)) abort();
        if (tllm_weave_epoch(ctx, &clean, y, &d, &s2, v2) != st || memcmp(v, v2, ((size_t)f + 1) * 4) ||
            memcmp(&s.loss, &s2.loss, sizeof s.loss))
            abort();
        free(lines);
        free(v2);
    }
    free(a);
    free(b);
    free(v);
    free(y);
}

static unsigned char file[1 << 16];
static size_t file_n;
static int keep(void *user, const void *bytes, size_t n)
{
    (void)user;
    if (n > sizeof file - file_n) return 1;
    memcpy(file + file_n, bytes, n);
    file_n += n;
    return 0;
}

static void target(tiny_ctx *ctx, const uint8_t *data, size_t size)
{
    static float room[4096];
    bytes_of b = { data, size };
    const unsigned how = take(&b), what = take(&b) | take(&b) << 8;
    tllm_weave w;
    tiny_status st;
    if (!plain) {
        tiny_ctx_desc d;
        memset(&d, 0, sizeof d);
        d.target = TINY_TARGET_REFERENCE;
        d.n_threads = 1;
        if (tiny_ctx_open(&d, &plain)) abort();
    }
    if (how % 3 == 0) st = tllm_weave_load_bytes(ctx, b.p, b.n, &w);
    else if (how % 3 == 1) {
        static const char *const name[8] = { "what", "samples", "features", "low", "high", "label", "lines", "other" };
        tiny_checkpoint_writer_desc d;
        tiny_checkpoint_writer *c;
        memset(&d, 0, sizeof d);
        d.write = keep;
        file_n = 0;
        if (tiny_checkpoint_create(ctx, &d, &c)) abort();
        while (b.n) {
            const unsigned kind = take(&b);
            const char *at = name[kind % 8];
            size_t i;
            if (kind % 8 == 0) (void)tiny_checkpoint_put_text(ctx, c, at, kind & 64 ? "weave 2" : "weave 1");
            else if (kind % 8 < 3) {
                uint64_t v = take(&b);
                for (i = 0; i < (kind >> 6) * 2u; i++) v = v << 8 | take(&b);
                (void)tiny_checkpoint_put_u64(ctx, c, at, v);
            } else {
                const tiny_idx n = kind % 8 == 6 ? 2048 * (tiny_idx)(1 + take(&b) % 8) : 1 + (tiny_idx)take(&b);
                tiny_tensor t = tiny_tensor_1d(room, kind % 8 == 6 ? TINY_U8 : kind & 128 ? TINY_I32 : TINY_F32, n);
                memset(room, (int)(kind & 64 ? 255 : kind & 32 ? take(&b) : kind % 8 == 4), sizeof room);
                (void)tiny_checkpoint_put_tensor(ctx, c, at, &t);
            }
        }
        st = tiny_checkpoint_finish(ctx, c);
        tiny_checkpoint_writer_close(ctx, c);
        if (st) return;                     /* a name twice, or more than there is room for */
        st = tllm_weave_load_bytes(ctx, file, file_n, &w);
    } else {
        const tiny_idx f = 1 + (tiny_idx)(what % 140), n = 1 + (tiny_idx)(b.n / 4) / f;
        tiny_tensor x = tiny_tensor_2d(room, TINY_F32, n, f);
        tiny_idx i;
        if (n * f > 4096) return;
        for (i = 0; i < n * f; i++) room[i] = number(&b);
        st = tllm_weave_make(ctx, &x, &w);
    }
    if (st) {
        if (!*tiny_ctx_message(ctx) || w.lines || w.block || w.file) abort();
        return;
    }
    use(ctx, &w, what);
    tllm_weave_close(ctx, &w);
}

#define FUZZ_NAME "weave"
#define FUZZ_CTX_EACH 1                     /* products leave their scratch with the context */
#include "engine.h"
