/* src/math/convert.c - one data type to another, and int8 with a scale; see math/convert.h for the exact results
 * Data     any strides. Dense runs between f32 and f16, bf16 or i8 go straight to a kernel. Other pairs go through a
 *          buffer of float or double that holds both types exactly. int64 values beyond 2^53 are converted one by one.
 * Error    none: the same bits as the reference (a NaN is any NaN). */
#include <string.h>
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/walk_inside.h"

#define TINYI_CONVERT_GRAIN 32768
#define TINYI_CONVERT_BUFFER 256

/* ---- reference */

typedef struct tinyi_convert_value {
    int whole;                              /* i holds it, else d */
    int64_t i;
    double d;
} tinyi_convert_value;

static int tinyi_convert_is_float(tiny_dtype t)
{
    return t == TINY_F32 || t == TINY_F16 || t == TINY_BF16 || t == TINY_F64;
}

TINY_REF_BEGIN
static void tinyi_convert_get(tinyi_convert_value *v, tiny_dtype dtype, const void *p)
{
    uint16_t h;
    int16_t i16;
    int32_t i32;
    float f;
    v->whole = !tinyi_convert_is_float(dtype);
    v->i = 0;
    v->d = 0.0;
    switch (dtype) {
    case TINY_F32: memcpy(&f, p, 4); v->d = (double)f; break;
    case TINY_F16: memcpy(&h, p, 2); v->d = (double)tinyi_f16_to_f32(h); break;
    case TINY_BF16: memcpy(&h, p, 2); v->d = (double)tinyi_bf16_to_f32(h); break;
    case TINY_F64: memcpy(&v->d, p, 8); break;
    case TINY_I8: v->i = *(const int8_t *)p; break;
    case TINY_U8: v->i = *(const uint8_t *)p; break;
    case TINY_I16: memcpy(&i16, p, 2); v->i = i16; break;
    case TINY_I32: memcpy(&i32, p, 4); v->i = i32; break;
    default: memcpy(&v->i, p, 8); break;
    }
}

/* Rounded to odd: what does not fit leaves its trace in the last bit, so that a second rounding to 16 bits, which looks
 * at far fewer bits, comes out as if it were the only one. */
static float tinyi_convert_odd(double d)
{
    float f = tinyi_round_f32(d);
    uint32_t u = tinyi_f32_bits(f);
    if (d != d || (double)f == d) return f;
    if ((f < 0 ? -(double)f : (double)f) > (d < 0 ? -d : d)) u--;
    return tinyi_bits_f32(u | 1u);
}
static double tinyi_convert_odd_i64(int64_t i)
{
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    if (u >> 53) u = (u & ~(uint64_t)2047) | (u & 2047 ? (uint64_t)2048 : 0);
    return i < 0 ? -(double)u : (double)u;
}

/* to the nearest, ties to even */
static double tinyi_convert_near(double d)
{
    const double big = 4503599627370496.0;  /* 2^52: from here on all doubles are whole */
    if (d >= big || d <= -big) return d;
    return d < 0 ? (d - big) + big : (d + big) - big;
}

static void tinyi_convert_range(tiny_dtype dtype, int64_t *low, int64_t *high)
{
    switch (dtype) {
    case TINY_I8: *low = -128; *high = 127; break;
    case TINY_U8: *low = 0; *high = 255; break;
    case TINY_I16: *low = -32768; *high = 32767; break;
    case TINY_I32: *low = -(int64_t)0x7fffffff - 1; *high = 0x7fffffff; break;
    default: *low = INT64_MIN; *high = INT64_MAX; break;
    }
}

static int64_t tinyi_convert_held(const tinyi_convert_value *v, tiny_dtype dtype)
{
    int64_t low, high;
    double d;
    tinyi_convert_range(dtype, &low, &high);
    if (v->whole) return v->i < low ? low : v->i > high ? high : v->i;
    if (v->d != v->d) return 0;
    d = tinyi_convert_near(v->d);
    if (d >= 9223372036854775808.0) return high;
    if (d < -9223372036854775808.0) return low;
    return (int64_t)d < low ? low : (int64_t)d > high ? high : (int64_t)d;
}

