/* src/llm/lab/vision/tome.c - merging tokens: matching, sizes, tracking, schedules
 * Papers   D. Bolya et al., 2022 (arXiv 2210.09461), appendix D; schedules: Y. Xiong et al., 2024 (arXiv 2403.09192),
 *          the authors' code.
 * Formula  m[t] = sum over heads of the keys of t (their mean has the same direction), u[t] = m[t] / |m[t]|;
 *          score[a] = max over odd b of u[a] . u[b];  the r largest scores, the first of equals, are the pairs.
 * Data     a match is one block of i32: t places, t - r origins, r sources and r targets for each image, images
 *          interleaved.
 * Cost     t^2 d / 4 multiply-adds per image, by dot products of rows: the same instructions for every pair, so that
 *          equal tokens have equal scores.
 * Error    a score of the fast form is off by at most (d + 8) u: pairs with scores that close may swap. The order
 *          depends on these scores only; they are sorted stably as integers.
 * Left out random partition of A and B, and matching by other metrics: the authors compare them and keep this one. */
#include "llm/lab/vision/tome.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/elem.h"
#include <string.h>

TINY_API tiny_idx tllm_tome_count(tiny_idx t, tiny_idx r, unsigned flags)
{
    const tiny_idx kept = (flags & TLLM_TOME_CLASS ? 1 : 0) + (flags & TLLM_TOME_DISTILL ? 1 : 0);
    if (flags & TLLM_TOME_DISTILL && t < 4) return 0;       /* token 1 is all of B */
    return TINYI_MAX(0, TINYI_MIN(r, (t - kept) / 2));
}

TINYI_FN int tinyi_tome_read(const tiny_tensor *match, tiny_idx t, tiny_idx batch, tinyi_tome *m)
{
    if (t < 0 || t > TLLM_TOME_TOKENS || match->dtype != TINY_I32 || match->rank != 2 || match->dim[1] != batch ||
        match->dim[0] < 2 * t || match->dim[0] > 2 * t + t / 2 || !tiny_tensor_is_dense(match))
        return 0;
    m->t = t;
    m->batch = batch;
    m->r = match->dim[0] - 2 * t;
    m->to = (const int32_t *)match->data;
    m->from = m->to ? m->to + t * batch : NULL;
    m->src = m->to ? m->from + (t - m->r) * batch : NULL;
    m->dst = m->to ? m->src + m->r * batch : NULL;
    return 1;
}

TINYI_FN tiny_status tinyi_tome_check(tiny_ctx *ctx, const char *name, const tinyi_tome *m)
{
    const tiny_idx left = m->t - m->r, all = (2 * m->t + m->r) * m->batch;
    tiny_idx i;
    for (i = 0; i < all; i++) {
        const tiny_idx most = i < m->t * m->batch ? left : m->t;
        if (m->to[i] < 0 || m->to[i] >= most)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: number %td of the match is %ld; it must be below %td", name, i,
                              (long)m->to[i], most);
    }
    for (i = 0; i < left * m->batch; i++)
        if (m->to[m->from[i] * m->batch + i % m->batch] != i / m->batch)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "%s: output %td of image %td comes from token %ld, which has another output", name,
                              i / m->batch, i % m->batch, (long)m->from[i]);
    for (i = 0; i < m->r * m->batch; i++) {
        const tiny_idx b = i % m->batch;
        tiny_idx k;
        if (m->src[i] == m->dst[i] || m->from[m->to[m->src[i] * m->batch + b] * m->batch + b] != m->dst[i])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: pair %td of image %td: tokens %ld and %ld do not merge",
                              name, i / m->batch, b, (long)m->src[i], (long)m->dst[i]);
        for (k = b; k < i; k += m->batch)
            if (m->src[k] == m->src[i])
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: token %ld of image %td merges twice", name,
                                  (long)m->src[i], b);
    }
    return TINY_OK;
}

TINY_API tiny_tensor tllm_tome_part(const tiny_tensor *match, tiny_idx t, tllm_tome_parts part)
{
    tinyi_tome m;
    tiny_tensor y;
    memset(&y, 0, sizeof y);
    if (!match || !tinyi_tome_read(match, t, match->rank == 2 ? match->dim[1] : 0, &m)) return y;
    y = *match;
    y.dim[0] = part == TLLM_TOME_TO ? t : part == TLLM_TOME_FROM ? t - m.r : m.r;
    y.data = (int32_t *)match->data + (part == TLLM_TOME_TO       ? 0
                                       : part == TLLM_TOME_FROM   ? t
                                       : part == TLLM_TOME_SOURCE ? 2 * t - m.r
                                                                  : 2 * t) *
                                          m.batch;
    return y;
}

