/* src/llm/dist/mega_plan.c - what a split of a transformer costs, and the best one
 * Paper    D. Narayanan et al., 2021 (arXiv 2104.04473), sections 3 and 5.1.
 * Formula  parameters   P = 12 l h^2 (1 + 13 / (12 h) + (V + S) / (12 l h))
 *          operations   F = 96 B S l h^2 (1 + S / (6 h) + V / (16 l h)) with recomputation, else
 *                       72 B S l h^2 (1 + S / (6 h) + V / (12 l h)): the head is never computed again
 *          days         8 T P / (n X) seconds
 *          checkpoints  least c A_in + (l / c) A_mid: c = sqrt(l A_mid / A_in)
 *          step         (B' / b + (p - 1) / v) (f + b) for B' = B / d sequences of a data rank, b of a micro-batch
 * Planner  f + b: the operations of a micro-batch on a stage over its rate. Each layer adds 6 sums of b S h numbers
 *          over the tensor ranks (two each in forward, recomputed forward and backward pass), each border two messages
 *          of b S h numbers, the gradients one sum of P / (t p) numbers over the data ranks. Held: parameters with
 *          gradient and optimiser, the inputs of live micro-batches, the inside of one piece: (10 + 24 / t) b S h + 2 b
 *          S S a / t numbers a layer, a the heads. */
#include "llm/dist/megatron.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include <string.h>

TINY_API double tllm_mega_count(const tllm_mega_model *m)
{
    if (!m || !(m->layers > 0.0 && m->width > 0.0)) return 0.0;
    return 12.0 * m->layers * m->width * m->width *
           (1.0 + 13.0 / (12.0 * m->width) + (m->vocab + m->context) / (12.0 * m->layers * m->width));
}

TINY_API double tllm_mega_flops(const tllm_mega_model *m, double batch, int recompute)
{
    if (!m || !(m->layers > 0.0 && m->width > 0.0)) return 0.0;
    return (recompute ? 96.0 : 72.0) * batch * m->context * m->layers * m->width * m->width *
           (1.0 + m->context / (6.0 * m->width) + m->vocab / ((recompute ? 16.0 : 12.0) * m->layers * m->width));
}

TINY_API double tllm_mega_days(double tokens, double params, double workers, double flops)
{
    return workers > 0.0 && flops > 0.0 ? 8.0 * tokens * params / (workers * flops) / 86400.0 : 0.0;
}

TINY_API double tllm_mega_checkpoints(double layers, double input_bytes, double inner_bytes)
{
    if (!(input_bytes > 0.0 && layers > 0.0 && inner_bytes >= 0.0)) return 0.0;
    return tinyi_sqrt(layers * inner_bytes / input_bytes);
}

TINY_API double tllm_mega_time(double batch, double data, double micro, double stages, double chunks, double both)
{
    return data > 0.0 && micro > 0.0 && chunks > 0.0 ? (batch / data / micro + (stages - 1.0) / chunks) * both : 0.0;
}

static void tinyi_mega_cost(const tllm_mega_model *m, const tllm_mega_machine *w, int batch, tllm_mega_plan *k)
{
    const double micros = (double)batch / k->d / k->micro, number = w->number_bytes > 0.0 ? w->number_bytes : 4.0,
                 bsh = (double)k->micro * m->context * m->width * number, own = tllm_mega_count(m) / k->t / k->p,
                 both = tllm_mega_flops(m, k->micro, 1) / k->p / k->t / w->flops, layers = m->layers / k->p,
                 live = k->v > 1 ? TINYI_MIN(micros * k->v, 2.0 * (k->p - 1) + (k->v - 1.0) * k->p + 1.0)
                                 : TINYI_MIN(micros, (double)k->p);
    double sums = 0.0, borders = 0.0, inner;
    if (k->t > 1)
        sums = 6.0 * layers * tiny_coll_cost(TINY_COST_ALLREDUCE + (int)TINY_COMM_RING, k->t, bsh, &w->near_line);
    if (k->p > 1) borders = 2.0 * k->v * tiny_coll_cost(TINY_COST_MESSAGE, 2, bsh / k->t, &w->far_line);
    k->gradients =
        k->d > 1 ? tiny_coll_cost(TINY_COST_ALLREDUCE + (int)TINY_COMM_RING, k->d, own * 4.0, &w->far_line) : 0.0;
    k->seconds = tllm_mega_time(batch, k->d, k->micro, k->p, k->v, both + sums + borders) + k->gradients;
    k->bubble = (k->p - 1.0) / k->v * (both + sums + borders);
    k->sums = micros * sums;
    k->borders = micros * borders;
    inner = (10.0 + 24.0 / k->t) * bsh + 2.0 * k->micro * m->context * m->context * m->heads / k->t * number;
    k->bytes = own * (w->param_bytes > 0.0 ? w->param_bytes : 16.0) + live * bsh + layers / k->v * inner;
}

