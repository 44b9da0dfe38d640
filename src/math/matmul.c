/* src/math/matmul.c - products of matrices: the operations
 * Formula  y[i][j] = act(sum_k a[i][k] b[k][j] + bias[j]); int8: the sum, or act(scale_a[i] scale_b[j] sum + bias[j]).
 * Data     see matmul.h. The reference sums in double in the order of k and rounds once; the int8 sum is exact modulo
 *          2^32.
 * Error    f32: every number of y is a sum of k products and a bias, in one accumulator or several, fused or not. That
 *          is at most k + 1 roundings of partial sums and one of each product, each at most u times the sum of
 *          magnitudes M: (k + 2) u M to first order. The factor 1.01 covers the higher orders up to k = 2^17. An
 *          activation has a slope of at most 1.13 (relu2: 2 M), and the activation of M is at least M / 2 (relu2: M^2).
 *          So the factor is 2.3, and the activation itself adds 8 u. int8 with scales: 6 roundings, times 2.3, plus 8.
 * Left out y += a b: an accumulating form, and factors of y other than 1. */
#include <string.h>
#include "math/gemm_inside.h"
#include "math/gemm_i8_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"

static int tinyi_matmul_act(const tiny_op *op)
{
    return op->params ? ((const tiny_matmul_params *)op->params)->act : TINY_ACT_NONE;
}

/* ---- shape and cost */

static tiny_status tinyi_matmul_dims(tiny_ctx *ctx, const char *name, const tiny_op *op, tiny_dtype dtype,
                                     tiny_tensor *want)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    tiny_idx dim[TINY_MAX_RANK];
    int rank, i, act = tinyi_matmul_act(op);
    char text_a[96], text_b[96];
    if (a->rank < 2 || b->rank < 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: a is %s and b is %s; both need at least two axes", name,
                          tinyi_shape_text(a, text_a), tinyi_shape_text(b, text_b));
    if (a->dim[a->rank - 1] != b->dim[b->rank - 2])
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: a row of a has %td numbers, a column of b has %td", name,
                          a->dim[a->rank - 1], b->dim[b->rank - 2]);
    if (act < 0 || act >= TINY_ACT_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: activation %d is unknown; it must be 0 to %d", name, act,
                          (int)TINY_ACT_COUNT - 1);
    rank = TINYI_MAX(a->rank, b->rank);
    dim[rank - 2] = a->dim[a->rank - 2];
    dim[rank - 1] = b->dim[b->rank - 1];
    for (i = 0; i < rank - 2; i++) {
        int ia = i - rank + a->rank, ib = i - rank + b->rank;
        tiny_idx da = ia >= 0 ? a->dim[ia] : 1, db = ib >= 0 ? b->dim[ib] : 1;
        if (da != db && da != 1 && db != 1)
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: batches of a %s and b %s do not fit together", name,
                              tinyi_shape_text(a, text_a), tinyi_shape_text(b, text_b));
        dim[i] = da == 1 ? db : da;
    }
    tinyi_want(want, dtype, rank, dim);
    return TINY_OK;
}

/* bias and scales: of one type, one number for each of n, or absent */
static tiny_status tinyi_matmul_vector(tiny_ctx *ctx, const char *name, const char *what, const tiny_tensor *t,
                                       tiny_dtype type, tiny_idx n)
{
    char text[96];
    if (!t) return TINY_OK;
    if (t->dtype != type)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: %s must be %s, not %s", name, what, tiny_dtype_name(type),
                          tiny_dtype_name(t->dtype));
    if (t->rank != 1 || t->dim[0] != n)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %s, it must have %td numbers", name, what,
                          tinyi_shape_text(t, text), n);
    return TINY_OK;
}

static tiny_status tinyi_matmul_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    tiny_status st;
    if (!tinyi_is_real(a))
        return tinyi_fail(ctx, TINY_E_DTYPE, "matmul: a must be f32 or f64, not %s", tiny_dtype_name(a->dtype));
    if (a->dtype == TINY_F64 ? b->dtype != TINY_F64
                             : b->dtype != TINY_F32 && b->dtype != TINY_F16 && b->dtype != TINY_BF16)
        return tinyi_fail(ctx, TINY_E_DTYPE, "matmul: b must be %s, not %s",
                          a->dtype == TINY_F64 ? "f64 as a is" : "f32, f16 or bf16", tiny_dtype_name(b->dtype));
    st = tinyi_matmul_dims(ctx, "matmul", op, a->dtype, &want[0]);
    return st ? st : tinyi_matmul_vector(ctx, "matmul", "bias", op->in[2], a->dtype, want[0].dim[want[0].rank - 1]);
}

