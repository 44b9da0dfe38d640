/* src/gnn/equivariant/paths.c - weighted products of irreps, their gradients, and their sums over edges
 * Papers   M. Geiger, T. Smidt, "e3nn: Euclidean Neural Networks", 2022 (arXiv 2207.09453): modes and factors. S.
 *          Batzner et al., "E(3)-equivariant graph neural networks for data-efficient and accurate interatomic
 *          potentials", 2022: the convolution. Formula: gnn/equivariant/paths.h.
 * Tables   a row of TINYI_TP_COLUMNS numbers for each path; its entries (i, j, k), in the order of k, i, j, and their
 *          values, the factor of the path in them.
 * Method   run and back: samples side by side, one in each lane. conv: for each edge and path first the matrix
 *          t[k][i] = sum_j C[i][j][k] y[j], then out[k][u] += w[u] sum_i t[k][i] x[i][u] with copies u in the lanes:
 *          for a degree of 2, 35 multiply-adds a copy instead of 2 * 43. A row of the result is summed in the first
 *          cache and written once. Other modes: the edges of a row side by side.
 * Threads  conv cuts edges + rows into pieces as math/edges.c does; a row belongs to one thread. The sums over samples
 *          of dw have TINYI_TP_CHUNKS parts. So the same bits for any number of threads.
 * Error    LINEAR: the terms of a sum, u; 8 more for its products and the rounded table.
 * Left out a hub (a row with most of the edges) keeps one thread busy. */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/equivariant/paths_inside.h"
#include "core/mem.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/rows_inside.h"

#define TINYI_TP_CHUNKS 16                  /* parts of the samples whose dw are summed each by itself */

tinyi_tp_op tinyi_tp_read(const tiny_tensor *const *table, const tiny_tensor *x, const tiny_tensor *y,
                                 const tiny_tensor *w)
{
    tinyi_tp_op o;
    o.x = x;
    o.y = y;
    o.w = w;
    o.g = NULL;
    o.path = (const tinyi_tp_path *)table[0]->data;
    o.n_paths = table[0]->dim[0];
    o.entry = (const int32_t *)table[1]->data;
    o.n_entries = table[1]->dim[0];
    o.value = (const double *)table[2]->data;
    o.n = y->dim[0];
    o.shared = w && w->dim[0] == 1;
    return o;
}

static tinyi_tp_op tinyi_tp_of(const tiny_op *op)
{
    const int back = op->out[1] != NULL;
    tinyi_tp_op o = tinyi_tp_read(op->in + TINYI_TP_TABLE, op->in[TINYI_TP_X], op->in[TINYI_TP_Y],
                                  op->in[back ? TINYI_TP_BACK_W : TINYI_TP_W]);
    if (back) o.g = op->in[TINYI_TP_G];
    return o;
}

/* ---- copies that go together */

/* the ranges of u, v and w of a path where that of one axis (0, 1, 2) is `at` alone; axis -1: all */
static void tinyi_tp_ranges(const tinyi_tp_path *p, int axis, int32_t at, int32_t low[3], int32_t high[3])
{
    const int uv = p->mode == TGNN_PATH_UUW || p->mode == TGNN_PATH_UUU,
              uw = p->mode == TGNN_PATH_UVU || p->mode == TGNN_PATH_UUU,
              vw = p->mode == TGNN_PATH_UVV || p->mode == TGNN_PATH_UUU;
    int i;
    low[0] = low[1] = low[2] = 0;
    high[0] = p->mul1;
    high[1] = p->mul2;
    high[2] = p->mul3;
    if (axis < 0) return;
    for (i = 0; i < 3; i++)
        if (i == axis || (uv && i + axis == 1) || (uw && i + axis == 2 && i != 1) || (vw && i + axis == 3)) {
            low[i] = at;
            high[i] = at + 1;
        }
}
/* copies that are multiplied in this mode */
static int tinyi_tp_joined(int mode, int32_t u, int32_t v, int32_t w)
{
    switch (mode) {
    case TGNN_PATH_UVU: return u == w;
    case TGNN_PATH_UVV: return v == w;
    case TGNN_PATH_UUW: return u == v;
    case TGNN_PATH_UUU: return u == v && v == w;
    default: return 1;
    }
}

static tiny_idx tinyi_tp_weight_of(const tinyi_tp_path *p, tiny_idx u, tiny_idx v, tiny_idx w)
{
    switch (p->mode) {
    case TGNN_PATH_UVW: return p->weight + (u * p->mul2 + v) * p->mul3 + w;
    case TGNN_PATH_UUW: return p->weight + u * p->mul3 + w;
    case TGNN_PATH_UUU: return p->weight + u;
    default: return p->weight + u * p->mul2 + v;
    }
}

int64_t tinyi_tp_weights(const tinyi_tp_path *p)
{
    const int64_t a = p->mul1, b = p->mul2, c = p->mul3;
    switch (p->mode) {
    case TGNN_PATH_UVW: return a * b > INT32_MAX ? INT64_MAX : a * b * c;
    case TGNN_PATH_UUW: return a * c;
    case TGNN_PATH_UUU: return a;
    default: return a * b;
    }
}

