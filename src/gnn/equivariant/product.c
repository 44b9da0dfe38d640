/* src/gnn/equivariant/product.c - plans of products, and the operations that run their programs
 * Papers, formulas: gnn/equivariant/product_kinds.c.
 * Method   A lane is a channel of a sample. Blocks of 32 lanes go through the program; each row of it is a few
 *          multiplications of vectors in the first cache. The gradient is a program too, the reverse of the first.
 * Choice   by counted cost: a multiply-add is 1, of a pair with a factor 2, and each row 4 more for its sum. On AVX-512
 *          (AMD EPYC) the form of Gaunt's product that this chooses is the fastest within 3 %, L = 2 to 8. With one y
 *          for many channels a multiply-add of FOLD and CP is half as much: measured 0.5 to 0.8 of one of a program.
 * Error    each row with n terms and its depth add n + 3 roundings: LINEAR, k = 8 + 2 rows deep, from the largest row.
 * Threads  Blocks are independent: the same bits for any number of threads. */
#include <stdio.h>
#include <string.h>
#include "gnn/ops.h"
#include "gnn/equivariant/cp.h"
#include "gnn/equivariant/product_inside.h"
#include "gnn/equivariant/harmonics_inside.h"
#include "core/mem.h"
#include "core/state_inside.h"
#include "math/rows_inside.h"

TINYI_TABLE_CHOICE(tinyi_product_kernels, tinyi_product_kernels)

#define TINYI_PRODUCT_ROW 4.0               /* cost of a row besides its terms */
#define TINYI_PRODUCT_FOLD 0.5              /* cost of a multiply-add of FOLD and CP with one y for many channels */
#define TINYI_PRODUCT_BLOCKS 4              /* blocks that a thread takes at a time */

enum { TINYI_PRODUCT_IN_X, TINYI_PRODUCT_IN_Y, TINYI_PRODUCT_IN_CODE, TINYI_PRODUCT_IN_COEF, TINYI_PRODUCT_IN_W,
       TINYI_PRODUCT_BACK_G = 4, TINYI_PRODUCT_BACK_W };

/* an operation as both rows have it: inputs in the order of the registers, NULL where there is none */
typedef struct tinyi_product_op {
    const tiny_tensor *in[4], *out[3];
    const int32_t *code, *row, *term;
    const tiny_tensor *coef;
    tiny_idx lanes, n_channels;
} tinyi_product_op;

static tinyi_product_op tinyi_product_read(const tiny_op *op)
{
    const int back = op->out[1] != NULL;
    tinyi_product_op o;
    o.in[0] = op->in[TINYI_PRODUCT_IN_X];
    o.in[1] = op->in[TINYI_PRODUCT_IN_Y];
    o.in[2] = op->in[back ? TINYI_PRODUCT_BACK_W : TINYI_PRODUCT_IN_W];
    o.in[3] = back ? op->in[TINYI_PRODUCT_BACK_G] : NULL;
    o.out[0] = op->out[0];
    o.out[1] = op->out[1];
    o.out[2] = op->out[2];
    o.code = (const int32_t *)op->in[TINYI_PRODUCT_IN_CODE]->data;
    o.row = o.code + TINYI_PC_HEAD;
    o.term = o.row + 4 * o.code[TINYI_PC_ROWS];
    o.coef = op->in[TINYI_PRODUCT_IN_COEF];
    o.n_channels = o.in[0]->dim[1];
    o.lanes = o.in[0]->dim[0] * o.n_channels;
    return o;
}

/* ---- reference */

TINY_REF_BEGIN
static void tinyi_product_ref(const tiny_op *op)
{
    const tinyi_product_op o = tinyi_product_read(op);
    double reg[TGNN_PRODUCT_REGISTERS];
    tiny_idx z, c, k;
    int i, r, t;
    for (z = 0; z < o.in[0]->dim[0]; z++)
        for (c = 0; c < o.n_channels; c++) {
            int at = 0;
            for (i = 0; i < 4; i++)
                for (k = 0; o.in[i] && k < o.in[i]->dim[2]; k++)
                    reg[at++] = tinyi_real(o.in[i]->data, o.in[i]->dtype,
                                           z * o.in[i]->stride[0] + c * o.in[i]->stride[1] + k * o.in[i]->stride[2]);
            for (r = 0; r < o.code[TINYI_PC_ROWS]; r++) {
                const int32_t *row = o.row + 4 * r;
                double sum = row[1] & TINYI_PC_ADD ? reg[row[0]] : 0.0;
                for (t = row[2]; t < row[3]; t++)
                    sum += tinyi_real(o.coef->data, o.coef->dtype, t) * reg[o.term[2 * t]] *
                           (row[1] & TINYI_PC_PAIRS ? reg[o.term[2 * t + 1]] : 1.0);
                reg[row[0]] = sum;
            }
            at = o.code[TINYI_PC_REGS] - o.code[TINYI_PC_OUT];
            for (i = 0; i < 3; i++)
                for (k = 0; o.out[i] && k < o.out[i]->dim[2]; k++)
                    tinyi_real_set(o.out[i]->data, o.out[i]->dtype,
                                   z * o.out[i]->stride[0] + c * o.out[i]->stride[1] + k * o.out[i]->stride[2],
                                   reg[at++]);
        }
}
TINY_REF_END

/* ---- fast */

/* Lanes without gaps, each with its numbers together: transposed four columns at a time, since what is left of them is
 * slow. Read: the last four take the beginning of the next lanes, where there are some, and write up to 3 registers
 * more, which are of the next input or not written yet. Written: through `turned`. 0: not such lanes. */
