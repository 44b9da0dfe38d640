/* src/math/gla.c - gated linear attention: recurrent, chunked, parallel
 *
 * Paper    S. Yang, B. Wang, Y. Shen, R. Panda, Y. Kim, "Gated Linear Attention Transformers with Hardware-Efficient
 *          Training", 2023 (arXiv 2312.06635), 3 and 4.
 * Formula  per head, a_t = exp g_t (K numbers), s = scale:
 *            recurrent  S_t = diag(a_t) S_{t-1} + k_t v_t^T;  o_t = s S_t^T q_t
 *            parallel   b_t = g_1 + .. + g_t;  o_t = s (q_t exp b_t)^T S_0 + s sum_{u<=t} (q_t exp b_t . k_u exp -b_u)
 *                       v_u
 *            chunked    S is the state before a chunk of C tokens, D = a_1 .. a_C; a chunk has parts of c tokens:
 *                         o_t = s (q_t a_1 .. a_t)^T S + sum_{u<=t} A_tu v_u,  A_tu = s sum_d q_td k_ud (a_{u+1} ..
 *                         a_t)_d
 *                         S   = diag(D) S + sum_u (k_u a_{u+1} .. a_C) v_u^T
 *                       A of tokens in different parts is a matrix product: q_t times the gates of its part up to t,
 *                       k_u times the gates after u up to the end of the part before that of t. Within a part A is
 *                       summed pair by pair.
 *          Every factor is a product of numbers that are at most 1: exp(-b) is never formed. Strong gates therefore
 *          only underflow to 0, where a division by exp b would overflow.
 * Data     (token, head, d), any strides. A task is a head. With fewer heads than threads it is some columns of the
 *          values of a head: columns of S do not depend on each other.
 * Cost     flops for each token and head: recurrent 6 K V, chunked 4 K V + (C + c) (K + V). recurrent reads and writes
 *          S for each token, chunked once a chunk. Both compute one exponential for each gate.
 * Error    recurrent: each token rounds S once, and the gates after that token scale its rounding error too. So the
 *          error is at most (n + K + 4) u of the largest |q||S|, where n is the number of tokens until the gates have
 *          forgotten one. Generated cases have T <= 300, K <= 70 and chunks of at most 96, and their roundings have
 *          both signs: SCALE 100 u (8 u was measured). Chunked: a product of up to C gates is off by C u.
 *          A product of gates over a part that is below 2^-126 counts as 0, which loses less than 2^-126 |q||k||v|.
 *          Tokens with keys, values or a state that are not finite go through the recurrent form. In a matrix product,
 *          an infinite later token times a weight of 0 would give NaN in earlier ones.
 * Left out  computing the gates (low rank, logsigmoid), which belongs to the layer; threads over chunks, which would
 *          need a scan over states: a head is work enough for a thread. */
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

#define TINYI_GLA_CHUNK 64
#define TINYI_GLA_SUB 16
#define TINYI_GLA_CHUNK_MOST 256
#define TINYI_GLA_TOKENS 256                /* of the parallel form */
#define TINYI_GLA_LOWEST (-80.0)
#define TINYI_GLA_SKEW \
    16 /* floats between rows of what products read by columns: rows of 2^n floats would share few lines of a cache */
#define TINYI_GLA_PAD 32                    /* columns that a product of few may read or write behind the last */

TINYI_FN void tinyi_gla_read(const tiny_op *op, int g, tinyi_gla *a)
{
    const tiny_gla_params *p = (const tiny_gla_params *)op->params;
    a->state = op->in[0]; a->q = op->in[1]; a->k = op->in[2]; a->v = op->in[3]; a->g = op->in[g];
    a->n = a->q->dim[0]; a->n_head = a->q->dim[1]; a->n_key = a->q->dim[2]; a->n_value = a->v->dim[2];
    a->scale = p && p->scale != 0.0f ? (double)p->scale : 1.0 / tinyi_sqrt64((double)(a->n_key ? a->n_key : 1));
    a->form = p ? p->form : TINY_GLA_AUTO;
    a->chunk = p && p->chunk ? p->chunk : p && p->sub > TINYI_GLA_CHUNK ? p->sub : TINYI_GLA_CHUNK;
    a->sub = p && p->sub ? p->sub : a->chunk % TINYI_GLA_SUB ? a->chunk : TINYI_GLA_SUB;
    a->clamp = p ? p->clamp : 0;
    a->type = a->q->dtype;
}

