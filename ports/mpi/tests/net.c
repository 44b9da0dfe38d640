/* ports/mpi/tests/net.c - the transport over MPI, and the collective calls over it; one process is one rank
 *
 *     mpirun -n 4 build/mpi/net               the last line of rank 0: N passed, N failed
 *     mpirun -n 4 build/mpi/net die           rank 1 dies in the middle of sums; the others print what they see
 *
 * Truth    serial sums: every rank can compute the numbers of all ranks. Permutations that are undone again. The counts
 *          of the table in docs/guide/collectives.md. Faults come from core/fault.h. What ranks must have in common is
 *          compared by MPI itself, outside of the transport. No check reads a clock, except that a late message ends
 *          its call. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#define TINYLLM_ALL
#include "tinyllm.h"
#include "ports/mpi/tiny_mpi.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static struct { int rank, world, passed, failed, test_failed; MPI_Comm comm; int p; tiny_ctx *ctx; } run;

static int check(int ok, const char *what, int line)
{
    if (!ok && run.test_failed++ < 5)
        fprintf(stderr, "rank %d of %d: %s:%d: %s (%s)\n", run.rank, run.p, __FILE__, line, what,
                tiny_ctx_message(run.ctx));
    return ok;
}
#define CHECK(x)    check((x) != 0, #x, __LINE__)
#define STATUS(x, want, says) \
    (check((x) == (want), #x, __LINE__), check(strstr(tiny_ctx_message(run.ctx), says) != NULL, says, __LINE__))

/* the ranks of run.comm; those that are not in it skip the test */
typedef struct net {
    tiny_mpi *mpi;
    tiny_fault *fault;
    tiny_coll c;
} net;
static int opened(net *n, const tiny_mpi_desc *like, const tiny_fault_desc *harm, size_t work)
{
    tiny_mpi_desc d;
    memset(n, 0, sizeof *n);
    memset(&d, 0, sizeof d);
    if (like) d = *like;
    d.comm = &run.comm;
    if (!CHECK(!tiny_mpi_open(run.ctx, &d, &n->mpi))) return 0;
    n->c.net = tiny_mpi_net(n->mpi);
    if (harm) {
        tiny_fault_desc f = *harm;
        f.inner = n->c.net;
        if (!CHECK(!tiny_fault_open(run.ctx, &f, &n->fault))) return 0;
        n->c.net = tiny_fault_net(n->fault);
    }
    n->c.n_work = work;
    n->c.work = malloc(work + 1);
    n->c.until = tiny_now_ns() + UINT64_C(60000000000);
    return n->c.work != NULL;
}
static void closed(net *n)
{
    if (n->c.net) n->c.net->close(n->c.net);
    tiny_fault_close(run.ctx, n->fault);
    tiny_mpi_close(run.ctx, n->mpi);
    free(n->c.work);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}
static uint64_t drawn(int rank, size_t i) { return mix((uint64_t)rank << 40 ^ (uint64_t)i * 77 ^ 12345); }
static float number(int rank, size_t i) { return (float)((double)(drawn(rank, i) >> 11) / 4503599627370496.0 - 1.0); }

/* the same bytes on all ranks of run.comm? */
static int same_everywhere(const void *x, size_t n)
{
    uint64_t h = 7, all[TINY_NET_RANKS];
    size_t i;
    int r, ok = 1;
    for (i = 0; i < n; i++) h = mix(h + ((const unsigned char *)x)[i] + i);
    MPI_Allgather(&h, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, run.comm);
    for (r = 0; r < run.p; r++) ok &= all[r] == h;
    return ok;
}

