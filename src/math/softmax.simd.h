/* src/math/softmax.simd.h - the passes of the four forms; all share one exp */

/* Each loop asks for the lines that it needs about 2 KB later: the processor's own looking ahead ends with the page,
 * and a loop full of arithmetic leaves little room for loads in flight. */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_SM_FETCH(p) __builtin_prefetch((const char *)(p) + 2048)
#else
#define TINYI_SM_FETCH(p) ((void)0)
#endif
#if V_LANES == 16
#define TINYI_SM_FETCH4(p)    \
    TINYI_SM_FETCH(p);        \
    TINYI_SM_FETCH((p) + 16); \
    TINYI_SM_FETCH((p) + 32); \
    TINYI_SM_FETCH((p) + 48)
#elif V_LANES == 8
#define TINYI_SM_FETCH4(p) TINYI_SM_FETCH(p); TINYI_SM_FETCH((p) + 16)
#else
#define TINYI_SM_FETCH4(p) TINYI_SM_FETCH(p)
#endif
#define TINYI_SM_PAST (V_AVX2 || V_AVX512)
#if V_AVX512
#define TINYI_SM_STREAM(p, v) _mm512_stream_ps(p, v)
#define TINYI_SM_STREAM_END() _mm_sfence()
#elif V_AVX2
#define TINYI_SM_STREAM(p, v) _mm256_stream_ps(p, v)
#define TINYI_SM_STREAM_END() _mm_sfence()
#else
#define TINYI_SM_STREAM(p, v) v_store(p, v)
#define TINYI_SM_STREAM_END() ((void)0)
#endif

/* ---- e^x = p 2^n, the polynomial of the paper
 * v_exp and v_extexp take four instructions more for half an ulp, for infinite arguments and for results that a row of
 * weights does not have. A float of size 2^23 counts in ones: x log2(e) + 1.5 * 2^23 + b has n + b in its lowest
 * bits. */
#if V_SCALAR
#define TINYI_SM_FN static TINYI_UNUSED TINYI_NOINLINE
#else
#define TINYI_SM_FN TINYI_FORCE_INLINE
#endif
#define TINYI_SM_COUNT 12582912.0f
#define TINYI_SM_LOG2E v_set(1.44269502f)
#if V_AVX2 || V_AVX512 || V_NEON
#define TINYI_SM_LIMIT 2.9e6f               /* n below 2^22 */
#define TINYI_SM_REDUCE(x, n) v_fnma(n, v_set(-1.90465421e-9f), v_fnma(n, v_set(0.693147182f), x))
#define TINYI_SM_REDUCE_FAR(x, n) TINYI_SM_REDUCE(x, n)
#else
/* without fma the first part of ln 2 has so few bits that its product with n is exact: for |n| < 2^9, and for |n| <
 * 2^14 */
#define TINYI_SM_LIMIT 11000.0f
#define TINYI_SM_REDUCE(x, n) v_fnma(n, v_set(1.42860677e-6f), v_fnma(n, v_set(0.693145752f), x))
#define TINYI_SM_REDUCE_FAR(x, n) \
    v_fnma(n, v_set(-1.90465421e-9f), v_fnma(n, v_set(-2.12192535e-4f), v_fnma(n, v_set(0.693359375f), x)))
#endif

/* e^t on [-ln2/2, ln2/2], 1.6e-7 off */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_sm_near)(v_f32 t)
{
    v_f32 p = v_fma(v_set(8.28929059e-3f), t, v_set(4.18978221e-2f));
    p = v_fma(p, t, v_set(1.66676521e-1f));
    p = v_fma(p, t, v_set(4.99991506e-1f));
    p = v_fma(p, t, v_set(9.99999702e-1f));
    return v_fma(p, t, v_set(1.0f));
}

/* e^d for d <= 0; 0 below -126.5 ln 2 (and for -inf), since some processors are slow with denormals; NaN stays */
TINYI_SM_FN v_f32 TINY_FN(tinyi_sm_exp)(v_f32 d)
{
    const v_f32 x = v_max(v_set(-88.03f), d), c = v_fma(x, TINYI_SM_LOG2E, v_set(TINYI_SM_COUNT + 127.0f));
    const v_f32 n = v_sub(c, v_set(TINYI_SM_COUNT + 127.0f));
    return v_mul(TINY_FN(tinyi_sm_near)(TINYI_SM_REDUCE(x, n)), v_float(vi_shl(v_bits(c), 23)));
}

