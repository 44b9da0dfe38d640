/* src/llm/plan/phases_search.c - loads by seed, the highest rate within limits, the search of a placement, and fits
 * Paper    as src/llm/plan/phases.c; algorithms 1 and 2 for fast and for slow links between nodes.
 * Rate     bisection, at each step the same requests at another distance. Nine in ten requests keep each limit.
 * Fast     prompts and answers are searched alone: the best goodput of a device for each. Apart, a device gives
 *          1 / (1 / prompts + 1 / answers), together what an instance of both gives.
 * Slow     an instance of prompts and one of answers share nodes, and are simulated as a pair.
 * Queues   M/D/1: service + rate service^2 / (2 (1 - rate service)); two stages: the wait of a service half as long;
 *          cut over two devices: the whole with service / faster. */
#include <string.h>
#include "llm/plan/phases.h"
#include "core/state_inside.h"
#include "core/rng.h"
#include <math.h>

/* ---- loads, the highest rate, placements */

/* Marsaglia and Tsang: gamma-distributed with the shape k and the mean 1 */
static double tinyi_phase_gamma(tiny_rng *g, double k)
{
    const double more = k < 1 ? pow(tiny_rng_uniform64(g) + 1e-300, 1 / k) : 1, d = (k < 1 ? k + 1 : k) - 1.0 / 3,
                 c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = tiny_rng_normal(g), v = 1 + c * x, u = tiny_rng_uniform64(g);
        if (v > 0 && log(u + 1e-300) < 0.5 * x * x + d - d * v * v * v + 3 * d * log(v))
            return more * d * v * v * v / k;
    }
}
static int tinyi_phase_length(tiny_rng *g, double median, double sigma)
{
    const double x = sigma > 0 ? median * exp(sigma * tiny_rng_normal(g)) : median;
    return x < 1 ? 1 : x > TLLM_PHASES_TOKENS ? TLLM_PHASES_TOKENS : (int)(x + 0.5);
}
static tiny_status tinyi_phase_load(tiny_ctx *ctx, const tllm_phases_load *l, int with_rate)
{
    if (!l || l->n < 10) return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: a load of %d requests, expected 10 or more",
                                           l ? l->n : 0);
    if (with_rate && !(l->rate > 0 && l->rate < 1e9))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: a rate of %g requests a second, expected more than 0",
                          l->rate);
    if (!(l->varies >= 0 && l->varies <= 100) || !(l->prompt >= 1 && l->prompt <= TLLM_PHASES_TOKENS) ||
        !(l->answer >= 1 && l->answer <= TLLM_PHASES_TOKENS) || !(l->prompt_sigma >= 0 && l->prompt_sigma <= 10) ||
        !(l->answer_sigma >= 0 && l->answer_sigma <= 10))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: prompts and answers have 1 to %d tokens, deviations are 0 to "
                                                "10, and pauses vary by 0 to 100", TLLM_PHASES_TOKENS);
    return TINY_OK;
}
tiny_status tllm_phases_draw(tiny_ctx *ctx, const tllm_phases_load *load, tllm_phases_request *request)
{
    tiny_rng pause, prompt, answer;
    double at = 0;
    int i;
    tiny_status st;
    if (!ctx) return TINY_E_ARGUMENT;
    st = tinyi_phase_load(ctx, load, 1);
    if (st) return st;
    if (!request) return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: no room for the requests");
    pause = tiny_rng_make(load->seed, 0x70610001);
    prompt = tiny_rng_make(load->seed, 0x70610002);
    answer = tiny_rng_make(load->seed, 0x70610003);
    for (i = 0; i < load->n; i++) {
        const double u = load->varies > 0 && fabs(load->varies - 1) > 1e-12
                             ? tinyi_phase_gamma(&pause, 1 / (load->varies * load->varies))
                             : -log(1 - tiny_rng_uniform64(&pause));
        at += 1e3 * u / load->rate;
        request[i].at = at;
        request[i].prompt = tinyi_phase_length(&prompt, load->prompt, load->prompt_sigma);
        request[i].answer = tinyi_phase_length(&answer, load->answer, load->answer_sigma);
    }
    return TINY_OK;
}

