/* src/gnn/train/graphs.c - training for classes of graphs, some graphs in each step
 * Paper    K. Xu, W. Hu, J. Leskovec, S. Jegelka, 2019 (arXiv 1810.00826), section 7: batches, sums over nodes, a
 *          learning rate that is halved.
 * Method   A step copies the rows of its graphs out of the union of all graphs: they are again one union. The order of
 *          the graphs depends only on the seed and the epoch, and batches are of nearly equal size. The size of the
 *          tape is measured once, for the most nodes and the most edges that a batch can have. */
#include <math.h>
#include <string.h>
#include "gnn/train/kit_inside.h"
#include "gnn/graph/graph_inside.h"
#include "core/state_inside.h"

typedef struct tinyi_graph_task {
    tiny_ctx *ctx;
    tinyi_pass *pass;
    tinyi_kit *kit;
    const tgnn_graphs *data;
    tiny_idx n_train, batch, n_class;
    uint32_t *train, *order;                /* the graphs to train on; their order in this epoch */
    int ordered;                            /* the epoch of order */
    tiny_idx room_nodes, room_edges;        /* of a batch at most */
    int64_t *offset, *at;                   /* the union of the batch */
    int32_t *col, *label;
    float *x;
    tiny_idx n;                             /* graphs in it */
    tgnn_graph *graph;
    tinyi_pass_input in;
    tiny_tape *eyes;
} tinyi_graph_task;

static char tinyi_graph_part(const tgnn_graphs *d, tiny_idx i)
{
    return d->split[i * (d->split_step ? d->split_step : 1)];
}

static void tinyi_graph_drop(tinyi_graph_task *t)
{
    if (t->pass) tinyi_pass_input_close(t->pass, &t->in);
    tgnn_graph_close(t->ctx, t->graph);
    t->graph = NULL;
}

/* offset, col and x hold the batch: its graph, and what the pass makes of it */
static tiny_status tinyi_graph_ready(tinyi_graph_task *t, tiny_idx nodes)
{
    tiny_tensor x = tiny_tensor_2d(t->x, TINY_F32, nodes, t->data->x->dim[1]);
    tiny_sparse a;
    tiny_status st;
    memset(&a, 0, sizeof a);
    a.form = TINY_CSR;
    a.n_rows = a.n_cols = nodes;
    a.n = t->offset[nodes];
    a.offset = t->offset;
    a.col = t->col;
    st = tgnn_graph_from_sparse(t->ctx, &a, &t->graph);
    if (!st) st = tinyi_pass_input_open(t->pass, t->graph, NULL, 0, &x, 0, &t->in);
    t->in.graph_at = t->at;
    t->in.n_graphs = t->n;
    return st;
}

/* graph which[0], which[1] ... */
static tiny_status tinyi_graph_gather(tinyi_graph_task *t, const uint32_t *which, tiny_idx n)
{
    const tgnn_graphs *d = t->data;
    const tiny_sparse *g = tgnn_graph_in(d->graph);
    const tiny_idx wide = d->x->dim[1];
    tiny_idx i, r, nodes = 0;
    int64_t p, p1, edges = 0;
    int bad = 0;
    tinyi_graph_drop(t);
    for (i = 0; i < n; i++) {
        const tiny_idx k = (tiny_idx)which[i];
        const int64_t first = d->graph_at[k], last = d->graph_at[k + 1];
        t->at[i] = (int64_t)nodes;
        t->label[i] = d->label[k];
        memcpy(t->x + nodes * wide, (const float *)d->x->data + first * wide,
               (size_t)((last - first) * wide) * sizeof(float));
        for (r = (tiny_idx)first; r < (tiny_idx)last; r++) {
            t->offset[nodes + r - first] = edges;
            tinyi_row_range(g, r, &p, &p1);
            bad |= p1 - p > (int64_t)t->room_edges - edges;
            for (; !bad && p < p1; p++) {
                const int32_t c = tinyi_row_col(g, p, &bad);
                bad |= c < first || c >= last;
                t->col[edges++] = (int32_t)(c - first + nodes);
            }
        }
        nodes += (tiny_idx)(last - first);
    }
    t->at[n] = (int64_t)nodes;
    t->offset[nodes] = edges;
    t->n = n;
    return bad ? tinyi_rows_changed(t->ctx, "train", g) : tinyi_graph_ready(t, nodes);
}

