/* src/math/edges_grad.c - the gradients of the edge operations, made of other operations
 * Paper    P. Velickovic et al., 2018, and S. Brody et al., 2022: the layers; T. Dao et al., "FlashAttention", 2022,
 *          section 3.1: the sum over a row of P dP is dy . y.
 * Formula  dy is dL/dy, r the row of edge p, c = col[p]. The operations are defined in math/edges.h and edges_score.h.
 *          spmm       u = act(x[c] + e[p]). sum: g[p] = dy[r]; mean: dy[r] / edges of r; max, min: dy[r] at the first
 *                     edge that has the extreme value, else 0. dw[p] = sum over a head of g u, dz[p] = w g act'(x[c] +
 *                     e[p]), de = dz, dx[c] = sum dz[p].
 *                     For a sum or mean without act: dx = A' dy, which is spmm over the transposed graph, and dw is
 *                     sddmm of dy and x + e.
 *          sddmm      DOT: k = scale ds; da[r] = sum k (b[c] + e[p]), db[c] = sum k a[r], de = k a[r]: two spmm.
 *                     ADD: z = a[r] + b[c] + e; dz = ds att leaky'(z); da[r] = sum dz, db[c] = sum dz, de = dz, datt =
 *                     sum ds leaky(z).
 *          softmax    ds = p (dp - sum over the row of p dp)
 *          attention P is computed again; dv = P' dy, dP = sddmm of dy and v, ds = P (dP - dy . y); then as sddmm.
 * Order    Sums over a column use the transposed graph, made by a stable counting sort: the edges of a column keep
 *          their order. The sums themselves are spmm, so they do not depend on the number of threads.
 * Memory   three numbers an edge for the transposed graph. spmm of a sum or mean and DOT scores need `heads` more
 *          numbers an edge. All others need a small multiple of the features for each edge.
 * Left out keeping the transposed graph between backward passes: the tape owns nothing between them. */
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <string.h>

#ifndef TINYI_NO_TRAIN
typedef struct tinyi_edge_grad {
    tiny_grad *g;
    const tiny_tensor *offset, *col;        /* col NULL: edge p comes from p */
    tiny_idx n, m, n_x;
    tiny_tensor row;                        /* (m) i32: the row of each edge; data NULL until it is asked for */
    /* (n_x + 1) i64, (m) i32, (m) i32: the same edges, by where they come from */
    tiny_tensor turned, turned_row, turned_edge;
} tinyi_edge_grad;

static tiny_status tinyi_edge_grad_open(tinyi_edge_grad *t, tiny_grad *g, const tiny_op *op, const tiny_tensor *col,
                                        tiny_idx m, tiny_idx n_x)
{
    memset(t, 0, sizeof *t);
    t->g = g;
    t->offset = op->in[0];
    t->col = col;
    t->n = op->in[0]->dim[0] - 1;
    t->m = m;
    t->n_x = n_x;
    if (m <= 0x7fffffff && t->n <= 0x7fffffff) return TINY_OK;
    return tinyi_fail(tiny_grad_ctx(g), TINY_E_OVERFLOW,
                      "the gradient along %td edges of %td rows: the most of both are 2147483647", m, t->n);
}

static tiny_status tinyi_edge_grad_rows(tinyi_edge_grad *t)
{
    const int64_t *offset = (const int64_t *)t->offset->data;
    int64_t p;
    tiny_idx r;
    tiny_status st;
    if (t->row.data) return TINY_OK;
    st = tiny_grad_new(t->g, TINY_I32, 1, &t->m, &t->row);
    for (r = 0; !st && !tiny_grad_dry(t->g) && r < t->n; r++)
        for (p = offset[r]; p < offset[r + 1]; p++) ((int32_t *)t->row.data)[p] = (int32_t)r;
    return st;
}

