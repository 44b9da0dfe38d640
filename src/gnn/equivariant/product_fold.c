/* src/gnn/equivariant/product_fold.c - the products FOLD and CP: one y for many channels of x
 * Paper    "Tensor Decomposition Networks for Fast Machine Learning Interatomic Potential Computations", 2025 (arXiv
 *          2507.01131): CP. FOLD is the exact form that the paper does not compare with.
 * Formula  FOLD  T[k][i] = sum_j M[i][j][k] y[j], once for a sample; out[k][u] = w[u] sum_i T[k][i] x[i][u]
 *          CP    s[r] = sum_j B[r][j] y[j], once; out[k][u] = w[u] sum_r C[r][k] s[r] (sum_i A[r][i] x[i][u])
 * Cost     multiply-adds of a channel: FOLD d1 d3 + nonzeros(M) / channels; CP (d1 + d3) rank + d2 rank / channels;
 *          degrees to 2: 81 and 504, to 4: 625 and 5600, to 6: 2401 and 24696 at rank 7 l^2
 * Method   FOLD makes the matrices of as many samples as a vector has lanes, one in each lane, and transposes them. The
 *          channels of x are in the lanes then, two vectors of them and four rows of the result at a time. CP keeps the
 *          rank x 2 vectors between its two products in the cache.
 * Gradient by x the same operation with i and k exchanged; by y: H[i][k] = sum_u w[u] x[i][u] g[k][u], then M H (FOLD);
 *          sum_u of both factors, then B (CP); by w the dot product of g and the result without w
 * Error    LINEAR: d1 + d2 (CP: + rank) terms on the way to a number, and 6 more roundings
 * Threads  Samples are independent: the same bits for any number of threads. */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/equivariant/cp.h"
#include "gnn/equivariant/harmonics_inside.h"
#include "gnn/equivariant/paths_inside.h"
#include "core/mem.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/grad_inside.h"
#include "math/layer.h"
#include "math/rows_inside.h"

/* inputs of both rows */
enum { TINYI_PF_X, TINYI_PF_Y, TINYI_PF_ENTRY, TINYI_PF_VALUE, TINYI_PF_W, TINYI_CP_A = 2, TINYI_CP_B, TINYI_CP_C,
       TINYI_CP_W };

/* ---- references */

TINY_REF_BEGIN
static double tinyi_pf_at(const tiny_tensor *t, tiny_idx z, tiny_idx c, tiny_idx k)
{
    return tinyi_real(t->data, t->dtype, z * t->stride[0] + c * t->stride[1] + k * t->stride[2]);
}
static void tinyi_pf_put(const tiny_tensor *t, tiny_idx z, tiny_idx c, tiny_idx k, double v)
{
    tinyi_real_set(t->data, t->dtype, z * t->stride[0] + c * t->stride[1] + k * t->stride[2], v);
}

static void tinyi_pf_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[TINYI_PF_X], *y = op->in[TINYI_PF_Y], *w = op->in[TINYI_PF_W],
                      *value = op->in[TINYI_PF_VALUE], *out = op->out[0];
    const int32_t *entry = (const int32_t *)op->in[TINYI_PF_ENTRY]->data;
    tiny_idx z, c, k, e;
    for (z = 0; z < out->dim[0]; z++)
        for (c = 0; c < out->dim[1]; c++)
            for (k = 0, e = 0; k < out->dim[2]; k++) {
                double sum = 0.0;
                for (; e < value->dim[0] && entry[3 * e + 2] == k; e++)
                    sum += tinyi_real(value->data, value->dtype, e) * tinyi_pf_at(x, z, c, entry[3 * e]) *
                           tinyi_pf_at(y, z, 0, entry[3 * e + 1]);
                tinyi_pf_put(out, z, c, k, w ? tinyi_pf_at(w, z, c, 0) * sum : sum);
            }
}

static void tinyi_cp_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[TINYI_PF_X], *y = op->in[TINYI_PF_Y], *a = op->in[TINYI_CP_A],
                      *b = op->in[TINYI_CP_B], *f = op->in[TINYI_CP_C], *w = op->in[TINYI_CP_W], *out = op->out[0];
    double term[TGNN_CP_RANK_MAX];
    tiny_idx z, c, k, r, i;
    for (z = 0; z < out->dim[0]; z++)
        for (c = 0; c < out->dim[1]; c++) {
            for (r = 0; r < a->dim[0]; r++) {
                double p = 0.0, s = 0.0;
                for (i = 0; i < a->dim[1]; i++)
                    p += tinyi_real(a->data, a->dtype, r * a->dim[1] + i) * tinyi_pf_at(x, z, c, i);
                for (i = 0; i < b->dim[1]; i++)
                    s += tinyi_real(b->data, b->dtype, r * b->dim[1] + i) * tinyi_pf_at(y, z, 0, i);
                term[r] = p * s;
            }
            for (k = 0; k < out->dim[2]; k++) {
                double sum = 0.0;
                for (r = 0; r < a->dim[0]; r++)
                    sum += tinyi_real(f->data, f->dtype, k * f->dim[1] + r) * term[r];
                tinyi_pf_put(out, z, c, k, w ? tinyi_pf_at(w, z, c, 0) * sum : sum);
            }
        }
}
TINY_REF_END

/* ---- fast */

typedef struct tinyi_pf_room { float *y, *t, *turned, *x, *out, *w, *p; } tinyi_pf_room;

/* channels c of sample z next to each other, numbers *step apart: in place, or a copy in room */
static const float *tinyi_pf_in(const tiny_team *team, const tiny_tensor *t, tiny_idx z, float *room, size_t *step)
{
    const float *from = (const float *)t->data + z * t->stride[0];
    const tiny_idx n = t->dim[1], d = t->dim[2], wide = (tiny_idx)tinyi_tp_padded(n);
    tiny_idx c, k;
    *step = (size_t)wide;
    if (t->stride[1] == 1 && (t->stride[2] > 0 || d == 1)) {
        *step = d == 1 ? 0 : (size_t)t->stride[2];
        return from;
    }
    if (t->stride[2] == 1 && t->stride[1] > 0)
        TINYI_OF(team->k, transpose_b4)((unsigned char *)room, wide * 4, (const unsigned char *)from, t->stride[1] * 4,
                                        (size_t)d, (size_t)n);
    else
        for (k = 0; k < d; k++)
            for (c = 0; c < n; c++) room[k * wide + c] = from[c * t->stride[1] + k * t->stride[2]];
    return room;
}

