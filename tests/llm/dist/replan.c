/* tests/llm/dist/replan.c - a worker is killed: which rank it was, and the text that the others finish
 *
 * Truth    the greedy text of an undisturbed run with the shares of the ranks that are left. Ranks are processes, made
 *          by fork and killed without a word; they speak TCP. */
#include "small.h"
#if T_PTHREAD
#include <sys/wait.h>

enum { PROMPT = 5, N = 32, RANKS = 3 };
static const small_shape shape = { 64, 8, 4, 8, 96, 1, 80, TLLM_FORMAT_F32 };
static const double shares[RANKS] = { 2, 1, 1 };
#define DEADLINE UINT64_C(20000000000)

/* a transport whose process ends, as by kill -9, before it sends message number at */
typedef struct deadly { tiny_net net; tiny_net *inner; uint64_t sent, at; } deadly;
static tiny_status deadly_send(tiny_net *net, int to, tiny_message *m)
{
    deadly *d = (deadly *)net;
    tiny_status st;
    if (!m->begun && d->sent++ >= d->at) (void)kill(getpid(), SIGKILL);
    st = d->inner->send(d->inner, to, m);
    if (!st && !m->begun) d->sent--;        /* it will be tried again */
    return st;
}
static tiny_status deadly_recv(tiny_net *net, int from, tiny_message *m)
{
    return ((deadly *)net)->inner->recv(((deadly *)net)->inner, from, m);
}
static void deadly_close(tiny_net *net) { ((deadly *)net)->inner->close(((deadly *)net)->inner); }
static uint64_t deadly_changes(tiny_net *net) { return ((deadly *)net)->inner->changes(((deadly *)net)->inner); }
static void deadly_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    ((deadly *)net)->inner->pause(((deadly *)net)->inner, seen, until);
}
static void deadly_wake(tiny_net *net) { ((deadly *)net)->inner->wake(((deadly *)net)->inner); }

typedef struct told {
    small file;
    tiny_socket at;
    char address[TINY_ADDRESS_TEXT];
    int n, replan;
    /* of rank 0 */
    int32_t text[PROMPT + N];
    int n_text, made, groups;
    tiny_status st;
    int gone;
    char says[240];
    uint64_t messages;                      /* from rank 2, or else from rank 1 */
} told;

typedef struct member {
    tiny_ctx *ctx;
    tiny_tcp *tcp;
    tiny_comm *comm;
    tllm_gguf *file;
    tllm_model *model;
    tllm_lead *lead;
    deadly d;
} member;

static tiny_status join(const told *t, int rank, int world, const double *share, uint64_t dies_at, member *m)
{
    tiny_tcp_desc td;
    tiny_comm_desc cd;
    tllm_lead_desc ld;
    tiny_status st;
    memset(m, 0, sizeof *m);
    memset(&td, 0, sizeof td);
    memset(&cd, 0, sizeof cd);
    memset(&ld, 0, sizeof ld);
    m->ctx = t_rank_ctx(TINY_TARGET_AUTO);
    st = tllm_gguf_open_memory(m->ctx, t->file.at, t->file.n, &m->file);
    if (!st) st = tllm_model_open(m->ctx, m->file, &m->model);
    td.rank = rank;
    td.world = world;
    td.at = t->address;
    td.listener = rank ? TINY_NO_SOCKET : t->at;
    td.secret = "correct horse battery staple";
    td.n_secret = 28;
    td.open_ns = UINT64_C(60000000000);
    if (!st) st = tiny_tcp_open(m->ctx, &td, &m->tcp);
    if (st) return st;
    cd.net = tiny_tcp_net(m->tcp);
    if (dies_at != UINT64_MAX) {
        m->d.inner = cd.net;
        m->d.net = *cd.net;
        m->d.net.send = deadly_send;
        m->d.net.recv = deadly_recv;
        m->d.net.close = deadly_close;
        m->d.net.changes = deadly_changes;
        m->d.net.pause = deadly_pause;
        m->d.net.wake = deadly_wake;
        m->d.at = dies_at;
        cd.net = &m->d.net;
    }
    cd.n_most = tllm_lead_most(m->model, world, 16);
    cd.timeout_ns = DEADLINE;
    st = tiny_comm_open(m->ctx, &cd, &m->comm);
    if (!st) st = tllm_model_cut_by(m->ctx, m->model, rank, world, share);
    ld.model = m->model;
    ld.comm = m->comm;
    ld.n_ctx = 64;
    ld.n_batch = 16;
    return st ? st : tllm_lead_open(m->ctx, &ld, &m->lead);
}
static void leave(member *m)
{
    tllm_lead_close(m->lead);
    tllm_model_close(m->ctx, m->model);
    tllm_gguf_close(m->ctx, m->file);
    tiny_comm_close(m->comm);
    tiny_tcp_close(m->ctx, m->tcp);
    tiny_ctx_close(m->ctx);
}