static int tinyi_product_fours(const tiny_team *team, float *reg, const tiny_tensor *t, tiny_idx q, tiny_idx n,
                                 float *turned, int out)
{
    const tiny_idx d = t->dim[2], wide = (d + 3) / 4 * 4;
    float *p = (float *)t->data + q * d;
    if (d % 4 == 0 || !tiny_tensor_is_dense(t)) return 0;
    if (!out && (t->dim[0] * t->dim[1] - q - n + 1) * d < wide) return 0;
    if (out) {
        tinyi_sph_fours(team, turned, reg, TINYI_PRODUCT_LANES, TINYI_PRODUCT_LANES, d);
        memcpy(p, turned, (size_t)(n * d) * sizeof *p);
    } else
        TINYI_OF(team->k, transpose_b4)((unsigned char *)reg, TINYI_PRODUCT_LANES * 4, (const unsigned char *)p, d * 4,
                                        (size_t)wide, (size_t)n);
    return 1;
}

/* n lanes from lane q on, of tensor t, to or from registers: runs of channels, or of samples where they follow on. The
 * numbers of a lane, or the lanes, may lie next to each other, which makes each run a transposition or copies. */
static void tinyi_product_move(const tiny_team *team, float *reg, const tiny_tensor *t, tiny_idx q, tiny_idx n,
                               float *turned, int out)
{
    const tinyi_fn_transpose_b4 turn = TINYI_OF(team->k, transpose_b4);
    const tiny_idx n_channels = t->dim[1], d = t->dim[2], s2 = t->stride[2], width = TINYI_PRODUCT_LANES;
    const int joined = n_channels == 1 || t->stride[0] == n_channels * t->stride[1];
    const tiny_idx step = n_channels == 1 ? t->stride[0] : t->stride[1];
    tiny_idx done = 0, i, k, run;
    if (tinyi_product_fours(team, reg, t, q, n, turned, out)) done = n;
    for (; done < n; done += run) {
        const tiny_idx z = (q + done) / n_channels, c = (q + done) % n_channels;
        float *p = (float *)t->data + z * t->stride[0] + c * t->stride[1], *to = reg + done;
        run = joined ? n - done : TINYI_MIN(n - done, n_channels - c);
        if (step == 1 || run == 1)
            for (k = 0; k < d; k++)
                if (out) memcpy(p + k * s2, to + k * width, (size_t)run * sizeof *p);
                else memcpy(to + k * width, p + k * s2, (size_t)run * sizeof *p);
        else if (s2 == 1 && step > 0) {
            if (out) turn((unsigned char *)p, step * 4, (const unsigned char *)to, width * 4, (size_t)run, (size_t)d);
            else turn((unsigned char *)to, width * 4, (const unsigned char *)p, step * 4, (size_t)d, (size_t)run);
        } else
            for (k = 0; k < d; k++)
                for (i = 0; i < run; i++)
                    if (out) p[i * step + k * s2] = to[k * width + i];
                    else to[k * width + i] = p[i * step + k * s2];
    }
    for (k = 0; !out && n < width && k < d; k++)
        for (i = n; i < width; i++) reg[k * width + i] = 0.0f;
}

/* floats of a transposed result, with what squares write after it */
static size_t tinyi_product_turned(const tiny_op *op)
{
    tiny_idx most = 0;
    int i;
    for (i = 0; i < 3; i++)
        if (op->out[i]) most = TINYI_MAX(most, op->out[i]->dim[2]);
    return (size_t)(most * TINYI_PRODUCT_LANES + 16);
}

static void tinyi_product_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_product_op o = tinyi_product_read(op);
    const tinyi_product_kernels *k = tinyi_product_kernels_of(team->k);
    float *turned = (float *)team->own, *reg = turned + tinyi_product_turned(op);
    const tiny_idx blocks = (o.lanes + TINYI_PRODUCT_LANES - 1) / TINYI_PRODUCT_LANES;
    tiny_idx b, b1, i;
    while (tiny_take(team, blocks, TINYI_PRODUCT_BLOCKS, &b, &b1))
        for (; b < b1; b++) {
            const tiny_idx q = b * TINYI_PRODUCT_LANES, n = TINYI_MIN(o.lanes - q, TINYI_PRODUCT_LANES);
            float *at = reg;
            for (i = 0; i < 4; i++)
                if (o.in[i]) {
                    tinyi_product_move(team, at, o.in[i], q, n, turned, 0);
                    at += o.in[i]->dim[2] * TINYI_PRODUCT_LANES;
                }
            k->run(reg, o.row, (size_t)o.code[TINYI_PC_ROWS], o.term, (const float *)o.coef->data);
            at = reg + (o.code[TINYI_PC_REGS] - o.code[TINYI_PC_OUT]) * TINYI_PRODUCT_LANES;
            for (i = 0; i < 3; i++)
                if (o.out[i]) {
                    tinyi_product_move(team, at, o.out[i], q, n, turned, 1);
                    at += o.out[i]->dim[2] * TINYI_PRODUCT_LANES;
                }
        }
    team->ran_on = k->from;
}

static void tinyi_product_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    const int32_t *code = (const int32_t *)op->in[TINYI_PRODUCT_IN_CODE]->data;
    (void)n_threads;
    *shared = 0;
    *own = (tinyi_product_turned(op) + ((size_t)code[TINYI_PC_REGS] + 16) * TINYI_PRODUCT_LANES) * sizeof(float);
}

/* ---- the rows */

