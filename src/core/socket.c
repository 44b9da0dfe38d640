/* src/core/socket.c - stream sockets over POSIX and Winsock
 *
 * Winsock counts its users: a socket is one, from its making to its close. So no state of ours is needed.
 * Waking   a pipe; under Windows, where only sockets can be polled, a datagram socket that is connected to itself.
 * Names    "localhost" is never looked up: it is 127.0.0.1 and ::1. Strict C99 hides the resolver of Linux, which is
 *          declared here then. Where there is none, addresses are numbers. */
#include "core/socket.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

#if defined _WIN32
#define TINYI_HAVE_SOCKETS 1
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <winsock2.h>
#include <ws2tcpip.h>
#ifdef _MSC_VER
#pragma comment(lib, "ws2_32")
#endif
#elif (defined __unix__ || defined __APPLE__) && !defined __EMSCRIPTEN__ && !defined __wasi__
#define TINYI_HAVE_SOCKETS 1
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/epoll.h>
#endif
#else
#define TINYI_HAVE_SOCKETS 0
#endif

#if TINYI_HAVE_SOCKETS

#if defined _WIN32
typedef SOCKET tinyi_fd;
typedef WSAPOLLFD tinyi_pollfd;
typedef int tinyi_io_count;
#define TINYI_SOCKET_ERROR(name) WSA##name
#define TINYI_NO_SIGPIPE 0
static int tinyi_socket_errno(void) { return WSAGetLastError(); }
static int tinyi_socket_begin(void)
{
    WSADATA data;
    return WSAStartup(MAKEWORD(2, 2), &data) == 0;
}
static void tinyi_socket_end(void) { (void)WSACleanup(); }
static void tinyi_fd_close(tinyi_fd fd)
{
    (void)closesocket(fd);
    tinyi_socket_end();
}
#else
typedef int tinyi_fd;
typedef struct pollfd tinyi_pollfd;
typedef ssize_t tinyi_io_count;
#define INVALID_SOCKET (-1)
#define TINYI_SOCKET_ERROR(name) name
#ifdef MSG_NOSIGNAL
#define TINYI_NO_SIGPIPE MSG_NOSIGNAL
#else
#define TINYI_NO_SIGPIPE 0
#endif
#define TINYI_KIND_OF_FILE 0170000         /* S_IFMT and S_IFSOCK, which strict C99 hides */
#define TINYI_KIND_SOCKET 0140000
static int tinyi_socket_errno(void) { return errno; }
static int tinyi_socket_begin(void) { return 1; }
static void tinyi_socket_end(void) {}
static void tinyi_fd_close(tinyi_fd fd) { (void)close(fd); }
#endif

#if defined AI_PASSIVE
typedef struct addrinfo tinyi_addrinfo;
#define TINYI_HAVE_NAMES 1
#elif defined __linux__                     /* the layout of glibc and musl */
typedef struct tinyi_addrinfo {
    int ai_flags, ai_family, ai_socktype, ai_protocol;
    socklen_t ai_addrlen;
    struct sockaddr *ai_addr;
    char *ai_canonname;
    struct tinyi_addrinfo *ai_next;
} tinyi_addrinfo;
extern int getaddrinfo(const char *name, const char *service, const tinyi_addrinfo *like, tinyi_addrinfo **list);
extern void freeaddrinfo(tinyi_addrinfo *list);
#define TINYI_HAVE_NAMES 1
#else
#define TINYI_HAVE_NAMES 0
#endif

/* strerror is not safe in several threads, and Winsock has no such table */
static const char *tinyi_socket_why(int e)
{
    switch (e) {
    case TINYI_SOCKET_ERROR(ECONNREFUSED): return "nobody listens there";
    case TINYI_SOCKET_ERROR(ECONNRESET): return "the other side broke the connection";
#ifdef EPIPE
    case EPIPE: return "the other side has closed the connection";
#endif
    case TINYI_SOCKET_ERROR(ECONNABORTED): return "the connection was broken off";
    case TINYI_SOCKET_ERROR(ETIMEDOUT): return "the other side does not answer";
    case TINYI_SOCKET_ERROR(EHOSTUNREACH): return "there is no way to that machine";
    case TINYI_SOCKET_ERROR(ENETUNREACH): return "there is no way to that network";
    case TINYI_SOCKET_ERROR(ENETDOWN): return "the network is down";
    case TINYI_SOCKET_ERROR(EADDRINUSE): return "another program has this address";
    case TINYI_SOCKET_ERROR(EADDRNOTAVAIL): return "this machine does not have this address";
    case TINYI_SOCKET_ERROR(EAFNOSUPPORT): return "this machine does not have this kind of address";
    case TINYI_SOCKET_ERROR(EACCES): return "this user may not";
    case TINYI_SOCKET_ERROR(EMFILE): return "this program has too many files and sockets open";
    case TINYI_SOCKET_ERROR(ENOBUFS): return "the system has no memory for it";
    case TINYI_SOCKET_ERROR(ENOTSOCK): return "this is no socket";
    case TINYI_SOCKET_ERROR(ENOTCONN): return "it is not connected";
#if !defined _WIN32
    case EAGAIN: return "too many wait there";
    case EBADF: return "this is no open socket";
    case EPERM: return "this user may not";
    case ENFILE: return "the system has too many files and sockets open";
    case ENOMEM: return "the system has no memory for it";
    case ENOENT: return "there is no such file";
#endif
    default: return "the system refused";
    }
}
static int tinyi_socket_later(int e)
{
#if !defined _WIN32 && EAGAIN != EWOULDBLOCK
    if (e == EAGAIN) return 1;
#endif
    return e == TINYI_SOCKET_ERROR(EWOULDBLOCK) || e == TINYI_SOCKET_ERROR(EINTR);
}

