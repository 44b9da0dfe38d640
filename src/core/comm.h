/* src/core/comm.h - sums over all ranks, computed while the caller does other work
 *
 *   tiny_comm_desc d = { 0 };
 *   d.net = net; d.n_most = 4096;                    the same values on each rank, except its own net
 *   tiny_comm_open(ctx, &d, &comm);
 *   tiny_allreduce_start(comm, x, n, tag, &handle);  leave x (n) alone from here on
 *   ...                                              other work
 *   tiny_allreduce_wait(comm, handle);               x holds the sum of all ranks, the same bits on each
 *
 * Every rank must start the same sums in the same order: the i-th sum of one rank is added to the i-th sum of the
 * others. Their n must agree, and so must tag, a number below 256 that the caller chooses. The order of the additions
 * depends only on the numbers of the ranks, never on the order of arrival.
 *
 * The whole group fails when a rank is gone, sends an unexpected message, or does not answer within the time-out of a
 * wait. On every rank, the current call and all later ones then return that failure and its sentence. No partial sum is
 * ever handed out.
 *
 * Only one thread at a time may call these functions. A thread of the comm moves messages while the caller computes, if
 * the library has threads (OpenMP or TINY_PTHREAD). Otherwise messages move during the calls. The sums are the same. */
#ifndef TINYI_COMM_H
#define TINYI_COMM_H
#include "core/net.h"
TINYI_C_BEGIN

#define TINY_COMM_FLIGHTS 8                 /* the most sums that may be started and not yet waited for */

typedef enum tiny_comm_way {
    TINY_COMM_AUTO,                         /* 2 ranks: direct; more: doubling up to n_short numbers, else the ring */
    /* each rank sends its n numbers to the p - 1 others: 1 latency, (p - 1) n numbers sent */
    TINY_COMM_DIRECT,
    /* partners at distances 1, 2, 4 ...: log2 p latencies, n log2 p numbers */
    TINY_COMM_DOUBLING,
    TINY_COMM_RING,                         /* 2 (p - 1) latencies, 2 (p - 1) / p n numbers */
    /* rank 0 adds and sends the sum back: 2 latencies, 2 (p - 1) n numbers through its port; needs only a star */
    TINY_COMM_STAR,
    TINY_COMM_TREE,                         /* to rank 0 and back over a binomial tree: 2 log2 p latencies */
    TINY_COMM_HALVING,                      /* halving, then doubling: 2 log2 p latencies, 2 (p - 1) / p n numbers */
    TINY_COMM_WAYS
} tiny_comm_way;

typedef struct tiny_comm tiny_comm;
typedef struct tiny_comm_desc {             /* all zero but net: the sensible default */
    /* transport of this rank. The caller owns the struct; tiny_comm_close and a failure call its close */
    tiny_net *net;
    size_t n_most;                          /* length of the longest sum; 0: 65536 */
    int way;                                /* tiny_comm_way */
    size_t n_short;                         /* 0: 8192 */
    /* of a wait; 0: 10 s. In a star the ranks after 0 wait twice as long: rank 0 then finds the one that is late. It
     * returns TINY_E_TIMEOUT, the others TINY_E_PEER, and net->gone is that rank on all of them */
    uint64_t timeout_ns;
    int no_thread;                          /* nonzero: messages move only during the calls */
    int finite;                             /* nonzero: a received number that is not finite ends the group */
    /* A wait that has taken this long counts as slow, once, and calls slow, if it is not NULL, with the rank that it
     * waits for. slow may not call tiny_comm or tiny_allreduce. 0: never */
    uint64_t soft_ns;
    void (*slow)(void *user, int rank, uint64_t waited_ns);
    void *user;
} tiny_comm_desc;

TINY_API tiny_status tiny_comm_open(tiny_ctx *ctx, const tiny_comm_desc *desc, tiny_comm **out);
/* Drops unfinished sums. Takes NULL. Call it before you close its context. */
TINY_API void tiny_comm_close(tiny_comm *comm);
TINY_API int tiny_comm_rank(const tiny_comm *comm);         /* 0 for NULL */
TINY_API int tiny_comm_world(const tiny_comm *comm);        /* number of ranks; 1 for NULL */
TINY_API size_t tiny_comm_most(const tiny_comm *comm);      /* length of the longest sum */
TINY_API const tiny_net *tiny_comm_net(const tiny_comm *comm);      /* read its counts when no sum is in flight */

TINY_API tiny_status tiny_allreduce_start(tiny_comm *comm, float *x, size_t n, unsigned tag, uint64_t *handle);
TINY_API tiny_status tiny_allreduce_wait(tiny_comm *comm, uint64_t handle);     /* in any order, each once */
TINY_API tiny_status tiny_allreduce(tiny_comm *comm, float *x, size_t n, unsigned tag);     /* start and wait */
/* Fails on every rank unless value is the same on all of them. The sentence calls it `what`, e.g. "model". */
TINY_API tiny_status tiny_comm_agree(tiny_comm *comm, const char *what, uint64_t value);
/* Ends the group because this rank cannot go on. The caller's arrays are not touched after it, and the other ranks are
 * notified. Takes NULL. */
TINY_API void tiny_comm_abort(tiny_comm *comm);

/* Nanoseconds of real time that this rank has spent in waits. */
TINY_API uint64_t tiny_comm_waited(const tiny_comm *comm);
/* Waits for that rank that took longer than soft_ns; in a star, the others wait for rank 0. 0 for an unknown rank. */
TINY_API uint64_t tiny_comm_slow(const tiny_comm *comm, int rank);
/* For a virtual clock: adds ns of computing to the clock of this rank, and reads that clock (0 for a real one). */
TINY_API void tiny_comm_spend(tiny_comm *comm, uint64_t ns);
TINY_API uint64_t tiny_comm_clock(const tiny_comm *comm);

TINYI_C_END
#endif
