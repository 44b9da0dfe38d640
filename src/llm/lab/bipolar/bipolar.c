/* src/llm/lab/bipolar/bipolar.c - Bipolar-INT: products of any number of bits by exclusive or and bit counts
 * Paper    S. Ma et al., "Efficient arbitrary precision acceleration for large language models on GPU tensor cores",
 *          2024 (arXiv 2409.17870); its successor (arXiv 2508.19087) chooses tiles by shape. Only the abstracts and the
 *          format are followed: the tiling is our own.
 * Formula  v = sum_i (2 b_i - 1) 2^i = 2 c - (2^n - 1)
 *          s = max|x| / (2^n - 1), c = clamp(rint((x / s + 2^n - 1) / 2), 0, 2^n - 1)
 *          sum_k v_k u_k = sum_{i<p} sum_{j<q} 2^(i+j) D_ij, D_ij = K - 2 popcount(A_i xor B_j)
 *                        = K (2^p - 1)(2^q - 1) - 2 sum_ij 2^(i+j) popcount(A_i xor B_j)
 *          signed q = (v - 1) / 2: sum q_w q_x = (sum v_w v_x - sum v_w - sum v_x + K) / 4
 *          K is the true length: padding is 0 on both sides and so does not differ
 * Layout   [panel of 16 rows][32 numbers][plane][row], four bytes each: a line of 64 bytes is one plane of 16 rows, and
 *          all planes of 32 numbers are adjacent. A panel is read sequentially, and a lane of a vector is a row, so no
 *          sum over lanes is needed. (Panels of 4 rows and blocks of 512 numbers, as the paper suggests, would need one
 *          accumulator per output instead of one for 2 to 16.)
 * Fast     threads pack rows of x, then take panels. P x Q planes with P, Q <= 4 form one block with P + Q - 1
 *          accumulators in registers; more bits need several blocks. The rows of x in a tile depend on p, q and the
 *          number of rows: TINYI_BIP_SHAPES, from measurements. Sums use 32 bits within a piece of K that fits, and 64
 *          bits over the pieces of longer rows.
 * Cost     for each 32 numbers and vector of 2 to 16 rows: p q pairs of 3 operations if the processor counts bits, 6 by
 *          look-up, 12 in plain C; p / 8 bytes per weight
 * Error    integers: none. f32: the sum of a group is exact, rounded once, scaled twice, by the smaller scale first,
 *          and added: LINEAR, groups + 3 units
 * Left out tables of sums of activations instead of counts (T-MAC): another algorithm. */
#include <string.h>
#include "llm/ops.h"
#include "llm/lab/bipolar/bipolar_inside.h"
#include "math/bits_inside.h"
#include "math/rows_inside.h"
#include "math/table_inside.h"
#include "core/cpu_inside.h"
#include "core/target.h"

#define TINYI_BIP_TILE 4                    /* rows of x whose sums are made at once */
#define TINYI_BIP_SLICE 16384               /* bytes of a panel: used by all blocks of planes before the next one */

TINYI_TABLE_CHOICE(tinyi_bip_kernels, tinyi_bip_kernels)

TINY_API const char *tllm_bipolar_pass(const tiny_ctx *ctx)
{
    return tinyi_ctx_check(ctx) || ctx->target == TINY_TARGET_REFERENCE ? "reference"
                                                                        : tinyi_bip_kernels_of(ctx->k)->pass;
}

/* ---- the format ------------------------------------------------------------------------------------------------- */

static tiny_idx tinyi_bip_units(tiny_idx k) { return (k + 63) / 64 * 2; }                      /* of 32 numbers */
static tiny_idx tinyi_bip_panels(tiny_idx n) { return (n + TLLM_BIPOLAR_ROWS - 1) / TLLM_BIPOLAR_ROWS; }
static int tinyi_bip_top(int bits) { return (1 << bits) - 1; }

TINY_API size_t tllm_bipolar_bytes(tiny_idx n, tiny_idx k, int bits)
{
    size_t lines, bytes;
    if (n < 0 || k < 1 || bits < 1 || bits > TLLM_BIPOLAR_BITS || n > TINY_IDX_MAX - 64 || k > TINY_IDX_MAX - 64)
        return SIZE_MAX;
    if (!tinyi_size_mul((size_t)tinyi_bip_panels(n), (size_t)tinyi_bip_units(k), &lines) ||
        !tinyi_size_mul(lines, 64 * (size_t)bits, &bytes) || bytes > (size_t)TINY_IDX_MAX)
        return SIZE_MAX;
    return bytes;
}

TINY_API tiny_idx tllm_bipolar_groups(tiny_idx k, tiny_idx group)
{
    return group > 0 && group < k ? (k - 1) / group + 1 : 1;
}

/* the four bytes of 32 numbers from number 32 u on */
TINYI_FORCE_INLINE unsigned char *tinyi_bip_at(const unsigned char *planes, tiny_idx units, int bits, tiny_idx row,
                                               tiny_idx u, int plane)
{
    const size_t line = ((size_t)(row / TLLM_BIPOLAR_ROWS) * (size_t)units + (size_t)u) * (size_t)bits + (size_t)plane;
    return (unsigned char *)(uintptr_t)(planes + line * 64 + (size_t)(row % TLLM_BIPOLAR_ROWS) * 4);
}

static int tinyi_bip_code(const unsigned char *planes, tiny_idx units, int bits, tiny_idx row, tiny_idx i)
{
    int b, c = 0;
    for (b = 0; b < bits; b++) c |= (tinyi_bip_at(planes, units, bits, row, i / 32, b)[i % 32 / 8] >> i % 8 & 1) << b;
    return c;
}

TINY_API int tllm_bipolar_code(const tllm_bipolar *w, tiny_idx row, tiny_idx i)
{
    return !w || !w->planes || row < 0 || row >= w->n || i < 0 || i >= w->k
               ? -1
               : tinyi_bip_code(w->planes, tinyi_bip_units(w->k), w->bits, row, i);
}

TINY_REF_BEGIN
static float tinyi_bip_scale_of(float largest, int bits) { return largest / (float)tinyi_bip_top(bits); }

