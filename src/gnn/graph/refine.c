/* src/gnn/graph/refine.c - refinement by passes of best moves, balancing, and growing a first half
 *
 * Paper    C. Fiduccia, R. Mattheyses, "A Linear-Time Heuristic for Improving Network Partitions", 1982; the form for k
 *          parts is from G. Karypis, V. Kumar, "Multilevel k-way Partitioning Scheme for Irregular Graphs", 1998.
 * Formula  gain of a move = weight of the node's edges to the new part - weight of its edges to its own part.
 * Method   A heap holds the boundary nodes, ordered by an upper bound of their gain. The first node is taken, and its
 *          gain to each part that it touches is computed. If that gain is below the bound and another node may be
 *          better, the node goes back into the heap with its true gain. The best move is made even if its gain is
 *          negative. A pass ends when a share of the edges was touched without a new best cut. Then the moves after the
 *          best cut are undone. A node whose target part is full waits until one of its neighbours moves.
 *          A node moves at most once a pass. Each move updates the bounds of the neighbours, so that they stay upper
 *          bounds.
 * Left out the bucket list of the paper: the weights of merged edges would make it long. A heap costs a logarithm
 *          instead. */
#include <string.h>
#include <stdlib.h>
#include "gnn/graph/refine_inside.h"

enum { TINYI_SPOT_OUT = -1, TINYI_SPOT_DONE = -2 };     /* not in the heap; has moved, or may not */

TINYI_FN tiny_status tinyi_cutter_open(tiny_ctx *ctx, tiny_idx n_room, int k_room, tinyi_cutter *c)
{
    memset(c, 0, sizeof *c);
    c->ctx = ctx;
    c->n_room = n_room;
    c->weight = (int64_t *)tinyi_alloc(ctx, (size_t)k_room, sizeof *c->weight);
    c->limit = (int64_t *)tinyi_alloc(ctx, (size_t)k_room, sizeof *c->limit);
    c->meet = (int64_t *)tinyi_alloc(ctx, (size_t)k_room, sizeof *c->meet);
    c->met = (int32_t *)tinyi_alloc(ctx, (size_t)k_room, sizeof *c->met);
    c->spot = (tinyi_spot *)tinyi_alloc(ctx, (size_t)n_room, sizeof *c->spot);
    c->heap = (tinyi_spot_item *)tinyi_alloc(ctx, (size_t)n_room, sizeof *c->heap);
    c->log = (int32_t *)tinyi_alloc(ctx, (size_t)n_room, 2 * sizeof *c->log);
    if (c->weight && c->limit && c->meet && c->met && c->spot && c->heap && c->log) {
        memset(c->meet, 0, (size_t)k_room * sizeof *c->meet);
        return TINY_OK;
    }
    tinyi_cutter_close(c);
    return tiny_ctx_status(ctx);
}

TINYI_FN void tinyi_cutter_close(tinyi_cutter *c)
{
    tiny_free(c->ctx, c->weight);
    tiny_free(c->ctx, c->limit);
    tiny_free(c->ctx, c->meet);
    tiny_free(c->ctx, c->met);
    tiny_free(c->ctx, c->spot);
    tiny_free(c->ctx, c->heap);
    tiny_free(c->ctx, c->log);
    c->weight = c->limit = c->meet = NULL;
    c->met = c->log = NULL;
    c->spot = NULL;
    c->heap = NULL;
}

/* ---- the heap: largest key first, of equal ones the lower node */

static int tinyi_spot_heap_before(tinyi_spot_item a, tinyi_spot_item b)
{
    return a.key > b.key || (a.key == b.key && a.node < b.node);
}

static void tinyi_spot_heap_up(tinyi_cutter *c, tiny_idx i, tinyi_spot_item x)
{
    while (i > 0) {
        const tiny_idx up = (i - 1) / 2;
        if (!tinyi_spot_heap_before(x, c->heap[up])) break;
        c->heap[i] = c->heap[up];
        c->spot[c->heap[i].node].at = (int32_t)i;
        i = up;
    }
    c->heap[i] = x;
    c->spot[x.node].at = (int32_t)i;
}

