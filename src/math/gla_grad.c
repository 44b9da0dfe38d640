/* src/math/gla_grad.c - gated linear attention, backwards
 *
 * Paper    S. Yang et al., 2023 (arXiv 2312.06635), 4.3 and appendix C: the gradient of the gates needs no states.
 * Formula  S_t = diag(exp g_t) S_{t-1} + k_t v_t^T, o_t = s S_t^T q_t; R_t is dL/dS_t:
 *            R_T = d_state_out + s q_T do_T^T,  R_t = diag(exp g_{t+1}) R_{t+1} + s q_t do_t^T
 *            dq_t = s S_t do_t;  dk_t = R_t v_t;  dv_t = R_t^T k_t;  d_state = diag(exp g_1) R_1
 *            dg_t = exp g_t (sum over the row of R_t S_{t-1});  0 where a gate was cut at 0
 *          The paper has dg_t = sum_{r >= t} (q_r dq_r - k_r dk_r), the same number without the states. Where a gate is
 *          strong and its gradient small, that is a difference of large numbers: in float it is off by u |q dq|,
 *          however small dg is. A layer then multiplies dg by the logarithm of the gate, and a gradient check with
 *          strong gates fails. So this form needs the states, and computes them again.
 * Data     as math/gla.h says; the gradients of q, k and g are one tensor. The forward pass computes S and dq, and
 *          stores S every B tokens. The backward pass goes by blocks of B: it computes the states of the block again,
 *          then R.
 * Memory   T / B + B + 2 states of a head for each thread, B = 16, 32 or 64 as T grows.
 * Cost     flops for each token and head: 6 K V forward, 6 K V for the states again, 10 K V backward.
 * Error    as the recurrent form (math/gla.c), over T tokens forward and T backward: SCALE 200 u of the largest number
 *          of each output; cases have T <= 100.
 * Left out matrix products over chunks: they would read states less often but not save arithmetic (docs/papers/gla.md).
 * */
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

/* inputs: state, q, k, v, d_o; gates, d_state_out */
enum { TINYI_GLA_DO = 4, TINYI_GLA_G, TINYI_GLA_DS };

static tiny_status tinyi_gla_backward_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *d_o = op->in[TINYI_GLA_DO], *ds = op->in[TINYI_GLA_DS];
    char have[96], must[96];
    tinyi_gla a;
    tiny_idx dim[4];
    tiny_status st = tinyi_gla_check(ctx, "gla_backward", op, TINYI_GLA_G, &a);
    if (st) return st;
    if (d_o->dtype != a.type || (ds && ds->dtype != a.type))
        return tinyi_fail(ctx, TINY_E_DTYPE, "gla_backward: d_o and d_state_out must be %s, like q",
                          tiny_dtype_name(a.type));
    if (d_o->rank != 3 || d_o->dim[0] != a.n || d_o->dim[1] != a.n_head || d_o->dim[2] != a.n_value)
        return tinyi_fail(ctx, TINY_E_SHAPE, "gla_backward: d_o is %s, it must have the shape of v: %s",
                          tinyi_shape_text(d_o, have), tinyi_shape_text(a.v, must));
    if (ds && (ds->rank != 3 || ds->dim[0] != a.n_head || ds->dim[1] != a.n_key || ds->dim[2] != a.n_value))
        return tinyi_fail(ctx, TINY_E_SHAPE, "gla_backward: d_state_out is %s, it must have the shape of state: %s",
                          tinyi_shape_text(ds, have), tinyi_shape_text(a.state, must));
    if (a.n_value > TINY_GLA_KEYS)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "gla_backward: values of %td numbers; %d at most", a.n_value,
                          TINY_GLA_KEYS);
    dim[0] = 3; dim[1] = a.n; dim[2] = a.n_head; dim[3] = a.n_key;
    tinyi_want(&want[0], a.type, 4, dim);
    tinyi_want(&want[1], a.type, 3, a.v->dim);
    tinyi_want(&want[2], a.type, 3, a.state->dim);
    return TINY_OK;
}

