/* src/llm/lab/weave/weave.c - MLWeaving: a data set stored by the weight of its bits and read at any precision
 * Paper    Z. Wang et al., "Accelerating generalized linear models with MLWeaving: a one-size-fits-all system for
 *          any-precision learning", VLDB 2019 (arXiv 1903.03404), section 3; the layout is that of the authors' code.
 * Formula  code = floor((2^32 - 1) (x - low) / (high - low)), 0 where high = low; x_s = sum over k < s of bit k of the
 *          code (0 the uppermost) times 2^-(k + 1).
 *          0.25 has the code 3fffffff, so its x_2 is 0: truncation is towards 0.
 * Layout   samples by 8, features by 64; a block of 8 x 64 codes is 32 lines of 64 bytes, line k has bit k of all of
 *          them:
 *
 *          byte ((i / 8) C + j / 64) 2048 + 64 k + 8 (i % 8) + j % 64 / 8, bit j % 8          C = ceil(n_feature / 64)
 *
 *              line 0   | sample 0: 64 bits | sample 1 | ... | sample 7 |      the uppermost bits
 *              line 1   |                   |          |     |          |
 *              ...                                                              s bits: the first s lines of each
 *                                                                               block, 64 s bytes in a row
 *              line 31
 *
 *          As 32-bit words that is the formula of the paper. Short last groups and chunks are padded with zeros. The
 *          bytes are the same on every machine.
 * Products w . x_s = sum over k < s of 2^-(k + 1) times the sum of the w_j whose bit is set, in the three forms of
 *          TLLM_WEAVE_:
 *          masked   bits select lanes of w, s additions for 64 features, from the lowest bit up (Horner)
 *          turned   codes are rebuilt, about eight bits at a time, by transposing bits between registers
 *                   (weave.simd.h), then one product. It costs about the same for any s up to 8, and the numbers can
 *                   be used again for the gradient
 *          shifted  code by code, plain C
 *          Measured with 512 features at 1, 4 and 8 bits, ns a sample: avx2 masked 110, 377, 728, turned 60, 73, 89,
 *          shifted 1560 and more; w128 213, 827, 1625 and 128, 218, 320; scalar 2270, 16500, 38300 and 437, 621, 682,
 *          shifted 1373, 2954, 3302. AUTO is therefore turned everywhere, except for one bit on avx512, where the words
 *          are the masks; that case is estimated, not measured.
 * Cost     writing: a division and about 20 operations a number, once. Reading s bits: n C 64 s bytes.
 * Error    of products: |fast - ref| <= (n_feature / V + 40) 2^-24 sum |x_j w_j|; s > 24: x is rounded to 24 bits.
 * Left out reading 16 bits at once in turned products (pieces of 8: only epochs at more than 8 bits would gain). */
#include <string.h>
#include "llm/lab/weave/weave_inside.h"
#include "core/state_inside.h"
#include "core/target.h"
#include "math/bits_inside.h"
#include "math/rows_inside.h"

TINYI_TABLE_CHOICE(tinyi_weave_kernels, tinyi_weave_kernels)

/* ---- sizes and checks -------------------------------------------------------------------------------------------- */

TINY_API size_t tllm_weave_bytes(tiny_idx n, tiny_idx n_feature)
{
    size_t bytes;
    if (n < 1 || n_feature < 1 || n > TINY_IDX_MAX - 8 || n_feature > TINY_IDX_MAX / 256) return 0;
    if (!tinyi_size_mul(((size_t)n + 7) / 8, tinyi_weave_chunks(n_feature), &bytes) ||
        !tinyi_size_mul(bytes, TINYI_WEAVE_BLOCK, &bytes) || bytes > (size_t)TINY_IDX_MAX)
        return 0;
    return bytes;
}

