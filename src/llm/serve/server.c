/* src/llm/serve/server.c - one poll loop over all connections
 *
 * State    A connection waits for a request (idle while it has no byte of one), has its answer under way (`answering`,
 *          from request() to the end of the answer), lingers, or is dead. Requests that arrive behind one another are
 *          answered one by one, in order. A dead connection is removed at the end of a step, and only there gone() is
 *          called, so that no callback runs inside another.
 * Linger   After the last answer the server closes its sending side and drops what the client still sends, for two
 *          seconds at most. A full close at once would make the system discard the answer on its way.
 * Idle     While a model computes, the steps of the server do not wait, and one follows another. A poll of a thousand
 *          idle connections in each of them, or a look at each, would cost as much as a small model. So they stand at
 *          the end of the list and in a set that the system watches; a step touches them only when one of them has
 *          bytes or its time is over. A system without such sets polls them less often.
 * Memory   A connection without bytes holds no buffers. Buffers grow with the bytes that came, not with the length that
 *          a client claims. */
#include "llm/serve/server.h"
#include "llm/token/parts_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

#define TINYI_LINGER_NS UINT64_C(2000000000)
#define TINYI_ACCEPT_NS UINT64_C(100000000) /* pause of a listener that failed */
#define TINYI_ACCEPT_AT_ONCE 64
#define TINYI_IDLE_NS UINT64_C(5000000)     /* the longest time between polls of idle connections */
#define TINYI_IDLE_SHARE 50                 /* they take a 50th of the time at most */
#define TINYI_READY_AT_ONCE 64
#define TINYI_READ_BYTES ((size_t)16 << 10)

struct tllm_reply {                         /* a connection, and the answer to its current request */
    tllm_server *server;
    tiny_socket socket;
    tllm_http_request request;
    tllm_bytes in, out;                     /* read and not used; to be written, from out_at on */
    size_t out_at;
    uint64_t since;                         /* of the state that has a time limit */
    uint64_t wrote;                         /* when the client last took bytes, or had none to take */
    size_t at;                              /* its place in the list of the server */
    int answering, streaming, chunked;
    int minor, keep_alive, head_only;       /* of the request that is being answered */
    int continued;                    /* "100 Continue" was sent */
    int last, lingering, dead;              /* last: no further request after the bytes of out */
    int ended;                              /* the client will send no more */
    void *user;
};

struct tllm_server {
    tiny_ctx *ctx;
    tllm_server_desc desc;
    uint64_t idle_ns, head_ns, body_ns, write_ns;
    tiny_socket at[TINY_ADDRESSES];
    int n_at, is_local;
    uint64_t accept_at;                     /* the listeners are not polled before */
    tllm_reply **link;                      /* the connections; from n_busy on those that are watched */
    tllm_reply **polled;                    /* those of the running step */
    tiny_poll *poll;                        /* (n_at + 1 + n_polled) */
    uint64_t all_at;                        /* the next step from then on polls idle ones that are not watched */
    uint64_t watched_at;                    /* before then no watched one is late */
    tiny_watch watch;
    size_t n, n_busy, room;
    char address[TINY_ADDRESS_TEXT];
};

static uint64_t tinyi_server_ns(double seconds, double otherwise)
{
    const double s = seconds > 0 ? seconds : otherwise;
    return s < 1e9 ? (uint64_t)(s * 1e9) : UINT64_C(1000000000000000000);
}

static void tinyi_link_free(tllm_reply *r)
{
    tiny_ctx *ctx = r->server->ctx;
    tiny_socket_close(r->socket);
    tllm_bytes_free(ctx, &r->in);
    tllm_bytes_free(ctx, &r->out);
    tiny_free(ctx, r);
}

