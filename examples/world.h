/* examples/world.h - the ranks of a program: threads, processes that talk over TCP, or those of mpirun
 *
 *     #define TINY_WITH_TCP
 *     #include "tinyllm.h"
 *     #define PROGRAM "onebyte"
 *     #include "options.h"
 *     #include "world.h"
 *
 *     static tiny_status body(tiny_ctx *ctx, tiny_net *net, void *arg) { ... net->rank of net->world ... }
 *     static world w = { 2, 0, 0, 0 };
 *     const option options[] = { ..., WORLD_OPTIONS(w) };         and WORLD_USAGE in the usage
 *     return exit_status(world_run(&w, body, arg));
 *
 * Threads share arg. Processes each have their own copy, and only rank 0 is in the first process: it prints. Under
 * mpirun (build with -DWORLD_MPI and mpicc) every process is a rank, and --ranks and --tcp are not asked. */
#ifdef OPTIONS_UNIX
#include <sys/wait.h>
#if defined __STRICT_ANSI__ && !defined _DEFAULT_SOURCE && !defined __cplusplus
extern int kill(pid_t pid, int number);     /* -std=c99 hides it */
#endif
#endif
#ifdef WORLD_MPI
#include "mpi/tiny_mpi.h"
#endif

enum { WORLD_MOST = 16 };
typedef struct world { int ranks, tcp; double ms, mbit; } world;
typedef tiny_status (*world_body)(tiny_ctx *ctx, tiny_net *net, void *arg);

#define WORLD_OPTIONS(w)                                                                                  \
    A_WHOLE("--ranks", &(w).ranks, 1, WORLD_MOST), A_FLAG("--tcp", &(w).tcp), A_NUMBER("--ms", &(w).ms, 0, 1e4), \
        A_NUMBER("--mbit", &(w).mbit, 0, 1e9)
#define WORLD_USAGE                                                                 \
    "  --ranks N      ranks on this machine, 1 to 16: threads\n"                    \
    "  --tcp          ranks are processes that talk over TCP (not on Windows)\n"    \
    "  --ms X         delay of a link between two threads, in milliseconds\n"       \
    "  --mbit X       megabits per second of such a link; default: no limit\n"

typedef struct world_job {
    const world *w;
    world_body body;
    void *arg;
    tiny_local *local;
    int failed[WORLD_MOST], ran;
} world_job;

/* one rank: a context of its own with one thread. 1: it failed, and the reason was printed */
static inline int world_rank(const world_job *j, tiny_net *net)
{
    tiny_ctx_desc d;
    tiny_ctx *ctx = NULL;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.n_threads = 1;
    d.log = hear;
    d.user = &ctx;
    if (tiny_ctx_open(&d, &ctx)) return 1;
    st = j->body(ctx, net, j->arg);
    /* without a message the body has said why */
    if (st && *tiny_ctx_message(ctx)) fprintf(stderr, PROGRAM ": rank %d: %s\n", net->rank, tiny_ctx_message(ctx));
    net->why = st;
    net->close(net);                        /* the others get what was sent, and then see that this rank has ended */
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}

static inline void world_thread(tiny_team *team, void *arg)
{
    world_job *j = (world_job *)arg;
    if (team->n != j->w->ranks) return;
    if (!team->i) j->ran = 1;
    j->failed[team->i] = world_rank(j, tiny_local_net(j->local, team->i));
}

static inline tiny_status world_threads(tiny_ctx *ctx, world_job *j)
{
    tiny_local_desc d;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.world = j->w->ranks;
    d.latency_ns = (uint64_t)(1e6 * j->w->ms);
    d.bits_per_second = 1e6 * j->w->mbit;
    st = tiny_local_open(ctx, &d, &j->local);
    if (!st) st = tiny_parallel(ctx, j->w->ranks, 0, 0, world_thread, j);
    tiny_local_close(ctx, j->local);
    if (!st && !j->ran) {
        say("not every thread started: build with -fopenmp, or with -DTINY_PTHREAD and -pthread");
        return TINY_E_UNSUPPORTED;
    }
    return st;
}

