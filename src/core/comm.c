/* src/core/comm.c - all-reduce in flight
 * Formula  x[i] = sum over the ranks of their x[i], float32, of p ranks:
 *          direct    ((x_0 + x_1) + x_2) + ...; so does star
 *          tree, doubling, halving   balanced trees; with p no power of two the first 2 (p - 2^k) ranks of the last two
 *                    are paired before
 *          ring      part c (of p) as ((x_c + x_(c+1)) + ...) modulo p
 *          The same on all ranks: either one rank computes a number, or all add in the same order.
 * Engine   a sum is a list of steps (core/hops.c). Each step sends a message, receives one, or both, and says how to
 *          use the received numbers. progress() advances the oldest sum as far as its messages allow. Later sums may
 *          only send the messages of direct sums, in the order that the peer expects. progress() needs the lock: the
 *          caller takes it in start and wait, the comm's thread otherwise.
 * Thread   the comm's thread sleeps while the caller waits, because the caller then does the work. It also sleeps while
 *          all sums in flight are short direct ones that have been sent: nothing can be gained until the caller waits.
 * Clock    on a virtual clock a sum has its own time, which begins at its start and advances as messages arrive. A wait
 *          advances the caller's clock. All of this follows from the program, not from the scheduling of threads. */
#include "core/comm.h"
#include "core/hops_inside.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

#define TINYI_COMM_SHORT 8192
#define TINYI_COMM_QUIET 16384              /* numbers in flight that a peer can send without our taking them out */
#define TINYI_COMM_SPIN_NS \
    60000u /* a sleep may end this much late, so a wait for a time polls the clock for this long before it */

typedef struct tinyi_sum {
    float *x;
    size_t n;
    uint64_t number, at;                    /* at: virtual clock */
    uint64_t call;                          /* of net->calls: for the tags */
    unsigned tag;
    /* ready: the messages of the step are set up; done: waiting to be waited for */
    int way, step, ready, done;
    int from;                               /* direct: whose numbers come next */
    tiny_message *out;                      /* direct: (world) */
    tiny_message send, recv;
} tinyi_sum;

struct tiny_comm {
    tiny_ctx *ctx;
    tiny_net *net;
    size_t n_most, n_short;
    int way, world, rank;
    uint64_t timeout_ns, clock, waited_ns;
    tinyi_sum sum[TINY_COMM_FLIGHTS];       /* number s stands at s % TINY_COMM_FLIGHTS */
    uint64_t first, next;                   /* sums first .. next - 1 are unfinished */
    unsigned char used[TINY_COMM_FLIGHTS];
    float *got, *acc;                       /* (n_most): what comes, what is summed up; of the oldest sum */
    tiny_message *out;                      /* (TINY_COMM_FLIGHTS, world) */
    uint64_t look_at;                       /* when the next message will have arrived; 0: not known */
    uint64_t last_end;                      /* virtual clock: when the last sum was done */
    tiny_status failed;
    char says[240];
    int waiting, quit, has_thread, finite;
    uint64_t soft_ns, slow[TINY_NET_RANKS];
    void (*say_slow)(void *user, int rank, uint64_t waited_ns);
    void *user;
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;
    pthread_cond_t idle;
    pthread_t thread;
#endif
};

static void tinyi_comm_lock(tiny_comm *c)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_lock(&c->lock);
#else
    (void)c;
#endif
}
static void tinyi_comm_unlock(tiny_comm *c)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_unlock(&c->lock);
#else
    (void)c;
#endif
}

static void tinyi_comm_give_up(tiny_comm *c, tiny_status st, const char *says)
{
    if (c->failed) return;
    c->failed = st;
    c->net->why = st;
    (void)snprintf(c->says, sizeof c->says, "%s", says);
    c->first = c->next;                     /* their memory is not touched any more */
    c->net->close(c->net);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static void tinyi_comm_add(float *y, const float *a, const float *b, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) y[i] = a[i] + b[i];
}
TINY_REF_END

