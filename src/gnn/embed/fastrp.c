/* src/gnn/embed/fastrp.c - FastRP
 * Paper    H. Chen, S. Sultan, Y. Tian, M. Chen, S. Skiena, "Fast and Accurate Network Embeddings via Very Sparse
 *          Random Projection", 2019 (arXiv 1908.11512), section 3; R after P. Li, T. Hastie, K. Church, "Very Sparse
 *          Random Projections", 2006.
 * Formula  in fastrp.h.
 * Method   Row j of R is drawn from its own generator, by geometric gaps. R is kept as positions and values: n d / s of
 *          them. U_1 adds the few entries of the neighbours' rows. The further powers are spmm, one tile of columns
 *          after the other. A row can be scaled to length 1 only when all its columns are known: with tiles, a first
 *          round computes the lengths and a second one the sums.
 *          Squares are summed in blocks of 16 columns, the blocks in double, so that the tile size changes no bit. Two
 *          powers at a time are added to y.
 * Cost     for q powers q - 1 products of edges x d; memory: y, two tiles, one float for each node and power, R.
 * Factors  (degree / sum)^beta is computed as a logarithm in double. A common factor does not matter for rows of length
 *          1, so the largest is made 1 there. Squares of numbers far from 1 are computed in double. A factor outside
 *          1e-30 .. 1e30 is an error, and so is any result that is not finite.
 * Error    each power is a mean in float: it adds a relative error of (degree + 5) u.
 * Left out the Gaussian projection, concatenation of the powers, and updates for new nodes. */
#include <string.h>
#include "gnn/embed/fastrp.h"
#include "gnn/graph/graph_inside.h"
#include "math/edges.h"
#include "math/elem.h"
#include "math/table_inside.h"

#define TINYI_FASTRP_BLOCK 16

TINY_REF_BEGIN
TINY_API int tgnn_fastrp_row(uint64_t seed, uint64_t j, int d, double s, int32_t *col, int8_t *sign)
{
    tiny_rng rng = tiny_rng_make(seed, j);
    const double step = s > 1.0 ? tinyi_log64(1.0 - 1.0 / s) : 0.0;
    double at = -1.0;
    int n = 0;
    if (!col || !sign) return 0;
    for (;;) {
        double u = 1.0 - tiny_rng_uniform64(&rng);      /* (0, 1] */
        double gap = s > 1.0 ? tinyi_log64(u) / step : 0.0;
        if (!(gap < (double)d)) return n;
        at += 1.0 + (double)(int)gap;
        if (at >= (double)d) return n;
        col[n] = (int32_t)at;
        sign[n++] = tiny_rng_u32(&rng) & 1 ? 1 : -1;
    }
}
TINY_REF_END

/* R with L and all constant factors in its values */
typedef struct tinyi_fastrp {
    tiny_ctx *ctx;
    const tgnn_graph *g;
    tgnn_fastrp_desc d;
    tiny_idx n, dim, tile;
    int64_t *offset;
    int32_t *col;
    float *value, *edge;                    /* edge: normalised weights, NULL: none */
    float *u[2], *inverse;                  /* inverse (powers, n): 1 / length, or 0 */
    double *square;                         /* n, of the power in hand */
    float *y;
    double shift, most;                     /* taken from the logarithms of factors; the largest value of R */
    int double_squares;                     /* f32 does not hold those of R */
} tinyi_fastrp;

static void tinyi_fastrp_free(tinyi_fastrp *f)
{
    tiny_free(f->ctx, f->offset);
    tiny_free(f->ctx, f->col);
    tiny_free(f->ctx, f->value);
    tiny_free(f->ctx, f->edge);
    tiny_free(f->ctx, f->u[0]);
    tiny_free(f->ctx, f->u[1]);
    tiny_free(f->ctx, f->inverse);
    tiny_free(f->ctx, f->square);
}

