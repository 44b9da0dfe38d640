/* src/llm/round/columns.c - propagates the errors of coded columns
 *
 * Paper    E. Frantar et al., "GPTQ", 2022 (arXiv 2210.17323), algorithm 1
 * Formula  for i = 0 .. n - 1:  q_i = code(w_i);  e_i = (w_i - q_i) / U[i][i];  w_j -= e_i U[i][j] for j > i;  H^-1 =
 *          U^T U so W - Q = E U, and the loss tr((W - Q) H (W - Q)^T) is the sum of e^2
 *          U: with J the reversal of all inputs, J H J = L L^T gives H = V V^T, V = J L J upper, and U = V^-1 = J L^-1
 *          J. That is the Cholesky factor of H^-1 (it is unique) by one factorization and one inverse of a triangle;
 *          the inverse of H is never formed.
 * Fast     the correction of a block of columns is one product, (errors of all columns before it) times (their part of
 *          U): w is read and written once. Inside a block TINYI_COLUMNS_ROWS rows at a time are transposed. Each column
 *          gets the errors of earlier columns of the block as a combination of rows (gemv_axpy) just before it is
 *          coded. Pieces of rows do not depend on the number of threads.
 * Cost     rows n^2 / 2 multiply-adds in products, rows n block / 2 within blocks; U: 2 n^3 / 3 in double
 * Error    reference: w in double, rounded to float for code(). Fast: sums in float in another order, so a w close to
 *          the middle between two codes may get the other code.
 *          A dead input (diagonal 0) has 1 on the diagonal and no other entries. It is not part of the mean diagonal
 *          used for damping, so the result does not depend on the unit of the inputs
 * Left out orders that depend on the errors so far (OBQ): n times the cost for a small gain, as GPTQ's authors show */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/columns_inside.h"
#include "math/linalg.h"
#include "math/matmul.h"
#include "math/table_inside.h"

#define TINYI_COLUMNS_ROWS 64               /* rows that one thread turns and codes at once */

typedef struct tinyi_columns_job {
    const tinyi_columns *c;
    const float *part;                      /* (rows, j1 - j0): what is subtracted first; or NULL */
    const float *turned;                    /* (j1 - j0)^2: -U of the block, column by column */
    double *loss;                           /* for each piece of rows */
    tiny_idx j0, j1, piece;
    int begins;                             /* groups begin in this block */
} tinyi_columns_job;

/* ---- reference --------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
/* w: unit rows of n doubles; t: unit columns or rows of floats for the coder */
static double tinyi_columns_ref(const tinyi_columns *c, tiny_idx row0, tiny_idx rows, double *w, float *t)
{
    double loss = 0.0;
    tiny_idx i, j, r;
    for (r = 0; r < rows; r++)
        for (i = 0; i < c->n; i++) w[r * c->n + i] = (double)c->w[(row0 + r) * c->n + i];
    for (i = 0; i < c->n; i++) {
        float *x = t, *q = t + rows;
        const float *u = c->u + i * c->n;
        if (c->begin && c->group && i % c->group == 0) {
            const tiny_idx n = TINYI_MIN(c->group, c->n - i);
            for (r = 0; r < rows; r++)
                for (j = 0; j < n; j++) t[r * n + j] = (float)w[r * c->n + i + j];
            c->begin(c->user, i, n, row0, rows, t, 1, n);
        }
        for (r = 0; r < rows; r++) x[r] = (float)w[r * c->n + i];
        c->code(c->user, i, row0, rows, x, q);
        for (r = 0; r < rows; r++) {
            const double e = (w[r * c->n + i] - (double)q[r]) / (double)u[i];
            for (j = i + 1; j < c->n; j++) w[r * c->n + j] -= e * (double)u[j];
            c->w[(row0 + r) * c->n + i] = (float)e;
            loss += e * e;
        }
    }
    return loss;
}
TINY_REF_END

