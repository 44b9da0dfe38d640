/* src/gnn/equivariant/layers.c - linear maps of irreps and gates, as views and operations of math
 * Paper    M. Geiger, T. Smidt, "e3nn: Euclidean Neural Networks", 2022 (arXiv 2207.09453): both layers.
 * Formula  y[w][k] = sum over blocks i of the same irrep, u of W_i[u][w] x_i[u][k] / sqrt(s); gates: gnn/equivariant/
 *          layers.h. The constant of f is 1 / sqrt(int f(z)^2 exp(-z^2 / 2) / sqrt(2 pi) dz), by the trapezoidal rule
 *          on -12 .. 12 with steps of 1/64: 1e-12 for smooth f.
 * Method   a block is a view (n, 2 l + 1, mul), so each two blocks are one product of matrices with batches. */
#include <string.h>
#include "gnn/equivariant/layers.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/layer.h"
#include "math/rows_inside.h"

static int tinyi_il_same(const tgnn_irrep *a, const tgnn_irrep *b) { return a->l == b->l && a->parity == b->parity; }

TINY_API tiny_idx tgnn_irreps_linear_weights(const tgnn_irreps_linear_desc *d)
{
    tiny_idx n = 0;
    int i, o;
    if (!d || tgnn_irreps_dim(d->in, d->n_in) < 0 || tgnn_irreps_dim(d->out, d->n_out) < 0) return -1;
    for (i = 0; i < d->n_in; i++)
        for (o = 0; o < d->n_out; o++)
            if (tinyi_il_same(d->in + i, d->out + o)) {
                const tiny_idx a = d->in[i].mul, b = d->out[o].mul;
                if (b && a > (TINY_IDX_MAX - n) / b) return -1;
                n += a * b;
            }
    return n;
}

TINY_API tiny_idx tgnn_irreps_linear_biases(const tgnn_irreps_linear_desc *d)
{
    tiny_idx n = 0;
    int o;
    if (!d || tgnn_irreps_dim(d->out, d->n_out) < 0) return -1;
    for (o = 0; o < d->n_out; o++)
        if (d->out[o].l == 0 && d->out[o].parity == 1) n += d->out[o].mul;
    return n;
}

/* block i of rows of t as (n, 2 l + 1, mul) */
static tiny_tensor tinyi_il_block(const tiny_tensor *t, const tgnn_irrep *list, int i, int last)
{
    const tiny_idx side = 2 * list[i].l + 1;
    tiny_tensor b = *t;
    b.data = (unsigned char *)t->data +
             (t->data ? tgnn_irreps_dim(list, i) * t->stride[1] * (tiny_idx)tiny_dtype_bytes(t->dtype) : 0);
    b.rank = 3;
    b.dim[1] = side;
    b.dim[2] = list[i].mul;
    b.stride[1] = t->stride[1] * (last ? list[i].mul : 1);
    b.stride[2] = t->stride[1] * (last ? 1 : side);
    return b;
}

static tiny_tensor tinyi_il_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

static tiny_tensor tinyi_il_refuse(tiny_tape *tape, const char *text)
{
    (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, text);
    return tinyi_il_none();
}

/* numbers first .. first + n - 1 of the rows of t, or of a vector */
static tiny_tensor tinyi_il_part(const tiny_tensor *t, tiny_idx first, tiny_idx n)
{
    tiny_tensor b = *t;
    const int axis = t->rank - 1;
    b.data = (unsigned char *)t->data + (t->data ? first * t->stride[axis] * (tiny_idx)tiny_dtype_bytes(t->dtype) : 0);
    b.dim[axis] = n;
    return b;
}

static void tinyi_il_op(tiny_tape *tape, int kind, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *bias,
                        const void *params, const tiny_tensor *y)
{
    tiny_tensor out[TINY_OP_MAX_OUT];
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = kind;
    op.in[0] = a;
    op.in[1] = b;
    op.in[2] = bias;
    op.params = params;
    op.out[0] = y;
    (void)tiny_tape_op(tape, &op, out);
}

/* zeros into a view */
static void tinyi_il_clear(tiny_tape *tape, const tiny_tensor *y)
{
    static const double zero[1] = { 0.0 };
    tiny_tensor z = *y;
    int i;
    z.data = (void *)(uintptr_t)zero;
    for (i = 0; i < z.rank; i++) z.stride[i] = 0;
    tinyi_il_op(tape, TINY_OP_COPY, &z, NULL, NULL, NULL, y);
}

