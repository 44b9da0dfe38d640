/* tests/llm/dist/ring.c - a model over the ranks of a ring, whole or from disk, over threads and TCP
 *
 * Truth    the bits of one process: logits of a prompt in pieces and of steps; the text of a session; the formula of
 *          messages and bytes; on the virtual clock the time of tllm_ring_simulate. */
#include "t.h"

static const char story[] = "examples/models/story.gguf", secret[] = "correct horse battery staple";
enum { MOST = 3, STEPS = 6, PROMPT = 40, BATCH = 16, TOKENS = 24 };

typedef struct told {
    int world, window, virtual_clock, tcp;
    tiny_idx layers[MOST], other[MOST];     /* other: what rank 1 believes, if not 0 */
    int stop_at, absent, n_batch, kill_at;  /* kill_at: 1 + the message that rank 1 sends no more */
    double layer_ns[MOST];
    uint64_t timeout;
    tiny_local *local;
    tiny_socket at[MOST];
    char address[MOST][TINY_ADDRESS_TEXT];
    tiny_status st[MOST];
    char says[MOST][400], text[400];
    size_t n_text;
    float *logits;                          /* of rank 0: (1 + STEPS, n_out) */
    tllm_ring *ring;                        /* of rank 0 */
    uint64_t clock;                         /* of the steps */
    tllm_ring_counts count[MOST];
    tllm_disk_about disk[MOST];
} told;

static int append(void *user, const char *bytes, size_t n)
{
    told *t = (told *)user;
    if (t->n_text + n < sizeof t->text) { memcpy(t->text + t->n_text, bytes, n); t->n_text += n; }
    return 0;
}
static int stop(void *user, tllm_ring *ring)
{
    (void)ring;
    return --*(int *)user <= 0;
}

/* the logits of a prompt and of steps, and the text of a session, by any model */
static tiny_status lead(tiny_ctx *ctx, tllm_model *m, told *t)
{
    tllm_generate_desc g;
    tllm_state_desc sd;
    tllm_session *s = NULL;
    tllm_about about;
    int32_t token[PROMPT];
    const float *logits;
    int i;
    tiny_status st;
    memset(&sd, 0, sizeof sd);
    memset(&g, 0, sizeof g);
    tllm_model_about(m, &about);
    for (i = 0; i < PROMPT; i++) token[i] = (int32_t)((i * 37 + 5) % about.n_vocab);
    sd.n_ctx = 128;
    sd.n_batch = t->n_batch ? t->n_batch : BATCH;
    st = tllm_session_over(ctx, m, &sd, &s);
    for (i = 0; i <= STEPS && !st; i++) {
        if (i == 1) t->clock = tllm_ring_clock(t->ring);
        st = tllm_session_feed(s, token + i, i ? 1 : PROMPT, &logits);
        if (!st) memcpy(t->logits + i * about.n_out, logits, (size_t)about.n_out * sizeof *logits);
    }
    t->clock = tllm_ring_clock(t->ring) - t->clock;
    if (!st) st = tllm_session_trim(s, 3);  /* the others must drop these tokens too */
    if (!st) st = tllm_session_feed(s, token + 9, 1, &logits);
    if (!st) memcpy(t->logits + (STEPS + 1) * about.n_out, logits, (size_t)about.n_out * sizeof *logits);
    g.n_most = TOKENS;
    g.text = append;
    g.user = t;
    if (!st) st = tllm_generate(s, "Once upon a time", 16, &g, NULL);
    tllm_session_close(s);
    return st;
}