static void tinyi_convert_put(tiny_dtype dtype, void *p, const tinyi_convert_value *v)
{
    uint16_t h;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    float f;
    double d;
    switch (dtype) {
    case TINY_F32: f = v->whole ? (float)v->i : tinyi_round_f32(v->d); memcpy(p, &f, 4); break;
    case TINY_F16:
        h = tinyi_f32_to_f16(tinyi_convert_odd(v->whole ? tinyi_convert_odd_i64(v->i) : v->d));
        memcpy(p, &h, 2);
        break;
    case TINY_BF16:
        h = tinyi_f32_to_bf16(tinyi_convert_odd(v->whole ? tinyi_convert_odd_i64(v->i) : v->d));
        memcpy(p, &h, 2);
        break;
    case TINY_F64:
        d = v->whole ? (double)v->i : v->d;
        if (d != d) { uint64_t nan = (uint64_t)0x7ff80000u << 32; memcpy(&d, &nan, 8); }
        memcpy(p, &d, 8);
        break;
    case TINY_I8: *(int8_t *)p = (int8_t)tinyi_convert_held(v, dtype); break;
    case TINY_U8: *(uint8_t *)p = (uint8_t)tinyi_convert_held(v, dtype); break;
    case TINY_I16: i16 = (int16_t)tinyi_convert_held(v, dtype); memcpy(p, &i16, 2); break;
    case TINY_I32: i32 = (int32_t)tinyi_convert_held(v, dtype); memcpy(p, &i32, 4); break;
    default: i64 = tinyi_convert_held(v, dtype); memcpy(p, &i64, 8); break;
    }
}

static void tinyi_convert_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx i, n = tiny_tensor_count(y);
    tinyi_convert_value v;
    for (i = 0; i < n; i++) {
        tinyi_convert_get(&v, x->dtype, (const unsigned char *)x->data + tinyi_walk_offset(x, i));
        tinyi_convert_put(y->dtype, (unsigned char *)y->data + tinyi_walk_offset(y, i), &v);
    }
}

static float tinyi_convert_scale(const tiny_tensor *scale, tiny_idx row)
{
    const ptrdiff_t at = tiny_tensor_count(scale) == 1 ? 0 : tinyi_walk_offset(scale, row);
    return *(const float *)(const void *)((const unsigned char *)scale->data + at);
}

static void tinyi_quantize_i8_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx i, n = tiny_tensor_count(y), len = tinyi_row_length(x);
    tinyi_convert_value v;
    v.whole = 0;
    v.i = 0;
    for (i = 0; i < n; i++) {
        float q = *(const float *)(const void *)((const unsigned char *)x->data + tinyi_walk_offset(x, i)) /
                  tinyi_convert_scale(op->in[1], i / len);
        v.d = (double)q;
        ((int8_t *)y->data)[tinyi_walk_offset(y, i)] = (int8_t)tinyi_convert_held(&v, TINY_I8);
    }
}

static void tinyi_dequantize_i8_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx i, n = tiny_tensor_count(y), len = tinyi_row_length(x);
    for (i = 0; i < n; i++) {
        float f = (float)((const int8_t *)x->data)[tinyi_walk_offset(x, i)] * tinyi_convert_scale(op->in[1], i / len);
        *(float *)(void *)((unsigned char *)y->data + tinyi_walk_offset(y, i)) = tinyi_round_f32((double)f);
    }
}
TINY_REF_END

/* ---- shapes and cost */

static tiny_status tinyi_convert_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_dtype to = op->params ? ((const tiny_convert_params *)op->params)->to : TINY_F32;
    if ((int)to < 0 || to >= TINY_DTYPE_COUNT)
        return tinyi_fail(ctx, TINY_E_DTYPE, "convert: there is no data type %d", (int)to);
    tinyi_want(&want[0], to, op->in[0]->rank, op->in[0]->dim);
    return TINY_OK;
}