/* nearest, of two the even one; s is above 0 */
static int tinyi_bip_code_of(float x, float s, int bits)
{
    const float top = (float)tinyi_bip_top(bits);
    float z = (x / s + top) * 0.5f, rest;
    int c;
    if (!(z > 0.0f)) return 0;
    if (z >= top) return tinyi_bip_top(bits);
    c = (int)z;
    rest = z - (float)c;
    return c + (rest > 0.5f || (rest == 0.5f && c % 2));
}

/* of the numbers of a group; NaN where one is NaN or infinite */
static float tinyi_bip_group_ref(const float *x, tiny_idx step, tiny_idx n, int bits)
{
    float most = 0.0f;
    tiny_idx i;
    for (i = 0; i < n; i++) {
        const float v = x[i * step] < 0.0f ? -x[i * step] : x[i * step];
        if (v - v != 0.0f || v != v) return tinyi_bits_f32(0x7fc00000u);
        if (v > most) most = v;
    }
    return tinyi_bip_scale_of(most, bits);
}

static void tinyi_bip_quantize_ref(const tiny_tensor *w, int bits, tiny_idx group, const tiny_tensor *code,
                                   const tiny_tensor *scale)
{
    tiny_idx r, g, i;
    for (r = 0; r < w->dim[0]; r++)
        for (g = 0; g < scale->dim[1]; g++) {
            const float *x = (const float *)w->data + r * w->stride[0];
            const tiny_idx end = TINYI_MIN(w->dim[1], (g + 1) * group);
            const float s = tinyi_bip_group_ref(x + g * group * w->stride[1], w->stride[1], end - g * group, bits);
            ((float *)scale->data)[r * scale->stride[0] + g * scale->stride[1]] = s;
            for (i = g * group; i < end; i++)
                ((uint8_t *)code->data)[r * code->stride[0] + i * code->stride[1]] =
                    (uint8_t)tinyi_bip_code_of(x[i * w->stride[1]], s > 0.0f ? s : 1.0f, bits);
        }
}
TINY_REF_END

/* the same of a row that is dense in itself, by a target's kernels; the codes of a group that is NaN are 0 */
static void tinyi_bip_quantize_row(const tinyi_bip_kernels *kn, uint8_t *code, float *scale, const float *x, tiny_idx n,
                                   int bits, tiny_idx group)
{
    tiny_idx g, i, m;
    for (g = 0, i = 0; i < n; g++, i += m) {
        m = TINYI_MIN(group, n - i);
        scale[g] = tinyi_bip_scale_of(kn->largest(x + i, (size_t)m), bits);
        if (scale[g] >= 0.0f)
            kn->codes(code + i, x + i, (size_t)m, scale[g] > 0.0f ? scale[g] : 1.0f, (float)tinyi_bip_top(bits));
        else memset(code + i, 0, (size_t)m);
    }
}

/* ---- quantizing and packing weights ----------------------------------------------------------------------------- */

typedef struct tinyi_bip_job {
    const tiny_tensor *w, *code, *scale;
    int bits;
    tiny_idx n, k, group, groups, units;
    tllm_bipolar *out;
} tinyi_bip_job;

static const float *tinyi_bip_dense(const tiny_tensor *x, tiny_idx r, float *room)
{
    const float *row = (const float *)x->data + r * x->stride[0];
    if (x->stride[1] == 1) return row;
    tinyi_row_gather(room, row, x->dim[1], x->stride[1]);
    return room;
}

static void tinyi_bip_quantize_team(tiny_team *team, void *arg)
{
    const tinyi_bip_job *b = (const tinyi_bip_job *)arg;
    const tinyi_bip_kernels *kn = tinyi_bip_kernels_of(team->k);
    float *scale = (float *)team->own, *room = scale + b->groups;
    uint8_t *code = (uint8_t *)(room + b->k);
    tiny_idx r, r1, i;
    team->ran_on = kn->from;
    while (tiny_take(team, b->n, 8, &r, &r1))
        for (; r < r1; r++) {
            tinyi_bip_quantize_row(kn, code, scale, tinyi_bip_dense(b->w, r, room), b->k, b->bits, b->group);
            for (i = 0; i < b->k; i++)
                ((uint8_t *)b->code->data)[r * b->code->stride[0] + i * b->code->stride[1]] = code[i];
            for (i = 0; i < b->groups; i++)
                ((float *)b->scale->data)[r * b->scale->stride[0] + i * b->scale->stride[1]] = scale[i];
        }
}

/* codes, or integers of that many bits; higher bits are ignored */
static void tinyi_bip_take(uint8_t *code, const tiny_tensor *x, tiny_idx r, int bits)
{
    const unsigned char *at = (const unsigned char *)x->data + r * x->stride[0];
    const unsigned top = (unsigned)tinyi_bip_top(bits), flip = x->dtype == TINY_I8 ? 1u << (bits - 1) : 0u;
    tiny_idx i;
    for (i = 0; i < x->dim[1]; i++) code[i] = (uint8_t)((at[i * x->stride[1]] & top) ^ flip);
}

static int64_t tinyi_bip_sum_of(const uint8_t *code, tiny_idx n, int bits)
{
    int64_t sum = 0;
    tiny_idx i;
    for (i = 0; i < n; i++) sum += code[i];
    return 2 * sum - (int64_t)n * tinyi_bip_top(bits);
}

static void tinyi_bip_pack_team(tiny_team *team, void *arg)
{
    const tinyi_bip_job *b = (const tinyi_bip_job *)arg;
    uint8_t *code = (uint8_t *)team->own;
    tiny_idx p, p1, r, g, u;
    memset(code, 0, (size_t)b->units * 32);
    while (tiny_take(team, tinyi_bip_panels(b->n), 1, &p, &p1))
        for (r = p * TLLM_BIPOLAR_ROWS; r < p1 * TLLM_BIPOLAR_ROWS; r++) {
            if (r < b->n) tinyi_bip_take(code, b->w, r, b->bits);
            else memset(code, 0, (size_t)b->k);
            for (g = 0; b->out->sum && r < b->n && g < b->groups; g++)
                b->out->sum[r * b->groups + g] =
                    (int32_t)tinyi_bip_sum_of(code + g * b->group, TINYI_MIN(b->group, b->k - g * b->group), b->bits);
            for (u = 0; u < b->units; u++)
                tinyi_bip_lay(tinyi_bip_at(b->out->planes, b->units, b->bits, r, u, 0), 64, code + 32 * u, b->bits, 0);
        }
}