static tiny_status tinyi_socket_fail(tiny_ctx *ctx, int e, const char *what)
{
    int peer = e == TINYI_SOCKET_ERROR(ECONNRESET) || e == TINYI_SOCKET_ERROR(ECONNREFUSED) ||
               e == TINYI_SOCKET_ERROR(ECONNABORTED) || e == TINYI_SOCKET_ERROR(ETIMEDOUT) ||
               e == TINYI_SOCKET_ERROR(EHOSTUNREACH) || e == TINYI_SOCKET_ERROR(ENETUNREACH);
#ifdef EPIPE
    peer |= e == EPIPE;
#endif
    return tinyi_fail(ctx, peer ? TINY_E_PEER : TINY_E_IO, "%s: %s (error %d)", what, tinyi_socket_why(e), e);
}
static tiny_status tinyi_socket_fail_at(tiny_ctx *ctx, int e, const char *what, const tiny_address *a)
{
    char text[TINY_ADDRESS_TEXT], whole[TINY_ADDRESS_TEXT + 32];
    tiny_address_text(a, text);
    (void)snprintf(whole, sizeof whole, "%s %s", what, text);
    return tinyi_socket_fail(ctx, e, whole);
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static void tinyi_address_put(tiny_address *a, const void *from, size_t n)
{
    memset(a, 0, sizeof *a);
    memcpy(a->bytes, from, n);
    a->n_bytes = (int)n;
}
static void tinyi_address_4(tiny_address *a, const struct in_addr *ip, unsigned port)
{
    struct sockaddr_in at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr = *ip;
    at.sin_port = htons((uint16_t)port);
    tinyi_address_put(a, &at, sizeof at);
}
static void tinyi_address_6(tiny_address *a, const struct in6_addr *ip, unsigned port)
{
    struct sockaddr_in6 at;
    memset(&at, 0, sizeof at);
    at.sin6_family = AF_INET6;
    at.sin6_addr = *ip;
    at.sin6_port = htons((uint16_t)port);
    tinyi_address_put(a, &at, sizeof at);
}
/* The family; 0: no address. Copies, because bytes of a caller have no alignment. */
static int tinyi_address_family(const tiny_address *a)
{
    struct sockaddr head;
    if (!a || a->n_bytes < (int)sizeof head.sa_family || a->n_bytes > (int)sizeof a->bytes) return 0;
    memset(&head, 0, sizeof head);
    memcpy(&head, a->bytes, TINYI_MIN(sizeof head, (size_t)a->n_bytes));
    return (int)head.sa_family;
}

TINY_API void tiny_address_text(const tiny_address *a, char text[TINY_ADDRESS_TEXT])
{
    const int family = tinyi_address_family(a);
    char ip[64] = "?";
    if (!text) return;
    (void)snprintf(text, TINY_ADDRESS_TEXT, "?");
    if (family == AF_INET && a->n_bytes >= (int)sizeof(struct sockaddr_in)) {
        struct sockaddr_in at;
        memcpy(&at, a->bytes, sizeof at);
        (void)inet_ntop(AF_INET, &at.sin_addr, ip, sizeof ip);
        (void)snprintf(text, TINY_ADDRESS_TEXT, "%s:%u", ip, (unsigned)ntohs(at.sin_port));
    } else if (family == AF_INET6 && a->n_bytes >= (int)sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 at;
        memcpy(&at, a->bytes, sizeof at);
        (void)inet_ntop(AF_INET6, &at.sin6_addr, ip, sizeof ip);
        (void)snprintf(text, TINY_ADDRESS_TEXT, "[%s]:%u", ip, (unsigned)ntohs(at.sin6_port));
    }
#if !defined _WIN32
    else if (family == AF_UNIX) {
        const size_t at = offsetof(struct sockaddr_un, sun_path);
        const size_t n = (size_t)a->n_bytes > at ? (size_t)a->n_bytes - at : 0;
        const void *end = n ? memchr(a->bytes + at, 0, n) : NULL;
        memcpy(text, "unix:", 6);
        (void)tiny_plain(text + 5, TINY_ADDRESS_TEXT - 5, a->bytes + at,
                         end ? (size_t)((const unsigned char *)end - a->bytes) - at : n);
    }
#endif
}

TINY_API int tiny_address_is_local(const tiny_address *a)
{
    const int family = tinyi_address_family(a);
    if (family == AF_INET && a->n_bytes >= (int)sizeof(struct sockaddr_in)) {
        struct sockaddr_in at;
        memcpy(&at, a->bytes, sizeof at);
        return (ntohl(at.sin_addr.s_addr) >> 24) == 127;
    }
    if (family == AF_INET6 && a->n_bytes >= (int)sizeof(struct sockaddr_in6)) {
        static const unsigned char one[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 };
        static const unsigned char mapped[13] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127 };
        struct sockaddr_in6 at;
        memcpy(&at, a->bytes, sizeof at);
        return !memcmp(&at.sin6_addr, one, sizeof one) || !memcmp(&at.sin6_addr, mapped, sizeof mapped);
    }
#if !defined _WIN32
    return family == AF_UNIX;
#else
    return 0;
#endif
}

