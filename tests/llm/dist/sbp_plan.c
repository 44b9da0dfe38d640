/* tests/llm/dist/sbp_plan.c - signatures of operations, and plans that choose among them
 *
 * Truth    the signatures that the paper lists, written out here; all combinations of signatures, with costs worked out
 *          here; bytes worked out by hand. */
#include "llm/dist/sbp_kit.h"

/* ---- signatures -------------------------------------------------------------------------------------------------- */

/* x w of the paper's table 1, and what is linear in one operand while the other is a copy; of functions none for P */
static void test_signs(void)
{
    enum { X, W, MATMUL, ACT, SCALE, ADD, MUL, SUM, SOFTMAX, TRANSPOSE, IDS, TABLE, LOOKUP, A3, B3, BATCHES, W2, SHARED,
           RESHAPE };
    static const struct { int node; tllm_sbp_sign want[9]; } of[] = {
        { X, { { { 0, 0 }, B }, { { 0, 0 }, S0 }, { { 0, 0 }, S1 } } },
        { MATMUL, { { { S0, B }, S0 }, { { B, S1 }, S1 }, { { S1, S0 }, P }, { { P, B }, P }, { { B, P }, P },
                    { { B, B }, B } } },
        { ACT, { { { S0, 0 }, S0 }, { { S1, 0 }, S1 }, { { B, 0 }, B } } },
        { SCALE, { { { S0, 0 }, S0 }, { { S1, 0 }, S1 }, { { B, 0 }, B }, { { P, 0 }, P } } },
        { ADD, { { { S0, S0 }, S0 }, { { S1, S1 }, S1 }, { { B, B }, B }, { { P, P }, P } } },
        { MUL, { { { S0, S0 }, S0 }, { { S1, S1 }, S1 }, { { B, B }, B }, { { P, B }, P }, { { B, P }, P } } },
        { SUM, { { { S0, 0 }, P }, { { S1, 0 }, S0 }, { { B, 0 }, B }, { { P, 0 }, P } } },
        { SOFTMAX, { { { S0, 0 }, S0 }, { { B, 0 }, B } } },
        { TRANSPOSE, { { { S0, 0 }, S1 }, { { S1, 0 }, S0 }, { { B, 0 }, B }, { { P, 0 }, P } } },
        { LOOKUP, { { { S0, B }, S0 }, { { B, S0 }, P }, { { B, S1 }, S1 }, { { B, P }, P }, { { B, B }, B } } },
        { BATCHES, { { { S0, S0 }, S0 }, { { S1, B }, S1 }, { { B, S2 }, S2 }, { { S2, S1 }, P }, { { P, B }, P },
                     { { B, P }, P }, { { B, B }, B } } },
        { SHARED, { { { S0, B }, S0 }, { { S1, B }, S1 }, { { B, S1 }, S2 }, { { S2, S0 }, P }, { { P, B }, P },
                    { { B, P }, P }, { { B, B }, B } } },
        { RESHAPE, { { { S0, 0 }, S0 }, { { S1, 0 }, S2 }, { { B, 0 }, B }, { { P, 0 }, P } } } };
    static const tiny_idx a3[3] = { 2, 3, 4 }, b3[3] = { 2, 4, 5 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_sbp_graph g;
    tllm_sbp_node n;
    tllm_sbp_sign list[TLLM_SBP_SIGNS];
    size_t i, k;
    int id, m, found;
    memset(&g, 0, sizeof g);
    memset(&n, 0, sizeof n);
    g.place.n[0] = 2;
    (void)input(ctx, &g, 4, 6);
    (void)input(ctx, &g, 6, 6);
    (void)put(ctx, &g, TLLM_SBP_MATMUL, X, W, 0, 0);
    (void)put(ctx, &g, TLLM_SBP_ACT, X, 0, TLLM_SBP_RELU, 0);
    (void)put(ctx, &g, TLLM_SBP_SCALE, X, 0, 0, 2.0f);
    (void)put(ctx, &g, TLLM_SBP_ADD, X, MATMUL, 0, 0);
    (void)put(ctx, &g, TLLM_SBP_MUL, X, MATMUL, 0, 0);
    (void)put(ctx, &g, TLLM_SBP_SUM, X, 0, 0, 0);
    (void)put(ctx, &g, TLLM_SBP_SOFTMAX, X, 0, 1, 0);
    (void)put(ctx, &g, TLLM_SBP_TRANSPOSE, X, 0, 0, 0);
    (void)input(ctx, &g, 4, 0);
    (void)input(ctx, &g, 10, 8);
    (void)put(ctx, &g, TLLM_SBP_LOOKUP, IDS, TABLE, 0, 0);
    T_OK(tllm_sbp_input(ctx, &g, "a3", 3, a3, &id));
    T_OK(tllm_sbp_input(ctx, &g, "b3", 3, b3, &id));
    (void)put(ctx, &g, TLLM_SBP_MATMUL, A3, B3, 0, 0);
    (void)input(ctx, &g, 4, 5);
    (void)put(ctx, &g, TLLM_SBP_MATMUL, A3, W2, 0, 0);
    n.op = TLLM_SBP_RESHAPE;
    n.n_dim = 3;
    n.dim[0] = n.dim[1] = 2;
    n.dim[2] = 6;
    T_OK(tllm_sbp_put(ctx, &g, &n, &id));
    T_EQ_INT(id, RESHAPE);
    for (i = 0; i < T_COUNT(of); i++) {
        const int signs = tllm_sbp_signs(&g, of[i].node, list);
        for (k = 0; k < T_COUNT(of[i].want) && of[i].want[k].out; k++) {
            for (m = found = 0; m < signs; m++) found += !memcmp(&list[m], &of[i].want[k], sizeof *list);
            if (!T_EQ_INT(found, 1)) printf("  node %d, signature %d\n", of[i].node, (int)k);
        }
        if (!T_EQ_INT(signs, k)) printf("  node %d\n", of[i].node);
    }
    T_EQ_INT(tllm_sbp_signs(&g, -1, list), 0);
    T_EQ_INT(tllm_sbp_signs(&g, g.n_node, list), 0);
    T_EQ_INT(tllm_sbp_signs(NULL, 0, list), 0);
    g.node[TRANSPOSE].axes[0] = 9;          /* a graph that a program has changed */
    T_EQ_INT(tllm_sbp_signs(&g, X, list), 0);
    t_close(ctx);
    T_PROOF("distributed 8", "the signatures of every operation, and no others");
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Every combination of signatures, with figures of its own. */
typedef struct brute {
    tiny_ctx *ctx;
    const tllm_sbp_graph *g;
    double per_flop, memory, best;
    int first[TLLM_SBP_NODES], n[TLLM_SBP_NODES], out[TLLM_SBP_NODES];
    tllm_sbp_sign sign[TLLM_SBP_NODES][TLLM_SBP_SIGNS];
    double bytes[TLLM_SBP_NODES][8][8];     /* a node's tensor from state to state */
} brute;
static double piece_of(const tllm_sbp_node *n, int s, int p)
{
    double all = 1;
    int k;
    for (k = 0; k < n->n_dim; k++) all *= (double)(k == s - S0 ? (n->dim[k] + p - 1) / p : n->dim[k]);
    return all;
}
static double flops_of(const brute *b, int i, const tllm_sbp_sign *s)
{
    const tllm_sbp_node *n = &b->g->node[i], *x = &b->g->node[n->in[0]];
    const int p = b->g->place.n[0];
    switch (n->op) {
    case TLLM_SBP_MATMUL:                   /* 2 m k n, one of which may be split */
        return 2 * (double)x->dim[0] * (double)x->dim[1] * (double)n->dim[1] *
               (s->in[0] == S0   ? (double)((x->dim[0] + p - 1) / p) / (double)x->dim[0]
                : s->in[0] == S1 ? (double)((x->dim[1] + p - 1) / p) / (double)x->dim[1]
                : s->in[1] == S1 ? (double)((n->dim[1] + p - 1) / p) / (double)n->dim[1]
                                 : 1);
    case TLLM_SBP_SOFTMAX: return 4 * piece_of(n, s->out, p);
    case TLLM_SBP_INPUT: case TLLM_SBP_TRANSPOSE: case TLLM_SBP_COPY: return 0;
    default: return piece_of(n, s->out, p);
    }
}
static void brute_from(brute *b, int i, double cost, double held)
{
    const tllm_sbp_node *n = &b->g->node[i];
    int c;
    if (cost >= b->best || (b->memory > 0 && held > b->memory)) return;
    if (i == b->g->n_node) { b->best = cost; return; }
    for (c = 0; c < b->n[i]; c++) {
        const tllm_sbp_sign *s = &b->sign[i][c];
        double more = b->per_flop * flops_of(b, i, s);
        if (n->like && b->out[n->like - 1] != s->out) continue;
        if (n->op != TLLM_SBP_INPUT) more += b->bytes[n->in[0]][b->out[n->in[0]]][s->in[0]];
        if (n->op == TLLM_SBP_MATMUL || n->op == TLLM_SBP_ADD || n->op == TLLM_SBP_MUL)
            more += b->bytes[n->in[1]][b->out[n->in[1]]][s->in[1]];
        b->out[i] = s->out;
        brute_from(b, i + 1, cost + more, held + 4 * piece_of(n, s->out, b->g->place.n[0]));
    }
}
static double brute_best(tiny_ctx *ctx, const tllm_sbp_graph *g, double per_flop, double memory, double bound)
{
    brute *b = (brute *)t_keep(sizeof *b);
    int i, f, t;
    memset(b, 0, sizeof *b);
    b->ctx = ctx;
    b->g = g;
    b->per_flop = per_flop;
    b->memory = memory;
    b->best = bound;
    for (i = 0; i < g->n_node; i++) {
        b->n[i] = tllm_sbp_signs(g, i, b->sign[i]);
        for (f = B; f < S0 + g->node[i].n_dim; f++)
            for (t = B; t < S0 + g->node[i].n_dim; t++) {
                const tllm_sbp_layout from = layout(0, g->place.n[0], 1, f, B), to = layout(0, g->place.n[0], 1, t, B);
                tllm_sbp_route r;
                T_OK(tllm_sbp_route_find(ctx, g->node[i].n_dim, g->node[i].dim, &from, &to, &r));
                b->bytes[i][f][t] = r.bytes;
            }
    }
    brute_from(b, 0, 0, 0);
    return b->best;
}

static void some_chain(tiny_ctx *ctx, tllm_sbp_graph *g)
{
    static const tiny_idx size[] = { 4, 6, 8, 16, 64 };
    int i, x = input(ctx, g, size[t_rand_below(5)], size[t_rand_below(5)]);
    for (i = 0; i < 6; i++) {
        const tiny_idx inner = g->node[x].dim[1];
        switch (t_rand_below(7)) {
        case 0: x = put(ctx, g, TLLM_SBP_ACT, x, 0, TLLM_SBP_RELU, 0); break;
        case 1: x = put(ctx, g, TLLM_SBP_SCALE, x, 0, 0, 2.0f); break;
        case 2: x = put(ctx, g, TLLM_SBP_SOFTMAX, x, 0, (int)t_rand_below(2), 0); break;
        case 3: x = put(ctx, g, TLLM_SBP_TRANSPOSE, x, 0, 0, 0); break;
        default: x = put(ctx, g, TLLM_SBP_MATMUL, x, input(ctx, g, inner, size[t_rand_below(5)]), 0, 0);
        }
    }
}
static void test_exact(void)
{
    static const double per_flop[] = { 0.001, 0.01, 0.3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int k, better = 0;
    for (k = 0; k < 60; k++) {
        tllm_sbp_plan_desc d;
        tllm_sbp_plan exact, greedy, tight;
        tllm_sbp_graph g;
        double best;
        memset(&g, 0, sizeof g);
        memset(&d, 0, sizeof d);
        g.place.n[0] = 2 + k % 4;
        if (k < 50) some_chain(ctx, &g);
        else {                              /* shared tensors, and a state that must return */
            const int x = input(ctx, &g, 8, 16), w = input(ctx, &g, 16, 16);
            const int h = put(ctx, &g, TLLM_SBP_MATMUL, x, w, 0, 0);
            const int a = put(ctx, &g, TLLM_SBP_ACT, h, 0, 0, 0), xt = put(ctx, &g, TLLM_SBP_TRANSPOSE, x, 0, 0, 0);
            const int m = put(ctx, &g, TLLM_SBP_MUL, a, h, 0, 0), dw = put(ctx, &g, TLLM_SBP_MATMUL, xt, m, 0, 0);
            tllm_sbp_node n;
            int id;
            memset(&n, 0, sizeof n);
            n.op = TLLM_SBP_ADD;
            n.in[0] = w;
            n.in[1] = dw;
            n.like = 1 + w;
            T_OK(tllm_sbp_put(ctx, &g, &n, &id));
        }
        d.bytes_per_flop = per_flop[k % 3];
        T_OK(tllm_sbp_plan_make(ctx, &g, &d, &exact));
        d.search = TLLM_SBP_GREEDY;
        T_OK(tllm_sbp_plan_make(ctx, &g, &d, &greedy));
        T_TRUE(exact.cost <= greedy.cost * (1 + 1e-12));
        better += exact.cost < greedy.cost * (1 - 1e-9);
        best = brute_best(ctx, &g, d.bytes_per_flop, 0, exact.cost * (1 + 1e-9));
        T_CLOSE(exact.cost, best, 1e-9 * best);
        d.search = TLLM_SBP_EXACT;          /* three quarters of the memory that this plan holds */
        d.memory = 0.75 * exact.held;
        if (tllm_sbp_plan_make(ctx, &g, &d, &tight))
            T_TRUE(brute_best(ctx, &g, d.bytes_per_flop, d.memory, 1e200) >= 1e200);
        else {
            best = brute_best(ctx, &g, d.bytes_per_flop, d.memory, tight.cost * (1 + 1e-9));
            T_TRUE(tight.held <= d.memory);
            T_CLOSE(tight.cost, best, 1e-9 * best);
        }
        t_free_blocks();
    }
    T_TRUE(better > 0);
    t_close(ctx);
    T_PROOF("distributed 8", "random chains of 6 operations: exact is brute force over all signatures, and <= greedy");
    T_PROOF("distributed 8", "memory limit per rank: the best plan that keeps it, as brute force finds");
}

/* X W1 W2 on 4 ranks, with the states of the inputs given: what data and tensor parallelism move */
static void test_mlp(void)
{
    static const int data[3] = { S0, B, B }, tensor[3] = { B, S1, S0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int k;
    for (k = 0; k < 2; k++) {
        tllm_sbp_graph g;
        tllm_sbp_plan plan;
        tllm_sbp_node n;
        int in[3], i, y, id;
        memset(&g, 0, sizeof g);
        memset(&n, 0, sizeof n);
        g.place.n[0] = 4;
        in[0] = input(ctx, &g, 32, 64);
        in[1] = input(ctx, &g, 64, 64);
        in[2] = input(ctx, &g, 64, 64);
        for (i = 0; i < 3; i++) g.node[in[i]].s[0] = (unsigned char)(k ? tensor : data)[i];
        y = put(ctx, &g, TLLM_SBP_MATMUL, put(ctx, &g, TLLM_SBP_ACT, put(ctx, &g, TLLM_SBP_MATMUL, in[0], in[1], 0, 0),
                                             0, TLLM_SBP_RELU2, 0), in[2], 0, 0);
        T_OK(tllm_sbp_plan_make(ctx, &g, NULL, &plan));
        T_CLOSE(plan.bytes, 0, 0);
        T_EQ_INT(plan.node[y].out[0], k ? P : S0);
        n.op = TLLM_SBP_COPY;
        n.in[0] = y;
        n.s[0] = B;
        T_OK(tllm_sbp_put(ctx, &g, &n, &id));
        T_OK(tllm_sbp_plan_make(ctx, &g, NULL, &plan));
        T_CLOSE(plan.bytes, k ? 2.0 * (4 * 32 * 64) * 3 : (4.0 * 32 * 64) * 3, 0);
    }
    t_close(ctx);
    T_PROOF("distributed 8", "MLP on 4 ranks: (S0, B, B) moves 0 bytes; (B, S1, S0) ends in P, one P -> B, 2 n 3");
}

/* a step of training: x w1, relu^2, w2, a loss, both gradients, both updates in the state of their weights */
static void training(tiny_ctx *ctx, tllm_sbp_graph *g, tiny_idx batch, tiny_idx h)
{
    const int x = input(ctx, g, batch, h), w1 = input(ctx, g, h, 4 * h), w2 = input(ctx, g, 4 * h, h);
    const int z = put(ctx, g, TLLM_SBP_MATMUL, x, w1, 0, 0), a = put(ctx, g, TLLM_SBP_ACT, z, 0, TLLM_SBP_RELU2, 0);
    const int y = put(ctx, g, TLLM_SBP_MATMUL, a, w2, 0, 0), dy = put(ctx, g, TLLM_SBP_ACT, y, 0, TLLM_SBP_TANH, 0);
    const int slope = put(ctx, g, TLLM_SBP_ACT, z, 0, TLLM_SBP_RELU, 0);
    const int da = put(ctx, g, TLLM_SBP_MATMUL, dy, put(ctx, g, TLLM_SBP_TRANSPOSE, w2, 0, 0, 0), 0, 0);
    const int dz = put(ctx, g, TLLM_SBP_MUL, da, slope, 0, 0);
    const int g2 = put(ctx, g, TLLM_SBP_MATMUL, put(ctx, g, TLLM_SBP_TRANSPOSE, a, 0, 0, 0), dy, 0, 0);
    const int g1 = put(ctx, g, TLLM_SBP_MATMUL, put(ctx, g, TLLM_SBP_TRANSPOSE, x, 0, 0, 0), dz, 0, 0);
    tllm_sbp_node n;
    int id;
    memset(&n, 0, sizeof n);
    n.op = TLLM_SBP_ADD;
    n.in[0] = w1;
    n.in[1] = put(ctx, g, TLLM_SBP_SCALE, g1, 0, 0, -0.01f);
    n.like = 1 + w1;
    T_OK(tllm_sbp_put(ctx, g, &n, &id));
    n.in[0] = w2;
    n.in[1] = put(ctx, g, TLLM_SBP_SCALE, g2, 0, 0, -0.01f);
    n.like = 1 + w2;
    T_OK(tllm_sbp_put(ctx, g, &n, &id));
}
static void test_headline(void)
{
    static const tiny_idx size[2][2] = { { 32, 4096 }, { 8192, 256 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int k;
    for (k = 0; k < 2; k++) {
        const double n = 4.0 * (double)(size[k][0] * size[k][1]), w = 16.0 * (double)(size[k][1] * size[k][1]);
        tllm_sbp_graph g;
        tllm_sbp_plan plan;
        memset(&g, 0, sizeof g);
        g.place.n[0] = 4;
        training(ctx, &g, size[k][0], size[k][1]);
        T_OK(tllm_sbp_plan_make(ctx, &g, NULL, &plan));
        if (k == 0) {                       /* tensor parallel: the sum of y alone, 2 n 3 */
            T_EQ_INT(plan.node[1].out[0], S1);
            T_EQ_INT(plan.node[2].out[0], S0);
            T_CLOSE(plan.bytes, 6 * n, 0);
        } else {                            /* data parallel: the gradients of both weights, 2 w 3 each */
            T_EQ_INT(plan.node[0].out[0], S0);
            T_EQ_INT(plan.node[3].out[0], S0);
            T_CLOSE(plan.bytes, 12 * w, 0);
        }
    }
    t_close(ctx);
    T_PROOF("distributed 8", "planner picks tensor parallel at B 32, H 4096, data parallel at B 8192, H 256");
}

int main(void)
{
    T_RUN(test_signs);
    T_RUN(test_exact);
    T_RUN(test_mlp);
    T_RUN(test_headline);
    return t_done();
}
