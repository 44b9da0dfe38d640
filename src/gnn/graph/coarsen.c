/* src/gnn/graph/coarsen.c - heavy-edge matching, and the smaller graph that it gives
 *
 * Paper    G. Karypis, V. Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs", 1998,
 *          section 3.1; pairs without a common edge (two-hop) after D. LaSalle et al., "Improving Graph Partitioning
 *          for Modern Graphs and Architectures", 2015.
 * Method   Nodes are visited in random order, those with few edges first. Each is matched with its unmatched neighbour
 *          of heaviest edge; of several, with the lightest node. If more than a tenth of the nodes stay unmatched
 *          (stars, isolated nodes), unmatched nodes of up to three edges with the same heaviest neighbour become pairs.
 *          Pairs are numbered in the order of their first node. A row of the smaller graph merges the rows of its pair,
 *          with a table of the columns seen. One thread makes a row as a whole, so the result does not depend on the
 *          number of threads.
 * Cost     linear in nodes and edges; the table costs one cache line for each edge. */
#include <string.h>
#include "gnn/graph/coarsen_inside.h"
#include "math/layout.h"

#define TINYI_LEVEL_TABLE 4096              /* columns of a row are looked up in so many places while they are few */

TINYI_FN void tinyi_level_free(tiny_ctx *ctx, tinyi_level *l)
{
    tiny_free(ctx, l->offset);
    tiny_free(ctx, l->col);
    tiny_free(ctx, l->weight);
    tiny_free(ctx, l->node_weight);
    tiny_free(ctx, l->up);
    memset(l, 0, sizeof *l);
}

static int32_t tinyi_level_add(int32_t a, int32_t b) { return a > 0x7fffffff - b ? 0x7fffffff : a + b; }

/* ---- from a graph */

typedef struct tinyi_level_job {
    const tgnn_graph *g;
    tinyi_level *l;
    double scale;
    int fill;
    tiny_idx outside;
} tinyi_level_job;

TINY_REF_BEGIN                              /* no fma: the same weights everywhere */
static int32_t tinyi_level_weight(const tinyi_level_job *job, const tiny_sparse *a, int64_t p)
{
    double w;
    if (job->scale == 0.0) return 1;
    w = (double)a->value[p] * job->scale;   /* a file may change: anything may stand here */
    return w > 0.0 ? w < 1.0 ? 1 : w < 1048576.0 ? (int32_t)(w + 0.5) : 1048576 : 0;
}
TINY_REF_END

/* the rows of v in both directions ascend: they are merged; counts into offset[v + 1], or fills */
static void tinyi_level_rows_team(tiny_team *team, void *arg)
{
    tinyi_level_job *job = (tinyi_level_job *)arg;
    const tiny_sparse *a = &job->g->in, *b = &job->g->out;
    const tinyi_level *l = job->l;
    tiny_idx v, v1;
    while (tiny_take(team, l->n, 256, &v, &v1))
        for (; v < v1; v++) {
            int64_t p, p1, q, q1, at = job->fill ? l->offset[v] : 0;
            const int64_t room = job->fill ? l->offset[v + 1] : INT64_MAX;
            int32_t last = -1;
            tinyi_row_range(a, v, &p, &p1);
            tinyi_row_range(b, v, &q, &q1);
            while (p < p1 || q < q1) {
                const int from_a = q == q1 || (p < p1 && a->col[p] <= b->col[q]);
                const int32_t u = from_a ? a->col[p] : b->col[q];
                const int32_t w = !job->fill ? 0
                                  : from_a   ? tinyi_level_weight(job, a, p)
                                             : tinyi_level_weight(job, b, q);
                if (from_a) p++;
                else q++;
                if ((uint32_t)u >= (uint32_t)l->n) {
                    tinyi_atomic_set(&job->outside, v + 1);
                    continue;
                }
                if (u == v) continue;
                if (u == last) {
                    if (job->fill) l->weight[at - 1] = tinyi_level_add(l->weight[at - 1], w);
                    continue;
                }
                if (at >= room) break;
                if (job->fill) {
                    l->col[at] = u;
                    l->weight[at] = w;
                }
                at++;
                last = u;
            }
            if (!job->fill) l->offset[v + 1] = at;
            else
                for (; at < room; at++) {   /* the file changed under us */
                    l->col[at] = (int32_t)v;
                    l->weight[at] = 0;
                }
        }
}

