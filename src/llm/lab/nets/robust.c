/* src/llm/lab/nets/robust.c - the geometry of features, and what changes between two networks or two sets
 * Paper    Z. Li et al., "Understanding the robustness lottery: a geometric visual comparative analysis of neural
 *          network pruning approaches", 2022 (arXiv 2206.07918).
 * Formula  l_c = |w_c| |f| cos(angle_c) + b_c;  margin = min over c != y of (l_y - l_c) / |w_y - w_c|
 * Data     everything in double, sums in index order: the same bits on every machine.
 * Cost     n n_class d products for the cosines; n n_class for the margins; sorts of n.
 * Left out the interactive views of the paper. */
#include "llm/lab/nets/robust.h"
#include "llm/lab/nets/rank.h"
#include "core/file.h"
#include "core/half_inside.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"
#include "math/sort.h"
#include <stdio.h>
#include <string.h>

#define TINYI_ROBUST_PI 3.14159265358979323846

static const char *const tinyi_geometry_names[TLLM_GEOMETRY_VALUES] = { "length", "angle", "angle_wrong", "margin",
                                                                        "confidence" };

TINY_API const char *tllm_geometry_name(int value)
{
    return value < 0 || value >= TLLM_GEOMETRY_VALUES ? NULL : tinyi_geometry_names[value];
}

static double tinyi_robust_nan(void) { return (double)tinyi_bits_f32(0x7fc00000u); }

/* asin of 0 .. 0.71: Newton's steps on the sine, which double the digits of s + s^3 / 6 each time */
static double tinyi_robust_asin(double s)
{
    double a = s + s * s * s / 6.0;
    int i;
    for (i = 0; i < 4; i++) a -= (tinyi_sin64(a) - s) / tinyi_cos64(a);
    return a;
}
static double tinyi_robust_degrees(double cosine)
{
    const double x = cosine < 0.0 ? -cosine : cosine;
    double a;
    if (x >= 1.0) a = 0.0;
    else a = x > 0.5 ? 2.0 * tinyi_robust_asin(tinyi_sqrt64(0.5 * (1.0 - x)))
                     : 0.5 * TINYI_ROBUST_PI - tinyi_robust_asin(x);
    return (cosine < 0.0 ? TINYI_ROBUST_PI - a : a) * (180.0 / TINYI_ROBUST_PI);
}

TINY_API void tllm_geometry_close(tiny_ctx *ctx, tllm_geometry *g)
{
    if (!g) return;
    tiny_free(ctx, g->sample);
    tiny_free(ctx, g->cosine);
    tiny_free(ctx, g->w_length);
    memset(g, 0, sizeof *g);
}

static tiny_status tinyi_geometry_check(tiny_ctx *ctx, const tiny_tensor *f, const tiny_tensor *label,
                                        const tiny_tensor *w, const tiny_tensor *bias)
{
    tiny_idx i, c, d;
    if (!f || !w || !label || tiny_tensor_check(f) || tiny_tensor_check(w) || tiny_tensor_check(label) ||
        !tinyi_is_real(f) || !tinyi_is_real(w) || label->dtype != TINY_I32 || f->rank != 2 || w->rank != 2 ||
        label->rank != 1 || f->dim[0] < 1 || f->dim[1] < 1 || f->dim[1] != w->dim[1] || f->dim[0] != label->dim[0] ||
        f->dim[0] > INT32_MAX || w->dim[0] > 65536 || w->dim[0] < 2 || !tiny_tensor_is_dense(f) ||
        !tiny_tensor_is_dense(w) || !tiny_tensor_is_dense(label))
        return tinyi_fail(ctx, TINY_E_SHAPE, "geometry: features (n, d), labels (n) i32 and directions (classes, d) of "
                                             "2 to 65536 classes are needed, all dense");
    if (bias && (tiny_tensor_check(bias) || bias->dtype != w->dtype || bias->rank != 1 || bias->dim[0] != w->dim[0] ||
                 !tiny_tensor_is_dense(bias)))
        return tinyi_fail(ctx, TINY_E_SHAPE, "geometry: the bias must be a dense list of %td numbers of the type of "
                                             "the directions", w->dim[0]);
    for (i = 0; i < label->dim[0]; i++)
        if (((const int32_t *)label->data)[i] < 0 || ((const int32_t *)label->data)[i] >= w->dim[0])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: sample %td has the label %d; there are classes 0 to %td",
                              i, (int)((const int32_t *)label->data)[i], w->dim[0] - 1);
    for (i = 0; i < f->dim[0] * f->dim[1]; i++)
        if (!(tinyi_real(f->data, f->dtype, i) - tinyi_real(f->data, f->dtype, i) == 0.0))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "geometry: feature %td of sample %td is not finite", i % f->dim[1],
                              i / f->dim[1]);
    for (i = 0; i < w->dim[0]; i++)
        for (c = 0; c < i; c++) {
            for (d = 0; d < w->dim[1]; d++)
                if (tinyi_real(w->data, w->dtype, i * w->dim[1] + d) !=
                    tinyi_real(w->data, w->dtype, c * w->dim[1] + d)) break;
            if (d == w->dim[1])
                return tinyi_fail(ctx, TINY_E_NUMERIC, "geometry: classes %td and %td have the same direction and "
                                                       "length: no boundary lies between them", c, i);
        }
    return TINY_OK;
}

