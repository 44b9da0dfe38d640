/* src/core/thread.c - the region: who runs, who waits, and how
 *
 * Every thread of a region runs the same function. Waiting happens in one
 * place, tiny_barrier: a few microseconds of spinning (the usual case, all
 * arrive together), then a condition variable. A thread that has lost its
 * processor to another program thus costs the others no processor time, and
 * the scheduler may move it to the processor that a sleeper left.           */
#include "core/state.h"
#include <stdio.h>
#if defined _OPENMP && !defined TINY_NO_OPENMP
#include <omp.h>
#define TINYI_HAVE_OPENMP 1
#else
#define TINYI_HAVE_OPENMP 0
#endif

/* about three microseconds: a pause takes 10 to 140 cycles */
#define TINYI_SPINS 100

struct tinyi_region {
    tiny_ctx *ctx;
    int n;
    tiny_idx next;                          /* first piece of work that nobody took */
    char pad0[TINYI_ALIGN - sizeof(tiny_idx)];
    tiny_idx arrived, phase;                /* of the barrier */
    char pad1[TINYI_ALIGN - 2 * sizeof(tiny_idx)];
    tiny_idx sleepers, failed, cancelled;
    tiny_status status;
    char says[256];
    unsigned char *shared, *own;
    size_t own_bytes;
    tiny_team_fn fn;
    void *arg;
    tiny_target ran_on;
};

static void tinyi_region_wait(tinyi_region *r, tiny_idx phase, int n)
{
    int i, spins = n <= r->ctx->n_cpus ? TINYI_SPINS : 0;
    for (i = 0; i < spins; i++) {
        if (tinyi_atomic_get(&r->phase) != phase) return;
        tinyi_pause();
    }
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_lock(&r->ctx->lock);
    tinyi_atomic_set(&r->sleepers, 1);
    while (tinyi_atomic_get(&r->phase) == phase) (void)pthread_cond_wait(&r->ctx->wake, &r->ctx->lock);
    (void)pthread_mutex_unlock(&r->ctx->lock);
#else
    while (tinyi_atomic_get(&r->phase) == phase) tinyi_pause();
#endif
}

TINY_API void tiny_barrier(tiny_team *team)
{
    tinyi_region *r = team->region;
    tiny_idx phase;
    if (team->n == 1) {
        r->next = 0;
        return;
    }
    phase = tinyi_atomic_get(&r->phase);
    if (tinyi_atomic_add(&r->arrived, 1) + 1 < team->n) {
        tinyi_region_wait(r, phase, team->n);
        return;
    }
    r->arrived = 0;
    tinyi_atomic_set(&r->next, 0);
#if TINYI_HAVE_PTHREAD
    /* under the lock, so that nobody falls asleep between his last look and our signal */
    (void)pthread_mutex_lock(&r->ctx->lock);
    tinyi_atomic_set(&r->phase, phase + 1);
    if (tinyi_atomic_get(&r->sleepers)) {
        tinyi_atomic_set(&r->sleepers, 0);
        (void)pthread_cond_broadcast(&r->ctx->wake);
    }
    (void)pthread_mutex_unlock(&r->ctx->lock);
#else
    tinyi_atomic_set(&r->phase, phase + 1);
#endif
}

TINY_API int tiny_take(tiny_team *team, tiny_idx total, tiny_idx grain, tiny_idx *i0, tiny_idx *i1)
{
    tinyi_region *r = team->region;
    tiny_idx at;
    if (grain < 1) grain = 1;
    if (team->n == 1) {
        /* one thread: no pieces, unless somebody wants to be asked whether to go on */
        at = r->next;
        if (!r->ctx->desc.cancel) grain = TINYI_MAX(total - at, 1);
    } else {
        if (tinyi_atomic_get(&r->next) >= total) return 0;      /* the counter cannot run away */
        at = tinyi_atomic_add(&r->next, grain);
    }
    if (team->i == 0 && r->ctx->desc.cancel && r->ctx->desc.cancel(r->ctx->desc.user)) tinyi_atomic_set(&r->cancelled, 1);
    if (at >= total || tinyi_atomic_get(&r->cancelled)) return 0;
    *i0 = at;
    *i1 = total - at > grain ? at + grain : total;
    if (team->n == 1) r->next = *i1;
    return 1;
}

TINYI_FN int tinyi_team_stopped(const tiny_team *team) { return tinyi_atomic_get(&team->region->cancelled) != 0; }

