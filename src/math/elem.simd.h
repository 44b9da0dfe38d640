/* src/math/elem.simd.h - elementary functions of vectors, for the kernels below and for those of other files
 *
 * One text for targets with and without fma; the errors in the rows of math/elem.c hold for both. All polynomials are
 * minimax fits whose coefficients were rounded to float in the fit; "off" is what remains without rounding, in units of
 * 2^-24 of the value. Comments name the ranges: each reduction makes its first products exact, so that only the last
 * steps round. Many branches are computed for all lanes and selected, since lanes differ. */

#define TINYI_ELEM_FMA (V_AVX2 || V_AVX512 || V_NEON)
#if V_SCALAR                                /* one text for all that want it */
#define TINYI_ELEM_FN static TINYI_UNUSED TINYI_NOINLINE
#else
#define TINYI_ELEM_FN TINYI_FORCE_INLINE
#endif

/* ---- exponential: e^x = 2^n p
 * A float of size 2^23 counts in ones: t = x log2(e) + 1.5 * 2^23 + 254 has n + 254 in its lowest bits. */
#define TINYI_ELEM_COUNT 12583166.0f

/* p = 1 + r + r^2 q(r) on [-ln2/2, ln2/2], 0.18 off */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_elem_exp_near)(v_f32 r)
{
    v_f32 q = v_fma(r, v_set(0.00139353296f), v_set(0.00836326089f));
    q = v_fma(q, r, v_set(0.041666463f));
    q = v_fma(q, r, v_set(0.166665763f));
    q = v_fma(q, r, v_set(0.5f));
    return v_add(v_fma(v_mul(r, r), q, r), v_set(1.0f));
}

/* x - n ln2 in two parts; n has at most 9 bits and the first part 15, so that the first step is exact */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_elem_exp_reduce)(v_f32 x, v_f32 n)
{
    return v_fnma(n, v_set(1.42860677e-06f), v_fnma(n, v_set(0.693145752f), x));
}

/* p * 2^n for whole |n| <= 250, with the overflow and the one rounding to a denormal that 2^n alone would miss */
TINYI_FORCE_INLINE v_f32 v_ldexp(v_f32 p, v_f32 n)
{
#if V_AVX512
    return _mm512_maskz_scalef_ps((__mmask16)0xffff, p, n);
#else
    /* the sum's bits shifted by one are 127 + n/2 rounded down; the difference is 127 + n/2 rounded up */
    const v_i32 t = v_bits(v_add(n, v_set(TINYI_ELEM_COUNT))), h = vi_shr(t, 1);
    return v_mul(v_mul(p, v_float(vi_shl(h, 23))), v_float(vi_shl(vi_sub(t, h), 23)));
#endif
}

/* p and n of e^x, |x| < 170 */
TINYI_ELEM_FN v_f32 TINY_FN(tinyi_elem_exp_parts)(v_f32 x, v_f32 *n)
{
    *n = v_sub(v_fma(x, v_set(1.44269502f), v_set(TINYI_ELEM_COUNT)), v_set(TINYI_ELEM_COUNT));
    return TINY_FN(tinyi_elem_exp_near)(TINY_FN(tinyi_elem_exp_reduce)(x, *n));
}

/* e^89 is infinite and e^-104 rounds to 0 */
TINYI_ELEM_FN v_f32 v_exp(v_f32 x)
{
    v_f32 n, p;
    x = v_min(v_set(89.0f), v_max(v_set(-104.0f), x));      /* in this order NaN comes through */
    p = TINY_FN(tinyi_elem_exp_parts)(x, &n);
    return v_ldexp(p, n);
}

/* ---- logarithm: x = 2^k m, m in [2/3, 4/3), f = m - 1, log m = f - f^2/2 + f^3 P(f), P 0.05 off */
TINYI_ELEM_FN v_f32 v_log(v_f32 x)
{
    const v_mask plain = vm_and(v_le(v_set(1.17549435e-38f), x), v_lt(x, v_set(INFINITY)));
    const int special = !vm_all(plain);
    v_f32 a = x, k = v_zero(), f, z, p;
    v_i32 i;
    if (special) {
        const v_mask tiny = v_lt(x, v_set(1.17549435e-38f));
        a = v_select(tiny, v_mul(x, v_set(33554432.0f)), x);
        k = v_select(tiny, v_set(-25.0f), k);
    }
    i = vi_sra(vi_sub(v_bits(a), vi_set(0x3f2aaaab)), 23);
    k = v_add(k, v_from_i32(i));
    f = v_sub(v_float(vi_sub(v_bits(a), vi_shl(i, 23))), v_set(1.0f));
    z = v_mul(f, f);
    p = v_fma(f, v_set(0.119768895f), v_set(-0.124293827f));
    p = v_fma(p, f, v_set(0.107706688f));
    p = v_fma(p, f, v_set(-0.12287394f));
    p = v_fma(p, f, v_set(0.143021122f));
    p = v_fma(p, f, v_set(-0.166733846f));
    p = v_fma(p, f, v_set(0.199997112f));
    p = v_fma(p, f, v_set(-0.249999434f));
    p = v_fma(p, f, v_set(0.333333343f));
    p = v_fma(v_mul(p, f), z, v_mul(k, v_set(1.42860677e-06f)));
    p = v_fma(k, v_set(0.693145752f), v_add(f, v_fma(z, v_set(-0.5f), p)));
    if (special) {
        p = v_select(v_eq(x, v_set(INFINITY)), x, p);
        p = v_select(v_eq(x, v_zero()), v_set(-INFINITY), p);
        p = v_select(v_le(v_zero(), x), p, v_float(vi_set(0x7fc00000)));
    }
    return p;
}

