/* src/math/fwht.simd.h - butterflies of math/fwht.c: stages inside a vector, then two stages a pass over rows of
 * vectors; then H_r; and rows in few bits */

/* lanes i and i ^ h change places, h < V_LANES a power of two */
#if V_AVX512
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fwht_cross)(v_f32 a, int h)
{
    return _mm512_permutexvar_ps(_mm512_xor_si512(vi_iota(), _mm512_set1_epi32(h)), a);
}
#elif V_AVX2
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fwht_cross)(v_f32 a, int h)
{
    return _mm256_permutevar8x32_ps(a, _mm256_xor_si256(vi_iota(), _mm256_set1_epi32(h)));
}
#elif V_NEON
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fwht_cross)(v_f32 a, int h)
{
    return h == 1 ? vrev64q_f32(a) : vextq_f32(a, a, 2);
}
#elif V_W128 && TINYI_W128_SIMDE
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fwht_cross)(v_f32 a, int h)
{
    return h == 1 ? simde_mm_shuffle_ps(a, a, 0xb1) : simde_mm_shuffle_ps(a, a, 0x4e);
}
#elif V_W128
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fwht_cross)(v_f32 a, int h)
{
    return h == 1 ? _mm_shuffle_ps(a, a, 0xb1) : _mm_shuffle_ps(a, a, 0x4e);
}
#endif

/* all stages inside a vector, h < n: lane i gets its partner i ^ h plus or minus itself */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fwht_lanes)(v_f32 v, size_t n)
{
#if V_LANES > 1
    const v_i32 lane = vi_iota();
    const v_f32 plus = v_set(1.0f), minus = v_set(-1.0f);
    if (n > 1)
        v = v_fma(v, v_select(vi_eq(vi_and(lane, vi_set(1)), vi_zero()), plus, minus), TINY_FN(tinyi_fwht_cross)(v, 1));
    if (n > 2)
        v = v_fma(v, v_select(vi_eq(vi_and(lane, vi_set(2)), vi_zero()), plus, minus), TINY_FN(tinyi_fwht_cross)(v, 2));
#if V_LANES > 4
    if (n > 4)
        v = v_fma(v, v_select(vi_eq(vi_and(lane, vi_set(4)), vi_zero()), plus, minus), TINY_FN(tinyi_fwht_cross)(v, 4));
#endif
#if V_LANES > 8
    if (n > 8)
        v = v_fma(v, v_select(vi_eq(vi_and(lane, vi_set(8)), vi_zero()), plus, minus), TINY_FN(tinyi_fwht_cross)(v, 8));
#endif
#endif
    (void)n;
    return v;
}

/* two stages: rows a b c d of one vector each */
#define F_FOUR(a, b, c, d, to0, to1, to2, to3)                                              \
    {                                                                                       \
        const v_f32 s = v_add(a, b), t = v_sub(a, b), u = v_add(c, d), w = v_sub(c, d);     \
        v_store(to0, v_add(s, u));                                                          \
        v_store(to1, v_add(t, w));                                                          \
        v_store(to2, v_sub(s, u));                                                          \
        v_store(to3, v_sub(t, w));                                                          \
    }

/* n a power of two; y may be x */
static void TINY_FN(tinyi_fwht_f32)(float *y, const float *x, size_t n, float scale)
{
    const v_f32 f = v_set(scale);
    size_t h = V_LANES, i, j;
    if (n < V_LANES) {
        v_store_n(y, TINY_FN(tinyi_fwht_lanes)(v_mul(f, v_load_n(x, n)), n), n);
        return;
    }
    if (n < 4 * V_LANES)
        for (i = 0; i < n; i += V_LANES) v_store(y + i, TINY_FN(tinyi_fwht_lanes)(v_mul(f, v_load(x + i)), V_LANES));
    else {
        for (i = 0; i < n; i += 4 * V_LANES) {
            const v_f32 a = TINY_FN(tinyi_fwht_lanes)(v_mul(f, v_load(x + i)), V_LANES);
            const v_f32 b = TINY_FN(tinyi_fwht_lanes)(v_mul(f, v_load(x + i + V_LANES)), V_LANES);
            const v_f32 c = TINY_FN(tinyi_fwht_lanes)(v_mul(f, v_load(x + i + 2 * V_LANES)), V_LANES);
            const v_f32 d = TINY_FN(tinyi_fwht_lanes)(v_mul(f, v_load(x + i + 3 * V_LANES)), V_LANES);
            F_FOUR(a, b, c, d, y + i, y + i + V_LANES, y + i + 2 * V_LANES, y + i + 3 * V_LANES)
        }
        h = 4 * V_LANES;
    }
    for (; 4 * h <= n; h *= 4)
        for (i = 0; i < n; i += 4 * h)
            for (j = i; j < i + h; j += V_LANES) {
                const v_f32 a = v_load(y + j), b = v_load(y + j + h), c = v_load(y + j + 2 * h),
                            d = v_load(y + j + 3 * h);
                F_FOUR(a, b, c, d, y + j, y + j + h, y + j + 2 * h, y + j + 3 * h)
            }
    if (h < n)
        for (j = 0; j < h; j += V_LANES) {
            const v_f32 a = v_load(y + j), b = v_load(y + j + h);
            v_store(y + j, v_add(a, b));
            v_store(y + j + h, v_sub(a, b));
        }
}

