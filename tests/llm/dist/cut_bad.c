/* tests/llm/dist/cut_bad.c - models over several ranks that fail: ranks that die or have something else, bad calls
 *
 * Truth    statuses and sentences; states that were saved by one rank of a cut model. */
#include "cut_kit.h"

typedef struct dying { tiny_net net; tiny_net *inner; int left; } dying;
static tiny_status dying_send(tiny_net *net, int to, tiny_message *m)
{
    dying *b = (dying *)net;
    if (!m->begun && b->left-- == 0) {
        (void)snprintf(net->says, sizeof net->says, "rank %d lost its power", net->rank);
        return TINY_E_IO;
    }
    return b->inner->send(b->inner, to, m);
}
static tiny_status dying_recv(tiny_net *net, int from, tiny_message *m)
{
    tiny_status st = ((dying *)net)->inner->recv(((dying *)net)->inner, from, m);
    memcpy(net->says, ((dying *)net)->inner->says, sizeof net->says);
    return st;
}
static void dying_close(tiny_net *net) { ((dying *)net)->inner->close(((dying *)net)->inner); }
static uint64_t dying_changes(tiny_net *net) { return ((dying *)net)->inner->changes(((dying *)net)->inner); }
static void dying_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    ((dying *)net)->inner->pause(((dying *)net)->inner, seen, until);
}
static void dying_wake(tiny_net *net) { ((dying *)net)->inner->wake(((dying *)net)->inner); }

/* rank 1 dies at each of its messages in the middle of a pass, all routes ladder; no rank hangs, no rank gets
 * numbers */
static void test_death(tiny_target target)
{
    static const unsigned char route[2 * L] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    weights *w = (weights *)t_keep(sizeof *w);
    tiny_ctx *ctx;
    made file;
    int left, world, i, died;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (world = 2; world <= 4; world += 2)
        for (left = 0, died = 1; died; left++) {
            tiny_local_desc d;
            dying bad;
            run r;
            memset(&d, 0, sizeof d);
            memset(&r, 0, sizeof r);
            memset(&bad, 0, sizeof bad);
            d.world = r.world = world;
            d.queue_bytes = 65536;
            ctx = t_ctx(target, 1);
            T_OK(tiny_local_open(ctx, &d, &r.local));
            bad.inner = tiny_local_net(r.local, 1);
            bad.net = *bad.inner;
            bad.left = left;
            bad.net.send = dying_send;
            bad.net.recv = dying_recv;
            bad.net.close = dying_close;
            bad.net.changes = dying_changes;
            bad.net.pause = dying_pause;
            bad.net.wake = dying_wake;
            r.net[1] = &bad.net;
            r.file = &file;
            r.route = route;
            r.no_thread = left % 2;
            for (i = 0; i < world; i++) r.logits[i] = t_guarded(TOKENS * V);
            if (!t_ranks(world, model_rank, &r)) { left = -2; died = 0; }
            else {
                died = r.st[1] != TINY_OK;
                for (i = 0; i < world; i++) {
                    /* with its last message on the way, some other ranks have all data */
                    if (died && left < (world == 2 ? 9 : 18) - 2) T_TRUE(r.st[i] == (i == 1 ? TINY_E_IO : TINY_E_PEER));
                    if (r.st[i]) T_TRUE(strstr(r.says[i], i == 1 ? "rank 1 lost its power" : "is gone") != NULL);
                }
                if (!died) T_EQ_INT(left, world == 2 ? 9 : 18);        /* 8 sums and the agreement, by doubling */
            }
            forget(&r);
            tiny_local_close(ctx, r.local);
            t_close(ctx);
        }
    unmake(&file);
    T_PROOF("attention 8", "bad input: peer death in mid-layer, an error and no hang");
}

