/* src/llm/lab/nets/score.c - scores of weights before training
 * Papers   N. Lee, T. Ajanthan, P. Torr, 2018 (arXiv 1810.02340); C. Wang, G. Zhang, R. Grosse, 2020 (arXiv
 *          2002.07376); H. Tanaka, D. Kunin, D. Yamins, S. Ganguli, 2020 (arXiv 2006.05467), algorithm 1. The two
 *          definitions: the programs Synaptic-Flow and zero-cost-nas.
 * Formula  see llm/lab/nets/score.h. H g = (grad L(w + e g) - grad L(w - e g)) / (2 e).
 * Data     a copy of the network in f64, with masked weights 0 and without mask.
 * Range    a factor 2^k on a layer of a network without biases changes every SynFlow score by 2^k, so that each layer
 *          is first scaled by the power of two that brings its mean sum of a row near 1: nothing overflows, and no
 *          mantissa changes. The factor is put back at the end if the largest score allows it.
 * Left out the two halves of GraSP's batch: with halves of equal size, g and H g are those of the whole times a
 *          factor. */
#include "llm/lab/nets/score.h"
#include "llm/lab/nets/nn_inside.h"
#include "math/layer.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <float.h>
#include <string.h>

static const char *const tinyi_score_names[TLLM_SCORE_KINDS] = { "random", "magnitude", "snip", "grasp", "synflow" };

TINY_API const char *tllm_score_name(int kind)
{
    return kind < 0 || kind >= TLLM_SCORE_KINDS ? NULL : tinyi_score_names[kind];
}

static double tinyi_score_abs(double x) { return x < 0.0 ? -x : x; }

static tiny_status tinyi_score_gradient(void *user) { return tinyi_nn_pass_run((tinyi_nn_pass *)user); }

/* the prune batch, in f64; b->x.data is freed by the caller */
static tiny_status tinyi_score_batch(const tllm_nn *nn, const tllm_score_desc *d, tllm_nn_set *b)
{
    const tiny_idx n_class = tllm_nn_is(nn)->layer[tllm_nn_is(nn)->n_layer - 1].n_out;
    const tiny_idx per = d->per_class ? d->per_class : d->kind == TLLM_SCORE_GRASP ? 25 : 10;
    tiny_ctx *ctx = tinyi_nn_ctx(nn);
    uint32_t *index = NULL;
    size_t n;
    tiny_status st = tinyi_nn_set_check(ctx, d->data, n_class);
    memset(b, 0, sizeof *b);
    if (st) return st;
    if (per < 0) return tinyi_nn_set_rows(ctx, d->data, NULL, d->data->x.dim[0], TINY_F64, b);
    if (!tinyi_size_mul((size_t)per, (size_t)n_class, &n) || n > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "score: %td samples of each of %td classes", per, n_class);
    index = (uint32_t *)tinyi_alloc(ctx, n, sizeof *index);
    if (!index) return tiny_ctx_status(ctx);
    st = tllm_nn_set_draw(ctx, d->data, n_class, per, d->seed, index);
    if (!st) st = tinyi_nn_set_rows(ctx, d->data, index, (tiny_idx)n, TINY_F64, b);
    tiny_free(ctx, index);
    return st;
}

static tiny_status tinyi_score_by_loss(tllm_nn *twin, const tllm_score_desc *d, size_t n, double *score)
{
    tiny_ctx *ctx = tinyi_nn_ctx(twin);
    const double *theta = (const double *)tinyi_nn_theta(twin, 0), *grad = (const double *)tinyi_nn_theta(twin, 1);
    const int zero = d->as == TLLM_SCORE_ZERO_COST, grasp = d->kind == TLLM_SCORE_GRASP;
    double *g = NULL, *h = NULL, sum = 0.0;
    tinyi_nn_pass p;
    size_t i;
    tiny_status st;
    memset(&p, 0, sizeof p);
    p.nn = twin;
    p.norm = zero ? TINYI_NORM_BATCH : TINYI_NORM_RUNNING;
    if (grasp) p.scale = 1.0 / (d->temperature != 0.0 ? d->temperature : zero ? 1.0 : 200.0);
    st = tinyi_score_batch(twin, d, &p.batch);
    if (!st) st = tinyi_nn_pass_open(&p);
    if (!st) st = tinyi_nn_pass_run(&p);
    for (i = 0; !st && i < n; i++)
        if (grad[i] - grad[i] != 0.0)
            st = tinyi_fail(ctx, TINY_E_NUMERIC, "score: the gradient of weight %zu is not finite", i);
    for (i = 0; !st && !grasp && i < n; i++) score[i] = tinyi_score_abs(theta[i] * grad[i]);
    if (!st && grasp) {
        tiny_param all;
        tiny_tensor v, to;
        g = (double *)tinyi_alloc(ctx, n, sizeof *g);
        if (g) h = (double *)tinyi_alloc(ctx, n, sizeof *h);
        if (!h) st = tiny_ctx_status(ctx);
        if (!st) {
            memcpy(g, grad, n * sizeof *g);
            memset(&all, 0, sizeof all);
            all.name = "weights";
            all.value = tiny_tensor_1d(tinyi_nn_theta(twin, 0), TINY_F64, (tiny_idx)n);
            all.grad = tiny_tensor_1d(tinyi_nn_theta(twin, 1), TINY_F64, (tiny_idx)n);
            v = tiny_tensor_1d(g, TINY_F64, (tiny_idx)n);
            to = tiny_tensor_1d(h, TINY_F64, (tiny_idx)n);
            st = tiny_hvp_step(ctx, &all, 1, tinyi_score_gradient, &p, &v, &to, d->step != 0.0 ? d->step : 1e-6);
        }
        for (i = 0; !st && i < n; i++) score[i] = (zero ? -theta[i] : theta[i]) * h[i];
    }
    for (i = 0; !st && i < n; i++) sum += score[i];
    if (grasp) sum = tinyi_score_abs(sum) + 1e-10;
    for (i = 0; !st && !zero && sum > 0.0 && i < n; i++) score[i] /= sum;
    tinyi_nn_pass_close(&p);
    tiny_free(ctx, p.batch.x.data);
    tiny_free(ctx, h);
    tiny_free(ctx, g);
    return st;
}

