/* tests/llm/serve/handover.c - prompts read by one worker and continued by another
 *
 * Truth    each request alone in one engine of this process, token by token; the bytes of keys and values by the shape
 *          of the model, 2 * layers * heads * width * 4 for a token, and the frame around them. */
#include "t.h"
#include <math.h>

static const char story[] = "examples/models/story.gguf";       /* llama, 544 tokens, a context of 256 */
enum { RANKS = 4, N = 10, MOST = 24, HEAD = 56 };
enum { ONE_NET, PAIRS, TCP };

typedef struct ask { tllm_desk_request r; int32_t prompt[128], want[MOST], got[MOST]; size_t n_want, n; } ask;

/* a run: rank 0 is the desk, rank i + 1 is worker i */
typedef struct job {
    int net, world, role[RANKS];
    int dies;                               /* 1 + the worker that goes when the first text is given to it */
    int wrong;                              /* 1 + the worker that then sends noise instead */
    int slots, cells, n, cancels, codec;
    const tllm_kvcodec_tables *tables;      /* of all workers */
    tiny_net *to[RANKS][RANKS];
    char text[RANKS][TINY_ADDRESS_TEXT];
    const char *peers[RANKS];
    tiny_socket at[RANKS][TINY_ADDRESSES];
    tiny_status st[RANKS];
    char says[RANKS][240];
    int ends, tries, failed, cancelled, alive, plans, decoded[RANKS], bad;
    char why[240];
    tllm_hand_counters count[RANKS];
} job;
static ask asked[N];

static int on_token(void *user, uint64_t id, size_t index, int32_t token)
{
    ask *a = (ask *)user;
    (void)id;
    if (index != a->n || index >= MOST) return 1;
    a->got[a->n++] = token;
    return 0;
}
static const int by_length[N] = { 7, 3, 0, 6, 2, 4, 9, 8, 1, 5 };
static job *running;
static void on_end(void *user, const tllm_desk_result *r)
{
    job *j = running;
    (void)user;
    j->ends++;
    j->tries += r->tries;
    j->failed += r->status != TINY_OK;
    j->cancelled += !r->status && r->end == TLLM_END_CALLER;
    j->bad += r->first_seconds > r->seconds || (!r->status && r->n_made != ((ask *)r->user)->n);
    if (r->decode >= 0) j->decoded[r->decode]++;
    if (r->status) (void)snprintf(j->why, sizeof j->why, "%s", r->error);
}
static void on_plan(void *user, tllm_desk *desk, const tllm_desk_load *now, const tllm_desk_load *plan)
{
    job *j = (job *)user;
    j->plans++;
    j->bad += now->prompt < 1.0 || plan->prompt < 1.0 || tllm_desk_role(desk, 0, TLLM_HAND_DECODE) != TINY_OK ||
              tllm_desk_role(desk, 1, TLLM_HAND_PREFILL) != TINY_OK;
}

static tiny_status desk(tiny_ctx *ctx, job *j, const tllm_hand_link *link)
{
    tllm_desk_desc d;
    tllm_desk *k = NULL;
    uint64_t id = 0;
    int i, more = 1;
    tiny_status st;
    memset(&d, 0, sizeof d);
    d.worker = link + 1;
    d.role = j->role;
    d.n_worker = j->world - 1;
    d.replan = j->plans ? on_plan : NULL;
    d.user = j;
    d.window = 2;
    d.most = j->plans;
    d.codec = j->codec;
    st = tllm_desk_open(ctx, &d, &k);
    for (i = 0; i < j->n && !st; i++) st = tllm_desk_submit(k, &asked[j->plans ? by_length[i] : i].r, &id);
    if (!st && j->cancels) st = tllm_desk_cancel(k, id);
    while (!st && more) st = tllm_desk_step(k, &more);
    for (i = 0; i < d.n_worker; i++) j->alive += tllm_desk_alive(k, i);
    tllm_desk_close(k);
    return st;
}