static void test_mismatch(tiny_target target)
{
    weights *w = (weights *)t_keep(sizeof *w);
    made file;
    run r, base;
    int i;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    memset(&base, 0, sizeof base);
    base.file = &file;
    base.world = 2;
    r = base;
    r.other_rank = 1;                       /* each has the other one's part */
    if (!run_model(&r, NULL)) { unmake(&file); return; }
    for (i = 0; i < 2; i++) {
        char says[100];
        (void)snprintf(says, sizeof says, "the model is cut for rank %d of 2, but the comm is rank %d of 2", 1 - i,
                       i);
        T_EQ_INT(r.st[i], TINY_E_ARGUMENT);
        T_TRUE(strstr(r.says[i], says) != NULL);
    }
    r = base;
    r.extra[1] = 1;                         /* another number of tokens */
    run_model(&r, NULL);
    T_TRUE(r.st[0] == TINY_E_PROTOCOL || r.st[1] == TINY_E_PROTOCOL);
    for (i = 0; i < 2; i++) T_TRUE(r.st[i] == TINY_E_PROTOCOL || r.st[i] == TINY_E_PEER);
    forget(&r);
    r = base;
    r.world = 3;
    run_model(&r, NULL);
    for (i = 0; i < 3; i++)
        T_TRUE(r.st[i] == TINY_E_SHAPE &&
               strstr(r.says[i], "layer 0: 8 heads and 4 key heads cannot be divided by 3 ranks"));
    forget(&r);
    unmake(&file);
    w->ff = 90;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    r = base;
    r.world = 4;
    run_model(&r, NULL);
    for (i = 0; i < 4; i++)
        T_TRUE(r.st[i] == TINY_E_SHAPE && strstr(r.says[i], "layer 0: a network of 90 cannot be divided by 4 ranks"));
    forget(&r);
    unmake(&file);
    T_PROOF("attention 8", "bad input: rank mismatch, H or FFN not divisible");
    (void)target;                           /* the workers read t_now */
}

/* routes that differ between the ranks, found when the states open */
typedef struct differ { const made *file; tiny_local *local; tiny_status st[2]; char says[2][240]; } differ;
static void differ_rank(int rank, void *arg)
{
    static const unsigned char route[2 * L] = { 0, 0, 1, 1, 0, 0, 0, 0 };
    differ *r = (differ *)arg;
    tiny_comm_desc cd;
    t_rank m;
    memset(&cd, 0, sizeof cd);
    cd.net = tiny_local_net(r->local, rank);
    m = t_rank_model(TINY_TARGET_AUTO, &cd, NULL, r->file->at, r->file->n);
    if (!m.st && rank) m.st = tllm_model_routes(m.ctx, m.model, route, 2 * L);
    t_rank_cut(&m, rank, 2);
    t_rank_state(&m, 0, 0);
    r->st[rank] = t_rank_leave(&m, r->says[rank], sizeof r->says[rank]);
}
static void test_differ(void)
{
    weights *w = (weights *)t_keep(sizeof *w);
    tiny_local_desc d;
    made file;
    differ r;
    int i;
    memset(&r, 0, sizeof r);
    memset(&d, 0, sizeof d);
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    d.world = 2;
    T_OK(tiny_local_open(file.ctx, &d, &r.local));
    r.file = &file;
    if (t_ranks(2, differ_rank, &r))
        for (i = 0; i < 2; i++)
            T_TRUE(r.st[i] == TINY_E_PROTOCOL &&
                   strstr(r.says[i], "the model, its shares or the length of its pieces of rank"));
    tiny_local_close(file.ctx, r.local);
    unmake(&file);
}