/* kind 0: f32 with small whole numbers, 1: i64, 2: u8, 3: random f32, 4: f32 maximum */
static void sum(net *t, int way, size_t n, int kind)
{
    const size_t size = kind == 1 ? 8 : kind == 2 ? 1 : 4;
    unsigned char *x = (unsigned char *)malloc(n * size + 1);
    size_t i;
    int r, bad = 0;
    t->c.type = kind == 1 ? TINY_COLL_I64 : kind == 2 ? TINY_COLL_U8 : TINY_COLL_F32;
    t->c.op = kind == 2 ? TINY_COLL_OR : kind == 4 ? TINY_COLL_MAX : TINY_COLL_SUM;
    for (i = 0; i < n; i++) {
        const uint64_t v = drawn(run.rank, i);
        const float f = kind == 0 ? (float)(v % 1000) : number(run.rank, i);
        if (kind == 1) memcpy(x + 8 * i, &v, 8);
        else if (kind == 2) x[i] = (unsigned char)(1u << v % 9);
        else memcpy(x + 4 * i, &f, 4);
    }
    if (!CHECK(!tiny_coll_allreduce(run.ctx, &t->c, way, x, n))) bad = 1;
    for (i = 0; i < n && !bad; i++) {
        double s = 0, most = -2, is;
        uint64_t whole = 0, got;
        unsigned bits = 0;
        float f;
        for (r = 0; r < run.p; r++) {
            const uint64_t v = drawn(r, i);
            const double y = kind == 0 ? (double)(v % 1000) : (double)number(r, i);
            whole += v;
            bits |= (1u << v % 9) & 255u;
            s += y;
            if (y > most) most = y;
        }
        if (kind == 1) { memcpy(&got, x + 8 * i, 8); bad = got != whole; continue; }
        if (kind == 2) { bad = x[i] != bits; continue; }
        memcpy(&f, x + 4 * i, 4);
        is = (double)f;
        bad = kind == 4 ? is != most : kind == 0 ? is != s : !(fabs(is - s) <= 1e-5 * run.p);
    }
    if (!CHECK(!bad)) fprintf(stderr, "  way %d, %lu numbers, kind %d\n", way, (unsigned long)n, kind);
    CHECK(same_everywhere(x, n * size));
    free(x);
}

static void test_sums(void)
{
    const size_t p = (size_t)run.p, sizes[] = { 0, 1, 3, p - 1, p, p + 1, 1000 };
    int way, k;
    net n;
    if (!opened(&n, NULL, NULL, 8 * 1001)) return;
    for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
        for (k = 0; k < 7; k++) {
            sum(&n, way, sizes[k], (k + way + run.p) % 5);
            sum(&n, way, sizes[k], (k + way + run.p + 2) % 5);
        }
    closed(&n);
}
/* pieces in the caller's memory, of one and of many; and heads alone */
static void test_long_sums(void)
{
    int way, k;
    for (k = 0; k < 3; k++) {
        tiny_mpi_desc d;
        net n;
        memset(&d, 0, sizeof d);
        d.n_short = k == 1 ? 100 : k == 2 ? 1 : 0;
        d.n_piece = k == 1 ? 1000 : k == 2 ? 70000 : 0;
        if (!opened(&n, &d, NULL, 1200000)) return;
        for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++) {
            sum(&n, way, k == 1 ? 5003 : 60000, (k + way) % 5);
            sum(&n, way, 30, 3);
        }
        if (k == 0) sum(&n, TINY_COMM_RING, 300000, 3);
        closed(&n);
    }
}

