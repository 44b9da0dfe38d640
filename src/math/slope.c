/* src/math/slope.c - derivatives of the elementary functions; rounding
 * Formula  dx = dy f'(x): e^x; 1/x; 1 - tanh^2 = 4 e / (1 + e)^2, e = e^(-2|x|); 2/sqrt(pi) e^(-x^2); e / (1 + e)^2,
 *          e = e^(-|x|); cos; -sin; -1/2 x^(-3/2); 1/2 x^(-1/2); the sign; -1; x > 0; 2 max(x, 0); with s the sigmoid:
 *          silu s (1 + x (1 - s)); gelu (1 + erf(x/sqrt 2))/2 + x e^(-x^2/2)/sqrt(2 pi); gelu_tanh, z = x (a + b x^2):
 *          s(z) (1 + x (1 - s(z)) (a + 3 b x^2)), a = 2 sqrt(2/pi), b = 0.044715 a.
 * Data     any strides (math/walk_inside.h); runs that are not dense go through buffers on the stack.
 * Cost     12 bytes a number, and an exponential for most.
 * Error    In units of u times the value at |x|, which is at least 1/2 for the three derivatives that have a zero: an
 *          exponential is off by 2.5 ulp, each further operation by one. The slope of erf is e^ of a rounded square
 *          below 33: LINEAR 48 u. round: exact. */
#include "math/slope.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/walk_inside.h"
#include "math/elem.h"

static tiny_status tinyi_slope_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_slope_params *p = (const tiny_slope_params *)op->params;
    const tiny_tensor *x = op->in[0], *dy = op->in[1];
    char tx[96], ty[96];
    int i, same = x->rank == dy->rank;
    if (!tinyi_is_real(x) || dy->dtype != x->dtype)
        return tinyi_fail(ctx, TINY_E_DTYPE, "slope: x is %s and dy is %s; they must be f32, or both f64",
                          tiny_dtype_name(x->dtype), tiny_dtype_name(dy->dtype));
    for (i = 0; same && i < x->rank; i++) same = x->dim[i] == dy->dim[i];
    if (!same)
        return tinyi_fail(ctx, TINY_E_SHAPE, "slope: x is %s and dy is %s: they must have the same shape",
                          tinyi_shape_text(x, tx), tinyi_shape_text(dy, ty));
    if (!p || ((p->of < TINY_OP_EXP || p->of > TINY_OP_GELU_TANH) && p->of != TINY_OP_ROUND))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slope: operation %d is not a function of one argument", p ? p->of : 0);
    tinyi_want(&want[0], x->dtype, x->rank, x->dim);
    return TINY_OK;
}

static tiny_status tinyi_round_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0];
    if (!tinyi_is_real(x))
        return tinyi_fail(ctx, TINY_E_DTYPE, "round: x must be f32 or f64, not %s", tiny_dtype_name(x->dtype));
    tinyi_want(&want[0], x->dtype, x->rank, x->dim);
    return TINY_OK;
}

static void tinyi_slope_cost(const tiny_op *op, tiny_cost *cost)
{
    const tiny_slope_params *p = (const tiny_slope_params *)op->params;
    double n = (double)tiny_tensor_count(op->out[0]);
    cost->flops =
        (!op->in[1] || p->of == TINY_OP_RELU || p->of == TINY_OP_ABS || p->of == TINY_OP_NEG || p->of == TINY_OP_RELU2
             ? 2.0
             : 30.0) *
        n;
    cost->bytes = (op->in[1] ? 12.0 : 8.0) * n;
}

