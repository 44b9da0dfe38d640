/* src/llm/round/plain.c - plain rounding of weights
 *
 * Papers   the conventions of E. Frantar et al., "GPTQ", 2022 (arXiv 2210.17323) and of int8 products (G. Xiao et al.,
 *          arXiv 2211.10438)
 * Formula  S1: s = half(max|w| / (2^(b-1) - 1)), z = 2^(b-1); S2: s = half(2 max|w| / (2^b - 1)), z = 2^(b-1);
 *          ASYM: lo = min(0, min w), hi = max(0, max w), s = half((hi - lo) / (2^b - 1)), z = clamp(rint(-lo / s), 0,
 *          2^b - 1); u = clamp(rint(w / s) + z, 0, 2^b - 1), w' = s (u - z); rint to even. s = 0 becomes 1, and every
 *          code the zero.
 *          Clip: for p = 1 - i/100, i = 0 .. clip, the same of p lo, p hi; the first p of least sum of h (w' - w)^2.
 * Data     a group of zeros under ASYM is lo = -1, hi = 1: a scale, and codes at the zero
 * Fast     the threads of the context take rows, each with the plain code, which divides: about 0.2 thousand million
 *          weights per second and thread, faster than a disk delivers them. The same bits as the reference on every
 *          target
 * Cost     2 passes over w; with a clip search clip + 2
 * Left out a search in the metric of U^-1, which needs a triangle for each group; kernels for each target */
#include <string.h>
#include "core/state_inside.h"
#include "core/half_inside.h"
#include "llm/round/plain.h"
#include "llm/round/grid_inside.h"

static const char *const tinyi_plain_names[TLLM_PLAIN_KINDS] = { "S2", "S1", "ASYM" };

TINYI_FN tllm_plain_desc tinyi_plain_whole(const tllm_plain_desc *desc)
{
    tllm_plain_desc d;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (!d.bits) d.bits = 4;
    if (!d.group) d.group = 128;
    return d;
}

TINY_REF_BEGIN
/* to the nearest integer, halves to even; |x| below 2^22 */
TINYI_INLINE float tinyi_plain_rint(float x) { return (x + 12582912.0f) - 12582912.0f; }

TINYI_FN tiny_idx tinyi_plain_strange(const float *w, tiny_idx n)
{
    tiny_idx i;
    for (i = 0; i < n && w[i] - w[i] == 0.0f; i++) {}
    return i;
}

/* u - z as a number; rounding and clamping to whole bounds may change places, and so no quotient is too large to
 * round */
TINYI_INLINE float tinyi_plain_level(float w, float scale, float low, float high)
{
    const float v = w / scale;
    return tinyi_plain_rint(v > low ? v < high ? v : high : low);
}
TINY_API uint8_t tllm_plain_code(float w, float scale, int zero, int bits)
{
    return (uint8_t)(zero + (int)tinyi_plain_level(w, scale, (float)-zero, (float)((1 << bits) - 1 - zero)));
}

/* lo .. hi to scale and zero; 0: no half is so large */
static int tinyi_plain_scale(const tllm_plain_desc *d, float lo, float hi, uint16_t *scale, int *zero)
{
    const int top = (1 << d->bits) - 1, middle = 1 << (d->bits - 1);
    const float most = hi > -lo ? hi : -lo;
    const float s = d->kind == TLLM_PLAIN_S1   ? most / (float)(middle - 1)
                    : d->kind == TLLM_PLAIN_S2 ? most / (float)top * 2.0f
                                               : hi / (float)top - lo / (float)top;
    float half;
    *scale = tinyi_f32_to_f16(s);
    if ((*scale & 0x7fffu) >= 0x7c00u) return 0;
    *zero = middle;
    if (!(*scale & 0x7fffu)) *scale = 0x3c00u;
    else if (d->kind == TLLM_PLAIN_ASYM) {
        half = tinyi_f16_to_f32(*scale);
        half = tinyi_plain_rint(-lo / half);
        *zero = half > (float)top ? top : (int)half;
    }
    return 1;
}

TINY_API int tllm_plain_fit(const tllm_plain_desc *desc, const float *w, tiny_idx n, tiny_idx step, const float *h,
                            uint16_t *scale, uint8_t *zero)
{
    const tllm_plain_desc d = tinyi_plain_whole(desc);
    const int top = (1 << d.bits) - 1;
    float lo = 0.0f, hi = 0.0f;
    uint16_t best = 0, s = 0;
    int i, z = 0, best_zero = 0;
    double least = 0.0;
    tiny_idx k;
    if ((n > 0 && !w) || !scale || !zero) return 0;
    for (k = 0; k < n; k++) {
        const float v = w[k * step];
        if (!(v - v == 0.0f)) return 0;
        if (v < lo) lo = v;
        if (v > hi) hi = v;
    }
    if (d.kind == TLLM_PLAIN_ASYM && lo == 0.0f && hi == 0.0f) {
        lo = -1.0f;
        hi = 1.0f;
    }
    if (!tinyi_plain_scale(&d, lo, hi, &best, &best_zero)) return 0;
    for (i = 0; i <= d.clip && d.clip; i++) {
        const float p = 1.0f - (float)i / 100.0f;
        double sum = 0.0;
        float f;
        if (!tinyi_plain_scale(&d, p * lo, p * hi, &s, &z)) return 0;
        f = tinyi_f16_to_f32(s);
        for (k = 0; k < n; k++) {
            const float off = f * tinyi_plain_level(w[k * step], f, (float)-z, (float)(top - z)) - w[k * step];
            sum += (double)off * (double)off * (h ? (double)h[k] : 1.0);
        }
        if (i && !(sum < least)) continue;
        least = sum;
        best = s;
        best_zero = z;
    }
    *scale = best;
    *zero = (uint8_t)best_zero;
    return 1;
}
TINY_REF_END

