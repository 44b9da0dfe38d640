/* src/llm/block/sparse.c - products with some rows of a matrix; the squared-ReLU feed-forward network
 * Papers   D. So et al., "Primer", 2021 (arXiv 2109.08668): squared ReLU; C. Deng et al., "PLM", 2025 (arXiv
 *          2503.12167): sparse in decode.
 * Formula  h = max(W_up x, 0)^2; y = sum over h[i] != 0 of h[i] W_down[i], W_down[i] the output weights of neuron i
 * Fast     threads take ranges of columns of y, so one thread computes each sum, in the order of the list. Four rows at
 *          a time are added while the next four are prefetched; rows of blocks are unpacked first, 64 at a time.
 * Cost     the bytes of the rows in the list
 * Error    a sum of m products in the order of the list: LINEAR, m + 2 units */
#include "llm/ops.h"
#include "llm/block/sparse.h"
#include "llm/block/blocks_inside.h"
#include "llm/block/matmul.h"
#include "math/matmul.h"
#include "math/elem.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <string.h>

#define TINYI_MIX_TOKENS 16                 /* rows of x that share one reading of w */
#define TINYI_MIX_ROWS 512                  /* rows of w whose factors are laid out at once */
#define TINYI_MIX_BLOCK 64                  /* rows of w that are unpacked at once */
#define TINYI_MIX_COLUMNS 256               /* a piece of columns is a multiple of it: no block is longer */

typedef struct tinyi_mix {
    const float *x;
    float *y;
    const unsigned char *w;
    const int32_t *list;
    const tllm_format *type;
    int dtype;                              /* -1: blocks */
    tiny_idx n, d, m, x_row, x_k, y_row, y_n;
    size_t w_bytes, each;                   /* from row to row; of a number that is read in place */
} tinyi_mix;

static int tinyi_mix_format(const tiny_op *op, const tiny_tensor *w)
{
    return w->dtype == TINY_F32    ? (int)TLLM_FORMAT_F32
           : w->dtype == TINY_F16  ? (int)TLLM_FORMAT_F16
           : w->dtype == TINY_BF16 ? (int)TLLM_FORMAT_BF16
           : op->params            ? ((const tllm_mix_params *)op->params)->format
                                   : 0;
}

static void tinyi_mix_read(const tiny_op *op, tinyi_mix *p)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *list = op->in[2], *y = op->out[0];
    memset(p, 0, sizeof *p);
    p->x = (const float *)x->data;
    p->x_row = x->stride[0];
    p->x_k = x->stride[1];
    p->w = (const unsigned char *)w->data;
    p->type = tllm_format_of(tinyi_mix_format(op, w));
    p->dtype = w->dtype == TINY_U8 ? -1 : (int)w->dtype;
    p->each = tiny_dtype_bytes(w->dtype);
    p->w_bytes = (size_t)w->stride[0] * p->each;
    p->list = list ? (const int32_t *)list->data : NULL;
    p->m = list ? list->dim[0] : w->dim[0];
    p->n = x->dim[0];
    p->d = p->dtype >= 0 ? w->dim[1] : w->dim[1] / p->type->bytes * p->type->values;
    if (!y) return;
    p->y = (float *)y->data;
    p->y_row = y->stride[0];
    p->y_n = y->stride[1];
}

