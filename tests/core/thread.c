/* tests/core/thread.c - regions, barriers, takes; cancelling and failing in the middle */
#define T_INTERNALS                         /* tinyi_team_until, n_cpus of a context */
#include "t.h"
#if T_PTHREAD
#include <sys/wait.h>
#include <unistd.h>
#endif

typedef struct sum_arg {
    int *hit;                               /* how often each piece was done, per phase */
    tiny_idx n, phases, grain;
    int wrong;                              /* a phase began before the one before had ended */
    int members[TINY_MAX_THREADS];
    /* its path depends on no other thread: a late worker skips the finished phases */
    int late;
} sum_arg;

static void sum_member(tiny_team *team, void *arg)
{
    sum_arg *a = (sum_arg *)arg;
    tiny_idx p, i, i0, i1;
    a->members[team->i]++;
    if (a->late) tinyi_team_until(team, PTRDIFF_MAX);
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

/* Threads enter a loose region at any time: nothing is skipped and nothing is done twice, for any number of threads. */
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
            /* teams of other sizes and strict ones between: a worker that is late for one must not disturb the next */
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

#if TINYI_HAVE_HELPERS
typedef struct late_arg {
    /* barriers before thread 0 begins to wait; its argument of tinyi_team_until, 0: no call */
    int phases, until;
    int here, latest;                       /* workers past all barriers; the last phase that one entered */
} late_arg;

static void wait_for(const int *flag, double seconds)
{
    const uint64_t end = tiny_now_ns() + (uint64_t)(seconds * 1e9);
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE) && tiny_now_ns() < end) (void)usleep(50);
}

static void late_member(tiny_team *team, void *arg)
{
    late_arg *a = (late_arg *)arg;
    int p, from = (int)team->from;
    if (a->until) tinyi_team_until(team, a->until);
    for (p = 0; p < a->phases; p++) tiny_barrier(team);
    if (team->i == 0) {
        if (team->n > 1) wait_for(&a->here, 0.2);
        return;
    }
    if (from > a->latest) a->latest = from;
    __atomic_store_n(&a->here, 1, __ATOMIC_RELEASE);
}

/* The caller finishes the first phase before a worker is woken or created: the worker still enters, unless two phases
 * are over. */
static void test_late_workers(void)
{
    int round;
    for (round = 0; round < 30; round++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
        const uint64_t end = tiny_now_ns() + 20000000000u;
        late_arg a = { 1, 0, 0, 0 };
        do T_OK(tiny_parallel_loose(ctx, 0, 0, 0, late_member, &a));
        /* a worker that shared the caller's processor sleeps for a moment */
        while (!a.here && tiny_now_ns() < end);
        T_EQ_INT(a.here, 1);
        T_TRUE(a.latest <= 1);
        a.here = a.latest = 0;
        a.phases = 5;
        a.until = 5;
        do T_OK(tiny_parallel_loose(ctx, 0, 0, 0, late_member, &a));
        while (!a.here && tiny_now_ns() < end);
        T_EQ_INT(a.here, 1);
        T_TRUE(a.latest <= 5);
        if (round < 3) {
            a.here = a.latest = a.until = 0;
            a.phases = 3;
            T_OK(tiny_parallel_loose(ctx, 0, 0, 0, late_member, &a));
            T_TRUE(a.latest <= 1);
        }
        t_close(ctx);
    }
}

