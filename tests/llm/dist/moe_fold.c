/* tests/llm/dist/moe_fold.c - mixture layers whose tokens travel, over threads and over TCP
 *
 * Truth    the layer in plain loops on one rank, sums in double (a second text of the formulas, without exchange);
 *          Megatron Core: choices with and without a capacity, outputs, the balancing loss
 *          (tests/golden/make/ranks.py); four tokens and a capacity of 2, worked by hand; experts that change nothing;
 *          sums of rows over all ranks. No test reads the wall clock. */
#include "t.h"
#include "ranks.h"

enum { MOST = 8, WIDTH = 20, HIDDEN = 24, EXPERTS = 8, K = 3 };
static const char secret[] = "correct horse battery staple";

typedef struct job {
    int world, tcp;
    tiny_target target;
    tllm_folding f;
    tllm_moe_desc d;
    tiny_idx tokens[MOST], first[MOST];
    const float *x;
    float *y;                               /* (all tokens, WIDTH) */
    const float *router, *gate, *up, *down;
    int identity, rounds;
    const float *logits;
    tiny_fault_at fault;
    int has_fault, victim;
    uint64_t timeout;
    tiny_local *local;
    tiny_socket at[MOST];
    char address[MOST][TINY_ADDRESS_TEXT];
    const char *peers[MOST];
    /* findings */
    tiny_status st[MOST], later[MOST];
    char says[MOST][240];
    tiny_idx sent[MOST], received[MOST], rows[MOST], kept[MOST], capacity[MOST], of_expert[MOST][EXPERTS];
    tiny_idx bytes_kept[MOST];
    unsigned char *keep;                    /* (all tokens, EXPERTS) */
    uint64_t messages[MOST];
    double balance[MOST];
    tiny_target ran_on[MOST];
} job;

static void rank_main(int rank, void *arg)
{
    job *j = (job *)arg;
    tiny_ctx *ctx = t_rank_ctx(j->target);
    tiny_tcp *tcp = NULL;
    tiny_fault *fault = NULL;
    tiny_net *net = NULL;
    tllm_moe_desc d = j->d;
    tllm_moe *moe = NULL;
    tiny_status st = TINY_OK;
    int i;
    if (j->tcp) {
        tiny_tcp_desc t;
        memset(&t, 0, sizeof t);
        t.rank = rank;
        t.world = j->world;
        t.peers = j->peers;
        t.listener = j->at[rank];
        t.secret = secret;
        t.n_secret = sizeof secret - 1;
        st = tiny_tcp_open(ctx, &t, &tcp);
        net = tiny_tcp_net(tcp);
    } else net = tiny_local_net(j->local, rank);
    if (!st && j->has_fault && rank == j->victim) {
        tiny_fault_desc f;
        memset(&f, 0, sizeof f);
        f.inner = net;
        f.at = &j->fault;
        f.n_at = 1;
        st = tiny_fault_open(ctx, &f, &fault);
        net = tiny_fault_net(fault);
    }
    d.net = net;
    d.folding = &j->f;
    d.timeout_ns = j->timeout ? j->timeout : UINT64_C(60000000000);
    if (!st) st = tllm_moe_open(ctx, &d, &moe);
    if (!st) {
        const tiny_idx n = j->tokens[rank], e_all = d.n_expert;
        const float *x = j->x + j->first[rank] * d.width;
        float *y = j->y + j->first[rank] * d.width, *logits = NULL;
        const tiny_idx *count = NULL;
        const float *rows = NULL;
        tllm_moe_plan p;
        tiny_idx own, first, hidden, h0, e;
        own = tllm_moe_own(moe, &first);
        hidden = tllm_moe_hidden(moe, &h0);
        if (j->identity || j->logits) {     /* experts that change nothing */
            logits = (float *)malloc(((size_t)(n * e_all) + 1) * sizeof(float));
            for (e = 0; e < n * e_all; e++) logits[e] = j->logits[j->first[rank] * e_all + e];
            for (i = 0; i < (j->rounds ? j->rounds : 1) && !st; i++) {
                st = tllm_moe_route(moe, logits, n);
                if (!st) st = tllm_moe_dispatch(moe, x, &rows, &count);
                for (e = 0; !st && e < own; e++) j->of_expert[rank][first + e] = count[e];
                if (!st) st = tllm_moe_combine(moe, rows, y);
            }
        } else {                            /* this rank's part of each expert, cut out of the whole layer */
            tllm_moe_weights w;
            float *g = (float *)malloc((size_t)(own * d.width * hidden) * sizeof(float));
            float *u = (float *)malloc((size_t)(own * d.width * hidden) * sizeof(float));
            float *dn = (float *)malloc((size_t)(own * d.width * hidden) * sizeof(float));
            tiny_idx a, b;
            for (e = 0; e < own; e++)
                for (a = 0; a < d.width; a++)
                    for (b = 0; b < hidden; b++) {
                        const tiny_idx all = ((first + e) * d.width + a) * d.hidden + h0 + b;
                        g[(e * d.width + a) * hidden + b] = j->gate[all];
                        u[(e * d.width + a) * hidden + b] = j->up[all];
                        dn[(e * hidden + b) * d.width + a] =
                            j->down[((first + e) * d.hidden + h0 + b) * d.width + a];
                    }
            w.router = j->router;
            w.gate = g;
            w.up = u;
            w.down = dn;
            for (i = 0; i < (j->rounds ? j->rounds : 1) && !st; i++) st = tllm_moe_layer(moe, &w, x, n, y);
            free(g);
            free(u);
            free(dn);
        }
        j->ran_on[rank] = tiny_ctx_ran_on(ctx);
        p = tllm_moe_plan_of(moe);
        j->sent[rank] = p.rows_sent;
        j->received[rank] = p.rows_received;
        j->rows[rank] = p.rows;
        j->kept[rank] = p.kept;
        j->capacity[rank] = p.capacity;
        j->balance[rank] = p.balance;
        for (e = 0; !st && j->keep && e < p.pairs; e++)
            j->keep[(j->first[rank] + e / d.k) * e_all + p.expert[e]] = p.keep[e];
        for (i = 0; i < j->world; i++) j->messages[rank] += net->count[i].messages_sent;
        (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
        if (st) j->later[rank] = tllm_moe_route(moe, logits ? logits : x, 0);
        free(logits);
    } else (void)snprintf(j->says[rank], sizeof j->says[rank], "%s", tiny_ctx_message(ctx));
    j->st[rank] = st;
    tllm_moe_close(moe);
    if (net) net->close(net);
    tiny_fault_close(ctx, fault);
    tiny_tcp_close(ctx, tcp);
    tiny_ctx_close(ctx);
}

static int run_job(job *j)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int i, n, ok = 1;
    for (i = 0; j->tcp && i < j->world; i++) {
        tiny_address a;
        tiny_socket at[TINY_ADDRESSES];
        ok &= T_OK(tiny_listen_at(ctx, "127.0.0.1:0", at, &n)) && T_OK(tiny_socket_address(ctx, at[0], &a));
        j->at[i] = at[0];
        tiny_address_text(&a, j->address[i]);
        j->peers[i] = j->address[i];
    }
    if (!j->tcp) {
        tiny_local_desc d;
        memset(&d, 0, sizeof d);
        d.world = j->world;
        d.queue_bytes = 16384;
        ok = T_OK(tiny_local_open(ctx, &d, &j->local));
    }
    ok = ok && t_ranks(j->world, rank_main, j);
    tiny_local_close(ctx, j->local);
    for (i = 0; j->tcp && i < j->world; i++) tiny_socket_close(j->at[i]);
    t_close(ctx);
    return ok;
}
static void all_ok(const job *j)
{
    int r;
    for (r = 0; r < j->world; r++)
        if (!T_EQ_INT(j->st[r], TINY_OK)) printf("  rank %d of %d: %s\n", r, j->world, j->says[r]);
}