static tiny_idx tinyi_gla_at(const tiny_tensor *x, tiny_idx i, tiny_idx j, tiny_idx d)
{
    return i * x->stride[0] + j * x->stride[1] + d * x->stride[2];
}

TINY_REF_BEGIN
/* gates: no number above 0 unless they are cut there, no NaN; in the parallel form, no sum that its exponential cannot
 * hold */
static tiny_status tinyi_gla_gates(tiny_ctx *ctx, const char *name, const tinyi_gla *a, int clamp)
{
    tiny_idx t, h, d;
    for (h = 0; h < a->n_head; h++) {
        /* most calls: a row at a time, and nothing is wrong */
        if (a->type == TINY_F32 && a->form != TINY_GLA_PARALLEL && a->g->stride[2] == 1) {
            int odd = 0;
            for (t = 0; t < a->n && !odd; t++)
                odd =
                    !TINYI_OF(ctx->k, gla_gates_f32)((const float *)a->g->data + tinyi_gla_at(a->g, t, h, 0), a->n_key);
            if (!odd) continue;
        }
        for (d = 0; d < a->n_key; d++) {
            double sum = 0.0;
            for (t = 0; t < a->n; t++) {
                const double x = tinyi_real(a->g->data, a->type, tinyi_gla_at(a->g, t, h, d));
                if (x != x)
                    return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                      "%s: the gate of token %td, head %td, channel %td is not a number",
                                      name, t, h, d);
                if (x > 0.0 && !clamp)
                    return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                      "%s: the gate of token %td, head %td, channel %td is %g; gates are logarithms, "
                                      "at most 0 (params.clamp treats larger ones as 0)",
                                      name, t, h, d, x);
                sum += x < 0.0 ? x : 0.0;
                if (a->form == TINY_GLA_PARALLEL && !(sum >= TINYI_GLA_LOWEST))
                    return tinyi_fail(ctx, TINY_E_ARGUMENT,
                                      "%s: gates of head %td, channel %td sum to %g at token %td; the parallel form "
                                      "needs exp of minus that sum, at most e^80: use the chunked form",
                                      name, h, d, sum, t);
            }
        }
    }
    return TINY_OK;
}
TINY_REF_END

TINYI_FN tiny_status tinyi_gla_check(tiny_ctx *ctx, const char *name, const tiny_op *op, int g, tinyi_gla *a)
{
    const tiny_gla_params *p = (const tiny_gla_params *)op->params;
    const tiny_tensor *s = op->in[0], *q = op->in[1], *k = op->in[2], *v = op->in[3];
    char ts[96], tq[96], tk[96], tv[96];
    tiny_status st;
    if (!tinyi_is_real(q) || s->dtype != q->dtype || k->dtype != q->dtype || v->dtype != q->dtype ||
        (op->in[g] && op->in[g]->dtype != q->dtype))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: state, q, k, v and gates must be f32, or all f64", name);
    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || s->rank != 3 || k->dim[0] != q->dim[0] ||
        v->dim[0] != q->dim[0] || k->dim[1] != q->dim[1] || v->dim[1] != q->dim[1] || k->dim[2] != q->dim[2] ||
        s->dim[0] != q->dim[1] || s->dim[1] != q->dim[2] || s->dim[2] != v->dim[2])
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "%s: state is %s, q is %s, k is %s, v is %s: they must be (H, K, V), (T, H, K), (T, H, K) and (T, H, V)",
            name, tinyi_shape_text(s, ts), tinyi_shape_text(q, tq), tinyi_shape_text(k, tk), tinyi_shape_text(v, tv));
    if (op->in[g] && (op->in[g]->rank != 3 || op->in[g]->dim[0] != q->dim[0] || op->in[g]->dim[1] != q->dim[1] ||
                      op->in[g]->dim[2] != q->dim[2]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: the gates are %s, they must have the shape of q: %s", name,
                          tinyi_shape_text(op->in[g], tk), tinyi_shape_text(q, tq));
    if (q->dim[2] > TINY_GLA_KEYS)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: keys of %td numbers; %d at most", name, q->dim[2],
                          TINY_GLA_KEYS);
    if (v->dim[2] > TINY_IDX_MAX / 16 / (TINY_GLA_KEYS + 3 * TINYI_GLA_CHUNK_MOST))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "%s: values of %td numbers; a state of them is more than this machine can address", name,
                          v->dim[2]);
    if (p && !(p->scale > -INFINITY && p->scale < INFINITY))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: scale %g must be finite", name, (double)p->scale);
    if (p && (p->form < 0 || p->form > TINY_GLA_PARALLEL))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: form %d is unknown; it must be 0 to %d", name, p->form, TINY_GLA_PARALLEL);
    if (p && (p->chunk < 0 || p->chunk > TINYI_GLA_CHUNK_MOST || p->sub < 0 || p->sub > TINYI_GLA_CHUNK_MOST))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: chunks of %d in parts of %d; they must be 1 to %d", name, p->chunk,
                          p->sub, TINYI_GLA_CHUNK_MOST);
    tinyi_gla_read(op, g, a);
    if (a->chunk % a->sub)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: chunks of %d cannot be divided into parts of %d", name, a->chunk,
                          a->sub);
    if (a->form == TINY_GLA_PARALLEL && a->n > TINYI_GLA_TOKENS)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: %td tokens in the parallel form; %d at most", name, a->n,
                          TINYI_GLA_TOKENS);
    if (a->g && op->out[0]) {               /* asked for shapes alone, there may be no data */
        st = tinyi_gla_gates(ctx, name, a, p ? p->clamp : 0);
        if (st) return st;
    }
    return TINY_OK;
}

