/* src/core/thread.h - one region, many threads, barriers inside
 *
 * A team is the set of threads inside one parallel region. Every thread calls
 * the same function; work is handed out in small pieces by tiny_take, so that
 * a thread whose processor is shared with another program does less of it.
 *
 *   while (tiny_take(team, n_rows, 16, &r0, &r1))
 *       for (r = r0; r < r1; r++) row(r);
 *   tiny_barrier(team);              before the next loop of takes, always
 *
 * A barrier spins for a few microseconds, then sleeps.
 *
 * A function that shares all its work by tiny_take, and does by itself only
 * what stands under `if (team->i == 0)`, can run in a loose region: a thread
 * that has no processor when the region opens, because another program is on
 * it, comes in later or not at all, and nobody waits for it. It may come until
 * the second barrier is passed: then it does what stands before the first one,
 * without work from tiny_take, while others are behind it. So nothing there may
 * read what is written behind that barrier, other than in pieces that were taken.
 * Thread 0 is always there, from the start.                                  */
#ifndef TINYI_THREAD_H
#define TINYI_THREAD_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tiny_team {
    int i, n;                               /* this thread, of how many */
    void *shared;                           /* workspace of the whole team, 64-byte aligned */
    void *own;                              /* workspace of this thread, 64-byte aligned */
    const struct tiny_kernels *k;           /* of the context's target */
    tiny_target ran_on;                     /* where the last kernel came from */
    struct tiny_region *region;
    tiny_idx phase, from;                   /* barriers passed; and how many there had been when this thread came in */
} tiny_team;

typedef void (*tiny_team_fn)(tiny_team *team, void *arg);

/* Runs fn on the threads of the context and waits. shared_bytes and own_bytes of workspace are taken from the
 * context's arena before the region opens. Refused inside a region of this context; inside an OpenMP region of somebody
 * else it runs on one thread. */
TINY_API tiny_status tiny_parallel(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes, tiny_team_fn fn,
                                   void *arg);

/* The same, loose: see above. */
TINY_API tiny_status tiny_parallel_loose(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes,
                                         tiny_team_fn fn, void *arg);

/* The next piece [*i0, *i1) of 0..total, at most grain long. 0 when all is given out, or after a cancel. */
TINY_API int tiny_take(tiny_team *team, tiny_idx total, tiny_idx grain, tiny_idx *i0, tiny_idx *i1);
TINY_API void tiny_barrier(tiny_team *team);
/* First failure wins; the region goes on, its caller gets the status. */
TINY_API void tiny_team_fail(tiny_team *team, tiny_status status, const char *sentence);

TINYI_C_END
#endif
