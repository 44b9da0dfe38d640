/* src/llm/dist/sbp_run.c - runs the plan of a graph: boxes each operand, then computes on this rank's pieces
 * Method   every rank goes through the operations in the same order, so boxings need no further agreement. A boxed copy
 *          lives while its operation runs; a result lives until its last use.
 * Fast     products, sums and functions are operations of the table, with the kernels of the context's target. On a
 *          context with the target "reference" the same calls run their references. */
#include "core/state_inside.h"
#include "llm/dist/sbp.h"
#include "math/binary.h"
#include "math/elem.h"
#include "math/layout.h"
#include "math/matmul.h"
#include "math/reduce.h"
#include "math/softmax.h"
#include <stdio.h>
#include <string.h>

typedef struct tinyi_sbp_runner {
    tiny_ctx *ctx;
    const tllm_sbp_graph *g;
    const tllm_sbp_plan *plan;
    int rank;
    float *made[TLLM_SBP_NODES];            /* this rank's piece of each result */
    float *boxed[2];
} tinyi_sbp_runner;

static tiny_tensor tinyi_sbp_view(float *x, const tllm_sbp_node *n, const tllm_sbp_box *b)
{
    return tiny_tensor_nd(x, TINY_F32, n->n_dim, b->n);
}

/* Of a table this rank has rows first to first + n - 1. Other rows become zeros; the sum over ranks has them. */
static tiny_status tinyi_sbp_rows(tiny_ctx *ctx, const float *id, size_t n_id, const float *table, tiny_idx rows,
                                  tiny_idx first, tiny_idx n, tiny_idx width, float *y)
{
    size_t i;
    for (i = 0; i < n_id; i++, y += width) {
        const float v = id[i];
        const tiny_idx row = v >= 0.0f && v < 16777216.0f ? (tiny_idx)v : -1;
        if (row < 0 || row >= rows || (float)row < v || (float)row > v)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "lookup: %g is no row of a table with %td rows", (double)v, rows);
        if (row >= first && row < first + n) memcpy(y, table + (row - first) * width, (size_t)width * sizeof *y);
        else memset(y, 0, (size_t)width * sizeof *y);
    }
    return TINY_OK;
}

static tiny_status tinyi_sbp_act_of(tiny_ctx *ctx, int act, const tiny_tensor *x, const tiny_tensor *y)
{
    switch (act) {
    case TLLM_SBP_RELU: return tiny_relu(ctx, x, y);
    case TLLM_SBP_RELU2: return tiny_relu2(ctx, x, y);
    case TLLM_SBP_TANH: return tiny_tanh(ctx, x, y);
    case TLLM_SBP_GELU: return tiny_gelu(ctx, x, y);
    default: return tiny_silu(ctx, x, y);
    }
}

/* the operation on pieces: xb, wb and yb are the boxes of operands and result */
static tiny_status tinyi_sbp_compute(tinyi_sbp_runner *r, int node, float *x, const tllm_sbp_box *xb, float *w,
                                     const tllm_sbp_box *wb, float *y, const tllm_sbp_box *yb)
{
    const tllm_sbp_node *v = &r->g->node[node], *xn = &r->g->node[v->in[0]], *wn = &r->g->node[v->in[1]];
    const size_t n_y = tinyi_sbp_count(yb), n_x = tinyi_sbp_count(xb);
    tiny_tensor tx = tinyi_sbp_view(x, xn, xb), tw = tinyi_sbp_view(w, wn, wb), ty = tinyi_sbp_view(y, v, yb);
    if (!n_y) return TINY_OK;
    if (!n_x) {                             /* a sum or a product over nothing */
        memset(y, 0, n_y * sizeof *y);
        return TINY_OK;
    }
    switch (v->op) {
    case TLLM_SBP_MATMUL: return tiny_matmul(r->ctx, &tx, &tw, NULL, TINY_ACT_NONE, &ty);
    case TLLM_SBP_SCALE: return tiny_scale(r->ctx, &tx, v->factor, 0.0f, &ty);
    case TLLM_SBP_ACT: return tinyi_sbp_act_of(r->ctx, v->act, &tx, &ty);
    case TLLM_SBP_ADD: return tiny_add(r->ctx, &tx, &tw, &ty);
    case TLLM_SBP_MUL: return tiny_mul(r->ctx, &tx, &tw, &ty);
    case TLLM_SBP_SUM: {
        tiny_reduce_params p;
        memset(&p, 0, sizeof p);
        p.axis = xn->n_dim - 1 - v->axis;
        return tiny_sum(r->ctx, &tx, &p, &ty);
    }
    case TLLM_SBP_SOFTMAX: {
        const tiny_tensor a = tiny_tensor_swap(tx, v->axis, v->n_dim - 1);
        const tiny_tensor b = tiny_tensor_swap(ty, v->axis, v->n_dim - 1);
        return tiny_softmax(r->ctx, &a, NULL, &b);
    }
    case TLLM_SBP_LOOKUP:
        return tinyi_sbp_rows(r->ctx, x, n_x, w, wn->dim[0], wb->at[0], wb->n[0], wb->n[1], y);
    case TLLM_SBP_TRANSPOSE: {
        tiny_tensor a = tx;
        int k;
        for (k = 0; k < v->n_dim; k++) {
            a.dim[k] = tx.dim[v->axes[k]];
            a.stride[k] = tx.stride[v->axes[k]];
        }
        return tiny_copy(r->ctx, &a, &ty);
    }
    default: memcpy(y, x, n_y * sizeof *y); return TINY_OK;     /* COPY, RESHAPE */
    }
}

