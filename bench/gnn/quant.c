/* bench/gnn/quant.c - features of 1 to 3 bits against floats: the product with weights, the sum along edges, a whole
 * net
 *
 * A2Q (Z. Zhu et al., 2023) stores features 18.6 times smaller than floats, at 1.70 bits on average; its speed is that
 * of an accelerator.
 * Here: the size of the packed rows, with and without their steps and bits, and their speed on the processor.
 * The rivals are the float operations of this library, the same rows on the same threads. The bits are those of the net
 * whose accuracy docs/papers/a2q.md quotes (`build/gnn quantize` on Cora, lambda 10, 2.04 bits on average): 3 of 2708
 * rows take 1 bit, 2605 take 2, 100 take 3, signs not stored. */
#include "../bench.h"
#include "tinygnn.h"
#include <stdio.h>
#include <string.h>

typedef struct bq {
    tiny_ctx *ctx;
    int form;
    tiny_tensor x, w, code, scale, y;
    tgnn_packed packed;
    const tiny_sparse *graph;
    tgnn_nibbles t;
    const float *step;
} bq;

static void bq_run(void *arg)
{
    bq *a = (bq *)arg;
    tiny_tensor turned = tiny_tensor_swap(a->w, 0, 1);
    if (a->form == 0) b_must(a->ctx, tiny_matmul(a->ctx, &a->x, &turned, NULL, TINY_ACT_NONE, &a->y));
    else if (a->form == 1) b_must(a->ctx, tgnn_packed_product(a->ctx, &a->packed, &a->code, &a->scale, &a->y));
    else if (a->form == 2) {
        tiny_tensor offset = tiny_tensor_1d(a->graph->offset, TINY_I64, a->graph->n_rows + 1),
                    col = tiny_tensor_1d(a->graph->col, TINY_I32, (tiny_idx)a->graph->n);
        b_must(a->ctx, tiny_spmm(a->ctx, &offset, &a->x, &col, NULL, NULL, NULL, &a->y));
    } else b_must(a->ctx, tgnn_nibbles_sum(a->ctx, a->graph, &a->t, 0.0f, NULL, a->step, NULL, &a->y));
}

static void bq_rows(b_row rows[2], bq a[2], const char *what, const char *small, double bytes, double packed)
{
    int k;
    memset(rows, 0, 2 * sizeof *rows);
    for (k = 0; k < 2; k++) {
        rows[k].what = k ? small : what;
        rows[k].target = tiny_target_name(tiny_ctx_target(a[0].ctx));
        rows[k].threads = b_threads;
        rows[k].run = bq_run;
        rows[k].arg = &a[k];
        rows[k].limit = B_READ;
        rows[k].bytes = k ? packed : bytes;
    }
}