/* a layer by seed, and tokens: the ranks get n[0], n[1] ... of them */
static job some_job(int world, tiny_idx tokens)
{
    job j;
    tiny_idx at = 0;
    int r;
    memset(&j, 0, sizeof j);
    j.world = world;
    j.target = TINY_TARGET_AUTO;
    j.f.dp = world;
    j.d.n_expert = EXPERTS;
    j.d.k = K;
    j.d.width = WIDTH;
    j.d.hidden = HIDDEN;
    for (r = 0; r < world; r++) {
        j.first[r] = at;
        j.tokens[r] = tokens * (r + 1) / world - tokens * r / world;
        at += j.tokens[r];
    }
    j.x = t_rand((size_t)(tokens * WIDTH), -1.0f, 1.0f);
    j.y = t_guarded((size_t)(tokens * WIDTH));
    j.router = t_rand(WIDTH * EXPERTS, -0.5f, 0.5f);
    j.gate = t_rand(EXPERTS * WIDTH * HIDDEN, -0.5f, 0.5f);
    j.up = t_rand(EXPERTS * WIDTH * HIDDEN, -0.5f, 0.5f);
    j.down = t_rand(EXPERTS * WIDTH * HIDDEN, -0.5f, 0.5f);
    j.keep = (unsigned char *)t_keep((size_t)(tokens * EXPERTS) + 1);
    memset(j.keep, 0, (size_t)(tokens * EXPERTS));
    return j;
}

/* ---- the layer --------------------------------------------------------------------------------------------------- */

/* the reference, for desc of a job, over tokens first to first + n */
static void reference(const job *j, tiny_idx first, tiny_idx n, float *y, unsigned char *keep)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_moe_weights w;
    w.router = j->router;
    w.gate = j->gate;
    w.up = j->up;
    w.down = j->down;
    T_OK(tllm_moe_layer_ref(ctx, &j->d, &w, j->x + first * WIDTH, n, y, keep));
    t_close(ctx);
}

static const struct { int world, ep, etp, pp; } shapes[] = { { 1, 1, 1, 1 }, { 2, 2, 1, 1 }, { 4, 4, 1, 1 },
    { 8, 8, 1, 1 }, { 8, 2, 1, 1 }, { 4, 2, 1, 2 }, { 2, 1, 2, 1 }, { 4, 2, 2, 1 }, { 8, 4, 2, 1 }, { 8, 2, 2, 2 } };

