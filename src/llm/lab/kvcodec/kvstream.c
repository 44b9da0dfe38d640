/* src/llm/lab/kvcodec/kvstream.c - the controller of CacheGen, and a simulated link
 * Paper    Y. Liu et al., 2024 (arXiv 2310.07240), 5.3 and algorithm 1; the budget policy is that of the released
 *          simulation.
 * Formula  REST, before chunk i, left = deadline - now, B the speed of the last chunk sent (at first the estimate, or
 *          the middle level): recompute(i..end) <= left: text; else the best L with sum_{j >= i} size[j][L] / B <=
 *          left; else the faster of the lowest level and text. BUDGET: the best L with size[i][L] / B <= deadline / n,
 *          else text.
 * Model    chunks come one after the other. Sending takes size / B. Computing a chunk starts when all earlier ones are
 *          decoded and takes its seconds. Decoding starts when the chunk has arrived and the previous one is decoded,
 *          while the next is already sent.
 * Property if B is constant and known, and decoding takes no time, REST meets the deadline whenever any choice of
 * levels
 *          and texts does: the faster of both keeps the least time of the rest, and the other two rules still fit. */
#include "llm/lab/kvcodec/kvstream.h"
#include "core/state_inside.h"
#include <math.h>                           /* INFINITY; no function of it is called */
#include <string.h>

static tiny_status tinyi_kvstream_check(tiny_ctx *ctx, const tllm_kvstream_desc *d, int *n_level)
{
    tiny_idx i;
    int l;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!d || d->n_chunk < 1 || !d->bytes || !d->recompute)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "cache stream: chunks, their sizes and the time to compute each are needed");
    *n_level = d->n_level ? d->n_level : 3;
    if (*n_level < 1 || *n_level > TLLM_KVCODEC_LEVELS || d->level < 0 || d->level > *n_level)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache stream: level %d of %d: the limits are 1 and %d", d->level,
                          *n_level, TLLM_KVCODEC_LEVELS);
    if ((int)d->policy < 0 || d->policy > TLLM_KVSTREAM_FIXED)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache stream: there is no policy %d", (int)d->policy);
    if (!(d->deadline > 0) || !(d->deadline < INFINITY) || !(d->bits_per_second >= 0) ||
        !(d->bits_per_second < INFINITY))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache stream: a deadline of %g s or a link of %g bit/s is invalid",
                          d->deadline, d->bits_per_second);
    for (i = 0; i < d->n_chunk; i++) {
        if (!(d->recompute[i] >= 0) || !(d->recompute[i] < INFINITY) ||
            (d->decode && (!(d->decode[i] >= 0) || !(d->decode[i] < INFINITY))))
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "cache stream: chunk %td: %g s to compute or %g s to decode is invalid", i,
                              d->recompute[i], d->decode ? d->decode[i] : 0);
        for (l = 0; l < *n_level; l++)
            if (!(d->bytes[i * TLLM_KVCODEC_LEVELS + l] > 0) || !(d->bytes[i * TLLM_KVCODEC_LEVELS + l] < INFINITY))
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache stream: chunk %td: %g bytes at level %d are invalid", i,
                                  d->bytes[i * TLLM_KVCODEC_LEVELS + l], l + 1);
    }
    return TINY_OK;
}

static double tinyi_kvstream_size(const tllm_kvstream_desc *d, tiny_idx i, int level)
{
    return d->bytes[i * TLLM_KVCODEC_LEVELS + level - 1];
}

static int tinyi_kvstream_rest(const tllm_kvstream_desc *d, tiny_idx i, double left, double speed, int n_level)
{
    double text = 0;
    tiny_idx j;
    int l;
    for (j = i; j < d->n_chunk; j++) text += d->recompute[j];
    if (text <= left) return TLLM_KVSTREAM_TEXT;
    for (l = n_level; l >= 1; l--) {
        double bytes = 0;
        for (j = i; j < d->n_chunk; j++) bytes += tinyi_kvstream_size(d, j, l);
        if (8 * bytes / speed <= left) return l;
    }
    return 8 * tinyi_kvstream_size(d, i, 1) / speed <= d->recompute[i] ? 1 : TLLM_KVSTREAM_TEXT;
}

static int tinyi_kvstream_next(const tllm_kvstream_desc *d, tiny_idx i, double elapsed, double speed, int n_level)
{
    int l;
    if (d->policy == TLLM_KVSTREAM_FIXED) return d->level;
    if (!(speed > 0)) return d->level ? d->level : (n_level + 1) / 2;
    if (d->policy == TLLM_KVSTREAM_REST) return tinyi_kvstream_rest(d, i, d->deadline - elapsed, speed, n_level);
    for (l = n_level; l >= 1; l--)
        if (8 * tinyi_kvstream_size(d, i, l) / speed <= d->deadline / (double)d->n_chunk) return l;
    return TLLM_KVSTREAM_TEXT;
}

