/* src/gnn/equivariant/paths_plan.c - plans of weighted products: which blocks couple, factors, tables; the calls */
#include <stdio.h>
#include <string.h>
#include "gnn/ops.h"
#include "gnn/equivariant/paths_inside.h"
#include "core/mem.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include "math/grad_inside.h"

static int tinyi_paths_couple(const tgnn_irrep *a, const tgnn_irrep *b, const tgnn_irrep *c)
{
    return c->l <= a->l + b->l && a->l <= b->l + c->l && b->l <= a->l + c->l && a->parity * b->parity == c->parity;
}

/* the i-th path of the description, or of all that couple; 0: there is none */
static int tinyi_paths_at(const tgnn_paths_desc *d, int i, tgnn_path *path)
{
    int a, b, c;
    memset(path, 0, sizeof *path);
    if (d->path) {
        if (i >= d->n_path) return 0;
        *path = d->path[i];
        return 1;
    }
    for (a = 0; a < d->n_in1; a++)
        for (b = 0; b < d->n_in2; b++)
            for (c = 0; c < d->n_out; c++)
                if (tinyi_paths_couple(d->in1 + a, d->in2 + b, d->out + c) && i-- == 0) {
                    path->in1 = a;
                    path->in2 = b;
                    path->out = c;
                    return 1;
                }
    return 0;
}

static tiny_status tinyi_paths_check(tiny_ctx *ctx, const tgnn_paths_desc *d, int i, const tgnn_path *path,
                                     const tinyi_tp_path *p)
{
    static const char *const mode[] = { "UVW", "UVU", "UVV", "UUW", "UUU" };
    char a[40], b[40], c[40];
    if (path->in1 < 0 || path->in1 >= d->n_in1 || path->in2 < 0 || path->in2 >= d->n_in2 || path->out < 0 ||
        path->out >= d->n_out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: path %d joins blocks %d, %d and %d, there are %d, %d and %d", i,
                          path->in1, path->in2, path->out, d->n_in1, d->n_in2, d->n_out);
    if (path->mode < 0 || path->mode > TGNN_PATH_UUU)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: path %d has mode %d, it must be 0 to %d", i, path->mode,
                          TGNN_PATH_UUU);
    (void)tgnn_irreps_print(d->in1 + path->in1, 1, a, sizeof a);
    (void)tgnn_irreps_print(d->in2 + path->in2, 1, b, sizeof b);
    (void)tgnn_irreps_print(d->out + path->out, 1, c, sizeof c);
    if (!tinyi_paths_couple(d->in1 + path->in1, d->in2 + path->in2, d->out + path->out))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: path %d: %s and %s do not couple to %s", i, a, b, c);
    if (p && !tinyi_tp_mode_fits(p))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: path %d: mode %s does not fit the copies of %s, %s and %s", i,
                          mode[path->mode], a, b, c);
    if (path->unweighted && (path->mode == TGNN_PATH_UVW || path->mode == TGNN_PATH_UUW))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: path %d: mode %s needs weights", i, mode[path->mode]);
    if (!(path->factor >= 0.0 && path->factor - path->factor == 0.0))
        return tinyi_fail(ctx, TINY_E_NUMERIC, "paths: path %d has the factor %g, it must be finite and not below 0", i,
                          path->factor);
    return TINY_OK;
}

static double tinyi_paths_fan(const tinyi_tp_path *p)
{
    switch (p->mode) {
    case TGNN_PATH_UVW: return (double)p->mul1 * (double)p->mul2;
    case TGNN_PATH_UVU: return (double)p->mul2;
    case TGNN_PATH_UUU: return 1.0;
    default: return (double)p->mul1;
    }
}

static int32_t tinyi_paths_offset(const tgnn_irrep *list, int i) { return (int32_t)tgnn_irreps_dim(list, i); }

