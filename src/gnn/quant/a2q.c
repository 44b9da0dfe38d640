/* src/gnn/quant/a2q.c - learnt steps and bits: the quantizer, its gradient, the nearest group
 * Paper    Z. Zhu et al., "A2Q: Aggregation-Aware Quantization for Graph Neural Networks", ICLR 2023 (arXiv
 *          2302.00193): eq. 1 (quantizer), the local gradient of section 3.2, the memory penalty of section 3.3, the
 *          Nearest Neighbour Strategy (algorithm 1).
 * Formula  see the head of a2q.h. Here z is the float nearest to |x| / a, and z + 1/2 is rounded to a float before
 *          floor: a number within half a unit in the last place of a tie may be rounded either way. Bits are rounded
 *          half up.
 * Fast     all threads work on rows. One thread sums the gradients of steps of columns and of groups, in the order of
 *          the rows.
 * Error    none: the same bits as the reference. Sums are in double, in the order of rows and columns, and rounded
 *          once.
 * Left out bits above 8 (the authors' program has no upper limit): codes are bytes here. */
#include <string.h>
#include "gnn/ops.h"
#include "gnn/quant/a2q.h"
#include "core/state_inside.h"
#include "math/sort.h"
#include "math/table_inside.h"
#include "math/tape.h"

#define TINYI_A2Q_LN2 0.6931471805599453
#define TINYI_A2Q_PIECE 4096                /* numbers that a thread takes at a time */

enum { TINYI_A2Q_X, TINYI_A2Q_STEPS, TINYI_A2Q_BIT, TINYI_A2Q_INDEX, TINYI_A2Q_DY };

TINY_REF_BEGIN
TINY_API int tgnn_a2q_round(float bits)
{
    const float b = bits < 0.0f ? -bits : bits;
    return b >= 1.0f ? b < (float)TGNN_A2Q_BITS ? (int)(b + 0.5f) : TGNN_A2Q_BITS : 1;     /* NaN: 1 */
}
TINY_REF_END

TINY_API int tgnn_a2q_limit(int bits) { return bits < 1 ? 0 : (1 << (TINYI_MIN(bits, TGNN_A2Q_BITS) - 1)) - 1; }

TINY_API tiny_status tgnn_a2q_check(tiny_ctx *ctx, const char *what, const float *step, const float *bits, tiny_idx n)
{
    tiny_idx i;
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!what) what = "A2Q";
    for (i = 0; step && i < n; i++)
        if (!(step[i] - step[i] == 0.0f) || step[i] == 0.0f)
            return tinyi_fail(ctx, TINY_E_NUMERIC, "%s: step %td is %g; it must be finite and not 0", what, i,
                              (double)step[i]);
    for (i = 0; bits && i < n; i++)
        if (!((bits[i] >= 1.0f && bits[i] <= 8.0f) || (bits[i] <= -1.0f && bits[i] >= -8.0f)))
            return tinyi_fail(ctx, TINY_E_NUMERIC,
                              "%s: %g bits at %td; there must be 1 to %d", what, (double)bits[i], i,
                              TGNN_A2Q_BITS);
    return TINY_OK;
}

TINY_REF_BEGIN
TINY_API double tgnn_a2q_kilobytes(const float *bits, tiny_idx n, tiny_idx f, int positive)
{
    double sum = 0.0;
    tiny_idx i;
    for (i = 0; bits && i < n; i++) sum += (double)(bits[i] < 0.0f ? -bits[i] : bits[i]) - (positive ? 1.0 : 0.0);
    return sum * (double)f / 8192.0;
}
TINY_REF_END

/* ---- the operation */

typedef struct tinyi_a2q_op {
    const float *x, *step, *bits, *dy;
    const int32_t *index;
    float *y, *dstep, *dbits;
    tiny_idx n, f, m, x_row, x_col, y_row, y_col, dy_row, dy_col, dstep_each, dbits_each;
    tgnn_a2q_params p;
} tinyi_a2q_op;

