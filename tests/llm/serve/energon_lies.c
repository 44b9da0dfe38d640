/* tests/llm/serve/energon_lies.c - a pipeline whose other ranks send what they must not
 *
 * The test plays rank 0 of a worker, and the worker of a rank 0, by the messages of energon.c, which it puts into the
 * link beforehand. Truth: the sentences; what a batch that is as it should be computes; batches that come out of their
 * order within `depth` are computed in their order. */
#include "t.h"

enum { HEAD = 32, HELLO = 64, ROOM = 512, BATCH = 1, STOP = 2 };

static void put(unsigned char *to, uint64_t x, int n)
{
    for (; n--; x >>= 8) *to++ = (unsigned char)x;
}
static uint64_t get(const unsigned char *from, int n)
{
    uint64_t x = 0;
    while (n--) x = x << 8 | from[n];
    return x;
}
static tiny_message part_of(int kind, void *data, size_t n)
{
    tiny_message m;
    memset(&m, 0, sizeof m);
    m.tag = (uint64_t)kind << 8 | 247;
    m.data = data;
    m.n = n;
    return m;
}
static void say(tiny_net *net, int kind, void *data, size_t n)
{
    tiny_message m = part_of(kind, data, n);
    T_EQ_INT(net->send(net, 1 - net->rank, &m), TINY_OK);
    T_TRUE(m.whole);
}
/* waits for it: the other side may have a thread; 0: the link has ended */
static int hear(tiny_net *net, int kind, void *data, size_t n)
{
    tiny_message m = part_of(kind, data, n);
    const uint64_t until = tiny_now_ns() + UINT64_C(20000000000);
    while (!m.whole && tiny_now_ns() < until) {
        const uint64_t seen = net->changes(net);
        if (net->recv(net, 1 - net->rank, &m)) return 0;
        if (!m.whole) net->pause(net, seen, tiny_now_ns() + 10000000);
    }
    return m.whole;
}

typedef struct batch { int kind, n, valid; uint64_t number; int length[4]; } batch;
static void say_batch(tiny_net *net, const batch *b)
{
    unsigned char head[HEAD], body[ROOM];
    int i;
    memset(head, 0, sizeof head);
    put(head, (uint64_t)b->kind, 4);
    put(head + 4, (uint64_t)b->n, 4);
    put(head + 8, (uint64_t)b->valid, 4);
    put(head + 16, b->number, 8);
    say(net, 1, head, HEAD);
    if (b->kind != BATCH) return;
    for (i = 0; i < b->n && i < 4; i++) put(body + 4 * i, (uint64_t)b->length[i], 4);
    for (i = 0; i < b->valid && i < 32; i++) put(body + 4 * b->n + 4 * i, (uint64_t)(100 + (int)b->number * 10 + i), 4);
    if (b->n > 0 && b->n <= 4 && b->valid <= 32) say(net, 2, body, 4 * (size_t)(b->n + b->valid));
}

/* The sum of the tokens of each text; remembers the numbers. user: a net over which the first batch is sent once more,
 * and the end, while it is computed. */
static uint64_t order[8];
static int n_order;
static tiny_status run(void *user, tllm_energon_batch *b, const void *in, void *out)
{
    const int32_t *token = (const int32_t *)in;
    static const batch again = { BATCH, 1, 1, 0, { 1, 0, 0, 0 } }, end = { STOP, 0, 0, 1, { 0, 0, 0, 0 } };
    tiny_idx i, k;
    if (n_order < 8) order[n_order++] = b->number;
    if (user && !b->number) {
        say_batch((tiny_net *)user, &again);
        say_batch((tiny_net *)user, &end);
    }
    for (i = 0; i < b->n; i++) {
        uint64_t sum = 0;
        for (k = 0; k < b->length[i]; k++) sum += (uint64_t)*token++;
        memcpy((unsigned char *)out + 8 * i, &sum, 8);
    }
    return TINY_OK;
}

