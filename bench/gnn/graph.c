/* bench/gnn/graph.c - parts, orders, samples and files of graphs
 *
 * Parts: against METIS_PartGraphKway (G. Karypis, V. Kumar; bench/peers/run.sh names its library), the same rows, its
 * defaults; METIS has one thread. The goal: at most a tenth more edges cut, in at most twice its time. A grid, planted
 * classes, and a power-law graph.
 * Orders: communities found, nodes ordered by them, the graph and the features rewritten; then sums over the edges, 20
 * times, against 20 sums as the graph was. Planted classes of 1000 nodes, shuffled, 16 edges a node, 80 % of them
 * inside.
 * Sums: over the edges of a power-law graph (R-MAT) and of one with random edges, compared with the reads alone: every
 * line of the same rows in the same order, prefetched. That is the limit for any given order of rows: memory reads rows
 * at random places at a third to a half of the rate of a stream, the rate that the fraction column divides by.
 * Samples: 1024 seeds, fanouts 15, 10, 5, without replacement, on a power-law graph; the limit is the same reads alone:
 * one word of the edges and one of a table of nodes for each edge, at random places that are known in advance.
 * Embeddings: FastRP compared with DeepWalk (deepwalk.c), of which a part of the walks is run; the time of all of them
 * is extrapolated.
 * Files: an edge list becomes a .tgraph file in bounded memory, compared with the whole graph in memory. */
#include "../bench.h"
#include "../peers/peers.h"
#include "deepwalk.h"
#include <stdio.h>
#include <string.h>

typedef struct bg_parts {
    tiny_ctx *ctx;
    tgnn_graph *g;
    int k, metis;
    int32_t *part, *xadj, *adj;
    tgnn_partition_info info;
} bg_parts;

static void bg_parts_run(void *arg)
{
    bg_parts *a = (bg_parts *)arg;
    int32_t n = (int32_t)tgnn_graph_nodes(a->g), one = 1, k = a->k, cut;
    if (!a->metis) {
        b_must(a->ctx, tgnn_partition(a->ctx, a->g, a->k, NULL, a->part, &a->info));
        return;
    }
    (void)b_peers_load(1)->metis_kway(&n, &one, a->xadj, a->adj, NULL, NULL, NULL, &k, NULL, NULL, NULL, &cut, a->part);
    b_must(a->ctx, tgnn_partition_measure(a->ctx, a->g, a->k, NULL, a->part, &a->info));
}

static tgnn_graph *bg_grid(tiny_ctx *ctx, int side)
{
    int32_t *s = (int32_t *)b_alloc((size_t)side * (size_t)side * 8),
            *d = (int32_t *)b_alloc((size_t)side * (size_t)side * 8);
    tgnn_graph_desc how = { 0 };
    tgnn_edges e = { 0 };
    tgnn_graph *g = NULL;
    int i, j;
    how.symmetrize = 1;
    for (i = 0; i < side; i++)
        for (j = 0; j < side; j++) {
            if (j + 1 < side) { s[e.n] = i * side + j; d[e.n++] = i * side + j + 1; }
            if (i + 1 < side) { s[e.n] = i * side + j; d[e.n++] = i * side + j + side; }
        }
    e.src = s;
    e.dst = d;
    b_must(ctx, tgnn_graph_make(ctx, &e, &how, &g));
    b_free(s);
    b_free(d);
    return g;
}

/* both directions, no loops, no duplicates: the input of METIS */
static tgnn_graph *bg_simple(tiny_ctx *ctx, tgnn_graph *g)
{
    const tiny_sparse *a = tgnn_graph_in(g);
    int32_t *row = (int32_t *)b_alloc((size_t)a->n * 4);
    tgnn_graph_desc how = { 0 };
    tgnn_edges e = { 0 };
    tgnn_graph *h = NULL;
    tiny_idx v;
    int64_t p;
    for (v = 0; v < a->n_rows; v++)
        for (p = a->offset[v]; p < a->offset[v + 1]; p++) row[p] = (int32_t)v;
    how.symmetrize = how.drop_loops = 1;
    how.duplicates = TINY_DUPLICATES_FIRST;
    e.n_src = e.n_dst = a->n_rows;
    e.n = a->n;
    e.src = a->col;
    e.dst = row;
    b_must(ctx, tgnn_graph_make(ctx, &e, &how, &h));
    tgnn_graph_close(ctx, g);
    b_free(row);
    return h;
}

