/* tests/core/socket.c - stream sockets that never block
 *
 * Truth    RFC 4291 and RFC 1122 for the addresses that only this machine reaches; the bytes that were sent; the
 *          options of a socket as the system reports them. Everything stays on loopback. No test reads the wall clock:
 *          a limit of a minute only ends a test that hangs. */
#include "t.h"

#if T_PTHREAD
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

static uint64_t in_a_minute(void) { return tiny_now_ns() + UINT64_C(60000000000); }

/* sleeps until s can do it */
static int can(tiny_ctx *ctx, tiny_socket s, int want)
{
    tiny_poll p;
    memset(&p, 0, sizeof p);
    p.socket = s;
    p.want = want;
    return T_OK(tiny_socket_poll(ctx, &p, 1, in_a_minute())) && T_TRUE(p.can & want);
}
static void unix_path(char text[96], const char *name)
{
    const char *build = getenv("BUILD");    /* a folder of ours; the name of a local socket is short */
    if (!build || strlen(build) > 48) build = ".";
    (void)snprintf(text, 96, "unix:%s/tiny-%ld-%s", build, (long)getpid(), name);
}

/* a listener, and two ends of a connection; 0: this machine does not have this kind of address */
typedef struct pair { tiny_socket at, a, b; char text[TINY_ADDRESS_TEXT]; } pair;
static int connect_pair(tiny_ctx *ctx, const char *where, pair *p)
{
    tiny_address to, from;
    tiny_socket at[TINY_ADDRESSES];
    int n = 0;
    tiny_status st = tiny_listen_at(ctx, where, at, &n);
    p->at = p->a = p->b = TINY_NO_SOCKET;
    if (st == TINY_E_IO && strchr(where, '[')) return 0;
    if (!T_OK(st) || !T_EQ_INT(n, 1)) return 0;
    p->at = at[0];
    T_OK(tiny_socket_accept(ctx, p->at, &p->b, NULL));
    T_EQ_INT(p->b, TINY_NO_SOCKET);         /* nobody waits yet */
    T_OK(tiny_socket_address(ctx, p->at, &to));
    tiny_address_text(&to, p->text);
    if (!T_OK(tiny_socket_connect(ctx, &to, &p->a)) || !can(ctx, p->at, TINY_POLL_READ)) return 0;
    T_OK(tiny_socket_accept(ctx, p->at, &p->b, &from));
    T_TRUE(tiny_address_is_local(&from));
    return T_TRUE(p->b != TINY_NO_SOCKET) && can(ctx, p->a, TINY_POLL_WRITE) && T_OK(tiny_socket_connected(ctx, p->a));
}
static void close_pair(pair *p)
{
    tiny_socket_close(p->a);
    tiny_socket_close(p->b);
    tiny_socket_close(p->at);
}

