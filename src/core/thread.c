/* src/core/thread.c - parallel regions: starting threads, waiting, barriers
 *
 * Every thread of a region runs the same function. All waiting is in tinyi_region_wait: it spins for some microseconds
 * (usually all threads arrive together), then sleeps on a condition variable. So a thread that has lost its processor
 * to another program costs the others no processor time, and the scheduler may move it to the processor of a sleeper.
 *
 * With POSIX threads and OpenMP, or TINY_PTHREAD, a context keeps helper threads, which sleep between regions. Threads
 * of OpenMP do not suit a shared machine: they spin on processors that other programs need, and a region waits for each
 * of them, even for one that is descheduled and has no work. A loose region waits only for helpers that have joined; a
 * late helper finds the gate closed. Operations of the table open loose regions, because they share all work by
 * tiny_take. An operation whose row comes with the call is strict unless the row has TINY_OP_LOOSE. With a busy
 * neighbour on two processors, a product of 64 x 64 x 64 keeps more than half of its speed; with OpenMP it keeps a
 * sixth.
 *
 * A helper may join until the end of the second phase. Waking it takes longer than many first phases: clearing,
 * gathering, tables. Late joining is safe: code before the first barrier, outside of takes, runs concurrently with the
 * takes of other threads anyway. So it depends only on the operation, and other threads take the work that a late
 * helper misses.
 *
 * A helper that has joined and then loses its processor keeps all others waiting: for milliseconds, where a region
 * takes microseconds. The caller detects this by the processor time of the helper that it slept for. It then does not
 * call that helper for twice the time that was lost, and doubles this whenever it soon happens again. It treats a
 * helper that runs on the caller's processor the same way. */
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>
#if defined _OPENMP && !defined TINY_NO_OPENMP
#include <omp.h>
#define TINYI_HAVE_OPENMP 1
#else
#define TINYI_HAVE_OPENMP 0
#endif
#if TINYI_HAVE_HELPERS
#include "core/cpu_inside.h"
#include <unistd.h>
#endif

/* About 20 microseconds (a pause takes 10 to 140 cycles), the time of a piece of work. Sleeping and waking cost 50 in a
 * virtual machine. Another program may hold the awaited thread's processor for milliseconds, which is much longer. */
#define TINYI_SPINS 1000
/* of a helper between two regions: the layers of a model follow each other faster than a thread can be woken */
#define TINYI_HELPER_SPINS 2000

/* nanoseconds for which a helper without a processor is left alone */
#define TINYI_REST_LEAST ((uint64_t)200000)
#define TINYI_REST_MOST ((uint64_t)64000000)
/* helpers whose processor time is asked for: half a microsecond each, before a sleep */
#define TINYI_WATCHED 16

/* The gate of a region is one word, so that each step is one exchange. It holds the number of threads that have joined,
 * the number that have arrived at the barrier, a closed flag, a flag for sleepers, and the phase. */
#define TINYI_GATE_IN ((size_t)1)
#define TINYI_GATE_ARRIVED ((size_t)1 << 9)
#define TINYI_GATE_CLOSED ((size_t)1 << 18)
#define TINYI_GATE_SLEEP ((size_t)1 << 19)
#define TINYI_GATE_PHASE ((size_t)1 << 20)
#define TINYI_GATE_COUNT ((size_t)511)
#define TINYI_GATE_PHASES (SIZE_MAX / TINYI_GATE_PHASE)
#define TINYI_GATE_HERE(g) ((g) / TINYI_GATE_ARRIVED & TINYI_GATE_COUNT)

typedef struct tiny_region tinyi_region;
struct tiny_region {
    tiny_ctx *ctx;
    int n;
    tiny_idx next[2];                       /* first piece of work that is not taken, of even and of odd phases */
    char pad[TINYI_ALIGN];
    tiny_idx until;                         /* the last phase in which a helper may come in */
    tiny_idx failed, cancelled;
    tiny_status status;
    char says[256];
    unsigned char *shared, *own;
    size_t own_bytes;
    tiny_team_fn fn;
    void *arg;
    int loose;
    tiny_target ran_on;
};