/* the copies of the irrep of block o in x */
static double tinyi_il_copies(const tgnn_irreps_linear_desc *d, int o)
{
    double n = 0.0;
    int i;
    for (i = 0; i < d->n_in; i++)
        if (tinyi_il_same(d->in + i, d->out + o)) n += d->in[i].mul;
    return n;
}

/* where the weights of blocks i and o begin */
static tiny_idx tinyi_il_weight(const tgnn_irreps_linear_desc *d, int i, int o)
{
    tiny_idx n = 0;
    int a, b;
    for (a = 0; a <= i; a++)
        for (b = 0; b < (a < i ? d->n_out : o); b++)
            if (tinyi_il_same(d->in + a, d->out + b)) n += (tiny_idx)d->in[a].mul * d->out[b].mul;
    return n;
}

TINY_API tiny_tensor tgnn_tape_irreps_linear(tiny_tape *tape, const tgnn_irreps_linear_desc *d, const tiny_tensor *x,
                                             const tiny_tensor *w, const tiny_tensor *bias)
{
    const tiny_idx n_weights = tgnn_irreps_linear_weights(d), n_biases = tgnn_irreps_linear_biases(d);
    tiny_idx dim[2], at_bias = 0;
    tiny_tensor y;
    int i, o;
    if (!tape || tiny_tape_status(tape)) return tinyi_il_none();
    if (n_weights < 0 || n_biases < 0) return tinyi_il_refuse(tape, "irreps_linear: the irreps are invalid");
    if (!x || !w || x->rank != 2 || x->dim[1] != tgnn_irreps_dim(d->in, d->n_in))
        return tinyi_il_refuse(tape, "irreps_linear: x must have rows of the numbers of its irreps");
    if (w->rank != 1 || w->dim[0] != n_weights || w->dtype != x->dtype ||
        (bias && (bias->rank != 1 || bias->dim[0] != n_biases || bias->dtype != x->dtype)))
        return tinyi_il_refuse(tape,
                               "irreps_linear: w or bias is not of rank 1, of the size for these irreps and of the "
                               "type of x");
    dim[0] = x->dim[0];
    dim[1] = tgnn_irreps_dim(d->out, d->n_out);
    y = tiny_tape_new(tape, x->dtype, 2, dim);
    for (o = 0; o < d->n_out && !tiny_tape_status(tape); o++) {
        const tiny_tensor to = tinyi_il_block(&y, d->out, o, d->last);
        const int is_scalar = d->out[o].l == 0 && d->out[o].parity == 1;
        tiny_tensor b, *use_bias = NULL, sum = tinyi_il_none();
        int n = 0, total = 0;
        if (is_scalar && bias) {
            b = tinyi_il_part(bias, at_bias, d->out[o].mul);
            use_bias = &b;
        }
        if (is_scalar) at_bias += d->out[o].mul;
        for (i = 0; i < d->n_in; i++) total += tinyi_il_same(d->in + i, d->out + o) && d->in[i].mul > 0;
        for (i = 0; i < d->n_in; i++) {
            const tiny_tensor from = tinyi_il_block(x, d->in, i, d->last);
            tiny_tensor part, scaled;
            tiny_matmul_params params;
            memset(&params, 0, sizeof params);
            if (!tinyi_il_same(d->in + i, d->out + o) || !d->in[i].mul) continue;
            part = tinyi_il_part(w, tinyi_il_weight(d, i, o), (tiny_idx)d->in[i].mul * d->out[o].mul);
            part.rank = 2;
            part.dim[0] = d->in[i].mul;
            part.dim[1] = d->out[o].mul;
            part.stride[1] = w->stride[0];
            part.stride[0] = w->stride[0] * d->out[o].mul;
            scaled = tiny_tape_scale(tape, &part, 1.0 / tinyi_sqrt(tinyi_il_copies(d, o)), 0.0);
            if (total == 1) tinyi_il_op(tape, TINY_OP_MATMUL, &from, &scaled, use_bias, &params, &to);
            else {
                const tiny_tensor more = tiny_tape_call(tape, TINY_OP_MATMUL, &from, &scaled, n ? NULL : use_bias, NULL,
                                                        &params);
                if (++n < total) sum = n == 1 ? more : tiny_tape_add(tape, &sum, &more);
                else tinyi_il_op(tape, TINY_OP_ADD, &sum, &more, NULL, NULL, &to);
            }
        }
        if (!total && use_bias) {
            tiny_tensor row = b;            /* the bias alone */
            row.rank = 3;
            row.dim[2] = b.dim[0];
            row.stride[2] = b.stride[0];
            row.dim[0] = x->dim[0];
            row.dim[1] = 1;
            row.stride[0] = row.stride[1] = 0;
            tinyi_il_op(tape, TINY_OP_COPY, &row, NULL, NULL, NULL, &to);
        } else if (!total) tinyi_il_clear(tape, &to);
    }
    return tiny_tape_status(tape) ? tinyi_il_none() : y;
}