static void test_layer(tiny_target target)
{
    static float one[45 * WIDTH], want[45 * WIDTH];
    size_t s, i;
    job j = some_job(1, 45);
    const job base = j;
    reference(&base, 0, 45, want, NULL);
    for (s = 0; s < T_COUNT(shapes); s++) {
        int r;
        const int world = shapes[s].world;
        j = base;
        j.world = world;
        j.target = target;
        for (r = 0; r < world; r++) {       /* uneven: the second rank has none */
            const tiny_idx cut[9] = { 0, world > 2 ? 20 : 45, world > 2 ? 20 : 45, 24, 31, 32, 38, 45, 45 };
            j.first[r] = cut[r];
            j.tokens[r] = (r == world - 1 ? 45 : cut[r + 1]) - cut[r];
        }
        j.f.pp = shapes[s].pp;
        j.f.dp = world / shapes[s].pp;
        j.f.ep = shapes[s].ep;
        j.f.etp = shapes[s].etp;
        j.f.across = s == 4;
        memset(j.y, 0xff, 45 * WIDTH * sizeof(float));
        if (!run_job(&j)) return;
        all_ok(&j);
        T_WALLS(j.y, 45 * WIDTH);
        for (i = 0; i < 45 * WIDTH; i++)
            if (!T_CLOSE(j.y[i], want[i], 1e-6 * (1.0 + fabs((double)want[i])))) break;
        if (s == 0) memcpy(one, j.y, sizeof one);
        if (j.f.etp == 1) T_SAME(j.y, one, 45 * WIDTH);
        for (r = 0; r < world && target != TINY_TARGET_REFERENCE; r++)
            if (j.rows[r]) T_EQ_INT(j.ran_on[r], t_vectors(target));
    }
    T_PROOF("distributed 5", "ep in {1,2,4,8} x etp in {1,2} equals the layer on one rank; the same bits with etp 1");
    T_PROOF("distributed 5", "bad input: no tokens on a rank");
}

/* 14 tokens of 4 numbers, 6 experts of 5, two for each: Megatron Core on one rank; here on one, two and three */
static void test_megatron_layer(void)
{
    enum { T = 14, W = 4, E = 6, H = 5 };
    static const struct { int drop, plain; double factor; const double *y; const char *const *kept; } of[] = {
        { TLLM_MOE_DROPLESS, 0, 0.0, experts_all, experts_all_kept },
        { TLLM_MOE_DROPLESS, 1, 0.0, experts_plain, experts_plain_kept },
        { TLLM_MOE_DROP_PROBS, 1, 1.0, experts_one, experts_one_kept },
        { TLLM_MOE_DROP_PROBS, 1, 0.75, experts_few, experts_few_kept } };
    static float x[T * W], y[T * W + 1], router[W * E], gate[E * W * H], up[E * W * H], down[E * W * H];
    size_t k;
    int i, e, world, lost = 0;
    for (i = 0; i < T * W; i++) x[i] = (float)((i * i * 37 + i * 11) % 997 - 498) / 512.0f;
    for (i = 0; i < W * E; i++) router[i] = (float)((i * i * 61 + i * 7) % 1009 - 504) / 512.0f;
    for (i = 0; i < E * W * H; i++) {
        gate[i] = (float)((i * 23 + 5) % 89 - 44) / 64.0f;
        up[i] = (float)((i * 31 + 3) % 83 - 41) / 64.0f;
        down[i] = (float)((i * 41 + 13) % 79 - 39) / 64.0f;
    }
    for (k = 0; k < T_COUNT(of); k++)
        for (world = 1; world <= 3; world++) {
            job j;
            int r;
            memset(&j, 0, sizeof j);
            j.world = world;
            j.target = TINY_TARGET_AUTO;
            j.f.cp = world;
            j.f.ep = world;
            j.d.n_expert = E;
            j.d.k = 2;
            j.d.width = W;
            j.d.hidden = H;
            j.d.drop = of[k].drop;
            j.d.factor = of[k].factor;
            j.d.plain_gates = of[k].plain;
            j.d.whole_sequence = 1;
            j.d.balance = 0.25;
            for (r = 0; r < world; r++) {
                j.first[r] = T * r / world;
                j.tokens[r] = T * (r + 1) / world - T * r / world;
            }
            j.x = x;
            j.y = y;
            j.router = router;
            j.gate = gate;
            j.up = up;
            j.down = down;
            j.keep = (unsigned char *)t_keep(T * E);
            memset(j.keep, 0, T * E);
            if (!run_job(&j)) return;
            all_ok(&j);
            for (i = 0; i < T * W; i++) if (!T_CLOSE(y[i], of[k].y[i], 1e-6)) break;
            for (i = 0; i < T; i++)
                for (e = 0; e < E; e++) {
                    T_EQ_INT(j.keep[i * E + e], of[k].kept[i][e] - '0');
                    lost += experts_all_kept[i][e] - of[k].kept[i][e];
                }
            if (world == 1 && k == 0) T_CLOSE(j.balance[0], experts_balance, 1e-9);
            t_free_blocks();
        }
    T_TRUE(lost > 10);
    T_PROOF("distributed 5", "choices, capacities, outputs and balancing loss of Megatron Core");
}

