/* tests/core/tcp.c - ranks over TCP, and those who want to harm them
 *
 * Truth    the test vector of the protocol's specification; proofs and MACs by Python's hmac; what was sent. The
 *          attackers speak over real sockets of this machine: every truncation and every flipped bit of each message
 *          of the handshake and of a message's frame, replays, reflections, lying sizes, floods. Waits end after a
 *          minute at the latest, and only a test that hangs gets there. */
#define T_GNN
#define T_INTERNALS
#include "t.h"
#include "core/bytes.h"
#include "core/comm.h"
#include "core/tcp.h"
#include "core/wire_inside.h"

static const char secret[] = "correct horse battery staple";
#define N_SECRET (sizeof secret - 1)

static const char *hex(const unsigned char *p, size_t n)
{
    static char text[65];
    size_t i;
    for (i = 0; i < n; i++) (void)snprintf(text + 2 * i, 3, "%02x", p[i]);
    return text;
}

static void make_shake(tinyi_shake *k, int server)
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
/* what a sends goes to b, in the pieces that b takes */
static tiny_status carry(tinyi_shake *a, tinyi_shake *b)
{
    tiny_status st = TINY_OK;
    while (!st && a->out_at < a->n_out) {
        size_t n = tinyi_shake_wants(b);
        if (n > a->n_out - a->out_at) n = a->n_out - a->out_at;
        if (!n) return TINY_E_SHAPE;
        st = tinyi_shake_take(b, a->out + a->out_at, n);
        a->out_at += n;
    }
    return st;
}

static void test_vector(void)
{
    tinyi_shake c, s;
    tinyi_head h = { TINYI_WIRE_PING, 0, 1, 0, 0, 0 };
    unsigned char p[80], mac[16];
    char says[TINYI_WIRE_SAYS];
    int i;
    make_shake(&c, 0);
    make_shake(&s, 1);
    T_EQ_TEXT(hex(c.key, 32), "c4bbcb1fbec99d65bf59d85c8cb62ee2db963f0fe106f483d9afa73bd4e39a8a");
    tinyi_shake_start(&c);
    tinyi_shake_start(&s);
    T_EQ_INT(c.n_out, 140);
    T_EQ_INT(carry(&c, &s), TINY_OK);
    T_EQ_INT(s.n_out, 120);
    T_EQ_TEXT(hex(s.out + 88, 32), "73a0d4e5b959c7c515126b0ed6e129a0290b3713a634302dd891982431b3491f");
    T_EQ_INT(carry(&s, &c), TINY_OK);
    T_EQ_INT(c.n_out, 64);
    T_EQ_TEXT(hex(c.out + 32, 32), "26476a1a08f02a6e8056270c93f3a2adeb5f06190ef9787640838272f353edd4");
    T_EQ_INT(carry(&c, &s), TINY_OK);
    T_TRUE(c.done && s.done && s.peer_rank == 1 && s.peer_world == 2 && c.peer_most == 65536);
    for (i = 0; i < 32; i++) T_TRUE(!c.key[i] && !s.key[i]);
    /* PING of rank 1, as the specification has it */
    tinyi_head_put(p, &h);
    T_EQ_TEXT(hex(p, 32), "544c443101050000010000000000000000000000000000000000000000000000");
    tinyi_wire_mac(&c.sends, p, 32, mac);
    T_EQ_TEXT(hex(mac, 16), "7cd6f9519861ab76208fc306915858df");
    tinyi_wire_mac(&s.receives, p, 32, mac);
    T_EQ_TEXT(hex(mac, 16), "7cd6f9519861ab76208fc306915858df");
    tinyi_wire_mac(&s.sends, p, 32, mac);
    T_TRUE(strcmp(hex(mac, 16), "7cd6f9519861ab76208fc306915858df"));      /* the other direction has another key */
    h.type = TINYI_WIRE_REDUCE;
    h.n = 16;
    h.number = 3;
    h.tag = UINT64_C(0x123456789abcdef0);
    tinyi_head_put(p, &h);
    for (i = 0; i < 16; i++) p[32 + i] = (unsigned char)i;
    tinyi_wire_mac(&c.sends, p, 48, mac);
    T_EQ_TEXT(hex(mac, 16), "776eb6961815a6ef14bf1eece2ed4c69");
    T_TRUE(tinyi_head_get(p, 16, &h, says) && h.tag == UINT64_C(0x123456789abcdef0) && h.number == 3 && h.n == 16);
    T_TRUE(!tinyi_head_get(p, 15, &h, says) && strstr(says, "has 16 bytes"));
    T_PROOF("distributed 1", "test vector: K, direction keys, the MAC of PING");
}

