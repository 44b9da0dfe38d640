/* src/llm/round/awq.c - AWQ
 *
 * Paper    J. Lin, J. Tang, H. Tang, S. Yang, W.-M. Chen, W.-C. Wang, G. Xiao, X. Dang, C. Gan, S. Han, "AWQ:
 *          activation-aware weight quantization for LLM compression and acceleration", 2023 (arXiv 2306.00978), eq. 4
 *          and 5; the clip search of the authors' program
 * Formula  a_j = mean |x_j|; alpha = i / steps: s_j = max(a_j^alpha, 1e-4), s /= sqrt(max s min s); W' = Q(W diag(s))
 *          diag(1 / s); the first alpha with the least ||X (W - W')^T||^2. Clip, of one group g of a row: p = 1 - i /
 *          (2 clips); Q(clamp(w, -p max|w|, p max|w|)); the first p with the least sum over tokens of (x_g (w - w'))^2
 * Fast     the differences of 128 rows are multiplied with the samples in f32; the squares are added in double, row by
 *          row. The clip search is the same code on every target: d^T H_g d with H_g of the group's own inputs, in
 *          double; if a group is longer than the number of samples, the samples themselves
 * Cost     scale: steps rows n tokens multiply-adds, and `steps` roundings of all weights; clip: clips rows n group,
 *          and `clips` roundings
 * Error    fast: that of a sum of n products in f32. The bits do not depend on the number of threads
 * Left out comparing the outputs of a whole block (attention with its softmax) instead of its matrices, as the
 *          authors' program does for queries, keys and values */
#include <string.h>
#include "core/state_inside.h"
#include "core/half_inside.h"
#include "llm/round/awq.h"
#include "llm/round/grid_inside.h"
#include "math/elem.h"
#include "math/matmul.h"

#define TINYI_AWQ_LEAST 1e-4
#define TINYI_AWQ_ROWS 128
#define TINYI_AWQ_LONGEST 64                /* numbers of a block that are cut */

typedef struct tinyi_awq {
    tllm_awq_desc d;
    const tllm_format *format;              /* blocks; NULL: codes of the grid */
    size_t row_bytes;
    tiny_idx group, groups;                 /* under one scale; in a row */
    const float *w, *v, *x, *s;
    tiny_idx rows, n, tokens;
    tiny_idx row0, some;                    /* these rows at once */
    int plain;                              /* the reference */
    float *off, *y;                         /* (TINYI_AWQ_ROWS, n), (TINYI_AWQ_ROWS, tokens) */
    double *row;                            /* (TINYI_AWQ_ROWS): their squares */
    double *h;                              /* clip: (groups, group, group), upper triangles */
    uint8_t *step;
    tiny_idx strange;                       /* 1 + the first row that has no finite codes */
} tinyi_awq;

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

/* what n numbers of a row (whole blocks, or one group) become; 0: a scale is no finite number. room: a row of bytes */
static int tinyi_awq_round(const tinyi_awq *a, const float *w, tiny_idx n, float *to, unsigned char *room)
{
    tiny_idx i;
    if (a->format) {
        a->format->pack(w, room, (size_t)n, NULL);
        a->format->unpack(room, to, (size_t)n);
        return tinyi_plain_strange(to, n) == n;
    } else {
        uint16_t scale;
        uint8_t zero;
        float f;
        if (!tllm_plain_fit(&a->d.grid, w, n, 1, NULL, &scale, &zero)) return 0;
        f = tinyi_f16_to_f32(scale);
        for (i = 0; i < n; i++) to[i] = f * (float)((int)tllm_plain_code(w[i], f, zero, a->d.grid.bits) - (int)zero);
        return 1;
    }
}