static tiny_status tinyi_gla_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    tinyi_gla a;
    tiny_status st = tinyi_gla_check(ctx, "gla", op, 4, &a);
    if (st) return st;
    tinyi_want(&want[0], a.type, 3, op->in[0]->dim);
    tinyi_want(&want[1], a.type, 3, op->in[3]->dim);
    return TINY_OK;
}

/* ---- reference */

TINY_REF_BEGIN
TINYI_FN double tinyi_gla_left(const tinyi_gla *a, tiny_idx t, tiny_idx h, tiny_idx d)
{
    const double x = a->g ? tinyi_real(a->g->data, a->type, tinyi_gla_at(a->g, t, h, d)) : 0.0;
    return x >= 0.0 ? 1.0 : x == -(double)INFINITY ? 0.0 : tinyi_exp64(x);
}

/* a column of a state at a time: nothing of it is rounded before the last token */
static void tinyi_gla_recurrent_ref(const tinyi_gla *a, const tiny_tensor *state, const tiny_tensor *o)
{
    double s[TINY_GLA_KEYS];
    tiny_idx h, j, t, d;
    for (h = 0; h < a->n_head; h++)
        for (j = 0; j < a->n_value; j++) {
            for (d = 0; d < a->n_key; d++) s[d] = tinyi_real(a->state->data, a->type, tinyi_gla_at(a->state, h, d, j));
            for (t = 0; t < a->n; t++) {
                const double v = tinyi_real(a->v->data, a->type, tinyi_gla_at(a->v, t, h, j));
                double sum = 0.0;
                for (d = 0; d < a->n_key; d++) {
                    const double left = tinyi_gla_left(a, t, h, d);
                    s[d] = (left == 0.0 ? 0.0 : left * s[d]) +
                           tinyi_real(a->k->data, a->type, tinyi_gla_at(a->k, t, h, d)) * v;
                    sum += tinyi_real(a->q->data, a->type, tinyi_gla_at(a->q, t, h, d)) * s[d];
                }
                tinyi_real_set(o->data, a->type, tinyi_gla_at(o, t, h, j), a->scale * sum);
            }
            for (d = 0; d < a->n_key; d++) tinyi_real_set(state->data, a->type, tinyi_gla_at(state, h, d, j), s[d]);
        }
}

static double tinyi_gla_sum(const tinyi_gla *a, tiny_idx t, tiny_idx h, tiny_idx d)
{
    const double x = a->g ? tinyi_real(a->g->data, a->type, tinyi_gla_at(a->g, t, h, d)) : 0.0;
    return x < 0.0 ? x : 0.0;
}

