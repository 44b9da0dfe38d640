/* tests/gnn/graph/graph.c - graphs from edges, norms, orders and batches, against numbers by hand and counting by brute
 * force */
#define T_GNN
#include "t.h"

static const int32_t src[6] = { 0, 1, 1, 2, 3, 0 }, dst[6] = { 1, 0, 2, 1, 3, 1 };

static tgnn_edges edges_of(tiny_idx n, int64_t m, const int32_t *s, const int32_t *d, const float *w)
{
    tgnn_edges e;
    memset(&e, 0, sizeof e);
    e.n_src = e.n_dst = n;
    e.n = m;
    e.src = s;
    e.dst = d;
    e.weight = w;
    return e;
}

/* sum of the weights of edges s -> d, and how many */
static double weight_of(const tgnn_graph *g, int s, int d, int *count)
{
    const tiny_sparse *a = tgnn_graph_in(g);
    double w = 0;
    int64_t p;
    *count = 0;
    for (p = a->offset[d]; p < a->offset[d + 1]; p++)
        if (a->col[p] == s) {
            w += a->value ? (double)a->value[p] : 1.0;
            ++*count;
        }
    return w;
}

static void test_options(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    tgnn_edges e = edges_of(5, 6, src, dst, NULL);
    tgnn_graph_desc d;
    tgnn_graph *g;
    int n;
    memset(&d, 0, sizeof d);
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    T_EQ_INT(tgnn_graph_edges(g), 6);
    (void)weight_of(g, 0, 1, &n);
    T_EQ_INT(n, 2);
    tgnn_graph_close(ctx, g);
    d.symmetrize = 1;                       /* 2 + 2 + 2 + 2 + 1 + 2: the loop once */
    T_OK(tgnn_graph_make(ctx, &e, &d, &g));
    T_EQ_INT(tgnn_graph_edges(g), 11);
    tgnn_graph_close(ctx, g);
    d.duplicates = TINY_DUPLICATES_FIRST;   /* 0-1, 1-2 both ways, 3-3 */
    T_OK(tgnn_graph_make(ctx, &e, &d, &g));
    T_EQ_INT(tgnn_graph_edges(g), 5);
    tgnn_graph_close(ctx, g);
    d.duplicates = TINY_DUPLICATES_SUM;
    T_OK(tgnn_graph_make(ctx, &e, &d, &g));
    T_CLOSE(weight_of(g, 0, 1, &n), 3, 0);  /* 0 -> 1 twice, and 1 -> 0 reversed */
    tgnn_graph_close(ctx, g);
    memset(&d, 0, sizeof d);
    d.add_loops = 1;                        /* 0 1 2 4 get one, 3 has its own */
    T_OK(tgnn_graph_make(ctx, &e, &d, &g));
    T_EQ_INT(tgnn_graph_edges(g), 10);
    tgnn_graph_close(ctx, g);
    d.drop_loops = 1;
    d.add_loops = 0;
    T_OK(tgnn_graph_make(ctx, &e, &d, &g));
    T_EQ_INT(tgnn_graph_edges(g), 5);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
    T_PROOF("graphs 0", "bad input: duplicate edges");
}

static void test_bad(tiny_target target)
{
    static const int32_t negative[6] = { 0, 1, 1, -2, 3, 0 };
    tiny_ctx *ctx = t_ctx(target, 2);
    tgnn_edges e = edges_of(3, 6, src, dst, NULL);
    tgnn_graph_desc d;
    tgnn_graph *g;
    uint32_t order[5] = { 0, 1, 2, 2, 4 };
    memset(&d, 0, sizeof d);
    T_STATUS(tgnn_graph_make(ctx, &e, NULL, &g), TINY_E_FORMAT, "an edge comes from node 3, but there are 3 nodes");
    e = edges_of(5, 6, negative, dst, NULL);
    T_STATUS(tgnn_graph_make(ctx, &e, NULL, &g), TINY_E_FORMAT, "the source of edge 3 is -2");
    e = edges_of(5, 6, NULL, dst, NULL);
    T_STATUS(tgnn_graph_make(ctx, &e, NULL, &g), TINY_E_ARGUMENT, "there are no edges");
    e = edges_of(5, INT64_MAX / 4, src, dst, NULL);
    T_STATUS(tgnn_graph_make(ctx, &e, NULL, &g), TINY_E_OVERFLOW, "edges");
    e = edges_of(5, 6, src, dst, NULL);
    d.bipartite = d.symmetrize = 1;
    T_STATUS(tgnn_graph_make(ctx, &e, &d, &g), TINY_E_ARGUMENT, "a bipartite graph has no loops");
    e = edges_of((tiny_idx)1 << 31, 6, src, dst, NULL);
    T_STATUS(tgnn_graph_make(ctx, &e, NULL, &g), TINY_E_OVERFLOW, "2147483648 nodes");
    e = edges_of(0, 0, NULL, NULL, NULL);   /* of nothing: an empty graph */
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    T_EQ_INT(tgnn_graph_nodes(g), 0);
    tgnn_graph_close(ctx, g);
    e = edges_of(5, 6, src, dst, NULL);
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    {
        tgnn_graph *h;
        T_STATUS(tgnn_graph_permute(ctx, g, order, &h), TINY_E_ARGUMENT, "order[3] is 2: it occurs twice");
        order[3] = 5;
        T_STATUS(tgnn_graph_permute(ctx, g, order, &h), TINY_E_ARGUMENT, "order[3] is 5: there is no such node");
    }
    tgnn_graph_close(ctx, g);
    T_STATUS(tgnn_planted(ctx, 10, 11, 3, 0.5, 1, &g), TINY_E_ARGUMENT, "10 nodes in 11 classes");
    T_STATUS(tgnn_rmat(ctx, 31, 5, 1, &g), TINY_E_ARGUMENT, "2^31 nodes");
    t_close(ctx);
    T_PROOF("graphs 0", "bad input: 2^31 nodes, more edges than memory");
}

