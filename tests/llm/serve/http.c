/* tests/llm/serve/http.c - the reader of HTTP requests: tables of cases, each fed whole, byte by byte and cut in two at
 * every place
 *
 * The cases are those that the tests of llhttp and picohttpparser publish, and forms of request smuggling, as facts;
 * where RFC 9112 lets a server choose, the expectation here is the strict one. */
#include "t.h"

typedef struct seen {
    tllm_http_state state;
    int error, minor, keep_alive, expects, n_fields;
    size_t used, n_body;
    char method[40], target[200], fields[1200], body[600], rest[400];
} seen;

static void view(char *to, size_t room, const char *at, size_t n)
{
    if (n >= room) n = room - 1;
    memcpy(to, at, n);
    to[n] = 0;
}

/* Feeds the pieces [0, cut), [cut, n), or single bytes if cut > n. The bytes lie in a block of their exact size, so
 * that the sanitizer sees a read past them. */
static void feed(const char *text, size_t n, size_t cut, const tllm_http_limits *limits, seen *s)
{
    char *bytes = (char *)malloc(1);
    size_t held = 0, given = 0;
    uint32_t i;
    tllm_http_request r;
    memset(s, 0, sizeof *s);
    tllm_http_start(&r, limits);
    s->state = r.state;
    while (given < n) {
        const size_t piece = cut > n ? 1 : given < cut ? cut - given : n - given;
        char *more = (char *)malloc(held + piece + 1);
        char *exact;
        if (!more || !bytes) break;
        memcpy(more, bytes, held);
        memcpy(more + held, text + given, piece);
        free(bytes);
        exact = (char *)realloc(more, held + piece);
        bytes = exact ? exact : more;
        held += piece;
        given += piece;
        s->state = tllm_http_feed(&r, bytes, &held);
        if (s->state == TLLM_HTTP_FAILED) break;
        if (s->state == TLLM_HTTP_DONE) break;
    }
    s->error = r.error;
    if (s->state == TLLM_HTTP_FAILED) T_TRUE(r.error >= 400 && r.says && *r.says);
    if (s->state == TLLM_HTTP_BODY || s->state == TLLM_HTTP_DONE) {
        size_t at = 0;
        s->minor = r.minor;
        s->keep_alive = r.keep_alive;
        s->expects = r.expects_continue;
        s->n_fields = (int)r.n_fields;
        view(s->method, sizeof s->method, bytes + r.method, r.method_bytes);
        view(s->target, sizeof s->target, bytes + r.target, r.target_bytes);
        for (i = 0; i < r.n_fields && at < 1000; i++)
            at += (size_t)snprintf(s->fields + at, sizeof s->fields - at, "%.*s=%.*s\n", (int)r.field[i].name_bytes,
                                   bytes + r.field[i].name, (int)r.field[i].value_bytes, bytes + r.field[i].value);
        s->n_body = r.body_bytes;
        view(s->body, sizeof s->body, bytes + r.body_at, r.body_bytes);
    }
    if (s->state == TLLM_HTTP_DONE) {
        s->used = r.used;
        T_TRUE(r.used <= held && r.body_at + r.body_bytes == r.used);
        /* the bytes after the request: those read with it, and those not read yet */
        view(s->rest, sizeof s->rest, bytes + r.used, held - r.used);
        view(s->rest + (held - r.used), sizeof s->rest - (held - r.used), text + given, n - given);
    }
    free(bytes);
}

static int same(const seen *a, const seen *b)
{
    return a->state == b->state && a->error == b->error && a->minor == b->minor && a->keep_alive == b->keep_alive &&
           a->expects == b->expects && a->n_fields == b->n_fields && a->used == b->used && a->n_body == b->n_body &&
           !strcmp(a->method, b->method) && !strcmp(a->target, b->target) && !strcmp(a->fields, b->fields) &&
           !strcmp(a->body, b->body) && !strcmp(a->rest, b->rest);
}

