/* bench/core/collective.c - sums over processes that speak TCP on loopback, beside what the table of costs predicts
 *
 * Ranks are processes, connected with each other. In a round every way of the sum takes its turn for each length, so
 * that a neighbour of the machine disturbs all alike; the figures are medians of the rounds. The prediction is
 * tiny_coll_cost with the line that tiny_coll_probe has measured in the same run, without anything fitted to the sums.
 * Baseline: the star, and the same bytes back and forth over two bare sockets, which no sum of two ranks can beat by
 * more than a half: it needs one message in each direction at the same time.                                         */
#define _DEFAULT_SOURCE
#include "../bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __unix__ || defined __APPLE__
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BC_MOST = 4, BC_SIZES = 4, BC_ROUNDS = 31, BC_WAYS = TINY_COMM_WAYS, BC_LONGEST = 262144 };
static const char *const bc_name[BC_WAYS] = { "", "", "doubling", "ring", "star", "tree", "halving" };
static const size_t bc_bytes[BC_SIZES] = { 8192, 32768, 262144, 1048576 };

typedef struct bc_group {
    int world, no_mac;
    tiny_socket at[BC_MOST];
    char text[BC_MOST][TINY_ADDRESS_TEXT];
    const char *peers[BC_MOST];
} bc_group;
typedef struct bc_rank { tiny_ctx *ctx; tiny_tcp *tcp; tiny_coll c; float *x; tiny_coll_choice choice; } bc_rank;

static void bc_open(bc_group *g, int rank, bc_rank *r)
{
    tiny_tcp_desc d;
    memset(r, 0, sizeof *r);
    memset(&d, 0, sizeof d);
    r->ctx = b_ctx(TINY_TARGET_AUTO, 1);
    d.rank = rank;
    d.world = g->world;
    d.peers = g->peers;
    d.listener = g->at[rank];
    d.secret = "the key of this bench";
    d.n_secret = 21;
    d.no_mac = g->no_mac;
    b_must(r->ctx, tiny_tcp_open(r->ctx, &d, &r->tcp));
    r->c.net = tiny_tcp_net(r->tcp);
    r->c.n_work = 4 * BC_LONGEST;
    r->c.work = b_alloc(r->c.n_work);
    r->x = (float *)b_alloc(4 * BC_LONGEST);
    b_must(r->ctx, tiny_coll_probe(r->ctx, &r->c, &r->choice));
}
static void bc_close(bc_rank *r)
{
    r->c.net->close(r->c.net);
    tiny_tcp_close(r->ctx, r->tcp);
    b_free(r->c.work);
    b_free(r->x);
    tiny_ctx_close(r->ctx);
}
static void bc_sum(bc_rank *r, int way, size_t n)
{
    memset(r->x, 0, n * sizeof *r->x);
    b_must(r->ctx, tiny_coll_allreduce(r->ctx, &r->c, way, r->x, n));
}
/* The same order on every rank. took: (SIZES, WAYS, rounds) of rank 0, or NULL. */
static void bc_rounds(bc_rank *r, int rounds, double *took)
{
    int k, i, way;
    for (k = -1; k < rounds; k++)           /* the first round only warms up */
        for (i = 0; i < BC_SIZES; i++)
            for (way = TINY_COMM_DOUBLING; way < BC_WAYS; way++) {
                double t;
                b_must(r->ctx, tiny_coll_barrier(r->ctx, &r->c));
                t = b_now();
                bc_sum(r, way, bc_bytes[i] / 4);
                if (took && k >= 0) took[(i * BC_WAYS + way) * rounds + k] = b_now() - t;
            }
}

static int bc_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double bc_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, bc_order);
    return x[n / 2];
}

/* n bytes there and back over bare sockets between two processes, seconds */
static double bc_bare(size_t n)
{
    static double took[BC_ROUNDS];
    tiny_socket at[TINY_ADDRESSES], s = TINY_NO_SOCKET;
    tiny_address a;
    tiny_poll p;
    unsigned char *x = (unsigned char *)b_alloc(n);
    pid_t pid;
    int k, m = 0;
    memset(&p, 0, sizeof p);
    if (tiny_listen_at(NULL, ":0", at, &m) || tiny_socket_address(NULL, at[0], &a)) return 0.0;
    pid = fork();
    if (pid == 0) {
        if (tiny_socket_connect(NULL, &a, &s)) _exit(1);
    } else
        while (s == TINY_NO_SOCKET) {
            p.socket = at[0];
            p.want = TINY_POLL_READ;
            (void)tiny_socket_poll(NULL, &p, 1, UINT64_MAX);
            if (tiny_socket_accept(NULL, at[0], &s, NULL)) break;
        }
    p.socket = s;
    for (k = -1; k < BC_ROUNDS; k++) {
        const double t = b_now();
        int turn;
        for (turn = 0; turn < 2; turn++) {
            const int writes = (pid == 0) == (turn != 0);
            size_t done = 0, some;
            int end = 0;
            while (done < n && !end) {
                p.want = writes ? TINY_POLL_WRITE : TINY_POLL_READ;
                (void)tiny_socket_poll(NULL, &p, 1, UINT64_MAX);
                if (writes ? tiny_socket_write(NULL, s, x + done, n - done, &some)
                           : tiny_socket_read(NULL, s, x + done, n - done, &some, &end))
                    end = 1;
                else done += some;
            }
        }
        if (k >= 0) took[k] = b_now() - t;
    }
    tiny_socket_close(s);
    if (pid == 0) _exit(0);
    (void)waitpid(pid, NULL, 0);
    tiny_socket_close(at[0]);
    b_free(x);
    return bc_median(took, BC_ROUNDS);
}