static void bg_partition(tiny_ctx *ctx)
{
    static const struct {
        const char *what;
        int k;
    } each[3] = { { "a grid", 16 }, { "planted classes", 32 }, { "a power-law graph", 16 } };
    int i, j;
    for (i = 0; i < 3; i++) {
        const tiny_sparse *in, *unused;
        const int n = b_quick ? 1 << 15 : 1 << 17;
        bg_parts arg[2];
        b_row rows[2];
        tgnn_graph *g;
        char says[100];
        if (i == 0) g = bg_grid(ctx, b_quick ? 200 : 500);
        else if (i == 1) b_must(ctx, tgnn_planted(ctx, n, n / 1000, 16, 0.8, 1, &g));
        else {
            b_must(ctx, tgnn_rmat(ctx, b_quick ? 13 : 15, (int64_t)n * 2, 1, &g));
            g = bg_simple(ctx, g);
        }
        in = tgnn_graph_in(g);
        b_must(ctx, tgnn_graph_out(ctx, g, &unused));
        memset(arg, 0, sizeof arg);
        memset(rows, 0, sizeof rows);
        for (j = 0; j < 2; j++) {
            tiny_idx v;
            arg[j].ctx = ctx;
            arg[j].g = g;
            arg[j].k = each[i].k;
            arg[j].metis = j;
            arg[j].part = (int32_t *)b_alloc((size_t)in->n_rows * 4);
            arg[j].xadj = (int32_t *)b_alloc(((size_t)in->n_rows + 1) * 4);
            arg[j].adj = (int32_t *)b_alloc((size_t)in->n * 4);
            for (v = 0; v <= in->n_rows; v++) arg[j].xadj[v] = (int32_t)in->offset[v];
            memcpy(arg[j].adj, in->col, (size_t)in->n * 4);
            rows[j].what = "partition";
            rows[j].target = j ? "METIS" : "ours";
            rows[j].threads = j ? 1 : b_threads;
            rows[j].arg = &arg[j];
            rows[j].run = j && !b_peers_load(1)->metis_kway ? NULL : bg_parts_run;
            b_shape(&rows[j], "%td nodes, %lld edges, %d parts", in->n_rows, (long long)(in->n / 2), each[i].k);
        }
        (void)snprintf(says, sizeof says, "Partition of %s", each[i].what);
        b_contest(says, rows, 2);
        b_note("ours cuts %lld edges, parts of %lld to %lld nodes", (long long)(arg[0].info.cut_edges / 2),
               (long long)arg[0].info.lightest, (long long)arg[0].info.heaviest);
        if (rows[1].run) {
            b_note("METIS cuts %lld, parts of %lld to %lld", (long long)(arg[1].info.cut_edges / 2),
                   (long long)arg[1].info.lightest, (long long)arg[1].info.heaviest);
            b_verdict("edges cut against METIS", (double)arg[0].info.cut_edges / (double)arg[1].info.cut_edges,
                      "<=", 1.1);
            b_verdict("time against METIS", rows[0].median_ns / rows[1].median_ns, "<=", 2.0);
        }
        for (j = 0; j < 2; j++) {
            b_free(arg[j].part);
            b_free(arg[j].xadj);
            b_free(arg[j].adj);
        }
        tgnn_graph_close(ctx, g);
    }
}

/* ---- orders */

typedef struct bg_order {
    tiny_ctx *ctx;
    tgnn_graph *g, *near;
    int step;
    float *x, *y;
    tiny_idx f;
    int32_t *label;
    uint32_t *order;
    tiny_idx k;
} bg_order;