TINY_REF_BEGIN
/* off = w - Q(w diag(s)) diag(1 / s); scaled, to: a row each */
static int tinyi_awq_off(const tinyi_awq *a, tiny_idx r, float *off, float *scaled, float *to, unsigned char *room)
{
    const float *w = a->w + r * a->n;
    tiny_idx i, g;
    int ok = 1;
    if (!a->s) {
        for (i = 0; i < a->n; i++) off[i] = w[i] - (a->v ? a->v[r * a->n + i] : 0.0f);
        return 1;
    }
    for (i = 0; i < a->n; i++) scaled[i] = w[i] * a->s[i];
    if (a->format) ok = tinyi_awq_round(a, scaled, a->n, to, room);
    else
        for (g = 0; g < a->groups && ok; g++)
            ok = tinyi_awq_round(a, scaled + g * a->group, TINYI_MIN(a->group, a->n - g * a->group), to + g * a->group,
                                 room);
    for (i = 0; i < a->n && ok; i++) off[i] = w[i] - to[i] / a->s[i];
    return ok;
}
static double tinyi_awq_squares(const float *x, tiny_idx n)
{
    double sum = 0.0;
    tiny_idx i;
    for (i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}
/* the formula: one output after the other */
static double tinyi_awq_outputs(const tinyi_awq *a, const float *off)
{
    double sum = 0.0;
    tiny_idx t, i;
    for (t = 0; t < a->tokens; t++) {
        double y = 0.0;
        for (i = 0; i < a->n; i++) y += (double)a->x[t * a->n + i] * (double)off[i];
        sum += y * y;
    }
    return sum;
}
TINY_REF_END

static void tinyi_awq_off_team(tiny_team *team, void *arg)
{
    tinyi_awq *a = (tinyi_awq *)arg;
    float *scaled = (float *)team->own, *to = scaled + a->n;
    tiny_idx r, r1;
    while (tiny_take(team, a->some, 1 + 4096 / a->n, &r, &r1))
        for (; r < r1; r++) {
            float *off = a->off + r * a->n;
            if (!tinyi_awq_off(a, a->row0 + r, off, scaled, to, (unsigned char *)(to + a->n)))
                tinyi_plain_first(&a->strange, 1 + a->row0 + r);
            else if (a->plain) a->row[r] = tinyi_awq_outputs(a, off);
        }
}
static void tinyi_awq_squares_team(tiny_team *team, void *arg)
{
    tinyi_awq *a = (tinyi_awq *)arg;
    tiny_idx r, r1;
    while (tiny_take(team, a->some, 4, &r, &r1))
        for (; r < r1; r++) a->row[r] = tinyi_awq_squares(a->y + r * a->tokens, a->tokens);
}

/* the loss of one matrix, added to *loss; a->strange: there is none */
static tiny_status tinyi_awq_sum(tiny_ctx *ctx, tinyi_awq *a, double *loss)
{
    const size_t own = (size_t)a->n * 2 * sizeof(float) + a->row_bytes;
    tiny_tensor off, x, y;
    tiny_idx r;
    tiny_status st = TINY_OK;
    a->strange = 0;
    for (a->row0 = 0; !st && !a->strange && a->row0 < a->rows; a->row0 += a->some) {
        const int alone = a->rows * a->n < 16384;
        a->some = TINYI_MIN(a->rows - a->row0, TINYI_AWQ_ROWS);
        st = tiny_parallel_loose(ctx, alone, 0, own, tinyi_awq_off_team, a);
        if (!st && !a->strange && !a->plain) {
            off = tiny_tensor_2d(a->off, TINY_F32, a->some, a->n);
            x = tiny_tensor_swap(tiny_tensor_2d((void *)(uintptr_t)a->x, TINY_F32, a->tokens, a->n), 0, 1);
            y = tiny_tensor_2d(a->y, TINY_F32, a->some, a->tokens);
            st = tiny_matmul(ctx, &off, &x, NULL, TINY_ACT_NONE, &y);
            if (!st) st = tiny_parallel_loose(ctx, alone, 0, 0, tinyi_awq_squares_team, a);
        }
        for (r = 0; !st && !a->strange && r < a->some; r++) *loss += a->row[r];
    }
    return st;
}
static tiny_status tinyi_awq_open(tiny_ctx *ctx, tinyi_awq *a)
{
    a->plain = ctx->target == TINY_TARGET_REFERENCE;
    a->off = (float *)tinyi_alloc(ctx, (size_t)a->n, TINYI_AWQ_ROWS * sizeof *a->off);
    if (a->off) a->y = (float *)tinyi_alloc(ctx, (size_t)a->tokens, TINYI_AWQ_ROWS * sizeof *a->y);
    if (a->y) a->row = (double *)tinyi_alloc(ctx, TINYI_AWQ_ROWS, sizeof *a->row);
    return a->row ? TINY_OK : tiny_ctx_status(ctx);
}
static void tinyi_awq_close(tiny_ctx *ctx, tinyi_awq *a)
{
    tiny_free(ctx, a->row);
    tiny_free(ctx, a->y);
    tiny_free(ctx, a->off);
}

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

/* the whole desc; format and groups of one matrix */
static tiny_status tinyi_awq_check(tiny_ctx *ctx, tinyi_awq *a, const tllm_awq_desc *desc)
{
    memset(a, 0, sizeof *a);
    if (desc) a->d = *desc;
    a->d.grid = tinyi_plain_whole(&a->d.grid);
    if (!a->d.steps) a->d.steps = 20;
    if (!a->d.clips) a->d.clips = 20;
    if (a->d.steps < 1 || a->d.steps > 1000)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: %d powers to try; 1 to 1000", a->d.steps);
    if (a->d.clips < 1 || a->d.clips > 255)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: %d ranges to try; 1 to 255", a->d.clips);
    return TINY_OK;
}
static tiny_status tinyi_awq_layer(tiny_ctx *ctx, tinyi_awq *a, int format, const float *w, tiny_idx rows, tiny_idx n,
                                   const float *x, tiny_idx tokens)
{
    tllm_plain_desc whole;
    tllm_plain_sizes size;
    tiny_idx at, r;
    tiny_status st;
    memset(&whole, 0, sizeof whole);
    if (!w || !x) return tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: the %s are NULL", w ? "inputs" : "weights");
    if (tokens < 1) return tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: %td inputs; at least 1 is needed", tokens);
    st = tllm_plain_size(ctx, format ? &whole : &a->d.grid, rows, n, &size);
    if (!st) st = tllm_plain_size(ctx, &whole, tokens, n, &size);
    if (!st) st = tllm_plain_size(ctx, format ? &whole : &a->d.grid, rows, n, &size);
    if (st) return st;
    if (a->d.grid.group == TLLM_PLAIN_TENSOR && !format)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "awq: a scale for a row or a group is needed, not one for the tensor");
    a->format = NULL;
    a->row_bytes = 0;
    a->group = size.group;
    a->groups = size.groups;
    if (format) {
        a->format = tllm_format_of(format);
        if (!a->format || !a->format->pack ||
            a->format->flags & (TLLM_FORMAT_ACTIVATIONS | TLLM_FORMAT_WANTS_IMPORTANCE | TLLM_FORMAT_PLAIN))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                              "awq: %s (format %d) is not a block format that is packed without an importance",
                              a->format ? a->format->name : "no such format", format);
        a->row_bytes = tllm_format_bytes(a->format, (uint64_t)n);
        if (!a->row_bytes)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: rows of %td numbers are not whole blocks of %s, which has %d",
                              n, a->format->name, a->format->values);
        a->group = a->format->values;
        a->groups = n / a->group;
    }
    for (r = 0; r < rows; r++)
        if ((at = tinyi_plain_strange(w + r * n, n)) < n)
            return tinyi_fail(ctx, TINY_E_NUMERIC, "awq: the weight in row %td, input %td is %g", r, at,
                              (double)w[r * n + at]);
    for (r = 0; r < tokens; r++)
        if ((at = tinyi_plain_strange(x + r * n, n)) < n)
            return tinyi_fail(ctx, TINY_E_NUMERIC, "awq: input %td of token %td is %g", at, r, (double)x[r * n + at]);
    a->w = w;
    a->rows = rows;
    a->n = n;
    a->x = x;
    a->tokens = tokens;
    return TINY_OK;
}

