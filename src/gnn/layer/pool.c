/* src/gnn/layer/pool.c - top-k pooling
 * Paper    H. Gao, S. Ji, "Graph U-Nets", 2019 (arXiv 1905.05178), eq. 2, with tanh for the sigmoid; C. Cangea et al.,
 *          "Towards Sparse Hierarchical Graph Classifiers", 2018 (arXiv 1811.01287): ceil(ratio n) nodes of each graph.
 * Formula  s = X p / |p|; i = the ceil(r n_g) largest s of each graph g; Y = X[i] * tanh(s[i]); A' = A[i, i]
 * Cost     sums and the kept rows are operations of the table; nodes are chosen by a radix sort of each graph, in
 *          linear time.
 * Error    |p| is summed in double. The order is exact for the given scores.
 * Left out the min_score and multiplier of PyG. */
#include <string.h>
#include "gnn/layer/pool.h"
#include "gnn/graph/graph_inside.h"
#include "core/half_inside.h"
#include "math/elem.h"
#include "math/layer.h"
#include "math/sort.h"

TINY_REF_BEGIN
/* p / |p|; 0: |p| is 0 or no number */
static int tinyi_pool_direction(const tiny_tensor *p, float *u)
{
    const tiny_idx f = tiny_tensor_count(p);
    const float *v = (const float *)p->data;
    double sum = 0.0;
    tiny_idx i;
    for (i = 0; i < f; i++) sum += (double)v[i] * (double)v[i];
    if (!(sum > 0.0 && sum - sum == 0.0)) return 0;
    sum = tinyi_sqrt64(sum);
    for (i = 0; i < f; i++) u[i] = (float)((double)v[i] / sum);
    return 1;
}

/* in floats, as PyTorch does: 0.1 of 30 nodes is 3, not 4 */
static tiny_idx tinyi_pool_keeps(double ratio, tiny_idx n)
{
    volatile float k = (float)ratio * (float)n;            /* volatile: rounded to a float on every machine */
    tiny_idx whole;
    if (ratio >= 1.0) return ratio < (double)n ? (tiny_idx)ratio : n;
    whole = (tiny_idx)k;
    return TINYI_MIN(n, whole + ((float)whole < k));
}
TINY_REF_END

TINY_API tiny_status tgnn_pool_score(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *p,
                                     const tiny_tensor *score)
{
    tiny_tensor column, y;
    float *u;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!x || !p || !score || tiny_tensor_check(x) || tiny_tensor_check(p) || tiny_tensor_check(score) ||
        x->rank != 2 || x->dtype != TINY_F32 || p->dtype != TINY_F32 || score->dtype != TINY_F32 ||
        !tiny_tensor_is_dense(p) || !tiny_tensor_is_dense(score) || tiny_tensor_count(p) != x->dim[1] ||
        tiny_tensor_count(score) != x->dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "pool: x must be n x f, p f and the score n numbers, all f32, the last two dense");
    u = (float *)tinyi_alloc(ctx, (size_t)x->dim[1], sizeof *u);
    if (!u) return tiny_ctx_status(ctx);
    column = tiny_tensor_2d(u, TINY_F32, x->dim[1], 1);
    y = tiny_tensor_2d(score->data, TINY_F32, x->dim[0], 1);
    if (!tinyi_pool_direction(p, u))
        st = tinyi_fail(ctx, TINY_E_NUMERIC, "pool: p has no direction: its length is 0 or not finite");
    else st = tiny_matmul(ctx, x, &column, NULL, TINY_ACT_NONE, &y);
    tiny_free(ctx, u);
    return st;
}

TINY_API void tgnn_pool_free(tiny_ctx *ctx, tgnn_pool *pool)
{
    if (!pool) return;
    tiny_free(ctx, pool->node);
    tiny_free(ctx, pool->graph_at);
    tgnn_graph_close(ctx, pool->graph);
    memset(pool, 0, sizeof *pool);
}