/* ---- reference -------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static void tinyi_mix_ref(const tiny_op *op)
{
    const int magnitude = op->params && ((const tllm_mix_params *)op->params)->magnitude;
    tinyi_mix p;
    tiny_idx t, i, j, j0, n;
    tinyi_mix_read(op, &p);
    for (t = 0; t < p.n; t++)
        for (j0 = 0; j0 < p.d; j0 += n) {
            double sum[TINYI_MIX_COLUMNS];
            n = TINYI_MIN(p.d - j0, TINYI_MIX_COLUMNS);
            for (j = 0; j < n; j++) sum[j] = 0.0;
            for (i = 0; i < p.m; i++) {
                const tiny_idx at = p.list ? p.list[i] : i;
                const unsigned char *row = p.w + (size_t)at * p.w_bytes;
                const double x = (double)p.x[t * p.x_row + at * p.x_k];
                float w[TINYI_MIX_COLUMNS];
                if (p.dtype < 0)
                    p.type->unpack(row + (size_t)(j0 / p.type->values) * (size_t)p.type->bytes, w, (size_t)n);
                else if (p.dtype == TINY_F32) memcpy(w, row + (size_t)j0 * 4, (size_t)n * 4);
                else
                    for (j = 0; j < n; j++) {
                        const uint16_t b = ((const uint16_t *)(const void *)row)[j0 + j];
                        w[j] = p.dtype == TINY_F16 ? tinyi_f16_to_f32(b) : tinyi_bf16_to_f32(b);
                    }
                for (j = 0; j < n; j++) {
                    const double v = x * (double)w[j];
                    sum[j] += magnitude && v < 0.0 ? -v : v;
                }
            }
            for (j = 0; j < n; j++) p.y[t * p.y_row + (j0 + j) * p.y_n] = tinyi_round_f32(sum[j]);
        }
}
TINY_REF_END

/* ---- fast ------------------------------------------------------------------------------------------------------- */

static tiny_idx tinyi_mix_columns(tiny_idx d, int n_threads)
{
    return ((d / (4 * n_threads) + TINYI_MIX_COLUMNS - 1) / TINYI_MIX_COLUMNS + (d < 4 * n_threads)) *
           TINYI_MIX_COLUMNS;
}

static void tinyi_mix_work(const tiny_op *op, int n_threads, size_t *shared_bytes, size_t *own_bytes)
{
    const tiny_tensor *w = op->in[1];
    const tllm_format *f = tllm_format_of(tinyi_mix_format(op, w));
    const tiny_idx d = w->dtype != TINY_U8 || !f ? w->dim[1] : w->dim[1] / f->bytes * f->values;
    *shared_bytes = 0;
    *own_bytes = sizeof(float) *
                 ((size_t)tinyi_mix_columns(d, n_threads > 0 ? n_threads : 1) * (TINYI_MIX_TOKENS + TINYI_MIX_BLOCK) +
                  TINYI_MIX_ROWS);
}

/* columns j0 .. j0 + n of the rows of x from t0 on, into acc (n_t, n) */
static void tinyi_mix_piece(tiny_team *team, const tinyi_mix *p, float *acc, float *factor, float *room, tiny_idx t0,
                            tiny_idx n_t, tiny_idx j0, tiny_idx n)
{
    const tinyi_fn_gemv_axpy axpy = TINYI_K(team, gemv_axpy);
    const tinyi_fn_gemv_pick pick = TINYI_K(team, gemv_pick);
    const tiny_idx step = p->dtype < 0 ? TINYI_MIX_BLOCK : TINYI_MIX_ROWS;
    tiny_idx i0, i, t, rows;
    memset(acc, 0, (size_t)(n_t * n) * sizeof *acc);
    for (i0 = 0; i0 < p->m; i0 += rows) {
        rows = TINYI_MIN(p->m - i0, step);
        for (i = 0; i < rows && p->dtype < 0; i++) {
            const unsigned char *row = p->w + (size_t)(p->list ? p->list[i0 + i] : i0 + i) * p->w_bytes;
            tinyi_q_floats(team, p->type, room + i * n, row + (size_t)(j0 / p->type->values) * (size_t)p->type->bytes,
                           (size_t)n);
        }
        for (t = 0; t < n_t; t++) {
            const float *x = p->x + (t0 + t) * p->x_row;
            const void *w = p->w + (size_t)j0 * p->each;
            for (i = 0; i < rows; i++) factor[i] = x[(p->list ? p->list[i0 + i] : i0 + i) * p->x_k];
            if (p->dtype < 0) axpy(acc + t * n, room, TINY_F32, n, factor, 1, (size_t)rows, (size_t)n);
            else if (p->list)
                pick(acc + t * n, w, p->dtype, (ptrdiff_t)(p->w_bytes / p->each), p->list + i0, factor, (size_t)rows,
                     (size_t)n);
            else
                axpy(acc + t * n, (const unsigned char *)w + (size_t)i0 * p->w_bytes, p->dtype,
                     (ptrdiff_t)(p->w_bytes / p->each), factor, 1, (size_t)rows, (size_t)n);
        }
    }
}