tiny_status tllm_server_open(tiny_ctx *ctx, const tllm_server_desc *desc, tllm_server **out)
{
    tllm_server *s;
    tiny_address a;
    tiny_status st = tinyi_ctx_check(ctx);
    int i;
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out || !desc->request)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_server_open: the %s is NULL",
                          !desc  ? "description"
                          : !out ? "result pointer"
                                 : "function that answers requests");
    s = (tllm_server *)tinyi_alloc(ctx, 1, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    s->desc = *desc;
    if (!s->desc.connections) s->desc.connections = 512;
    if (!s->desc.queue_bytes) s->desc.queue_bytes = (size_t)4 << 20;
    if (!s->desc.ahead_bytes) s->desc.ahead_bytes = (size_t)64 << 10;
    s->idle_ns = tinyi_server_ns(desc->idle_seconds, 75);
    s->head_ns = tinyi_server_ns(desc->head_seconds, 10);
    s->body_ns = tinyi_server_ns(desc->body_seconds, 60);
    s->write_ns = tinyi_server_ns(desc->write_seconds, 30);
    st = tiny_listen_at(ctx, desc->address ? desc->address : "127.0.0.1:8080", s->at, &s->n_at);
    s->is_local = 1;
    for (i = 0; !st && i < s->n_at; i++) {
        st = tiny_socket_address(ctx, s->at[i], &a);
        if (st) break;
        if (!tiny_address_is_local(&a)) s->is_local = 0;
        if (!i) tiny_address_text(&a, s->address);
    }
    s->desc.address = NULL;                 /* the caller's text may go */
    s->watched_at = UINT64_MAX;
    if (!st) (void)tiny_watch_open(NULL, &s->watch);
    if (st) tllm_server_close(s);
    else *out = s;
    return st;
}

void tllm_server_close(tllm_server *s)
{
    size_t i;
    int k;
    if (!s) return;
    tiny_watch_close(&s->watch);
    for (k = 0; k < s->n_at; k++) tiny_socket_close(s->at[k]);
    for (i = 0; i < s->n; i++) {
        if (s->link[i]->answering && s->desc.gone) s->desc.gone(s->desc.user, s->link[i]);
        tinyi_link_free(s->link[i]);
    }
    tiny_free(s->ctx, s->link);
    tiny_free(s->ctx, s->polled);
    tiny_free(s->ctx, s->poll);
    tiny_free(s->ctx, s);
}

const char *tllm_server_address(const tllm_server *s) { return s ? s->address : ""; }
int tllm_server_is_local(const tllm_server *s) { return s ? s->is_local : 0; }
size_t tllm_server_connections(const tllm_server *s) { return s ? s->n : 0; }

/* ---- writing ---- */

static void tinyi_link_flush(tllm_reply *r)
{
    while (!r->dead && r->out_at < r->out.n) {
        size_t put = 0;
        if (tiny_socket_write(NULL, r->socket, r->out.at + r->out_at, r->out.n - r->out_at, &put)) r->dead = 1;
        else if (!put) return;
        r->out_at += put;
        r->wrote = tiny_now_ns();
    }
    r->out.n = r->out_at = 0;
    if (r->dead) return;
    if (r->out.room > TINYI_READ_BYTES || !r->answering) tllm_bytes_free(r->server->ctx, &r->out);
    if (r->last && !r->answering && !r->lingering) {
        r->lingering = 1;
        r->since = tiny_now_ns();
        if (tiny_socket_finish(NULL, r->socket) || r->ended) r->dead = 1;
    }
}

static int tinyi_link_put(tllm_reply *r, const void *bytes, size_t n)
{
    if (r->dead) return 0;
    if (r->out_at == r->out.n) r->wrote = tiny_now_ns();
    else if (r->out_at > r->out.n / 2) {    /* the written half makes room */
        memmove(r->out.at, r->out.at + r->out_at, r->out.n - r->out_at);
        r->out.n -= r->out_at;
        r->out_at = 0;
    }
    if (tinyi_bytes_reserve(r->server->ctx, &r->out, n)) {
        r->dead = 1;
        return 0;
    }
    if (n) memcpy(r->out.at + r->out.n, bytes, n);
    r->out.n += n;
    return 1;
}
static int tinyi_link_put_text(tllm_reply *r, const char *text) { return tinyi_link_put(r, text, strlen(text)); }

static tiny_status tinyi_reply_over(tllm_reply *r)
{
    r->answering = r->streaming = 0;
    r->since = tiny_now_ns();
    if (!r->keep_alive) r->last = 1;
    tinyi_link_flush(r);
    return r->dead ? TINY_E_PEER : TINY_OK;
}