static tiny_status tinyi_bip_check(tiny_ctx *ctx, const tiny_tensor *w, int bits, tiny_idx group, tinyi_bip_job *b)
{
    memset(b, 0, sizeof *b);
    if (w && w->rank == 2 && tiny_tensor_check(w) == TINY_E_OVERFLOW)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "bipolar: weights of %td rows of %td numbers are more than this machine can address",
                          w->dim[0], w->dim[1]);
    if (!w || w->rank != 2 || tiny_tensor_check(w))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: weights with two axes and data are needed");
    if (bits < 1 || bits > TLLM_BIPOLAR_BITS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: weights of %d bits; there are 1 to %d", bits,
                          TLLM_BIPOLAR_BITS);
    if (group < 0 || group % 64)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bipolar: groups of %td numbers; a multiple of 64 is needed, or 0 for whole rows", group);
    if (w->dim[1] < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "bipolar: rows of %td numbers: there is nothing to sum", w->dim[1]);
    if (tllm_bipolar_bytes(w->dim[0], w->dim[1], bits) == SIZE_MAX || w->dim[1] > TINY_IDX_MAX / 64)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "bipolar: %td rows of %td numbers are more than this machine can address", w->dim[0],
                          w->dim[1]);
    b->w = w;
    b->bits = bits;
    b->n = w->dim[0];
    b->k = w->dim[1];
    b->groups = tllm_bipolar_groups(b->k, group);
    b->group = b->groups > 1 ? group : b->k;
    b->units = tinyi_bip_units(b->k);
    return TINY_OK;
}

static int tinyi_bip_is(const tiny_tensor *t, tiny_dtype dtype, tiny_idx rows, tiny_idx columns)
{
    return t && !tiny_tensor_check(t) && t->dtype == dtype && t->rank == 2 && t->dim[0] == rows && t->dim[1] == columns;
}

TINY_API tiny_status tllm_bipolar_quantize(tiny_ctx *ctx, const tiny_tensor *w, int bits, tiny_idx group,
                                           const tiny_tensor *code, const tiny_tensor *scale)
{
    tinyi_bip_job b;
    tiny_idx r, i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (!st) st = tinyi_bip_check(ctx, w, bits, group, &b);
    if (st) return st;
    if (w->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_DTYPE, "bipolar: weights to be quantized must be f32, not %s",
                          tiny_dtype_name(w->dtype));
    if (!tinyi_bip_is(code, TINY_U8, b.n, b.k) || !tinyi_bip_is(scale, TINY_F32, b.n, b.groups))
        return tinyi_fail(ctx, TINY_E_SHAPE, "bipolar: codes must be %td x %td u8 and scales %td x %td f32", b.n, b.k,
                          b.n, b.groups);
    for (r = 0; r < b.n; r++)               /* before anything is written */
        for (i = 0; i < b.k; i++) {
            const uint32_t v =
                tinyi_f32_bits(((const float *)w->data)[r * w->stride[0] + i * w->stride[1]]) & 0x7fffffffu;
            if (v >= 0x7f800000u)
                return tinyi_fail(ctx, TINY_E_NUMERIC, "bipolar: number %td of row %td is %s", i, r,
                                  v > 0x7f800000u ? "NaN" : "infinite");
        }
    b.code = code;
    b.scale = scale;
    if (ctx->target != TINY_TARGET_REFERENCE)
        return tiny_parallel_loose(ctx, 0, 0, (size_t)(b.groups + b.k) * sizeof(float) + (size_t)b.k,
                                   tinyi_bip_quantize_team, &b);
    tinyi_bip_quantize_ref(w, bits, b.group, code, scale);
    ctx->ran_on = TINY_TARGET_REFERENCE;
    return TINY_OK;
}

/* u8 or i8 without a number that has more bits */
static tiny_status tinyi_bip_fit(tiny_ctx *ctx, const tiny_tensor *w, int bits)
{
    const int top = tinyi_bip_top(bits), half = w->dtype == TINY_I8 ? 1 << (bits - 1) : 0;
    tiny_idx r, i;
    for (r = 0; r < w->dim[0]; r++)
        for (i = 0; i < w->dim[1]; i++) {
            const int at = ((const unsigned char *)w->data)[r * w->stride[0] + i * w->stride[1]],
                      q = half ? (at ^ 128) - 128 : at;
            if (q + half < 0 || q + half > top)
                return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: number %td of row %td is %d; %d bits hold %d to %d",
                                  i, r, q, bits, -half, top - half);
        }
    return TINY_OK;
}

TINY_API void tllm_bipolar_free(tiny_ctx *ctx, tllm_bipolar *w)
{
    if (!w) return;
    tiny_free(ctx, w->planes);
    tiny_free(ctx, w->scale);
    tiny_free(ctx, w->sum);
    memset(w, 0, sizeof *w);
}

