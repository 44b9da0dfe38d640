/* src/gnn/graph/graph.c - makes graphs; their degrees and norms; graphs from graphs
 *
 * Paper    T. Kipf, M. Welling, "Semi-Supervised Classification with Graph Convolutional Networks", 2017, eq. 2 (the
 *          norm).
 * Method   The final list of edges is written (both directions, loops dropped or added). math/sparse.h then makes rows
 *          of it by a stable counting sort.
 * Cost     linear in nodes + edges; at most 40 bytes an edge while a graph is made, 16 (20 with weights) afterwards.
 * Error    degrees and norms are computed in double, rounded once. */
#include <string.h>
#include "gnn/graph/graph_inside.h"
#include "math/elem.h"
#include "math/layout.h"
#include "math/sort.h"

TINY_API void tgnn_graph_close(tiny_ctx *ctx, tgnn_graph *g)
{
    if (!g) return;
    tiny_sparse_free(ctx, &g->in);
    tiny_sparse_free(ctx, &g->by_source);
    tiny_file_close(ctx, &g->file);
    tiny_free(ctx, g);
}

TINY_API tiny_idx tgnn_graph_nodes(const tgnn_graph *g) { return g ? g->in.n_rows : 0; }
TINY_API tiny_idx tgnn_graph_sources(const tgnn_graph *g) { return g ? g->in.n_cols : 0; }
TINY_API int64_t tgnn_graph_edges(const tgnn_graph *g) { return g ? g->in.n : 0; }
TINY_API const tiny_sparse *tgnn_graph_in(const tgnn_graph *g) { return g ? &g->in : NULL; }

TINYI_FN tiny_status tinyi_graph_wrap(tiny_ctx *ctx, tiny_sparse *in, tgnn_graph **out)
{
    tgnn_graph *g = (tgnn_graph *)tinyi_alloc(ctx, 1, sizeof *g);
    if (!g) {
        tiny_sparse_free(ctx, in);
        return tiny_ctx_status(ctx);
    }
    memset(g, 0, sizeof *g);
    g->in = *in;
    memset(in, 0, sizeof *in);
    *out = g;
    return TINY_OK;
}

tiny_status tinyi_rows_changed(tiny_ctx *ctx, const char *where, const tiny_sparse *a)
{
    return tinyi_fail(
        ctx, TINY_E_FORMAT,
        "%s: the rows no longer hold the %lld edges among %td nodes that were there: the file of the graph has changed",
        where, (long long)a->n, a->n_cols);
}

/* ---- from edges */

typedef struct tinyi_edge_list {            /* ours, with room for all that may be added */
    int64_t n;
    int32_t *src, *dst;
    float *weight;                          /* NULL: ones */
    int64_t *number;                        /* NULL: that of the place */
} tinyi_edge_list;

static void tinyi_edge_list_free(tiny_ctx *ctx, tinyi_edge_list *l)
{
    tiny_free(ctx, l->src);
    tiny_free(ctx, l->dst);
    tiny_free(ctx, l->weight);
    tiny_free(ctx, l->number);
    memset(l, 0, sizeof *l);
}

static tiny_status tinyi_edge_list_take(tiny_ctx *ctx, tinyi_edge_list *l, int64_t room, int weighted)
{
    memset(l, 0, sizeof *l);
    l->src = (int32_t *)tinyi_alloc(ctx, (size_t)room, sizeof *l->src);
    if (l->src) l->dst = (int32_t *)tinyi_alloc(ctx, (size_t)room, sizeof *l->dst);
    if (l->dst) l->number = (int64_t *)tinyi_alloc(ctx, (size_t)room, sizeof *l->number);
    if (l->number && weighted) l->weight = (float *)tinyi_alloc(ctx, (size_t)room, sizeof *l->weight);
    if (l->number && (l->weight || !weighted)) return TINY_OK;
    tinyi_edge_list_free(ctx, l);
    return tiny_ctx_status(ctx);
}

static void tinyi_edge_put(tinyi_edge_list *l, int32_t s, int32_t d, float w, int64_t number)
{
    l->src[l->n] = s;
    l->dst[l->n] = d;
    if (l->weight) l->weight[l->n] = w;
    l->number[l->n++] = number;
}

/* rows of the list; number may be NULL, or is looked up for every entry */
static tiny_status tinyi_graph_rows(tiny_ctx *ctx, const tgnn_edges *e, tiny_idx n_src, tiny_idx n_dst,
                                    const int64_t *number, tiny_duplicates duplicates, tgnn_graph **out)
{
    tiny_sparse coo, in;
    tiny_sparse_desc d;
    tiny_status st;
    int64_t p;
    /* a tiny_sparse has plain pointers, and a conversion only reads */
    union { const int32_t *from; int32_t *to; } row, col;
    union { const float *from; float *to; } value;
    memset(&coo, 0, sizeof coo);
    memset(&d, 0, sizeof d);
    row.from = e->dst;
    col.from = e->src;
    value.from = e->weight;
    coo.form = TINY_COO;
    coo.n_rows = n_dst;
    coo.n_cols = n_src;
    coo.n = e->n;
    coo.row = row.to;
    coo.col = col.to;
    coo.value = value.to;
    d.form = TINY_CSR;
    d.duplicates = duplicates;
    d.with_source = 1;
    st = tiny_sparse_convert(ctx, &coo, &d, &in);
    if (st) return st;
    for (p = 0; number && p < in.n; p++) in.source[p] = number[in.source[p]];
    return tinyi_graph_wrap(ctx, &in, out);
}

