/* src/llm/serve/energon_rows.c - padding removed, and batches by length
 * Paper    J. Du et al., "EnergonAI: An Inference System for 10-100 Billion Parameter Transformer Models", 2022 (arXiv
 *          2209.02341): redundant computation elimination; the dynamic batch manager of its program.
 * Formula  offset of row k of text b: sum over earlier texts of (most - length); padded place = k + offset[k].
 *          best[i] = min over i - m < j <= i of best[j - 1] + cost(length[i], i - j + 1), lengths ascending.
 * Why      in an optimal grouping the batches can be taken in the order of lengths: exchange two texts of two batches
 *          so that the batch with the longest text keeps the longest ones. No batch then gets a longer maximum.
 * Cost     n rows are copied; n m calls of cost.
 * Ours     the share of real texts, then the lower number, chooses between batches; the paper does not say. */
#include "llm/serve/energon_rows.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include <string.h>

enum { TINYI_ROWS_TEXTS = 4096 };

TINY_API tiny_status tllm_rows_count(tiny_ctx *ctx, const int32_t *length, tiny_idx n, tiny_idx *most,
                                     tiny_idx *valid)
{
    tiny_idx i, longest = 0, sum = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (most) *most = 0;
    if (valid) *valid = 0;
    if (st) return st;
    if (!length || !most || !valid)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a batch needs lengths and room for its two sizes");
    if (n < 1 || n > TLLM_ROWS_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a batch of %td texts: it has at least one, at most %d", n,
                          TLLM_ROWS_MOST);
    for (i = 0; i < n; i++) {
        if (length[i] < 1 || length[i] > TLLM_ROWS_MOST)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "text %td of the batch has %d tokens: 1 to %d are possible", i,
                              (int)length[i], TLLM_ROWS_MOST);
        longest = TINYI_MAX(longest, length[i]);
        sum += length[i];
        if (longest * (i + 1) > TLLM_ROWS_MOST)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "a batch of %td texts of %td tokens has more than %d rows", n,
                              longest, TLLM_ROWS_MOST);
    }
    if (longest * n > TLLM_ROWS_MOST)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "a batch of %td texts of %td tokens has more than %d rows", n, longest,
                          TLLM_ROWS_MOST);
    *most = longest;
    *valid = sum;
    return TINY_OK;
}