static int32_t mark(int from, int to, int i) { return from * 10000 + to * 100 + i % 97; }
static void test_blocks(void)
{
    static const int n_of[] = { 0, 1, 13, 300, 9000 };
    const int p = run.p, me = run.rank;
    int k, r, i, form;
    for (k = 0; k < 5; k++) {
        const int n = n_of[k], root = (k * 5 + 1) % p;
        const size_t all = (size_t)(p * n) + 1;
        int32_t *a = (int32_t *)calloc(all, 4), *b = (int32_t *)calloc(all, 4), *d = (int32_t *)calloc(all, 4);
        uint64_t n_from[TINY_NET_RANKS], n_to[TINY_NET_RANKS], n_back[TINY_NET_RANKS];
        int wrong = 0, at;
        size_t part_at = 0, part = 0;
        net t;
        tiny_status st;
        if (!opened(&t, NULL, NULL, tiny_coll_work(p, (size_t)n + 1, 8))) return;
        for (i = 0; i < n; i++) a[i] = me == root ? mark(root, 7, i) : -1;
        st = tiny_coll_broadcast(run.ctx, &t.c, a, (size_t)n, root);
        for (i = 0; i < n; i++) wrong += a[i] != mark(root, 7, i);
        for (i = 0; i < n; i++) { const float v = (float)(me + i % 11); memcpy(&a[i], &v, 4); }
        if (!st) st = tiny_coll_reduce(run.ctx, &t.c, a, (size_t)n, root);
        for (i = 0; i < n && me == root; i++) {
            float v;
            memcpy(&v, &a[i], 4);
            wrong += v != (float)(p * (p - 1) / 2 + p * (i % 11));
        }
        for (i = 0; i < n; i++) a[i] = mark(me, 0, i);
        if (!st) st = tiny_coll_gather(run.ctx, &t.c, a, (size_t)n, me == root ? b : NULL, root);
        for (r = 0; r < p && me == root; r++) for (i = 0; i < n; i++) wrong += b[r * n + i] != mark(r, 0, i);
        if (!st) st = tiny_coll_scatter(run.ctx, &t.c, me == root ? b : NULL, (size_t)n, d, root);
        for (i = 0; i < n; i++) wrong += d[i] != mark(me, 0, i);
        for (i = 0; i < n; i++) { const float v = (float)(me * 2 + i % 11); memcpy(&a[i], &v, 4); }
        if (!st) st = tiny_coll_reduce_scatter(run.ctx, &t.c, a, (size_t)n, &part_at, &part);
        for (i = (int)part_at; i < (int)(part_at + part); i++) {
            float v;
            memcpy(&v, &a[i], 4);
            wrong += v != (float)(p * (p - 1) + p * (i % 11));
        }
        for (form = TINY_COLL_RING; form <= TINY_COLL_BRUCK && !st; form++) {
            for (r = 0; r < p; r++) for (i = 0; i < n; i++) a[r * n + i] = r == me ? mark(me, 3, i) : -1;
            st = tiny_coll_allgather(run.ctx, &t.c, form, a, (size_t)n);
            for (r = 0; r < p; r++) for (i = 0; i < n; i++) wrong += a[r * n + i] != mark(r, 3, i);
            for (r = 0; r < p; r++) for (i = 0; i < n; i++) a[r * n + i] = mark(me, r, i);
            if (!st) st = tiny_coll_alltoall(run.ctx, &t.c, form, a, b, (size_t)n);
            for (r = 0; r < p; r++) for (i = 0; i < n; i++) wrong += b[r * n + i] != mark(r, me, i);
            if (!st) st = tiny_coll_alltoall(run.ctx, &t.c, form, b, d, (size_t)n);
            for (r = 0; r < p; r++) for (i = 0; i < n; i++) wrong += d[r * n + i] != a[r * n + i];
        }
        for (r = 0; r < p; r++) n_from[r] = (uint64_t)((me * 3 + r * 5) % (n + 1));
        for (r = at = 0; r < p; r++) for (i = 0; i < (int)n_from[r]; i++) a[at++] = mark(me, r, i);
        if (!st) st = tiny_coll_alltoallv(run.ctx, &t.c, a, n_from, b, n_to, (size_t)(p * n));
        for (r = at = 0; r < p && !st; r++) {
            wrong += n_to[r] != (uint64_t)((r * 3 + me * 5) % (n + 1));
            for (i = 0; i < (int)n_to[r]; i++) wrong += b[at++] != mark(r, me, i);
        }
        if (!st) st = tiny_coll_alltoallv(run.ctx, &t.c, b, n_to, d, n_back, (size_t)(p * n));
        for (r = at = 0; r < p && !st; r++) for (i = 0; i < (int)n_back[r]; i++, at++) wrong += d[at] != a[at];
        if (!st) st = tiny_coll_barrier(run.ctx, &t.c);
        CHECK(!st);
        CHECK(!wrong);
        closed(&t);
        free(a);
        free(b);
        free(d);
    }
}

/* a megabyte both ways at once: blocking sends would wait for each other */
static void test_swap(void)
{
    const size_t n = 1048576;
    unsigned char *a, *b;
    size_t i;
    int r, wrong = 0;
    net t;
    if (run.p != 2 || !opened(&t, NULL, NULL, 1)) return;
    a = (unsigned char *)malloc(2 * n);
    b = (unsigned char *)malloc(2 * n);
    for (i = 0; i < 2 * n; i++) a[i] = (unsigned char)((i % n + (size_t)run.rank) * 31);
    t.c.type = TINY_COLL_U8;
    CHECK(!tiny_coll_alltoall(run.ctx, &t.c, TINY_COLL_RING, a, b, n));
    for (r = 0; r < 2; r++)
        for (i = 0; i < n; i++) wrong += b[(size_t)r * n + i] != (unsigned char)((i + (size_t)r) * 31);
    CHECK(!wrong);
    closed(&t);
    free(a);
    free(b);
}