static const size_t row[2] = { 4, 8 };
static tllm_energon_desc pipe_of(tiny_net *net)
{
    tllm_energon_desc d;
    memset(&d, 0, sizeof d);
    d.net = net;
    d.row = row;
    d.run = run;
    d.texts = 3;
    d.tokens = 16;
    d.depth = 2;
    d.timeout_ns = UINT64_C(20000000000);
    return d;
}
static tiny_local *link_of(tiny_ctx *ctx)
{
    tiny_local_desc d;
    tiny_local *local = NULL;
    memset(&d, 0, sizeof d);
    d.world = 2;
    T_OK(tiny_local_open(ctx, &d, &local));
    return local;
}

/* What rank 0 says first, which is what a worker with the same description answers. */
static void hello_of(tiny_ctx *ctx, unsigned char *hello)
{
    tiny_local *local = link_of(ctx);
    tllm_energon_desc d = pipe_of(tiny_local_net(local, 0));
    tllm_energon *e;
    d.timeout_ns = 1;
    T_STATUS(tllm_energon_open(ctx, &d, &e), TINY_E_TIMEOUT, "rank 0 waited for rank 1");
    T_TRUE(!e && hear(tiny_local_net(local, 1), 4, hello, HELLO));
    tiny_local_close(ctx, local);
}

