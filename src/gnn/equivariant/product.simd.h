/* src/gnn/equivariant/product.simd.h - products of features; see product_inside.h */
#include "gnn/equivariant/product_inside.h"

/* A row is summed over a part of its lanes at a time, held in four registers: of wide vectors two for even and two for
 * odd terms, since one sum waits for its last fma. */
#if V_AVX512
#define TINYI_PC_PART (2 * V_LANES)
#else
#define TINYI_PC_PART (4 * V_LANES)
#endif

TINYI_FORCE_INLINE void TINY_FN(tinyi_pc_row)(float *regs, const int32_t *row, const int32_t *term, const float *coef,
                                              size_t at)
{
    float *to = regs + (size_t)row[0] * TINYI_PRODUCT_LANES + at;
    const float *from = regs + at;
    const int32_t end = row[3];
    const int form = row[1] & (TINYI_PC_PAIRS | TINYI_PC_ONES);
    int32_t t = row[2];
    v_f32 s0 = v_zero(), s1 = v_zero(), s2 = v_zero(), s3 = v_zero();
#define TINYI_PC_REG(i) (from + (size_t)term[2 * t + (i)] * TINYI_PRODUCT_LANES)
#if V_AVX512
    if (row[1] & TINYI_PC_ADD) {
        s0 = v_load(to);
        s1 = v_load(to + V_LANES);
    }
    if (form == TINYI_PC_PAIRS) {
        for (; t < end; t++) {
            const float *a = TINYI_PC_REG(0), *b = TINYI_PC_REG(1);
            const v_f32 c = v_set(coef[t]);
            s0 = v_fma(v_mul(c, v_load(a)), v_load(b), s0);
            s1 = v_fma(v_mul(c, v_load(a + V_LANES)), v_load(b + V_LANES), s1);
        }
    } else if (form == (TINYI_PC_PAIRS | TINYI_PC_ONES)) {
        for (; t + 1 < end; t++) {
            const float *a = TINYI_PC_REG(0), *b = TINYI_PC_REG(1), *d, *e;
            s0 = v_fma(v_load(a), v_load(b), s0);
            s1 = v_fma(v_load(a + V_LANES), v_load(b + V_LANES), s1);
            t++;
            d = TINYI_PC_REG(0);
            e = TINYI_PC_REG(1);
            s2 = v_fma(v_load(d), v_load(e), s2);
            s3 = v_fma(v_load(d + V_LANES), v_load(e + V_LANES), s3);
        }
        if (t < end) {
            const float *a = TINYI_PC_REG(0), *b = TINYI_PC_REG(1);
            s0 = v_fma(v_load(a), v_load(b), s0);
            s1 = v_fma(v_load(a + V_LANES), v_load(b + V_LANES), s1);
        }
    } else {
        for (; t + 1 < end; t++) {
            const float *a = TINYI_PC_REG(0), *b;
            v_f32 c = v_set(coef[t]);
            s0 = v_fma(c, v_load(a), s0);
            s1 = v_fma(c, v_load(a + V_LANES), s1);
            c = v_set(coef[++t]);
            b = TINYI_PC_REG(0);
            s2 = v_fma(c, v_load(b), s2);
            s3 = v_fma(c, v_load(b + V_LANES), s3);
        }
        if (t < end) {
            const float *a = TINYI_PC_REG(0);
            const v_f32 c = v_set(coef[t]);
            s0 = v_fma(c, v_load(a), s0);
            s1 = v_fma(c, v_load(a + V_LANES), s1);
        }
    }
    v_store(to, v_add(s0, s2));
    v_store(to + V_LANES, v_add(s1, s3));
#else
    if (row[1] & TINYI_PC_ADD) {
        s0 = v_load(to);
        s1 = v_load(to + V_LANES);
        s2 = v_load(to + 2 * V_LANES);
        s3 = v_load(to + 3 * V_LANES);
    }
    if (form == TINYI_PC_PAIRS) {
        for (; t < end; t++) {
            const float *a = TINYI_PC_REG(0), *b = TINYI_PC_REG(1);
            const v_f32 c = v_set(coef[t]);
            s0 = v_fma(v_mul(c, v_load(a)), v_load(b), s0);
            s1 = v_fma(v_mul(c, v_load(a + V_LANES)), v_load(b + V_LANES), s1);
            s2 = v_fma(v_mul(c, v_load(a + 2 * V_LANES)), v_load(b + 2 * V_LANES), s2);
            s3 = v_fma(v_mul(c, v_load(a + 3 * V_LANES)), v_load(b + 3 * V_LANES), s3);
        }
    } else if (form == (TINYI_PC_PAIRS | TINYI_PC_ONES)) {
        for (; t < end; t++) {
            const float *a = TINYI_PC_REG(0), *b = TINYI_PC_REG(1);
            s0 = v_fma(v_load(a), v_load(b), s0);
            s1 = v_fma(v_load(a + V_LANES), v_load(b + V_LANES), s1);
            s2 = v_fma(v_load(a + 2 * V_LANES), v_load(b + 2 * V_LANES), s2);
            s3 = v_fma(v_load(a + 3 * V_LANES), v_load(b + 3 * V_LANES), s3);
        }
    } else {
        for (; t < end; t++) {
            const float *a = TINYI_PC_REG(0);
            const v_f32 c = v_set(coef[t]);
            s0 = v_fma(c, v_load(a), s0);
            s1 = v_fma(c, v_load(a + V_LANES), s1);
            s2 = v_fma(c, v_load(a + 2 * V_LANES), s2);
            s3 = v_fma(c, v_load(a + 3 * V_LANES), s3);
        }
    }
    v_store(to, s0);
    v_store(to + V_LANES, s1);
    v_store(to + 2 * V_LANES, s2);
    v_store(to + 3 * V_LANES, s3);
#endif
#undef TINYI_PC_REG
}

