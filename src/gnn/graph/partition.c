/* src/gnn/graph/partition.c - multilevel and streaming partition, and the measures of a partition (cut, weights)
 *
 * Paper    G. Karypis, V. Kumar, "Multilevel k-way Partitioning Scheme for Irregular Graphs", 1998.
 * Method   The graph shrinks by heavy-edge matching until it has max(30 k, 200) nodes or loses less than a tenth
 *          (coarsen.c). The smallest graph is bisected recursively: several first halves are grown by best gain, each
 *          is refined, and the one with the smallest cut is kept. Then the parts are carried back level by level, and
 *          on each level passes of best moves between all parts refine them (refine.c). A move with a gain may take a
 *          part above the limit, in proportion to the gain: hubs can then gather in one part, and nodes that cost
 *          little to move leave it later.
 *          On the last level, nodes move until no part exceeds the limit.
 * Bound    limit = max(floor((1 + imbalance) W / k), ceil(W / k) + heaviest - 1). While a part is above the limit, the
 *          lightest part is below the mean. So it can take any node and stay within the limit: the last step always
 *          succeeds.
 * Cost     about the number of edges times the logarithm of the boundary; growing the halves: 30 k log k.
 * Left out merging of nodes with equal neighbours, contiguous parts, and several weights a node. */
#include <string.h>
#include "gnn/graph/partition.h"
#include "gnn/graph/refine_inside.h"
#include "math/layout.h"

enum { TINYI_LEVELS = 64 };

typedef struct tinyi_parts {
    tiny_ctx *ctx;
    tgnn_partition_desc d;
    tinyi_level level[TINYI_LEVELS];
    tinyi_cutter cut;
    tiny_rng rng;
    int32_t *part;                          /* of the smallest level */
    int32_t *half;                          /* two rows of its length: the halves in hand, and the best so far */
    double room;                            /* of each cut in two */
} tinyi_parts;

static tiny_status tinyi_partition_check(tiny_ctx *ctx, const tgnn_graph *g, int k, const tgnn_partition_desc *d,
                                         const int32_t *part)
{
    tiny_idx n;
    if (!g || !part) return tinyi_fail(ctx, TINY_E_ARGUMENT, "partition: the graph or the array of parts is missing");
    n = g->in.n_rows;
    if (n != g->in.n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "partition: %td sources and %td destinations: the graph must not be bipartite",
                          g->in.n_cols, n);
    if (k < 1 || ((tiny_idx)k > n && k > 1))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "partition: %td nodes in %d parts; there must be 1 to the number of nodes", n, k);
    if (!(d->imbalance >= 0.0 && d->imbalance <= 1e6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "partition: an imbalance of %g, it must be 0 to 1000000", d->imbalance);
    if (d->tries < 0 || d->passes < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "partition: %d tries and %d passes: neither may be negative", d->tries, d->passes);
    return TINY_OK;
}

/* what all nodes weigh, and the limit of k parts */
static tiny_status tinyi_partition_limit(tiny_ctx *ctx, tiny_idx n, int k, const tgnn_partition_desc *d, int64_t *total,
                                         int64_t *limit)
{
    int64_t sum = d->node_weight ? 0 : (int64_t)n, heaviest = n > 0;
    const double room = 1.0 + (d->imbalance > 0.0 ? d->imbalance : 0.03);
    tiny_idx v;
    for (v = 0; d->node_weight && v < n; v++) {
        if (d->node_weight[v] < 0)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "partition: node %td weighs %ld, below 0", v, (long)d->node_weight[v]);
        sum += d->node_weight[v];
        heaviest = TINYI_MAX(heaviest, (int64_t)d->node_weight[v]);
    }
    if (sum > 0x7fffffff)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "partition: the nodes weigh %lld, together they may weigh at most 2147483647",
                          (long long)sum);
    *total = sum;
    *limit =
        TINYI_MAX((int64_t)(room * (double)sum / (double)k), (sum + k - 1) / k + (heaviest > 0 ? heaviest - 1 : 0));
    return TINY_OK;
}

