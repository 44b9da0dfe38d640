/* src/gnn/equivariant/cp.c - CP factors of the coupling tensor by alternating least squares, and their files
 * Paper    "Tensor Decomposition Networks for Fast Machine Learning Interatomic Potential Computations", 2025 (arXiv
 *          2507.01131): factors of the tensor of all paths. The paper fits them by AdamW on random
 *          harmonics. With E[Y Y^T] = 1 the expectation of that loss is |M - M'| / |M|, which is minimised here itself.
 * Formula  one factor after the other: F <- U K (K^T K + lambda 1)^-1, U the unfolding of M along its axis, K the
 *          products r by r of the other two; K^T K is the elementwise product of their Gram matrices.
 *          lambda_t = max(1e-9, 1e-3 0.99^t). After a sweep the three columns of each r get the same length, which
 *          does not change M' and makes the sum of squares least. So with lambda fixed the loss never rises.
 *          From (l + 1)^4 terms on: A B = all pairs (i, j), C[r] = M[i][j], which is exact.
 * Cost     a sweep: 3 (nonzeros of M) rank + rank^3 + 6 (l + 1)^2 rank^2 multiply-adds
 * Error    the residual of a fit is computed at its end from all numbers of M - M'
 * Left out a polish by Adam: where least squares end, the ridge is 1e-9 and steps along the gradient gain nothing. */
#include <stdio.h>
#include <string.h>
#include "gnn/equivariant/cp.h"
#include "core/box/checkpoint.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/linalg.h"

struct tgnn_cp {
    int l, rank, d;
    double error, norm;
    double *factor[3];                      /* (rank, d) each, in one block */
};

typedef struct tinyi_cp_entry { double value; int32_t at[3]; } tinyi_cp_entry;

typedef struct tinyi_cp_job {
    tiny_ctx *ctx;
    const tgnn_cp_desc *desc;
    tinyi_cp_entry *entry;                  /* of M that are not 0 */
    size_t n;
    int d, rank;
    double norm2;                           /* |M|^2 */
    double *f[3], *best[3];                 /* (d, rank) each */
    double *gram, *lower, *right;           /* (rank, rank) twice; (d, rank): U K */
} tinyi_cp_job;

TINY_API int tgnn_cp_rank(int l, int schedule)
{
    double x;
    if (l < 0 || l > TGNN_CP_L_MAX || schedule < 0 || schedule > TGNN_CP_EXACT) return 0;
    x = tinyi_log64(l + 1.0);
    switch (schedule) {
    case TGNN_CP_LINEAR: return TINYI_MAX(1, 7 * l);
    case TGNN_CP_SQUARE: return TINYI_MAX(1, 7 * l * l);
    case TGNN_CP_LOG: return TINYI_MAX(1, 16 * (int)(x * x));
    default: return (l + 1) * (l + 1) * (l + 1) * (l + 1);
    }
}

/* ---- the tensor */

static tiny_status tinyi_cp_tensor(tinyi_cp_job *j)
{
    const int l = j->desc->l;
    const tgnn_coupling *c;
    tgnn_so3 *so3 = NULL;
    size_t n, e, round;
    int a, b, k;
    const tiny_status st = tgnn_so3_open(j->ctx, l, &so3);
    if (st) return st;
    for (round = 0; round < 2; round++) {
        j->n = 0;
        for (a = 0; a <= l; a++)
            for (b = 0; b <= l; b++)
                for (k = 0; k <= l; k++) {
                    c = tgnn_so3_couplings(so3, a, b, k, &n);
                    for (e = 0; e < n; e++, j->n++) {
                        if (!round) continue;
                        j->entry[j->n].value = c[e].value;
                        j->entry[j->n].at[0] = a * a + c[e].i;
                        j->entry[j->n].at[1] = b * b + c[e].j;
                        j->entry[j->n].at[2] = k * k + c[e].k;
                        j->norm2 += c[e].value * c[e].value;
                    }
                }
        if (round) break;
        j->entry = (tinyi_cp_entry *)tinyi_alloc(j->ctx, j->n, sizeof *j->entry);
        if (!j->entry) break;
    }
    tgnn_so3_close(j->ctx, so3);
    return j->entry ? TINY_OK : tiny_ctx_status(j->ctx);
}