static int tinyi_phase_devices(const tllm_phases_group *g) { return g->n * g->tp * g->pp; }

tiny_status tllm_phases_goodput(tiny_ctx *ctx, const tllm_phases *d, const tllm_phases_load *load,
                                const tllm_phases_limit *limit, double *rate)
{
    tllm_phases_request *base, *request;
    tllm_phases_report report;
    tllm_phases_load unit;
    double low = 0, high, step;
    int i, devices = 0;
    tiny_status st;
    if (rate) *rate = 0;
    if (!ctx) return TINY_E_ARGUMENT;
    if (!d || !rate) return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: a description and room for a rate are needed");
    if (!limit || !(limit->first > 0) || !(limit->each > 0) || !(limit->most >= 0 && limit->most < 1e6) ||
        !(limit->step >= 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: limits must be above 0 milliseconds, and rates not negative");
    st = tinyi_phase_load(ctx, load, 0);
    if (!st) st = tinyi_phases_check(ctx, d);
    if (st) return st;
    if (d->mode != TLLM_PHASES_ANSWERS) devices += tinyi_phase_devices(&d->prompts);
    if (d->mode == TLLM_PHASES_APART || d->mode == TLLM_PHASES_ANSWERS) devices += tinyi_phase_devices(&d->answers);
    high = limit->most > 0 ? limit->most : 64;
    step = limit->step > 0 ? limit->step : 0.25;
    unit = *load;
    unit.rate = 1;
    base = (tllm_phases_request *)tinyi_alloc(ctx, 2 * (size_t)load->n, sizeof *base);
    if (!base) return TINY_E_MEMORY;
    request = base + load->n;
    st = tllm_phases_draw(ctx, &unit, base);
    /* the same requests at every rate, closer together */
    while (!st && high - low > step) {
        const double middle = 0.5 * (low + high);
        for (i = 0; i < load->n; i++) {
            request[i] = base[i];
            request[i].at = base[i].at / (middle * devices);
        }
        st = tllm_phases_simulate(ctx, d, request, (size_t)load->n, NULL, &report);
        if (st) break;
        if ((d->mode == TLLM_PHASES_ANSWERS || report.first_90 < limit->first) &&
            (d->mode == TLLM_PHASES_PROMPTS || report.each_90 < limit->each))
            low = middle;
        else high = middle;
    }
    tiny_free(ctx, base);
    if (!st) *rate = low;
    return st;
}

/* memory that weights leave to keys and values, in tokens; 0: the weights do not fit, or nothing would be left */
static double tinyi_phase_room(const tllm_phases *d, const tllm_phases_cluster *c, int devices)
{
    const double left = c->memory - c->weights / devices;
    if (left <= 0) return 0;
    return d->token_bytes > 0 ? floor(left * devices / d->token_bytes) : (double)INFINITY;
}
static int tinyi_phase_fits(const tllm_phases *d, const tllm_phases_cluster *c, int tp, int pp)
{
    return c->heads % tp == 0 && c->layers % pp == 0 && pp <= TLLM_PHASES_STAGES && tinyi_phases_time(d, tp) != NULL;
}
/* the goodput of one instance; 0 where a request is too long for its cells */
static tiny_status tinyi_phase_try(tiny_ctx *ctx, tllm_phases *d, const tllm_phases_cluster *c,
                                   const tllm_phases_load *load, const tllm_phases_limit *limit,
                                   tllm_phases_placement *out, double *rate)
{
    const double p = tinyi_phase_room(d, c, d->prompts.tp * d->prompts.pp),
                 a = tinyi_phase_room(d, c, d->answers.tp * d->answers.pp);
    tiny_status st;
    *rate = 0;
    if ((d->mode != TLLM_PHASES_ANSWERS && p <= 0) ||
        ((d->mode == TLLM_PHASES_APART || d->mode == TLLM_PHASES_ANSWERS) && a <= 0)) {
        out->too_large++;
        return TINY_OK;
    }
    d->prompt_cells = p < (double)INFINITY ? p : 0;
    d->answer_cells = a < (double)INFINITY ? a : 0;
    out->tried++;
    st = tllm_phases_goodput(ctx, d, load, limit, rate);
    return st == TINY_E_WORKSPACE ? TINY_OK : st;
}
static int tinyi_phase_better(double rate, int devices, double than, int than_devices)
{
    return rate > than || (rate == than && rate > 0 && devices < than_devices);
}

tiny_status tllm_phases_search(tiny_ctx *ctx, const tllm_phases *d, const tllm_phases_cluster *c,
                               const tllm_phases_load *load, const tllm_phases_limit *limit, double rate,
                               tllm_phases_placement *out)
{
    tllm_phases t;
    tllm_phases_group none = { 1, 1, 1 };
    double got;
    int tp, pp, tp2, pp2, across, best[3] = { 0, 0, 0 };
    tiny_status st;
    if (out) memset(out, 0, sizeof *out);
    if (!ctx) return TINY_E_ARGUMENT;
    if (!d || !c || !limit || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: a profile, a cluster, limits and room for a placement are "
                                                "needed");
    if (c->nodes < 1 || c->nodes > 4096 || c->devices < 1 || c->devices > 4096 || !(c->memory > 0) ||
        !(c->weights > 0) || c->heads < 1 || c->layers < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: nodes, devices, memory, weights, heads and layers must be "
                                                "above 0, nodes and devices at most 4096");
    if (!(rate > 0 && rate < 1e9))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: a rate of %g requests a second, expected more than 0", rate);
    st = tinyi_phases_profile(ctx, d);
    if (!st) st = tinyi_phase_load(ctx, load, 0);
    if (st) return st;
    t = *d;
    t.prompts = t.answers = none;
    for (tp = 1; tp <= c->devices && !st; tp++)
        for (pp = 1; pp <= c->nodes * c->devices / tp && !st; pp++) {
            if (!tinyi_phase_fits(d, c, tp, pp)) continue;
            t.prompts.tp = t.answers.tp = tp;
            t.prompts.pp = t.answers.pp = pp;
            t.mode = TLLM_PHASES_TOGETHER;
            st = tinyi_phase_try(ctx, &t, c, load, limit, out, &got);
            if (!st && tinyi_phase_better(got, tp * pp, out->one, best[2])) {
                out->one = got;
                out->together = t.prompts;
                best[2] = tp * pp;
            }
            if (c->slow) continue;
            t.mode = TLLM_PHASES_PROMPTS;
            if (!st) st = tinyi_phase_try(ctx, &t, c, load, limit, out, &got);
            if (!st && tinyi_phase_better(got, tp * pp, out->prompts_rate, best[0])) {
                out->prompts_rate = got;
                out->prompts = t.prompts;
                best[0] = tp * pp;
            }
            t.mode = TLLM_PHASES_ANSWERS;
            if (!st) st = tinyi_phase_try(ctx, &t, c, load, limit, out, &got);
            if (!st && tinyi_phase_better(got, tp * pp, out->answers_rate, best[1])) {
                out->answers_rate = got;
                out->answers = t.answers;
                best[1] = tp * pp;
            }
        }
    /* slow links between nodes: each node has a piece of the layers, of prompts and of answers */
    t.mode = TLLM_PHASES_APART;
    for (across = 1; c->slow && across <= c->nodes && !st; across++)
        for (tp = 1; tp <= c->devices && !st; tp++)
            for (pp = 1; pp <= c->devices / tp && !st; pp++)
                for (tp2 = 1; tp2 <= c->devices - tp * pp && !st; tp2++)
                    for (pp2 = 1; pp2 <= (c->devices - tp * pp) / tp2 && !st; pp2++) {
                        const int devices = across * (tp * pp + tp2 * pp2);
                        if (!tinyi_phase_fits(d, c, tp, pp * across) || !tinyi_phase_fits(d, c, tp2, pp2 * across))
                            continue;
                        t.prompts.tp = tp;
                        t.prompts.pp = pp * across;
                        t.answers.tp = tp2;
                        t.answers.pp = pp2 * across;
                        st = tinyi_phase_try(ctx, &t, c, load, limit, out, &got);
                        if (st || !tinyi_phase_better(got, devices, out->prompts_rate, best[0])) continue;
                        out->prompts_rate = out->answers_rate = got;
                        out->prompts = t.prompts;
                        out->answers = t.answers;
                        best[0] = devices;
                    }
    if (st) return st;
    if (!out->tried)
        return tinyi_fail(ctx, TINY_E_WORKSPACE, "phases: the model fits into no placement: %d were too large for the "
                                                 "memory of their devices", out->too_large);
    if (out->prompts_rate > 0 && out->answers_rate > 0) {
        const double p = out->prompts_rate * out->prompts.tp * out->prompts.pp,
                     a = out->answers_rate * out->answers.tp * out->answers.pp;
        out->prompts.n = (int)ceil(rate / (c->slow ? out->prompts_rate * best[0] : p));
        out->answers.n = (int)ceil(rate / (c->slow ? out->prompts_rate * best[0] : a));
        out->apart = c->slow ? out->prompts_rate : 1 / (1 / out->prompts_rate + 1 / out->answers_rate);
    }
    if (out->one > 0) out->together.n = (int)ceil(rate / (out->one * best[2]));
    out->apart_wins = out->apart > out->one;
    out->devices = out->apart_wins ? tinyi_phase_devices(&out->prompts) + tinyi_phase_devices(&out->answers)
                                   : tinyi_phase_devices(&out->together);
    return TINY_OK;
}

tiny_status tllm_phases_fit(tiny_ctx *ctx, const double *x, const double *y, const double *time, size_t n,
                            double abc[3])
{
    double mean[3] = { 0, 0, 0 }, xx = 0, xy = 0, yy = 0, xt = 0, yt = 0, det;
    size_t i;
    if (!ctx) return TINY_E_ARGUMENT;
    if (!x || !y || !time || !abc || n < 3)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: three measured times or more are needed for a fit");
    for (i = 0; i < n; i++) {
        if (!(fabs(x[i]) < 1e15) || !(fabs(y[i]) < 1e15) || !(fabs(time[i]) < 1e15))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "phases: measurement %d is no finite number", (int)i);
        mean[0] += x[i] / (double)n;
        mean[1] += y[i] / (double)n;
        mean[2] += time[i] / (double)n;
    }
    for (i = 0; i < n; i++) {
        const double a = x[i] - mean[0], b = y[i] - mean[1], t = time[i] - mean[2];
        xx += a * a; xy += a * b; yy += b * b;
        xt += a * t; yt += b * t;
    }
    det = xx * yy - xy * xy;
    if (!(det > 1e-12 * xx * yy))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "phases: the measurements do not tell the two slopes apart");
    abc[1] = (xt * yy - yt * xy) / det;
    abc[2] = (yt * xx - xt * xy) / det;
    abc[0] = mean[2] - abc[1] * mean[0] - abc[2] * mean[1];
    return TINY_OK;
}

double tllm_phases_wait(tllm_phases_queue kind, double service, double rate, double faster)
{
    const double d = service, r = rate / 1e3;
    if (!(d > 0) || !(r >= 0) || (kind == TLLM_QUEUE_CUT && !(faster > 0))) return (double)NAN;
    if (kind == TLLM_QUEUE_STAGES) return r * d < 2 ? d + r * d * d / (4 * (2 - r * d)) : (double)INFINITY;
    if (kind == TLLM_QUEUE_CUT)
        return r * d < faster ? d / faster + r * d * d / (2 * faster * (faster - r * d)) : (double)INFINITY;
    if (kind != TLLM_QUEUE_ONE) return (double)NAN;
    return r * d < 1 ? d + r * d * d / (2 * (1 - r * d)) : (double)INFINITY;
}