static void tinyi_pf_out(const tiny_team *team, const tiny_tensor *t, tiny_idx z, const float *room)
{
    float *to = (float *)t->data + z * t->stride[0];
    const tiny_idx n = t->dim[1], d = t->dim[2], wide = (tiny_idx)tinyi_tp_padded(n);
    tiny_idx c, k;
    if (t->stride[2] == 1 && t->stride[1] > 0)
        TINYI_OF(team->k, transpose_b4)((unsigned char *)to, t->stride[1] * 4, (const unsigned char *)room, wide * 4,
                                        (size_t)n, (size_t)d);
    else
        for (k = 0; k < d; k++)
            for (c = 0; c < n; c++) to[c * t->stride[1] + k * t->stride[2]] = room[k * wide + c];
}

static int tinyi_pf_straight(const tiny_tensor *out)
{
    return out->stride[1] == 1 && (out->stride[2] > 0 || out->dim[2] == 1);
}

/* floats of a thread; m: numbers that a sample has after its first step, T or s */
static size_t tinyi_pf_floats(const tiny_op *op, size_t m, size_t rank)
{
    const size_t c = tinyi_tp_padded(op->in[0]->dim[1]), lanes = TINYI_EDGE_LANES;
    return lanes * tinyi_tp_padded(op->in[1]->dim[2]) + 2 * lanes * (m + 16) +
           c * (size_t)(op->in[0]->dim[2] + op->out[0]->dim[2] + 1) + rank * 2 * lanes + 64;
}

static tinyi_pf_room tinyi_pf_rooms(const tiny_op *op, float *at, size_t m)
{
    const size_t c = tinyi_tp_padded(op->in[0]->dim[1]), lanes = TINYI_EDGE_LANES;
    tinyi_pf_room r;
    r.y = at;
    r.t = r.y + lanes * tinyi_tp_padded(op->in[1]->dim[2]);
    r.turned = r.t + lanes * (m + 16);
    r.x = r.turned + lanes * (m + 16);
    r.out = r.x + c * (size_t)op->in[0]->dim[2];
    r.w = r.out + c * (size_t)op->out[0]->dim[2];
    r.p = r.w + c;
    return r;
}

/* samples z .. z + n - 1: what depends on y, each sample's m numbers together in `turned` */
static void tinyi_pf_begin(const tiny_team *team, const tiny_op *op, const tinyi_product_kernels *k, int is_cp,
                             const tinyi_pf_room *r, tiny_idx z, tiny_idx n, size_t m)
{
    const size_t lanes = (size_t)k->lanes;
    tiny_tensor y = *op->in[TINYI_PF_Y];
    y.rank = 2;
    y.dim[1] = y.dim[2];
    y.stride[1] = y.stride[2];
    tinyi_tp_in(team, r->y, &y, z, n, k->lanes);
    if (is_cp)
        k->mix(r->t, lanes, (const float *)op->in[TINYI_CP_B]->data, m, (size_t)y.dim[1], r->y, lanes, lanes, NULL,
               NULL);
    else
        k->matrix(r->t, (const int32_t *)op->in[TINYI_PF_ENTRY]->data,
                  (const float *)op->in[TINYI_PF_VALUE]->data, (size_t)op->in[TINYI_PF_VALUE]->dim[0],
                  (size_t)op->in[TINYI_PF_X]->dim[2], r->y);
    if (lanes == 1) memcpy(r->turned, r->t, m * sizeof(float));
    else
        TINYI_OF(team->k, transpose_b4)((unsigned char *)r->turned, (ptrdiff_t)m * 4, (const unsigned char *)r->t,
                                        (ptrdiff_t)lanes * 4, (size_t)n, m);
}

static void tinyi_pf_run(tiny_team *team, const tiny_op *op, int is_cp)
{
    const tiny_tensor *x = op->in[0], *w = op->in[is_cp ? TINYI_CP_W : TINYI_PF_W], *out = op->out[0],
                      *f = is_cp ? op->in[TINYI_CP_C] : NULL;
    const tinyi_product_kernels *k = tinyi_product_kernels_of(team->k);
    const size_t d1 = (size_t)x->dim[2], d3 = (size_t)out->dim[2], rank = f ? (size_t)f->dim[1] : 0,
                 m = f ? rank : d1 * d3, c = (size_t)x->dim[1], pair = 2 * (size_t)k->lanes;
    const tinyi_pf_room r = tinyi_pf_rooms(op, (float *)team->own, m);
    const tiny_idx lanes = k->lanes, n = x->dim[0], blocks = (n + lanes - 1) / lanes;
    tiny_idx b, b1, i;
    if (!f) memset(r.t, 0, m * (size_t)lanes * sizeof(float));
    team->ran_on = k->from;
    while (tiny_take(team, blocks, 1, &b, &b1))
        for (; b < b1; b++) {
            const tiny_idx z = b * lanes, some = TINYI_MIN(n - z, lanes);
            tinyi_pf_begin(team, op, k, is_cp, &r, z, some, m);
            for (i = 0; i < some; i++) {
                size_t xs, ws, os = tinyi_tp_padded(out->dim[1]), u;
                const float *from = tinyi_pf_in(team, x, z + i, r.x, &xs);
                const float *by = w ? tinyi_pf_in(team, w, z + i, r.w, &ws) : NULL;
                const float *t = r.turned + (size_t)i * m;
                float *to = r.out;
                if (tinyi_pf_straight(out)) {
                    to = (float *)out->data + (z + i) * out->stride[0];
                    os = out->dim[2] == 1 ? 0 : (size_t)out->stride[2];
                }
                if (!f) k->mix(to, os, t, d3, d1, from, xs, c, NULL, by);
                else
                    for (u = 0; u < c; u += pair) {
                        const size_t some_c = TINYI_MIN(c - u, pair);
                        k->mix(r.p, pair, (const float *)op->in[TINYI_CP_A]->data, rank, d1, from + u, xs, some_c, t,
                               NULL);
                        k->mix(to + u, os, (const float *)f->data, d3, rank, r.p, pair, some_c, NULL,
                               by ? by + u : NULL);
                    }
                if (to == r.out) tinyi_pf_out(team, out, z + i, r.out);
            }
        }
}
static void tinyi_pf_fast(tiny_team *team, const tiny_op *op) { tinyi_pf_run(team, op, 0); }
static void tinyi_cp_fast(tiny_team *team, const tiny_op *op) { tinyi_pf_run(team, op, 1); }