static tiny_status tinyi_quantize_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0], *scale = op->in[1];
    const char *name = tinyi_op_row(op)->name;
    const tiny_dtype from = op->kind == TINY_OP_QUANTIZE_I8 ? TINY_F32 : TINY_I8;
    char ts[96], tx[96];
    int i, fits = scale->rank == x->rank - 1;
    if (x->dtype != from)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: x must be %s, not %s", name, tiny_dtype_name(from),
                          tiny_dtype_name(x->dtype));
    if (scale->dtype != TINY_F32)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: the scale must be f32, not %s", name, tiny_dtype_name(scale->dtype));
    for (i = 0; fits && i < scale->rank; i++) fits = scale->dim[i] == x->dim[i];
    if (!fits && tiny_tensor_count(scale) != 1)
        return tinyi_fail(ctx, TINY_E_SHAPE,
                          "%s: the scale is %s: it must be one value, or one for each row of x, which is %s", name,
                          tinyi_shape_text(scale, ts), tinyi_shape_text(x, tx));
    tinyi_want(&want[0], op->kind == TINY_OP_QUANTIZE_I8 ? TINY_I8 : TINY_F32, x->rank, x->dim);
    return TINY_OK;
}

static void tinyi_convert_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->out[0]);
    cost->flops = n;
    cost->bytes = n * (double)(tiny_dtype_bytes(op->in[0]->dtype) + tiny_dtype_bytes(op->out[0]->dtype));
}

/* ---- fast */

typedef struct tinyi_convert_job {
    tiny_dtype from, to;
    size_t from_bytes, to_bytes;
    tinyi_fn_f32_to_f16 f32_to_f16;
    tinyi_fn_f16_to_f32 f16_to_f32;
    tinyi_fn_f32_to_bf16 f32_to_bf16;
    tinyi_fn_bf16_to_f32 bf16_to_f32;
    tinyi_fn_quantize_i8 f32_to_i8;         /* with a scale of 1 */
    tinyi_fn_dequantize_i8 i8_to_f32;
} tinyi_convert_job;

static int tinyi_convert_meets_f32(tiny_dtype t)
{
    return t == TINY_F32 || t == TINY_F16 || t == TINY_BF16 || t == TINY_I8;
}

static void tinyi_convert_to_f32(const tinyi_convert_job *j, float *y, const void *x, size_t n)
{
    if (j->from == TINY_F16) j->f16_to_f32(y, (const uint16_t *)x, n);
    else if (j->from == TINY_BF16) j->bf16_to_f32(y, (const uint16_t *)x, n);
    else j->i8_to_f32(y, (const int8_t *)x, n, 1.0f);
}
static void tinyi_convert_of_f32(const tinyi_convert_job *j, void *y, const float *x, size_t n)
{
    if (j->to == TINY_F16) j->f32_to_f16((uint16_t *)y, x, n);
    else if (j->to == TINY_BF16) j->f32_to_bf16((uint16_t *)y, x, n);
    else j->f32_to_i8((int8_t *)y, x, n, 1.0f);
}

static void tinyi_convert_to_f64(const tinyi_convert_job *j, double *y, const void *x, size_t n)
{
    size_t i;
    switch (j->from) {
    case TINY_F32: for (i = 0; i < n; i++) y[i] = (double)((const float *)x)[i]; break;
    case TINY_F16: for (i = 0; i < n; i++) y[i] = (double)tinyi_f16_to_f32(((const uint16_t *)x)[i]); break;
    case TINY_BF16: for (i = 0; i < n; i++) y[i] = (double)tinyi_bf16_to_f32(((const uint16_t *)x)[i]); break;
    case TINY_I8: for (i = 0; i < n; i++) y[i] = (double)((const int8_t *)x)[i]; break;
    case TINY_U8: for (i = 0; i < n; i++) y[i] = (double)((const uint8_t *)x)[i]; break;
    case TINY_I16: for (i = 0; i < n; i++) y[i] = (double)((const int16_t *)x)[i]; break;
    case TINY_I32: for (i = 0; i < n; i++) y[i] = (double)((const int32_t *)x)[i]; break;
    default: memcpy(y, x, n * sizeof *y); break;
    }
}