static tiny_status tinyi_fastrp_check(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_fastrp_desc *d,
                                      const tiny_tensor *y)
{
    const tiny_tensor *r = d->projection;
    int64_t p;
    int k;
    char text[96];
    if (!g || !y) return tinyi_fail(ctx, TINY_E_ARGUMENT, "fastrp: the graph or the output is missing");
    if (g->in.n_rows != g->in.n_cols)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "fastrp: %td sources and %td destinations: the graph must not be bipartite",
                          g->in.n_cols, g->in.n_rows);
    if (tiny_tensor_check(y) || y->dtype != TINY_F32 || y->rank != 2 || !tiny_tensor_is_dense(y) ||
        y->dim[0] != g->in.n_rows)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "fastrp: y is %s, it must be dense f32 with %td rows, one for each node",
                          y->rank >= 0 && y->rank <= 4 ? tinyi_shape_text(y, text) : "no tensor", g->in.n_rows);
    if (y->dim[1] < 1 || y->dim[1] > 1 << 20)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fastrp: %td columns, there must be 1 to 1048576", y->dim[1]);
    if (d->n_weights < 0 || d->n_weights > TGNN_FASTRP_POWERS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fastrp: %d powers, there must be 1 to %d", d->n_weights,
                          TGNN_FASTRP_POWERS);
    for (k = 0; k < d->n_weights; k++)
        if (!(d->weight[k] - d->weight[k] == 0.0f))
            return tinyi_fail(ctx, TINY_E_NUMERIC, "fastrp: the weight of power %d is not a finite number", k + 1);
    if (!(d->s == 0.0 || (d->s >= 1.0 && d->s - d->s == 0.0)))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fastrp: s is %g, it must be at least 1", d->s);
    if (!(d->beta - d->beta == 0.0)) return tinyi_fail(ctx, TINY_E_NUMERIC, "fastrp: beta is not a finite number");
    if (d->tile < 0 || d->tile % TINYI_FASTRP_BLOCK)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "fastrp: a tile of %d columns, it must be a multiple of %d", d->tile,
                          TINYI_FASTRP_BLOCK);
    if (r && (tiny_tensor_check(r) || r->dtype != TINY_F32 || r->rank != 2 || r->dim[0] != y->dim[0] ||
              r->dim[1] != y->dim[1] || !tiny_tensor_is_dense(r)))
        return tinyi_fail(ctx, TINY_E_SHAPE, "fastrp: the projection must be dense f32, %td x %td", y->dim[0],
                          y->dim[1]);
    for (p = 0; g->in.value && p < g->in.n; p++)
        if (!(g->in.value[p] >= 0.0f) || g->in.value[p] - g->in.value[p] != 0.0f)
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "fastrp: edge %lld weighs %g, weights must be finite and not negative", (long long)p,
                              (double)g->in.value[p]);
    return TINY_OK;
}

/* weighted degrees, and their sum */
static tiny_status tinyi_fastrp_degrees(const tinyi_fastrp *f, double **out, double *total)
{
    const tiny_sparse *a = &f->g->in;
    double *degree = (double *)tinyi_alloc(f->ctx, (size_t)f->n, sizeof *degree);
    tiny_idx i;
    int64_t p, p1 = 0;
    *out = degree;
    *total = 0.0;
    if (!degree) return tiny_ctx_status(f->ctx);
    for (i = 0; i < f->n && tinyi_row_next(a, i, &p, &p1); i++) {
        degree[i] = a->value ? 0.0 : (double)(p1 - p);
        for (; a->value && p < p1; p++) degree[i] += (double)a->value[p];
        *total += degree[i];
    }
    return i < f->n ? tinyi_rows_changed(f->ctx, "fastrp", a) : TINY_OK;
}

/* (degree / total)^beta, over the largest where rows get the length 1, times what is the same for all entries of R */
static double tinyi_fastrp_factor(const tinyi_fastrp *f, double degree, double total)
{
    double v = f->d.beta == 0.0 ? 1.0
               : degree > 0.0   ? tinyi_exp64(f->d.beta * tinyi_log64(degree / total) - f->shift)
                                : 0.0;
    return f->d.raw ? v : v / tinyi_sqrt64((double)f->dim);
}