TINY_API tiny_status tgnn_partition_measure(tiny_ctx *ctx, const tgnn_graph *g, int k, const tgnn_partition_desc *desc,
                                            const int32_t *part, tgnn_partition_info *info)
{
    tgnn_partition_desc d;
    const tiny_sparse *a;
    int64_t *weight, total, p, p1;
    tiny_idx v;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    st = tinyi_partition_check(ctx, g, k, &d, part);
    if (!st && !info) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "partition: the output pointer is missing");
    if (st) return st;
    a = &g->in;
    memset(info, 0, sizeof *info);
    st = tinyi_partition_limit(ctx, a->n_rows, k, &d, &total, &info->limit);
    if (st) return st;
    weight = (int64_t *)tinyi_alloc(ctx, (size_t)k, sizeof *weight);
    if (!weight) return tiny_ctx_status(ctx);
    for (i = 0; i < k; i++) weight[i] = 0;
    for (v = 0; !st && v < a->n_rows; v++) {
        if (part[v] < 0 || part[v] >= k)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "partition: node %td is in part %ld of %d", v, (long)part[v], k);
        else weight[part[v]] += d.node_weight ? d.node_weight[v] : 1;
    }
    for (v = 0; !st && v < a->n_rows; v++)
        for (tinyi_row_range(a, v, &p, &p1); p < p1; p++) {
            if ((uint64_t)a->col[p] >= (uint64_t)a->n_rows) continue;      /* of a file that changed */
            if (part[a->col[p]] == part[v]) continue;
            info->cut_edges++;
            info->cut += d.edge_weights && a->value ? (double)a->value[p] : 1.0;
        }
    info->lightest = info->heaviest = weight[0];
    for (i = 1; i < k; i++) {
        info->lightest = TINYI_MIN(info->lightest, weight[i]);
        info->heaviest = TINYI_MAX(info->heaviest, weight[i]);
    }
    tiny_free(ctx, weight);
    return st;
}

/* ---- the smallest graph: cut in two, and its halves again */

/* the nodes of l in part `which`, and the edges between them; name: their numbers in l */
static tiny_status tinyi_parts_half(tiny_ctx *ctx, const tinyi_level *l, const int32_t *part, int32_t which,
                                    tinyi_level *h, int32_t **name)
{
    int32_t *place = (int32_t *)tinyi_alloc(ctx, (size_t)l->n, sizeof *place);
    tiny_idx v, n = 0;
    int64_t p, m = 0;
    memset(h, 0, sizeof *h);
    *name = NULL;
    if (!place) return tiny_ctx_status(ctx);
    for (v = 0; v < l->n; v++) {
        place[v] = part[v] == which ? (int32_t)n++ : -1;
        for (p = l->offset[v]; part[v] == which && p < l->offset[v + 1]; p++) m += part[l->col[p]] == which;
    }
    h->n = n;
    h->offset = (int64_t *)tinyi_alloc(ctx, (size_t)n + 1, sizeof *h->offset);
    h->node_weight = (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *h->node_weight);
    h->col = (int32_t *)tinyi_alloc(ctx, (size_t)m, sizeof *h->col);
    h->weight = (int32_t *)tinyi_alloc(ctx, (size_t)m, sizeof *h->weight);
    *name = (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof **name);
    if (!h->offset || !h->node_weight || !h->col || !h->weight || !*name) {
        tiny_free(ctx, place);
        tiny_free(ctx, *name);
        tinyi_level_free(ctx, h);
        return tiny_ctx_status(ctx);
    }
    m = n = 0;
    h->offset[0] = 0;
    for (v = 0; v < l->n; v++) {
        if (part[v] != which) continue;
        (*name)[n] = (int32_t)v;
        h->node_weight[n] = l->node_weight[v];
        h->heaviest = TINYI_MAX(h->heaviest, l->node_weight[v]);
        for (p = l->offset[v]; p < l->offset[v + 1]; p++) {
            if (part[l->col[p]] != which) continue;
            h->col[m] = place[l->col[p]];
            h->weight[m++] = l->weight[p];
        }
        h->offset[++n] = m;
    }
    tiny_free(ctx, place);
    return TINY_OK;
}

