/* src/core/conform.c - the conformance kit
 *
 * A case depends only on (operation name, seed, case number). The row's cases function chooses shapes and params. The
 * kit fills the inputs and chooses their layout in memory. It computes the reference on dense copies, runs the
 * candidate on the views, and compares. Every buffer of the candidate has guard bytes on both sides. Bytes that belong
 * to no element are all ones, a NaN in each float type: so a read from outside a view spoils the result. */
#include "core/conform.h"
#include "core/state_inside.h"
#include "core/half_inside.h"
#include <stdio.h>
#include <string.h>

TINY_REF_BEGIN                              /* the same inputs everywhere, and NaN stays NaN under -ffast-math */

#define TINYI_CONFORM_WALL 256              /* bytes before and after each buffer: more than any vector store */
#define TINYI_CONFORM_CASES 40

enum {
    TINYI_SPECIAL_NONE,
    TINYI_SPECIAL_ZEROS,
    TINYI_SPECIAL_INF_NAN,
    TINYI_SPECIAL_DENORMAL,
    TINYI_SPECIAL_OUTLIER,
    TINYI_SPECIAL_MIXED
};

typedef struct tinyi_conform_side {         /* one tensor of a case */
    unsigned char *dense;                   /* row-major, what the reference sees */
    unsigned char *memory, *before;         /* what the candidate sees, and a copy from before the run */
    size_t bytes;                           /* of memory */
    tiny_tensor ref, view;                  /* over dense, over memory */
} tinyi_conform_side;

typedef struct tinyi_conform_layout { int kind, axis; tiny_idx gap; } tinyi_conform_layout;

typedef struct tinyi_conform {
    tiny_ctx *ctx;
    const tiny_op_row *row;
    tiny_conform_row result;
    uint64_t seed;
    tiny_case c;
    tiny_rng rng;                           /* fills and layouts */
    tinyi_conform_layout common;
    int special, has_nonfinite;             /* an input of this case holds inf or NaN */
    tinyi_conform_side in[TINY_OP_MAX_IN], out[TINY_OP_MAX_OUT];
    tiny_op op;                             /* the candidate's */
    double limit, floor_limit;              /* of the bound, in u and in smallest denormals */
    double case_ulp, case_square, case_square_ref, case_of_bound;
    char what[192];                         /* how the case failed; "" when it passed */
    void *held[5 * TINY_OP_MAX_IN + 5 * TINY_OP_MAX_OUT];
    int n_held;
} tinyi_conform;

/* ---- memory of one case ---- */

static void *tinyi_conform_take(tinyi_conform *t, size_t bytes)
{
    void *p = tiny_alloc(t->ctx, bytes ? bytes : 1);
    if (p) t->held[t->n_held++] = p;
    return p;
}

static void tinyi_conform_release(tinyi_conform *t)
{
    while (t->n_held > 0) tiny_free(t->ctx, t->held[--t->n_held]);
}

/* ---- numbers of any type ---- */

static int tinyi_conform_is_float(tiny_dtype d)
{
    return d == TINY_F32 || d == TINY_F16 || d == TINY_BF16 || d == TINY_F64;
}

static double tinyi_conform_get(tiny_dtype dtype, const unsigned char *p)
{
    float f;
    double d;
    uint16_t h;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (dtype) {
    case TINY_F32: memcpy(&f, p, 4); return (double)f;
    case TINY_F16: memcpy(&h, p, 2); return (double)tinyi_f16_to_f32(h);
    case TINY_BF16: memcpy(&h, p, 2); return (double)tinyi_bf16_to_f32(h);
    case TINY_F64: memcpy(&d, p, 8); return d;
    case TINY_I8: return (double)(p[0] < 128 ? (int)p[0] : (int)p[0] - 256);
    case TINY_U8: return (double)p[0];
    case TINY_I16: memcpy(&i16, p, 2); return (double)i16;
    case TINY_I32: memcpy(&i32, p, 4); return (double)i32;
    default: memcpy(&i64, p, 8); return (double)i64;
    }
}

static void tinyi_conform_put(tiny_dtype dtype, unsigned char *p, double v)
{
    float f;
    uint16_t h;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (dtype) {
    case TINY_F32: f = (float)v; memcpy(p, &f, 4); break;
    case TINY_F16: h = tinyi_f32_to_f16((float)v); memcpy(p, &h, 2); break;
    case TINY_BF16: h = tinyi_f32_to_bf16((float)v); memcpy(p, &h, 2); break;
    case TINY_F64: memcpy(p, &v, 8); break;
    case TINY_I8: p[0] = (unsigned char)((int)v & 255); break;
    case TINY_U8: p[0] = (unsigned char)((int)v & 255); break;
    case TINY_I16: i16 = (int16_t)v; memcpy(p, &i16, 2); break;
    case TINY_I32: i32 = (int32_t)v; memcpy(p, &i32, 4); break;
    default: i64 = (int64_t)v; memcpy(p, &i64, 8); break;
    }
}

static double tinyi_conform_power(int e)   /* 2^e, also where it is a denormal double */
{
    double r = 1.0;
    for (; e > 0; e--) r *= 2.0;
    for (; e < 0; e++) r *= 0.5;
    return r;
}

static int tinyi_conform_nan(double x) { return x != x; }
static int tinyi_conform_inf(double x) { return x == x && x - x != 0.0; }
static double tinyi_conform_abs(double x) { return x < 0.0 ? -x : x; }

