/* src/math/fft.c - Fourier transforms: references, operations, plans; the fast form is math/fft_way.c
 *
 * Paper    J. Cooley, J. Tukey, Math. Comp. 19, 1965, radices 8, 5, 4, 3, 2 and primes up to 31, self-sorting (see
 *          math/fft.simd.h); L. Bluestein, IEEE Trans. Audio Electroacoust. 18(4), 1970, for lengths with a larger
 *          prime
 * Formula  the reference is the sum itself in double, j in order, with exp(-2 pi i (j k mod n) / n) of tinyi_cis64,
 *          times the factor, rounded once: 8 n^2 operations a row
 * Ways     batch: V_LANES rows side by side, one in each lane. Rows are transposed on the way in and out; adjacent
 *          columns need no transpose.
 *          split: one row x[i s + l] as s lanes, l < s <= V_LANES, where s is the largest such divisor of n. The lanes
 *          are transformed like a batch, multiplied by exp(-2 pi i l k / n), and then transformed across lanes.
 *          chirp: X[k] = c[k] sum over j of (x[j] c[j]) conj c[k-j], c[j] = exp(-pi i j^2 / n), as a cyclic convolution
 *          of length M >= 2n - 1, M a product of 2, 3, 5, by three split transforms (one of them in the plan).
 *          A real row of even length is transformed as n/2 complex values, and the bins are separated afterwards. One
 *          of odd length is transformed as a complex row. A table entry is the product, in double, of two stored
 *          factors: one of 64 and one of n/64.
 * Cost     about 4.25 n log2 n flops for powers of two, half of that for real rows; chirp: 2 transforms of M < 2.3 n +
 *          64, and 8 n flops
 * Error    |y - exact|_2 <= 7 log2(n) 2^-24 |y|_2 for each way but chirp (N. Higham, "Accuracy and Stability of
 *          Numerical Algorithms", 2nd ed., theorem 24.2). For a single value this gives n^0.5 times as much, relative
 *          to max |y|. Independent roundings spread evenly, with a standard deviation of 0.6 log2(n)^0.5 2^-24 rms y in
 *          each part (W. Gentleman, G. Sande, AFIPS 29, 1966), and max |y| is no less than rms y / 2^0.5: the bound of
 *          the rows, 4 + 3 log2(n), is over six deviations for every n. chirp computes three transforms of up to 2.3 n
 *          + 64 values: twice that bound. max |y| is taken over all rows of a call.
 * Left out one long row on several threads; f64; lengths with large powers of primes above 31 go to chirp          */
#include "math/fft.h"
#include "math/fft_way_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"
#include <string.h>

/* tables and workspace of a row take less than 2^10 bytes for each of its values */
#define TINYI_FFT_MAX_N ((tiny_idx)TINYI_MIN(SIZE_MAX >> 11, (size_t)1 << 30))
#define TINYI_FFT_BLOCK 8                   /* rows that share the sines of the reference */

/* ---- from tensors to rows */

static void tinyi_fft_side_of(tinyi_fft_side *s, const tiny_tensor *t, int complex)
{
    int i, lead = t->rank - 1 - complex;
    s->data = (float *)t->data;
    for (i = 0; i < 3; i++) {
        s->n[i] = i < 3 - lead ? 1 : t->dim[i - (3 - lead)];
        s->stride[i] = i < 3 - lead ? 0 : t->stride[i - (3 - lead)];
    }
    s->step = t->stride[lead];
    s->pair = complex ? t->stride[t->rank - 1] : 0;
}

static double tinyi_fft_factor(tiny_fft_norm norm, int inverse, double n)
{
    if (norm == TINY_FFT_NORM_NONE) return 1.0;
    if (norm == TINY_FFT_NORM_BOTH) return 1.0 / tinyi_sqrt64(n);
    return (norm == TINY_FFT_NORM_INVERSE) == (inverse != 0) ? 1.0 / n : 1.0;
}