/* number of copy u and component i in a block */
static tiny_idx tinyi_tp_at(int32_t off, int32_t mul, int32_t l, int32_t last, tiny_idx u, tiny_idx i)
{
    return off + (last ? i * mul + u : u * (2 * l + 1) + i);
}

/* ---- reference: every number of a result by itself */

TINY_REF_BEGIN
static double tinyi_tp_value(const tiny_tensor *t, tiny_idx row, tiny_idx i)
{
    return tinyi_real(t->data, t->dtype, row * t->stride[0] + i * t->stride[1]);
}

/* the number `at` of a result (axis 2), of dx (0) or of dy (1), from row zx of x and row z of the others */
double tinyi_tp_number(const tinyi_tp_op *o, int axis, tiny_idx at, tiny_idx zx, tiny_idx z)
{
    double sum = 0.0;
    tiny_idx i_path;
    for (i_path = 0; i_path < o->n_paths; i_path++) {
        const tinyi_tp_path *p = o->path + i_path;
        const int32_t l = axis == 0 ? p->l1 : axis == 1 ? p->l2 : p->l3,
                      mul = axis == 0 ? p->mul1 : axis == 1 ? p->mul2 : p->mul3;
        const tiny_idx in = at - (axis == 0 ? p->off1 : axis == 1 ? p->off2 : p->off3);
        int32_t low[3], high[3], u, v, w, e, copy, component;
        if (in < 0 || in >= (tiny_idx)mul * (2 * l + 1)) continue;
        copy = (int32_t)(p->last ? in % mul : in / (2 * l + 1));
        component = (int32_t)(p->last ? in / mul : in % (2 * l + 1));
        tinyi_tp_ranges(p, axis, copy, low, high);
        for (u = low[0]; u < high[0]; u++)
            for (v = low[1]; v < high[1]; v++)
                for (w = low[2]; w < high[2]; w++) {
                    double part = 0.0;
                    if (!tinyi_tp_joined(p->mode, u, v, w)) continue;
                    for (e = p->first; e < p->end; e++) {
                        const int32_t *c = o->entry + 3 * e;
                        double term = o->value[e];
                        if (c[axis] != component) continue;
                        if (axis != 0)
                            term *= tinyi_tp_value(o->x, zx, tinyi_tp_at(p->off1, p->mul1, p->l1, p->last, u, c[0]));
                        if (axis != 1)
                            term *= tinyi_tp_value(o->y, z, tinyi_tp_at(p->off2, p->mul2, p->l2, p->last, v, c[1]));
                        if (axis != 2)
                            term *= tinyi_tp_value(o->g, z, tinyi_tp_at(p->off3, p->mul3, p->l3, p->last, w, c[2]));
                        part += term;
                    }
                    if (p->weight >= 0)
                        part *= tinyi_tp_value(o->w, o->shared ? 0 : z, tinyi_tp_weight_of(p, u, v, w));
                    sum += part;
                }
    }
    return sum;
}

static void tinyi_tp_ref(const tiny_op *op)
{
    const tinyi_tp_op o = tinyi_tp_of(op);
    const tiny_tensor *out = op->out[0];
    tiny_idx z, k;
    for (z = 0; z < o.n; z++)
        for (k = 0; k < out->dim[1]; k++)
            tinyi_real_set(out->data, out->dtype, z * out->stride[0] + k * out->stride[1],
                           tinyi_tp_number(&o, 2, k, z, z));
}

/* dw of u, v, w of a path, by sample z */
static double tinyi_tp_weight_slope(const tinyi_tp_op *o, const tinyi_tp_path *p, int32_t u, int32_t v, int32_t w,
                                    tiny_idx z)
{
    double sum = 0.0;
    int32_t e;
    for (e = p->first; e < p->end; e++) {
        const int32_t *c = o->entry + 3 * e;
        sum += o->value[e] * tinyi_tp_value(o->x, z, tinyi_tp_at(p->off1, p->mul1, p->l1, p->last, u, c[0])) *
               tinyi_tp_value(o->y, z, tinyi_tp_at(p->off2, p->mul2, p->l2, p->last, v, c[1])) *
               tinyi_tp_value(o->g, z, tinyi_tp_at(p->off3, p->mul3, p->l3, p->last, w, c[2]));
    }
    return sum;
}

