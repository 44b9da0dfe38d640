/* src/math/norm.c - RMS, layer, group and length normalisation
 * Papers   B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv 1910.07467), eq. 4, eps inside
 *          the root as models do. J. Ba, J. Kiros, G. Hinton, "Layer Normalization", 2016 (arXiv 1607.06450), eq. 3.
 *          Y. Wu, K. He, "Group Normalization", 2018 (arXiv 1803.08494), eq. 1 and 7.
 * Formula  rmsnorm    y[i] = g[i] x[i] / sqrt((1/n) sum_j x[j]^2 + eps)
 *          layernorm  y[i] = g[i] (x[i] - m) / sqrt((1/n) sum_j (x[j] - m)^2 + eps) + b[i], m = (1/n) sum_j x[j]
 *          groupnorm  the same, n over the channels of a group and all places of an image; g and b of the channel
 *          l2norm     y[i] = x[i] / max(sqrt(sum_j x[j]^2), eps)
 * Data     rows of any strides; a row that is not dense goes through a buffer of the thread. y may be x.
 * Cost     rmsnorm 4n flops, reads x twice; layernorm 9n flops, reads x three times. Rows of up to 8k values stay in
 *          the first-level cache.
 * Error    Sums: float inside a block of 4096 with four accumulators in each lane, double over the blocks: a relative
 *          error of (n/4 + 3) u, with n at most 4096. rmsnorm, l2norm: the square root halves it, three roundings
 *          follow: (5 + n/8) ulp. layernorm, groupnorm: the mean is a float `mid` plus the mean of x - mid, so that a
 *          large common offset adds no error. That second mean is off by (n/4 + 3) u of the standard deviation, the
 *          deviation itself by half of that, and the largest |y| is at least one deviation: NORM (16 + 0.4 n) u. This
 *          holds if the largest |y| is not far below the largest |g| + |b|. If g and b cancel there, the error is
 *          relative to |g| + |b|.
 * Left out partial RMS (pRMSNorm of the paper): no released model uses it. */
#include <string.h>
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"

#define TINYI_NORM_GRAIN 16384              /* values that a thread takes at once */

static const tiny_norm_params *tinyi_norm_params_of(const tiny_op *op)
{
    static const tiny_norm_params none = { 0.0f, 0 };
    return op->params ? (const tiny_norm_params *)op->params : &none;
}

static float tinyi_norm_eps(const tiny_op *op)
{
    float eps = tinyi_norm_params_of(op)->eps;
    if (eps < 0.0f) return 0.0f;
    return eps > 0.0f ? eps : op->kind == TINY_OP_L2NORM ? 1e-12f : 1e-5f;
}

/* The operands of a kind, by name. */
typedef struct tinyi_norm_args { const tiny_tensor *x, *r, *g, *b, *s, *y; } tinyi_norm_args;

static void tinyi_norm_read(const tiny_op *op, tinyi_norm_args *a)
{
    int adds = op->kind == TINY_OP_ADD_RMSNORM || op->kind == TINY_OP_ADD_LAYERNORM;
    int biased = op->kind == TINY_OP_LAYERNORM || op->kind == TINY_OP_GROUPNORM || op->kind == TINY_OP_ADD_LAYERNORM;
    a->x = op->in[0];
    a->r = adds ? op->in[1] : NULL;
    a->g = op->kind == TINY_OP_L2NORM ? NULL : op->in[1 + adds];
    a->b = biased ? op->in[2 + adds] : NULL;
    a->s = adds ? op->out[0] : NULL;
    a->y = op->out[adds];
}

/* ---- shapes and cost */

