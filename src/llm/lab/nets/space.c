/* src/llm/lab/nets/space.c - widths and depths that can be chosen, their cost, its expectation
 * Paper    X. Dong, Y. Yang, "Network Pruning via Transformable Architecture Search", 2019 (arXiv 1905.09717).
 * Formula  see llm/lab/nets/space.h. The stage after a choice of depths reads sum over d of P(d) E[C of block d].
 *          With c = E[C], p = softmax(row): dc/d row_k = p_k (C_k - c). With g_d = dE/dP(d): dE/d row_k = p_k (g_k -
 *          sum over d of p_d g_d).
 * Cost     a few operations for each choice. All in double. */
#include "llm/lab/nets/space.h"
#include "math/table_inside.h"
#include "math/elem.h"
#include <string.h>

#define TINYI_SPACE_K2 9.0                  /* taps of a window */

TINYI_FN size_t tinyi_space_first(const tllm_space *space, size_t stage)
{
    size_t s, at = 1;
    for (s = 0; s < stage; s++) at += 2 * (size_t)space->stage[s].blocks;
    return at;
}

TINY_API size_t tllm_space_convs(const tllm_space *space)
{
    return space ? tinyi_space_first(space, space->n_stage) : 0;
}

static tiny_idx tinyi_space_stride(int stride) { return stride ? stride : 1; }

TINYI_FN void tinyi_space_places(const tllm_space *space, tinyi_space_place *stem, tinyi_space_place *stage)
{
    size_t s;
    tinyi_space_place at;
    at.h = (space->in[1] - 1) / tinyi_space_stride(space->stem_stride) + 1;
    at.w = (space->in[2] - 1) / tinyi_space_stride(space->stem_stride) + 1;
    *stem = at;
    for (s = 0; s < space->n_stage; s++) {
        at.h = (at.h - 1) / tinyi_space_stride(space->stage[s].stride) + 1;
        at.w = (at.w - 1) / tinyi_space_stride(space->stage[s].stride) + 1;
        stage[s] = at;
    }
}

TINY_API tiny_idx tllm_space_width(const tllm_space *space, size_t conv)
{
    size_t s;
    if (!space || conv >= tllm_space_convs(space)) return 0;
    for (s = 0; s < space->n_stage; s++)
        if (conv && conv < tinyi_space_first(space, s + 1)) return space->stage[s].width;
    return space->stem;
}

TINY_API size_t tllm_space_widths(const tllm_space *space, size_t conv, tiny_idx width[TLLM_SPACE_WIDTHS])
{
    const tiny_idx full = tllm_space_width(space, conv);
    size_t n = 0;
    tiny_idx tenth;
    if (!width) return 0;
    for (tenth = 3; full && tenth <= 10; tenth++) {
        const tiny_idx c = TINYI_MAX(1, full * tenth / 10);
        if (!n || c != width[n - 1]) width[n++] = c;
    }
    return n;
}

TINY_API size_t tllm_space_depths(const tllm_space *space, size_t stage, int depth[TLLM_SPACE_DEPTHS])
{
    size_t n = 0;
    int d, blocks;
    if (!space || !depth || stage >= space->n_stage) return 0;
    blocks = space->stage[stage].blocks;
    for (d = 1; !space->fixed_depth && d < blocks; d += blocks > 3 ? 2 : 1) depth[n++] = d;
    depth[n++] = blocks;
    return n;
}

