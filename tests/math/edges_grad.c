/* tests/math/edges_grad.c - gradients of the operations along edges: every form of each against central differences in
 * double, the fast paths in float against them, the same bits for any number of threads; a GCN and a GAT layer as a
 * whole
 *
 * Differences: h = 1e-5 is off by h^2 / 6 of the third derivative and 1e-16 / h of the loss, both below 1e-9 for
 * numbers of order one. */
#include "t.h"

#ifdef TINY_NO_TRAIN
int main(void) { return t_done(); }
#else

#define INPUTS 8

typedef struct graph { tiny_idx n, n_x, m; int64_t *offset; int32_t *col; } graph;

/* an operation, which of its inputs are parameters, and dy */
typedef struct problem {
    tiny_op op;
    tiny_tensor in[INPUTS], dy;
    tiny_param param[INPUTS];
    int is_param[INPUTS];
    union { tiny_spmm_params spmm; tiny_sddmm_params sddmm; } params;
    tiny_dtype type;
} problem;

/* row 1 has no edge, one edge occurs twice, row n - 1 comes from row 0 only; hub: row 2 has half of all edges */
static graph make_graph(tiny_idx n, tiny_idx n_x, tiny_idx m, int hub)
{
    graph g;
    tiny_idx i, p;
    g.n = n;
    g.n_x = n_x;
    g.m = m;
    g.offset = (int64_t *)t_keep(((size_t)n + 1) * 8);
    g.col = (int32_t *)t_keep((size_t)m * 4 + 4);
    for (i = 1; i <= n; i++) {
        const int64_t even = (int64_t)m * i / n;
        g.offset[i] = i == 2 ? g.offset[1] : hub ? (i > 2 ? m / 2 + even / 2 : even / 2) : even;
    }
    g.offset[n] = m;
    for (p = 0; p < m; p++) g.col[p] = (int32_t)t_rand_below((uint32_t)n_x);
    if (m > 1) g.col[1] = g.col[0];
    for (p = (tiny_idx)g.offset[n - 1]; p < m; p++) g.col[p] = 0;
    return g;
}

static void put(void *data, tiny_dtype type, tiny_idx i, double v)
{
    if (type == TINY_F64) ((double *)data)[i] = v;
    else ((float *)data)[i] = (float)v;
}