/* each head field alone, with each wrong value that a head can show */
static void test_heads(void)
{
    static const struct { int type; uint32_t n; int flags; uint64_t tag; int ok; } of[] = {
        { 0, 0, 0, 0, 0 },       { 1, 108, 0, 0, 1 },  { 1, 107, 0, 0, 0 }, { 1, 109, 0, 0, 0 },
        { 2, 88, 0, 0, 1 },      { 2, 0, 0, 0, 0 },    { 3, 32, 0, 0, 1 },  { 3, 33, 0, 0, 0 },
        { 4, 12, 0, 0, 1 },      { 4, 11, 0, 0, 0 },   { 4, 4108, 0, 0, 1 }, { 4, 4109, 0, 0, 0 },
        { 5, 0, 0, 0, 1 },       { 5, 1, 0, 0, 0 },    { 6, 0, 0, 0, 1 },   { 7, 0, 0, 0, 0 },
        { 8, 0, 0, 0, 0 },       { 9, 0, 0, 0, 0 },    { 10, 0, 0, 0, 0 },  { 11, 0, 0, 5, 1 },
        { 11, 64, 2, 0, 1 },     { 11, 65, 0, 0, 0 },  { 11, 0xffffffffu, 0, 0, 0 },
        { 11, 0x80000000u, 0, 0, 0 }, { 11, 8, 1, 0, 0 }, { 11, 8, 4, 0, 0 }, { 11, 8, 0x8000, 0, 0 },
        { 12, 0, 0, 0, 0 },      { 13, 0, 0, 0, 0 },   { 14, 8, 0, 0, 1 },  { 14, 7, 0, 0, 0 },
        { 14, 8, 0, 1, 0 },      { 15, 0, 0, 0, 1 },   { 15, 0, 2, 0, 0 },  { 16, 0, 0, 0, 0 }, { 255, 0, 0, 0, 0 }
    };
    unsigned char p[32];
    char says[TINYI_WIRE_SAYS];
    size_t i;
    for (i = 0; i < T_COUNT(of); i++) {
        tinyi_head h = { 0, 0, 7, 0, 9, 0 }, got;
        h.type = of[i].type;
        h.n = of[i].n;
        h.flags = of[i].flags;
        h.tag = of[i].tag;
        tinyi_head_put(p, &h);
        says[0] = 0;
        if (!T_EQ_INT(tinyi_head_get(p, 64, &got, says), of[i].ok)) printf("  type %d, %u bytes\n", h.type, h.n);
        if (!of[i].ok) T_TRUE(strlen(says) > 10);
        else T_TRUE(got.rank == 7 && got.number == 9 && got.n == h.n && got.type == h.type);
    }
    p[4] = 2;
    T_TRUE(!tinyi_head_get(p, 64, &(tinyi_head){ 0, 0, 0, 0, 0, 0 }, says) && strstr(says, "version 2"));
    p[0] = 't';
    T_TRUE(!tinyi_head_get(p, 64, &(tinyi_head){ 0, 0, 0, 0, 0, 0 }, says) && strstr(says, "no TLD1"));
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
    tiny_tcp_desc d;                        /* what all have */
} group;

static void open_group(group *g, tiny_ctx *ctx, int world, int mesh)
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
static void close_group(group *g)
{
    int i;
    for (i = 0; i < g->world; i++) tiny_socket_close(g->at[i]);
}
static tiny_tcp_desc desc_of(const group *g, int rank)
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

static void sum_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_tcp_desc d = desc_of(g, rank);
    tiny_comm_desc cd;
    tiny_comm *c = NULL;
    tiny_tcp *t = NULL;
    int i;
    memset(&cd, 0, sizeof cd);
    g->st[rank] = tiny_tcp_open(ctx, &d, &t);
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
    tiny_comm_close(c);
    tiny_tcp_close(ctx, t);
    tiny_ctx_close(ctx);
}

/* sums over every kind of group: the longest message has several frames */
static void test_groups(void)
{
    static const int n_of[] = { 1, 1000, 70000 };
    int world, mesh, kind, k, r, i;
    for (world = 1; world <= 4; world++)
        for (mesh = 0; mesh < 2; mesh++)
            for (k = 0; k < 3; k++) {
                tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
                const int n = n_of[k];
                group g;
                open_group(&g, ctx, world, mesh);
                g.n = n;
                g.kind = kind = k % 2;
                g.no_mac = world == 3;
                for (r = 0; r < world; r++) {
                    g.x[r] = t_guarded((size_t)(3 * n));
                    for (i = 0; i < 3 * n; i++) g.x[r][i] = (float)((i * (r + 3)) % 101);
                }
                if (!t_ranks(world, sum_rank, &g)) { close_group(&g); t_close(ctx); return; }
                for (r = 0; r < world; r++) {
                    if (!T_EQ_INT(g.st[r], TINY_OK)) printf("  rank %d of %d: %s\n", r, world, g.says[r]);
                    for (i = 0; i < 3 * n; i++) {
                        int want = 0, j;
                        for (j = 0; j < world; j++) want += (i * (j + 3)) % 101;
                        if (!T_CLOSE(g.x[r][i], want, 0.0)) break;
                    }
                    T_WALLS(g.x[r], 3 * n);
                }
                if (world == 2) T_EQ_INT(g.sent[0], 3 * 4 * n + 64);
                close_group(&g);
                t_close(ctx);
                t_free_blocks();
                (void)kind;
            }
}

