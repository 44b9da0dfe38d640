/* src/math/gla.simd.h - the steps of a gated state, and the scores of neighbours (math/gla.h tells what they compute)
 *
 * A step goes down the rows of S four vectors of columns at a time: the four pieces of v and of o stay in registers, S
 * is read and written once. A gate of exactly 0 writes without reading, so that what was infinite is gone. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_gla_four)(float *s, tiny_idx ld, const float *e, const float *k, const float *v,
                                                const float *q, float *o, tiny_idx n_key)
{
    const v_f32 v0 = v_load(v), v1 = v_load(v + V_LANES), v2 = v_load(v + 2 * V_LANES), v3 = v_load(v + 3 * V_LANES);
    v_f32 o0 = v_zero(), o1 = v_zero(), o2 = v_zero(), o3 = v_zero();
    tiny_idx d;
    for (d = 0; d < n_key; d++, s += ld) {
        const v_f32 kd = v_set(k[d]), qd = v_set(q[d]), ed = v_set(e[d]);
        v_f32 s0 = v_mul(kd, v0), s1 = v_mul(kd, v1), s2 = v_mul(kd, v2), s3 = v_mul(kd, v3);
        if (e[d] != 0.0f) {
            s0 = v_fma(ed, v_load(s), s0);
            s1 = v_fma(ed, v_load(s + V_LANES), s1);
            s2 = v_fma(ed, v_load(s + 2 * V_LANES), s2);
            s3 = v_fma(ed, v_load(s + 3 * V_LANES), s3);
        }
        v_store(s, s0);
        v_store(s + V_LANES, s1);
        v_store(s + 2 * V_LANES, s2);
        v_store(s + 3 * V_LANES, s3);
        o0 = v_fma(qd, s0, o0);
        o1 = v_fma(qd, s1, o1);
        o2 = v_fma(qd, s2, o2);
        o3 = v_fma(qd, s3, o3);
    }
    v_store(o, o0);
    v_store(o + V_LANES, o1);
    v_store(o + 2 * V_LANES, o2);
    v_store(o + 3 * V_LANES, o3);
}
static void TINY_FN(tinyi_gla_step_f32)(float *s, tiny_idx ld, const float *e, const float *k, const float *v,
                                        const float *q, float *o, tiny_idx n_key, tiny_idx n_value)
{
    tiny_idx j = 0, d;
    for (; j + 4 * V_LANES <= n_value; j += 4 * V_LANES)
        TINY_FN(tinyi_gla_four)(s + j, ld, e, k, v + j, q, o + j, n_key);
    for (; j < n_value; j += V_LANES) {
        const size_t n = (size_t)TINYI_MIN(n_value - j, V_LANES);
        const v_f32 vj = v_load_n(v + j, n);
        v_f32 sum = v_zero();
        float *row = s + j;
        for (d = 0; d < n_key; d++, row += ld) {
            v_f32 x = v_mul(v_set(k[d]), vj);
            if (e[d] != 0.0f) x = v_fma(v_set(e[d]), v_load_n(row, n), x);
            v_store_n(row, x, n);
            sum = v_fma(v_set(q[d]), x, sum);
        }
        v_store_n(o + j, sum, n);
    }
}

static void TINY_FN(tinyi_gla_query_f32)(float *s, tiny_idx ld, const float *e, const float *k, const float *v,
                                         const float *d_o, float *dq, tiny_idx n_key, tiny_idx n_value)
{
    tiny_idx d, j;
    for (d = 0; d < n_key; d++, s += ld) {
        const v_f32 kd = v_set(k[d]), ed = v_set(e[d]);
        const int holds = e[d] != 0.0f;
        v_f32 sum = v_zero(), sum1 = v_zero();
        for (j = 0; j + 2 * V_LANES <= n_value; j += 2 * V_LANES) {
            v_f32 x = v_mul(kd, v_load(v + j)), y = v_mul(kd, v_load(v + j + V_LANES));
            if (holds) {
                x = v_fma(ed, v_load(s + j), x);
                y = v_fma(ed, v_load(s + j + V_LANES), y);
            }
            v_store(s + j, x);
            v_store(s + j + V_LANES, y);
            sum = v_fma(x, v_load(d_o + j), sum);
            sum1 = v_fma(y, v_load(d_o + j + V_LANES), sum1);
        }
        for (; j < n_value; j += V_LANES) {
            const size_t n = (size_t)TINYI_MIN(n_value - j, V_LANES);
            v_f32 x = v_mul(kd, v_load_n(v + j, n));
            if (holds) x = v_fma(ed, v_load_n(s + j, n), x);
            v_store_n(s + j, x, n);
            sum = v_fma(x, v_load_n(d_o + j, n), sum);
        }
        dq[d] = v_sum(v_add(sum, sum1));
    }
}

static void TINY_FN(tinyi_gla_back_f32)(float *s, tiny_idx ld, const float *e, const float *q, const float *d_o,
                                        const float *k, const float *v, const float *before, float *dk, float *dv,
                                        float *dg, tiny_idx n_key, tiny_idx n_value)
{
    tiny_idx d, j;
    for (j = 0; j < n_value; j++) dv[j] = 0.0f;
    for (d = 0; d < n_key; d++, s += ld, before += n_value) {
        const v_f32 qd = v_set(q[d]), kd = v_set(k[d]), ed = v_set(e[d]);
        const int holds = e[d] != 0.0f;
        v_f32 sum = v_zero(), met = v_zero();
        for (j = 0; j < n_value; j += V_LANES) {
            const size_t n = (size_t)TINYI_MIN(n_value - j, V_LANES);
            if (n == V_LANES) {
                const v_f32 x = v_fma(qd, v_load(d_o + j), v_load(s + j));
                sum = v_fma(x, v_load(v + j), sum);
                met = v_fma(x, v_load(before + j), met);
                v_store(dv + j, v_fma(kd, x, v_load(dv + j)));
                v_store(s + j, holds ? v_mul(ed, x) : v_zero());
            } else {
                const v_f32 x = v_fma(qd, v_load_n(d_o + j, n), v_load_n(s + j, n));
                sum = v_fma(x, v_load_n(v + j, n), sum);
                met = v_fma(x, v_load_n(before + j, n), met);
                v_store_n(dv + j, v_fma(kd, x, v_load_n(dv + j, n)), n);
                v_store_n(s + j, holds ? v_mul(ed, x) : v_zero(), n);
            }
        }
        dk[d] = v_sum(sum);
        dg[d] = holds ? e[d] * v_sum(met) : 0.0f;
    }
}

/* a product of gates; denormal ones are slow, and say no more than 0 does */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_gla_times)(v_f32 a, v_f32 e)
{
    const v_f32 x = v_mul(a, e);
    return v_select(v_lt(x, v_set(1.17549435e-38f)), v_zero(), x);
}
static void TINY_FN(tinyi_gla_span_f32)(float *qd, float *kd, float *left, const float *q, const float *k,
                                        const float *e, int n, tiny_idx n_key)
{
    tiny_idx d = 0;
    int t;
    for (; d + V_LANES <= n_key; d += V_LANES) {
        v_f32 x = v_set(1.0f);
        for (t = 0; t < n; t++) {
            x = TINY_FN(tinyi_gla_times)(x, v_load(e + t * n_key + d));
            v_store(qd + t * n_key + d, v_mul(x, v_load(q + t * n_key + d)));
        }
        v_store(left + d, x);
        x = v_set(1.0f);
        for (t = n; t-- > 0;) {
            v_store(kd + t * n_key + d, v_mul(x, v_load(k + t * n_key + d)));
            x = TINY_FN(tinyi_gla_times)(x, v_load(e + t * n_key + d));
        }
    }
    if (d < n_key) {                        /* the last channels: stores of a part of a vector are slow */
        const size_t m = (size_t)(n_key - d);
        v_f32 x = v_set(1.0f);
        for (t = 0; t < n; t++) {
            x = TINY_FN(tinyi_gla_times)(x, v_load_n(e + t * n_key + d, m));
            v_store_n(qd + t * n_key + d, v_mul(x, v_load_n(q + t * n_key + d, m)), m);
        }
        v_store_n(left + d, x, m);
        x = v_set(1.0f);
        for (t = n; t-- > 0;) {
            v_store_n(kd + t * n_key + d, v_mul(x, v_load_n(k + t * n_key + d, m)), m);
            x = TINY_FN(tinyi_gla_times)(x, v_load_n(e + t * n_key + d, m));
        }
    }
}