static void test_addresses(void)
{
    static const struct { const char *text, *is; int local; } good[] = {
        { "127.0.0.1:80", "127.0.0.1:80", 1 },    { "127.200.3.4:0", "127.200.3.4:0", 1 },
        { "128.0.0.1:80", "128.0.0.1:80", 0 },    { "126.255.255.255:1", "126.255.255.255:1", 0 },
        { "0.0.0.0:65535", "0.0.0.0:65535", 0 },  { "[::1]:8080", "[::1]:8080", 1 },
        { "[::]:80", "[::]:80", 0 },              { "[2001:db8::1]:80", "[2001:db8::1]:80", 0 },
        { "[::ffff:127.0.0.1]:9", "[::ffff:127.0.0.1]:9", 1 },
        { "[::ffff:10.0.0.1]:9", "[::ffff:10.0.0.1]:9", 0 },
        { "80", "127.0.0.1:80", 1 },              { ":80", "127.0.0.1:80", 1 },
        { "localhost:7", "127.0.0.1:7", 1 },      { "*:7", "0.0.0.0:7", 0 },
        { "unix:some/a\nb", "unix:some/a\\x0ab", 1 }
    };
    static const struct { const char *text, *part; } bad[] = {
        { "", "HOST:PORT" },          { "127.0.0.1", "HOST:PORT" },      { "127.0.0.1:", "HOST:PORT" },
        { "127.0.0.1:65536", "65535" }, { "127.0.0.1:-1", "HOST:PORT" }, { "127.0.0.1: 1", "HOST:PORT" },
        { "::1:80", "[ADDRESS]" },    { "[::1]", "HOST:PORT" },          { "[::1:80", "[ADDRESS]" },
        { "[]:80", "brackets" },      { "[127.0.0.1.9]:80", "brackets" }, { "unix:", "1 to" },
        { "999999999999999999999", "65535" }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_address a[TINY_ADDRESSES];
    char text[400];
    size_t i;
    int n;
    for (i = 0; i < T_COUNT(good); i++) {
        if (!T_OK(tiny_address_find(ctx, good[i].text, a, &n)) || !T_TRUE(n >= 1)) continue;
        tiny_address_text(&a[0], text);
        T_EQ_TEXT(text, good[i].is);
        T_EQ_INT(tiny_address_is_local(&a[0]), good[i].local);
    }
    T_OK(tiny_address_find(ctx, "*:7", a, &n));
    T_EQ_INT(n, 2);
    tiny_address_text(&a[1], text);
    T_EQ_TEXT(text, "[::]:7");
    for (i = 0; i < T_COUNT(bad); i++) {
        T_STATUS(tiny_address_find(ctx, bad[i].text, a, &n), TINY_E_ARGUMENT, bad[i].part);
        T_EQ_INT(n, 0);
    }
    memset(text, 'a', 399);
    memcpy(text, "unix:/", 6);
    text[399] = 0;
    T_STATUS(tiny_address_find(ctx, text, a, &n), TINY_E_ARGUMENT, "1 to 107");
    memcpy(text + 390, ":80", 4);
    memcpy(text, "aaaaaa", 6);
    T_STATUS(tiny_address_find(ctx, text, a, &n), TINY_E_ARGUMENT, "too long");
    T_STATUS(tiny_address_find(ctx, NULL, a, &n), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_address_find(ctx, "80", NULL, &n), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_address_find(ctx, "80", a, NULL), TINY_E_ARGUMENT, NULL);
    memset(a, 0, sizeof a);                 /* not filled in */
    tiny_address_text(&a[0], text);
    T_EQ_TEXT(text, "?");
    T_EQ_INT(tiny_address_is_local(&a[0]), 0);
    t_close(ctx);
}

/* both ends send more than the buffers hold, then say that they are done */
static void talk(const char *where)
{
    enum { MUCH = 1000000 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    unsigned char *out = (unsigned char *)t_keep(MUCH), *in[2];
    size_t sent[2] = { 0, 0 }, here[2] = { 0, 0 }, i, n;
    int ended[2] = { 0, 0 }, waited = 0, k;
    pair p;
    for (i = 0; i < MUCH; i++) out[i] = (unsigned char)(i * 7 + i / 251);
    in[0] = (unsigned char *)t_guarded_bytes(MUCH);
    in[1] = (unsigned char *)t_guarded_bytes(MUCH);
    if (connect_pair(ctx, where, &p)) {
        T_OK(tiny_socket_buffers(ctx, p.a, 65536));
        T_OK(tiny_socket_buffers(ctx, p.b, 65536));
        while (!ended[0] || !ended[1]) {
            tiny_poll q[2];
            memset(q, 0, sizeof q);
            for (k = 0; k < 2; k++) {
                q[k].socket = k ? p.b : p.a;
                q[k].want = (ended[k] ? 0 : TINY_POLL_READ) | (sent[k] < MUCH ? TINY_POLL_WRITE : 0);
            }
            if (!T_OK(tiny_socket_poll(ctx, q, 2, in_a_minute())) || !T_TRUE(q[0].can | q[1].can)) break;
            for (k = 0; k < 2; k++) {
                if (q[k].can & TINY_POLL_WRITE) {
                    T_OK(tiny_socket_write(ctx, q[k].socket, out + sent[k], MUCH - sent[k], &n));
                    waited |= n < MUCH - sent[k];
                    sent[k] += n;
                    if (sent[k] == MUCH) T_OK(tiny_socket_finish(ctx, q[k].socket));
                }
                if (q[k].can & TINY_POLL_READ) {
                    if (!T_OK(tiny_socket_read(ctx, q[k].socket, in[k] + here[k], MUCH - here[k] + (here[k] == MUCH),
                                               &n, &ended[k])))
                        ended[k] = 1;
                    here[k] += n;
                }
            }
        }
        T_TRUE(waited);                     /* it was more than fits */
        T_EQ_INT(here[0], MUCH);
        T_EQ_INT(here[1], MUCH);
        T_SAME(in[0], out, MUCH);
        T_SAME(in[1], out, MUCH);
    } else if (!t_now.checks_failed) printf("  this machine has no %s\n", where);
    close_pair(&p);
    t_close(ctx);
}
static void test_both_ways(void)
{
    char path[96];
    unix_path(path, "talk");
    talk("127.0.0.1:0");
    talk("[::1]:0");
    talk(path);
    (void)unlink(path + 5);
}

static void test_options(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    pair p;
    int k;
    if (connect_pair(ctx, ":0", &p)) {
        for (k = 0; k < 3; k++) {
            const int fd = (int)(k == 0 ? p.a : k == 1 ? p.b : p.at);
            int on = 0;
            socklen_t n = sizeof on;
            T_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
            T_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
            if (k == 2) break;
            T_TRUE(!getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &n) && on);
            on = 0;
            T_TRUE(!getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &n) && on);
        }
        T_TRUE(!strncmp(p.text, "127.0.0.1:", 10));
    }
    close_pair(&p);
    t_close(ctx);
}

