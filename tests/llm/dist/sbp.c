/* tests/llm/dist/sbp.c - states of tensors over ranks: boxing, and runs of plans; how plans are made: sbp_plan.c
 *
 * Truth    who holds which number of a tensor is worked out here number by number, from the definition of the states.
 *          So are the pieces, and the bytes that have to move. Graphs are evaluated in double by plain loops. */
#include "llm/dist/sbp_kit.h"

/* ---- every conversion -------------------------------------------------------------------------------------------- */

typedef struct boxes {
    tllm_sbp_layout from, to;
    tiny_idx dim[4];
    int n_dim, which;                       /* 0: one place; 1: two places; 2: a grid */
    int wrong[T_NETS];
    float *y[T_NETS];
    double sent[T_NETS];
} boxes;

/* bytes that must move, counted number by number */
static double needed(const boxes *b)
{
    const int p = ranks_of(&b->from), q = ranks_of(&b->to), same = b->from.place.first == b->to.place.first;
    const int f = b->from.s[0], t = b->to.s[0];
    double n = 0;
    int e, r;
    for (e = 0; e < count(b->dim); e++) {
        tiny_idx index[4];
        index_of(b->dim, e, index);
        if (!same) n += f == P ? (t == B ? p + q - 1 : p) : t == B ? q : 1;
        else if (t == P) n += 0;
        else if (f == P) n += t == B ? 2 * (p - 1) : p - 1;
        else for (r = 0; r < p; r++) n += holds(&b->to, b->dim, r, index) && !holds(&b->from, b->dim, r, index);
    }
    return 4 * n;
}

static double sent(const tiny_net *net)
{
    double n = 0;
    int i;
    for (i = 0; i < net->world; i++) n += (double)net->count[i].bytes_sent;
    return n;
}

/* one case b on every rank; all has what the ranks share */
static tiny_status convert(boxes *all, const boxes *b, int rank, tiny_ctx *ctx, tiny_coll *c)
{
    float x[ROOM];
    double whole[ROOM], before = sent(c->net);
    tllm_sbp_route route;
    int e, n = 0, m = rank - b->from.place.first, r, a, k;
    tiny_status st;
    for (e = 0; e < count(b->dim) && m >= 0 && m < ranks_of(&b->from); e++) {
        tiny_idx index[4];
        index_of(b->dim, e, index);
        if (holds(&b->from, b->dim, m, index)) x[n++] = addend(part(&b->from, m), e);
    }
    st = tllm_sbp_boxing(ctx, c, b->n_dim, b->dim, &b->from, &b->to, x, all->y[rank]);
    all->sent[rank] = sent(c->net) - before;
    if (!st) st = tiny_coll_barrier(ctx, c);
    if (!st && rank == 0) {
        double total = 0;
        int wrong = rebuild(&b->to, b->dim, all->y, whole);
        for (e = 0; e < count(b->dim); e++) {
            double want = 0;
            for (a = 0; a < (b->from.s[0] == P ? b->from.place.n[0] : 1); a++)
                for (k = 0; k < (b->from.s[1] == P ? width(&b->from) : 1); k++) want += (double)addend(a * 8 + k, e);
            wrong += whole[e] < want || whole[e] > want;
        }
        for (r = 0; r < c->net->world; r++) total += all->sent[r];
        st = tllm_sbp_route_find(ctx, b->n_dim, b->dim, &b->from, &b->to, &route);
        wrong += total < route.bytes || total > route.bytes;
        if (b->which < 2) wrong += total < needed(b) || total > needed(b);
        if (wrong) {
            char f[TLLM_SBP_NAME], t[TLLM_SBP_NAME];
            printf("  %s to %s, %d ranks: %d wrong, %g bytes sent, %g planned, %g needed\n", tllm_sbp_text(&b->from, f),
                   tllm_sbp_text(&b->to, t), c->net->world, wrong, total, route.bytes, needed(b));
        }
        all->wrong[0] += wrong;
    }
    return st ? st : tiny_coll_barrier(ctx, c);
}

