/* src/math/softmax.c - softmax over rows
 * Papers   M. Dukhan, A. Ablavatski, "The Two-Pass Softmax Algorithm", 2020 (arXiv 2001.04438): TWO_PASS follows its
 *          abstract and the released kernels. M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
 *          2018 (arXiv 1805.02867), algorithm 3: ONLINE, with a maximum and a sum in each lane.
 * Formula  s = scale x rounded to float; y[i] = e^(s[i] - mu) / sum_j e^(s[j] - mu), mu = max s.
 *          TWO_PASS needs no mu: e^s = p 2^n with p in [sqrt 1/2, sqrt 2] and an integer n that is kept as a float, so
 *          no row can overflow; (a, ea) + (b, eb) = (a 2^(ea - e) + b 2^(eb - e), e), e = max(ea, eb); y = p 2^(n - e)
 *          / m for a sum (m, e).
 * Data     rows of any strides: a row that is not dense goes through a buffer of its length, one for each thread.
 *          Rows are summed in index order, in blocks of 4096 (fewer for narrow vectors), and blocks in segments of
 *          16384: float inside a block, double above. The threads share a long row segment by segment, with a barrier
 *          after each pass. The result does not depend on the number of threads.
 * Cost     see the forms in softmax.h. AUTO uses three passes while a row and its result stay in the nearer caches:
 *          there the second exp of the other forms costs more than the memory traffic that it saves. For longer rows it
 *          uses TWO_PASS. The last pass over a very large y uses non-temporal stores, so its cache lines are not read
 *          before they are written.
 * Error    The sum of a row of positive terms is off by at most (n / 4 + 3) u relatively (four accumulators a lane, n
 *          never above 512, double above that), an exp by 3 u at the maximum. At s - mu = -d it is off by d u more, of
 *          which e^-d leaves less than u. Division and product add 1.5 u. NORM: (8 + n / 4) u. log_softmax: the
 *          relative error of the sum is the absolute error of its logarithm, and the largest |y| is at least ln 2 for n
 *          > 1. Two subtractions add 2 u: (8 + 0.4 n) u.
 *          Below 2^-126 y is 0. TWO_PASS needs |s| < 2.9e6 (11000 without fma); other rows use ONLINE.
 * Left out keeping n as an integer: a float holds it exactly up to 2^24. */
#include <string.h>
#include "core/cpu_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"

#define TINYI_SOFTMAX_SEGMENT 16384         /* what a thread takes of a shared row */
#define TINYI_SOFTMAX_SHARED 65536          /* values in a row that is worth two barriers */
#define TINYI_SOFTMAX_CORE \
    ((size_t)24 << 20) /* bytes of a last cache that serve one core: what is reported may be a package's */
#define TINYI_SOFTMAX_STREAM ((size_t)32 << 20)     /* bytes of y that no cache keeps for its reader */

static const tiny_softmax_params *tinyi_softmax_params_of(const tiny_op *op)
{
    static const tiny_softmax_params none = { 0.0f, TINY_SOFTMAX_AUTO, 0 };
    return op->params ? (const tiny_softmax_params *)op->params : &none;
}

static float tinyi_softmax_scale(const tiny_softmax_params *p) { return p->scale == 0.0f ? 1.0f : p->scale; }

/* ---- shape and cost */

static tiny_status tinyi_softmax_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const char *name = tinyi_op_row(op)->name;
    const tiny_softmax_params *p = tinyi_softmax_params_of(op);
    const tiny_tensor *x = op->in[0];
    if (!tinyi_is_real(x))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: x must be f32 or f64, not %s", name, tiny_dtype_name(x->dtype));
    if (x->rank < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is a single number; it needs an axis to go over", name);
    if (p->form < TINY_SOFTMAX_AUTO || p->form > TINY_SOFTMAX_TWO_PASS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: form %d is unknown; it must be 0 to %d", name, p->form,
                          (int)TINY_SOFTMAX_TWO_PASS);
    if (!(p->scale - p->scale == 0.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: scale is not a finite number", name);
    tinyi_want(&want[0], x->dtype, x->rank, x->dim);
    return TINY_OK;
}

static void tinyi_softmax_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->in[0]);
    cost->flops = 40.0 * n;
    cost->bytes = 12.0 * n;
}

