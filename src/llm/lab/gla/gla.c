/* src/llm/lab/gla/gla.c - the layer of gated linear attention
 * Paper    S. Yang et al., 2023 (arXiv 2312.06635), 4.4 and 5.1; the convolutions are those of later layers of the same
 *          authors.
 * Formula  see llm/lab/gla/gla.h. logsigmoid(z) = min(z, 0) - log(1 + e^-|z|), which never overflows.
 * Left out convolutions that continue from one piece of a text to the next: the tape sees whole texts. */
#include "llm/lab/gla/gla.h"
#include "math/grad_inside.h"
#include "math/layer.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <string.h>

static tiny_tensor tinyi_gla_layer_bad(tiny_tape *tape, const char *text)
{
    tiny_tensor none;
    memset(&none, 0, sizeof none);
    (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, text);
    return none;
}

static tiny_tensor tinyi_gla_layer_one(tiny_tape *tape, int kind, const tiny_tensor *x)
{
    return tiny_tape_call(tape, kind, x, NULL, NULL, NULL, NULL);
}

/* x w', through the convolution where there is one, as (T, heads, numbers), each head for `group` heads */
static tiny_tensor tinyi_gla_layer_heads(tiny_tape *tape, const tiny_tensor *y, const tiny_tensor *conv, tiny_idx heads,
                                         tiny_idx group)
{
    tiny_tensor x = *y;
    tiny_idx dim[4];
    if (tiny_tape_status(tape)) return x;
    if (conv) {
        tiny_conv1d_params p;
        tiny_tensor turned;
        memset(&p, 0, sizeof p);
        p.groups = (int)x.dim[1];
        p.pad_left = (int)conv->dim[2] - 1;
        dim[0] = 1; dim[1] = x.dim[0]; dim[2] = x.dim[1];
        turned = tiny_tape_reshape(tape, &x, 3, dim);
        turned = tiny_tensor_swap(turned, 1, 2);
        turned = tiny_tape_call(tape, TINY_OP_CONV1D, &turned, conv, NULL, NULL, &p);
        if (tiny_tape_status(tape)) return turned;
        turned = tinyi_gla_layer_one(tape, TINY_OP_SILU, &turned);
        turned = tiny_tensor_swap(turned, 1, 2);
        dim[0] = turned.dim[1]; dim[1] = turned.dim[2];
        x = tiny_tape_reshape(tape, &turned, 2, dim);
        if (tiny_tape_status(tape)) return x;
    }
    dim[0] = x.dim[0]; dim[1] = heads; dim[2] = group; dim[3] = x.dim[1] / heads;
    if (group > 1) {                        /* an axis of stride 0, copied */
        tiny_idx flat[4];
        flat[0] = dim[0]; flat[1] = heads; flat[2] = 1; flat[3] = dim[3];
        x = tiny_tape_reshape(tape, &x, 4, flat);
        x.dim[2] = group;
        x.stride[2] = 0;
        x = tinyi_gla_layer_one(tape, TINY_OP_COPY, &x);
    }
    dim[1] = heads * group;
    dim[2] = dim[3];
    return tiny_tape_reshape(tape, &x, 3, dim);
}

/* logsigmoid(z) / divide, at least floor */
static tiny_tensor tinyi_gla_layer_gate(tiny_tape *tape, const tiny_tensor *z, double divide, double floor)
{
    tiny_tensor low = tiny_tape_clamp(tape, z, -(double)INFINITY, 0.0),
                rest = tinyi_gla_layer_one(tape, TINY_OP_ABS, z), g;
    rest = tinyi_gla_layer_one(tape, TINY_OP_NEG, &rest);
    rest = tinyi_gla_layer_one(tape, TINY_OP_EXP, &rest);
    rest = tiny_tape_scale(tape, &rest, 1.0, 1.0);
    rest = tinyi_gla_layer_one(tape, TINY_OP_LOG, &rest);
    g = tiny_tape_sub(tape, &low, &rest);
    g = tiny_tape_scale(tape, &g, 1.0 / divide, 0.0);
    return floor < 0.0 ? tiny_tape_clamp(tape, &g, floor, 0.0) : g;
}