static void on_rank(int rank, void *arg)
{
    told *t = (told *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tllm_disk_desc dd;
    tllm_ring_desc rd;
    tiny_tcp_desc td;
    tllm_gguf *file = NULL;
    tllm_model *m = NULL;
    tllm_disk *disk = NULL;
    tllm_ring *ring = NULL;
    tiny_tcp *tcp = NULL;
    tiny_fault *fault = NULL;
    tiny_fault_at kill;
    tiny_fault_desc fd;
    const char *peers[MOST];
    int i, left = t->stop_at;
    tiny_status st;
    memset(&dd, 0, sizeof dd);
    memset(&rd, 0, sizeof rd);
    memset(&td, 0, sizeof td);
    for (i = 0; i < MOST; i++) peers[i] = t->address[i];
    rd.layers = rank == 1 && t->other[0] ? t->other : t->layers;
    dd.path = story;
    dd.window = t->window;
    dd.layers = rd.layers;
    dd.rank = rank;
    dd.world = t->world;
    if (t->window) {
        st = tllm_disk_open(ctx, &dd, &disk);
        m = tllm_disk_model(disk);
    } else {
        st = tllm_file_open(ctx, story, &file);
        if (!st) st = tllm_model_open(ctx, file, &m);
    }
    if (t->tcp) {
        td.rank = rank;
        td.world = t->world;
        td.peers = peers;
        td.listener = t->at[rank];
        td.secret = secret;
        td.n_secret = sizeof secret - 1;
        if (!st) st = tiny_tcp_open(ctx, &td, &tcp);
        rd.net = tiny_tcp_net(tcp);
    } else rd.net = tiny_local_net(t->local, rank);
    if (!st && t->kill_at && rank == 1) {
        memset(&fd, 0, sizeof fd);
        kill.to = -1;
        kill.message = (uint64_t)t->kill_at - 1;
        kill.kind = TINY_FAULT_KILL;
        kill.by = 0;
        fd.inner = rd.net;
        fd.at = &kill;
        fd.n_at = 1;
        st = tiny_fault_open(ctx, &fd, &fault);
        rd.net = tiny_fault_net(fault);
    }
    rd.model = m;
    rd.n_ctx = 128;
    rd.n_batch = BATCH;
    rd.timeout_ns = t->timeout ? t->timeout : UINT64_C(60000000000);
    rd.layer_ns = t->layer_ns[rank];
    if (!st && t->absent == rank && rank) st = TINY_E_CANCELLED;
    else if (!st) st = tllm_ring_open(ctx, &rd, &ring);
    if (!rank) t->ring = ring;
    if (!st && !rank) st = lead(ctx, m, t);
    if (!st) st = rank ? tllm_ring_follow(ring, t->stop_at && rank == 1 ? stop : NULL, &left) : tllm_ring_stop(ring);
    t->st[rank] = st;
    t->count[rank] = tllm_ring_count(ring);
    tllm_disk_look(disk, &t->disk[rank]);
    (void)snprintf(t->says[rank], sizeof t->says[rank], "%s", tiny_ctx_message(ctx));
    tllm_ring_close(ring);
    if (rd.net) rd.net->close(rd.net);
    if (disk) tllm_disk_close(disk);
    else tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, file);
    tiny_fault_close(ctx, fault);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}

static told alone;
static tiny_idx n_out, n_embd;

static int over(told *t)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc line;
    tiny_address address;
    int i, n = 0, ok;
    memset(&line, 0, sizeof line);
    line.world = t->world;
    line.virtual_clock = t->virtual_clock;
    if (t->virtual_clock) {
        line.latency_ns = 1000000;
        line.bits_per_second = 1e8;
    }
    t->logits = t_guarded((size_t)(STEPS + 2) * (size_t)n_out);
    for (i = 0; i < t->world && t->tcp; i++) {
        tiny_socket at[TINY_ADDRESSES];
        T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n));
        t->at[i] = at[0];
        T_OK(tiny_socket_address(ctx, at[0], &address));
        tiny_address_text(&address, t->address[i]);
    }
    T_OK(tiny_local_open(ctx, &line, &t->local));
    ok = t_ranks(t->world, on_rank, t);
    tiny_local_close(ctx, t->local);
    for (i = 0; i < t->world && t->tcp; i++) tiny_socket_close(t->at[i]);
    t_close(ctx);
    return ok;
}
static void same(const told *t)
{
    int i;
    for (i = 0; i < t->world; i++)
        if (!T_EQ_INT(t->st[i], TINY_OK)) printf("  rank %d: %s\n", i, t->says[i]);
    T_SAME(t->logits, alone.logits, (STEPS + 2) * n_out);
    T_EQ_TEXT(t->text, alone.text);
}
static void one_process(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_about about;
    tllm_gguf *file;
    tllm_model *m;
    T_OK(tllm_file_open(ctx, story, &file));
    T_OK(tllm_model_open(ctx, file, &m));
    tllm_model_about(m, &about);
    n_out = about.n_out;
    n_embd = about.n_embd;
    memset(&alone, 0, sizeof alone);
    alone.logits = t_guarded((size_t)(STEPS + 2) * (size_t)n_out);
    T_OK(lead(ctx, m, &alone));
    T_TRUE(alone.n_text > 40);
    T_EQ_INT(about.n_layer, 4);
    tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
}

