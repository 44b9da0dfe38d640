/* src/math/attention.simd.h - the steps of a tile: rows of queries against up to TINYI_ATT_KEYS keys
 *
 * Scores lie turned round, s[c][j] for key c and row j, ld numbers apart: so keys and values are read as they lie, a
 * lane of a vector is a row, the maximum and the sum of a row need no sum across lanes, and six or twelve rows of one
 * key stand side by side for the product with the values. The registers are those of the f32 product
 * (math/gemm_f32.simd.h): six keys by two vectors of rows for the scores, six rows by two vectors of numbers for the
 * values; twelve where there are 32. */

/* s[c][j] = sum_i k[c][i] q[i][j], rows j0 <= j < j1; q (d, ldq). Whole vectors are written: ld and ldq have room for
 * TINYI_ATT_PAD rows more. */
static void TINY_FN(tinyi_attention_scores_f32)(float *s, tiny_idx ld, const float *k, tiny_idx ldk, int n,
                                                const float *q, tiny_idx ldq, int j0, int j1, tiny_idx d)
{
    int c, j;
    for (j = j0; j < j1; j += TINYI_GEMM_NR)
        for (c = 0; c < n; c += TINYI_GEMM_MR)
            TINY_FN(tinyi_gemm_f32_rows)
            (s + c * ld + j, ld, k + c * ldk, ldk, q + j, ldq, (size_t)d, TINYI_MIN(n - c, TINYI_GEMM_MR),
             TINYI_GEMM_NR, 0);
}

static void TINY_FN(tinyi_attention_cap_f32)(float *s, tiny_idx ld, int n, int j0, int j1, float cap)
{
    const v_f32 c = v_set(cap), inv = v_set(1.0f / cap);
    int i, j;
    if (ld < V_LANES) {                     /* as one row */
        j1 = n * (int)ld;
        n = 1;
    }
    for (i = 0; i < n; i++, s += ld)
        for (j = j0; j < j1; j += V_LANES) v_store(s + j, v_mul(c, v_tanh(v_mul(v_load(s + j), inv))));
}

/* e^x of x <= 0, 0 below e^-87: one factor 2^n is enough then */
#if V_SCALAR
static TINYI_NOINLINE
#else
TINYI_FORCE_INLINE
#endif
v_f32 TINY_FN(tinyi_attention_exp)(v_f32 x)
{
    const v_mask low = v_lt(x, v_set(-87.0f));
    const v_f32 y = v_max(v_set(-87.0f), x), t = v_fma(y, v_set(1.44269502f), v_set(12582912.0f)),
                n = v_sub(t, v_set(12582912.0f));
    const v_f32 p = TINY_FN(tinyi_elem_exp_near)(TINY_FN(tinyi_elem_exp_reduce)(y, n));
    return v_select(low, v_zero(), v_float(vi_add(v_bits(p), vi_shl(v_bits(t), 23))));
}

/* The same where several keys of few rows make a vector: a lane is a row still, ld lanes further it is so again; ld is
 * a power of two. */
static void TINY_FN(tinyi_attention_weights_few)(float *s, int ld, int n, float *m, float *l, float *f)
{
    const int n_s = n * ld;
    float t[V_LANES];
    v_f32 top = v_set(-INFINITY), sum = v_zero(), to;
    int i, j;
    for (i = n_s; i % V_LANES; i++) s[i] = -INFINITY;
    for (i = 0; i < n_s; i += V_LANES) top = v_max(v_load(s + i), top);
    v_store(t, top);
    for (j = 0; j < ld; j++) {
        float x = m[j];
        for (i = j; i < V_LANES; i += ld) x = t[i] > x ? t[i] : x;
        f[j] = m[j];
        m[j] = x;
        for (i = j; i < V_LANES; i += ld) t[i] = x == -INFINITY ? 0.0f : x;
    }
    to = v_load(t);
    for (i = 0; i < n_s; i += V_LANES) {
        const v_f32 p = TINY_FN(tinyi_attention_exp)(v_sub(v_load(s + i), to));
        v_store(s + i, p);
        sum = v_add(sum, p);
    }
    for (j = 0; j < V_LANES; j++) t[j] = f[j & (ld - 1)];
    v_store(t, TINY_FN(tinyi_attention_exp)(v_sub(v_load(t), to)));
    for (j = 0; j < ld; j++) {
        f[j] = t[j];
        l[j] *= t[j];
    }
    v_store(t, sum);
    for (j = 0; j < V_LANES; j++) l[j & (ld - 1)] += t[j];
}

/* Scores become weights under the running maximum m; l is their sum so far, f the factor for what was summed before. A
 * row all of whose keys are hidden keeps m = -inf; NaN in a score comes through to the sum. */
