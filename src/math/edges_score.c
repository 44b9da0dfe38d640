/* src/math/edges_score.c - products along edges, softmax over the edges of a row, attention over a row
 * Papers   P. Velickovic et al., "Graph Attention Networks", 2018, eq. 1-4, and S. Brody et al., "How Attentive are
 *          Graph Attention Networks?", 2022, eq. 7 (the two additive scores); M. Milakov, N. Gimelshein, 2018 (arXiv
 *          1805.02867), algorithm 3 (one pass over a row).
 * Formula  in math/edges_score.h.
 * Threads  pieces of edges + rows as in math/edges.c, but one thread processes a whole row.
 * Cost     attention reads the rows of b and of v once for each edge, 64 edges at a time: scores, then weights, then
 *          values, while they are still in a near cache. It writes nothing in proportion to the edges.
 * Error    sddmm: f / lanes terms in a lane, then a sum over lanes: LINEAR (f + 6) u. softmax: as in math/softmax.c,
 *          SCALE (10 + n) u. attention: a score with the absolute sum D is off by (f + 6) u D, which is the relative
 *          error of its weight; the cases keep D below 6: SCALE (60 + 8 f + n) u.
 * Gradients math/edges_grad.c. */
#include <string.h>
#include "math/edges_inside.h"
#include "math/edges_score.h"
#include "math/elem.h"
#include "math/rows_inside.h"
/* ---- sddmm */

TINYI_FN tiny_sddmm_params tinyi_sddmm_params_of(const tiny_op *op)
{
    tiny_sddmm_params p;
    memset(&p, 0, sizeof p);
    if (op->params) p = *(const tiny_sddmm_params *)op->params;
    if (p.heads == 0) p.heads = 1;
    if (p.scale == 0.0f) p.scale = 1.0f;
    return p;
}

