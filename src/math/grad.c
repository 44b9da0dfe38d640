/* src/math/grad.c - the gradients of the operations of math, made of other operations
 * Formula  dy is dL/dy. Each operation is defined in its own file. Here:
 *          sum, mean         dx = dy repeated; mean: / n               dot           da = b dy, db = a dy
 *          softmax           dx = s y (dy - sum dy y)                  log_softmax   dx = s (dy - e^y sum dy)
 *          cross_entropy     dx = (softmax x - target) dy / N          max, min      dy to the first extreme value
 *          norms             dx = r (t - mean t - h mean(t h)) with t = dy g, h the normalised value, r its factor;
 *                            rmsnorm without mean t
 *          matmul            da = dz b', db = a' dz, dz = dy act'(a b + bias); for relu, act' comes from the result
 *          convolution       dw = dz col', dx = col2im(w' dz) with col = im2col(x), some images at a time
 *          attention         P is computed again for each key head: dP = do v', dS = P (dP - sum dP P);
 *                            dv = P' do, dq = dS k s, dk = dS' q s. With TWIST, dv uses the twisted weights and dP goes
 *                            back through math/twist.c
 *          l2norm            dx = (dy - y sum dy y) / |x|; below eps dy / eps
 * Data     any strides. A factor that no params struct can hold is a tensor of one number, so that f64 stays f64. */
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/walk_inside.h"
#include "math/elem.h"
#include <string.h>

/* ---- helpers */

tiny_status tinyi_grad_number(tiny_grad *g, tiny_dtype type, double x, tiny_tensor *y)
{
    tiny_status st = tiny_grad_new(g, type, 0, NULL, y);
    if (!st && !tiny_grad_dry(g)) tinyi_real_set(y->data, type, 0, x);
    return st;
}

tiny_status tinyi_grad_times(tiny_grad *g, const tiny_tensor *x, double factor, tiny_tensor *y)
{
    tiny_tensor f;
    tiny_status st;
    if (factor == 1.0) {
        *y = *x;
        return TINY_OK;
    }
    st = tinyi_grad_number(g, x->dtype, factor, &f);
    return st ? st : tiny_grad_run(g, TINY_OP_MUL, x, &f, NULL, y);
}

/* a reduction over the last axis, which stays with length 1 */
static tiny_status tinyi_grad_rows(tiny_grad *g, int kind, const tiny_tensor *a, const tiny_tensor *b, tiny_tensor *y)
{
    tiny_reduce_params p = { 0, 0, 0 };
    p.keep = 1;
    return tiny_grad_run(g, kind, a, b, &p, y);
}

tiny_status tinyi_grad_dense(tiny_grad *g, const tiny_tensor *x, tiny_tensor *y)
{
    if (tiny_tensor_is_dense(x)) {
        *y = *x;
        return TINY_OK;
    }
    return tiny_grad_run(g, TINY_OP_COPY, x, NULL, NULL, y);
}

tiny_tensor tinyi_grad_as(const tiny_tensor *x, int rank, tiny_idx a, tiny_idx b, tiny_idx c, tiny_idx d)
{
    tiny_idx dim[4];
    dim[0] = a; dim[1] = b; dim[2] = c; dim[3] = d;
    return tiny_tensor_nd(x->data, x->dtype, rank, dim);
}

/* dL/d(input i), one number for each channel, from a tensor (N, C, ...) */
static tiny_status tinyi_grad_channels(tiny_grad *g, int i, const tiny_tensor *x)
{
    tiny_reduce_params p = { 0, 0, 0 };
    tiny_tensor dense, sum;
    tiny_status st;
    if (!tiny_grad_wants(g, i)) return TINY_OK;
    st = tinyi_grad_dense(g, x, &dense);
    if (st) return st;
    dense =
        tinyi_grad_as(&dense, 3, x->dim[0], x->dim[1], tiny_tensor_count(x) / TINYI_MAX(1, x->dim[0] * x->dim[1]), 1);
    st = tiny_grad_run(g, TINY_OP_SUM, &dense, NULL, &p, &sum);
    p.axis = 1;
    return st ? st : tiny_grad_give(g, i, TINY_OP_SUM, &sum, NULL, &p);
}

/* ---- one and two numbers to one */

tiny_status tinyi_grad_binary(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *dy = tiny_grad_of(g, 0), *a = op->in[0], *b = op->in[1];
    const tiny_scale_params *line = (const tiny_scale_params *)op->params;
    tiny_slope_params relu;
    tiny_tensor t, u;
    tiny_status st = TINY_OK;
    relu.of = TINY_OP_RELU;
    switch (op->kind) {
    case TINY_OP_SCALE: case TINY_OP_AXPY:
        st = tinyi_grad_number(g, dy->dtype, line ? (double)line->alpha : 0.0, &t);
        return st ? st : tiny_grad_give(g, 0, TINY_OP_MUL, dy, &t, NULL);
    case TINY_OP_ADD:
        st = tiny_grad_add(g, 0, dy);
        return st || !b ? st : tiny_grad_add(g, 1, dy);
    case TINY_OP_SUB:
        st = tiny_grad_add(g, 0, dy);
        return st || !b ? st : tiny_grad_give(g, 1, TINY_OP_NEG, dy, NULL, NULL);
    case TINY_OP_MUL:
        st = tiny_grad_give(g, 0, TINY_OP_MUL, dy, b, op->params);
        return st || !b ? st : tiny_grad_give(g, 1, TINY_OP_MUL, dy, a, NULL);
    case TINY_OP_DIV:
        st = tiny_grad_give(g, 0, TINY_OP_DIV, dy, b, op->params);
        if (st || !b || !tiny_grad_wants(g, 1)) return st;
        st = tiny_grad_run(g, TINY_OP_MUL, dy, op->out[0], NULL, &t);
        if (!st) st = tiny_grad_run(g, TINY_OP_DIV, &t, b, NULL, &u);
        return st ? st : tiny_grad_give(g, 1, TINY_OP_NEG, &u, NULL, NULL);
    default:                                /* the smaller or larger one takes it; both alike: the second */
        st = tiny_grad_run(g, TINY_OP_SUB, a, b, op->params, &t);
        if (!st && op->kind == TINY_OP_MINIMUM) {
            st = tiny_grad_run(g, TINY_OP_NEG, &t, NULL, NULL, &u);
            t = u;
        }
        if (!st) st = tiny_grad_run(g, TINY_OP_SLOPE, &t, dy, &relu, &u);
        if (!st) st = tiny_grad_add(g, 0, &u);
        return st || !b ? st : tiny_grad_give(g, 1, TINY_OP_SUB, dy, &u, NULL);
    }
}

