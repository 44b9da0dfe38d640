/* tests/llm/lab/nets/split.c - device and server of a network cut in two, over a transport of this process
 *
 * Truth    the same network called directly; what was sent; the time that bytes take at a rate at least. */
#include "t.h"

#if defined TINYLLM_NO_SLIM || !T_PTHREAD
int main(void) { return t_done(); }
#else

enum { K = 3, EACH = 2 * 4 * 4 };

typedef struct server {
    tllm_slim *slim;
    tiny_net *net;
    tiny_status st;
    tllm_split_served served;
    char says[200];
} server;

static tllm_slim *slim_open(tiny_ctx *ctx)
{
    tllm_slim_desc d;
    tllm_slim *s = NULL;
    memset(&d, 0, sizeof d);
    d.in[0] = 1;
    d.in[1] = d.in[2] = 16;
    d.members = K;
    d.tail = 6;
    d.n_class = 10;
    d.seed = 5;
    T_OK(tllm_slim_open(ctx, &d, &s));
    return s;
}

static void *server_main(void *arg)
{
    server *v = (server *)arg;
    tiny_ctx_desc cd;
    tllm_split_desc d;
    tllm_split *s = NULL;
    tllm_slim_desc sd;
    tiny_ctx *ctx = NULL;
    memset(&cd, 0, sizeof cd);
    memset(&d, 0, sizeof d);
    cd.n_threads = 1;
    v->st = tiny_ctx_open(&cd, &ctx);
    if (v->st) return NULL;
    sd = *tllm_slim_is(v->slim);
    v->st = tllm_slim_open(ctx, &sd, &d.slim);          /* the same seed: the same network */
    d.net = v->net;
    d.peer = 1;
    if (!v->st) v->st = tllm_split_open(ctx, &d, &s);
    if (!v->st) v->st = tllm_split_serve(s, &v->served);
    (void)snprintf(v->says, sizeof v->says, "%s", tiny_ctx_message(ctx));
    v->net->close(v->net);
    tllm_split_close(s);
    tllm_slim_close(d.slim);
    tiny_ctx_close(ctx);
    return NULL;
}

static int best_of(const float *x)
{
    int i, best = 0;
    for (i = 1; i < 10; i++) if (x[i] > x[best]) best = i;
    return best;
}

typedef struct both {
    tiny_ctx *ctx;
    tiny_local *local;
    server v;
    pthread_t thread;
    tllm_split *split;
    tiny_fault *fault;
} both;

static int start(both *b, double bits_per_second)
{
    tiny_local_desc ld;
    tiny_fault_desc fd;
    tllm_split_desc d;
    memset(b, 0, sizeof *b);
    memset(&ld, 0, sizeof ld);
    memset(&fd, 0, sizeof fd);
    memset(&d, 0, sizeof d);
    b->ctx = t_ctx(TINY_TARGET_AUTO, 1);
    b->v.slim = slim_open(b->ctx);
    ld.world = 2;
    T_OK(tiny_local_open(b->ctx, &ld, &b->local));
    b->v.net = tiny_local_net(b->local, 0);
    fd.inner = tiny_local_net(b->local, 1);
    fd.bits_per_second = bits_per_second;
    T_OK(tiny_fault_open(b->ctx, &fd, &b->fault));
    d.net = tiny_fault_net(b->fault);
    d.slim = b->v.slim;
    T_OK(tllm_split_open(b->ctx, &d, &b->split));
    return T_EQ_INT(pthread_create(&b->thread, NULL, server_main, &b->v), 0);
}

static void stop(both *b)
{
    tiny_net *net = tiny_local_net(b->local, 1);
    (void)pthread_join(b->thread, NULL);
    net->close(net);
    tllm_split_close(b->split);
    tiny_fault_close(b->ctx, b->fault);
    tiny_local_close(b->ctx, b->local);
    tllm_slim_close(b->v.slim);
    t_close(b->ctx);
}

