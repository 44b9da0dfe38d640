/* src/llm/block/matmul.c - products with matrices in block formats
 * Formula  y[i][r] = sum_k x[i][k] w[r][k] + bias[r], w[r][k] as the format's unpack gives it
 * Forms    VECTORS  few rows of x: quantized once to x' = d code, with a scale d = max |x| / 127 for each 32 numbers;
 *                   integer products directly with the codes of w, s d (sum of code code') + m d (sum of code') for
 *                   each group of 16
 *          FLOATS   few rows of x with an infinite number, or a format without integer kernels: rows of w as floats
 *          INTEGERS 2 to 9 (neon: 8, w128: 16) or more rows of x, all targets with vectors: quantized as for VECTORS;
 *                   rows of w are expanded to bytes, once for all rows of x, and both are multiplied as integers,
 *                   several times as fast as float32 (w128: 1.7 times). avx2 and avx512 lay rows of w side by side:
 *                   a row of x more costs what those before it cost, whatever their number. neon and w128 do that with
 *                   rows of x.
 *                   With AMX, up to TINYLLM_AMX_BYTES rows are INTEGERS, by tiles of bytes where these are faster than
 *                   vectors, with the bits of avx512.
 *          PANELS   many rows of x, packed once as columns; rows of w are unpacked into a panel of the second-level
 *                   cache, a block of 256 of k at a time, and multiplied with all columns. With AMX both are rounded to
 *                   bfloat16. Rows of x beyond whole columns use VECTORS. Weights in bfloat16 are multiplied so by
 *                   avx512 too, where the processor has such products. On scalar, formats of code books go this way
 *                   from 9 rows of x on.
 * Cost     VECTORS reads w once, at the speed of memory; PANELS unpacks each number of w once for up to 512 rows of x.
 * Error    u = 2^-24; w = s c + m; top(k): the largest |x| of the 32 numbers around k. The bound is
 *          k u M, M = sum_k top(k) (|w[k]| + 2^-6 (|s c| + |m|)), which the reference computes if params.magnitude is
 *          set.
 *          VECTORS  |x - x'| <= d / 2 (1 + 2^-13) <= top / 254 (1 + 2^-13), 2^24 / 254 = 66053: less than 66100 u. Sums
 *                   of a group are exact integers below 2^24. Rounded are s, m, d and their products, 4 u (|s c| +
 *                   |m|) top, and sums of n / 64 + 8 terms; 2^-6 of 66100 u + n u covers them.
 *          INTEGERS the same.
 *          FLOATS   a sum of n products: n u |x w|.
 *          PANELS   the same; in bfloat16 both factors are off by 2^-8 of themselves at most: 2^-7 + 2^-16 of |x w|,
 *                   less than 131400 u, which is k of the row. Tiles take denormal numbers for 0.
 *          MXFP4    an offset of 16 scales is used: a scale byte of 252 or more (2^124 in a product) overflows and
 *                   gives NaN.
 * Together  up to three products of one x (queries, keys and values; gate and up) share one parallel region: x is
 *           quantized once, and there is no barrier between them. Results have the same bits as separate calls. */
#include <string.h>
#include "llm/ops.h"
#include "llm/block/matmul.h"
#include "llm/block/matmul_inside.h"
#include "math/gemm_inside.h"
#include "math/rows_inside.h"

#define TINYI_BLK_TOKENS 512                /* rows of x that are packed at once */
#define TINYI_BLK_MOST 131072               /* bytes of w that a thread takes at once, */
#define TINYI_BLK_LEAST 4096                /* at most and at least */
#define TINYI_BLK_TILE 16                   /* rows of w that are unpacked at once for FLOATS */
#define TINYI_BLK_256_BYTES 272             /* 256 numbers of a format that can be repacked: Q8_0 is the largest */

static int tinyi_blk_told(const tiny_op *op)
{
    return op->params ? ((const tllm_matmul_params *)op->params)->format : 0;
}
static int tinyi_blk_format(const tiny_op *op) { return tinyi_blk_told(op) & ~TLLM_REPACKED; }
#ifdef TINYI_NO_REPACK
static int tinyi_blk_repacked(const tiny_op *op) { (void)op; return 0; }
#else
static int tinyi_blk_repacked(const tiny_op *op) { return (tinyi_blk_told(op) & TLLM_REPACKED) != 0; }
#endif