static void tinyi_mix_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_mix p;
    float *acc = (float *)team->own, *factor, *room;
    tiny_idx columns, pieces, q, q0, q1, t0, t, j;
    (void)TINYI_K(team, gemv_axpy);         /* thread 0 reports the pass that ran, with or without a piece */
    tinyi_mix_read(op, &p);
    columns = tinyi_mix_columns(p.d, team->n);
    pieces = (p.d + columns - 1) / columns;
    factor = acc + columns * TINYI_MIX_TOKENS;
    room = factor + TINYI_MIX_ROWS;
    while (tiny_take(team, pieces, 1, &q0, &q1))
        for (q = q0; q < q1; q++) {
            const tiny_idx j0 = q * columns, n = TINYI_MIN(p.d - j0, columns);
            for (t0 = 0; t0 < p.n; t0 += TINYI_MIX_TOKENS) {
                const tiny_idx n_t = TINYI_MIN(p.n - t0, TINYI_MIX_TOKENS);
                tinyi_mix_piece(team, &p, acc, factor, room, t0, n_t, j0, n);
                for (t = 0; t < n_t; t++) {
                    float *y = p.y + (t0 + t) * p.y_row + j0 * p.y_n;
                    for (j = 0; j < n; j++) y[j * p.y_n] = acc[t * n + j];
                }
            }
        }
}

/* ---- the row ---------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_mix_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *list = op->in[2];
    const tllm_format *f = tllm_format_of(tinyi_mix_format(op, w));
    tiny_idx dim[2], i;
    char text[96];
    if (x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, TINY_E_SHAPE, "mix_rows: x is %s, it must have 2 axes of f32",
                          tinyi_shape_text(x, text));
    if (w->rank != 2 ||
        (w->dtype != TINY_F32 && w->dtype != TINY_F16 && w->dtype != TINY_BF16 && w->dtype != TINY_U8) ||
        w->dim[0] != x->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "mix_rows: w is %s, it must be %td rows of f32, f16, bf16 or bytes",
                          tinyi_shape_text(w, text), x->dim[1]);
    if (!f || (f->flags & TLLM_FORMAT_ACTIVATIONS) || w->dim[1] % (w->dtype == TINY_U8 ? f->bytes : 1))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "mix_rows: rows of %td bytes are not whole blocks of format %d",
                          w->dim[1], op->params ? ((const tllm_mix_params *)op->params)->format : 0);
    if ((w->dim[1] > 1 && w->stride[1] != 1) || (w->dim[0] > 1 && w->stride[0] < w->dim[1]))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "mix_rows: the numbers of a row of w must be contiguous and rows in order, not "
                          "%td and %td apart",
                          w->stride[1], w->stride[0]);
    if (w->dim[1] > TINY_IDX_MAX / 4096)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "mix_rows: rows of %td; a piece of them is more than this machine can address", w->dim[1]);
    if (list && (list->dtype != TINY_I32 || list->rank != 1 || !tiny_tensor_is_dense(list)))
        return tinyi_fail(ctx, TINY_E_SHAPE, "mix_rows: the list is %s, it must be dense i32 of one axis",
                          tinyi_shape_text(list, text));
    for (i = 0; list && list->data && i < list->dim[0]; i++) {         /* data, but it leads to memory */
        const int32_t at = ((const int32_t *)list->data)[i];
        if (at < 0 || at >= w->dim[0])
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "mix_rows: entry %td of the list is row %d, but there are %td", i,
                              (int)at, w->dim[0]);
    }
    dim[0] = x->dim[0];
    dim[1] = w->dtype == TINY_U8 ? w->dim[1] / f->bytes * f->values : w->dim[1];
    tinyi_want(want, TINY_F32, 2, dim);
    return TINY_OK;
}

