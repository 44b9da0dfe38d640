/* src/llm/dist/sbp_plan.c - graphs of operations, their signatures, and the search for the cheapest states
 * Paper    OneFlow (arXiv 2110.15032), 3.1 (signatures) and 3.2 (boxing); the greedy rule is its "local greedy" one.
 * Cost     of a plan: sum over operations of the bytes that box its operands, from the state in which they were made to
 *          the one of its signature, and bytes_per_flop times the arithmetic on the rank with the largest piece.
 * Exact    one operation after the other, operands before their users. After each, one partial plan is kept for each
 *          combination of states of the tensors that are still to be read: the later cost depends on these alone. On a
 *          chain or a tree this is the dynamic programme over (tensor, state); on other graphs it is still exact. A
 *          partial plan is dropped when its cost, with the least arithmetic of what follows, exceeds the greedy plan.
 * Memory   with a limit, of equal combinations all are kept that are better in cost or in bytes held. */
#include "core/state_inside.h"
#include "llm/dist/sbp.h"
#include <stdio.h>
#include <string.h>

#define TINYI_SBP_FAR 1e300
enum { TINYI_SBP_CANDIDATES = TLLM_SBP_SIGNS * TLLM_SBP_SIGNS, TINYI_SBP_SLOTS = 10, TINYI_SBP_SLOT_BITS = 6 };

static const char *tinyi_sbp_op_name(int op)
{
    static const char *const name[TLLM_SBP_OPS] = { "input", "matmul",  "copy",   "scale",     "act",    "add", "mul",
                                                    "sum",   "softmax", "lookup", "transpose", "reshape" };
    return op >= 0 && op < TLLM_SBP_OPS ? name[op] : "?";
}