static double tinyi_geometry_dot(const double *a, const double *b, tiny_idx n)
{
    double sum = 0.0;
    tiny_idx d;
    for (d = 0; d < n; d++) sum += a[d] * b[d];
    return sum;
}
static void tinyi_geometry_row(double *to, const tiny_tensor *t, tiny_idx row)
{
    const tiny_idx n = t->dim[1];
    tiny_idx d;
    for (d = 0; d < n; d++) to[d] = tinyi_real(t->data, t->dtype, row * n + d);
}

/* length, angles, margin and the rest of a sample from its logits and cosines; apart: |w_y - w_c| */
static void tinyi_geometry_sample(tllm_geometry *g, tllm_geometry_sample *s, const double *logit, const double *cosine,
                                  const double *apart)
{
    const int32_t y = s->label;
    double top = logit[0], sum = 0.0, margin = 0.0;
    int32_t c, first = 1;
    s->rival = -1;
    s->answer = 0;
    for (c = 0; c < (int32_t)g->n_class; c++) {
        double m;
        if (logit[c] > top) {
            top = logit[c];
            s->answer = c;
        }
        if (c == y) continue;
        if (s->rival < 0 || logit[c] > logit[s->rival]) s->rival = c;
        m = (logit[y] - logit[c]) / apart[(tiny_idx)y * g->n_class + c];
        if (first || m < margin) margin = m;
        first = 0;
    }
    for (c = 0; c < (int32_t)g->n_class; c++) sum += tinyi_exp64(logit[c] - top);
    s->value[TLLM_GEOMETRY_ANGLE] = tinyi_robust_degrees(cosine[y]);
    s->value[TLLM_GEOMETRY_ANGLE_WRONG] = tinyi_robust_degrees(cosine[s->rival]);
    s->value[TLLM_GEOMETRY_MARGIN] = margin;
    s->value[TLLM_GEOMETRY_CONFIDENCE] = tinyi_exp64(logit[y] - top) / sum;
    g->n_right += s->answer == y;
}

