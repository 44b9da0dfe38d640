/* src/gnn/equivariant/paths_conv.c - sums over edges of weighted products of irreps; the head of paths.c says how */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/equivariant/paths_inside.h"
#include "core/state_inside.h"
#include "math/rows_inside.h"

static tinyi_tp_op tinyi_tc_of(const tiny_op *op)
{
    return tinyi_tp_read(op->in + TINYI_TC_TABLE, op->in[TINYI_TC_X], op->in[TINYI_TC_Y], op->in[TINYI_TC_W]);
}

TINY_REF_BEGIN
static void tinyi_tc_ref(const tiny_op *op)
{
    const tinyi_tp_op o = tinyi_tc_of(op);
    const int64_t *offset = (const int64_t *)op->in[TINYI_TC_OFFSET]->data;
    const int32_t *col = (const int32_t *)op->in[TINYI_TC_COL]->data;
    const tiny_tensor *out = op->out[0];
    tiny_idx r, k;
    int64_t p;
    for (r = 0; r < out->dim[0]; r++)
        for (k = 0; k < out->dim[1]; k++) {
            double sum = 0.0;
            for (p = offset[r]; p < offset[r + 1]; p++) sum += tinyi_tp_number(&o, 2, k, col[p], (tiny_idx)p);
            tinyi_real_set(out->data, out->dtype, r * out->stride[0] + k * out->stride[1], sum);
        }
}
TINY_REF_END

/* ---- fast */

/* One row of weights and harmonics a sample, and no two paths that see the same numbers of x in two ways. */
int tinyi_tc_folds(const tinyi_tp_op *o)
{
    tiny_idx i, j;
    for (i = 0; i < o->n_paths; i++) {
        const tinyi_tp_path *p = o->path + i;
        const int32_t end = p->off1 + p->mul1 * (2 * p->l1 + 1);
        if (p->mode != TGNN_PATH_UVU || p->mul2 != 1) return 0;
        for (j = 0; j < i; j++) {
            const tinyi_tp_path *q = o->path + j;
            if (q->last != p->last) return 0;
            if (q->off1 == p->off1 && q->mul1 == p->mul1 && q->l1 == p->l1) continue;
            if (q->off1 < end && p->off1 < q->off1 + q->mul1 * (2 * q->l1 + 1)) return 0;
        }
    }
    return 1;
}

/* blocks (mul, side) to (side, mul), or back */
static void tinyi_tc_turn(const tiny_team *team, float *to, const float *from, tiny_idx rows, tiny_idx columns)
{
    if (columns == 1 || rows == 1) memcpy(to, from, (size_t)(rows * columns) * sizeof *to);
    else
        TINYI_OF(team->k, transpose_b4)((unsigned char *)to, rows * 4, (const unsigned char *)from, columns * 4,
                                        (size_t)columns, (size_t)rows);
}

static int tinyi_tc_first_of(const tinyi_tp_op *o, tiny_idx i)
{
    tiny_idx j;
    for (j = 0; j < i; j++)
        if (o->path[j].off1 == o->path[i].off1 && o->path[j].mul1 == o->path[i].mul1) return 0;
    return 1;
}

/* x with copies next to each other: x itself, or the team's copy of it */
static int tinyi_tc_copies(const tinyi_tp_op *o)
{
    return !(o->n_paths && o->path[0].last && o->x->stride[1] == 1);
}

/* acc: the row of the result, copies next to each other; t: room for one matrix; row: of y and w */
static void tinyi_tc_fold(const tinyi_tp_op *o, const tinyi_product_kernels *k, const float *value, const float *x,
                          const float *y, const float *w, float *acc, float *t)
{
    tiny_idx i;
    int32_t e;
    for (i = 0; i < o->n_paths; i++) {
        const tinyi_tp_path *p = o->path + i;
        const int n1 = 2 * p->l1 + 1, n3 = 2 * p->l3 + 1;
        memset(t, 0, (size_t)(n1 * n3) * sizeof *t);
        for (e = p->first; e < p->end; e++)
            t[o->entry[3 * e + 2] * n1 + o->entry[3 * e]] += value[e] * y[p->off2 + o->entry[3 * e + 1]];
        k->fold(acc + p->off3, x + p->off1, p->weight >= 0 ? w + p->weight : NULL, t, n1, n3, (size_t)p->mul1);
    }
}