static tinyi_a2q_op tinyi_a2q_read(const tiny_op *op)
{
    const tiny_tensor *x = op->in[TINYI_A2Q_X], *dy = op->in[TINYI_A2Q_DY], *y = op->out[0];
    tinyi_a2q_op a;
    memset(&a, 0, sizeof a);
    if (op->params) a.p = *(const tgnn_a2q_params *)op->params;
    a.x = (const float *)x->data;
    a.step = (const float *)op->in[TINYI_A2Q_STEPS]->data;
    a.bits = op->in[TINYI_A2Q_BIT] ? (const float *)op->in[TINYI_A2Q_BIT]->data : NULL;
    a.index = op->in[TINYI_A2Q_INDEX] ? (const int32_t *)op->in[TINYI_A2Q_INDEX]->data : NULL;
    a.n = x->dim[0];
    a.f = x->dim[1];
    a.m = op->in[TINYI_A2Q_STEPS]->dim[0];
    a.x_row = x->stride[0];
    a.x_col = x->stride[1];
    if (dy) {
        a.dy = (const float *)dy->data;
        a.dy_row = dy->stride[0];
        a.dy_col = dy->stride[1];
        a.dstep = (float *)op->out[1]->data;
        a.dbits = (float *)op->out[2]->data;
        a.dstep_each = op->out[1]->stride[0];
        a.dbits_each = op->out[2]->stride[0];
    }
    if (y) {
        a.y = (float *)y->data;
        a.y_row = y->stride[0];
        a.y_col = y->stride[1];
    }
    return a;
}

static const char tinyi_a2q_no_group[] = "a2q: the index of a row names a group that does not exist";
static int tinyi_a2q_group(tiny_idx k, tiny_idx m) { return k >= 0 && k < m; }

/* the step of row i, column j; -1: the index names none */
static tiny_idx tinyi_a2q_which(const tinyi_a2q_op *a, tiny_idx i, tiny_idx j)
{
    const tiny_idx k = a->p.by_column ? j : a->index ? (tiny_idx)a->index[i] : i;
    return tinyi_a2q_group(k, a->m) ? k : -1;
}

TINY_REF_BEGIN
static int tinyi_a2q_bits_of(const tinyi_a2q_op *a, tiny_idx k)
{
    return a->bits ? tgnn_a2q_round(a->bits[k]) : TINYI_MIN(TINYI_MAX(a->p.bits, 1), TGNN_A2Q_BITS);
}
static float tinyi_a2q_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }

static float tinyi_a2q_one(float x, float step, float limit)
{
    float q;
    if (x != x) return x;
    q = (float)tinyi_a2q_code(x, step, limit) * step;
    return x < 0.0f ? -q : q;
}

/* what one number adds to the sums of its step and its bits */
static void tinyi_a2q_slopes(float x, float step, int bits, float limit, double flow, double *da, double *db)
{
    const double s = (double)tinyi_a2q_sign(x);
    if (x != x) return;
    if ((x < 0.0f ? -x : x) / step <= limit)
        *da += flow * ((double)tinyi_a2q_code(x, step, limit) * s - (double)x / (double)step);
    else {
        *da += flow * s * (double)limit;
        *db += flow * s * (double)(1 << (bits - 1)) * TINYI_A2Q_LN2 * (double)step;
    }
}

static double tinyi_a2q_flow(const tinyi_a2q_op *a, tiny_idx i, tiny_idx j, float step, float limit)
{
    const float x = a->x[i * a->x_row + j * a->x_col];
    if (a->p.task) return (double)a->dy[i * a->dy_row + j * a->dy_col];
    return (double)tinyi_a2q_sign(tinyi_a2q_one(x, step, limit) - x) / (double)(a->p.by_column ? a->n : a->f);
}

static void tinyi_a2q_ref(const tiny_op *op)
{
    const tinyi_a2q_op a = tinyi_a2q_read(op);
    tiny_idx i, j;
    for (i = 0; i < a.n; i++)
        for (j = 0; j < a.f; j++) {
            const tiny_idx k = tinyi_a2q_which(&a, i, j);
            a.y[i * a.y_row + j * a.y_col] =
                k < 0 ? 0.0f
                      : tinyi_a2q_one(a.x[i * a.x_row + j * a.x_col], tinyi_a2q_step(a.step[k]),
                                      (float)tgnn_a2q_limit(tinyi_a2q_bits_of(&a, k)));
        }
}