static tiny_status tinyi_columns_plain(tiny_ctx *ctx, const tinyi_columns *c, double *loss)
{
    double *w = (double *)tinyi_alloc(ctx, (size_t)c->unit * (size_t)c->n, sizeof *w);
    float *t = w ? (float *)tinyi_alloc(ctx, (size_t)c->unit * (size_t)TINYI_MAX(c->n, 2), sizeof *t) : NULL;
    const tiny_status st = t ? TINY_OK : tiny_ctx_status(ctx);
    tiny_idx r;
    for (r = 0; !st && r < c->rows; r += c->unit)
        *loss += tinyi_columns_ref(c, r, TINYI_MIN(c->unit, c->rows - r), w, t);
    tiny_free(ctx, t);
    tiny_free(ctx, w);
    return st;
}

/* ---- fast -------------------------------------------------------------------------------------------------------- */

/* -U of the block, so that what column j takes from those before it is in a row */
static void tinyi_columns_turn(float *to, const tinyi_columns *c, tiny_idx j0, tiny_idx wide)
{
    tiny_idx i, j;
    for (i = 0; i < wide; i++)
        for (j = i + 1; j < wide; j++) to[j * wide + i] = -c->u[(j0 + i) * c->n + j0 + j];
}

static void tinyi_columns_piece(tiny_team *team, const tinyi_columns_job *job, tiny_idx p)
{
    const tinyi_columns *c = job->c;
    const tinyi_fn_gemv_axpy axpy = TINYI_K(team, gemv_axpy);
    const tiny_idx R = TINYI_COLUMNS_ROWS, row0 = p * job->piece, rows = TINYI_MIN(job->piece, c->rows - row0),
                   wide = job->j1 - job->j0;
    float *t = (float *)team->own, *q = t + wide * R, *w = c->w + row0 * c->n + job->j0;
    tiny_idx i, j, r, done = 0;             /* errors before `done` were taken by all columns of the group */
    double loss = 0.0;
    if (rows < R) memset(t, 0, (size_t)(wide * R) * sizeof *t);
    for (r = 0; r < rows; r++) {
        const float *part = job->part ? job->part + (row0 + r) * wide : NULL;
        for (i = 0; i < wide; i++) t[i * R + r] = part ? w[r * c->n + i] - part[i] : w[r * c->n + i];
    }
    for (i = 0; i < wide; i++) {
        float *x = t + i * R, inverse;
        double sum = 0.0;
        if (job->begins && (job->j0 + i) % c->group == 0) {
            const tiny_idx n = TINYI_MIN(c->group, wide - i);
            for (j = i; j < i + n && i > 0; j++)
                axpy(t + j * R, t, TINY_F32, R, job->turned + j * wide, 1, (size_t)i, (size_t)R);
            done = i;
            c->begin(c->user, job->j0 + i, n, row0, rows, x, R, 1);
        }
        if (i > done)
            axpy(x, t + done * R, TINY_F32, R, job->turned + i * wide + done, 1, (size_t)(i - done), (size_t)R);
        c->code(c->user, job->j0 + i, row0, rows, x, q);
        inverse = 1.0f / c->u[(job->j0 + i) * c->n + job->j0 + i];
        for (r = 0; r < rows; r++) {
            const float e = (x[r] - q[r]) * inverse;
            x[r] = e;
            sum += (double)e * (double)e;
        }
        loss += sum;
    }
    for (r = 0; r < rows; r++)
        for (i = 0; i < wide; i++) w[r * c->n + i] = t[i * R + r];
    job->loss[p] += loss;
}

static void tinyi_columns_team(tiny_team *team, void *arg)
{
    const tinyi_columns_job *job = (const tinyi_columns_job *)arg;
    tiny_idx p, p1;
    while (tiny_take(team, (job->c->rows - 1) / job->piece + 1, 1, &p, &p1))
        for (; p < p1; p++) tinyi_columns_piece(team, job, p);
}

