/* bench/llm/flashllm.c - pruned matrices: the product with tiles of compressed lists compared with dense ones, 8 bits
 * and CSR
 *
 * Flash-LLM (arXiv 2309.10285) reports 1.4, 1.7 and 2.1 times the speed of dense products at 70, 80 and 90 % zeros, on
 * tensor cores. Here: 4096 x 4096, 1 to 32 rows of x, 50 to 90 % zeros. Every matrix cycles through copies larger than
 * the last-level cache of this machine, as the layers of a model do; without it the smaller ones would be read from
 * that cache and the dense ones from memory. CSR gets x in its own order at no cost. */
#include "../bench.h"
#include "../peers/peers.h"
#include <stdio.h>
#include <string.h>

enum { WIDE = 4096, SHARES = 5, SIZES = 5, MOST_N = 32 };
enum {
    DENSE_F32 = 0,
    DENSE_F16,
    DENSE_Q8,
    BLAS,
    FLASH,
    IMAGE = FLASH + SHARES,
    ORDERED = IMAGE + SHARES,
    CSR = ORDERED + SHARES,
    ROWS = CSR + SHARES
};
#define RING ((size_t)80 << 20)
static const int b_zeros[SHARES] = { 50, 60, 70, 80, 90 };
static const int b_sizes[SIZES] = { 1, 4, 8, 16, 32 };

typedef struct bf_arg {
    tiny_ctx *ctx;
    const b_peers *peers;
    int kind, n, copies, at;
    unsigned char *ring;
    size_t bytes;
    tllm_csl a;
    tiny_sparse s;
    float *x, *xt, *y;
} bf_arg;

/* numbers of 1 / 64, so that each kind of matrix holds the same; each row draws its own zeros */
static void bf_make(float *w, int zeros)
{
    tiny_rng rng = tiny_rng_make(7, (uint64_t)zeros);
    size_t i;
    for (i = 0; i < (size_t)WIDE * WIDE; i++) {
        const uint32_t draw = tiny_rng_u32(&rng);
        const int v = (int)(draw >> 24) - 128;
        w[i] = (double)(draw & 0xffffffu) < 16777216.0 * zeros / 100.0 ? 0.0f : (float)(v ? v : 1) / 64.0f;
    }
}

static unsigned char *bf_next(bf_arg *b)
{
    b->at = (b->at + 1) % b->copies;
    return b->ring + (size_t)b->at * b->bytes;
}

static void bf_run(void *arg)
{
    bf_arg *b = (bf_arg *)arg;
    const tiny_tensor x = tiny_tensor_2d(b->x, TINY_F32, b->n, WIDE), y = tiny_tensor_2d(b->y, TINY_F32, b->n, WIDE);
    unsigned char *w = bf_next(b);
    if (b->kind == DENSE_F32 || b->kind == DENSE_F16) {
        const tiny_tensor t =
            tiny_tensor_swap(tiny_tensor_2d(w, b->kind == DENSE_F16 ? TINY_F16 : TINY_F32, WIDE, WIDE), 0, 1);
        b_must(b->ctx, tiny_matmul(b->ctx, &x, &t, NULL, TINY_ACT_NONE, &y));
    } else if (b->kind == DENSE_Q8) {
        const tiny_tensor t = tiny_tensor_2d(w, TINY_U8, WIDE, WIDE / 32 * 34);
        b_must(b->ctx, tllm_matmul(b->ctx, &x, TLLM_FORMAT_Q8_0, &t, NULL, &y));
    } else if (b->kind == BLAS) {
        if (b->n == 1)
            b->peers->openblas_sgemv(101, 111, WIDE, WIDE, 1.0f, (const float *)(const void *)w, WIDE, b->x, 1, 0.0f,
                                     b->y, 1);
        else
            b->peers->openblas_sgemm(101, 111, 112, b->n, WIDE, WIDE, 1.0f, b->x, WIDE, (const float *)(const void *)w,
                                     WIDE, 0.0f, b->y, WIDE);
    } else if (b->kind < CSR) {
        tllm_csl a = b->a;
        a.offset = (const int32_t *)(const void *)w;
        a.item = (const uint32_t *)(const void *)(w + ((size_t)(a.down * a.across) + 16) * 4);
        b_must(b->ctx, tllm_flash_matmul_as(b->ctx, &x, &a, b->kind == IMAGE ? TLLM_FLASH_IMAGE : TLLM_FLASH_AUTO, &y));
    } else {
        tiny_sparse s = b->s;
        const tiny_tensor xt = tiny_tensor_2d(b->xt, TINY_F32, WIDE, b->n),
                          yt = tiny_tensor_2d(b->y, TINY_F32, WIDE, b->n);
        s.value = (float *)(void *)w;
        s.col = (int32_t *)(void *)(w + (size_t)s.n * 4);
        b_must(b->ctx, tiny_spmm_csr(b->ctx, &s, &xt, TINY_EDGE_SUM, &yt));
    }
}