static tiny_status tinyi_norm_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const char *name = tinyi_op_row(op)->name;
    const tiny_norm_params *p = tinyi_norm_params_of(op);
    const tiny_tensor *x = op->in[0], *v;
    tinyi_norm_args a;
    int i, grouped = op->kind == TINY_OP_GROUPNORM;
    tiny_idx n;
    tinyi_norm_read(op, &a);
    for (i = 0; i < TINY_OP_MAX_IN; i++)
        if (op->in[i] && (!tinyi_is_real(x) || op->in[i]->dtype != x->dtype))
            return tinyi_fail(ctx, TINY_E_DTYPE, "%s: input %d must be f32, or all f64, not %s", name, i,
                              tiny_dtype_name(op->in[i]->dtype));
    if (x->rank < (grouped ? 2 : 1))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x has rank %d; it needs %s", name, x->rank,
                          grouped ? "an axis of images and one of channels" : "an axis to go over");
    if (!(p->eps - p->eps == 0.0f)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: eps is not a finite number", name);
    n = grouped ? x->dim[1] : x->dim[x->rank - 1];
    for (i = 0; i < 2; i++) {
        v = i ? a.b : a.g;
        if (v && (v->rank != 1 || v->dim[0] != n)) {
            char text[96];
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %s, it must have %td values, one for each %s", name,
                              i ? "b" : "g", tinyi_shape_text(v, text), n,
                              grouped ? "channel of x" : "value of a row of x");
        }
    }
    if (grouped && (p->groups < 0 || n % (p->groups ? p->groups : 1)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: %td channels cannot be divided into %d groups", name, n, p->groups);
    if (a.r) {
        int same = a.r->rank == x->rank;
        for (i = 0; same && i < x->rank; i++) same = a.r->dim[i] == x->dim[i];
        if (!same) {
            char tx[96], tr[96];
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is %s and r is %s; they must have the same shape", name,
                              tinyi_shape_text(x, tx), tinyi_shape_text(a.r, tr));
        }
        tinyi_want(&want[1], x->dtype, x->rank, x->dim);
    }
    tinyi_want(&want[0], x->dtype, x->rank, x->dim);
    return TINY_OK;
}

static void tinyi_norm_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->in[0]);
    cost->flops = 10.0 * n;
    cost->bytes = (op->out[1] ? 16.0 : 8.0) * n;
}

static tiny_idx tinyi_norm_length(const tiny_op *op)    /* values that one mean is taken of */
{
    const tiny_tensor *x = op->in[0];
    const tiny_norm_params *p = tinyi_norm_params_of(op);
    tiny_idx n, image = 1;
    int i;
    if (op->kind != TINY_OP_GROUPNORM) return x->dim[x->rank - 1];
    n = x->dim[1] / (p->groups ? p->groups : 1);
    for (i = 2; i < x->rank; i++) image *= x->dim[i];
    return n * image;
}

static double tinyi_norm_terms(const tiny_op *op)
{
    tiny_idx n = tinyi_norm_length(op);
    return (double)TINYI_MIN(n, TINYI_NORM_BLOCK);
}

/* ---- reference */

TINY_REF_BEGIN
/* the value number i of a tensor of rank 1, or 1 or 0 where there is none */
static double tinyi_norm_weight(const tiny_tensor *t, tiny_idx i, double none)
{
    return t ? tinyi_real(t->data, t->dtype, i * t->stride[0]) : none;
}

static void tinyi_norm_ref(const tiny_op *op)
{
    const double eps = (double)tinyi_norm_eps(op);
    const int centred = op->kind == TINY_OP_LAYERNORM || op->kind == TINY_OP_ADD_LAYERNORM,
              length = op->kind == TINY_OP_L2NORM;
    tiny_idx row, i, rows = tinyi_row_count(op->in[0]), n = tinyi_row_length(op->in[0]);
    tinyi_norm_args a;
    tinyi_norm_read(op, &a);
    for (row = 0; n > 0 && row < rows; row++) {
        const tiny_tensor *x = a.x;
        const tiny_dtype type = a.x->dtype;
        tiny_idx x0 = tinyi_row_at(a.x, row), y0 = tinyi_row_at(a.y, row), x_step = tinyi_row_step(a.x),
                 y_step = tinyi_row_step(a.y);
        double mean = 0.0, ss = 0.0, r;
        if (a.r) {
            tiny_idx p0 = tinyi_row_at(a.r, row), s0 = tinyi_row_at(a.s, row), p_step = tinyi_row_step(a.r),
                     s_step = tinyi_row_step(a.s);
            for (i = 0; i < n; i++)
                tinyi_real_set(a.s->data, type, s0 + i * s_step,
                               tinyi_real(x->data, type, x0 + i * x_step) +
                                   tinyi_real(a.r->data, type, p0 + i * p_step));
            x = a.s;
            x0 = s0;
            x_step = s_step;
        }
        for (i = 0; centred && i < n; i++) mean += tinyi_real(x->data, type, x0 + i * x_step);
        mean /= (double)n;
        for (i = 0; i < n; i++) {
            double d = tinyi_real(x->data, type, x0 + i * x_step) - mean;
            ss += d * d;
        }
        if (length) {
            r = tinyi_sqrt(ss);
            r = r == 0.0 && eps == 0.0 ? 0.0 : 1.0 / (r < eps ? eps : r);
        } else r = 1.0 / tinyi_sqrt(ss / (double)n + eps);
        for (i = 0; i < n; i++)
            tinyi_real_set(a.y->data, type, y0 + i * y_step,
                           (tinyi_real(x->data, type, x0 + i * x_step) - mean) * r * tinyi_norm_weight(a.g, i, 1.0) +
                               tinyi_norm_weight(a.b, i, 0.0));
    }
}