static void TINY_FN(tinyi_pc_run)(float *regs, const int32_t *row, size_t n_rows, const int32_t *term,
                                  const float *coef)
{
    size_t r, at;
    for (r = 0; r < n_rows; r++, row += 4)
        for (at = 0; at < TINYI_PRODUCT_LANES; at += TINYI_PC_PART) TINY_FN(tinyi_pc_row)(regs, row, term, coef, at);
}

/* ---- weighted paths. v_load(x + k * V_LANES) is number k of V_LANES samples */

/* Copies v of the second input and w of the result that go with copy u: a range each. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tp_range)(const tinyi_tp_path *p, int32_t u, int32_t *v0, int32_t *v1)
{
    const int same = p->mode == TGNN_PATH_UUW || p->mode == TGNN_PATH_UUU;
    *v0 = same ? u : 0;
    *v1 = same ? u + 1 : p->mul2;
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tp_results)(const tinyi_tp_path *p, int32_t u, int32_t v, int32_t *w0,
                                                  int32_t *w1)
{
    if (p->mode == TGNN_PATH_UVW || p->mode == TGNN_PATH_UUW) {
        *w0 = 0;
        *w1 = p->mul3;
    } else {
        *w0 = p->mode == TGNN_PATH_UVV ? v : u;
        *w1 = *w0 + 1;
    }
}
/* the weight of u, v, w: weights stand in the order of the letters that differ */
TINYI_FORCE_INLINE size_t TINY_FN(tinyi_tp_weight)(const tinyi_tp_path *p, int32_t u, int32_t v, int32_t w)
{
    const size_t at = (size_t)p->weight, a = (size_t)u, b = (size_t)v, c = (size_t)w;
    switch (p->mode) {
    case TGNN_PATH_UVW: return at + (a * (size_t)p->mul2 + b) * (size_t)p->mul3 + c;
    case TGNN_PATH_UUW: return at + a * (size_t)p->mul3 + c;
    case TGNN_PATH_UUU: return at + a;
    default: return at + a * (size_t)p->mul2 + b;
    }
}