TINYI_FN tiny_status tinyi_level_make(tiny_ctx *ctx, tgnn_graph *g, const int32_t *node_weight, int edge_weights,
                                      tinyi_level *l)
{
    const tiny_sparse *unused;
    tinyi_level_job job;
    tiny_idx v;
    int64_t p, total = 0;
    float most = 0.0f;
    tiny_status st = tgnn_graph_out(ctx, g, &unused);
    memset(l, 0, sizeof *l);
    if (st) return st;
    job.g = g;
    job.l = l;
    job.scale = 0.0;
    job.outside = 0;
    if (edge_weights && g->in.value) {
        for (p = 0; p < g->in.n; p++) {
            const float w = g->in.value[p];
            if (!(w >= 0.0f) || w - w != 0.0f)
                return tinyi_fail(ctx, TINY_E_NUMERIC,
                                  "partition: edge %lld weighs %g, weights must be finite and not negative",
                                  (long long)p, (double)w);
            most = TINYI_MAX(most, w);
        }
        job.scale = most > 0.0f ? 1048576.0 / (double)most : 1.0;
    }
    l->n = g->in.n_rows;
    l->offset = (int64_t *)tinyi_alloc(ctx, (size_t)l->n + 1, sizeof *l->offset);
    l->node_weight = (int32_t *)tinyi_alloc(ctx, (size_t)l->n, sizeof *l->node_weight);
    if (!l->offset || !l->node_weight) st = tiny_ctx_status(ctx);
    if (!st) {
        l->offset[0] = 0;
        job.fill = 0;
        st = tiny_parallel(ctx, 0, 0, 0, tinyi_level_rows_team, &job);
    }
    for (v = 0; !st && v < l->n; v++) {
        l->offset[v + 1] += l->offset[v];
        l->node_weight[v] = node_weight ? node_weight[v] : 1;
        l->heaviest = TINYI_MAX(l->heaviest, l->node_weight[v]);
        total += l->node_weight[v];
        if (l->node_weight[v] < 0)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT,
                            "partition: node %td weighs %ld, below 0", v, (long)l->node_weight[v]);
    }
    if (!st && total > 0x7fffffff)
        st = tinyi_fail(ctx, TINY_E_OVERFLOW,
                        "partition: the nodes weigh %lld, together they may weigh at most 2147483647",
                        (long long)total);
    if (!st) {
        l->col = (int32_t *)tinyi_alloc(ctx, (size_t)l->offset[l->n], sizeof *l->col);
        l->weight = (int32_t *)tinyi_alloc(ctx, (size_t)l->offset[l->n], sizeof *l->weight);
        if (!l->col || !l->weight) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        job.fill = 1;
        st = tiny_parallel(ctx, 0, 0, 0, tinyi_level_rows_team, &job);
    }
    if (!st && job.outside)
        st = tinyi_fail(ctx, TINY_E_FORMAT, "partition: an edge of node %td leads to a node that does not exist",
                        job.outside - 1);
    if (st) tinyi_level_free(ctx, l);
    return st;
}

/* ---- matching */

#define TINYI_MATCH_CLASSES 64
#define TINYI_TWO_HOP_DEGREE 3

/* a random order, nodes of few edges first */
static void tinyi_match_order(const tinyi_level *l, uint64_t seed, uint32_t *order, uint32_t *scratch)
{
    tiny_rng rng = tiny_rng_make(seed, 0x6d617463u + ((uint64_t)l->n << 32));
    tiny_idx at[TINYI_MATCH_CLASSES + 1], v;
    int64_t mean = l->n ? l->offset[l->n] / l->n : 0, step = mean / 32 + 1, d;
    int c;
    tiny_rng_permutation(&rng, scratch, (uint32_t)l->n);
    for (c = 0; c <= TINYI_MATCH_CLASSES; c++) at[c] = 0;
    for (v = 0; v < l->n; v++) {
        d = (l->offset[v + 1] - l->offset[v]) / step;
        at[TINYI_MIN(d, TINYI_MATCH_CLASSES - 1) + 1]++;
    }
    for (c = 0; c < TINYI_MATCH_CLASSES; c++) at[c + 1] += at[c];
    for (v = 0; v < l->n; v++) {
        const uint32_t u = scratch[v];
        d = (l->offset[u + 1] - l->offset[u]) / step;
        order[at[TINYI_MIN(d, TINYI_MATCH_CLASSES - 1)]++] = u;
    }
}