/* Offset of value i of a group in row-major order: channel c0 + .., then the axes behind. */
static tiny_idx tinyi_norm_group_at(const tiny_tensor *t, tiny_idx image, tiny_idx c0, tiny_idx i, tiny_idx *channel)
{
    tiny_idx at = image * t->stride[0];
    int k;
    for (k = t->rank - 1; k >= 2; k--) {
        at += i % t->dim[k] * t->stride[k];
        i /= t->dim[k];
    }
    *channel = c0 + i;
    return at + *channel * t->stride[1];
}

static void tinyi_groupnorm_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *g = op->in[1], *b = op->in[2], *y = op->out[0];
    tiny_idx groups = tinyi_norm_params_of(op)->groups ? tinyi_norm_params_of(op)->groups : 1;
    tiny_idx u, i, c, n = tinyi_norm_length(op);
    for (u = 0; n > 0 && u < x->dim[0] * groups; u++) {
        tiny_idx image = u / groups, c0 = u % groups * (x->dim[1] / groups);
        double mean = 0.0, ss = 0.0, r;
        for (i = 0; i < n; i++) mean += tinyi_real(x->data, x->dtype, tinyi_norm_group_at(x, image, c0, i, &c));
        mean /= (double)n;
        for (i = 0; i < n; i++) {
            double d = tinyi_real(x->data, x->dtype, tinyi_norm_group_at(x, image, c0, i, &c)) - mean;
            ss += d * d;
        }
        r = 1.0 / tinyi_sqrt(ss / (double)n + (double)tinyi_norm_eps(op));
        for (i = 0; i < n; i++) {
            double d = tinyi_real(x->data, x->dtype, tinyi_norm_group_at(x, image, c0, i, &c)) - mean;
            tiny_idx at = tinyi_norm_group_at(y, image, c0, i, &c);
            tinyi_real_set(y->data, y->dtype, at, d * r * tinyi_norm_weight(g, c, 1.0) + tinyi_norm_weight(b, c, 0.0));
        }
    }
}
TINY_REF_END

/* ---- fast */

static void tinyi_norm_fit_of(tinyi_norm_fit *fit, double mean, double variance, float eps)
{
    fit->mid = (float)mean;
    fit->rest = (float)(mean - (double)fit->mid);
    fit->r = (float)(1.0 / tinyi_sqrt((variance > 0.0 || variance != variance ? variance : 0.0) + (double)eps));
}