/* digits up to 65535; -1: none */
static int tinyi_port(const char *text)
{
    long port = 0;
    if (!*text) return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return -1;
        port = 10 * port + (*text - '0');
        if (port > 65535) return -1;
    }
    return (int)port;
}

static tiny_status tinyi_address_name(tiny_ctx *ctx, const char *name, unsigned port, tiny_address *a, int *n)
{
#if TINYI_HAVE_NAMES
    tinyi_addrinfo like, *list = NULL, *i;
    int e;
    memset(&like, 0, sizeof like);
    like.ai_family = AF_UNSPEC;
    like.ai_socktype = SOCK_STREAM;
    if (!tinyi_socket_begin()) return tinyi_fail(ctx, TINY_E_IO, "Winsock does not start");
    e = getaddrinfo(name, NULL, &like, &list);
    for (i = e ? NULL : list; i && *n < TINY_ADDRESSES; i = i->ai_next) {
        if (i->ai_family == AF_INET && (size_t)i->ai_addrlen >= sizeof(struct sockaddr_in)) {
            struct sockaddr_in at;
            memcpy(&at, i->ai_addr, sizeof at);
            tinyi_address_4(&a[(*n)++], &at.sin_addr, port);
        } else if (i->ai_family == AF_INET6 && (size_t)i->ai_addrlen >= sizeof(struct sockaddr_in6)) {
            struct sockaddr_in6 at;         /* as a whole: it has the interface of a link-local address */
            memcpy(&at, i->ai_addr, sizeof at);
            at.sin6_port = htons((uint16_t)port);
            tinyi_address_put(&a[(*n)++], &at, sizeof at);
        }
    }
    if (!e) freeaddrinfo(list);
    tinyi_socket_end();
    return *n ? TINY_OK : tinyi_fail(ctx, TINY_E_IO, "%s: no machine of this name is known (error %d)", name, e);
#else
    (void)port;
    (void)a;
    (void)n;
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: this build looks up no names: write the address in numbers", name);
#endif
}

TINY_API tiny_status tiny_address_find(tiny_ctx *ctx, const char *text, tiny_address a[TINY_ADDRESSES], int *n)
{
    char host[256];
    const char *colon = text ? strrchr(text, ':') : NULL, *from = text;
    struct in_addr ip4;
    struct in6_addr ip6;
    size_t bytes;
    int port;
    if (n) *n = 0;
    if (!text || !a || !n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_address_find needs a text and room");
    if (!strncmp(text, "unix:", 5)) {
#if defined _WIN32
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: there are no local sockets on this system", text);
#else
        struct sockaddr_un at;
        bytes = strlen(text + 5);
        if (!bytes || bytes >= sizeof at.sun_path)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the path of a local socket has 1 to %zu bytes", text,
                              sizeof at.sun_path - 1);
        memset(&at, 0, sizeof at);
        at.sun_family = AF_UNIX;
        memcpy(at.sun_path, text + 5, bytes);
        tinyi_address_put(a, &at, offsetof(struct sockaddr_un, sun_path) + bytes + 1);
        *n = 1;
        return TINY_OK;
#endif
    }
    port = tinyi_port(colon ? colon + 1 : text);
    if (port < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: this is no address; write HOST:PORT with a port of 0 to 65535",
                          text);
    bytes = colon ? (size_t)(colon - text) : 0;
    if (bytes >= 2 && text[0] == '[' && colon[-1] == ']') {
        from++;
        bytes -= 2;
    } else if (memchr(text, ':', bytes))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: write an IPv6 address as [ADDRESS]:PORT", text);
    if (bytes >= sizeof host) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: this name is too long", text);
    memcpy(host, from, bytes);
    host[bytes] = 0;
    if (!bytes || !strcmp(host, "localhost")) (void)inet_pton(AF_INET, "127.0.0.1", &ip4);
    if (!bytes && from == text) tinyi_address_4(&a[(*n)++], &ip4, (unsigned)port);
    else if (!strcmp(host, "localhost")) {
        (void)inet_pton(AF_INET6, "::1", &ip6);
        tinyi_address_4(&a[(*n)++], &ip4, (unsigned)port);
        tinyi_address_6(&a[(*n)++], &ip6, (unsigned)port);
    } else if (!strcmp(host, "*")) {
        memset(&ip4, 0, sizeof ip4);
        memset(&ip6, 0, sizeof ip6);
        tinyi_address_4(&a[(*n)++], &ip4, (unsigned)port);
        tinyi_address_6(&a[(*n)++], &ip6, (unsigned)port);
    } else if (inet_pton(AF_INET, host, &ip4) == 1) tinyi_address_4(&a[(*n)++], &ip4, (unsigned)port);
    else if (inet_pton(AF_INET6, host, &ip6) == 1) tinyi_address_6(&a[(*n)++], &ip6, (unsigned)port);
    else if (from > text && !strchr(host, '%'))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the brackets hold no IPv6 address", text);
    else return tinyi_address_name(ctx, host, (unsigned)port, a, n);
    return TINY_OK;
}

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