int tinyi_sbp_operands(int op)
{
    return op == TLLM_SBP_INPUT ? 0
           : op == TLLM_SBP_MATMUL || op == TLLM_SBP_ADD || op == TLLM_SBP_MUL || op == TLLM_SBP_LOOKUP ? 2 : 1;
}
static const tllm_sbp_place *tinyi_sbp_place_of(const tllm_sbp_graph *g, int node)
{
    return g->node[node].place.n[0] ? &g->node[node].place : &g->place;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static tiny_status tinyi_sbp_refuse(tiny_ctx *ctx, int i, const tllm_sbp_node *n, const char *why)
{
    return tinyi_fail(ctx, TINY_E_SHAPE, "node %d (%s): %s", i, tinyi_sbp_op_name(n->op), why);
}

/* the shape of the result of node i, which is n */
static tiny_status tinyi_sbp_infer(tiny_ctx *ctx, const tllm_sbp_graph *g, int i, tllm_sbp_node *n)
{
    const tllm_sbp_node *x = &g->node[n->in[0]], *w = &g->node[n->in[1]];
    size_t a, b;
    int j, k, seen = 0;
    tiny_status st;
    switch (n->op) {
    case TLLM_SBP_INPUT: return tinyi_sbp_shape_check(ctx, n->n_dim, n->dim, NULL);
    case TLLM_SBP_MATMUL:
        if (x->n_dim < 2 || (w->n_dim != 2 && w->n_dim != x->n_dim))
            return tinyi_sbp_refuse(ctx, i, n, "operands of 2 or more axes are needed, the second with 2 or as many");
        if (x->dim[x->n_dim - 1] != w->dim[w->n_dim - 2])
            return tinyi_sbp_refuse(ctx, i, n, "the last axis of the first operand is not the second-last of the next");
        for (j = 0; j < x->n_dim - 2 && w->n_dim > 2; j++)
            if (x->dim[j] != w->dim[j]) return tinyi_sbp_refuse(ctx, i, n, "the axes of the batches differ");
        n->n_dim = x->n_dim;
        memcpy(n->dim, x->dim, sizeof n->dim);
        n->dim[n->n_dim - 1] = w->dim[w->n_dim - 1];
        break;
    case TLLM_SBP_ADD: case TLLM_SBP_MUL:
        if (x->n_dim != w->n_dim || memcmp(x->dim, w->dim, (size_t)x->n_dim * sizeof *x->dim))
            return tinyi_sbp_refuse(ctx, i, n, "the operands differ in shape");
        n->n_dim = x->n_dim;
        memcpy(n->dim, x->dim, sizeof n->dim);
        break;
    case TLLM_SBP_SUM: case TLLM_SBP_SOFTMAX:
        if (n->axis < 0 || n->axis >= x->n_dim) return tinyi_sbp_refuse(ctx, i, n, "the operand has no such axis");
        n->n_dim = x->n_dim - (n->op == TLLM_SBP_SUM);
        for (j = k = 0; j < x->n_dim; j++) if (n->op == TLLM_SBP_SOFTMAX || j != n->axis) n->dim[k++] = x->dim[j];
        break;
    case TLLM_SBP_LOOKUP:
        if (w->n_dim != 2 || x->n_dim >= TLLM_SBP_DIMS)
            return tinyi_sbp_refuse(ctx, i, n, "a table of 2 axes and ids of at most 3 are needed");
        n->n_dim = x->n_dim + 1;
        memcpy(n->dim, x->dim, sizeof n->dim);
        n->dim[x->n_dim] = w->dim[1];
        break;
    case TLLM_SBP_TRANSPOSE:
        n->n_dim = x->n_dim;
        for (j = 0; j < x->n_dim; j++) {
            if (n->axes[j] < 0 || n->axes[j] >= x->n_dim || (seen >> n->axes[j] & 1))
                return tinyi_sbp_refuse(ctx, i, n, "axes must name each axis once");
            seen |= 1 << n->axes[j];
            n->dim[j] = x->dim[n->axes[j]];
        }
        break;
    case TLLM_SBP_RESHAPE:
        st = tinyi_sbp_shape_check(ctx, n->n_dim, n->dim, &a);
        if (!st) st = tinyi_sbp_shape_check(ctx, x->n_dim, x->dim, &b);
        if (st || a == b) return st;
        return tinyi_sbp_refuse(ctx, i, n, "the new shape has another number of elements");
    default:
        n->n_dim = x->n_dim;
        memcpy(n->dim, x->dim, sizeof n->dim);
    }
    return tinyi_sbp_shape_check(ctx, n->n_dim, n->dim, NULL);
}

/* Graphs are open structs: what a program may have written is checked again. */
static tiny_status tinyi_sbp_graph_check(tiny_ctx *ctx, const tllm_sbp_graph *g)
{
    int i, k;
    if (!g) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the graph is NULL");
    if (g->n_node < 0 || g->n_node > TLLM_SBP_NODES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a graph of %d nodes, there may be at most %d", g->n_node,
                          TLLM_SBP_NODES);
    for (i = 0; i < g->n_node; i++) {
        const tllm_sbp_node *n = &g->node[i];
        const tllm_sbp_place *at = tinyi_sbp_place_of(g, i);
        const int w = tinyi_sbp_width(at);
        tllm_sbp_node again = *n;
        tiny_status st = tinyi_sbp_shape_check(ctx, n->n_dim, n->dim, NULL);
        int ok = n->op >= 0 && n->op < TLLM_SBP_OPS && n->like >= 0 && n->like <= i &&
                 (i || !tinyi_sbp_operands(n->op)) &&
                 (n->op != TLLM_SBP_ACT || (n->act >= 0 && n->act < TLLM_SBP_ACTS));
        if (!st) st = tinyi_sbp_place_check(ctx, at);
        if (st) return st;
        for (k = 0; k < 2; k++) {
            ok = ok && n->s[k] < TLLM_SBP_S + n->n_dim && !(k && w == 1 && n->s[k] > TLLM_SBP_B);
            ok = ok && n->in[k] >= 0 && n->in[k] < TINYI_MAX(i, 1);
        }
        for (k = 0; k < tinyi_sbp_operands(n->op) && ok; k++)
            ok = tinyi_sbp_same(tinyi_sbp_place_of(g, n->in[k]), at) >= 0;
        if (!ok)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d (%s): its operation, operands or state are invalid", i,
                              tinyi_sbp_op_name(n->op));
        st = tinyi_sbp_infer(ctx, g, i, &again);
        if (st) return st;
        if (again.n_dim != n->n_dim || memcmp(again.dim, n->dim, (size_t)n->n_dim * sizeof *n->dim))
            return tinyi_sbp_refuse(ctx, i, n, "its shape is not the one that its operands give");
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_sbp_put(tiny_ctx *ctx, tllm_sbp_graph *g, const tllm_sbp_node *node, int *id)
{
    tllm_sbp_node n;
    const tllm_sbp_place *at;
    int k, a;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!node || !id) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a node and room for its number are needed");
    st = tinyi_sbp_graph_check(ctx, g);
    if (st) return st;
    if (g->n_node == TLLM_SBP_NODES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a graph has at most %d nodes", TLLM_SBP_NODES);
    n = *node;
    n.name[TLLM_SBP_NAME - 1] = 0;
    if (n.op < 0 || n.op >= TLLM_SBP_OPS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d: operation %d is not known", g->n_node, n.op);
    if (n.op == TLLM_SBP_ACT && (n.act < 0 || n.act >= TLLM_SBP_ACTS))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d: function %d is not known", g->n_node, n.act);
    at = n.place.n[0] ? &n.place : &g->place;
    st = tinyi_sbp_place_check(ctx, at);
    for (k = 0; k < tinyi_sbp_operands(n.op) && !st; k++) {
        if (n.in[k] < 0 || n.in[k] >= g->n_node)
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d (%s): operand %d is node %d, which is not an earlier one",
                            g->n_node, tinyi_sbp_op_name(n.op), k, n.in[k]);
        else if (tinyi_sbp_same(tinyi_sbp_place_of(g, n.in[k]), at) < 0)
            st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "node %d (%s): its ranks and those of operand %d overlap in part",
                            g->n_node, tinyi_sbp_op_name(n.op), k);
    }
    for (k = tinyi_sbp_operands(n.op); k < 2; k++) n.in[k] = 0;
    if (!st) st = tinyi_sbp_infer(ctx, g, g->n_node, &n);
    if (st) return st;
    for (k = n.n_dim; k < TLLM_SBP_DIMS; k++) n.dim[k] = 1;
    for (a = 0; a < 2; a++)
        if (n.s[a] >= TLLM_SBP_S + n.n_dim || (a && n.s[a] > TLLM_SBP_B && tinyi_sbp_width(at) == 1))
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "node %d (%s): its state along axis %d of the ranks is not possible", g->n_node,
                              tinyi_sbp_op_name(n.op), a);
    if (n.like < 0 || n.like > g->n_node)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d (%s): like %d is not 1 + an earlier node", g->n_node,
                          tinyi_sbp_op_name(n.op), n.like);
    if (n.like && (g->node[n.like - 1].n_dim != n.n_dim || tinyi_sbp_same(tinyi_sbp_place_of(g, n.like - 1), at) != 1))
        return tinyi_sbp_refuse(ctx, g->n_node, &n, "the node that it must be like has other axes or other ranks");
    *id = g->n_node;
    g->node[g->n_node++] = n;
    return TINY_OK;
}

