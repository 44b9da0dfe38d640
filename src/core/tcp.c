/* src/core/tcp.c - a tiny_net over TLD1 and TCP, once it is open (tcp_open.c)
 *
 * Send     a message is cut into frames. A frame is built with its MAC in the peer's buffer and written as far as the
 *          socket takes it; the message is whole when its last byte is written.
 * Recv     bytes go into the peer's buffer. Only when a frame is complete and its MAC is right does its payload go to
 *          the caller. A frame of a message waits there until recv asks for it, and then so does everything behind it.
 *          A call takes a few frames at most, so a peer that sends pings without end cannot keep the caller from its
 *          deadline.
 * Pings    a thread sends one where nothing else was sent for ping_ns. So a rank that computes differs from one that is
 *          gone. Every byte is a sign of life: on a slow line a frame takes longer than three pings. Silence counts
 *          against a peer only after its first ping: a program without threads sends none. Others send that one at
 *          once, because a rank that is never quiet for long would send none before it stops.
 * Ends     ABORT names the rank that caused a failure, so that all ranks blame the same one. Sockets are half-closed
 *          first; a close with unread bytes would take back what was sent last.
 * Keys     those of the two directions are in memory of tinyi_secret_alloc: wiped at close, and in no core file where
 *          the system can leave them out. */
#include "core/bytes.h"
#include "core/tcp_open_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

#define TINYI_TCP_FRAMES 64                 /* that one call of recv takes */
#define TINYI_TCP_NAP_NS UINT64_C(50000000)             /* the longest sleep of pause */
#define TINYI_TCP_LAST_NS UINT64_C(300000000)           /* for the last bytes, at close */

static void tinyi_tcp_lock(tiny_tcp *t)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_lock(&t->lock);
#else
    (void)t;
#endif
}
static void tinyi_tcp_unlock(tiny_tcp *t)
{
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_unlock(&t->lock);
#else
    (void)t;
#endif
}