/* ---- matching */

typedef struct tinyi_tome_job {
    const tiny_tensor *keys;
    tiny_idx t, r, batch, heads, d, n_a, n_b;
    unsigned flags;
    int plain;
    int32_t *to, *from, *src, *dst;
    float *unit;                            /* (batch, t, d) */
    double *metric;                         /* reference: (t, d) of one image */
    float *best;                            /* (batch, n_a) */
    int32_t *with;                          /* (batch, n_a): which of B */
    uint64_t *item;                         /* (batch, 2 n_a) */
} tinyi_tome_job;

static tiny_idx tinyi_tome_key(const tinyi_tome_job *j, tiny_idx t, tiny_idx b, tiny_idx head)
{
    return t * j->keys->stride[0] + (b * j->heads + head) * j->keys->stride[1];
}

TINY_REF_BEGIN
static void tinyi_tome_scores_ref(const tinyi_tome_job *j, tiny_idx b)
{
    tiny_idx t, h, i, a, c;
    for (t = 0; t < j->t; t++) {
        double *m = j->metric + t * j->d, square = 0.0, r;
        for (i = 0; i < j->d; i++) {
            for (m[i] = 0.0, h = 0; h < j->heads; h++)
                m[i] += tinyi_real(j->keys->data, j->keys->dtype, tinyi_tome_key(j, t, b, h) + i * j->keys->stride[2]);
            square += m[i] * m[i];
        }
        r = square > 0.0 && square < (double)INFINITY ? 1.0 / tinyi_sqrt64(square) : 0.0;
        for (i = 0; i < j->d; i++) m[i] = r == 0.0 ? 0.0 : m[i] * r;
    }
    for (a = 0; a < j->n_a; a++) {
        float *best = j->best + b * j->n_a + a;
        *best = -INFINITY;
        j->with[b * j->n_a + a] = 0;
        if (!a && (j->flags & TLLM_TOME_CLASS)) continue;
        for (c = (j->flags & TLLM_TOME_DISTILL) != 0; c < j->n_b; c++) {
            double s = 0.0;
            for (i = 0; i < j->d; i++) s += j->metric[2 * a * j->d + i] * j->metric[(2 * c + 1) * j->d + i];
            if (tinyi_round_f32(s) > *best) {
                *best = tinyi_round_f32(s);
                j->with[b * j->n_a + a] = (int32_t)c;
            }
        }
    }
}
TINY_REF_END

static void tinyi_tome_unit(tiny_team *team, const tinyi_tome_job *j, tiny_idx b, tiny_idx t)
{
    const tinyi_fn_axpy_f32 axpy = TINYI_K(team, axpy_f32);
    const float *keys = (const float *)j->keys->data;
    const tiny_idx step = j->d > 1 ? j->keys->stride[2] : 1;
    float *m = j->unit + (b * j->t + t) * j->d, square;
    tiny_idx h, i;
    double r;
    for (h = 0; h < j->heads; h++) {
        const float *k = keys + tinyi_tome_key(j, t, b, h);
        if (step != 1 && !h) tinyi_row_gather(m, k, j->d, step);
        else if (step != 1) for (i = 0; i < j->d; i++) m[i] += k[i * step];
        else if (!h) memcpy(m, k, (size_t)j->d * sizeof *m);
        else axpy(m, k, (size_t)j->d, 1.0f);
    }
    square = TINYI_K(team, dot_f32)(m, m, (size_t)j->d);
    r = (double)square;
    if (!(square > 1e-30f && square < 1e30f))       /* in float it may be too long or too short */
        for (r = 0.0, i = 0; i < j->d; i++) r += (double)m[i] * (double)m[i];
    if (!(r > 0.0 && r < (double)INFINITY)) {
        for (i = 0; i < j->d; i++) m[i] = 0.0f;
        return;
    }
    r = 1.0 / tinyi_sqrt64(r);
    if (r < 1e-30 || r > 1e30) for (i = 0; i < j->d; i++) m[i] = (float)((double)m[i] * r);
    else TINYI_K(team, scale_f32)(m, m, (size_t)j->d, (float)r, 0.0f);
}