static void tinyi_match_heavy(const tinyi_level *l, int64_t most, const uint32_t *order, int32_t *match)
{
    tiny_idx i;
    int64_t p;
    for (i = 0; i < l->n; i++) match[i] = -1;
    for (i = 0; i < l->n; i++) {
        const int32_t v = (int32_t)order[i];
        int32_t best = -1, heavy = 0;
        if (i + 16 < l->n) TINYI_PREFETCH(l->offset + order[i + 16]);
        if (i + 8 < l->n) {
            TINYI_PREFETCH(l->col + l->offset[order[i + 8]]);
            TINYI_PREFETCH(l->weight + l->offset[order[i + 8]]);
        }
        if (match[v] >= 0) continue;
        for (p = l->offset[v]; p < l->offset[v + 1]; p++) {
            const int32_t u = l->col[p], w = l->weight[p];
            if (w < heavy || match[u] >= 0 || u == v || (int64_t)l->node_weight[v] + l->node_weight[u] > most) continue;
            if (w == heavy && best >= 0 && l->node_weight[u] >= l->node_weight[best]) continue;
            best = u;
            heavy = w;
        }
        if (best < 0) continue;
        match[v] = best;
        match[best] = v;
    }
}

/* nodes that stayed alone, by their heaviest neighbour (n: none); seat has n + 1 places */
static void tinyi_match_two_hop(const tinyi_level *l, int64_t most, int32_t *match, int32_t *seat)
{
    tiny_idx v;
    int64_t p;
    for (v = 0; v <= l->n; v++) seat[v] = -1;
    for (v = 0; v < l->n; v++) {
        tiny_idx by = l->n;
        int32_t heavy = 0, other;
        if (match[v] >= 0 || l->offset[v + 1] - l->offset[v] > TINYI_TWO_HOP_DEGREE) continue;
        for (p = l->offset[v]; p < l->offset[v + 1]; p++)
            if (l->weight[p] > heavy) {
                heavy = l->weight[p];
                by = l->col[p];
            }
        other = seat[by];
        if (other < 0 || (int64_t)l->node_weight[v] + l->node_weight[other] > most) {
            seat[by] = (int32_t)v;
            continue;
        }
        match[v] = other;
        match[other] = (int32_t)v;
        seat[by] = -1;
    }
}

/* ---- the smaller graph */

typedef struct tinyi_shrink {
    const tinyi_level *fine;
    tinyi_level *coarse;
    const int32_t *match;
    int32_t *first;                         /* of each pair */
    int64_t *bound;                         /* n + 1: where its row begins while its length is not known */
    int32_t *col, *weight;
    uint32_t mask;                          /* of the large table */
    int plain;
} tinyi_shrink;

/* plainly: each edge of the pair is looked for in the row so far */
static int64_t tinyi_shrink_row_ref(const tinyi_shrink *s, int32_t c, int32_t v, int64_t at)
{
    int64_t p, q;
    for (p = s->fine->offset[v]; p < s->fine->offset[v + 1]; p++) {
        const int32_t u = s->fine->up[s->fine->col[p]];
        if (u == c) continue;
        for (q = s->bound[c]; q < at && s->col[q] != u; q++) {}
        if (q == at) {
            s->col[at] = u;
            s->weight[at++] = s->fine->weight[p];
        } else s->weight[q] = tinyi_level_add(s->weight[q], s->fine->weight[p]);
    }
    return at;
}