/* the formula as it stands: scores of all pairs, out of exp b and exp -b */
static void tinyi_gla_parallel_ref(const tinyi_gla *a, const tiny_tensor *state, const tiny_tensor *o)
{
    double score[TINYI_GLA_TOKENS], grown[TINY_GLA_KEYS], b, c;
    tiny_idx h, t, u, d, j;
    for (h = 0; h < a->n_head; h++) {
        for (t = 0; t < a->n; t++) {
            for (u = 0; u <= t; u++) score[u] = 0.0;
            for (d = 0; d < a->n_key; d++) {
                for (b = 0.0, u = 0; u <= t; u++) b += tinyi_gla_sum(a, u, h, d);
                grown[d] = tinyi_real(a->q->data, a->type, tinyi_gla_at(a->q, t, h, d)) * tinyi_exp64(b);
                for (c = 0.0, u = 0; u <= t; u++) {
                    c += tinyi_gla_sum(a, u, h, d);
                    score[u] +=
                        grown[d] * (tinyi_real(a->k->data, a->type, tinyi_gla_at(a->k, u, h, d)) * tinyi_exp64(-c));
                }
            }
            for (j = 0; j < a->n_value; j++) {
                double sum = 0.0;
                for (d = 0; d < a->n_key; d++)
                    sum += grown[d] * tinyi_real(a->state->data, a->type, tinyi_gla_at(a->state, h, d, j));
                for (u = 0; u <= t; u++) sum += score[u] * tinyi_real(a->v->data, a->type, tinyi_gla_at(a->v, u, h, j));
                tinyi_real_set(o->data, a->type, tinyi_gla_at(o, t, h, j), a->scale * sum);
            }
        }
        for (d = 0; d < a->n_key; d++) {
            for (b = 0.0, u = 0; u < a->n; u++) b += tinyi_gla_sum(a, u, h, d);
            for (j = 0; j < a->n_value; j++) {
                double sum = tinyi_exp64(b) * tinyi_real(a->state->data, a->type, tinyi_gla_at(a->state, h, d, j));
                for (c = 0.0, u = 0; u < a->n; u++) {
                    c += tinyi_gla_sum(a, u, h, d);
                    sum += tinyi_real(a->k->data, a->type, tinyi_gla_at(a->k, u, h, d)) * tinyi_exp64(b - c) *
                           tinyi_real(a->v->data, a->type, tinyi_gla_at(a->v, u, h, j));
                }
                tinyi_real_set(state->data, a->type, tinyi_gla_at(state, h, d, j), sum);
            }
        }
    }
}

static void tinyi_gla_ref(const tiny_op *op)
{
    tinyi_gla a;
    tinyi_gla_read(op, 4, &a);
    if (a.form == TINY_GLA_PARALLEL) tinyi_gla_parallel_ref(&a, op->out[0], op->out[1]);
    else tinyi_gla_recurrent_ref(&a, op->out[0], op->out[1]);
}
TINY_REF_END

/* ---- fast */

TINYI_FN const float *tinyi_gla_row(const tiny_tensor *x, tiny_idx t, tiny_idx h, tiny_idx j, tiny_idx n, float *room)
{
    const float *from = (const float *)x->data + tinyi_gla_at(x, t, h, j);
    if (x->stride[2] == 1 || n == 1) return from;
    tinyi_row_gather(room, from, n, x->stride[2]);
    return room;
}

/* the same copied in any case */
static void tinyi_gla_dense(float *to, const tiny_tensor *x, tiny_idx t, tiny_idx h, tiny_idx j, tiny_idx n)
{
    const float *from = (const float *)x->data + tinyi_gla_at(x, t, h, j);
    if (x->stride[2] == 1) memcpy(to, from, (size_t)n * sizeof *to);
    else tinyi_row_gather(to, from, n, x->stride[2]);
}

TINYI_FN void tinyi_gla_leave(tiny_team *team, const tinyi_gla *a, tiny_idx t, tiny_idx h, float *e)
{
    const float *g;
    tiny_idx d;
    if (!a->g) {
        for (d = 0; d < a->n_key; d++) e[d] = 1.0f;
        return;
    }
    g = tinyi_gla_row(a->g, t, h, 0, a->n_key, e);
    if (a->clamp) {
        for (d = 0; d < a->n_key; d++) e[d] = g[d] < 0.0f ? g[d] : 0.0f;
        g = e;
    }
    TINYI_OF(team->k, exp_f32)(e, g, (size_t)a->n_key);
}

typedef struct tinyi_gla_run {              /* one task: columns j .. j + n_col of a head */
    tiny_team *team;
    const tinyi_gla *a;
    tiny_idx h, j, n_col, ld;               /* ld: of rows with a column for each token */
    const tiny_tensor *o;
    float *s;                               /* (n_key, n_col) */
    float *q, *k, *e, *kd, *qd, *qt, *at, *acc, *v, *skew, *one, *left, *all;
} tinyi_gla_run;