/* fraction bits, exponent of the smallest normal number, exponent one past the largest */
static void tinyi_conform_format(tiny_dtype dtype, int *fraction, int *least, int *end)
{
    *fraction = dtype == TINY_F16 ? 10 : dtype == TINY_BF16 ? 7 : dtype == TINY_F64 ? 52 : 23;
    *least = dtype == TINY_F16 ? -14 : dtype == TINY_F64 ? -1022 : -126;
    *end = dtype == TINY_F16 ? 16 : dtype == TINY_F64 ? 1024 : 128;
}

/* the distance from |x| to the next larger number of the type; x finite */
static double tinyi_conform_ulp(tiny_dtype dtype, double x)
{
    int fraction, least, end, e;
    uint64_t bits;
    tinyi_conform_format(dtype, &fraction, &least, &end);
    memcpy(&bits, &x, 8);
    e = (int)(bits >> 52 & 2047) - 1023;
    if (e < least) e = least;
    if (e >= end) e = end - 1;
    if (e - fraction < -1022) return tinyi_conform_power(e - fraction);
    bits = (uint64_t)(e - fraction + 1023) << 52;
    memcpy(&x, &bits, 8);
    return x;
}

/* ---- filling ---- */

static double tinyi_conform_wide(tiny_rng *r, int range)
{
    double v = (double)tiny_rng_normal(r);
    return v * tinyi_conform_power((int)tiny_rng_below(r, (uint32_t)(2 * range + 1)) - range);
}

static void tinyi_conform_any(tinyi_conform *t, tiny_dtype dtype, unsigned char *p)
{
    size_t i, bytes = tiny_dtype_bytes(dtype);
    uint64_t bits = tiny_rng_u64(&t->rng);
    double v;
    uint16_t h = (uint16_t)bits;
    uint32_t w = (uint32_t)bits;
    if (bytes == 1) p[0] = (unsigned char)bits;
    else if (bytes == 2) memcpy(p, &h, 2);
    else if (bytes == 4) memcpy(p, &w, 4);
    else memcpy(p, &bits, 8);
    if (!tinyi_conform_is_float(dtype)) return;
    v = tinyi_conform_get(dtype, p);
    if (tinyi_conform_nan(v)) for (i = 0; i < bytes; i++) p[i] = 0;
}

static double tinyi_conform_draw(tinyi_conform *t, tiny_dtype dtype, tiny_fill fill, tiny_idx limit)
{
    tiny_rng *r = &t->rng;
    if (fill == TINY_FILL_INDEX)
        return (double)tiny_rng_below(r, (uint32_t)TINYI_MIN(TINYI_MAX(limit, 1), (tiny_idx)0x7fffffff));
    if (fill == TINY_FILL_POSITIVE)
        return tinyi_conform_is_float(dtype) ? 0.1 + 1.9 * (double)tiny_rng_uniform(r)
                                             : 1.0 + (double)tiny_rng_below(r, 100);
    if (dtype == TINY_I8) return (double)tiny_rng_below(r, 256) - 128.0;
    if (dtype == TINY_U8) return (double)tiny_rng_below(r, 256);
    if (!tinyi_conform_is_float(dtype)) return (double)tiny_rng_below(r, 2001) - 1000.0;
    if (fill == TINY_FILL_WIDE) return tinyi_conform_wide(r, dtype == TINY_F16 ? 8 : 20);
    if (dtype == TINY_F64) return (double)tiny_rng_normal(r) * (1.0 + 1e-7 * tiny_rng_uniform64(r));
    return (double)tiny_rng_normal(r);
}

static double tinyi_conform_denormal(tinyi_conform *t, tiny_dtype dtype, double v)
{
    int fraction, least, end;
    tinyi_conform_format(dtype, &fraction, &least, &end);
    return v * tinyi_conform_power(least + 2 - (int)tiny_rng_below(&t->rng, (uint32_t)TINYI_MIN(fraction, 16)));
}

/* A few elements of a float input become special; at least one when there is an element. */
static void tinyi_conform_strew(tinyi_conform *t, tinyi_conform_side *s, tiny_idx n)
{
    tiny_dtype dtype = s->ref.dtype;
    size_t es = tiny_dtype_bytes(dtype);
    double infinity = tinyi_conform_power(1023) * 4.0, outlier = dtype == TINY_F16 ? 30000.0 : 1e15, v;
    tiny_idx i, count = t->special == TINYI_SPECIAL_OUTLIER ? 1 : 1 + n / 16;
    if (n == 0) return;
    for (i = 0; i < count; i++) {
        unsigned char *p = s->dense + (size_t)tiny_rng_below(&t->rng, (uint32_t)n) * es;
        int kind = t->special, sign = (int)tiny_rng_below(&t->rng, 2);
        if (kind == TINYI_SPECIAL_MIXED) kind = TINYI_SPECIAL_ZEROS + (int)tiny_rng_below(&t->rng, 4);
        if (kind == TINYI_SPECIAL_ZEROS) v = 0.0;
        else if (kind == TINYI_SPECIAL_INF_NAN) v = tiny_rng_below(&t->rng, 3) ? infinity : infinity - infinity;
        else if (kind == TINYI_SPECIAL_OUTLIER) v = outlier;
        else v = tinyi_conform_denormal(t, dtype, 1.0);
        tinyi_conform_put(dtype, p, sign ? -v : v);
    }
}