/* sizes that are no multiple of anything: the reference, and every row alone has the bits that it has among others */
static void test_kernels(tiny_target target)
{
    enum { W = 301, H = 150, T = 23, E = 2 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tllm_moe_desc d;
    tllm_moe *moe = NULL;
    tllm_moe_weights w;
    float *x = t_rand(T * W, -1.0f, 1.0f), *y = t_guarded(T * W), *want = t_guarded(T * W), *one = t_guarded(W);
    int t, i;
    memset(&d, 0, sizeof d);
    d.n_expert = E;
    d.k = 2;
    d.width = W;
    d.hidden = H;
    w.router = t_rand(W * E, -0.1f, 0.1f);
    w.gate = t_rand(E * W * H, -0.1f, 0.1f);
    w.up = t_rand(E * W * H, -0.1f, 0.1f);
    w.down = t_rand(E * W * H, -0.1f, 0.1f);
    if (!T_OK(tllm_moe_open(ctx, &d, &moe))) return;
    T_OK(tllm_moe_layer(moe, &w, x, T, y));
    T_OK(tllm_moe_layer_ref(ctx, &d, &w, x, T, want, NULL));
    for (i = 0; i < T * W; i++)
        if (!T_CLOSE(y[i], want[i], 4e-6)) break;
    for (t = 0; t < T; t++) {
        T_OK(tllm_moe_layer(moe, &w, x + t * W, 1, one));
        T_SAME(one, y + t * W, W);
    }
    T_WALLS(y, T * W);
    T_WALLS(one, W);
    tllm_moe_close(moe);
    t_close(ctx);
}

static void test_tcp(void)
{
    static float want[30 * WIDTH];
    static const struct { int world, ep, etp; } of[] = { { 2, 2, 1 }, { 4, 2, 2 }, { 3, 1, 1 } };
    size_t s, i;
    for (s = 0; s < T_COUNT(of); s++) {
        job j = some_job(of[s].world, 30);
        j.tcp = 1;
        j.f.ep = of[s].ep;
        j.f.etp = of[s].etp;
        j.rounds = 2;
        if (of[s].world == 3) j.d.drop = TLLM_MOE_DROP_PROBS;
        if (!run_job(&j)) return;
        all_ok(&j);
        if (of[s].world == 3)               /* each rank drops for itself */
            for (i = 0; i < 3; i++)
                reference(&j, j.first[i], j.tokens[i], want + j.first[i] * WIDTH, NULL);
        else reference(&j, 0, 30, want, NULL);
        for (i = 0; i < 30 * WIDTH; i++)
            if (!T_CLOSE(j.y[i], want[i], 1e-6 * (1.0 + fabs((double)want[i])))) break;
        t_free_blocks();
    }
    T_PROOF("distributed 5", "the layer over TCP");
}

/* Experts that change nothing, and gates that add up to 1: the tokens come back. Rows are neither lost nor made. */
static void test_identity(void)
{
    int form, ep;
    for (ep = 1; ep <= 4; ep *= 2)
        for (form = 0; form < 4; form++) {
            job j = some_job(4, 41);
            tiny_idx sent = 0, received = 0, kept = 0;
            size_t i;
            int r;
            j.identity = 1;
            j.logits = t_rand(41 * EXPERTS, -2.0f, 2.0f);
            j.f.ep = ep;
            j.d.half = form == 1;
            if (form == 2) for (i = 0; i < 41; i++) ((float *)(uintptr_t)j.logits)[i * EXPERTS + 5] = 40.0f;
            if (form == 3) {                /* one expert takes all tokens, the others none */
                j.d.k = 1;
                for (i = 0; i < 41; i++) ((float *)(uintptr_t)j.logits)[i * EXPERTS + 6] = 90.0f;
            }
            j.rounds = 2;
            if (!run_job(&j)) return;
            all_ok(&j);
            for (i = 0; i < 41 * WIDTH; i++)
                if (!T_CLOSE(j.y[i], j.x[i], form == 1 ? 2e-3 : 1e-6)) break;
            for (r = 0; r < 4; r++) {
                sent += j.sent[r];
                received += j.received[r];
                kept += j.kept[r];
                T_EQ_INT(j.sent[r], j.tokens[r] * j.d.k);
                T_EQ_INT(j.rows[r], j.received[r]);
                if (form == 3 && ep == 4) T_EQ_INT(j.rows[r], r == 3 ? 41 : 0);
            }
            T_EQ_INT(sent, 41 * j.d.k);
            T_EQ_INT(received, 41 * j.d.k);
            T_EQ_INT(kept, 41 * j.d.k);
            t_free_blocks();
        }
    T_PROOF("distributed 5", "experts that change nothing and gates that add up to 1 give the tokens back");
    T_PROOF("distributed 5", "rows sent = rows received = T k without dropping");
    T_PROOF("distributed 5", "bad input: all tokens to one expert, experts without tokens");
}

/* ---- dropping ---------------------------------------------------------------------------------------------------- */

/* four tokens, four experts, two of them each; expert 0 has probabilities .6, .5, .7, .9 */
static void test_worked(void)
{
    static const float p0[4] = { 0.6f, 0.5f, 0.7f, 0.9f };
    static const int other[4] = { 1, 2, 1, 3 };
    float logits[16], x[4 * 4];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int drop, t, e;
    for (t = 0; t < 4; t++)
        for (e = 0; e < 4; e++) {
            /* of the rest the second expert has almost all, and two have a little */
            const double rest = 1.0 - (double)p0[t], p = e == 0          ? (double)p0[t]
                                                         : e == other[t] ? 0.98 * rest
                                                                         : 0.01 * rest;
            logits[4 * t + e] = (float)log(p);
            x[4 * t + e] = (float)(t + 1);
        }
    for (drop = TLLM_MOE_DROPLESS; drop < TLLM_MOE_DROPS; drop++) {
        tllm_moe_desc d;
        tllm_moe *moe = NULL;
        tllm_moe_plan p;
        const tiny_idx *count;
        const float *rows;
        memset(&d, 0, sizeof d);
        d.n_expert = 4;
        d.k = 2;
        d.width = 4;
        d.drop = drop;
        d.factor = 1.0;
        if (!T_OK(tllm_moe_open(ctx, &d, &moe))) return;
        T_OK(tllm_moe_route(moe, logits, 4));
        T_OK(tllm_moe_dispatch(moe, x, &rows, &count));
        p = tllm_moe_plan_of(moe);
        T_EQ_INT(p.capacity, drop ? 2 : 0);
        T_EQ_INT(p.rows, drop ? 6 : 8);
        T_EQ_INT(p.kept, p.rows);
        T_EQ_INT(count[0], drop ? 2 : 4);
        T_EQ_INT(count[1], 2);
        T_EQ_INT(count[2], 1);
        T_EQ_INT(count[3], 1);
        if (drop) {                         /* the tokens that expert 0 keeps */
            T_CLOSE(rows[0], drop == TLLM_MOE_DROP_PROBS ? 3.0f : 1.0f, 0.0);
            T_CLOSE(rows[4], drop == TLLM_MOE_DROP_PROBS ? 4.0f : 2.0f, 0.0);
        }
        for (t = 0; t < 4; t++) {
            T_EQ_INT(p.expert[2 * t], 0);
            T_EQ_INT(p.expert[2 * t + 1], other[t]);
            T_CLOSE(p.gate[2 * t] + p.gate[2 * t + 1], 1.0, 1e-6);
            T_CLOSE(p.gate[2 * t], (double)p0[t] / ((double)p0[t] + 0.98 * (1.0 - (double)p0[t])), 1e-6);
        }
        tllm_moe_close(moe);
    }
    t_close(ctx);
    T_PROOF("distributed 5", "worked: four tokens, capacity 2, expert 0 keeps 2 and 3, or 0 and 1; 6 of 8 rows");
}

/* Equal probabilities: the lower expert, and of its tokens the first ones. */
static void test_ties(void)
{
    static const float same[10] = { 0.0f };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_moe_desc d;
    tllm_moe *moe = NULL;
    tllm_moe_plan p;
    int drop, t;
    memset(&d, 0, sizeof d);
    d.n_expert = 2;
    d.k = d.width = 1;
    for (drop = TLLM_MOE_DROP_PROBS; drop < TLLM_MOE_DROPS; drop++) {
        d.drop = drop;
        if (!T_OK(tllm_moe_open(ctx, &d, &moe))) return;
        T_OK(tllm_moe_route(moe, same, 5));
        p = tllm_moe_plan_of(moe);
        T_EQ_INT(p.capacity, 3);
        for (t = 0; t < 5; t++) {
            T_EQ_INT(p.expert[t], 0);
            T_EQ_INT(p.keep[t], t < 3);
        }
        tllm_moe_close(moe);
    }
    t_close(ctx);
    T_PROOF("distributed 5", "ties: the lower expert, the lower token");
}

/* The same sequence cut over 1, 2, 4, 8 ranks keeps the same pairs; and those of the reference. */
static void test_sequence(void)
{
    static unsigned char want[60 * EXPERTS], first[60 * EXPERTS];
    static float y[60 * WIDTH];
    int drop, world;
    for (drop = TLLM_MOE_DROP_PROBS; drop < TLLM_MOE_DROPS; drop++) {
        job base = some_job(1, 60);
        base.d.drop = drop;
        base.d.factor = 0.8;
        base.d.whole_sequence = 1;
        reference(&base, 0, 60, y, want);
        for (world = 1; world <= 8; world *= 2) {
            job j = base;
            int r, e;
            tiny_idx i;
            j.world = world;
            j.f.dp = 1;
            j.f.tp = world > 2 ? 2 : 1;
            j.f.cp = world / j.f.tp;
            j.f.ep = world;
            for (r = 0; r < world; r++) {
                j.first[r] = 60 * r / world;
                j.tokens[r] = 60 * (r + 1) / world - 60 * r / world;
            }
            memset(j.keep, 0, 60 * EXPERTS);
            if (!run_job(&j)) return;
            all_ok(&j);
            if (world == 1) memcpy(first, j.keep, sizeof first);
            T_SAME(j.keep, first, 60 * EXPERTS);
            T_SAME(j.keep, want, 60 * EXPERTS);
            for (e = 0; e < EXPERTS; e++) {
                tiny_idx n = 0;
                for (i = 0; i < 60; i++) n += j.keep[i * EXPERTS + e];
                T_TRUE(n <= 18);            /* ceil(0.8 * 60 * 3 / 8) */
            }
            for (i = 0; i < 60 * WIDTH; i++)
                if (!T_CLOSE(j.y[i], y[i], 1e-6 * (1.0 + fabs((double)y[i])))) break;
        }
        t_free_blocks();
    }
    T_PROOF("distributed 5", "dropping over the whole sequence keeps the same pairs for 1, 2, 4 and 8 ranks");
}

/* Each rank drops for itself; with padding every expert gets its capacity from every rank, and no counts travel. */
static void test_capacity(void)
{
    static unsigned char want[44 * EXPERTS];
    static float y[44 * WIDTH];
    uint64_t messages[2];
    int pad, r, e;
    for (pad = 0; pad < 2; pad++) {
        job j = some_job(4, 44);
        j.f.ep = 4;
        j.d.drop = TLLM_MOE_DROP_PROBS;
        j.d.factor = 1.0;
        j.d.pad = pad;
        if (!run_job(&j)) return;
        all_ok(&j);
        for (r = 0; r < 4; r++) {
            reference(&j, j.first[r], j.tokens[r], y + j.first[r] * WIDTH, want + j.first[r] * EXPERTS);
            T_EQ_INT(j.capacity[r], 5);     /* ceil(11 * 3 / 8) */
            for (e = 0; e < EXPERTS; e++) {
                tiny_idx n = 0, i;
                for (i = j.first[r]; i < j.first[r] + j.tokens[r]; i++) n += j.keep[i * EXPERTS + e];
                T_TRUE(n <= 5);
            }
            if (pad) T_EQ_INT(j.sent[r], 5 * EXPERTS);
            if (pad) T_EQ_INT(j.rows[r], 5 * 4 * EXPERTS / 4);
            if (!pad) T_EQ_INT(j.sent[r], j.kept[r]);
        }
        T_SAME(j.keep, want, 44 * EXPERTS);
        for (e = 0; e < 44 * WIDTH; e++)
            if (!T_CLOSE(j.y[e], y[e], 1e-6 * (1.0 + fabs((double)y[e])))) break;
        messages[pad] = j.messages[0];
        t_free_blocks();
    }
    T_EQ_INT(messages[0], 3 * 3);           /* counts, rows, results: one message to each of three ranks */
    T_EQ_INT(messages[1], 2 * 3);
    T_PROOF("distributed 5",
            "rows of an expert are at most its capacity; padding makes them equal and needs no counts");
}

/* equal shares: the loss is its coefficient; all on one expert: n_expert times as much; capacity above T: no drop */
static void test_balance(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_moe_desc d;
    tllm_moe *moe = NULL;
    float logits[64];
    int t, e;
    memset(&d, 0, sizeof d);
    d.n_expert = 8;
    d.k = 1;
    d.width = 1;
    d.balance = 0.25;
    d.drop = TLLM_MOE_DROP_PROBS;
    d.factor = 100.0;
    if (!T_OK(tllm_moe_open(ctx, &d, &moe))) return;
    for (t = 0; t < 8; t++) for (e = 0; e < 8; e++) logits[8 * t + e] = e == t ? 60.0f : 0.0f;
    T_OK(tllm_moe_route(moe, logits, 8));
    T_CLOSE(tllm_moe_plan_of(moe).balance, 0.25, 1e-12);
    T_EQ_INT(tllm_moe_plan_of(moe).kept, 8);
    T_EQ_INT(tllm_moe_plan_of(moe).capacity, 100);
    for (t = 0; t < 8; t++) for (e = 0; e < 8; e++) logits[8 * t + e] = e == 3 ? 60.0f : 0.0f;
    T_OK(tllm_moe_route(moe, logits, 8));
    T_CLOSE(tllm_moe_plan_of(moe).balance, 0.25 * 8, 1e-12);
    for (e = 0; e < 64; e++) logits[e] = 1.0f;      /* ties: the lower expert */
    T_OK(tllm_moe_route(moe, logits, 8));
    T_EQ_INT(tllm_moe_plan_of(moe).expert[5], 0);
    T_CLOSE(tllm_moe_plan_of(moe).balance, 0.25, 1e-7);
    tllm_moe_close(moe);
    t_close(ctx);
    T_PROOF("distributed 5", "balancing loss: its coefficient for equal shares, n_expert times that for one expert");
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc ld;
    tiny_local *local = NULL;
    tllm_folding f;
    tllm_moe_desc d;
    tllm_moe *moe = NULL;
    tllm_levels_desc l;
    tllm_levels *levels = NULL;
    tllm_moe_weights w;
    const tiny_idx *count;
    const float *rows;
    float logits[16], x[8] = { 0 }, y[8];
    int member[TINY_NET_RANKS], i;
    memset(&ld, 0, sizeof ld);
    ld.world = 4;
    memset(&f, 0, sizeof f);
    memset(&d, 0, sizeof d);
    memset(&l, 0, sizeof l);
    memset(&w, 0, sizeof w);
    T_OK(tiny_local_open(ctx, &ld, &local));
    T_STATUS(tllm_folding_check(ctx, NULL, 4), TINY_E_ARGUMENT, "missing");
    T_STATUS(tllm_folding_check(ctx, &f, 0), TINY_E_ARGUMENT, "0 ranks");
    T_STATUS(tllm_folding_check(ctx, &f, 4), TINY_E_ARGUMENT, "1 x 1 x 1 x 1 are 1 ranks, not 4");
    f.dp = 4;
    f.ep = 3;
    T_STATUS(tllm_folding_check(ctx, &f, 4), TINY_E_ARGUMENT, "1 x 3 x 1 do not divide 4 ranks");
    f.ep = -1;
    T_STATUS(tllm_folding_check(ctx, &f, 4), TINY_E_ARGUMENT, "ep is -1");
    T_EQ_INT(tllm_folding_group(&f, 4, TLLM_FOLD_EP, 0, member), 0);
    T_EQ_INT(tllm_folding_stage(&f, 4, 0), -1);
    f.ep = 4;
    T_EQ_INT(tllm_folding_group(&f, 4, TLLM_FOLD_AXES, 0, member), 0);
    T_EQ_INT(tllm_folding_group(&f, 4, TLLM_FOLD_EP, 4, member), 0);
    d.n_expert = 6;
    d.k = 2;
    d.width = 2;
    d.hidden = 5;
    d.net = tiny_local_net(local, 0);
    d.folding = &f;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_SHAPE, "6 experts cannot be divided evenly by ep = 4");
    d.n_expert = 8;
    f.ep = f.etp = 2;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_SHAPE, "5 hidden numbers cannot be divided evenly by etp = 2");
    T_PROOF("distributed 5", "bad input: experts that ep does not divide");
    d.net = NULL;
    d.folding = NULL;
    d.k = 9;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_ARGUMENT, "a token goes to 9 of 8 experts");
    T_PROOF("distributed 5", "bad input: more experts for a token than there are");
    d.k = 2;
    d.n_expert = 0;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_ARGUMENT, "0 experts");
    d.n_expert = 8;
    d.width = 0;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_ARGUMENT, "rows of 0 numbers");
    d.width = 2;
    d.drop = 3;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_ARGUMENT, "no way to drop");
    d.drop = 0;
    d.pad = 1;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_UNSUPPORTED, "padding needs a capacity");
    d.pad = 0;
    d.factor = -1.0;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_ARGUMENT, "capacity factor of -1");
    d.factor = 0.0;
    d.balance = NAN;
    T_STATUS(tllm_moe_open(ctx, &d, &moe), TINY_E_ARGUMENT, "balancing factor");
    d.balance = 0.0;
    T_STATUS(tllm_moe_open(ctx, NULL, &moe), TINY_E_ARGUMENT, "description");
    T_OK(tllm_moe_open(ctx, &d, &moe));
    T_STATUS(tllm_moe_dispatch(moe, x, &rows, &count), TINY_E_ARGUMENT, "call tllm_moe_route before");
    T_STATUS(tllm_moe_combine(moe, x, y), TINY_E_ARGUMENT, "call tllm_moe_dispatch before");
    T_STATUS(tllm_moe_route(moe, NULL, 1), TINY_E_ARGUMENT, "logits of 1 tokens");
    T_STATUS(tllm_moe_layer(moe, &w, x, 1, y), TINY_E_ARGUMENT, "weights of experts are missing");
    T_OK(tllm_moe_route(moe, NULL, 0));
    for (i = 0; i < 16; i++) logits[i] = (float)i;
    logits[11] = NAN;
    T_STATUS(tllm_moe_route(moe, logits, 2), TINY_E_NUMERIC, "token 1 has a logit for expert 3 that is not finite");
    T_STATUS(tllm_moe_route(moe, logits, 1), TINY_E_NUMERIC, "the group has ended");
    tllm_moe_close(moe);
    l.net = d.net = tiny_local_net(local, 0);
    T_STATUS(tllm_levels_open(ctx, &l, &levels), TINY_E_ARGUMENT, "0 of them");
    l.n_level = 2;
    l.level[0].ranks = 2;
    l.level[1].ranks = 3;
    T_STATUS(tllm_levels_open(ctx, &l, &levels), TINY_E_ARGUMENT, "groups of 3 ranks on level 1");
    l.level[1].ranks = 2;
    T_STATUS(tllm_levels_open(ctx, &l, &levels), TINY_E_ARGUMENT, "2 of 4 ranks");
    l.level[1].ranks = 4;
    l.level[1].bits_per_second = -1.0;
    T_STATUS(tllm_levels_open(ctx, &l, &levels), TINY_E_ARGUMENT, "-1 bits per second");
    T_STATUS(tllm_levels_open(ctx, NULL, &levels), TINY_E_ARGUMENT, "a net");
    tiny_local_close(ctx, local);
    t_close(ctx);
}