static void tinyi_gla_put(const tinyi_gla_run *r, tiny_idx t, const float *row)
{
    float *to = (float *)r->o->data + tinyi_gla_at(r->o, t, r->h, r->j);
    if (r->o->stride[2] == 1) memcpy(to, row, (size_t)r->n_col * sizeof *row);
    else tinyi_row_scatter(to, row, r->n_col, r->o->stride[2]);
}

/* token by token on a state whose rows are ld apart */
static void tinyi_gla_steps(const tinyi_gla_run *r, float *s, tiny_idx ld)
{
    const tinyi_gla *a = r->a;
    const tinyi_fn_gla_step_f32 step = TINYI_K(r->team, gla_step_f32);
    const tinyi_fn_scale_f32 scale = TINYI_OF(r->team->k, scale_f32);
    tiny_idx t;
    for (t = 0; t < a->n; t++) {
        const float *k = tinyi_gla_row(a->k, t, r->h, 0, a->n_key, r->k),
                    *v = tinyi_gla_row(a->v, t, r->h, r->j, r->n_col, r->v);
        float *o = r->o->stride[2] == 1 ? (float *)r->o->data + tinyi_gla_at(r->o, t, r->h, r->j) : r->acc;
        tinyi_gla_leave(r->team, a, t, r->h, r->e);
        scale(r->q, tinyi_gla_row(a->q, t, r->h, 0, a->n_key, r->q), (size_t)a->n_key, (float)a->scale, 0.0f);
        step(s, ld, r->e, k, v, r->q, o, a->n_key, r->n_col);
        if (o == r->acc) tinyi_gla_put(r, t, o);
    }
}

/* Asks for the rows of tokens t .. t + n of a head: they lie in pieces that no processor foresees. */
static void tinyi_gla_ask(const tinyi_gla_run *r, tiny_idx t, tiny_idx n)
{
    const tinyi_gla *a = r->a;
    tiny_idx i, d;
    for (i = t; i < t + n && i < a->n; i++) {
        for (d = 0; d < a->n_key; d += 16) {
            TINYI_PREFETCH((const float *)a->q->data + tinyi_gla_at(a->q, i, r->h, d));
            TINYI_PREFETCH((const float *)a->k->data + tinyi_gla_at(a->k, i, r->h, d));
            if (a->g) TINYI_PREFETCH((const float *)a->g->data + tinyi_gla_at(a->g, i, r->h, d));
        }
        for (d = 0; d < r->n_col; d += 16)
            TINYI_PREFETCH((const float *)a->v->data + tinyi_gla_at(a->v, i, r->h, r->j + d));
    }
}