/* n_total: what the factor counts, where a call covers two axes; 0: n */
static void tinyi_fft_shape_of(tinyi_fft_shape *f, tiny_fft_kind kind, const tiny_tensor *x, const tiny_tensor *y,
                               int inverse, tiny_fft_norm norm, double n_total)
{
    const tiny_tensor *real = kind == TINY_FFT_REAL ? x : y;
    f->kind = kind;
    tinyi_fft_side_of(&f->x, x, kind != TINY_FFT_REAL);
    tinyi_fft_side_of(&f->y, y, kind != TINY_FFT_REAL_INVERSE);
    f->rows = f->x.n[0] * f->x.n[1] * f->x.n[2];
    f->n = (size_t)(kind == TINY_FFT_COMPLEX ? x->dim[x->rank - 2] : real->dim[real->rank - 1]);
    f->inverse = kind == TINY_FFT_COMPLEX ? inverse : kind == TINY_FFT_REAL_INVERSE;
    f->scale = f->n ? tinyi_fft_factor(norm, f->inverse, n_total > 0.0 ? n_total : (double)f->n) : 1.0;
}

/* ---- the reference */

TINY_REF_BEGIN
/* value j of a row as the formula has it: of a halved spectrum also the mirrored part */
static void tinyi_fft_value(const tinyi_fft_shape *f, const float *x, size_t j, double *re, double *im)
{
    size_t n = f->n, m = f->kind == TINY_FFT_REAL_INVERSE && j > n / 2 ? n - j : j;
    *re = (double)x[(tiny_idx)m * f->x.step];
    *im = f->kind == TINY_FFT_REAL ? 0.0 : (double)x[(tiny_idx)m * f->x.step + f->x.pair];
    if (f->kind == TINY_FFT_REAL_INVERSE && (m == 0 || 2 * m == n)) *im = 0.0;
    if (m != j) *im = -*im;
}

/* one output of up to TINYI_FFT_BLOCK rows */
static void tinyi_fft_sum(const tinyi_fft_shape *f, float *const *x, size_t n_rows, size_t k,
                          double sum[TINYI_FFT_BLOCK][2])
{
    size_t j, r;
    double c, s, re, im;
    for (r = 0; r < n_rows; r++) sum[r][0] = sum[r][1] = 0.0;
    for (j = 0; j < f->n; j++) {
        tinyi_cis64((uint64_t)j * k % f->n, f->n, &c, &s);
        if (!f->inverse) s = -s;
        for (r = 0; r < n_rows; r++) {
            tinyi_fft_value(f, x[r], j, &re, &im);
            sum[r][0] += re * c - im * s;
            sum[r][1] += re * s + im * c;
        }
    }
    for (r = 0; r < n_rows; r++) {
        sum[r][0] *= f->scale;
        sum[r][1] *= f->scale;
    }
}
TINY_REF_END

static void tinyi_fft_ref(const tinyi_fft_shape *f)
{
    const size_t n_out = f->kind == TINY_FFT_REAL ? f->n / 2 + 1 : f->n;
    double sum[TINYI_FFT_BLOCK][2];
    float *x[TINYI_FFT_BLOCK], *y[TINYI_FFT_BLOCK];
    tiny_idx row;
    size_t r, k, n_rows;
    for (row = 0; row < f->rows; row += (tiny_idx)n_rows) {
        n_rows = (size_t)TINYI_MIN(f->rows - row, TINYI_FFT_BLOCK);
        for (r = 0; r < n_rows; r++) {
            x[r] = tinyi_fft_row(&f->x, row + (tiny_idx)r);
            y[r] = tinyi_fft_row(&f->y, row + (tiny_idx)r);
        }
        for (k = 0; k < n_out; k++) {
            tinyi_fft_sum(f, x, n_rows, k, sum);
            for (r = 0; r < n_rows; r++) {
                y[r][(tiny_idx)k * f->y.step] = tinyi_round_f32(sum[r][0]);
                if (f->kind != TINY_FFT_REAL_INVERSE)
                    y[r][(tiny_idx)k * f->y.step + f->y.pair] = tinyi_round_f32(sum[r][1]);
            }
        }
    }
}

/* ---- operations */

static const tiny_fft_params tinyi_fft_default = { 0, TINY_FFT_NORM_INVERSE, 0, NULL };

static const tiny_fft_params *tinyi_fft_params_of(const tiny_op *op)
{
    return op->params ? (const tiny_fft_params *)op->params : &tinyi_fft_default;
}

static void tinyi_fft_of_op(tinyi_fft_shape *f, const tiny_op *op)
{
    const tiny_fft_params *p = tinyi_fft_params_of(op);
    tinyi_fft_shape_of(f,
                       op->kind == TINY_OP_FFT    ? TINY_FFT_COMPLEX
                       : op->kind == TINY_OP_RFFT ? TINY_FFT_REAL
                                                  : TINY_FFT_REAL_INVERSE,
                       op->in[0], op->out[0], p->inverse, p->norm, 0.0);
}

