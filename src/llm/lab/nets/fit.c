/* src/llm/lab/nets/fit.c - training of small networks: with masks, gradual pruning, lottery tickets
 * Papers   M. Zhu, S. Gupta, 2017 (arXiv 1710.01878): gradual pruning. J. Frankle, M. Carbin, 2019 (arXiv 1803.03635);
 *          J. Frankle et al., 2019 (arXiv 1912.05671): tickets, rewound to an early step.
 * Formula  an event masks the rint(s n) smallest |w| of each layer (of all layers with global); stored values count, so
 *          that without hard a masked weight comes back when others have become smaller.
 * Left out moments of the optimiser are not rewound: a round begins with zeros, as the authors' second paper does. */
#include "llm/lab/nets/fit.h"
#include "llm/lab/nets/nn_inside.h"
#include "math/layer.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <float.h>
#include <string.h>

typedef struct tinyi_fit {
    tllm_nn *nn;
    const tllm_nn_fit_desc *d;
    tllm_nn_set set;
    tllm_nn_fit_state state;
    tllm_nn *snap;                          /* of step `snap_at` */
    int64_t snap_at;
    tiny_status st;
} tinyi_fit;

/* ---- events */

static tiny_status tinyi_gradual_event(tllm_nn *nn, const tllm_gradual *g, int64_t step)
{
    const double s = tllm_gradual_at(g, step);
    const tiny_dtype type = tllm_nn_is(nn)->dtype;
    const void *theta = tinyi_nn_theta(nn, 0);
    size_t n_layer, l, i, n, all = 0, pruned = 0;
    const tllm_nn_weight *w = tllm_nn_weights(nn, &n_layer);
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    const tllm_mask *old = tllm_nn_masked(nn);
    double *score;
    tllm_mask mask;
    tiny_status st;
    for (l = 0; l < n_layer; l++) all += (size_t)tiny_tensor_count(&w[l].value);
    st = tllm_mask_open(ctx, all, &mask);
    if (st) return st;
    score = (double *)tinyi_alloc(ctx, all, sizeof *score);
    if (!score) st = tiny_ctx_status(ctx);
    for (i = 0; !st && i < all; i++) {
        const double x = tinyi_real(theta, type, (tiny_idx)i);
        score[i] = x < 0.0 ? -x : x;
        if (g->hard && old && !tllm_mask_has(old, i)) score[i] = -1.0;      /* before every other */
    }
    for (l = 0; !st && l < n_layer; l++) {
        n = (size_t)tiny_tensor_count(&w[l].value);
        if (g->skip >> l & 1) {
            if (g->global) for (i = 0; i < n; i++) score[w[l].first + i] = DBL_MAX;
            continue;
        }
        pruned += n;
        if (!g->global) st = tllm_mask_top(ctx, &mask, w[l].first, n, score + w[l].first, n - tllm_mask_part(s, n));
    }
    if (!st && g->global) st = tllm_mask_top(ctx, &mask, 0, all, score, all - tllm_mask_part(s, pruned));
    if (!st) st = tllm_nn_mask(nn, &mask);
    if (!st && g->hard) tllm_nn_clear(nn);
    tiny_free(ctx, score);
    tllm_mask_close(ctx, &mask);
    return st;
}

TINY_API tiny_status tllm_nn_gradual(tllm_nn *nn, const tllm_gradual *g, int64_t step)
{
    tiny_status st;
    if (!nn) return TINY_E_ARGUMENT;
    st = tllm_gradual_check(tinyi_nn_ctx(nn), g);
    if (st || !tllm_gradual_due(g, step)) return st;
    return tinyi_gradual_event(nn, g, step);
}

/* ---- training */

static tiny_tensor tinyi_fit_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    const tinyi_fit *f = (const tinyi_fit *)user;
    const tiny_tensor x = tiny_tape_rows(tape, &f->set.x, sample, n),
                      label = tiny_tape_rows(tape, &f->set.label, sample, n);
    tiny_tensor y = tinyi_nn_run(tape, f->nn, &x, TINYI_NORM_TRAIN, NULL);
    return tiny_tape_cross_entropy(tape, &y, &label, 0.0);
}

/* The first moments of masked weights become 0: with a gradient of 0 Adam then moves them no more, by no bit. */
static tiny_status tinyi_fit_calm(const tinyi_fit *f, const tiny_optim *optim)
{
    const tllm_mask *mask = tllm_nn_masked(f->nn);
    size_t n_layer, l, i;
    const tllm_nn_weight *w = tllm_nn_weights(f->nn, &n_layer);
    tiny_tensor m;
    char name[128];
    for (l = 0; l < n_layer; l++) {         /* the weights come first, each with two moments */
        const tiny_idx n = tiny_tensor_count(&w[l].value);
        if (!tiny_optim_state(optim, 2 * l, name, &m) || strncmp(name, "adam.m.", 7) || strcmp(name + 7, w[l].name) ||
            tiny_tensor_count(&m) != n)
            return tinyi_fail(tinyi_nn_ctx(f->nn), TINY_E_ARGUMENT, "fit: the moments of %s are missing", w[l].name);
        for (i = 0; i < (size_t)n; i++)
            if (!tllm_mask_has(mask, w[l].first + i)) tinyi_real_set(m.data, m.dtype, (tiny_idx)i, 0.0);
    }
    return TINY_OK;
}