TINY_API tiny_status tllm_plain_size(tiny_ctx *ctx, const tllm_plain_desc *desc, tiny_idx rows, tiny_idx n,
                                     tllm_plain_sizes *out)
{
    const tllm_plain_desc d = tinyi_plain_whole(desc);
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "plain: the result pointer is NULL");
    if (d.kind < 0 || d.kind >= TLLM_PLAIN_KINDS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "plain: convention %d; there are S2 (0), S1 (1) and ASYM (2)", d.kind);
    if (d.bits < 1 || d.bits > 8)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "plain: codes of %d bits; the limits are 1 and 8", d.bits);
    if (d.kind == TLLM_PLAIN_S1 && d.bits == 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "plain: S1 with 1 bit has no level other than 0; use S2 or ASYM");
    if (d.group < TLLM_PLAIN_TENSOR)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "plain: groups of %td inputs; use at least 1, TLLM_PLAIN_ROW or TLLM_PLAIN_TENSOR", d.group);
    if (d.clip < 0 || d.clip > 99)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "plain: clip is %d; the limits are 0 and 99", d.clip);
    if (rows < 1 || n < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "plain: a layer of %td rows of %td inputs; at least 1 of each is needed", rows, n);
    if (!tinyi_size_mul((size_t)rows, (size_t)n, &out->codes) || out->codes > (size_t)TINY_IDX_MAX / 16)
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "plain: %td rows of %td inputs are more than this machine can address",
                          rows, n);
    out->group = d.group < 0 || d.group > n ? n : d.group;
    out->groups = d.group == TLLM_PLAIN_TENSOR ? 1 : (n - 1) / out->group + 1;
    out->scales = d.group == TLLM_PLAIN_TENSOR ? 1 : (size_t)rows * (size_t)out->groups;
    return TINY_OK;
}

typedef struct tinyi_plain_job {
    tllm_plain_desc d;
    tllm_plain_sizes size;
    const float *w, *h;
    float *back;
    const tllm_plain *q;
    tiny_idx rows, n;
    tiny_idx strange;                       /* 1 + the first scale that could not be had, the first code that is none */
} tinyi_plain_job;

/* Where scale i of a row is. */
TINYI_INLINE size_t tinyi_plain_at(const tinyi_plain_job *j, tiny_idx row, tiny_idx group)
{
    return j->d.group == TLLM_PLAIN_TENSOR ? 0 : (size_t)row * (size_t)j->size.groups + (size_t)group;
}

/* the lowest reported value, in any order of threads; 0: none was reported */
TINYI_FN void tinyi_plain_first(tiny_idx *first, tiny_idx at)
{
    tiny_idx seen = tinyi_atomic_get(first);
    while ((!seen || at < seen) && !tinyi_atomic_swap_if(first, seen, at)) seen = tinyi_atomic_get(first);
}

static void tinyi_plain_round_team(tiny_team *team, void *arg)
{
    tinyi_plain_job *j = (tinyi_plain_job *)arg;
    tiny_idx r, r1, g, k;
    while (tiny_take(team, j->rows, 1 + 16384 / j->n, &r, &r1))
        for (; r < r1; r++)
            for (g = 0; g < j->size.groups; g++) {
                const tiny_idx k0 = g * j->size.group, n = TINYI_MIN(j->n - k0, j->size.group);
                const float *w = j->w + r * j->n + k0;
                uint8_t *code = j->q->code + r * j->n + k0;
                const size_t at = tinyi_plain_at(j, r, g);
                float s;
                int z;
                if (j->d.group != TLLM_PLAIN_TENSOR &&
                    !tllm_plain_fit(&j->d, w, n, 1, j->h ? j->h + k0 : NULL, j->q->scale + at, j->q->zero + at)) {
                    tinyi_plain_first(&j->strange, (tiny_idx)at + 1);
                    continue;
                }
                s = tinyi_f16_to_f32(j->q->scale[at]);
                z = j->q->zero[at];
                for (k = 0; k < n; k++) code[k] = tllm_plain_code(w[k], s, z, j->d.bits);
            }
}

