/* bench/core/collective.c - sums over processes that speak TCP on loopback, beside what the table of costs predicts
 *
 * Ranks are processes, connected with each other. In a round every way of the sum takes its turn for each length, so
 * that a neighbour of the machine disturbs all alike; the figures are medians of the rounds. The prediction is
 * tiny_coll_cost with the line that tiny_coll_probe has measured in the same run, without anything fitted to the sums.
 * With a delay, each message is held back by its sender (tiny_fault), and the delay is added to the line's latency.
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

enum { BC_MOST = 8, BC_SIZES = 5, BC_ROUNDS = 31, BC_WAYS = TINY_COMM_WAYS, BC_LONGEST = 262144, BC_LATE = 2048 };
static const char *const bc_name[BC_WAYS] = { "", "", "doubling", "ring", "star", "tree", "halving" };
static const size_t bc_bytes[BC_SIZES] = { 8192, 32768, 65536, 262144, 1048576 };

typedef struct bc_group {
    int world, no_mac;
    uint64_t late_ns;                       /* of each message */
    tiny_socket at[BC_MOST];
    char text[BC_MOST][TINY_ADDRESS_TEXT];
    const char *peers[BC_MOST];
} bc_group;
typedef struct bc_rank {
    tiny_ctx *ctx;
    tiny_tcp *tcp;
    tiny_fault *fault;
    tiny_fault_at late[BC_LATE];            /* every message */
    tiny_coll c;
    float *x;
    tiny_coll_choice choice;
} bc_rank;
/* times over the table in a group's cells, and how often the probe chose well */
typedef struct bc_law { double least, most; int cells, near, chosen, sizes; } bc_law;

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
    if (g->late_ns) {
        tiny_fault_desc f;
        int k;
        memset(&f, 0, sizeof f);
        for (k = 0; k < BC_LATE; k++) {
            r->late[k].to = -1;
            r->late[k].message = (uint64_t)k;
            r->late[k].kind = TINY_FAULT_DELAY;
            r->late[k].by = g->late_ns;
        }
        f.inner = r->c.net;
        f.at = r->late;
        f.n_at = BC_LATE;
        b_must(r->ctx, tiny_fault_open(r->ctx, &f, &r->fault));
        r->c.net = tiny_fault_net(r->fault);
        r->choice.line.latency += 1e-9 * (double)g->late_ns;
    }
}
static void bc_close(bc_rank *r)
{
    r->c.net->close(r->c.net);
    tiny_fault_close(r->ctx, r->fault);
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

static void bc_group_of(int world, int no_mac, uint64_t late_ns, bc_law *law)
{
    static double took[BC_SIZES * BC_WAYS * BC_ROUNDS];
    static bc_rank r;
    const int rounds = late_ns ? 5 : b_quick ? 7 : BC_ROUNDS;
    pid_t pid[BC_MOST] = { 0 };
    bc_group g;
    int i, n, way;
    memset(&g, 0, sizeof g);
    memset(law, 0, sizeof *law);
    law->least = 1e9;
    g.world = world;
    g.no_mac = no_mac;
    g.late_ns = late_ns;
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
    for (i = 0; late_ns && i < world; i++)
        if (r.c.net->count[i].messages_sent > BC_LATE) b_note("rank %d got messages without a delay: not valid", i);
    b_note("%d processes, loopback%s: a message costs %.1f us and %.3f ns a byte, adding %.3f ns a byte (probe%s)",
           world, no_mac ? ", no MACs" : "", 1e6 * r.choice.line.latency, 1e9 * r.choice.line.byte,
           1e9 * r.choice.line.add, late_ns ? " and the delay of each message" : "");
    for (i = 0; i < BC_SIZES; i++) {
        double best = 1e9, chosen = 0;
        char line[400] = "";
        for (way = TINY_COMM_DOUBLING; way < BC_WAYS; way++) {
            const double t = bc_median(took + (i * BC_WAYS + way) * rounds, rounds);
            /* a message that is held back holds its sender: the root of a star sends its p - 1 results in turn */
            const double held = way == TINY_COMM_STAR ? 1e-9 * (double)late_ns * (world - 2) : 0.0,
                         want = held + tiny_coll_cost(TINY_COST_ALLREDUCE + way, world, (double)bc_bytes[i],
                                                      &r.choice.line);
            const size_t at = strlen(line);
            (void)snprintf(line + at, sizeof line - at, "  %s %.0f (%.2f)", bc_name[way], 1e6 * t, t / want);
            if (t / want < law->least) law->least = t / want;
            if (t / want > law->most) law->most = t / want;
            law->near += t / want >= 0.85 && t / want <= 1.15;
            law->cells++;
            if (t < best) best = t;
            if (way == tiny_coll_way(&r.choice, bc_bytes[i])) chosen = t;
        }
        b_note("%5lu KB, us (times the table):%s", (unsigned long)(bc_bytes[i] / 1024), line);
        law->chosen += chosen < 1.1 * best;
        law->sizes++;
        if (!late_ns) {                     /* the probe knows nothing of the delay */
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

/* A row hashes n bytes `times` times, as HMACs if mac is set. */
typedef struct bc_hash { const unsigned char *x; size_t n; int form, times, mac; unsigned char digest[32]; } bc_hash;
static void bc_sha(void *arg)
{
    bc_hash *h = (bc_hash *)arg;
    tiny_hmac m;
    int i;
    tiny_hmac_key(&m, "the key of this bench", 21);
    m.inner.fast = m.outer.fast = h->form;
    for (i = 0; i < h->times; i++) {
        if (h->mac) {
            tiny_hmac_start(&m);
            tiny_hmac_add(&m, h->x, h->n);
            tiny_hmac_end(&m, h->digest);
        } else {
            tiny_sha256_start(&m.at);
            m.at.fast = h->form;
            tiny_sha256_add(&m.at, h->x, h->n);
            tiny_sha256_end(&m.at, h->digest);
        }
    }
}
/* the forms of SHA-256 that this processor has, and the MACs of a token of TinyLlama's shape on one of two ranks */
static void bc_macs(void)
{
    static const char *const name[] = { "plain C", "AVX2", "SHA instructions" };
    static bc_hash h[6];
    b_row row[6];
    tiny_sha256 best;
    char text[300] = "";
    int form, n = 0, i;
    const unsigned char *x = (const unsigned char *)b_alloc((size_t)1 << 20);
    memset(row, 0, sizeof row);
    tiny_sha256_start(&best);
    for (form = 0; form <= best.fast; form++) {
        if (form == 1 && !tiny_target_runs_here(TINY_TARGET_AVX2)) continue;
        for (i = 0; i < 2; i++, n++) {
            h[n].x = x;
            h[n].form = form;
            h[n].mac = i;
            h[n].times = i ? 88 : 1;
            h[n].n = i ? 8192 + 32 : (size_t)1 << 20;   /* 44 sums of 2048 floats, sent and received, with headers */
            row[n].what = i ? "MACs of a token" : "sha256";
            row[n].target = name[form];
            row[n].threads = 1;
            row[n].limit = B_READ;
            row[n].bytes = (double)h[n].times * (double)h[n].n;
            row[n].run = bc_sha;
            row[n].arg = &h[n];
            b_shape(&row[n], i ? "88 x 8 KB" : "1 MB");
        }
    }
    b_contest("MACs of messages", row, n);
    for (i = 0; i + 1 < n; i += 2) {
        const size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, "%s%s %.2f GB/s, %.2f ms", i ? "; " : "", row[i].target,
                       row[i].bytes / row[i].median_ns, 1e-6 * row[i + 1].median_ns);
    }
    b_headline("collectives", "MACs below 2 % of a token's time at 1.1B", "SHA-256 of 1 MB, and the MACs of a token "
               "on one of two ranks: 44 sums of 8 KB, sent and received; one thread", "%s", text);
    b_free((void *)(uintptr_t)x);
}

void bench_collective(void)
{
    static const int world[] = { 2, 4, 8 };
    bc_law plain[3], mac, late[2];
    int i;
    bc_macs();
    for (i = 0; i < BC_SIZES; i++)
        b_note("bare sockets, %lu KB there and back: %.0f us", (unsigned long)(bc_bytes[i] / 1024),
               1e6 * bc_bare(bc_bytes[i]));
    for (i = 0; i < 3; i++) {
        bc_group_of(world[i], 1, 0, &plain[i]);
        bc_group_of(world[i], 0, 0, &mac);
    }
    bc_group_of(4, 1, 1000000, &late[0]);
    bc_group_of(4, 1, 4000000, &late[1]);
    if (!plain[0].cells || !plain[1].cells || !plain[2].cells || !late[0].cells || !late[1].cells) return;
    b_headline("collectives", "the time of a sum is that of the table of costs",
               "five ways, 8 KB to 1 MB, processes of one machine over loopback, no MACs; lowest to highest of the "
               "medians over the table with the line that the probe measured, and how many of them are within 15 %",
               "2, 4, 8 ranks: %.2f to %.2f (%d of %d), %.2f to %.2f (%d of %d), %.2f to %.2f (%d of %d)",
               plain[0].least, plain[0].most, plain[0].near, plain[0].cells, plain[1].least, plain[1].most,
               plain[1].near, plain[1].cells, plain[2].least, plain[2].most, plain[2].near, plain[2].cells);
    b_headline("collectives", "the same where every message is 1 or 4 ms late",
               "4 ranks over loopback, each message held back by its sender, the star's results one after the other",
               "1 ms: %.2f to %.2f (%d of %d within 15 %%), 4 ms: %.2f to %.2f (%d of %d)", late[0].least,
               late[0].most, late[0].near, late[0].cells, late[1].least, late[1].most, late[1].near, late[1].cells);
    b_headline("collectives", "the probe's choice is within 10 % of the best way", "the same groups, sizes of each",
               "2, 4, 8 ranks: %d, %d, %d of %d", plain[0].chosen, plain[1].chosen, plain[2].chosen, plain[0].sizes);
}
#else
void bench_collective(void) { b_note("needs processes: not measured here"); }
#endif
