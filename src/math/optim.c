/* src/math/optim.c - AdamW, Adam, SGD, Muon; schedules; initial values
 * Papers   D. Kingma, J. Ba, "Adam", 2015 (arXiv 1412.6980), algorithm 1. I. Loshchilov, F. Hutter, "Decoupled Weight
 *          Decay Regularization", 2019 (arXiv 1711.05101), algorithm 2. I. Sutskever et al., "On the importance of
 *          initialization and momentum", 2013. K. Jordan et al., "Muon", 2024: its five Newton-Schulz steps with
 *          3.4445, -4.7750, 2.0315.
 *          X. Glorot, Y. Bengio, 2010, eq. 16; K. He et al., 2015 (arXiv 1502.01852), eq. 10 and 14; A. Saxe et al.,
 *          2014.
 * Formula  see math/optim.h.
 * Data     all parameters without Muon are updated in one region, in pieces of fixed size, so results do not depend on
 *          the threads.
 * Cost     AdamW reads and writes w, m, v and reads g: 28 bytes a parameter. Muon of (r, c), r <= c: 10 r r c + 5 r r r
 *          multiplications and as many additions.
 * Error    f32: one rounding for each operation of the formula; f64 and the reference target compute in double and
 *          round once.
 * Left out the 0.2 sqrt(max) scaling of later papers on Muon: set lr instead. */
#include "math/optim.h"
#include "math/init.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <stdio.h>
#include <string.h>
#define TINYI_OPTIM_PIECE 16384             /* numbers that a thread takes at once */

typedef struct tinyi_optim_slot {
    char *name;
    tiny_tensor value, grad;
    const tiny_optim_group *group;
    size_t n;
    tiny_idx rows, cols;                    /* as Muon sees it */
    int wide;                               /* f64 */
    void *w, *m, *v, *ema;                  /* w: value.data, or the master copy */
    tiny_idx first_piece;
    double lr, rate, root;                  /* of this step: factor lr; that over 1 - b1^t; 1 / sqrt(1 - b2^t) */
} tinyi_optim_slot;

struct tiny_optim {
    tiny_ctx *ctx;
    tiny_optim_desc desc;
    tinyi_optim_slot *slot;
    size_t n;
    tiny_idx pieces;
    int64_t steps;
    double norm, scale;                     /* of the last step; what clipping multiplies by */
    void *muon;                             /* three matrices and two squares of the largest */
};

static int tinyi_optim_is(const tinyi_optim_slot *s, int kind) { return s->group->kind == kind; }
static int tinyi_optim_adams(const tinyi_optim_slot *s)
{
    return tinyi_optim_is(s, TINY_OPTIM_ADAM) || tinyi_optim_is(s, TINY_OPTIM_ADAMW);
}

static void tinyi_optim_defaults(tiny_optim_group *g)
{
    if (g->lr == 0.0) g->lr = g->kind == TINY_OPTIM_SGD ? 1e-2 : g->kind == TINY_OPTIM_MUON ? 0.02 : 1e-3;
    if (g->beta1 == 0.0) g->beta1 = 0.9;
    if (g->beta1 < 0.0) g->beta1 = 0.0;
    if (g->beta2 == 0.0) g->beta2 = 0.999;
    if (g->eps == 0.0) g->eps = 1e-8;
    if (g->momentum == 0.0 && g->kind == TINY_OPTIM_MUON) g->momentum = 0.95;
}

static int tinyi_optim_part(double x) { return x >= 0.0 && x < 1.0; }