static tiny_status tinyi_matmul_i8_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    const int scaled = op->in[2] || op->in[3];
    tiny_status st;
    if (a->dtype != TINY_I8 && a->dtype != TINY_U8)
        return tinyi_fail(ctx, TINY_E_DTYPE, "matmul_i8: a must be i8 or u8, not %s", tiny_dtype_name(a->dtype));
    if (b->dtype != TINY_I8)
        return tinyi_fail(ctx, TINY_E_DTYPE, "matmul_i8: b must be i8, not %s", tiny_dtype_name(b->dtype));
    if (!scaled && (op->in[4] || tinyi_matmul_act(op)))
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "matmul_i8: without scales y holds the integer sums, and there is neither bias nor activation");
    /* a view of stride 0 may be longer than any memory; 32 rows and 32 columns of it are packed */
    if (a->rank >= 1 && a->dim[a->rank - 1] > TINY_IDX_MAX / 64 - 2048)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "matmul_i8: rows of %td numbers; a block of them is more than this machine can address",
                          a->dim[a->rank - 1]);
    st = tinyi_matmul_dims(ctx, "matmul_i8", op, scaled ? TINY_F32 : TINY_I32, &want[0]);
    if (!st) st = tinyi_matmul_vector(ctx, "matmul_i8", "scale_a", op->in[2], TINY_F32, want[0].dim[want[0].rank - 2]);
    if (!st) st = tinyi_matmul_vector(ctx, "matmul_i8", "scale_b", op->in[3], TINY_F32, want[0].dim[want[0].rank - 1]);
    return st ? st : tinyi_matmul_vector(ctx, "matmul_i8", "bias", op->in[4], TINY_F32, want[0].dim[want[0].rank - 1]);
}

static void tinyi_matmul_cost(const tiny_op *op, tiny_cost *cost)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];
    double k = (double)a->dim[a->rank - 1], n = (double)tiny_tensor_count(y);
    cost->flops = 2.0 * n * k;
    cost->bytes = (double)tiny_tensor_count(a) * (double)tiny_dtype_bytes(a->dtype) +
                  (double)tiny_tensor_count(b) * (double)tiny_dtype_bytes(b->dtype) + 4.0 * n;
}

static double tinyi_matmul_terms(const tiny_op *op)
{
    double k = (double)op->in[0]->dim[op->in[0]->rank - 1] + 2.0;
    return tinyi_matmul_act(op) ? 2.3 * k + 8.0 : k;
}

static double tinyi_matmul_i8_terms(const tiny_op *op)
{
    return tinyi_matmul_act(op) ? 24.0 : 6.0;
}

/* ---- reference */

TINY_REF_BEGIN
static double tinyi_matmul_activate(int act, double x)
{
    switch (act) {
    case TINY_ACT_RELU: return 0.0 > x ? 0.0 : x;
    case TINY_ACT_RELU2: return 0.0 > x ? 0.0 : x * x;
    case TINY_ACT_SILU: return tinyi_elem_ref_of(TINY_OP_SILU, x);
    case TINY_ACT_GELU: return tinyi_elem_ref_of(TINY_OP_GELU, x);
    case TINY_ACT_GELU_TANH: return tinyi_elem_ref_of(TINY_OP_GELU_TANH, x);
    default: return x;
    }
}

static double tinyi_matmul_get(const tiny_tensor *t, tiny_idx at)
{
    switch (t->dtype) {
    case TINY_F16: return (double)tinyi_f16_to_f32(((const uint16_t *)t->data)[at]);
    case TINY_BF16: return (double)tinyi_bf16_to_f32(((const uint16_t *)t->data)[at]);
    default: return tinyi_real(t->data, t->dtype, at);
    }
}

/* where batch q of y begins in t, in elements */
static tiny_idx tinyi_matmul_start(const tiny_tensor *t, const tiny_tensor *y, tiny_idx q)
{
    tiny_idx at = 0;
    int i;
    for (i = 3; i <= y->rank; i++) {
        tiny_idx d = y->dim[y->rank - i];
        if (i <= t->rank && t->dim[t->rank - i] > 1) at += q % d * t->stride[t->rank - i];
        q /= d;
    }
    return at;
}

static tiny_idx tinyi_matmul_batches(const tiny_tensor *y)
{
    tiny_idx n = 1;
    int i;
    for (i = 0; i + 2 < y->rank; i++) n *= y->dim[i];
    return n;
}

