/* src/core/tcp_open_inside.h - a connection of a tiny_tcp: what opening it (tcp_open.c) and using it (tcp.c) share */
#ifndef TINYI_TCP_OPEN_INSIDE_H
#define TINYI_TCP_OPEN_INSIDE_H
#include "core/secret_inside.h"
#include "core/state_inside.h"
#include "core/tcp.h"
#include "core/wire_inside.h"
TINYI_C_BEGIN

#define TINYI_TCP_MOST 65536u               /* bytes of payload in a frame */
#define TINYI_TCP_FRAME (TINYI_WIRE_HEAD + TINYI_TCP_MOST + TINYI_WIRE_MAC)

typedef struct tinyi_tcp_peer {
    tiny_socket s;
    int live, ended;                        /* ended: it said BYE */
    int reads, writes;                      /* a message waits for the socket */
    int pings;                              /* it has sent one */
    uint64_t heard_at, sent_at, n_in_frames, n_out_frames;         /* heard_at: its last byte */
    uint32_t most;                          /* bytes of payload that it takes */
    tiny_hmac sends, receives;
    unsigned char *in, *out;                /* (TINYI_TCP_FRAME) */
    size_t n_in, n_out, out_at;
} tinyi_tcp_peer;

struct tiny_tcp {
    tiny_net net;
    tinyi_tcp_peer *peer;                   /* (world), of tinyi_secret_alloc */
    unsigned char *memory;
    int no_mac, closed;
    uint64_t ping_ns;
    tiny_status failed;
    tiny_idx changed;
    tiny_wake wake;
    unsigned char plan[TINY_TCP_PLAN];
    size_t n_plan;
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;
    int has_lock;
#endif
#if TINYI_HAVE_HELPERS
    pthread_cond_t over;
    pthread_t thread;
    int has_thread, quit;
#endif
};

/* Builds a frame with its MAC in the empty buffer of the peer. */
TINYI_FN void tinyi_tcp_frame(tiny_tcp *t, tinyi_tcp_peer *p, int type, int flags, uint64_t tag, const void *payload,
                              uint32_t n);
/* Writes what the buffer holds; *left: some is still there. */
TINYI_FN tiny_status tinyi_tcp_flush(tinyi_tcp_peer *p, int *left);
/* Is a frame there, and right as far as it can be seen? -1: not yet complete; 0: no, with a sentence; 1: yes. */
TINYI_FN int tinyi_tcp_look(tiny_tcp *t, tinyi_tcp_peer *p, int rank, tinyi_head *h, char says[TINYI_WIRE_SAYS]);
/* Removes that frame from the buffer. */
TINYI_FN void tinyi_tcp_drop(tinyi_tcp_peer *p, const tinyi_head *h);

/* The lock and the functions of t->net, before the opening. */
TINYI_FN void tinyi_tcp_begin(tiny_tcp *t);
/* The thread that sends pings, once the group is there. Without threads there are no pings. */
TINYI_FN void tinyi_tcp_ping(tiny_tcp *t);

TINYI_C_END
#endif