/* n: bytes of the body, or SIZE_MAX for a stream */
static int tinyi_reply_head(tllm_reply *r, int status, const char *type, const char *extra, size_t n)
{
    char line[200];
    (void)snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\nServer: tinyllm\r\nX-Content-Type-Options: nosniff\r\n",
                   status, tllm_http_reason(status));
    if (!tinyi_link_put_text(r, line)) return 0;
    if (type) {
        (void)snprintf(line, sizeof line, "Content-Type: %.150s\r\n", type);
        (void)tinyi_link_put_text(r, line);
    }
    r->chunked = n == SIZE_MAX && r->minor;
    if (n == SIZE_MAX && !r->minor) r->keep_alive = 0;
    if (r->chunked) (void)tinyi_link_put_text(r, "Transfer-Encoding: chunked\r\n");
    else if (n != SIZE_MAX && status != 204) {
        (void)snprintf(line, sizeof line, "Content-Length: %zu\r\n", n);
        (void)tinyi_link_put_text(r, line);
    }
    if (!r->keep_alive) (void)tinyi_link_put_text(r, "Connection: close\r\n");
    else if (!r->minor) (void)tinyi_link_put_text(r, "Connection: keep-alive\r\n");
    if (extra) (void)tinyi_link_put_text(r, extra);
    return tinyi_link_put_text(r, "\r\n");
}

tiny_status tllm_reply_send(tllm_reply *r, int status, const char *type, const char *extra, const void *body, size_t n)
{
    if (!r || !r->answering || r->streaming || (n && !body)) return TINY_E_ARGUMENT;
    if (r->dead || !tinyi_reply_head(r, status, type, extra, n) || (!r->head_only && !tinyi_link_put(r, body, n)))
        return TINY_E_PEER;
    return tinyi_reply_over(r);
}

tiny_status tllm_reply_begin(tllm_reply *r, int status, const char *type, const char *extra)
{
    if (!r || !r->answering || r->streaming) return TINY_E_ARGUMENT;
    if (r->dead || !tinyi_reply_head(r, status, type, extra, SIZE_MAX)) return TINY_E_PEER;
    r->streaming = 1;
    tinyi_link_flush(r);
    return r->dead ? TINY_E_PEER : TINY_OK;
}

tiny_status tllm_reply_add(tllm_reply *r, const void *bytes, size_t n)
{
    char line[24];
    if (!r || !r->streaming || (n && !bytes)) return TINY_E_ARGUMENT;
    if (r->dead) return TINY_E_PEER;
    if (!n || r->head_only) return TINY_OK; /* a chunk of no bytes would end the body */
    if (n > r->server->desc.queue_bytes || r->out.n - r->out_at > r->server->desc.queue_bytes - n) {
        r->dead = 1;                        /* the client does not read */
        return TINY_E_PEER;
    }
    (void)snprintf(line, sizeof line, "%zx\r\n", n);
    if ((r->chunked && !tinyi_link_put_text(r, line)) || !tinyi_link_put(r, bytes, n) ||
        (r->chunked && !tinyi_link_put_text(r, "\r\n")))
        return TINY_E_PEER;
    tinyi_link_flush(r);
    return r->dead ? TINY_E_PEER : TINY_OK;
}

tiny_status tllm_reply_end(tllm_reply *r)
{
    if (!r || !r->streaming) return TINY_E_ARGUMENT;
    if (r->dead || (r->chunked && !r->head_only && !tinyi_link_put_text(r, "0\r\n\r\n"))) return TINY_E_PEER;
    return tinyi_reply_over(r);
}

void tllm_reply_keep(tllm_reply *r, void *user)
{
    if (r) r->user = user;
}
void *tllm_reply_kept(const tllm_reply *r) { return r ? r->user : NULL; }

const tllm_http_request *tllm_reply_request(const tllm_reply *r, const char **bytes)
{
    if (bytes) *bytes = r ? r->in.at : NULL;
    return r ? &r->request : NULL;
}

/* ---- reading ---- */

/* A request that no one else answers: the last of its connection. */
static void tinyi_link_refuse(tllm_reply *r, int status, const char *says)
{
    char text[300];
    const int n = snprintf(text, sizeof text, "{\"error\":{\"message\":\"%.200s\",\"type\":\"%s\",\"code\":%d}}\n",
                           says, status >= 500 ? "server_error" : "invalid_request_error", status);
    r->answering = 1;
    r->keep_alive = r->head_only = 0;
    r->minor = 1;
    (void)tllm_reply_send(r, status, "application/json", NULL, text, (size_t)n);
}