static void bg_order_run(void *arg)
{
    bg_order *a = (bg_order *)arg;
    const tiny_sparse *m = tgnn_graph_in(a->step == 1 ? a->near : a->g);
    const tiny_idx n = m->n_rows;
    tiny_tensor x = tiny_tensor_2d(a->x, TINY_F32, n, a->f), y = tiny_tensor_2d(a->y, TINY_F32, n, a->f),
                order = tiny_tensor_1d(a->order, TINY_I32, n);
    tiny_tensor offset = tiny_tensor_1d(m->offset, TINY_I64, n + 1),
                col = tiny_tensor_1d(m->col, TINY_I32, (tiny_idx)m->n);
    if (a->step < 2) {
        b_must(a->ctx, tiny_spmm(a->ctx, &offset, &x, &col, NULL, NULL, NULL, &y));
        return;
    }
    tgnn_graph_close(a->ctx, a->near);
    b_must(a->ctx, tgnn_communities(a->ctx, a->g, NULL, a->label, &a->k));
    b_must(a->ctx, tgnn_order_by_part(a->ctx, n, a->k, a->label, a->order));
    b_must(a->ctx, tgnn_graph_permute(a->ctx, a->g, a->order, &a->near));
    b_must(a->ctx, tiny_gather(a->ctx, &x, &order, &y));
}

static void bg_reorder(tiny_ctx *ctx)
{
    static const char *const names[3] = { "spmm, shuffled", "spmm, by community",
                                          "communities, order, permute, gather" };
    const tiny_idx n = b_quick ? 200000 : 1000000, f = b_quick ? 128 : 64;
    bg_order a[3];
    b_row rows[3];
    int i;
    memset(a, 0, sizeof a);
    memset(rows, 0, sizeof rows);
    a[2].ctx = ctx;
    a[2].f = f;
    a[2].step = 2;
    b_must(ctx, tgnn_planted(ctx, n, (int)(n / 1000), 16, 0.8, 1, &a[2].g));
    a[2].x = (float *)b_alloc((size_t)(n * f) * 4);
    a[2].y = (float *)b_alloc((size_t)(n * f) * 4);
    a[2].label = (int32_t *)b_alloc((size_t)n * 4);
    a[2].order = (uint32_t *)b_alloc((size_t)n * 4);
    bg_order_run(&a[2]);
    for (i = 0; i < 2; i++) {
        a[i] = a[2];
        a[i].step = i;
    }
    a[2].near = NULL;                       /* its own, made new each time */
    for (i = 0; i < 3; i++) {
        rows[i].what = names[i];
        rows[i].target = tiny_target_name(tiny_ctx_target(ctx));
        rows[i].threads = b_threads;
        rows[i].run = bg_order_run;
        rows[i].arg = &a[i];
        b_shape(&rows[i], "%td nodes, %lld M edges, %td", n, (long long)(tgnn_graph_edges(a[2].g) / 1000000), f);
    }
    b_contest("Sums over the edges of a shuffled community graph", rows, 3);
    b_headline("graphs", "a shuffled community graph in a new order, 1.2 to 2 times",
               "planted communities of 1000, 16 edges a node",
               "one sum %.2f times as fast; 20 sums and the order itself %.2f", rows[0].median_ns / rows[1].median_ns,
               20 * rows[0].median_ns / (20 * rows[1].median_ns + rows[2].median_ns));
    b_verdict("20 sums, the new order included", 20 * rows[0].median_ns / (20 * rows[1].median_ns + rows[2].median_ns),
              ">=", 1.2);
    tgnn_graph_close(ctx, a[1].near);
    tgnn_graph_close(ctx, a[2].near);
    tgnn_graph_close(ctx, a[2].g);
    b_free(a[2].x);
    b_free(a[2].y);
    b_free(a[2].label);
    b_free(a[2].order);
}

/* ---- sums */

typedef struct bg_sum {
    tiny_ctx *ctx;
    const tiny_sparse *a;
    float *x, *y, *w;
    tiny_idx f;
    int kind;
    volatile float seen;
} bg_sum;

static void bg_gather_team(tiny_team *team, void *arg)
{
    bg_sum *a = (bg_sum *)arg;
    const tiny_idx ahead = a->f <= 16 ? 32 : 16;
    tiny_idx i, i1, k;
    float sum = 0.0f;
    while (tiny_take(team, (tiny_idx)a->a->n - ahead, 65536, &i, &i1))
        for (; i < i1; i++) {
            const float *x = a->x + a->a->col[i] * a->f;
#if defined __GNUC__
            const float *then = a->x + a->a->col[i + ahead] * a->f;
            for (k = 0; k < a->f; k += 16) __builtin_prefetch(then + k);
#endif
            for (k = 0; k < a->f; k += 16) sum += x[k];
        }
    a->seen = sum;
}

