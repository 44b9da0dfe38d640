/* src/llm/block/matmul.c - products with matrices in block formats
 * Formula  y[i][r] = sum_k x[i][k] w[r][k] + bias[r], w[r][k] as the format's unpack gives it
 * Forms    VECTORS  few rows of x: quantized once to x' = d code, with a scale d = max |x| / 127 for each 32 numbers;
 *                   integer products directly with the codes of w, s d (sum of code code') + m d (sum of code') for
 *                   each group of 16 (formats with code books: up to 8 rows, each block decoded once for all of them)
 *          FLOATS   few rows of x with an infinite number, or a format without integer kernels: rows of w as floats
 *          INTEGERS 8 (signed codes on avx2: 13; w128: 16) or more rows of x, all targets with vectors: quantized as
 *                   for VECTORS and interleaved; rows of w are expanded to bytes, and both are multiplied as integers,
 *                   several times as fast as float32 (w128: 1.7 times)
 *                   With AMX, tiles of bytes multiply 9 to TINYLLM_AMX_BYTES rows, with the same bits as avx512.
 *          PANELS   many rows of x, packed once as columns; rows of w are unpacked into a panel of the second-level
 *                   cache, a block of 256 of k at a time, and multiplied with all columns. With AMX both are rounded to
 *                   bfloat16. Rows of x beyond whole columns use VECTORS.
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
#include "core/cpu_inside.h"
#include "llm/ops.h"
#include "llm/block/matmul.h"
#include "llm/block/block_inside.h"
#include "llm/block/eight.h"
#include "llm/block/format.h"
#include "math/gemm_inside.h"
#include "math/rows_inside.h"

/* rows of x from which floats in panels are faster than integers, where there are such panels; VECTORS takes no more at
 * once */
#define TINYI_BLK_MANY 32
#define TINYI_BLK_TILES 9                   /* rows of x from which tiles are */
#define TINYI_BLK_GROUP 8                   /* rows of x from which INTEGERS are, where there is `panel`, */
#define TINYI_BLK_SIGNS 13                  /* of codes with a sign, which take three instructions a product there */
#define TINYI_BLK_PAIRS 16                  /* and on w128, where `few` multiplies bytes and `panel` pairs of 16 bits */
#define TINYI_BLK_HIGH 256 /* most rows of w in a panel: columns come from the third level once for all of them */
#define TINYI_BLK_DEEP 256 /* most numbers of a row in a panel: 32 rows and as many columns fit the first level */
/* groups of rows of x that an expanded block of INTEGERS is multiplied with: their sums fit the first level, or (16
 * rows in a group) the second */
#define TINYI_BLK_GROUPS 16
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
    if (blk >= 0) kn->expand[blk](code, s, m, w, (size_t)n, 0);
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

typedef struct tinyi_blk_plan {              /* of one product */
    const tllm_format *f;
    int blk;                                /* TINYI_BLK_..., or -1 */
    int eight;                              /* TINYI_EIGHT_... of a repacked w, or -1 */
    const float *x, *bias;
    const unsigned char *w;
    float *y;
    tiny_idx n, k, n_out, x_row, x_k, w_row, y_row, y_n, bias_step;
    tiny_idx blocks, tokens;                /* of 256 in a row; rows of x that are packed at once */
    int apart;                              /* no row of y may depend on the others: params.alone */
    /* shared workspace: bytes of dense rows of x, of their codes, of their flags, of columns */
    size_t dense, codes, flags, columns;
    /* own: codes or halves of x, an expanded row, rows as floats, a panel, its sums */
    size_t own_x, own_codes, own_row, own_panel, own_sums;
} tinyi_blk_plan;

#define TINYI_BLK_TOGETHER 3
/* Products of one x: its rows are quantized once, and rows of all matrices are shared out as if they were one. What
 * p[0] says of x and of workspace holds for all. */
typedef struct tinyi_blk_set { int n; tinyi_blk_plan p[TINYI_BLK_TOGETHER]; } tinyi_blk_set;

static size_t tinyi_blk_up(size_t n) { return (n + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1); }
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