static tiny_status tinyi_blk_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *bias = op->in[2];
    const tllm_format *f = tllm_format_of(tinyi_blk_format(op));
    tiny_idx dim[2];
    if (!f) return tinyi_fail(ctx, TINY_E_ARGUMENT, "matmul_blocks: no format has the id %d", tinyi_blk_format(op));
    if (x->dtype != TINY_F32 || x->rank != 2)
        return tinyi_fail(ctx, TINY_E_DTYPE, "matmul_blocks: x must be f32 of rank 2, not %s of rank %d",
                          tiny_dtype_name(x->dtype), x->rank);
    if (w->dtype != TINY_U8 || w->rank != 2)
        return tinyi_fail(ctx, TINY_E_DTYPE, "matmul_blocks: w must be bytes (u8) of rank 2, not %s of rank %d",
                          tiny_dtype_name(w->dtype), w->rank);
    if (x->dim[1] % f->values || tllm_format_bytes(f, (uint64_t)x->dim[1]) != (size_t)w->dim[1])
        return tinyi_fail(ctx, TINY_E_SHAPE, "matmul_blocks: rows of %td bytes are not %td numbers of %s", w->dim[1],
                          x->dim[1], f->name);
    if (w->dim[1] > 1 && w->stride[1] != 1)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "matmul_blocks: the bytes of a row of w must be contiguous, not %td apart", w->stride[1]);
    if (bias && (bias->dtype != TINY_F32 || bias->rank != 1 || bias->dim[0] != w->dim[0]))
        return tinyi_fail(ctx, TINY_E_SHAPE, "matmul_blocks: bias must be %td numbers of f32", w->dim[0]);
    if (tinyi_blk_repacked(op)) {
        if (tinyi_eight_of(f->id) < 0)
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "matmul_blocks: %s has no form with eight interleaved rows",
                              f->name);
        if (w->dim[0] > 1 && w->stride[0] != w->dim[1])
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                              "matmul_blocks: a repacked w must be dense, but its rows of %td bytes are %td apart",
                              w->dim[1], w->stride[0]);
    }
    if (x->dim[1] > TINY_IDX_MAX / 65536)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "matmul_blocks: rows of %td numbers; a panel of them is more than this machine can address",
                          x->dim[1]);
    dim[0] = x->dim[0];
    dim[1] = w->dim[0];
    tinyi_want(want, TINY_F32, 2, dim);
    return TINY_OK;
}

static void tinyi_blk_cost(const tiny_op *op, tiny_cost *cost)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1];
    cost->flops = 2.0 * (double)x->dim[0] * (double)x->dim[1] * (double)w->dim[0];
    cost->bytes =
        (double)w->dim[0] * (double)w->dim[1] + 4.0 * (double)x->dim[0] * ((double)x->dim[1] + (double)w->dim[0]);
}
static double tinyi_blk_terms(const tiny_op *op) { return (double)op->in[0]->dim[1] + 2.0; }

/* ---- reference */

TINY_REF_BEGIN
/* top (|w| + 2^-6 (|s c| + |m|)) of 256 numbers, in place of w; sizes of formats without integer kernels: |w| alone */
static void tinyi_blk_sizes(int blk, const unsigned char *w, float *t, tiny_idx n)
{
    const tinyi_blk_kernels *kn = tinyi_blk_scalar();
    unsigned char code[256];
    float s[16], m[16];
    tiny_idx i;
    if (!kn) blk = -1;
    if (blk >= 0) kn->expand[blk](code, s, m, w, (size_t)n, 0, NULL);
    for (i = 0; i < n; i++) {
        float size = tinyi_q_abs(t[i]);
        if (blk >= 0) {
            const float c = kn->traits[blk] & TINYI_BLK_HAS_SIGN ? (float)((code[i] ^ 128) - 128) : (float)code[i];
            size += (tinyi_q_abs(s[i / 16] * c) + tinyi_q_abs(m[i / 16])) / 64.0f;
            /* an offset of 128 elsewhere */
            if (kn->traits[blk] & TINYI_BLK_HAS_SIGN) size += tinyi_q_abs(s[i / 16]) * 2.0f;
        }
        t[i] = size;
    }
}

static void tinyi_blk_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *bias = op->in[2], *y = op->out[0];
    const tllm_format *f = tllm_format_of(tinyi_blk_format(op));
    const int magnitude = ((const tllm_matmul_params *)op->params)->magnitude, blk = tinyi_blk_of(f->id),
              repacked = tinyi_blk_repacked(op);
    const tiny_idx n = x->dim[0], k = x->dim[1];
    tiny_idx r, i, i0, i1, p, j, q;
    for (r = 0; r < w->dim[0]; r++)
        for (i0 = 0; i0 < n; i0 = i1) {
            const unsigned char *row = (const unsigned char *)w->data + (repacked ? 0 : r * w->stride[0]);
            unsigned char out[TINYI_BLK_256_BYTES];
            double sum[16];
            i1 = TINYI_MIN(i0 + 16, n);
            for (i = i0; i < i1; i++) sum[i - i0] = 0.0;
            for (p = 0; p < k; p += 256) {
                const tiny_idx left = TINYI_MIN(k - p, 256);
                const unsigned char *at_p = row + p / f->values * f->bytes;
                float t[256];
                if (repacked) {
                    tinyi_eight_row(f->id, row, w->dim[1], w->dim[0], r, p / f->values, left / f->values, out);
                    at_p = out;
                }
                f->unpack(at_p, t, (size_t)left);
                if (magnitude) tinyi_blk_sizes(blk, at_p, t, left);
                for (i = i0; i < i1; i++) {
                    const float *at = (const float *)x->data + i * x->stride[0] + p * x->stride[1];
                    double s = sum[i - i0];
                    if (magnitude)
                        for (j = 0; j < left; j += 32) {
                            float top = 0.0f;
                            for (q = j; q < left && q < j + 32; q++)
                                top = tinyi_q_abs(at[q * x->stride[1]]) > top ? tinyi_q_abs(at[q * x->stride[1]]) : top;
                            for (q = j; q < left && q < j + 32; q++) s += (double)top * (double)t[q];
                        }
                    else
                        for (j = 0; j < left; j++) s += (double)at[j * x->stride[1]] * (double)t[j];
                    sum[i - i0] = s;
                }
            }
            for (i = i0; i < i1; i++) {
                if (bias) sum[i - i0] += (double)((const float *)bias->data)[r * bias->stride[0]];
                ((float *)y->data)[i * y->stride[0] + r * y->stride[1]] = tinyi_round_f32(sum[i - i0]);
            }
        }
}
TINY_REF_END