TINY_API tiny_status tllm_sbp_input(tiny_ctx *ctx, tllm_sbp_graph *g, const char *name, int n_dim, const tiny_idx *dim,
                                    int *id)
{
    tllm_sbp_node n;
    int k;
    memset(&n, 0, sizeof n);
    if (name) (void)snprintf(n.name, sizeof n.name, "%s", name);
    n.n_dim = dim ? n_dim : -1;
    for (k = 0; k < n_dim && k < TLLM_SBP_DIMS && dim; k++) n.dim[k] = dim[k];
    return tllm_sbp_put(ctx, g, &n, id);
}

TINY_API tiny_status tllm_sbp_binary(tiny_ctx *ctx, tllm_sbp_graph *g, int op, int a, int b, int *id)
{
    tllm_sbp_node n;
    memset(&n, 0, sizeof n);
    n.op = op;
    n.in[0] = a;
    n.in[1] = b;
    return tllm_sbp_put(ctx, g, &n, id);
}

/* ---- signatures -------------------------------------------------------------------------------------------------- */

static int tinyi_sbp_sign(tllm_sbp_sign *list, int n, int a, int b, int out)
{
    if (n >= TLLM_SBP_SIGNS) return n;
    list[n].in[0] = (unsigned char)a;
    list[n].in[1] = (unsigned char)b;
    list[n].out = (unsigned char)out;
    return n + 1;
}

/* Is a balanced part of axis i of x a balanced part of axis j of y, for both shapes of the same list? */
static int tinyi_sbp_maps(const tllm_sbp_node *x, int i, const tllm_sbp_node *y, int j, int ranks)
{
    tiny_idx a = 1, b = 1;
    int k;
    for (k = 0; k < i; k++) a *= x->dim[k];
    for (k = 0; k < j; k++) b *= y->dim[k];
    return a == b && (x->dim[i] == y->dim[j] || (x->dim[i] % ranks == 0 && y->dim[j] % ranks == 0));
}

