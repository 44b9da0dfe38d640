/* src/math/reduce.simd.h - four accumulators: an addition takes about four cycles, and one or two can start in each */

static float TINY_FN(tinyi_sum_f32)(const float *x, size_t n)
{
    v_f32 a = v_zero(), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        a = v_add(a, v_load(x + i));
        b = v_add(b, v_load(x + i + V_LANES));
        c = v_add(c, v_load(x + i + 2 * V_LANES));
        d = v_add(d, v_load(x + i + 3 * V_LANES));
    }
    for (; i + V_LANES <= n; i += V_LANES) a = v_add(a, v_load(x + i));
    if (i < n) b = v_add(b, v_load_n(x + i, n - i));
    return v_sum(v_add(v_add(a, b), v_add(c, d)));
}

static float TINY_FN(tinyi_dot_f32)(const float *x, const float *y, size_t n)
{
    v_f32 a = v_zero(), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        a = v_fma(v_load(x + i), v_load(y + i), a);
        b = v_fma(v_load(x + i + V_LANES), v_load(y + i + V_LANES), b);
        c = v_fma(v_load(x + i + 2 * V_LANES), v_load(y + i + 2 * V_LANES), c);
        d = v_fma(v_load(x + i + 3 * V_LANES), v_load(y + i + 3 * V_LANES), d);
    }
    for (; i + V_LANES <= n; i += V_LANES) a = v_fma(v_load(x + i), v_load(y + i), a);
    if (i < n) b = v_fma(v_load_n(x + i, n - i), v_load_n(y + i, n - i), b);
    return v_sum(v_add(v_add(a, b), v_add(c, d)));
}

/* f(NaN, a) is a: a NaN does not enter, it is noted. So is inf - inf of two neighbours: then the plain look finds
 * none. */
#define TINYI_RED_EXTREME(NAME, f, ACROSS, START)                                           \
    static float TINY_FN(NAME)(const float *x, size_t n)                                    \
    {                                                                                       \
        v_f32 a = v_set(START), b = a;                                                      \
        v_mask wrong = v_isnan(a);                                                          \
        size_t i = 0;                                                                       \
        for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {                                    \
            v_f32 p = v_load(x + i), q = v_load(x + i + V_LANES);                           \
            wrong = vm_or(wrong, v_isnan(v_add(p, q)));                                     \
            a = f(p, a);                                                                    \
            b = f(q, b);                                                                    \
        }                                                                                   \
        for (; i < n; i += V_LANES) {                                                       \
            const size_t r = TINYI_MIN(n - i, (size_t)V_LANES);                             \
            v_f32 p = v_select(v_first(r), v_load_n(x + i, r), a);                          \
            wrong = vm_or(wrong, v_isnan(p));                                               \
            a = f(p, a);                                                                    \
        }                                                                                   \
        if (vm_any(wrong))                                                                  \
            for (i = 0; i < n; i++)                                                         \
                if (x[i] != x[i]) return x[i];                                              \
        return ACROSS(f(a, b));                                                             \
    }
TINYI_RED_EXTREME(tinyi_max_f32, v_max, v_hmax, -INFINITY)
TINYI_RED_EXTREME(tinyi_min_f32, v_min, v_hmin, INFINITY)

static size_t TINY_FN(tinyi_find_f32)(const float *x, size_t n, float v)
{
    const v_f32 w = v_set(v);
    const int nan = v != v;
    size_t i = 0;
    for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {
        v_f32 p = v_load(x + i), q = v_load(x + i + V_LANES);
        if (vm_any(nan ? v_isnan(v_add(p, q)) : vm_or(v_eq(p, w), v_eq(q, w)))) {
            size_t k = i;       /* inf - inf is no NaN of the data: then the search goes on */
            while (k < i + 2 * V_LANES && (nan ? x[k] == x[k] : x[k] != v)) k++;
            if (k < i + 2 * V_LANES) return k;
        }
    }
    while (i < n && (nan ? x[i] == x[i] : x[i] != v)) i++;
    return i;
}

#define TINYI_RED_ADD(acc, v) v_add(acc, v)
#define TINYI_RED_SQUARE(acc, v) v_fma(v, v, acc)
#define TINYI_RED_MAX(acc, v) v_select(v_isnan(v), v, v_max(v, acc))
#define TINYI_RED_MIN(acc, v) v_select(v_isnan(v), v, v_min(v, acc))
/* four rows at a time: acc is loaded and stored once for them */
#define TINYI_RED_COLS(F)                                                                               \
    do {                                                                                                \
        for (r = 0; r + 4 <= rows; r += 4) {                                                            \
            const float *p = x + (tiny_idx)r * stride, *q = p + stride, *s = q + stride, *t = s + stride;  \
            for (i = 0; i + V_LANES <= cols; i += V_LANES) {                                            \
                v_f32 a = v_load(acc + i);                                                              \
                a = F(F(a, v_load(p + i)), v_load(q + i));                                              \
                v_store(acc + i, F(F(a, v_load(s + i)), v_load(t + i)));                                \
            }                                                                                           \
            if (i < cols) {                                                                             \
                v_f32 a = v_load_n(acc + i, cols - i);                                                  \
                a = F(F(a, v_load_n(p + i, cols - i)), v_load_n(q + i, cols - i));                      \
                a = F(F(a, v_load_n(s + i, cols - i)), v_load_n(t + i, cols - i));                      \
                v_store_n(acc + i, a, cols - i);                                                        \
            }                                                                                           \
        }                                                                                               \
        for (; r < rows; r++) {                                                                         \
            const float *p = x + (tiny_idx)r * stride;                                                  \
            for (i = 0; i < cols; i += V_LANES) {                                                       \
                const size_t m = TINYI_MIN(cols - i, (size_t)V_LANES);                                  \
                v_f32 a = v_load_n(acc + i, m);                                                         \
                v_store_n(acc + i, F(a, v_load_n(p + i, m)), m);                                        \
            }                                                                                           \
        }                                                                                               \
    } while (0)

static void TINY_FN(tinyi_reduce_cols_f32)(int f, float *acc, const float *x, tiny_idx stride, size_t rows, size_t cols)
{
    size_t r, i;
    switch (f) {
    case TINYI_REDUCE_SUM: TINYI_RED_COLS(TINYI_RED_ADD); break;
    case TINYI_REDUCE_NORM2: TINYI_RED_COLS(TINYI_RED_SQUARE); break;
    case TINYI_REDUCE_MAX: TINYI_RED_COLS(TINYI_RED_MAX); break;
    default: TINYI_RED_COLS(TINYI_RED_MIN); break;
    }
}

static void TINY_FN(tinyi_use_reduce)(tinyi_kernels *k)
{
    TINYI_USE(k, sum_f32);
    TINYI_USE(k, dot_f32);
    TINYI_USE(k, max_f32);
    TINYI_USE(k, min_f32);
    TINYI_USE(k, find_f32);
    TINYI_USE(k, reduce_cols_f32);
}
#undef TINYI_RED_EXTREME
#undef TINYI_RED_ADD
#undef TINYI_RED_SQUARE
#undef TINYI_RED_MAX
#undef TINYI_RED_MIN
#undef TINYI_RED_COLS
