/* src/math/linalg_block.c - copies matrices into and out of workspace; the blocked steps of the factorisations */
#include "math/linalg_block_inside.h"
#include "math/elem.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- the way in and out */

tiny_status tinyi_la_look(tiny_ctx *ctx, const char *what, const char *name, const tiny_tensor *t, int flags,
                          tinyi_la_view *v)
{
    tiny_status st;
    memset(v, 0, sizeof *v);
    v->name = name;
    if (!t)
        return flags & TINYI_LA_OPTIONAL ? TINY_OK : tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %s is missing", what, name);
    st = tiny_tensor_check(t);
    if (st) return tinyi_fail(ctx, st, "%s: %s: %s", what, name, tiny_status_text(st));
    if (flags & TINYI_LA_INT ? t->dtype != TINY_I32 : t->dtype != TINY_F32 && t->dtype != TINY_F64)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: %s is %s, it must be %s", what, name, tiny_dtype_name(t->dtype),
                          flags & TINYI_LA_INT ? "i32" : "f32 or f64");
    if (t->rank != 2 && !(t->rank == 1 && flags & TINYI_LA_VECTOR))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s has rank %d, it must be %s", what, name, t->rank,
                          flags & TINYI_LA_VECTOR ? "a vector or a matrix" : "a matrix");
    v->t = t;
    v->rows = (size_t)t->dim[0];
    v->si = t->stride[0];
    v->cols = t->rank == 2 ? (size_t)t->dim[1] : 1;
    v->sj = t->rank == 2 ? t->stride[1] : 0;
    if (flags & TINYI_LA_OUT) {
        tiny_idx a = v->si < 0 ? -v->si : v->si, b = v->sj < 0 ? -v->sj : v->sj;
        int folds = (v->rows > 1 && v->cols > 0 && a == 0) || (v->cols > 1 && v->rows > 0 && b == 0);
        if (v->rows > 1 && v->cols > 1 && !folds)
            folds = a < b ? a * (tiny_idx)(v->rows - 1) >= b : b * (tiny_idx)(v->cols - 1) >= a;
        if (folds) return tinyi_fail(ctx, TINY_E_ALIAS, "%s: two elements of %s lie at the same address", what, name);
    }
    return TINY_OK;
}

tiny_status tinyi_la_want(tiny_ctx *ctx, const char *what, const tinyi_la_view *v, size_t rows, size_t cols)
{
    if (!v->t || (v->rows == rows && v->cols == cols)) return TINY_OK;
    return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %zu x %zu, it must be %zu x %zu", what, v->name, v->rows, v->cols,
                      rows, cols);
}

tiny_status tinyi_la_square(tiny_ctx *ctx, const char *what, const tinyi_la_view *v)
{
    if (v->rows == v->cols) return TINY_OK;
    return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %zu x %zu, it must be square", what, v->name, v->rows, v->cols);
}

tiny_status tinyi_la_apart(tiny_ctx *ctx, const char *what, const tinyi_la_view *a, const tinyi_la_view *b)
{
    ptrdiff_t a0, a1, b0, b1;
    if (!a->t || !b->t) return TINY_OK;
    tiny_tensor_span(a->t, &a0, &a1);
    tiny_tensor_span(b->t, &b0, &b1);
    if (a0 == a1 || b0 == b1 || (uintptr_t)a->t->data + (uintptr_t)a1 <= (uintptr_t)b->t->data + (uintptr_t)b0 ||
        (uintptr_t)b->t->data + (uintptr_t)b1 <= (uintptr_t)a->t->data + (uintptr_t)a0)
        return TINY_OK;
    return tinyi_fail(ctx, TINY_E_ALIAS, "%s: outputs %s and %s overlap", what, a->name, b->name);
}

tinyi_la_view tinyi_la_turned(tinyi_la_view v)
{
    tinyi_la_view r = v;
    r.rows = v.cols;
    r.cols = v.rows;
    r.si = v.sj;
    r.sj = v.si;
    r.turned = !v.turned;
    r.row_back = v.col_back;
    r.col_back = v.row_back;
    return r;
}