/* the largest number, or the first that is none */
static tiny_status tinyi_edges_look(tiny_ctx *ctx, const int32_t *x, int64_t n, const char *which, tiny_idx *most)
{
    int64_t i;
    int32_t high = -1;
    for (i = 0; i < n; i++) {
        if (x[i] < 0)
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "graph: the %s of edge %lld is %ld, below 0", which, (long long)i, (long)x[i]);
        if (x[i] > high) high = x[i];
    }
    *most = (tiny_idx)high + 1;
    return TINY_OK;
}

tiny_status tinyi_graph_desc_check(tiny_ctx *ctx, const tgnn_graph_desc *d)
{
    if (d->n_nodes < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                          "graph: %td nodes; the number must not be negative", d->n_nodes);
    if (d->bipartite && (d->symmetrize || d->add_loops || d->drop_loops))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: a bipartite graph has no loops and cannot be symmetrized");
    if ((unsigned)d->duplicates > (unsigned)TINY_DUPLICATES_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: %d is not a valid tiny_duplicates", (int)d->duplicates);
    return TINY_OK;
}

/* its edges as rows; the list is given back */
static tiny_status tinyi_edge_list_rows(tiny_ctx *ctx, tinyi_edge_list *l, tiny_idx n_src, tiny_idx n_dst,
                                        tiny_duplicates duplicates, tgnn_graph **out)
{
    tgnn_edges e;
    tiny_status st;
    memset(&e, 0, sizeof e);
    e.n = l->n;
    e.src = l->src;
    e.dst = l->dst;
    e.weight = l->weight;
    st = tinyi_graph_rows(ctx, &e, n_src, n_dst, l->number, duplicates, out);
    tinyi_edge_list_free(ctx, l);
    return st;
}

TINY_API tiny_status tgnn_graph_make(tiny_ctx *ctx, const tgnn_edges *edges, const tgnn_graph_desc *desc,
                                     tgnn_graph **out)
{
    static const tgnn_graph_desc none = { 0, TINY_DUPLICATES_KEEP, 0, 0, 0, 0 };
    const tgnn_graph_desc *d = desc ? desc : &none;
    tiny_idx n_src, n_dst, seen_src = 0, seen_dst = 0;
    tinyi_edge_list l;
    unsigned char *has = NULL;
    int64_t i, room;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the output pointer is missing");
    if (!edges || edges->n < 0 || (edges->n && (!edges->src || !edges->dst)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: there are no edges");
    if ((uint64_t)edges->n > (uint64_t)TINY_IDX_MAX / 64)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "graph: %lld edges are too many", (long long)edges->n);
    if (edges->n_src < 0 || edges->n_dst < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "graph: %td sources, %td destinations: neither may be negative", edges->n_src, edges->n_dst);
    st = tinyi_graph_desc_check(ctx, d);
    if (st) return st;
    st = tinyi_edges_look(ctx, edges->src, edges->n, "source", &seen_src);
    if (!st) st = tinyi_edges_look(ctx, edges->dst, edges->n, "destination", &seen_dst);
    if (st) return st;
    n_src = edges->n_src ? edges->n_src : seen_src;
    n_dst = edges->n_dst ? edges->n_dst : seen_dst;
    if (!d->bipartite) {
        if (edges->n_src && edges->n_dst && edges->n_src != edges->n_dst)
            return tinyi_fail(ctx, TINY_E_SHAPE,
                              "graph: %td sources and %td destinations: the graph must not be bipartite",
                              edges->n_src, edges->n_dst);
        n_src = n_dst = edges->n_src ? edges->n_src : edges->n_dst ? edges->n_dst : TINYI_MAX(n_src, n_dst);
    }
    n_src = TINYI_MAX(n_src, d->n_nodes);
    n_dst = TINYI_MAX(n_dst, d->n_nodes);
    if (seen_src > n_src)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "graph: an edge comes from node %td, but there are %td nodes", seen_src - 1, n_src);
    if (seen_dst > n_dst)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "graph: an edge goes to node %td, but there are %td nodes", seen_dst - 1, n_dst);
    if ((uint64_t)n_src > 0x7fffffffu || (uint64_t)n_dst > 0x7fffffffu)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "graph: %td nodes, the maximum is 2147483647",
                          TINYI_MAX(n_src, n_dst));
    if (!d->symmetrize && !d->drop_loops && !d->add_loops)
        return tinyi_graph_rows(ctx, edges, n_src, n_dst, NULL, d->duplicates, out);
    room = edges->n * (d->symmetrize ? 2 : 1) + (d->add_loops ? (int64_t)n_dst : 0);
    st = tinyi_edge_list_take(ctx, &l, room, edges->weight != NULL);
    if (st) return st;
    if (d->add_loops) {
        has = (unsigned char *)tinyi_alloc(ctx, (size_t)n_dst, 1);
        if (!has) {
            tinyi_edge_list_free(ctx, &l);
            return tiny_ctx_status(ctx);
        }
        if (n_dst) memset(has, 0, (size_t)n_dst);
    }
    for (i = 0; i < edges->n; i++) {
        int32_t s = edges->src[i], t = edges->dst[i];
        float w = edges->weight ? edges->weight[i] : 1.0f;
        if (s == t) {
            if (d->drop_loops) continue;
            if (has) has[s] = 1;
        }
        tinyi_edge_put(&l, s, t, w, i);
        if (d->symmetrize && s != t) tinyi_edge_put(&l, t, s, w, i);
    }
    for (i = 0; has && i < n_dst; i++)
        if (!has[i]) tinyi_edge_put(&l, (int32_t)i, (int32_t)i, 1.0f, -1);
    st = tinyi_edge_list_rows(ctx, &l, n_src, n_dst, d->duplicates, out);
    tiny_free(ctx, has);
    return st;
}