/* Reads requests out of the bytes that came, until one of them is not complete or not answered. */
static void tinyi_link_read_requests(tllm_reply *r)
{
    tllm_server *s = r->server;
    while (!r->dead && !r->last && !r->answering && r->out.n - r->out_at <= s->desc.queue_bytes) {
        tllm_http_request *q = &r->request;
        const tllm_http_state was = q->state;
        if (!r->in.n) break;
        switch (tllm_http_feed(q, r->in.at, &r->in.n)) {
        case TLLM_HTTP_FAILED: tinyi_link_refuse(r, q->error, q->says); break;
        case TLLM_HTTP_DONE: {
            size_t n;
            r->answering = 1;
            r->streaming = 0;
            r->user = NULL;
            r->minor = q->minor;
            r->keep_alive = q->keep_alive;
            r->head_only = q->method_bytes == 4 && !memcmp(r->in.at + q->method, "HEAD", 4);
            s->desc.request(s->desc.user, r);
            n = r->in.n - q->used;
            if (n) memmove(r->in.at, r->in.at + q->used, n);
            r->in.n = n;
            if (!n) tllm_bytes_free(s->ctx, &r->in); /* a large body goes before its answer comes */
            tllm_http_start(q, &s->desc.limits);
            r->continued = 0;
            r->since = tiny_now_ns();
            break;
        }
        case TLLM_HTTP_BODY:
            if (was == TLLM_HTTP_HEAD) r->since = tiny_now_ns();
            if (q->expects_continue && !r->continued++ && !q->body_bytes) {
                (void)tinyi_link_put_text(r, "HTTP/1.1 100 Continue\r\n\r\n");
                tinyi_link_flush(r);
            }
            return;
        default: return;
        }
    }
}

static void tinyi_link_read(tllm_reply *r)
{
    tllm_server *s = r->server;
    size_t total = 0;
    while (!r->dead && total < 16 * TINYI_READ_BYTES) { /* the others have their turn too */
        size_t got = 0;
        int end = 0;
        if (r->answering && r->in.n >= s->desc.ahead_bytes) break;
        if (r->last) r->in.n = 0;           /* dropped */
        if (tinyi_bytes_reserve(s->ctx, &r->in, r->in.n || r->in.room ? TINYI_READ_BYTES : TINYI_READ_BYTES / 8) ||
            tiny_socket_read(NULL, r->socket, r->in.at + r->in.n, r->in.room - r->in.n, &got, &end)) {
            r->dead = 1;
            break;
        }
        if (got && !r->in.n && !r->last && !r->answering) r->since = tiny_now_ns();
        r->in.n += got;
        total += got;
        if (end) {                          /* an answer that is complete is still written */
            tinyi_link_read_requests(r);
            r->ended = r->last = 1;
            if (r->answering || r->out_at == r->out.n) r->dead = 1;
        }
        if (!got || end) break;
    }
    tinyi_link_read_requests(r);
    if (!r->in.n) tllm_bytes_free(s->ctx, &r->in);
}

/* ---- time ---- */

static uint64_t tinyi_link_deadline(const tllm_reply *r)
{
    const tllm_server *s = r->server;
    if (r->lingering) return r->since + TINYI_LINGER_NS;
    if (r->out_at < r->out.n) return r->wrote + s->write_ns;
    if (r->answering) return UINT64_MAX;
    if (!r->in.n && r->request.state == TLLM_HTTP_HEAD) return r->since + s->idle_ns;
    return r->since + (r->request.state == TLLM_HTTP_HEAD ? s->head_ns : s->body_ns);
}

static void tinyi_link_late(tllm_reply *r)
{
    if (r->lingering || r->out_at < r->out.n || (!r->in.n && r->request.state == TLLM_HTTP_HEAD)) r->dead = 1;
    else
        tinyi_link_refuse(r, 408,
                          r->request.state == TLLM_HTTP_HEAD ? "the head of the request did not come in time"
                                                             : "the body of the request did not come in time");
}

/* ---- connections ---- */

/* a request that came behind another one, which has been answered */
static int tinyi_link_waits(const tllm_reply *r)
{
    return !r->dead && !r->last && !r->answering && r->in.n && r->request.state == TLLM_HTTP_HEAD && !r->request.at &&
           r->out.n - r->out_at <= r->server->desc.queue_bytes;
}

static int tinyi_link_is_idle(const tllm_reply *r)
{
    return r->lingering || (!r->answering && !r->in.n && r->out_at == r->out.n);
}

static void tinyi_server_place(tllm_server *s, tllm_reply *r, size_t at)
{
    tllm_reply *other = s->link[at];
    s->link[r->at] = other;
    other->at = r->at;
    s->link[at] = r;
    r->at = at;
}

/* From the watched ones to the busy ones. */
static void tinyi_link_unwatch(tllm_reply *r)
{
    tllm_server *s = r->server;
    if (r->at < s->n_busy) return;
    tiny_watch_remove(&s->watch, r->socket);
    tinyi_server_place(s, r, s->n_busy++);
}