static void tinyi_matmul_ref(const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1], *bias = op->in[2], *y = op->out[0];
    const tiny_idx m = y->dim[y->rank - 2], n = y->dim[y->rank - 1], depth = a->dim[a->rank - 1];
    tiny_idx q, i, j, k, batches = tinyi_matmul_batches(y);
    for (q = 0; q < batches; q++)
        for (i = 0; i < m; i++)
            for (j = 0; j < n; j++) {
                tiny_idx at_a = tinyi_matmul_start(a, y, q) + i * a->stride[a->rank - 2],
                         at_b = tinyi_matmul_start(b, y, q) + j * b->stride[b->rank - 1];
                double sum = 0.0;
                for (k = 0; k < depth; k++)
                    sum += tinyi_matmul_get(a, at_a + k * a->stride[a->rank - 1]) *
                           tinyi_matmul_get(b, at_b + k * b->stride[b->rank - 2]);
                if (bias) sum += tinyi_real(bias->data, bias->dtype, j * bias->stride[0]);
                if (y->dtype == TINY_F32) sum = (double)tinyi_round_f32(sum);
                tinyi_real_set(y->data, y->dtype,
                               tinyi_matmul_start(y, y, q) + i * y->stride[y->rank - 2] + j * y->stride[y->rank - 1],
                               tinyi_matmul_activate(tinyi_matmul_act(op), sum));
            }
}

static void tinyi_matmul_i8_ref(const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1], *scale_a = op->in[2], *scale_b = op->in[3], *bias = op->in[4],
                      *y = op->out[0];
    const tiny_idx m = y->dim[y->rank - 2], n = y->dim[y->rank - 1], depth = a->dim[a->rank - 1];
    tiny_idx q, i, j, k, batches = tinyi_matmul_batches(y);
    for (q = 0; q < batches; q++)
        for (i = 0; i < m; i++)
            for (j = 0; j < n; j++) {
                tiny_idx at_a = tinyi_matmul_start(a, y, q) + i * a->stride[a->rank - 2],
                         at_b = tinyi_matmul_start(b, y, q) + j * b->stride[b->rank - 1];
                tiny_idx at_y = tinyi_matmul_start(y, y, q) + i * y->stride[y->rank - 2] + j * y->stride[y->rank - 1];
                uint32_t sum = 0;
                int32_t s;
                for (k = 0; k < depth; k++) {
                    tiny_idx at = at_a + k * a->stride[a->rank - 1];
                    int x =
                        a->dtype == TINY_U8 ? (int)((const uint8_t *)a->data)[at] : (int)((const int8_t *)a->data)[at];
                    sum += (uint32_t)(x * (int)((const int8_t *)b->data)[at_b + k * b->stride[b->rank - 2]]);
                }
                memcpy(&s, &sum, sizeof s);
                if (y->dtype == TINY_I32) ((int32_t *)y->data)[at_y] = s;
                else {
                    double r = (double)s;
                    if (scale_a) r *= (double)((const float *)scale_a->data)[i * scale_a->stride[0]];
                    if (scale_b) r *= (double)((const float *)scale_b->data)[j * scale_b->stride[0]];
                    if (bias) r += (double)((const float *)bias->data)[j * bias->stride[0]];
                    tinyi_real_set(y->data, TINY_F32, at_y,
                                   tinyi_matmul_activate(tinyi_matmul_act(op), (double)tinyi_round_f32(r)));
                }
            }
}
TINY_REF_END

/* ---- fast */

static void tinyi_matmul_plan(tinyi_gemm_plan *p, const tiny_op *op)
{
    tinyi_gemm g;
    tinyi_gemm_of(&g, op->in[0], op->in[1], NULL, NULL, op->in[2], tinyi_matmul_act(op), op->out[0]);
    tinyi_gemm_plan_f32(p, &g);
}

static void tinyi_matmul_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    tinyi_gemm_plan p;
    (void)n_threads;
    tinyi_matmul_plan(&p, op);
    *shared = p.shared_bytes;
    *own = p.own_bytes;
}

static void tinyi_matmul_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_gemm_plan p;
    tinyi_matmul_plan(&p, op);
    (void)TINYI_K(team, gemm_f32_tile);
    tinyi_gemm_run_f32(team, &p);
}

static void tinyi_matmul_i8_plan(tinyi_gemm_plan *p, const tiny_op *op)
{
    tinyi_gemm g;
    tinyi_gemm_of(&g, op->in[0], op->in[1], op->in[2], op->in[3], op->in[4], tinyi_matmul_act(op), op->out[0]);
    tinyi_gemm_plan_i8(p, &g);
}

static void tinyi_matmul_i8_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    tinyi_gemm_plan p;
    (void)n_threads;
    tinyi_matmul_i8_plan(&p, op);
    *shared = p.shared_bytes;
    *own = p.own_bytes;
}