/* by counting; the operation that ran has looked at all numbers */
static tiny_status tinyi_edge_grad_turn(tinyi_edge_grad *t)
{
    const tiny_idx n1 = t->n_x + 1;
    const int32_t *col;
    int64_t *at, p;
    tiny_idx i;
    tiny_status st;
    if (t->turned.data) return TINY_OK;
    st = tinyi_edge_grad_rows(t);
    if (!st) st = tiny_grad_new(t->g, TINY_I64, 1, &n1, &t->turned);
    if (!st) st = tiny_grad_new(t->g, TINY_I32, 1, &t->m, &t->turned_row);
    if (!st) st = tiny_grad_new(t->g, TINY_I32, 1, &t->m, &t->turned_edge);
    if (st || tiny_grad_dry(t->g)) return st;
    col = (const int32_t *)t->col->data;
    at = (int64_t *)t->turned.data;
    memset(at, 0, (size_t)n1 * sizeof *at);
    for (p = 0; p < t->m; p++) at[col[p]]++;
    for (i = 0, p = 0; i < n1; i++) {       /* counts to beginnings */
        const int64_t count = at[i];
        at[i] = p;
        p += count;
    }
    for (p = 0; p < t->m; p++) {
        const int64_t to = at[col[p]]++;
        ((int32_t *)t->turned_row.data)[to] = ((const int32_t *)t->row.data)[p];
        ((int32_t *)t->turned_edge.data)[to] = (int32_t)p;
    }
    for (i = t->n_x; i > 0; i--) at[i] = at[i - 1];         /* each place has moved to the beginning of the next */
    at[0] = 0;
    return TINY_OK;
}

/* any operation into new scratch */
static tiny_status tinyi_edge_grad_run(tinyi_edge_grad *t, tiny_op *op, tiny_tensor *y)
{
    tiny_tensor want[TINY_OP_MAX_OUT];
    tiny_status st;
    memset(want, 0, sizeof want);
    st = tiny_op_shape(tiny_grad_ctx(t->g), op, want);
    if (!st) st = tiny_grad_new(t->g, want[0].dtype, want[0].rank, want[0].dim, y);
    op->out[0] = y;
    return st ? st : tiny_grad_op(t->g, op);
}

/* y[r] = sum over the edges of w[p] (x[col[p]] + e[p]); col NULL: of w[p] x[p] */
static tiny_status tinyi_edge_grad_sum(tinyi_edge_grad *t, const tiny_tensor *offset, const tiny_tensor *x,
                                       const tiny_tensor *col, const tiny_tensor *w, const tiny_tensor *e,
                                       tiny_tensor *y)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_SPMM;
    op.in[0] = offset;
    op.in[TINYI_SPMM_X] = x;
    op.in[TINYI_SPMM_COL] = col;
    op.in[TINYI_SPMM_W] = w;
    op.in[TINYI_SPMM_E] = e;
    return tinyi_edge_grad_run(t, &op, y);
}

/* y[c] = sum over the edges that come from c of w[p] x[row of p] */
static tiny_status tinyi_edge_grad_back(tinyi_edge_grad *t, const tiny_tensor *x, const tiny_tensor *w, tiny_tensor *y)
{
    tiny_tensor turned;
    tiny_status st = tinyi_edge_grad_turn(t);
    if (!st && w) st = tiny_grad_run(t->g, TINY_OP_GATHER, w, &t->turned_edge, NULL, &turned);
    return st ? st : tinyi_edge_grad_sum(t, &t->turned, x, &t->turned_row, w ? &turned : NULL, NULL, y);
}

/* y[c] = sum over the edges that come from c of z[p] */
static tiny_status tinyi_edge_grad_collect(tinyi_edge_grad *t, const tiny_tensor *z, tiny_tensor *y)
{
    tiny_status st = tinyi_edge_grad_turn(t);
    return st ? st : tinyi_edge_grad_sum(t, &t->turned, z, &t->turned_edge, NULL, NULL, y);
}

/* y[p] = x[row of p] */
static tiny_status tinyi_edge_grad_spread(tinyi_edge_grad *t, const tiny_tensor *x, tiny_tensor *y)
{
    tiny_status st = tinyi_edge_grad_rows(t);
    return st ? st : tiny_grad_run(t->g, TINY_OP_GATHER, x, &t->row, NULL, y);
}