static void tinyi_tc_row_in(float *to, const tiny_tensor *t, tiny_idx row)
{
    tinyi_row_gather(to, (const float *)t->data + row * t->stride[0], t->dim[1], t->stride[1]);
}

/* one row of x, copies next to each other: in place, or in room */
const float *tinyi_tc_row_of_x(const tiny_team *team, const tinyi_tp_op *o, tiny_idx row, int last, float *to,
                                      float *room)
{
    const tiny_tensor *x = o->x;
    const float *from = (const float *)x->data + row * x->stride[0];
    tiny_idx i;
    if (x->stride[1] == 1 && last) return from;
    if (x->stride[1] != 1) {
        tinyi_tc_row_in(last ? to : room, x, row);
        from = room;
    }
    for (i = 0; !last && i < o->n_paths; i++)
        if (tinyi_tc_first_of(o, i))
            tinyi_tc_turn(team, to + o->path[i].off1, from + o->path[i].off1, o->path[i].mul1, 2 * o->path[i].l1 + 1);
    return to;
}

/* acc += the product of a row x, copies next to each other, with rows p of y and w */
void tinyi_tc_fold_row(tinyi_tc_job *j, const float *x, tiny_idx p)
{
    const tiny_tensor *y = j->o.y, *w = j->o.w;
    const float *ty = (const float *)y->data + p * y->stride[0], *tw = j->r.weight;
    if (y->stride[1] != 1) {
        tinyi_tc_row_in(j->y, y, p);
        ty = j->y;
    }
    if (w && !j->o.shared) {
        tw = (const float *)w->data + p * w->stride[0];
        if (w->stride[1] != 1) {
            tinyi_tc_row_in(j->w, w, p);
            tw = j->w;
        }
    }
    tinyi_tc_fold(&j->o, j->k, j->r.value, x, ty, tw, j->acc, j->t);
}

/* edges p0 .. p1 of a row, the fold of each */
static void tinyi_tc_edges_folded(tinyi_tc_job *j, int64_t p0, int64_t p1)
{
    int64_t p;
    for (p = p0; p < p1; p++) {
        if (p + 2 < p1) TINYI_PREFETCH(j->x + j->edges.col[p + 2] * j->x_row);
        tinyi_tc_fold_row(j, j->x + j->edges.col[p] * j->x_row, (tiny_idx)p);
    }
}

/* the same, edges side by side, for any modes */
static void tinyi_tc_edges_side(const tiny_team *team, tinyi_tc_job *j, int64_t p0, int64_t p1, tiny_idx d_out)
{
    const tiny_idx lanes = j->k->lanes;
    const tiny_tensor *x = j->o.x;
    int64_t p;
    tiny_idx i, c;
    for (p = p0; p < p1; p += lanes) {
        const tiny_idx n = TINYI_MIN((tiny_idx)(p1 - p), lanes);
        for (i = 0; i < lanes; i++) {
            const float *from = (const float *)x->data + (i < n ? j->edges.col[p + i] * x->stride[0] : 0);
            for (c = 0; c < x->dim[1]; c++) j->r.x[c * lanes + i] = i < n ? from[c * x->stride[1]] : 0.0f;
        }
        tinyi_tp_in(team, j->r.y, j->o.y, (tiny_idx)p, n, j->k->lanes);
        if (j->o.w && !j->o.shared) tinyi_tp_in(team, j->r.w, j->o.w, (tiny_idx)p, n, j->k->lanes);
        memset(j->r.g, 0, (size_t)(d_out * lanes) * sizeof(float));
        for (i = 0; i < j->o.n_paths; i++)
            j->k->side(j->o.path + i, j->o.entry, j->r.value, j->r.g, j->r.x, j->r.y,
                       j->o.shared ? j->r.weight : j->r.w, j->o.shared, j->r.t);
        j->k->sums(j->acc, j->r.g, (size_t)d_out);
    }
}