/* x 2^k, exact within the range */
static double tinyi_score_shift(double x, int k)
{
    for (; k > 0; k--) x *= 2.0;
    for (; k < 0; k++) x *= 0.5;
    return x;
}

static tiny_status tinyi_score_synflow(tllm_nn *twin, const tllm_score_desc *d, size_t n, double *score,
                                       double *scale_log2)
{
    const tllm_nn_desc *is = tllm_nn_is(twin);
    tiny_ctx *ctx = tinyi_nn_ctx(twin);
    double *theta = (double *)tinyi_nn_theta(twin, 0), *ones, most = 0.0;
    const double *grad = (const double *)tinyi_nn_theta(twin, 1);
    const tiny_idx inputs = is->in[0] * is->in[1] * is->in[2];
    size_t n_layer, l, i, count;
    const tllm_nn_weight *w = tllm_nn_weights(twin, &n_layer);
    int shift = 0;
    tinyi_nn_pass p;
    tiny_status st;
    tinyi_nn_bare(twin);
    for (l = 0; l < n_layer; l++) {
        double mean = 0.0;
        int k = 0;
        count = (size_t)tiny_tensor_count(&w[l].value);
        for (i = 0; i < count; i++) {
            theta[w[l].first + i] = tinyi_score_abs(theta[w[l].first + i]);
            mean += theta[w[l].first + i] / (double)w[l].value.dim[0];
        }
        if (!(mean - mean == 0.0))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "score: the weights of layer %s are not finite", w[l].name);
        for (; mean >= 2.0; k--) mean *= 0.5;
        for (; mean > 0.0 && mean < 1.0; k++) mean *= 2.0;
        for (i = 0; k && i < count; i++) theta[w[l].first + i] = tinyi_score_shift(theta[w[l].first + i], k);
        shift -= k;
    }
    ones = (double *)tinyi_alloc(ctx, (size_t)inputs, sizeof *ones);
    if (!ones) return tiny_ctx_status(ctx);
    for (i = 0; i < (size_t)inputs; i++) ones[i] = 1.0;
    memset(&p, 0, sizeof p);
    p.nn = twin;
    p.goal = TINYI_GOAL_SUM;
    p.norm = d->as == TLLM_SCORE_ZERO_COST ? TINYI_NORM_OFF : TINYI_NORM_RUNNING;
    p.batch.x = tiny_tensor_4d(ones, TINY_F64, 1, is->in[0], is->in[1], is->in[2]);
    st = tinyi_nn_pass_open(&p);
    if (!st) st = tinyi_nn_pass_run(&p);
    for (i = 0; !st && i < n; i++) {
        score[i] = theta[i] * grad[i];
        most = TINYI_MAX(most, score[i]);
    }
    if (!st && !(most - most == 0.0)) st = tinyi_fail(ctx, TINY_E_NUMERIC, "score: synflow is not finite");
    if (!st) {
        const double end = most > 0.0 ? tinyi_score_shift(most, shift) : 0.0;
        if (most > 0.0 && !(end > 1e-270 && end < 1e290)) *scale_log2 = (double)shift;
        else for (i = 0; i < n; i++) score[i] = tinyi_score_shift(score[i], shift);
    }
    tinyi_nn_pass_close(&p);
    tiny_free(ctx, ones);
    return st;
}

