/* tests/core/thread.c - regions, barriers, takes; cancelling and failing in the middle */
#define T_INTERNALS                         /* tinyi_team_late */
#include "t.h"
#if T_PTHREAD
#include <sys/wait.h>
#endif

typedef struct sum_arg {
    int *hit;                               /* how often each piece was done, per phase */
    tiny_idx n, phases, grain;
    int wrong;                              /* a phase began before the one before had ended */
    int members[TINY_MAX_THREADS];
    int late;                               /* its way depends on no other thread: who comes late goes through what is over */
} sum_arg;

static void sum_member(tiny_team *team, void *arg)
{
    sum_arg *a = (sum_arg *)arg;
    tiny_idx p, i, i0, i1;
    a->members[team->i]++;
    if (a->late) tinyi_team_late(team);
    memset(team->own, team->i, 100);
    for (p = 0; p < a->phases; p++) {
        int *now = a->hit + p * a->n, *before = now - a->n;
        while (tiny_take(team, a->n, a->grain, &i0, &i1)) {
            if (i1 - i0 > a->grain && team->n > 1) a->wrong = 1;
            for (i = i0; i < i1; i++) {
                if (p && before[a->n - 1 - i] != 1) a->wrong = 1;
                now[i]++;
            }
        }
        tiny_barrier(team);
    }
    for (i = 0; i < 100; i++) if (((unsigned char *)team->own)[i] != (unsigned char)team->i) a->wrong = 2;
    if (((uintptr_t)team->own | (uintptr_t)team->shared) % 64) a->wrong = 3;
}

static void test_every_piece_once(void)
{
    static const int threads[] = { 1, 2, 3, 7 };
    size_t k;
    for (k = 0; k < T_COUNT(threads); k++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads[k]);
        sum_arg a;
        tiny_idx i;
        memset(&a, 0, sizeof a);
        a.n = 1000;
        a.phases = 50;
        a.grain = 7;
        a.hit = (int *)t_keep((size_t)(a.n * a.phases) * sizeof(int));
        T_OK(tiny_parallel(ctx, 0, 10, 100, sum_member, &a));
        T_EQ_INT(a.wrong, 0);
        for (i = 0; i < a.n * a.phases && a.hit[i] == 1; i++) {}
        T_EQ_INT(i, a.n * a.phases);
        for (i = 0; i < threads[k]; i++) T_EQ_INT(a.members[i], 1);
        a.n = 0;
        T_OK(tiny_parallel(ctx, 0, 0, 100, sum_member, &a));
        t_close(ctx);
    }
}

/* Threads come into a loose region as they find time: nothing is left out, nothing is done twice, however many were there. */
static void test_loose(void)
{
    static const int threads[] = { 1, 2, 3, 7 };
    size_t k;
    int round;
    for (k = 0; k < T_COUNT(threads); k++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, threads[k]);
        sum_arg a;
        tiny_idx i;
        memset(&a, 0, sizeof a);
        a.grain = 3;
        a.hit = (int *)t_keep(100 * 20 * sizeof(int));
        for (round = 0; round < 400; round++) {
            a.n = 1 + round % 100;
            a.late = round / 20 & 1;
            a.phases = round % 20;
            memset(a.hit, 0, 100 * 20 * sizeof(int));
            memset(a.members, 0, sizeof a.members);
            /* teams of other sizes and strict ones between: a helper that is late for one must not disturb the next */
            if (round % 7 == 6) T_OK(tiny_parallel(ctx, 0, 10, 100, sum_member, &a));
            else T_OK(tiny_parallel_loose(ctx, round % 3, 10, 100, sum_member, &a));
            if (a.wrong) break;
            for (i = 0; i < a.n * a.phases && a.hit[i] == 1; i++) {}
            T_EQ_INT(i, a.n * a.phases);
            T_EQ_INT(a.members[0], 1);
            for (i = 1; round % 7 == 6 && i < threads[k]; i++) T_EQ_INT(a.members[i], 1);
        }
        T_EQ_INT(a.wrong, 0);
        t_close(ctx);
    }
}