static void tinyi_pf_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    (void)n_threads;
    *shared = 0;
    *own = tinyi_pf_floats(op, (size_t)(op->in[0]->dim[2] * op->out[0]->dim[2]), 0) * sizeof(float);
}
static void tinyi_cp_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const size_t rank = (size_t)op->in[TINYI_CP_A]->dim[0];
    (void)n_threads;
    *shared = 0;
    *own = tinyi_pf_floats(op, rank, rank) * sizeof(float);
}

/* ---- the rows */

static tiny_status tinyi_pf_shapes(tiny_ctx *ctx, const char *name, const tiny_tensor *x, const tiny_tensor *y,
                                     const tiny_tensor *w)
{
    char text[96];
    if (!tinyi_is_real(x) || x->rank != 3)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is %s, it must be samples x channels x numbers, f32 or f64", name,
                          tinyi_shape_text(x, text));
    if (y->dtype != x->dtype || y->rank != 3 || y->dim[0] != x->dim[0] || y->dim[1] != 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: y is %s, it must be %td x 1 x numbers %s", name,
                          tinyi_shape_text(y, text), x->dim[0], tiny_dtype_name(x->dtype));
    if (w && (w->dtype != x->dtype || w->rank != 3 || w->dim[0] != x->dim[0] || w->dim[1] != x->dim[1] ||
              w->dim[2] != 1))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: w is %s, it must be %td x %td x 1 %s", name,
                          tinyi_shape_text(w, text), x->dim[0], x->dim[1], tiny_dtype_name(x->dtype));
    return TINY_OK;
}

static int tinyi_pf_is_plan(const tiny_op *op, const tgnn_fold_params *params)
{
    const int type = op->in[0]->dtype == TINY_F64;
    const tinyi_pf *f = params->plan ? &params->plan->fold : NULL;
    return f && op->in[TINYI_PF_ENTRY]->data == f->entry[0].data &&
           op->in[TINYI_PF_VALUE]->data == f->value[type][0].data &&
           op->in[0]->dim[2] == params->plan->dim[TGNN_PRODUCT_X] &&
           op->in[1]->dim[2] == params->plan->dim[TGNN_PRODUCT_Y] && params->dim == params->plan->dim[TGNN_PRODUCT_OUT];
}

static tiny_status tinyi_pf_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[TINYI_PF_X], *y = op->in[TINYI_PF_Y], *entry = op->in[TINYI_PF_ENTRY],
                      *value = op->in[TINYI_PF_VALUE];
    const tgnn_fold_params *params = (const tgnn_fold_params *)op->params;
    tiny_idx dim[3], e;
    tiny_status st = tinyi_pf_shapes(ctx, "product_fold", x, y, op->in[TINYI_PF_W]);
    if (st) return st;
    if (!params || params->dim < 1 || params->dim > TINYI_SPH_MOST || x->dim[2] < 1 || y->dim[2] < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product_fold: x, y and the result must have 1 to %d numbers",
                          TINYI_SPH_MOST);
    if (entry->dtype != TINY_I32 || entry->rank != 2 || entry->dim[1] != 3 || value->dtype != x->dtype ||
        value->rank != 1 || value->dim[0] != entry->dim[0] || !tiny_tensor_is_dense(entry) ||
        !tiny_tensor_is_dense(value))
        return tinyi_fail(ctx, TINY_E_SHAPE, "product_fold: entries are a dense n x 3 i32, values n of the type of x");
    for (e = 0; !tinyi_pf_is_plan(op, params) && e < entry->dim[0]; e++) {
        const int32_t *t = (const int32_t *)entry->data + 3 * e;
        const int same = e && t[2] == t[-1], row = same && t[0] == t[-3],
                  after = !e || t[2] > t[-1] || (same && t[0] > t[-3]) || (row && t[1] > t[-2]);
        if (t[0] < 0 || t[0] >= x->dim[2] || t[1] < 0 || t[1] >= y->dim[2] || t[2] < 0 || t[2] >= params->dim || !after)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "product_fold: entry %td is (%d, %d, %d), they must be sorted by k, i, j and in %td x "
                              "%td x %d",
                              e, (int)t[0], (int)t[1], (int)t[2], x->dim[2], y->dim[2], params->dim);
    }
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    dim[2] = params->dim;
    tinyi_want(&want[0], x->dtype, 3, dim);
    return TINY_OK;
}