static double tinyi_softmax_terms(const tiny_op *op)
{
    tiny_idx n = tinyi_row_length(op->in[0]);
    return (double)TINYI_MIN(n, TINYI_SOFTMAX_BLOCK / 8);
}

/* ---- reference */

TINY_REF_BEGIN
/* scale x: in f32 the product is rounded */
static double tinyi_softmax_scaled(const tiny_tensor *x, tiny_idx at, float scale)
{
    double s = (double)scale * tinyi_real(x->data, x->dtype, at);
    return x->dtype == TINY_F64 ? s : (double)(float)s;
}

static void tinyi_softmax_ref_row(const tiny_tensor *y, tiny_idx y0, const tiny_tensor *x, tiny_idx x0, tiny_idx n,
                                  float scale, int logarithm)
{
    const tiny_idx x_step = tinyi_row_step(x), y_step = tinyi_row_step(y);
    double top = -(double)INFINITY, sum = 0.0;
    tiny_idx i;
    int broken = 0;                         /* +inf or NaN */
    for (i = 0; i < n; i++) {
        double s = tinyi_softmax_scaled(x, x0 + i * x_step, scale);
        if (!(s < (double)INFINITY)) broken = 1;
        if (s > top) top = s;
    }
    if (top == -(double)INFINITY) top = 0.0;
    for (i = 0; !broken && i < n; i++) sum += tinyi_exp64(tinyi_softmax_scaled(x, x0 + i * x_step, scale) - top);
    for (i = 0; i < n; i++) {
        double d = tinyi_softmax_scaled(x, x0 + i * x_step, scale) - top, r;
        if (broken) r = (double)INFINITY - (double)INFINITY;
        else if (logarithm) r = sum == 0.0 ? d : d - tinyi_log64(sum);
        else r = sum == 0.0 ? 0.0 : tinyi_exp64(d) / sum;
        tinyi_real_set(y->data, y->dtype, y0 + i * y_step, r);
    }
}

static void tinyi_softmax_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx r, rows = tinyi_row_count(x), n = tinyi_row_length(x);
    for (r = 0; n > 0 && r < rows; r++)
        tinyi_softmax_ref_row(y, tinyi_row_at(y, r), x, tinyi_row_at(x, r), n,
                              tinyi_softmax_scale(tinyi_softmax_params_of(op)), op->kind == TINY_OP_LOG_SOFTMAX);
}
TINY_REF_END

/* ---- fast */

/* What is known of a row: sum e^(s - top), or sum 2^top where the form is TWO_PASS. */
typedef struct tinyi_softmax_state { double top, sum; } tinyi_softmax_state;

typedef struct tinyi_softmax_job {
    const tinyi_kernels *k;
    float scale;
    tiny_idx block;
    int form, logarithm, stream;
} tinyi_softmax_job;

typedef enum tinyi_softmax_pass { TINYI_SOFTMAX_MEASURE, TINYI_SOFTMAX_SUM, TINYI_SOFTMAX_WRITE } tinyi_softmax_pass;

static double tinyi_softmax_pow2(double d)  /* 2^d, d whole and not above 0 */
{
    uint64_t bits;
    double r;
    if (!(d > -1000.0)) return 0.0;
    bits = (uint64_t)((int)d + 1023) << 52;
    memcpy(&r, &bits, 8);
    return r;
}

static void tinyi_softmax_merge(int form, tinyi_softmax_state *all, const tinyi_softmax_state *part)
{
    const tinyi_softmax_state *high = part->top > all->top ? part : all, *low = part->top > all->top ? all : part;
    double d = low->top - high->top;
    if (low->sum != 0.0 && d != 0.0)
        all->sum = high->sum + low->sum * (form == TINY_SOFTMAX_TWO_PASS ? tinyi_softmax_pow2(d) : tinyi_exp64(d));
    else
        all->sum = high->sum + low->sum;
    all->top = high->top;
}