/* rank 0 chooses the numbers, and gives every rank its plan */
static void plan_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_tcp_desc d = desc_of(g, rank);
    tiny_tcp *t = NULL;
    size_t n = 0;
    if (rank) { d.rank = TINY_TCP_ANY; d.world = 0; d.plan = NULL; d.n_plan = 0; }
    g->st[rank] = tiny_tcp_open(ctx, &d, &t);
    if (!g->st[rank]) {
        const void *plan = tiny_tcp_plan(t, &n);
        g->gone[rank] = tiny_tcp_net(t)->rank + 10 * tiny_tcp_net(t)->world;
        if (n != TINY_TCP_PLAN || memcmp(plan, g->d.plan, n)) g->st[rank] = TINY_E_NUMERIC;
    }
    (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
    tiny_tcp_close(ctx, t);
    tiny_ctx_close(ctx);
}
static void test_plan(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    unsigned char plan[TINY_TCP_PLAN];
    int r, seen = 0;
    group g;
    for (r = 0; r < (int)sizeof plan; r++) plan[r] = (unsigned char)(r * 3);
    open_group(&g, ctx, 4, 0);
    g.d.plan = plan;
    g.d.n_plan = sizeof plan;
    if (t_ranks(4, plan_rank, &g))
        for (r = 0; r < 4; r++) {
            if (!T_EQ_INT(g.st[r], TINY_OK)) printf("  %s\n", g.says[r]);
            T_EQ_INT(g.gone[r] / 10, 4);
            seen |= 1 << g.gone[r] % 10;
        }
    T_EQ_INT(seen, 15);
    close_group(&g);
    t_close(ctx);
}

/* ---- attackers --------------------------------------------------------------------------------------------------- */

static uint64_t in_a_minute(void) { return tiny_now_ns() + UINT64_C(60000000000); }
static int wait_for(tiny_socket s, int want)
{
    tiny_poll p;
    memset(&p, 0, sizeof p);
    p.socket = s;
    p.want = want;
    return !tiny_socket_poll(NULL, &p, 1, in_a_minute()) && p.can;
}
static int put_all(tiny_socket s, const unsigned char *p, size_t n)
{
    size_t put;
    while (n && wait_for(s, TINY_POLL_WRITE) && !tiny_socket_write(NULL, s, p, n, &put)) { p += put; n -= put; }
    return !n;
}
/* how many of the n bytes came before the end */
static size_t get_all(tiny_socket s, unsigned char *p, size_t n)
{
    size_t got, at = 0;
    int end = 0;
    while (at < n && !end && wait_for(s, TINY_POLL_READ) && !tiny_socket_read(NULL, s, p + at, n - at, &got, &end))
        at += got;
    return at;
}
static tiny_socket connect_to(const char *text)
{
    tiny_address a[TINY_ADDRESSES];
    tiny_socket s = TINY_NO_SOCKET;
    int n;
    if (tiny_address_find(NULL, text, a, &n) || tiny_socket_connect(NULL, &a[0], &s)) return TINY_NO_SOCKET;
    return wait_for(s, TINY_POLL_WRITE) && !tiny_socket_connected(NULL, s) ? s : TINY_NO_SOCKET;
}
static void random_nonce(tinyi_shake *k, uint64_t seed)
{
    size_t i;
    for (i = 0; i < 32; i++) k->nonce[i] = (unsigned char)(seed >> (i % 8 * 8) ^ i * 37);
}

/* what tiny_tcp_open makes of a desc of zeros */
static void plain_settings(tinyi_shake *k)
{
    static const uint16_t order = 0x0100;
    memset(k->model, 0, 32);
    memset(k->config, 0, 32);
    k->config[30] = *(const unsigned char *)&order;
}

/* A client's handshake over s, with bit `flip` of its HELLO (which 0) or AUTH (which 1) flipped, or the message cut
 * before byte `cut`. 1: it has keys and sent everything. */
static int attack(tiny_socket s, tinyi_shake *k, int which, long flip, long cut)
{
    unsigned char in[160];
    int i;
    make_shake(k, 0);
    plain_settings(k);
    random_nonce(k, (uint64_t)(flip * 3 + cut * 7 + which));
    tinyi_shake_start(k);
    for (i = 0; i < 2; i++) {
        size_t n = k->n_out;
        if (i == which && flip >= 0) k->out[flip / 8] ^= (unsigned char)(1 << flip % 8);
        if (i == which && cut >= 0) n = (size_t)cut;
        if (!put_all(s, k->out, n)) return 0;
        k->out_at = k->n_out;
        if (i == which && cut >= 0) { (void)tiny_socket_finish(NULL, s); return 0; }
        if (i) return 1;
        while (!k->done) {
            const size_t want = tinyi_shake_wants(k);
            if (get_all(s, in, want) < want || tinyi_shake_take(k, in, want)) return 0;
        }
    }
    return 1;
}