TINY_API tiny_status tllm_bipolar_make(tiny_ctx *ctx, const tiny_tensor *w, const tiny_tensor *scale, int bits,
                                       tiny_idx group, tllm_bipolar *out)
{
    tinyi_bip_job b;
    tiny_tensor code, own;
    void *room = NULL;
    size_t n_scale, n_code;
    tiny_idx r, g;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: the result pointer is NULL");
    st = tinyi_bip_check(ctx, w, bits, group, &b);
    if (st) return st;
    if (w->dtype != TINY_F32 && w->dtype != TINY_U8 && w->dtype != TINY_I8)
        return tinyi_fail(ctx, TINY_E_DTYPE, "bipolar: weights must be f32, u8 codes or i8 integers, not %s",
                          tiny_dtype_name(w->dtype));
    if (scale && (w->dtype == TINY_F32 || !tinyi_bip_is(scale, TINY_F32, b.n, b.groups)))
        return tinyi_fail(ctx, TINY_E_SHAPE, "bipolar: scales belong to codes and integers, and must be %td x %td f32",
                          b.n, b.groups);
    if (!tinyi_size_mul((size_t)b.n, (size_t)b.groups, &n_scale) || !tinyi_size_mul((size_t)b.n, (size_t)b.k, &n_code))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "bipolar: %td rows of %td numbers are more than this machine can address", b.n, b.k);
    if (w->dtype == TINY_I8 && b.group > INT32_MAX / tinyi_bip_top(bits))
        return tinyi_fail(
            ctx, TINY_E_OVERFLOW,
            "bipolar: %td signed integers of %d bits have a sum beyond 32 bits: smaller groups are needed", b.group,
            bits);
    if (w->dtype != TINY_F32) st = tinyi_bip_fit(ctx, w, bits);
    if (st) return st;
    out->n = b.n;
    out->k = b.k;
    out->group = b.groups > 1 ? group : 0;
    out->bits = bits;
    out->is_signed = w->dtype == TINY_I8;
    out->n_bytes = tllm_bipolar_bytes(b.n, b.k, bits);
    out->planes = (unsigned char *)tinyi_alloc(ctx, out->n_bytes, 1);
    if (out->planes && (scale || w->dtype == TINY_F32)) out->scale = (float *)tinyi_alloc(ctx, n_scale, sizeof(float));
    if (out->planes && out->is_signed) out->sum = (int32_t *)tinyi_alloc(ctx, n_scale, sizeof(int32_t));
    if (out->planes && w->dtype == TINY_F32) room = tinyi_alloc(ctx, n_code, 1);
    if (!out->planes || ((scale || w->dtype == TINY_F32) && !out->scale) || (out->is_signed && !out->sum) ||
        (w->dtype == TINY_F32 && !room))
        st = tiny_ctx_status(ctx);
    for (r = 0; !st && scale && r < b.n; r++)
        for (g = 0; g < b.groups; g++)
            out->scale[r * b.groups + g] = ((const float *)scale->data)[r * scale->stride[0] + g * scale->stride[1]];
    if (!st && room) {
        code = tiny_tensor_2d(room, TINY_U8, b.n, b.k);
        own = tiny_tensor_2d(out->scale, TINY_F32, b.n, b.groups);
        st = tllm_bipolar_quantize(ctx, w, bits, group, &code, &own);
        b.w = &code;
    }
    b.out = out;
    if (!st && b.n) st = tiny_parallel_loose(ctx, 0, 0, (size_t)b.units * 32, tinyi_bip_pack_team, &b);
    tiny_free(ctx, room);
    if (st) tllm_bipolar_free(ctx, out);
    return st;
}

/* ---- the operation ---------------------------------------------------------------------------------------------- */

typedef struct tinyi_bip {
    const tiny_tensor *x, *scale_w, *scale_x, *sum_w, *y;
    const unsigned char *w;
    tiny_idx m, n, k, group, groups, units;
    int p, q, halves;                       /* halves: sides that are signed */
} tinyi_bip;

static void tinyi_bip_read(const tiny_op *op, tinyi_bip *b)
{
    const tllm_bipolar_params *params = (const tllm_bipolar_params *)op->params;
    b->x = op->in[0];
    b->w = (const unsigned char *)op->in[1]->data;
    b->scale_w = op->in[2];
    b->scale_x = op->in[3];
    b->sum_w = op->in[4];
    b->y = op->out[0];
    b->m = b->x->dim[0];
    b->k = b->x->dim[1];
    b->n = params->n;
    b->groups = tllm_bipolar_groups(b->k, params->group);
    b->group = b->groups > 1 ? params->group : b->k;
    b->units = tinyi_bip_units(b->k);
    b->p = params->wbits;
    b->q = params->abits;
    b->halves = (params->signed_w != 0) + (b->x->dtype == TINY_I8);
}

static tiny_status tinyi_bip_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    static const tllm_bipolar_params none = { 0, 0, 0, 0, 0, 0 };
    const tllm_bipolar_params *p = op->params ? (const tllm_bipolar_params *)op->params : &none;
    const tiny_tensor *x = op->in[0], *w = op->in[1], *side[3];
    static const char *const name[3] = { "scale_w", "scale_x", "sum_w" };
    tiny_idx dim[2], groups;
    char text[96];
    int i;
    if (x->rank != 2 || (x->dtype != TINY_F32 && x->dtype != TINY_U8 && x->dtype != TINY_I8))
        return tinyi_fail(ctx, TINY_E_SHAPE, "bipolar: x is %s, it must have 2 axes of f32, u8 or i8",
                          tinyi_shape_text(x, text));
    if (p->wbits < 1 || p->wbits > TLLM_BIPOLAR_BITS || p->abits < 1 || p->abits > TLLM_BIPOLAR_BITS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: weights of %d bits and activations of %d; there are 1 to %d",
                          p->wbits, p->abits, TLLM_BIPOLAR_BITS);
    if (p->group < 0 || p->group % 64)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "bipolar: groups of %td numbers; a multiple of 64 is needed, or 0 for whole rows", p->group);
    if (x->dim[1] < 1)
        return tinyi_fail(ctx, TINY_E_SHAPE, "bipolar: rows of %td numbers: there is nothing to sum", x->dim[1]);
    if (p->n < 0 || x->dim[1] > TINY_IDX_MAX / 1024 || x->dim[0] > TINY_IDX_MAX / 64 / tinyi_bip_units(x->dim[1]))
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "bipolar: %td and %td rows of %td numbers are more than this machine can address", x->dim[0],
                          p->n, x->dim[1]);
    groups = tllm_bipolar_groups(x->dim[1], p->group);
    if (w->rank != 1 || w->dtype != TINY_U8 || !tiny_tensor_is_dense(w) ||
        (size_t)w->dim[0] != tllm_bipolar_bytes(p->n, x->dim[1], p->wbits))
        return tinyi_fail(
            ctx, TINY_E_SHAPE, "bipolar: the planes are %s; of %td rows of %td numbers of %d bits there are %zu bytes",
            tinyi_shape_text(w, text), p->n, x->dim[1], p->wbits, tllm_bipolar_bytes(p->n, x->dim[1], p->wbits));
    for (i = 0; i < 3; i++) {
        side[i] = op->in[2 + i];
        dim[0] = i == 1 ? x->dim[0] : p->n;
        if (side[i] && (side[i]->rank != 2 || side[i]->dtype != (i == 2 ? TINY_I32 : TINY_F32) ||
                        side[i]->dim[0] != dim[0] || side[i]->dim[1] != groups))
            return tinyi_fail(ctx, TINY_E_SHAPE, "bipolar: %s is %s, it must be %td x %td %s", name[i],
                              tinyi_shape_text(side[i], text), dim[0], groups, i == 2 ? "i32" : "f32");
    }
    if (side[1] && x->dtype == TINY_F32)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: scale_x must be NULL if x is f32: its scales are computed");
    if (x->dtype == TINY_I8 && (!p->signed_w || !side[2]))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: signed activations need signed weights and their sums");
    if (p->signed_w && TINYI_MIN(p->group ? p->group : x->dim[1], x->dim[1]) > INT32_MAX / 255)
        return tinyi_fail(ctx, TINY_E_OVERFLOW,
                          "bipolar: a group of %td signed integers: its sum may be beyond 32 bits",
                          p->group ? p->group : x->dim[1]);
    if (!side[0] && !side[1] && x->dtype != TINY_F32 && x->dim[1] > INT32_MAX >> (p->wbits + p->abits))
        return tinyi_fail(
            ctx, TINY_E_OVERFLOW,
            "bipolar: sums of %td products of %d and %d bits may be beyond 32 bits: without scales y is i32", x->dim[1],
            p->wbits, p->abits);
    dim[0] = x->dim[0];
    dim[1] = p->n;
    tinyi_want(want, side[0] || side[1] || x->dtype == TINY_F32 ? TINY_F32 : TINY_I32, 2, dim);
    return TINY_OK;
}

