/* tests/gnn/train/links.c - links: the contents of a split, areas worked on paper and by counting, training, bad input;
 * and data and planes that programs are given */
#define T_GNN
#include "t.h"

static int there(const tgnn_graph *g, int a, int b)
{
    const tiny_sparse *m = tgnn_graph_in(g);
    int64_t p;
    for (p = m->offset[b]; p < m->offset[b + 1]; p++)
        if (m->col[p] == a) return 1;
    return 0;
}

static void test_split(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    /* links: 01 (twice), 02, 12, 34 (twice); a loop */
    static const int32_t s[7] = { 0, 1, 2, 2, 3, 3, 3 }, d[7] = { 1, 0, 0, 1, 3, 4, 4 };
    tgnn_links l, again;
    tgnn_graph *g;
    tgnn_edges e;
    tiny_idx i;
    int k, seen = 0;
    memset(&e, 0, sizeof e);
    e.n = 7;
    e.src = s;
    e.dst = d;
    if (T_OK(tgnn_graph_make(ctx, &e, NULL, &g)) && T_OK(tgnn_links_split(ctx, g, 0.25, 0.25, 1, &l))) {
        T_EQ_INT(l.n[0], 2);
        T_EQ_INT(l.n[1], 1);
        T_EQ_INT(l.n[2], 1);
        T_EQ_INT(tgnn_graph_edges(l.graph), 4);
        T_EQ_INT(tgnn_graph_nodes(l.graph), 5);
        for (k = 0; k < 3; k++)
            for (i = 0; i < l.n[k]; i++) {
                const int a = l.link[k][i], b = l.link[k][l.n[k] + i];
                seen |= 1 << (a + b + (a == 0 || b == 0 ? 0 : 10));     /* 1, 2, 13, 17 */
                T_EQ_INT(there(l.graph, a, b), k == 0);
                T_EQ_INT(there(l.graph, b, a), k == 0);
                if (k)
                    T_TRUE(!there(g, l.none[k][i], l.none[k][l.n[k] + i]) &&
                           !there(g, l.none[k][l.n[k] + i], l.none[k][i]) && l.none[k][i] != l.none[k][l.n[k] + i]);
            }
        T_EQ_INT(seen, 1 << 1 | 1 << 2 | 1 << 13 | 1 << 17);
        tgnn_links_free(ctx, &l);
        tgnn_graph_close(ctx, g);
    }
    if (T_OK(tgnn_planted(ctx, 300, 3, 6, 0.9, 2, &g)) && T_OK(tgnn_links_split(ctx, g, 0.1, 0.2, 5, &l)) &&
        T_OK(tgnn_links_split(ctx, g, 0.1, 0.2, 5, &again))) {
        const tiny_idx all = (tiny_idx)tgnn_graph_edges(g) / 2;
        T_EQ_INT(l.n[0] + l.n[1] + l.n[2], all);
        T_EQ_INT(l.n[2], (tiny_idx)((double)all * 0.2));
        T_EQ_INT(tgnn_graph_edges(l.graph), 2 * l.n[0]);
        T_SAME(l.link[2], again.link[2], 2 * l.n[2]);
        T_SAME(l.none[1], again.none[1], 2 * l.n[1]);
        tgnn_links_free(ctx, &l);
        tgnn_links_free(ctx, &again);
        T_OK(tgnn_links_split(ctx, g, 0.1, 0.2, 6, &again));
        for (i = 0, k = 0; i < again.n[2]; i++)
            k += there(again.graph, again.link[2][i], again.link[2][again.n[2] + i]);
        T_EQ_INT(k, 0);
        tgnn_links_free(ctx, &again);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

/* pairs without an edge are two nodes without an edge: few nodes, so that loops and links would be drawn often */
static void test_none(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g;
    uint64_t seed;
    T_OK(tgnn_planted(ctx, 30, 3, 4, 0.5, 2, &g));
    for (seed = 0; seed < 20; seed++) {
        tgnn_links l;
        tiny_idx i;
        int k;
        if (!T_OK(tgnn_links_split(ctx, g, 0.3, 0.3, seed, &l))) break;
        for (k = 1; k < 3; k++)
            for (i = 0; i < l.n[k]; i++) {
                const int a = l.none[k][i], b = l.none[k][l.n[k] + i];
                T_TRUE(a >= 0 && a < 30 && b >= 0 && b < 30 && a != b && !there(g, a, b) && !there(g, b, a));
            }
        tgnn_links_free(ctx, &l);
    }
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_area(void)
{
    enum { N = 40, M = 50 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float z[4] = { 1, 2, 3, 4 }, *w = t_rand(N * 3, -1, 1);
    tiny_tensor tz = tiny_tensor_2d(z, TINY_F32, 4, 1), tw = tiny_tensor_2d(w, TINY_F32, N, 3);
    /* links 3 x 4 = 12, 1 x 2 = 2; pairs that are none 1 x 3 = 3, 1 x 2 = 2: of 4, 12 beats both, 2 ties with one:
     * 2.5 */
    int32_t link[4] = { 2, 0, 3, 1 }, none[4] = { 0, 0, 2, 1 }, some[2 * M], other[2 * M];
    double area = 0, want = 0;
    int i, k;
    T_OK(tgnn_links_area(ctx, &tz, link, none, 2, &area));
    T_CLOSE(area, 2.5 / 4, 1e-15);
    for (i = 0; i < 2 * M; i++) {
        some[i] = (int32_t)t_rand_below(N);
        other[i] = (int32_t)t_rand_below(N);
    }
    T_OK(tgnn_links_area(ctx, &tw, some, other, M, &area));
    for (i = 0; i < M; i++)
        for (k = 0; k < M; k++) {
            double a = 0, b = 0;
            int f;
            for (f = 0; f < 3; f++) {
                a += (double)w[some[i] * 3 + f] * (double)w[some[M + i] * 3 + f];
                b += (double)w[other[k] * 3 + f] * (double)w[other[M + k] * 3 + f];
            }
            want += (float)a > (float)b ? 1 : (float)a == (float)b ? 0.5 : 0;
        }
    T_CLOSE(area, want / (M * M), 1e-12);
    some[3] = N;
    T_STATUS(tgnn_links_area(ctx, &tw, some, other, M, &area), TINY_E_FORMAT, "has a node that does not exist");
    some[3] = 0;
    w[0] = NAN;
    T_STATUS(tgnn_links_area(ctx, &tw, some, other, M, &area), TINY_E_NUMERIC, "not a finite number");
    T_STATUS(tgnn_links_area(ctx, &tw, some, other, 0, &area), TINY_E_ARGUMENT, "pairs of both kinds");
    t_close(ctx);
}

#ifndef TINY_NO_TRAIN
static const char json[] = "{\"format\":\"tgnn-net "
                           "1\",\"layers\":[{\"kind\":\"gcn\",\"name\":\"a\",\"in\":8,\"out\":16,\"act\":\"relu\"},{"
                           "\"kind\":\"gcn\",\"name\":\"b\",\"out\":8}]}";

/* nodes of a planted graph with noisy features of their class: links are within classes */
static float learn(tiny_target target, int threads, uint64_t seed, double *test)
{
    enum { N = 400, K = 8 };
    tiny_ctx *ctx = t_ctx(target, threads);
    tgnn_train_desc how;
    tgnn_links l;
    tgnn_graph *g;
    tgnn_net *net = NULL;
    tgnn_epoch e;
    float *x, w = 0, first = 0;
    tiny_tensor tx;
    int i;
    t_now.rand_at = 0;
    x = t_rand(N * K, -1, 1);
    tx = tiny_tensor_2d(x, TINY_F32, N, K);
    for (i = 0; i < N; i++) x[i * K + i % K] += 1.0f;
    memset(&how, 0, sizeof how);
    how.epochs = 60;
    how.seed = seed;
    if (T_OK(tgnn_planted(ctx, N, K, 8, 0.95, 2, &g)) && T_OK(tgnn_links_split(ctx, g, 0.05, 0.2, 1, &l)) &&
        T_OK(tgnn_net_make(ctx, "links", json, sizeof json - 1, 1, &net))) {
        double area = 0;
        float *z = t_guarded(N * 8);
        tiny_tensor tz = tiny_tensor_2d(z, TINY_F32, N, 8);
        tgnn_net_input in;
        first = *(float *)net->stage[0].layer.w[0].data;
        T_OK(tgnn_train_links(ctx, net, &l, &tx, &how, &e));
        w = *(float *)net->stage[0].layer.w[0].data;
        memset(&in, 0, sizeof in);
        in.graph = l.graph;
        in.x = &tx;
        T_OK(tgnn_net_run(ctx, net, &in, &tz, NULL));
        T_OK(tgnn_links_area(ctx, &tz, l.link[2], l.none[2], l.n[2], &area));
        T_CLOSE(area, e.test, 1e-3);
        T_TRUE(e.loss < 0.66 && w != first);
        *test = e.test;
        tgnn_links_free(ctx, &l);
    }
    tgnn_net_free(ctx, net);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    return w;
}

static void test_learns(tiny_target target)
{
    double test[3] = { 0, 0, 0 };
    const float a = learn(target, 1, 1, &test[0]), b = learn(target, 2, 1, &test[1]), c = learn(target, 1, 2, &test[2]);
    T_TRUE(test[0] > 0.85 && test[2] > 0.85);
    T_TRUE(a == b && a != c);
}

static void test_bad(void)
{
    static const char readout[] =
        "{\"format\":\"tgnn-net "
        "1\",\"layers\":[{\"kind\":\"readout\",\"in\":8},{\"kind\":\"linear\",\"name\":\"l\",\"out\":2}]}";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[8] = { 0 };
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, 1, 8);
    tgnn_train_desc how;
    tgnn_net *net = NULL;
    tgnn_graph *g = NULL, *empty = NULL;
    tgnn_links l;
    memset(&how, 0, sizeof how);
    T_OK(tgnn_planted(ctx, 20, 2, 4, 0.9, 2, &g));
    T_OK(tgnn_planted(ctx, 20, 2, 0, 0.9, 2, &empty));
    T_STATUS(tgnn_links_split(ctx, g, 0.6, 0.4, 1, &l), TINY_E_ARGUMENT, "shares of validation and test below 1");
    T_STATUS(tgnn_links_split(ctx, empty, 0.1, 0.1, 1, &l), TINY_E_ARGUMENT, "0 pairs with an edge");
    if (T_OK(tgnn_links_split(ctx, g, 0, 0, 1, &l))) {
        T_OK(tgnn_net_make(ctx, "links", json, sizeof json - 1, 1, &net));
        T_STATUS(tgnn_train_links(ctx, net, &l, &tx, NULL, NULL), TINY_E_SHAPE, "x is 1x8 f32, it must be 20 x 8");
        how.patience = 1;
        T_STATUS(tgnn_train_links(ctx, net, &l, &tx, &how, NULL), TINY_E_ARGUMENT, "no link is in the validation part");
        T_STATUS(tgnn_train_links(ctx, net, NULL, &tx, NULL, NULL), TINY_E_ARGUMENT, "links of tgnn_links_split");
        tgnn_net_free(ctx, net);
        T_OK(tgnn_net_make(ctx, "links", readout, sizeof readout - 1, 1, &net));
        T_STATUS(tgnn_train_links(ctx, net, &l, &tx, NULL, NULL), TINY_E_ARGUMENT, "gives results for graphs");
        tgnn_links_free(ctx, &l);
    }
    tgnn_net_free(ctx, net);
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, empty);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_SCALAR, 1);
        tgnn_train_desc how;
        tgnn_data d;
        tgnn_links l;
        tgnn_net *net;
        tiny_ctx *ctx;
        static const char small[] =
            "{\"format\":\"tgnn-net 1\",\"layers\":[{\"kind\":\"linear\",\"name\":\"b\",\"in\":13,\"out\":2}]}";
        memset(&how, 0, sizeof how);
        how.epochs = 1;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_data_planted(ctx, 12, 2, 3, 0.5, 1, &d)) {
                float *y = (float *)tiny_alloc(ctx, 24 * sizeof *y);
                tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, 12, 2);
                if (y) (void)tgnn_plane(ctx, &d.x, &ty);
                tiny_free(ctx, y);
                if (!tgnn_links_split(ctx, d.graph, 0.2, 0.2, 1, &l)) {
                    if (!tgnn_net_make(ctx, "net", small, sizeof small - 1, 1, &net)) {
                        (void)tgnn_train_links(ctx, net, &l, &d.x, &how, NULL);
                        tgnn_net_free(ctx, net);
                    }
                    tgnn_links_free(ctx, &l);
                }
                tgnn_data_free(ctx, &d);
            }
            tiny_ctx_close(ctx);
        }
    })
}
#endif