/* the row of the result to its place: blocks that paths write, each once, turned where they must be */
void tinyi_tc_row_out(const tiny_team *team, tinyi_tc_job *j, const tiny_tensor *out, tiny_idx row)
{
    float *to = (float *)out->data + row * out->stride[0];
    const float *from = j->acc;
    tiny_idx i;
    if (j->fold && !j->last) {
        memset(j->turned, 0, (size_t)out->dim[1] * sizeof *j->turned);
        for (i = 0; i < j->o.n_paths; i++) {
            const tinyi_tp_path *p = j->o.path + i;
            tinyi_tc_turn(team, j->turned + p->off3, j->acc + p->off3, 2 * p->l3 + 1, p->mul3);
        }
        from = j->turned;
    }
    tinyi_row_scatter(to, from, out->dim[1], out->stride[1]);
}

void tinyi_tc_open(tinyi_tc_job *j, tinyi_tp_op o, const tiny_team *team, tiny_idx d_out)
{
    memset(j, 0, sizeof *j);
    j->o = o;
    j->k = tinyi_product_kernels_of(team->k);
    j->r = tinyi_tp_room_of(&j->o, (float *)team->own, d_out, j->k->lanes, 0);
    j->t = j->r.value + tinyi_tp_room_floats(&j->o, d_out, 0);
    j->acc = j->t + tinyi_tp_padded(TINYI_TP_SIDE * TINYI_TP_SIDE);
    j->turned = j->acc + tinyi_tp_padded(d_out);
    j->y = j->turned + tinyi_tp_padded(d_out);
    j->w = j->y + tinyi_tp_padded(j->o.y->dim[1]);
    j->room = j->w + (j->o.w ? tinyi_tp_padded(j->o.w->dim[1]) : 0);
    j->fold = tinyi_tc_folds(&j->o);
    j->last = j->o.n_paths && j->o.path[0].last;
    j->x = (const float *)j->o.x->data;
    j->x_row = j->o.x->stride[0];
}

size_t tinyi_tc_floats(const tinyi_tp_op *o, tiny_idx d_out)
{
    return tinyi_tp_room_floats(o, d_out, 0) + tinyi_tp_padded(TINYI_TP_SIDE * TINYI_TP_SIDE) +
           2 * tinyi_tp_padded(d_out) + tinyi_tp_padded(o->y->dim[1]) + tinyi_tp_padded(o->x->dim[1]) +
           (o->w ? tinyi_tp_padded(o->w->dim[1]) : 0);
}

static void tinyi_tc_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *out = op->out[0];
    tinyi_tc_job j;
    tiny_idx k, k1, r, r1, z, z1;
    tinyi_tc_open(&j, tinyi_tc_of(op), team, out->dim[1]);
    tinyi_edge_read(&j.edges, op->in[TINYI_TC_OFFSET], op->in[TINYI_TC_COL], j.o.n, j.o.x->dim[0]);
    team->ran_on = j.k->from;
    if (j.edges.n == 0) {
        if (j.o.n && team->i == 0) tiny_team_fail(team, TINY_E_ARGUMENT, "paths_conv: there are edges, but no rows");
        return;
    }
    if (j.fold && tinyi_tc_copies(&j.o)) {
        j.x_row = (tiny_idx)tinyi_tp_padded(j.o.x->dim[1]);
        j.x = (const float *)team->shared;
        while (tiny_take(team, j.o.x->dim[0], 16, &z, &z1))
            for (; z < z1; z++)
                (void)tinyi_tc_row_of_x(team, &j.o, z, j.last, (float *)team->shared + z * j.x_row, j.r.x);
        tiny_barrier(team);
    }
    while (tiny_take(team, j.edges.pieces, 1, &k, &k1))
        for (; k < k1; k++)
            for (r = tinyi_edge_first(&j.edges, k), r1 = tinyi_edge_first(&j.edges, k + 1); r < r1; r++) {
                memset(j.acc, 0, (size_t)out->dim[1] * sizeof *j.acc);
                if (!tinyi_edge_refused(team, &j.edges, r, "paths_conv")) {
                    if (j.fold) tinyi_tc_edges_folded(&j, j.edges.offset[r], j.edges.offset[r + 1]);
                    else tinyi_tc_edges_side(team, &j, j.edges.offset[r], j.edges.offset[r + 1], out->dim[1]);
                }
                tinyi_tc_row_out(team, &j, out, r);
            }
    team->ran_on = j.k->from;
}