static tiny_status tinyi_sddmm_shapes(tiny_ctx *ctx, const tiny_op *op, const char *name, const tiny_tensor *a,
                                      const tiny_tensor *b, const tiny_tensor *att, const tiny_tensor *e)
{
    const tiny_tensor *col = op->in[1], *dense[3];
    tiny_sddmm_params p = tinyi_sddmm_params_of(op);
    tiny_idx m = col->rank == 1 ? col->dim[0] : 0;
    tiny_status st = tinyi_edge_float(ctx, name, "a", a, b->dtype);
    if (!st) st = tinyi_edge_float(ctx, name, "b", b, b->dtype);
    if (st) return st;
    if (p.heads < 0 || a->dim[1] % p.heads)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: %td features cannot be divided into %d heads", name, a->dim[1], p.heads);
    if (!(p.slope - p.slope == 0.0f) || !(p.scale - p.scale == 0.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: scale or slope is not a finite number", name);
    if (a->dim[1] != b->dim[1] || a->dim[0] != op->in[0]->dim[0] - 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: a is %td x %td and b %td x %td for %td rows", name, a->dim[0],
                          a->dim[1], b->dim[0], b->dim[1], op->in[0]->dim[0] - 1);
    if (att && (!p.add || att->rank != 1 || att->dim[0] != a->dim[1]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: att is for scores by addition, with %td numbers", name, a->dim[1]);
    if (p.add && !att && a->dim[1] != p.heads)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "%s: without att there must be one number for each head, not %td for %d", name,
                          a->dim[1], p.heads);
    if (e && (e->rank != 2 || e->dim[0] != m || e->dim[1] != a->dim[1]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: e must have %td rows of %td features", name, m, a->dim[1]);
    dense[0] = att;
    dense[1] = e;
    dense[2] = NULL;
    return tinyi_edge_shapes(ctx, op, name, col, m, b->dim[0], b->dtype, dense);
}

static tiny_status tinyi_sddmm_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    tiny_idx dim[2];
    tiny_status st = tinyi_sddmm_shapes(ctx, op, "sddmm", op->in[TINYI_SDDMM_A], op->in[TINYI_SDDMM_B],
                                        op->in[TINYI_SDDMM_ATT], op->in[TINYI_SDDMM_E]);
    if (st) return st;
    dim[0] = op->in[1]->dim[0];
    dim[1] = tinyi_sddmm_params_of(op).heads;
    tinyi_want(&want[0], op->in[TINYI_SDDMM_B]->dtype, 2, dim);
    return TINY_OK;
}

typedef struct tinyi_sddmm_op {
    tinyi_edge_op o;
    tinyi_edges j;
    const tiny_tensor *a, *b, *att, *e;
    void *s;
    tiny_idx s_row, s_step;
    int dense;
} tinyi_sddmm_op;

static void tinyi_sddmm_read(const tiny_op *op, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *att,
                             const tiny_tensor *e, tinyi_sddmm_op *s)
{
    tiny_sddmm_params p = tinyi_sddmm_params_of(op);
    memset(s, 0, sizeof *s);
    tinyi_edge_read(&s->o, op->in[0], op->in[1], op->in[1]->dim[0], b->dim[0]);
    s->a = a, s->b = b, s->att = att, s->e = e;
    s->j.col = s->o.col;
    s->j.m = s->o.m;
    tinyi_edge_rows(&s->j, b);
    s->j.heads = (size_t)p.heads;
    s->j.att = att ? (const float *)att->data : NULL;
    s->j.e = e ? (const float *)e->data : NULL;
    s->j.add = p.add != 0;
    s->j.scale = p.scale;
    s->j.slope = p.slope;
    s->dense = s->j.f > 0 && (a->stride[1] == 1 || a->dim[1] == 1) && (b->stride[1] == 1 || b->dim[1] == 1);
}

TINY_REF_BEGIN
/* the score of edge p of row r for a head, in double */
static double tinyi_sddmm_value(const tinyi_sddmm_op *s, tiny_idx r, int64_t p, tiny_idx h)
{
    const tiny_dtype type = s->b->dtype;
    const tiny_idx a = r * s->a->stride[0], b = (tiny_idx)s->o.col[p] * s->b->stride[0];
    const tiny_idx each = (tiny_idx)(s->j.f / s->j.heads);
    double sum = 0.0;
    tiny_idx f;
    for (f = h * each; f < (h + 1) * each; f++) {
        double t = tinyi_real(s->b->data, type, b + f * s->b->stride[1]),
               q = tinyi_real(s->a->data, type, a + f * s->a->stride[1]);
        if (s->e) t += tinyi_real(s->e->data, type, (tiny_idx)p * (tiny_idx)s->j.f + f);
        if (s->j.add) {
            t += q;
            if (t <= 0.0) t *= (double)s->j.slope;
            q = s->att ? tinyi_real(s->att->data, type, f) : 1.0;
        }
        sum += q * t;
    }
    return s->j.add ? sum : sum * (double)s->j.scale;
}

static void tinyi_sddmm_rows(const tinyi_sddmm_op *s, tiny_idx r)
{
    int64_t p;
    tiny_idx h;
    for (p = s->o.offset[r]; p < s->o.offset[r + 1]; p++)
        for (h = 0; h < (tiny_idx)s->j.heads; h++)
            tinyi_real_set(s->s, s->b->dtype, (tiny_idx)p * s->s_row + h * s->s_step, tinyi_sddmm_value(s, r, p, h));
}

static void tinyi_sddmm_ref(const tiny_op *op)
{
    tinyi_sddmm_op s;
    tiny_idx r;
    tinyi_sddmm_read(op, op->in[TINYI_SDDMM_A], op->in[TINYI_SDDMM_B], op->in[TINYI_SDDMM_ATT], op->in[TINYI_SDDMM_E],
                     &s);
    s.s = op->out[0]->data;
    s.s_row = op->out[0]->stride[0];
    s.s_step = op->out[0]->stride[1];
    for (r = 0; r < s.o.n; r++) tinyi_sddmm_rows(&s, r);
}
TINY_REF_END

static void tinyi_sddmm_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_fn_sddmm_f32 kernel = TINYI_K(team, sddmm_f32);
    tinyi_sddmm_op s;
    tiny_idx k, k1, r, r1;
    int dense;
    tinyi_sddmm_read(op, op->in[TINYI_SDDMM_A], op->in[TINYI_SDDMM_B], op->in[TINYI_SDDMM_ATT], op->in[TINYI_SDDMM_E],
                     &s);
    s.s = op->out[0]->data;
    s.s_row = op->out[0]->stride[0];
    s.s_step = op->out[0]->stride[1];
    if (s.o.n == 0) {
        if (s.o.m && team->i == 0) tiny_team_fail(team, TINY_E_ARGUMENT, "sddmm: there are edges, but no rows");
        return;
    }
    dense = s.dense && s.s_row == (tiny_idx)s.j.heads && (s.s_step == 1 || s.j.heads == 1);
    while (tiny_take(team, s.o.pieces, 1, &k, &k1))
        for (; k < k1; k++)
            for (r = tinyi_edge_first(&s.o, k), r1 = tinyi_edge_first(&s.o, k + 1); r < r1; r++) {
                if (tinyi_edge_refused(team, &s.o, r, "sddmm")) continue;
                if (!dense) tinyi_sddmm_rows(&s, r);
                else
                    kernel((float *)s.s + (tiny_idx)s.o.offset[r] * s.s_row, &s.j,
                           (const float *)s.a->data + r * s.a->stride[0], s.o.offset[r], s.o.offset[r + 1]);
            }
}

static void tinyi_sddmm_cost(const tiny_op *op, tiny_cost *cost)
{
    double m = (double)op->in[1]->dim[0], f = (double)op->in[2]->dim[1];
    cost->flops = 2.0 * m * f;
    cost->bytes = tinyi_edge_bytes(m, op->in[TINYI_SDDMM_B]->dim[0], op->in[TINYI_SDDMM_B]->dim[1]) + 8.0 * m +
                  4.0 * f * (double)op->in[2]->dim[0];
}

static double tinyi_sddmm_terms(const tiny_op *op) { return (double)op->in[TINYI_SDDMM_A]->dim[1]; }

/* params and the two tables; returns the number of edges */
static tiny_idx tinyi_sddmm_case(tiny_case *c, int i_a, int i_b, int i_att, tiny_idx heads, tiny_idx *n_b)
{
    tiny_idx n = tiny_case_dim(c, 100), m = tiny_case_dim(c, 500), f;
    tiny_sddmm_params p;
    memset(&p, 0, sizeof p);
    *n_b = tiny_case_dim(c, 100);
    p.heads = (int)heads;
    p.add = tiny_case_pick(c, 3);           /* 0: dot; 1: with att; 2: GAT */
    f = p.add == 2 ? heads : heads * tiny_case_dim(c, 160 / heads);
    p.slope = 0.2f;
    p.scale = tiny_case_pick(c, 2) ? 0.25f : 0.0f;
    tinyi_edge_case(c, n, m, *n_b, 1);
    c->in[i_a] = tiny_tensor_2d(NULL, TINY_F32, n, f);
    c->in[i_b] = tiny_tensor_2d(NULL, TINY_F32, *n_b, f);
    c->in[i_att] = tiny_tensor_1d(NULL, TINY_F32, f);
    c->dense[i_att] = 1;
    if (p.add != 1) c->in[i_att].rank = -1;
    memcpy(c->params.bytes, &p, sizeof p);
    p.slope = 1.0f;
    c->has_magnitude_params = 1;
    memcpy(c->magnitude_params.bytes, &p, sizeof p);
    return m;
}

static void tinyi_sddmm_cases(tiny_case *c)
{
    tiny_idx n_b,
        m = tinyi_sddmm_case(c, TINYI_SDDMM_A, TINYI_SDDMM_B, TINYI_SDDMM_ATT, 1 + tiny_case_pick(c, 5), &n_b);
    c->in[TINYI_SDDMM_E] = tiny_tensor_2d(NULL, TINY_F32, m, c->in[TINYI_SDDMM_A].dim[1]);
    c->dense[TINYI_SDDMM_E] = 1;
    if (tiny_case_pick(c, 3)) c->in[TINYI_SDDMM_E].rank = -1;
}

static const short tinyi_kernels_of_sddmm[] = { TINYI_K_sddmm_f32, -1 };
TINYI_ROW tinyi_row_sddmm = TINYI_ROW_OF("sddmm", TINY_OP_SDDMM, TAKES(6, 4), GIVES(1), PARAMS(tiny_sddmm_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_sddmm_shape), REFERENCE(tinyi_sddmm_ref), FAST(tinyi_sddmm_fast, NULL), COST(tinyi_sddmm_cost),
    CASES(tinyi_sddmm_cases), BOUND(TINY_BOUND_LINEAR, 6, 1), TERMS(tinyi_sddmm_terms), GRADIENT(tinyi_grad_sddmm),
    KERNELS(tinyi_kernels_of_sddmm), SAYS("s[p] = a[r] . b[col[p]], or att . leaky(a[r] + b[col[p]])"));

TINY_API tiny_status tiny_sddmm(tiny_ctx *ctx, const tiny_tensor *offset, const tiny_tensor *col, const tiny_tensor *a,
                                const tiny_tensor *b, const tiny_tensor *att, const tiny_tensor *e,
                                const tiny_sddmm_params *params, const tiny_tensor *s)
{
    const tiny_tensor *const in[6] = { offset, col, a, b, att, e };
    return tinyi_edge_call(ctx, TINY_OP_SDDMM, in, params, s);
}

/* ---- segment softmax */

static tiny_status tinyi_segment_softmax_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *s = op->in[1], *dense[3];
    tiny_status st;
    if (s->rank < 1 || s->rank > 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "segment_softmax: s has rank %d, it must have 1 or 2", s->rank);
    if (!tinyi_is_real(s)) return tinyi_fail(ctx, TINY_E_DTYPE, "segment_softmax: s must be f32 or f64");
    dense[0] = dense[1] = dense[2] = NULL;
    st = tinyi_edge_shapes(ctx, op, "segment_softmax", NULL, s->dim[0], 0, s->dtype, dense);
    if (st) return st;
    tinyi_want(&want[0], s->dtype, s->rank, s->dim);
    return TINY_OK;
}

TINY_REF_BEGIN
static void tinyi_segment_softmax_row(const tiny_op *op, const tinyi_edge_op *o, tiny_idx r)
{
    const tiny_idx heads = op->in[1]->rank == 2 ? op->in[1]->dim[1] : 1,
                   y_step = op->in[1]->rank == 2 ? op->out[0]->stride[1] : 0;
    const tiny_idx s_row = op->in[1]->stride[0], s_step = op->in[1]->rank == 2 ? op->in[1]->stride[1] : 0;
    const tiny_dtype type = op->in[1]->dtype;
    const void *s = op->in[1]->data;
    int64_t p;
    tiny_idx h;
    for (h = 0; h < heads; h++) {
        double most = -INFINITY, sum = 0.0;
        for (p = o->offset[r]; p < o->offset[r + 1]; p++)
            if (tinyi_real(s, type, (tiny_idx)p * s_row + h * s_step) > most)
                most = tinyi_real(s, type, (tiny_idx)p * s_row + h * s_step);
        for (p = o->offset[r]; p < o->offset[r + 1]; p++)
            sum += tinyi_exp64(tinyi_real(s, type, (tiny_idx)p * s_row + h * s_step) - most);
        for (p = o->offset[r]; p < o->offset[r + 1]; p++)
            tinyi_real_set(op->out[0]->data, type, (tiny_idx)p * op->out[0]->stride[0] + h * y_step,
                           tinyi_exp64(tinyi_real(s, type, (tiny_idx)p * s_row + h * s_step) - most) / sum);
    }
}

static void tinyi_segment_softmax_ref(const tiny_op *op)
{
    tinyi_edge_op o;
    tiny_idx r;
    tinyi_edge_read(&o, op->in[0], NULL, op->in[1]->dim[0], 0);
    for (r = 0; r < o.n; r++) tinyi_segment_softmax_row(op, &o, r);
}
TINY_REF_END

static void tinyi_segment_softmax_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_fn_segment_softmax_f32 kernel = TINYI_K(team, segment_softmax_f32);
    const tiny_idx heads = op->in[1]->rank == 2 ? op->in[1]->dim[1] : 1;
    const int dense = tiny_tensor_is_dense(op->out[0]) && tiny_tensor_is_dense(op->in[1]);
    tinyi_edge_op o;
    tiny_idx k, k1, r, r1;
    tinyi_edge_read(&o, op->in[0], NULL, op->in[1]->dim[0], 0);
    if (o.n == 0 && o.m && team->i == 0)
        tiny_team_fail(team, TINY_E_ARGUMENT, "segment_softmax: there are edges, but no rows");
    while (tiny_take(team, o.pieces, 1, &k, &k1))
        for (; k < k1; k++)
            for (r = tinyi_edge_first(&o, k), r1 = tinyi_edge_first(&o, k + 1); r < r1; r++) {
                const tiny_idx at = (tiny_idx)o.offset[r] * heads;
                if (tinyi_edge_refused(team, &o, r, "segment_softmax") || o.offset[r] == o.offset[r + 1] || heads == 0)
                    continue;
                if (!dense) tinyi_segment_softmax_row(op, &o, r);
                else
                    kernel((float *)op->out[0]->data + at, (const float *)op->in[1]->data + at,
                           (size_t)(o.offset[r + 1] - o.offset[r]), (size_t)heads);
            }
}

static void tinyi_segment_softmax_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->in[1]);
    cost->flops = 20.0 * n;
    cost->bytes = 16.0 * n + 8.0 * (double)op->in[0]->dim[0];
}