tiny_status tinyi_grad_elem(tiny_grad *g, const tiny_op *op)
{
    tiny_slope_params p;
    p.of = op->kind;
    if (op->kind == TINY_OP_ROUND) return tiny_grad_add(g, 0, tiny_grad_of(g, 0));
    return tiny_grad_give(g, 0, TINY_OP_SLOPE, op->in[0], tiny_grad_of(g, 0), &p);
}

tiny_status tinyi_grad_glu(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *dy = tiny_grad_of(g, 0);
    tiny_slope_params p;
    tiny_tensor t;
    tiny_status st = TINY_OK;
    p.of = op->kind == TINY_OP_SWIGLU       ? TINY_OP_SILU
           : op->kind == TINY_OP_GEGLU      ? TINY_OP_GELU
           : op->kind == TINY_OP_GEGLU_TANH ? TINY_OP_GELU_TANH
                                            : TINY_OP_RELU;
    if (tiny_grad_wants(g, 0)) {
        st = tiny_grad_run(g, TINY_OP_MUL, dy, op->in[1], NULL, &t);
        if (!st) st = tiny_grad_give(g, 0, TINY_OP_SLOPE, op->in[0], &t, &p);
    }
    return st ? st : tiny_grad_give(g, 1, op->kind, op->in[0], dy, NULL);   /* f(a) dy */
}

/* ---- reductions */

/* t, a result, under the shape of x */
static tiny_tensor tinyi_grad_widen(const tiny_op *op, const tiny_tensor *t)
{
    static const tiny_reduce_params none = { 0, 0, 0 };
    const tiny_reduce_params *p = op->params ? (const tiny_reduce_params *)op->params : &none;
    tiny_tensor w = *op->in[0];
    int i, at = 0;
    w.data = t->data;
    w.dtype = t->dtype;
    for (i = 0; i < w.rank; i++) {
        const int gone = p->all || i == w.rank - 1 - p->axis;
        w.stride[i] = gone ? 0 : t->stride[at];
        if (!gone || p->keep) at++;
    }
    return w;
}

tiny_status tinyi_grad_reduce(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *dy = tiny_grad_of(g, 0), *x = op->in[0];
    tiny_tensor t, u, w;
    tiny_status st;
    switch (op->kind) {
    case TINY_OP_SUM: w = tinyi_grad_widen(op, dy); return tiny_grad_add(g, 0, &w);
    case TINY_OP_MEAN:
        st = tinyi_grad_times(g, dy, (double)tiny_tensor_count(dy) / (double)TINYI_MAX(1, tiny_tensor_count(x)), &t);
        w = tinyi_grad_widen(op, &t);
        return st ? st : tiny_grad_add(g, 0, &w);
    case TINY_OP_NORM2:
        st = tinyi_grad_times(g, dy, 2.0, &t);
        w = tinyi_grad_widen(op, &t);
        return st ? st : tiny_grad_give(g, 0, TINY_OP_MUL, x, &w, NULL);
    case TINY_OP_DOT:
        w = tinyi_grad_widen(op, dy);
        st = tiny_grad_give(g, 0, TINY_OP_MUL, op->in[1], &w, NULL);
        return st ? st : tiny_grad_give(g, 1, TINY_OP_MUL, x, &w, NULL);
    default:                                /* logsumexp: dx = e^(x - y) dy */
        w = tinyi_grad_widen(op, op->out[0]);
        st = tiny_grad_run(g, TINY_OP_SUB, x, &w, NULL, &t);
        if (!st) st = tiny_grad_run(g, TINY_OP_EXP, &t, NULL, NULL, &u);
        w = tinyi_grad_widen(op, dy);
        return st ? st : tiny_grad_give(g, 0, TINY_OP_MUL, &u, &w, NULL);
    }
}

tiny_status tinyi_grad_extreme(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *dy = tiny_grad_of(g, 0), *x = op->in[0], *y = op->out[0];
    tiny_tensor taken, dx, wt, wy, wd;
    tiny_idx i, n = tiny_tensor_count(x);
    tiny_status st = tiny_grad_new(g, TINY_U8, y->rank, y->dim, &taken);
    if (!st) st = tiny_grad_new(g, x->dtype, x->rank, x->dim, &dx);
    if (st) return st;
    wt = tinyi_grad_widen(op, &taken);
    wy = tinyi_grad_widen(op, y);
    wd = tinyi_grad_widen(op, dy);
    if (!tiny_grad_dry(g)) memset(taken.data, 0, (size_t)tiny_tensor_count(&taken));
    for (i = 0; !tiny_grad_dry(g) && i < n; i++) {
        unsigned char *seen = (unsigned char *)taken.data + tinyi_walk_element(&wt, i);
        const int here = !*seen && tinyi_real(x->data, x->dtype, tinyi_walk_element(x, i)) ==
                                       tinyi_real(y->data, y->dtype, tinyi_walk_element(&wy, i));
        if (here) *seen = 1;
        tinyi_real_set(dx.data, dx.dtype, i, here ? tinyi_real(dy->data, dy->dtype, tinyi_walk_element(&wd, i)) : 0.0);
    }
    return tiny_grad_add(g, 0, &dx);
}

/* ---- softmax and cross-entropy */