#if T_PTHREAD && !defined __SANITIZE_THREAD__
/* the child has none of its parent's threads */
static void test_fork(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 3);
    sum_arg a;
    pid_t child;
    int status = -1;
    memset(&a, 0, sizeof a);
    a.n = 1000;
    a.phases = 3;
    a.grain = 7;
    a.hit = (int *)t_keep(3000 * sizeof(int));
    T_OK(tiny_parallel(ctx, 0, 10, 100, sum_member, &a));
    memset(a.hit, 0, 3000 * sizeof(int));
    child = fork();
    if (child == 0) {
        tiny_status st = tiny_parallel(ctx, 0, 10, 100, sum_member, &a);
        tiny_ctx_close(ctx);
        _exit(st == TINY_OK && !a.wrong && a.hit[2999] == 1 ? 0 : 1);
    }
    T_TRUE(child > 0);
    T_EQ_INT(waitpid(child, &status, 0), child);
    T_EQ_INT(status, 0);
    T_OK(tiny_parallel(ctx, 0, 10, 100, sum_member, &a));
    t_close(ctx);
}
#endif

static int cancel_after, cancel_said;
static int cancel_now(void *user)
{
    (void)user;
    if (cancel_after-- > 0) return 0;
#ifdef __GNUC__
    __atomic_store_n(&cancel_said, 1, __ATOMIC_SEQ_CST);
#endif
    return 1;
}

static void count_member(tiny_team *team, void *arg)
{
    tiny_idx i0, i1;
    while (tiny_take(team, 1000000, 1, &i0, &i1)) {
        ((tiny_idx *)arg)[team->i * 64]++;
#ifdef __GNUC__                             /* the others must not be through before a busy machine lets the first one ask */
        while (team->i && !__atomic_load_n(&cancel_said, __ATOMIC_SEQ_CST)) {}
#endif
    }
    tiny_barrier(team);
    while (tiny_take(team, 1000000, 1, &i0, &i1)) ((tiny_idx *)arg)[team->i * 64]++;
}

static void test_cancel(void)
{
    int threads;
    for (threads = 1; threads <= 3; threads += 2) {
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, threads);
        tiny_ctx *ctx;
        tiny_idx done[3 * 64] = { 0 };
        d.cancel = cancel_now;
        T_EQ_INT(tiny_ctx_open(&d, &ctx), TINY_OK);
        t_use(ctx);
        cancel_after = 100;
        cancel_said = 0;
        T_STATUS(tiny_parallel(ctx, 0, 0, 0, count_member, done), TINY_E_CANCELLED, "asked to stop");
        T_TRUE(done[0] + done[64] + done[128] < 1000000);
        cancel_after = 1 << 30;
        cancel_said = 1;                    /* and the context is as good as before */
        T_OK(tiny_parallel(ctx, 0, 0, 0, count_member, done));
        t_close(ctx);
    }
}

static void fail_member(tiny_team *team, void *arg)
{
    (void)arg;
    if (team->i == team->n - 1) tiny_team_fail(team, TINY_E_NUMERIC, "row 7 is not positive");
    tiny_barrier(team);
    tiny_team_fail(team, TINY_E_IO, "a later failure");
}

static void nested_member(tiny_team *team, void *arg)
{
    tiny_ctx *ctx = (tiny_ctx *)arg;
    if (team->i == 0 && tiny_parallel(ctx, 0, 0, 0, fail_member, NULL) != TINY_E_ARGUMENT) tiny_team_fail(team, TINY_E_NUMERIC, "a region inside a region was opened");
}