/* rank 0 is the library's; rank 1 attacks it in every way, and joins at last: the group then works */
static void attacked_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    unsigned char in[400], old[204];
    tinyi_shake k;
    long i;
    int which, n_in = 0;
    if (!rank) {
        sum_rank(0, arg);
        return;
    }
    for (which = 0; which < 2; which++) {
        const long n = which ? 64 : 140;
        for (i = 0; i < 9 * n; i++) {
            const tiny_socket s = connect_to(g->address[0]);
            const int sent = attack(s, &k, which, i < 8 * n ? i : -1, i < 8 * n ? -1 : i - 8 * n);
            /* nothing but the end follows, whatever was accepted before */
            if (sent) n_in += get_all(s, in, 1) != 0;
            else if (which == 0 && i < 8 * n) n_in += k.done != 0;
            tiny_socket_close(s);
        }
    }
    g->gone[1] = n_in;                      /* how often it got in */
    /* a recording of a right handshake, played again: the nonce of the server is another one */
    {
        tiny_socket s = connect_to(g->address[0]);
        (void)attack(s, &k, 0, -1, 0);
        tiny_socket_close(s);
        s = connect_to(g->address[0]);
        make_shake(&k, 0);
        k.rank = 9;                         /* right in all but its rank: it is refused after AUTH, by name */
        plain_settings(&k);
        tinyi_shake_start(&k);
        memcpy(old, k.out, 140);
        (void)put_all(s, k.out, 140);
        k.out_at = k.n_out;
        while (!k.done && get_all(s, in, tinyi_shake_wants(&k)) && !tinyi_shake_take(&k, in, tinyi_shake_wants(&k))) {}
        memcpy(old + 140, k.out, 64);
        (void)put_all(s, k.out, 64);
        g->later[0] =
            (tiny_status)(get_all(s, in, 57) == 56 && in[5] == TINYI_WIRE_ABORT && in[36] == TINYI_ABORT_RANK);
        tiny_socket_close(s);
        s = connect_to(g->address[0]);
        (void)put_all(s, old, 204);
        g->later[1] = (tiny_status)get_all(s, in, 400);     /* the CHALLENGE, and no more */
        tiny_socket_close(s);
        /* reflection: what the server says comes back to it */
        s = connect_to(g->address[0]);
        (void)put_all(s, old, 140);
        i = (long)get_all(s, in, 120);
        (void)put_all(s, in, 120);
        g->later[2] = (tiny_status)(i == 120 ? get_all(s, in, 1) : 99);
        tiny_socket_close(s);
    }
    g->kind = 0;
    sum_rank(1, arg);
}
static void test_attacked_server(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    int r;
    open_group(&g, ctx, 2, 0);
    g.n = 10;
    for (r = 0; r < 2; r++) g.x[r] = t_rand(30, 0.0f, 1.0f);
    if (t_ranks(2, attacked_rank, &g)) {
        T_EQ_INT(g.gone[1], 0);
        T_EQ_INT(g.later[0], 1);
        T_EQ_INT(g.later[1], 120);
        T_EQ_INT(g.later[2], 0);
        for (r = 0; r < 2; r++) if (!T_EQ_INT(g.st[r], TINY_OK)) printf("  %s\n", g.says[r]);
        T_SAME(g.x[0], g.x[1], 30);
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: every truncation and bit flip of HELLO and AUTH, replay, reflection, over TCP");
}

/* A server that shakes hands rightly but for one bit or the end of its CHALLENGE or WELCOME; then, with n messages, of
 * the frame of a message. */
enum { CHALLENGE_BITS = 120 * 8, WELCOME_BITS = 60 * 8, FRAME_BITS = 112 * 8 };
static tiny_socket accept_one(tiny_socket at)
{
    tiny_socket s = TINY_NO_SOCKET;
    while (s == TINY_NO_SOCKET && wait_for(at, TINY_POLL_READ)) if (tiny_socket_accept(NULL, at, &s, NULL)) break;
    return s;
}
static int frame(unsigned char *p, tiny_hmac *key, int type, int flags, uint64_t number, uint64_t tag,
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
static void spoil(unsigned char *p, size_t *n, long i)  /* bit i flipped, or from 8 n on cut */
{
    if (i < 0) return;
    if (i < 8 * (long)*n) p[i / 8] ^= (unsigned char)(1 << i % 8);
    else *n = (size_t)(i - 8 * (long)*n);
}
/* the handshake of a server up to its WELCOME; i: what to spoil; 1: keys are there */
static int serve(tiny_socket s, tinyi_shake *k, long challenge, long welcome)
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
static void bad_server_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    const long n = CHALLENGE_BITS / 8 * 9 + WELCOME_BITS / 8 * 9;
    long i;
    if (!rank) {
        for (i = 0; i < n; i++) {
            const long second = i - CHALLENGE_BITS / 8 * 9;
            const tiny_socket s = accept_one(g->at[0]);
            unsigned char in[80];
            tinyi_shake k;
            (void)serve(s, &k, second < 0 ? i : -1, second);
            (void)get_all(s, in, sizeof in);            /* until the client leaves */
            tiny_socket_close(s);
        }
        return;
    }
    for (i = 0; i < n; i++) {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_tcp *t = NULL;
        tiny_status st;
        const long at = i < CHALLENGE_BITS / 8 * 9 ? i : i - CHALLENGE_BITS / 8 * 9;
        /* A cut is the end of a connection, which would be tried again: it gives up before that. So is a WELCOME that
         * claims more bytes than come. */
        const int cut = i < CHALLENGE_BITS / 8 * 9 ? at >= CHALLENGE_BITS
                                                   : at >= WELCOME_BITS || (at >= 12 * 8 && at < 16 * 8 && at != 98 &&
                                                                            at != 99 && at < 109);
        d.open_ns = cut ? 3000000 : UINT64_C(60000000000);
        d.handshake_ns = UINT64_C(60000000000);
        st = tiny_tcp_open(ctx, &d, &t);
        if (st != (cut ? TINY_E_TIMEOUT : TINY_E_PROTOCOL) || t || strlen(tiny_ctx_message(ctx)) < 20) {
            g->gone[1]++;
            g->index = (int)i;
            (void)snprintf(g->says[1], sizeof g->says[1], "%d: %s", (int)st, tiny_ctx_message(ctx));
            tiny_tcp_close(ctx, t);
        }
        tiny_ctx_close(ctx);
    }
}
static void test_bad_server(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, bad_server_rank, &g) && !T_EQ_INT(g.gone[1], 0)) printf("  case %d: %s\n", g.index, g.says[1]);
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: every truncation and bit flip of CHALLENGE and WELCOME over TCP");
}

