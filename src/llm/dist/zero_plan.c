/* src/llm/dist/zero_plan.c - the division of a training that takes the least time in transfers and fits
 * Paper    L. Xu et al., 2025 (arXiv 2501.04266): the degrees follow the levels of the links.
 * Method   every triple of degrees of which each divides the next one, times codes or none, times second copies and
 *          first hops; costs by tllm_zero_cost_of. At most 10 degrees, so some thousand divisions. */
#include "llm/dist/zero.h"
#include "core/state_inside.h"
#include <string.h>

enum { TINYI_ZERO_DEGREES = TLLM_LEVELS + 2 };

/* 1, the groups of levels that divide the ranks, all of them: ascending; returns how many */
static int tinyi_zero_bounds(const tllm_level *level, int n_level, int ranks, int *bound)
{
    int n = 0, i;
    bound[n++] = 1;
    for (i = 0; i < n_level; i++)
        if (level[i].ranks > bound[n - 1] && level[i].ranks < ranks && ranks % level[i].ranks == 0)
            bound[n++] = level[i].ranks;
    if (ranks > 1) bound[n++] = ranks;
    return n;
}

typedef struct tinyi_zero_search {
    tllm_zero_plan *plans;
    size_t room, kept, all;
    double memory, least;
} tinyi_zero_search;

/* sorted by insertion; a plan that is no better than another one stays behind it */
static void tinyi_zero_note(tinyi_zero_search *s, const tllm_zero_plan *k)
{
    size_t i;
    if (s->least == 0.0 || k->bytes < s->least) s->least = k->bytes;
    if (k->bytes > s->memory) return;
    s->all++;
    for (i = s->kept; i > 0; i--) {
        const tllm_zero_plan *o = &s->plans[i - 1];
        if (o->cost.seconds < k->cost.seconds || (o->cost.seconds == k->cost.seconds && o->bytes <= k->bytes)) break;
        if (i < s->room) s->plans[i] = *o;
    }
    if (i < s->room) s->plans[i] = *k;
    s->kept = TINYI_MIN(s->kept + 1, s->room);
}

TINY_API tiny_status tllm_zero_plans(tiny_ctx *ctx, int ranks, double params, int batches, double memory,
                                     const tllm_level *level, int n_level, tllm_zero_plan *plans, size_t room,
                                     size_t *n)
{
    tiny_status st = tinyi_ctx_check(ctx);
    int bound[TINYI_ZERO_DEGREES], n_bound, w, g, o, second, hop, codes;
    tinyi_zero_search s;
    if (n) *n = 0;
    if (st) return st;
    if (!n || !level || n_level < 1 || n_level > TLLM_LEVELS || (room && !plans) || ranks < 1 || !(memory > 0.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: plans need 1 to %d levels, ranks, memory and room for answers",
                          TLLM_LEVELS);
    memset(&s, 0, sizeof s);
    s.plans = plans;
    s.room = room;
    s.memory = memory;
    n_bound = tinyi_zero_bounds(level, n_level, ranks, bound);
    for (o = 0; o < n_bound; o++)
        for (g = 0; g <= o; g++)
            for (w = 0; w <= g; w++)
                for (second = 0; second <= w; second++)
                    for (hop = 0; hop <= g; hop++)
                        for (codes = 0; codes < 2; codes++) {
                            tllm_zero_desc d;
                            tllm_zero_plan k;
                            if (bound[g] % bound[w] || bound[o] % bound[g] || bound[g] % bound[hop]) continue;
                            if ((second && second == w) || (hop && hop == g)) continue;     /* the same as without */
                            memset(&d, 0, sizeof d);
                            memset(&k, 0, sizeof k);
                            k.s_w = d.s_w = bound[w];
                            k.s_g = d.s_g = bound[g];
                            k.s_os = d.s_os = bound[o];
                            k.s_2 = d.s_2 = second ? bound[second] : 0;
                            k.hop = d.hop = hop ? bound[hop] : 0;
                            k.weight_bits = d.weight_bits = codes ? 8 : 16;
                            k.grad_bits = d.grad_bits = d.net_bits = codes ? 4 : 16;
                            st = tllm_zero_cost_of(ctx, &d, ranks, params, batches, level, n_level, &k.cost);
                            if (st) return st;
                            k.bytes = k.cost.weights + k.cost.gradient_sums + k.cost.states + k.cost.second;
                            tinyi_zero_note(&s, &k);
                        }
    if (!s.all)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "zero: no division of %d ranks fits; the leanest needs %.4g of %.4g "
                          "bytes a rank", ranks, s.least, memory);
    *n = s.all;
    return TINY_OK;
}