tinyi_la_view tinyi_la_upward(tinyi_la_view v)
{
    if (v.rows) v.at += (tiny_idx)(v.rows - 1) * v.si;
    v.si = -v.si;
    v.row_back = !v.row_back;
    return v;
}

tinyi_la_view tinyi_la_backward(tinyi_la_view v)
{
    return tinyi_la_turned(tinyi_la_upward(tinyi_la_turned(tinyi_la_upward(v))));
}

size_t tinyi_la_ld(size_t n)
{
    size_t ld = n;
    if (n <= 1) return 1;
    if (n > (size_t)TINY_IDX_MAX / 16) return n;    /* no such matrix can be had */
    ld = (n + 7) & ~(size_t)7;
    return ld % 64 ? ld : ld + 8;
}

double *tinyi_la_alloc(tiny_ctx *ctx, size_t rows, size_t ld)
{
    size_t n;
    if (!tinyi_size_mul(rows, ld, &n)) n = SIZE_MAX;
    return (double *)tinyi_alloc(ctx, n, sizeof(double));
}

#define TINYI_LA_TILE 32                    /* square, so that a transposed copy uses whole cache lines */

void tinyi_la_fail(tiny_team *team, tinyi_la_run *run, tiny_status status, const char *format, ...)
{
    char says[240];
    va_list args;
    int n = snprintf(says, sizeof says, "%s: ", run->what);
    va_start(args, format);
    (void)vsnprintf(says + n, sizeof says - (size_t)n, format, args);
    va_end(args);
    tiny_team_fail(team, status, says);
    tinyi_atomic_set(&run->failed, 1);
}

/* rows x cols values from one place to another, either f32 or f64 outside; the loop runs along the smaller stride
 * outside */
static void tinyi_la_copy_in(double *to, size_t ld, const tinyi_la_view *v, size_t i0, size_t j0, size_t rows,
                             size_t cols)
{
    const tiny_idx at = v->at + (tiny_idx)i0 * v->si + (tiny_idx)j0 * v->sj;
    size_t ti = ld, tj = 1, i, j;
    tiny_idx fi = v->si, fj = v->sj;
    if ((fi < 0 ? -fi : fi) < (fj < 0 ? -fj : fj)) {
        size_t n = rows;
        rows = cols;
        cols = n;
        ti = 1;
        tj = ld;
        fi = v->sj;
        fj = v->si;
    }
    for (i = 0; i < rows; i++) {
        double *p = to + i * ti;
        if (v->t->dtype == TINY_F32) {
            const float *q = (const float *)v->t->data + at + (tiny_idx)i * fi;
            for (j = 0; j < cols; j++, q += fj) p[j * tj] = (double)*q;
        } else {
            const double *q = (const double *)v->t->data + at + (tiny_idx)i * fi;
            if (fj == 1 && tj == 1) memcpy(p, q, cols * sizeof *p);
            else
                for (j = 0; j < cols; j++, q += fj) p[j * tj] = *q;
        }
    }
}

static void tinyi_la_copy_out(const tinyi_la_view *v, size_t i0, size_t j0, size_t rows, size_t cols,
                              const double *from, size_t fi, size_t fj)
{
    const tiny_idx at = v->at + (tiny_idx)i0 * v->si + (tiny_idx)j0 * v->sj;
    tiny_idx ti = v->si, tj = v->sj;
    size_t i, j;
    if ((ti < 0 ? -ti : ti) < (tj < 0 ? -tj : tj)) {
        size_t n = rows;
        rows = cols;
        cols = n;
        n = fi;
        fi = fj;
        fj = n;
        ti = v->sj;
        tj = v->si;
    }
    for (i = 0; i < rows; i++) {
        const double *p = from + i * fi;
        if (v->t->dtype == TINY_F32) {
            float *q = (float *)v->t->data + at + (tiny_idx)i * ti;
            for (j = 0; j < cols; j++, q += tj) *q = (float)p[j * fj];
        } else {
            double *q = (double *)v->t->data + at + (tiny_idx)i * ti;
            if (tj == 1 && fj == 1) memcpy(q, p, cols * sizeof *q);
            else
                for (j = 0; j < cols; j++, q += tj) *q = p[j * fj];
        }
    }
}

