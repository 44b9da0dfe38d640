/* tests/gnn/graph/coarsen.c - the levels of the partition against products of dense matrices: A + A^T without its
 * diagonal, and P^T A P for the pairs P of a matching */
#define T_INTERNALS
#include "t.h"
#include "gnn/graph/coarsen_inside.h"

enum { N = 90 };

/* rows without loops and duplicates, as a dense matrix */
static void dense(const tinyi_level *l, int64_t *m)
{
    tiny_idx v;
    int64_t p;
    memset(m, 0, N * N * sizeof *m);
    for (v = 0; v < l->n; v++)
        for (p = l->offset[v]; p < l->offset[v + 1]; p++) {
            T_TRUE(l->col[p] != v && l->col[p] >= 0 && l->col[p] < l->n);
            T_TRUE(m[v * N + l->col[p]] == 0);
            m[v * N + l->col[p]] = l->weight[p];
        }
}

static void test_levels(void)
{
    int64_t *a = (int64_t *)t_keep(N * N * 8), *want = (int64_t *)t_keep(N * N * 8),
            *got = (int64_t *)t_keep(N * N * 8);
    int32_t src[400], dst[400], node_weight[N];
    int run, i, j;
    for (run = 0; run < 6; run++) {
        tiny_ctx *ctx = t_ctx(run == 2 ? TINY_TARGET_REFERENCE : TINY_TARGET_AUTO, 2);
        tinyi_level fine, coarse;
        tgnn_edges e;
        tgnn_graph *g;
        int pairs = 0, members[N] = { 0 };
        memset(&e, 0, sizeof e);
        memset(a, 0, N * N * 8);
        /* loops, duplicates, both directions; a star in the last runs */
        for (i = 0; i < 400; i++) {
            src[i] = (int32_t)t_rand_below(run < 4 ? 40 : N);
            dst[i] = run < 4 ? (int32_t)t_rand_below(40) : 7;
            if (src[i] != dst[i]) {
                a[src[i] * N + dst[i]]++;
                a[dst[i] * N + src[i]]++;
            }
        }
        for (i = 0; i < N; i++) node_weight[i] = i % 4;
        e.n_src = e.n_dst = N;
        e.n = 400;
        e.src = src;
        e.dst = dst;
        T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
        T_OK(tinyi_level_make(ctx, g, run ? node_weight : NULL, 0, &fine));
        dense(&fine, got);
        T_SAME(got, a, N * N);
        T_EQ_INT(fine.heaviest, run ? 3 : 1);
        T_OK(tinyi_level_shrink(ctx, &fine, run == 3 ? 4 : 100, (uint64_t)run, &coarse));
        T_TRUE(coarse.n >= N / 2 && coarse.n < N);
        memset(want, 0, N * N * 8);
        for (i = 0; i < N; i++) {
            T_TRUE(fine.up[i] >= 0 && fine.up[i] < coarse.n);
            members[fine.up[i]]++;
            for (j = 0; j < N; j++)
                if (fine.up[i] != fine.up[j]) want[fine.up[i] * N + fine.up[j]] += a[i * N + j];
        }
        dense(&coarse, got);
        T_SAME(got, want, N * N);
        for (i = 0; i < coarse.n; i++) {
            int sum = 0;
            T_TRUE(members[i] == 1 || members[i] == 2);
            pairs += members[i] == 2;
            for (j = 0; j < N; j++)
                if (fine.up[j] == i) sum += run ? node_weight[j] : 1;
            T_EQ_INT(coarse.node_weight[i], sum);
            if (run == 3) T_TRUE(sum <= 4);
        }
        T_TRUE(pairs >= (run == 3 ? 25 : 40));          /* isolated nodes and leaves of a star find each other too */
        tinyi_level_free(ctx, &fine);
        tinyi_level_free(ctx, &coarse);
        tgnn_graph_close(ctx, g);
        t_close(ctx);
    }
}

/* weights are rounded to 1/1048576 of the heaviest; a weight above 0 stays above 0 */
static void test_weights(void)
{
    static const int32_t src[5] = { 0, 1, 2, 3, 1 }, dst[5] = { 1, 2, 3, 0, 0 };
    static const float w[5] = { 8.0f, 4.0f, 1e-9f, 0.0f, 2.0f };
    /* 0: 1 3, 1: 0 2, 2: 1 3, 3: 0 2 */
    static const int32_t want[8] = { 1048576 + 262144, 0, 1048576 + 262144, 524288, 524288, 1, 0, 1 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tinyi_level l;
    tgnn_edges e;
    tgnn_graph *g;
    memset(&e, 0, sizeof e);
    e.n = 5;
    e.src = src;
    e.dst = dst;
    e.weight = w;
    T_OK(tgnn_graph_make(ctx, &e, NULL, &g));
    T_OK(tinyi_level_make(ctx, g, NULL, 1, &l));
    T_EQ_INT(l.offset[4], 8);
    T_SAME(l.weight, want, 8);
    tinyi_level_free(ctx, &l);
    tgnn_graph_close(ctx, g);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_levels);
    T_RUN(test_weights);
    return t_done();
}