TINYI_FN tiny_status tinyi_weave_check(tiny_ctx *ctx, const tllm_weave *data, const char *what)
{
    size_t need;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!data || !data->lines || !data->low || !data->high)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the store is NULL or closed", what);
    need = tllm_weave_bytes(data->n, data->n_feature);
    if (!need)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: a store of %td samples of %td features is invalid or too large for this machine", what,
                          data->n, data->n_feature);
    if (data->n_bytes < need)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: the lines have %zu bytes, but %td samples of %td features have %zu", what, data->n_bytes,
                          data->n, data->n_feature, need);
    return TINY_OK;
}
TINYI_FN tiny_status tinyi_weave_check_bits(tiny_ctx *ctx, const char *what, int bits)
{
    return bits >= 1 && bits <= 32
               ? TINY_OK
               : tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a code has 1 to 32 bits, not %d", what, bits);
}
static tiny_status tinyi_weave_check_rows(tiny_ctx *ctx, const tllm_weave *data, const char *what, tiny_idx first,
                                          tiny_idx m)
{
    if (first >= 0 && m >= 0 && first <= data->n && m <= data->n - first) return TINY_OK;
    return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: %td samples from index %td on are requested, but the store has %td",
                      what, m, first, data->n);
}
/* x (m, n_feature) in memory, of one of these types */
static tiny_status tinyi_weave_check_rows_of(tiny_ctx *ctx, const tiny_tensor *x, const char *what, tiny_idx n_feature)
{
    char shape[96];
    if (!x || tiny_tensor_check(x)) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: the rows are not a tensor", what);
    if (x->rank != 2 || (n_feature && x->dim[1] != n_feature))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: the rows are %s, they must be (samples, %td)", what,
                          tinyi_shape_text(x, shape), n_feature);
    return TINY_OK;
}

/* ---- codes ------------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static uint32_t tinyi_weave_quantize(float x, float low, float high)
{
    if (!(x > low)) return 0;               /* also where low is high */
    if (x >= high) return high > low ? 0xffffffffu : 0;
    return (uint32_t)(((double)x - (double)low) / ((double)high - (double)low) * 4294967295.0);
}

/* bit by bit, by the formula of the layout */
TINYI_FN uint32_t tinyi_weave_code(const tllm_weave *data, tiny_idx i, tiny_idx j, int bits)
{
    const unsigned char *block = tinyi_weave_group_of(data, i) + (size_t)(j / 64) * TINYI_WEAVE_BLOCK;
    uint32_t code = 0;
    int k;
    for (k = 0; k < bits; k++) code = code << 1 | ((uint32_t)block[64 * k + 8 * (i % 8) + j % 64 / 8] >> (j % 8) & 1u);
    return code;
}
static double tinyi_weave_unit(int bits)    /* 2^-bits */
{
    double unit = 1.0;
    for (; bits > 0; bits--) unit *= 0.5;
    return unit;
}
static float tinyi_weave_dot_ref(const tllm_weave *data, tiny_idx i, int bits, const float *v)
{
    double sum = 0.0;
    tiny_idx j;
    for (j = 0; j < data->n_feature; j++)
        sum += (double)tinyi_weave_code(data, i, j, bits) * tinyi_weave_unit(bits) * (double)v[j];
    return tinyi_round_f32(sum);
}
TINY_REF_END

/* 64 codes of one sample out of a block: eight features a byte, eight planes a transpose */
static void tinyi_weave_codes(uint32_t code[64], const unsigned char *block, size_t i, int bits)
{
    int o, k, k0, j;
    for (o = 0; o < 8; o++) {
        for (j = 0; j < 8; j++) code[8 * o + j] = 0;
        for (k0 = 0; k0 < bits; k0 += 8) {
            const int there = TINYI_MIN(8, bits - k0);
            uint64_t w = 0;
            for (k = 0; k < there; k++) w |= (uint64_t)block[64 * (k0 + k) + 8 * (int)i + o] << 8 * (there - 1 - k);
            w = tinyi_bits_transpose8(w);
            for (j = 0; j < 8; j++) code[8 * o + j] = code[8 * o + j] << there | (uint32_t)(w >> 8 * j & 255u);
        }
    }
}

/* ---- opening and filling ----------------------------------------------------------------------------------------- */

static int tinyi_weave_finite(float x) { return x - x == 0.0f; }