/* b with the sign of a; b is not negative */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_elem_sign_of)(v_f32 a, v_f32 b)
{
#if V_AVX512
    return v_float(
        _mm512_ternarylogic_epi32(vi_set(-0x7fffffff - 1), v_bits(a), v_bits(b), 0xea)); /* (1st and 2nd) or 3rd */
#else
    return v_float(vi_or(vi_and(v_bits(a), vi_set(-0x7fffffff - 1)), v_bits(b)));
#endif
}

/* ---- tanh and the error function: of n <= 4 vectors at once, each step for all of them before the next one. A
 * processor looks some hundred instructions ahead, and one vector's chain is longer than what it does meanwhile: side
 * by side four erf take Zen 3 10 cycles each, one by one 12. Both get |x| and leave f(|x|) in its place. */
#define TINYI_ELEM_TOGETHER 4
#define TINYI_ELEM_EACH TINYI_UNROLL for (j = 0; j < n; j++)

/* With a = k ln2/2 + r, s = 2^k and T = tanh r:  tanh a = (s - 1 + (s + 1) T) / (s + 1 + (s - 1) T). The denominator is
 * the numerator plus 2 - 2 T, so that for large s the error of both is one. k is 0 up to 0.256, where T itself comes
 * out and T / 1 is a quarter; r is in [-0.091, 0.2562], T = r + r^3 c(r^2), c 0.06 off. At 9.5 the quotient is 1. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_elem_tanh)(v_f32 *a, int n)
{
    v_f32 k[TINYI_ELEM_TOGETHER], r[TINYI_ELEM_TOGETHER], s[TINYI_ELEM_TOGETHER], z[TINYI_ELEM_TOGETHER],
        c[TINYI_ELEM_TOGETHER];
    int j;
    TINYI_ELEM_EACH a[j] = v_min(v_set(9.5f), a[j]);       /* in this order NaN comes through */
    /* 1.5 * 2^23 + 127, as TINYI_ELEM_COUNT */
    TINYI_ELEM_EACH k[j] = v_fma(v_sub(a[j], v_set(0.0828f)), v_set(2.88539004f), v_set(12583039.0f));
    TINYI_ELEM_EACH s[j] = v_float(vi_shl(v_bits(k[j]), 23));
    TINYI_ELEM_EACH k[j] = v_sub(k[j], v_set(12583039.0f));
#if TINYI_ELEM_FMA
    TINYI_ELEM_EACH r[j] = v_fnma(k[j], v_set(0.346573591f), a[j]);
#else
    TINYI_ELEM_EACH r[j] = v_fnma(k[j], v_set(7.14303386e-07f), v_fnma(k[j], v_set(0.346572876f), a[j]));
#endif
    TINYI_ELEM_EACH z[j] = v_mul(r[j], r[j]);
    TINYI_ELEM_EACH c[j] = v_fma(z[j], v_set(-0.0512910821f), v_set(0.133232102f));
    TINYI_ELEM_EACH c[j] = v_fma(c[j], z[j], v_set(-0.333332241f));
    TINYI_ELEM_EACH r[j] = v_fma(v_mul(z[j], r[j]), c[j], r[j]);
    TINYI_ELEM_EACH a[j] = v_fma(v_add(s[j], v_set(1.0f)), r[j], v_sub(s[j], v_set(1.0f)));
    TINYI_ELEM_EACH r[j] = v_add(a[j], v_fnma(r[j], v_set(2.0f), v_set(2.0f)));
    TINYI_ELEM_EACH a[j] = v_div(a[j], r[j]);
}