/* ---- gates */

static tiny_idx tinyi_il_gates(const tgnn_gate_desc *d)
{
    tiny_idx n = 0;
    int i;
    if (!d || d->n_even < 0 || d->n_odd < 0 || d->n_even > TGNN_IRREPS_MUL || d->n_odd > TGNN_IRREPS_MUL ||
        tgnn_irreps_dim(d->gated, d->n_gated) < 0)
        return -1;
    for (i = 0; i < d->n_gated; i++) n += d->gated[i].mul;
    return n;
}

TINY_API tiny_idx tgnn_gate_dim_in(const tgnn_gate_desc *d)
{
    const tiny_idx gates = tinyi_il_gates(d);
    return gates < 0 ? -1 : d->n_even + d->n_odd + gates + tgnn_irreps_dim(d->gated, d->n_gated);
}

TINY_API tiny_idx tgnn_gate_dim_out(const tgnn_gate_desc *d)
{
    return tinyi_il_gates(d) < 0 ? -1 : d->n_even + d->n_odd + tgnn_irreps_dim(d->gated, d->n_gated);
}

TINY_REF_BEGIN
static double tinyi_il_constant(int kind)
{
    double sum = 0.0;
    int i;
    for (i = -768; i <= 768; i++) {
        const double z = i / 64.0, f = tinyi_elem_ref_of(kind, z);
        sum += f * f * tinyi_exp64(-0.5 * z * z) / 64.0;
    }
    return 1.0 / tinyi_sqrt(sum / 2.5066282746310005024);
}

/* f(-z) = -f(z) at some points */
static int tinyi_il_is_odd(int kind)
{
    int i;
    for (i = 1; i <= 8; i++) {
        const double z = 0.375 * i, d = tinyi_elem_ref_of(kind, z) + tinyi_elem_ref_of(kind, -z);
        if (!(d <= 1e-12 && d >= -1e-12)) return 0;
    }
    return 1;
}
TINY_REF_END

static int tinyi_il_is_function(int kind) { return kind >= TINY_OP_EXP && kind <= TINY_OP_GELU_TANH; }

/* the function of a part of x, times its constant; also into y where it is not NULL */
static tiny_tensor tinyi_il_act(tiny_tape *tape, int kind, int raw, const tiny_tensor *x, const tiny_tensor *y)
{
    tiny_tensor f = tiny_tape_call(tape, kind, x, NULL, NULL, NULL, NULL);
    if (!raw) f = tiny_tape_scale(tape, &f, tinyi_il_constant(kind), 0.0);
    if (y) tinyi_il_op(tape, TINY_OP_COPY, &f, NULL, NULL, NULL, y);
    return f;
}