/* rank 0: the text, over as many groups as it takes */
static void lead_text(told *t, int world, const double *first)
{
    double share[RANKS];
    float logits[80];
    member m;
    int i;
    for (i = 0; i < world; i++) share[i] = first[i];
    for (i = 0; i < PROMPT; i++) t->text[i] = (int32_t)((i * 29 + 7) % 80);
    t->n_text = PROMPT;
    t->made = t->groups = 0;
    do {
        t->groups++;
        t->st = join(t, 0, world, share, UINT64_MAX, &m);
        if (!t->st) t->st = tllm_lead_forward(m.lead, t->text, t->n_text, 0, logits);
        while (!t->st && t->made < t->n) {
            t->text[t->n_text++] = small_best(logits, 80);
            if (++t->made < t->n) t->st = tllm_lead_forward(m.lead, &t->text[t->n_text - 1], 1, t->n_text - 1, logits);
        }
        if (!t->st) t->st = tllm_lead_stop(m.lead);
        if (m.comm) t->messages = tiny_comm_net(m.comm)->count[world - 1].messages_received;
        if (t->st && m.lead) {              /* the library has what was given to it: all, without a token at the end */
            tiny_idx n = 0;
            const int32_t *text = tllm_lead_told(m.lead, &n);
            T_EQ_INT(n, t->n_text - (t->made == t->n));
            T_SAME(text, t->text, n);
        }
        (void)snprintf(t->says, sizeof t->says, "%s", tiny_ctx_message(m.ctx));
        t->gone = m.comm ? tiny_comm_net(m.comm)->gone - 1 : -1;
        if (t->st == TINY_E_PEER && t->replan && t->gone > 0)
            T_TRUE(tllm_share_without(m.ctx, share, world, t->gone, share) == TINY_OK);
        leave(&m);
        world--;
    } while (t->st == TINY_E_PEER && t->replan && world);
}