TINY_API tiny_status tllm_geometry_of(tiny_ctx *ctx, const tiny_tensor *f, const tiny_tensor *label,
                                      const tiny_tensor *w, const tiny_tensor *bias, tllm_geometry *out)
{
    tllm_geometry g;
    double *logit = NULL, *apart, *wide, *row, length;
    tiny_idx i, c, k, n_class, d;
    size_t cells = 0, of_class = 0, numbers = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: a result pointer is needed");
    st = tinyi_geometry_check(ctx, f, label, w, bias);
    if (st) return st;
    memset(&g, 0, sizeof g);
    g.n = f->dim[0];
    g.n_class = n_class = w->dim[0];
    d = w->dim[1];
    if (!tinyi_size_mul((size_t)g.n, (size_t)n_class, &cells) ||
        !tinyi_size_mul((size_t)n_class, (size_t)n_class + 2, &of_class) ||
        !tinyi_size_mul((size_t)n_class + 1, (size_t)d, &numbers) || !tinyi_size_add(numbers, of_class, &numbers))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "geometry: %td samples of %td classes are too many", g.n, n_class);
    g.sample = (tllm_geometry_sample *)tinyi_alloc(ctx, (size_t)g.n, sizeof *g.sample);
    g.cosine = g.sample ? (double *)tinyi_alloc(ctx, cells, sizeof *g.cosine) : NULL;
    g.w_length = g.cosine ? (double *)tinyi_alloc(ctx, of_class, sizeof *g.w_length) : NULL;
    /* a row of logits, apart (n_class, n_class), a row of features, the directions */
    logit = g.w_length ? (double *)tinyi_alloc(ctx, numbers, sizeof *logit) : NULL;
    if (!logit) {
        tllm_geometry_close(ctx, &g);
        return tiny_ctx_status(ctx);
    }
    g.bias = g.w_length + n_class;
    g.between = g.bias + n_class;
    apart = logit + n_class;
    row = apart + n_class * n_class;
    wide = row + d;
    for (c = 0; c < n_class; c++) {
        tinyi_geometry_row(wide + c * d, w, c);
        g.w_length[c] = tinyi_sqrt64(tinyi_geometry_dot(wide + c * d, wide + c * d, d));
        g.bias[c] = bias ? tinyi_real(bias->data, bias->dtype, c) : 0.0;
    }
    for (c = 0; c < n_class; c++)
        for (k = 0; k < n_class; k++) {
            const double both = g.w_length[c] * g.w_length[k];
            const double dot = tinyi_geometry_dot(wide + c * d, wide + k * d, d);
            double sum = 0.0, x;
            g.between[c * n_class + k] = c == k ? 0.0 : tinyi_robust_degrees(both > 0.0 ? dot / both : 0.0);
            for (i = 0; i < d; i++) {
                x = wide[c * d + i] - wide[k * d + i];
                sum += x * x;
            }
            apart[c * n_class + k] = tinyi_sqrt64(sum);
        }
    for (i = 0; i < g.n; i++) {
        tllm_geometry_sample *s = &g.sample[i];
        double *cosine = g.cosine + i * n_class;
        s->label = ((const int32_t *)label->data)[i];
        tinyi_geometry_row(row, f, i);
        length = tinyi_sqrt64(tinyi_geometry_dot(row, row, d));
        s->value[TLLM_GEOMETRY_LENGTH] = length;
        for (c = 0; c < n_class; c++) {
            const double dot = tinyi_geometry_dot(row, wide + c * d, d), both = length * g.w_length[c];
            logit[c] = dot + g.bias[c];
            cosine[c] = both > 0.0 ? dot / both : 0.0;
            if (cosine[c] > 1.0) cosine[c] = 1.0;
            if (cosine[c] < -1.0) cosine[c] = -1.0;
        }
        tinyi_geometry_sample(&g, s, logit, cosine, apart);
    }
    tiny_free(ctx, logit);
    *out = g;
    return TINY_OK;
}

/* ---- order */

/* indices of n doubles, ascending; NaN has been excluded */
static tiny_status tinyi_robust_order(tiny_ctx *ctx, const double *x, size_t n, uint32_t *order)
{
    uint64_t *key = (uint64_t *)tinyi_alloc(ctx, n ? n : 1, sizeof *key);
    size_t i;
    tiny_status st;
    if (!key) return tiny_ctx_status(ctx);
    for (i = 0; i < n; i++) {
        const double v = x[i] + 0.0;        /* -0 becomes 0 */
        memcpy(&key[i], &v, 8);
        key[i] = key[i] >> 63 ? ~key[i] : key[i] | (uint64_t)1 << 63;
    }
    st = tiny_argsort_u64(ctx, key, order, n, 0);
    tiny_free(ctx, key);
    return st;
}

