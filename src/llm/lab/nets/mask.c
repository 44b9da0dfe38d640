/* src/llm/lab/nets/mask.c - masks of one bit a number, an exact choice of the best, the cubic schedule of pruning
 * Paper    M. Zhu, S. Gupta, "To prune, or not to prune: exploring the efficacy of pruning for model compression", 2017
 *          (arXiv 1710.01878), eq. 1.
 * Formula  s(t) = to + (from - to) (1 - (t - start) / (n every))^3 at t = start, start + every .. start + n every; from
 *          before, to after. Chosen by a stable sort of the scores, ascending: the first n - k lose their bit.
 * Cost     a radix sort of keys of 64 bits: linear in n. */
#include "llm/lab/nets/mask.h"
#include "core/state_inside.h"
#include "math/sort.h"
#include <string.h>

TINY_API tiny_status tllm_mask_open(tiny_ctx *ctx, size_t n, tllm_mask *out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out || !n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mask: a result pointer and at least one number are needed");
    if (n > UINT32_MAX)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "mask: %zu numbers; the limit is %lu", n, (unsigned long)UINT32_MAX);
    out->bits = (unsigned char *)tinyi_alloc(ctx, (n + 7) / 8, 1);
    if (!out->bits) return tiny_ctx_status(ctx);
    out->n = n;
    memset(out->bits, 0xff, (n + 7) / 8);
    if (n % 8) out->bits[n / 8] = (unsigned char)((1u << n % 8) - 1u);
    return TINY_OK;
}

TINY_API void tllm_mask_close(tiny_ctx *ctx, tllm_mask *mask)
{
    if (!mask) return;
    tiny_free(ctx, mask->bits);
    memset(mask, 0, sizeof *mask);
}

TINY_API int tllm_mask_has(const tllm_mask *mask, size_t i)
{
    return mask && i < mask->n && mask->bits[i / 8] >> i % 8 & 1;
}
TINY_API void tllm_mask_put(tllm_mask *mask, size_t i, int bit)
{
    if (!mask || i >= mask->n) return;
    if (bit) mask->bits[i / 8] = (unsigned char)(mask->bits[i / 8] | 1u << i % 8);
    else mask->bits[i / 8] = (unsigned char)(mask->bits[i / 8] & ~(1u << i % 8));
}
TINY_API size_t tllm_mask_count(const tllm_mask *mask, size_t first, size_t n)
{
    size_t i, sum = 0;
    for (i = first; mask && i < mask->n && i - first < n; i++) sum += (size_t)tllm_mask_has(mask, i);
    return sum;
}

TINY_API tiny_status tllm_mask_top(tiny_ctx *ctx, tllm_mask *mask, size_t first, size_t n, const double *score,
                                   size_t k)
{
    uint64_t *key;
    uint32_t *order = NULL;
    size_t i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!mask || !mask->bits || !score || first > mask->n || n > mask->n - first || k > n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mask: the %zu best of numbers %zu to %zu, of %zu in the mask", k,
                          first, first + n, mask ? mask->n : 0);
    for (i = 0; i < n; i++)
        if (score[i] != score[i])
            return tinyi_fail(ctx, TINY_E_NUMERIC, "mask: the score of number %zu is NaN", first + i);
    key = (uint64_t *)tinyi_alloc(ctx, n, sizeof *key);
    if (key) order = (uint32_t *)tinyi_alloc(ctx, n, sizeof *order);
    if (!order) {
        tiny_free(ctx, key);
        return tiny_ctx_status(ctx);
    }
    for (i = 0; i < n; i++) {               /* integers in the order of the scores, -0 as 0 */
        const double x = score[i] == 0.0 ? 0.0 : score[i];
        memcpy(&key[i], &x, sizeof x);
        key[i] = key[i] >> 63 ? ~key[i] : key[i] | (uint64_t)1 << 63;
    }
    st = tiny_argsort_u64(ctx, key, order, n, 0);
    for (i = 0; !st && i < n; i++) tllm_mask_put(mask, first + order[i], i >= n - k);
    tiny_free(ctx, order);
    tiny_free(ctx, key);
    return st;
}

TINY_API size_t tllm_mask_part(double share, size_t n)
{
    const double x = share * (double)n;
    size_t down;
    double rest;
    if (!(x > 0.0)) return 0;
    if (x >= (double)n) return n;
    down = (size_t)x;
    rest = x - (double)down;
    return down + (size_t)(rest > 0.5 || (rest == 0.5 && down % 2));
}

/* ---- the schedule */

TINY_API tiny_status tllm_gradual_check(tiny_ctx *ctx, const tllm_gradual *g)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g) return tinyi_fail(ctx, TINY_E_ARGUMENT, "gradual: a schedule is needed");
    if (!(g->from >= 0.0 && g->to >= g->from && g->to < 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "gradual: the share of zeros goes from %g to %g; 0 <= from <= to < 1 is needed", g->from,
                          g->to);
    if (g->start < 0 || g->every < 1 || g->n < 1 || g->every > (INT64_MAX - g->start) / g->n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "gradual: %lld events from step %lld on, one every %lld steps; at least one event and one "
                          "step between them are needed",
                          (long long)g->n, (long long)g->start, (long long)g->every);
    return TINY_OK;
}

TINY_API double tllm_gradual_at(const tllm_gradual *g, int64_t step)
{
    double left;
    if (!g || g->every < 1 || g->n < 1) return 0.0;
    if (step <= g->start) return g->from;
    if ((step - g->start) / g->every >= g->n) return g->to;
    left = 1.0 - (double)((step - g->start) / g->every) / (double)g->n;     /* between events the last one holds */
    return g->to + (g->from - g->to) * left * left * left;
}

TINY_API int tllm_gradual_due(const tllm_gradual *g, int64_t step)
{
    return g && g->every > 0 && step >= g->start && (step - g->start) % g->every == 0 &&
           (step - g->start) / g->every <= g->n;
}
