/* src/math/train.c - the training loop; parameters in a file
 * Data     one permutation of the samples, and one tape of the size that the dry run needed.
 * Left out an incomplete last batch of an epoch: the next epoch has another order. */
#include "math/train.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "core/box/checkpoint.h"
#include <stdio.h>
#include <string.h>

TINY_API tiny_tensor tiny_tape_rows(tiny_tape *tape, const tiny_tensor *data, const uint32_t *sample, tiny_idx n)
{
    tiny_tensor y;
    tiny_idx dim[TINY_MAX_RANK], i;
    size_t row;
    memset(&y, 0, sizeof y);
    if (!tape || tiny_tape_status(tape)) return y;
    if (!data || !sample || tiny_tensor_check(data) || data->rank < 1 || !tiny_tensor_is_dense(data) || n < 0) {
        (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "tape: rows: the data must be a dense tensor with rows");
        return y;
    }
    memcpy(dim, data->dim, sizeof dim);
    dim[0] = n;
    y = tiny_tape_new(tape, data->dtype, data->rank, dim);
    if (!y.data || tiny_tape_dry(tape) || !n) return y;
    row = (size_t)(tiny_tensor_count(&y) / n) * tiny_dtype_bytes(data->dtype);
    for (i = 0; i < n; i++) {
        if ((tiny_idx)sample[i] >= data->dim[0]) {
            (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "tape: rows: a sample is out of range");
            memset(&y, 0, sizeof y);
            return y;
        }
        if (row)
            memcpy((unsigned char *)y.data + (size_t)i * row,
                   (const unsigned char *)data->data + (size_t)sample[i] * row, row);
    }
    return y;
}

/* ---- files */

static const char *tinyi_params_name(char text[160], const tiny_param *p, size_t i)
{
    if (p->name) (void)snprintf(text, 160, "param/%.140s", p->name);
    else (void)snprintf(text, 160, "param/%zu", i);
    return text;
}

TINY_API tiny_status tiny_params_save(tiny_ctx *ctx, const char *path, const tiny_param *params, size_t n,
                                      const tiny_optim *opt)
{
    tiny_checkpoint_writer_desc d;
    tiny_checkpoint_writer *w = NULL;
    tiny_tensor state;
    char name[160], of[128];
    tiny_status st = tinyi_ctx_check(ctx);
    size_t i;
    if (st) return st;
    if (!path || (!params && n)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "save: a path and parameters are required");
    memset(&d, 0, sizeof d);
    d.path = path;
    st = tiny_checkpoint_create(ctx, &d, &w);
    for (i = 0; !st && i < n; i++)
        st = tiny_checkpoint_put_tensor(ctx, w, tinyi_params_name(name, &params[i], i), &params[i].value);
    for (i = 0; !st && opt && tiny_optim_state(opt, i, of, &state); i++) {
        (void)snprintf(name, sizeof name, "optim/%.140s", of);
        st = tiny_checkpoint_put_tensor(ctx, w, name, &state);
    }
    if (!st && opt) st = tiny_checkpoint_put_u64(ctx, w, "steps", (uint64_t)tiny_optim_steps(opt));
    if (!st) st = tiny_checkpoint_finish(ctx, w);
    tiny_checkpoint_writer_close(ctx, w);
    return st;
}

TINY_API tiny_status tiny_params_load(tiny_ctx *ctx, const char *path, const tiny_param *params, size_t n,
                                      tiny_optim *opt)
{
    tiny_checkpoint_desc d;
    tiny_checkpoint *c = NULL;
    tiny_tensor state;
    uint64_t steps = 0;
    char name[160], of[128];
    tiny_status st = tinyi_ctx_check(ctx);
    size_t i;
    if (st) return st;
    if (!path || (!params && n)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "load: a path and parameters are required");
    memset(&d, 0, sizeof d);
    d.path = path;
    st = tiny_checkpoint_open(ctx, &d, &c);
    for (i = 0; !st && i < n; i++)
        st = tiny_checkpoint_expect(ctx, c, tinyi_params_name(name, &params[i], i), &params[i].value);
    for (i = 0; !st && opt && tiny_optim_state(opt, i, of, &state); i++) {
        (void)snprintf(name, sizeof name, "optim/%.140s", of);
        st = tiny_checkpoint_expect(ctx, c, name, &state);
    }
    for (i = 0; !st && i < n; i++) {        /* all is there: nothing stays half read */
        tiny_tensor t = params[i].value;
        st = tiny_checkpoint_get_tensor(ctx, c, tinyi_params_name(name, &params[i], i), &t);
    }
    for (i = 0; !st && opt && tiny_optim_state(opt, i, of, &state); i++) {
        (void)snprintf(name, sizeof name, "optim/%.140s", of);
        st = tiny_checkpoint_get_tensor(ctx, c, name, &state);
    }
    if (!st && opt) st = tiny_checkpoint_get_u64(ctx, c, "steps", &steps);
    if (!st && opt) st = tiny_optim_resume(opt, (int64_t)steps);
    tiny_checkpoint_close(ctx, c);
    return st;
}

/* ---- the loop */