/* tokens t .. t + n of one chunk */
static void tinyi_gla_piece(const tinyi_gla_run *r, tiny_idx t, tiny_idx n)
{
    const tinyi_gla *a = r->a;
    const tinyi_kernels *kn = r->team->k;
    const tiny_idx n_key = a->n_key, n_col = r->n_col;
    const tiny_idx ldv = n_col + TINYI_GLA_SKEW;
    float *v = r->v;
    tiny_idx i, d, i0, i1;
    for (i = 0; i < n; i++) {               /* copies: rows of a head lie far apart */
        tinyi_gla_dense(v + i * ldv, a->v, t + i, r->h, r->j, n_col);
        tinyi_gla_dense(r->k + i * n_key, a->k, t + i, r->h, 0, n_key);
        TINYI_OF(kn, scale_f32)
        (r->q + i * n_key, tinyi_gla_row(a->q, t + i, r->h, 0, n_key, r->q + i * n_key), (size_t)n_key, (float)a->scale,
         0.0f);
        tinyi_gla_leave(r->team, a, t + i, r->h, r->e + i * n_key);
    }
    if (!TINYI_OF(kn, attention_finite_f32)(v, ldv, (int)n, n_col) ||
        !TINYI_OF(kn, attention_finite_f32)(r->k, n_key, (int)n, n_key) ||
        !TINYI_OF(kn, attention_finite_f32)(r->s, n_col, (int)n_key, n_col)) {
        for (i = 0; i < n; i++) {
            TINYI_OF(kn, gla_step_f32)
            (r->s, n_col, r->e + i * n_key, r->k + i * n_key, v + i * ldv, r->q + i * n_key, r->acc, n_key, n_col);
            tinyi_gla_put(r, t + i, r->acc);
        }
        return;
    }
    for (d = 0; d < n_key; d++) r->all[d] = 1.0f;
    memset(r->acc, 0, (size_t)(n * n_col) * sizeof *r->acc);
    for (i0 = 0; i0 < n; i0 = i1) {
        i1 = TINYI_MIN(i0 + a->sub, n);
        tinyi_gla_ask(r, t + n + i0, i1 - i0);
        TINYI_OF(kn, gla_near_f32)
        (r->at + i0 * r->ld + i0, r->ld, r->q + i0 * n_key, r->k + i0 * n_key, r->e + i0 * n_key, (int)(i1 - i0),
         n_key);
        TINYI_OF(kn, gla_span_f32)
        (r->qd, r->kd + i0 * n_key, r->left, r->q + i0 * n_key, r->k + i0 * n_key, r->e + i0 * n_key, (int)(i1 - i0),
         n_key);
        TINYI_OF(kn, transpose_b4)
        ((unsigned char *)(r->qt + i0), (ptrdiff_t)(r->ld * (tiny_idx)sizeof(float)), (const unsigned char *)r->qd,
         (ptrdiff_t)(n_key * (tiny_idx)sizeof(float)), (size_t)n_key, (size_t)(i1 - i0));
        if (i0) {
            TINYI_OF(kn, attention_scores_f32)
            (r->at, r->ld, r->kd, n_key, (int)i0, r->qt, r->ld, (int)i0, (int)i1, n_key);
            for (d = 0; d < n_key; d++)
                TINYI_OF(kn, scale_f32)
                (r->qt + d * r->ld + i0, r->qt + d * r->ld + i0, (size_t)(i1 - i0), r->all[d], 0.0f);
            for (i = 0; i < i0; i++)
                TINYI_OF(kn, binary_f32)
                (TINYI_BINARY_MUL, r->kd + i * n_key, r->kd + i * n_key, r->left, (size_t)n_key, 1, 1);
        }
        TINYI_OF(kn, attention_mix_f32)
        (r->acc + i0 * n_col, n_col, r->at + i0, r->ld, r->one, v, ldv, (int)i1, (int)(i1 - i0));
        TINYI_OF(kn, binary_f32)(TINYI_BINARY_MUL, r->all, r->all, r->left, (size_t)n_key, 1, 1);
    }
    for (d = 0; d < n_key; d++) memcpy(r->skew + d * ldv, r->s + d * n_col, (size_t)n_col * sizeof *r->s);
    TINYI_OF(kn, attention_mix_f32)(r->acc, n_col, r->qt, r->ld, r->one, r->skew, ldv, (int)n_key, (int)n);
    TINYI_OF(kn, attention_mix_f32)(r->s, n_col, r->kd, n_key, r->all, v, ldv, (int)n, (int)n_key);
    for (i = 0; i < n; i++) tinyi_gla_put(r, t + i, r->acc + i * n_col);
}

/* the form that runs; columns of a task, where heads alone would leave threads without one */
static int tinyi_gla_chunked(const tinyi_gla *a)
{
    return a->form == TINY_GLA_CHUNKED || (a->form == TINY_GLA_AUTO && a->n > 64);
}
static tiny_idx tinyi_gla_columns(const tinyi_gla *a, int n_threads)
{
    const tiny_idx parts = a->n_head > 0 ? (n_threads + a->n_head - 1) / a->n_head : 1;
    const tiny_idx each = ((a->n_value + parts - 1) / parts + 31) / 32 * 32;
    return TINYI_MAX(TINYI_MIN(each, a->n_value), 1);
}

