/* src/gnn/operator/deeponet_fit.c - losses of masked fields, and the training of DeepONets on several tasks at once
 * Paper    V. Kumar et al., 2024 (arXiv 2408.02198).
 * Formula  loss = mean over tasks and their samples of |m (u^ - u)|^2 / |m u|^2. A step draws `batch` samples of each
 *          task, so all tasks weigh the same. The factor 1 / |m u|^2 is computed once for each sample.
 * Cost     a step: one pass of the trunk for all tasks with the same points, the branches for all samples
 * Left out weights of tasks; samples of one task with different points */
#include <string.h>
#include "gnn/operator/deeponet_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/layer.h"

/* sum of (m t)^2 of one sample; nothing is read where m is 0 */
static double tinyi_don_energy(const float *t, const float *m, tiny_idx n)
{
    double sum = 0.0;
    tiny_idx k;
    for (k = 0; k < n; k++) if (!m || m[k] != 0.0f) sum += (double)t[k] * (double)t[k];
    return sum;
}

static tiny_status tinyi_don_pair(tiny_ctx *ctx, const tiny_tensor *y, const tiny_tensor *t, const tiny_tensor *m)
{
    const tiny_tensor *all[3];
    int i;
    all[0] = y;
    all[1] = t;
    all[2] = m;
    for (i = 0; i < 3; i++)
        if ((i < 2 || m) && (!all[i] || tiny_tensor_check(all[i]) || all[i]->dtype != TINY_F32 || all[i]->rank != 2 ||
                             all[i]->dim[0] < 1 || all[i]->dim[1] < 1 || all[i]->dim[0] != y->dim[0] ||
                             all[i]->dim[1] != y->dim[1] || !tiny_tensor_is_dense(all[i])))
            return tinyi_fail(ctx, TINY_E_SHAPE, "deeponet: %s must be dense f32, samples x points like y",
                              i == 0 ? "y" : i == 1 ? "the truth" : "the mask of the loss");
    return TINY_OK;
}

static tiny_status tinyi_don_no_energy(tiny_ctx *ctx, tiny_idx sample)
{
    return tinyi_fail(ctx, TINY_E_NUMERIC,
                      "deeponet: the truth of sample %td is zero or not finite inside its mask, so it has no relative "
                      "error", sample);
}

TINY_API tiny_status tgnn_masked_error(tiny_ctx *ctx, const tiny_tensor *y, const tiny_tensor *t, const tiny_tensor *m,
                                       double *error)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_idx i, k, n;
    if (st) return st;
    if (!error) return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: an output is needed");
    *error = 0.0;
    st = tinyi_don_pair(ctx, y, t, m);
    if (st) return st;
    n = y->dim[1];
    for (i = 0; i < y->dim[0]; i++) {
        const float *a = (const float *)y->data + i * n, *b = (const float *)t->data + i * n,
                    *in = m ? (const float *)m->data + i * n : NULL;
        const double energy = tinyi_don_energy(b, in, n);
        double sum = 0.0;
        if (!(energy > 0.0) || energy - energy != 0.0) return tinyi_don_no_energy(ctx, i);
        for (k = 0; k < n; k++)
            if (!in || in[k] != 0.0f) sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
        *error += tinyi_sqrt(sum / energy) / (double)y->dim[0];
    }
    return TINY_OK;
}

/* Without plain, the factors of the samples; with it, one factor for all. */
static tiny_tensor tinyi_don_factors(tiny_tape *tape, const tiny_tensor *t, const tiny_tensor *m, int plain)
{
    const tiny_idx samples = t->dim[0], n = t->dim[1];
    double ones = 0.0;
    tiny_tensor w = tiny_tape_new(tape, TINY_F32, 1, &samples);
    tiny_idx i;
    if (!w.data || tiny_tape_dry(tape)) return w;
    for (i = 0; plain && i < samples * n; i++) ones += m ? (double)((const float *)m->data)[i] : 1.0;
    for (i = 0; i < samples; i++) {
        const double energy = plain ? ones / (double)samples
                                    : tinyi_don_energy((const float *)t->data + i * n,
                                                       m ? (const float *)m->data + i * n : NULL, n);
        if (!(energy > 0.0) || energy - energy != 0.0) {
            tiny_ctx *ctx = tiny_tape_ctx(tape);
            const tiny_status st = plain ? tinyi_fail(ctx, TINY_E_NUMERIC,
                                                      "deeponet: the mask of the loss is all zeros")
                                         : tinyi_don_no_energy(ctx, i);
            (void)tinyi_tape_refuse(tape, st, tiny_ctx_message(ctx));
            return w;
        }
        ((float *)w.data)[i] = (float)(1.0 / energy);
    }
    return w;
}