TINYI_FN void tinyi_norm_finish(tinyi_norm_fit *fit, const float *x, size_t n, double sum, double squares, float eps)
{
    double mean = 0.0, ss = 0.0;
    size_t i;
    if (!tinyi_norm_doubtful(squares, eps)) {
        mean = sum / (double)n;
        tinyi_norm_fit_of(fit, (double)fit->mid + mean, squares / (double)n - mean * mean, eps);
        return;
    }
    for (i = 0; i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (i = 0; i < n; i++) ss += ((double)x[i] - mean) * ((double)x[i] - mean);
    tinyi_norm_fit_of(fit, mean, ss / (double)n, eps);
}

static void tinyi_norm_length_one(const tinyi_kernels *k, float *y, const float *x, tiny_idx n, float eps)
{
    double ss = 0.0, r;
    tiny_idx i;
    for (i = 0; i < n; i += TINYI_NORM_BLOCK)
        ss += (double)TINYI_OF(k, dot_f32)(x + i, x + i, (size_t)TINYI_MIN(n - i, TINYI_NORM_BLOCK));
    if (tinyi_norm_doubtful(ss, eps))
        for (ss = 0.0, i = 0; i < n; i++) ss += (double)x[i] * (double)x[i];
    r = tinyi_sqrt(ss);
    r = r == 0.0 && eps == 0.0f ? 0.0 : 1.0 / (r < (double)eps ? (double)eps : r);
    TINYI_OF(k, scale_f32)(y, x, (size_t)n, (float)r, 0.0f);
}

/* own: rows of the operands that are not dense, in the order x or s, r, g, b, y */
enum { TINYI_NORM_X, TINYI_NORM_R, TINYI_NORM_G, TINYI_NORM_B, TINYI_NORM_Y, TINYI_NORM_ROWS };

static int tinyi_norm_gathers(const tinyi_norm_args *a)
{
    return tinyi_row_step(a->x) != 1 || tinyi_row_step(a->y) != 1 ||
           (a->r && (tinyi_row_step(a->r) != 1 || tinyi_row_step(a->s) != 1)) || (a->g && tinyi_row_step(a->g) != 1) ||
           (a->b && tinyi_row_step(a->b) != 1);
}

static void tinyi_norm_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    tinyi_norm_args a;
    (void)n_threads;
    (void)shared;
    tinyi_norm_read(op, &a);
    if (tinyi_norm_gathers(&a)) *own = (size_t)tinyi_row_length(a.x) * TINYI_NORM_ROWS * sizeof(float);
}

/* The row as it lies, or its copy in own (which is NULL when every row is dense). */
static const float *tinyi_norm_dense(const tiny_tensor *t, tiny_idx row, float *own, int which, tiny_idx n)
{
    const float *x;
    if (!t) return NULL;
    x = tinyi_row_f32(t, row);
    if (tinyi_row_step(t) == 1) return x;
    own += which * n;
    tinyi_row_gather(own, x, n, tinyi_row_step(t));
    return own;
}

static void tinyi_norm_fast(tiny_team *team, const tiny_op *op)
{
    const float eps = tinyi_norm_eps(op);
    const tinyi_kernels *k = team->k;
    const float *g, *b;
    float *own = (float *)team->own;
    tiny_idx row, r0, r1, rows = tinyi_row_count(op->in[0]), n = tinyi_row_length(op->in[0]);
    tinyi_norm_args a;
    tinyi_norm_read(op, &a);
    if (op->kind == TINY_OP_L2NORM) (void)TINYI_K(team, dot_f32);
    else (void)TINYI_K(team, rmsnorm_f32);
    if (n == 0) return;
    g = tinyi_norm_dense(a.g, 0, own, TINYI_NORM_G, n);
    b = tinyi_norm_dense(a.b, 0, own, TINYI_NORM_B, n);
    while (tiny_take(team, rows, TINYI_NORM_GRAIN / n, &r0, &r1))
        for (row = r0; row < r1; row++) {
            const float *x = tinyi_norm_dense(a.x, row, own, TINYI_NORM_X, n);
            float *y = tinyi_row_step(a.y) == 1 ? tinyi_row_f32(a.y, row) : own + TINYI_NORM_Y * n;
            if (a.r) {
                float *s = tinyi_row_step(a.s) == 1 ? tinyi_row_f32(a.s, row) : own + TINYI_NORM_X * n;
                TINYI_OF(k, binary_f32)
                (TINYI_BINARY_ADD, s, x, tinyi_norm_dense(a.r, row, own, TINYI_NORM_R, n), (size_t)n, 1, 1);
                if (tinyi_row_step(a.s) != 1) tinyi_row_scatter(tinyi_row_f32(a.s, row), s, n, tinyi_row_step(a.s));
                x = s;
            }
            if (op->kind == TINY_OP_L2NORM) tinyi_norm_length_one(k, y, x, n, eps);
            else if (op->kind == TINY_OP_RMSNORM || op->kind == TINY_OP_ADD_RMSNORM)
                TINYI_OF(k, rmsnorm_f32)(y, x, g, (size_t)n, eps);
            else TINYI_OF(k, layernorm_f32)(y, x, g, b, (size_t)n, eps);
            if (tinyi_row_step(a.y) != 1) tinyi_row_scatter(tinyi_row_f32(a.y, row), y, n, tinyi_row_step(a.y));
        }
}