static void tinyi_comm_message(tiny_message *m, const tinyi_sum *s, int step, float *x, size_t n)
{
    memset(m, 0, sizeof *m);
    m->tag = s->call << 16 | (uint64_t)(unsigned)step << 8 | s->tag;
    m->data = x;
    m->n = n * sizeof *x;
    m->at = s->at;
}

/* NaN and infinities would spread to every rank's text, and nobody would know from where. */
static int tinyi_comm_finite(tiny_comm *c, int from, const float *x, size_t n, tiny_status *st)
{
    size_t i;
    for (i = 0; i < n && c->finite; i++)
        if (!(x[i] - x[i] == 0.0f)) {
            c->net->gone = from + 1;
            (void)snprintf(c->net->says, sizeof c->net->says, "rank %d sent a number that is not finite", from);
            *st = TINY_E_PROTOCOL;
            return 0;
        }
    return 1;
}

/* A step sum as far as it goes. 1: it is done. */
static int tinyi_comm_steps(tiny_comm *c, tinyi_sum *s, tiny_status *st)
{
    for (;;) {
        tinyi_hop t;
        if (!tinyi_hop_allreduce(s->way, c->rank, c->world, s->n, s->step, &t)) return 1;
        if (!s->ready) {
            if (s->step == 0) s->at = TINYI_MAX(s->at, c->last_end);
            tinyi_comm_message(&s->send, s, s->step, s->x + t.to_at, t.to_n);
            tinyi_comm_message(&s->recv, s, s->step, t.how != TINYI_HOP_PUT ? c->got : s->x + t.from_at, t.from_n);
            s->recv.at = 0;
            s->send.whole = t.to < 0;
            s->recv.whole = t.from < 0;
            s->ready = 1;
        }
        if (!s->send.whole && (*st = c->net->send(c->net, t.to, &s->send)) != TINY_OK) return 0;
        if (!s->recv.whole && (*st = c->net->recv(c->net, t.from, &s->recv)) != TINY_OK) return 0;
        if (!s->recv.whole && !s->recv.begun) c->look_at = s->recv.at;
        if (!s->send.whole || !s->recv.whole) return 0;
        if (t.from >= 0 &&
            !tinyi_comm_finite(c, t.from, (const float *)s->recv.data, s->recv.n / sizeof(float), st))
            return 0;
        if (t.from >= 0 && t.how == TINYI_HOP_THEIRS)
            tinyi_comm_add(s->x + t.from_at, c->got, s->x + t.from_at, t.from_n);
        if (t.from >= 0 && t.how == TINYI_HOP_MINE)
            tinyi_comm_add(s->x + t.from_at, s->x + t.from_at, c->got, t.from_n);
        if (t.from >= 0 && c->net->virtual_clock) s->at = TINYI_MAX(s->at, s->recv.at);
        s->step++;
        s->ready = 0;
    }
}

/* What a direct sum sends. 1: all of it is sent. */
static int tinyi_comm_sent(tiny_comm *c, tinyi_sum *s, tiny_status *st)
{
    int i, all = 1;
    for (i = 0; i < c->world; i++) {
        if (i == c->rank || s->out[i].whole) continue;
        *st = c->net->send(c->net, i, &s->out[i]);
        if (*st) return 0;
        all &= s->out[i].whole;
    }
    return all;
}

/* The oldest, direct one. 1: it is done. */
static int tinyi_comm_direct(tiny_comm *c, tinyi_sum *s, tiny_status *st)
{
    for (; s->from < c->world; s->from++, s->ready = 0) {
        const int from = s->from;
        if (from != c->rank) {
            if (!s->ready) {
                tinyi_comm_message(&s->recv, s, 0, from ? c->got : c->acc, s->n);
                s->recv.at = 0;
                s->ready = 1;
            }
            *st = c->net->recv(c->net, from, &s->recv);
            if (*st) return 0;
            if (!s->recv.whole) {
                if (!s->recv.begun) c->look_at = s->recv.at;
                return 0;
            }
            if (!tinyi_comm_finite(c, from, (const float *)s->recv.data, s->n, st)) return 0;
            if (c->net->virtual_clock) s->at = TINYI_MAX(s->at, s->recv.at);
            if (from) tinyi_comm_add(c->acc, c->acc, c->got, s->n);
        } else if (from) tinyi_comm_add(c->acc, c->acc, s->x, s->n);
        else memcpy(c->acc, s->x, s->n * sizeof *s->x);
    }
    if (!tinyi_comm_sent(c, s, st)) return 0;           /* x is still being read */
    memcpy(s->x, c->acc, s->n * sizeof *s->x);
    return 1;
}