/* ---- fast */

/* an odd number of rows has room for one more: pairs of them are quantized side by side */
/* some targets take rows in pairs */
static tiny_idx tinyi_blk_seats(const tinyi_blk_plan *p, tiny_idx rows)
{
    return rows > 1 || p->apart ? rows + rows % 2 : rows;
}
static size_t tinyi_blk_q8_bytes(const tinyi_blk_plan *p, tiny_idx rows)
{
    return tinyi_blk_up((size_t)(tinyi_blk_seats(p, rows) * p->blocks) * (256 + 2 * 16 * sizeof(float)));
}
/* every thread quantizes for itself: cheaper than to wait */
static int tinyi_blk_alone(const tinyi_blk_plan *p, tiny_idx rows)
{
    return tinyi_blk_seats(p, rows) * p->blocks <= 64;
}

/* kn: or NULL, if only sizes are needed */
static void tinyi_blk_plan_of(tinyi_blk_plan *p, const tiny_op *op, const tinyi_blk_kernels *kn)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *bias = op->in[2], *y = op->out[0];
    tiny_idx deep, high, few;
    p->f = tllm_format_of(tinyi_blk_format(op));
    p->blk = tinyi_blk_of(p->f->id);
    p->eight = tinyi_blk_repacked(op) ? tinyi_eight_of(p->f->id) : -1;
    p->apart = op->params && ((const tllm_matmul_params *)op->params)->alone;
    /* scalar: rows of weights are unpacked to floats in less time than they are expanded */
    if (p->blk >= TINYI_BLK_BOOKS && x->dim[0] > TINYI_BLK_FEW && !p->apart && kn && !kn->panel && !kn->lanes)
        p->blk = -1;
    p->x = (const float *)x->data;
    p->w = (const unsigned char *)w->data;
    p->y = (float *)y->data;
    p->bias = bias ? (const float *)bias->data : NULL;
    p->bias_step = bias ? bias->stride[0] : 0;
    p->n = x->dim[0];
    p->k = x->dim[1];
    p->n_out = w->dim[0];
    p->x_row = x->stride[0];
    p->x_k = p->k > 1 ? x->stride[1] : 1;
    p->w_row = p->eight >= 0 ? w->dim[1] : w->stride[0];
    p->y_row = y->stride[0];
    p->y_n = p->n_out > 1 ? y->stride[1] : 1;
    p->blocks = (p->k + 255) / 256;
    p->part = 256 / p->f->values * p->f->bytes;
    few = TINYI_MIN(p->n, TINYI_BLK_MANY);
    p->dense = p->x_k == 1 ? 0 : tinyi_blk_up((size_t)(p->n * p->k) * sizeof(float));
    p->codes = tinyi_blk_q8_bytes(p, few);
    p->flags = tinyi_blk_up((size_t)few);
    p->own_codes = tinyi_blk_alone(p, few) ? p->codes + p->flags : tinyi_blk_up(64 * 384 + 64);
    p->own_row = tinyi_blk_q8_bytes(p, 1);
    p->own_x = tinyi_blk_up((size_t)(TINYI_BLK_TILE * (p->blocks * 256 + 32)) * sizeof(float));
    p->columns = p->own_panel = p->own_sums = 0;
    p->tokens = 32;
    /* neither INTEGERS nor PANELS: a token of one sequence goes through here for each of its products */
    if (p->n < TINYI_BLK_BOTH) return;
    p->tokens = TINYI_GEMM_SHARED / (p->blocks * 256 + 1) / 32 * 32;       /* 16 MB of floats */
    p->tokens = TINYI_MAX(TINYI_MIN(TINYI_MIN(p->tokens, TINYI_BLK_TOKENS), tinyi_gemm_up(p->n, 32)), 32);
    if (p->n < TINYI_BLK_GROUP) p->tokens = TINYI_BLK_GROUP;
    deep = TINYI_MIN(p->blocks * 256, TINYI_BLK_DEEP);
    high = TINYI_MIN(tinyi_gemm_up(p->n_out, 32), TINYI_BLK_HIGH);
    p->columns = (size_t)(p->tokens * p->blocks) * 256 * sizeof(float);
    p->own_panel = tinyi_blk_up((size_t)(high * (deep + 32)) * sizeof(float));
    p->own_sums = tinyi_blk_up((size_t)(high * (p->tokens + 16)) * sizeof(float));
}