/* The handshake is right; then the frame of a message of 16 numbers has one wrong bit, or ends early. Nothing of it
 * may reach the caller. */
static void bad_frame_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    const long n = FRAME_BITS / 8 * 9;
    float x[16];
    long i;
    if (!rank) {
        for (i = 0; i <= n; i++) {
            const tiny_socket s = accept_one(g->at[0]);
            unsigned char p[160];
            tinyi_shake k;
            size_t size;
            if (serve(s, &k, -1, -1)) {
                memset(x, 0x11, sizeof x);
                size = (size_t)frame(p, &k.sends, TINYI_WIRE_REDUCE, 0, 1, 5, x, sizeof x);
                if (i < n) spoil(p, &size, i);
                (void)put_all(s, p, size);
                (void)tiny_socket_finish(NULL, s);
                (void)get_all(s, p, sizeof p);
            }
            tiny_socket_close(s);
        }
        return;
    }
    for (i = 0; i <= n; i++) {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_tcp *t = NULL;
        tiny_status st = tiny_tcp_open(ctx, &d, &t);
        tiny_message m;
        memset(x, 0, sizeof x);
        memset(&m, 0, sizeof m);
        m.tag = 5;
        m.data = x;
        m.n = sizeof x;
        if (!st) {
            tiny_net *net = tiny_tcp_net(t);
            while (!st && !m.whole) {
                const uint64_t seen = net->changes(net);
                st = net->recv(net, 0, &m);
                if (!st && !m.whole) net->pause(net, seen, in_a_minute());
            }
            if (i == n ? st || !m.whole || x[3] == 0.0f
                       : (st != TINY_E_PROTOCOL && !(st == TINY_E_PEER && (i >= FRAME_BITS || i / 32 == 3))) ||
                             m.done || x[0] != 0.0f || net->gone != 1 || strlen(net->says) < 10) {
                g->gone[1]++;
                g->index = (int)i;
                (void)snprintf(g->says[1], sizeof g->says[1], "%d: %s", (int)st, net->says);
            }
        } else g->gone[1]++;
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
}
static void test_bad_frame(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, bad_frame_rank, &g) && !T_EQ_INT(g.gone[1], 0)) printf("  case %d: %s\n", g.index, g.says[1]);
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: every truncation and bit flip of a REDUCE frame over TCP");
}