static tiny_status tinyi_tcp_fail(tiny_tcp *t, tiny_status st, int rank, const char *says)
{
    t->failed = st;
    t->net.gone = rank + 1;
    (void)snprintf(t->net.says, sizeof t->net.says, "%s", says);
    return st;
}
static tiny_status tinyi_tcp_blame(tiny_tcp *t, tiny_status st, int rank, const char *what)
{
    char says[200];
    (void)snprintf(says, sizeof says, "rank %d %s", rank, what);
    return tinyi_tcp_fail(t, st, rank, says);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

void tinyi_tcp_frame(tiny_tcp *t, tinyi_tcp_peer *p, int type, int flags, uint64_t tag, const void *payload, uint32_t n)
{
    tinyi_head h;
    memset(&h, 0, sizeof h);
    h.type = type;
    h.flags = flags;
    h.rank = (uint32_t)t->net.rank;
    h.n = n;
    h.number = p->n_out_frames++;
    h.tag = tag;
    tinyi_head_put(p->out, &h);
    if (n) memcpy(p->out + TINYI_WIRE_HEAD, payload, n);
    p->n_out = TINYI_WIRE_HEAD + n;
    p->out_at = 0;
    if (t->no_mac) memset(p->out + p->n_out, 0, TINYI_WIRE_MAC);
    else tinyi_wire_mac(&p->sends, p->out, p->n_out, p->out + p->n_out);
    p->n_out += TINYI_WIRE_MAC;
}

tiny_status tinyi_tcp_flush(tinyi_tcp_peer *p, int *left)
{
    tiny_status st = TINY_OK;
    *left = 0;
    while (p->out_at < p->n_out) {
        size_t put;
        st = tiny_socket_write(NULL, p->s, p->out + p->out_at, p->n_out - p->out_at, &put);
        if (st) return st;
        if (!put) {
            *left = 1;
            return TINY_OK;
        }
        p->out_at += put;
        p->sent_at = tiny_now_ns();
    }
    return TINY_OK;
}

int tinyi_tcp_look(tiny_tcp *t, tinyi_tcp_peer *p, int rank, tinyi_head *h, char says[TINYI_WIRE_SAYS])
{
    unsigned char mac[TINYI_WIRE_MAC];
    size_t n;
    if (p->n_in < TINYI_WIRE_HEAD) return -1;
    if (!tinyi_head_get(p->in, TINYI_TCP_MOST, h, says)) return 0;
    if (h->rank != (uint32_t)rank || h->number != p->n_in_frames || h->type <= TINYI_WIRE_AUTH) {
        (void)snprintf(says, TINYI_WIRE_SAYS, "sent a frame that is not the next one");
        return 0;
    }
    n = TINYI_WIRE_HEAD + h->n;
    if (p->n_in < n + TINYI_WIRE_MAC) return -1;
    if (t->no_mac) memset(mac, 0, sizeof mac);
    else tinyi_wire_mac(&p->receives, p->in, n, mac);
    if (!tiny_same_secret(mac, p->in + n, sizeof mac)) {
        (void)snprintf(says, TINYI_WIRE_SAYS, "sent a frame whose MAC is wrong");
        return 0;
    }
    return 1;
}
void tinyi_tcp_drop(tinyi_tcp_peer *p, const tinyi_head *h)
{
    const size_t n = TINYI_WIRE_HEAD + (size_t)h->n + TINYI_WIRE_MAC;
    p->n_in -= n;
    if (p->n_in) memmove(p->in, p->in + n, p->n_in);
    p->n_in_frames++;
}

static tiny_status tinyi_tcp_aborted(tiny_tcp *t, int from, const unsigned char *payload)
{
    const uint32_t rank = tinyi_le32(payload), why = tinyi_le32(payload + 4);
    const int known = rank < (uint32_t)t->net.world;
    char says[200];
    if (why == TINYI_ABORT_PROTOCOL) {
        (void)snprintf(says, sizeof says, "rank %d ended the group: it and rank %d do not do the same", from,
                       known ? (int)rank : from);
        return tinyi_tcp_fail(t, TINY_E_PROTOCOL, known ? (int)rank : from, says);
    }
    if (!known || (int)rank == from) {
        (void)snprintf(says, sizeof says, "rank %d %s", from,
                       why == TINYI_ABORT_STOPPED ? "gave up" : why == TINYI_ABORT_LATE ? "waited too long and gave up"
                                                                                        : "is gone: it gave up");
        return tinyi_tcp_fail(t, TINY_E_PEER, from, says);
    }
    (void)snprintf(says, sizeof says, "rank %d is %s, says rank %d", (int)rank,
                   why == TINYI_ABORT_LATE ? "too slow" : "gone", from);
    return tinyi_tcp_fail(t, TINY_E_PEER, (int)rank, says);
}

/* What is not a message. 1: done, the frame is dropped; 0: it is a message; -1: a failure. */
static int tinyi_tcp_control(tiny_tcp *t, tinyi_tcp_peer *p, int from, const tinyi_head *h)
{
    if (h->type == TINYI_WIRE_REDUCE) return 0;
    if (h->type == TINYI_WIRE_ABORT) {
        (void)tinyi_tcp_aborted(t, from, p->in + TINYI_WIRE_HEAD);
        return -1;
    }
    if (h->type == TINYI_WIRE_WELCOME) {
        (void)tinyi_tcp_blame(t, TINY_E_PROTOCOL, from, "sent a second WELCOME");
        return -1;
    }
    if (h->type == TINYI_WIRE_BYE) p->ended = 1;
    if (h->type == TINYI_WIRE_PING) {
        p->pings = 1;
        /* only where no frame is on its way; the next PING gets its answer */
        if (p->out_at == p->n_out && !t->closed) tinyi_tcp_frame(t, p, TINYI_WIRE_PONG, 0, 0, NULL, 0);
    }
    tinyi_tcp_drop(p, h);
    return 1;
}

/* The connection is broken: did the peer say why before? */
static tiny_status tinyi_tcp_broken(tiny_tcp *t, tinyi_tcp_peer *p, int from)
{
    const uint64_t until = tiny_now_ns() + TINYI_TCP_LAST_NS;
    char says[TINYI_WIRE_SAYS];
    tinyi_head h;
    for (;;) {
        size_t got = 0;
        int end = 0, seen;
        while ((seen = tinyi_tcp_look(t, p, from, &h, says)) == 1) {
            const int done = tinyi_tcp_control(t, p, from, &h);
            if (done < 0) return t->failed;
            if (!done) tinyi_tcp_drop(p, &h);
        }
        if (!seen || tiny_now_ns() >= until ||
            tiny_socket_read(NULL, p->s, p->in + p->n_in, TINYI_TCP_FRAME - p->n_in, &got, &end) || !got)
            break;
        p->n_in += got;
    }
    return tinyi_tcp_blame(t, TINY_E_PEER, from, p->ended ? "has ended" : "is gone");
}

static tiny_status tinyi_tcp_peer_of(tiny_tcp *t, int rank, tinyi_tcp_peer **p)
{
    if (t->failed) return t->failed;
    if (t->closed || rank < 0 || rank >= t->net.world || rank == t->net.rank || !t->peer[rank].live) {
        (void)snprintf(t->net.says, sizeof t->net.says, "rank %d has no connection to rank %d%s", t->net.rank, rank,
                       t->net.rank && rank ? ": in a star, all ranks are connected to rank 0 only" : "");
        return TINY_E_ARGUMENT;
    }
    *p = &t->peer[rank];
    return TINY_OK;
}

static tiny_status tinyi_tcp_send_to(tiny_tcp *t, tinyi_tcp_peer *p, int to, tiny_message *m)
{
    for (;;) {
        size_t n;
        int left;
        if (tinyi_tcp_flush(p, &left)) return tinyi_tcp_broken(t, p, to);
        p->writes = left;
        if (left) return TINY_OK;
        if (m->begun && m->done == m->n) {
            m->whole = 1;
            t->net.count[to].messages_sent++;
            t->net.count[to].bytes_sent += m->n;
            return TINY_OK;
        }
        n = TINYI_MIN(m->n - m->done, TINYI_MIN((size_t)p->most, (size_t)TINYI_TCP_MOST));
        tinyi_tcp_frame(t, p, TINYI_WIRE_REDUCE, m->done + n < m->n ? TINYI_WIRE_MORE : 0, m->tag,
                        (const unsigned char *)m->data + m->done, (uint32_t)n);
        m->begun = 1;
        m->done += n;
    }
}
static tiny_status tinyi_tcp_send(tiny_net *net, int to, tiny_message *m)
{
    tiny_tcp *t = (tiny_tcp *)net;
    tinyi_tcp_peer *p = NULL;
    tiny_status st;
    tinyi_tcp_lock(t);
    st = tinyi_tcp_peer_of(t, to, &p);
    if (!st) st = tinyi_tcp_send_to(t, p, to, m);
    tinyi_tcp_unlock(t);
    return st;
}

/* a frame of a message, complete and authentic, at the front of the buffer */
static tiny_status tinyi_tcp_part(tiny_tcp *t, tinyi_tcp_peer *p, int from, const tinyi_head *h, tiny_message *m)
{
    const int more = (h->flags & TINYI_WIRE_MORE) != 0;
    if (h->tag != m->tag || h->n > m->n - m->done || more != (h->n < m->n - m->done) || (more && !h->n)) {
        char says[200];
        (void)snprintf(says, sizeof says,
                       "rank %d sent %s%lu bytes with tag %llx, rank %d awaits %lu with tag %llx", from,
                       more ? "more than " : "", (unsigned long)(m->done + h->n), (unsigned long long)h->tag,
                       t->net.rank, (unsigned long)m->n, (unsigned long long)m->tag);
        m->tag = h->tag;
        return tinyi_tcp_fail(t, TINY_E_PROTOCOL, from, says);
    }
    if (h->n) memcpy((unsigned char *)m->data + m->done, p->in + TINYI_WIRE_HEAD, h->n);
    m->begun = 1;
    m->done += h->n;
    tinyi_tcp_drop(p, h);
    if (more) return TINY_OK;
    m->whole = 1;
    t->net.count[from].messages_received++;
    t->net.count[from].bytes_received += m->n;
    return TINY_OK;
}

static tiny_status tinyi_tcp_recv_from(tiny_tcp *t, tinyi_tcp_peer *p, int from, tiny_message *m)
{
    char says[TINYI_WIRE_SAYS];
    tiny_status st;
    int frames = 0;
    for (;;) {
        tinyi_head h;
        size_t got;
        int end, seen, left;
        while ((seen = tinyi_tcp_look(t, p, from, &h, says)) == 1) {
            int done;
            if (frames++ == TINYI_TCP_FRAMES) {         /* the rest is for the next call, and pause must not wait */
                p->reads = 1;
                (void)tinyi_atomic_add(&t->changed, 1);
                return TINY_OK;
            }
            done = tinyi_tcp_control(t, p, from, &h);
            if (done < 0) return t->failed;
            if (done) continue;
            st = tinyi_tcp_part(t, p, from, &h, m);
            if (st || m->whole) {
                p->reads = 0;
                return st;
            }
        }
        if (!seen) return tinyi_tcp_blame(t, TINY_E_PROTOCOL, from, says);
        if (p->ended) return tinyi_tcp_blame(t, TINY_E_PEER, from, "has ended");
        if (tiny_socket_read(NULL, p->s, p->in + p->n_in, TINYI_TCP_FRAME - p->n_in, &got, &end) || end)
            return tinyi_tcp_broken(t, p, from);
        p->n_in += got;
        if (got) {
            p->heard_at = tiny_now_ns();
            continue;
        }
        p->reads = 1;
        (void)tinyi_tcp_flush(p, &left);    /* a PONG; a broken connection shows when it is read */
        if (p->pings && tiny_now_ns() - p->heard_at > 3 * t->ping_ns + t->ping_ns / 2) {
            (void)snprintf(says, sizeof says, "is silent: three pings of %.3g s are missing",
                           1e-9 * (double)t->ping_ns);
            return tinyi_tcp_blame(t, TINY_E_PEER, from, says);
        }
        return TINY_OK;
    }
}
static tiny_status tinyi_tcp_recv(tiny_net *net, int from, tiny_message *m)
{
    tiny_tcp *t = (tiny_tcp *)net;
    tinyi_tcp_peer *p = NULL;
    tiny_status st;
    tinyi_tcp_lock(t);
    st = tinyi_tcp_peer_of(t, from, &p);
    if (!st) st = tinyi_tcp_recv_from(t, p, from, m);
    tinyi_tcp_unlock(t);
    return st;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static uint64_t tinyi_tcp_changes(tiny_net *net)
{
    return (uint64_t)(size_t)tinyi_atomic_get(&((tiny_tcp *)net)->changed);
}

static void tinyi_tcp_wake(tiny_net *net)
{
    tiny_tcp *t = (tiny_tcp *)net;
    (void)tinyi_atomic_add(&t->changed, 1);
    tiny_wake_up(&t->wake);
}

static void tinyi_tcp_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    tiny_tcp *t = (tiny_tcp *)net;
    tiny_poll p[TINY_NET_RANKS + 1];
    size_t n = 1;
    int i;
    if (tinyi_tcp_changes(net) != seen) return;
    memset(p, 0, sizeof p);
    p[0].socket = t->wake.reads;
    p[0].want = TINY_POLL_READ;
    tinyi_tcp_lock(t);
    for (i = 0; i < net->world; i++) {
        const tinyi_tcp_peer *peer = &t->peer[i];
        if (!peer->live || (!peer->reads && !peer->writes)) continue;
        p[n].socket = peer->s;
        p[n++].want = (peer->reads ? TINY_POLL_READ : 0) | (peer->writes ? TINY_POLL_WRITE : 0);
    }
    tinyi_tcp_unlock(t);
    /* two threads may sleep here at the same time, and one may take the wake-up of the other: hence the nap */
    (void)tiny_socket_poll(NULL, p, n, TINYI_MIN(until, tiny_now_ns() + TINYI_TCP_NAP_NS));
    if (p[0].can) tiny_wake_clear(&t->wake);
    (void)tinyi_atomic_add(&t->changed, 1);
}

/* the last frame to everybody */
static void tinyi_tcp_gone(tiny_net *net)
{
    tiny_tcp *t = (tiny_tcp *)net;
    const tiny_status st = t->failed ? t->failed : net->why;
    unsigned char why[8];
    int i, left;
    tinyi_tcp_lock(t);
    if (!t->closed) {
        tinyi_put_le32(why, net->gone ? (uint32_t)net->gone - 1 : (uint32_t)net->rank);
        tinyi_put_le32(why + 4, st == TINY_E_PROTOCOL    ? TINYI_ABORT_PROTOCOL
                                : st == TINY_E_TIMEOUT   ? TINYI_ABORT_LATE
                                : st == TINY_E_CANCELLED ? TINYI_ABORT_STOPPED
                                                         : TINYI_ABORT_GONE);
        for (i = 0; i < net->world; i++) {
            tinyi_tcp_peer *p = &t->peer[i];
            if (!p->live || tinyi_tcp_flush(p, &left)) continue;
            /* in the middle of a frame nothing can be said: the end of the stream says enough */
            if (left) { (void)tiny_socket_finish(NULL, p->s); continue; }
            if (st) tinyi_tcp_frame(t, p, TINYI_WIRE_ABORT, 0, 0, why, sizeof why);
            else tinyi_tcp_frame(t, p, TINYI_WIRE_BYE, 0, 0, NULL, 0);
            (void)tinyi_tcp_flush(p, &left);
            (void)tiny_socket_finish(NULL, p->s);
        }
        t->closed = 1;
    }
    tinyi_tcp_unlock(t);
}

#if TINYI_HAVE_HELPERS
/* to all peers, or to those that nothing was sent to for a while */
static void tinyi_tcp_pings(tiny_tcp *t, int all)
{
    const uint64_t now = tiny_now_ns();
    int i, left;
    for (i = 0; i < t->net.world && !t->closed && !t->failed; i++) {
        tinyi_tcp_peer *p = &t->peer[i];
        if (!p->live || (!all && (now - p->sent_at < t->ping_ns || now < p->sent_at))) continue;
        if (p->out_at == p->n_out) tinyi_tcp_frame(t, p, TINYI_WIRE_PING, 0, 0, NULL, 0);
        (void)tinyi_tcp_flush(p, &left);
    }
}

static void *tinyi_tcp_main(void *arg)
{
    tiny_tcp *t = (tiny_tcp *)arg;
    const uint64_t nap = TINYI_MAX(t->ping_ns / 2, 1000000);
    tinyi_tcp_lock(t);
    while (!t->quit) {
        tinyi_tcp_pings(t, 0);
        tinyi_wait(&t->over, &t->lock, nap);
    }
    tinyi_tcp_unlock(t);
    return NULL;
}
#endif

void tinyi_tcp_ping(tiny_tcp *t)
{
#if TINYI_HAVE_HELPERS
    if (t->net.world < 2 || t->ping_ns == UINT64_MAX || !t->has_lock) return;
    t->has_thread = pthread_cond_init(&t->over, NULL) == 0;
    if (t->has_thread && pthread_create(&t->thread, NULL, tinyi_tcp_main, t)) {
        (void)pthread_cond_destroy(&t->over);
        t->has_thread = 0;
    }
    if (!t->has_thread) return;
    tinyi_tcp_lock(t);                      /* now: the thread may get its first turn late */
    tinyi_tcp_pings(t, 1);
    tinyi_tcp_unlock(t);
#else
    (void)t;
#endif
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

void tinyi_tcp_begin(tiny_tcp *t)
{
    t->net.send = tinyi_tcp_send;
    t->net.recv = tinyi_tcp_recv;
    t->net.close = tinyi_tcp_gone;
    t->net.changes = tinyi_tcp_changes;
    t->net.pause = tinyi_tcp_pause;
    t->net.wake = tinyi_tcp_wake;
#if TINYI_HAVE_PTHREAD
    t->has_lock = pthread_mutex_init(&t->lock, NULL) == 0;
#endif
}

TINY_API tiny_net *tiny_tcp_net(tiny_tcp *t) { return t ? &t->net : NULL; }

TINY_API const void *tiny_tcp_plan(const tiny_tcp *t, size_t *n)
{
    if (n) *n = t ? t->n_plan : 0;
    return t ? t->plan : NULL;
}

TINY_API tiny_status tiny_tcp_address(tiny_ctx *ctx, const tiny_tcp *t, int rank, tiny_address *a)
{
    if (!t || !a || rank < 0 || rank >= t->net.world || t->peer[rank].s == TINY_NO_SOCKET)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "there is no connection to rank %d", rank);
    return tiny_socket_address(ctx, t->peer[rank].s, a);
}

/* until the peers have read what was sent: a close while their bytes are unread here would cut it off */
static void tinyi_tcp_linger(tiny_tcp *t)
{
    const uint64_t end = tiny_now_ns() + TINYI_TCP_LAST_NS;
    tiny_poll p[TINY_NET_RANKS];
    for (;;) {
        size_t n = 0;
        int i, left;
        memset(p, 0, sizeof p);
        for (i = 0; i < t->net.world; i++) {
            tinyi_tcp_peer *peer = &t->peer[i];
            size_t got;
            int over = 0;
            if (!peer->live) continue;
            (void)tinyi_tcp_flush(peer, &left);
            do {
                if (tiny_socket_read(NULL, peer->s, peer->in, TINYI_TCP_FRAME, &got, &over)) over = 1;
            } while (got && !over && tiny_now_ns() < end);
            if (over) {
                peer->live = 0;
                continue;
            }
            p[n].socket = peer->s;
            p[n++].want = TINY_POLL_READ;
        }
        if (!n || tiny_now_ns() >= end || tiny_socket_poll(NULL, p, n, end)) return;
    }
}

TINY_API void tiny_tcp_close(tiny_ctx *ctx, tiny_tcp *t)
{
    int i;
    if (!t) return;
#if TINYI_HAVE_HELPERS
    if (t->has_thread) {
        tinyi_tcp_lock(t);
        t->quit = 1;
        (void)pthread_cond_signal(&t->over);
        tinyi_tcp_unlock(t);
        (void)pthread_join(t->thread, NULL);
        (void)pthread_cond_destroy(&t->over);
    }
#endif
    if (t->peer && t->net.count) {
        tinyi_tcp_gone(&t->net);
        tinyi_tcp_linger(t);
    }
    for (i = 0; t->peer && i < t->net.world; i++) tiny_socket_close(t->peer[i].s);
    tiny_wake_close(&t->wake);
#if TINYI_HAVE_PTHREAD
    if (t->has_lock) (void)pthread_mutex_destroy(&t->lock);
#endif
    tiny_free(ctx, t->memory);
    tiny_free(ctx, t->net.count);
    tinyi_secret_free(ctx, t->peer);
    tiny_free(ctx, t);
}
