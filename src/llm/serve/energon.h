/* src/llm/serve/energon.h - a pipeline of ranks that never waits to send: a controller, S stages of T ranks each
 *
 *   tllm_energon_desc d = { 0 };                          the same on all ranks, but net, run and user
 *   d.net = net; d.stages = 2; d.tensor = 1;              1 + S T ranks; rank 0 is the controller
 *   d.row = row;                                          (S + 1): bytes of a row before and after each stage
 *   d.run = run; d.user = stage;                          computes this rank's stage
 *   tllm_energon_open(ctx, &d, &e);                       waits for all ranks
 *   rank 0                                                other ranks
 *   tllm_energon_submit(e, 7, tokens, n);                 tllm_energon_follow(e);
 *   tllm_energon_wait(e, 7, result);                        computes until rank 0 stops
 *   tllm_energon_stop(e);                                 returns TINY_OK here
 *   tllm_energon_close(e);                                on all; then close the net
 *
 * submit returns at once. A thread of each rank moves messages while another computes: it puts what arrives into a
 * queue of `depth` batches, and takes finished batches from another one. So a stage begins its next batch while the
 * last one travels. Batches have numbers, and each rank computes them in the order of these numbers.
 *
 * A batch travels without padding: the lengths of its texts, then the rows that hold a token. After the last stage
 * there is one row for each text.
 *
 * Without threads in the library (OpenMP or TINY_PTHREAD) messages move only between computations. A failure of any
 * rank, or an answer that does not come in time, fails all calls on all ranks. */
#ifndef TINYI_ENERGON_H
#define TINYI_ENERGON_H
#include "core/net.h"
#include "llm/serve/energon_rows.h"
TINYI_C_BEGIN

typedef struct tllm_energon_batch {
    uint64_t number;                        /* 0, 1, 2 ... */
    const int32_t *length;                  /* (n) of each text */
    tiny_idx n, most, valid;                /* texts, the longest, rows */
    double ns;                              /* virtual clock: set by run, the time that it takes */
} tllm_energon_batch;
/* in: (valid) rows of row[s] bytes; stage 0 gets tokens (int32_t). out: (valid) rows of row[s + 1] bytes, of the last
 * stage (n) rows. A failure ends the group, with the sentence of the context. Called by the thread that follows. */
typedef tiny_status (*tllm_energon_run)(void *user, tllm_energon_batch *batch, const void *in, void *out);

typedef struct tllm_energon_desc {          /* all zero but net, row and run: the sensible default */
    tiny_net *net;                          /* stays the caller's; until the close only the pipeline uses it */
    int stages, tensor;                     /* S and T; 0: 1 */
    const size_t *row;                      /* (S + 1), copied. row[0] is 4 */
    tllm_energon_run run;                   /* not of rank 0 */
    void *user;
    uint64_t print;                         /* of the model: ranks with another one are refused */
    tiny_idx texts, tokens;                 /* of a batch, at most; 0: 8, 1024 */
    tiny_idx queue;                         /* requests that rank 0 holds, results included; 0: 64 */
    tiny_idx depth;                         /* batches that wait in front of a stage, and behind it; 0: 1 */
    /* nonzero: a rank that sends waits until the next stage takes the batch (to compare with) */
    int blocking;
    uint64_t timeout_ns;                    /* of rank 0 for the next result; 0: 10 s */
    /* NULL: the oldest requests form the next batch. Else those of tllm_rows_next by this cost, as soon as there are
     * enough for a batch or one has waited for wait_ns. Called by a thread of the pipeline */
    tllm_rows_cost cost;
    void *cost_user;
    uint64_t wait_ns;
} tllm_energon_desc;

typedef struct tllm_energon_counts {
    uint64_t batches, texts, rows;          /* computed by this rank; rank 0: complete results */
    uint64_t bytes;                         /* sent between stages or to rank 0 */
    uint64_t parked;                        /* results that came before an earlier one was complete */
    uint64_t idle_ns, send_ns;              /* time without a batch to compute; time until it could be handed on */
    int has_thread;
} tllm_energon_counts;

typedef struct tllm_energon tllm_energon;
TINY_API tiny_status tllm_energon_open(tiny_ctx *ctx, const tllm_energon_desc *desc, tllm_energon **out);
TINY_API void tllm_energon_close(tllm_energon *e);          /* takes NULL */
/* The T ranks of this rank's stage as a net, for sums inside run. NULL: there is one rank, or this is rank 0. */
TINY_API tiny_net *tllm_energon_group(tllm_energon *e);
/* Rank 0. TINY_E_WORKSPACE: the queue is full, wait for a result first. A uid is free again after its result was
 * taken. */
TINY_API tiny_status tllm_energon_submit(tllm_energon *e, uint64_t uid, const int32_t *token, tiny_idx n);
/* Batches are formed only between release and the next hold: so that requests that were submitted together form the
 * same batches in every run. Opens released. */
TINY_API tiny_status tllm_energon_hold(tllm_energon *e, int hold);
/* Copies row[S] bytes. wait waits for it; poll sets *ready to 0 or 1 instead. */
TINY_API tiny_status tllm_energon_wait(tllm_energon *e, uint64_t uid, void *result);
TINY_API tiny_status tllm_energon_poll(tllm_energon *e, uint64_t uid, void *result, int *ready);
/* Rank 0: no more requests. Those that are not complete are dropped. */
TINY_API tiny_status tllm_energon_stop(tllm_energon *e);
/* Other ranks: computes until rank 0 stops. */
TINY_API tiny_status tllm_energon_follow(tllm_energon *e);
TINY_API tllm_energon_counts tllm_energon_count(tllm_energon *e);       /* all zero for NULL */
TINY_API uint64_t tllm_energon_clock(tllm_energon *e);      /* virtual clock of this rank; rank 0: of its last result */

/* When the last of n batches leaves the last stage. take (n, stages): the time of each batch in each stage; comm: of a
 * message. blocking 0: start[i][s] = max(end[i][s-1] + comm, end[i-1][s]). 1: stage s begins its next batch when stage
 * s + 1 was free and has taken the last one, comm later. 2: as 1, but the message travels while stage s + 1 computes,
 * and its answer takes comm too (what `blocking` above does). Queues are not limited. NaN for bad arguments. */
TINY_API double tllm_energon_makespan(const double *take, tiny_idx n, int stages, double comm, int blocking);

TINYI_C_END
#endif