static tiny_status tinyi_fastrp_factors(tinyi_fastrp *f, const double *degree, double total)
{
    tiny_idx j;
    int found = 0;
    f->shift = 0.0;
    if (f->d.beta == 0.0) return TINY_OK;
    for (j = 0; !f->d.no_l2 && j < f->n; j++) {
        const double v = degree[j] > 0.0 ? f->d.beta * tinyi_log64(degree[j] / total) : 0.0;
        if (degree[j] > 0.0 && (!found++ || v > f->shift)) f->shift = v;
    }
    for (j = 0; j < f->n; j++) {
        const double v = tinyi_fastrp_factor(f, degree[j], total);
        if (!(v >= 1e-30 && v <= 1e30) && (degree[j] > 0.0 || v != 0.0))
            return tinyi_fail(f->ctx, TINY_E_NUMERIC,
                              "fastrp: beta %g gives node %td of degree %g the factor %g%s, it must be 1e-30 to 1e30",
                              f->d.beta, j, degree[j], v, f->d.no_l2 ? "" : " of the largest");
    }
    return TINY_OK;
}

/* a value of R as f32; *bad: it is not finite */
static float tinyi_fastrp_value(tinyi_fastrp *f, double v, int *bad)
{
    const float x = (float)v;
    const double size = v < 0.0 ? -v : v;
    *bad |= !(x - x == 0.0f);
    f->most = TINYI_MAX(f->most, size);
    f->double_squares |= size > 1e15 || (size < 1e-15 && size > 0.0);
    return x;
}

/* room for so many entries of R; the first at of them are kept */
static tiny_status tinyi_fastrp_room(tinyi_fastrp *f, int64_t at, size_t room)
{
    int32_t *col = (int32_t *)tinyi_alloc(f->ctx, room, sizeof *col);
    float *value = (float *)tinyi_alloc(f->ctx, room, sizeof *value);
    if (!col || !value) {
        tiny_free(f->ctx, col);
        tiny_free(f->ctx, value);
        return tiny_ctx_status(f->ctx);
    }
    if (at) {
        memcpy(col, f->col, (size_t)at * sizeof *col);
        memcpy(value, f->value, (size_t)at * sizeof *value);
    }
    tiny_free(f->ctx, f->col);
    tiny_free(f->ctx, f->value);
    f->col = col;
    f->value = value;
    return TINY_OK;
}

/* entries of the caller's R that are not 0 */
static size_t tinyi_fastrp_given(const tinyi_fastrp *f)
{
    const float *r = (const float *)f->d.projection->data;
    const size_t all = (size_t)f->n * (size_t)f->dim;
    size_t i, n = 0;
    for (i = 0; i < all; i++) n += r[i] != 0.0f;
    return n;
}