static void test_nobody_there(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_address to, find[TINY_ADDRESSES];
    tiny_socket s = 5, again[TINY_ADDRESSES];
    pair p;
    char path[96];
    int n, i, end;
    size_t k;
    tiny_status st = TINY_OK;
    if (connect_pair(ctx, "127.0.0.1:0", &p)) {
        T_STATUS(tiny_listen_at(ctx, p.text, again, &n), TINY_E_IO, "another program has this address");
        T_EQ_INT(n, 0);
        T_OK(tiny_socket_address(ctx, p.at, &to));
        tiny_socket_close(p.at);
        p.at = TINY_NO_SOCKET;
        st = tiny_socket_connect(ctx, &to, &s);
        if (!st && can(ctx, s, TINY_POLL_WRITE)) st = tiny_socket_connected(ctx, s);
        T_STATUS(st, TINY_E_PEER, "nobody listens there");
        tiny_socket_close(s);
        /* the other end goes away with bytes unread: writing ends with an error, and no signal */
        T_OK(tiny_socket_write(ctx, p.a, "unread", 6, &k));
        T_EQ_INT(k, 6);
        (void)can(ctx, p.b, TINY_POLL_READ);
        tiny_socket_close(p.b);
        p.b = TINY_NO_SOCKET;
        for (i = 0, st = TINY_OK; i < 1000 && !st && can(ctx, p.a, TINY_POLL_WRITE); i++)
            st = tiny_socket_write(ctx, p.a, "more", 4, &k);
        T_STATUS(st, TINY_E_PEER, "the other side");
        T_EQ_INT(k, 0);
        for (i = 0, st = TINY_OK; i < 1000 && !st; i++) st = tiny_socket_write(ctx, p.a, "more", 4, &k);
        T_STATUS(st, TINY_E_PEER, NULL);
    }
    close_pair(&p);
    unix_path(path, "nobody");
    T_OK(tiny_address_find(ctx, path, find, &n));
    T_STATUS(tiny_socket_connect(ctx, &find[0], &s), TINY_E_IO, "there is no such file");
    T_EQ_INT(s, TINY_NO_SOCKET);
    T_STATUS(tiny_listen_at(ctx, "192.0.2.1:0", again, &n), TINY_E_IO, "does not have this address");
    T_STATUS(tiny_socket_read(ctx, 900, path, 1, &k, &end), TINY_E_IO, "no open socket");
    tiny_socket_close(TINY_NO_SOCKET);
    t_close(ctx);
}

