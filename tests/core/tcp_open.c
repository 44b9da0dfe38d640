/* tests/core/tcp_open.c - how ranks over TCP find each other, and those who should not
 *
 * Truth    a handshake worked by hand; proofs and MACs by Python's hmac. The attackers speak over
 *          real sockets of this machine: every truncation and every flipped bit of each message of the handshake,
 *          replays, reflections, lying sizes, floods, bytes that come one by one. */
#define T_GNN
#define T_INTERNALS
#include "tcp_kit.h"
#include "core/secret_inside.h"
#include "core/tcp_open_inside.h"
#ifdef __linux__
#include <sys/mman.h>
#include <sys/resource.h>
#endif

static const char *hex(const unsigned char *p, size_t n)
{
    static char text[65];
    size_t i;
    for (i = 0; i < n; i++) (void)snprintf(text + 2 * i, 3, "%02x", p[i]);
    return text;
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
    /* PING of rank 1, byte by byte */
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

#if T_PTHREAD
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
        tiny_address mine, none;            /* both ends are on 127.0.0.1, at the port of rank 0 there */
        char text[TINY_ADDRESS_TEXT];
        const int me = tiny_tcp_net(t)->rank;
        T_OK(tiny_tcp_address(ctx, t, me ? 0 : 1, &mine));
        tiny_address_text(&mine, text);
        T_TRUE(!strncmp(text, "127.0.0.1:", 10) && (me != 0) == (strcmp(text, g->address[0]) != 0));
        T_EQ_INT(tiny_tcp_address(ctx, t, me, &none), TINY_E_ARGUMENT);
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
    g.counted = 1;                          /* the server */
    for (r = 0; r < 2; r++) g.x[r] = t_rand(30, 0.0f, 1.0f);
    if (t_ranks(2, attacked_rank, &g)) {
        T_EQ_INT(g.gone[1], 0);
        T_TRUE(g.most > 2 * 65536 && g.most < MOST_BYTES);
        T_EQ_INT(g.later[0], 1);
        T_EQ_INT(g.later[1], 120);
        T_EQ_INT(g.later[2], 0);
        for (r = 0; r < 2; r++) if (!T_EQ_INT(g.st[r], TINY_OK)) printf("  %s\n", g.says[r]);
        T_SAME(g.x[0], g.x[1], 30);
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1",
            "hostile: every truncation and bit flip of HELLO and AUTH, replay, reflection, over TCP, memory bounded");
}

/* a server that shakes hands rightly but for one bit or the end of its CHALLENGE or WELCOME */
enum { CHALLENGE_BITS = 120 * 8, WELCOME_BITS = 60 * 8 };
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
        tiny_ctx *ctx = counted_ctx();
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
        count_bytes(g);
        tiny_ctx_close(ctx);
    }
}
static void test_bad_server(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, bad_server_rank, &g)) {
        if (!T_EQ_INT(g.gone[1], 0)) printf("  case %d: %s\n", g.index, g.says[1]);
        T_TRUE(g.most > 0 && g.most < MOST_BYTES);
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1",
            "hostile: every truncation and bit flip of CHALLENGE and WELCOME over TCP, memory bounded");
}

/* Rank 1 is there. Another one of that number is refused, and the group still gets its rank 2. */
static void taken_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    if (rank == 2) {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_tcp *t = NULL;
        while (!tinyi_atomic_get(&g->joined)) nap(1000000);
        g->later[2] = tiny_tcp_open(ctx, &d, &t);
        (void)snprintf(g->says[3], sizeof g->says[3], "%s", tiny_ctx_message(ctx));
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
    sum_rank(rank, arg);
}
static void test_taken(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    int r;
    open_group(&g, ctx, 3, 0);
    g.n = 3;
    for (r = 0; r < 3; r++) g.x[r] = t_rand(9, 0.0f, 1.0f);
    if (t_ranks(3, taken_rank, &g)) {
        T_EQ_INT(g.later[2], TINY_E_PROTOCOL);
        if (!T_TRUE(strstr(g.says[3], "the rank is taken") != NULL)) printf("  %s\n", g.says[3]);
        for (r = 0; r < 3; r++) if (!T_EQ_INT(g.st[r], TINY_OK)) printf("  %s\n", g.says[r]);
    }
    close_group(&g);
    t_close(ctx);
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
        tiny_tcp_desc d = desc_of(g, 0);
        tiny_ctx *ctx = counted_ctx();
        tiny_tcp *t = NULL;
        d.handshake_ns = 20000000;
        g->st[0] = tiny_tcp_open(ctx, &d, &t);
        count_bytes(g);
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
        T_TRUE(g.most > 2 * 65536 && g.most < MOST_BYTES);
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
                                        "other settings", "is taken", "another size", "another model" };
    group mine = *g;
    int i;
    if (!rank) {
        sum_rank(0, arg);
        return;
    }
    for (i = 0; i < 7 - g->d.gives_model; i++) {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_tcp *t = NULL;
        if (i == 6) memset(d.model, 0, sizeof d.model);
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
    if (g->d.gives_model) memset(mine.d.model, 0, sizeof mine.d.model);
    sum_rank(1, &mine);
    g->st[1] = mine.st[1];
}
static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    int r, gives;
    for (gives = 0; gives < 2; gives++) {   /* 1: rank 0 also takes a rank that has no model yet, and no wrong one */
        open_group(&g, ctx, 2, 0);
        g.n = 3;
        g.d.model[5] = 9;
        g.d.gives_model = gives;
        for (r = 0; r < 2; r++) g.x[r] = t_rand(9, 0.0f, 1.0f);
        if (t_ranks(2, refused_rank, &g)) {
            if (!T_EQ_INT(g.gone[1], 0)) printf("  %s\n", g.says[2]);
            for (r = 0; r < 2; r++) T_EQ_INT(g.st[r], TINY_OK);
        }
        close_group(&g);
    }
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: wrong secret, wrong model");
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
    T_STATUS(tiny_tcp_open(ctx, &d, &t), TINY_E_TIMEOUT, "rank 1 is missing: it has not come");
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