static void tinyi_segment_softmax_cases(tiny_case *c)
{
    tiny_idx n = tiny_case_dim(c, 150), m = tiny_case_dim(c, 2000), heads = 1 + tiny_case_pick(c, 20);
    c->in[0] = tiny_tensor_1d(NULL, TINY_I64, n + 1);
    c->fill[0] = TINY_FILL_TABLE;
    c->limit[0] = m;
    c->dense[0] = 1;
    c->fill_table = tinyi_edge_fill;
    c->in[1] = tiny_case_pick(c, 2) ? tiny_tensor_1d(NULL, TINY_F32, m) : tiny_tensor_2d(NULL, TINY_F32, m, heads);
    c->no_specials = 1;                     /* a NaN spoils its row and no other: tests/math/edges.c */
}

static const short tinyi_kernels_of_segment_softmax[] = { TINYI_K_segment_softmax_f32, -1 };
TINYI_ROW tinyi_row_segment_softmax = TINYI_ROW_OF("segment_softmax", TINY_OP_SEGMENT_SOFTMAX, TAKES(2, 2), GIVES(1),
    NO_PARAMS, FLAGS(TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_segment_softmax_shape), REFERENCE(tinyi_segment_softmax_ref), FAST(tinyi_segment_softmax_fast, NULL),
    COST(tinyi_segment_softmax_cost), CASES(tinyi_segment_softmax_cases), BOUND(TINY_BOUND_SCALE, 10, 1),
    TERMS(tinyi_edge_longest), GRADIENT(tinyi_grad_segment_softmax), KERNELS(tinyi_kernels_of_segment_softmax),
    SAYS("p = exp(s - max) / sum exp(s - max) over the edges of a row"));