TINY_REF_BEGIN
static double tinyi_slope_one(int of, double x)
{
    const double a = 1.5957691216057308, b = 0.07135481627260025, m = x < 0 ? -x : x;
    double e, s;
    switch (of) {
    case TINY_OP_EXP: return tinyi_exp64(x);
    case TINY_OP_LOG: return x < 0 ? (double)INFINITY - (double)INFINITY : 1.0 / x;
    case TINY_OP_TANH: e = tinyi_exp64(-2.0 * m); return 4.0 * e / ((1.0 + e) * (1.0 + e));
    case TINY_OP_ERF: return 1.1283791670955126 * tinyi_exp64(-x * x);
    case TINY_OP_SIGMOID: e = tinyi_exp64(-m); return e / ((1.0 + e) * (1.0 + e));
    case TINY_OP_SIN: return tinyi_cos64(x);
    case TINY_OP_COS: return -tinyi_sin64(x);
    case TINY_OP_RSQRT: return -0.5 / (x * tinyi_sqrt64(x));
    case TINY_OP_SQRT: return 0.5 / tinyi_sqrt64(x);
    case TINY_OP_ABS: return x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? 0.0 : x;
    case TINY_OP_NEG: return -1.0;
    case TINY_OP_RELU: return x > 0 ? 1.0 : x == x ? 0.0 : x;
    case TINY_OP_RELU2: return x > 0 ? 2.0 * x : x == x ? 0.0 : x;
    case TINY_OP_SILU: s = 1.0 / (1.0 + tinyi_exp64(-x)); return s * (1.0 + x * (1.0 - s));
    case TINY_OP_GELU:
        return 0.5 * (1.0 + tinyi_erf64(x * 0.7071067811865476)) + x * 0.3989422804014327 * tinyi_exp64(-0.5 * x * x);
    case TINY_OP_GELU_TANH:
        s = 1.0 / (1.0 + tinyi_exp64(-x * (a + b * x * x)));
        return s * (1.0 + x * (1.0 - s) * (a + 3.0 * b * x * x));
    default: return 1.0;
    }
}

static void tinyi_slope_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *dy = op->in[1], *dx = op->out[0];
    const int of = ((const tiny_slope_params *)op->params)->of;
    tiny_idx i, n = tiny_tensor_count(dx);
    for (i = 0; i < n; i++)
        tinyi_real_set(dx->data, dx->dtype, tinyi_walk_element(dx, i),
                       tinyi_real(dy->data, dy->dtype, tinyi_walk_element(dy, i)) *
                           tinyi_slope_one(of, tinyi_real(x->data, x->dtype, tinyi_walk_element(x, i))));
}

static void tinyi_round_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx i, n = tiny_tensor_count(y);
    for (i = 0; i < n; i++) {
        double v = tinyi_real(x->data, x->dtype, tinyi_walk_element(x, i)), m = v < 0 ? -v : v;
        if (m < 4503599627370496.0) {       /* 2^52: what is larger is whole; the sign of zero is kept */
            m = (m + 4503599627370496.0) - 4503599627370496.0;
            v = tinyi_f64_bits(v) >> 63 ? -m : m;
        }
        tinyi_real_set(y->data, y->dtype, tinyi_walk_element(y, i), v);
    }
}
TINY_REF_END

#define TINYI_SLOPE_PIECE 16384
#define TINYI_SLOPE_BUFFER 256

static void tinyi_slope_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_fn_slope_f32 slope = op->in[1] ? TINYI_K(team, slope_f32) : NULL;
    const tinyi_fn_nearest_f32 nearest = op->in[1] ? NULL : TINYI_K(team, nearest_f32);
    const int of = op->in[1] ? ((const tiny_slope_params *)op->params)->of : 0;
    const ptrdiff_t one = (ptrdiff_t)sizeof(float);
    const tiny_tensor *t[3];
    float bx[TINYI_SLOPE_BUFFER], by[TINYI_SLOPE_BUFFER];
    tinyi_walk w;
    tinyi_walk_at at;
    tiny_idx i0, i1, n, m;
    t[0] = op->out[0];
    t[1] = op->in[0];
    t[2] = op->in[1] ? op->in[1] : op->in[0];
    tinyi_walk_plan(&w, t, 3);
    while (tiny_take(team, w.total, TINYI_SLOPE_PIECE, &i0, &i1))
        for (tinyi_walk_seek(&w, &at, i0, i1); at.run; tinyi_walk_next(&w, &at)) {
            float *dx = (float *)(void *)at.p[0];
            const float *x = (const float *)(const void *)at.p[1], *dy = (const float *)(const void *)at.p[2];
            tiny_idx s0 = w.step[0] / one, s1 = w.step[1] / one, s2 = w.step[2] / one;
            if (s0 == 1 && s1 == 1 && s2 == 1) {
                if (slope) slope(of, dx, x, dy, (size_t)at.run);
                else nearest(dx, x, (size_t)at.run);
                continue;
            }
            for (n = at.run; n > 0; n -= m, dx += m * s0, x += m * s1, dy += m * s2) {
                m = TINYI_MIN(n, TINYI_SLOPE_BUFFER);
                tinyi_row_gather(bx, x, m, s1);
                tinyi_row_gather(by, dy, m, s2);
                if (slope) slope(of, by, bx, by, (size_t)m);
                else nearest(by, bx, (size_t)m);
                tinyi_row_scatter(dx, by, m, s0);
            }
        }
}