static void tinyi_mix_cost(const tiny_op *op, tiny_cost *c)
{
    tinyi_mix p;
    tinyi_mix_read(op, &p);
    c->flops = 2.0 * (double)p.n * (double)p.m * (double)p.d;
    c->bytes =
        (double)p.m * (double)op->in[1]->dim[1] * (double)p.each + 4.0 * (double)p.n * ((double)p.m + (double)p.d);
}
static double tinyi_mix_terms(const tiny_op *op) { return (double)(op->in[2] ? op->in[2]->dim[0] : op->in[1]->dim[0]); }

static void tinyi_mix_fill(tiny_case *c, int i_input, void *data)
{
    const tiny_tensor *t = &c->in[i_input];
    tllm_mix_params params;
    const tllm_format *f;
    unsigned char *to = (unsigned char *)data;
    tiny_idx i, j;
    memcpy(&params, c->params.bytes, sizeof params);
    if (i_input == 2) {
        for (i = 0; i < t->dim[0]; i++) ((int32_t *)data)[i] = tiny_case_pick(c, (int)c->in[1].dim[0]);
        return;
    }
    f = tllm_format_of(params.format);
    for (i = 0; i < t->dim[0] * (t->dim[1] / f->bytes); i++, to += f->bytes) {
        float x[256];
        for (j = 0; j < f->values; j++) x[j] = tiny_rng_normal(&c->rng);
        f->pack(x, to, (size_t)f->values, NULL);
    }
}

static void tinyi_mix_cases(tiny_case *c)
{
    static const short formats[] = { TLLM_FORMAT_F32,  TLLM_FORMAT_F16,  TLLM_FORMAT_BF16,
                                     TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0, TLLM_FORMAT_Q4_K };
    tllm_mix_params params;
    const tllm_format *f = tllm_format_of(formats[(size_t)c->index % TINYI_COUNT(formats)]);
    if (!f->pack) f = tllm_format_of(TLLM_FORMAT_Q8_0);        /* without PACK */
    memset(&params, 0, sizeof params);
    params.format = f->id;
    c->in[0].rank = c->in[1].rank = 2;
    c->in[0].dim[0] = tiny_case_pick(c, 3) ? 1 : tiny_case_dim(c, 40);
    c->in[0].dim[1] = c->in[1].dim[0] = tiny_case_dim(c, 700);
    c->in[1].dtype = f->id == TLLM_FORMAT_F32    ? TINY_F32
                     : f->id == TLLM_FORMAT_F16  ? TINY_F16
                     : f->id == TLLM_FORMAT_BF16 ? TINY_BF16
                                                 : TINY_U8;
    c->in[1].dim[1] = f->values > 1 ? (1 + tiny_case_pick(c, 5)) * f->bytes : tiny_case_dim(c, 600);
    c->in[2].dtype = TINY_I32;
    c->in[2].rank = tiny_case_pick(c, 3) ? 1 : -1;
    c->in[2].dim[0] = tiny_case_dim(c, 300);
    c->fill[1] = f->values > 1 ? TINY_FILL_TABLE : TINY_FILL_NORMAL;
    c->fill[2] = TINY_FILL_TABLE;
    c->dense[1] = c->dense[2] = 1;
    c->fill_table = tinyi_mix_fill;
    c->no_specials = 1;                     /* the magnitude would read inputs that the list skips */
    memcpy(c->params.bytes, &params, sizeof params);
    params.magnitude = 1;
    c->has_magnitude_params = 1;
    memcpy(c->magnitude_params.bytes, &params, sizeof params);
}

static const short tinyi_mix_kernels[] = { TINYI_K_gemv_axpy, TINYI_K_gemv_pick, TINYI_K_dequantize_i8, -1 };
static const tiny_op_row tinyi_row_mix_rows = TINYI_ROW_OF("mix_rows", TLLM_OP_MIX_ROWS, TAKES(3, 2), GIVES(1),
    PARAMS(tllm_mix_params), FLAGS(TINY_OP_LOOSE),
    SHAPE(tinyi_mix_shape), REFERENCE(tinyi_mix_ref), FAST(tinyi_mix_fast, tinyi_mix_work), COST(tinyi_mix_cost),
    CASES(tinyi_mix_cases), BOUND(TINY_BOUND_LINEAR, 2.0, 1.01), TERMS(tinyi_mix_terms), GRADIENT(NULL),
    KERNELS(tinyi_mix_kernels), SAYS("y[t] = sum over i in list of x[t][i] w[i], w plain or in a block format"));