static void tinyi_tome_score(tiny_team *team, const tinyi_tome_job *j, tiny_idx b, tiny_idx a)
{
    const tinyi_fn_dot_f32 dot = TINYI_K(team, dot_f32);
    const float *unit = j->unit + b * j->t * j->d, *of = unit + 2 * a * j->d;
    float best = -INFINITY;
    tiny_idx c, with = 0;
    if (a || !(j->flags & TLLM_TOME_CLASS))
        for (c = j->flags & TLLM_TOME_DISTILL ? 1 : 0; c < j->n_b; c++) {
            const float s = dot(of, unit + (2 * c + 1) * j->d, (size_t)j->d);
            if (s > best) {
                best = s;
                with = c;
            }
        }
    j->best[b * j->n_a + a] = best;
    j->with[b * j->n_a + a] = (int32_t)with;
}

static uint32_t tinyi_tome_sort_key(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return ~tinyi_sort_key_f32(u);          /* the largest first */
}

/* out of the scores of an image: the pairs, and where everything goes */
static void tinyi_tome_choose(const tinyi_tome_job *j, tiny_idx b)
{
    const tiny_idx n_left = j->n_a - j->r, batch = j->batch;
    uint64_t *item = j->item + b * 2 * j->n_a;
    tiny_idx k, a;
    for (a = 0; a < j->n_a; a++) item[a] = (uint64_t)tinyi_tome_sort_key(j->best[b * j->n_a + a]) << 32 | (uint64_t)a;
    tinyi_sort_pairs(item, item + j->n_a, (size_t)j->n_a);
    if (j->flags & TLLM_TOME_CLASS) {       /* what is left, in the order that it had */
        for (k = j->r; k < j->n_a; k++) item[k] = (item[k] & 0xffffffffu) << 32 | (item[k] & 0xffffffffu);
        tinyi_sort_pairs(item + j->r, item + j->n_a, (size_t)n_left);
    }
    for (k = 0; k < n_left + j->n_b; k++) {
        const int of_b = k >= n_left;
        const tiny_idx token = of_b ? 2 * (k - n_left) + 1 : 2 * (tiny_idx)(item[j->r + k] & 0xffffffffu);
        tiny_idx at = k;
        if (j->flags & TLLM_TOME_DISTILL) at = k == n_left ? 1 : k && k < n_left ? k + 1 : k;
        j->from[at * batch + b] = (int32_t)token;
        j->to[token * batch + b] = (int32_t)at;
    }
    for (k = 0; k < j->r; k++) {
        const tiny_idx source = (tiny_idx)(item[k] & 0xffffffffu),
                       target = 2 * (tiny_idx)j->with[b * j->n_a + source] + 1;
        j->src[k * batch + b] = (int32_t)(2 * source);
        j->dst[k * batch + b] = (int32_t)target;
        j->to[2 * source * batch + b] = j->to[target * batch + b];
    }
}

static void tinyi_tome_team(tiny_team *team, void *arg)
{
    tinyi_tome_job *j = (tinyi_tome_job *)arg;
    tiny_idx i, end;
    if (!j->plain) {
        (void)TINYI_K(team, dot_f32);       /* thread 0 reports the pass that ran, with or without a task */
        while (tiny_take(team, j->batch * j->t, 32, &i, &end))
            for (; i < end; i++) tinyi_tome_unit(team, j, i / j->t, i % j->t);
        tiny_barrier(team);
        while (tiny_take(team, j->batch * j->n_a, 8, &i, &end))
            for (; i < end; i++) tinyi_tome_score(team, j, i / j->n_a, i % j->n_a);
        tiny_barrier(team);
    }
    while (tiny_take(team, j->batch, 1, &i, &end)) for (; i < end; i++) tinyi_tome_choose(j, i);
}