static void tinyi_matmul_i8_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_gemm_plan p;
    tinyi_matmul_i8_plan(&p, op);
    (void)TINYI_K(team, gemm_i8_tile);
    tinyi_gemm_run_i8(team, &p, op->out[0]->dtype == TINY_F32);
}

/* ---- rows */

/* Sizes below and above tiles and blocks, thin and wide, and now and then one that needs every loop. */
static void tinyi_matmul_case_dims(tiny_case *c, tiny_idx *m, tiny_idx *n, tiny_idx *k)
{
    switch (c->index % 8) {
    case 1: *m = 1 + tiny_case_pick(c, 8); *n = tiny_case_dim(c, 600); *k = tiny_case_dim(c, 3000); break;
    case 2: *m = tiny_case_dim(c, 600); *n = 1 + tiny_case_pick(c, 8); *k = tiny_case_dim(c, 3000); break;
    case 3: *m = 9 + tiny_case_pick(c, 90); *n = 90 + tiny_case_pick(c, 300); *k = 100 + tiny_case_pick(c, 700); break;
    case 4: *m = 97 + tiny_case_pick(c, 40); *n = 97 + tiny_case_pick(c, 60); *k = 257 + tiny_case_pick(c, 500); break;
    case 7:
        *m = c->index % 16 == 7 ? 385 + tiny_case_pick(c, 30) : 100;
        *n = 97 + tiny_case_pick(c, 30);
        *k = 390 + tiny_case_pick(c, 20);
        break;
    default: *m = tiny_case_dim(c, 70); *n = tiny_case_dim(c, 70); *k = tiny_case_dim(c, 200); break;
    }
}

static void tinyi_matmul_case_sides(tiny_case *c, tiny_idx m, tiny_idx n, tiny_idx k)
{
    tiny_idx b0 = tiny_case_pick(c, 3) ? 1 : 2, b1 = tiny_case_pick(c, 2) ? 1 : 3;
    int ra = 2, rb = 2;
    if (m * n * k < 1000000 && tiny_case_pick(c, 2)) {
        ra = 2 + tiny_case_pick(c, 3);
        rb = 2 + tiny_case_pick(c, 3);
    }
    c->in[0].rank = ra;
    c->in[1].rank = rb;
    if (ra == 4) c->in[0].dim[0] = b0;
    if (ra >= 3) c->in[0].dim[ra - 3] = b1;
    if (rb == 4) c->in[1].dim[0] = tiny_case_pick(c, 2) ? b0 : 1;
    if (rb >= 3) c->in[1].dim[rb - 3] = tiny_case_pick(c, 2) ? b1 : 1;
    c->in[0].dim[ra - 2] = m;
    c->in[0].dim[ra - 1] = c->in[1].dim[rb - 2] = k;
    c->in[1].dim[rb - 1] = n;
}

static void tinyi_matmul_case_act(tiny_case *c, int may)
{
    tiny_matmul_params p;
    p.act = may && tiny_case_pick(c, 2) ? tiny_case_pick(c, TINY_ACT_COUNT) : TINY_ACT_NONE;
    memcpy(c->params.bytes, &p, sizeof p);
}

static void tinyi_matmul_cases(tiny_case *c)
{
    static const tiny_dtype types[] = { TINY_F32, TINY_F16, TINY_BF16 };
    tiny_idx m = 1, n = 1, k = 1;
    if (c->index) tinyi_matmul_case_dims(c, &m, &n, &k);
    tinyi_matmul_case_sides(c, m, n, k);
    c->in[1].dtype = types[tiny_case_pick(c, 3)];
    c->in[2].rank = tiny_case_pick(c, 2) ? 1 : -1;
    c->in[2].dim[0] = n;
    tinyi_matmul_case_act(c, 1);
}

static void tinyi_matmul_i8_cases(tiny_case *c)
{
    tiny_idx m = 1, n = 1, k = 1;
    int i, scaled = tiny_case_pick(c, 2);
    if (c->index) tinyi_matmul_case_dims(c, &m, &n, &k);
    tinyi_matmul_case_sides(c, m, n, k);
    c->in[0].dtype = tiny_case_pick(c, 2) ? TINY_I8 : TINY_U8;
    c->in[1].dtype = TINY_I8;
    for (i = 2; i < 5; i++) {
        c->in[i].rank = scaled && tiny_case_pick(c, 3) ? 1 : -1;
        c->in[i].dim[0] = i == 2 ? m : n;
        c->fill[i] = TINY_FILL_POSITIVE;
    }
    if (c->in[2].rank < 0 && c->in[3].rank < 0) c->in[4].rank = -1;
    tinyi_matmul_case_act(c, c->in[2].rank == 1 || c->in[3].rank == 1);
}

