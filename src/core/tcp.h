/* src/core/tcp.h - ranks on several machines: the transport of tiny_comm over authenticated TCP
 *
 *   tiny_tcp_desc d = { 0 };
 *   d.world = 2; d.at = "192.168.1.5:29500"; d.secret = key; d.n_secret = 32;         rank 0
 *   d.rank = TINY_TCP_ANY; d.at = "192.168.1.5:29500"; ...                            each other rank
 *   tiny_tcp_open(ctx, &d, &tcp);                        returns when the whole group is there
 *   comm_desc.net = tiny_tcp_net(tcp);
 *
 * In a star every rank is connected to rank 0 only: enough for sums by TINY_COMM_STAR, and for any sum of two ranks. In
 * a mesh (d.peers) every rank is connected to every other one, and the lower rank of a pair listens.
 *
 * What is protected: nobody without the secret can join, change, repeat or insert a message. What is not: everything is
 * readable on the wire. Use an encrypted tunnel where that matters. The secret has at least 16 bytes, and must be
 * random: it is not made for passwords. It is not kept. The keys that are made from it are wiped at the close and, on
 * Linux, left out of core files; the secret itself is the caller's to wipe.
 *
 * A rank that dies, lies, or is silent for three pings ends the group. net->says and net->gone tell which rank, on
 * every rank. The rank that answers too slowly is found by the time-out of tiny_comm. */
#ifndef TINYI_TCP_H
#define TINYI_TCP_H
#include "core/net.h"
#include "core/socket.h"
TINYI_C_BEGIN

#define TINY_TCP_ANY (-1)                   /* as a rank: rank 0 chooses */
#define TINY_TCP_PLAN 4096                  /* the most bytes of a plan */

typedef struct tiny_tcp_desc {
    int rank;                               /* of this process; TINY_TCP_ANY in a star */
    int world;                              /* ranks; 0 in a star, but not for rank 0: it tells the others */
    const char *at;                         /* star: rank 0 listens here and the others connect to it */
    const char *const *peers;               /* mesh: (world) the address of each rank; NULL: star */
    /* an open listener of the caller instead of the own address; not closed here. 0 and TINY_NO_SOCKET: none */
    tiny_socket listener;
    const void *secret;                     /* the same bytes for every rank, at least 16; not kept */
    size_t n_secret;
    unsigned char model[32], config[32];    /* digests that must be equal on every rank */
    int gives_model;                        /* rank 0 of a star: a rank with a model of zeros may join too */
    const void *plan;                       /* rank 0 of a star: bytes for the others; see tiny_tcp_plan */
    size_t n_plan;
    int no_mac;                             /* messages without MAC; refused unless both ends are on this machine */
    uint64_t open_ns;                       /* for the whole group to be there; 0: 30 s; UINT64_MAX: no limit */
    uint64_t handshake_ns;                  /* for one handshake; 0: 2 s */
    uint64_t ping_ns;                       /* of silence before a ping is sent; 0: 1 s; UINT64_MAX: never */
    int socket_bytes;                       /* the system's buffers of each connection; 0: its own choice */
} tiny_tcp_desc;

typedef struct tiny_tcp tiny_tcp;
/* Takes memory for two frames of 64 KiB for each connection, and no more afterwards. Polls the cancel callback. */
TINY_API tiny_status tiny_tcp_open(tiny_ctx *ctx, const tiny_tcp_desc *desc, tiny_tcp **out);
TINY_API tiny_net *tiny_tcp_net(tiny_tcp *tcp);
TINY_API const void *tiny_tcp_plan(const tiny_tcp *tcp, size_t *n);     /* what rank 0 gave in its desc */
/* The address of this end of the connection to a rank: one at which machines on that side can reach this machine. */
TINY_API tiny_status tiny_tcp_address(tiny_ctx *ctx, const tiny_tcp *tcp, int rank, tiny_address *a);
/* After tiny_comm_close. Peers get everything that was sent before. Takes NULL. */
TINY_API void tiny_tcp_close(tiny_ctx *ctx, tiny_tcp *tcp);

TINYI_C_END
#endif