TINY_API tiny_tensor tgnn_tape_gate(tiny_tape *tape, const tgnn_gate_desc *d, const tiny_tensor *x)
{
    const tiny_idx gates = tinyi_il_gates(d);
    tiny_idx dim[2], at, n;
    tiny_tensor y, g, from, to;
    int even, odd, gate, i;
    if (!tape || tiny_tape_status(tape)) return tinyi_il_none();
    if (gates < 0) return tinyi_il_refuse(tape, "gate: the scalars or the gated irreps are invalid");
    if (!x || x->rank != 2 || x->dim[1] != tgnn_gate_dim_in(d))
        return tinyi_il_refuse(tape, "gate: x must have rows of scalars, gates and gated irreps");
    even = d->even ? d->even : TINY_OP_SILU;
    odd = d->odd ? d->odd : TINY_OP_TANH;
    gate = d->gate ? d->gate : TINY_OP_SIGMOID;
    if (!tinyi_il_is_function(even) || !tinyi_il_is_function(odd) || !tinyi_il_is_function(gate))
        return tinyi_il_refuse(tape, "gate: a function must be one of TINY_OP_EXP to TINY_OP_GELU_TANH");
    if (d->n_odd && !tinyi_il_is_odd(odd))
        return tinyi_il_refuse(tape, "gate: the function of odd scalars must be odd, as tanh is");
    n = d->n_even + d->n_odd;
    dim[0] = x->dim[0];
    dim[1] = tgnn_gate_dim_out(d);
    y = tiny_tape_new(tape, x->dtype, 2, dim);
    if (d->n_even) {
        from = tinyi_il_part(x, 0, d->n_even);
        to = tinyi_il_part(&y, 0, d->n_even);
        (void)tinyi_il_act(tape, even, d->raw, &from, &to);
    }
    if (d->n_odd) {
        from = tinyi_il_part(x, d->n_even, d->n_odd);
        to = tinyi_il_part(&y, d->n_even, d->n_odd);
        (void)tinyi_il_act(tape, odd, d->raw, &from, &to);
    }
    if (gates) {
        from = tinyi_il_part(x, n, gates);
        g = tinyi_il_act(tape, gate, d->raw, &from, NULL);
        from = tinyi_il_part(x, n + gates, dim[1] - n);
        to = tinyi_il_part(&y, n, dim[1] - n);
        for (i = 0, at = 0; i < d->n_gated && !tiny_tape_status(tape); at += d->gated[i].mul, i++) {
            const tiny_tensor a = tinyi_il_block(&from, d->gated, i, d->last),
                              c = tinyi_il_block(&to, d->gated, i, d->last);
            tiny_tensor b = tinyi_il_part(&g, at, d->gated[i].mul);
            b.rank = 3;
            b.dim[2] = b.dim[1];
            b.stride[2] = b.stride[1];
            b.dim[1] = 1;
            if (d->gated[i].mul) tinyi_il_op(tape, TINY_OP_MUL, &a, &b, NULL, NULL, &c);
        }
    }
    return tiny_tape_status(tape) ? tinyi_il_none() : y;
}

/* ---- without a tape: one that records nothing, of the size of a dry run */

typedef tiny_tensor (*tinyi_il_fn)(tiny_tape *tape, const void *arg);
typedef struct tinyi_il_job { const void *desc; const tiny_tensor *x, *w, *bias; } tinyi_il_job;

static tiny_tensor tinyi_il_run_linear(tiny_tape *tape, const void *arg)
{
    const tinyi_il_job *j = (const tinyi_il_job *)arg;
    return tgnn_tape_irreps_linear(tape, (const tgnn_irreps_linear_desc *)j->desc, j->x, j->w, j->bias);
}
static tiny_tensor tinyi_il_run_gate(tiny_tape *tape, const void *arg)
{
    const tinyi_il_job *j = (const tinyi_il_job *)arg;
    return tgnn_tape_gate(tape, (const tgnn_gate_desc *)j->desc, j->x);
}

static tiny_status tinyi_il_once(tiny_ctx *ctx, const char *name, tinyi_il_fn fn, const tinyi_il_job *job,
                                 const tiny_tensor *y)
{
    tiny_tape_desc desc;
    tiny_tape *tape = NULL;
    int dry;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!y) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: y is missing", name);
    memset(&desc, 0, sizeof desc);
    for (dry = 1; !st && dry >= 0; dry--) {
        desc.dry = dry;
        desc.no_grad = 1;
        st = tiny_tape_open(ctx, &desc, &tape);
        if (!st) {
            const tiny_tensor out = fn(tape, job);
            st = tiny_tape_status(tape);
            if (!st && !dry) st = tiny_copy(ctx, &out, y);
            desc.bytes = tiny_tape_high(tape) + 64;
            tiny_tape_close(tape);
        }
    }
    return st;
}

TINY_API tiny_status tgnn_irreps_linear(tiny_ctx *ctx, const tgnn_irreps_linear_desc *desc, const tiny_tensor *x,
                                        const tiny_tensor *w, const tiny_tensor *bias, const tiny_tensor *y)
{
    tinyi_il_job job;
    job.desc = desc;
    job.x = x;
    job.w = w;
    job.bias = bias;
    return tinyi_il_once(ctx, "irreps_linear", tinyi_il_run_linear, &job, y);
}

TINY_API tiny_status tgnn_gate(tiny_ctx *ctx, const tgnn_gate_desc *desc, const tiny_tensor *x, const tiny_tensor *y)
{
    tinyi_il_job job;
    memset(&job, 0, sizeof job);
    job.desc = desc;
    job.x = x;
    return tinyi_il_once(ctx, "gate", tinyi_il_run_gate, &job, y);
}
