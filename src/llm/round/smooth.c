/* src/llm/round/smooth.c - SmoothQuant, and linear layers with 8-bit weights and inputs
 *
 * Paper    G. Xiao, J. Lin, M. Seznec, H. Wu, J. Demouth, S. Han, "SmoothQuant: accurate and efficient post-training
 *          quantization for large language models", 2022 (arXiv 2211.10438), eq. 4; granularities O1 (a scale for each
 *          token) and O3 (one for all, calibrated), weights by rows
 * Formula  s_j = max|x_j|^alpha / max|w_j|^(1 - alpha), in double, at least 1e-5, max|w_j| at least 1e-5; (W diag(s))
 *          (x / s) = W x. int8: scale = max / 127, code = clamp(rint(v / scale), -128, 127), rint to even; y =
 *          (float)(sum of codes) s_x s_w + bias
 * Fast     two passes over a row in the first-level cache, maximum and codes, by the kernels of reductions and
 *          conversions; the product is tiny_matmul_i8. Codes, scales and sums have the same bits on every target
 * Cost     inputs: 5 bytes per number; product: rows n tokens multiply-adds of bytes; weights take a quarter of f32
 * Error    half a scale per number; the sums are exact (n is at most TLLM_W8A8_MOST); y is rounded at each of its
 *          steps, by the reference once
 * Left out scales of whole tensors for weights, which lose more and gain nothing; scales as halves: one float per row
 *          costs nothing */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/smooth.h"
#include "llm/round/grid_inside.h"
#include "math/elem.h"
#include "math/matmul.h"
#include "math/table_inside.h"

#define TINYI_SMOOTH_LEAST 1e-5

/* ---- factors ----------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static float tinyi_smooth_factor(double alpha, double x, double w)
{
    double s;
    if (x == 0.0 || w == 0.0) return 1.0f;
    s = tinyi_exp64(alpha * tinyi_log64(x) - (1.0 - alpha) * tinyi_log64(TINYI_MAX(w, TINYI_SMOOTH_LEAST)));
    return (float)TINYI_MAX(s, TINYI_SMOOTH_LEAST);
}
TINY_REF_END

TINY_API tiny_status tllm_smooth_factors(tiny_ctx *ctx, float alpha, const float *x_most, const float *w_most,
                                         tiny_idx n, float *s)
{
    tiny_idx j;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!x_most || !w_most || !s || n < 1)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "smooth: factors of %td inputs: x_most, w_most and a result pointer are needed", n);
    if (!(alpha >= 0.0f && alpha <= 1.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "smooth: alpha is %g; the limits are 0 and 1", (double)alpha);
    for (j = 0; j < n; j++)
        if (!(x_most[j] >= 0.0f && x_most[j] <= 3e38f && w_most[j] >= 0.0f && w_most[j] <= 3e38f))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "smooth: input %td: the largest are %g and %g; both must be finite and at least 0", j,
                              (double)x_most[j], (double)w_most[j]);
    for (j = 0; j < n; j++) s[j] = tinyi_smooth_factor((double)alpha, (double)x_most[j], (double)w_most[j]);
    return TINY_OK;
}

TINY_API tiny_status tllm_smooth_largest(tiny_ctx *ctx, const float *w, tiny_idx rows, tiny_idx n, float *most)
{
    tiny_idx r, j;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!w || !most || rows < 0 || n < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "smooth: the largest of %td rows of %td weights: weights and a result pointer are needed",
                          rows, n);
    for (r = 0; r < rows; r++)
        if ((j = tinyi_plain_strange(w + r * n, n)) < n)
            return tinyi_fail(ctx, TINY_E_NUMERIC, "smooth: the weight in row %td, input %td is %g", r, j,
                              (double)w[r * n + j]);
    for (r = 0; r < rows; r++)
        for (j = 0; j < n; j++) {
            const float a = w[r * n + j] < 0.0f ? -w[r * n + j] : w[r * n + j];
            if (a > most[j]) most[j] = a;
        }
    return TINY_OK;
}

TINY_API tiny_status tllm_smooth_columns(tiny_ctx *ctx, float *w, tiny_idx rows, tiny_idx n, const float *s)
{
    tiny_idx r, j;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!w || !s || rows < 0 || n < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "smooth: %td rows of %td weights and their factors are needed", rows,
                          n);
    for (r = 0; r < rows; r++)
        for (j = 0; j < n; j++) w[r * n + j] *= s[j];
    return TINY_OK;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

typedef struct tinyi_w8a8_job {
    const float *x;
    tiny_idx rows, n, ld, strange;
    int plain;
    float most;
    const tllm_w8a8 *q;
} tinyi_w8a8_job;

TINY_REF_BEGIN
static float tinyi_w8a8_scale(float most)
{
    const float s = most / 127.0f;
    return s > 0.0f ? s : 1.0f;             /* nothing but zeros, or so small that no scale is smaller: codes 0 */
}
static float tinyi_w8a8_largest(const float *x, tiny_idx n)
{
    float most = 0.0f;
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const float a = x[i] < 0.0f ? -x[i] : x[i];
        if (!(a <= most)) most = a;         /* a NaN stays */
        if (most != most) return most;
    }
    return most;
}
static void tinyi_w8a8_codes(int8_t *to, const float *x, tiny_idx n, float scale)
{
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const float v = x[i] / scale, c = v > -128.0f ? v < 127.0f ? v : 127.0f : -128.0f;
        to[i] = (int8_t)(int)((c + 12582912.0f) - 12582912.0f);
    }
}
TINY_REF_END

