/* tests/core/tcp_kit.h - groups over TCP, and ranks of the test's own that speak TLD1 over sockets, right or wrong
 *
 * Waits end after a minute at the latest, and only a test that hangs gets there. Define T_GNN and T_INTERNALS before
 * the include: make test looks for them in the test itself. */
#ifndef T_TCP_KIT_H
#define T_TCP_KIT_H
#include "t.h"
#include "core/atomic_inside.h"
#include "core/bytes.h"
#include "core/comm.h"
#include "core/tcp.h"
#include "core/wire_inside.h"

static const char secret[] = "correct horse battery staple";
#define N_SECRET (sizeof secret - 1)

T_FN void make_shake(tinyi_shake *k, int server)
{
    int i;
    memset(k, 0, sizeof *k);
    k->server = server;
    k->rank = server ? 0 : 1;
    k->world = 2;
    k->most = 65536;
    tiny_sha256_of(secret, N_SECRET, k->key);
    for (i = 0; i < 32; i++) k->nonce[i] = (unsigned char)(i + 32 * server);
    for (i = 0; i < 16; i++) k->run[i] = (unsigned char)(64 + i);
    memset(k->model, 0x11, 32);
    memset(k->config, 0x22, 32);
}

/* ---- a group that works ------------------------------------------------------------------------------------------ */

#if T_PTHREAD
enum { MOST = 8 };
typedef struct group {
    int world, mesh, no_mac, n, kind, index;
    tiny_socket at[MOST];                   /* a listener for each rank that needs one */
    char address[MOST][TINY_ADDRESS_TEXT];
    const char *peers[MOST];
    tiny_status st[MOST], later[MOST];
    char says[MOST][240];
    int gone[MOST];
    float *x[MOST];
    uint64_t sent[MOST];
    tiny_idx joined;                        /* rank 1 is in the group */
    tiny_tcp_desc d;                        /* what all have */
    int counted;                            /* 1 + the rank whose allocations sum_rank counts */
    size_t most;                            /* bytes that the counted rank held at once */
} group;

/* What a rank with one peer may hold, whatever others send: two frames of 64 KiB, the slots of four strangers, and
 * pages of up to 64 KiB around keys. */
enum { MOST_BYTES = 2 * 65584 + 400000 };
/* The context of a rank whose allocations are counted; only one rank at a time may have it. */
T_FN tiny_ctx *counted_ctx(void)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL;
    (void)tiny_ctx_open(&desc, &ctx);
    t_alloc.most_bytes = t_alloc.live_bytes;
    return ctx;
}
T_FN void count_bytes(group *g) { if (t_alloc.most_bytes > g->most) g->most = t_alloc.most_bytes; }

T_FN void open_group(group *g, tiny_ctx *ctx, int world, int mesh)
{
    int i, n;
    memset(g, 0, sizeof *g);
    g->world = world;
    g->mesh = mesh;
    g->d.secret = secret;
    g->d.n_secret = N_SECRET;
    g->d.open_ns = UINT64_C(60000000000);
    for (i = 0; i < world; i++) {
        tiny_address a;
        tiny_socket at[TINY_ADDRESSES];
        if (!T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n)) || !T_OK(tiny_socket_address(ctx, at[0], &a))) continue;
        g->at[i] = at[0];
        tiny_address_text(&a, g->address[i]);
        g->peers[i] = g->address[i];
    }
}
T_FN void close_group(group *g)
{
    int i;
    for (i = 0; i < g->world; i++) tiny_socket_close(g->at[i]);
}
T_FN tiny_tcp_desc desc_of(const group *g, int rank)
{
    tiny_tcp_desc d = g->d;
    d.rank = rank;
    d.world = g->world;
    d.at = g->address[0];
    if (g->mesh) d.peers = g->peers;
    if (g->mesh || !rank) d.listener = g->at[rank];
    d.no_mac = g->no_mac;
    return d;
}

T_FN void sum_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = g->counted == rank + 1 ? counted_ctx() : t_rank_ctx(TINY_TARGET_AUTO);
    tiny_tcp_desc d = desc_of(g, rank);
    tiny_comm_desc cd;
    tiny_comm *c = NULL;
    tiny_tcp *t = NULL;
    int i;
    memset(&cd, 0, sizeof cd);
    g->st[rank] = tiny_tcp_open(ctx, &d, &t);
    if (rank == 1) (void)tinyi_atomic_add(&g->joined, 1);
    if (!g->st[rank]) {
        cd.net = tiny_tcp_net(t);
        cd.n_most = (size_t)g->n + 16;
        cd.timeout_ns = UINT64_C(60000000000);
        cd.no_thread = g->kind;
        g->st[rank] = tiny_comm_open(ctx, &cd, &c);
    }
    for (i = 0; i < 3 && !g->st[rank]; i++)
        g->st[rank] = tiny_allreduce(c, g->x[rank] + i * g->n, (size_t)g->n, (unsigned)i);
    if (!g->st[rank]) g->st[rank] = tiny_comm_agree(c, "number", 77);
    (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
    for (i = 0; t && i < g->world; i++) g->sent[rank] += tiny_tcp_net(t)->count[i].bytes_sent;
    if (g->counted == rank + 1) count_bytes(g);
    tiny_comm_close(c);
    tiny_tcp_close(ctx, t);
    tiny_ctx_close(ctx);
}