static int tinyi_fit_step(void *user, const tiny_train_state *s)
{
    tinyi_fit *f = (tinyi_fit *)user;
    const tiny_dtype type = tllm_nn_is(f->nn)->dtype;
    if (f->d->gradual && tllm_gradual_due(f->d->gradual, s->step)) {
        f->st = tinyi_gradual_event(f->nn, f->d->gradual, s->step);
        if (!f->st) f->st = tinyi_fit_calm(f, s->optim);
        f->state.n_kept = tllm_nn_cost_of(f->nn).n_kept;
    }
    if (!f->st && s->step == f->snap_at) f->st = tllm_nn_copy(f->nn, type, &f->snap);
    f->state.step = s->step;
    f->state.steps = s->steps;
    f->state.loss = s->loss;
    return f->st || (f->d->callback && f->d->callback(f->d->user, &f->state));
}

static tiny_status tinyi_fit_run(tinyi_fit *f)
{
    const tllm_nn_fit_desc *d = f->d;
    tiny_ctx *ctx = tinyi_nn_ctx(f->nn);
    const size_t n = tllm_nn_cost_of(f->nn).n_weight;
    tiny_train_desc t;
    tiny_status st;
    memset(&t, 0, sizeof t);
    t.params = tllm_nn_params(f->nn, &t.n_params);
    t.model = tinyi_fit_loss;
    t.callback = tinyi_fit_step;
    t.user = f;
    t.n_samples = (uint32_t)f->set.x.dim[0];
    t.batch = d->batch ? d->batch : TINYI_MIN(100, f->set.x.dim[0]);
    t.epochs = d->epochs ? d->epochs : 25;
    t.seed = d->seed;
    t.first = d->first;
    t.optim.group[0].kind = t.optim.group[1].kind = TINY_OPTIM_ADAM;
    t.optim.group[0].lr = t.optim.group[1].lr = d->lr != 0.0 ? d->lr : 2e-3;
    t.schedule.kind = TINY_SCHEDULE_COSINE;
    if (d->gradual && !tllm_nn_masked(f->nn)) {         /* before the tape gets its size */
        tllm_mask all;
        st = tllm_mask_open(ctx, n, &all);
        if (!st) st = tllm_nn_mask(f->nn, &all);
        tllm_mask_close(ctx, &all);
        if (st) return st;
    }
    f->st = TINY_OK;
    f->state.n_kept = tllm_nn_cost_of(f->nn).n_kept;
    st = tiny_train(ctx, &t, NULL);
    return st ? st : f->st;
}

static tiny_status tinyi_fit_begin(tinyi_fit *f, tllm_nn *nn, const tllm_nn_set *set, const tllm_nn_fit_desc *d)
{
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    const tiny_dtype type = tllm_nn_is(nn)->dtype;
    size_t n_layer;
    tiny_status st;
    memset(f, 0, sizeof *f);
    f->nn = nn;
    f->d = d;
    f->snap_at = -1;
    (void)tllm_nn_weights(nn, &n_layer);
    st = tinyi_nn_set_check(ctx, set, tllm_nn_is(nn)->layer[tllm_nn_is(nn)->n_layer - 1].n_out);
    if (!st && d->gradual) st = tllm_gradual_check(ctx, d->gradual);
    if (!st && d->gradual && n_layer < 64 && d->gradual->skip >> n_layer)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "gradual: a layer to skip beyond the %zu layers of the network", n_layer);
    if (!st && !(d->lr >= 0.0 && d->lr < 1e6))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "fit: a rate of %g is not in 0 to 1e6", d->lr);
    if (st) return st;
    f->set = *set;
    if (type != TINY_F32) st = tinyi_nn_set_rows(ctx, set, NULL, set->x.dim[0], type, &f->set);
    return st;
}

static void tinyi_fit_end(tinyi_fit *f, tllm_nn_fit_state *last)
{
    tiny_ctx *ctx = tinyi_nn_ctx(f->nn);
    if (tllm_nn_is(f->nn)->dtype != TINY_F32) tiny_free(ctx, f->set.x.data);
    tllm_nn_close(f->snap);
    if (last) *last = f->state;
}

TINY_API tiny_status tllm_nn_fit(tllm_nn *nn, const tllm_nn_set *set, const tllm_nn_fit_desc *desc,
                                 tllm_nn_fit_state *last)
{
    tllm_nn_fit_desc plain;
    tinyi_fit f;
    tiny_status st;
    if (last) memset(last, 0, sizeof *last);
    if (!nn) return TINY_E_ARGUMENT;
    memset(&plain, 0, sizeof plain);
    st = tinyi_fit_begin(&f, nn, set, desc ? desc : &plain);
    if (!st) st = tinyi_fit_run(&f);
    tinyi_fit_end(&f, last);
    return st;
}