/* copies of two pieces, each a multiple of 64 bytes or at the end */
static void bf_ring(bf_arg *b, const void *first, size_t n_first, size_t place, const void *second, size_t n_second)
{
    int c;
    b->bytes = (place + n_second + 63) & ~(size_t)63;
    b->copies = (int)(RING / b->bytes) + 1;
    b->ring = (unsigned char *)b_alloc(b->bytes * (size_t)b->copies);
    for (c = 0; c < b->copies; c++) {
        memcpy(b->ring + (size_t)c * b->bytes, first, n_first);
        if (n_second) memcpy(b->ring + (size_t)c * b->bytes + place, second, n_second);
    }
}

static void bf_matrices(tiny_ctx *ctx, bf_arg *b)
{
    float *w = (float *)b_alloc((size_t)WIDE * WIDE * sizeof *w);
    unsigned char *packed = (unsigned char *)b_alloc((size_t)WIDE * WIDE * 2);
    const tiny_tensor t = tiny_tensor_2d(w, TINY_F32, WIDE, WIDE);
    tiny_sparse_desc csr;
    tllm_csl_desc woven;
    int i;
    memset(&woven, 0, sizeof woven);
    woven.profile = TLLM_CSL_WOVEN;
    memset(&csr, 0, sizeof csr);
    csr.form = TINY_CSR;
    bf_make(w, 0);
    bf_ring(&b[DENSE_F32], w, (size_t)WIDE * WIDE * 4, (size_t)WIDE * WIDE * 4, NULL, 0);
    tllm_format_of(TLLM_FORMAT_F16)->pack(w, packed, (size_t)WIDE * WIDE, NULL);
    bf_ring(&b[DENSE_F16], packed, (size_t)WIDE * WIDE * 2, (size_t)WIDE * WIDE * 2, NULL, 0);
    tllm_format_of(TLLM_FORMAT_Q8_0)->pack(w, packed, (size_t)WIDE * WIDE, NULL);
    bf_ring(&b[DENSE_Q8], packed, (size_t)WIDE * WIDE / 32 * 34, (size_t)WIDE * WIDE / 32 * 34, NULL, 0);
    b[BLAS] = b[DENSE_F32];
    for (i = 0; i < SHARES; i++) {
        bf_arg *f = &b[FLASH + i], *s = &b[CSR + i];
        bf_make(w, b_zeros[i]);
        b_must(ctx, tllm_csl_build(ctx, &t, &woven, &f->a));
        bf_ring(f, f->a.offset, ((size_t)(f->a.down * f->a.across) + 2) * 4,
                ((size_t)(f->a.down * f->a.across) + 16) * 4, f->a.item, f->a.n_item * 4);
        b[IMAGE + i] = *f;
        b_must(ctx, tllm_csl_convert(ctx, &f->a, TLLM_CSL_ORDERED, &b[ORDERED + i].a));
        bf_ring(&b[ORDERED + i], b[ORDERED + i].a.offset, ((size_t)(f->a.down * f->a.across) + 2) * 4,
                ((size_t)(f->a.down * f->a.across) + 16) * 4, b[ORDERED + i].a.item, f->a.n_item * 4);
        b_must(ctx, tiny_sparse_from_dense(ctx, &t, &csr, &s->s));
        bf_ring(s, s->s.value, (size_t)s->s.n * 4, (size_t)s->s.n * 4, s->s.col, (size_t)s->s.n * 4);
    }
    b_free(packed);
    b_free(w);
}

static void bf_contest(bf_arg *args, b_row *rows, int n, int threads)
{
    static const char *const dense[] = { "dense f32", "dense f16", "dense Q8_0", "dense f32" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, threads);
    char title[100];
    int i;
    memset(rows, 0, ROWS * sizeof *rows);
    for (i = 0; i < ROWS; i++) {
        bf_arg *b = &args[i];
        const int share = (i - FLASH) % SHARES;
        b->ctx = ctx;
        b->kind = i < FLASH ? i : i < IMAGE ? FLASH : i < ORDERED ? IMAGE : i < CSR ? ORDERED : CSR;
        b->n = n;
        rows[i].what = i < FLASH     ? dense[i]
                       : i < IMAGE   ? "tiled CSL"
                       : i < ORDERED ? "tiled CSL, image"
                       : i < CSR     ? "tiled CSL, ordered"
                                     : "CSR";
        rows[i].target = i == BLAS                   ? "OpenBLAS"
                         : i < FLASH || i >= CSR     ? tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL))
                         : i >= IMAGE && i < ORDERED ? "image"
                         : tllm_flash_form_of(ctx, &b->a, n) == TLLM_FLASH_DIRECT ? "auto: direct"
                                                                                  : "auto: image";
        rows[i].threads = threads;
        rows[i].limit = B_READ;
        /* its threads were set once */
        rows[i].run = i == BLAS && (threads == 1 || !b->peers->openblas_sgemm) ? NULL : bf_run;
        rows[i].arg = b;
        rows[i].bytes = i == DENSE_F32 || i == BLAS ? 4.0 * WIDE * WIDE
                        : i == DENSE_F16            ? 2.0 * WIDE * WIDE
                        : i == DENSE_Q8             ? 34.0 / 32 * WIDE * WIDE
                        : i < CSR                   ? (double)tllm_csl_bytes(&b->a)
                                                    : 8.0 * (double)b->s.n;
        rows[i].flops = 2.0 * n * (i < FLASH ? (double)WIDE * WIDE : i < CSR ? (double)b->a.n_nonzero : (double)b->s.n);
        if (i < FLASH) b_shape(&rows[i], "%dx%dx%d", n, (int)WIDE, (int)WIDE);
        else b_shape(&rows[i], "%dx%dx%d %d%%", n, (int)WIDE, (int)WIDE, b_zeros[share]);
    }
    (void)snprintf(title, sizeof title, "Pruned matrices of 4096 x 4096, %d row%s of x, %d thread%s", n,
                   n > 1 ? "s" : "", threads, threads > 1 ? "s" : "");
    b_contest(title, rows, ROWS);
    for (i = 0; i < SHARES; i++)
        b_note("%d %% zeros, %d row%s, %d thread%s: dense f16 / tiled CSL %.2f (bytes %.2f), Q8_0 / tiled CSL %.2f, "
               "CSR / tiled CSL %.2f, "
               "image / tiled CSL %.2f, ordered / tiled CSL %.2f, dense f16 / CSR %.2f",
               b_zeros[i], n, n > 1 ? "s" : "", threads, threads > 1 ? "s" : "",
               rows[DENSE_F16].median_ns / rows[FLASH + i].median_ns, rows[DENSE_F16].bytes / rows[FLASH + i].bytes,
               rows[DENSE_Q8].median_ns / rows[FLASH + i].median_ns,
               rows[CSR + i].median_ns / rows[FLASH + i].median_ns,
               rows[IMAGE + i].median_ns / rows[FLASH + i].median_ns,
               rows[ORDERED + i].median_ns / rows[FLASH + i].median_ns,
               rows[DENSE_F16].median_ns / rows[CSR + i].median_ns);
    tiny_ctx_close(ctx);
}

