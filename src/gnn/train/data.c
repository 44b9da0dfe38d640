/* src/gnn/train/data.c - synthetic training data, missing features, principal components
 * Plane    principal components: K. Pearson, 1901; eigenvectors of the covariance of the columns, summed in double. */
#include <string.h>
#include "gnn/train/data.h"
#include "gnn/embed/fastrp.h"
#include "gnn/graph/graph_inside.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include "math/linalg_eig.h"

static tiny_status tinyi_data_x(tiny_ctx *ctx, tgnn_data *d, tiny_idx wide)
{
    size_t n;
    if (!tinyi_size_mul((size_t)d->n_nodes, (size_t)wide, &n))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "data: %td nodes of %td features", d->n_nodes, wide);
    d->x = tiny_tensor_2d(tinyi_alloc(ctx, n, sizeof(float)), TINY_F32, d->n_nodes, wide);
    if (!d->x.data) return tiny_ctx_status(ctx);
    memset(d->x.data, 0, n * sizeof(float));
    return TINY_OK;
}

TINY_API tiny_status tgnn_data_planted(tiny_ctx *ctx, tiny_idx n, int k, double degree, double inside, uint64_t seed,
                                       tgnn_data *out)
{
    tiny_rng rng = tiny_rng_make(seed, 0x64617461);
    tiny_idx i, f, wide;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "data: the output pointer is missing");
    memset(out, 0, sizeof *out);
    st = tgnn_planted(ctx, n, k, degree, inside, seed, &out->graph);
    if (st) return st;
    out->n_nodes = n;
    out->n_class = k;
    out->n_split = 1;
    wide = (tiny_idx)k + 11;
    st = tinyi_data_x(ctx, out, wide);
    out->label = st ? NULL : (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *out->label);
    out->split = out->label ? (char *)tiny_alloc(ctx, (size_t)n) : NULL;
    if (!st && !out->split) st = tiny_ctx_status(ctx);
    for (i = 0; !st && i < n; i++) {
        out->label[i] = (int32_t)(i % k);
        out->split[i] = i / k < 20 ? 'r' : i < n / 4 + 20 * (tiny_idx)k ? 'v' : 't';
        for (f = 0; f < wide; f++)
            ((float *)out->x.data)[i * wide + f] = (f == i % k ? 1.0f : 0.0f) + tiny_rng_normal(&rng);
    }
    if (st) tgnn_data_free(ctx, out);
    return st;
}

TINY_API tiny_status tgnn_data_rings(tiny_ctx *ctx, tiny_idx n_graphs, uint64_t seed, tgnn_data *out)
{
    tiny_rng rng = tiny_rng_make(seed, 0x72696e67);
    tgnn_graph_desc how;
    tgnn_edges e;
    int32_t *src = NULL, *dst = NULL;
    tiny_idx g, i, nodes = 0;
    int64_t m = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || n_graphs < 1 || n_graphs > 1 << 24)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "data: %td rings; there must be 1 to 2^24, and an output", n_graphs);
    memset(out, 0, sizeof *out);
    memset(&e, 0, sizeof e);
    memset(&how, 0, sizeof how);
    /* 23 of the ring and 12 chords at most */
    src = (int32_t *)tinyi_alloc(ctx, (size_t)n_graphs * 35, sizeof *src);
    dst = src ? (int32_t *)tinyi_alloc(ctx, (size_t)n_graphs * 35, sizeof *dst) : NULL;
    out->graph_of_node = dst ? (int32_t *)tinyi_alloc(ctx, (size_t)n_graphs * 23, sizeof *dst) : NULL;
    out->graph_label = out->graph_of_node ? (int32_t *)tinyi_alloc(ctx, (size_t)n_graphs, sizeof *dst) : NULL;
    out->fold = out->graph_label ? (int32_t *)tinyi_alloc(ctx, (size_t)n_graphs, sizeof *dst) : NULL;
    if (!out->fold) st = tiny_ctx_status(ctx);
    for (g = 0; !st && g < n_graphs; g++) {
        const uint32_t size = 8 + tiny_rng_below(&rng, 16), kind = (uint32_t)(g & 1), chords = size / (kind ? 2 : 4);
        out->graph_label[g] = (int32_t)kind;
        out->fold[g] = (int32_t)(g / 2 % 10) + 1;
        for (i = 0; i < (tiny_idx)(size + chords); i++, m++) {
            const uint32_t a = i < (tiny_idx)size ? (uint32_t)i : tiny_rng_below(&rng, size),
                           reach = i < (tiny_idx)size ? 1 : 2 + tiny_rng_below(&rng, size - 3);
            src[m] = (int32_t)(nodes + (tiny_idx)a);
            dst[m] = (int32_t)(nodes + (tiny_idx)((a + reach) % size));
        }
        for (i = 0; i < (tiny_idx)size; i++) out->graph_of_node[nodes++] = (int32_t)g;
    }
    e.n_src = e.n_dst = out->n_nodes = nodes;
    e.n = m;
    e.src = src;
    e.dst = dst;
    how.symmetrize = 1;
    how.duplicates = TINY_DUPLICATES_FIRST;
    out->n_graphs = n_graphs;
    out->n_graph_class = 2;
    if (!st) st = tgnn_graph_make(ctx, &e, &how, &out->graph);
    tiny_free(ctx, src);
    tiny_free(ctx, dst);
    if (st) tgnn_data_free(ctx, out);
    return st;
}