static void tinyi_a2q_back_ref(const tiny_op *op)
{
    const tinyi_a2q_op a = tinyi_a2q_read(op);
    tiny_idx i, j, k;
    for (k = 0; k < a.m; k++) {
        const int bits = tinyi_a2q_bits_of(&a, k);
        const float step = tinyi_a2q_step(a.step[k]), limit = (float)tgnn_a2q_limit(bits);
        double da = 0.0, db = 0.0;
        for (i = 0; i < a.n; i++)
            for (j = 0; j < a.f; j++) {
                const float x = a.x[i * a.x_row + j * a.x_col];
                if (tinyi_a2q_which(&a, i, j) != k) continue;
                tinyi_a2q_slopes(x, step, bits, limit, tinyi_a2q_flow(&a, i, j, step, limit), &da, &db);
                a.y[i * a.y_row + j * a.y_col] =
                    (x < 0.0f ? -x : x) / step <= limit ? a.dy[i * a.dy_row + j * a.dy_col] : 0.0f;
            }
        a.dstep[k * a.dstep_each] = (float)(a.step[k] < 0.0f ? -da : da);
        a.dbits[k * a.dbits_each] = (float)(a.bits && a.bits[k] < 0.0f ? -db : db);
    }
    for (i = 0; a.index && i < a.n; i++)    /* rows of no group */
        for (j = 0; tinyi_a2q_which(&a, i, 0) < 0 && j < a.f; j++) a.y[i * a.y_row + j * a.y_col] = 0.0f;
}

/* ---- fast: a row at a time */

static void tinyi_a2q_row_of(const tinyi_a2q_op *a, tiny_idx i)
{
    const float *x = a->x + i * a->x_row;
    float *y = a->y + i * a->y_row;
    const tiny_idx k = a->p.by_column ? 0 : tinyi_a2q_which(a, i, 0);
    tiny_idx j;
    if (k < 0) {
        for (j = 0; j < a->f; j++) y[j * a->y_col] = 0.0f;
    } else if (a->p.by_column) {
        for (j = 0; j < a->f; j++)
            y[j * a->y_col] = tinyi_a2q_one(x[j * a->x_col], tinyi_a2q_step(a->step[j]),
                                            (float)tgnn_a2q_limit(tinyi_a2q_bits_of(a, j)));
    } else {
        const float step = tinyi_a2q_step(a->step[k]), limit = (float)tgnn_a2q_limit(tinyi_a2q_bits_of(a, k));
        for (j = 0; j < a->f; j++) y[j * a->y_col] = tinyi_a2q_one(x[j * a->x_col], step, limit);
    }
}

/* dx of a row, and what it adds to the sums; by column to sum[2 j] and [2 j + 1], else to sum[0] and [1] */
static void tinyi_a2q_row_back(const tinyi_a2q_op *a, tiny_idx i, double *sum)
{
    const tiny_idx row = a->p.by_column ? 0 : tinyi_a2q_which(a, i, 0);
    tiny_idx j;
    for (j = 0; j < a->f; j++) {
        const tiny_idx k = a->p.by_column ? j : row;
        const float x = a->x[i * a->x_row + j * a->x_col];
        float *dx = a->y + i * a->y_row + j * a->y_col;
        double *s = sum + (a->p.by_column ? 2 * j : 0);
        float step, limit;
        int bits;
        *dx = 0.0f;
        if (k < 0) continue;
        bits = tinyi_a2q_bits_of(a, k);
        step = tinyi_a2q_step(a->step[k]);
        limit = (float)tgnn_a2q_limit(bits);
        if ((x < 0.0f ? -x : x) / step <= limit) *dx = a->dy[i * a->dy_row + j * a->dy_col];
        tinyi_a2q_slopes(x, step, bits, limit, tinyi_a2q_flow(a, i, j, step, limit), s, s + 1);
    }
}

