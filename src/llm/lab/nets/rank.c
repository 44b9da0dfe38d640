/* src/llm/lab/nets/rank.c - agreement of two rankings; a search that evaluates only what a proxy finds promising
 * Papers   C. Spearman, 1904; M. Kendall, 1945 (tau-b). Search: Z. Zhang, Z. Jia, 2022 (arXiv 2110.08616), section 4.3,
 *          around random search, regularised evolution (E. Real et al., 2019, arXiv 1802.01548) and REINFORCE (R.
 *          Williams, 1992).
 * Formula  rho = Pearson's correlation of the ranks. tau-b = (C - D) / sqrt((P - X) (P - Y)), P = n (n - 1) / 2 pairs,
 *          C in the same order, D in opposite ones, X and Y equal in one list. */
#include "llm/lab/nets/rank.h"
#include "math/table_inside.h"
#include "math/sort.h"
#include "math/elem.h"
#include <float.h>
#include <string.h>

static tiny_status tinyi_rank_check(tiny_ctx *ctx, const double *x, const double *y, size_t n, double *to)
{
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (to) *to = 0.0;
    if (st) return st;
    if (!x || !y || !to || n < 2 || n > UINT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rank: two lists of at least 2 numbers, and where to put the result");
    for (i = 0; i < n; i++)
        if (x[i] != x[i] || y[i] != y[i]) return tinyi_fail(ctx, TINY_E_NUMERIC, "rank: pair %zu has a NaN", i);
    return TINY_OK;
}

static tiny_status tinyi_rank_same(tiny_ctx *ctx)
{
    return tinyi_fail(ctx, TINY_E_NUMERIC, "rank: all numbers of a list are equal: there is no order");
}

/* rank 0 .. n - 1 of each number; equal ones share the mean */
static tiny_status tinyi_rank_of(tiny_ctx *ctx, const double *x, size_t n, double *rank)
{
    uint64_t *key = (uint64_t *)tinyi_alloc(ctx, n, sizeof *key);
    uint32_t *order = key ? (uint32_t *)tinyi_alloc(ctx, n, sizeof *order) : NULL;
    size_t i, k, j;
    tiny_status st = order ? TINY_OK : tiny_ctx_status(ctx);
    for (i = 0; !st && i < n; i++) {
        const double v = x[i] == 0.0 ? 0.0 : x[i];
        memcpy(&key[i], &v, sizeof v);
        key[i] = key[i] >> 63 ? ~key[i] : key[i] | (uint64_t)1 << 63;
    }
    if (!st) st = tiny_argsort_u64(ctx, key, order, n, 0);
    for (i = 0; !st && i < n; i = k) {
        for (k = i + 1; k < n && key[order[k]] == key[order[i]]; k++) {}
        for (j = i; j < k; j++) rank[order[j]] = 0.5 * (double)(i + k - 1);
    }
    tiny_free(ctx, order);
    tiny_free(ctx, key);
    return st;
}

TINY_API tiny_status tllm_rank_spearman(tiny_ctx *ctx, const double *x, const double *y, size_t n, double *rho)
{
    double *a, *b, mean, ab = 0.0, aa = 0.0, bb = 0.0;
    size_t i;
    tiny_status st = tinyi_rank_check(ctx, x, y, n, rho);
    if (st) return st;
    a = (double *)tinyi_alloc(ctx, n, sizeof *a);
    b = a ? (double *)tinyi_alloc(ctx, n, sizeof *b) : NULL;
    st = b ? tinyi_rank_of(ctx, x, n, a) : tiny_ctx_status(ctx);
    if (!st) st = tinyi_rank_of(ctx, y, n, b);
    mean = 0.5 * (double)(n - 1);
    for (i = 0; !st && i < n; i++) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    if (!st && (aa == 0.0 || bb == 0.0)) st = tinyi_rank_same(ctx);
    if (!st) *rho = ab / tinyi_sqrt64(aa * bb);
    tiny_free(ctx, b);
    tiny_free(ctx, a);
    return st;
}

TINY_API tiny_status tllm_rank_kendall(tiny_ctx *ctx, const double *x, const double *y, size_t n, double *tau)
{
    double sum = 0.0, ties_x = 0.0, ties_y = 0.0, pairs;
    size_t i, k;
    tiny_status st = tinyi_rank_check(ctx, x, y, n, tau);
    if (st) return st;
    for (i = 0; i < n; i++)
        for (k = 0; k < i; k++) {
            const int a = (x[i] > x[k]) - (x[i] < x[k]), b = (y[i] > y[k]) - (y[i] < y[k]);
            sum += a * b;
            ties_x += !a;
            ties_y += !b;
        }
    pairs = 0.5 * (double)n * (double)(n - 1);
    if (ties_x == pairs || ties_y == pairs) return tinyi_rank_same(ctx);
    *tau = sum / tinyi_sqrt64((pairs - ties_x) * (pairs - ties_y));
    return TINY_OK;
}

/* ---- search */

typedef struct tinyi_search {
    const tllm_search_desc *d;
    tiny_rng rng;
    int *choice, *parent;                   /* the candidate; evaluated ones, (population, n_place) */
    double *parent_score;
    double *logit;                          /* of all options of all places */
    int n_parent;                           /* evaluated so far */
    size_t first[TLLM_SEARCH_PLACES + 1];
} tinyi_search;

static double tinyi_search_share(const tinyi_search *s, int place, int option)
{
    const double *p = s->logit + s->first[place];
    double top = p[0], sum = 0.0;
    int i;
    for (i = 1; i < s->d->n_option[place]; i++) top = TINYI_MAX(top, p[i]);
    for (i = 0; i < s->d->n_option[place]; i++) sum += tinyi_exp64(p[i] - top);
    return tinyi_exp64(p[option] - top) / sum;
}

static void tinyi_search_draw(tinyi_search *s, int population)
{
    const tllm_search_desc *d = s->d;
    int i;
    if (d->kind == TLLM_SEARCH_EVOLUTION && s->n_parent >= population) {
        const uint32_t a = tiny_rng_below(&s->rng, (uint32_t)population),
                       b = tiny_rng_below(&s->rng, (uint32_t)population);
        const uint32_t best = s->parent_score[a] >= s->parent_score[b] ? a : b;
        memcpy(s->choice, s->parent + best * (uint32_t)d->n_place, (size_t)d->n_place * sizeof *s->choice);
        i = (int)tiny_rng_below(&s->rng, (uint32_t)d->n_place);
        s->choice[i] = (int)tiny_rng_below(&s->rng, (uint32_t)d->n_option[i]);
        return;
    }
    for (i = 0; i < d->n_place; i++) {
        s->choice[i] = (int)tiny_rng_below(&s->rng, (uint32_t)d->n_option[i]);
        if (d->kind == TLLM_SEARCH_REINFORCE) {
            double x = tiny_rng_uniform64(&s->rng);
            for (s->choice[i] = 0; s->choice[i] + 1 < d->n_option[i]; s->choice[i]++) {
                x -= tinyi_search_share(s, i, s->choice[i]);
                if (x < 0.0) break;
            }
        }
    }
}

static void tinyi_search_learn(tinyi_search *s, int population, const int *choice, double score, double baseline)
{
    const tllm_search_desc *d = s->d;
    const double rate = d->rate != 0.0 ? d->rate : 0.5;
    const int at = s->n_parent % population;            /* the oldest dies */
    int i, k;
    memcpy(s->parent + at * d->n_place, choice, (size_t)d->n_place * sizeof *choice);
    s->parent_score[at] = score;
    s->n_parent++;
    for (i = 0; d->kind == TLLM_SEARCH_REINFORCE && i < d->n_place; i++) {
        double share[256];
        for (k = 0; k < d->n_option[i]; k++) share[k] = tinyi_search_share(s, i, k);
        for (k = 0; k < d->n_option[i]; k++)
            s->logit[s->first[i] + (size_t)k] += rate * (score - baseline) * ((k == choice[i]) - share[k]);
    }
}

TINY_API tiny_status tllm_search(tiny_ctx *ctx, const tllm_search_desc *d, int *best, double *score)
{
    tinyi_search s;
    double top = 0.0, sum = 0.0, each, value;
    int *pick = NULL;
    int i, step, steps, per, population, found = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (score) *score = 0.0;
    if (st) return st;
    memset(&s, 0, sizeof s);
    if (!d || !best || !score || !d->exact || !d->n_option || d->n_place < 1 || d->n_place > TLLM_SEARCH_PLACES ||
        d->kind < TLLM_SEARCH_RANDOM || d->kind > TLLM_SEARCH_REINFORCE || d->per_step < 0 || d->steps < 0 ||
        d->population < 0 || d->population > 1000000 || !(d->rate >= 0.0 && d->rate < 1e6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "search: a known kind, 1 to %d places, an evaluation, and where to put the result",
                          TLLM_SEARCH_PLACES);
    for (i = 0; i < d->n_place; i++) {
        if (d->n_option[i] < 1 || d->n_option[i] > 256)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "search: %d options at place %d; 1 to 256 are possible",
                              d->n_option[i], i);
        s.first[i + 1] = s.first[i] + (size_t)d->n_option[i];
    }
    steps = d->steps ? d->steps : 10;
    per = d->cheap ? d->per_step ? d->per_step : 100 : 1;
    population = d->population ? d->population : 10;
    s.d = d;
    s.rng = tiny_rng_make(d->seed, 0x73656172);
    s.choice = (int *)tinyi_alloc(ctx, 2 * (size_t)d->n_place, sizeof *s.choice);
    if (s.choice) s.parent = (int *)tinyi_alloc(ctx, (size_t)population * (size_t)d->n_place, sizeof *s.parent);
    if (s.parent) s.parent_score = (double *)tinyi_alloc(ctx, (size_t)population, sizeof *s.parent_score);
    if (s.parent_score) s.logit = (double *)tinyi_alloc(ctx, s.first[d->n_place], sizeof *s.logit);
    if (!s.logit) st = tiny_ctx_status(ctx);
    else {
        memset(s.logit, 0, s.first[d->n_place] * sizeof *s.logit);
        pick = s.choice + d->n_place;
    }
    for (step = 0; !st && step < steps; step++) {
        double most = -DBL_MAX;
        for (i = 0; !st && i < per; i++) {
            tinyi_search_draw(&s, population);
            each = 0.0;
            if (d->cheap) st = d->cheap(d->user, s.choice, &each);
            if (each != each) each = -DBL_MAX;
            if (!st && (!i || each > most)) {
                most = each;
                memcpy(pick, s.choice, (size_t)d->n_place * sizeof *pick);
            }
        }
        value = 0.0;
        if (!st) st = d->exact(d->user, pick, &value);
        if (!st && value != value) st = tinyi_fail(ctx, TINY_E_NUMERIC, "search: the evaluation %d is NaN", step);
        if (st) break;
        tinyi_search_learn(&s, population, pick, value, step ? sum / step : value);
        sum += value;
        if (!found || value > top) {
            found = 1;
            top = value;
            memcpy(best, pick, (size_t)d->n_place * sizeof *best);
        }
    }
    if (!st) *score = top;
    tiny_free(ctx, s.logit);
    tiny_free(ctx, s.parent_score);
    tiny_free(ctx, s.parent);
    tiny_free(ctx, s.choice);
    return st;
}