TINY_API tiny_status tgnn_data_features(tiny_ctx *ctx, tgnn_data *d)
{
    const tiny_sparse *g;
    tiny_idx i, wide = 16;
    int32_t most = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!d || !d->graph) return tinyi_fail(ctx, TINY_E_ARGUMENT, "data: there is no graph");
    if (d->x.data) return TINY_OK;
    g = tgnn_graph_in(d->graph);
    if (!d->n_graphs) {
        st = tinyi_data_x(ctx, d, 64);
        return st ? st : tgnn_fastrp(ctx, d->graph, NULL, &d->x);
    }
    for (i = 0; d->node_label && i < d->n_nodes; i++) most = TINYI_MAX(most, d->node_label[i]);
    if (most >= 4096)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "data: the label %ld of a node must be below 4096", (long)most);
    if (d->node_label) wide = (tiny_idx)most + 1;
    st = tinyi_data_x(ctx, d, wide);
    for (i = 0; !st && i < d->n_nodes; i++) {
        int64_t p, p1;
        tiny_idx k;
        tinyi_row_range(g, i, &p, &p1);
        k = d->node_label ? (tiny_idx)d->node_label[i] : TINYI_MIN((tiny_idx)(p1 - p), wide - 1);
        if (k >= 0) ((float *)d->x.data)[i * wide + k] = 1.0f;
    }
    return st;
}

TINY_API tiny_status tgnn_data_graph_at(tiny_ctx *ctx, const tgnn_data *d, int64_t **out)
{
    tiny_idx i, g = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!d || !out || !d->graph_of_node || d->n_graphs < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "data: there are no graphs, only nodes");
    *out = (int64_t *)tinyi_alloc(ctx, (size_t)d->n_graphs + 1, sizeof **out);
    if (!*out) return tiny_ctx_status(ctx);
    for (i = 0; i < d->n_nodes; i++)        /* they ascend, and are below n_graphs: tgnn_data_read has seen to it */
        while (g <= (tiny_idx)d->graph_of_node[i]) (*out)[g++] = (int64_t)i;
    while (g <= d->n_graphs) (*out)[g++] = (int64_t)d->n_nodes;
    return TINY_OK;
}

/* ---- a plane */

TINY_REF_BEGIN
static void tinyi_plane_covariance(const tiny_tensor *x, double *mean, float *cov)
{
    const tiny_idx n = x->dim[0], f = x->dim[1];
    tiny_idx i, a, b;
#define TINYI_PLANE_X(i, a) ((double)((const float *)x->data)[(i) * x->stride[0] + (a) * x->stride[1]])
    for (a = 0; a < f; a++) {
        mean[a] = 0.0;
        for (i = 0; i < n; i++) mean[a] += TINYI_PLANE_X(i, a);
        mean[a] /= (double)(n ? n : 1);
    }
    for (a = 0; a < f; a++)
        for (b = 0; b < f; b++) {
            double sum = 0.0;
            if (b > a) {
                cov[a * f + b] = 0.0f;      /* only the lower triangle is read */
                continue;
            }
            for (i = 0; i < n; i++) sum += (TINYI_PLANE_X(i, a) - mean[a]) * (TINYI_PLANE_X(i, b) - mean[b]);
            cov[a * f + b] = (float)(sum / (double)(n ? n : 1));
        }
}

static void tinyi_plane_project(const tiny_tensor *x, const double *mean, const float *v, const tiny_tensor *y)
{
    const tiny_idx f = x->dim[1];
    tiny_idx i, a, k;
    for (i = 0; i < x->dim[0]; i++)
        for (k = 0; k < 2; k++) {
            double sum = 0.0;
            for (a = 0; a < f && k < f; a++) sum += (TINYI_PLANE_X(i, a) - mean[a]) * (double)v[a * f + f - 1 - k];
            ((float *)y->data)[i * y->stride[0] + k * y->stride[1]] = (float)sum;
        }
#undef TINYI_PLANE_X
}
TINY_REF_END

TINY_API tiny_status tgnn_plane(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    tiny_tensor c, w, v;
    double *mean;
    float *room;
    tiny_idx f;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!x || !y || tiny_tensor_check(x) || tiny_tensor_check(y) || x->dtype != TINY_F32 || y->dtype != TINY_F32 ||
        x->rank != 2 || y->rank != 2 || y->dim[0] != x->dim[0] || y->dim[1] != 2 || x->dim[1] < 1 || x->dim[1] > 4096)
        return tinyi_fail(ctx, TINY_E_SHAPE, "plane: x must be n x 1 .. 4096 f32 and y n x 2 f32");
    f = x->dim[1];
    mean = (double *)tinyi_alloc(ctx, (size_t)f, sizeof *mean);
    room = mean ? (float *)tinyi_alloc(ctx, (size_t)(f * f * 2 + f), sizeof *room) : NULL;
    if (!room) st = tiny_ctx_status(ctx);
    else {
        c = tiny_tensor_2d(room, TINY_F32, f, f);
        v = tiny_tensor_2d(room + f * f, TINY_F32, f, f);
        w = tiny_tensor_1d(room + 2 * f * f, TINY_F32, f);
        tinyi_plane_covariance(x, mean, room);
        st = tiny_eigh(ctx, &c, &w, &v);
        if (!st) tinyi_plane_project(x, mean, (const float *)v.data, y);
    }
    tiny_free(ctx, room);
    tiny_free(ctx, mean);
    return st;
}