TINY_API tiny_status tllm_rows_offsets(tiny_ctx *ctx, const int32_t *length, tiny_idx n, int32_t *offset)
{
    tiny_idx most, valid, b, i, before = 0;
    tiny_status st = tllm_rows_count(ctx, length, n, &most, &valid);
    if (st) return st;
    if (!offset) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the offsets of a batch need room");
    for (b = 0; b < n; b++) {
        for (i = 0; i < length[b]; i++) *offset++ = (int32_t)before;
        before += most - length[b];
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_rows_remove(tiny_ctx *ctx, const int32_t *length, tiny_idx n, const void *padded,
                                      size_t bytes, void *rows)
{
    const unsigned char *from = (const unsigned char *)padded;
    unsigned char *to = (unsigned char *)rows;
    tiny_idx most, valid, b;
    tiny_status st = tllm_rows_count(ctx, length, n, &most, &valid);
    if (st) return st;
    if (!padded || !rows || !bytes || bytes > SIZE_MAX / TLLM_ROWS_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "removing padding needs two arrays and rows of some bytes");
    for (b = 0; b < n; b++) {
        memcpy(to, from, (size_t)length[b] * bytes);
        to += (size_t)length[b] * bytes;
        from += (size_t)most * bytes;
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_rows_rebuild(tiny_ctx *ctx, const int32_t *length, tiny_idx n, const void *rows,
                                       size_t bytes, void *padded)
{
    const unsigned char *from = (const unsigned char *)rows;
    unsigned char *to = (unsigned char *)padded;
    tiny_idx most, valid, b;
    tiny_status st = tllm_rows_count(ctx, length, n, &most, &valid);
    if (st) return st;
    if (!padded || !rows || !bytes || bytes > SIZE_MAX / TLLM_ROWS_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "adding padding needs two arrays and rows of some bytes");
    for (b = 0; b < n; b++) {
        const size_t own = (size_t)length[b] * bytes, all = (size_t)most * bytes;
        memcpy(to, from, own);
        memset(to + own, 0, all - own);
        from += own;
        to += all;
    }
    return TINY_OK;
}

TINY_API double tllm_rows_work(const int32_t *length, tiny_idx n, double width, int form)
{
    double most = 0, valid = 0, square = 0;
    tiny_idx i;
    if (!length) return 0;
    for (i = 0; i < n; i++) {
        const double l = (double)length[i];
        most = TINYI_MAX(most, l);
        valid += l;
        square += l * l;
    }
    if (form != TLLM_ROWS_VALID) square = (double)n * most * most;
    if (form == TLLM_ROWS_PADDED) valid = (double)n * most;
    return 24 * width * width * valid + 4 * width * square;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* order (n): texts by length, ties by number. Few texts: insertion. */
static void tinyi_rows_sort(const int32_t *length, tiny_idx n, int32_t *order)
{
    tiny_idx i, k;
    for (i = 0; i < n; i++) {
        for (k = i; k > 0 && length[order[k - 1]] > length[i]; k--) order[k] = order[k - 1];
        order[k] = (int32_t)i;
    }
}

/* best (n + 1), order (n) and from (n + 1): workspace. 0: a cost is negative or no number. */
static int tinyi_rows_plan(const int32_t *length, tiny_idx n, tiny_idx most, tllm_rows_cost cost, void *user,
                           double *best, int32_t *order, int32_t *from, int32_t *batch)
{
    tiny_idx i, k;
    int32_t number = 0;
    tinyi_rows_sort(length, n, order);
    best[0] = 0;
    for (i = 1; i <= n; i++) {
        from[i] = 0;
        for (k = 1; k <= most && k <= i; k++) {
            const double c = cost(user, length[order[i - 1]], k);
            if (!(c >= 0) || c > 1e300) return 0;
            if (!from[i] || best[i - k] + c < best[i]) {
                best[i] = best[i - k] + c;
                from[i] = (int32_t)k;
            }
        }
    }
    /* from the end: mark where batches begin, then number them from the first */
    for (i = n; i > 0; i -= from[i]) for (k = 0; k < from[i]; k++) batch[order[i - 1 - k]] = (int32_t)(i - from[i]);
    for (i = 0; i < n; i++) {
        const int begins = batch[order[i]] == i;
        if (begins && i) number++;
        batch[order[i]] = number;
    }
    return 1;
}
static tiny_status tinyi_rows_bad_cost(tiny_ctx *ctx)
{
    return tinyi_fail(ctx, TINY_E_ARGUMENT, "the cost of a batch is negative or no number");
}

TINY_API tiny_status tllm_rows_batches(tiny_ctx *ctx, const int32_t *length, tiny_idx n, tiny_idx most,
                                       tllm_rows_cost cost, void *user, int32_t *batch, double *total)
{
    tiny_idx i;
    double *best;
    int32_t *work;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!length || !cost || !batch) return tinyi_fail(ctx, TINY_E_ARGUMENT, "batches need lengths, a cost and room");
    if (n < 1 || n > TINYI_ROWS_TEXTS || most < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%td texts in batches of %td: 1 to %d texts, 1 or more in a batch", n,
                          most, TINYI_ROWS_TEXTS);
    for (i = 0; i < n; i++)
        if (length[i] < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "text %td has %d tokens", i, (int)length[i]);
    best = (double *)tinyi_alloc(ctx, (size_t)n + 1, sizeof *best);
    work = best ? (int32_t *)tinyi_alloc(ctx, 2 * ((size_t)n + 1), sizeof *work) : NULL;
    if (!work) st = tiny_ctx_status(ctx);
    else if (!tinyi_rows_plan(length, n, most, cost, user, best, work, work + n + 1, batch))
        st = tinyi_rows_bad_cost(ctx);
    else if (total) *total = best[n];
    tiny_free(ctx, work);
    tiny_free(ctx, best);
    return st;
}

/* Fills length[n ..] up to all by draws from the recent lengths' normal distribution. */
static void tinyi_rows_fake(const tllm_rows_queue *q, int32_t *length, tiny_idx all)
{
    tiny_rng r = tiny_rng_make(q->seed, 0xe4e);
    double sum = 0, square = 0, mean, spread;
    tiny_idx i;
    for (i = 0; i < q->n_recent; i++) {
        sum += (double)q->recent[i];
        square += (double)q->recent[i] * (double)q->recent[i];
    }
    mean = sum / (double)q->n_recent;
    spread = tinyi_sqrt(TINYI_MAX(0.0, square / (double)q->n_recent - mean * mean));
    for (i = q->n; i < all; i++) {
        const double x = mean + spread * (double)tiny_rng_normal(&r);
        length[i] = (int32_t)(TINYI_MIN(TINYI_MAX(x, 1.0), (double)TLLM_ROWS_MOST) + 0.5);
    }
}

TINYI_FN size_t tinyi_rows_next_work(tiny_idx n, tiny_idx most)
{
    const size_t all = (size_t)TINYI_MAX(n, 5 * most) + 1;
    return all * (sizeof(double) + 4 * sizeof(int32_t));
}

/* 0: the cost is bad. Needs no context: a thread of a pipeline calls it. */
TINYI_FN int tinyi_rows_pick(const tllm_rows_queue *q, void *work, int32_t *chosen, tiny_idx *n_chosen)
{
    const tiny_idx all = q->n_recent ? TINYI_MAX(q->n, 5 * q->most) : q->n;
    double *best = (double *)work, share = -1;
    int32_t *length = (int32_t *)(best + all + 1), *batch = length + all, *order = batch + all, *from = order + all;
    int32_t pick = -1;
    tiny_idx i, k, old = 0;
    *n_chosen = 0;
    memcpy(length, q->length, (size_t)q->n * sizeof *length);
    if (all > q->n) tinyi_rows_fake(q, length, all);
    if (!tinyi_rows_plan(length, all, q->most, q->cost, q->user, best, order, from, batch)) return 0;
    for (i = 0; i < q->n && q->wait; i++) if (q->wait[i] > q->wait[old]) old = i;
    if (q->wait && q->wait[old] > q->wait_most) pick = batch[old];
    for (i = 0; i < q->n && !(q->wait && q->wait[old] > q->wait_most); i++) {
        tiny_idx real = 0, any = 0;
        for (k = 0; k < all; k++)
            if (batch[k] == batch[i]) {
                any++;
                real += k < q->n;
            }
        if ((double)real / (double)any > share) {
            share = (double)real / (double)any;
            pick = batch[i];
        }
    }
    for (i = 0; i < q->n; i++) if (batch[i] == pick) chosen[(*n_chosen)++] = (int32_t)i;
    return 1;
}

TINY_API tiny_status tllm_rows_next(tiny_ctx *ctx, const tllm_rows_queue *q, int32_t *chosen, tiny_idx *n_chosen)
{
    tiny_idx i;
    void *work;
    tiny_status st = tinyi_ctx_check(ctx);
    if (n_chosen) *n_chosen = 0;
    if (st) return st;
    if (!q || !q->length || !q->cost || !chosen || !n_chosen || (q->n_recent > 0 && !q->recent))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a batch needs a queue with lengths and a cost, and room");
    if (q->n < 1 || q->n > TINYI_ROWS_TEXTS || q->most < 1 || q->most > TINYI_ROWS_TEXTS || q->n_recent < 0 ||
        !(q->wait_most >= 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%td texts that wait, %td in a batch, %td recent ones, %g of waiting: "
                          "out of range", q->n, q->most, q->n_recent, q->wait_most);
    for (i = 0; i < q->n; i++)
        if (q->length[i] < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "text %td has %d tokens", i, (int)q->length[i]);
    for (i = 0; i < q->n_recent; i++)
        if (q->recent[i] < 1)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "recent text %td has %d tokens", i, (int)q->recent[i]);
    work = tinyi_alloc(ctx, tinyi_rows_next_work(q->n, q->most), 1);
    if (!work) return tiny_ctx_status(ctx);
    if (!tinyi_rows_pick(q, work, chosen, n_chosen)) st = tinyi_rows_bad_cost(ctx);
    tiny_free(ctx, work);
    return st;
}