static void bg_sum_run(void *arg)
{
    bg_sum *a = (bg_sum *)arg;
    const tiny_idx n = a->a->n_rows, m = (tiny_idx)a->a->n;
    tiny_tensor x = tiny_tensor_2d(a->x, TINY_F32, n, a->f), y = tiny_tensor_2d(a->y, TINY_F32, n, a->f),
                w = tiny_tensor_1d(a->w, TINY_F32, m);
    tiny_tensor offset = tiny_tensor_1d(a->a->offset, TINY_I64, n + 1), col = tiny_tensor_1d(a->a->col, TINY_I32, m);
    if (a->kind == 2) b_must(a->ctx, tiny_parallel(a->ctx, 0, 0, 0, bg_gather_team, a));
    else b_must(a->ctx, tiny_spmm(a->ctx, &offset, &x, &col, a->kind ? &w : NULL, NULL, NULL, &y));
}

static void bg_sums(tiny_ctx *ctx)
{
    static const char *const names[3] = { "spmm", "spmm, weights", "the reads alone" };
    static const tiny_idx widths[3] = { 16, 64, 256 };
    const int scale = b_quick ? 17 : 20;
    const tiny_idx n = (tiny_idx)1 << scale;
    float *x = (float *)b_alloc((size_t)n * 256 * 4), *y = (float *)b_alloc((size_t)n * 256 * 4),
          *w = (float *)b_alloc((size_t)n * 16 * 4);
    int g, i, j;
    for (g = 0; g < 2; g++) {
        tgnn_graph *graph;
        if (g == 0) b_must(ctx, tgnn_rmat(ctx, scale, 16 * n, 1, &graph));
        else b_must(ctx, tgnn_planted(ctx, n, 1, 16, 0.5, 1, &graph));      /* one class: edges anywhere */
        for (i = 0; i < 3; i++) {
            bg_sum a[3];
            b_row rows[3];
            char says[100];
            memset(rows, 0, sizeof rows);
            memset(a, 0, sizeof a);
            for (j = 0; j < 3; j++) {
                a[j].ctx = ctx;
                a[j].a = tgnn_graph_in(graph);
                a[j].x = x;
                a[j].y = y;
                a[j].w = w;
                a[j].f = widths[i];
                a[j].kind = j;
                rows[j].what = names[j];
                rows[j].target = j == 2 ? "limit" : tiny_target_name(tiny_op_target(ctx, TINY_OP_SPMM));
                rows[j].threads = b_threads;
                rows[j].limit = B_READ;
                rows[j].bytes = (double)a[j].a->n * (4.0 * (double)widths[i] + (j == 1 ? 8.0 : 4.0)) +
                                (j < 2 ? (double)n * (8.0 + 4.0 * (double)widths[i]) : 0.0);
                rows[j].run = bg_sum_run;
                rows[j].arg = &a[j];
                b_shape(&rows[j], "%td nodes, %lld M edges, %td", n, (long long)(a[j].a->n >> 20), widths[i]);
            }
            (void)snprintf(says, sizeof says, "Sums over the edges of %s, %td features",
                           g ? "a uniform graph" : "a power-law graph", widths[i]);
            b_contest(says, rows, 3);
            b_verdict("share of the reads alone, with weights", rows[2].median_ns / rows[1].median_ns, ">=", 0.7);
        }
        tgnn_graph_close(ctx, graph);
    }
    b_free(x);
    b_free(y);
    b_free(w);
}

/* ---- samples */

enum { SEEDS = 1024 };
typedef struct bg_sample {
    tiny_ctx *ctx;
    const tiny_sparse *a;
    tgnn_sampler *s;
    uint64_t step;
    int32_t seeds[SEEDS], *place, *at;
    int64_t n, reads;
    volatile int64_t sum;
} bg_sample;

static void bg_sample_run(void *arg)
{
    bg_sample *a = (bg_sample *)arg;
    tgnn_sample o;
    b_must(a->ctx, tgnn_sampler_draw(a->s, a->step++ % 8, a->seeds, SEEDS, &o));
    a->n = o.block[0].n + o.block[1].n + o.block[2].n;
}

