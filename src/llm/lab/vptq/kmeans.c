/* src/llm/lab/vptq/kmeans.c - weighted k-means
 *
 * Formula  each vector to its nearest centre, each centre to the weighted mean of its vectors, until the centres move
 *          by no more than tol times their length (both as the root of the sum of squares over all centres) or iters is
 *          reached
 * Begin    different vectors in the order of a permutation (Philox, stream 0 of the seed); with fewer than k different
 *          vectors these, and copies of the last
 * Empty    a centre without weighted vectors gets the vector with the largest weight |x - centre|^2, the next such
 *          centre the next vector that differs from the last one; if no error is left, the centre stays
 * Order    distances are floats summed in the order of the numbers, means and errors are doubles in the order of the
 *          vectors. Threads share only the search for the nearest centre, so the result does not depend on them
 * Cost     n k v times a difference, a product and a sum per iteration
 * Left out k-means++: it reads all vectors for each centre, and random starts with 256 and more centres end equally
 *          well in the papers that use them */
#include <float.h>
#include <string.h>
#include "core/half_inside.h"
#include "core/state_inside.h"
#include "llm/lab/vptq/kmeans.h"
#include "llm/lab/vptq/kmeans_inside.h"
#include "math/elem.h"
#include "math/sort.h"
#include "math/table_inside.h"

/* ---- the nearest ------------------------------------------------------------------------------------------------- */

TINYI_FN size_t tinyi_nearest_floats(tiny_idx k, tiny_idx v) { return (size_t)((k + 15) / 16 * 16 * v); }

TINYI_FN void tinyi_nearest_lay(float *to, const float *centre, tiny_idx k, tiny_idx v)
{
    tiny_idx c, i;
    for (c = 0; c < (k + 15) / 16 * 16; c++)
        for (i = 0; i < v; i++) to[c / 16 * 16 * v + 16 * i + c % 16] = c < k ? centre[c * v + i] : TINYI_NEAREST_FAR;
}

TINY_REF_BEGIN
static void tinyi_nearest_ref(uint32_t *code, float *distance, const float *x, size_t n, size_t v, const float *laid,
                              size_t n_centre)
{
    size_t j, k, i;
    for (j = 0; j < n; j++, x += v) {
        float best = FLT_MAX;
        uint32_t at = 0;
        for (k = 0; k < n_centre; k++) {
            float d = 0.0f;
            for (i = 0; i < v; i++) {
                const float t = laid[k / 16 * 16 * v + 16 * i + k % 16] - x[i];
                d += t * t;
            }
            if (d < best) {
                best = d;
                at = (uint32_t)k;
            }
        }
        code[j] = at;
        distance[j] = best;
    }
}
TINY_REF_END

TINYI_TABLE_CHOICE(tinyi_nearest_kernels, tinyi_nearest_kernels)
TINYI_FN tinyi_nearest_fn tinyi_nearest_of(const tiny_ctx *ctx)
{
    const tinyi_nearest_kernels *kernels =
        ctx->target == TINY_TARGET_REFERENCE ? NULL : tinyi_nearest_kernels_of(ctx->k);
    return kernels ? kernels->nearest : tinyi_nearest_ref;
}
TINYI_FN tiny_target tinyi_nearest_from(const tiny_ctx *ctx)
{
    return ctx->target == TINY_TARGET_REFERENCE ? TINY_TARGET_REFERENCE
                                                : (tiny_target)ctx->k->from[TINYI_K_gemm_f32_tile];
}

/* ---- k-means ----------------------------------------------------------------------------------------------------- */

typedef struct tinyi_kmeans {
    const float *x, *weight;                /* (n, v), (n) or NULL */
    tiny_idx n, v, k;
    float *laid, *distance;                 /* distance: (n), then weighed */
    uint32_t *code;
    tinyi_nearest_fn nearest;
    tiny_target from;
} tinyi_kmeans;

static void tinyi_kmeans_team(tiny_team *team, void *arg)
{
    const tinyi_kmeans *m = (const tinyi_kmeans *)arg;
    tiny_idx i, i1;
    team->ran_on = m->from;
    while (tiny_take(team, m->n, 64, &i, &i1))
        m->nearest(m->code + i, m->distance + i, m->x + i * m->v, (size_t)(i1 - i), (size_t)m->v, m->laid,
                   (size_t)((m->k + 15) / 16 * 16));
}