static void test_failing(void)
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 3);
    tiny_ctx *ctx;
    d.max_bytes = 1 << 20;
    T_EQ_INT(tiny_ctx_open(&d, &ctx), TINY_OK);
    t_use(ctx);
    T_STATUS(tiny_parallel(ctx, 0, 0, 0, fail_member, NULL), TINY_E_NUMERIC, "row 7 is not positive");
    T_STATUS(tiny_parallel(ctx, 1, 0, 0, fail_member, NULL), TINY_E_NUMERIC, "row 7");
    T_STATUS(tiny_parallel(ctx, 0, 0, 0, NULL, NULL), TINY_E_ARGUMENT, "needs a function");
    T_STATUS(tiny_parallel(ctx, -1, 0, 0, fail_member, NULL), TINY_E_ARGUMENT, "-1");
    T_STATUS(tiny_parallel(ctx, 0, SIZE_MAX - 5, SIZE_MAX / 2, nested_member, ctx), TINY_E_OVERFLOW, "workspace of 3 threads");
    T_STATUS(tiny_parallel(ctx, 1, SIZE_MAX - 5, 64, nested_member, ctx), TINY_E_OVERFLOW, "workspace of 1 threads");
    T_STATUS(tiny_parallel(ctx, 1, 0, SIZE_MAX, nested_member, ctx), TINY_E_OVERFLOW, "workspace of 1 threads");
    T_STATUS(tiny_parallel(ctx, 0, 1 << 21, 0, nested_member, ctx), TINY_E_MEMORY, "max_bytes is 1048576");
    T_OK(tiny_parallel(ctx, 0, 0, 0, nested_member, ctx));
    T_EQ_INT(tiny_parallel(NULL, 0, 0, 0, fail_member, NULL), TINY_E_ARGUMENT);
    t_close(ctx);
}

#if T_PTHREAD
static int pool_refuses(void *user, int n, void (*task)(void *arg, int i), void *arg)
{
    (void)user; (void)n; (void)task; (void)arg;
    return 1;
}

static int pool_lies(void *user, int n, void (*task)(void *arg, int i), void *arg)
{
    (void)user; (void)n; (void)task; (void)arg;
    return 0;
}

static void test_lying_pool(void)
{
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 5);
    tiny_ctx *ctx;
    sum_arg a;
    memset(&a, 0, sizeof a);
    d.pool.run = pool_lies;
    T_EQ_INT(tiny_ctx_open(&d, &ctx), TINY_OK);
    t_use(ctx);
    T_STATUS(tiny_parallel(ctx, 0, 10, 100, sum_member, &a), TINY_E_ARGUMENT, "the pool said that it ran 5 tasks, but did not");
    t_close(ctx);
}

static void test_own_pool(void)
{
    int k;
    for (k = 0; k < 2; k++) {
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 5);
        tiny_ctx *ctx;
        sum_arg a;
        memset(&a, 0, sizeof a);
        a.n = 100;
        a.phases = 20;
        a.grain = 1;
        a.hit = (int *)t_keep((size_t)(a.n * a.phases) * sizeof(int));
        d.pool.run = k ? pool_refuses : t_pool_run;
        T_EQ_INT(tiny_ctx_open(&d, &ctx), TINY_OK);
        t_use(ctx);
        T_OK(tiny_parallel(ctx, 0, 10, 100, sum_member, &a));
        T_EQ_INT(a.wrong, 0);
        T_EQ_INT(a.hit[a.n * a.phases - 1], 1);
        T_EQ_INT(a.members[4], !k);         /* a pool that refuses: one thread does it all */
        t_close(ctx);
    }
}
#endif

int main(void)
{
    T_RUN(test_every_piece_once);
    T_RUN(test_loose);
#if T_PTHREAD && !defined __SANITIZE_THREAD__
    T_RUN(test_fork);
#endif
    T_RUN(test_cancel);
    T_RUN(test_failing);
#if T_PTHREAD
    T_RUN(test_own_pool);
    T_RUN(test_lying_pool);
#endif
    return t_done();
}