/* A channel of x is `runs` runs of n values; the run lies as it is, or is copied to own. */
typedef struct tinyi_norm_channel { tiny_idx runs, n; int joined; } tinyi_norm_channel;

static tinyi_norm_channel tinyi_norm_channel_of(const tiny_tensor *x, const tiny_tensor *y)
{
    tinyi_norm_channel c;
    c.n = x->rank > 2 ? x->dim[x->rank - 1] : 1;
    c.runs = x->rank > 3 ? x->dim[2] : 1;
    c.joined = 0;
    if (x->rank > 3 && x->stride[2] == x->stride[3] * c.n && y->stride[2] == y->stride[3] * c.n) {
        c.n *= c.runs;
        c.runs = 1;
        c.joined = 1;
    }
    return c;
}
static tiny_idx tinyi_norm_channel_step(const tiny_tensor *t) { return t->rank > 2 ? t->stride[t->rank - 1] : 1; }
static float *tinyi_norm_channel_run(const tiny_tensor *t, tiny_idx image, tiny_idx channel, tiny_idx run)
{
    return (float *)t->data + image * t->stride[0] + channel * t->stride[1] + (t->rank > 3 ? run * t->stride[2] : 0);
}

static void tinyi_groupnorm_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    (void)n_threads;
    (void)shared;
    if (tinyi_norm_channel_step(x) != 1 || tinyi_norm_channel_step(y) != 1)
        *own = (size_t)tinyi_norm_channel_of(x, y).n * sizeof(float);
}

/* Sum and squares about mid over a group; in double value by value when careful. */
static void tinyi_groupnorm_moments(const tiny_team *team, const tiny_tensor *x, const tinyi_norm_channel *ch,
                                    tiny_idx image, tiny_idx c0, tiny_idx c1, double mid, int careful, double *sum,
                                    double *squares)
{
    tiny_idx c, run, i, step = tinyi_norm_channel_step(x);
    *sum = *squares = 0.0;
    for (c = c0; c < c1; c++)
        for (run = 0; run < ch->runs; run++) {
            const float *p = tinyi_norm_channel_run(x, image, c, run);
            double s = 0.0, ss = 0.0;
            if (careful)
                for (i = 0; i < ch->n; i++) {
                    double d = (double)p[i * step] - mid;
                    s += d;
                    ss += d * d;
                }
            else if (step == 1) TINYI_OF(team->k, norm_moments_f32)(p, (size_t)ch->n, (float)mid, &s, &ss);
            else {
                tinyi_row_gather((float *)team->own, p, ch->n, step);
                TINYI_OF(team->k, norm_moments_f32)((const float *)team->own, (size_t)ch->n, (float)mid, &s, &ss);
            }
            *sum += s;
            *squares += ss;
        }
}