/* the path 0-1-2-3: by hand, 1 / sqrt of (2, 3, 3, 2) */
static void test_norm(tiny_target target)
{
    static const int32_t s[3] = { 0, 1, 2 }, t[3] = { 1, 2, 3 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_edges e = edges_of(4, 3, s, t, NULL);
    tgnn_normalize_desc how;
    tgnn_graph_desc d;
    tgnn_graph *g, *h;
    float degree[4];
    int n, i, j;
    memset(&d, 0, sizeof d);
    memset(&how, 0, sizeof how);
    d.symmetrize = 1;
    T_OK(tgnn_graph_make(ctx, &e, &d, &g));
    T_OK(tgnn_graph_degrees(ctx, g, 1, 0, degree));
    T_TRUE(degree[0] == 1 && degree[1] == 2 && degree[2] == 2 && degree[3] == 1);
    how.norm = TGNN_NORM_SYMMETRIC;
    how.add_loops = 1;
    T_OK(tgnn_graph_normalize(ctx, g, &how, &h));
    T_EQ_INT(tgnn_graph_edges(h), 10);
    T_CLOSE(weight_of(h, 0, 0, &n), 0.5, 1e-7);
    T_CLOSE(weight_of(h, 1, 0, &n), 1 / sqrt(6), 1e-7);
    T_CLOSE(weight_of(h, 0, 1, &n), 1 / sqrt(6), 1e-7);
    T_CLOSE(weight_of(h, 2, 1, &n), 1.0 / 3, 1e-7);
    tgnn_graph_close(ctx, h);
    how.norm = TGNN_NORM_ROW;
    how.add_loops = 0;
    T_OK(tgnn_graph_normalize(ctx, g, &how, &h));
    for (i = 0; i < 4; i++) {
        double sum = 0;
        for (j = 0; j < 4; j++) sum += weight_of(h, j, i, &n);
        T_CLOSE(sum, 1, 1e-7);
    }
    tgnn_graph_close(ctx, h);
    tgnn_graph_close(ctx, g);
    /* a ring: S of a regular graph has row sums 1; loops of weight 5 and 2: the last is kept */
    {
        static const int32_t rs[7] = { 0, 1, 2, 3, 4, 2, 2 }, rt[7] = { 1, 2, 3, 4, 0, 2, 2 };
        static const float w[7] = { 1, 1, 1, 1, 1, 5, 2 };
        e = edges_of(5, 7, rs, rt, w);
        T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
        how.norm = TGNN_NORM_NONE;
        how.add_loops = 1;
        T_OK(tgnn_graph_normalize(ctx, g, &how, &h));
        T_EQ_INT(tgnn_graph_edges(h), 10);
        T_CLOSE(weight_of(h, 2, 2, &n), 2, 0);
        tgnn_graph_close(ctx, h);
        how.norm = TGNN_NORM_SYMMETRIC;
        how.drop_loops = how.ignore_weights = 1;
        T_OK(tgnn_graph_normalize(ctx, g, &how, &h));
        for (i = 0; i < 5; i++) {
            double sum = 0;
            for (j = 0; j < 5; j++) sum += weight_of(h, j, i, &n);
            T_CLOSE(sum, 1, 2e-7);
        }
        tgnn_graph_close(ctx, h);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
    T_PROOF("graphs 0", "S of a regular graph has row sums 1");
}

/* the rows of sources are the transpose, and hold the place of each edge */
static void test_out(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_graph *g;
    const tiny_sparse *a, *b;
    int64_t q, edges = 0;
    tiny_idx s, d;
    T_OK(tgnn_rmat(ctx, 9, 5000, 3, &g));
    T_OK(tgnn_graph_out(ctx, g, &b));
    a = tgnn_graph_in(g);
    T_OK(tiny_sparse_check(ctx, b));
    for (s = 0; s < b->n_rows; s++)
        for (q = b->offset[s]; q < b->offset[s + 1]; q++, edges++) {
            int64_t p = b->source[q];
            for (d = 0; a->offset[d + 1] <= p; d++) {}
            T_TRUE(a->col[p] == (int32_t)s && b->col[q] == (int32_t)d);
        }
    T_EQ_INT(edges, 5000);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static int64_t bandwidth(const tgnn_graph *g)
{
    const tiny_sparse *a = tgnn_graph_in(g);
    int64_t most = 0, p;
    tiny_idx r;
    for (r = 0; r < a->n_rows; r++)
        for (p = a->offset[r]; p < a->offset[r + 1]; p++) {
            int64_t w = a->col[p] > r ? a->col[p] - r : r - a->col[p];
            if (w > most) most = w;
        }
    return most;
}

static void test_orders(void)
{
    enum { SIDE = 20, N = SIDE * SIDE };
    static int32_t s[2 * N], t[2 * N];
    static uint32_t order[N], back[N];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_rng rng = tiny_rng_make(5, 1);
    tgnn_graph_desc d;
    tgnn_graph *grid, *mixed, *h;
    tgnn_edges e;
    int i, j, n = 0, kind;
    memset(&d, 0, sizeof d);
    d.symmetrize = 1;
    for (i = 0; i < SIDE; i++)
        for (j = 0; j < SIDE; j++) {
            if (j + 1 < SIDE) { s[n] = i * SIDE + j; t[n++] = i * SIDE + j + 1; }
            if (i + 1 < SIDE) { s[n] = i * SIDE + j; t[n++] = (i + 1) * SIDE + j; }
        }
    e = edges_of(N, n, s, t, NULL);
    T_OK(tgnn_graph_make(ctx, &e, &d, &grid));
    tiny_rng_permutation(&rng, order, N);
    T_OK(tgnn_graph_permute(ctx, grid, order, &mixed));
    for (i = 0; i < N; i++) back[order[i]] = (uint32_t)i;
    T_OK(tgnn_graph_permute(ctx, mixed, back, &h));     /* there and back again */
    T_SAME(tgnn_graph_in(h)->offset, tgnn_graph_in(grid)->offset, N + 1);
    T_SAME(tgnn_graph_in(h)->col, tgnn_graph_in(grid)->col, 2 * n);
    tgnn_graph_close(ctx, h);
    T_TRUE(bandwidth(mixed) > 300);
    for (kind = TGNN_ORDER_DEGREE; kind <= TGNN_ORDER_RCM; kind++) {
        T_OK(tgnn_graph_order(ctx, mixed, (tgnn_order_kind)kind, order));
        /* it refuses an array that is no permutation */
        if (!T_OK(tgnn_graph_permute(ctx, mixed, order, &h))) continue;
        /* an n x n grid has the bandwidth n; breadth first from a corner reaches it, up to the last diagonal */
        if (kind == TGNN_ORDER_RCM) T_TRUE(bandwidth(h) <= SIDE + 1);
        if (kind == TGNN_ORDER_DEGREE)
            for (i = 1; i < N; i++)
                T_TRUE(tgnn_graph_in(h)->offset[i + 1] - tgnn_graph_in(h)->offset[i] <=
                       tgnn_graph_in(h)->offset[i] - tgnn_graph_in(h)->offset[i - 1]);
        tgnn_graph_close(ctx, h);
    }
    tgnn_graph_close(ctx, grid);
    tgnn_graph_close(ctx, mixed);
    t_close(ctx);
}

/* rows were looked up by offsets of a file after its check: a file that changed under a mapping caused reads outside */
static void test_permute_file_changed(void)
{
    static const int32_t s[4] = { 1, 2, 0, 1 }, t[4] = { 0, 0, 1, 2 };
    static const uint32_t order[3] = { 2, 0, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_edges e = edges_of(3, 4, s, t, NULL);
    tgnn_graph *g, *h = NULL;
    int64_t *offset;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    offset = (int64_t *)(uintptr_t)tgnn_graph_in(g)->offset;
    offset[0]--;
    offset[3]--;                            /* -1 2 3 3: four edges still */
    T_STATUS(tgnn_graph_permute(ctx, g, order, &h), TINY_E_FORMAT, "the edges of node 0 are not among its 4 edges");
    T_TRUE(h == NULL);
    offset[0]++;
    T_STATUS(tgnn_graph_permute(ctx, g, order, &h), TINY_E_FORMAT, "its rows have 3 edges, not 4");
    offset[3]++;
    T_OK(tgnn_graph_permute(ctx, g, order, &h));
    T_EQ_INT(tgnn_graph_in(h)->offset[3], 4);
    tgnn_graph_close(ctx, h);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_batch(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tgnn_edges e = edges_of(5, 6, src, dst, NULL), none = edges_of(0, 0, NULL, NULL, NULL);
    const tgnn_graph *list[3];
    tgnn_graph *a, *b, *all;
    int64_t at[4];
    int n;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &a));
    T_OK(tgnn_graph_make(ctx, &none, NULL, &b));
    list[0] = list[2] = a;
    list[1] = b;                            /* an empty graph inside */
    T_OK(tgnn_graph_batch(ctx, list, 3, at, &all));
    T_TRUE(at[0] == 0 && at[1] == 5 && at[2] == 5 && at[3] == 10);
    T_EQ_INT(tgnn_graph_edges(all), 12);
    (void)weight_of(all, 5, 6, &n);
    T_EQ_INT(n, 2);
    (void)weight_of(all, 0, 6, &n);
    T_EQ_INT(n, 0);
    tgnn_graph_close(ctx, a);
    tgnn_graph_close(ctx, b);
    tgnn_graph_close(ctx, all);
    t_close(ctx);
    T_PROOF("graphs 0", "bad input: empty graph inside a batch");
}

/* the promises of the generators: shares, degrees, both directions, the same for a seed with any number of threads */
static void test_synthetic(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_graph *g, *h;
    const tiny_sparse *a;
    int64_t p, inside = 0, longest = 0;
    tiny_idx r;
    T_OK(tgnn_planted(ctx, 3000, 7, 6.0, 0.8, 42, &g));
    a = tgnn_graph_in(g);
    for (r = 0; r < a->n_rows; r++)
        for (p = a->offset[r]; p < a->offset[r + 1]; p++) {
            T_TRUE(a->col[p] != r);
            inside += a->col[p] % 7 == r % 7;
        }
    T_CLOSE((double)a->n / 3000, 6.0, 0.1); /* duplicates are merged: a few less */
    /* 0.8 and a seventh of the rest; 9000 draws: standard deviation 0.004 */
    T_CLOSE((double)inside / (double)a->n, 0.8 + 0.2 / 7, 0.02);
    T_OK(tgnn_planted(ctx, 3000, 7, 6.0, 0.8, 42, &h));
    T_SAME(a->col, tgnn_graph_in(h)->col, a->n);
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, h);
    T_OK(tgnn_rmat(ctx, 12, 65536, 1, &g));
    a = tgnn_graph_in(g);
    T_EQ_INT(a->n, 65536);
    for (r = 0; r < a->n_rows; r++)
        if (a->offset[r + 1] - a->offset[r] > longest) longest = a->offset[r + 1] - a->offset[r];
    T_TRUE(longest > 20 * 16);              /* a hub has many times the mean of 16 */
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tgnn_edges e = edges_of(5, 6, src, dst, NULL);
        tgnn_normalize_desc how;
        const tgnn_graph *list[2];
        tgnn_graph *g;
        tgnn_graph *h;
        tiny_ctx *ctx;
        uint32_t order[5];
        int64_t at[3];
        memset(&how, 0, sizeof how);
        how.norm = TGNN_NORM_SYMMETRIC;
        how.add_loops = 1;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_graph_make(ctx, &e, NULL, &g)) {
                if (!tgnn_graph_normalize(ctx, g, &how, &h)) tgnn_graph_close(ctx, h);
                if (!tgnn_graph_order(ctx, g, TGNN_ORDER_RCM, order) && !tgnn_graph_permute(ctx, g, order, &h))
                    tgnn_graph_close(ctx, h);
                list[0] = list[1] = g;
                if (!tgnn_graph_batch(ctx, list, 2, at, &h)) tgnn_graph_close(ctx, h);
                tgnn_graph_close(ctx, g);
            }
            if (!tgnn_rmat(ctx, 3, 10, 1, &g)) tgnn_graph_close(ctx, g);
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN_FORMS(test_options);
    T_RUN_FORMS(test_bad);
    T_RUN_FORMS(test_norm);
    T_RUN(test_out);
    T_RUN(test_orders);
    T_RUN(test_permute_file_changed);
    T_RUN_FORMS(test_batch);
    T_RUN(test_synthetic);
    T_RUN(test_no_memory);
    return t_done();
}