TINY_API tiny_status tllm_kvstream_choose(tiny_ctx *ctx, const tllm_kvstream_desc *d, tiny_idx i, double elapsed,
                                          double bits_per_second, int *choice)
{
    int n_level;
    tiny_status st = tinyi_kvstream_check(ctx, d, &n_level);
    if (st) return st;
    if (!choice || i < 0 || i >= d->n_chunk || !(elapsed >= 0) || !(bits_per_second >= 0))
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "cache stream: chunk %td of %td, %g s or %g bit/s is invalid, or the result pointer is NULL", i,
            d->n_chunk, elapsed, bits_per_second);
    *choice = tinyi_kvstream_next(d, i, elapsed, bits_per_second, n_level);
    return TINY_OK;
}

TINY_API tiny_status tllm_kvstream_run(tiny_ctx *ctx, const tllm_kvstream_desc *d,
                                       const tllm_kvstream_transport *transport, tllm_kvstream_result *result)
{
    double now = 0, decoded = 0, speed;
    tllm_kvstream_result r;
    tiny_idx i;
    int n_level;
    tiny_status st = tinyi_kvstream_check(ctx, d, &n_level);
    if (st) return st;
    if (!transport || !transport->send || !d->choice)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "cache stream: a function that sends and a result pointer are needed");
    memset(&r, 0, sizeof r);
    speed = d->bits_per_second;
    for (i = 0; i < d->n_chunk; i++) {
        double bytes = 0, seconds = 0;
        d->choice[i] = tinyi_kvstream_next(d, i, now, speed, n_level);
        st = transport->send(transport->user, i, d->choice[i], &bytes, &seconds);
        if (st) return tinyi_fail(ctx, st, "cache stream: chunk %td of %td could not be delivered", i, d->n_chunk);
        if (!(seconds >= 0) || !(bytes >= 0))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache stream: chunk %td: send reported %g bytes in %g s", i, bytes,
                              seconds);
        if (d->choice[i] == TLLM_KVSTREAM_TEXT) {
            now = decoded = TINYI_MAX(now, decoded) + seconds;
            r.n_text++;
        } else {
            now += seconds;
            decoded = TINYI_MAX(now, decoded) + (d->decode ? d->decode[i] : 0);
            r.bytes += bytes;
            if (seconds > 0 && bytes > 0) speed = 8 * bytes / seconds;
        }
        if (d->done) d->done[i] = decoded;
    }
    r.seconds = decoded;
    r.missed = decoded > d->deadline;
    if (result) *result = r;
    return TINY_OK;
}

typedef struct tinyi_kvstream_link { const tllm_kvstream_desc *d; const double *bits_per_second; } tinyi_kvstream_link;
static tiny_status tinyi_kvstream_count(void *user, tiny_idx i, int choice, double *bytes, double *seconds)
{
    const tinyi_kvstream_link *l = (const tinyi_kvstream_link *)user;
    if (choice == TLLM_KVSTREAM_TEXT) {
        *seconds = l->d->recompute[i];
        return TINY_OK;
    }
    *bytes = tinyi_kvstream_size(l->d, i, choice);
    *seconds = 8 * *bytes / l->bits_per_second[i];
    return TINY_OK;
}

TINY_API tiny_status tllm_kvstream_plan(tiny_ctx *ctx, const tllm_kvstream_desc *d, const double *bits_per_second,
                                        tllm_kvstream_result *result)
{
    tllm_kvstream_transport t;
    tinyi_kvstream_link l;
    tiny_idx i;
    int n_level;
    tiny_status st = tinyi_kvstream_check(ctx, d, &n_level);
    if (st) return st;
    if (!bits_per_second) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache stream: the trace of the link is NULL");
    for (i = 0; i < d->n_chunk; i++)
        if (!(bits_per_second[i] > 0) || !(bits_per_second[i] < INFINITY))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "cache stream: the link has %g bit/s at chunk %td",
                              bits_per_second[i], i);
    l.d = d;
    l.bits_per_second = bits_per_second;
    t.send = tinyi_kvstream_count;
    t.user = &l;
    return tllm_kvstream_run(ctx, d, &t, result);
}

TINY_API void tllm_kvstream_trace(tiny_rng *rng, double low, double high, double *bits_per_second, tiny_idx n)
{
    tiny_idx i;
    if (!(low > 0) && !(high > 0)) {
        low = 0.1e9;
        high = 10e9;
    }
    for (i = 0; rng && bits_per_second && i < n; i++) bits_per_second[i] = low + (high - low) * tiny_rng_uniform64(rng);
}