TINY_API tiny_status tiny_segment_softmax(tiny_ctx *ctx, const tiny_tensor *offset, const tiny_tensor *s,
                                          const tiny_tensor *p)
{
    return tinyi_call(ctx, TINY_OP_SEGMENT_SOFTMAX, offset, s, NULL, p);
}

/* ---- attention over a row */

static tiny_status tinyi_edge_attention_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *b = op->in[TINYI_EDGE_ATT_B], *v = op->in[TINYI_EDGE_ATT_V];
    tiny_idx dim[2];
    int heads = tinyi_sddmm_params_of(op).heads;
    tiny_status st = tinyi_edge_float(ctx, "edge_attention", "v", v, b->dtype);
    if (!st)
        st = tinyi_sddmm_shapes(ctx, op, "edge_attention", op->in[TINYI_EDGE_ATT_A], b, op->in[TINYI_EDGE_ATT_ATT],
                                NULL);
    if (st) return st;
    if (v->dim[0] != b->dim[0] || v->dim[1] % heads)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "edge_attention: v is %td x %td; it must have the %td rows of b, and heads of equal width",
                          v->dim[0], v->dim[1], b->dim[0]);
    dim[0] = op->in[0]->dim[0] - 1;
    dim[1] = v->dim[1];
    tinyi_want(&want[0], v->dtype, 2, dim);
    return TINY_OK;
}

