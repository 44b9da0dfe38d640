/* tests/core/comm.c - messages between ranks, and sums over them
 *
 * Truth    a serial sum; the order of additions that the head of core/comm.c promises; the table of costs of the
 *          textbooks, compared with the virtual clock and the counts of messages and bytes. Then peers that die, are
 *          late, or send something else: every rank gets an error. No test reads the wall clock. */
#include "t.h"

enum { MOST = 16, FAR = 1000 };

typedef struct group {
    tiny_local *local;
    tiny_ctx *ctx;
    int world, way, no_thread, n, runs;
    uint64_t timeout;
    float *x[MOST];                         /* in: numbers of each rank; out: sums */
    tiny_status st[MOST], later[MOST];
    char says[MOST][200];
    uint64_t clock[MOST];
    tiny_net_count sent[MOST];
    tiny_net *net[MOST];                    /* used by the ranks in place of their own, or NULL */
} group;

static int open_group(group *g, int world, const tiny_local_desc *like)
{
    tiny_local_desc d;
    memset(g, 0, sizeof *g);
    memset(&d, 0, sizeof d);
    if (like) d = *like;
    d.world = world;
    if (!d.queue_bytes) d.queue_bytes = 65536;
    g->world = world;
    g->runs = 1;
    g->ctx = t_ctx(TINY_TARGET_AUTO, 1);
    return T_OK(tiny_local_open(g->ctx, &d, &g->local));
}
static void close_group(group *g)
{
    tiny_local_close(g->ctx, g->local);
    t_close(g->ctx);
}