static void tinyi_w8a8_team(tiny_team *team, void *arg)
{
    tinyi_w8a8_job *j = (tinyi_w8a8_job *)arg;
    tiny_idx r, r1;
    while (tiny_take(team, j->rows, 1 + 16384 / j->n, &r, &r1))
        for (; r < r1; r++) {
            const float *x = j->x + r * j->ld;
            int8_t *to = j->q->code + r * j->n;
            float most, low;
            if (j->plain) most = tinyi_w8a8_largest(x, j->n);
            else {
                most = TINYI_K(team, max_f32)(x, (size_t)j->n);
                low = -TINYI_K(team, min_f32)(x, (size_t)j->n);
                if (!(low <= most)) most = low;
            }
            if (!(most - most == 0.0f)) {
                tinyi_plain_first(&j->strange, 1 + r);
                continue;
            }
            j->q->scale[r] = tinyi_w8a8_scale(j->most > 0.0f ? j->most : most);
            if (j->plain) tinyi_w8a8_codes(to, x, j->n, j->q->scale[r]);
            else TINYI_K(team, quantize_i8)(to, x, (size_t)j->n, j->q->scale[r]);
        }
}

static tiny_status tinyi_w8a8_run(tiny_ctx *ctx, const char *what, tinyi_w8a8_job *j)
{
    tiny_idx at;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!j->x || !j->q || !j->q->code || !j->q->scale)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "w8a8: %s, codes and scales are needed, but one is NULL", what);
    if (j->rows < 0 || j->n < 1 || j->ld < j->n)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "w8a8: %td rows of %td %s cannot be %td apart", j->rows, j->n, what,
                          j->ld);
    if (j->n > TLLM_W8A8_MOST)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "w8a8: rows of %td %s; with more than %d a sum of products may overflow 32 bits", j->n,
                          what, (int)TLLM_W8A8_MOST);
    j->plain = ctx->target == TINY_TARGET_REFERENCE;
    st = tiny_parallel_loose(ctx, j->rows * j->n < 16384 ? 1 : 0, 0, 0, tinyi_w8a8_team, j);
    if (st || !j->strange) return st;
    j->x += (j->strange - 1) * j->ld;
    at = tinyi_plain_strange(j->x, j->n);
    return tinyi_fail(ctx, TINY_E_NUMERIC, "w8a8: number %td in row %td of the %s is %g", at, j->strange - 1, what,
                      (double)j->x[at]);
}

TINY_API tiny_status tllm_w8a8_weights(tiny_ctx *ctx, const float *w, tiny_idx rows, tiny_idx n, const tllm_w8a8 *q)
{
    tinyi_w8a8_job j;
    memset(&j, 0, sizeof j);
    j.x = w;
    j.rows = rows;
    j.n = j.ld = n;
    j.q = q;
    return tinyi_w8a8_run(ctx, "weights", &j);
}

TINY_API tiny_status tllm_w8a8_inputs(tiny_ctx *ctx, const float *x, tiny_idx tokens, tiny_idx n, tiny_idx ld,
                                      float most, const tllm_w8a8 *q)
{
    tinyi_w8a8_job j;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!(most >= 0.0f && most <= 3e38f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "w8a8: the calibrated maximum is %g; it must be finite, or 0 for a maximum per token",
                          (double)most);
    memset(&j, 0, sizeof j);
    j.x = x;
    j.rows = tokens;
    j.n = n;
    j.ld = ld;
    j.most = most;
    j.q = q;
    return tinyi_w8a8_run(ctx, "inputs", &j);
}

TINY_API tiny_status tllm_w8a8_product(tiny_ctx *ctx, const tllm_w8a8 *x, tiny_idx tokens, const tllm_w8a8 *w,
                                       tiny_idx rows, tiny_idx n, const float *bias, float *y, tiny_idx ld)
{
    tiny_tensor a, b, sa, sb, tb, ty;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!x || !x->code || !x->scale || !w || !w->code || !w->scale || !y)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "w8a8: inputs, weights and a result pointer are needed, but one is NULL");
    if (tokens < 0 || rows < 1 || n < 1 || ld < rows)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "w8a8: %td tokens of %td inputs to %td outputs cannot be %td apart",
                          tokens, n, rows, ld);
    if (n > TLLM_W8A8_MOST)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "w8a8: rows of %td inputs; with more than %d a sum of products may overflow 32 bits", n,
                          (int)TLLM_W8A8_MOST);
    a = tiny_tensor_2d(x->code, TINY_I8, tokens, n);
    b = tiny_tensor_swap(tiny_tensor_2d(w->code, TINY_I8, rows, n), 0, 1);
    sa = tiny_tensor_1d(x->scale, TINY_F32, tokens);
    sb = tiny_tensor_1d(w->scale, TINY_F32, rows);
    tb = tiny_tensor_1d((void *)(uintptr_t)bias, TINY_F32, rows);
    ty = tiny_tensor_2d(y, TINY_F32, tokens, rows);
    ty.stride[0] = ld;
    return tiny_matmul_i8(ctx, &a, &b, &sa, &sb, bias ? &tb : NULL, TINY_ACT_NONE, &ty);
}