TINY_API tiny_status tllm_tome_match(tiny_ctx *ctx, const tiny_tensor *keys, tiny_idx batch, unsigned flags,
                                     const tiny_tensor *match)
{
    tinyi_tome_job j;
    tinyi_tome m;
    size_t floats, scores, bytes;
    unsigned char *room;
    char have[96];
    tiny_idx b;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!keys || !match || tiny_tensor_check(keys) || tiny_tensor_check(match))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tome: keys and a match are needed");
    if (flags & ~3u) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tome: flags %u are unknown", flags);
    if (keys->rank != 3 || !tinyi_is_real(keys) || batch < 1 || keys->dim[1] % batch || !keys->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "tome: keys are %s, they must be (tokens, %td images of some heads, numbers) of f32 or f64",
                          tinyi_shape_text(keys, have), batch);
    memset(&j, 0, sizeof j);
    j.t = keys->dim[0];
    if (j.t < 1 || j.t > TLLM_TOME_TOKENS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tome: %td tokens; the limits are 1 and %d", j.t, TLLM_TOME_TOKENS);
    if (!tinyi_tome_read(match, j.t, batch, &m) || m.r > tllm_tome_count(j.t, m.r, flags))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "tome: the match is %s, it must be dense i32, %td x %td for r merges of at most %td",
                          tinyi_shape_text(match, have), 2 * j.t, batch, tllm_tome_count(j.t, j.t, flags));
    j.keys = keys;
    j.r = m.r;
    j.batch = batch;
    j.heads = keys->dim[1] / batch;
    j.d = keys->dim[2];
    j.n_a = (j.t + 1) / 2;
    j.n_b = j.t / 2;
    j.flags = flags;
    j.to = (int32_t *)match->data;
    j.from = j.to + j.t * batch;
    j.src = j.from + (j.t - j.r) * batch;
    j.dst = j.src + j.r * batch;
    j.plain = tiny_ctx_target(ctx) == TINY_TARGET_REFERENCE || keys->dtype == TINY_F64;
    /* items, then scores, then the unit rows: each piece keeps the alignment of the next */
    if (!tinyi_size_mul((size_t)batch, (size_t)j.n_a, &scores) || !tinyi_size_mul((size_t)j.t, (size_t)j.d, &floats) ||
        (!j.plain && !tinyi_size_mul(floats, (size_t)batch, &floats)) || floats > SIZE_MAX / 32 ||
        scores > SIZE_MAX / 64)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "tome: %td images of %td tokens of %td numbers are more than can be addressed", batch, j.t,
                          j.d);
    bytes = scores * (2 * sizeof(uint64_t) + sizeof(float) + sizeof(int32_t)) +
            floats * (j.plain ? sizeof(double) : sizeof(float));
    room = (unsigned char *)tiny_alloc(ctx, bytes);
    if (!room) return tiny_ctx_status(ctx);
    j.item = (uint64_t *)(void *)room;
    room += scores * 2 * sizeof(uint64_t);
    j.best = (float *)(void *)room;
    j.with = (int32_t *)(void *)(room + scores * sizeof(float));
    room += scores * (sizeof(float) + sizeof(int32_t));
    j.metric = (double *)(void *)room;
    j.unit = (float *)(void *)room;
    for (b = 0; b < batch && j.plain; b++) tinyi_tome_scores_ref(&j, b);
    st = tiny_parallel_loose(ctx, j.plain ? 1 : 0, 0, 0, tinyi_tome_team, &j);
    if (!st && j.plain) ctx->ran_on = TINY_TARGET_REFERENCE;
    tiny_free(ctx, j.item);
    return st;
}

/* ---- what follows a match */

TINY_REF_BEGIN
TINY_API tiny_status tllm_tome_sizes(tiny_ctx *ctx, const tiny_tensor *size, const tiny_tensor *match,
                                     const tiny_tensor *next)
{
    tinyi_tome m;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!size || !match || !next || tiny_tensor_check(size) || tiny_tensor_check(match) || tiny_tensor_check(next))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tome: sizes before and after, and a match, are needed");
    if (size->rank != 2 || !tinyi_is_real(size) || !tiny_tensor_is_dense(size) ||
        !tinyi_tome_read(match, size->dim[0], size->dim[1], &m) || next->dtype != size->dtype || next->rank != 2 ||
        !tiny_tensor_is_dense(next) || next->dim[0] != m.t - m.r || next->dim[1] != m.batch)
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "tome: sizes must be dense (t, batch) and (t - r, batch) of one type, the match (2 t + r, batch)");
    st = tinyi_tome_check(ctx, "tome", &m);
    if (st) return st;
    for (i = 0; i < (m.t - m.r) * m.batch; i++)
        tinyi_real_set(next->data, next->dtype, i,
                       tinyi_real(size->data, size->dtype, m.from[i] * m.batch + i % m.batch));
    for (i = 0; i < m.r * m.batch; i++) {
        const tiny_idx to = m.to[m.src[i] * m.batch + i % m.batch] * m.batch + i % m.batch;
        tinyi_real_set(next->data, next->dtype, to,
                       tinyi_real(next->data, next->dtype, to) +
                           tinyi_real(size->data, size->dtype, m.src[i] * m.batch + i % m.batch));
    }
    return TINY_OK;
}
TINY_REF_END