/* a group that is wider than a block: its columns as they are, before the first of them is coded */
static void tinyi_columns_begin_team(tiny_team *team, void *arg)
{
    const tinyi_columns_job *job = (const tinyi_columns_job *)arg;
    const tinyi_columns *c = job->c;
    const tiny_idx wide = job->j1 - job->j0;
    tiny_idx p, p1, r, i;
    while (tiny_take(team, (c->rows - 1) / job->piece + 1, 1, &p, &p1))
        for (; p < p1; p++) {
            const tiny_idx row0 = p * job->piece, rows = TINYI_MIN(job->piece, c->rows - row0);
            float *w = c->w + row0 * c->n + job->j0;
            for (r = 0; job->part && r < rows; r++)
                for (i = 0; i < wide; i++) w[r * c->n + i] -= job->part[(row0 + r) * wide + i];
            c->begin(c->user, job->j0, wide, row0, rows, w, 1, c->n);
        }
}

/* part (rows, j1 - j0) = errors of columns k0 .. k1 times their part of U */
static tiny_status tinyi_columns_product(tiny_ctx *ctx, const tinyi_columns *c, tiny_idx k0, tiny_idx k1, tiny_idx j0,
                                         tiny_idx j1, float *part)
{
    tiny_tensor e = tiny_tensor_2d(c->w + k0, TINY_F32, c->rows, k1 - k0),
                u = tiny_tensor_2d((void *)(uintptr_t)(c->u + k0 * c->n + j0), TINY_F32, k1 - k0, j1 - j0);
    tiny_tensor y = tiny_tensor_2d(part, TINY_F32, c->rows, j1 - j0);
    e.stride[0] = u.stride[0] = c->n;
    return tiny_matmul(ctx, &e, &u, NULL, TINY_ACT_NONE, &y);
}

static tiny_status tinyi_columns_fast(tiny_ctx *ctx, const tinyi_columns *c, float *part, float *turned, double *losses,
                                      tiny_idx block, tiny_idx outer)
{
    const int wide = c->begin && c->group > c->block;           /* groups hold blocks, not blocks groups */
    tinyi_columns_job job;
    tiny_idx m0, m1, i0, i1;
    tiny_status st = TINY_OK;
    memset(&job, 0, sizeof job);
    job.c = c;
    job.turned = turned;
    job.loss = losses;
    job.piece = TINYI_COLUMNS_ROWS / c->unit * c->unit;
    job.begins = c->begin && c->group && !wide;
    for (m0 = 0; !st && m0 < c->n; m0 = m1) {
        m1 = TINYI_MIN(m0 + outer, c->n);
        if (m0) st = tinyi_columns_product(ctx, c, 0, m0, m0, m1, part);
        job.part = m0 ? part : NULL;
        if (!st && wide) {
            job.j0 = m0;
            job.j1 = m1;
            st = tiny_parallel_loose(ctx, 0, 0, 0, tinyi_columns_begin_team, &job);
        }
        for (i0 = m0; !st && i0 < m1; i0 = i1) {
            i1 = TINYI_MIN(i0 + block, m1);
            if (wide && i0 > m0) st = tinyi_columns_product(ctx, c, m0, i0, i0, i1, part);
            if (wide) job.part = i0 > m0 ? part : NULL;
            job.j0 = i0;
            job.j1 = i1;
            tinyi_columns_turn(turned, c, i0, i1 - i0);
            if (!st)
                st = tiny_parallel_loose(ctx, (i1 - i0) * c->rows < 16384 ? 1 : 0, 0,
                                         (size_t)((i1 - i0 + 1) * TINYI_COLUMNS_ROWS) * sizeof(float),
                                         tinyi_columns_team, &job);
        }
        if (!st && ctx->desc.progress) ctx->desc.progress(ctx->desc.user, "columns", (double)m1 / (double)c->n);
    }
    return st;
}