TINY_API tiny_status tllm_nn_score(const tllm_nn *nn, const tllm_score_desc *d, double *score, double *scale_log2)
{
    tllm_nn *twin = NULL;
    const size_t n = tllm_nn_cost_of(nn).n_weight;
    double log2 = 0.0;
    const tllm_mask *mask;
    const double *theta;
    tiny_rng rng;
    tiny_ctx *ctx;
    size_t i;
    tiny_status st;
    if (scale_log2) *scale_log2 = 0.0;
    if (!nn) return TINY_E_ARGUMENT;
    ctx = tinyi_nn_ctx(nn);
    if (!d || !score || d->kind < 0 || d->kind >= TLLM_SCORE_KINDS ||
        (d->as != TLLM_SCORE_SYNAPTIC_FLOW && d->as != TLLM_SCORE_ZERO_COST))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "score: a known kind and definition, and where to put the scores");
    if (!(d->temperature >= 0.0 && d->temperature < 1e12 && d->step >= 0.0 && d->step < 1.0) || d->per_class < -1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "score: temperature %g, step %g, %td samples of each class",
                          d->temperature, d->step, d->per_class);
    if ((d->kind == TLLM_SCORE_SNIP || d->kind == TLLM_SCORE_GRASP) && !d->data)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "score: %s needs data", tllm_score_name(d->kind));
    st = tllm_nn_copy(nn, TINY_F64, &twin);
    if (st) return st;
    tllm_nn_clear(twin);
    st = tllm_nn_mask(twin, NULL);
    theta = (const double *)tinyi_nn_theta(twin, 0);
    rng = tiny_rng_make(d->seed, 0x73636f72);
    for (i = 0; !st && i < n; i++) {
        if (theta[i] - theta[i] != 0.0) st = tinyi_fail(ctx, TINY_E_NUMERIC, "score: weight %zu is not finite", i);
        else if (d->kind == TLLM_SCORE_RANDOM) score[i] = (double)tiny_rng_normal(&rng);
        else score[i] = tinyi_score_abs(theta[i]);
    }
    if (!st && d->kind == TLLM_SCORE_SYNFLOW) st = tinyi_score_synflow(twin, d, n, score, &log2);
    else if (!st && d->kind >= TLLM_SCORE_SNIP) st = tinyi_score_by_loss(twin, d, n, score);
    tllm_nn_close(twin);
    mask = tllm_nn_masked(nn);
    for (i = 0; !st && mask && i < n; i++) if (!tllm_mask_has(mask, i)) score[i] = 0.0;
    if (!st && scale_log2) *scale_log2 = log2;
    return st;
}

TINY_API tiny_status tllm_nn_prune(tllm_nn *nn, const tllm_score_desc *d, double keep, size_t *n_empty)
{
    const size_t n = tllm_nn_cost_of(nn).n_weight;
    tllm_mask mask;
    const tllm_mask *before;
    double *score;
    tiny_ctx *ctx;
    size_t i, k, had;
    int r, rounds;
    tiny_status st;
    if (n_empty) *n_empty = 0;
    if (!nn) return TINY_E_ARGUMENT;
    ctx = tinyi_nn_ctx(nn);
    if (!d || d->rounds < 0 || d->rounds > 100000)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "prune: a description of the score, with 0 to 100000 rounds");
    if (!(keep > 0.0 && keep <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "prune: keeping a share of %g; more than 0 and at most 1 is needed",
                          keep);
    rounds = d->rounds ? d->rounds : d->kind == TLLM_SCORE_SYNFLOW ? 100 : 1;
    st = tllm_mask_open(ctx, n, &mask);
    if (st) return st;
    had = tllm_nn_cost_of(nn).n_kept;
    if (tllm_nn_masked(nn)) memcpy(mask.bits, tllm_nn_masked(nn)->bits, (n + 7) / 8);
    score = (double *)tinyi_alloc(ctx, n, sizeof *score);
    if (!score) st = tiny_ctx_status(ctx);
    for (r = 0; !st && r < rounds; r++) {
        const double part = r + 1 == rounds ? keep : tinyi_exp64(tinyi_log64(keep) * (double)(r + 1) / (double)rounds);
        k = tllm_mask_part(part, n);
        k = k < 1 ? 1 : k > had ? had : k;
        st = tllm_nn_score(nn, d, score, NULL);
        before = tllm_nn_masked(nn);
        for (i = 0; !st && before && i < n; i++) if (!tllm_mask_has(before, i)) score[i] = -DBL_MAX;
        if (!st) st = tllm_mask_top(ctx, &mask, 0, n, score, k);
        if (!st) st = tllm_nn_mask(nn, &mask);
    }
    if (!st && n_empty) *n_empty = tllm_nn_cost_of(nn).n_empty;
    tiny_free(ctx, score);
    tllm_mask_close(ctx, &mask);
    return st;
}