/* s[p][h] = sum over head h of a[r] (b[c] + e[p]) */
static tiny_status tinyi_edge_grad_dot(tinyi_edge_grad *t, const tiny_tensor *a, const tiny_tensor *b,
                                       const tiny_tensor *e, tiny_idx heads, tiny_tensor *s)
{
    tiny_sddmm_params p;
    tiny_tensor own;
    tiny_op op;
    tiny_idx i;
    tiny_status st;
    memset(&p, 0, sizeof p);
    memset(&op, 0, sizeof op);
    p.heads = (int)heads;
    op.kind = TINY_OP_SDDMM;
    op.in[0] = t->offset;
    op.in[TINYI_SDDMM_COL] = t->col;
    op.in[TINYI_SDDMM_A] = a;
    op.in[TINYI_SDDMM_B] = b;
    op.in[TINYI_SDDMM_E] = e;
    op.params = &p;
    if (!t->col) {
        st = tiny_grad_new(t->g, TINY_I32, 1, &t->m, &own);
        if (st) return st;
        for (i = 0; !tiny_grad_dry(t->g) && i < t->m; i++) ((int32_t *)own.data)[i] = (int32_t)i;
        op.in[TINYI_SDDMM_COL] = &own;
    }
    return tinyi_edge_grad_run(t, &op, s);
}

/* (rows, heads) or (rows) under the shape (rows, heads, each), and dense (rows, heads * each) cut the same way */
static tiny_tensor tinyi_edge_grad_wide(const tiny_tensor *w, tiny_idx each)
{
    tiny_tensor y = *w;
    y.rank = 3;
    y.dim[1] = w->rank == 2 ? w->dim[1] : 1;
    y.stride[1] = w->rank == 2 ? w->stride[1] : 0;
    y.dim[2] = each;
    y.stride[2] = 0;
    return y;
}

static tiny_tensor tinyi_edge_grad_cut(const tiny_tensor *x, tiny_idx heads)
{
    tiny_tensor y = *x;
    y.rank = 3;
    y.dim[1] = heads;
    y.dim[2] = x->dim[1] / heads;
    y.stride[2] = x->stride[1];
    y.stride[1] = x->stride[1] * y.dim[2];
    return y;
}

static tiny_tensor tinyi_edge_grad_join(const tiny_tensor *x)
{
    return tinyi_grad_as(x, 2, x->dim[0], x->dim[1] * x->dim[2], 1, 1);
}

/* y = x with each head times its number of w: (rows, f) */
static tiny_status tinyi_edge_grad_weigh(tinyi_edge_grad *t, const tiny_tensor *x, const tiny_tensor *w, tiny_tensor *y)
{
    const tiny_idx heads = w && w->rank == 2 ? w->dim[1] : 1;
    tiny_tensor a, b, c;
    tiny_status st;
    if (!w) {
        *y = *x;
        return TINY_OK;
    }
    a = tinyi_edge_grad_cut(x, heads);
    b = tinyi_edge_grad_wide(w, a.dim[2]);
    st = tiny_grad_run(t->g, TINY_OP_MUL, &a, &b, NULL, &c);
    if (!st) *y = tinyi_edge_grad_join(&c);
    return st;
}

/* ---- spmm */

/* x / edges of the row */
static tiny_status tinyi_edge_grad_mean(tinyi_edge_grad *t, const tiny_tensor *x, tiny_tensor *y)
{
    const int64_t *offset = (const int64_t *)t->offset->data;
    tiny_tensor share;
    tiny_idx dim[2], r;
    tiny_status st;
    dim[0] = t->n;
    dim[1] = 1;
    st = tiny_grad_new(t->g, x->dtype, 2, dim, &share);
    for (r = 0; !st && !tiny_grad_dry(t->g) && r < t->n; r++)
        tinyi_real_set(share.data, share.dtype, r, 1.0 / (double)TINYI_MAX(1, offset[r + 1] - offset[r]));
    return st ? st : tiny_grad_run(t->g, TINY_OP_MUL, x, &share, NULL, y);
}

/* g[p] is dy[r] where p is the first edge of its row with the extreme value of w u, else 0; a NaN is extreme, as in
 * spmm */