/* Two operations: the first looks at x outside of takes, the second writes x. */
static int peeked_wrong, poke_had_help;
static tiny_status like_in_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    (void)ctx;
    want[0] = *op->in[0];
    return TINY_OK;
}
static void much_cost(const tiny_op *op, tiny_cost *c)
{
    (void)op;
    c->flops = c->bytes = 1e9;
}
static void no_ref(const tiny_op *op) { (void)op; }
static void peek_fast(tiny_team *team, const tiny_op *op)
{
    const float *x = (const float *)op->in[0]->data;
    tiny_idx i, i0, i1;
    for (i = 0; i < op->in[0]->dim[0]; i++)
        if (x[i] != 1.0f) peeked_wrong = 1;
    while (tiny_take(team, op->in[0]->dim[0], 16, &i0, &i1))
        for (; i0 < i1; i0++) ((float *)op->out[0]->data)[i0] = x[i0];
}
static void pass_fast(tiny_team *team, const tiny_op *op)
{
    (void)op;
    tiny_barrier(team);
    tiny_barrier(team);
}
static void poke_fast(tiny_team *team, const tiny_op *op)
{
    tiny_idx i0, i1;
    while (tiny_take(team, op->in[0]->dim[0], 16, &i0, &i1))
        for (; i0 < i1; i0++) ((float *)op->out[0]->data)[i0] = 2.0f;
    if (team->i) __atomic_store_n(&poke_had_help, 1, __ATOMIC_RELEASE);
    else if (team->n > 1)
        wait_for(&poke_had_help,
                 op->in[0]->dim[0] == 64 ? 0.002 : 0.2); /* a worker that enters too late has time to show it */
}

/* three barriers: a worker that enters after the second one has read nothing that others still write, but the list must
 * not admit it */
static int slow_latest;
static void slow_fast(tiny_team *team, const tiny_op *op)
{
    const int first = (int)team->phase;
    int p, never = 0;
    (void)op;
    for (p = 0; p < 3; p++) tiny_barrier(team);
    if (team->i == 0) {
        if (team->n > 1) wait_for(&never, 0.05);
    } else if ((int)team->from - first > slow_latest) slow_latest = (int)team->from - first;
}

static void test_workers_and_lists(void)
{
    tiny_op_row peek, poke, pass, slow;
    float x[65], y[65], z[65];
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, 64), ty = tiny_tensor_1d(y, TINY_F32, 64),
                tz = tiny_tensor_1d(z, TINY_F32, 64);
    tiny_op first, second;
    const tiny_op *list[2];
    int round, i;
    memset(&peek, 0, sizeof peek);
    peek.name = "peek";
    peek.n_in = peek.n_in_needed = peek.n_out = 1;
    peek.flags = TINY_OP_LOOSE;
    peek.shape = like_in_shape;
    peek.ref = no_ref;
    peek.cost = much_cost;
    poke = pass = slow = peek;
    slow.fast = slow_fast;
    peek.fast = peek_fast;
    poke.fast = poke_fast;
    pass.fast = pass_fast;
    pass.flags = TINY_OP_LOOSE | TINY_OP_LATE;
    memset(&first, 0, sizeof first);
    first.in[0] = &tx;
    first.out[0] = &ty;
    second = first;
    second.in[0] = &tz;
    second.out[0] = &tx;
    second.row = &poke;
    list[0] = &first;
    list[1] = &second;
    memset(z, 0, sizeof z);
    for (round = 0; round < 60; round++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
        const uint64_t end = tiny_now_ns() + 20000000000u;
        tx.dim[0] = ty.dim[0] = tz.dim[0] = 64;
        for (i = 0; i < 65; i++) x[i] = 1.0f;
        peeked_wrong = poke_had_help = 0;
        first.row = &peek;
        T_OK(tiny_run_list(ctx, list, 2));
        T_EQ_INT(peeked_wrong, 0);
        for (i = 0; i < 64 && x[i] == 2.0f && y[i] == 1.0f; i++) {}
        T_EQ_INT(i, 64);
        /* the first one reads nothing: workers enter the second, long after the first */
        tx.dim[0] = ty.dim[0] = tz.dim[0] = 65;
        poke_had_help = 0;
        first.row = &pass;
        do T_OK(tiny_run_list(ctx, list, 2));
        while (!poke_had_help && tiny_now_ns() < end);
        T_EQ_INT(poke_had_help, 1);
        if (round < 10) {
            second.row = &slow;
            slow_latest = 0;
            T_OK(tiny_run_list(ctx, list, 2));
            T_TRUE(slow_latest <= 1);
            second.row = &poke;
        }
        t_close(ctx);
    }
}