static void test_frames(void)
{
    both b;
    float *x = t_rand(256, -1.0f, 1.0f), z[K * EACH], logits[10];
    unsigned char frame[1000];
    tllm_split_answer a;
    double seconds = -1.0;
    size_t n;
    int have, m, got, i;
    uint32_t id = 0;
    if (!start(&b, 0.0)) return;
    T_OK(tllm_split_ping(b.split, &seconds));
    T_TRUE(seconds >= 0.0);
    for (m = 1; m <= K; m++) {
        T_OK(tllm_slim_encode(b.v.slim, x, 0, m, z));
        T_OK(tllm_slim_pack(b.v.slim, z, 0, m, NULL, frame, sizeof frame, &n));
        T_OK(tllm_split_send(b.split, ++id, frame, n));
        T_OK(tllm_split_wait(b.split, id, UINT64_MAX, &a, &got));
        T_OK(tllm_slim_unpack(b.v.slim, frame, n, &have, z));
        T_OK(tllm_slim_tail(b.v.slim, z, m, logits));
        T_TRUE(got && a.id == id);
        T_EQ_INT(a.m, m);
        T_EQ_INT(a.n, TLLM_SPLIT_TOP);
        T_EQ_INT(a.label[0], best_of(logits));
        for (i = 1; i < a.n; i++) T_TRUE(a.p[i] <= a.p[i - 1] && logits[a.label[i]] <= logits[a.label[i - 1]]);
        T_CLOSE(log((double)a.p[0] / (double)a.p[1]), logits[a.label[0]] - logits[a.label[1]], 1e-4);
    }
    /* member after member under one id ends where one frame did */
    T_OK(tllm_slim_encode(b.v.slim, x, 0, K, z));
    for (id++, m = 0; m < K; m++) {
        T_OK(tllm_slim_pack(b.v.slim, z + m * EACH, m, 1, NULL, frame, sizeof frame, &n));
        T_OK(tllm_split_send(b.split, id, frame, n));
        T_OK(tllm_split_wait(b.split, id, UINT64_MAX, &a, &got));
        T_EQ_INT(a.m, m + 1);
    }
    T_EQ_INT(a.label[0], best_of(logits));
    /* lost: member 1 never came; damaged; the answers of both are without classes */
    T_OK(tllm_split_send(b.split, ++id, frame, n));
    T_OK(tllm_split_wait(b.split, id, UINT64_MAX, &a, &got));
    T_EQ_INT(a.n, 0);
    T_OK(tllm_slim_pack(b.v.slim, z, 0, 2, NULL, frame, sizeof frame, &n));
    frame[30] ^= 4;
    T_OK(tllm_split_send(b.split, ++id, frame, n));
    T_OK(tllm_split_wait(b.split, id, UINT64_MAX, &a, &got));
    T_EQ_INT(a.n, 0);
    frame[30] ^= 4;
    /* late: an older id is dropped, and an answer that nobody waited for is skipped */
    T_OK(tllm_split_send(b.split, id - 1, frame, n));
    T_OK(tllm_split_send(b.split, ++id, frame, n));
    T_OK(tllm_split_send(b.split, ++id, frame, n));
    T_OK(tllm_split_wait(b.split, id, UINT64_MAX, &a, &got));
    T_TRUE(got && a.id == id && a.m == 2);
    T_OK(tllm_split_wait(b.split, id + 1, tiny_now_ns() + 1000000, &a, &got));
    T_EQ_INT(got, 0);
    /* an image in 8 bits: the server encodes it */
    T_OK(tllm_split_send_image(b.split, ++id, x));
    T_OK(tllm_split_wait(b.split, id, UINT64_MAX, &a, &got));
    T_TRUE(got && a.m == K && a.n == TLLM_SPLIT_TOP);
    T_EQ_INT(tllm_split_image_bytes(b.split), 264);
    x[7] = NAN;
    T_STATUS(tllm_split_send_image(b.split, ++id, x), TINY_E_NUMERIC, "pixel 7");
    T_STATUS(tllm_split_send(b.split, 0, frame, n), TINY_E_ARGUMENT, "an id above 0");
    T_STATUS(tllm_split_send(b.split, id, frame, 100000), TINY_E_ARGUMENT, "a frame of 100000 bytes");
    T_OK(tllm_split_end(b.split));
    stop(&b);
    T_EQ_INT(b.v.st, TINY_OK);
    T_EQ_INT(b.v.served.frames, 3 + K + 2);
    T_EQ_INT(b.v.served.refused, 2);
    T_EQ_INT(b.v.served.late, 1);
    T_EQ_INT(b.v.served.images, 1);
    T_EQ_INT(b.v.served.pings, 1);
}