static tiny_comm *comm_of(group *g, int rank, tiny_ctx *ctx, size_t n_most)
{
    tiny_comm_desc d;
    tiny_comm *c = NULL;
    memset(&d, 0, sizeof d);
    d.net = g->net[rank] ? g->net[rank] : tiny_local_net(g->local, rank);
    d.n_most = n_most;
    d.way = g->way;
    d.no_thread = g->no_thread;
    d.timeout_ns = g->timeout ? g->timeout : UINT64_C(600000000000);
    g->st[rank] = tiny_comm_open(ctx, &d, &c);
    return c;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void sum_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_comm *c = comm_of(g, rank, ctx, (size_t)g->n + 1);
    const tiny_net *net = tiny_comm_net(c);
    int i, to;
    for (i = 0; i < g->runs && !g->st[rank]; i++)
        g->st[rank] = tiny_allreduce(c, g->x[rank], (size_t)g->n, (unsigned)i & 255);
    for (to = 0; net && to < g->world; to++) {
        g->sent[rank].messages_sent += net->count[to].messages_sent;
        g->sent[rank].bytes_sent += net->count[to].bytes_sent;
    }
    (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
    g->clock[rank] = tiny_comm_clock(c);
    tiny_comm_close(c);
    tiny_ctx_close(ctx);
}

/* the orders that are promised, in float */
static float in_order(const group *g, float *const *x, int i)
{
    const int p = g->world;
    float v[MOST] = { 0 }, s;
    int r, q = 1, m, k, c = 0;
    for (r = 0; r < p; r++) v[r] = x[r][i];
    if (g->way == TINY_COMM_DOUBLING) {
        while (2 * q <= p) q *= 2;
        m = p - q;
        for (r = 0; r < m; r++) v[r] = v[2 * r] + v[2 * r + 1];
        for (r = m; r < q; r++) v[r] = v[r + m];
        for (k = 1; k < q; k *= 2)
            for (r = 0; r + k < q; r += 2 * k) v[r] = v[r] + v[r + k];
        return v[0];
    }
    if (g->way == TINY_COMM_TREE) {
        for (k = 1; k < p; k *= 2)
            for (r = 0; r + k < p; r += 2 * k) v[r] = v[r] + v[r + k];
        return v[0];
    }
    if (g->way == TINY_COMM_HALVING) {
        while (2 * q <= p) q *= 2;
        m = p - q;
        for (r = 0; r < m; r++) v[r] = v[2 * r] + v[2 * r + 1];
        for (r = m; r < q; r++) v[r] = v[r + m];
        for (k = q / 2; k >= 1; k /= 2)
            for (r = 0; r < k; r++) v[r] = v[r] + v[r + k];
        return v[0];
    }
    if (g->way == TINY_COMM_RING) while ((c + 1) * (long)g->n / p <= i) c++;
    for (s = v[c], r = 1; r < p; r++) s += v[(c + r) % p];
    return s;
}

static void test_sums(void)
{
    static const int worlds[] = { 1, 2, 3, 4, 5, 7, 8, 9 };
    static const tiny_local_desc small = { 0, 2048, 0, 0.0, 0 };
    size_t w, k;
    int way, r, i, thread;
    for (w = 0; w < T_COUNT(worlds); w++)
        for (way = TINY_COMM_DIRECT; way < TINY_COMM_WAYS; way++)
            for (k = 0; k < 7; k++) {
                const int p = worlds[w], sizes[7] = { 0, 1, 3, p - 1, p, p + 1, FAR };
                float *was[MOST];
                group g;
                if (!open_group(&g, p, &small)) return;
                g.way = way;
                g.n = sizes[k];
                g.no_thread = thread = (int)(w + k) % 2;
                for (r = 0; r < p; r++) {
                    g.x[r] = t_rand((size_t)g.n + 1, -3.0f, 3.0f);
                    was[r] = (float *)t_keep(((size_t)g.n + 1) * sizeof(float));
                    /* every second one: exact in any order */
                    for (i = 0; i < g.n; i += 2) g.x[r][i] = (float)(int)(100.0f * g.x[r][i]);
                    memcpy(was[r], g.x[r], (size_t)g.n * sizeof(float));
                }
                if (!t_ranks(p, sum_rank, &g)) { close_group(&g); return; }
                for (r = 0; r < p; r++) {
                    if (!T_EQ_INT(g.st[r], TINY_OK)) printf("  %s\n", g.says[r]);
                    T_WALLS(g.x[r], g.n + 1);
                    for (i = 0; i < g.n; i++) {
                        const float want = in_order(&g, was, i);
                        double s = 0.0, size = 0.0;
                        int j;
                        for (j = 0; j < p; j++) { s += (double)was[j][i]; size += fabs((double)was[j][i]); }
                        if (!t_same(&g.x[r][i], &want, 1, sizeof want, __FILE__, __LINE__, "the sum and its order")) {
                            printf("  rank %d of %d, way %d, %d of %d, thread %d\n", r, p, way, i, g.n, !thread);
                            break;
                        }
                        T_CLOSE(g.x[r][i], s, i % 2 ? 1e-6 * size : 0.0);
                    }
                    /* the table: ring 2 (p - 1) messages of 1/p, direct p - 1 of all, doubling log2 p for p a power of
                     * two */
                    if (p > 1 && way == TINY_COMM_RING) {
                        T_EQ_INT(g.sent[r].messages_sent, 2 * (p - 1));
                        T_CLOSE(g.sent[r].bytes_sent, 8.0 * (p - 1) / p * g.n, 8.0);
                    }
                    if (way == TINY_COMM_DIRECT) T_EQ_INT(g.sent[r].bytes_sent, 4 * (p - 1) * g.n);
                    if (way == TINY_COMM_DOUBLING && (p == 2 || p == 4 || p == 8))
                        T_EQ_INT(g.sent[r].messages_sent, p == 2 ? 1 : p == 4 ? 2 : 3);
                }
                close_group(&g);
                t_free_blocks();
            }
}

/* delays of any kind change no bit */
static void test_delays(void)
{
    static const tiny_local_desc line[4] = {
        { 0, 0, 0, 0.0, 0 }, { 0, 1000, 300000, 0.0, 0 }, { 0, 0, 50000, 2e8, 0 }, { 0, 0, 7000000, 1e6, 1 }
    };
    float *first[TINY_COMM_WAYS] = { NULL };
    int way, k, r;
    for (way = TINY_COMM_DIRECT; way < TINY_COMM_WAYS; way++)
        for (k = 0; k < 4; k++) {
            group g;
            if (!open_group(&g, 4, &line[k])) return;
            g.way = way;
            g.n = 777;
            g.runs = 3;
            g.no_thread = k == 2;
            t_now.rand_at = 0;
            for (r = 0; r < 4; r++) g.x[r] = t_rand(777, -3.0f, 3.0f);
            if (!t_ranks(4, sum_rank, &g)) { close_group(&g); return; }
            for (r = 0; r < 4; r++) {
                T_EQ_INT(g.st[r], TINY_OK);
                T_SAME(g.x[r], g.x[0], 777);
            }
            if (!k) first[way] = g.x[0];
            T_SAME(g.x[0], first[way], 777);
            close_group(&g);
        }
}

/* The clock agrees with the table: direct and doubling a + n b a step, ring 2 (p - 1) (a + n/p b). */
static void test_clock(void)
{
    static const tiny_local_desc line = { 0, 0, 1000000, 8e6, 1 };        /* 1 ms, 1 us a byte */
    static const struct { int p, way; double ns;
    } want[] = { { 2, TINY_COMM_DIRECT, 1e6 + 4000e3 },         { 4, TINY_COMM_DIRECT, 1e6 + 4000e3 },
                 { 4, TINY_COMM_DOUBLING, 2 * (1e6 + 4000e3) }, { 8, TINY_COMM_DOUBLING, 3 * (1e6 + 4000e3) },
                 { 4, TINY_COMM_RING, 6 * (1e6 + 1000e3) },     { 8, TINY_COMM_RING, 14 * (1e6 + 500e3) } };
    size_t k;
    int r;
    for (k = 0; k < T_COUNT(want); k++) {
        group g;
        if (!open_group(&g, want[k].p, &line)) return;
        g.way = want[k].way;
        g.n = 1000;
        g.runs = 2;                         /* the second follows the first */
        for (r = 0; r < g.world; r++) g.x[r] = t_rand(1000, -1.0f, 1.0f);
        if (!t_ranks(g.world, sum_rank, &g)) { close_group(&g); return; }
        for (r = 0; r < g.world; r++) T_CLOSE((double)g.clock[r], 2.0 * want[k].ns, 1e-9 * want[k].ns);
        close_group(&g);
    }
}

/* ---- several in flight ------------------------------------------------------------------------------------------- */

static void flight_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_comm *c = comm_of(g, rank, ctx, 64);
    uint64_t h[TINY_COMM_FLIGHTS], more = 0;
    int i;
    g->later[rank] = TINY_OK;
    for (i = 0; i < TINY_COMM_FLIGHTS && !g->st[rank]; i++)
        g->st[rank] = tiny_allreduce_start(c, g->x[rank] + 64 * i, (size_t)(64 - i), (unsigned)(200 + i), &h[i]);
    if (tiny_allreduce_start(c, g->x[rank], 1, 0, &more) != TINY_E_ARGUMENT ||
        !strstr(tiny_ctx_message(ctx), "8 sums are in flight"))
        g->later[rank] = TINY_E_NUMERIC;
    for (i = TINY_COMM_FLIGHTS - 1; i >= 0 && !g->st[rank]; i--) g->st[rank] = tiny_allreduce_wait(c, h[i]);
    if (tiny_allreduce_wait(c, h[3]) != TINY_E_ARGUMENT || !strstr(tiny_ctx_message(ctx), "no sum with the handle"))
        g->later[rank] = TINY_E_NUMERIC;
    if (tiny_allreduce_start(c, g->x[rank], 65, 0, &more) != TINY_E_ARGUMENT ||
        !strstr(tiny_ctx_message(ctx), "opened for at most 64"))
        g->later[rank] = TINY_E_NUMERIC;
    if (tiny_allreduce_start(c, g->x[rank], 1, 256, &more) != TINY_E_ARGUMENT ||
        !strstr(tiny_ctx_message(ctx), "tag 256"))
        g->later[rank] = TINY_E_NUMERIC;
    if (tiny_allreduce_start(c, NULL, 1, 0, &more) != TINY_E_ARGUMENT ||
        tiny_allreduce_start(c, g->x[rank], 1, 0, NULL) != TINY_E_ARGUMENT)
        g->later[rank] = TINY_E_NUMERIC;
    if (!g->st[rank]) g->st[rank] = tiny_comm_agree(c, "number", UINT64_C(0x123456789abcdef0));
    tiny_comm_close(c);
    tiny_ctx_close(ctx);
}
static void test_flights(void)
{
    static const tiny_local_desc slow = { 0, 512, 200000, 0.0, 0 };
    int way, r, i, j;
    for (way = TINY_COMM_AUTO; way < TINY_COMM_WAYS; way++) {
        group g;
        if (!open_group(&g, way == TINY_COMM_AUTO ? 2 : 3, &slow)) return;
        g.way = way;
        for (r = 0; r < g.world; r++) {
            g.x[r] = t_guarded(64 * TINY_COMM_FLIGHTS);
            for (i = 0; i < 64 * TINY_COMM_FLIGHTS; i++) g.x[r][i] = (float)(r + 1) * (float)(i % 61);
        }
        if (!t_ranks(g.world, flight_rank, &g)) { close_group(&g); return; }
        for (r = 0; r < g.world; r++) {
            T_EQ_INT(g.st[r], TINY_OK);
            T_EQ_INT(g.later[r], TINY_OK);
            for (i = 0; i < TINY_COMM_FLIGHTS; i++)
                for (j = 0; j < 64; j++)
                    T_CLOSE(g.x[r][64 * i + j],
                            (float)(j < 64 - i ? g.world * (g.world + 1) / 2 : r + 1) * (float)((64 * i + j) % 61),
                            0.0);
        }
        close_group(&g);
    }
}