/* ---- reference */

TINY_REF_BEGIN
static double tinyi_gla_get(const tiny_tensor *x, tiny_idx i, tiny_idx j, tiny_idx d)
{
    return tinyi_real(x->data, x->dtype, i * x->stride[0] + j * x->stride[1] + d * x->stride[2]);
}
static void tinyi_gla_set(const tiny_tensor *x, tiny_idx i, tiny_idx j, tiny_idx d, double y)
{
    tinyi_real_set(x->data, x->dtype, i * x->stride[0] + j * x->stride[1] + d * x->stride[2], y);
}

/* 1 where a gate is not cut */
static int tinyi_gla_moves(const tinyi_gla *a, tiny_idx t, tiny_idx h, tiny_idx d)
{
    return a->g && tinyi_gla_get(a->g, t, h, d) <= 0.0;
}

/* a row of states of channel d behind token t, out of the one before it */
static void tinyi_gla_forth(const tinyi_gla *a, tiny_idx t, tiny_idx h, tiny_idx d, const double *before, double *s)
{
    const double left = tinyi_gla_left(a, t, h, d), k = tinyi_gla_get(a->k, t, h, d);
    tiny_idx j;
    for (j = 0; j < a->n_value; j++) s[j] = (left == 0.0 ? 0.0 : left * before[j]) + k * tinyi_gla_get(a->v, t, h, j);
}
static void tinyi_gla_first(const tinyi_gla *a, const tiny_tensor *state, tiny_idx h, tiny_idx d, double *s)
{
    tiny_idx j;
    for (j = 0; j < a->n_value; j++) s[j] = state ? tinyi_gla_get(state, h, d, j) : 0.0;
}

#define TINYI_GLA_KEPT 4096                 /* doubles of a channel's states that are in hand at once */
/* a row of states of one channel: dq forward, then dk, dg and d_state back; states before a token are made again, some
 * tokens at a time */
static void tinyi_gla_backward_row(const tinyi_gla *a, const tiny_op *op, const tiny_tensor *dqkg, tiny_idx h,
                                   tiny_idx d)
{
    const tiny_tensor *d_o = op->in[TINYI_GLA_DO];
    const tiny_idx n = a->n_value, block = TINYI_GLA_KEPT / TINYI_MAX(n, 1);
    double s[TINYI_GLA_KEPT], r[TINY_GLA_KEYS], x, y;
    tiny_idx t, j, t0, t1;
    tinyi_gla_first(a, a->state, h, d, s);
    for (t = 0; t < a->n; t++) {
        tinyi_gla_forth(a, t, h, d, s, s);
        for (x = 0.0, j = 0; j < n; j++) x += s[j] * tinyi_gla_get(d_o, t, h, j);
        tinyi_gla_set(&dqkg[0], t, h, d, a->scale * x);
    }
    tinyi_gla_first(a, op->in[TINYI_GLA_DS], h, d, r);
    for (t1 = a->n; t1 > 0; t1 = t0) {
        t0 = TINYI_MAX(t1 - block, 0);
        tinyi_gla_first(a, a->state, h, d, s);
        for (t = 0; t < t0; t++) tinyi_gla_forth(a, t, h, d, s, s);
        for (t = t0; t + 1 < t1; t++) tinyi_gla_forth(a, t, h, d, s + (t - t0) * n, s + (t - t0 + 1) * n);
        for (t = t1; t-- > t0;) {
            const double left = tinyi_gla_left(a, t, h, d), q = a->scale * tinyi_gla_get(a->q, t, h, d);
            for (x = y = 0.0, j = 0; j < n; j++) {
                r[j] += q * tinyi_gla_get(d_o, t, h, j);
                x += r[j] * tinyi_gla_get(a->v, t, h, j);
                y += r[j] * s[(t - t0) * n + j];
                r[j] = left == 0.0 ? 0.0 : left * r[j];
            }
            tinyi_gla_set(&dqkg[1], t, h, d, x);
            tinyi_gla_set(&dqkg[2], t, h, d, left != 0.0 && tinyi_gla_moves(a, t, h, d) ? left * y : 0.0);
        }
    }
    for (j = 0; j < n; j++) tinyi_gla_set(op->out[2], h, d, j, r[j]);
}