static int tinyi_geometry_is(const tllm_geometry *g) { return g && g->sample && g->cosine && g->n > 0; }

TINY_API tiny_status tllm_geometry_quantiles(tiny_ctx *ctx, const tllm_geometry *g, int value, int i_class, size_t n,
                                             const double *at, double *y)
{
    double *x;
    uint32_t *order;
    size_t i, count = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!tinyi_geometry_is(g) || !tllm_geometry_name(value) || i_class < -1 || i_class >= g->n_class || !at || !y)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: quantiles of value %d, class %d: there is no such value, "
                                                "class or geometry", value, i_class);
    for (i = 0; i < n; i++)
        if (!(at[i] >= 0.0 && at[i] <= 1.0))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: a quantile at %g; 0 to 1 are allowed", at[i]);
    x = (double *)tinyi_alloc(ctx, (size_t)g->n, sizeof *x);
    order = x ? (uint32_t *)tinyi_alloc(ctx, (size_t)g->n, sizeof *order) : NULL;
    if (!order) st = tiny_ctx_status(ctx);
    for (i = 0; !st && i < (size_t)g->n; i++)
        if (i_class < 0 || g->sample[i].label == i_class) x[count++] = g->sample[i].value[value];
    if (!st && !count) st = tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: class %d has no samples", i_class);
    if (!st) st = tinyi_robust_order(ctx, x, count, order);
    for (i = 0; !st && i < n; i++) {
        const double place = at[i] * (double)(count - 1);
        const size_t low = (size_t)place, high = low + 1 < count ? low + 1 : low;
        y[i] = x[order[low]] + (place - (double)low) * (x[order[high]] - x[order[low]]);
    }
    tiny_free(ctx, order);
    tiny_free(ctx, x);
    return st;
}

static tiny_status tinyi_geometry_same(tiny_ctx *ctx, const tllm_geometry *a, const tllm_geometry *b)
{
    tiny_idx i;
    if (!tinyi_geometry_is(a) || !tinyi_geometry_is(b) || a->n != b->n || a->n_class != b->n_class)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: two geometries of the same samples and classes are needed");
    for (i = 0; i < a->n; i++)
        if (a->sample[i].label != b->sample[i].label)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: sample %td has the label %d in one and %d in the other",
                              i, (int)a->sample[i].label, (int)b->sample[i].label);
    return TINY_OK;
}

static double tinyi_geometry_mixed(const tllm_geometry *a, const tllm_geometry *length, const tllm_geometry *angle,
                                   tiny_idx i, tiny_idx c)
{
    return a->w_length[c] * length->sample[i].value[TLLM_GEOMETRY_LENGTH] * angle->cosine[i * a->n_class + c] +
           a->bias[c];
}
static int tinyi_geometry_wrong(const tllm_geometry *a, const tllm_geometry *length, const tllm_geometry *angle,
                                tiny_idx i)
{
    const tiny_idx y = a->sample[i].label;
    const double own = tinyi_geometry_mixed(a, length, angle, i, y);
    tiny_idx c;
    for (c = 0; c < a->n_class; c++)
        if (c != y && tinyi_geometry_mixed(a, length, angle, i, c) > own) return 1;
    return 0;
}

TINY_API tiny_status tllm_geometry_mix(tiny_ctx *ctx, const tllm_geometry *a, const tllm_geometry *length,
                                       const tllm_geometry *angle, double *logit)
{
    tiny_idx i, c;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!logit) return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: a place for the logits is needed");
    st = tinyi_geometry_same(ctx, a, length);
    if (!st) st = tinyi_geometry_same(ctx, a, angle);
    for (i = 0; !st && i < a->n; i++)
        for (c = 0; c < a->n_class; c++) logit[i * a->n_class + c] = tinyi_geometry_mixed(a, length, angle, i, c);
    return st;
}

/* ---- comparison */