/* l in two, target of the first: into s->half; the best of several tries */
static tiny_status tinyi_parts_two(tinyi_parts *s, const tinyi_level *l, int64_t total, int64_t target)
{
    tinyi_cutter *c = &s->cut;
    const int tries = s->d.tries                  ? s->d.tries
                      : l->offset[l->n] > 1 << 20 ? 2
                                                  : 8,
              passes = s->d.passes ? s->d.passes : 8;
    int32_t *best = s->half + s->level[0].n;
    int64_t best_cut = -1, best_over = 0;
    tiny_idx v;
    int t;
    c->l = l;
    c->k = 2;
    c->part = s->half;
    c->limit[0] = (int64_t)((double)target * (1.0 + s->room)) + l->heaviest / 2;
    c->limit[1] = (int64_t)((double)(total - target) * (1.0 + s->room)) + l->heaviest / 2;
    for (t = 0; t < tries; t++) {
        int64_t over;
        tiny_status st;
        for (v = 0; v < l->n; v++) c->part[v] = 1;
        st = tinyi_cutter_count(c);
        if (st) return st;
        if (l->n) tinyi_cutter_grow(c, &s->rng, target);
        tinyi_cutter_balance(c);
        tinyi_cutter_refine(c, passes, 0);
        over = TINYI_MAX(c->weight[0] - c->limit[0], c->weight[1] - c->limit[1]);
        over = TINYI_MAX(over, 0);
        if (best_cut >= 0 && (over > best_over || (over == best_over && c->cut >= best_cut))) continue;
        best_cut = c->cut;
        best_over = over;
        if (l->n) memcpy(best, c->part, (size_t)l->n * sizeof *best);
    }
    return TINY_OK;
}

/* nodes of l into the parts first .. first + k - 1 of s->part; name: their numbers there, NULL: the same */
static tiny_status tinyi_parts_first(tinyi_parts *s, const tinyi_level *l, const int32_t *name, int first, int k)
{
    const int k0 = k / 2;
    int64_t total = 0;
    tiny_idx v;
    int side;
    tinyi_level half[2];
    int32_t *names[2];
    tiny_status st;
    if (k == 1 || l->n == 0) {
        for (v = 0; v < l->n; v++) s->part[name ? name[v] : v] = first;
        return TINY_OK;
    }
    for (v = 0; v < l->n; v++) total += l->node_weight[v];
    st = tinyi_parts_two(s, l, total, (int64_t)((double)total * k0 / k + 0.5));
    if (st) return st;
    st = tinyi_parts_half(s->ctx, l, s->half + s->level[0].n, 0, &half[0], &names[0]);
    if (st) return st;
    st = tinyi_parts_half(s->ctx, l, s->half + s->level[0].n, 1, &half[1], &names[1]);
    if (st) {
        tinyi_level_free(s->ctx, &half[0]);
        tiny_free(s->ctx, names[0]);
        return st;
    }
    for (side = 0; side < 2; side++) {
        for (v = 0; name && v < half[side].n; v++) names[side][v] = name[names[side][v]];
        if (!st) st = tinyi_parts_first(s, &half[side], names[side], side ? first + k0 : first, side ? k - k0 : k0);
        tinyi_level_free(s->ctx, &half[side]);
        tiny_free(s->ctx, names[side]);
    }
    return st;
}

/* ---- all of it */

static tiny_status tinyi_parts_tell(tiny_ctx *ctx, double done)
{
    if (ctx->desc.progress) ctx->desc.progress(ctx->desc.user, "partition", done);
    if (ctx->desc.cancel && ctx->desc.cancel(ctx->desc.user))
        return tinyi_fail(ctx, TINY_E_CANCELLED, "partition: the cancel callback asked to stop");
    return TINY_OK;
}