static void bc_group_of(int world, int no_mac)
{
    static double took[BC_SIZES * BC_WAYS * BC_ROUNDS];
    const int rounds = b_quick ? 7 : BC_ROUNDS;
    pid_t pid[BC_MOST] = { 0 };
    bc_group g;
    bc_rank r;
    int i, n, way;
    memset(&g, 0, sizeof g);
    g.world = world;
    g.no_mac = no_mac;
    for (i = 0; i < world; i++) {
        tiny_address a;
        tiny_socket at[TINY_ADDRESSES];
        if (tiny_listen_at(NULL, ":0", at, &n) || tiny_socket_address(NULL, at[0], &a)) return;
        g.at[i] = at[0];
        tiny_address_text(&a, g.text[i]);
        g.peers[i] = g.text[i];
    }
    (void)fflush(NULL);
    for (i = 1; i < world; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            bc_open(&g, i, &r);
            bc_rounds(&r, rounds, NULL);
            bc_close(&r);
            _exit(0);
        }
        if (pid[i] < 0) { b_note("no more processes could be started: not measured"); return; }
    }
    bc_open(&g, 0, &r);
    bc_rounds(&r, rounds, took);
    b_note("%d processes, loopback%s: a message costs %.1f us and %.3f ns a byte, adding %.3f ns a byte (probe)", world,
           no_mac ? ", no MACs" : "", 1e6 * r.choice.line.latency, 1e9 * r.choice.line.byte, 1e9 * r.choice.line.add);
    for (i = 0; i < BC_SIZES; i++) {
        double best = 1e9, chosen = 0;
        char line[400] = "";
        for (way = TINY_COMM_DOUBLING; way < BC_WAYS; way++) {
            const double t = bc_median(took + (i * BC_WAYS + way) * rounds, rounds);
            const double want = tiny_coll_cost(TINY_COST_ALLREDUCE + way, world, (double)bc_bytes[i], &r.choice.line);
            const size_t at = strlen(line);
            (void)snprintf(line + at, sizeof line - at, "  %s %.0f (%.2f)", bc_name[way], 1e6 * t, t / want);
            if (t < best) best = t;
            if (way == tiny_coll_way(&r.choice, bc_bytes[i])) chosen = t;
        }
        b_note("%5lu KB, us (times the table):%s", (unsigned long)(bc_bytes[i] / 1024), line);
        {
            char what[80];
            (void)snprintf(what, sizeof what, "%d ranks, %lu KB: the probe's choice / the best", world,
                           (unsigned long)(bc_bytes[i] / 1024));
            b_verdict(what, chosen / best, "<", 1.1);
        }
    }
    bc_close(&r);
    for (i = 1; i < world; i++) (void)waitpid(pid[i], NULL, 0);
    for (i = 0; i < world; i++) tiny_socket_close(g.at[i]);
}

typedef struct bc_hash { const unsigned char *x; size_t n; unsigned char digest[32]; } bc_hash;
static void bc_sha(void *arg)
{
    bc_hash *h = (bc_hash *)arg;
    tiny_sha256_of(h->x, h->n, h->digest);
}

void bench_collective(void)
{
    bc_hash h;
    b_row row;
    int i;
    memset(&row, 0, sizeof row);
    h.n = (size_t)1 << 20;
    h.x = (const unsigned char *)b_alloc(h.n);
    row.what = "sha256 (the MAC of a message)";
    row.target = "best form";
    row.threads = 1;
    row.limit = B_READ;
    row.bytes = (double)h.n;
    row.run = bc_sha;
    row.arg = &h;
    b_shape(&row, "1 MB");
    b_contest("MACs of messages", &row, 1);
    b_free((void *)(uintptr_t)h.x);
    for (i = 0; i < BC_SIZES; i++)
        b_note("bare sockets, %lu KB there and back: %.0f us", (unsigned long)(bc_bytes[i] / 1024),
               1e6 * bc_bare(bc_bytes[i]));
    bc_group_of(2, 1);
    bc_group_of(2, 0);
    bc_group_of(4, 1);
    bc_group_of(4, 0);
}
#else
void bench_collective(void) { b_note("needs processes: not measured here"); }
#endif
