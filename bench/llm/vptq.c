/* bench/llm/vptq.c - weights as vectors of code books: the product compared with dense ones and block formats, and the
 * loss of 2 bits
 *
 * VPTQ (arXiv 2409.17066) reports 39.9 tokens a second for a 7B model in 2 bits (38.3 in f16), a perplexity of 6.13
 * (5.12 in f16), and 50.75 for GPTQ at 2.125 bits. Here: one row of x times matrices of 4096 x 4096, whose books and
 * codes are random (the time does not depend on the value of a code); every matrix cycles through copies larger than
 * the last-level cache, as the layers of a model do. And the story model with its matrices in about two bits. */
#include "grids.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BV_F16, BV_Q4, BV_Q2K, BV_V6, BV_V8, BV_V6R, BV_V12R, BV_KINDS };
#define BV_RING ((size_t)64 << 20)
static const struct { const char *what; int v, k, k2;
} bv_kinds[BV_KINDS] = { { "dense f16", 0, 0, 0 },
                         { "Q4_0", 0, 0, 0 },
                         { "Q2_K", 0, 0, 0 },
                         { "vptq 6, 4096", 6, 4096, 0 },
                         { "vptq 8, 256", 8, 256, 0 },
                         { "vptq 6, 4096+4096", 6, 4096, 4096 },
                         { "vptq 12, 4096+4096", 12, 4096, 4096 } };

typedef struct bv_arg {
    tiny_ctx *ctx;
    int kind, form, copies, at, tokens;
    tiny_idx rows, n;
    unsigned char *ring;
    size_t bytes, step;
    tllm_vptq q;
    double bits;
    float *x, *y;
} bv_arg;

static void bv_run(void *p)
{
    bv_arg *b = (bv_arg *)p;
    const tiny_tensor x = tiny_tensor_2d(b->x, TINY_F32, b->tokens, b->n),
                      y = tiny_tensor_2d(b->y, TINY_F32, b->tokens, b->rows);
    unsigned char *w;
    b->at = (b->at + 1) % b->copies;
    w = b->ring + (size_t)b->at * b->step;
    if (b->kind == BV_F16) {
        const tiny_tensor t = tiny_tensor_swap(tiny_tensor_2d(w, TINY_F16, b->rows, b->n), 0, 1);
        b_must(b->ctx, tiny_matmul(b->ctx, &x, &t, NULL, TINY_ACT_NONE, &y));
    } else if (b->kind < BV_V6) {
        const int id = b->kind == BV_Q4 ? TLLM_FORMAT_Q4_0 : TLLM_FORMAT_Q2_K;
        const tiny_tensor t =
            tiny_tensor_2d(w, TINY_U8, b->rows, (tiny_idx)tllm_format_bytes(tllm_format_of(id), (uint64_t)b->n));
        b_must(b->ctx, tllm_matmul(b->ctx, &x, id, &t, NULL, &y));
    } else {
        tllm_vptq q = b->q;
        q.bytes = w;
        b_must(b->ctx, tllm_vptq_matmul_as(b->ctx, &x, &q, (tllm_vptq_form)b->form, &y));
    }
}