static void test_worker(void)
{
    static const struct { batch b[3]; int n; const char *says; } each[] = {
        { { { BATCH, 2, 3, 0, { 1, 2 } }, { BATCH, 1, 1, 1, { 1 } }, { STOP, 0, 0, 2, { 0 } } }, 3, NULL },
        { { { BATCH, 1, 1, 1, { 1 } }, { BATCH, 2, 3, 0, { 1, 2 } }, { STOP, 0, 0, 2, { 0 } } }, 3, NULL },
        { { { STOP, 0, 0, 0, { 0 } } }, 1, NULL },
        { { { BATCH, 1, 1, 2, { 1 } } }, 1, "a batch out of its order" },
        { { { BATCH, 1, 1, UINT64_MAX, { 1 } } }, 1, "a batch out of its order" },
        { { { BATCH, 1, 1, 1, { 1 } }, { BATCH, 1, 1, 1, { 1 } } }, 2, "a batch a second time" },
        { { { BATCH, 0, 0, 0, { 0 } } }, 1, "a batch that there is not" },
        { { { BATCH, 4, 4, 0, { 1, 1, 1, 1 } } }, 1, "a batch that there is not" },
        { { { BATCH, 1, 17, 0, { 17 } } }, 1, "a batch that there is not" },
        { { { BATCH, 2, 1, 0, { 1, 0 } } }, 1, "a batch that there is not" },
        { { { 3, 1, 1, 0, { 1 } } }, 1, "a batch that there is not" },
        { { { BATCH, 2, 3, 0, { 3, 0 } } }, 1, "lengths that do not fit" },
        { { { BATCH, 2, 3, 0, { 1, 1 } } }, 1, "lengths that do not fit" },
        { { { BATCH, 2, 3, 0, { 2, 2 } } }, 1, "lengths that do not fit" },
        { { { BATCH, 1, 1, 0, { -1 } } }, 1, "lengths that do not fit" },
        { { { BATCH, 1, 1, 0, { 1 } }, { BATCH, 1, 1, 0, { 1 } } }, 2, "a batch a second time" },
        { { { BATCH, 1, 1, 0, { 1 } }, { BATCH, 1, 1, 1, { 1 } }, { BATCH, 1, 1, 0, { 1 } } }, 3,
          "a batch a second time" },
    };
    unsigned char hello[HELLO], head[HEAD], body[ROOM];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t k;
    int i;
    hello_of(ctx, hello);
    for (k = 0; k < T_COUNT(each); k++) {
        tiny_local *local = link_of(ctx);
        tiny_net *net = tiny_local_net(local, 0);
        tllm_energon_desc d = pipe_of(tiny_local_net(local, 1));
        tllm_energon *e = NULL;
        say(net, 4, hello, HELLO);
        for (i = 0; i < each[k].n; i++) say_batch(net, &each[k].b[i]);
        if (each[k].says) {                 /* a worker that took it would end here, and not wait for ever */
            batch end = { STOP, 0, 0, 0, { 0, 0, 0, 0 } };
            end.number = (uint64_t)each[k].n;
            say_batch(net, &end);
        }
        n_order = 0;
        T_OK(tllm_energon_open(ctx, &d, &e));
        T_TRUE(hear(net, 4, body, HELLO) && !memcmp(body, hello, HELLO));
        if (each[k].says) {
            T_STATUS(tllm_energon_follow(e), TINY_E_PROTOCOL, each[k].says);
            T_TRUE(strstr(tiny_ctx_message(ctx), "rank 0 sent") != NULL);
        } else {
            T_OK(tllm_energon_follow(e));
            T_EQ_INT(n_order, each[k].n - 1);
            for (i = 0; i < n_order; i++) {
                T_EQ_INT(order[i], i);
                if (!T_TRUE(hear(net, 1, head, HEAD))) break;
                T_TRUE(get(head, 4) == BATCH && get(head + 16, 8) == (uint64_t)i);
                T_TRUE(hear(net, 2, body, 8 * (size_t)get(head + 4, 4)));
                T_EQ_INT(get(body, 8), i ? 110 : 100);
                if (!i) T_EQ_INT(get(body + 8, 8), 101 + 102);
            }
            T_TRUE(hear(net, 1, head, HEAD) && get(head, 4) == STOP);
        }
        tllm_energon_close(e);
        tiny_local_close(ctx, local);
    }
    {
        static const batch first = { BATCH, 1, 1, 0, { 1, 0, 0, 0 } };
        tiny_local *local = link_of(ctx);
        tllm_energon_desc d = pipe_of(tiny_local_net(local, 1));
        tllm_energon *e = NULL;
        d.user = tiny_local_net(local, 0);
        say(tiny_local_net(local, 0), 4, hello, HELLO);
        say_batch(tiny_local_net(local, 0), &first);
        T_OK(tllm_energon_open(ctx, &d, &e));
        T_STATUS(tllm_energon_follow(e), TINY_E_PROTOCOL, "a batch a second time");
        tllm_energon_close(e);
        tiny_local_close(ctx, local);
    }
    {                                       /* another description */
        tiny_local *local = link_of(ctx);
        tllm_energon_desc d = pipe_of(tiny_local_net(local, 1));
        tllm_energon *e = NULL;
        say(tiny_local_net(local, 0), 4, hello, HELLO);
        d.tokens = 17;
        T_STATUS(tllm_energon_open(ctx, &d, &e), TINY_E_PROTOCOL, "rank 1 has another description");
        T_TRUE(!e);
        tiny_local_close(ctx, local);
        local = link_of(ctx);
        d = pipe_of(tiny_local_net(local, 1));
        hello[0] ^= 1;
        say(tiny_local_net(local, 0), 4, hello, HELLO);
        T_STATUS(tllm_energon_open(ctx, &d, &e), TINY_E_PROTOCOL, "rank 1 has another");
        tiny_local_close(ctx, local);
    }
    t_close(ctx);
    T_PROOF("serving 2", "batches out of order within the depth are parked and computed in order; others are refused");
}

/* The head of the result of a batch of two texts, 100 and 101 + 102 + 103, by a worker that is as it should be. */
static void head_of(tiny_ctx *ctx, unsigned char *hello, unsigned char *head)
{
    static const batch b[2] = { { BATCH, 2, 4, 0, { 1, 3, 0, 0 } }, { STOP, 0, 0, 1, { 0, 0, 0, 0 } } };
    tiny_local *local = link_of(ctx);
    tiny_net *net = tiny_local_net(local, 0);
    tllm_energon_desc d = pipe_of(tiny_local_net(local, 1));
    tllm_energon *e = NULL;
    unsigned char body[ROOM];
    say(net, 4, hello, HELLO);
    say_batch(net, &b[0]);
    say_batch(net, &b[1]);
    T_OK(tllm_energon_open(ctx, &d, &e));
    T_OK(tllm_energon_follow(e));
    T_TRUE(hear(net, 4, body, HELLO) && hear(net, 1, head, HEAD) && hear(net, 2, body, 16));
    T_TRUE(get(body, 8) == 100 && get(body + 8, 8) == 306);
    tllm_energon_close(e);
    tiny_local_close(ctx, local);
}