/* of a graph that was checked */
static int tinyi_sbp_signs(const tllm_sbp_graph *g, int node, tllm_sbp_sign list[TLLM_SBP_SIGNS])
{
    enum { B = TLLM_SBP_B, P = TLLM_SBP_P, S = TLLM_SBP_S };
    const tllm_sbp_node *v, *x, *w;
    int n = 0, i, j, nd;
    v = &g->node[node];
    x = &g->node[v->in[0]];
    w = &g->node[v->in[1]];
    nd = x->n_dim;
    switch (v->op) {
    case TLLM_SBP_INPUT:
        n = tinyi_sbp_sign(list, n, 0, 0, B);
        for (i = 0; i < v->n_dim; i++) n = tinyi_sbp_sign(list, n, 0, 0, S + i);
        if (v->s[0] == P || v->s[1] == P) n = tinyi_sbp_sign(list, n, 0, 0, P);
        return n;
    case TLLM_SBP_MATMUL:
        n = tinyi_sbp_sign(list, n, S + nd - 2, B, S + nd - 2);
        n = tinyi_sbp_sign(list, n, B, S + w->n_dim - 1, S + nd - 1);
        n = tinyi_sbp_sign(list, n, S + nd - 1, S + w->n_dim - 2, P);
        n = tinyi_sbp_sign(list, n, P, B, P);
        n = tinyi_sbp_sign(list, n, B, P, P);
        n = tinyi_sbp_sign(list, n, B, B, B);
        for (i = 0; i < nd - 2; i++) n = tinyi_sbp_sign(list, n, S + i, w->n_dim > 2 ? S + i : B, S + i);
        return n;
    case TLLM_SBP_ADD: case TLLM_SBP_MUL:
        for (i = 0; i < nd; i++) n = tinyi_sbp_sign(list, n, S + i, S + i, S + i);
        n = tinyi_sbp_sign(list, n, B, B, B);
        if (v->op == TLLM_SBP_ADD) return tinyi_sbp_sign(list, n, P, P, P);
        n = tinyi_sbp_sign(list, n, P, B, P);
        return tinyi_sbp_sign(list, n, B, P, P);
    case TLLM_SBP_LOOKUP:
        for (i = 0; i < nd; i++) n = tinyi_sbp_sign(list, n, S + i, B, S + i);
        n = tinyi_sbp_sign(list, n, B, S, P);
        n = tinyi_sbp_sign(list, n, B, S + 1, S + v->n_dim - 1);
        n = tinyi_sbp_sign(list, n, B, P, P);
        return tinyi_sbp_sign(list, n, B, B, B);
    case TLLM_SBP_SUM:
        for (i = 0; i < nd; i++)
            n = tinyi_sbp_sign(list, n, S + i, 0, i == v->axis ? P : S + i - (i > v->axis));
        break;
    case TLLM_SBP_SOFTMAX:
        for (i = 0; i < nd; i++) if (i != v->axis) n = tinyi_sbp_sign(list, n, S + i, 0, S + i);
        break;
    case TLLM_SBP_TRANSPOSE:
        for (i = 0; i < nd; i++) n = tinyi_sbp_sign(list, n, S + v->axes[i], 0, S + i);
        break;
    case TLLM_SBP_RESHAPE: {
        const tllm_sbp_place *at = tinyi_sbp_place_of(g, node);
        for (i = 0; i < nd; i++)
            for (j = 0; j < v->n_dim; j++)
                if (tinyi_sbp_maps(x, i, v, j, at->n[0] * tinyi_sbp_width(at)))
                    n = tinyi_sbp_sign(list, n, S + i, 0, S + j);
        break;
    }
    default:
        for (i = 0; i < nd; i++) n = tinyi_sbp_sign(list, n, S + i, 0, S + i);
    }
    n = tinyi_sbp_sign(list, n, B, 0, B);
    return v->op == TLLM_SBP_ACT || v->op == TLLM_SBP_SOFTMAX ? n : tinyi_sbp_sign(list, n, P, 0, P);
}
TINY_API int tllm_sbp_signs(const tllm_sbp_graph *g, int node, tllm_sbp_sign list[TLLM_SBP_SIGNS])
{
    if (!list || tinyi_sbp_graph_check(NULL, g) || node < 0 || node >= g->n_node) return 0;
    return tinyi_sbp_signs(g, node, list);
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

typedef struct tinyi_sbp_candidate { unsigned char in[2], out; double cost, flops, held; } tinyi_sbp_candidate;
typedef double tinyi_sbp_edge[TINYI_SBP_PAIRS][TINYI_SBP_PAIRS];
typedef struct tinyi_sbp_search {
    tiny_ctx *ctx;
    const tllm_sbp_graph *g;
    double per_flop, memory;
    size_t most;
    int n_candidate[TLLM_SBP_NODES], at[TLLM_SBP_NODES], uses[TLLM_SBP_NODES];
    tinyi_sbp_candidate *candidate;
    tinyi_sbp_edge *edge;                   /* (node, operand) */
    int edge_at[TLLM_SBP_NODES];
    short pick[TLLM_SBP_NODES];             /* the chosen candidate of each node */
} tinyi_sbp_search;

/* numbers of the largest piece */
static double tinyi_sbp_largest(const tllm_sbp_node *n, const tllm_sbp_place *at, int s0, int s1)
{
    const int s[2] = { s0, s1 }, p[2] = { at->n[0], tinyi_sbp_width(at) };
    tiny_idx d[TLLM_SBP_DIMS];
    double all = 1;
    int a, k;
    memcpy(d, n->dim, sizeof d);
    for (a = 0; a < 2; a++)
        if (s[a] >= TLLM_SBP_S) d[s[a] - TLLM_SBP_S] = (d[s[a] - TLLM_SBP_S] + p[a] - 1) / p[a];
    for (k = 0; k < n->n_dim; k++) all *= (double)d[k];
    return all;
}

static double tinyi_sbp_flops(const tllm_sbp_graph *g, int node, const tllm_sbp_sign *a, const tllm_sbp_sign *b)
{
    const tllm_sbp_place *at = tinyi_sbp_place_of(g, node);
    const tllm_sbp_node *v = &g->node[node], *x = &g->node[v->in[0]], *w = &g->node[v->in[1]];
    switch (v->op) {
    case TLLM_SBP_MATMUL: {
        tllm_sbp_node columns = *w;         /* the last axis alone */
        const int last = TLLM_SBP_S + w->n_dim - 1;
        int k;
        for (k = 0; k < w->n_dim - 1; k++) columns.dim[k] = 1;
        return 2 * tinyi_sbp_largest(x, at, a->in[0], b->in[0]) *
               tinyi_sbp_largest(&columns, at, a->in[1] == last ? last : 0, b->in[1] == last ? last : 0);
    }
    case TLLM_SBP_SCALE: case TLLM_SBP_ACT: case TLLM_SBP_ADD: case TLLM_SBP_MUL: case TLLM_SBP_LOOKUP:
        return tinyi_sbp_largest(v, at, a->out, b->out);
    case TLLM_SBP_SUM: return tinyi_sbp_largest(x, at, a->in[0], b->in[0]);
    case TLLM_SBP_SOFTMAX: return 4 * tinyi_sbp_largest(x, at, a->in[0], b->in[0]);
    default: return 0;                      /* moves only */
    }
}

static int tinyi_sbp_wanted(const tllm_sbp_node *v, int axis, int out)
{
    if (v->s[axis] != TLLM_SBP_ANY) return out == v->s[axis];
    return v->op != TLLM_SBP_INPUT || out != TLLM_SBP_P;
}

/* the signatures of a node as pairs of states; of a node without a second axis the second state is B */
static int tinyi_sbp_candidates(const tinyi_sbp_search *h, int node, tinyi_sbp_candidate *list)
{
    static const tllm_sbp_sign none = { { TLLM_SBP_B, TLLM_SBP_B }, TLLM_SBP_B };
    const tllm_sbp_node *v = &h->g->node[node];
    const tllm_sbp_place *at = tinyi_sbp_place_of(h->g, node);
    tllm_sbp_sign sign[TLLM_SBP_SIGNS];
    const int m = tinyi_sbp_signs(h->g, node, sign), flat = tinyi_sbp_width(at) == 1;
    int i, j, n = 0;
    for (i = 0; i < m; i++)
        for (j = 0; j < (flat ? 1 : m); j++) {
            const tllm_sbp_sign *a = &sign[i], *b = flat ? &none : &sign[j];
            tinyi_sbp_candidate *c = &list[n];
            int k;
            if (!tinyi_sbp_wanted(v, 0, a->out) || (!flat && !tinyi_sbp_wanted(v, 1, b->out))) continue;
            for (k = 0; k < 2; k++)
                c->in[k] = (unsigned char)(a->in[k] && b->in[k] ? TINYI_SBP_PAIR(a->in[k], b->in[k]) : 0);
            c->out = (unsigned char)TINYI_SBP_PAIR(a->out, b->out);
            c->flops = tinyi_sbp_flops(h->g, node, a, b);
            c->cost = h->per_flop * c->flops;
            c->held = (double)sizeof(float) * tinyi_sbp_largest(v, at, a->out, b->out);
            n++;
        }
    return n;
}

static void tinyi_sbp_search_close(tinyi_sbp_search *h)
{
    tiny_free(h->ctx, h->candidate);
    tiny_free(h->ctx, h->edge);
}
static tiny_status tinyi_sbp_search_open(tiny_ctx *ctx, const tllm_sbp_graph *g, const tllm_sbp_plan_desc *desc,
                                         tinyi_sbp_search *h)
{
    int i, k, edges = 0, total = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(h, 0, sizeof *h);
    if (!st) st = tinyi_sbp_graph_check(ctx, g);
    if (st) return st;
    if (!g->n_node) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the graph has no node");
    if (desc && !(desc->bytes_per_flop >= 0 && desc->bytes_per_flop < 1e100))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bytes_per_flop %g must be 0 (the default) or more",
                          desc->bytes_per_flop);
    if (desc && !(desc->memory >= 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a memory of %g bytes must be 0 (no limit) or more", desc->memory);
    if (desc && (desc->search < 0 || desc->search >= TLLM_SBP_SEARCHES))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "search %d is not known", desc->search);
    h->ctx = ctx;
    h->g = g;
    h->per_flop = desc && desc->bytes_per_flop > 0 ? desc->bytes_per_flop : 0.01;
    h->memory = desc ? desc->memory : 0;
    h->most = desc && desc->n_most ? desc->n_most : (size_t)1 << 20;
    for (i = 0; i < g->n_node; i++) {
        h->edge_at[i] = edges;
        edges += tinyi_sbp_operands(g->node[i].op);
        for (k = 0; k < tinyi_sbp_operands(g->node[i].op); k++) h->uses[g->node[i].in[k]]++;
        if (g->node[i].like) h->uses[g->node[i].like - 1]++;
    }
    h->candidate = (tinyi_sbp_candidate *)tinyi_alloc(ctx, (size_t)g->n_node * TINYI_SBP_CANDIDATES,
                                                      sizeof *h->candidate);
    h->edge = (tinyi_sbp_edge *)tinyi_alloc(ctx, (size_t)edges + 1, sizeof *h->edge);
    if (!h->candidate || !h->edge) {
        tinyi_sbp_search_close(h);
        return tiny_ctx_status(ctx);
    }
    for (i = 0; i < g->n_node && !st; i++) {
        const tllm_sbp_node *v = &g->node[i];
        h->at[i] = total;
        h->n_candidate[i] = tinyi_sbp_candidates(h, i, h->candidate + total);
        total += h->n_candidate[i];
        if (!h->n_candidate[i])
            st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "node %d (%s): no signature gives the state that it must have", i,
                            tinyi_sbp_op_name(v->op));
        for (k = 0; k < tinyi_sbp_operands(v->op); k++) {
            const tllm_sbp_node *x = &g->node[v->in[k]];
            tinyi_sbp_table(x->n_dim, x->dim, tinyi_sbp_place_of(g, v->in[k]), tinyi_sbp_place_of(g, i),
                            h->edge[h->edge_at[i] + k], NULL);
        }
    }
    if (st) tinyi_sbp_search_close(h);
    return st;
}