TINY_REF_BEGIN
static float tinyi_kmeans_weight(const tinyi_kmeans *m, tiny_idx i) { return m->weight ? m->weight[i] : 1.0f; }

/* distances become errors; their sum */
static double tinyi_kmeans_errors(const tinyi_kmeans *m)
{
    double sum = 0.0;
    tiny_idx i;
    for (i = 0; i < m->n; i++) {
        sum += (double)tinyi_kmeans_weight(m, i) * (double)m->distance[i];
        m->distance[i] *= tinyi_kmeans_weight(m, i);
    }
    return sum;
}

/* weighted means; how many centres have no weight, which stay as they are; the last of mean, (k, v + 1), is the
 * weight */
static tiny_idx tinyi_kmeans_means(const tinyi_kmeans *m, float *centre, double *mean, double *moved, double *length)
{
    tiny_idx i, j, c, empty = 0;
    memset(mean, 0, (size_t)(m->k * (m->v + 1)) * sizeof *mean);
    for (i = 0; i < m->n; i++) {
        double *to = mean + (tiny_idx)m->code[i] * (m->v + 1);
        const double w = (double)tinyi_kmeans_weight(m, i);
        for (j = 0; j < m->v; j++) to[j] += w * (double)m->x[i * m->v + j];
        to[m->v] += w;
    }
    *moved = *length = 0.0;
    for (c = 0; c < m->k; c++) {
        const double *from = mean + c * (m->v + 1);
        empty += !(from[m->v] > 0.0);
        for (j = 0; j < m->v; j++) {
            const float old = centre[c * m->v + j];
            if (from[m->v] > 0.0) centre[c * m->v + j] = (float)(from[j] / from[m->v]);
            *moved += ((double)centre[c * m->v + j] - (double)old) * ((double)centre[c * m->v + j] - (double)old);
            *length += (double)centre[c * m->v + j] * (double)centre[c * m->v + j];
        }
    }
    return empty;
}

/* centres without weight take the vectors that are worst off; how many did */
static tiny_idx tinyi_kmeans_reseed(const tinyi_kmeans *m, const uint32_t *worst, const double *mean, float *centre)
{
    const float *taken = NULL;
    tiny_idx c, at = 0, n = 0;
    for (c = 0; c < m->k; c++) {
        if (mean[c * (m->v + 1) + m->v] > 0.0) continue;
        while (at < m->n && taken && !memcmp(taken, m->x + (tiny_idx)worst[at] * m->v, (size_t)m->v * sizeof *taken))
            at++;
        if (at == m->n || !(m->distance[worst[at]] > 0.0f)) break;
        taken = m->x + (tiny_idx)worst[at] * m->v;
        memcpy(centre + c * m->v, taken, (size_t)m->v * sizeof *taken);
        n++;
    }
    return n;
}
TINY_REF_END

/* The first k different vectors in the order of a permutation; how many there are. slot: a power of two, above twice
 * k */
static tiny_idx tinyi_kmeans_draw(const float *x, tiny_idx n, tiny_idx v, tiny_idx k, const uint32_t *order,
                                  uint32_t *slot, size_t slots, float *centre)
{
    tiny_idx i, j, found = 0;
    memset(slot, 0, slots * sizeof *slot);
    for (i = 0; i < n && found < k; i++) {
        const float *at = x + (tiny_idx)order[i] * v;
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        size_t s;
        for (j = 0; j < v; j++) {
            /* -0 is 0 */
            hash = (hash ^ tinyi_f32_bits(at[j] == 0.0f ? 0.0f : at[j])) * UINT64_C(0x9e3779b97f4a7c15);
            hash ^= hash >> 29;
        }
        for (s = (size_t)(hash >> 20) & (slots - 1); slot[s]; s = (s + 1) & (slots - 1)) {
            const float *other = centre + (tiny_idx)(slot[s] - 1) * v;
            for (j = 0; j < v && at[j] == other[j]; j++) {}
            if (j == v) break;
        }
        if (slot[s]) continue;
        memcpy(centre + found * v, at, (size_t)v * sizeof *at);
        slot[s] = (uint32_t)++found;
    }
    return found;
}