static void tinyi_fft_ref_op(const tiny_op *op)
{
    tinyi_fft_shape f;
    tinyi_fft_of_op(&f, op);
    tinyi_fft_ref(&f);
}

static void tinyi_fft_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    /* of all targets: which it will be is not known here */
    static const size_t lanes[] = { 1, 4, 8, TINYI_FFT_LANES };
    const tiny_fft_plan *plan = tinyi_fft_params_of(op)->plan;
    tinyi_fft_shape f;
    tinyi_fft_way w;
    size_t i;
    (void)n_threads;
    *shared_bytes = *own_bytes = 0;
    tinyi_fft_of_op(&f, op);
    if (!f.n || !f.rows) return;
    if (plan) {
        *own_bytes = plan->way.own * sizeof(float);
        return;
    }
    for (i = 0; i < TINYI_COUNT(lanes); i++) {
        tinyi_fft_way_of_shape(&w, &f, lanes[i]);
        *shared_bytes = TINYI_MAX(*shared_bytes, w.floats * sizeof(float) + tinyi_fft_scratch(&w));
        *own_bytes = TINYI_MAX(*own_bytes, w.own * sizeof(float));
    }
}

static void tinyi_fft_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_fft_plan *plan = tinyi_fft_params_of(op)->plan;
    const size_t lanes = TINYI_K(team, fft_lanes)();
    tinyi_fft_shape f;
    tinyi_fft_way w;
    tinyi_fft_of_op(&f, op);
    if (!f.n || !f.rows) return;
    if (plan) {
        const tinyi_kernels *k = team->k;
        team->k = plan->narrower ? plan->narrower : k;
        tinyi_fft_go(team, &f, &plan->way, plan->table);
        team->k = k;
        return;
    }
    tinyi_fft_way_of_shape(&w, &f, lanes);
    if (team->i == 0)
        tinyi_fft_fill(team, &w, (float *)team->shared, (float *)team->own, (float *)team->shared + w.floats);
    tiny_barrier(team);
    tinyi_fft_go(team, &f, &w, (const float *)team->shared);
}

/* A length, and the plan for it if there is one. */
static tiny_status tinyi_fft_check_n(tiny_ctx *ctx, const char *name, tiny_fft_kind kind, tiny_idx n,
                                     const tiny_fft_plan *plan)
{
    static const char *const of[] = { "complex rows", "real rows", "half spectra" };
    if (n < 1) return tinyi_fail(ctx, TINY_E_SHAPE, "%s: a row has %td values, it must have at least one", name, n);
    if (n > TINYI_FFT_MAX_N)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: a row has %td values, more than %td are not supported", name, n,
                          TINYI_FFT_MAX_N);
    if (!plan) return TINY_OK;
    if (plan->kind != kind || plan->n != (size_t)n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the plan is for %s of %zu values, not for %s of %td", name,
                          of[plan->kind], plan->n, of[kind], n);
    if (plan->lanes != TINYI_OF(ctx->k, fft_lanes)())
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the plan was made for another target", name);
    return TINY_OK;
}

/* length, norm, types and ranks of x; name: of the operation or of the plan */
static tiny_status tinyi_fft_check(tiny_ctx *ctx, const char *name, tiny_fft_kind kind, tiny_fft_norm norm,
                                   const tiny_tensor *x)
{
    char text[96];
    int least = kind == TINY_FFT_REAL ? 1 : 2;
    if ((int)norm < 0 || norm >= TINY_FFT_NORM_COUNT)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: norm %d is unknown", name, (int)norm);
    if (x->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: x is %s, it must be f32", name, tiny_dtype_name(x->dtype));
    if (x->rank < least)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is %s, it must have at least rank %d", name,
                          tinyi_shape_text(x, text), least);
    if (kind != TINY_FFT_REAL && x->dim[x->rank - 1] != 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: the last axis of x (%s) must be 2, real and imaginary part", name,
                          tinyi_shape_text(x, text));
    if (kind == TINY_FFT_REAL && x->rank == TINY_MAX_RANK)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is %s, and its spectrum would need more than %d axes", name,
                          tinyi_shape_text(x, text), TINY_MAX_RANK);
    return TINY_OK;
}