static void tinyi_sbp_box_of(const tinyi_sbp_runner *r, int node, const tllm_sbp_layout *l, tllm_sbp_box *b)
{
    const tllm_sbp_node *n = &r->g->node[node];
    tinyi_sbp_piece(&l->place, l->s, n->n_dim, n->dim, tinyi_sbp_member(&l->place, r->rank), b);
}

static tiny_status tinyi_sbp_step(tinyi_sbp_runner *r, tiny_coll *c, int node, const float *given)
{
    const tllm_sbp_node *v = &r->g->node[node];
    const int operands = tinyi_sbp_operands(v->op);
    const tllm_sbp_layout mine = tinyi_sbp_layout(r->g, r->plan, node);
    tllm_sbp_layout from, to;
    tllm_sbp_box box, in[2];
    float *x[2] = { NULL, NULL };
    size_t n;
    int k, here;
    tiny_status st = TINY_OK;
    here = tinyi_sbp_member(&mine.place, r->rank) >= 0;
    tinyi_sbp_box_of(r, node, &mine, &box);
    memset(in, 0, sizeof in);
    n = tinyi_sbp_count(&box);
    if (here) {
        r->made[node] = (float *)tinyi_alloc(r->ctx, n + 1, sizeof(float));
        if (!r->made[node]) return tiny_ctx_status(r->ctx);
    }
    if (!operands) {
        if (n) memcpy(r->made[node], given, n * sizeof(float));
        return TINY_OK;
    }
    for (k = 0; k < operands && !st; k++) {
        const int other = v->in[k];
        from = tinyi_sbp_layout(r->g, r->plan, other);
        to = mine;
        memcpy(to.s, r->plan->node[node].in[k], 2);
        tinyi_sbp_box_of(r, other, &to, &in[k]);
        x[k] = r->made[other];
        if (tinyi_sbp_same(&from.place, &to.place) == 1 && !memcmp(from.s, to.s, 2)) continue;
        if (here) {
            x[k] = r->boxed[k] = (float *)tinyi_alloc(r->ctx, tinyi_sbp_count(&in[k]) + 1, sizeof(float));
            if (!x[k]) return tiny_ctx_status(r->ctx);
        }
        st = tllm_sbp_boxing(r->ctx, c, r->g->node[other].n_dim, r->g->node[other].dim, &from, &to, r->made[other],
                             x[k]);
    }
    if (!st && here) st = tinyi_sbp_compute(r, node, x[0], &in[0], x[1], &in[1], r->made[node], &box);
    for (k = 0; k < 2; k++) {
        tiny_free(r->ctx, r->boxed[k]);
        r->boxed[k] = NULL;
    }
    return st;
}

TINY_API tiny_status tllm_sbp_run(tiny_ctx *ctx, tiny_coll *c, const tllm_sbp_graph *g, const tllm_sbp_plan *plan,
                                  const float *const *in, float *const *out)
{
    tinyi_sbp_runner r;
    tllm_sbp_plan copy;
    int left[TLLM_SBP_NODES], i, k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!c || !c->net || !g || !plan || !in)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a run needs the net of a rank, a graph, its plan and its inputs");
    copy = *plan;
    st = tllm_sbp_plan_check(ctx, g, NULL, &copy);
    if (st) return st;
    memset(&r, 0, sizeof r);
    memset(left, 0, sizeof left);
    r.ctx = ctx;
    r.g = g;
    r.plan = &copy;
    r.rank = c->net->rank;
    for (i = 0; i < g->n_node; i++) {
        const tllm_sbp_layout l = tinyi_sbp_layout(g, &copy, i);
        tllm_sbp_box b;
        if (l.place.first + l.place.n[0] * tinyi_sbp_width(&l.place) > c->net->world)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d runs on rank %d, and there are %d ranks", i,
                              l.place.first + l.place.n[0] * tinyi_sbp_width(&l.place) - 1, c->net->world);
        tinyi_sbp_box_of(&r, i, &l, &b);
        if (g->node[i].op == TLLM_SBP_INPUT && tinyi_sbp_count(&b) && !in[i])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "node %d (%s) is an input, and its piece is NULL", i,
                              g->node[i].name);
    }
    for (i = 0; i < g->n_node; i++)
        for (k = 0; k < tinyi_sbp_operands(g->node[i].op); k++) left[g->node[i].in[k]]++;
    for (i = 0; i < g->n_node && !st; i++) {
        st = tinyi_sbp_step(&r, c, i, in[i]);
        if (!st && out && out[i] && r.made[i]) {
            const tllm_sbp_layout l = tinyi_sbp_layout(g, &copy, i);
            tllm_sbp_box b;
            tinyi_sbp_box_of(&r, i, &l, &b);
            memcpy(out[i], r.made[i], tinyi_sbp_count(&b) * sizeof(float));
        }
        for (k = 0; k < tinyi_sbp_operands(g->node[i].op); k++)
            if (!--left[g->node[i].in[k]]) {
                tiny_free(ctx, r.made[g->node[i].in[k]]);
                r.made[g->node[i].in[k]] = NULL;
            }
        if (!left[i]) {
            tiny_free(ctx, r.made[i]);
            r.made[i] = NULL;
        }
    }
    if (st) (void)tinyi_net_end(ctx, c->net, st);       /* also for what was found here, and not by a message */
    for (i = 0; i < g->n_node; i++) tiny_free(ctx, r.made[i]);
    for (k = 0; k < 2; k++) tiny_free(ctx, r.boxed[k]);
    return st;
}
