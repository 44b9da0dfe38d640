/* src/llm/lab/nets/robust_net.c - features of a network, corrupted samples, masks of untrained networks
 * Paper    V. Ramanujan et al., "What's hidden in a randomly weighted neural network?", 2020 (arXiv 1911.13299): edge
 *          popup. The corruptions are our own suite, after the kinds that are common for images.
 * Step     of a popup: m = the best round(keep n) scores of each layer; the loss of the network with w m;
 *          ds = w dL/d(w m) for all scores, chosen or not. */
#include "llm/lab/nets/nn_inside.h"
#include "llm/lab/nets/robust.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/layer.h"
#include "math/rows_inside.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include <string.h>

/* ---- features */

/* f (n, d) of all samples: what the last layer gets */
static tiny_status tinyi_robust_features(const tllm_nn *nn, const tllm_nn_set *set, const tiny_tensor *f)
{
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    const tiny_idx n = TINYI_MIN(set->x.dim[0], 250), each = tiny_tensor_count(&set->x) / set->x.dim[0];
    const size_t row = (size_t)f->dim[1] * tiny_dtype_bytes(f->dtype);
    tiny_tensor in[TLLM_NN_LAYERS];
    tinyi_nn_taps taps;
    tiny_tape_desc td;
    tiny_tape *tape = NULL;
    size_t last;
    tiny_idx at;
    int dry;
    tiny_status st = TINY_OK;
    (void)tllm_nn_weights(nn, &last);
    memset(&taps, 0, sizeof taps);
    memset(&td, 0, sizeof td);
    taps.in = in;
    td.no_grad = 1;
    for (dry = 1; !st && dry >= 0; dry--) {
        td.dry = dry;
        st = tiny_tape_open(ctx, &td, &tape);
        for (at = 0; !st && at < (dry ? n : set->x.dim[0]); at += n) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            tllm_nn_set part = *set, some;
            part.x.data = (float *)set->x.data + at * each;
            part.label.data = (int32_t *)set->label.data + at;
            part.x.dim[0] = part.label.dim[0] = TINYI_MIN(n, set->x.dim[0] - at);
            memset(&some, 0, sizeof some);
            if (f->dtype != TINY_F32) st = tinyi_nn_set_rows(ctx, &part, NULL, part.x.dim[0], f->dtype, &some);
            if (!st) (void)tinyi_nn_run(tape, nn, some.x.data ? &some.x : &part.x, TINYI_NORM_RUNNING, &taps);
            if (!st) st = tiny_tape_status(tape);
            if (!st && !dry) {
                const tiny_tensor *h = &in[last - 1];
                if (h->rank != 2 || h->dim[1] != f->dim[1] || !tiny_tensor_is_dense(h))
                    st = tinyi_fail(ctx, TINY_E_SHAPE, "geometry: the last layer has no features of %td numbers",
                                    f->dim[1]);
                else
                    memcpy((unsigned char *)f->data + (size_t)at * row, h->data, (size_t)part.x.dim[0] * row);
            }
            tiny_free(ctx, some.x.data);
            tiny_tape_release(tape, mark);
        }
        td.bytes = tiny_tape_high(tape);
        tiny_tape_close(tape);
        tape = NULL;
    }
    return st;
}

