/* bench/llm/bitweight.c - digits of a model's weights: how fast they are counted and arrays simulated, and the cycles
 * of the paper's designs
 *
 * The paper (arXiv 2503.06342) reports area efficiency of 1.27, 1.28, 1.56 and 1.44 times and energy efficiency of
 * 1.04, 1.56, 1.49 and 1.20 times for a systolic array, a cube, a tree of multipliers and a 2-D matrix. Areas and
 * frequencies are the authors' synthesis (32 nm), taken from their tables; energy was not measured here.
 * Cycles are counted, on the weights of examples/models/story.gguf. */
#include "../bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BW_BYTES = 1 << 26, BW_COLUMNS = 7 };

typedef struct bw_arg {
    tiny_ctx *ctx;
    tllm_bw_design d;
    tiny_tensor a, b, c;
    const void *w;
    size_t n;
    int format;
    tiny_idx rows, k;
    uint64_t count[256];
} bw_arg;

static void bw_count(void *arg)
{
    bw_arg *x = (bw_arg *)arg;
    b_must(x->ctx, tllm_bw_count(x->ctx, (const int8_t *)x->w, x->n, x->count));
}
static void bw_plain(void *arg)             /* the straightforward form */
{
    bw_arg *x = (bw_arg *)arg;
    const unsigned char *w = (const unsigned char *)x->w;
    size_t i;
    for (i = 0; i < x->n; i++) x->count[w[i]]++;
}
static void bw_read(void *arg)
{
    bw_arg *x = (bw_arg *)arg;
    b_stream(x->ctx, x->w, x->n);
}
static void bw_rows(void *arg)
{
    bw_arg *x = (bw_arg *)arg;
    b_must(x->ctx, tllm_bw_count_rows(x->ctx, x->format, x->w, x->rows, x->k, x->count, NULL));
}
static void bw_gemm(void *arg)
{
    bw_arg *x = (bw_arg *)arg;
    tllm_bw_stats s;
    b_must(x->ctx, tllm_bw_gemm(x->ctx, &x->d, &x->a, &x->b, &x->c, &s));
}
static void bw_cycles(void *arg)
{
    bw_arg *x = (bw_arg *)arg;
    tllm_bw_stats s;
    b_must(x->ctx, tllm_bw_cycles(x->ctx, &x->d, &x->a, x->b.dim[1], &s));
}
static void bw_multiply(void *arg)
{
    bw_arg *x = (bw_arg *)arg;
    b_must(x->ctx, tiny_matmul_i8(x->ctx, &x->a, &x->b, NULL, NULL, NULL, 0, &x->c));
}

static const tllm_bw_unit *bw_unit(const char *name)
{
    const tllm_bw_unit *u;
    size_t i;
    for (i = 0; (u = tllm_bw_unit_at(i)) != NULL && strcmp(u->name, name); i++) {}
    return u;
}