/* no graph of the data: as many nodes and edges as a batch can have, to measure the tape by */
static tiny_status tinyi_graph_largest(tinyi_graph_task *t)
{
    tiny_idx i;
    tinyi_graph_drop(t);
    t->n = t->batch;
    for (i = 0; i <= t->n; i++) t->at[i] = i == t->n ? (int64_t)t->room_nodes : 0;
    for (i = 0; i <= t->room_nodes; i++) t->offset[i] = i ? (int64_t)t->room_edges : 0;
    for (i = 0; i < t->room_edges; i++) t->col[i] = t->room_nodes > 1;
    for (i = 0; i < t->n; i++) t->label[i] = 0;
    memset(t->x, 0, (size_t)(t->room_nodes * t->data->x->dim[1]) * sizeof(float));
    return tinyi_graph_ready(t, t->room_nodes);
}

static tiny_status tinyi_graph_next(void *user, int epoch, int step)
{
    tinyi_graph_task *t = (tinyi_graph_task *)user;
    const tiny_idx from = t->n_train * step / t->kit->steps, to = t->n_train * (step + 1) / t->kit->steps;
    tiny_idx i;
    if (epoch == 0) return tinyi_graph_largest(t);
    if (t->ordered != epoch) {
        tiny_rng rng = tiny_rng_make(t->kit->desc->seed, 0x6f726465u + ((uint64_t)epoch << 32));
        tiny_rng_permutation(&rng, t->order, (uint32_t)t->n_train);
        for (i = 0; i < t->n_train; i++) t->order[i] = t->train[t->order[i]];
        t->ordered = epoch;
    }
    return tinyi_graph_gather(t, t->order + from, to - from);
}

static tiny_tensor tinyi_graph_logits(tiny_tape *tape, void *user)
{
    return tinyi_pass_run(tape, ((tinyi_graph_task *)user)->pass, &((tinyi_graph_task *)user)->in);
}

static tiny_tensor tinyi_graph_loss(tiny_tape *tape, void *user)
{
    tinyi_graph_task *t = (tinyi_graph_task *)user;
    tiny_tensor y = tinyi_graph_logits(tape, user), label = tiny_tensor_1d(t->label, TINY_I32, t->n);
    return tiny_tape_cross_entropy(tape, &y, &label, 0.0);
}

static tiny_status tinyi_graph_judge(void *user, tgnn_epoch *e)
{
    tinyi_graph_task *t = (tinyi_graph_task *)user;
    tiny_idx right[3] = { 0, 0, 0 }, all[3] = { 0, 0, 0 }, i, k, n;
    double loss = 0.0;
    tiny_status st = TINY_OK;
    for (i = 0; !st && i < t->data->n_graphs;) {
        const tiny_tape_mark mark = tiny_tape_now(t->eyes);
        uint32_t which[256];
        tiny_tensor y;
        for (n = 0; n < t->batch && n < 256 && i < t->data->n_graphs; i++) {
            const char part = tinyi_graph_part(t->data, i);
            if (t->data->label[i] >= 0 && (part == 'v' || part == 't' || (part == 'r' && t->kit->last)))
                which[n++] = (uint32_t)i;
        }
        if (!n) break;
        st = tinyi_graph_gather(t, which, n);
        if (st) break;
        y = tinyi_graph_logits(t->eyes, t);
        st = tiny_tape_status(t->eyes);
        for (k = 0; !st && k < n; k++) {
            const char part = tinyi_graph_part(t->data, (tiny_idx)which[k]);
            const int of = part == 'r' ? 0 : part == 'v' ? 1 : 2;
            int is;
            const double l = tinyi_kit_row((const float *)y.data + k * t->n_class, t->n_class, t->label[k], &is);
            if (of == 1) loss += l;
            right[of] += is;
            all[of]++;
        }
        tiny_tape_release(t->eyes, mark);
    }
    e->val_loss = all[1] ? loss / (double)all[1] : (double)NAN;
    e->train = all[0] ? (double)right[0] / (double)all[0] : (double)NAN;
    e->val = all[1] ? (double)right[1] / (double)all[1] : (double)NAN;
    e->test = all[2] ? (double)right[2] / (double)all[2] : (double)NAN;
    return st;
}