/* the rank whose message, or whose room for one, the oldest sum waits for */
static int tinyi_comm_awaits(const tiny_comm *c)
{
    const tinyi_sum *s = &c->sum[c->first % TINY_COMM_FLIGHTS];
    tinyi_hop t;
    int i;
    if (s->way == TINY_COMM_DIRECT) {
        if (s->from < c->world) return s->from;
        for (i = 0; i < c->world; i++) if (i != c->rank && !s->out[i].whole) return i;
        return c->rank;
    }
    if (!tinyi_hop_allreduce(s->way, c->rank, c->world, s->n, s->step, &t)) return c->rank;
    return t.from >= 0 && !s->recv.whole ? t.from : t.to >= 0 ? t.to : c->rank;
}

/* As far as the messages allow; under the lock. 1: a sum was finished. */
static int tinyi_comm_progress(tiny_comm *c)
{
    tiny_status st = TINY_OK;
    uint64_t i;
    int some = 0;
    c->look_at = 0;
    while (c->first != c->next && !c->failed) {
        tinyi_sum *s = &c->sum[c->first % TINY_COMM_FLIGHTS];
        int done;
        /* sends, in order, up to the first that must wait for its turn */
        for (i = c->first; i != c->next && !st; i++) {
            tinyi_sum *next = &c->sum[i % TINY_COMM_FLIGHTS];
            if (next->way != TINY_COMM_DIRECT || !tinyi_comm_sent(c, next, &st)) break;
        }
        done = st ? 0 : s->way == TINY_COMM_DIRECT ? tinyi_comm_direct(c, s, &st) : tinyi_comm_steps(c, s, &st);
        if (st) {
            tinyi_comm_give_up(c, st, c->net->says);
            return 1;
        }
        if (!done) break;
        s->done = 1;
        c->last_end = s->at;
        c->first++;
        some = 1;
    }
    return some;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

#if TINYI_HAVE_HELPERS
/* there is nothing to gain until the caller waits: under the lock */
static int tinyi_comm_quiet(const tiny_comm *c)
{
    uint64_t i;
    size_t n = 0;
    int k;
    if (c->waiting || c->failed) return 1;
    for (i = c->first; i != c->next; i++) {
        const tinyi_sum *s = &c->sum[i % TINY_COMM_FLIGHTS];
        if (s->way != TINY_COMM_DIRECT) return 0;
        for (k = 0; k < c->world; k++) if (k != c->rank && !s->out[k].whole) return 0;
        n += s->n;
    }
    return n <= TINYI_COMM_QUIET;
}

static void *tinyi_comm_main(void *arg)
{
    tiny_comm *c = (tiny_comm *)arg;
    tinyi_comm_lock(c);
    while (!c->quit) {
        const uint64_t seen = c->net->changes(c->net);
        uint64_t until;
        if (!tinyi_comm_quiet(c)) (void)tinyi_comm_progress(c);
        if (tinyi_comm_quiet(c)) {
            (void)pthread_cond_wait(&c->idle, &c->lock);
            continue;
        }
        until = c->look_at ? c->look_at : UINT64_MAX;
        tinyi_comm_unlock(c);
        c->net->pause(c->net, seen, until);
        tinyi_comm_lock(c);
    }
    tinyi_comm_unlock(c);
    return NULL;
}
#endif

/* there may be work for it: under the lock */
static void tinyi_comm_call(tiny_comm *c)
{
#if TINYI_HAVE_HELPERS
    if (c->has_thread && (c->quit || !tinyi_comm_quiet(c))) {
        (void)pthread_cond_signal(&c->idle);
        c->net->wake(c->net);
    }
#else
    (void)c;
#endif
}

/* ---- what is called ---------------------------------------------------------------------------------------------- */

TINY_API tiny_status tiny_comm_open(tiny_ctx *ctx, const tiny_comm_desc *desc, tiny_comm **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_comm *c;
    size_t i, all;
    if (out) *out = NULL;
    if (st) return st;
    if (!out || !desc || !desc->net)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_comm_open needs the net of a rank and an output pointer");
    if (desc->net->world < 1 || desc->net->world > TINY_NET_RANKS || desc->net->rank < 0 ||
        desc->net->rank >= desc->net->world)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "rank %d of %d: ranks count from 0, and there may be at most %d", desc->net->rank,
                          desc->net->world, TINY_NET_RANKS);
    if (desc->way < 0 || desc->way >= TINY_COMM_WAYS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "way %d must be below %d", desc->way, TINY_COMM_WAYS);
    c = (tiny_comm *)tinyi_alloc(ctx, 1, sizeof *c);
    if (!c) return tiny_ctx_status(ctx);
    memset(c, 0, sizeof *c);
    c->ctx = ctx;
    c->net = desc->net;
    c->world = desc->net->world;
    c->rank = desc->net->rank;
    c->n_most = desc->n_most ? desc->n_most : 65536;
    c->n_short = desc->n_short ? desc->n_short : TINYI_COMM_SHORT;
    c->way = desc->way;
    c->finite = desc->finite;
    c->soft_ns = desc->soft_ns;
    c->say_slow = desc->slow;
    c->user = desc->user;
    c->timeout_ns = desc->timeout_ns ? desc->timeout_ns : UINT64_C(10000000000);
    if (!tinyi_size_mul(c->n_most, 2 * sizeof *c->got, &all))
        st = tinyi_fail(ctx, TINY_E_OVERFLOW, "sums of %zu numbers are more than this machine can address", c->n_most);
    if (!st && !(c->got = (float *)tinyi_alloc(ctx, c->n_most, 2 * sizeof *c->got))) st = tiny_ctx_status(ctx);
    if (!st && !(c->out = (tiny_message *)tinyi_alloc(ctx, (size_t)c->world * TINY_COMM_FLIGHTS, sizeof *c->out)))
        st = tiny_ctx_status(ctx);
    if (st) {
        tiny_free(ctx, c->got);
        tiny_free(ctx, c);
        return st;
    }
    c->acc = c->got + c->n_most;
    for (i = 0; i < TINY_COMM_FLIGHTS; i++) c->sum[i].out = c->out + i * (size_t)c->world;
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->idle, NULL);
#endif
#if TINYI_HAVE_HELPERS
    /* without a thread messages move during the calls */
    if (!desc->no_thread && c->world > 1) c->has_thread = pthread_create(&c->thread, NULL, tinyi_comm_main, c) == 0;