static tiny_status tinyi_cp_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[TINYI_PF_X], *y = op->in[TINYI_PF_Y], *f[3];
    tiny_idx dim[3];
    int i;
    const tiny_status st = tinyi_pf_shapes(ctx, "product_cp", x, y, op->in[TINYI_CP_W]);
    if (st) return st;
    for (i = 0; i < 3; i++) {
        f[i] = op->in[TINYI_CP_A + i];
        if (f[i]->dtype != x->dtype || f[i]->rank != 2 || !tiny_tensor_is_dense(f[i]))
            return tinyi_fail(ctx, TINY_E_SHAPE, "product_cp: a, b and c are dense matrices of the type of x");
    }
    if (f[0]->dim[1] != x->dim[2] || f[1]->dim[1] != y->dim[2] || f[1]->dim[0] != f[0]->dim[0] ||
        f[2]->dim[1] != f[0]->dim[0])
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "product_cp: a (rank, %td), b (rank, %td) and c (numbers, rank) do not fit", x->dim[2],
                          y->dim[2]);
    if (f[0]->dim[0] < 1 || f[0]->dim[0] > TGNN_CP_RANK_MAX || f[2]->dim[0] < 1 || x->dim[2] < 1 || y->dim[2] < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product_cp: rank %td, it must be 1 to %d", f[0]->dim[0],
                          TGNN_CP_RANK_MAX);
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    dim[2] = f[2]->dim[0];
    tinyi_want(&want[0], x->dtype, 3, dim);
    return TINY_OK;
}

static void tinyi_pf_bytes(const tiny_op *op, tiny_cost *c)
{
    c->bytes = 4.0 * ((double)tiny_tensor_count(op->in[0]) + (double)tiny_tensor_count(op->in[1]) +
                      (double)tiny_tensor_count(op->out[0]));
}
static void tinyi_pf_cost(const tiny_op *op, tiny_cost *c)
{
    const double n = (double)op->in[0]->dim[0];
    c->flops = 2.0 * n * ((double)op->in[TINYI_PF_VALUE]->dim[0] +
                          (double)op->in[0]->dim[1] * (double)op->in[0]->dim[2] * (double)op->out[0]->dim[2]);
    tinyi_pf_bytes(op, c);
}
static void tinyi_cp_cost(const tiny_op *op, tiny_cost *c)
{
    const double n = (double)op->in[0]->dim[0], rank = (double)op->in[TINYI_CP_A]->dim[0];
    c->flops = 2.0 * n * rank * ((double)op->in[1]->dim[2] + (double)op->in[0]->dim[1] *
                                 (double)(op->in[0]->dim[2] + op->out[0]->dim[2]));
    tinyi_pf_bytes(op, c);
}
static double tinyi_pf_terms(const tiny_op *op) { return (double)(op->in[0]->dim[2] + op->in[1]->dim[2]); }
static double tinyi_cp_terms_of(const tiny_op *op)
{
    return (double)(op->in[0]->dim[2] + op->in[1]->dim[2] + op->in[TINYI_CP_A]->dim[0]);
}

/* entries of the kit: every third place of (k, i, j), in this order */
enum { TINYI_PF_CASE_STEP = 3 };
static void tinyi_pf_case_fill(tiny_case *c, int i_input, void *data)
{
    const tiny_idx d1 = c->in[TINYI_PF_X].dim[2], d2 = c->in[TINYI_PF_Y].dim[2];
    int32_t *entry = (int32_t *)data;
    tiny_idx e;
    for (e = 0; e < c->in[i_input].dim[0]; e++) {
        const tiny_idx at = e * TINYI_PF_CASE_STEP;
        entry[3 * e] = (int32_t)(at / d2 % d1);
        entry[3 * e + 1] = (int32_t)(at % d2);
        entry[3 * e + 2] = (int32_t)(at / d2 / d1);
    }
}

static void tinyi_pf_case(tiny_case *c, tiny_idx d[3], int i_w)
{
    const tiny_idx n = tiny_case_dim(c, 40), channels = tiny_case_dim(c, 70);
    int i;
    for (i = 0; i < 3; i++) d[i] = c->index ? 1 + tiny_case_pick(c, 17) : 1;
    c->in[TINYI_PF_X] = tiny_tensor_3d(NULL, TINY_F32, n, channels, d[0]);
    c->in[TINYI_PF_Y] = tiny_tensor_3d(NULL, TINY_F32, n, 1, d[1]);
    c->in[i_w] = tiny_tensor_3d(NULL, TINY_F32, n, channels, 1);
    if (!c->index || tiny_case_pick(c, 2)) c->in[i_w].rank = -1;
    c->no_specials = 1;                     /* zeros of the matrix times infinity, sums that overflow in float only */
}

static void tinyi_pf_cases(tiny_case *c)
{
    tgnn_fold_params params;
    tiny_idx d[3], n;
    tinyi_pf_case(c, d, TINYI_PF_W);
    n = (d[0] * d[1] * d[2] + TINYI_PF_CASE_STEP - 1) / TINYI_PF_CASE_STEP;
    c->in[TINYI_PF_ENTRY] = tiny_tensor_2d(NULL, TINY_I32, n, 3);
    c->in[TINYI_PF_VALUE] = tiny_tensor_1d(NULL, TINY_F32, n);
    c->fill[TINYI_PF_ENTRY] = TINY_FILL_TABLE;
    c->dense[TINYI_PF_ENTRY] = c->dense[TINYI_PF_VALUE] = 1;
    c->fill_table = tinyi_pf_case_fill;
    memset(&params, 0, sizeof params);
    params.dim = (int)d[2];
    memcpy(c->params.bytes, &params, sizeof params);
}

static void tinyi_cp_cases(tiny_case *c)
{
    const tiny_idx rank = tiny_case_dim(c, 70);
    tiny_idx d[3];
    int i;
    tinyi_pf_case(c, d, TINYI_CP_W);
    for (i = 0; i < 3; i++) {
        c->in[TINYI_CP_A + i] =
            i < 2 ? tiny_tensor_2d(NULL, TINY_F32, rank, d[i]) : tiny_tensor_2d(NULL, TINY_F32, d[2], rank);
        c->dense[TINYI_CP_A + i] = 1;
    }
}

/* ---- gradients */