static const char *tinyi_gla_layer_fault(const tiny_tensor *x, const tllm_gla_layer_weights *w,
                                         const tllm_gla_layer_params *p, tiny_idx heads, tiny_idx kv)
{
    const tiny_tensor *m[7];
    int i;
    m[0] = w->q; m[1] = w->k; m[2] = w->v; m[3] = w->gate_a; m[4] = w->gate_b; m[5] = w->side; m[6] = w->out;
    for (i = 0; i < 7; i++)
        if (!m[i] || m[i]->rank != 2)
            return "gla layer: q, k, v, gate_a, gate_b, side and out must be matrices (out, in)";
    if (!w->gate_bias || !w->norm) return "gla layer: gate_bias and norm are needed";
    if (x->rank != 2) return "gla layer: x must be (tokens, numbers)";
    if (heads < 1 || kv < 1 || heads % kv)
        return "gla layer: n_head must be a multiple of n_head_kv, and both at least 1";
    if (w->q->dim[0] % heads || w->k->dim[0] % kv || w->v->dim[0] % kv || w->q->dim[0] / heads != w->k->dim[0] / kv ||
        w->gate_b->dim[0] != w->k->dim[0])
        return "gla layer: rows of q, k, v and gate_b do not divide into their heads, or into heads of different sizes";
    if (w->side->dim[0] != w->v->dim[0] / kv * heads || w->out->dim[1] != w->side->dim[0])
        return "gla layer: rows of side and columns of out must be n_head heads of values";
    for (i = 0; i < 3; i++) {
        const tiny_tensor *c = i == 0 ? w->conv_q : i == 1 ? w->conv_k : w->conv_v;
        if (c && (c->rank != 3 || c->dim[0] != m[i]->dim[0] || c->dim[1] != 1 || c->dim[2] < 1 || c->dim[2] > 32767))
            return "gla layer: a convolution must be (rows of its matrix, 1, width)";
    }
    if (!(p->divide >= 0.0f && p->divide < INFINITY) || !(p->floor <= 0.0f) || !(p->eps >= 0.0f))
        return "gla layer: divide and eps must not be negative, floor not above 0";
    return NULL;
}

TINY_API tiny_tensor tllm_gla_layer(tiny_tape *tape, const tiny_tensor *x, const tllm_gla_layer_weights *w,
                                    const tllm_gla_layer_params *params, const tiny_tensor *state,
                                    tiny_tensor *state_out)
{
    static const tllm_gla_layer_params none = { 0, 0, 0, 0, 0, 0 };
    const tllm_gla_layer_params *p = params ? params : &none;
    const tiny_idx heads = p->n_head, kv = p->n_head_kv ? p->n_head_kv : heads, group = kv > 0 ? heads / kv : 1;
    tiny_tensor q, k, v, g, s, o[2], side;
    tiny_norm_params norm;
    tiny_gla_params core;
    tiny_idx dim[3];
    const char *fault;
    tiny_op op;
    memset(o, 0, sizeof o);
    if (!tape || !x || !w || tiny_tape_status(tape)) return o[0];
    fault = tinyi_gla_layer_fault(x, w, p, heads, kv);
    if (fault) return tinyi_gla_layer_bad(tape, fault);
    q = tiny_tape_linear(tape, x, w->q, NULL, TINY_ACT_NONE);
    k = tiny_tape_linear(tape, x, w->k, NULL, TINY_ACT_NONE);
    v = tiny_tape_linear(tape, x, w->v, NULL, TINY_ACT_NONE);
    g = tiny_tape_linear(tape, x, w->gate_a, NULL, TINY_ACT_NONE);
    g = tiny_tape_linear(tape, &g, w->gate_b, w->gate_bias, TINY_ACT_NONE);
    g = tinyi_gla_layer_gate(tape, &g, p->divide > 0.0f ? (double)p->divide : 16.0, (double)p->floor);
    q = tinyi_gla_layer_heads(tape, &q, w->conv_q, heads, 1);
    k = tinyi_gla_layer_heads(tape, &k, w->conv_k, kv, group);
    v = tinyi_gla_layer_heads(tape, &v, w->conv_v, kv, group);
    g = tinyi_gla_layer_heads(tape, &g, NULL, kv, group);
    if (tiny_tape_status(tape)) return o[0];
    if (state) s = *state;
    else {
        dim[0] = heads; dim[1] = q.dim[2]; dim[2] = v.dim[2];
        s = tiny_tape_new(tape, x->dtype, 3, dim);
        if (s.data && !tiny_tape_dry(tape))
            memset(s.data, 0, (size_t)tiny_tensor_count(&s) * tiny_dtype_bytes(s.dtype));
    }
    memset(&core, 0, sizeof core);
    core.form = p->form;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_GLA;
    op.in[0] = &s; op.in[1] = &q; op.in[2] = &k; op.in[3] = &v; op.in[4] = &g;
    op.params = &core;
    if (tiny_tape_op(tape, &op, o)) return q;
    if (state_out) *state_out = o[0];
    memset(&norm, 0, sizeof norm);
    norm.eps = p->eps > 0.0f ? p->eps : 1e-5f;
    v = tiny_tape_call(tape, TINY_OP_RMSNORM, &o[1], w->norm, NULL, NULL, &norm);
    dim[0] = x->dim[0];
    dim[1] = w->side->dim[0];
    v = tiny_tape_reshape(tape, &v, 2, dim);
    side = tiny_tape_linear(tape, x, w->side, NULL, TINY_ACT_NONE);
    v = tiny_tape_call(tape, TINY_OP_SWIGLU, &side, &v, NULL, NULL, NULL);
    return tiny_tape_linear(tape, &v, w->out, NULL, TINY_ACT_NONE);
}