/* A form without a sum in its first pass leaves 0 there. */
static void tinyi_softmax_measure(const tinyi_softmax_job *j, int form, const float *x, tiny_idx n,
                                  tinyi_softmax_state *all)
{
    tiny_idx i, m;
    all->top = -(double)INFINITY;
    all->sum = 0.0;
    for (i = 0; i < n; i += m) {
        tinyi_softmax_state part;
        float top, sum = 0.0f;
        m = TINYI_MIN(n - i, j->block);
        if (form == TINY_SOFTMAX_TWO_PASS) TINYI_OF(j->k, softmax_extsum_f32)(x + i, (size_t)m, j->scale, &sum, &top);
        else if (form == TINY_SOFTMAX_ONLINE)
            TINYI_OF(j->k, softmax_online_f32)(x + i, (size_t)m, j->scale, &top, &sum);
        else top = TINYI_OF(j->k, softmax_top_f32)(x + i, (size_t)(m = n - i), j->scale);
        part.top = (double)top;
        part.sum = (double)sum;
        tinyi_softmax_merge(form, all, &part);
    }
}

static float tinyi_softmax_top(const tinyi_softmax_state *all)
{
    return all->top == -(double)INFINITY ? 0.0f : (float)all->top;
}

static void tinyi_softmax_write(const tinyi_softmax_job *j, int form, float *y, const float *x, tiny_idx n,
                                const tinyi_softmax_state *all)
{
    float lambda = all->sum == 0.0 ? 0.0f : (float)(1.0 / all->sum), top = tinyi_softmax_top(all);
    tiny_idx head = 0;
    int stream = j->stream && y != x, turn;
    if (j->logarithm) {
        /* ln m + e ln 2 as a float and the rest of it */
        double lse = all->sum == 0.0 ? 0.0 : tinyi_log64(all->sum);
        if (form == TINY_SOFTMAX_TWO_PASS) {
            lse += all->top * 0.69314718055994531;
            top = (float)lse;
            lse -= (double)top;
        }
        TINYI_OF(j->k, softmax_log_f32)(y, x, (size_t)n, j->scale, top, (float)lse);
        return;
    }
    if (form == TINY_SOFTMAX_RELOAD) {
        TINYI_OF(j->k, scale_f32)(y, y, (size_t)n, lambda, 0.0f);
        return;
    }
    if (stream) head = TINYI_MIN(n, (tiny_idx)((0 - (uintptr_t)y) % TINYI_ALIGN / sizeof(float)));
    for (turn = head ? 0 : 1; turn < 2; turn++) {
        tiny_idx at = turn ? head : 0, m = turn ? n - head : head;
        if (form == TINY_SOFTMAX_TWO_PASS)
            TINYI_OF(j->k, softmax_extexp_f32)
            (y + at, x + at, (size_t)m, j->scale, lambda, (float)all->top, stream && turn);
        else
            TINYI_OF(j->k, softmax_exp_f32)(y + at, x + at, (size_t)m, j->scale, top, lambda, stream && turn);
    }
}

static void tinyi_softmax_segment(const tinyi_softmax_job *j, int form, tinyi_softmax_pass pass, float *y,
                                  const float *x, tiny_idx n, const tinyi_softmax_state *all, tinyi_softmax_state *part)
{
    tiny_idx i;
    if (pass == TINYI_SOFTMAX_MEASURE) tinyi_softmax_measure(j, form, x, n, part);
    else if (pass == TINYI_SOFTMAX_WRITE) tinyi_softmax_write(j, form, y, x, n, all);
    else {
        part->top = all->top;
        for (i = 0, part->sum = 0.0; i < n; i += j->block)
            part->sum += (double)TINYI_OF(j->k, softmax_sum_f32)(form == TINY_SOFTMAX_RELOAD ? y + i : NULL, x + i,
                                                                 (size_t)TINYI_MIN(n - i, j->block), j->scale,
                                                                 tinyi_softmax_top(all));
    }
}