static void bv_make(tiny_ctx *ctx, bv_arg *b, int kind, tiny_idx rows, tiny_idx n)
{
    enum { SOME = 32 };
    tllm_vptq_desc d;
    int c;
    memset(b, 0, sizeof *b);
    memset(&d, 0, sizeof d);
    b->kind = kind;
    b->rows = rows;
    b->n = n;
    if (kind >= BV_V6) {
        d.v = bv_kinds[kind].v;
        d.k = bv_kinds[kind].k;
        d.k2 = bv_kinds[kind].k2;
        b_must(ctx, tllm_vptq_rate(ctx, &d, rows, n, &b->bits, &b->bytes));
        b_must(ctx, tllm_vptq_random(ctx, &d, rows, n, 7, &b->q));
    } else {
        b->bytes = kind == BV_F16
                       ? 2 * (size_t)(rows * n)
                       : tllm_format_bytes(tllm_format_of(kind == BV_Q4 ? TLLM_FORMAT_Q4_0 : TLLM_FORMAT_Q2_K),
                                           (uint64_t)(rows * n));
        b->bits = 8.0 * (double)b->bytes / (double)(rows * n);
    }
    b->step = (b->bytes + 63) & ~(size_t)63;
    b->copies = (int)(BV_RING / b->step) + 1;
    b->ring = (unsigned char *)b_alloc(b->step * (size_t)b->copies);
    if (kind >= BV_V6) memcpy(b->ring, b->q.bytes, b->bytes);
    else {                                  /* some rows, again and again */
        float *w = (float *)b_alloc((size_t)(SOME * n) * sizeof *w);
        const tllm_format *f = tllm_format_of(kind == BV_F16  ? TLLM_FORMAT_F16
                                              : kind == BV_Q4 ? TLLM_FORMAT_Q4_0
                                                              : TLLM_FORMAT_Q2_K);
        const size_t part = tllm_format_bytes(f, (uint64_t)(SOME * n));
        tiny_rng rng = tiny_rng_make(3, 1);
        size_t at;
        tiny_rng_fill_normal(&rng, w, (size_t)(SOME * n));
        f->pack(w, b->ring, (size_t)(SOME * n), NULL);
        for (at = part; at < b->bytes; at += part)
            memcpy(b->ring + at, b->ring, b->bytes - at < part ? b->bytes - at : part);
        b_free(w);
    }
    for (c = 1; c < b->copies; c++) memcpy(b->ring + (size_t)c * b->step, b->ring, b->bytes);
    tllm_vptq_close(ctx, &b->q);
    b->q.rows = rows;
    b->q.n = n;
    b->q.n_bytes = b->bytes;
}

static void bv_contest(const char *title, bv_arg *const *list, b_row *rows, int n, int tokens, int threads, float *x,
                       float *y)
{
    static const char *const forms[] = { "auto", "gather", "bucket", "expand" };
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, threads);
    int i;
    memset(rows, 0, (size_t)n * sizeof *rows);
    for (i = 0; i < n; i++) {
        bv_arg *b = list[i];
        b->ctx = ctx;
        b->tokens = tokens;
        b->x = x;
        b->y = y;
        rows[i].what = bv_kinds[b->kind].what;
        rows[i].target = b->kind < BV_V6 ? tiny_target_name(tiny_op_target(ctx, TINY_OP_MATMUL)) : forms[b->form];
        rows[i].threads = threads;
        rows[i].limit = tokens > 1 ? B_F32 : B_READ;
        rows[i].bytes = (double)b->bytes;
        rows[i].flops = 2.0 * (double)(b->rows * b->n) * tokens;
        rows[i].run = bv_run;
        rows[i].arg = b;
        b_shape(&rows[i], "%dx%dx%d %.2fb", tokens, (int)b->rows, (int)b->n, b->bits);
    }
    b_contest(title, rows, n);
    tiny_ctx_close(ctx);
}

/* ---- the story model --------------------------------------------------------------------------------------------- */

enum { BV_FULL, BV_RTN, BV_GPTQ, BV_VPTQ };

/* one matrix, in place; bits that it takes */
static double bv_matrix(tiny_ctx *ctx, int how, int grid_bits, const tllm_vptq_desc *vd, const tllm_calib *c, float *w,
                        tiny_idx rows, tiny_idx n)
{
    const tiny_tensor h = tllm_calib_products(c);
    tllm_plain_sizes size;
    tllm_gptq_desc d;
    tllm_plain q;
    if (how == BV_VPTQ) {
        tllm_vptq v;
        double bits;
        b_must(ctx, tllm_vptq_quantize(ctx, vd, w, rows, n, &h, &v, NULL));
        b_must(ctx, tllm_vptq_expand(ctx, &v, 0, rows, w, n));
        bits = 8.0 * (double)v.n_bytes;
        tllm_vptq_close(ctx, &v);
        return bits;
    }
    memset(&d, 0, sizeof d);
    d.grid.kind = TLLM_PLAIN_ASYM;
    d.grid.group = 64;
    d.grid.bits = grid_bits;
    d.grid.clip = 75;
    b_must(ctx, tllm_plain_size(ctx, &d.grid, rows, n, &size));
    q.code = (uint8_t *)b_alloc(size.codes);
    q.scale = (uint16_t *)b_alloc(2 * size.scales);
    q.zero = (uint8_t *)b_alloc(size.scales);
    if (how == BV_GPTQ) b_must(ctx, tllm_gptq(ctx, &d, w, rows, n, &h, &q, NULL));
    else b_must(ctx, tllm_plain_round(ctx, &d.grid, w, rows, n, NULL, &q));
    b_must(ctx, tllm_plain_expand(ctx, &d.grid, &q, rows, n, w));
    b_free(q.code);
    b_free(q.scale);
    b_free(q.zero);
    return (double)size.codes * grid_bits + (double)size.scales * (16 + grid_bits);
}