TINY_API tiny_status tgnn_graph_from_sparse(tiny_ctx *ctx, const tiny_sparse *a, tgnn_graph **out)
{
    tiny_sparse_desc d;
    tiny_sparse in;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the output pointer is missing");
    if (a && a->form > TINY_CSC) {          /* other forms keep no numbers of their entries */
        tiny_sparse lists;
        memset(&d, 0, sizeof d);
        d.form = TINY_COO;
        st = tiny_sparse_convert(ctx, a, &d, &lists);
        if (st) return st;
        st = tgnn_graph_from_sparse(ctx, &lists, out);
        tiny_sparse_free(ctx, &lists);
        return st;
    }
    memset(&d, 0, sizeof d);
    d.form = TINY_CSR;
    d.with_source = 1;
    st = tiny_sparse_convert(ctx, a, &d, &in);
    return st ? st : tinyi_graph_wrap(ctx, &in, out);
}

/* The rows of a as they are at this moment, looked at once they can change no more. b owns them; it has no values and
 * no numbers. */
static tiny_status tinyi_rows_copy(tiny_ctx *ctx, const tiny_sparse *a, tiny_sparse *b)
{
    *b = *a;
    b->owned = 1;
    b->value = NULL;
    b->source = NULL;
    b->offset = (int64_t *)tinyi_alloc(ctx, (size_t)a->n_rows + 1, sizeof *b->offset);
    b->col = (int32_t *)tinyi_alloc(ctx, (size_t)a->n, sizeof *b->col);
    if (!b->offset || !b->col) {
        tiny_sparse_free(ctx, b);
        return tiny_ctx_status(ctx);
    }
    memcpy(b->offset, a->offset, ((size_t)a->n_rows + 1) * sizeof *b->offset);
    if (a->n) memcpy(b->col, a->col, (size_t)a->n * sizeof *b->col);
    if (!tiny_sparse_check(ctx, b)) return TINY_OK;
    tiny_sparse_free(ctx, b);
    return tinyi_rows_changed(ctx, "graph", a);
}

TINY_API tiny_status tgnn_graph_out(tiny_ctx *ctx, tgnn_graph *g, const tiny_sparse **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the graph or the output pointer is missing");
    if (!g->has_out) {
        tiny_sparse_desc d;
        tiny_sparse kept, rows = g->in;
        memset(&d, 0, sizeof d);
        memset(&kept, 0, sizeof kept);
        d.form = TINY_CSC;
        d.with_source = 1;
        if (!g->in.owned) {                 /* a mapped file may change between the look at it and its use */
            st = tinyi_rows_copy(ctx, &g->in, &kept);
            if (st) return st;
            rows.offset = kept.offset;
            rows.col = kept.col;
        }
        st = tiny_sparse_convert(ctx, &rows, &d, &g->by_source);
        tiny_sparse_free(ctx, &kept);
        if (st) return st;
        g->out = g->by_source;              /* columns of the one are rows of the other */
        g->out.form = TINY_CSR;
        g->out.owned = 0;
        g->out.n_rows = g->in.n_cols;
        g->out.n_cols = g->in.n_rows;
        g->out.col = g->by_source.row;
        g->out.row = NULL;
        g->has_out = 1;
    }
    *out = &g->out;
    return TINY_OK;
}

/* ---- degrees and norms */