/* a column of R: dv */
static void tinyi_gla_backward_column(const tinyi_gla *a, const tiny_op *op, tiny_idx h, tiny_idx j)
{
    const tiny_tensor *d_o = op->in[TINYI_GLA_DO], *ds = op->in[TINYI_GLA_DS];
    double s[TINY_GLA_KEYS], x;
    tiny_idx t, d;
    for (d = 0; d < a->n_key; d++) s[d] = ds ? tinyi_gla_get(ds, h, d, j) : 0.0;
    for (t = a->n; t-- > 0;) {
        for (x = 0.0, d = 0; d < a->n_key; d++) {
            const double left = tinyi_gla_left(a, t, h, d);
            s[d] += a->scale * tinyi_gla_get(a->q, t, h, d) * tinyi_gla_get(d_o, t, h, j);
            x += s[d] * tinyi_gla_get(a->k, t, h, d);
            s[d] = left == 0.0 ? 0.0 : left * s[d];
        }
        tinyi_gla_set(op->out[1], t, h, j, x);
    }
}
TINY_REF_END

/* q, k and g of the tensor that holds the three */
static void tinyi_gla_three(const tiny_tensor *x, tiny_tensor *each)
{
    int i;
    for (i = 0; i < 3; i++) {
        each[i] = *x;
        each[i].rank = 3;
        each[i].data = (unsigned char *)x->data + i * x->stride[0] * (tiny_idx)tiny_dtype_bytes(x->dtype);
        memcpy(each[i].dim, x->dim + 1, 3 * sizeof *x->dim);
        memcpy(each[i].stride, x->stride + 1, 3 * sizeof *x->stride);
        each[i].dim[3] = 1;
        each[i].stride[3] = 0;
    }
}

static void tinyi_gla_backward_ref(const tiny_op *op)
{
    tinyi_gla a;
    tiny_tensor dqkg[3];
    tiny_idx h, i;
    tinyi_gla_read(op, TINYI_GLA_G, &a);
    tinyi_gla_three(op->out[0], dqkg);
    for (h = 0; h < a.n_head; h++) {
        for (i = 0; i < a.n_key; i++) tinyi_gla_backward_row(&a, op, dqkg, h, i);
        for (i = 0; i < a.n_value; i++) tinyi_gla_backward_column(&a, op, h, i);
    }
}

/* ---- fast */

static tiny_idx tinyi_gla_blocks(tiny_idx n) { return n <= 256 ? 16 : n <= 1024 ? 32 : 64; }

/* floats of a thread: states of one head (of T / B borders, of a block, of the token, R) and rows */
static void tinyi_gla_backward_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    const tiny_idx n = op->in[1]->dim[0], block = tinyi_gla_blocks(n);
    const size_t k = (size_t)op->in[1]->dim[2], v = (size_t)op->in[3]->dim[2],
                 states = (size_t)((n + block - 1) / block + block + 2);
    (void)n_threads;
    *shared_bytes = 0;
    *own_bytes = states > SIZE_MAX / 64 / (k * v + 1) ? SIZE_MAX / 2 : sizeof(float) * (states * k * v + 6 * k + 3 * v);
}

static void tinyi_gla_write(const tiny_tensor *x, tiny_idx i, tiny_idx j, const float *row)
{
    tinyi_row_scatter((float *)x->data + i * x->stride[0] + j * x->stride[1], row, x->dim[2], x->stride[2]);
}
static void tinyi_gla_load(const tiny_tensor *x, tiny_idx h, float *s)      /* a state, or zeros */
{
    tiny_idx d;
    for (d = 0; x && d < x->dim[1]; d++)
        tinyi_row_gather(s + d * x->dim[2], (const float *)x->data + h * x->stride[0] + d * x->stride[1], x->dim[2],
                         x->stride[2]);
}