/* Takes the head and the body of a text that is to be continued, asks for nothing, and goes. */
static tiny_status lose(job *j, tiny_net *net, tiny_ctx *ctx, int noise)
{
    static unsigned char head[HEAD], body[1024];
    tiny_message m;
    tiny_status st = TINY_OK;
    int part;
    for (part = 0; part < 2 && !st; part++) {
        memset(&m, 0, sizeof m);
        m.tag = UINT64_C(0x68616e6400) + (uint64_t)part;
        m.data = part ? body : head;
        m.n = part ? (size_t)head[16] + 256u * head[17] : (size_t)HEAD;
        while (!st && !m.whole) {
            const uint64_t seen = net->changes(net);
            st = net->recv(net, 0, &m);
            if (!st && !m.whole) net->pause(net, seen, tiny_now_ns() + 1000000);
        }
    }
    if (head[4] != 3) j->bad++;             /* TAKE */
    memset(&m, 0, sizeof m);
    memset(head, 7, sizeof head);
    m.tag = UINT64_C(0x68616e6400);
    m.data = head;
    m.n = HEAD;
    if (noise) while (!st && !m.whole) st = net->send(net, 0, &m);
    (void)ctx;
    return st;
}

static tiny_status worker(tiny_ctx *ctx, job *j, const tllm_hand_link *link, int me)
{
    tllm_engine_desc ed;
    tllm_hand_desc d;
    tllm_engine *e = NULL;
    tllm_hand *h = NULL;
    tiny_status st;
    memset(&ed, 0, sizeof ed);
    memset(&d, 0, sizeof d);
    ed.slots = j->slots;
    ed.cells = j->cells;
    ed.context = 160;
    ed.exact = 1;
    st = tllm_engine_open_file(ctx, story, &ed, &e);
    d.engine = e;
    d.desk = link[0];
    d.peer = link + 1;
    d.n_peer = j->world - 1;
    d.me = me;
    d.tables = j->tables;
    if (!st) st = tllm_hand_open(ctx, &d, &h);
    if (!st) st = tllm_hand_run(h);
    tllm_hand_count(h, &j->count[me]);
    tllm_hand_close(h);
    tllm_engine_close(e);
    return st;
}