/* every number of a program is checked: registers exist, are written before they are read, and inputs never written */
static tiny_status tinyi_product_check_code(tiny_ctx *ctx, const char *name, const tiny_tensor *code,
                                            const tiny_tensor *coef, tiny_dtype type)
{
    const int32_t *h = (const int32_t *)code->data, *row, *term;
    uint8_t written[TGNN_PRODUCT_REGISTERS];
    int n_in = 0, i;
    int32_t r, t;
    if (code->dtype != TINY_I32 || code->rank != 1 || code->dim[0] < TINYI_PC_HEAD || coef->dtype != type ||
        coef->rank != 1 || !tiny_tensor_is_dense(code) || !tiny_tensor_is_dense(coef))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: a program is a dense row of i32 and one of the type of x", name);
    for (i = 0; i < TINYI_PC_HEAD; i++)
        if (h[i] < 0 || (i < TINYI_PC_ROWS && h[i] > TGNN_PRODUCT_REGISTERS))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: number %d of the program is %d", name, i, (int)h[i]);
    for (i = TINYI_PC_X; i <= TINYI_PC_G; i++) n_in += h[i];
    if (code->dim[0] != TINYI_PC_HEAD + 4 * (tiny_idx)h[TINYI_PC_ROWS] + 2 * (tiny_idx)h[TINYI_PC_TERMS] ||
        coef->dim[0] != h[TINYI_PC_TERMS] || n_in + h[TINYI_PC_OUT] > h[TINYI_PC_REGS])
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: a program of %d rows and %d terms does not fill %td numbers", name,
                          (int)h[TINYI_PC_ROWS], (int)h[TINYI_PC_TERMS], code->dim[0]);
    for (i = 0; i < h[TINYI_PC_REGS]; i++) written[i] = i < n_in;
    row = h + TINYI_PC_HEAD;
    term = row + 4 * h[TINYI_PC_ROWS];
    for (r = 0; r < h[TINYI_PC_ROWS]; r++, row += 4) {
        int ok = row[0] >= n_in && row[0] < h[TINYI_PC_REGS] && row[1] >= 0 && row[1] < TINYI_PC_FORMS &&
                 row[2] >= 0 && row[3] >= row[2] && row[3] <= h[TINYI_PC_TERMS] &&
                 (!(row[1] & TINYI_PC_ADD) || written[row[0]]);
        for (t = row[2]; ok && t < row[3]; t++) {
            const int32_t a = term[2 * t], b = row[1] & TINYI_PC_PAIRS ? term[2 * t + 1] : 0;
            ok = a >= 0 && a < h[TINYI_PC_REGS] && written[a] && b >= 0 && b < h[TINYI_PC_REGS] && written[b];
            if (row[1] & TINYI_PC_ONES) ok = ok && tinyi_real(coef->data, type, t) == 1.0;
        }
        if (!ok) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: row %d of the program is invalid", name, (int)r);
        written[row[0]] = 1;
    }
    for (i = h[TINYI_PC_REGS] - h[TINYI_PC_OUT]; i < h[TINYI_PC_REGS]; i++)
        if (!written[i]) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the program does not write its results", name);
    return TINY_OK;
}

static tiny_status tinyi_product_check_input(tiny_ctx *ctx, const char *name, const char *what, const tiny_tensor *t,
                                             const tiny_tensor *x, int d)
{
    char text[96];
    if (!t && !d) return TINY_OK;
    if (!t)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %s is missing, the plan takes %d numbers of it", name, what, d);
    if (t->dtype != x->dtype || t->rank != 3 || t->dim[0] != x->dim[0] || t->dim[1] != x->dim[1] || t->dim[2] != d)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: %s is %s, it must be %td x %td x %d %s", name, what,
                          tinyi_shape_text(t, text), x->dim[0], x->dim[1], d, tiny_dtype_name(x->dtype));
    return TINY_OK;
}

static int tinyi_product_same(const tiny_tensor *a, const tiny_tensor *b)
{
    return a->data == b->data && a->dtype == b->dtype && a->rank == 1 && a->dim[0] == b->dim[0] &&
           tiny_tensor_is_dense(a);
}

/* True for the program of the plan in params, which needs no check: of one sample with 128 channels and degree 4 it
 * took a quarter of the time. */
static int tinyi_product_is_plan(const tiny_op *op, int back)
{
    const tgnn_product_params *params = (const tgnn_product_params *)op->params;
    const tinyi_program *p;
    if (!params || !params->plan) return 0;
    p = back ? &params->plan->back : &params->plan->forward;
    return tinyi_product_same(op->in[TINYI_PRODUCT_IN_CODE], &p->code) &&
           tinyi_product_same(op->in[TINYI_PRODUCT_IN_COEF], op->in[0]->dtype == TINY_F64 ? &p->coef : &p->coef_f32);
}

/* of both rows: the backward one takes g, and its w comes after that */
static tiny_status tinyi_product_shape_of(tiny_ctx *ctx, const tiny_op *op, int back, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[TINYI_PRODUCT_IN_X];
    const char *name = back ? "product_back" : "product";
    const tiny_tensor *code = op->in[TINYI_PRODUCT_IN_CODE];
    tiny_status st = TINY_OK;
    const int32_t *h;
    tiny_idx dim[3];
    char text[96];
    int i;
    if (!tinyi_is_real(x) || x->rank != 3)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: x is %s, it must be samples x channels x numbers, f32 or f64", name,
                          tinyi_shape_text(x, text));
    if (!tinyi_product_is_plan(op, back))
        st = tinyi_product_check_code(ctx, name, code, op->in[TINYI_PRODUCT_IN_COEF], x->dtype);
    if (st) return st;
    h = (const int32_t *)code->data;
    st = tinyi_product_check_input(ctx, name, "x", x, x, h[TINYI_PC_X]);
    if (!st) st = tinyi_product_check_input(ctx, name, "y", op->in[TINYI_PRODUCT_IN_Y], x, h[TINYI_PC_Y]);
    if (!st)
        st = tinyi_product_check_input(ctx, name, "w", op->in[back ? TINYI_PRODUCT_BACK_W : TINYI_PRODUCT_IN_W], x,
                                       h[TINYI_PC_W]);
    if (!st && back) st = tinyi_product_check_input(ctx, name, "g", op->in[TINYI_PRODUCT_BACK_G], x, h[TINYI_PC_G]);
    if (st) return st;
    if ((!back && h[TINYI_PC_G]) || (back && h[TINYI_PC_OUT] != h[TINYI_PC_X] + h[TINYI_PC_Y] + h[TINYI_PC_W]))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the program is one of the other direction", name);
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    for (i = 0; i < (back ? 3 : 1); i++) {
        dim[2] = back ? h[TINYI_PC_X + i] : h[TINYI_PC_OUT];
        tinyi_want(&want[i], x->dtype, 3, dim);
    }
    return TINY_OK;
}