static tiny_status tinyi_graph_degrees64(tiny_ctx *ctx, const tgnn_graph *g, int by_source, int counted, double **out)
{
    const tiny_sparse *a = &g->in;
    tiny_idx n = by_source ? a->n_cols : a->n_rows, r;
    double *degree = (double *)tinyi_alloc(ctx, (size_t)n, sizeof *degree);
    int64_t p, p1 = 0;
    int bad = 0;
    *out = degree;
    if (!degree) return tiny_ctx_status(ctx);
    for (r = 0; r < n; r++) degree[r] = 0.0;
    for (r = 0; r < a->n_rows && tinyi_row_next(a, r, &p, &p1); r++)
        for (; p < p1; p++)
            degree[by_source ? tinyi_row_col(a, p, &bad) : r] += a->value && !counted ? (double)a->value[p] : 1.0;
    if (!bad && r == a->n_rows) return TINY_OK;
    tiny_free(ctx, degree);
    *out = NULL;
    return tinyi_rows_changed(ctx, "degrees", a);
}

TINY_API tiny_status tgnn_graph_degrees(tiny_ctx *ctx, tgnn_graph *g, int by_source, int counted, float *degree)
{
    double *d;
    tiny_idx n, i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g || !degree) return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the graph or the array of degrees is missing");
    st = tinyi_graph_degrees64(ctx, g, by_source, counted, &d);
    if (st) return st;
    n = by_source ? g->in.n_cols : g->in.n_rows;
    for (i = 0; i < n; i++) degree[i] = (float)d[i];
    tiny_free(ctx, d);
    return TINY_OK;
}

/* the edges of g with exactly one loop a node, or with none */
static tiny_status tinyi_graph_loops(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_normalize_desc *d, tgnn_graph **out)
{
    const tiny_sparse *a = &g->in;
    tinyi_edge_list l;
    tiny_idx r;
    int64_t p, p1 = 0;
    int bad = 0;
    tiny_status st = tinyi_edge_list_take(ctx, &l, a->n + (d->add_loops ? (int64_t)a->n_rows : 0), 1);
    if (st) return st;
    for (r = 0; r < a->n_rows && tinyi_row_next(a, r, &p, &p1); r++) {
        float loop = 1.0f;
        int64_t number = -1, first = -2;
        for (; p < p1; p++) {
            const float w = a->value && !d->ignore_weights ? a->value[p] : 1.0f;
            const int32_t c = tinyi_row_col(a, p, &bad);
            if (c != r) tinyi_edge_put(&l, c, (int32_t)r, w, a->source ? a->source[p] : p);
            else if (!d->drop_loops && (a->source ? a->source[p] : p) > first) {   /* the last one as it was given */
                number = first = a->source ? a->source[p] : p;
                loop = w;
            }
        }
        if (d->add_loops) tinyi_edge_put(&l, (int32_t)r, (int32_t)r, loop, number);
    }
    if (bad || r < a->n_rows) {
        tinyi_edge_list_free(ctx, &l);
        return tinyi_rows_changed(ctx, "graph", a);
    }
    st = tinyi_edge_list_rows(ctx, &l, a->n_cols, a->n_rows, TINY_DUPLICATES_KEEP, out);
    return st;
}

/* the same edges, each with its own weight */
static tiny_status tinyi_graph_copy(tiny_ctx *ctx, const tgnn_graph *g, int ones, tgnn_graph **out)
{
    const tiny_sparse *a = &g->in;
    tiny_sparse b;
    int64_t p;
    tiny_status st = tinyi_rows_copy(ctx, a, &b);
    if (st) return st;
    b.value = (float *)tinyi_alloc(ctx, (size_t)a->n, sizeof *b.value);
    b.source = (int64_t *)tinyi_alloc(ctx, (size_t)a->n, sizeof *b.source);
    if (!b.value || !b.source) {
        tiny_sparse_free(ctx, &b);
        return tiny_ctx_status(ctx);
    }
    for (p = 0; p < a->n; p++) {
        b.value[p] = a->value && !ones ? a->value[p] : 1.0f;
        b.source[p] = a->source ? a->source[p] : p;
    }
    return tinyi_graph_wrap(ctx, &b, out);
}