static void test_threads(void)
{
    static const tiny_idx layers[][MOST] = { { 2, 2 }, { 1, 1 }, { 3, 1 }, { 1, 3 }, { 1, 2, 1 }, { 1, 1, 2 } };
    size_t k;
    one_process();
    for (k = 0; k < T_COUNT(layers); k++) {
        const tiny_idx world = layers[k][2] ? 3 : 2, W = layers[k][0] + layers[k][1] + layers[k][2];
        const uint64_t rounds = (uint64_t)(4 / W);
        told t;
        int r;
        memset(&t, 0, sizeof t);
        t.world = (int)world;
        t.window = k % 2 ? (int)(1 + k / 2) : 0;        /* every other one from disk */
        memcpy(t.layers, layers[k], sizeof t.layers);
        if (!over(&t)) return;
        same(&t);
        for (r = 0; r < t.world; r++) {
            T_EQ_INT((intmax_t)t.count[r].pieces, (intmax_t)t.count[0].pieces);
            /* a piece without results ends in the last layer, whose state then goes nowhere */
            T_TRUE(t.count[r].hops <= rounds * t.count[r].pieces && t.count[r].hops + 8 >= rounds * t.count[r].pieces);
            if (t.window) T_EQ_INT((intmax_t)t.disk[r].loader.peak, (intmax_t)t.disk[r].window_bytes);
        }
    }
    T_PROOF("distributed 1", "ring: text and logits of one process, 2 and 3 ranks, windows and rounds, over threads");
}

static void test_tcp(void)
{
    told t;
    one_process();
    memset(&t, 0, sizeof t);
    t.tcp = 1;
    t.world = 2;
    t.layers[0] = t.layers[1] = 1;
    if (!over(&t)) return;
    same(&t);
    memset(&t, 0, sizeof t);
    t.tcp = 1;
    t.world = 3;
    t.window = 2;
    t.layers[0] = t.layers[2] = 1;
    t.layers[1] = 2;
    if (!over(&t)) return;
    same(&t);
    T_PROOF("distributed 1", "ring: the same over TCP, with layers read from disk");
}

static void test_clock(void)
{
    tllm_ring_device d[MOST];
    tiny_ctx *ctx;
    double s[STEPS];
    told t;
    int i;
    one_process();
    memset(&t, 0, sizeof t);
    memset(d, 0, sizeof d);
    t.world = 3;
    t.virtual_clock = 1;
    t.layers[0] = t.layers[1] = 1;
    t.layers[2] = 2;
    t.layer_ns[0] = 3e6;
    t.layer_ns[1] = 5e6;
    t.layer_ns[2] = 11e6;
    for (i = 0; i < 3; i++) {
        d[i].window = t.layers[i];
        d[i].layer_s = 1e-9 * t.layer_ns[i];
    }
    if (!over(&t)) return;
    same(&t);
    ctx = t_ctx(TINY_TARGET_AUTO, 1);       /* a hop: 1 ms, and the hidden state of a token at 100 Mbit/s */
    T_OK(tllm_ring_simulate(ctx, d, 3, 1, 0.001 + 4.0 * (double)n_embd * 8 / 1e8, 0.0, s, STEPS));
    T_CLOSE(1e-9 * (double)t.clock, s[STEPS - 1], 1e-6);
    T_TRUE(s[0] > 0.033 && s[0] < 0.034);
    t_close(ctx);
    T_PROOF("distributed 1", "ring: time on the virtual clock equals the simulator");
}