TINY_API tiny_status tllm_awq_loss(tiny_ctx *ctx, const float *w, const float *v, tiny_idx rows, tiny_idx n,
                                   const float *x, tiny_idx tokens, double *loss)
{
    tinyi_awq a;
    double sum = 0.0;
    tiny_idx r, at;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!loss) return tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: the result pointer is NULL");
    st = tinyi_awq_check(ctx, &a, NULL);
    if (!st) st = tinyi_awq_layer(ctx, &a, 0, w, rows, n, x, tokens);
    if (st) return st;
    for (r = 0; v && r < rows; r++)
        if ((at = tinyi_plain_strange(v + r * n, n)) < n)
            return tinyi_fail(ctx, TINY_E_NUMERIC, "awq: the other weight in row %td, input %td is %g", r, at,
                              (double)v[r * n + at]);
    a.v = v;
    st = tinyi_awq_open(ctx, &a);
    if (!st) st = tinyi_awq_sum(ctx, &a, &sum);
    tinyi_awq_close(ctx, &a);
    if (!st && !(sum - sum == 0.0))
        st = tinyi_fail(ctx, TINY_E_NUMERIC,
                        "awq: weights and inputs are so large that their outputs are not finite floats");
    if (!st) *loss = sum;
    return st;
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static void tinyi_awq_factors(const float *mean, tiny_idx n, double alpha, float *s)
{
    double least = 0.0, most = 0.0, by;
    tiny_idx j;
    for (j = 0; j < n; j++) {
        double v;
        if (!(mean[j] > 0.0f)) continue;
        v = tinyi_exp64(alpha * tinyi_log64((double)mean[j]));
        v = TINYI_MAX(v, TINYI_AWQ_LEAST);
        if (most == 0.0 || v < least) least = v;
        most = TINYI_MAX(most, v);
        s[j] = (float)v;
    }
    by = most > 0.0 ? 1.0 / tinyi_sqrt(most * least) : 1.0;
    for (j = 0; j < n; j++) s[j] = most > 0.0 ? (float)((mean[j] > 0.0f ? (double)s[j] : least) * by) : 1.0f;
}
TINY_REF_END

