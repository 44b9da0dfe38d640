/* tests/llm/serve/server.c - connections over loopback: keep-alive, pipelining, time limits, hang-ups, clients that do
 * not read, smuggled requests */
#include "t.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static tllm_server *server;
#define KIT_STEP(until) tllm_server_step(server, until)
#include "kit.h"

/* what the handler did */
static struct {
    int n_requests, n_gone;
    char last[100];
    tllm_reply *held;
    tllm_reply *work[512];                  /* of /work */
    int n_work;
} seen;

/* /now: at once. /hold: later. /work: later, many of them. /stream: begins a stream. /echo: the body. */
static void answer(void *user, tllm_reply *r)
{
    const char *bytes;
    const tllm_http_request *q = tllm_reply_request(r, &bytes);
    tiny_status st = TINY_OK;
    (void)user;
    seen.n_requests++;
    (void)snprintf(seen.last, sizeof seen.last, "%.*s", (int)q->target_bytes, bytes + q->target);
    if (!strcmp(seen.last, "/hold")) seen.held = r;
    else if (!strcmp(seen.last, "/work") && seen.n_work < 512) seen.work[seen.n_work++] = r;
    else if (!strcmp(seen.last, "/stream")) {
        seen.held = r;
        st = tllm_reply_begin(r, 200, "text/plain", NULL);
    } else if (!strcmp(seen.last, "/echo"))
        st = tllm_reply_send(r, 200, "text/plain", "X-A: b\r\n", bytes + q->body_at, q->body_bytes);
    else st = tllm_reply_send(r, 200, "text/plain", NULL, seen.last, strlen(seen.last));
    if (!t_alloc.hit) T_OK(st);
}
static void gone(void *user, tllm_reply *r)
{
    (void)user;
    seen.n_gone++;
    if (seen.held == r) seen.held = NULL;
}

static int unwatched;                       /* the server gets no set of sockets from the system */
static tllm_server_desc desc;
static tiny_ctx *begin(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    struct rlimit was, few;
    memset(&seen, 0, sizeof seen);
    desc.address = "127.0.0.1:0";
    desc.request = answer;
    desc.gone = gone;
    if (unwatched) {                        /* the listener is the last descriptor that it gets */
        const int next = dup(0);
        T_TRUE(next >= 0 && !close(next) && !getrlimit(RLIMIT_NOFILE, &was));
        few = was;
        few.rlim_cur = (rlim_t)next + 1;
        T_TRUE(!setrlimit(RLIMIT_NOFILE, &few));
    }
    T_OK(tllm_server_open(ctx, &desc, &server));
    if (unwatched) T_TRUE(!setrlimit(RLIMIT_NOFILE, &was));
    return ctx;
}
static void end(tiny_ctx *ctx)
{
    tllm_server_close(server);
    server = NULL;
    memset(&desc, 0, sizeof desc);
    t_close(ctx);
}
static void dial(client *c) { kit_dial(c, tllm_server_address(server)); }

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define ASK(c, text) kit_ask(c, text, sizeof(text) - 1)