static tiny_status tinyi_plain_begin(tiny_ctx *ctx, tinyi_plain_job *j, const tllm_plain_desc *desc, const void *w,
                                     tiny_idx rows, tiny_idx n, const tllm_plain *q)
{
    tiny_status st;
    memset(j, 0, sizeof *j);
    st = tllm_plain_size(ctx, desc, rows, n, &j->size);
    if (st) return st;
    if (!w || !q || !q->code || !q->scale || !q->zero)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "plain: weights, codes, scales and zeros are needed, but one is NULL");
    j->d = tinyi_plain_whole(desc);
    j->rows = rows;
    j->n = n;
    j->q = q;
    return TINY_OK;
}

/* why a scale could not be had: numbers k0 to k1 of a row */
static tiny_status tinyi_plain_why(tiny_ctx *ctx, const tinyi_plain_job *j, tiny_idx row, tiny_idx k0, tiny_idx n)
{
    const float *w = j->w + row * j->n + k0;
    const tiny_idx at = tinyi_plain_strange(w, n);
    float most = 0.0f;
    tiny_idx k;
    if (at < n)
        return tinyi_fail(ctx, TINY_E_NUMERIC, "plain: the weight in row %td, input %td is %g", row, k0 + at,
                          (double)w[at]);
    for (k = 0; k < n; k++)
        if ((w[k] < 0.0f ? -w[k] : w[k]) > most) most = w[k] < 0.0f ? -w[k] : w[k];
    return tinyi_fail(ctx, TINY_E_NUMERIC,
                      "plain: row %td, inputs %td to %td: a magnitude of %g in %d bits (%s) needs a scale above 65504, "
                      "the largest half",
                      row, k0, k0 + n - 1, (double)most, j->d.bits, tinyi_plain_names[j->d.kind]);
}

TINY_API tiny_status tllm_plain_round(tiny_ctx *ctx, const tllm_plain_desc *desc, const float *w, tiny_idx rows,
                                      tiny_idx n, const float *h, const tllm_plain *q)
{
    tinyi_plain_job j;
    tiny_idx i;
    tiny_status st = tinyi_plain_begin(ctx, &j, desc, w, rows, n, q);
    if (st) return st;
    j.w = w;
    j.h = h;
    for (i = 0; h && i < n; i++)
        if (!(h[i] >= 0.0f && h[i] <= 3e38f))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "plain: the weight of errors of input %td is %g; it must be finite and at least 0", i,
                              (double)h[i]);
    if (j.d.group == TLLM_PLAIN_TENSOR && h && j.d.clip)
        return tinyi_fail(
            ctx, TINY_E_UNSUPPORTED,
            "plain: a clip search with weights of errors needs a scale for a row or a group, not one for the tensor");
    if (j.d.group == TLLM_PLAIN_TENSOR && !tllm_plain_fit(&j.d, w, rows * n, 1, NULL, q->scale, q->zero)) {
        for (i = 0; i + 1 < rows && tllm_plain_fit(&j.d, w + i * n, n, 1, NULL, q->scale, q->zero); i++) {}
        return tinyi_plain_why(ctx, &j, i, 0, n);
    }
    st = tiny_parallel_loose(ctx, j.size.codes < 16384 ? 1 : 0, 0, 0, tinyi_plain_round_team, &j);
    if (st || !j.strange) return st;
    i = j.strange - 1;
    return tinyi_plain_why(ctx, &j, i / j.size.groups, i % j.size.groups * j.size.group,
                           TINYI_MIN(j.size.group, n - i % j.size.groups * j.size.group));
}

static void tinyi_plain_expand_team(tiny_team *team, void *arg)
{
    tinyi_plain_job *j = (tinyi_plain_job *)arg;
    const int top = (1 << j->d.bits) - 1;
    tiny_idx r, r1, g, k;
    while (tiny_take(team, j->rows, 1 + 16384 / j->n, &r, &r1))
        for (; r < r1; r++)
            for (g = 0; g < j->size.groups; g++) {
                const tiny_idx k0 = g * j->size.group, n = TINYI_MIN(j->n - k0, j->size.group);
                const uint8_t *code = j->q->code + r * j->n + k0;
                const size_t at = tinyi_plain_at(j, r, g);
                const float s = tinyi_f16_to_f32(j->q->scale[at]);
                const int z = j->q->zero[at];
                for (k = 0; k < n; k++) {
                    if (code[k] > top) tinyi_plain_first(&j->strange, 1 + r * j->n + k0 + k);
                    j->back[r * j->n + k0 + k] = s * (float)((int)code[k] - z);
                }
            }
}

TINY_API tiny_status tllm_plain_expand(tiny_ctx *ctx, const tllm_plain_desc *desc, const tllm_plain *q, tiny_idx rows,
                                       tiny_idx n, float *back)
{
    tinyi_plain_job j;
    tiny_status st = tinyi_plain_begin(ctx, &j, desc, back, rows, n, q);
    if (st) return st;
    j.back = back;
    st = tiny_parallel_loose(ctx, j.size.codes < 16384 ? 1 : 0, 0, 0, tinyi_plain_expand_team, &j);
    if (st || !j.strange) return st;
    j.strange--;
    return tinyi_fail(ctx, TINY_E_FORMAT, "plain: code %d in row %td, input %td; with %d bits the largest is %d",
                      q->code[j.strange], j.strange / n, j.strange % n, j.d.bits, (1 << j.d.bits) - 1);
}