TINY_API void tllm_geometry_report_close(tiny_ctx *ctx, tllm_geometry_report *r)
{
    if (!r) return;
    tiny_free(ctx, r->order);
    memset(r, 0, sizeof *r);
}

/* margin: of a, of those right in a, breaking where broke says so; in ascending order. Pairs of equal margin count
 * half. */
static double tinyi_robust_auc(const double *margin, const uint32_t *order, const unsigned char *broke, size_t n)
{
    double pairs = 0.0, lost = 0.0, kept = 0.0;
    size_t i, k, j;
    for (i = 0; i < n; i = k) {
        double lost_here = 0.0, kept_here = 0.0;
        for (k = i; k < n && margin[order[k]] == margin[order[i]]; k++) {}
        for (j = i; j < k; j++) {
            if (broke[order[j]]) lost_here += 1.0;
            else kept_here += 1.0;
        }
        pairs += kept_here * (lost + 0.5 * lost_here);
        lost += lost_here;
        kept += kept_here;
    }
    return lost > 0.0 && kept > 0.0 ? pairs / (lost * kept) : tinyi_robust_nan();
}

TINY_API tiny_status tllm_geometry_compare(tiny_ctx *ctx, const tllm_geometry *a, const tllm_geometry *b,
                                           tllm_geometry_report *out)
{
    tllm_geometry_report r;
    double *x = NULL;
    unsigned char *broke = NULL;
    uint32_t *order = NULL;
    size_t i, n, right = 0, count[4] = { 0, 0, 0, 0 };
    int k, same = 1;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: a result pointer is needed");
    st = tinyi_geometry_same(ctx, a, b);
    if (st) return st;
    memset(&r, 0, sizeof r);
    r.n = n = (size_t)a->n;
    r.order = (uint32_t *)tinyi_alloc(ctx, 2 * n, sizeof *r.order);
    x = r.order ? (double *)tinyi_alloc(ctx, 2 * n, sizeof *x) : NULL;
    order = x ? (uint32_t *)tinyi_alloc(ctx, n, sizeof *order) : NULL;
    broke = order ? (unsigned char *)tinyi_alloc(ctx, n, 1) : NULL;
    if (!broke) st = tiny_ctx_status(ctx);
    for (i = 0; !st && i < n; i++) {
        const tllm_geometry_sample *p = &a->sample[i], *q = &b->sample[i];
        const int was = p->answer == p->label, is = q->answer == q->label;
        r.moved[was][is]++;
        for (k = 0; k < TLLM_GEOMETRY_VALUES; k++) r.mean[k] += (q->value[k] - p->value[k]) / (double)n;
        x[i] = p->value[TLLM_GEOMETRY_MARGIN];
        x[n + i] = q->value[TLLM_GEOMETRY_MARGIN];
        if (was && !is) {
            const int angle = tinyi_geometry_wrong(a, a, b, (tiny_idx)i), length = tinyi_geometry_wrong(a, b, a,
                                                                                                         (tiny_idx)i);
            count[0] += angle && !length;
            count[1] += length && !angle;
            count[2] += length && angle;
            count[3] += !length && !angle;
        }
    }
    if (!st) {
        const double broken = (double)r.moved[1][0];
        double *by[4];
        by[0] = &r.by_angle; by[1] = &r.by_length; by[2] = &r.by_either; by[3] = &r.by_both;
        for (k = 0; k < 4; k++) *by[k] = broken > 0.0 ? (double)count[k] / broken : tinyi_robust_nan();
        for (k = 0; k < 4; k++) {
            const size_t row = r.moved[k / 2][0] + r.moved[k / 2][1];
            r.share[k / 2][k % 2] = row ? (double)r.moved[k / 2][k % 2] / (double)row : 0.0;
        }
        r.margin_rank = tinyi_robust_nan();
        for (k = 0; k < 2; k++) {
            int equal = 1;
            for (i = 1; i < n; i++) equal = equal && x[(size_t)k * n + i] == x[(size_t)k * n];
            same = same && !equal;
        }
        if (same && n > 1) st = tllm_rank_spearman(ctx, x, x + n, n, &r.margin_rank);
    }
    if (!st) {                              /* those right in a, by their margin in a */
        double *margin = x + n;
        for (i = 0; i < n; i++)
            if (a->sample[i].answer == a->sample[i].label) {
                broke[right] = b->sample[i].answer != b->sample[i].label;
                margin[right++] = x[i];
            }
        st = tinyi_robust_order(ctx, margin, right, order);
        if (!st) r.auc = tinyi_robust_auc(margin, order, broke, right);
    }
    if (!st) {
        for (i = 0; i < n; i++)
            x[i] = b->sample[i].value[TLLM_GEOMETRY_MARGIN] - a->sample[i].value[TLLM_GEOMETRY_MARGIN];
        st = tinyi_robust_order(ctx, x, n, r.order);
    }
    if (!st) {
        r.fragile = r.order + n;
        r.robust = r.fragile + r.moved[1][0];
        for (i = 0; i < n; i++) {
            const tllm_geometry_sample *p = &a->sample[r.order[i]], *q = &b->sample[r.order[i]];
            if (p->answer != p->label) continue;
            if (q->answer != q->label) r.fragile[r.n_fragile++] = r.order[i];
            else r.robust[r.n_robust++] = r.order[i];
        }
    }
    tiny_free(ctx, broke);
    tiny_free(ctx, order);
    tiny_free(ctx, x);
    if (st) tllm_geometry_report_close(ctx, &r);
    else *out = r;
    return st;
}

