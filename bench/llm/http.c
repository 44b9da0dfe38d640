/* bench/llm/http.c - what the HTTP server costs
 *
 * The reader: a request as a browser sends it, compared with memchr over the same bytes, which finds the ends of lines
 * and checks nothing. A body in chunks, compared with memcpy. An exchange over loopback with both ends in one thread,
 * compared with the same system calls around plain sockets. A text of 200 tokens as a stream through the server, alone
 * and with 400 idle connections, compared with the same requests to the engine alone. And when a token of a stream
 * arrives at a client of another thread, counted from the end of the step that made it. */
#include "../bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __unix__ || defined __APPLE__
#define BH_THREADS 1
#include <pthread.h>
#endif

static const char bh_head[] =
    "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive\r\nContent-Length: 0\r\n"
    "sec-ch-ua-platform: \"Linux\"\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like "
    "Gecko) Chrome/140.0.0.0 Safari/537.36\r\nsec-ch-ua: \"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\"\r\n"
    "Content-Type: application/json\r\nsec-ch-ua-mobile: ?0\r\nAccept: */*\r\nOrigin: http://127.0.0.1:8080\r\n"
    "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n"
    "Referer: http://127.0.0.1:8080/\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en\r\n\r\n";

typedef struct bh_text { const char *from; char *work; size_t n; } bh_text;
static volatile size_t bh_sink;

static void bh_read(void *arg)
{
    bh_text *t = (bh_text *)arg;
    tllm_http_request r;
    size_t n = t->n;
    memcpy(t->work, t->from, t->n);         /* chunks are joined in place */
    tllm_http_start(&r, NULL);
    if (tllm_http_feed(&r, t->work, &n) != TLLM_HTTP_DONE) b_must(NULL, TINY_E_FORMAT);
    bh_sink = r.used;
}
static void bh_lines(void *arg)
{
    bh_text *t = (bh_text *)arg;
    const char *at = t->work, *end = t->work + t->n, *next;
    size_t lines = 0;
    memcpy(t->work, t->from, t->n);
    for (; at < end && (next = (const char *)memchr(at, '\n', (size_t)(end - at))) != NULL; at = next + 1) lines++;
    bh_sink = lines;
}
static void bh_copy(void *arg)
{
    bh_text *t = (bh_text *)arg;
    memcpy(t->work, t->from, t->n);
    memcpy(t->work, t->from, t->n);
    bh_sink = (size_t)t->work[t->n / 2];
}

