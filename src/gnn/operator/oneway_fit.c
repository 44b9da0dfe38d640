/* src/gnn/operator/oneway_fit.c - one-way filters for a given kernel: exact ones, or the best of a small rank
 * Formula  minimise |K_o - sum over r of a_or (x) f0_or (x) f1_or ..|^2, a canonical (CP) decomposition
 * Method   Start: one product at a time, by power iteration on what the products before it leave (the singular vectors,
 *          if the kernel has two ways). Then alternating least squares: each way in turn, from the normal equations of
 *          size rank with a ridge of 1e-9 of their trace; the products of scales are shared evenly in the end.
 *          Exact: with rank >= k^d, product t has the taps t = (i, j ..) as unit vectors and a = K[.][t]. With rank >=
 *          n_in k^(d - 1), unit vectors for the channel and all axes but the last, which has the row of K.
 * Cost     sweeps d n_in k^d rank for each output channel; 200 sweeps at most */
#include <string.h>
#include "gnn/operator/oneway.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/linalg.h"
#include "math/rows_inside.h"

#define TINYI_FACTORS_SWEEPS 200
#define TINYI_FACTORS_POWERS 30

/* One output channel. way 0 is the channel, way 1 .. d the axes; v[way] (rank, n[way]). */
typedef struct tinyi_factors {
    int ways, rank;
    tiny_idx n[4], total;
    double *k, *left, *v[4], *fresh;        /* kernel, what is left of it, factors, (rank, longest) */
    double *gram, *right, *square;          /* (rank, rank), (n, rank), for the solver */
} tinyi_factors;

/* the product of factor r at point `at` without way `skip` (-1: all); index[] gets the coordinates */
static double tinyi_factors_at(const tinyi_factors *s, int r, tiny_idx at, int skip, tiny_idx *of_skip)
{
    double product = 1.0;
    int w;
    for (w = s->ways - 1; w >= 0; w--) {
        const tiny_idx i = at % s->n[w];
        at /= s->n[w];
        if (w == skip) *of_skip = i;
        else product *= s->v[w][r * s->n[w] + i];
    }
    return product;
}

static double tinyi_factors_unit(double *x, tiny_idx n)
{
    double sum = 0.0;
    tiny_idx i;
    for (i = 0; i < n; i++) sum += x[i] * x[i];
    sum = tinyi_sqrt(sum);
    for (i = 0; sum > 0.0 && i < n; i++) x[i] /= sum;
    return sum;
}

/* factor r from what is left: power iteration from the largest number, scale in way 0 */
static void tinyi_factors_power(tinyi_factors *s, int r)
{
    tiny_idx at, i = 0, best = 0;
    double scale = 0.0;
    int step, w;
    for (at = 1; at < s->total; at++)
        if (s->left[at] * s->left[at] > s->left[best] * s->left[best]) best = at;
    for (w = s->ways - 1, at = best; w >= 0; w--) {
        for (i = 0; i < s->n[w]; i++) s->v[w][r * s->n[w] + i] = 0.01 / (double)(i + 1);
        s->v[w][r * s->n[w] + at % s->n[w]] = 1.0;
        at /= s->n[w];
    }
    for (step = 0; step < TINYI_FACTORS_POWERS; step++)
        for (w = 0; w < s->ways; w++) {
            double *v = s->v[w] + r * s->n[w];
            memset(s->fresh, 0, (size_t)s->n[w] * sizeof *s->fresh);
            for (at = 0; at < s->total; at++) {
                const double p = tinyi_factors_at(s, r, at, w, &i);
                s->fresh[i] += p * s->left[at];
            }
            memcpy(v, s->fresh, (size_t)s->n[w] * sizeof *v);
            scale = tinyi_factors_unit(v, s->n[w]);
        }
    for (i = 0; i < s->n[0]; i++) s->v[0][r * s->n[0] + i] *= scale;
    for (at = 0; at < s->total; at++) s->left[at] -= tinyi_factors_at(s, r, at, -1, &i);
}