/* ---- data and planes */

static void test_data(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_data d;
    int64_t *at;
    tiny_idx i, k, own = 0, count[3] = { 0, 0, 0 };
    double mean = 0, square = 0;
    if (T_OK(tgnn_data_planted(ctx, 1000, 4, 6, 0.75, 1, &d))) {
        T_EQ_INT(d.x.dim[1], 15);
        for (i = 0; i < 1000; i++) {
            T_EQ_INT(d.label[i], i % 4);
            count[d.split[i] == 'r' ? 0 : d.split[i] == 'v' ? 1 : 2]++;
            for (k = 0; k < 15; k++) {
                const double v = (double)((float *)d.x.data)[i * 15 + k] - (k == i % 4);
                mean += v / 15000;
                square += v * v / 15000;
            }
        }
        T_EQ_INT(count[0], 80);
        T_EQ_INT(count[1], 250);
        T_EQ_INT(count[2], 670);
        T_CLOSE(mean, 0, 0.025);            /* 3 deviations of 1 / sqrt(15000) */
        T_CLOSE(square, 1, 0.035);
        tgnn_data_free(ctx, &d);
    }
    if (T_OK(tgnn_data_rings(ctx, 50, 1, &d)) && T_OK(tgnn_data_features(ctx, &d)) &&
        T_OK(tgnn_data_graph_at(ctx, &d, &at))) {
        const tiny_sparse *g = tgnn_graph_in(d.graph);
        T_EQ_INT(at[0], 0);
        T_EQ_INT(at[50], d.n_nodes);
        for (k = 0; k < 50; k++) {
            const int64_t size = at[k + 1] - at[k], edges = g->offset[at[k + 1]] - g->offset[at[k]];
            T_TRUE(size >= 8 && size <= 23 && edges >= 2 * size && edges <= 2 * (size + size / (k & 1 ? 2 : 4)));
            T_EQ_INT(d.fold[k], k / 2 % 10 + 1);
            for (i = (tiny_idx)at[k]; i < (tiny_idx)at[k + 1]; i++) {
                const tiny_idx degree = (tiny_idx)(g->offset[i + 1] - g->offset[i]);
                T_TRUE(degree >= 2 && ((float *)d.x.data)[i * 16 + degree] == 1.0f);
                T_EQ_INT(d.graph_of_node[i], k);
                own++;
            }
        }
        T_EQ_INT(own, d.n_nodes);
        tiny_free(ctx, at);
        tgnn_data_free(ctx, &d);
        T_STATUS(tgnn_data_rings(ctx, 0, 1, &d), TINY_E_ARGUMENT, "0 rings");
    }
    t_close(ctx);
}