TINY_API tiny_status tllm_space_full(tiny_ctx *ctx, const tllm_space *space, tllm_shape *shape)
{
    tiny_status st = tinyi_ctx_check(ctx);
    size_t s, l, blocks = 0;
    tiny_idx h, w;
    int i;
    if (st) return st;
    if (!space || !shape)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: a space and a place for its shape are needed");
    memset(shape, 0, sizeof *shape);
    for (i = 0; i < 3; i++)
        if (space->in[i] < 1 || space->in[i] > 65536)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: an image of %td x %td x %td; 1 to 65536 are allowed",
                              space->in[0], space->in[1], space->in[2]);
    if (space->n_class < 2 || space->n_class > 65536 || space->stem < 1 || space->stem > 65536 ||
        space->stem_stride < 0 || space->stem_stride > 8)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: %td classes, a stem of %td channels and stride %d",
                          space->n_class, space->stem, space->stem_stride);
    if (space->n_stage < 1 || space->n_stage > TLLM_SPACE_STAGES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: %zu stages; 1 to %d are allowed", space->n_stage,
                          TLLM_SPACE_STAGES);
    h = (space->in[1] - 1) / tinyi_space_stride(space->stem_stride) + 1;
    w = (space->in[2] - 1) / tinyi_space_stride(space->stem_stride) + 1;
    for (s = 0; s < space->n_stage; s++) {
        const tllm_stage *g = &space->stage[s];
        const tiny_idx stride = tinyi_space_stride(g->stride);
        if (g->width < 1 || g->width > 65536 || g->blocks < 1 || g->blocks > 32 || g->stride < 0 || g->stride > 8)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: stage %zu: %d blocks of %td channels, stride %d", s,
                              g->blocks, g->width, g->stride);
        if (g->blocks == 1 && !space->fixed_depth)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "space: stage %zu has one block, so there is no depth to choose; set fixed_depth", s);
        if (!space->plain && (h % stride || w % stride))
            return tinyi_fail(ctx, TINY_E_SHAPE, "space: stage %zu: a shortcut of stride %d over an image of %td x %td",
                              s, g->stride, h, w);
        h = (h - 1) / stride + 1;
        w = (w - 1) / stride + 1;
        blocks += (size_t)g->blocks;
        if (1 + 2 * blocks > TLLM_SPACE_CONVS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: more than %d blocks", TLLM_SPACE_CONVS / 2);
        shape->depth[s] = g->blocks;
    }
    for (l = 0; l < tllm_space_convs(space); l++) shape->width[l] = tllm_space_width(space, l);
    return TINY_OK;
}

TINY_API tiny_status tllm_space_check(tiny_ctx *ctx, const tllm_space *space, const tllm_shape *shape)
{
    tllm_shape full;
    size_t s, l;
    tiny_status st = tllm_space_full(ctx, space, &full);
    if (st) return st;
    if (!shape) return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: a shape is needed");
    for (s = 0; s < space->n_stage; s++)
        if (shape->depth[s] < 1 || shape->depth[s] > full.depth[s])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: stage %zu: %d of %d blocks", s, shape->depth[s],
                              full.depth[s]);
    for (l = 0; l < tllm_space_convs(space); l++)
        if (shape->width[l] < 1 || shape->width[l] > full.width[l])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: convolution %zu: %td of %td channels", l, shape->width[l],
                              full.width[l]);
    return TINY_OK;
}

TINY_API double tllm_space_flops(const tllm_space *space, const tllm_shape *shape)
{
    tinyi_space_place stem, at[TLLM_SPACE_STAGES];
    double f;
    tiny_idx c;
    size_t s, b;
    if (!space || !shape) return 0.0;
    tinyi_space_places(space, &stem, at);
    c = shape->width[0];
    f = TINYI_SPACE_K2 * (double)(stem.h * stem.w) * (double)space->in[0] * (double)c;
    for (s = 0; s < space->n_stage; s++)
        for (b = 0; b < (size_t)shape->depth[s]; b++) {
            const tiny_idx *w = &shape->width[tinyi_space_first(space, s) + 2 * b];
            f += TINYI_SPACE_K2 * (double)(at[s].h * at[s].w) * (double)w[0] * (double)(c + w[1]);
            c = space->plain ? w[1] : TINYI_MAX(c, w[1]);
        }
    return 2.0 * (f + (double)c * (double)space->n_class);
}

TINY_API tiny_status tllm_space_uniform(tiny_ctx *ctx, const tllm_space *space, double flops, tllm_shape *shape)
{
    tllm_shape full;
    size_t l;
    int share;
    tiny_status st = tllm_space_full(ctx, space, &full);
    if (st) return st;
    if (!shape) return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: a place for the shape is needed");
    *shape = full;
    for (share = 1000; share; share--) {
        for (l = 0; l < tllm_space_convs(space); l++) shape->width[l] = TINYI_MAX(1, full.width[l] * share / 1000);
        if (tllm_space_flops(space, shape) <= flops) return TINY_OK;
    }
    return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: one channel everywhere costs %g, more than %g",
                      tllm_space_flops(space, shape), flops);
}