TINY_REF_BEGIN
/* the value of code c */
static int64_t tinyi_bip_value(int c, int bits, int is_signed)
{
    int64_t v = 0;
    int b;
    for (b = 0; b < bits; b++) v += (2 * (int64_t)(c >> b & 1) - 1) * ((int64_t)1 << b);
    return is_signed ? (v - 1) / 2 : v;     /* v is odd, v - 1 is even: exact */
}

#define TINYI_BIP_REF 64                    /* rows of w that share the codes of 64 numbers of x */
static void tinyi_bip_ref(const tiny_op *op)
{
    const tllm_bipolar_params *params = (const tllm_bipolar_params *)op->params;
    tinyi_bip b;
    tiny_idx t, j0, j, n, g, i0, i, end;
    tinyi_bip_read(op, &b);
    for (t = 0; t < b.m; t++)
        for (j0 = 0; j0 < b.n; j0 += TINYI_BIP_REF) {
            double y[TINYI_BIP_REF];
            int64_t all[TINYI_BIP_REF];
            n = TINYI_MIN(b.n - j0, TINYI_BIP_REF);
            for (j = 0; j < n; j++) {
                y[j] = 0.0;
                all[j] = 0;
            }
            for (g = 0; g < b.groups; g++) {
                int64_t sum[TINYI_BIP_REF];
                float s = 1.0f;
                end = TINYI_MIN(b.k, (g + 1) * b.group);
                if (b.x->dtype == TINY_F32)
                    s = tinyi_bip_group_ref((const float *)b.x->data + t * b.x->stride[0] +
                                                g * b.group * b.x->stride[1],
                                            b.x->stride[1], end - g * b.group, b.q);
                for (j = 0; j < n; j++) sum[j] = 0;
                for (i0 = g * b.group; i0 < end; i0 += 64) {
                    int64_t u[64];
                    for (i = i0; i < TINYI_MIN(end, i0 + 64); i++) {
                        const tiny_idx at = t * b.x->stride[0] + i * b.x->stride[1];
                        int c;
                        if (b.x->dtype == TINY_F32)
                            c = s >= 0.0f ? tinyi_bip_code_of(((const float *)b.x->data)[at], s > 0.0f ? s : 1.0f, b.q)
                                          : 0;
                        else
                            c = (((const unsigned char *)b.x->data)[at] & tinyi_bip_top(b.q)) ^
                                (b.x->dtype == TINY_I8 ? 1 << (b.q - 1) : 0);
                        u[i - i0] = tinyi_bip_value(c, b.q, b.x->dtype == TINY_I8);
                    }
                    for (j = 0; j < n; j++)
                        for (i = i0; i < TINYI_MIN(end, i0 + 64); i++) {
                            const int64_t v =
                                tinyi_bip_value(tinyi_bip_code(b.w, b.units, b.p, j0 + j, i), b.p, params->signed_w) *
                                u[i - i0];
                            sum[j] += params->magnitude && v < 0 ? -v : v;
                        }
                }
                for (j = 0; j < n; j++) {
                    double f = (double)sum[j];
                    if (b.scale_w)
                        f *= (double)((const float *)
                                          b.scale_w->data)[(j0 + j) * b.scale_w->stride[0] + g * b.scale_w->stride[1]];
                    if (b.scale_x)
                        f *= (double)((const float *)
                                          b.scale_x->data)[t * b.scale_x->stride[0] + g * b.scale_x->stride[1]];
                    if (b.x->dtype == TINY_F32) f *= (double)s;
                    y[j] += params->magnitude && f < 0.0 ? -f : f;
                    all[j] += sum[j];
                }
            }
            for (j = 0; j < n; j++) {
                const tiny_idx at = t * b.y->stride[0] + (j0 + j) * b.y->stride[1];
                if (b.y->dtype == TINY_I32) ((int32_t *)b.y->data)[at] = (int32_t)all[j];
                else ((float *)b.y->data)[at] = tinyi_round_f32(y[j]);
            }
        }
}
TINY_REF_END

/* ---- fast ------------------------------------------------------------------------------------------------------- */

/* offsets in the memory of the team, and of a thread */
typedef struct tinyi_bip_room {
    size_t x_unit, x_row, scale, sum, all, own_scale, own_less, own_room, own;
} tinyi_bip_room;

static size_t tinyi_bip_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