typedef struct tinyi_gla_back {             /* a head */
    tiny_team *team;
    const tinyi_gla *a;
    const tiny_op *op;
    tiny_idx h, block;
    float *border, *kept, *s, *r, *q, *k, *e, *dq, *dk, *dg, *v, *go, *dv;
    tiny_tensor dqkg[3];
} tinyi_gla_back;

/* S over token t; dq where it is wanted */
static void tinyi_gla_over(const tinyi_gla_back *b, tiny_idx t, int dq)
{
    const tinyi_gla *a = b->a;
    const tinyi_kernels *kn = b->team->k;
    tinyi_gla_leave(b->team, a, t, b->h, b->e);
    TINYI_OF(kn, gla_query_f32)
    (b->s, a->n_value, b->e, tinyi_gla_row(a->k, t, b->h, 0, a->n_key, b->k),
     tinyi_gla_row(a->v, t, b->h, 0, a->n_value, b->v),
     tinyi_gla_row(b->op->in[TINYI_GLA_DO], t, b->h, 0, a->n_value, b->go), b->dq, a->n_key, a->n_value);
    if (!dq) return;
    TINYI_OF(kn, scale_f32)(b->dq, b->dq, (size_t)a->n_key, (float)a->scale, 0.0f);
    tinyi_gla_write(&b->dqkg[0], t, b->h, b->dq);
}

/* R over token t, from behind it to before it; before: S in front of t */
static void tinyi_gla_under(const tinyi_gla_back *b, tiny_idx t, const float *before)
{
    const tinyi_gla *a = b->a;
    const tinyi_kernels *kn = b->team->k;
    tiny_idx d;
    tinyi_gla_leave(b->team, a, t, b->h, b->e);
    TINYI_OF(kn, scale_f32)
    (b->q, tinyi_gla_row(a->q, t, b->h, 0, a->n_key, b->q), (size_t)a->n_key, (float)a->scale, 0.0f);
    TINYI_OF(kn, gla_back_f32)
    (b->r, a->n_value, b->e, b->q, tinyi_gla_row(b->op->in[TINYI_GLA_DO], t, b->h, 0, a->n_value, b->go),
     tinyi_gla_row(a->k, t, b->h, 0, a->n_key, b->k), tinyi_gla_row(a->v, t, b->h, 0, a->n_value, b->v), before, b->dk,
     b->dv, b->dg, a->n_key, a->n_value);
    for (d = 0; d < a->n_key; d++)
        if (!tinyi_gla_moves(a, t, b->h, d)) b->dg[d] = 0.0f;
    tinyi_gla_write(&b->dqkg[1], t, b->h, b->dk);
    tinyi_gla_write(&b->dqkg[2], t, b->h, b->dg);
    tinyi_gla_write(b->op->out[1], t, b->h, b->dv);
}

static void tinyi_gla_backward_head(const tinyi_gla_back *b)
{
    const tinyi_gla *a = b->a;
    const size_t state = (size_t)(a->n_key * a->n_value);
    const tiny_tensor *ds = b->op->in[TINYI_GLA_DS];
    tiny_idx t, t0, d;
    tinyi_gla_load(a->state, b->h, b->s);
    for (t = 0; t < a->n; t++) {
        if (t % b->block == 0) memcpy(b->border + (size_t)(t / b->block) * state, b->s, state * sizeof(float));
        tinyi_gla_over(b, t, 1);
    }
    memset(b->r, 0, state * sizeof(float));
    tinyi_gla_load(ds, b->h, b->r);
    for (t0 = (a->n - 1) / b->block * b->block; t0 >= 0 && a->n > 0; t0 -= b->block) {
        const tiny_idx t1 = TINYI_MIN(t0 + b->block, a->n);
        memcpy(b->s, b->border + (size_t)(t0 / b->block) * state, state * sizeof(float));
        for (t = t0; t < t1; t++) {
            memcpy(b->kept + (size_t)(t - t0) * state, b->s, state * sizeof(float));
            if (t + 1 < t1) tinyi_gla_over(b, t, 0);
        }
        for (t = t1; t-- > t0;) tinyi_gla_under(b, t, b->kept + (size_t)(t - t0) * state);
    }
    for (d = 0; d < a->n_key; d++) tinyi_gla_write(b->op->out[2], b->h, d, b->r + d * a->n_value);
}