/* table and entries; value holds the factors of paths, and with them the values */
static tiny_status tinyi_paths_fill(tiny_ctx *ctx, tgnn_product *p, const tgnn_paths_desc *d, const tgnn_so3 *so3)
{
    tinyi_tp_path *t = (tinyi_tp_path *)p->table.data;
    int32_t *entry = (int32_t *)p->entry.data;
    double *value = (double *)p->value.data;
    int64_t weight = 0;
    int32_t at = 0;
    tgnn_path path;
    int i, j, same;
    size_t n, e;
    for (i = 0; tinyi_paths_at(d, i, &path); i++) {
        const tgnn_irrep *a = d->in1 + path.in1, *b = d->in2 + path.in2, *c = d->out + path.out;
        const int *l = p->path[i];
        const tgnn_coupling *list = tgnn_so3_couplings(so3, l[0], l[1], l[2], &n);
        tiny_status st;
        int k;
        t[i].mode = path.mode;
        t[i].mul1 = a->mul;
        t[i].mul2 = b->mul;
        t[i].mul3 = c->mul;
        t[i].l1 = l[0];
        t[i].l2 = l[1];
        t[i].l3 = l[2];
        t[i].off1 = tinyi_paths_offset(d->in1, path.in1);
        t[i].off2 = tinyi_paths_offset(d->in2, path.in2);
        t[i].off3 = tinyi_paths_offset(d->out, path.out);
        t[i].last = d->last != 0;
        t[i].weight = path.unweighted ? -1 : (int32_t)weight;
        st = tinyi_paths_check(ctx, d, i, &path, t + i);
        if (st) return st;
        if (!path.unweighted) weight += tinyi_tp_weights(t + i);
        if (weight > INT32_MAX)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "paths: more than %d weights", INT32_MAX);
        t[i].first = at;
        for (k = 0; k < 2 * l[2] + 1; k++)
            for (e = 0; e < n; e++) {
                if (list[e].k != k) continue;
                entry[3 * at] = list[e].i;
                entry[3 * at + 1] = list[e].j;
                entry[3 * at + 2] = k;
                value[at++] = list[e].value;
            }
        t[i].end = at;
    }
    p->dim[TGNN_PRODUCT_W] = (tiny_idx)weight;
    for (i = 0; i < p->n_paths; i++) {
        double x = 0.0, f;
        for (j = 0, same = 0; j < p->n_paths; j++)
            if (t[j].off3 == t[i].off3 && t[j].l3 == t[i].l3 && t[j].mul3 == t[i].mul3) {
                tgnn_path other;
                (void)tinyi_paths_at(d, i, &path);
                (void)tinyi_paths_at(d, j, &other);
                if (other.out != path.out) continue;
                x += tinyi_paths_fan(t + j);
                same++;
            }
        if (d->path_norm == TGNN_PATHS_PATH) x = tinyi_paths_fan(t + i) * same;
        f = d->irrep_norm == TGNN_PATHS_NORM ? (2.0 * t[i].l1 + 1.0) * (2.0 * t[i].l2 + 1.0) : 2.0 * t[i].l3 + 1.0;
        (void)tinyi_paths_at(d, i, &path);
        f *= path.factor > 0.0 ? path.factor : 1.0;
        f = tinyi_sqrt(x > 0.0 ? f / x : f);
        for (j = t[i].first; j < t[i].end; j++) value[j] *= f;
    }
    return TINY_OK;
}

static tiny_status tinyi_paths_check_desc(tiny_ctx *ctx, const tgnn_paths_desc *d, tiny_idx dim[4], int *l_max)
{
    int i, side;
    *l_max = 0;
    for (side = 0; side < 3; side++) {
        const tgnn_irrep *list = side == 0 ? d->in1 : side == 1 ? d->in2 : d->out;
        const int n = side == 0 ? d->n_in1 : side == 1 ? d->n_in2 : d->n_out;
        const tiny_idx size = tgnn_irreps_dim(list, n);
        if (size < 0 || size > INT32_MAX)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: the irreps of %s are invalid",
                              side == 0 ? "x" : side == 1 ? "y" : "the result");
        dim[side == 2 ? TGNN_PRODUCT_OUT : side] = size;
        for (i = 0; i < n; i++) *l_max = TINYI_MAX(*l_max, list[i].l);
    }
    if (d->n_path < 0 || (d->n_path && !d->path))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: %d paths, and no list of them", d->n_path);
    if (d->irrep_norm < 0 || d->irrep_norm > TGNN_PATHS_NORM || d->path_norm < 0 || d->path_norm > TGNN_PATHS_PATH)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: norms %d and %d, each must be 0 or 1", d->irrep_norm,
                          d->path_norm);
    return TINY_OK;
}