static void test_exchanges(void)
{
    tiny_ctx *ctx = begin();
    client c;
    dial(&c);
    T_EQ_INT(ASK(&c, GET("/a")), 200);
    T_EQ_TEXT(kit_body, "/a");
    T_EQ_INT(ASK(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), 200);
    T_EQ_TEXT(kit_body, "hello");
    T_TRUE(strstr(c.got, "\r\nX-A: b\r\n") && !strstr(c.got, "Connection: close"));
    T_EQ_INT(
        ASK(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        200);
    T_EQ_TEXT(kit_body, "hello");
    T_EQ_INT(tllm_server_connections(server), 1);
    /* HEAD has the length and no body */
    kit_tell(&c, "HEAD /abc HTTP/1.1\r\nHost: h\r\n\r\n" GET("/d"));
    c.n = 0;
    T_TRUE(kit_await(&c, "\r\n\r\n/d"));
    T_TRUE(strstr(c.got, "Content-Length: 4") && !strstr(c.got, "/abc"));
    /* 1.0 without keep-alive is closed, with it stays */
    T_EQ_INT(ASK(&c, "GET /e HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 200);
    T_TRUE(strstr(c.got, "\r\nConnection: keep-alive\r\n"));
    T_EQ_INT(ASK(&c, "GET /e HTTP/1.0\r\n\r\n"), 200);
    T_TRUE(kit_await(&c, NULL) && c.end);
    kit_hang_up(&c);
    dial(&c);
    T_EQ_INT(ASK(&c, "GET /e HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), 200);
    T_TRUE(strstr(c.got, "\r\nConnection: close\r\n") && kit_await(&c, NULL));
    kit_hang_up(&c);
    T_EQ_INT(seen.n_gone, 0);
    end(ctx);
}

/* Pipelined requests are answered in order, also behind one whose answer comes late. */
static void test_pipelined(void)
{
    tiny_ctx *ctx = begin();
    client c;
    const char *a, *b, *d;
    dial(&c);
    kit_tell(&c, GET("/1") GET("/hold") GET("/3") GET("/4"));
    T_TRUE(kit_await(&c, "\r\n\r\n/1"));
    T_OK(KIT_STEP(0));
    T_TRUE(seen.held && seen.n_requests == 2);
    T_OK(tllm_reply_send(seen.held, 200, NULL, NULL, "late", 4));
    T_TRUE(kit_await(&c, "/4"));
    a = strstr(c.got, "late");
    b = strstr(c.got, "\r\n\r\n/3");
    d = strstr(c.got, "\r\n\r\n/4");
    T_TRUE(a && b && d && a < b && b < d);
    kit_hang_up(&c);
    end(ctx);
}

/* "100 Continue" comes before the body, and only if the client waits for it */
static void test_expect(void)
{
    tiny_ctx *ctx = begin();
    client c;
    dial(&c);
    kit_tell(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    T_TRUE(kit_await(&c, "HTTP/1.1 100 Continue\r\n\r\n"));
    c.n = 0;
    T_EQ_INT(ASK(&c, "abc"), 200);
    T_EQ_TEXT(kit_body, "abc");
    T_EQ_INT(ASK(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"), 200);
    T_TRUE(!strstr(c.got, "100 Continue"));
    kit_hang_up(&c);
    end(ctx);
}

/* A request after one that is refused is never answered: the connection ends. */
static void test_smuggling(void)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        { "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
        { "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400 },
        { "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhello", 400 },
        { "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501 },
        { "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n0\r\n\r\n", 400 },
        { "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n", 413 },
        { "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400 },
        { "GET /a HTTP/1.1\nHost: h\n\n", 400 },
        { "GET /a HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", 400 },
        { "GET /a HTTP/1.1\r\n\r\n", 400 },
    };
    tiny_ctx *ctx = begin();
    size_t i;
    for (i = 0; i < T_COUNT(cases); i++) {
        client c;
        char text[400];
        const int n = snprintf(text, sizeof text, "%s" GET("/secret"), cases[i].text);
        dial(&c);
        kit_say(&c, text, (size_t)n);
        if (!T_TRUE(kit_await(&c, NULL) && c.end)) printf("    case %d\n", (int)i);
        T_EQ_INT(kit_status(&c), cases[i].status);
        T_TRUE(strstr(c.got, "\r\nConnection: close\r\n") && strstr(c.got, "{\"error\":{\"message\":\""));
        T_TRUE(!strstr(c.got, "/secret"));
        kit_hang_up(&c);
    }
    T_EQ_INT(seen.n_requests, 0);
    end(ctx);
}

/* slow heads and bodies, idle connections: each has its limit */
static void test_slow(void)
{
    tiny_ctx *ctx;
    client c[3];
    uint64_t began;
    int i;
    desc.head_seconds = 0.15;
    desc.body_seconds = 0.15;
    desc.idle_seconds = 0.15;
    ctx = begin();
    for (i = 0; i < 3; i++) dial(&c[i]);
    kit_tell(&c[0], "GET / HTTP/1.1\r\nHo");
    kit_tell(&c[1], "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
    T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    /* a byte now and then does not help */
    for (i = 0; i < 30 && !c[0].end; i++) {
        const uint64_t until = tiny_now_ns() + 10000000;
        size_t put;
        (void)tiny_socket_write(NULL, c[0].socket, "s", 1, &put);
        while (tiny_now_ns() < until) T_OK(KIT_STEP(until));
        kit_read(&c[0]);
    }
    T_TRUE(kit_await(&c[0], NULL) && kit_await(&c[1], NULL) && kit_await(&c[2], NULL));
    T_EQ_INT(kit_status(&c[0]), 408);
    T_EQ_INT(kit_status(&c[1]), 408);
    T_TRUE(strstr(c[0].got, "the head") && strstr(c[1].got, "the body"));
    T_EQ_INT(c[2].n, 0);                    /* nothing was asked, so nothing is answered */
    T_EQ_INT(seen.n_requests, 0);
    for (i = 0; i < 3; i++) kit_hang_up(&c[i]);
    /* a step that may sleep for long wakes for the limit */
    for (i = 0; i < 100 && tllm_server_connections(server); i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    dial(&c[0]);
    began = tiny_now_ns();
    for (i = 0; i < 5 && tllm_server_connections(server); i++) T_OK(KIT_STEP(began + UINT64_C(20000000000)));
    T_EQ_INT(tllm_server_connections(server), 0);
    T_TRUE(tiny_now_ns() - began < UINT64_C(10000000000));
    kit_hang_up(&c[0]);
    end(ctx);
}

/* A client that hangs up before its answer: gone() in the next step, whether it waits or reads a stream. */
static void test_hang_up(void)
{
    tiny_ctx *ctx = begin();
    int k, i;
    for (k = 0; k < 4; k++) {
        client c;
        dial(&c);
        kit_tell(&c, k & 1 ? GET("/stream") : GET("/hold"));
        for (i = 0; i < 1000 && !seen.held; i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
        if (!T_TRUE(seen.held)) break;
        if (k & 1) T_OK(tllm_reply_add(seen.held, "abc", 3));
        T_EQ_INT(seen.n_gone, k);
        if (k & 2) T_OK(tiny_socket_finish(NULL, c.socket)); /* half-closed counts, too */
        else kit_hang_up(&c);
        for (i = 0; i < 1000 && seen.n_gone == k; i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
        T_EQ_INT(seen.n_gone, k + 1);
        T_TRUE(!seen.held);
        if (k & 2) kit_hang_up(&c);
    }
    T_EQ_INT(tllm_server_connections(server), 0);
    end(ctx);
}

/* A stream in pieces arrives as it was sent; over HTTP/1.0 it ends with the connection. */
static void test_stream(void)
{
    tiny_ctx *ctx = begin();
    client c;
    int k;
    for (k = 0; k < 2; k++) {
        dial(&c);
        kit_tell(&c, k ? "GET /stream HTTP/1.0\r\n\r\n" : GET("/stream"));
        T_TRUE(kit_await(&c, "\r\n\r\n"));
        T_OK(tllm_reply_add(seen.held, "one", 3));
        kit_read(&c);                       /* written at once, without a step of the server */
        T_TRUE(strstr(c.got, "one") != NULL);
        T_OK(tllm_reply_add(seen.held, "", 0));
        T_OK(tllm_reply_add(seen.held, "two three four five", 19));
        T_OK(tllm_reply_end(seen.held));
        if (k) T_TRUE(kit_await(&c, NULL) && strstr(c.got, "\r\n\r\nonetwo three four five"));
        else {
            T_TRUE(kit_await(&c, "\r\n3\r\none\r\n13\r\ntwo three four five\r\n0\r\n\r\n"));
            T_EQ_INT(ASK(&c, GET("/next")), 200);
        }
        kit_hang_up(&c);
    }
    end(ctx);
}

/* A client that never reads: what waits for it stays below the limit, and it is disconnected. */
static void test_never_reads(void)
{
    static char block[65536];
    tiny_ctx *ctx;
    client c;
    size_t n = 0;
    int i;
    desc.queue_bytes = 300000;
    ctx = begin();
    dial(&c);
    kit_tell(&c, GET("/stream"));
    for (i = 0; i < 1000 && !seen.held; i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    for (i = 0; i < 2000 && seen.held && !tllm_reply_add(seen.held, block, sizeof block); i++) n++;
    T_TRUE(n > 4 && n < 2000);              /* the buffers of the system take a few MB, not 128 */
    T_TRUE(t_alloc.most_bytes < 2000000);
    T_OK(KIT_STEP(0));
    T_EQ_INT(seen.n_gone, 1);
    T_EQ_INT(tllm_server_connections(server), 0);
    kit_hang_up(&c);
    end(ctx);
    /* and one that stops taking a finished answer is disconnected after a while */
    desc.write_seconds = 0.1;
    ctx = begin();
    dial(&c);
    kit_tell(&c, GET("/hold"));
    for (i = 0; i < 1000 && !seen.held; i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    {
        const size_t large = (size_t)16 << 20;
        char *all = (char *)calloc(large, 1);
        if (all && seen.held) T_OK(tllm_reply_send(seen.held, 200, NULL, NULL, all, large));
        free(all);
    }
    for (i = 0; i < 3000 && tllm_server_connections(server); i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    T_EQ_INT(tllm_server_connections(server), 0);
    kit_hang_up(&c);
    end(ctx);
}

/* More connections than the limit: an idle one goes; if all are at work, the new one is told so. */
static void test_connections(void)
{
    tiny_ctx *ctx;
    client c[4];
    int i;
    desc.connections = 2;
    ctx = begin();
    dial(&c[0]);
    T_EQ_INT(ASK(&c[0], GET("/a")), 200);
    dial(&c[1]);
    kit_tell(&c[1], GET("/hold"));
    for (i = 0; i < 1000 && !seen.held; i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    dial(&c[2]);
    kit_tell(&c[2], GET("/hold"));
    T_TRUE(kit_await(&c[0], NULL) && c[0].end); /* the idle one */
    for (i = 0; i < 1000 && seen.n_requests < 3; i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    T_EQ_INT(seen.n_requests, 3);
    dial(&c[3]);
    T_TRUE(kit_await(&c[3], NULL));
    T_EQ_INT(kit_status(&c[3]), 503);
    T_EQ_INT(tllm_server_connections(server), 2);
    for (i = 0; i < 4; i++) kit_hang_up(&c[i]);
    end(ctx);
}

/* All come at once, with their requests: the first ones stay, though their requests were not read yet. */
static void test_at_once(void)
{
    tiny_address a[TINY_ADDRESSES];
    tiny_ctx *ctx;
    client c[3];
    int i, n = 0;
    desc.connections = 2;
    ctx = begin();
    T_OK(tiny_address_find(NULL, tllm_server_address(server), a, &n));
    memset(c, 0, sizeof c);
    for (i = 0; i < 3; i++) {
        size_t put = 0;
        c[i].got = (char *)calloc(1, 1);
        T_OK(tiny_socket_connect(NULL, &a[0], &c[i].socket));
        while (!put && !tiny_socket_write(NULL, c[i].socket, GET("/work"), sizeof GET("/work") - 1, &put)) {}
    }
    T_TRUE(kit_await(&c[2], "are in use"));
    T_EQ_INT(kit_status(&c[2]), 503);
    T_EQ_INT(seen.n_work, 2);
    for (i = 0; i < seen.n_work; i++) T_OK(tllm_reply_send(seen.work[i], 200, NULL, NULL, "done", 4));
    for (i = 0; i < 2; i++) T_TRUE(kit_await(&c[i], "done"));
    for (i = 0; i < 3; i++) kit_hang_up(&c[i]);
    end(ctx);
}

/* Idle connections hold little memory: 16 MB for a thousand is the figure, and its tenth for a hundred. */
static void test_idle_memory(void)
{
    tiny_ctx *ctx = begin();
    static client c[100];
    size_t before, i;
    before = tiny_ctx_bytes(ctx);
    for (i = 0; i < T_COUNT(c); i++) {
        dial(&c[i]);
        T_EQ_INT(ASK(&c[i], GET("/a")), 200);
    }
    T_EQ_INT(tllm_server_connections(server), T_COUNT(c));
    T_TRUE(tiny_ctx_bytes(ctx) - before < 400000);
    for (i = 0; i < T_COUNT(c); i++) kit_hang_up(&c[i]);
    for (i = 0; i < 1000 && tllm_server_connections(server); i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    T_EQ_INT(tllm_server_connections(server), 0);
    end(ctx);
}

/* Many idle connections, of which some ask and some hang up: each gets its own answer. At the end all are late but the
 * one at work. */
static void test_many_idle(void)
{
    static client c[120];
    tiny_ctx *ctx;
    unsigned k, at, alive = T_COUNT(c);
    uint32_t seed = 1;
    int i;
    desc.idle_seconds = 1.0;
    ctx = begin();
    for (k = 0; k < T_COUNT(c); k++) dial(&c[k]);
    for (k = 0; k < 400; k++) {
        char text[100], want[20];
        seed = seed * 1664525u + 1013904223u;
        at = (seed >> 16) % (unsigned)T_COUNT(c);
        if (c[at].socket == TINY_NO_SOCKET) continue;
        (void)snprintf(want, sizeof want, "/%u", k);
        (void)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", want);
        if (c[at].end || !T_EQ_INT(kit_ask(&c[at], text, strlen(text)), 200)) break;
        T_EQ_TEXT(kit_body, want);
        if (k % 10 == 9) {
            kit_hang_up(&c[at]);
            alive--;
            for (i = 0; i < 1000 && tllm_server_connections(server) > alive; i++)
                T_OK(KIT_STEP(tiny_now_ns() + 1000000));
            T_EQ_INT(tllm_server_connections(server), alive);
        }
    }
    T_TRUE(k == 400 && alive > 60 && alive < 100);
    for (k = 0; c[k].socket == TINY_NO_SOCKET; k++) {}
    kit_tell(&c[k], GET("/hold"));
    for (i = 0; i < 5000 && tllm_server_connections(server) > 1; i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    T_EQ_INT(tllm_server_connections(server), 1);
    T_EQ_INT(seen.n_gone, 0);
    if (T_TRUE(seen.held)) T_OK(tllm_reply_send(seen.held, 200, NULL, NULL, "late", 4));
    T_TRUE(kit_await(&c[k], "late"));
    for (k = 0; k < T_COUNT(c); k++) kit_hang_up(&c[k]);
    end(ctx);
}

/* ---- 10 000 connections; the clients are another process, since each one takes a descriptor at both ends */

enum { CROWD = 10000, CROWD_AT_WORK = 512 };
typedef struct crowd { int answered, refused, closed, first, lost, meanwhile; } crowd;

static int crowd_dial(const struct sockaddr_in *to)
{
    const struct timeval patience = { 20, 0 };
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
        connect(s, (const struct sockaddr *)to, sizeof *to))
        _exit(3);
    return s;
}
/* The status of the answer; 0: the connection ends before. */
static int crowd_ask(int s, const char *request)
{
    const char *body;
    char got[2000];
    size_t n = 0;
    if (request && send(s, request, strlen(request), MSG_NOSIGNAL) < 0) return 0;
    for (;;) {
        const ssize_t k = recv(s, got + n, sizeof got - 1 - n, 0);
        if (k <= 0) return 0;
        n += (size_t)k;
        got[n] = 0;
        body = strstr(got, "\r\n\r\n");
        if (body && body[4]) return atoi(got + 9);
    }
}
/* The clients. at_work: so many ask for what takes long, and get their answers when a byte has come from `in`. */
static void crowd_of(int at_work, const struct sockaddr_in *to, int in, int out)
{
    static int s[CROWD];
    crowd c;
    char byte;
    int i, first;
    memset(&c, 0, sizeof c);
    first = crowd_dial(to);                 /* it is never idle for long */
    if (!at_work) c.first = crowd_ask(first, GET("/a"));
    for (i = 0; i < CROWD; i++) {
        int status;
        s[i] = crowd_dial(to);
        if (i < at_work) {
            const char *work = GET("/work");
            if (send(s[i], work, strlen(work), MSG_NOSIGNAL) < 0) c.lost++;
            continue;
        }
        status = crowd_ask(s[i], GET("/b"));
        if (status == 200) c.answered++;
        else if (status == 503) c.refused++;
        else c.lost++;
        if (!at_work && i % 100 == 99) c.meanwhile += crowd_ask(first, GET("/a")) == 200;
    }
    if (write(out, &c, sizeof c) != (ssize_t)sizeof c || read(in, &byte, 1) != 1) _exit(4);
    for (i = 0; i < at_work; i++) c.answered += crowd_ask(s[i], NULL) == 200;
    if (at_work) c.first = crowd_ask(s[0], GET("/a"));    /* there is work for those that stay */
    for (i = 0; i < CROWD && !at_work; i++) {
        const ssize_t k = recv(s[i], &byte, 1, MSG_DONTWAIT);
        c.closed += k == 0 || (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    }
    if (write(out, &c, sizeof c) != (ssize_t)sizeof c) _exit(4);
    _exit(0);
}
/* Steps the server until the clients have told what they saw. */
static int crowd_tell(int from, crowd *c)
{
    const uint64_t end = tiny_now_ns() + UINT64_C(60000000000);
    size_t n = 0;
    while (n < sizeof *c && tiny_now_ns() < end) {
        const ssize_t k = read(from, (char *)c + n, sizeof *c - n);
        if (k > 0) n += (size_t)k;
        if (!k) break;
        T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    }
    return n == sizeof *c;
}

/* limit 0: the default, 512. at_work: that many ask for what takes long. */
static void ten_thousand(size_t limit, int at_work)
{
    const size_t most = limit ? limit : 512;
    struct sockaddr_in to;
    tiny_ctx *ctx;
    crowd c;
    size_t before, held;
    pid_t child;
    int in[2], out[2], i, status = -1;
    const char *address;
    desc.connections = limit;
    desc.idle_seconds = 600.0;
    ctx = begin();
    address = tllm_server_address(server);
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!T_TRUE(!pipe(in) && !pipe(out))) {
        end(ctx);
        return;
    }
    (void)fflush(stdout);
    before = tiny_ctx_bytes(ctx);
    child = fork();
    if (!child) {
        (void)close(in[1]);
        (void)close(out[0]);
        crowd_of(at_work, &to, in[0], out[1]);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
    if (T_TRUE(child > 0) && T_TRUE(crowd_tell(out[0], &c))) {
        held = tiny_ctx_bytes(ctx) - before;
        T_EQ_INT(c.lost, 0);
        /* 16 MB for a thousand idle connections is the figure */
        if (!T_TRUE((double)held < 16e6 * (double)most / 1000.0)) printf("  %lu bytes\n", (unsigned long)held);
        T_TRUE(tllm_server_connections(server) <= most);
        if (at_work) {
            T_EQ_INT(c.refused, CROWD - at_work);
            T_EQ_INT(seen.n_work, at_work);
            for (i = 0; i < seen.n_work; i++)
                T_OK(tllm_reply_send(seen.work[i], 200, "text/plain", NULL, "done", 4));
        } else {
            T_EQ_INT(c.answered, CROWD);
            T_EQ_INT((int)tllm_server_connections(server), (int)most);
            T_TRUE(c.first == 200 && c.meanwhile == CROWD / 100);       /* answered meanwhile */
        }
        T_TRUE(write(in[1], "x", 1) == 1 && crowd_tell(out[0], &c));
        if (at_work) T_TRUE(c.answered == at_work && c.first == 200);
        else T_EQ_INT(c.closed, 1 + CROWD - (int)most);                 /* the longest idle ones had to go */
    }
    (void)close(in[1]);
    if (child > 0) T_TRUE(waitpid(child, &status, 0) == child && status == 0);
    (void)close(out[0]);
    for (i = 0; i < 2000 && tllm_server_connections(server); i++) T_OK(KIT_STEP(tiny_now_ns() + 1000000));
    T_EQ_INT((int)tllm_server_connections(server), 0);
    end(ctx);
}
static void test_ten_thousand(void)
{
    const rlim_t need = CROWD + 100;
    struct rlimit was, more;
    if (!T_TRUE(!getrlimit(RLIMIT_NOFILE, &was))) return;
    more = was;
    if (more.rlim_cur < need) more.rlim_cur = more.rlim_max < need ? more.rlim_max : need;
    if (more.rlim_cur < need || setrlimit(RLIMIT_NOFILE, &more)) {
        T_SKIP("10 000 connections need 10 100 descriptors, and the system allows fewer (ulimit -Hn)");
        return;
    }
    ten_thousand(CROWD, 0);
    ten_thousand(0, 0);
    ten_thousand(0, CROWD_AT_WORK);
    T_TRUE(!setrlimit(RLIMIT_NOFILE, &was));
}

/* The same where the system has no set of sockets, or gives none. */
static void test_unwatched(void)
{
    unwatched = 1;
    test_slow();
    test_connections();
    test_at_once();
    test_many_idle();
    unwatched = 0;
}

/* Any allocation may fail: the client gets its answer or loses its connection, and nothing is left over. */
static void test_no_memory(void)
{
    T_EACH_ALLOCATION(tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1); tiny_ctx *ctx = NULL;
                      memset(&desc, 0, sizeof desc); memset(&seen, 0, sizeof seen); desc.address = "127.0.0.1:0";
                      desc.request = answer; desc.gone = gone; if (!tiny_ctx_open(&d, &ctx)) {
                          if (!tllm_server_open(ctx, &desc, &server)) {
                              client c;
                              int i;
                              kit_dial(&c, tllm_server_address(server));
                              kit_tell(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" GET("/b"));
                              for (i = 0; i < 300 && !strstr(c.got, "\r\n\r\n/b") && !c.end; i++) {
                                  (void)KIT_STEP(tiny_now_ns() + 1000000);
                                  kit_read(&c);
                                  if (t_alloc.hit && i > 130) break; /* a listener that failed rests for 100 ms */
                              }
                              if (!t_alloc.hit) T_TRUE(strstr(c.got, "\r\n\r\n/b") != NULL);
                              kit_hang_up(&c);
                          }
                          tllm_server_close(server);
                          server = NULL;
                          tiny_ctx_close(ctx);
                      })
    memset(&desc, 0, sizeof desc);
}

static void test_arguments(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_server_desc d;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_server_open(ctx, &d, &server), TINY_E_ARGUMENT, "requests");
    d.request = answer;
    d.address = "no such address";
    T_TRUE(tllm_server_open(ctx, &d, &server) && !server && *tiny_ctx_message(ctx));
    T_EQ_INT(tllm_server_step(NULL, 0), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_reply_send(NULL, 200, NULL, NULL, NULL, 0), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_reply_begin(NULL, 200, NULL, NULL), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_reply_add(NULL, "a", 1), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_reply_end(NULL), TINY_E_ARGUMENT);
    T_EQ_TEXT(tllm_server_address(NULL), "");
    tllm_server_close(NULL);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_exchanges);
    T_RUN(test_pipelined);
    T_RUN(test_expect);
    T_RUN(test_smuggling);
    T_RUN(test_slow);
    T_RUN(test_hang_up);
    T_RUN(test_stream);
    T_RUN(test_never_reads);
    T_RUN(test_connections);
    T_RUN(test_at_once);
    T_RUN(test_idle_memory);
    T_RUN(test_many_idle);
    T_RUN(test_ten_thousand);
    T_RUN(test_unwatched);
    T_RUN(test_no_memory);
    T_RUN(test_arguments);
    return t_done();
}