/* p of e^s; *c: n + TINYI_SM_COUNT. An s below the limit (and -inf) counts as the limit. */
TINYI_SM_FN v_f32 TINY_FN(tinyi_sm_ext)(v_f32 s, v_f32 *c)
{
    const v_f32 x = v_max(v_set(-TINYI_SM_LIMIT), s);
    *c = v_fma(x, TINYI_SM_LOG2E, v_set(TINYI_SM_COUNT));
    return TINY_FN(tinyi_sm_near)(TINYI_SM_REDUCE_FAR(x, v_sub(*c, v_set(TINYI_SM_COUNT))));
}

/* s + p 2^(n - e), c and high those of n and e >= n; 2^(n - e) is 0 from n - e = -127 down */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_sm_add)(v_f32 s, v_f32 p, v_f32 c, v_f32 high)
{
#if V_AVX512
    return v_add(s, _mm512_maskz_scalef_ps((__mmask16)0xffff, p, v_sub(c, high)));
#else
    const v_i32 e = vi_sub(v_bits(c), vi_sub(v_bits(high), vi_set(127)));
    return v_fma(p, v_float(vi_shl(vi_max(e, vi_zero()), 23)), s);
#endif
}

static float TINY_FN(tinyi_softmax_top_f32)(const float *x, size_t n, float scale)
{
    v_f32 a = v_set(scale < 0.0f ? INFINITY : -INFINITY), b = a, c = a, d = a;
    size_t i = 0;
    if (!n) return -INFINITY;
    /* a number and NaN: v_min and v_max give the second */
#define TINYI_SM_TOP(f)                                                             \
    do {                                                                            \
        for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {                            \
            TINYI_SM_FETCH4(x + i);                                                 \
            a = f(v_load(x + i), a);                                                \
            b = f(v_load(x + i + V_LANES), b);                                      \
            c = f(v_load(x + i + 2 * V_LANES), c);                                  \
            d = f(v_load(x + i + 3 * V_LANES), d);                                  \
        }                                                                           \
        a = f(f(a, b), f(c, d));                                                    \
        for (; i + V_LANES <= n; i += V_LANES) a = f(v_load(x + i), a);             \
        if (i < n) a = v_select(v_first(n - i), f(v_load_n(x + i, n - i), a), a);   \
    } while (0)
    if (scale < 0.0f) {
        TINYI_SM_TOP(v_min);
        return scale * v_hmin(a);
    }
    TINYI_SM_TOP(v_max);
    return scale * v_hmax(a);
}

/* scale * x of four vectors, rounded as the reference does; most rows have scale 1, for which a multiplication would
 * take a tenth of the time */
#define TINYI_SM_FOUR(p, at)                                                                                 \
    v_f32 p##0 = v_load(x + (at)), p##1 = v_load(x + (at) + V_LANES), p##2 = v_load(x + (at) + 2 * V_LANES), \
          p##3 = v_load(x + (at) + 3 * V_LANES);                                                             \
    if (scale != 1.0f) {                                                                                     \
        p##0 = v_mul(p##0, vs);                                                                              \
        p##1 = v_mul(p##1, vs);                                                                              \
        p##2 = v_mul(p##2, vs);                                                                              \
        p##3 = v_mul(p##3, vs);                                                                              \
    }
#define TINYI_SM_PUT(PUT)                                                               \
    {                                                                                   \
        PUT(y + i, p0);                                                                 \
        PUT(y + i + V_LANES, p1);                                                       \
        PUT(y + i + 2 * V_LANES, p2);                                                   \
        PUT(y + i + 3 * V_LANES, p3);                                                   \
    }
/* exp(scale x - top) of the last r values */
#define TINYI_SM_E_LAST(r) TINY_FN(tinyi_sm_exp)(v_sub(v_mul(v_load_n(x + i, r), vs), vt))