tiny_status tinyi_grad_softmax(tiny_grad *g, const tiny_op *op)
{
    const tiny_softmax_params *p = (const tiny_softmax_params *)op->params;
    const double scale = p && p->scale != 0.0f ? (double)p->scale : 1.0;
    const tiny_tensor *dy = tiny_grad_of(g, 0), *y = op->out[0];
    tiny_tensor t, u, v, s;
    tiny_status st;
    if (op->kind == TINY_OP_SOFTMAX) {
        st = tinyi_grad_rows(g, TINY_OP_DOT, dy, y, &t);
        if (!st) st = tiny_grad_run(g, TINY_OP_SUB, dy, &t, NULL, &u);
        if (!st && scale == 1.0) return tiny_grad_give(g, 0, TINY_OP_MUL, &u, y, NULL);
        if (!st) st = tiny_grad_run(g, TINY_OP_MUL, &u, y, NULL, &v);
    } else {
        st = tinyi_grad_rows(g, TINY_OP_SUM, dy, NULL, &t);
        if (!st) st = tiny_grad_run(g, TINY_OP_EXP, y, NULL, NULL, &u);
        if (!st) st = tiny_grad_run(g, TINY_OP_MUL, &u, &t, NULL, &v);
        if (!st && scale == 1.0) return tiny_grad_give(g, 0, TINY_OP_SUB, dy, &v, NULL);
        if (!st) st = tiny_grad_run(g, TINY_OP_SUB, dy, &v, NULL, &u);
        v = u;
    }
    if (!st) st = tinyi_grad_number(g, dy->dtype, scale, &s);
    return st ? st : tiny_grad_give(g, 0, TINY_OP_MUL, &v, &s, NULL);
}

tiny_status tinyi_grad_cross_entropy(tiny_grad *g, const tiny_op *op)
{
    const tiny_cross_entropy_params *q = (const tiny_cross_entropy_params *)op->params;
    const double e = q ? (double)q->smoothing : 0.0;
    const tiny_tensor *dy = tiny_grad_of(g, 0), *x = op->in[0];
    const tiny_idx rows = tiny_tensor_count(op->in[1]), n = tinyi_row_length(x);
    tiny_tensor p, f;
    tiny_idx r, i, count = 0;
    tiny_status st = tiny_grad_run(g, TINY_OP_SOFTMAX, x, NULL, NULL, &p);
    for (r = 0; !st && !tiny_grad_dry(g) && r < rows; r++) {
        const tiny_idx label = tinyi_loss_label(op, r);
        if (label < 0) {
            for (i = 0; i < n; i++) tinyi_real_set(p.data, p.dtype, r * n + i, 0.0);
            continue;
        }
        count++;
        for (i = 0; e != 0.0 && i < n; i++)
            tinyi_real_set(p.data, p.dtype, r * n + i, tinyi_real(p.data, p.dtype, r * n + i) - e / (double)n);
        tinyi_real_set(p.data, p.dtype, r * n + label, tinyi_real(p.data, p.dtype, r * n + label) - (1.0 - e));
    }
    if (!st) st = tinyi_grad_number(g, x->dtype, 0.0, &f);
    if (!st && !tiny_grad_dry(g))
        tinyi_real_set(f.data, f.dtype, 0, count ? tinyi_real(dy->data, dy->dtype, 0) / (double)count : 0.0);
    return st ? st : tiny_grad_give(g, 0, TINY_OP_MUL, &p, &f, NULL);
}

/* ---- norms */

/* h and r of the rows of x: h = (x - mean) r, r = 1 / sqrt(mean square + eps) */
static tiny_status tinyi_grad_normed(tiny_grad *g, const tiny_tensor *x, int centred, double eps, tiny_tensor *h,
                                     tiny_tensor *r)
{
    const double n = (double)TINYI_MAX(1, tinyi_row_length(x));
    tiny_tensor c = *x, t, u, e;
    tiny_status st = TINY_OK;
    if (centred) {
        st = tinyi_grad_rows(g, TINY_OP_MEAN, x, NULL, &t);
        if (!st) st = tiny_grad_run(g, TINY_OP_SUB, x, &t, NULL, &c);
    }
    if (!st) st = tinyi_grad_rows(g, TINY_OP_NORM2, &c, NULL, &t);
    if (!st) st = tinyi_grad_times(g, &t, 1.0 / n, &u);
    if (!st) st = tinyi_grad_number(g, x->dtype, eps, &e);
    if (!st) st = tiny_grad_run(g, TINY_OP_ADD, &u, &e, NULL, &t);
    if (!st) st = tiny_grad_run(g, TINY_OP_RSQRT, &t, NULL, NULL, r);
    return st ? st : tiny_grad_run(g, TINY_OP_MUL, &c, r, NULL, h);
}

/* u = t - mean t - h mean(t h); the gradient is r u */
static tiny_status tinyi_grad_unnorm(tiny_grad *g, const tiny_tensor *t, const tiny_tensor *h, int centred,
                                     tiny_tensor *u)
{
    tiny_tensor a, b, c = *t;
    tiny_status st = TINY_OK;
    if (centred) {
        st = tinyi_grad_rows(g, TINY_OP_MEAN, t, NULL, &a);
        if (!st) st = tiny_grad_run(g, TINY_OP_SUB, t, &a, NULL, &c);
    }
    if (!st) st = tinyi_grad_rows(g, TINY_OP_DOT, t, h, &a);
    if (!st) st = tinyi_grad_times(g, &a, 1.0 / (double)TINYI_MAX(1, tinyi_row_length(t)), &b);
    if (!st) st = tiny_grad_run(g, TINY_OP_MUL, h, &b, NULL, &a);
    return st ? st : tiny_grad_run(g, TINY_OP_SUB, &c, &a, NULL, u);
}