TINY_API tiny_status tllm_nn_geometry(const tllm_nn *nn, const tllm_nn_set *set, tllm_geometry *out)
{
    const tllm_nn_weight *w;
    const tllm_nn_desc *is;
    const tiny_param *p;
    const tllm_mask *mask;
    tiny_tensor f, last;
    tiny_ctx *ctx;
    size_t n_weight, n_param, n_last, i, bytes = 0, n = 0;
    void *memory;
    tiny_status st;
    if (out) memset(out, 0, sizeof *out);
    if (!nn) return TINY_E_ARGUMENT;
    ctx = tinyi_nn_ctx(nn);
    is = tllm_nn_is(nn);
    w = tllm_nn_weights(nn, &n_weight);
    p = tllm_nn_params(nn, &n_param);
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: a result pointer is needed");
    if (is->layer[is->n_layer - 1].norm || is->layer[is->n_layer - 1].relu)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "geometry: the last layer has a norm or an activation; its logits "
                                                   "are no products with directions");
    st = tinyi_nn_set_check(ctx, set, is->layer[is->n_layer - 1].n_out);
    if (st) return st;
    last = w[n_weight - 1].value;           /* with its mask */
    n_last = (size_t)tiny_tensor_count(&last);
    if (!tinyi_size_mul((size_t)set->x.dim[0], (size_t)last.dim[1], &n) || !tinyi_size_add(n, n_last, &n) ||
        !tinyi_size_mul(n, tiny_dtype_bytes(is->dtype), &bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "geometry: features of %td samples are too many", set->x.dim[0]);
    memory = tinyi_alloc(ctx, bytes, 1);
    if (!memory) return tiny_ctx_status(ctx);
    mask = tllm_nn_masked(nn);
    for (i = 0; i < n_last; i++)
        tinyi_real_set(memory, is->dtype, (tiny_idx)i,
                       mask && !tllm_mask_has(mask, w[n_weight - 1].first + i)
                           ? 0.0 : tinyi_real(last.data, is->dtype, (tiny_idx)i));
    last.data = memory;
    f = tiny_tensor_2d((unsigned char *)memory + n_last * tiny_dtype_bytes(is->dtype), is->dtype, set->x.dim[0],
                       last.dim[1]);
    st = tinyi_robust_features(nn, set, &f);
    if (!st) st = tllm_geometry_of(ctx, &f, &set->label, &last, &p[n_param - 1].value, out);     /* the last bias */
    tiny_free(ctx, memory);
    return st;
}

/* ---- corruptions */

static const char *const tinyi_corruptions[TLLM_CORRUPTIONS] = { "noise", "impulse",    "blur", "contrast",
                                                                 "brightness", "drop", "shift" };
static const double tinyi_corrupt_by[TLLM_CORRUPTIONS][TLLM_SEVERITIES] = {
    { 0.15, 0.3, 0.5, 0.75, 1.0 }, { 0.02, 0.05, 0.1, 0.17, 0.25 }, { 1, 2, 3, 4, 5 },
    { 0.75, 0.55, 0.4, 0.25, 0.15 }, { 0.2, 0.4, 0.6, 0.8, 1.0 }, { 0.05, 0.1, 0.2, 0.3, 0.45 },
    { 0.1, 0.2, 0.3, 0.4, 0.5 } };          /* of an image five times as much */

TINY_API const char *tllm_corruption_name(int kind)
{
    return kind < 0 || kind >= TLLM_CORRUPTIONS ? NULL : tinyi_corruptions[kind];
}

/* y = a x[i - 1] + b x[i] + c x[i + 1] along lines of n numbers, step apart; the border repeats */
static void tinyi_corrupt_line(float *y, const float *x, tiny_idx n, tiny_idx step, float a, float b, float c)
{
    tiny_idx i;
    for (i = 0; i < n; i++)
        y[i * step] = a * x[(i ? i - 1 : 0) * step] + b * x[i * step] + c * x[(i + 1 < n ? i + 1 : i) * step];
}

/* along all lines of an axis of length n: outer lines, numbers inner apart */
static void tinyi_corrupt_axis(float *y, const float *x, tiny_idx outer, tiny_idx n, tiny_idx inner, float a, float b,
                               float c)
{
    tiny_idx o, i;
    for (o = 0; o < outer; o++)
        for (i = 0; i < inner; i++)
            tinyi_corrupt_line(y + o * n * inner + i, x + o * n * inner + i, n, inner, a, b, c);
}