TINY_API tiny_status tllm_weave_range(tiny_ctx *ctx, const tiny_tensor *x, int more, float *low, float *high)
{
    tiny_idx i, j;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    st = tinyi_weave_check_rows_of(ctx, x, "weave", 0);
    if (st) return st;
    if (x->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_DTYPE, "weave: x is %s, it must be f32", tiny_dtype_name(x->dtype));
    if (!low || !high || x->dim[1] < 1 || (!more && x->dim[0] < 1))
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "weave: %td samples of %td features: at least 1 of each and two result pointers are needed",
            x->dim[0], x->dim[1]);
    for (i = 0; i < x->dim[0]; i++) {
        const float *row = (const float *)x->data + i * x->stride[0];
        for (j = 0; j < x->dim[1]; j++) {
            const float v = row[j * x->stride[1]];
            if (!tinyi_weave_finite(v))
                return tinyi_fail(
                    ctx, TINY_E_NUMERIC,
                    "weave: feature %td of sample %td is %g; it must be finite", j, i,
                    (double)v);
            if ((!more && i == 0) || v < low[j]) low[j] = v;
            if ((!more && i == 0) || v > high[j]) high[j] = v;
        }
    }
    return TINY_OK;
}

/* low and high, room for label where there is some, one after the other in one block */
static tiny_status tinyi_weave_begin(tiny_ctx *ctx, tiny_idx n, tiny_idx n_feature, int lines, int label,
                                     tllm_weave *out, float **low, float **high, float **labels)
{
    size_t bytes = tllm_weave_bytes(n, n_feature), head = ((size_t)n_feature * 8 + 63) / 64 * 64;
    unsigned char *p;
    if (!bytes)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave: a store of %td samples of %td features is invalid or too large for this machine", n,
                          n_feature);
    out->n = n;
    out->n_feature = n_feature;
    out->n_bytes = bytes;
    if (label) head += ((size_t)n * 4 + 63) / 64 * 64;
    if (lines && !tinyi_size_add(head, bytes, &head)) head = SIZE_MAX;
    p = (unsigned char *)tinyi_alloc(ctx, head, 1);
    if (!p) return tiny_ctx_status(ctx);
    out->block = p;
    if (lines) {                            /* they come first: their place is a multiple of 64, or of a large page */
        out->lines = p;
        memset(p, 0, bytes);
        p += bytes;
    }
    *low = (float *)(void *)p;
    *high = *low + n_feature;
    *labels = label ? (float *)(void *)(p + ((size_t)n_feature * 8 + 63) / 64 * 64) : NULL;
    out->low = *low;
    out->high = *high;
    out->label = *labels;
    return TINY_OK;
}

static tiny_status tinyi_weave_check_range(tiny_ctx *ctx, const char *what, const float *low, const float *high,
                                           tiny_idx n_feature)
{
    tiny_idx j;
    for (j = 0; j < n_feature; j++)
        if (!tinyi_weave_finite(low[j]) || !tinyi_weave_finite(high[j]) || low[j] > high[j])
            return tinyi_fail(ctx, TINY_E_NUMERIC, "%s: feature %td goes from %g to %g, which is not a range", what, j,
                              (double)low[j], (double)high[j]);
    return TINY_OK;
}

TINY_API tiny_status tllm_weave_open(tiny_ctx *ctx, tiny_idx n, tiny_idx n_feature, const float *low, const float *high,
                                     tllm_weave *out)
{
    float *l = NULL, *h = NULL, *none = NULL;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!out || !low || !high)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave: ranges and a result pointer are needed, but one is NULL");
    if (!tllm_weave_bytes(n, n_feature))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave: a store of %td samples of %td features is invalid or too large for this machine", n,
                          n_feature);
    st = tinyi_weave_check_range(ctx, "weave", low, high, n_feature);
    if (!st) st = tinyi_weave_begin(ctx, n, n_feature, 1, 0, out, &l, &h, &none);
    if (st) {
        memset(out, 0, sizeof *out);
        return st;
    }
    memcpy(l, low, (size_t)n_feature * sizeof *l);
    memcpy(h, high, (size_t)n_feature * sizeof *h);
    return TINY_OK;
}

typedef struct tinyi_weave_put_job {
    const tllm_weave *data;
    unsigned char *lines;
    const tiny_tensor *x;
    tiny_idx first;
} tinyi_weave_put_job;

