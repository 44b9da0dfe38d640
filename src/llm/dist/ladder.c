/* src/llm/dist/ladder.c - the sums that a half of a layer waits for
 * Paper    M. Zhang et al., "Ladder-Residual: Parallelism-Aware Architecture for Accelerating Large Model Inference
 *          with Communication Overlapping", ICML 2025 (arXiv 2501.06589); "local" and "join" are its desynchronised
 *          residual.
 * Formula  standard  x += R(A_l(x)); x += R(M_l(x)), R the sum over ranks
 *          ladder    a, b of layer l - 1 are in flight:  x += a; start a' = R(A_l(x)); x += b; start b' = R(M_l(x));
 *                    (a, b) = (a', b')
 *          at the end, or before another route: x += a; x += b
 * Cost     of a half, with t the time of its arithmetic and c of its sum: standard t + c. Ladder max(t, c) if sums use
 *          the line one after the other; max(t, (t + c) / 2) if two sums overlap (latency, direct way).
 * Left out nothing of the order; training a model for it is up to the trainer. */
#include "llm/dist/ladder.h"
#include "core/state_inside.h"
#include "math/ops.h"
#include <string.h>

static tiny_status tinyi_ladder_add(tllm_ladder *a, float *x, const float *y)
{
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, a->n), ty = tiny_tensor_1d((void *)(uintptr_t)y, TINY_F32, a->n);
    return tinyi_call(a->ctx, TINY_OP_ADD, &tx, &ty, NULL, &tx);
}

/* the sum of a half, that it started with handle, reaches x */
static tiny_status tinyi_ladder_land(tllm_ladder *a, int half, float *x)
{
    tiny_status st = TINY_OK;
    if (!a->flies[half]) return TINY_OK;
    a->flies[half] = 0;
    if (a->comm) st = tiny_allreduce_wait(a->comm, a->handle[half]);
    if (!st && a->land) st = a->land(a->user, a->layer[half], half, a->y[half]);
    return st ? st : tinyi_ladder_add(a, x, a->y[half]);
}

static tiny_status tinyi_ladder_start(tllm_ladder *a, int half, tiny_idx layer)
{
    a->flies[half] = 1;
    a->layer[half] = layer;
    /* tags of neighbours differ; their numbers show the order of sums */
    return a->comm ? tiny_allreduce_start(a->comm, a->y[half], (size_t)a->n, (unsigned)(2 * layer + half) & 127,
                                          &a->handle[half])
                   : TINY_OK;
}

TINY_API tiny_status tllm_ladder_enter(tllm_ladder *a, int route, int half, float *x)
{
    tiny_status st;
    if (!a) return TINY_E_ARGUMENT;
    st = tinyi_ctx_check(a->ctx);
    if (st) return st;
    if (!x || !a->y[0] || !a->y[1] || a->n < 0 || half < 0 || half > 1 || route < 0 || route >= TLLM_ROUTES)
        return tinyi_fail(
            a->ctx, TINY_E_ARGUMENT,
            "half %d of a layer on route %d: halves are 0 and 1, routes 0 to %d, and x and both y are needed", half,
            route, TLLM_ROUTES - 1);
    if (route == TLLM_ROUTE_LADDER) return tinyi_ladder_land(a, half, x);
    return tllm_ladder_end(a, x);
}

TINY_API tiny_status tllm_ladder_leave(tllm_ladder *a, int route, int half, tiny_idx layer, float *x)
{
    tiny_status st;
    tiny_idx i;
    if (!a) return TINY_E_ARGUMENT;
    if (half < 0 || half > 1 || a->flies[half])
        return tinyi_fail(a->ctx, TINY_E_ARGUMENT, "half %d of layer %td: tllm_ladder_leave without tllm_ladder_enter",
                          half, layer);
    if (route == TLLM_ROUTE_LOCAL) return tinyi_ladder_add(a, x, a->y[half]);
    if (route == TLLM_ROUTE_JOIN) {
        const float part = 1.0f / (float)tiny_comm_world(a->comm);
        for (i = 0; i < a->n; i++) a->y[half][i] += x[i] * part;
        memset(x, 0, (size_t)a->n * sizeof *x);
    }
    st = tinyi_ladder_start(a, half, layer);
    if (st || route == TLLM_ROUTE_LADDER) return st;
    return tinyi_ladder_land(a, half, x);
}

TINY_API tiny_status tllm_ladder_end(tllm_ladder *a, float *x)
{
    tiny_status st;
    if (!a) return TINY_E_ARGUMENT;
    st = tinyi_ladder_land(a, 0, x);
    return st ? st : tinyi_ladder_land(a, 1, x);
}