/* Four pieces of [0, 3.9329], 1.1237 wide, the first one half of that; in each a polynomial of degree 8 around a centre
 * whose erf is a float but for a thousandth of its last bit: 0.4 off. Around 0 it is t + t p(t) instead of erf(centre)
 * + t p(t): there t is not negative, elsewhere it is less than the erf. At the end the sum is 1. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_elem_erf)(v_f32 *a, int n)
{
    static const float centre[4] = { 0.0f, 1.11943555f, 2.25288367f, 3.37247658f };
    static const float of_centre[4] = { 0.0f, 0.886606097f, 0.998557746f, 0.999998152f };
    static const float c[8][4] = { /* of t^1 to t^8 */
                                   { 0.128379166f, 0.32227394f, 0.00705028512f, 1.29638356e-05f },
                                   { 2.18080629e-07f, -0.360766053f, -0.0158832539f, -4.37376802e-05f },
                                   { -0.376134515f, 0.161804482f, 0.0215006247f, 9.4324867e-05f },
                                   { 0.000117157077f, 0.0297195725f, -0.0189295989f, -0.000144107515f },
                                   { 0.111996762f, -0.0617587343f, 0.0106620872f, 0.000162539975f },
                                   { 0.00334131089f, 0.0148835182f, -0.00291938172f, -0.000147113838f },
                                   { -0.0344334617f, 0.0095399227f, -0.000887285743f, 0.00011812953f },
                                   { 0.0093789883f, -0.0050812508f, 0.000986772706f, -5.89793453e-05f }
    };
    v_f32 t[TINYI_ELEM_TOGETHER];
    v_i32 i[TINYI_ELEM_TOGETHER];
    int j;
    TINYI_ELEM_EACH a[j] = v_min(v_set(3.9329f), a[j]);
    TINYI_ELEM_EACH i[j] = v_bits(v_fma(a[j], v_set(0.889917254f), v_set(12582912.0f)));
    TINYI_ELEM_EACH t[j] = v_sub(a[j], v_table4(centre, i[j]));
    TINYI_ELEM_EACH a[j] = v_fma(t[j], v_table4(c[7], i[j]), v_table4(c[6], i[j]));
    TINYI_ELEM_EACH a[j] = v_fma(a[j], t[j], v_table4(c[5], i[j]));
    TINYI_ELEM_EACH a[j] = v_fma(a[j], t[j], v_table4(c[4], i[j]));
    TINYI_ELEM_EACH a[j] = v_fma(a[j], t[j], v_table4(c[3], i[j]));
    TINYI_ELEM_EACH a[j] = v_fma(a[j], t[j], v_table4(c[2], i[j]));
    TINYI_ELEM_EACH a[j] = v_fma(a[j], t[j], v_table4(c[1], i[j]));
    TINYI_ELEM_EACH a[j] = v_fma(a[j], t[j], v_table4(c[0], i[j]));
    TINYI_ELEM_EACH a[j] = v_fma(a[j], t[j], v_max(t[j], v_table4(of_centre, i[j])));
}

TINYI_ELEM_FN v_f32 v_tanh(v_f32 x)
{
    v_f32 a[1];
    a[0] = v_abs(x);
    TINY_FN(tinyi_elem_tanh)(a, 1);
    return TINY_FN(tinyi_elem_sign_of)(x, a[0]);
}

TINYI_ELEM_FN v_f32 v_erf(v_f32 x)
{
    v_f32 a[1];
    a[0] = v_abs(x);
    TINY_FN(tinyi_elem_erf)(a, 1);
    return TINY_FN(tinyi_elem_sign_of)(x, a[0]);
}

/* ---- 1 / (1 + e^-x), for negative x as e^x / (1 + e^x), which keeps its last bits down to denormals. By how
 * much the sum came out too large is known exactly, and the quotient gets it back. */
TINYI_ELEM_FN v_f32 v_sigmoid(v_f32 x)
{
    const v_f32 e = v_exp(v_neg(v_abs(x))), d = v_add(v_set(1.0f), e), more = v_sub(v_sub(d, v_set(1.0f)), e);
    const v_f32 y = v_div(v_select(v_lt(x, v_zero()), e, v_set(1.0f)), d);
    return v_fma(y, more, y);
}

/* ---- sine and cosine: x - n pi (for the cosine x - (n + 1/2) pi) is r in [-pi/2, pi/2], and sin r = r + r^3 S(r^2), S
 * 0.04 off. pi in three floats with fma, in four of 11 bits each without, so that the first products are exact; n keeps
 * 18 or 13 bits. Larger arguments are rare and go to the exact reduction of the reference, one by one. */
#define TINYI_ELEM_TURN_LIMIT (TINYI_ELEM_FMA ? 400000.0f : 12500.0f)