static void bq_product(tiny_ctx *ctx, tiny_idx n, tiny_idx f, tiny_idx out)
{
    float *x = (float *)b_alloc((size_t)(n * f) * 4), *w = (float *)b_alloc((size_t)(f * out) * 4),
          *step = (float *)b_alloc((size_t)(n + out) * 4), *bits = (float *)b_alloc((size_t)n * 4),
          *y = (float *)b_alloc((size_t)(n * out) * 4);
    int8_t *code = (int8_t *)b_alloc((size_t)(f * out));
    tiny_rng rng = tiny_rng_make(1, 1);
    b_row rows[2];
    bq a[2];
    tiny_idx i;
    double all, float_bytes = (double)(n * f) * 4;
    memset(a, 0, sizeof a);
    for (i = 0; i < n * f; i++) x[i] = tiny_rng_uniform(&rng);
    for (i = 0; i < n + out; i++) step[i] = 0.1f + 0.2f * tiny_rng_uniform(&rng);
    for (i = 0; i < n; i++) {
        const uint32_t r = tiny_rng_below(&rng, 2708);
        bits[i] = r < 3 ? 2.0f : r < 2608 ? 3.0f : 4.0f;                      /* one more than is stored: the sign */
    }
    for (i = 0; i < f * out; i++) {
        code[i] = (int8_t)((int)tiny_rng_below(&rng, 15) - 7);
        w[i] = 0.1f * (float)code[i];
    }
    a[0].ctx = ctx;
    a[0].x = tiny_tensor_2d(x, TINY_F32, n, f);
    a[0].w = tiny_tensor_2d(w, TINY_F32, out, f);
    a[0].code = tiny_tensor_2d(code, TINY_I8, out, f);
    a[0].scale = tiny_tensor_1d(step + n, TINY_F32, out);
    a[0].y = tiny_tensor_2d(y, TINY_F32, n, out);
    b_must(ctx, tgnn_packed_make(ctx, &a[0].x, step, bits, n, NULL, 1, &a[0].packed));
    a[1] = a[0];
    a[1].form = 1;
    bq_rows(rows, a, "matmul of floats", "product of packed rows", float_bytes + (double)(n * out) * 4,
            (double)a[0].packed.n_bytes + (double)(n * out) * 4);
    for (i = 0; i < 2; i++) b_shape(&rows[i], "%tdx%tdx%td", n, out, f);
    b_contest("Features of 1 to 3 bits times weights of 4", rows, 2);
    all = (double)a[0].packed.n_bytes + (double)n * 5;
    b_note("%.2f bits a feature, %.2f MB packed, %.2f MB with steps and bits, %.2f MB as floats",
           (double)a[0].packed.n_bits / (double)(n * f), (double)a[0].packed.n_bytes / 1e6, all / 1e6,
           float_bytes / 1e6);
    {
        static char headline[2][100];       /* lives on in the table */
        char *h = headline[f == 128];
        char on[100];
        (void)snprintf(h, sizeof headline[0], "A2Q: 18.6 times smaller features at 1.70 bits, %td features", f);
        (void)snprintf(on, sizeof on,
                       "%td rows, times weights of 4 bits, %td outputs; the bits of the net with 80.8 %% on Cora", n,
                       out);
        b_headline("a2q", h, on,
                   "%.1f times smaller, %.1f with steps and bits, at %.2f bits; product of floats / of packed rows "
                   "%.2f in time",
                   float_bytes / (double)a[0].packed.n_bytes, float_bytes / all,
                   (double)a[0].packed.n_bits / (double)(n * f), rows[0].median_ns / rows[1].median_ns);
    }
    b_verdict("time of floats against packed rows", rows[0].median_ns / rows[1].median_ns, ">=", 1.0);
    tgnn_packed_free(ctx, &a[0].packed);
    b_free(x);
    b_free(w);
    b_free(step);
    b_free(bits);
    b_free(y);
    b_free(code);
}

static double bq_sums;

static void bq_sum(tiny_ctx *ctx, tiny_idx n, tiny_idx f)
{
    float *x = (float *)b_alloc((size_t)(n * f) * 4), *y = (float *)b_alloc((size_t)(n * f) * 4),
          *step = (float *)b_alloc((size_t)f * 4);
    tgnn_graph *g = NULL;
    b_row rows[2];
    bq a[2];
    tiny_idx i;
    double m;
    memset(a, 0, sizeof a);
    b_must(ctx, tgnn_planted(ctx, n, 100, 16, 0.5, 1, &g));
    for (i = 0; i < f; i++) step[i] = 0.1f;
    a[0].ctx = ctx;
    a[0].form = 2;
    a[0].graph = tgnn_graph_in(g);
    a[0].x = tiny_tensor_2d(x, TINY_F32, n, f);
    a[0].y = tiny_tensor_2d(y, TINY_F32, n, f);
    a[0].step = step;
    b_must(ctx, tgnn_nibbles_make(ctx, n, f, &a[0].t));
    b_must(ctx, tgnn_nibbles_quantize(ctx, &a[0].x, NULL, step, &a[0].t));
    a[1] = a[0];
    a[1].form = 3;
    m = (double)a[0].graph->n;
    bq_rows(rows, a, "spmm of floats", "sum of nibbles", m * (double)f * 4, m * (double)a[0].t.groups * 8);
    for (i = 0; i < 2; i++) b_shape(&rows[i], "%td nodes, %.1f M edges, %td", n, m / 1e6, f);
    b_contest("Sums along edges of features of 4 bits", rows, 2);
    b_verdict("time of floats against nibbles", rows[0].median_ns / rows[1].median_ns, ">=", 1.0);
    bq_sums = rows[0].median_ns / rows[1].median_ns;
    tgnn_nibbles_free(ctx, &a[0].t);
    tgnn_graph_close(ctx, g);
    b_free(x);
    b_free(y);
    b_free(step);
}