TINY_API const tiny_op_row *tllm_mix_rows_row(void) { return &tinyi_row_mix_rows; }

TINY_API tiny_status tllm_mix_rows(tiny_ctx *ctx, const tiny_tensor *x, int format, const tiny_tensor *w,
                                   const tiny_tensor *list, const tiny_tensor *y)
{
    tllm_mix_params p;
    tiny_op op;
    memset(&op, 0, sizeof op);
    memset(&p, 0, sizeof p);
    p.format = format;
    op.kind = TLLM_OP_MIX_ROWS;
    op.row = &tinyi_row_mix_rows;
    op.in[0] = x;
    op.in[1] = w;
    op.in[2] = list;
    op.out[0] = y;
    op.params = &p;
    return tiny_run(ctx, &op);
}

/* ---- lists and copies ------------------------------------------------------------------------------------------- */

TINY_API tiny_idx tllm_active_list(const float *h, tiny_idx n, tiny_idx k, int32_t *list)
{
    tiny_idx i, t, m = 0;
    if (!h || !list) return 0;
    for (i = 0; i < k; i++) {
        int active = 0;
        for (t = 0; t < n; t++) active |= h[t * k + i] != 0.0f;
        list[m] = (int32_t)i;               /* written over when it is none: no branch to guess */
        m += active;
    }
    return m;
}

/* both formats known, whole blocks in each direction, sizes that can be counted */
static tiny_status tinyi_turn_check(tiny_ctx *ctx, const char *call, int format, const void *w, tiny_idx n_out,
                                    tiny_idx n_in, int to, const void *turned)
{
    const tllm_format *f = tllm_format_of(format), *g = tllm_format_of(to);
    const tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!w || !turned || n_out < 1 || n_in < 1 || n_in > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: %td rows of %td numbers are too few or too many, or a pointer is NULL", call, n_out,
                          n_in);
    if (!f || !f->unpack || !g || !g->pack || !g->unpack || !tllm_format_bytes(f, (uint64_t)n_in) ||
        !tllm_format_bytes(g, (uint64_t)n_out))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: rows of %td numbers as %s, columns of %td as %s: both must be whole blocks, and the "
                          "second format one that can be packed",
                          call, n_in, f ? f->name : "?", n_out, g ? g->name : "?");
    return TINY_OK;
}

#define TINYI_TURN 256                      /* columns that are turned at once: a multiple of every block */
typedef struct tinyi_turn {
    const tllm_format *f, *g;
    const unsigned char *w;
    unsigned char *to;
    size_t row, row_to;
    tiny_idx n_out, n_in;
} tinyi_turn;
static void tinyi_turn_team(tiny_team *team, void *arg)
{
    const tinyi_turn *t = (const tinyi_turn *)arg;
    float *columns = (float *)team->own, *x = columns + TINYI_TURN * t->n_out;
    tiny_idx q0, q1, r, i;
    while (tiny_take(team, (t->n_in + TINYI_TURN - 1) / TINYI_TURN, 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            const tiny_idx i0 = q0 * TINYI_TURN, n = TINYI_MIN(t->n_in - i0, TINYI_TURN);
            for (r = 0; r < t->n_out; r++) {
                t->f->unpack(t->w + (size_t)r * t->row + (size_t)(i0 / t->f->values) * (size_t)t->f->bytes, x,
                             (size_t)n);
                for (i = 0; i < n; i++) columns[i * t->n_out + r] = x[i];
            }
            for (i = 0; i < n; i++)
                t->g->pack(columns + i * t->n_out, t->to + (size_t)(i0 + i) * t->row_to, (size_t)t->n_out, NULL);
        }
}

TINY_API tiny_status tllm_turn_rows(tiny_ctx *ctx, int format, const void *w, tiny_idx n_out, tiny_idx n_in, int to,
                                    void *turned)
{
    tinyi_turn t;
    size_t own;
    tiny_status st = tinyi_turn_check(ctx, "tllm_turn_rows", format, w, n_out, n_in, to, turned);
    if (st) return st;
    t.f = tllm_format_of(format);
    t.g = tllm_format_of(to);
    t.w = (const unsigned char *)w;
    t.to = (unsigned char *)turned;
    t.row = tllm_format_bytes(t.f, (uint64_t)n_in);
    t.row_to = tllm_format_bytes(t.g, (uint64_t)n_out);
    t.n_out = n_out;
    t.n_in = n_in;
    if (!tinyi_size_mul((size_t)n_out, TINYI_TURN * sizeof(float), &own) || own > SIZE_MAX - 4096)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "tllm_turn_rows: columns of %td numbers are more than this machine can address", n_out);
    return tiny_parallel(ctx, 0, 0, own + TINYI_TURN * sizeof(float), tinyi_turn_team, &t);
}