TINY_REF_BEGIN
static void tinyi_edge_attention_row(const tinyi_sddmm_op *s, const tiny_tensor *v, const tiny_tensor *y, tiny_idx r)
{
    const tiny_idx heads = (tiny_idx)s->j.heads, each = v->dim[1] / heads;
    int64_t p;
    tiny_idx h, f;
    for (h = 0; h < heads; h++) {
        double most = -INFINITY, sum = 0.0;
        for (p = s->o.offset[r]; p < s->o.offset[r + 1]; p++) {
            double t = tinyi_sddmm_value(s, r, p, h);
            if (t > most) most = t;
        }
        for (p = s->o.offset[r]; p < s->o.offset[r + 1]; p++) sum += tinyi_exp64(tinyi_sddmm_value(s, r, p, h) - most);
        for (f = h * each; f < (h + 1) * each; f++) {
            double acc = 0.0;
            for (p = s->o.offset[r]; p < s->o.offset[r + 1]; p++)
                acc += tinyi_exp64(tinyi_sddmm_value(s, r, p, h) - most) / sum *
                       tinyi_real(v->data, v->dtype, (tiny_idx)s->o.col[p] * v->stride[0] + f * v->stride[1]);
            tinyi_real_set(y->data, y->dtype, r * y->stride[0] + f * y->stride[1], acc);
        }
    }
}