static float TINY_FN(tinyi_softmax_sum_f32)(float *y, const float *x, size_t n, float scale, float top)
{
    const v_f32 vs = v_set(scale), vt = v_set(top);
    v_f32 a = v_zero(), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        TINYI_SM_FOUR(p, i)
        TINYI_SM_FETCH4(x + i);
        p0 = TINY_FN(tinyi_sm_exp)(v_sub(p0, vt));
        p1 = TINY_FN(tinyi_sm_exp)(v_sub(p1, vt));
        p2 = TINY_FN(tinyi_sm_exp)(v_sub(p2, vt));
        p3 = TINY_FN(tinyi_sm_exp)(v_sub(p3, vt));
        if (y) TINYI_SM_PUT(v_store)
        a = v_add(a, p0);
        b = v_add(b, p1);
        c = v_add(c, p2);
        d = v_add(d, p3);
    }
    for (; i < n; i += V_LANES) {
        const size_t r = TINYI_MIN(n - i, (size_t)V_LANES);
        const v_f32 p = v_select(v_first(r), TINYI_SM_E_LAST(r), v_zero());
        if (y) TINY_FN(tinyi_elem_put)(y + i, p, r);
        a = v_add(a, p);
    }
    return v_sum(v_add(v_add(a, b), v_add(c, d)));
}

static void TINY_FN(tinyi_softmax_exp_f32)(float *y, const float *x, size_t n, float scale, float top, float lambda,
                                           int stream)
{
    const v_f32 vs = v_set(scale), vt = v_set(top), vl = v_set(lambda);
    size_t i = 0;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        TINYI_SM_FOUR(p, i)
        TINYI_SM_FETCH4(x + i);
        p0 = v_mul(TINY_FN(tinyi_sm_exp)(v_sub(p0, vt)), vl);
        p1 = v_mul(TINY_FN(tinyi_sm_exp)(v_sub(p1, vt)), vl);
        p2 = v_mul(TINY_FN(tinyi_sm_exp)(v_sub(p2, vt)), vl);
        p3 = v_mul(TINY_FN(tinyi_sm_exp)(v_sub(p3, vt)), vl);
        if (TINYI_SM_PAST && stream) TINYI_SM_PUT(TINYI_SM_STREAM)
        else TINYI_SM_PUT(v_store)
    }
    if (stream) TINYI_SM_STREAM_END();
    for (; i < n; i += V_LANES) {
        const size_t r = TINYI_MIN(n - i, (size_t)V_LANES);
        TINY_FN(tinyi_elem_put)(y + i, v_mul(TINYI_SM_E_LAST(r), vl), r);
    }
}

/* the three passes with a reload, over a row that stays in the first cache */
static void TINY_FN(tinyi_softmax_row_f32)(float *y, const float *x, size_t n, float scale)
{
    float top = TINY_FN(tinyi_softmax_top_f32)(x, n, scale), sum;
    v_f32 vl;
    size_t i = 0;
    sum = TINY_FN(tinyi_softmax_sum_f32)(y, x, n, scale, top == -INFINITY ? 0.0f : top);
    vl = v_set(sum == 0.0f ? 0.0f : 1.0f / sum);
    for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {
        v_store(y + i, v_mul(v_load(y + i), vl));
        v_store(y + i + V_LANES, v_mul(v_load(y + i + V_LANES), vl));
    }
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_mul(v_load(y + i), vl));
    if (i < n) v_store_n(y + i, v_mul(v_load_n(y + i, n - i), vl), n - i);
}

/* Each lane has its own maximum m and sum s. A group of four vectors changes m at most once, so that the change costs
 * one exp a group. While a lane has seen nothing but -inf it is measured from 0, and its m counts as the least
 * number. */