/* Which kind of special values a case has: every fourth has some, in turn. */
static int tinyi_conform_special(const tiny_case *c)
{
    int kind = c->index % 4 == 3 ? TINYI_SPECIAL_ZEROS + c->index / 4 % 5 : TINYI_SPECIAL_NONE;
    if (c->no_specials && kind != TINYI_SPECIAL_NONE) kind = TINYI_SPECIAL_ZEROS;
    if (c->no_denormals && kind == TINYI_SPECIAL_DENORMAL) kind = TINYI_SPECIAL_OUTLIER;
    return kind;
}

static int tinyi_conform_takes_specials(const tinyi_conform *t, int i)
{
    return t->op.in[i] && tinyi_conform_is_float(t->c.in[i].dtype) &&
           (t->c.fill[i] == TINY_FILL_NORMAL || t->c.fill[i] == TINY_FILL_WIDE);
}

/* Nothing but denormals: in all inputs, or in all but one, since a product of two denormals is nothing but zero. */
static int tinyi_conform_stays_normal(const tinyi_conform *t, int i)
{
    int j, n = 0, turn = t->c.index / 20 % 3;
    for (j = 0; j < t->row->n_in; j++) n += tinyi_conform_takes_specials(t, j);
    return n > 1 && ((turn == 0 && i == 1) || (turn == 2 && i == 0));
}

static void tinyi_conform_fill(tinyi_conform *t, int i)
{
    tinyi_conform_side *s = &t->in[i];
    tiny_dtype dtype = s->ref.dtype;
    tiny_idx j, n = tiny_tensor_count(&s->ref);
    size_t es = tiny_dtype_bytes(dtype);
    int denormal =
        t->special == TINYI_SPECIAL_DENORMAL && tinyi_conform_takes_specials(t, i) && !tinyi_conform_stays_normal(t, i);
    if (t->c.fill[i] == TINY_FILL_TABLE) {
        if (t->c.fill_table && n) t->c.fill_table(&t->c, i, s->dense);
        return;
    }
    for (j = 0; j < n; j++) {
        unsigned char *p = s->dense + (size_t)j * es;
        if (t->c.fill[i] == TINY_FILL_ANY) tinyi_conform_any(t, dtype, p);
        else {
            double v = tinyi_conform_draw(t, dtype, t->c.fill[i], t->c.limit[i]);
            tinyi_conform_put(dtype, p, denormal ? tinyi_conform_denormal(t, dtype, v) : v);
        }
    }
    if (t->special != TINYI_SPECIAL_NONE && t->special != TINYI_SPECIAL_DENORMAL && tinyi_conform_takes_specials(t, i))
        tinyi_conform_strew(t, s, n);
}

/* ---- how a tensor lies in memory ---- */

/* bytes, from data, of element i in row-major order; wraps */
static size_t tinyi_conform_offset(const tiny_tensor *t, tiny_idx i)
{
    tiny_idx at = 0;
    int a;
    for (a = t->rank - 1; a >= 0; a--) {
        at += i % t->dim[a] * t->stride[a];
        i /= t->dim[a];
    }
    return (size_t)at * tiny_dtype_bytes(t->dtype);
}

static void tinyi_conform_scatter(const tiny_tensor *view, const unsigned char *dense)
{
    tiny_idx i, n = tiny_tensor_count(view);
    size_t es = tiny_dtype_bytes(view->dtype);
    for (i = 0; i < n; i++)
        memcpy((unsigned char *)view->data + (ptrdiff_t)tinyi_conform_offset(view, i), dense + (size_t)i * es, es);
}

static void tinyi_conform_gather(unsigned char *dense, const tiny_tensor *view)
{
    tiny_idx i, n = tiny_tensor_count(view);
    size_t es = tiny_dtype_bytes(view->dtype);
    for (i = 0; i < n; i++)
        memcpy(dense + (size_t)i * es, (const unsigned char *)view->data + (ptrdiff_t)tinyi_conform_offset(view, i),
               es);
}

static tinyi_conform_layout tinyi_conform_draw_layout(tiny_rng *r)
{
    tinyi_conform_layout l;
    l.kind = (int)tiny_rng_below(r, 12);
    l.axis = (int)tiny_rng_below(r, 12);
    l.gap = 1 + (tiny_idx)tiny_rng_below(r, 5);
    return l;
}

/* Strides for the shape of s->ref in fresh memory between walls. dense: row-major, though perhaps off its alignment.
 * Half of the tensors of a case lie in the same way: there are kernels for just that. */