/* in its range, NaN as 0, rounded */
static double tinyi_convert_clamp(double d, double low, double high)
{
    return d != d ? 0.0 : tinyi_convert_near(d < low ? low : d > high ? high : d);
}

static void tinyi_convert_of_f64(const tinyi_convert_job *j, void *y, const double *x, size_t n)
{
    size_t i;
    tinyi_convert_value v;
    switch (j->to) {
    case TINY_F32: for (i = 0; i < n; i++) ((float *)y)[i] = (float)x[i]; break;
    case TINY_F16: for (i = 0; i < n; i++) ((uint16_t *)y)[i] = tinyi_f32_to_f16(tinyi_convert_odd(x[i])); break;
    case TINY_BF16: for (i = 0; i < n; i++) ((uint16_t *)y)[i] = tinyi_f32_to_bf16(tinyi_convert_odd(x[i])); break;
    case TINY_F64: memcpy(y, x, n * sizeof *x); break;
    case TINY_I8: for (i = 0; i < n; i++) ((int8_t *)y)[i] = (int8_t)tinyi_convert_clamp(x[i], -128.0, 127.0); break;
    case TINY_U8: for (i = 0; i < n; i++) ((uint8_t *)y)[i] = (uint8_t)tinyi_convert_clamp(x[i], 0.0, 255.0); break;
    case TINY_I16:
        for (i = 0; i < n; i++) ((int16_t *)y)[i] = (int16_t)tinyi_convert_clamp(x[i], -32768.0, 32767.0);
        break;
    case TINY_I32:
        for (i = 0; i < n; i++) ((int32_t *)y)[i] = (int32_t)tinyi_convert_clamp(x[i], -2147483648.0, 2147483647.0);
        break;
    default:
        v.whole = 0;
        v.i = 0;
        for (i = 0; i < n; i++) {
            v.d = x[i];
            ((int64_t *)y)[i] = tinyi_convert_held(&v, TINY_I64);
        }
        break;
    }
}

/* both sides dense and apart */
static void tinyi_convert_dense(const tinyi_convert_job *j, unsigned char *y, const unsigned char *x, size_t n)
{
    union { float f32[TINYI_CONVERT_BUFFER]; double f64[TINYI_CONVERT_BUFFER]; } between;
    size_t i, m;
    if (j->from == j->to) memcpy(y, x, n * j->to_bytes);
    else if (tinyi_convert_meets_f32(j->from) && j->to == TINY_F32) tinyi_convert_to_f32(j, (float *)(void *)y, x, n);
    else if (j->from == TINY_F32 && tinyi_convert_meets_f32(j->to))
        tinyi_convert_of_f32(j, y, (const float *)(const void *)x, n);
    else if (j->from == TINY_I64) {
        for (i = 0; i < n; i++) {
            tinyi_convert_value v;
            tinyi_convert_get(&v, TINY_I64, x + i * j->from_bytes);
            tinyi_convert_put(j->to, y + i * j->to_bytes, &v);
        }
    } else {
        const int by_f32 = tinyi_convert_meets_f32(j->from) && tinyi_convert_meets_f32(j->to);
        for (i = 0; i < n; i += m) {
            m = TINYI_MIN(n - i, (size_t)TINYI_CONVERT_BUFFER);
            if (by_f32) {
                tinyi_convert_to_f32(j, between.f32, x + i * j->from_bytes, m);
                tinyi_convert_of_f32(j, y + i * j->to_bytes, between.f32, m);
            } else {
                tinyi_convert_to_f64(j, between.f64, x + i * j->from_bytes, m);
                tinyi_convert_of_f64(j, y + i * j->to_bytes, between.f64, m);
            }
        }
    }
}