static size_t tinyi_gate(const tiny_ctx *ctx) { return (size_t)tinyi_atomic_get(&ctx->gate); }
static int tinyi_gate_swap(tiny_ctx *ctx, size_t old, size_t v)
{
    return tinyi_atomic_swap_if(&ctx->gate, (tiny_idx)old, (tiny_idx)v);
}

/* All are at the barrier: the next phase begins. */
static size_t tinyi_gate_next(const tinyi_region *r, size_t g)
{
    size_t v = (g + TINYI_GATE_PHASE) & ~(TINYI_GATE_COUNT * TINYI_GATE_ARRIVED);
    if (v / TINYI_GATE_PHASE == 0) v += TINYI_GATE_PHASE;      /* 0 is the beginning only: see tinyi_region_run */
    return (tiny_idx)(v / TINYI_GATE_PHASE) <= tinyi_atomic_get(&r->until) && v / TINYI_GATE_PHASE < TINYI_GATE_PHASES
               ? v
               : v | TINYI_GATE_CLOSED;
}

#if TINYI_HAVE_HELPERS
static uint64_t tinyi_helpers_watch(tiny_ctx *ctx);
static void tinyi_helpers_judge(tiny_ctx *ctx, uint64_t slept_at, uint64_t woke_at);
#endif

/* Until the gate says something else about the bits of mask than `seen` does. */
static void tinyi_region_wait(const tinyi_region *r, int i, size_t mask, size_t seen)
{
    tiny_ctx *ctx = r->ctx;
    size_t g;
    int spins;
#if TINYI_HAVE_HELPERS
    uint64_t slept_at = 0, woke_at;
#endif
    for (spins = r->n <= ctx->n_cpus ? TINYI_SPINS : 0; spins > 0; spins--) {
        if ((tinyi_gate(ctx) & mask) != seen) return;
        tinyi_pause();
    }
#if TINYI_HAVE_PTHREAD
    for (;;) {                              /* a thread that changes the gate must see the sleeper */
        g = tinyi_gate(ctx);
        if ((g & mask) != seen) return;
        if (g & TINYI_GATE_SLEEP || tinyi_gate_swap(ctx, g, g | TINYI_GATE_SLEEP)) break;
    }
#if TINYI_HAVE_HELPERS
    if (i == 0 && r->loose && ctx->n_threads <= ctx->n_cpus) slept_at = tinyi_helpers_watch(ctx);
#endif
    (void)pthread_mutex_lock(&ctx->lock);
    while ((g = tinyi_gate(ctx), (g & mask) == seen)) {
        if (g & TINYI_GATE_SLEEP || tinyi_gate_swap(ctx, g, g | TINYI_GATE_SLEEP))
            (void)pthread_cond_wait(&ctx->wake, &ctx->lock);
    }
#if TINYI_HAVE_HELPERS
    woke_at = ctx->woke_at;
#endif
    (void)pthread_mutex_unlock(&ctx->lock);
#if TINYI_HAVE_HELPERS
    if (slept_at) tinyi_helpers_judge(ctx, slept_at, woke_at);
#else
    (void)i;
#endif
#else
    (void)i;
    while (g = tinyi_gate(ctx), (g & mask) == seen) tinyi_pause();
#endif
}

/* after an exchange that cleared the sleep bit; i: the thread that arrived last */
static void tinyi_region_wake(tiny_ctx *ctx, int i)
{
#if TINYI_HAVE_PTHREAD
    tinyi_atomic_set(&ctx->waker, i);
    /* under the lock, so that no thread falls asleep between its last check and this signal */
    (void)pthread_mutex_lock(&ctx->lock);
    ctx->woke_at = tiny_now_ns();
    (void)pthread_cond_broadcast(&ctx->wake);
    (void)pthread_mutex_unlock(&ctx->lock);
#else
    (void)ctx;
    (void)i;
#endif
}