/* a move by `by` places along an axis: whole places, and a mean of two neighbours for the rest */
static void tinyi_corrupt_move(float *y, const float *x, tiny_idx outer, tiny_idx n, tiny_idx inner, double by)
{
    const tiny_idx whole = (tiny_idx)by;
    const float part = (float)(by - (double)whole);
    tiny_idx o, i, k;
    for (o = 0; o < outer; o++)
        for (k = 0; k < n; k++)
            for (i = 0; i < inner; i++) {
                const tiny_idx p = TINYI_MAX(k - whole, 0), q = TINYI_MAX(k - whole - 1, 0);
                y[(o * n + k) * inner + i] =
                    (1.0f - part) * x[(o * n + p) * inner + i] + part * x[(o * n + q) * inner + i];
            }
}

TINY_API tiny_status tllm_corrupt(tiny_ctx *ctx, const tiny_tensor *x, int kind, int severity, uint64_t seed,
                                  const tiny_tensor *y)
{
    const float *from;
    float *to, *other = NULL;
    double mean = 0.0, deviation = 0.0, by;
    tiny_idx n, each, i, k, outer, high, wide;
    tiny_rng rng;
    int image, times;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!x || !y || tiny_tensor_check(x) || tiny_tensor_check(y) || x->dtype != TINY_F32 || y->dtype != TINY_F32 ||
        (x->rank != 2 && x->rank != 4) || !tiny_tensor_is_dense(x) || !tiny_tensor_is_dense(y) || x->rank != y->rank ||
        memcmp(x->dim, y->dim, (size_t)x->rank * sizeof *x->dim) || x->data == y->data || tiny_tensor_count(x) < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "corrupt: x and y must be dense f32 of the same shape (n, d) or (n, "
                                             "channels, height, width), not the same memory");
    if (kind < 0 || kind >= TLLM_CORRUPTIONS || severity < 0 || severity > TLLM_SEVERITIES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "corrupt: kind %d of 0 to %d, severity %d of 0 to %d", kind,
                          TLLM_CORRUPTIONS - 1, severity, TLLM_SEVERITIES);
    from = (const float *)x->data;
    to = (float *)y->data;
    n = tiny_tensor_count(x);
    each = n / x->dim[0];
    image = x->rank == 4;
    outer = image ? x->dim[0] * x->dim[1] : x->dim[0];
    high = image ? x->dim[2] : 1;
    wide = image ? x->dim[3] : x->dim[1];
    memcpy(to, from, (size_t)n * sizeof *to);
    if (!severity) return TINY_OK;
    by = tinyi_corrupt_by[kind][severity - 1];
    for (i = 0; i < n; i++) mean += (double)from[i] / (double)n;
    for (i = 0; i < n; i++) deviation += ((double)from[i] - mean) * ((double)from[i] - mean) / (double)n;
    deviation = tinyi_sqrt64(deviation);
    rng = tiny_rng_make(seed, 0x636f7272 + (uint64_t)kind);
    if (kind == TLLM_CORRUPT_BLUR || (kind == TLLM_CORRUPT_SHIFT && image)) {
        other = (float *)tinyi_alloc(ctx, (size_t)n, sizeof *other);
        if (!other) return tiny_ctx_status(ctx);
    }
    switch (kind) {
    case TLLM_CORRUPT_NOISE:
        for (i = 0; i < n; i++) to[i] += (float)(by * deviation) * tiny_rng_normal(&rng);
        break;
    case TLLM_CORRUPT_IMPULSE:
    case TLLM_CORRUPT_DROP:
        for (i = 0; i < n; i++) {
            const double u = tiny_rng_uniform64(&rng);
            const int up = kind == TLLM_CORRUPT_IMPULSE && tiny_rng_u32(&rng) & 1u;
            if (u < by)
                to[i] = kind == TLLM_CORRUPT_DROP ? 0.0f : (float)(mean + (up ? 3.0 : -3.0) * deviation);
        }
        break;
    case TLLM_CORRUPT_BLUR:
        for (times = 0; times < severity; times++) {
            if (!image) {
                tinyi_corrupt_axis(other, to, outer, wide, 1, 0.125f, 0.75f, 0.125f);
                memcpy(to, other, (size_t)n * sizeof *to);
                continue;
            }
            tinyi_corrupt_axis(other, to, outer * high, wide, 1, 0.25f, 0.5f, 0.25f);
            tinyi_corrupt_axis(to, other, outer, high, wide, 0.25f, 0.5f, 0.25f);
        }
        break;
    case TLLM_CORRUPT_CONTRAST:
        for (i = 0; i < n; i += each) {
            double own = 0.0;
            for (k = 0; k < each; k++) own += (double)from[i + k] / (double)each;
            for (k = 0; k < each; k++) to[i + k] = (float)(own + by * ((double)from[i + k] - own));
        }
        break;
    case TLLM_CORRUPT_BRIGHTNESS:
        for (i = 0; i < n; i++) to[i] += (float)(by * deviation);
        break;
    default:
        if (image) {
            tinyi_corrupt_move(other, from, outer * high, wide, 1, 5.0 * by);
            tinyi_corrupt_move(to, other, outer, high, wide, 5.0 * by);
        } else
            tinyi_corrupt_move(to, from, outer, wide, 1, by);
        break;
    }
    tiny_free(ctx, other);
    return TINY_OK;
}