static void tinyi_groupnorm_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *g = op->in[1], *b = op->in[2], *y = op->out[0];
    const tinyi_norm_channel ch = tinyi_norm_channel_of(x, y);
    const float eps = tinyi_norm_eps(op);
    const tiny_idx groups = tinyi_norm_params_of(op)->groups ? tinyi_norm_params_of(op)->groups : 1,
                   per = x->dim[1] / groups, n = tinyi_norm_length(op);
    const tiny_idx x_step = tinyi_norm_channel_step(x), y_step = tinyi_norm_channel_step(y);
    const tinyi_fn_norm_affine_f32 affine = TINYI_K(team, norm_affine_f32);
    tiny_idx u, u0, u1, c, run;
    if (n == 0) return;
    while (tiny_take(team, x->dim[0] * groups, TINYI_NORM_GRAIN / n, &u0, &u1))
        for (u = u0; u < u1; u++) {
            const tiny_idx image = u / groups, c0 = u % groups * per;
            double mid = (double)*tinyi_norm_channel_run(x, image, c0, 0), sum, squares;
            tinyi_norm_fit fit;
            tinyi_groupnorm_moments(team, x, &ch, image, c0, c0 + per, mid, 0, &sum, &squares);
            mid = (double)(float)(mid + sum / (double)n);
            tinyi_groupnorm_moments(team, x, &ch, image, c0, c0 + per, mid, 0, &sum, &squares);
            if (tinyi_norm_doubtful(squares, eps)) {
                tinyi_groupnorm_moments(team, x, &ch, image, c0, c0 + per, 0.0, 1, &sum, &squares);
                mid = sum / (double)n;
                tinyi_groupnorm_moments(team, x, &ch, image, c0, c0 + per, mid, 1, &sum, &squares);
                sum = 0.0;
            }
            sum /= (double)n;
            tinyi_norm_fit_of(&fit, mid + sum, squares / (double)n - sum * sum, eps);
            for (c = c0; c < c0 + per; c++)
                for (run = 0; run < ch.runs; run++) {
                    const float *p = tinyi_norm_channel_run(x, image, c, run);
                    float *q = tinyi_norm_channel_run(y, image, c, run), *own = (float *)team->own;
                    const float vg = g ? ((const float *)g->data)[c * g->stride[0]] : 1.0f,
                                vb = b ? ((const float *)b->data)[c * b->stride[0]] : 0.0f;
                    if (x_step != 1) tinyi_row_gather(own, p, ch.n, x_step);
                    affine(y_step == 1 ? q : own, x_step == 1 ? p : own, (size_t)ch.n, &fit, vg, vb);
                    if (y_step != 1) tinyi_row_scatter(q, own, ch.n, y_step);
                }
        }
}

/* ---- rows */

static void tinyi_norm_case(tiny_case *c, int adds, int weights)
{
    int rank = c->index == 0 ? 1 : tiny_case_pick(c, 3) + 1, i;
    tiny_norm_params p;
    tiny_idx n = 1;
    memset(&p, 0, sizeof p);
    if (tiny_case_pick(c, 2)) p.eps = 1e-6f;
    for (i = 0; i < rank; i++) {
        n = tiny_case_dim(c, i < rank - 1 ? 6 : 10007);
        c->in[0].dim[i] = c->in[adds].dim[i] = n;
    }
    c->in[0].rank = c->in[adds].rank = rank;
    for (i = 0; i < weights; i++) {
        tiny_tensor *w = &c->in[1 + adds + i];
        w->rank = tiny_case_pick(c, 4) ? 1 : -1;
        w->dim[0] = n;
        c->fill[1 + adds + i] = TINY_FILL_POSITIVE;
    }
    memcpy(c->params.bytes, &p, sizeof p);
}
static void tinyi_rmsnorm_cases(tiny_case *c) { tinyi_norm_case(c, 0, 1); }
static void tinyi_layernorm_cases(tiny_case *c) { tinyi_norm_case(c, 0, 2); }
static void tinyi_l2norm_cases(tiny_case *c) { tinyi_norm_case(c, 0, 0); }
static void tinyi_add_rmsnorm_cases(tiny_case *c) { tinyi_norm_case(c, 1, 1); }
static void tinyi_add_layernorm_cases(tiny_case *c) { tinyi_norm_case(c, 1, 2); }