static void tinyi_blk_plan_of(tinyi_blk_plan *p, const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *w = op->in[1], *bias = op->in[2], *y = op->out[0];
    tiny_idx deep, high, few;
    p->f = tllm_format_of(tinyi_blk_format(op));
    p->blk = tinyi_blk_of(p->f->id);
    p->eight = tinyi_blk_repacked(op) ? tinyi_eight_of(p->f->id) : -1;
    p->apart = op->params && ((const tllm_matmul_params *)op->params)->alone;
    if (p->blk >= TINYI_BLK_BOOKS && x->dim[0] > TINYI_BLK_FEW && !p->apart) p->blk = -1;
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
    if (p->n < TINYI_BLK_GROUP) return;
    p->tokens = TINYI_GEMM_SHARED / (p->blocks * 256 + 1) / 32 * 32;       /* 16 MB of floats */
    p->tokens = TINYI_MAX(TINYI_MIN(TINYI_MIN(p->tokens, TINYI_BLK_TOKENS), tinyi_gemm_up(p->n, 32)), 32);
    deep = TINYI_MIN(p->blocks * 256, TINYI_BLK_DEEP);
    high = TINYI_MIN(tinyi_gemm_up(p->n_out, 32), TINYI_BLK_HIGH);
    p->columns = (size_t)(p->tokens * p->blocks) * 256 * sizeof(float);
    p->own_panel = tinyi_blk_up((size_t)(high * (deep + 32)) * sizeof(float));
    p->own_sums = tinyi_blk_up((size_t)(high * (p->tokens + 8 * TINYI_BLK_REST + 16)) * sizeof(float));
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
    tinyi_blk_plan_of(&p, op);
    tinyi_blk_room(&p, shared, own);
}

/* Rows of w are handed out by units of 2^unit rows; how many there are of all matrices. */
static tiny_idx tinyi_blk_units(const tinyi_blk_plan *p, int unit)
{
    return (p->n_out + ((tiny_idx)1 << unit) - 1) >> unit;
}
static tiny_idx tinyi_blk_units_all(const tinyi_blk_set *set, int unit)
{
    tiny_idx n = 0;
    int i;
    for (i = 0; i < set->n; i++) n += tinyi_blk_units(&set->p[i], unit);
    return n;
}
/* The matrix that unit *t belongs to, and its units *q0 .. *q1, as many as lie before `end`; *t goes on after them. */
static const tinyi_blk_plan *tinyi_blk_next(const tinyi_blk_set *set, int unit, tiny_idx *t, tiny_idx end, tiny_idx *q0,
                                            tiny_idx *q1)
{
    const tinyi_blk_plan *p = set->p;
    tiny_idx before = 0, n;
    for (; (n = tinyi_blk_units(p, unit)) <= *t - before; p++) before += n;
    *q0 = *t - before;
    *q1 = TINYI_MIN(end - before, n);
    *t = before + *q1;
    return p;
}

static const unsigned char *tinyi_blk_at(const tinyi_blk_plan *p, tiny_idx row, tiny_idx k)
{
    return p->w + row * p->w_row + (k ? k / p->f->values * p->f->bytes : 0);
}
/* Repacked rows as they lay: blocks of row r from number k on, n numbers, in scratch. That is the second half of what a
 * thread has for rows as floats, of which repacked matrices use the first one only. */
static unsigned char *tinyi_blk_scratch(const tinyi_blk_plan *p, unsigned char *own)
{
    return own + p->own_x / 2 / TINYI_ALIGN * TINYI_ALIGN;
}
static const unsigned char *tinyi_blk_lies(const tinyi_blk_plan *p, tiny_idx row, tiny_idx k, tiny_idx n,
                                           unsigned char *scratch)
{
    if (p->eight < 0 || row >= p->n_out / 8 * 8) return tinyi_blk_at(p, row, k);
    tinyi_eight_row(p->f->id, p->w, p->w_row, p->n_out, row, k / p->f->values, n / p->f->values, scratch);
    return scratch;
}
static void tinyi_blk_bias(const tinyi_blk_plan *p, tiny_idx i, tiny_idx r0, tiny_idx r1)
{
    float *y = p->y + i * p->y_row;
    tiny_idx r;
    if (!p->bias) return;
    for (r = r0; r < r1; r++) y[r * p->y_n] += p->bias[r * p->bias_step];
}