static void tinyi_blk_room(const tinyi_blk_plan *p, size_t *shared, size_t *own)
{
    *shared = p->dense + TINYI_MAX(p->codes + p->flags, p->columns);
    *own = p->own_x + p->own_codes + p->own_row + p->own_panel + p->own_sums;
}

static void tinyi_blk_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    tinyi_blk_plan p;
    (void)n_threads;
    tinyi_blk_plan_of(&p, op, NULL);
    tinyi_blk_room(&p, shared, own);
}

TINYI_FN void tinyi_blk_as_floats(tiny_team *team, const tinyi_blk_plan *p, float *tile, const unsigned char *flags,
                                  tiny_idx i0, tiny_idx i1, tiny_idx r0, tiny_idx r1)
{
    const tinyi_fn_gemv_dot dot = TINYI_OF(team->k, gemv_dot);
    tiny_idx r, end, i, j, m;
    for (r = r0; r < r1; r = end) {
        end = TINYI_MIN(r + (p->eight < 0 ? TINYI_BLK_TILE : TINYI_BLK_TILE / 2), r1);
        for (j = r; j < end; j++)
            p->f->unpack(tinyi_blk_lies(p, j, 0, p->k, tinyi_blk_scratch(p, (unsigned char *)tile)),
                         tile + (j - r) * p->k, (size_t)p->k);
        for (i = i0; i < i1; i += m) {
            m = flags ? 1 : TINYI_MIN(i1 - i, 4);
            if (flags && flags[i - i0]) continue;
            dot(p->y + i * p->y_row + r * p->y_n, p->y_n, p->y_row, tile, TINY_F32, p->k, (size_t)(end - r),
                p->x + i * p->x_row, p->x_row, (int)m, (size_t)p->k);
            for (j = i; j < i + m; j++) tinyi_blk_bias(p, j, r, end);
        }
    }
}

/* how VECTORS lays rows of x and which kernel reads them */
enum { TINYI_BLK_BY_FEW = 1, TINYI_BLK_BY_TWINS = 2, TINYI_BLK_BY_PAIRED = 4, TINYI_BLK_BY_EIGHT = 8 };
static int tinyi_blk_way(const tinyi_blk_kernels *kn, const tinyi_blk_plan *p, tiny_idx rows)
{
    const int blk = p->blk;
    /* `few` has the same sums for each of its rows, whatever their number; that of one row, other ones than `dot` */
    const int few = kn->few[blk] && (p->apart || (rows > 1 && (!kn->dots || rows <= TINYI_BLK_FEW))),
              twins = few && kn->twins && blk < TINYI_BLK_BOOKS;
    const int paired = twins || ((few || rows == 1 || p->apart) && kn->traits[blk] & TINYI_BLK_PAIRED);
    if (p->eight >= 0 && kn->eight) return TINYI_BLK_BY_EIGHT;
    return (few ? TINYI_BLK_BY_FEW : 0) | (twins ? TINYI_BLK_BY_TWINS : 0) | (paired ? TINYI_BLK_BY_PAIRED : 0);
}

/* Rows q0..q1 of `rows` that begin with row i0 of x */
static void tinyi_blk_quantize(const tinyi_blk_plan *p, const tinyi_blk_kernels *kn, int8_t *codes, float *d,
                               float *sum, unsigned char *flags, tiny_idx i0, tiny_idx rows, tiny_idx q0, tiny_idx q1,
                               int way)
{
    const int twins = way & TINYI_BLK_BY_TWINS;
    tiny_idx i;
    for (i = q0; i < q1; i++) {
        const tiny_idx low = twins ? i & 1 : 0, at = (i - low) * p->blocks;
        if (twins && low == 0 && i + 1 == rows) {       /* it has no neighbour */
            memset(codes + 256 * at, 0, (size_t)p->blocks * 512);
            memset(d + 16 * at, 0, (size_t)p->blocks * 32 * sizeof *d);
            memset(sum + 16 * at, 0, (size_t)p->blocks * 32 * sizeof *sum);
        }
        flags[i] =
            (unsigned char)kn->quantize(codes + 256 * at + 8 * low, d + 16 * at + low, sum + 16 * at + low,
                                        p->x + (i0 + i) * p->x_row, (size_t)p->k, (way & TINYI_BLK_BY_PAIRED) != 0);
        if (way & TINYI_BLK_BY_EIGHT)
            flags[i] &=
                (unsigned char)kn->eight->ready(codes + 256 * at, d + 16 * at, sum + 16 * at, (size_t)p->blocks);
    }
}

/* How many rows of w to take where `left` are: large pieces first, since each begins without what its predecessor has
 * asked from memory, and small ones at the end, so that all come to it together. */
static tiny_idx tinyi_blk_grain(const tinyi_blk_plan *p, tiny_idx left, int threads)
{
    const tiny_idx row = p->w_row > 0 ? p->w_row : 1;
    /* these begin in four places: fewer beginnings */
    const tiny_idx most = p->eight < 0 ? TINYI_BLK_MOST : 16 * TINYI_BLK_MOST;
    const tiny_idx n = TINYI_MAX(TINYI_MIN(most / row, left / (2 * threads)), TINYI_BLK_LEAST / row),
                   step = p->eight < 0 ? 4 : 32;
    return (n + step) & ~(step - 1);        /* rows go in fours, and repacked ones in four eights */
}

