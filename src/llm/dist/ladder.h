/* src/llm/dist/ladder.h - when the layers of a model split over ranks wait for their all-reduces
 *
 * In a model split over ranks (tllm_model_cut), both halves of a layer, attention and feed-forward network, end with a
 * sum over all ranks. Below, x is the residual stream and y the output of the half. The route of a half says when its
 * sum is needed:
 *
 *   standard   x += sum(y): the next half waits for it. Transformers are trained this way.
 *   ladder     the sum is started, and added before the next half of the same kind. The attention of layer l thus
 *              reads x without the network of layer l - 1, whose sum is still in flight. The network of layer l reads x
 *              without the attention of layer l.
 *   local      x += y, the share of this rank only: no sum, and the ranks have different x
 *   join       x = sum(y + x / ranks): all ranks have the same x again (the paper's "desync": local halves, and
 *              one join for several of them)
 *
 * A half on any route but ladder first waits for all sums in flight, that of the attention before that of the network.
 * Each route computes a different function: a model must be trained or adapted for its routes, and gives other text
 * with other routes. Files name the routes in the key ARCH.ladder: one bool, or one for each layer.
 *
 * Models do this inside tllm_forward. For your own networks, with y[0], y[1] of n numbers:
 *
 *   tllm_ladder a = { 0 };
 *   a.ctx = ctx; a.comm = comm; a.n = n; a.y[0] = ya; a.y[1] = yb;
 *   for each layer l, for half 0 and 1:
 *       tllm_ladder_enter(&a, route, half, x);         x is the input of this half; a.y[half] may be written
 *       ... this rank's share of half(x) into a.y[half] ...
 *       tllm_ladder_leave(&a, route, half, l, x);
 *   tllm_ladder_end(&a, x);                            no sum is in flight any more */
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
    /* NULL, or a callback that may change a sum before it is added: y is the sum of that half of that layer */
    tiny_status (*land)(void *user, tiny_idx layer, int half, float *y);
    void *user;
    /* internal */
    int flies[2];
    tiny_idx layer[2];
    uint64_t handle[2];
} tllm_ladder;

/* x (n), half 0 or 1, route a tllm_route. If a sum fails, the ranks cannot continue together. */
TINY_API tiny_status tllm_ladder_enter(tllm_ladder *a, int route, int half, float *x);
TINY_API tiny_status tllm_ladder_leave(tllm_ladder *a, int route, int half, tiny_idx layer, float *x);
TINY_API tiny_status tllm_ladder_end(tllm_ladder *a, float *x);

TINYI_C_END
#endif
