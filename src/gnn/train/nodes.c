/* src/gnn/train/nodes.c - training for classes of nodes, all nodes in each step (full batch)
 * Paper    T. Kipf, M. Welling, 2017 (arXiv 1609.02907), section 3.1: cross-entropy over the labelled nodes of the
 *          training part. */
#include <math.h>
#include <string.h>
#include "gnn/train/kit_inside.h"
#include "gnn/graph/graph_inside.h"

typedef struct tinyi_node_task {
    tinyi_pass *pass;
    tinyi_pass_input in;
    const tgnn_nodes *data;
    tiny_idx n, n_class;
    tiny_ctx *ctx;
    /* area: y[1] - y[0] of the nodes of a part, those of class 1 first; NULL: shares that are right */
    float *score;
    uint32_t *order;
    int32_t *train;                         /* labels of the nodes to train on, -1 elsewhere */
    tiny_tape *eyes;                        /* without gradients */
} tinyi_node_task;

static char tinyi_node_part(const tgnn_nodes *d, tiny_idx i)
{
    return d->split[i * (d->split_step ? d->split_step : 1)];
}

static tiny_tensor tinyi_node_logits(tiny_tape *t, void *task)
{
    return tinyi_pass_run(t, ((tinyi_node_task *)task)->pass, &((tinyi_node_task *)task)->in);
}

static tiny_tensor tinyi_node_loss(tiny_tape *t, void *user)
{
    tinyi_node_task *task = (tinyi_node_task *)user;
    tiny_cross_entropy_params p;
    tiny_tensor label = tiny_tensor_1d(task->train, TINY_I32, task->n), y = tinyi_node_logits(t, user);
    memset(&p, 0, sizeof p);
    p.skip = 1;
    return tiny_tape_call(t, TINY_OP_CROSS_ENTROPY, &y, &label, NULL, NULL, &p);
}

static tiny_status tinyi_node_areas(tinyi_node_task *task, const tiny_tensor *y, tgnn_epoch *e)
{
    static const char part[3] = { 'r', 'v', 't' };
    double *const to[3] = { &e->train, &e->val, &e->test };
    tiny_idx i, n, first;
    int k, label;
    tiny_status st = TINY_OK;
    for (k = 0; !st && k < 3; k++) {
        for (n = first = 0, label = 1; label >= 0; label--) {
            for (i = 0; i < task->n; i++)
                if (tinyi_node_part(task->data, i) == part[k] && task->data->label[i] == label)
                    task->score[n++] = ((const float *)y->data)[2 * i + 1] - ((const float *)y->data)[2 * i];
            if (label) first = n;
        }
        st = tinyi_area(task->ctx, task->score, task->order, first, n, to[k]);
    }
    e->val_loss = 1.0 - e->val;
    return st;
}

static tiny_status tinyi_node_judge(void *user, tgnn_epoch *e)
{
    tinyi_node_task *task = (tinyi_node_task *)user;
    const tiny_tape_mark mark = tiny_tape_now(task->eyes);
    const tiny_tensor y = tinyi_node_logits(task->eyes, task);
    tiny_idx right[3] = { 0, 0, 0 }, all[3] = { 0, 0, 0 }, i;
    double loss = 0.0;
    tiny_status st = tiny_tape_status(task->eyes);
    if (!st && task->score) {
        st = tinyi_node_areas(task, &y, e);
        tiny_tape_release(task->eyes, mark);
        return st;
    }
    for (i = 0; !st && i < task->n; i++) {
        const char part = tinyi_node_part(task->data, i);
        const int k = part == 'r' ? 0 : part == 'v' ? 1 : part == 't' ? 2 : -1;
        double of;
        int is;
        if (k < 0 || task->data->label[i] < 0) continue;
        of = tinyi_kit_row((const float *)y.data + i * task->n_class, task->n_class, task->data->label[i], &is);
        if (k == 1) loss += of;
        right[k] += is;
        all[k]++;
    }
    tiny_tape_release(task->eyes, mark);
    e->val_loss = all[1] ? loss / (double)all[1] : (double)NAN;
    e->train = all[0] ? (double)right[0] / (double)all[0] : (double)NAN;
    e->val = all[1] ? (double)right[1] / (double)all[1] : (double)NAN;
    e->test = all[2] ? (double)right[2] / (double)all[2] : (double)NAN;
    return st;
}

