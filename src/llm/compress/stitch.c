/* src/llm/compress/stitch.c - SN-Net: plans, costs, the choice of a network
 *
 * Paper    Z. Pan, J. Cai, B. Zhuang, "Stitchable Neural Networks", 2023 (arXiv 2302.06586), 3.2 and 3.3
 * Formula  a stitch (f, e) computes  back_L .. back_e (W front_f .. front_0 (x) + c)
 * Order    of the authors' program: anchors, then pairs of anchors, windows, f, e
 * Cost     the filter compares all pairs
 * Left out stitches between anchors that are not neighbours, and from a slower anchor to a faster one (the paper finds
 *          both worse). In the published code for anchors of unequal depths a stitch takes the layer that its place in
 *          the list has in another list; here it is layer f, as in the paper */
#include "llm/compress/stitch.h"
#include "core/state_inside.h"
#include <string.h>

/* ---- the plan */

typedef struct tinyi_stitch_list { tllm_stitch *out; size_t room, n; } tinyi_stitch_list;

static void tinyi_stitch_put(tinyi_stitch_list *l, int front, int back, int f, int e, int layer)
{
    tllm_stitch s;
    s.front = front;
    s.back = back;
    s.f = f;
    s.e = e;
    s.layer = layer;
    if (l->out && l->n < l->room) l->out[l->n] = s;
    l->n++;
}

TINY_API int tllm_stitch_layers(int front_depth, int back_depth)
{
    if (front_depth < 2 || back_depth < front_depth || back_depth > TLLM_STITCH_BLOCKS) return 0;
    return front_depth == back_depth ? front_depth - 1 : front_depth;
}

static void tinyi_stitch_pair(tinyi_stitch_list *l, int front, int depth_front, int depth_back)
{
    int f, e, i;
    if (depth_front == depth_back) {
        for (i = 0; i + 1 < depth_front; i++)
            for (f = i; f <= i + 1; f++)
                for (e = i; e <= i + 1; e++)            /* (i, i) was new in the first window only */
                    if (!i || f > i || e > i) tinyi_stitch_put(l, front, front + 1, f, e, i);
        return;
    }
    for (f = 0; f < depth_front; f++)
        for (e = f + 1; e < depth_back; e++)
            if (e * depth_front / depth_back == f) tinyi_stitch_put(l, front, front + 1, f, e, f);
}

TINY_API tiny_status tllm_stitch_plan(tiny_ctx *ctx, const int *depth, int n_anchor, tllm_stitch *out, size_t room,
                                      size_t *n)
{
    tinyi_stitch_list l;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (n) *n = 0;
    if (st) return st;
    if (!depth || !n || n_anchor < 1 || n_anchor > TLLM_STITCH_ANCHORS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitch: the depths of 1 to %d anchors are needed, not of %d",
                          TLLM_STITCH_ANCHORS, n_anchor);
    for (i = 0; i < n_anchor; i++) {
        if (depth[i] < 2 || depth[i] > TLLM_STITCH_BLOCKS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "stitch: anchor %d has the depth %d; 2 to %d blocks can be stitched", i, depth[i],
                              TLLM_STITCH_BLOCKS);
        if (i && depth[i] < depth[i - 1])
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "stitch: anchor %d has %d blocks, fewer than the %d of the cheaper anchor before it", i,
                              depth[i], depth[i - 1]);
    }
    memset(&l, 0, sizeof l);
    l.out = out;
    l.room = room;
    for (i = 0; i < n_anchor; i++) tinyi_stitch_put(&l, i, i, -1, 0, -1);
    for (i = 0; i + 1 < n_anchor; i++) tinyi_stitch_pair(&l, i, depth[i], depth[i + 1]);
    *n = l.n;
    return out && l.n > room ? tinyi_fail(ctx, TINY_E_ARGUMENT, "stitch: %zu networks do not fit into a list of %zu",
                                          l.n, room)
                             : TINY_OK;
}

/* ---- what a network costs */

static double tinyi_stitch_sum(const double *front, const double *back, const tllm_stitch_size *size,
                               const tllm_stitch *s, double linear)
{
    if (s->front == s->back)
        return back[TLLM_STITCH_FIRST] + (double)size[s->back].depth * back[TLLM_STITCH_BLOCK] +
               back[TLLM_STITCH_LAST] + back[TLLM_STITCH_ALONE];
    return front[TLLM_STITCH_FIRST] + (double)(s->f + 1) * front[TLLM_STITCH_BLOCK] + linear +
           (double)(size[s->back].depth - s->e) * back[TLLM_STITCH_BLOCK] + back[TLLM_STITCH_LAST];
}

TINY_API void tllm_stitch_cost(const tllm_stitch_size *size, const tllm_stitch *s, double *params, double *ops)
{
    double d1, d2, tokens;
    if (params) *params = 0.0;
    if (ops) *ops = 0.0;
    if (!size || !s || s->front < 0 || s->back < s->front || s->back >= TLLM_STITCH_ANCHORS) return;
    d1 = (double)size[s->front].width;
    d2 = (double)size[s->back].width;
    tokens = size[s->back].tokens ? (double)size[s->back].tokens : 1.0;
    if (params) *params = tinyi_stitch_sum(size[s->front].params, size[s->back].params, size, s, (d1 + 1.0) * d2);
    if (ops) *ops = tinyi_stitch_sum(size[s->front].ops, size[s->back].ops, size, s, tokens * d1 * d2);
}

/* ---- which network to run */

static tiny_status tinyi_stitch_points(tiny_ctx *ctx, const double *cost, const double *score, size_t n)
{
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!cost || !score || !n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitch: the costs and scores of at least one network are needed");
    for (i = 0; i < n; i++)
        if (cost[i] != cost[i] || score[i] != score[i])
            return tinyi_fail(ctx, TINY_E_NUMERIC, "stitch: network %zu has a cost or a score that is NaN", i);
    return TINY_OK;
}

TINY_API tiny_status tllm_stitch_pareto(tiny_ctx *ctx, const double *cost, const double *score, size_t n,
                                        unsigned char *keep, size_t *n_keep)
{
    size_t i, k, kept = 0;
    tiny_status st = tinyi_stitch_points(ctx, cost, score, n);
    if (n_keep) *n_keep = 0;
    if (st) return st;
    if (!keep) return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitch: where to put the choice is NULL");
    for (i = 0; i < n; i++) {
        keep[i] = 1;
        for (k = 0; k < n && keep[i]; k++)
            if (cost[k] <= cost[i] && score[k] >= score[i] && (cost[k] < cost[i] || score[k] > score[i] || k < i))
                keep[i] = 0;
        kept += keep[i];
    }
    if (n_keep) *n_keep = kept;
    return TINY_OK;
}

TINY_API tiny_status tllm_stitch_select(tiny_ctx *ctx, const double *cost, const double *score, size_t n, double budget,
                                        size_t *best)
{
    size_t i, at = n, cheapest = 0;
    tiny_status st = tinyi_stitch_points(ctx, cost, score, n);
    if (best) *best = 0;
    if (st) return st;
    if (!best) return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitch: where to put the choice is NULL");
    for (i = 0; i < n; i++) {
        if (cost[i] < cost[cheapest]) cheapest = i;
        if (!(cost[i] <= budget)) continue;
        if (at == n || score[i] > score[at] || (score[i] == score[at] && cost[i] < cost[at])) at = i;
    }
    if (at == n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "stitch: a budget of %g is below the cheapest network, which costs %g",
                          budget, cost[cheapest]);
    *best = at;
    return TINY_OK;
}