#ifdef OPTIONS_UNIX
/* rank `rank` of the processes; every address is known before the first of them starts */
static inline tiny_status world_process(tiny_ctx *ctx, world_job *j, int rank, const char *const *peers,
                                        tiny_socket listener, const unsigned char *key)
{
    tiny_tcp_desc d;
    tiny_tcp *tcp = NULL;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.rank = rank;
    d.world = j->w->ranks;
    d.peers = peers;
    d.listener = listener;
    d.secret = key;
    d.n_secret = 32;
    st = tiny_tcp_open(ctx, &d, &tcp);
    if (st) fprintf(stderr, PROGRAM ": rank %d: %s\n", rank, tiny_ctx_message(ctx));
    else j->failed[rank] = world_rank(j, tiny_tcp_net(tcp));
    tiny_tcp_close(ctx, tcp);
    return st;
}

static inline tiny_status world_tcp(tiny_ctx *ctx, world_job *j)
{
    static char text[WORLD_MOST][TINY_ADDRESS_TEXT];
    const char *peers[WORLD_MOST];
    tiny_socket at[WORLD_MOST][TINY_ADDRESSES];
    int n_at[WORLD_MOST], i, k, status;
    pid_t child[WORLD_MOST];
    unsigned char key[32];
    tiny_address address;
    tiny_status st = tiny_random(ctx, key, sizeof key);
    memset(n_at, 0, sizeof n_at);
    for (i = 0; i < WORLD_MOST; i++) child[i] = -1;
    for (i = 0; !st && i < j->w->ranks; i++) {
        st = tiny_listen_at(ctx, "127.0.0.1:0", at[i], &n_at[i]);
        if (!st) st = tiny_socket_address(ctx, at[i][0], &address);
        if (!st) tiny_address_text(&address, text[i]);
        peers[i] = text[i];
    }
    (void)fflush(NULL);
    for (i = 1; !st && i < j->w->ranks; i++) {          /* this process has no other thread yet */
        child[i] = fork();
        if (!child[i]) _exit(world_process(ctx, j, i, peers, at[i][0], key) || j->failed[i]);
        if (child[i] < 0) { say("there are not enough processes"); st = TINY_E_IO; }
    }
    if (!st) st = world_process(ctx, j, 0, peers, at[0][0], key);
    for (i = 1; i < j->w->ranks; i++) {
        if (child[i] <= 0) continue;
        if (st) (void)kill(child[i], SIGTERM);
        if (waitpid(child[i], &status, 0) != child[i] || status) j->failed[i] = 1;
    }
    for (i = 0; i < WORLD_MOST; i++) for (k = 0; k < n_at[i]; k++) tiny_socket_close(at[i][k]);
    tiny_wipe(key, sizeof key);
    return st;
}
#endif

/* Runs body on every rank. The exit status of the program: 0, or 1 if a rank failed; the reason was printed. */
static inline int world_run(const world *w, world_body body, void *arg)
{
    tiny_ctx_desc d;
    tiny_ctx *ctx = NULL;
    world_job j;
    int i, failed = 0;
    tiny_status st;
    memset(&j, 0, sizeof j);
    memset(&d, 0, sizeof d);
    j.w = w;
    j.body = body;
    j.arg = arg;
    d.n_threads = w->tcp ? 1 : w->ranks;
    d.log = hear;
    d.user = &ctx;
    if (tiny_ctx_open(&d, &ctx)) return 1;
#ifdef WORLD_MPI
    {
        tiny_mpi *mpi = NULL;
        st = tiny_mpi_open(ctx, NULL, &mpi);
        if (!st) failed = world_rank(&j, tiny_mpi_net(mpi));
        tiny_mpi_close(ctx, mpi);
    }
#else
    if (!w->tcp) st = world_threads(ctx, &j);
    else {
#ifdef OPTIONS_UNIX
        st = world_tcp(ctx, &j);
#else
        say("this system has no fork: without --tcp the ranks are threads");
        st = TINY_E_UNSUPPORTED;
#endif
    }
#endif
    if (st && *tiny_ctx_message(ctx)) say(tiny_ctx_message(ctx));
    for (i = 0; i < WORLD_MOST; i++) failed |= j.failed[i];
    tiny_ctx_close(ctx);
    return failed || st;
}