static tiny_status tinyi_fastrp_project(tinyi_fastrp *f, const double *degree, double total)
{
    const double s = f->d.s > 0.0 ? f->d.s : f->n > 1 ? tinyi_sqrt64((double)f->n) : 1.0, root = tinyi_sqrt64(s);
    int8_t *sign = (int8_t *)tinyi_alloc(f->ctx, (size_t)f->dim, sizeof *sign);
    size_t room = 0;
    tiny_status st = TINY_OK;
    tiny_idx j, c;
    int64_t at = 0;
    int k, n, bad = 0;
    f->offset = (int64_t *)tinyi_alloc(f->ctx, (size_t)f->n + 1, sizeof *f->offset);
    if (!sign || !f->offset) st = tiny_ctx_status(f->ctx);
    for (j = 0; !st && j < f->n; j++) {
        double factor = tinyi_fastrp_factor(f, degree[j], total);
        f->offset[j] = at;
        /* at the first row for what is expected of all, by far mostly enough */
        if (room - (size_t)at < (size_t)f->dim) {
            const double all = (double)f->n * (double)f->dim / s;
            room = 2 * (size_t)at + (size_t)f->dim;
            if (j == 0) room += f->d.projection ? tinyi_fastrp_given(f) : (size_t)(all + 4.0 * tinyi_sqrt64(all));
            st = tinyi_fastrp_room(f, at, room);
            if (st) break;
        }
        if (f->d.projection) {
            const float *r = (const float *)f->d.projection->data + j * f->dim;
            for (c = 0; c < f->dim; c++) {
                if (r[c] == 0.0f) continue;
                f->col[at] = (int32_t)c;
                f->value[at++] = tinyi_fastrp_value(f, (double)r[c] * factor, &bad);
            }
            continue;
        }
        n = tgnn_fastrp_row(f->d.seed, (uint64_t)j, (int)f->dim, s, f->col + at, sign);
        for (k = 0; k < n; k++) f->value[at + k] = tinyi_fastrp_value(f, (double)sign[k] * root * factor, &bad);
        at += n;
    }
    if (!st) f->offset[f->n] = at;
    if (!st && bad)
        st = tinyi_fail(f->ctx, TINY_E_NUMERIC,
                        "fastrp: a number of the projection times its factor is not a finite f32");
    tiny_free(f->ctx, sign);
    return st;
}

/* ---- reference: P^k L R in double, everything at once */

TINY_REF_BEGIN
static void tinyi_fastrp_ref_power(const tinyi_fastrp *f, const double *degree, const double *from, double *to,
                                   int *bad)
{
    const tiny_sparse *a = &f->g->in;
    tiny_idx i, j, c;
    int64_t p, p1;
    for (i = 0; i < f->n; i++) {
        for (c = 0; c < f->dim; c++) to[i * f->dim + c] = 0.0;
        for (tinyi_row_range(a, i, &p, &p1); p < p1; p++) {
            j = (tiny_idx)tinyi_row_col(a, p, bad);
            for (c = 0; c < f->dim; c++)
                to[i * f->dim + c] += (a->value ? (double)a->value[p] : 1.0) * from[j * f->dim + c];
        }
        for (c = 0; !f->d.adjacency && degree[i] > 0.0 && c < f->dim; c++) to[i * f->dim + c] /= degree[i];
    }
}

static tiny_status tinyi_fastrp_ref(tinyi_fastrp *f, const double *degree)
{
    const size_t count = (size_t)f->n * (size_t)f->dim;
    double *u = (double *)tinyi_alloc(f->ctx, count, sizeof *u), *v = (double *)tinyi_alloc(f->ctx, count, sizeof *v),
           *sum = (double *)tinyi_alloc(f->ctx, count, sizeof *sum), *t;
    tiny_status st = u && v && sum ? TINY_OK : tiny_ctx_status(f->ctx);
    tiny_idx i, c;
    int64_t p;
    int k, bad = 0;
    if (!st) {
        for (i = 0; i < (tiny_idx)count; i++) v[i] = sum[i] = 0.0;
        for (i = 0; i < f->n; i++)
            for (p = f->offset[i]; p < f->offset[i + 1]; p++) v[i * f->dim + f->col[p]] = (double)f->value[p];
        for (k = 0; k < f->d.n_weights; k++) {
            tinyi_fastrp_ref_power(f, degree, v, u, &bad);
            for (i = 0; i < f->n; i++) {
                double ss = 0.0, by = (double)f->d.weight[k];
                for (c = 0; c < f->dim; c++) ss += u[i * f->dim + c] * u[i * f->dim + c];
                if (!f->d.no_l2) by = ss > 0.0 ? by / tinyi_sqrt64(ss) : 0.0;
                for (c = 0; c < f->dim; c++) sum[i * f->dim + c] += by * u[i * f->dim + c];
            }
            t = u;
            u = v;
            v = t;
        }
        for (c = 0; f->d.standardize && c < f->dim; c++) {
            double mean = 0.0, var = 0.0;
            for (i = 0; i < f->n; i++) mean += sum[i * f->dim + c];
            mean /= (double)f->n;
            for (i = 0; i < f->n; i++) var += (sum[i * f->dim + c] - mean) * (sum[i * f->dim + c] - mean);
            var = var > 0.0 ? 1.0 / tinyi_sqrt64(var / (double)f->n) : 0.0;
            for (i = 0; i < f->n; i++) sum[i * f->dim + c] = (sum[i * f->dim + c] - mean) * var;
        }
        for (i = 0; i < (tiny_idx)count; i++) f->y[i] = (float)sum[i];
        if (bad) st = tinyi_rows_changed(f->ctx, "fastrp", &f->g->in);
    }
    tiny_free(f->ctx, u);
    tiny_free(f->ctx, v);
    tiny_free(f->ctx, sum);
    return st;
}
TINY_REF_END