TINY_API tiny_status tgnn_graph_normalize(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_normalize_desc *desc,
                                          tgnn_graph **out)
{
    static const tgnn_normalize_desc none = { TGNN_NORM_NONE, 0, 0, 0 };
    const tgnn_normalize_desc *d = desc ? desc : &none;
    tgnn_graph *h = NULL;
    double *degree;
    tiny_idx r;
    int64_t p;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!g || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the graph or the output pointer is missing");
    if ((unsigned)d->norm > (unsigned)TGNN_NORM_ROW)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: norm %d is unknown", (int)d->norm);
    if ((d->norm == TGNN_NORM_SYMMETRIC || d->add_loops) && g->in.n_rows != g->in.n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE, "graph: %td sources and %td destinations: the graph must not be bipartite",
                          g->in.n_cols, g->in.n_rows);
    st = d->add_loops || d->drop_loops ? tinyi_graph_loops(ctx, g, d, &h)
                                       : tinyi_graph_copy(ctx, g, d->ignore_weights, &h);
    if (st) return st;
    if (d->norm != TGNN_NORM_NONE) {
        tiny_sparse *a = &h->in;
        st = tinyi_graph_degrees64(ctx, h, 0, 0, &degree);
        if (st) {
            tgnn_graph_close(ctx, h);
            return st;
        }
        for (r = 0; d->norm == TGNN_NORM_SYMMETRIC && r < a->n_rows; r++)
            degree[r] = degree[r] > 0.0 ? 1.0 / tinyi_sqrt64(degree[r]) : 0.0;
        for (r = 0; d->norm == TGNN_NORM_ROW && r < a->n_rows; r++)
            degree[r] = degree[r] > 0.0 || degree[r] < 0.0 ? 1.0 / degree[r] : 0.0;
        for (r = 0; r < a->n_rows; r++)
            for (p = a->offset[r]; p < a->offset[r + 1]; p++)
                a->value[p] = (float)((double)a->value[p] * degree[r] *
                                      (d->norm == TGNN_NORM_SYMMETRIC ? degree[a->col[p]] : 1.0));
        tiny_free(ctx, degree);
    }
    *out = h;
    return TINY_OK;
}

/* ---- other orders of the nodes */

typedef struct tinyi_permute {
    const tiny_sparse *a;
    tiny_sparse *b;
    const uint32_t *order;
    const int32_t *place;
    int64_t longest;
} tinyi_permute;

/* rows where they belong, their columns by the new numbers: sorted, and edges at one place keep their order */
static void tinyi_permute_team(tiny_team *team, void *arg)
{
    const tinyi_permute *s = (const tinyi_permute *)arg;
    const tiny_sparse *a = s->a;
    tiny_sparse *b = s->b;
    uint64_t *key = (uint64_t *)team->own, *scratch = key + s->longest;
    tiny_idx r, r1;
    int64_t i, j;
    while (tiny_take(team, b->n_rows, 256, &r, &r1))
        for (; r < r1; r++) {
            const int64_t to = b->offset[r];
            int64_t from, n = b->offset[r + 1] - to;
            tinyi_row_range(a, s->order[r], &from, &j);
            for (; n > j - from; n--) {     /* only where the file changed since its rows were counted */
                b->col[to + n - 1] = 0;
                b->source[to + n - 1] = 0;
                if (b->value) b->value[to + n - 1] = 0.0f;
            }
            if (r + 8 < b->n_rows) TINYI_PREFETCH(a->col + a->offset[s->order[r + 8]]);
            for (i = 0; i < n; i++) {
                const int32_t c = a->col[from + i];
                key[i] = (uint64_t)((uint64_t)c < (uint64_t)a->n_cols ? s->place[c] : 0) << 32 | (uint64_t)i;
            }
            if (n > 48) tinyi_sort_pairs(key, scratch, (size_t)n);
            else
                for (i = 1; i < n; i++) {
                    const uint64_t x = key[i];
                    for (j = i; j > 0 && key[j - 1] > x; j--) key[j] = key[j - 1];
                    key[j] = x;
                }
            for (i = 0; i < n; i++) {
                const int64_t p = from + (int64_t)(key[i] & 0xffffffffu);
                b->col[to + i] = (int32_t)(key[i] >> 32);
                b->source[to + i] = a->source ? a->source[p] : p;
                if (b->value) b->value[to + i] = a->value[p];
            }
        }
}

