/* src/gnn/graph/community.c - label propagation, and orders from labels
 *
 * Paper    U. Raghavan, R. Albert, S. Kumara, "Near linear time algorithm to detect community structures in large-scale
 *          networks", 2007; the size limit of a community is from H. Meyerhenke, P. Sanders, C. Schulz, "Partitioning
 *          Complex Networks via Size-constrained Clustering", 2014.
 * Method   Labels of the sources of a row are counted in a small table. A group of nodes writes its new labels to a
 *          second array. When the whole group is done, they replace the old ones and the sizes of communities are
 *          updated. Between equally frequent labels the smallest hash of (label, round, seed) decides.
 * Cost     each edge is read once a round. Memory: 8 bytes for each node and 8 for each label.
 * Left out edge weights: every edge counts 1. */
#include <string.h>
#include "gnn/graph/community.h"
#include "gnn/graph/graph_inside.h"
#include "math/layout.h"

enum { TINYI_LABEL_GROUPS = 8, TINYI_LABEL_RUN = 64 };

typedef struct tinyi_labels {
    const tiny_sparse *a;
    int32_t *label, *fresh;
    tiny_idx *size;                         /* of the community of each label */
    tiny_idx most, changed;
    uint64_t salt;
    int group;
    size_t table;                           /* places of the largest table: a power of two */
    int plain;
} tinyi_labels;

typedef struct tinyi_label_count { int32_t label, count; } tinyi_label_count;  /* count 0: free */

static uint32_t tinyi_label_hash(uint64_t salt, int32_t label)
{
    uint64_t z = (salt ^ (uint64_t)(uint32_t)label) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(z >> 32);
}

/* whether label b, seen nb times, goes before a, seen na times; own is the node's label */
static int tinyi_label_before(const tinyi_labels *s, int32_t own, int32_t b, int32_t nb, int32_t a, int32_t na)
{
    uint32_t hb, ha;
    if (nb != na) return nb > na;
    if (a == own || b == own) return b == own && a != own;
    hb = tinyi_label_hash(s->salt, b);
    ha = tinyi_label_hash(s->salt, a);
    return hb < ha || (hb == ha && b < a);
}

/* Two nodes that are alone would swap their labels for ever: only the one with the larger label moves (H. Lu, M.
 * Halappanavar, A. Kalyanaraman, "Parallel heuristics for scalable community detection", 2015). */
static int tinyi_label_open(const tinyi_labels *s, int32_t own, int32_t label)
{
    if (label == own) return 1;
    return s->size[label] < s->most && !(label > own && s->size[label] == 1 && s->size[own] == 1);
}

/* the label of the source of edge p; 0: the node itself, or, in a mapped file that has changed, none at all */
static int tinyi_label_of(const tinyi_labels *s, int32_t v, int64_t p, int32_t *label)
{
    const int32_t u = s->a->col[p];
    if (u == v || (uint64_t)u >= (uint64_t)s->a->n_rows) return 0;
    *label = s->label[u];
    return 1;
}

/* the formula: for each edge its label is counted over the whole row */
static int32_t tinyi_label_ref(const tinyi_labels *s, int32_t v, int64_t p0, int64_t p1)
{
    int32_t best = s->label[v], n_best = 0, b, other;
    int64_t p, q;
    for (p = p0; p < p1; p++) {
        int32_t n = 0;
        if (!tinyi_label_of(s, v, p, &b)) continue;
        for (q = p0; q < p1; q++) n += tinyi_label_of(s, v, q, &other) && other == b;
        if (tinyi_label_open(s, s->label[v], b) && tinyi_label_before(s, s->label[v], b, n, best, n_best)) {
            best = b;
            n_best = n;
        }
    }
    return best;
}