/* A connection that cannot be watched stays a busy one. */
static void tinyi_link_watch(tllm_reply *r)
{
    tllm_server *s = r->server;
    if (!s->watch.is_open || tiny_watch_add(NULL, &s->watch, r->socket, r)) return;
    tinyi_server_place(s, r, --s->n_busy);
    s->watched_at = TINYI_MIN(s->watched_at, tinyi_link_deadline(r));
}

/* Room for one more: 0 if every connection is at work. Of many that come at once the first ones may have sent their
 * requests already: so the longest idle one is read before it goes, and stays if bytes have come. */
static int tinyi_server_room(tllm_server *s)
{
    int k;
    for (k = 0; k < TINYI_ACCEPT_AT_ONCE; k++) {
        tllm_reply *oldest = NULL;
        uint64_t since;
        size_t i, alive = 0;
        if (s->n < s->desc.connections) return 1;
        for (i = 0; i < s->n; i++) {
            tllm_reply *r = s->link[i];
            if (r->dead) continue;
            alive++;
            if (tinyi_link_is_idle(r) && (!oldest || r->since < oldest->since)) oldest = r;
        }
        if (alive < s->desc.connections) return 1;
        if (!oldest) return 0;
        since = oldest->since;
        tinyi_link_unwatch(oldest);
        tinyi_link_read(oldest);
        if (!oldest->dead && (!tinyi_link_is_idle(oldest) || oldest->since != since)) continue;
        oldest->dead = 1;
        return 1;
    }
    return 0;
}

static tiny_status tinyi_server_grow(tllm_server *s)
{
    const size_t room = s->room ? 2 * s->room : 16;
    tllm_reply **link, **polled;
    tiny_poll *poll;
    if (s->n < s->room) return TINY_OK;
    link = (tllm_reply **)tinyi_alloc(s->ctx, room, sizeof *link);
    polled = link ? (tllm_reply **)tinyi_alloc(s->ctx, room, sizeof *polled) : NULL;
    poll = polled ? (tiny_poll *)tinyi_alloc(s->ctx, room + TINY_ADDRESSES + 1, sizeof *poll) : NULL;
    if (!poll) {
        tiny_free(s->ctx, link);
        tiny_free(s->ctx, polled);
        return tiny_ctx_status(s->ctx);
    }
    if (s->n) memcpy(link, s->link, s->n * sizeof *link);
    tiny_free(s->ctx, s->link);
    tiny_free(s->ctx, s->polled);
    tiny_free(s->ctx, s->poll);
    s->link = link;
    s->polled = polled;
    s->poll = poll;
    s->room = room;
    return TINY_OK;
}

static void tinyi_server_accept(tllm_server *s, tiny_socket listener)
{
    int k;
    for (k = 0; k < TINYI_ACCEPT_AT_ONCE; k++) {
        tiny_socket socket = TINY_NO_SOCKET;
        tllm_reply *r;
        int full;
        if (tiny_socket_accept(NULL, listener, &socket, NULL)) {
            s->accept_at = tiny_now_ns() + TINYI_ACCEPT_NS;
            return;
        }
        if (socket == TINY_NO_SOCKET) return;
        full = !tinyi_server_room(s);
        r = tinyi_server_grow(s) ? NULL : (tllm_reply *)tinyi_alloc(s->ctx, 1, sizeof *r);
        if (!r) {
            tiny_socket_close(socket);
            s->accept_at = tiny_now_ns() + TINYI_ACCEPT_NS;
            return;
        }
        memset(r, 0, sizeof *r);
        r->server = s;
        r->socket = socket;
        r->since = r->wrote = tiny_now_ns();
        tllm_http_start(&r->request, &s->desc.limits);
        r->at = s->n;
        s->link[s->n++] = r;
        tinyi_server_place(s, r, s->n_busy++);
        if (!full) continue;
        tinyi_link_refuse(r, 503, "all connections of this server are in use");
        tinyi_link_flush(r);
        r->dead = 1;
    }
}

/* Removes the dead ones, and gives those that are idle to the system to watch. */
static void tinyi_server_sweep(tllm_server *s)
{
    size_t i = 0;
    while (i < s->n_busy) {
        tllm_reply *r = s->link[i];
        if (r->dead) {
            tinyi_server_place(s, r, s->n_busy - 1);
            tinyi_server_place(s, r, s->n - 1);
            s->n_busy--;
            s->n--;
            if (r->answering && s->desc.gone) s->desc.gone(s->desc.user, r);
            tinyi_link_free(r);
        } else if (tinyi_link_is_idle(r)) {
            tinyi_link_watch(r);
            i += r->at == i;
        } else i++;
    }
}

