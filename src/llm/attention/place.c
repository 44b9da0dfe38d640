/* src/llm/attention/place.c - rotary positions, and rows put into pages
 * Paper    J. Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021 (arXiv 2104.09864),
 *          eq. 34
 * Formula  turn_pairs  (a, b) -> (a c - b s, a s + b c)
 *          put_rows    out = pages; out[page, part, row, .] = x[t, part, .] in the format of the pages
 * Cost     6 operations per pair; put_rows moves its numbers once, and all pages if it is not in place.
 * Error    turn_pairs: for a pair of length L = |(a, b)| |(c, s)| a result is off by at most 2 u L, and so is the
 *          reference. One number of the rotated pair is at least L / sqrt(2): together 4 sqrt(2) < 6 u of the largest
 *          number of the row.
 *          put_rows: the same bits. */
#include "core/state_inside.h"
#include "core/conform.h"
#include "core/half_inside.h"
#include "llm/attention/place.h"
#include "llm/block/format.h"
#include "llm/ops.h"
#include "math/table_inside.h"
#include <string.h>

/* ---- turn_pairs ------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static void tinyi_turn_rows(const tiny_op *op, tiny_idx t0, tiny_idx t1)
{
    const tllm_turn_params *p = (const tllm_turn_params *)op->params;
    const tiny_tensor *x = op->in[0], *c = op->in[1], *s = op->in[2], *y = op->out[0];
    const int halves = p && p->halves;
    const tiny_idx n = c->dim[1];
    tiny_idx t, h, j;
    for (t = t0; t < t1; t++)
        for (h = 0; h < x->dim[1]; h++) {
            const float *in = (const float *)x->data + t * x->stride[0] + h * x->stride[1];
            float *out = (float *)y->data + t * y->stride[0] + h * y->stride[1];
            for (j = 0; j < n; j++) {
                const tiny_idx ja = halves ? j : 2 * j, jb = halves ? j + n : 2 * j + 1;
                const float a = in[ja * x->stride[2]], b = in[jb * x->stride[2]];
                const float cj = ((const float *)c->data)[t * c->stride[0] + j * c->stride[1]];
                const float sj = ((const float *)s->data)[t * s->stride[0] + j * s->stride[1]];
                out[ja * y->stride[2]] = a * cj - b * sj;
                out[jb * y->stride[2]] = a * sj + b * cj;
            }
            for (j = 2 * n; j < x->dim[2] && out != in; j++) out[j * y->stride[2]] = in[j * x->stride[2]];
        }
}
TINY_REF_END
static void tinyi_turn_ref(const tiny_op *op) { tinyi_turn_rows(op, 0, op->in[0]->dim[0]); }
static void tinyi_turn_fast(tiny_team *team, const tiny_op *op)
{
    tiny_idx t0, t1;
    while (tiny_take(team, op->in[0]->dim[0], 4, &t0, &t1)) tinyi_turn_rows(op, t0, t1);
}
static void tinyi_turn_cost(const tiny_op *op, tiny_cost *cost)
{
    cost->flops = 3.0 * (double)tiny_tensor_count(op->in[0]);
    cost->bytes = 8.0 * (double)tiny_tensor_count(op->in[0]) + 8.0 * (double)tiny_tensor_count(op->in[1]);
}
static tiny_status tinyi_turn_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0];
    char text[96];
    int i;
    if (x->dtype != TINY_F32 || x->rank != 3)
        return tinyi_fail(ctx, TINY_E_SHAPE, "turn pairs: x is %s, it must be (rows, heads, numbers) of f32",
                          tinyi_shape_text(x, text));
    for (i = 1; i < 3; i++)
        if (op->in[i]->dtype != TINY_F32 || op->in[i]->rank != 2 || op->in[i]->dim[0] != x->dim[0] ||
            op->in[i]->dim[1] > x->dim[2] / 2 || op->in[i]->dim[1] != op->in[1]->dim[1])
            return tinyi_fail(
                ctx, TINY_E_SHAPE, "turn pairs: the %s are %s, they must be (%td rows, pairs) of f32, up to %td pairs",
                i == 1 ? "cosines" : "sines", tinyi_shape_text(op->in[i], text), x->dim[0], x->dim[2] / 2);
    tinyi_want(&want[0], TINY_F32, 3, x->dim);
    return TINY_OK;
}
static void tinyi_turn_cases(tiny_case *c)
{
    tllm_turn_params p;
    p.halves = tiny_case_pick(c, 2);
    c->in[0].rank = 3;
    c->in[0].dim[0] = tiny_case_dim(c, 40);
    c->in[0].dim[1] = 1 + tiny_case_pick(c, 5);
    c->in[0].dim[2] = tiny_case_dim(c, 160);
    c->in[1].rank = c->in[2].rank = 2;
    c->in[1].dim[0] = c->in[2].dim[0] = c->in[0].dim[0];
    c->in[1].dim[1] = c->in[2].dim[1] =
        tiny_case_pick(c, 3) ? c->in[0].dim[2] / 2 : tiny_case_pick(c, 1 + (int)c->in[0].dim[2] / 2);
    c->in[0].dtype = c->in[1].dtype = c->in[2].dtype = TINY_F32;
    c->no_specials = 1;                     /* with an infinite number a pair has no length */
    memcpy(c->params.bytes, &p, sizeof p);
}
static const tiny_op_row tinyi_row_turn_pairs = TINYI_ROW_OF("turn_pairs", TLLM_OP_TURN_PAIRS, TAKES(3, 3), GIVES(1),
    PARAMS(tllm_turn_params), FLAGS(TINY_OP_LOOSE | TINY_OP_INPLACE),
    SHAPE(tinyi_turn_shape), REFERENCE(tinyi_turn_ref), FAST(tinyi_turn_fast, NULL), COST(tinyi_turn_cost),
    CASES(tinyi_turn_cases), BOUND(TINY_BOUND_NORM, 6.0, 0.0), TERMS(NULL), GRADIENT(NULL), KERNELS(NULL),
    SAYS("pairs of each head turned by given angles: (a c - b s, a s + b c)"));