static void TINY_FN(tinyi_attention_weights_f32)(float *s, tiny_idx ld, int n, float *m, float *l, float *f, int j0,
                                                 int j1)
{
    const v_f32 none = v_set(-INFINITY);
    int c, j;
    if (ld < V_LANES) {
        TINY_FN(tinyi_attention_weights_few)(s, (int)ld, n, m, l, f);
        return;
    }
    for (j = j0; j < j1; j += V_LANES) {
        const v_f32 before = v_load(m + j);
        v_f32 top = before, top1 = before, sum = v_zero(), sum1 = v_zero(), to, old;
        float *x = s + j;
        for (c = 0; c + 2 <= n; c += 2) {
            top = v_max(v_load(x + c * ld), top);
            top1 = v_max(v_load(x + (c + 1) * ld), top1);
        }
        if (c < n) top = v_max(v_load(x + c * ld), top);
        top = v_max(top1, top);
        to = v_select(v_eq(top, none), v_zero(), top);
        for (c = 0; c + 2 <= n; c += 2) {
            const v_f32 p = TINY_FN(tinyi_attention_exp)(v_sub(v_load(x + c * ld), to)),
                        p1 = TINY_FN(tinyi_attention_exp)(v_sub(v_load(x + (c + 1) * ld), to));
            v_store(x + c * ld, p);
            v_store(x + (c + 1) * ld, p1);
            sum = v_add(sum, p);
            sum1 = v_add(sum1, p1);
        }
        if (c < n) {
            const v_f32 p = TINY_FN(tinyi_attention_exp)(v_sub(v_load(x + c * ld), to));
            v_store(x + c * ld, p);
            sum = v_add(sum, p);
        }
        old = TINY_FN(tinyi_attention_exp)(v_sub(before, to));
        v_store(m + j, top);
        v_store(f + j, old);
        v_store(l + j, v_fma(old, v_load(l + j), v_add(sum, sum1)));
    }
}

/* m = the largest score so far; a NaN is left to the sum */
static void TINY_FN(tinyi_attention_peak_f32)(const float *s, tiny_idx ld, int n, float *m, int j0, int j1)
{
    int c, j;
    for (j = j0; j < j1; j += V_LANES) {
        const float *x = s + j;
        v_f32 top = v_load(m + j), top1 = top;
        for (c = 0; c + 2 <= n; c += 2) {
            top = v_max(v_load(x + c * ld), top);
            top1 = v_max(v_load(x + (c + 1) * ld), top1);
        }
        if (c < n) top = v_max(v_load(x + c * ld), top);
        v_store(m + j, v_max(top1, top));
    }
}

/* Scores become weights e under the last maximum m; their sum is added to l, that of those at most t to low_sum. */
static void TINY_FN(tinyi_attention_level_f32)(float *s, tiny_idx ld, int n, const float *m, float *l, float *low_sum,
                                               float t, int j0, int j1)
{
    const v_f32 none = v_set(-INFINITY), vt = v_set(t);
    int c, j;
    for (j = j0; j < j1; j += V_LANES) {
        const v_f32 top = v_load(m + j), to = v_select(v_eq(top, none), v_zero(), top);
        v_f32 all = v_zero(), all1 = all, few = all, few1 = all;
        float *x = s + j;
        for (c = 0; c + 2 <= n; c += 2, x += 2 * ld) {
            const v_f32 e = TINY_FN(tinyi_attention_exp)(v_sub(v_load(x), to)),
                        e1 = TINY_FN(tinyi_attention_exp)(v_sub(v_load(x + ld), to));
            v_store(x, e);
            v_store(x + ld, e1);
            all = v_add(all, e);
            all1 = v_add(all1, e1);
            few = v_add(few, v_select(v_le(e, vt), e, v_zero()));
            few1 = v_add(few1, v_select(v_le(e1, vt), e1, v_zero()));
        }
        if (c < n) {
            const v_f32 e = TINY_FN(tinyi_attention_exp)(v_sub(v_load(x), to));
            v_store(x, e);
            all = v_add(all, e);
            few = v_add(few, v_select(v_le(e, vt), e, v_zero()));
        }
        v_store(l + j, v_add(v_load(l + j), v_add(all, all1)));
        v_store(low_sum + j, v_add(v_load(low_sum + j), v_add(few, few1)));
    }
}

/* e^2 of a trivial weight; below 2^-124 it counts as 0: the largest weight of a row is 1 */
#define TINYI_ATT_SQUARE(e) v_select(v_lt(e, v_set(2.16840434e-19f)), v_zero(), v_mul(e, e))