/* |M - M'| from every number of both */
static double tinyi_cp_residual(const tinyi_cp_job *j, double *const f[3], double *row)
{
    const size_t d = (size_t)j->d, rank = (size_t)j->rank;
    double sum = 0.0;
    size_t i, k, m, r, e;
    for (i = 0; i < d; i++)
        for (k = 0; k < d; k++) {
            const double *a = f[0] + i * rank, *b = f[1] + k * rank;
            for (m = 0; m < d; m++) {
                const double *c = f[2] + m * rank;
                double v = 0.0;
                for (r = 0; r < rank; r++) v += a[r] * b[r] * c[r];
                row[m] = v;
            }
            for (e = 0; e < j->n; e++)
                if ((size_t)j->entry[e].at[0] == i && (size_t)j->entry[e].at[1] == k)
                    row[j->entry[e].at[2]] -= j->entry[e].value;
            for (m = 0; m < d; m++) sum += row[m] * row[m];
        }
    return tinyi_sqrt(sum);
}

/* ---- alternating least squares */

/* gram = or *= F^T F */
static void tinyi_cp_gram(const tinyi_cp_job *j, const double *f, int first)
{
    const size_t rank = (size_t)j->rank;
    size_t a, b, i;
    for (a = 0; a < rank; a++)
        for (b = 0; b <= a; b++) j->lower[a * rank + b] = 0.0;
    for (i = 0; i < (size_t)j->d; i++)
        for (a = 0; a < rank; a++) {
            const double v = f[i * rank + a];
            double *to = j->lower + a * rank;
            for (b = 0; b <= a; b++) to[b] += v * f[i * rank + b];
        }
    for (a = 0; a < rank; a++)
        for (b = 0; b <= a; b++) {
            const double v = j->lower[a * rank + b];
            j->gram[a * rank + b] = first ? v : j->gram[a * rank + b] * v;
        }
}

/* The new factor of one axis: right = U K, gram = K^T K, then the solution. */
static tiny_status tinyi_cp_solve(tinyi_cp_job *j, int axis, double lambda)
{
    const size_t rank = (size_t)j->rank, d = (size_t)j->d;
    const int p = (axis + 1) % 3, q = (axis + 2) % 3;
    tiny_tensor g = tiny_tensor_2d(j->gram, TINY_F64, j->rank, j->rank), l = g, u, x;
    tiny_status st = TINY_E_NUMERIC;
    size_t e, r;
    int tries;
    memset(j->right, 0, d * rank * sizeof *j->right);
    for (e = 0; e < j->n; e++) {
        const double v = j->entry[e].value, *a = j->f[p] + (size_t)j->entry[e].at[p] * rank,
                     *b = j->f[q] + (size_t)j->entry[e].at[q] * rank;
        double *to = j->right + (size_t)j->entry[e].at[axis] * rank;
        for (r = 0; r < rank; r++) to[r] += v * a[r] * b[r];
    }
    tinyi_cp_gram(j, j->f[p], 1);
    tinyi_cp_gram(j, j->f[q], 0);
    l.data = j->lower;
    for (tries = 0; st == TINY_E_NUMERIC && tries < 12; tries++) {     /* a border rank: columns grow and cancel */
        for (r = 0; r < rank; r++) j->gram[r * rank + r] += lambda;
        st = tiny_cholesky(j->ctx, &g, &l);
        lambda *= 9.0;                      /* the sum is ten times the last one */
    }
    u = tiny_tensor_swap(tiny_tensor_2d(j->right, TINY_F64, j->d, j->rank), 0, 1);
    x = tiny_tensor_swap(tiny_tensor_2d(j->f[axis], TINY_F64, j->d, j->rank), 0, 1);
    return st ? st : tiny_cholesky_solve(j->ctx, &l, &u, &x);
}

/* the columns of each r get one length */
static void tinyi_cp_balance(const tinyi_cp_job *j)
{
    const size_t rank = (size_t)j->rank;
    size_t r, i;
    int k;
    for (r = 0; r < rank; r++) {
        double n[3], mean;
        for (k = 0; k < 3; k++) {
            double s = 0.0;
            for (i = 0; i < (size_t)j->d; i++) s += j->f[k][i * rank + r] * j->f[k][i * rank + r];
            n[k] = tinyi_sqrt(s);
        }
        if (!(n[0] > 0.0 && n[1] > 0.0 && n[2] > 0.0)) continue;
        mean = tinyi_exp64((tinyi_log64(n[0]) + tinyi_log64(n[1]) + tinyi_log64(n[2])) / 3.0);
        for (k = 0; k < 3; k++)
            for (i = 0; i < (size_t)j->d; i++) j->f[k][i * rank + r] *= mean / n[k];
    }
}

