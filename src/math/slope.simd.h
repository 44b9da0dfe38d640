/* src/math/slope.simd.h - dx = dy f'(x); formulas: math/slope.c */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_bell)(v_f32 x)     /* e^-|x| / (1 + e^-|x|)^2 */
{
    const v_f32 e = v_exp(v_neg(v_abs(x))), d = v_add(e, v_set(1.0f));
    return v_div(e, v_mul(d, d));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_tanh)(v_f32 x)
{
    return v_mul(v_set(4.0f), TINY_FN(tinyi_slope_bell)(v_add(x, x)));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_erf)(v_f32 x)
{
    return v_mul(v_set(1.12837917f), v_exp(v_neg(v_mul(x, x))));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_log)(v_f32 x)
{
    return v_select(v_lt(x, v_zero()), v_set(NAN), v_div(v_set(1.0f), x));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_cos)(v_f32 x) { return v_neg(v_sin(x)); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_rsqrt)(v_f32 x) { return v_div(v_set(-0.5f), v_mul(x, v_sqrt(x))); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_sqrt)(v_f32 x) { return v_div(v_set(0.5f), v_sqrt(x)); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_abs)(v_f32 x)
{
    return v_select(v_lt(v_zero(), x), v_set(1.0f), v_select(v_lt(x, v_zero()), v_set(-1.0f), v_abs(x)));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_neg)(v_f32 x) { (void)x; return v_set(-1.0f); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_relu)(v_f32 x)
{
    return v_select(v_lt(v_zero(), x), v_set(1.0f), v_select(v_isnan(x), x, v_zero()));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_relu2)(v_f32 x)
{
    return v_select(v_lt(v_zero(), x), v_add(x, x), v_select(v_isnan(x), x, v_zero()));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_silu)(v_f32 x)
{
    const v_f32 s = v_sigmoid(x);
    return v_mul(s, v_fma(x, v_sigmoid(v_neg(x)), v_set(1.0f)));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_gelu)(v_f32 x)
{
    const v_f32 e = v_exp(v_mul(v_mul(x, v_set(-0.5f)), x)),
                p = v_fma(v_erf(v_mul(x, v_set(0.707106781f))), v_set(0.5f), v_set(0.5f));
    return v_fma(v_mul(x, v_set(0.39894228f)), e, p);
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_gelu_tanh)(v_f32 x)
{
    const v_f32 q = v_mul(x, x), z = v_mul(x, v_fma(q, v_set(0.0713548163f), v_set(1.59576912f)));
    const v_f32 t = v_mul(x, v_fma(q, v_set(0.214064449f), v_set(1.59576912f)));
    return v_mul(v_sigmoid(z), v_fma(t, v_sigmoid(v_neg(z)), v_set(1.0f)));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_slope_one)(v_f32 x) { (void)x; return v_set(1.0f); }

#define TINYI_SLOPES(X)                                                                                               \
    X(EXP, v_exp) X(LOG, TINY_FN(tinyi_slope_log)) X(TANH, TINY_FN(tinyi_slope_tanh)) \
    X(ERF, TINY_FN(tinyi_slope_erf)) X(SIGMOID, TINY_FN(tinyi_slope_bell)) X(SIN, v_cos) \
    X(COS, TINY_FN(tinyi_slope_cos)) X(RSQRT, TINY_FN(tinyi_slope_rsqrt)) X(SQRT, TINY_FN(tinyi_slope_sqrt)) \
    X(ABS, TINY_FN(tinyi_slope_abs)) X(NEG, TINY_FN(tinyi_slope_neg)) X(RELU, TINY_FN(tinyi_slope_relu)) \
    X(RELU2, TINY_FN(tinyi_slope_relu2)) X(SILU, TINY_FN(tinyi_slope_silu)) \
    X(GELU, TINY_FN(tinyi_slope_gelu)) X(GELU_TANH, TINY_FN(tinyi_slope_gelu_tanh))

/* of whole vectors; a function each: in one, RISC-V's jumps do not reach over what gcc -O0 makes of it */
#define TINYI_SLOPE_RUN(of, f)                                                                                        \
    static void TINY_FN(tinyi_slope_run_##of)(float *dx, const float *x, const float *dy, size_t n)                   \
    {                                                                                                                 \
        size_t i;                                                                                                     \
        for (i = 0; i < n; i += V_LANES) v_store(dx + i, v_mul(v_load(dy + i), f(v_load(x + i))));                    \
    }
TINYI_SLOPES(TINYI_SLOPE_RUN)
TINYI_SLOPE_RUN(ONE, TINY_FN(tinyi_slope_one))

static void TINY_FN(tinyi_slope_f32)(int of, float *dx, const float *x, const float *dy, size_t n)
{
    const size_t r = n % V_LANES, i = n - r;
    float a[V_LANES], b[V_LANES];
    void (*run)(float *, const float *, const float *, size_t);
    switch (of) {
#define TINYI_SLOPE_CASE(of, f) case TINY_OP_##of: run = TINY_FN(tinyi_slope_run_##of); break;
    TINYI_SLOPES(TINYI_SLOPE_CASE)
#undef TINYI_SLOPE_CASE
    default: run = TINY_FN(tinyi_slope_run_ONE); break;
    }
    run(dx, x, dy, i);
    if (!r) return;
    v_store(a, v_load_n(x + i, r));
    v_store(b, v_load_n(dy + i, r));
    run(a, a, b, V_LANES);
    v_store_n(dx + i, v_load(a), r);
}
#undef TINYI_SLOPES
#undef TINYI_SLOPE_RUN

static void TINY_FN(tinyi_nearest_f32)(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_round(v_load(x + i)));
    if (i < n) v_store_n(y + i, v_round(v_load_n(x + i, n - i)), n - i);
}

static void TINY_FN(tinyi_use_slope)(tinyi_kernels *k)
{
    TINYI_USE(k, slope_f32);
    TINYI_USE(k, nearest_f32);
}