static void tinyi_groupnorm_cases(tiny_case *c)
{
    static const unsigned char group[] = { 1, 1, 2, 3, 4, 8 };
    int rank = tiny_case_pick(c, 3) + 2, i;
    tiny_norm_params p;
    memset(&p, 0, sizeof p);
    p.groups = c->index == 0 ? 0 : group[tiny_case_pick(c, 6)];
    c->in[0].rank = rank;
    c->in[0].dim[0] = tiny_case_dim(c, 3);
    c->in[0].dim[1] = (p.groups ? p.groups : 1) * tiny_case_dim(c, rank == 2 ? 300 : 7);
    for (i = 2; i < rank; i++) c->in[0].dim[i] = tiny_case_dim(c, rank == 3 ? 600 : 33);
    for (i = 1; i <= 2; i++) {
        c->in[i].rank = tiny_case_pick(c, 4) ? 1 : -1;
        c->in[i].dim[0] = c->in[0].dim[1];
        c->fill[i] = TINY_FILL_POSITIVE;
    }
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_kernels_of_rmsnorm[] = { TINYI_K_rmsnorm_f32, -1 };
static const short tinyi_kernels_of_add_rmsnorm[] = { TINYI_K_rmsnorm_f32, TINYI_K_binary_f32, -1 };
static const short tinyi_kernels_of_add_layernorm[] = { TINYI_K_layernorm_f32, TINYI_K_binary_f32, -1 };
static const short tinyi_kernels_of_layernorm[] = { TINYI_K_layernorm_f32, -1 };
static const short tinyi_kernels_of_l2norm[] = { TINYI_K_dot_f32, TINYI_K_scale_f32, -1 };
static const short tinyi_kernels_of_groupnorm[] = { TINYI_K_norm_affine_f32, TINYI_K_norm_moments_f32, -1 };

TINYI_ROW tinyi_row_rmsnorm = TINYI_ROW_OF("rmsnorm", TINY_OP_RMSNORM, TAKES(2, 1), GIVES(1), PARAMS(tiny_norm_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_norm_shape), REFERENCE(tinyi_norm_ref), FAST(tinyi_norm_fast, tinyi_norm_work), COST(tinyi_norm_cost),
    CASES(tinyi_rmsnorm_cases), BOUND(TINY_BOUND_ULP, 5, 0.125), TERMS(tinyi_norm_terms), GRADIENT(tinyi_grad_norm),
    KERNELS(tinyi_kernels_of_rmsnorm), SAYS("y = g x / sqrt(mean x^2 + eps)"));
TINYI_ROW tinyi_row_layernorm = TINYI_ROW_OF("layernorm", TINY_OP_LAYERNORM, TAKES(3, 1), GIVES(1),
    PARAMS(tiny_norm_params), FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_norm_shape), REFERENCE(tinyi_norm_ref), FAST(tinyi_norm_fast, tinyi_norm_work), COST(tinyi_norm_cost),
    CASES(tinyi_layernorm_cases), BOUND(TINY_BOUND_NORM, 16, 0.4), TERMS(tinyi_norm_terms), GRADIENT(tinyi_grad_norm),
    KERNELS(tinyi_kernels_of_layernorm), SAYS("y = g (x - mean) / sqrt(variance + eps) + b"));
TINYI_ROW tinyi_row_l2norm = TINYI_ROW_OF("l2norm", TINY_OP_L2NORM, TAKES(1, 1), GIVES(1), PARAMS(tiny_norm_params),
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_norm_shape), REFERENCE(tinyi_norm_ref), FAST(tinyi_norm_fast, tinyi_norm_work), COST(tinyi_norm_cost),
    CASES(tinyi_l2norm_cases), BOUND(TINY_BOUND_ULP, 5, 0.125), TERMS(tinyi_norm_terms), GRADIENT(tinyi_grad_norm),
    KERNELS(tinyi_kernels_of_l2norm), SAYS("y = x / max(sqrt(sum x^2), eps)"));
TINYI_ROW tinyi_row_groupnorm = TINYI_ROW_OF("groupnorm", TINY_OP_GROUPNORM, TAKES(3, 1), GIVES(1),
    PARAMS(tiny_norm_params), FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_norm_shape), REFERENCE(tinyi_groupnorm_ref), FAST(tinyi_groupnorm_fast, tinyi_groupnorm_work),
    COST(tinyi_norm_cost), CASES(tinyi_groupnorm_cases), BOUND(TINY_BOUND_SCALE, 16, 0.4), TERMS(tinyi_norm_terms),
    GRADIENT(tinyi_grad_norm), KERNELS(tinyi_kernels_of_groupnorm),
    SAYS("y = g (x - mean) / sqrt(variance + eps) + b in groups of channels"));
