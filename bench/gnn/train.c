/* bench/gnn/train.c - the time of an epoch of training on a graph
 *
 * Classes of nodes of a planted graph, all nodes in each step: a GCN of two layers (16 hidden) and a GAT (8 heads of 8,
 * then one), as papers have them, with dropout and Adam, nothing judged between the steps. An epoch is the difference
 * of calls of eleven epochs and of one: the norms of the graph, the search for zeros in x and the judgement at the end
 * are in both. Next to it are the sums over edges of such an epoch alone: two layers, forward and backward. The rest is
 * products, the transposed rows of the backward pass, dropout and Adam. */
#include "../bench.h"
#include "tinygnn.h"
#include <stdio.h>
#include <string.h>

typedef struct bgt_job { tiny_ctx *ctx; tgnn_net *net; tgnn_nodes data; tgnn_train_desc how; } bgt_job;
typedef struct bgt_sums { tiny_ctx *ctx; const tiny_sparse *a; float *x, *y, *w; tiny_idx f[2]; } bgt_sums;

static void bgt_train(void *arg)
{
    bgt_job *j = (bgt_job *)arg;
    b_must(j->ctx, tgnn_train_nodes(j->ctx, j->net, &j->data, &j->how, NULL));
}

static void bgt_sum(void *arg)
{
    bgt_sums *s = (bgt_sums *)arg;
    const tiny_idx n = s->a->n_rows, m = (tiny_idx)s->a->n;
    tiny_tensor offset = tiny_tensor_1d(s->a->offset, TINY_I64, n + 1), col = tiny_tensor_1d(s->a->col, TINY_I32, m),
                w = tiny_tensor_1d(s->w, TINY_F32, m);
    int i;
    for (i = 0; i < 4; i++) {
        tiny_tensor x = tiny_tensor_2d(s->x, TINY_F32, n, s->f[i & 1]),
                    y = tiny_tensor_2d(s->y, TINY_F32, n, s->f[i & 1]);
        b_must(s->ctx, tiny_spmm(s->ctx, &offset, &x, &col, &w, NULL, NULL, &y));
    }
}

static void bgt_epoch(tiny_ctx *ctx, const tgnn_data *d, int gat)
{
    const char *const name = gat ? "GAT" : "GCN";
    const tiny_sparse *a = tgnn_graph_in(d->graph);
    const tiny_idx widest = gat ? 64 : 16;
    tgnn_net_desc nd;
    tgnn_net *net;
    bgt_job job[2];
    bgt_sums sums;
    b_row rows[3];
    char says[100], on[160];
    double epoch;
    int i;
    memset(&nd, 0, sizeof nd);
    memset(job, 0, sizeof job);
    memset(rows, 0, sizeof rows);
    nd.kind = gat ? TGNN_LAYER_GAT : TGNN_LAYER_GCN;
    nd.n_in = d->x.dim[1];
    nd.n_out = d->n_class;
    nd.dropout = gat ? 0.6f : 0.5f;
    b_must(ctx, tgnn_net_usual(ctx, &nd, 0, &net));
    sums.ctx = ctx;
    sums.a = a;
    sums.x = (float *)b_alloc((size_t)(a->n_rows * widest) * 4);
    sums.y = (float *)b_alloc((size_t)(a->n_rows * widest) * 4);
    sums.w = (float *)b_alloc((size_t)a->n * 4);
    sums.f[0] = widest;
    sums.f[1] = d->n_class;
    for (i = 0; i < 2; i++) {
        job[i].ctx = ctx;
        job[i].net = net;
        job[i].data.graph = d->graph;
        job[i].data.x = &d->x;
        job[i].data.label = d->label;
        job[i].data.split = d->split;
        job[i].data.split_step = d->n_split;
        job[i].how.epochs = i ? 11 : 1;
        job[i].how.lr = gat ? 0.005 : 0.01;
        job[i].how.decay = 5e-4;
        job[i].how.decay_all = gat;
        rows[i].run = bgt_train;
        rows[i].arg = &job[i];
        rows[i].what = i ? "eleven epochs" : "one epoch";
    }
    rows[2].run = bgt_sum;
    rows[2].arg = &sums;
    rows[2].what = "sums over edges of one";
    for (i = 0; i < 3; i++) {
        rows[i].target = tiny_target_name(tiny_op_target(ctx, TINY_OP_SPMM));
        rows[i].threads = b_threads;
        b_shape(&rows[i], "%td nodes, %lld edges", a->n_rows, (long long)a->n);
    }
    (void)snprintf(says, sizeof says, "Training %s on a planted graph", name);
    b_contest(says, rows, 3);
    epoch = (rows[1].median_ns - rows[0].median_ns) / 10;
    (void)snprintf(says, sizeof says, "training, an epoch of %s, all nodes in each step", name);
    (void)snprintf(on, sizeof on, "planted classes, %td nodes, %.1f M edges, %td features, %d classes; %s", a->n_rows,
                   (double)a->n / 1e6, d->x.dim[1], (int)d->n_class, gat ? "8 heads of 8, then one" : "16 hidden");
    if (epoch > 0)
        b_headline("graphs", says, on,
                   "%.1f ms, %.1f ns an edge; sums over edges of the same widths, two layers forth and back, called "
                   "alone: %.0f %% of it",
                   epoch * 1e-6, epoch / (double)a->n, 100 * rows[2].median_ns / epoch);
    tgnn_net_free(ctx, net);
    b_free(sums.x);
    b_free(sums.y);
    b_free(sums.w);
}

void bench_gnn_train(void)
{
    tiny_ctx *ctx = b_ctx(TINY_TARGET_AUTO, b_threads);
    tgnn_data d;
    int gat;
    memset(&d, 0, sizeof d);
    b_must(ctx, tgnn_data_planted(ctx, b_quick ? 10000 : 100000, 8, 16.0, 0.75, 1, &d));
    b_must(ctx, tgnn_data_features(ctx, &d));
    for (gat = 0; gat < 2; gat++) bgt_epoch(ctx, &d, gat);
    tgnn_data_free(ctx, &d);
    tiny_ctx_close(ctx);
}