/* Reads from watched connections that have bytes, and ends those whose time is over. */
static void tinyi_server_watched(tllm_server *s, int can, uint64_t now)
{
    void *ready[TINYI_READY_AT_ONCE];
    const int n = can ? tiny_watch_ready(&s->watch, ready, TINYI_READY_AT_ONCE) : 0;
    size_t i;
    int k;
    for (k = 0; k < n; k++) {
        tllm_reply *r = (tllm_reply *)ready[k];
        tinyi_link_unwatch(r);
        tinyi_link_read(r);
    }
    if (now < s->watched_at) return;
    s->watched_at = UINT64_MAX;
    for (i = s->n_busy; i < s->n; i++) {
        tllm_reply *r = s->link[i];
        const uint64_t deadline = tinyi_link_deadline(r);
        if (deadline > now) s->watched_at = TINYI_MIN(s->watched_at, deadline);
        else {
            tinyi_link_unwatch(r);          /* one that was looked at is in its place now */
            tinyi_link_late(r);
        }
    }
}

tiny_status tllm_server_step(tllm_server *s, uint64_t until)
{
    tiny_poll few[TINY_ADDRESSES + 1], *poll, *p;
    uint64_t now;
    tiny_status st;
    size_t i, n = 0;                        /* connections that are polled; those accepted below are not */
    int k, all;
    if (!s) return TINY_E_ARGUMENT;
    poll = s->poll ? s->poll : few;
    now = tiny_now_ns();
    all = until > now || now >= s->all_at;
    for (k = 0; k < s->n_at; k++) {
        poll[k].socket = now >= s->accept_at ? s->at[k] : TINY_NO_SOCKET;
        poll[k].want = TINY_POLL_READ;
        poll[k].can = 0;
        if (now < s->accept_at) until = TINYI_MIN(until, s->accept_at);
    }
    p = &poll[s->n_at];
    p->socket = s->n_busy < s->n ? s->watch.set : TINY_NO_SOCKET;
    p->want = TINY_POLL_READ;
    p->can = 0;
    until = TINYI_MIN(until, s->watched_at);
    for (i = 0; i < s->n_busy; i++) {
        tllm_reply *r = s->link[i];
        uint64_t deadline;
        if (!all && !r->dead && tinyi_link_is_idle(r)) continue;
        deadline = tinyi_link_deadline(r);
        s->polled[n++] = r;
        p = &poll[(size_t)s->n_at + n];
        p->socket = r->socket;
        p->can = 0;
        p->want = (r->ended || (r->answering && r->in.n >= s->desc.ahead_bytes) ? 0 : TINY_POLL_READ) |
                  (r->out_at < r->out.n ? TINY_POLL_WRITE : 0);
        if (!p->want) p->socket = TINY_NO_SOCKET;
        until = TINYI_MIN(until, deadline);
        if (r->dead || tinyi_link_waits(r)) until = 0;
    }
    st = tiny_socket_poll(s->ctx, poll, (size_t)s->n_at + 1 + n, until);
    if (st) return st;
    if (all) s->all_at = tiny_now_ns() + TINYI_MIN(TINYI_IDLE_SHARE * (tiny_now_ns() - now), TINYI_IDLE_NS);
    now = tiny_now_ns();
    tinyi_server_watched(s, poll[s->n_at].can, now);
    for (i = 0; i < n; i++) {
        tllm_reply *r = s->polled[i];
        const int can = poll[(size_t)s->n_at + 1 + i].can;
        if (r->dead) continue;
        if (can & TINY_POLL_WRITE) tinyi_link_flush(r);
        if (can & TINY_POLL_READ) tinyi_link_read(r);
        else if (tinyi_link_waits(r)) tinyi_link_read_requests(r);
        if (!r->dead && tinyi_link_deadline(r) <= now) tinyi_link_late(r);
    }
    for (k = 0; k < s->n_at; k++)           /* last: s->poll may move */
        if (poll[k].can & TINY_POLL_READ) {
            const tiny_socket listener = s->at[k];
            poll[k].can = 0;
            tinyi_server_accept(s, listener);
            if (s->poll != poll) break;
        }
    tinyi_server_sweep(s);
    return TINY_OK;
}