/* two samples at once: 32 bits of each fill the 64 rows of a transpose, row by row one feature */
static void tinyi_weave_put_pair(const tinyi_weave_put_job *job, tiny_idx i, int two)
{
    const tllm_weave *d = job->data;
    unsigned char *group =
        job->lines + (size_t)((job->first + i) / 8) * tinyi_weave_chunks(d->n_feature) * TINYI_WEAVE_BLOCK;
    const float *row = (const float *)job->x->data + i * job->x->stride[0];
    const tiny_idx step = job->x->stride[1], below = two ? job->x->stride[0] : 0;
    tiny_idx j0, j;
    int k, t, b;
    for (j0 = 0; j0 < d->n_feature; j0 += 64, group += TINYI_WEAVE_BLOCK) {
        uint64_t w[64];
        for (j = 0; j < 64; j++) {
            const tiny_idx f = j0 + j;
            w[j] = 0;
            if (f >= d->n_feature) continue;
            w[j] = tinyi_weave_quantize(row[f * step], d->low[f], d->high[f]);
            if (two) w[j] |= (uint64_t)tinyi_weave_quantize(row[f * step + below], d->low[f], d->high[f]) << 32;
        }
        tinyi_bits_transpose64(w);
        for (t = 0; t <= two; t++)
            for (k = 0; k < 32; k++) {
                unsigned char *to = group + 64 * k + 8 * ((job->first + i) % 8 + t);
                for (b = 0; b < 8; b++) to[b] = (unsigned char)(w[32 * t + 31 - k] >> 8 * b);
            }
    }
}
static void tinyi_weave_put_team(tiny_team *team, void *arg)
{
    const tinyi_weave_put_job *job = (const tinyi_weave_put_job *)arg;
    const tiny_idx from = job->first / 8, groups = (job->first + job->x->dim[0] + 7) / 8 - from;
    tiny_idx g, g1;
    while (tiny_take(team, groups, 4, &g, &g1))
        for (; g < g1; g++) {
            tiny_idx i = TINYI_MAX((from + g) * 8 - job->first, 0),
                     end = TINYI_MIN((from + g + 1) * 8 - job->first, job->x->dim[0]);
            while (i < end) {
                const int two = end - i > 1;
                tinyi_weave_put_pair(job, i, two);
                i += 1 + two;
            }
        }
}

static tiny_status tinyi_weave_fill(tiny_ctx *ctx, tllm_weave *data, tiny_idx first, const tiny_tensor *x)
{
    tinyi_weave_put_job job;
    if (!x->dim[0]) return TINY_OK;
    job.data = data;
    job.lines = (unsigned char *)(uintptr_t)data->lines;
    job.x = x;
    job.first = first;
    return tiny_parallel_loose(ctx, (double)x->dim[0] * (double)x->dim[1] < 20000 ? 1 : 0, 0, 0, tinyi_weave_put_team,
                               &job);
}

TINY_API tiny_status tllm_weave_put(tiny_ctx *ctx, tllm_weave *data, tiny_idx first, const tiny_tensor *x)
{
    tiny_idx i, j;
    tiny_status st = tinyi_weave_check(ctx, data, "weave");
    if (st) return st;
    if (!data->block || data->file)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave: this store is read-only: its lines belong to the caller or to a file");
    st = tinyi_weave_check_rows_of(ctx, x, "weave", data->n_feature);
    if (!st && x->dtype != TINY_F32)
        st = tinyi_fail(ctx, TINY_E_DTYPE, "weave: x is %s, it must be f32", tiny_dtype_name(x->dtype));
    if (!st) st = tinyi_weave_check_rows(ctx, data, "weave", first, x->dim[0]);
    if (st) return st;
    for (i = 0; i < x->dim[0]; i++)
        for (j = 0; j < x->dim[1]; j++)
            if (!tinyi_weave_finite(((const float *)x->data)[i * x->stride[0] + j * x->stride[1]]))
                return tinyi_fail(ctx, TINY_E_NUMERIC, "weave: feature %td of sample %td is %g; it must be finite", j,
                                  first + i, (double)((const float *)x->data)[i * x->stride[0] + j * x->stride[1]]);
    return tinyi_weave_fill(ctx, data, first, x);
}

TINY_API tiny_status tllm_weave_make(tiny_ctx *ctx, const tiny_tensor *x, tllm_weave *out)
{
    float *low;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    st = tinyi_weave_check_rows_of(ctx, x, "weave", 0);
    if (st) return st;
    if (!out || !tllm_weave_bytes(x->dim[0], x->dim[1]))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave: a store of %td samples of %td features is invalid or too large for this machine, or "
                          "the result pointer is NULL",
                          x->dim[0], x->dim[1]);
    low = (float *)tinyi_alloc(ctx, (size_t)x->dim[1], 2 * sizeof *low);
    if (!low) return tiny_ctx_status(ctx);
    st = tllm_weave_range(ctx, x, 0, low, low + x->dim[1]);
    if (!st) st = tllm_weave_open(ctx, x->dim[0], x->dim[1], low, low + x->dim[1], out);
    if (!st) st = tinyi_weave_fill(ctx, out, 0, x);
    tiny_free(ctx, low);
    if (st) tllm_weave_close(ctx, out);
    return st;
}