static tiny_status tinyi_conform_lay(tinyi_conform *t, tinyi_conform_side *s, int dense, int may_repeat)
{
    tiny_rng *r = &t->rng;
    tiny_tensor v = s->ref;
    size_t es = tiny_dtype_bytes(v.dtype), elements, low = 0, shift = 0;
    tiny_idx step = 1, gap = 0;
    tinyi_conform_layout l = tinyi_conform_draw_layout(r);
    int order[TINY_MAX_RANK], a, i, reversed = -1, repeated = -1;
    if (tiny_rng_below(r, 2)) l = t->common;
    if (tiny_rng_below(r, 2)) shift = (1 + tiny_rng_below(r, 3)) * (es < 4 ? es * tiny_rng_below(r, 4) : es);
    if (dense || t->c.index == 0) l.kind = 0;
    for (i = 0; i < v.rank; i++) order[i] = i;
    if (l.kind == 4 || l.kind == 5 || l.kind == 8) gap = l.gap;         /* rows apart */
    /* two of the last three axes exchanged in memory */
    if (l.kind >= 6 && l.kind <= 8 && v.rank > 1) {
        int last = v.rank > 2 && l.axis % 3 == 1 ? v.rank - 2 : v.rank - 1,
            other = v.rank > 2 && l.axis % 3 > 0 ? v.rank - 3 : v.rank - 2;
        order[last] = other;
        order[other] = last;
    }
    if (l.kind == 9) step = l.gap > 3 ? 3 : 2;                          /* every second or third element */
    if (l.kind > 9 && v.rank > 0) {
        if (l.kind == 11 && may_repeat) repeated = l.axis % v.rank;
        else reversed = l.axis % v.rank;
    }
    elements = 1;
    for (i = v.rank - 1; i >= 0; i--) {
        a = order[i];
        v.stride[a] = a == repeated ? 0 : step;
        if (v.dim[a] > 1) elements += (size_t)(v.dim[a] - 1) * (size_t)v.stride[a];
        if (a == reversed && v.dim[a] > 1) {
            low = (size_t)(v.dim[a] - 1) * (size_t)step;
            v.stride[a] = -step;
        }
        if (a != repeated) step = step * TINYI_MAX(v.dim[a], 1) + gap;
    }
    /* A candidate that takes the view for dense still stays inside the memory: it is wrong, but need not crash. */
    s->bytes = TINYI_CONFORM_WALL * 2 + shift + TINYI_MAX(elements, low + (size_t)tiny_tensor_count(&v)) * es;
    s->memory = (unsigned char *)tinyi_conform_take(t, s->bytes);
    s->before = (unsigned char *)tinyi_conform_take(t, s->bytes);
    if (!s->memory || !s->before) return tiny_ctx_status(t->ctx);
    memset(s->memory, 0xff, s->bytes);
    v.data = s->memory + TINYI_CONFORM_WALL + shift + low * es;
    s->view = v;
    return TINY_OK;
}

/* ---- comparing ---- */

/* Position of element i as "[3,17]". */
static const char *tinyi_conform_where(const tiny_tensor *t, tiny_idx i, char text[96])
{
    tiny_idx at[TINY_MAX_RANK];
    size_t n = 0;
    int a;
    for (a = t->rank - 1; a >= 0; a--) {
        at[a] = i % t->dim[a];
        i /= t->dim[a];
    }
    text[n++] = '[';
    for (a = 0; a < t->rank && n < 70; a++) n += (size_t)snprintf(text + n, 24, a ? ",%td" : "%td", at[a]);
    text[n++] = ']';
    text[n] = 0;
    return text;
}

static void tinyi_conform_differs(tinyi_conform *t, const char *how, int j, tiny_idx i, double got, double want,
                                  double allowed)
{
    char where[96];
    if (t->what[0]) return;
    (void)snprintf(t->what, sizeof t->what, "%sout %d at %s: got %.9g, want %.9g, allowed difference %.3g", how, j,
                   tinyi_conform_where(&t->out[j].ref, i, where), got, want, allowed);
}

/* What the bound allows at one element, besides the absolute part. size: the largest finite |reference| for NORM and
 * SCALE, the sum of magnitudes for LINEAR. */
static double tinyi_conform_allowed(const tinyi_conform *t, tiny_dtype dtype, double want, double size)
{
    double u = dtype == TINY_F64 ? 1.0 / 9007199254740992.0 : 1.0 / 16777216.0, own = tinyi_conform_ulp(dtype, want);
    int fraction, least, end;
    tinyi_conform_format(dtype, &fraction, &least, &end);
    if (t->row->bound.kind == TINY_BOUND_ULP) return t->limit * own;
    return t->limit * u * size + t->limit * tinyi_conform_power(least - fraction) +
           (dtype == TINY_F16 || dtype == TINY_BF16 ? own : 0.0);
}

static void tinyi_conform_ulps(tinyi_conform *t, tiny_dtype dtype, double error, double want)
{
    double ulps = error / tinyi_conform_ulp(dtype, want);
    if (ulps > t->case_ulp) t->case_ulp = ulps;
}