/* where the quantized rows of x are, and what else a piece of VECTORS needs */
typedef struct tinyi_blk_piece {
    const tinyi_blk_kernels *kn;
    tinyi_q8 x;
    tiny_idx i0, rows;
    int few, apart;
    unsigned char *code, *scratch;
    float *s, *m;
} tinyi_blk_piece;

/* the quantized rows from row i on */
static tinyi_q8 tinyi_blk_from(const tinyi_blk_plan *p, const tinyi_blk_piece *v, tiny_idx i)
{
    tinyi_q8 part = v->x;
    part.code += i * p->blocks * 256;
    part.d += i * p->blocks * 16;
    part.sum += i * p->blocks * 16;
    return part;
}

/* rows q0..q1, of which the first is at w, the next ones w_row further on */
static void tinyi_blk_rows(const tinyi_blk_plan *p, const tinyi_blk_piece *v, const unsigned char *w, tiny_idx w_row,
                           tiny_idx q0, tiny_idx q1)
{
    const tinyi_blk_kernels *kn = v->kn;
    float *y = p->y + v->i0 * p->y_row + q0 * p->y_n;
    tiny_idx i;
    if (v->rows == 1 && !v->few) kn->dot[p->blk](y, p->y_n, w, w_row, (size_t)(q1 - q0), &v->x, (size_t)p->k);
    else if (v->few)
        for (i = 0; i < v->rows; i += TINYI_BLK_FEW) {
            const tinyi_q8 part = tinyi_blk_from(p, v, i);
            kn->few[p->blk](y + i * p->y_row, p->y_n, p->y_row, w, w_row, (size_t)(q1 - q0), &part, (size_t)p->k,
                            (size_t)TINYI_MIN(v->rows - i, TINYI_BLK_FEW));
        }
    else if (v->apart)
        for (i = 0; i < v->rows; i++) {
            const tinyi_q8 one = tinyi_blk_from(p, v, i);
            kn->dot[p->blk](y + i * p->y_row, p->y_n, w, w_row, (size_t)(q1 - q0), &one, (size_t)p->k);
        }
    else
        for (; q0 < q1; q0++, w += w_row, y += p->y_n) {
            kn->expand[p->blk](v->code, v->s, v->m, w, (size_t)p->k, p->eight < 0 ? 2048 : 0, NULL);
            kn->dots(y, p->y_row, v->code, v->s, v->m, kn->traits[p->blk], &v->x, (size_t)v->rows);
        }
}

/* The same of a repacked matrix; q0 begins a group of eight. Rows beyond whole groups become one, with zeros. */
static void tinyi_blk_eights(const tinyi_blk_plan *p, const tinyi_blk_piece *v, tiny_idx q0, tiny_idx q1)
{
    const tiny_idx whole = TINYI_MIN(q1, p->n_out / 8 * 8);
    const tinyi_eight_kernels *kn = v->kn->eight;
    tiny_idx i, r, n;
    if (!kn) {                              /* a target without kernels takes the blocks out */
        for (; q0 < q1; q0 += n) {
            n = TINYI_MIN(q1 - q0, 8);
            for (r = 0; r < n; r++)
                tinyi_eight_row(p->f->id, p->w, p->w_row, p->n_out, q0 + r, 0, p->k / p->f->values,
                                v->scratch + r * p->w_row);
            tinyi_blk_rows(p, v, v->scratch, p->w_row, q0, q0 + n);
        }
        return;
    }
    for (i = 0; i < v->rows; i += n) {
        float *y = p->y + (v->i0 + i) * p->y_row, t[8 * TINYI_BLK_FEW];
        const tinyi_q8 part = tinyi_blk_from(p, v, i);
        n = v->apart ? 1 : TINYI_MIN(v->rows - i, TINYI_BLK_FEW);
        if (whole > q0)
            kn->dot[p->eight](y + q0 * p->y_n, p->y_n, p->y_row, p->w + q0 * p->w_row, 8 * p->w_row,
                              (size_t)(whole - q0) / 8, &part, (size_t)p->k, (size_t)n);
        if (whole == q1) continue;
        tinyi_eight_group(p->f->id, p->w + whole * p->w_row, p->w_row, q1 - whole, p->k / p->f->values, v->scratch);
        kn->dot[p->eight](t, 1, 8, v->scratch, 0, 1, &part, (size_t)p->k, (size_t)n);
        for (r = 0; r < n * 8; r++)
            if (whole + r % 8 < q1) y[r / 8 * p->y_row + (whole + r % 8) * p->y_n] = t[r];
    }
}