static void tinyi_a2q_sums(const tinyi_a2q_op *a, tiny_idx k, const double *sum)
{
    a->dstep[k * a->dstep_each] = (float)(a->step[k] < 0.0f ? -sum[0] : sum[0]);
    a->dbits[k * a->dbits_each] = (float)(a->bits && a->bits[k] < 0.0f ? -sum[1] : sum[1]);
}
TINY_REF_END

static tiny_idx tinyi_a2q_grain(const tinyi_a2q_op *a) { return 1 + TINYI_A2Q_PIECE / (a->f + 1); }

static void tinyi_a2q_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_a2q_op a = tinyi_a2q_read(op);
    tiny_idx i, i1;
    while (tiny_take(team, a.n, tinyi_a2q_grain(&a), &i, &i1))
        for (; i < i1; i++) {
            if (a.index && tinyi_a2q_which(&a, i, 0) < 0) tiny_team_fail(team, TINY_E_ARGUMENT, tinyi_a2q_no_group);
            tinyi_a2q_row_of(&a, i);
        }
}

static void tinyi_a2q_back_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_a2q_op a = tinyi_a2q_read(op);
    double *sum = (double *)team->shared;
    tiny_idx i, i1, k;
    if (!a.p.by_column && !a.index) {
        while (tiny_take(team, a.n, tinyi_a2q_grain(&a), &i, &i1))
            for (; i < i1; i++) {
                double own[2] = { 0.0, 0.0 };
                tinyi_a2q_row_back(&a, i, own);
                tinyi_a2q_sums(&a, i, own);
            }
        return;
    }
    if (team->i) return;
    memset(sum, 0, (size_t)a.m * 2 * sizeof *sum);
    for (i = 0; i < a.n; i++) {
        k = a.p.by_column ? 0 : tinyi_a2q_which(&a, i, 0);
        if (k < 0) tiny_team_fail(team, TINY_E_ARGUMENT, tinyi_a2q_no_group);
        tinyi_a2q_row_back(&a, i, sum + 2 * TINYI_MAX(k, 0));
    }
    for (k = 0; k < a.m; k++) tinyi_a2q_sums(&a, k, sum + 2 * k);
}

static void tinyi_a2q_back_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    (void)n_threads;
    *own = 0;
    *shared = (size_t)op->in[TINYI_A2Q_STEPS]->dim[0] * 2 * sizeof(double);
}

static tiny_status tinyi_a2q_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[TINYI_A2Q_X], *step = op->in[TINYI_A2Q_STEPS], *bits = op->in[TINYI_A2Q_BIT],
                      *index = op->in[TINYI_A2Q_INDEX], *dy = op->in[TINYI_A2Q_DY];
    const tgnn_a2q_params *p = (const tgnn_a2q_params *)op->params;
    const int by_column = p && p->by_column;
    char text[96], text2[96];
    tiny_idx i;
    if (x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "a2q: x is %s, it must have 2 axes of f32", tinyi_shape_text(x, text));
    if (step->dtype != TINY_F32 || step->rank != 1 || !tiny_tensor_is_dense(step) ||
        (!index && step->dim[0] != x->dim[by_column ? 1 : 0]) || (index && step->dim[0] < 1))
        return tinyi_fail(ctx, TINY_E_SHAPE, "a2q: step is %s for x %s; it must be dense f32, one for each %s",
                          tinyi_shape_text(step, text), tinyi_shape_text(x, text2),
                          index       ? "group"
                          : by_column ? "column"
                                      : "row");
    if (bits &&
        (bits->dtype != TINY_F32 || bits->rank != 1 || !tiny_tensor_is_dense(bits) || bits->dim[0] != step->dim[0]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "a2q: bits are %s, there are %td steps", tinyi_shape_text(bits, text),
                          step->dim[0]);
    if (!bits && (!p || p->bits < 1 || p->bits > TGNN_A2Q_BITS))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "a2q: %d bits; there must be 1 to %d", p ? p->bits : 0, TGNN_A2Q_BITS);
    if (index && (by_column || index->dtype != TINY_I32 || index->rank != 1 || !tiny_tensor_is_dense(index) ||
                  index->dim[0] != x->dim[0]))
        return tinyi_fail(
            ctx, TINY_E_SHAPE,
            "a2q: the index is %s; it must be dense i32, one for each of %td rows, and by_column must be 0",
            tinyi_shape_text(index, text), x->dim[0]);
    /* neither the reference nor an accelerator has a way to refuse: the index is looked at before */
    if (index && index->data && op->out[0] && (ctx->target == TINY_TARGET_REFERENCE || ctx->desc.accel))
        for (i = 0; i < index->dim[0]; i++)
            if (!tinyi_a2q_group(((const int32_t *)index->data)[i], step->dim[0]))
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s", tinyi_a2q_no_group);
    tinyi_want(&want[0], TINY_F32, 2, x->dim);
    if (!dy) return TINY_OK;
    if (dy->dtype != TINY_F32 || dy->rank != 2 || dy->dim[0] != x->dim[0] || dy->dim[1] != x->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "a2q: the gradient is %s, x is %s", tinyi_shape_text(dy, text),
                          tinyi_shape_text(x, text2));
    tinyi_want(&want[1], TINY_F32, 1, step->dim);
    tinyi_want(&want[2], TINY_F32, 1, step->dim);
    return TINY_OK;
}