static float *tinyi_gla_take(float *room, size_t *used, tiny_idx n)
{
    float *x = room ? room + *used : NULL;
    *used += ((size_t)n + 15) / 16 * 16;
    return x;
}
/* the rooms of a task, or only counted: floats */
static size_t tinyi_gla_room(tinyi_gla_run *r, float *at, tiny_idx n_col)
{
    const tinyi_gla *a = r->a;
    const tiny_idx n = tinyi_gla_chunked(a) ? a->chunk : 1;
    size_t used = 0;
    r->ld = (a->chunk + TINYI_GLA_PAD - 1) / TINYI_GLA_PAD * TINYI_GLA_PAD + TINYI_GLA_PAD;
    r->s = tinyi_gla_take(at, &used, a->n_key * n_col);
    r->q = tinyi_gla_take(at, &used, n * a->n_key);
    r->k = tinyi_gla_take(at, &used, n * a->n_key);
    r->e = tinyi_gla_take(at, &used, n * a->n_key);
    r->acc = tinyi_gla_take(at, &used, n * n_col);
    r->v = tinyi_gla_take(at, &used, n * (n_col + TINYI_GLA_SKEW));
    if (!tinyi_gla_chunked(a)) return used;
    r->kd = tinyi_gla_take(at, &used, n * a->n_key + TINYI_GLA_PAD);
    r->qd = tinyi_gla_take(at, &used, a->sub * a->n_key);
    r->qt = tinyi_gla_take(at, &used, a->n_key * r->ld);
    r->at = tinyi_gla_take(at, &used, n * r->ld);
    r->skew = tinyi_gla_take(at, &used, a->n_key * (n_col + TINYI_GLA_SKEW));
    r->one = tinyi_gla_take(at, &used, n + TINYI_GLA_PAD);
    r->left = tinyi_gla_take(at, &used, a->n_key);
    r->all = tinyi_gla_take(at, &used, a->n_key + TINYI_GLA_PAD);
    return used;
}

static void tinyi_gla_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    tinyi_gla a;
    tinyi_gla_run r;
    (void)n_threads;
    tinyi_gla_read(op, 4, &a);
    r.a = &a;
    *shared_bytes = 0;
    *own_bytes = a.form == TINY_GLA_PARALLEL ? 0 : sizeof(float) * tinyi_gla_room(&r, NULL, a.n_value);
}

static void tinyi_gla_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_gla a;
    tinyi_gla_run r;
    const tiny_tensor *to = op->out[0];
    tiny_idx n_task, task, end, d, t, i;
    int chunked, direct;
    tinyi_gla_read(op, 4, &a);
    (void)TINYI_K(team, gla_step_f32);
    if (a.form == TINY_GLA_PARALLEL) {
        if (team->i == 0) tinyi_gla_ref(op);
        return;
    }
    chunked = tinyi_gla_chunked(&a);
    direct = !chunked && to->stride[2] == 1;        /* the steps go over the caller's state as it lies */
    memset(&r, 0, sizeof r);
    r.team = team;
    r.a = &a;
    r.o = op->out[1];
    r.n_col = tinyi_gla_columns(&a, team->n);
    n_task = a.n_value > 0 ? (a.n_value + r.n_col - 1) / r.n_col : 0;
    (void)tinyi_gla_room(&r, (float *)team->own, r.n_col);
    for (i = 0; r.one && i < a.chunk + TINYI_GLA_PAD; i++) r.one[i] = 1.0f;
    while (tiny_take(team, a.n_head * n_task, 1, &task, &end)) for (; task < end; task++) {
        const tiny_idx width = tinyi_gla_columns(&a, team->n);
        float *s;
        tiny_idx ld;
        r.h = task / n_task;
        r.j = task % n_task * width;
        r.n_col = TINYI_MIN(width, a.n_value - r.j);
        s = direct ? (float *)to->data + tinyi_gla_at(to, r.h, 0, r.j) : r.s;
        ld = direct ? to->stride[1] : r.n_col;
        for (d = 0; d < a.n_key; d++) {
            const float *from = (const float *)a.state->data + tinyi_gla_at(a.state, r.h, d, r.j);
            if (from != s + d * ld) tinyi_gla_dense(s + d * ld, a.state, r.h, d, r.j, r.n_col);
        }
        if (chunked) for (t = 0; t < a.n; t += a.chunk) tinyi_gla_piece(&r, t, TINYI_MIN(a.n - t, a.chunk));
        else tinyi_gla_steps(&r, s, ld);
        for (d = 0; !direct && d < a.n_key; d++)
            tinyi_row_scatter((float *)to->data + tinyi_gla_at(to, r.h, d, r.j), s + d * ld, r.n_col, to->stride[2]);
    }
}