static void test_counts(void)
{
    const int p = run.p, power = (p & (p - 1)) == 0;
    float x[1001];
    int way, r, bits = 0;
    while ((1 << bits) < p) bits++;
    for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++) {
        uint64_t mine[2] = { 0, 0 }, all[2];
        net t;
        memset(x, 0, sizeof x);
        if (p < 2 || !opened(&t, NULL, NULL, sizeof x)) return;
        CHECK(!tiny_coll_allreduce(run.ctx, &t.c, way, x, 1001));
        for (r = 0; r < p; r++) {
            mine[0] += t.c.net->count[r].messages_sent;
            mine[1] += t.c.net->count[r].bytes_sent;
        }
        MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, run.comm);
        if (way == TINY_COMM_RING) CHECK(mine[0] == 2 * (uint64_t)(p - 1));
        if (way == TINY_COMM_RING) CHECK(fabs((double)mine[1] - 2.0 * (p - 1) / p * 4004) <= 8);
        if (way == TINY_COMM_STAR) CHECK(mine[1] == (run.rank ? 4004 : 4004 * (uint64_t)(p - 1)));
        if (way == TINY_COMM_DOUBLING && power) CHECK(mine[1] == 4004 * (uint64_t)bits);
        if (way == TINY_COMM_HALVING && power) CHECK(mine[0] == 2 * (uint64_t)bits);
        if (way == TINY_COMM_TREE || way == TINY_COMM_STAR)
            CHECK(all[0] == 2 * (uint64_t)(p - 1) && all[1] == 2 * (uint64_t)(p - 1) * 4004);
        closed(&t);
    }
}

/* the bits do not depend on when messages come */
static void test_jitter(void)
{
    float first[777], x[777];
    size_t i;
    int way, again;
    for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
        for (again = 0; again < 3; again++) {
            tiny_fault_desc f;
            net t;
            memset(&f, 0, sizeof f);
            f.jitter_ns = again ? 300000 : 0;
            f.seed = (uint64_t)(again + 77 * run.rank);
            if (!opened(&t, NULL, &f, sizeof x)) return;
            for (i = 0; i < 777; i++) x[i] = number(run.rank, i);
            CHECK(!tiny_coll_allreduce(run.ctx, &t.c, way, x, 777));
            if (!again) memcpy(first, x, sizeof x);
            CHECK(!memcmp(first, x, sizeof x));
            closed(&t);
        }
}

static void test_probe(void)
{
    tiny_coll_choice choice;
    net t;
    float x[100];
    int i;
    if (!opened(&t, NULL, NULL, TINY_COLL_PROBE_WORK)) return;
    memset(&choice, 0, sizeof choice);
    CHECK(!tiny_coll_probe(run.ctx, &t.c, &choice));
    CHECK(same_everywhere(choice.way, sizeof choice.way));
    CHECK(same_everywhere(&choice.line, sizeof choice.line));
    for (i = 0; i < 100; i++) x[i] = (float)i;
    CHECK(!tiny_coll_allreduce(run.ctx, &t.c, tiny_coll_way(&choice, sizeof x), x, 100));
    CHECK(x[99] == 99.0f * (float)run.p);
    closed(&t);
}

/* Rank 1 ends at each of its messages: every other rank gets PEER with its number, in this call or the next. */
static void test_killed(void)
{
    float x[700];
    int way, i, to, k, long_one;
    if (run.p < 3 || run.p > 4) return;
    for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
        for (i = 0;; i++) {
            int hit = 0;
            for (to = 0; to < run.p; to++) {
                tiny_fault_at at = { 0, 0, TINY_FAULT_KILL, 0 };
                tiny_fault_desc f;
                tiny_mpi_desc d;
                tiny_status st = TINY_OK;
                int died;
                net t;
                if (to == 1) continue;
                long_one = (i + to) % 2;
                at.to = to;
                at.message = (uint64_t)i;
                memset(&d, 0, sizeof d);
                memset(&f, 0, sizeof f);
                d.n_short = long_one ? 100 : 0;             /* and so pieces */
                d.n_piece = 1000;
                f.at = &at;
                f.n_at = run.rank == 1;
                if (!opened(&t, &d, &f, sizeof x)) return;
                memset(x, 0, sizeof x);
                for (k = 0; k < 3 && !st; k++)
                    st = tiny_coll_allreduce(run.ctx, &t.c, way, x, long_one ? 700 : 9);
                died = run.rank == 1 && st != TINY_OK;
                if (!st) st = tiny_coll_allreduce(run.ctx, &t.c, way, x, long_one ? 700 : 9);
                MPI_Bcast(&died, 1, MPI_INT, 1, run.comm);
                if (died && !CHECK(st == TINY_E_PEER && t.c.net->gone == 2))
                    fprintf(stderr, "  way %d, message %d to %d: status %d, gone %d\n", way, i, to, (int)st,
                            t.c.net->gone);
                closed(&t);
                hit |= died;
            }
            if (!hit) break;
        }
}