static void tinyi_tc_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const tinyi_tp_op o = tinyi_tc_of(op);
    const tiny_idx d_out = op->out[0]->dim[1];
    (void)n_threads;
    *shared = tinyi_tc_copies(&o) && tinyi_tc_folds(&o)
                  ? (size_t)o.x->dim[0] * tinyi_tp_padded(o.x->dim[1]) * sizeof(float) : 0;
    *own = tinyi_tc_floats(&o, d_out) * sizeof(float);
}

/* ---- the row */

static tiny_status tinyi_tc_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[TINYI_TC_X], *y = op->in[TINYI_TC_Y], *w = op->in[TINYI_TC_W], *dense[3];
    const tgnn_paths_params *params = (const tgnn_paths_params *)op->params;
    tiny_idx dim[2], m = op->in[TINYI_TC_COL]->rank == 1 ? op->in[TINYI_TC_COL]->dim[0] : 0;
    tiny_status st = tinyi_tp_rows(ctx, "paths_conv", "x", x, x->dtype, x->rank == 2 ? x->dim[0] : 0, 0);
    if (!st) st = tinyi_tp_rows(ctx, "paths_conv", "y", y, x->dtype, m, 0);
    if (!st && w) st = tinyi_tp_rows(ctx, "paths_conv", "w", w, x->dtype, m, 1);
    if (st) return st;
    if (!params || params->dim < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "paths_conv: params must give the numbers of a result");
    memset(dense, 0, sizeof dense);
    st = tinyi_edge_shapes(ctx, op, "paths_conv", op->in[TINYI_TC_COL], m, x->dim[0], x->dtype, dense);
    if (!st)
        st = tinyi_tp_tables(ctx, "paths_conv", op->in + TINYI_TC_TABLE, x->dim[1], y->dim[1], params->dim, w);
    if (st) return st;
    dim[0] = op->in[TINYI_TC_OFFSET]->dim[0] - 1;
    dim[1] = params->dim;
    tinyi_want(&want[0], x->dtype, 2, dim);
    return TINY_OK;
}

static void tinyi_tc_cost(const tiny_op *op, tiny_cost *c)
{
    const tinyi_tp_op o = tinyi_tc_of(op);
    const double m = (double)o.n;
    c->flops = 2.0 * m * tinyi_tp_operations(&o);
    c->bytes = tinyi_edge_bytes(m, o.x->dim[0], o.x->dim[1]) +
               4.0 * m * (double)(o.y->dim[1] + (o.w && !o.shared ? o.w->dim[1] : 0)) +
               4.0 * (double)tiny_tensor_count(op->out[0]);
}

static double tinyi_tc_terms(const tiny_op *op)
{
    const tinyi_tp_op o = tinyi_tc_of(op);
    return tinyi_tp_terms_of(&o) + tinyi_edge_longest(op);
}

