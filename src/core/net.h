/* src/core/net.h - messages between ranks: the interface of a transport, and one for threads
 *
 * A rank is one of `world` equal workers, each with its own tiny_net. A message has a tag and bytes. Messages from one
 * rank to another arrive in the order in which they were sent. send and recv never wait: each call moves a message as
 * far as it can, and pause sleeps until more is possible. So one thread can send and receive at the same time, and two
 * ranks that both send first do not block each other. tiny_comm (core/comm.h) calls these functions; programs rarely
 * need to.
 *
 * tiny_local carries messages between the threads of one process:
 *
 *   tiny_local_desc d = { 0 };
 *   d.world = 2; d.latency_ns = 1000000; d.bits_per_second = 1e8;       delays each link like a network
 *   tiny_local_open(ctx, &d, &local);
 *   tiny_net *net = tiny_local_net(local, rank);                        for the thread of that rank
 *
 * With a virtual clock nothing is delayed. The delays are only counted, and the counts are the same in every run. */
#ifndef TINYI_NET_H
#define TINYI_NET_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TINY_NET_RANKS 64                   /* at most */

typedef struct tiny_message {               /* one in flight; the caller sets tag, data and n, the rest is zero */
    uint64_t tag;                           /* recv fails if another tag arrives, and stores that one here */
    void *data;
    size_t n;                               /* bytes; recv expects exactly this many */
    size_t done;                            /* bytes moved so far */
    int begun, whole;                       /* whole: the message is complete */
    /* nanoseconds. send with a virtual clock: when it leaves. recv: when it arrives, 0 while that is not known */
    uint64_t at;
} tiny_message;

typedef struct tiny_net_count { uint64_t messages_sent, bytes_sent, messages_received, bytes_received; } tiny_net_count;

typedef struct tiny_net tiny_net;
struct tiny_net {
    int rank, world;
    int virtual_clock;
    int star;                               /* only rank 0 is connected to all: sums go the way TINY_COMM_STAR */
    /* One thread at a time calls send, recv and close. A failure leaves its sentence in says. After a failure only
     * close is called. */
    tiny_status (*send)(tiny_net *net, int to, tiny_message *m);
    tiny_status (*recv)(tiny_net *net, int from, tiny_message *m);
    /* Peers that wait for this rank receive everything that was sent before, then fail. */
    void (*close)(tiny_net *net);
    /* Any thread may call these. changes counts events. pause sleeps until that count differs from seen, or until the
     * clock (tiny_now_ns) reaches until. */
    uint64_t (*changes)(tiny_net *net);
    void (*pause)(tiny_net *net, uint64_t seen, uint64_t until);
    void (*wake)(tiny_net *net);            /* counts as an event */
    tiny_net_count *count;                  /* (world): the traffic with each peer */
    uint64_t calls;                         /* collective calls so far: their tags differ, whoever makes them */
    /* Set before close, if the caller itself found a failure: the peers then get TINY_E_PROTOCOL for that one, and
     * TINY_E_PEER for any other. */
    tiny_status why;
    int gone;                               /* after a failure: 1 + the rank that caused it; 0: not known */
    tiny_net *whole;                        /* NULL, or the net of which this one is a part */
    /* NULL, or moves messages that another call left under way. Collective calls on parts of this net make it before
     * they sleep: the rank that they wait for may wait for the rest of such a message. */
    void (*push)(void *user);
    void *push_user;
    char says[200];
};

typedef struct tiny_local tiny_local;
typedef struct tiny_local_desc {            /* all zero: one rank */
    int world;                              /* 0: 1 */
    /* the bytes that fit in flight from one rank to another before the sender must wait; 0: 1 MiB */
    size_t queue_bytes;
    uint64_t latency_ns;                    /* of each link and direction */
    double bits_per_second;                 /* 0: no limit */
    /* 1: messages only take their time on its clock. 2: besides, a rank sends one message at a time, and takes one at a
     * time, as through one cable */
    int virtual_clock;
} tiny_local_desc;

TINY_API tiny_status tiny_local_open(tiny_ctx *ctx, const tiny_local_desc *desc, tiny_local **out);
TINY_API tiny_net *tiny_local_net(tiny_local *local, int rank);    /* NULL for an unknown rank */
/* Changes the delay of later messages. Call it while no rank is sending. */
TINY_API void tiny_local_delay(tiny_local *local, uint64_t latency_ns, double bits_per_second);
/* Call it after all ranks are done. Takes NULL. */
TINY_API void tiny_local_close(tiny_ctx *ctx, tiny_local *local);

/* ---- inside: what the bodies share ---- */

/* This rank cannot go on, for a reason that ctx has in its message: the net ends, so that no rank waits for this one.
 * After an earlier failure nothing changes. net may be NULL. Returns st. */
TINYI_FN tiny_status tinyi_net_end(const tiny_ctx *ctx, tiny_net *net, tiny_status st);

TINYI_C_END
#endif