static tiny_status tinyi_kmeans_rounds(tiny_ctx *ctx, const tllm_kmeans_desc *d, tinyi_kmeans *m, float *centre,
                                       double *mean, tllm_kmeans_about *a)
{
    uint32_t *worst = NULL;
    tiny_status st = TINY_OK;
    for (a->iters = 0; !st && a->iters < d->iters;) {
        double moved, length;
        tiny_idx empty, filled = 0;
        tinyi_nearest_lay(m->laid, centre, m->k, m->v);
        st = tiny_parallel_loose(ctx, m->n * m->k * m->v < 65536 ? 1 : 0, 0, 0, tinyi_kmeans_team, m);
        if (st) break;
        (void)tinyi_kmeans_errors(m);
        empty = tinyi_kmeans_means(m, centre, mean, &moved, &length);
        if (empty) {
            if (!worst && !(worst = (uint32_t *)tinyi_alloc(ctx, (size_t)m->n, sizeof *worst)))
                st = tiny_ctx_status(ctx);
            if (!st) st = tiny_argsort_f32(ctx, m->distance, worst, (size_t)m->n, TINY_SORT_DESCENDING);
            if (!st) filled = tinyi_kmeans_reseed(m, worst, mean, centre);
            a->reseeded += filled;
        }
        a->iters++;
        if (ctx->desc.progress) ctx->desc.progress(ctx->desc.user, "k-means", (double)a->iters / (double)d->iters);
        if (!filled && tinyi_sqrt64(moved) <= d->tol * tinyi_sqrt64(length)) break;
    }
    tiny_free(ctx, worst);
    return st;
}

static tiny_status tinyi_kmeans_check(tiny_ctx *ctx, const tllm_kmeans_desc *desc, tllm_kmeans_desc *d, const float *x,
                                      tiny_idx n, tiny_idx v, const float **weight, const float *centre)
{
    tiny_idx i, heavy = 0;
    memset(d, 0, sizeof *d);
    if (desc) *d = *desc;
    if (!d->k) d->k = 256;
    if (!d->iters) d->iters = 100;
    if (d->tol == 0.0) d->tol = 1e-5;
    if (!d->sample) d->sample = 256;
    if (!x || !centre)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "kmeans: vectors and a result pointer are needed");
    if (v < 1 || v > TLLM_KMEANS_MOST_V)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "kmeans: vectors of %td numbers; the limits are 1 and %d", v,
                          TLLM_KMEANS_MOST_V);
    if (n < 1 || (uint64_t)n >= UINT32_MAX || n > TINY_IDX_MAX / (tiny_idx)sizeof(float) / v)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "kmeans: %td vectors; the limits are 1, 2^32 - 2 and the memory", n);
    if (d->k < 1 || d->k > TLLM_KMEANS_MOST_K || d->k > n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "kmeans: %td centres of %td vectors; the limits are the number of vectors and %td", d->k, n,
                          TLLM_KMEANS_MOST_K);
    if (d->iters < 1 || !(d->tol >= 0.0) || d->sample < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "kmeans: iters %d, tol %g, sample %td: they must be at least 1, 0 and 1",
                          d->iters, d->tol, d->sample);
    for (i = 0; i < n * v; i++)
        if (!(x[i] - x[i] == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "kmeans: number %td of vector %td is %g", i % v, i / v,
                              (double)x[i]);
    for (i = 0; *weight && i < n; i++) {
        if (!((*weight)[i] >= 0.0f && (*weight)[i] <= FLT_MAX))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "kmeans: vector %td has weight %g; it must be finite and not below 0", i,
                              (double)(*weight)[i]);
        heavy += (*weight)[i] > 0.0f;
    }
    if (!heavy) *weight = NULL;
    return TINY_OK;
}