static tinyi_bip_room tinyi_bip_plan(const tinyi_bip *b, int parts)
{
    tinyi_bip_room r;
    r.x_unit = 4 * (size_t)parts * (size_t)b->q;
    r.x_row = r.x_unit * (size_t)b->units;
    r.scale = tinyi_bip_line(r.x_row * (size_t)b->m);
    r.sum = r.scale + tinyi_bip_line((size_t)(b->m * b->groups) * sizeof(float));
    r.all = r.sum + tinyi_bip_line((size_t)(b->m * b->groups) * sizeof(int32_t));
    r.own_scale = tinyi_bip_line((size_t)b->units * 32);
    r.own_less = r.own_scale + tinyi_bip_line((size_t)b->groups * 16 * sizeof(float));
    r.own_room = r.own_less + tinyi_bip_line((size_t)b->groups * 16 * sizeof(int32_t));
    r.own = r.own_room + tinyi_bip_line((size_t)b->k * sizeof(float));
    return r;
}

static void tinyi_bip_work(const tiny_op *op, int n_threads, size_t *shared, size_t *own)
{
    tinyi_bip b;
    tinyi_bip_room r;
    (void)n_threads;
    tinyi_bip_read(op, &b);
    r = tinyi_bip_plan(&b, 2);
    *shared = r.all;
    *own = r.own;
}

/* rows of x become planes, scales and sums */
static void tinyi_bip_x_rows(tiny_team *team, const tinyi_bip *b, const tinyi_bip_kernels *kn,
                             const tinyi_bip_room *room)
{
    unsigned char *shared = (unsigned char *)team->shared, *own = (unsigned char *)team->own;
    uint8_t *code = (uint8_t *)own;
    tiny_idx t, t1, g;
    while (tiny_take(team, b->m, 1, &t, &t1)) {
        memset(code, 0, (size_t)b->units * 32);
        for (; t < t1; t++) {
            float *scale = (float *)(void *)(shared + room->scale) + t * b->groups;
            int32_t *sum = (int32_t *)(void *)(shared + room->sum) + t * b->groups;
            if (b->x->dtype == TINY_F32)
                tinyi_bip_quantize_row(kn, code, scale,
                                       tinyi_bip_dense(b->x, t, (float *)(void *)(own + room->own_room)), b->k, b->q,
                                       b->group);
            else {
                tinyi_bip_take(code, b->x, t, b->q);
                for (g = 0; g < b->groups; g++)
                    scale[g] =
                        b->scale_x
                            ? ((const float *)b->scale_x->data)[t * b->scale_x->stride[0] + g * b->scale_x->stride[1]]
                            : 1.0f;
            }
            for (g = 0; b->halves && g < b->groups; g++)
                sum[g] = (int32_t)tinyi_bip_sum_of(code + g * b->group, TINYI_MIN(b->group, b->k - g * b->group), b->q);
            kn->lay(shared + room->x_row * (size_t)t, code, (size_t)b->units, b->q, kn->parts);
        }
    }
}

/* how `bits` planes are cut into blocks of at most four; returns how many */
static int tinyi_bip_cut(int bits, int size[2])
{
    size[0] = bits > 4 ? (bits + 1) / 2 : bits;
    size[1] = bits - size[0];
    return bits > 4 ? 2 : 1;
}

/* sum[r][16] of units u0 .. u1 of a panel for `rows` rows of x */
static void tinyi_bip_sums(const tinyi_bip *b, const tinyi_bip_kernels *kn, const tinyi_bip_room *room, int32_t *sum,
                           const unsigned char *panel, const unsigned char *x, int rows, tiny_idx u0, tiny_idx u1)
{
    const size_t w_unit = 64 * (size_t)b->p;
    const tiny_idx slice = TINYI_MAX(TINYI_BIP_SLICE / (tiny_idx)w_unit, 1);
    int ps[2], qs[2], np = tinyi_bip_cut(b->p, ps), nq = tinyi_bip_cut(b->q, qs), i, j, r;
    memset(sum, 0, (size_t)rows * 16 * sizeof *sum);
    for (; u0 < u1; u0 += slice) {
        const size_t units = (size_t)TINYI_MIN(slice, u1 - u0);
        for (i = 0; i < np; i++)
            for (j = 0; j < nq; j++) {
                const int which = 4 * (ps[i] - 1) + qs[j] - 1, few = kn->rows[which], i0 = i * ps[0], j0 = j * qs[0];
                const unsigned char *wp = panel + (size_t)u0 * w_unit + 64 * (size_t)i0,
                                    *xp = x + (size_t)u0 * room->x_unit + 4 * (size_t)(kn->parts * j0);
                for (r = 0; r + few <= rows; r += few)
                    kn->few[which](sum + 16 * r, wp, w_unit, xp + (size_t)r * room->x_row, room->x_unit, room->x_row,
                                   units, i0 + j0);
                for (; r < rows; r++)
                    kn->one[which](sum + 16 * r, wp, w_unit, xp + (size_t)r * room->x_row, room->x_unit, room->x_row,
                                   units, i0 + j0);
            }
    }
}

/* the same of a group that is too long for 32 bits; c, less, halves as in values */
static void tinyi_bip_long(const tinyi_bip *b, const tinyi_bip_kernels *kn, const tinyi_bip_room *room, float *f,
                           const unsigned char *panel, const unsigned char *x, tiny_idx u0, tiny_idx u1, int64_t c,
                           const int32_t *less, const float *scale, float factor)
{
    const tiny_idx most = (INT32_MAX >> (b->p + b->q)) / 32;
    int64_t all[16];
    int32_t sum[16];
    int i;
    memset(all, 0, sizeof all);
    for (; u0 < u1; u0 += most) {
        tinyi_bip_sums(b, kn, room, sum, panel, x, 1, u0, TINYI_MIN(u1, u0 + most));
        for (i = 0; i < 16; i++) all[i] += sum[i];
    }
    for (i = 0; i < 16; i++) {
        const int64_t v = (c - 2 * all[i] - (less ? less[i] : 0)) / (1 << b->halves);      /* a multiple of it */
        const float s = scale ? scale[i] : 1.0f;
        const int first = (s < 0.0f ? -s : s) < (factor < 0.0f ? -factor : factor);        /* the order of `floats` */
        f[i] += (float)v * (first ? s : factor) * (first ? factor : s);
    }
}