static void tinyi_tp_back_ref(const tiny_op *op)
{
    const tinyi_tp_op o = tinyi_tp_of(op);
    const tiny_tensor *dw = op->out[2];
    tiny_idx z, k, i_path, row;
    int axis;
    for (axis = 0; axis < 2; axis++)
        for (z = 0; z < o.n; z++)
            for (k = 0; k < op->out[axis]->dim[1]; k++)
                tinyi_real_set(op->out[axis]->data, op->out[axis]->dtype,
                               z * op->out[axis]->stride[0] + k * op->out[axis]->stride[1],
                               tinyi_tp_number(&o, axis, k, z, z));
    for (row = 0; row < dw->dim[0]; row++)
        for (k = 0; k < dw->dim[1]; k++)
            tinyi_real_set(dw->data, dw->dtype, row * dw->stride[0] + k * dw->stride[1], 0.0);
    for (i_path = 0; o.w && i_path < o.n_paths; i_path++) {
        const tinyi_tp_path *p = o.path + i_path;
        int32_t u, v, w;
        for (u = 0; p->weight >= 0 && u < p->mul1; u++)
            for (v = 0; v < p->mul2; v++)
                for (w = 0; w < p->mul3; w++) {
                    const tiny_idx to = tinyi_tp_weight_of(p, u, v, w);
                    if (!tinyi_tp_joined(p->mode, u, v, w)) continue;
                    for (row = 0; row < dw->dim[0]; row++) {
                        double sum = 0.0;
                        for (z = o.shared ? 0 : row; z < (o.shared ? o.n : row + 1); z++)
                            sum += tinyi_tp_weight_slope(&o, p, u, v, w, z);
                        tinyi_real_set(dw->data, dw->dtype, row * dw->stride[0] + to * dw->stride[1], sum);
                    }
                }
    }
}

TINY_REF_END

/* ---- fast */

#define TINYI_TP_MOST_LANES 16

size_t tinyi_tp_padded(tiny_idx n) { return ((size_t)n + 15) / 16 * 16; }

size_t tinyi_tp_room_floats(const tinyi_tp_op *o, tiny_idx d_out, int back)
{
    const size_t d = tinyi_tp_padded(o->x->dim[1]) + tinyi_tp_padded(o->y->dim[1]),
                 w = o->w && !o->shared ? tinyi_tp_padded(o->w->dim[1]) : 0;
    return tinyi_tp_padded(o->n_entries) + (o->shared ? tinyi_tp_padded(o->w->dim[1]) : 0) +
           TINYI_TP_MOST_LANES * ((back ? 2 : 1) * (d + w) + tinyi_tp_padded(d_out) + 2 * TINYI_TP_SIDE);
}

tinyi_tp_room tinyi_tp_room_of(const tinyi_tp_op *o, float *at, tiny_idx d_out, int lanes, int back)
{
    const size_t w = o->w && !o->shared ? tinyi_tp_padded(o->w->dim[1]) : 0, x = tinyi_tp_padded(o->x->dim[1]),
                 y = tinyi_tp_padded(o->y->dim[1]), n = (size_t)lanes;
    tinyi_tp_room r;
    tiny_idx i;
    r.value = at;
    for (i = 0; i < o->n_entries; i++) at[i] = (float)o->value[i];
    r.weight = at += tinyi_tp_padded(o->n_entries);
    if (o->shared) {
        for (i = 0; i < o->w->dim[1]; i++) at[i] = ((const float *)o->w->data)[i * o->w->stride[1]];
        at += tinyi_tp_padded(o->w->dim[1]);
    }
    r.x = at;
    r.y = r.x + x * n;
    r.w = r.y + y * n;
    r.g = r.w + w * n;
    r.t = r.g + tinyi_tp_padded(d_out) * n;
    r.dx = r.t + 2 * TINYI_TP_SIDE * n;
    r.dy = r.dx + (back ? x * n : 0);
    r.dw = r.dy + (back ? y * n : 0);
    return r;
}

/* rows z .. z + n - 1 side by side, zeros in the lanes after them */
void tinyi_tp_in(const tiny_team *team, float *block, const tiny_tensor *t, tiny_idx z, tiny_idx n, int lanes)
{
    const float *from = (const float *)t->data + z * t->stride[0];
    tiny_idx i, k;
    if (t->stride[1] == 1 && t->stride[0] > 0)
        TINYI_OF(team->k, transpose_b4)
        ((unsigned char *)block, lanes * 4, (const unsigned char *)from, t->stride[0] * 4, (size_t)t->dim[1],
         (size_t)n);
    else
        for (k = 0; k < t->dim[1]; k++)
            for (i = 0; i < n; i++) block[k * lanes + i] = from[i * t->stride[0] + k * t->stride[1]];
    for (k = 0; n < lanes && k < t->dim[1]; k++)
        for (i = n; i < lanes; i++) block[k * lanes + i] = 0.0f;
}

static void tinyi_tp_out(const tiny_team *team, const float *block, const tiny_tensor *t, tiny_idx z, tiny_idx n,
                         int lanes)
{
    float *to = (float *)t->data + z * t->stride[0];
    tiny_idx i, k;
    if (t->stride[1] == 1 && t->stride[0] > 0)
        TINYI_OF(team->k, transpose_b4)((unsigned char *)to, t->stride[0] * 4, (const unsigned char *)block, lanes * 4,
                                        (size_t)n, (size_t)t->dim[1]);
    else
        for (k = 0; k < t->dim[1]; k++)
            for (i = 0; i < n; i++) to[i * t->stride[0] + k * t->stride[1]] = block[k * lanes + i];
}