static void tinyi_spot_heap_down(tinyi_cutter *c, tiny_idx i, tinyi_spot_item x)
{
    for (;;) {
        tiny_idx k = 2 * i + 1;
        if (k >= c->n_heap) break;
        if (k + 1 < c->n_heap && tinyi_spot_heap_before(c->heap[k + 1], c->heap[k])) k++;
        if (!tinyi_spot_heap_before(c->heap[k], x)) break;
        c->heap[i] = c->heap[k];
        c->spot[c->heap[i].node].at = (int32_t)i;
        i = k;
    }
    c->heap[i] = x;
    c->spot[x.node].at = (int32_t)i;
}

static void tinyi_spot_heap_put(tinyi_cutter *c, int32_t node, int64_t key)
{
    tinyi_spot_item x;
    x.key = key;
    x.node = node;
    c->spot[node].key = key;
    tinyi_spot_heap_up(c, c->n_heap++, x);
}

static void tinyi_spot_heap_change(tinyi_cutter *c, int32_t node, int64_t key)
{
    tinyi_spot_item x;
    const tiny_idx i = c->spot[node].at;
    const int64_t old = c->spot[node].key;
    if (key == old) return;
    x.key = key;
    x.node = node;
    c->spot[node].key = key;
    if (key > old) tinyi_spot_heap_up(c, i, x);
    else tinyi_spot_heap_down(c, i, x);
}

static int32_t tinyi_spot_heap_pop(tinyi_cutter *c)
{
    const int32_t node = c->heap[0].node;
    const tinyi_spot_item last = c->heap[--c->n_heap];
    if (c->n_heap) tinyi_spot_heap_down(c, 0, last);
    c->spot[node].at = TINYI_SPOT_OUT;
    return node;
}

/* ---- counting */

typedef struct tinyi_count_job { tinyi_cutter *c; } tinyi_count_job;

static void tinyi_cutter_count_team(tiny_team *team, void *arg)
{
    tinyi_cutter *c = ((const tinyi_count_job *)arg)->c;
    const tinyi_level *l = c->l;
    tiny_idx v, v1;
    int64_t p;
    while (tiny_take(team, l->n, 512, &v, &v1))
        for (; v < v1; v++) {
            tinyi_spot *s = c->spot + v;
            const int32_t mine = c->part[v];
            int64_t in = 0, out = 0;
            for (p = l->offset[v]; p < l->offset[v + 1]; p++) {
                const int64_t w = l->weight[p], same = c->part[l->col[p]] == mine;
                in += same * w;
                out += (1 - same) * w;
            }
            s->in = in;
            s->out = out;
            s->key = 0;
            s->at = TINYI_SPOT_OUT;
            s->part = mine;
        }
}

TINYI_FN tiny_status tinyi_cutter_count(tinyi_cutter *c)
{
    tinyi_count_job job;
    tiny_idx v;
    int p;
    tiny_status st;
    job.c = c;
    st = tiny_parallel(c->ctx, c->l->n < 4096 ? 1 : 0, 0, 0, tinyi_cutter_count_team, &job);
    for (p = 0; p < c->k; p++) c->weight[p] = 0;
    c->cut = 0;
    for (v = 0; v < c->l->n && !st; v++) {
        c->weight[c->part[v]] += c->l->node_weight[v];
        c->cut += c->spot[v].out;
    }
    c->cut /= 2;
    return st;
}

/* ---- one move */

/* keys 1 or 2: bounds in the heap follow; 1: nodes that came to the boundary are put into it */
static void tinyi_cutter_move(tinyi_cutter *c, int32_t v, int32_t to, int keys)
{
    const tinyi_level *l = c->l;
    tinyi_spot *s = c->spot + v;
    const int32_t from = s->part;
    int64_t p, in = 0;
    for (p = l->offset[v]; p < l->offset[v + 1]; p++) {
        const int32_t u = l->col[p];
        const int64_t w = l->weight[p];
        tinyi_spot *t = c->spot + u;
        int64_t more = w;                   /* by so much the best gain of u may have grown */
        if (u == v) continue;
        if (t->part == from) {
            t->in -= w;
            t->out += w;
            more = 2 * w;
        } else if (t->part == to) {
            t->in += w;
            t->out -= w;
            in += w;
            more = -w;
        }
        if (!keys || t->at == TINYI_SPOT_DONE) continue;
        if (t->at >= 0) tinyi_spot_heap_change(c, u, TINYI_MIN(t->key + more, t->out - t->in));
        else if (keys == 1 && t->out > 0) tinyi_spot_heap_put(c, u, t->out - t->in);
    }
    c->cut -= in - s->in;
    s->out += s->in - in;
    s->in = in;
    s->part = to;
    c->part[v] = to;
    c->weight[from] -= l->node_weight[v];
    c->weight[to] += l->node_weight[v];
}

