/* src/gnn/graph/sample.c - neighbour sampling
 *
 * Paper    W. Hamilton, R. Ying, J. Leskovec, "Inductive Representation Learning on Large Graphs", 2017 (GraphSAGE),
 *          algorithm 2;
 *          R. Floyd's choice of f out of d in J. Bentley, "Programming pearls: a sample of brilliance", 1987.
 * Formula  for j = d - f .. d - 1: t = random in 0 .. j; take t, or j where t was taken before. Every set of f edges is
 *          equally likely.
 * Random   number i for node v in layer l is number i of the generator (seed, l << 32 | v) of core/rng.h.
 * Method   Edges are counted and a prefix sum gives their places. Then the threads draw edges for some nodes at a time:
 *          they draw the positions, prefetch them, and only then read them. At the end one thread numbers the new nodes
 *          in the order of the edges, with a table of all nodes.
 * Cost     for each edge a quarter of a Philox block, one random read of the graph and one of the table, both
 *          prefetched. */
#include <string.h>
#include "gnn/graph/sample.h"
#include "gnn/graph/graph_inside.h"
#include "math/layout.h"

enum { TINYI_SAMPLE_SMALL = 32, TINYI_SAMPLE_GRAIN = 64 };      /* up to so many are searched one by one */

struct tgnn_sampler {
    tiny_ctx *ctx;
    const tgnn_graph *g;
    int n_layers, replace;
    int64_t longest;                        /* row when it was opened */
    int32_t fanout[TGNN_SAMPLE_LAYERS];
    int32_t *place;                         /* (nodes) in node; -1 */
    size_t table;                           /* places of the table for large fanouts, a power of two; 0: not needed */
    int64_t *offset[TGNN_SAMPLE_LAYERS], *edge[TGNN_SAMPLE_LAYERS];
    int32_t *col[TGNN_SAMPLE_LAYERS], *node;
    size_t offset_room[TGNN_SAMPLE_LAYERS], edge_room[TGNN_SAMPLE_LAYERS], node_room;
    tiny_idx n_node;
    /* of the layer in hand */
    uint64_t seed;
    int layer;
    tiny_idx n_dst;
};

/* ---- one node */

/* plainly: f places of 0 .. d - 1 into out; returns how many */
static int64_t tinyi_sample_ref(const tgnn_sampler *s, int32_t v, int64_t d, int64_t f, int64_t *out)
{
    tiny_rng rng = tiny_rng_make(s->seed, (uint64_t)s->layer << 32 | (uint32_t)v);
    int64_t i, j, k;
    if (d == 0) return 0;
    if (s->replace) {
        for (i = 0; i < f; i++) out[i] = (int64_t)tiny_rng_below(&rng, (uint32_t)d);
        return f;
    }
    for (i = 0; d <= f && i < d; i++) out[i] = i;
    if (d <= f) return d;
    for (j = d - f, i = 0; j < d; j++, i++) {
        int64_t t = (int64_t)tiny_rng_below(&rng, (uint32_t)j + 1);
        for (k = 0; k < i && out[k] != t; k++) {}
        out[i] = k < i ? j : t;
    }
    return f;
}

/* tiny_rng with the four numbers of a block kept */
typedef struct tinyi_draw { uint32_t counter[4], key[2], out[4]; int at; } tinyi_draw;

static uint32_t tinyi_draw_below(tinyi_draw *r, uint32_t n)
{
    uint64_t m;
    for (;;) {
        if (r->at == 4) {
            tiny_philox(r->counter, r->key, r->out);
            r->counter[0] += 1;             /* no node draws 2^34 numbers */
            r->at = 0;
        }
        m = (uint64_t)r->out[r->at++] * n;
        /* the division is needed only where the low half is small: see tiny_rng_below */
        if ((uint32_t)m >= n || (uint32_t)m >= (uint32_t)(0u - n) % n) return (uint32_t)(m >> 32);
    }
}