static tiny_status tinyi_product_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    return tinyi_product_shape_of(ctx, op, 0, want);
}
static tiny_status tinyi_product_back_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    return tinyi_product_shape_of(ctx, op, 1, want);
}

static double tinyi_product_depth(const tiny_op *op)
{
    /* terms on the longest way to a result: the largest row, with the rows that add to it, and those before */
    const int32_t *h = (const int32_t *)op->in[TINYI_PRODUCT_IN_CODE]->data, *row = h + TINYI_PC_HEAD;
    double most = 0.0;
    int32_t r;
    for (r = 0; r < h[TINYI_PC_ROWS]; r++) most = TINYI_MAX(most, (double)(row[4 * r + 3] - row[4 * r + 2]));
    return most;
}

static void tinyi_product_cost(const tiny_op *op, tiny_cost *c)
{
    const int32_t *h = (const int32_t *)op->in[TINYI_PRODUCT_IN_CODE]->data;
    const double lanes = (double)op->in[0]->dim[0] * (double)op->in[0]->dim[1];
    c->flops = lanes * (double)h[TINYI_PC_TERMS] * 2.0;
    c->bytes = lanes * 4.0 *
               (double)(h[TINYI_PC_X] + h[TINYI_PC_Y] + h[TINYI_PC_W] + h[TINYI_PC_G] + h[TINYI_PC_OUT]);
}

/* Programs of the kit: rows of three terms that read inputs and earlier rows. */
enum { TINYI_PRODUCT_CASE_TERMS = 3, TINYI_PRODUCT_CASE_ROWS = 9 };
static void tinyi_product_case_fill(tiny_case *c, int i_input, void *data)
{
    const int back = c->limit[TINYI_PRODUCT_IN_CODE] == 2;
    const int has_w = c->in[back ? TINYI_PRODUCT_BACK_W : TINYI_PRODUCT_IN_W].rank == 3;
    int32_t *code = (int32_t *)data, *row, *term, h[TINYI_PC_HEAD], r, t, n_in;
    if (i_input == TINYI_PRODUCT_IN_COEF) {
        float *coef = (float *)data;
        for (t = 0; t < c->in[i_input].dim[0]; t++)
            coef[t] = t / TINYI_PRODUCT_CASE_TERMS % 4 == 3 ? 1.0f : (float)(0.25 + 0.5 * tiny_rng_uniform64(&c->rng));
        return;
    }
    memset(h, 0, sizeof h);
    h[TINYI_PC_X] = (int32_t)c->in[TINYI_PRODUCT_IN_X].dim[2];
    h[TINYI_PC_Y] = (int32_t)c->in[TINYI_PRODUCT_IN_Y].dim[2];
    if (has_w) h[TINYI_PC_W] = (int32_t)c->in[back ? TINYI_PRODUCT_BACK_W : TINYI_PRODUCT_IN_W].dim[2];
    if (back) h[TINYI_PC_G] = (int32_t)c->in[TINYI_PRODUCT_BACK_G].dim[2];
    n_in = h[TINYI_PC_X] + h[TINYI_PC_Y] + h[TINYI_PC_W] + h[TINYI_PC_G];
    h[TINYI_PC_OUT] = back ? n_in - h[TINYI_PC_G] : 5;
    h[TINYI_PC_ROWS] = TINYI_PRODUCT_CASE_ROWS + h[TINYI_PC_OUT];
    h[TINYI_PC_REGS] = n_in + h[TINYI_PC_ROWS];
    h[TINYI_PC_TERMS] = h[TINYI_PC_ROWS] * TINYI_PRODUCT_CASE_TERMS;
    memcpy(code, h, sizeof h);
    row = code + TINYI_PC_HEAD;
    term = row + 4 * h[TINYI_PC_ROWS];
    for (r = 0; r < h[TINYI_PC_ROWS]; r++) {
        const int add = r % 3 == 2 && r < TINYI_PRODUCT_CASE_ROWS,
                  pairs = r < TINYI_PRODUCT_CASE_ROWS / 2 || r % 4 == 3;
        row[4 * r] = n_in + r - add;
        row[4 * r + 1] = (pairs ? TINYI_PC_PAIRS : 0) | (add ? TINYI_PC_ADD : 0) | (r % 4 == 3 ? TINYI_PC_ONES : 0);
        row[4 * r + 2] = r * TINYI_PRODUCT_CASE_TERMS;
        row[4 * r + 3] = (r + 1) * TINYI_PRODUCT_CASE_TERMS;
        for (t = row[4 * r + 2]; t < row[4 * r + 3]; t++) {
            /* every third row keeps its register; pairs read inputs only, since products of products grow too fast */
            const int any = tiny_case_pick(c, n_in + (pairs ? 0 : TINYI_MIN((r + 2) / 3, 3)));
            term[2 * t] = any < n_in ? any : n_in + 3 * (any - n_in);
            term[2 * t + 1] = tiny_case_pick(c, n_in);
        }
    }
}