TINY_REF_BEGIN                              /* x - x is 0 for finite x only */
/* the largest magnitude of n values and of *largest; the place of the first that is not finite, or n */
static size_t tinyi_la_peak_ref(const double *x, size_t n, double *largest)
{
    size_t i;
    for (i = 0; i < n; i++) {
        double a = x[i] < 0 ? -x[i] : x[i];
        if (a - a != 0.0) return i;
        if (a > *largest) *largest = a;
    }
    return n;
}
TINY_REF_END

int tinyi_la_load(tiny_team *team, tinyi_la_run *run, const tinyi_la_view *v, int part, double *to, size_t ld)
{
    const tinyi_fn_la_peak peak = run->plain ? NULL : TINYI_K(team, la_peak);
    const size_t rows = v->rows, cols = v->cols;
    size_t bi = 0, bj = 0, i, i0, i1, j0, j1;
    tiny_idx t, t0, t1, tiles = (tiny_idx)((rows + TINYI_LA_TILE - 1) / TINYI_LA_TILE);
    double largest = 0.0;
    int fine = 1;
    while (tiny_take(team, tiles, 1, &t0, &t1))
        for (t = t0; t < t1 && fine; t++) {
            i0 = (size_t)t * TINYI_LA_TILE;
            i1 = TINYI_MIN(i0 + TINYI_LA_TILE, rows);
            for (j0 = part == TINYI_LA_UPPER ? i0 : 0;
                 j0 < (part == TINYI_LA_LOWER || part == TINYI_LA_STRICT ? TINYI_MIN(i1, cols) : cols) && fine;
                 j0 = j1) {
                j1 = TINYI_MIN(j0 + TINYI_LA_TILE, cols);
                if (part == TINYI_LA_ALL || j0 != i0)
                    tinyi_la_copy_in(to + i0 * ld + j0, ld, v, i0, j0, i1 - i0, j1 - j0);
                for (i = i0; i < i1 && fine; i++) {
                    size_t from = j0, end = j1, bad;
                    if (part == TINYI_LA_UPPER && from < i) from = i;
                    if (part == TINYI_LA_LOWER && end > i + 1) end = i + 1;
                    if (part == TINYI_LA_STRICT && end > i) end = i;
                    if (from >= end) continue;
                    /* on the diagonal only what belongs to the part is read */
                    if (part != TINYI_LA_ALL && j0 == i0)
                        tinyi_la_copy_in(to + i * ld + from, ld, v, i, from, 1, end - from);
                    if (peak && peak(to + i * ld + from, end - from, &largest)) continue;
                    bad = tinyi_la_peak_ref(to + i * ld + from, end - from, &largest);
                    if (bad == end - from) continue;
                    bi = i;
                    bj = from + bad;
                    fine = 0;
                }
            }
        }
    if (!fine) {
        if (v->row_back) bi = rows - 1 - bi;
        if (v->col_back) bj = cols - 1 - bj;
        tinyi_la_fail(team, run, TINY_E_NUMERIC, "%s has a NaN or an infinity at row %zu, column %zu", v->name,
                      v->turned ? bj : bi, v->turned ? bi : bj);
    }
    run->largest[team->i] = largest;
    tiny_barrier(team);
    return tinyi_atomic_get(&run->failed) != 0;
}

