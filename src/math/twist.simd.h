/* src/math/twist.simd.h - rows of weights against a threshold (math/twist.h tells what each computes) */

/* What is not trivial adds x - x: 0, or NaN where x is not finite. */
#define TINYI_TWIST_TERM(x) v_select(v_le(x, vl), x, v_sub(x, x))
static float TINY_FN(tinyi_twist_sum_f32)(const float *a, size_t n, float low)
{
    const v_f32 vl = v_set(low);
    v_f32 s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0;
    size_t i = 0;
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        const v_f32 a0 = v_load(a + i), a1 = v_load(a + i + V_LANES), a2 = v_load(a + i + 2 * V_LANES),
                    a3 = v_load(a + i + 3 * V_LANES);
        s0 = v_add(s0, TINYI_TWIST_TERM(a0));
        s1 = v_add(s1, TINYI_TWIST_TERM(a1));
        s2 = v_add(s2, TINYI_TWIST_TERM(a2));
        s3 = v_add(s3, TINYI_TWIST_TERM(a3));
    }
    for (; i < n; i += V_LANES) {           /* lanes behind the end are 0, and add 0 */
        const v_f32 x = v_load_n(a + i, TINYI_MIN(n - i, (size_t)V_LANES));
        s0 = v_add(s0, TINYI_TWIST_TERM(x));
    }
    return v_sum(v_add(v_add(s0, s1), v_add(s2, s3)));
}
#undef TINYI_TWIST_TERM

/* a (a f): a^2 alone may be below the smallest number where f is large. y may be a: what the last whole vector covers
 * is read before anything is written, and written over again by it (a masked store takes as long as ten plain ones on
 * some processors). */
#define TINYI_TWIST_NEW(x) v_select(v_le(x, vl), v_mul(x, v_mul(x, vf)), x)
static void TINY_FN(tinyi_twist_write_f32)(float *y, const float *a, size_t n, float low, float f)
{
    const v_f32 vl = v_set(low), vf = v_set(f), last = n >= V_LANES ? v_load(a + n - V_LANES) : v_load_n(a, n);
    size_t i = 0;
    for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {
        const v_f32 a0 = v_load(a + i), a1 = v_load(a + i + V_LANES);
        v_store(y + i, TINYI_TWIST_NEW(a0));
        v_store(y + i + V_LANES, TINYI_TWIST_NEW(a1));
    }
    if (n < V_LANES) v_store_n(y, TINYI_TWIST_NEW(last), n);
    else {
        if (i + V_LANES <= n) {
            const v_f32 x = v_load(a + i);
            v_store(y + i, TINYI_TWIST_NEW(x));
        }
        v_store(y + n - V_LANES, TINYI_TWIST_NEW(last));
    }
}
#undef TINYI_TWIST_NEW

static float TINY_FN(tinyi_twist_dot_f32)(const float *a, const float *g, size_t n, float low)
{
    const v_f32 vl = v_set(low);
    v_f32 s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0;
    size_t i = 0;
#define TINYI_TWIST_DOT(s, at)                                                          \
    {                                                                                   \
        const v_f32 x = v_load(a + (at)), u = v_mul(x, v_load(g + (at)));               \
        s = v_select(v_le(x, vl), v_fma(x, u, s), s);                                   \
    }
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        TINYI_TWIST_DOT(s0, i)
        TINYI_TWIST_DOT(s1, i + V_LANES)
        TINYI_TWIST_DOT(s2, i + 2 * V_LANES)
        TINYI_TWIST_DOT(s3, i + 3 * V_LANES)
    }
#undef TINYI_TWIST_DOT
    for (; i < n; i += V_LANES) {
        const size_t r = TINYI_MIN(n - i, (size_t)V_LANES);
        const v_f32 x = v_load_n(a + i, r), u = v_mul(x, v_load_n(g + i, r));
        s0 = v_select(v_le(x, vl), v_fma(x, u, s0), s0);
    }
    return v_sum(v_add(v_add(s0, s1), v_add(s2, s3)));
}

static void TINY_FN(tinyi_twist_back_f32)(float *da, const float *a, const float *g, size_t n, float low, float f,
                                          float c)
{
    const v_f32 vl = v_set(low), vf = v_set(f), vc = v_set(c);
    size_t i = 0;
    for (; i < n; i += V_LANES) {
        const size_t r = TINYI_MIN(n - i, (size_t)V_LANES);
        const v_f32 x = r == V_LANES ? v_load(a + i) : v_load_n(a + i, r),
                    u = r == V_LANES ? v_load(g + i) : v_load_n(g + i, r);
        const v_f32 y = v_select(v_le(x, vl), v_sub(v_mul(v_mul(x, vf), u), vc), u);
        if (r == V_LANES) v_store(da + i, y);
        else v_store_n(da + i, y, r);
    }
}

static void TINY_FN(tinyi_use_twist)(tinyi_kernels *k)
{
    TINYI_USE(k, twist_sum_f32);
    TINYI_USE(k, twist_write_f32);
    TINYI_USE(k, twist_dot_f32);
    TINYI_USE(k, twist_back_f32);
}