static void tinyi_product_case(tiny_case *c, int back)
{
    const int has_w = c->index ? tiny_case_pick(c, 2) : 0;
    tiny_idx dim[3], n_in;
    int d[4], i;
    dim[0] = tiny_case_dim(c, 40);
    dim[1] = tiny_case_dim(c, 40);
    for (i = 0; i < 4; i++) d[i] = c->index ? 1 + tiny_case_pick(c, 26) : 1;
    for (i = 0; i < 2; i++) {
        dim[2] = d[i];
        c->in[i] = tiny_tensor_nd(NULL, TINY_F32, 3, dim);
    }
    c->in[TINYI_PRODUCT_IN_W].rank = -1;
    if (back) {
        dim[2] = d[3];
        c->in[TINYI_PRODUCT_BACK_G] = tiny_tensor_nd(NULL, TINY_F32, 3, dim);
        c->in[TINYI_PRODUCT_BACK_W].rank = -1;
    }
    if (has_w) {
        dim[2] = d[2];
        c->in[back ? TINYI_PRODUCT_BACK_W : TINYI_PRODUCT_IN_W] = tiny_tensor_nd(NULL, TINY_F32, 3, dim);
    }
    n_in = d[0] + d[1] + (has_w ? d[2] : 0);
    n_in = TINYI_PRODUCT_CASE_ROWS + (back ? n_in : 5);             /* rows */
    c->in[TINYI_PRODUCT_IN_CODE] =
        tiny_tensor_1d(NULL, TINY_I32, TINYI_PC_HEAD + 4 * n_in + 2 * n_in * TINYI_PRODUCT_CASE_TERMS);
    c->in[TINYI_PRODUCT_IN_COEF] = tiny_tensor_1d(NULL, TINY_F32, n_in * TINYI_PRODUCT_CASE_TERMS);
    for (i = TINYI_PRODUCT_IN_CODE; i <= TINYI_PRODUCT_IN_COEF; i++) {
        c->dense[i] = 1;
        c->fill[i] = TINY_FILL_TABLE;
    }
    c->limit[TINYI_PRODUCT_IN_CODE] = back ? 2 : 1;
    c->fill_table = tinyi_product_case_fill;
    c->no_specials = 1;                     /* sums of outliers overflow in float, and not in double */
}
static void tinyi_product_cases(tiny_case *c) { tinyi_product_case(c, 0); }
static void tinyi_product_back_cases(tiny_case *c) { tinyi_product_case(c, 1); }

static const short tinyi_product_slots[] = { TINYI_K_transpose_b4, -1 };
static const tiny_op_row tinyi_row_product_back = TINYI_ROW_OF(
    "product_back", TGNN_OP_PRODUCT_BACK, TAKES(6, 5), GIVES(3), PARAMS(tgnn_product_params),
    FLAGS(TINY_OP_LOOSE | TINY_OP_F64), SHAPE(tinyi_product_back_shape), REFERENCE(tinyi_product_ref),
    FAST(tinyi_product_fast, tinyi_product_work), COST(tinyi_product_cost), CASES(tinyi_product_back_cases),
    BOUND(TINY_BOUND_LINEAR, 12, 4), TERMS(tinyi_product_depth), GRADIENT(NULL), KERNELS(tinyi_product_slots),
    SAYS("dx, dy, dw = the gradients of a product of two features that turn with space"));

static tiny_status tinyi_product_grad(tiny_grad *g, const tiny_op *op)
{
    const tgnn_product_params *params = (const tgnn_product_params *)op->params;
    const tiny_tensor *w = op->in[TINYI_PRODUCT_IN_W];
    tiny_tensor dx, dy, dw;
    tiny_op back;
    tiny_status st;
    if (!params || !params->plan)
        return tinyi_fail(tiny_grad_ctx(g), TINY_E_ARGUMENT, "product: without a plan in params it has no gradient");
    memset(&back, 0, sizeof back);
    back.row = &tinyi_row_product_back;
    back.kind = TGNN_OP_PRODUCT_BACK;
    back.in[TINYI_PRODUCT_IN_X] = op->in[TINYI_PRODUCT_IN_X];
    back.in[TINYI_PRODUCT_IN_Y] = op->in[TINYI_PRODUCT_IN_Y];
    back.in[TINYI_PRODUCT_IN_CODE] = &params->plan->back.code;
    back.in[TINYI_PRODUCT_IN_COEF] =
        op->in[0]->dtype == TINY_F64 ? &params->plan->back.coef : &params->plan->back.coef_f32;
    back.params = params;
    back.in[TINYI_PRODUCT_BACK_G] = tiny_grad_of(g, 0);
    back.in[TINYI_PRODUCT_BACK_W] = w;
    if (!back.in[TINYI_PRODUCT_BACK_G]) return TINY_OK;
    st = tiny_grad_new(g, op->in[0]->dtype, 3, op->in[0]->dim, &dx);
    if (!st) st = tiny_grad_new(g, op->in[0]->dtype, 3, op->in[1]->dim, &dy);
    if (!st) {
        tiny_idx dim[3];
        memcpy(dim, op->in[0]->dim, sizeof dim);
        dim[2] = w ? w->dim[2] : 0;
        st = tiny_grad_new(g, op->in[0]->dtype, 3, dim, &dw);
    }
    back.out[0] = &dx;
    back.out[1] = &dy;
    back.out[2] = &dw;
    if (!st) st = tiny_grad_op(g, &back);
    if (!st && tiny_grad_wants(g, TINYI_PRODUCT_IN_X)) st = tiny_grad_add(g, TINYI_PRODUCT_IN_X, &dx);
    if (!st && tiny_grad_wants(g, TINYI_PRODUCT_IN_Y)) st = tiny_grad_add(g, TINYI_PRODUCT_IN_Y, &dy);
    if (!st && w && tiny_grad_wants(g, TINYI_PRODUCT_IN_W)) st = tiny_grad_add(g, TINYI_PRODUCT_IN_W, &dw);
    return st;
}