/* a megabyte both ways at once through queues of four kilobytes */
static void test_full_queues(void)
{
    static const tiny_local_desc small = { 0, 4096, 0, 0.0, 0 };
    int way, r;
    for (way = TINY_COMM_DIRECT; way < TINY_COMM_WAYS; way++) {
        group g;
        if (!open_group(&g, 3, &small)) return;
        g.way = way;
        g.n = 262144;
        for (r = 0; r < 3; r++) {
            g.x[r] = t_guarded((size_t)g.n);
            memset(g.x[r], 0, (size_t)g.n * sizeof(float));
            g.x[r][g.n - 1] = (float)(r + 1);
        }
        if (!t_ranks(3, sum_rank, &g)) { close_group(&g); return; }
        for (r = 0; r < 3; r++) {
            T_EQ_INT(g.st[r], TINY_OK);
            T_CLOSE(g.x[r][g.n - 1], 6.0, 0.0);
        }
        close_group(&g);
        t_free_blocks();
    }
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

/* a net that does something else with its left-th message */
typedef struct bad_net { tiny_net net; tiny_net *inner; int left, kind; } bad_net;
enum { DIES, CHANGES_TAG, CUTS, KINDS, LOSES };
static tiny_status bad_send(tiny_net *net, int to, tiny_message *m)
{
    bad_net *b = (bad_net *)net;
    tiny_status st;
    if (!m->begun && b->left-- == 0) {
        if (b->kind == DIES) {
            (void)snprintf(net->says, sizeof net->says, "the machine stopped");
            return TINY_E_IO;
        }
        if (b->kind == CHANGES_TAG) m->tag ^= 1u << 20;
        if (b->kind == CUTS) m->n = m->n / 2;
        if (b->kind == LOSES) {
            m->begun = m->whole = 1;
            m->done = m->n;
            return TINY_OK;
        }
    }
    st = b->inner->send(b->inner, to, m);
    memcpy(net->says, b->inner->says, sizeof net->says);
    return st;
}
static tiny_status bad_recv(tiny_net *net, int from, tiny_message *m)
{
    bad_net *b = (bad_net *)net;
    const tiny_status st = b->inner->recv(b->inner, from, m);
    memcpy(net->says, b->inner->says, sizeof net->says);
    return st;
}
static void bad_close(tiny_net *net) { ((bad_net *)net)->inner->close(((bad_net *)net)->inner); }
static uint64_t bad_changes(tiny_net *net) { return ((bad_net *)net)->inner->changes(((bad_net *)net)->inner); }
static void bad_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    ((bad_net *)net)->inner->pause(((bad_net *)net)->inner, seen, until);
}
static void bad_wake(tiny_net *net) { ((bad_net *)net)->inner->wake(((bad_net *)net)->inner); }
static void make_bad(bad_net *b, tiny_net *inner, int left, int kind)
{
    memset(b, 0, sizeof *b);
    b->net = *inner;
    b->inner = inner;
    b->left = left;
    b->kind = kind;
    b->net.send = bad_send;
    b->net.recv = bad_recv;
    b->net.close = bad_close;
    b->net.changes = bad_changes;
    b->net.pause = bad_pause;
    b->net.wake = bad_wake;
}