TINY_API tiny_status tgnn_graph_permute(tiny_ctx *ctx, const tgnn_graph *g, const uint32_t *order, tgnn_graph **out)
{
    const tiny_sparse *a;
    tiny_sparse b;
    tinyi_permute s;
    int32_t *place;
    tiny_idx r, n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!g || !out || !order)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: the graph, the order or the output pointer is missing");
    a = &g->in;
    n = a->n_rows;
    if (n != a->n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "graph: %td sources and %td destinations: the graph must not be bipartite", a->n_cols,
                          n);
    place = (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *place);
    if (!place) return tiny_ctx_status(ctx);
    for (r = 0; r < n; r++) place[r] = -1;
    for (r = 0; r < n; r++) {
        if ((uint64_t)order[r] >= (uint64_t)n || place[order[r]] >= 0) {
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: order[%td] is %lu: %s", r, (unsigned long)order[r],
                            (uint64_t)order[r] >= (uint64_t)n ? "there is no such node" : "it occurs twice");
            tiny_free(ctx, place);
            return st;
        }
        place[order[r]] = (int32_t)r;
    }
    b = *a;
    b.owned = 1;
    b.offset = (int64_t *)tinyi_alloc(ctx, (size_t)n + 1, sizeof *b.offset);
    b.col = (int32_t *)tinyi_alloc(ctx, (size_t)a->n, sizeof *b.col);
    b.value = a->value ? (float *)tinyi_alloc(ctx, (size_t)a->n, sizeof *b.value) : NULL;
    b.source = (int64_t *)tinyi_alloc(ctx, (size_t)a->n, sizeof *b.source);
    if (!b.offset || !b.col || (a->value && !b.value) || !b.source) st = tiny_ctx_status(ctx);
    memset(&s, 0, sizeof s);
    s.a = a;
    s.b = &b;
    s.order = order;
    s.place = place;
    if (!st) b.offset[0] = 0;
    for (r = 0; !st && r < n; r++) {
        const int64_t from = a->offset[order[r]], d = a->offset[order[r] + 1] - from;
        if (from < 0 || d < 0 || d > a->n || from > a->n - d)
            st = tinyi_fail(ctx, TINY_E_FORMAT,
                            "graph: the edges of node %lu are not among its %lld edges: the file of the graph has "
                            "changed",
                            (unsigned long)order[r], (long long)a->n);
        else if (d > 0x7fffffff)
            st = tinyi_fail(ctx, TINY_E_OVERFLOW, "graph: node %lu has %lld edges, the maximum is 2147483647",
                            (unsigned long)order[r], (long long)d);
        b.offset[r + 1] = b.offset[r] + d;
        s.longest = TINYI_MAX(s.longest, d);
    }
    if (!st && b.offset[n] != a->n)
        st = tinyi_fail(ctx, TINY_E_FORMAT,
                        "graph: its rows have %lld edges, not %lld: the file of the graph has changed",
                        (long long)b.offset[n], (long long)a->n);
    if (!st) st = tiny_parallel(ctx, 0, 0, 2 * (size_t)s.longest * sizeof(uint64_t), tinyi_permute_team, &s);
    tiny_free(ctx, place);
    if (!st) return tinyi_graph_wrap(ctx, &b, out);
    tiny_sparse_free(ctx, &b);
    return st;
}

TINY_API tiny_status tgnn_graph_induced(tiny_ctx *ctx, const tgnn_graph *g, const int32_t *node, tiny_idx n,
                                        tgnn_graph **out)
{
    const tiny_sparse *a;
    tinyi_edge_list l;
    int32_t *place = NULL;
    tiny_idx i;
    int64_t p, end, room = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!g || !out || n < 0 || (n && !node))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "graph: the graph, the list of nodes or the output pointer is missing");
    a = &g->in;
    if (a->n_rows != a->n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE, "graph: %td sources and %td destinations: the graph must not be bipartite",
                          a->n_cols, a->n_rows);
    place = (int32_t *)tinyi_alloc(ctx, (size_t)a->n_rows, sizeof *place);
    if (!place) return tiny_ctx_status(ctx);
    for (i = 0; i < a->n_rows; i++) place[i] = -1;
    for (i = 0; !st && i < n; i++) {
        if (node[i] < 0 || node[i] >= a->n_rows || place[node[i]] >= 0)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "graph: node[%td] is %ld: %s", i, (long)node[i],
                            node[i] < 0 || node[i] >= a->n_rows ? "there is no such node" : "it occurs twice");
        else {
            place[node[i]] = (int32_t)i;
            tinyi_row_range(a, node[i], &p, &end);
            room += end - p;
        }
    }
    if (!st) st = tinyi_edge_list_take(ctx, &l, room, a->value != NULL);
    if (!st) {
        for (i = 0; i < n; i++)
            for (tinyi_row_range(a, node[i], &p, &end); p < end; p++) {
                const int32_t s = a->col[p];
                if (s >= 0 && s < a->n_cols && place[s] >= 0 && l.n < room)
                    tinyi_edge_put(&l, place[s], (int32_t)i, a->value ? a->value[p] : 1.0f,
                                   a->source ? a->source[p] : p);
            }
        st = tinyi_edge_list_rows(ctx, &l, n, n, TINY_DUPLICATES_KEEP, out);
    }
    tiny_free(ctx, place);
    return st;
}

/* edges of node v in both directions, and where those into it begin; of a file that changed, as many as there are */
static int64_t tinyi_graph_both(const tgnn_graph *g, tiny_idx v, int64_t *first, int64_t *n_in)
{
    int64_t end;
    tinyi_row_range(&g->in, v, first, &end);
    *n_in = end - *first;
    return *n_in + g->out.offset[v + 1] - g->out.offset[v];
}