static void tinyi_sbp_unpack(int pair, unsigned char s[2])
{
    s[0] = (unsigned char)(pair / TINYI_SBP_STATES + TLLM_SBP_B);
    s[1] = (unsigned char)(pair % TINYI_SBP_STATES + TLLM_SBP_B);
}
/* s[1] ANY is B */
static int tinyi_sbp_is(int pair, const unsigned char s[2])
{
    unsigned char p[2];
    tinyi_sbp_unpack(pair, p);
    return p[0] == s[0] && p[1] == TINYI_MAX((int)s[1], (int)TLLM_SBP_B);
}
/* the figures of the picked candidates */
static void tinyi_sbp_fill(const tinyi_sbp_search *h, tllm_sbp_plan *plan)
{
    int i, k;
    memset(plan, 0, sizeof *plan);
    plan->n_node = h->g->n_node;
    for (i = 0; i < plan->n_node; i++) {
        const tllm_sbp_node *v = &h->g->node[i];
        const tinyi_sbp_candidate *c = &h->candidate[h->at[i] + h->pick[i]];
        tinyi_sbp_unpack(c->out, plan->node[i].out);
        for (k = 0; k < tinyi_sbp_operands(v->op); k++) {
            const int from = h->candidate[h->at[v->in[k]] + h->pick[v->in[k]]].out;
            tinyi_sbp_unpack(c->in[k], plan->node[i].in[k]);
            plan->node[i].bytes[k] = h->edge[h->edge_at[i] + k][from][c->in[k]];
            plan->bytes += plan->node[i].bytes[k];
        }
        plan->flops += c->flops;
        plan->held += c->held;
    }
    plan->cost = plan->bytes + h->per_flop * plan->flops;
}

/* ---- greedy ------------------------------------------------------------------------------------------------------ */