static void fault_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_comm *c = comm_of(g, rank, ctx, 64);
    uint64_t a, b;
    int i;
    for (i = 0; i < 3 && !g->st[rank]; i++) {
        g->st[rank] = tiny_allreduce_start(c, g->x[rank], 31, 1, &a);
        if (!g->st[rank]) g->st[rank] = tiny_allreduce_start(c, g->x[rank] + 32, 31, 2, &b);
        if (!g->st[rank]) g->st[rank] = tiny_allreduce_wait(c, a);
        if (!g->st[rank]) g->st[rank] = tiny_allreduce_wait(c, b);
    }
    (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
    g->later[rank] = tiny_allreduce(c, g->x[rank], 1, 3);
    tiny_comm_close(c);
    tiny_ctx_close(ctx);
}

/* Rank 1 fails at each of its messages: all ranks get an error (their waits are for ten minutes), and no later call
 * works. */
static void test_faults(void)
{
    int way, kind, left, r, world, failed, hit;
    for (way = TINY_COMM_DIRECT; way < TINY_COMM_WAYS; way++)
        for (kind = 0; kind < KINDS; kind++)
            for (world = 2, left = 0; world < 5; left++) {
                bad_net bad;
                group g;
                int wrong = 0;
                if (!open_group(&g, world, NULL)) return;
                make_bad(&bad, tiny_local_net(g.local, 1), left, kind);
                g.net[1] = &bad.net;
                g.way = way;
                g.no_thread = left % 2;
                for (r = 0; r < world; r++) g.x[r] = t_rand(64, -1.0f, 1.0f);
                if (!t_ranks(world, fault_rank, &g)) { close_group(&g); return; }
                for (r = 0, failed = 0, hit = 0; r < world; r++) {
                    hit |= g.st[r] != TINY_OK;
                    failed += g.st[r] != TINY_OK || g.later[r] != TINY_OK;
                    wrong += g.st[r] == TINY_E_PROTOCOL || g.later[r] == TINY_E_PROTOCOL;
                }
                if (hit && !T_EQ_INT(failed, world))
                    printf("  way %d, kind %d, message %d of %d ranks\n", way, kind, left, world);
                if (hit && kind != DIES) T_TRUE(wrong > 0);
                for (r = 0; r < world; r++) if (g.st[r]) T_TRUE(strlen(g.says[r]) > 5 && g.later[r] == g.st[r]);
                close_group(&g);
                t_free_blocks();
                if (!hit) { T_TRUE(left >= 6); world++; left = -1; }      /* that message belongs to the next call */
            }
}