TINY_API tiny_status tllm_tome_unmerge(tiny_ctx *ctx, const tiny_tensor *y, const tiny_tensor *to, const tiny_tensor *x)
{
    tiny_idx k, b;
    size_t es;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!y || !to || !x || tiny_tensor_check(y) || tiny_tensor_check(to) || tiny_tensor_check(x))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "tome: merged tokens, the target of each, and a result pointer are needed");
    if (y->rank != 3 || x->rank != 3 || to->rank != 2 || to->dtype != TINY_I32 || x->dtype != y->dtype ||
        x->dim[0] != to->dim[0] || x->dim[1] != to->dim[1] || y->dim[1] != x->dim[1] || x->dim[2] != y->dim[2] ||
        !tiny_tensor_is_dense(x) || !tiny_tensor_is_dense(y) || !tiny_tensor_is_dense(to))
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "tome: x must be (t, batch, d) and y (fewer, batch, d) of one type, to (t, batch) i32, all dense");
    es = (size_t)x->dim[2] * tiny_dtype_bytes(x->dtype);
    for (k = 0; k < x->dim[0] * x->dim[1]; k++) {
        const int32_t at = ((const int32_t *)to->data)[k];
        if (at < 0 || at >= y->dim[0])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "tome: token %td has output %ld, but there are %td outputs",
                              k / x->dim[1], (long)at, y->dim[0]);
    }
    for (k = 0; k < x->dim[0] && es; k++)
        for (b = 0; b < x->dim[1]; b++)
            memcpy((unsigned char *)x->data + (size_t)(k * x->dim[1] + b) * es,
                   (const unsigned char *)y->data +
                       (size_t)(((const int32_t *)to->data)[k * x->dim[1] + b] * x->dim[1] + b) * es,
                   es);
    return TINY_OK;
}

TINY_API tiny_status tllm_tome_track(tiny_ctx *ctx, const tiny_tensor *place, const tiny_tensor *match, tiny_idx t)
{
    int32_t *at;
    tinyi_tome m;
    tiny_idx i, n;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!place || tiny_tensor_check(place) || place->dtype != TINY_I32 || place->rank != 2 ||
        !tiny_tensor_is_dense(place) || place->dim[0] > TLLM_TOME_TOKENS)
        return tinyi_fail(ctx, TINY_E_SHAPE, "tome: places must be dense i32 (tokens, batch)");
    if (match && (tiny_tensor_check(match) || !tinyi_tome_read(match, t, place->dim[1], &m)))
        return tinyi_fail(ctx, TINY_E_SHAPE, "tome: the match is not one of %td tokens of %td images", t,
                          place->dim[1]);
    at = (int32_t *)place->data;
    n = tiny_tensor_count(place);
    for (i = 0; i < n && match; i++)
        if (at[i] < 0 || at[i] >= t)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "tome: token %td has place %ld of %td", i / m.batch, (long)at[i],
                              t);
    for (i = 0; i < n; i++) at[i] = match ? m.to[at[i] * m.batch + i % m.batch] : (int32_t)(i / place->dim[1]);
    return TINY_OK;
}

/* ---- schedules */

TINY_API const tiny_idx *tllm_tome_scheduled(tllm_tome_schedule schedule, tiny_idx *n_block)
{
    static const tiny_idx base_low[] = { 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 10 },
                          base_high[] = { 40, 34, 30, 24, 18, 14, 10, 8, 4, 4, 3, 3 };
    static const tiny_idx large_low[] = { 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 6 };
    static const tiny_idx large_high[] = { 20, 19, 18, 17, 15, 13, 13, 12, 10, 9, 8, 6,
                                           6,  4,  4,  4,  3,  3,  2,  2,  1,  1, 1, 1 };
    const int is = (int)schedule;
    if (n_block) *n_block = is < 0 || is >= TLLM_TOME_SCHEDULES ? 0 : is < TLLM_TOME_LARGE_LOW ? 12 : 24;
    return is == TLLM_TOME_BASE_LOW     ? base_low
           : is == TLLM_TOME_BASE_HIGH  ? base_high
           : is == TLLM_TOME_LARGE_LOW  ? large_low
           : is == TLLM_TOME_LARGE_HIGH ? large_high
                                        : NULL;
}

TINY_REF_BEGIN
TINY_API tiny_status tllm_tome_inflected(tiny_ctx *ctx, tiny_idx r, double f, tiny_idx n_block, tiny_idx *each)
{
    tiny_idx i, low;
    double step;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (r < 0 || r > TLLM_TOME_TOKENS || !(f >= -1.0 && f <= 1.0) || n_block < 1 || !each)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "tome: %td merges in each of %td blocks with the inflection %g: it must be -1 to 1, and "
                          "there must be blocks",
                          r, n_block, f);
    low = (tiny_idx)((double)r * (1.0 - f));
    step = n_block > 1 ? (double)(2 * (r - low)) / (double)(n_block - 1) : 0.0;
    for (i = 0; i < n_block; i++) each[i] = (tiny_idx)((double)low + step * (double)i);
    return TINY_OK;
}
TINY_REF_END