/* ---- edge popup */

typedef struct tinyi_popup {
    tllm_nn *nn;
    const tllm_popup_desc *d;
    tllm_nn_set set;
    tllm_nn_fit_state state;
    float *first, *score, *grad;            /* of all weights */
    double *key;
    tllm_mask mask;
    tiny_status st;
} tinyi_popup;

/* The mask of the best scores, and the network with w m. */
static tiny_status tinyi_popup_choose(tinyi_popup *q)
{
    tiny_ctx *ctx = tinyi_nn_ctx(q->nn);
    float *theta = (float *)tinyi_nn_theta(q->nn, 0);
    size_t k, i, n, n_layer;
    const tllm_nn_weight *w = tllm_nn_weights(q->nn, &n_layer);
    tiny_status st = TINY_OK;
    for (i = 0; i < q->mask.n; i++) q->key[i] = (double)q->score[i];
    for (k = 0; !st && k < n_layer; k++) {
        size_t keep;
        n = (size_t)tiny_tensor_count(&w[k].value);
        keep = tllm_mask_part(q->d->keep, n);
        st = tllm_mask_top(ctx, &q->mask, w[k].first, n, q->key + w[k].first, keep ? keep : 1);
    }
    for (i = 0; !st && i < q->mask.n; i++) theta[i] = tllm_mask_has(&q->mask, i) ? q->first[i] : 0.0f;
    return st;
}

static tiny_tensor tinyi_popup_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    const tinyi_popup *q = (const tinyi_popup *)user;
    return tinyi_nn_loss(tape, q->nn, &q->set, sample, n);
}

static tiny_status tinyi_popup_gradients(void *user)
{
    tinyi_popup *q = (tinyi_popup *)user;
    const float *dw = (const float *)tinyi_nn_theta(q->nn, 1);
    size_t i;
    for (i = 0; i < q->mask.n; i++) q->grad[i] = dw[i] * q->first[i];
    return TINY_OK;
}

static int tinyi_popup_step(void *user, const tiny_train_state *s)
{
    tinyi_popup *q = (tinyi_popup *)user;
    q->st = tinyi_popup_choose(q);
    q->state.step = s->step;
    q->state.steps = s->steps;
    q->state.loss = s->loss;
    return q->st || (q->d->fit.callback && q->d->fit.callback(q->d->fit.user, &q->state));
}