static tiny_status tinyi_fft_shape_op(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_fft_params *p = tinyi_fft_params_of(op);
    const tiny_tensor *x = op->in[0];
    const char *name = op->kind == TINY_OP_FFT ? "fft" : op->kind == TINY_OP_RFFT ? "rfft" : "irfft";
    tiny_idx dim[TINY_MAX_RANK], bins, n;
    tiny_status st = tinyi_fft_check(ctx, name,
                                     op->kind == TINY_OP_FFT    ? TINY_FFT_COMPLEX
                                     : op->kind == TINY_OP_RFFT ? TINY_FFT_REAL
                                                                : TINY_FFT_REAL_INVERSE,
                                     p->norm, x);
    int i;
    if (st) return st;
    if (op->kind != TINY_OP_IRFFT && p->n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: n is %td, but only irfft uses it", name, p->n);
    for (i = 0; i < x->rank; i++) dim[i] = x->dim[i];
    if (op->kind == TINY_OP_FFT) {
        tinyi_want(want, TINY_F32, x->rank, dim);
        return tinyi_fft_check_n(ctx, name, TINY_FFT_COMPLEX, dim[x->rank - 2], p->plan);
    }
    if (op->kind == TINY_OP_RFFT) {
        n = dim[x->rank - 1];
        st = tinyi_fft_check_n(ctx, name, TINY_FFT_REAL, n, p->plan);
        if (st) return st;
        dim[x->rank - 1] = n / 2 + 1;
        dim[x->rank] = 2;
        tinyi_want(want, TINY_F32, x->rank + 1, dim);
        return TINY_OK;
    }
    bins = x->dim[x->rank - 2];
    n = p->n ? p->n : 2 * (bins - 1);
    if (n < 1 || n / 2 + 1 != bins)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "irfft: %td bins do not give rows of %td values", bins, n);
    dim[x->rank - 2] = n;
    tinyi_want(want, TINY_F32, x->rank - 1, dim);
    return tinyi_fft_check_n(ctx, name, TINY_FFT_REAL_INVERSE, n, p->plan);
}

static double tinyi_fft_log2(double n)
{
    double k = 0.0;
    for (; n > 1.0; n *= 0.5) k += 1.0;
    return k;
}

static void tinyi_fft_cost(const tiny_op *op, tiny_cost *c)
{
    tinyi_fft_shape f;
    double n, rows;
    tinyi_fft_of_op(&f, op);
    n = (double)f.n;
    rows = (double)f.rows;
    c->flops = rows * 5.0 * n * tinyi_fft_log2(n) * (f.kind == TINY_FFT_COMPLEX ? 1.0 : 0.5);
    if (f.n && !tinyi_fft_smooth(f.kind != TINY_FFT_COMPLEX && f.n % 2 == 0 ? f.n / 2 : f.n))
        c->flops = c->flops * 5.0 + rows * 60.0 * n;
    if (!tinyi_fft_params_of(op)->plan) c->flops += 60.0 * n;               /* the tables, by one thread */
    c->bytes = rows * n * (f.kind == TINY_FFT_COMPLEX ? 16.0 : 8.0);
}

static double tinyi_fft_terms(const tiny_op *op)
{
    tinyi_fft_shape f;
    double n;
    tinyi_fft_of_op(&f, op);
    n = (double)f.n;
    return tinyi_fft_log2(n) * (tinyi_fft_smooth(f.n) ? 1.0 : 2.0);
}

/* leading axes, then the length: short ones, even ones, primes on both sides of 31 */
static int tinyi_fft_case_dims(tiny_case *c, tiny_idx *dim)
{
    static const short some[] = { 17,  30,  31,  32,  37,  48,  53,  64,  74,  96,  101,
                                  121, 128, 135, 144, 160, 210, 243, 251, 256, 262, 289 };
    int i, lead = tiny_case_pick(c, 3);
    for (i = 0; i < lead; i++) dim[i] = tiny_case_dim(c, lead == 1 ? 40 : 6);
    dim[lead] =
        c->index && tiny_case_pick(c, 2) ? some[tiny_case_pick(c, (int)TINYI_COUNT(some))] : tiny_case_dim(c, 70);
    return lead;
}

