/* src/core/tcp.c - a tiny_net over TLD1 and TCP
 *
 * Send     a message is cut into frames. A frame is built with its MAC in the peer's buffer and written as far as the
 *          socket takes it; the message is whole when its last byte is written.
 * Recv     bytes go into the peer's buffer. Only when a frame is complete and its MAC is right does its payload go to
 *          the caller. A frame of a message waits there until recv asks for it, and then so does everything behind it.
 * Pings    a thread sends one where nothing else was sent for ping_ns. So a rank that computes differs from one that is
 *          gone. Silence counts against a peer only after its first ping: a program without threads sends none.
 * Opening  one thread polls the listener, at most four handshakes of strangers, and its own connections. A stranger
 *          costs a slot for two seconds at most, and no memory.
 * Ends     ABORT names the rank that caused a failure, so that all ranks blame the same one. Sockets are half-closed
 *          first; a close with unread bytes would take back what was sent last. */
#include "core/bytes.h"
#include "core/state_inside.h"
#include "core/tcp.h"
#include "core/time.h"
#include "core/wire_inside.h"
#include <stdio.h>
#include <string.h>
#if TINYI_HAVE_HELPERS
#include <sys/time.h>
#endif

#define TINYI_TCP_MOST 65536u               /* bytes of payload in a frame */
#define TINYI_TCP_FRAME (TINYI_WIRE_HEAD + TINYI_TCP_MOST + TINYI_WIRE_MAC)
#define TINYI_TCP_STRANGERS 4
#define TINYI_TCP_AGAIN_NS UINT64_C(500000000)          /* between two attempts to connect */
#define TINYI_TCP_NAP_NS UINT64_C(50000000)             /* the longest sleep of pause */
#define TINYI_TCP_LAST_NS UINT64_C(300000000)           /* for the last bytes, at close */

typedef struct tinyi_tcp_peer {
    tiny_socket s;
    int live, ended;                        /* ended: it said BYE */
    int reads, writes;                      /* a message waits for the socket */
    int pings;                              /* it has sent one */
    uint64_t heard_at, sent_at, n_in_frames, n_out_frames;
    uint32_t most;                          /* bytes of payload that it takes */
    tiny_hmac sends, receives;
    unsigned char *in, *out;                /* (TINYI_TCP_FRAME) */
    size_t n_in, n_out, out_at;
} tinyi_tcp_peer;

struct tiny_tcp {
    tiny_net net;
    tinyi_tcp_peer *peer;                   /* (world) */
    unsigned char *memory;
    int no_mac, closed;
    uint64_t ping_ns;
    tiny_status failed;
    tiny_idx changed;
    tiny_wake wake;
    unsigned char plan[TINY_TCP_PLAN];
    size_t n_plan;
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;
    int has_lock;
#endif
#if TINYI_HAVE_HELPERS
    pthread_cond_t over;
    pthread_t thread;
    int has_thread, quit;
#endif
};

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

/* into the empty buffer of the peer */
static void tinyi_tcp_frame(tiny_tcp *t, tinyi_tcp_peer *p, int type, int flags, uint64_t tag, const void *payload,
                            uint32_t n)
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

/* writes what the buffer holds; *left: some is still there */
static tiny_status tinyi_tcp_flush(tinyi_tcp_peer *p, int *left)
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