static void tinyi_tc_cases(tiny_case *c)
{
    const tiny_idx n = tiny_case_dim(c, 40), m = tiny_case_dim(c, 130), n_x = tiny_case_dim(c, 40);
    tgnn_paths_params params;
    tiny_idx d[4];
    memset(&params, 0, sizeof params);
    tinyi_edge_case(c, n, m, n_x, TINYI_TC_COL);
    tinyi_tp_case_tables(c, TINYI_TC_TABLE, tiny_case_pick(c, 3) != 0, d);
    c->in[TINYI_TC_X] = tiny_tensor_2d(NULL, TINY_F32, n_x, d[0]);
    c->in[TINYI_TC_Y] = tiny_tensor_2d(NULL, TINY_F32, m, d[1]);
    c->in[TINYI_TC_W] = tiny_tensor_2d(NULL, TINY_F32, tiny_case_pick(c, 3) ? m : 1, d[3]);
    if (!d[3]) c->in[TINYI_TC_W].rank = -1;
    params.dim = (int)d[2];
    memcpy(c->params.bytes, &params, sizeof params);
}

/* the rows of x and of the gradient for each edge, the gradient of each product, and dx back to the rows of x */
static tiny_status tinyi_tc_grad(tiny_grad *g, const tiny_op *op)
{
    const tiny_tensor *x = op->in[TINYI_TC_X], *col = op->in[TINYI_TC_COL], *offset = op->in[TINYI_TC_OFFSET];
    const int64_t *at = (const int64_t *)offset->data;
    tiny_tensor row, edge_x, edge_g, d[3];
    tiny_op back, add;
    tiny_scatter_params scatter;
    tiny_idx r;
    int64_t p;
    tiny_status st;
    if (!tiny_grad_of(g, 0)) return TINY_OK;
    st = tiny_grad_new(g, TINY_I32, 1, col->dim, &row);
    if (st) return st;
    for (r = 0; !tiny_grad_dry(g) && r + 1 < offset->dim[0]; r++)
        for (p = at[r]; p < at[r + 1]; p++) ((int32_t *)row.data)[p] = (int32_t)r;
    st = tiny_grad_run(g, TINY_OP_GATHER, x, col, NULL, &edge_x);
    if (!st) st = tiny_grad_run(g, TINY_OP_GATHER, tiny_grad_of(g, 0), &row, NULL, &edge_g);
    if (st) return st;
    tinyi_tp_back_op(&back, op->in + TINYI_TC_TABLE, &edge_x, op->in[TINYI_TC_Y], op->in[TINYI_TC_W], &edge_g);
    st = tinyi_tp_back_run(g, &back, d);
    if (!st && tiny_grad_wants(g, TINYI_TC_Y)) st = tiny_grad_add(g, TINYI_TC_Y, &d[1]);
    if (!st && op->in[TINYI_TC_W] && tiny_grad_wants(g, TINYI_TC_W)) st = tiny_grad_add(g, TINYI_TC_W, &d[2]);
    if (!st && tiny_grad_wants(g, TINYI_TC_X)) {
        tiny_tensor sum;
        st = tinyi_grad_begin(g, x, &sum);
        scatter.n_rows = x->dim[0];
        memset(&add, 0, sizeof add);
        add.kind = TINY_OP_SCATTER_ADD;
        add.in[0] = &d[0];
        add.in[1] = col;
        add.out[0] = &sum;
        add.params = &scatter;
        if (!st) st = tiny_grad_op(g, &add);
    }
    return st;
}

static const short tinyi_tc_slots[] = { TINYI_K_transpose_b4, -1 };
static const tiny_op_row tinyi_row_paths_conv = TINYI_ROW_OF(
    "paths_conv", TGNN_OP_PATHS_CONV, TAKES(8, 7), GIVES(1), PARAMS(tgnn_paths_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_tc_shape), REFERENCE(tinyi_tc_ref),
    FAST(tinyi_tc_fast, tinyi_tc_work), COST(tinyi_tc_cost), CASES(tinyi_tc_cases), BOUND(TINY_BOUND_LINEAR, 8, 1),
    TERMS(tinyi_tc_terms), GRADIENT(tinyi_tc_grad), KERNELS(tinyi_tc_slots),
    SAYS("out[r] = sum over the edges p of row r of the weighted product of x[col[p]] and y[p]"));
TINY_API const tiny_op_row *tgnn_paths_conv_row(void) { return &tinyi_row_paths_conv; }