static void tinyi_sample_fast(const tgnn_sampler *s, int32_t v, int64_t d, int64_t f, int64_t base, int64_t *out,
                              uint32_t *table)
{
    tinyi_draw r;
    int64_t i, j, k;
    uint32_t mask = 127, t, at;
    if (d == 0) return;
    if (!s->replace && d <= f) {
        for (i = 0; i < d; i++) out[i] = base + i;
        return;
    }
    r.counter[0] = r.counter[1] = 0;
    r.counter[2] = (uint32_t)v;
    r.counter[3] = (uint32_t)s->layer;
    r.key[0] = (uint32_t)s->seed;
    r.key[1] = (uint32_t)(s->seed >> 32);
    r.at = 4;
    if (s->replace) {
        for (i = 0; i < f; i++) out[i] = base + (int64_t)tinyi_draw_below(&r, (uint32_t)d);
        return;
    }
    if (f <= TINYI_SAMPLE_SMALL) {
        for (j = d - f, i = 0; j < d; j++, i++) {
            const int64_t x = base + (int64_t)tinyi_draw_below(&r, (uint32_t)j + 1);
            int seen = 0;
            for (k = 0; k < i; k++) seen |= out[k] == x;
            out[i] = seen ? base + j : x;
        }
        return;
    }
    while ((int64_t)mask < 2 * f) mask = mask * 2 + 1;
    memset(table, 0, ((size_t)mask + 1) * sizeof *table);
    for (j = d - f, i = 0; j < d; j++, i++) {   /* the table holds places + 1 */
        t = tinyi_draw_below(&r, (uint32_t)j + 1);
        for (at = t * 0x9e3779b1u >> 3 & mask; table[at] && table[at] != t + 1; at = (at + 1) & mask) {}
        if (table[at]) {
            t = (uint32_t)j;
            for (at = t * 0x9e3779b1u >> 3 & mask; table[at]; at = (at + 1) & mask) {}
        }
        table[at] = t + 1;
        out[i] = base + (int64_t)t;
    }
}

/* ---- one layer */

/* Row v, no longer than the rows were when the sampler was opened: the tables of drawing are made for those. */
static void tinyi_sample_row(const tgnn_sampler *s, int32_t v, int64_t *p, int64_t *p1)
{
    tinyi_row_range(&s->g->in, v, p, p1);
    if (*p1 - *p > s->longest) *p1 = *p + s->longest;
}

static int64_t tinyi_sample_count(const tgnn_sampler *s, int64_t d)
{
    const int64_t f = s->fanout[s->layer];
    if (d <= 0) return 0;
    if (f < 0) return d;
    return s->replace ? f : TINYI_MIN(f, d);
}

static void tinyi_sample_count_team(tiny_team *team, void *arg)
{
    tgnn_sampler *s = (tgnn_sampler *)arg;
    const tiny_sparse *a = &s->g->in;
    int64_t *offset = s->offset[s->layer], p, p1;
    tiny_idx i, i1;
    while (tiny_take(team, s->n_dst, 1024, &i, &i1))
        for (; i < i1; i++) {
            if (i + 16 < s->n_dst) TINYI_PREFETCH(a->offset + s->node[i + 16]);
            tinyi_sample_row(s, s->node[i], &p, &p1);
            offset[i + 1] = tinyi_sample_count(s, p1 - p);
        }
}

static void tinyi_sample_draw_team(tiny_team *team, void *arg)
{
    tgnn_sampler *s = (tgnn_sampler *)arg;
    const tiny_sparse *a = &s->g->in;
    const int64_t *offset = s->offset[s->layer];
    int64_t *edge = s->edge[s->layer], p, p1, q;
    int32_t *col = s->col[s->layer];
    tiny_idx i, i0, i1;
    while (tiny_take(team, s->n_dst, TINYI_SAMPLE_GRAIN, &i0, &i1)) {
        for (i = i0; i < i1; i++) {
            const int64_t n = offset[i + 1] - offset[i];
            tinyi_sample_row(s, s->node[i], &p, &p1);
            /* a mapped file that changed: its first edge, n times */
            if (n != tinyi_sample_count(s, p1 - p)) p = p1 = 0;
            if (p == p1)
                for (q = offset[i]; q < offset[i + 1]; q++) edge[q] = 0;
            else tinyi_sample_fast(s, s->node[i], p1 - p, n, p, edge + offset[i], (uint32_t *)team->own);
            for (q = offset[i]; q < offset[i + 1]; q++) TINYI_PREFETCH(a->col + edge[q]);
        }
        for (q = offset[i0]; q < offset[i1]; q++) col[q] = a->col[edge[q]];
    }
}

static tiny_status tinyi_sample_room(tiny_ctx *ctx, void **memory, size_t *room, size_t want, size_t keep,
                                     size_t bytes_each)
{
    void *more;
    if (want <= *room) return TINY_OK;
    want = TINYI_MAX(want, *room + *room / 2);
    more = tinyi_alloc(ctx, want, bytes_each);
    if (!more) return tiny_ctx_status(ctx);
    if (keep) memcpy(more, *memory, keep * bytes_each);
    tiny_free(ctx, *memory);
    *memory = more;
    *room = want;
    return TINY_OK;
}