/* The first of three messages of rank 1 to rank 0 is lost. The sums are equal in length and tag, but the next message
 * is not taken for the lost one. The other ranks may have finished before they hear of it. */
static void lost_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_comm *c = comm_of(g, rank, ctx, 64);
    uint64_t h[3];
    int i;
    for (i = 0; i < 3 && !g->st[rank]; i++) g->st[rank] = tiny_allreduce_start(c, g->x[rank] + 8 * i, 8, 1, &h[i]);
    for (i = 0; i < 3 && !g->st[rank]; i++) g->st[rank] = tiny_allreduce_wait(c, h[i]);
    (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
    tiny_comm_close(c);
    tiny_ctx_close(ctx);
}
static void test_lost(void)
{
    int world, r;
    for (world = 2; world <= 4; world++) {
        bad_net bad;
        group g;
        if (!open_group(&g, world, NULL)) return;
        make_bad(&bad, tiny_local_net(g.local, 1), 0, LOSES);
        g.net[1] = &bad.net;
        g.way = TINY_COMM_DIRECT;
        g.timeout = UINT64_C(20000000000);
        for (r = 0; r < world; r++) g.x[r] = t_rand(64, -1.0f, 1.0f);
        if (!t_ranks(world, lost_rank, &g)) { close_group(&g); return; }
        if (!T_EQ_INT(g.st[0], TINY_E_PROTOCOL) || !T_TRUE(strstr(g.says[0], "rank 0 awaits 32 with tag") != NULL))
            printf("  %s\n", g.says[0]);
        close_group(&g);
    }
}