/* NaN on one rank, and a rank that ends at each of its messages: the others get an error, none waits for ever */
static void test_ends(void)
{
    int tcp, at, r;
    for (tcp = 0; tcp < 2; tcp++) {
        job j = some_job(4, 24);
        j.tcp = tcp;
        j.f.ep = 4;
        j.identity = 1;
        j.logits = t_rand(24 * EXPERTS, -2.0f, 2.0f);
        ((float *)(uintptr_t)j.logits)[9 * EXPERTS + 2] = NAN;      /* of rank 1 */
        if (!run_job(&j)) return;
        for (r = 0; r < 4; r++) {
            T_EQ_INT(j.st[r], r == 1 ? TINY_E_NUMERIC : TINY_E_PEER);
            T_EQ_INT(j.later[r], j.st[r]);
        }
        T_PROOF("distributed 5", "bad input: logits that are not numbers");
        for (at = 0; at < 64; at++) {       /* counts 0 .. 2, rows, results of victim 2 */
            job k = some_job(4, 24);
            int ended = 0;
            k.tcp = tcp;
            k.f.ep = 2;
            k.f.etp = 2;
            k.has_fault = 1;
            k.victim = 2;
            k.fault.to = -1;
            k.fault.message = (uint64_t)at;
            k.fault.kind = TINY_FAULT_KILL;
            if (!run_job(&k)) return;
            for (r = 0; r < 4; r++) ended += k.st[r] != TINY_OK;
            t_free_blocks();
            if (!ended) break;              /* it has sent fewer messages */
            for (r = 0; r < 4; r++)
                if (r != 2 && k.st[r]) T_TRUE(k.st[r] == TINY_E_PEER || k.st[r] == TINY_E_PROTOCOL);
            T_TRUE(k.st[2] != TINY_OK);
        }
        T_TRUE(at > 3 && at < 64);
        t_free_blocks();
    }
    T_PROOF("distributed 5", "bad input: a rank ends at each of its messages, over threads and TCP");
}