/* |K - sum|^2 */
static double tinyi_factors_error(const tinyi_factors *s)
{
    double sum = 0.0;
    tiny_idx at, i;
    int r;
    for (at = 0; at < s->total; at++) {
        double e = s->k[at];
        for (r = 0; r < s->rank; r++) e -= tinyi_factors_at(s, r, at, -1, &i);
        sum += e * e;
    }
    return sum;
}

/* the best way w for the others as they are */
static tiny_status tinyi_factors_solve(tiny_ctx *ctx, tinyi_factors *s, int w)
{
    const tiny_idx rank = s->rank, n = s->n[w];
    const tiny_tensor g = tiny_tensor_2d(s->gram, TINY_F64, rank, rank), l = tiny_tensor_2d(s->square, TINY_F64, rank,
                                                                                            rank),
                      b = tiny_tensor_2d(s->right, TINY_F64, rank, n);
    double trace = 0.0;
    tiny_idx i, at;
    int r, q, k;
    tiny_status st;
    for (r = 0; r < s->rank; r++)
        for (q = 0; q < s->rank; q++) {
            double product = 1.0;
            for (k = 0; k < s->ways; k++) {
                double dot = 0.0;
                if (k == w) continue;
                for (i = 0; i < s->n[k]; i++) dot += s->v[k][r * s->n[k] + i] * s->v[k][q * s->n[k] + i];
                product *= dot;
            }
            s->gram[r * s->rank + q] = product;
            if (q == r) trace += product;
        }
    if (!(trace > 0.0)) return TINY_OK;     /* nothing to fit */
    for (r = 0; r < s->rank; r++) s->gram[r * s->rank + r] += 1e-9 * trace;
    memset(s->right, 0, (size_t)(rank * n) * sizeof *s->right);
    for (r = 0; r < s->rank; r++) {
        for (i = 0; i < n; i++) s->right[r * n + i] = 1e-9 * trace * s->v[w][r * n + i];     /* ridge around the old */
        for (at = 0; at < s->total; at++) {
            const double p = tinyi_factors_at(s, r, at, w, &i);
            s->right[r * n + i] += p * s->k[at];
        }
    }
    st = tiny_cholesky(ctx, &g, &l);
    if (!st) st = tiny_cholesky_solve(ctx, &l, &b, &b);
    if (!st) memcpy(s->v[w], s->right, (size_t)(rank * n) * sizeof *s->right);
    return st;
}

/* every way of factor r with the same norm */
static void tinyi_factors_balance(tinyi_factors *s)
{
    tiny_idx i;
    int r, w;
    for (r = 0; r < s->rank; r++) {
        double scale = 1.0;
        for (w = 0; w < s->ways; w++) scale *= tinyi_factors_unit(s->v[w] + r * s->n[w], s->n[w]);
        scale = scale > 0.0 ? tinyi_exp64(tinyi_log64(scale) / s->ways) : 0.0;
        for (w = 0; w < s->ways; w++)
            for (i = 0; i < s->n[w]; i++) s->v[w][r * s->n[w] + i] *= scale;
    }
}

static void tinyi_factors_exact(tinyi_factors *s)
{
    const tiny_idx taps = s->total / s->n[0], last = s->n[s->ways - 1];
    const int by_tap = taps <= s->total / last;     /* else by channel and the axes before the last */
    const tiny_idx products = by_tap ? taps : s->total / last;
    tiny_idx t, i, at;
    int w;
    for (t = 0; t < products; t++) {
        for (w = s->ways - (by_tap ? 1 : 2), at = t; w >= by_tap; w--) {
            s->v[w][t * s->n[w] + at % s->n[w]] = 1.0;
            at /= s->n[w];
        }
        if (by_tap) for (i = 0; i < s->n[0]; i++) s->v[0][t * s->n[0] + i] = s->k[i * taps + t];
        else for (i = 0; i < last; i++) s->v[s->ways - 1][t * last + i] = s->k[t * last + i];
    }
}