/* the nodes of each graph by score; graph_at holds from, from + 1 ... */
static tiny_status tinyi_pool_choose(tiny_ctx *ctx, const int64_t *from, const float *score, double ratio,
                                     tgnn_pool *out)
{
    tiny_idx longest = 0, g, i;
    uint64_t *item;
    for (g = 0; g < out->n_graphs; g++) longest = TINYI_MAX(longest, (tiny_idx)(from[g + 1] - from[g]));
    item = (uint64_t *)tinyi_alloc(ctx, (size_t)longest, 2 * sizeof *item);
    if (!item) return tiny_ctx_status(ctx);
    for (g = 0; g < out->n_graphs; g++) {
        const tiny_idx n = (tiny_idx)(from[g + 1] - from[g]), k = tinyi_pool_keeps(ratio, n);
        for (i = 0; i < n; i++)
            item[i] = (uint64_t)~tinyi_sort_key_f32(tinyi_f32_bits(score[from[g] + i])) << 32 | (uint64_t)i;
        tinyi_sort_pairs(item, item + longest, (size_t)n);
        out->graph_at[g] = (int64_t)out->n;
        for (i = 0; i < k; i++) out->node[out->n++] = (int32_t)(from[g] + (int64_t)(item[i] & 0xffffffffu));
    }
    out->graph_at[g] = (int64_t)out->n;
    tiny_free(ctx, item);
    return TINY_OK;
}

TINY_API tiny_status tgnn_pool_make(tiny_ctx *ctx, const tgnn_graph *g, const int64_t *graph_at, tiny_idx n_graphs,
                                    const tiny_tensor *score, double ratio, tgnn_pool *out)
{
    int64_t whole[2];
    const tiny_idx n = tgnn_graph_nodes(g);
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "pool: the output pointer is missing");
    memset(out, 0, sizeof *out);
    if (!g || !score) return tinyi_fail(ctx, TINY_E_ARGUMENT, "pool: the graph or the score is missing");
    if (!(ratio > 0.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pool: a ratio of %g; it must be above 0", ratio);
    if (tiny_tensor_check(score) || score->dtype != TINY_F32 || !tiny_tensor_is_dense(score) ||
        tiny_tensor_count(score) != n)
        return tinyi_fail(ctx, TINY_E_SHAPE, "pool: the score must be %td numbers, f32 and dense", n);
    whole[0] = 0;
    whole[1] = (int64_t)n;
    if (!graph_at) {
        graph_at = whole;
        n_graphs = 1;
    }
    if (n_graphs < 0 || graph_at[0] != 0 || graph_at[n_graphs] != (int64_t)n)
        return tinyi_fail(ctx, TINY_E_FORMAT, "pool: graph_at must begin with 0 and end with the %td nodes", n);
    for (i = 0; i < n_graphs; i++)
        if (graph_at[i + 1] < graph_at[i] || graph_at[i + 1] > (int64_t)n)
            return tinyi_fail(ctx, TINY_E_FORMAT, "pool: graph %td has the nodes %lld to %lld", i,
                              (long long)graph_at[i], (long long)graph_at[i + 1]);
    for (i = 0; i < n; i++)
        if (((const float *)score->data)[i] != ((const float *)score->data)[i])
            return tinyi_fail(ctx, TINY_E_NUMERIC, "pool: the score of node %td is not a number", i);
    out->n_graphs = n_graphs;
    out->node = (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *out->node);
    out->graph_at = out->node ? (int64_t *)tinyi_alloc(ctx, (size_t)n_graphs + 1, sizeof *out->graph_at) : NULL;
    if (!out->graph_at) st = tiny_ctx_status(ctx);
    if (!st) st = tinyi_pool_choose(ctx, graph_at, (const float *)score->data, ratio, out);
    if (!st) st = tgnn_graph_induced(ctx, g, out->node, out->n, &out->graph);
    if (st) tgnn_pool_free(ctx, out);
    return st;
}

TINY_API tiny_status tgnn_pool_run(tiny_ctx *ctx, const tgnn_pool *pool, const tiny_tensor *x, const tiny_tensor *score,
                                   const tiny_tensor *y)
{
    tiny_tensor index, all, kept;
    float *room;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!pool || !pool->graph || !x || !score || !y)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "pool: the pool, x, the score or y is missing");
    if (tiny_tensor_check(score) || score->dtype != TINY_F32 || !tiny_tensor_is_dense(score) || tiny_tensor_check(x) ||
        x->rank != 2 || tiny_tensor_count(score) != x->dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE, "pool: the score must be f32, dense, a number for each row of x");
    room = (float *)tinyi_alloc(ctx, (size_t)pool->n, sizeof *room);
    if (!room) return tiny_ctx_status(ctx);
    index = tiny_tensor_1d(pool->node, TINY_I32, pool->n);
    all = tiny_tensor_2d(score->data, TINY_F32, x->dim[0], 1);
    kept = tiny_tensor_2d(room, TINY_F32, pool->n, 1);
    st = tiny_gather(ctx, &all, &index, &kept);
    if (!st) st = tiny_tanh(ctx, &kept, &kept);
    if (!st) st = tiny_gather(ctx, x, &index, y);
    if (!st) st = tiny_mul(ctx, y, &kept, y);
    tiny_free(ctx, room);
    return st;
}