static void test_local_files(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_socket one[TINY_ADDRESSES], two[TINY_ADDRESSES];
    char path[96];
    struct stat is;
    int n;
    FILE *f;
    unix_path(path, "left");
    T_OK(tiny_listen_at(ctx, path, one, &n));
    T_STATUS(tiny_listen_at(ctx, path, two, &n), TINY_E_IO, "another program");     /* it lives */
    tiny_socket_close(one[0]);
    T_TRUE(!stat(path + 5, &is));           /* left over */
    T_OK(tiny_listen_at(ctx, path, one, &n));
    tiny_socket_close(one[0]);
    (void)unlink(path + 5);
    f = fopen(path + 5, "wb");
    T_TRUE(f && fputs("mine", f) >= 0 && !fclose(f));
    T_STATUS(tiny_listen_at(ctx, path, one, &n), TINY_E_IO, "another program");
    T_TRUE(!stat(path + 5, &is) && is.st_size == 4);
    (void)unlink(path + 5);
    t_close(ctx);
}

/* ---- waking ------------------------------------------------------------------------------------------------------ */

static void *wake_main(void *arg)
{
    tiny_wake_up((const tiny_wake *)arg);
    return NULL;
}
static void test_wake(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_wake w;
    tiny_poll p;
    pthread_t thread;
    int i;
    memset(&p, 0, sizeof p);
    if (T_OK(tiny_wake_open(ctx, &w))) {
        p.socket = w.reads;
        p.want = TINY_POLL_READ;
        for (i = 0; i < 20; i++) {
            if (!T_EQ_INT(pthread_create(&thread, NULL, wake_main, &w), 0)) break;
            T_OK(tiny_socket_poll(ctx, &p, 1, UINT64_MAX));
            T_EQ_INT(p.can, TINY_POLL_READ);
            (void)pthread_join(thread, NULL);
            tiny_wake_clear(&w);
            T_OK(tiny_socket_poll(ctx, &p, 1, 0));
            T_EQ_INT(p.can, 0);
        }
        for (i = 0; i < 200000; i++) tiny_wake_up(&w);  /* more than a pipe holds: it does not block */
        T_OK(tiny_socket_poll(ctx, &p, 1, UINT64_MAX));
        T_EQ_INT(p.can, TINY_POLL_READ);
        tiny_wake_clear(&w);
        T_OK(tiny_socket_poll(ctx, &p, 1, 0));
        T_EQ_INT(p.can, 0);
        tiny_wake_close(&w);
        tiny_wake_close(&w);
        T_EQ_INT(w.reads, TINY_NO_SOCKET);
    }
    t_close(ctx);
}