/* The best part for v among those it touches and that have room below their limits, of equal ones the lightest; -1:
 * none. A gain may take a part above its limit, by up to `slack` for a gain of c->unit: what is cheap to move leaves it
 * later. */
static int32_t tinyi_cutter_target(tinyi_cutter *c, int32_t v, int64_t slack, int64_t *gain)
{
    const tinyi_level *l = c->l;
    const int32_t mine = c->spot[v].part;
    const int64_t heavy = l->node_weight[v];
    int32_t best = -1;
    int64_t p, most = 0;
    int n = 0, i;
    for (p = l->offset[v]; p < l->offset[v + 1]; p++) {
        const int32_t to = c->part[l->col[p]];
        if (to == mine || !l->weight[p]) continue;
        if (!c->meet[to]) c->met[n++] = to;
        c->meet[to] += l->weight[p];
    }
    for (i = 0; i < n; i++) {
        const int32_t to = c->met[i];
        const int64_t more = slack && c->meet[to] > c->spot[v].in ? (c->meet[to] - c->spot[v].in) / c->unit * slack : 0;
        if (c->weight[to] + heavy <= c->limit[to] + more &&
            (best < 0 || c->meet[to] > most ||
             (c->meet[to] == most &&
              (c->weight[to] < c->weight[best] || (c->weight[to] == c->weight[best] && to < best))))) {
            best = to;
            most = c->meet[to];
        }
    }
    for (i = 0; i < n; i++) c->meet[c->met[i]] = 0;
    *gain = most - c->spot[v].in;
    return best;
}

/* ---- passes */

static int tinyi_cutter_pass(tinyi_cutter *c, int64_t slack)
{
    const tinyi_level *l = c->l;
    const int64_t start = c->cut;
    int64_t best = c->cut, square = 0, best_square = 0;    /* square: change of the sum of squared weights */
    int64_t vain = 0, most_vain;
    tiny_idx v, n = 0, best_n = 0;
    c->n_heap = 0;
    for (v = 0; v < l->n; v++) c->spot[v].at = TINYI_SPOT_OUT;
    for (v = 0; v < l->n; v++)
        if (c->spot[v].out > 0) tinyi_spot_heap_put(c, (int32_t)v, c->spot[v].out - c->spot[v].in);
    most_vain = (2000) + l->offset[l->n] / (300);
    while (c->n_heap) {
        const int64_t key = c->heap[0].key;
        const int32_t u = tinyi_spot_heap_pop(c);
        const int32_t from = c->spot[u].part;
        const int64_t heavy = l->node_weight[u];
        int64_t gain;
        int32_t to;
        if (key < 0 && vain >= most_vain) break;
        to = c->weight[from] > heavy ? tinyi_cutter_target(c, u, slack, &gain) : -1;
        if (to < 0) continue;               /* it comes back when a neighbour moves */
        if (gain < key && c->n_heap && gain < c->heap[0].key) {
            tinyi_spot_heap_put(c, u, gain);
            continue;
        }
        if (gain <= 0 && vain >= most_vain) break;
        c->spot[u].at = TINYI_SPOT_DONE;
        square += 2 * heavy * (c->weight[to] - c->weight[from] + heavy);
        tinyi_cutter_move(c, u, to, 1);
        c->log[2 * n] = u;
        c->log[2 * n + 1] = from;
        n++;
        vain += l->offset[u + 1] - l->offset[u];
        if (c->cut < best || (c->cut == best && square < best_square)) {
            if (c->cut < best) vain = 0;
            best = c->cut;
            best_square = square;
            best_n = n;
        }
    }
    while (n > best_n) {
        n--;
        tinyi_cutter_move(c, c->log[2 * n], c->log[2 * n + 1], 0);
    }
    return start - best > start / 500;
}