static tiny_status tinyi_grad_l2norm(tiny_grad *g, const tiny_op *op, double eps)
{
    const tiny_tensor *dy = tiny_grad_of(g, 0);
    tiny_slope_params relu;
    tiny_tensor s, length, e, long_by, k, m, u, v, top;
    tiny_status st = tinyi_grad_rows(g, TINY_OP_NORM2, op->in[0], NULL, &s);
    relu.of = TINY_OP_RELU;
    if (!st) st = tiny_grad_run(g, TINY_OP_SQRT, &s, NULL, NULL, &length);
    if (!st) st = tinyi_grad_number(g, dy->dtype, eps, &e);
    if (!st) st = tiny_grad_run(g, TINY_OP_SUB, &length, &e, NULL, &long_by);
    if (!st) st = tinyi_grad_rows(g, TINY_OP_DOT, dy, op->out[0], &k);
    if (!st) st = tiny_grad_run(g, TINY_OP_SLOPE, &long_by, &k, &relu, &m);     /* no such term where eps divides */
    if (!st) st = tiny_grad_run(g, TINY_OP_MUL, op->out[0], &m, NULL, &u);
    if (!st) st = tiny_grad_run(g, TINY_OP_SUB, dy, &u, NULL, &v);
    if (!st) st = tiny_grad_run(g, TINY_OP_MAXIMUM, &length, &e, NULL, &top);
    return st ? st : tiny_grad_give(g, 0, TINY_OP_DIV, &v, &top, NULL);
}

tiny_status tinyi_grad_norm(tiny_grad *g, const tiny_op *op)
{
    const tiny_norm_params *p = (const tiny_norm_params *)op->params;
    const int adds = op->kind == TINY_OP_ADD_RMSNORM || op->kind == TINY_OP_ADD_LAYERNORM,
              grouped = op->kind == TINY_OP_GROUPNORM;
    const int centred = grouped || op->kind == TINY_OP_LAYERNORM || op->kind == TINY_OP_ADD_LAYERNORM, at = 1 + adds;
    const tiny_tensor *x = adds ? op->out[0] : op->in[0], *dy = tiny_grad_of(g, adds), *weight;
    const float given = p ? p->eps : 0.0f;
    const double eps = given < 0.0f                 ? 0.0
                       : given > 0.0f               ? (double)given
                       : op->kind == TINY_OP_L2NORM ? (double)1e-12f
                                                    : (double)1e-5f;
    tiny_tensor rows, h, r, t, u, full;
    tiny_status st = TINY_OK;
    if (adds && tiny_grad_of(g, 0)) {       /* what flows into the sum itself */
        st = tiny_grad_add(g, 0, tiny_grad_of(g, 0));
        if (!st) st = tiny_grad_add(g, 1, tiny_grad_of(g, 0));
    }
    if (st || !dy || !tiny_tensor_count(x)) return st;
    if (op->kind == TINY_OP_L2NORM) return tinyi_grad_l2norm(g, op, eps);
    weight = op->in[at];
    rows = *x;
    if (grouped) {
        st = tinyi_grad_dense(g, x, &rows);
        if (st) return st;
        rows = tinyi_grad_as(&rows, 2, x->dim[0] * (p && p->groups ? p->groups : 1),
                             tiny_tensor_count(x) / (x->dim[0] * (p && p->groups ? p->groups : 1)), 1, 1);
    }
    st = tinyi_grad_normed(g, &rows, centred, eps, &h, &r);
    if (st) return st;
    full = grouped ? tiny_tensor_nd(h.data, h.dtype, x->rank, x->dim) : h;
    if (tiny_grad_wants(g, at)) {
        st = tiny_grad_run(g, TINY_OP_MUL, dy, &full, NULL, &t);
        if (!st) st = grouped ? tinyi_grad_channels(g, at, &t) : tiny_grad_add(g, at, &t);
    }
    if (!st && centred && tiny_grad_wants(g, at + 1))
        st = grouped ? tinyi_grad_channels(g, at + 1, dy) : tiny_grad_add(g, at + 1, dy);
    if (st || !(tiny_grad_wants(g, 0) || (adds && tiny_grad_wants(g, 1)))) return st;
    t = *dy;
    if (weight) {
        tiny_tensor w = *weight;
        if (grouped) {                      /* (C) as (C, 1, 1) before the places */
            int i;
            w = *x;
            w.data = weight->data;
            w.rank = x->rank - 1;
            for (i = 0; i < w.rank; i++) {
                w.dim[i] = i ? 1 : weight->dim[0];
                w.stride[i] = i ? 0 : weight->stride[0];
            }
        }
        st = tiny_grad_run(g, TINY_OP_MUL, dy, &w, NULL, &t);
    }
    if (!st && grouped) {
        tiny_tensor dense;
        st = tinyi_grad_dense(g, &t, &dense);
        t = tinyi_grad_as(&dense, 2, rows.dim[0], rows.dim[1], 1, 1);
    }
    if (!st) st = tinyi_grad_unnorm(g, &t, &h, centred, &u);
    if (st) return st;
    if (!grouped && !adds) return tiny_grad_give(g, 0, TINY_OP_MUL, &u, &r, NULL);
    st = tiny_grad_run(g, TINY_OP_MUL, &u, &r, NULL, &t);
    if (grouped) t = tiny_tensor_nd(t.data, t.dtype, x->rank, x->dim);
    if (!st) st = tiny_grad_add(g, 0, &t);
    return st || !adds ? st : tiny_grad_add(g, 1, &t);
}

/* ---- products */

