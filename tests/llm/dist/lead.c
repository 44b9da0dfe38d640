/* tests/llm/dist/lead.c - a model of this repository over processes that speak TCP
 *
 * Truth    the greedy text of one process, by the ordinary forward pass; the formula of the bytes of a token. Ranks are
 *          threads, or processes that are made by fork and killed without a word. */
#include "t.h"
#if T_PTHREAD
#include <sys/wait.h>

static const char model_path[] = "examples/models/story.gguf", secret[] = "correct horse battery staple";
enum { MOST = 4, N = 64, BATCH = 16, CONTEXT = 160 };

typedef struct told {
    int world, tcp, n_prompt, stop_at;
    int hides, spies;
    uint64_t timeout, named;                /* named: numbers in the places of tokens that rank 0 has sent */
    tiny_local *local;
    tiny_socket at;
    char address[TINY_ADDRESS_TEXT];
    int32_t prompt[MOST * 32], text[MOST][N];
    tiny_status st[MOST];
    char says[MOST][240];
    int gone[MOST];
    float first[MOST][4];                   /* of the logits of the prompt */
    uint64_t bytes, messages;               /* of rank 0, for one token */
    double memory[MOST];
} told;

/* a transport that looks at the commands of rank 0 */
typedef struct spy { tiny_net net; tiny_net *inner; told *t; } spy;
static tiny_status spy_send(tiny_net *net, int to, tiny_message *m)
{
    spy *s = (spy *)net;
    int i;
    for (i = 4; (m->tag & 255) == 250 && !m->begun && i < 4 + BATCH; i++)
        s->t->named += ((const float *)m->data)[i] > 0;
    return s->inner->send(s->inner, to, m);
}
static tiny_status spy_recv(tiny_net *net, int from, tiny_message *m)
{
    return ((spy *)net)->inner->recv(((spy *)net)->inner, from, m);
}
static void spy_close(tiny_net *net) { ((spy *)net)->inner->close(((spy *)net)->inner); }
static uint64_t spy_changes(tiny_net *net) { return ((spy *)net)->inner->changes(((spy *)net)->inner); }
static void spy_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    ((spy *)net)->inner->pause(((spy *)net)->inner, seen, until);
}
static void spy_wake(tiny_net *net) { ((spy *)net)->inner->wake(((spy *)net)->inner); }

typedef struct rank_of {
    spy s;
    tiny_ctx *ctx;
    tiny_tcp *tcp;
    tiny_comm *comm;
    tllm_gguf *file;
    tllm_model *model;
    tllm_lead *lead;
} rank_of;

static tiny_status rank_open(told *t, int rank, rank_of *r)
{
    tiny_tcp_desc td;
    tiny_comm_desc cd;
    tllm_lead_desc ld;
    tiny_status st;
    memset(r, 0, sizeof *r);
    memset(&td, 0, sizeof td);
    memset(&cd, 0, sizeof cd);
    memset(&ld, 0, sizeof ld);
    r->ctx = t_rank_ctx(TINY_TARGET_AUTO);
    st = tllm_file_open(r->ctx, model_path, &r->file);
    if (!st) st = tllm_model_open(r->ctx, r->file, &r->model);
    if (!st && t->tcp) {
        tllm_file_digest(r->file, td.model);
        td.rank = rank;
        td.world = t->world;
        td.at = t->address;
        td.listener = rank ? TINY_NO_SOCKET : t->at;
        td.secret = secret;
        td.n_secret = sizeof secret - 1;
        td.open_ns = UINT64_C(60000000000);
        st = tiny_tcp_open(r->ctx, &td, &r->tcp);
        cd.net = tiny_tcp_net(r->tcp);
    } else if (!st) cd.net = tiny_local_net(t->local, rank);
    if (st) return st;
    if (t->spies && !rank) {
        r->s.net = *cd.net;
        r->s.inner = cd.net;
        r->s.t = t;
        r->s.net.send = spy_send;
        r->s.net.recv = spy_recv;
        r->s.net.close = spy_close;
        r->s.net.changes = spy_changes;
        r->s.net.pause = spy_pause;
        r->s.net.wake = spy_wake;
        cd.net = &r->s.net;
    }
    cd.n_most = tllm_lead_most(r->model, t->world, BATCH);
    cd.timeout_ns = t->timeout ? t->timeout : UINT64_C(60000000000);
    st = tiny_comm_open(r->ctx, &cd, &r->comm);
    if (!st) st = tllm_model_cut(r->ctx, r->model, rank, t->world);
    ld.model = r->model;
    ld.comm = r->comm;
    ld.n_ctx = CONTEXT;
    ld.n_batch = BATCH;
    ld.hides_tokens = t->hides;
    return st ? st : tllm_lead_open(r->ctx, &ld, &r->lead);
}
static void rank_close(told *t, int rank, rank_of *r)
{
    const tllm_lead_rank *times = tllm_lead_times(r->lead, rank);
    (void)snprintf(t->says[rank], sizeof t->says[rank], "%s", tiny_ctx_message(r->ctx));
    if (r->comm) t->gone[rank] = tiny_comm_net(r->comm)->gone;
    if (times) t->memory[rank] = times->memory_mb;
    tllm_lead_close(r->lead);
    tllm_model_close(r->ctx, r->model);
    tllm_gguf_close(r->ctx, r->file);
    tiny_comm_close(r->comm);
    tiny_tcp_close(r->ctx, r->tcp);
    tiny_ctx_close(r->ctx);
}