static int32_t tinyi_label_fast(const tinyi_labels *s, int32_t v, int64_t p0, int64_t p1, tinyi_label_count *table)
{
    const int32_t own = s->label[v];
    int32_t best = own, n_best = 0;
    uint32_t mask = 63;
    int64_t p;
    while ((int64_t)mask < 2 * (p1 - p0)) mask = mask * 2 + 1;
    for (p = p0; p < p1; p++) {
        int32_t b;
        uint32_t t;
        if (p + 24 < s->a->n) TINYI_PREFETCH(s->label + s->a->col[p + 24]);
        if (!tinyi_label_of(s, v, p, &b)) continue;
        t = ((uint32_t)b * 0x9e3779b1u >> 7) & mask;
        while (table[t].count && table[t].label != b) t = (t + 1) & mask;
        table[t].label = b;
        table[t].count++;
        /* the count only grows: the last look at a label sees it whole */
        if (table[t].count >= n_best && b != best && tinyi_label_before(s, own, b, table[t].count, best, n_best) &&
            tinyi_label_open(s, own, b)) {
            best = b;
            n_best = table[t].count;
        } else if (b == best) n_best = TINYI_MAX(n_best, table[t].count);
    }
    memset(table, 0, ((size_t)mask + 1) * sizeof *table);
    return best;
}

static void tinyi_label_team(tiny_team *team, void *arg)
{
    tinyi_labels *s = (tinyi_labels *)arg;
    const tiny_idx n = s->a->n_rows, runs = (n + TINYI_LABEL_RUN - 1) / TINYI_LABEL_RUN,
                   mine = (runs + TINYI_LABEL_GROUPS - 1 - s->group) / TINYI_LABEL_GROUPS;
    tinyi_label_count *table = (tinyi_label_count *)team->own;
    tiny_idx r, r1, v, v1, changed = 0;
    int64_t p, p1;
    if (!s->plain) memset(table, 0, s->table * sizeof *table);
    while (tiny_take(team, mine, 16, &r, &r1))
        for (; r < r1; r++) {
            v = (r * TINYI_LABEL_GROUPS + s->group) * TINYI_LABEL_RUN;
            for (v1 = TINYI_MIN(v + TINYI_LABEL_RUN, n); v < v1; v++) {
                tinyi_row_range(s->a, v, &p, &p1);
                p1 = TINYI_MIN(p1, p + (int64_t)(s->table / 4));        /* always so, unless a mapped file changes */
                s->fresh[v] =
                    s->plain ? tinyi_label_ref(s, (int32_t)v, p, p1) : tinyi_label_fast(s, (int32_t)v, p, p1, table);
            }
        }
    tiny_barrier(team);
    while (tiny_take(team, mine, 16, &r, &r1))
        for (; r < r1; r++) {
            v = (r * TINYI_LABEL_GROUPS + s->group) * TINYI_LABEL_RUN;
            for (v1 = TINYI_MIN(v + TINYI_LABEL_RUN, n); v < v1; v++) {
                if (s->fresh[v] == s->label[v]) continue;
                (void)tinyi_atomic_add(&s->size[s->label[v]], -1);
                (void)tinyi_atomic_add(&s->size[s->fresh[v]], 1);
                s->label[v] = s->fresh[v];
                changed++;
            }
        }
    (void)tinyi_atomic_add(&s->changed, changed);
}