/* the same with a table: place of a column in the row, plus 1; 0: free */
static int64_t tinyi_shrink_row(const tinyi_shrink *s, int32_t c, int32_t v, int64_t at, int32_t *table, uint32_t mask)
{
    const int64_t begin = s->bound[c];
    int64_t p;
    for (p = s->fine->offset[v]; p < s->fine->offset[v + 1]; p++) {
        const int32_t u = s->fine->up[s->fine->col[p]];
        uint32_t t = (uint32_t)u & mask;
        if (u == c) continue;
        while (table[t] && s->col[begin + table[t] - 1] != u) t = (t + 1) & mask;
        if (!table[t]) {
            s->col[at] = u;
            s->weight[at++] = s->fine->weight[p];
            table[t] = (int32_t)(at - begin);
        } else s->weight[begin + table[t] - 1] = tinyi_level_add(s->weight[begin + table[t] - 1], s->fine->weight[p]);
    }
    return at;
}

static void tinyi_shrink_team(tiny_team *team, void *arg)
{
    tinyi_shrink *s = (tinyi_shrink *)arg;
    const tinyi_level *fine = s->fine;
    int32_t *table = (int32_t *)team->own;
    tiny_idx c, c1;
    int64_t p;
    if (!s->plain) memset(table, 0, ((size_t)s->mask + 1) * sizeof *table);
    while (tiny_take(team, s->coarse->n, 256, &c, &c1))
        for (; c < c1; c++) {
            const int32_t v = s->first[c], u = s->match[v];
            const int64_t begin = s->bound[c], room = s->bound[c + 1] - begin;
            const uint32_t mask = room <= TINYI_LEVEL_TABLE / 2 ? TINYI_LEVEL_TABLE - 1 : s->mask;
            int64_t at = begin;
            if (s->plain) {
                at = tinyi_shrink_row_ref(s, (int32_t)c, v, at);
                if (u >= 0) at = tinyi_shrink_row_ref(s, (int32_t)c, u, at);
            } else {
                at = tinyi_shrink_row(s, (int32_t)c, v, at, table, mask);
                if (u >= 0) at = tinyi_shrink_row(s, (int32_t)c, u, at, table, mask);
                /* backwards: what was pushed along goes before what it ran into */
                for (p = at - 1; p >= begin; p--) {
                    uint32_t t = (uint32_t)s->col[p] & mask;
                    while (table[t] != (int32_t)(p - begin + 1)) t = (t + 1) & mask;
                    table[t] = 0;
                }
            }
            s->coarse->offset[c + 1] = at - begin;
            s->coarse->node_weight[c] = fine->node_weight[v] + (u >= 0 ? fine->node_weight[u] : 0);
        }
}

static void tinyi_shrink_close_up_team(tiny_team *team, void *arg)
{
    const tinyi_shrink *s = (const tinyi_shrink *)arg;
    tiny_idx c, c1;
    while (tiny_take(team, s->coarse->n, 1024, &c, &c1))
        for (; c < c1; c++) {
            const size_t bytes = (size_t)(s->coarse->offset[c + 1] - s->coarse->offset[c]) * sizeof(int32_t);
            if (!bytes) continue;
            memcpy(s->coarse->col + s->coarse->offset[c], s->col + s->bound[c], bytes);
            memcpy(s->coarse->weight + s->coarse->offset[c], s->weight + s->bound[c], bytes);
        }
}

static void tinyi_shrink_free(tiny_ctx *ctx, tinyi_shrink *s)
{
    tiny_free(ctx, s->first);
    tiny_free(ctx, s->bound);
    tiny_free(ctx, s->col);
    tiny_free(ctx, s->weight);
}