/* f e^2 where e <= t */
static void TINY_FN(tinyi_attention_weigh_f32)(float *s, tiny_idx ld, int n, const float *f, float t, int j0, int j1)
{
    const v_f32 vt = v_set(t);
    int c, j;
    for (j = j0; j < j1; j += V_LANES) {
        const v_f32 vf = v_load(f + j);
        float *x = s + j;
        for (c = 0; c < n; c++, x += ld) {
            const v_f32 e = v_load(x);
            v_store(x, v_select(v_le(e, vt), v_mul(vf, TINYI_ATT_SQUARE(e)), e));
        }
    }
}

/* e^2 stays in s where e <= t, else e goes to big; the other one gets 0. Whether there were weights of the first kind
 * (1) and of the second (2). */
static int TINY_FN(tinyi_attention_split_f32)(float *s, float *big, tiny_idx ld, int n, float t, int j0, int j1)
{
    const v_f32 vt = v_set(t);
    int c, j, kinds = 0;
    for (j = j0; j < j1; j += V_LANES) {
        const v_mask there = v_first((size_t)TINYI_MIN(j1 - j, V_LANES));
        v_mask trivial = v_lt(vt, v_zero()), other = trivial;           /* none: t is at least 0 */
        float *x = s + j, *y = big + j;
        for (c = 0; c < n; c++, x += ld, y += ld) {
            const v_f32 e = v_load(x);
            const v_mask low = v_le(e, vt);
            v_store(x, v_select(low, TINYI_ATT_SQUARE(e), v_zero()));
            v_store(y, v_select(low, v_zero(), e));
            trivial = vm_or(trivial, vm_and(low, v_lt(v_zero(), e)));
            other = vm_or(other, vm_not(low));
        }
        kinds |= (vm_any(vm_and(there, trivial)) ? 1 : 0) | (vm_any(vm_and(there, other)) ? 2 : 0);
    }
    return kinds;
}
#undef TINYI_ATT_SQUARE