static void tinyi_fft_case(tiny_case *c, int real, int inverse_real)
{
    tiny_fft_params p;
    tiny_idx dim[TINY_MAX_RANK];
    int lead = tinyi_fft_case_dims(c, dim);
    memset(&p, 0, sizeof p);
    p.norm = (tiny_fft_norm)tiny_case_pick(c, TINY_FFT_NORM_COUNT);
    if (inverse_real) {
        p.n = dim[lead];
        dim[lead] = dim[lead] / 2 + 1;
    } else if (!real) p.inverse = tiny_case_pick(c, 2);
    dim[lead + 1] = 2;
    c->in[0] = tiny_tensor_nd(NULL, TINY_F32, real ? lead + 1 : lead + 2, dim);
    c->no_specials = 1;                     /* one NaN is everywhere afterwards, and inf - inf depends on the order */
    memcpy(c->params.bytes, &p, sizeof p);
}
static void tinyi_fft_cases(tiny_case *c) { tinyi_fft_case(c, 0, 0); }
static void tinyi_rfft_cases(tiny_case *c) { tinyi_fft_case(c, 1, 0); }
static void tinyi_irfft_cases(tiny_case *c) { tinyi_fft_case(c, 0, 1); }

static const short tinyi_fft_kernels[] = { TINYI_K_fft_pass, TINYI_K_fft_lanes,   TINYI_K_fft_in,
                                           TINYI_K_fft_out,  TINYI_K_fft_in_rows, TINYI_K_fft_out_rows,
                                           TINYI_K_fft_last, TINYI_K_fft_mul,     -1 };
static const short tinyi_rfft_kernels[] = { TINYI_K_fft_pass, TINYI_K_fft_real,    TINYI_K_fft_lanes,
                                            TINYI_K_fft_in,   TINYI_K_fft_in_rows, TINYI_K_fft_out_rows,
                                            TINYI_K_fft_last, TINYI_K_fft_mul,     -1 };
static const short tinyi_irfft_kernels[] = { TINYI_K_fft_pass, TINYI_K_fft_unreal,  TINYI_K_fft_lanes,
                                             TINYI_K_fft_in,   TINYI_K_fft_in_rows, TINYI_K_fft_out_rows,
                                             TINYI_K_fft_last, TINYI_K_fft_mul,     -1 };

TINYI_ROW tinyi_row_fft = TINYI_ROW_OF("fft", TINY_OP_FFT, TAKES(1, 1), GIVES(1), PARAMS(tiny_fft_params), FLAGS(0),
    SHAPE(tinyi_fft_shape_op), REFERENCE(tinyi_fft_ref_op), FAST(tinyi_fft_fast, tinyi_fft_work), COST(tinyi_fft_cost),
    CASES(tinyi_fft_cases), BOUND(TINY_BOUND_SCALE, 4.0, 3.0), TERMS(tinyi_fft_terms), GRADIENT(NULL),
    KERNELS(tinyi_fft_kernels), SAYS("y[k] = c sum_j x[j] exp(-2 pi i j k / n), complex rows"));
TINYI_ROW tinyi_row_rfft = TINYI_ROW_OF("rfft", TINY_OP_RFFT, TAKES(1, 1), GIVES(1), PARAMS(tiny_fft_params), FLAGS(0),
    SHAPE(tinyi_fft_shape_op), REFERENCE(tinyi_fft_ref_op), FAST(tinyi_fft_fast, tinyi_fft_work), COST(tinyi_fft_cost),
    CASES(tinyi_rfft_cases), BOUND(TINY_BOUND_SCALE, 4.0, 3.0), TERMS(tinyi_fft_terms), GRADIENT(NULL),
    KERNELS(tinyi_rfft_kernels), SAYS("y[k] = c sum_j x[j] exp(-2 pi i j k / n), real rows, k <= n/2"));
TINYI_ROW tinyi_row_irfft = TINYI_ROW_OF("irfft", TINY_OP_IRFFT, TAKES(1, 1), GIVES(1), PARAMS(tiny_fft_params),
    FLAGS(0),
    SHAPE(tinyi_fft_shape_op), REFERENCE(tinyi_fft_ref_op), FAST(tinyi_fft_fast, tinyi_fft_work), COST(tinyi_fft_cost),
    CASES(tinyi_irfft_cases), BOUND(TINY_BOUND_SCALE, 4.0, 3.0), TERMS(tinyi_fft_terms), GRADIENT(NULL),
    KERNELS(tinyi_irfft_kernels), SAYS("real y[j] = c sum_k x[k] exp(2 pi i j k / n), half spectra"));

TINY_API tiny_status tiny_fft(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_FFT, x, NULL, params, y);
}

TINY_API tiny_status tiny_rfft(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_RFFT, x, NULL, params, y);
}