/* x - n h pi, h 1 or 1/2 */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_elem_turn)(v_f32 x, v_f32 n, float h)
{
#if TINYI_ELEM_FMA
    const v_f32 r = v_fnma(n, v_set(h * -8.74227766e-08f), v_fnma(n, v_set(h * 3.14159274f), x));
    return v_fnma(n, v_set(h * -3.43024902e-15f), r);
#else
    const v_f32 r = v_fnma(n, v_set(h * 0.000967502594f), v_fnma(n, v_set(h * 3.140625f), x)),
                c = v_mul(n, v_set(h * 1.50990672e-07f));
    const v_f32 s = v_sub(r, c), lost = v_sub(v_sub(r, s), c);     /* s rounds; what it lost goes with the last part */
    return v_add(s, v_fnma(n, v_set(h * 5.12668814e-12f), lost));
#endif
}

/* r + r^3 S(r^2), its sign turned where the lowest bit of odd is set */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_elem_sin_near)(v_f32 r, v_i32 odd)
{
    const v_f32 z = v_mul(r, r);
    v_f32 s = v_fma(z, v_set(-2.73784142e-08f), v_set(2.77271988e-06f));
    s = v_fma(s, z, v_set(-0.000198447597f));
    s = v_fma(s, z, v_set(0.00833335891f));
    s = v_fma(s, z, v_set(-0.166666672f));
    s = v_fma(v_mul(s, z), r, r);
#if !TINYI_ELEM_FMA
    {   /* the cube of more than 1.1 would round too much: cos(pi/2 - |r|) = 1 + q^2 C(q^2) there */
        const v_f32 a = v_abs(r), q = v_add(v_sub(v_set(1.57079637f), a), v_set(-4.37113883e-08f)), q2 = v_mul(q, q);
        v_f32 c = v_fma(q2, v_set(-0.00138022902f), v_set(0.0416659899f));
        c = v_fma(v_fma(c, q2, v_set(-0.5f)), q2, v_set(1.0f));
        s = v_select(v_lt(a, v_set(1.1f)), s, TINY_FN(tinyi_elem_sign_of)(r, c));
    }
#endif
    return v_float(vi_xor(v_bits(s), vi_shl(odd, 31)));
}

/* lanes of y whose x is beyond the limit (or no number) again */
static TINYI_NOINLINE v_f32 TINY_FN(tinyi_elem_turn_far)(v_f32 x, v_f32 y, int cosine)
{
    float a[V_LANES], b[V_LANES];
    int i;
    v_store(a, x);
    v_store(b, y);
    for (i = 0; i < V_LANES; i++)
        if (!(a[i] <= TINYI_ELEM_TURN_LIMIT && a[i] >= -TINYI_ELEM_TURN_LIMIT))
            b[i] = cosine ? tinyi_cos_ref(a[i]) : tinyi_sin_ref(a[i]);
    return v_load(b);
}

TINYI_ELEM_FN v_f32 v_sin(v_f32 x)
{
    const v_f32 t = v_fma(x, v_set(0.318309873f), v_set(12582912.0f)), n = v_sub(t, v_set(12582912.0f));
    v_f32 y = TINY_FN(tinyi_elem_sin_near)(TINY_FN(tinyi_elem_turn)(x, n, 1.0f), v_bits(t));
    y = v_select(v_eq(x, v_zero()), x, y);  /* the sign of -0 */
    return vm_all(v_le(v_abs(x), v_set(TINYI_ELEM_TURN_LIMIT))) ? y : TINY_FN(tinyi_elem_turn_far)(x, y, 0);
}

/* n here is the odd number of quarter turns: t = x/pi - 1/2 rounded, n = 2t + 1; the sine of the middle is -1 for odd t
 * + 1 */
TINYI_ELEM_FN v_f32 v_cos(v_f32 x)
{
    const v_f32 a = v_abs(x), t = v_add(v_fma(a, v_set(0.318309873f), v_set(-0.5f)), v_set(12582913.0f));
    const v_f32 n = v_fma(v_sub(t, v_set(12582913.0f)), v_set(2.0f), v_set(1.0f));
    const v_f32 y = TINY_FN(tinyi_elem_sin_near)(TINY_FN(tinyi_elem_turn)(a, n, 0.5f), v_bits(t));
    return vm_all(v_le(a, v_set(TINYI_ELEM_TURN_LIMIT))) ? y : TINY_FN(tinyi_elem_turn_far)(x, y, 1);
}

/* ---- 1 / sqrt(x); -0 gives -inf */
TINYI_FORCE_INLINE v_f32 v_rsqrt(v_f32 x)
{
#if V_AVX512
    /* one Newton step from 14 bits: y (1 + (1 - x y^2) / 2), 0.3 off; where x y^2 is no number y is right already */
    const v_f32 y = _mm512_maskz_rsqrt14_ps((__mmask16)0xffff, x), e = v_fnma(v_mul(x, y), y, v_set(1.0f));
    return v_select(v_isnan(e), y, v_fma(v_mul(y, v_set(0.5f)), e, y));
#else
    return v_div(v_set(1.0f), v_sqrt(x));
#endif
}