static void tinyi_conform_compare(tinyi_conform *t, const char *how, int j, const unsigned char *got,
                                  const unsigned char *magnitude)
{
    const tinyi_conform_side *s = &t->out[j];
    tiny_dtype dtype = s->ref.dtype;
    tiny_bound_kind kind = t->row->bound.kind;
    size_t es = tiny_dtype_bytes(dtype);
    tiny_idx i, k, n = tiny_tensor_count(&s->ref), row = s->ref.rank ? s->ref.dim[s->ref.rank - 1] : 1;
    double size = 0.0, beyond;
    int fraction, least, end;
    tinyi_conform_format(dtype, &fraction, &least, &end);
    beyond = end < 1024 ? tinyi_conform_power(end) : tinyi_conform_power(1023);
    for (i = 0; i < n; i++) {
        const unsigned char *pg = got + (size_t)i * es, *pw = s->dense + (size_t)i * es;
        double g = tinyi_conform_get(dtype, pg), w = tinyi_conform_get(dtype, pw), error, allowed;
        if (!tinyi_conform_is_float(dtype) || kind == TINY_BOUND_EXACT) {
            if (memcmp(pg, pw, es) == 0 || (tinyi_conform_nan(g) && tinyi_conform_nan(w))) continue;
            if (tinyi_conform_is_float(dtype) && g - w == g - w)
                tinyi_conform_ulps(t, dtype, tinyi_conform_abs(g - w), w);
            t->case_of_bound = 1e30;
            tinyi_conform_differs(t, how, j, i, g, w, 0.0);
            continue;
        }
        if ((kind == TINY_BOUND_NORM && i % row == 0) || (kind == TINY_BOUND_SCALE && i == 0)) {
            tiny_idx last = kind == TINY_BOUND_NORM ? i + row : n;
            for (size = 0.0, k = i; k < last; k++) {
                double x = tinyi_conform_abs(tinyi_conform_get(dtype, s->dense + (size_t)k * es));
                if (x > size && !tinyi_conform_inf(x)) size = x;
            }
        }
        if (kind == TINY_BOUND_LINEAR) {
            size = tinyi_conform_get(dtype, magnitude + (size_t)i * es);
            if (tinyi_conform_nan(size) || tinyi_conform_inf(size)) {
                /* the sum of magnitudes overflows: order decides what comes out */
                if (!t->has_nonfinite) continue;
                size = tinyi_conform_nan(w) || tinyi_conform_inf(w) ? 0.0 : tinyi_conform_abs(w);
            }
        }
        if (tinyi_conform_nan(g) || tinyi_conform_nan(w)) {
            if (tinyi_conform_nan(g) && tinyi_conform_nan(w)) continue;
            t->case_of_bound = 1e30;
            tinyi_conform_differs(t, how, j, i, g, w, 0.0);
            continue;
        }
        if (g == w) continue;
        if (tinyi_conform_inf(g)) g = g < 0.0 ? -beyond : beyond;
        if (tinyi_conform_inf(w)) w = w < 0.0 ? -beyond : beyond;
        error = tinyi_conform_abs(g - w);
        allowed = tinyi_conform_allowed(t, dtype, w, size);
        tinyi_conform_ulps(t, dtype, error, w);
        if (allowed <= 0.0) t->case_of_bound = 1e30;
        else if (error > t->case_of_bound * allowed) t->case_of_bound = error / allowed;
        if (!(error <= allowed)) tinyi_conform_differs(t, how, j, i, g, w, allowed);
    }
    for (i = 0; i < n; i++) {
        double g = tinyi_conform_get(dtype, got + (size_t)i * es),
               w = tinyi_conform_get(dtype, s->dense + (size_t)i * es);
        if (g - g != 0.0 || w - w != 0.0) continue;
        t->case_square += (g - w) * (g - w);
        t->case_square_ref += w * w;
    }
}

/* Memory of s is as before, except for the elements of the view when written is not 0. */
static void tinyi_conform_walls(tinyi_conform *t, const char *how, const char *side, int j, tinyi_conform_side *s,
                                int written)
{
    const unsigned char *first = (const unsigned char *)s->view.data;
    tiny_idx k, n = tiny_tensor_count(&s->view);
    size_t i, es = tiny_dtype_bytes(s->view.dtype);
    if (t->what[0]) return;
    if (written)
        for (k = 0; k < n; k++) {
            ptrdiff_t at = first - s->memory + (ptrdiff_t)tinyi_conform_offset(&s->view, k);
            memcpy(s->before + at, s->memory + at, es);
        }
    if (!memcmp(s->before, s->memory, s->bytes)) return;
    for (i = 0; s->before[i] == s->memory[i]; i++) {}
    if (written)
        (void)snprintf(t->what, sizeof t->what, "%s%s %d: wrote outside the tensor, %td bytes from its first element",
                       how, side, j, s->memory + i - first);
    else
        (void)snprintf(t->what, sizeof t->what, "%s%s %d: changed an input, %td bytes from its first element", how,
                       side, j, s->memory + i - first);
}

/* ---- one case ---- */

static void tinyi_conform_refused(tinyi_conform *t, const char *how)
{
    if (!t->what[0]) (void)snprintf(t->what, sizeof t->what, "%s%.150s", how, tiny_ctx_message(t->ctx));
}

/* The reference on absolute values: magnitude[j] for each output. */
static tiny_status tinyi_conform_magnitudes(tinyi_conform *t, unsigned char *const *start, unsigned char **magnitude)
{
    tiny_op op = t->op;
    tiny_tensor in[TINY_OP_MAX_IN], out[TINY_OP_MAX_OUT];
    int i, side;
    for (side = 0; side < 2; side++)
        for (i = 0; i < (side ? t->row->n_out : t->row->n_in); i++) {
            const tinyi_conform_side *s = side ? &t->out[i] : &t->in[i];
            const unsigned char *from = side ? start[i] : s->dense;
            tiny_tensor *to = side ? &out[i] : &in[i];
            tiny_idx k, n = 0;
            size_t es = tiny_dtype_bytes(s->ref.dtype);
            int absolute;
            if (!side && !t->op.in[i]) continue;
            n = tiny_tensor_count(&s->ref);
            absolute = tinyi_conform_is_float(s->ref.dtype) || s->ref.dtype == TINY_I8 ||
                       (s->ref.dtype == TINY_I16 && !side && t->c.fill[i] == TINY_FILL_NORMAL);
            *to = s->ref;
            to->data = tinyi_conform_take(t, (size_t)n * es);
            if (!to->data) return tiny_ctx_status(t->ctx);
            memcpy(to->data, from, (size_t)n * es);
            for (k = 0; absolute && k < n; k++) {
                unsigned char *p = (unsigned char *)to->data + (size_t)k * es;
                double v = tinyi_conform_get(s->ref.dtype, p);
                if (v < 0.0) tinyi_conform_put(s->ref.dtype, p, s->ref.dtype == TINY_I8 && v < -127.0 ? 127.0 : -v);
            }
            if (side) {
                op.out[i] = to;
                magnitude[i] = (unsigned char *)to->data;
            } else op.in[i] = to;
        }
    if (t->c.has_magnitude_params) op.params = t->c.magnitude_params.bytes;
    return tiny_run_reference(t->ctx, &op);
}