TINY_API void tiny_barrier(tiny_team *team)
{
    tinyi_region *r = team ? team->region : NULL;
    tiny_ctx *ctx;
    size_t g;
    if (!r) return;
    ctx = r->ctx;
    if (team->n == 1) {
        r->next[0] = 0;
        return;
    }
    if (team->phase < team->from) {         /* came in later: this barrier is over */
        team->phase++;
        return;
    }
    /* the counter of the next phase: no thread uses it before all have arrived, and the phase before this one is
     * over */
    tinyi_atomic_set(&r->next[(team->phase + 1) & 1], 0);
    team->phase++;
    for (;;) {
        g = tinyi_gate(ctx);
        if (TINYI_GATE_HERE(g) + 1 < (r->loose ? g & TINYI_GATE_COUNT : (size_t)team->n)) {
            if (!tinyi_gate_swap(ctx, g, g + TINYI_GATE_ARRIVED)) continue;
            tinyi_region_wait(r, team->i, ~(TINYI_GATE_PHASE - 1), g & ~(TINYI_GATE_PHASE - 1));
            return;
        }
        if (tinyi_gate_swap(ctx, g, tinyi_gate_next(r, g) & ~TINYI_GATE_SLEEP)) break;
    }
    if (g & TINYI_GATE_SLEEP) tinyi_region_wake(ctx, team->i);
}

TINYI_FN void tinyi_team_until(tiny_team *team, tiny_idx phase)
{
    if (team->i == 0) tinyi_atomic_set(&team->region->until, phase);
}

TINY_API int tiny_take(tiny_team *team, tiny_idx total, tiny_idx grain, tiny_idx *i0, tiny_idx *i1)
{
    tinyi_region *r = team ? team->region : NULL;
    tiny_idx at;
    if (!r || !i0 || !i1) return 0;
    if (grain < 1) grain = 1;
    if (team->n == 1) {
        /* one thread: no pieces, unless there is a cancel callback to poll */
        at = r->next[0];
        if (!r->ctx->desc.cancel) grain = TINYI_MAX(total - at, 1);
    } else {
        tiny_idx *next = &r->next[team->phase & 1];
        /* the counter cannot run away */
        if (team->phase < team->from || tinyi_atomic_get(next) >= total) return 0;
        at = tinyi_atomic_add(next, grain);
    }
    if (team->i == 0 && r->ctx->desc.cancel && r->ctx->desc.cancel(r->ctx->desc.user))
        tinyi_atomic_set(&r->cancelled, 1);
    if (at >= total || tinyi_atomic_get(&r->cancelled)) return 0;
    *i0 = at;
    *i1 = total - at > grain ? at + grain : total;
    if (team->n == 1) r->next[0] = *i1;
    return 1;
}

TINYI_FN int tinyi_team_stopped(const tiny_team *team) { return tinyi_atomic_get(&team->region->cancelled) != 0; }

TINY_API void tiny_team_fail(tiny_team *team, tiny_status status, const char *sentence)
{
    tinyi_region *r = team ? team->region : NULL;
    if (!r || !tinyi_atomic_swap_if(&r->failed, 0, 1)) return;
    r->status = status;
    tinyi_keep_says(r->says, sizeof r->says, sentence ? sentence : tiny_status_text(status));
}

/* from: the phase at which this thread came in. The phases that it has passed. */
TINYI_FORCE_INLINE tiny_idx tinyi_region_member(tinyi_region *r, int i, int n, tiny_idx from)
{
    tiny_team team;
    team.i = i;
    team.n = n;
    team.shared = r->shared;
    team.own = r->own ? r->own + (size_t)i * r->own_bytes : NULL;
    team.k = r->ctx->k;
    team.ran_on = TINY_TARGET_REFERENCE;
    team.region = r;
    team.phase = 0;
    team.from = from;
    r->fn(&team, r->arg);
    if (i == 0) r->ran_on = team.ran_on;
    return team.phase;
}

#if TINYI_HAVE_HELPERS
/* ---- helpers: threads of the context, numbers 1 .. n_threads - 1 of every team
 *
 * Each helper waits on its own word: the number of the call, whether all helpers must join (the function shares its
 * work by team->i), and whether the helper sleeps. Only the caller writes calls; a helper that misses one sees the
 * next. The region is on the caller's stack, so a helper may read it only between joining through the gate and
 * leaving. */
struct tinyi_helper {
    tiny_ctx *ctx;
    int i;
    tiny_idx word;
    tiny_idx cpu;                           /* on which it joined, or -1 */
    tiny_idx id;                            /* of the thread, as the system counts; 0: not known yet */
    int called;                             /* this and what follows are the caller's: for the region that runs */
    /* its processor time before a wait; how long it is not called, and until when */
    uint64_t used, rest, rest_until;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    char pad[TINYI_ALIGN];
};
#define TINYI_CALL_SLEEP ((size_t)1)
#define TINYI_CALL_ALL ((size_t)2)
#define TINYI_CALL_QUIT ((size_t)4)
#define TINYI_CALL_NUMBER ((size_t)8)