static void bg_reads_team(tiny_team *team, void *arg)
{
    bg_sample *a = (bg_sample *)arg;
    tiny_idx i, i1;
    int64_t sum = 0;
    while (tiny_take(team, (tiny_idx)a->reads - 32, 1024, &i, &i1))
        for (; i < i1; i++) {
#if defined __GNUC__
            __builtin_prefetch(a->a->col + a->at[i + 32]);
            __builtin_prefetch(a->place + a->a->col[a->at[i + 12]]);
#endif
            sum += a->place[a->a->col[a->at[i]]];
        }
    a->sum = sum;
}

static void bg_reads_run(void *arg)
{
    bg_sample *a = (bg_sample *)arg;
    b_must(a->ctx, tiny_parallel(a->ctx, 0, 0, 0, bg_reads_team, a));
}

static void bg_sampling(tiny_ctx *ctx)
{
    static const int32_t fanout[3] = { 15, 10, 5 };
    const int scale = b_quick ? 17 : 20;
    tgnn_sampler_desc d = { 0 };
    tiny_rng rng = tiny_rng_make(1, 1);
    uint32_t *order = (uint32_t *)b_alloc((size_t)4 << scale);
    static bg_sample a;
    b_row rows[2];
    tgnn_graph *g;
    int64_t i;
    memset(rows, 0, sizeof rows);
    b_must(ctx, tgnn_rmat(ctx, scale, (int64_t)16 << scale, 1, &g));
    d.n_layers = 3;
    d.fanout = fanout;
    b_must(ctx, tgnn_sampler_open(ctx, g, &d, &a.s));
    a.ctx = ctx;
    a.a = tgnn_graph_in(g);
    tiny_rng_permutation(&rng, order, (uint32_t)1 << scale);
    for (i = 0; i < SEEDS; i++) a.seeds[i] = (int32_t)order[i];
    bg_sample_run(&a);
    a.place = (int32_t *)order;
    a.reads = a.n;                          /* later draws are of other lengths */
    a.at = (int32_t *)b_alloc((size_t)a.reads * 4);
    for (i = 0; i < a.reads; i++) a.at[i] = (int32_t)tiny_rng_below(&rng, (uint32_t)tgnn_graph_edges(g));
    rows[0].what = "sample, fanouts 15 10 5";
    rows[1].what = "the reads alone";
    rows[0].run = bg_sample_run;
    rows[1].run = bg_reads_run;
    for (i = 0; i < 2; i++) {
        rows[i].target = i ? "limit" : "ours";
        rows[i].threads = b_threads;
        rows[i].arg = &a;
        rows[i].flops = (double)a.reads;
        b_shape(&rows[i], "%d M nodes, %d M edges; %lld drawn", 1 << scale >> 20, 16 << scale >> 20,
                (long long)a.reads);
    }
    b_contest("Neighbour sampling of 1024 seeds (Gop/s: edges)", rows, 2);
    b_note("%.1f M edges a second, %.0f %% of the limit", 1e3 * (double)a.reads / rows[0].median_ns,
           100 * rows[1].median_ns / rows[0].median_ns);
    tgnn_sampler_close(a.s);
    tgnn_graph_close(ctx, g);
    b_free(a.at);
    b_free(order);
}

/* ---- embeddings */

typedef struct bg_embed {
    tiny_ctx *ctx;
    tgnn_graph *g;
    tgnn_fastrp_desc d;
    tiny_tensor y;
    b_deepwalk *walk;
    double share;
} bg_embed;

static void bg_embed_run(void *arg)
{
    bg_embed *a = (bg_embed *)arg;
    if (a->walk) b_deepwalk_run(a->walk, a->share);
    else b_must(a->ctx, tgnn_fastrp(a->ctx, a->g, &a->d, &a->y));
}

/* FastRP in the first rows, DeepWalk on the same graph in the last one: each call takes a share of its walks. How many
 * times as long all of them take. */