static tiny_status tinyi_node_check(tiny_ctx *ctx, tinyi_node_task *t, const tgnn_net *net, const tgnn_train_desc *desc)
{
    tiny_idx i, train = 0, val = 0, ones = 0;
    int k;
    for (k = 0; k < net->n_stages; k++)
        if (net->stage[k].kind == TGNN_STAGE_READOUT)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "train: a net with a readout gives results for graphs, not for nodes");
    for (i = 0; i < t->n; i++) {
        const int32_t label = t->data->label[i];
        const char part = tinyi_node_part(t->data, i);
        if (label < -1 || (tiny_idx)label >= t->n_class)
            return tinyi_fail(ctx, TINY_E_FORMAT, "train: node %td has the label %ld, the net has %td classes", i,
                              (long)label, t->n_class);
        t->train[i] = part == 'r' ? label : -1;
        train += t->train[i] >= 0;
        val += part == 'v' && label >= 0;
        ones += part == 'v' && label == 1;
    }
    if (!train) return tinyi_fail(ctx, TINY_E_ARGUMENT, "train: no node of the training part has a label");
    if (desc->area && t->n_class != 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "train: the area under the ROC curve needs two classes, the net has %td", t->n_class);
    if (desc->area && desc->patience && val && (!ones || ones == val))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "train: patience %d, but all nodes of the validation part have the same class",
                          desc->patience);
    if (desc->patience && !val)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "train: patience %d, but no node is in the validation part", desc->patience);
    return TINY_OK;
}

TINY_API tiny_status tgnn_train_nodes(tiny_ctx *ctx, tgnn_net *net, const tgnn_nodes *data, const tgnn_train_desc *desc,
                                      tgnn_epoch *last)
{
    tgnn_train_desc none;
    tinyi_node_task task;
    tinyi_kit kit;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&none, 0, sizeof none);
    if (!desc) desc = &none;
    if (!data || !data->graph || !data->x || !data->label || !data->split)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "train: a graph, x, labels and split are required");
    st = tinyi_kit_check(ctx, net, desc);
    if (st) return st;
    memset(&task, 0, sizeof task);
    memset(&kit, 0, sizeof kit);
    task.data = data;
    task.n = tgnn_graph_nodes(data->graph);
    task.n_class = net->n_out;
    task.train = (int32_t *)tinyi_alloc(ctx, (size_t)task.n, sizeof *task.train);
    if (!task.train) return tiny_ctx_status(ctx);
    task.ctx = ctx;
    st = tinyi_node_check(ctx, &task, net, desc);
    if (!st && desc->area) {
        task.score = (float *)tinyi_alloc(ctx, (size_t)task.n, sizeof *task.score);
        task.order = task.score ? (uint32_t *)tinyi_alloc(ctx, (size_t)task.n, sizeof *task.order) : NULL;
        if (!task.order) st = tiny_ctx_status(ctx);
    }
    if (!st) st = tinyi_pass_open(ctx, net, desc->batch_norm, desc->seed, &task.pass);
#ifndef TINYI_NO_QUANT                      /* only that feature opens one */
    if (!st && desc->a2q) st = tinyi_a2q_join(desc->a2q, task.pass);
#endif
    if (!st) st = tinyi_pass_input_open(task.pass, data->graph, data->relation, data->n_relation, data->x, 1, &task.in);
    if (!st) st = tinyi_pass_tape(task.pass, tinyi_node_logits, &task, 1, &task.eyes);
    kit.ctx = ctx;
    kit.pass = task.pass;
    kit.desc = desc;
    kit.task = &task;
    kit.steps = 1;
    kit.loss = tinyi_node_loss;
    kit.judge = tinyi_node_judge;
    if (!st) st = tinyi_kit_run(&kit, last);
    tiny_tape_close(task.eyes);
    if (task.pass) tinyi_pass_input_close(task.pass, &task.in);
    tinyi_pass_close(task.pass);
    tiny_free(ctx, task.train);
    tiny_free(ctx, task.score);
    tiny_free(ctx, task.order);
    return st;
}