/* Frames that are authentic, from a rank that lies: kind says how. */
enum {
    LIES_SHORT, LIES_LONG, LIES_TAG, LIES_MORE, LIES_EMPTY, LIES_NUMBER, LIES_AGAIN, LIES_MIRROR, LIES_STEP,
    LIES_WELCOME, LIES_NAN, SAYS_BYE, LIES
};
static void liar_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    int i;
    if (!rank) {
        for (i = 0; i < LIES; i++) {
            const tiny_socket s = accept_one(g->at[0]);
            static const float nan_of[8] = { 0.0f, NAN, 0, 0, 0, 0, 0, 0 };
            unsigned char p[400], zero[64];
            tinyi_shake k;
            int n = 0;
            const int type = i == LIES_STEP ? TINYI_WIRE_STEP : i == LIES_WELCOME ? TINYI_WIRE_WELCOME
                                                          : i == SAYS_BYE ? TINYI_WIRE_BYE : TINYI_WIRE_REDUCE;
            memset(zero, 0, sizeof zero);
            if (serve(s, &k, -1, -1)) {
                (void)get_all(s, p, 80);                /* its 8 numbers */
                if (i == LIES_MIRROR) n = 80;
                else
                    n = frame(p, &k.sends, type, i == LIES_MORE || i == LIES_EMPTY ? TINYI_WIRE_MORE : 0,
                              i == LIES_NUMBER ? 2 : 1, type != TINYI_WIRE_REDUCE ? 0 : i == LIES_TAG ? 2 : 1,
                              i == LIES_NAN ? (const void *)nan_of : zero,
                              i == LIES_SHORT ? 28 : i == LIES_LONG ? 36 : i == LIES_EMPTY || i == SAYS_BYE ? 0 :
                              i == LIES_WELCOME ? 12 : 32);
                if (i == LIES_AGAIN) { memcpy(p + 80, p, 80); n = 160; }
                (void)put_all(s, p, (size_t)n);
                (void)tiny_socket_finish(NULL, s);
                while (get_all(s, p, sizeof p) == sizeof p) {}
            }
            tiny_socket_close(s);
        }
        return;
    }
    for (i = 0; i < LIES; i++) {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_comm_desc cd;
        tiny_comm *c = NULL;
        tiny_tcp *t = NULL;
        float x[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
        tiny_status st = tiny_tcp_open(ctx, &d, &t);
        memset(&cd, 0, sizeof cd);
        cd.net = tiny_tcp_net(t);
        cd.n_most = 8;
        cd.finite = 1;
        cd.timeout_ns = UINT64_C(60000000000);
        if (!st) st = tiny_comm_open(ctx, &cd, &c);
        if (!st) st = tiny_allreduce(c, x, 8, 1);
        if (!st && i == LIES_AGAIN) st = tiny_allreduce(c, x, 8, 1);
        if (st != (i == SAYS_BYE ? TINY_E_PEER : TINY_E_PROTOCOL) || strlen(tiny_ctx_message(ctx)) < 10) {
            g->gone[1]++;
            g->index = i;
            (void)snprintf(g->says[1], sizeof g->says[1], "%d: %s", (int)st, tiny_ctx_message(ctx));
        }
        tiny_comm_close(c);
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
}
static void test_liars(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, liar_rank, &g) && !T_EQ_INT(g.gone[1], 0)) printf("  kind %d: %s\n", g.index, g.says[1]);
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: NaN payload, wrong-count payload, replayed and reflected frames");
}

/* Half-open connections, those that send one byte, and those that send nothing: none takes memory, and each slot is
 * free again after the time-out of the handshake. */
static void flood_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    enum { MANY = 10000, AT_ONCE = 100 };
    tiny_socket s[AT_ONCE], slow;
    unsigned char byte;
    int i, k;
    if (!rank) {
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_tcp_desc d = desc_of(g, 0);
        tiny_ctx *ctx = NULL;
        tiny_tcp *t = NULL;
        d.handshake_ns = 20000000;
        if (tiny_ctx_open(&desc, &ctx)) return;
        t_alloc.most_bytes = t_alloc.live_bytes;
        g->later[0] = (tiny_status)0;
        g->st[0] = tiny_tcp_open(ctx, &d, &t);
        g->sent[0] = t_alloc.most_bytes;
        (void)snprintf(g->says[0], sizeof g->says[0], "%s", tiny_ctx_message(ctx));
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
        return;
    }
    slow = connect_to(g->address[0]);       /* never says a word: its slot is taken back */
    for (i = 0; i < MANY / AT_ONCE; i++) {
        for (k = 0; k < AT_ONCE; k++) {
            s[k] = connect_to(g->address[0]);
            if (k % 2 && s[k] != TINY_NO_SOCKET) (void)put_all(s[k], (const unsigned char *)"T", 1);
        }
        for (k = 0; k < AT_ONCE - 1; k++) tiny_socket_close(s[k]);
        /* the last one waits for its end: so the list of those who wait does not overflow */
        if (s[k] == TINY_NO_SOCKET || tiny_socket_finish(NULL, s[k]) || get_all(s[k], &byte, 1)) g->gone[1]++;
        tiny_socket_close(s[k]);
    }
    {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_tcp *t = NULL;
        g->st[1] = tiny_tcp_open(ctx, &d, &t);
        (void)snprintf(g->says[1], sizeof g->says[1], "%s", tiny_ctx_message(ctx));
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
    g->gone[0] = slow != TINY_NO_SOCKET && get_all(slow, &byte, 1) == 0;     /* closed by the server */
    tiny_socket_close(slow);
}
static void test_flood(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    int r;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, flood_rank, &g)) {
        for (r = 0; r < 2; r++) if (!T_EQ_INT(g.st[r], TINY_OK)) printf("  %s\n", g.says[r]);
        T_EQ_INT(g.gone[0], 1);
        T_EQ_INT(g.gone[1], 0);
        /* two frames of 64 KiB for the one peer, and the slots of four strangers */
        T_TRUE(g.sent[0] > 0 && g.sent[0] < 2 * 65584 + 100000);
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: 10,000 half-open connections, no allocation above the limit");
}