static tiny_status tinyi_edge_grad_winner(tinyi_edge_grad *t, const tiny_tensor *dy, const tiny_tensor *u,
                                          const tiny_tensor *w, int reduce, tiny_tensor *g)
{
    const int64_t *offset = (const int64_t *)t->offset->data;
    const tiny_idx n = u->dim[1], heads = w && w->rank == 2 ? w->dim[1] : 1, each = n / heads;
    tiny_idx r, f;
    int64_t p;
    tiny_status st = tiny_grad_new(t->g, u->dtype, 2, u->dim, g);
    if (st || tiny_grad_dry(t->g)) return st;
    memset(g->data, 0, (size_t)tiny_tensor_count(g) * tiny_dtype_bytes(g->dtype));
    for (r = 0; r < t->n; r++)
        for (f = 0; f < n && offset[r] < offset[r + 1]; f++) {
            int64_t best = -1;
            double top = 0.0;
            for (p = offset[r]; p < offset[r + 1]; p++) {
                double v = tinyi_real(u->data, u->dtype, (tiny_idx)p * u->stride[0] + f * u->stride[1]);
                if (w) v *= tinyi_real(w->data, w->dtype, (tiny_idx)p * heads + f / each);
                if (best >= 0 && !(top == top && (v != v || (reduce == TINY_EDGE_MAX ? v > top : v < top)))) continue;
                best = p;
                top = v;
            }
            tinyi_real_set(g->data, g->dtype, (tiny_idx)best * n + f,
                           tinyi_real(dy->data, dy->dtype, r * dy->stride[0] + f * dy->stride[1]));
        }
    return TINY_OK;
}

/* dw, (m) or (m, heads) */
static tiny_status tinyi_edge_grad_weights(tinyi_edge_grad *t, int i, const tiny_op *op, const tiny_tensor *dw)
{
    tiny_tensor d = *dw;
    if (op->in[i]->rank == 1) d = tinyi_grad_as(&d, 1, dw->dim[0], 1, 1, 1);
    return tiny_grad_add(t->g, i, &d);
}

/* a sum or mean without a function in between */
static tiny_status tinyi_edge_grad_linear(tinyi_edge_grad *t, const tiny_op *op, const tiny_tensor *dy)
{
    const tiny_tensor *x = op->in[TINYI_SPMM_X], *w = op->in[TINYI_SPMM_W], *e = op->in[TINYI_SPMM_E];
    const int wants_x = tiny_grad_wants(t->g, TINYI_SPMM_X), wants_e = tiny_grad_wants(t->g, TINYI_SPMM_E);
    tiny_tensor y, z;
    tiny_status st = TINY_OK;
    if (tiny_grad_wants(t->g, TINYI_SPMM_W)) {
        st = tinyi_edge_grad_dot(t, dy, x, e, w->rank == 2 ? w->dim[1] : 1, &y);
        if (!st) st = tinyi_edge_grad_weights(t, TINYI_SPMM_W, op, &y);
    }
    if (!st && wants_x && t->col) {
        st = tinyi_edge_grad_back(t, dy, w, &y);
        if (!st) st = tiny_grad_add(t->g, TINYI_SPMM_X, &y);
    }
    if (st || !(wants_e || (wants_x && !t->col))) return st;
    st = tinyi_edge_grad_spread(t, dy, &y);
    if (!st) st = tinyi_edge_grad_weigh(t, &y, w, &z);
    if (!st && wants_e) st = tiny_grad_add(t->g, TINYI_SPMM_E, &z);
    return st || !wants_x || t->col ? st : tiny_grad_add(t->g, TINYI_SPMM_X, &z);
}