/* ---- fast: rows by threads, a tile of columns at a time */

typedef struct tinyi_fastrp_job { tinyi_fastrp *f; float *u; tiny_idx c0, c1; int k, from, merge; } tinyi_fastrp_job;

static void tinyi_fastrp_first_team(tiny_team *team, void *arg)
{
    const tinyi_fastrp_job *job = (const tinyi_fastrp_job *)arg;
    const tinyi_fastrp *f = job->f;
    const tiny_sparse *a = &f->g->in;
    tiny_idx i, i1, w = job->c1 - job->c0;
    int64_t p, p1, q;
    int bad = 0;
    while (tiny_take(team, f->n, 256, &i, &i1))
        for (; i < i1; i++) {
            float *u = job->u + i * w, by = 1.0f;
            memset(u, 0, (size_t)w * sizeof *u);
            tinyi_row_range(a, i, &p, &p1);
            if (!f->d.adjacency && !f->edge && p1 > p) by = 1.0f / (float)(p1 - p);
            for (; p < p1; p++) {
                const int32_t j = tinyi_row_col(a, p, &bad);
                const float e = f->edge ? f->edge[p] : f->d.adjacency && a->value ? a->value[p] : by;
                if (p + 16 < a->n) TINYI_PREFETCH(f->offset + a->col[p + 16]);
                for (q = f->offset[j]; q < f->offset[j + 1]; q++)
                    if (f->col[q] >= job->c0 && f->col[q] < job->c1) u[f->col[q] - job->c0] += e * f->value[q];
            }
        }
    if (bad)
        tiny_team_fail(team, TINY_E_FORMAT,
                       "fastrp: the source of an edge is out of range: the file of the graph has changed");
}

static double tinyi_fastrp_square(const float *u, tiny_idx n)
{
    double ss = 0.0;
    tiny_idx c;
    for (c = 0; c < n; c++) ss += (double)u[c] * (double)u[c];
    return ss;
}

/* Powers from .. k, two of them if there are: adds the squares of a tile to f->square, and the tile to y. The first
 * write of a row of y overwrites what the caller left there. */