static void test_bad_calls(void)
{
    static const unsigned char flags[L] = { 0, 1, 0, 0 }, short_flags[2] = { 1, 1 };
    static const unsigned char parted[2 * L] = { 2, 0, 0, 0, 0, 0, 0, 0 }, open_end[2 * L] = { 0, 0, 0, 0, 0, 0, 0, 2 },
                                          unknown[2 * L] = { 9, 0, 0, 0, 0, 0, 0, 0 },
                                          joined[2 * L] = { 2, 3, 0, 0, 2, 2, 2, 3 };
    weights *w = (weights *)t_keep(sizeof *w);
    tllm_gguf *g = NULL;
    tllm_model *m = NULL;
    tllm_state *s = NULL;
    tllm_about about;
    tllm_state_desc d;
    tllm_ladder a;
    made file;
    size_t n = 0;
    float x = 1.0f, y[2] = { 1.0f, 1.0f };
    if (!make(&file, w, TLLM_FORMAT_F32, flags, L)) return;
    T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
    T_OK(tllm_model_open(file.ctx, g, &m));
    T_STATUS(tllm_model_cut(file.ctx, m, 2, 2), TINY_E_ARGUMENT, "rank 2 of 2");
    T_STATUS(tllm_model_cut(file.ctx, m, 0, 65), TINY_E_ARGUMENT, "at most 64");
    T_STATUS(tllm_model_cut(file.ctx, NULL, 0, 1), TINY_E_ARGUMENT, "the model is NULL");
    T_STATUS(tllm_model_cut(file.ctx, m, 0, 8), TINY_E_SHAPE, "4 key heads cannot be divided by 8 ranks");
    T_STATUS(tllm_model_routes(file.ctx, m, parted, 2 * L), TINY_E_ARGUMENT, "a join is needed first");
    T_STATUS(tllm_model_routes(file.ctx, m, open_end, 2 * L), TINY_E_ARGUMENT, "without a join");
    T_STATUS(tllm_model_routes(file.ctx, m, unknown, 2 * L), TINY_E_ARGUMENT, "route 9 of layer 0");
    T_STATUS(tllm_model_routes(file.ctx, m, joined, 3), TINY_E_ARGUMENT, "3 routes for the two halves of 4 layers");
    T_STATUS(tllm_model_routes(file.ctx, m, NULL, 2 * L), TINY_E_ARGUMENT, "the routes are NULL");
    T_OK(tllm_model_routes(file.ctx, m, joined, 2 * L));
    T_OK(tllm_model_cut(file.ctx, m, 0, 1));
    T_OK(tllm_state_open(file.ctx, m, NULL, &s));       /* the failures before changed nothing */
    tllm_state_close(file.ctx, s);
    T_OK(tllm_model_cut(file.ctx, m, 1, 2));
    tllm_model_about(m, &about);
    T_TRUE(about.rank == 1 && about.world == 2);
    T_STATUS(tllm_model_cut(file.ctx, m, 0, 2), TINY_E_ARGUMENT, "cut already, for rank 1 of 2");
    memset(&d, 0, sizeof d);
    T_STATUS(tllm_state_open(file.ctx, m, &d, &s), TINY_E_ARGUMENT,
             "cut for rank 1 of 2, but the comm is rank 0 of 1");
    T_STATUS(tllm_state_memory(file.ctx, m, &d, &n), TINY_E_ARGUMENT, "cut for rank 1 of 2");
    tllm_model_close(file.ctx, m);
    tllm_gguf_close(file.ctx, g);
    memset(&a, 0, sizeof a);
    a.ctx = file.ctx;
    a.n = 1;
    T_EQ_INT(tllm_ladder_enter(NULL, 0, 0, &x), TINY_E_ARGUMENT);
    T_STATUS(tllm_ladder_enter(&a, 0, 0, &x), TINY_E_ARGUMENT, "both y are needed");
    a.y[0] = &y[0];
    a.y[1] = &y[1];
    T_STATUS(tllm_ladder_enter(&a, TLLM_ROUTES, 0, &x), TINY_E_ARGUMENT, "on route 4");
    T_STATUS(tllm_ladder_enter(&a, 0, 2, &x), TINY_E_ARGUMENT, "half 2");
    T_OK(tllm_ladder_enter(&a, TLLM_ROUTE_LADDER, 1, &x));
    T_OK(tllm_ladder_leave(&a, TLLM_ROUTE_LADDER, 1, 0, &x));
    T_STATUS(tllm_ladder_leave(&a, TLLM_ROUTE_LADDER, 1, 0, &x), TINY_E_ARGUMENT, "without tllm_ladder_enter");
    unmake(&file);
    if (!make(&file, w, TLLM_FORMAT_F32, short_flags, 2)) return;
    T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
    T_STATUS(tllm_model_open(file.ctx, g, &m), TINY_E_FORMAT, "llama.ladder has no bool for layer 2");
    tllm_gguf_close(file.ctx, g);
    unmake(&file);
}

/* a state that one rank saved is not that of another */
static void test_saved(void)
{
    weights *w = (weights *)t_keep(sizeof *w);
    made file;
    run r;
    int rank, st[2] = { 0, 0 };
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    memset(&r, 0, sizeof r);
    r.file = &file;
    r.world = 2;
    if (run_model(&r, NULL) && all_ok(&r)) {
        tllm_gguf *g = NULL;
        tllm_model *m = NULL;
        tllm_state *s = NULL;
        T_OK(tllm_gguf_open_memory(file.ctx, file.at, file.n, &g));
        T_OK(tllm_model_open(file.ctx, g, &m));
        T_OK(tllm_state_open(file.ctx, m, NULL, &s));
        for (rank = 0; rank < 2; rank++)
            st[rank] = (int)tllm_state_unpack(s, 0, r.state[rank], r.n_state[rank], NULL, 0, NULL);
        T_TRUE(st[0] != TINY_OK && st[1] != TINY_OK);
        /* nor that of the other rank */
        T_TRUE(memcmp((unsigned char *)r.state[0] + 192, (unsigned char *)r.state[1] + 192, 20) != 0);
        tllm_state_close(file.ctx, s);
        tllm_model_close(file.ctx, m);
        tllm_gguf_close(file.ctx, g);
    }
    forget(&r);
    unmake(&file);
}

int main(void)
{
    T_RUN_TARGETS(test_death);
    T_RUN_TARGETS(test_mismatch);
    T_RUN(test_differ);
    T_RUN(test_bad_calls);
    T_RUN(test_saved);
    return t_done();
}