TINY_API tiny_tensor tgnn_tape_masked_l2(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *t,
                                         const tiny_tensor *m, int plain)
{
    tiny_tensor none, w, e;
    tiny_ctx *ctx;
    tiny_idx i;
    memset(&none, 0, sizeof none);
    if (!tape || tiny_tape_status(tape)) return none;
    ctx = tiny_tape_ctx(tape);
    if (tinyi_don_pair(ctx, y, t, m)) {
        (void)tinyi_tape_refuse(tape, tiny_ctx_status(ctx), tiny_ctx_message(ctx));
        return none;
    }
    w = tinyi_don_factors(tape, t, m, plain);
    e = *t;
    if (m) {                                /* a NaN outside must not come in */
        const tiny_idx n = t->dim[0] * t->dim[1];
        e = tiny_tape_new(tape, TINY_F32, 2, t->dim);
        for (i = 0; e.data && !tiny_tape_dry(tape) && i < n; i++)
            ((float *)e.data)[i] = ((const float *)m->data)[i] != 0.0f ? ((const float *)t->data)[i] : 0.0f;
    }
    e = tiny_tape_sub(tape, y, &e);
    if (m) e = tiny_tape_mul(tape, &e, m);
    e = tiny_tape_call(tape, TINY_OP_NORM2, &e, NULL, NULL, NULL, NULL);
    e = tiny_tape_mul(tape, &e, &w);
    return tiny_tape_mean(tape, &e);
}

/* ---- training */

#define TINYI_DON_TASKS 64

typedef struct tinyi_don_job {
    tgnn_deeponet *net;
    const tgnn_deeponet_fit_desc *desc;
    uint32_t *sample;                       /* of one batch, of one task */
    int plain;
    int64_t steps;
} tinyi_don_job;

static int tinyi_don_same_points(const tgnn_deeponet *net, const tgnn_deeponet_query *a, const tgnn_deeponet_query *b)
{
    int i;
    if (a->points || b->points)
        return a->points && b->points && a->points->data == b->points->data && a->points->dim[0] == b->points->dim[0];
    for (i = 0; i < tgnn_deeponet_description(net)->d; i++) if (a->grid[i] != b->grid[i]) return 0;
    return 1;
}

static tiny_tensor tinyi_don_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    tinyi_don_job *job = (tinyi_don_job *)user;
    const tgnn_deeponet *net = job->net;
    const int branches = tgnn_deeponet_description(net)->n_branches;
    tiny_tensor loss, basis[TINYI_DON_TASKS];
    int k, b, i;
    memset(&loss, 0, sizeof loss);
    for (k = 0; k < job->desc->n_tasks && !tiny_tape_status(tape); k++) {
        const tgnn_deeponet_task *task = &job->desc->task[k];
        const tiny_tensor *inside = tinyi_don_inside(net, &task->query);
        const tiny_tensor *mask = task->mask ? task->mask : inside;
        tgnn_deeponet_query q = task->query;
        tiny_tensor in[TGNN_DEEPONET_BRANCHES], m[3], truth, y;
        tiny_idx at;
        for (at = 0; at < n; at++) job->sample[at] = (uint32_t)(sample[at] % (uint64_t)task->truth.dim[0]);
        for (i = 0; i < k && !tinyi_don_same_points(net, &q, &job->desc->task[i].query); i++) {}
        basis[k] = i < k ? basis[i] : tinyi_don_trunk(tape, net, &q, 0, tinyi_don_points(net, &q));
        for (b = 0; b < branches; b++) in[b] = tiny_tape_rows(tape, &task->query.in[b], job->sample, n);
        q.in = in;
        q.basis = &basis[k];
        if (q.mask) {
            m[0] = tiny_tape_rows(tape, task->query.mask, job->sample, n);
            q.mask = &m[0];
        }
        if (inside) {
            m[1] = inside == task->query.mask ? m[0] : tiny_tape_rows(tape, inside, job->sample, n);
            q.inside = &m[1];
        }
        if (mask) m[2] = mask == inside ? m[1] : tiny_tape_rows(tape, mask, job->sample, n);
        truth = tiny_tape_rows(tape, &task->truth, job->sample, n);
        y = tgnn_tape_deeponet(tape, net, &q);
        y = tgnn_tape_masked_l2(tape, &y, &truth, mask ? &m[2] : NULL, job->plain);
        loss = k ? tiny_tape_add(tape, &loss, &y) : y;
    }
    return tiny_tape_scale(tape, &loss, 1.0 / (double)job->desc->n_tasks, 0.0);
}

/* An epoch may have more steps than are left. */
static int tinyi_don_after_step(void *user, const tiny_train_state *state)
{
    const tinyi_don_job *job = (const tinyi_don_job *)user;
    return (job->desc->callback && job->desc->callback(job->desc->user, state)) || state->step >= job->steps;
}