TINY_API tiny_status tllm_geometry_alike(tiny_ctx *ctx, const tllm_geometry *clean, const tllm_geometry *const *kind,
                                         size_t n_kind, double *matrix)
{
    double *x;
    size_t i, j, k, n, all;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!kind || !matrix || !n_kind)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "geometry: geometries to compare and a place for the matrix are needed");
    for (k = 0; !st && k < n_kind; k++) st = tinyi_geometry_same(ctx, clean, kind[k]);
    if (st) return st;
    n = (size_t)clean->n;
    if (!tinyi_size_mul(n, n_kind, &all))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "geometry: %zu geometries of %zu samples are too many", n_kind, n);
    x = (double *)tinyi_alloc(ctx, all, sizeof *x);
    if (!x) return tiny_ctx_status(ctx);
    for (k = 0; k < n_kind; k++) {          /* centred, of length 1; without any change 0 */
        double mean = 0.0, sum = 0.0;
        for (i = 0; i < n; i++) {
            x[k * n + i] = kind[k]->sample[i].value[TLLM_GEOMETRY_MARGIN] -
                           clean->sample[i].value[TLLM_GEOMETRY_MARGIN];
            mean += x[k * n + i] / (double)n;
        }
        for (i = 0; i < n; i++) {
            x[k * n + i] -= mean;
            sum += x[k * n + i] * x[k * n + i];
        }
        sum = tinyi_sqrt64(sum);
        for (i = 0; i < n && sum > 0.0; i++) x[k * n + i] /= sum;
    }
    for (k = 0; k < n_kind; k++)
        for (j = 0; j < n_kind; j++) {
            double sum = 0.0;
            for (i = 0; i < n; i++) sum += x[k * n + i] * x[j * n + i];
            matrix[k * n_kind + j] = sum;
        }
    tiny_free(ctx, x);
    return TINY_OK;
}

/* ---- files */

/* Text that grows in a block of its final size: each part is shorter than the room that was counted for it. */
typedef struct tinyi_robust_text { char *to; size_t n, room; } tinyi_robust_text;
#define TINYI_ROBUST_PUT(t, ...) \
    ((t)->n += (size_t)snprintf((t)->to + (t)->n, (t)->n < (t)->room ? (t)->room - (t)->n : 0, __VA_ARGS__))

static tiny_status tinyi_robust_write(tiny_ctx *ctx, tinyi_robust_text *t, const char *path)
{
    tiny_status st = tiny_file_write(ctx, path, t->to, t->n);
    tiny_free(ctx, t->to);
    return st;
}