/* the loss of all matrices with factors s; -1: one of them has no finite codes so */
static tiny_status tinyi_awq_try(tiny_ctx *ctx, tinyi_awq *a, const tllm_awq_matrix *m, int n_m, const float *x,
                                 tiny_idx tokens, const float *s, double *loss)
{
    const tiny_idx n = a->n;
    tiny_status st = TINY_OK;
    int k;
    *loss = 0.0;
    for (k = 0; !st && k < n_m; k++) {
        a->format = m[k].format ? tllm_format_of(m[k].format) : NULL;
        a->row_bytes = a->format ? tllm_format_bytes(a->format, (uint64_t)n) : 0;
        a->group = a->d.grid.group < 0 || a->d.grid.group > n ? n : a->d.grid.group;
        a->groups = (n - 1) / a->group + 1;
        a->w = m[k].w;
        a->rows = m[k].rows;
        a->x = x;
        a->tokens = tokens;
        a->s = s;
        st = tinyi_awq_sum(ctx, a, loss);
        if (!st && (a->strange || !(*loss - *loss == 0.0))) {
            *loss = -1.0;
            break;
        }
    }
    return st;
}

TINY_API tiny_status tllm_awq_scale(tiny_ctx *ctx, const tllm_awq_desc *desc, const tllm_awq_matrix *m, int n_m,
                                    tiny_idx n, const float *mean, const float *x, tiny_idx tokens, float *s,
                                    tllm_awq_about *about)
{
    tinyi_awq a;
    tllm_awq_about best;
    float *f;
    tiny_idx j;
    int i, k, found = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&best, 0, sizeof best);
    if (!m || n_m < 1 || !mean || !s || n < 1)
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "awq: at least one matrix, the mean magnitudes of its inputs and a result pointer are needed");
    st = tinyi_awq_check(ctx, &a, desc);
    for (k = 0; !st && k < n_m; k++) st = tinyi_awq_layer(ctx, &a, m[k].format, m[k].w, m[k].rows, n, x, tokens);
    if (st) return st;
    for (j = 0; j < n; j++)
        if (!(mean[j] >= 0.0f && mean[j] <= 3e38f))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "awq: the mean magnitude of input %td is %g; it must be finite and at least 0", j,
                              (double)mean[j]);
    f = (float *)tinyi_alloc(ctx, (size_t)n, sizeof *f);
    st = f ? tinyi_awq_open(ctx, &a) : tiny_ctx_status(ctx);
    for (i = 0; !st && i < a.d.steps; i++) {
        const double alpha = (double)i / (double)a.d.steps;
        double loss = 0.0;
        tinyi_awq_factors(mean, n, alpha, f);
        st = tinyi_awq_try(ctx, &a, m, n_m, x, tokens, f, &loss);
        if (st) break;
        if (i == 0) best.plain = loss;
        if (loss < 0.0 || (found && !(loss < best.loss))) continue;
        found = 1;
        best.alpha = alpha;
        best.loss = loss;
        memcpy(s, f, (size_t)n * sizeof *s);
    }
    if (!st && !found)
        st = tinyi_fail(ctx, TINY_E_NUMERIC,
                        "awq: the weights are so large that their scales are infinite with every factor");
    tinyi_awq_close(ctx, &a);
    tiny_free(ctx, f);
    if (!st && about) *about = best;
    return st;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