/* wrong key, other model, other settings, MAC off on one side, a rank that is taken */
static void refused_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    static const char *const part[] = { "does not have the same key", "another model", "other settings",
                                        "other settings", "is taken", "another size" };
    int i;
    if (!rank) {
        sum_rank(0, arg);
        return;
    }
    for (i = 0; i < 6; i++) {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_tcp *t = NULL;
        if (i == 0) { d.secret = "correct horse battery stable"; }
        if (i == 1) d.model[31] = 1;
        if (i == 2) d.config[0] = 1;
        if (i == 3) d.no_mac = 1;
        if (i == 4) { d.world = 0; d.rank = 7; }
        if (i == 5) d.world = 3;
        if (tiny_tcp_open(ctx, &d, &t) != TINY_E_PROTOCOL || !strstr(tiny_ctx_message(ctx), part[i])) {
            g->gone[1]++;
            (void)snprintf(g->says[2], sizeof g->says[2], "%d: %s", i, tiny_ctx_message(ctx));
        }
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
    sum_rank(1, arg);
}
static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    int r;
    open_group(&g, ctx, 2, 0);
    g.n = 3;
    for (r = 0; r < 2; r++) g.x[r] = t_rand(9, 0.0f, 1.0f);
    if (t_ranks(2, refused_rank, &g)) {
        if (!T_EQ_INT(g.gone[1], 0)) printf("  %s\n", g.says[2]);
        for (r = 0; r < 2; r++) T_EQ_INT(g.st[r], TINY_OK);
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: wrong secret, wrong model");
}

/* ---- ranks that end ---------------------------------------------------------------------------------------------- */

/* Rank 1 takes part in `index` sums and is gone, gives up, or comes later than the others wait. */
enum { GOES_DEAD, GOES_SAYING_SO, GOES_LATE };
static void ending_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_tcp_desc d = desc_of(g, rank);
    tiny_comm_desc cd;
    tiny_comm *c = NULL;
    tiny_tcp *t = NULL;
    float x[5] = { 1, 2, 3, 4, 5 };
    int i;
    memset(&cd, 0, sizeof cd);
    g->st[rank] = tiny_tcp_open(ctx, &d, &t);
    cd.net = tiny_tcp_net(t);
    cd.n_most = 16;
    cd.timeout_ns = g->kind == GOES_LATE && rank != 1 ? 30000000 : UINT64_C(60000000000);
    if (!g->st[rank]) g->st[rank] = tiny_comm_open(ctx, &cd, &c);
    for (i = 0; i < 6 && !g->st[rank]; i++) {
        if (rank == 1 && i == g->index && g->kind == GOES_LATE) {
            const uint64_t until = tiny_now_ns() + 200000000;
            while (tiny_now_ns() < until) {}
        } else if (rank == 1 && i == g->index) {
            if (g->kind == GOES_SAYING_SO) tiny_comm_abort(c);
            break;
        }
        g->st[rank] = tiny_allreduce(c, x, 5, 0);
    }
    if (t) g->gone[rank] = tiny_tcp_net(t)->gone;
    (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
    tiny_comm_close(c);
    tiny_tcp_close(ctx, t);
    tiny_ctx_close(ctx);
}
static void test_ends(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    int r, kind, index;
    for (kind = GOES_DEAD; kind < GOES_LATE; kind++)
        for (index = 0; index < 6; index++) {
            open_group(&g, ctx, 3, 1);
            g.kind = kind;
            g.index = index;
            if (!t_ranks(3, ending_rank, &g)) break;
            for (r = 0; r < 3; r += 2) {
                if (!T_EQ_INT(g.st[r], TINY_E_PEER))
                    printf("  kind %d, sum %d, rank %d: %s\n", kind, index, r, g.says[r]);
                T_EQ_INT(g.gone[r], 2);     /* rank 1, whoever noticed first */
                T_TRUE(strstr(g.says[r], "rank 1") != NULL);
            }
            close_group(&g);
        }
    open_group(&g, ctx, 3, 1);
    g.kind = GOES_LATE;
    g.index = 2;
    if (t_ranks(3, ending_rank, &g)) {
        T_TRUE(g.st[0] == TINY_E_TIMEOUT || g.st[2] == TINY_E_TIMEOUT);
        for (r = 0; r < 3; r++) T_TRUE(g.st[r] == TINY_E_TIMEOUT || g.st[r] == TINY_E_PEER);
        T_EQ_INT(g.st[1], TINY_E_PEER);
        T_TRUE(strstr(g.says[1], "waited too long") != NULL);
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "worker delayed beyond the time of a step");
    T_PROOF("distributed 1", "worker gone at each message index: every survivor gets PEER with its rank");
}