/* Of many sockets those that can be read are told, until they are read or removed. */
static void test_watch(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_watch w;
    tiny_wake a[100];
    tiny_poll p;
    void *ready[100];
    size_t i;
    int n, again;
    tiny_status st;
    memset(&w, 0, sizeof w);
    T_STATUS(tiny_watch_add(ctx, &w, 0, &w), TINY_E_ARGUMENT, "open tiny_watch");
    T_EQ_INT(tiny_watch_ready(&w, ready, 100), 0);
    tiny_watch_close(&w);
    tiny_watch_close(NULL);
    st = tiny_watch_open(ctx, &w);
#ifndef __linux__
    T_EQ_INT(st, TINY_E_UNSUPPORTED);
    T_EQ_INT(w.set, TINY_NO_SOCKET);
#endif
    if (st) {
        t_close(ctx);
        return;
    }
    for (i = 0; i < T_COUNT(a); i++)
        if (!T_OK(tiny_wake_open(ctx, &a[i])) || !T_OK(tiny_watch_add(ctx, &w, a[i].reads, &a[i]))) break;
    T_STATUS(tiny_watch_add(ctx, &w, a[0].reads, &a[0]), TINY_E_IO, "a set of sockets");
    T_STATUS(tiny_watch_add(ctx, &w, a[0].reads, NULL), TINY_E_ARGUMENT, "a user");
    memset(&p, 0, sizeof p);
    p.socket = w.set;
    p.want = TINY_POLL_READ;
    T_OK(tiny_socket_poll(ctx, &p, 1, 0));
    T_EQ_INT(p.can, 0);
    T_EQ_INT(tiny_watch_ready(&w, ready, 100), 0);
    tiny_wake_up(&a[7]);
    tiny_wake_up(&a[93]);
    for (again = 0; again < 2; again++) {
        T_OK(tiny_socket_poll(ctx, &p, 1, UINT64_MAX));
        T_EQ_INT(p.can, TINY_POLL_READ);
        n = tiny_watch_ready(&w, ready, 100);
        T_EQ_INT(n, 2);
        T_TRUE((ready[0] == &a[7] && ready[1] == &a[93]) || (ready[1] == &a[7] && ready[0] == &a[93]));
    }
    T_EQ_INT(tiny_watch_ready(&w, ready, 1), 1);
    T_EQ_INT(tiny_watch_ready(&w, ready, 0), 0);
    tiny_wake_clear(&a[7]);
    tiny_watch_remove(&w, a[93].reads);
    T_EQ_INT(tiny_watch_ready(&w, ready, 100), 0);
    for (i = 0; i < T_COUNT(a); i++) tiny_wake_up(&a[i]);
    for (i = 0; (n = tiny_watch_ready(&w, ready, 100)) > 0;)
        for (; n > 0; n--, i++) tiny_wake_clear((tiny_wake *)ready[n - 1]);
    T_EQ_INT(i, T_COUNT(a) - 1);            /* all but the one that was removed, each once */
    tiny_watch_close(&w);
    tiny_watch_close(&w);
    T_EQ_INT(w.set, TINY_NO_SOCKET);
    for (i = 0; i < T_COUNT(a); i++) tiny_wake_close(&a[i]);
    t_close(ctx);
}

static void test_poll(void)
{
    enum { MANY = 400 };
    static tiny_poll p[MANY];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_ctx_desc poor = t_desc(TINY_TARGET_AUTO, 1);
    tiny_wake w;
    int i;
    if (T_OK(tiny_wake_open(ctx, &w))) {
        for (i = 0; i < MANY; i++) {
            p[i].socket = i % 2 ? w.reads : TINY_NO_SOCKET;
            p[i].want = i % 4 == 1 ? 0 : TINY_POLL_READ;
            p[i].can = 3;
        }
        p[MANY - 2].socket = w.writes;      /* a pipe's end that is only written */
        p[MANY - 2].want = TINY_POLL_WRITE;
        T_OK(tiny_socket_poll(ctx, p, MANY, 0));
        for (i = 0; i < MANY; i++) if (!T_EQ_INT(p[i].can, i == MANY - 2 ? TINY_POLL_WRITE : 0)) break;
        tiny_wake_up(&w);
        T_OK(tiny_socket_poll(ctx, p, MANY, 0));
        for (i = 0; i < MANY; i++)
            if (!T_EQ_INT(p[i].can, i == MANY - 2 ? TINY_POLL_WRITE : i % 4 == 3 ? TINY_POLL_READ : 0)) break;
        T_EACH_ALLOCATION(
            tiny_ctx *c = NULL;
            if (!tiny_ctx_open(&poor, &c)) {
                const tiny_status st = tiny_socket_poll(c, p, MANY, 0);
                T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
            }
            tiny_ctx_close(c);
        )
        tiny_wake_close(&w);
    }
    memset(p, 0, sizeof p);
    p[0].socket = TINY_NO_SOCKET;
    T_OK(tiny_socket_poll(ctx, p, 1, tiny_now_ns() + 1000));       /* nothing to wait for but the clock */
    T_STATUS(tiny_socket_poll(ctx, NULL, 0, 0), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_poll(ctx, NULL, 1, 0), TINY_E_ARGUMENT, NULL);
    t_close(ctx);
}