/* VECTORS: rows i0..i1 of x. q: codes in own or shared memory, flags after them. */
static void tinyi_blk_vectors(tiny_team *team, const tinyi_blk_set *set, const tinyi_blk_kernels *kn,
                              unsigned char *shared, unsigned char *own, tiny_idx i0, tiny_idx i1)
{
    const tinyi_blk_plan *p = set->p;
    const tiny_idx rows = i1 - i0, blocks = p->blocks;
    const int way = tinyi_blk_way(kn, p, rows), twins = way & TINYI_BLK_BY_TWINS, alone = tinyi_blk_alone(p, rows);
    const tiny_idx count = (twins ? rows + rows % 2 : rows) * blocks;
    unsigned char *at = alone ? own + p->own_x : shared, *flags = at + tinyi_blk_q8_bytes(p, rows);
    int8_t *codes = (int8_t *)at;
    float *d = (float *)(void *)(at + count * 256), *sum = d + count * 16;
    tiny_idx i, t0, t1, q0, q1, total;
    int strange = 0, unit = 0;
    tinyi_blk_piece v;
    if (alone) tinyi_blk_quantize(p, kn, codes, d, sum, flags, i0, rows, 0, rows, way);
    else {
        while (tiny_take(team, rows, 1, &q0, &q1))
            tinyi_blk_quantize(p, kn, codes, d, sum, flags, i0, rows, q0, q1, way);
        tiny_barrier(team);
    }
    for (i = 0; i < rows; i++) strange |= !flags[i];
    v.kn = kn;
    v.x.code = codes;
    v.x.d = d;
    v.x.sum = sum;
    v.x.blocks = (size_t)blocks;
    v.i0 = i0;
    v.rows = rows;
    v.few = way & TINYI_BLK_BY_FEW;
    v.apart = p->apart;
    v.code = own + p->own_x + p->own_codes;
    v.s = (float *)(void *)(v.code + blocks * 256);
    v.m = v.s + blocks * 16;
    v.scratch = tinyi_blk_scratch(p, own);
    team->ran_on = kn->from;
    /* some kernels take whole fours otherwise than the rows after them: a cut must not make such a rest */
    if (v.apart) unit = 2;
    for (i = 0; i < set->n; i++)
        if (set->p[i].eight >= 0) unit = 3;
    total = tinyi_blk_units_all(set, unit);
    for (t1 = 0; tiny_take(team, total, tinyi_blk_grain(set->p, (total - t1) << unit, team->n) >> unit, &t0, &t1);)
        while (t0 < t1) {
            p = tinyi_blk_next(set, unit, &t0, t1, &q0, &q1);
            q0 <<= unit;
            q1 = TINYI_MIN(q1 << unit, p->n_out);
            if (p->eight >= 0) tinyi_blk_eights(p, &v, q0, q1);
            else tinyi_blk_rows(p, &v, tinyi_blk_at(p, q0, 0), p->w_row, q0, q1);
            for (i = i0; p->bias && i < i1; i++) tinyi_blk_bias(p, i, q0, q1);
            if (strange) tinyi_blk_as_floats(team, p, (float *)(void *)own, flags, i0, i1, q0, q1);
        }
}

static void tinyi_blk_run(tiny_team *team, const tinyi_blk_set *set)
{
    const tinyi_blk_plan *p = set->p;
    const tinyi_blk_kernels *kn = tinyi_blk_kernels_of(team->k);
    unsigned char *shared = (unsigned char *)team->shared + p->dense, *own = (unsigned char *)team->own;
    const tiny_idx in_panels = tinyi_blk_in_panels(team->k, p, kn);
    tiny_idx i, q0, q1, grain;
    int began = in_panels > 0;
    tinyi_blk_many(team, set, kn, shared, own, in_panels);
    if (in_panels == p->n) return;
    if (p->blk >= 0) {
        for (i = in_panels; i < p->n; i += TINYI_BLK_MANY, began = 1) {
            if (began) tiny_barrier(team);  /* the rows before are no longer read */
            tinyi_blk_vectors(team, set, kn, shared, own, i, TINYI_MIN(i + TINYI_BLK_MANY, p->n));
        }
        return;
    }
    if (began) tiny_barrier(team);
    (void)TINYI_K(team, gemv_dot);
    grain = TINYI_MAX(TINYI_MIN(TINYI_BLK_TILE, p->n_out / (4 * team->n)), 4);
    while (tiny_take(team, p->n_out, grain, &q0, &q1))
        tinyi_blk_as_floats(team, p, (float *)(void *)own, NULL, in_panels, p->n, q0, q1);
}

static void tinyi_blk_fast(tiny_team *team, const tiny_op *op)
{
    tinyi_blk_set set;
    tinyi_blk_plan *p = set.p;
    tiny_idx i, q0, q1;
    set.n = 1;
    tinyi_blk_plan_of(p, op, tinyi_blk_kernels_of(team->k));
    if (p->n == 0 || p->n_out == 0) return;
    if (p->x_k != 1) {                      /* dense rows of x for all that follows */
        float *to = (float *)team->shared;
        while (tiny_take(team, p->n, 1, &q0, &q1))
            for (; q0 < q1; q0++)
                for (i = 0; i < p->k; i++) to[q0 * p->k + i] = p->x[q0 * p->x_row + i * p->x_k];
        tiny_barrier(team);
        p->x = to;
        p->x_row = p->k;
        p->x_k = 1;
    }
    tinyi_blk_run(team, &set);
}

/* ---- several at once */

static void tinyi_blk_member(tiny_team *team, void *arg) { tinyi_blk_run(team, (const tinyi_blk_set *)arg); }