static int tinyi_fd_set_up(tinyi_fd fd, int stream)
{
    const int on = 1;
#if defined _WIN32
    u_long yes = 1;
    if (ioctlsocket(fd, (long)FIONBIO, &yes)) return 0;
    (void)SetHandleInformation((HANDLE)fd, HANDLE_FLAG_INHERIT, 0);
#else
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC)) return 0;
#ifdef SO_NOSIGPIPE
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
#endif
    if (stream) {                           /* not possible for local sockets, nor needed */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (const char *)&on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, (const char *)&on, sizeof on);
    }
    return 1;
}

static tiny_status tinyi_socket_make(tiny_ctx *ctx, const tiny_address *a, const char *what, tinyi_fd *out)
{
    const int family = tinyi_address_family(a);
    int e;
    if (!family) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: this is no address", what);
    if (!tinyi_socket_begin()) return tinyi_fail(ctx, TINY_E_IO, "%s: Winsock does not start", what);
    *out = socket(family, SOCK_STREAM, 0);
    if (*out == INVALID_SOCKET) {
        e = tinyi_socket_errno();
        tinyi_socket_end();
        return tinyi_socket_fail_at(ctx, e, what, a);
    }
    if (!tinyi_fd_set_up(*out, 1)) {
        e = tinyi_socket_errno();
        tinyi_fd_close(*out);
        return tinyi_socket_fail_at(ctx, e, what, a);
    }
    return TINY_OK;
}

#if !defined _WIN32
/* The socket file of a program that has ended: nobody answers there. */
static int tinyi_socket_left(const tiny_address *a)
{
    const char *path = (const char *)a->bytes + offsetof(struct sockaddr_un, sun_path);
    struct stat is;
    struct sockaddr_storage at;
    int fd, refused;
    if (tinyi_address_family(a) != AF_UNIX || stat(path, &is) || (is.st_mode & TINYI_KIND_OF_FILE) != TINYI_KIND_SOCKET)
        return 0;
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) return 0;
    memcpy(&at, a->bytes, (size_t)a->n_bytes);
    refused = tinyi_fd_set_up(fd, 0) && connect(fd, (const struct sockaddr *)&at, (socklen_t)a->n_bytes) &&
              errno == ECONNREFUSED;
    (void)close(fd);
    return refused && !unlink(path);
}
#endif