static tiny_status tinyi_optim_check(tiny_ctx *ctx, const tiny_param *p, size_t i, const tiny_optim_desc *d)
{
    const char *name = p->name ? p->name : "?";
    tiny_status a = tiny_tensor_check(&p->value), b = tiny_tensor_check(&p->grad);
    char tv[96], tg[96];
    int k, same = p->value.rank == p->grad.rank;
    if (a || b)
        return tinyi_fail(ctx, a ? a : b, "optimiser: parameter %zu, %.60s: its %s is not a valid tensor", i, name,
                          a ? "value" : "gradient");
    for (k = 0; same && k < p->value.rank; k++) same = p->value.dim[k] == p->grad.dim[k];
    if (!same)
        return tinyi_fail(ctx, TINY_E_SHAPE, "optimiser: %.60s is %s, its gradient %s", name,
                          tinyi_shape_text(&p->value, tv), tinyi_shape_text(&p->grad, tg));
    if (p->value.dtype == TINY_F64
            ? p->grad.dtype != TINY_F64
            : p->grad.dtype != TINY_F32 ||
                  (p->value.dtype != TINY_F32 && p->value.dtype != TINY_F16 && p->value.dtype != TINY_BF16))
        return tinyi_fail(ctx, TINY_E_DTYPE,
                          "optimiser: %.60s is %s with a gradient of %s; f32, f16 and bf16 go with f32, f64 with f64",
                          name, tiny_dtype_name(p->value.dtype), tiny_dtype_name(p->grad.dtype));
    if (!tiny_tensor_is_dense(&p->value) || !tiny_tensor_is_dense(&p->grad))
        return tinyi_fail(ctx, TINY_E_SHAPE, "optimiser: %.60s or its gradient has gaps; both must be dense", name);
    if (p->group < 0 || p->group >= TINY_OPTIM_GROUPS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "optimiser: %.60s is in group %d; it must be 0 to %d", name, p->group,
                          TINY_OPTIM_GROUPS - 1);
    if (d->group[p->group].kind == TINY_OPTIM_MUON && p->value.rank < 2)
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "optimiser: %.60s is %s; Muon is for matrices, other parameters belong in a group of another kind", name,
            tinyi_shape_text(&p->value, tv));
    return TINY_OK;
}

static tiny_status tinyi_optim_check_desc(tiny_ctx *ctx, const tiny_optim_desc *d)
{
    int i;
    for (i = 0; i < TINY_OPTIM_GROUPS; i++) {
        const tiny_optim_group *g = &d->group[i];
        if (g->kind < TINY_OPTIM_ADAMW || g->kind > TINY_OPTIM_MUON)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "optimiser: group %d: kind %d is unknown", i, g->kind);
        if (!(g->lr >= 0.0 && g->lr < 1e30) || !(g->decay >= 0.0 && g->decay < 1e30) || !(g->eps >= 0.0) ||
            !tinyi_optim_part(g->momentum) || !tinyi_optim_part(g->beta2) || !(g->beta1 < 1.0))
            return tinyi_fail(
                ctx, TINY_E_ARGUMENT,
                "optimiser: group %d: lr %g, decay %g, betas %g and %g, eps %g, momentum %g: one of them is out of "
                "range",
                i, g->lr, g->decay, g->beta1, g->beta2, g->eps, g->momentum);
    }
    if (!(d->clip >= 0.0) || !tinyi_optim_part(d->ema))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "optimiser: clip %g must not be negative, ema %g must be in 0..1",
                          d->clip, d->ema);
    return TINY_OK;
}