/* the row of this kind; from [0], or [1] with the axes of x and of the result exchanged */
static void tinyi_pf_fill(const tgnn_product *p, int type, int back, tgnn_fold_params *params, const tiny_tensor *x,
                            const tiny_tensor *y, const tiny_tensor *w, tiny_op *op)
{
    const tinyi_pf *f = &p->fold;
    const int is_cp = f->rank > 0;
    memset(op, 0, sizeof *op);
    memset(params, 0, sizeof *params);
    params->plan = p;
    params->dim = (int)p->dim[back ? TGNN_PRODUCT_X : TGNN_PRODUCT_OUT];
    op->row = is_cp ? tgnn_product_cp_row() : tgnn_product_fold_row();
    op->kind = op->row->kind;
    op->in[TINYI_PF_X] = x;
    op->in[TINYI_PF_Y] = y;
    op->in[is_cp ? TINYI_CP_W : TINYI_PF_W] = w;
    op->params = params;
    if (is_cp) {
        op->in[TINYI_CP_A] = &f->a[type][back];
        op->in[TINYI_CP_B] = &f->b[type];
        op->in[TINYI_CP_C] = &f->c[type][back];
    } else {
        op->in[TINYI_PF_ENTRY] = &f->entry[back];
        op->in[TINYI_PF_VALUE] = &f->value[type][back];
    }
}

/* dy (n, 1, d2) of FOLD: H (n, d1, d3), then its rows times all of M */
static tiny_status tinyi_pf_grad_y(tiny_grad *g, const tgnn_product *p, int type, const tiny_tensor *x,
                                     const tiny_tensor *dout, tiny_tensor *dy)
{
    const tiny_tensor turned = tiny_tensor_swap(*x, 1, 2);
    tiny_tensor h;
    tiny_status st = tiny_grad_run(g, TINY_OP_MATMUL, &turned, dout, NULL, &h);
    if (st) return st;
    h = tinyi_grad_as(&h, 3, x->dim[0], 1, h.dim[1] * h.dim[2], 0);
    return tiny_grad_run(g, TINY_OP_MATMUL, &h, &p->fold.dense[type], NULL, dy);
}

/* of CP: sum_u (A x)_ru (C^T g)_ru, then B */
static tiny_status tinyi_cp_grad_y(tiny_grad *g, const tgnn_product *p, int type, const tiny_tensor *x,
                                   const tiny_tensor *dout, tiny_tensor *dy)
{
    const tiny_tensor a = tiny_tensor_swap(p->fold.a[type][0], 0, 1);
    tiny_reduce_params channels;
    tiny_tensor left, right, both, sum;
    tiny_status st = tiny_grad_run(g, TINY_OP_MATMUL, x, &a, NULL, &left);
    memset(&channels, 0, sizeof channels);
    channels.axis = 1;
    channels.keep = 1;
    if (!st) st = tiny_grad_run(g, TINY_OP_MATMUL, dout, &p->fold.c[type][0], NULL, &right);
    if (!st) st = tiny_grad_run(g, TINY_OP_MUL, &left, &right, NULL, &both);
    if (!st) st = tiny_grad_run(g, TINY_OP_SUM, &both, NULL, &channels, &sum);
    return st ? st : tiny_grad_run(g, TINY_OP_MATMUL, &sum, &p->fold.b[type], NULL, dy);
}

static tiny_status tinyi_pf_grad_of(tiny_grad *g, const tiny_op *op, int i_w)
{
    const tgnn_fold_params *params = (const tgnn_fold_params *)op->params;
    const tiny_tensor *x = op->in[TINYI_PF_X], *y = op->in[TINYI_PF_Y], *w = op->in[i_w], *dout;
    const int type = x->dtype == TINY_F64;
    const tgnn_product *p = params ? params->plan : NULL;
    tgnn_fold_params own;
    tiny_tensor t, gw;
    tiny_op again;
    tiny_status st = TINY_OK;
    if (!p || p->fold.rank != (i_w == TINYI_CP_W ? (int)op->in[TINYI_CP_A]->dim[0] : 0))
        return tinyi_fail(tiny_grad_ctx(g), TINY_E_ARGUMENT, "product: without its plan in params it has no gradient");
    dout = tiny_grad_of(g, 0);
    if (!dout) return TINY_OK;
    if (tiny_grad_wants(g, TINYI_PF_X)) {
        tinyi_pf_fill(p, type, 1, &own, dout, y, w, &again);
        st = tiny_grad_new(g, x->dtype, 3, x->dim, &t);
        again.out[0] = &t;
        if (!st) st = tiny_grad_op(g, &again);
        if (!st) st = tiny_grad_add(g, TINYI_PF_X, &t);
    }
    if (!st && w && tiny_grad_wants(g, i_w)) {
        tiny_reduce_params numbers;
        tiny_tensor dw;
        memset(&numbers, 0, sizeof numbers);
        numbers.keep = 1;
        tinyi_pf_fill(p, type, 0, &own, x, y, NULL, &again);
        st = tiny_grad_new(g, x->dtype, 3, op->out[0]->dim, &t);
        again.out[0] = &t;
        if (!st) st = tiny_grad_op(g, &again);
        if (!st) st = tiny_grad_run(g, TINY_OP_DOT, &t, dout, &numbers, &dw);
        if (!st) st = tiny_grad_add(g, i_w, &dw);
    }
    if (!st && tiny_grad_wants(g, TINYI_PF_Y)) {
        gw = *dout;
        if (w) st = tiny_grad_run(g, TINY_OP_MUL, dout, w, NULL, &gw);
        if (!st) st = p->fold.rank ? tinyi_cp_grad_y(g, p, type, x, &gw, &t) : tinyi_pf_grad_y(g, p, type, x, &gw, &t);
        if (!st) st = tiny_grad_add(g, TINYI_PF_Y, &t);
    }
    return st;
}
static tiny_status tinyi_pf_grad(tiny_grad *g, const tiny_op *op) { return tinyi_pf_grad_of(g, op, TINYI_PF_W); }
static tiny_status tinyi_cp_grad(tiny_grad *g, const tiny_op *op) { return tinyi_pf_grad_of(g, op, TINYI_CP_W); }