/* The candidate of a node whose result is this pair; -1: none */
static int tinyi_sbp_with(const tinyi_sbp_search *h, int node, int pair)
{
    int c;
    for (c = 0; c < h->n_candidate[node]; c++) if (h->candidate[h->at[node] + c].out == pair) return c;
    return -1;
}
/* Of an input that no operation has read: the candidate that is cheapest to box to a pair, itself first */
static int tinyi_sbp_free_input(const tinyi_sbp_search *h, int node, tinyi_sbp_edge *edge, int pair,
                                double *bytes)
{
    int c, best = tinyi_sbp_with(h, node, pair);
    *bytes = best < 0 ? TINYI_SBP_FAR : (*edge)[pair][pair];
    for (c = 0; c < h->n_candidate[node]; c++) {
        const double b = (*edge)[h->candidate[h->at[node] + c].out][pair];
        if (b < *bytes) *bytes = b, best = c;
    }
    return best;
}

static tiny_status tinyi_sbp_greedy(tinyi_sbp_search *h)
{
    const tllm_sbp_graph *g = h->g;
    double held = 0;
    int i, k, c;
    for (i = 0; i < g->n_node; i++) h->pick[i] = -1;
    for (i = 0; i < g->n_node; i++) {
        const tllm_sbp_node *v = &g->node[i];
        const int n = tinyi_sbp_operands(v->op);
        double least = TINYI_SBP_FAR, held_then = 0;
        short pick = -1, pick_in[2] = { -1, -1 }, pick_like = -1;
        if (!n && !v->like && v->s[0] == TLLM_SBP_ANY && h->uses[i]) continue;
        for (c = 0; c < h->n_candidate[i]; c++) {
            const tinyi_sbp_candidate *cand = &h->candidate[h->at[i] + c];
            double cost = cand->cost, more = cand->held, b;
            int in[2] = { -1, -1 }, like = -1;
            if (v->like) {
                const int other = v->like - 1;
                like = tinyi_sbp_with(h, other, cand->out);
                if (h->pick[other] >= 0 && h->candidate[h->at[other] + h->pick[other]].out != cand->out) continue;
                if (h->pick[other] < 0 && like < 0) continue;
                if (h->pick[other] < 0) more += h->candidate[h->at[other] + like].held;
                else like = -1;
            }
            for (k = 0; k < n && cost < TINYI_SBP_FAR; k++) {
                tinyi_sbp_edge *edge = &h->edge[h->edge_at[i] + k];
                int state = h->pick[v->in[k]];
                if (k && v->in[1] == v->in[0] && in[0] >= 0) state = in[0];
                if (like >= 0 && v->in[k] == v->like - 1) state = like;
                if (state >= 0) b = (*edge)[h->candidate[h->at[v->in[k]] + state].out][cand->in[k]];
                else {
                    in[k] = tinyi_sbp_free_input(h, v->in[k], edge, cand->in[k], &b);
                    if (in[k] >= 0) more += h->candidate[h->at[v->in[k]] + in[k]].held;
                }
                cost = b >= TINYI_SBP_FAR ? TINYI_SBP_FAR : cost + b;
            }
            if (cost >= least || (h->memory > 0 && held + more > h->memory)) continue;
            least = cost;
            held_then = more;
            pick = (short)c;
            pick_in[0] = (short)in[0];
            pick_in[1] = (short)in[1];
            pick_like = (short)like;
        }
        if (pick < 0 && h->memory > 0)
            return tinyi_fail(h->ctx, TINY_E_MEMORY, "node %d (%s): no signature keeps a rank below %.0f bytes", i,
                              tinyi_sbp_op_name(v->op), h->memory);
        if (pick < 0)
            return tinyi_fail(h->ctx, TINY_E_UNSUPPORTED, "node %d (%s): no signature fits the states before it", i,
                              tinyi_sbp_op_name(v->op));
        held += held_then;
        h->pick[i] = pick;
        if (pick_like >= 0) h->pick[v->like - 1] = pick_like;
        for (k = 0; k < n; k++) if (pick_in[k] >= 0) h->pick[v->in[k]] = pick_in[k];
    }
    return TINY_OK;
}

/* ---- exact ------------------------------------------------------------------------------------------------------- */

typedef struct tinyi_sbp_part_plan {        /* the best for one combination of open states */
    uint64_t key;
    double cost, held;
    int32_t before, same;                   /* the partial plan that it continues; another one with this key */
    short pick;
} tinyi_sbp_part_plan;
typedef struct tinyi_sbp_frontier {
    tinyi_sbp_part_plan *part;
    int32_t *table;                         /* hash of keys of the layer, 1 + index */
    size_t n, room, n_table;
} tinyi_sbp_frontier;

static size_t tinyi_sbp_place_in(const tinyi_sbp_frontier *f, uint64_t key)
{
    size_t i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (f->n_table - 1);
    while (f->table[i] && f->part[f->table[i] - 1].key != key) i = (i + 1) & (f->n_table - 1);
    return i;
}
/* doubles the room; the hash keeps half of its places free */
static tiny_status tinyi_sbp_grow(tinyi_sbp_search *h, tinyi_sbp_frontier *f, size_t layer)
{
    const size_t room = f->room ? 2 * f->room : 1024;
    tinyi_sbp_part_plan *part = (tinyi_sbp_part_plan *)tinyi_alloc(h->ctx, room, sizeof *part);
    int32_t *table = part ? (int32_t *)tinyi_alloc(h->ctx, 2 * room, sizeof *table) : NULL;
    size_t i;
    if (!table) {
        tiny_free(h->ctx, part);
        return tiny_ctx_status(h->ctx);
    }
    if (f->n) memcpy(part, f->part, f->n * sizeof *part);
    memset(table, 0, 2 * room * sizeof *table);
    tiny_free(h->ctx, f->part);
    tiny_free(h->ctx, f->table);
    f->part = part;
    f->table = table;
    f->room = room;
    f->n_table = 2 * room;
    for (i = layer; i < f->n; i++) {        /* of several with one key the first begins the chain */
        const size_t at = tinyi_sbp_place_in(f, f->part[i].key);
        if (!f->table[at]) f->table[at] = (int32_t)i + 1;
    }
    return TINY_OK;
}