/* no number above 0, and no NaN */
static int TINY_FN(tinyi_gla_gates_f32)(const float *g, tiny_idx n)
{
    v_mask fine = v_le(v_zero(), v_zero());
    tiny_idx i;
    for (i = 0; i + V_LANES <= n; i += V_LANES) fine = vm_and(fine, v_le(v_load(g + i), v_zero()));
    if (i < n) fine = vm_and(fine, v_le(v_load_n(g + i, (size_t)(n - i)), v_zero()));
    return vm_all(fine);
}

/* r = k[u] e[u + 1] .. e[t], grown as t goes up: a product of numbers that are at most 1, never a quotient of
 * exponentials.
 * Four vectors of channels at a time, added over the groups. */
static void TINY_FN(tinyi_gla_near_f32)(float *a, tiny_idx ld, const float *q, const float *k, const float *e, int n,
                                        tiny_idx n_key)
{
    tiny_idx d;
    int u, t;
    for (u = 0; u < n; u++)
        for (t = 0; t < n; t++) a[u * ld + t] = 0.0f;
    for (d = 0; d < n_key;) {
        if (n_key - d >= 4 * V_LANES) {
            for (u = 0; u < n; u++) {
                const float *p = k + u * n_key + d;
                v_f32 r0 = v_load(p), r1 = v_load(p + V_LANES), r2 = v_load(p + 2 * V_LANES),
                      r3 = v_load(p + 3 * V_LANES);
                for (t = u; t < n; t++) {
                    const float *x = q + t * n_key + d, *y = e + t * n_key + d;
                    v_f32 s0, s1;
                    if (t > u) {
                        r0 = v_mul(r0, v_load(y));
                        r1 = v_mul(r1, v_load(y + V_LANES));
                        r2 = v_mul(r2, v_load(y + 2 * V_LANES));
                        r3 = v_mul(r3, v_load(y + 3 * V_LANES));
                    }
                    s0 = v_fma(r2, v_load(x + 2 * V_LANES), v_mul(r0, v_load(x)));
                    s1 = v_fma(r3, v_load(x + 3 * V_LANES), v_mul(r1, v_load(x + V_LANES)));
                    a[u * ld + t] += v_sum(v_add(s0, s1));
                }
            }
            d += 4 * V_LANES;
        } else {
            const size_t m = (size_t)TINYI_MIN(n_key - d, V_LANES);
            for (u = 0; u < n; u++) {
                v_f32 r = v_load_n(k + u * n_key + d, m);
                for (t = u; t < n; t++) {
                    if (t > u) r = v_mul(r, v_load_n(e + t * n_key + d, m));
                    a[u * ld + t] += v_sum(v_mul(r, v_load_n(q + t * n_key + d, m)));
                }
            }
            d += (tiny_idx)m;
        }
    }
}

static void TINY_FN(tinyi_use_gla)(tinyi_kernels *k)
{
    TINYI_USE(k, gla_step_f32);
    TINYI_USE(k, gla_query_f32);
    TINYI_USE(k, gla_back_f32);
    TINYI_USE(k, gla_span_f32);
    TINYI_USE(k, gla_near_f32);
    TINYI_USE(k, gla_gates_f32);
}