/* points on a line in five dimensions, and a little across: the first direction is the line */
static void test_plane(void)
{
    enum { N = 101 };
    /* at right angles; the first of length 1 */
    static const double along[5] = { 0.1, 0.7, 0.5, 0.1, 0.4898979486 }, across[5] = { 0.7, -0.1, 0, 0, 0 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    float x[N * 5], y[N * 2];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, 5), ty = tiny_tensor_2d(y, TINY_F32, N, 2),
                one = tiny_tensor_2d(x, TINY_F32, N, 1);
    const double length = sqrt(0.5);
    int i, k;
    for (i = 0; i < N; i++)
        for (k = 0; k < 5; k++)
            x[i * 5 + k] = (float)(3 + (i - 50) * along[k] + (i % 2 ? 1 : -1) * (i == 50 ? 0 : 1) * across[k]);
    T_OK(tgnn_plane(ctx, &tx, &ty));
    for (i = 0; i < N; i++) {
        T_CLOSE(y[i * 2], i - 50, 0.05);
        T_CLOSE(y[i * 2 + 1], (i == 50 ? 0 : i % 2 ? 1 : -1) * length, 0.05);
    }
    one.stride[0] = 1;
    T_OK(tgnn_plane(ctx, &one, &ty));
    for (i = 0; i < N; i++) T_TRUE(y[i * 2 + 1] == 0.0f);
    T_STATUS(tgnn_plane(ctx, &tx, &tx), TINY_E_SHAPE, "plane: x must be");
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_split);
    T_RUN(test_none);
    T_RUN(test_area);
#ifndef TINY_NO_TRAIN
    T_RUN_FORMS(test_learns);
    T_RUN(test_bad);
    T_RUN(test_no_memory);
#endif
    T_RUN(test_data);
    T_RUN(test_plane);
    return t_done();
}