/* A rank whose messages are changed on their way: its claims are checked before they are used. Messages 0 and 2 have
 * counts of 64 bits, which become negative or one too many. Message 1 has the choices of tokens as floats: a flipped
 * bit makes a negative expert, half of one, infinity. */
static void test_lies(void)
{
    static const int bit[3][4] = { { 0, 63, 0, 63 }, { 20, 22, 30, 31 }, { 0, 63, 0, 63 } };
    int message, word, b, r, found = 0;
    for (message = 0; message < 3; message++)
        for (word = 0; word < (message ? 2 * K : 1); word++)
            for (b = 0; b < (message == 1 ? 4 : 2); b++) {
                job j = some_job(2, 6);
                j.f.dp = 1;
                j.f.tp = 2;
                j.f.ep = 2;
                j.d.drop = word % 2 ? TLLM_MOE_DROP_PROBS : TLLM_MOE_DROP_POSITION;
                j.d.whole_sequence = 1;
                j.has_fault = 1;
                j.victim = 1;
                j.fault.to = -1;
                j.fault.message = (uint64_t)message;
                j.fault.kind = TINY_FAULT_FLIP;
                j.fault.by = (uint64_t)((message == 1 ? 32 : 64) * word + bit[message][b]);
                j.timeout = 3000000000u;
                if (!run_job(&j)) return;
                for (r = 0; r < 2; r++) {
                    if (j.st[r]) T_TRUE(j.st[r] == TINY_E_PROTOCOL || j.st[r] == TINY_E_PEER);
                    if (j.st[r]) T_TRUE(*j.says[r] != 0);
                    found += strstr(j.says[r], "claims") != NULL;
                }
                t_free_blocks();
            }
    T_TRUE(found >= 12);
    T_PROOF("distributed 5", "bad input: counts, experts and probabilities that a rank makes up");
}

