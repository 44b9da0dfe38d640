/* tests/llm/dist/replan.c - workers that are killed, slow, or lie: which rank it was, and the text that others finish
 *
 * Truth    the greedy text of an undisturbed run with the shares of the ranks that are left. Ranks are processes, made
 *          by fork and killed without a word; they speak TCP. */
#include "small.h"
#if T_PTHREAD
#include <sys/socket.h>
#include <sys/wait.h>

enum { PROMPT = 5, N = 32, RANKS = 3 };
static const small_shape shape = { 64, 8, 4, 8, 96, 1, 80, TLLM_FORMAT_F32, 0 };
static const double shares[RANKS] = { 2, 1, 1 };
#define DEADLINE UINT64_C(20000000000)

enum { KILLED, STOPPED, CUT_OFF, LATE };
/* a transport whose process ends, as by kill -9, before it sends message number at; or what else `end` says */
typedef struct deadly {
    tiny_net net;
    tiny_net *inner;
    uint64_t sent, at;
    int end, tells, keeps;                  /* tells: a pipe that gets the time; keeps: a socket that is not its own */
} deadly;
typedef struct fate { int rank, st, gone; uint64_t at; char says[200]; } fate;
static void deadly_end(deadly *d)
{
    fate f;
    int fd;
    memset(&f, 0, sizeof f);
    f.rank = -1;
    f.at = tiny_now_ns();
    if (d->tells && write(d->tells, &f, sizeof f) != (ssize_t)sizeof f) _exit(5);
    d->at = UINT64_MAX;
    if (d->end == KILLED) (void)kill(getpid(), SIGKILL);
    if (d->end == STOPPED) (void)kill(getpid(), SIGSTOP);
    for (fd = 3; fd < 256 && d->end == CUT_OFF; fd++) if (fd != d->keeps) (void)shutdown(fd, SHUT_RDWR);
    if (d->end == LATE) (void)sleep(30);    /* its pings go on; the others end it */
}
static tiny_status deadly_send(tiny_net *net, int to, tiny_message *m)
{
    deadly *d = (deadly *)net;
    tiny_status st;
    if (!m->begun && d->sent++ >= d->at) deadly_end(d);
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
    int n, replan, end, tells;
    uint64_t ping_ns, timeout_ns;           /* 0: the default; DEADLINE */
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
    td.ping_ns = t->ping_ns;
    if (!st) st = tiny_tcp_open(m->ctx, &td, &m->tcp);
    if (st) return st;
    cd.net = tiny_tcp_net(m->tcp);
    m->d.end = t->end;
    m->d.tells = t->tells;
    m->d.keeps = (int)t->at;
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
    cd.timeout_ns = t->timeout_ns ? t->timeout_ns : DEADLINE;
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
    for (i = 0; i < PROMPT; i++) t->text[i] = small_prompt(i, 80);
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

/* a rank in a process of its own, which tells how it ended */
static pid_t start_fated(const told *t, int rank, uint64_t dies_at)
{
    const pid_t pid = fork();
    if (!pid) {
        int32_t token[PROMPT];
        float logits[80];
        member m;
        fate f;
        int i;
        tiny_status st = join(t, rank, RANKS, shares, dies_at, &m);
        for (i = 0; i < PROMPT; i++) token[i] = small_prompt(i, 80);
        if (!st && rank) st = tllm_lead_follow(m.lead, NULL, NULL);
        else if (!st) {
            st = tllm_lead_forward(m.lead, token, PROMPT, 0, logits);
            for (i = 0; i < t->n && !st; i++) {
                token[0] = small_best(logits, 80);
                st = tllm_lead_forward(m.lead, token, 1, PROMPT + i, logits);
            }
            if (!st) st = tllm_lead_stop(m.lead);
        }
        memset(&f, 0, sizeof f);
        f.at = tiny_now_ns();
        f.rank = rank;
        f.st = (int)st;
        f.gone = m.comm ? tiny_comm_net(m.comm)->gone - 1 : -1;
        (void)snprintf(f.says, sizeof f.says, "%.199s", tiny_ctx_message(m.ctx));
        leave(&m);
        _exit(write(t->tells, &f, sizeof f) != (ssize_t)sizeof f);
    }
    return pid;
}

/* Each rank in turn is killed, stopped, cut off its connections, or late, in the middle of a text. Every survivor names
 * it, within twice the deadline: three pings and a half, or the time of a step where the rank is only late. Until then
 * it was never silent for as long as a ping. */
static void test_every_end(void)
{
    static const char *const how[] = { "killed", "stopped", "cut off", "late" };
    told *t = begin();
    int end_of, victim, r, k;
    if (!t) return;
    t->n = 40;
    for (end_of = KILLED; end_of <= LATE; end_of++)
        for (victim = 0; victim < RANKS; victim++) {
            const uint64_t deadline = end_of == LATE ? UINT64_C(1000000000) : UINT64_C(1400000000);
            pid_t pid[RANKS];
            fate f;
            uint64_t at = 0;
            int tells[2];
            if (!T_TRUE(!pipe(tells))) break;
            t->end = end_of;
            t->tells = tells[1];
            t->ping_ns = deadline * 2 / 7;
            t->timeout_ns = end_of == LATE ? deadline : 0;
            for (r = 0; r < RANKS; r++) pid[r] = start_fated(t, r, r == victim ? 20 : UINT64_MAX);
            (void)close(tells[1]);
            for (k = 0; k < RANKS; k++) {
                if (!T_TRUE(read(tells[0], &f, sizeof f) == (ssize_t)sizeof f)) break;
                if (f.rank < 0) { at = f.at; continue; }
                if (f.rank == victim) { k--; continue; }
                /* rank 0 waits for the late one itself, and so do all where rank 0 is late */
                if (!T_EQ_INT(f.st, end_of == LATE && (!f.rank || !victim) ? TINY_E_TIMEOUT : TINY_E_PEER) ||
                    !T_EQ_INT(f.gone, victim) || !T_TRUE(at && f.at - at < 2 * deadline + 200000000))
                    printf("  rank %d is %s, rank %d after %.2f s: %s\n", victim, how[end_of], f.rank,
                           1e-9 * (double)(f.at - at), f.says);
            }
            (void)close(tells[0]);
            for (r = 0; r < RANKS; r++) {
                if (r == victim) (void)kill(pid[r], SIGKILL);
                (void)ended(pid[r]);
            }
        }
    end(t);
    T_PROOF("distributed 1", "each rank killed, stopped, cut off or late: the others name it within 2x the deadline");
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

/* Rank 1 is slow, 400 times the soft time but within that of a step: it is named and counted, and the sum is right. */
typedef struct slowness {
    tiny_local *local;
    int said, rank;
    uint64_t count[2];
    float x[2];
    tiny_status st[2];
} slowness;
static void is_slow(void *user, int rank, uint64_t waited_ns)
{
    slowness *s = (slowness *)user;
    s->said++;
    s->rank = rank;
    T_TRUE(waited_ns >= 1000000);
}
static void slow_rank(int rank, void *arg)
{
    static const tiny_fault_at late = { 0, 1, TINY_FAULT_DELAY, 400000000 };
    slowness *s = (slowness *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tiny_fault_desc fd;
    tiny_comm_desc cd;
    tiny_fault *fault = NULL;
    tiny_comm *comm = NULL;
    int i;
    memset(&fd, 0, sizeof fd);
    memset(&cd, 0, sizeof cd);
    cd.net = fd.inner = tiny_local_net(s->local, rank);
    fd.at = &late;
    fd.n_at = 1;
    if (rank) s->st[1] = tiny_fault_open(ctx, &fd, &fault);
    if (rank) cd.net = tiny_fault_net(fault);
    cd.timeout_ns = DEADLINE;
    if (!rank) {
        cd.soft_ns = 1000000;
        cd.slow = is_slow;
        cd.user = s;
    }
    if (!s->st[rank]) s->st[rank] = tiny_comm_open(ctx, &cd, &comm);
    for (i = 0; i < 2 && !s->st[rank]; i++) {
        s->x[rank] = (float)(1 + rank);
        s->st[rank] = tiny_allreduce(comm, &s->x[rank], 1, 0);
        if (!i && !rank) s->said = 0;       /* the first sum only starts both at the same time */
    }
    s->count[rank] = tiny_comm_slow(comm, 1);
    tiny_comm_close(comm);
    tiny_fault_close(ctx, fault);
    tiny_ctx_close(ctx);
}
static void test_slow(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc d;
    slowness s;
    memset(&d, 0, sizeof d);
    memset(&s, 0, sizeof s);
    d.world = 2;
    T_OK(tiny_local_open(ctx, &d, &s.local));
    if (t_ranks(2, slow_rank, &s)) {
        T_TRUE(s.st[0] == TINY_OK && s.st[1] == TINY_OK && s.x[0] == 3.0f && s.x[1] == 3.0f);
        T_TRUE(s.said == 1 && s.rank == 1 && s.count[0] >= 1 && s.count[1] == 0);
        T_PROOF("distributed 1", "a worker beyond the soft time is named and counted, and the run goes on");
    }
    T_TRUE(tiny_comm_slow(NULL, 0) == 0);
    tiny_local_close(ctx, s.local);
    t_close(ctx);
}

/* ---- audits ------------------------------------------------------------------------------------------------------ */

/* a transport of a worker that changes what it adds to the sums of networks */
typedef struct liar { tiny_net net; tiny_net *inner; float factor, more; const void *said; } liar;
static tiny_status liar_send(tiny_net *net, int to, tiny_message *m)
{
    liar *a = (liar *)net;
    float *x = (float *)m->data;
    size_t i;
    if ((m->tag & 255) < 128 && m->tag & 1 && !m->begun && a->said != m->data) {
        for (i = 0; i < m->n / 4; i++) x[i] *= a->factor;
        x[7] += a->more;
        a->said = m->data;                  /* it may be tried again */
    }
    if (m->begun || m->tag % 2 == 0) a->said = NULL;
    return a->inner->send(a->inner, to, m);
}
static tiny_status liar_recv(tiny_net *net, int from, tiny_message *m)
{
    return ((liar *)net)->inner->recv(((liar *)net)->inner, from, m);
}
static void liar_close(tiny_net *net) { ((liar *)net)->inner->close(((liar *)net)->inner); }
static uint64_t liar_changes(tiny_net *net) { return ((liar *)net)->inner->changes(((liar *)net)->inner); }
static void liar_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    ((liar *)net)->inner->pause(((liar *)net)->inner, seen, until);
}
static void liar_wake(tiny_net *net) { ((liar *)net)->inner->wake(((liar *)net)->inner); }

typedef struct audited {
    const small *file;
    int world, wire, who, every;            /* who lies; 0: nobody */
    float factor, more;
    tiny_local *local;                      /* NULL: over TCP */
    tiny_socket at;
    char address[TINY_ADDRESS_TEXT];
    tiny_status st[RANKS];
    char says[RANKS][240];
    int gone[RANKS], made;
    uint64_t passed;
} audited;
static void audit_rank(int rank, void *arg)
{
    static const double share[3] = { 2, 1, 1 };
    audited *t = (audited *)arg;
    tllm_narrow_desc nd;
    tllm_audit_desc ad;
    tllm_lead_desc ld;
    tiny_comm_desc cd;
    tllm_narrow *narrow = NULL;
    tllm_audit *audit = NULL;
    tllm_lead *lead = NULL;
    tiny_tcp *tcp = NULL;
    int32_t token[7];
    float logits[80];
    int i;
    liar lies;
    t_rank m = t_rank_model(TINY_TARGET_AUTO, NULL, NULL, t->file->at, t->file->n);
    memset(&nd, 0, sizeof nd);
    memset(&ad, 0, sizeof ad);
    memset(&ld, 0, sizeof ld);
    memset(&cd, 0, sizeof cd);
    memset(&lies, 0, sizeof lies);
    if (t->local) nd.inner = tiny_local_net(t->local, rank);
    else if (!m.st) {
        tiny_tcp_desc td;
        memset(&td, 0, sizeof td);
        td.rank = rank;
        td.world = t->world;
        td.at = t->address;
        td.listener = rank ? TINY_NO_SOCKET : t->at;
        td.secret = "correct horse battery staple";
        td.n_secret = 28;
        td.open_ns = UINT64_C(60000000000);
        m.st = tiny_tcp_open(m.ctx, &td, &tcp);
        nd.inner = tiny_tcp_net(tcp);
    }
    nd.format = t->wire;
    nd.n_most = 16 * 64;
    if (!m.st) m.st = tllm_narrow_open(m.ctx, &nd, &narrow);
    cd.net = tllm_narrow_net(narrow);
    if (!m.st && !rank) {
        ad.inner = cd.net;
        ad.file = m.file;
        ad.share = share;
        ad.n_batch = 16;
        ad.every = t->every;
        ad.format = t->wire;
        ad.seed = 3;
        m.st = tllm_audit_open(m.ctx, &ad, &audit);
        cd.net = tllm_audit_net(audit);
    } else if (!m.st && rank == t->who) {
        lies.inner = cd.net;
        lies.net = *cd.net;
        lies.net.send = liar_send;
        lies.net.recv = liar_recv;
        lies.net.close = liar_close;
        lies.net.changes = liar_changes;
        lies.net.pause = liar_pause;
        lies.net.wake = liar_wake;
        lies.factor = t->factor;
        lies.more = t->more;
        cd.net = &lies.net;
    }
    cd.n_most = tllm_lead_most(m.model, t->world, 16);
    cd.timeout_ns = UINT64_C(60000000000);
    cd.way = TINY_COMM_STAR;
    if (!m.st) m.st = tiny_comm_open(m.ctx, &cd, &m.comm);
    if (!m.st) m.st = tllm_model_cut_by(m.ctx, m.model, rank, t->world, share);
    ld.model = m.model;
    ld.comm = m.comm;
    ld.n_ctx = 64;
    ld.n_batch = 16;
    ld.audit = audit;
    if (!m.st) m.st = tllm_lead_open(m.ctx, &ld, &lead);
    for (i = 0; i < 7; i++) token[i] = small_prompt(i, 80);
    if (!m.st && rank) m.st = tllm_lead_follow(lead, NULL, NULL);
    else if (!m.st) {
        m.st = tllm_lead_forward(lead, token, 7, 0, logits);
        for (t->made = 0; t->made < 16 && !m.st; t->made++) {
            const int32_t next = small_best(logits, 80);
            m.st = tllm_lead_forward(lead, &next, 1, 7 + t->made, logits);
        }
        if (!m.st) m.st = tllm_lead_stop(lead);
        t->passed = tllm_audit_count(audit);
    }
    t->st[rank] = m.st;
    (void)snprintf(t->says[rank], sizeof t->says[rank], "%s", tiny_ctx_message(m.ctx));
    if (m.comm) t->gone[rank] = tiny_comm_net(m.comm)->gone - 1;
    tllm_lead_close(lead);
    tiny_comm_close(m.comm);
    tllm_audit_close(m.ctx, audit);
    tllm_narrow_close(m.ctx, narrow);
    tiny_tcp_close(m.ctx, tcp);
    m.comm = NULL;
    (void)t_rank_leave(&m, t->says[rank] + 239, 1);
}
static int audit_tcp(audited *t)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_socket at[TINY_ADDRESSES];
    tiny_address a;
    int n, ok = T_OK(tiny_listen_at(ctx, ":0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a));
    if (ok) {
        t->local = NULL;
        t->at = at[0];
        tiny_address_text(&a, t->address);
        ok = t_ranks(t->world, audit_rank, t);
        tiny_socket_close(at[0]);
    }
    t_close(ctx);
    return ok;
}
static int audit_all(audited *t)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc d;
    int ok;
    memset(&d, 0, sizeof d);
    d.world = t->world;
    T_OK(tiny_local_open(ctx, &d, &t->local));
    ok = t_ranks(t->world, audit_rank, t);
    tiny_local_close(ctx, t->local);
    t_close(ctx);
    return ok;
}

static void test_audit(void)
{
    static const int wires[3] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0 };
    tllm_audit *audit = NULL;
    tllm_audit_desc d;
    tllm_gguf *g = NULL;
    tiny_net net;
    audited t;
    small file;
    int k, i;
    if (!small_make(&file, &small_plain, NULL)) return;
    for (k = 0; k < 6; k++) {
        const int tcp = k / 3;
        memset(&t, 0, sizeof t);
        t.file = &file;
        t.wire = wires[k % 3];
        t.every = 1;
        t.factor = 1.01f;
        for (t.world = 2; t.world <= 3; t.world++)
            for (t.who = 0; t.who < t.world; t.who += t.world - 1) {
                if (!(tcp ? audit_tcp(&t) : audit_all(&t))) return;
                if (t.who) {                /* found, and named to everybody but itself */
                    T_EQ_INT(t.st[0], TINY_E_PROTOCOL);
                    T_EQ_INT(t.gone[0], t.who);
                    if (!T_TRUE(strstr(t.says[0], "by a factor of 1.0") != NULL)) printf("  %s\n", t.says[0]);
                    T_TRUE(t.made < 16 && t.st[1] != TINY_OK);
                } else {
                    for (i = 0; i < t.world; i++)
                        if (!T_EQ_INT(t.st[i], TINY_OK)) printf("  rank %d: %s\n", i, t.says[i]);
                    T_EQ_INT(t.passed, 17);
                }
            }
    }
    t.wire = TLLM_FORMAT_F32;               /* the limit is a thousandth: 3 are found, half of one is not */
    t.world = 2;
    t.who = 1;
    t.factor = 1.003f;
    if (audit_all(&t)) T_TRUE(t.st[0] == TINY_E_PROTOCOL && t.gone[0] == 1);
    t.factor = 1.0005f;
    if (audit_all(&t)) T_TRUE(t.st[0] == TINY_OK && t.passed == 17);
    t.wire = TLLM_FORMAT_Q8_0;              /* less than the rounding of one number, but seen in the scale of all */
    t.factor = 1.004f;
    if (audit_all(&t)) T_TRUE(t.st[0] == TINY_E_PROTOCOL && t.gone[0] == 1);
    /* a single number; every third command */
    t.wire = TLLM_FORMAT_F32;
    t.factor = 1.0f;
    t.more = 0.5f;
    t.every = 3;
    if (audit_all(&t)) T_TRUE(t.st[0] == TINY_E_PROTOCOL && t.gone[0] == 1);
    t.more = 0.01f;                         /* of numbers up to 2 or so: little for the scale */
    if (audit_all(&t) && !T_TRUE(t.st[0] == TINY_E_PROTOCOL && t.gone[0] == 1)) printf("  %s\n", t.says[0]);
    t.who = 0;
    if (audit_all(&t)) T_EQ_INT(t.passed, 6);           /* commands 0, 3, 6, 9, 12, 15 */
    {                                       /* 130 layers: sums of 64 of them in turn have the same tags */
        static const small_shape tall = { 32, 4, 4, 8, 32, 130, 80, TLLM_FORMAT_F32, 0 };
        small high;
        t.every = 1;
        if (small_make(&high, &tall, NULL)) {
            t.file = &high;
            for (i = 0; i < 2; i++) {
                t.world = 2 + i;            /* 3: in a star */
                if (!audit_all(&t)) break;
                if (!T_EQ_INT(t.passed, 17)) printf("  %s\n", t.says[0]);
            }
            small_unmake(&high);
        }
    }
    memset(&d, 0, sizeof d);
    memset(&net, 0, sizeof net);
    net.world = 2;
    t_use(file.ctx);
    T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
    T_STATUS(tllm_audit_open(file.ctx, &d, &audit), TINY_E_ARGUMENT, "needs a net");
    d.inner = &net;
    d.file = g;
    d.every = -1;
    T_STATUS(tllm_audit_open(file.ctx, &d, &audit), TINY_E_ARGUMENT, "every -1 commands");
    d.every = 0;
    net.rank = 1;
    T_STATUS(tllm_audit_open(file.ctx, &d, &audit), TINY_E_ARGUMENT, "by rank 1: only rank 0 audits");
    tllm_audit_close(file.ctx, NULL);
    T_TRUE(tllm_audit_net(NULL) == NULL && tllm_audit_count(NULL) == 0);
    tllm_gguf_close(file.ctx, g);
    small_unmake(&file);
    T_PROOF("distributed 1", "audit catches a worker that scales its partial by 1.01, in f32, f16 and 8 bits");
}

int main(void)
{
    T_RUN(test_killed_at_each_message);
    T_RUN(test_every_end);
    T_RUN(test_replan);
    T_RUN(test_slow);
    T_RUN(test_audit);
    return t_done();
}
#else
int main(void)
{
    puts("skipped: this test needs a POSIX system");
    return t_done();
}
#endif