/* What is drawn from: all vectors, or as many as desc.sample says, copied in the order of the draw. */
static tiny_status tinyi_kmeans_run(tiny_ctx *ctx, const tllm_kmeans_desc *d, tinyi_kmeans *m, float *centre,
                                    tllm_kmeans_about *a)
{
    const tiny_idx n = m->n, most = d->sample > n / d->k ? n : d->sample * d->k;
    const float *x = m->x, *weight = m->weight;
    uint32_t *order = NULL, *slot = NULL;
    float *few = NULL;
    double *mean = NULL;
    size_t slots = 4;
    tiny_idx found = 0, i;
    tiny_status st = TINY_OK;
    while (slots < 2 * (size_t)d->k + 2) slots *= 2;
    order = (uint32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *order);
    slot = order ? (uint32_t *)tinyi_alloc(ctx, slots, sizeof *slot) : NULL;
    mean = slot ? (double *)tinyi_alloc(ctx, (size_t)(d->k * (m->v + 1)), sizeof *mean) : NULL;
    if (!mean) st = tiny_ctx_status(ctx);
    if (!st) {
        tiny_rng rng = tiny_rng_make(d->seed, 0);
        tiny_rng_permutation(&rng, order, (uint32_t)n);
        found = tinyi_kmeans_draw(x, n, m->v, d->k, order, slot, slots, centre);
        for (i = found; i < d->k; i++)
            memcpy(centre + i * m->v, centre + (found - 1) * m->v, (size_t)m->v * sizeof *centre);
    }
    if (!st && found == d->k && most < n) {
        few = (float *)tinyi_alloc(ctx, (size_t)most, (size_t)(m->v + 1) * sizeof *few);
        if (!few) st = tiny_ctx_status(ctx);
        for (i = 0; !st && i < most; i++) {
            memcpy(few + i * m->v, x + (tiny_idx)order[i] * m->v, (size_t)m->v * sizeof *few);
            few[most * m->v + i] = weight ? weight[order[i]] : 1.0f;
        }
        m->x = few;
        m->weight = few + most * m->v;
        m->n = most;
    }
    if (!st && found == d->k) st = tinyi_kmeans_rounds(ctx, d, m, centre, mean, a);
    m->x = x;
    m->weight = weight;
    m->n = n;
    if (!st) {
        tinyi_nearest_lay(m->laid, centre, m->k, m->v);
        st = tiny_parallel_loose(ctx, m->n * m->k * m->v < 65536 ? 1 : 0, 0, 0, tinyi_kmeans_team, m);
    }
    if (!st) a->error = tinyi_kmeans_errors(m);
    tiny_free(ctx, few);
    tiny_free(ctx, mean);
    tiny_free(ctx, slot);
    tiny_free(ctx, order);
    return st;
}

TINY_API tiny_status tllm_kmeans(tiny_ctx *ctx, const tllm_kmeans_desc *desc, const float *x, tiny_idx n, tiny_idx v,
                                 const float *weight, float *centre, uint32_t *code, tllm_kmeans_about *about)
{
    tllm_kmeans_desc d;
    tllm_kmeans_about a;
    tinyi_kmeans m;
    tiny_status st = tinyi_ctx_check(ctx);
    memset(&a, 0, sizeof a);
    memset(&m, 0, sizeof m);
    if (!st) st = tinyi_kmeans_check(ctx, desc, &d, x, n, v, &weight, centre);
    if (st) return st;
    m.x = x;
    m.weight = weight;
    m.n = n;
    m.v = v;
    m.k = d.k;
    m.nearest = tinyi_nearest_of(ctx);
    m.from = tinyi_nearest_from(ctx);
    m.laid = (float *)tinyi_alloc(ctx, tinyi_nearest_floats(d.k, v), sizeof *m.laid);
    m.distance = m.laid ? (float *)tinyi_alloc(ctx, (size_t)n, sizeof *m.distance) : NULL;
    m.code = code || !m.distance ? code : (uint32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *m.code);
    st = m.distance && m.code ? tinyi_kmeans_run(ctx, &d, &m, centre, &a) : tiny_ctx_status(ctx);
    if (m.code != code) tiny_free(ctx, m.code);
    tiny_free(ctx, m.distance);
    tiny_free(ctx, m.laid);
    if (!st && about) *about = a;
    return st;
}

