/* tests/llm/dist/actor.c - actors: worked times, back-pressure, end and stop, threads, ranks over threads and TCP
 *
 * Truth    times worked by hand; items that carry their number and are summed by plain loops; for random graphs every
 *          actor checks what it gets. No test reads the wall clock. */
#include "llm/dist/net.h"

enum { ITEMS = 20 };

/* ---- worked times ------------------------------------------------------------------------------------------------ */

static tiny_status source(tllm_actor_call *c)
{
    const int n = *(const int *)c->user;
    if (c->out[0]) *(int *)c->out[0] = (int)c->item;
    if (c->item + 1 == (uint64_t)n) c->end = TLLM_ACTOR_LAST;
    return TINY_OK;
}
static tiny_status pass(tllm_actor_call *c)
{
    if (c->out[0]) *(int *)c->out[0] = *(const int *)c->in[0];
    return *(const int *)c->in[0] == (int)c->item ? TINY_OK : TINY_E_NUMERIC;
}

/* a chain of n stages, each on a thread or a rank of its own */
static void chain(tllm_actor *list, int n, const uint64_t *ns, int buffers, int *items, int ranks)
{
    int i;
    memset(list, 0, (size_t)n * sizeof *list);
    for (i = 0; i < n; i++) {
        list[i].thread = ranks ? 0 : i;
        list[i].rank = ranks ? i : 0;
        list[i].n_in = i > 0;
        list[i].from[0] = i - 1;
        list[i].n_out = i < n - 1;
        list[i].bytes[0] = sizeof(int);
        list[i].buffers = buffers;
        list[i].act = i ? pass : source;
        list[i].user = items;
        list[i].ns = ns ? ns[i] : 1;
    }
}
static void test_worked(void)
{
    static const struct { uint64_t ns[3]; int c; uint64_t end; } row[] = {
        { { 1, 3, 1 }, 1, 81 }, { { 1, 3, 1 }, 2, 62 }, { { 1, 3, 1 }, 3, 62 },
        { { 2, 2, 2 }, 1, 82 }, { { 2, 2, 2 }, 2, 44 }, { { 2, 2, 2 }, 3, 44 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_actor list[3];
    tllm_actor_count count[3];
    tllm_actor_desc d;
    int n = ITEMS, k;
    size_t i;
    uint64_t end;
    memset(&d, 0, sizeof d);
    d.actor = list;
    d.n_actor = 3;
    for (i = 0; i < T_COUNT(row); i++) {
        chain(list, 3, row[i].ns, row[i].c, &n, 0);
        T_OK(tllm_actor_simulate(ctx, &d, count, &end));
        T_EQ_INT(end, row[i].end);
        for (k = 0; k < 3; k++) {
            T_EQ_INT(count[k].fired, ITEMS);
            T_EQ_INT(count[k].ended, 1);
            T_TRUE(count[k].live <= row[i].c);
        }
    }
    T_PROOF("distributed 8", "actors of 1, 3, 1: 81, 62, 62 with 1, 2, 3 buffers; of 2, 2, 2: 82, 44, 44");
    T_PROOF("distributed 8", "live buffers never above c");
    /* one thread for all: nothing overlaps. 20 * 5 */
    chain(list, 3, row[0].ns, 2, &n, 0);
    for (k = 0; k < 3; k++) list[k].thread = 0;
    T_OK(tllm_actor_simulate(ctx, &d, NULL, &end));
    T_EQ_INT(end, 100);
    /* between ranks: 3 latencies of 10 to announce, ask and send, 4 bytes at 1 byte/ns: 1 + 3 * 10 + 4 + 1 */
    n = 1;
    d.n_actor = 2;
    d.latency_ns = 10;
    d.bits_per_second = 8e9;
    chain(list, 2, row[0].ns, 1, &n, 1);
    list[1].ns = 1;
    T_OK(tllm_actor_simulate(ctx, &d, NULL, &end));
    T_EQ_INT(end, 36);
    t_close(ctx);
}

/* ---- back-pressure ----------------------------------------------------------------------------------------------- */

static tiny_status stuck(tllm_actor_call *c)               /* takes three items, and its fourth call does not return */
{
    if (c->item == 3) c->ns = TLLM_ACTOR_NEVER;
    return TINY_OK;
}
static tiny_status stops(tllm_actor_call *c)
{
    if (c->item == 3) c->end = TLLM_ACTOR_END;
    return TINY_OK;
}
static void test_pressure(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_actor list[3];
    tllm_actor_count count[3];
    tllm_actor_desc d;
    int n = 1000000, c, ranks;
    uint64_t end;
    memset(&d, 0, sizeof d);
    d.actor = list;
    for (ranks = 0; ranks < 2; ranks++)
        for (c = 1; c <= 3; c++) {
            chain(list, 2, NULL, c, &n, ranks);
            d.n_actor = 2;
            list[1].act = stuck;
            T_OK(tllm_actor_simulate(ctx, &d, count, &end));
            T_EQ_INT(count[1].fired, 3);
            T_EQ_INT(count[1].ended, 0);
            /* three are done; the buffers of the fourth and the next are full. Between ranks there are two sets. */
            T_EQ_INT(count[0].fired, 3 + c * (1 + ranks));
            T_EQ_INT(count[0].live, c);
            T_EQ_INT(tllm_actor_memory(&d, 0), c * 64);
            T_EQ_INT(tllm_actor_memory(&d, 1), ranks ? c * 64 : 0);
            /* one that stops: its producers end, in the simulation and on threads */
            list[1].act = stops;
            T_OK(tllm_actor_simulate(ctx, &d, count, &end));
            T_EQ_INT(count[1].fired, 4);
            T_TRUE(count[0].ended && count[0].fired <= (uint64_t)(4 + 2 * c + 2));
            if (ranks) continue;
            T_OK(tllm_actor_run(ctx, &d, count));
            T_EQ_INT(count[1].fired, 4);
            T_TRUE(count[0].ended && count[0].fired <= (uint64_t)(4 + c));
        }
    /* three stages: the first one too */
    chain(list, 3, NULL, 2, &n, 0);
    d.n_actor = 3;
    list[2].act = stops;
    T_OK(tllm_actor_run(ctx, &d, count));
    T_TRUE(count[0].ended && count[1].ended && count[0].fired <= 4 + 4);
    t_close(ctx);
    T_PROOF("distributed 8", "a consumer that stops: producers stop within c items, memory as known before");
}

/* ---- random graphs ----------------------------------------------------------------------------------------------- */

typedef struct node { int items, seed, n_in, n_out, number; } node;
/* Item k of actor a is 1000 a + k, and each input must bring the k-th one. */
static tiny_status checked(tllm_actor_call *c)
{
    const node *n = (const node *)c->user;
    int k;
    for (k = 0; k < n->n_in; k++) {
        int x[4];
        memcpy(x, c->in[k], sizeof x);
        if (x[0] % 1000 != (int)c->item || x[3] != x[0] + 3) return TINY_E_NUMERIC;
    }
    for (k = 0; k < n->n_out; k++) {
        int x[4], i;
        for (i = 0; i < 4; i++) x[i] = 1000 * n->number + (int)c->item + i;
        memcpy(c->out[k], x, sizeof x);
    }
    c->ns = (uint64_t)((n->seed * 7919 + (int)c->item * 104729) % 17);
    if (!n->n_in && c->item + 1 == (uint64_t)n->items) c->end = TLLM_ACTOR_LAST;
    return TINY_OK;
}
static int random_graph(tllm_actor *list, node *of, int world, int items)
{
    const int n = 3 + (int)t_rand_below(10);
    int i, k;
    memset(list, 0, (size_t)n * sizeof *list);
    for (i = 0; i < n; i++) {
        tllm_actor *a = &list[i];
        a->rank = (int)t_rand_below((uint32_t)world);
        a->thread = (int)t_rand_below(3);
        a->buffers = 1 + (int)t_rand_below(3);
        a->n_out = i == n - 1 ? 0 : 1 + (int)t_rand_below(2);
        a->bytes[0] = a->bytes[1] = 16 + 16 * t_rand_below(300);
        a->n_in = i ? 1 + (int)t_rand_below(3) : 0;
        for (k = 0; k < a->n_in; k++) {
            a->from[k] = (int)t_rand_below((uint32_t)i);
            a->output[k] = (int)t_rand_below((uint32_t)list[a->from[k]].n_out);
        }
        of[i].items = items;
        of[i].seed = i;
        of[i].n_in = a->n_in;
        of[i].n_out = a->n_out;
        of[i].number = i;
        a->act = checked;
        a->user = &of[i];
    }
    return n;
}

typedef struct graph { tllm_actor list[16]; node of[16]; int n, odd; uint64_t fired[T_NETS]; } graph;
static void run_graph(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    graph *g = (graph *)j->arg;
    tllm_actor list[16];
    tllm_actor_count count[16];
    tllm_actor_desc d;
    int i;
    memset(&d, 0, sizeof d);
    memcpy(list, g->list, sizeof list);
    if (g->odd && rank == 1) list[0].bytes[0]++;            /* another graph */
    d.actor = list;
    d.n_actor = g->n;
    d.net = net;
    j->st[rank] = tllm_actor_run(ctx, &d, count);
    for (i = 0; i < g->n && !j->st[rank]; i++) {
        g->fired[rank] += count[i].fired;
        if (list[i].rank == rank && (!count[i].ended || count[i].live > list[i].buffers)) j->st[rank] = TINY_E_NUMERIC;
    }
}
static void test_random(void)
{
    int k, r;
    for (k = 0; k < 60; k++) {
        graph g;
        t_net j;
        uint64_t sum = 0;
        const int world = 1 + k % 4;
        memset(&g, 0, sizeof g);
        memset(&j, 0, sizeof j);
        g.n = random_graph(g.list, g.of, world, 25);
        {
            tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 3);
            tllm_actor_count count[16];
            tllm_actor_desc d;
            uint64_t end, again;
            memset(&d, 0, sizeof d);
            d.actor = g.list;
            d.n_actor = g.n;
            d.latency_ns = (uint64_t)(k % 3);
            d.bits_per_second = k % 2 ? 8e9 : 0;
            T_OK(tllm_actor_simulate(ctx, &d, count, &end));
            for (r = 0; r < g.n; r++)
                if (!T_EQ_INT(count[r].fired, 25)) printf("  graph %d, actor %d of %d\n", k, r, g.n);
            T_OK(tllm_actor_simulate(ctx, &d, count, &again));
            T_EQ_INT(end, again);
            if (world == 1) {               /* and on the threads of one context */
                T_OK(tllm_actor_run(ctx, &d, count));
                for (r = 0; r < g.n; r++) T_EQ_INT(count[r].fired, 25);
            }
            t_close(ctx);
        }
        j.tcp = k % 10 == 1;
        j.body = run_graph;
        j.arg = &g;
        if (!t_net_run(&j, world)) return;
        t_net_ok(&j);
        for (r = 0; r < world; r++) sum += g.fired[r];
        if (!T_EQ_INT(sum, 25 * g.n)) printf("  graph %d over %d ranks\n", k, world);
    }
    T_PROOF("distributed 8", "random graphs with random delays never deadlock, c >= 1: clock, threads, ranks, TCP");
}

/* A rank that stops early, and inputs of different lengths, over ranks. */
static void test_ends(void)
{
    int k, tcp;
    for (tcp = 0; tcp < 2; tcp++)
        for (k = 0; k < 2; k++) {
            graph g;
            t_net j;
            int n = 50;
            memset(&g, 0, sizeof g);
            memset(&j, 0, sizeof j);
            g.n = 3;
            chain(g.list, 3, NULL, 2, &n, 1);
            if (k == 0) g.list[2].act = stops;
            else {                          /* actor 1 reads a source of 50 and one of 7 */
                static node of[3] = { { 50, 0, 0, 1, 0 }, { 7, 1, 0, 1, 1 }, { 0, 2, 2, 0, 2 } };
                int i;
                for (i = 0; i < 3; i++) {
                    g.list[i].act = checked;
                    g.list[i].user = &of[i];
                    g.list[i].n_in = of[i].n_in;
                    g.list[i].n_out = of[i].n_out;
                    g.list[i].bytes[0] = 16;
                }
                g.list[2].from[0] = 0;
                g.list[2].from[1] = 1;
            }
            j.tcp = tcp;
            j.body = run_graph;
            j.arg = &g;
            if (!t_net_run(&j, 3)) return;
            t_net_ok(&j);
            T_EQ_INT(g.fired[2], k ? 7 : 4);
            T_TRUE(g.fired[0] <= (uint64_t)(k ? 7 + 4 : 4 + 8));
        }
}

/* ---- faults and bad input ---------------------------------------------------------------------------------------- */

static tiny_status breaks(tllm_actor_call *c) { return c->item == 5 ? TINY_E_IO : pass(c); }
static void test_faults(void)
{
    graph g;
    t_net j;
    int n = 50, i;
    memset(&g, 0, sizeof g);
    g.n = 3;
    for (i = 0; i < 8; i++) {               /* rank 1 is killed at its message i to rank 0 or 2 */
        memset(&j, 0, sizeof j);
        chain(g.list, 3, NULL, 2, &n, 1);
        j.body = run_graph;
        j.arg = &g;
        j.has_fault = 1;
        j.fault.to = i % 2 ? 2 : 0;
        j.fault.message = (uint64_t)i;
        j.fault.kind = i < 6 ? TINY_FAULT_KILL : TINY_FAULT_TWICE;
        if (!t_net_run(&j, 3)) return;
        T_TRUE(j.st[1] != TINY_OK && j.st[2] != TINY_OK);
        /* an item that is announced twice may be found as late as at the end, when rank 0 is done */
        if (i < 7) T_TRUE(j.st[0] != TINY_OK);
        if (i < 6) T_EQ_INT(j.st[1], TINY_E_PEER);
    }
    memset(&j, 0, sizeof j);
    chain(g.list, 3, NULL, 2, &n, 1);
    g.list[1].act = breaks;
    j.body = run_graph;
    j.arg = &g;
    if (!t_net_run(&j, 3)) return;
    T_EQ_INT(j.st[1], TINY_E_IO);
    T_TRUE(strstr(j.says[1], "actor 1 failed at its call 5") != NULL);
    T_EQ_INT(j.st[0], TINY_E_PEER);
    T_EQ_INT(j.st[2], TINY_E_PEER);
    chain(g.list, 3, NULL, 2, &n, 1);
    g.odd = 1;
    memset(&j, 0, sizeof j);
    j.body = run_graph;
    j.arg = &g;
    if (!t_net_run(&j, 3)) return;
    for (i = 0; i < 3; i++) T_TRUE(j.st[i] == TINY_E_PROTOCOL || j.st[i] == TINY_E_PEER);
    T_TRUE(j.st[0] == TINY_E_PROTOCOL || j.st[1] == TINY_E_PROTOCOL);
    T_PROOF("distributed 8", "bad input: killed rank, failing actor, another graph, a repeated message");
}
/* Rank 1 reads what rank 0 announces, and answers with a frame that no reader sends at that time. */
typedef struct lie { graph g; int kind, edge, arg, times; tiny_idx done; } lie;
static tiny_status whole(tiny_net *net, int out, unsigned char *bytes)
{
    tiny_message m;
    tiny_status st = TINY_OK;
    memset(&m, 0, sizeof m);
    m.tag = 256;                            /* a frame of the first call */
    m.data = bytes;
    m.n = 20;
    while (!st && !m.whole) {
        const uint64_t seen = net->changes(net);
        st = out ? net->send(net, 0, &m) : net->recv(net, 0, &m);
        if (!st && !m.whole) net->pause(net, seen, tiny_now_ns() + 1000000);
    }
    return st;
}
static void liar(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    lie *l = (lie *)j->arg;
    unsigned char frame[20];                /* hash, kind, edge, buffer */
    tllm_actor_desc d;
    int k;
    if (!rank) {
        memset(&d, 0, sizeof d);
        d.actor = l->g.list;
        d.n_actor = l->g.n;
        d.net = net;
        j->st[0] = tllm_actor_run(ctx, &d, NULL);
        __atomic_store_n(&l->done, 1, __ATOMIC_RELEASE);
        return;
    }
    j->st[1] = whole(net, 0, frame);
    memset(frame + 8, 0, 12);
    frame[8] = (unsigned char)l->kind;
    frame[12] = (unsigned char)l->edge;
    frame[16] = (unsigned char)l->arg;
    for (k = 0; k < l->times && !j->st[1]; k++) j->st[1] = whole(net, 1, frame);
    while (!__atomic_load_n(&l->done, __ATOMIC_ACQUIRE))
        net->pause(net, net->changes(net), tiny_now_ns() + 1000000);
}
static void test_liar(void)
{
    enum { READY, RELEASE, END, STOP, PULL, DATA, FIN };
    static const struct { int kind, edge, arg, times; } of[] = {
        { FIN, 0, 0, 1 },  { PULL, 0, 2, 1 },  { PULL, 7, 0, 1 },    { PULL, 0, 0, 2 }, { DATA, 0, 0, 1 },
        { STOP, 0, 0, 2 }, { READY, 0, 0, 1 }, { RELEASE, 0, 0, 1 }, { END, 0, 0, 1 },  { 99, 0, 0, 1 } };
    static const uint64_t ns[2] = { 1, 1 };
    size_t i;
    for (i = 0; i < T_COUNT(of); i++) {
        static int n = 50;
        lie l;
        t_net j;
        memset(&l, 0, sizeof l);
        memset(&j, 0, sizeof j);
        l.g.n = 2;
        chain(l.g.list, 2, ns, 2, &n, 1);
        l.kind = of[i].kind;
        l.edge = of[i].edge;
        l.arg = of[i].arg;
        l.times = of[i].times;
        j.body = liar;
        j.arg = &l;
        if (!t_net_run(&j, 2)) return;
        if (!T_EQ_INT(j.st[0], TINY_E_PROTOCOL)) printf("  frame %d: %s\n", (int)i, j.says[0]);
        T_TRUE(strstr(j.says[0], "that does not fit") != NULL);
    }
    T_PROOF("distributed 8", "bad input: frames that no reader sends end the run of the other rank");
}
static void silent(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    graph *g = (graph *)j->arg;
    tllm_actor_desc d;
    memset(&d, 0, sizeof d);
    d.actor = g->list;
    d.n_actor = g->n;
    d.net = net;
    d.timeout_ns = 20000000;
    if (rank) {                             /* it never begins: ten times as long as the other waits */
        int k;
        for (k = 0; k < 10; k++) net->pause(net, net->changes(net), tiny_now_ns() + d.timeout_ns);
    } else j->st[rank] = tllm_actor_run(ctx, &d, NULL);
}
static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_actor list[2];
    tllm_actor_desc d;
    int n = 3;
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_actor_run(ctx, NULL, NULL), TINY_E_ARGUMENT, "needs their list");
    T_STATUS(tllm_actor_simulate(ctx, &d, NULL, NULL), TINY_E_ARGUMENT, "needs their list");
    d.actor = list;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "0 actors");
    d.n_actor = 2;
    d.bits_per_second = -1;
    chain(list, 2, NULL, 1, &n, 0);
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "links of -1 bits");
    d.bits_per_second = 0;
    list[1].rank = 1;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "actor 1 is on rank 1 of 1");
    list[1].rank = 0;
    list[1].thread = -1;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "on thread -1");
    list[1].thread = 0;
    list[1].n_in = 5;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "has 5 inputs and 0 outputs");
    list[1].n_in = 1;
    list[1].buffers = -1;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "has -1 buffers");
    list[1].buffers = 0;
    list[1].from[0] = 1;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "is actor 1, which is not an earlier one");
    list[1].from[0] = 0;
    list[1].output[0] = 1;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "actor 0 has no output 1");
    list[1].output[0] = 0;
    list[1].act = NULL;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_ARGUMENT, "actor 1 has no function");
    list[1].act = breaks;
    list[0].bytes[0] = SIZE_MAX;
    T_STATUS(tllm_actor_run(ctx, &d, NULL), TINY_E_OVERFLOW, "more than this machine");
    T_TRUE(tllm_actor_memory(&d, 0) == SIZE_MAX);
    list[0].bytes[0] = 4;
    n = 50;
    T_STATUS(tllm_actor_simulate(ctx, &d, NULL, NULL), TINY_E_IO, "actor 1 failed at its call 5");
    t_close(ctx);
    {
        graph g;
        t_net j;
        memset(&g, 0, sizeof g);
        memset(&j, 0, sizeof j);
        g.n = 2;
        chain(g.list, 2, NULL, 1, &n, 1);
        j.body = silent;
        j.arg = &g;
        if (t_net_run(&j, 2)) {
            T_TRUE(j.st[0] == TINY_E_TIMEOUT || j.st[0] == TINY_E_PEER);
            if (j.st[0] == TINY_E_TIMEOUT) T_TRUE(strstr(j.says[0], "waited for another rank's actors") != NULL);
        }
    }
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        ctx = NULL;
        if (!tiny_ctx_open(&desc, &ctx)) {
            n = 3;
            chain(list, 2, NULL, 1, &n, 0);
            (void)tllm_actor_run(ctx, &d, NULL);
            (void)tllm_actor_simulate(ctx, &d, NULL, NULL);
        }
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN(test_worked);
    T_RUN(test_pressure);
    T_RUN(test_random);
    T_RUN(test_ends);
    T_RUN(test_faults);
    T_RUN(test_liar);
    T_RUN(test_bad);
    return t_done();
}