tiny_status tinyi_grad_spmm(tiny_grad *g, const tiny_op *op)
{
    const tiny_spmm_params *p = tinyi_spmm_params_of(op);
    const tiny_tensor *x = op->in[TINYI_SPMM_X], *col = op->in[TINYI_SPMM_COL], *w = op->in[TINYI_SPMM_W],
                      *e = op->in[TINYI_SPMM_E];
    tinyi_edge_grad t;
    tiny_tensor dy = *tiny_grad_of(g, 0), z = *x, u, share, y;
    tiny_slope_params relu;
    tiny_status st = tinyi_edge_grad_open(&t, g, op, col, col ? col->dim[0] : x->dim[0], x->dim[0]);
    relu.of = TINY_OP_RELU;
    if (st || t.m == 0 || x->dim[1] == 0) return st;
    if (p->reduce == TINY_EDGE_MEAN) {
        st = tinyi_edge_grad_mean(&t, &dy, &y);
        dy = y;
    }
    if (!st && p->reduce < TINY_EDGE_MAX && !p->relu) return tinyi_edge_grad_linear(&t, op, &dy);
    if (!st && col) st = tiny_grad_run(g, TINY_OP_GATHER, x, col, NULL, &z);
    if (!st && e) {
        st = tiny_grad_run(g, TINY_OP_ADD, &z, e, NULL, &y);
        z = y;
    }
    u = z;
    if (!st && p->relu) st = tiny_grad_run(g, TINY_OP_RELU, &z, NULL, NULL, &u);
    if (!st)
        st = p->reduce < TINY_EDGE_MAX ? tinyi_edge_grad_spread(&t, &dy, &share)
                                       : tinyi_edge_grad_winner(&t, &dy, &u, w, p->reduce, &share);
    if (!st && tiny_grad_wants(g, TINYI_SPMM_W)) {
        tiny_reduce_params last = { 0, 0, 0 };
        st = tiny_grad_run(g, TINY_OP_MUL, &share, &u, NULL, &y);
        y = tinyi_edge_grad_cut(&y, w->rank == 2 ? w->dim[1] : 1);
        if (!st) st = tiny_grad_run(g, TINY_OP_SUM, &y, NULL, &last, &u);
        if (!st) st = tinyi_edge_grad_weights(&t, TINYI_SPMM_W, op, &u);
    }
    if (!st) st = tinyi_edge_grad_weigh(&t, &share, w, &y);
    if (!st && p->relu) {
        share = y;
        st = tiny_grad_run(g, TINY_OP_SLOPE, &z, &share, &relu, &y);
    }
    if (!st) st = tiny_grad_add(g, TINYI_SPMM_E, &y);
    if (st || !tiny_grad_wants(g, TINYI_SPMM_X)) return st;
    u = y;
    if (col) st = tinyi_edge_grad_collect(&t, &y, &u);
    return st ? st : tiny_grad_add(g, TINYI_SPMM_X, &u);
}

/* ---- scores, and what is made of them */

/* where the inputs of a score stand in its operation; e -1: it has none */
typedef struct tinyi_edge_grad_at { int a, b, att, e; } tinyi_edge_grad_at;

/* k = slope k + (1 - slope) part: what leaky is, or its slope, when part is that of relu */
static tiny_status tinyi_edge_grad_leaky(tinyi_edge_grad *t, const tiny_tensor *k, const tiny_tensor *part,
                                         double slope, tiny_tensor *y)
{
    tiny_tensor low, high;
    tiny_status st = tinyi_grad_times(t->g, k, slope, &low);
    if (!st) st = tinyi_grad_times(t->g, part, 1.0 - slope, &high);
    return st ? st : tiny_grad_run(t->g, TINY_OP_ADD, &low, &high, NULL, y);
}

static tiny_status tinyi_edge_grad_by_dot(tinyi_edge_grad *t, const tiny_op *op, const tinyi_edge_grad_at *at,
                                          double scale, const tiny_tensor *ds)
{
    const tiny_tensor *a = op->in[at->a], *b = op->in[at->b], *e = at->e < 0 ? NULL : op->in[at->e];
    tiny_tensor k, y, z;
    tiny_status st = tinyi_grad_times(t->g, ds, scale, &z);
    if (!st) st = tinyi_grad_dense(t->g, &z, &k);           /* dy of an output that is a view */
    if (!st && tiny_grad_wants(t->g, at->a)) {
        st = tinyi_edge_grad_sum(t, t->offset, b, t->col, &k, e, &y);
        if (!st) st = tiny_grad_add(t->g, at->a, &y);
    }
    if (!st && tiny_grad_wants(t->g, at->b)) {
        st = tinyi_edge_grad_back(t, a, &k, &y);
        if (!st) st = tiny_grad_add(t->g, at->b, &y);
    }
    if (st || !e || !tiny_grad_wants(t->g, at->e)) return st;
    st = tinyi_edge_grad_spread(t, a, &y);
    if (!st) st = tinyi_edge_grad_weigh(t, &y, &k, &z);
    return st ? st : tiny_grad_add(t->g, at->e, &z);
}