/* a number that is not finite ends the group where that is asked for, by any way; else it is a number like others */
static void nan_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_comm_desc d;
    tiny_comm *c = NULL;
    memset(&d, 0, sizeof d);
    d.net = tiny_local_net(g->local, rank);
    d.way = g->way;
    d.finite = g->runs;
    d.timeout_ns = UINT64_C(60000000000);
    g->st[rank] = tiny_comm_open(ctx, &d, &c);
    if (!g->st[rank]) g->st[rank] = tiny_allreduce(c, g->x[rank], 30, 1);
    if (!g->st[rank] && g->runs) g->st[rank] = tiny_allreduce(c, g->x[rank], 30, 1);    /* rank 1 may hear of it now */
    (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
    tiny_comm_close(c);
    tiny_ctx_close(ctx);
}
static void test_finite(void)
{
    static const float bad[2] = { NAN, -INFINITY };
    int way, world, finite, r;
    for (way = TINY_COMM_DIRECT; way < TINY_COMM_WAYS; way++)
        for (world = 2; world <= 4; world++)
            for (finite = 0; finite < 2; finite++) {
                group g;
                int named = 0;
                if (!open_group(&g, world, NULL)) return;
                g.way = way;
                g.runs = finite;
                for (r = 0; r < world; r++) g.x[r] = t_rand(30, -1.0f, 1.0f);
                g.x[1][29] = bad[world % 2];
                if (!t_ranks(world, nan_rank, &g)) { close_group(&g); return; }
                for (r = 0; r < world; r++) {
                    if (!T_TRUE(finite ? g.st[r] == TINY_E_PROTOCOL || g.st[r] == TINY_E_PEER : g.st[r] == TINY_OK))
                        printf("  way %d, rank %d of %d: %s\n", way, r, world, g.says[r]);
                    if (!finite) T_TRUE(g.x[r][29] - g.x[r][29] != 0.0f);
                    named |= strstr(g.says[r], "sent a number that is not finite") != NULL;
                }
                T_EQ_INT(named, finite);
                close_group(&g);
            }
}

static void silent_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    if (rank != 1) {                        /* rank 1 never comes */
        tiny_comm *c = comm_of(g, rank, ctx, 64);
        g->st[rank] = tiny_allreduce(c, g->x[rank], 8, 0);
        g->later[rank] = tiny_allreduce(c, g->x[rank], 8, 0);
        (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
        tiny_comm_close(c);
    }
    tiny_ctx_close(ctx);
}
static void test_silent(void)
{
    int way, r;
    for (way = TINY_COMM_DIRECT; way < TINY_COMM_WAYS; way++) {
        group g;
        if (!open_group(&g, 3, NULL)) return;
        g.way = way;
        g.timeout = 20000000;
        g.no_thread = way == TINY_COMM_RING;
        for (r = 0; r < 3; r++) g.x[r] = t_rand(8, -1.0f, 1.0f);
        if (!t_ranks(3, silent_rank, &g)) { close_group(&g); return; }
        /* the rank that waited longest gives up, the other is notified or gives up too */
        for (r = 0; r < 3; r += 2) {
            T_TRUE(g.st[r] == TINY_E_TIMEOUT || g.st[r] == TINY_E_PEER);
            T_EQ_INT(g.later[r], g.st[r]);
        }
        T_TRUE(g.st[0] == TINY_E_TIMEOUT || g.st[2] == TINY_E_TIMEOUT);
        T_TRUE(strstr(g.says[0], "waited 0.02 s for sum 0") || strstr(g.says[2], "waited 0.02 s for sum 0"));
        close_group(&g);
    }
}