static const tiny_op_row tinyi_row_product = TINYI_ROW_OF(
    "product", TGNN_OP_PRODUCT, TAKES(5, 4), GIVES(1), PARAMS(tgnn_product_params), FLAGS(TINY_OP_LOOSE | TINY_OP_F64),
    SHAPE(tinyi_product_shape), REFERENCE(tinyi_product_ref), FAST(tinyi_product_fast, tinyi_product_work),
    COST(tinyi_product_cost), CASES(tinyi_product_cases), BOUND(TINY_BOUND_LINEAR, 12, 4), TERMS(tinyi_product_depth),
    GRADIENT(tinyi_product_grad), KERNELS(tinyi_product_slots),
    SAYS("out = the product of two features that turn with space, by the program of a plan"));
TINY_API const tiny_op_row *tgnn_product_row(void) { return &tinyi_row_product; }
TINY_API const tiny_op_row *tgnn_product_back_row(void) { return &tinyi_row_product_back; }

/* ---- plans */

TINY_API const char *tgnn_product_kind_name(int kind)
{
    static const char *const name[] = { "Clebsch-Gordan", "Clebsch-Gordan, dense", "Clebsch-Gordan, sparse", "Gaunt",
                                        "Gaunt by list", "Gaunt by Fourier series", "Gaunt by grid", "vector fields",
                                        "matrices", "fold", "CP", "paths of irreps" };
    return kind < 0 || kind > TGNN_PRODUCT_PATHS ? "?" : name[kind];
}

TINY_API void tgnn_product_close(tiny_ctx *ctx, tgnn_product *p)
{
    if (!p || tinyi_ctx_check(ctx)) return;
    tinyi_program_free(ctx, &p->forward);
    tinyi_program_free(ctx, &p->back);
    tinyi_pf_free(ctx, &p->fold);
    tiny_free(ctx, p->table.data);
    tiny_free(ctx, p->entry.data);
    tiny_free(ctx, p->value.data);
    tiny_free(ctx, p->path);
    tiny_free(ctx, p);
}

/* Clebsch-Gordan in any form */
static int tinyi_product_is_cg(int kind)
{
    return kind <= TGNN_PRODUCT_CG_SPARSE || kind == TGNN_PRODUCT_FOLD || kind == TGNN_PRODUCT_CP;
}
/* FOLD has no weights of paths and no blocks of paths; CP also no norm or choice of paths, and factors of its degree */
static int tinyi_product_folds(const tgnn_product_desc *d) { return !d->apart && (!d->weighted || d->shared); }
static int tinyi_product_factors(const tgnn_product_desc *d)
{
    const int l = tgnn_cp_degree(d->cp);
    return tinyi_product_folds(d) && !d->norm && !d->even && d->l1 == l && d->l2 == l && d->l3 == l;
}

static tiny_status tinyi_product_check_desc(tiny_ctx *ctx, const tgnn_product_desc *d)
{
    const int cg = tinyi_product_is_cg(d->kind);
    int i, l;
    if (d->kind < 0 || d->kind >= TGNN_PRODUCT_KINDS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: kind %d, it must be 0 to %d", d->kind,
                          TGNN_PRODUCT_KINDS - 1);
    for (i = 0; i < 3; i++) {
        l = i == 0 ? d->l1 : i == 1 ? d->l2 : d->l3;
        if (l < 0 || l > TGNN_L_MAX)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: degree %d, it must be 0 to %d", l, TGNN_L_MAX);
    }
    if (d->norm < 0 || d->norm > TGNN_PRODUCT_NORM)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: norm %d, it must be 0 to %d", d->norm, TGNN_PRODUCT_NORM);
    if (d->channels < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: %d channels of x for each of y, it must be at least 0",
                          d->channels);
    if (d->kind == TGNN_PRODUCT_FOLD && !tinyi_product_folds(d))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: fold has no blocks or weights of single paths");
    if (d->kind == TGNN_PRODUCT_CP && !d->cp)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: CP needs factors (tgnn_cp_fit)");
    if (d->cp && (d->kind == TGNN_PRODUCT_CP || d->kind == TGNN_PRODUCT_CG) && !tinyi_product_factors(d))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "product: factors of degree %d do not fit degrees %d, %d and %d, or a norm, a choice of "
                          "paths, or blocks or weights of single paths",
                          tgnn_cp_degree(d->cp), d->l1, d->l2, d->l3);
    if (!cg && (d->norm || d->even || d->apart || d->weighted))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: %s has no norms, paths or weights to choose",
                          tgnn_product_kind_name(d->kind));
    if ((d->n_polar || d->n_azimuth) && d->kind != TGNN_PRODUCT_GAUNT_GRID && d->kind != TGNN_PRODUCT_VECTOR)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: %s has no grid", tgnn_product_kind_name(d->kind));
    if (d->n_polar < 0 || d->n_azimuth < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: a grid of %d polar angles and %d azimuths", d->n_polar,
                          d->n_azimuth);
    return TINY_OK;
}

/* counts paths, and lists them where p->path is there; returns the numbers of all their blocks */
static int tinyi_product_paths(tgnn_product *p)
{
    const tgnn_product_desc *d = &p->desc;
    int l1, l2, l3, n = 0, size = 0;
    for (l1 = 0; l1 <= d->l1; l1++)
        for (l2 = 0; l2 <= d->l2; l2++)
            for (l3 = l1 > l2 ? l1 - l2 : l2 - l1; l3 <= l1 + l2 && l3 <= d->l3; l3++) {
                if (d->even && (l1 + l2 + l3) & 1) continue;
                if (p->path) {
                    p->path[n][0] = l1;
                    p->path[n][1] = l2;
                    p->path[n][2] = l3;
                }
                n++;
                size += 2 * l3 + 1;
            }
    p->n_paths = n;
    return size;
}

/* Builds the candidate `kind`; the plan keeps the one with the least cost. A form that needs too many registers is
 * passed over where there is another. */