/* All data before the first step: the sentence names the task. */
static tiny_status tinyi_don_check_task(tiny_ctx *ctx, const tgnn_deeponet *net, const tgnn_deeponet_fit_desc *d, int k)
{
    const tgnn_deeponet_task *task = &d->task[k];
    const tiny_tensor *mask = task->mask;
    char says[400];
    tiny_tensor y;
    double error;
    tiny_status st = TINY_OK;
    if (task->query.basis)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: the trunk is trained, so the query must not have a basis");
    if (!st) st = tinyi_don_fits(ctx, net, &task->query, 1);
    if (!st && task->truth.rank == 2 && task->truth.dim[0] != task->query.in[0].dim[0])
        st = tinyi_fail(ctx, TINY_E_SHAPE, "deeponet: %td samples of the truth, %td of the inputs", task->truth.dim[0],
                        task->query.in[0].dim[0]);
    if (!st && task->truth.rank == 2 && task->truth.dim[1] != tinyi_don_points(net, &task->query))
        st = tinyi_fail(ctx, TINY_E_SHAPE, "deeponet: the truth has %td points, the query %td", task->truth.dim[1],
                        tinyi_don_points(net, &task->query));
    if (!st && !mask) mask = tinyi_don_inside(net, &task->query);
    y = task->truth;
    if (!st) st = tinyi_don_pair(ctx, &y, &task->truth, mask);
    if (!st) st = tgnn_masked_error(ctx, &y, &task->truth, mask, &error);
    if (st) {
        size_t n = 0;
        const char *from = tiny_ctx_message(ctx);
        for (; from[n] && n + 1 < sizeof says; n++) says[n] = from[n];
        says[n] = 0;
        (void)tinyi_fail(ctx, st, "task %d: %s", k, says);
    }
    return st;
}

TINY_API tiny_status tgnn_deeponet_fit(tiny_ctx *ctx, tgnn_deeponet *net, const tgnn_deeponet_fit_desc *desc,
                                       tiny_train_state *last)
{
    tiny_train_desc d;
    tinyi_don_job job;
    tiny_param *list = NULL;
    int64_t steps, per_epoch;
    tiny_idx most = 1;
    tiny_status st = tinyi_ctx_check(ctx);
    int k;
    if (st) return st;
    if (!net || !desc || !desc->task)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: a network and tasks are needed");
    if (desc->n_tasks < 1 || desc->n_tasks > TINYI_DON_TASKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "deeponet: %d tasks, there can be 1 to %d", desc->n_tasks,
                          TINYI_DON_TASKS);
    if (desc->steps < 0 || desc->batch < 0 || !(desc->rate >= 0.0) || !(desc->decay >= 0.0 && desc->decay <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "deeponet: steps, batch and rate must not be negative, the decay must be "
                          "0 to 1");
    for (k = 0; !st && k < desc->n_tasks; k++) {
        st = tinyi_don_check_task(ctx, net, desc, k);
        if (!st) most = TINYI_MAX(most, desc->task[k].truth.dim[0]);
    }
    if (st) return st;
    memset(&d, 0, sizeof d);
    memset(&job, 0, sizeof job);
    job.net = net;
    job.desc = desc;
    job.plain = desc->plain;
    d.batch = TINYI_MIN(desc->batch ? desc->batch : 8, most);
    job.sample = (uint32_t *)tinyi_alloc(ctx, (size_t)d.batch, sizeof *job.sample);
    if (!job.sample) return tiny_ctx_status(ctx);
    d.params = tgnn_deeponet_params(net, &d.n_params);
    if (desc->last > 0) {
        d.n_params = tgnn_deeponet_last(net, desc->last, NULL);
        list = (tiny_param *)tinyi_alloc(ctx, d.n_params, sizeof *list);
        if (!list) st = tiny_ctx_status(ctx);
        else (void)tgnn_deeponet_last(net, desc->last, list);
        d.params = list;
    }
    steps = desc->steps ? desc->steps : 1000;
    job.steps = steps;
    per_epoch = most / d.batch;
    d.model = tinyi_don_loss;
    d.callback = tinyi_don_after_step;
    d.user = &job;
    d.n_samples = (uint32_t)most;
    d.epochs = (steps + per_epoch - 1) / per_epoch;
    d.seed = desc->seed;
    d.optim.group[0].kind = TINY_OPTIM_ADAM;
    d.optim.group[0].lr = desc->rate > 0.0 ? desc->rate : 1e-3;
    d.schedule.kind = TINY_SCHEDULE_STEP;
    d.schedule.gamma = tinyi_exp64(tinyi_log64(desc->decay > 0.0 ? desc->decay : 0.05) / 8.0);
    for (k = 0; k < 8; k++) d.schedule.at[k] = TINYI_MAX(steps * (k + 1) / 9, k + 1);
    if (!st) st = tiny_train(ctx, &d, last);
    tiny_free(ctx, list);
    tiny_free(ctx, job.sample);
    return st;
}