/* one rank starts another call than the others */
static void differ_rank(int rank, void *arg)
{
    group *g = (group *)arg;
    tiny_ctx *ctx = t_rank_ctx(t_now.target);
    tiny_comm *c = comm_of(g, rank, ctx, 64);
    const int odd = rank == 1;
    if (g->n == 0) g->st[rank] = tiny_allreduce(c, g->x[rank], 8, odd ? 5 : 4);
    if (g->n == 1) g->st[rank] = tiny_allreduce(c, g->x[rank], odd ? 9 : 8, 4);
    if (g->n == 2) g->st[rank] = tiny_comm_agree(c, "model", odd ? UINT64_C(1) << 63 : 0);
    if (g->n == 4) g->st[rank] = tiny_comm_agree(c, "model", (uint64_t)rank + 1);     /* of three, one has the mean */
    if (g->n == 3) {
        if (odd) { tiny_comm_abort(c); tiny_comm_abort(NULL); }
        g->st[rank] = tiny_allreduce(c, g->x[rank], 8, 4);
    }
    (void)snprintf(g->says[rank], sizeof g->says[rank], "%s", tiny_ctx_message(ctx));
    tiny_comm_close(c);
    tiny_ctx_close(ctx);
}
static void test_differ(tiny_target target)
{
    int way, kind, r, world;
    for (way = TINY_COMM_DIRECT; way < TINY_COMM_WAYS; way++)
        for (kind = 0; kind < 5; kind++)
            for (world = 2; world < 4; world++) {
                group g;
                int protocol = 0, first = 0;
                if (!open_group(&g, world, NULL)) return;
                g.way = way;
                g.n = kind;
                for (r = 0; r < world; r++) g.x[r] = t_rand(64, -1.0f, 1.0f);
                if (!t_ranks(world, differ_rank, &g)) { close_group(&g); return; }
                for (r = 0; r < world; r++) {
                    if (!T_TRUE(g.st[r] == TINY_E_PROTOCOL || g.st[r] == TINY_E_PEER ||
                                (kind == 3 && r == 1 && g.st[r] == TINY_E_CANCELLED)))
                        printf("  way %d, kind %d, rank %d of %d: %s\n", way, kind, r, world,
                               tiny_status_text(g.st[r]));
                    protocol += g.st[r] == TINY_E_PROTOCOL;
                    if (g.st[r] == TINY_E_PROTOCOL && kind < 2) {
                        const int saw = strstr(g.says[r], "awaits") != NULL;
                        T_TRUE(saw || strstr(g.says[r], "do not do the same"));
                        first |= saw;
                    }
                    if (g.st[r] == TINY_E_PROTOCOL && (kind == 2 || kind == 4))
                        T_TRUE(strstr(g.says[r], "the model of rank") != NULL);
                }
                if (kind < 2) T_TRUE(protocol > 0 && first);
                /* every rank has the sums, without notice from another */
                if (kind == 2 || kind == 4) T_EQ_INT(protocol, world);
                close_group(&g);
            }
    (void)target;                           /* the workers read t_now */
    T_PROOF("attention 8", "bad input: tag mismatch");
}

/* ---- descriptions and memory ------------------------------------------------------------------------------------- */

