/* src/math/rope.c - rotary positions
 * Paper    J. Su et al., "RoFormer", 2021 (arXiv 2104.09864), eq. 34; the pairs (i, i + n_rot / 2) are those of
 *          GPT-NeoX.
 * Formula  see math/rope.h. Angles, sines and cosines are computed in double. The fast form of f32 rounds the sines and
 *          cosines to float.
 * Data     any strides. A piece of work is some tokens. The sines of a token are computed once for all its heads.
 * Cost     6 flops a number, and n_rot / 2 sines and cosines a token.
 * Error    three roundings of numbers of at most |x0| + |x1| <= sqrt(2) r, where r is the length of the pair. The
 *          rotated pair has the same length, so one of its numbers is at least r / sqrt(2): NORM 6 u, and one for the
 *          sum. */
#include "math/rope.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"

static const tiny_rope_params *tinyi_rope_params_of(const tiny_op *op)
{
    static const tiny_rope_params none = { 0.0f, 0.0f, 0, 0, 0 };
    return op->params ? (const tiny_rope_params *)op->params : &none;
}

static tiny_status tinyi_rope_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_rope_params *p = tinyi_rope_params_of(op);
    const tiny_tensor *x = op->in[0], *at = op->in[1];
    char text[96];
    if (!tinyi_is_real(x))
        return tinyi_fail(ctx, TINY_E_DTYPE, "rope: x must be f32 or f64, not %s", tiny_dtype_name(x->dtype));
    if (x->rank != 3)
        return tinyi_fail(ctx, TINY_E_SHAPE, "rope: x is %s, it must be (tokens, heads, d)", tinyi_shape_text(x, text));
    if (at && at->dtype != TINY_I32 && at->dtype != TINY_I64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "rope: the positions must be i32 or i64, not %s",
                          tiny_dtype_name(at->dtype));
    if (at && (at->rank != 1 || at->dim[0] != x->dim[0]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "rope: the positions are %s, there are %td tokens",
                          tinyi_shape_text(at, text), x->dim[0]);
    if (p->n_rot < 0 || p->n_rot > x->dim[2] || (p->n_rot ? p->n_rot : x->dim[2]) % 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rope: %td of %td numbers of a head: n_rot must be even and at most d",
                          p->n_rot ? (tiny_idx)p->n_rot : x->dim[2], x->dim[2]);
    if (!(p->base >= 0.0f && p->base < INFINITY) || !(p->scale - p->scale == 0.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rope: base %g and scale %g must be finite, base not negative",
                          (double)p->base, (double)p->scale);
    tinyi_want(&want[0], x->dtype, 3, x->dim);
    return TINY_OK;
}

static void tinyi_rope_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->in[0]);
    cost->flops = 6.0 * n + 50.0 * (double)op->in[0]->dim[0] * (double)op->in[0]->dim[2];
    cost->bytes = 8.0 * n;
}

static tiny_idx tinyi_rope_n(const tiny_op *op)
{
    return tinyi_rope_params_of(op)->n_rot ? tinyi_rope_params_of(op)->n_rot : op->in[0]->dim[2];
}

TINY_REF_BEGIN
static void tinyi_rope_turn(const tiny_op *op, tiny_idx token, tiny_idx i, double *c, double *s)
{
    const tiny_rope_params *p = tinyi_rope_params_of(op);
    const tiny_tensor *at = op->in[1];
    const double base = p->base != 0.0f ? (double)p->base : 10000.0, scale = p->scale != 0.0f ? (double)p->scale : 1.0;
    double position = (double)token, angle;
    if (at)
        position = at->dtype == TINY_I64 ? (double)((const int64_t *)at->data)[token * at->stride[0]]
                                         : (double)((const int32_t *)at->data)[token * at->stride[0]];
    angle = position * scale * tinyi_exp64(-2.0 * (double)i / (double)tinyi_rope_n(op) * tinyi_log64(base));
    tinyi_sincos64(angle, s, c);
    if (p->backward) *s = -*s;
}

