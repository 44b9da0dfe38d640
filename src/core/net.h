/* src/core/net.h - messages between ranks: one table of functions, whoever carries them
 *
 * A rank is one of `world` equal workers, each with a tiny_net of its own. A message has a tag and bytes; those from
 * one rank to another arrive in the order in which they were sent. The functions of the table never wait: each call
 * goes on with a message as far as it can, and pause sleeps until it can go further. So one thread can send and receive
 * at the same time, and no two ranks block each other by both sending first. tiny_comm (core/comm.h) is the caller; a
 * program rarely needs to be.
 *
 * The transport that stands here carries messages between the threads of one process:
 *
 *   tiny_local_desc d = { 0 };
 *   d.world = 2; d.latency_ns = 1000000; d.bits_per_second = 1e8;       a delay line: each link as slow as a network
 *   tiny_local_open(ctx, &d, &local);
 *   tiny_net *net = tiny_local_net(local, rank);                        for the thread of that rank
 *
 * On a virtual clock nothing is delayed; what the delay line would have made of it is counted, the same in every
 * run. */
#ifndef TINYI_NET_H
#define TINYI_NET_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TINY_NET_RANKS 64                   /* at most */

typedef struct tiny_message {               /* one on its way; all zero but for what the caller sets */
    uint64_t tag;                           /* sent; awaited: another one is a failure, and stands here then */
    void *data;
    size_t n;                               /* bytes; awaited: exactly so many */
    size_t done;                            /* of them, so far */
    int begun, whole;                       /* whole: nothing is left to do */
    /* nanoseconds. To send on a virtual clock: when it leaves. Awaited: when it arrives, 0 while that is not known */
    uint64_t at;
} tiny_message;

typedef struct tiny_net_count { uint64_t messages_sent, bytes_sent, messages_received, bytes_received; } tiny_net_count;

typedef struct tiny_net tiny_net;
struct tiny_net {
    int rank, world;
    int virtual_clock;
    /* One thread at a time calls send, recv and close. A failure leaves its sentence in says; after it nothing but
     * close is called. */
    tiny_status (*send)(tiny_net *net, int to, tiny_message *m);
    tiny_status (*recv)(tiny_net *net, int from, tiny_message *m);
    /* From here on peers that wait for this rank are told so, once they have what was sent before. */
    void (*close)(tiny_net *net);
    /* Any threads: how often something has changed, and the sleep until it is no longer `seen`, or the clock
     * (tiny_now_ns) says until. */
    uint64_t (*changes)(tiny_net *net);
    void (*pause)(tiny_net *net, uint64_t seen, uint64_t until);
    void (*wake)(tiny_net *net);            /* counts as a change */
    tiny_net_count *count;                  /* (world): with each peer */
    char says[200];
};

typedef struct tiny_local tiny_local;
typedef struct tiny_local_desc {            /* all zero: one rank */
    int world;                              /* 0: 1 */
    /* that may be on their way from one rank to another before the sender must wait; 0: 1 MiB */
    size_t queue_bytes;
    uint64_t latency_ns;                    /* of each link, in each direction by itself */
    double bits_per_second;                 /* 0: no limit */
    int virtual_clock;
} tiny_local_desc;

TINY_API tiny_status tiny_local_open(tiny_ctx *ctx, const tiny_local_desc *desc, tiny_local **out);
TINY_API tiny_net *tiny_local_net(tiny_local *local, int rank);    /* NULL: there is none */
/* Another delay for what is sent from here on; while nobody sends. */
TINY_API void tiny_local_delay(tiny_local *local, uint64_t latency_ns, double bits_per_second);
/* takes NULL; after all its ranks have come to an end */
TINY_API void tiny_local_close(tiny_ctx *ctx, tiny_local *local);

TINYI_C_END
#endif