/* |M - M'|^2 = |M|^2 - 2 <M, M'> + |M'|^2 after the last axis was solved: right and gram (without lambda) are its */
static double tinyi_cp_loss(const tinyi_cp_job *j)
{
    const size_t rank = (size_t)j->rank, n = rank * (size_t)j->d;
    double cross = 0.0, square = 0.0;
    size_t a, b, i;
    for (i = 0; i < n; i++) cross += j->right[i] * j->f[2][i];
    tinyi_cp_gram(j, j->f[0], 1);
    tinyi_cp_gram(j, j->f[1], 0);
    tinyi_cp_gram(j, j->f[2], 0);
    for (a = 0; a < rank; a++) {
        for (b = 0; b < a; b++) square += 2.0 * j->gram[a * rank + b];
        square += j->gram[a * rank + a];
    }
    return TINYI_MAX(0.0, j->norm2 - 2.0 * cross + square);
}

static tiny_status tinyi_cp_start(tinyi_cp_job *j, int start, double *loss)
{
    const tgnn_cp_desc *o = j->desc;
    const size_t n = (size_t)j->rank * (size_t)j->d;
    const int sweeps = o->sweeps ? o->sweeps : 2000;
    const double tol = o->tol > 0.0 ? o->tol : 1e-8;
    tiny_rng rng = tiny_rng_make(o->seed, (uint64_t)start);
    double lambda = o->ridge > 0.0 ? o->ridge : 1e-3, last = -1.0, now = 0.0;
    const double scale = tinyi_exp64(tinyi_log64(j->norm2 / (double)n) / 3.0) * 0.5;
    size_t i;
    int t, k, ends;
    for (k = 0; k < 3; k++)
        for (i = 0; i < n; i++) j->f[k][i] = scale * (double)tiny_rng_normal(&rng);
    for (t = 0; t < sweeps; t++) {
        double squares = 0.0;
        for (k = 0; k < 3; k++) {
            const tiny_status st = tinyi_cp_solve(j, k, lambda);
            if (st) return st;
        }
        now = tinyi_cp_loss(j);
        tinyi_cp_balance(j);
        for (k = 0; k < 3; k++)
            for (i = 0; i < n; i++) squares += j->f[k][i] * j->f[k][i];
        now += lambda * squares;
        ends = o->watch && o->watch(o->user, start, t, now);
        if (ends || (last >= 0.0 && (lambda <= 1e-9 || o->ridge > 0.0) && last - now < tol * last)) break;
        last = now;
        if (!(o->ridge > 0.0)) lambda = TINYI_MAX(1e-9, lambda * 0.99);
    }
    *loss = tinyi_cp_residual(j, j->f, j->lower);
    return TINY_OK;
}

/* ---- objects */

static tiny_status tinyi_cp_make(tiny_ctx *ctx, int l, int rank, tgnn_cp **out)
{
    const size_t n = (size_t)(l + 1) * (size_t)(l + 1) * (size_t)rank;
    tgnn_cp *cp = (tgnn_cp *)tinyi_alloc(ctx, 1, sizeof *cp);
    if (!cp) return tiny_ctx_status(ctx);
    memset(cp, 0, sizeof *cp);
    cp->l = l;
    cp->d = (l + 1) * (l + 1);
    cp->rank = rank;
    cp->factor[0] = (double *)tinyi_alloc(ctx, 3 * n, sizeof(double));
    if (!cp->factor[0]) {
        tiny_free(ctx, cp);
        return tiny_ctx_status(ctx);
    }
    memset(cp->factor[0], 0, 3 * n * sizeof(double));
    cp->factor[1] = cp->factor[0] + n;
    cp->factor[2] = cp->factor[1] + n;
    *out = cp;
    return TINY_OK;
}

TINY_API void tgnn_cp_close(tiny_ctx *ctx, tgnn_cp *cp)
{
    if (!cp || tinyi_ctx_check(ctx)) return;
    tiny_free(ctx, cp->factor[0]);
    tiny_free(ctx, cp);
}

TINY_API int tgnn_cp_degree(const tgnn_cp *cp) { return cp ? cp->l : -1; }
TINY_API int tgnn_cp_terms(const tgnn_cp *cp) { return cp ? cp->rank : 0; }
TINY_API double tgnn_cp_error(const tgnn_cp *cp) { return cp ? cp->error : 0.0; }
TINY_API double tgnn_cp_norm(const tgnn_cp *cp) { return cp ? cp->norm : 0.0; }
TINY_API const double *tgnn_cp_factor(const tgnn_cp *cp, int which)
{
    return cp && which >= 0 && which < 3 ? cp->factor[which] : NULL;
}