static void tinyi_edge_attention_ref(const tiny_op *op)
{
    tinyi_sddmm_op s;
    tiny_idx r;
    tinyi_sddmm_read(op, op->in[TINYI_EDGE_ATT_A], op->in[TINYI_EDGE_ATT_B], op->in[TINYI_EDGE_ATT_ATT], NULL, &s);
    for (r = 0; r < s.o.n; r++) tinyi_edge_attention_row(&s, op->in[TINYI_EDGE_ATT_V], op->out[0], r);
}
TINY_REF_END

static void tinyi_edge_attention_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    (void)n_threads;
    (void)shared;
    *own = (TINYI_EDGE_SCORES(tinyi_sddmm_params_of(op).heads) + TINYI_EDGE_STATE(tinyi_sddmm_params_of(op).heads)) *
           sizeof(float);
}

static void tinyi_edge_attention_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_fn_edge_mix_f32 mix = TINYI_K(team, edge_mix_f32);
    const tiny_tensor *v = op->in[TINYI_EDGE_ATT_V], *y = op->out[0];
    float *score = (float *)team->own, *state;
    tinyi_sddmm_op s;
    tinyi_edges values;
    tiny_idx k, k1, r, r1;
    int dense;
    tinyi_sddmm_read(op, op->in[TINYI_EDGE_ATT_A], op->in[TINYI_EDGE_ATT_B], op->in[TINYI_EDGE_ATT_ATT], NULL, &s);
    if (s.o.n == 0) {
        if (s.o.m && team->i == 0)
            tiny_team_fail(team, TINY_E_ARGUMENT, "edge_attention: there are edges, but no rows");
        return;
    }
    state = score + TINYI_EDGE_SCORES(s.j.heads);
    values = s.j;
    tinyi_edge_rows(&values, v);
    s.j.ahead = TINYI_MIN(s.j.ahead, values.ahead);
    if (values.x != s.j.x || values.x_row != s.j.x_row || values.f > s.j.f) {
        s.j.then = values.x;                /* fetched with the rows of the scores */
        s.j.then_row = values.x_row;
        s.j.then_f = values.f;
    }
    dense = s.dense && values.f > 0 && (v->stride[1] == 1 || v->dim[1] == 1) && (y->stride[1] == 1 || y->dim[1] == 1);
    while (tiny_take(team, s.o.pieces, 1, &k, &k1))
        for (; k < k1; k++)
            for (r = tinyi_edge_first(&s.o, k), r1 = tinyi_edge_first(&s.o, k + 1); r < r1; r++) {
                const float *a = (const float *)s.a->data + r * s.a->stride[0];
                float *to = (float *)y->data + r * y->stride[0];
                const int64_t end = s.o.offset[r + 1];
                const int refused = tinyi_edge_refused(team, &s.o, r, "edge_attention");
                int64_t p, p1;
                size_t f;
                if (refused || s.o.offset[r] == end) {
                    for (f = 0; f < values.f; f++) to[(tiny_idx)f * y->stride[1]] = 0.0f;
                    continue;
                }
                if (!dense) {
                    tinyi_edge_attention_row(&s, v, y, r);
                    continue;
                }
                for (p = s.o.offset[r]; p < end; p = p1) {
                    p1 = TINYI_MIN(p + TINYI_EDGE_CHUNK, end);
                    TINYI_OF(team->k, sddmm_f32)(score, &s.j, a, p, p1);
                    mix(to, state, score, &values, p, p1, p == s.o.offset[r], p1 == end);
                }
            }
}