/* ---- the lottery */

TINY_API int tllm_nn_lottery_rounds(double keep, double share)
{
    double x = -tinyi_log64(keep), y = -tinyi_log64(1.0 - share), n;
    if (!(keep > 0.0 && keep <= 1.0 && share > 0.0 && share < 1.0)) return 0;
    n = x / y;
    if (n > 1e6) return 0;
    return (int)n + (n - (double)(int)n > 1e-9);        /* 0.8^3 is three rounds, not four */
}

static tiny_status tinyi_lottery_prune(tllm_nn *nn, size_t keep)
{
    const tiny_dtype type = tllm_nn_is(nn)->dtype;
    const void *theta = tinyi_nn_theta(nn, 0);
    const tllm_mask *old = tllm_nn_masked(nn);
    const size_t n = tllm_nn_cost_of(nn).n_weight;
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    double *score;
    tllm_mask mask;
    size_t i;
    tiny_status st = tllm_mask_open(ctx, n, &mask);
    if (st) return st;
    score = (double *)tinyi_alloc(ctx, n, sizeof *score);
    if (!score) st = tiny_ctx_status(ctx);
    for (i = 0; !st && i < n; i++) {
        const double x = tinyi_real(theta, type, (tiny_idx)i);
        score[i] = old && !tllm_mask_has(old, i) ? -1.0 : x < 0.0 ? -x : x;
    }
    if (!st) st = tllm_mask_top(ctx, &mask, 0, n, score, keep);
    if (!st) st = tllm_nn_mask(nn, &mask);
    tiny_free(ctx, score);
    tllm_mask_close(ctx, &mask);
    return st;
}

TINY_API tiny_status tllm_nn_lottery(tllm_nn *nn, const tllm_nn_set *set, const tllm_nn_lottery_desc *desc,
                                     tllm_nn_fit_state *last)
{
    tllm_nn_fit_desc d;
    tinyi_fit f;
    double share, left = 1.0;
    int64_t steps = 0;
    size_t n, keep;
    int stopped = 0;
    tiny_ctx *ctx;
    tiny_status st;
    if (last) memset(last, 0, sizeof *last);
    if (!nn) return TINY_E_ARGUMENT;
    ctx = tinyi_nn_ctx(nn);
    if (!desc || desc->fit.gradual || desc->fit.first)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "lottery: a description without gradual pruning and first step");
    share = desc->share != 0.0 ? desc->share : 0.2;
    if (!(desc->keep > 0.0 && desc->keep <= 1.0 && share > 0.0 && share < 1.0) ||
        (desc->keep < 1.0 && !tllm_nn_lottery_rounds(desc->keep, share)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "lottery: keeping %g, %g less in each round", desc->keep, share);
    d = desc->fit;
    n = tllm_nn_cost_of(nn).n_weight;
    keep = tllm_mask_part(desc->keep, n);
    if (!keep) keep = 1;
    st = tinyi_fit_begin(&f, nn, set, &d);
    if (!st && (d.batch < 0 || d.batch > f.set.x.dim[0] || d.epochs < 0))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "lottery: batch %td of %td samples, %lld epochs", d.batch,
                        f.set.x.dim[0], (long long)d.epochs);
    if (!st) {
        const tiny_idx batch = d.batch ? d.batch : TINYI_MIN(100, f.set.x.dim[0]);
        steps = (d.epochs ? d.epochs : 25) * (int64_t)(f.set.x.dim[0] / batch);
        f.snap_at = desc->rewind < 0 ? 0 : desc->rewind ? desc->rewind : steps / 25;
        if (f.snap_at >= steps)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "lottery: rewinding to step %lld of %lld", (long long)f.snap_at,
                            (long long)steps);
    }
    f.state.rounds = tllm_nn_lottery_rounds(desc->keep, share);
    if (!st && !f.snap_at) st = tllm_nn_copy(nn, tllm_nn_is(nn)->dtype, &f.snap);
    if (!st) st = tinyi_fit_run(&f);
    d.first = f.snap_at;
    f.snap_at = -1;
    stopped = f.state.step < f.state.steps;             /* the callback ended it */
    for (f.state.round = 1; !st && !stopped && f.state.round <= f.state.rounds; f.state.round++) {
        left *= 1.0 - share;
        st = tinyi_lottery_prune(nn, f.state.round == f.state.rounds ? keep : TINYI_MAX(keep, tllm_mask_part(left, n)));
        if (st) break;
        if (!desc->rate_only) tinyi_nn_assign(nn, f.snap);
        st = tinyi_fit_run(&f);
        stopped = f.state.step < f.state.steps;
    }
    if (f.state.round > f.state.rounds) f.state.round = f.state.rounds;
    tinyi_fit_end(&f, last);
    return st;
}
