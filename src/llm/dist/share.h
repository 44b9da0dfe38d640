/* src/llm/dist/share.h - how much of a model each rank gets: by a measured speed, by the times of a run, without a rank
 *
 *   double share[2];
 *   tllm_share_measure(ctx, comm, share);                        all ranks at the same time, the same answer on each
 *   tllm_model_cut_by(ctx, model, rank, 2, share);
 *   ... a run; ms[i]: what rank i computed for ...
 *   tllm_share_by_time(ctx, share, ms, 2, share);                for the next run: all ranks need the same time
 *
 * Shares are numbers above 0; only their ratios count. What these calls return has the sum 1. */
#ifndef TINYI_SHARE_H
#define TINYI_SHARE_H
#include "core/comm.h"
TINYI_C_BEGIN

/* Each rank times products with a matrix of 16 MB for about 100 ms, in its own memory and with the threads of ctx. The
 * share of a rank is its speed. share: (world of comm) */
TINY_API tiny_status tllm_share_measure(tiny_ctx *ctx, tiny_comm *comm, double *share);
/* next[i] is proportional to share[i] / ms[i]: the work of rank i over its time. share NULL: equal ones. next may be
 * share. A time that is not above 0 is refused. */
TINY_API tiny_status tllm_share_by_time(tiny_ctx *ctx, const double *share, const double *ms, int world, double *next);
/* left (world - 1): the shares of the ranks that are left without rank gone, in their order. left may be share. */
TINY_API tiny_status tllm_share_without(tiny_ctx *ctx, const double *share, int world, int gone, double *left);

TINYI_C_END
#endif