/* a connection that stays while its rank is stopped: three pings are missing. The rank is the test's own. */
static void silent_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    if (!rank) {
        const tiny_socket s = accept_one(g->at[0]);
        unsigned char p[400], none[1] = { 0 };
        tinyi_shake k;
        if (serve(s, &k, -1, -1)) {
            (void)put_all(s, p, (size_t)frame(p, &k.sends, TINYI_WIRE_PING, 0, 1, 0, none, 0));
            while (get_all(s, p, sizeof p) == sizeof p) {}
        }
        tiny_socket_close(s);
        return;
    }
    {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_comm_desc cd;
        tiny_comm *c = NULL;
        tiny_tcp *t = NULL;
        float x = 1.0f;
        memset(&cd, 0, sizeof cd);
        d.ping_ns = 10000000;
        g->st[1] = tiny_tcp_open(ctx, &d, &t);
        cd.net = tiny_tcp_net(t);
        cd.timeout_ns = UINT64_C(60000000000);
        if (!g->st[1]) g->st[1] = tiny_comm_open(ctx, &cd, &c);
        if (!g->st[1]) g->st[1] = tiny_allreduce(c, &x, 1, 0);
        (void)snprintf(g->says[1], sizeof g->says[1], "%s", tiny_ctx_message(ctx));
        tiny_comm_close(c);
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
}
/* pings keep a rank alive that computes for longer than three of them */
static void busy_rank(int rank, void *arg)
{
    const uint64_t until = tiny_now_ns() + UINT64_C(150000000);
    if (rank) while (tiny_now_ns() < until) {}
    sum_rank(rank, arg);
}
static void test_silence(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    int r;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, silent_rank, &g)) T_TRUE(g.st[1] == TINY_E_PEER && strstr(g.says[1], "three pings"));
    close_group(&g);
    open_group(&g, ctx, 2, 0);
    g.n = 3;
    g.d.ping_ns = 10000000;
    for (r = 0; r < 2; r++) g.x[r] = t_rand(9, 0.0f, 1.0f);
    if (t_ranks(2, busy_rank, &g)) for (r = 0; r < 2; r++) T_EQ_INT(g.st[r], TINY_OK);
    close_group(&g);
    t_close(ctx);
}

static void test_bad_descs(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const char *const peers[] = { "127.0.0.1:1", NULL };
    tiny_tcp_desc d, ok;
    tiny_tcp *t = NULL;
    size_t n = 9;
    memset(&ok, 0, sizeof ok);
    ok.world = 1;
    ok.secret = secret;
    ok.n_secret = 16;
    T_STATUS(tiny_tcp_open(ctx, NULL, &t), TINY_E_ARGUMENT, "needs a desc");
    T_STATUS(tiny_tcp_open(ctx, &ok, NULL), TINY_E_ARGUMENT, "needs a desc");
    d = ok; d.n_secret = 15;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "a secret of 15 bytes");
    d = ok; d.secret = NULL;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "a secret of 0 bytes");
    d = ok; d.world = 0;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "0 ranks");
    d = ok; d.world = 65;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "65 ranks");
    d = ok; d.rank = 1;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "rank 1 of 1");
    d = ok; d.rank = -2;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "rank -2");
    d = ok; d.world = 2;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "the address of rank 0 is missing");
    d = ok; d.world = 2; d.peers = peers; d.rank = 1;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "the address of rank 1 is missing");
    d = ok; d.plan = secret; d.n_plan = TINY_TCP_PLAN + 1;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "a plan of 4097 bytes");
    d = ok; d.world = 2; d.at = "*:0"; d.no_mac = 1;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "without MAC");
    d = ok; d.world = 2; d.at = "192.0.2.1:1"; d.rank = 1; d.no_mac = 1;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "without MAC");
    d = ok; d.world = 2; d.at = "127.0.0.1:0"; d.open_ns = 1;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_TIMEOUT, "1 ranks are missing, the first is rank 1");
    d = ok; d.world = 2; d.at = "127.0.0.1:1"; d.open_ns = 1000000; d.rank = 1;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_TIMEOUT, "rank 0");
    d = ok; d.world = 2; d.at = "nonsense"; d.rank = 1;
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_ARGUMENT, "HOST:PORT");
    T_TRUE(t == NULL && tiny_tcp_net(NULL) == NULL && tiny_tcp_plan(NULL, &n) == NULL && n == 0);
    tiny_tcp_close(ctx, NULL);
    T_OK(tiny_tcp_open(ctx, &ok, &t));      /* a group of one */
    if (t) {
        tiny_message m;
        tiny_net *net = tiny_tcp_net(t);
        memset(&m, 0, sizeof m);
        T_EQ_INT(net->send(net, 0, &m), TINY_E_ARGUMENT);
        T_EQ_INT(net->recv(net, 1, &m), TINY_E_ARGUMENT);
        tiny_tcp_close(ctx, t);
    }
    T_EACH_ALLOCATION(
        tiny_ctx_desc poor = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *c = NULL;
        tiny_tcp *u = NULL;
        d = ok; d.world = 3; d.at = "127.0.0.1:0"; d.open_ns = 1;
        if (!tiny_ctx_open(&poor, &c)) {
            const tiny_status st = tiny_tcp_open(c, &d, &u);
            T_TRUE((st == TINY_E_TIMEOUT || st == TINY_E_MEMORY) && !u);
        }
        tiny_ctx_close(c);
    )
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_vector);
    T_RUN(test_heads);
    T_RUN(test_groups);
    T_RUN(test_plan);
    T_RUN(test_attacked_server);
    T_RUN(test_bad_server);
    T_RUN(test_bad_frame);
    T_RUN(test_liars);
    T_RUN(test_flood);
    T_RUN(test_refused);
    T_RUN(test_ends);
    T_RUN(test_silence);
    T_RUN(test_bad_descs);
    return t_done();
}
#else
int main(void)
{
    T_RUN(test_vector);
    T_RUN(test_heads);
    return t_done();
}
#endif