static void tinyi_slope_case(tiny_case *c, int n_in)
{
    int rank = tiny_case_pick(c, TINY_MAX_RANK + 1), i, j;
    for (j = 0; j < n_in; j++) c->in[j].rank = rank;
    for (i = 0; i < rank; i++) {
        tiny_idx d = tiny_case_dim(c, i == rank - 1 ? rank == 1 ? 40000 : 300 : 5);
        for (j = 0; j < n_in; j++) c->in[j].dim[i] = d;
    }
}

static void tinyi_slope_cases(tiny_case *c)
{
    tiny_slope_params *p = (tiny_slope_params *)(void *)&c->params;
    tinyi_slope_case(c, 2);
    p->of = TINY_OP_EXP + c->index % (TINY_OP_GELU_TANH - TINY_OP_EXP + 2);
    if (p->of > TINY_OP_GELU_TANH) p->of = TINY_OP_ROUND;
    c->no_specials = 1;
    /* magnitudes where the derivative may be negative at |x|: 1 for sine and cosine, 1/x for x^(-3/2)/2 on (0.1, 2) */
    c->has_magnitude_params = 1;
    c->magnitude_params = c->params;
    if (p->of == TINY_OP_SIN || p->of == TINY_OP_COS || p->of == TINY_OP_NEG)
        ((tiny_slope_params *)(void *)&c->magnitude_params)->of = TINY_OP_ROUND;
    if (p->of == TINY_OP_RSQRT) ((tiny_slope_params *)(void *)&c->magnitude_params)->of = TINY_OP_LOG;
    if (p->of == TINY_OP_LOG || p->of == TINY_OP_SQRT || p->of == TINY_OP_RSQRT) c->fill[0] = TINY_FILL_POSITIVE;
}

static void tinyi_round_cases(tiny_case *c)
{
    tinyi_slope_case(c, 1);
    c->fill[0] = TINY_FILL_WIDE;
}

static const short tinyi_kernels_of_slope[] = { TINYI_K_slope_f32, -1 };
static const short tinyi_kernels_of_round[] = { TINYI_K_nearest_f32, -1 };
TINYI_ROW tinyi_row_slope = TINYI_ROW_OF("slope", TINY_OP_SLOPE, TAKES(2, 2), GIVES(1), PARAMS(tiny_slope_params),
    FLAGS(TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_slope_shape), REFERENCE(tinyi_slope_ref), FAST(tinyi_slope_fast, NULL), COST(tinyi_slope_cost),
    CASES(tinyi_slope_cases), BOUND(TINY_BOUND_LINEAR, 48, 0), TERMS(NULL), GRADIENT(NULL),
    KERNELS(tinyi_kernels_of_slope), SAYS("dx = dy f'(x)"));
TINYI_ROW tinyi_row_round = TINYI_ROW_OF("round", TINY_OP_ROUND, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_round_shape), REFERENCE(tinyi_round_ref), FAST(tinyi_slope_fast, NULL), COST(tinyi_slope_cost),
    CASES(tinyi_round_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_round), SAYS("y = x rounded, ties to even; its gradient passes straight through"));

TINY_API tiny_status tiny_slope(tiny_ctx *ctx, int of, const tiny_tensor *x, const tiny_tensor *dy,
                                const tiny_tensor *dx)
{
    tiny_slope_params p;
    p.of = of;
    return tinyi_call(ctx, TINY_OP_SLOPE, x, dy, &p, dx);
}

TINY_API tiny_status tiny_round(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_ROUND, x, NULL, NULL, y);
}