static tiny_status tinyi_cp_check(tiny_ctx *ctx, const tgnn_cp_desc *d)
{
    if (d->l < 0 || d->l > TGNN_CP_L_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cp: degree %d, it must be 0 to %d", d->l, TGNN_CP_L_MAX);
    if (d->rank < 1 || d->rank > TGNN_CP_RANK_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cp: rank %d, it must be 1 to %d", d->rank, TGNN_CP_RANK_MAX);
    if (d->starts < 0 || d->sweeps < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cp: %d starts of %d sweeps, both must be at least 0 (the default)",
                          d->starts, d->sweeps);
    if (!(d->tol >= 0.0 && d->tol < 1.0) || !(d->ridge >= 0.0 && d->ridge <= 1e6))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cp: tolerance %g and ridge %g, they must be in 0 to 1 and 0 to 1e6",
                          d->tol, d->ridge);
    return TINY_OK;
}

/* all pairs (i, j), and the row of M that belongs to each */
static void tinyi_cp_exact(const tinyi_cp_job *j, tgnn_cp *cp)
{
    const size_t d = (size_t)j->d;
    size_t r, e;
    for (r = 0; r < d * d; r++) cp->factor[0][r * d + r / d] = cp->factor[1][r * d + r % d] = 1.0;
    for (e = 0; e < j->n; e++) {
        const int32_t *at = j->entry[e].at;
        cp->factor[2][((size_t)at[0] * d + (size_t)at[1]) * d + (size_t)at[2]] = j->entry[e].value;
    }
}

static tiny_status tinyi_cp_search(tinyi_cp_job *j, tgnn_cp *cp)
{
    const size_t n = (size_t)j->rank * (size_t)j->d, rank = (size_t)j->rank;
    const int starts = j->desc->starts ? j->desc->starts : 3;
    double *room, least = -1.0, loss = 0.0;
    tiny_status st = TINY_OK;
    size_t i, r;
    int s, k;
    room = (double *)tinyi_alloc(j->ctx, 7 * n + 2 * rank * rank + (size_t)j->d, sizeof(double));
    if (!room) return tiny_ctx_status(j->ctx);
    for (k = 0; k < 3; k++) {
        j->f[k] = room + (size_t)k * n;
        j->best[k] = room + (size_t)(k + 3) * n;
    }
    j->right = room + 6 * n;
    j->gram = room + 7 * n;
    j->lower = j->gram + rank * rank;
    memset(j->gram, 0, (2 * rank * rank + (size_t)j->d) * sizeof(double));
    for (s = 0; !st && s < starts; s++) {
        st = tinyi_cp_start(j, s, &loss);
        if (!st && (least < 0.0 || loss < least)) {
            least = loss;
            for (k = 0; k < 3; k++) memcpy(j->best[k], j->f[k], n * sizeof(double));
        }
    }
    for (k = 0; !st && k < 3; k++)
        for (i = 0; i < (size_t)j->d; i++)
            for (r = 0; r < rank; r++) cp->factor[k][r * (size_t)j->d + i] = j->best[k][i * rank + r];
    cp->error = least / cp->norm;
    tiny_free(j->ctx, room);
    return st;
}

static int tinyi_cp_is_there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) (void)fclose(f);
    return f != NULL;
}

TINY_API tiny_status tgnn_cp_fit(tiny_ctx *ctx, const tgnn_cp_desc *desc, tgnn_cp **out)
{
    tinyi_cp_job j;
    tgnn_cp *cp = NULL;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "cp: the description or the place of the factors is missing");
    st = tinyi_cp_check(ctx, desc);
    if (st) return st;
    if (desc->file && tinyi_cp_is_there(desc->file)) {
        st = tgnn_cp_load(ctx, desc->file, &cp);
        if (!st && (cp->l != desc->l || cp->rank != desc->rank))
            st = tinyi_fail(ctx, TINY_E_ARGUMENT, "%s has factors of degree %d and rank %d, not of %d and %d",
                            desc->file, cp->l, cp->rank, desc->l, desc->rank);
        if (st) tgnn_cp_close(ctx, cp);
        else *out = cp;
        return st;
    }
    memset(&j, 0, sizeof j);
    j.ctx = ctx;
    j.desc = desc;
    j.d = (desc->l + 1) * (desc->l + 1);
    j.rank = desc->rank;
    st = tinyi_cp_tensor(&j);
    if (!st) st = tinyi_cp_make(ctx, desc->l, desc->rank, &cp);
    if (!st) {
        cp->norm = tinyi_sqrt(j.norm2);
        if (j.rank >= j.d * j.d) tinyi_cp_exact(&j, cp);
        else st = tinyi_cp_search(&j, cp);
    }
    if (!st && desc->file) st = tgnn_cp_save(ctx, cp, desc->file);
    tiny_free(ctx, j.entry);
    if (st) tgnn_cp_close(ctx, cp);
    else *out = cp;
    return st;
}