/* a panel and up to TINYI_BIP_TILE rows of x */
static void tinyi_bip_tile(const tinyi_bip *b, const tinyi_bip_kernels *kn, const tinyi_bip_room *room,
                           const unsigned char *panel, const float *scale_w, const int32_t *less,
                           const unsigned char *shared, tiny_idx t, int rows, tiny_idx j)
{
    const unsigned char *x = shared + room->x_row * (size_t)t;
    const float *scale_x = (const float *)(const void *)(shared + room->scale) + t * b->groups;
    const int32_t *sum_x = (const int32_t *)(const void *)(shared + room->sum) + t * b->groups;
    const int n = (int)TINYI_MIN(b->n - j, TLLM_BIPOLAR_ROWS);
    float f[16 * TINYI_BIP_TILE];
    int32_t sum[16 * TINYI_BIP_TILE], v[16], ints[16 * TINYI_BIP_TILE];
    tiny_idx g;
    int r, i;
    memset(f, 0, sizeof f);
    memset(ints, 0, sizeof ints);
    for (g = 0; g < b->groups; g++) {
        const tiny_idx from = g * b->group, count = TINYI_MIN(b->group, b->k - from), u0 = from / 32,
                       u1 = b->groups > 1 && from + count < b->k ? u0 + b->group / 32 : b->units;
        const int64_t all = (int64_t)count * tinyi_bip_top(b->p) * tinyi_bip_top(b->q) + (b->halves == 2 ? count : 0);
        const float *scale = scale_w ? scale_w + 16 * g : NULL;
        const int32_t *minus = less ? less + 16 * g : NULL;
        if (count > INT32_MAX >> (b->p + b->q)) {
            for (r = 0; r < rows; r++)
                tinyi_bip_long(b, kn, room, f + 16 * r, panel, x + (size_t)r * room->x_row, u0, u1,
                               all - (b->halves ? sum_x[r * b->groups + g] : 0), minus, scale,
                               scale_x[r * b->groups + g]);
            continue;
        }
        tinyi_bip_sums(b, kn, room, sum, panel, x, rows, u0, u1);
        for (r = 0; r < rows; r++) {
            const int32_t c = (int32_t)(uint32_t)(uint64_t)(all - (b->halves ? sum_x[r * b->groups + g] : 0));
            kn->values(v, sum + 16 * r, c, minus, b->halves);
            if (b->y->dtype == TINY_F32) kn->floats(f + 16 * r, v, scale, scale_x[r * b->groups + g], g > 0);
            else
                for (i = 0; i < 16; i++) ints[16 * r + i] += v[i];
        }
    }
    for (r = 0; r < rows; r++) {
        const tiny_idx at = (t + r) * b->y->stride[0] + j * b->y->stride[1];
        const void *from = b->y->dtype == TINY_F32 ? (const void *)(f + 16 * r) : (const void *)(ints + 16 * r);
        if (b->y->stride[1] == 1) memcpy((float *)b->y->data + at, from, (size_t)n * 4);
        else
            for (i = 0; i < n; i++) memcpy((float *)b->y->data + at + i * b->y->stride[1], (const float *)from + i, 4);
    }
}

#define TINYI_BIP_DOWN 64                   /* rows of x that a piece of work has at most */
static void tinyi_bip_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_bip_kernels *kn = tinyi_bip_kernels_of(team->k);
    unsigned char *own = (unsigned char *)team->own;
    tinyi_bip b;
    tinyi_bip_room room;
    float *scale;
    int32_t *less;
    tiny_idx panels, at, end, grain, t, g, r;
    team->ran_on = kn->from;
    tinyi_bip_read(op, &b);
    if (b.m == 0 || b.n == 0) return;
    room = tinyi_bip_plan(&b, kn->parts);
    tinyi_bip_x_rows(team, &b, kn, &room);
    tiny_barrier(team);
    scale = b.scale_w ? (float *)(void *)(own + room.own_scale) : NULL;
    less = b.halves == 2 ? (int32_t *)(void *)(own + room.own_less) : NULL;
    panels = tinyi_bip_panels(b.n);
    grain = TINYI_MAX(1, TINYI_MIN(panels / (8 * team->n), 65536 / (64 * (tiny_idx)b.p * b.units)));
    while (tiny_take(team, panels * ((b.m + TINYI_BIP_DOWN - 1) / TINYI_BIP_DOWN), grain, &at, &end))
        for (; at < end; at++) {
            const tiny_idx panel = at % panels, j = panel * TLLM_BIPOLAR_ROWS, t0 = at / panels * TINYI_BIP_DOWN,
                           t1 = TINYI_MIN(t0 + TINYI_BIP_DOWN, b.m);
            for (g = 0; scale && g < b.groups; g++)
                for (r = 0; r < TLLM_BIPOLAR_ROWS; r++)
                    scale[16 * g + r] =
                        j + r < b.n ? ((const float *)
                                           b.scale_w->data)[(j + r) * b.scale_w->stride[0] + g * b.scale_w->stride[1]]
                                    : 0.0f;
            for (g = 0; less && g < b.groups; g++)
                for (r = 0; r < TLLM_BIPOLAR_ROWS; r++)
                    less[16 * g + r] =
                        j + r < b.n
                            ? ((const int32_t *)b.sum_w->data)[(j + r) * b.sum_w->stride[0] + g * b.sum_w->stride[1]]
                            : 0;
            for (t = t0; t < t1; t += TINYI_BIP_TILE)
                tinyi_bip_tile(&b, kn, &room, tinyi_bip_at(b.w, b.units, b.p, j, 0, 0), scale, less,
                               (const unsigned char *)team->shared, t, (int)TINYI_MIN(TINYI_BIP_TILE, t1 - t), j);
        }
}

static void tinyi_bip_cost(const tiny_op *op, tiny_cost *c)
{
    tinyi_bip b;
    tinyi_bip_read(op, &b);
    c->flops = 2.0 * (double)b.m * (double)b.n * (double)b.k;
    c->bytes = (double)op->in[1]->dim[0] +
               (double)b.m * ((double)b.k * (double)tiny_dtype_bytes(b.x->dtype) + 4.0 * (double)b.n);
}
static double tinyi_bip_terms(const tiny_op *op)
{
    return (double)tllm_bipolar_groups(op->in[0]->dim[1], ((const tllm_bipolar_params *)op->params)->group);
}