/* ---- attackers --------------------------------------------------------------------------------------------------- */

T_FN uint64_t in_a_minute(void) { return tiny_now_ns() + UINT64_C(60000000000); }
T_FN int wait_for(tiny_socket s, int want)
{
    tiny_poll p;
    memset(&p, 0, sizeof p);
    p.socket = s;
    p.want = want;
    return !tiny_socket_poll(NULL, &p, 1, in_a_minute()) && p.can;
}
T_FN int put_all(tiny_socket s, const unsigned char *p, size_t n)
{
    size_t put;
    while (n && wait_for(s, TINY_POLL_WRITE) && !tiny_socket_write(NULL, s, p, n, &put)) { p += put; n -= put; }
    return !n;
}
/* how many of the n bytes came before the end */
T_FN size_t get_all(tiny_socket s, unsigned char *p, size_t n)
{
    size_t got, at = 0;
    int end = 0;
    while (at < n && !end && wait_for(s, TINY_POLL_READ) && !tiny_socket_read(NULL, s, p + at, n - at, &got, &end))
        at += got;
    return at;
}
T_FN tiny_socket connect_to(const char *text)
{
    tiny_address a[TINY_ADDRESSES];
    tiny_socket s = TINY_NO_SOCKET;
    int n;
    if (tiny_address_find(NULL, text, a, &n) || tiny_socket_connect(NULL, &a[0], &s)) return TINY_NO_SOCKET;
    return wait_for(s, TINY_POLL_WRITE) && !tiny_socket_connected(NULL, s) ? s : TINY_NO_SOCKET;
}
T_FN void random_nonce(tinyi_shake *k, uint64_t seed)
{
    size_t i;
    for (i = 0; i < 32; i++) k->nonce[i] = (unsigned char)(seed >> (i % 8 * 8) ^ i * 37);
}

/* what tiny_tcp_open makes of a desc of zeros */
T_FN void plain_settings(tinyi_shake *k)
{
    static const uint16_t order = 0x0100;
    memset(k->model, 0, 32);
    memset(k->config, 0, 32);
    k->config[30] = *(const unsigned char *)&order;
}

T_FN tiny_socket accept_one(tiny_socket at)
{
    tiny_socket s = TINY_NO_SOCKET;
    while (s == TINY_NO_SOCKET && wait_for(at, TINY_POLL_READ)) if (tiny_socket_accept(NULL, at, &s, NULL)) break;
    return s;
}
T_FN int frame(unsigned char *p, tiny_hmac *key, int type, int flags, uint64_t number, uint64_t tag,
                 const void *payload, size_t n)
{
    tinyi_head h;
    memset(&h, 0, sizeof h);
    h.type = type;
    h.flags = flags;
    h.n = (uint32_t)n;
    h.number = number;
    h.tag = tag;
    tinyi_head_put(p, &h);
    memcpy(p + 32, payload, n);
    tinyi_wire_mac(key, p, 32 + n, p + 32 + n);
    return (int)(48 + n);
}
T_FN void spoil(unsigned char *p, size_t *n, long i)  /* bit i flipped, or from 8 n on cut */
{
    if (i < 0) return;
    if (i < 8 * (long)*n) p[i / 8] ^= (unsigned char)(1 << i % 8);
    else *n = (size_t)(i - 8 * (long)*n);
}
/* the handshake of a server up to its WELCOME; i: what to spoil; 1: keys are there */
T_FN int serve(tiny_socket s, tinyi_shake *k, long challenge, long welcome)
{
    unsigned char in[160], p[80], plan[12];
    size_t n;
    make_shake(k, 1);
    memset(k->model, 0, 32);
    random_nonce(k, (uint64_t)(challenge * 5 + welcome));
    tinyi_shake_start(k);
    while (!k->done) {
        const size_t want = tinyi_shake_wants(k);
        if (want && (get_all(s, in, want) < want || tinyi_shake_take(k, in, want))) return 0;
        if (k->out_at < k->n_out) {
            n = k->n_out;
            spoil(k->out, &n, challenge);
            if (!put_all(s, k->out, n)) return 0;
            if (n < k->n_out) { (void)tiny_socket_finish(NULL, s); return 0; }
            k->out_at = k->n_out;
        }
    }
    memset(plan, 0, sizeof plan);
    plan[0] = 1;
    plan[4] = 2;
    n = (size_t)frame(p, &k->sends, TINYI_WIRE_WELCOME, 0, 0, 0, plan, 12);
    spoil(p, &n, welcome);
    if (!put_all(s, p, n)) return 0;
    if (welcome >= 0) (void)tiny_socket_finish(NULL, s);
    return 1;
}
T_FN void nap(uint64_t ns)
{
    tiny_poll p;
    const uint64_t until = tiny_now_ns() + ns;
    memset(&p, 0, sizeof p);
    p.socket = TINY_NO_SOCKET;
    while (tiny_now_ns() < until) (void)tiny_socket_poll(NULL, &p, 1, until);
}
#endif
#endif