static void test_failures(void)
{
    tiny_ctx *ctx;
    tllm_ring_desc d;
    tllm_ring *ring;
    told t;
    int i;
    one_process();
    memset(&t, 0, sizeof t);                /* ranks that do not agree */
    t.world = 3;
    t.layers[0] = t.layers[1] = 1;
    t.layers[2] = 2;
    t.other[0] = t.other[2] = 1;
    t.other[1] = 2;
    if (!over(&t)) return;
    for (i = 0; i < 3; i++) T_TRUE(t.st[i] != TINY_OK);
    T_TRUE(strstr(t.says[1], "rank 1 has another list of layers") != NULL);
    t.other[0] = 0;                         /* a rank that never comes, and then one that goes */
    t.absent = 2;
    if (!over(&t)) return;
    for (i = 0; i < 3; i++) T_TRUE(t.st[i] != TINY_OK);
    t.absent = 0;
    t.stop_at = 4;
    if (!over(&t)) return;
    for (i = 0; i < 3; i++) T_TRUE(t.st[i] != TINY_OK);
    T_EQ_INT(t.st[1], TINY_E_CANCELLED);
    T_TRUE(t.st[0] == TINY_E_PEER && t.st[2] == TINY_E_PEER);
    t.stop_at = 0;
    for (t.kill_at = 1; t.kill_at < 9; t.kill_at++) {       /* rank 1 is killed at each of its first messages */
        if (!over(&t)) return;
        for (i = 0; i < 3; i++) T_TRUE(t.st[i] != TINY_OK);
    }
    t.kill_at = 0;
    t.n_batch = 2 * BATCH;                  /* pieces that are larger than those of the others */
    if (!over(&t)) return;
    T_EQ_INT(t.st[0], TINY_E_UNSUPPORTED);
    T_TRUE(strstr(t.says[0], "up to 16 tokens of sequence 0") != NULL);
    for (i = 1; i < 3; i++) T_TRUE(t.st[i] != TINY_OK);
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    {
        static const tiny_idx three[2] = { 2, 1 }, two[2] = { 3, 1 }, all[1] = { 4 };
        tiny_local_desc line;
        tiny_local *local;
        tllm_gguf *file;
        tllm_model *m;
        memset(&d, 0, sizeof d);
        memset(&line, 0, sizeof line);
        T_OK(tllm_file_open(ctx, story, &file));
        T_OK(tllm_model_open(ctx, file, &m));
        line.world = 2;
        T_OK(tiny_local_open(ctx, &line, &local));
        T_STATUS(tllm_ring_open(ctx, &d, &ring), TINY_E_ARGUMENT, "needs a model");
        d.model = m;
        d.net = tiny_local_net(local, 0);
        d.layers = three;
        T_STATUS(tllm_ring_open(ctx, &d, &ring), TINY_E_SHAPE, "whole rounds of 3 layers");
        d.layer_ns = -1;
        d.layers = two;
        T_STATUS(tllm_ring_open(ctx, &d, &ring), TINY_E_ARGUMENT, "out of range");
        d.layer_ns = 0;
        tiny_local_close(ctx, local);
        line.world = 1;
        T_OK(tiny_local_open(ctx, &line, &local));
        d.net = tiny_local_net(local, 0);
        d.layers = all;
        T_OK(tllm_ring_open(ctx, &d, &ring));
        {
            tllm_ring *second;
            T_STATUS(tllm_ring_open(ctx, &d, &second), TINY_E_ARGUMENT, "in a ring already");
        }
        T_STATUS(tllm_ring_follow(ring, NULL, NULL), TINY_E_ARGUMENT, "cannot follow");
        T_OK(tllm_ring_stop(ring));
        tllm_ring_close(ring);
        tiny_local_close(ctx, local);
        tllm_model_close(ctx, m);
        tllm_gguf_close(ctx, file);
    }
    T_TRUE(tllm_ring_stop(NULL) == TINY_E_ARGUMENT && tllm_ring_follow(NULL, NULL, NULL) == TINY_E_ARGUMENT);
    T_TRUE(!tllm_ring_count(NULL).pieces && !tllm_ring_clock(NULL));
    tllm_ring_close(NULL);
    t_close(ctx);
}