/* an error on every rank, unless the message was only late or its bits are not seen by anyone */
static void test_faults(void)
{
    float x[9];
    int way, kind, k, failed, all;
    if (run.p != 4) return;
    for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
        for (kind = TINY_FAULT_DELAY; kind < TINY_FAULT_KINDS; kind++) {
            tiny_fault_at at = { -1, 1, 0, 0 };
            tiny_fault_desc f;
            tiny_status st = TINY_OK;
            net t;
            if (kind == TINY_FAULT_KILL || kind == TINY_FAULT_DROP) continue;
            at.kind = kind;
            at.by = kind == TINY_FAULT_DELAY ? 5000000 : 3;
            memset(&f, 0, sizeof f);
            f.at = &at;
            f.n_at = run.rank == 1;
            if (!opened(&t, NULL, &f, sizeof x)) return;
            memset(x, 0, sizeof x);
            for (k = 0; k < 4 && !st; k++) st = tiny_coll_allreduce(run.ctx, &t.c, way, x, 9);
            failed = st != TINY_OK;
            MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, run.comm);
            if (!CHECK(all == (kind == TINY_FAULT_DELAY || kind == TINY_FAULT_FLIP ? 0 : 4)))
                fprintf(stderr, "  way %d, fault %d\n", way, kind);
            closed(&t);
        }
}

static void test_lost(void)
{
    tiny_fault_at at = { -1, 0, TINY_FAULT_DROP, 0 };
    tiny_fault_desc f;
    tiny_status st;
    float x[9] = { 0 };
    int late, all;
    net t;
    memset(&f, 0, sizeof f);
    f.at = &at;
    f.n_at = run.rank == 1;
    if (run.p < 2 || !opened(&t, NULL, &f, sizeof x)) return;
    t.c.until = tiny_now_ns() + 60000000;
    st = tiny_coll_allreduce(run.ctx, &t.c, TINY_COMM_STAR, x, 9);
    CHECK(st == TINY_E_TIMEOUT || st == TINY_E_PEER);
    late = st == TINY_E_TIMEOUT;
    MPI_Allreduce(&late, &all, 1, MPI_INT, MPI_SUM, run.comm);
    CHECK(all > 0);
    closed(&t);
}

static void test_differ(void)
{
    float x[900] = { 0 };
    int way, kind;
    if (run.p < 3 || run.p > 4) return;
    for (way = TINY_COMM_DOUBLING; way < TINY_COMM_WAYS; way++)
        for (kind = 0; kind < 4; kind++) {
            const size_t n = kind < 2 ? 9 : 900;
            tiny_mpi_desc d;
            tiny_status st;
            net t;
            memset(&d, 0, sizeof d);
            d.n_short = 500;
            if (!opened(&t, &d, NULL, sizeof x)) return;
            t.c.tag = kind % 2 && run.rank == 2 ? 4 : 3;
            st = tiny_coll_allreduce(run.ctx, &t.c, way, x, run.rank == 2 && kind % 2 == 0 ? n - 1 : n);
            if (!CHECK(st == TINY_E_PROTOCOL)) fprintf(stderr, "  way %d, kind %d: status %d\n", way, kind, (int)st);
            closed(&t);
        }
}