static void tinyi_gla_cost(const tiny_op *op, tiny_cost *c)
{
    tinyi_gla a;
    double heads, each;
    tinyi_gla_read(op, 4, &a);
    heads = (double)a.n * (double)a.n_head;
    each = tinyi_gla_chunked(&a)
               ? 4.0 * (double)a.n_key * (double)a.n_value + (double)(a.chunk + a.sub) * (double)(a.n_key + a.n_value)
               : 6.0 * (double)a.n_key * (double)a.n_value;
    c->flops = heads * each;
    c->bytes = 4.0 * heads * (3.0 * (double)a.n_key + 2.0 * (double)a.n_value) +
               8.0 * (double)a.n_head * (double)a.n_key * (double)a.n_value;
}

/* gates as layers have them, -1/16 and the like; strong ones; and ones that drop everything */
TINYI_FN void tinyi_gla_table(tiny_case *c, int i_input, void *data)
{
    tiny_idx i, n = tiny_tensor_count(&c->in[i_input]);
    const int kind = c->index % 3;
    float *g = (float *)data;
    for (i = 0; i < n; i++) {
        const float x = tiny_rng_normal(&c->rng);
        g[i] = -(x < 0.0f ? -x : x) * (kind == 0 ? 0.05f : kind == 1 ? 2.0f : 15.0f);
        if (kind == 2 && tiny_case_pick(c, 40) == 0) g[i] = -INFINITY;
    }
}
static void tinyi_gla_cases(tiny_case *c)
{
    tiny_gla_params p;
    tiny_idx s[3], q[3], v[3];
    memset(&p, 0, sizeof p);
    q[0] = v[0] = tiny_case_dim(c, 300);
    q[1] = v[1] = s[0] = 1 + tiny_case_pick(c, 3);
    q[2] = s[1] = tiny_case_dim(c, 70);
    v[2] = s[2] = tiny_case_dim(c, 70);
    p.form = tiny_case_pick(c, 3);
    if (tiny_case_pick(c, 3) == 0) {
        p.sub = 1 + tiny_case_pick(c, 24);
        p.chunk = p.sub * (1 + tiny_case_pick(c, 4));
    }
    if (tiny_case_pick(c, 3) == 0) p.scale = 0.5f;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 3, s);
    c->in[1] = c->in[2] = c->in[4] = tiny_tensor_nd(NULL, TINY_F32, 3, q);
    c->in[3] = tiny_tensor_nd(NULL, TINY_F32, 3, v);
    if (tiny_case_pick(c, 6) == 0) c->in[4].rank = -1;
    c->fill[4] = TINY_FILL_TABLE;
    c->fill_table = tinyi_gla_table;
    c->no_specials = c->no_denormals = 1;
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_gla_kernels[] = { TINYI_K_gla_step_f32,
                                           TINYI_K_gla_near_f32,
                                           TINYI_K_gla_span_f32,
                                           TINYI_K_gla_gates_f32,
                                           TINYI_K_attention_scores_f32,
                                           TINYI_K_attention_mix_f32,
                                           TINYI_K_attention_finite_f32,
                                           TINYI_K_exp_f32,
                                           TINYI_K_scale_f32,
                                           TINYI_K_binary_f32,
                                           TINYI_K_transpose_b4,
                                           -1 };
TINYI_ROW tinyi_row_gla = TINYI_ROW_OF("gla", TINY_OP_GLA, TAKES(5, 4), GIVES(2), PARAMS(tiny_gla_params),
    FLAGS(TINY_OP_F64 | TINY_OP_INPLACE),
    SHAPE(tinyi_gla_shape), REFERENCE(tinyi_gla_ref), FAST(tinyi_gla_fast, tinyi_gla_work), COST(tinyi_gla_cost),
    CASES(tinyi_gla_cases), BOUND(TINY_BOUND_SCALE, 100.0, 0.0), TERMS(NULL), GRADIENT(tinyi_grad_gla),
    KERNELS(tinyi_gla_kernels), SAYS("S = diag(e^g) S + k v^T, o = scale S^T q, token by token or in chunks"));

TINY_API tiny_status tiny_gla(tiny_ctx *ctx, const tiny_tensor *state, const tiny_tensor *q, const tiny_tensor *k,
                              const tiny_tensor *v, const tiny_tensor *g, const tiny_gla_params *params,
                              const tiny_tensor *state_out, const tiny_tensor *o)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_GLA;
    op.in[0] = state; op.in[1] = q; op.in[2] = k; op.in[3] = v; op.in[4] = g;
    op.out[0] = state_out;
    op.out[1] = o;
    op.params = params;
    return tiny_run(ctx, &op);
}