static const short tinyi_pf_slots[] = { TINYI_K_transpose_b4, -1 };
static const tiny_op_row tinyi_row_product_fold = TINYI_ROW_OF(
    "product_fold", TGNN_OP_PRODUCT_FOLD, TAKES(5, 4), GIVES(1), PARAMS(tgnn_fold_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_pf_shape), REFERENCE(tinyi_pf_ref),
    FAST(tinyi_pf_fast, tinyi_pf_work), COST(tinyi_pf_cost), CASES(tinyi_pf_cases),
    BOUND(TINY_BOUND_LINEAR, 6, 1), TERMS(tinyi_pf_terms), GRADIENT(tinyi_pf_grad), KERNELS(tinyi_pf_slots),
    SAYS("out[u] = w[u] M x[u] y: one y for all channels u, the matrix M y made once"));
static const tiny_op_row tinyi_row_product_cp = TINYI_ROW_OF(
    "product_cp", TGNN_OP_PRODUCT_CP, TAKES(6, 5), GIVES(1), PARAMS(tgnn_fold_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_cp_shape), REFERENCE(tinyi_cp_ref),
    FAST(tinyi_cp_fast, tinyi_cp_work), COST(tinyi_cp_cost), CASES(tinyi_cp_cases), BOUND(TINY_BOUND_LINEAR, 8, 1),
    TERMS(tinyi_cp_terms_of), GRADIENT(tinyi_cp_grad), KERNELS(tinyi_pf_slots),
    SAYS("out[u] = w[u] c ((a x[u]) (b y)): one y for all channels u, by low-rank factors"));
TINY_API const tiny_op_row *tgnn_product_fold_row(void) { return &tinyi_row_product_fold; }
TINY_API const tiny_op_row *tgnn_product_cp_row(void) { return &tinyi_row_product_cp; }

/* ---- tables of a plan */

/* a tensor of the context, kept at *t */
static double *tinyi_pf_new(tiny_ctx *ctx, tiny_tensor *t, tiny_dtype type, tiny_idx rows, tiny_idx columns)
{
    *t = tiny_tensor_2d(NULL, type, rows, columns);
    t->data = tinyi_alloc(ctx, (size_t)(rows * columns) + 1, tiny_dtype_bytes(type));
    return (double *)t->data;
}

/* f32 from f64 */
static int tinyi_pf_narrow(tiny_ctx *ctx, const tiny_tensor *from, tiny_tensor *to)
{
    const tiny_idx n = tiny_tensor_count(from);
    tiny_idx i;
    *to = *from;
    to->dtype = TINY_F32;
    to->data = tinyi_alloc(ctx, (size_t)n + 1, sizeof(float));
    for (i = 0; to->data && i < n; i++) ((float *)to->data)[i] = (float)((const double *)from->data)[i];
    return to->data != NULL;
}

void tinyi_pf_free(tiny_ctx *ctx, tinyi_pf *f)
{
    int i, k;
    for (i = 0; i < 2; i++) {
        tiny_free(ctx, f->entry[i].data);
        tiny_free(ctx, f->dense[i].data);
        tiny_free(ctx, f->b[i].data);
        for (k = 0; k < 2; k++) {
            tiny_free(ctx, f->value[i][k].data);
            tiny_free(ctx, f->a[i][k].data);
            tiny_free(ctx, f->c[i][k].data);
        }
    }
    memset(f, 0, sizeof *f);
}

/* all numbers of M, (d1 d3, d2), and how many are not 0 */
static tiny_status tinyi_pf_dense(tiny_ctx *ctx, const tgnn_product *p, tinyi_pf *f, tiny_idx *n_entries)
{
    const tgnn_product_desc *d = &p->desc;
    const tiny_idx d1 = p->dim[TGNN_PRODUCT_X], d2 = p->dim[TGNN_PRODUCT_Y], d3 = (d->l3 + 1) * (d->l3 + 1);
    tgnn_so3 *so3 = NULL;
    double *m = NULL;
    size_t n, e;
    int i;
    tiny_status st = tgnn_so3_open(ctx, TINYI_MAX(TINYI_MAX(d->l1, d->l2), d->l3), &so3);
    if (!st) m = tinyi_pf_new(ctx, &f->dense[1], TINY_F64, d1 * d3, d2);
    if (!st && !m) st = tiny_ctx_status(ctx);
    if (!st) memset(m, 0, (size_t)(d1 * d2 * d3) * sizeof *m);
    *n_entries = 0;
    for (i = 0; !st && i < p->n_paths; i++) {
        const int *l = p->path[i];
        const tgnn_coupling *c = tgnn_so3_couplings(so3, l[0], l[1], l[2], &n);
        const double scale = d->norm == TGNN_PRODUCT_NORM ? tinyi_sqrt((2.0 * l[0] + 1.0) * (2.0 * l[1] + 1.0))
                             : d->norm == TGNN_PRODUCT_COMPONENT ? tinyi_sqrt(2.0 * l[2] + 1.0)
                                                                 : 1.0;
        for (e = 0; e < n; e++) {
            const tiny_idx x = l[0] * l[0] + c[e].i, y = l[1] * l[1] + c[e].j, k = l[2] * l[2] + c[e].k;
            m[(x * d3 + k) * d2 + y] = scale * c[e].value;
        }
        *n_entries += (tiny_idx)n;
    }
    tgnn_so3_close(ctx, so3);
    return st;
}