static double tinyi_optim_get(const void *p, int wide, size_t i)
{
    return wide ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static void tinyi_optim_put(void *p, int wide, size_t i, double x)
{
    if (wide) ((double *)p)[i] = x;
    else ((float *)p)[i] = (float)x;
}

static void tinyi_optim_from_value(tinyi_optim_slot *s)
{
    const uint16_t *h = (const uint16_t *)s->value.data;
    float *w = (float *)s->w;
    size_t i;
    for (i = 0; i < s->n; i++) w[i] = s->value.dtype == TINY_F16 ? tinyi_f16_to_f32(h[i]) : tinyi_bf16_to_f32(h[i]);
}

static void tinyi_optim_to_value(tinyi_optim_slot *s)
{
    uint16_t *h = (uint16_t *)s->value.data;
    const float *w = (const float *)s->w;
    size_t i;
    if (s->w == s->value.data) return;
    for (i = 0; i < s->n; i++) h[i] = s->value.dtype == TINY_F16 ? tinyi_f32_to_f16(w[i]) : tinyi_f32_to_bf16(w[i]);
}

static void *tinyi_optim_zeros(tiny_ctx *ctx, const tinyi_optim_slot *s)
{
    void *p = tinyi_alloc(ctx, s->n, s->wide ? sizeof(double) : sizeof(float));
    if (p) memset(p, 0, s->n * (s->wide ? sizeof(double) : sizeof(float)));
    return p;
}

static tiny_status tinyi_optim_fill(tiny_optim *o, tinyi_optim_slot *s, const tiny_param *p, size_t i)
{
    tiny_ctx *ctx = o->ctx;
    size_t bytes, length;
    int master;
    char spare[40];
    if (!p->name) (void)snprintf(spare, sizeof spare, "parameter.%zu", i);
    length = strlen(p->name ? p->name : spare) + 1;
    s->name = (char *)tinyi_alloc(ctx, length, 1);
    if (!s->name) return tiny_ctx_status(ctx);
    memcpy(s->name, p->name ? p->name : spare, length);
    s->value = p->value;
    s->grad = p->grad;
    s->group = &o->desc.group[p->group];
    s->n = (size_t)tiny_tensor_count(&p->value);
    s->wide = p->value.dtype == TINY_F64;
    s->rows = p->value.rank ? p->value.dim[0] : 1;
    s->cols = s->rows ? (tiny_idx)s->n / s->rows : 0;
    bytes = s->wide ? sizeof(double) : sizeof(float);
    master = p->value.dtype == TINY_F16 || p->value.dtype == TINY_BF16;
    s->w = s->value.data;
    if (master) {
        s->w = tinyi_optim_zeros(ctx, s);
        if (!s->w) return tiny_ctx_status(ctx);
        tinyi_optim_from_value(s);
    }
    s->m = tinyi_optim_zeros(ctx, s);
    if (!s->m) return tiny_ctx_status(ctx);
    if (tinyi_optim_adams(s)) {
        s->v = tinyi_optim_zeros(ctx, s);
        if (!s->v) return tiny_ctx_status(ctx);
    }
    if (o->desc.ema > 0.0) {
        s->ema = tinyi_optim_zeros(ctx, s);
        if (!s->ema) return tiny_ctx_status(ctx);
        if (s->n) memcpy(s->ema, s->w, s->n * bytes);
    }
    s->first_piece = o->pieces;
    if (!tinyi_optim_is(s, TINY_OPTIM_MUON))
        o->pieces += (tiny_idx)((s->n + TINYI_OPTIM_PIECE - 1) / TINYI_OPTIM_PIECE);
    return TINY_OK;
}

static tiny_status tinyi_optim_muon_room(tiny_optim *o)
{
    size_t i, most = 0;
    for (i = 0; i < o->n; i++) {
        const tinyi_optim_slot *s = &o->slot[i];
        size_t r = (size_t)TINYI_MIN(s->rows, s->cols), square, all;
        if (!tinyi_optim_is(s, TINY_OPTIM_MUON)) continue;
        if (!tinyi_size_mul(r, r, &square) || !tinyi_size_mul(square, 2, &square) || !tinyi_size_mul(s->n, 3, &all) ||
            !tinyi_size_add(all, square, &all) || !tinyi_size_mul(all, s->wide ? sizeof(double) : sizeof(float), &all))
            return tinyi_fail(o->ctx, TINY_E_OVERFLOW, "optimiser: %.60s is too large for Muon", s->name);
        most = TINYI_MAX(most, all);
    }
    if (!most) return TINY_OK;
    o->muon = tinyi_alloc(o->ctx, most, 1);
    return o->muon ? TINY_OK : tiny_ctx_status(o->ctx);
}

TINY_API tiny_status tiny_optim_open(tiny_ctx *ctx, const tiny_param *params, size_t n_params,
                                     const tiny_optim_desc *desc, tiny_optim **out)
{
    tiny_optim *o;
    tiny_status st = tinyi_ctx_check(ctx);
    size_t i, j;
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tiny_optim_open needs an output pointer");
    if (!params || !n_params) return tinyi_fail(ctx, TINY_E_ARGUMENT, "optimiser: there are no parameters");
    o = (tiny_optim *)tinyi_alloc(ctx, 1, sizeof *o);
    if (!o) return tiny_ctx_status(ctx);
    memset(o, 0, sizeof *o);
    o->ctx = ctx;
    if (desc) o->desc = *desc;
    st = tinyi_optim_check_desc(ctx, &o->desc);
    for (i = 0; i < TINY_OPTIM_GROUPS; i++) tinyi_optim_defaults(&o->desc.group[i]);
    for (i = 0; !st && i < n_params; i++) st = tinyi_optim_check(ctx, &params[i], i, &o->desc);
    for (i = 0; !st && i < n_params; i++)
        for (j = 0; !st && j < i; j++)
            if (params[i].value.data == params[j].value.data && tiny_tensor_count(&params[i].value))
                st = tinyi_fail(ctx, TINY_E_ALIAS, "optimiser: parameters %zu and %zu share memory", j, i);
    if (!st) {
        o->slot = (tinyi_optim_slot *)tinyi_alloc(ctx, n_params, sizeof *o->slot);
        if (!o->slot) st = tiny_ctx_status(ctx);
    }
    if (!st) {
        memset(o->slot, 0, n_params * sizeof *o->slot);
        o->n = n_params;
        for (i = 0; !st && i < n_params; i++) st = tinyi_optim_fill(o, &o->slot[i], &params[i], i);
    }
    if (!st) st = tinyi_optim_muon_room(o);
    if (st) {
        tiny_optim_close(o);
        return st;
    }
    *out = o;
    return TINY_OK;
}

TINY_API void tiny_optim_close(tiny_optim *o)
{
    size_t i;
    if (!o) return;
    for (i = 0; i < o->n; i++) {
        tinyi_optim_slot *s = &o->slot[i];
        if (s->w != s->value.data) tiny_free(o->ctx, s->w);
        tiny_free(o->ctx, s->m);
        tiny_free(o->ctx, s->v);
        tiny_free(o->ctx, s->ema);
        tiny_free(o->ctx, s->name);
    }
    tiny_free(o->ctx, o->slot);
    tiny_free(o->ctx, o->muon);
    tiny_free(o->ctx, o);
}

/* ---- one step of numbers i0 to i1, in double: for f64 and for the reference target */

TINY_REF_BEGIN
static void tinyi_optim_plain(const tinyi_optim_slot *s, size_t i0, size_t i1, double scale)
{
    const tiny_optim_group *g = s->group;
    const int apart = g->kind == TINY_OPTIM_ADAMW;      /* its decay does not enter the gradient */
    const double keep = apart ? 1.0 - s->lr * g->decay : 1.0, decay = apart ? 0.0 : g->decay;
    size_t i;
    for (i = i0; i < i1; i++) {
        double w = tinyi_optim_get(s->w, s->wide, i), d = tinyi_optim_get(s->grad.data, s->wide, i) * scale + decay * w,
               m = tinyi_optim_get(s->m, s->wide, i);
        if (s->v) {
            double v = tinyi_optim_get(s->v, s->wide, i);
            m += (1.0 - g->beta1) * (d - m);
            v += (1.0 - g->beta2) * (d * d - v);
            tinyi_optim_put(s->v, s->wide, i, v);
            w = keep * w - s->rate * m / (tinyi_sqrt64(v) * s->root + g->eps);
        } else {
            m = g->momentum * m + d;
            w -= s->lr * (g->nesterov ? d + g->momentum * m : m);
        }
        tinyi_optim_put(s->m, s->wide, i, m);
        tinyi_optim_put(s->w, s->wide, i, w);
    }
}

static double tinyi_optim_squares64(const double *x, size_t n)
{
    double sum = 0.0;
    size_t i;
    for (i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

static void tinyi_optim_average(tinyi_optim_slot *s, double ema)
{
    size_t i;
    for (i = 0; i < s->n; i++) {
        double e = tinyi_optim_get(s->ema, s->wide, i);
        tinyi_optim_put(s->ema, s->wide, i, e + (1.0 - ema) * (tinyi_optim_get(s->w, s->wide, i) - e));
    }
}
TINY_REF_END

static void tinyi_optim_member(tiny_team *team, void *arg)
{
    const tiny_optim *o = (const tiny_optim *)arg;
    tiny_idx u, u1;
    size_t at = 0;
    while (tiny_take(team, o->pieces, 1, &u, &u1))
        for (; u < u1; u++) {
            const tinyi_optim_slot *s;
            size_t i0, n;
            if (at >= o->n || o->slot[at].first_piece > u) at = 0;
            /* the last one that begins at or before u: those of Muon and empty ones have no pieces and begin where the
             * next does */
            while (at + 1 < o->n && o->slot[at + 1].first_piece <= u) at++;
            s = &o->slot[at];
            i0 = (size_t)(u - s->first_piece) * TINYI_OPTIM_PIECE;
            n = TINYI_MIN(s->n - i0, TINYI_OPTIM_PIECE);
            if (s->wide || o->ctx->target == TINY_TARGET_REFERENCE) tinyi_optim_plain(s, i0, i0 + n, o->scale);
            else if (s->v) {
                tinyi_adam_step a;
                const int apart = tinyi_optim_is(s, TINY_OPTIM_ADAMW);
                a.scale = (float)o->scale;
                a.b1 = (float)(1.0 - s->group->beta1);
                a.b2 = (float)(1.0 - s->group->beta2);
                a.rate = (float)s->rate;
                a.root = (float)s->root;
                a.eps = (float)s->group->eps;
                a.keep = (float)(apart ? 1.0 - s->lr * s->group->decay : 1.0);
                a.decay = (float)(apart ? 0.0 : s->group->decay);
                TINYI_K(team, optim_adam_f32)
                ((float *)s->w + i0, (float *)s->m + i0, (float *)s->v + i0, (const float *)s->grad.data + i0, n, &a);
            } else {
                tinyi_sgd_step a;
                a.scale = (float)o->scale;
                a.momentum = (float)s->group->momentum;
                a.rate = (float)s->lr;
                a.decay = (float)s->group->decay;
                a.nesterov = s->group->nesterov;
                TINYI_K(team, optim_sgd_f32)
                ((float *)s->w + i0, (float *)s->m + i0, (const float *)s->grad.data + i0, n, &a);
            }
        }
}

static tiny_status tinyi_optim_squares(tiny_ctx *ctx, const tiny_tensor *x, double *squares)
{
    tiny_reduce_params all = { 0, 1, 0 };
    tiny_tensor flat = tiny_tensor_1d(x->data, TINY_F32, tiny_tensor_count(x)), y;
    float sum = 0.0f;
    tiny_status st;
    if (x->dtype == TINY_F64) {
        *squares = tinyi_optim_squares64((const double *)x->data, (size_t)tiny_tensor_count(x));
        return TINY_OK;
    }
    all.all = 1;
    y = tiny_tensor_nd(&sum, TINY_F32, 0, NULL);
    st = tiny_norm2(ctx, &flat, &all, &y);
    *squares = (double)sum;
    return st;
}

/* X, u and a second X are (r, c) with r <= c; A and B (r, r) */
static tiny_status tinyi_optim_muon(tiny_optim *o, tinyi_optim_slot *s)
{
    const tiny_dtype type = s->wide ? TINY_F64 : TINY_F32;
    const size_t each = s->wide ? sizeof(double) : sizeof(float);
    const tiny_idx r = TINYI_MIN(s->rows, s->cols), c = TINYI_MAX(s->rows, s->cols);
    unsigned char *room = (unsigned char *)o->muon;
    tiny_tensor u = tiny_tensor_2d(room, type, s->rows, s->cols), x = tiny_tensor_2d(room + s->n * each, type, r, c),
                next = tiny_tensor_2d(room + 2 * s->n * each, type, r, c);
    tiny_tensor a = tiny_tensor_2d(room + 3 * s->n * each, type, r, r),
                b = tiny_tensor_2d(room + (3 * s->n + (size_t)(r * r)) * each, type, r, r), turned, swap;
    tiny_tensor w = tiny_tensor_2d(s->w, type, s->rows, s->cols);
    const double mu = s->group->momentum, keep = 1.0 - s->lr * s->group->decay;
    double length = 0.0, rate;
    tiny_status st;
    size_t i;
    int k;
    if (!s->n) return TINY_OK;
    for (i = 0; i < s->n; i++) {
        double g = o->scale * tinyi_optim_get(s->grad.data, s->wide, i), m = mu * tinyi_optim_get(s->m, s->wide, i) + g;
        tinyi_optim_put(s->m, s->wide, i, m);
        tinyi_optim_put(u.data, s->wide, i, g + mu * m);
    }
    st = tinyi_optim_squares(o->ctx, &u, &length);
    rate = 1.0 / (tinyi_sqrt64(length) + 1e-7);
    for (i = 0; i < s->n; i++) tinyi_optim_put(u.data, s->wide, i, rate * tinyi_optim_get(u.data, s->wide, i));
    turned = s->rows > s->cols ? tiny_tensor_swap(u, 0, 1) : u;
    if (!st) st = tiny_copy(o->ctx, &turned, &x);
    for (k = 0; !st && k < 5; k++) {
        tiny_tensor xt = tiny_tensor_swap(x, 0, 1);
        st = tiny_matmul(o->ctx, &x, &xt, NULL, TINY_ACT_NONE, &a);
        if (!st) st = tiny_matmul(o->ctx, &a, &a, NULL, TINY_ACT_NONE, &b);
        for (i = 0; i < (size_t)(r * r); i++)
            tinyi_optim_put(b.data, s->wide, i,
                            2.0315 * tinyi_optim_get(b.data, s->wide, i) -
                                4.7750 * tinyi_optim_get(a.data, s->wide, i));
        for (i = 0; i < (size_t)r; i++)
            tinyi_optim_put(b.data, s->wide, i * (size_t)r + i,
                            3.4445 + tinyi_optim_get(b.data, s->wide, i * (size_t)r + i));
        if (!st) st = tiny_matmul(o->ctx, &b, &x, NULL, TINY_ACT_NONE, &next);
        swap = x;
        x = next;
        next = swap;
    }
    if (st) return st;
    if (s->rows > s->cols) {
        turned = tiny_tensor_swap(x, 0, 1);
        st = tiny_copy(o->ctx, &turned, &u);
    } else u = x;
    rate = s->lr * (s->rows > s->cols ? tinyi_sqrt64((double)s->rows / (double)s->cols) : 1.0);
    for (i = 0; !st && i < s->n; i++)
        tinyi_optim_put(w.data, s->wide, i,
                        keep * tinyi_optim_get(w.data, s->wide, i) - rate * tinyi_optim_get(u.data, s->wide, i));
    return st;
}

static double tinyi_optim_power(double x, int64_t n)
{
    double y = 1.0;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1) y *= x;
    return y;
}

TINY_API tiny_status tiny_optim_step(tiny_optim *o, double factor)
{
    double squares = 0.0;
    tiny_status st;
    size_t i;
    if (!o) return TINY_E_ARGUMENT;
    if (!(factor >= 0.0 && factor < 1e30))
        return tinyi_fail(o->ctx, TINY_E_ARGUMENT,
                          "optimiser: step %lld: the factor of the lr is %g; it must be finite and not negative",
                          (long long)o->steps, factor);
    for (i = 0; i < o->n; i++) {
        double part = 0.0;
        st = tinyi_optim_squares(o->ctx, &o->slot[i].grad, &part);
        if (st) return st;
        if (!(part - part == 0.0))
            return tinyi_fail(
                o->ctx, TINY_E_NUMERIC,
                "optimiser: step %lld: the gradient of %.80s holds NaN, or numbers too large; nothing was changed",
                (long long)o->steps, o->slot[i].name);
        squares += part;
    }
    o->norm = tinyi_sqrt64(squares);
    o->scale = o->desc.clip > 0.0 && o->norm > o->desc.clip ? o->desc.clip / o->norm : 1.0;
    for (i = 0; i < o->n; i++) {
        tinyi_optim_slot *s = &o->slot[i];
        s->lr = s->rate = factor * s->group->lr;
        s->root = 1.0;
        if (!s->v) continue;
        s->rate /= 1.0 - tinyi_optim_power(s->group->beta1, o->steps + 1);
        s->root = 1.0 / tinyi_sqrt64(1.0 - tinyi_optim_power(s->group->beta2, o->steps + 1));
    }
    if (o->pieces) {
        tiny_idx threads = TINYI_MIN(o->pieces, (tiny_idx)o->ctx->n_threads);
        st = tiny_parallel(o->ctx, o->ctx->target == TINY_TARGET_REFERENCE ? 1 : (int)threads, 0, 0, tinyi_optim_member,
                           o);
        if (st) return st;
    }
    for (i = 0; i < o->n; i++) {
        if (tinyi_optim_is(&o->slot[i], TINY_OPTIM_MUON)) {
            st = tinyi_optim_muon(o, &o->slot[i]);
            if (st) return st;
        }
        if (o->slot[i].ema) tinyi_optim_average(&o->slot[i], o->desc.ema);
        tinyi_optim_to_value(&o->slot[i]);
    }
    o->steps++;
    return TINY_OK;
}

TINY_API int64_t tiny_optim_steps(const tiny_optim *o) { return o ? o->steps : 0; }
TINY_API double tiny_optim_grad_norm(const tiny_optim *o) { return o ? o->norm : 0.0; }

TINY_API tiny_status tiny_optim_ema_swap(tiny_optim *o)
{
    size_t i, k;
    if (!o) return TINY_E_ARGUMENT;
    if (!(o->desc.ema > 0.0))
        return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "optimiser: no moving average is kept; ema of the desc is 0");
    for (i = 0; i < o->n; i++) {
        tinyi_optim_slot *s = &o->slot[i];
        for (k = 0; k < s->n; k++) {
            double w = tinyi_optim_get(s->w, s->wide, k);
            tinyi_optim_put(s->w, s->wide, k, tinyi_optim_get(s->ema, s->wide, k));
            tinyi_optim_put(s->ema, s->wide, k, w);
        }
        tinyi_optim_to_value(s);
    }
    return TINY_OK;
}

TINY_API int tiny_optim_state(const tiny_optim *o, size_t i, char name[128], tiny_tensor *state)
{
    size_t k;
    for (k = 0; o && k < o->n; k++) {
        const tinyi_optim_slot *s = &o->slot[k];
        const char *what[4];
        void *at[4];
        int j, n = 0;
        what[n] = s->v ? "adam.m" : "momentum"; at[n++] = s->m;
        if (s->v) { what[n] = "adam.v"; at[n++] = s->v; }
        if (s->ema) { what[n] = "ema"; at[n++] = s->ema; }
        if (s->w != s->value.data) { what[n] = "master"; at[n++] = s->w; }
        for (j = 0; j < n; j++)
            if (i-- == 0) {
                if (name) (void)snprintf(name, 128, "%s.%.100s", what[j], s->name);
                if (state) *state = tiny_tensor_nd(at[j], s->wide ? TINY_F64 : TINY_F32, s->value.rank, s->value.dim);
                return 1;
            }
    }
    return 0;
}

TINY_API tiny_status tiny_optim_resume(tiny_optim *o, int64_t steps)
{
    size_t i;
    if (!o) return TINY_E_ARGUMENT;
    if (steps < 0)
        return tinyi_fail(o->ctx, TINY_E_ARGUMENT, "optimiser: cannot resume after %lld steps", (long long)steps);
    o->steps = steps;
    for (i = 0; i < o->n; i++) tinyi_optim_to_value(&o->slot[i]);
    return TINY_OK;
}

/* ---- schedules */

TINY_API double tiny_schedule_at(const tiny_schedule *s, int64_t step)
{
    int64_t left, length, from;
    double p, factor = 1.0;
    int i;
    if (!s) return 1.0;
    if (step < s->warmup) return (double)(step + 1) / (double)s->warmup;
    from = s->kind == TINY_SCHEDULE_WSD ? TINYI_MAX(s->decay_at, s->warmup) : s->warmup;
    left = step - from;
    length = s->total - from;
    p = length > 0 ? TINYI_MIN(1.0, TINYI_MAX(0.0, (double)left / (double)length)) : left > 0 ? 1.0 : 0.0;
    switch (s->kind) {
    case TINY_SCHEDULE_STEP:
        for (i = 0; i < 8 && s->at[i]; i++)
            if (step >= s->at[i]) factor *= s->gamma;
        return factor;
    case TINY_SCHEDULE_COSINE: return s->floor + (1.0 - s->floor) * 0.5 * (1.0 + tinyi_cos64(3.141592653589793 * p));
    case TINY_SCHEDULE_LINEAR: case TINY_SCHEDULE_WSD: return 1.0 - (1.0 - s->floor) * p;
    default: return 1.0;
    }
}

TINY_API double tiny_plateau_next(tiny_plateau *p, double loss)
{
    if (!p) return 1.0;
    if (!p->begun) {
        p->begun = 1;
        p->best = loss;
        p->factor = 1.0;
        p->bad = 0;
        return p->factor;
    }
    if (loss < p->best - 1e-4 * (p->best < 0.0 ? -p->best : p->best)) {
        p->best = loss;
        p->bad = 0;
    } else if (++p->bad > (p->patience ? p->patience : 10)) {
        p->bad = 0;
        p->factor *= p->gamma != 0.0 ? p->gamma : 0.1;
    }
    return p->factor;
}

/* ---- initial values */

TINY_API tiny_status tiny_init_orthogonal(tiny_ctx *ctx, tiny_rng *rng, const tiny_tensor *w, double gain)
{
    tiny_status st = tinyi_init_check(ctx, w);
    tiny_idx rows, cols, tall, thin, i, j;
    tiny_tensor a, q;
    double *room;
    if (!st && (!rng || w->rank < 2))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "initial values: orthogonal values need a generator and a matrix");
    if (st || !tiny_tensor_count(w)) return st;
    rows = w->dim[0];
    cols = tiny_tensor_count(w) / rows;
    tall = TINYI_MAX(rows, cols);
    thin = TINYI_MIN(rows, cols);
    room = (double *)tinyi_alloc(ctx, 2 * (size_t)(tall * thin), sizeof(double));
    if (!room) return tiny_ctx_status(ctx);
    for (i = 0; i < tall * thin; i++) room[i] = (double)tiny_rng_normal(rng);
    a = tiny_tensor_2d(room, TINY_F64, tall, thin);
    q = tiny_tensor_2d(room + tall * thin, TINY_F64, tall, thin);
    st = tiny_qr(ctx, &a, &q, NULL);
    for (i = 0; !st && i < rows; i++)
        for (j = 0; j < cols; j++)
            tinyi_init_put(w, i * cols + j, gain * room[tall * thin + (rows >= cols ? i * thin + j : j * thin + i)]);
    tiny_free(ctx, room);
    return st;
}