TINY_API tiny_status tiny_socket_listen(tiny_ctx *ctx, const tiny_address *a, tiny_socket *out)
{
    struct sockaddr_storage at;
    tinyi_fd fd = INVALID_SOCKET;
    const int on = 1;
    int e = 0, bad;
    tiny_status st;
    if (out) *out = TINY_NO_SOCKET;
    if (!a || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_socket_listen needs an address and a pointer");
    st = tinyi_socket_make(ctx, a, "listen at", &fd);
    if (st) return st;
#if defined _WIN32
    (void)setsockopt(fd, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&on, sizeof on);
#else
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
#endif
    if (tinyi_address_family(a) == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, (const char *)&on, sizeof on);
    memset(&at, 0, sizeof at);
    memcpy(&at, a->bytes, TINYI_MIN((size_t)a->n_bytes, sizeof at));
    bad = bind(fd, (const struct sockaddr *)&at, (socklen_t)a->n_bytes) != 0;
    if (bad) e = tinyi_socket_errno();
#if !defined _WIN32
    if (bad && e == EADDRINUSE && tinyi_socket_left(a)) {
        bad = bind(fd, (const struct sockaddr *)&at, (socklen_t)a->n_bytes) != 0;
        if (bad) e = errno;
    }
#endif
    if (!bad && listen(fd, 128)) {
        bad = 1;
        e = tinyi_socket_errno();
    }
    if (bad) {
        tinyi_fd_close(fd);
        return tinyi_socket_fail_at(ctx, e, "listen at", a);
    }
    *out = (tiny_socket)fd;
    return TINY_OK;
}

TINY_API tiny_status tiny_listen_at(tiny_ctx *ctx, const char *text, tiny_socket at[TINY_ADDRESSES], int *n)
{
    tiny_address a[TINY_ADDRESSES];
    int i, n_found = 0;
    tiny_status st;
    if (n) *n = 0;
    if (!at || !n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_listen_at needs room for sockets");
    st = tiny_address_find(ctx, text, a, &n_found);
    if (st) return st;
    for (i = 0; i < n_found; i++) {
        const tiny_status one = tiny_socket_listen(ctx, &a[i], &at[*n]);
        if (!one) (*n)++;
        else st = one;
    }
    return *n ? TINY_OK : st;
}

TINY_API tiny_status tiny_socket_accept(tiny_ctx *ctx, tiny_socket listener, tiny_socket *out, tiny_address *from)
{
    struct sockaddr_storage at;
    socklen_t n = (socklen_t)sizeof at;
    tinyi_fd fd;
    int e;
    if (out) *out = TINY_NO_SOCKET;
    if (!out || listener == TINY_NO_SOCKET)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_socket_accept needs a listener and a pointer");
    memset(&at, 0, sizeof at);
    if (!tinyi_socket_begin()) return tinyi_fail(ctx, TINY_E_IO, "accept: Winsock does not start");
    fd = accept((tinyi_fd)listener, (struct sockaddr *)&at, &n);
    if (fd == INVALID_SOCKET) {
        e = tinyi_socket_errno();
        tinyi_socket_end();
        /* a peer that gave up again is as if it had never come */
        if (tinyi_socket_later(e) || e == TINYI_SOCKET_ERROR(ECONNABORTED) || e == TINYI_SOCKET_ERROR(ECONNRESET))
            return TINY_OK;
        return tinyi_socket_fail(ctx, e, "accept");
    }
    if (!tinyi_fd_set_up(fd, 1)) {
        e = tinyi_socket_errno();
        tinyi_fd_close(fd);
        return tinyi_socket_fail(ctx, e, "accept");
    }
    if (from) tinyi_address_put(from, &at, TINYI_MIN((size_t)n, sizeof from->bytes));
    *out = (tiny_socket)fd;
    return TINY_OK;
}

TINY_API tiny_status tiny_socket_connect(tiny_ctx *ctx, const tiny_address *a, tiny_socket *out)
{
    struct sockaddr_storage at;
    tinyi_fd fd = INVALID_SOCKET;
    int e;
    tiny_status st;
    if (out) *out = TINY_NO_SOCKET;
    if (!a || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_socket_connect needs an address and a pointer");
    st = tinyi_socket_make(ctx, a, "connect to", &fd);
    if (st) return st;
    memset(&at, 0, sizeof at);
    memcpy(&at, a->bytes, TINYI_MIN((size_t)a->n_bytes, sizeof at));
    if (connect(fd, (const struct sockaddr *)&at, (socklen_t)a->n_bytes)) {
        e = tinyi_socket_errno();
        if (e != TINYI_SOCKET_ERROR(EINPROGRESS) && e != TINYI_SOCKET_ERROR(EINTR)
#if defined _WIN32
            && e != WSAEWOULDBLOCK
#endif
        ) {
            tinyi_fd_close(fd);
            return tinyi_socket_fail_at(ctx, e, "connect to", a);
        }
    }
    *out = (tiny_socket)fd;
    return TINY_OK;
}

TINY_API tiny_status tiny_socket_connected(tiny_ctx *ctx, tiny_socket s)
{
    int e = 0;
    socklen_t n = (socklen_t)sizeof e;
    if (getsockopt((tinyi_fd)s, SOL_SOCKET, SO_ERROR, (char *)&e, &n)) e = tinyi_socket_errno();
    return e ? tinyi_socket_fail(ctx, e, "connect") : TINY_OK;
}

TINY_API tiny_status tiny_socket_address(tiny_ctx *ctx, tiny_socket s, tiny_address *a)
{
    struct sockaddr_storage at;
    socklen_t n = (socklen_t)sizeof at;
    if (!a) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_socket_address needs room for an address");
    memset(&at, 0, sizeof at);
    memset(a, 0, sizeof *a);
    if (getsockname((tinyi_fd)s, (struct sockaddr *)&at, &n))
        return tinyi_socket_fail(ctx, tinyi_socket_errno(), "the address of a socket");
    tinyi_address_put(a, &at, TINYI_MIN((size_t)n, sizeof a->bytes));
    return TINY_OK;
}

TINY_API tiny_status tiny_socket_buffers(tiny_ctx *ctx, tiny_socket s, int n_bytes)
{
    if (n_bytes < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "buffers of %d bytes", n_bytes);
    if (setsockopt((tinyi_fd)s, SOL_SOCKET, SO_SNDBUF, (const char *)&n_bytes, sizeof n_bytes) ||
        setsockopt((tinyi_fd)s, SOL_SOCKET, SO_RCVBUF, (const char *)&n_bytes, sizeof n_bytes))
        return tinyi_socket_fail(ctx, tinyi_socket_errno(), "the buffers of a socket");
    return TINY_OK;
}

TINY_API tiny_status tiny_socket_read(tiny_ctx *ctx, tiny_socket s, void *data, size_t n, size_t *got, int *end)
{
    tinyi_io_count k;
    if (got) *got = 0;
    if (end) *end = 0;
    if (!got || !end || (!data && n))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_socket_read needs room, and pointers for its answers");
    if (!n) return TINY_OK;
    n = TINYI_MIN(n, (size_t)1 << 30);
#if defined _WIN32
    k = recv((tinyi_fd)s, (char *)data, (int)n, 0);
#else
    k = recv((tinyi_fd)s, data, n, 0);
#endif
    if (k > 0) *got = (size_t)k;
    else if (k == 0) *end = 1;
    else {
        const int e = tinyi_socket_errno();
        if (!tinyi_socket_later(e)) return tinyi_socket_fail(ctx, e, "read");
    }
    return TINY_OK;
}

TINY_API tiny_status tiny_socket_write(tiny_ctx *ctx, tiny_socket s, const void *data, size_t n, size_t *put)
{
    tinyi_io_count k;
    if (put) *put = 0;
    if (!put || (!data && n))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_socket_write needs bytes, and a pointer for its answer");
    if (!n) return TINY_OK;
    n = TINYI_MIN(n, (size_t)1 << 30);
#if defined _WIN32
    k = send((tinyi_fd)s, (const char *)data, (int)n, 0);
#else
    k = send((tinyi_fd)s, data, n, TINYI_NO_SIGPIPE);
#endif
    if (k >= 0) *put = (size_t)k;
    else {
        const int e = tinyi_socket_errno();
        if (!tinyi_socket_later(e)) return tinyi_socket_fail(ctx, e, "write");
    }
    return TINY_OK;
}

TINY_API tiny_status tiny_socket_finish(tiny_ctx *ctx, tiny_socket s)
{
#if defined _WIN32
    const int how = SD_SEND;
#else
    const int how = SHUT_WR;
#endif
    return shutdown((tinyi_fd)s, how) ? tinyi_socket_fail(ctx, tinyi_socket_errno(), "half-close") : TINY_OK;
}

TINY_API void tiny_socket_close(tiny_socket s)
{
    if (s != TINY_NO_SOCKET) tinyi_fd_close((tinyi_fd)s);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

#define TINYI_POLL_HERE 256                 /* sockets whose list fits the stack */

TINY_API tiny_status tiny_socket_poll(tiny_ctx *ctx, tiny_poll *p, size_t n, uint64_t until)
{
    tinyi_pollfd few[TINYI_POLL_HERE], *fd = few;
    tiny_status st = TINY_OK;
    size_t i, m = 0;
    if (!p) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_socket_poll: the sockets are NULL");
    if (n > TINYI_POLL_HERE) {
        if (!ctx) return TINY_E_ARGUMENT;
        fd = (tinyi_pollfd *)tinyi_alloc(ctx, n, sizeof *fd);
        if (!fd) return tiny_ctx_status(ctx);
    }
    for (i = 0; i < n; i++) {
        p[i].can = 0;
        if (p[i].socket == TINY_NO_SOCKET || !p[i].want) continue;
        memset(&fd[m], 0, sizeof fd[m]);
        fd[m].fd = (tinyi_fd)p[i].socket;
        fd[m].events = (short)((p[i].want & TINY_POLL_READ ? POLLIN : 0) | (p[i].want & TINY_POLL_WRITE ? POLLOUT : 0));
        m++;
    }
    for (;;) {
        const uint64_t now = until && until != UINT64_MAX ? tiny_now_ns() : 0;
        uint64_t ms = until > now ? (until - now) / 1000000u + ((until - now) % 1000000u != 0) : 0;
        int k, e;
        if (ms > 60000) ms = 60000;
#if defined _WIN32
        if (!m) {                           /* WSAPoll refuses an empty list */
            Sleep((DWORD)ms);
            k = 0;
        } else k = WSAPoll(fd, (ULONG)m, (int)ms);
#else
        k = poll(fd, (nfds_t)m, (int)ms);
#endif
        e = k < 0 ? tinyi_socket_errno() : 0;
        if (k < 0 && e == TINYI_SOCKET_ERROR(EINTR)) break;
        if (k < 0) {
            st = tinyi_socket_fail(ctx, e, "poll");
            break;
        }
        if (k > 0) {
            for (i = m = 0; i < n; i++) {
                const short r = p[i].socket == TINY_NO_SOCKET || !p[i].want ? 0 : fd[m++].revents;
                if (r & POLLIN) p[i].can |= TINY_POLL_READ;
                if (r & POLLOUT) p[i].can |= TINY_POLL_WRITE;
                if (r & (POLLERR | POLLHUP | POLLNVAL)) p[i].can = TINY_POLL_READ | TINY_POLL_WRITE;
                p[i].can &= p[i].want;
            }
            break;
        }
        if (until != UINT64_MAX && (!until || tiny_now_ns() >= until)) break;
    }
    if (fd != few) tiny_free(ctx, fd);
    return st;
}

TINY_API tiny_status tiny_wake_open(tiny_ctx *ctx, tiny_wake *w)
{
    int e;
    if (!w) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_wake_open needs a tiny_wake");
    w->is_open = 0;
    w->reads = w->writes = TINY_NO_SOCKET;
#if defined _WIN32
    {
        struct sockaddr_in at;
        int n = (int)sizeof at;
        SOCKET fd;
        memset(&at, 0, sizeof at);
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(0x7f000001u);
        if (!tinyi_socket_begin()) return tinyi_fail(ctx, TINY_E_IO, "a wake-up handle: Winsock does not start");
        fd = socket(AF_INET, SOCK_DGRAM, 0);
        if (fd == INVALID_SOCKET) {
            e = tinyi_socket_errno();
            tinyi_socket_end();
            return tinyi_socket_fail(ctx, e, "a wake-up handle");
        }
        if (!tinyi_fd_set_up(fd, 0) || bind(fd, (const struct sockaddr *)&at, sizeof at) ||
            getsockname(fd, (struct sockaddr *)&at, &n) || connect(fd, (const struct sockaddr *)&at, sizeof at)) {
            e = tinyi_socket_errno();
            tinyi_fd_close(fd);
            return tinyi_socket_fail(ctx, e, "a wake-up handle");
        }
        w->reads = w->writes = (tiny_socket)fd;
    }
#else
    {
        int fd[2];
        if (pipe(fd)) return tinyi_socket_fail(ctx, errno, "a wake-up handle");
        if (!tinyi_fd_set_up(fd[0], 0) || !tinyi_fd_set_up(fd[1], 0)) {
            e = errno;
            (void)close(fd[0]);
            (void)close(fd[1]);
            return tinyi_socket_fail(ctx, e, "a wake-up handle");
        }
        w->reads = fd[0];
        w->writes = fd[1];
    }
#endif
    w->is_open = 1;
    return TINY_OK;
}

/* A full pipe will wake the reader already, so a failed write is no loss. */
TINY_API void tiny_wake_up(const tiny_wake *w)
{
    const char one = 1;
    if (!w || !w->is_open) return;
#if defined _WIN32
    (void)send((tinyi_fd)w->writes, &one, 1, 0);
#else
    {
        const int e = errno;                /* of what a signal handler interrupted */
        if (write((tinyi_fd)w->writes, &one, 1) < 0) errno = e;
    }
#endif
}

TINY_API void tiny_wake_clear(const tiny_wake *w)
{
    char some[64];
    if (!w || !w->is_open) return;
#if defined _WIN32
    while (recv((tinyi_fd)w->reads, some, (int)sizeof some, 0) > 0) {}
#else
    while (read((tinyi_fd)w->reads, some, sizeof some) == (ssize_t)sizeof some) {}
#endif
}

TINY_API void tiny_wake_close(tiny_wake *w)
{
    if (!w || !w->is_open) return;
    tiny_socket_close(w->reads);
    if (w->writes != w->reads) tiny_socket_close(w->writes);
    w->is_open = 0;
    w->reads = w->writes = TINY_NO_SOCKET;
}

#ifdef __linux__
#define TINYI_WATCH_AT_ONCE 64

TINY_API tiny_status tiny_watch_open(tiny_ctx *ctx, tiny_watch *w)
{
    int fd;
    if (!w) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_watch_open needs a tiny_watch");
    w->is_open = 0;
    w->set = TINY_NO_SOCKET;
    fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) return tinyi_socket_fail(ctx, errno, "a set of sockets");
    w->set = fd;
    w->is_open = 1;
    return TINY_OK;
}

TINY_API tiny_status tiny_watch_add(tiny_ctx *ctx, const tiny_watch *w, tiny_socket s, void *user)
{
    struct epoll_event e;
    if (!w || !w->is_open || !user)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_watch_add needs an open tiny_watch and a user");
    memset(&e, 0, sizeof e);
    e.events = EPOLLIN;
    e.data.ptr = user;
    return epoll_ctl((tinyi_fd)w->set, EPOLL_CTL_ADD, (tinyi_fd)s, &e)
               ? tinyi_socket_fail(ctx, errno, "a set of sockets")
               : TINY_OK;
}

TINY_API void tiny_watch_remove(const tiny_watch *w, tiny_socket s)
{
    struct epoll_event e;                   /* Linux before 2.6.9 wants one */
    memset(&e, 0, sizeof e);
    if (w && w->is_open) (void)epoll_ctl((tinyi_fd)w->set, EPOLL_CTL_DEL, (tinyi_fd)s, &e);
}

TINY_API int tiny_watch_ready(const tiny_watch *w, void **user, int room)
{
    struct epoll_event e[TINYI_WATCH_AT_ONCE];
    int i, n;
    if (!w || !w->is_open || !user || room < 1) return 0;
    n = epoll_wait((tinyi_fd)w->set, e, TINYI_MIN(room, TINYI_WATCH_AT_ONCE), 0);
    for (i = 0; i < n; i++) user[i] = e[i].data.ptr;
    return TINYI_MAX(n, 0);
}

TINY_API void tiny_watch_close(tiny_watch *w)
{
    if (!w || !w->is_open) return;
    tiny_socket_close(w->set);
    w->is_open = 0;
    w->set = TINY_NO_SOCKET;
}
#endif

#else                                       /* no sockets on this system: every call says so */

static tiny_status tinyi_socket_none(tiny_ctx *ctx)
{
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "this system has no sockets");
}
TINY_API tiny_status tiny_address_find(tiny_ctx *ctx, const char *text, tiny_address a[TINY_ADDRESSES], int *n)
{
    (void)text;
    (void)a;
    if (n) *n = 0;
    return tinyi_socket_none(ctx);
}
TINY_API void tiny_address_text(const tiny_address *a, char text[TINY_ADDRESS_TEXT])
{
    (void)a;
    if (text) memcpy(text, "?", 2);
}
TINY_API int tiny_address_is_local(const tiny_address *a)
{
    (void)a;
    return 0;
}
TINY_API tiny_status tiny_socket_listen(tiny_ctx *ctx, const tiny_address *a, tiny_socket *out)
{
    (void)a;
    if (out) *out = TINY_NO_SOCKET;
    return tinyi_socket_none(ctx);
}
TINY_API tiny_status tiny_listen_at(tiny_ctx *ctx, const char *text, tiny_socket at[TINY_ADDRESSES], int *n)
{
    (void)text;
    (void)at;
    if (n) *n = 0;
    return tinyi_socket_none(ctx);
}
TINY_API tiny_status tiny_socket_accept(tiny_ctx *ctx, tiny_socket listener, tiny_socket *out, tiny_address *from)
{
    (void)listener;
    (void)from;
    if (out) *out = TINY_NO_SOCKET;
    return tinyi_socket_none(ctx);
}
TINY_API tiny_status tiny_socket_connect(tiny_ctx *ctx, const tiny_address *a, tiny_socket *out)
{
    return tiny_socket_listen(ctx, a, out);
}
TINY_API tiny_status tiny_socket_connected(tiny_ctx *ctx, tiny_socket s)
{
    (void)s;
    return tinyi_socket_none(ctx);
}
TINY_API tiny_status tiny_socket_address(tiny_ctx *ctx, tiny_socket s, tiny_address *a)
{
    (void)a;
    return tiny_socket_connected(ctx, s);
}
TINY_API tiny_status tiny_socket_buffers(tiny_ctx *ctx, tiny_socket s, int n_bytes)
{
    (void)n_bytes;
    return tiny_socket_connected(ctx, s);
}
TINY_API tiny_status tiny_socket_read(tiny_ctx *ctx, tiny_socket s, void *data, size_t n, size_t *got, int *end)
{
    (void)data;
    (void)n;
    if (got) *got = 0;
    if (end) *end = 0;
    return tiny_socket_connected(ctx, s);
}
TINY_API tiny_status tiny_socket_write(tiny_ctx *ctx, tiny_socket s, const void *data, size_t n, size_t *put)
{
    (void)data;
    (void)n;
    if (put) *put = 0;
    return tiny_socket_connected(ctx, s);
}
TINY_API tiny_status tiny_socket_finish(tiny_ctx *ctx, tiny_socket s) { return tiny_socket_connected(ctx, s); }
TINY_API void tiny_socket_close(tiny_socket s) { (void)s; }
TINY_API tiny_status tiny_socket_poll(tiny_ctx *ctx, tiny_poll *p, size_t n, uint64_t until)
{
    (void)p;
    (void)n;
    (void)until;
    return tinyi_socket_none(ctx);
}
TINY_API tiny_status tiny_wake_open(tiny_ctx *ctx, tiny_wake *w)
{
    if (w) {
        w->is_open = 0;
        w->reads = w->writes = TINY_NO_SOCKET;
    }
    return tinyi_socket_none(ctx);
}
TINY_API void tiny_wake_up(const tiny_wake *w) { (void)w; }
TINY_API void tiny_wake_clear(const tiny_wake *w) { (void)w; }
TINY_API void tiny_wake_close(tiny_wake *w) { (void)w; }

#endif

#if !TINYI_HAVE_SOCKETS || !defined __linux__
TINY_API tiny_status tiny_watch_open(tiny_ctx *ctx, tiny_watch *w)
{
    if (w) {
        w->is_open = 0;
        w->set = TINY_NO_SOCKET;
    }
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "this system has no sets of sockets that this library knows");
}
TINY_API tiny_status tiny_watch_add(tiny_ctx *ctx, const tiny_watch *w, tiny_socket s, void *user)
{
    (void)w;
    (void)s;
    (void)user;
    return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_watch_add needs an open tiny_watch and a user");
}
TINY_API void tiny_watch_remove(const tiny_watch *w, tiny_socket s)
{
    (void)w;
    (void)s;
}
TINY_API int tiny_watch_ready(const tiny_watch *w, void **user, int room)
{
    (void)w;
    (void)user;
    (void)room;
    return 0;
}
TINY_API void tiny_watch_close(tiny_watch *w) { (void)w; }
#endif