static tiny_status tinyi_pf_entries(tiny_ctx *ctx, const tgnn_product *p, tinyi_pf *f)
{
    const tiny_idx d1 = p->dim[TGNN_PRODUCT_X], d2 = p->dim[TGNN_PRODUCT_Y],
                   d3 = (p->desc.l3 + 1) * (p->desc.l3 + 1);
    tiny_idx n, e, i, j, k;
    int back;
    tiny_status st = tinyi_pf_dense(ctx, p, f, &n);
    for (back = 0; !st && back < 2; back++) {
        const double *m = (const double *)f->dense[1].data;
        const tiny_idx na = back ? d1 : d3, nb = back ? d3 : d1;        /* of the result, of x */
        double *value = tinyi_pf_new(ctx, &f->value[1][back], TINY_F64, n, 1);
        int32_t *entry;
        (void)tinyi_pf_new(ctx, &f->entry[back], TINY_I32, n, 3);
        entry = (int32_t *)f->entry[back].data;
        f->value[1][back].rank = 1;
        if (!value || !entry) return tiny_ctx_status(ctx);
        for (k = 0, e = 0; k < na; k++)
            for (i = 0; i < nb; i++)
                for (j = 0; j < d2; j++) {
                    const double v = m[(back ? k * d3 + i : i * d3 + k) * d2 + j];
                    if (v == 0.0 || e >= n) continue;
                    entry[3 * e] = (int32_t)i;
                    entry[3 * e + 1] = (int32_t)j;
                    entry[3 * e + 2] = (int32_t)k;
                    value[e++] = v;
                }
        f->entry[back].dim[0] = f->value[1][back].dim[0] = e;
        if (!tinyi_pf_narrow(ctx, &f->value[1][back], &f->value[0][back])) st = tiny_ctx_status(ctx);
    }
    if (!st && !tinyi_pf_narrow(ctx, &f->dense[1], &f->dense[0])) st = tiny_ctx_status(ctx);
    return st;
}

static tiny_status tinyi_pf_factors(tiny_ctx *ctx, const tgnn_cp *cp, tinyi_pf *f)
{
    const tiny_idx d = (tiny_idx)(tgnn_cp_degree(cp) + 1) * (tgnn_cp_degree(cp) + 1), rank = tgnn_cp_terms(cp);
    tiny_idx r, i;
    int back, ok = 1;
    for (back = 0; ok && back < 2; back++) {
        const double *first = tgnn_cp_factor(cp, back ? 2 : 0), *last = tgnn_cp_factor(cp, back ? 0 : 2);
        double *a = tinyi_pf_new(ctx, &f->a[1][back], TINY_F64, rank, d),
               *c = a ? tinyi_pf_new(ctx, &f->c[1][back], TINY_F64, d, rank) : NULL;
        if (!c) return tiny_ctx_status(ctx);
        memcpy(a, first, (size_t)(rank * d) * sizeof *a);
        for (r = 0; r < rank; r++)
            for (i = 0; i < d; i++) c[i * rank + r] = last[r * d + i];
        ok = tinyi_pf_narrow(ctx, &f->a[1][back], &f->a[0][back]) &&
             tinyi_pf_narrow(ctx, &f->c[1][back], &f->c[0][back]);
    }
    if (ok && tinyi_pf_new(ctx, &f->b[1], TINY_F64, rank, d)) {
        memcpy(f->b[1].data, tgnn_cp_factor(cp, 1), (size_t)(rank * d) * sizeof(double));
        ok = tinyi_pf_narrow(ctx, &f->b[1], &f->b[0]);
    }
    f->rank = (int)rank;
    return ok && f->b[0].data ? TINY_OK : tiny_ctx_status(ctx);
}

tiny_status tinyi_pf_build(tiny_ctx *ctx, const tgnn_product *p, int kind, tinyi_pf *f)
{
    tiny_status st;
    memset(f, 0, sizeof *f);
    st = kind == TGNN_PRODUCT_CP ? tinyi_pf_factors(ctx, p->desc.cp, f) : tinyi_pf_entries(ctx, p, f);
    if (st) tinyi_pf_free(ctx, f);
    return st;
}

double tinyi_pf_operations(const tinyi_pf *f, int channels)
{
    const double per = channels > 1 ? channels : 1.0;
    if (f->rank)
        return (double)f->rank * ((double)f->a[1][0].dim[1] + (double)f->c[1][0].dim[0] +
                                  (double)f->b[1].dim[1] / per);
    return (double)f->dense[1].dim[0] + (double)f->value[1][0].dim[0] / per;
}

/* ---- the same as a program, for a y of each channel */

static void tinyi_pf_weigh(const tgnn_product *p, tinyi_pc *pc, int from, int n)
{
    const int w = (int)(p->dim[TGNN_PRODUCT_X] + p->dim[TGNN_PRODUCT_Y]);
    int out = from, k;
    if (p->dim[TGNN_PRODUCT_W]) {
        out = tinyi_pc_regs(pc, n);
        for (k = 0; k < n; k++) {
            tinyi_pc_row(pc, out + k, TINYI_PC_PAIRS);
            tinyi_pc_term(pc, 1.0, w, from + k);
        }
    }
    tinyi_pc_set_out(pc, out, n);
}

void tinyi_pf_program(const tgnn_product *p, const tinyi_pf *f, tinyi_pc *pc)
{
    const int d1 = (int)p->dim[TGNN_PRODUCT_X], d2 = (int)p->dim[TGNN_PRODUCT_Y],
              d3 = (p->desc.l3 + 1) * (p->desc.l3 + 1);
    const int out = tinyi_pc_regs(pc, d3);
    int i, j, k, r;
    if (f->rank) {
        const double *a = (const double *)f->a[1][0].data, *b = (const double *)f->b[1].data,
                     *c = (const double *)f->c[1][0].data;
        const int both = tinyi_pc_regs(pc, f->rank);
        for (r = 0; r < f->rank; r++) {
            const int one = tinyi_pc_regs(pc, 2);
            tinyi_pc_row(pc, one, 0);
            for (i = 0; i < d1; i++) tinyi_pc_term(pc, a[r * d1 + i], i, -1);
            tinyi_pc_row(pc, one + 1, 0);
            for (j = 0; j < d2; j++) tinyi_pc_term(pc, b[r * d2 + j], d1 + j, -1);
            tinyi_pc_row(pc, both + r, TINYI_PC_PAIRS);
            tinyi_pc_term(pc, 1.0, one, one + 1);
        }
        for (k = 0; k < d3; k++) {
            tinyi_pc_row(pc, out + k, 0);
            for (r = 0; r < f->rank; r++) tinyi_pc_term(pc, c[k * f->rank + r], both + r, -1);
        }
    } else {
        const int32_t *entry = (const int32_t *)f->entry[0].data;
        const double *value = (const double *)f->value[1][0].data;
        const tiny_idx n = f->entry[0].dim[0];
        tiny_idx e = 0;
        for (k = 0; k < d3; k++) {
            const int t = tinyi_pc_regs(pc, d1);
            const tiny_idx first = e;
            while (e < n && entry[3 * e + 2] == k) {
                i = (int)entry[3 * e];
                tinyi_pc_row(pc, t + i, 0);
                for (; e < n && entry[3 * e + 2] == k && entry[3 * e] == i; e++)
                    tinyi_pc_term(pc, value[e], d1 + (int)entry[3 * e + 1], -1);
            }
            tinyi_pc_row(pc, out + k, TINYI_PC_PAIRS);
            for (i = -1, e = first; e < n && entry[3 * e + 2] == k; e++)
                if (entry[3 * e] != i) {
                    i = (int)entry[3 * e];
                    tinyi_pc_term(pc, 1.0, t + i, i);
                }
        }
    }
    tinyi_pf_weigh(p, pc, out, d3);
}