void tinyi_la_store(tiny_team *team, const tinyi_la_view *v, int part, const double *from, size_t ld)
{
    static const double nothing[1] = { 0.0 };
    const size_t rows = v->t ? v->rows : 0;
    size_t i, i0, i1, j0, j1;
    tiny_idx t, t0, t1, tiles = (tiny_idx)((rows + TINYI_LA_TILE - 1) / TINYI_LA_TILE);
    while (tiny_take(team, tiles, 1, &t0, &t1))
        for (t = t0; t < t1; t++)
            for (j0 = 0; j0 < v->cols; j0 = j1) {
                i0 = (size_t)t * TINYI_LA_TILE;
                i1 = TINYI_MIN(i0 + TINYI_LA_TILE, rows);
                j1 = TINYI_MIN(j0 + TINYI_LA_TILE, v->cols);
                if (part == TINYI_LA_ALL || j0 > i0)
                    tinyi_la_copy_out(v, i0, j0, i1 - i0, j1 - j0, from + i0 * ld + j0, ld, 1);
                else if (j0 < i0 && part == TINYI_LA_MIRROR)
                    tinyi_la_copy_out(v, i0, j0, i1 - i0, j1 - j0, from + j0 * ld + i0, 1, ld);
                else if (j0 < i0) tinyi_la_copy_out(v, i0, j0, i1 - i0, j1 - j0, nothing, 0, 0);
                else
                    for (i = i0; i < i1; i++) {
                        size_t low = TINYI_MIN(i, j1);
                        if (part == TINYI_LA_MIRROR)
                            tinyi_la_copy_out(v, i, j0, 1, low - j0, from + j0 * ld + i, 0, ld);
                        else tinyi_la_copy_out(v, i, j0, 1, low - j0, nothing, 0, 0);
                        if (i < j1) tinyi_la_copy_out(v, i, i, 1, j1 - i, from + i * ld + i, 0, 1);
                    }
            }
    tiny_barrier(team);
}

void tinyi_la_fill(tiny_team *team, double *x, size_t ld, size_t rows, size_t cols, double diagonal)
{
    tiny_idx i, i0, i1;
    while (tiny_take(team, (tiny_idx)rows, 16, &i0, &i1))
        for (i = i0; i < i1; i++) {
            memset(x + (size_t)i * ld, 0, cols * sizeof *x);
            if ((size_t)i < cols) x[(size_t)i * ld + (size_t)i] = diagonal;
        }
    tiny_barrier(team);
}

void tinyi_la_flip(tiny_team *team, double *x, size_t ld, size_t rows, size_t cols)
{
    tiny_idx i, i0, i1;
    size_t j;
    while (tiny_take(team, (tiny_idx)(rows / 2), 16, &i0, &i1))
        for (i = i0; i < i1; i++) {
            double *a = x + (size_t)i * ld, *b = x + (rows - 1 - (size_t)i) * ld;
            for (j = 0; j < cols; j++) {
                double s = a[j];
                a[j] = b[j];
                b[j] = s;
            }
        }
    tiny_barrier(team);
}

double tinyi_la_rescale(tiny_team *team, const tinyi_la_run *run, double *x, size_t ld, size_t rows, size_t cols)
{
    const double limit = 1267650600228229401496703205376.0;           /* 2^100 */
    double largest = 0.0, f = 1.0;
    tiny_idx i, i0, i1;
    size_t j;
    int t;
    for (t = 0; t < team->n; t++)
        if (run->largest[t] > largest) largest = run->largest[t];
    tiny_barrier(team);                     /* all have read it: the next load may write */
    if (largest == 0.0 || (largest <= limit && largest >= 1.0 / limit)) return 1.0;
    for (; largest * f > limit; f *= 1.0 / limit) {}
    for (; largest * f < 1.0 / limit; f *= limit) {}
    while (tiny_take(team, (tiny_idx)rows, 16, &i0, &i1))
        for (i = i0; i < i1; i++)
            for (j = 0; j < cols; j++) x[(size_t)i * ld + j] *= f;
    tiny_barrier(team);
    return f;
}

