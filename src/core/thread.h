/* src/core/thread.h - parallel regions: a team of threads with barriers
 *
 * A team is the set of threads inside one parallel region. Every thread calls the same function. tiny_take hands out
 * work in small pieces, so that a thread whose processor is shared with another program does less of it.
 *
 *   while (tiny_take(team, n_rows, 16, &r0, &r1))
 *       for (r = r0; r < r1; r++) row(r);
 *   tiny_barrier(team);              always needed before the next loop of takes
 *
 * A barrier spins for a few microseconds, then sleeps.
 *
 * A loose region does not wait for threads that are descheduled when it opens. Such a thread joins later or not at all.
 * A function may run in a loose region if it shares all its work by tiny_take, apart from code under `if (team->i ==
 * 0)`. A late thread may join until the team passes the second barrier. It then runs the code before the first barrier,
 * without work from tiny_take, while the others are already past it. So that code must not read data that is written
 * after the first barrier, except in pieces from tiny_take. Thread 0 is always there from the start. */
#ifndef TINYI_THREAD_H
#define TINYI_THREAD_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tiny_team {
    int i, n;                               /* i: this thread, 0..n-1; n: number of threads */
    void *shared;                           /* workspace of the whole team, 64-byte aligned */
    void *own;                              /* workspace of this thread, 64-byte aligned */
    const struct tiny_kernels *k;           /* the kernels of the context's target */
    tiny_target ran_on;                     /* target of the last kernel */
    struct tiny_region *region;
    tiny_idx phase, from;                   /* number of barriers passed: so far; when this thread joined */
} tiny_team;

typedef void (*tiny_team_fn)(tiny_team *team, void *arg);

/* Runs fn on the threads of the context and waits. The context provides shared_bytes of workspace for the team and
 * own_bytes for each thread before the region opens. Fails if it is called inside a region of this context. Inside an
 * OpenMP region of the program it runs on one thread. */
TINY_API tiny_status tiny_parallel(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes, tiny_team_fn fn,
                                   void *arg);

/* The same as a loose region: see above. */
TINY_API tiny_status tiny_parallel_loose(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes,
                                         tiny_team_fn fn, void *arg);

/* The next piece [*i0, *i1) of 0..total, at most grain long. Returns 0 when no piece is left, or after a cancel. */
TINY_API int tiny_take(tiny_team *team, tiny_idx total, tiny_idx grain, tiny_idx *i0, tiny_idx *i1);
TINY_API void tiny_barrier(tiny_team *team);
/* Reports a failure. The region goes on, and its caller gets the first failure that was reported. */
TINY_API void tiny_team_fail(tiny_team *team, tiny_status status, const char *sentence);

TINYI_C_END
#endif