static double bg_embed_contest(const char *title, bg_embed *a, b_row *rows, int n, double share, const char *nodes)
{
    static const char *const names[2] = { "FastRP, all columns", "FastRP, 32 columns at a time" };
    int i;
    memset(rows, 0, (size_t)n * sizeof *rows);
    for (i = 1; i < n; i++) a[i] = a[0];
    a[1].d.tile = 32;
    a[n - 1].walk = b_deepwalk_open(a[0].ctx, a[0].g, a[0].y.dim[1], 1);
    a[n - 1].share = share;
    for (i = 0; i < n; i++) {
        const int walk = i == n - 1;
        rows[i].what = walk ? "DeepWalk, a part" : names[i];
        rows[i].target = walk ? "bench/gnn" : tiny_target_name(tiny_ctx_target(a[0].ctx));
        rows[i].threads = b_threads;
        rows[i].run = walk && !a[i].walk ? NULL : bg_embed_run;
        rows[i].arg = &a[i];
        b_shape(&rows[i], "%s nodes, %.1f M edges", nodes, (double)tgnn_graph_edges(a[0].g) / 1e6);
    }
    b_shape(&rows[n - 1], "1/%.0f of all walks", 1.0 / share);
    b_contest(title, rows, n);
    b_deepwalk_close(a[n - 1].walk);
    return rows[n - 1].median_ns / share / rows[0].median_ns;
}

/* The settings of the authors of both for BlogCatalog; without that file, planted classes with the same number of
 * edges. bench/peers/fastrp.py --deepwalk judges the two embeddings. */
static void bg_deepwalk(tiny_ctx *ctx)
{
    static const float weight[4] = { 1.0f, 1.0f, 7.81f, 45.28f };
    static const char file[] = "../shared/data/graphs/blogcatalog/edges.tsv";
    const double share = b_quick ? 1.0 / 320 : 1.0 / 40;
    tgnn_graph_desc how = { 0 };
    FILE *there = fopen(file, "rb");
    bg_embed a[2];
    b_row rows[2];
    char on[280];
    double ratio;
    memset(a, 0, sizeof a);
    how.symmetrize = 1;
    how.duplicates = TINY_DUPLICATES_FIRST;
    if (there) {
        (void)fclose(there);
        b_must(ctx, tgnn_graph_read(ctx, file, &how, &a[0].g));
    } else b_must(ctx, tgnn_planted(ctx, 10312, 39, 65.0, 0.3, 1, &a[0].g));
    a[0].ctx = ctx;
    a[0].y =
        tiny_tensor_2d(b_alloc((size_t)tgnn_graph_nodes(a[0].g) * 128 * 4), TINY_F32, tgnn_graph_nodes(a[0].g), 128);
    a[0].d.n_weights = 4;
    memcpy(a[0].d.weight, weight, sizeof weight);
    a[0].d.beta = -0.628;
    a[0].d.standardize = 1;
    ratio = bg_embed_contest(there ? "Embeddings of BlogCatalog"
                                   : "Embeddings of planted classes (not BlogCatalog, whose data is not here)",
                             a, rows, 2, share, there ? "10312" : "10312 planted");
    if (rows[1].run) {
        (void)snprintf(
            on, sizeof on,
            "%s, %td nodes, %lld edges, d = 128; FastRP with four powers, DeepWalk of our own in C "
            "(`bench/gnn/deepwalk.c`): 1/%.0f of its 80 walks of 40 from each node, times %.0f; both with %d threads",
            there ? "BlogCatalog" : "planted classes", tgnn_graph_nodes(a[0].g),
            (long long)(tgnn_graph_edges(a[0].g) / 2), 1.0 / share, 1.0 / share, b_threads);
        b_headline("fastrp", "FastRP: over 4000 times faster than DeepWalk", on,
                   "%.0f times: %.3f s, DeepWalk %.1f s", ratio, rows[0].median_ns * 1e-9,
                   rows[1].median_ns / share * 1e-9);
    }
    tgnn_graph_close(ctx, a[0].g);
    b_free(a[0].y.data);
}

