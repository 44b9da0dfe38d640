/* src/gnn/graph/halo.c - halo lists, and the graphs of the parts
 *
 * Method   Nodes are visited in order of their numbers. Each part that a node has edges into is noted once. One walk
 *          counts, a second one writes, so all lists ascend without a sort. The halo of t is the union of send(u, t)
 *          over u.
 * Cost     each edge is read twice; memory: 4 bytes for each entry, and 8 k^2. */
#include <string.h>
#include "gnn/graph/halo.h"
#include "gnn/graph/graph_inside.h"

TINY_API void tgnn_halo_free(tiny_ctx *ctx, tgnn_halo *h)
{
    if (!h) return;
    tiny_free(ctx, h->own_at);
    tiny_free(ctx, h->own);
    tiny_free(ctx, h->halo_at);
    tiny_free(ctx, h->halo);
    tiny_free(ctx, h->send_at);
    tiny_free(ctx, h->send);
    memset(h, 0, sizeof *h);
}

/* Counts become places: at[i] is where list i - 1 goes on (i > 0), so that after the writing at[i] is where list i
 * begins. */
static void tinyi_halo_prefix(int64_t *at, size_t n)
{
    int64_t sum = 0, x;
    size_t i;
    for (i = 1; i <= n; i++) {
        x = at[i];
        at[i] = sum;
        sum += x;
    }
}

static void tinyi_halo_pass(const tgnn_graph *g, const int32_t *part, tgnn_halo *h, int32_t *seen, int write)
{
    const tiny_sparse *out = &g->out;
    tiny_idx v;
    int64_t p, p1;
    int t;
    for (t = 0; t < h->k; t++) seen[t] = -1;
    for (v = 0; v < h->n; v++) {
        const int32_t mine = part[v];
        if (write) h->own[h->own_at[mine + 1]++] = (int32_t)v;
        else h->own_at[mine + 1]++;
        for (tinyi_row_range(out, v, &p, &p1); p < p1; p++) {
            const int32_t to = part[out->col[p]];
            const size_t pair = (size_t)mine * (size_t)h->k + (size_t)to;
            if (to == mine || seen[to] == (int32_t)v) continue;
            seen[to] = (int32_t)v;
            if (write) {
                h->halo[h->halo_at[to + 1]] = (int32_t)v;
                h->send[h->send_at[pair + 1]] = (int32_t)v;
            }
            h->halo_at[to + 1]++;
            h->send_at[pair + 1]++;
        }
    }
}

TINY_API tiny_status tgnn_halo_make(tiny_ctx *ctx, tgnn_graph *g, int k, const int32_t *part, tgnn_halo *out)
{
    const tiny_sparse *unused;
    int32_t *seen;
    size_t pairs;
    tiny_idx v;
    int64_t p, n_halo;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (out) memset(out, 0, sizeof *out);
    if (!g || !part || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "halo: the graph, the parts or the output pointer is missing");
    if (g->in.n_rows != g->in.n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE, "halo: %td sources and %td destinations: the graph must not be bipartite",
                          g->in.n_cols, g->in.n_rows);
    if (k < 1 || k > TGNN_HALO_PARTS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "halo: %d parts, there must be 1 to %d", k, TGNN_HALO_PARTS);
    for (v = 0; v < g->in.n_rows; v++)
        if (part[v] < 0 || part[v] >= k)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "halo: node %td is in part %ld of %d", v, (long)part[v], k);
    st = tgnn_graph_out(ctx, g, &unused);
    if (st) return st;
    out->k = k;
    out->n = g->in.n_rows;
    pairs = (size_t)k * (size_t)k;
    seen = (int32_t *)tinyi_alloc(ctx, (size_t)k, sizeof *seen);
    out->own_at = (int64_t *)tinyi_alloc(ctx, (size_t)k + 1, sizeof *out->own_at);
    out->own = (int32_t *)tinyi_alloc(ctx, (size_t)out->n, sizeof *out->own);
    out->halo_at = (int64_t *)tinyi_alloc(ctx, (size_t)k + 1, sizeof *out->halo_at);
    out->send_at = (int64_t *)tinyi_alloc(ctx, pairs + 1, sizeof *out->send_at);
    if (!seen || !out->own_at || !out->own || !out->halo_at || !out->send_at) st = tiny_ctx_status(ctx);
    if (!st) {
        memset(out->own_at, 0, ((size_t)k + 1) * sizeof *out->own_at);
        memset(out->halo_at, 0, ((size_t)k + 1) * sizeof *out->halo_at);
        memset(out->send_at, 0, (pairs + 1) * sizeof *out->send_at);
        tinyi_halo_pass(g, part, out, seen, 0);
        for (n_halo = 0, p = 1; p <= k; p++) n_halo += out->halo_at[p];
        tinyi_halo_prefix(out->own_at, (size_t)k);
        tinyi_halo_prefix(out->halo_at, (size_t)k);
        tinyi_halo_prefix(out->send_at, pairs);
        out->halo = (int32_t *)tinyi_alloc(ctx, (size_t)n_halo, sizeof *out->halo);
        out->send = (int32_t *)tinyi_alloc(ctx, (size_t)n_halo, sizeof *out->send);
        if (!out->halo || !out->send) st = tiny_ctx_status(ctx);
        else tinyi_halo_pass(g, part, out, seen, 1);
    }
    tiny_free(ctx, seen);
    if (st) tgnn_halo_free(ctx, out);
    return st;
}