static void idle_member(tiny_team *team, void *arg)
{
    int *came = (int *)arg;
    if (team->i == 0) {
        if (team->n > 1) wait_for(came, 0.01);
        return;
    }
    __atomic_store_n(came, 1, __ATOMIC_RELEASE);
    (void)usleep(50000);                    /* no processor for the worker, as if another program had it */
}

/* A worker without a processor is left alone for a while, and is called again after it. */
static void test_idle_workers(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    uint64_t end = tiny_now_ns() + 30000000000u;
    int helped = 0, alone = 0, rests = 0;
    while (ctx->n_cpus > 1 && tinyi_cpu_used(tinyi_cpu_thread()) && rests < 2 && tiny_now_ns() < end) {
        int came = 0;
        T_OK(tiny_parallel_loose(ctx, 0, 0, 0, idle_member, &came));
        if (came) helped++;
        alone = came ? 0 : alone + 1;
        if (helped > rests && alone == 3) rests++;          /* three times 10 ms: a called worker would have entered */
    }
    if (ctx->n_cpus > 1 && tinyi_cpu_used(tinyi_cpu_thread())) T_EQ_INT(rests, 2);
    t_close(ctx);
}
#endif

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
#ifdef __GNUC__ /* the others must not finish before a busy machine schedules the first one */
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
    if (team->i == 0 && tiny_parallel(ctx, 0, 0, 0, fail_member, NULL) != TINY_E_ARGUMENT)
        tiny_team_fail(team, TINY_E_NUMERIC, "a region inside a region was opened");
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
    T_STATUS(tiny_parallel(ctx, 0, SIZE_MAX - 5, SIZE_MAX / 2, nested_member, ctx), TINY_E_OVERFLOW,
             "workspace of 3 threads");
    T_STATUS(tiny_parallel(ctx, 1, SIZE_MAX - 5, 64, nested_member, ctx), TINY_E_OVERFLOW, "workspace of 1 threads");
    T_STATUS(tiny_parallel(ctx, 1, 0, SIZE_MAX, nested_member, ctx), TINY_E_OVERFLOW, "workspace of 1 threads");
    T_STATUS(tiny_parallel(ctx, 0, 1 << 21, 0, nested_member, ctx), TINY_E_MEMORY, "max_bytes is 1048576");
    T_OK(tiny_parallel(ctx, 0, 0, 0, nested_member, ctx));
    T_TRUE(strstr(tiny_ctx_message(ctx), "a function of its team opens another") != NULL);
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

/* A second thread on a context in use is refused with a sentence. */
static tiny_status intruder_got;
static void *intruder(void *ctx)
{
    intruder_got = tiny_parallel((tiny_ctx *)ctx, 0, 0, 0, fail_member, NULL);
    return NULL;
}
static void visited_member(tiny_team *team, void *ctx)
{
    pthread_t other;
    if (team->i == 0 && !pthread_create(&other, NULL, intruder, ctx)) (void)pthread_join(other, NULL);
}
static void test_two_threads(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    intruder_got = TINY_OK;
    T_OK(tiny_parallel(ctx, 0, 0, 0, visited_member, ctx));
    T_EQ_INT(intruder_got, TINY_E_ARGUMENT);
    T_TRUE(strstr(tiny_ctx_message(ctx), "two threads use one context") != NULL);
    t_close(ctx);
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
    T_STATUS(tiny_parallel(ctx, 0, 10, 100, sum_member, &a), TINY_E_ARGUMENT,
             "the pool said that it ran 5 tasks, but did not");
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
#if TINYI_HAVE_HELPERS
    T_RUN(test_late_workers);
    T_RUN(test_workers_and_lists);
    T_RUN(test_idle_workers);
#endif
#if T_PTHREAD && !defined __SANITIZE_THREAD__
    T_RUN(test_fork);
#endif
    T_RUN(test_cancel);
    T_RUN(test_failing);
#if T_PTHREAD
    T_RUN(test_own_pool);
    T_RUN(test_lying_pool);
    T_RUN(test_two_threads);
#endif
    return t_done();
}