tiny_status tinyi_la_go(tiny_ctx *ctx, const char *what, double flops, size_t n, tiny_team_fn fn, void *arg)
{
    tinyi_la_run *run = (tinyi_la_run *)arg;
    size_t shared, own;
    run->what = what;
    run->plain = ctx->target == TINY_TARGET_REFERENCE;
    run->n = n;
    run->failed = 0;
    if (run->plain) return tiny_parallel(ctx, 1, 0, 0, fn, arg);
    /* packed blocks: B, whose panels may be rounded up by a tile, and A of each thread; a product of two panels of
     * reflections may be deeper than a small matrix */
    n = TINYI_MAX(n, 2 * TINYI_LA_WY);
    shared = TINYI_MIN(n, TINYI_LA_KC) * (TINYI_MIN(n, TINYI_LA_NC) + 32) * sizeof(double);
    own = TINYI_MIN(n, TINYI_LA_KC) * (TINYI_MIN(n, TINYI_LA_MC) + 8) * sizeof(double);
    return tiny_parallel(ctx, flops < 1e6 ? 1 : 0, shared, own, fn, arg);
}

/* ---- the product */

/* Panels of `wide` columns of the (k, n) block at b, k-major, the last one filled up with zeros. */
static void tinyi_la_pack(tinyi_fn_la_turn turn, double *to, const double *b, size_t ldb, int turned, size_t k,
                          size_t n, size_t wide)
{
    size_t j, p, w;
    for (; n; n -= w, b += turned ? w * ldb : w) {
        w = TINYI_MIN(n, wide);
        if (turned) {
            turn(to, wide, b, ldb, k, w);
            to += k * wide;
        } else
            for (p = 0; p < k; p++, to += wide) {
                memcpy(to, b + p * ldb, w * sizeof *to);
                for (j = w; j < wide; j++) to[j] = 0.0;
            }
    }
}

typedef struct tinyi_la_strip { size_t rows, cols, n_strips; } tinyi_la_strip;     /* how a product is handed out */

static tinyi_la_strip tinyi_la_strips(int n_threads, size_t m, size_t n, size_t mr, size_t nr)
{
    tinyi_la_strip s;
    size_t blocks, want = n_threads > 1 ? 6 * (size_t)n_threads : 1;
    s.rows = TINYI_MIN(TINYI_LA_MC, (m + mr - 1) / mr * mr);
    blocks = (m + s.rows - 1) / s.rows;
    s.n_strips = (want + blocks - 1) / blocks;
    if (s.n_strips > n / 192 + 1) s.n_strips = n / 192 + 1;
    s.cols = ((n + s.n_strips - 1) / s.n_strips + nr - 1) / nr * nr;
    s.n_strips = (n + s.cols - 1) / s.cols;
    return s;
}