/* out of descriptors: a failure, and the listener works again afterwards */
static void test_out_of_files(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    struct rlimit was, few;
    tiny_address to;
    tiny_socket a = TINY_NO_SOCKET, b = TINY_NO_SOCKET, at[TINY_ADDRESSES];
    tiny_wake w;
    int n;
    if (T_OK(tiny_listen_at(ctx, ":0", at, &n)) && T_EQ_INT(getrlimit(RLIMIT_NOFILE, &was), 0) &&
        T_OK(tiny_socket_address(ctx, at[0], &to)) && T_OK(tiny_socket_connect(ctx, &to, &a))) {
        (void)can(ctx, at[0], TINY_POLL_READ);
        few = was;
        few.rlim_cur = 3;
        T_EQ_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
        T_STATUS(tiny_socket_accept(ctx, at[0], &b, NULL), TINY_E_IO, "too many files");
        T_EQ_INT(b, TINY_NO_SOCKET);
        T_STATUS(tiny_wake_open(ctx, &w), TINY_E_IO, "too many files");
        T_STATUS(tiny_socket_connect(ctx, &to, &b), TINY_E_IO, "too many files");
        T_EQ_INT(setrlimit(RLIMIT_NOFILE, &was), 0);
        T_OK(tiny_socket_accept(ctx, at[0], &b, NULL));
        T_TRUE(b != TINY_NO_SOCKET);
        tiny_socket_close(a);
        tiny_socket_close(b);
        tiny_socket_close(at[0]);
    }
    t_close(ctx);
}

static void test_nulls(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_address none;
    tiny_socket s = 1;
    tiny_wake w;
    size_t n = 1;
    int end = 1;
    memset(&none, 0, sizeof none);
    T_STATUS(tiny_socket_listen(ctx, NULL, &s), TINY_E_ARGUMENT, NULL);
    T_EQ_INT(s, TINY_NO_SOCKET);
    T_STATUS(tiny_socket_listen(ctx, &none, &s), TINY_E_ARGUMENT, "no address");
    T_STATUS(tiny_socket_connect(ctx, &none, &s), TINY_E_ARGUMENT, "no address");
    T_STATUS(tiny_socket_connect(ctx, NULL, &s), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_accept(ctx, TINY_NO_SOCKET, &s, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_accept(ctx, 1, NULL, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_read(ctx, 1, NULL, 1, &n, &end), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_read(ctx, 1, &s, 1, NULL, &end), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_write(ctx, 1, NULL, 1, &n), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_write(ctx, 1, &s, 1, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_address(ctx, 1, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_socket_buffers(ctx, 1, 0), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_listen_at(ctx, ":0", NULL, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tiny_wake_open(ctx, NULL), TINY_E_ARGUMENT, NULL);
    tiny_wake_up(NULL);
    tiny_wake_clear(NULL);
    tiny_wake_close(NULL);
    memset(&w, 0, sizeof w);                /* it would be descriptor 0 */
    tiny_wake_up(&w);
    tiny_wake_clear(&w);
    tiny_wake_close(&w);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_addresses);
    T_RUN(test_both_ways);
    T_RUN(test_options);
    T_RUN(test_nobody_there);
    T_RUN(test_local_files);
    T_RUN(test_wake);
    T_RUN(test_watch);
    T_RUN(test_poll);
    T_RUN(test_out_of_files);
    T_RUN(test_nulls);
    return t_done();
}
#else
int main(void)
{
    puts("skipped: this test needs a POSIX system");
    return t_done();
}
#endif