/* Serves what x becomes all matrices? */
static int tinyi_blk_alike(const tinyi_kernels *k, const tinyi_blk_set *set)
{
    const tinyi_blk_kernels *kn = tinyi_blk_kernels_of(k);
    const tiny_idx in_panels = tinyi_blk_in_panels(k, set->p, kn);
    int i;
    if (set->n == 1) return 1;
    for (i = 0; i < set->n; i++) {
        const tinyi_blk_plan *p = &set->p[i];
        if (p->blk < 0 || tinyi_blk_in_panels(k, p, kn) != in_panels ||
            (in_panels ? !tinyi_blk_many_alike(k, p, set->p, kn)
                       : tinyi_blk_way(kn, p, p->n) != tinyi_blk_way(kn, &set->p[0], p->n)))
            return 0;
    }
    return 1;
}

TINYI_FN tiny_status tinyi_blk_products(tiny_ctx *ctx, const tiny_op *const *ops, size_t n)
{
    size_t i, shared = 0, own = 0, s, o;
    tiny_cost all = { 0, 0 }, one;
    tinyi_blk_set set;
    if (n < 1 || n > TINYI_BLK_TOGETHER || tinyi_op_watched(ctx) || ctx->tune) return tinyi_ops_known(ctx, ops, n);
    for (i = 0; i < n; i++) {
        tinyi_blk_plan_of(&set.p[i], ops[i], tinyi_blk_kernels_of(ctx->k));
        if (set.p[i].n == 0 || set.p[i].n_out == 0 || set.p[i].x_k != 1) return tinyi_ops_known(ctx, ops, n);
        tinyi_blk_room(&set.p[i], &s, &o);
        shared = TINYI_MAX(shared, s);
        own = TINYI_MAX(own, o);
        set.p[0].own_panel = TINYI_MAX(set.p[0].own_panel, set.p[i].own_panel);
        if (ctx->n_threads == 1) continue;
        tinyi_blk_cost(ops[i], &one);
        all.flops += one.flops;
        all.bytes += one.bytes;
    }
    set.n = (int)n;
    if (!tinyi_blk_alike(ctx->k, &set)) return tinyi_ops_known(ctx, ops, n);
    return tiny_parallel_loose(ctx, tinyi_cost_threads(ctx, &all), shared, own, tinyi_blk_member, &set);
}

/* ---- row */

/* Blocks of random numbers, packed as the writer of the format does. */
static void tinyi_blk_fill(tiny_case *c, int i_input, void *data)
{
    tllm_matmul_params params;
    const tllm_format *f;
    unsigned char *to = (unsigned char *)data;
    const tiny_tensor *t = &c->in[i_input];
    tiny_idx r, b, j;
    memcpy(&params, c->params.bytes, sizeof params);
    f = tllm_format_of(params.format);
    for (r = 0; r < t->dim[0]; r++)
        for (b = 0; b < t->dim[1]; b += f->bytes, to += f->bytes) {
            float x[256];
            for (j = 0; j < f->values; j++) x[j] = 0.02f * tiny_rng_normal(&c->rng);
            f->pack(x, to, (size_t)f->values, NULL);
        }
}

static void tinyi_blk_cases(tiny_case *c)
{
    static const short formats[] = { TLLM_FORMAT_Q4_0,  TLLM_FORMAT_Q8_0,  TLLM_FORMAT_Q4_K,   TLLM_FORMAT_Q6_K,
                                     TLLM_FORMAT_Q5_K,  TLLM_FORMAT_Q2_K,  TLLM_FORMAT_Q3_K,   TLLM_FORMAT_Q4_1,
                                     TLLM_FORMAT_Q5_0,  TLLM_FORMAT_Q5_1,  TLLM_FORMAT_IQ4_NL, TLLM_FORMAT_IQ4_XS,
                                     TLLM_FORMAT_MXFP4, TLLM_FORMAT_TQ2_0, TLLM_FORMAT_IQ2_S,  TLLM_FORMAT_TQ1_0,
                                     TLLM_FORMAT_NVFP4, TLLM_FORMAT_Q1_0,  TLLM_FORMAT_Q2_0,   TLLM_FORMAT_F16,
                                     TLLM_FORMAT_BF16 };
    tllm_matmul_params params;
    const tllm_format *f;
    tiny_idx n, k, n_out;
    size_t i = (size_t)c->index;
    /* TINYLLM_FEW_FORMATS; without PACK */
    while (!(f = tllm_format_of(formats[i % TINYI_COUNT(formats)])) || !f->pack) i++;
    memset(&params, 0, sizeof params);
    params.format = f->id;
    memcpy(c->params.bytes, &params, sizeof params);
    params.magnitude = 1;
    c->has_magnitude_params = 1;
    memcpy(c->magnitude_params.bytes, &params, sizeof params);
    n = tiny_case_pick(c, 3) ? tiny_case_dim(c, 70) : 1;
    n_out = tiny_case_dim(c, 150);
    k = (1 + tiny_case_pick(c, 4)) * (f->values < 256 && tiny_case_pick(c, 2) ? f->values : 256);
    if (f->values == 1 && tiny_case_pick(c, 2)) k = tiny_case_dim(c, 300);
    c->in[0].rank = 2;
    c->in[0].dim[0] = n;
    c->in[0].dim[1] = k;
    c->in[1].rank = 2;
    c->in[1].dtype = TINY_U8;
    c->in[1].dim[0] = n_out;
    c->in[1].dim[1] = k / f->values * f->bytes;
    c->fill[1] = TINY_FILL_TABLE;
    c->fill_table = tinyi_blk_fill;
    c->dense[1] = 1;
    c->in[2].rank = tiny_case_pick(c, 2) ? 1 : -1;
    c->in[2].dim[0] = n_out;
    c->no_denormals = 1;
}