/* A head that promises more than a frame can have, one of no kind, and a device that is gone. */
static void test_protocol(void)
{
    static const unsigned char large[16] = { 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0 },
                               kind[16] = { 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    int k;
    for (k = 0; k < 3; k++) {
        both b;
        tiny_net *net;
        tiny_message m;
        if (!start(&b, 0.0)) return;
        net = tiny_local_net(b.local, 1);
        memset(&m, 0, sizeof m);
        m.tag = UINT64_C(0x74696c7073);
        m.data = (void *)(uintptr_t)(k ? kind : large);
        m.n = 16;
        while (k < 2 && !m.whole && !net->send(net, 0, &m)) net->pause(net, net->changes(net), tiny_now_ns() + 1000000);
        if (k == 2) net->close(net);
        stop(&b);
        T_EQ_INT(b.v.st, k == 2 ? TINY_E_PEER : TINY_E_PROTOCOL);
        if (k < 2) T_TRUE(strstr(b.v.says, k ? "a message of kind 9" : "a message of 16777216 bytes") != NULL);
    }
}

/* 68 + 16 bytes at 200 kbit/s take 3.36 ms at least, after the change to 20 kbit/s 33.6 ms */
static void test_rate(void)
{
    both b;
    unsigned char frame[68];
    float *x = t_rand(256, -1.0f, 1.0f), z[K * EACH];
    tllm_split_answer a;
    tllm_split_desc d;
    tllm_split *no = NULL;
    uint64_t t;
    size_t n;
    int got, k;
    if (!start(&b, 2e5)) return;
    T_OK(tllm_slim_encode(b.v.slim, x, 0, 3, z));
    T_OK(tllm_slim_pack(b.v.slim, z, 0, 3, NULL, frame, sizeof frame, &n));
    T_EQ_INT(n, 68);
    for (k = 0; k < 2; k++) {
        t = tiny_now_ns();
        T_OK(tllm_split_send(b.split, (uint32_t)k + 1, frame, n));
        T_OK(tllm_split_wait(b.split, (uint32_t)k + 1, UINT64_MAX, &a, &got));
        T_TRUE(tiny_now_ns() - t >= (k ? UINT64_C(33600000) : UINT64_C(3360000)));
        T_OK(tiny_fault_rate(b.ctx, b.fault, 2e4));
    }
    T_STATUS(tiny_fault_rate(b.ctx, b.fault, -1.0), TINY_E_ARGUMENT, "-1 bits a second");
    T_STATUS(tiny_fault_rate(b.ctx, b.fault, NAN), TINY_E_ARGUMENT, "bits a second");
    memset(&d, 0, sizeof d);
    d.net = tiny_local_net(b.local, 1);
    d.slim = b.v.slim;
    d.peer = 1;
    T_STATUS(tllm_split_open(b.ctx, &d, &no), TINY_E_ARGUMENT, "the peer is rank 1 of 2");
    T_OK(tllm_split_end(b.split));
    stop(&b);
}

int main(void)
{
    T_RUN(test_frames);
    T_RUN(test_protocol);
    T_RUN(test_rate);
    return t_done();
}
#endif