/* n elements of the given size, from_step and to_step bytes apart */
static void tinyi_convert_move(unsigned char *to, ptrdiff_t to_step, const unsigned char *from, ptrdiff_t from_step,
                               size_t bytes, tiny_idx n)
{
    switch (bytes) {
    case 1: for (; n > 0; n--, to += to_step, from += from_step) *to = *from; break;
    case 2: for (; n > 0; n--, to += to_step, from += from_step) memcpy(to, from, 2); break;
    case 4: for (; n > 0; n--, to += to_step, from += from_step) memcpy(to, from, 4); break;
    default: for (; n > 0; n--, to += to_step, from += from_step) memcpy(to, from, 8); break;
    }
}

static void tinyi_convert_fast(tiny_team *team, const tiny_op *op)
{
    union { double align; unsigned char bytes[TINYI_CONVERT_BUFFER * 8]; } bx, by;
    const tiny_tensor *t[2];
    tinyi_convert_job j;
    tinyi_walk w;
    tinyi_walk_at at;
    tiny_idx i0, i1, i, m;
    t[0] = op->out[0];
    t[1] = op->in[0];
    j.from = t[1]->dtype;
    j.to = t[0]->dtype;
    j.from_bytes = tiny_dtype_bytes(j.from);
    j.to_bytes = tiny_dtype_bytes(j.to);
    j.f32_to_f16 = TINYI_K(team, f32_to_f16);
    j.f16_to_f32 = TINYI_K(team, f16_to_f32);
    j.f32_to_bf16 = TINYI_K(team, f32_to_bf16);
    j.bf16_to_f32 = TINYI_K(team, bf16_to_f32);
    j.f32_to_i8 = TINYI_K(team, quantize_i8);
    j.i8_to_f32 = TINYI_K(team, dequantize_i8);
    tinyi_walk_plan(&w, t, 2);
    while (tiny_take(team, w.total, TINYI_CONVERT_GRAIN, &i0, &i1)) {
        for (tinyi_walk_seek(&w, &at, i0, i1); at.run; tinyi_walk_next(&w, &at)) {
            const int dense_y = w.step[0] == (ptrdiff_t)j.to_bytes, dense_x = w.step[1] == (ptrdiff_t)j.from_bytes;
            if (dense_y && dense_x) {
                tinyi_convert_dense(&j, at.p[0], at.p[1], (size_t)at.run);
                continue;
            }
            for (i = 0; i < at.run; i += m) {
                unsigned char *y = at.p[0] + i * w.step[0], *x = at.p[1] + i * w.step[1];
                m = TINYI_MIN(at.run - i, TINYI_CONVERT_BUFFER);
                if (!dense_x) tinyi_convert_move(bx.bytes, (ptrdiff_t)j.from_bytes, x, w.step[1], j.from_bytes, m);
                tinyi_convert_dense(&j, dense_y ? y : by.bytes, dense_x ? x : bx.bytes, (size_t)m);
                if (!dense_y) tinyi_convert_move(y, w.step[0], by.bytes, (ptrdiff_t)j.to_bytes, j.to_bytes, m);
            }
        }
    }
}