static double get(const void *data, tiny_dtype type, tiny_idx i)
{
    return type == TINY_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static tiny_tensor numbers(tiny_dtype type, int rank, tiny_idx a, tiny_idx b)
{
    tiny_idx dim[2], i;
    tiny_tensor x;
    dim[0] = a;
    dim[1] = b;
    x = tiny_tensor_nd(NULL, type, rank, dim);
    x.data = t_keep((size_t)tiny_tensor_count(&x) * tiny_dtype_bytes(type) + 8);
    for (i = 0; i < tiny_tensor_count(&x); i++) put(x.data, type, i, (double)t_rand_float(-1, 1));
    return x;
}

static void begin(problem *p, int kind, const graph *g, int i_col)
{
    memset(p, 0, sizeof *p);
    p->type = TINY_F64;
    p->op.kind = kind;
    p->op.params = &p->params;
    p->in[0] = tiny_tensor_1d(g->offset, TINY_I64, g->n + 1);
    p->op.in[0] = &p->in[0];
    if (i_col < 0) return;
    p->in[i_col] = tiny_tensor_1d(g->col, TINY_I32, g->m);
    p->op.in[i_col] = &p->in[i_col];
}

static void input(problem *p, int i, int rank, tiny_idx a, tiny_idx b)
{
    static const char *const names[INPUTS] = { "0", "1", "2", "3", "4", "5", "6", "7" };
    p->in[i] = numbers(TINY_F64, rank, a, b);
    p->op.in[i] = &p->in[i];
    p->is_param[i] = 1;
    p->param[i].name = names[i];
    p->param[i].value = p->in[i];
    p->param[i].grad = numbers(TINY_F64, rank, a, b);
}

static void end(problem *p, int rank, tiny_idx a, tiny_idx b) { p->dy = numbers(TINY_F64, rank, a, b); }

/* loss = sum dy y, with gradients or without */
static double run(tiny_ctx *ctx, problem *p, int backward, size_t *high, int dry)
{
    tiny_tape_desc d = { 0 };
    tiny_reduce_params all = { 0, 0, 0 };
    tiny_tape *tape;
    tiny_tensor out[TINY_OP_MAX_OUT], loss;
    double v = NAN;
    int i;
    all.all = 1;
    d.bytes = p->dy.dim[0] < 50 ? (size_t)1 << 16 : (size_t)16 << 20;
    d.dry = dry;
    if (!T_OK(tiny_tape_open(ctx, &d, &tape))) return v;
    for (i = 0; i < INPUTS; i++)
        if (p->is_param[i]) T_OK(tiny_tape_param(tape, &p->param[i]));
    T_OK(tiny_tape_op(tape, &p->op, out));
    loss = tiny_tape_call(tape, TINY_OP_DOT, &out[0], &p->dy, NULL, NULL, &all);
    if (backward ? T_OK(tiny_tape_backward(tape, &loss, NULL)) : T_OK(tiny_tape_status(tape)))
        if (!dry) v = get(loss.data, p->type, 0);
    if (high) *high = tiny_tape_high(tape);
    tiny_tape_close(tape);
    return v;
}

/* every number of every input; the largest error relative to the largest gradient of its input */
static double check(tiny_ctx *ctx, problem *p)
{
    double worst = 0.0;
    tiny_idx k;
    int i;
    size_t real, dry;
    (void)run(ctx, p, 1, &dry, 1);
    (void)run(ctx, p, 1, &real, 0);
    T_TRUE(dry == real);
    for (i = 0; i < INPUTS; i++) {
        const tiny_idx n = p->is_param[i] ? tiny_tensor_count(&p->param[i].value) : 0;
        double *x = (double *)p->param[i].value.data, *g = (double *)p->param[i].grad.data, scale = 1e-3;
        for (k = 0; k < n; k++) scale = fmax(scale, fabs(g[k]));
        for (k = 0; k < n; k++) {
            const double h = 1e-5, keep = x[k];
            double up, down;
            x[k] = keep + h;
            up = run(ctx, p, 0, NULL, 0);
            x[k] = keep - h;
            down = run(ctx, p, 0, NULL, 0);
            x[k] = keep;
            worst = fmax(worst, fabs((up - down) / (2 * h) - g[k]) / scale);
            if (!(worst < INFINITY)) return INFINITY;
        }
    }
    return worst;
}

static double most;
static int cases;
static void judge(tiny_ctx *ctx, problem *p, const char *name, int a, int b, int c, int d, int e)
{
    const double worst = check(ctx, p);
    if (!(worst <= 1e-6)) printf("    %s %d %d %d %d %d is off by %.2g\n", name, a, b, c, d, e, worst);
    T_TRUE(worst <= 1e-6);
    most = fmax(most, worst);
    cases++;
}

static void make_spmm(problem *p, const graph *g, int reduce, int relu, int weights, int e, int gathered,
                      tiny_idx heads, tiny_idx each)
{
    begin(p, TINY_OP_SPMM, g, gathered ? 2 : -1);
    p->params.spmm.reduce = reduce;
    p->params.spmm.relu = relu;
    input(p, 1, 2, gathered ? g->n_x : g->m, heads * each);
    if (weights) input(p, 3, weights, g->m, heads);
    if (e) input(p, 4, 2, g->m, heads * each);
    end(p, 2, g->n, heads * each);
}

static void test_spmm(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int reduce, relu, weights, e, gathered;
    most = 0.0;
    cases = 0;
    for (reduce = 0; reduce < 4; reduce++)
        for (relu = 0; relu < 2; relu++)
            for (weights = 0; weights < 3; weights++)
                for (e = 0; e < 2; e++)
                    for (gathered = 0; gathered < 2; gathered++) {
                        graph g = make_graph(5, 4, 11, 0);
                        problem p;
                        make_spmm(&p, &g, reduce, relu, weights, e, gathered, 2, 2);
                        judge(ctx, &p, "spmm", reduce, relu, weights, e, gathered);
                        t_free_blocks();
                    }
    printf("    %d cases, largest relative error %.2g\n", cases, most);
    t_close(ctx);
    T_PROOF("graphs 0", "finite differences for every backward");
}

static void make_scores(problem *p, const graph *g, int kind, int mode, int e, tiny_idx heads, tiny_idx each,
                        tiny_idx width)
{
    const int attention = kind == TINY_OP_EDGE_ATTENTION, at = attention ? 5 : 4;
    const tiny_idx f = mode == 2 ? heads : heads * each;
    begin(p, kind, g, 1);
    p->params.sddmm.add = mode > 0;
    p->params.sddmm.heads = (int)heads;
    p->params.sddmm.slope = 0.2f;
    p->params.sddmm.scale = heads > 1 ? 0.5f : 0.0f;
    input(p, 2, 2, g->n, f);
    input(p, 3, 2, g->n_x, f);
    if (attention) input(p, 4, 2, g->n_x, heads * width);
    if (mode == 1) input(p, at, 1, f, 1);
    if (e) input(p, 5, 2, g->m, f);
    end(p, 2, attention ? g->n : g->m, attention ? heads * width : heads);
}

static void test_scores(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    int mode, e, heads;
    most = 0.0;
    cases = 0;
    for (mode = 0; mode < 3; mode++) for (heads = 1; heads < 4; heads++) for (e = 0; e < 3; e++) {
        graph g = make_graph(5, 4, 11, 0);
        problem p;
        make_scores(&p, &g, e < 2 ? TINY_OP_SDDMM : TINY_OP_EDGE_ATTENTION, mode, e == 1, heads, 3, 2);
        judge(ctx, &p, e < 2 ? "sddmm" : "attention", mode, heads, e, 0, 0);
        t_free_blocks();
    }
    for (heads = 0; heads < 4; heads++) {
        graph g = make_graph(5, 4, 11, 0);
        problem p;
        begin(&p, TINY_OP_SEGMENT_SOFTMAX, &g, -1);
        p.op.params = NULL;
        input(&p, 1, heads ? 2 : 1, g.m, heads);
        end(&p, heads ? 2 : 1, g.m, heads);
        judge(ctx, &p, "softmax", heads, 0, 0, 0, 0);
        t_free_blocks();
    }
    printf("    %d cases, largest relative error %.2g\n", cases, most);
    t_close(ctx);
    T_PROOF("graphs 0", "finite differences for every backward");
}

/* only some gradients are requested: the others stay unchanged, the requested ones are the same */
static void test_some_inputs(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int kind, i;
    tiny_idx k;
    for (kind = 0; kind < 4; kind++) {
        graph g = make_graph(5, 4, 11, 0);
        problem p;
        double kept[INPUTS];
        if (kind < 2) make_spmm(&p, &g, TINY_EDGE_SUM, kind, 2, 1, 1, 2, 2);
        else make_scores(&p, &g, kind == 2 ? TINY_OP_SDDMM : TINY_OP_EDGE_ATTENTION, 1, kind == 2, 2, 3, 2);
        (void)run(ctx, &p, 1, NULL, 0);
        for (i = 0; i < INPUTS; i++) kept[i] = p.is_param[i] ? ((double *)p.param[i].grad.data)[0] : 0.0;
        for (i = 0; i < INPUTS; i++) {
            problem one = p;
            int j;
            if (!p.is_param[i]) continue;
            for (j = 0; j < INPUTS; j++) {
                one.is_param[j] = j == i;
                for (k = 0; p.is_param[j] && k < tiny_tensor_count(&p.param[j].grad); k++)
                    ((double *)p.param[j].grad.data)[k] = 77.0;
            }
            (void)run(ctx, &one, 1, NULL, 0);
            for (j = 0; j < INPUTS; j++)
                if (p.is_param[j]) T_CLOSE(((double *)p.param[j].grad.data)[0], j == i ? kept[j] : 77.0, 0);
        }
        t_free_blocks();
    }
    t_close(ctx);
}

/* the same problem in float; gradients are in grad */
static void narrow(const problem *wide, problem *p)
{
    int i;
    tiny_idx k;
    *p = *wide;
    p->type = TINY_F32;
    p->op.params = wide->op.params ? &p->params : NULL;
    p->dy = numbers(TINY_F32, wide->dy.rank, wide->dy.dim[0], wide->dy.rank > 1 ? wide->dy.dim[1] : 1);
    for (k = 0; k < tiny_tensor_count(&p->dy); k++) put(p->dy.data, TINY_F32, k, ((double *)wide->dy.data)[k]);
    for (i = 0; i < INPUTS; i++) {
        if (wide->op.in[i]) p->op.in[i] = &p->in[i];
        if (!wide->is_param[i]) continue;
        p->in[i] =
            numbers(TINY_F32, wide->in[i].rank, wide->in[i].dim[0], wide->in[i].rank > 1 ? wide->in[i].dim[1] : 1);
        for (k = 0; k < tiny_tensor_count(&p->in[i]); k++)
            put(p->in[i].data, TINY_F32, k, ((double *)wide->in[i].data)[k]);
        p->param[i].value = p->in[i];
        p->param[i].grad = p->in[i];
        p->param[i].grad.data = t_keep((size_t)tiny_tensor_count(&p->in[i]) * 4 + 8);
    }
}

/* A graph with a hub: 1, 2 and 4 threads give the same bits, which are near those of double.
 * Bound: a sum of n terms of order one, each after f + n roundings of its terms: (f + 2 n) u of the largest, n
 * = 4000, f = 12: 5e-4. */
static void test_fast(tiny_target target)
{
    int which, threads, i;
    tiny_idx k;
    for (which = 0; which < 9; which++) {
        graph g = make_graph(200, 150, 8000, 1);
        problem wide, p;
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        void *first[INPUTS];
        memset(first, 0, sizeof first);
        if (which < 5) make_spmm(&wide, &g, which < 4 ? which : 0, which == 4, which % 3, which == 4, 1, 3, 4);
        else if (which < 8) make_scores(&wide, &g, TINY_OP_EDGE_ATTENTION, which - 5, 0, 3, 4, 4);
        else make_scores(&wide, &g, TINY_OP_SDDMM, 1, 1, 3, 4, 4);
        (void)run(ctx, &wide, 1, NULL, 0);
        t_close(ctx);
        narrow(&wide, &p);
        for (threads = 1; threads <= 4; threads *= 2) {
            ctx = t_ctx(target, threads);
            (void)run(ctx, &p, 1, NULL, 0);
            if (threads == 1 && target != TINY_TARGET_REFERENCE)
                T_TRUE(tiny_op_target(ctx, p.op.kind) == t_vectors(target));
            for (i = 0; i < INPUTS; i++) {
                const size_t n = p.is_param[i] ? (size_t)tiny_tensor_count(&p.in[i]) : 0;
                if (!n) continue;
                if (!first[i]) first[i] = memcpy(t_keep(n * 4), p.param[i].grad.data, n * 4);
                else T_SAME((float *)first[i], (float *)p.param[i].grad.data, n);
            }
            t_close(ctx);
        }
        for (i = 0; i < INPUTS; i++) {
            double worst = 0.0, scale = 1e-3;
            if (!p.is_param[i]) continue;
            for (k = 0; k < tiny_tensor_count(&p.in[i]); k++) {
                const double want = ((double *)wide.param[i].grad.data)[k];
                scale = fmax(scale, fabs(want));
                worst = fmax(worst, fabs(((float *)p.param[i].grad.data)[k] - want));
            }
            if (!(worst <= 5e-4 * scale))
                printf("    case %d, input %d: off by %.2g of %.2g\n", which, i, worst, scale);
            T_TRUE(worst <= 5e-4 * scale);
        }
        t_free_blocks();
    }
    T_PROOF("graphs 0", "finite differences for every backward");
}

/* ---- by hand: y0 = 2 x1 + 3 x1, y2 = 5 x0 with dy = 1, 10, 100: dx0 = 500, dx1 = 5; dw = x1 1, x1 1, x0 100; max
 * takes the second, 3 x1 */

static void test_by_hand(void)
{
    static int64_t off[4] = { 0, 2, 2, 3 };
    static int32_t from[3] = { 1, 1, 0 };
    static double xs[2] = { 7, 11 }, ws[3] = { 2, 3, 5 }, dys[3] = { 1, 10, 100 };
    static const double dx[3][2] = { { 500, 5 }, { 500, 2.5 }, { 500, 3 } },
                        dw[3][3] = { { 11, 11, 700 }, { 5.5, 5.5, 700 }, { 0, 11, 700 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    graph g;
    problem p;
    int k, i;
    g.n = 3; g.n_x = 2; g.m = 3; g.offset = off; g.col = from;
    for (k = 0; k < 3; k++) {
        make_spmm(&p, &g, k, 0, 1, 0, 1, 1, 1);
        memcpy(p.in[1].data, xs, sizeof xs);
        memcpy(p.in[3].data, ws, sizeof ws);
        memcpy(p.dy.data, dys, sizeof dys);
        (void)run(ctx, &p, 1, NULL, 0);
        for (i = 0; i < 2; i++) T_CLOSE(((double *)p.param[1].grad.data)[i], dx[k][i], 1e-12);
        for (i = 0; i < 3; i++) T_CLOSE(((double *)p.param[3].grad.data)[i], dw[k][i], 1e-12);
    }
    ws[1] = 2;                              /* both edges are the largest: the first takes it */
    make_spmm(&p, &g, TINY_EDGE_MAX, 0, 1, 0, 1, 1, 1);
    memcpy(p.in[1].data, xs, sizeof xs);
    memcpy(p.in[3].data, ws, sizeof ws);
    memcpy(p.dy.data, dys, sizeof dys);
    (void)run(ctx, &p, 1, NULL, 0);
    T_CLOSE(((double *)p.param[3].grad.data)[0], 11, 0);
    T_CLOSE(((double *)p.param[3].grad.data)[1], 0, 0);
    ws[1] = 3;
    t_close(ctx);
}

/* ---- whole layers, each with softmax cross-entropy over the nodes that have a label */

enum { NODES = 9, EDGES = 30, IN = 5, HEADS = 2, OUT = 3 };
typedef struct net { graph g; tiny_tensor x, norm, label; tiny_param p[5]; int n; } net;

static tiny_tensor gcn(tiny_tape *t, net *s)
{
    const tiny_cross_entropy_params skip = { 0, 1 };
    tiny_tensor offset = tiny_tensor_1d(s->g.offset, TINY_I64, NODES + 1),
                col = tiny_tensor_1d(s->g.col, TINY_I32, EDGES), h;
    tiny_spmm_params sum = { 0, 0 };
    tiny_op op;
    memset(&op, 0, sizeof op);
    h = tiny_tape_linear(t, &s->x, &s->p[0].value, NULL, TINY_ACT_NONE);
    op.kind = TINY_OP_SPMM;
    op.in[0] = &offset;
    op.in[1] = &h;
    op.in[2] = &col;
    op.in[3] = &s->norm;
    op.params = &sum;
    /* the result takes the place of the input's struct: the tape keeps its own */
    (void)tiny_tape_op(t, &op, &h);
    h = tiny_tape_add(t, &h, &s->p[1].value);
    return tiny_tape_call(t, TINY_OP_CROSS_ENTROPY, &h, &s->label, NULL, NULL, &skip);
}

static tiny_tensor gat(tiny_tape *t, net *s)
{
    const tiny_cross_entropy_params skip = { 0, 1 };
    const tiny_idx cut[3] = { NODES, HEADS, OUT };
    tiny_tensor offset = tiny_tensor_1d(s->g.offset, TINY_I64, NODES + 1),
                col = tiny_tensor_1d(s->g.col, TINY_I32, EDGES), h, rows, a[2];
    tiny_reduce_params last = { 0, 0, 0 };
    tiny_sddmm_params p;
    tiny_op op;
    int i;
    memset(&op, 0, sizeof op);
    memset(&p, 0, sizeof p);
    p.add = 1;
    p.heads = HEADS;
    p.slope = 0.2f;
    h = tiny_tape_linear(t, &s->x, &s->p[0].value, NULL, TINY_ACT_NONE);
    rows = tiny_tape_reshape(t, &h, 3, cut);
    for (i = 0; i < 2; i++) {               /* att_dst . h, att_src . h */
        tiny_tensor m = tiny_tape_mul(t, &rows, &s->p[2 + i].value);
        a[i] = tiny_tape_call(t, TINY_OP_SUM, &m, NULL, NULL, NULL, &last);
    }
    op.kind = TINY_OP_EDGE_ATTENTION;
    op.in[0] = &offset;
    op.in[1] = &col;
    op.in[2] = &a[0];
    op.in[3] = &a[1];
    op.in[4] = &h;
    op.params = &p;
    (void)tiny_tape_op(t, &op, &h);
    h = tiny_tape_add(t, &h, &s->p[1].value);
    return tiny_tape_call(t, TINY_OP_CROSS_ENTROPY, &h, &s->label, NULL, NULL, &skip);
}

/* variance over the edges, from two means */
static tiny_tensor variance(tiny_tape *t, net *s)
{
    tiny_tensor offset = tiny_tensor_1d(s->g.offset, TINY_I64, NODES + 1),
                col = tiny_tensor_1d(s->g.col, TINY_I32, EDGES), h, u, m;
    tiny_spmm_params mean = { TINY_EDGE_MEAN, 0 };
    h = tiny_tape_linear(t, &s->x, &s->p[0].value, NULL, TINY_ACT_NONE);
    u = tiny_tape_mul(t, &h, &h);
    u = tiny_tape_call(t, TINY_OP_SPMM, &offset, &u, &col, NULL, &mean);
    m = tiny_tape_call(t, TINY_OP_SPMM, &offset, &h, &col, NULL, &mean);
    m = tiny_tape_mul(t, &m, &m);
    u = tiny_tape_sub(t, &u, &m);
    u = tiny_tape_clamp(t, &u, 0, 1e9);
    u = tiny_tape_scale(t, &u, 1, 1e-5);
    u = tiny_tape_call(t, TINY_OP_SQRT, &u, NULL, NULL, NULL, NULL);
    u = tiny_tape_mul(t, &u, &s->p[1].value);
    return tiny_tape_mean(t, &u);
}

typedef tiny_tensor (*model)(tiny_tape *t, net *s);

static double loss(tiny_ctx *ctx, model f, net *s, int backward)
{
    tiny_tape *t;
    tiny_tensor y;
    tiny_tape_desc d = { 0 };
    double v = NAN;
    int i;
    d.bytes = 1 << 16;
    if (!T_OK(tiny_tape_open(ctx, &d, &t))) return v;
    for (i = 0; i < s->n; i++) T_OK(tiny_tape_param(t, &s->p[i]));
    y = f(t, s);
    if (backward ? T_OK(tiny_tape_backward(t, &y, NULL)) : T_OK(tiny_tape_status(t))) v = *(double *)y.data;
    tiny_tape_close(t);
    return v;
}

static void check_layer(const char *name, model f, int n, int heads)
{
    static int32_t labels[NODES] = { 0, -1, 2, 1, -1, 0, 1, 2, -1 };
    tiny_ctx *ctx = t_ctx(t_now.target, 2);
    double worst = 0.0;
    net s;
    tiny_idx k;
    int i;
    memset(&s, 0, sizeof s);
    s.g = make_graph(NODES, NODES, EDGES, 0);
    s.x = numbers(TINY_F64, 2, NODES, IN);
    s.norm = numbers(TINY_F64, 1, EDGES, 1);
    s.label = tiny_tensor_1d(labels, TINY_I32, NODES);
    s.n = n;
    s.p[0].value = numbers(TINY_F64, 2, heads * OUT, IN);
    s.p[1].value = numbers(TINY_F64, 1, heads * OUT, 1);
    s.p[2].value = numbers(TINY_F64, 2, HEADS, OUT);
    s.p[3].value = numbers(TINY_F64, 2, HEADS, OUT);
    for (i = 0; i < n; i++) {
        s.p[i].name = name;
        s.p[i].grad = s.p[i].value;
        s.p[i].grad.data = t_keep((size_t)tiny_tensor_count(&s.p[i].value) * 8);
    }
    (void)loss(ctx, f, &s, 1);
    for (i = 0; i < n; i++) {
        double *x = (double *)s.p[i].value.data, *g = (double *)s.p[i].grad.data, scale = 1e-3;
        for (k = 0; k < tiny_tensor_count(&s.p[i].value); k++) scale = fmax(scale, fabs(g[k]));
        for (k = 0; k < tiny_tensor_count(&s.p[i].value); k++) {
            const double h = 1e-5, keep = x[k];
            double up, down;
            x[k] = keep + h;
            up = loss(ctx, f, &s, 0);
            x[k] = keep - h;
            down = loss(ctx, f, &s, 0);
            x[k] = keep;
            worst = fmax(worst, fabs((up - down) / (2 * h) - g[k]) / scale);
        }
    }
    T_TRUE(worst <= 1e-6);
    printf("    %s: largest relative error %.2g\n", name, worst);
    t_close(ctx);
}

static void test_layers(tiny_target target)
{
    check_layer("gcn", gcn, 2, 1);
    check_layer("gat", gat, 4, HEADS);
    check_layer("deviation", variance, 2, 1);
    (void)target;                           /* the workers read t_now */
    T_PROOF("graphs 0", "finite differences through GCN and GAT layers");
}

/* double runs the reference, which checks all numbers first; types do not mix; a graph without edges needs nothing */
static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    graph g = make_graph(5, 4, 11, 0), none = make_graph(5, 4, 0, 0);
    problem p;
    tiny_tensor y = numbers(TINY_F64, 2, 5, 4);
    tiny_idx k;
    make_spmm(&p, &g, 0, 0, 1, 0, 1, 1, 4);
    g.col[7] = 4;
    T_STATUS(tiny_spmm(ctx, &p.in[0], &p.in[1], &p.in[2], &p.in[3], NULL, NULL, &y), TINY_E_ARGUMENT,
             "spmm: edge 7 comes from row 4, there are 4");
    g.col[7] = 0;
    g.offset[3] = 99;
    T_STATUS(tiny_spmm(ctx, &p.in[0], &p.in[1], &p.in[2], &p.in[3], NULL, NULL, &y), TINY_E_ARGUMENT,
             "spmm: row 2 has the edges 2 to 99 of 11");
    g.offset[3] = 6;
    T_OK(tiny_spmm(ctx, &p.in[0], &p.in[1], &p.in[2], &p.in[3], NULL, NULL, &y));
    p.in[3].dtype = TINY_F32;
    T_STATUS(tiny_spmm(ctx, &p.in[0], &p.in[1], &p.in[2], &p.in[3], NULL, NULL, &y), TINY_E_DTYPE,
             "spmm: weights and features of edges must be dense f64");
    make_scores(&p, &g, TINY_OP_SDDMM, 0, 0, 1, 3, 0);
    p.in[2].dtype = TINY_F32;
    y = numbers(TINY_F64, 2, 11, 1);
    T_STATUS(tiny_sddmm(ctx, &p.in[0], &p.in[1], &p.in[2], &p.in[3], NULL, NULL, NULL, &y), TINY_E_DTYPE,
             "it must be f64 of rank 2");
    make_spmm(&p, &none, 0, 0, 1, 0, 1, 1, 4);
    p.is_param[3] = 0;                      /* weights of no edges are no parameter */
    T_CLOSE(run(ctx, &p, 1, NULL, 0), 0, 0);
    for (k = 0; k < 16; k++) T_CLOSE(((double *)p.param[1].grad.data)[k], 0, 0);
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_spmm);
    T_RUN_TARGETS(test_scores);
    T_RUN(test_some_inputs);
    T_RUN_TARGETS(test_fast);
    T_RUN(test_by_hand);
    T_RUN_TARGETS(test_layers);
    T_RUN(test_bad);
    return t_done();
}
#endif