static void tinyi_tp_back_block(const tiny_team *team, const tinyi_product_kernels *k, const tinyi_tp_op *o,
                                const tinyi_tp_room *r, const tiny_op *op, tiny_idx z, tiny_idx n, float *dw)
{
    const tiny_idx lanes = k->lanes;
    tiny_idx i;
    tinyi_tp_in(team, r->x, o->x, z, n, k->lanes);
    tinyi_tp_in(team, r->y, o->y, z, n, k->lanes);
    tinyi_tp_in(team, r->g, o->g, z, n, k->lanes);
    if (o->w && !o->shared) {
        tinyi_tp_in(team, r->w, o->w, z, n, k->lanes);
        memset(r->dw, 0, (size_t)(o->w->dim[1] * lanes) * sizeof(float));
    }
    memset(r->dx, 0, (size_t)(o->x->dim[1] * lanes) * sizeof(float));
    memset(r->dy, 0, (size_t)(o->y->dim[1] * lanes) * sizeof(float));
    for (i = 0; i < o->n_paths; i++)
        k->back(o->path + i, o->entry, r->value, r->x, r->y, o->shared ? r->weight : r->w, r->g, o->shared, r->dx,
                r->dy, o->shared ? dw : r->dw, r->t);
    tinyi_tp_out(team, r->dx, op->out[0], z, n, k->lanes);
    tinyi_tp_out(team, r->dy, op->out[1], z, n, k->lanes);
    if (o->w && !o->shared) tinyi_tp_out(team, r->dw, op->out[2], z, n, k->lanes);
}

static void tinyi_tp_back_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_tp_op o = tinyi_tp_of(op);
    const tinyi_product_kernels *k = tinyi_product_kernels_of(team->k);
    const tiny_tensor *dw = op->out[2];
    const tinyi_tp_room r = tinyi_tp_room_of(&o, (float *)team->own, o.g->dim[1], k->lanes, 1);
    const size_t wide = o.shared ? tinyi_tp_padded(o.w->dim[1]) : 0;
    const tiny_idx lanes = k->lanes, blocks = (o.n + lanes - 1) / lanes;
    float *part = (float *)team->shared;
    tiny_idx c, c1, b, i, i1;
    while (tiny_take(team, o.shared ? TINYI_TP_CHUNKS : blocks, o.shared ? 1 : 4, &c, &c1))
        for (; c < c1; c++) {
            const tiny_idx from = o.shared ? blocks * c / TINYI_TP_CHUNKS : c,
                           to = o.shared ? blocks * (c + 1) / TINYI_TP_CHUNKS : c + 1;
            if (o.shared) memset(part + wide * (size_t)c, 0, wide * sizeof *part);
            for (b = from; b < to; b++)
                tinyi_tp_back_block(team, k, &o, &r, op, b * lanes, TINYI_MIN(o.n - b * lanes, lanes),
                                    part + wide * (size_t)c);
        }
    team->ran_on = k->from;
    if (!o.shared) return;
    tiny_barrier(team);
    while (tiny_take(team, dw->dim[1], 1024, &i, &i1))
        for (; i < i1; i++) {
            float sum = 0.0f;
            for (c = 0; c < TINYI_TP_CHUNKS; c++) sum += part[wide * (size_t)c + (size_t)i];
            ((float *)dw->data)[i * dw->stride[1]] = sum;
        }
    team->ran_on = k->from;
}

static void tinyi_tp_back_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const tinyi_tp_op o = tinyi_tp_of(op);
    (void)n_threads;
    *shared = o.shared ? TINYI_TP_CHUNKS * tinyi_tp_padded(o.w->dim[1]) * sizeof(float) : 0;
    *own = tinyi_tp_room_floats(&o, o.g->dim[1], 1) * sizeof(float);
}

/* products alone: samples side by side, or, with many copies that fold, each sample by itself */
static int tinyi_tp_wide(const tinyi_tp_op *o)
{
    tiny_idx i, copies = 0;
    for (i = 0; i < o->n_paths; i++) copies += o->path[i].mul1;
    return copies >= 8 * o->n_paths && o->n_paths && tinyi_tc_folds(o);
}

static void tinyi_tp_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_tp_op o = tinyi_tp_of(op);
    const tinyi_product_kernels *k = tinyi_product_kernels_of(team->k);
    const tiny_tensor *out = op->out[0];
    const tiny_idx lanes = k->lanes;
    const tinyi_tp_room r = tinyi_tp_room_of(&o, (float *)team->own, out->dim[1], k->lanes, 0);
    tiny_idx b, b1, i;
    if (tinyi_tp_wide(&o)) {
        tinyi_tc_job j;
        tinyi_tc_open(&j, o, team, out->dim[1]);
        while (tiny_take(team, o.n, 16, &b, &b1))
            for (; b < b1; b++) {
                memset(j.acc, 0, (size_t)out->dim[1] * sizeof *j.acc);
                tinyi_tc_fold_row(&j, tinyi_tc_row_of_x(team, &o, b, j.last, j.room, j.r.x), b);
                tinyi_tc_row_out(team, &j, out, b);
            }
        team->ran_on = k->from;
        return;
    }
    while (tiny_take(team, (o.n + lanes - 1) / lanes, 4, &b, &b1))
        for (; b < b1; b++) {
            const tiny_idx z = b * lanes, n = TINYI_MIN(o.n - z, lanes);
            tinyi_tp_in(team, r.x, o.x, z, n, k->lanes);
            tinyi_tp_in(team, r.y, o.y, z, n, k->lanes);
            if (o.w && !o.shared) tinyi_tp_in(team, r.w, o.w, z, n, k->lanes);
            memset(r.g, 0, (size_t)(out->dim[1] * lanes) * sizeof(float));
            for (i = 0; i < o.n_paths; i++)
                k->side(o.path + i, o.entry, r.value, r.g, r.x, r.y, o.shared ? r.weight : r.w, o.shared, r.t);
            tinyi_tp_out(team, r.g, out, z, n, k->lanes);
        }
    team->ran_on = k->from;
}