/* FLOATS: rows r0..r1 of w times rows i0..i1 of x, or those whose flag is 0 */
static void tinyi_blk_as_floats(tiny_team *team, const tinyi_blk_plan *p, float *tile, const unsigned char *flags,
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
            kn->expand[p->blk](v->code, v->s, v->m, w, (size_t)p->k, p->eight < 0 ? 2048 : 0);
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

/* One row of w, n numbers from k0 on, into a panel: floats, or halves where there are tiles. Beyond n: zeros to whole
 * 32. */
static void tinyi_blk_unpack(const tinyi_blk_plan *p, const tinyi_blk_kernels *kn, const tinyi_blk_tiles *tiles,
                             void *to, unsigned char *code, unsigned char *scratch, tiny_idx r, tiny_idx k0, tiny_idx n,
                             ptrdiff_t ahead)
{
    const unsigned char *w = tinyi_blk_lies(p, r, k0, n, scratch);
    const size_t blocks = (size_t)(n + 255) / 256;
    float *s = (float *)(void *)(code + 256 * blocks), *m = s + 16 * blocks,
          *t = tiles ? (float *)(void *)code : (float *)to;
    if (p->blk >= 0) {
        kn->expand[p->blk](code, s, m, w, (size_t)n, w == scratch ? 0 : ahead);
        if (tiles) tiles->halves((uint16_t *)to, code, s, m, kn->traits[p->blk], blocks);
        else kn->floats((float *)to, code, s, m, kn->traits[p->blk] & TINYI_BLK_HAS_SIGN, blocks);
        return;
    }
    p->f->unpack(w, t, (size_t)n);
    if (!tiles) return;
    for (; n % 32; n++) t[n] = 0.0f;
    tiles->round((uint16_t *)to, t, (size_t)n);
}

/* Sums of rows r0..r1 of w, step apart, go where they belong: rows i0.. of y */
static void tinyi_blk_give(const tinyi_kernels *k, const tinyi_blk_plan *p, float *sums, tiny_idx step, tiny_idx i0,
                           tiny_idx rows, tiny_idx r0, tiny_idx r1)
{
    tiny_idx r, i;
    if (p->bias)
        for (r = r0; r < r1; r++)
            for (i = 0; i < rows; i++) sums[(r - r0) * step + i] += p->bias[r * p->bias_step];
    if (p->y_n == 1)                        /* few rows of y at a time: each is a page of its own */
        for (i = 0; i < rows; i += 16)
            TINYI_OF(k, transpose_b4)
            ((unsigned char *)(p->y + (i0 + i) * p->y_row + r0), p->y_row * 4, (const unsigned char *)(sums + i),
             step * 4, (size_t)TINYI_MIN(rows - i, 16), (size_t)(r1 - r0));
    else
        for (i = 0; i < rows; i++)
            for (r = r0; r < r1; r++) p->y[(i0 + i) * p->y_row + r * p->y_n] = sums[(r - r0) * step + i];
}

/* PANELS: rows i0..i1 of x, at most p->tokens of them */
static void tinyi_blk_panels(tiny_team *team, const tinyi_blk_plan *p, const tinyi_blk_kernels *kn,
                             const tinyi_blk_tiles *tiles, unsigned char *shared, unsigned char *own, tiny_idx i0,
                             tiny_idx i1)
{
    const tinyi_kernels *k = team->k;
    const tiny_idx rows = i1 - i0, kp = tinyi_gemm_up(p->k, 32), deep = TINYI_BLK_DEEP;
    tinyi_gemm_shape shape;
    tiny_idx wide, high, step, mr, q0, q1, r0, r, i, j, at, n;
    float *columns = (float *)(void *)shared,
          *sums = (float *)(void *)(own + p->own_x + p->own_codes + p->own_row + p->own_panel);
    /* room for an expanded block */
    unsigned char *panel = own + p->own_x + p->own_codes + p->own_row, *code = own + p->own_x;
    TINYI_OF(k, gemm_f32_shape)(&shape);
    wide = tiles ? 16 : shape.nr;
    mr = tiles ? 32 : shape.mr;
    step = tinyi_gemm_up(rows, tiles ? 32 : wide) + 16;
    /* columns: [panel of nr][k][nr] floats, or [panel of 16][k / 2][16][2] halves */
    while (tiny_take(team, (rows - 1) / wide + 1, 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            const float *x = p->x + (i0 + q0 * wide) * p->x_row;
            n = TINYI_MIN(rows - q0 * wide, wide);
            if (tiles) {
                uint16_t *h = (uint16_t *)(void *)own;
                for (i = 0; i < 16; i++) {
                    if (i < n) tiles->round(h + i * (kp + 32), x + i * p->x_row, (size_t)p->k);
                    memset(h + i * (kp + 32) + (i < n ? p->k : 0), 0, (size_t)(i < n ? kp - p->k : kp) * sizeof *h);
                }
                TINYI_OF(k, transpose_b4)
                (shared + q0 * kp * 32, 64, (const unsigned char *)h, (kp + 32) * 2, (size_t)kp / 2, 16);
            } else
                TINYI_OF(k, gemm_f32_turn)
                (columns + q0 * p->k * wide, wide, x, TINY_F32, p->x_row, (size_t)n, (size_t)p->k);
        }
    tiny_barrier(team);
    high = tiles ? TINYI_BLK_HIGH : 192;
    while (high > mr && high > 24 && (p->n_out - 1) / high + 1 < 4 * team->n) high /= 2;
    team->ran_on = tiles ? TINY_TARGET_AMX : kn->from;
    if (tiles) tiles->begin();
    while (tiny_take(team, (p->n_out - 1) / high + 1, 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            const tiny_idx r1 = TINYI_MIN(q0 * high + high, p->n_out);
            const tiny_idx panel_row = tiles ? (deep + 32) * 2 : (deep + 16) * 4;
            ptrdiff_t next;
            r0 = q0 * high;
            for (at = 0; at < p->k; at += deep) {
                n = TINYI_MIN(p->k - at, deep);
                /* meanwhile the same row's next block travels, or the one that starts a row of the next panel */
                next = at + deep < p->k ? (ptrdiff_t)(n / p->f->values * p->f->bytes)
                                        : (ptrdiff_t)(high * p->w_row) - (ptrdiff_t)(at / p->f->values * p->f->bytes);
                for (r = r0; r < r1; r++)
                    tinyi_blk_unpack(p, kn, tiles, panel + (r - r0) * panel_row, code, tinyi_blk_scratch(p, own), r, at,
                                     n, next);
                if (tiles)
                    for (j = 0; j < rows; j += 32)
                        for (r = r0; r < r1; r += 32) {
                            /* missing rows of the panel give sums that are never read */
                            const unsigned char *b = shared + j / 16 * kp * 32 + at * 32;
                            tiles->tile(sums + (r - r0) * step + j, step, panel + (r - r0) * panel_row, panel_row, b,
                                        kp * 32, (size_t)tinyi_gemm_up(n, 32), at > 0, r + 16 < r1, j + 16 < rows,
                                        j + 32 < rows ? b + (2 + (r - r0) / 32 % 2) * kp * 32 + (r - r0) / 64 * 2048
                                                      : b);
                        }
                else
                    for (j = 0; j < rows; j += wide)
                        for (r = r0; r < r1; r += mr)
                            TINYI_OF(k, gemm_f32_rows)
                            (sums + (r - r0) * step + j, step,
                             (const float *)(const void *)(panel + (r - r0) * panel_row), panel_row / 4,
                             columns + j * p->k + at * wide, wide, (size_t)n, (int)TINYI_MIN(r1 - r, mr), (int)wide,
                             at > 0);
            }
            if (p->k == 0)
                for (r = r0; r < r1; r++) memset(sums + (r - r0) * step, 0, (size_t)rows * sizeof *sums);
            tinyi_blk_give(k, p, sums, step, i0, rows, r0, r1);
        }
    if (tiles) tiles->end();
}

/* INTEGERS: rows i0..i1 of x, at most p->tokens of them; rows of w are expanded to bytes, a panel of them times a panel
 * of x at a time. tiles: multiply them, or NULL */
static void tinyi_blk_integers(tiny_team *team, const tinyi_blk_set *set, const tinyi_blk_kernels *kn,
                               const tinyi_blk_tiles *tiles, unsigned char *shared, unsigned char *own, tiny_idx i0,
                               tiny_idx i1)
{
    const tinyi_blk_plan *p = set->p;
    const tiny_idx rows = i1 - i0, side = kn->side, x_panel = kn->part,
                   groups = kn->rest && rows > side && rows % side <= TINYI_BLK_REST ? rows / side
                                                                                     : (rows + side - 1) / side,
                   rest = TINYI_MAX(rows - side * groups, 0);
    const tiny_idx x_group = groups * x_panel, x_block = 8 * x_group;
    unsigned char *flags = shared + p->blocks * x_block, *panel = own + p->own_x + p->own_codes + p->own_row;
    unsigned char *last = flags + tinyi_blk_up((size_t)rows);
    float *sums = (float *)(void *)(panel + p->own_panel), *acc = sums + groups * TINYI_BLK_LOW * side;
    tiny_idx q0, q1, r0, r1, r, at, i, j, n, t0, t1, high, whole;
    int strange = 0, unit = 5;              /* TINYI_BLK_LOW rows, or fewer where there are few */
    tinyi_q8 x;
    x.blocks = (size_t)p->blocks;
    while (tiny_take(team, groups + (rest > 0), 1, &q0, &q1))
        for (; q0 < q1; q0++) {
            int8_t *code = (int8_t *)(q0 < groups ? own : last);
            float *d = (float *)(void *)(code + side * 256 * p->blocks), *sum = d + side * 16 * p->blocks;
            n = TINYI_MIN(rows - side * q0, side);
            for (i = 0; i < n; i++)
                flags[side * q0 + i] =
                    (unsigned char)kn->quantize(code + 256 * i * p->blocks, d + 16 * i * p->blocks,
                                                sum + 16 * i * p->blocks, p->x + (i0 + side * q0 + i) * p->x_row,
                                                (size_t)p->k, q0 == groups && !(kn->traits[p->blk] & TINYI_BLK_FINE));
            x.code = code;
            x.d = d;
            x.sum = sum;
            if (q0 < groups) kn->turn(shared + q0 * x_panel, &x, (size_t)n, x_block, x_group);
        }
    tiny_barrier(team);
    for (i = 0; i < rows; i++) strange |= !flags[i];
    x.code = (const int8_t *)last;
    x.d = (const float *)(const void *)(last + side * 256 * p->blocks);
    x.sum = x.d + side * 16 * p->blocks;
    while (unit > (tiles ? 4 : 3) && tinyi_blk_units_all(set, unit) < 4 * team->n) unit--;
    high = (tiny_idx)1 << unit;
    team->ran_on = tiles ? TINY_TARGET_AMX : kn->from;
    if (tiles) tiles->begin_bytes(kn->traits[p->blk] & TINYI_BLK_FINE);
    while (tiny_take(team, tinyi_blk_units_all(set, unit), 1, &t0, &t1))
        while (t0 < t1) {
            p = tinyi_blk_next(set, unit, &t0, t1, &q0, &q1);
            for (; q0 < q1; q0++) {
                r0 = q0 * high;
                r1 = TINYI_MIN(r0 + high, p->n_out);
                memset(sums, 0, (size_t)((groups * side + rest * 8) * TINYI_BLK_LOW) * sizeof *sums);
                for (at = 0; at < p->blocks; at++) {
                    for (r = r0; r < r1; r++) {
                        unsigned char *to = panel + (r - r0) * TINYI_BLK_PANEL;
                        if (p->eight >= 0 && kn->eight && r % 8 == 0 && r + 8 <= p->n_out) {
                            kn->eight->expand[p->eight](
                                to, p->w + r * p->w_row + 8 * (256 * at / p->f->values * p->f->bytes),
                                (size_t)TINYI_MIN(p->k - 256 * at, 256), (ptrdiff_t)(high * p->w_row));
                            r += 7;
                            continue;
                        }
                        n = TINYI_MIN(p->k - 256 * at, 256);
                        kn->expand[p->blk](to, (float *)(void *)(to + 256), (float *)(void *)(to + 320),
                                           tinyi_blk_lies(p, r, 256 * at, n, tinyi_blk_scratch(p, own)), (size_t)n,
                                           (ptrdiff_t)(high * p->w_row)); /* the next panel travels meanwhile */
                    }
                    /* rows go in eights, and in tiles by sixteen */
                    whole = tiles ? (r1 - r0 + 15) / 16 * 16 : (r1 - r0 + 7) / 8 * 8;
                    if (whole > r1 - r0)
                        memset(panel + (r1 - r0) * TINYI_BLK_PANEL, 0, (size_t)(whole - (r1 - r0)) * TINYI_BLK_PANEL);
                    for (j = 0; j < groups; j += TINYI_BLK_GROUPS)
                        (tiles ? tiles->panel : kn->panel)(
                            sums + j * TINYI_BLK_LOW * side, panel, kn->traits[p->blk], (size_t)whole,
                            shared + at * x_block + j * x_panel, x_group,
                            (size_t)TINYI_MIN(rows - rest - j * side, TINYI_BLK_GROUPS * side));
                    if (rest) kn->rest(acc, panel, kn->traits[p->blk], (size_t)(r1 - r0), &x, (size_t)at, (size_t)rest);
                }
                for (j = 0; j < groups; j++)
                    tinyi_blk_give(team->k, p, sums + j * TINYI_BLK_LOW * side, side, i0 + side * j,
                                   TINYI_MIN(rows - side * j, side), r0, r1);
                if (rest) {                 /* totals as columns of 8, like those of a group */
                    for (r = 0; r < r1 - r0; r++) kn->total(sums + 8 * r, acc + r * rest * 8, (size_t)rest);
                    tinyi_blk_give(team->k, p, sums, 8, i0 + side * groups, rest, r0, r1);
                }
                if (strange) tinyi_blk_as_floats(team, p, (float *)(void *)own, flags, i0, i1, r0, r1);
            }
        }
    if (tiles) tiles->end();
}

/* how many rows of x go as INTEGERS or PANELS */
static int tinyi_blk_is_integers(const tinyi_blk_plan *p, const tinyi_blk_kernels *kn)
{
    return p->blk >= 0 && p->blk < TINYI_BLK_BOOKS && p->k > 0 && kn->panel;
}
/* of bytes, for INTEGERS */
static const tinyi_blk_tiles *tinyi_blk_tiles_bytes(const tinyi_kernels *k, const tinyi_blk_plan *p,
                                                    const tinyi_blk_kernels *kn)
{
    return tinyi_blk_is_integers(p, kn) && p->n >= TINYI_BLK_TILES && p->n <= TINYLLM_AMX_BYTES
               ? tinyi_blk_tiles_of(k)
               : NULL;
}
/* of bfloat16, for PANELS: only with weights that were rounded more */
static const tinyi_blk_tiles *tinyi_blk_tiles_for(const tinyi_kernels *k, const tinyi_blk_plan *p,
                                                  const tinyi_blk_kernels *kn)
{
    return p->f->flags & TLLM_FORMAT_PLAIN || tinyi_blk_tiles_bytes(k, p, kn) ? NULL : tinyi_blk_tiles_of(k);
}
static tiny_idx tinyi_blk_in_panels(const tinyi_kernels *k, const tinyi_blk_plan *p, const tinyi_blk_kernels *kn)
{
    tinyi_gemm_shape shape;
    if (p->n < TINYI_BLK_GROUP || p->apart) return 0;
    if (p->n <= TINYI_BLK_FEW && p->eight >= 0 && kn->eight) return 0;
    if (tinyi_blk_tiles_for(k, p, kn)) return p->n >= TINYI_BLK_TILES ? p->n : 0;
    if (tinyi_blk_is_integers(p, kn)) {
        if (kn->from == TINY_TARGET_W128 && p->n < TINYI_BLK_PAIRS) return 0;
        if (!kn->rest) return kn->single && p->n % 8 == 1 ? p->n - 1 : p->n;
        if (kn->traits[p->blk] & TINYI_BLK_HAS_SIGN && p->n < TINYI_BLK_SIGNS) return 0;
        /* half of a group of 16 is empty, which costs as much as a whole one unless 512 bits go in halves */
        if (kn->side > 8 && k->cpu & TINY_CPU_AVX512HALVES)
            return p->n > TINYI_BLK_FEW && p->n < TINYI_BLK_FEW + TINYI_BLK_REST ? 0 : p->n;
        /* with VNNI, PAIRED codes are unpacked so fast that eight rows are cheaper as VECTORS */
        return p->n == TINYI_BLK_FEW && kn->traits[p->blk] & TINYI_BLK_PAIRED &&
                       (kn->side > 8 || k->cpu & TINY_CPU_AVXVNNI)
                   ? 0
                   : p->n;
    }
    if (p->blk < 0) return p->n > TINYI_BLK_FEW ? p->n : 0;
    if (!kn->floats) return 0;
    TINYI_OF(k, gemm_f32_shape)(&shape);
    return p->n >= TINYI_BLK_MANY ? p->n / shape.nr * shape.nr : 0;
}

static void tinyi_blk_run(tiny_team *team, const tinyi_blk_set *set)
{
    const tinyi_blk_plan *p = set->p;
    const tinyi_blk_kernels *kn = tinyi_blk_kernels_of(team->k);
    unsigned char *shared = (unsigned char *)team->shared + p->dense, *own = (unsigned char *)team->own;
    const tinyi_blk_tiles *tiles = tinyi_blk_tiles_for(team->k, p, kn);
    const tiny_idx in_panels = tinyi_blk_in_panels(team->k, p, kn);
    tiny_idx i, q0, q1, grain;
    int began = 0;
    for (i = 0; i < in_panels; i += p->tokens, began = 1) {
        if (began) tiny_barrier(team);      /* the columns are no longer read */
        if (tinyi_blk_is_integers(p, kn) && !tiles)
            tinyi_blk_integers(team, set, kn, tinyi_blk_tiles_bytes(team->k, p, kn), shared, own, i,
                               TINYI_MIN(i + p->tokens, in_panels));
        else tinyi_blk_panels(team, p, kn, tiles, shared, own, i, TINYI_MIN(i + p->tokens, in_panels));
    }
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
    tinyi_blk_plan_of(p, op);
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

/* Serves what x becomes all matrices? VECTORS lays it in several ways, INTEGERS rows beyond whole groups otherwise for
 * FINE formats. */
static int tinyi_blk_alike(const tinyi_kernels *k, const tinyi_blk_set *set)
{
    const tinyi_blk_kernels *kn = tinyi_blk_kernels_of(k);
    const tiny_idx in_panels = tinyi_blk_in_panels(k, set->p, kn);
    int i;
    if (set->n == 1) return 1;
    for (i = 0; i < set->n; i++) {
        const tinyi_blk_plan *p = &set->p[i];
        if (p->blk < 0 || tinyi_blk_in_panels(k, p, kn) != in_panels ||
            (in_panels && (!tinyi_blk_is_integers(p, kn) || tinyi_blk_tiles_for(k, p, kn))))
            return 0;
        if (in_panels ? (kn->traits[p->blk] ^ kn->traits[set->p[0].blk]) & TINYI_BLK_FINE
                      : tinyi_blk_way(kn, p, p->n) != tinyi_blk_way(kn, &set->p[0], p->n))
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
        tinyi_blk_plan_of(&set.p[i], ops[i]);
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