static void bw_counting(tiny_ctx *one, tiny_ctx *all, unsigned char *w)
{
    static bw_arg a[6];
    b_row r[6];
    tiny_rng rng = tiny_rng_make(1, 3);
    size_t i;
    int j;
    for (i = 0; i < BW_BYTES; i++) w[i] = (unsigned char)(int)(30 * (double)tiny_rng_normal(&rng));
    memset(r, 0, sizeof r);
    for (j = 0; j < 6; j++) {
        static const char *const what[6] = { "one table",         "count",
                                             "count, all",        "read, all",
                                             "rows of F16 to S1", "rows of Q8_0 to S1" };
        a[j].ctx = j == 2 || j == 3 ? all : one;
        a[j].w = w;
        a[j].n = b_quick ? BW_BYTES / 8 : BW_BYTES;
        r[j].what = what[j];
        r[j].target = j ? "tinyllm" : "plain loop";
        r[j].threads = j == 2 || j == 3 ? b_threads : 1;
        r[j].bytes = (double)a[j].n;
        r[j].limit = B_READ;
        r[j].run = j == 0 ? bw_plain : j < 3 ? bw_count : j == 3 ? bw_read : bw_rows;
        r[j].arg = &a[j];
        b_shape(&r[j], "%zu MB N(0, 30)", a[j].n >> 20);
    }
    for (j = 4; j < 6; j++) {
        const tllm_format *f = tllm_format_by_name(j == 4 ? "F16" : "Q8_0");
        float row[4096];
        unsigned char *to = (unsigned char *)b_alloc(tllm_format_bytes(f, 4096) * 512);
        for (i = 0; i < 512; i++) {
            int k;
            for (k = 0; k < 4096; k++) row[k] = tiny_rng_normal(&rng);
            f->pack(row, to + i * tllm_format_bytes(f, 4096), 4096, NULL);
        }
        a[j].w = to;
        a[j].format = f->id;
        a[j].rows = 512;
        a[j].k = 4096;
        r[j].bytes = (double)tllm_format_bytes(f, 4096) * 512;
        b_shape(&r[j], "512x4096");
    }
    b_contest("Bit weights: counting the bytes of a model", r, 6);
    b_verdict("one table / count, one thread", r[0].median_ns / r[1].median_ns, ">", 1.0);
    b_verdict("count, all threads / reading", r[2].median_ns / r[3].median_ns, "<", 2.0);
    b_free((void *)(size_t)a[4].w);
    b_free((void *)(size_t)a[5].w);
}

static void bw_imitate(tiny_ctx *one, tiny_ctx *all)
{
    static const char *const name[8] = { "mac", "opt1", "opt2", "opt3", "opt4c-32", "opt4e", "opt4e", "opt4c-32" };
    enum { SMALL = 48 };
    const tiny_idx n = b_quick ? 128 : 512;
    static bw_arg a[9];
    int8_t *x = (int8_t *)b_alloc((size_t)(2 * n * n));
    int32_t *y = (int32_t *)b_alloc((size_t)(n * n) * 4);
    tiny_ctx *walk = b_ctx(TINY_TARGET_REFERENCE, 1);
    b_row r[9];
    tiny_rng rng = tiny_rng_make(2, 3);
    tiny_idx i;
    int j;
    for (i = 0; i < 2 * n * n; i++) x[i] = (int8_t)(20 * (double)tiny_rng_normal(&rng));
    memset(r, 0, sizeof r);
    for (j = 0; j < 9; j++) {
        const tiny_idx m = j == 7 ? SMALL : n;
        a[j].ctx = j == 7 ? walk : j == 6 ? all : one;
        a[j].a = tiny_tensor_2d(x, TINY_I8, m, m);
        a[j].b = tiny_tensor_2d(x + n * n, TINY_I8, m, m);
        a[j].c = tiny_tensor_2d(y, TINY_I32, m, m);
        if (j < 8) b_must(one, tllm_bw_design_of(one, name[j], &a[j].d));
        r[j].what = j < 6 ? name[j] : j == 6 ? "opt4e, cycles only" : j == 7 ? "opt4c-32, walk" : "int8 product";
        r[j].target = j == 7 ? "reference" : "tinyllm";
        r[j].threads = j == 6 ? b_threads : 1;
        r[j].flops = 2.0 * (double)m * (double)m * (double)m;
        r[j].run = j < 6 || j == 7 ? bw_gemm : j == 6 ? bw_cycles : bw_multiply;
        r[j].arg = &a[j];
        b_shape(&r[j], "%tdx%tdx%td", m, m, m);
    }
    b_contest("Bit weights: arrays imitated digit by digit", r, 9);
    if (!b_quick) {
        double worst = 0;
        for (j = 0; j < 6; j++) worst = fmax(worst, r[j].median_ns * 1e-9);
        b_verdict("seconds for 512x512x512, the slowest design on one thread", worst, "<", 5.0);
    }
    b_verdict("walk through the nest / rows of PEs, for each product",
              r[7].median_ns / r[7].flops / (r[4].median_ns / r[4].flops), ">", 3.0);
    b_free(x);
    b_free(y);
    tiny_ctx_close(walk);
}