static void tinyi_fastrp_merge_team(tiny_team *team, void *arg)
{
    const tinyi_fastrp_job *job = (const tinyi_fastrp_job *)arg;
    const tinyi_fastrp *f = job->f;
    const int in_double = f->double_squares;
    tiny_idx i, i1, w = job->c1 - job->c0, c;
    int k, bad = 0;
    while (tiny_take(team, f->n, 256, &i, &i1))
        for (; i < i1; i++)
            for (k = job->from; k <= job->k; k++) {
                const float weight = f->d.weight[k], *u = f->u[k & 1] + i * w;
                float *y = f->y + i * f->dim + job->c0;
                if (k == 0 && job->merge & 2) memset(y, 0, (size_t)w * sizeof *y);
                if (weight == 0.0f) continue;
                if (job->merge & 1) {
                    double *square = f->square + k * f->n + i, ss = job->c0 ? *square : 0.0;
                    for (c = 0; in_double && c < w; c += TINYI_FASTRP_BLOCK)
                        ss += tinyi_fastrp_square(u + c, TINYI_MIN(w - c, TINYI_FASTRP_BLOCK));
                    for (c = 0; !in_double && c < w; c += TINYI_FASTRP_BLOCK)
                        ss += (double)TINYI_OF(team->k, dot_f32)(u + c, u + c,
                                                                 (size_t)TINYI_MIN(w - c, TINYI_FASTRP_BLOCK));
                    *square = ss;
                    bad |= !(ss - ss == 0.0);
                    if (job->c1 == f->dim) f->inverse[k * f->n + i] = ss > 0.0 ? (float)(1.0 / tinyi_sqrt64(ss)) : 0.0f;
                }
                if (job->merge & 2)
                    TINYI_OF(team->k, axpy_f32)
                    (y, u, (size_t)w, f->d.no_l2 ? weight : weight * f->inverse[k * f->n + i]);
            }
    if (bad) tiny_team_fail(team, TINY_E_NUMERIC, "fastrp: the squares of a power are not finite");
}

/* Columns get mean 0 and variance 1 in three passes over y, whole rows at a time: a column alone is one line of memory
 * in every row, and no processor fetches those ahead. Sums are of so many rows whatever the number of threads, and
 * those are added in order. */
enum { TINYI_FASTRP_ROWS = 1024 };

/* part (blocks of rows, dim) */
typedef struct tinyi_fastrp_columns { tinyi_fastrp *f; double *mean, *by, *part; int pass; } tinyi_fastrp_columns;

/* n columns of a row; with n a constant a compiler makes vectors of it */
TINYI_FORCE_INLINE void tinyi_fastrp_columns_row(float *y, double *sum, const double *mean, const double *by, int pass,
                                                 tiny_idx n)
{
    tiny_idx c;
    if (pass == 0) for (c = 0; c < n; c++) sum[c] += (double)y[c];
    else if (pass == 1) for (c = 0; c < n; c++) sum[c] += ((double)y[c] - mean[c]) * ((double)y[c] - mean[c]);
    else for (c = 0; c < n; c++) y[c] = (float)(((double)y[c] - mean[c]) * by[c]);
}

static void tinyi_fastrp_columns_team(tiny_team *team, void *arg)
{
    const tinyi_fastrp_columns *job = (const tinyi_fastrp_columns *)arg;
    const tinyi_fastrp *f = job->f;
    const double *mean = job->mean, *by = job->by;
    tiny_idx b, b1, i, c, dim = f->dim;
    while (tiny_take(team, (f->n + TINYI_FASTRP_ROWS - 1) / TINYI_FASTRP_ROWS, 1, &b, &b1))
        for (; b < b1; b++) {
            double *sum = job->part + b * dim;
            for (c = 0; job->pass < 2 && c < dim; c++) sum[c] = 0.0;
            for (i = b * TINYI_FASTRP_ROWS; i < TINYI_MIN(f->n, (b + 1) * TINYI_FASTRP_ROWS); i++) {
                float *y = f->y + i * dim;
                for (c = 0; c + TINYI_FASTRP_BLOCK <= dim; c += TINYI_FASTRP_BLOCK)
                    tinyi_fastrp_columns_row(y + c, sum + c, mean + c, by + c, job->pass, TINYI_FASTRP_BLOCK);
                tinyi_fastrp_columns_row(y + c, sum + c, mean + c, by + c, job->pass, dim - c);
            }
        }
}