TINY_REF_BEGIN
/* sums of products of the inputs of one group, the upper triangle */
static void tinyi_awq_products(const tinyi_awq *a, tiny_idx g, double *h)
{
    const tiny_idx i0 = g * a->group, n = TINYI_MIN(a->group, a->n - i0);
    tiny_idx t, i, j;
    for (i = 0; i < n * n; i++) h[i] = 0.0;
    for (t = 0; t < a->tokens; t++) {
        const float *x = a->x + t * a->n + i0;
        for (i = 0; i < n; i++)
            for (j = i; j < n; j++) h[i * n + j] += (double)x[i] * (double)x[j];
    }
}
static double tinyi_awq_group_loss(const tinyi_awq *a, tiny_idx g, tiny_idx n, const float *w, const float *to)
{
    double sum = 0.0;
    tiny_idx t, i, j;
    if (a->h) {
        const double *h = a->h + g * a->group * a->group;
        for (i = 0; i < n; i++) {
            const double d = (double)w[i] - (double)to[i];
            double s = 0.5 * h[i * n + i] * d;
            for (j = i + 1; j < n; j++) s += h[i * n + j] * ((double)w[j] - (double)to[j]);
            sum += d * s;
        }
        return 2.0 * sum;
    }
    for (t = 0; t < a->tokens; t++) {
        const float *x = a->x + t * a->n + g * a->group;
        double y = 0.0;
        for (i = 0; i < n; i++) y += (double)x[i] * ((double)w[i] - (double)to[i]);
        sum += y * y;
    }
    return sum;
}
static float tinyi_awq_most(const float *w, tiny_idx n)
{
    float most = 0.0f;
    tiny_idx i;
    for (i = 0; i < n; i++)
        if ((w[i] < 0.0f ? -w[i] : w[i]) > most) most = w[i] < 0.0f ? -w[i] : w[i];
    return most;
}
/* to: n weights held within p of their largest; p = 1 - step / (2 clips) */
static void tinyi_awq_hold(const tinyi_awq *a, const float *w, tiny_idx n, int step, float *to)
{
    const float bound = tinyi_awq_most(w, n) * (1.0f - 0.5f * (float)step / (float)a->d.clips);
    tiny_idx i;
    for (i = 0; i < n; i++) to[i] = w[i] > bound ? bound : w[i] < -bound ? -bound : w[i];
}
TINY_REF_END

static void tinyi_awq_products_team(tiny_team *team, void *arg)
{
    tinyi_awq *a = (tinyi_awq *)arg;
    tiny_idx g, g1;
    while (tiny_take(team, a->groups, 1, &g, &g1))
        for (; g < g1; g++) tinyi_awq_products(a, g, a->h + g * a->group * a->group);
}
static void tinyi_awq_clip_team(tiny_team *team, void *arg)
{
    tinyi_awq *a = (tinyi_awq *)arg;
    float *held = (float *)team->own, *to = held + a->group;
    unsigned char *room = (unsigned char *)(to + a->group);
    tiny_idx r, r1, g;
    int i;
    while (tiny_take(team, a->rows, 1 + 512 / a->n, &r, &r1))
        for (; r < r1; r++)
            for (g = 0; g < a->groups; g++) {
                const float *w = a->w + r * a->n + g * a->group;
                const tiny_idx n = TINYI_MIN(a->group, a->n - g * a->group);
                double least = 0.0;
                uint8_t best = 0;
                int found = 0;
                for (i = 0; i <= a->d.clips; i++) {
                    double loss;
                    tinyi_awq_hold(a, w, n, i, held);
                    if (!tinyi_awq_round(a, held, n, to, room)) continue;
                    loss = tinyi_awq_group_loss(a, g, n, w, to);
                    if (found && !(loss < least)) continue;
                    found = 1;
                    least = loss;
                    best = (uint8_t)i;
                }
                if (!found) tinyi_plain_first(&a->strange, 1 + r);
                a->step[r * a->groups + g] = best;
            }
}