#endif
    *out = c;
    return TINY_OK;
}

TINY_API void tiny_comm_close(tiny_comm *c)
{
    if (!c) return;
    tinyi_comm_lock(c);
    c->quit = 1;
    if (c->first != c->next) tinyi_comm_give_up(c, TINY_E_PEER, "the comm was closed");
    tinyi_comm_call(c);
    tinyi_comm_unlock(c);
#if TINYI_HAVE_HELPERS
    if (c->has_thread) (void)pthread_join(c->thread, NULL);
#endif
    c->net->close(c->net);
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_destroy(&c->idle);
    (void)pthread_mutex_destroy(&c->lock);
#endif
    tiny_free(c->ctx, c->out);
    tiny_free(c->ctx, c->got);
    tiny_free(c->ctx, c);
}

TINY_API int tiny_comm_rank(const tiny_comm *c) { return c ? c->rank : 0; }
TINY_API int tiny_comm_world(const tiny_comm *c) { return c ? c->world : 1; }
TINY_API size_t tiny_comm_most(const tiny_comm *c) { return c ? c->n_most : 0; }
TINY_API const tiny_net *tiny_comm_net(const tiny_comm *c) { return c ? c->net : NULL; }
TINY_API void tiny_comm_spend(tiny_comm *c, uint64_t ns) { if (c && c->net->virtual_clock) c->clock += ns; }
TINY_API uint64_t tiny_comm_clock(const tiny_comm *c) { return c ? c->clock : 0; }
TINY_API uint64_t tiny_comm_slow(const tiny_comm *c, int rank)
{
    return c && rank >= 0 && rank < c->world ? c->slow[rank] : 0;
}
TINY_API uint64_t tiny_comm_waited(const tiny_comm *c) { return c ? c->waited_ns : 0; }