static int32_t best(const float *logits, tiny_idx n)
{
    int32_t i, b = 0;
    for (i = 1; i < n; i++) if (logits[i] > logits[b]) b = i;
    return b;
}
/* the text of rank 0 by commands, or of one process by the forward pass alone (lead NULL) */
static tiny_status greedy(told *t, int rank, rank_of *r, tllm_state *alone)
{
    tllm_about about;
    float *logits;
    int i;
    tiny_status st;
    tllm_model_about(r->model, &about);
    logits = (float *)malloc((size_t)about.n_out * sizeof *logits);
    st = alone ? tllm_forward(alone, t->prompt, t->n_prompt, 0, 1, logits)
               : tllm_lead_forward(r->lead, t->prompt, t->n_prompt, 0, logits);
    if (!st) memcpy(t->first[rank], logits, sizeof t->first[rank]);
    for (i = 0; i < N && !st; i++) {
        const tiny_net *net = r->comm ? tiny_comm_net(r->comm) : NULL;
        const uint64_t bytes = net ? net->count[1].bytes_sent : 0, messages = net ? net->count[1].messages_sent : 0;
        t->text[rank][i] = best(logits, about.n_vocab);
        st = alone ? tllm_forward(alone, &t->text[rank][i], 1, t->n_prompt + i, 1, logits)
                   : tllm_lead_forward(r->lead, &t->text[rank][i], 1, t->n_prompt + i, logits);
        if (net && !st) {
            t->bytes = net->count[1].bytes_sent - bytes;
            t->messages = net->count[1].messages_sent - messages;
        }
    }
    if (!st && !alone) st = tllm_lead_stop(r->lead);
    free(logits);
    return st;
}
static int stop_after(void *user, tllm_lead *lead)
{
    const told *t = (const told *)user;
    return t->stop_at && tllm_lead_tokens(lead) >= (uint64_t)t->stop_at;
}
static void rank_main(int rank, void *arg)
{
    told *t = (told *)arg;
    rank_of r;
    tiny_status st = rank_open(t, rank, &r);
    if (!st) st = rank ? tllm_lead_follow(r.lead, stop_after, t) : greedy(t, 0, &r, NULL);
    t->st[rank] = st;
    rank_close(t, rank, &r);
}
/* the text of one process into t->text[rank] */
static void alone(told *t, int rank)
{
    rank_of r;
    tllm_state_desc d;
    tllm_state *s = NULL;
    memset(&r, 0, sizeof r);
    memset(&d, 0, sizeof d);
    r.ctx = t_ctx(TINY_TARGET_AUTO, 1);
    d.n_ctx = CONTEXT;
    d.n_batch = BATCH;
    if (T_OK(tllm_file_open(r.ctx, model_path, &r.file)) && T_OK(tllm_model_open(r.ctx, r.file, &r.model)) &&
        T_OK(tllm_state_open(r.ctx, r.model, &d, &s)))
        T_OK(greedy(t, rank, &r, s));
    tllm_state_close(r.ctx, s);
    tllm_model_close(r.ctx, r.model);
    tllm_gguf_close(r.ctx, r.file);
    t_close(r.ctx);
}

