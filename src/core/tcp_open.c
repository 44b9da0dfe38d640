/* src/core/tcp_open.c - how the ranks of a tiny_tcp find each other
 *
 * One thread polls the listener, at most four handshakes of strangers, and the connections of its own. A stranger costs
 * a slot until the time-out of a handshake, which no byte of it extends, and no memory. A rank that finds nobody, or
 * whose connection breaks, tries again twice a second. The key of the group and those of the connections are in memory
 * of tinyi_secret_alloc. */
#include "core/bytes.h"
#include "core/tcp_open_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

#define TINYI_TCP_STRANGERS 4
#define TINYI_TCP_AGAIN_NS UINT64_C(500000000)          /* between two attempts to connect */
#define TINYI_TCP_REST_NS UINT64_C(100000000)           /* of the listener, when there are no descriptors */

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
    uint64_t handshake_ns, rest_until;      /* rest_until: no connection is accepted before */
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
    t->peer = (tinyi_tcp_peer *)tinyi_secret_alloc(o->ctx, (size_t)o->world * sizeof *t->peer);
    if (!t->peer) return tiny_ctx_status(o->ctx);
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
    static const unsigned char none[32] = { 0 };
    unsigned char say[12 + TINY_TCP_PLAN];
    const int lacks = o->d->gives_model && tiny_same_secret(k->peer_model, none, 32);
    int rank = -1, why = 0, i, left;
    y->p.sends = k->sends;
    y->p.receives = k->receives;
    y->p.most = k->peer_most;
    if (k->peer_rank == TINYI_WIRE_ANY && !o->d->peers) {
        for (i = o->world - 1; i > 0; i--) if (!o->came[i]) rank = i;
    } else if (k->peer_rank > (uint32_t)o->rank && k->peer_rank < (uint32_t)o->world && !o->came[k->peer_rank])
        rank = (int)k->peer_rank;
    /* settings first: they decide whether the models must be the same */
    if (!tiny_same_secret(k->peer_config, o->config, 32)) why = TINYI_ABORT_CONFIG;
    else if (!lacks && !tiny_same_secret(k->peer_model, o->d->model, 32)) why = TINYI_ABORT_MODEL;
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
    if (tiny_socket_accept(o->ctx, at, &s, &from)) {    /* out of descriptors: the connection goes on waiting */
        o->rest_until = tiny_now_ns() + TINYI_TCP_REST_NS;
        return TINY_OK;
    }
    if (s == TINY_NO_SOCKET) return TINY_OK;
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
        if (o->rest_until > now) until = TINYI_MIN(until, o->rest_until);
        for (i = 0; i < o->n_at; i++) {
            p[i].socket = n_free && o->rest_until <= now ? o->at[i] : TINY_NO_SOCKET;
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
            if (!o->world) i = 0;
            st = o->missing == 1 ? tinyi_fail(o->ctx, TINY_E_TIMEOUT, "rank %d is missing: %s", i, why)
                                 : tinyi_fail(o->ctx, TINY_E_TIMEOUT, "%d ranks are missing, the first is rank %d: %s",
                                              o->missing, i, why);
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
    tinyi_tcp_opening *o;
    tiny_tcp *t;
    uint64_t now, end;
    int i, n_out;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_tcp_open needs a desc and an output pointer");
    st = tinyi_tcp_check(ctx, desc);
    if (st) return st;
    t = (tiny_tcp *)tinyi_alloc(ctx, 1, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    tinyi_tcp_begin(t);
    t->ping_ns = desc->ping_ns ? desc->ping_ns : UINT64_C(1000000000);
    if (desc->n_plan) memcpy(t->plan, desc->plan, desc->n_plan);
    t->n_plan = desc->n_plan;
    n_out = desc->peers ? desc->rank : desc->rank != 0;
    o = (tinyi_tcp_opening *)tinyi_secret_alloc(ctx, sizeof *o + (size_t)(TINYI_TCP_STRANGERS + n_out) *
                                                                     sizeof *o->list);
    if (!o) {
        st = tiny_ctx_status(ctx);
        tiny_tcp_close(ctx, t);
        return st;
    }
    o->ctx = ctx;
    o->d = desc;
    o->t = t;
    o->rank = desc->rank;
    o->world = desc->world;
    o->handshake_ns = desc->handshake_ns ? desc->handshake_ns : UINT64_C(2000000000);
    tiny_sha256_of(desc->secret, desc->n_secret, o->key);
    memcpy(o->config, desc->config, sizeof o->config);
    o->config[31] ^= (unsigned char)(desc->no_mac != 0);        /* both sides, or none */
    o->config[30] ^= *(const unsigned char *)&order;    /* messages are memory: all ranks have one order of bytes */
    o->missing = desc->peers ? o->world - 1 : o->rank ? 1 : o->world - 1;
    o->n_list = TINYI_TCP_STRANGERS + n_out;
    o->list = (tinyi_tcp_try *)(void *)(o + 1);
    for (i = 0; i < o->n_list; i++) {
        o->list[i].s = TINY_NO_SOCKET;
        o->list[i].rank = i < TINYI_TCP_STRANGERS ? -1 : i - TINYI_TCP_STRANGERS;
        o->list[i].state = i < TINYI_TCP_STRANGERS ? TINYI_TRY_FREE : TINYI_TRY_LATER;
    }
    st = tiny_wake_open(ctx, &t->wake);
    if (!st && o->rank >= 0 && o->world) st = tinyi_tcp_group(o);
    if (!st) st = tinyi_tcp_listeners(o);
    now = tiny_now_ns();
    end = desc->open_ns ? desc->open_ns : UINT64_C(30000000000);
    end = end > UINT64_MAX - now ? UINT64_MAX : now + end;
    if (!st) st = tinyi_tcp_gather(o, end);
    t->no_mac = desc->no_mac != 0;          /* the frames of the opening have their MAC in any case */
    for (i = 0; i < o->n_at && o->mine; i++) tiny_socket_close(o->at[i]);
    for (i = 0; i < o->n_list; i++) tiny_socket_close(o->list[i].s);
    tinyi_secret_free(ctx, o);
    if (st) {
        tiny_tcp_close(ctx, t);
        return st;
    }
    tinyi_tcp_ping(t);
    *out = t;
    return TINY_OK;
}