/* room in the arrays of this layer and for the nodes it may add */
static tiny_status tinyi_sample_edges_room(tgnn_sampler *s, int64_t n)
{
    void *m = s->edge[s->layer], *c;
    size_t room = s->edge_room[s->layer];
    tiny_status st = tinyi_sample_room(s->ctx, &m, &room, (size_t)n, 0, sizeof(int64_t));
    s->edge[s->layer] = (int64_t *)m;
    if (st) return st;
    if (room != s->edge_room[s->layer]) {
        c = tinyi_alloc(s->ctx, room, sizeof(int32_t));
        if (!c) {                           /* edge is longer than room says: it is taken anew next time */
            return tiny_ctx_status(s->ctx);
        }
        tiny_free(s->ctx, s->col[s->layer]);
        s->col[s->layer] = (int32_t *)c;
        s->edge_room[s->layer] = room;
    }
    m = s->node;
    n = TINYI_MIN((int64_t)s->n_node + n, (int64_t)s->g->in.n_rows);
    st = tinyi_sample_room(s->ctx, &m, &s->node_room, (size_t)n, (size_t)s->n_node, sizeof(int32_t));
    s->node = (int32_t *)m;
    return st;
}

/* new nodes get places, and col becomes places */
static tiny_status tinyi_sample_relabel(tgnn_sampler *s, int64_t n)
{
    const tiny_idx n_nodes = s->g->in.n_rows;
    int32_t *col = s->col[s->layer], *place = s->place;
    int64_t q;
    for (q = 0; q < n; q++) {
        const int32_t u = col[q];
        if (q + 24 < n) TINYI_PREFETCH(place + col[q + 24]);
        if ((uint64_t)u >= (uint64_t)n_nodes)
            return tinyi_fail(s->ctx, TINY_E_FORMAT,
                              "sample: an edge comes from node %ld, but there are %td nodes", (long)u,
                              n_nodes);
        if (place[u] < 0) {
            place[u] = (int32_t)s->n_node;
            s->node[s->n_node++] = u;
        }
        col[q] = place[u];
    }
    return TINY_OK;
}

static tiny_status tinyi_sample_layer(tgnn_sampler *s, tgnn_block *b)
{
    const tiny_sparse *a = &s->g->in;
    const int plain = tiny_ctx_target(s->ctx) == TINY_TARGET_REFERENCE;
    int64_t *offset, p, p1, q;
    void *m = s->offset[s->layer];
    tiny_idx i;
    tiny_status st;
    s->n_dst = s->n_node;
    st = tinyi_sample_room(s->ctx, &m, &s->offset_room[s->layer], (size_t)s->n_dst + 1, 0, sizeof *offset);
    s->offset[s->layer] = offset = (int64_t *)m;
    if (!st) st = tiny_parallel(s->ctx, s->n_dst < 256 ? 1 : 0, 0, 0, tinyi_sample_count_team, s);
    if (st) return st;
    offset[0] = 0;
    for (i = 0; i < s->n_dst; i++) {
        if (offset[i + 1] > INT64_MAX / 64 - offset[i])
            return tinyi_fail(s->ctx, TINY_E_OVERFLOW, "sample: more edges than this machine can address");
        offset[i + 1] += offset[i];
    }
    st = tinyi_sample_edges_room(s, offset[s->n_dst]);
    if (st) return st;
    if (plain)
        for (i = 0; i < s->n_dst; i++) {
            tinyi_sample_row(s, s->node[i], &p, &p1);
            if (offset[i + 1] - offset[i] == tinyi_sample_count(s, p1 - p))
                (void)tinyi_sample_ref(s, s->node[i], p1 - p, offset[i + 1] - offset[i], s->edge[s->layer] + offset[i]);
            else
                for (p = 0, q = offset[i]; q < offset[i + 1]; q++)
                    s->edge[s->layer][q] = 0; /* as tinyi_sample_draw_team has it */
            for (q = offset[i]; q < offset[i + 1]; q++) {
                s->edge[s->layer][q] += p;
                s->col[s->layer][q] = a->col[s->edge[s->layer][q]];
            }
        }
    else
        st = tiny_parallel(s->ctx, offset[s->n_dst] < 2048 ? 1 : 0, 0, s->table * sizeof(uint32_t),
                           tinyi_sample_draw_team, s);
    if (!st) st = tinyi_sample_relabel(s, offset[s->n_dst]);
    if (st) return st;
    b->n_dst = s->n_dst;
    b->n_src = s->n_node;
    b->n = offset[s->n_dst];
    b->offset = offset;
    b->col = s->col[s->layer];
    b->edge = s->edge[s->layer];
    return TINY_OK;
}

/* ---- the sampler */