TINYI_ROW tinyi_row_add_rmsnorm = TINYI_ROW_OF("add_rmsnorm", TINY_OP_ADD_RMSNORM, TAKES(3, 2), GIVES(2),
    PARAMS(tiny_norm_params), FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_norm_shape), REFERENCE(tinyi_norm_ref), FAST(tinyi_norm_fast, tinyi_norm_work), COST(tinyi_norm_cost),
    CASES(tinyi_add_rmsnorm_cases), BOUND(TINY_BOUND_ULP, 5, 0.125), TERMS(tinyi_norm_terms), GRADIENT(tinyi_grad_norm),
    KERNELS(tinyi_kernels_of_add_rmsnorm), SAYS("s = x + r; y = g s / sqrt(mean s^2 + eps)"));
TINYI_ROW tinyi_row_add_layernorm = TINYI_ROW_OF("add_layernorm", TINY_OP_ADD_LAYERNORM, TAKES(4, 2), GIVES(2),
    PARAMS(tiny_norm_params), FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_norm_shape), REFERENCE(tinyi_norm_ref), FAST(tinyi_norm_fast, tinyi_norm_work), COST(tinyi_norm_cost),
    CASES(tinyi_add_layernorm_cases), BOUND(TINY_BOUND_NORM, 16, 0.4), TERMS(tinyi_norm_terms),
    GRADIENT(tinyi_grad_norm), KERNELS(tinyi_kernels_of_add_layernorm),
    SAYS("s = x + r; y = g (s - mean) / sqrt(variance + eps) + b"));

/* in and out ended by NULL only at the end: optional inputs may be NULL between */
static tiny_status tinyi_norm_call(tiny_ctx *ctx, int kind, const tiny_tensor *const *in, int n_in, float eps,
                                   int groups, const tiny_tensor *out0, const tiny_tensor *out1)
{
    tiny_norm_params p;
    tiny_op op;
    int i;
    memset(&op, 0, sizeof op);
    memset(&p, 0, sizeof p);
    p.eps = eps;
    p.groups = groups;
    op.kind = kind;
    for (i = 0; i < n_in; i++) op.in[i] = in[i];
    op.out[0] = out0;
    op.out[1] = out1;
    op.params = &p;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tiny_rmsnorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g, float eps,
                                  const tiny_tensor *y)
{
    const tiny_tensor *in[2];
    in[0] = x;
    in[1] = g;
    return tinyi_norm_call(ctx, TINY_OP_RMSNORM, in, 2, eps, 0, y, NULL);
}

TINY_API tiny_status tiny_layernorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g, const tiny_tensor *b,
                                    float eps, const tiny_tensor *y)
{
    const tiny_tensor *in[3];
    in[0] = x;
    in[1] = g;
    in[2] = b;
    return tinyi_norm_call(ctx, TINY_OP_LAYERNORM, in, 3, eps, 0, y, NULL);
}

TINY_API tiny_status tiny_l2norm(tiny_ctx *ctx, const tiny_tensor *x, float eps, const tiny_tensor *y)
{
    return tinyi_norm_call(ctx, TINY_OP_L2NORM, &x, 1, eps, 0, y, NULL);
}

TINY_API tiny_status tiny_groupnorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *g, const tiny_tensor *b,
                                    int groups, float eps, const tiny_tensor *y)
{
    const tiny_tensor *in[3];
    in[0] = x;
    in[1] = g;
    in[2] = b;
    return tinyi_norm_call(ctx, TINY_OP_GROUPNORM, in, 3, eps, groups, y, NULL);
}

TINY_API tiny_status tiny_add_rmsnorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *r, const tiny_tensor *g,
                                      float eps, const tiny_tensor *s, const tiny_tensor *y)
{
    const tiny_tensor *in[3];
    in[0] = x;
    in[1] = r;
    in[2] = g;
    return tinyi_norm_call(ctx, TINY_OP_ADD_RMSNORM, in, 3, eps, 0, s, y);
}

TINY_API tiny_status tiny_add_layernorm(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *r, const tiny_tensor *g,
                                        const tiny_tensor *b, float eps, const tiny_tensor *s, const tiny_tensor *y)
{
    const tiny_tensor *in[4];
    in[0] = x;
    in[1] = r;
    in[2] = g;
    in[3] = b;
    return tinyi_norm_call(ctx, TINY_OP_ADD_LAYERNORM, in, 4, eps, 0, s, y);
}
