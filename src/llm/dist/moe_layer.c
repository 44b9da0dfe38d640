/* src/llm/dist/moe_layer.c - the experts of a mixture layer over ranks, the whole layer, and its reference
 * Formula  f_e(x) = (silu(x gate_e) * (x up_e)) down_e; etp cuts gate and up by columns and down by rows, so the shares
 *          of the ranks of etp add up to f_e.
 * Error    a sum of k products in order: (k + 2) units of the sum of their sizes; two such sums and a silu in a row.
 *          The bits of a row depend on its own numbers alone. */
#include "llm/dist/moe_fold_inside.h"
#include "core/thread.h"
#include "math/elem.h"
#include "core/state_inside.h"
#include <string.h>

TINYI_TABLE_CHOICE(tinyi_moe_kernels, tinyi_moe_kernels)

TINYI_FN const tinyi_moe_kernels *tinyi_moe_kernels_for(const tiny_ctx *ctx)
{
    return ctx->target == TINY_TARGET_REFERENCE ? NULL : tinyi_moe_kernels_of(ctx->k);
}

TINY_REF_BEGIN
/* y (rows, n) = x (rows, k) w (k, n): the reference of the kernel, with its sums in double */
static void tinyi_moe_product_ref(float *y, size_t y_row, const float *x, size_t x_row, size_t rows, const float *w,
                                  size_t w_row, size_t k, size_t n, float *strip)
{
    size_t r, i, j;
    (void)strip;
    for (r = 0; r < rows; r++)
        for (j = 0; j < n; j++) {
            double sum = 0.0;
            for (i = 0; i < k; i++) sum += (double)x[r * x_row + i] * (double)w[i * w_row + j];
            y[r * y_row + j] = (float)sum;
        }
}
static void tinyi_moe_gate_ref(float *y, const float *a, const float *b, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) y[i] = tinyi_silu_ref(a[i]) * b[i];
}
TINY_REF_END

typedef struct tinyi_moe_job {
    const tinyi_moe_kernels *k;
    const tllm_moe_weights *w;
    const float *x;
    float *y;
    const tiny_idx *count;
    tiny_idx own, pieces;
    size_t width, hidden, n_expert;
} tinyi_moe_job;

static void tinyi_moe_experts_team(tiny_team *team, void *arg)
{
    const tinyi_moe_job *j = (const tinyi_moe_job *)arg;
    float *a = (float *)team->own, *b = a + TINYI_MOE_BLOCK * j->hidden, *strip = b + TINYI_MOE_BLOCK * j->hidden;
    tiny_idx from, to, piece;
    while (tiny_take(team, j->pieces, 1, &from, &to))
        for (piece = from; piece < to; piece++) {
            tiny_idx e = 0, left = piece;
            size_t first = 0, rows, r;
            const float *x, *gate, *up, *down;
            float *y;
            for (; left >= (j->count[e] + TINYI_MOE_BLOCK - 1) / TINYI_MOE_BLOCK; e++) {
                left -= (j->count[e] + TINYI_MOE_BLOCK - 1) / TINYI_MOE_BLOCK;
                first += (size_t)j->count[e];
            }
            rows = TINYI_MIN((size_t)j->count[e] - (size_t)left * TINYI_MOE_BLOCK, (size_t)TINYI_MOE_BLOCK);
            first += (size_t)left * TINYI_MOE_BLOCK;
            x = j->x + first * j->width;
            y = j->y + first * j->width;
            gate = j->w->gate + (size_t)e * j->width * j->hidden;
            up = j->w->up + (size_t)e * j->width * j->hidden;
            down = j->w->down + (size_t)e * j->width * j->hidden;
            if (!j->k) {
                tinyi_moe_product_ref(a, j->hidden, x, j->width, rows, gate, j->hidden, j->width, j->hidden, strip);
                tinyi_moe_product_ref(b, j->hidden, x, j->width, rows, up, j->hidden, j->width, j->hidden, strip);
                tinyi_moe_gate_ref(a, a, b, rows * j->hidden);
                tinyi_moe_product_ref(y, j->width, a, j->hidden, rows, down, j->width, j->hidden, j->width, strip);
                continue;
            }
            j->k->product(a, j->hidden, x, j->width, rows, gate, j->hidden, j->width, j->hidden, strip);
            j->k->product(b, j->hidden, x, j->width, rows, up, j->hidden, j->width, j->hidden, strip);
            for (r = 0; r < rows; r++) /* row by row: a number has the same place in a vector wherever its row is */
                TINYI_K(team, swiglu_f32)(a + r * j->hidden, a + r * j->hidden, b + r * j->hidden, j->hidden);
            j->k->product(y, j->width, a, j->hidden, rows, down, j->width, j->hidden, j->width, strip);
        }
    if (j->k) team->ran_on = j->k->from;
}