static void tinyi_tp_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const tinyi_tp_op o = tinyi_tp_of(op);
    (void)n_threads;
    *shared = 0;
    *own = tinyi_tc_floats(&o, op->out[0]->dim[1]) * sizeof(float);
}

/* ---- the rows */

static int tinyi_tp_block_fits(int32_t off, int32_t mul, int32_t l, tiny_idx d)
{
    return off >= 0 && mul >= 0 && mul <= TGNN_IRREPS_MUL && l >= 0 && l <= TGNN_L_MAX &&
           (int64_t)off + (int64_t)mul * (2 * l + 1) <= (int64_t)d;
}

int tinyi_tp_mode_fits(const tinyi_tp_path *p)
{
    switch (p->mode) {
    case TGNN_PATH_UVW: return 1;
    case TGNN_PATH_UVU: return p->mul1 == p->mul3;
    case TGNN_PATH_UVV: return p->mul2 == p->mul3;
    case TGNN_PATH_UUW: return p->mul1 == p->mul2;
    case TGNN_PATH_UUU: return p->mul1 == p->mul2 && p->mul2 == p->mul3;
    default: return 0;
    }
}

/* every number of the tables: blocks within x, y, out and w, entries within blocks and in the order of k */
tiny_status tinyi_tp_tables(tiny_ctx *ctx, const char *name, const tiny_tensor *const *table, tiny_idx d1,
                                   tiny_idx d2, tiny_idx d3, const tiny_tensor *w)
{
    const tiny_tensor *t = table[0], *entry = table[1], *value = table[2];
    const tinyi_tp_path *p = (const tinyi_tp_path *)t->data;
    const int32_t *c = (const int32_t *)entry->data;
    tiny_idx i;
    int32_t e;
    if (t->dtype != TINY_I32 || t->rank != 2 || t->dim[1] != TINYI_TP_COLUMNS || entry->dtype != TINY_I32 ||
        entry->rank != 2 || entry->dim[1] != 3 || value->dtype != TINY_F64 || value->rank != 1 ||
        value->dim[0] != entry->dim[0] || !tiny_tensor_is_dense(t) || !tiny_tensor_is_dense(entry) ||
        !tiny_tensor_is_dense(value))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: the tables of paths and entries are not those of a plan", name);
    for (i = 0; i < t->dim[0]; i++, p++) {
        int ok = tinyi_tp_block_fits(p->off1, p->mul1, p->l1, d1) && tinyi_tp_block_fits(p->off2, p->mul2, p->l2, d2) &&
                 tinyi_tp_block_fits(p->off3, p->mul3, p->l3, d3) && tinyi_tp_mode_fits(p) && p->first >= 0 &&
                 p->end >= p->first && p->end <= entry->dim[0] && (p->last == 0 || p->last == 1) && p->weight >= -1;
        if (ok && p->weight >= 0) ok = w && p->weight <= w->dim[1] && tinyi_tp_weights(p) <= w->dim[1] - p->weight;
        for (e = p->first; ok && e < p->end; e++)
            ok = c[3 * e] >= 0 && c[3 * e] <= 2 * p->l1 && c[3 * e + 1] >= 0 && c[3 * e + 1] <= 2 * p->l2 &&
                 c[3 * e + 2] >= (e > p->first ? c[3 * e - 1] : 0) && c[3 * e + 2] <= 2 * p->l3;
        if (!ok)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: path %td does not fit x, y, w and the result of %td, %td, %td "
                              "and %td numbers", name, i, d1, d2, w ? w->dim[1] : 0, d3);
    }
    return TINY_OK;
}

tiny_status tinyi_tp_rows(tiny_ctx *ctx, const char *name, const char *what, const tiny_tensor *t,
                                 tiny_dtype type, tiny_idx n, int one)
{
    char text[96];
    if (t->dtype == type && tinyi_is_real(t) && t->rank == 2 && (t->dim[0] == n || (one && t->dim[0] == 1)))
        return TINY_OK;
    return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %s, it must be of rank 2, %td%s rows of %s", name, what,
                      tinyi_shape_text(t, text), n, one ? " or 1" : "",
                      tinyi_is_real(t) ? tiny_dtype_name(type) : "f32");
}