static void convert_all(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    static const tiny_idx shapes[4][4] = { { 7, 5, 1, 1 }, { 1, 3, 1, 1 }, { 2, 3, 4, 1 }, { 1, 1, 1, 1 } };
    static const int n_dims[4] = { 2, 2, 3, 0 };
    boxes *all = (boxes *)j->arg, one;
    tiny_coll c;
    int s, f, t, g, u;
    memset(&c, 0, sizeof c);
    memset(&one, 0, sizeof one);            /* not a copy of all, which other ranks write */
    one.from = all->from;
    one.to = all->to;
    one.which = all->which;
    c.net = net;
    for (s = 0; s < (one.which == 2 ? 2 : 4); s++) {
        const int end = S0 + n_dims[s], second = one.which == 2 ? end : B + 1;
        one.n_dim = n_dims[s];
        memcpy(one.dim, shapes[s], sizeof one.dim);
        for (f = B; f < end; f++)
            for (t = B; t < end; t++)
                for (g = B; g < second; g++)
                    for (u = B; u < second && !j->st[rank]; u++) {
                        one.from.s[0] = (unsigned char)f;
                        one.to.s[0] = (unsigned char)t;
                        one.from.s[1] = (unsigned char)g;
                        one.to.s[1] = (unsigned char)u;
                        j->st[rank] = convert(all, &one, rank, ctx, &c);
                    }
    }
}
static void convert_on(int tcp, int world, tllm_sbp_layout from, tllm_sbp_layout to, int which)
{
    t_net j;
    boxes b;
    int r;
    memset(&j, 0, sizeof j);
    memset(&b, 0, sizeof b);
    j.tcp = tcp;
    j.body = convert_all;
    j.arg = &b;
    b.from = from;
    b.to = to;
    b.which = which;
    for (r = 0; r < world; r++) b.y[r] = (float *)t_keep(ROOM * sizeof(float));
    if (!t_net_run(&j, world)) return;
    t_net_ok(&j);
    T_EQ_INT(b.wrong[0], 0);
    t_free_blocks();
}
static void test_boxing(void)
{
    int p, q;
    for (p = 1; p <= 5; p++) convert_on(0, p, layout(0, p, 1, B, B), layout(0, p, 1, B, B), 0);
    convert_on(1, 3, layout(0, 3, 1, B, B), layout(0, 3, 1, B, B), 0);
    T_PROOF("distributed 8", "every conversion, 1 to 5 ranks, uneven sizes: gather then split; threads and TCP");
    for (p = 1; p <= 3; p++)
        for (q = 1; q <= 3; q++) convert_on(0, p + q, layout(0, p, 1, B, B), layout(p, q, 1, B, B), 1);
    convert_on(0, 5, layout(3, 2, 1, B, B), layout(0, 2, 1, B, B), 1);      /* and a rank in neither */
    T_PROOF("distributed 8", "counted bytes equal the table, same ranks and other ranks");
    convert_on(0, 4, layout(0, 2, 2, B, B), layout(0, 2, 2, B, B), 2);
    convert_on(0, 6, layout(0, 2, 3, B, B), layout(0, 2, 3, B, B), 2);
    T_PROOF("distributed 8", "every pair of states on a grid, counted bytes equal the route's");
}

/* addends whose sum depends on the order: 1e8 + 1 - 1e8 is 0 in floats, and 1 the other way round */
static void sum_order(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    static const float addends[2][3] = { { 1e8f, 1.0f, -1e8f }, { 1e8f, -1e8f, 1.0f } };
    static const tiny_idx dim[1] = { 7 };
    const tllm_sbp_layout f = layout(0, 3, 1, P, B), s = layout(0, 3, 1, S0, B), b = layout(0, 3, 1, B, B);
    float (*found)[2][2] = (float (*)[2][2])j->arg, x[7], y[7];
    tiny_coll c;
    int k, i, to;
    memset(&c, 0, sizeof c);
    c.net = net;
    for (k = 0; k < 2; k++)
        for (to = 0; to < 2 && !j->st[rank]; to++) {
            for (i = 0; i < 7; i++) x[i] = addends[k][rank];
            j->st[rank] = tllm_sbp_boxing(ctx, &c, 1, dim, &f, to ? &b : &s, x, y);
            found[rank][k][to] = y[0];
        }
}
static void test_order(void)
{
    float found[3][2][2];
    t_net j;
    int r, to;
    memset(&j, 0, sizeof j);
    memset(found, 0, sizeof found);
    j.body = sum_order;
    j.arg = found;
    if (!t_net_run(&j, 3)) return;
    t_net_ok(&j);
    for (r = 0; r < 3; r++)
        for (to = 0; to < 2; to++) {
            T_CLOSE(found[r][0][to], 0.0, 0.0);
            T_CLOSE(found[r][1][to], 1.0, 0.0);
        }
}