tiny_status tinyi_grad_matmul(tiny_grad *g, const tiny_op *op)
{
    static const int slopes[TINY_ACT_COUNT] = {
        0, TINY_OP_RELU, TINY_OP_RELU2, TINY_OP_SILU, TINY_OP_GELU, TINY_OP_GELU_TANH
    };
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    const int act = op->params ? ((const tiny_matmul_params *)op->params)->act : TINY_ACT_NONE;
    tiny_tensor dz = *tiny_grad_of(g, 0), t, bt, at;
    tiny_slope_params p;
    tiny_status st = TINY_OK;
    if (act) {
        tiny_tensor z = *op->out[0];
        p.of = slopes[act];
        if (act != TINY_ACT_RELU) {         /* the values before the activation, anew */
            st = tiny_grad_run(g, TINY_OP_MATMUL, a, b, NULL, &z);
            if (!st && op->in[2]) {
                st = tiny_grad_run(g, TINY_OP_ADD, &z, op->in[2], NULL, &t);
                z = t;
            }
        }
        if (!st) st = tiny_grad_run(g, TINY_OP_SLOPE, &z, &dz, &p, &t);
        if (st) return st;
        dz = t;
    }
    if (op->in[2]) st = tiny_grad_add(g, 2, &dz);
    if (!st && tiny_grad_wants(g, 0)) {
        bt = tiny_tensor_swap(*b, b->rank - 2, b->rank - 1);
        st = tiny_grad_give(g, 0, TINY_OP_MATMUL, &dz, &bt, NULL);
    }
    if (st || !tiny_grad_wants(g, 1)) return st;
    t = *a;
    if (b->rank == 2 && dz.rank > 2) {      /* one matrix for all batches: one long product */
        tiny_tensor x, y;
        tiny_idx n = tiny_tensor_count(&dz) / TINYI_MAX(1, dz.dim[dz.rank - 1]);
        st = tinyi_grad_dense(g, a, &x);
        if (!st) st = tinyi_grad_dense(g, &dz, &y);
        if (st) return st;
        t = tinyi_grad_as(&x, 2, n, a->dim[a->rank - 1], 1, 1);
        dz = tinyi_grad_as(&y, 2, n, dz.dim[dz.rank - 1], 1, 1);
    }
    if (b->stride[b->rank - 1] != 1 && b->stride[b->rank - 2] == 1) {   /* written as b lies */
        bt = tiny_tensor_swap(*b, b->rank - 2, b->rank - 1);
        at = tiny_tensor_swap(dz, dz.rank - 2, dz.rank - 1);
        return tinyi_grad_make(g, &bt, TINY_OP_MATMUL, &at, &t, NULL);
    }
    at = tiny_tensor_swap(t, t.rank - 2, t.rank - 1);
    return tiny_grad_give(g, 1, TINY_OP_MATMUL, &at, &dz, NULL);
}

/* ---- moves */

tiny_status tinyi_grad_copy(tiny_grad *g, const tiny_op *op)
{
    const tiny_permute_params *p = (const tiny_permute_params *)op->params;
    const tiny_tensor *dy = tiny_grad_of(g, 0);
    tiny_tensor t = *dy;
    int i, all_zero = 1;
    if (op->kind == TINY_OP_PERMUTE) {
        for (i = 0; p && i < dy->rank; i++)
            if (p->axes[i]) all_zero = 0;
        for (i = 0; i < dy->rank; i++) {
            int axis = all_zero ? dy->rank - 1 - i : p->axes[i];
            t.dim[axis] = dy->dim[i];
            t.stride[axis] = dy->stride[i];
        }
    }
    return tiny_grad_add(g, 0, &t);
}

tiny_status tinyi_grad_gather(tiny_grad *g, const tiny_op *op)
{
    tiny_scatter_params p;
    tiny_tensor sum;
    tiny_op add;
    tiny_status st;
    if (!tiny_grad_wants(g, 0)) return TINY_OK;
    st = tinyi_grad_begin(g, op->in[0], &sum);
    p.n_rows = op->in[0]->dim[0];
    memset(&add, 0, sizeof add);
    add.kind = TINY_OP_SCATTER_ADD;
    add.in[0] = tiny_grad_of(g, 0);
    add.in[1] = op->in[1];
    add.out[0] = &sum;
    add.params = &p;
    return st ? st : tiny_grad_op(g, &add);
}

tiny_status tinyi_grad_scatter_add(tiny_grad *g, const tiny_op *op)
{
    return tiny_grad_give(g, 0, TINY_OP_GATHER, tiny_grad_of(g, 0), op->in[1], NULL);
}

tiny_status tinyi_grad_rope(tiny_grad *g, const tiny_op *op)
{
    tiny_rope_params p;
    memset(&p, 0, sizeof p);
    if (op->params) p = *(const tiny_rope_params *)op->params;
    p.backward = !p.backward;
    return tiny_grad_give(g, 0, TINY_OP_ROPE, tiny_grad_of(g, 0), op->in[1], &p);
}

#ifndef TINYI_NO_TRANSFORM
tiny_status tinyi_grad_fwht(tiny_grad *g, const tiny_op *op)
{
    tiny_fwht_params p;
    memset(&p, 0, sizeof p);
    if (op->params) p = *(const tiny_fwht_params *)op->params;
    p.transposed = !p.transposed;
    return tiny_grad_give(g, 0, TINY_OP_FWHT, tiny_grad_of(g, 0), NULL, &p);
}
#endif

/* ---- windows and convolution */

tiny_status tinyi_grad_im2col(tiny_grad *g, const tiny_op *op)
{
    tiny_patch_params p = *(const tiny_patch_params *)op->params;
    if (op->kind == TINY_OP_COL2IM) return tiny_grad_give(g, 0, TINY_OP_IM2COL, tiny_grad_of(g, 0), NULL, &p);
    p.image[0] = (int)op->in[0]->dim[2];
    p.image[1] = (int)op->in[0]->dim[3];
    return tiny_grad_give(g, 0, TINY_OP_COL2IM, tiny_grad_of(g, 0), NULL, &p);
}

tiny_status tinyi_grad_avg_pool(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0];
    tiny_patch_params p = *(const tiny_patch_params *)op->params;
    tiny_tensor t, dense;
    tinyi_patch q;
    tiny_status st;
    tinyi_patch_read(&q, op);
    p.stride[0] = (int)q.sh;
    p.stride[1] = (int)q.sw;
    p.image[0] = (int)q.h;
    p.image[1] = (int)q.w;
    st = tinyi_grad_times(g, tiny_grad_of(g, 0), 1.0 / (double)(q.r * q.s), &t);
    if (!st) st = tinyi_grad_dense(g, &t, &dense);
    if (st || !tiny_tensor_count(x)) return st;
    dense = tinyi_grad_as(&dense, 2, q.r * q.s, q.n * q.c * q.oh * q.ow, 1, 1);
    dense.stride[0] = 0;                    /* every tap has the same share */
    st = tiny_grad_run(g, TINY_OP_COL2IM, &dense, NULL, &p, &t);
    t = tiny_tensor_nd(t.data, t.dtype, 4, x->dim);
    return st ? st : tiny_grad_add(g, 0, &t);
}