/* One pass over a row. parts: one for each segment when the team shares the row, else NULL. */
static void tinyi_softmax_pass_over(tiny_team *team, const tinyi_softmax_job *j, int form, tinyi_softmax_pass pass,
                                    float *y, const float *x, tiny_idx n, tinyi_softmax_state *all,
                                    tinyi_softmax_state *parts)
{
    tinyi_softmax_state sum, part;
    tiny_idx s, s0, s1, n_segment = (n - 1) / TINYI_SOFTMAX_SEGMENT + 1;
    sum.top = -(double)INFINITY;
    sum.sum = 0.0;
    part = sum;
    if (!parts) {
        for (s = 0; s < n_segment; s++) {
            tiny_idx at = s * TINYI_SOFTMAX_SEGMENT;
            tinyi_softmax_segment(j, form, pass, y + at, x + at, TINYI_MIN(n - at, TINYI_SOFTMAX_SEGMENT), all, &part);
            tinyi_softmax_merge(form, &sum, &part);
        }
    } else {
        while (tiny_take(team, n_segment, 1, &s0, &s1))
            for (s = s0; s < s1; s++) {
                tiny_idx at = s * TINYI_SOFTMAX_SEGMENT;
                tinyi_softmax_segment(j, form, pass, y + at, x + at, TINYI_MIN(n - at, TINYI_SOFTMAX_SEGMENT), all,
                                      &parts[s]);
            }
        tiny_barrier(team);
        for (s = 0; pass != TINYI_SOFTMAX_WRITE && s < n_segment; s++) tinyi_softmax_merge(form, &sum, &parts[s]);
    }
    if (pass != TINYI_SOFTMAX_WRITE) *all = sum;
}

/* parts: NULL, or room for two passes of segments, used alternately: no thread overwrites data that a slower one reads.
 */
static void tinyi_softmax_one(tiny_team *team, const tinyi_softmax_job *j, float *y, const float *x, tiny_idx n,
                              tinyi_softmax_state *parts)
{
    tinyi_softmax_state all, *again = parts ? parts + (n - 1) / TINYI_SOFTMAX_SEGMENT + 1 : NULL;
    int form = j->form;
    if (form == TINY_SOFTMAX_RELOAD && !j->logarithm && n <= j->block) {
        TINYI_OF(j->k, softmax_row_f32)(y, x, (size_t)n, j->scale);
        return;
    }
    all.top = all.sum = 0.0;
    tinyi_softmax_pass_over(team, j, form, TINYI_SOFTMAX_MEASURE, y, x, n, &all, parts);
    if (form == TINY_SOFTMAX_TWO_PASS && all.top - all.top != 0.0) {
        form = TINY_SOFTMAX_ONLINE;         /* nothing but -inf, or values too large for n */
        tinyi_softmax_pass_over(team, j, form, TINYI_SOFTMAX_MEASURE, y, x, n, &all, again);
    } else if (form == TINY_SOFTMAX_RELOAD || form == TINY_SOFTMAX_RECOMPUTE)
        tinyi_softmax_pass_over(team, j, form, TINYI_SOFTMAX_SUM, y, x, n, &all, again);
    tinyi_softmax_pass_over(team, j, form, TINYI_SOFTMAX_WRITE, y, x, n, &all, parts);
}

static int tinyi_softmax_dense(const tiny_op *op)
{
    return tinyi_row_step(op->in[0]) == 1 && tinyi_row_step(op->out[0]) == 1;
}

static int tinyi_softmax_shares(const tiny_op *op, int n_threads)
{
    return n_threads > 1 && tinyi_row_length(op->in[0]) >= TINYI_SOFTMAX_SHARED &&
           tinyi_row_count(op->in[0]) < 4 * n_threads && tinyi_softmax_dense(op);
}