/* whole; the same result in any pieces */
static seen read_all_ways(const char *text, size_t n, const tllm_http_limits *limits)
{
    seen whole, s;
    size_t cut;
    feed(text, n, n, limits, &whole);
    for (cut = 1; cut <= n + 1; cut++) {    /* n + 1: byte by byte */
        if (cut == n) continue;
        feed(text, n, cut, limits, &s);
        if (!same(&whole, &s)) {
            t_fail(__FILE__, __LINE__, "\"%.60s\" cut at %lu of %lu: state %d error %d used %lu, not %d %d %lu", text,
                   (unsigned long)cut, (unsigned long)n, (int)s.state, s.error, (unsigned long)s.used, (int)whole.state,
                   whole.error, (unsigned long)whole.used);
            break;
        }
    }
    return whole;
}
#define READ(text) read_all_ways(text, sizeof(text) - 1, NULL)

#define H "Host: h\r\n"
#define G "GET / HTTP/1.1\r\n"
#define P "POST / HTTP/1.1\r\n" H
#define C P "Transfer-Encoding: chunked\r\n\r\n"

/* requests that are read, and what is read */
static void test_read(void)
{
    static const struct {
        const char *text, *method, *target, *fields, *body, *rest;
        int minor, keep;
    } cases[] = {
        { "GET / HTTP/1.0\r\n\r\n", "GET", "/", "", "", "", 0, 0 },
        { G H "\r\n", "GET", "/", "Host=h\n", "", "", 1, 1 },
        { "GET /hoge HTTP/1.1\r\nHost: example.com\r\nCookie: \r\n\r\n", "GET", "/hoge", "Host=example.com\nCookie=\n",
          "", "", 1, 1 },
        { "GET / HTTP/1.0\r\nfoo: a\r\nfoo: b\tc  \r\n\r\n", "GET", "/", "foo=a\nfoo=b\tc\n", "", "", 0, 0 },
        { "GET / HTTP/1.0\r\nUser-Agent: \343\201\262\343\201\223/1.0\r\n\r\n", "GET", "/",
          "User-Agent=\343\201\262\343\201\223/1.0\n", "", "", 0, 0 },
        { "GET / HTTP/1.0\r\nfoo: \t a \t \r\n\r\n", "GET", "/", "foo=a\n", "", "", 0, 0 },
        { "GET / HTTP/1.0\r\n|~: 1\r\n\r\n", "GET", "/", "|~=1\n", "", "", 0, 0 },
        { "\r\nGET /test HTTP/1.1\r\n" H "\r\n", "GET", "/test", "Host=h\n", "", "", 1, 1 },
        { "GET /test.cgi?foo=bar?baz&x=%2F;y HTTP/1.1\r\n" H "\r\n", "GET", "/test.cgi?foo=bar?baz&x=%2F;y", "Host=h\n",
          "", "", 1, 1 },
        { "GET http://a.b:80/x?y HTTP/1.1\r\n" H "\r\n", "GET", "/x?y", "Host=h\n", "", "", 1, 1 },
        { "GET HTTP://[::1]:80/ HTTP/1.1\r\n" H "\r\n", "GET", "/", "Host=h\n", "", "", 1, 1 },
        { "OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS", "*", "Host=h\n", "", "", 1, 1 },
        { "M-SEARCH / HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nST: \"ssdp:all\"\r\n\r\n", "M-SEARCH", "/",
          "HOST=239.255.255.250:1900\nST=\"ssdp:all\"\n", "", "", 1, 1 },
        { G H "Connection: close\r\n\r\n", "GET", "/", "Host=h\nConnection=close\n", "", "", 1, 0 },
        { G H "connection: x , CLOSE , keep-alive\r\n\r\n", "GET", "/", "Host=h\nconnection=x , CLOSE , keep-alive\n",
          "", "", 1, 0 },
        { G H "Connection: keep-alive\r\nConnection: close\r\n\r\n", "GET", "/",
          "Host=h\nConnection=keep-alive\nConnection=close\n", "", "", 1, 0 },
        { G H "Connection: closed, disclose\r\n\r\n", "GET", "/", "Host=h\nConnection=closed, disclose\n", "", "", 1,
          1 },
        { "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET", "/", "Connection=Keep-Alive\n", "", "", 0, 1 },
        { G H "Content-Length: 0\r\n\r\n", "GET", "/", "Host=h\nContent-Length=0\n", "", "", 1, 1 },
        { P "Content-Length: 003\r\n\r\nabc", "POST", "/", "Host=h\nContent-Length=003\n", "abc", "", 1, 1 },
        { P "Content-Length:  \t5  \r\n\r\nhello", "POST", "/", "Host=h\nContent-Length=5\n", "hello", "", 1, 1 },
        { P "Content-Length: 4\r\n\r\nq=42\r\n\r\nGET / HTTP/1.1\r\n", "POST", "/", "Host=h\nContent-Length=4\n",
          "q=42", "\r\n\r\nGET / HTTP/1.1\r\n", 1, 1 },
        { "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\nGET /b", "GET", "/", "Host=h\n", "", "GET /b", 1, 1 },
        { C "1e\r\nall your base are belong to us\r\n0\r\n\r\n", "POST", "/", "Host=h\nTransfer-Encoding=chunked\n",
          "all your base are belong to us", "", 1, 1 },
        { C "5\r\nhello\r\n6\r\n world\r\n000\r\n\r\nGET", "POST", "/", "Host=h\nTransfer-Encoding=chunked\n",
          "hello world", "GET", 1, 1 },
        { C "B\r\nhello\r\n\r\n w\r\n0\r\na: b\r\nContent-Length: 7\r\n\r\nxyz", "POST", "/",
          "Host=h\nTransfer-Encoding=chunked\n", "hello\r\n\r\n w", "xyz", 1, 1 },
        { C "0\r\n\r\n", "POST", "/", "Host=h\nTransfer-Encoding=chunked\n", "", "", 1, 1 },
        { P "Transfer-Encoding: Chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n", "POST", "/",
          "Host=h\nTransfer-Encoding=Chunked\n", "\n", "", 1, 1 },
        { P "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", "POST", "/",
          "Host=h\nExpect=100-Continue\nContent-Length=1\n", "x", "", 1, 1 },
    };
    size_t i;
    for (i = 0; i < T_COUNT(cases); i++) {
        const seen s = read_all_ways(cases[i].text, strlen(cases[i].text), NULL);
        if (!T_EQ_INT(s.state, TLLM_HTTP_DONE)) printf("    case %d\n", (int)i);
        T_EQ_TEXT(s.method, cases[i].method);
        T_EQ_TEXT(s.target, cases[i].target);
        T_EQ_TEXT(s.fields, cases[i].fields);
        T_EQ_TEXT(s.body, cases[i].body);
        T_EQ_TEXT(s.rest, cases[i].rest);
        T_EQ_INT(s.minor, cases[i].minor);
        T_EQ_INT(s.keep_alive, cases[i].keep);
        T_EQ_INT(s.expects, i + 1 == T_COUNT(cases));
    }
}