static tiny_status tinyi_edge_grad_by_add(tinyi_edge_grad *t, const tiny_op *op, const tinyi_edge_grad_at *at,
                                          double slope, const tiny_tensor *ds)
{
    const tiny_tensor *att = op->in[at->att], *e = at->e < 0 ? NULL : op->in[at->e];
    const tiny_idx heads = ds->dim[1], each = op->in[at->a]->dim[1] / heads;
    tiny_tensor z, y, u, q, wide = tinyi_edge_grad_wide(ds, each);
    tiny_slope_params relu;
    tiny_status st = tinyi_edge_grad_spread(t, op->in[at->a], &y);
    relu.of = TINY_OP_RELU;
    if (!st) st = tiny_grad_run(t->g, TINY_OP_GATHER, op->in[at->b], t->col, NULL, &u);
    if (!st) st = tiny_grad_run(t->g, TINY_OP_ADD, &y, &u, NULL, &z);
    if (!st && e) {
        st = tiny_grad_run(t->g, TINY_OP_ADD, &z, e, NULL, &y);
        z = y;
    }
    if (st) return st;
    z = tinyi_edge_grad_cut(&z, heads);
    if (att && tiny_grad_wants(t->g, at->att)) {
        st = tiny_grad_run(t->g, TINY_OP_RELU, &z, NULL, NULL, &u);
        if (!st) st = tinyi_edge_grad_leaky(t, &z, &u, slope, &y);
        if (!st) st = tiny_grad_run(t->g, TINY_OP_MUL, &y, &wide, NULL, &u);
        if (!st) u = tinyi_edge_grad_join(&u);
        if (!st) st = tiny_grad_add(t->g, at->att, &u);     /* the tape adds up what was repeated */
    }
    q = wide;
    if (!st && att) {
        tiny_tensor rows = tiny_tensor_nd(att->data, att->dtype, 3, wide.dim);
        rows.stride[0] = 0;
        rows.stride[2] = att->stride[0];
        rows.stride[1] = att->stride[0] * each;
        st = tiny_grad_run(t->g, TINY_OP_MUL, &wide, &rows, NULL, &q);
    }
    if (!st) st = tiny_grad_run(t->g, TINY_OP_SLOPE, &z, &q, &relu, &u);
    if (!st) st = tinyi_edge_grad_leaky(t, &q, &u, slope, &y);
    if (st) return st;
    y = tinyi_edge_grad_join(&y);
    if (e) st = tiny_grad_add(t->g, at->e, &y);
    if (!st && tiny_grad_wants(t->g, at->a)) {
        st = tinyi_edge_grad_sum(t, t->offset, &y, NULL, NULL, NULL, &u);
        if (!st) st = tiny_grad_add(t->g, at->a, &u);
    }
    if (st || !tiny_grad_wants(t->g, at->b)) return st;
    st = tinyi_edge_grad_collect(t, &y, &u);
    return st ? st : tiny_grad_add(t->g, at->b, &u);
}

static tiny_status tinyi_edge_grad_scores(tinyi_edge_grad *t, const tiny_op *op, const tinyi_edge_grad_at *at,
                                          const tiny_tensor *ds)
{
    const tiny_sddmm_params p = tinyi_sddmm_params_of(op);
    return p.add ? tinyi_edge_grad_by_add(t, op, at, (double)p.slope, ds)
                 : tinyi_edge_grad_by_dot(t, op, at, (double)p.scale, ds);
}

tiny_status tinyi_grad_sddmm(tiny_grad *g, const tiny_op *op)
{
    static const tinyi_edge_grad_at at = { TINYI_SDDMM_A, TINYI_SDDMM_B, TINYI_SDDMM_ATT, TINYI_SDDMM_E };
    const tiny_tensor *col = op->in[TINYI_SDDMM_COL], *b = op->in[TINYI_SDDMM_B];
    tinyi_edge_grad t;
    tiny_status st = tinyi_edge_grad_open(&t, g, op, col, col->dim[0], b->dim[0]);
    return st || t.m == 0 || b->dim[1] == 0 ? st : tinyi_edge_grad_scores(&t, op, &at, tiny_grad_of(g, 0));
}