static void begin(told *t, int world, int tcp, int n_prompt)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n;
    memset(t, 0, sizeof *t);
    t->world = world;
    t->tcp = tcp;
    t->n_prompt = n_prompt;
    for (i = 0; i < n_prompt; i++) t->prompt[i] = (int32_t)(5 + (i * 37) % 200);
    if (tcp) {
        tiny_address a;
        tiny_socket at[TINY_ADDRESSES];
        if (T_OK(tiny_listen_at(ctx, ":0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a))) {
            t->at = at[0];
            tiny_address_text(&a, t->address);
        }
    } else {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        d.world = world;
        T_OK(tiny_local_open(ctx, &d, &t->local));
    }
    t_close(ctx);
}
static void end(told *t)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    if (t->tcp) tiny_socket_close(t->at);
    tiny_local_close(ctx, t->local);
    t_close(ctx);
}

static void test_text(void)
{
    static const int n_of[] = { 1, 7, 64 };
    told *t = (told *)t_keep(sizeof *t);
    int tcp, k, i, again;
    for (tcp = 0; tcp < 2; tcp++)
        for (k = 0; k < 3; k++) {
            float was[4] = { 0 };
            for (again = 0; again < 2; again++) {
                begin(t, 2, tcp, n_of[k]);
                if (!t_ranks(2, rank_main, t)) { end(t); return; }
                for (i = 0; i < 2; i++) if (!T_EQ_INT(t->st[i], TINY_OK)) printf("  rank %d: %s\n", i, t->says[i]);
                if (!again) memcpy(was, t->first[0], sizeof was);
                else T_SAME(was, t->first[0], 4);       /* two runs, the same bits */
                alone(t, 2);
                T_SAME(t->text[0], t->text[2], N);
                for (i = 0; i < 4; i++)
                    T_CLOSE(t->first[0][i], t->first[2][i], 1e-4 * (fabs((double)t->first[2][i]) + 1.0));
                /* 4 layers of width 256: 8 sums, and the command of 4 + 16 + 2 * 5 numbers */
                T_EQ_INT(t->bytes, 8 * 1024 + 4 * 30);
                T_EQ_INT(t->messages, 9);
                T_TRUE(t->memory[0] > 0 && t->memory[1] > 0);
                end(t);
            }
        }
    T_PROOF("distributed 1", "greedy text of 64 tokens equals one process, prompts of 1, 7, 64, twice the same bits");
}

/* Hidden tokens: the same text, a sum more, and no token in any command. */
static void test_hidden(void)
{
    told *t = (told *)t_keep(sizeof *t);
    int world, hides, tcp;
    for (tcp = 0; tcp < 2; tcp++)
        for (world = 1; world <= 2; world++)
            for (hides = 0; hides < 2; hides++) {
                begin(t, world, tcp, 37);
                t->hides = hides;
                t->spies = 1;
                if (!t_ranks(world, rank_main, t)) { end(t); return; }
                if (!T_EQ_INT(t->st[0], TINY_OK) || !T_EQ_INT(t->st[1], TINY_OK)) printf("  %s\n", t->says[0]);
                alone(t, 2);
                T_SAME(t->text[0], t->text[2], N);
                if (world == 2) {
                    T_EQ_INT(t->messages, 9 + hides);
                    T_EQ_INT(t->bytes, (8 + hides) * 1024 + 4 * 30);
                    T_TRUE(hides ? t->named == 0 : t->named >= 37 + N / 2);
                }
                end(t);
            }
    T_PROOF("distributed 1", "hidden tokens: rank 0 alone looks them up, the others get embeddings; the same text");
}