/* the table, worked for 4 ranks and 1024 numbers */
static void test_table(void)
{
    static const struct { int from, to; double same, other; } row[] = {
        { S0, S0, 0, 1 }, { S0, S1, .75, 1 }, { S0, B, 3, 2 }, { S1, P, 0, 1 }, { B, S1, 0, 1 },
        { B, B, 0, 2 },   { B, P, 0, 1 },     { P, S0, 3, 4 }, { P, B, 6, 5 },  { P, P, 0, 4 } };
    static const tiny_idx dim[2] = { 32, 32 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) {
        const tllm_sbp_layout f = layout(0, 4, 1, row[i].from, B), t = layout(0, 4, 1, row[i].to, B),
                              u = layout(4, 2, 1, row[i].to, B);
        tllm_sbp_route r;
        T_OK(tllm_sbp_route_find(ctx, 2, dim, &f, &t, &r));
        T_CLOSE(r.bytes, 4096 * row[i].same, 0);
        T_OK(tllm_sbp_route_find(ctx, 2, dim, &f, &u, &r));
        T_CLOSE(r.bytes, 4096 * row[i].other, 0);
    }
    {   /* a grid: one hop costs its line times the lines; with both states changed, the cheaper way round */
        const tllm_sbp_layout f = layout(0, 2, 2, P, S0), t = layout(0, 2, 2, B, S0), u = layout(0, 2, 2, S1, B),
                              s = layout(0, 2, 2, S0, S0), w = layout(0, 2, 2, B, S0);
        tllm_sbp_route r;
        T_OK(tllm_sbp_route_find(ctx, 2, dim, &f, &t, &r));
        T_EQ_INT(r.n_hop, 1);
        T_CLOSE(r.bytes, 4096 * 2, 0);      /* halves, 2 n (p - 1) each */
        T_OK(tllm_sbp_route_find(ctx, 2, dim, &f, &u, &r));
        T_EQ_INT(r.n_hop, 2);
        T_CLOSE(r.bytes, 4096 * 2, 0);      /* reduce-scatter of 2 halves, all-gather of 2 halves */
        T_OK(tllm_sbp_route_find(ctx, 2, dim, &s, &w, &r));
        T_EQ_INT(r.n_hop, 3);               /* the outer split may not go while the same axis is split inside */
    }
    t_close(ctx);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* every operation there is */
static void all_ops(tiny_ctx *ctx, tllm_sbp_graph *g)
{
    tllm_sbp_node n;
    int ids = input(ctx, g, 6, 0), table = input(ctx, g, 10, 8), w = input(ctx, g, 8, 12), e, h, a, s, m, t, r, w3;
    const tiny_idx dim3[3] = { 3, 6, 5 };
    e = put(ctx, g, TLLM_SBP_LOOKUP, ids, table, 0, 0);
    h = put(ctx, g, TLLM_SBP_MATMUL, e, w, 0, 0);
    a = put(ctx, g, TLLM_SBP_ACT, h, 0, TLLM_SBP_RELU2, 0);
    s = put(ctx, g, TLLM_SBP_SCALE, h, 0, 0, -0.5f);
    m = put(ctx, g, TLLM_SBP_MUL, put(ctx, g, TLLM_SBP_ADD, a, s, 0, 0), h, 0, 0);
    t = put(ctx, g, TLLM_SBP_TRANSPOSE, put(ctx, g, TLLM_SBP_ACT, m, 0, TLLM_SBP_TANH, 0), 0, 0, 0);
    t = put(ctx, g, TLLM_SBP_SOFTMAX, t, 0, 0, 0);
    memset(&n, 0, sizeof n);
    n.op = TLLM_SBP_RESHAPE;
    n.in[0] = t;
    n.n_dim = 3;
    n.dim[0] = 3;
    n.dim[1] = 4;
    n.dim[2] = 6;
    T_OK(tllm_sbp_put(ctx, g, &n, &r));
    T_OK(tllm_sbp_input(ctx, g, "w3", 3, dim3, &w3));
    r = put(ctx, g, TLLM_SBP_MATMUL, r, w3, 0, 0);
    r = put(ctx, g, TLLM_SBP_SUM, r, 0, 1, 0);
    r = put(ctx, g, TLLM_SBP_ACT, put(ctx, g, TLLM_SBP_COPY, r, 0, 0, 0), 0, TLLM_SBP_GELU, 0);
    (void)put(ctx, g, TLLM_SBP_ACT, r, 0, TLLM_SBP_SILU, 0);
    (void)put(ctx, g, TLLM_SBP_MATMUL, put(ctx, g, TLLM_SBP_TRANSPOSE, m, 0, 0, 0), m, 0, 0);
}

typedef struct plans {
    tllm_sbp_graph g;
    tllm_sbp_plan plan[24];
    int n_plan, wrong;
    float *whole[TLLM_SBP_NODES], *piece[TLLM_SBP_NODES][T_NETS];
    values want;
    double sent[T_NETS];
} plans;

static void run_plans(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    plans *s = (plans *)j->arg;
    const float *in[TLLM_SBP_NODES] = { NULL };
    float *out[TLLM_SBP_NODES] = { NULL }, *held[TLLM_SBP_NODES] = { NULL };
    double whole[ROOM];
    tiny_coll c;
    int i, k, e;
    tiny_status st = TINY_OK;
    memset(&c, 0, sizeof c);
    c.net = net;
    for (k = 0; k < s->n_plan && !st; k++) {
        const double before = sent(net);
        tllm_sbp_layout l;
        for (i = 0; i < s->g.n_node && !st; i++) {
            out[i] = s->piece[i][rank];
            st = tllm_sbp_layout_of(ctx, &s->g, &s->plan[k], i, &l);
            if (st || s->g.node[i].op != TLLM_SBP_INPUT) continue;
            in[i] = held[i] = held[i] ? held[i] : (float *)malloc(ROOM * sizeof(float));
            st = tllm_sbp_cut(ctx, &l, s->g.node[i].n_dim, s->g.node[i].dim, rank, s->whole[i], held[i]);
        }
        if (!st) st = tllm_sbp_run(ctx, &c, &s->g, &s->plan[k], in, out);
        s->sent[rank] = sent(net) - before;
        if (!st) st = tiny_coll_barrier(ctx, &c);
        if (!st && !rank) {
            double bytes = 0;
            for (i = 0; i < net->world; i++) bytes += s->sent[i];
            s->wrong += bytes < s->plan[k].bytes || bytes > s->plan[k].bytes;
            for (i = 0; i < s->g.n_node; i++) {
                (void)tllm_sbp_layout_of(ctx, &s->g, &s->plan[k], i, &l);
                s->wrong += rebuild(&l, s->g.node[i].dim, s->piece[i], whole);
                for (e = 0; e < count(s->g.node[i].dim); e++)
                    s->wrong += !(fabs(whole[e] - s->want.at[i][e]) <= 1e-5 + 1e-5 * fabs(s->want.at[i][e]));
            }
        }
        if (!st) st = tiny_coll_barrier(ctx, &c);
    }
    for (i = 0; i < s->g.n_node; i++) free(held[i]);
    j->st[rank] = st;
}
/* a plan by chance: for each axis of the grid any signature of each node */
static void any_plan(tiny_ctx *ctx, const tllm_sbp_graph *g, tllm_sbp_plan *p)
{
    int i, a, k;
    memset(p, 0, sizeof *p);
    p->n_node = g->n_node;
    for (i = 0; i < g->n_node; i++)
        for (a = 0; a < (g->place.n[1] > 1 ? 2 : 1); a++) {
            tllm_sbp_sign list[TLLM_SBP_SIGNS];
            const int n = tllm_sbp_signs(g, i, list), c = (int)t_rand_below((uint32_t)n);
            p->node[i].out[a] = list[c].out;
            for (k = 0; k < 2; k++) p->node[i].in[k][a] = list[c].in[k];
        }
    T_OK(tllm_sbp_plan_check(ctx, g, NULL, p));
}
static void test_runs(tiny_target target)
{
    static const int places[][2] = { { 1, 1 }, { 2, 1 }, { 3, 1 }, { 5, 1 }, { 2, 2 }, { 3, 2 } };
    size_t w;
    for (w = 0; w < T_COUNT(places); w += target == TINY_TARGET_SCALAR ? 1 : 2) {
        tiny_ctx *ctx = t_ctx(target, 1);
        plans *s = (plans *)t_keep(sizeof *s);
        t_net j;
        int i, r, e;
        memset(s, 0, sizeof *s);
        memset(&j, 0, sizeof j);
        s->g.place.n[0] = places[w][0];
        s->g.place.n[1] = places[w][1];
        all_ops(ctx, &s->g);
        for (i = 0; i < s->g.n_node; i++) {
            const int n = count(s->g.node[i].dim);
            for (r = 0; r < T_NETS; r++) s->piece[i][r] = (float *)t_keep((size_t)(n + 1) * sizeof(float));
            if (s->g.node[i].op != TLLM_SBP_INPUT) continue;
            s->whole[i] = (float *)t_keep((size_t)n * sizeof(float));
            s->want.at[i] = (double *)t_keep((size_t)n * sizeof(double));
            for (e = 0; e < n; e++) {
                s->whole[i][e] = i ? t_rand_float(-1.0f, 1.0f) : (float)t_rand_below(10);
                s->want.at[i][e] = (double)s->whole[i][e];
            }
        }
        serial(&s->g, &s->want);
        for (s->n_plan = 0; s->n_plan < 8; s->n_plan++) any_plan(ctx, &s->g, &s->plan[s->n_plan]);
        if (places[w][1] == 1) T_OK(tllm_sbp_plan_make(ctx, &s->g, NULL, &s->plan[s->n_plan++]));
        j.target = target;
        j.body = run_plans;
        j.arg = s;
        j.tcp = target == TINY_TARGET_SCALAR && w == 2;
        if (!t_net_run(&j, places[w][0] * places[w][1])) return;
        t_net_ok(&j);
        if (!T_EQ_INT(s->wrong, 0)) printf("  %d x %d ranks\n", places[w][0], places[w][1]);
        t_close(ctx);
        t_free_blocks();
    }
    T_PROOF("distributed 8", "execution of any plan equals the serial result, bytes as planned");
}

/* two places: the first half on ranks 0 and 1, the second on ranks 2 to 4 */
static void test_places(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    plans *s = (plans *)t_keep(sizeof *s);
    tllm_sbp_node n;
    t_net j;
    int x, y, i, r, e;
    memset(s, 0, sizeof *s);
    memset(&j, 0, sizeof j);
    memset(&n, 0, sizeof n);
    s->g.place.n[0] = 2;
    x = input(ctx, &s->g, 7, 9);
    y = put(ctx, &s->g, TLLM_SBP_MATMUL, x, input(ctx, &s->g, 9, 5), 0, 0);
    n.op = TLLM_SBP_ACT;
    n.act = TLLM_SBP_TANH;
    n.in[0] = y;
    n.place.first = 2;
    n.place.n[0] = 3;
    T_OK(tllm_sbp_put(ctx, &s->g, &n, &y));
    n.op = TLLM_SBP_SUM;
    n.in[0] = y;
    n.axis = 1;
    T_OK(tllm_sbp_put(ctx, &s->g, &n, &y));
    for (i = 0; i < s->g.n_node; i++) {
        const int m = count(s->g.node[i].dim);
        for (r = 0; r < 5; r++) s->piece[i][r] = (float *)t_keep((size_t)(m + 1) * sizeof(float));
        if (i > 1) continue;
        s->whole[i] = t_rand((size_t)m, -1.0f, 1.0f);
        s->want.at[i] = (double *)t_keep((size_t)m * sizeof(double));
        for (e = 0; e < m; e++) s->want.at[i][e] = (double)s->whole[i][e];
    }
    serial(&s->g, &s->want);
    for (s->n_plan = 0; s->n_plan < 12; s->n_plan++) any_plan(ctx, &s->g, &s->plan[s->n_plan]);
    T_OK(tllm_sbp_plan_make(ctx, &s->g, NULL, &s->plan[s->n_plan++]));
    j.body = run_plans;
    j.arg = s;
    if (!t_net_run(&j, 5)) return;
    t_net_ok(&j);
    T_EQ_INT(s->wrong, 0);
    t_close(ctx);
}

/* ---- faults and bad input ---------------------------------------------------------------------------------------- */

static void one_gather(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    static const tiny_idx dim[1] = { 12 };
    const tllm_sbp_layout f = layout(0, 3, 1, P, B), t = layout(0, 3, 1, B, B);
    float x[12] = { 0 }, y[12];
    tiny_coll c;
    int k;
    memset(&c, 0, sizeof c);
    c.net = net;
    for (k = 0; k < 3 && !j->st[rank]; k++) j->st[rank] = tllm_sbp_boxing(ctx, &c, 1, dim, &f, &t, x, y);
}
static void test_killed(void)
{
    int i, to, r, hits = 0;
    for (i = 0; i < 6; i++)
        for (to = 0; to < 3; to += 2) {
            t_net j;
            memset(&j, 0, sizeof j);
            j.body = one_gather;
            j.has_fault = 1;
            j.fault.to = to;
            j.fault.message = (uint64_t)i;
            j.fault.kind = TINY_FAULT_KILL;
            if (!t_net_run(&j, 3)) return;
            /* of the last message only the rank that waits for it must know */
            for (r = 0; r < 3; r++) if (i < 5 || r == to || r == 1) T_EQ_INT(j.st[r], TINY_E_PEER);
            hits += j.st[1] == TINY_E_PEER;
        }
    T_EQ_INT(hits, 12);
    {                                       /* a message that is too short: rank 0 sees it, and rank 2 learns of it */
        t_net j;
        memset(&j, 0, sizeof j);
        j.body = one_gather;
        j.has_fault = 1;
        j.fault.to = 0;
        j.fault.kind = TINY_FAULT_CUT;
        j.fault.by = 4;
        if (!t_net_run(&j, 3)) return;
        for (r = 0; r < 3; r += 2) T_EQ_INT(j.st[r], TINY_E_PROTOCOL);
        T_TRUE(strstr(j.says[0], "rank 1 sent 12 bytes") != NULL && strstr(j.says[2], "rank 1") != NULL);
    }
    T_PROOF("distributed 8", "bad input: a killed rank ends the boxing of all");
}
static void bad_ids(t_net *j, int rank, tiny_ctx *ctx, tiny_net *net)
{
    plans *s = (plans *)j->arg;
    const float ids[2] = { 1.0f, 10.0f }, table[20] = { 0 };
    const float *in[3];
    tiny_coll c;
    memset(&c, 0, sizeof c);
    c.net = net;
    in[0] = ids;
    in[1] = table;
    in[2] = NULL;
    j->st[rank] = tllm_sbp_run(ctx, &c, &s->g, &s->plan[0], in, NULL);
}
static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_idx dim[5] = { 4, 6, 1, 1, 1 }, none[2] = { 0, 3 }, huge[2] = { TINY_IDX_MAX / 2, 1000 };
    tllm_sbp_layout a = layout(0, 2, 1, S0, B), b = layout(0, 2, 1, B, B), bad;
    tllm_sbp_graph g;
    tllm_sbp_node n;
    tllm_sbp_plan plan;
    tllm_sbp_plan_desc d;
    tllm_sbp_route route;
    tllm_sbp_box box;
    tiny_local *local = NULL;
    tiny_coll c;
    float x[64] = { 0 }, y[64];
    const float *in[TLLM_SBP_NODES] = { NULL };
    int id, v, w, i;
    memset(&g, 0, sizeof g);
    memset(&n, 0, sizeof n);
    memset(&d, 0, sizeof d);
    memset(&c, 0, sizeof c);
    T_STATUS(tllm_sbp_piece(ctx, &a, 5, dim, 0, &box), TINY_E_SHAPE, "5 axes, there may be 0 to 4");
    T_STATUS(tllm_sbp_piece(ctx, &a, 2, none, 0, &box), TINY_E_SHAPE, "axis 0 has the length 0");
    T_STATUS(tllm_sbp_piece(ctx, &a, 2, huge, 0, &box), TINY_E_OVERFLOW, "more numbers than");
    T_STATUS(tllm_sbp_piece(ctx, NULL, 2, dim, 0, &box), TINY_E_ARGUMENT, "needs a layout");
    bad = layout(0, 0, 1, B, B);
    T_STATUS(tllm_sbp_piece(ctx, &bad, 2, dim, 0, &box), TINY_E_ARGUMENT, "a place of 0 x 1 ranks");
    bad = layout(60, 5, 1, B, B);
    T_STATUS(tllm_sbp_piece(ctx, &bad, 2, dim, 0, &box), TINY_E_ARGUMENT, "at most 64 ranks");
    bad = layout(0, 2, 1, S2, B);
    T_STATUS(tllm_sbp_piece(ctx, &bad, 2, dim, 0, &box), TINY_E_ARGUMENT, "S(2) of a tensor with 2 axes");
    bad = layout(0, 2, 1, 0, B);
    T_STATUS(tllm_sbp_piece(ctx, &bad, 2, dim, 0, &box), TINY_E_ARGUMENT, "axis 0 of the ranks is not given");
    bad = layout(0, 2, 1, B, P);
    T_STATUS(tllm_sbp_piece(ctx, &bad, 2, dim, 0, &box), TINY_E_ARGUMENT, "without a second axis");
    T_STATUS(tllm_sbp_cut(ctx, &a, 2, dim, 0, NULL, y), TINY_E_ARGUMENT, "NULL");
    bad = layout(1, 2, 1, B, B);
    T_STATUS(tllm_sbp_route_find(ctx, 2, dim, &a, &bad, &route), TINY_E_UNSUPPORTED, "ranks 0 to 1 and 1 to 2");
    T_STATUS(tllm_sbp_route_find(ctx, 2, dim, &a, &b, NULL), TINY_E_ARGUMENT, "room");
    T_STATUS(tllm_sbp_boxing(ctx, NULL, 2, dim, &a, &b, x, y), TINY_E_ARGUMENT, "needs the net");
    T_OK(tiny_local_open(ctx, NULL, &local));
    c.net = tiny_local_net(local, 0);
    T_STATUS(tllm_sbp_boxing(ctx, &c, 2, dim, &a, &b, x, y), TINY_E_ARGUMENT, "ends at rank 1, and there are 1 ranks");
    a.place.n[0] = b.place.n[0] = 1;
    c.tag = 256;
    T_STATUS(tllm_sbp_boxing(ctx, &c, 2, dim, &a, &b, x, y), TINY_E_ARGUMENT, "tag 256");
    c.tag = 0;
    T_STATUS(tllm_sbp_boxing(ctx, &c, 2, dim, &a, &b, NULL, y), TINY_E_ARGUMENT, "is NULL");
    T_STATUS(tllm_sbp_boxing(ctx, &c, 2, dim, &a, &b, x, NULL), TINY_E_ARGUMENT, "no room");
    /* graphs */
    T_STATUS(tllm_sbp_put(ctx, &g, NULL, &id), TINY_E_ARGUMENT, "a node and room");
    T_STATUS(tllm_sbp_put(ctx, NULL, &n, &id), TINY_E_ARGUMENT, "the graph is NULL");
    n.n_dim = 2;
    n.dim[0] = 4;
    n.dim[1] = 6;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_ARGUMENT, "a place of 0 x 1 ranks");
    g.place.n[0] = 2;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, NULL, &plan), TINY_E_ARGUMENT, "has no node");
    T_OK(tllm_sbp_put(ctx, &g, &n, &v));
    n.op = TLLM_SBP_OPS;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_ARGUMENT, "operation 12 is not known");
    n.op = TLLM_SBP_ACT;
    n.act = TLLM_SBP_ACTS;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_ARGUMENT, "function 5 is not known");
    n.act = 0;
    n.in[0] = 1;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_ARGUMENT, "operand 0 is node 1, which is not an earlier one");
    n.in[0] = 0;
    n.s[0] = S2;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_ARGUMENT, "state along axis 0 of the ranks is not possible");
    n.s[0] = 0;
    n.like = 3;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_ARGUMENT, "like 3 is not 1 + an earlier node");
    n.like = 0;
    n.place = bad.place;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_UNSUPPORTED, "overlap in part");
    memset(&n.place, 0, sizeof n.place);
    n.op = TLLM_SBP_SUM;
    n.axis = 2;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_SHAPE, "no such axis");
    n.op = TLLM_SBP_TRANSPOSE;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_SHAPE, "name each axis once");
    n.op = TLLM_SBP_RESHAPE;
    n.dim[0] = 5;
    T_STATUS(tllm_sbp_put(ctx, &g, &n, &id), TINY_E_SHAPE, "another number of elements");
    T_STATUS(tllm_sbp_binary(ctx, &g, TLLM_SBP_MATMUL, v, v, &id), TINY_E_SHAPE, "the last axis of the first operand");
    T_OK(tllm_sbp_input(ctx, &g, "w", 2, dim, &w));
    T_STATUS(tllm_sbp_input(ctx, &g, "w", 2, NULL, &w), TINY_E_SHAPE, "axes");
    T_OK(tllm_sbp_input(ctx, &g, "i", 1, dim, &i));
    T_STATUS(tllm_sbp_binary(ctx, &g, TLLM_SBP_ADD, v, i, &id), TINY_E_SHAPE, "differ in shape");
    T_STATUS(tllm_sbp_binary(ctx, &g, TLLM_SBP_MATMUL, i, w, &id), TINY_E_SHAPE, "2 or more axes");
    T_STATUS(tllm_sbp_binary(ctx, &g, TLLM_SBP_LOOKUP, i, i, &id), TINY_E_SHAPE, "a table of 2 axes");
    T_OK(tllm_sbp_binary(ctx, &g, TLLM_SBP_LOOKUP, i, w, &id));
    /* plans */
    d.bytes_per_flop = -1;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, &d, &plan), TINY_E_ARGUMENT, "bytes_per_flop -1");
    d.bytes_per_flop = 0;
    d.memory = -1;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, &d, &plan), TINY_E_ARGUMENT, "a memory of -1 bytes");
    d.memory = 0;
    d.search = TLLM_SBP_SEARCHES;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, &d, &plan), TINY_E_ARGUMENT, "search 2 is not known");
    d.search = 0;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, &d, NULL), TINY_E_ARGUMENT, "room for the answer");
    d.memory = 10;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, &d, &plan), TINY_E_MEMORY, "no plan keeps every rank below 10 bytes");
    d.search = TLLM_SBP_GREEDY;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, &d, &plan), TINY_E_MEMORY, "no signature keeps a rank below 10 bytes");
    memset(&d, 0, sizeof d);
    d.n_most = 2;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, &d, &plan), TINY_E_UNSUPPORTED, "use the greedy search");
    T_OK(tllm_sbp_plan_make(ctx, &g, NULL, &plan));
    plan.node[id].out[0] = P;
    plan.node[id].in[0][0] = P;
    T_STATUS(tllm_sbp_plan_check(ctx, &g, NULL, &plan), TINY_E_ARGUMENT, "none of its signatures");
    plan.n_node--;
    T_STATUS(tllm_sbp_plan_check(ctx, &g, NULL, &plan), TINY_E_ARGUMENT, "not one of this graph");
    {   /* a matrix product has no signature whose result is split along neither of its axes and partial too */
        tllm_sbp_graph h = g;
        n = h.node[id];
        n.op = TLLM_SBP_SOFTMAX;
        n.in[0] = v;
        n.axis = 0;
        n.s[0] = S0;
        T_OK(tllm_sbp_put(ctx, &h, &n, &id));
        T_STATUS(tllm_sbp_plan_make(ctx, &h, NULL, &plan), TINY_E_UNSUPPORTED, "no signature gives the state");
    }
    T_OK(tllm_sbp_plan_make(ctx, &g, NULL, &plan));
    T_STATUS(tllm_sbp_run(ctx, NULL, &g, &plan, in, NULL), TINY_E_ARGUMENT, "a run needs");
    T_STATUS(tllm_sbp_run(ctx, &c, &g, &plan, in, NULL), TINY_E_ARGUMENT, "on rank 1, and there are 1 ranks");
    g.place.n[0] = 1;
    T_OK(tllm_sbp_plan_make(ctx, &g, NULL, &plan));
    T_STATUS(tllm_sbp_run(ctx, &c, &g, &plan, in, NULL), TINY_E_ARGUMENT, "is an input, and its piece is NULL");
    T_STATUS(tllm_sbp_layout_of(ctx, &g, &plan, 99, &a), TINY_E_ARGUMENT, "no node 99");
    id = g.n_node - 1;
    g.node[id].s[0] = 99;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, NULL, &plan), TINY_E_ARGUMENT, "operands or state are invalid");
    g.node[id].s[0] = 0;
    g.node[id].dim[1]++;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, NULL, &plan), TINY_E_SHAPE, "its shape is not the one that its operands give");
    g.node[id].dim[1]--;
    g.node[id].in[0] = id;
    T_STATUS(tllm_sbp_plan_make(ctx, &g, NULL, &plan), TINY_E_ARGUMENT, "operands or state are invalid");
    g.node[id].in[0] = 0;
    g.node[0].op = TLLM_SBP_COPY;           /* of itself */
    T_STATUS(tllm_sbp_plan_make(ctx, &g, NULL, &plan), TINY_E_ARGUMENT, "operands or state are invalid");
    memset(&g, 0, sizeof g);
    g.place.n[0] = 1;
    for (i = 0; i < TLLM_SBP_NODES; i++) T_OK(tllm_sbp_input(ctx, &g, "x", 2, dim, &id));
    T_STATUS(tllm_sbp_input(ctx, &g, "x", 2, dim, &id), TINY_E_ARGUMENT, "at most 64 nodes");
    tiny_local_close(ctx, local);
    {   /* an id outside of the table: found by one rank or all, and no rank is left waiting */
        plans *s = (plans *)t_keep(sizeof *s);
        t_net j;
        memset(s, 0, sizeof *s);
        memset(&j, 0, sizeof j);
        s->g.place.n[0] = 2;
        v = input(ctx, &s->g, 2, 0);
        w = input(ctx, &s->g, 10, 2);
        s->g.node[w].s[0] = S0;
        s->g.node[v].s[0] = B;
        T_OK(tllm_sbp_binary(ctx, &s->g, TLLM_SBP_LOOKUP, v, w, &id));
        T_OK(tllm_sbp_plan_make(ctx, &s->g, NULL, &s->plan[0]));
        j.body = bad_ids;
        j.arg = s;
        if (t_net_run(&j, 2)) {
            T_TRUE(j.st[0] != TINY_OK && j.st[1] != TINY_OK);
            T_TRUE(strstr(j.says[0], "10 is no row of a table with 10 rows") != NULL);
        }
    }
    t_close(ctx);
    T_EACH_ALLOCATION(
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        ctx = NULL;
        if (!tiny_ctx_open(&desc, &ctx)) {
            memset(&g, 0, sizeof g);
            g.place.n[0] = 2;
            g.place.n[1] = 2;
            if (!tllm_sbp_input(ctx, &g, "x", 2, dim, &v) && !tllm_sbp_input(ctx, &g, "w", 2, dim + 1, &w) &&
                !tllm_sbp_binary(ctx, &g, TLLM_SBP_MATMUL, v, w, &id))
                (void)tllm_sbp_plan_make(ctx, &g, NULL, &plan);
            a = layout(0, 2, 2, S0, S0);
            b = layout(0, 2, 2, B, S0);
            (void)tllm_sbp_route_find(ctx, 2, dim, &a, &b, &route);
        }
        tiny_ctx_close(ctx);
    )
    T_PROOF("distributed 8", "bad input: shapes, places, states, graphs, plans, ids; each its own sentence");
}

int main(void)
{
    T_RUN(test_boxing);
    T_RUN(test_order);
    T_RUN(test_table);
    T_RUN_TARGETS(test_runs);
    T_RUN(test_places);
    T_RUN(test_killed);
    T_RUN(test_bad);
    return t_done();
}