TINY_API void tiny_comm_abort(tiny_comm *c)
{
    char says[80];
    if (!c) return;
    (void)snprintf(says, sizeof says, "rank %d gave up", c->rank);
    tinyi_comm_lock(c);
    tinyi_comm_give_up(c, TINY_E_CANCELLED, says);
    tinyi_comm_unlock(c);
}

TINY_API tiny_status tiny_allreduce_start(tiny_comm *c, float *x, size_t n, unsigned tag, uint64_t *handle)
{
    tiny_status st = TINY_OK;
    tinyi_sum *s;
    int i;
    if (!c) return TINY_E_ARGUMENT;
    if (!handle || (!x && n))
        return tinyi_fail(c->ctx, TINY_E_ARGUMENT, "tiny_allreduce_start needs numbers and a pointer for the handle");
    if (n > c->n_most)
        return tinyi_fail(c->ctx, TINY_E_ARGUMENT,
                          "a sum of %zu numbers; this comm was opened for at most %zu", n, c->n_most);
    if (tag > 255) return tinyi_fail(c->ctx, TINY_E_ARGUMENT, "tag %u, it must be 0 to 255", tag);
    tinyi_comm_lock(c);
    s = &c->sum[c->next % TINY_COMM_FLIGHTS];
    if (c->failed) st = tinyi_fail(c->ctx, c->failed, "%s", c->says);
    else if (c->used[c->next % TINY_COMM_FLIGHTS])
        st = tinyi_fail(c->ctx, TINY_E_ARGUMENT, "%d sums are in flight, the most that are possible: wait for one",
                        TINY_COMM_FLIGHTS);
    else {
        s->x = x;
        s->n = n;
        s->number = c->next;
        s->call = c->net->calls++;
        s->tag = tag;
        s->at = c->clock;
        s->step = s->ready = s->done = s->from = 0;
        s->way = c->way != TINY_COMM_AUTO ? c->way
                 : c->world <= 2          ? TINY_COMM_DIRECT
                 : c->net->star           ? TINY_COMM_STAR
                 : n <= c->n_short        ? TINY_COMM_DOUBLING
                                          : TINY_COMM_RING;
        for (i = 0; i < c->world; i++) tinyi_comm_message(&s->out[i], s, 0, x, n);
        c->used[c->next % TINY_COMM_FLIGHTS] = 1;
        *handle = c->next++;
        (void)tinyi_comm_progress(c);       /* sends, without waiting for a thread to wake */
        tinyi_comm_call(c);
    }
    tinyi_comm_unlock(c);
    return st;
}