/* bits a token above the floor of the language; *rate: bits a weight, all counted */
static double bv_judged(tiny_ctx *ctx, const tllm_gguf *g, const tllm_watch *watch, int how, int grid_bits,
                        const tllm_vptq_desc *vd, double *rate)
{
    tllm_gguf *made = NULL;
    tllm_model *model = NULL, *from = NULL;
    tllm_writer *out = NULL;
    tllm_writer_desc wd;
    tllm_judge_desc jd;
    tllm_judgement j;
    double bits = 0, weights = 0;
    size_t i, bytes;
    memset(&wd, 0, sizeof wd);
    memset(&jd, 0, sizeof jd);
    jd.stories = b_quick ? 100 : 300;
    jd.samples = jd.greedy = -1;
    b_must(ctx, tllm_writer_open(ctx, &wd, &out));
    for (i = 0; i < tllm_gguf_n_meta(g); i++) b_must(ctx, tllm_writer_put_meta(ctx, out, tllm_gguf_meta_at(g, i)));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        b_must(ctx, tllm_writer_put_tensor(ctx, out, t->name, bg_is_matrix(t) ? TLLM_FORMAT_F32 : t->type, t->rank,
                                           t->dim, NULL));
    }
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const tiny_idx n = (tiny_idx)t->dim[0], rows = (tiny_idx)t->dim[1];
        float *w;
        if (!bg_is_matrix(t)) { b_must(ctx, tllm_writer_data(ctx, out, t->data, t->bytes)); continue; }
        w = (float *)b_alloc((size_t)(rows * n) * sizeof *w);
        tllm_format_of(t->type)->unpack(t->data, w, (size_t)(rows * n));
        if (how != BV_FULL) bits += bv_matrix(ctx, how, grid_bits, vd, tllm_watch_of(watch, t, 0), w, rows, n);
        weights += (double)(rows * n);
        b_must(ctx, tllm_writer_data(ctx, out, w, (size_t)(rows * n) * sizeof *w));
        b_free(w);
    }
    b_must(ctx, tllm_writer_finish(ctx, out));
    {
        const void *memory = tllm_writer_memory(out, &bytes);
        b_must(ctx, tllm_gguf_open_memory(ctx, memory, bytes, &made));
    }
    b_must(ctx, tllm_model_open(ctx, made, &model));
    b_must(ctx, tllm_model_open(ctx, g, &from));
    b_must(ctx, tllm_judge(ctx, model, from, &jd, &j));
    tllm_model_close(ctx, from);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, made);
    tllm_writer_close(ctx, out);
    *rate = bits / weights;
    if (how != BV_FULL)
        b_note("%s in %.2f bits: %.4f bits a token lost, 95 of 100 samples of the stories %.4f to %.4f",
               how == BV_VPTQ   ? "VPTQ"
               : how == BV_GPTQ ? "GPTQ"
                                : "RTN",
               *rate, j.bits - j.base_bits, j.lost_low, j.lost_high);
    return j.bits - j.floor;
}