static void TINY_FN(tinyi_tp_side)(const tinyi_tp_path *p, const int32_t *entry, const float *value, float *out,
                                   const float *x, const float *y, const float *w, int shared, float *t)
{
    const int32_t n3 = 2 * p->l3 + 1, xs = p->last ? p->mul1 : 1, ys = p->last ? p->mul2 : 1,
                  os = p->last ? p->mul3 : 1;
    const int32_t xu = p->last ? 1 : 2 * p->l1 + 1, yv = p->last ? 1 : 2 * p->l2 + 1, ow = p->last ? 1 : n3;
    int32_t u, v, v1, c, c1, k, e;
    for (u = 0; u < p->mul1; u++)
        for (TINY_FN(tinyi_tp_range)(p, u, &v, &v1); v < v1; v++) {
            const float *a = x + (size_t)(p->off1 + u * xu) * V_LANES, *b = y + (size_t)(p->off2 + v * yv) * V_LANES;
            e = p->first;
            for (k = 0; k < n3; k++) {      /* entries are in the order of k */
                v_f32 s = v_zero();
                for (; e < p->end && entry[3 * e + 2] == k; e++)
                    s = v_fma(v_mul(v_set(value[e]), v_load(a + (size_t)(entry[3 * e] * xs) * V_LANES)),
                              v_load(b + (size_t)(entry[3 * e + 1] * ys) * V_LANES), s);
                v_store(t + (size_t)k * V_LANES, s);
            }
            for (TINY_FN(tinyi_tp_results)(p, u, v, &c, &c1); c < c1; c++) {
                float *to = out + (size_t)(p->off3 + c * ow) * V_LANES;
                v_f32 by = v_set(1.0f);
                if (p->weight >= 0) {
                    const size_t at = TINY_FN(tinyi_tp_weight)(p, u, v, c);
                    by = shared ? v_set(w[at]) : v_load(w + at * V_LANES);
                }
                for (k = 0; k < n3; k++) {
                    float *o = to + (size_t)(k * os) * V_LANES;
                    v_store(o, v_fma(by, v_load(t + (size_t)k * V_LANES), v_load(o)));
                }
            }
        }
}

static void TINY_FN(tinyi_tp_back)(const tinyi_tp_path *p, const int32_t *entry, const float *value, const float *x,
                                   const float *y, const float *w, const float *g, int shared, float *dx, float *dy,
                                   float *dw, float *t)
{
    const int32_t n3 = 2 * p->l3 + 1, xs = p->last ? p->mul1 : 1, ys = p->last ? p->mul2 : 1,
                  os = p->last ? p->mul3 : 1;
    const int32_t xu = p->last ? 1 : 2 * p->l1 + 1, yv = p->last ? 1 : 2 * p->l2 + 1, ow = p->last ? 1 : n3;
    float *s = t + (size_t)n3 * V_LANES;
    int32_t u, v, v1, c, c1, k, e;
    for (u = 0; u < p->mul1; u++)
        for (TINY_FN(tinyi_tp_range)(p, u, &v, &v1); v < v1; v++) {
            const size_t x_at = (size_t)(p->off1 + u * xu) * V_LANES, y_at = (size_t)(p->off2 + v * yv) * V_LANES;
            e = p->first;
            for (k = 0; k < n3; k++) {
                v_f32 sum = v_zero();
                for (; e < p->end && entry[3 * e + 2] == k; e++)
                    sum = v_fma(v_mul(v_set(value[e]), v_load(x + x_at + (size_t)(entry[3 * e] * xs) * V_LANES)),
                                v_load(y + y_at + (size_t)(entry[3 * e + 1] * ys) * V_LANES), sum);
                v_store(t + (size_t)k * V_LANES, sum);
                v_store(s + (size_t)k * V_LANES, v_zero());
            }
            for (TINY_FN(tinyi_tp_results)(p, u, v, &c, &c1); c < c1; c++) {
                const float *from = g + (size_t)(p->off3 + c * ow) * V_LANES;
                v_f32 by = v_set(1.0f), sum = v_zero();
                size_t at = 0;
                if (p->weight >= 0) {
                    at = TINY_FN(tinyi_tp_weight)(p, u, v, c);
                    by = shared ? v_set(w[at]) : v_load(w + at * V_LANES);
                }
                for (k = 0; k < n3; k++) {
                    const v_f32 gk = v_load(from + (size_t)(k * os) * V_LANES);
                    sum = v_fma(gk, v_load(t + (size_t)k * V_LANES), sum);
                    v_store(s + (size_t)k * V_LANES, v_fma(by, gk, v_load(s + (size_t)k * V_LANES)));
                }
                if (p->weight < 0) continue;
                if (shared) dw[at] += v_sum(sum);
                else v_store(dw + at * V_LANES, v_add(v_load(dw + at * V_LANES), sum));
            }
            for (e = p->first; e < p->end; e++) {
                const size_t i = x_at + (size_t)(entry[3 * e] * xs) * V_LANES,
                             j = y_at + (size_t)(entry[3 * e + 1] * ys) * V_LANES;
                const v_f32 by = v_mul(v_set(value[e]), v_load(s + (size_t)entry[3 * e + 2] * V_LANES));
                v_store(dx + i, v_fma(by, v_load(y + j), v_load(dx + i)));
                v_store(dy + j, v_fma(by, v_load(x + i), v_load(dy + j)));
            }
        }
}