static void tinyi_a2q_cost(const tiny_op *op, tiny_cost *c)
{
    const double n = (double)tiny_tensor_count(op->in[0]);
    c->flops = (op->in[TINYI_A2Q_DY] ? 12.0 : 5.0) * n;
    c->bytes = (op->in[TINYI_A2Q_DY] ? 12.0 : 8.0) * n;
}

static void tinyi_a2q_case_fill(tiny_case *c, int i_input, void *data)
{
    tiny_idx i;
    for (i = 0; i < c->in[i_input].dim[0]; i++)
        if (i_input == TINYI_A2Q_STEPS)
            ((float *)data)[i] = (tiny_case_pick(c, 4) ? 0.02f : -0.2f) * (0.2f + tiny_rng_uniform(&c->rng));
        else ((float *)data)[i] = (tiny_case_pick(c, 5) ? 9.0f : -8.0f) * tiny_rng_uniform(&c->rng);
}

static void tinyi_a2q_cases(tiny_case *c)
{
    tgnn_a2q_params p;
    const int form = tiny_case_pick(c, 3), fixed = tiny_case_pick(c, 3) == 0;
    tiny_idx dim[2], m;
    memset(&p, 0, sizeof p);
    dim[0] = tiny_case_dim(c, 120);
    dim[1] = tiny_case_dim(c, 120);
    m = form == 2 ? tiny_case_dim(c, 60) : dim[form];
    p.by_column = form == 1;
    p.bits = fixed ? 1 + tiny_case_pick(c, 8) : 0;
    p.task = tiny_case_pick(c, 2);
    c->in[TINYI_A2Q_X] = c->in[TINYI_A2Q_DY] = tiny_tensor_nd(NULL, TINY_F32, 2, dim);
    c->in[TINYI_A2Q_STEPS] = c->in[TINYI_A2Q_BIT] = tiny_tensor_nd(NULL, TINY_F32, 1, &m);
    c->in[TINYI_A2Q_INDEX] = tiny_tensor_nd(NULL, TINY_I32, 1, &dim[0]);
    if (fixed) c->in[TINYI_A2Q_BIT].rank = -1;
    if (form != 2) c->in[TINYI_A2Q_INDEX].rank = -1;
    c->fill[TINYI_A2Q_STEPS] = c->fill[TINYI_A2Q_BIT] = TINY_FILL_TABLE;
    c->fill[TINYI_A2Q_INDEX] = TINY_FILL_INDEX;
    c->limit[TINYI_A2Q_INDEX] = m;
    c->fill_table = tinyi_a2q_case_fill;
    c->dense[TINYI_A2Q_STEPS] = c->dense[TINYI_A2Q_BIT] = c->dense[TINYI_A2Q_INDEX] = 1;
    memcpy(c->params.bytes, &p, sizeof p);
}