/* sums in flight, moved by the thread of the comm or by the calls; and different values */
static void test_comm(void)
{
    enum { FLIGHTS = 4, N = 5000 };
    static float x[FLIGHTS][N];
    int k, no_thread;
    size_t i;
    for (no_thread = 0; no_thread < 2; no_thread++) {
        tiny_mpi_desc md;
        tiny_comm_desc d;
        tiny_comm *comm = NULL;
        uint64_t h[FLIGHTS];
        int wrong = 0;
        net t;
        memset(&md, 0, sizeof md);
        md.one_thread = no_thread;
        memset(&d, 0, sizeof d);
        if (!opened(&t, &md, NULL, 1)) return;
        d.net = t.c.net;
        d.n_most = N;
        d.no_thread = no_thread;
        d.timeout_ns = UINT64_C(60000000000);
        if (!CHECK(!tiny_comm_open(run.ctx, &d, &comm))) return;
        for (k = 0; k < FLIGHTS; k++) {
            for (i = 0; i < N; i++) x[k][i] = (float)(drawn(run.rank, i + (size_t)k * N) % 100);
            CHECK(!tiny_allreduce_start(comm, x[k], k % 2 ? N : 40, (unsigned)k, &h[k]));
        }
        for (k = FLIGHTS - 1; k >= 0; k--) CHECK(!tiny_allreduce_wait(comm, h[k]));
        for (k = 0; k < FLIGHTS; k++)
            for (i = 0; i < (k % 2 ? N : 40); i++) {
                float s = 0;
                int r;
                for (r = 0; r < run.p; r++) s += (float)(drawn(r, i + (size_t)k * N) % 100);
                wrong += s != x[k][i];
            }
        CHECK(!wrong);
        CHECK(!tiny_comm_agree(comm, "model", 17));
        if (run.p > 1) {
            STATUS(tiny_comm_agree(comm, "model", 17 + (uint64_t)run.rank), TINY_E_PROTOCOL, "");
            CHECK(tiny_allreduce(comm, x[0], 4, 0) == TINY_E_PROTOCOL);
        }
        tiny_comm_close(comm);
        closed(&t);
    }
}

static void test_bad_calls(void)
{
    tiny_mpi_desc d;
    tiny_mpi *mpi = (tiny_mpi *)&d;
    tiny_message m;
    MPI_Comm none = MPI_COMM_NULL;
    uint64_t seen, start;
    net t;
    memset(&d, 0, sizeof d);
    memset(&m, 0, sizeof m);
    CHECK(tiny_mpi_open(NULL, NULL, &mpi) == TINY_E_ARGUMENT && !mpi);
    STATUS(tiny_mpi_open(run.ctx, NULL, NULL), TINY_E_ARGUMENT, "needs an output pointer");
    d.n_short = SIZE_MAX;
    STATUS(tiny_mpi_open(run.ctx, &d, &mpi), TINY_E_ARGUMENT, "the maximum is 1073741808");
    d.n_short = 0;
    d.comm = &none;
    STATUS(tiny_mpi_open(run.ctx, &d, &mpi), TINY_E_ARGUMENT, "MPI_COMM_NULL");
    d.comm = &run.comm;
    d.n_short = run.rank == 0 ? 1000 : 2000;
    if (run.p > 1) STATUS(tiny_mpi_open(run.ctx, &d, &mpi), TINY_E_PROTOCOL, "the ranks differ in n_short");
    tiny_mpi_close(run.ctx, NULL);
    CHECK(!tiny_mpi_net(NULL));
    if (!opened(&t, NULL, NULL, 1)) return;
    CHECK(t.c.net->send(t.c.net, run.rank, &m) == TINY_E_ARGUMENT);         /* to itself */
    CHECK(t.c.net->recv(t.c.net, run.p, &m) == TINY_E_ARGUMENT);
    CHECK(t.c.net->recv(t.c.net, -1, &m) == TINY_E_ARGUMENT);
    CHECK(strstr(t.c.net->says, "has no connection to rank -1") != NULL);
    seen = t.c.net->changes(t.c.net);       /* an event before the pause ends it, and so does the clock */
    t.c.net->wake(t.c.net);
    t.c.net->pause(t.c.net, seen, UINT64_MAX);
    start = tiny_now_ns();
    t.c.net->pause(t.c.net, t.c.net->changes(t.c.net), start + 3000000);
    CHECK(tiny_now_ns() >= start + 3000000);
    t.c.until = 1;                          /* long ago */
    if (run.p > 1 && !run.rank) STATUS(tiny_coll_barrier(run.ctx, &t.c), TINY_E_TIMEOUT, "until the deadline");
    MPI_Barrier(run.comm);
    closed(&t);
}