/* ---- activations */

/* x / (1 + e^-x); for negative x as x e^x / (1 + e^x) with the power of two last */
TINYI_ELEM_FN v_f32 v_silu(v_f32 x)
{
    const v_f32 c = v_max(v_set(-110.0f), x), b = v_min(v_set(110.0f), v_abs(c));
    const v_mask minus = v_lt(c, v_zero());
    v_f32 n, p = TINY_FN(tinyi_elem_exp_parts)(v_neg(b), &n);
    const v_f32 e = v_ldexp(p, n), d = v_add(v_set(1.0f), e), more = v_sub(v_sub(d, v_set(1.0f)), e);
    p = v_div(v_select(minus, v_mul(c, p), c), d);
    p = v_add(p, v_mul(v_min(p, v_set(3.40282347e+38f)), more));    /* inf * 0 would be NaN */
    return v_ldexp(p, v_select(minus, n, v_zero()));
}

/* x Phi(x) = max(x, 0) - t Phi(-t), t = |x|, and Phi(-t) = e^(-t^2/2) g(t), g a ratio of polynomials with positive
 * coefficients, 0.7 off. The square is split, t = h + l with 12 bits in h, since e^ makes its absolute error a relative
 * one: h^2/2 is exact, and l (t + h) / 2 is small. At 14.6 the product is 0. */
TINYI_ELEM_FN v_f32 v_gelu(v_f32 x)
{
    const v_f32 t = v_min(v_set(14.6f), v_abs(x)), h = v_float(vi_and(v_bits(t), vi_set(-4096)));
    const v_f32 s = v_mul(v_mul(h, h), v_set(-0.5f)), l = v_mul(v_mul(v_sub(t, h), v_add(t, h)), v_set(-0.5f));
    const v_f32 n = v_sub(v_fma(v_add(s, l), v_set(1.44269502f), v_set(TINYI_ELEM_COUNT)), v_set(TINYI_ELEM_COUNT));
    v_f32 p = TINY_FN(tinyi_elem_exp_near)(v_add(TINY_FN(tinyi_elem_exp_reduce)(s, n), l)), a, b;
    a = v_fma(t, v_set(0.00411891425f), v_set(0.0406542756f));
    a = v_fma(a, t, v_set(0.183302745f));
    a = v_fma(a, t, v_set(0.438394219f));
    a = v_fma(a, t, v_set(0.5f));
    b = v_fma(t, v_set(0.0103244688f), v_set(0.101911545f));
    b = v_fma(b, t, v_set(0.469647557f));
    b = v_fma(b, t, v_set(1.20279694f));
    b = v_fma(b, t, v_set(1.67467344f));
    b = v_fma(b, t, v_set(1.0f));
    p = v_mul(v_mul(t, p), v_div(a, b));
    return v_sub(v_max(v_set(-0.0f), x), v_ldexp(p, n));
}

/* x / (1 + e^-w), w = x (1.5957691 + 0.0713548 x^2), by the same symmetry: max(x, 0) - t e / (1 + e), e = e^-w(t).
 * At 10.8 the quotient is 0. Far below zero the error of w, times w, is one of e: small against |x|, not against the
 * result. */
TINYI_ELEM_FN v_f32 v_gelu_tanh(v_f32 x)
{
    const v_f32 t = v_min(v_set(10.8f), v_abs(x));
    const v_f32 e = v_exp(v_neg(v_mul(t, v_fma(v_mul(t, t), v_set(0.0713548163f), v_set(1.59576912f)))));
    return v_sub(v_max(v_set(-0.0f), x), v_div(v_mul(t, e), v_add(v_set(1.0f), e)));
}

TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_elem_relu)(v_f32 x) { return v_max(v_zero(), x); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_elem_relu2)(v_f32 x) { const v_f32 r = v_max(v_zero(), x); return v_mul(r, r); }

#if !V_EXTRA && !V_AMX                      /* those passes take the functions above only */
/* n <= V_LANES values: a masked store of all of them would be slow on avx2 */
TINYI_FORCE_INLINE void TINY_FN(tinyi_elem_put)(float *y, v_f32 v, size_t n)
{
    if (n == V_LANES) v_store(y, v);
    else v_store_n(y, v, n);
}