TINY_API tiny_status tllm_space_random(tiny_ctx *ctx, const tllm_space *space, double low, double high, uint64_t seed,
                                       tllm_shape *shape)
{
    tiny_idx width[TLLM_SPACE_WIDTHS];
    int depth[TLLM_SPACE_DEPTHS], tries;
    size_t l, n;
    tiny_rng rng = tiny_rng_make(seed, 0x73706163);
    tllm_shape full;
    tiny_status st = tllm_space_full(ctx, space, &full);
    if (st) return st;
    if (!shape || !(low <= high)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: a cost between %g and %g", low, high);
    *shape = full;
    for (tries = 0; tries < 1000000; tries++) {
        double f;
        for (l = 0; l < tllm_space_convs(space); l++) {
            n = tllm_space_widths(space, l, width);
            shape->width[l] = width[tiny_rng_below(&rng, (uint32_t)n)];
        }
        for (l = 0; l < space->n_stage; l++) {
            n = tllm_space_depths(space, l, depth);
            shape->depth[l] = depth[tiny_rng_below(&rng, (uint32_t)n)];
        }
        f = tllm_space_flops(space, shape);
        if (f >= low && f <= high) return TINY_OK;
    }
    return tinyi_fail(ctx, TINY_E_ARGUMENT, "space: none of a million choices costs between %g and %g", low, high);
}

/* ---- probabilities */

TINY_API void tllm_space_soften(size_t n, const double *logit, const double *gumbel, double tau, double *o, double *p)
{
    double top, sum = 0.0, lse;
    size_t j;
    if (!n || !logit || !p || !(tau > 0.0)) return;
    for (top = logit[0], j = 1; j < n; j++) top = TINYI_MAX(top, logit[j]);
    for (j = 0; j < n; j++) sum += tinyi_exp64(logit[j] - top);
    lse = top + tinyi_log64(sum);
    for (j = 0; j < n; j++) p[j] = (logit[j] - lse + (gumbel ? gumbel[j] : 0.0)) / tau;
    if (o) memcpy(o, p, n * sizeof *p);
    for (top = p[0], j = 1; j < n; j++) top = TINYI_MAX(top, p[j]);
    for (sum = 0.0, j = 0; j < n; j++) sum += p[j] = tinyi_exp64(p[j] - top);
    for (j = 0; j < n; j++) p[j] /= sum;
}

TINY_API void tllm_space_pair(double o_a, double o_b, double weight[2])
{
    const double e = tinyi_exp64(o_a > o_b ? o_b - o_a : o_a - o_b);        /* at most 1 */
    if (!weight) return;
    weight[o_a > o_b ? 0 : 1] = 1.0 / (1.0 + e);
    weight[o_a > o_b ? 1 : 0] = e / (1.0 + e);
}

static size_t tinyi_space_best(const double *x, size_t n)
{
    size_t j, best = 0;
    for (j = 1; j < n; j++)
        if (x[j] > x[best]) best = j;
    return best;
}

TINY_API void tllm_space_argmax(const tllm_space *space, const tllm_logits *logits, tllm_shape *shape)
{
    tiny_idx width[TLLM_SPACE_WIDTHS];
    int depth[TLLM_SPACE_DEPTHS];
    size_t l, n;
    if (!space || !logits || !shape) return;
    for (l = 0; l < tllm_space_convs(space); l++) {
        n = tllm_space_widths(space, l, width);
        shape->width[l] = width[tinyi_space_best(logits->width[l], n)];
    }
    for (l = 0; l < space->n_stage; l++) {
        n = tllm_space_depths(space, l, depth);
        shape->depth[l] = depth[tinyi_space_best(logits->depth[l], n)];
    }
}

TINY_API double tllm_space_expected(const tllm_space *space, const tllm_logits *logits, tllm_logits *gradient)
{
    double c[TLLM_SPACE_CONVS], gc[TLLM_SPACE_CONVS], p[TLLM_SPACE_CONVS][TLLM_SPACE_WIDTHS];
    double q[TLLM_SPACE_STAGES][TLLM_SPACE_DEPTHS], gq[TLLM_SPACE_STAGES][TLLM_SPACE_DEPTHS];
    double x[TLLM_SPACE_STAGES + 1], gx, f, k, mean;        /* x: expected channels that a stage reads */
    tiny_idx width[TLLM_SPACE_WIDTHS];
    int depth[TLLM_SPACE_DEPTHS];
    tinyi_space_place stem, at[TLLM_SPACE_STAGES];
    size_t l, s, j, n, b, first;
    if (!space || !logits) return 0.0;
    tinyi_space_places(space, &stem, at);
    memset(gc, 0, sizeof gc);
    memset(gq, 0, sizeof gq);
    for (l = 0; l < tllm_space_convs(space); l++) {
        n = tllm_space_widths(space, l, width);
        tllm_space_soften(n, logits->width[l], NULL, 1.0, NULL, p[l]);
        for (c[l] = 0.0, j = 0; j < n; j++) c[l] += p[l][j] * (double)width[j];
    }
    x[0] = c[0];
    k = 2.0 * TINYI_SPACE_K2 * (double)(stem.h * stem.w) * (double)space->in[0];
    f = k * c[0];
    for (s = 0; s < space->n_stage; s++) {
        first = tinyi_space_first(space, s);
        n = tllm_space_depths(space, s, depth);
        tllm_space_soften(n, logits->depth[s], NULL, 1.0, NULL, q[s]);
        for (x[s + 1] = 0.0, j = 0; j < n; j++) x[s + 1] += q[s][j] * c[first + 2 * (size_t)depth[j] - 1];
        for (j = 0; j < n; j++)             /* the blocks of depth j, with the probability of that depth */
            for (b = 0; b < (size_t)depth[j]; b++) {
                const double in = b ? c[first + 2 * b - 1] : x[s];
                f += q[s][j] * 2.0 * TINYI_SPACE_K2 * (double)(at[s].h * at[s].w) * c[first + 2 * b] *
                     (in + c[first + 2 * b + 1]);
            }
    }
    f += 2.0 * x[space->n_stage] * (double)space->n_class;
    if (!gradient) return f;
    gx = 2.0 * (double)space->n_class;
    for (s = space->n_stage; s-- > 0;) {    /* the same sums, backwards; gx: dE / dx[s + 1] */
        double before = 0.0;
        first = tinyi_space_first(space, s);
        n = tllm_space_depths(space, s, depth);
        k = 2.0 * TINYI_SPACE_K2 * (double)(at[s].h * at[s].w);
        for (j = 0; j < n; j++) {
            const size_t last = first + 2 * (size_t)depth[j] - 1;
            gq[s][j] += gx * c[last];
            gc[last] += gx * q[s][j];
            for (b = 0; b < (size_t)depth[j]; b++) {
                const size_t a = first + 2 * b;
                const double in = b ? c[a - 1] : x[s];
                gq[s][j] += k * c[a] * (in + c[a + 1]);
                gc[a] += q[s][j] * k * (in + c[a + 1]);
                gc[a + 1] += q[s][j] * k * c[a];
                if (b) gc[a - 1] += q[s][j] * k * c[a];
                else before += q[s][j] * k * c[a];
            }
        }
        gx = before;
    }
    gc[0] += gx + 2.0 * TINYI_SPACE_K2 * (double)(stem.h * stem.w) * (double)space->in[0];
    memset(gradient, 0, sizeof *gradient);
    for (l = 0; l < tllm_space_convs(space); l++) {
        n = tllm_space_widths(space, l, width);
        for (j = 0; j < n; j++) gradient->width[l][j] = gc[l] * p[l][j] * ((double)width[j] - c[l]);
    }
    for (s = 0; s < space->n_stage; s++) {
        n = tllm_space_depths(space, s, depth);
        for (mean = 0.0, j = 0; j < n; j++) mean += q[s][j] * gq[s][j];
        for (j = 0; j < n; j++) gradient->depth[s][j] = q[s][j] * (gq[s][j] - mean);
    }
    return f;
}