static tiny_status tinyi_tp_shape_of(tiny_ctx *ctx, const tiny_op *op, int back, tiny_tensor *want)
{
    const char *name = back ? "paths_back" : "paths";
    const tiny_tensor *x = op->in[TINYI_TP_X], *y = op->in[TINYI_TP_Y], *g = back ? op->in[TINYI_TP_G] : NULL,
                      *w = op->in[back ? TINYI_TP_BACK_W : TINYI_TP_W];
    const tgnn_paths_params *params = (const tgnn_paths_params *)op->params;
    tiny_idx dim[2];
    tiny_status st = tinyi_tp_rows(ctx, name, "x", x, x->dtype, x->rank == 2 ? x->dim[0] : 0, 0);
    if (!st) st = tinyi_tp_rows(ctx, name, "y", y, x->dtype, x->dim[0], 0);
    if (!st && w) st = tinyi_tp_rows(ctx, name, "w", w, x->dtype, x->dim[0], 1);
    if (!st && g) st = tinyi_tp_rows(ctx, name, "g", g, x->dtype, x->dim[0], 0);
    if (st) return st;
    if (!back && (!params || params->dim < 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: params must give the numbers of a result");
    dim[0] = x->dim[0];
    dim[1] = back ? g->dim[1] : params->dim;
    st = tinyi_tp_tables(ctx, name, op->in + TINYI_TP_TABLE, x->dim[1], y->dim[1], dim[1], w);
    if (st) return st;
    if (!back) {
        tinyi_want(&want[0], x->dtype, 2, dim);
        return TINY_OK;
    }
    tinyi_want(&want[0], x->dtype, 2, x->dim);
    tinyi_want(&want[1], x->dtype, 2, y->dim);
    dim[0] = w ? w->dim[0] : 1;
    dim[1] = w ? w->dim[1] : 0;
    tinyi_want(&want[2], x->dtype, 2, dim);
    return TINY_OK;
}

static tiny_status tinyi_tp_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    return tinyi_tp_shape_of(ctx, op, 0, want);
}
static tiny_status tinyi_tp_back_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    return tinyi_tp_shape_of(ctx, op, 1, want);
}

/* multiply-adds of a sample */
double tinyi_tp_operations(const tinyi_tp_op *o)
{
    double n = 0.0;
    tiny_idx i;
    for (i = 0; i < o->n_paths; i++) {
        const tinyi_tp_path *p = o->path + i;
        const double same = p->mode == TGNN_PATH_UUW || p->mode == TGNN_PATH_UUU ? 1.0 : (double)p->mul2,
                     pairs = (double)p->mul1 * same,
                     to = p->mode == TGNN_PATH_UVW || p->mode == TGNN_PATH_UUW ? (double)p->mul3 : 1.0;
        n += pairs * (2.0 * (double)(p->end - p->first) + to * (2.0 * p->l3 + 1.0));
    }
    return n;
}

static void tinyi_tp_cost(const tiny_op *op, tiny_cost *c)
{
    const tinyi_tp_op o = tinyi_tp_of(op);
    const double n = (double)o.n, d = (double)(o.x->dim[1] + o.y->dim[1] + (o.w && !o.shared ? o.w->dim[1] : 0));
    c->flops = 2.0 * n * tinyi_tp_operations(&o) * (o.g ? 3.0 : 1.0);
    c->bytes = 4.0 * n * (o.g ? 2.0 * d + (double)o.g->dim[1] : d + (double)op->out[0]->dim[1]);
}

/* the most terms of a number of the result or of the gradients */
double tinyi_tp_terms_of(const tinyi_tp_op *o)
{
    double n = 0.0;
    tiny_idx i;
    for (i = 0; i < o->n_paths; i++) {
        const tinyi_tp_path *p = o->path + i;
        const double most = (double)TINYI_MAX(TINYI_MAX(p->mul1, p->mul2), p->mul3);
        n += most * (p->mode == TGNN_PATH_UVW ? most : 1.0) * (double)(2 * TINYI_MIN(p->l1, p->l2) + 1);
    }
    return n;
}
static double tinyi_tp_terms(const tiny_op *op)
{
    const tinyi_tp_op o = tinyi_tp_of(op);
    return tinyi_tp_terms_of(&o) + (o.g && o.shared ? (double)o.n / 8.0 : 0.0);
}

/* ---- cases of the kit: up to three paths of any modes, with entries that need not be those of rotations */