/* The same for floats: windows within the image, which are most of them, need no test of their taps. */
static void tinyi_grad_max_pool_f32(const tinyi_patch *q, const tiny_tensor *x, const tiny_tensor *dy, float *dx)
{
    const tiny_idx down = q->dh * x->stride[2], across = q->dw * x->stride[3];
    tiny_idx n, c, i, j, r, s;
    for (n = 0; n < q->n; n++) for (c = 0; c < q->c; c++, dx += q->h * q->w) {
        const float *plane = (const float *)x->data + n * x->stride[0] + c * x->stride[1];
        const float *from = (const float *)dy->data + n * dy->stride[0] + c * dy->stride[1];
        for (i = 0; i < q->oh; i++) for (j = 0; j < q->ow; j++) {
            const tiny_idx h0 = i * q->sh - q->pt, w0 = j * q->sw - q->pl;
            const tiny_idx r0 = h0 < 0 ? (-h0 + q->dh - 1) / q->dh : 0, s0 = w0 < 0 ? (-w0 + q->dw - 1) / q->dw : 0;
            const float *row = plane + h0 * x->stride[2] + w0 * x->stride[3] + r0 * down;
            tiny_idx best = -1;
            float top = 0.0f;
            for (r = r0; r < q->r && h0 + r * q->dh < q->h; r++, row += down)
                for (s = s0; s < q->s && w0 + s * q->dw < q->w; s++) {
                    const float v = row[s * across];
                    /* by bits, since a branch would be mispredicted half of the time */
                    const int takes = (best < 0) | (v > top);
                    const uint32_t bits = 0u - (uint32_t)takes;
                    top = tinyi_bits_f32((tinyi_f32_bits(v) & bits) | (tinyi_f32_bits(top) & ~bits));
                    best += ((h0 + r * q->dh) * q->w + w0 + s * q->dw - best) * takes;
                }
            if (best >= 0) dx[best] += from[i * dy->stride[2] + j * dy->stride[3]];
        }
    }
}
tiny_status tinyi_grad_max_pool(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *dy = tiny_grad_of(g, 0), *x = op->in[0];
    tinyi_patch q;
    tiny_tensor dx;
    tiny_idx n, c, i, j, r, s;
    tiny_status st = tiny_grad_new(g, x->dtype, 4, x->dim, &dx);
    if (st || tiny_grad_dry(g)) return st ? st : tiny_grad_add(g, 0, &dx);
    memset(dx.data, 0, (size_t)tiny_tensor_count(&dx) * tiny_dtype_bytes(dx.dtype));
    tinyi_patch_read(&q, op);
    if (x->dtype == TINY_F32) {
        tinyi_grad_max_pool_f32(&q, x, dy, (float *)dx.data);
        return tiny_grad_add(g, 0, &dx);
    }
    for (n = 0; n < q.n; n++) for (c = 0; c < q.c; c++) for (i = 0; i < q.oh; i++) for (j = 0; j < q.ow; j++) {
        const tiny_idx base = n * x->stride[0] + c * x->stride[1];
        tiny_idx best = -1;
        double top = 0.0;
        for (r = 0; r < q.r; r++)
            for (s = 0; s < q.s; s++) {
                const tiny_idx h = i * q.sh - q.pt + r * q.dh, w = j * q.sw - q.pl + s * q.dw;
                double v;
                if (h < 0 || h >= q.h || w < 0 || w >= q.w) continue;
                v = tinyi_real(x->data, x->dtype, base + h * x->stride[2] + w * x->stride[3]);
                if (best >= 0 && !(v > top)) continue;
                top = v;
                best = (n * q.c + c) * q.h * q.w + h * q.w + w;
            }
        if (best < 0) continue;
        tinyi_real_set(dx.data, dx.dtype, best,
                       tinyi_real(dx.data, dx.dtype, best) +
                           tinyi_real(dy->data, dy->dtype,
                                      n * dy->stride[0] + c * dy->stride[1] + i * dy->stride[2] + j * dy->stride[3]));
    }
    return tiny_grad_add(g, 0, &dx);
}

/* (N, C, L) as (N, C, 1, L) */
static tiny_tensor tinyi_grad_flat(const tiny_tensor *x)
{
    tiny_tensor t = *x;
    if (x->rank == 4) return t;
    t.rank = 4;
    t.dim[3] = x->dim[2];
    t.stride[3] = x->stride[2];
    t.dim[2] = 1;
    t.stride[2] = 0;
    return t;
}

#define TINYI_GRAD_COLUMNS 2097152.0        /* numbers of the columns that are made at once */

/* one group of channels of some images */
static tiny_status tinyi_grad_conv_part(tiny_grad *g, const tiny_patch_params *p, const tiny_tensor *x,
                                        const tiny_tensor *w, const tiny_tensor *dz, int wants_x, int wants_w)
{
    const tiny_idx taps = w->dim[1] * w->dim[2] * w->dim[3], places = dz->dim[2] * dz->dim[3];
    tiny_tensor turned, flat, col, t, d, wd;
    tiny_status st;
    turned = tiny_tensor_swap(*dz, 0, 1);   /* (K, N, OH, OW) */
    st = tiny_grad_run(g, TINY_OP_COPY, &turned, NULL, NULL, &flat);
    if (st) return st;
    flat = tinyi_grad_as(&flat, 2, dz->dim[1], dz->dim[0] * places, 1, 1);
    if (wants_w) {
        st = tiny_grad_run(g, TINY_OP_IM2COL, x, NULL, p, &col);
        col = tiny_tensor_swap(col, 0, 1);
        if (!st) st = tiny_grad_run(g, TINY_OP_MATMUL, &flat, &col, NULL, &t);
        t = tinyi_grad_as(&t, 4, w->dim[0], w->dim[1], w->dim[2], w->dim[3]);
        if (!st) st = tinyi_grad_put(g, w, &t);
    }
    if (st || !wants_x) return st;
    st = tinyi_grad_dense(g, w, &wd);
    if (st) return st;
    wd = tinyi_grad_as(&wd, 2, w->dim[0], taps, 1, 1);
    wd = tiny_tensor_swap(wd, 0, 1);
    st = tiny_grad_run(g, TINY_OP_MATMUL, &wd, &flat, NULL, &col);
    if (!st) st = tiny_grad_run(g, TINY_OP_COL2IM, &col, NULL, p, &d);
    return st ? st : tinyi_grad_put(g, x, &d);
}