/* what column i counts: no order that a layout may have keeps it */
static double tinyi_turned_factor(tiny_idx i) { return (double)((uint32_t)i * 0x9e3779b1u >> 24) - 127.5; }

TINY_API tiny_status tllm_turned_check(tiny_ctx *ctx, int format, const void *w, tiny_idx n_out, tiny_idx n_in, int to,
                                       const void *turned)
{
    const tllm_format *f, *g;
    double off = 0.0, size = 0.0, within;
    tiny_idx r0, r, n, i, j;
    tiny_status st = tinyi_turn_check(ctx, "tllm_turned_check", format, w, n_out, n_in, to, turned);
    if (st) return st;
    f = tllm_format_of(format);
    g = tllm_format_of(to);
    within = g->values == 1 ? 0.01 : (double)g->bytes * 8.0 / (double)g->values >= 8.0 ? 0.05 : 0.5;
    /* y = W b both ways; another order is off by as much as y itself */
    for (r0 = 0; r0 < n_out; r0 += TINYI_TURN) {
        double rows[TINYI_TURN], neurons[TINYI_TURN];
        float x[TINYI_TURN];
        n = TINYI_MIN(n_out - r0, TINYI_TURN);
        for (r = 0; r < n; r++)
            for (rows[r] = neurons[r] = 0.0, i = 0; i < n_in; i += f->values) {
                f->unpack((const unsigned char *)w + (size_t)(r0 + r) * tllm_format_bytes(f, (uint64_t)n_in) +
                              (size_t)(i / f->values) * (size_t)f->bytes,
                          x, (size_t)f->values);
                for (j = 0; j < f->values; j++) rows[r] += tinyi_turned_factor(i + j) * (double)x[j];
            }
        for (i = 0; i < n_in; i++) {
            g->unpack((const unsigned char *)turned + (size_t)i * tllm_format_bytes(g, (uint64_t)n_out) +
                          (size_t)(r0 / g->values) * (size_t)g->bytes,
                      x, (size_t)n);
            for (r = 0; r < n; r++) neurons[r] += tinyi_turned_factor(i) * (double)x[r];
        }
        for (r = 0; r < n; r++) {
            off += (rows[r] - neurons[r]) * (rows[r] - neurons[r]);
            size += rows[r] * rows[r];
        }
    }
    if (!(off <= within * within * size))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "tllm_turned_check: products with the %td x %td matrix and with its copy differ by a share "
                          "of %g: the copy has another order, or is of another matrix",
                          n_out, n_in, size > 0.0 ? tinyi_sqrt64(off / size) : 0.0);
    return TINY_OK;
}

/* ---- the network ------------------------------------------------------------------------------------------------ */

TINY_API size_t tllm_relu2_ffn_work(const tllm_relu2_ffn_desc *f, tiny_idx n)
{
    size_t h, list;
    if (!f || n < 0 || f->n_ff < 1 || !tinyi_size_mul((size_t)n, (size_t)f->n_ff, &h) ||
        !tinyi_size_mul(h, sizeof(float), &h) || !tinyi_size_mul((size_t)f->n_ff, sizeof(int32_t), &list) ||
        h > SIZE_MAX - 64 || !tinyi_size_add((h + 63) & ~(size_t)63, list, &h))
        return 0;
    return h;
}