/* from the smallest level to the first; parts come out in `part` */
static tiny_status tinyi_parts_back(tinyi_parts *s, int levels, int k, int64_t total, int64_t limit, int32_t *part)
{
    tinyi_cutter *c = &s->cut;
    const tinyi_level *first = &s->level[0];
    const int passes = s->d.passes ? s->d.passes : 8;
    const int64_t slack = 10 * TINYI_MAX(total / first->n, 1), edges = first->offset[first->n];
    int32_t *now = s->part, *next = part, *t;
    tiny_status st = TINY_OK;
    tiny_idx v;
    int64_t e, sum = 0;
    int i, p;
    for (e = 0; e < edges; e++) sum += first->weight[e];
    c->unit = TINYI_MAX(edges ? sum / edges : 1, 1);
    c->k = k;
    for (p = 0; p < k; p++) c->limit[p] = limit;
    for (i = levels - 1; !st && i >= 0; i--) {
        const tinyi_level *l = &s->level[i];
        if (i < levels - 1) {
            for (v = 0; v < l->n; v++) next[v] = now[l->up[v]];
            t = now;
            now = next;
            next = t;
        }
        c->l = l;
        c->part = now;
        st = tinyi_cutter_count(c);
        if (st) break;
        /* not before: each balance costs the gains that made a part heavy, while the next level may still trade them */
        if (i == 0) tinyi_cutter_balance(c);
        tinyi_cutter_refine(c, passes, slack);
        if (i == 0) {
            tinyi_cutter_fill(c);
            tinyi_cutter_balance(c);
            tinyi_cutter_refine(c, passes, 0);
        }
        st = tinyi_parts_tell(s->ctx, 0.6 + 0.4 * (double)(levels - i) / levels);
    }
    if (!st && now != part) memcpy(part, now, (size_t)first->n * sizeof *part);
    return st;
}

static void tinyi_parts_close(tinyi_parts *s, int levels)
{
    int i;
    for (i = 0; i < levels; i++) tinyi_level_free(s->ctx, &s->level[i]);
    tinyi_cutter_close(&s->cut);
    tiny_free(s->ctx, s->part);
    tiny_free(s->ctx, s->half);
    tiny_free(s->ctx, s);
}

static tiny_status tinyi_parts_run(tinyi_parts *s, tgnn_graph *g, int k, int64_t total, int64_t limit, int32_t *part,
                                   int *levels)
{
    const tiny_idx enough = TINYI_MAX((tiny_idx)30 * k, (tiny_idx)200);
    const tiny_idx n = g->in.n_rows;
    int log = 1;
    tiny_status st = tinyi_level_make(s->ctx, g, s->d.node_weight, s->d.edge_weights, &s->level[0]);
    *levels = !st;
    while (!st && *levels < TINYI_LEVELS && s->level[*levels - 1].n > enough) {
        tinyi_level *fine = &s->level[*levels - 1], *coarse = fine + 1;
        st = tinyi_level_shrink(s->ctx, fine, (int64_t)(1.5 * (double)total / (double)enough) + 1, s->d.seed, coarse);
        if (st) break;
        ++*levels;
        if ((double)coarse->n > 0.9 * (double)fine->n) break;
        st = tinyi_parts_tell(s->ctx, 0.6 * (1.0 - (double)coarse->n / (double)n));
    }
    if (st) return st;
    while ((k - 1) >> log) log++;
    s->room = (s->d.imbalance > 0.0 ? s->d.imbalance : 0.03) / log;
    s->part = (int32_t *)tinyi_alloc(s->ctx, (size_t)n, sizeof *s->part);
    s->half = (int32_t *)tinyi_alloc(s->ctx, (size_t)n, 2 * sizeof *s->half);
    st = s->part && s->half ? tinyi_cutter_open(s->ctx, n, TINYI_MAX(k, 2), &s->cut) : tiny_ctx_status(s->ctx);
    s->rng = tiny_rng_make(s->d.seed, 0x70617274u);
    if (!st) st = tinyi_parts_first(s, &s->level[*levels - 1], NULL, 0, k);
    return st ? st : tinyi_parts_back(s, *levels, k, total, limit, part);
}

