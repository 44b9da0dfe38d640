/* src/llm/serve/server.h - an HTTP/1.1 server for one thread: connections, time limits, answers in one piece or as a
 * stream
 *
 *   static void answer(void *user, tllm_reply *r) { tllm_reply_send(r, 200, "text/plain", NULL, "hello\n", 6); }
 *   ...
 *   memset(&d, 0, sizeof d);
 *   d.address = "127.0.0.1:8080";
 *   d.request = answer;
 *   tllm_server_open(ctx, &d, &s);
 *   while (!stop) tllm_server_step(s, UINT64_MAX);
 *   tllm_server_close(s);
 *
 * request() gets each complete request once. It answers at once, or keeps the reply and answers later, from the same
 * thread. gone() is called when a client hangs up before its answer is complete, and the reply is invalid afterwards; a
 * half-closed connection counts as hung up. Neither is ever called from inside a tllm_reply_ function.
 *
 * A client cannot hold the server: heads, bodies, idle connections and unread answers have time limits, and the bytes
 * that wait for a client that does not read are limited. Refused requests get a JSON object with the reason. There is
 * no TLS: use a proxy in front of it where the network is not yours. */
#ifndef TINYI_SERVE_SERVER_H
#define TINYI_SERVE_SERVER_H
#include "core/socket.h"
#include "llm/serve/http.h"
TINYI_C_BEGIN

typedef struct tllm_server tllm_server;
typedef struct tllm_reply tllm_reply;

typedef struct tllm_server_desc {           /* 0: the default */
    const char *address;          /* as in core/socket.h; default: "127.0.0.1:8080" */
    tllm_http_limits limits;
    size_t connections;                     /* 512. One more takes the place of the longest idle one, or gets 503 */
    size_t queue_bytes;                     /* of a stream that wait for a client: 4 MiB; more: it is disconnected */
    size_t ahead_bytes;                     /* read ahead of a pipelined request while another is answered: 64 KiB */
    double idle_seconds;                    /* between requests: 75 */
    double head_seconds;                    /* from the first byte of a request to the end of its head: 10 */
    double body_seconds;                    /* from there to the end of its body: 60 */
    double write_seconds;                   /* without taking any byte of an answer: 30 */
    void (*request)(void *user, tllm_reply *r);
    void (*gone)(void *user, tllm_reply *r); /* may be NULL */
    void *user;
} tllm_server_desc;

/* On failure *out is NULL. */
TINY_API tiny_status tllm_server_open(tiny_ctx *ctx, const tllm_server_desc *desc, tllm_server **out);
/* Closes every connection; gone() is called for unfinished answers. s may be NULL. */
TINY_API void tllm_server_close(tllm_server *s);
/* Waits for events until the clock (tiny_now_ns) reaches `until`, handles them and returns; 0: does not wait. */
TINY_API tiny_status tllm_server_step(tllm_server *s, uint64_t until);
/* The address that it listens at, with the port that the system chose for port 0; "" if there is none. */
TINY_API const char *tllm_server_address(const tllm_server *s);
TINY_API int tllm_server_is_local(const tllm_server *s); /* 1: only this machine can reach it */
TINY_API size_t tllm_server_connections(const tllm_server *s);

/* The request and its bytes; valid during request() only. NULL: r is NULL. */
TINY_API const tllm_http_request *tllm_reply_request(const tllm_reply *r, const char **bytes);
/* The whole answer. extra: further lines of the head, "Name: value\r\n" each, or NULL. If an answer cannot be sent the
 * connection is closed, and gone() follows. */
TINY_API tiny_status tllm_reply_send(tllm_reply *r, int status, const char *type, const char *extra, const void *body,
                                     size_t n);
/* An answer in pieces: begin, add ..., end. Each piece is written to the socket at once, if the client reads. After a
 * failure of add the rest is dropped, and gone() follows. */
TINY_API tiny_status tllm_reply_begin(tllm_reply *r, int status, const char *type, const char *extra);
TINY_API tiny_status tllm_reply_add(tllm_reply *r, const void *bytes, size_t n);
TINY_API tiny_status tllm_reply_end(tllm_reply *r);
/* A pointer of yours; NULL for a new request. */
TINY_API void tllm_reply_keep(tllm_reply *r, void *user);
TINY_API void *tllm_reply_kept(const tllm_reply *r);

TINYI_C_END
#endif