/* ---- a rank 0 that lies ------------------------------------------------------------------------------------------ */

typedef struct lie { uint32_t kind, n, rows; uint64_t pos, held; int sends; float x; } lie;
typedef struct lies { tiny_local *local; lie what; tiny_status st; char says[300]; } lies;
static void put(unsigned char *p, uint64_t v, int n)
{
    int i;
    for (i = 0; i < n; i++) p[i] = (unsigned char)(v >> 8 * i);
}
static void raw(tiny_net *net, unsigned kind, void *data, size_t n)
{
    tiny_message m;
    memset(&m, 0, sizeof m);
    m.tag = (uint64_t)kind << 8 | 251;
    m.data = data;
    m.n = n;
    while (!m.whole) if (net->send(net, 1, &m)) return;
}
static void lying(int rank, void *arg)
{
    static const tiny_idx layers[2] = { 2, 2 };
    lies *l = (lies *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_net *net = tiny_local_net(l->local, rank);
    tllm_ring_desc d;
    tllm_gguf *file = NULL;
    tllm_model *m = NULL;
    tllm_ring *ring = NULL;
    unsigned char head[32];
    float *x = (float *)calloc((size_t)n_embd, sizeof *x);
    tiny_status st = tllm_file_open(ctx, story, &file);
    if (!st) st = tllm_model_open(ctx, file, &m);
    memset(&d, 0, sizeof d);
    memset(head, 0, sizeof head);
    d.model = m;
    d.net = net;
    d.layers = layers;
    d.n_ctx = 64;
    d.n_batch = BATCH;
    d.timeout_ns = UINT64_C(60000000000);
    if (!st) st = tllm_ring_open(ctx, &d, &ring);
    if (!st && rank) {
        l->st = tllm_ring_follow(ring, NULL, NULL);
        (void)snprintf(l->says, sizeof l->says, "%s", tiny_ctx_message(ctx));
    } else if (!st) {
        put(head, l->what.kind, 4);
        put(head + 4, l->what.n, 4);
        put(head + 8, l->what.rows, 4);
        put(head + 16, l->what.pos, 8);
        put(head + 24, l->what.held, 8);
        raw(net, 1, head, sizeof head);
        x[3] = l->what.x;
        if (l->what.sends) raw(net, 16 + 2, x, (size_t)n_embd * sizeof *x);
    }
    net->close(net);
    tllm_ring_close(ring);
    tllm_model_close(ctx, m);
    tllm_gguf_close(ctx, file);
    tiny_ctx_close(ctx);
    free(x);
}
static void test_lies(void)
{
    static const lie all[] = { { 9, 1, 1, 0, 0, 0, 0 },          { 1, 0, 0, 0, 0, 0, 0 },
                               { 1, BATCH + 1, 1, 0, 0, 0, 0 },  { 1, UINT32_MAX, 1, 0, 0, 0, 0 },
                               { 1, 1, 2, 0, 0, 0, 0 },          { 1, 1, 1, UINT64_MAX, 0, 0, 0 },
                               { 1, 1, 1, 0, 5, 0, 0 },          { 1, 1, 1, 0, UINT64_MAX, 0, 0 },
                               { 1, 1, 1, 0, 0, 1, NAN },        { 1, 1, 1, 0, 0, 1, INFINITY } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t k;
    for (k = 0; k < T_COUNT(all); k++) {
        tiny_local_desc line;
        lies l;
        memset(&line, 0, sizeof line);
        memset(&l, 0, sizeof l);
        line.world = 2;
        l.what = all[k];
        T_OK(tiny_local_open(ctx, &line, &l.local));
        if (!t_ranks(2, lying, &l)) { tiny_local_close(ctx, l.local); break; }
        tiny_local_close(ctx, l.local);
        if (!T_EQ_INT(l.st, TINY_E_PROTOCOL) ||
            !T_TRUE(strstr(l.says, all[k].sends ? "not finite" : "a piece that there is not") != NULL))
            printf("  lie %d: %s\n", (int)k, l.says);
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_threads);
    T_RUN(test_tcp);
    T_RUN(test_clock);
    T_RUN(test_failures);
    T_RUN(test_lies);
    return t_done();
}
