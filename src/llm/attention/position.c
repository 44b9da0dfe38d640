/* src/llm/attention/position.c - frequencies of rotations, slopes of ALiBi
 * Papers   rotation: J. Su et al., 2021 (arXiv 2104.09864); linear: S. Chen et al., 2023 (arXiv 2306.15595); NTK-aware
 *          and dynamic: "bloc97" and "emozilla", 2023; YaRN: B. Peng et al., 2023 (arXiv 2309.00071), 3.2 and 3.4;
 *          Llama 3: as Meta's code of the 3.1 models; ALiBi: O. Press et al., 2021 (arXiv 2108.12409)
 * Formula  in the header. Slope of head h of H: 2^(-8 (h + 1) / H) if H is a power of two. Otherwise, with c the power
 *          of two below H, the first c heads have the slopes of c heads, the others every second slope of 2c heads */
#include "llm/attention/position.h"
#include "core/state_inside.h"
#include "math/elem.h"

TINY_REF_BEGIN
TINYI_FN float tinyi_alibi_slope(float most, tiny_idx n_head, tiny_idx h)
{
    tiny_idx two = 1;
    double base, e;
    while (2 * two <= n_head) two *= 2;
    base = (double)most / (double)two;
    e = h < two ? base * (double)(h + 1) : base / 2.0 * (double)(2 * (h - two) + 1);
    return (float)tinyi_exp64(-e * 0.69314718055994530942);
}

static double tinyi_yarn_at(double turns, double n, double trained, double base)
{
    return n * tinyi_log64(trained / (turns * 6.283185307179586477)) / (2.0 * tinyi_log64(base));
}
static double tinyi_yarn_floor(double x)
{
    const double t = (double)(int64_t)x;
    return t > x ? t - 1.0 : t;
}
TINYI_FN void tinyi_yarn_range(double beta_fast, double beta_slow, tiny_idx n_rot, double trained, double base,
                               double *low, double *high)
{
    *low = tinyi_yarn_floor(tinyi_yarn_at(beta_fast, (double)n_rot, trained, base));
    *high = -tinyi_yarn_floor(-tinyi_yarn_at(beta_slow, (double)n_rot, trained, base));
    *low = *low > 0.0 ? *low : 0.0;
    *high = *high < (double)(n_rot - 1) ? *high : (double)(n_rot - 1);
}

TINY_API tiny_status tllm_rope_frequencies(tiny_ctx *ctx, const tllm_rope_desc *d, double *freq, double *size)
{
    double base, factor, fast, slow, low, high, from = 0.0, to = 0.0, n;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!d || !freq)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rope: the description or the pointer to the frequencies is NULL");
    base = d->base != 0.0 ? d->base : 10000.0;
    factor = d->factor != 0.0 ? d->factor : 1.0;
    fast = d->beta_fast != 0.0 ? d->beta_fast : 32.0;
    slow = d->beta_slow != 0.0 ? d->beta_slow : 1.0;
    low = d->low != 0.0 ? d->low : 1.0;
    high = d->high != 0.0 ? d->high : 4.0;
    n = (double)d->n_rot;
    if (d->n_rot < 2 || d->n_rot % 2 || d->kind < TLLM_ROPE_PLAIN || d->kind > TLLM_ROPE_LLAMA3)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "rope: %td rotated numbers of kind %d: an even number from 2 on and kinds 0 to %d are needed",
                          d->n_rot, d->kind, (int)TLLM_ROPE_LLAMA3);
    if (!(base > 1.0 && base < 1e30) || !(factor > 0.0 && factor < 1e30))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rope: base %g must be above 1, factor %g above 0, both finite", base,
                          factor);
    if ((d->kind == TLLM_ROPE_NTK || d->kind == TLLM_ROPE_DYNAMIC) && d->n_rot < 4)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "rope: a changed base needs at least two pairs, not %td numbers",
                          d->n_rot);
    if (d->kind >= TLLM_ROPE_DYNAMIC && !(d->trained > 0.0 && d->trained < 1e30 && d->length >= 0.0 &&
                                          d->length < 1e30 && fast > 0.0 && slow > 0.0 && low > 0.0 && high > low))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "rope: trained %g, length %g, beta_fast %g, beta_slow %g, low %g, high %g: all must be above "
                          "0 (length may be 0), and high above low",
                          d->trained, d->length, fast, slow, low, high);
    if (d->kind == TLLM_ROPE_NTK) base *= tinyi_exp64(n / (n - 2.0) * tinyi_log64(factor));
    if (d->kind == TLLM_ROPE_DYNAMIC && d->length > d->trained)
        base *= tinyi_exp64(n / (n - 2.0) * tinyi_log64(factor * d->length / d->trained - (factor - 1.0)));
    if (d->kind == TLLM_ROPE_YARN) tinyi_yarn_range(fast, slow, d->n_rot, d->trained, base, &from, &to);
    for (i = 0; i < d->n_rot / 2; i++) {
        const double f = tinyi_exp64(-2.0 * (double)i / n * tinyi_log64(base)),
                     turns = d->trained * f / 6.283185307179586477;
        double t = 1.0;                     /* the share that is kept */
        if (d->kind == TLLM_ROPE_LINEAR) t = 0.0;
        if (d->kind == TLLM_ROPE_YARN) t = 1.0 - ((double)i - from) / (to - from > 0.001 ? to - from : 0.001);
        if (d->kind == TLLM_ROPE_LLAMA3) t = (turns - low) / (high - low);
        t = t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t;
        freq[i] = f / factor * (1.0 - t) + f * t;
    }
    if (size) *size = d->kind == TLLM_ROPE_YARN && factor > 1.0 ? 1.0 + 0.1 * tinyi_log64(factor) : 1.0;
    return TINY_OK;
}

TINY_API tiny_status tllm_alibi_slopes(tiny_ctx *ctx, tiny_idx n_head, float most, float *slope)
{
    tiny_idx h;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (n_head < 1 || n_head > 1 << 20 || !(most > 0.0f && most < 1000.0f) || !slope)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "alibi: slopes of %td heads up to 2^-%g: a head, an exponent above 0 and a result pointer are needed",
            n_head, (double)most);
    for (h = 0; h < n_head; h++) slope[h] = tinyi_alibi_slope(most, n_head, h);
    return TINY_OK;
}
TINY_REF_END