void tinyi_la_gemm(tiny_team *team, const tinyi_la_product *g)
{
    const tinyi_fn_la_turn turn = TINYI_K(team, la_turn);
    const tinyi_fn_la_tile tile = TINYI_K(team, la_tile);
    const int shape = TINYI_K(team, la_shape)();
    const size_t mr = (size_t)(shape >> 8), nr = (size_t)(shape & 255);
    double *pb = (double *)team->shared, *pa = (double *)team->own;
    size_t j0, k0, j1, k1;
    tiny_idx t, t0, t1;
    if (!g->m || !g->n) return;
    for (j0 = 0; j0 < g->n; j0 = j1) {
        j1 = TINYI_MIN(j0 + TINYI_LA_NC, g->n);
        for (k0 = 0; k0 < g->k; k0 = k1) {
            const size_t panels = (j1 - j0 + nr - 1) / nr;
            const tinyi_la_strip strip = tinyi_la_strips(team->n, g->m, j1 - j0, mr, nr);
            size_t packed = SIZE_MAX;
            k1 = TINYI_MIN(k0 + TINYI_LA_KC, g->k);
            while (tiny_take(team, (tiny_idx)panels, 4, &t0, &t1)) {
                size_t a0 = (size_t)t0 * nr, a1 = TINYI_MIN((size_t)t1 * nr, j1 - j0);
                tinyi_la_pack(turn, pb + a0 * (k1 - k0),
                              g->b + (g->b_turned ? (j0 + a0) * g->ldb + k0 : k0 * g->ldb + j0 + a0), g->ldb,
                              g->b_turned, k1 - k0, a1 - a0, nr);
            }
            tiny_barrier(team);
            while (tiny_take(team, (tiny_idx)((g->m + strip.rows - 1) / strip.rows * strip.n_strips), 1, &t0, &t1))
                for (t = t0; t < t1; t++) {
                    const size_t i0 = (size_t)t / strip.n_strips * strip.rows, i1 = TINYI_MIN(i0 + strip.rows, g->m);
                    const size_t c0 = (size_t)t % strip.n_strips * strip.cols, c1 = TINYI_MIN(c0 + strip.cols, j1 - j0);
                    size_t i, c;
                    if (g->upper && j0 + c1 <= i0) continue;
                    if (packed != i0) {
                        tinyi_la_pack(turn, pa, g->a + (g->a_turned ? k0 * g->lda + i0 : i0 * g->lda + k0), g->lda,
                                      !g->a_turned, k1 - k0, i1 - i0, mr);
                        packed = i0;
                    }
                    for (c = c0; c < c1; c += nr)
                        for (i = i0; i < i1; i += mr) {
                            if (g->upper && j0 + c + nr <= i) break;
                            tile(g->c + i * g->ldc + j0 + c, g->ldc, pa + (i - i0) * (k1 - k0), pb + c * (k1 - k0),
                                 k1 - k0, g->alpha, TINYI_MIN(mr, i1 - i), TINYI_MIN(nr, c1 - c));
                        }
                }
            tiny_barrier(team);
        }
    }
}

void tinyi_la_sub(tiny_team *team, double *c, size_t ldc, const double *a, size_t lda, int a_turned, const double *b,
                  size_t ldb, int b_turned, size_t m, size_t n, size_t k)
{
    tinyi_la_product g;
    memset(&g, 0, sizeof g);
    g.c = c;
    g.a = a;
    g.b = b;
    g.ldc = ldc;
    g.lda = lda;
    g.ldb = ldb;
    g.m = m;
    g.n = n;
    g.k = k;
    g.a_turned = a_turned;
    g.b_turned = b_turned;
    g.alpha = -1.0;
    tinyi_la_gemm(team, &g);
}

/* ---- triangles */

void tinyi_la_lower_solve(tiny_team *team, const double *t, size_t ldt, size_t n, int unit, double *x, size_t ldx,
                          size_t r, int inverse)
{
    const tinyi_fn_la_comb comb = TINYI_K(team, la_comb);
    const tinyi_fn_la_dots dots = TINYI_K(team, la_dots);
    size_t k0, k1, i, j;
    tiny_idx c0, c1;
    if (r == 1 && ldx == 1) {               /* one right-hand side: the matrix is read once, by one thread */
        if (team->i == 0)
            for (i = 0; i < n; i++) {
                dots(x + i, 1, t + i * ldt, ldt, 1, i, x, -1.0);
                if (!unit) x[i] /= t[i * ldt + i];
            }
        tiny_barrier(team);
        return;
    }
    for (k0 = 0; k0 < n; k0 = k1) {
        size_t cols = inverse ? TINYI_MIN(k0 + TINYI_LA_NB, n) : r;
        k1 = TINYI_MIN(k0 + TINYI_LA_NB, n);
        while (tiny_take(team, (tiny_idx)cols, 64, &c0, &c1))
            for (i = k0; i < k1; i++) {
                double *row = x + i * ldx;
                comb(row + c0, (size_t)(c1 - c0), x + k0 * ldx + c0, ldx, i - k0, t + i * ldt + k0, 1, -1.0);
                if (!unit) {
                    double f = 1.0 / t[i * ldt + i];
                    for (j = (size_t)c0; j < (size_t)c1; j++) row[j] *= f;
                }
            }
        tiny_barrier(team);
        tinyi_la_sub(team, x + k1 * ldx, ldx, t + k1 * ldt + k0, ldt, 0, x + k0 * ldx, ldx, 0, n - k1, cols, k1 - k0);
    }
}