TINY_API tiny_status tgnn_partition(tiny_ctx *ctx, tgnn_graph *g, int k, const tgnn_partition_desc *desc, int32_t *part,
                                    tgnn_partition_info *info)
{
    tgnn_partition_desc d;
    tinyi_parts *s;
    int64_t total, limit;
    tiny_idx v;
    int levels = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    st = tinyi_partition_check(ctx, g, k, &d, part);
    if (!st) st = tinyi_partition_limit(ctx, g->in.n_rows, k, &d, &total, &limit);
    if (st) return st;
    for (v = 0; k == 1 && v < g->in.n_rows; v++) part[v] = 0;
    if (k > 1) {
        s = (tinyi_parts *)tinyi_alloc(ctx, 1, sizeof *s);
        if (!s) return tiny_ctx_status(ctx);
        memset(s, 0, sizeof *s);
        s->ctx = ctx;
        s->d = d;
        s->cut.ctx = ctx;
        st = tinyi_parts_run(s, g, k, total, limit, part, &levels);
        tinyi_parts_close(s, levels);
    }
    if (!st && info) {
        st = tgnn_partition_measure(ctx, g, k, desc, part, info);
        info->levels = levels;
    }
    return st;
}

/* ---- one look at each node */

TINY_API tiny_status tgnn_partition_stream(tiny_ctx *ctx, const tgnn_graph *g, int k, const tgnn_partition_desc *desc,
                                           int32_t *part, tgnn_partition_info *info)
{
    tgnn_partition_desc d;
    const tiny_sparse *a;
    int64_t *weight, *meet, total, limit, p, p1;
    tiny_idx v;
    int32_t *met;
    int i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    st = tinyi_partition_check(ctx, g, k, &d, part);
    if (!st) st = tinyi_partition_limit(ctx, g->in.n_rows, k, &d, &total, &limit);
    if (st) return st;
    a = &g->in;
    weight = (int64_t *)tinyi_alloc(ctx, (size_t)k, sizeof *weight);
    meet = (int64_t *)tinyi_alloc(ctx, (size_t)k, sizeof *meet);
    met = (int32_t *)tinyi_alloc(ctx, (size_t)k, sizeof *met);
    if (!weight || !meet || !met) st = tiny_ctx_status(ctx);
    for (i = 0; !st && i < k; i++) weight[i] = meet[i] = 0;
    for (v = 0; !st && v < a->n_rows; v++) part[v] = -1;
    for (v = 0; !st && v < a->n_rows; v++) {
        const int64_t heavy = d.node_weight ? d.node_weight[v] : 1;
        double best_score = 0.0;
        int32_t best = -1;
        int n = 0, light = 0;
        for (tinyi_row_range(a, v, &p, &p1); p < p1; p++) {
            const int32_t u = a->col[p], to = (uint64_t)u < (uint64_t)a->n_rows ? part[u] : -1;
            if (to >= 0 && !meet[to]++) met[n++] = to;
        }
        for (i = 0; i < n; i++) {
            const int32_t to = met[i];
            const double score = (double)meet[to] * (1.0 - (double)weight[to] / (double)limit);
            meet[to] = 0;
            if (weight[to] + heavy > limit || !(score > 0.0)) continue;
            if (best < 0 || score > best_score || (score >= best_score && weight[to] < weight[best])) {
                best = to;
                best_score = score;
            }
        }
        /* no neighbour is anywhere yet: the lightest part, which has room for any node */
        if (best < 0) {
            for (i = 1; i < k; i++)
                if (weight[i] < weight[light]) light = i;
            best = light;
        }
        part[v] = best;
        weight[best] += heavy;
        if (v % 1048576 == 0) st = tinyi_parts_tell(ctx, (double)v / (double)a->n_rows);
    }
    tiny_free(ctx, weight);
    tiny_free(ctx, meet);
    tiny_free(ctx, met);
    return st || !info ? st : tgnn_partition_measure(ctx, g, k, desc, part, info);
}