/* n elements of a row, or of a whole tensor with one scale */
static void tinyi_quantize_run(tiny_team *team, int kind, unsigned char *y, ptrdiff_t y_step, const unsigned char *x,
                               ptrdiff_t x_step, tiny_idx n, float scale)
{
    const tinyi_fn_quantize_i8 quantize = kind == TINY_OP_QUANTIZE_I8 ? TINYI_K(team, quantize_i8) : NULL;
    const tinyi_fn_dequantize_i8 dequantize = quantize ? NULL : TINYI_K(team, dequantize_i8);
    const ptrdiff_t x_bytes = quantize ? 4 : 1, y_bytes = 5 - x_bytes;
    float f[TINYI_CONVERT_BUFFER];
    int8_t q[TINYI_CONVERT_BUFFER];
    tiny_idx i, m;
    if (x_step == x_bytes && y_step == y_bytes) {
        if (quantize) quantize((int8_t *)y, (const float *)(const void *)x, (size_t)n, scale);
        else dequantize((float *)(void *)y, (const int8_t *)x, (size_t)n, scale);
        return;
    }
    for (i = 0; i < n; i += m, x += m * x_step, y += m * y_step) {
        m = TINYI_MIN(n - i, TINYI_CONVERT_BUFFER);
        if (quantize) {
            tinyi_convert_move((unsigned char *)f, 4, x, x_step, 4, m);
            quantize(q, f, (size_t)m, scale);
            tinyi_convert_move(y, y_step, (const unsigned char *)q, 1, 1, m);
        } else {
            tinyi_convert_move((unsigned char *)q, 1, x, x_step, 1, m);
            dequantize(f, q, (size_t)m, scale);
            tinyi_convert_move(y, y_step, (const unsigned char *)f, 4, 4, m);
        }
    }
}

static void tinyi_quantize_fast(tiny_team *team, const tiny_op *op)
{
    const tiny_tensor *t[2];
    tiny_tensor rows[2];
    tiny_idx i0, i1;
    t[0] = op->out[0];
    t[1] = op->in[0];
    if (tiny_tensor_count(t[0]) == 0) return;
    if (tiny_tensor_count(op->in[1]) == 1) {
        const float scale = tinyi_convert_scale(op->in[1], 0);
        tinyi_walk w;
        tinyi_walk_at at;
        tinyi_walk_plan(&w, t, 2);
        while (tiny_take(team, w.total, TINYI_CONVERT_GRAIN, &i0, &i1))
            for (tinyi_walk_seek(&w, &at, i0, i1); at.run; tinyi_walk_next(&w, &at))
                tinyi_quantize_run(team, op->kind, at.p[0], w.step[0], at.p[1], w.step[1], at.run, scale);
        return;
    }
    rows[0] = *t[0];                        /* their first elements, as tensors; the shape has at least one axis here */
    rows[1] = *t[1];
    rows[0].rank = --rows[1].rank;
    while (tiny_take(team, tiny_tensor_count(&rows[0]), TINYI_CONVERT_GRAIN / tinyi_row_length(t[0]), &i0, &i1))
        for (; i0 < i1; i0++)
            tinyi_quantize_run(team, op->kind, (unsigned char *)t[0]->data + tinyi_walk_offset(&rows[0], i0),
                               tinyi_row_step(t[0]) * (ptrdiff_t)tiny_dtype_bytes(t[0]->dtype),
                               (const unsigned char *)t[1]->data + tinyi_walk_offset(&rows[1], i0),
                               tinyi_row_step(t[1]) * (ptrdiff_t)tiny_dtype_bytes(t[1]->dtype), tinyi_row_length(t[0]),
                               tinyi_convert_scale(op->in[1], i0));
}

/* ---- cases */

static void tinyi_convert_case_shape(tiny_case *c)
{
    int rank = c->index == 0 ? 1 : tiny_case_pick(c, TINY_MAX_RANK + 1), i;
    c->in[0].rank = rank;
    for (i = 0; i < rank; i++) c->in[0].dim[i] = tiny_case_dim(c, i == rank - 1 ? rank == 1 ? 40000 : 300 : 5);
}

static void tinyi_convert_cases(tiny_case *c)
{
    tiny_convert_params p;
    tinyi_convert_case_shape(c);
    /* pairs in turn, so that 81 cases see them all */
    c->in[0].dtype = (tiny_dtype)(c->index % TINY_DTYPE_COUNT);
    p.to = (tiny_dtype)((c->index / TINY_DTYPE_COUNT + c->index) % TINY_DTYPE_COUNT);
    c->fill[0] = c->index % 3 == 0 ? TINY_FILL_ANY : c->index % 3 == 1 ? TINY_FILL_WIDE : TINY_FILL_NORMAL;
    memcpy(c->params.bytes, &p, sizeof p);
}