static tiny_status tinyi_product_try(tiny_ctx *ctx, tgnn_product *p, int kind, int last, double *least, size_t *said)
{
    const int folds = kind == TGNN_PRODUCT_FOLD || kind == TGNN_PRODUCT_CP;
    tinyi_program forward, back;
    tinyi_pf fold;
    tinyi_pc pc, reverse;
    double cost = 0.0, operations = 0.0;
    tiny_status st = TINY_OK;
    memset(&fold, 0, sizeof fold);
    memset(&pc, 0, sizeof pc);
    memset(&reverse, 0, sizeof reverse);
    memset(&forward, 0, sizeof forward);
    memset(&back, 0, sizeof back);
    if (folds) st = tinyi_pf_build(ctx, p, kind, &fold);
    if (!st) st = tinyi_product_build(ctx, p, kind, &fold, &pc);
    if (!st) {
        operations = tinyi_pc_operations(&pc);
        cost = operations + TINYI_PRODUCT_ROW * (double)pc.n_rows;
        if (folds && p->desc.channels > 1) {
            operations = tinyi_pf_operations(&fold, p->desc.channels);
            cost = TINYI_PRODUCT_FOLD * operations;
        }
        *said += (size_t)snprintf(p->why + *said, sizeof p->why - *said, "%s%s %.0f", *said ? ", " : "",
                                  tgnn_product_kind_name(kind), cost);
        st = tinyi_pc_finish(&pc, &forward);
    }
    if (!st) tinyi_pc_reverse(&reverse, &pc);
    if (!st) st = tinyi_pc_finish(&reverse, &back);
    if (!st && (p->kind < 0 || cost < *least)) {
        tinyi_program_free(ctx, &p->forward);
        tinyi_program_free(ctx, &p->back);
        tinyi_pf_free(ctx, &p->fold);
        p->forward = forward;
        p->back = back;
        p->fold = fold;
        p->kind = kind;
        p->operations = operations;
        *least = cost;
    } else {
        tinyi_program_free(ctx, &forward);
        tinyi_program_free(ctx, &back);
        tinyi_pf_free(ctx, &fold);
    }
    tinyi_pc_free(&pc);
    tinyi_pc_free(&reverse);
    return st == TINY_E_UNSUPPORTED && (!last || p->kind >= 0) ? TINY_OK : st;
}

TINY_API tiny_status tgnn_product_open(tiny_ctx *ctx, const tgnn_product_desc *desc, tgnn_product **out)
{
    tgnn_product *p;
    double least = 0.0;
    size_t said = 0;
    int first, last, kind, size;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!desc || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: the description or the place of the plan is missing");
    st = tinyi_product_check_desc(ctx, desc);
    if (st) return st;
    p = (tgnn_product *)tinyi_alloc(ctx, 1, sizeof *p);
    if (!p) return tiny_ctx_status(ctx);
    memset(p, 0, sizeof *p);
    p->desc = *desc;
    p->kind = -1;
    p->dim[TGNN_PRODUCT_X] = (desc->l1 + 1) * (desc->l1 + 1);
    p->dim[TGNN_PRODUCT_Y] = (desc->l2 + 1) * (desc->l2 + 1);
    p->dim[TGNN_PRODUCT_OUT] = (desc->l3 + 1) * (desc->l3 + 1);
    if (tinyi_product_is_cg(desc->kind)) {
        size = tinyi_product_paths(p);
        p->path = (int (*)[3])tinyi_alloc(ctx, (size_t)p->n_paths + 1, sizeof *p->path);
        if (!p->path) st = tiny_ctx_status(ctx);
        else (void)tinyi_product_paths(p);
        if (desc->apart) p->dim[TGNN_PRODUCT_OUT] = size;
        if (desc->weighted) p->dim[TGNN_PRODUCT_W] = desc->shared ? 1 : p->n_paths;
    }
    first = last = desc->kind;
    if (desc->kind == TGNN_PRODUCT_CG) { first++; last = TGNN_PRODUCT_CG_SPARSE; }
    if (desc->kind == TGNN_PRODUCT_GAUNT) { first++; last = TGNN_PRODUCT_GAUNT_GRID; }
    for (kind = first; !st && kind <= last; kind++) st = tinyi_product_try(ctx, p, kind, kind == last, &least, &said);
    if (!st && desc->kind == TGNN_PRODUCT_CG && desc->channels > 1 && tinyi_product_folds(desc))
        st = tinyi_product_try(ctx, p, TGNN_PRODUCT_FOLD, 0, &least, &said);
    if (!st && desc->kind == TGNN_PRODUCT_CG && desc->cp)
        st = tinyi_product_try(ctx, p, TGNN_PRODUCT_CP, 0, &least, &said);
    p->desc.cp = NULL;                      /* its numbers were copied */
    if (!st && said < sizeof p->why) {
        char list[sizeof p->why];
        memcpy(list, p->why, sizeof list);
        (void)snprintf(p->why, sizeof p->why, "%s, %s (cost of a channel: %.200s)", tgnn_product_kind_name(p->kind),
                       first == last ? "as asked" : "the cheapest", list);
    }
    if (st) {
        tgnn_product_close(ctx, p);
        return st;
    }
    *out = p;
    return TINY_OK;
}

TINY_API int tgnn_product_kind(const tgnn_product *p) { return p ? p->kind : -1; }
TINY_API const char *tgnn_product_why(const tgnn_product *p) { return p ? p->why : ""; }
TINY_API double tgnn_product_operations(const tgnn_product *p) { return p ? p->operations : 0.0; }

TINY_API tiny_idx tgnn_product_dim(const tgnn_product *p, int which)
{
    return !p || which < 0 || which > TGNN_PRODUCT_OUT ? -1 : p->dim[which];
}

TINY_API int tgnn_product_path(const tgnn_product *p, int i, int l[3])
{
    if (!p || !l || i < 0 || i >= p->n_paths) return 0;
    memcpy(l, p->path[i], 3 * sizeof *l);
    return 1;
}