/* A stranger sends its HELLO byte by byte: no byte gives it more time. It may get through once in a while, if this
 * machine stops for so long that all bytes lie there at once. */
static void drip_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    int turn, i;
    if (!rank) {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 0);
        tiny_tcp *t = NULL;
        d.handshake_ns = 20000000;
        g->st[0] = tiny_tcp_open(ctx, &d, &t);
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
        return;
    }
    for (turn = 0; turn < 20 && !g->gone[1]; turn++) {
        const tiny_socket s = connect_to(g->address[0]);
        unsigned char in[130];
        size_t got = 0, n = 1;
        int end = 0;
        tinyi_shake k;
        make_shake(&k, 0);
        plain_settings(&k);
        tinyi_shake_start(&k);
        for (i = 0; i < 140 && !end && n; i++) {
            if (tiny_socket_write(NULL, s, k.out + i, 1, &n)) break;
            nap(2000000);
            if (tiny_socket_read(NULL, s, in, sizeof in, &got, &end) || got) break;
        }
        g->gone[1] = !got && i < 140;       /* closed before the last byte, and without an answer */
        tiny_socket_close(s);
    }
    sum_rank(1, arg);
}
static void test_drip(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    open_group(&g, ctx, 2, 0);
    g.n = 1;
    g.x[1] = t_rand(3, 0.0f, 1.0f);
    if (t_ranks(2, drip_rank, &g)) {
        T_EQ_INT(g.gone[1], 1);
        T_EQ_INT(g.st[0], TINY_OK);         /* the rank that it waited for came through all the same */
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: a handshake byte by byte has no more time than any other");
}

/* ---- the system -------------------------------------------------------------------------------------------------- */

/* Is the page of p left out of core files? -1: the system does not say. */
static int has_flag(const void *p)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[400];
    int here = 0, is = -1;
    while (f && is < 0 && fgets(line, sizeof line, f)) {
        char *end;
        const uintptr_t from = (uintptr_t)strtoull(line, &end, 16);
        if (*end == '-') here = from <= (uintptr_t)p && (uintptr_t)p < (uintptr_t)strtoull(end + 1, NULL, 16);
        if (here && !strncmp(line, "VmFlags:", 8)) is = strstr(line, " dd") != NULL;
    }
    if (f) (void)fclose(f);
    return is;
}
/* The same; -1 also where a page that was left out here does not have the flag, as under emulators. */
static int left_out(const void *p)
{
    static int asked, shows;
#if defined __linux__ && defined MADV_DONTDUMP
    if (!asked++) {
        void *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page != MAP_FAILED) {
            shows = !madvise(page, 65536, MADV_DONTDUMP) && has_flag(page) == 1;
            (void)munmap(page, 65536);
        }
    }
#else
    (void)asked;