#define TINYI_MEGA_MOST 65536               /* layers and sequences that the search goes through */
static int tinyi_mega_whole(double x) { return x >= 1.0 && x <= 1e9 && x == (double)(int64_t)x; }

TINY_API tiny_status tllm_mega_plans(tiny_ctx *ctx, const tllm_mega_model *m, const tllm_mega_machine *w, int batch,
                                     tllm_mega_plan *plans, size_t room, size_t *n)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_mega_plan k;
    size_t kept = 0, all = 0;
    double least = 0.0;
    int layers, heads;
    if (n) *n = 0;
    if (st) return st;
    if (!m || !w || !n || (room && !plans))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "plans: a model, a machine and a place for the answers are needed");
    if (!tinyi_mega_whole(m->layers) || !tinyi_mega_whole(m->width) || !tinyi_mega_whole(m->heads) ||
        !tinyi_mega_whole(m->vocab) || !tinyi_mega_whole(m->context) || m->layers > TINYI_MEGA_MOST || batch < 1 ||
        batch > TINYI_MEGA_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "plans: layers, width, heads, vocabulary, context and batch count from "
                          "1; layers and batch go up to %d", TINYI_MEGA_MOST);
    if (w->workers < 1 || w->workers > 1 << 20 || w->fast < 1 || !(w->flops > 0.0) || !(w->memory > 0.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "plans: %d workers, %d on a fast network, %g operations a second, %g bytes",
                          w->workers, w->fast, w->flops, w->memory);
    layers = (int)m->layers;
    heads = (int)m->heads;
    memset(&k, 0, sizeof k);
    for (k.t = 1; k.t <= TINYI_MIN(w->fast, w->workers) && k.t <= heads; k.t++) {
        if (heads % k.t || w->workers % k.t) continue;
        for (k.p = 1; k.p <= layers && k.p <= w->workers / k.t; k.p++) {
            if (layers % k.p || w->workers / k.t % k.p) continue;
            k.d = w->workers / k.t / k.p;
            if (batch % k.d) continue;
            for (k.v = 1; k.v <= layers / k.p && (k.v == 1 || k.p > 1); k.v++) {
                if (layers / k.p % k.v) continue;
                for (k.micro = 1; k.micro <= batch / k.d; k.micro++) {
                    size_t i;
                    if (batch / k.d % k.micro || (k.v > 1 && batch / k.d / k.micro % k.p)) continue;
                    tinyi_mega_cost(m, w, batch, &k);
                    if (least == 0.0 || k.bytes < least) least = k.bytes;
                    if (k.bytes > w->memory) continue;
                    all++;
                    /* sorted by insertion; of equal ones the first stays first */
                    for (i = kept; i > 0 && plans[i - 1].seconds > k.seconds; i--)
                        if (i < room) plans[i] = plans[i - 1];
                    if (i < room) plans[i] = k;
                    kept = TINYI_MIN(kept + 1, room);
                }
            }
        }
    }
    if (!all && least > 0.0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "plans: no split fits; the leanest needs %.4g of %.4g bytes a worker",
                          least, w->memory);
    if (!all)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "plans: no split of %d workers divides heads, layers and batch",
                          w->workers);
    *n = all;
    return TINY_OK;
}