/* One rank does not come. Last: this communicator is not used again. */
static void test_missing(void)
{
    tiny_mpi_desc d;
    tiny_mpi *mpi = NULL;
    memset(&d, 0, sizeof d);
    d.comm = &run.comm;
    d.open_ns = 50000000;
    if (run.p > 1 && run.rank != run.p - 1)
        STATUS(tiny_mpi_open(run.ctx, &d, &mpi), TINY_E_TIMEOUT, "have called tiny_mpi_open within 0.05 s");
}

/* rank 1 dies without a word: does MPI let the others go on, what do they see? */
static int die(void)
{
    float x[9] = { 0 };
    tiny_status st = TINY_OK;
    int k;
    net t;
    (void)signal(SIGUSR1, SIG_IGN);         /* so tells the mpirun of MPICH that a process has died */
    if (!opened(&t, NULL, NULL, sizeof x)) return 1;
    t.c.until = tiny_now_ns() + 1000000000;
    for (k = 0; k < 100 && !st; k++) {
        if (k == 10 && run.rank == 1) (void)kill(getpid(), SIGKILL);
        st = tiny_coll_allreduce(run.ctx, &t.c, TINY_COMM_RING, x, 9);
    }
    printf("rank %d: %s, rank %d: %s\n", run.rank, st == TINY_E_PEER ? "PEER" : st == TINY_E_TIMEOUT ? "TIMEOUT" : "?",
           t.c.net->gone - 1, tiny_ctx_message(run.ctx));
    (void)fflush(stdout);
    closed(&t);
    _exit(st != TINY_E_PEER && st != TINY_E_TIMEOUT);
}

static const struct { const char *name; void (*test)(void); } tests[] = {
    { "sums", test_sums },         { "long sums", test_long_sums }, { "blocks", test_blocks },
    { "swap", test_swap },         { "counts", test_counts },       { "jitter", test_jitter },
    { "probe", test_probe },       { "killed", test_killed },       { "faults", test_faults },
    { "lost", test_lost },         { "differ", test_differ },       { "comm", test_comm },
    { "bad calls", test_bad_calls },
};

int main(int argc, char **argv)
{
    tiny_ctx_desc cd;
    size_t i;
    int level, failed = 0, p;
    double start;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run.world);
    memset(&cd, 0, sizeof cd);
    cd.n_threads = 1;
    if (tiny_ctx_open(&cd, &run.ctx)) return 1;
    run.comm = MPI_COMM_WORLD;
    run.p = run.world;
    if (argc > 1 && !strcmp(argv[1], "die")) return die();
    /* every number of ranks up to that of the processes, for what is cheap; the whole world for all */
    for (i = 0; i < sizeof tests / sizeof tests[0]; i++)
        for (p = 1; p <= run.world; p++) {
            if (p < run.world && (run.world != 4 || tests[i].test == test_killed || tests[i].test == test_jitter))
                continue;
            MPI_Comm_split(MPI_COMM_WORLD, run.rank < p ? 0 : MPI_UNDEFINED, run.rank, &run.comm);
            run.p = p;
            run.test_failed = 0;
            start = MPI_Wtime();
            if (run.rank < p) tests[i].test();
            MPI_Allreduce(&run.test_failed, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (failed && !run.rank) fprintf(stderr, "%s, %d ranks: %d checks failed\n", tests[i].name, p, failed);
            if (getenv("T_TIMES") && !run.rank)
                fprintf(stderr, "%s, %d ranks: %.3f s\n", tests[i].name, p, MPI_Wtime() - start);
            if (failed) run.failed++;
            else run.passed++;
            if (run.comm != MPI_COMM_NULL) MPI_Comm_free(&run.comm);
        }
    MPI_Comm_dup(MPI_COMM_WORLD, &run.comm);
    run.p = run.world;
    run.test_failed = 0;
    test_missing();
    MPI_Allreduce(&run.test_failed, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (failed) run.failed++;
    else run.passed++;
    tiny_ctx_close(run.ctx);
    if (!run.rank) printf("%d passed, %d failed\n", run.passed, run.failed);
    (void)fflush(stdout);
    MPI_Finalize();
    return run.failed != 0;
}