/* a worker in a process of its own. Exit status: 10 + the rank that ended its group, 0: the master stopped it */
static pid_t start(const told *t, int rank, int world, const double *share, uint64_t dies_at, int replan)
{
    const pid_t pid = fork();
    if (!pid) {
        double mine[RANKS];
        member m;
        int i, gone = -1;
        tiny_status st;
        for (i = 0; i < world; i++) mine[i] = share[i];
        do {
            const uint64_t from = tiny_now_ns();
            st = join(t, rank, world, mine, dies_at, &m);
            if (!st) st = tllm_lead_follow(m.lead, NULL, NULL);
            if (tiny_now_ns() - from > 2 * DEADLINE) _exit(3);
            gone = m.comm ? tiny_comm_net(m.comm)->gone - 1 : -1;
            if (st == TINY_E_PEER && replan && gone > 0) {
                (void)tllm_share_without(m.ctx, mine, world, gone, mine);
                if (gone < rank) rank--;
            }
            leave(&m);
            world--;
        } while (st == TINY_E_PEER && replan && gone > 0);
        _exit(!st ? 0 : st == TINY_E_PEER ? 10 + gone : 4);
    }
    return pid;
}
static int ended(pid_t pid)
{
    int status = -1;
    if (!T_TRUE(pid > 0 && waitpid(pid, &status, 0) == pid)) return -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static told *begin(void)
{
    told *t = (told *)t_keep(sizeof *t);
    tiny_socket at[TINY_ADDRESSES];
    tiny_address a;
    int n;
    memset(t, 0, sizeof *t);
    if (!small_make(&t->file, &shape, NULL)) return NULL;
    if (T_OK(tiny_listen_at(t->file.ctx, ":0", at, &n)) && T_OK(tiny_socket_address(t->file.ctx, at[0], &a))) {
        t->at = at[0];
        tiny_address_text(&a, t->address);
    }
    return t;
}
static void end(told *t)
{
    tiny_socket_close(t->at);
    small_unmake(&t->file);
}

/* Rank 2 is killed before each message of a run of 20 tokens: both survivors know that it was rank 2. */
static void test_killed_at_each_message(void)
{
    told *t = begin();
    uint64_t all = 1, k;
    if (!t) return;
    t->n = 20;
    for (k = UINT64_MAX; k == UINT64_MAX || k < all; k++) {
        const pid_t other = start(t, 1, RANKS, shares, UINT64_MAX, 0), dies = start(t, 2, RANKS, shares, k, 0);
        lead_text(t, RANKS, shares);
        if (k == UINT64_MAX) {              /* nobody dies: this counts the messages */
            if (!T_EQ_INT(t->st, TINY_OK)) printf("  %s\n", t->says);
            T_TRUE(ended(other) == 0 && ended(dies) == 0);
            all = t->messages;
            T_EQ_INT(all, 1 + 20 * 3 + 1);  /* the agreement, a command and two sums for each token, the stop */
            continue;
        }
        if (!T_EQ_INT(t->st, TINY_E_PEER) || !T_EQ_INT(t->gone, 2)) printf("  message %d: %s\n", (int)k, t->says);
        T_EQ_INT(ended(dies), -SIGKILL);
        T_EQ_INT(ended(other), 12);
    }
    end(t);
    T_PROOF("distributed 1", "worker killed at each message of a run of 20 tokens: all others get PEER and its rank");
}

/* Rank 1 or 2 is killed; the others make a group of two with the shares that they had, and finish the text. */
static void test_replan(void)
{
    static const uint64_t when[] = { 1, 3, 47, 90 };
    told *t = begin(), *want;
    size_t k;
    int dead;
    if (!t) return;
    want = (told *)t_keep(sizeof *want);
    t->n = N;
    for (dead = 1; dead < RANKS; dead++) {
        double left[2];
        pid_t lives, dies;
        left[0] = shares[0];
        left[1] = shares[3 - dead];
        *want = *t;
        want->replan = 0;
        lives = start(want, 1, 2, left, UINT64_MAX, 0);
        lead_text(want, 2, left);
        T_EQ_INT(want->st, TINY_OK);
        T_EQ_INT(ended(lives), 0);
        t->replan = 1;
        for (k = 0; k < T_COUNT(when); k++) {
            lives = start(t, 3 - dead, RANKS, shares, UINT64_MAX, 1);
            dies = start(t, dead, RANKS, shares, when[k], 0);
            lead_text(t, RANKS, shares);
            if (!T_EQ_INT(t->st, TINY_OK)) printf("  rank %d, message %d: %s\n", dead, (int)when[k], t->says);
            T_EQ_INT(t->groups, 2);
            T_EQ_INT(ended(dies), -SIGKILL);
            T_EQ_INT(ended(lives), 0);
            T_EQ_INT(t->n_text, want->n_text);
            T_SAME(t->text, want->text, t->n_text);
        }
    }
    end(t);
    T_PROOF("distributed 1", "replan: the text after a death is that of an undisturbed run with the new shares");
}

int main(void)
{
    T_RUN(test_killed_at_each_message);
    T_RUN(test_replan);
    return t_done();
}
#else
int main(void)
{
    puts("skipped: this test needs a POSIX system");
    return t_done();
}
#endif