/* a layer that failed, and another one on the same net: the reason is told */
static void test_two_layers(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local *local = NULL;
    tllm_moe_desc d;
    tllm_moe *a = NULL, *b = NULL;
    float logits[2] = { 0.0f, NAN };
    memset(&d, 0, sizeof d);
    T_OK(tiny_local_open(ctx, NULL, &local));
    d.net = tiny_local_net(local, 0);
    d.n_expert = 2;
    d.k = d.width = 1;
    T_OK(tllm_moe_open(ctx, &d, &a));
    T_OK(tllm_moe_open(ctx, &d, &b));
    T_STATUS(tllm_moe_route(a, logits, 1), TINY_E_NUMERIC, "token 0 has a logit for expert 1 that is not finite");
    logits[1] = 0.0f;
    T_STATUS(tllm_moe_route(b, logits, 1), TINY_E_NUMERIC, "token 0 has a logit for expert 1 that is not finite");
    tllm_moe_close(a);
    tllm_moe_close(b);
    tiny_local_close(ctx, local);
    t_close(ctx);
}

/* ranks that disagree */
static void test_differ(void)
{
    job j = some_job(2, 20);
    int r;
    j.f.ep = 2;
    j.d.drop = TLLM_MOE_DROP_PROBS;
    j.d.pad = 1;
    j.tokens[1] = 3;                        /* padding needs the same number of tokens on each rank */
    if (!run_job(&j)) return;
    for (r = 0; r < 2; r++) T_EQ_INT(j.st[r], TINY_E_PROTOCOL);
    t_free_blocks();
}

