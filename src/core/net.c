/* src/core/net.c - messages between threads: a queue of bytes for each ordered pair of ranks, and a delay line
 *
 * Queue    a ring that one rank writes and one reads, each at its own pace; only the two counters are shared. A message
 *          is a head (tag, bytes, when it arrives) and its bytes; a full ring takes the rest later, as a socket would.
 * Delay    of a message of n bytes sent at t over a link of latency a and b seconds a byte: it leaves from max(t, link
 *          free) on, the link is free n b later, it arrives a after that. Each direction of each pair is a link; on a
 *          virtual clock with ports, all links of a rank share its two ports, and a message takes n b at both ends.
 * Sleep    each rank has one condition variable for its threads, and a count of changes: a message came, there is room
 *          again, a rank has closed. A thread that read the count before a change does not fall asleep after it. */
#include "core/net.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

#define TINYI_LINK_BYTES ((size_t)1 << 20)
#define TINYI_LINK_MOST ((size_t)1 << 30)
#define TINYI_NAP_NS 50000000u /* longest sleep: the clock of the system's waiting may be set back meanwhile */

typedef struct tinyi_link {                 /* from one rank to another */
    unsigned char *ring;
    tiny_idx head, tail;                    /* bytes that were ever written and read, modulo the size of a word */
    tiny_idx starved;                       /* the sender found no room: to be told when there is some */
    char pad[TINYI_ALIGN];
    uint64_t free_at;                       /* the sender's: when the line can take the next message */
} tinyi_link;
typedef struct tinyi_link_head { uint64_t tag, n, at; } tinyi_link_head;

typedef struct tinyi_local_rank {
    tiny_net net;
    tiny_local *local;
    tiny_idx changed;
    tiny_idx gone;                          /* 0, or 1 + 2 after a broken protocol + 4 times the rank to blame */
    uint64_t out_free_at, in_free_at;       /* of its ports */
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int has_lock;
#endif
} tinyi_local_rank;

struct tiny_local {
    int world;
    size_t bytes;                           /* of a ring: a power of two */
    uint64_t latency_ns;
    double ns_per_byte;
    tinyi_local_rank *rank;
    tinyi_link *link;                       /* (world, world): [from][to] */
    tiny_net_count *count;
    unsigned char *rings;
};

static uint64_t tinyi_local_changes(tiny_net *net)
{
    return (uint64_t)(size_t)tinyi_atomic_get(&((tinyi_local_rank *)net)->changed);
}

static void tinyi_local_wake(tiny_net *net)
{
    tinyi_local_rank *r = (tinyi_local_rank *)net;
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_lock(&r->lock);
    (void)tinyi_atomic_add(&r->changed, 1);
    (void)pthread_cond_broadcast(&r->wake);
    (void)pthread_mutex_unlock(&r->lock);
#else
    (void)tinyi_atomic_add(&r->changed, 1);
#endif
}

static void tinyi_local_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
#if TINYI_HAVE_PTHREAD
    tinyi_local_rank *r = (tinyi_local_rank *)net;
    (void)pthread_mutex_lock(&r->lock);
    while (tinyi_local_changes(net) == seen) {
        const uint64_t now = tiny_now_ns();
        if (now >= until) break;
        tinyi_wait(&r->wake, &r->lock, TINYI_MIN(until - now, TINYI_NAP_NS));
    }
    (void)pthread_mutex_unlock(&r->lock);
#else
    if (tinyi_local_changes(net) == seen && tiny_now_ns() < until) tinyi_pause();
#endif
}

static void tinyi_local_gone(tiny_net *net)
{
    tinyi_local_rank *r = (tinyi_local_rank *)net;
    int i;
    const tiny_idx blame = net->gone ? net->gone - 1 : net->rank;
    if (!tinyi_atomic_swap_if(&r->gone, 0, 1 + 2 * (net->why == TINY_E_PROTOCOL) + 4 * blame)) return;
    for (i = 0; i < net->world; i++) tinyi_local_wake(&r->local->rank[i].net);
}