static void tinyi_tp_case_path(tiny_case *c, tinyi_tp_path *p, const tinyi_tp_path *before, int fold, int weighted,
                               int last)
{
    memset(p, 0, sizeof *p);
    p->mode = fold ? TGNN_PATH_UVU : tiny_case_pick(c, 5);
    p->mul1 = fold ? 1 + tiny_case_pick(c, 40) : 1 + tiny_case_pick(c, 4);
    p->mul2 = fold ? 1 : p->mode >= TGNN_PATH_UUW ? p->mul1 : 1 + tiny_case_pick(c, 4);
    p->mul3 = p->mode == TGNN_PATH_UVU || p->mode == TGNN_PATH_UUU ? p->mul1
              : p->mode == TGNN_PATH_UVV                            ? p->mul2
                                                                    : 1 + tiny_case_pick(c, 5);
    p->l1 = tiny_case_pick(c, 3);
    p->l2 = tiny_case_pick(c, 3);
    p->l3 = tiny_case_pick(c, 3);
    p->last = last;
    p->weight = -1;
    if (before) {
        p->off1 = before->off1 + before->mul1 * (2 * before->l1 + 1);
        p->off2 = before->off2 + before->mul2 * (2 * before->l2 + 1);
        p->off3 = before->off3 + before->mul3 * (2 * before->l3 + 1);
        p->first = before->end;
    }
    p->end = p->first + 4;
    if (weighted) p->weight = before ? before->weight + (int32_t)tinyi_tp_weights(before) : 0;
}

/* the paths of a case: the same again from the same numbers */
enum { TINYI_TP_CASE_PATHS = 3 };
static void tinyi_tp_case_paths(const tiny_case *c, int table, tinyi_tp_path *p)
{
    tiny_case own = *c;
    int i;
    const int fold = (int)(c->limit[table] & 1), weighted = (int)(c->limit[table] >> 1 & 1),
              last = (int)(c->limit[table] >> 2 & 1);
    own.rng = tiny_rng_make((uint64_t)c->limit[table], 77);
    for (i = 0; i < TINYI_TP_CASE_PATHS; i++)
        tinyi_tp_case_path(&own, p + i, i ? p + i - 1 : NULL, fold, weighted, last);
}

static void tinyi_tp_case_fill(tiny_case *c, int i_input, void *data)
{
    const int table = c->in[0].dtype == TINY_I64 ? TINYI_TC_TABLE : TINYI_TP_TABLE;
    tinyi_tp_path p[TINYI_TP_CASE_PATHS];
    int32_t *to = (int32_t *)data;
    int i, e;
    if (i_input == 0) {
        tinyi_edge_fill(c, i_input, data);
        return;
    }
    tinyi_tp_case_paths(c, table, p);
    if (i_input == table) memcpy(data, p, sizeof p);
    for (i = 0; i < TINYI_TP_CASE_PATHS && i_input == table + 1; i++)
        for (e = 0; e < 4; e++) {
            to[3 * (4 * i + e)] = tiny_case_pick(c, 2 * p[i].l1 + 1);
            to[3 * (4 * i + e) + 1] = tiny_case_pick(c, 2 * p[i].l2 + 1);
            to[3 * (4 * i + e) + 2] = e * p[i].l3 / 2;
        }
    for (i = 0; i < 4 * TINYI_TP_CASE_PATHS && i_input == table + 2; i++)
        ((double *)data)[i] = tiny_rng_uniform64(&c->rng) - 0.5;
}

/* tables from `table` on; d: numbers of x, y, result, weights */
void tinyi_tp_case_tables(tiny_case *c, int table, int fold, tiny_idx d[4])
{
    const int weighted = tiny_case_pick(c, 4) != 0, last = tiny_case_pick(c, 2);
    tinyi_tp_path p[TINYI_TP_CASE_PATHS], *end = p + TINYI_TP_CASE_PATHS - 1;
    int i;
    c->limit[table] = 8 * tiny_case_pick(c, 1000) + 4 * last + 2 * weighted + fold;
    tinyi_tp_case_paths(c, table, p);
    d[0] = end->off1 + end->mul1 * (2 * end->l1 + 1);
    d[1] = end->off2 + end->mul2 * (2 * end->l2 + 1);
    d[2] = end->off3 + end->mul3 * (2 * end->l3 + 1);
    d[3] = weighted ? end->weight + (tiny_idx)tinyi_tp_weights(end) : 0;
    c->in[table] = tiny_tensor_2d(NULL, TINY_I32, TINYI_TP_CASE_PATHS, TINYI_TP_COLUMNS);
    c->in[table + 1] = tiny_tensor_2d(NULL, TINY_I32, 4 * TINYI_TP_CASE_PATHS, 3);
    c->in[table + 2] = tiny_tensor_1d(NULL, TINY_F64, 4 * TINYI_TP_CASE_PATHS);
    for (i = table; i < table + 3; i++) {
        c->fill[i] = TINY_FILL_TABLE;
        c->dense[i] = 1;
    }
    c->fill_table = tinyi_tp_case_fill;
    c->no_specials = 1;                     /* sums of outliers overflow in float, and not in double */
}

