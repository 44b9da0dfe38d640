/* ports/mpi/bench.c - our sums over TCP loopback next to MPI_Allreduce over its TCP transport
 *
 *     mpirun --mca pml ob1 --mca btl tcp,self --mca mpi_yield_when_idle 1 -n 4 build/mpi/bench [ROUNDS]
 *
 * The same processes run both. In a round, MPI_Allreduce and each way of a sum take their turn for each length, with
 * ranks that start together (MPI_Barrier); a turn is CALLS sums one after the other, with MACs one. The figures are
 * medians over the rounds of the time of one sum on the slowest rank, and in brackets the shortest times. Both add f32
 * numbers. Messages carry no MAC, as MPI's carry none. The second table has our sums over the transport of tiny_mpi.h,
 * so over the same messages as MPI's own; the third, of a quarter of the rounds, has what the MAC costs. Without
 * mpi_yield_when_idle MPI keeps the processor while it waits, and its sums take milliseconds on a machine that does
 * something else too. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#define TINYLLM_ALL
#include "tinyllm.h"
#include "ports/mpi/tiny_mpi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 4, MOST_ROUNDS = 200, CALLS = 8, WAYS = TINY_COMM_WAYS, LONGEST = 262144 };
static const size_t bytes[SIZES] = { 8192, 65536, 262144, 1048576 };
static const char *const name[WAYS] = { "MPI", "", "doubling", "ring", "star", "tree", "halving" };
static double took[SIZES][WAYS][MOST_ROUNDS];
static int rank, world;

static void must(tiny_ctx *ctx, tiny_status st)
{
    if (!st) return;
    fprintf(stderr, "bench: rank %d: %s\n", rank, tiny_ctx_message(ctx));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static tiny_tcp *connected(tiny_ctx *ctx, int no_mac)
{
    static char text[TINY_NET_RANKS][TINY_ADDRESS_TEXT];
    const char *peers[TINY_NET_RANKS];
    tiny_socket at[TINY_ADDRESSES];
    char mine[TINY_ADDRESS_TEXT] = "";
    tiny_address a;
    tiny_tcp_desc d;
    tiny_tcp *tcp = NULL;
    int i, n = 0;
    must(ctx, tiny_listen_at(ctx, "127.0.0.1:0", at, &n));
    must(ctx, tiny_socket_address(ctx, at[0], &a));
    tiny_address_text(&a, mine);
    MPI_Allgather(mine, sizeof mine, MPI_CHAR, text, sizeof mine, MPI_CHAR, MPI_COMM_WORLD);
    for (i = 0; i < world; i++) peers[i] = text[i];
    memset(&d, 0, sizeof d);
    d.rank = rank;
    d.world = world;
    d.peers = peers;
    d.listener = at[0];
    d.secret = "the key of this bench";
    d.n_secret = 21;
    d.no_mac = no_mac;
    must(ctx, tiny_tcp_open(ctx, &d, &tcp));
    for (i = 0; i < n; i++) tiny_socket_close(at[i]);
    return tcp;
}

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, order);
    return x[n / 2];
}

/* seconds of one sum on the slowest rank; way 0: that of MPI */
static double turn(tiny_ctx *ctx, tiny_coll *c, int way, const float *from, float *x, size_t n, int calls)
{
    double t, most;
    int k;
    memset(x, 0, n * sizeof *x);
    MPI_Barrier(MPI_COMM_WORLD);
    t = MPI_Wtime();
    for (k = 0; k < calls; k++)
        if (!way) MPI_Allreduce(from, x, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else must(ctx, tiny_coll_allreduce(ctx, c, way, x, n));
    t = (MPI_Wtime() - t) / calls;
    MPI_Allreduce(&t, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

int main(int argc, char **argv)
{
    const int most = argc > 1 && atoi(argv[1]) > 0 && atoi(argv[1]) <= MOST_ROUNDS ? atoi(argv[1]) : 21;
    tiny_ctx_desc cd;
    tiny_ctx *ctx = NULL;
    tiny_coll_choice choice;
    int part, i, k, way;
    float *x, *from;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &i);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    memset(&cd, 0, sizeof cd);
    cd.n_threads = 1;
    if (world < 2 || world > TINY_NET_RANKS || tiny_ctx_open(&cd, &ctx)) MPI_Abort(MPI_COMM_WORLD, 1);
    x = (float *)malloc(LONGEST * sizeof *x);
    from = (float *)malloc(LONGEST * sizeof *from);
    if (!x || !from) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(from, 0, LONGEST * sizeof *from);
    for (part = 0; part < 3; part++) {
        static const char *const over[] = { "over TCP, no MACs", "over MPI", "over TCP, MACs" };
        const int rounds = part < 2 ? most : most / 4 + 1;
        tiny_tcp *tcp = part == 1 ? NULL : connected(ctx, part == 0);
        tiny_mpi *mpi = NULL;
        tiny_coll c;
        memset(&c, 0, sizeof c);
        if (part == 1) must(ctx, tiny_mpi_open(ctx, NULL, &mpi));
        c.net = mpi ? tiny_mpi_net(mpi) : tiny_tcp_net(tcp);
        c.n_work = LONGEST * sizeof *x;
        c.work = malloc(c.n_work);
        if (!c.work) MPI_Abort(MPI_COMM_WORLD, 1);
        must(ctx, tiny_coll_probe(ctx, &c, &choice));
        for (k = -1; k < rounds; k++)       /* the first round only warms up */
            for (i = 0; i < SIZES; i++)
                for (way = 0; way < WAYS; way++) {
                    double t;
                    if (way == TINY_COMM_DIRECT) continue;
                    t = turn(ctx, &c, way, from, x, bytes[i] / 4, part < 2 ? CALLS : 1);
                    took[i][way][k < 0 ? 0 : k] = t;
                }
        if (!rank)
            printf("%d ranks, %s: a message %.1f us and %.3f ns a byte (probe); medians of %d rounds, us\n", world,
                   over[part], 1e6 * choice.line.latency, 1e9 * choice.line.byte, rounds);
        for (i = 0; i < SIZES && !rank; i++) {
            const double theirs = median(took[i][0], rounds);
            double best = 1e9, chosen = 0, least = 1e9;
            printf("%5lu KB  MPI %.0f (%.0f)", (unsigned long)(bytes[i] / 1024), 1e6 * theirs, 1e6 * took[i][0][0]);
            for (way = TINY_COMM_DOUBLING; way < WAYS; way++) {
                const double t = median(took[i][way], rounds);
                printf("  %s %.0f (%.0f)", name[way], 1e6 * t, 1e6 * took[i][way][0]);
                if (t < best) best = t;
                if (took[i][way][0] < least) least = took[i][way][0];
                if (way == tiny_coll_way(&choice, bytes[i])) chosen = t;
            }
            printf("  | best %.2f (%.2f), the probe's choice (%s) %.2f times MPI\n", best / theirs,
                   least / took[i][0][0], name[tiny_coll_way(&choice, bytes[i])], chosen / theirs);
        }
        (void)fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
        c.net->close(c.net);
        tiny_tcp_close(ctx, tcp);
        tiny_mpi_close(ctx, mpi);
        free(c.work);
    }
    free(x);
    free(from);
    tiny_ctx_close(ctx);
    MPI_Finalize();
    return 0;
}