tiny_status tinyi_grad_conv(tiny_grad *g, const tiny_op *op)
{
    tiny_tensor x = tinyi_grad_flat(op->in[0]), w = tinyi_grad_flat(op->in[1]),
                dz = tinyi_grad_flat(tiny_grad_of(g, 0)), z = tinyi_grad_flat(op->out[0]), t;
    tiny_patch_params p;
    tiny_slope_params relu_of;
    tiny_status st = TINY_OK;
    tiny_idx groups = 1, i, n, some, cg, kg;
    int relu = 0;
    double each;
    memset(&p, 0, sizeof p);
    if (op->params && op->kind == TINY_OP_CONV1D) {
        const tiny_conv1d_params *q = (const tiny_conv1d_params *)op->params;
        p.stride[1] = q->stride;
        p.dilation[1] = q->dilation;
        p.pad[1] = q->pad_left;
        p.pad[3] = q->pad_right;
        groups = q->groups ? q->groups : 1;
        relu = q->relu;
    } else if (op->params) {
        const tiny_conv2d_params *q = (const tiny_conv2d_params *)op->params;
        memcpy(p.stride, q->stride, sizeof p.stride);
        memcpy(p.dilation, q->dilation, sizeof p.dilation);
        memcpy(p.pad, q->pad, sizeof p.pad);
        groups = q->groups ? q->groups : 1;
        relu = q->relu;
    }
    p.size[0] = (int)w.dim[2];
    p.size[1] = (int)w.dim[3];
    p.image[0] = (int)x.dim[2];
    p.image[1] = (int)x.dim[3];
    if (relu) {
        relu_of.of = TINY_OP_RELU;
        st = tiny_grad_run(g, TINY_OP_SLOPE, &z, &dz, &relu_of, &t);
        if (st) return st;
        dz = t;
    }
    if (op->in[2]) st = tinyi_grad_channels(g, 2, &dz);
    cg = w.dim[1];
    kg = w.dim[0] / groups;
    each = (double)cg * (double)(w.dim[2] * w.dim[3]) * (double)(dz.dim[2] * dz.dim[3]);
    some =
        each > 0.0 && TINYI_GRAD_COLUMNS / each < (double)x.dim[0] ? (tiny_idx)(TINYI_GRAD_COLUMNS / each) : x.dim[0];
    some = TINYI_MAX(1, some);
    for (i = 0; !st && i < groups; i++)
        for (n = 0; !st && n < x.dim[0]; n += some) {
            const size_t used = tinyi_grad_scratch(g);
            const tiny_idx es = (tiny_idx)tiny_dtype_bytes(x.dtype);
            tiny_tensor xp = x, wp = w, dp = dz;
            xp.dim[0] = dp.dim[0] = TINYI_MIN(some, x.dim[0] - n);
            xp.dim[1] = cg;
            dp.dim[1] = wp.dim[0] = kg;
            xp.data = (unsigned char *)x.data + (n * x.stride[0] + i * cg * x.stride[1]) * es;
            dp.data = (unsigned char *)dz.data + (n * dz.stride[0] + i * kg * dz.stride[1]) * es;
            wp.data = (unsigned char *)w.data + i * kg * w.stride[0] * es;
            st = tinyi_grad_conv_part(g, &p, &xp, &wp, &dp, tiny_grad_wants(g, 0), tiny_grad_wants(g, 1));
            tinyi_grad_drop(g, used);
        }
    return st;
}

/* ---- attention */

typedef struct tinyi_grad_att {
    tiny_idx tq, heads, tk, kv, group, d, dv, es;
    double scale, cap;
    int causal, twists;
    tiny_twist_params twist;
} tinyi_grad_att;

/* the query heads of one key head: (group, tokens, d) */
static tiny_tensor tinyi_grad_heads(const tinyi_grad_att *a, const tiny_tensor *x, tiny_idx kv)
{
    tiny_tensor t = *x;
    t.data = (unsigned char *)x->data + kv * a->group * x->stride[1] * a->es;
    t.dim[0] = a->group;
    t.dim[1] = x->dim[0];
    t.stride[0] = x->stride[1];
    t.stride[1] = x->stride[0];
    return t;
}

static tiny_tensor tinyi_grad_keys(const tinyi_grad_att *a, const tiny_tensor *x, tiny_idx kv)
{
    tiny_tensor t = *x;
    t.data = (unsigned char *)x->data + kv * x->stride[1] * a->es;
    t.rank = 2;
    t.dim[1] = x->dim[2];
    t.stride[1] = x->stride[2];
    return t;
}

/* 0 where the query sees the key, else -inf */
static tiny_status tinyi_grad_mask(tiny_grad *g, const tinyi_grad_att *a, tiny_dtype type, tiny_tensor *mask)
{
    tiny_idx dim[2], t, c;
    tiny_status st;
    dim[0] = a->tq;
    dim[1] = a->tk;
    st = tiny_grad_new(g, type, 2, dim, mask);
    if (st || tiny_grad_dry(g)) return st;
    for (t = 0; t < a->tq; t++)
        for (c = 0; c < a->tk; c++)
            tinyi_real_set(mask->data, type, t * a->tk + c, c < a->tk - a->tq + t + 1 ? 0.0 : -(double)INFINITY);
    return TINY_OK;
}