/* the bias and the activation behind a product */
#define TINYI_MATMUL_ENDS \
    TINYI_K_binary_f32, TINYI_K_relu_f32, TINYI_K_relu2_f32, TINYI_K_silu_f32, TINYI_K_gelu_f32, TINYI_K_gelu_tanh_f32
static const short tinyi_kernels_of_matmul[] = { TINYI_K_gemm_f32_tile,
                                                 TINYI_K_gemm_f32_rows,
                                                 TINYI_K_gemm_f32_pack,
                                                 TINYI_K_gemm_f32_turn,
                                                 TINYI_K_gemm_f32_shape,
                                                 TINYI_K_gemv_dot,
                                                 TINYI_K_gemv_axpy,
                                                 TINYI_K_transpose_b4,
                                                 TINYI_K_copy_rows,
                                                 TINYI_K_f16_to_f32,
                                                 TINYI_K_bf16_to_f32,
                                                 TINYI_MATMUL_ENDS,
                                                 -1 };
static const short tinyi_kernels_of_matmul_i8[] = { TINYI_K_gemm_i8_tile,  TINYI_K_gemm_i8_dot,   TINYI_K_gemm_i8_shape,
                                                    TINYI_K_gemm_i8_row,   TINYI_K_gemm_i8_start, TINYI_K_gemm_i8_weave,
                                                    TINYI_K_gemm_i8_begin, TINYI_K_gemm_i8_end,   TINYI_K_transpose_b4,
                                                    TINYI_K_copy_rows,     TINYI_MATMUL_ENDS,     -1 };

TINYI_ROW tinyi_row_matmul = TINYI_ROW_OF("matmul", TINY_OP_MATMUL, TAKES(3, 2), GIVES(1), PARAMS(tiny_matmul_params),
    FLAGS(TINY_OP_F64 | TINY_OP_LATE),
    SHAPE(tinyi_matmul_shape), REFERENCE(tinyi_matmul_ref), FAST(tinyi_matmul_fast, tinyi_matmul_work),
    COST(tinyi_matmul_cost), CASES(tinyi_matmul_cases), BOUND(TINY_BOUND_LINEAR, 0, 1.01), TERMS(tinyi_matmul_terms),
    GRADIENT(tinyi_grad_matmul), KERNELS(tinyi_kernels_of_matmul),
    SAYS("y[i][j] = act(sum_k a[i][k] b[k][j] + bias[j])"));
TINYI_ROW tinyi_row_matmul_i8 = TINYI_ROW_OF("matmul_i8", TINY_OP_MATMUL_I8, TAKES(5, 2), GIVES(1),
    PARAMS(tiny_matmul_params), FLAGS(TINY_OP_LATE),
    SHAPE(tinyi_matmul_i8_shape), REFERENCE(tinyi_matmul_i8_ref), FAST(tinyi_matmul_i8_fast, tinyi_matmul_i8_work),
    COST(tinyi_matmul_cost), CASES(tinyi_matmul_i8_cases), BOUND(TINY_BOUND_LINEAR, 0, 1), TERMS(tinyi_matmul_i8_terms),
    GRADIENT(NULL), KERNELS(tinyi_kernels_of_matmul_i8),
    SAYS("y[i][j] = act(scale_a[i] scale_b[j] sum_k a[i][k] b[k][j] + bias[j])"));

TINY_API tiny_status tiny_matmul(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *bias,
                                 int act, const tiny_tensor *y)
{
    tiny_op op;
    tiny_matmul_params p;
    memset(&op, 0, sizeof op);
    p.act = act;
    op.kind = TINY_OP_MATMUL;
    op.in[0] = a;
    op.in[1] = b;
    op.in[2] = bias;
    op.out[0] = y;
    op.params = &p;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tiny_matmul_i8(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b,
                                    const tiny_tensor *scale_a, const tiny_tensor *scale_b, const tiny_tensor *bias,
                                    int act, const tiny_tensor *y)
{
    tiny_op op;
    tiny_matmul_params p;
    memset(&op, 0, sizeof op);
    p.act = act;
    op.kind = TINY_OP_MATMUL_I8;
    op.in[0] = a;
    op.in[1] = b;
    op.in[2] = scale_a;
    op.in[3] = scale_b;
    op.in[4] = bias;
    op.out[0] = y;
    op.params = &p;
    return tiny_run(ctx, &op);
}