static tiny_status tinyi_shrink_build(tiny_ctx *ctx, tinyi_level *fine, const int32_t *match, tinyi_level *coarse)
{
    tinyi_shrink s;
    tiny_idx v, c = 0;
    size_t table;
    tiny_status st = TINY_OK;
    memset(&s, 0, sizeof s);
    for (v = 0; v < fine->n; v++)
        if (match[v] < 0 || v < match[v]) c++;
    coarse->n = c;
    s.fine = fine;
    s.coarse = coarse;
    s.match = match;
    s.plain = tiny_ctx_target(ctx) == TINY_TARGET_REFERENCE;
    fine->up = (int32_t *)tinyi_alloc(ctx, (size_t)fine->n, sizeof *fine->up);
    s.first = (int32_t *)tinyi_alloc(ctx, (size_t)c, sizeof *s.first);
    s.bound = (int64_t *)tinyi_alloc(ctx, (size_t)c + 1, sizeof *s.bound);
    s.col = (int32_t *)tinyi_alloc(ctx, (size_t)fine->offset[fine->n], sizeof *s.col);
    s.weight = (int32_t *)tinyi_alloc(ctx, (size_t)fine->offset[fine->n], sizeof *s.weight);
    coarse->offset = (int64_t *)tinyi_alloc(ctx, (size_t)c + 1, sizeof *coarse->offset);
    coarse->node_weight = (int32_t *)tinyi_alloc(ctx, (size_t)c, sizeof *coarse->node_weight);
    if (!fine->up || !s.first || !s.bound || !s.col || !s.weight || !coarse->offset || !coarse->node_weight)
        st = tiny_ctx_status(ctx);
    if (!st) {
        c = 0;
        s.bound[0] = 0;
        for (v = 0; v < fine->n; v++) {
            if (match[v] >= 0 && match[v] < v) continue;
            s.first[c] = (int32_t)v;
            s.bound[c + 1] = s.bound[c] + fine->offset[v + 1] - fine->offset[v];
            fine->up[v] = (int32_t)c;
            if (match[v] >= 0) {
                s.bound[c + 1] += fine->offset[match[v] + 1] - fine->offset[match[v]];
                fine->up[match[v]] = (int32_t)c;
            }
            c++;
        }
        for (table = TINYI_LEVEL_TABLE; table < (size_t)c; table *= 2) {}
        s.mask = (uint32_t)(table - 1);
        coarse->offset[0] = 0;
        st = tiny_parallel(ctx, s.plain ? 1 : 0, 0, s.plain ? 0 : table * sizeof(int32_t), tinyi_shrink_team, &s);
    }
    for (c = 0; !st && c < coarse->n; c++) {
        coarse->offset[c + 1] += coarse->offset[c];
        coarse->heaviest = TINYI_MAX(coarse->heaviest, coarse->node_weight[c]);
    }
    if (!st) {
        coarse->col = (int32_t *)tinyi_alloc(ctx, (size_t)coarse->offset[coarse->n], sizeof *coarse->col);
        coarse->weight = (int32_t *)tinyi_alloc(ctx, (size_t)coarse->offset[coarse->n], sizeof *coarse->weight);
        st = coarse->col && coarse->weight ? tiny_parallel(ctx, 0, 0, 0, tinyi_shrink_close_up_team, &s)
                                           : tiny_ctx_status(ctx);
    }
    tinyi_shrink_free(ctx, &s);
    return st;
}

TINYI_FN tiny_status tinyi_level_shrink(tiny_ctx *ctx, tinyi_level *fine, int64_t most, uint64_t seed,
                                        tinyi_level *coarse)
{
    uint32_t *order = (uint32_t *)tinyi_alloc(ctx, (size_t)fine->n, sizeof *order);
    int32_t *match = (int32_t *)tinyi_alloc(ctx, (size_t)fine->n, sizeof *match),
            *seat = (int32_t *)tinyi_alloc(ctx, (size_t)fine->n + 1, sizeof *seat);
    tiny_idx v, alone = 0;
    tiny_status st = order && match && seat ? TINY_OK : tiny_ctx_status(ctx);
    memset(coarse, 0, sizeof *coarse);
    if (!st) {
        tinyi_match_order(fine, seed, order, (uint32_t *)seat);
        tinyi_match_heavy(fine, most, order, match);
        for (v = 0; v < fine->n; v++) alone += match[v] < 0;
        if (alone > fine->n / 10) tinyi_match_two_hop(fine, most, match, seat);
        tiny_free(ctx, order);
        tiny_free(ctx, seat);
        order = NULL;
        seat = NULL;
        st = tinyi_shrink_build(ctx, fine, match, coarse);
    }
    tiny_free(ctx, order);
    tiny_free(ctx, match);
    tiny_free(ctx, seat);
    if (st) {
        tinyi_level_free(ctx, coarse);
        tiny_free(ctx, fine->up);
        fine->up = NULL;
    }
    return st;
}