TINY_API tiny_status tiny_allreduce_wait(tiny_comm *c, uint64_t handle)
{
    uint64_t start, end, wait_ns;
    int soft;
    tiny_status st = TINY_OK;
    tinyi_sum *s;
    if (!c) return TINY_E_ARGUMENT;
    soft = c->soft_ns != 0;
    s = &c->sum[handle % TINY_COMM_FLIGHTS];
    start = tiny_now_ns();
    tinyi_comm_lock(c);
    if (!c->failed && (!c->used[handle % TINY_COMM_FLIGHTS] || s->number != handle)) {
        st =
            tinyi_fail(c->ctx, TINY_E_ARGUMENT, "no sum with the handle %llu is in flight", (unsigned long long)handle);
        tinyi_comm_unlock(c);
        return st;
    }
    /* in a star, the others wait for rank 0, which then still has the time to find and name the rank that is late */
    wait_ns = s->way == TINY_COMM_STAR && c->rank && c->timeout_ns < UINT64_MAX / 2 ? 2 * c->timeout_ns : c->timeout_ns;
    end = wait_ns > UINT64_MAX - start ? UINT64_MAX : start + wait_ns;
    c->waiting = 1;
    while (!c->failed && !s->done) {
        const uint64_t seen = c->net->changes(c->net);
        uint64_t now, until;
        (void)tinyi_comm_progress(c);
        if (c->failed || s->done) break;
        now = tiny_now_ns();
        if (now >= end) {
            char says[160];
            const int late = tinyi_comm_awaits(c);
            (void)snprintf(says, sizeof says,
                           "rank %d waited %.3g s for sum %llu (tag %u), which is not complete without rank %d",
                           c->rank, 1e-9 * (double)wait_ns, (unsigned long long)handle, s->tag, late);
            /* in other ways that rank may itself wait for another one */
            if ((s->way == TINY_COMM_STAR || c->world == 2) && late != c->rank) c->net->gone = 1 + late;
            tinyi_comm_give_up(c, TINY_E_TIMEOUT, says);
            break;
        }
        until = c->look_at ? TINYI_MIN(end, c->look_at) : end;
        if (soft && now - start >= c->soft_ns) {
            const int rank = tinyi_comm_awaits(c);
            soft = 0;
            c->slow[rank]++;
            if (c->say_slow) {
                tinyi_comm_unlock(c);
                c->say_slow(c->user, rank, now - start);
                tinyi_comm_lock(c);
                continue;
            }
        }
        if (soft) until = TINYI_MIN(until, start + c->soft_ns);
        tinyi_comm_unlock(c);
        if (until == end || until > now + TINYI_COMM_SPIN_NS)
            c->net->pause(c->net, seen, until == end ? end : until - TINYI_COMM_SPIN_NS);
        else tinyi_pause();
        tinyi_comm_lock(c);
    }
    c->waiting = 0;
    c->waited_ns += tiny_now_ns() - start;
    if (c->failed) st = tinyi_fail(c->ctx, c->failed, "%s", c->says);
    else {
        c->used[handle % TINY_COMM_FLIGHTS] = 0;
        if (c->net->virtual_clock) c->clock = TINYI_MAX(c->clock, s->at);
        tinyi_comm_call(c);
    }
    tinyi_comm_unlock(c);
    return st;
}

TINY_API tiny_status tiny_allreduce(tiny_comm *c, float *x, size_t n, unsigned tag)
{
    uint64_t handle = 0;
    tiny_status st = tiny_allreduce_start(c, x, n, tag, &handle);
    return st ? st : tiny_allreduce_wait(c, handle);
}

/* Bytes and their squares, whose sums are exact in floats: p times the sum of squares is the square of the sum only
 * where all ranks have the same, and all of them see both. */
TINY_API tiny_status tiny_comm_agree(tiny_comm *c, const char *what, uint64_t value)
{
    float x[16];
    int i;
    tiny_status st;
    if (!c || !what) return TINY_E_ARGUMENT;
    if (c->n_most < 16)
        return tinyi_fail(c->ctx, TINY_E_ARGUMENT,
                          "a comm for sums of %zu numbers cannot compare values: open it for at least 16", c->n_most);
    for (i = 0; i < 8; i++) {
        x[i] = (float)(value >> 8 * i & 0xff);
        x[8 + i] = x[i] * x[i];
    }
    st = tiny_allreduce(c, x, 16, 255);
    for (i = 0; i < 8 && !st; i++)
        if ((double)c->world * (double)x[8 + i] != (double)x[i] * (double)x[i]) {
            char says[160];
            (void)snprintf(says, sizeof says, "the %s of rank %d is not the same on all other ranks", what, c->rank);
            tinyi_comm_lock(c);
            tinyi_comm_give_up(c, TINY_E_PROTOCOL, says);
            tinyi_comm_unlock(c);
            st = tinyi_fail(c->ctx, TINY_E_PROTOCOL, "%s", says);
        }
    return st;
}