static void tinyi_graph_keep_largest(int64_t *top, tiny_idx n, int64_t v)
{
    tiny_idx i = n - 1;
    if (v <= top[i]) return;
    for (; i > 0 && top[i - 1] < v; i--) top[i] = top[i - 1];
    top[i] = v;
}

static tiny_status tinyi_graph_check(tinyi_graph_task *t, const tgnn_net *net, const tgnn_train_desc *desc,
                                     int64_t *top)
{
    const tgnn_graphs *d = t->data;
    const tiny_sparse *g = tgnn_graph_in(d->graph);
    tiny_idx i, r, val = 0;
    int64_t p, p1 = 0, nodes = 0, edges = 0;
    int k, readout = 0;
    char text[96];
    for (k = 0; k < net->n_stages; k++) readout |= net->stage[k].kind == TGNN_STAGE_READOUT;
    if (!readout)
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT,
                          "train: a net without a readout gives results for nodes, not for graphs");
    if (tiny_tensor_check(d->x) || d->x->dtype != TINY_F32 || d->x->rank != 2 || !tiny_tensor_is_dense(d->x) ||
        d->x->dim[0] != g->n_rows || d->x->dim[1] != net->n_in)
        return tinyi_fail(t->ctx, TINY_E_SHAPE, "train: x is %s, it must be %td x %td f32, dense",
                          tiny_tensor_check(d->x) ? "no tensor" : tinyi_shape_text(d->x, text), g->n_rows, net->n_in);
    if (d->graph_at[0] != 0 || d->graph_at[d->n_graphs] != (int64_t)g->n_rows)
        return tinyi_fail(t->ctx, TINY_E_FORMAT, "train: graph_at must begin with 0 and end with the %td nodes",
                          g->n_rows);
    for (i = 0; i < d->n_graphs; i++) {
        const int64_t first = d->graph_at[i], last = d->graph_at[i + 1], before = p1;
        if (last < first || last > (int64_t)g->n_rows)
            return tinyi_fail(t->ctx, TINY_E_FORMAT, "train: graph %td has the nodes %lld to %lld", i,
                              (long long)first, (long long)last);
        if (d->label[i] < -1 || (tiny_idx)d->label[i] >= t->n_class)
            return tinyi_fail(t->ctx, TINY_E_FORMAT, "train: graph %td has the label %ld, the net has %td classes", i,
                              (long)d->label[i], t->n_class);
        for (r = (tiny_idx)first; r < (tiny_idx)last; r++) {
            if (!tinyi_row_next(g, r, &p, &p1)) return tinyi_rows_changed(t->ctx, "train", g);
            for (; p < p1; p++)
                if (g->col[p] < first || g->col[p] >= last)
                    return tinyi_fail(t->ctx, TINY_E_FORMAT,
                                      "train: an edge leads from node %ld into another graph, to node %td",
                                      (long)g->col[p], r);
        }
        if (d->label[i] < 0) continue;
        if (tinyi_graph_part(d, i) == 'r') t->train[t->n_train++] = (uint32_t)i;
        val += tinyi_graph_part(d, i) == 'v';
        tinyi_graph_keep_largest(top, t->batch, last - first);
        tinyi_graph_keep_largest(top + t->batch, t->batch, p1 - before);
    }
    if (!t->n_train) return tinyi_fail(t->ctx, TINY_E_ARGUMENT, "train: no graph of the training part has a label");
    if (desc->patience && !val)
        return tinyi_fail(t->ctx, TINY_E_ARGUMENT,
                          "train: patience %d, but no graph is in the validation part", desc->patience);
    for (i = 0; i < t->batch; i++) {
        nodes += top[i];
        edges += top[t->batch + i];
    }
    t->room_nodes = (tiny_idx)nodes;
    t->room_edges = (tiny_idx)edges;
    return TINY_OK;
}