static uint64_t tinyi_link_ns(const tiny_local *l, size_t n)
{
    return (uint64_t)TINYI_MIN((double)n * l->ns_per_byte + 0.5, 1e15);
}

/* n bytes of a ring from counter at on */
static void tinyi_link_copy(const tiny_local *l, unsigned char *ring, size_t at, unsigned char *data, size_t n, int put)
{
    const size_t i = at & (l->bytes - 1), first = TINYI_MIN(n, l->bytes - i);
    if (!n) return;
    if (put) {
        memcpy(ring + i, data, first);
        memcpy(ring, data + first, n - first);
    } else {
        memcpy(data, ring + i, first);
        memcpy(data + first, ring, n - first);
    }
}

/* rank `other` has ended: why */
static tiny_status tinyi_local_ended(tinyi_local_rank *me, int other, tiny_idx gone, const char *what)
{
    const int blame = (int)(gone / 4);
    me->net.gone = blame + 1;
    if (gone & 2) {
        (void)snprintf(me->net.says, sizeof me->net.says, "rank %d ended the group: it and rank %d do not do the same",
                       other, blame);
        return TINY_E_PROTOCOL;
    }
    if (blame != other)
        (void)snprintf(me->net.says, sizeof me->net.says, "rank %d is gone, says rank %d", blame, other);
    else (void)snprintf(me->net.says, sizeof me->net.says, "rank %d is gone: rank %d %s", other, me->net.rank, what);
    return TINY_E_PEER;
}

static tiny_status tinyi_local_nobody(tiny_net *net, int other)
{
    (void)snprintf(net->says, sizeof net->says, "rank %d has no link to rank %d", net->rank, other);
    return TINY_E_ARGUMENT;
}

static tiny_status tinyi_local_send(tiny_net *net, int to, tiny_message *m)
{
    tinyi_local_rank *me = (tinyi_local_rank *)net;
    tiny_local *l = me->local;
    tinyi_link *k;
    tiny_idx gone;
    int told = 0, some = 0;
    if (to < 0 || to >= l->world || to == net->rank) return tinyi_local_nobody(net, to);
    k = &l->link[net->rank * l->world + to];
    gone = tinyi_atomic_get(&l->rank[to].gone);
    if (gone) return tinyi_local_ended(me, to, gone, "cannot send to it");
    while (!m->whole) {
        size_t head = (size_t)k->head, room = l->bytes - (head - (size_t)tinyi_atomic_get(&k->tail)), n;
        if (room < (m->begun ? 1 : sizeof(tinyi_link_head))) {
            if (told) break;
            /* the flag first, then another look: either we see the room, or the reader the flag */
            (void)tinyi_atomic_add(&k->starved, 1);
            told = 1;
            continue;
        }
        if (!m->begun) {
            tinyi_link_head h;
            h.tag = m->tag;
            h.n = m->n;
            h.at = net->virtual_clock ? m->at : l->latency_ns || l->ns_per_byte > 0.0 ? tiny_now_ns() : 0;
            if (l->latency_ns || l->ns_per_byte > 0.0) {
                uint64_t *free_at = net->virtual_clock == 2 ? &me->out_free_at : &k->free_at;
                *free_at = TINYI_MAX(h.at, *free_at) + tinyi_link_ns(l, m->n);
                h.at = *free_at + l->latency_ns;
            }
            tinyi_link_copy(l, k->ring, head, (unsigned char *)&h, sizeof h, 1);
            head += sizeof h;
            room -= sizeof h;
            m->begun = 1;
        }
        n = TINYI_MIN(room, m->n - m->done);
        tinyi_link_copy(l, k->ring, head, (unsigned char *)m->data + m->done, n, 1);
        m->done += n;
        m->whole = m->done == m->n;
        net->count[to].bytes_sent += n;
        net->count[to].messages_sent += (uint64_t)m->whole;
        tinyi_atomic_set(&k->head, (tiny_idx)(head + n));
        told = 0;
        some = 1;
    }
    if (some) tinyi_local_wake(&l->rank[to].net);
    return TINY_OK;
}