TINYI_FN void tinyi_cutter_refine(tinyi_cutter *c, int passes, int64_t slack)
{
    int i;
    for (i = 0; i < passes && tinyi_cutter_pass(c, slack); i++) {}
}

static int32_t tinyi_cutter_lightest(const tinyi_cutter *c)
{
    int32_t p, best = 0;
    for (p = 1; p < c->k; p++)
        if (c->weight[p] - c->limit[p] < c->weight[best] - c->limit[best]) best = p;
    return best;
}

TINYI_FN void tinyi_cutter_balance(tinyi_cutter *c)
{
    const tinyi_level *l = c->l;
    int32_t over;
    tiny_idx v;
    for (over = 0; over < c->k; over++) {
        if (c->weight[over] <= c->limit[over]) continue;
        c->n_heap = 0;
        for (v = 0; v < l->n; v++) {
            c->spot[v].at = TINYI_SPOT_OUT;
            if (c->part[v] == over) tinyi_spot_heap_put(c, (int32_t)v, c->spot[v].out - c->spot[v].in);
        }
        while (c->n_heap && c->weight[over] > c->limit[over]) {
            const int64_t key = c->heap[0].key;
            const int32_t u = tinyi_spot_heap_pop(c);
            const int64_t heavy = l->node_weight[u];
            int64_t gain;
            int32_t to = tinyi_cutter_target(c, u, 0, &gain);
            /* nowhere among its neighbours: to the lightest part, if that ends lighter than this one was */
            if (to < 0) {
                to = tinyi_cutter_lightest(c);
                gain = -c->spot[u].in;
                if (to == over || (c->weight[to] + heavy > c->limit[to] && c->weight[to] + heavy >= c->weight[over]))
                    continue;
            }
            if (gain < key && c->n_heap && gain < c->heap[0].key) {
                tinyi_spot_heap_put(c, u, gain);
                continue;
            }
            tinyi_cutter_move(c, u, to, 2);
        }
    }
}

TINYI_FN void tinyi_cutter_fill(tinyi_cutter *c)
{
    int64_t *count = c->meet;               /* lent: it is zeros again at the end */
    const tinyi_level *l = c->l;
    tiny_idx v = 0;
    int32_t p;
    for (p = 0; p < c->k; p++) count[p] = 0;
    for (v = 0; v < l->n; v++) count[c->part[v]]++;
    v = 0;
    for (p = 0; p < c->k; p++) {
        if (count[p]) continue;
        /* there are as many nodes as parts: going round, one is found that is not alone */
        while (count[c->part[v]] < 2) v = (v + 1) % l->n;
        count[c->part[v]]--;
        count[p]++;
        tinyi_cutter_move(c, (int32_t)v, p, 0);
    }
    for (p = 0; p < c->k; p++) count[p] = 0;
}

/* ---- the first half */

TINYI_FN void tinyi_cutter_grow(tinyi_cutter *c, tiny_rng *rng, int64_t target)
{
    const tinyi_level *l = c->l;
    tiny_idx v, next = (tiny_idx)tiny_rng_below(rng, (uint32_t)l->n), looked = 0;
    c->n_heap = 0;
    for (v = 0; v < l->n; v++) c->spot[v].at = TINYI_SPOT_OUT;
    while (c->weight[0] < target) {
        int64_t more;
        int32_t u;
        if (c->n_heap) u = tinyi_spot_heap_pop(c);
        else {                              /* the next component */
            for (; looked < l->n && c->spot[next].at == TINYI_SPOT_DONE; looked++) next = (next + 1) % l->n;
            if (looked == l->n) return;
            u = (int32_t)next;
        }
        c->spot[u].at = TINYI_SPOT_DONE;
        /* what would overshoot by more than it leaves open stays out */
        more = c->weight[0] + l->node_weight[u] - target;
        if (more <= 0 || more <= target - c->weight[0]) tinyi_cutter_move(c, u, 0, 1);
    }
}