/* the matrices of a model, one after the other */
typedef struct bw_model {
    double cycles[16], lanes[16], products, mean[2], slot;
    double wait[2][BW_COLUMNS], plain;
    uint64_t count[256];
} bw_model;

static int bw_model_read(tiny_ctx *ctx, const char *path, bw_model *m)
{
    enum { TOKENS = 64 };
    tllm_gguf *g = NULL;
    tllm_bw_digits d;
    tllm_bw_stats s;
    size_t i, u;
    int e, c;
    memset(m, 0, sizeof *m);
    if (tllm_file_open(ctx, path, &g)) { b_note("%s", tiny_ctx_message(ctx)); return 0; }
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        tiny_tensor a;
        if (t->rank != 2) continue;
        a = tiny_tensor_2d(b_alloc((size_t)(t->dim[0] * t->dim[1]) + 64), TINY_I8, (tiny_idx)t->dim[1],
                           (tiny_idx)t->dim[0]);
        b_must(ctx, tllm_bw_count_rows(ctx, t->type, t->data, a.dim[0], a.dim[1], m->count, (int8_t *)a.data));
        m->products += (double)a.dim[0] * (double)a.dim[1] * TOKENS;
        for (u = 0; tllm_bw_unit_at(u); u++) {
            tllm_bw_design design;
            b_must(ctx, tllm_bw_design_of(ctx, tllm_bw_unit_at(u)->name, &design));
            b_must(ctx, tllm_bw_cycles(ctx, &design, &a, TOKENS, &s));
            m->cycles[u] += (double)s.cycles;
            m->lanes[u] = (double)s.lanes;
        }
        /* columns: 1, 2, 4 ... 64, waiting at the end of K and at every k; time of a column for each product */
        for (e = 0; e < 2; e++)
            for (c = 0; c < BW_COLUMNS; c++) {
                tllm_bw_design design;
                b_must(ctx, tllm_bw_design_of(ctx, "opt4c-32", &design));
                design.loop[2].size = (tiny_idx)1 << c;
                if (e) b_must(ctx, tllm_bw_transform(ctx, &design, TLLM_BW_SYNC_K, 0));
                b_must(ctx, tllm_bw_cycles(ctx, &design, &a, 32, &s));
                m->wait[e][c] += (double)s.cycles * (double)(1 << c);
            }
        b_free(a.data);
    }
    for (e = 0; e < 2; e++) {
        b_must(ctx, tllm_bw_digits_of(ctx, e ? TLLM_BW_ENT : TLLM_BW_BOOTH, m->count, &d));
        m->mean[e] = d.mean;
        for (c = 0; c < BW_COLUMNS; c++) m->wait[e][c] /= (double)d.n;
    }
    m->slot = d.mean_slot;
    tllm_gguf_close(ctx, g);
    return 1;
}

static double bw_gain(const bw_model *m, const char *name, const char *base)
{
    double rate[2] = { 0, 0 };
    size_t u;
    for (u = 0; tllm_bw_unit_at(u); u++) {
        if (!strcmp(tllm_bw_unit_at(u)->name, name))
            tllm_bw_rate(tllm_bw_unit_at(u), m->products, m->cycles[u], NULL, &rate[0]);
        if (!strcmp(tllm_bw_unit_at(u)->name, base))
            tllm_bw_rate(tllm_bw_unit_at(u), m->products, m->cycles[u], NULL, &rate[1]);
    }
    return rate[0] / rate[1];
}