/* acc[j][i] = f[j] acc[j][i] + sum_c p[c][j] v[c][i] */
#define TINYI_ATT_ADD(i) TINYI_GEMM_FMA(i, p[i], p)
#define TINYI_ATT_STORE(i)                                                              \
    if (i < mr) {                                                                       \
        float *r = y + i * y_row;                                                       \
        const v_f32 w = v_set(f[i]);                                                    \
        v_store(r, v_fma(w, v_load(r), a##i));                                          \
        v_store(r + V_LANES, v_fma(w, v_load(r + V_LANES), b##i));                      \
    }
/* gcc 12 at -O2 packs two lone numbers of v with those of the next row, and so reads a row behind the last one */
#if V_LANES == 1 && TINYI_GCC
#define TINYI_ATT_LONE __attribute__((optimize("no-tree-loop-vectorize", "no-tree-slp-vectorize")))
#else
#define TINYI_ATT_LONE
#endif
#define TINYI_ATT_MIX(MR, LIST)                                                                                        \
    TINYI_ATT_LONE static void TINY_FN(tinyi_attention_mix##MR)(float *y, tiny_idx y_row, const float *p, tiny_idx ld, \
                                                                const float *f, const float *v, tiny_idx ldv, int n,   \
                                                                int mr)                                                \
    {                                                                                                                  \
        v_f32 x0, x1;                                                                                                  \
        LIST(TINYI_GEMM_ZERO)                                                                                          \
        for (; n > 0; n--, p += ld, v += ldv) {                                                                        \
            x0 = v_load(v);                                                                                            \
            x1 = v_load(v + V_LANES);                                                                                  \
            LIST(TINYI_ATT_ADD)                                                                                        \
        }                                                                                                              \
        LIST(TINYI_ATT_STORE)                                                                                          \
    }
#if TINYI_GEMM_MR == 12
TINYI_ATT_MIX(12, TINYI_G12)
TINYI_ATT_MIX(8, TINYI_G8)
#else
TINYI_ATT_MIX(6, TINYI_G6)
#endif
TINYI_ATT_MIX(4, TINYI_G4)

/* one or two rows: as many vectors of each as make eight sums */
TINYI_FORCE_INLINE void TINY_FN(tinyi_attention_mix_thin)(float *y, tiny_idx y_row, const float *p, tiny_idx ld,
                                                          const float *f, const float *v, tiny_idx ldv, int n, int two)
{
    v_f32 a0 = v_zero(), a1 = v_zero(), a2 = v_zero(), a3 = v_zero(), b0 = v_zero(), b1 = v_zero(), b2 = v_zero(),
          b3 = v_zero();
    v_f32 w = v_set(f[0]);
    for (; n > 0; n--, p += ld, v += ldv) {
        const v_f32 x0 = v_load(v), x1 = v_load(v + V_LANES), x2 = v_load(v + 2 * V_LANES),
                    x3 = v_load(v + 3 * V_LANES), p0 = v_set(p[0]);
        a0 = v_fma(p0, x0, a0); a1 = v_fma(p0, x1, a1); a2 = v_fma(p0, x2, a2); a3 = v_fma(p0, x3, a3);
        if (two) {
            const v_f32 p1 = v_set(p[1]);
            b0 = v_fma(p1, x0, b0); b1 = v_fma(p1, x1, b1); b2 = v_fma(p1, x2, b2); b3 = v_fma(p1, x3, b3);
        }
    }
    v_store(y, v_fma(w, v_load(y), a0));
    v_store(y + V_LANES, v_fma(w, v_load(y + V_LANES), a1));
    v_store(y + 2 * V_LANES, v_fma(w, v_load(y + 2 * V_LANES), a2));
    v_store(y + 3 * V_LANES, v_fma(w, v_load(y + 3 * V_LANES), a3));
    if (!two) return;
    w = v_set(f[1]);
    y += y_row;
    v_store(y, v_fma(w, v_load(y), b0));
    v_store(y + V_LANES, v_fma(w, v_load(y + V_LANES), b1));
    v_store(y + 2 * V_LANES, v_fma(w, v_load(y + 2 * V_LANES), b2));
    v_store(y + 3 * V_LANES, v_fma(w, v_load(y + 3 * V_LANES), b3));
}

static void TINY_FN(tinyi_attention_mix_f32)(float *acc, tiny_idx d_v, const float *p, tiny_idx ld, const float *f,
                                             const float *v, tiny_idx ldv, int n, int n_row)
{
    tiny_idx i = 0;
    int c, j, mr;
    if (n_row < 3)
        for (; i + 4 * V_LANES <= d_v; i += 4 * V_LANES) {
            if (n_row == 2) TINY_FN(tinyi_attention_mix_thin)(acc + i, d_v, p, ld, f, v + i, ldv, n, 1);
            else TINY_FN(tinyi_attention_mix_thin)(acc + i, d_v, p, ld, f, v + i, ldv, n, 0);
        }
    for (; i + TINYI_GEMM_NR <= d_v; i += TINYI_GEMM_NR)
        for (j = 0; j < n_row; j += mr) {
            mr = TINYI_MIN(n_row - j, TINYI_GEMM_MR);
#if TINYI_GEMM_MR == 12
            if (mr > 8) TINY_FN(tinyi_attention_mix12)(acc + j * d_v + i, d_v, p + j, ld, f + j, v + i, ldv, n, mr);
            else if (mr > 4) TINY_FN(tinyi_attention_mix8)(acc + j * d_v + i, d_v, p + j, ld, f + j, v + i, ldv, n, mr);
#else
            if (mr > 4) TINY_FN(tinyi_attention_mix6)(acc + j * d_v + i, d_v, p + j, ld, f + j, v + i, ldv, n, mr);
#endif
            else TINY_FN(tinyi_attention_mix4)(acc + j * d_v + i, d_v, p + j, ld, f + j, v + i, ldv, n, mr);
        }
    for (; i < d_v; i += V_LANES) {         /* the last numbers of a value, a vector at a time */
        const size_t r = (size_t)TINYI_MIN(d_v - i, V_LANES);
        for (j = 0; j < n_row; j++) {
            v_f32 a = v_mul(v_set(f[j]), v_load_n(acc + j * d_v + i, r));
            for (c = 0; c < n; c++) a = v_fma(v_set(p[c * ld + j]), v_load_n(v + c * ldv + i, r), a);
            v_store_n(acc + j * d_v + i, a, r);
        }
    }
}
#undef TINYI_ATT_ADD
#undef TINYI_ATT_STORE
#undef TINYI_ATT_MIX
#undef TINYI_ATT_LONE

/* every number is finite */
static int TINY_FN(tinyi_attention_finite_f32)(const float *v, tiny_idx ldv, int n, tiny_idx d_v)
{
    v_f32 odd = v_zero();
    tiny_idx i;
    int c;
    for (c = 0; c < n; c++, v += ldv) {
        for (i = 0; i + V_LANES <= d_v; i += V_LANES) {
            const v_f32 x = v_load(v + i);
            odd = v_add(odd, v_sub(x, x));
        }
        if (i < d_v) {
            const v_f32 x = v_load_n(v + i, (size_t)(d_v - i));
            odd = v_add(odd, v_sub(x, x));
        }
    }
    return v_sum(odd) == 0.0f;
}
#undef TINYI_GEMM_PIN
#undef TINYI_G2
#undef TINYI_G4
#undef TINYI_G6
#undef TINYI_G8
#undef TINYI_G12
#undef TINYI_GEMM_NR
#undef TINYI_GEMM_MR
#undef TINYI_GEMM_ZERO
#undef TINYI_GEMM_FMA