TINY_API tiny_status tgnn_graph_order(tiny_ctx *ctx, tgnn_graph *g, tgnn_order_kind kind, uint32_t *order)
{
    const tiny_sparse *unused;
    uint32_t *degree = NULL, *by_degree = NULL;
    unsigned char *seen = NULL;
    uint64_t *key = NULL, *scratch = NULL;
    tiny_idx n, i, head = 0, tail = 0, most = 0;
    int64_t first, n_in;
    int bad = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g || !order || (unsigned)kind > (unsigned)TGNN_ORDER_RCM)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "graph: the graph or the output is missing, or the kind of order is invalid");
    n = g->in.n_rows;
    if (n != g->in.n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE, "graph: %td sources and %td destinations: the graph must not be bipartite",
                          g->in.n_cols, n);
    st = tgnn_graph_out(ctx, g, &unused);
    if (st) return st;
    degree = (uint32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *degree);
    by_degree = (uint32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *by_degree);
    seen = (unsigned char *)tinyi_alloc(ctx, (size_t)n, 1);
    if (!degree || !by_degree || !seen) st = tiny_ctx_status(ctx);
    for (i = 0; !st && i < n; i++) {
        const int64_t d = tinyi_graph_both(g, i, &first, &n_in);
        degree[i] = d > 0xffffffffLL ? 0xffffffffu : (uint32_t)d;
        most = TINYI_MAX(most, (tiny_idx)degree[i]);
        seen[i] = 0;
    }
    if (!st)
        st = tiny_argsort_u32(ctx, degree, kind == TGNN_ORDER_DEGREE ? order : by_degree, (size_t)n,
                              kind == TGNN_ORDER_DEGREE ? TINY_SORT_DESCENDING : 0);
    if (!st && kind == TGNN_ORDER_RCM) {
        key = (uint64_t *)tinyi_alloc(ctx, (size_t)most, sizeof *key);
        scratch = (uint64_t *)tinyi_alloc(ctx, (size_t)most, sizeof *scratch);
        if (!key || !scratch) st = tiny_ctx_status(ctx);
    }
    for (i = 0; !st && kind != TGNN_ORDER_DEGREE && i < n; i++) {
        if (seen[by_degree[i]]) continue;   /* the next component begins at its node of least degree */
        seen[by_degree[i]] = 1;
        order[tail++] = by_degree[i];
        for (; head < tail; head++) {
            tiny_idx v = (tiny_idx)order[head], fresh = tail, k;
            const int64_t all = tinyi_graph_both(g, v, &first, &n_in);
            int64_t j;
            for (j = 0; j < all; j++) {
                const int32_t u =
                    j < n_in ? tinyi_row_col(&g->in, first + j, &bad) : g->out.col[g->out.offset[v] + j - n_in];
                if (seen[u]) continue;
                seen[u] = 1;
                order[tail++] = (uint32_t)u;
            }
            /* more: only of a file that changed */
            if (kind != TGNN_ORDER_RCM || tail - fresh < 2 || tail - fresh > most) continue;
            for (k = fresh; k < tail; k++) key[k - fresh] = (uint64_t)degree[order[k]] << 32 | order[k];
            tinyi_sort_pairs(key, scratch, (size_t)(tail - fresh));
            for (k = fresh; k < tail; k++) order[k] = (uint32_t)(key[k - fresh] & 0xffffffffu);
        }
    }
    for (i = 0; !st && kind == TGNN_ORDER_RCM && i < n / 2; i++) {
        uint32_t t = order[i];
        order[i] = order[n - 1 - i];
        order[n - 1 - i] = t;
    }
    if (!st && bad) st = tinyi_rows_changed(ctx, "order", &g->in);
    tiny_free(ctx, degree);
    tiny_free(ctx, by_degree);
    tiny_free(ctx, seen);
    tiny_free(ctx, key);
    tiny_free(ctx, scratch);
    return st;
}

TINY_API tiny_status tgnn_graph_batch(tiny_ctx *ctx, const tgnn_graph *const *graphs, tiny_idx n, int64_t *graph_at,
                                      tgnn_graph **out)
{
    tinyi_edge_list l;
    tiny_idx i, r, nodes = 0;
    int64_t edges = 0, numbers = 0, p, p1;
    int weighted = 0, bad = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out || !graph_at || n < 0 || (n && !graphs))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "batch: the graphs or an output pointer is missing");
    for (i = 0; i < n; i++) {
        if (!graphs[i]) return tinyi_fail(ctx, TINY_E_ARGUMENT, "batch: graph %td is missing", i);
        if (graphs[i]->in.n_rows != graphs[i]->in.n_cols)
            return tinyi_fail(ctx, TINY_E_SHAPE, "batch: graph %td has %td sources and %td destinations", i,
                              graphs[i]->in.n_cols, graphs[i]->in.n_rows);
        if (graphs[i]->in.n_rows > 0x7fffffff - nodes)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "batch: graph %td makes more than 2147483647 nodes", i);
        graph_at[i] = nodes;
        nodes += graphs[i]->in.n_rows;
        edges += graphs[i]->in.n;
        weighted |= graphs[i]->in.value != NULL;
    }
    graph_at[n] = nodes;
    st = tinyi_edge_list_take(ctx, &l, edges, weighted);
    if (st) return st;
    for (i = 0; !st && i < n; i++) {
        const tiny_sparse *a = &graphs[i]->in;
        int32_t base = (int32_t)graph_at[i];
        int64_t most = -1;
        for (r = 0, p1 = 0; !st && r < a->n_rows && tinyi_row_next(a, r, &p, &p1); r++)
            for (; !st && p < p1; p++) {
                const int64_t number = a->source ? a->source[p] : p;
                most = TINYI_MAX(most, number);
                if (most >= INT64_MAX - numbers)
                    st = tinyi_fail(ctx, TINY_E_OVERFLOW, "batch: graph %td: the number %lld of an edge is too large",
                                    i, (long long)most);
                else
                    tinyi_edge_put(&l, base + tinyi_row_col(a, p, &bad), base + (int32_t)r,
                                   a->value ? a->value[p] : 1.0f, number < 0 ? -1 : numbers + number);
            }
        if (!st && (bad || r < a->n_rows)) st = tinyi_rows_changed(ctx, "batch", a);
        if (!st) numbers += most + 1;
    }
    if (!st) return tinyi_edge_list_rows(ctx, &l, nodes, nodes, TINY_DUPLICATES_KEEP, out);
    tinyi_edge_list_free(ctx, &l);
    return st;
}