/* The caller is about to sleep until the helpers that have joined are done. */
static uint64_t tinyi_helpers_watch(tiny_ctx *ctx)
{
    int i;
    if (ctx->n_helpers > TINYI_WATCHED) return 0;
    for (i = 0; i < ctx->n_helpers; i++) {
        tinyi_helper *h = &ctx->helpers[i];
        h->used = h->called && tinyi_atomic_get(&h->cpu) >= 0 ? tinyi_cpu_used((long)tinyi_atomic_get(&h->id)) : 0;
    }
    ctx->faults = tinyi_cpu_faults();
    return tiny_now_ns();
}

static void tinyi_helper_rest(tinyi_helper *h, uint64_t now, uint64_t lost)
{
    h->rest = TINYI_MIN(TINYI_MAX(TINYI_MAX(2 * h->rest, 2 * lost), TINYI_REST_LEAST), TINYI_REST_MOST);
    h->rest_until = now + h->rest;
}

/* The caller has slept, and the last helper woke it. Was that helper computing or descheduled? Time that it spent
 * waiting for a disk is not counted against it. */
static void tinyi_helpers_judge(tiny_ctx *ctx, uint64_t slept_at, uint64_t woke_at)
{
    const uint64_t now = tiny_now_ns(), lost = woke_at - slept_at;
    const tiny_idx waker = tinyi_atomic_get(&ctx->waker);
    tinyi_helper *h;
    uint64_t used;
    if (waker < 1 || waker > ctx->n_helpers || woke_at < slept_at || tinyi_cpu_faults() != ctx->faults) return;
    h = &ctx->helpers[waker - 1];
    used = tinyi_cpu_used((long)tinyi_atomic_get(&h->id));
    if (h->used && used && used - h->used < lost / 2) tinyi_helper_rest(h, now, lost);
}

/* 1: the helper is called again; after a while its record is cleared */
static int tinyi_helper_rested(tinyi_helper *h)
{
    uint64_t now;
    if (!h->rest) return 1;
    now = tiny_now_ns();
    /* the second: a clock that was set back */
    if (now < h->rest_until && h->rest_until - now <= h->rest) return 0;
    if (now > h->rest_until + h->rest) h->rest = 0;
    return 1;
}

static void tinyi_helper_leave(tinyi_helper *h)
{
    tiny_ctx *ctx = h->ctx;
    size_t g, v;
    do {
        g = tinyi_gate(ctx);
        v = g - TINYI_GATE_IN;
        /* a helper that was called for an earlier, larger team leaves before the first barrier: it may be the only one
         * that the others wait for */
        if (TINYI_GATE_HERE(v) && TINYI_GATE_HERE(v) == (v & TINYI_GATE_COUNT)) v = tinyi_gate_next(ctx->region, v);
        v &= ~TINYI_GATE_SLEEP;
    } while (!tinyi_gate_swap(ctx, g, v));
    if (g & TINYI_GATE_SLEEP) tinyi_region_wake(ctx, h->i);
}

/* 1 and the phase, or 0: the gate is closed, or the region is strict */
static int tinyi_helper_enter(tiny_ctx *ctx, tiny_idx *phase)
{
    size_t g;
    do {
        g = tinyi_gate(ctx);
        if (g & TINYI_GATE_CLOSED) return 0;
    } while (!tinyi_gate_swap(ctx, g, g + TINYI_GATE_IN));
    *phase = (tiny_idx)(g / TINYI_GATE_PHASE);
    return 1;
}