TINY_API tiny_status tgnn_halo_graph(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_halo *h, int t, tgnn_graph **out)
{
    const tiny_sparse *a;
    tiny_sparse coo;
    int32_t *place = NULL;
    tiny_idx i, n_own, n_halo;
    int64_t p, p1, m = 0, at = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!g || !h || !out || h->n != g->in.n_rows)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "halo: the graph or the output pointer is missing, or the lists belong to another graph");
    if (t < 0 || t >= h->k) return tinyi_fail(ctx, TINY_E_ARGUMENT, "halo: part %d of %d", t, h->k);
    a = &g->in;
    n_own = (tiny_idx)(h->own_at[t + 1] - h->own_at[t]);
    n_halo = (tiny_idx)(h->halo_at[t + 1] - h->halo_at[t]);
    for (i = 0; i < n_own; i++) {
        tinyi_row_range(a, h->own[h->own_at[t] + i], &p, &p1);
        m += p1 - p;
    }
    memset(&coo, 0, sizeof coo);
    coo.form = TINY_COO;
    coo.owned = 1;
    coo.n_rows = n_own;
    coo.n_cols = n_own + n_halo;
    coo.n = m;
    coo.row = (int32_t *)tinyi_alloc(ctx, (size_t)m, sizeof *coo.row);
    coo.col = (int32_t *)tinyi_alloc(ctx, (size_t)m, sizeof *coo.col);
    coo.source = (int64_t *)tinyi_alloc(ctx, (size_t)m, sizeof *coo.source);
    if (a->value) coo.value = (float *)tinyi_alloc(ctx, (size_t)m, sizeof *coo.value);
    place = (int32_t *)tinyi_alloc(ctx, (size_t)h->n, sizeof *place);
    if (!coo.row || !coo.col || !coo.source || (a->value && !coo.value) || !place) st = tiny_ctx_status(ctx);
    for (i = 0; !st && i < h->n; i++) place[i] = -1;
    for (i = 0; !st && i < n_own; i++) place[h->own[h->own_at[t] + i]] = (int32_t)i;
    for (i = 0; !st && i < n_halo; i++) place[h->halo[h->halo_at[t] + i]] = (int32_t)(n_own + i);
    for (i = 0; !st && i < n_own; i++) {
        tinyi_row_range(a, h->own[h->own_at[t] + i], &p, &p1);
        for (; p < p1 && at < m; p++, at++) {
            coo.row[at] = (int32_t)i;
            coo.col[at] = (uint64_t)a->col[p] < (uint64_t)h->n ? place[a->col[p]] : -1;
            coo.source[at] = a->source ? a->source[p] : p;
            if (a->value) coo.value[at] = a->value[p];
        }
    }
    coo.n = at;
    if (!st) {
        int64_t *number = coo.source;
        coo.source = NULL;                  /* the conversion tells places in coo, and they have the numbers */
        st = tgnn_graph_from_sparse(ctx, &coo, out);
        coo.source = number;
        for (p = 0; !st && p < (*out)->in.n; p++) (*out)->in.source[p] = number[(*out)->in.source[p]];
    }
    tiny_free(ctx, place);
    tiny_sparse_free(ctx, &coo);
    return st;
}