TINY_API tiny_status tllm_nn_popup(tllm_nn *nn, const tllm_nn_set *set, const tllm_popup_desc *desc,
                                   tllm_nn_fit_state *last)
{
    tinyi_popup q;
    tiny_train_desc t;
    tiny_param param;
    tiny_rng rng;
    const tllm_nn_weight *w;
    tiny_ctx *ctx;
    size_t n, n_layer, k, i;
    tiny_status st;
    if (last) memset(last, 0, sizeof *last);
    if (!nn) return TINY_E_ARGUMENT;
    ctx = tinyi_nn_ctx(nn);
    if (!desc || !(desc->keep > 0.0 && desc->keep <= 1.0) || desc->fit.gradual || !(desc->fit.lr >= 0.0) ||
        desc->fit.lr > 1e6)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "popup: a share to keep above 0 and up to 1, a rate of 0 to 1e6, and "
                                                "no gradual pruning are needed");
    if (tllm_nn_is(nn)->dtype != TINY_F32 || tllm_nn_masked(nn))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "popup: an f32 network without a mask is needed");
    st = tinyi_nn_set_check(ctx, set, tllm_nn_is(nn)->layer[tllm_nn_is(nn)->n_layer - 1].n_out);
    if (st) return st;
    memset(&q, 0, sizeof q);
    memset(&t, 0, sizeof t);
    memset(&param, 0, sizeof param);
    q.nn = nn;
    q.d = desc;
    q.set = *set;
    w = tllm_nn_weights(nn, &n_layer);
    n = tllm_nn_cost_of(nn).n_weight;
    st = tllm_mask_open(ctx, n, &q.mask);
    if (!st) {
        q.key = (double *)tinyi_alloc(ctx, n, sizeof *q.key);
        q.first = q.key ? (float *)tinyi_alloc(ctx, n, 3 * sizeof *q.first) : NULL;
        if (!q.first) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        q.score = q.first + n;
        q.grad = q.score + n;
        memcpy(q.first, tinyi_nn_theta(nn, 0), n * sizeof *q.first);
        rng = tiny_rng_make(desc->fit.seed, 0x706f70);
        for (k = 0; k < n_layer; k++) {
            const size_t count = (size_t)tiny_tensor_count(&w[k].value);
            const double most = 1.0 / tinyi_sqrt64((double)count / (double)w[k].value.dim[0]);
            for (i = 0; i < count; i++) q.score[w[k].first + i] = (float)most * tiny_rng_uniform(&rng);
        }
        st = tinyi_popup_choose(&q);
    }
    if (!st) {
        param.name = "score";
        param.value = tiny_tensor_1d(q.score, TINY_F32, (tiny_idx)n);
        param.grad = tiny_tensor_1d(q.grad, TINY_F32, (tiny_idx)n);
        t.params = &param;
        t.n_params = 1;
        t.model = tinyi_popup_loss;
        t.gradients = tinyi_popup_gradients;
        t.callback = tinyi_popup_step;
        t.user = &q;
        t.n_samples = (uint32_t)q.set.x.dim[0];
        t.batch = desc->fit.batch ? desc->fit.batch : TINYI_MIN(100, q.set.x.dim[0]);
        t.epochs = desc->fit.epochs ? desc->fit.epochs : 25;
        t.seed = desc->fit.seed;
        t.first = desc->fit.first;
        t.optim.group[0].kind = TINY_OPTIM_ADAM;
        t.optim.group[0].lr = desc->fit.lr != 0.0 ? desc->fit.lr : 2e-3;
        t.schedule.kind = TINY_SCHEDULE_COSINE;
        st = tiny_train(ctx, &t, NULL);
        if (!st) st = q.st;
    }
    if (q.first) memcpy(tinyi_nn_theta(nn, 0), q.first, n * sizeof *q.first);   /* also after a failure */
    if (!st) st = tllm_nn_mask(nn, &q.mask);
    q.state.n_kept = tllm_nn_cost_of(nn).n_kept;
    if (last) *last = q.state;
    tiny_free(ctx, q.first);
    tiny_free(ctx, q.key);
    tllm_mask_close(ctx, &q.mask);
    return st;
}