/* channels from u on, all that a vector or its beginning (n) holds */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tp_fold_some)(float *out, const float *x, const float *w, const float *t, int n1,
                                                    int n3, size_t mul)
{
    const v_f32 by = w ? v_load(w) : v_set(1.0f);
    int i, k;
    for (k = 0; k < n3; k++) {
        float *o = out + (size_t)k * mul;
        v_f32 s = v_zero();
        for (i = 0; i < n1; i++) s = v_fma(v_set(t[k * n1 + i]), v_load(x + (size_t)i * mul), s);
        v_store(o, v_fma(by, s, v_load(o)));
    }
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tp_fold_rest)(float *out, const float *x, const float *w, const float *t, int n1,
                                                    int n3, size_t mul, size_t n)
{
    const v_f32 by = w ? v_load_n(w, n) : v_set(1.0f);
    int i, k;
    for (k = 0; k < n3; k++) {
        float *o = out + (size_t)k * mul;
        v_f32 s = v_zero();
        for (i = 0; i < n1; i++) s = v_fma(v_set(t[k * n1 + i]), v_load_n(x + (size_t)i * mul, n), s);
        v_store_n(o, v_fma(by, s, v_load_n(o, n)), n);
    }
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tp_fold_two)(float *out, const float *x, const float *w, const float *t, int n1,
                                                   int n3, size_t mul)
{
    const v_f32 by = w ? v_load(w) : v_set(1.0f), by1 = w ? v_load(w + V_LANES) : v_set(1.0f);
    int i, k;
    for (k = 0; k < n3; k++) {
        float *o = out + (size_t)k * mul;
        v_f32 s = v_zero(), s1 = v_zero();
        for (i = 0; i < n1; i++) {
            const v_f32 f = v_set(t[k * n1 + i]);
            s = v_fma(f, v_load(x + (size_t)i * mul), s);
            s1 = v_fma(f, v_load(x + (size_t)i * mul + V_LANES), s1);
        }
        v_store(o, v_fma(by, s, v_load(o)));
        v_store(o + V_LANES, v_fma(by1, s1, v_load(o + V_LANES)));
    }
}

static void TINY_FN(tinyi_tp_fold)(float *out, const float *x, const float *w, const float *t, int n1, int n3,
                                   size_t mul)
{
    size_t u = 0;
    for (; u + 2 * V_LANES <= mul; u += 2 * V_LANES)
        TINY_FN(tinyi_tp_fold_two)(out + u, x + u, w ? w + u : NULL, t, n1, n3, mul);
    for (; u + V_LANES <= mul; u += V_LANES)
        TINY_FN(tinyi_tp_fold_some)(out + u, x + u, w ? w + u : NULL, t, n1, n3, mul);
    if (u < mul) TINY_FN(tinyi_tp_fold_rest)(out + u, x + u, w ? w + u : NULL, t, n1, n3, mul, mul - u);
}

static void TINY_FN(tinyi_tp_sums)(float *out, const float *block, size_t n)
{
    size_t k;
    for (k = 0; k < n; k++) out[k] += v_sum(v_load(block + k * V_LANES));
}

static void TINY_FN(tinyi_tp_matrix)(float *t, const int32_t *entry, const float *value, size_t n, size_t n1,
                                     const float *y)
{
    size_t e = 0;
    while (e < n) {
        const int32_t i = entry[3 * e], k = entry[3 * e + 2];
        v_f32 s = v_zero();
        for (; e < n && entry[3 * e] == i && entry[3 * e + 2] == k; e++)
            s = v_fma(v_set(value[e]), v_load(y + (size_t)entry[3 * e + 1] * V_LANES), s);
        v_store(t + ((size_t)k * n1 + (size_t)i) * V_LANES, s);
    }
}

TINYI_FORCE_INLINE void TINY_FN(tinyi_tp_mix_out)(float *out, v_f32 a, v_f32 b, const float *by, const float *w)
{
    if (by) {
        a = v_mul(a, v_set(*by));
        b = v_mul(b, v_set(*by));
    }
    v_store(out, w ? v_mul(a, v_load(w)) : a);
    v_store(out + V_LANES, w ? v_mul(b, v_load(w + V_LANES)) : b);
}