static tiny_status tinyi_moe_weights_check(const tllm_moe *m, const tllm_moe_weights *w, int router)
{
    if (w && w->gate && w->up && w->down && (w->router || !router) && tinyi_moe_desc_of(m)->hidden) return TINY_OK;
    return tinyi_fail(tinyi_moe_ctx(m), TINY_E_ARGUMENT, "mixture: weights of experts are missing, or they have no "
                      "hidden numbers");
}

TINY_API tiny_status tllm_moe_experts(tllm_moe *m, const tllm_moe_weights *w, const float *rows, const tiny_idx *count,
                                      float *y)
{
    tinyi_moe_job j;
    tiny_status st;
    tiny_idx e, all = 0;
    if (!m) return TINY_E_ARGUMENT;
    st = tinyi_moe_weights_check(m, w, 0);
    if (st) return st;
    memset(&j, 0, sizeof j);
    j.k = tinyi_moe_kernels_for(tinyi_moe_ctx(m));
    j.w = w;
    j.x = rows;
    j.y = y;
    j.count = count;
    j.own = tllm_moe_own(m, NULL);
    j.width = (size_t)tinyi_moe_desc_of(m)->width;
    j.hidden = (size_t)tllm_moe_hidden(m, NULL);
    for (e = 0; e < j.own && count; e++) {
        if (count[e] < 0)
            return tinyi_fail(tinyi_moe_ctx(m), TINY_E_ARGUMENT, "mixture: %td rows of an expert", count[e]);
        all += count[e];
        j.pieces += (count[e] + TINYI_MOE_BLOCK - 1) / TINYI_MOE_BLOCK;
    }
    if (!count || (all && (!rows || !y)))
        return tinyi_fail(tinyi_moe_ctx(m), TINY_E_ARGUMENT, "mixture: the experts need counts, rows and room");
    if (!all) return TINY_OK;
    st = tiny_parallel_loose(tinyi_moe_ctx(m), (double)all * (double)j.width * (double)j.hidden < 50000.0 ? 1 : 0, 0,
                             (2 * TINYI_MOE_BLOCK * j.hidden + TINYI_MOE_STRIP) * sizeof(float), tinyi_moe_experts_team,
                             &j);
    return st ? tinyi_moe_end(m, st) : TINY_OK;
}