static tiny_status tinyi_sbp_keep(tinyi_sbp_search *h, tinyi_sbp_frontier *f, size_t layer,
                                  const tinyi_sbp_part_plan *p)
{
    size_t at = tinyi_sbp_place_in(f, p->key);
    int32_t i = f->table[at] - 1, last = -1;
    for (; i >= 0; last = i, i = f->part[i].same) {
        tinyi_sbp_part_plan *q = &f->part[i];
        const int cheaper = p->cost < q->cost || (p->cost <= q->cost && p->held < q->held);
        const int smaller = p->held <= q->held;
        if (h->memory > 0 ? !cheaper && q->held <= p->held : !cheaper) return TINY_OK;
        if (h->memory > 0 && !(cheaper && smaller)) continue;
        {
            const int32_t same = q->same;
            *q = *p;
            q->same = same;
        }
        return TINY_OK;
    }
    if (f->n >= h->most || f->n >= INT32_MAX / 4)
        return tinyi_fail(h->ctx, TINY_E_UNSUPPORTED,
                          "the exact plan of this graph needs more than %zu partial plans: use the greedy search",
                          f->n);
    if (f->n == f->room) {
        tiny_status st = tinyi_sbp_grow(h, f, layer);
        if (st) return st;
        at = tinyi_sbp_place_in(f, p->key);
    }
    f->part[f->n] = *p;
    f->part[f->n].same = -1;
    if (last >= 0) f->part[last].same = (int32_t)f->n;
    else f->table[at] = (int32_t)f->n + 1;
    f->n++;
    return TINY_OK;
}

/* operands first, each as late as possible */
static void tinyi_sbp_visit(const tllm_sbp_graph *g, int node, unsigned char *seen, unsigned char *order, int *n)
{
    int k;
    if (seen[node]) return;
    seen[node] = 1;
    for (k = 0; k < tinyi_sbp_operands(g->node[node].op); k++) tinyi_sbp_visit(g, g->node[node].in[k], seen, order, n);
    if (g->node[node].like) tinyi_sbp_visit(g, g->node[node].like - 1, seen, order, n);
    order[(*n)++] = (unsigned char)node;
}

static int tinyi_sbp_get(uint64_t key, int slot)
{
    return (int)(key >> slot * TINYI_SBP_SLOT_BITS) & ((1 << TINYI_SBP_SLOT_BITS) - 1);
}

/* bound: the cost of a known plan */
static tiny_status tinyi_sbp_exact(tinyi_sbp_search *h, double bound)
{
    const tllm_sbp_graph *g = h->g;
    unsigned char seen[TLLM_SBP_NODES] = { 0 }, order[TLLM_SBP_NODES];
    int slot[TLLM_SBP_NODES], left[TLLM_SBP_NODES], n = 0, i, k, c;
    double rest[TLLM_SBP_NODES + 1];        /* the least arithmetic of the operations from there on */
    size_t layer = 0, end, e, first;
    uint64_t taken = 0;
    tinyi_sbp_frontier f;
    tinyi_sbp_part_plan p;
    tiny_status st;
    memset(&f, 0, sizeof f);
    memcpy(left, h->uses, sizeof left);
    memset(slot, 0, sizeof slot);
    for (i = g->n_node - 1; i >= 0; i--) if (!h->uses[i]) tinyi_sbp_visit(g, i, seen, order, &n);
    rest[n] = 0;
    for (i = n - 1; i >= 0; i--) {
        double least = TINYI_SBP_FAR;
        for (c = 0; c < h->n_candidate[order[i]]; c++)
            least = TINYI_MIN(least, h->candidate[h->at[order[i]] + c].cost);
        rest[i] = rest[i + 1] + least;
    }
    memset(&p, 0, sizeof p);
    p.before = -1;
    st = tinyi_sbp_grow(h, &f, 0);
    if (!st) st = tinyi_sbp_keep(h, &f, 0, &p);
    for (i = 0; i < n && !st; i++) {
        const int v = order[i], operands = tinyi_sbp_operands(g->node[v].op), like = g->node[v].like - 1;
        uint64_t clear = 0;
        int mine = -1, from[2];
        for (k = 0; k < operands; k++) {
            from[k] = slot[g->node[v].in[k]];
            if (!--left[g->node[v].in[k]]) clear |= UINT64_C(1) << slot[g->node[v].in[k]];
        }
        if (like >= 0 && !--left[like]) clear |= UINT64_C(1) << slot[like];
        taken &= ~clear;
        if (left[v]) {
            for (mine = 0; mine < TINYI_SBP_SLOTS && (taken >> mine & 1); mine++) {}
            if (mine == TINYI_SBP_SLOTS) {
                st = tinyi_fail(h->ctx, TINY_E_UNSUPPORTED, "node %d: more than %d tensors wait for later operations: "
                                "use the greedy search", v, TINYI_SBP_SLOTS);
                break;
            }
            taken |= UINT64_C(1) << mine;
            slot[v] = mine;
        }
        first = layer;
        end = layer = f.n;
        memset(f.table, 0, f.n_table * sizeof *f.table);
        for (e = first; e < end && !st; e++)
            for (c = 0; c < h->n_candidate[v] && !st; c++) {
                const tinyi_sbp_candidate *cand = &h->candidate[h->at[v] + c];
                int s;
                p = f.part[e];
                if (like >= 0 && tinyi_sbp_get(p.key, slot[like]) != cand->out) continue;
                for (k = 0; k < operands; k++)
                    p.cost += h->edge[h->edge_at[v] + k][tinyi_sbp_get(p.key, from[k])][cand->in[k]];
                p.cost += cand->cost;
                p.held += cand->held;
                if (p.cost >= TINYI_SBP_FAR || p.cost + rest[i + 1] > bound * (1 + 1e-12) ||
                    (h->memory > 0 && p.held > h->memory))
                    continue;
                for (s = 0; s < TINYI_SBP_SLOTS; s++)
                    if (clear >> s & 1) p.key &= ~((UINT64_C(63)) << s * TINYI_SBP_SLOT_BITS);
                if (mine >= 0) p.key |= (uint64_t)cand->out << mine * TINYI_SBP_SLOT_BITS;
                p.before = (int32_t)e;
                p.pick = (short)c;
                st = tinyi_sbp_keep(h, &f, layer, &p);
            }
        if (!st && f.n == layer)
            st = h->memory > 0
                     ? tinyi_fail(h->ctx, TINY_E_MEMORY, "no plan keeps every rank below %.0f bytes", h->memory)
                     : tinyi_fail(h->ctx, TINY_E_UNSUPPORTED, "node %d (%s): no signature fits the state that it must "
                                  "have", v, tinyi_sbp_op_name(g->node[v].op));
    }
    if (!st) {
        size_t best = layer;
        int32_t at;
        for (e = layer; e < f.n; e++) if (f.part[e].cost < f.part[best].cost) best = e;
        for (at = (int32_t)best, i = n - 1; i >= 0; i--, at = f.part[at].before) h->pick[order[i]] = f.part[at].pick;
    }
    tiny_free(h->ctx, f.part);
    tiny_free(h->ctx, f.table);
    return st;
}

