/* tests/gnn/graph/community.c - communities that are known, their limit, orders from labels, and graphs in those
 * orders */
#define T_GNN
#include "t.h"

/* cliques in a chain are found as they are; components never share a label; isolated nodes stay alone */
static void test_known(void)
{
    static int32_t s[4000], d[4000], label[300];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_graph_desc how;
    tgnn_graph *g;
    tgnn_edges e;
    tiny_idx k;
    int i, j, c, n = 0;
    memset(&how, 0, sizeof how);
    memset(&e, 0, sizeof e);
    how.symmetrize = 1;
    for (c = 0; c < 12; c++) {                          /* node i belongs to clique i % 12 */
        for (i = 0; i < 20; i++)
            for (j = 0; j < i; j++) { s[n] = i * 12 + c; d[n++] = j * 12 + c; }
        if (c) { s[n] = c; d[n++] = 12 + c - 1; }
    }
    e.n_src = e.n_dst = 250;                            /* ten isolated ones */
    e.n = n;
    e.src = s;
    e.dst = d;
    T_OK(tgnn_graph_make(ctx, &e, &how, &g));
    T_OK(tgnn_communities(ctx, g, NULL, label, &k));
    T_EQ_INT(k, 22);
    for (i = 0; i < 240; i++) T_EQ_INT(label[i], i % 12);   /* numbered by first node */
    for (i = 240; i < 250; i++) T_EQ_INT(label[i], i - 228);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* pairs in one run of numbers find each other and do not swap their labels */
static void test_pairs(void)
{
    int32_t s[100], d[100], label[200];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tgnn_graph_desc how;
    tgnn_graph *g;
    tgnn_edges e;
    tiny_idx k;
    int i;
    memset(&how, 0, sizeof how);
    memset(&e, 0, sizeof e);
    how.symmetrize = 1;
    for (i = 0; i < 100; i++) { s[i] = 2 * i; d[i] = 2 * i + 1; }
    e.n = 100;
    e.src = s;
    e.dst = d;
    T_OK(tgnn_graph_make(ctx, &e, &how, &g));
    T_OK(tgnn_communities(ctx, g, NULL, label, &k));
    T_EQ_INT(k, 100);
    for (i = 0; i < 200; i++) T_EQ_INT(label[i], i / 2);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

/* planted classes of a shuffled graph: nearly all edges inside them end in one community; the same for every target and
 * thread */
static void test_planted(void)
{
    enum { N = 6000, K = 20 };
    int32_t *first = (int32_t *)t_keep(N * 4), *label = (int32_t *)t_keep(N * 4);
    int run;
    for (run = 0; run < 5; run++) {
        tiny_ctx *ctx = t_ctx(run == 1 ? TINY_TARGET_REFERENCE : TINY_TARGET_AUTO, run == 2 ? 1 : run == 3 ? 4 : 2);
        tgnn_communities_desc how;
        const tiny_sparse *a;
        tgnn_graph *g;
        tiny_idx k, v;
        int64_t p, inside = 0, together = 0;
        memset(&how, 0, sizeof how);
        how.seed = run == 4;
        T_OK(tgnn_planted(ctx, N, K, 16, 0.8, 4, &g));
        T_OK(tgnn_communities(ctx, g, &how, run ? label : first, &k));
        if (run && run < 4) T_SAME(label, first, N);
        if (!run) {
            a = tgnn_graph_in(g);
            for (v = 0; v < N; v++)
                for (p = a->offset[v]; p < a->offset[v + 1]; p++) {
                    if (a->col[p] % K != v % K) continue;
                    inside++;
                    together += first[a->col[p]] == first[v];
                }
            T_TRUE((double)together > 0.95 * (double)inside);
            T_TRUE(k >= K / 2 && k < 3 * K);
        }
        tgnn_graph_close(ctx, g);
        t_close(ctx);
    }
}

/* no community passes its limit by more than one group of nodes: of 1024 nodes, two runs of 64 */
static void test_limit(void)
{
    int32_t label[1024];
    int64_t count[1024];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_communities_desc how;
    tgnn_graph *g;
    tiny_idx k, i;
    memset(&how, 0, sizeof how);
    T_OK(tgnn_rmat(ctx, 10, 16384, 1, &g));
    how.most_nodes = 50;
    T_OK(tgnn_communities(ctx, g, &how, label, &k));
    memset(count, 0, sizeof count);
    for (i = 0; i < 1024; i++) count[label[i]]++;
    for (i = 0; i < k; i++) T_TRUE(count[i] > 0 && count[i] <= 50 + 128);
    how.most_nodes = -1;                                /* without one: the hubs take nearly all */
    T_OK(tgnn_communities(ctx, g, &how, label, &k));
    memset(count, 0, sizeof count);
    for (i = 0; i < 1024; i++) count[label[i]]++;
    for (i = 1; i < k; i++)
        if (count[i] > count[0]) count[0] = count[i];
    T_TRUE(count[0] > 300);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

typedef struct edge { int32_t s, d, number; float w; } edge;

static int before(const void *a, const void *b) { return memcmp(a, b, sizeof(edge)); }

/* an order from labels is a permutation, by label and then by number; the graph in it has the same edges, weights and
 * numbers */
static void test_order(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int32_t *part = (int32_t *)t_keep(1024 * 4);
    uint32_t *order = (uint32_t *)t_keep(1024 * 4);
    tgnn_normalize_desc norm;
    tgnn_graph *plain, *g, *h;
    int i, side;
    edge *list[2];
    memset(&norm, 0, sizeof norm);
    norm.norm = TGNN_NORM_SYMMETRIC;
    /* hubs: rows shorter and longer than the limit of insertion sort; duplicates */
    T_OK(tgnn_rmat(ctx, 10, 9000, 6, &plain));
    T_OK(tgnn_graph_normalize(ctx, plain, &norm, &g));
    for (i = 0; i < 1024; i++) part[i] = (int32_t)t_rand_below(5) * 2;      /* labels without nodes too */
    T_OK(tgnn_order_by_part(ctx, 1024, 10, part, order));
    for (i = 1; i < 1024; i++)
        T_TRUE(part[order[i]] > part[order[i - 1]] ||
               (part[order[i]] == part[order[i - 1]] && order[i] > order[i - 1]));
    T_OK(tgnn_graph_permute(ctx, g, order, &h));
    T_OK(tiny_sparse_check(ctx, tgnn_graph_in(h)));
    for (side = 0; side < 2; side++) {
        const tiny_sparse *a = tgnn_graph_in(side ? h : g);
        tiny_idx v;
        int64_t p;
        if (!T_EQ_INT(a->n, 9000)) return;
        list[side] = (edge *)t_keep(9000 * sizeof(edge));
        for (v = 0; v < 1024; v++)
            for (p = a->offset[v]; p < a->offset[v + 1]; p++) {
                if (p > a->offset[v])
                    T_TRUE(a->col[p] > a->col[p - 1] ||
                           (a->col[p] == a->col[p - 1] && a->source[p] > a->source[p - 1]));
                list[side][p].s = side ? (int32_t)order[a->col[p]] : a->col[p];
                list[side][p].d = side ? (int32_t)order[v] : (int32_t)v;
                list[side][p].w = a->value[p];
                list[side][p].number = (int32_t)a->source[p];
            }
        qsort(list[side], 9000, sizeof(edge), before);
    }
    T_SAME((const char *)list[0], (const char *)list[1], 9000 * sizeof(edge));
    tgnn_graph_close(ctx, plain);
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, h);
    t_close(ctx);
}

static void test_bad(void)
{
    static const int32_t part[3] = { 0, 2, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_communities_desc how;
    uint32_t order[3];
    int32_t label[1];
    tgnn_graph *none;
    tgnn_edges e;
    tiny_idx k;
    memset(&how, 0, sizeof how);
    memset(&e, 0, sizeof e);
    T_OK(tgnn_graph_make(ctx, &e, NULL, &none));
    T_OK(tgnn_communities(ctx, none, NULL, label, &k));
    T_EQ_INT(k, 0);
    T_STATUS(tgnn_communities(ctx, none, NULL, NULL, &k), TINY_E_ARGUMENT, "the graph or an output is missing");
    how.rounds = -1;
    T_STATUS(tgnn_communities(ctx, none, &how, label, &k), TINY_E_ARGUMENT, "-1 rounds");
    T_STATUS(tgnn_order_by_part(ctx, 3, 2, part, order), TINY_E_ARGUMENT, "node 1 is in part 2 of 2");
    T_STATUS(tgnn_order_by_part(ctx, 3, 2, NULL, order), TINY_E_ARGUMENT, "or the output is missing");
    T_OK(tgnn_order_by_part(ctx, 0, 0, NULL, NULL));
    tgnn_graph_close(ctx, none);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tgnn_graph *g;
        tgnn_graph *h;
        tiny_ctx *ctx;
        int32_t label[64];
        uint32_t order[64];
        tiny_idx k;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_rmat(ctx, 6, 500, 1, &g)) {
                if (!tgnn_communities(ctx, g, NULL, label, &k) && !tgnn_order_by_part(ctx, 64, k, label, order) &&
                    !tgnn_graph_permute(ctx, g, order, &h))
                    tgnn_graph_close(ctx, h);
                tgnn_graph_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN(test_known);
    T_RUN(test_pairs);
    T_RUN(test_planted);
    T_RUN(test_limit);
    T_RUN(test_order);
    T_RUN(test_bad);
    T_RUN(test_no_memory);
    return t_done();
}