TINY_API tiny_status tgnn_sampler_open(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_sampler_desc *desc,
                                       tgnn_sampler **out)
{
    tgnn_sampler *s;
    tiny_idx v;
    int64_t longest = 0, most = 0, p, p1;
    int l;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!g || !desc || !desc->fanout || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sample: the graph, the fanout or the output pointer is missing");
    if (g->in.n_rows != g->in.n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "sample: %td sources and %td destinations: the graph must not be bipartite",
                          g->in.n_cols, g->in.n_rows);
    if (desc->n_layers < 1 || desc->n_layers > TGNN_SAMPLE_LAYERS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "sample: %d layers, there must be 1 to %d", desc->n_layers,
                          TGNN_SAMPLE_LAYERS);
    for (l = 0; l < desc->n_layers; l++) {
        if (desc->fanout[l] < -1)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "sample: fanout[%d] is %ld; the minimum is -1", l, (long)desc->fanout[l]);
        if (desc->fanout[l] < 0 && desc->replace)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "sample: fanout[%d] is -1 (all edges), which replace does not allow", l);
        most = TINYI_MAX(most, desc->fanout[l]);
    }
    for (v = 0; v < g->in.n_rows; v++) {
        tinyi_row_range(&g->in, v, &p, &p1);
        longest = TINYI_MAX(longest, p1 - p);
    }
    if (longest > 0x7fffffff)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "sample: a node has %lld edges, the maximum is 2147483647",
                          (long long)longest);
    s = (tgnn_sampler *)tinyi_alloc(ctx, 1, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    s->g = g;
    s->n_layers = desc->n_layers;
    s->replace = desc->replace != 0;
    s->longest = longest;
    for (l = 0; l < s->n_layers; l++) s->fanout[l] = desc->fanout[l];
    most = TINYI_MIN(most, longest);
    if (!s->replace && most > TINYI_SAMPLE_SMALL)
        for (s->table = 128; (int64_t)s->table < 4 * most; s->table *= 2) {}
    s->place = (int32_t *)tinyi_alloc(ctx, (size_t)g->in.n_rows, sizeof *s->place);
    if (!s->place) {
        tgnn_sampler_close(s);
        return tiny_ctx_status(ctx);
    }
    for (v = 0; v < g->in.n_rows; v++) s->place[v] = -1;
    *out = s;
    return TINY_OK;
}

TINY_API void tgnn_sampler_close(tgnn_sampler *s)
{
    int l;
    if (!s) return;
    for (l = 0; l < TGNN_SAMPLE_LAYERS; l++) {
        tiny_free(s->ctx, s->offset[l]);
        tiny_free(s->ctx, s->edge[l]);
        tiny_free(s->ctx, s->col[l]);
    }
    tiny_free(s->ctx, s->node);
    tiny_free(s->ctx, s->place);
    tiny_free(s->ctx, s);
}

TINY_API tiny_status tgnn_sampler_draw(tgnn_sampler *s, uint64_t seed, const int32_t *seeds, tiny_idx n_seeds,
                                       tgnn_sample *out)
{
    void *m;
    tiny_idx i;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    st = tinyi_ctx_check(s->ctx);
    if (st) return st;
    if (!out || n_seeds < 0 || (n_seeds && !seeds))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "sample: the seeds or the output pointer is missing");
    memset(out, 0, sizeof *out);
    for (i = 0; i < s->n_node; i++) s->place[s->node[i]] = -1;
    s->n_node = 0;
    if (n_seeds > s->g->in.n_rows)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "sample: %td seeds, but %td nodes", n_seeds, s->g->in.n_rows);
    m = s->node;
    st = tinyi_sample_room(s->ctx, &m, &s->node_room, (size_t)n_seeds, 0, sizeof *s->node);
    s->node = (int32_t *)m;
    for (i = 0; !st && i < n_seeds; i++) {
        const int32_t v = seeds[i];
        if ((uint64_t)v >= (uint64_t)s->g->in.n_rows)
            st = tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                            "sample: seed %td is node %ld, but there are %td nodes", i, (long)v,
                            s->g->in.n_rows);
        else if (s->place[v] >= 0)
            st = tinyi_fail(s->ctx, TINY_E_ARGUMENT, "sample: node %ld is seed %ld and seed %td", (long)v,
                            (long)s->place[v], i);
        else {
            s->place[v] = (int32_t)i;
            s->node[s->n_node++] = v;
        }
    }
    s->seed = seed;
    for (s->layer = 0; !st && s->layer < s->n_layers; s->layer++) st = tinyi_sample_layer(s, &out->block[s->layer]);
    if (st) {
        memset(out, 0, sizeof *out);
        return st;
    }
    out->n_layers = s->n_layers;
    out->n_node = s->n_node;
    out->node = s->node;
    return TINY_OK;
}