static void tinyi_edge_attention_cost(const tiny_op *op, tiny_cost *cost)
{
    double m = (double)op->in[1]->dim[0], f = (double)op->in[TINYI_EDGE_ATT_B]->dim[1],
           g = (double)op->in[TINYI_EDGE_ATT_V]->dim[1];
    cost->flops = m * (2.0 * f + 2.0 * g + 20.0 * (double)tinyi_sddmm_params_of(op).heads);
    cost->bytes = tinyi_edge_bytes(m, op->in[TINYI_EDGE_ATT_B]->dim[0],
                                   op->in[TINYI_EDGE_ATT_B]->dim[1] + op->in[TINYI_EDGE_ATT_V]->dim[1]) +
                  4.0 * m + (double)op->out[0]->dim[0] * 4.0 * (f + g);
}

static double tinyi_edge_attention_terms(const tiny_op *op)
{
    return tinyi_edge_longest(op) + 8.0 * (double)op->in[TINYI_EDGE_ATT_A]->dim[1];
}

static void tinyi_edge_attention_cases(tiny_case *c)
{
    tiny_idx heads = 1 + tiny_case_pick(c, 5), n_b;
    tiny_sddmm_params p;
    (void)tinyi_sddmm_case(c, TINYI_EDGE_ATT_A, TINYI_EDGE_ATT_B, TINYI_EDGE_ATT_ATT, heads, &n_b);
    c->in[TINYI_EDGE_ATT_V] = tiny_tensor_2d(NULL, TINY_F32, n_b, heads * tiny_case_dim(c, 160 / heads));
    memcpy(&p, c->params.bytes, sizeof p);
    p.scale = 1.0f / (float)(1 + c->in[TINYI_EDGE_ATT_A].dim[1]);      /* as models scale: scores of about one */
    memcpy(c->params.bytes, &p, sizeof p);
    c->no_specials = 1;
}

static const short tinyi_kernels_of_edge_attention[] = { TINYI_K_edge_mix_f32, TINYI_K_sddmm_f32, -1 };
TINYI_ROW tinyi_row_edge_attention = TINYI_ROW_OF("edge_attention", TINY_OP_EDGE_ATTENTION, TAKES(6, 5), GIVES(1),
    PARAMS(tiny_sddmm_params), FLAGS(TINY_OP_F64),
    SHAPE(tinyi_edge_attention_shape), REFERENCE(tinyi_edge_attention_ref),
    FAST(tinyi_edge_attention_fast, tinyi_edge_attention_work), COST(tinyi_edge_attention_cost),
    CASES(tinyi_edge_attention_cases), BOUND(TINY_BOUND_SCALE, 60, 1), TERMS(tinyi_edge_attention_terms),
    GRADIENT(tinyi_grad_edge_attention), KERNELS(tinyi_kernels_of_edge_attention),
    SAYS("y[r] = sum_p softmax_p(s[p]) v[col[p]]"));

TINY_API tiny_status tiny_edge_attention(tiny_ctx *ctx, const tiny_tensor *offset, const tiny_tensor *col,
                                         const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *v,
                                         const tiny_tensor *att, const tiny_sddmm_params *params, const tiny_tensor *y)
{
    const tiny_tensor *const in[6] = { offset, col, a, b, v, att };
    return tinyi_edge_call(ctx, TINY_OP_EDGE_ATTENTION, in, params, y);
}