static tiny_tensor tinyi_relu2_rows(const void *w, int format, tiny_idx n, tiny_idx d)
{
    const tllm_format *f = tllm_format_of(format);
    const uint16_t one = 1;
    const int little = *(const unsigned char *)&one == 1;
    void *at = (void *)(uintptr_t)w;
    if (little && f->id == TLLM_FORMAT_F32) return tiny_tensor_2d(at, TINY_F32, n, d);
    if (little && f->id == TLLM_FORMAT_F16) return tiny_tensor_2d(at, TINY_F16, n, d);
    if (little && f->id == TLLM_FORMAT_BF16) return tiny_tensor_2d(at, TINY_BF16, n, d);
    return tiny_tensor_2d(at, TINY_U8, n, (tiny_idx)tllm_format_bytes(f, (uint64_t)d));
}

TINY_API tiny_status tllm_relu2_ffn(tiny_ctx *ctx, const tllm_relu2_ffn_desc *f, const float *x, tiny_idx n, void *work,
                                    float *y, tllm_relu2_stats *stats)
{
    const tllm_format *up = f ? tllm_format_of(f->format_up) : NULL, *down = f ? tllm_format_of(f->format_down) : NULL;
    const tiny_idx d_out = f && f->d_out ? f->d_out : f ? f->d : 0;
    tiny_tensor tx, tw, th, ty, tl;
    float *h = (float *)work;
    int32_t *list;
    tllm_relu2_stats s;
    tiny_op op;
    tiny_status st = tinyi_ctx_check(ctx);
    if (stats) memset(stats, 0, sizeof *stats);
    if (st) return st;
    if (!f || !x || !work || !y || !f->up || !f->down || n < 0 || f->d < 1 || d_out < 1 || !tllm_relu2_ffn_work(f, n) ||
        f->n_ff > INT32_MAX)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "relu2_ffn: %td rows of %td numbers through %td neurons: sizes from 1 on, weights, x, work "
                          "and y are needed",
                          n, f ? f->d : 0, f ? f->n_ff : 0);
    if (!up || !down || !up->unpack || !down->unpack || !tllm_format_bytes(up, (uint64_t)f->d) ||
        !tllm_format_bytes(down, (uint64_t)d_out))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "relu2_ffn: rows of %td numbers as format %d and of %td as format %d are not whole blocks",
                          f->d, f->format_up, d_out, f->format_down);
    if (!(f->most >= 0.0f && f->most <= 1.0f))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "relu2_ffn: a share of %g of the neurons is not in 0..1",
                          (double)f->most);
    list =
        (int32_t *)(void *)((unsigned char *)work + (((size_t)n * (size_t)f->n_ff * sizeof(float) + 63) & ~(size_t)63));
    tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, n, f->d);
    th = tiny_tensor_2d(h, TINY_F32, n, f->n_ff);
    ty = tiny_tensor_2d(y, TINY_F32, n, d_out);
    tw = tinyi_relu2_rows(f->up, f->format_up, f->n_ff, f->d);
    if (tw.dtype == TINY_U8) st = tllm_matmul(ctx, &tx, f->format_up, &tw, NULL, &th);
    else {
        tiny_tensor turned = tiny_tensor_swap(tw, 0, 1);
        st = tiny_matmul(ctx, &tx, &turned, NULL, TINY_ACT_RELU2, &th);
    }
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_RELU2;
    op.in[0] = op.out[0] = &th;
    if (!st && tw.dtype == TINY_U8) st = tiny_run(ctx, &op);
    if (st) return st;
    s.n_active = tllm_active_list(h, n, f->n_ff, list);
    s.sparse = (double)s.n_active <= (double)(f->most > 0.0f ? f->most : 0.5f) * (double)f->n_ff;
    tl = tiny_tensor_1d(list, TINY_I32, s.n_active);
    tw = tinyi_relu2_rows(f->down, f->format_down, f->n_ff, d_out);
    st = tllm_mix_rows(ctx, &th, f->format_down, &tw, s.sparse ? &tl : NULL, &ty);
    if (!st && stats) *stats = s;
    return st;
}