static void tinyi_softmax_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    tiny_idx n = tinyi_row_length(op->in[0]);
    if (tinyi_softmax_shares(op, n_threads))
        *shared = 2 * ((size_t)n / TINYI_SOFTMAX_SEGMENT + 1) * sizeof(tinyi_softmax_state);
    if (!tinyi_softmax_dense(op)) *own = (size_t)n * sizeof(float);
}

/* Values summed in float: with four accumulators a lane none takes more than 128. */
TINYI_FN tiny_idx tinyi_softmax_block(const tinyi_kernels *k)
{
    switch (k->from[TINYI_K_softmax_sum_f32]) {
    case TINY_TARGET_SCALAR: return TINYI_SOFTMAX_BLOCK / 8;
    case TINY_TARGET_W128: case TINY_TARGET_NEON: return TINYI_SOFTMAX_BLOCK / 4;
    default: return TINYI_SOFTMAX_BLOCK;
    }
}

/* Where the second exp costs less than reading and writing the row once more (measured, see docs/dev/bench.md): nowhere
 * with one lane; beyond the last cache with 4, and with 8 where the processor has no AVX-512, whose last cache is close
 * by (Zen 3: 0.8 of the time up to 16 MB); from the second cache on otherwise. */
static size_t tinyi_softmax_near(const tinyi_kernels *k)
{
    const size_t last = TINYI_MIN(k->cache[3], TINYI_SOFTMAX_CORE);
    switch (k->from[TINYI_K_softmax_extsum_f32]) {
    case TINY_TARGET_SCALAR: return SIZE_MAX;
    case TINY_TARGET_W128: case TINY_TARGET_NEON: return last;
    default: return k->cpu & TINY_CPU_AVX512 ? k->cache[2] : TINYI_MAX(last, k->cache[2]);
    }
}

static int tinyi_softmax_choose(const tiny_op *op, const tinyi_kernels *k)
{
    const tiny_softmax_params *p = tinyi_softmax_params_of(op);
    const size_t n = (size_t)tinyi_row_length(op->in[0]),
                 bytes = (op->in[0]->data == op->out[0]->data ? 1 : 2) * n * sizeof(float);
    const int near_form = op->kind == TINY_OP_LOG_SOFTMAX ? TINY_SOFTMAX_RECOMPUTE : TINY_SOFTMAX_RELOAD;
    if (n == 1) return near_form;           /* log_softmax of one value is exactly 0: p would leave its rounding */
    if (p->form == TINY_SOFTMAX_AUTO)
        return n > TINYI_SOFTMAX_BLOCK && bytes > (p->cache_bytes ? p->cache_bytes : tinyi_softmax_near(k))
                   ? TINY_SOFTMAX_TWO_PASS
                   : near_form;
    return p->form == TINY_SOFTMAX_RELOAD ? near_form : p->form;
}

static void tinyi_softmax_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    const tiny_idx rows = tinyi_row_count(x), n = tinyi_row_length(x), x_step = tinyi_row_step(x),
                   y_step = tinyi_row_step(y);
    tinyi_softmax_job j;
    tiny_idx r, r0, r1;
    j.k = team->k;
    j.scale = tinyi_softmax_scale(tinyi_softmax_params_of(op));
    j.block = tinyi_softmax_block(team->k);
    j.form = tinyi_softmax_choose(op, team->k);
    j.logarithm = op->kind == TINY_OP_LOG_SOFTMAX;
    j.stream = (size_t)rows * (size_t)n * sizeof(float) >= TINYI_SOFTMAX_STREAM;
    (void)TINYI_K(team, softmax_row_f32);
    if (n == 0) return;
    if (tinyi_softmax_shares(op, team->n)) {
        for (r = 0; r < rows; r++)
            tinyi_softmax_one(team, &j, tinyi_row_f32(y, r), tinyi_row_f32(x, r), n,
                              (tinyi_softmax_state *)team->shared);
        return;
    }
    while (tiny_take(team, rows, TINYI_SOFTMAX_SEGMENT / n, &r0, &r1))
        for (r = r0; r < r1; r++) {
            const float *from = tinyi_row_f32(x, r);
            float *to = tinyi_row_f32(y, r), *own = (float *)team->own;
            if (x_step != 1) tinyi_row_gather(own, from, n, x_step);
            tinyi_softmax_one(team, &j, y_step == 1 ? to : own, x_step == 1 ? from : own, n, NULL);
            if (y_step != 1) tinyi_row_scatter(to, own, n, y_step);
        }
}