TINY_API void tiny_team_fail(tiny_team *team, tiny_status status, const char *sentence)
{
    tinyi_region *r = team->region;
    if (!tinyi_atomic_swap_if(&r->failed, 0, 1)) return;
    r->status = status;
    (void)snprintf(r->says, sizeof r->says, "%s", sentence ? sentence : tiny_status_text(status));
}

static void tinyi_region_member(void *arg, int i, int n)
{
    tinyi_region *r = (tinyi_region *)arg;
    tiny_team team;
    team.i = i;
    team.n = n;
    team.shared = r->shared;
    team.own = r->own ? r->own + (size_t)i * r->own_bytes : NULL;
    team.k = r->ctx->k;
    team.ran_on = TINY_TARGET_REFERENCE;
    team.region = r;
    r->fn(&team, r->arg);
    if (n > 1) tiny_barrier(&team);         /* ours sleeps; the one at the end of an OpenMP region may not */
    if (i == 0) r->ran_on = team.ran_on;
}

static void tinyi_region_task(void *arg, int i)
{
    tinyi_region_member(arg, i, ((tinyi_region *)arg)->n);
}

static void tinyi_region_run(tinyi_region *r)
{
    const tiny_pool *pool = &r->ctx->desc.pool;
    if (r->n > 1 && pool->run) {
        if (!pool->run(pool->user, r->n, tinyi_region_task, r)) {
            /* the last of them moves the phase when all have come to the end: a pool that forgot some is found out */
            if (tinyi_atomic_get(&r->phase) == 0 && tinyi_atomic_swap_if(&r->failed, 0, 1)) {
                r->status = TINY_E_ARGUMENT;
                (void)snprintf(r->says, sizeof r->says, "the pool said that it ran %d tasks, but did not", r->n);
            }
            return;
        }
        tinyi_region_member(r, 0, 1);
        return;
    }
#if TINYI_HAVE_OPENMP
    if (r->n > 1 && !omp_in_parallel()) {
#pragma omp parallel num_threads(r->n)
        tinyi_region_member(r, omp_get_thread_num(), omp_get_num_threads());    /* maybe fewer than asked for */
        return;
    }
#endif
    tinyi_region_member(r, 0, 1);
}

TINY_API tiny_status tiny_parallel(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes, tiny_team_fn fn, void *arg)
{
    tinyi_region r;
    size_t bytes = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!fn || n_threads < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a parallel region needs a function and a thread count of at least 0, not %d", n_threads);
    if (ctx->in_region) return tinyi_fail(ctx, TINY_E_ARGUMENT, "this context is already running a region: a function of the team must not open another");
    /* field by field: clearing all of it would cost a small operation a quarter of its time */
    r.ctx = ctx;
    r.n = n_threads && n_threads < ctx->n_threads ? n_threads : ctx->n_threads;
    if (TINYI_HAVE_ATOMICS == 0) r.n = 1;
    r.next = r.arrived = r.phase = r.sleepers = r.failed = r.cancelled = 0;
    r.status = TINY_OK;
    r.shared = r.own = NULL;
    r.own_bytes = 0;
    r.fn = fn;
    r.arg = arg;
    r.ran_on = TINY_TARGET_REFERENCE;
    if (shared_bytes || own_bytes) {
        size_t own;
        if (shared_bytes > SIZE_MAX - TINYI_ALIGN || own_bytes > SIZE_MAX - TINYI_ALIGN)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "the workspace of %d threads is larger than this machine can address", r.n);
        shared_bytes = (shared_bytes + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1);
        own_bytes = (own_bytes + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1);
        if (!tinyi_size_mul(own_bytes, (size_t)r.n, &own) || !tinyi_size_add(own, shared_bytes, &bytes))
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "the workspace of %d threads is larger than this machine can address", r.n);
        st = tinyi_work_reserve(ctx, bytes);
        if (st) return st;
        r.shared = ctx->work.base;
        r.own = ctx->work.base + shared_bytes;
        r.own_bytes = own_bytes;
    }
    ctx->in_region = 1;
    tinyi_region_run(&r);
    ctx->in_region = 0;
    ctx->ran_on = r.ran_on;
    /* first: after a cancel the pieces that nobody did can look like any other fault */
    if (r.cancelled) return tinyi_fail(ctx, TINY_E_CANCELLED, "the cancel callback asked to stop");
    if (r.failed) return tinyi_fail(ctx, r.status, "%s", r.says);
    return TINY_OK;
}
