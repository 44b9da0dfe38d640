/* src/llm/lab/weave/weave_sgd.c - stochastic gradient descent on bit-weaved data
 * Paper    Z. Wang et al., "Accelerating generalized linear models with MLWeaving", VLDB 2019 (arXiv 1903.03404),
 *          section 4
 * Formula  for a batch of B samples, x of s bits in both places:  z_i = w . x_i;  d_i = z_i - y_i, sigmoid(z_i) - y_i,
 *          or -y_i if y_i z_i < 1, else 0; w -= lr_e (sum_i d_i x_i / B + l2 w),  lr_e = lr decay^sqrt(e + 1).
 *          Loss: always on 32 bits. midpoint: x_s + 2^-(s + 1) if a feature varies, that is z += 2^-(s + 1) sum w,
 *          gradient += 2^-(s + 1) sum d: once per batch, no cost per sample.
 * Order    batches in the order of the store. Eight samples at a time are rebuilt as numbers (16 KB for 512 features,
 *          which stay in the first-level cache), multiplied with w and added to the gradient.
 * Threads  one model: threads share its parts of 32 V features. Each thread multiplies its parts of up to 64 samples.
 *          After a barrier each thread sums all parts in order and updates its own: one barrier for 64 samples, and the
 *          same bits for any number of threads. This is faster from 64 x 512 numbers on. average: separate models on
 *          separate samples, no barrier, the mean after each epoch. This is always faster, but another algorithm.
 * Fixed    shift: the model stays on multiples of 2^-23, as the authors' 32-bit words with 23 fraction bits; exact
 *          while |w| < 2, where a float has as many.
 * Cost     512 features on Zen 3: see docs/papers/weave.md
 * Error    fast against ref: each step rounds to float, relative 2^-24 and that of the products; descent corrects it.
 *          Measured after an epoch: below 1e-5.
 * Left out Hogwild (all threads write one model without locks): plain float stores that other threads read are data
 *          races, undefined in C and reported by the thread sanitizer. Relaxed atomics would move one float at a time
 *          and lose the vectors. */
#include <string.h>
#include "llm/lab/weave/weave_sgd.h"
#include "llm/lab/weave/weave_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"

#define TINYI_SGD_SLICE 64                  /* samples between two barriers, at most */

typedef struct tinyi_sgd_model {            /* one that learns, and its scratch */
    float *w, *g;                           /* parts of numbers, w times scale */
    float *x;                               /* (slice, numbers) */
    /* (slice + 1, parts, V), thread by thread: products of the samples; the last: with mid */
    float *sum[2];
    uint32_t *planes;
    float bias;
    tiny_idx first, end;                    /* samples */
} tinyi_sgd_model;

typedef struct tinyi_sgd {
    tiny_ctx *ctx;
    const tllm_weave *data;
    const float *label;
    const tllm_weave_sgd_desc *d;
    const tinyi_weave_kernels *k;
    size_t chunks, parts, numbers;
    tiny_idx batch, slice;
    int bits, n_models;
    double lr;                              /* of this epoch */
    float shrink, scale[32], *mid;          /* mid: what a cut number misses, in the kernels' units; or NULL */
    tinyi_sgd_model *model;
    int stop[2];                            /* written before a barrier, read after it, in turns */
} tinyi_sgd;

/* ---- checks and settings ----------------------------------------------------------------------------------------- */

static tiny_status tinyi_sgd_check(tiny_ctx *ctx, const tllm_weave *data, const float *label,
                                   const tllm_weave_sgd_desc *d, const float *model, const char *what)
{
    static const char *const task[3] = { "linear", "logistic", "svm" };
    tiny_idx i, n;
    tiny_status st = tinyi_weave_check(ctx, data, what);
    if (st) return st;
    if (!label || !d || !model)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: labels, a description and a model are needed, but one is NULL",
                          what);
    if (d->task < TLLM_WEAVE_LINEAR || d->task > TLLM_WEAVE_SVM)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: there is no task %d", what, d->task);
    if (!(d->l2 >= 0.0 && d->l2 <= 1e30))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: l2 is %g; it must be at least 0", what, d->l2);
    for (i = 0; i < data->n; i++) {
        const float y = label[i];
        if (!(y - y == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "%s: the label of sample %td is %g", what, i, (double)y);
        if (d->task && y != 1.0f && y != (d->task == TLLM_WEAVE_LOGISTIC ? 0.0f : -1.0f))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the label of sample %td is %g, but the task %s takes %s and 1",
                              what, i, (double)y, task[d->task], d->task == TLLM_WEAVE_LOGISTIC ? "0" : "-1");
    }
    n = data->n_feature + (d->intercept != 0);
    for (i = 0; i < n; i++)
        if (!(model[i] - model[i] == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "%s: number %td of the model is %g", what, i, (double)model[i]);
    return TINY_OK;
}