static void test_descriptions(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc d;
    tiny_comm_desc cd;
    tiny_local *l = NULL;
    tiny_comm *c = NULL;
    tiny_net odd;
    float x[3] = { 1.0f, 2.0f, 3.0f };
    memset(&d, 0, sizeof d);
    memset(&cd, 0, sizeof cd);
    d.world = -1;
    T_STATUS(tiny_local_open(ctx, &d, &l), TINY_E_ARGUMENT, "-1 ranks, there must be 1 to 64");
    d.world = 65;
    T_STATUS(tiny_local_open(ctx, &d, &l), TINY_E_ARGUMENT, "65 ranks");
    d.world = 2;
    d.queue_bytes = SIZE_MAX;
    T_STATUS(tiny_local_open(ctx, &d, &l), TINY_E_ARGUMENT, "queues of");
    d.queue_bytes = 1;
    d.bits_per_second = -1.0;
    T_STATUS(tiny_local_open(ctx, &d, &l), TINY_E_ARGUMENT, "bits per second");
    d.bits_per_second = NAN;
    T_STATUS(tiny_local_open(ctx, &d, &l), TINY_E_ARGUMENT, "bits per second");
    T_STATUS(tiny_local_open(ctx, NULL, NULL), TINY_E_ARGUMENT, "an output pointer");
    T_TRUE(l == NULL);
    T_OK(tiny_local_open(ctx, NULL, &l));   /* one rank: sums of one */
    T_TRUE(tiny_local_net(l, 0) && !tiny_local_net(l, 1) && !tiny_local_net(l, -1) && !tiny_local_net(NULL, 0));
    T_STATUS(tiny_comm_open(ctx, NULL, &c), TINY_E_ARGUMENT, "needs the net of a rank");
    T_STATUS(tiny_comm_open(ctx, &cd, &c), TINY_E_ARGUMENT, "needs the net of a rank");
    cd.net = tiny_local_net(l, 0);
    cd.way = TINY_COMM_WAYS;
    T_STATUS(tiny_comm_open(ctx, &cd, &c), TINY_E_ARGUMENT, "way 7");
    cd.way = 0;
    cd.n_most = SIZE_MAX / 4;
    T_STATUS(tiny_comm_open(ctx, &cd, &c), TINY_E_OVERFLOW, "more than this machine");
    cd.n_most = 3;
    odd = *cd.net;
    odd.rank = 1;
    cd.net = &odd;
    T_STATUS(tiny_comm_open(ctx, &cd, &c), TINY_E_ARGUMENT, "rank 1 of 1");
    odd.rank = 0;
    odd.world = 0;
    T_STATUS(tiny_comm_open(ctx, &cd, &c), TINY_E_ARGUMENT, "rank 0 of 0");
    cd.net = tiny_local_net(l, 0);
    T_OK(tiny_comm_open(ctx, &cd, &c));
    T_TRUE(tiny_comm_rank(c) == 0 && tiny_comm_world(c) == 1 && tiny_comm_most(c) == 3 && tiny_comm_world(NULL) == 1 &&
           tiny_comm_rank(NULL) == 0);
    T_OK(tiny_allreduce(c, x, 3, 9));
    T_CLOSE(x[2], 3.0, 0.0);
    T_STATUS(tiny_comm_agree(c, "x", 1), TINY_E_ARGUMENT, "open it for at least 16");
    T_EQ_INT(tiny_allreduce(NULL, x, 1, 0), TINY_E_ARGUMENT);
    T_EQ_INT(tiny_allreduce_wait(NULL, 0), TINY_E_ARGUMENT);
    tiny_comm_close(c);
    tiny_comm_close(NULL);
    tiny_local_close(ctx, l);
    tiny_local_close(ctx, NULL);
    t_close(ctx);
}

static void test_memory(void)
{
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        if (!tiny_ctx_open(&desc, &ctx)) {
            tiny_local_desc d;
            tiny_comm_desc cd;
            tiny_local *l = NULL;
            tiny_comm *c = NULL;
            memset(&d, 0, sizeof d);
            memset(&cd, 0, sizeof cd);
            d.world = 2;
            d.queue_bytes = 100;
            if (!tiny_local_open(ctx, &d, &l)) {
                cd.net = tiny_local_net(l, 1);
                cd.n_most = 10;
                if (!tiny_comm_open(ctx, &cd, &c)) tiny_comm_close(c);
            }
            tiny_local_close(ctx, l);
            tiny_ctx_close(ctx);
        }
    )
}

int main(void)
{
    T_RUN(test_sums);
    T_RUN(test_delays);
    T_RUN(test_clock);
    T_RUN(test_flights);
    T_RUN(test_full_queues);
    T_RUN(test_faults);
    T_RUN(test_lost);
    T_RUN(test_finite);
    T_RUN(test_silent);
    T_RUN_TARGETS(test_differ);
    T_RUN(test_descriptions);
    T_RUN(test_memory);
    return t_done();
}