TINY_API void tllm_weave_close(tiny_ctx *ctx, tllm_weave *data)
{
    if (!data) return;
    tiny_free(ctx, data->block);
    tiny_checkpoint_close(ctx, data->file);
    memset(data, 0, sizeof *data);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct tinyi_weave_read_job {
    const tllm_weave *data;
    const tiny_tensor *out;
    tiny_idx first;
    int bits, plain;
} tinyi_weave_read_job;

TINY_REF_BEGIN
static void tinyi_weave_read_one(const tiny_tensor *out, tiny_idx i, tiny_idx j, uint32_t code, double unit)
{
    const tiny_idx at = i * out->stride[0] + j * out->stride[1];
    switch (out->dtype) {
    case TINY_F32: ((float *)out->data)[at] = (float)((double)code * unit); break;
    case TINY_U8: ((uint8_t *)out->data)[at] = (uint8_t)code; break;
    case TINY_I16: { const uint16_t c = (uint16_t)code; memcpy((int16_t *)out->data + at, &c, 2); break; }
    default: memcpy((int32_t *)out->data + at, &code, 4);
    }
}
TINY_REF_END

static void tinyi_weave_read_team(tiny_team *team, void *arg)
{
    const tinyi_weave_read_job *job = (const tinyi_weave_read_job *)arg;
    const tllm_weave *d = job->data;
    const double unit = tinyi_weave_unit(job->bits);
    tiny_idx i, i1, j, j0;
    while (tiny_take(team, job->out->dim[0], 16, &i, &i1))
        for (; i < i1; i++) {
            const unsigned char *block = tinyi_weave_group_of(d, job->first + i);
            for (j0 = 0; j0 < d->n_feature; j0 += 64, block += TINYI_WEAVE_BLOCK) {
                uint32_t code[64];
                if (!job->plain) tinyi_weave_codes(code, block, (size_t)((job->first + i) % 8), job->bits);
                for (j = j0; j < TINYI_MIN(d->n_feature, j0 + 64); j++)
                    tinyi_weave_read_one(job->out, i, j,
                                         job->plain ? tinyi_weave_code(d, job->first + i, j, job->bits) : code[j - j0],
                                         unit);
            }
        }
}

TINY_API tiny_status tllm_weave_read(tiny_ctx *ctx, const tllm_weave *data, tiny_idx first, int bits,
                                     const tiny_tensor *out)
{
    tinyi_weave_read_job job;
    tiny_status st = tinyi_weave_check(ctx, data, "weave read");
    int fits;
    if (st) return st;
    st = tinyi_weave_check_bits(ctx, "weave read", bits);
    if (!st) st = tinyi_weave_check_rows_of(ctx, out, "weave read", data->n_feature);
    if (st) return st;
    fits = out->dtype == TINY_F32 || out->dtype == TINY_I32 ? 32
           : out->dtype == TINY_I16                         ? 16
           : out->dtype == TINY_U8                          ? 8
                                                            : 0;
    if (bits > fits)
        return tinyi_fail(ctx, TINY_E_DTYPE, "weave read: %d bits do not fit into %s", bits,
                          tiny_dtype_name(out->dtype));
    st = tinyi_weave_check_rows(ctx, data, "weave read", first, out->dim[0]);
    if (st || !out->dim[0]) return st;
    job.data = data;
    job.out = out;
    job.first = first;
    job.bits = bits;
    job.plain = ctx->target == TINY_TARGET_REFERENCE;
    return tiny_parallel_loose(ctx, job.plain || (double)out->dim[0] * (double)out->dim[1] < 20000 ? 1 : 0, 0, 0,
                               tinyi_weave_read_team, &job);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_weave_scale(float scale[32], int bits)
{
    const int f = tinyi_weave_field(bits);
    int p, t;
    for (p = 0; p < 32; p++) {
        scale[p] = 1.0f / (float)(1 << f);
        if (p / f < 32 / f - 1) for (t = 0; t < p / f * f; t++) scale[p] *= 0.5f;
    }
}
TINYI_FN void tinyi_weave_spread(float *part, const float *x, tiny_idx n_feature, int lanes, const float *factor)
{
    const tiny_idx n = (tiny_idx)tinyi_weave_parts(n_feature, lanes) * 32 * lanes;
    tiny_idx at;
    for (at = 0; at < n; at++) {
        const tiny_idx p = at / lanes % 32, j = at / (32 * lanes) * (32 * lanes) + at % lanes * 32 + p;
        part[at] = j < n_feature ? factor ? x[j] * factor[p] : x[j] : 0.0f;
    }
}
TINYI_FN void tinyi_weave_gather(float *x, const float *part, tiny_idx n_feature, int lanes, const float *factor)
{
    const tiny_idx n = (tiny_idx)tinyi_weave_parts(n_feature, lanes) * 32 * lanes;
    tiny_idx at;
    for (at = 0; at < n; at++) {
        const tiny_idx p = at / lanes % 32, j = at / (32 * lanes) * (32 * lanes) + at % lanes * 32 + p;
        if (j < n_feature) x[j] = factor ? part[at] / factor[p] : part[at];
    }
}

typedef struct tinyi_weave_dot_job {
    const tllm_weave *data;
    tiny_idx first, m;
    int bits, form;
    const float *v;
    float *y;
} tinyi_weave_dot_job;

/* code by code; v (64 chunks) */
static float tinyi_weave_shifted(const unsigned char *group, size_t sample, size_t chunks, int bits, const float *v)
{
    float total = 0.0f;
    size_t c, h, j;
    int k;
    for (c = 0; c < chunks; c++)
        for (h = 0; h < 2; h++, v += 32) {
            uint32_t word[32];
            float s[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
            for (k = 0; k < bits; k++) word[k] = tinyi_weave_word(group, 2 * c + h, sample, k);
            for (j = 0; j < 32; j++) {
                uint32_t code = 0;
                for (k = 0; k < bits; k++) code = code << 1 | (word[k] >> j & 1u);
                s[j & 3] += (float)code * v[j];
            }
            total += (s[0] + s[1]) + (s[2] + s[3]);
        }
    return total * (float)tinyi_weave_unit(bits);
}

static void tinyi_weave_dot_team(tiny_team *team, void *arg)
{
    const tinyi_weave_dot_job *job = (const tinyi_weave_dot_job *)arg;
    const tllm_weave *d = job->data;
    const tinyi_weave_kernels *k = tinyi_weave_kernels_of(team->k);
    const size_t chunks = tinyi_weave_chunks(d->n_feature), parts = tinyi_weave_parts(d->n_feature, k->lanes);
    const tiny_idx from = job->first / 8, groups = (job->first + job->m + 7) / 8 - from;
    uint32_t *planes;
    tinyi_weave_rows r;
    tiny_idx g, g1, i;
    planes = tinyi_weave_rows_own(&r, team->own, parts, k->lanes, job->bits);
    team->ran_on = k->from;
    while (tiny_take(team, groups, 4, &g, &g1))
        for (; g < g1; g++) {
            const unsigned char *group = tinyi_weave_group_of(d, 8 * (from + g));
            const tiny_idx i0 = TINYI_MAX(8 * (from + g), job->first),
                           i1 = TINYI_MIN(8 * (from + g + 1), job->first + job->m);
            float *y = job->y + (i0 - job->first);
            if (job->form != TLLM_WEAVE_TURNED) {
                for (i = i0; i < i1; i++, y++)
                    *y = job->form == TLLM_WEAVE_MASKED
                             ? k->masked(group, (size_t)(i % 8), chunks, job->bits, job->v)
                             : tinyi_weave_shifted(group, (size_t)(i % 8), chunks, job->bits, job->v);
                continue;
            }
            k->take(planes, group, chunks, 0, parts, job->bits, g + 1 < groups ? chunks * TINYI_WEAVE_BLOCK : 0);
            r.m = (size_t)(i1 - i0);
            r.planes = planes + (size_t)(i0 % 8) * parts * r.step;
            k->expand(&r, job->v, job->bits);
            tinyi_weave_rows_products(k, &r, y);
        }
}

TINY_API tiny_status tllm_weave_dot(tiny_ctx *ctx, const tllm_weave *data, tiny_idx first, tiny_idx m, int bits,
                                    int form, const float *v, float *y)
{
    tinyi_weave_dot_job job;
    const tinyi_weave_kernels *k;
    float scale[32], *all;
    size_t numbers, chunks;
    tiny_idx i;
    tiny_status st = tinyi_weave_check(ctx, data, "weave dot");
    if (st) return st;
    st = tinyi_weave_check_bits(ctx, "weave dot", bits);
    if (!st) st = tinyi_weave_check_rows(ctx, data, "weave dot", first, m);
    if (st) return st;
    if (form < TLLM_WEAVE_AUTO || form > TLLM_WEAVE_SHIFTED)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave dot: there is no form %d", form);
    if (!m) return TINY_OK;
    if (!v || !y)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave dot: numbers and a result pointer are needed, but one is NULL");
    if (ctx->target == TINY_TARGET_REFERENCE) {
        for (i = 0; i < m; i++) y[i] = tinyi_weave_dot_ref(data, first + i, bits, v);
        ctx->ran_on = TINY_TARGET_REFERENCE;
        return TINY_OK;
    }
    k = tinyi_weave_kernels_of(ctx->k);
    chunks = tinyi_weave_chunks(data->n_feature);
    job.data = data;
    job.first = first;
    job.m = m;
    job.bits = bits;
    job.form = form ? form : bits <= k->masked_bits ? TLLM_WEAVE_MASKED : TLLM_WEAVE_TURNED;
    job.y = y;
    numbers = tinyi_weave_parts(data->n_feature, k->lanes) * 32 * (size_t)k->lanes;
    all = (float *)tinyi_alloc(ctx, TINYI_MAX(numbers, 64 * chunks), sizeof *all);
    if (!all) return tiny_ctx_status(ctx);
    tinyi_weave_scale(scale, bits);
    if (job.form == TLLM_WEAVE_TURNED) tinyi_weave_spread(all, v, data->n_feature, k->lanes, scale);
    else {
        memcpy(all, v, (size_t)data->n_feature * sizeof *all);
        memset(all + data->n_feature, 0, (64 * chunks - (size_t)data->n_feature) * sizeof *all);
    }
    job.v = all;
    st = tiny_parallel_loose(
        ctx, (double)m * (double)data->n_feature < 40000 ? 1 : 0, 0,
        job.form == TLLM_WEAVE_TURNED ? tinyi_weave_rows_bytes(numbers / 32 / (size_t)k->lanes, k->lanes, bits) : 0,
        tinyi_weave_dot_team, &job);
    tiny_free(ctx, all);
    return st;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

#ifndef TINY_NO_STDIO
TINY_API tiny_status tllm_weave_save(tiny_ctx *ctx, const tllm_weave *data, const float *label, const char *path)
{
    tiny_checkpoint_writer_desc desc;
    tiny_checkpoint_writer *w;
    tiny_tensor t;
    tiny_status st = tinyi_weave_check(ctx, data, "weave save");
    if (st) return st;
    if (!path) return tinyi_fail(ctx, TINY_E_ARGUMENT, "weave save: the file name is NULL");
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    st = tiny_checkpoint_create(ctx, &desc, &w);
    if (st) return st;
    (void)tiny_checkpoint_put_text(ctx, w, "what", "weave 1");
    (void)tiny_checkpoint_put_u64(ctx, w, "samples", (uint64_t)data->n);
    (void)tiny_checkpoint_put_u64(ctx, w, "features", (uint64_t)data->n_feature);
    t = tiny_tensor_1d((void *)(uintptr_t)data->low, TINY_F32, data->n_feature);
    (void)tiny_checkpoint_put_tensor(ctx, w, "low", &t);
    t.data = (void *)(uintptr_t)data->high;
    (void)tiny_checkpoint_put_tensor(ctx, w, "high", &t);
    if (label) {
        t = tiny_tensor_1d((void *)(uintptr_t)label, TINY_F32, data->n);
        (void)tiny_checkpoint_put_tensor(ctx, w, "label", &t);
    }
    t = tiny_tensor_1d((void *)(uintptr_t)data->lines, TINY_U8, (tiny_idx)tllm_weave_bytes(data->n, data->n_feature));
    (void)tiny_checkpoint_put_tensor(ctx, w, "lines", &t);
    st = tiny_checkpoint_finish(ctx, w);
    tiny_checkpoint_writer_close(ctx, w);
    return st;
}
#endif

/* everything is looked at before memory is taken, and that is not more than the file holds */
static tiny_status tinyi_weave_load(tiny_ctx *ctx, const tiny_checkpoint_desc *desc, tllm_weave *out)
{
    const char *name = desc->path ? desc->path : "weave", *what;
    tiny_checkpoint *c;
    tiny_tensor t[4];
    uint64_t n = 0, n_feature = 0;
    float *low = NULL, *high = NULL, *label = NULL;
    size_t bytes;
    tiny_idx i;
    int has;
    tiny_status st = tiny_checkpoint_open(ctx, desc, &c);
    if (st) return st;
    st = tiny_checkpoint_get_text(ctx, c, "what", &what);
    if (!st && strcmp(what, "weave 1"))
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: this is a checkpoint, but not a supported store of bits",
                        name);
    if (!st) st = tiny_checkpoint_get_u64(ctx, c, "samples", &n);
    if (!st) st = tiny_checkpoint_get_u64(ctx, c, "features", &n_feature);
    bytes = !st && n <= (uint64_t)TINY_IDX_MAX && n_feature <= (uint64_t)TINY_IDX_MAX
                ? tllm_weave_bytes((tiny_idx)n, (tiny_idx)n_feature)
                : 0;
    if (!st && !bytes)
        st = tinyi_fail(ctx, TINY_E_FORMAT,
                        "%s: a store of %llu samples of %llu features is invalid or too large for this machine", name,
                        (unsigned long long)n, (unsigned long long)n_feature);
    has = !st && tiny_checkpoint_find(c, "label");
    for (i = 0; i < 4; i++) t[i] = tiny_tensor_1d(NULL, TINY_F32, i < 2 ? (tiny_idx)n_feature : (tiny_idx)n);
    t[3] = tiny_tensor_1d(NULL, TINY_U8, (tiny_idx)bytes);
    if (!st) st = tiny_checkpoint_expect(ctx, c, "low", &t[0]);
    if (!st) st = tiny_checkpoint_expect(ctx, c, "high", &t[1]);
    if (!st && has) st = tiny_checkpoint_expect(ctx, c, "label", &t[2]);
    if (!st) st = tiny_checkpoint_expect(ctx, c, "lines", &t[3]);
    if (!st) st = tinyi_weave_begin(ctx, (tiny_idx)n, (tiny_idx)n_feature, 0, has, out, &low, &high, &label);
    if (!st) {
        t[0].data = low;
        t[1].data = high;
        t[2].data = label;
        out->lines = tiny_checkpoint_find(c, "lines")->at;
        st = tiny_checkpoint_get_tensor(ctx, c, "low", &t[0]);
        if (!st) st = tiny_checkpoint_get_tensor(ctx, c, "high", &t[1]);
        if (!st && has) st = tiny_checkpoint_get_tensor(ctx, c, "label", &t[2]);
    }
    if (!st) st = tinyi_weave_check_range(ctx, name, low, high, (tiny_idx)n_feature);
    for (i = 0; !st && has && i < (tiny_idx)n; i++)
        if (!tinyi_weave_finite(label[i]))
            st = tinyi_fail(ctx, TINY_E_NUMERIC, "%s: the label of sample %td is %g", name, i, (double)label[i]);
    out->file = c;
    if (st) tllm_weave_close(ctx, out);
    return st;
}
TINY_API tiny_status tllm_weave_load(tiny_ctx *ctx, const char *path, tllm_weave *out)
{
    tiny_checkpoint_desc desc;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!path || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave load: the name of a file and a result pointer are needed, but one is NULL");
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    return tinyi_weave_load(ctx, &desc, out);
}
TINY_API tiny_status tllm_weave_load_bytes(tiny_ctx *ctx, const void *bytes, size_t n_bytes, tllm_weave *out)
{
    tiny_checkpoint_desc desc;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) memset(out, 0, sizeof *out);
    if (st) return st;
    if (!bytes || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "weave load: the bytes of a file and a result pointer are needed, but one is NULL");
    memset(&desc, 0, sizeof desc);
    desc.bytes = bytes;
    desc.n_bytes = n_bytes;
    return tinyi_weave_load(ctx, &desc, out);
}