static void rank_of(int rank, void *arg)
{
    job *j = (job *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tllm_hand_link link[RANKS];
    tiny_tcp *tcp = NULL;
    int i;
    memset(link, 0, sizeof link);
    if (j->net == TCP) {
        tiny_tcp_desc d;
        memset(&d, 0, sizeof d);
        d.rank = rank;
        d.world = j->world;
        d.peers = j->peers;
        d.listener = j->at[rank][0];
        d.secret = "sixteen bytes 16";
        d.n_secret = 16;
        j->st[rank] = tiny_tcp_open(ctx, &d, &tcp);
    }
    for (i = 0; i < j->world; i++) {
        link[i].net = i == rank ? NULL : tcp ? tiny_tcp_net(tcp) : j->to[rank][i];
        link[i].rank = j->net == PAIRS ? rank < i : i;
    }
    if (!j->st[rank]) {
        if (!rank) j->st[0] = desk(ctx, j, link);
        else if (j->dies == rank || j->wrong == rank) j->st[rank] = lose(j, link[0].net, ctx, j->wrong == rank);
        else j->st[rank] = worker(ctx, j, link, rank - 1);
    }
    (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", ctx ? tiny_ctx_message(ctx) : "");
    for (i = 0; i < j->world; i++) if (link[i].net && !tcp) link[i].net->close(link[i].net);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}

static int run(job *j)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local *local[RANKS][RANKS];
    tiny_local_desc d;
    int i, k, ran;
    memset(local, 0, sizeof local);
    memset(&d, 0, sizeof d);
    running = j;
    for (i = 0; i < N; i++) asked[i].n = 0;
    for (i = 0; i < j->world; i++) j->at[i][0] = TINY_NO_SOCKET;
    d.world = j->net == PAIRS ? 2 : j->world;
    d.queue_bytes = 4096;
    for (i = 0; i < j->world; i++)
        for (k = i + 1; k < j->world; k++) {
            tiny_local *l;
            if (j->net == TCP) continue;
            if (j->net == PAIRS || (!i && k == 1)) T_OK(tiny_local_open(ctx, &d, &local[i][k]));
            l = j->net == PAIRS ? local[i][k] : local[0][1];
            j->to[i][k] = tiny_local_net(l, j->net == PAIRS ? 0 : i);
            j->to[k][i] = tiny_local_net(l, j->net == PAIRS ? 1 : k);
        }
    for (i = 0; i < j->world && j->net == TCP; i++) {
        tiny_address a;
        int n = 0;
        T_OK(tiny_listen_at(ctx, "127.0.0.1:0", j->at[i], &n));
        T_OK(tiny_socket_address(ctx, j->at[i][0], &a));
        tiny_address_text(&a, j->text[i]);
        j->peers[i] = j->text[i];
    }
    ran = t_ranks(j->world, rank_of, j);
    for (i = 0; i < j->world; i++) {
        tiny_socket_close(j->at[i][0]);
        for (k = 0; k < j->world; k++) tiny_local_close(ctx, local[i][k]);
    }
    t_close(ctx);
    return ran;
}

/* ---- the requests, and what one engine alone makes of them ---- */

static int alone_token(void *user, const tllm_engine_token *t)
{
    ask *a = (ask *)user;
    if (a->n_want < MOST) a->want[a->n_want++] = t->token;
    return 0;
}
static void ready(void)
{
    static const size_t lengths[N] = { 60, 3, 33, 64, 17, 1, 40, 96, 5, 16 };
    tiny_ctx *ctx;
    tllm_engine_desc ed;
    tllm_engine *e;
    int i, more = 1;
    size_t k;
    if (asked[0].r.prompt) return;
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    memset(&ed, 0, sizeof ed);
    ed.slots = 1;
    ed.context = 160;
    ed.exact = 1;
    ed.forget = 1;
    T_OK(tllm_engine_open_file(ctx, story, &ed, &e));
    for (i = 0; i < N; i++) {
        ask *a = &asked[i];
        tllm_request r;
        tllm_step step[3];
        for (k = 0; k < lengths[i]; k++) a->prompt[k] = (int32_t)(3 + ((size_t)i * 131 + k * k * 7 + k * 29) % 530);
        a->r.prompt = a->prompt;
        a->r.n_prompt = lengths[i];
        a->r.n_most = i == 4 ? 1 : (size_t)(MOST - 2 * i);
        a->r.seed = 77u + (unsigned)i;
        a->r.temperature = i % 3 ? 0.9f : 0.0f;
        a->r.top_k = i % 2 ? 40 : 0;
        a->r.top_p = i % 4 == 1 ? 0.9f : 0.0f;
        a->r.past_end = i != 2;
        a->r.token = on_token;
        a->r.end = on_end;
        a->r.user = a;
        memset(&r, 0, sizeof r);
        r.prompt = a->prompt;
        r.n_prompt = a->r.n_prompt;
        r.n_most = a->r.n_most;
        r.seed = a->r.seed;
        r.past_end = a->r.past_end;
        r.n_steps = tllm_desk_chain(&a->r, step);
        r.chain = r.n_steps ? step : NULL;
        r.token = alone_token;
        r.user = a;
        T_EQ_INT(tllm_engine_submit(e, &r, NULL, NULL, 0), TINY_OK);
    }
    while (more) T_OK(tllm_engine_step(e, &more));
    tllm_engine_close(e);
    t_close(ctx);
}
static void ended(const job *j)
{
    int r;
    for (r = 0; r < j->world; r++)
        if (!T_EQ_INT(j->st[r], TINY_OK)) printf("  rank %d: %s\n", r, j->says[r]);
    T_EQ_INT(j->ends, j->n);
    T_EQ_INT(j->failed, 0);
    T_EQ_INT(j->bad, 0);
}
static void same(const job *j)
{
    int i;
    ended(j);
    for (i = 0; i < j->n - j->cancels; i++) {
        T_EQ_INT((int)asked[i].n, (int)asked[i].n_want);
        T_TRUE(!memcmp(asked[i].got, asked[i].want, asked[i].n * sizeof *asked[i].got));
    }
}
static job job_of(int net, int workers, int first, int second, int third)
{
    job j;
    memset(&j, 0, sizeof j);
    j.net = net;
    j.world = 1 + workers;
    j.role[0] = first;
    j.role[1] = second;
    j.role[2] = third;
    j.slots = 4;
    j.n = N;
    return j;
}

/* the bytes of a message with n tokens: frame, shape, positions and tokens, keys and values */
static double moved(double n, double token)
{
    const double body = 52 + 8 + n * (4 + 4 + token);
    return 192 + 8 * ceil(body / 8) + 32;
}

/* the bytes of all texts that move, and their number: one token, or an end at once, needs no second worker */
static double all_moved(tiny_ctx *ctx, uint64_t *n)
{
    tllm_gguf *file;
    tllm_model *model;
    tllm_about about;
    double token, bytes = 0;
    int i;
    T_OK(tllm_gguf_open(ctx, story, &file));
    T_OK(tllm_model_open(ctx, file, &model));
    tllm_model_about(model, &about);
    token = tllm_dist_kv((double)about.n_layer, (double)about.n_kv, (double)about.n_embd / (double)about.n_head, 4, 1);
    for (i = 0, *n = 0; i < N; i++) {
        if (asked[i].r.n_most == 1 || !asked[i].n_want) continue;
        ++*n;
        bytes += moved((double)asked[i].r.n_prompt, token);
    }
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    return bytes;
}

static void test_same(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    double want;
    uint64_t n;
    int net;
    ready();
    want = all_moved(ctx, &n);
    for (net = ONE_NET; net <= TCP; net++) {
        job j = job_of(net, 2, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, 0);
        if (!run(&j)) break;
        same(&j);
        T_EQ_INT(j.tries, N);
        T_EQ_INT((int)j.count[0].reads, N);
        T_EQ_INT(j.count[0].kept, 0);
        T_EQ_INT((int)(j.count[0].wholes + j.count[1].wholes + j.count[1].lost), 0);
        T_EQ_INT((int)j.count[1].pulled, (int)n);
        T_CLOSE((double)j.count[1].pulled_bytes, want, 0.0);
        T_TRUE(j.count[1].plain_bytes == j.count[1].pulled_bytes && !j.count[1].coded);
    }
    T_PROOF("serving 4", "runtime output equals single-process output, over threads, pairs of threads and TCP");
    T_PROOF("serving 4", "runtime: moved bytes of keys and values equal the formula and the frame of each message");
    t_close(ctx);
}

/* The first token is that of one engine alone, whatever the codec loses. */
static void begins_alike(void)
{
    int i;
    for (i = 0; i < N; i++) {
        T_TRUE(!asked[i].n == !asked[i].n_want && (!asked[i].n || asked[i].got[0] == asked[i].want[0]));
        if (asked[i].r.past_end) T_EQ_INT((int)asked[i].n, (int)asked[i].r.n_most);
    }
}
static void test_codec(void)
{
    static int32_t text[200], kept[N][MOST];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_session *s;
    tllm_kvcodec_profile *p;
    tllm_kvcodec_tables *tables;
    double want;
    uint64_t n;
    int net, i, level;
    job j;
    ready();
    want = all_moved(ctx, &n);
    for (i = 0; i < 200; i++) text[i] = 3 + (i * 37 + i * i * 11) % 530;
    T_OK(tllm_session_open(ctx, story, NULL, &s));
    T_OK(tllm_session_feed(s, text, 200, NULL));
    T_OK(tllm_kvcodec_profile_of(s, &p));
    T_OK(tllm_kvcodec_profile_session(p, s));
    T_OK(tllm_kvcodec_profile_tables(p, &tables));
    tllm_kvcodec_profile_close(p);
    tllm_session_close(s);
    for (net = PAIRS; net <= TCP; net++) {
        j = job_of(net, 2, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, 0);
        j.codec = 4;
        j.tables = tables;
        if (!run(&j)) break;
        ended(&j);
        begins_alike();
        T_EQ_INT((int)j.count[1].pulled, (int)n);
        T_TRUE(j.count[1].coded + 1 >= n && j.count[1].coded <= n);     /* one token is no smaller with it */
        T_CLOSE((double)j.count[1].plain_bytes, want, 0.0);
        T_TRUE(2 * j.count[1].pulled_bytes < j.count[1].plain_bytes);
        T_TRUE(j.count[0].gave_coded == j.count[1].coded && j.count[0].codec_seconds > 0);
        for (i = 0; i < N && net == PAIRS; i++) memcpy(kept[i], asked[i].got, sizeof kept[i]);
        /* the codec reads the same numbers everywhere: so the texts are the same over TCP */
        for (i = 0; i < N; i++) T_TRUE(!memcmp(kept[i], asked[i].got, asked[i].n * sizeof **kept));
    }
    T_PROOF("serving 4", "runtime: keys and values by CacheGen's codec, over pairs of threads and TCP: fewer bytes, "
                         "the first token of one engine alone");
    for (level = 1; level <= 4; level += 3) {           /* each text brings its tables: long ones get smaller even so */
        j = job_of(PAIRS, 2, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, 0);
        j.codec = level;
        if (!run(&j)) break;
        ended(&j);
        begins_alike();
        T_TRUE(j.count[1].coded <= j.count[1].pulled && j.count[1].pulled_bytes <= j.count[1].plain_bytes);
        T_TRUE(!!j.count[1].coded == (j.count[1].pulled_bytes < j.count[1].plain_bytes));
        T_CLOSE((double)j.count[1].plain_bytes, want, 0.0);
    }
    /* a worker dies: what the caller has stays as it is, though another try could have drawn other tokens */
    j = job_of(PAIRS, 3, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, TLLM_HAND_DECODE);
    j.codec = 4;
    j.tables = tables;
    j.dies = 2;
    if (run(&j)) {
        ended(&j);
        begins_alike();
        T_TRUE(j.alive == 2 && j.tries > N);
    }
    tllm_kvcodec_tables_close(ctx, tables);
    t_close(ctx);
}

/* an answer that was interrupted: with its tokens as the beginning it goes on as if it had not been */
static void test_begin(void)
{
    static ask a;
    static int32_t other[2] = { 9, 10 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc ed;
    tllm_engine *e;
    tllm_request r;
    tllm_step step[3];
    char says[240];
    int more = 1;
    ready();
    memset(&ed, 0, sizeof ed);
    memset(&r, 0, sizeof r);
    ed.exact = 1;
    T_OK(tllm_engine_open_file(ctx, story, &ed, &e));
    r.prompt = asked[1].prompt;             /* drawn by chance: the random numbers must be the same ones */
    r.n_prompt = asked[1].r.n_prompt;
    r.n_most = asked[1].r.n_most;
    r.seed = asked[1].r.seed;
    r.past_end = 1;
    r.n_steps = tllm_desk_chain(&asked[1].r, step);
    r.chain = step;
    r.token = alone_token;
    r.user = &a;
    r.begin = asked[1].want;
    r.n_begin = 5;
    T_EQ_INT(tllm_engine_submit(e, &r, NULL, NULL, 0), TINY_OK);
    while (more) T_OK(tllm_engine_step(e, &more));
    T_EQ_INT((int)a.n_want, (int)asked[1].n_want);
    T_TRUE(!memcmp(a.want, asked[1].want, a.n_want * sizeof *a.want));
    r.begin = other;
    r.n_begin = 2;
    r.n_most = 1;                           /* the end is where it was */
    a.n_want = 0;
    T_EQ_INT(tllm_engine_submit(e, &r, NULL, NULL, 0), TINY_OK);
    for (more = 1; more;) T_OK(tllm_engine_step(e, &more));
    T_TRUE(a.n_want == 1 && a.want[0] == 9);
    r.begin = NULL;
    T_EQ_INT(tllm_engine_submit(e, &r, NULL, says, sizeof says), TINY_E_ARGUMENT);
    T_TRUE(strstr(says, "list is NULL") != NULL);
    r.begin = other;
    other[1] = 544;
    T_EQ_INT(tllm_engine_submit(e, &r, NULL, says, sizeof says), TINY_E_ARGUMENT);
    T_TRUE(strstr(says, "token 1 that the answer is to begin with is 544") != NULL);
    r.n_begin = 1;
    r.gbnf = "root ::= \"a\"";
    r.n_gbnf = strlen(r.gbnf);
    T_EQ_INT(tllm_engine_submit(e, &r, NULL, says, sizeof says), TINY_E_ARGUMENT);
    T_TRUE(strstr(says, "without a grammar") != NULL);
    tllm_engine_close(e);
    t_close(ctx);
}

/* workers that do both, of all kinds, and few pages on both sides: prompts wait until texts are taken */
static void test_parts(void)
{
    job j = job_of(PAIRS, 2, TLLM_HAND_BOTH, TLLM_HAND_BOTH, 0);
    ready();
    if (!run(&j)) return;
    same(&j);
    T_TRUE(j.count[0].wholes > 2 && j.count[1].wholes > 2 && !j.count[1].takes);
    j = job_of(ONE_NET, 3, TLLM_HAND_PREFILL, TLLM_HAND_BOTH, TLLM_HAND_DECODE);
    if (!run(&j)) return;
    same(&j);
    T_TRUE(j.count[0].reads > 2 && j.count[1].wholes > 2 && j.count[2].takes > 2);
    j = job_of(PAIRS, 2, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, 0);
    j.slots = 2;
    j.cells = 160;
    j.cancels = 1;
    if (!run(&j)) return;
    same(&j);
    T_EQ_INT(j.cancelled, 1);
    /* prompts become much shorter: the parts change while requests run */
    j = job_of(PAIRS, 2, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, 0);
    j.slots = j.plans = 1;
    if (!run(&j)) return;
    same(&j);
    T_TRUE(j.plans >= 2 && j.count[1].reads);
}

/* a kept text loses no page to others: a request that needs them waits until it is released, and its tokens stay */
static void test_kept(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static ask alone, beside;
    tllm_engine_desc ed;
    tllm_engine *e, *other;
    tllm_engine_slot slot[2];
    tllm_engine_counters c;
    tllm_request r;
    void *bytes = NULL;
    size_t n = 0, held;
    int i, more = 1;
    ready();
    memset(&ed, 0, sizeof ed);
    memset(&r, 0, sizeof r);
    ed.slots = 2;
    ed.context = 96;
    ed.cells = 96;
    ed.exact = 1;
    T_OK(tllm_engine_open_file(ctx, story, &ed, &e));
    T_OK(tllm_engine_open_file(ctx, story, &ed, &other));
    r.prompt = asked[9].prompt;
    r.n_prompt = 16;
    r.n_most = 24;
    r.past_end = 1;
    r.token = alone_token;
    r.user = &alone;
    T_EQ_INT(tllm_engine_submit(e, &r, NULL, NULL, 0), TINY_OK);
    while (more) T_OK(tllm_engine_step(e, &more));
    r.prompt = asked[3].prompt;
    r.n_prompt = 64;
    r.n_most = 1;
    r.token = NULL;
    r.keep = 1;
    r.id = 9;
    T_EQ_INT(tllm_engine_submit(e, &r, NULL, NULL, 0), TINY_OK);
    for (more = 1; more;) T_OK(tllm_engine_step(e, &more));
    r.prompt = asked[9].prompt;
    r.n_prompt = 16;
    r.n_most = 24;
    r.token = alone_token;
    r.user = &beside;
    r.keep = 0;
    r.id = 0;
    T_EQ_INT(tllm_engine_submit(e, &r, NULL, NULL, 0), TINY_OK);
    for (i = 0; i < 60; i++) T_OK(tllm_engine_step(e, &more));
    T_EQ_INT(more, 1);
    T_TRUE(beside.n_want > 8 && beside.n_want < 24);    /* two pages are left: 32 tokens */
    tllm_engine_count(e, &c);
    T_TRUE(c.again >= 1);
    (void)tllm_engine_slots(e, slot, 2);
    held = slot[0].n_held > slot[1].n_held ? slot[0].n_held : slot[1].n_held;
    T_EQ_INT((int)held, 64);
    T_OK(tllm_engine_pack(e, 9, &bytes, &n));
    T_EQ_INT((int)n, (int)tllm_engine_bytes(e, 64));
    T_OK(tllm_engine_put(other, 9, bytes, n));
    T_STATUS(tllm_engine_put(other, 9, bytes, n), TINY_E_ARGUMENT, "kept already");
    T_OK(tllm_engine_release(other, 9));
    ((unsigned char *)bytes)[n / 2] ^= 1;   /* a changed bit is found */
    T_STATUS(tllm_engine_put(other, 9, bytes, n), TINY_E_FORMAT, "story.gguf");
    T_OK(tllm_engine_release(e, 9));
    while (more) T_OK(tllm_engine_step(e, &more));
    T_EQ_INT((int)beside.n_want, 24);
    T_TRUE(!memcmp(beside.want, alone.want, sizeof beside.want));
    tiny_free(ctx, bytes);
    tllm_engine_close(e);
    tllm_engine_close(other);
    t_close(ctx);
}

static void test_loss(void)
{
    job j = job_of(PAIRS, 3, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, TLLM_HAND_DECODE);
    ready();
    j.dies = 2;                             /* worker 1, with texts that it did not fetch */
    if (!run(&j)) return;
    same(&j);
    T_EQ_INT(j.alive, 2);
    T_TRUE(j.tries > N && j.count[0].reads == (uint64_t)j.tries && j.decoded[2] >= N - 1);
    T_EQ_INT(j.count[0].kept, 0);
    T_PROOF("serving 4", "bad input: a decode worker dies with texts not yet fetched: they are read again, same text");
    j = job_of(PAIRS, 3, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, TLLM_HAND_DECODE);
    j.wrong = 2;
    if (!run(&j)) return;
    same(&j);
    T_EQ_INT(j.alive, 2);
    j = job_of(PAIRS, 2, TLLM_HAND_PREFILL, TLLM_HAND_DECODE, 0);
    j.dies = 2;                             /* no worker is left to continue: the other one does both */
    if (!run(&j)) return;
    same(&j);
    T_TRUE(j.count[0].wholes > 0);
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_engine_desc ed;
    tllm_engine *e;
    tllm_hand_desc d;
    tllm_hand *h;
    tllm_desk_desc dd;
    tllm_desk *desk_of = NULL;
    tllm_desk_request r;
    tllm_hand_link link[2];
    tiny_local_desc ld;
    tiny_local *local;
    uint64_t id;
    int role = 7, more;
    void *bytes;
    size_t n;
    int32_t one[4] = { 1, 2, 3, 4 };
    T_STATUS(tllm_hand_open(ctx, NULL, NULL), TINY_E_ARGUMENT, "tllm_hand_open");
    T_STATUS(tllm_desk_open(ctx, NULL, NULL), TINY_E_ARGUMENT, "tllm_desk_open");
    T_EQ_INT(tllm_hand_step(NULL, NULL), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_desk_step(NULL, NULL), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_desk_submit(NULL, NULL, NULL), TINY_E_ARGUMENT);
    T_EQ_INT(tllm_engine_put(NULL, 1, NULL, 0), TINY_E_ARGUMENT);
    T_EQ_INT((int)tllm_desk_chain(NULL, NULL), 0);
    tllm_hand_close(NULL);
    tllm_desk_close(NULL);
    memset(&ed, 0, sizeof ed);
    memset(&d, 0, sizeof d);
    memset(&dd, 0, sizeof dd);
    memset(&ld, 0, sizeof ld);
    memset(&r, 0, sizeof r);
    memset(link, 0, sizeof link);
    ld.world = 2;
    T_OK(tiny_local_open(ctx, &ld, &local));
    T_OK(tllm_engine_open_file(ctx, story, &ed, &e));
    T_STATUS(tllm_hand_open(ctx, &d, &h), TINY_E_ARGUMENT, "the link to the desk");
    d.engine = e;
    d.desk.net = tiny_local_net(local, 1);
    T_STATUS(tllm_hand_open(ctx, &d, &h), TINY_E_ARGUMENT, "1 to 32 workers");
    d.n_peer = 1;
    d.peer = link;
    T_STATUS(tllm_hand_open(ctx, &d, &h), TINY_E_ARGUMENT, "with pages and `exact`");
    T_STATUS(tllm_engine_pack(e, 5, &bytes, &n), TINY_E_ARGUMENT, "no slot is kept for request 5");
    T_STATUS(tllm_engine_release(e, 5), TINY_E_ARGUMENT, "no slot is kept");
    T_STATUS(tllm_engine_put(e, 0, one, 4), TINY_E_ARGUMENT, "or 0 is 0");
    T_STATUS(tllm_engine_put(e, 5, one, 4), TINY_E_FORMAT, "story.gguf");
    T_EQ_INT(tllm_engine_room(e, 9, 9), 0);
    T_EQ_INT(tllm_engine_room(e, 8, 80), 1);
    T_STATUS(tllm_desk_open(ctx, &dd, &desk_of), TINY_E_ARGUMENT, "tllm_desk_open");
    dd.worker = link;
    T_STATUS(tllm_desk_open(ctx, &dd, &desk_of), TINY_E_ARGUMENT, "0 workers");
    dd.n_worker = 1;
    T_STATUS(tllm_desk_open(ctx, &dd, &desk_of), TINY_E_ARGUMENT, "worker 0 has no link");
    link[0].net = tiny_local_net(local, 0);
    link[0].rank = 1;
    dd.role = &role;
    T_STATUS(tllm_desk_open(ctx, &dd, &desk_of), TINY_E_ARGUMENT, "or role 7");
    dd.role = NULL;
    dd.codec = 5;
    T_STATUS(tllm_desk_open(ctx, &dd, &desk_of), TINY_E_ARGUMENT, "level 5 of the cache codec");
    dd.codec = 0;
    dd.factor = 0.5;
    T_STATUS(tllm_desk_open(ctx, &dd, &desk_of), TINY_E_ARGUMENT, "a factor above 1");
    dd.factor = 0;
    T_OK(tllm_desk_open(ctx, &dd, &desk_of));
    T_STATUS(tllm_desk_submit(desk_of, &r, &id), TINY_E_ARGUMENT, "needs a prompt");
    r.prompt = one;
    r.n_prompt = 4;
    r.top_p = 1.5f;
    T_STATUS(tllm_desk_submit(desk_of, &r, &id), TINY_E_ARGUMENT, "top_p not above 1");
    T_STATUS(tllm_desk_cancel(desk_of, 1), TINY_E_ARGUMENT, "no request 1");
    T_STATUS(tllm_desk_role(desk_of, 1, 0), TINY_E_ARGUMENT, "worker 1 of 1");
    r.top_p = 0;
    T_OK(tllm_desk_submit(desk_of, &r, &id));
    tiny_local_net(local, 1)->close(tiny_local_net(local, 1));  /* the only worker */
    do T_OK(tllm_desk_step(desk_of, &more)); while (more);
    T_EQ_INT(tllm_desk_alive(desk_of, 0), 0);
    tllm_desk_close(desk_of);
    tllm_engine_close(e);
    tiny_local_close(ctx, local);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_same);
    T_RUN(test_codec);
    T_RUN(test_begin);
    T_RUN(test_parts);
    T_RUN(test_kept);
    T_RUN(test_loss);
    T_RUN(test_refused);
    return t_done();
}