/* texts that are refused at once, with their status: what follows could not mend them */
static void test_refused(void)
{
#define BAD(text, error)              \
    {                                 \
        text, sizeof(text) - 1, error \
    }
    static const struct {
        const char *text;
        size_t n;
        int error;
    } cases[] = {
        /* the request line */
        BAD(" / HTTP/1.0\r\n\r\n", 400),
        BAD("GET  HTTP/1.0\r\n\r\n", 400),
        BAD("GET   /   HTTP/1.0\r\n\r\n", 400),
        BAD("GET\t/ HTTP/1.0\r\n\r\n", 400),
        BAD("G\0T / HTTP/1.0\r\n\r\n", 400),
        BAD("G\tT / HTTP/1.0\r\n\r\n", 400),
        BAD(":GET / HTTP/1.0\r\n\r\n", 400),
        BAD("GET /\x7fhello HTTP/1.0\r\n\r\n", 400),
        BAD("GET /\0 HTTP/1.0\r\n\r\n", 400),
        BAD("GET /\xa0 HTTP/1.0\r\n\r\n", 400),
        BAD("GET /a#b HTTP/1.0\r\n\r\n", 400),
        BAD("GET a HTTP/1.1\r\n" H "\r\n", 400),
        BAD("GET * HTTP/1.1\r\n" H "\r\n", 400),
        BAD("CONNECT a:80 HTTP/1.1\r\n" H "\r\n", 400),
        BAD("GET http:///x HTTP/1.1\r\n" H "\r\n", 400),
        BAD("GET http://a HTTP/1.1\r\n" H "\r\n", 400),
        BAD("GET http://u@a/ HTTP/1.1\r\n" H "\r\n", 400),
        BAD("GET http://a?/ HTTP/1.1\r\n" H "\r\n", 400),
        BAD("GET /\r\n\r\n", 400),
        BAD("GET / \r\n\r\n", 400),
        BAD("GET / HTTP/1.1 \r\n\r\n", 400),
        BAD("GET / HTTP/1.11\r\n\r\n", 400),
        BAD("GET / HTTP/ 1.1\r\n\r\n", 400),
        BAD("GET / http/1.1\r\n\r\n", 400),
        BAD("GET / HTTPER/1.1\r\n\r\n", 400),
        BAD("GET /music/sweet ICE/1.0\r\n\r\n", 400),
        BAD("GET / HTTP/1\r\n\r\n", 400),
        BAD("GET / HTTP/1.2\r\n\r\n", 505),
        BAD("GET / HTTP/5.6\r\n\r\n", 505),
        BAD("GET / HTTP/0.9\r\n\r\n", 505),
        BAD("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        BAD("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH / HTTP/1.1\r\n", 501),
        BAD("\x16\x03\x01\x02", 400),
        BAD("\nGET / HTTP/1.1\r\n" H "\r\n", 400),
        BAD("\rGET / HTTP/1.1\r\n" H "\r\n", 400),
        BAD("\r\n\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n", 400),
        /* ends of lines */
        BAD("GET / HTTP/1.1\n" H "\r\n", 400),
        BAD("GET / HTTP/1.1\rX" H "\r\n", 400),
        BAD("GET / HTTP/1.1\r\r\n" H "\r\n", 400),
        BAD(G "Host: h\n\r\n", 400),
        BAD(G "Host: h\nDummy: x\r\n\r\n", 400),
        BAD(G "Host: h\rDummy: x\r\n\r\n", 400),
        BAD(G "Host: h\r\r\n\r\n", 400),
        BAD(G H "\n", 400),
        BAD(G H "\rX", 400),
        BAD(G H "a\r\n", 400),
        BAD(G H "Conte\rnt-Length: 3\r\n\r\n", 400),
        /* names and values */
        BAD(G " " H "\r\n", 400),
        BAD(G "\t" H "\r\n", 400),
        BAD(G H "a: b\r\n c\r\n\r\n", 400),
        BAD(G H "a: b\r\n\tc\r\n\r\n", 400),
        BAD(G H "name\r\n : value\r\n\r\n", 400),
        BAD(G ":a\r\n\r\n", 400),
        BAD(G " :a\r\n\r\n", 400),
        BAD(G "Host : h\r\n\r\n", 400),
        BAD(G "Host\t: h\r\n\r\n", 400),
        BAD(G "Ho st: h\r\n\r\n", 400),
        BAD(G H "a\0b: c\r\n\r\n", 400),
        BAD(G H "ab: c\0d\r\n\r\n", 400),
        BAD(G H "a\033b: c\r\n\r\n", 400),
        BAD(G H "ab: c\033\r\n\r\n", 400),
        BAD(G H "ab: c\x7f\r\n\r\n", 400),
        BAD(G H "/: 1\r\n\r\n", 400),
        BAD(G H "Fo@: Failure\r\n\r\n", 400),
        BAD(G H "Foo\01\test: Bar\r\n\r\n", 400),
        BAD(G H "a{: 1\r\n\r\n", 400),
        BAD(G H "\303\274: 1\r\n\r\n", 400),
        /* Host */
        BAD(G "\r\n", 400),
        BAD(G "A: b\r\n\r\n", 400),
        BAD(G H H "\r\n", 400),
        BAD("GET / HTTP/1.0\r\n" H "host: i\r\n\r\n", 400),
        BAD(G "Host: a b\r\n\r\n", 400),
        BAD(G "Host: a, b\r\n\r\n", 400),
        BAD(G "Host: a/b\r\n\r\n", 400),
        BAD(G "Host: u@a\r\n\r\n", 400),
        /* Content-Length */
        BAD(P "Content-Length : 5\r\n\r\nhello", 400),
        BAD(P "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
        BAD(P "Content-Length: 5\r\ncontent-length: 6\r\n\r\nhello", 400),
        BAD(P "Content-Length: 5, 5\r\n\r\nhello", 400),
        BAD(P "Content-Length: 4 2\r\n\r\nhello", 400),
        BAD(P "Content-Length: +5\r\n\r\nhello", 400),
        BAD(P "Content-Length: -1\r\n\r\nhello", 400),
        BAD(P "Content-Length: 0x5\r\n\r\nhello", 400),
        BAD(P "Content-Length: 5.0\r\n\r\nhello", 400),
        BAD(P "Content-Length: 5a\r\n\r\nhello", 400),
        BAD(P "Content-Length: \r\n\r\nhello", 400),
        BAD(P "Content-Length: \"5\"\r\n\r\nhello", 400),
        BAD(P "Content-Length: \xc2\xb2\r\n\r\nhello", 400),
        BAD(P "Content-Length: 8388609\r\n\r\n", 413),
        BAD(P "Content-Length: 4294967301\r\n\r\n", 413),
        BAD(P "Content-Length: 9999999999999999999\r\n\r\n", 413),
        BAD(P "Content-Length: 18446744073709551621\r\n\r\n", 413),
        BAD(P "Content-Length: 36893488147419103232\r\n\r\n", 413),
        /* Transfer-Encoding */
        BAD(P "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        BAD(P "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
        BAD(P "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", 400),
        BAD(P "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", 501),
        BAD(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        BAD(P "Transfer-Encoding: chunked, chunked\r\n\r\n", 501),
        BAD(P "Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        BAD(P "Transfer-Encoding: chunked, identity\r\n\r\n", 501),
        BAD(P "Transfer-Encoding: xchunked\r\n\r\n", 501),
        BAD(P "Transfer-Encoding: chunkedchunked\r\n\r\n", 501),
        BAD(P "Transfer-Encoding: chunk\r\n\r\n", 501),
        BAD(P "Transfer-Encoding: \"chunked\"\r\n\r\n", 501),
        BAD(P "Transfer-Encoding: ,chunked\r\n\r\n", 501),
        BAD(P "Transfer-Encoding:\vchunked\r\n\r\n", 400),
        BAD(P "Transfer-Encoding: chunked\0\r\n\r\n", 400),
        BAD(P "Transfer-Encoding:\r\n chunked\r\n\r\n", 501),
        BAD(P "Transfer-Encoding : chunked\r\n\r\n", 400),
        BAD("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        BAD(P "Expect: 200-ok\r\nContent-Length: 1\r\n\r\nx", 417),
        /* chunks */
        BAD(C "6;comment=hi\r\nhello \r\n0\r\n\r\n", 400),
        BAD(C "6 \r\nhello \r\n0\r\n\r\n", 400),
        BAD(C " 6\r\nhello \r\n0\r\n\r\n", 400),
        BAD(C "6\t;\r\n", 400),
        BAD(C "+6\r\n", 400),
        BAD(C "-6\r\n", 400),
        BAD(C "0x6\r\nhello \r\n0\r\n\r\n", 400),
        BAD(C "\r\nhello", 400),
        BAD(C "z\r\nabcdefg", 400),
        BAD(C "6\nhello \r\n0\r\n\r\n", 400),
        BAD(C "6\r\nhello \n0\r\n\r\n", 400),
        BAD(C "6\r\nhello \rX0\r\n\r\n", 400),
        BAD(C "6\r\rhello", 400),
        BAD(C "5\r\nhello \r\n0\r\n\r\n", 400),
        BAD(C "7\r\nhello \r\n0\r\n\r\n", 400),
        BAD(C "0000000000000006\r\n", 400),
        BAD(C "ffffffffffffffff\r\n", 400),
        BAD(C "fffffffffffffff\r\n", 413),
        BAD(C "6\r\nhello \r\n7fffffff\r\n", 413),
        BAD(C "6\r\nhello \r\n7ffffb\r\n", 413), /* one byte more than 8 MiB in all */
        BAD(C "0\r\n a: b\r\n\r\n", 400),
        BAD(C "0\r\na b: c\r\n\r\n", 400),
        BAD(C "0\r\na: b\n\r\n", 400),
        BAD(C "0\r\n\n", 400),
        BAD(C "0\r\n\rX", 400),
    };
    size_t i;
    for (i = 0; i < T_COUNT(cases); i++) {
        const seen s = read_all_ways(cases[i].text, cases[i].n, NULL);
        if (s.state != TLLM_HTTP_FAILED || s.error != cases[i].error)
            t_fail(__FILE__, __LINE__, "case %d, \"%.70s\": state %d, status %d, not %d", (int)i, cases[i].text,
                   (int)s.state, s.error, cases[i].error);
    }
}

/* every beginning of a good request is incomplete and no error */
static void test_incomplete(void)
{
    static const char *const cases[] = { "\r\nGET / HTTP/1.1\r\n" H "a:  b \r\n\r\n",
                                         P "Content-Length: 5\r\n\r\nhello",
                                         C "5\r\nhello\r\n1\r\n!\r\n0\r\nx: y\r\n\r\n" };
    size_t i, n;
    for (i = 0; i < T_COUNT(cases); i++)
        for (n = 0; n < strlen(cases[i]); n++) {
            seen s;
            feed(cases[i], n, n, NULL, &s);
            if (!T_TRUE(s.state == (strstr(cases[i], "\r\n\r\n") + 4 > cases[i] + n ? TLLM_HTTP_HEAD : TLLM_HTTP_BODY)))
                printf("    %d bytes of case %d\n", (int)n, (int)i);
        }
    T_EQ_INT(READ("\r\n").state, TLLM_HTTP_HEAD);
}

/* each limit: just met, and one more */
static void test_limits(void)
{
    tllm_http_limits l;
    char text[4000];
    int i, n, over;
    memset(&l, 0, sizeof l);
    for (over = 0; over < 2; over++) {
        memset(&l, 0, sizeof l);
        l.line_bytes = 30;                  /* GET /aaaa HTTP/1.1\r\n: 16 bytes and the path's name */
        n = snprintf(text, sizeof text, "GET /%.*s HTTP/1.1\r\n" H "\r\n", 14 + over, "aaaaaaaaaaaaaaaaaaa");
        T_EQ_INT(read_all_ways(text, (size_t)n, &l).error, over ? 414 : 0);
        memset(&l, 0, sizeof l);
        n = snprintf(text, sizeof text, G H "a: %.*s\r\n\r\n", 10 + over, "bbbbbbbbbbbbbbb");
        l.head_bytes = (uint32_t)(n - over);
        T_EQ_INT(read_all_ways(text, (size_t)n, &l).error, over ? 431 : 0);
        l.head_bytes = 0;
        l.fields = 3;
        T_EQ_INT(read_all_ways(
                     text, (size_t)snprintf(text, sizeof text, G H "a:b\r\na:b\r\n%s\r\n", over ? "c:\r\n" : ""), &l)
                     .error,
                 over ? 431 : 0);
        memset(&l, 0, sizeof l);
        l.body_bytes = 5;
        n = snprintf(text, sizeof text, P "Content-Length: %d\r\n\r\nhello!", 5 + over);
        T_EQ_INT(read_all_ways(text, (size_t)n, &l).error, over ? 413 : 0);
        n = snprintf(text, sizeof text, C "4\r\nhell\r\n%d\r\no!", 1 + over);
        T_EQ_INT(read_all_ways(text, (size_t)n - 1 + (size_t)over, &l).error, over ? 413 : 0);
        memset(&l, 0, sizeof l);            /* trailers count as head: what stands before them has 67 bytes */
        n = snprintf(text, sizeof text, C);
        l.head_bytes = (uint32_t)n + 8;
        n += snprintf(text + n, sizeof text - (size_t)n, "0\r\n%s: b\r\n\r\n", over ? "aa" : "a");
        T_EQ_INT(read_all_ways(text, (size_t)n, &l).error, over ? 431 : 0);
    }
    /* the default of 64 fields */
    for (over = 0; over < 2; over++) {
        n = snprintf(text, sizeof text, G H);
        for (i = 0; i < 63 + over; i++) n += snprintf(text + n, sizeof text - (size_t)n, "n%d: v\r\n", i);
        n += snprintf(text + n, sizeof text - (size_t)n, "\r\n");
        T_EQ_INT(read_all_ways(text, (size_t)n, NULL).error, over ? 431 : 0);
    }
}

/* An endless head or line is refused at the limit, not at its end. */
static void test_endless(void)
{
    static char bytes[100000];
    tllm_http_request r;
    size_t n = sizeof bytes;
    memset(bytes, 'a', sizeof bytes);
    memcpy(bytes, "GET /", 5);
    tllm_http_start(&r, NULL);
    T_EQ_INT(tllm_http_feed(&r, bytes, &n), TLLM_HTTP_FAILED);
    T_EQ_INT(r.error, 414);
    memcpy(bytes, G, sizeof G - 1);
    tllm_http_start(&r, NULL);
    T_EQ_INT(tllm_http_feed(&r, bytes, &n), TLLM_HTTP_FAILED);
    T_EQ_INT(r.error, 431);
    T_EQ_INT(n, sizeof bytes);
    T_EQ_INT(tllm_http_feed(&r, bytes, &n), TLLM_HTTP_FAILED); /* and stays so */
}

/* requests one after the other, in one piece and byte by byte: each is read as if it were alone */
static void test_pipelined(void)
{
    static const char text[] =
        "GET /1 HTTP/1.1\r\n" H "\r\n"
        "POST /2 HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"
        "POST /3 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
        "\r\nGET /4 HTTP/1.1\r\n" H "Connection: close\r\n\r\n";
    static const char *const target[] = { "/1", "/2", "/3", "/4" }, *const body[] = { "", "abc", "def", "" };
    size_t piece;
    for (piece = 1; piece <= sizeof text; piece++) {
        char bytes[400];
        size_t held = 0, given = 0, k = 0;
        tllm_http_request r;
        tllm_http_start(&r, NULL);
        while (k < 4) {
            const tllm_http_state st = tllm_http_feed(&r, bytes, &held);
            if (st == TLLM_HTTP_DONE) {
                T_TRUE(r.target_bytes == 2 && !memcmp(bytes + r.target, target[k], 2));
                T_TRUE(r.body_bytes == strlen(body[k]) && !memcmp(bytes + r.body_at, body[k], r.body_bytes));
                T_EQ_INT(r.keep_alive, k != 3);
                held -= r.used;
                memmove(bytes, bytes + r.used, held);
                tllm_http_start(&r, NULL);
                k++;
            } else {
                const size_t n = sizeof text - 1 - given < piece ? sizeof text - 1 - given : piece;
                if (!T_TRUE(st != TLLM_HTTP_FAILED && n)) return;
                memcpy(bytes + held, text + given, n);
                held += n;
                given += n;
            }
        }
        T_EQ_INT(held, 0);
    }
}

/* fields by name, whatever the case of its letters; the first of several */
static void test_find(void)
{
    static char text[] = G H "X-Key: a\r\nx-key: b\r\nx-ke: c\r\n\r\n";
    tllm_http_request r;
    size_t n = sizeof text - 1;
    const char *v;
    tllm_http_start(&r, NULL);
    T_TRUE(!tllm_http_find(&r, text, "host", NULL));
    T_EQ_INT(tllm_http_feed(&r, text, &n), TLLM_HTTP_DONE);
    v = tllm_http_find(&r, text, "x-key", &n);
    T_TRUE(v && n == 1 && *v == 'a');
    T_EQ_INT(tllm_http_count(&r, text, "x-key"), 2);
    T_EQ_INT(tllm_http_count(&r, text, "x-keys"), 0);
    T_TRUE(!tllm_http_find(&r, text, "x-k", &n) && !n);
    T_EQ_TEXT(tllm_http_reason(404), "Not Found");
    T_TRUE(*tllm_http_reason(299) && *tllm_http_reason(-5));
    tllm_http_start(NULL, NULL);
    T_EQ_INT(tllm_http_feed(NULL, text, &n), TLLM_HTTP_FAILED);
    T_EQ_INT(tllm_http_feed(&r, NULL, &n), TLLM_HTTP_FAILED);
    T_TRUE(!tllm_http_find(NULL, text, "a", &n) && !tllm_http_find(&r, NULL, "a", &n));
}

int main(void)
{
    T_RUN(test_read);
    T_RUN(test_refused);
    T_RUN(test_incomplete);
    T_RUN(test_limits);
    T_RUN(test_endless);
    T_RUN(test_pipelined);
    T_RUN(test_find);
    return t_done();
}
