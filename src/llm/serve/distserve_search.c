/* src/llm/serve/distserve_search.c - requests by chance, scores, goodput by bisection, placement by trying all
 * Paper    DistServe (arXiv 2401.09670), 4.1 and 4.2: algorithm 1 for fast networks searches prefill and decode each by
 *          itself, algorithm 2 for slow ones searches pairs inside a node. G. Marsaglia, W. Tsang, "A simple method for
 *          generating gamma variables", 2000.
 * Formula  of split parts that serve g_p and g_d requests a second and device: 1 / (1 / g_p + 1 / g_d) together.
 * Order    of equal goodputs the one with fewer devices is kept, so the answer does not depend on luck. */
#include "core/rng.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "llm/serve/distserve.h"
#include <stdlib.h>
#include <string.h>

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static double tinyi_ds_normal(tiny_rng *rng)
{
    const double u = 1 - tiny_rng_uniform64(rng), v = tiny_rng_uniform64(rng);
    return tinyi_sqrt(-2 * tinyi_log64(u)) * tinyi_cos64(6.283185307179586 * v);
}
/* of mean 1 */
static double tinyi_ds_gamma(tiny_rng *rng, double cv)
{
    const double shape = 1 / (cv * cv), d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / tinyi_sqrt(9 * d);
    double x, v, u;
    do {
        do {
            x = tinyi_ds_normal(rng);
            v = 1 + c * x;
        } while (v <= 0);
        v = v * v * v;
        u = 1 - tiny_rng_uniform64(rng);
    } while (tinyi_log64(u) >= 0.5 * x * x + d - d * v + d * tinyi_log64(v));
    if (shape < 1) v *= tinyi_exp64(tinyi_log64(1 - tiny_rng_uniform64(rng)) / shape);
    return d * v / shape;
}
static int tinyi_ds_length(tiny_rng *rng, int median, double spread, int most)
{
    const double x = median * (spread > 0 ? tinyi_exp64(spread * tinyi_ds_normal(rng)) : 1) + 0.5;
    return x >= most ? most : x < 1 ? 1 : (int)x;
}

static int tinyi_ds_n(const tllm_dist_load *load) { return load->n ? load->n : 500; }
static tiny_status tinyi_ds_load_check(tiny_ctx *ctx, const tllm_dist_load *l)
{
    if (!l) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the load is NULL");
    if (tinyi_ds_n(l) < 10 || l->n > 10000000)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d requests: nine of ten need at least 10, at most 10000000", l->n);
    if (!(l->cv >= 0 && l->cv <= 100) || l->prompt < 0 || l->output < 0 || l->prompt_most < 0 || l->output_most < 0 ||
        !(l->prompt_spread >= 0 && l->prompt_spread <= 10) || !(l->output_spread >= 0 && l->output_spread <= 10))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a number of the load is negative or too large");
    return TINY_OK;
}