/* One run of the candidate over the views; in_place: out[0] lies where in[in_place - 1] lies. */
static void tinyi_conform_candidate(tinyi_conform *t, int in_place, int uploaded, unsigned char *const *start,
                                    unsigned char *const *magnitude, unsigned char *got, int *declined)
{
    const char *how = in_place ? "in place: " : uploaded ? "uploaded: " : "";
    const tiny_accel *a = t->ctx->desc.accel;
    const int stays = a && a->version > 1 && a->fetch && t->c.index & 1; /* every other case: outputs stay first */
    tiny_op op = t->op;
    uint64_t answered, failed, answered_before, failed_before;
    tiny_status st = TINY_OK;
    int i, j, n_up = 0;
    for (i = 0; i < t->row->n_in; i++)
        if (t->op.in[i]) memcpy(t->in[i].before, t->in[i].memory, t->in[i].bytes);
    for (j = 0; j < t->row->n_out; j++) {
        tinyi_conform_side *s = &t->out[j];
        memset(s->memory, t->c.index & 1 ? 0xff : 0xc3, s->bytes);
        if (in_place && j == 0) tinyi_conform_scatter(&s->view, t->in[in_place - 1].dense);
        else if (t->row->flags & TINY_OP_ACCUMULATES) tinyi_conform_scatter(&s->view, start[j]);
        memcpy(s->before, s->memory, s->bytes);
    }
    if (in_place) op.in[in_place - 1] = op.out[0];
    for (i = 0; !st && uploaded && i < t->row->n_in; i++)
        if (op.in[i]) {
            st = tiny_upload(t->ctx, op.in[i]);
            n_up = i + 1;
        }
    tiny_accel_counts(t->ctx, &answered_before, NULL, &failed_before);
    if (stays) tiny_stay(t->ctx, 1);
    if (!st) st = tiny_run(t->ctx, &op);
    if (stays) tiny_stay(t->ctx, 0);
    for (j = 0; !st && stays && j < t->row->n_out; j++) st = tiny_download(t->ctx, op.out[j]);
    tiny_accel_counts(t->ctx, &answered, NULL, &failed);
    for (i = 0; i < n_up; i++)
        if (op.in[i]) (void)tiny_forget(t->ctx, op.in[i]);
    if (st) {
        tinyi_conform_refused(t, how);
        return;
    }
    if (failed != failed_before && !t->what[0])
        (void)snprintf(t->what, sizeof t->what, "%sthe back end took the operation and failed", how);
    if (t->ctx->desc.accel && answered == answered_before && failed == failed_before) *declined = 1;
    for (j = 0; j < t->row->n_out; j++) {
        tinyi_conform_walls(t, how, "out", j, &t->out[j], 1);
        tinyi_conform_gather(got, &t->out[j].view);
        tinyi_conform_compare(t, how, j, got, magnitude[j]);
    }
    for (i = 0; i < t->row->n_in; i++)
        if (op.in[i] == &t->in[i].view) tinyi_conform_walls(t, how, "in", i, &t->in[i], 0);
}

static int tinyi_conform_same_shape(const tiny_tensor *a, const tiny_tensor *b)
{
    int i;
    if (a->dtype != b->dtype || a->rank != b->rank) return 0;
    for (i = 0; i < a->rank; i++) if (a->dim[i] != b->dim[i]) return 0;
    return 1;
}

/* Fills t->what when the case failed. A status other than TINY_OK ends the whole run. What the back end does not want
 * is not computed at all, unless include_declined. */