static const short tinyi_a2q_kernels[] = { -1 };
static const tiny_op_row tinyi_row_a2q_back =
    TINYI_ROW_OF("a2q_back", TGNN_OP_A2Q_BACK, TAKES(5, 2), GIVES(3), PARAMS(tgnn_a2q_params), FLAGS(TINY_OP_LOOSE),
                 SHAPE(tinyi_a2q_shape), REFERENCE(tinyi_a2q_back_ref), FAST(tinyi_a2q_back_fast, tinyi_a2q_back_work),
                 COST(tinyi_a2q_cost), CASES(tinyi_a2q_cases), BOUND(TINY_BOUND_EXACT, 0.0, 0.0), TERMS(NULL),
                 GRADIENT(NULL), KERNELS(tinyi_a2q_kernels),
                 SAYS("the gradient of a2q: straight through for x, local or of the task for steps and bits"));

static tiny_status tinyi_a2q_grad(tiny_grad *g, const tiny_op *op)
{
    tiny_tensor want[TINY_OP_MAX_OUT], d[3];
    tiny_op back = *op;
    tiny_status st = TINY_OK;
    int i;
    memset(want, 0, sizeof want);
    back.row = &tinyi_row_a2q_back;
    back.kind = TGNN_OP_A2Q_BACK;
    back.in[TINYI_A2Q_DY] = tiny_grad_of(g, 0);
    if (!back.in[TINYI_A2Q_DY]) return TINY_OK;
    for (i = 0; i < TINY_OP_MAX_OUT; i++) back.out[i] = NULL;
    st = tiny_op_shape(tiny_grad_ctx(g), &back, want);
    for (i = 0; !st && i < 3; i++) {
        st = tiny_grad_new(g, TINY_F32, want[i].rank, want[i].dim, &d[i]);
        back.out[i] = &d[i];
    }
    if (!st) st = tiny_grad_op(g, &back);
    for (i = 0; !st && i < (op->in[TINYI_A2Q_BIT] ? 3 : 2); i++) st = tiny_grad_add(g, i, &d[i]);
    return st;
}

static const tiny_op_row tinyi_row_a2q = TINYI_ROW_OF(
    "a2q", TGNN_OP_A2Q, TAKES(4, 2), GIVES(1), PARAMS(tgnn_a2q_params), FLAGS(TINY_OP_LOOSE), SHAPE(tinyi_a2q_shape),
    REFERENCE(tinyi_a2q_ref), FAST(tinyi_a2q_fast, NULL), COST(tinyi_a2q_cost), CASES(tinyi_a2q_cases),
    BOUND(TINY_BOUND_EXACT, 0.0, 0.0), TERMS(NULL), GRADIENT(tinyi_a2q_grad), KERNELS(tinyi_a2q_kernels),
    SAYS("xq = a sign(x) floor(min(|x| / a, 2^(b - 1) - 1) + 1/2), a and b of each row, column or group"));
TINY_API const tiny_op_row *tgnn_a2q_row(void) { return &tinyi_row_a2q; }
TINY_API const tiny_op_row *tgnn_a2q_back_row(void) { return &tinyi_row_a2q_back; }

TINY_API tiny_status tgnn_a2q(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *step, const tiny_tensor *bits,
                              const tiny_tensor *index, const tgnn_a2q_params *params, const tiny_tensor *xq)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TGNN_OP_A2Q;
    op.row = &tinyi_row_a2q;
    op.in[TINYI_A2Q_X] = x;
    op.in[TINYI_A2Q_STEPS] = step;
    op.in[TINYI_A2Q_BIT] = bits;
    op.in[TINYI_A2Q_INDEX] = index;
    op.out[0] = xq;
    op.params = params;
    return tiny_run(ctx, &op);
}

/* ---- groups */