static tiny_status tinyi_fastrp_standardize(tinyi_fastrp *f)
{
    const tiny_idx blocks = (f->n + TINYI_FASTRP_ROWS - 1) / TINYI_FASTRP_ROWS;
    double *all = (double *)tinyi_alloc(f->ctx, (size_t)(blocks + 2) * (size_t)f->dim, sizeof *all);
    tinyi_fastrp_columns job;
    tiny_status st = TINY_OK;
    tiny_idx b, c;
    if (!all) return tiny_ctx_status(f->ctx);
    job.f = f;
    job.mean = all;
    job.by = all + f->dim;
    job.part = all + 2 * f->dim;
    for (job.pass = 0; !st && job.pass < 3; job.pass++) {
        double *to = job.pass ? job.by : job.mean;
        st = tiny_parallel(f->ctx, 0, 0, 0, tinyi_fastrp_columns_team, &job);
        for (c = 0; job.pass < 2 && c < f->dim; c++) {
            double sum = 0.0;
            for (b = 0; b < blocks; b++) sum += job.part[b * f->dim + c];
            sum /= (double)f->n;
            to[c] = job.pass == 0 ? sum : sum > 0.0 ? 1.0 / tinyi_sqrt64(sum) : 0.0;
        }
    }
    tiny_free(f->ctx, all);
    return st;
}

static tiny_status tinyi_fastrp_round(tinyi_fastrp *f, int merge, double done, double share)
{
    const tiny_sparse *a = &f->g->in;
    tiny_tensor offset = tiny_tensor_1d(a->offset, TINY_I64, f->n + 1),
                col = tiny_tensor_1d(a->col, TINY_I32, (tiny_idx)a->n), w;
    const int weighted = f->edge || (f->d.adjacency && a->value);
    tiny_spmm_params p;
    tinyi_fastrp_job job;
    tiny_idx c0;
    tiny_status st = TINY_OK;
    memset(&p, 0, sizeof p);
    p.reduce = f->d.adjacency || f->edge ? TINY_EDGE_SUM : TINY_EDGE_MEAN;
    w = tiny_tensor_1d(f->edge ? f->edge : a->value, TINY_F32, (tiny_idx)a->n);
    for (c0 = 0; !st && c0 < f->dim; c0 += f->tile) {
        job.f = f;
        job.c0 = c0;
        job.c1 = TINYI_MIN(f->dim, c0 + f->tile);
        job.merge = merge;
        for (job.k = 0; !st && job.k < f->d.n_weights; job.k++) {
            tiny_tensor from = tiny_tensor_2d(f->u[(job.k + 1) & 1], TINY_F32, f->n, job.c1 - c0),
                        to = tiny_tensor_2d(f->u[job.k & 1], TINY_F32, f->n, job.c1 - c0);
            job.u = f->u[job.k & 1];
            st = job.k ? tiny_spmm(f->ctx, &offset, &from, &col, weighted ? &w : NULL, NULL, &p, &to)
                       : tiny_parallel(f->ctx, 0, 0, 0, tinyi_fastrp_first_team, &job);
            job.from = job.k & ~1;          /* two powers stand side by side: y is read and written once for both */
            if (!st && (job.k & 1 || job.k + 1 == f->d.n_weights))
                st = tiny_parallel(f->ctx, 0, 0, 0, tinyi_fastrp_merge_team, &job);
            if (f->ctx->desc.progress)
                f->ctx->desc.progress(f->ctx->desc.user, "fastrp",
                                      done + share *
                                                 ((double)c0 + (double)(job.c1 - c0) * (job.k + 1) / f->d.n_weights) /
                                                 (double)f->dim);
        }
    }
    return st;
}