static tiny_status tinyi_graph_room(tinyi_graph_task *t)
{
    t->offset = (int64_t *)tinyi_alloc(t->ctx, (size_t)t->room_nodes + 1, sizeof *t->offset);
    t->at = t->offset ? (int64_t *)tinyi_alloc(t->ctx, (size_t)t->batch + 1, sizeof *t->at) : NULL;
    t->col = t->at ? (int32_t *)tinyi_alloc(t->ctx, (size_t)t->room_edges, sizeof *t->col) : NULL;
    t->label = t->col ? (int32_t *)tinyi_alloc(t->ctx, (size_t)t->batch, sizeof *t->label) : NULL;
    t->x = t->label ? (float *)tinyi_alloc(t->ctx, (size_t)(t->room_nodes * t->data->x->dim[1]), sizeof *t->x) : NULL;
    return t->x ? TINY_OK : tiny_ctx_status(t->ctx);
}

TINY_API tiny_status tgnn_train_graphs(tiny_ctx *ctx, tgnn_net *net, const tgnn_graphs *data,
                                       const tgnn_train_desc *desc, tgnn_epoch *last)
{
    tgnn_train_desc none;
    tinyi_graph_task t;
    tinyi_kit kit;
    int64_t *top = NULL;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&none, 0, sizeof none);
    if (!desc) desc = &none;
    if (!data || !data->graph || !data->x || !data->graph_at || !data->label || !data->split || data->n_graphs < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "train: graphs, x, graph_at, labels and split are required");
    st = tinyi_kit_check(ctx, net, desc);
    if (st) return st;
    memset(&t, 0, sizeof t);
    memset(&kit, 0, sizeof kit);
    t.ctx = ctx;
    t.kit = &kit;
    t.data = data;
    t.n_class = net->n_out;
    t.batch = TINYI_MIN(desc->batch ? desc->batch : 32, 256);
    t.batch = TINYI_MIN(t.batch, data->n_graphs);
    t.train = (uint32_t *)tinyi_alloc(ctx, (size_t)data->n_graphs * 2, sizeof *t.train);
    top = t.train ? (int64_t *)tinyi_alloc(ctx, (size_t)t.batch * 2, sizeof *top) : NULL;
    if (top) memset(top, 0, (size_t)t.batch * 2 * sizeof *top);
    st = top ? tinyi_graph_check(&t, net, desc, top) : tiny_ctx_status(ctx);
    t.order = t.train ? t.train + data->n_graphs : NULL;
    if (!st) st = tinyi_graph_room(&t);
    if (!st) st = tinyi_pass_open(ctx, net, desc->batch_norm, desc->seed, &t.pass);
#ifndef TINYI_NO_QUANT                      /* only that feature opens one */
    if (!st && desc->a2q) st = tinyi_a2q_join(desc->a2q, t.pass);
#endif
    if (!st) st = tinyi_graph_largest(&t);
    if (!st) st = tinyi_pass_tape(t.pass, tinyi_graph_logits, &t, 1, &t.eyes);
    kit.ctx = ctx;
    kit.pass = t.pass;
    kit.desc = desc;
    kit.task = &t;
    kit.steps = (int)((t.n_train + t.batch - 1) / t.batch);
    kit.next = tinyi_graph_next;
    kit.loss = tinyi_graph_loss;
    kit.judge = tinyi_graph_judge;
    if (!st) st = tinyi_kit_run(&kit, last);
    tiny_tape_close(t.eyes);
    tinyi_graph_drop(&t);
    tinyi_pass_close(t.pass);
    tiny_free(ctx, top);
    tiny_free(ctx, t.train);
    tiny_free(ctx, t.offset);
    tiny_free(ctx, t.at);
    tiny_free(ctx, t.col);
    tiny_free(ctx, t.label);
    tiny_free(ctx, t.x);
    return st;
}