TINY_API tiny_status tllm_moe_layer(tllm_moe *m, const tllm_moe_weights *w, const float *x, tiny_idx tokens, float *y)
{
    const tllm_moe_desc *d = m ? tinyi_moe_desc_of(m) : NULL;
    const tinyi_moe_kernels *k;
    const tiny_idx *count;
    const float *rows;
    float *strip, *logits, *out = NULL;
    size_t n;
    tiny_ctx *ctx;
    tiny_status st;
    if (!m) return TINY_E_ARGUMENT;
    ctx = tinyi_moe_ctx(m);
    st = tinyi_moe_weights_check(m, w, 1);
    if (st) return st;
    if (tokens < 0 || (tokens && (!x || !y)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: the layer needs its tokens and room for the results");
    if (!tinyi_size_mul((size_t)tokens, (size_t)d->n_expert, &n) || !tinyi_size_add(n, TINYI_MOE_STRIP, &n))
        n = SIZE_MAX;
    strip = (float *)tinyi_alloc(ctx, n, sizeof *strip);
    if (!strip) return tinyi_moe_end(m, tiny_ctx_status(ctx));
    logits = strip + TINYI_MOE_STRIP;
    k = tinyi_moe_kernels_for(ctx);
    (k ? k->product : tinyi_moe_product_ref)(logits, (size_t)d->n_expert, x, (size_t)d->width, (size_t)tokens,
                                             w->router, (size_t)d->n_expert, (size_t)d->width, (size_t)d->n_expert,
                                             strip);
    st = tllm_moe_route(m, logits, tokens);
    tiny_free(ctx, strip);
    if (!st) st = tllm_moe_dispatch(m, x, &rows, &count);
    if (st) return st;
    n = (size_t)tllm_moe_plan_of(m).rows;
    out = (float *)tinyi_alloc(ctx, n, (size_t)d->width * sizeof *out);
    if (!out) return tinyi_moe_end(m, tiny_ctx_status(ctx));
    st = tllm_moe_experts(m, w, rows, count, out);
    if (!st) st = tllm_moe_combine(m, out, y);
    tiny_free(ctx, out);
    return st;
}

/* ---- the layer on one rank, as it is written in the formulas */

TINY_REF_BEGIN
/* Fills score (n_expert), gate (n_expert): 0 where the expert was not chosen. The first bad expert, or -1. */
static tiny_idx tinyi_moe_route_ref(const tllm_moe_desc *d, const float *x, const float *router, float *logit,
                                    float *score, float *gate)
{
    double top = -1e300, sum = 0.0, chosen = 0.0;
    tiny_idx e, i, s;
    for (e = 0; e < d->n_expert; e++) {
        double z = 0.0;
        for (i = 0; i < d->width; i++) z += (double)x[i] * (double)router[i * d->n_expert + e];
        logit[e] = (float)z;
        if (!(logit[e] - logit[e] == 0.0f)) return e;
        if ((double)logit[e] > top) top = (double)logit[e];
    }
    for (e = 0; e < d->n_expert; e++) sum += tinyi_exp64((double)logit[e] - top);
    for (e = 0; e < d->n_expert; e++) {
        score[e] = (float)(tinyi_exp64((double)logit[e] - top) / sum);
        gate[e] = 0.0f;
    }
    for (s = 0; s < d->k; s++) {            /* the most probable of those that are left; ties: the lower expert */
        tiny_idx best = -1;
        for (e = 0; e < d->n_expert; e++)
            if (gate[e] == 0.0f && (best < 0 || score[e] > score[best])) best = e;
        gate[best] = 1.0f;
        chosen += (double)score[best];
    }
    for (e = 0; e < d->n_expert; e++)
        if (gate[e] != 0.0f) gate[e] = d->plain_gates || chosen == 0.0 ? score[e] : (float)((double)score[e] / chosen);
        else gate[e] = -1.0f;
    return -1;
}
TINY_REF_END

TINY_API tiny_status tllm_moe_layer_ref(tiny_ctx *ctx, const tllm_moe_desc *d, const tllm_moe_weights *w,
                                        const float *x, tiny_idx tokens, float *y, unsigned char *keep)
{
    tiny_status st = tinyi_ctx_check(ctx);
    const size_t n = tokens > 0 ? (size_t)tokens : 0;
    tiny_idx t, o, e, i, capacity;
    size_t e_all, width, hidden;
    float *score, *gate, *logit, *a;
    if (st) return st;
    if (!d || !w || !w->router || !w->gate || !w->up || !w->down || tokens < 0 || (tokens && (!x || !y)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: the reference needs a description, weights, tokens and room");
    st = tinyi_moe_check(ctx, d);
    if (!st && !d->hidden) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "mixture: the experts have no hidden numbers");
    if (st) return st;
    e_all = (size_t)d->n_expert;
    width = (size_t)d->width;
    hidden = (size_t)d->hidden;
    score = (float *)tinyi_alloc(ctx, n + 1, 2 * e_all * sizeof(float));
    a = score ? (float *)tinyi_alloc(ctx, 2 * hidden + width, sizeof(float)) : NULL;
    if (!a) {
        tiny_free(ctx, score);
        return tiny_ctx_status(ctx);
    }
    gate = score + n * e_all;
    logit = gate + n * e_all;               /* the extra row */
    for (t = 0; t < tokens && !st; t++) {
        e = tinyi_moe_route_ref(d, x + t * d->width, w->router, logit, score + t * d->n_expert, gate + t * d->n_expert);
        if (e >= 0)
            st = tinyi_fail(ctx, TINY_E_NUMERIC, "mixture: token %td has a logit for expert %td that is not finite", t,
                            e);
    }
    capacity = tinyi_moe_capacity(d, tokens);
    for (t = 0; t < tokens && !st; t++) {
        memset(y + t * d->width, 0, width * sizeof *y);
        for (e = 0; e < d->n_expert; e++) {
            const float g = gate[t * d->n_expert + e], mine = score[t * d->n_expert + e];
            const size_t at = (size_t)e * width * hidden;
            tiny_idx before = 0;
            if (keep) keep[t * d->n_expert + e] = 0;
            if (g < 0.0f) continue;
            for (o = 0; o < tokens && d->drop; o++) {   /* tokens that the expert prefers to this one */
                const float other = score[o * d->n_expert + e];
                if (o == t || gate[o * d->n_expert + e] < 0.0f) continue;
                before += d->drop == TLLM_MOE_DROP_POSITION ? o < t : other > mine || (other == mine && o < t);
            }
            if (d->drop && before >= capacity) continue;
            if (keep) keep[t * d->n_expert + e] = 1;
            tinyi_moe_product_ref(a, hidden, x + t * d->width, width, 1, w->gate + at, hidden, width, hidden, NULL);
            tinyi_moe_product_ref(a + hidden, hidden, x + t * d->width, width, 1, w->up + at, hidden, width, hidden,
                                  NULL);
            tinyi_moe_gate_ref(a, a, a + hidden, hidden);
            tinyi_moe_product_ref(a + 2 * hidden, width, a, hidden, 1, w->down + at, width, hidden, width, NULL);
            for (i = 0; i < d->width; i++) y[t * d->width + i] += g * a[2 * hidden + (size_t)i];
        }
    }
    tiny_free(ctx, score);
    tiny_free(ctx, a);
    return st;
}
