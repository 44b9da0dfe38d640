/* src/core/collective.h - what all ranks do together: broadcast, sums, gather, all-to-all, barrier, and their costs
 *
 *   tiny_coll c = { 0 };
 *   c.net = net; c.work = room; c.n_work = sizeof room;         the same values on each rank, except its own net
 *   tiny_coll_broadcast(ctx, &c, x, n, 0);                       x (n) of rank 0 is everywhere
 *   tiny_coll_allreduce(ctx, &c, TINY_COMM_RING, x, n);          x holds the sum, the same bits on each rank
 *
 * All ranks make the same calls in the same order. A call ends when this rank's part is done, or at the deadline. It
 * never allocates: tiny_coll_work reports the workspace of every call.
 *
 * A call that fails, except with TINY_E_ARGUMENT, TINY_E_OVERFLOW or TINY_E_WORKSPACE, ends the group: every later call
 * of every rank fails too, and no rank gets a partial result from one that is gone. What x then holds is undefined.
 * For sums while the caller computes there is core/comm.h. Both may be used on one net, one after the other. */
#ifndef TINYI_COLLECTIVE_H
#define TINYI_COLLECTIVE_H
#include "core/comm.h"
TINYI_C_BEGIN

typedef enum tiny_coll_type { TINY_COLL_F32, TINY_COLL_I64, TINY_COLL_U8, TINY_COLL_TYPES } tiny_coll_type;
typedef enum tiny_coll_op {                 /* f32: SUM, MAX; i64: SUM (modulo 2^64); u8: OR */
    TINY_COLL_SUM,
    TINY_COLL_MAX,
    TINY_COLL_OR,
    TINY_COLL_OPS
} tiny_coll_op;

typedef struct tiny_coll {                  /* all zero but net: the sensible default */
    tiny_net *net;
    int type, op;
    void *work;                             /* any alignment */
    size_t n_work;                          /* bytes */
    uint64_t until;                         /* the deadline (tiny_now_ns); 0: ten seconds after the call */
    unsigned tag;                           /* below 256; the same on all ranks */
    uint64_t clock;                         /* virtual clock of this rank: read and advanced */
    double add_ns;                          /* virtual clock: nanoseconds for each byte that is added */
} tiny_coll;

/* Lists of n elements. Ranks that give different n get TINY_E_PROTOCOL, at the latest in their next call. */
TINY_API tiny_status tiny_coll_broadcast(tiny_ctx *ctx, tiny_coll *c, void *x, size_t n, int root);
/* The sum is in x of the root; x of the others is overwritten. */
TINY_API tiny_status tiny_coll_reduce(tiny_ctx *ctx, tiny_coll *c, void *x, size_t n, int root);
TINY_API tiny_status tiny_coll_allreduce(tiny_ctx *ctx, tiny_coll *c, int way, void *x, size_t n);  /* tiny_comm_way */
/* Of the sum, elements *at to *at + *size - 1 are right in x; each rank gets another part. */
TINY_API tiny_status tiny_coll_reduce_scatter(tiny_ctx *ctx, tiny_coll *c, void *x, size_t n, size_t *at, size_t *size);
/* all: (world, n), in the order of ranks; only the root's is used. x: (n) */
TINY_API tiny_status tiny_coll_gather(tiny_ctx *ctx, tiny_coll *c, const void *x, size_t n, void *all, int root);
TINY_API tiny_status tiny_coll_scatter(tiny_ctx *ctx, tiny_coll *c, const void *all, size_t n, void *x, int root);
/* all: (world, n); each rank gives block `rank` in its place. RING, or few: log2 p messages (Bruck) */
typedef enum tiny_coll_form { TINY_COLL_RING, TINY_COLL_BRUCK } tiny_coll_form;
TINY_API tiny_status tiny_coll_allgather(tiny_ctx *ctx, tiny_coll *c, int form, void *all, size_t n);
/* from, to: (world, n), block r for rank r, and from it. RING: pairwise. They may not overlap. */
TINY_API tiny_status tiny_coll_alltoall(tiny_ctx *ctx, tiny_coll *c, int form, const void *from, void *to, size_t n);
/* Blocks of any sizes, one after the other: n_from (world) is given, n_to (world) is the answer. room: elements of to.
 * TINY_E_WORKSPACE: they do not fit; the group goes on. */
TINY_API tiny_status tiny_coll_alltoallv(tiny_ctx *ctx, tiny_coll *c, const void *from, const uint64_t *n_from,
                                         void *to, uint64_t *n_to, size_t room);
/* The same where both lengths are known on both sides: one message to each other rank. from_at (world), in elements:
 * where each block begins, and blocks may overlap; NULL: one after the other. */
TINY_API tiny_status tiny_coll_exchange(tiny_ctx *ctx, tiny_coll *c, const void *from, const uint64_t *from_at,
                                        const uint64_t *n_from, void *to, const uint64_t *n_to);
TINY_API tiny_status tiny_coll_barrier(tiny_ctx *ctx, tiny_coll *c);
/* the largest workspace that a call with n elements of n_bytes may need; SIZE_MAX: more than can be addressed */
TINY_API size_t tiny_coll_work(int world, size_t n, size_t n_bytes);

/* What calls cost: a message of n bytes takes latency + n * byte seconds, a byte is added in add seconds. The star is
 * a little faster than its row: it adds while the next message arrives. */
typedef struct tiny_coll_line { double latency, byte, add; } tiny_coll_line;
typedef enum tiny_coll_what {
    TINY_COST_MESSAGE,
    TINY_COST_BROADCAST,
    TINY_COST_REDUCE,
    TINY_COST_REDUCE_SCATTER,               /* ring; the same for its all-gather, without the sums */
    TINY_COST_ALLGATHER,
    TINY_COST_ALLTOALL,                     /* n: bytes of a rank in total */
    TINY_COST_ALLTOALL_BRUCK,
    TINY_COST_BARRIER,
    TINY_COST_ALLREDUCE                     /* + a tiny_comm_way but AUTO */
} tiny_coll_what;
TINY_API double tiny_coll_cost(int what, int world, double n_bytes, const tiny_coll_line *line);    /* seconds */

/* Measures the line between rank 0 and each other rank and takes the worst: 20 round trips for each of 5 sizes. Then it
 * times every way of a sum at 4 sizes, and the times of rank 0 choose; on a virtual clock the table of costs does.
 * All ranks get the same answer. work: 1 MiB. */
#define TINY_COLL_SIZES 12                  /* sums of up to 1 KiB, 2 KiB, ... 1 MiB, and longer ones */
typedef struct tiny_coll_choice { tiny_coll_line line; unsigned char way[TINY_COLL_SIZES]; } tiny_coll_choice;
#define TINY_COLL_PROBE_WORK ((size_t)1 << 20)
TINY_API tiny_status tiny_coll_probe(tiny_ctx *ctx, tiny_coll *c, tiny_coll_choice *choice);
TINY_API int tiny_coll_way(const tiny_coll_choice *choice, size_t n_bytes);
/* the choice for a known line */
TINY_API void tiny_coll_choose(int world, int star, const tiny_coll_line *line, tiny_coll_choice *choice);

TINYI_C_END
#endif
