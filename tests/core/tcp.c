/* tests/core/tcp.c - sums of ranks over TCP, and ranks that lie, flood, end, or are slow
 *
 * Truth    what was sent. The others are threads of this test that speak TLD1 over real sockets of this machine: every
 *          truncation and every flipped bit of a frame, wrong counts, pings without end. Handshakes are in
 *          tests/core/tcp_open.c. */
#define T_GNN
#define T_INTERNALS
#include "tcp_kit.h"

#if T_PTHREAD
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

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* The handshake is right; then the frame of a message of 16 numbers has one wrong bit, or ends early. Nothing of it
 * may reach the caller. */
enum { FRAME_BITS = 112 * 8 };
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
        tiny_ctx *ctx = counted_ctx();
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
        if (i < n) count_bytes(g);
        else g->sent[1] = t_alloc.most_bytes;           /* for the right frame */
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
}
static void test_bad_frame(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, bad_frame_rank, &g)) {
        if (!T_EQ_INT(g.gone[1], 0)) printf("  case %d: %s\n", g.index, g.says[1]);
        T_TRUE(g.most > 2 * 65536 && g.most <= g.sent[1] && g.most < MOST_BYTES);
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: every truncation and bit flip of a REDUCE frame over TCP, memory bounded");
}

/* Frames that are authentic, from a rank that lies: kind says how. */
enum {
    LIES_SHORT, LIES_LONG, LIES_TAG, LIES_MORE, LIES_EMPTY, LIES_NUMBER, LIES_AGAIN, LIES_MIRROR, LIES_STEP,
    LIES_WELCOME, LIES_NAN, LIES_HUGE, SAYS_BYE, LIES
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
                if (i == LIES_HUGE) tinyi_put_le32(p + 12, 0xffffffffu);
                (void)put_all(s, p, (size_t)n);
                (void)tiny_socket_finish(NULL, s);
                while (get_all(s, p, sizeof p) == sizeof p) {}
            }
            tiny_socket_close(s);
        }
        return;
    }
    for (i = 0; i < LIES; i++) {
        tiny_ctx *ctx = counted_ctx();
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
        count_bytes(g);
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
    if (t_ranks(2, liar_rank, &g)) {
        if (!T_EQ_INT(g.gone[1], 0)) printf("  kind %d: %s\n", g.index, g.says[1]);
        T_TRUE(g.most > 2 * 65536 && g.most < MOST_BYTES);
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: NaN payload, wrong count, replayed and reflected frames, memory bounded");
}

/* A rank with the key sends pings without end. They cost it less than they cost us, so there is always another one:
 * the wait ends at its deadline all the same, and so does the close. */
static void endless_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    enum { AT_ONCE = 200 };
    if (!rank) {
        const uint64_t until = tiny_now_ns() + UINT64_C(20000000000);
        const tiny_socket s = accept_one(g->at[0]);
        static unsigned char p[AT_ONCE * 48];
        uint64_t number = 1;
        tinyi_shake k;
        int i;
        if (serve(s, &k, -1, -1))
            do {
                for (i = 0; i < AT_ONCE; i++) (void)frame(p + 48 * i, &k.sends, TINYI_WIRE_PING, 0, number++, 0, p, 0);
            } while (tiny_now_ns() < until && put_all(s, p, sizeof p));
        g->gone[0] = tiny_now_ns() < until;
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
        g->st[1] = tiny_tcp_open(ctx, &d, &t);
        cd.net = tiny_tcp_net(t);
        cd.timeout_ns = 50000000;
        if (!g->st[1]) g->st[1] = tiny_comm_open(ctx, &cd, &c);
        if (!g->st[1]) g->st[1] = tiny_allreduce(c, &x, 1, 0);
        tiny_comm_close(c);
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
}
static void test_endless_pings(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, endless_rank, &g)) {
        T_EQ_INT(g.st[1], TINY_E_TIMEOUT);
        T_EQ_INT(g.gone[0], 1);             /* the other end was closed, not the flood over */
    }
    close_group(&g);
    t_close(ctx);
    T_PROOF("distributed 1", "hostile: pings without end do not delay the deadline of a wait, over TCP");
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

/* A frame that takes longer than three pings: on a slow line the rank is not silent, its bytes come one by one. */
static void dripping_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    static const float sixteen[16] = { 0, 0, 0, 7 };
    float x[16];
    if (!rank) {
        const tiny_socket s = accept_one(g->at[0]);
        unsigned char p[200], none[1] = { 0 };
        tinyi_shake k;
        int i, n;
        if (serve(s, &k, -1, -1)) {
            (void)put_all(s, p, (size_t)frame(p, &k.sends, TINYI_WIRE_PING, 0, 1, 0, none, 0));
            n = frame(p, &k.sends, TINYI_WIRE_REDUCE, 0, 2, 5, sixteen, sizeof sixteen);
            for (i = 0; i < n && put_all(s, p + i, (size_t)(n - i < 10 ? n - i : 10)); i += 10) nap(110000000);
            (void)get_all(s, p, sizeof p);
        }
        tiny_socket_close(s);
        return;
    }
    {
        tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
        tiny_tcp_desc d = desc_of(g, 1);
        tiny_tcp *t = NULL;
        tiny_message m;
        d.ping_ns = 300000000;              /* the frame takes 1.3 s, three pings and a half 1.05 s */
        g->st[1] = tiny_tcp_open(ctx, &d, &t);
        memset(x, 0, sizeof x);
        memset(&m, 0, sizeof m);
        m.tag = 5;
        m.data = x;
        m.n = sizeof x;
        while (!g->st[1] && !m.whole) {
            tiny_net *net = tiny_tcp_net(t);
            const uint64_t seen = net->changes(net);
            g->st[1] = net->recv(net, 0, &m);
            if (!g->st[1] && !m.whole) net->pause(net, seen, in_a_minute());
            (void)snprintf(g->says[1], sizeof g->says[1], "%s", net->says);
        }
        g->gone[1] = m.whole && x[3] == 7.0f;
        tiny_tcp_close(ctx, t);
        tiny_ctx_close(ctx);
    }
}
static void test_slow_line(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    group g;
    open_group(&g, ctx, 2, 0);
    if (t_ranks(2, dripping_rank, &g) && !T_EQ_INT(g.gone[1], 1)) printf("  %s\n", g.says[1]);
    close_group(&g);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_groups);
    T_RUN(test_bad_frame);
    T_RUN(test_liars);
    T_RUN(test_endless_pings);
    T_RUN(test_ends);
    T_RUN(test_silence);
    T_RUN(test_slow_line);
    return t_done();
}
#else
int main(void)
{
    puts("skipped: this test needs POSIX threads");
    return t_done();
}
#endif