static void tinyi_tp_case(tiny_case *c, int back)
{
    const tiny_idx n = tiny_case_dim(c, 70);
    const int w = back ? TINYI_TP_BACK_W : TINYI_TP_W;
    tgnn_paths_params params;
    tiny_idx d[4];
    memset(&params, 0, sizeof params);
    tinyi_tp_case_tables(c, TINYI_TP_TABLE, !back && tiny_case_pick(c, 3) == 0, d);
    c->in[TINYI_TP_X] = tiny_tensor_2d(NULL, TINY_F32, n, d[0]);
    c->in[TINYI_TP_Y] = tiny_tensor_2d(NULL, TINY_F32, n, d[1]);
    if (back) c->in[TINYI_TP_G] = tiny_tensor_2d(NULL, TINY_F32, n, d[2]);
    c->in[w] = tiny_tensor_2d(NULL, TINY_F32, tiny_case_pick(c, 2) ? 1 : n, d[3]);
    if (!d[3]) c->in[w].rank = -1;
    params.dim = (int)d[2];
    if (!back) memcpy(c->params.bytes, &params, sizeof params);
}
static void tinyi_tp_cases(tiny_case *c) { tinyi_tp_case(c, 0); }
static void tinyi_tp_back_cases(tiny_case *c) { tinyi_tp_case(c, 1); }

static const short tinyi_tp_slots[] = { TINYI_K_transpose_b4, -1 };
static const tiny_op_row tinyi_row_paths_back = TINYI_ROW_OF(
    "paths_back", TGNN_OP_PATHS_BACK, TAKES(7, 6), GIVES(3), NO_PARAMS, FLAGS(TINY_OP_LOOSE | TINY_OP_F64),
    SHAPE(tinyi_tp_back_shape), REFERENCE(tinyi_tp_back_ref), FAST(tinyi_tp_back_fast, tinyi_tp_back_work),
    COST(tinyi_tp_cost), CASES(tinyi_tp_back_cases), BOUND(TINY_BOUND_LINEAR, 8, 1), TERMS(tinyi_tp_terms),
    GRADIENT(NULL), KERNELS(tinyi_tp_slots), SAYS("dx, dy, dw = the gradients of a weighted product of irreps"));

void tinyi_tp_back_op(tiny_op *back, const tiny_tensor *const *table, const tiny_tensor *x,
                             const tiny_tensor *y, const tiny_tensor *w, const tiny_tensor *g)
{
    memset(back, 0, sizeof *back);
    back->row = &tinyi_row_paths_back;
    back->kind = TGNN_OP_PATHS_BACK;
    back->in[TINYI_TP_X] = x;
    back->in[TINYI_TP_Y] = y;
    memcpy(back->in + TINYI_TP_TABLE, table, 3 * sizeof *table);
    back->in[TINYI_TP_G] = g;
    back->in[TINYI_TP_BACK_W] = w;
}

/* runs it into new scratch */
tiny_status tinyi_tp_back_run(tiny_grad *g, tiny_op *back, tiny_tensor d[3])
{
    const tiny_tensor *x = back->in[TINYI_TP_X], *y = back->in[TINYI_TP_Y], *w = back->in[TINYI_TP_BACK_W];
    tiny_idx dim[2] = { 1, 0 };
    tiny_status st = tiny_grad_new(g, x->dtype, 2, x->dim, &d[0]);
    int i;
    if (!st) st = tiny_grad_new(g, x->dtype, 2, y->dim, &d[1]);
    if (!st) st = tiny_grad_new(g, x->dtype, 2, w ? w->dim : dim, &d[2]);
    for (i = 0; i < 3; i++) back->out[i] = &d[i];
    return st ? st : tiny_grad_op(g, back);
}

static tiny_status tinyi_tp_grad(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *dy = tiny_grad_of(g, 0);
    tiny_tensor d[3];
    tiny_op back;
    tiny_status st;
    if (!dy) return TINY_OK;
    tinyi_tp_back_op(&back, op->in + TINYI_TP_TABLE, op->in[TINYI_TP_X], op->in[TINYI_TP_Y], op->in[TINYI_TP_W], dy);
    st = tinyi_tp_back_run(g, &back, d);
    if (!st && tiny_grad_wants(g, TINYI_TP_X)) st = tiny_grad_add(g, TINYI_TP_X, &d[0]);
    if (!st && tiny_grad_wants(g, TINYI_TP_Y)) st = tiny_grad_add(g, TINYI_TP_Y, &d[1]);
    if (!st && op->in[TINYI_TP_W] && tiny_grad_wants(g, TINYI_TP_W)) st = tiny_grad_add(g, TINYI_TP_W, &d[2]);
    return st;
}

static const tiny_op_row tinyi_row_paths = TINYI_ROW_OF(
    "paths", TGNN_OP_PATHS, TAKES(6, 5), GIVES(1), PARAMS(tgnn_paths_params), FLAGS(TINY_OP_LOOSE | TINY_OP_F64),
    SHAPE(tinyi_tp_shape), REFERENCE(tinyi_tp_ref), FAST(tinyi_tp_fast, tinyi_tp_work), COST(tinyi_tp_cost),
    CASES(tinyi_tp_cases), BOUND(TINY_BOUND_LINEAR, 8, 1), TERMS(tinyi_tp_terms), GRADIENT(tinyi_tp_grad),
    KERNELS(tinyi_tp_slots), SAYS("out_w = sum over paths, u, v of W_uvw C x_u y_v"));

TINY_API const tiny_op_row *tgnn_paths_row(void) { return &tinyi_row_paths; }
TINY_API const tiny_op_row *tgnn_paths_back_row(void) { return &tinyi_row_paths_back; }