static void tinyi_quantize_case_scale(tiny_case *c)
{
    int i, rank = c->in[0].rank;
    c->fill[1] = TINY_FILL_POSITIVE;
    c->in[1].rank = rank > 0 && tiny_case_pick(c, 2) ? rank - 1 : 0;
    for (i = 0; i < c->in[1].rank; i++) c->in[1].dim[i] = c->in[0].dim[i];
}

static void tinyi_quantize_cases(tiny_case *c)
{
    tinyi_convert_case_shape(c);
    if (c->index % 3 == 1) c->fill[0] = TINY_FILL_WIDE;
    tinyi_quantize_case_scale(c);
}

static void tinyi_dequantize_cases(tiny_case *c)
{
    tinyi_convert_case_shape(c);
    c->in[0].dtype = TINY_I8;
    c->fill[0] = TINY_FILL_ANY;
    tinyi_quantize_case_scale(c);
}

/* ---- rows */

static const short tinyi_kernels_of_convert[] = { TINYI_K_f32_to_f16,
                                                  TINYI_K_f16_to_f32,
                                                  TINYI_K_f32_to_bf16,
                                                  TINYI_K_bf16_to_f32,
                                                  TINYI_K_quantize_i8,
                                                  TINYI_K_dequantize_i8,
                                                  -1 };
static const short tinyi_kernels_of_quantize_i8[] = { TINYI_K_quantize_i8, -1 };
static const short tinyi_kernels_of_dequantize_i8[] = { TINYI_K_dequantize_i8, -1 };

TINYI_ROW tinyi_row_convert = TINYI_ROW_OF("convert", TINY_OP_CONVERT, TAKES(1, 1), GIVES(1),
    PARAMS(tiny_convert_params), FLAGS(0),
    SHAPE(tinyi_convert_shape), REFERENCE(tinyi_convert_ref), FAST(tinyi_convert_fast, NULL), COST(tinyi_convert_cost),
    CASES(tinyi_convert_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(NULL),
    KERNELS(tinyi_kernels_of_convert), SAYS("y = x in another data type, rounded once"));
TINYI_ROW tinyi_row_quantize_i8 = TINYI_ROW_OF("quantize_i8", TINY_OP_QUANTIZE_I8, TAKES(2, 2), GIVES(1), NO_PARAMS,
    FLAGS(0),
    SHAPE(tinyi_quantize_shape), REFERENCE(tinyi_quantize_i8_ref), FAST(tinyi_quantize_fast, NULL),
    COST(tinyi_convert_cost), CASES(tinyi_quantize_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(NULL),
    KERNELS(tinyi_kernels_of_quantize_i8), SAYS("y = round(x / scale) within -128 .. 127"));
TINYI_ROW tinyi_row_dequantize_i8 = TINYI_ROW_OF("dequantize_i8", TINY_OP_DEQUANTIZE_I8, TAKES(2, 2), GIVES(1),
    NO_PARAMS, FLAGS(0),
    SHAPE(tinyi_quantize_shape), REFERENCE(tinyi_dequantize_i8_ref), FAST(tinyi_quantize_fast, NULL),
    COST(tinyi_convert_cost), CASES(tinyi_dequantize_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(NULL),
    KERNELS(tinyi_kernels_of_dequantize_i8), SAYS("y = x scale"));

/* ---- typed calls */

TINY_API tiny_status tiny_convert(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    tiny_convert_params p;
    p.to = y ? y->dtype : TINY_F32;
    return tinyi_call(ctx, TINY_OP_CONVERT, x, NULL, &p, y);
}

TINY_API tiny_status tiny_quantize_i8(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *scale,
                                      const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_QUANTIZE_I8, x, scale, NULL, y);
}
TINY_API tiny_status tiny_dequantize_i8(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *scale,
                                        const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_DEQUANTIZE_I8, x, scale, NULL, y);
}