/* planes whose bits beyond the rows and the numbers are zeros, and the sums of their values */
static void tinyi_bip_fill(tiny_case *c, int i_input, void *data)
{
    tllm_bipolar_params p;
    const tiny_idx k = c->in[0].dim[1];
    tiny_rng rng = tiny_rng_make((uint64_t)c->index, 0x62697473u);      /* the same for planes and sums */
    tiny_idx r, i, g, groups;
    uint8_t code[32];
    memcpy(&p, c->params.bytes, sizeof p);
    groups = tllm_bipolar_groups(k, p.group);
    memset(data, 0, (size_t)tiny_tensor_count(&c->in[i_input]) * tiny_dtype_bytes(c->in[i_input].dtype));
    for (r = 0; r < p.n; r++)
        for (i = 0; i < k; i++) {
            if (i % 32 == 0) memset(code, 0, sizeof code);
            code[i % 32] = (uint8_t)(tiny_rng_below(&rng, 1u << p.wbits));
            g = groups > 1 ? i / p.group : 0;
            if (i_input == 4) ((int32_t *)data)[r * groups + g] += 2 * code[i % 32] - tinyi_bip_top(p.wbits);
            else if (i % 32 == 31 || i + 1 == k)
                tinyi_bip_lay(tinyi_bip_at((const unsigned char *)data, tinyi_bip_units(k), p.wbits, r, i / 32, 0), 64,
                              code, p.wbits, 0);
        }
}

static void tinyi_bip_cases(tiny_case *c)
{
    static const tiny_dtype types[] = { TINY_F32, TINY_U8, TINY_I8 };
    tllm_bipolar_params p;
    memset(&p, 0, sizeof p);
    p.wbits = 1 + tiny_case_pick(c, TLLM_BIPOLAR_BITS);
    p.abits = 1 + tiny_case_pick(c, TLLM_BIPOLAR_BITS);
    p.n = tiny_case_dim(c, 70);
    p.group = tiny_case_pick(c, 3) ? 0 : 64 * (1 + tiny_case_pick(c, 3));
    c->in[0].rank = 2;
    c->in[0].dtype = types[tiny_case_pick(c, 3)];
    c->in[0].dim[0] = tiny_case_pick(c, 3) ? tiny_case_dim(c, 20) : 1;
    c->in[0].dim[1] = tiny_case_dim(c, 1100);
    p.signed_w = c->in[0].dtype == TINY_I8 || tiny_case_pick(c, 3) == 0;
    memcpy(c->params.bytes, &p, sizeof p);
    p.magnitude = 1;
    c->has_magnitude_params = 1;
    memcpy(c->magnitude_params.bytes, &p, sizeof p);
    c->in[1].rank = 1;
    c->in[1].dtype = TINY_U8;
    c->in[1].dim[0] = (tiny_idx)tllm_bipolar_bytes(p.n, c->in[0].dim[1], p.wbits);
    c->fill[1] = c->fill[4] = TINY_FILL_TABLE;
    c->dense[1] = 1;
    c->fill_table = tinyi_bip_fill;
    c->in[2].rank = tiny_case_pick(c, 3) ? 2 : -1;
    c->in[3].rank = c->in[0].dtype != TINY_F32 && tiny_case_pick(c, 2) ? 2 : -1;
    c->in[4].rank = c->in[0].dtype == TINY_I8 ? 2 : -1;
    c->in[4].dtype = TINY_I32;
    c->in[2].dim[0] = c->in[4].dim[0] = p.n;
    c->in[3].dim[0] = c->in[0].dim[0];
    c->in[2].dim[1] = c->in[3].dim[1] = c->in[4].dim[1] = tllm_bipolar_groups(c->in[0].dim[1], p.group);
    c->fill[2] = c->fill[3] = TINY_FILL_POSITIVE;
}

static const tiny_op_row tinyi_row_bipolar = TINYI_ROW_OF("bipolar", TLLM_OP_BIPOLAR, TAKES(5, 2), GIVES(1),
    PARAMS(tllm_bipolar_params), FLAGS(TINY_OP_LOOSE),
    SHAPE(tinyi_bip_shape), REFERENCE(tinyi_bip_ref), FAST(tinyi_bip_fast, tinyi_bip_work), COST(tinyi_bip_cost),
    CASES(tinyi_bip_cases), BOUND(TINY_BOUND_LINEAR, 3.0, 1.01), TERMS(tinyi_bip_terms), GRADIENT(NULL), KERNELS(NULL),
    SAYS("y[t][j] = sum_g s_w s_x (K (2^p - 1)(2^q - 1) - 2 sum_ab 2^(a+b) popcount(w_ja xor x_tb))"));
TINY_API const tiny_op_row *tllm_bipolar_row(void) { return &tinyi_row_bipolar; }

TINY_API tiny_status tllm_bipolar_matmul(tiny_ctx *ctx, const tllm_bipolar *w, const tiny_tensor *x, int abits,
                                         const tiny_tensor *scale_x, const tiny_tensor *y)
{
    tllm_bipolar_params p;
    tiny_tensor planes, scale, sum;
    tiny_idx groups;
    tiny_op op;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!w || !w->planes) return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: the weights are NULL");
    if (!x) return tinyi_fail(ctx, TINY_E_ARGUMENT, "bipolar: x is NULL");
    if (x->rank != 2 || x->dim[1] != w->k)
        return tinyi_fail(ctx, TINY_E_SHAPE, "bipolar: x must have rows of %td numbers, as the weights have", w->k);
    memset(&p, 0, sizeof p);
    memset(&op, 0, sizeof op);
    p.n = w->n;
    p.group = w->group;
    p.wbits = w->bits;
    p.abits = abits;
    p.signed_w = w->is_signed;
    groups = tllm_bipolar_groups(w->k, w->group);
    planes = tiny_tensor_1d(w->planes, TINY_U8, (tiny_idx)w->n_bytes);
    scale = tiny_tensor_2d(w->scale, TINY_F32, w->n, groups);
    sum = tiny_tensor_2d(w->sum, TINY_I32, w->n, groups);
    op.kind = TLLM_OP_BIPOLAR;
    op.row = &tinyi_row_bipolar;
    op.in[0] = x;
    op.in[1] = &planes;
    op.in[2] = w->scale ? &scale : NULL;
    op.in[3] = scale_x;
    op.in[4] = w->sum ? &sum : NULL;
    op.out[0] = y;
    op.params = &p;
    return tiny_run(ctx, &op);
}