/* ---- kernels
 * Two vectors in flight, one at p and one at p + gap, or four, with two more at p + pair. A run is one block with a gap
 * of one vector. A long one, for results that no cache would keep, is cut into four stretches side by side, and stored
 * past the caches: four streams that go on for many pages are fetched faster than one (see gemv.simd.h), and no line of
 * y is read before it is written. A line is stored whole before the next stretch is touched, and stretches are 37 lines
 * more than whole pages apart: streams that share a set of the first cache take Zen 3 seven times as long (exp, 2^26
 * floats: 134 ms, 18 apart, memcpy 20). What is less than a step, or stands before the first whole line of y, goes
 * through a buffer, so that f is compiled once.
 * A long chain of instructions a vector leaves the processor's window too small to see the next lines early enough, so
 * they are asked for ahead of time; an address past the end is harmless. AVX-512, one thread: tanh over 32 MB takes
 * 0.44 ns a float without asking and 0.27 with; exp over 512 MB has 0.6 of the speed of memcpy as one run and 1.0 in
 * stretches. */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_ELEM_AHEAD(p, bytes) __builtin_prefetch((const void *)((uintptr_t)(p) + (bytes)))
#elif TINYI_MSVC && TINYI_X86
#define TINYI_ELEM_AHEAD(p, bytes) _mm_prefetch((const char *)((uintptr_t)(p) + (bytes)), _MM_HINT_T0)
#else
#define TINYI_ELEM_AHEAD(p, bytes) ((void)0)
#endif
#if V_AVX512
#define TINYI_ELEM_PAST(p, v) _mm512_stream_ps(p, v)
#define TINYI_ELEM_PAST_END() _mm_sfence()
#elif V_AVX2
#define TINYI_ELEM_PAST(p, v) _mm256_stream_ps(p, v)
#define TINYI_ELEM_PAST_END() _mm_sfence()
#else
#define TINYI_ELEM_PAST(p, v) v_store(p, v)
#define TINYI_ELEM_PAST_END() ((void)0)
#endif
#define TINYI_ELEM_STEP (2 * V_LANES)

typedef struct TINY_FN(tinyi_elem_block) {
    size_t n, end, width, step;             /* elements; end of the last stretch, width of all; steps in a stretch */
    /* from one vector to the other, from one pair to the next; bytes to look ahead */
    size_t gap, pair, ahead;
    int past;                               /* 1: store past the caches, -1: through the buffer */
} TINY_FN(tinyi_elem_block);

/* the next block of the n elements before y */
TINYI_FORCE_INLINE TINY_FN(tinyi_elem_block) TINY_FN(tinyi_elem_cut)(const float *y, size_t n, int past, size_t step)
{
    const size_t head = past ? (0 - (uintptr_t)y) % 64 / sizeof *y : 0;
    TINY_FN(tinyi_elem_block) b;
    b.past = 0;
    b.width = b.step = step;
    b.gap = V_LANES;
    b.pair = TINYI_ELEM_STEP;
    b.ahead = 2048;
    if (n < step || head) {
        b.n = head ? TINYI_MIN(TINYI_MIN(head, n), step) : n;
        b.end = step;
        b.past = -1;
    } else if (past && n >= 4096) {
        const size_t n_line = n / 64;
        b.width = b.pair = (n_line - (n_line - 37) % 64) * 16;
        b.n = b.end = 4 * b.width;
        b.step = TINYI_ELEM_STEP;
        b.ahead = 1024;
        b.past = 1;
        if (V_LANES * sizeof *y == 64) {
            b.gap = b.width;
            b.pair = 2 * b.width;
            b.step = V_LANES;
        }
    } else {
        b.n = b.end = n - n % step;
    }
    return b;
}

/* f of the two vectors at p + at and p + at + gap */
#define TINYI_ELEM_BLOCK(f, p, q, AGAIN)                                                \
    for (i = 0; i < width; i += step) {                                             \
        for (at = i; at < end; at += pair) {                                        \
            v_f32 c, d;                                                                 \
            TINYI_ELEM_AHEAD(p + at, ahead);                                          \
            TINYI_ELEM_AHEAD(p + at + gap, ahead);                                  \
            c = f(v_load(p + at));                                                      \
            d = f(v_load(p + at + gap));                                              \
            AGAIN                                                                       \
            if (past == 1) {                                                          \
                TINYI_ELEM_PAST(q + at, c);                                             \
                TINYI_ELEM_PAST(q + at + gap, d);                                     \
            } else {                                                                    \
                TINYI_ELEM_AHEAD(q + at, ahead);                                      \
                TINYI_ELEM_AHEAD(q + at + gap, ahead);                              \
                v_store(q + at, c);                                                     \
                v_store(q + at + gap, d);                                             \
            }                                                                           \
        }                                                                               \
    }

/* f of |x| at four places, and the signs */
#define TINYI_ELEM_PLACE(j) (at + ((j) & 1 ? gap : 0) + ((j) & 2 ? pair : 0))
#define TINYI_ELEM_LINE(j) \
    (!((j)&1) || V_LANES == 16) /* the first place in its line: two share one where vectors are shorter */