/* ---- a net of two layers, as it is drawn: bits of 2 to 4 */

typedef struct bq_net { tiny_ctx *ctx; tgnn_net *net; tgnn_quant *small; tgnn_net_input in; tiny_tensor y; } bq_net;

static void bq_net_run(void *arg)
{
    bq_net *a = (bq_net *)arg;
    if (a->small) b_must(a->ctx, tgnn_quant_run(a->ctx, a->small, &a->in, &a->y, NULL, NULL));
    else b_must(a->ctx, tgnn_net_run(a->ctx, a->net, &a->in, &a->y, NULL));
}

static void bq_whole(tiny_ctx *ctx, tiny_idx n)
{
    tgnn_net_desc d = { TGNN_LAYER_GCN, 64, 10, 64, 0, 0, 0, 0, 0 };
    float *x = (float *)b_alloc((size_t)n * 64 * 4), *y = (float *)b_alloc((size_t)n * 10 * 4);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, n, 64);
    tgnn_a2q_net *q = NULL;
    tgnn_graph *g = NULL;
    b_row rows[2];
    bq_net a[2];
    tiny_idx i;
    int k;
    memset(a, 0, sizeof a);
    memset(rows, 0, sizeof rows);
    a[0].ctx = ctx;
    b_must(ctx, tgnn_planted(ctx, n, 100, 16, 0.5, 1, &g));
    b_must(ctx, tgnn_net_usual(ctx, &d, 1, &a[0].net));
    b_must(ctx, tgnn_a2q_net_open(ctx, a[0].net, NULL, &tx, &q));
    for (k = 0; k < q->n_maps; k++)
        for (i = 0; i < n; i++) q->map[k].bits[i] = (float)(2 + i % 3);
    a[0].in.graph = g;
    a[0].in.x = &tx;
    a[0].y = tiny_tensor_2d(y, TINY_F32, n, 10);
    a[1] = a[0];
    b_must(ctx, tgnn_quant_make(ctx, a[0].net, q, &a[1].small));
    for (k = 0; k < 2; k++) {
        rows[k].what = k ? "gcn of whole numbers" : "gcn of floats";
        rows[k].target = tiny_target_name(tiny_ctx_target(ctx));
        rows[k].threads = b_threads;
        rows[k].run = bq_net_run;
        rows[k].arg = &a[k];
        b_shape(&rows[k], "%td nodes, 64 - 64 - 10", n);
    }
    b_contest("A net of two layers, its graph prepared each time", rows, 2);
    b_verdict("time of floats against whole numbers", rows[0].median_ns / rows[1].median_ns, ">=", 1.0);
    b_headline("a2q", "A2Q: speed (on its accelerator)",
               "planted graph, 16 edges a node, 64 features; the net: 64 - 64 - 10 on a quarter of the nodes, its "
               "graph prepared each time",
               "floats / integers in time: sum along edges %.2f, a GCN of two layers %.2f", bq_sums,
               rows[0].median_ns / rows[1].median_ns);
    tgnn_quant_free(ctx, a[1].small);
    tgnn_a2q_net_close(ctx, q);
    tgnn_net_free(ctx, a[0].net);
    tgnn_graph_close(ctx, g);
    b_free(x);
    b_free(y);
}

void bench_a2q(void);
void bench_a2q(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    const tiny_idx n = b_quick ? 50000 : 400000;
    bq_product(ctx, n, 128, 16);
    bq_product(ctx, n, 64, 64);
    bq_sum(ctx, n, 64);
    bq_whole(ctx, n / 4);
    tiny_ctx_close(ctx);
}
