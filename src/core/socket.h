/* src/core/socket.h - stream sockets that never block: TCP over IPv4 and IPv6, and local sockets of POSIX systems
 *
 *   tiny_listen_at(ctx, "127.0.0.1:8080", at, &n);       n listeners in at[]
 *   tiny_poll p[2];                                      p[0].socket = at[0]; p[0].want = TINY_POLL_READ; ...
 *   tiny_socket_poll(ctx, p, 2, until);                  sleeps until one of them can go on, or until that time
 *   tiny_socket_accept(ctx, at[0], &s, &from);           s is TINY_NO_SOCKET if nobody waits
 *   tiny_socket_read(ctx, s, buffer, room, &got, &end);  got is 0 if nothing is there yet
 *
 * An address is a text:
 *   "127.0.0.1:80"  "[::1]:80"  "box.example:80"         a name may have several addresses
 *   "80"  ":80"                                          that port of this machine only (loopback)
 *   "*:80"                                               that port on every interface, IPv4 and IPv6
 *   "unix:/run/me"                                       a local socket, where the system has them
 * Port 0 lets the system choose; tiny_socket_address tells which one it took. Only the resolver of names may block.
 *
 * Every socket is non-blocking, closed in child processes, has keep-alive on and Nagle's delay off, and its writes
 * raise no SIGPIPE. A context may be NULL; then nobody reads the sentences. The functions have no state besides the
 * socket: threads may use different sockets at the same time, each with its own context.
 * Windows: link with ws2_32. A program that includes windows.h before this header defines WIN32_LEAN_AND_MEAN. */
#ifndef TINYI_SOCKET_H
#define TINYI_SOCKET_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef intptr_t tiny_socket;               /* the system's handle */
#define TINY_NO_SOCKET ((tiny_socket)-1)

#define TINY_ADDRESSES 8                    /* the most that one name resolves to; more are not tried */
#define TINY_ADDRESS_TEXT 160               /* room for the text of an address */
typedef struct tiny_address {               /* in the system's form */
    unsigned char bytes[128];
    int n_bytes;
} tiny_address;

/* Fails for a text that is no address and for a name that is not known. *n is at least 1 after a success. */
TINY_API tiny_status tiny_address_find(tiny_ctx *ctx, const char *text, tiny_address a[TINY_ADDRESSES], int *n);
/* "127.0.0.1:80"; never longer than TINY_ADDRESS_TEXT with its final 0 */
TINY_API void tiny_address_text(const tiny_address *a, char text[TINY_ADDRESS_TEXT]);
/* True if only this machine can reach it: loopback or a local socket. */
TINY_API int tiny_address_is_local(const tiny_address *a);

/* A local socket left behind by a program that has ended is replaced. Nothing else is removed. */
TINY_API tiny_status tiny_socket_listen(tiny_ctx *ctx, const tiny_address *a, tiny_socket *out);
/* Listens at every address of a text. Succeeds if one of them works, and fails with the sentence of the last. */
TINY_API tiny_status tiny_listen_at(tiny_ctx *ctx, const char *text, tiny_socket at[TINY_ADDRESSES], int *n);
/* *out is TINY_NO_SOCKET and the status TINY_OK if no connection waits. from may be NULL. After a failure the
 * connection may still wait: a server that is out of descriptors should not poll its listener for a while. */
TINY_API tiny_status tiny_socket_accept(tiny_ctx *ctx, tiny_socket listener, tiny_socket *out, tiny_address *from);
/* Begins to connect. When the socket can be written, tiny_socket_connected tells whether it succeeded. */
TINY_API tiny_status tiny_socket_connect(tiny_ctx *ctx, const tiny_address *a, tiny_socket *out);
TINY_API tiny_status tiny_socket_connected(tiny_ctx *ctx, tiny_socket s);
/* The address of this end. */
TINY_API tiny_status tiny_socket_address(tiny_ctx *ctx, tiny_socket s, tiny_address *a);
/* Asks for buffers of so many bytes in each direction. Systems round it. */
TINY_API tiny_status tiny_socket_buffers(tiny_ctx *ctx, tiny_socket s, int n_bytes);

/* Moves as much as it can without waiting: *got or *put may be 0. *end: the peer will send no more. TINY_E_PEER: the
 * connection is broken. */
TINY_API tiny_status tiny_socket_read(tiny_ctx *ctx, tiny_socket s, void *data, size_t n, size_t *got, int *end);
TINY_API tiny_status tiny_socket_write(tiny_ctx *ctx, tiny_socket s, const void *data, size_t n, size_t *put);
/* Half-close: the peer sees the end after everything that was written. Reading goes on. */
TINY_API tiny_status tiny_socket_finish(tiny_ctx *ctx, tiny_socket s);
TINY_API void tiny_socket_close(tiny_socket s);         /* takes TINY_NO_SOCKET */

enum { TINY_POLL_READ = 1, TINY_POLL_WRITE = 2 };
typedef struct tiny_poll {
    tiny_socket socket;                     /* TINY_NO_SOCKET: skipped */
    int want, can;                          /* of the two bits; a broken connection can do what is wanted, and fails */
} tiny_poll;
/* Sleeps until one socket can do something it wants, a signal arrives, or the clock (tiny_now_ns) reaches until;
 * UINT64_MAX: no limit, 0: only looks. Allocates for more than 256 sockets. */
TINY_API tiny_status tiny_socket_poll(tiny_ctx *ctx, tiny_poll *p, size_t n, uint64_t until);

/* Many sockets of which few are ready, such as idle connections: asking costs the same however many there are. Poll
 * `set` for TINY_POLL_READ as one of the sockets, then ask which of them can be read. Linux has it; elsewhere opening
 * fails with TINY_E_UNSUPPORTED, and a program polls them one by one. */
typedef struct tiny_watch { int is_open; tiny_socket set; } tiny_watch;              /* all zero: not open */
TINY_API tiny_status tiny_watch_open(tiny_ctx *ctx, tiny_watch *w);
/* user is not NULL. A socket is removed before it is closed. */
TINY_API tiny_status tiny_watch_add(tiny_ctx *ctx, const tiny_watch *w, tiny_socket s, void *user);
TINY_API void tiny_watch_remove(const tiny_watch *w, tiny_socket s);
/* Writes the users of at most `room` sockets that can be read or are broken, does not wait, and returns how many. One
 * that is neither read nor removed is told again. */
TINY_API int tiny_watch_ready(const tiny_watch *w, void **user, int room);
TINY_API void tiny_watch_close(tiny_watch *w);

/* Ends the sleep of tiny_socket_poll from another thread or a signal handler. Poll `reads` for TINY_POLL_READ, and
 * clear it before looking for work: a wake-up that comes later is then not lost. */
typedef struct tiny_wake { int is_open; tiny_socket reads, writes; } tiny_wake;      /* all zero: not open */
TINY_API tiny_status tiny_wake_open(tiny_ctx *ctx, tiny_wake *w);
TINY_API void tiny_wake_up(const tiny_wake *w);
TINY_API void tiny_wake_clear(const tiny_wake *w);
TINY_API void tiny_wake_close(tiny_wake *w);

TINYI_C_END
#endif
