/* src/math/fwht.c - Walsh-Hadamard transform of blocks of rows
 *
 * Paper    J. Fino, V. Algazi, "Unified matrix treatment of the fast Walsh-Hadamard transform", IEEE Trans. Computers
 *          25(11), 1976
 * Formula  y[i] = scale * sum over j of H_r[i / m][j / m] (-1)^popcount(i % m & j % m) x[j] over blocks of n = r m, m =
 *          2^k, r = 1 or an order of hadamard.h; the reference is the sum in double
 * Cost     n (log2 m + r) additions, n log2 m for r = 1. Stages inside a vector exchange lanes; the others run two to a
 *          pass; the product with H_r comes last.
 * Error    each sum of the fast form has log2 m + r roundings, and the matrix is sqrt(n) times an orthogonal one: at
 *          most (log2 m + r + 2) n^0.5 2^-24 max |y|
 * Left out orders like 52 and 92, which need other constructions; working in place, because the reference has no buffer
 * for a block */
#include "math/table_inside.h"
#include "math/hadamard_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"
#include <string.h>

static size_t tinyi_fwht_block(const tiny_op *op)
{
    const tiny_fwht_params *p = (const tiny_fwht_params *)op->params;
    return p && p->block ? (size_t)p->block : (size_t)tinyi_row_length(op->in[0]);
}

TINY_API tiny_idx tiny_fwht_block(tiny_idx n)
{
    tinyi_had h;
    if (n < 1) return 0;
    return tinyi_had_of(&h, (size_t)n) ? n : n & -n;
}

static double tinyi_fwht_scale(const tiny_op *op, size_t n)
{
    const tiny_fwht_params *p = (const tiny_fwht_params *)op->params;
    return p && p->scale != 0.0f ? (double)p->scale : 1.0 / tinyi_sqrt64((double)n);
}

TINY_REF_BEGIN
static void tinyi_fwht_ref(const tiny_op *op)
{
    const tiny_fwht_params *p = (const tiny_fwht_params *)op->params;
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const size_t n = tinyi_fwht_block(op), length = (size_t)tinyi_row_length(x);
    const tiny_idx xs = tinyi_row_step(x), ys = tinyi_row_step(y);
    const double scale = tinyi_fwht_scale(op, n);
    float sign[TINYI_HAD_MOST];
    tinyi_had h;
    tiny_idx row;
    size_t b, i, j, bits, m;
    if (!tinyi_had_of(&h, n)) return;
    m = n / h.r;
    for (row = 0; row < tinyi_row_count(x); row++)
        for (b = 0; b < length; b += n) {
            const tiny_idx from = tinyi_row_at(x, row) + (tiny_idx)b * xs, to = tinyi_row_at(y, row) + (tiny_idx)b * ys;
            for (i = 0; i < n; i++) {
                double sum = 0.0;
                if (i % m == 0) tinyi_had_row(&h, p && p->transposed, i / m, sign);
                for (j = 0; j < n; j++) {
                    double v = tinyi_real(x->data, x->dtype, from + (tiny_idx)j * xs);
                    int odd = sign[j / m] < 0.0f;
                    for (bits = i % m & j % m; bits; bits &= bits - 1) odd = !odd;
                    if (odd) sum -= v;
                    else sum += v;
                }
                tinyi_real_set(y->data, y->dtype, to + (tiny_idx)i * ys, sum * scale);
            }
        }
}
TINY_REF_END

static void tinyi_fwht_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    const size_t n = tinyi_fwht_block(op);
    tinyi_had h;
    (void)n_threads;
    *shared_bytes = tinyi_had_of(&h, n) && h.r > 1 ? h.r * h.r * sizeof(float) : 0;
    *own_bytes =
        *shared_bytes || tinyi_row_step(op->in[0]) != 1 || tinyi_row_step(op->out[0]) != 1 ? 2 * n * sizeof(float) : 0;
}

static void tinyi_fwht_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_fn_fwht_f32 fwht = TINYI_K(team, fwht_f32);
    const tinyi_fn_fwht_mix_f32 mix = TINYI_K(team, fwht_mix_f32);
    const tiny_fwht_params *p = (const tiny_fwht_params *)op->params;
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const size_t n = tinyi_fwht_block(op), length = (size_t)tinyi_row_length(x), blocks = n ? length / n : 0;
    const tiny_idx xs = tinyi_row_step(x), ys = tinyi_row_step(y);
    const float scale = (float)tinyi_fwht_scale(op, n);
    float *sign = (float *)team->shared, *dense = (float *)team->own;
    tinyi_had h;
    size_t b;
    tiny_idx t, t0, t1;
    if (!tinyi_had_of(&h, n)) return;
    if (h.r > 1) {
        while (tiny_take(team, (tiny_idx)h.r, 32, &t0, &t1))
            for (t = t0; t < t1; t++) tinyi_had_row(&h, p && p->transposed, (size_t)t, sign + (size_t)t * h.r);
        tiny_barrier(team);
    }
    while (tiny_take(team, tinyi_row_count(x) * (tiny_idx)blocks, (tiny_idx)(16384 / (n * h.r + 1)) + 1, &t0, &t1))
        for (t = t0; t < t1; t++) {
            const tiny_idx row = t / (tiny_idx)blocks, at = t % (tiny_idx)blocks * (tiny_idx)n;
            const float *from = tinyi_row_f32(x, row) + at * xs;
            float *to = tinyi_row_f32(y, row) + at * ys, *out = ys == 1 ? to : dense;
            if (xs != 1) {
                tinyi_row_gather(dense, from, (tiny_idx)n, xs);
                from = dense;
            }
            if (h.r == 1) fwht(out, from, n, scale);
            else {
                const size_t m = n / h.r;
                float *part = dense + n;
                for (b = 0; b < n; b += m) fwht(part + b, from + b, m, scale);
                mix(out, part, sign, h.r, m);
            }
            if (ys != 1) tinyi_row_scatter(to, dense, (tiny_idx)n, ys);
        }
}