static tiny_status tinyi_product_plan_check(tiny_ctx *ctx, const tgnn_product *p)
{
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!p) return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: the plan is missing");
    if (!p->forward.code.data)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "product: a plan for irreps goes to tgnn_paths_run");
    return TINY_OK;
}

/* what a call needs to stay while it runs */
typedef struct tinyi_product_call {
    tgnn_product_params params;
    tgnn_fold_params fold;
    tiny_tensor y;
} tinyi_product_call;

static void tinyi_product_op_of(const tgnn_product *p, tinyi_product_call *call, const tiny_tensor *x,
                                const tiny_tensor *y, const tiny_tensor *w, tiny_op *op)
{
    if (tinyi_pf_op(p, &call->fold, x, y, w, op)) return;
    call->params.plan = p;
    if (x && y && x->rank == 3 && y->rank == 3 && y->dim[1] == 1 && x->dim[1] > 1) {    /* repeated */
        call->y = *y;
        call->y.dim[1] = x->dim[1];
        call->y.stride[1] = 0;
        y = &call->y;
    }
    memset(op, 0, sizeof *op);
    op->row = &tinyi_row_product;
    op->kind = TGNN_OP_PRODUCT;
    op->in[TINYI_PRODUCT_IN_X] = x;
    op->in[TINYI_PRODUCT_IN_Y] = y;
    op->in[TINYI_PRODUCT_IN_CODE] = &p->forward.code;
    op->in[TINYI_PRODUCT_IN_COEF] = x && x->dtype == TINY_F64 ? &p->forward.coef : &p->forward.coef_f32;
    op->in[TINYI_PRODUCT_IN_W] = w;
    op->params = &call->params;
}

TINY_API tiny_status tgnn_product_run(tiny_ctx *ctx, const tgnn_product *p, const tiny_tensor *x, const tiny_tensor *y,
                                      const tiny_tensor *w, const tiny_tensor *out)
{
    const tiny_status st = tinyi_product_plan_check(ctx, p);
    tinyi_product_call call;
    tiny_op op;
    if (st) return st;
    tinyi_product_op_of(p, &call, x, y, w, &op);
    op.out[0] = out;
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tgnn_product_back(tiny_ctx *ctx, const tgnn_product *p, const tiny_tensor *x, const tiny_tensor *y,
                                       const tiny_tensor *w, const tiny_tensor *g, const tiny_tensor *dx,
                                       const tiny_tensor *dy, const tiny_tensor *dw)
{
    const tiny_status st = tinyi_product_plan_check(ctx, p);
    tgnn_product_params params;
    tiny_tensor none;
    tiny_op op;
    if (st) return st;
    memset(&op, 0, sizeof op);
    op.row = &tinyi_row_product_back;
    op.kind = TGNN_OP_PRODUCT_BACK;
    op.in[TINYI_PRODUCT_IN_X] = x;
    op.in[TINYI_PRODUCT_IN_Y] = y;
    op.in[TINYI_PRODUCT_IN_CODE] = &p->back.code;
    op.in[TINYI_PRODUCT_IN_COEF] = x && x->dtype == TINY_F64 ? &p->back.coef : &p->back.coef_f32;
    params.plan = p;
    op.params = &params;
    op.in[TINYI_PRODUCT_BACK_G] = g;
    op.in[TINYI_PRODUCT_BACK_W] = w;
    op.out[0] = dx;
    op.out[1] = dy;
    op.out[2] = dw;
    if (!dw && x && !p->dim[TGNN_PRODUCT_W] && x->rank == 3) {
        none = tiny_tensor_3d(NULL, x->dtype, x->dim[0], x->dim[1], 0);
        op.out[2] = &none;
    }
    return tiny_run(ctx, &op);
}

static tiny_tensor tinyi_product_tape(tiny_tape *tape, const tgnn_product *p, const tiny_tensor *x,
                                      const tiny_tensor *y, const tiny_tensor *w, const tiny_tensor *to)
{
    tinyi_product_call call;
    tiny_tensor out;
    tiny_op op;
    memset(&out, 0, sizeof out);
    if (!p || !p->forward.code.data) {
        (void)tinyi_tape_refuse(tape, TINY_E_ARGUMENT, "product: the plan is missing, or one for irreps");
        return out;
    }
    tinyi_product_op_of(p, &call, x, y, w, &op);
    op.out[0] = to;
    (void)tiny_tape_op(tape, &op, &out);
    return out;
}

TINY_API tiny_tensor tgnn_tape_product(tiny_tape *tape, const tgnn_product *p, const tiny_tensor *x,
                                       const tiny_tensor *y, const tiny_tensor *w)
{
    tiny_tensor none;
    memset(&none, 0, sizeof none);
    return tape ? tinyi_product_tape(tape, p, x, y, w, NULL) : none;
}

TINY_API tiny_tensor tgnn_tape_product_last(tiny_tape *tape, const tgnn_product *p, const tiny_tensor *x,
                                            const tiny_tensor *y, const tiny_tensor *w)
{
    tiny_tensor none, to, turned;
    tiny_idx dim[3];
    memset(&none, 0, sizeof none);
    if (!tape) return none;
    if (!p || !x || x->rank != 3)
        (void)tinyi_tape_refuse(tape, TINY_E_SHAPE, "product: a plan and x (samples, numbers, channels) are needed");
    if (tiny_tape_status(tape)) return none;
    dim[0] = x->dim[0];
    dim[1] = p->dim[TGNN_PRODUCT_OUT];
    dim[2] = x->dim[2];
    to = tiny_tape_new(tape, x->dtype, 3, dim);
    if (tiny_tape_status(tape)) return none;
    to = tiny_tensor_swap(to, 1, 2);
    turned = tiny_tensor_swap(*x, 1, 2);
    to = tinyi_product_tape(tape, p, &turned, y, w, &to);
    return tiny_tape_status(tape) ? none : tiny_tensor_swap(to, 1, 2);
}