static tiny_status tinyi_local_recv(tiny_net *net, int from, tiny_message *m)
{
    tinyi_local_rank *me = (tinyi_local_rank *)net;
    tiny_local *l = me->local;
    tinyi_link *k;
    tiny_idx gone;
    size_t tail, here, n;
    if (from < 0 || from >= l->world || from == net->rank) return tinyi_local_nobody(net, from);
    k = &l->link[from * l->world + net->rank];
    /* before the counter: what it sent last is seen */
    gone = tinyi_atomic_get(&l->rank[from].gone);
    tail = (size_t)k->tail;
    here = (size_t)tinyi_atomic_get(&k->head) - tail;
    if (!here && gone) {
        char what[60];
        (void)snprintf(what, sizeof what, "waits for %lu more bytes from it", (unsigned long)(m->n - m->done));
        return tinyi_local_ended(me, from, gone, what);
    }
    if (!here) return TINY_OK;
    if (!m->begun) {
        tinyi_link_head h;                  /* written at once: it is there as a whole */
        tinyi_link_copy(l, k->ring, tail, (unsigned char *)&h, sizeof h, 0);
        if (h.tag != m->tag || h.n != m->n) {
            (void)snprintf(net->says, sizeof net->says,
                           "rank %d sent %lu bytes with tag %llx, rank %d awaits %lu with tag %llx", from,
                           (unsigned long)h.n, (unsigned long long)h.tag, net->rank, (unsigned long)m->n,
                           (unsigned long long)m->tag);
            m->tag = h.tag;
            net->gone = from + 1;
            return TINY_E_PROTOCOL;
        }
        m->at = h.at;
        if (net->virtual_clock == 2) {      /* its first byte comes as late as the port is free */
            const uint64_t ns = tinyi_link_ns(l, m->n);
            me->in_free_at = TINYI_MAX(h.at - TINYI_MIN(h.at, ns), me->in_free_at) + ns;
            m->at = me->in_free_at;
        }
        if (!net->virtual_clock && h.at && h.at > tiny_now_ns()) return TINY_OK;
        m->begun = 1;
        tail += sizeof h;
        here -= sizeof h;
    }
    n = TINYI_MIN(here, m->n - m->done);
    tinyi_link_copy(l, k->ring, tail, (unsigned char *)m->data + m->done, n, 0);
    m->done += n;
    m->whole = m->done == m->n;
    net->count[from].bytes_received += n;
    net->count[from].messages_received += (uint64_t)m->whole;
    tinyi_atomic_set(&k->tail, (tiny_idx)(tail + n));
    if (tinyi_atomic_add(&k->starved, 0)) {
        tinyi_atomic_set(&k->starved, 0);
        tinyi_local_wake(&l->rank[from].net);
    }
    if (!m->whole && gone) return tinyi_local_ended(me, from, gone, "has only a part of its message");
    return TINY_OK;
}

TINY_API void tiny_local_delay(tiny_local *l, uint64_t latency_ns, double bits_per_second)
{
    if (!l) return;
    l->latency_ns = TINYI_MIN(latency_ns, UINT64_C(1000000000000000));      /* eleven days */
    l->ns_per_byte = bits_per_second > 0.0 ? 8e9 / bits_per_second : 0.0;
}