void bench_flashllm(void)
{
    static bf_arg args[ROWS];
    static b_row rows[ROWS];
    const b_peers *peers = b_peers_load(b_threads);
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    float *x = (float *)b_alloc(MOST_N * WIDE * sizeof *x), *y = (float *)b_alloc(MOST_N * WIDE * sizeof *y);
    double at8[SHARES], at1[SHARES], image8[SHARES];
    int i, t, c;
    memset(args, 0, sizeof args);
    bf_matrices(ctx, args);
    for (i = 0; i < ROWS; i++) {
        args[i].peers = peers;
        args[i].x = args[i].xt = x;
        args[i].y = y;
    }
    for (t = b_threads > 1 ? 2 : 1; t >= 1; t--)
        for (c = 0; c < SIZES; c++) {
            const int n = b_sizes[c];
            if (b_quick && n != 1 && n != 8 && n != 32) continue;
            /* one thread for the headline's size only: a contest takes 20 s */
            if (t == 1 && b_threads > 1 && n != 8) continue;
            bf_contest(args, rows, n, t > 1 ? b_threads : 1);
            for (i = 0; i < SHARES && (t > 1 || b_threads == 1); i++) {
                const double over = rows[DENSE_F16].median_ns / rows[FLASH + i].median_ns;
                if (n == 1) at1[i] = over / (rows[DENSE_F16].bytes / rows[FLASH + i].bytes);
                if (n == 8) {
                    at8[i] = over;
                    image8[i] = rows[DENSE_F16].median_ns / rows[IMAGE + i].median_ns;
                }
                if (n == 32 && b_zeros[i] >= 70) {
                    char text[80];
                    (void)snprintf(text, sizeof text, "32 rows, %d %% zeros: dense f16 / tiled CSL", b_zeros[i]);
                    b_verdict(text, over, ">=", 1.0);
                }
            }
        }
    b_verdict("8 rows, 70 % zeros: dense f16 / tiled CSL", at8[2], ">=", 1.3);
    b_verdict("8 rows, 80 % zeros: dense f16 / tiled CSL", at8[3], ">=", 1.7);
    b_verdict("8 rows, 90 % zeros: dense f16 / tiled CSL", at8[4], ">=", 2.0);
    b_verdict("1 row, 80 % zeros: speed over dense f16, of the ratio of bytes", at1[3], ">=", 0.8);
    b_headline("flashllm",
               "Flash-LLM: 1.4, 1.7, 2.1 times the speed of dense products at 70, 80, 90 % zeros (tensor cores)",
               "4096 x 4096, 8 rows of x, all threads, matrices out of cache; dense: f16",
               "%.2f, %.2f, %.2f; computed as dense, as the paper does: %.2f, %.2f, %.2f", at8[2], at8[3], at8[4],
               image8[2], image8[3], image8[4]);
    b_free(x);
    b_free(y);
    for (i = 0; i < ROWS; i++) {
        if (i != BLAS && (i < IMAGE || i >= ORDERED)) b_free(args[i].ring);
        if ((i >= FLASH && i < IMAGE) || (i >= ORDERED && i < CSR)) tllm_csl_free(ctx, &args[i].a);
        if (i >= CSR) tiny_sparse_free(ctx, &args[i].s);
    }
    tiny_ctx_close(ctx);
}