/* y (r, n) = h (r, r) x (r, n), n a power of two: four rows and two vectors at a time; r is a multiple of four */
#define F_ROW(i) a##i = v_fma(v_set(g[i * r + b]), u, a##i); b##i = v_fma(v_set(g[i * r + b]), w, b##i);
static void TINY_FN(tinyi_fwht_mix_f32)(float *y, const float *x, const float *h, size_t r, size_t n)
{
    size_t i, j, b;
    for (i = 0; i < r; i += 4) {
        const float *g = h + i * r;
        for (j = 0; j + 2 * V_LANES <= n; j += 2 * V_LANES) {
            v_f32 a0 = v_zero(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
            for (b = 0; b < r; b++) {
                const v_f32 u = v_load(x + b * n + j), w = v_load(x + b * n + j + V_LANES);
                F_ROW(0) F_ROW(1) F_ROW(2) F_ROW(3)
            }
            v_store(y + i * n + j, a0);
            v_store(y + i * n + j + V_LANES, b0);
            v_store(y + (i + 1) * n + j, a1);
            v_store(y + (i + 1) * n + j + V_LANES, b1);
            v_store(y + (i + 2) * n + j, a2);
            v_store(y + (i + 2) * n + j + V_LANES, b2);
            v_store(y + (i + 3) * n + j, a3);
            v_store(y + (i + 3) * n + j + V_LANES, b3);
        }
        for (; j < n; j += V_LANES) {       /* n is one vector, or less than that */
            const size_t w = n < V_LANES ? n : V_LANES;
            v_f32 a0 = v_zero(), a1 = a0, a2 = a0, a3 = a0;
            for (b = 0; b < r; b++) {
                const v_f32 u = v_load_n(x + b * n + j, w);
                a0 = v_fma(v_set(g[b]), u, a0);
                a1 = v_fma(v_set(g[r + b]), u, a1);
                a2 = v_fma(v_set(g[2 * r + b]), u, a2);
                a3 = v_fma(v_set(g[3 * r + b]), u, a3);
            }
            v_store_n(y + i * n + j, a0, w);
            v_store_n(y + (i + 1) * n + j, a1, w);
            v_store_n(y + (i + 2) * n + j, a2, w);
            v_store_n(y + (i + 3) * n + j, a3, w);
        }
    }
}

/* what llm/model/rotated.c says of a row in few bits: high the largest code, -high - 1 the smallest */
static void TINY_FN(tinyi_few_bits_f32)(float *x, size_t n, float clip, float high)
{
    const v_f32 zero = v_zero(), low = v_set(-high - 1.0f), top = v_set(high);
    v_f32 most = zero, strange = zero, by;
    float s;
    size_t i;
    for (i = 0; i < n; i += V_LANES) {
        const v_f32 v = n - i < V_LANES ? v_load_n(x + i, n - i) : v_load(x + i);
        most = v_max(v_abs(v), most);
        strange = v_fma(v, zero, strange);  /* no number times 0 is no number either */
    }
    s = clip * v_hmax(most) / high;
    if (v_sum(strange) != 0.0f || !(s > 0.0f && s <= 3e38f)) return;
    by = v_set(s);
    for (i = 0; i < n; i += V_LANES) {
        const v_f32 v = n - i < V_LANES ? v_load_n(x + i, n - i) : v_load(x + i);
        const v_f32 to = v_mul(by, v_add(v_round(v_min(v_max(v_div(v, by), low), top)), zero));
        if (n - i < V_LANES) v_store_n(x + i, to, n - i);
        else v_store(x + i, to);
    }
}

static void TINY_FN(tinyi_use_fwht)(tinyi_kernels *k)
{
    TINYI_USE(k, fwht_f32);
    TINYI_USE(k, fwht_mix_f32);
    TINYI_USE(k, few_bits_f32);
}

#undef F_FOUR
#undef F_ROW
