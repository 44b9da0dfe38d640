/* tests/gnn/layer/pool.c - top-k pooling: the path graph worked by hand, every choice against a plain
 * search, gradients against central differences in double */
#define T_GNN
#include "t.h"

static tgnn_graph *path_graph(tiny_ctx *ctx)
{
    static const int32_t src[] = { 0, 1, 2 }, dst[] = { 1, 2, 3 };
    tgnn_graph_desc d;
    tgnn_edges e;
    tgnn_graph *g = NULL;
    memset(&d, 0, sizeof d);
    memset(&e, 0, sizeof e);
    e.n = 3;
    e.src = src;
    e.dst = dst;
    d.symmetrize = 1;
    T_OK(tgnn_graph_make(ctx, &e, &d, &g));
    return g;
}

/* X = [[1,0],[0,1],[1,1],[2,-1]], p = (1, 1): s = (1, 1, 2, 1) / sqrt 2, tanh s = .608859, .608859, .888386, .608859 */
static void test_by_hand(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    float xs[8] = { 1, 0, 0, 1, 1, 1, 2, -1 }, ps[2] = { 1, 1 }, ss[4], ys[8];
    tiny_tensor x = tiny_tensor_2d(xs, TINY_F32, 4, 2), p = tiny_tensor_1d(ps, TINY_F32, 2),
                s = tiny_tensor_1d(ss, TINY_F32, 4), y;
    tgnn_graph *g = path_graph(ctx);
    const tiny_sparse *a;
    tgnn_pool top;
    T_OK(tgnn_pool_score(ctx, &x, &p, &s));
    T_CLOSE(ss[0], 0.70710678, 1e-7);
    T_CLOSE(ss[1], 0.70710678, 1e-7);
    T_CLOSE(ss[2], 1.41421356, 2e-7);
    T_CLOSE(ss[3], 0.70710678, 1e-7);
    ss[0] = ss[1] = ss[3] = 0.70710678f;    /* equal to the last bit: the lower number goes first */
    T_OK(tgnn_pool_make(ctx, g, NULL, 0, &s, 0.5, &top));
    T_EQ_INT(top.n, 2);
    T_EQ_INT(top.node[0], 2);
    T_EQ_INT(top.node[1], 0);
    T_EQ_INT(tgnn_graph_edges(top.graph), 0);
    y = tiny_tensor_2d(ys, TINY_F32, 2, 2);
    T_OK(tgnn_pool_run(ctx, &top, &x, &s, &y));
    T_CLOSE(ys[0], 0.888385562, 2e-7);
    T_CLOSE(ys[1], 0.888385562, 2e-7);
    T_CLOSE(ys[2], 0.608859365, 2e-7);
    T_CLOSE(ys[3], 0, 0);
    tgnn_pool_free(ctx, &top);
    /* 2, 0, 1: the edges 0 - 1 and 1 - 2 are left, as 1 - 2 and 2 - 0 */
    T_OK(tgnn_pool_make(ctx, g, NULL, 0, &s, 0.75, &top));
    T_EQ_INT(top.n, 3);
    T_EQ_INT(top.node[2], 1);
    T_EQ_INT(top.graph_at[1], 3);
    a = tgnn_graph_in(top.graph);
    T_EQ_INT(a->n, 4);
    T_TRUE(a->offset[1] == 1 && a->offset[2] == 2 && a->offset[3] == 4);
    T_TRUE(a->col[0] == 2 && a->col[1] == 2 && a->col[2] == 0 && a->col[3] == 1);
    /* both directions have the number of the edge */
    T_TRUE(a->source[0] == 1 && a->source[1] == 0 && a->source[2] == 1 && a->source[3] == 0);
    tgnn_pool_free(ctx, &top);
    T_OK(tgnn_pool_make(ctx, g, NULL, 0, &s, 3, &top));            /* how many, not a share */
    T_EQ_INT(top.n, 3);
    tgnn_pool_free(ctx, &top);
    T_OK(tgnn_pool_make(ctx, g, NULL, 0, &s, 1e9, &top));
    T_EQ_INT(top.n, 4);
    tgnn_pool_free(ctx, &top);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* ceil(ratio n) in floats: the double of 0.1 times 30 is above 3, that of 0.7 times 10 is 7 */
static void test_how_many(void)
{
    static const struct {
        double ratio;
        int n, keeps;
    } of[] = { { 0.1, 30, 3 },       { 0.5, 7, 4 }, { 0.7, 10, 7 }, { 0.8, 1, 1 }, { 0.01, 5, 1 },
               { 0.999, 1000, 999 }, { 0.3, 0, 0 }, { 1, 5, 1 },    { 4, 3, 3 } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float ss[1000];
    size_t i;
    for (i = 0; i < 1000; i++) ss[i] = (float)(i % 17);
    for (i = 0; i < T_COUNT(of); i++) {
        tiny_tensor s = tiny_tensor_1d(ss, TINY_F32, of[i].n);
        tgnn_graph_desc d;
        tgnn_edges e;
        tgnn_graph *g;
        tgnn_pool top;
        memset(&d, 0, sizeof d);
        memset(&e, 0, sizeof e);
        d.n_nodes = of[i].n;
        T_OK(tgnn_graph_make(ctx, &e, &d, &g));
        if (T_OK(tgnn_pool_make(ctx, g, NULL, 0, &s, of[i].ratio, &top))) T_EQ_INT(top.n, of[i].keeps);
        tgnn_pool_free(ctx, &top);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

/* a batch with an empty graph, scores with many ties: each choice against a plain search, each edge against a walk over
 * all of them */
static void test_batches(void)
{
    static const int64_t at[6] = { 0, 9, 9, 10, 57, 80 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    float ss[80];
    int32_t src[600], dst[600], place[80];
    float weight[600];
    tiny_rng r = tiny_rng_make(7, 7);
    tiny_tensor s = tiny_tensor_1d(ss, TINY_F32, 80);
    tgnn_edges e;
    tgnn_graph *g;
    tgnn_pool top;
    int round, i, k, m;
    for (round = 0; round < 20; round++) {
        int64_t seen = 0, p;
        const double ratio = round % 5 == 4 ? 2.0 : 0.15 + 0.2 * (round % 5);
        for (m = 0; m < 600; m++) {
            static const int of[4] = { 0, 2, 3, 4 };
            const int part = of[tiny_rng_below(&r, 4)], n = (int)(at[part + 1] - at[part]);
            src[m] = (int32_t)at[part] + (int32_t)tiny_rng_below(&r, (uint32_t)n);
            dst[m] = (int32_t)at[part] + (int32_t)tiny_rng_below(&r, (uint32_t)n);
            weight[m] = (float)m;
        }
        for (i = 0; i < 80; i++) ss[i] = (float)tiny_rng_below(&r, round < 10 ? 5 : 100000) - 3;
        memset(&e, 0, sizeof e);
        e.n = 600;
        e.n_src = e.n_dst = 80;
        e.src = src;
        e.dst = dst;
        e.weight = weight;
        T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
        if (!T_OK(tgnn_pool_make(ctx, g, at, 5, &s, ratio, &top))) break;
        for (i = 0; i < 80; i++) place[i] = -1;
        for (k = 0; k < 5; k++) {
            const int64_t n = at[k + 1] - at[k],
                          keeps = ratio >= 1 ? (n < 2 ? n : 2) : (int64_t)ceilf((float)ratio * (float)n);
            unsigned char taken[80] = { 0 };
            int64_t q;
            T_EQ_INT(top.graph_at[k + 1] - top.graph_at[k], keeps);
            for (q = 0; q < keeps; q++) {
                int best = -1;
                for (i = (int)at[k]; i < (int)at[k + 1]; i++)
                    if (!taken[i] && (best < 0 || ss[i] > ss[best])) best = i;
                taken[best] = 1;
                T_EQ_INT(top.node[top.graph_at[k] + q], best);
                place[best] = (int32_t)(top.graph_at[k] + q);
            }
        }
        for (m = 0; m < 600; m++) seen += place[src[m]] >= 0 && place[dst[m]] >= 0;
        T_EQ_INT(tgnn_graph_edges(top.graph), seen);
        for (i = 0; i < top.n; i++)
            for (p = tgnn_graph_in(top.graph)->offset[i]; p < tgnn_graph_in(top.graph)->offset[i + 1]; p++) {
                const int64_t number = tgnn_graph_in(top.graph)->source[p];
                T_TRUE(place[dst[number]] == i && place[src[number]] == tgnn_graph_in(top.graph)->col[p] &&
                       tgnn_graph_in(top.graph)->value[p] == weight[number]);
            }
        tgnn_pool_free(ctx, &top);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

/* other numbers for the nodes: the same rows in the same order, where no two scores are equal */
static void test_other_numbers(tiny_target target)
{
    enum { N = 200, F = 5 };
    tiny_ctx *ctx = t_ctx(target, 2);
    float *x = t_rand(N * F, -1, 1), *p = t_rand(F, -1, 1), *s = t_guarded(N), *x2 = t_guarded(N * F),
          *s2 = t_guarded(N), *y = t_guarded(N * F), *y2 = t_guarded(N * F);
    uint32_t order[N];
    tiny_rng r = tiny_rng_make(1, 2);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), tp = tiny_tensor_2d(p, TINY_F32, 1, F),
                ts = tiny_tensor_2d(s, TINY_F32, N, 1), tx2 = tiny_tensor_2d(x2, TINY_F32, N, F),
                ts2 = tiny_tensor_1d(s2, TINY_F32, N), ty, ty2;
    tgnn_graph *g, *h;
    tgnn_pool a, b;
    int i;
    T_OK(tgnn_planted(ctx, N, 4, 6.0, 0.7, 3, &g));
    tiny_rng_permutation(&r, order, N);
    T_OK(tgnn_graph_permute(ctx, g, order, &h));
    for (i = 0; i < N; i++) memcpy(x2 + i * F, x + order[i] * F, F * sizeof *x);
    T_OK(tgnn_pool_score(ctx, &tx, &tp, &ts));
    for (i = 0; i < N; i++) s2[i] = s[order[i]];
    T_OK(tgnn_pool_make(ctx, g, NULL, 0, &ts, 0.4, &a));
    T_OK(tgnn_pool_make(ctx, h, NULL, 0, &ts2, 0.4, &b));
    T_TRUE(a.n == 80 && b.n == 80 && tgnn_graph_edges(a.graph) == tgnn_graph_edges(b.graph) &&
           tgnn_graph_edges(a.graph) > 0);
    T_TRUE(!memcmp(tgnn_graph_in(a.graph)->col, tgnn_graph_in(b.graph)->col, (size_t)tgnn_graph_edges(a.graph) * 4));
    ty = tiny_tensor_2d(y, TINY_F32, a.n, F);
    ty2 = tiny_tensor_2d(y2, TINY_F32, b.n, F);
    T_OK(tgnn_pool_run(ctx, &a, &tx, &ts, &ty));
    T_OK(tgnn_pool_run(ctx, &b, &tx2, &ts2, &ty2));
    T_SAME(y, y2, (size_t)a.n * F);
    for (i = 0; i < a.n * F; i++) T_CLOSE(y[i], x[a.node[i / F] * F + i % F] * tanh((double)s[a.node[i / F]]), 4e-7);
    tgnn_pool_free(ctx, &a);
    tgnn_pool_free(ctx, &b);
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, h);
    t_close(ctx);
}

/* sum of w times the kept rows, by x and p; the choice stays that of the first run */
static double loss(tiny_ctx *ctx, tiny_param *p, const tiny_tensor *w, const tgnn_pool *top, int backward)
{
    tiny_tape_desc d;
    tiny_tape *t;
    tiny_tensor s, y;
    double sum = 0;
    tiny_idx i;
    memset(&d, 0, sizeof d);
    d.bytes = 1 << 20;
    if (!T_OK(tiny_tape_open(ctx, &d, &t))) return 0;
    for (i = 0; i < 2; i++) T_OK(tiny_tape_param(t, &p[i]));
    s = tgnn_tape_pool_score(t, &p[0].value, &p[1].value);
    y = tgnn_tape_pool(t, top, &p[0].value, &s);
    T_OK(tiny_tape_status(t));
    for (i = 0; y.data && i < tiny_tensor_count(&y); i++) sum += ((double *)y.data)[i] * ((double *)w->data)[i];
    if (backward) {
        tiny_tape_zero(t);
        T_OK(tiny_tape_backward(t, &y, w));
    }
    tiny_tape_close(t);
    return sum;
}

static void test_gradients(void)
{
    enum { N = 23, F = 6 };
    static const int64_t at[4] = { 0, 7, 8, N };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    double x[N * F], v[F], w[N * F], gx[N * F], gv[F], worst = 0;
    float ss[N];
    tiny_rng r = tiny_rng_make(5, 5);
    tiny_tensor s = tiny_tensor_1d(ss, TINY_F32, N), tw;
    tiny_param p[2];
    tgnn_graph_desc d;
    tgnn_edges e;
    tgnn_graph *g;
    tgnn_pool top;
    int i, k, out_of = 0;
    memset(p, 0, sizeof p);
    memset(&d, 0, sizeof d);
    memset(&e, 0, sizeof e);
    for (i = 0; i < N * F; i++) {
        x[i] = (double)tiny_rng_normal(&r);
        w[i] = (double)tiny_rng_normal(&r);
    }
    for (i = 0; i < F; i++) v[i] = (double)tiny_rng_normal(&r);
    for (i = 0; i < N; i++)
        for (ss[i] = 0, k = 0; k < F; k++) ss[i] += (float)(x[i * F + k] * v[k]);
    d.n_nodes = N;
    T_OK(tgnn_graph_make(ctx, &e, &d, &g));
    T_OK(tgnn_pool_make(ctx, g, at, 3, &s, 0.5, &top));
    T_EQ_INT(top.n, 4 + 1 + 8);
    p[0].name = "x";
    p[1].name = "p";
    p[0].value = tiny_tensor_2d(x, TINY_F64, N, F);
    p[0].grad = tiny_tensor_2d(gx, TINY_F64, N, F);
    p[1].value = tiny_tensor_2d(v, TINY_F64, 1, F);
    p[1].grad = tiny_tensor_2d(gv, TINY_F64, 1, F);
    tw = tiny_tensor_2d(w, TINY_F64, top.n, F);
    (void)loss(ctx, p, &tw, &top, 1);
    for (k = 0; k < 2; k++)
        for (i = 0; i < (k ? F : N * F); i++) {
            double *of = k ? v : x, *grad = k ? gv : gx, keep = of[i], up, down;
            of[i] = keep + 1e-5;
            up = loss(ctx, p, &tw, &top, 0);
            of[i] = keep - 1e-5;
            down = loss(ctx, p, &tw, &top, 0);
            of[i] = keep;
            worst = fmax(worst, fabs((up - down) / 2e-5 - grad[i]));
            if (!k && grad[i] == 0) out_of++;
        }
    T_EQ_INT(out_of, (N - top.n) * F);      /* dropped nodes have no gradient */
    T_TRUE(worst <= 1e-8);
    printf("    largest error of a gradient %.2g\n", worst);
    tgnn_pool_free(ctx, &top);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* the tape in floats agrees with tgnn_pool_run, within the roundings of the score */
static void test_tape_and_run(tiny_target target)
{
    enum { N = 60, F = 19 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_rand(N * F, -1, 1), *v = t_rand(F, -1, 1), *s = t_guarded(N), *y = t_guarded(N * F);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), tv = tiny_tensor_2d(v, TINY_F32, 1, F),
                ts = tiny_tensor_2d(s, TINY_F32, N, 1), ty, a, b;
    tiny_tape_desc td;
    tiny_tape *t;
    tgnn_graph *g;
    tgnn_pool top;
    tiny_idx i;
    memset(&td, 0, sizeof td);
    td.bytes = 1 << 20;
    td.no_grad = 1;
    T_OK(tgnn_planted(ctx, N, 2, 4.0, 0.5, 9, &g));
    T_OK(tgnn_pool_score(ctx, &tx, &tv, &ts));
    T_OK(tgnn_pool_make(ctx, g, NULL, 0, &ts, 0.5, &top));
    ty = tiny_tensor_2d(y, TINY_F32, top.n, F);
    T_OK(tgnn_pool_run(ctx, &top, &tx, &ts, &ty));
    T_OK(tiny_tape_open(ctx, &td, &t));
    a = tgnn_tape_pool_score(t, &tx, &tv);
    b = tgnn_tape_pool(t, &top, &tx, &a);
    T_OK(tiny_tape_status(t));
    for (i = 0; b.data && i < top.n * F; i++) T_CLOSE(((float *)b.data)[i], y[i], 3e-6);
    tiny_tape_close(t);
    tgnn_pool_free(ctx, &top);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_bad(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float xs[8] = { 1, 0, 0, 1, 1, 1, 2, -1 }, ps[2] = { 0, 0 }, ss[4] = { 1, 2, 3, 4 }, ys[8];
    static const int64_t falls[4] = { 0, 3, 2, 4 }, shorter[2] = { 0, 3 };
    static const int32_t twice[2] = { 1, 1 }, outside[1] = { 4 };
    tiny_tensor x = tiny_tensor_2d(xs, TINY_F32, 4, 2), p = tiny_tensor_1d(ps, TINY_F32, 2),
                s = tiny_tensor_1d(ss, TINY_F32, 4), three = tiny_tensor_1d(ss, TINY_F32, 3),
                y = tiny_tensor_2d(ys, TINY_F32, 3, 2);
    tgnn_graph *g = path_graph(ctx), *h;
    tgnn_pool top;
    T_STATUS(tgnn_pool_score(ctx, &x, &p, &s), TINY_E_NUMERIC, "p has no direction");
    ps[0] = INFINITY;
    T_STATUS(tgnn_pool_score(ctx, &x, &p, &s), TINY_E_NUMERIC, "p has no direction");
    T_STATUS(tgnn_pool_score(ctx, &x, &three, &s), TINY_E_SHAPE, "x must be n x f, p f");
    T_STATUS(tgnn_pool_make(ctx, g, NULL, 0, &s, 0, &top), TINY_E_ARGUMENT, "a ratio of 0");
    T_STATUS(tgnn_pool_make(ctx, g, NULL, 0, &s, -1, &top), TINY_E_ARGUMENT, "a ratio of -1");
    T_STATUS(tgnn_pool_make(ctx, g, NULL, 0, &s, (double)NAN, &top), TINY_E_ARGUMENT, "a ratio of");
    T_STATUS(tgnn_pool_make(ctx, g, NULL, 0, &three, 0.5, &top), TINY_E_SHAPE, "the score must be 4 numbers");
    T_STATUS(tgnn_pool_make(ctx, g, falls, 3, &s, 0.5, &top), TINY_E_FORMAT, "graph 1 has the nodes 3 to 2");
    T_STATUS(tgnn_pool_make(ctx, g, shorter, 1, &s, 0.5, &top), TINY_E_FORMAT, "begin with 0 and end with the 4 nodes");
    T_STATUS(tgnn_pool_make(ctx, NULL, NULL, 0, &s, 0.5, &top), TINY_E_ARGUMENT, "the graph or the score is missing");
    ss[2] = NAN;
    T_STATUS(tgnn_pool_make(ctx, g, NULL, 0, &s, 0.5, &top), TINY_E_NUMERIC, "the score of node 2 is not a number");
    T_TRUE(!top.node && !top.graph);
    ss[2] = INFINITY;                       /* a number, and the largest */
    if (T_OK(tgnn_pool_make(ctx, g, NULL, 0, &s, 0.5, &top))) {
        T_EQ_INT(top.node[0], 2);
        T_TRUE(tgnn_pool_run(ctx, &top, &x, &s, &y) != TINY_OK);
        tgnn_pool_free(ctx, &top);
    }
    T_STATUS(tgnn_graph_induced(ctx, g, twice, 2, &h), TINY_E_ARGUMENT, "node[1] is 1: it occurs twice");
    T_STATUS(tgnn_graph_induced(ctx, g, outside, 1, &h), TINY_E_ARGUMENT, "node[0] is 4: there is no such node");
    T_OK(tgnn_graph_induced(ctx, g, NULL, 0, &h));
    tgnn_graph_close(ctx, h);
    tgnn_pool_free(ctx, NULL);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_no_memory(void)
{
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    float xs[8] = { 1, 0, 0, 1, 1, 1, 2, -1 }, ps[2] = { 1, 2 }, ss[4], ys[4];
    T_EACH_ALLOCATION(
        tiny_ctx *ctx = NULL;
        tiny_status st = tiny_ctx_open(&cd, &ctx);
        static const int32_t src[] = { 0, 1, 2 };
        static const int32_t dst[] = { 1, 2, 3 };
        tiny_tensor x = tiny_tensor_2d(xs, TINY_F32, 4, 2);
        tiny_tensor p = tiny_tensor_1d(ps, TINY_F32, 2);
        tiny_tensor s = tiny_tensor_1d(ss, TINY_F32, 4);
        tiny_tensor y = tiny_tensor_2d(ys, TINY_F32, 2, 2);
        tgnn_graph *g = NULL;
        tgnn_pool top;
        tgnn_edges e;
        memset(&e, 0, sizeof e);
        memset(&top, 0, sizeof top);
        e.n = 3;
        e.src = src;
        e.dst = dst;
        if (!st) st = tgnn_graph_make(ctx, &e, NULL, &g);
        if (!st) st = tgnn_pool_score(ctx, &x, &p, &s);
        if (!st) st = tgnn_pool_make(ctx, g, NULL, 0, &s, 0.5, &top);
        if (!st) st = tgnn_pool_run(ctx, &top, &x, &s, &y);
        tgnn_pool_free(ctx, &top);
        tgnn_graph_close(ctx, g);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN_FORMS(test_by_hand);
    T_RUN(test_how_many);
    T_RUN(test_batches);
    T_RUN_FORMS(test_other_numbers);
    T_RUN(test_gradients);
    T_RUN_FORMS(test_tape_and_run);
    T_RUN(test_bad);
    T_RUN(test_no_memory);
    return t_done();
}