/* Is a frame there, and right as far as it can be seen? -1: not yet complete; 0: no, with a sentence; 1: yes. */
static int tinyi_tcp_look(tiny_tcp *t, tinyi_tcp_peer *p, int rank, tinyi_head *h, char says[TINYI_WIRE_SAYS])
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
static void tinyi_tcp_drop(tinyi_tcp_peer *p, const tinyi_head *h)
{
    const size_t n = TINYI_WIRE_HEAD + (size_t)h->n + TINYI_WIRE_MAC;
    p->n_in -= n;
    if (p->n_in) memmove(p->in, p->in + n, p->n_in);
    p->n_in_frames++;
    p->heard_at = tiny_now_ns();
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
    (void)snprintf(says, sizeof says, "rank %d is gone, says rank %d", (int)rank, from);
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
        if (!seen || tiny_socket_read(NULL, p->s, p->in + p->n_in, TINYI_TCP_FRAME - p->n_in, &got, &end) || !got)
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
    for (;;) {
        tinyi_head h;
        size_t got;
        int end, seen, left;
        while ((seen = tinyi_tcp_look(t, p, from, &h, says)) == 1) {
            const int done = tinyi_tcp_control(t, p, from, &h);
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
        if (got) continue;
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
static void *tinyi_tcp_main(void *arg)
{
    tiny_tcp *t = (tiny_tcp *)arg;
    const uint64_t nap = TINYI_MAX(t->ping_ns / 2, 1000000);
    tinyi_tcp_lock(t);
    while (!t->quit) {
        const uint64_t now = tiny_now_ns();
        struct timeval day;
        struct timespec at;
        uint64_t ns;
        int i, left;
        for (i = 0; i < t->net.world && !t->closed && !t->failed; i++) {
            tinyi_tcp_peer *p = &t->peer[i];
            if (!p->live || now - p->sent_at < t->ping_ns || now < p->sent_at) continue;
            if (p->out_at == p->n_out) tinyi_tcp_frame(t, p, TINYI_WIRE_PING, 0, 0, NULL, 0);
            (void)tinyi_tcp_flush(p, &left);
        }
        if (gettimeofday(&day, NULL)) break;
        ns = nap + (uint64_t)day.tv_usec * 1000u;
        at.tv_sec = day.tv_sec + (time_t)(ns / 1000000000u);
        at.tv_nsec = (long)(ns % 1000000000u);
        (void)pthread_cond_timedwait(&t->over, &t->lock, &at);
    }
    tinyi_tcp_unlock(t);
    return NULL;
}
#endif

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum { TINYI_TRY_FREE, TINYI_TRY_LATER, TINYI_TRY_CONNECTS, TINYI_TRY_SHAKES, TINYI_TRY_WELCOME, TINYI_TRY_DONE };

typedef struct tinyi_tcp_try {              /* a connection that is not one yet */
    tiny_socket s;
    int state, rank, i_address, is_local;   /* rank: to which it connects; -1: a stranger */
    uint64_t until, again;                  /* for the handshake; when to try again */
    tinyi_shake k;
    tinyi_tcp_peer p;                       /* keys, numbers, and the frame on its way */
    unsigned char in[TINYI_WIRE_HEAD + 12 + TINY_TCP_PLAN + TINYI_WIRE_MAC];
    unsigned char out[TINYI_WIRE_HEAD + 12 + TINY_TCP_PLAN + TINYI_WIRE_MAC];
    char says[200];
} tinyi_tcp_try;

typedef struct tinyi_tcp_opening {
    tiny_ctx *ctx;
    const tiny_tcp_desc *d;
    tiny_tcp *t;
    unsigned char key[32], config[32];
    tiny_socket at[TINY_ADDRESSES];         /* listeners */
    int n_at, mine, missing, n_said;        /* mine: close them; missing: peers */
    uint64_t handshake_ns;
    tinyi_tcp_try *list;                    /* (TINYI_TCP_STRANGERS + connections of our own) */
    int n_list;
    int rank, world;                        /* TINY_TCP_ANY and 0: not known yet */
    int came[TINY_NET_RANKS];
} tinyi_tcp_opening;

static tiny_status tinyi_tcp_shake(tinyi_tcp_opening *o, tinyi_tcp_try *y, int server)
{
    tiny_status st;
    memset(&y->k, 0, sizeof y->k);
    memset(&y->p, 0, sizeof y->p);
    y->p.in = y->in;
    y->p.out = y->out;
    y->p.s = y->s;
    y->k.server = server;
    if (!server) y->k.peer_rank = (uint32_t)y->rank;
    y->k.rank = (uint32_t)o->rank;          /* TINY_TCP_ANY becomes TINYI_WIRE_ANY */
    y->k.world = (uint32_t)o->world;
    y->k.most = TINYI_TCP_MOST;
    memcpy(y->k.key, o->key, sizeof y->k.key);
    memcpy(y->k.model, o->d->model, sizeof y->k.model);
    memcpy(y->k.config, o->config, sizeof y->k.config);
    st = tiny_random(o->ctx, y->k.nonce, sizeof y->k.nonce);
    if (!st && server) st = tiny_random(o->ctx, y->k.run, sizeof y->k.run);
    if (st) return st;
    tinyi_shake_start(&y->k);
    y->state = TINYI_TRY_SHAKES;
    y->until = tiny_now_ns() + o->handshake_ns;
    return TINY_OK;
}

/* closes it; a stranger's slot is free, a connection of our own is tried again after a while */
static void tinyi_tcp_lost(tinyi_tcp_opening *o, tinyi_tcp_try *y, const char *why)
{
    tiny_socket_close(y->s);
    y->s = TINY_NO_SOCKET;
    tiny_wipe(&y->k, sizeof y->k);
    tiny_wipe(&y->p, sizeof y->p);
    if (why != y->says) (void)snprintf(y->says, sizeof y->says, "%s", why);
    if (y->rank < 0) {
        y->state = TINYI_TRY_FREE;
        /* a flood of strangers does not flood the log */
        if (o->n_said++ < 10) tinyi_log(o->ctx, TINY_LOG_WARNING, "a connection was refused: %s", y->says);
    } else {
        y->state = TINYI_TRY_LATER;
        y->again = tiny_now_ns() + TINYI_TCP_AGAIN_NS;
    }
}

static tiny_status tinyi_tcp_connect(tinyi_tcp_opening *o, tinyi_tcp_try *y)
{
    const char *text = o->d->peers ? o->d->peers[y->rank] : o->d->at;
    tiny_address a[TINY_ADDRESSES];
    tiny_status st;
    int n = 0;
    st = tiny_address_find(o->ctx, text, a, &n);
    if (st) return st;
    y->is_local = tiny_address_is_local(&a[y->i_address % n]);
    if (o->d->no_mac && !y->is_local)
        return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "%s: messages without MAC are for connections within this machine",
                          text);
    st = tiny_socket_connect(o->ctx, &a[y->i_address++ % n], &y->s);
    if (st == TINY_E_ARGUMENT || st == TINY_E_MEMORY) return st;
    if (st) {
        tinyi_tcp_lost(o, y, tiny_ctx_message(o->ctx));
        return TINY_OK;
    }
    if (o->d->socket_bytes && (st = tiny_socket_buffers(o->ctx, y->s, o->d->socket_bytes)) != TINY_OK) return st;
    y->state = TINYI_TRY_CONNECTS;
    y->until = tiny_now_ns() + UINT64_C(5000000000);
    return TINY_OK;
}

/* the peer is there: its connection moves to its place */
static void tinyi_tcp_here(tinyi_tcp_opening *o, tinyi_tcp_try *y, int rank)
{
    tinyi_tcp_peer *p = &o->t->peer[rank];
    unsigned char *in = p->in, *out = p->out;
    *p = y->p;
    p->in = in;
    p->out = out;
    memcpy(p->out, y->out, y->p.n_out);
    memcpy(p->in, y->in, y->p.n_in);
    p->live = 1;
    p->heard_at = p->sent_at = tiny_now_ns();
    tiny_wipe(&y->k, sizeof y->k);
    tiny_wipe(&y->p, sizeof y->p);
    y->s = TINY_NO_SOCKET;
    y->state = y->rank < 0 ? TINYI_TRY_FREE : TINYI_TRY_DONE;
    o->came[rank] = 1;
    o->missing--;
    tinyi_log(o->ctx, TINY_LOG_INFO, "rank %d of %d is there", rank, o->world);
}

/* memory of the group, as soon as its size is known */
static tiny_status tinyi_tcp_group(tinyi_tcp_opening *o)
{
    tiny_tcp *t = o->t;
    const int star = !o->d->peers;
    const size_t n_peers = star && o->rank ? 1 : (size_t)o->world - 1;
    int i, k = 0;
    if (t->peer) return TINY_OK;
    t->net.rank = o->rank;
    t->net.star = star && o->world > 2;
    t->net.world = o->world;
    t->peer = (tinyi_tcp_peer *)tinyi_alloc(o->ctx, (size_t)o->world, sizeof *t->peer);
    if (!t->peer) return tiny_ctx_status(o->ctx);
    memset(t->peer, 0, (size_t)o->world * sizeof *t->peer);
    for (i = 0; i < o->world; i++) t->peer[i].s = TINY_NO_SOCKET;
    t->net.count = (tiny_net_count *)tinyi_alloc(o->ctx, (size_t)o->world, sizeof *t->net.count);
    if (!t->net.count) return tiny_ctx_status(o->ctx);
    memset(t->net.count, 0, (size_t)o->world * sizeof *t->net.count);
    if (!n_peers) return TINY_OK;
    t->memory = (unsigned char *)tinyi_alloc(o->ctx, 2 * n_peers, TINYI_TCP_FRAME);
    if (!t->memory) return tiny_ctx_status(o->ctx);
    for (i = 0; i < o->world; i++) {
        if (i == o->rank || (star && o->rank && i)) continue;
        t->peer[i].in = t->memory + (size_t)(2 * k) * TINYI_TCP_FRAME;
        t->peer[i].out = t->peer[i].in + TINYI_TCP_FRAME;
        k++;
    }
    return TINY_OK;
}

/* A stranger knows the secret: may it join? The answer goes into its buffer. */
static void tinyi_tcp_judge(tinyi_tcp_opening *o, tinyi_tcp_try *y)
{
    const tinyi_shake *k = &y->k;
    unsigned char say[12 + TINY_TCP_PLAN];
    int rank = -1, why = 0, i, left;
    y->p.sends = k->sends;
    y->p.receives = k->receives;
    y->p.most = k->peer_most;
    if (k->peer_rank == TINYI_WIRE_ANY && !o->d->peers) {
        for (i = o->world - 1; i > 0; i--) if (!o->came[i]) rank = i;
    } else if (k->peer_rank > (uint32_t)o->rank && k->peer_rank < (uint32_t)o->world && !o->came[k->peer_rank])
        rank = (int)k->peer_rank;
    if (!tiny_same_secret(k->peer_model, o->d->model, 32)) why = TINYI_ABORT_MODEL;
    else if (!tiny_same_secret(k->peer_config, o->config, 32)) why = TINYI_ABORT_CONFIG;
    else if (rank < 0 || (k->peer_world && k->peer_world != (uint32_t)o->world)) why = TINYI_ABORT_RANK;
    if (why) {
        tinyi_put_le32(say, (uint32_t)o->rank);
        tinyi_put_le32(say + 4, (uint32_t)why);
        tinyi_tcp_frame(o->t, &y->p, TINYI_WIRE_ABORT, 0, 0, say, 8);
        (void)tinyi_tcp_flush(&y->p, &left);
        (void)tiny_socket_finish(NULL, y->s);
        tinyi_tcp_lost(o, y, why == TINYI_ABORT_MODEL    ? "it has the key, but another model"
                             : why == TINYI_ABORT_CONFIG ? "it has the key, but other settings"
                                                         : "it has the key, but its rank is taken or none is free");
        return;
    }
    tinyi_put_le32(say, (uint32_t)rank);
    tinyi_put_le32(say + 4, (uint32_t)o->world);
    tinyi_put_le32(say + 8, (uint32_t)o->t->n_plan);
    memcpy(say + 12, o->t->plan, o->t->n_plan);
    tinyi_tcp_frame(o->t, &y->p, TINYI_WIRE_WELCOME, 0, 0, say, (uint32_t)(12 + o->t->n_plan));
    tinyi_tcp_here(o, y, rank);
    /* what is left of it goes with the first message; a broken connection shows there too */
    (void)tinyi_tcp_flush(&o->t->peer[rank], &left);
}

/* The first frame after AUTH. 0 and *st: it ends here; the sentence is in the context. */
static int tinyi_tcp_welcomed(tinyi_tcp_opening *o, tinyi_tcp_try *y, const tinyi_head *h, tiny_status *st)
{
    const unsigned char *p = y->in + TINYI_WIRE_HEAD;
    tiny_tcp *t = o->t;
    uint32_t rank, world, n;
    if (h->type == TINYI_WIRE_ABORT) {
        const uint32_t why = tinyi_le32(p + 4);
        *st = tinyi_fail(o->ctx, TINY_E_PROTOCOL, "rank %d refuses this process: %s", y->rank,
                         why == TINYI_ABORT_MODEL    ? "it has another model"
                         : why == TINYI_ABORT_CONFIG ? "it has other settings"
                         : why == TINYI_ABORT_RANK   ? "the rank is taken, or the group has another size"
                                                     : "the group has ended");
        return 0;
    }
    rank = h->type == TINYI_WIRE_WELCOME ? tinyi_le32(p) : TINYI_WIRE_ANY;
    world = h->type == TINYI_WIRE_WELCOME ? tinyi_le32(p + 4) : 0;
    n = h->type == TINYI_WIRE_WELCOME ? tinyi_le32(p + 8) : 0;
    if (h->type != TINYI_WIRE_WELCOME || n != h->n - 12 || world < 2 || world > TINY_NET_RANKS || rank >= world ||
        !rank || (o->rank >= 0 && rank != (uint32_t)o->rank) || (o->world && world != (uint32_t)o->world)) {
        *st = tinyi_fail(o->ctx, TINY_E_PROTOCOL, "rank %d welcomes this process with impossible numbers", y->rank);
        return 0;
    }
    o->rank = (int)rank;
    o->world = (int)world;
    if (!o->d->peers) {
        memcpy(t->plan, p + 12, n);
        t->n_plan = n;
    }
    tinyi_tcp_drop(&y->p, h);
    *st = tinyi_tcp_group(o);
    if (*st) return 0;
    tinyi_tcp_here(o, y, y->rank);
    return 1;
}

/* Goes on as far as the socket allows. A failure ends the opening. */
static tiny_status tinyi_tcp_go_on(tinyi_tcp_opening *o, tinyi_tcp_try *y)
{
    unsigned char some[TINYI_WIRE_HEAD + 108];
    tiny_status st = TINY_OK;
    size_t n, put;
    int end = 0;
    if (y->state == TINYI_TRY_CONNECTS) {
        if (tiny_socket_connected(o->ctx, y->s)) {
            tinyi_tcp_lost(o, y, tiny_ctx_message(o->ctx));
            return TINY_OK;
        }
        st = tinyi_tcp_shake(o, y, 0);
        if (st) return st;
    }
    while (y->state == TINYI_TRY_SHAKES) {
        tinyi_shake *k = &y->k;
        if (k->out_at < k->n_out) {
            if (tiny_socket_write(NULL, y->s, k->out + k->out_at, k->n_out - k->out_at, &put)) {
                tinyi_tcp_lost(o, y, "it broke the connection during the handshake");
                return TINY_OK;
            }
            if (!put) return TINY_OK;
            k->out_at += put;
            continue;
        }
        if (k->done && k->server) {
            tinyi_tcp_judge(o, y);
            return TINY_OK;
        }
        if (k->done) {
            y->p.sends = k->sends;
            y->p.receives = k->receives;
            y->p.most = k->peer_most;
            y->state = TINYI_TRY_WELCOME;
            break;
        }
        if (tiny_socket_read(NULL, y->s, some, tinyi_shake_wants(k), &n, &end) || end) {
            tinyi_tcp_lost(o, y, "it broke the connection during the handshake");
            return TINY_OK;
        }
        if (!n) return TINY_OK;
        if (tinyi_shake_take(k, some, n)) {
            if (y->rank < 0) tinyi_tcp_lost(o, y, k->says);
            else return tinyi_fail(o->ctx, TINY_E_PROTOCOL, "rank %d does not shake hands: %s", y->rank, k->says);
            return TINY_OK;
        }
    }
    while (y->state == TINYI_TRY_WELCOME) {
        tinyi_head h = { 0, 0, 0, 0, 0, 0 };
        const int seen = tinyi_tcp_look(o->t, &y->p, y->rank, &h, y->says);
        if (!seen || (seen < 0 && y->p.n_in >= TINYI_WIRE_HEAD && h.type == TINYI_WIRE_REDUCE))
            return tinyi_fail(o->ctx, TINY_E_PROTOCOL, "rank %d does not shake hands: it %s", y->rank,
                              seen ? "sent a message before its WELCOME" : y->says);
        if (seen > 0) {
            if (!tinyi_tcp_welcomed(o, y, &h, &st)) return st;
            break;
        }
        /* no more than this frame: the next one needs more room */
        n = y->p.n_in < TINYI_WIRE_HEAD ? TINYI_WIRE_HEAD : TINYI_WIRE_HEAD + (size_t)h.n + TINYI_WIRE_MAC;
        n -= y->p.n_in;
        if (tiny_socket_read(NULL, y->s, y->in + y->p.n_in, n, &put, &end) || end) {
            tinyi_tcp_lost(o, y, "it broke the connection after the handshake");
            return TINY_OK;
        }
        if (!put) return TINY_OK;
        y->p.n_in += put;
    }
    return TINY_OK;
}

static tiny_status tinyi_tcp_listeners(tinyi_tcp_opening *o)
{
    const tiny_tcp_desc *d = o->d;
    const int accepts = d->peers ? o->rank < o->world - 1 : o->rank == 0 && o->world > 1;
    tiny_status st;
    int i;
    if (!accepts) return TINY_OK;
    if (d->listener && d->listener != TINY_NO_SOCKET) {
        o->at[0] = d->listener;
        o->n_at = 1;
        return TINY_OK;
    }
    st = tiny_listen_at(o->ctx, d->peers ? d->peers[o->rank] : d->at, o->at, &o->n_at);
    o->mine = 1;
    for (i = 0; i < o->n_at && !st && d->no_mac; i++) {
        tiny_address a;
        st = tiny_socket_address(o->ctx, o->at[i], &a);
        if (!st && !tiny_address_is_local(&a))
            st = tinyi_fail(o->ctx, TINY_E_ARGUMENT, "messages without MAC are for connections within this machine");
    }
    return st;
}

static tiny_status tinyi_tcp_accept(tinyi_tcp_opening *o, tiny_socket at)
{
    tinyi_tcp_try *y = NULL;
    tiny_address from;
    tiny_socket s;
    tiny_status st;
    int i;
    for (i = 0; i < TINYI_TCP_STRANGERS && !y; i++) if (o->list[i].state == TINYI_TRY_FREE) y = &o->list[i];
    if (!y) return TINY_OK;
    memset(&from, 0, sizeof from);
    /* out of descriptors: those who wait go on waiting */
    if (tiny_socket_accept(o->ctx, at, &s, &from) || s == TINY_NO_SOCKET) return TINY_OK;
    y->s = s;
    y->rank = -1;
    y->is_local = tiny_address_is_local(&from);
    if (o->d->no_mac && !y->is_local) {
        tinyi_tcp_lost(o, y, "it is not on this machine, and messages have no MAC");
        return TINY_OK;
    }
    if (o->d->socket_bytes && (st = tiny_socket_buffers(o->ctx, s, o->d->socket_bytes)) != TINY_OK) return st;
    return tinyi_tcp_shake(o, y, 1);
}

static tiny_status tinyi_tcp_gather(tinyi_tcp_opening *o, uint64_t end)
{
    tiny_poll p[TINY_ADDRESSES + TINYI_TCP_STRANGERS + TINY_NET_RANKS];
    tiny_status st = TINY_OK;
    while (o->missing && !st) {
        uint64_t now = tiny_now_ns(), until = TINYI_MIN(end, now + UINT64_C(200000000));
        int i, n = 0, n_free = 0;
        memset(p, 0, sizeof p);
        for (i = 0; i < o->n_list && !st; i++) {
            tinyi_tcp_try *y = &o->list[i];
            if (y->state > TINYI_TRY_LATER && y->state < TINYI_TRY_DONE && now >= y->until)
                tinyi_tcp_lost(o, y, "the handshake took too long");
            if (y->state == TINYI_TRY_LATER && now >= y->again) st = tinyi_tcp_connect(o, y);
            n_free += i < TINYI_TCP_STRANGERS && y->state == TINYI_TRY_FREE;
            p[o->n_at + i].socket = y->state > TINYI_TRY_LATER && y->state < TINYI_TRY_DONE ? y->s : TINY_NO_SOCKET;
            p[o->n_at + i].want = y->state == TINYI_TRY_CONNECTS || y->k.out_at < y->k.n_out ? TINY_POLL_WRITE
                                                                                             : TINY_POLL_READ;
            if (y->state == TINYI_TRY_LATER) until = TINYI_MIN(until, y->again);
            else if (y->state > TINYI_TRY_LATER && y->state < TINYI_TRY_DONE) until = TINYI_MIN(until, y->until);
        }
        if (st) break;
        for (i = 0; i < o->n_at; i++) {
            p[i].socket = n_free ? o->at[i] : TINY_NO_SOCKET;
            p[i].want = TINY_POLL_READ;
        }
        n = o->n_at + o->n_list;
        st = tiny_socket_poll(o->ctx, p, (size_t)n, until);
        for (i = 0; i < o->n_list && !st; i++) if (p[o->n_at + i].can) st = tinyi_tcp_go_on(o, &o->list[i]);
        for (i = 0; i < o->n_at && !st; i++) if (p[i].can) st = tinyi_tcp_accept(o, o->at[i]);
        if (!st && o->ctx->desc.cancel && o->ctx->desc.cancel(o->ctx->desc.user))
            st = tinyi_fail(o->ctx, TINY_E_CANCELLED, "the cancel callback asked to stop waiting for the other ranks");
        if (!st && o->missing && tiny_now_ns() >= end) {
            const char *why = "it has not come";
            for (i = TINYI_TCP_STRANGERS; i < o->n_list; i++)
                if (o->list[i].state != TINYI_TRY_DONE && o->list[i].says[0]) why = o->list[i].says;
            for (i = 0; i < o->world && (o->came[i] || i == o->rank); i++) {}
            st = tinyi_fail(o->ctx, TINY_E_TIMEOUT, "%d ranks are missing, the first is rank %d: %s", o->missing,
                            o->world ? i : 0, why);
        }
    }
    return st;
}

static tiny_status tinyi_tcp_check(tiny_ctx *ctx, const tiny_tcp_desc *d)
{
    int i;
    if (!d->secret || d->n_secret < 16)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a secret of %zu bytes: it must have at least 16",
                          d->secret ? d->n_secret : (size_t)0);
    if (d->world < 0 || d->world > TINY_NET_RANKS || (!d->world && (d->peers || !d->rank)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d ranks, there must be 1 to %d", d->world, TINY_NET_RANKS);
    if (d->rank < TINY_TCP_ANY || (d->world && d->rank >= d->world) || (d->peers && d->rank < 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rank %d of %d: ranks count from 0", d->rank, d->world);
    if (!d->peers && !d->at && d->world != 1 && (d->rank || !d->listener || d->listener == TINY_NO_SOCKET))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the address of rank 0 is missing");
    for (i = 0; d->peers && i < d->world; i++)
        if (!d->peers[i] && i <= d->rank && (i < d->rank || !d->listener || d->listener == TINY_NO_SOCKET))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "the address of rank %d is missing", i);
    if (d->n_plan > TINY_TCP_PLAN || (d->n_plan && !d->plan))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a plan of %zu bytes: at most %d are possible", d->n_plan,
                          TINY_TCP_PLAN);
    if (d->socket_bytes < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "buffers of %d bytes", d->socket_bytes);
    return TINY_OK;
}

TINY_API tiny_status tiny_tcp_open(tiny_ctx *ctx, const tiny_tcp_desc *desc, tiny_tcp **out)
{
    static const uint16_t order = 0x0100;   /* its first byte: 0 little endian, 1 big endian */
    tiny_status st = tinyi_ctx_check(ctx);
    tinyi_tcp_opening o;
    tiny_tcp *t;
    uint64_t now, end;
    int i, n_out;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_tcp_open needs a desc and an output pointer");
    st = tinyi_tcp_check(ctx, desc);
    if (st) return st;
    memset(&o, 0, sizeof o);
    o.ctx = ctx;
    o.d = desc;
    o.rank = desc->rank;
    o.world = desc->world;
    o.handshake_ns = desc->handshake_ns ? desc->handshake_ns : UINT64_C(2000000000);
    t = (tiny_tcp *)tinyi_alloc(ctx, 1, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    o.t = t;
    t->ping_ns = desc->ping_ns ? desc->ping_ns : UINT64_C(1000000000);
    t->net.send = tinyi_tcp_send;
    t->net.recv = tinyi_tcp_recv;
    t->net.close = tinyi_tcp_gone;
    t->net.changes = tinyi_tcp_changes;
    t->net.pause = tinyi_tcp_pause;
    t->net.wake = tinyi_tcp_wake;
    if (desc->n_plan) memcpy(t->plan, desc->plan, desc->n_plan);
    t->n_plan = desc->n_plan;
#if TINYI_HAVE_PTHREAD
    t->has_lock = pthread_mutex_init(&t->lock, NULL) == 0;
#endif
    tiny_sha256_of(desc->secret, desc->n_secret, o.key);
    memcpy(o.config, desc->config, sizeof o.config);
    o.config[31] ^= (unsigned char)(desc->no_mac != 0); /* both sides, or none */
    o.config[30] ^= *(const unsigned char *)&order;     /* messages are memory: all ranks have one order of bytes */
    n_out = desc->peers ? o.rank : o.rank != 0;
    o.missing = desc->peers ? o.world - 1 : o.rank ? 1 : o.world - 1;
    o.n_list = TINYI_TCP_STRANGERS + n_out;
    o.list = (tinyi_tcp_try *)tinyi_alloc(ctx, (size_t)o.n_list, sizeof *o.list);
    if (!o.list) st = tiny_ctx_status(ctx);
    else {
        memset(o.list, 0, (size_t)o.n_list * sizeof *o.list);
        for (i = 0; i < o.n_list; i++) {
            o.list[i].s = TINY_NO_SOCKET;
            o.list[i].rank = i - TINYI_TCP_STRANGERS;
            if (i < TINYI_TCP_STRANGERS) o.list[i].rank = -1;
            else o.list[i].state = TINYI_TRY_LATER;
        }
    }
    if (!st) st = tiny_wake_open(ctx, &t->wake);
    if (!st && o.rank >= 0 && o.world) st = tinyi_tcp_group(&o);
    if (!st) st = tinyi_tcp_listeners(&o);
    now = tiny_now_ns();
    end = desc->open_ns ? desc->open_ns : UINT64_C(30000000000);
    end = end > UINT64_MAX - now ? UINT64_MAX : now + end;
    if (!st) st = tinyi_tcp_gather(&o, end);
    t->no_mac = desc->no_mac != 0;          /* the frames of the opening have their MAC in any case */
    for (i = 0; i < o.n_at && o.mine; i++) tiny_socket_close(o.at[i]);
    for (i = 0; o.list && i < o.n_list; i++) tiny_socket_close(o.list[i].s);
    if (o.list) tiny_wipe(o.list, (size_t)o.n_list * sizeof *o.list);
    tiny_free(ctx, o.list);
    tiny_wipe(&o, sizeof o);
#if TINYI_HAVE_HELPERS
    if (!st && t->net.world > 1 && t->ping_ns != UINT64_MAX && t->has_lock) {
        t->has_thread = pthread_cond_init(&t->over, NULL) == 0;
        if (t->has_thread && pthread_create(&t->thread, NULL, tinyi_tcp_main, t)) {
            (void)pthread_cond_destroy(&t->over);
            t->has_thread = 0;
        }
    }
#endif
    if (st) {
        tiny_tcp_close(ctx, t);
        return st;
    }
    *out = t;
    return TINY_OK;
}

TINY_API tiny_net *tiny_tcp_net(tiny_tcp *t) { return t ? &t->net : NULL; }

TINY_API const void *tiny_tcp_plan(const tiny_tcp *t, size_t *n)
{
    if (n) *n = t ? t->n_plan : 0;
    return t ? t->plan : NULL;
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
            } while (got && !over);
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
    if (t->peer) tiny_wipe(t->peer, (size_t)t->net.world * sizeof *t->peer);
    tiny_wake_close(&t->wake);
#if TINYI_HAVE_PTHREAD
    if (t->has_lock) (void)pthread_mutex_destroy(&t->lock);
#endif
    tiny_free(ctx, t->memory);
    tiny_free(ctx, t->net.count);
    tiny_free(ctx, t->peer);
    tiny_free(ctx, t);
}