TINY_API tiny_status tiny_irfft(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params,
                                const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_IRFFT, x, NULL, params, y);
}

/* ---- two axes, as two operations with a tensor of the context between them */

static tiny_status tinyi_fft_two(tiny_ctx *ctx, const char *name, int kind, const tiny_tensor *x,
                                 const tiny_fft_params *params, const tiny_tensor *y)
{
    tiny_tensor spectrum, a, b;
    tiny_fft_params plain = params ? *params : tinyi_fft_default;
    const tiny_tensor *complex = kind == TINY_OP_IRFFT ? x : y;     /* the one with the shape of what lies between */
    char text[96];
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!x || !y) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %s is missing", name, x ? "y" : "x");
    st = tiny_tensor_check(complex);
    if (st) return tinyi_fail(ctx, st, "%s: %s: %s", name, complex == x ? "x" : "y", tiny_status_text(st));
    if (complex->rank < 3)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %s, it must be (..., m, n, 2)", name, complex == x ? "x" : "y",
                          tinyi_shape_text(complex, text));
    spectrum = tiny_tensor_nd(NULL, TINY_F32, complex->rank, complex->dim);
    spectrum.data = tinyi_alloc(ctx, (size_t)tiny_tensor_count(&spectrum), sizeof(float));
    if (!spectrum.data) return tiny_ctx_status(ctx);
    a = tiny_tensor_swap(spectrum, spectrum.rank - 3, spectrum.rank - 2);
    b = tiny_tensor_swap(*complex, spectrum.rank - 3, spectrum.rank - 2);
    plain.n = 0;
    if (plain.plan &&
        (plain.plan->kind != TINY_FFT_COMPLEX || plain.plan->n != (size_t)complex->dim[complex->rank - 3]))
        plain.plan = NULL;
    if (kind == TINY_OP_IRFFT) {
        plain.inverse = 1;
        st = tinyi_call(ctx, TINY_OP_FFT, &b, NULL, &plain, &a);
        if (!st) st = tinyi_call(ctx, TINY_OP_IRFFT, &spectrum, NULL, params, y);
    } else {
        if (kind == TINY_OP_RFFT) plain.inverse = 0;
        st = tinyi_call(ctx, kind, x, NULL, params, &spectrum);
        if (!st) st = tinyi_call(ctx, TINY_OP_FFT, &a, NULL, &plain, &b);
    }
    tiny_free(ctx, spectrum.data);
    return st;
}

TINY_API tiny_status tiny_fft2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params, const tiny_tensor *y)
{
    return tinyi_fft_two(ctx, "fft2", TINY_OP_FFT, x, params, y);
}

TINY_API tiny_status tiny_rfft2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params,
                                const tiny_tensor *y)
{
    return tinyi_fft_two(ctx, "rfft2", TINY_OP_RFFT, x, params, y);
}

TINY_API tiny_status tiny_irfft2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fft_params *params,
                                 const tiny_tensor *y)
{
    return tinyi_fft_two(ctx, "irfft2", TINY_OP_IRFFT, x, params, y);
}

/* ---- plans */

/* Kernels take a team: this one is a single thread outside of any region. */
static void tinyi_fft_alone(tiny_team *team, const tinyi_kernels *k, void *own)
{
    memset(team, 0, sizeof *team);
    team->n = 1;
    team->k = k;
    team->own = own;
}

/* One row of 8 q values, q odd, fills at most 13 of 16 lanes, but all of 8: kernels of avx2 are faster. */
static int tinyi_fft_narrower(tiny_ctx *ctx, tiny_fft_plan *plan, size_t rows)
{
    const tinyi_fft_way *w = &plan->way;
    if (w->lanes != 16 || w->way != TINYI_FFT_SPLIT || w->n % 16 == 0 || w->n % 8 != 0 ||
        !tinyi_target_available(TINY_TARGET_AVX2, ctx->cpu))
        return 1;
    plan->narrower = (tinyi_kernels *)tiny_alloc(ctx, tinyi_kernels_bytes());
    if (!plan->narrower) return 0;
    tinyi_kernels_fill(plan->narrower, TINY_TARGET_AVX2, ctx->cpu);
    plan->k = plan->narrower;
    tinyi_fft_way_for(&plan->way, plan->kind, plan->n, TINYI_OF(plan->k, fft_lanes)(), rows, 0);
    return 1;
}