/* A worker that answers a batch of two texts with something else. */
static void test_controller(void)
{
    static const struct { int kind, n, number, hash; const char *says; } each[] = {
        { BATCH, 2, 0, 0, NULL },
        { BATCH, 2, 1, 0, "a batch that it did not get" },
        { BATCH, 1, 0, 0, "a batch that it did not get" },
        { BATCH, 2, 0, 1, "a result that was damaged" },
        { BATCH, 0, 0, 0, "a batch that there is not" },
        { BATCH, 4, 0, 0, "a batch that there is not" },
        { STOP, 0, 0, 0, "a batch that there is not" },
    };
    static const int32_t token[3] = { 5, 6, 7 };
    unsigned char hello[HELLO], head[HEAD], body[ROOM], right[HEAD];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t k;
    hello_of(ctx, hello);
    head_of(ctx, hello, right);
    for (k = 0; k < T_COUNT(each); k++) {
        tiny_local *local = link_of(ctx);
        tiny_net *net = tiny_local_net(local, 1);
        tllm_energon_desc d = pipe_of(tiny_local_net(local, 0));
        tllm_energon *e = NULL;
        uint64_t result = 0;
        int ready = 0;
        d.depth = 1;
        say(net, 4, hello, HELLO);
        if (!T_OK(tllm_energon_open(ctx, &d, &e))) return;
        T_TRUE(hear(net, 4, body, HELLO));
        T_OK(tllm_energon_hold(e, 1));
        T_OK(tllm_energon_submit(e, 1, token, 1));
        T_OK(tllm_energon_submit(e, 2, token, 3));
        T_OK(tllm_energon_hold(e, 0));
        T_OK(tllm_energon_poll(e, 1, &result, &ready));        /* without threads: sends the batch */
        T_EQ_INT(ready, 0);
        T_TRUE(hear(net, 1, head, HEAD) && get(head + 4, 4) == 2 && get(head + 8, 4) == 4);
        T_TRUE(hear(net, 2, body, 4 * 2 + 4 * 4) && get(body, 4) == 1 && get(body + 4, 4) == 3);
        put(body, 100, 8);
        put(body + 8, 306, 8);
        put(head, (uint64_t)each[k].kind, 4);
        put(head + 4, (uint64_t)each[k].n, 4);
        put(head + 16, (uint64_t)each[k].number, 8);
        put(head + 24, get(right + 24, 8) + (uint64_t)each[k].hash, 8);
        say(net, 1, head, HEAD);
        if (each[k].kind == BATCH && each[k].n && each[k].n < 4) say(net, 2, body, 8 * (size_t)each[k].n);
        if (each[k].says) {
            T_STATUS(tllm_energon_wait(e, 2, &result), TINY_E_PROTOCOL, each[k].says);
            T_STATUS(tllm_energon_submit(e, 3, token, 1), TINY_E_PROTOCOL, "rank 1 sent");
            T_STATUS(tllm_energon_stop(e), TINY_E_PROTOCOL, "rank 1 sent");
        } else {
            T_OK(tllm_energon_wait(e, 2, &result));
            T_EQ_INT(result, 306);
            T_OK(tllm_energon_wait(e, 1, &result));
            T_EQ_INT(result, 100);
            T_STATUS(tllm_energon_wait(e, 1, &result), TINY_E_ARGUMENT, "there is no request 1");
        }
        tllm_energon_close(e);
        tiny_local_close(ctx, local);
    }
    t_close(ctx);
    T_PROOF("serving 2", "results of other batches, of other sizes, or damaged end the pipeline with a sentence");
}

int main(void)
{
    T_RUN(test_worker);
    T_RUN(test_controller);
    return t_done();
}