static void bg_fastrp(tiny_ctx *ctx)
{
    const int scale = b_quick ? 16 : 20;
    const double share = b_quick ? 1.0 / 2000 : 1.0 / 10000;
    tgnn_graph *g;
    bg_embed a[3];
    b_row rows[3];
    char on[200], nodes[16];
    double ratio;
    memset(a, 0, sizeof a);
    b_must(ctx, tgnn_rmat(ctx, scale, (int64_t)10 << scale, 1, &g));
    a[0].ctx = ctx;
    a[0].g = bg_simple(ctx, g);             /* takes g */
    a[0].y = tiny_tensor_2d(b_alloc(((size_t)128 << scale) * 4), TINY_F32, (tiny_idx)1 << scale, 128);
    (void)snprintf(nodes, sizeof nodes, "2^%d", scale);
    ratio = bg_embed_contest("Embeddings by sparse random projection", a, rows, 3, share, nodes);
    (void)snprintf(
        on, sizeof on,
        "R-MAT, 2^%d nodes, %.1f M edges in both directions, d = 128, three powers; DeepWalk: 1/%.0f of its walks",
        scale, (double)tgnn_graph_edges(a[0].g) / 1e6, 1.0 / share);
    if (rows[2].run)
        b_headline("fastrp", "FastRP: embeds a million nodes in seconds", on,
                   "%.2f s; 32 columns at a time %.2f s; DeepWalk would take %.0f s, %.0f times as long",
                   rows[0].median_ns * 1e-9, rows[1].median_ns * 1e-9, rows[2].median_ns / share * 1e-9, ratio);
    else
        b_headline("fastrp", "FastRP: embeds a million nodes in seconds", on, "%.2f s; 32 columns at a time %.2f s",
                   rows[0].median_ns * 1e-9, rows[1].median_ns * 1e-9);
    tgnn_graph_close(ctx, a[0].g);
    b_free(a[0].y.data);
}

void bench_embed(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    bg_deepwalk(ctx);
    bg_fastrp(ctx);
    tiny_ctx_close(ctx);
}

/* ---- files */

typedef struct bg_file { tiny_ctx *ctx; size_t memory; tgnn_convert_info info; } bg_file;

static void bg_file_run(void *arg)
{
    bg_file *a = (bg_file *)arg;
    tgnn_convert_desc d = { 0 };
    tgnn_graph *g;
    d.memory = a->memory;
    if (a->memory) b_must(a->ctx, tgnn_graph_convert(a->ctx, "b-graph.tsv", "b-graph.tgraph", &d, &a->info));
    else {
        b_must(a->ctx, tgnn_graph_read(a->ctx, "b-graph.tsv", NULL, &g));
        b_must(a->ctx, tgnn_graph_write(a->ctx, "b-graph.tgraph", g));
        tgnn_graph_close(a->ctx, g);
    }
}

/* the memory of the whole graph compared with limits below it: the cost of an edge in pieces */
static void bg_files(tiny_ctx *ctx)
{
    static const size_t memory[3] = { 0, (size_t)64 << 20, (size_t)4 << 20 };
    static const char *const names[3] = { "edge list to .tgraph, whole", "in 64 MB", "in 4 MB" };
    const int scale = b_quick ? 17 : 20;
    bg_file a[3];
    b_row rows[3];
    tgnn_graph *g;
    int i;
    memset(a, 0, sizeof a);
    memset(rows, 0, sizeof rows);
    b_must(ctx, tgnn_rmat(ctx, scale, (int64_t)16 << scale, 1, &g));
    b_must(ctx, tgnn_graph_write_text(ctx, "b-graph.tsv", g));
    for (i = 0; i < 3; i++) {
        a[i].ctx = ctx;
        a[i].memory = memory[i];
        rows[i].what = names[i];
        rows[i].target = "ours";
        rows[i].threads = 1;
        rows[i].run = bg_file_run;
        rows[i].arg = &a[i];
        rows[i].flops = (double)tgnn_graph_edges(g);
        b_shape(&rows[i], "%d k nodes, %lld M edges", 1 << scale >> 10, (long long)(tgnn_graph_edges(g) >> 20));
    }
    b_contest("Files of graphs larger than memory (Gop/s: edges)", rows, 3);
    b_note("%lld and %lld runs, %d and %d merges before the last", (long long)a[1].info.n_runs,
           (long long)a[2].info.n_runs, a[1].info.n_merges, a[2].info.n_merges);
    b_verdict("time in 64 MB against that of the whole graph", rows[1].median_ns / rows[0].median_ns, "<=", 2.0);
    tgnn_graph_close(ctx, g);
    (void)remove("b-graph.tsv");
    (void)remove("b-graph.tgraph");
}

void bench_graph(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    bg_sums(ctx);
    if (b_aim == TINY_TARGET_AUTO) {        /* without kernels: the same on every target */
        bg_partition(ctx);
        bg_reorder(ctx);
        bg_sampling(ctx);
        bg_files(ctx);
    }
    tiny_ctx_close(ctx);
}