TINY_API tiny_status tgnn_paths_open(tiny_ctx *ctx, const tgnn_paths_desc *desc, tgnn_product **out)
{
    tgnn_so3 *so3 = NULL;
    tgnn_product *p;
    tgnn_path path;
    size_t n_entries = 0, n;
    int i, l_max;
    tiny_idx dim[4] = { 0, 0, 0, 0 };
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: the description or the place of the plan is missing");
    st = tinyi_paths_check_desc(ctx, desc, dim, &l_max);
    if (!st) st = tgnn_so3_open(ctx, l_max, &so3);
    if (st) return st;
    p = (tgnn_product *)tinyi_alloc(ctx, 1, sizeof *p);
    if (!p) {
        tgnn_so3_close(ctx, so3);
        return tiny_ctx_status(ctx);
    }
    memset(p, 0, sizeof *p);
    memcpy(p->dim, dim, sizeof dim);
    p->kind = TGNN_PRODUCT_PATHS;
    while (tinyi_paths_at(desc, p->n_paths, &path)) p->n_paths++;
    p->path = (int (*)[3])tinyi_alloc(ctx, (size_t)p->n_paths + 1, sizeof *p->path);
    if (!p->path) st = tiny_ctx_status(ctx);
    for (i = 0; !st && tinyi_paths_at(desc, i, &path); i++) {
        st = tinyi_paths_check(ctx, desc, i, &path, NULL);
        if (st) break;
        p->path[i][0] = desc->in1[path.in1].l;
        p->path[i][1] = desc->in2[path.in2].l;
        p->path[i][2] = desc->out[path.out].l;
        (void)tgnn_so3_couplings(so3, p->path[i][0], p->path[i][1], p->path[i][2], &n);
        n_entries += n;
    }
    if (!st) {
        p->table = tiny_tensor_2d(tinyi_alloc(ctx, (size_t)p->n_paths + 1, sizeof(tinyi_tp_path)), TINY_I32, p->n_paths,
                                  TINYI_TP_COLUMNS);
        p->entry =
            tiny_tensor_2d(tinyi_alloc(ctx, n_entries + 1, 3 * sizeof(int32_t)), TINY_I32, (tiny_idx)n_entries, 3);
        p->value = tiny_tensor_1d(tinyi_alloc(ctx, n_entries + 1, sizeof(double)), TINY_F64, (tiny_idx)n_entries);
        st = p->table.data && p->entry.data && p->value.data ? TINY_OK : tiny_ctx_status(ctx);
    }
    if (!st) st = tinyi_paths_fill(ctx, p, desc, so3);
    tgnn_so3_close(ctx, so3);
    if (st) {
        tgnn_product_close(ctx, p);
        return st;
    }
    {
        const tiny_tensor *table[3], x = tiny_tensor_2d(NULL, TINY_F32, 0, dim[0]);
        tinyi_tp_op o;
        table[0] = &p->table;
        table[1] = &p->entry;
        table[2] = &p->value;
        o = tinyi_tp_read(table, &x, &x, NULL);
        p->operations = tinyi_tp_operations(&o);
        (void)snprintf(p->why, sizeof p->why,
                       "%d paths of irreps by the nonzeros of their couplings: %.0f multiply-adds "
                       "for a sample",
                       p->n_paths, p->operations);
    }
    *out = p;
    return TINY_OK;
}

static int tinyi_paths_is(const tgnn_product *p) { return p && p->kind == TGNN_PRODUCT_PATHS; }

static tiny_status tinyi_paths_plan_check(tiny_ctx *ctx, const tgnn_product *p)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    return tinyi_paths_is(p) ? TINY_OK
                             : tinyi_fail(ctx, TINY_E_ARGUMENT, "paths: the plan is missing, or not one for irreps");
}

static void tinyi_paths_op(tiny_op *op, tgnn_paths_params *params, const tgnn_product *p, const tiny_tensor *x,
                           const tiny_tensor *y, const tiny_tensor *w)
{
    memset(op, 0, sizeof *op);
    params->dim = (int)p->dim[TGNN_PRODUCT_OUT];
    op->row = tgnn_paths_row();
    op->kind = TGNN_OP_PATHS;
    op->in[TINYI_TP_X] = x;
    op->in[TINYI_TP_Y] = y;
    op->in[TINYI_TP_TABLE] = &p->table;
    op->in[TINYI_TP_ENTRY] = &p->entry;
    op->in[TINYI_TP_VALUE] = &p->value;
    op->in[TINYI_TP_W] = w;
    op->params = params;
}

static void tinyi_paths_conv_op(tiny_op *op, tgnn_paths_params *params, const tgnn_product *p,
                                const tiny_tensor *offset, const tiny_tensor *x, const tiny_tensor *col,
                                const tiny_tensor *y, const tiny_tensor *w)
{
    memset(op, 0, sizeof *op);
    params->dim = (int)p->dim[TGNN_PRODUCT_OUT];
    op->row = tgnn_paths_conv_row();
    op->kind = TGNN_OP_PATHS_CONV;
    op->in[TINYI_TC_OFFSET] = offset;
    op->in[TINYI_TC_X] = x;
    op->in[TINYI_TC_COL] = col;
    op->in[TINYI_TC_Y] = y;
    op->in[TINYI_TC_TABLE] = &p->table;
    op->in[TINYI_TC_ENTRY] = &p->entry;
    op->in[TINYI_TC_VALUE] = &p->value;
    op->in[TINYI_TC_W] = w;
    op->params = params;
}

