/* src/llm/serve/http.h - reads HTTP/1.1 requests: a state machine over bytes that arrive in pieces
 *
 *   tllm_http_request r;
 *   tllm_http_start(&r, NULL);                   the default limits
 *   ... append what the socket gives to bytes[0 .. n) ...
 *   switch (tllm_http_feed(&r, bytes, &n)) {
 *   case TLLM_HTTP_HEAD: case TLLM_HTTP_BODY:    more bytes are needed
 *   case TLLM_HTTP_FAILED:                       answer r.error with r.says, then close the connection
 *   case TLLM_HTTP_DONE:                         bytes[r.body_at ...] has r.body_bytes; the next request begins at
 *   }                                            bytes[r.used]
 *
 * bytes always begins with the first byte of the request; it may move between calls. Nothing is copied or allocated:
 * method, target and fields are offsets into bytes. A chunked body is put together in place, so n shrinks. Each byte is
 * looked at once, however the pieces are cut, and a fault is reported at its first byte.
 *
 * The reader is strict (RFC 9112), because a proxy and a server that read one request differently can be made to
 * answer each other's clients. It refuses
 *   a line that ends without CR, a CR without LF, any control character, a NUL, a byte above 126 in the target
 *   a space before the colon, an empty name, a line that begins with a blank (an obsolete fold)
 *   a second Host, Content-Length or Transfer-Encoding, even the same; both of the latter together
 *   a Content-Length that is not 1 to 19 digits; a coding other than chunked; Transfer-Encoding in HTTP/1.0
 *   chunk extensions, blanks around a chunk's length, lengths of more than 15 digits
 *   an HTTP/1.1 request without Host
 * Trailers are checked like fields, count as part of the head, and are dropped. */
#ifndef TINYI_SERVE_HTTP_H
#define TINYI_SERVE_HTTP_H
#include "core/status.h"
TINYI_C_BEGIN

#define TLLM_HTTP_FIELDS 64                 /* the most fields of a head */
#define TLLM_HTTP_METHOD 32                 /* bytes of the longest method */

typedef struct tllm_http_limits {           /* 0: the default */
    uint32_t line_bytes;                    /* of the request line: 8 KiB; longer: 414 */
    uint32_t head_bytes;                    /* of request line, fields and trailers: 32 KiB; longer: 431 */
    uint32_t fields;                        /* at most TLLM_HTTP_FIELDS, the default; more: 431 */
    size_t body_bytes;                      /* 8 MiB; longer: 413 */
} tllm_http_limits;

typedef enum tllm_http_state {
    TLLM_HTTP_HEAD,                         /* the head is not complete */
    TLLM_HTTP_BODY,                         /* the head is complete, the body is not */
    TLLM_HTTP_DONE,
    TLLM_HTTP_FAILED
} tllm_http_state;

typedef struct tllm_http_field {
    uint32_t name, name_bytes, value, value_bytes;
} tllm_http_field;                          /* offsets */

typedef struct tllm_http_request {
    tllm_http_state state;
    int error;                              /* FAILED: the status of the answer, 400 to 505 */
    const char *says;                       /* and a sentence for it */
    uint32_t method, method_bytes, target, target_bytes; /* target: of "http://host/path" the path */
    int minor;                              /* HTTP/1.minor: 0 or 1 */
    int keep_alive;                         /* the client wants to send another request on this connection */
    int expects_continue; /* the client waits for "100 Continue" before it sends the body */
    int chunked, has_length;
    uint64_t length;                        /* of Content-Length */
    uint32_t n_fields;
    tllm_http_field field[TLLM_HTTP_FIELDS];
    size_t body_at, body_bytes;             /* so far */
    size_t used;                            /* DONE: bytes of the whole request */
    /* private */
    tllm_http_limits limits;
    int step;
    int has_host;
    size_t at;                              /* the next byte to look at */
    uint32_t mark, end, head;               /* begin and end of what is being read; bytes counted as head */
    uint64_t left;                          /* of the body or the chunk */
} tllm_http_request;

/* limits may be NULL. */
TINY_API void tllm_http_start(tllm_http_request *r, const tllm_http_limits *limits);
/* bytes: all n bytes since the start of the request that were not removed by an earlier call. *n becomes smaller when
 * the framing of chunks is removed. After DONE and FAILED the call changes nothing. */
TINY_API tllm_http_state tllm_http_feed(tllm_http_request *r, char *bytes, size_t *n);
/* The value of the first field with this name, which is written in small letters; NULL: none, or the head is not
 * complete. */
TINY_API const char *tllm_http_find(const tllm_http_request *r, const char *bytes, const char *name, size_t *n);
/* How many fields have this name. */
TINY_API size_t tllm_http_count(const tllm_http_request *r, const char *bytes, const char *name);
/* "Not Found" for 404; never NULL */
TINY_API const char *tllm_http_reason(int status);

/* ---- inside: what the bodies share ---- */

/* 1: the n bytes are this text of small letters, whatever their case */
TINYI_FN int tinyi_http_is(const char *at, size_t n, const char *text);

TINYI_C_END
#endif