/* ds = p (dp - sum[row]), sum (rows, heads) */
static tiny_status tinyi_edge_grad_unsoft(tinyi_edge_grad *t, const tiny_tensor *p, const tiny_tensor *dp,
                                          const tiny_tensor *sum, tiny_tensor *ds)
{
    tiny_tensor u, v;
    tiny_status st = tinyi_edge_grad_spread(t, sum, &u);
    if (!st) st = tiny_grad_run(t->g, TINY_OP_SUB, dp, &u, NULL, &v);
    return st ? st : tiny_grad_run(t->g, TINY_OP_MUL, p, &v, NULL, ds);
}

tiny_status tinyi_grad_segment_softmax(tiny_grad *g, const tiny_op *op)
{
    const tiny_idx m = op->in[1]->dim[0];
    tinyi_edge_grad t;
    tiny_tensor p = tinyi_edge_grad_wide(op->out[0], 1), dp = tinyi_edge_grad_wide(tiny_grad_of(g, 0), 1), u, v, ds;
    tiny_status st = tinyi_edge_grad_open(&t, g, op, NULL, m, m);
    if (st || m == 0 || tiny_tensor_count(&p) == 0) return st;
    p.rank = dp.rank = 2;                   /* (edges, heads), without the third axis */
    st = tiny_grad_run(g, TINY_OP_MUL, &p, &dp, NULL, &u);
    if (!st) st = tinyi_edge_grad_sum(&t, t.offset, &u, NULL, NULL, NULL, &v);
    if (!st) st = tinyi_edge_grad_unsoft(&t, &p, &dp, &v, &ds);
    return st ? st : tinyi_edge_grad_weights(&t, 1, op, &ds);
}

tiny_status tinyi_grad_edge_attention(tiny_grad *g, const tiny_op *op)
{
    static const tinyi_edge_grad_at at = { TINYI_EDGE_ATT_A, TINYI_EDGE_ATT_B, TINYI_EDGE_ATT_ATT, -1 };
    const tiny_tensor *dy = tiny_grad_of(g, 0), *v = op->in[TINYI_EDGE_ATT_V], *b = op->in[TINYI_EDGE_ATT_B];
    const tiny_idx heads = tinyi_sddmm_params_of(op).heads;
    tiny_reduce_params last = { 0, 0, 0 };
    tinyi_edge_grad t;
    tiny_tensor s, p, dp, ds, y, z;
    tiny_op again;
    tiny_status st = tinyi_edge_grad_open(&t, g, op, op->in[1], op->in[1]->dim[0], b->dim[0]);
    if (st || t.m == 0 || v->dim[1] == 0 || b->dim[1] == 0) return st;
    memset(&again, 0, sizeof again);
    again.kind = TINY_OP_SDDMM;
    again.in[0] = op->in[0];
    again.in[TINYI_SDDMM_COL] = op->in[1];
    again.in[TINYI_SDDMM_A] = op->in[TINYI_EDGE_ATT_A];
    again.in[TINYI_SDDMM_B] = b;
    again.in[TINYI_SDDMM_ATT] = op->in[TINYI_EDGE_ATT_ATT];
    again.params = op->params;
    st = tinyi_edge_grad_run(&t, &again, &s);
    if (!st) st = tiny_grad_run(g, TINY_OP_SEGMENT_SOFTMAX, op->in[0], &s, NULL, &p);
    if (!st && tiny_grad_wants(g, TINYI_EDGE_ATT_V)) {
        st = tinyi_edge_grad_back(&t, dy, &p, &y);
        if (!st) st = tiny_grad_add(g, TINYI_EDGE_ATT_V, &y);
    }
    if (st || !(tiny_grad_wants(g, at.a) || tiny_grad_wants(g, at.b) || tiny_grad_wants(g, at.att))) return st;
    st = tinyi_edge_grad_dot(&t, dy, v, NULL, heads, &dp);
    y = tinyi_edge_grad_cut(dy, heads);
    z = tinyi_edge_grad_cut(op->out[0], heads);
    if (!st) st = tiny_grad_run(g, TINY_OP_DOT, &y, &z, &last, &s);
    if (!st) st = tinyi_edge_grad_unsoft(&t, &p, &dp, &s, &ds);
    return st ? st : tinyi_edge_grad_scores(&t, op, &at, &ds);
}
#endif
