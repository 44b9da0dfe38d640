/* tests/llm/dist/net.h - a function on each rank, over threads or over TCP, for tests of what ranks do together
 *
 * Each rank has a context of one thread and a net; rank 1 may do harm (core/fault.h). What ranks find goes into the
 * struct that `arg` points to. */
#ifndef T_NET_H
#define T_NET_H
#include "t.h"

enum { T_NETS = 8 };
typedef struct t_net {
    int world, tcp, has_fault;
    tiny_fault_at fault;                    /* of rank 1, if has_fault */
    tiny_target target, targets[T_NETS];    /* of all ranks; of a rank that has its own */
    tiny_local_desc line;                   /* between threads; queue_bytes 0: 4096 */
    void (*body)(struct t_net *j, int rank, tiny_ctx *ctx, tiny_net *net);
    void *arg;
    /* set by the run */
    tiny_status st[T_NETS];
    char says[T_NETS][240];
    /* internal */
    tiny_local *local;
    tiny_socket at[T_NETS];
    char address[T_NETS][TINY_ADDRESS_TEXT];
    const char *peers[T_NETS];
} t_net;

T_FN void t_net_rank(int rank, void *arg)
{
    static const char secret[] = "correct horse battery staple";
    t_net *j = (t_net *)arg;
    tiny_ctx *ctx = t_rank_ctx(j->targets[rank] ? j->targets[rank] : j->target);
    tiny_tcp *tcp = NULL;
    tiny_fault *fault = NULL;
    tiny_net *net = j->tcp ? NULL : tiny_local_net(j->local, rank);
    j->st[rank] = TINY_OK;
    if (j->tcp) {
        tiny_tcp_desc d;
        memset(&d, 0, sizeof d);
        d.rank = rank;
        d.world = j->world;
        d.peers = j->peers;
        d.listener = j->at[rank];
        d.secret = secret;
        d.n_secret = sizeof secret - 1;
        j->st[rank] = tiny_tcp_open(ctx, &d, &tcp);
        net = tiny_tcp_net(tcp);
    }
    if (!j->st[rank] && j->has_fault && rank == 1) {
        tiny_fault_desc d;
        memset(&d, 0, sizeof d);
        d.inner = net;
        d.at = &j->fault;
        d.n_at = 1;
        j->st[rank] = tiny_fault_open(ctx, &d, &fault);
        net = tiny_fault_net(fault);
    }
    if (!j->st[rank]) {
        j->body(j, rank, ctx, net);
        net->close(net);
    }
    (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
    tiny_fault_close(ctx, fault);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}

/* 0: there are no threads, or no sockets */
T_FN int t_net_run(t_net *j, int world)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n, ok = 1;
    j->world = world;
    if (j->tcp)
        for (i = 0; i < world; i++) {
            tiny_address a;
            tiny_socket at[TINY_ADDRESSES];
            ok &= T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a));
            j->at[i] = at[0];
            tiny_address_text(&a, j->address[i]);
            j->peers[i] = j->address[i];
        }
    else {
        tiny_local_desc d = j->line;
        d.world = world;
        if (!d.queue_bytes) d.queue_bytes = 4096;
        ok = T_OK(tiny_local_open(ctx, &d, &j->local));
    }
    ok = ok && t_ranks(world, t_net_rank, j);
    tiny_local_close(ctx, j->local);
    j->local = NULL;
    for (i = 0; j->tcp && i < world; i++) tiny_socket_close(j->at[i]);
    t_close(ctx);
    return ok;
}
T_FN void t_net_ok(const t_net *j)
{
    int r;
    for (r = 0; r < j->world; r++)
        if (!T_EQ_INT(j->st[r], TINY_OK)) printf("  rank %d of %d: %s\n", r, j->world, j->says[r]);
}
#endif