#endif
    return shows ? has_flag(p) : -1;
}
/* an allocator that looks for keys in what is freed */
static unsigned char key_of_group[32];
static int n_keys_left;
static void *watches(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)old;
    size_t i;
    (void)user;
    for (i = 0; p && !n_bytes && i + 32 <= old_bytes; i++) if (!memcmp(p + i, key_of_group, 32)) n_keys_left++;
    if (n_bytes) return realloc(old, n_bytes);
    free(old);
    return NULL;
}
static void wiped_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_tcp_desc d = desc_of(g, rank);
    tiny_ctx *ctx = NULL;
    tiny_tcp *t = NULL;
    desc.allocator.realloc_fn = watches;
    if (tiny_ctx_open(&desc, &ctx)) return;
    g->st[rank] = tiny_tcp_open(ctx, &d, &t);
    tiny_tcp_close(ctx, t);
    tiny_ctx_close(ctx);
}
static void test_wiped(void)
{
    tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *own = NULL;
    unsigned char *p;
    group g;
    tiny_sha256_of(secret, N_SECRET, key_of_group);
    n_keys_left = 0;
    desc.allocator.realloc_fn = watches;
    if (!T_OK(tiny_ctx_open(&desc, &own))) return;
    p = (unsigned char *)tinyi_secret_alloc(own, 100);
    memcpy(p + 68, key_of_group, 32);
    tinyi_secret_free(own, p);
    T_EQ_INT(n_keys_left, 0);
    p = (unsigned char *)tiny_alloc(own, 100);          /* it would have been seen */
    memcpy(p + 68, key_of_group, 32);
    tiny_free(own, p);
    T_EQ_INT(n_keys_left, 1);
    tiny_ctx_close(own);
    n_keys_left = 0;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, wiped_rank, &g)) T_TRUE(!g.st[0] && !g.st[1] && !n_keys_left);
    close_group(&g);
    t_close(ctx);
}
static void test_keys(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const size_t sizes[] = { 0, 1, 64, 4032, 4033, 70000 };
    tiny_tcp_desc d;
    tiny_tcp *t = NULL;
    size_t i, k;
    T_TRUE(tinyi_secret_alloc(ctx, SIZE_MAX) == NULL);
    T_EQ_INT(tiny_ctx_status(ctx), TINY_E_OVERFLOW);
    tinyi_secret_free(ctx, NULL);
    for (i = 0; i < T_COUNT(sizes); i++) {
        unsigned char *p = (unsigned char *)tinyi_secret_alloc(ctx, sizes[i]);
        if (!T_TRUE(p && !((uintptr_t)p & 63))) continue;
        for (k = 0; k < sizes[i]; k++) { if (p[k]) T_TRUE(!p[k]); p[k] = 0x5a; }
        if (sizes[i]) T_TRUE(left_out(p) != 0 && left_out(p + sizes[i] - 1) != 0);
        tinyi_secret_free(ctx, p);
    }
    memset(&d, 0, sizeof d);
    d.world = 1;
    d.secret = secret;
    d.n_secret = N_SECRET;
    if (T_OK(tiny_tcp_open(ctx, &d, &t))) {
        T_TRUE(left_out(t->peer) != 0);
        if (left_out(t->peer) < 0) t_skip("this system does not say what is in core files");
    }
    tiny_tcp_close(ctx, t);
    t_close(ctx);
}

#if defined __linux__
static int n_complaints;
static void complaint(void *user, tiny_log_level level, const char *sentence)
{
    (void)user;
    n_complaints += level == TINY_LOG_ERROR && strstr(sentence, "too many files") != NULL;
}
/* No descriptor is left for a connection that waits: rank 0 waits too, and does not ask without a pause. */
static void test_no_descriptors(void)
{
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    tiny_ctx *ctx = NULL, *own = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_tcp_desc d;
    tiny_tcp *t = NULL;
    struct rlimit was, few;
    tiny_socket s;
    group g;
    int next;
    open_group(&g, own, 2, 0);
    d = desc_of(&g, 0);
    d.open_ns = 250000000;
    s = connect_to(g.address[0]);
    cd.log = complaint;
    n_complaints = 0;
    next = dup(0);
    if (next < 0 || close(next) || getrlimit(RLIMIT_NOFILE, &was) || tiny_ctx_open(&cd, &ctx)) {
        t_skip("no descriptors");
        return;
    }
    few = was;
    few.rlim_cur = (rlim_t)next + 2;        /* for the wake-up of the transport itself */
    T_EQ_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    T_EQ_INT(tiny_tcp_open(ctx, &d, &t), TINY_E_TIMEOUT);
    T_EQ_INT(setrlimit(RLIMIT_NOFILE, &was), 0);
    if (!T_TRUE(n_complaints > 0 && n_complaints < 10)) printf("  it asked %d times\n", n_complaints);
    tiny_ctx_close(ctx);
    tiny_socket_close(s);
    close_group(&g);
    t_close(own);
}
#endif

int main(void)
{
    T_RUN(test_vector);
    T_RUN(test_heads);
    T_RUN(test_plan);
    T_RUN(test_attacked_server);
    T_RUN(test_bad_server);
    T_RUN(test_taken);
    T_RUN(test_flood);
    T_RUN(test_drip);
    T_RUN(test_refused);
    T_RUN(test_bad_descs);
    T_RUN(test_wiped);
    T_RUN(test_keys);
#if defined __linux__
    T_RUN(test_no_descriptors);
#endif
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
