/* src/llm/dist/ladder.h - the order in which layers wait for their all-reduces
 *
 * A layer cut over ranks (tllm_model_cut) ends both of its halves, attention and network, with a sum over all ranks.
 * What waits for that sum, and when, is the route of a half:
 *
 *   standard   x += sum(y): the next half waits for it. What transformers are trained with.
 *   ladder     the sum is started, and added before the next half of the same kind: attention of layer l reads x
 *              without the network of layer l - 1, whose sum travels meanwhile, the network reads x without the
 *              attention of its own layer
 *   local      x += y, this rank's share alone: no sum, and the x of the ranks part
 *   join       x = sum(y + x / ranks): the ranks have one x again ("desync" of the paper: one half in several joins)
 *
 * A half that is not ladder waits for all that travels, attention first. Each route is another function of the weights:
 * a model must be trained or adapted for its routes, and gives other text with others. Files say it by ARCH.ladder, a
 * truth value or one for each layer.
 *
 * Models do this inside tllm_forward. For own networks, with y[0], y[1] of n numbers:
 *
 *   tllm_ladder a = { 0 };
 *   a.ctx = ctx; a.comm = comm; a.n = n; a.y[0] = ya; a.y[1] = yb;
 *   for each layer l, for half 0 and 1:
 *       tllm_ladder_enter(&a, route, half, x);         x is what this half reads; a.y[half] is free
 *       ... this rank's share of half(x) into a.y[half] ...
 *       tllm_ladder_leave(&a, route, half, l, x);
 *   tllm_ladder_end(&a, x);                            nothing travels any more */
#ifndef TINYI_LADDER_H
#define TINYI_LADDER_H
#include "core/comm.h"
TINYI_C_BEGIN

typedef enum tllm_route {
    TLLM_ROUTE_STANDARD,
    TLLM_ROUTE_LADDER,
    TLLM_ROUTE_LOCAL,
    TLLM_ROUTE_JOIN,
    TLLM_ROUTES
} tllm_route;

typedef struct tllm_ladder {
    tiny_ctx *ctx;
    tiny_comm *comm;                        /* NULL: one rank */
    tiny_idx n;                             /* numbers of x and of each y */
    float *y[2];
    /* what becomes of a sum before it is added, or NULL: y belongs to that half of that layer */
    tiny_status (*land)(void *user, tiny_idx layer, int half, float *y);
    void *user;
    /* its own */
    int flies[2];
    tiny_idx layer[2];
    uint64_t handle[2];
} tllm_ladder;

TINY_API tiny_status tllm_ladder_enter(tllm_ladder *a, int route, int half, float *x);
TINY_API tiny_status tllm_ladder_leave(tllm_ladder *a, int route, int half, tiny_idx layer, float *x);
TINY_API tiny_status tllm_ladder_end(tllm_ladder *a, float *x);

TINYI_C_END
#endif