TINY_API const tiny_op_row *tllm_turn_pairs_row(void) { return &tinyi_row_turn_pairs; }

TINY_API tiny_status tllm_turn_pairs(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *c, const tiny_tensor *s,
                                     const tllm_turn_params *params, const tiny_tensor *y)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TLLM_OP_TURN_PAIRS;
    op.row = &tinyi_row_turn_pairs;
    op.in[0] = x;
    op.in[1] = c;
    op.in[2] = s;
    op.out[0] = y;
    op.params = params;
    return tiny_run(ctx, &op);
}

/* ---- put_rows --------------------------------------------------------------------------------------------------- */

#define TINYI_PUT_MOST 32                   /* numbers of a block, and bytes: Q8_0 has 34 */

static const tllm_format *tinyi_put_format(const tiny_op *op)
{
    const tllm_put_params *p = (const tllm_put_params *)op->params;
    const tiny_dtype type = op->in[0]->dtype;
    return tllm_format_of(type == TINY_F32   ? (int)TLLM_FORMAT_F32
                          : type == TINY_F16 ? (int)TLLM_FORMAT_F16
                          : p                ? p->format
                                             : -1);
}

TINY_REF_BEGIN
static void tinyi_put_block(const tllm_format *f, const float *x, unsigned char *to)
{
    uint16_t half;
    if (f->id == TLLM_FORMAT_F32) memcpy(to, x, 4);
    else if (f->id == TLLM_FORMAT_F16) {
        half = tinyi_f32_to_f16(x[0]);
        memcpy(to, &half, 2);
    } else f->pack(x, to, (size_t)f->values, NULL);
}

static unsigned char *tinyi_put_at(const tiny_tensor *t, tiny_idx page, tiny_idx part, tiny_idx row, tiny_idx k)
{
    const tiny_idx at = page * t->stride[0] + part * t->stride[1] + row * t->stride[2] + k * t->stride[3];
    return (unsigned char *)t->data + at * (tiny_idx)tiny_dtype_bytes(t->dtype);
}