TINYI_FN tiny_status tinyi_columns_run(tiny_ctx *ctx, const tinyi_columns *c, double *loss)
{
    const tiny_idx block = c->begin && c->group && c->group <= c->block ? c->block / c->group * c->group : c->block;
    const tiny_idx outer = c->begin && c->group > c->block ? c->group : block,
                   pieces = (c->rows - 1) / (TINYI_COLUMNS_ROWS / c->unit * c->unit) + 1;
    const size_t wide = (size_t)TINYI_MIN(block, c->n);
    float *part = NULL, *turned = NULL;
    double *losses, sum = 0.0;
    tiny_status st;
    tiny_idx p;
    if (ctx->target == TINY_TARGET_REFERENCE) {
        st = tinyi_columns_plain(ctx, c, &sum);
        if (!st && loss) *loss = sum;
        return st;
    }
    losses = (double *)tinyi_alloc(ctx, (size_t)pieces, sizeof *losses);
    if (losses) part = (float *)tinyi_alloc(ctx, (size_t)c->rows * (size_t)TINYI_MIN(outer, c->n), sizeof *part);
    if (part) turned = (float *)tinyi_alloc(ctx, wide * wide, sizeof *turned);
    st = turned ? TINY_OK : tiny_ctx_status(ctx);
    if (!st) {
        memset(losses, 0, (size_t)pieces * sizeof *losses);
        st = tinyi_columns_fast(ctx, c, part, turned, losses, (tiny_idx)wide, outer);
    }
    for (p = 0; !st && p < pieces; p++) sum += losses[p];
    if (!st && loss) *loss = sum;
    tiny_free(ctx, turned);
    tiny_free(ctx, part);
    tiny_free(ctx, losses);
    return st;
}

/* ---- U ----------------------------------------------------------------------------------------------------------- */

typedef struct tinyi_factor_job {
    const tiny_tensor *h;
    const uint32_t *order;
    double *a;
    /* what H is multiplied by, so that its diagonal is 1 on average; what is added to that */
    double scale, add;
    tiny_idx n, strange;                    /* strange: 1 + a place that is not finite */
} tinyi_factor_job;

TINYI_INLINE double tinyi_factor_at(const tiny_tensor *h, tiny_idx i, tiny_idx j)
{
    const tiny_idx at = i <= j ? i * h->stride[0] + j * h->stride[1] : j * h->stride[0] + i * h->stride[1];
    return h->dtype == TINY_F64 ? ((const double *)h->data)[at] : (double)((const float *)h->data)[at];
}

TINY_REF_BEGIN
/* rows p0 to p1 of H in the order of coding, to rows n - 1 - p of the lower triangle of J H J */
static void tinyi_factor_rows(tinyi_factor_job *j, tiny_idx p0, tiny_idx p1)
{
    const tiny_idx n = j->n;
    tiny_idx p, k;
    for (p = p0; p < p1; p++) {
        /* row f holds columns 0 .. f: inputs p .. n - 1, the last one first */
        double *to = j->a + (n - 1 - p) * n;
        const tiny_idx i = j->order ? (tiny_idx)j->order[p] : p;
        const double own = tinyi_factor_at(j->h, i, i);
        for (k = p + 1; k < n; k++) {
            const tiny_idx o = j->order ? (tiny_idx)j->order[k] : k;
            const double v = tinyi_factor_at(j->h, i, o);
            if (!(v - v == 0.0)) tinyi_atomic_set(&j->strange, 1 + i * n + o);
            to[n - 1 - k] = own > 0.0 && tinyi_factor_at(j->h, o, o) > 0.0 ? v * j->scale : 0.0;
        }
        to[n - 1 - p] = (own > 0.0 ? own * j->scale : 1.0) + j->add;
    }
}