static tiny_status tinyi_train_tape(tiny_ctx *ctx, const tiny_train_desc *d, size_t bytes, int dry, tiny_tape **tape)
{
    tiny_tape_desc t;
    tiny_status st;
    size_t i;
    memset(&t, 0, sizeof t);
    t.bytes = bytes;
    t.dry = dry;
    st = tiny_tape_open(ctx, &t, tape);
    for (i = 0; !st && i < d->n_params; i++) st = tiny_tape_param(*tape, &d->params[i]);
    return st;
}

static tiny_status tinyi_train_step(const tiny_train_desc *d, tiny_tape *tape, const uint32_t *sample, tiny_idx batch,
                                    double *loss)
{
    const tiny_tensor y = d->model(tape, d->user, sample, batch);
    tiny_tape_zero(tape);
    if (!tiny_tape_status(tape) && !tiny_tape_dry(tape) && y.data && tiny_tensor_count(&y) == 1)
        *loss = y.dtype == TINY_F64 ? *(const double *)y.data : (double)*(const float *)y.data;
    return tiny_tape_backward(tape, &y, NULL);
}

TINY_API tiny_status tiny_train(tiny_ctx *ctx, const tiny_train_desc *d, tiny_train_state *last)
{
    tiny_train_state s;
    tiny_schedule schedule;
    tiny_tape_mark mark;
    tiny_tape *tape = NULL;
    uint32_t *order = NULL;
    char says[320];
    tiny_idx batch, batches;
    int64_t at;
    int stop = 0, stepping = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&s, 0, sizeof s);
    if (last) *last = s;
    if (st) return st;
    if (!d || !d->params || !d->n_params || !d->model || !d->n_samples)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "train: parameters, a model and samples are required");
    if (d->batch < 0 || d->batch > (tiny_idx)d->n_samples || d->epochs < 0 || d->save_every < 0 ||
        ((d->resume || d->save_every) && !d->save))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "train: batch %td of %u samples, %lld epochs, save every %lld steps%s",
                          d->batch, (unsigned)d->n_samples, (long long)d->epochs, (long long)d->save_every,
                          d->save ? "" : " without a file");
    batch = d->batch ? d->batch : TINYI_MIN(32, (tiny_idx)d->n_samples);
    batches = (tiny_idx)d->n_samples / batch;
    if (d->epochs > INT64_MAX / (int64_t)batches)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "train: %lld epochs of %td batches are too many steps",
                          (long long)d->epochs, batches);
    s.steps = (d->epochs ? d->epochs : 1) * (int64_t)batches;
    if (d->first < 0 || d->first > s.steps || (d->first && d->save))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "train: the first step is %lld of %lld%s", (long long)d->first,
                          (long long)s.steps, d->save ? ", and there is a file" : "");
    schedule = d->schedule;
    if (!schedule.total) schedule.total = s.steps;
    order = (uint32_t *)tinyi_alloc(ctx, d->n_samples, sizeof *order);
    if (!order) return tiny_ctx_status(ctx);
    for (at = 0; at < (int64_t)d->n_samples; at++) order[at] = (uint32_t)at;
    st = tinyi_train_tape(ctx, d, 0, 1, &tape);
    if (!st) st = tinyi_train_step(d, tape, order, batch, &s.loss);
    s.tape_bytes = tiny_tape_high(tape);
    tiny_tape_close(tape);
    tape = NULL;
    if (!st) st = tinyi_train_tape(ctx, d, s.tape_bytes, 0, &tape);
    if (!st) st = tiny_optim_open(ctx, d->params, d->n_params, &d->optim, &s.optim);
    if (!st && d->resume) st = tiny_params_load(ctx, d->save, d->params, d->n_params, s.optim);
    mark = tiny_tape_now(tape);
    s.epoch = -1;
    for (at = d->first ? d->first : tiny_optim_steps(s.optim); !st && !stop && at < s.steps; at++) {
        const int64_t epoch = at / batches;
        if (epoch != s.epoch && !d->in_order) {
            tiny_rng rng = tiny_rng_make(d->seed, (uint64_t)epoch);
            tiny_rng_permutation(&rng, order, d->n_samples);
        }
        s.epoch = epoch;
        s.step = at + 1;
        s.factor = tiny_schedule_at(&schedule, at);
        stepping = 1;
        st = tinyi_train_step(d, tape, order + (at % batches) * batch, batch, &s.loss);
        if (!st && d->gradients) st = d->gradients(d->user);
        if (!st) st = tiny_optim_step(s.optim, s.factor);
        if (st) break;
        stepping = 0;
        s.grad_norm = tiny_optim_grad_norm(s.optim);
        tiny_tape_release(tape, mark);
        if (d->callback) stop = d->callback(d->user, &s);
        if (d->save && d->save_every && s.step % d->save_every == 0 && s.step < s.steps)
            st = tiny_params_save(ctx, d->save, d->params, d->n_params, s.optim);
    }
    if (!st && d->save) st = tiny_params_save(ctx, d->save, d->params, d->n_params, s.optim);
    if (st && stepping) {
        (void)snprintf(says, sizeof says, "%.300s", tiny_ctx_message(ctx));
        (void)tinyi_fail(ctx, st, "train: step %lld: %s", (long long)s.step, says);
    }
    tiny_optim_close(s.optim);
    s.optim = NULL;
    tiny_tape_close(tape);
    tiny_free(ctx, order);
    if (last) *last = s;
    return st;
}