#define TINYI_ELEM_ODD(f, p, q)                                                         \
    for (i = 0; i < width; i += step) {                                             \
        for (at = i; at < end; at += 2 * pair) {                                    \
            v_f32 a[4];                                                                 \
            TINYI_UNROLL for (j = 0; j < 4; j++) {                                      \
                if (TINYI_ELEM_LINE(j)) TINYI_ELEM_AHEAD(p + TINYI_ELEM_PLACE(j), ahead); \
                a[j] = v_abs(v_load(p + TINYI_ELEM_PLACE(j)));                          \
            }                                                                           \
            TINY_FN(f)(a, 4);                                                           \
            TINYI_UNROLL for (j = 0; j < 4; j++) {                                      \
                const v_f32 c = TINY_FN(tinyi_elem_sign_of)(v_load(p + TINYI_ELEM_PLACE(j)), a[j]); \
                if (past == 1) {                                                      \
                    TINYI_ELEM_PAST(q + TINYI_ELEM_PLACE(j), c);                        \
                } else {                                                                \
                    if (TINYI_ELEM_LINE(j)) TINYI_ELEM_AHEAD(q + TINYI_ELEM_PLACE(j), ahead); \
                    v_store(q + TINYI_ELEM_PLACE(j), c);                                \
                }                                                                       \
            }                                                                           \
        }                                                                               \
    }

/* the blocks of y = f(x), or with a gate f(x) gate; which f, says body */
typedef void (*TINY_FN(tinyi_elem_body))(float *q, const float *p, const float *r, const TINY_FN(tinyi_elem_block) *of);
static TINYI_NOINLINE void TINY_FN(tinyi_elem_run)(TINY_FN(tinyi_elem_body) body, float *y, const float *x,
                                                   const float *gate, size_t n, size_t step)
{
    const int past = n >= TINYI_ELEM_LONG && y != x && y != gate;
    float rest[2 * TINYI_ELEM_STEP], rest_gate[2 * TINYI_ELEM_STEP];
    while (n) {
        const TINY_FN(tinyi_elem_block) b = TINY_FN(tinyi_elem_cut)(y, n, past, step);
        if (b.past < 0) {
            size_t j;                       /* by vectors: what was stored in pieces is slow to load as a whole */
            memset(rest, 0, sizeof rest);
            memset(rest_gate, 0, sizeof rest_gate);
            for (j = 0; j < b.n; j += V_LANES) {
                v_store(rest + j, v_load_n(x + j, TINYI_MIN(b.n - j, V_LANES)));
                if (gate) v_store(rest_gate + j, v_load_n(gate + j, TINYI_MIN(b.n - j, V_LANES)));
            }
            body(rest, rest, gate ? rest_gate : NULL, &b);
            memcpy(y, rest, b.n * sizeof *y);
        } else body(y, x, gate, &b);
        n -= b.n;
        x += b.n;
        y += b.n;
        if (gate) gate += b.n;
    }
    if (past) TINYI_ELEM_PAST_END();
}

#define TINYI_ELEM_BODY(name, BLOCK)                                                                    \
    static void TINY_FN(tinyi_elem_body_##name)(float *q, const float *p, const float *r,               \
                                                const TINY_FN(tinyi_elem_block) * of)                   \
    {                                                                                                   \
        const size_t width = of->width, end = of->end, step = of->step, gap = of->gap, pair = of->pair, \
                     ahead = of->ahead;                                                                 \
        const int past = of->past;                                                                      \
        size_t i, at;                                                                                   \
        (void)r;                                                                                        \
        BLOCK                                                                                           \
    }
