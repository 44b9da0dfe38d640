/* tests/gnn/graph/halo.c - halo lists by hand and by looking at every edge; sums over the parts are the sums over the
 * whole graph */
#define T_GNN
#include "t.h"

/* 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 0 in parts 0 0 1 1 2 2, and 5 -> 1 */
static void test_by_hand(void)
{
    static const int32_t s[7] = { 0, 1, 2, 3, 4, 5, 5 }, t[7] = { 1, 2, 3, 4, 5, 0, 1 }, part[6] = { 0, 0, 1, 1, 2, 2 };
    static const int64_t halo_at[4] = { 0, 1, 2, 3 };
    static const int32_t halo[3] = { 5, 1, 3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g, *local;
    tgnn_halo h;
    tgnn_edges e;
    memset(&e, 0, sizeof e);
    e.n = 7;
    e.src = s;
    e.dst = t;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    T_OK(tgnn_halo_make(ctx, g, 3, part, &h));
    T_SAME(h.halo_at, halo_at, 4);
    T_SAME(h.halo, halo, 3);
    /* 2 sends node 5 to 0 */
    T_TRUE(h.send_at[2 * 3 + 1] - h.send_at[2 * 3 + 0] == 1 && h.send[h.send_at[2 * 3]] == 5);
    /* 0 sends node 1 to 1 */
    T_TRUE(h.send_at[1] == 0 && h.send_at[2] == 1 && h.send[0] == 1);
    T_OK(tgnn_halo_graph(ctx, g, &h, 0, &local));
    T_TRUE(tgnn_graph_nodes(local) == 2 && tgnn_graph_sources(local) == 3 && tgnn_graph_edges(local) == 3);
    {
        /* into 0: from 5, which is source 2, edge 5; into 1: 0 (edge 0), 5 (edge 6) */
        const tiny_sparse *a = tgnn_graph_in(local);
        static const int32_t col[3] = { 2, 0, 2 };
        static const int64_t number[3] = { 5, 0, 6 };
        T_SAME(a->col, col, 3);
        T_SAME(a->source, number, 3);
    }
    tgnn_graph_close(ctx, local);
    tgnn_halo_free(ctx, &h);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

static void test_against_edges(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int32_t *part = (int32_t *)t_keep(1024 * 4);
    char *need = (char *)t_keep(1024 * 9);
    tgnn_graph *g;
    int kind;
    for (kind = 0; kind < 3; kind++) {
        const int k = kind == 1 ? 1 : 9;
        const tiny_sparse *a;
        tgnn_halo h;
        tiny_idx v, row = 0;
        int64_t p, at;
        int t, u;
        T_OK(kind == 2 ? tgnn_planted(ctx, 1024, 8, 6, 0.9, 2, &g) : tgnn_rmat(ctx, 10, 4000, 3, &g));
        if (kind == 2) T_OK(tgnn_partition(ctx, g, k, NULL, part, NULL));
        else
            for (v = 0; v < 1024; v++) part[v] = kind ? 0 : (int32_t)t_rand_below(8);     /* part 8 is empty */
        T_OK(tgnn_halo_make(ctx, g, k, part, &h));
        a = tgnn_graph_in(g);
        memset(need, 0, 1024 * 9);
        for (p = 0; p < a->n; p++) {
            while (a->offset[row + 1] <= p) row++;
            if (part[a->col[p]] != part[row]) need[part[row] * 1024 + a->col[p]] = 1;
        }
        for (t = 0; t < k; t++) {
            for (at = h.own_at[t], v = 0; v < 1024; v++)
                if (part[v] == t) T_TRUE(at < h.own_at[t + 1] && h.own[at++] == v);
            T_EQ_INT(at, h.own_at[t + 1]);
            for (at = h.halo_at[t], v = 0; v < 1024; v++)
                if (need[t * 1024 + v]) T_TRUE(at < h.halo_at[t + 1] && h.halo[at++] == v);
            T_EQ_INT(at, h.halo_at[t + 1]);
            for (u = 0; u < k; u++) {                   /* t sends to u the nodes that u needs of t */
                for (at = h.send_at[t * k + u], v = 0; v < 1024; v++)
                    if (part[v] == t && need[u * 1024 + v]) T_TRUE(at < h.send_at[t * k + u + 1] && h.send[at++] == v);
                T_EQ_INT(at, h.send_at[t * k + u + 1]);
                /* edges in both directions: the needs are mutual */
                if (kind == 2)
                    T_TRUE((h.send_at[t * k + u + 1] > h.send_at[t * k + u]) ==
                           (h.send_at[u * k + t + 1] > h.send_at[u * k + t]));
            }
        }
        tgnn_halo_free(ctx, &h);
        tgnn_graph_close(ctx, g);
    }
    t_close(ctx);
}

/* each part with rows of its own nodes and its halo gives the rows of the whole sum, weights too */
static void test_sums(void)
{
    enum { N = 600, F = 5, K = 4 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    int32_t *part = (int32_t *)t_keep(N * 4), *number = (int32_t *)t_keep(N * 4);
    float *x = t_rand(N * F, -1, 1), *y = t_guarded(N * F), *mine = t_guarded(N * F), *got = t_guarded(N * F);
    tgnn_normalize_desc how;
    tgnn_graph *plain, *g;
    tgnn_halo h;
    int t, c;
    memset(&how, 0, sizeof how);
    how.norm = TGNN_NORM_SYMMETRIC;
    T_OK(tgnn_planted(ctx, N, K, 8, 0.7, 5, &plain));
    T_OK(tgnn_graph_normalize(ctx, plain, &how, &g));
    T_OK(tgnn_partition(ctx, g, K, NULL, part, NULL));
    T_OK(tgnn_halo_make(ctx, g, K, part, &h));
    {
        const tiny_sparse *a = tgnn_graph_in(g);
        tiny_tensor off = tiny_tensor_1d(a->offset, TINY_I64, N + 1),
                    col = tiny_tensor_1d(a->col, TINY_I32, (tiny_idx)a->n),
                    w = tiny_tensor_1d(a->value, TINY_F32, (tiny_idx)a->n);
        tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), ty = tiny_tensor_2d(y, TINY_F32, N, F);
        T_OK(tiny_spmm(ctx, &off, &tx, &col, &w, NULL, NULL, &ty));
    }
    for (t = 0; t < K; t++) {
        const tiny_idx n_own = (tiny_idx)(h.own_at[t + 1] - h.own_at[t]),
                       n_halo = (tiny_idx)(h.halo_at[t + 1] - h.halo_at[t]), n = n_own + n_halo;
        const tiny_sparse *a;
        tgnn_graph *local;
        tiny_idx i;
        memcpy(number, h.own + h.own_at[t], (size_t)n_own * 4);
        if (n_halo) memcpy(number + n_own, h.halo + h.halo_at[t], (size_t)n_halo * 4);
        T_OK(tgnn_halo_graph(ctx, g, &h, t, &local));
        a = tgnn_graph_in(local);
        {
            tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, N, F), at = tiny_tensor_1d(number, TINY_I32, n),
                        tm = tiny_tensor_2d(mine, TINY_F32, n, F), ty = tiny_tensor_2d(got, TINY_F32, n_own, F);
            tiny_tensor off = tiny_tensor_1d(a->offset, TINY_I64, n_own + 1),
                        col = tiny_tensor_1d(a->col, TINY_I32, (tiny_idx)a->n),
                        w = tiny_tensor_1d(a->value, TINY_F32, (tiny_idx)a->n);
            T_OK(tiny_gather(ctx, &tx, &at, &tm));
            T_OK(tiny_spmm(ctx, &off, &tm, &col, &w, NULL, NULL, &ty));
        }
        for (i = 0; i < n_own; i++)
            for (c = 0; c < F; c++) T_CLOSE(got[i * F + c], y[(tiny_idx)number[i] * F + c], 1e-6);
        tgnn_graph_close(ctx, local);
    }
    tgnn_halo_free(ctx, &h);
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, plain);
    t_close(ctx);
}