/* x, y and w as wide as the plan says: the tables would fit wider ones too */
static tiny_status tinyi_paths_widths(tiny_ctx *ctx, const tgnn_product *p, const tiny_tensor *x, const tiny_tensor *y,
                                      const tiny_tensor *w)
{
    static const char *const name[] = { "x", "y", "w" };
    const tiny_tensor *t[3];
    int i;
    t[0] = x;
    t[1] = y;
    t[2] = w;
    for (i = 0; i < 3; i++)
        if (t[i] && t[i]->rank == 2 && t[i]->dim[1] != p->dim[i])
            return tinyi_fail(ctx, TINY_E_SHAPE, "paths: %s has rows of %td numbers, the plan has %td", name[i],
                              t[i]->dim[1], p->dim[i]);
    return TINY_OK;
}

TINY_API tiny_status tgnn_paths_run(tiny_ctx *ctx, const tgnn_product *p, const tiny_tensor *x, const tiny_tensor *y,
                                    const tiny_tensor *w, const tiny_tensor *out)
{
    tgnn_paths_params params;
    tiny_op op;
    tiny_status st = tinyi_paths_plan_check(ctx, p);
    if (!st) st = tinyi_paths_widths(ctx, p, x, y, w);
    if (st) return st;
    tinyi_paths_op(&op, &params, p, x, y, w);
    op.out[0] = out;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tgnn_paths_back(tiny_ctx *ctx, const tgnn_product *p, const tiny_tensor *x, const tiny_tensor *y,
                                     const tiny_tensor *w, const tiny_tensor *g, const tiny_tensor *dx,
                                     const tiny_tensor *dy, const tiny_tensor *dw)
{
    const tiny_tensor *table[3];
    tiny_tensor none;
    tiny_op op;
    tiny_status st = tinyi_paths_plan_check(ctx, p);
    if (!st) st = tinyi_paths_widths(ctx, p, x, y, w);
    if (st) return st;
    table[0] = &p->table;
    table[1] = &p->entry;
    table[2] = &p->value;
    tinyi_tp_back_op(&op, table, x, y, w, g);
    none = tiny_tensor_2d(NULL, x ? x->dtype : TINY_F32, 1, 0);
    op.out[0] = dx;
    op.out[1] = dy;
    op.out[2] = dw || w ? dw : &none;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tgnn_paths_conv(tiny_ctx *ctx, const tgnn_product *p, const tiny_tensor *offset,
                                     const tiny_tensor *x, const tiny_tensor *col, const tiny_tensor *y,
                                     const tiny_tensor *w, const tiny_tensor *out)
{
    tgnn_paths_params params;
    tiny_op op;
    tiny_status st = tinyi_paths_plan_check(ctx, p);
    if (!st) st = tinyi_paths_widths(ctx, p, x, y, w);
    if (st) return st;
    tinyi_paths_conv_op(&op, &params, p, offset, x, col, y, w);
    op.out[0] = out;
    return tiny_run(ctx, &op);
}

static tiny_tensor tinyi_paths_tape(tiny_tape *tape, const tgnn_product *p, const tiny_op *op)
{
    tiny_tensor out;
    memset(&out, 0, sizeof out);
    if (!tape) return out;
    if (!tinyi_paths_is(p))
        (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "paths: the plan is missing, or not one for irreps");
    else (void)tiny_tape_op(tape, op, &out);
    return out;
}

TINY_API tiny_tensor tgnn_tape_paths(tiny_tape *tape, const tgnn_product *p, const tiny_tensor *x, const tiny_tensor *y,
                                     const tiny_tensor *w)
{
    tgnn_paths_params params;
    tiny_op op;
    memset(&op, 0, sizeof op);
    if (tinyi_paths_is(p)) tinyi_paths_op(&op, &params, p, x, y, w);
    return tinyi_paths_tape(tape, p, &op);
}

TINY_API tiny_tensor tgnn_tape_paths_conv(tiny_tape *tape, const tgnn_product *p, const tiny_tensor *offset,
                                          const tiny_tensor *x, const tiny_tensor *col, const tiny_tensor *y,
                                          const tiny_tensor *w)
{
    tgnn_paths_params params;
    tiny_op op;
    memset(&op, 0, sizeof op);
    if (tinyi_paths_is(p)) tinyi_paths_conv_op(&op, &params, p, offset, x, col, y, w);
    return tinyi_paths_tape(tape, p, &op);
}