/* the parts from p0 to before p1: one after the other, so that of two rows for one place the later stays */
static void tinyi_put_parts(const tiny_op *op, tiny_idx p0, tiny_idx p1)
{
    const tiny_tensor *in = op->in[0], *x = op->in[1], *place = op->in[2], *out = op->out[0];
    const tllm_format *f = tinyi_put_format(op);
    const size_t size = tiny_dtype_bytes(in->dtype);
    const tiny_idx each = f->bytes / (tiny_idx)size;        /* elements of a block */
    const tiny_idx n_block = out->dim[3] / each, values = f->values;
    unsigned char block[TINYI_PUT_MOST + 2];
    float number[TINYI_PUT_MOST];
    tiny_idx p, a, i, k, t, b;
    for (p = p0; p < p1; p++) {
        for (a = 0; a < in->dim[0] && in->data != out->data; a++)
            for (i = 0; i < in->dim[2]; i++)
                for (k = 0; k < in->dim[3]; k++)
                    memcpy(tinyi_put_at(out, a, p, i, k), tinyi_put_at(in, a, p, i, k), size);
        for (t = 0; t < x->dim[0]; t++) {
            const int32_t *at = (const int32_t *)place->data + 2 * t;
            const float *from = (const float *)x->data + t * x->stride[0];
            for (b = 0; b < n_block; b++) {
                for (k = 0; k < values; k++) number[k] = from[((p * n_block + b) * values + k) * x->stride[1]];
                tinyi_put_block(f, number, block);
                for (k = 0; k < each; k++)
                    memcpy(tinyi_put_at(out, at[0], p, at[1], b * each + k), block + (size_t)k * size, size);
            }
        }
    }
}
TINY_REF_END
static void tinyi_put_ref(const tiny_op *op) { tinyi_put_parts(op, 0, op->in[0]->dim[1]); }
static void tinyi_put_fast(tiny_team *team, const tiny_op *op)
{
    tiny_idx p0, p1;
    while (tiny_take(team, op->in[0]->dim[1], 1, &p0, &p1)) tinyi_put_parts(op, p0, p1);
}
static void tinyi_put_cost(const tiny_op *op, tiny_cost *cost)
{
    const tiny_tensor *pages = op->in[0];
    cost->flops = 0.0;
    cost->bytes = 6.0 * (double)tiny_tensor_count(op->in[1]);
    if (op->out[0] && op->out[0]->data != pages->data)
        cost->bytes += 2.0 * (double)tiny_tensor_count(pages) * (double)tiny_dtype_bytes(pages->dtype);
}
static tiny_status tinyi_put_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *pages = op->in[0], *x = op->in[1], *place = op->in[2];
    const tllm_format *f = tinyi_put_format(op);
    char text[96];
    tiny_idx t, each;
    if (pages->rank != 4 || (pages->dtype != TINY_F32 && pages->dtype != TINY_F16 && pages->dtype != TINY_U8))
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "put rows: pages are %s, they must be (blocks, parts, tokens, numbers) of f32, f16 or u8",
                          tinyi_shape_text(pages, text));
    if (!f || (pages->dtype == TINY_U8 && f->id != TLLM_FORMAT_Q8_0 && f->id != TLLM_FORMAT_Q4_0))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "put rows: pages of bytes hold blocks of Q8_0 or Q4_0, not of %s",
                          f ? f->name : "an unknown format");
    each = f->bytes / (tiny_idx)tiny_dtype_bytes(pages->dtype);
    if (pages->dim[3] % each)
        return tinyi_fail(ctx, TINY_E_SHAPE, "put rows: rows of %td bytes are not whole blocks of %s", pages->dim[3],
                          f->name);
    if (x->dtype != TINY_F32 || x->rank != 2 || x->dim[1] != pages->dim[1] * (pages->dim[3] / each) * f->values)
        return tinyi_fail(ctx, TINY_E_SHAPE, "put rows: x is %s, it must be (rows, %td) of f32",
                          tinyi_shape_text(x, text), pages->dim[1] * (pages->dim[3] / each) * f->values);
    if (place->dtype != TINY_I32 || place->rank != 2 || place->dim[0] != x->dim[0] || place->dim[1] != 2 ||
        !tiny_tensor_is_dense(place))
        return tinyi_fail(ctx, TINY_E_SHAPE, "put rows: place is %s, it must be (%td rows, 2) of i32, dense",
                          tinyi_shape_text(place, text), x->dim[0]);
    for (t = 0; t < x->dim[0] && place->data; t++) {        /* data that leads to memory */
        const int32_t *at = (const int32_t *)place->data + 2 * t;
        if (at[0] < 0 || at[0] >= pages->dim[0] || at[1] < 0 || at[1] >= pages->dim[2])
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "put rows: row %td is for row %d of page %d, but there are %td pages of %td", t,
                              (int)at[1], (int)at[0], pages->dim[0], pages->dim[2]);
    }
    tinyi_want(&want[0], pages->dtype, 4, pages->dim);
    return TINY_OK;
}
static void tinyi_put_fill(tiny_case *c, int i_input, void *data)
{
    int32_t *at = (int32_t *)data;
    tiny_idx t;
    (void)i_input;
    for (t = 0; t < c->in[2].dim[0]; t++, at += 2) {
        at[0] = tiny_case_pick(c, (int)c->in[0].dim[0]);
        at[1] = tiny_case_pick(c, (int)c->in[0].dim[2]);
    }
}
static void tinyi_put_cases(tiny_case *c)
{
    static const short formats[] = { TLLM_FORMAT_F32, TLLM_FORMAT_F16, TLLM_FORMAT_Q8_0, TLLM_FORMAT_Q4_0 };
    const tllm_format *f = tllm_format_of(formats[c->index % 4]);
    tllm_put_params p;
    const tiny_idx blocks = f->values > 1 ? 1 + tiny_case_pick(c, 4) : tiny_case_dim(c, 100);
    p.format = f->id;
    c->in[0].rank = 4;
    c->in[0].dtype = f->id == TLLM_FORMAT_F32 ? TINY_F32 : f->id == TLLM_FORMAT_F16 ? TINY_F16 : TINY_U8;
    c->in[0].dim[0] = 1 + tiny_case_pick(c, 5);
    c->in[0].dim[1] = 1 + tiny_case_pick(c, 4);
    c->in[0].dim[2] = tiny_case_dim(c, 17);
    c->in[0].dim[3] = f->values > 1 ? blocks * f->bytes : blocks;
    c->fill[0] = f->values > 1 ? TINY_FILL_NORMAL : TINY_FILL_ANY;
    c->in[1].rank = c->in[2].rank = 2;
    c->in[1].dtype = TINY_F32;
    c->in[1].dim[0] = c->in[2].dim[0] = tiny_case_dim(c, 20);
    c->in[1].dim[1] = c->in[0].dim[1] * blocks * f->values;
    c->in[2].dtype = TINY_I32;
    c->in[2].dim[1] = 2;
    c->fill[2] = TINY_FILL_TABLE;
    c->dense[2] = 1;
    c->fill_table = tinyi_put_fill;
    c->no_specials = 1;                     /* what a block holds of an infinite number is not said */
    memcpy(c->params.bytes, &p, sizeof p);
}
static const tiny_op_row tinyi_row_put_rows = TINYI_ROW_OF("put_rows", TLLM_OP_PUT_ROWS, TAKES(3, 3), GIVES(1),
    PARAMS(tllm_put_params), FLAGS(TINY_OP_LOOSE | TINY_OP_INPLACE),
    SHAPE(tinyi_put_shape), REFERENCE(tinyi_put_ref), FAST(tinyi_put_fast, NULL), COST(tinyi_put_cost),
    CASES(tinyi_put_cases), BOUND(TINY_BOUND_EXACT, 0.0, 0.0), TERMS(NULL), GRADIENT(NULL), KERNELS(NULL),
    SAYS("pages with rows of numbers put into them, in the format of the pages"));
TINY_API const tiny_op_row *tllm_put_rows_row(void) { return &tinyi_row_put_rows; }

TINY_API tiny_status tllm_put_rows(tiny_ctx *ctx, const tiny_tensor *pages, const tiny_tensor *x,
                                   const tiny_tensor *place, const tllm_put_params *params, const tiny_tensor *out)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.kind = TLLM_OP_PUT_ROWS;
    op.row = &tinyi_row_put_rows;
    op.in[0] = pages;
    op.in[1] = x;
    op.in[2] = place;
    op.out[0] = out;
    op.params = params;
    return tiny_run(ctx, &op);
}