static void bv_story(tiny_ctx *ctx)
{
    static const char path[] = "examples/models/story.gguf";
    tllm_vptq_desc d;
    tllm_watch *watch;
    tllm_gguf *g = NULL;
    double full, loss[6], rate[6];
    if (tllm_gguf_open(ctx, path, &g)) { b_note("%s", tiny_ctx_message(ctx)); return; }
    watch = bg_watch(ctx, g);
    memset(&d, 0, sizeof d);
    d.v = 4;
    d.k = 256;
    full = bv_judged(ctx, g, watch, BV_FULL, 0, NULL, &rate[0]);
    loss[0] = bv_judged(ctx, g, watch, BV_VPTQ, 0, &d, &rate[0]);
    loss[1] = bv_judged(ctx, g, watch, BV_RTN, 2, NULL, &rate[1]);
    loss[2] = bv_judged(ctx, g, watch, BV_GPTQ, 2, NULL, &rate[2]);
    loss[3] = bv_judged(ctx, g, watch, BV_RTN, 3, NULL, &rate[3]);
    loss[4] = bv_judged(ctx, g, watch, BV_GPTQ, 3, NULL, &rate[4]);
    b_note("%s, bits a token above the floor: unchanged %.4f; VPTQ 4, 256 %.4f (%.2f bits a weight with books), GPTQ2 "
           "%.4f, RTN2 %.4f (%.2f bits), GPTQ3 %.4f, RTN3 %.4f (%.2f bits)",
           path, full, loss[0], rate[0], loss[2], loss[1], rate[1], loss[4], loss[3], rate[3]);
    b_verdict("story model, bits lost: GPTQ2 / VPTQ with 2 bits of codes", (loss[2] - full) / (loss[0] - full), ">",
              1.5);
    b_headline("vptq", "LLaMA-2 7B in 2.02 bits: perplexity 6.13, f16 5.12, GPTQ in 2.125 bits 50.75",
               "examples/models/story.gguf, matrices of the layers, 16384 tokens of other stories read; bits a token "
               "above the floor of the language; grids ASYM in groups of 64 with 75 ranges tried",
               "unchanged %.4f, VPTQ (v 4, k 256: %.2f bits, of which books %.2f) %.4f, GPTQ2 (%.2f bits) %.4f, RTN2 "
               "%.4f, GPTQ3 (%.2f bits) %.4f",
               full, rate[0], rate[0] - 2.0, loss[0], rate[2], loss[2], loss[1], rate[4], loss[4]);
    tllm_watch_close(watch);
    tllm_gguf_close(ctx, g);
}

void bench_vptq(void)
{
    static bv_arg square[BV_KINDS + 1];
    static b_row rows[BV_KINDS + 1];
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    float *x = (float *)b_alloc(32 * 4096 * sizeof *x), *y = (float *)b_alloc(32 * 11008 * sizeof *y);
    bv_arg *list[BV_KINDS + 1];
    tiny_rng rng = tiny_rng_make(5, 5);
    double f16, q4, q2;
    int i;
    tiny_rng_fill_normal(&rng, x, 32 * 4096);
    for (i = 0; i < BV_KINDS; i++) {
        bv_make(ctx, &square[i], i, 4096, 4096);
        list[i] = &square[i];
        if (i >= BV_V6)
            b_note("%s, 4096 x 4096: %.4f bits a weight by the formula, %.4f by its %lu bytes", bv_kinds[i].what,
                   square[i].bits, 8.0 * (double)square[i].bytes / 16777216.0, (unsigned long)square[i].bytes);
    }
    square[BV_KINDS] = square[BV_V8];       /* forms that AUTO does not choose there */
    square[BV_KINDS].form = TLLM_VPTQ_BUCKET;
    list[BV_KINDS] = &square[BV_KINDS];
    bv_contest("Vectors of code books, 4096 x 4096, one row of x", list, rows, BV_KINDS + 1, 1, b_threads, x, y);
    f16 = rows[BV_F16].median_ns / rows[BV_V6].median_ns;
    q4 = rows[BV_Q4].median_ns / rows[BV_V6].median_ns;
    q2 = rows[BV_Q2K].median_ns / rows[BV_V6].median_ns;
    b_note("4096 x 4096, v 6, k 4096: f16 / vptq %.2f (bytes %.2f), Q4_0 / vptq %.2f (bytes %.2f), Q2_K / vptq %.2f "
           "(bytes %.2f); v 8, k 256: bucket / gather %.2f",
           f16, rows[BV_F16].bytes / rows[BV_V6].bytes, q4, rows[BV_Q4].bytes / rows[BV_V6].bytes, q2,
           rows[BV_Q2K].bytes / rows[BV_V6].bytes, rows[BV_KINDS].median_ns / rows[BV_V8].median_ns);
    b_verdict("4096 x 4096, v 6, k 4096: bytes of f16 / of vptq", rows[BV_F16].bytes / rows[BV_V6].bytes, ">", 7.8);
    b_headline(
        "vptq", "39.9 tokens a second in 2.02 bits, 38.3 in f16 (7B)",
        "one row of x times 4096 x 4096, v 6, k 4096, matrices out of cache",
        "%.2f times the speed of f16 with a %.1f-th of its bytes; %.2f times that of Q4_0, %.2f times that of Q2_K",
        f16, rows[BV_F16].bytes / rows[BV_V6].bytes, q4, q2);
    for (i = 0; i < BV_KINDS; i++) b_free(square[i].ring);
    b_free(x);
    b_free(y);
    bv_story(ctx);
    tiny_ctx_close(ctx);
}