TINY_API tiny_status tiny_local_open(tiny_ctx *ctx, const tiny_local_desc *desc, tiny_local **out)
{
    const int world = desc && desc->world ? desc->world : 1;
    size_t bytes = desc && desc->queue_bytes ? desc->queue_bytes : TINYI_LINK_BYTES, size = 2 * sizeof(tinyi_link_head),
           all;
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_local *l;
    int i, j;
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_local_open needs an output pointer");
    if (world < 1 || world > TINY_NET_RANKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d ranks, there must be 1 to %d", world, TINY_NET_RANKS);
    if (desc && (desc->virtual_clock < 0 || desc->virtual_clock > 2))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "virtual_clock %d must be 0 to 2", desc->virtual_clock);
    if (bytes > TINYI_LINK_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "queues of %zu bytes, the maximum is %zu", bytes, TINYI_LINK_MOST);
    if (desc && !(desc->bits_per_second >= 0.0 && desc->bits_per_second <= 1e15))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "links of %g bits per second, they must be 0 (no limit) to 1e15",
                          desc->bits_per_second);
    while (size < bytes || (size & (size - 1))) size += size & (~size + 1);     /* the next power of two */
    if (!tinyi_size_mul(size, (size_t)world * (size_t)world, &all))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "queues of %zu bytes between %d ranks are more than this machine can address", size, world);
    l = (tiny_local *)tinyi_alloc(ctx, 1, sizeof *l);
    if (!l) return tiny_ctx_status(ctx);
    memset(l, 0, sizeof *l);
    l->world = world;
    l->bytes = size;
    if (desc) tiny_local_delay(l, desc->latency_ns, desc->bits_per_second);
    l->rank = (tinyi_local_rank *)tinyi_alloc(ctx, (size_t)world, sizeof *l->rank);
    if (l->rank) memset(l->rank, 0, (size_t)world * sizeof *l->rank);
    l->link = (tinyi_link *)tinyi_alloc(ctx, (size_t)world * (size_t)world, sizeof *l->link);
    if (l->link) memset(l->link, 0, (size_t)world * (size_t)world * sizeof *l->link);
    l->count = (tiny_net_count *)tinyi_alloc(ctx, (size_t)world * (size_t)world, sizeof *l->count);
    if (l->count) memset(l->count, 0, (size_t)world * (size_t)world * sizeof *l->count);
    l->rings = world > 1 ? (unsigned char *)tinyi_alloc(ctx, (size_t)world * (size_t)world, size) : NULL;
    if (!l->rank || !l->link || !l->count || (world > 1 && !l->rings)) {
        tiny_local_close(ctx, l);
        return tiny_ctx_status(ctx);
    }
    for (i = 0; i < world; i++) {
        tinyi_local_rank *r = &l->rank[i];
        r->local = l;
        r->net.rank = i;
        r->net.world = world;
        r->net.virtual_clock = desc ? desc->virtual_clock : 0;
        r->net.send = tinyi_local_send;
        r->net.recv = tinyi_local_recv;
        r->net.close = tinyi_local_gone;
        r->net.changes = tinyi_local_changes;
        r->net.pause = tinyi_local_pause;
        r->net.wake = tinyi_local_wake;
        r->net.count = l->count + i * world;
        for (j = 0; l->rings && j < world; j++)
            l->link[i * world + j].ring = l->rings + ((size_t)i * (size_t)world + (size_t)j) * size;
#if TINYI_HAVE_PTHREAD
        (void)pthread_mutex_init(&r->lock, NULL);
        (void)pthread_cond_init(&r->wake, NULL);
        r->has_lock = 1;
#endif
    }
    *out = l;
    return TINY_OK;
}

TINY_API tiny_net *tiny_local_net(tiny_local *l, int rank)
{
    return l && rank >= 0 && rank < l->world ? &l->rank[rank].net : NULL;
}

TINY_API void tiny_local_close(tiny_ctx *ctx, tiny_local *l)
{
#if TINYI_HAVE_PTHREAD
    int i;
    for (i = 0; l && l->rank && i < l->world; i++)
        if (l->rank[i].has_lock) {
            (void)pthread_cond_destroy(&l->rank[i].wake);
            (void)pthread_mutex_destroy(&l->rank[i].lock);
        }
#endif
    if (!l) return;
    tiny_free(ctx, l->rank);
    tiny_free(ctx, l->link);
    tiny_free(ctx, l->count);
    tiny_free(ctx, l->rings);
    tiny_free(ctx, l);
}

TINYI_FN tiny_status tinyi_net_end(const tiny_ctx *ctx, tiny_net *net, tiny_status st)
{
    if (!net || net->why) return st;
    if (!*net->says) tinyi_keep_says(net->says, sizeof net->says, tiny_ctx_message(ctx));
    net->why = st;
    net->close(net);
    return st;
}