static tiny_status tinyi_grad_attend(tiny_grad *g, const tiny_op *op, const tinyi_grad_att *a, const tiny_tensor *mask,
                                     tiny_idx kv)
{
    const tiny_idx rows = a->group * a->tq;
    const tiny_tensor *bias = op->in[3];
    tiny_tensor qh = tinyi_grad_heads(a, op->in[0], kv), oh = tinyi_grad_heads(a, tiny_grad_of(g, 0), kv),
                k = tinyi_grad_keys(a, op->in[1], kv), v = tinyi_grad_keys(a, op->in[2], kv);
    tiny_tensor q, o, kt, vt, s, t, th, p, twisted, dp, ds, bh, u;
    tiny_status st = tiny_grad_run(g, TINY_OP_COPY, &qh, NULL, NULL, &q);
    memset(&th, 0, sizeof th);
    if (!st) st = tiny_grad_run(g, TINY_OP_COPY, &oh, NULL, NULL, &o);
    if (st) return st;
    q = tinyi_grad_as(&q, 2, rows, a->d, 1, 1);
    o = tinyi_grad_as(&o, 2, rows, a->dv, 1, 1);
    kt = tiny_tensor_swap(k, 0, 1);
    vt = tiny_tensor_swap(v, 0, 1);
    st = tiny_grad_run(g, TINY_OP_MATMUL, &q, &kt, NULL, &t);
    if (!st) st = tinyi_grad_times(g, &t, a->scale, &s);
    if (!st && a->cap > 0.0) {
        st = tinyi_grad_times(g, &s, 1.0 / a->cap, &t);
        if (!st) st = tiny_grad_run(g, TINY_OP_TANH, &t, NULL, NULL, &th);
        if (!st) st = tinyi_grad_times(g, &th, a->cap, &s);
    }
    if (st) return st;
    s = tinyi_grad_as(&s, 3, a->group, a->tq, a->tk, 1);
    memset(&bh, 0, sizeof bh);
    if (bias) {
        bh = *bias;
        if (bias->rank == 3) {
            bh.data = (unsigned char *)bias->data + kv * a->group * bias->stride[0] * a->es;
            bh.dim[0] = a->group;
        }
        st = tiny_grad_run(g, TINY_OP_ADD, &s, &bh, NULL, &t);
        s = t;
    }
    if (!st && a->causal) {
        st = tiny_grad_run(g, TINY_OP_ADD, &s, mask, NULL, &t);
        s = t;
    }
    s = tinyi_grad_as(&s, 2, rows, a->tk, 1, 1);
    if (!st) st = tiny_grad_run(g, TINY_OP_SOFTMAX, &s, NULL, NULL, &p);
    if (st) return st;
    twisted = p;
    if (a->twists) st = tiny_grad_run(g, TINY_OP_TWIST, &p, op->in[4], &a->twist, &twisted);
    if (st) return st;
    if (tiny_grad_wants(g, 2)) {
        tiny_tensor pt = tiny_tensor_swap(twisted, 0, 1);
        st = tinyi_grad_make(g, &v, TINY_OP_MATMUL, &pt, &o, NULL);
    }
    if (!st) st = tiny_grad_run(g, TINY_OP_MATMUL, &o, &vt, NULL, &dp);
    if (!st && a->twists) {
        st = tinyi_grad_twisted(g, &p, &dp, op->in[4], &a->twist, &t, &u);
        dp = t;
        if (!st && op->in[4]) st = tiny_grad_add(g, 4, &u);
    }
    if (!st) st = tinyi_grad_rows(g, TINY_OP_DOT, &dp, &p, &t);
    if (!st) st = tiny_grad_run(g, TINY_OP_SUB, &dp, &t, NULL, &u);
    if (!st) st = tiny_grad_run(g, TINY_OP_MUL, &u, &p, NULL, &ds);
    if (!st && bias && tiny_grad_wants(g, 3)) {
        t = tinyi_grad_as(&ds, 3, a->group, a->tq, a->tk, 1);
        st = tinyi_grad_put(g, &bh, &t);
    }
    if (!st && a->cap > 0.0) {              /* 1 - tanh^2 */
        tiny_tensor one, w;
        st = tiny_grad_run(g, TINY_OP_MUL, &th, &th, NULL, &t);
        if (!st) st = tinyi_grad_number(g, t.dtype, 1.0, &one);
        if (!st) st = tiny_grad_run(g, TINY_OP_SUB, &one, &t, NULL, &w);
        if (!st) st = tiny_grad_run(g, TINY_OP_MUL, &ds, &w, NULL, &u);
        ds = u;
    }
    if (!st) st = tinyi_grad_times(g, &ds, a->scale, &t);
    if (st) return st;
    ds = t;
    if (tiny_grad_wants(g, 0)) {
        st = tiny_grad_run(g, TINY_OP_MATMUL, &ds, &k, NULL, &t);
        t = tinyi_grad_as(&t, 3, a->group, a->tq, a->d, 1);
        if (!st) st = tinyi_grad_put(g, &qh, &t);
    }
    if (!st && tiny_grad_wants(g, 1)) {
        tiny_tensor dst = tiny_tensor_swap(ds, 0, 1);
        st = tinyi_grad_make(g, &k, TINY_OP_MATMUL, &dst, &q, NULL);
    }
    return st;
}

tiny_status tinyi_grad_attention(tiny_grad *g, const tiny_op *op)
{
    const tiny_attention_params *p = (const tiny_attention_params *)op->params;
    const tiny_tensor *q = op->in[0], *k = op->in[1];
    tinyi_grad_att a;
    tiny_tensor mask;
    tiny_status st = TINY_OK;
    tiny_idx kv;
    a.tq = q->dim[0];
    a.heads = q->dim[1];
    a.d = q->dim[2];
    a.tk = k->dim[0];
    a.kv = k->dim[1];
    a.dv = op->in[2]->dim[2];
    a.group = a.kv ? a.heads / a.kv : 1;
    a.es = (tiny_idx)tiny_dtype_bytes(q->dtype);
    a.scale = (double)(p && p->scale != 0.0f ? p->scale : (float)(1.0 / tinyi_sqrt64((double)(a.d ? a.d : 1))));
    a.cap = p ? (double)p->softcap : 0.0;
    a.causal = p ? p->causal : 0;
    a.twist.t = p ? p->twist_t : 0.0f;
    a.twist.s = p ? p->twist_s : 0.0f;
    a.twists = op->in[4] || a.twist.s != 0.0f;
    memset(&mask, 0, sizeof mask);
    if (a.causal) st = tinyi_grad_mask(g, &a, q->dtype, &mask);
    for (kv = 0; !st && kv < a.kv; kv++) {
        const size_t used = tinyi_grad_scratch(g);
        st = tinyi_grad_attend(g, op, &a, &mask, kv);
        tinyi_grad_drop(g, used);
    }
    return st;
}