static void test_memory(void)
{
    job j = some_job(1, 9);
    tllm_moe_weights w;
    float y[9 * WIDTH];
    w.router = j.router;
    w.gate = j.gate;
    w.up = j.up;
    w.down = j.down;
    j.d.drop = TLLM_MOE_DROP_PROBS;
    j.d.half = 1;
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_moe *moe = NULL;
        tiny_status st = tiny_ctx_open(&desc, &ctx);
        if (!st) st = tllm_moe_open(ctx, &j.d, &moe);
        if (!st) st = tllm_moe_layer(moe, &w, j.x, 9, y);
        T_TRUE(!st || st == TINY_E_MEMORY);
        tllm_moe_close(moe);
        tiny_ctx_close(ctx);
    })
}

int main(void)
{
    T_RUN_FORMS(test_layer);
    T_RUN(test_megatron_layer);
    T_RUN_FORMS(test_kernels);
    T_RUN(test_tcp);
    T_RUN(test_identity);
    T_RUN(test_worked);
    T_RUN(test_ties);
    T_RUN(test_sequence);
    T_RUN(test_capacity);
    T_RUN(test_balance);
    T_RUN(test_bad);
    T_RUN(test_ends);
    T_RUN(test_lies);
    T_RUN(test_two_layers);
    T_RUN(test_differ);
    T_RUN(test_memory);
    return t_done();
}