/* two vectors of channels: rows four at a time share what they load of x, in eight sums */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tp_mix_two)(float *out, size_t os, const float *t, size_t n_out, size_t n_in,
                                                  const float *x, size_t xs, const float *by, const float *w)
{
    size_t k = 0, i;
    for (; k + 4 <= n_out; k += 4) {
        const float *f0 = t + k * n_in, *f1 = f0 + n_in, *f2 = f1 + n_in, *f3 = f2 + n_in;
        v_f32 a0 = v_zero(), a1 = v_zero(), b0 = v_zero(), b1 = v_zero(), c0 = v_zero(), c1 = v_zero(), d0 = v_zero(),
              d1 = v_zero();
        for (i = 0; i < n_in; i++) {
            const v_f32 x0 = v_load(x + i * xs), x1 = v_load(x + i * xs + V_LANES);
            v_f32 f = v_set(f0[i]);
            a0 = v_fma(f, x0, a0);
            a1 = v_fma(f, x1, a1);
            f = v_set(f1[i]);
            b0 = v_fma(f, x0, b0);
            b1 = v_fma(f, x1, b1);
            f = v_set(f2[i]);
            c0 = v_fma(f, x0, c0);
            c1 = v_fma(f, x1, c1);
            f = v_set(f3[i]);
            d0 = v_fma(f, x0, d0);
            d1 = v_fma(f, x1, d1);
        }
        TINY_FN(tinyi_tp_mix_out)(out + k * os, a0, a1, by ? by + k : NULL, w);
        TINY_FN(tinyi_tp_mix_out)(out + (k + 1) * os, b0, b1, by ? by + k + 1 : NULL, w);
        TINY_FN(tinyi_tp_mix_out)(out + (k + 2) * os, c0, c1, by ? by + k + 2 : NULL, w);
        TINY_FN(tinyi_tp_mix_out)(out + (k + 3) * os, d0, d1, by ? by + k + 3 : NULL, w);
    }
    for (; k < n_out; k++) {
        v_f32 a0 = v_zero(), a1 = v_zero();
        for (i = 0; i < n_in; i++) {
            const v_f32 f = v_set(t[k * n_in + i]);
            a0 = v_fma(f, v_load(x + i * xs), a0);
            a1 = v_fma(f, v_load(x + i * xs + V_LANES), a1);
        }
        TINY_FN(tinyi_tp_mix_out)(out + k * os, a0, a1, by ? by + k : NULL, w);
    }
}

/* up to one vector of channels */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tp_mix_rest)(float *out, size_t os, const float *t, size_t n_out, size_t n_in,
                                                   const float *x, size_t xs, size_t n, const float *by, const float *w)
{
    size_t k, i;
    for (k = 0; k < n_out; k++) {
        v_f32 a = v_zero();
        for (i = 0; i < n_in; i++) a = v_fma(v_set(t[k * n_in + i]), v_load_n(x + i * xs, n), a);
        if (by) a = v_mul(a, v_set(by[k]));
        if (w) a = v_mul(a, v_load_n(w, n));
        v_store_n(out + k * os, a, n);
    }
}

static void TINY_FN(tinyi_tp_mix)(float *out, size_t os, const float *t, size_t n_out, size_t n_in, const float *x,
                                  size_t xs, size_t n, const float *by, const float *w)
{
    size_t u = 0;
    for (; u + 2 * V_LANES <= n; u += 2 * V_LANES)
        TINY_FN(tinyi_tp_mix_two)(out + u, os, t, n_out, n_in, x + u, xs, by, w ? w + u : NULL);
    for (; u < n; u += V_LANES)
        TINY_FN(tinyi_tp_mix_rest)(out + u, os, t, n_out, n_in, x + u, xs, n - u < V_LANES ? n - u : V_LANES, by,
                                   w ? w + u : NULL);
}

static const tinyi_product_kernels TINY_FN(tinyi_product_table) = {
    TINYI_PASS_TARGET, V_LANES, TINY_FN(tinyi_pc_run), TINY_FN(tinyi_tp_side), TINY_FN(tinyi_tp_back),
    TINY_FN(tinyi_tp_fold), TINY_FN(tinyi_tp_sums), TINY_FN(tinyi_tp_matrix), TINY_FN(tinyi_tp_mix)
};
TINYI_TABLE(tinyi_product_kernels, tinyi_product_kernels, TINY_FN(tinyi_product_table))
#undef TINYI_PC_PART