static void tinyi_gla_backward_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_gla a;
    tinyi_gla_back b;
    tiny_idx end, state;
    tinyi_gla_read(op, TINYI_GLA_G, &a);
    (void)TINYI_K(team, gla_query_f32);
    memset(&b, 0, sizeof b);
    b.team = team;
    b.a = &a;
    b.op = op;
    b.block = tinyi_gla_blocks(a.n);
    tinyi_gla_three(op->out[0], b.dqkg);
    state = a.n_key * a.n_value;
    b.border = (float *)team->own;
    b.kept = b.border + (a.n + b.block - 1) / b.block * state;
    b.s = b.kept + b.block * state;
    b.r = b.s + state;
    b.q = b.r + state;
    b.k = b.q + a.n_key;
    b.e = b.k + a.n_key;
    b.dq = b.e + a.n_key;
    b.dk = b.dq + a.n_key;
    b.dg = b.dk + a.n_key;
    b.v = b.dg + a.n_key;
    b.go = b.v + a.n_value;
    b.dv = b.go + a.n_value;
    while (tiny_take(team, a.n_head, 1, &b.h, &end)) for (; b.h < end; b.h++) tinyi_gla_backward_head(&b);
}

static void tinyi_gla_backward_cost(const tiny_op *op, tiny_cost *c)
{
    const tiny_tensor *q = op->in[1], *v = op->in[3];
    const double heads = (double)q->dim[0] * (double)q->dim[1];
    c->flops = 22.0 * heads * (double)q->dim[2] * (double)v->dim[2];
    c->bytes = 4.0 * heads * (6.0 * (double)q->dim[2] + 3.0 * (double)v->dim[2]);
}

static void tinyi_gla_backward_cases(tiny_case *c)
{
    tiny_gla_params p;
    tiny_idx s[3], q[3], v[3];
    memset(&p, 0, sizeof p);
    q[0] = v[0] = tiny_case_dim(c, 100);
    q[1] = v[1] = s[0] = 1 + tiny_case_pick(c, 3);
    q[2] = s[1] = tiny_case_dim(c, 40);
    v[2] = s[2] = tiny_case_dim(c, 40);
    if (tiny_case_pick(c, 3) == 0) p.scale = 0.5f;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 3, s);
    c->in[1] = c->in[2] = tiny_tensor_nd(NULL, TINY_F32, 3, q);
    c->in[3] = c->in[TINYI_GLA_DO] = tiny_tensor_nd(NULL, TINY_F32, 3, v);
    c->in[TINYI_GLA_G] = c->in[1];
    c->in[TINYI_GLA_DS] = c->in[0];
    if (tiny_case_pick(c, 6) == 0) c->in[TINYI_GLA_G].rank = -1;
    if (tiny_case_pick(c, 2) == 0) c->in[TINYI_GLA_DS].rank = -1;
    c->fill[TINYI_GLA_G] = TINY_FILL_TABLE;
    c->fill_table = tinyi_gla_table;
    c->no_specials = c->no_denormals = 1;
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_gla_backward_kernels[] = { TINYI_K_gla_query_f32, TINYI_K_gla_back_f32, TINYI_K_gla_gates_f32,
                                                    TINYI_K_exp_f32,       TINYI_K_scale_f32,    -1 };