/* room: 2 n words */
void tinyi_nearest_fill(tgnn_nearest *to, const float *step, const float *bits, tiny_idx n, int published,
                        uint64_t *room)
{
    tiny_idx k;
    to->n = n;
    to->m = 0;
    for (k = 0; k < n; k++) {               /* positive floats order as their bits do */
        const int b = tgnn_a2q_round(bits[k]);
        const float limit = tinyi_a2q_step(step[k]) * (float)(published ? 1 << (b - 1) : tgnn_a2q_limit(b));
        uint32_t word;
        memcpy(&word, &limit, sizeof word);
        room[k] = (uint64_t)word << 32 | (uint64_t)k;
    }
    tinyi_sort_pairs(room, room + n, (size_t)n);
    for (k = 0; k < n; k++) {
        const uint32_t word = (uint32_t)(room[k] >> 32);
        if (k && word == (uint32_t)(room[k - 1] >> 32)) continue;   /* stable: the first of equals is the lowest */
        memcpy(&to->limit[to->m], &word, sizeof word);
        to->group[to->m++] = (int32_t)(room[k] & 0xffffffffu);
    }
}

TINY_API tiny_status tgnn_nearest_make(tiny_ctx *ctx, const float *step, const float *bits, tiny_idx n, int published,
                                       tgnn_nearest *out)
{
    uint64_t *room;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!out || !step || !bits)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "groups: the steps, the bits or the output pointer is missing");
    memset(out, 0, sizeof *out);
    if (n < 1 || n > 0x7fffffff)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "groups: there are %td; there must be 1 to 2147483647", n);
    st = tgnn_a2q_check(ctx, "groups", step, bits, n);
    if (st) return st;
    room = (uint64_t *)tinyi_alloc(ctx, (size_t)n, 2 * sizeof *room);
    out->limit = room ? (float *)tinyi_alloc(ctx, (size_t)n, sizeof *out->limit) : NULL;
    out->group = out->limit ? (int32_t *)tinyi_alloc(ctx, (size_t)n, sizeof *out->group) : NULL;
    if (!out->group) {
        st = tiny_ctx_status(ctx);
        tgnn_nearest_free(ctx, out);
    } else tinyi_nearest_fill(out, step, bits, n, published, room);
    tiny_free(ctx, room);
    return st;
}

TINY_API void tgnn_nearest_free(tiny_ctx *ctx, tgnn_nearest *g)
{
    if (!g) return;
    tiny_free(ctx, g->limit);
    tiny_free(ctx, g->group);
    memset(g, 0, sizeof *g);
}

TINY_REF_BEGIN
TINY_API int32_t tgnn_nearest_find(const tgnn_nearest *g, float largest)
{
    /* the answer is the first limit that is not below, or the one before it */
    tiny_idx low = 0, high = g ? g->m - 1 : 0;
    double above, below;
    if (high < 0 || !g || !g->limit || !g->group) return -1;
    while (low < high) {
        const tiny_idx mid = low + (high - low) / 2;
        if (g->limit[mid] < largest) low = mid + 1;
        else high = mid;
    }
    if (!low || !(g->limit[low] >= largest)) return g->group[low];
    above = (double)g->limit[low] - (double)largest;
    below = (double)largest - (double)g->limit[low - 1];
    if (above == below) return TINYI_MIN(g->group[low], g->group[low - 1]);
    return above < below ? g->group[low] : g->group[low - 1];
}

static float tinyi_nearest_largest(const tiny_tensor *x, tiny_idx i)
{
    const float *row = (const float *)x->data + i * x->stride[0];
    float most = 0.0f;
    tiny_idx j;
    for (j = 0; j < x->dim[1]; j++) {
        const float v = row[j * x->stride[1]], a = v < 0.0f ? -v : v;
        if (a > most) most = a;
    }
    return most;
}
TINY_REF_END

TINY_API tiny_status tgnn_nearest_assign(tiny_ctx *ctx, const tgnn_nearest *g, const tiny_tensor *x, int32_t *group)
{
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!g || g->m < 1 || !x || !group || tiny_tensor_check(x) || x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "groups: the groups, x (f32, 2 axes) and an output are required");
    for (i = 0; i < x->dim[0]; i++) group[i] = tgnn_nearest_find(g, tinyi_nearest_largest(x, i));
    return TINY_OK;
}