static size_t tinyi_helper_listen(tinyi_helper *h, size_t seen)
{
    const tiny_idx here = tinyi_cpu_here();
    size_t w;
    int i;
    /* on the caller's processor, spinning would only keep the caller from calling */
    i = h->ctx->n_threads <= h->ctx->n_cpus && !(here >= 0 && here == tinyi_atomic_get(&h->ctx->at_cpu))
            ? TINYI_HELPER_SPINS
            : 0;
    for (; i > 0; i--) {
        w = (size_t)tinyi_atomic_get(&h->word);
        if (w != seen) return w;
        tinyi_pause();
    }
    if (!tinyi_atomic_swap_if(&h->word, (tiny_idx)seen, (tiny_idx)(seen | TINYI_CALL_SLEEP)))
        return (size_t)tinyi_atomic_get(&h->word);
    (void)pthread_mutex_lock(&h->lock);
    while (w = (size_t)tinyi_atomic_get(&h->word), w == (seen | TINYI_CALL_SLEEP))
        (void)pthread_cond_wait(&h->wake, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
    return w;
}

static void *tinyi_helper_main(void *arg)
{
    tinyi_helper *h = (tinyi_helper *)arg;
    tiny_ctx *ctx = h->ctx;
    tiny_idx phase = 0;
    size_t w = 0;
    tinyi_atomic_set(&h->id, tinyi_cpu_thread());
    for (;;) {
        w = tinyi_helper_listen(h, w);
        if (w & TINYI_CALL_QUIT) return NULL;
        if (w & TINYI_CALL_ALL) phase = 0;
        else if (!tinyi_helper_enter(ctx, &phase)) continue;
        tinyi_atomic_set(&h->cpu, tinyi_cpu_here());
        if (h->i < ctx->region->n) (void)tinyi_region_member(ctx->region, h->i, ctx->region->n, phase);
        tinyi_helper_leave(h);
    }
}

static void tinyi_helper_call(tinyi_helper *h, size_t what)
{
    size_t w;
    do w = (size_t)tinyi_atomic_get(&h->word);
    while (!tinyi_atomic_swap_if(&h->word, (tiny_idx)w,
                                 (tiny_idx)((w / TINYI_CALL_NUMBER + 1) * TINYI_CALL_NUMBER + what)));
    if (w & TINYI_CALL_SLEEP) {
        (void)pthread_mutex_lock(&h->lock);
        (void)pthread_cond_signal(&h->wake);
        (void)pthread_mutex_unlock(&h->lock);
    }
}

/* Makes sure that a team of *n has its helpers; *n falls to what the system gives. A child of fork has none of its
 * parent's threads and starts its own. */
static tiny_status tinyi_helpers_ready(tiny_ctx *ctx, int *n)
{
    const tiny_idx process = (tiny_idx)getpid();
    if (ctx->helpers_of != process) {
        ctx->helpers_of = process;
        ctx->n_helpers = 0;
        (void)pthread_mutex_init(&ctx->lock, NULL);
        (void)pthread_cond_init(&ctx->wake, NULL);
    }
    if (!ctx->helpers) {
        ctx->helpers = (tinyi_helper *)tinyi_alloc(ctx, (size_t)ctx->n_threads - 1, sizeof *ctx->helpers);
        if (!ctx->helpers) return tiny_ctx_status(ctx);
    }
    while (ctx->n_helpers < *n - 1) {
        tinyi_helper *h = &ctx->helpers[ctx->n_helpers];
        memset(h, 0, sizeof *h);
        h->ctx = ctx;
        h->i = ctx->n_helpers + 1;
        (void)pthread_mutex_init(&h->lock, NULL);
        (void)pthread_cond_init(&h->wake, NULL);
        if (pthread_create(&h->thread, NULL, tinyi_helper_main, h) != 0) {
            (void)pthread_cond_destroy(&h->wake);
            (void)pthread_mutex_destroy(&h->lock);
            *n = ctx->n_helpers + 1;
        } else ctx->n_helpers++;
    }
    return TINY_OK;
}

static void tinyi_helpers_run(tinyi_region *r)
{
    tiny_ctx *ctx = r->ctx;
    const tiny_idx here = tinyi_cpu_here();
    size_t g;
    int i, called = 0;
    for (i = 1; i < r->n; i++)
        called += ctx->helpers[i - 1].called = !r->loose || tinyi_helper_rested(&ctx->helpers[i - 1]);
    ctx->region = r;
    /* closed if no helper is called: the team still counts n, so that pieces and sums are cut the same way */
    tinyi_atomic_set(&ctx->gate, (tiny_idx)(!r->loose ? TINYI_GATE_CLOSED + (size_t)r->n * TINYI_GATE_IN
                                            : called  ? TINYI_GATE_IN
                                                      : TINYI_GATE_CLOSED + TINYI_GATE_IN));
    tinyi_atomic_set(&ctx->at_cpu, here);
    for (i = 1; i < r->n; i++) {
        tinyi_helper *h = &ctx->helpers[i - 1];
        if (!h->called) continue;
        tinyi_atomic_set(&h->cpu, -1);
        tinyi_helper_call(h, r->loose ? 0 : TINYI_CALL_ALL);
    }
    (void)tinyi_region_member(r, 0, r->n, 0);
    do g = tinyi_gate(ctx);
    while (!(g & TINYI_GATE_CLOSED) && !tinyi_gate_swap(ctx, g, g | TINYI_GATE_CLOSED));
    for (;;) {                              /* helpers that have joined still read r */
        g = tinyi_gate(ctx) & TINYI_GATE_COUNT;
        if (g == 1) break;
        tinyi_region_wait(r, 0, TINYI_GATE_COUNT, g);
    }
    for (i = 1; r->loose && here >= 0 && i < r->n && ctx->n_threads <= ctx->n_cpus; i++) {
        tinyi_helper *h = &ctx->helpers[i - 1];
        if (h->called && tinyi_atomic_get(&h->cpu) == here && tinyi_cpu_here() == here)
            tinyi_helper_rest(h, tiny_now_ns(), 0);
    }
}

void tinyi_helpers_close(tiny_ctx *ctx)
{
    int i;
    if (ctx->helpers_of == (tiny_idx)getpid()) {
        for (i = 0; i < ctx->n_helpers; i++) tinyi_helper_call(&ctx->helpers[i], TINYI_CALL_QUIT);
        for (i = 0; i < ctx->n_helpers; i++) {
            (void)pthread_join(ctx->helpers[i].thread, NULL);
            (void)pthread_cond_destroy(&ctx->helpers[i].wake);
            (void)pthread_mutex_destroy(&ctx->helpers[i].lock);
        }
    }
    tiny_free(ctx, ctx->helpers);
    ctx->helpers = NULL;
    ctx->n_helpers = 0;
}
#endif

/* on threads of OpenMP or of a pool: they wait for each other at the end, so this wait sleeps */
static void tinyi_region_guest(tinyi_region *r, int i, int n)
{
    tiny_team end;
    tiny_idx phases;
    phases = tinyi_region_member(r, i, n, 0);
    memset(&end, 0, sizeof end);
    end.i = i;
    end.n = n;
    end.phase = phases;
    end.region = r;
    if (n > 1) tiny_barrier(&end);
}

static void tinyi_region_task(void *arg, int i)
{
    tinyi_region_guest((tinyi_region *)arg, i, ((tinyi_region *)arg)->n);
}

static void tinyi_region_run(tinyi_region *r)
{
    const tiny_pool *pool = &r->ctx->desc.pool;
    if (r->n > 1 && pool->run) {
        r->loose = 0;
        tinyi_atomic_set(&r->ctx->gate, (tiny_idx)TINYI_GATE_CLOSED);
        if (!pool->run(pool->user, r->n, tinyi_region_task, r)) {
            /* the last of them moves the phase when all have come to the end: a pool that forgot some is found out */
            if (tinyi_gate(r->ctx) / TINYI_GATE_PHASE == 0 && tinyi_atomic_swap_if(&r->failed, 0, 1)) {
                r->status = TINY_E_ARGUMENT;
                (void)snprintf(r->says, sizeof r->says, "the pool said that it ran %d tasks, but did not", r->n);
            }
            return;
        }
        (void)tinyi_region_member(r, 0, 1, 0);
        return;
    }
#if TINYI_HAVE_HELPERS
    if (r->n > 1) {
        tinyi_helpers_run(r);
        return;
    }
#elif TINYI_HAVE_OPENMP
    if (r->n > 1 && !omp_in_parallel()) {
        r->loose = 0;
        tinyi_atomic_set(&r->ctx->gate, (tiny_idx)TINYI_GATE_CLOSED);
#pragma omp parallel num_threads(r->n)
        tinyi_region_guest(r, omp_get_thread_num(), omp_get_num_threads());     /* maybe fewer than asked for */
        return;
    }
#endif
    (void)tinyi_region_member(r, 0, 1, 0);
}

/* Helpers and workspace of a region that wants some. */
static TINYI_NOINLINE tiny_status tinyi_region_equip(tinyi_region *r, size_t shared_bytes, size_t own_bytes)
{
    tiny_ctx *ctx = r->ctx;
    size_t bytes = 0;
    tiny_status st;
#if TINYI_HAVE_HELPERS
    if (r->n > 1 && !ctx->desc.pool.run) {
#if TINYI_HAVE_OPENMP
        if (omp_in_parallel()) r->n = 1;
#endif
        if (r->n > 1) {
            st = tinyi_helpers_ready(ctx, &r->n);
            if (st) return st;
        }
    }
#endif
    if (shared_bytes || own_bytes) {
        size_t own;
        if (shared_bytes > SIZE_MAX - TINYI_ALIGN || own_bytes > SIZE_MAX - TINYI_ALIGN)
            return tinyi_fail(ctx, TINY_E_OVERFLOW,
                              "the workspace of %d threads is larger than this machine can address", r->n);
        shared_bytes = (shared_bytes + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1);
        own_bytes = (own_bytes + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1);
        if (!tinyi_size_mul(own_bytes, (size_t)r->n, &own) || !tinyi_size_add(own, shared_bytes, &bytes))
            return tinyi_fail(ctx, TINY_E_OVERFLOW,
                              "the workspace of %d threads is larger than this machine can address", r->n);
        st = tinyi_work_reserve(ctx, bytes);
        if (st) return st;
        r->shared = ctx->work.base;
        r->own = ctx->work.base + shared_bytes;
        r->own_bytes = own_bytes;
    }
    return TINY_OK;
}

/* checked first: after a cancel, the pieces that were not done can look like another fault */
static TINYI_NOINLINE tiny_status tinyi_region_fault(const tinyi_region *r)
{
    if (r->cancelled) return tinyi_fail(r->ctx, TINY_E_CANCELLED, "the cancel callback asked to stop");
    return tinyi_fail(r->ctx, r->status, "%s", r->says);
}

tiny_status tinyi_region_open(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes, tiny_team_fn fn,
                              void *arg, int loose)
{
    tinyi_region r;
    tiny_status st;
    if (!fn || n_threads < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "a parallel region needs a function and a thread count of at least 0, not %d", n_threads);
    if (ctx->in_region)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "this context is running a region: a function of its team opens another, or two threads use "
                          "one context at the same time");
    /* field by field: clearing all of it would cost a small operation a quarter of its time */
    r.ctx = ctx;
    r.n = n_threads && n_threads < ctx->n_threads ? n_threads : ctx->n_threads;
    if (TINYI_HAVE_ATOMICS == 0) r.n = 1;
    r.next[0] = r.next[1] = r.failed = r.cancelled = 0;
    r.until = 1;
    r.status = TINY_OK;
    r.shared = r.own = NULL;
    r.own_bytes = 0;
    r.fn = fn;
    r.arg = arg;
    r.loose = loose;
    r.ran_on = TINY_TARGET_REFERENCE;
    if (r.n > 1 || shared_bytes || own_bytes) {
        st = tinyi_region_equip(&r, shared_bytes, own_bytes);
        if (st) return st;
    }
    ctx->in_region = 1;
    if (r.n > 1) tinyi_region_run(&r);
    else (void)tinyi_region_member(&r, 0, 1, 0);
    ctx->in_region = 0;
    ctx->ran_on = r.ran_on;
    return r.cancelled || r.failed ? tinyi_region_fault(&r) : TINY_OK;
}

TINY_API tiny_status tiny_parallel(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes, tiny_team_fn fn,
                                   void *arg)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    return st ? st : tinyi_region_open(ctx, n_threads, shared_bytes, own_bytes, fn, arg, 0);
}

TINY_API tiny_status tiny_parallel_loose(tiny_ctx *ctx, int n_threads, size_t shared_bytes, size_t own_bytes,
                                         tiny_team_fn fn, void *arg)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    return st ? st : tinyi_region_open(ctx, n_threads, shared_bytes, own_bytes, fn, arg, 1);
}