static tiny_status tinyi_fastrp_fast(tinyi_fastrp *f, const double *degree)
{
    const tiny_sparse *a = &f->g->in;
    const int rounds = !f->d.no_l2 && f->tile < f->dim ? 2 : 1;
    tiny_idx i;
    int64_t p, p1 = 0;
    tiny_status st = TINY_OK;
    f->u[0] = (float *)tinyi_alloc(f->ctx, (size_t)f->n * (size_t)f->tile, sizeof(float));
    f->u[1] = f->d.n_weights > 1 ? (float *)tinyi_alloc(f->ctx, (size_t)f->n * (size_t)f->tile, sizeof(float)) : NULL;
    if (!f->u[0] || (f->d.n_weights > 1 && !f->u[1])) st = tiny_ctx_status(f->ctx);
    if (!st && !f->d.no_l2) {
        f->inverse = (float *)tinyi_alloc(f->ctx, (size_t)f->n * (size_t)f->d.n_weights, sizeof(float));
        f->square = (double *)tinyi_alloc(f->ctx, (size_t)f->n * (size_t)f->d.n_weights, sizeof(double));
        if (!f->inverse || !f->square) st = tiny_ctx_status(f->ctx);
    }
    if (!st && a->value && !f->d.adjacency) {
        f->edge = (float *)tinyi_alloc(f->ctx, (size_t)a->n, sizeof(float));
        if (!f->edge) st = tiny_ctx_status(f->ctx);
        for (i = 0; !st && i < f->n; i++) {
            if (!tinyi_row_next(a, i, &p, &p1)) st = tinyi_rows_changed(f->ctx, "fastrp", a);
            for (; !st && p < p1; p++) f->edge[p] = degree[i] > 0.0 ? (float)((double)a->value[p] / degree[i]) : 0.0f;
        }
    }
    if (st) return st;
    if (rounds == 2) {
        st = tinyi_fastrp_round(f, 1, 0.0, 0.5);
        if (!st) st = tinyi_fastrp_round(f, 2, 0.5, 0.5);
    } else st = tinyi_fastrp_round(f, f->d.no_l2 ? 2 : 3, 0.0, 1.0);
    if (!st && f->d.standardize) st = tinyi_fastrp_standardize(f);
    return st;
}

/* Means do not grow: only products with A and large weights or values can leave f32. */
static tiny_status tinyi_fastrp_finite(const tinyi_fastrp *f)
{
    double most = 0.0;
    tiny_idx i;
    int k;
    for (k = 0; k < f->d.n_weights; k++)
        most += f->d.weight[k] < 0.0f ? -(double)f->d.weight[k] : (double)f->d.weight[k];
    if (!f->d.adjacency && most * (f->d.no_l2 ? f->most : 1.0) < 1e30) return TINY_OK;
    for (i = 0; i < f->n * f->dim; i++)
        if (!(f->y[i] - f->y[i] == 0.0f))
            return tinyi_fail(f->ctx, TINY_E_NUMERIC,
                              "fastrp: the embedding of node %td is not finite: weights, or powers of A, beyond f32",
                              i / f->dim);
    return TINY_OK;
}

TINY_API tiny_status tgnn_fastrp(tiny_ctx *ctx, const tgnn_graph *g, const tgnn_fastrp_desc *desc, const tiny_tensor *y)
{
    tinyi_fastrp f;
    double *degree = NULL, total;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    memset(&f, 0, sizeof f);
    f.ctx = ctx;
    f.g = g;
    if (desc) f.d = *desc;
    st = tinyi_fastrp_check(ctx, g, &f.d, y);
    if (st) return st;
    if (f.d.n_weights == 0) {
        f.d.n_weights = 3;
        f.d.weight[0] = 0.0f;
        f.d.weight[1] = f.d.weight[2] = 1.0f;
    }
    f.n = g->in.n_rows;
    f.dim = y->dim[1];
    f.tile = f.d.tile && (tiny_idx)f.d.tile < f.dim ? (tiny_idx)f.d.tile : f.dim;
    f.y = (float *)y->data;
    if (f.n == 0) return TINY_OK;
    st = tinyi_fastrp_degrees(&f, &degree, &total);
    if (!st) st = tinyi_fastrp_factors(&f, degree, total);
    if (!st) st = tinyi_fastrp_project(&f, degree, total);
    if (!st)
        st = tiny_ctx_target(ctx) == TINY_TARGET_REFERENCE ? tinyi_fastrp_ref(&f, degree)
                                                           : tinyi_fastrp_fast(&f, degree);
    if (!st) st = tinyi_fastrp_finite(&f);
    tiny_free(ctx, degree);
    tinyi_fastrp_free(&f);
    return st;
}