TINY_API tiny_status tllm_dist_requests(tiny_ctx *ctx, const tllm_dist_load *load, double rate,
                                        tllm_dist_request *request)
{
    tiny_rng gap, lengths;
    double at = 0;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_ds_load_check(ctx, load);
    if (st) return st;
    if (!(rate > 0 && rate < 1e12)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a rate of %g requests a second", rate);
    if (!request) return tinyi_fail(ctx, TINY_E_ARGUMENT, "there is no room for the requests");
    gap = tiny_rng_make(load->seed, 0);
    lengths = tiny_rng_make(load->seed, 1);
    for (i = 0; i < tinyi_ds_n(load); i++) {
        at += load->cv > 0 ? tinyi_ds_gamma(&gap, load->cv) : -tinyi_log64(1 - tiny_rng_uniform64(&gap));
        request[i].arrival = at / rate;
        request[i].prompt = tinyi_ds_length(&lengths, load->prompt ? load->prompt : 512, load->prompt_spread,
                                            load->prompt_most ? load->prompt_most : 4096);
        request[i].output = tinyi_ds_length(&lengths, load->output ? load->output : 64, load->output_spread,
                                            load->output_most ? load->output_most : 1024);
    }
    return TINY_OK;
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

static int tinyi_ds_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
TINY_API tiny_status tllm_dist_score_of(tiny_ctx *ctx, const tllm_dist_request *request, const tllm_dist_time *time,
                                        size_t n, tllm_dist_score *score)
{
    double *x;
    size_t i, k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!request || !time || !score) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a score needs requests and their times");
    if (n < 10) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%zu requests: nine of ten need at least 10", n);
    x = (double *)tinyi_alloc(ctx, n, sizeof *x);
    if (!x) return tiny_ctx_status(ctx);
    for (k = 0; k < 2; k++) {
        for (i = 0; i < n; i++) {
            const int more = request[i].output - 1;
            x[i] = !k ? time[i].first - request[i].arrival : more > 0 ? (time[i].done - time[i].first) / more : 0;
        }
        qsort(x, n, sizeof *x, tinyi_ds_order);
        *(k ? &score->tpot : &score->ttft) = x[(9 * n + 9) / 10 - 1];
    }
    tiny_free(ctx, x);
    return TINY_OK;
}

TINY_API tiny_status tllm_dist_goodput(tiny_ctx *ctx, const tllm_dist_config *c, const tllm_dist_load *load,
                                       const tllm_dist_limits *limits, const tllm_dist_bisection *b, double *rate)
{
    const int devices = tllm_dist_devices(c);
    tllm_dist_request *request;
    tllm_dist_time *time;
    double low = 0, high = b && b->most > 0 ? b->most : 64;
    const double width = b && b->width > 0 ? b->width : 0.25;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_ds_load_check(ctx, load);
    if (st) return st;
    if (!c || !limits || !rate || devices < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a goodput needs a configuration with devices, limits and room");
    if (!(limits->ttft > 0) || !(limits->tpot > 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "limits of %g and %g seconds, they must be above 0", limits->ttft,
                          limits->tpot);
    if (!(high < 1e9) || !(width > high * 1e-9))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a bisection of %g to a width of %g", high, width);
    request = (tllm_dist_request *)tinyi_alloc(ctx, (size_t)tinyi_ds_n(load), sizeof *request);
    time = (tllm_dist_time *)tinyi_alloc(ctx, (size_t)tinyi_ds_n(load), sizeof *time);
    if (!request || !time) st = tiny_ctx_status(ctx);
    while (!st && high - low > width) {
        const double middle = (low + high) / 2;
        tllm_dist_score score;
        st = tllm_dist_requests(ctx, load, middle * devices, request);
        if (!st) st = tllm_dist_simulate(ctx, c, request, (size_t)tinyi_ds_n(load), time, NULL);
        if (!st) st = tllm_dist_score_of(ctx, request, time, (size_t)tinyi_ds_n(load), &score);
        if (st) break;
        if ((c->role == TLLM_DIST_DECODE || score.ttft < limits->ttft) &&
            (c->role == TLLM_DIST_PREFILL || score.tpot < limits->tpot))
            low = middle;
        else high = middle;
    }
    tiny_free(ctx, request);
    tiny_free(ctx, time);
    if (!st) *rate = low;
    return st;
}

/* ---- placement --------------------------------------------------------------------------------------------------- */

typedef struct tinyi_ds_try {
    tiny_ctx *ctx;
    const tllm_dist_cluster *cluster;
    const tllm_dist_model *model;
    const tllm_dist_load *load;
    const tllm_dist_limits *limits;
    int tried, fits;
} tinyi_ds_try;
typedef struct tinyi_ds_best { tllm_dist_config c; double goodput; } tinyi_ds_best;

static int tinyi_ds_fits(tinyi_ds_try *t, int tp, int pp)
{
    const int fits = t->model->heads % tp == 0 && t->model->layers % pp == 0 && tp <= t->cluster->devices &&
                     t->model->bytes / ((double)tp * pp) < t->cluster->memory;
    t->fits += fits;
    return fits;
}
static tiny_status tinyi_ds_attempt(tinyi_ds_try *t, const tllm_dist_config *c, tinyi_ds_best *best)
{
    double rate = 0;
    const tiny_status st = tllm_dist_goodput(t->ctx, c, t->load, t->limits, NULL, &rate);
    t->tried++;
    if (st || !(rate > 0)) return st;
    if (rate > best->goodput || (rate >= best->goodput && tllm_dist_devices(c) < tllm_dist_devices(&best->c))) {
        best->goodput = rate;
        best->c = *c;
    }
    return TINY_OK;
}
static int tinyi_ds_tp(const tllm_dist_profile *p) { return p->tp ? p->tp : 1; }

/* rounded up */
static int tinyi_ds_up(double x)
{
    const int n = x < 1e9 ? (int)x : 1000000000;
    return n + (n < x);
}

TINY_API tiny_status tllm_dist_place(tiny_ctx *ctx, const tllm_dist_cluster *cluster, const tllm_dist_model *model,
                                     const tllm_dist_profile *profile, int n_profile, const tllm_dist_config *c,
                                     const tllm_dist_load *load, const tllm_dist_limits *limits, double rate,
                                     tllm_dist_plan *plan)
{
    tinyi_ds_best best[TLLM_DIST_ROLES];
    tinyi_ds_try t;
    tllm_dist_config d;
    int i, j, pp, pd, across, role, all;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!cluster || !model || !profile || n_profile < 1 || !limits || !plan)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a placement needs a cluster, a model, profiles, limits and room");
    memset(plan, 0, sizeof *plan);
    memset(best, 0, sizeof best);
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    if (cluster->nodes < 1 || cluster->devices < 1 || cluster->nodes > 4096 || cluster->devices > 4096 ||
        !(cluster->memory > 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a cluster of %d nodes with %d devices of %g bytes", cluster->nodes,
                          cluster->devices, cluster->memory);
    if (model->layers < 1 || model->heads < 1 || !(model->bytes > 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a model of %d layers, %d heads and %g bytes", model->layers,
                          model->heads, model->bytes);
    if (!(rate > 0 && rate < 1e9)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a rate of %g requests a second", rate);
    for (i = 0; i < n_profile; i++)
        for (j = 0; j < i; j++)
            if (tinyi_ds_tp(&profile[i]) == tinyi_ds_tp(&profile[j]))
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "two profiles for %d devices at once",
                                  tinyi_ds_tp(&profile[i]));
    if (c) d = *c;
    d.dies = 0;
    d.prefill.instances = d.decode.instances = 1;
    t.ctx = ctx;
    t.cluster = cluster;
    t.model = model;
    t.load = load;
    t.limits = limits;
    all = TINYI_MIN(cluster->nodes * cluster->devices, 64);
    for (i = 0; i < n_profile && !st; i++) {
        const int tp = tinyi_ds_tp(&profile[i]);
        for (pp = 1; pp <= all / tp && !st; pp++) {
            if (!tinyi_ds_fits(&t, tp, pp)) continue;
            d.prefill.profile = d.decode.profile = &profile[i];
            d.prefill.pp = d.decode.pp = pp;
            for (role = TLLM_DIST_TOGETHER; role < TLLM_DIST_ROLES && !st; role++) {
                if (cluster->slow && role != TLLM_DIST_TOGETHER) continue;
                d.role = role;
                st = tinyi_ds_attempt(&t, &d, &best[role]);
            }
        }
    }
    /* pairs of parts whose stages share nodes */
    d.role = TLLM_DIST_SPLIT;
    for (across = 1; across <= cluster->nodes && cluster->slow && !st; across++)
        for (i = 0; i < n_profile; i++)
            for (j = 0; j < n_profile; j++) {
                const int tp = tinyi_ds_tp(&profile[i]), td = tinyi_ds_tp(&profile[j]);
                for (pp = 1; tp * pp < cluster->devices; pp++)
                    for (pd = 1; tp * pp + td * pd <= cluster->devices && !st; pd++) {
                        if (across * pp > 64 || across * pd > 64) continue;
                        if (!tinyi_ds_fits(&t, tp, across * pp) || !tinyi_ds_fits(&t, td, across * pd)) continue;
                        d.prefill.profile = &profile[i];
                        d.decode.profile = &profile[j];
                        d.prefill.pp = across * pp;
                        d.decode.pp = across * pd;
                        st = tinyi_ds_attempt(&t, &d, &best[TLLM_DIST_SPLIT]);
                    }
            }
    if (st) return st;
    plan->tried = t.tried;
    if (!t.fits)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "a model of %g bytes fits on no group of devices with a profile",
                          model->bytes);
    if (!cluster->slow && best[TLLM_DIST_PREFILL].goodput > 0 && best[TLLM_DIST_DECODE].goodput > 0) {
        tinyi_ds_best *s = &best[TLLM_DIST_SPLIT];
        s->c = best[TLLM_DIST_PREFILL].c;
        s->c.role = TLLM_DIST_SPLIT;
        s->c.decode = best[TLLM_DIST_DECODE].c.decode;
        s->goodput = 1 / (1 / best[TLLM_DIST_PREFILL].goodput + 1 / best[TLLM_DIST_DECODE].goodput);
    }
    plan->split = best[TLLM_DIST_SPLIT].goodput;
    plan->together = best[TLLM_DIST_TOGETHER].goodput;
    role = plan->together >= plan->split ? TLLM_DIST_TOGETHER : TLLM_DIST_SPLIT;
    plan->best = best[role].c;
    plan->goodput = best[role].goodput;
    if (!(plan->goodput > 0))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "no placement keeps limits of %g and %g seconds", limits->ttft,
                          limits->tpot);
    if (role == TLLM_DIST_SPLIT && !cluster->slow) {
        const tinyi_ds_best *p = &best[TLLM_DIST_PREFILL], *q = &best[TLLM_DIST_DECODE];
        plan->prefills = tinyi_ds_up(rate / (p->goodput * tllm_dist_devices(&p->c)));
        plan->decodes = tinyi_ds_up(rate / (q->goodput * tllm_dist_devices(&q->c)));
    } else {
        plan->prefills = tinyi_ds_up(rate / (plan->goodput * tllm_dist_devices(&plan->best)));
        plan->decodes = role == TLLM_DIST_SPLIT ? plan->prefills : 0;
    }
    return TINY_OK;
}