static tiny_status tinyi_fwht_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_fwht_params *p = (const tiny_fwht_params *)op->params;
    const tiny_tensor *x = op->in[0];
    tiny_idx length = tinyi_row_length(x), n;
    if (!tinyi_is_real(x))
        return tinyi_fail(ctx, TINY_E_DTYPE, "fwht: x is %s, it must be f32 or f64", tiny_dtype_name(x->dtype));
    if (x->rank < 1) return tinyi_fail(ctx, TINY_E_SHAPE, "fwht: x must have at least rank 1");
    if (p && p->block < 0) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fwht: the block %td is negative", p->block);
    n = p && p->block ? p->block : length;
    if (n > 0 && tiny_fwht_block(n) != n)
        return tinyi_fail(ctx, TINY_E_SHAPE, "fwht: there is no matrix of order %td here; blocks of %td divide it", n,
                          tiny_fwht_block(n));
    if (n && length % n)
        return tinyi_fail(ctx, TINY_E_SHAPE, "fwht: rows of %td values are not whole blocks of %td", length, n);
    if (p && !(p->scale > -INFINITY && p->scale < INFINITY))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fwht: the scale %g is not finite", (double)p->scale);
    tinyi_want(want, x->dtype, x->rank, x->dim);
    return TINY_OK;
}

static double tinyi_fwht_stages(const tiny_op *op)
{
    size_t n = tinyi_fwht_block(op);
    double k = 0.0;
    tinyi_had h;
    if (!tinyi_had_of(&h, n)) return 0.0;
    if (h.r > 1) k = (double)h.r;
    for (n /= h.r; n > 1; n /= 2) k += 1.0;
    return k;
}

static void tinyi_fwht_cost(const tiny_op *op, tiny_cost *c)
{
    double count = (double)tiny_tensor_count(op->in[0]);
    c->flops = count * (tinyi_fwht_stages(op) + 1.0);
    c->bytes = count * 8.0;
}

static double tinyi_fwht_terms(const tiny_op *op)
{
    return (tinyi_fwht_stages(op) + 2.0) * tinyi_sqrt64((double)tinyi_fwht_block(op));
}

static void tinyi_fwht_cases(tiny_case *c)
{
    tiny_fwht_params p;
    tiny_idx dim[3];
    /* each construction, and what has no vector in its power of two */
    static const short orders[] = { 12, 20, 28, 36, 44, 172 };
    int lead = tiny_case_pick(c, 3), i, k = c->index ? tiny_case_pick(c, 11) : 0;
    memset(&p, 0, sizeof p);
    for (i = 0; i < lead; i++) dim[i] = tiny_case_dim(c, 8);
    dim[lead] = (tiny_idx)1 << k;
    if (c->index && tiny_case_pick(c, 4) == 0) {
        dim[lead] = (tiny_idx)orders[tiny_case_pick(c, 6)] << k % 5;
        p.transposed = tiny_case_pick(c, 2);
    }
    if (tiny_case_pick(c, 2)) {
        p.block = dim[lead];
        dim[lead] *= 1 + tiny_case_pick(c, 5);
    }
    if (tiny_case_pick(c, 2)) p.scale = 0.75f;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, lead + 1, dim);
    c->no_specials = 1;                     /* as for fft */
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_fwht_kernels[] = { TINYI_K_fwht_f32, TINYI_K_fwht_mix_f32, -1 };
TINYI_ROW tinyi_row_fwht = TINYI_ROW_OF("fwht", TINY_OP_FWHT, TAKES(1, 1), GIVES(1), PARAMS(tiny_fwht_params),
    FLAGS(TINY_OP_F64),
    SHAPE(tinyi_fwht_shape), REFERENCE(tinyi_fwht_ref), FAST(tinyi_fwht_fast, tinyi_fwht_work), COST(tinyi_fwht_cost),
    CASES(tinyi_fwht_cases), BOUND(TINY_BOUND_SCALE, 0.0, 1.0), TERMS(tinyi_fwht_terms), GRADIENT(tinyi_grad_fwht),
    KERNELS(tinyi_fwht_kernels), SAYS("y[i] = scale sum_j H_r[i / m][j / m] (-1)^popcount(i % m & j % m) x[j]"));

TINY_API tiny_status tiny_fwht(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fwht_params *params,
                               const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_FWHT, x, NULL, params, y);
}