TINY_API tiny_status tiny_fft_plan_open(tiny_ctx *ctx, tiny_idx n, tiny_fft_kind kind, tiny_idx rows,
                                        tiny_fft_plan **out)
{
    tiny_fft_plan *plan = NULL;
    void *work = NULL, *scratch = NULL;
    tiny_team team;
    tiny_status st;
    if (out) *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || rows < 0 || (int)kind < 0 || kind > TINY_FFT_REAL_INVERSE)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "fft plan: it needs an output pointer, a valid kind (%d) and a number of rows that is not negative (%td)",
            (int)kind,
            rows);
    st = tinyi_fft_check_n(ctx, "fft plan", kind, n, NULL);
    if (st) return st;
    plan = (tiny_fft_plan *)tiny_alloc(ctx, sizeof *plan);
    if (!plan) return tiny_ctx_status(ctx);
    memset(plan, 0, sizeof *plan);
    plan->kind = kind;
    plan->n = (size_t)n;
    plan->k = ctx->k;
    plan->lanes = TINYI_OF(ctx->k, fft_lanes)();
    tinyi_fft_way_for(&plan->way, kind, plan->n, plan->lanes, (size_t)rows, 0);
    if (tinyi_fft_narrower(ctx, plan, (size_t)rows))
        plan->table = (float *)tinyi_alloc(ctx, plan->way.floats, sizeof(float));
    if (plan->table) work = tinyi_alloc(ctx, plan->way.own, sizeof(float));
    if (work) scratch = tiny_alloc(ctx, tinyi_fft_scratch(&plan->way));
    if (scratch) {
        tinyi_fft_alone(&team, plan->k, work);
        tinyi_fft_fill(&team, &plan->way, plan->table, (float *)work, scratch);
        *out = plan;
    } else {
        st = tiny_ctx_status(ctx);
        tiny_fft_plan_close(ctx, plan);
    }
    tiny_free(ctx, scratch);
    tiny_free(ctx, work);
    return st;
}

TINY_API void tiny_fft_plan_close(tiny_ctx *ctx, tiny_fft_plan *plan)
{
    if (!plan) return;
    tiny_free(ctx, plan->table);
    tiny_free(ctx, plan->narrower);
    tiny_free(ctx, plan);
}

TINY_API size_t tiny_fft_plan_bytes(const tiny_fft_plan *plan) { return plan ? plan->way.own * sizeof(float) : 0; }

TINY_API tiny_status tiny_fft_plan_run(const tiny_fft_plan *plan, const tiny_tensor *x, int inverse, tiny_fft_norm norm,
                                       const tiny_tensor *y, void *work)
{
    const int x_complex = plan && plan->kind != TINY_FFT_REAL, y_complex = plan && plan->kind != TINY_FFT_REAL_INVERSE;
    tinyi_fft_shape f;
    tiny_team team;
    tiny_idx row, bins;
    int i, lead;
    if (!plan || !work || !x || !y || (int)norm < 0 || norm >= TINY_FFT_NORM_COUNT) return TINY_E_ARGUMENT;
    if (tiny_tensor_check(x)) return tiny_tensor_check(x);
    if (tiny_tensor_check(y)) return tiny_tensor_check(y);
    if (x->dtype != TINY_F32 || y->dtype != TINY_F32) return TINY_E_DTYPE;
    lead = x->rank - 1 - x_complex;
    bins = (tiny_idx)(plan->kind == TINY_FFT_COMPLEX ? plan->n : plan->n / 2 + 1);
    if (lead < 0 || lead != y->rank - 1 - y_complex) return TINY_E_SHAPE;
    if ((x_complex && x->dim[lead + 1] != 2) || (y_complex && y->dim[lead + 1] != 2)) return TINY_E_SHAPE;
    if (x->dim[lead] != (x_complex ? bins : (tiny_idx)plan->n) ||
        y->dim[lead] != (y_complex ? bins : (tiny_idx)plan->n))
        return TINY_E_SHAPE;
    for (i = 0; i < lead; i++) if (x->dim[i] != y->dim[i]) return TINY_E_SHAPE;
    tinyi_fft_shape_of(&f, plan->kind, x, y, inverse, norm, 0.0);
    tinyi_fft_alone(&team, plan->k, work);
    for (row = 0; row < f.rows; row += (tiny_idx)tinyi_fft_at_once(&plan->way))
        tinyi_fft_group(&team, &f, &plan->way, plan->table, row);
    return TINY_OK;
}