static tiny_status tinyi_conform_case(tinyi_conform *t, const tiny_conform_desc *desc, int *declined)
{
    const tiny_op_row *row = t->row;
    const tiny_accel *accel = t->ctx->desc.accel;
    tiny_tensor want[TINY_OP_MAX_OUT];
    tiny_op ref_op;
    unsigned char *start[TINY_OP_MAX_OUT], *magnitude[TINY_OP_MAX_OUT], *got;
    size_t most = 0;
    tiny_status st;
    int i, j;
    memset(start, 0, sizeof start);
    memset(magnitude, 0, sizeof magnitude);
    memset(want, 0, sizeof want);
    memset(&t->op, 0, sizeof t->op);
    row->cases(&t->c);
    t->op.kind = row->kind;
    t->op.row = row;
    t->op.params = row->params_size ? t->c.params.bytes : NULL;
    t->special = tinyi_conform_special(&t->c);
    t->common = tinyi_conform_draw_layout(&t->rng);
    t->has_nonfinite = 0;
    for (i = 0; i < row->n_in; i++)
        if (t->c.in[i].rank >= 0) t->op.in[i] = &t->in[i].view;
    for (i = 0; i < row->n_in; i++) {
        tinyi_conform_side *s = &t->in[i];
        tiny_idx n;
        if (!t->op.in[i]) continue;
        s->ref = tiny_tensor_nd(NULL, t->c.in[i].dtype, t->c.in[i].rank, t->c.in[i].dim);
        n = tiny_tensor_count(&s->ref);
        s->dense = (unsigned char *)tinyi_conform_take(t, (size_t)n * tiny_dtype_bytes(s->ref.dtype));
        if (!s->dense) return tiny_ctx_status(t->ctx);
        s->ref.data = s->dense;
        tinyi_conform_fill(t, i);
        st = tinyi_conform_lay(t, s, t->c.dense[i], t->c.fill[i] != TINY_FILL_TABLE);
        if (st) return st;
        tinyi_conform_scatter(&s->view, s->dense);
        tinyi_conform_gather(s->dense, &s->view);       /* a repeated axis has one value of several */
        for (; n > 0 && tinyi_conform_is_float(s->ref.dtype) && !t->has_nonfinite; n--) {
            double v = tinyi_conform_get(s->ref.dtype, s->dense + (size_t)(n - 1) * tiny_dtype_bytes(s->ref.dtype));
            t->has_nonfinite = v - v != 0.0;
        }
    }
    if (tiny_op_shape(t->ctx, &t->op, want)) {
        tinyi_conform_refused(t, "the row rejects its own case: ");
        return TINY_OK;
    }
    ref_op = t->op;
    for (i = 0; i < row->n_in; i++) if (ref_op.in[i]) ref_op.in[i] = &t->in[i].ref;
    for (j = 0; j < row->n_out; j++) {
        tinyi_conform_side *s = &t->out[j];
        tiny_idx k, n;
        size_t es, bytes;
        s->ref = tiny_tensor_nd(NULL, want[j].dtype, want[j].rank, want[j].dim);
        n = tiny_tensor_count(&s->ref);
        es = tiny_dtype_bytes(s->ref.dtype);
        bytes = (size_t)n * es;
        if (bytes > most) most = bytes;
        s->dense = (unsigned char *)tinyi_conform_take(t, bytes);
        start[j] = (unsigned char *)tinyi_conform_take(t, bytes);
        if (!s->dense || !start[j]) return tiny_ctx_status(t->ctx);
        s->ref.data = s->dense;
        for (k = 0; k < n; k++)
            tinyi_conform_put(s->ref.dtype, start[j] + (size_t)k * es, row->flags & TINY_OP_ACCUMULATES ?
                              tinyi_conform_draw(t, s->ref.dtype, TINY_FILL_NORMAL, 0) : 0.0);
        memcpy(s->dense, start[j], bytes);
        st = tinyi_conform_lay(t, s, 0, 0);
        if (st) return st;
        ref_op.out[j] = &s->ref;
        t->op.out[j] = &s->view;
    }
    *declined = accel && !desc->include_declined && !accel->can_run(accel->user, &t->op, row);
    if (*declined) return TINY_OK;
    got = (unsigned char *)tinyi_conform_take(t, most);
    if (!got) return tiny_ctx_status(t->ctx);
    if (tiny_run_reference(t->ctx, &ref_op)) {
        tinyi_conform_refused(t, "the reference rejects the case: ");
        return TINY_OK;
    }
    if (desc->answer) desc->answer(desc->user, row, &ref_op);
    t->limit = row->bound.k + row->bound.k_per_n * (row->terms ? row->terms(&ref_op) : 1.0);
    if (row->bound.kind == TINY_BOUND_LINEAR && (st = tinyi_conform_magnitudes(t, start, magnitude)) != TINY_OK) {
        if (st == TINY_E_MEMORY) return st;
        tinyi_conform_refused(t, "the reference on absolute values: ");
        return TINY_OK;
    }
    tinyi_conform_candidate(t, 0, 0, start, magnitude, got, declined);
    for (i = 0; i < 2 && !t->what[0]; i++)
        if (row->flags & (i ? TINY_OP_INPLACE_1 : TINY_OP_INPLACE) && row->n_in > i && t->op.in[i] &&
            !(row->flags & TINY_OP_ACCUMULATES) && tinyi_conform_same_shape(&t->in[i].ref, &t->out[0].ref))
            tinyi_conform_candidate(t, i + 1, 0, start, magnitude, got, declined);
    if (!t->what[0] && accel && accel->upload && t->c.index % 5 == 4)
        tinyi_conform_candidate(t, 0, 1, start, magnitude, got, declined);
    return TINY_OK;
}

/* FNV-1a: the stream of an operation does not depend on its place in the table */
static uint64_t tinyi_conform_hash(const char *name)
{
    uint64_t h = 14695981039346656037u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h;
}