TINY_API tiny_status tllm_geometry_csv(tiny_ctx *ctx, const tllm_geometry *g, const char *path)
{
    tinyi_robust_text t;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!tinyi_geometry_is(g) || !path)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: samples and a path are needed");
    memset(&t, 0, sizeof t);
    if (!tinyi_size_mul((size_t)g->n + 1, 192, &t.room))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "geometry: %td lines are too many", g->n);
    t.to = (char *)tinyi_alloc(ctx, t.room, 1);
    if (!t.to) return tiny_ctx_status(ctx);
    TINYI_ROBUST_PUT(&t, "sample,label,answer,rival,length,angle,angle_wrong,margin,confidence\n");
    for (i = 0; i < g->n; i++) {
        const tllm_geometry_sample *s = &g->sample[i];
        TINYI_ROBUST_PUT(&t, "%td,%d,%d,%d,%.9g,%.9g,%.9g,%.9g,%.9g\n", i, (int)s->label, (int)s->answer, (int)s->rival,
                         s->value[0], s->value[1], s->value[2], s->value[3], s->value[4]);
    }
    return tinyi_robust_write(ctx, &t, path);
}

static void tinyi_robust_number(tinyi_robust_text *t, const char *name, double x)
{
    if (x == x) TINYI_ROBUST_PUT(t, "  \"%s\": %.9g,\n", name, x);
    else TINYI_ROBUST_PUT(t, "  \"%s\": null,\n", name);
}
static void tinyi_robust_list(tinyi_robust_text *t, const char *name, const uint32_t *x, size_t n, const char *end)
{
    size_t i;
    TINYI_ROBUST_PUT(t, "  \"%s\": [", name);
    for (i = 0; i < n; i++) TINYI_ROBUST_PUT(t, "%s%lu", i ? ", " : "", (unsigned long)x[i]);
    TINYI_ROBUST_PUT(t, "]%s\n", end);
}

TINY_API tiny_status tllm_geometry_json(tiny_ctx *ctx, const tllm_geometry_report *r, const char *path)
{
    static const char *const names[2][2] = { { "wrong_wrong", "wrong_right" }, { "right_wrong", "right_right" } };
    tinyi_robust_text t;
    char name[32];
    int k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!r || !r->order || !path)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "geometry: a report and a path are needed");
    memset(&t, 0, sizeof t);
    if (!tinyi_size_mul(r->n + 100, 12, &t.room) || !tinyi_size_add(t.room, 2000, &t.room))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "geometry: %zu samples are too many", r->n);
    t.to = (char *)tinyi_alloc(ctx, t.room, 1);
    if (!t.to) return tiny_ctx_status(ctx);
    TINYI_ROBUST_PUT(&t, "{\n  \"samples\": %lu,\n", (unsigned long)r->n);
    for (k = 0; k < 4; k++)
        TINYI_ROBUST_PUT(&t, "  \"%s\": %lu,\n", names[k / 2][k % 2], (unsigned long)r->moved[k / 2][k % 2]);
    for (k = 0; k < TLLM_GEOMETRY_VALUES; k++) {
        (void)snprintf(name, sizeof name, "mean_%s", tinyi_geometry_names[k]);
        tinyi_robust_number(&t, name, r->mean[k]);
    }
    tinyi_robust_number(&t, "margin_rank", r->margin_rank);
    tinyi_robust_number(&t, "by_angle", r->by_angle);
    tinyi_robust_number(&t, "by_length", r->by_length);
    tinyi_robust_number(&t, "by_either", r->by_either);
    tinyi_robust_number(&t, "by_both", r->by_both);
    tinyi_robust_number(&t, "auc", r->auc);
    tinyi_robust_list(&t, "fragile", r->fragile, r->n_fragile, ",");
    tinyi_robust_list(&t, "robust", r->robust, r->n_robust, "");
    TINYI_ROBUST_PUT(&t, "}\n");
    return tinyi_robust_write(ctx, &t, path);
}