TINYI_FN tiny_status tinyi_factor_diagonal(tiny_ctx *ctx, const tiny_tensor *h, tiny_idx n, float *diagonal)
{
    tiny_idx i, live = 0;
    double mean = 0.0;
    const tiny_status st = h ? tiny_tensor_check(h) : TINY_E_ARGUMENT;
    if (st || !h->data)
        return tinyi_fail(ctx, st ? st : TINY_E_ARGUMENT,
                          "gptq: h, the products of the inputs, is NULL or not a tensor");
    if ((h->dtype != TINY_F32 && h->dtype != TINY_F64) || h->rank != 2 || h->dim[0] != n || h->dim[1] != n)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "gptq: h is %s of rank %d, %td x %td; for %td inputs it must be f32 or f64, %td x %td",
                          tiny_dtype_name(h->dtype), h->rank, h->dim[0], h->rank > 1 ? h->dim[1] : 1, n, n, n);
    for (i = 0; i < n; i++) {
        const double v = tinyi_factor_at(h, i, i);
        if (!(v >= 0.0 && v <= 1e300))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "gptq: h has %g on its diagonal at input %td; it must be finite and not below 0",
                              v, i);
        live += v > 0.0;
        mean += v;
    }
    mean = live ? mean / (double)live : 1.0;
    for (i = 0; i < n; i++) {
        const double v = tinyi_factor_at(h, i, i);
        diagonal[i] = v > 0.0 ? (float)TINYI_MAX(v / mean, 1e-37) : 0.0f;
    }
    return TINY_OK;
}
TINY_REF_END

static void tinyi_factor_team(tiny_team *team, void *arg)
{
    tinyi_factor_job *j = (tinyi_factor_job *)arg;
    tiny_idx p0, p1;
    while (tiny_take(team, j->n, 16, &p0, &p1)) tinyi_factor_rows(j, p0, p1);
}

TINYI_FN tiny_status tinyi_factor_of(tiny_ctx *ctx, const tiny_tensor *h, const uint32_t *order, double damp, float *u,
                                     tinyi_factor *about)
{
    const tiny_idx n = h->dim[0];
    tinyi_factor_job j;
    tiny_tensor a, back;
    tiny_idx i, live = 0;
    tiny_status st = TINY_OK;
    memset(&j, 0, sizeof j);
    memset(about, 0, sizeof *about);
    for (i = 0; i < n; i++) {
        const double v = tinyi_factor_at(h, i, i);
        live += v > 0.0;
        about->mean += v;
    }
    about->dead = n - live;
    about->mean = live ? about->mean / (double)live : 1.0;
    j.h = h;
    j.order = order;
    j.n = n;
    j.scale = 1.0 / about->mean;
    j.a = (double *)tinyi_alloc(ctx, (size_t)n * (size_t)n, sizeof *j.a);
    if (!j.a) return tiny_ctx_status(ctx);
    a = tiny_tensor_2d(j.a, TINY_F64, n, n);
    back = tiny_tensor_2d(u + n * n - 1, TINY_F32, n, n);          /* rows and columns from the last to the first */
    back.stride[0] = -n;
    back.stride[1] = -1;
    for (about->damp = damp;; about->damp *= 2.0, about->doubled++) {
        j.add = about->damp;
        st = tiny_parallel_loose(ctx, n < 128 ? 1 : 0, 0, 0, tinyi_factor_team, &j);
        if (!st && j.strange)
            st = tinyi_fail(ctx, TINY_E_NUMERIC, "gptq: h has a NaN or an infinity for inputs %td and %td",
                            (j.strange - 1) / n, (j.strange - 1) % n);
        if (st || j.strange) break;
        st = tiny_cholesky(ctx, &a, &a);
        if (!st) st = tiny_tri_inverse(ctx, &a, NULL, &back);
        if (st != TINY_E_NUMERIC) break;
        if (about->doubled == 10) {
            about->identity = 1;
            memset(u, 0, (size_t)n * (size_t)n * sizeof *u);
            for (i = 0; i < n; i++) u[i * n + i] = 1.0f;
            st = TINY_OK;
            break;
        }
    }
    tiny_free(ctx, j.a);
    return st;
}