/* ---- rows */

static void tinyi_softmax_cases(tiny_case *c)
{
    int rank = c->index == 0 ? 1 : tiny_case_pick(c, 3) + 1, i;
    tiny_softmax_params p;
    memset(&p, 0, sizeof p);
    c->in[0].rank = rank;
    for (i = 0; i < rank; i++)
        c->in[0].dim[i] = tiny_case_dim(c, i < rank - 1 ? 5 : rank == 1 && tiny_case_pick(c, 3) == 0 ? 100000 : 5000);
    if (tiny_case_pick(c, 2)) p.scale = 8.0f * tiny_rng_normal(&c->rng);
    p.form = tiny_case_pick(c, 5);
    p.cache_bytes = tiny_case_pick(c, 2) ? 4096 : 0;
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_kernels_of_softmax[] = {
    TINYI_K_softmax_row_f32,    TINYI_K_softmax_top_f32,    TINYI_K_softmax_sum_f32,
    TINYI_K_softmax_exp_f32,    TINYI_K_softmax_online_f32, TINYI_K_softmax_extsum_f32,
    TINYI_K_softmax_extexp_f32, TINYI_K_scale_f32,          -1
};
static const short tinyi_kernels_of_log_softmax[] = { TINYI_K_softmax_log_f32,    TINYI_K_softmax_top_f32,
                                                      TINYI_K_softmax_sum_f32,    TINYI_K_softmax_online_f32,
                                                      TINYI_K_softmax_extsum_f32, -1 };

TINYI_ROW tinyi_row_softmax = TINYI_ROW_OF("softmax", TINY_OP_SOFTMAX, TAKES(1, 1), GIVES(1),
    PARAMS(tiny_softmax_params), FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_softmax_shape), REFERENCE(tinyi_softmax_ref), FAST(tinyi_softmax_fast, tinyi_softmax_work),
    COST(tinyi_softmax_cost), CASES(tinyi_softmax_cases), BOUND(TINY_BOUND_NORM, 8, 0.25), TERMS(tinyi_softmax_terms),
    GRADIENT(tinyi_grad_softmax), KERNELS(tinyi_kernels_of_softmax),
    SAYS("y = exp(scale x - max) / sum exp(scale x - max)"));
TINYI_ROW tinyi_row_log_softmax = TINYI_ROW_OF("log_softmax", TINY_OP_LOG_SOFTMAX, TAKES(1, 1), GIVES(1),
    PARAMS(tiny_softmax_params), FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_softmax_shape), REFERENCE(tinyi_softmax_ref), FAST(tinyi_softmax_fast, tinyi_softmax_work),
    COST(tinyi_softmax_cost), CASES(tinyi_softmax_cases), BOUND(TINY_BOUND_NORM, 8, 0.4), TERMS(tinyi_softmax_terms),
    GRADIENT(tinyi_grad_softmax), KERNELS(tinyi_kernels_of_log_softmax), SAYS("y = scale x - log sum exp(scale x)"));

TINY_API tiny_status tiny_softmax(tiny_ctx *ctx, const tiny_tensor *x, const tiny_softmax_params *params,
                                  const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_SOFTMAX, x, NULL, params, y);
}

TINY_API tiny_status tiny_log_softmax(tiny_ctx *ctx, const tiny_tensor *x, const tiny_softmax_params *params,
                                      const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_LOG_SOFTMAX, x, NULL, params, y);
}