/* of the plain products that unpacked blocks go through; the kernels of formats are in no slot of the table */
static const short tinyi_blk_slots[] = { TINYI_K_gemv_dot,      TINYI_K_transpose_b4,  TINYI_K_gemm_f32_shape,
                                         TINYI_K_gemm_f32_turn, TINYI_K_gemm_f32_rows, -1 };
static const tiny_op_row tinyi_blk_row = TINYI_ROW_OF("matmul_blocks", TLLM_OP_MATMUL_BLOCKS, TAKES(3, 2), GIVES(1),
    PARAMS(tllm_matmul_params), FLAGS(TINY_OP_LOOSE | TINY_OP_TUNED),
    SHAPE(tinyi_blk_shape), REFERENCE(tinyi_blk_ref), FAST(tinyi_blk_fast, tinyi_blk_work), COST(tinyi_blk_cost),
    CASES(tinyi_blk_cases), BOUND(TINY_BOUND_LINEAR, 131400, 1.01), TERMS(tinyi_blk_terms), GRADIENT(NULL),
    KERNELS(tinyi_blk_slots), SAYS("y[i][j] = sum_k x[i][k] w[j][k] + bias[j], w in a block format"));

TINY_API const tiny_op_row *tllm_matmul_row(void) { return &tinyi_blk_row; }

static void tinyi_blk_op(tiny_op *op, tllm_matmul_params *p, const tiny_tensor *x, int format, const tiny_tensor *w,
                         const tiny_tensor *bias, const tiny_tensor *y)
{
    memset(op, 0, sizeof *op);
    memset(p, 0, sizeof *p);
    p->format = format;
    op->kind = TLLM_OP_MATMUL_BLOCKS;
    op->row = &tinyi_blk_row;
    op->in[0] = x;
    op->in[1] = w;
    op->in[2] = bias;
    op->out[0] = y;
    op->params = p;
}

TINY_API tiny_status tllm_matmul(tiny_ctx *ctx, const tiny_tensor *x, int format, const tiny_tensor *w,
                                 const tiny_tensor *bias, const tiny_tensor *y)
{
    tllm_matmul_params p;
    tiny_op op;
    tinyi_blk_op(&op, &p, x, format, w, bias, y);
    return tiny_run(ctx, &op);
}

TINY_API tiny_status tllm_matmul_together(tiny_ctx *ctx, const tiny_tensor *x, int n, const int *format,
                                          const tiny_tensor *const *w, const tiny_tensor *const *bias,
                                          const tiny_tensor *const *y)
{
    tllm_matmul_params p[TINYI_BLK_TOGETHER];
    tiny_op op[TINYI_BLK_TOGETHER];
    const tiny_op *ops[TINYI_BLK_TOGETHER];
    uintptr_t first[TINYI_BLK_TOGETHER], end[TINYI_BLK_TOGETHER];
    tiny_status st = tinyi_ctx_check(ctx);
    int i, j;
    if (st) return st;
    if (n < 1 || n > TINYI_BLK_TOGETHER || !format || !w || !y)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "matmul_blocks: 1 to %d matrices with formats and outputs are needed, not %d",
                          TINYI_BLK_TOGETHER, n);
    for (i = 0; i < n; i++) {
        tinyi_blk_op(&op[i], &p[i], x, format[i], w[i], bias ? bias[i] : NULL, y[i]);
        ops[i] = &op[i];
        st = tinyi_op_checked(ctx, ops[i]);
        if (st) return st;
        (void)tinyi_tensor_reach(y[i], &first[i], &end[i]);
        for (j = 0; j < i; j++)
            if (first[i] < end[j] && first[j] < end[i])
                return tinyi_fail(ctx, TINY_E_ALIAS, "matmul_blocks: outputs %d and %d of joint products overlap", j,
                                  i);
    }
    for (i = 0; i < n; i++)
        for (j = 0; j < 2 * n; j++) {       /* w and bias of all of them: there is no barrier between the products */
            const tiny_tensor *t = op[j / 2].in[1 + j % 2];
            uintptr_t t0, t1;
            if (t && !tinyi_tensor_reach(t, &t0, &t1) && first[i] < t1 && t0 < end[i])
                return tinyi_fail(ctx, TINY_E_ALIAS,
                                  "matmul_blocks: output %d of joint products overlaps an input of product %d", i,
                                  j / 2);
        }
    return tinyi_blk_products(ctx, ops, (size_t)n);
}