static void TINY_FN(tinyi_softmax_online_f32)(const float *x, size_t n, float scale, float *top, float *sum)
{
    const v_f32 vs = v_set(scale), none = v_set(-INFINITY), least = v_set(-3.40282347e38f);
    v_f32 m = none, s = v_zero(), t, all;
    size_t i = 0;
    float most;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        v_f32 p = v_mul(v_load(x + i), vs), q = v_mul(v_load(x + i + V_LANES), vs);
        v_f32 r = v_mul(v_load(x + i + 2 * V_LANES), vs), u = v_mul(v_load(x + i + 3 * V_LANES), vs);
        TINYI_SM_FETCH4(x + i);
        all = v_max(u, v_max(r, v_max(q, v_max(p, m))));
        t = v_select(v_eq(all, none), v_zero(), all);
        s = v_mul(s, TINY_FN(tinyi_sm_exp)(v_sub(v_max(m, least), t)));
        s = v_add(s, v_add(v_add(TINY_FN(tinyi_sm_exp)(v_sub(p, t)), TINY_FN(tinyi_sm_exp)(v_sub(q, t))),
                           v_add(TINY_FN(tinyi_sm_exp)(v_sub(r, t)), TINY_FN(tinyi_sm_exp)(v_sub(u, t)))));
        m = all;
    }
    for (; i < n; i += V_LANES) {
        const size_t r = TINYI_MIN(n - i, (size_t)V_LANES);
        v_f32 p = v_select(v_first(r), v_mul(v_load_n(x + i, r), vs), none);
        all = v_max(p, m);
        t = v_select(v_eq(all, none), v_zero(), all);
        s = v_mul(s, TINY_FN(tinyi_sm_exp)(v_sub(v_max(m, least), t)));
        s = v_add(s, TINY_FN(tinyi_sm_exp)(v_sub(p, t)));
        m = all;
    }
    most = v_hmax(m);
    *top = most;
    *sum = v_sum(v_mul(s, TINY_FN(tinyi_sm_exp)(v_sub(v_max(m, least), v_set(most == -INFINITY ? 0.0f : most)))));
}

/* y = (s - top) - log_sum */
static void TINY_FN(tinyi_softmax_log_f32)(float *y, const float *x, size_t n, float scale, float top, float log_sum)
{
    const v_f32 vs = v_set(scale), vt = v_set(top), vl = v_set(log_sum);
    size_t i = 0;
    for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {
        v_f32 p = v_load(x + i), q = v_load(x + i + V_LANES);
        TINYI_SM_FETCH(x + i);
        v_store(y + i, v_sub(v_sub(v_mul(p, vs), vt), vl));
        v_store(y + i + V_LANES, v_sub(v_sub(v_mul(q, vs), vt), vl));
    }
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_sub(v_sub(v_mul(v_load(x + i), vs), vt), vl));
    if (i < n) v_store_n(y + i, v_sub(v_sub(v_mul(v_load_n(x + i, n - i), vs), vt), vl), n - i);
}

/* One lane of an accumulator holds s 2^e. A group of vectors and the accumulator find their largest exponent, the sum
 * is brought to it once, and the values are added: two accumulators, groups of four. Exponents stay in the form n +
 * COUNT. */
#define TINYI_SM_GROUP(at, s, e)                                                        \
    {                                                                                   \
        v_f32 c0, c1, c2, c3, most;                                                     \
        TINYI_SM_FOUR(p, at)                                                            \
        p0 = TINY_FN(tinyi_sm_ext)(p0, &c0);                                            \
        p1 = TINY_FN(tinyi_sm_ext)(p1, &c1);                                            \
        p2 = TINY_FN(tinyi_sm_ext)(p2, &c2);                                            \
        p3 = TINY_FN(tinyi_sm_ext)(p3, &c3);                                            \
        most = v_max(v_max(v_max(c0, c1), v_max(c2, c3)), e);                           \
        s = TINY_FN(tinyi_sm_add)(v_zero(), s, e, most);                                \
        s = TINY_FN(tinyi_sm_add)(s, p0, c0, most);                                     \
        s = TINY_FN(tinyi_sm_add)(s, p1, c1, most);                                     \
        s = TINY_FN(tinyi_sm_add)(s, p2, c2, most);                                     \
        s = TINY_FN(tinyi_sm_add)(s, p3, c3, most);                                     \
        e = most;                                                                       \
    }