int tinyi_pf_op(const tgnn_product *p, tgnn_fold_params *params, const tiny_tensor *x, const tiny_tensor *y,
                  const tiny_tensor *w, tiny_op *op)
{
    if (!p->fold.entry[0].data && !p->fold.rank) return 0;
    if (!x || !y || x->rank != 3 || y->rank != 3 || x->dim[1] < 2 || y->dim[1] != 1 ||
        x->dim[2] != p->dim[TGNN_PRODUCT_X] || y->dim[2] != p->dim[TGNN_PRODUCT_Y] ||
        (w != NULL) != (p->dim[TGNN_PRODUCT_W] == 1))
        return 0;
    tinyi_pf_fill(p, x->dtype == TINY_F64, 0, params, x, y, w, op);
    return 1;
}

/* ---- modes: channels mixed before or after one product for each result */

/* (n, rows, d) -> (n, columns, d) by w (rows, columns), or turned (columns, rows) */
static tiny_tensor tinyi_pf_mixed(tiny_tape *tape, const tiny_tensor *x, const tiny_tensor *w, int turned)
{
    const tiny_tensor by = turned ? *w : tiny_tensor_swap(*w, 0, 1);
    return tiny_tape_call(tape, TINY_OP_MATMUL, &by, x, NULL, NULL, NULL);
}

/* every channel of t with every one of the n others: (n, u, 1, d) or (n, 1, v, d), repeated, then (n, u v, d) */
static tiny_tensor tinyi_pf_pairs(tiny_tape *tape, const tiny_tensor *t, tiny_idx others, int second)
{
    tiny_idx dim[3];
    tiny_tensor p = *t;
    p.rank = 4;
    p.dim[3] = t->dim[2];
    p.stride[3] = t->stride[2];
    p.dim[1] = second ? others : t->dim[1];
    p.stride[1] = second ? 0 : t->stride[1];
    p.dim[2] = second ? t->dim[1] : others;
    p.stride[2] = second ? t->stride[1] : 0;
    dim[0] = t->dim[0];
    dim[1] = t->dim[1] * others;
    dim[2] = t->dim[2];
    return tiny_tape_reshape(tape, &p, 3, dim);
}

TINY_API tiny_tensor tgnn_tape_product_mode(tiny_tape *tape, const tgnn_product *p, int mode, const tiny_tensor *x,
                                            const tiny_tensor *y, const tiny_tensor *w)
{
    tiny_tensor none, a, b, by;
    int ok;
    memset(&none, 0, sizeof none);
    if (!tape || tiny_tape_status(tape)) return none;
    ok = p && x && y && w && x->rank == 3 && y->rank == 3 && x->dim[0] == y->dim[0] && !p->dim[TGNN_PRODUCT_W] &&
         p->kind < TGNN_PRODUCT_KINDS && mode >= TGNN_PATH_UVW && mode <= TGNN_PATH_UUU;
    if (ok) {
        const tiny_idx u = x->dim[1], v = y->dim[1];
        switch (mode) {
        case TGNN_PATH_UVW: ok = w->rank == 3 && w->dim[0] == u && w->dim[1] == v; break;
        case TGNN_PATH_UUW: ok = w->rank == 2 && w->dim[0] == u && u == v; break;
        case TGNN_PATH_UUU: ok = w->rank == 1 && w->dim[0] == u && u == v; break;
        default: ok = w->rank == 2 && w->dim[0] == u && w->dim[1] == v; break;
        }
    }
    if (!ok) {
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE,
                                "product: a mode, a plan without weights, x (n, u, numbers), y (n, v, numbers) and w "
                                "of the shape of the mode are needed");
        return none;
    }
    a = *x;
    b = *y;
    if (mode == TGNN_PATH_UVU) b = tinyi_pf_mixed(tape, y, w, 1);
    if (mode == TGNN_PATH_UVV) a = tinyi_pf_mixed(tape, x, w, 0);
    if (mode == TGNN_PATH_UVW) {
        a = tinyi_pf_pairs(tape, x, y->dim[1], 0);
        b = tinyi_pf_pairs(tape, y, x->dim[1], 1);
    }
    if (tiny_tape_status(tape)) return none;
    a = tgnn_tape_product(tape, p, &a, &b, NULL);
    if (tiny_tape_status(tape)) return none;
    by = *w;
    if (mode == TGNN_PATH_UUU) {            /* (u, 1), repeated along the numbers */
        by.rank = 2;
        by.dim[1] = 1;
        by.stride[1] = 0;
        return tiny_tape_mul(tape, &a, &by);
    }
    if (mode == TGNN_PATH_UVW) {
        tiny_idx dim[2];
        dim[0] = w->dim[0] * w->dim[1];
        dim[1] = w->dim[2];
        by = tiny_tape_reshape(tape, w, 2, dim);
        if (tiny_tape_status(tape)) return none;
    }
    return mode == TGNN_PATH_UVW || mode == TGNN_PATH_UUW ? tinyi_pf_mixed(tape, &a, &by, 0) : a;
}