void bench_bitweight(void)
{
    static const char *const path = "examples/models/story.gguf";
    static bw_model m;
    tiny_ctx *one = b_ctx(TINY_TARGET_AUTO, 1), *all = b_ctx(TINY_TARGET_AUTO, b_threads);
    unsigned char *w = (unsigned char *)b_alloc(BW_BYTES);
    double x[BW_COLUMNS], four[BW_COLUMNS], mean[BW_COLUMNS];
    b_curve curve[4];
    size_t u;
    int c;
    bw_counting(one, all, w);
    b_free(w);
    bw_imitate(one, all);
    if (bw_model_read(all, path, &m)) {
        for (u = 0; tllm_bw_unit_at(u); u++) {
            double rate, area;
            tllm_bw_rate(tllm_bw_unit_at(u), m.products, m.cycles[u], &rate, &area);
            b_note("%s, 64 tokens, %s: %.0f cycles, %.3f cycles of a lane for each product; %.0f Gop/s, %.0f Gop/s on "
                   "a mm2 by the published synthesis",
                   path, tllm_bw_unit_at(u)->name, m.cycles[u], m.cycles[u] * m.lanes[u] / m.products, rate * 1e-9,
                   area * 1e-9);
        }
        for (c = 0; c < BW_COLUMNS; c++) {
            x[c] = (double)(1 << c);
            four[c] = 4;
            mean[c] = m.mean[1];
        }
        memset(curve, 0, sizeof curve);
        for (c = 0; c < 4; c++) {
            static const char *const name[4] = { "all four digits", "waiting at every k", "waiting at the end of K",
                                                 "digits that are not 0" };
            curve[c].name = name[c];
            curve[c].x = x;
            curve[c].y = c == 0 ? four : c == 1 ? m.wait[1] : c == 2 ? m.wait[0] : mean;
            curve[c].n = BW_COLUMNS;
        }
        b_svg("bitweight", "Cycles of a column for each product, weights of story.gguf, EN-T",
              "columns that wait for each other", "cycles", curve, 4);
        b_headline("bitweight",
                   "digits of an int8 operand that are not 0: 2.0 to 2.6 of 4, 35 to 57 % of the digit work is saved",
                   "examples/models/story.gguf, all matrices, rows to int8",
                   "EN-T %.3f, Booth %.3f; %.0f %% of the digit work is saved; cycles with 32 columns that wait at the "
                   "end of K: %.3f, at every k: %.3f",
                   m.mean[1], m.mean[0], 100 * (1 - m.mean[1] / 4), m.wait[0][5], m.wait[1][5]);
        b_headline("bitweight", "area efficiency 1.27 (systolic), 1.28 (cube), 1.56 (tree), 1.44 (2-D matrix) times",
                   "area and frequency: the authors' 32 nm tables; cycles: counted on story.gguf, 64 tokens",
                   "OPT1 over MAC: weights stay %.2f, cube %.2f, outputs stay %.2f, one PE (cells) %.2f; OPT2's trees "
                   "over the 16 x 16 MAC array %.1f, a column of OPT4C %.1f (no tree and no bit-slice array without "
                   "them is published)",
                   bw_gain(&m, "opt1-ws", "mac-ws"), bw_gain(&m, "opt1-cube", "mac-cube"), bw_gain(&m, "opt1", "mac"),
                   bw_gain(&m, "opt1-pe", "mac-pe"), bw_gain(&m, "opt2", "mac"), bw_gain(&m, "opt4c", "mac"));
        b_headline("bitweight",
                   "energy efficiency 1.04, 1.56, 1.49, 1.20 times; 12.1 times energy and 2.85 times area efficiency "
                   "over Laconic",
                   "nothing here measures power, and there is no synthesis of Laconic in the authors' tables",
                   "not measured; a column of OPT4C at %.0f MHz makes %.0f million products a second in each PE on "
                   "these weights",
                   bw_unit("opt4c")->mhz, bw_unit("opt4c")->mhz / m.mean[1]);
        b_verdict("digits that are not 0 in a weight, EN-T", m.mean[1], "<", 2.9);
    }
    tiny_ctx_close(one);
    tiny_ctx_close(all);
}