static tiny_status tinyi_sgd_check_epoch(tiny_ctx *ctx, const tllm_weave *data, const tllm_weave_sgd_desc *d,
                                         const tllm_weave_state *s)
{
    const int first = d->bits_first ? d->bits_first : 2, most = d->bits_most ? d->bits_most : 8;
    if (!s || s->epoch < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave epoch: a state is needed, all zero at the start");
    if (d->bits < 0 || d->bits > 32)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave epoch: a code has 1 to 32 bits, not %d", d->bits);
    if (!d->bits && (first < 1 || most > 32 || first > most || (s->epoch && (s->bits < 1 || s->bits > 32))))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave epoch: a schedule of %d to %d bits, at %d: the limits are 1 and 32", first, most,
                          s->bits);
    if (!(d->gain >= 0.0 && d->gain <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave epoch: gain is %g; the limits are 0 and 1", d->gain);
    if (!(d->lr >= 0.0 && d->lr <= 1e30))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave epoch: lr is %g; it must be above 0, or 0 for the default",
                          d->lr);
    if (!(d->decay >= 0.0 && d->decay <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave epoch: decay is %g; it must be above 0 and at most 1, or 0 for none", d->decay);
    if (d->batch < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave epoch: a batch of %td samples", d->batch);
    if (d->shift < 0 || d->shift > 60)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave epoch: a shift by %d; the limits are 1 and 60, or 0 for none",
                          d->shift);
    if (d->average < 0 || d->average > TINY_MAX_THREADS || (tiny_idx)d->average > (data->n + 7) / 8)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave epoch: the mean of %d models; the limits are %d, and one for each 8 of %td samples",
                          d->average, TINY_MAX_THREADS, data->n);
    return TINY_OK;
}

TINY_REF_BEGIN
static double tinyi_sgd_lr(const tllm_weave *data, const tllm_weave_sgd_desc *d, int epoch)
{
    double lr = d->lr > 0.0 ? d->lr : 1.0 / (double)data->n_feature;
    if (d->decay > 0.0 && d->decay < 1.0) lr *= tinyi_exp64(tinyi_sqrt64((double)epoch + 1.0) * tinyi_log64(d->decay));
    return lr;
}
static double tinyi_sgd_power(int shift)    /* 2^-shift */
{
    double x = 1.0;
    for (; shift > 0; shift--) x *= 0.5;
    return x;
}
/* what a gradient of n samples is multiplied with */
static double tinyi_sgd_by(const tllm_weave_sgd_desc *d, double lr, tiny_idx n)
{
    return d->shift ? tinyi_sgd_power(d->shift) : lr / (double)n;
}
static double tinyi_sgd_shrink(const tllm_weave_sgd_desc *d, double lr, tiny_idx batch)
{
    return 1.0 - d->l2 * (d->shift ? tinyi_sgd_power(d->shift) * (double)batch : lr);
}
static double tinyi_sgd_floor(double x)
{
    double y;
    if (!(x > -4503599627370496.0 && x < 4503599627370496.0)) return x;
    y = (double)(int64_t)x;
    return y > x ? y - 1.0 : y;
}
static double tinyi_sgd_loss_of(int task, double z, double y)
{
    if (task == TLLM_WEAVE_LINEAR) return 0.5 * (z - y) * (z - y);
    if (task == TLLM_WEAVE_SVM) return 1.0 - y * z > 0.0 ? 1.0 - y * z : 0.0;
    return (z > 0.0 ? z : 0.0) - y * z + tinyi_log64(1.0 + tinyi_exp64(z > 0.0 ? -z : z));
}

/* ---- the reference: an epoch by the formula, in double, w rounded to float at each step -------------------------- */

static void tinyi_sgd_row_ref(const tllm_weave *data, tiny_idx i, int bits, int midpoint, double *x)
{
    const double unit = tinyi_sgd_power(bits);
    tiny_idx j;
    for (j = 0; j < data->n_feature; j++) {
        x[j] = (double)tinyi_weave_code(data, i, j, bits) * unit;
        if (midpoint && data->high[j] > data->low[j]) x[j] += 0.5 * unit;
    }
}
static float tinyi_sgd_step_ref(float w, double g, double by, double shrink, int shift)
{
    const double step = by * g;
    return tinyi_round_f32((double)w * shrink - (shift ? tinyi_sgd_floor(step * 8388608.0) / 8388608.0 : step));
}
static void tinyi_sgd_ref(const tinyi_sgd *s, float *w, double *x, double *g, tiny_idx first, tiny_idx end)
{
    const tiny_idx n = s->data->n_feature;
    tiny_idx b, b1, i, j;
    for (b = first; b < end; b = b1) {
        double by, gb = 0.0;
        b1 = TINYI_MIN(end, b + s->batch);
        for (j = 0; j < n; j++) g[j] = 0.0;
        for (i = b; i < b1; i++) {
            double z = s->d->intercept ? (double)w[n] : 0.0, y = (double)s->label[i], d;
            tinyi_sgd_row_ref(s->data, i, s->bits, s->d->midpoint, x);
            for (j = 0; j < n; j++) z += x[j] * (double)w[j];
            if (s->d->task == TLLM_WEAVE_LINEAR) d = z - y;
            else if (s->d->task == TLLM_WEAVE_LOGISTIC) d = 1.0 / (1.0 + tinyi_exp64(-z)) - y;
            else d = y * z < 1.0 ? -y : 0.0;
            for (j = 0; j < n; j++) g[j] += d * x[j];
            gb += d;
        }
        by = tinyi_sgd_by(s->d, s->lr, b1 - b);
        for (j = 0; j < n; j++) w[j] = tinyi_sgd_step_ref(w[j], g[j], by, (double)s->shrink, s->d->shift);
        if (s->d->intercept) w[n] = tinyi_sgd_step_ref(w[n], gb, by, 1.0, s->d->shift);
    }
}
static double tinyi_sgd_loss_ref(const tllm_weave *data, const float *label, const tllm_weave_sgd_desc *d,
                                 const float *w)
{
    double sum = 0.0;
    tiny_idx i, j;
    for (i = 0; i < data->n; i++) {
        double z = d->intercept ? (double)w[data->n_feature] : 0.0;
        for (j = 0; j < data->n_feature; j++)
            z += (double)tinyi_weave_code(data, i, j, 32) * (1.0 / 4294967296.0) * (double)w[j];
        sum += tinyi_sgd_loss_of(d->task, z, (double)label[i]);
    }
    return sum / (double)data->n;
}
static double tinyi_sgd_square(const float *w, tiny_idx n)
{
    double sum = 0.0;
    tiny_idx j;
    for (j = 0; j < n; j++) sum += (double)w[j] * (double)w[j];
    return sum;
}
TINY_REF_END

/* where samples of models begin: in whole groups */
static tiny_idx tinyi_sgd_cut(tiny_idx n, int i, int models)
{
    return TINYI_MIN(n, ((n + 7) / 8 / models * i + TINYI_MIN((n + 7) / 8 % models, (tiny_idx)i)) * 8);
}

/* out (n + 1): the mean of all models (n + 1) */
static void tinyi_sgd_mean(float *out, const float *all, tiny_idx n, int models)
{
    tiny_idx j;
    int m;
    for (j = 0; j < n; j++) {
        double sum = 0.0;
        for (m = 0; m < models; m++) sum += (double)all[(size_t)m * (size_t)n + (size_t)j];
        out[j] = (float)(sum / models);
    }
}

static tiny_status tinyi_sgd_epoch_ref(const tinyi_sgd *s, const float *model, float *out)
{
    const tiny_idx n = s->data->n_feature, numbers = n + (s->d->intercept != 0);
    double *x = (double *)tinyi_alloc(s->ctx, (size_t)n, 2 * sizeof *x);
    float *all = x ? (float *)tinyi_alloc(s->ctx, (size_t)numbers, (size_t)s->n_models * sizeof *all) : NULL;
    int m;
    for (m = 0; all && m < s->n_models; m++) {
        memcpy(all + m * numbers, model, (size_t)numbers * sizeof *all);
        tinyi_sgd_ref(s, all + m * numbers, x, x + n, tinyi_sgd_cut(s->data->n, m, s->n_models),
                      tinyi_sgd_cut(s->data->n, m + 1, s->n_models));
    }
    if (all) tinyi_sgd_mean(out, all, numbers, s->n_models);
    tiny_free(s->ctx, x);
    tiny_free(s->ctx, all);
    return all ? TINY_OK : tiny_ctx_status(s->ctx);
}

/* ---- fast -------------------------------------------------------------------------------------------------------- */

/* parts of thread t of n begin here */
static size_t tinyi_sgd_part(size_t parts, int t, int n)
{
    return parts / (size_t)n * (size_t)t + TINYI_MIN(parts % (size_t)n, (size_t)t);
}

/* the products of m samples of a slice from number first on, over all parts in their order; those of a thread lie
 * together */
static void tinyi_sgd_totals(const tinyi_sgd *s, const float *sum, tiny_idx first, tiny_idx m, int n, float *z)
{
    const size_t lanes = (size_t)s->k->lanes;
    float by_lane[TINYI_SGD_SLICE * TINYI_WEAVE_LANES];
    int t;
    for (t = 0; t < n; t++) {
        const size_t v0 = tinyi_sgd_part(s->parts, t, n), own = tinyi_sgd_part(s->parts, t + 1, n) - v0;
        s->k->collect(by_lane, sum + (v0 * (size_t)(s->slice + 1) + (size_t)first * own) * lanes, (size_t)m, own,
                      t == 0);
    }
    s->k->across(z, by_lane, (size_t)m);
}

/* z becomes d; those that are not 0 are listed with their numbers */
static int tinyi_sgd_slopes(const tinyi_sgd *s, const tinyi_kernels *k, float *z, const float **row, const float *x,
                            tiny_idx first, tiny_idx n, float *total)
{
    int i, m = 0;
    if (s->d->task == TLLM_WEAVE_LOGISTIC) TINYI_OF(k, sigmoid_f32)(z, z, (size_t)n);
    for (i = 0; i < (int)n; i++) {
        const float y = s->label[first + i], d = s->d->task != TLLM_WEAVE_SVM ? z[i] - y : y * z[i] < 1.0f ? -y : 0.0f;
        if (d == 0.0f) continue;
        row[m] = x + (size_t)i * s->numbers;
        z[m++] = d;
        *total += d;
    }
    return m;
}

/* Lines of a caller or a file may have bits after the last feature: they are no feature's, so their numbers of the
 * model stay 0. Of parts v0 .. v1. */
static void tinyi_sgd_only_features(float *g, tiny_idx n_feature, size_t lanes, size_t v0, size_t v1)
{
    size_t j;
    for (j = (size_t)n_feature; j < 64 * tinyi_weave_chunks(n_feature); j++) {
        const size_t v = j / (32 * lanes);
        if (v >= v0 && v < v1) g[v * 32 * lanes + j % 32 * lanes + j / 32 % lanes] = 0.0f;
    }
}

/* samples of one model by one thread, or by thread t of a team that has it together */
static void tinyi_sgd_pass(tinyi_sgd *s, tiny_team *team, tinyi_sgd_model *m, int t, int n)
{
    const tinyi_weave_kernels *k = s->k;
    const size_t lanes = (size_t)k->lanes, v0 = tinyi_sgd_part(s->parts, t, n), v1 = tinyi_sgd_part(s->parts, t + 1, n),
                 at = v0 * 32 * lanes;
    const size_t row_bytes = s->chunks * TINYI_WEAVE_BLOCK;
    uint32_t *planes = m->planes + 8 * v0 * (size_t)s->bits * lanes;
    float *w = m->w + at, *g = m->g + at;
    const float *mid = s->mid ? s->mid + at : NULL, *row[TINYI_SGD_SLICE];
    float z[TINYI_SGD_SLICE], bias = m->bias;
    tinyi_weave_step step;
    tinyi_weave_rows r;
    tiny_idx b, b1, i0, i1, i, asked = 0;
    int turn = 0, stop = 0;
    r.n = v1 - v0;
    r.step = (size_t)s->bits * lanes;
    r.x_step = s->numbers;
    step.shrink = s->shrink;
    step.fixed = s->d->shift != 0;
    for (b = m->first; b < m->end && !stop; b = b1) {
        float total = 0.0f, middle = 0.0f;
        int first = 1;
        b1 = TINYI_MIN(m->end, b + s->batch);
        for (i0 = b; i0 < b1 && !stop; i0 = i1, turn ^= 1, first = 0) {
            float *sum = m->sum[turn] + v0 * (size_t)(s->slice + 1) * lanes;
            int found;
            i1 = TINYI_MIN(b1, i0 / s->slice * s->slice + s->slice);
            for (i = i0; i < i1; i += (tiny_idx)r.m) {
                k->take(planes, tinyi_weave_group_of(s->data, i), s->chunks, v0, v1 - v0, s->bits,
                        i / 8 + 2 < (m->end + 7) / 8 ? 2 * row_bytes : 0);
                r.m = (size_t)TINYI_MIN(i1 - i, 8 - i % 8);
                r.planes = planes + (size_t)(i % 8) * r.n * r.step;
                r.x = m->x + (size_t)(i - i0) * s->numbers + at;
                r.sum = sum + (size_t)(i - i0) * r.n * lanes;
                k->expand(&r, w, s->bits);
            }
            if (mid && first) k->products(sum + (size_t)s->slice * r.n * lanes, w, mid, r.n);
            if (team && team->i == 0) {     /* it is always called by the same thread */
                if (n > 1) s->stop[turn] = 0;
                if (asked++ % 256 == 0) {
                    if (s->ctx->desc.cancel && s->ctx->desc.cancel(s->ctx->desc.user)) s->stop[n > 1 ? turn : 0] = 1;
                    if (s->ctx->desc.progress)
                        s->ctx->desc.progress(s->ctx->desc.user, "weave",
                                              (double)(b - m->first) / (double)(m->end - m->first));
                }
            }
            if (n > 1) tiny_barrier(team);
            stop = team && (n > 1 || team->i == 0) ? s->stop[n > 1 ? turn : 0] : 0;
            if (mid && first) tinyi_sgd_totals(s, m->sum[turn], s->slice, 1, n, &middle);
            tinyi_sgd_totals(s, m->sum[turn], 0, i1 - i0, n, z);
            for (i = 0; i < i1 - i0; i++) z[i] += middle + bias;
            found = tinyi_sgd_slopes(s, team->k, z, row, m->x + at, i0, i1 - i0, &total);
            k->add(g, row, z, found, v1 - v0, first);
        }
        if (mid) k->add(g, &mid, &total, 1, v1 - v0, 0);
        tinyi_sgd_only_features(m->g, s->data->n_feature, lanes, v0, v1);
        step.by = (float)tinyi_sgd_by(s->d, s->lr, b1 - b);
        k->step(w, g, s->scale, v1 - v0, &step);
        if (s->d->intercept)
            bias -= step.fixed ? (float)(tinyi_sgd_floor((double)(step.by * total) * 8388608.0) / 8388608.0)
                               : step.by * total;
    }
    if (t == 0) m->bias = bias;             /* all threads have the same; the others do not read it again */
}

static void tinyi_sgd_one_team(tiny_team *team, void *arg)
{
    tinyi_sgd *s = (tinyi_sgd *)arg;
    const int n = (int)TINYI_MIN((size_t)team->n, s->parts);
    team->ran_on = s->k->from;
    TINY_ASSERT(team->n <= (int)s->parts);
    tinyi_sgd_pass(s, team, &s->model[0], team->i, n);
}
static void tinyi_sgd_average_team(tiny_team *team, void *arg)
{
    tinyi_sgd *s = (tinyi_sgd *)arg;
    tiny_idx m, m1;
    team->ran_on = s->k->from;
    /* once at least, though the others may have all the models before this thread has a processor */
    if (team->i == 0 && s->ctx->desc.cancel && s->ctx->desc.cancel(s->ctx->desc.user)) s->stop[0] = 1;
    while (tiny_take(team, s->n_models, 1, &m, &m1))
        for (; m < m1; m++) tinyi_sgd_pass(s, team, &s->model[m], 0, 1);
}

/* one block: descriptions, mid, then model by model what the struct names */
static tiny_status tinyi_sgd_room(tinyi_sgd *s, void **block)
{
    const size_t lanes = (size_t)s->k->lanes, slots = (size_t)(s->slice + 1) * s->parts * lanes,
                 words = 8 * s->parts * (size_t)s->bits * lanes;
    const size_t head = ((size_t)s->n_models * sizeof *s->model + 63) / 64 * 64;
    size_t each = 0, bytes;
    unsigned char *p;
    int m;
    if (!tinyi_size_mul(s->numbers, (size_t)(s->slice + 2), &each) || !tinyi_size_add(each, 2 * slots + words, &each) ||
        !tinyi_size_mul(each, (size_t)s->n_models, &bytes) || !tinyi_size_add(bytes, s->numbers, &bytes) ||
        !tinyi_size_mul(bytes, 4, &bytes) || !tinyi_size_add(bytes, head, &bytes))
        bytes = SIZE_MAX;
    *block = p = (unsigned char *)tinyi_alloc(s->ctx, bytes, 1);
    if (!p) return tiny_ctx_status(s->ctx);
    s->model = (tinyi_sgd_model *)(void *)p;
    s->mid = (float *)(void *)(p + head);
    for (m = 0; m < s->n_models; m++) {
        tinyi_sgd_model *o = &s->model[m];
        o->w = s->mid + s->numbers + (size_t)m * each;
        o->g = o->w + s->numbers;
        o->x = o->g + s->numbers;
        o->sum[0] = o->x + (size_t)s->slice * s->numbers;
        o->sum[1] = o->sum[0] + slots;
        o->planes = (uint32_t *)(void *)(o->sum[1] + slots);
    }
    return TINY_OK;
}

static tiny_status tinyi_sgd_epoch(tinyi_sgd *s, const float *model, float *out)
{
    const tiny_idx n = s->data->n_feature, numbers = n + (s->d->intercept != 0);
    float *all = NULL;
    void *block;
    tiny_idx j;
    int m, threads = 1;
    tiny_status st;
    s->k = tinyi_weave_kernels_of(s->ctx->k);
    s->chunks = tinyi_weave_chunks(n);
    s->parts = tinyi_weave_parts(n, s->k->lanes);
    s->numbers = s->parts * 32 * (size_t)s->k->lanes;
    s->stop[0] = s->stop[1] = 0;
    tinyi_weave_scale(s->scale, s->bits);
    if (!s->d->average && (double)TINYI_MIN(s->batch, TINYI_SGD_SLICE) * (double)s->numbers >= 32768.0)
        threads = (int)TINYI_MIN((size_t)tiny_ctx_threads(s->ctx), s->parts);
    s->slice = threads > 1 ? TINYI_SGD_SLICE : 8;
    st = tinyi_sgd_room(s, &block);
    if (st) return st;
    all = (float *)tinyi_alloc(s->ctx, (size_t)numbers, (size_t)s->n_models * sizeof *all);
    if (!all) st = tiny_ctx_status(s->ctx);
    if (!st && s->d->midpoint) {
        const float half = (float)tinyi_sgd_power(s->bits + 1);
        for (j = 0; j < n; j++) all[j] = s->data->high[j] > s->data->low[j] ? half : 0.0f;
        for (j = 0; j < 32; j++) s->scale[j] = 1.0f / s->scale[j];
        tinyi_weave_spread(s->mid, all, n, s->k->lanes, s->scale);
        for (j = 0; j < 32; j++) s->scale[j] = 1.0f / s->scale[j];
    } else s->mid = NULL;
    for (m = 0; !st && m < s->n_models; m++) {
        tinyi_sgd_model *o = &s->model[m];
        tinyi_weave_spread(o->w, model, n, s->k->lanes, s->scale);
        o->bias = s->d->intercept ? model[n] : 0.0f;
        o->first = tinyi_sgd_cut(s->data->n, m, s->n_models);
        o->end = tinyi_sgd_cut(s->data->n, m + 1, s->n_models);
    }
    if (!st)
        st = s->d->average ? tiny_parallel(s->ctx, 0, 0, 0, tinyi_sgd_average_team, s)
                           : tiny_parallel(s->ctx, threads, 0, 0, tinyi_sgd_one_team, s);
    if (!st && (s->stop[0] || s->stop[1])) st = tinyi_fail(s->ctx, TINY_E_CANCELLED, "weave epoch: cancelled");
    for (m = 0; !st && m < s->n_models; m++) {
        tinyi_weave_gather(all + m * numbers, s->model[m].w, n, s->k->lanes, s->scale);
        if (s->d->intercept) all[m * numbers + n] = s->model[m].bias;
    }
    if (!st) tinyi_sgd_mean(out, all, numbers, s->n_models);
    tiny_free(s->ctx, all);
    tiny_free(s->ctx, block);
    return st;
}

/* ---- the loss ---------------------------------------------------------------------------------------------------- */

#define TINYI_SGD_BLOCK 512 /* samples whose losses are one sum: the same sums for any number of threads */

typedef struct tinyi_sgd_loss {
    const tllm_weave *data;
    const float *label, *w;
    const tllm_weave_sgd_desc *d;
    const tinyi_weave_kernels *k;
    double *sum;
    float bias;
} tinyi_sgd_loss;

static void tinyi_sgd_loss_team(tiny_team *team, void *arg)
{
    const tinyi_sgd_loss *job = (const tinyi_sgd_loss *)arg;
    const tinyi_weave_kernels *k = job->k;
    const size_t chunks = tinyi_weave_chunks(job->data->n_feature),
                 parts = tinyi_weave_parts(job->data->n_feature, k->lanes);
    uint32_t *planes;
    tinyi_weave_rows r;
    float z[8];
    tiny_idx b, b1, i, t;
    planes = tinyi_weave_rows_own(&r, team->own, parts, k->lanes, 32);
    team->ran_on = k->from;
    while (tiny_take(team, (job->data->n + TINYI_SGD_BLOCK - 1) / TINYI_SGD_BLOCK, 1, &b, &b1))
        for (; b < b1; b++)
            for (job->sum[b] = 0.0, i = b * TINYI_SGD_BLOCK; i < TINYI_MIN(job->data->n, (b + 1) * TINYI_SGD_BLOCK);
                 i += 8) {
                k->take(planes, tinyi_weave_group_of(job->data, i), chunks, 0, parts, 32,
                        i + 8 < job->data->n ? chunks * TINYI_WEAVE_BLOCK : 0);
                r.m = (size_t)TINYI_MIN(8, job->data->n - i);
                k->expand(&r, job->w, 32);
                tinyi_weave_rows_products(k, &r, z);
                for (t = 0; t < (tiny_idx)r.m; t++)
                    job->sum[b] +=
                        tinyi_sgd_loss_of(job->d->task, (double)z[t] + (double)job->bias, (double)job->label[i + t]);
            }
}

static tiny_status tinyi_sgd_loss_fast(tiny_ctx *ctx, const tllm_weave *data, const float *label,
                                       const tllm_weave_sgd_desc *d, const float *model, double *loss)
{
    const tinyi_weave_kernels *k = tinyi_weave_kernels_of(ctx->k);
    const size_t parts = tinyi_weave_parts(data->n_feature, k->lanes), numbers = parts * 32 * (size_t)k->lanes,
                 blocks = ((size_t)data->n + TINYI_SGD_BLOCK - 1) / TINYI_SGD_BLOCK;
    double *sum = (double *)tinyi_alloc(ctx, blocks + numbers, sizeof *sum), total = 0.0;
    float scale[32], *w;
    tinyi_sgd_loss job;
    size_t b;
    tiny_status st;
    if (!sum) return tiny_ctx_status(ctx);
    w = (float *)(void *)(sum + blocks);
    tinyi_weave_scale(scale, 32);
    tinyi_weave_spread(w, model, data->n_feature, k->lanes, scale);
    job.data = data;
    job.label = label;
    job.w = w;
    job.d = d;
    job.k = k;
    job.sum = sum;
    job.bias = d->intercept ? model[data->n_feature] : 0.0f;
    st = tiny_parallel_loose(ctx, blocks < 2 ? 1 : 0, 0, tinyi_weave_rows_bytes(parts, k->lanes, 32),
                             tinyi_sgd_loss_team, &job);
    for (b = 0; !st && b < blocks; b++) total += sum[b];
    tiny_free(ctx, sum);
    *loss = total / (double)data->n;
    return st;
}

/* of a model that was checked */
static tiny_status tinyi_sgd_measure(tiny_ctx *ctx, const tllm_weave *data, const float *label,
                                     const tllm_weave_sgd_desc *d, const float *model, double *loss)
{
    tiny_status st = TINY_OK;
    if (ctx->target == TINY_TARGET_REFERENCE) {
        *loss = tinyi_sgd_loss_ref(data, label, d, model);
        ctx->ran_on = TINY_TARGET_REFERENCE;
    } else st = tinyi_sgd_loss_fast(ctx, data, label, d, model, loss);
    if (!st && d->l2 > 0.0) *loss += 0.5 * d->l2 * tinyi_sgd_square(model, data->n_feature);
    return st;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

TINY_API tiny_status tllm_weave_loss(tiny_ctx *ctx, const tllm_weave *data, const float *label,
                                     const tllm_weave_sgd_desc *desc, const float *model, double *loss)
{
    double l;
    tiny_status st = tinyi_sgd_check(ctx, data, label, desc, model, "weave loss");
    if (st) return st;
    if (!loss) return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave loss: the result pointer is NULL");
    st = tinyi_sgd_measure(ctx, data, label, desc, model, &l);
    if (!st) *loss = l;
    return st;
}

TINY_API tiny_status tllm_weave_epoch(tiny_ctx *ctx, const tllm_weave *data, const float *label,
                                      const tllm_weave_sgd_desc *desc, tllm_weave_state *state, float *model)
{
    tllm_weave_state next;
    tinyi_sgd s;
    float *out;
    tiny_idx j, numbers;
    tiny_status st = tinyi_sgd_check(ctx, data, label, desc, model, "weave epoch");
    if (!st) st = tinyi_sgd_check_epoch(ctx, data, desc, state);
    if (st) return st;
    memset(&s, 0, sizeof s);
    next = *state;
    if (desc->bits) next.bits = desc->bits;
    else if (!next.epoch) next.bits = desc->bits_first ? desc->bits_first : 2;
    s.ctx = ctx;
    s.data = data;
    s.label = label;
    s.d = desc;
    s.bits = next.bits;
    s.batch = TINYI_MIN(desc->batch ? desc->batch : 16, data->n);
    s.n_models = desc->average ? desc->average : 1;
    s.lr = tinyi_sgd_lr(data, desc, next.epoch);
    s.shrink = (float)tinyi_sgd_shrink(desc, s.lr, s.batch);
    numbers = data->n_feature + (desc->intercept != 0);
    out = (float *)tinyi_alloc(ctx, (size_t)numbers, sizeof *out);
    if (!out) return tiny_ctx_status(ctx);
    if (ctx->target == TINY_TARGET_REFERENCE) {
        st = tinyi_sgd_epoch_ref(&s, model, out);
        if (!st) ctx->ran_on = TINY_TARGET_REFERENCE;
    } else st = tinyi_sgd_epoch(&s, model, out);
    for (j = 0; !st && j < numbers; j++)
        if (!(out[j] - out[j] == 0.0f))
            st = tinyi_fail(ctx, TINY_E_NUMERIC,
                            "weave epoch: number %td of the model became %g with steps of %g: lr is too large", j,
                            (double)out[j], s.lr);
    next.epoch++;
    next.bytes += (uint64_t)s.bits * (uint64_t)(tllm_weave_bytes(data->n, data->n_feature) / 32);
    if (!st && (desc->loss || (!desc->bits && !desc->schedule))) {
        next.loss_before = next.loss;
        st = tinyi_sgd_measure(ctx, data, label, desc, out, &next.loss);
        next.bytes_loss += (uint64_t)tllm_weave_bytes(data->n, data->n_feature);
    }
    if (!st && !desc->bits) {
        if (desc->schedule) {
            const int bits = desc->schedule(desc->user, &next);
            if (bits < 1 || bits > 32)
                st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                                "weave epoch: the schedule returned %d bits; the limits are 1 and 32", bits);
            next.bits = bits;
        } else if (next.epoch > 1 &&
                   next.loss_before - next.loss < (desc->gain > 0.0 ? desc->gain : 0.01) * next.loss_before &&
                   next.bits < (desc->bits_most ? desc->bits_most : 8))
            next.bits++;
    }
    if (!st) {
        memcpy(model, out, (size_t)numbers * sizeof *out);
        *state = next;
    }
    tiny_free(ctx, out);
    return st;
}

TINY_API tiny_status tllm_weave_plain_model(tiny_ctx *ctx, const tllm_weave *data, const float *model, int intercept,
                                            float *weight, float *bias)
{
    double sum = 0.0;
    tiny_idx j;
    tiny_status st = tinyi_weave_check(ctx, data, "weave model");
    if (st) return st;
    if (!model || !weight || !bias)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave model: a model and result pointers are needed, but one is NULL");
    for (j = 0; j < data->n_feature; j++) {
        const double range = (double)data->high[j] - (double)data->low[j],
                     w = range > 0.0 ? (double)model[j] / range : 0.0;
        sum -= w * (double)data->low[j];
        weight[j] = (float)w;
    }
    *bias = (float)(sum + (intercept ? (double)model[data->n_feature] : 0.0));
    return TINY_OK;
}