/* ---- files: a checkpoint with the entries l, rank, error, norm, and one tensor (3, rank, d) */

TINY_API tiny_status tgnn_cp_save(tiny_ctx *ctx, const tgnn_cp *cp, const char *path)
{
    tiny_checkpoint_writer_desc d;
    tiny_checkpoint_writer *w = NULL;
    tiny_tensor t;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!cp || !path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cp: factors and a path are needed");
    memset(&d, 0, sizeof d);
    d.path = path;
    t = tiny_tensor_3d(cp->factor[0], TINY_F64, 3, cp->rank, cp->d);
    st = tiny_checkpoint_create(ctx, &d, &w);
    if (st) return st;
    (void)tiny_checkpoint_put_text(ctx, w, "kind", "tgnn_cp");
    (void)tiny_checkpoint_put_u64(ctx, w, "l", (uint64_t)cp->l);
    (void)tiny_checkpoint_put_u64(ctx, w, "rank", (uint64_t)cp->rank);
    (void)tiny_checkpoint_put_f64(ctx, w, "error", cp->error);
    (void)tiny_checkpoint_put_f64(ctx, w, "norm", cp->norm);
    (void)tiny_checkpoint_put_tensor(ctx, w, "factors", &t);
    st = tiny_checkpoint_finish(ctx, w);
    tiny_checkpoint_writer_close(ctx, w);
    return st;
}

TINY_API tiny_status tgnn_cp_load(tiny_ctx *ctx, const char *path, tgnn_cp **out)
{
    tiny_checkpoint_desc d;
    tiny_checkpoint *c = NULL;
    tgnn_cp *cp = NULL;
    const char *kind = NULL;
    uint64_t l = 0, rank = 0;
    tiny_tensor t;
    tiny_status st = tinyi_ctx_check(ctx);
    tiny_idx i;
    if (out) *out = NULL;
    if (st) return st;
    if (!path || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "cp: a path and the place of the factors are needed");
    memset(&d, 0, sizeof d);
    d.path = path;
    st = tiny_checkpoint_open(ctx, &d, &c);
    if (!st) st = tiny_checkpoint_get_text(ctx, c, "kind", &kind);
    if (!st) st = tiny_checkpoint_get_u64(ctx, c, "l", &l);
    if (!st) st = tiny_checkpoint_get_u64(ctx, c, "rank", &rank);
    if (!st && (strcmp(kind, "tgnn_cp") || l > TGNN_CP_L_MAX || rank < 1 || rank > TGNN_CP_RANK_MAX))
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s has no factors of a coupling tensor, or of an unknown size", path);
    if (!st) st = tinyi_cp_make(ctx, (int)l, (int)rank, &cp);
    if (!st) {
        t = tiny_tensor_3d(cp->factor[0], TINY_F64, 3, cp->rank, cp->d);
        st = tiny_checkpoint_get_f64(ctx, c, "error", &cp->error);
        if (!st) st = tiny_checkpoint_get_f64(ctx, c, "norm", &cp->norm);
        if (!st) st = tiny_checkpoint_get_tensor(ctx, c, "factors", &t);
        for (i = 0; !st && i < tiny_tensor_count(&t); i++)
            if (!(cp->factor[0][i] - cp->factor[0][i] == 0.0))
                st = tinyi_fail(ctx, TINY_E_NUMERIC, "%s: number %td of the factors is not finite", path, i);
        if (!st && !(cp->error >= 0.0 && cp->norm > 0.0 && cp->norm < 1e6))
            st = tinyi_fail(ctx, TINY_E_NUMERIC, "%s: an error of %g and a norm of %g are impossible", path, cp->error,
                            cp->norm);
    }
    tiny_checkpoint_close(ctx, c);
    if (st) tgnn_cp_close(ctx, cp);
    else *out = cp;
    return st;
}