TINY_API tiny_idx tllm_awq_groups(const tllm_awq_desc *desc, int format, tiny_idx n)
{
    const tllm_format *f = format ? tllm_format_of(format) : NULL;
    const tllm_plain_desc grid = tinyi_plain_whole(desc ? &desc->grid : NULL);
    if (n < 1 || (format ? !f || !f->pack || f->values < 2 || f->values > TINYI_AWQ_LONGEST || n % f->values
                         : grid.group == TLLM_PLAIN_TENSOR))
        return 0;
    if (format) return n / f->values;
    return grid.group < 0 || grid.group > n ? 1 : (n - 1) / grid.group + 1;
}
static tiny_status tinyi_awq_clips(tiny_ctx *ctx, tinyi_awq *a, const tllm_awq_desc *desc, int format, const float *w,
                                   tiny_idx rows, tiny_idx n, const float *x, tiny_idx tokens, const uint8_t *step)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_awq_check(ctx, a, desc);
    if (!st) st = tinyi_awq_layer(ctx, a, format, w, rows, n, x, tokens);
    if (!st && !step) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: the steps or the result pointer is NULL");
    if (!st && !tllm_awq_groups(&a->d, format, n))
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                        "awq: blocks of %d numbers search their own scales; only blocks up to %d can be clipped",
                        a->format->values, TINYI_AWQ_LONGEST);
    return st;
}

TINY_API tiny_status tllm_awq_clip(tiny_ctx *ctx, const tllm_awq_desc *desc, int format, const float *w, tiny_idx rows,
                                   tiny_idx n, const float *x, tiny_idx tokens, uint8_t *step)
{
    tinyi_awq a;
    tiny_status st = tinyi_awq_clips(ctx, &a, desc, format, w, rows, n, x, tokens, step);
    if (st) return st;
    a.step = step;
    if (a.group <= tokens) {
        a.h = (double *)tinyi_alloc(ctx, (size_t)a.groups * (size_t)a.group, (size_t)a.group * sizeof *a.h);
        if (!a.h) return tiny_ctx_status(ctx);
        st = tiny_parallel_loose(ctx, 0, 0, 0, tinyi_awq_products_team, &a);
    }
    if (!st)
        st = tiny_parallel_loose(ctx, 0, 0, 2 * (size_t)a.group * sizeof(float) + a.row_bytes, tinyi_awq_clip_team, &a);
    if (!st && a.strange)
        st = tinyi_fail(ctx, TINY_E_NUMERIC,
                        "awq: row %td: a group of its weights is so large that its scale is infinite", a.strange - 1);
    tiny_free(ctx, a.h);
    return st;
}

TINY_API tiny_status tllm_awq_cut(tiny_ctx *ctx, const tllm_awq_desc *desc, int format, float *w, tiny_idx rows,
                                  tiny_idx n, const uint8_t *step)
{
    tinyi_awq a;
    tiny_idx r, g;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    st = tinyi_awq_check(ctx, &a, desc);
    if (!st && (!w || !step || rows < 0 || n < 1))
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: %td rows of %td weights and their steps are needed", rows, n);
    a.groups = st ? 0 : tllm_awq_groups(&a.d, format, n);
    if (!st && !a.groups)
        st = tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: weights of that format have no groups that can be clipped");
    if (st) return st;
    a.group = format ? tllm_format_of(format)->values : a.d.grid.group < 0 || a.d.grid.group > n ? n : a.d.grid.group;
    for (r = 0; r < rows * a.groups; r++)
        if (step[r] > a.d.clips)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "awq: step %d of group %td; there are %d", (int)step[r], r,
                              a.d.clips);
    for (r = 0; r < rows; r++)
        for (g = 0; g < a.groups; g++) {
            float *at = w + r * n + g * a.group;
            tinyi_awq_hold(&a, at, TINYI_MIN(a.group, n - g * a.group), step[r * a.groups + g], at);
        }
    return TINY_OK;
}

