/* src/llm/dist/noloco.h - training on several machines without a sum over all of them: pairs meet, everybody mixes
 *
 *   tllm_noloco_desc d = { 0 };
 *   d.net = net; d.theta = numbers; d.n = n;                same n everywhere; best the same numbers at the start
 *   tllm_noloco_open(ctx, &d, &o);
 *   for (;;) {
 *       for (k = 0; k < 50; k++) ... a step of the own optimiser changes numbers ...
 *       tllm_noloco_outer(o, &report);                      meets one other replica; numbers are then the slow weights
 *   }
 *   tllm_noloco_leave(o, 1);
 *   tllm_noloco_close(o);
 *
 * A replica has slow weights phi. Its own optimiser starts from them, and after some steps the change theta - phi goes
 * into a momentum. At an outer step it exchanges phi and the change with one replica, another one each time, drawn from
 * the seed and the number of the step. Both move by the mean of the two changes, and a part gamma of their distance
 * pulls them together. No message goes to all, so one slow link or machine holds up one other replica at most, and that
 * one only until the deadline. The states of the own optimisers stay where they are.
 *
 * With a deadline, two replicas first tell each other that they are ready; who is not there in time is left alone: both
 * then update without each other. A replica that was late skips the steps whose partners gave up. With
 * wait_ns = UINT64_MAX there is no deadline and no such message: two messages in each direction, phi and the change.
 * phi then leaves at the end of the step before and travels while the replica computes.
 *
 * Numbers of another replica are believed if they are finite and near the own ones: |phi_j - phi_i| and
 * |change_j - change_i|, Euclidean norms, are at most `apart` times |phi_i| + |change_i|. Others are refused, and the
 * step is made without that replica. If they are finite and too far, tllm_noloco_outer returns TINY_E_PROTOCOL after
 * the step, and the sentence names the replica and both numbers; a caller that goes on calls it again. Within the bound
 * one replica can still move phi by (beta + gamma) apart (|phi_i| + |change_i|) / group in a step, so give replicas
 * that began alike a bound far below the default. A replica that joins has nothing to compare with: it takes any finite
 * phi.
 *
 * The replicas stay a little apart. Their spread falls with the rate of the inner steps: let that fall to zero at the
 * end, then any replica, or their mean, is the result. A star is not enough: every rank must reach every other one. */
#ifndef TINYI_NOLOCO_H
#define TINYI_NOLOCO_H
#include "core/net.h"
#include "core/rng.h"
TINYI_C_BEGIN

typedef struct tllm_noloco tllm_noloco;
typedef struct tllm_noloco_desc {           /* zero: the value in brackets */
    tiny_net *net;                          /* 2 ranks or more; stays the caller's */
    float *theta;                           /* (n), the caller's */
    size_t n;
    int group;                              /* replicas that meet [2]; a divisor of the ranks. All: DiLoCo */
    double alpha, beta, gamma;              /* [0.5, 0.7, beta]; alpha and gamma below 0: 0 */
    uint64_t seed;                          /* of the pairs; the same on all replicas */
    uint64_t wait_ns;                       /* for a replica that is not ready [10 s]; UINT64_MAX: for ever */
    int join;                               /* 1: the group runs already; phi comes from one of its replicas */
    double apart;                           /* how far numbers of another replica may be [100]; below 0: anywhere */
} tllm_noloco_desc;

typedef struct tllm_noloco_report {
    uint64_t step;                          /* the outer step that was made, counted from 0 */
    int met;                                /* replicas that took part, with this one; 1: alone */
    int with;                               /* the last of them; -1: none */
    int late, refused;                      /* were not ready in time; sent numbers that are not finite, or too far */
    int liar;                               /* 1 + the first replica whose numbers were too far; 0: none */
    uint64_t waited_ns;                     /* real time in this call */
    uint64_t clock;                         /* virtual clock */
} tllm_noloco_report;

/* Copies theta as phi. */
TINY_API tiny_status tllm_noloco_open(tiny_ctx *ctx, const tllm_noloco_desc *desc, tllm_noloco **out);
TINY_API void tllm_noloco_close(tllm_noloco *o);            /* takes NULL */
/* report may be NULL. Fails without any message if theta is not finite: nothing has changed, and its partner goes on
 * alone. A replica that is gone or that breaks off is left alone from then on. TINY_E_PROTOCOL: a replica sent numbers
 * that are too far; the step was made without it, and report is filled in. */
TINY_API tiny_status tllm_noloco_outer(tllm_noloco *o, tllm_noloco_report *report);
/* Answers replicas that join, and moves messages on. Call it between inner steps where they take long. */
TINY_API tiny_status tllm_noloco_poll(tllm_noloco *o);
/* Before a replica ends: the others then know that it will not come again. Over TCP a connection that breaks without
 * this ends the group for its other end (core/tcp.h). Later outer steps are made alone. all: waits until all others
 * have left too; the net is then free for other calls. Without a deadline, and over TCP, all replicas should give all:
 * a connection that is closed while the other end still sends on it is a broken one. */
TINY_API tiny_status tllm_noloco_leave(tllm_noloco *o, int all);
TINY_API const float *tllm_noloco_slow(const tllm_noloco *o);       /* phi (n) */
TINY_API const float *tllm_noloco_momentum(const tllm_noloco *o);   /* (n) */
TINY_API void tllm_noloco_spend(tllm_noloco *o, uint64_t ns);       /* adds computing to the virtual clock */

/* Who meets at outer step `step`: order (world) is a permutation; elements j, j + world / group, ... meet. With pairs
 * and an odd world the last element meets nobody. */
TINY_API void tllm_noloco_order(uint64_t seed, uint64_t step, int world, uint32_t *order);
/* Random routes of a pipeline with several replicas of each stage: to (world) has for each replica of `stage` the
 * replica of the next stage that micro-batch `micro` of training step `step` goes to. The way back is the inverse. Send
 * the labels along; in an evaluation, stay within one replica. */
TINY_API void tllm_noloco_route(uint64_t seed, uint64_t step, uint64_t micro, int stage, int stages, int world,
                                uint32_t *to);

TINYI_C_END
#endif