static void test_bad(void)
{
    static const int32_t s[2] = { 0, 1 }, t[2] = { 1, 0 }, part[2] = { 0, 3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tgnn_graph *g, *none, *local;
    tgnn_edges e;
    tgnn_halo h;
    memset(&e, 0, sizeof e);
    T_OK(tgnn_graph_make(ctx, &e, NULL, &none));
    e.n = 2;
    e.src = s;
    e.dst = t;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    T_STATUS(tgnn_halo_make(ctx, g, 3, part, &h), TINY_E_ARGUMENT, "node 1 is in part 3 of 3");
    T_STATUS(tgnn_halo_make(ctx, g, 5000, part, &h), TINY_E_ARGUMENT, "5000 parts, there must be 1 to 4096");
    T_STATUS(tgnn_halo_make(ctx, g, 0, part, &h), TINY_E_ARGUMENT, "0 parts");
    T_STATUS(tgnn_halo_make(ctx, g, 1, NULL, &h), TINY_E_ARGUMENT, "the parts");
    T_OK(tgnn_halo_make(ctx, none, 2, part, &h));
    T_TRUE(h.halo_at[2] == 0);
    T_STATUS(tgnn_halo_graph(ctx, g, &h, 0, &local), TINY_E_ARGUMENT, "another graph");
    T_OK(tgnn_halo_graph(ctx, none, &h, 1, &local));
    T_EQ_INT(tgnn_graph_nodes(local), 0);
    tgnn_graph_close(ctx, local);
    T_STATUS(tgnn_halo_graph(ctx, none, &h, 2, &local), TINY_E_ARGUMENT, "part 2 of 2");
    tgnn_halo_free(ctx, &h);
    tgnn_halo_free(ctx, NULL);
    tgnn_graph_close(ctx, g);
    tgnn_graph_close(ctx, none);
    t_close(ctx);
}

static void test_no_memory(void)
{
    T_EACH_ALLOCATION({
        static const int32_t part[8] = { 0, 1, 2, 0, 1, 2, 0, 1 };
        tiny_ctx_desc desc = t_desc(TINY_TARGET_AUTO, 1);
        tgnn_graph *g;
        tgnn_graph *local;
        tiny_ctx *ctx;
        tgnn_halo h;
        if (!tiny_ctx_open(&desc, &ctx)) {
            if (!tgnn_rmat(ctx, 3, 20, 1, &g)) {
                if (!tgnn_halo_make(ctx, g, 3, part, &h)) {
                    if (!tgnn_halo_graph(ctx, g, &h, 1, &local)) tgnn_graph_close(ctx, local);
                    tgnn_halo_free(ctx, &h);
                }
                tgnn_graph_close(ctx, g);
            }
            tiny_ctx_close(ctx);
        }
    })
}

int main(void)
{
    T_RUN(test_by_hand);
    T_RUN(test_against_edges);
    T_RUN(test_sums);
    T_RUN(test_bad);
    T_RUN(test_no_memory);
    return t_done();
}
