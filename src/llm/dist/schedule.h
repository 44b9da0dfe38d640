/* src/llm/dist/schedule.h - the order in which stages of a pipeline run micro-batches, and how long a run takes
 *
 * A model is cut into pieces, and a batch into micro-batches. Stage r of p has `chunks` pieces: piece c p + r is its
 * chunk c. F(i, s) computes piece s for micro-batch i, and B(i, s) its gradients. F(i, s) needs F(i, s - 1). B(i, s)
 * needs F(i, s) and B(i, s + 1).
 *
 *   tllm_sched s = { TLLM_SCHED_1F1B, 4, 8, 2 };            4 stages, 8 micro-batches, 2 chunks: interleaved
 *   tllm_sched_time t = { 1.0, 2.0, 0.0, 0.0 };
 *   tllm_sched_stage(ctx, &s, r, item);                     what stage r does: 2 * 8 * 2 items
 *   tllm_sched_simulate(ctx, &s, NULL, &t, NULL, live, &total);     28.5
 *
 * The pipeline (llm/dist/pipeline.h) runs the same lists. */
#ifndef TINYI_SCHEDULE_H
#define TINYI_SCHEDULE_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef enum tllm_sched_kind {
    TLLM_SCHED_GPIPE,                       /* all forward passes, then all backward passes in reverse; 1 chunk */
    /* one forward and one backward pass in turn. With chunks, micro-batches go in groups of `stages` through each chunk
     * (interleaved); micros must then be a multiple of stages */
    TLLM_SCHED_1F1B,
    TLLM_SCHED_KINDS
} tllm_sched_kind;

typedef struct tllm_sched { int kind, stages, micros, chunks; } tllm_sched;     /* chunks 0: 1 */
typedef struct tllm_sched_item { int micro, chunk, backward; } tllm_sched_item;

/* Items of a stage: 2 micros chunks. 0 if s is not valid. */
TINY_API size_t tllm_sched_items(const tllm_sched *s);
TINY_API tiny_status tllm_sched_stage(tiny_ctx *ctx, const tllm_sched *s, int stage, tllm_sched_item *item);

/* Times of a stage for one micro-batch; a chunk takes its share of them. again: recomputes the forward pass before a
 * backward pass, unless that forward pass was the last thing the stage did; it does not wait for the gradient. hop: a
 * message from one stage to another is under way. */
typedef struct tllm_sched_time { double forward, backward, again, hop; } tllm_sched_time;

/* Runs lists of items as soon as what they need is there, and checks them: TINY_E_ARGUMENT for an item that is missing,
 * not known or there twice, and for stages that wait for each other for ever. item: (stages, items), NULL: those of
 * tllm_sched_stage. Optional answers: at (stages, items, 2), start and end of each item; live (stages), the most chunks
 * whose forward pass is done and whose backward pass is not. */
TINY_API tiny_status tllm_sched_simulate(tiny_ctx *ctx, const tllm_sched *s, const tllm_sched_item *item,
                                         const tllm_sched_time *time, double *at, int *live, double *total);
/* Idle time over useful time: (stages - 1) / (chunks micros). */
TINY_API double tllm_sched_bubble(const tllm_sched *s);

/* Cuts n_layer layers into n_cell runs of at least one layer so that the largest sum of costs is as small as possible.
 * cost (n_layer), none negative; cell i gets layers first[i] to first[i + 1] - 1; first (n_cell + 1). */
TINY_API tiny_status tllm_sched_cut(tiny_ctx *ctx, const double *cost, int n_layer, int n_cell, int *first);

/* ---- inside: what the bodies share ---- */

TINYI_FN tiny_status tinyi_sched_valid(tiny_ctx *ctx, const tllm_sched *s);

TINYI_C_END
#endif