static void tinyi_conform_note(tinyi_conform *t)
{
    const tiny_accel *accel = t->ctx->desc.accel;
    char shapes[192], one[96];
    size_t n = 0;
    int i;
    t->result.n_failed++;
    if (t->result.first_failure[0]) return;
    shapes[0] = 0;
    for (i = 0; i < t->row->n_in && n < 100; i++)
        if (t->op.in[i])
            n += (size_t)snprintf(shapes + n, 96, "%s%.80s", n ? ", " : "", tinyi_shape_text(&t->in[i].ref, one));
    if (accel)                              /* only the program that brings it can run it again */
        (void)snprintf(
            t->result.first_failure, sizeof t->result.first_failure,
            "kit.op = \"%.40s\", kit.seed = %llu, kit.only_case = %d; back end %.40s, %d threads\n  (%.150s) %.190s",
            t->row->name, (unsigned long long)t->seed, t->c.index + 1, accel->name ? accel->name : "?",
            t->ctx->n_threads, shapes, t->what);
    else
        (void)snprintf(
            t->result.first_failure, sizeof t->result.first_failure,
            "build/conformance --op %.40s --target %.40s --threads %d --seed %llu --case %d\n  (%.150s) %.190s",
            t->row->name, tiny_target_name(t->ctx->target), t->ctx->n_threads, (unsigned long long)t->seed,
            t->c.index + 1, shapes, t->what);
}

static tiny_status tinyi_conform_row(tinyi_conform *t, const tiny_conform_desc *desc, double done, double step)
{
    int i, n = desc->n_cases > 0 ? desc->n_cases : TINYI_CONFORM_CASES;
    char name[96];
    tiny_status st = TINY_OK;
    memset(&t->result, 0, sizeof t->result);
    t->result.row = t->row;
    if (!t->row->cases) return TINY_OK;
    (void)snprintf(name, sizeof name, "conformance: %.64s", t->row->name);
    for (i = 0; !st && i < n; i++) {
        int declined = 0;
        if (desc->only_case && i + 1 != desc->only_case) continue;
        if (t->ctx->desc.progress) t->ctx->desc.progress(t->ctx->desc.user, name, done + step * i / n);
        memset(&t->c, 0, sizeof t->c);
        memset(t->in, 0, sizeof t->in);
        memset(t->out, 0, sizeof t->out);
        t->c.index = i;
        t->c.rng = tiny_rng_make(t->seed, tinyi_conform_hash(t->row->name) + 2 * (uint64_t)i);
        t->rng = tiny_rng_make(t->seed, tinyi_conform_hash(t->row->name) + 2 * (uint64_t)i + 1);
        t->case_ulp = t->case_square = t->case_square_ref = t->case_of_bound = 0.0;
        t->what[0] = 0;
        st = tinyi_conform_case(t, desc, &declined);
        tinyi_conform_release(t);
        if (!st && t->ctx->desc.cancel && t->ctx->desc.cancel(t->ctx->desc.user))
            st = tinyi_fail(t->ctx, TINY_E_CANCELLED, "conformance: the cancel callback asked to stop at %s",
                            t->row->name);
        if (st) break;
        if (declined) t->result.n_declined++;
        if (declined && !desc->include_declined && !t->what[0]) continue;
        t->result.n_cases++;
        if (t->what[0]) tinyi_conform_note(t);
        if (t->case_ulp > t->result.worst_ulp) t->result.worst_ulp = t->case_ulp;
        if (t->case_of_bound > t->result.worst_of_bound) t->result.worst_of_bound = t->case_of_bound;
        if (t->case_square_ref > 0.0 && t->case_square / t->case_square_ref > t->result.worst_nmse)
            t->result.worst_nmse = t->case_square / t->case_square_ref;
    }
    return st;
}

/* the i-th row of the walk; NULL past the end */
static const tiny_op_row *tinyi_conform_row_at(const tiny_ctx *ctx, const tiny_conform_desc *d, size_t i)
{
    return d->rows ? d->rows[i] : tinyi_op_row_at(ctx->wings, i);
}

TINY_API tiny_status tiny_conform(tiny_ctx *ctx, const tiny_conform_desc *desc, int *n_failed)
{
    tiny_conform_desc d;
    tinyi_conform *t;
    size_t i, n_rows = 0;
    int known = 0;
    tiny_status st = tinyi_ctx_check(ctx);
    if (n_failed) *n_failed = 0;
    if (st) return st;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    for (; tinyi_conform_row_at(ctx, &d, n_rows); n_rows++)
        known |= d.op && !strcmp(d.op, tinyi_conform_row_at(ctx, &d, n_rows)->name);
    if (d.op && !known) return tinyi_fail(ctx, TINY_E_ARGUMENT, "conformance: there is no operation named %.64s", d.op);
    if (!n_failed || d.n_cases < 0 || d.only_case < 0)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "conformance: n_failed must not be NULL, and numbers of cases must not be negative");
    if (d.only_case > 0 && d.n_cases < d.only_case) d.n_cases = d.only_case;
    t = (tinyi_conform *)tiny_alloc(ctx, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    t->seed = d.seed;
    for (i = 0; !st && i < n_rows; i++) {
        t->row = tinyi_conform_row_at(ctx, &d, i);
        if (d.op && strcmp(d.op, t->row->name)) continue;
        st = tinyi_conform_row(t, &d, (double)i / (double)n_rows, 1.0 / (double)n_rows);
        *n_failed += t->result.n_failed;
        if (!st && d.row) d.row(d.user, &t->result);
    }
    tiny_free(ctx, t);
    return st;
}

TINY_REF_END