static void bh_reader(void)
{
    enum { CHUNK = 1000, CHUNKS = 1000, ROOM = CHUNKS * (CHUNK + 10) + 1000 };
    static char chunked[ROOM], work[ROOM];
    bh_text head, body;
    b_row rows[4];
    size_t n;
    int k;
    n = (size_t)snprintf(chunked, sizeof chunked, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (k = 0; k < CHUNKS; k++) {
        n += (size_t)snprintf(chunked + n, sizeof chunked - n, "%x\r\n", (unsigned)CHUNK);
        memset(chunked + n, 'a', CHUNK);
        n += CHUNK;
        memcpy(chunked + n, "\r\n", 2);
        n += 2;
    }
    memcpy(chunked + n, "0\r\n\r\n", 5);
    head.from = bh_head;
    head.n = sizeof bh_head - 1;
    body.from = chunked;
    body.n = n + 5;
    head.work = body.work = work;
    memset(rows, 0, sizeof rows);
    for (k = 0; k < 4; k++) {
        rows[k].what = k < 2 ? "head of a request" : "body in chunks";
        rows[k].target = k == 0 ? "reader" : k == 1 ? "memchr" : k == 2 ? "reader" : "memcpy twice";
        rows[k].threads = 1;
        rows[k].run = k == 1 ? bh_lines : k == 3 ? bh_copy : bh_read;
        rows[k].arg = k < 2 ? &head : &body;
        rows[k].bytes = (double)(k < 2 ? head.n : body.n);
        b_shape(&rows[k], "%lu bytes", (unsigned long)(k < 2 ? head.n : body.n));
    }
    b_contest("HTTP: reading requests", rows, 4);
}

/* ---- over loopback, both ends in one thread ---- */

typedef struct bh_talk {
    tiny_ctx *ctx;
    tllm_engine *engine;
    tllm_api *api;
    tiny_socket client, plain[2];
    size_t events;
    int done;
} bh_talk;

static const char bh_ask[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* Reads until the text ends like this. */
static void bh_until(bh_talk *t, const char *end, int server)
{
    static char got[1 << 20];
    const size_t m = strlen(end);
    size_t n = 0, k;
    int over = 0;
    while (!over) {
        if (server) b_must(t->ctx, tllm_api_step(t->api, UINT64_MAX));
        do {
            k = 0;
            b_must(t->ctx, tiny_socket_read(NULL, t->client, got + n, sizeof got - n, &k, &over));
            n += k;
        } while (k && !over);
        if (n >= m && !memcmp(got + n - m, end, m)) return;
    }
    b_must(t->ctx, TINY_E_IO);
}
static void bh_health(void *arg)
{
    bh_talk *t = (bh_talk *)arg;
    size_t put;
    b_must(t->ctx, tiny_socket_write(NULL, t->client, bh_ask, sizeof bh_ask - 1, &put));
    bh_until(t, "\"ok\"}\n", 1);
}
/* write, poll, read, write, read: what the exchange above cannot do without */
static void bh_plain(void *arg)
{
    bh_talk *t = (bh_talk *)arg;
    char got[400];
    size_t k = 0;
    int end, i;
    tiny_poll p;
    for (i = 0; i < 2; i++) {
        b_must(t->ctx, tiny_socket_write(NULL, t->plain[i], i ? bh_head : bh_ask, i ? 200 : sizeof bh_ask - 1, &k));
        p.socket = t->plain[1 - i];
        p.want = TINY_POLL_READ;
        if (!i) b_must(t->ctx, tiny_socket_poll(NULL, &p, 1, UINT64_MAX));
        do b_must(t->ctx, tiny_socket_read(NULL, t->plain[1 - i], got, sizeof got, &k, &end));
        while (!k);
    }
}

static int bh_token(void *user, const tllm_engine_token *token)
{
    ((bh_talk *)user)->events += token->n_text;
    return 0;
}
static void bh_over(void *user, const tllm_engine_result *r)
{
    ((bh_talk *)user)->done = r->status == TINY_OK;
}
static void bh_engine(void *arg)
{
    bh_talk *t = (bh_talk *)arg;
    static const int32_t prompt[] = { 1, 115, 114, 105 };
    tllm_request r;
    int more = 1;
    memset(&r, 0, sizeof r);
    r.prompt = prompt;
    r.n_prompt = 4;
    r.n_most = 200;
    r.past_end = 1;
    r.token = bh_token;
    r.end = bh_over;
    r.user = t;
    b_must(t->ctx, tllm_engine_submit(t->engine, &r, NULL, NULL, 0));
    while (more) b_must(t->ctx, tllm_engine_step(t->engine, &more));
}
static void bh_stream(void *arg)
{
    static const char body[] = "{\"prompt\":[1,115,114,105],\"max_tokens\":200,\"temperature\":0,\"ignore_eos\":true,"
                               "\"stream\":true}";
    bh_talk *t = (bh_talk *)arg;
    char text[400];
    size_t put;
    const int n = snprintf(text, sizeof text, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                                              "%lu\r\n\r\n%s", (unsigned long)sizeof body - 1, body);
    b_must(t->ctx, tiny_socket_write(NULL, t->client, text, (size_t)n, &put));
    bh_until(t, "\r\n0\r\n\r\n", 1);
}

#ifdef BH_THREADS
enum { BH_TOKENS = 200 };
typedef struct bh_arrival { tiny_socket socket; uint64_t at[BH_TOKENS]; int n, over; } bh_arrival;

/* notes when each event of the stream arrives */
static void *bh_listen(void *arg)
{
    static const char mark[] = "data: {";
    bh_arrival *a = (bh_arrival *)arg;
    static char got[1 << 20];
    size_t n = 0, seen = 0, k;
    while (!a->over) {
        tiny_poll p;
        char *at;
        uint64_t now;
        p.socket = a->socket;
        p.want = TINY_POLL_READ;
        p.can = 0;
        k = 0;
        if (tiny_socket_poll(NULL, &p, 1, UINT64_MAX) ||
            tiny_socket_read(NULL, a->socket, got + n, sizeof got - 1 - n, &k, &a->over))
            break;
        now = tiny_now_ns();
        n += k;
        got[n] = 0;
        while ((at = strstr(got + seen, mark)) != NULL) {
            if (a->n < BH_TOKENS) a->at[a->n++] = now;
            seen = (size_t)(at - got) + sizeof mark - 1;
        }
        if (n + 1 >= sizeof got || strstr(got, "[DONE]")) break;
    }
    a->over = 1;
    return NULL;
}
static int bh_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static void bh_first_byte(bh_talk *t)
{
    static const char body[] = "{\"prompt\":[1,115,114,105],\"max_tokens\":200,\"temperature\":0,\"ignore_eos\":true,"
                               "\"stream\":true}";
    static bh_arrival a;
    static uint64_t made[BH_TOKENS];
    static double late[BH_TOKENS];
    tllm_engine_counters c;
    pthread_t client;
    uint64_t before;
    char text[400];
    size_t put;
    int k = 0, n;
    n = snprintf(text, sizeof text, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                                    "%lu\r\n\r\n%s", (unsigned long)sizeof body - 1, body);
    memset(&a, 0, sizeof a);
    a.socket = t->client;
    tllm_engine_count(t->engine, &c);
    before = c.made_tokens;
    if (pthread_create(&client, NULL, bh_listen, &a)) return;
    b_must(t->ctx, tiny_socket_write(NULL, t->client, text, (size_t)n, &put));
    while (k < BH_TOKENS) {
        b_must(t->ctx, tllm_api_step(t->api, UINT64_MAX));
        tllm_engine_count(t->engine, &c);
        while (k < BH_TOKENS && before + (uint64_t)k < c.made_tokens) made[k++] = tiny_now_ns();
    }
    (void)tllm_api_step(t->api, 0);
    (void)pthread_join(client, NULL);
    if (a.n < BH_TOKENS) {
        b_note("the stream had %d events for %d tokens: their times were not compared", a.n, (int)BH_TOKENS);
        return;
    }
    for (k = 0; k < BH_TOKENS; k++) late[k] = ((double)a.at[k] - (double)made[k]) * 1e-3;
    qsort(late, BH_TOKENS, sizeof *late, bh_by_value);
    b_note("a token of a stream is at a client of another thread %.0f us after the end of the step that made it "
           "(median of %d; 95 %% %.0f, the latest %.0f; below 0: before that end)", late[BH_TOKENS / 2], (int)BH_TOKENS,
           late[BH_TOKENS * 95 / 100 - 1], late[BH_TOKENS - 1]);
    b_verdict("a token of a stream: us from the end of its step to its arrival, median", late[BH_TOKENS / 2], "<",
              2000.0);
}
#endif

static tiny_socket bh_dial(tiny_ctx *ctx, const char *address)
{
    tiny_address a[TINY_ADDRESSES];
    tiny_socket s = TINY_NO_SOCKET;
    int n;
    b_must(ctx, tiny_address_find(ctx, address, a, &n));
    b_must(ctx, tiny_socket_connect(ctx, &a[0], &s));
    return s;
}

static void bh_open(bh_talk *t)
{
    tllm_engine_desc ed;
    tllm_api_desc d;
    memset(t, 0, sizeof *t);
    memset(&d, 0, sizeof d);
    memset(&ed, 0, sizeof ed);
    t->ctx = b_ctx(TINY_TARGET_AUTO, 1);
    ed.forget = 1;
    d.server.address = "127.0.0.1:0";
    d.server.idle_seconds = 3600.0;
    b_must(t->ctx, tllm_engine_open_file(t->ctx, "examples/models/story.gguf", &ed, &t->engine));
    b_must(t->ctx, tllm_api_open(t->ctx, t->engine, &d, &t->api));
    t->client = bh_dial(t->ctx, tllm_api_address(t->api));
}
static void bh_close(bh_talk *t)
{
    tiny_socket_close(t->client);
    tllm_api_close(t->api);
    tllm_engine_close(t->engine);
    tiny_ctx_close(t->ctx);
}

void bench_http(void);
void bench_http(void)
{
    enum { IDLE = 400 };
    static tiny_socket idle[IDLE];
    tiny_socket at[TINY_ADDRESSES];
    tiny_address own;
    char address[TINY_ADDRESS_TEXT];
    bh_talk t, busy;
    b_row rows[5];
    double us;
    int k, n;
    bh_reader();
    bh_open(&t);
    bh_open(&busy);
    for (k = 0; k < IDLE; k++) {
        idle[k] = bh_dial(busy.ctx, tllm_api_address(busy.api));
        b_must(busy.ctx, tllm_api_step(busy.api, 0));
    }
    b_must(t.ctx, tiny_listen_at(t.ctx, "127.0.0.1:0", at, &n));
    b_must(t.ctx, tiny_socket_address(t.ctx, at[0], &own));
    tiny_address_text(&own, address);
    t.plain[0] = bh_dial(t.ctx, address);
    for (t.plain[1] = TINY_NO_SOCKET; t.plain[1] == TINY_NO_SOCKET;)
        b_must(t.ctx, tiny_socket_accept(t.ctx, at[0], &t.plain[1], NULL));
    memset(rows, 0, sizeof rows);
    for (k = 0; k < 5; k++) {
        static const char *const by[] = { "server", "plain sockets", "server, stream", "engine alone",
                                          "stream, 400 idle" };
        rows[k].what = k < 2 ? "GET /health" : "200 tokens, greedy";
        rows[k].target = by[k];
        rows[k].threads = 1;
        rows[k].run = k == 0 ? bh_health : k == 1 ? bh_plain : k == 3 ? bh_engine : bh_stream;
        rows[k].arg = k == 4 ? &busy : &t;
        b_shape(&rows[k], k < 2 ? "loopback, one thread" : "story.gguf, 2.4M parameters");
    }
    b_contest("HTTP: the server over loopback", rows, 5);
    us = (rows[2].median_ns - rows[3].median_ns) / 200e3;
    b_note("the server costs %.1f us a token, which is %.2f %% of a model with 10 ms a token", us, us / 100);
    us = (rows[4].median_ns - rows[2].median_ns) / 200e3;
#ifdef BH_THREADS
    bh_first_byte(&t);
#endif
    b_note("%d idle connections add %.2f us a token", (int)IDLE, us);
    for (k = 0; k < IDLE; k++) tiny_socket_close(idle[k]);
    for (k = 0; k < 2; k++) tiny_socket_close(t.plain[k]);
    for (k = 0; k < n; k++) tiny_socket_close(at[k]);
    bh_close(&busy);
    bh_close(&t);
}