void tinyi_la_lower_square(tiny_team *team, const double *m, size_t ldm, size_t n, double *c, size_t ldc)
{
    tinyi_la_product g;
    size_t k0, k1;
    memset(&g, 0, sizeof g);
    tinyi_la_fill(team, c, ldc, n, n, 0.0);
    for (k0 = 0; k0 < n; k0 = k1) {         /* rows k0..k1 of M end at column k1 */
        k1 = TINYI_MIN(k0 + TINYI_LA_KC, n);
        g.c = c;
        g.ldc = ldc;
        g.a = g.b = m + k0 * ldm;
        g.lda = g.ldb = ldm;
        g.m = g.n = k1;
        g.k = k1 - k0;
        g.a_turned = 1;
        g.upper = 1;
        g.alpha = 1.0;
        tinyi_la_gemm(team, &g);
    }
}

/* ---- reflections */

TINY_REF_BEGIN
void tinyi_la_house(double *x, size_t n, double ss, double *beta)
{
    double a = x[0], mu, v0, f;
    size_t i;
    if (ss < 1e-280) {                      /* below, squares lose their digits, and v its length */
        *beta = a < 0 ? -a : a;
        memset(x, 0, n * sizeof *x);
        if (a < 0) x[0] = 1.4142135623730951;
        return;
    }
    mu = tinyi_sqrt64(a * a + ss);
    v0 = a <= 0 ? a - mu : -ss / (a + mu);  /* a - mu without cancellation */
    f = 1.4142135623730951 / tinyi_sqrt64(ss + v0 * v0);
    x[0] = v0 * f;
    for (i = 1; i < n; i++) x[i] *= f;
    *beta = mu;
}
TINY_REF_END

void tinyi_la_wy(tiny_team *team, const double *v, size_t ldv, size_t k, size_t n, double *t)
{
    const tinyi_fn_la_dots dots = TINYI_K(team, la_dots);
    double with[TINYI_LA_WY];
    size_t i, j, p;
    tiny_idx j0, j1;
    /* t[j][0..j) for a moment holds the products of v_j with the rows before it */
    while (tiny_take(team, (tiny_idx)k, 4, &j0, &j1))
        for (j = (size_t)j0; j < (size_t)j1; j++) {
            memset(t + j * TINYI_LA_WY, 0, TINYI_LA_WY * sizeof *t);
            dots(t + j * TINYI_LA_WY, 1, v, ldv, j, n, v + j * ldv, 1.0);
        }
    tiny_barrier(team);
    if (team->i == 0)
        for (j = 0; j < k; j++) {
            memcpy(with, t + j * TINYI_LA_WY, j * sizeof *with);
            for (i = 0; i < j; i++) {
                double s = 0.0;
                for (p = i; p < j; p++) s += t[i * TINYI_LA_WY + p] * with[p];
                t[i * TINYI_LA_WY + j] = -s;
                t[j * TINYI_LA_WY + i] = 0.0;
            }
            t[j * TINYI_LA_WY + j] = 1.0;
        }
    tiny_barrier(team);
}

void tinyi_la_reflect(tiny_team *team, double *x, size_t ldx, size_t m, const double *v, size_t ldv, size_t k, size_t n,
                      const double *t, int t_turned, double *w)
{
    /* W = (X V^T)^T and (W^T T)^T lie along rows of length m: k rows are whole tiles, k columns would not be */
    const size_t ldw = tinyi_la_ld(m);
    double *w2 = w + k * ldw;
    if (!m) return;
    tinyi_la_fill(team, w, ldw, 2 * k, m, 0.0);
    tinyi_la_sub(team, w, ldw, v, ldv, 0, x, ldx, 1, k, m, n);
    tinyi_la_sub(team, w2, ldw, t, TINYI_LA_WY, !t_turned, w, ldw, 0, k, m, k);
    tinyi_la_sub(team, x, ldx, w2, ldw, 1, v, ldv, 0, m, n, k);
}