TINY_API tiny_status tllm_sbp_plan_make(tiny_ctx *ctx, const tllm_sbp_graph *g, const tllm_sbp_plan_desc *desc,
                                        tllm_sbp_plan *plan)
{
    tinyi_sbp_search h;
    double bound = TINYI_SBP_FAR;
    tiny_status st = tinyi_sbp_search_open(ctx, g, desc, &h);
    if (st) return st;
    if (!plan) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "a plan needs room for the answer");
    else {
        st = tinyi_sbp_greedy(&h);
        if (!st) {
            tinyi_sbp_fill(&h, plan);
            bound = plan->cost;
        }
        if (!desc || desc->search == TLLM_SBP_EXACT) {
            st = tinyi_sbp_exact(&h, bound);
            if (!st) tinyi_sbp_fill(&h, plan);
        }
        if (st) memset(plan, 0, sizeof *plan);
    }
    tinyi_sbp_search_close(&h);
    return st;
}

TINY_API tiny_status tllm_sbp_plan_check(tiny_ctx *ctx, const tllm_sbp_graph *g, const tllm_sbp_plan_desc *desc,
                                         tllm_sbp_plan *plan)
{
    tinyi_sbp_search h;
    int i, k, c;
    tiny_status st = tinyi_sbp_search_open(ctx, g, desc, &h);
    if (st) return st;
    if (!plan || plan->n_node != g->n_node)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "the plan is not one of this graph");
    for (i = 0; i < g->n_node && !st; i++) {
        const tllm_sbp_node *v = &g->node[i];
        const tllm_sbp_choice *p = &plan->node[i];
        const int n = tinyi_sbp_operands(v->op);
        for (c = 0; c < h.n_candidate[i]; c++) {
            int fits = tinyi_sbp_is(h.candidate[h.at[i] + c].out, p->out);
            for (k = 0; k < n; k++) fits = fits && tinyi_sbp_is(h.candidate[h.at[i] + c].in[k], p->in[k]);
            if (fits) break;
        }
        h.pick[i] = (short)c;
        if (c == h.n_candidate[i])
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d (%s): its states in the plan are none of its signatures", i,
                            tinyi_sbp_op_name(v->op));
        else if (v->like && plan->node[v->like - 1].out[0] + 256 * TINYI_MAX(plan->node[v->like - 1].out[1], 1) !=
                                p->out[0] + 256 * TINYI_MAX(p->out[1], 1))
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d (%s): its state is not that of node %d", i,
                            tinyi_sbp_op_name(v->op), v->like - 1);
    }
    if (!st) tinyi_sbp_fill(&h, plan);
    if (!st && h.memory > 0 && plan->held > h.memory)
        st = tinyi_fail(ctx, TINY_E_MEMORY, "the plan holds %.0f bytes on a rank, the limit is %.0f", plan->held,
                        h.memory);
    tinyi_sbp_search_close(&h);
    return st;
}

tllm_sbp_layout tinyi_sbp_layout(const tllm_sbp_graph *g, const tllm_sbp_plan *plan, int node)
{
    tllm_sbp_layout l;
    l.place = *tinyi_sbp_place_of(g, node);
    memcpy(l.s, plan->node[node].out, 2);
    return l;
}
TINY_API tiny_status tllm_sbp_layout_of(tiny_ctx *ctx, const tllm_sbp_graph *g, const tllm_sbp_plan *plan, int node,
                                        tllm_sbp_layout *layout)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_sbp_graph_check(ctx, g);
    if (st) return st;
    if (!plan || !layout || plan->n_node != g->n_node || node < 0 || node >= g->n_node)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "there is no node %d, or the plan is not one of this graph", node);
    *layout = tinyi_sbp_layout(g, plan, node);
    return TINY_OK;
}
