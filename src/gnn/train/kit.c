/* src/gnn/train/kit.c - steps of Adam, evaluation of epochs, early stopping */
#include <math.h>
#include <string.h>
#include "gnn/train/kit_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"

tiny_status tinyi_kit_check(tiny_ctx *ctx, const tgnn_net *net, const tgnn_train_desc *d)
{
    if (!net) return tinyi_fail(ctx, TINY_E_ARGUMENT, "train: there is no net");
    if (d->epochs < 0 || d->patience < 0 || d->batch < 0 || d->halve_every < 0 || !(d->lr >= 0.0 && d->lr < 1e6) ||
        !(d->decay >= 0.0 && d->decay < 1e6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "train: %d epochs, patience %d, batch %d, lr %g, decay %g: none may be negative", d->epochs,
                          d->patience, d->batch, d->lr, d->decay);
    return TINY_OK;
}

TINY_REF_BEGIN
double tinyi_kit_row(const float *y, tiny_idx n, int32_t label, int *right)
{
    double sum = 0.0;
    tiny_idx k, best = 0;
    for (k = 1; k < n; k++)
        if (y[k] > y[best]) best = k;
    for (k = 0; k < n; k++) sum += tinyi_exp64((double)y[k] - (double)y[best]);
    *right = best == (tiny_idx)label;
    return tinyi_log64(sum) + (double)y[best] - (double)y[label];
}
TINY_REF_END

static tiny_status tinyi_kit_step(tinyi_kit *k, tiny_tape *tape, tiny_optim *opt, double *loss)
{
    const tiny_tape_mark mark = tiny_tape_now(tape);
    const int halve = k->desc->halve_every;
    tiny_tensor y;
    int64_t done = tiny_optim_steps(opt) / k->steps;
    double factor = 1.0;
    tiny_status st;
    for (; halve && done >= halve && factor > 1e-12; done -= halve) factor *= 0.5;
    k->pass->train = 1;
    y = k->loss(tape, k->task);
    tiny_tape_zero(tape);
    if (!tiny_tape_status(tape) && y.data) *loss += (double)*(const float *)y.data / (double)k->steps;
    st = tiny_tape_backward(tape, &y, NULL);
    if (!st && k->pass->guest) *loss += k->pass->guest->before(k->pass->guest->arg) / (double)k->steps;
    if (!st) st = tiny_optim_step(opt, factor);
    if (!st && k->pass->guest) k->pass->guest->after(k->pass->guest->arg);
    k->pass->train = 0;
    tiny_tape_release(tape, mark);
    return st;
}

tiny_status tinyi_kit_run(tinyi_kit *k, tgnn_epoch *last)
{
    const tgnn_train_desc *d = k->desc;
    const int epochs = d->epochs ? d->epochs : 200, judged = d->patience || d->callback;
    tiny_optim_desc od;
    tiny_optim *opt = NULL;
    tiny_tape *tape = NULL;
    tgnn_epoch e;
    float *best = NULL;
    double least = 0.0, loss = 0.0;             /* of the epoch whose weights are kept */
    int epoch, step, group, since = 0, stop = 0;
    tiny_status st;
    memset(&od, 0, sizeof od);
    memset(&e, 0, sizeof e);
    e.val_loss = e.train = e.val = e.test = (double)NAN;
    od.group[0].kind = od.group[1].kind = TINY_OPTIM_ADAM;
    od.group[0].lr = od.group[1].lr = d->lr > 0.0 ? d->lr : 0.01;
    od.group[0].decay = d->decay;
    od.group[1].decay = d->decay_all ? d->decay : 0.0;
    for (group = 2; k->pass->guest && group < TINY_OPTIM_GROUPS; group++) {
        od.group[group].kind = TINY_OPTIM_ADAM;
        od.group[group].lr = k->pass->guest->lr[group];
    }
    st = tiny_optim_open(k->ctx, k->pass->param, k->pass->n_params, &od, &opt);
    if (!st && d->patience) {
        best = (float *)tinyi_alloc(k->ctx, k->pass->n_values, sizeof *best);
        if (!best) st = tiny_ctx_status(k->ctx);
    }
    k->pass->train = 1;
    if (!st && k->next) st = k->next(k->task, 0, 0);
    if (!st) st = tinyi_pass_tape(k->pass, k->loss, k->task, 0, &tape);
    k->pass->train = 0;
    for (epoch = 1; !st && !stop && epoch <= epochs; epoch++) {
        e.epoch = epoch;
        e.loss = 0.0;
        for (step = 0; !st && step < k->steps; step++) {
            if (k->next) st = k->next(k->task, epoch, step);
            if (!st) st = tinyi_kit_step(k, tape, opt, &e.loss);
        }
        if (st || !judged) continue;
        st = k->judge(k->task, &e);
        if (!st && d->patience) {
            since++;
            if (epoch == 1 || e.val_loss < least) {
                least = e.val_loss;
                loss = e.loss;
                since = 0;
                tinyi_pass_keep(k->pass, best);
            }
            stop = since >= d->patience || e.val_loss != e.val_loss;
        }
        if (!st && d->callback && d->callback(d->user, &e)) stop = 1;
    }
    if (!st && best) {
        tinyi_pass_back(k->pass, best);
        e.epoch -= since;
        e.loss = loss;
    }
    if (!st) tinyi_pass_fold(k->pass);
    k->last = 1;
    if (!st && last) {
        st = k->judge(k->task, &e);
        *last = e;
    }
    tiny_tape_close(tape);
    tiny_optim_close(opt);
    tiny_free(k->ctx, best);
    return st;
}