TINYI_ROW tinyi_row_gla_backward =
    TINYI_ROW_OF("gla_backward", TINY_OP_GLA_BACKWARD, TAKES(7, 5), GIVES(3), PARAMS(tiny_gla_params),
                 FLAGS(TINY_OP_F64), SHAPE(tinyi_gla_backward_shape), REFERENCE(tinyi_gla_backward_ref),
                 FAST(tinyi_gla_backward_fast, tinyi_gla_backward_work), COST(tinyi_gla_backward_cost),
                 CASES(tinyi_gla_backward_cases), BOUND(TINY_BOUND_SCALE, 200.0, 0.0), TERMS(NULL), GRADIENT(NULL),
                 KERNELS(tinyi_gla_backward_kernels),
                 SAYS("dq = scale S d_o, dk = R v, dv = R^T k, dg = sum (q dq - k dk); R = diag(e^g) R + scale q d_o^T "
                      "from the end"));

TINY_API tiny_status tiny_gla_backward(tiny_ctx *ctx, const tiny_tensor *state, const tiny_tensor *q,
                                       const tiny_tensor *k, const tiny_tensor *v, const tiny_tensor *d_o,
                                       const tiny_tensor *g, const tiny_tensor *d_state_out,
                                       const tiny_gla_params *params, const tiny_tensor *d_qkg, const tiny_tensor *d_v,
                                       const tiny_tensor *d_state)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_GLA_BACKWARD;
    op.in[0] = state;
    op.in[1] = q;
    op.in[2] = k;
    op.in[3] = v;
    op.in[TINYI_GLA_DO] = d_o;
    op.in[TINYI_GLA_G] = g;
    op.in[TINYI_GLA_DS] = d_state_out;
    op.out[0] = d_qkg;
    op.out[1] = d_v;
    op.out[2] = d_state;
    op.params = params;
    return tiny_run(ctx, &op);
}

tiny_status tinyi_grad_gla(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *d_o = tiny_grad_of(g, 1), *q = op->in[1];
    tiny_tensor zero, dqkg, dv, ds, each[3];
    tiny_idx dim[4];
    tiny_op back;
    tiny_status st = TINY_OK;
    if (!d_o) {                             /* only the last state is looked at */
        st = tiny_grad_new(g, q->dtype, 3, op->in[3]->dim, &zero);
        if (!st && !tiny_grad_dry(g))
            memset(zero.data, 0, (size_t)tiny_tensor_count(&zero) * tiny_dtype_bytes(zero.dtype));
        d_o = &zero;
    }
    dim[0] = 3;
    memcpy(dim + 1, q->dim, 3 * sizeof *dim);
    if (!st) st = tiny_grad_new(g, q->dtype, 4, dim, &dqkg);
    if (!st) st = tiny_grad_new(g, q->dtype, 3, op->in[3]->dim, &dv);
    if (!st) st = tiny_grad_new(g, q->dtype, 3, op->in[0]->dim, &ds);
    if (st) return st;
    memset(&back, 0, sizeof back);
    back.kind = TINY_OP_GLA_BACKWARD;
    back.params = op->params;
    memcpy(back.in, op->in, 4 * sizeof *back.in);
    back.in[TINYI_GLA_DO] = d_o;
    back.in[TINYI_GLA_G] = op->in[4];
    back.in[TINYI_GLA_DS] = tiny_grad_of(g, 0);
    back.out[0] = &dqkg;
    back.out[1] = &dv;
    back.out[2] = &ds;
    st = tiny_grad_op(g, &back);
    if (st) return st;
    tinyi_gla_three(&dqkg, each);
    if (tiny_grad_wants(g, 0)) st = tiny_grad_add(g, 0, &ds);
    if (!st && tiny_grad_wants(g, 1)) st = tiny_grad_add(g, 1, &each[0]);
    if (!st && tiny_grad_wants(g, 2)) st = tiny_grad_add(g, 2, &each[1]);
    if (!st && tiny_grad_wants(g, 3)) st = tiny_grad_add(g, 3, &dv);
    if (!st && op->in[4] && tiny_grad_wants(g, 4)) st = tiny_grad_add(g, 4, &each[2]);
    return st;
}