TINY_API tiny_status tgnn_communities(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_communities_desc *desc,
                                      int32_t *label, tiny_idx *n_label)
{
    static const tgnn_communities_desc none = { 0, 0, 0 };
    const tgnn_communities_desc *d = desc ? desc : &none;
    tinyi_labels s;
    tiny_idx v, n, k = 0;
    int64_t p, end, longest = 0;
    int round;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g || !label || !n_label)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "communities: the graph or an output is missing");
    if (g->in.n_rows != g->in.n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "communities: %td sources and %td destinations: the graph must not be bipartite",
                          g->in.n_cols, g->in.n_rows);
    if (d->rounds < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                         "communities: %d rounds; the number must not be negative", d->rounds);
    memset(&s, 0, sizeof s);
    s.a = &g->in;
    n = g->in.n_rows;
    *n_label = 0;
    for (p = 0; p < g->in.n; p++)
        if ((uint64_t)g->in.col[p] >= (uint64_t)n)
            return tinyi_fail(ctx, TINY_E_FORMAT, "communities: edge %lld comes from node %ld, but there are %td nodes",
                              (long long)p, (long)g->in.col[p], n);
    for (v = 0; v < n; v++) {
        tinyi_row_range(&g->in, v, &p, &end);
        longest = TINYI_MAX(longest, end - p);
    }
    if (longest > 0x3fffffff)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "communities: a node has %lld edges, the maximum is 1073741823",
                          (long long)longest);
    s.label = label;
    s.most = d->most_nodes < 0 ? TINY_IDX_MAX : d->most_nodes ? d->most_nodes : 4096;
    s.plain = tiny_ctx_target(ctx) == TINY_TARGET_REFERENCE;
    for (s.table = 64; (int64_t)s.table < 2 * longest; s.table *= 2) {}
    s.table *= 2;                           /* four times the longest row: see tinyi_label_team */
    s.fresh = (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *s.fresh);
    s.size = (tiny_idx *)tinyi_alloc(ctx, (size_t)n, sizeof *s.size);
    if (!s.fresh || !s.size) st = tiny_ctx_status(ctx);
    for (v = 0; !st && v < n; v++) {
        label[v] = (int32_t)v;
        s.size[v] = 1;
    }
    for (round = 0; !st && round < (d->rounds ? d->rounds : 6); round++) {
        s.changed = 0;
        s.salt = (d->seed + 1) * 0xd1342543de82ef95u + (uint64_t)round * 0x2545f4914f6cdd1du;
        for (s.group = 0; !st && s.group < TINYI_LABEL_GROUPS; s.group++)
            st = tiny_parallel(ctx, s.plain ? 1 : 0, 0, s.plain ? 0 : s.table * sizeof(tinyi_label_count),
                               tinyi_label_team, &s);
        if (s.changed <= n / 50) break;
        if (!st && ctx->desc.progress)
            ctx->desc.progress(ctx->desc.user, "communities",
                               (double)(round + 1) / (double)(d->rounds ? d->rounds : 6));
    }
    for (v = 0; !st && v < n; v++) s.fresh[v] = -1;
    for (v = 0; !st && v < n; v++) {        /* numbers by first node */
        if (s.fresh[label[v]] < 0) s.fresh[label[v]] = (int32_t)k++;
        label[v] = s.fresh[label[v]];
    }
    *n_label = st ? 0 : k;
    tiny_free(ctx, s.fresh);
    tiny_free(ctx, s.size);
    return st;
}

TINY_API tiny_status tgnn_order_by_part(tiny_ctx *ctx, tiny_idx n, tiny_idx k, const int32_t *part, uint32_t *order)
{
    tiny_idx *at, v, p;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (n < 0 || (uint64_t)n > 0x7fffffffu || k < 0 || (uint64_t)k > 0x7fffffffu || (n && (!part || !order)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "order: %td nodes in %td parts, or the output is missing", n, k);
    for (v = 0; v < n; v++)
        if (part[v] < 0 || part[v] >= k)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "order: node %td is in part %ld of %td", v, (long)part[v], k);
    at = (tiny_idx *)tinyi_alloc(ctx, (size_t)k + 1, sizeof *at);
    if (!at) return tiny_ctx_status(ctx);
    for (p = 0; p <= k; p++) at[p] = 0;
    for (v = 0; v < n; v++) at[part[v] + 1]++;
    for (p = 0; p < k; p++) at[p + 1] += at[p];
    for (v = 0; v < n; v++) order[at[part[v]]++] = (uint32_t)v;
    tiny_free(ctx, at);
    return TINY_OK;
}