static void tinyi_rope_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tiny_idx n = tinyi_rope_n(op), pairs = n / 2;
    const int woven = tinyi_rope_params_of(op)->interleaved;
    tiny_idx t, h, i;
    for (t = 0; t < x->dim[0]; t++)
        for (h = 0; h < x->dim[1]; h++) {
            const tiny_idx x0 = t * x->stride[0] + h * x->stride[1], y0 = t * y->stride[0] + h * y->stride[1];
            for (i = 0; i < pairs; i++) {
                const tiny_idx a = woven ? 2 * i : i, b = woven ? 2 * i + 1 : i + pairs;
                const double u = tinyi_real(x->data, x->dtype, x0 + a * x->stride[2]),
                             v = tinyi_real(x->data, x->dtype, x0 + b * x->stride[2]);
                double c, s;
                tinyi_rope_turn(op, t, i, &c, &s);
                tinyi_real_set(y->data, y->dtype, y0 + a * y->stride[2], u * c - v * s);
                tinyi_real_set(y->data, y->dtype, y0 + b * y->stride[2], u * s + v * c);
            }
            for (i = n; i < x->dim[2]; i++)
                tinyi_real_set(y->data, y->dtype, y0 + i * y->stride[2],
                               tinyi_real(x->data, x->dtype, x0 + i * x->stride[2]));
        }
}
TINY_REF_END

static void tinyi_rope_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    (void)n_threads;
    (void)shared;
    *own = (size_t)tinyi_rope_n(op) * sizeof(float);
}

static void tinyi_rope_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tiny_idx n = tinyi_rope_n(op), pairs = n / 2, xs = x->stride[2], ys = y->stride[2];
    const int woven = tinyi_rope_params_of(op)->interleaved;
    float *c = (float *)team->own, *s = pairs ? c + pairs : c;     /* no workspace where nothing turns */
    tiny_idx t, t1, h, i;
    (void)TINYI_K(team, copy_rows);
    while (tiny_take(team, x->dim[0], 4, &t, &t1))
        for (; t < t1; t++) {
            for (i = 0; i < pairs; i++) {
                double cosine, sine;
                tinyi_rope_turn(op, t, i, &cosine, &sine);
                c[i] = (float)cosine;
                s[i] = (float)sine;
            }
            for (h = 0; h < x->dim[1]; h++) {
                const float *from = (const float *)x->data + t * x->stride[0] + h * x->stride[1];
                float *to = (float *)y->data + t * y->stride[0] + h * y->stride[1];
                const tiny_idx step = woven ? 2 : 1, apart = woven ? 1 : pairs;
                for (i = 0; i < pairs; i++) {
                    const float u = from[i * step * xs], v = from[(i * step + apart) * xs];
                    to[i * step * ys] = u * c[i] - v * s[i];
                    to[(i * step + apart) * ys] = u * s[i] + v * c[i];
                }
                for (i = n; i < x->dim[2]; i++) to[i * ys] = from[i * xs];
            }
        }
}

static void tinyi_rope_cases(tiny_case *c)
{
    tiny_rope_params *p = (tiny_rope_params *)(void *)&c->params;
    tiny_idx dim[3];
    dim[0] = tiny_case_dim(c, 60);
    dim[1] = tiny_case_dim(c, 6);
    dim[2] = 2 * tiny_case_dim(c, 70);
    p->interleaved = tiny_case_pick(c, 2);
    p->backward = tiny_case_pick(c, 2);
    if (tiny_case_pick(c, 3) == 0) p->n_rot = (int)(2 * (1 + tiny_case_pick(c, (int)(dim[2] / 2))));
    if (tiny_case_pick(c, 3) == 0) p->base = 500000.0f;
    if (tiny_case_pick(c, 3) == 0) p->scale = 0.25f;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, 3, dim);
    c->in[1] = tiny_tensor_nd(NULL, tiny_case_pick(c, 2) ? TINY_I64 : TINY_I32, 1, dim);
    if (tiny_case_pick(c, 3) == 0) c->in[1].rank = -1;
    c->fill[1] = TINY_FILL_INDEX;
    c->limit[1] = 100000;
    c->no_specials = 1;
}

static const short tinyi_kernels_of_rope[] = { TINYI_K_copy_rows, -1 };
TINYI_ROW tinyi_row_rope = TINYI_ROW_OF("rope", TINY_OP_ROPE, TAKES(2, 1), GIVES(1), PARAMS(tiny_rope_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_rope_shape), REFERENCE(tinyi_rope_ref), FAST(tinyi_rope_fast, tinyi_rope_work), COST(tinyi_rope_cost),
    CASES(tinyi_rope_cases), BOUND(TINY_BOUND_NORM, 7, 0), TERMS(NULL), GRADIENT(tinyi_grad_rope),
    KERNELS(tinyi_kernels_of_rope), SAYS("pairs of a head turned by position * scale * base^(-2i/n)"));

TINY_API tiny_status tiny_rope(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *position,
                               const tiny_rope_params *params, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_ROPE, x, position, params, y);
}