/* ---- synthetic graphs */

TINY_API tiny_status tgnn_planted(tiny_ctx *ctx, tiny_idx n, int k, double degree, double inside, uint64_t seed,
                                  tgnn_graph **out)
{
    tinyi_edge_list l;
    tgnn_graph_desc d;
    tgnn_edges e;
    tiny_rng rng = tiny_rng_make(seed, 0x706c616eu);
    int64_t i, m;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "planted: the output pointer is missing");
    if (n < 0 || (uint64_t)n > 0x7fffffffu || k < 1 || k > n || !(degree >= 0.0) || degree > (double)n ||
        !(inside >= 0.0 && inside <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "planted: %td nodes in %d classes, %g edges a node, %g of them inside",
                          n, k, degree, inside);
    m = (int64_t)((double)n * degree / 2.0);
    st = tinyi_edge_list_take(ctx, &l, m, 0);
    if (st) return st;
    for (i = 0; i < m; i++) {
        uint32_t a = tiny_rng_below(&rng, (uint32_t)n), b, c = a % (uint32_t)k;
        if (tiny_rng_uniform64(&rng) >= inside) c = tiny_rng_below(&rng, (uint32_t)k);
        b = tiny_rng_below(&rng, ((uint32_t)n - 1 - c) / (uint32_t)k + 1) * (uint32_t)k + c;
        if (a != b) tinyi_edge_put(&l, (int32_t)a, (int32_t)b, 1.0f, i);
    }
    memset(&e, 0, sizeof e);
    memset(&d, 0, sizeof d);
    e.n_src = e.n_dst = n;
    e.n = l.n;
    e.src = l.src;
    e.dst = l.dst;
    d.symmetrize = 1;
    d.duplicates = TINY_DUPLICATES_FIRST;
    st = tgnn_graph_make(ctx, &e, &d, out);
    tinyi_edge_list_free(ctx, &l);
    return st;
}

TINY_API tiny_status tgnn_rmat(tiny_ctx *ctx, int scale, int64_t n_edges, uint64_t seed, tgnn_graph **out)
{
    tinyi_edge_list l;
    tgnn_edges e;
    tiny_rng rng = tiny_rng_make(seed, 0x726d6174u), shuffle = tiny_rng_make(seed, 0x73687566u);
    uint32_t *name, n;
    int64_t i;
    int level;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "rmat: the output pointer is missing");
    if (scale < 0 || scale > 30 || n_edges < 0 || (uint64_t)n_edges > (uint64_t)TINY_IDX_MAX / 64)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rmat: 2^%d nodes and %lld edges; the scale is 0 to 30", scale,
                          (long long)n_edges);
    n = (uint32_t)1 << scale;
    name = (uint32_t *)tinyi_alloc(ctx, n, sizeof *name);
    if (!name) return tiny_ctx_status(ctx);
    tiny_rng_permutation(&shuffle, name, n);
    st = tinyi_edge_list_take(ctx, &l, n_edges, 0);
    for (i = 0; !st && i < n_edges; i++) {
        uint32_t s = 0, t = 0;
        for (level = 0; level < scale; level++) {
            uint32_t u = tiny_rng_u32(&rng);
            /* upper half: where to go; lower half: the noise, up to 10% to either side */
            double where = (double)(u >> 16) / 65536.0, noise = 0.9 + 0.2 * (double)(u & 0xffff) / 65536.0;
            double a = 0.57 * noise, b = 0.19 * (2.0 - noise), sum = a + b + b + 0.05 * noise;
            where *= sum;
            s *= 2;
            t *= 2;
            if (where < a) continue;
            if (where < a + b) t++;
            else if (where < a + b + b) s++;
            else {
                s++;
                t++;
            }
        }
        tinyi_edge_put(&l, (int32_t)name[s], (int32_t)name[t], 1.0f, i);
    }
    if (!st) {
        memset(&e, 0, sizeof e);
        e.n_src = e.n_dst = (tiny_idx)n;
        e.n = l.n;
        e.src = l.src;
        e.dst = l.dst;
        st = tgnn_graph_make(ctx, &e, NULL, out);
        tinyi_edge_list_free(ctx, &l);
    }
    tiny_free(ctx, name);
    return st;
}