static void TINY_FN(tinyi_softmax_extsum_f32)(const float *x, size_t n, float scale, float *m, float *e)
{
    const v_f32 vs = v_set(scale);
    v_f32 s0 = v_zero(), s1 = s0, e0 = v_set(TINYI_SM_COUNT - 4194304.0f), e1 = e0, high;
    float top;
    size_t i = 0;
    for (; i + 8 * V_LANES <= n; i += 8 * V_LANES) {
        TINYI_SM_FETCH4(x + i);
        TINYI_SM_FETCH4(x + i + 4 * V_LANES);
        TINYI_SM_GROUP(i, s0, e0)
        TINYI_SM_GROUP(i + 4 * V_LANES, s1, e1)
    }
    for (; i < n; i += V_LANES) {
        const size_t r = TINYI_MIN(n - i, (size_t)V_LANES);
        v_f32 c, p = TINY_FN(tinyi_sm_ext)(v_mul(v_load_n(x + i, r), vs), &c);
        p = v_select(v_first(r), p, v_zero());
        c = v_select(v_first(r), c, e0);
        high = v_max(c, e0);
        s0 = TINY_FN(tinyi_sm_add)(TINY_FN(tinyi_sm_add)(v_zero(), s0, e0, high), p, c, high);
        e0 = high;
    }
    top = v_hmax(v_max(e0, e1));
    high = v_set(top);
    s0 = TINY_FN(tinyi_sm_add)(TINY_FN(tinyi_sm_add)(v_zero(), s0, e0, high), s1, e1, high);
    top -= TINYI_SM_COUNT;
    *m = v_sum(s0);
    *e = top;
    if (top > 1.44f * TINYI_SM_LIMIT) *e = INFINITY;
    if (top < -1.44f * TINYI_SM_LIMIT) {
        *e = -INFINITY;
        *m = *m == *m ? 0.0f : *m;
    }
}

/* lambda e^s 2^-e, and 0 below 2^-126. low: (e - 127) ln 2 and a little less, count: COUNT + 127 - e. */
TINYI_SM_FN v_f32 TINY_FN(tinyi_sm_down)(v_f32 s, v_f32 lambda, v_f32 low, v_f32 count)
{
    const v_f32 x = v_max(low, s), c = v_fma(x, TINYI_SM_LOG2E, count);
    const v_f32 p = TINY_FN(tinyi_sm_near)(TINYI_SM_REDUCE_FAR(x, v_sub(c, count)));
    return v_mul(v_mul(p, lambda), v_float(vi_shl(v_bits(c), 23)));
}

static void TINY_FN(tinyi_softmax_extexp_f32)(float *y, const float *x, size_t n, float scale, float lambda, float e,
                                              int stream)
{
    const v_f32 vs = v_set(scale), vl = v_set(lambda), count = v_set(TINYI_SM_COUNT + (127.0f - e)),
                low = v_set((e - 127.2f) * 0.693147182f);
    size_t i = 0;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        TINYI_SM_FOUR(p, i)
        TINYI_SM_FETCH4(x + i);
        p0 = TINY_FN(tinyi_sm_down)(p0, vl, low, count);
        p1 = TINY_FN(tinyi_sm_down)(p1, vl, low, count);
        p2 = TINY_FN(tinyi_sm_down)(p2, vl, low, count);
        p3 = TINY_FN(tinyi_sm_down)(p3, vl, low, count);
        if (TINYI_SM_PAST && stream) TINYI_SM_PUT(TINYI_SM_STREAM)
        else TINYI_SM_PUT(v_store)
    }
    if (stream) TINYI_SM_STREAM_END();
    for (; i < n; i += V_LANES) {
        const size_t r = TINYI_MIN(n - i, (size_t)V_LANES);
        v_store_n(y + i, TINY_FN(tinyi_sm_down)(v_mul(v_load_n(x + i, r), vs), vl, low, count), r);
    }
}

static void TINY_FN(tinyi_use_softmax)(tinyi_kernels *k)
{
    TINYI_USE(k, softmax_row_f32);
    TINYI_USE(k, softmax_top_f32);
    TINYI_USE(k, softmax_sum_f32);
    TINYI_USE(k, softmax_exp_f32);
    TINYI_USE(k, softmax_online_f32);
    TINYI_USE(k, softmax_log_f32);
    TINYI_USE(k, softmax_extsum_f32);
    TINYI_USE(k, softmax_extexp_f32);
}
#undef TINYI_SM_COUNT
#undef TINYI_SM_E_LAST
#undef TINYI_SM_FETCH
#undef TINYI_SM_FETCH4
#undef TINYI_SM_FN
#undef TINYI_SM_FOUR
#undef TINYI_SM_PUT
#undef TINYI_SM_GROUP
#undef TINYI_SM_LIMIT
#undef TINYI_SM_LOG2E
#undef TINYI_SM_PAST
#undef TINYI_SM_REDUCE
#undef TINYI_SM_REDUCE_FAR
#undef TINYI_SM_STREAM
#undef TINYI_SM_STREAM_END
#undef TINYI_SM_TOP
