/* src/core/comm.h - sums over all ranks that are computed while the caller computes something else
 *
 *   tiny_comm_desc d = { 0 };
 *   d.net = net; d.n_most = 4096;                                       each rank: the same numbers, its own net
 *   tiny_comm_open(ctx, &d, &comm);
 *   tiny_allreduce_start(comm, x, n, tag, &handle);                     x (n) belongs to the sum from here on
 *   ...                                                                 other work
 *   tiny_allreduce_wait(comm, handle);                                  x holds the sum of all ranks, the same bits in
 *                                                                       each
 *
 * Every rank starts the same sums in the same order: the n-th of one meets the n-th of the others, and tag, a number
 * below 256 that the caller chooses, must agree (as must n). Sums are taken in an order that the ranks' numbers alone
 * decide, never in that of arrival.
 *
 * When a rank is gone, sends what is not awaited, or does not answer within the time-out of a wait, the whole group is
 * given up: this call and every later one answers that failure, with its sentence, on every rank. No partial sum is
 * ever handed out.
 *
 * One thread at a time calls these functions. A thread of the comm's own (where the library has threads at all: OpenMP
 * or TINY_PTHREAD) moves messages on while the caller computes; without it they move during the calls, and the sums are
 * the same. */
#ifndef TINYI_COMM_H
#define TINYI_COMM_H
#include "core/net.h"
TINYI_C_BEGIN

#define TINY_COMM_FLIGHTS 8                 /* sums started and not waited for, at most */

typedef enum tiny_comm_way {
    TINY_COMM_AUTO,                         /* 2 ranks: direct; more: doubling up to n_short numbers, else the ring */
    /* each rank sends its numbers to each other one: a latency, (p - 1) n numbers */
    TINY_COMM_DIRECT,
    /* partners at distances 1, 2, 4 ...: log2 p latencies, as many times n numbers */
    TINY_COMM_DOUBLING,
    TINY_COMM_RING,                         /* 2 (p - 1) latencies, 2 (p - 1) / p n numbers */
    TINY_COMM_WAYS
} tiny_comm_way;

typedef struct tiny_comm tiny_comm;
typedef struct tiny_comm_desc {             /* all zero but net: the sensible default */
    /* this rank's; stays the caller's, but is closed by tiny_comm_close and by a failure */
    tiny_net *net;
    size_t n_most;                          /* numbers of the longest sum; 0: 65536 */
    int way;                                /* tiny_comm_way */
    size_t n_short;                         /* 0: 8192 */
    uint64_t timeout_ns;                    /* of a wait; 0: 10 s */
    int no_thread;                          /* nonzero: messages move during the calls only */
} tiny_comm_desc;

TINY_API tiny_status tiny_comm_open(tiny_ctx *ctx, const tiny_comm_desc *desc, tiny_comm **out);
/* takes NULL; before its context. What is in flight is given up. */
TINY_API void tiny_comm_close(tiny_comm *comm);
TINY_API int tiny_comm_rank(const tiny_comm *comm);         /* 0 for NULL */
TINY_API int tiny_comm_world(const tiny_comm *comm);        /* 1 for NULL */
TINY_API size_t tiny_comm_most(const tiny_comm *comm);      /* numbers of the longest sum */
TINY_API const tiny_net *tiny_comm_net(const tiny_comm *comm);      /* its counts, once nothing is in flight */

TINY_API tiny_status tiny_allreduce_start(tiny_comm *comm, float *x, size_t n, unsigned tag, uint64_t *handle);
TINY_API tiny_status tiny_allreduce_wait(tiny_comm *comm, uint64_t handle);     /* in any order, each once */
TINY_API tiny_status tiny_allreduce(tiny_comm *comm, float *x, size_t n, unsigned tag);     /* start and wait */
/* A number that must be the same on all ranks: what names it, "model". Refused on every rank where it is not. */
TINY_API tiny_status tiny_comm_agree(tiny_comm *comm, const char *what, uint64_t value);
/* This rank cannot go on: nothing of the caller's is touched any more, the others are told. NULL: nothing to do. */
TINY_API void tiny_comm_abort(tiny_comm *comm);

/* Nanoseconds that this rank has spent in waits; of real time. */
TINY_API uint64_t tiny_comm_waited(const tiny_comm *comm);
/* On a virtual clock: this rank has computed for ns; what its clock says. 0 on a real one. */
TINY_API void tiny_comm_spend(tiny_comm *comm, uint64_t ns);
TINY_API uint64_t tiny_comm_clock(const tiny_comm *comm);

TINYI_C_END
#endif