#define TINYI_ELEM_OF(name, STEP)                                                       \
    static void TINY_FN(tinyi_##name##_f32)(float *y, const float *x, size_t n)         \
    {                                                                                   \
        TINY_FN(tinyi_elem_run)(TINY_FN(tinyi_elem_body_##name), y, x, NULL, n, STEP);  \
    }
#define TINYI_ELEM_GATED(name, body)                                                    \
    static void TINY_FN(tinyi_##name##_f32)(float *y, const float *u, const float *v, size_t n) \
    {                                                                                   \
        TINY_FN(tinyi_elem_run)(TINY_FN(tinyi_elem_body_##body), y, u, v, n, TINYI_ELEM_STEP); \
    }
#define TINYI_ELEM_GATE                                                                 \
    TINYI_ELEM_AHEAD(r + at, ahead);                                                  \
    TINYI_ELEM_AHEAD(r + at + gap, ahead);                                          \
    c = v_mul(c, v_load(r + at));                                                       \
    d = v_mul(d, v_load(r + at + gap));
#define TINYI_ELEM_KERNEL(name, f) \
    TINYI_ELEM_BODY(name, TINYI_ELEM_BLOCK(f, p, q, )) TINYI_ELEM_OF(name, TINYI_ELEM_STEP)
#define TINYI_ELEM_KERNEL_ODD(name, f) \
    TINYI_ELEM_BODY(name, int j; TINYI_ELEM_ODD(f, p, q)) TINYI_ELEM_OF(name, 2 * TINYI_ELEM_STEP)
/* y = f(u) v: the gated form shares the body, where no target loses by the branch */
#define TINYI_ELEM_KERNEL_GATED(name, gated, f)                                 \
    TINYI_ELEM_BODY(name, TINYI_ELEM_BLOCK(f, p, q, if (r){ TINYI_ELEM_GATE })) \
    TINYI_ELEM_OF(name, TINYI_ELEM_STEP) TINYI_ELEM_GATED(gated, name)

TINYI_ELEM_KERNEL(exp, v_exp)
TINYI_ELEM_KERNEL(log, v_log)
TINYI_ELEM_KERNEL_ODD(tanh, tinyi_elem_tanh)
TINYI_ELEM_KERNEL_ODD(erf, tinyi_elem_erf)
TINYI_ELEM_KERNEL(sigmoid, v_sigmoid)
TINYI_ELEM_KERNEL(sin, v_sin)
TINYI_ELEM_KERNEL(cos, v_cos)
TINYI_ELEM_KERNEL(rsqrt, v_rsqrt)
TINYI_ELEM_KERNEL(sqrt, v_sqrt)
TINYI_ELEM_KERNEL(abs, v_abs)
TINYI_ELEM_KERNEL(neg, v_neg)
TINYI_ELEM_KERNEL(relu, TINY_FN(tinyi_elem_relu))
TINYI_ELEM_KERNEL(relu2, TINY_FN(tinyi_elem_relu2))
TINYI_ELEM_KERNEL_GATED(silu, swiglu, v_silu)
TINYI_ELEM_KERNEL_GATED(gelu, geglu, v_gelu)
TINYI_ELEM_KERNEL(gelu_tanh, v_gelu_tanh)
TINYI_ELEM_BODY(geglu_tanh, TINYI_ELEM_BLOCK(v_gelu_tanh, p, q, TINYI_ELEM_GATE))
TINYI_ELEM_GATED(geglu_tanh, geglu_tanh)
TINYI_ELEM_BODY(reglu, TINYI_ELEM_BLOCK(TINY_FN(tinyi_elem_relu), p, q, TINYI_ELEM_GATE))
TINYI_ELEM_GATED(reglu, reglu)

#undef TINYI_ELEM_AHEAD
#undef TINYI_ELEM_PAST
#undef TINYI_ELEM_PAST_END
#undef TINYI_ELEM_STEP
#undef TINYI_ELEM_BLOCK
#undef TINYI_ELEM_KERNEL
#undef TINYI_ELEM_BODY
#undef TINYI_ELEM_OF
#undef TINYI_ELEM_KERNEL_GATED
#undef TINYI_ELEM_KERNEL_ODD
#undef TINYI_ELEM_ODD
#undef TINYI_ELEM_PLACE
#undef TINYI_ELEM_LINE
#undef TINYI_ELEM_GATE
#undef TINYI_ELEM_GATED

static void TINY_FN(tinyi_use_elem)(tinyi_kernels *k)
{
    TINYI_USE(k, exp_f32);
    TINYI_USE(k, log_f32);
    TINYI_USE(k, tanh_f32);
    TINYI_USE(k, erf_f32);
    TINYI_USE(k, sigmoid_f32);
    TINYI_USE(k, sin_f32);
    TINYI_USE(k, cos_f32);
    TINYI_USE(k, rsqrt_f32);
    TINYI_USE(k, sqrt_f32);
    TINYI_USE(k, abs_f32);
    TINYI_USE(k, neg_f32);
    TINYI_USE(k, relu_f32);
    TINYI_USE(k, relu2_f32);
    TINYI_USE(k, silu_f32);
    TINYI_USE(k, gelu_f32);
    TINYI_USE(k, gelu_tanh_f32);
    TINYI_USE(k, swiglu_f32);
    TINYI_USE(k, geglu_f32);
    TINYI_USE(k, geglu_tanh_f32);
    TINYI_USE(k, reglu_f32);
}
#endif
#undef TINYI_ELEM_EACH
#undef TINYI_ELEM_TOGETHER
#undef TINYI_ELEM_TURN_LIMIT
#undef TINYI_ELEM_COUNT
#undef TINYI_ELEM_FMA
#undef TINYI_ELEM_FN