static tiny_status tinyi_factors_channel(tiny_ctx *ctx, tinyi_factors *s)
{
    const tiny_idx taps = s->total / s->n[0], slices = s->total / s->n[s->ways - 1];
    double before, after;
    int r, w, sweep;
    tiny_status st = TINY_OK;
    for (w = 0; w < s->ways; w++) memset(s->v[w], 0, (size_t)(s->rank * s->n[w]) * sizeof *s->v[w]);
    if (s->rank >= taps || s->rank >= slices) {
        tinyi_factors_exact(s);
        return TINY_OK;
    }
    memcpy(s->left, s->k, (size_t)s->total * sizeof *s->left);
    for (r = 0; r < s->rank; r++) tinyi_factors_power(s, r);
    before = tinyi_factors_error(s);
    for (sweep = 0; !st && s->rank > 1 && sweep < TINYI_FACTORS_SWEEPS; sweep++) {
        for (w = 0; !st && w < s->ways; w++) st = tinyi_factors_solve(ctx, s, w);
        tinyi_factors_balance(s);
        after = tinyi_factors_error(s);
        if (!(after < before * (1.0 - 1e-4))) break;
        before = after;
    }
    tinyi_factors_balance(s);
    return st;
}

TINY_API tiny_status tgnn_oneway_fit(tiny_ctx *ctx, const tgnn_oneway *p, const tiny_tensor *kernel,
                                     const tiny_tensor *a, const tiny_tensor *f, double *error)
{
    tinyi_factors s;
    double *memory, *at, whole = 0.0, wrong = 0.0;
    tiny_idx o, c, i, longest;
    int w, r;
    tiny_status st = tinyi_oneway_kernel_fits(ctx, p, a, f, kernel);
    if (error) *error = 0.0;
    if (st) return st;
    memset(&s, 0, sizeof s);
    s.ways = p->d + 1;
    s.rank = p->rank;
    s.n[0] = p->n_in;
    for (w = 1; w < s.ways; w++) s.n[w] = p->k;
    s.total = p->n_in * kernel->dim[2];
    longest = TINYI_MAX(p->n_in, p->k);
    memory = (double *)tinyi_alloc(ctx, (size_t)(2 * s.total + (2 * (tiny_idx)p->rank + 1) * longest +
                                                 p->rank * (p->n_in + p->d * p->k + 2 * p->rank)), sizeof *memory);
    if (!memory) return tiny_ctx_status(ctx);
    s.k = memory;
    s.left = s.k + s.total;
    s.fresh = s.left + s.total;
    s.right = s.fresh + longest;
    s.gram = s.right + 2 * p->rank * longest;
    s.square = s.gram + p->rank * p->rank;
    for (w = 0, at = s.square + p->rank * p->rank; w < s.ways; at += p->rank * s.n[w], w++) s.v[w] = at;
    for (o = 0; !st && o < p->n_out; o++) {
        for (c = 0; c < p->n_in; c++)
            for (i = 0; i < kernel->dim[2]; i++) {
                double v = tinyi_real(kernel->data, kernel->dtype,
                                      o * kernel->stride[0] + c * kernel->stride[1] + i * kernel->stride[2]);
                if (!(v - v == 0.0)) {
                    st = tinyi_fail(ctx, TINY_E_NUMERIC, "oneway: number %td, %td, %td of the kernel is not finite", o,
                                    c, i);
                    break;
                }
                s.k[c * kernel->dim[2] + i] = v;
                whole += v * v;
            }
        if (!st) st = tinyi_factors_channel(ctx, &s);
        if (st) break;
        wrong += tinyi_factors_error(&s);
        for (r = 0; r < p->rank; r++) {
            const tiny_idx row = o * p->rank + r;
            for (i = 0; i < p->n_in; i++)
                tinyi_real_set(a->data, a->dtype, row * a->stride[0] + i * a->stride[1], s.v[0][r * p->n_in + i]);
            for (w = 0; w < p->d; w++)
                for (i = 0; i < p->k; i++)
                    tinyi_real_set(f->data, f->dtype, w * f->stride[0] + row * f->stride[1] + i * f->stride[2],
                                   s.v[w + 1][r * p->k + i]);
        }
    }
    if (!st && error) *error = whole > 0.0 ? tinyi_sqrt(wrong / whole) : 0.0;
    tiny_free(ctx, memory);
    return st;
}