/* in a process of its own */
static pid_t fork_rank(told *t, int rank)
{
    const pid_t pid = fork();
    if (!pid) {
        rank_main(rank, t);
        _exit(t->st[rank] ? 1 : 0);
    }
    return pid;
}
static void test_processes(void)
{
    told *t = (told *)t_keep(sizeof *t);
    pid_t pid;
    int status = -1;
    begin(t, 2, 1, 7);
    pid = fork_rank(t, 1);
    rank_main(0, t);
    T_TRUE(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!T_EQ_INT(t->st[0], TINY_OK)) printf("  %s\n", t->says[0]);
    alone(t, 2);
    T_SAME(t->text[0], t->text[2], N);
    end(t);
    T_PROOF("distributed 1", "two processes on loopback give the text of one");
}

/* the worker's process dies, without a word, after k tokens */
static int die_after(void *user, tllm_lead *lead)
{
    const told *t = (const told *)user;
    if (tllm_lead_tokens(lead) >= (uint64_t)t->stop_at) (void)kill(getpid(), SIGKILL);
    return 0;
}
static void test_killed(void)
{
    told *t = (told *)t_keep(sizeof *t);
    int k;
    for (k = 7; k < 27; k++) {
        pid_t pid;
        int status = -1;
        begin(t, 2, 1, 7);
        t->stop_at = k;
        pid = fork();
        if (!pid) {
            rank_of r;
            tiny_status st = rank_open(t, 1, &r);
            if (!st) st = tllm_lead_follow(r.lead, die_after, t);
            _exit(st ? 3 : 4);
        }
        rank_main(0, t);
        T_TRUE(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        if (!T_EQ_INT(t->st[0], TINY_E_PEER) || !T_TRUE(strstr(t->says[0], "rank 1 is gone")))
            printf("  after %d tokens: %s\n", k, t->says[0]);
        T_EQ_INT(t->gone[0], 2);
        end(t);
    }
    T_PROOF("distributed 1", "worker killed at each token of a run of 20: PEER with its rank");
}

static void test_stop(void)
{
    told *t = (told *)t_keep(sizeof *t);
    begin(t, 2, 1, 7);
    t->stop_at = 12;                        /* the follower's callback ends the group */
    if (t_ranks(2, rank_main, t)) {
        T_EQ_INT(t->st[0], TINY_E_PEER);
        T_EQ_INT(t->st[1], TINY_E_CANCELLED);
        T_TRUE(strstr(t->says[0], "rank 1 gave up") != NULL);
    }
    end(t);
}

/* a rank 0 that gives other commands than there are */
static void odd_rank(int rank, void *arg)
{
    told *t = (told *)arg;
    rank_of r;
    tiny_status st = rank_open(t, rank, &r);
    float sum[4 + BATCH + 10] = { 0 };
    if (!st && rank) st = tllm_lead_follow(r.lead, NULL, NULL);
    else if (!st) {
        sum[0] = t->stop_at == 0 ? 3.0f : t->stop_at == 1 ? 1.5f : 1.0f;
        sum[1] = t->stop_at == 2 ? -1.0f : t->stop_at == 3 ? 3e9f : 0.0f;
        sum[2] = t->stop_at == 4 ? (float)(BATCH + 1) : t->stop_at == 5 ? 0.0f : 1.0f;
        sum[3] = t->stop_at == 6 ? 2.0f : 1.0f;
        sum[4] = t->stop_at == 7 ? 16777216.0f : t->stop_at == 8 ? -1.0f : t->stop_at == 9 ? NAN : 5.0f;
        st = tiny_allreduce(r.comm, sum, 4 + BATCH + 10, 250);
        if (!st) st = tiny_allreduce(r.comm, sum, 4 + BATCH + 10, 250);
    }
    t->st[rank] = st;
    rank_close(t, rank, &r);
}
static void test_odd_commands(void)
{
    told *t = (told *)t_keep(sizeof *t);
    int k;
    for (k = 0; k < 10; k++) {
        begin(t, 2, 0, 1);
        t->stop_at = k;
        if (!t_ranks(2, odd_rank, t)) { end(t); return; }
        if (!T_EQ_INT(t->st[1], TINY_E_PROTOCOL)) printf("  command %d: %s\n", k, t->says[1]);
        T_TRUE(t->st[0] != TINY_OK);
        end(t);
    }
}

static void test_bad_calls(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    told *t = (told *)t_keep(sizeof *t);
    unsigned char a[32], b[32];
    tllm_gguf *file = NULL, *other = NULL;
    tllm_lead *lead = NULL;
    tllm_lead_desc d;
    int32_t token = 5, wrong = 1 << 24;
    float *logits = t_guarded(4096);
    rank_of r;
    memset(&d, 0, sizeof d);
    begin(t, 1, 0, 1);
    T_OK(rank_open(t, 0, &r));
    t_use(r.ctx);
    if (r.lead) {
        T_STATUS(tllm_lead_forward(r.lead, NULL, 1, 0, logits), TINY_E_ARGUMENT, "needs tokens");
        T_STATUS(tllm_lead_forward(r.lead, &token, 0, 0, logits), TINY_E_ARGUMENT, "needs tokens");
        T_STATUS(tllm_lead_forward(r.lead, &token, 1, -1, logits), TINY_E_ARGUMENT, "positions");
        T_STATUS(tllm_lead_forward(r.lead, &token, 1, 1 << 24, logits), TINY_E_ARGUMENT, "positions");
        T_STATUS(tllm_lead_forward(r.lead, &wrong, 1, 0, logits), TINY_E_ARGUMENT, "token 16777216");
        {                                   /* in a later piece: nothing was computed, and nothing is told */
            static int32_t many[200];
            tiny_idx n_told = 9;
            many[190] = -1;
            T_STATUS(tllm_lead_forward(r.lead, many, 200, 0, logits), TINY_E_ARGUMENT, "token -1");
            (void)tllm_lead_told(r.lead, &n_told);
            T_TRUE(n_told == 0 && tllm_lead_tokens(r.lead) == 0);
        }
        T_STATUS(tllm_lead_follow(r.lead, NULL, NULL), TINY_E_ARGUMENT, "rank 0 leads");
        T_TRUE(tllm_lead_times(r.lead, 1) == NULL && tllm_lead_times(r.lead, 0) != NULL);
    }
    d.model = r.model;
    T_STATUS(tllm_lead_open(r.ctx, &d, &lead), TINY_E_ARGUMENT, "needs a model");
    d.comm = r.comm;
    d.n_batch = -1;
    T_STATUS(tllm_lead_open(r.ctx, &d, &lead), TINY_E_ARGUMENT, "n_batch -1");
    rank_close(t, 0, &r);
    end(t);
    t_use(ctx);
    T_TRUE(tllm_lead_forward(NULL, &token, 1, 0, logits) == TINY_E_ARGUMENT);
    T_TRUE(tllm_lead_stop(NULL) == TINY_E_ARGUMENT &&
           tllm_lead_follow(NULL, NULL, NULL) == TINY_E_ARGUMENT && tllm_lead_times(NULL, 0) == NULL &&
           tllm_lead_tokens(NULL) == 0 && tllm_lead_most(NULL, 2, 1) == 0);
    tllm_lead_close(NULL);
    /* two models have two digests, one has one */
    T_OK(tllm_file_open(ctx, model_path, &file));
    T_OK(tllm_file_open(ctx, "examples/models/story-gla.gguf", &other));
    tllm_file_digest(file, a);
    tllm_file_digest(file, b);
    T_SAME(a, b, 32);
    tllm_file_digest(other, b);
    T_TRUE(memcmp(a, b, 32) != 0);
    tllm_file_digest(NULL, b);
    T_TRUE(memcmp(a, b, 32) != 0);
    tllm_gguf_close(ctx, file);
    tllm_gguf_close(ctx, other);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_processes);                  /* fork, before there are threads */
    T_RUN(test_killed);
    T_RUN(test_text);
    T_RUN(test_hidden);
    T_RUN(test_stop);
    T_RUN(test_odd_commands);
    T_RUN(test_bad_calls);
    return t_done();
}
#else
int main(void)
{
    puts("skipped: this test needs a POSIX system");
    return t_done();
}
#endif
