/* src/math/elem.c - references and drivers of the elementary functions; formulas and errors: math/elem.h */
#include <string.h>
#include "math/elem.h"
#include "math/rows_inside.h"
#include "math/table_inside.h"
#include "math/walk_inside.h"
#if (defined __SSE2__ && !defined __TINYC__) || defined _M_X64
#include <emmintrin.h>
#endif

TINY_REF_BEGIN

/* ---- bits, roots */

/* Processors make NaNs of different bits; the references return this one. */
static double tinyi_elem_nan64(void) { return tinyi_bits_f64((uint64_t)0x7ff80000u << 32); }
static double tinyi_elem_inf64(void) { return tinyi_bits_f64((uint64_t)0x7ff00000u << 32); }

/* sqrt(m * 2^-52) * 2^52 for 2^52 <= m < 2^54: 54 digits of the root one by one. The last one decides the rounding,
 * since a root of 53 bits is never halfway between two numbers. */
static TINYI_UNUSED uint64_t tinyi_elem_isqrt(uint64_t m)
{
    uint64_t root = 0, rest = 0;
    int i;
    for (i = 0; i < 54; i++) {              /* two bits of m at a time from bit 53 down, zeros after them */
        rest = rest << 2 | (m >> 52 & 3u);
        m = m << 2 & (((uint64_t)1 << 54) - 1);
        root <<= 1;
        if (rest >= 2 * root + 1) { rest -= 2 * root + 1; root |= 1; }
    }
    return (root + 1) >> 1;
}

TINYI_FN double tinyi_elem_sqrt_integer(double x)
{
    uint64_t u = tinyi_f64_bits(x), m = u & (((uint64_t)1 << 52) - 1);
    int e = (int)(u >> 52);
    if (x != x || x < 0) return tinyi_elem_nan64();
    if (u << 1 == 0 || e == 0x7ff) return x;
    if (e == 0) {
        for (e = 1; !(m >> 52); e--) m <<= 1;
    } else {
        m |= (uint64_t)1 << 52;
    }
    e -= 1023;                              /* x = m * 2^(e - 52), 2^52 <= m < 2^53 */
    /* the root of m * 2^-52 is in [1, 2): 53 bits from pairs that start at 2^52 */
    if (e & 1) { m <<= 1; e--; }
    return tinyi_bits_f64(tinyi_elem_isqrt(m) + ((uint64_t)(e / 2 + 1022) << 52));
}

TINYI_FN double tinyi_sqrt(double x)
{
    if (!(x >= 0)) return tinyi_elem_nan64();       /* -0 goes on: its root is -0 */
#if (defined __SSE2__ && !defined __TINYC__) || defined _M_X64
    {
        __m128d v = _mm_set_sd(x);
        return _mm_cvtsd_f64(_mm_sqrt_sd(v, v));
    }
#elif (defined __GNUC__ || defined __clang__) && defined __aarch64__
    {
        double r;
        __asm__("fsqrt %d0, %d1" : "=w"(r) : "w"(x));
        return r;
    }
#elif defined __GNUC__ && defined __riscv_flen && __riscv_flen >= 64
    {
        double r;
        __asm__("fsqrt.d %0, %1" : "=f"(r) : "f"(x));
        return r;
    }
#elif defined __GNUC__ && defined __s390x__
    {
        double r;
        __asm__("sqdbr %0, %1" : "=f"(r) : "f"(x));
        return r;
    }
#else
    return tinyi_elem_sqrt_integer(x);
#endif
}

/* The root of a float rounded to 53 bits and then to 24 is the root rounded to 24: 53 >= 2 * 24 + 2. */
TINYI_FN float tinyi_sqrtf(float x) { return tinyi_round_f32(tinyi_sqrt((double)x)); }

TINYI_FN double tinyi_sqrt64(double x) { return tinyi_sqrt(x); }

/* ---- exponential and logarithm */

static double tinyi_elem_pow2(int n) { return tinyi_bits_f64((uint64_t)(n + 1023) << 52); }

/* x * 2^n, |n| <= 1100: the first product is exact, so that a denormal result is rounded once */
static double tinyi_elem_scale(double x, int n) { return x * tinyi_elem_pow2(n / 2) * tinyi_elem_pow2(n - n / 2); }

/* the nearest integer, |x| < 2^51 */
static double tinyi_elem_nearest(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }

/* e^r - 1 on [-ln2/2, ln2/2]: r + r^2 q(r), the minimax q of degree 9, 2e-17 off */
static double tinyi_elem_expm1_near(double r)
{
    double q = 2.5109736123924818e-08;
    q = q * r + 2.7620208835648266e-07;
    q = q * r + 2.755724325597671e-06;
    q = q * r + 2.4801520970665945e-05;
    q = q * r + 0.000198412698856619;
    q = q * r + 0.001388888891750668;
    q = q * r + 0.008333333333322578;
    q = q * r + 0.04166666666662315;
    q = q * r + 0.16666666666666674;
    q = q * r + 0.5000000000000001;
    return r + r * r * q;
}

#define TINYI_LN2_HI 0.6931471804855391     /* 33 bits: n * hi is exact up to |n| = 2^20 */
#define TINYI_LN2_LO 7.440617110012397e-11
#define TINYI_LOG2_E 1.4426950408889634

TINYI_FN double tinyi_exp64(double x)
{
    double n;
    if (!(x <= 709.79)) return x != x ? tinyi_elem_nan64() : tinyi_elem_inf64();
    if (x < -745.2) return 0.0;
    n = tinyi_elem_nearest(x * TINYI_LOG2_E);
    return tinyi_elem_scale(1.0 + tinyi_elem_expm1_near((x - n * TINYI_LN2_HI) - n * TINYI_LN2_LO), (int)n);
}

/* In blocks of a length that compilers know and turn into vectors. Above -700 no result is denormal, so one product by
 * 2^n gives what the two of tinyi_elem_scale do; the integer n stands in the low bits of the sum that rounds to it. */
TINYI_FN void tinyi_exp64_below(double *y, const float *x, double top, size_t n)
{
    enum { BLOCK = 16 };
    size_t i = 0, j;
    for (; i + BLOCK <= n; i += BLOCK) {
        double d[BLOCK], e[BLOCK], least = 0.0;
        for (j = 0; j < BLOCK; j++) d[j] = (double)x[i + j] - top;
        for (j = 0; j < BLOCK; j++) least = d[j] < least ? d[j] : least;
        if (!(least > -700.0)) {
            for (j = 0; j < BLOCK; j++) y[i + j] = tinyi_exp64(d[j]);
            continue;
        }
        for (j = 0; j < BLOCK; j++) {
            const double shifted = d[j] * TINYI_LOG2_E + 6755399441055744.0, k = shifted - 6755399441055744.0;
            e[j] = tinyi_bits_f64((tinyi_f64_bits(shifted) + 1023) << 52);
            d[j] = 1.0 + tinyi_elem_expm1_near((d[j] - k * TINYI_LN2_HI) - k * TINYI_LN2_LO);
        }
        for (j = 0; j < BLOCK; j++) y[i + j] = d[j] * e[j];
    }
    for (; i < n; i++) y[i] = tinyi_exp64((double)x[i] - top);
}

/* -40 <= x <= 700; the sum loses nothing, because |p| < 0.42 and 2^n - 1 is 0 or at least 1/2 away from it */
static double tinyi_elem_expm1(double x)
{
    double n = tinyi_elem_nearest(x * TINYI_LOG2_E), s = tinyi_elem_pow2((int)n);
    return s * tinyi_elem_expm1_near((x - n * TINYI_LN2_HI) - n * TINYI_LN2_LO) + (s - 1.0);
}

/* x = 2^k m, m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f):
 * log m = 2 atanh s = 2 s + s^3 R(s^2) and 2 s = f - s f, so that the large term f is exact */
TINYI_FN double tinyi_log64(double x)
{
    uint64_t u;
    double f, s, z, r;
    int k = -1023;
    if (!(x > 0)) return x == 0 ? -tinyi_elem_inf64() : tinyi_elem_nan64();
    if (x == tinyi_elem_inf64()) return x;
    if (x < 2.2250738585072014e-308) { x *= 18014398509481984.0; k -= 54; }
    u = tinyi_f64_bits(x);
    k += (int)(u >> 52);
    u = (u & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
    f = tinyi_bits_f64(u);
    if (f >= 1.4142135623730951) { f *= 0.5; k++; }
    f -= 1.0;
    s = f / (2.0 + f);
    z = s * s;
    r = 0.1461738294982132;
    r = r * z + 0.15331643830990063;
    r = r * z + 0.18182891493217915;
    r = r * z + 0.2222221110333668;
    r = r * z + 0.28571428626137174;
    r = r * z + 0.3999999999989941;
    r = r * z + 0.666666666666667;
    return k * TINYI_LN2_HI + (f - (s * (f - z * r) - k * TINYI_LN2_LO));
}

/* tanh a = E / (E + 2), E = e^(2a) - 1 */
TINYI_FN double tinyi_tanh64(double x)
{
    double a = x < 0 ? -x : x, e;
    if (x != x) return tinyi_elem_nan64();
    if (a < 1e-8) return x;                 /* x^3/3 is beyond the last bit; keeps -0 */
    if (a > 22.0) return x < 0 ? -1.0 : 1.0;
    e = tinyi_elem_expm1(2.0 * a);
    e = e / (e + 2.0);
    return x < 0 ? -e : e;
}

/* ---- error function */

/* erf x on [0, 1]: x E(x^2), the minimax E of degree 11, 2e-17 off */
static double tinyi_elem_erf_near(double x)
{
    double z = x * x, e = -7.787140262998892e-10;
    e = e * z + 1.3714890690730486e-08;
    e = e * z + -1.6207152295375514e-07;
    e = e * z + 1.6447228937057237e-06;
    e = e * z + -1.4924718787982984e-05;
    e = e * z + 0.00012055293808155596;
    e = e * z + -0.0008548325931727704;
    e = e * z + 0.005223977605995373;
    e = e * z + -0.02686617064306099;
    e = e * z + 0.11283791670943447;
    e = e * z + -0.37612638903183476;
    e = e * z + 1.1283791670955126;
    return x * e;
}

/* erfc x on [1, 27.3]: e^(-x^2) P(t) / (1 + 2x), t = (x - 3) / (x + 3), P of degree 18, 2e-16 off. The square is taken
 * in two parts, since e^ makes its absolute error a relative one. */
static double tinyi_elem_erfc_far(double x)
{
    double t = (x - 3.0) / (x + 3.0), p = 1.7713805231107053e-07;
    double h = tinyi_bits_f64(tinyi_f64_bits(x) & ~(((uint64_t)1 << 27) - 1));
    p = p * t + -7.84454402307265e-07;
    p = p * t + 1.4622444671682768e-07;
    p = p * t + 3.7019331642135354e-06;
    p = p * t + -7.047700521781352e-07;
    p = p * t + -2.0203648057461813e-05;
    p = p * t + 4.964374999229059e-06;
    p = p * t + 0.00012512263929662828;
    p = p * t + -0.00010516597353485175;
    p = p * t + -0.0007798351894074988;
    p = p * t + 0.0018886913379933487;
    p = p * t + 0.002529392020247327;
    p = p * t + -0.023770514994949695;
    p = p * t + 0.06830802733639442;
    p = p * t + -0.11927366341249673;
    p = p * t + 0.12964515870289164;
    p = p * t + -0.04756229435348956;
    p = p * t + -0.1356211061245819;
    p = p * t + 1.2530080582697298;
    return tinyi_exp64(-(h * h)) * tinyi_exp64(-((x - h) * (x + h))) * (p / (1.0 + 2.0 * x));
}

TINYI_FN double tinyi_erf64(double x)
{
    double a = x < 0 ? -x : x, r;
    if (x != x) return tinyi_elem_nan64();
    if (a <= 1.0) return tinyi_elem_erf_near(x);
    r = a > 6.0 ? 1.0 : 1.0 - tinyi_elem_erfc_far(a);
    return x < 0 ? -r : r;
}

/* 1 - erf x without cancellation, x >= 0 */
static double tinyi_elem_erfc(double x)
{
    return x <= 1.0 ? 1.0 - tinyi_elem_erf_near(x) : x > 27.3 ? 0.0 : tinyi_elem_erfc_far(x);
}

/* ---- sine and cosine */

/* the bits of 2/pi behind the point: enough for the largest double */
static const uint32_t tinyi_elem_two_over_pi[37] = {
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
    0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u,
    0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu,
    0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
    0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u
};

/* 64 bits of the number p (least word first) from bit at up */
static uint64_t tinyi_elem_bits_at(const uint32_t *p, int at)
{
    int w = at / 32, b = at % 32;
    uint64_t r = ((uint64_t)p[w + 1] << 32 | p[w]) >> b;
    return b ? r | (uint64_t)p[w + 2] << (64 - b) : r;
}

/* x = (4 k + q) pi/2 + *r + *l, q in 0..3 the answer, |*r| <= pi/4, *l the rest of the rounding. M. Payne and R. Hanek,
 * "Radian reduction for trigonometric functions", 1983: only those bits of 2/pi are multiplied that make neither whole
 * turns nor less than 2^-138; the product is exact, and no double comes nearer to a multiple of pi/2 than 2^-62. */
static int tinyi_elem_reduce(double x, double *r, double *l)
{
    uint64_t u = tinyi_f64_bits(x), m = (u & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52, hi, lo, carry;
    int e = (int)(u >> 52 & 0x7ff) - 1075, w0 = e > 2 ? (e - 2) / 32 : 0;
    int s = 224 + 32 * w0 - e;              /* the product of seven words counts units of 2^-s */
    uint32_t p[11] = { 0 };
    int i, j, q, neg, z = 0;
    double fh, fl, a, b, c;
    for (j = 0; j < 2; j++) {
        uint64_t mj = j ? m >> 32 : m & 0xffffffffu;
        for (i = 0, carry = 0; i < 7; i++) {
            carry += mj * tinyi_elem_two_over_pi[w0 + 6 - i] + p[i + j];
            p[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        p[7 + j] = (uint32_t)carry;
    }
    q = (int)(tinyi_elem_bits_at(p, s) & 3u);
    hi = tinyi_elem_bits_at(p, s - 64);     /* the fraction in units of 2^-128 */
    lo = tinyi_elem_bits_at(p, s - 128);
    neg = (int)(hi >> 63);
    if (neg) {                              /* above one half: one quarter more, minus the rest */
        q++;
        hi = ~hi;
        lo = ~lo + 1;
        if (!lo) hi++;
    }
    if (!hi) { hi = lo; lo = 0; z = 64; }
    while (!(hi >> 63)) { hi = hi << 1 | lo >> 63; lo <<= 1; z++; }
    fh = (double)(hi >> 11) * tinyi_elem_pow2(-53 - z);
    fl = (double)((hi & 0x7ffu) << 42 | lo >> 22) * tinyi_elem_pow2(-106 - z);
    /* times pi/2 = 1.57079632... + 6.1e-17, the product of the heads exact by Dekker's halves of 26 bits */
    a = tinyi_bits_f64(tinyi_f64_bits(fh) & ~(((uint64_t)1 << 27) - 1));
    b = 1.5707963109016418;                 /* the upper 26 bits of pi/2; the lower: */
    c = 1.5893254712295857e-08;
    *r = fh * 1.5707963267948966;
    *l =
        ((a * b - *r) + (a * c + (fh - a) * b)) + (fh - a) * c + (fh * 6.123233995736766e-17 + fl * 1.5707963267948966);
    if (neg != (int)(u >> 63)) { *r = -*r; *l = -*l; }
    return u >> 63 ? (4 - q) & 3 : q & 3;
}

/* on [-pi/4, pi/4], r + l: minimax polynomials, 2e-17 off */
static double tinyi_elem_sin_near(double r, double l)
{
    double z = r * r, s = 1.5919287670810613e-10;
    s = s * z + -2.5051151523770568e-08;
    s = s * z + 2.7557316224098215e-06;
    s = s * z + -0.0001984126983708695;
    s = s * z + 0.00833333333333131;
    s = s * z + -0.16666666666666666;
    return r + (r * z * s + l * (1.0 - 0.5 * z));
}

static double tinyi_elem_cos_near(double r, double l)
{
    double z = r * r, h = 0.5 * z, w = 1.0 - h, c = -1.138154992080459e-11;
    c = c * z + 2.087612792148939e-09;
    c = c * z + -2.755731715864386e-07;
    c = c * z + 2.4801587298460696e-05;
    c = c * z + -0.0013888888888887061;
    c = c * z + 0.041666666666666664;
    return w + (((1.0 - w) - h) + (z * z * c - r * l));
}

/* sin(x + quarters * pi/2) */
static double tinyi_elem_sin_quarter(double x, int quarters)
{
    double r = x, l = 0.0, y;
    int q = quarters;
    if (!(x - x == 0)) return tinyi_elem_nan64();
    if (x > 0.7853981633974483 || x < -0.7853981633974483) q += tinyi_elem_reduce(x, &r, &l);
    y = q & 1 ? tinyi_elem_cos_near(r, l) : tinyi_elem_sin_near(r, l);
    return q & 2 ? -y : y;
}

TINYI_FN void tinyi_sincos64(double x, double *s, double *c)
{
    double r = x, l = 0.0;
    int q = 0;
    if (!(x - x == 0)) { *s = *c = tinyi_elem_nan64(); return; }
    if (x > 0.7853981633974483 || x < -0.7853981633974483) q = tinyi_elem_reduce(x, &r, &l);
    *s = q & 1 ? tinyi_elem_cos_near(r, l) : x == 0 ? x : tinyi_elem_sin_near(r, l);
    *c = q & 1 ? tinyi_elem_sin_near(r, l) : tinyi_elem_cos_near(r, l);
    if (q & 2) *s = -*s;
    if ((q + 1) & 2) *c = -*c;
}

TINYI_FN double tinyi_sin64(double x) { return x == 0 ? x : tinyi_elem_sin_quarter(x, 0); }
TINYI_FN double tinyi_cos64(double x) { return tinyi_elem_sin_quarter(x, 1); }

/* In units of 1/(8n) turn the symmetries are exact integers; what remains is at most an eighth of a turn. */
TINYI_FN void tinyi_cis64(uint64_t k, uint64_t n, double *c, double *s)
{
    uint64_t a = k % n * 8;
    int minus_s = 0, minus_c = 0, swap = 0;
    double x, y, t;
    if (a > 4 * n) { a = 8 * n - a; minus_s = 1; }
    if (a > 2 * n) { a = 4 * n - a; minus_c = 1; }
    if (a > n) { a = 2 * n - a; swap = 1; }
    t = (double)a / (double)n * 0.7853981633974483;
    x = tinyi_elem_cos_near(t, 0.0);
    y = tinyi_elem_sin_near(t, 0.0);
    if (swap) { t = x; x = y; y = t; }
    *c = minus_c ? -x : x;
    *s = minus_s ? -y : y;
}

/* ---- the references of one float */

TINYI_FN float tinyi_exp_ref(float x) { return tinyi_round_f32(tinyi_exp64((double)x)); }
TINYI_FN float tinyi_log_ref(float x) { return tinyi_round_f32(tinyi_log64((double)x)); }
TINYI_FN float tinyi_tanh_ref(float x) { return tinyi_round_f32(tinyi_tanh64((double)x)); }
TINYI_FN float tinyi_erf_ref(float x) { return tinyi_round_f32(tinyi_erf64((double)x)); }
TINYI_FN float tinyi_sin_ref(float x) { return tinyi_round_f32(tinyi_sin64((double)x)); }
TINYI_FN float tinyi_cos_ref(float x) { return tinyi_round_f32(tinyi_cos64((double)x)); }
TINYI_FN float tinyi_rsqrt_ref(float x)
{
    const uint32_t u = tinyi_f32_bits(x);
    if (u << 1 == 0) return tinyi_bits_f32(u | 0x7f800000u);
    return tinyi_round_f32(1.0 / tinyi_sqrt((double)x));
}
TINYI_FN float tinyi_sigmoid_ref(float x) { return tinyi_round_f32(1.0 / (1.0 + tinyi_exp64(-(double)x))); }

/* The limits at minus infinity are -0: the functions come to it from below. */
static double tinyi_elem_silu(double x) { return x < -200.0 ? -0.0 : x / (1.0 + tinyi_exp64(-x)); }

/* x Phi(x) = x/2 erfc(-x / sqrt(2)) */
static double tinyi_elem_gelu(double x)
{
    if (x < -20.0) return -0.0;
    if (x > 20.0) return x;
    return x > 0 ? x - 0.5 * x * tinyi_elem_erfc(x * 0.7071067811865476)
                 : 0.5 * x * tinyi_elem_erfc(x * -0.7071067811865476);
}

/* x/2 (1 + tanh u) = x / (1 + e^(-2u)), 2u = 2 sqrt(2/pi) (x + 0.044715 x^3) */
static double tinyi_elem_gelu_tanh(double x)
{
    return x < -20.0 ? -0.0 : x / (1.0 + tinyi_exp64(-x * (1.5957691216057308 + 0.07135481627260025 * (x * x))));
}

/* 0 > x ? 0 : x, by bits: clang makes one instruction of that comparison, and on ARM it turns -0 into 0. */
static double tinyi_elem_relu(double x) { return x == x && tinyi_f64_bits(x) > (uint64_t)1 << 63 ? 0.0 : x; }

TINYI_FN float tinyi_silu_ref(float x) { return tinyi_round_f32(tinyi_elem_silu((double)x)); }
TINYI_FN float tinyi_gelu_ref(float x) { return tinyi_round_f32(tinyi_elem_gelu((double)x)); }
TINYI_FN float tinyi_gelu_tanh_ref(float x) { return tinyi_round_f32(tinyi_elem_gelu_tanh((double)x)); }

static double tinyi_elem_one(int kind, double x)
{
    switch (kind) {
    case TINY_OP_EXP: return tinyi_exp64(x);
    case TINY_OP_LOG: return tinyi_log64(x);
    case TINY_OP_TANH: return tinyi_tanh64(x);
    case TINY_OP_ERF: return tinyi_erf64(x);
    case TINY_OP_SIGMOID: return 1.0 / (1.0 + tinyi_exp64(-x));
    case TINY_OP_SIN: return tinyi_sin64(x);
    case TINY_OP_COS: return tinyi_cos64(x);
    case TINY_OP_RSQRT:
        return x == 0 ? tinyi_bits_f64(tinyi_f64_bits(x) | (uint64_t)0x7ff00000u << 32) : 1.0 / tinyi_sqrt(x);
    case TINY_OP_SQRT: return tinyi_sqrt(x);
    case TINY_OP_ABS: return x < 0 ? -x : x + 0.0;  /* + 0: the sign of -0 */
    case TINY_OP_NEG: return -x;
    case TINY_OP_RELU: return tinyi_elem_relu(x);
    case TINY_OP_RELU2: return tinyi_elem_relu(x) * tinyi_elem_relu(x);
    case TINY_OP_SILU: return tinyi_elem_silu(x);
    case TINY_OP_GELU: return tinyi_elem_gelu(x);
    default: return tinyi_elem_gelu_tanh(x);
    }
}

TINYI_FN double tinyi_elem_ref_of(int kind, double x) { return tinyi_elem_one(kind, x); }

static double tinyi_elem_at(const tiny_tensor *t, tiny_idx i)
{
    return tinyi_real(t->data, t->dtype, tinyi_walk_element(t, i));
}

static void tinyi_elem_ref(const tiny_op *op)
{
    const tiny_tensor *x = op->in[0], *y = op->out[0];
    tiny_idx i, n = tiny_tensor_count(y);
    for (i = 0; i < n; i++)
        tinyi_real_set(y->data, y->dtype, tinyi_walk_element(y, i), tinyi_elem_one(op->kind, tinyi_elem_at(x, i)));
}

static double tinyi_elem_gate(int kind, double a)
{
    switch (kind) {
    case TINY_OP_SWIGLU: return tinyi_elem_silu(a);
    case TINY_OP_GEGLU: return tinyi_elem_gelu(a);
    case TINY_OP_GEGLU_TANH: return tinyi_elem_gelu_tanh(a);
    default: return tinyi_elem_relu(a);
    }
}

static void tinyi_glu_ref(const tiny_op *op)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];
    tiny_idx i, n = tiny_tensor_count(y);
    for (i = 0; i < n; i++)
        tinyi_real_set(y->data, y->dtype, tinyi_walk_element(y, i),
                       tinyi_elem_gate(op->kind, tinyi_elem_at(a, i)) * tinyi_elem_at(b, i));
}

TINY_REF_END

/* ---- shapes and cost */

static tiny_status tinyi_elem_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *x = op->in[0];
    if (!tinyi_is_real(x))
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: x must be f32 or f64, not %s", tinyi_op_row(op)->name,
                          tiny_dtype_name(x->dtype));
    tinyi_want(&want[0], x->dtype, x->rank, x->dim);
    return TINY_OK;
}

static tiny_status tinyi_glu_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    const tiny_tensor *a = op->in[0], *b = op->in[1];
    const char *name = tinyi_op_row(op)->name;
    char ta[96], tb[96];
    int i, same = a->rank == b->rank;
    if (!tinyi_is_real(a) || b->dtype != a->dtype)
        return tinyi_fail(ctx, TINY_E_DTYPE, "%s: a and b must be f32, or f64, not %s", name,
                          tiny_dtype_name(!tinyi_is_real(a) ? a->dtype : b->dtype));
    for (i = 0; same && i < a->rank; i++) same = a->dim[i] == b->dim[i];
    if (!same)
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: a is %s and b is %s: they must have the same shape", name,
                          tinyi_shape_text(a, ta), tinyi_shape_text(b, tb));
    tinyi_want(&want[0], a->dtype, a->rank, a->dim);
    return TINY_OK;
}

/* In flops about the instructions of a vector, so that work is shared where it pays. */
static void tinyi_elem_cost(const tiny_op *op, tiny_cost *cost)
{
    double n = (double)tiny_tensor_count(op->out[0]), each;
    switch (op->kind) {
    case TINY_OP_SQRT:
    case TINY_OP_ABS:
    case TINY_OP_NEG:
    case TINY_OP_RELU:
    case TINY_OP_RELU2:
    case TINY_OP_REGLU: each = 1.0; break;
    case TINY_OP_RSQRT: each = 2.0; break;
    default: each = 24.0; break;
    }
    cost->flops = each * n;
    cost->bytes = (op->in[1] ? 12.0 : 8.0) * n;
}

/* ---- fast: dense runs go to the kernel as they are, others through a buffer */

#define TINYI_ELEM_GRAIN 32768              /* elements: about ten microseconds */
#define TINYI_ELEM_BUFFER 256

/* Elements handed to a kernel at once: many where all tensors together are larger than the last cache. */
static tiny_idx tinyi_elem_piece(const tiny_team *team, tiny_idx total, int n_tensors)
{
    return (double)total * (double)n_tensors * sizeof(float) > (double)team->k->cache[3] ? 4 * TINYI_ELEM_LONG
                                                                                         : TINYI_ELEM_GRAIN;
}

typedef void (*tinyi_elem_fn)(float *y, const float *x, size_t n);
typedef void (*tinyi_glu_fn)(float *y, const float *a, const float *b, size_t n);

static tinyi_elem_fn tinyi_elem_kernel(tiny_team *team, int kind)
{
    switch (kind) {
    case TINY_OP_EXP: return TINYI_K(team, exp_f32);
    case TINY_OP_LOG: return TINYI_K(team, log_f32);
    case TINY_OP_TANH: return TINYI_K(team, tanh_f32);
    case TINY_OP_ERF: return TINYI_K(team, erf_f32);
    case TINY_OP_SIGMOID: return TINYI_K(team, sigmoid_f32);
    case TINY_OP_SIN: return TINYI_K(team, sin_f32);
    case TINY_OP_COS: return TINYI_K(team, cos_f32);
    case TINY_OP_RSQRT: return TINYI_K(team, rsqrt_f32);
    case TINY_OP_SQRT: return TINYI_K(team, sqrt_f32);
    case TINY_OP_ABS: return TINYI_K(team, abs_f32);
    case TINY_OP_NEG: return TINYI_K(team, neg_f32);
    case TINY_OP_RELU: return TINYI_K(team, relu_f32);
    case TINY_OP_RELU2: return TINYI_K(team, relu2_f32);
    case TINY_OP_SILU: return TINYI_K(team, silu_f32);
    case TINY_OP_GELU: return TINYI_K(team, gelu_f32);
    default: return TINYI_K(team, gelu_tanh_f32);
    }
}

static void tinyi_elem_fast(tiny_team *team, const tiny_op *op)
{
    const tinyi_elem_fn f = tinyi_elem_kernel(team, op->kind);
    const tiny_tensor *t[2];
    const ptrdiff_t one = (ptrdiff_t)sizeof(float);
    float buffer[TINYI_ELEM_BUFFER];
    tinyi_walk w;
    tinyi_walk_at at;
    tiny_idx i0, i1, n, step, piece;
    t[0] = op->out[0];
    t[1] = op->in[0];
    tinyi_walk_plan(&w, t, 2);
    piece = tinyi_elem_piece(team, w.total, 2);
    while (tiny_take(team, w.total, piece, &i0, &i1)) {
        for (tinyi_walk_seek(&w, &at, i0, i1); at.run; tinyi_walk_next(&w, &at)) {
            float *y = (float *)(void *)at.p[0];
            const float *x = (const float *)(const void *)at.p[1];
            if (w.step[0] == one && w.step[1] == one) {
                for (n = 0; n < at.run; n += piece) f(y + n, x + n, (size_t)TINYI_MIN(piece, at.run - n));
                continue;
            }
            for (n = at.run; n > 0; n -= step, x += step * (w.step[1] / one), y += step * (w.step[0] / one)) {
                step = TINYI_MIN(n, TINYI_ELEM_BUFFER);
                tinyi_row_gather(buffer, x, step, w.step[1] / one);
                f(buffer, buffer, (size_t)step);
                tinyi_row_scatter(y, buffer, step, w.step[0] / one);
            }
        }
    }
}

static void tinyi_glu_with(tiny_team *team, const tiny_op *op, tinyi_glu_fn f)
{
    const tiny_tensor *t[3];
    const ptrdiff_t one = (ptrdiff_t)sizeof(float);
    float ba[TINYI_ELEM_BUFFER], bb[TINYI_ELEM_BUFFER];
    tinyi_walk w;
    tinyi_walk_at at;
    tiny_idx i0, i1, n, step, piece;
    t[0] = op->out[0];
    t[1] = op->in[0];
    t[2] = op->in[1];
    tinyi_walk_plan(&w, t, 3);
    piece = tinyi_elem_piece(team, w.total, 3);
    while (tiny_take(team, w.total, piece, &i0, &i1)) {
        for (tinyi_walk_seek(&w, &at, i0, i1); at.run; tinyi_walk_next(&w, &at)) {
            float *y = (float *)(void *)at.p[0];
            const float *a = (const float *)(const void *)at.p[1], *b = (const float *)(const void *)at.p[2];
            if (w.step[0] == one && w.step[1] == one && w.step[2] == one) {
                for (n = 0; n < at.run; n += piece) f(y + n, a + n, b + n, (size_t)TINYI_MIN(piece, at.run - n));
                continue;
            }
            for (n = at.run; n > 0; n -= step, a += step * (w.step[1] / one), b += step * (w.step[2] / one),
                y += step * (w.step[0] / one)) {
                step = TINYI_MIN(n, TINYI_ELEM_BUFFER);
                tinyi_row_gather(ba, a, step, w.step[1] / one);
                tinyi_row_gather(bb, b, step, w.step[2] / one);
                f(ba, ba, bb, (size_t)step);
                tinyi_row_scatter(y, ba, step, w.step[0] / one);
            }
        }
    }
}
#define TINYI_GLU_FAST(name)                                            \
    static void tinyi_##name##_fast(tiny_team *team, const tiny_op *op) \
    {                                                                   \
        tinyi_glu_with(team, op, TINYI_K(team, name##_f32));            \
    }
TINYI_GLU_FAST(swiglu)
TINYI_GLU_FAST(geglu)
TINYI_GLU_FAST(geglu_tanh)
TINYI_GLU_FAST(reglu)
#undef TINYI_GLU_FAST

/* ---- cases: usual sizes, and every third of the functions of one argument over forty binades */

static void tinyi_elem_case_shape(tiny_case *c, int n_in)
{
    int rank = c->index == 0 ? 1 : tiny_case_pick(c, TINY_MAX_RANK + 1), i, j;
    for (j = 0; j < n_in; j++) c->in[j].rank = rank;
    for (i = 0; i < rank; i++) {
        tiny_idx d = tiny_case_dim(c, i == rank - 1 ? rank == 1 ? 40000 : 300 : 5);
        for (j = 0; j < n_in; j++) c->in[j].dim[i] = d;
    }
}

static void tinyi_elem_cases(tiny_case *c)
{
    tinyi_elem_case_shape(c, 1);
    if (c->index % 3 == 1) c->fill[0] = TINY_FILL_WIDE;
}

/* arguments of log, sqrt and rsqrt are positive but for the special values */
static void tinyi_elem_cases_positive(tiny_case *c)
{
    tinyi_elem_case_shape(c, 1);
    c->fill[0] = c->index % 3 == 1 ? TINY_FILL_WIDE : c->index % 4 == 3 ? TINY_FILL_NORMAL : TINY_FILL_POSITIVE;
}

static void tinyi_glu_cases(tiny_case *c) { tinyi_elem_case_shape(c, 2); }

/* ---- rows. Bounds: the error of the fast form as the rows say, and half an ulp for the reference */

#define TINYI_ELEM_KERNELS(name) static const short tinyi_kernels_of_##name[] = { TINYI_K_##name##_f32, -1 };
TINYI_ELEM_KERNELS(exp)
TINYI_ELEM_KERNELS(log)
TINYI_ELEM_KERNELS(tanh)
TINYI_ELEM_KERNELS(erf)
TINYI_ELEM_KERNELS(sigmoid)
TINYI_ELEM_KERNELS(sin)
TINYI_ELEM_KERNELS(cos)
TINYI_ELEM_KERNELS(rsqrt)
TINYI_ELEM_KERNELS(sqrt)
TINYI_ELEM_KERNELS(abs)
TINYI_ELEM_KERNELS(neg)
TINYI_ELEM_KERNELS(relu)
TINYI_ELEM_KERNELS(relu2)
TINYI_ELEM_KERNELS(silu)
TINYI_ELEM_KERNELS(gelu)
TINYI_ELEM_KERNELS(gelu_tanh)
TINYI_ELEM_KERNELS(swiglu)
TINYI_ELEM_KERNELS(geglu)
TINYI_ELEM_KERNELS(geglu_tanh)
TINYI_ELEM_KERNELS(reglu)
#undef TINYI_ELEM_KERNELS

TINYI_ROW tinyi_row_exp = TINYI_ROW_OF("exp", TINY_OP_EXP, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 2.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_exp), SAYS("y = e^x"));
TINYI_ROW tinyi_row_log = TINYI_ROW_OF("log", TINY_OP_LOG, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases_positive), BOUND(TINY_BOUND_ULP, 2.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_log), SAYS("y = log x, natural; -inf at 0, NaN below"));
TINYI_ROW tinyi_row_tanh = TINYI_ROW_OF("tanh", TINY_OP_TANH, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 2.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_tanh), SAYS("y = tanh x"));
TINYI_ROW tinyi_row_erf = TINYI_ROW_OF("erf", TINY_OP_ERF, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 2.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_erf), SAYS("y = erf x = 2/sqrt(pi) * integral of e^(-t^2) from 0 to x"));
TINYI_ROW tinyi_row_sigmoid = TINYI_ROW_OF("sigmoid", TINY_OP_SIGMOID, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 2.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_sigmoid), SAYS("y = 1 / (1 + e^-x)"));
TINYI_ROW tinyi_row_sin = TINYI_ROW_OF("sin", TINY_OP_SIN, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 2.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_sin), SAYS("y = sin x"));
TINYI_ROW tinyi_row_cos = TINYI_ROW_OF("cos", TINY_OP_COS, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 2.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_cos), SAYS("y = cos x"));
TINYI_ROW tinyi_row_rsqrt = TINYI_ROW_OF("rsqrt", TINY_OP_RSQRT, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases_positive), BOUND(TINY_BOUND_ULP, 2.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_rsqrt), SAYS("y = 1 / sqrt(x)"));
TINYI_ROW tinyi_row_sqrt = TINYI_ROW_OF("sqrt", TINY_OP_SQRT, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases_positive), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_sqrt), SAYS("y = sqrt(x), correctly rounded"));
TINYI_ROW tinyi_row_abs = TINYI_ROW_OF("abs", TINY_OP_ABS, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_abs), SAYS("y = |x|"));
TINYI_ROW tinyi_row_neg = TINYI_ROW_OF("neg", TINY_OP_NEG, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_neg), SAYS("y = -x"));
/* The value exactly; max(-0, 0) may be either zero, and compilers and processors choose differently. */
TINYI_ROW tinyi_row_relu = TINYI_ROW_OF("relu", TINY_OP_RELU, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_relu), SAYS("y = max(x, 0)"));
TINYI_ROW tinyi_row_relu2 = TINYI_ROW_OF("relu2", TINY_OP_RELU2, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_EXACT, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_relu2), SAYS("y = max(x, 0)^2"));
TINYI_ROW tinyi_row_silu = TINYI_ROW_OF("silu", TINY_OP_SILU, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 3.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_silu), SAYS("y = x / (1 + e^-x)"));
TINYI_ROW tinyi_row_gelu = TINYI_ROW_OF("gelu", TINY_OP_GELU, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_ULP, 6.5, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_gelu), SAYS("y = x/2 (1 + erf(x / sqrt(2)))"));
TINYI_ROW tinyi_row_gelu_tanh = TINYI_ROW_OF("gelu_tanh", TINY_OP_GELU_TANH, TAKES(1, 1), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_F64),
    SHAPE(tinyi_elem_shape), REFERENCE(tinyi_elem_ref), FAST(tinyi_elem_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_elem_cases), BOUND(TINY_BOUND_LINEAR, 4, 0), TERMS(NULL), GRADIENT(tinyi_grad_elem),
    KERNELS(tinyi_kernels_of_gelu_tanh), SAYS("y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"));
TINYI_ROW tinyi_row_swiglu = TINYI_ROW_OF("swiglu", TINY_OP_SWIGLU, TAKES(2, 2), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_glu_shape), REFERENCE(tinyi_glu_ref), FAST(tinyi_swiglu_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_glu_cases), BOUND(TINY_BOUND_LINEAR, 6, 0), TERMS(NULL), GRADIENT(tinyi_grad_glu),
    KERNELS(tinyi_kernels_of_swiglu), SAYS("y = silu(a) b"));
TINYI_ROW tinyi_row_geglu = TINYI_ROW_OF("geglu", TINY_OP_GEGLU, TAKES(2, 2), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_glu_shape), REFERENCE(tinyi_glu_ref), FAST(tinyi_geglu_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_glu_cases), BOUND(TINY_BOUND_LINEAR, 7, 0), TERMS(NULL), GRADIENT(tinyi_grad_glu),
    KERNELS(tinyi_kernels_of_geglu), SAYS("y = gelu(a) b"));
TINYI_ROW tinyi_row_geglu_tanh = TINYI_ROW_OF("geglu_tanh", TINY_OP_GEGLU_TANH, TAKES(2, 2), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_glu_shape), REFERENCE(tinyi_glu_ref), FAST(tinyi_geglu_tanh_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_glu_cases), BOUND(TINY_BOUND_LINEAR, 6, 0), TERMS(NULL), GRADIENT(tinyi_grad_glu),
    KERNELS(tinyi_kernels_of_geglu_tanh), SAYS("y = gelu_tanh(a) b"));
TINYI_ROW tinyi_row_reglu = TINYI_ROW_OF("reglu", TINY_OP_REGLU, TAKES(2, 2), GIVES(1), NO_PARAMS,
    FLAGS(TINY_OP_INPLACE | TINY_OP_INPLACE_1 | TINY_OP_F64),
    SHAPE(tinyi_glu_shape), REFERENCE(tinyi_glu_ref), FAST(tinyi_reglu_fast, NULL), COST(tinyi_elem_cost),
    CASES(tinyi_glu_cases), BOUND(TINY_BOUND_ULP, 0, 0), TERMS(NULL), GRADIENT(tinyi_grad_glu),
    KERNELS(tinyi_kernels_of_reglu), SAYS("y = max(a, 0) b"));

/* ---- typed calls */

TINY_API tiny_status tiny_exp(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_EXP, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_log(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_LOG, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_tanh(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_TANH, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_erf(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_ERF, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_sigmoid(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_SIGMOID, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_sin(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_SIN, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_cos(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_COS, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_rsqrt(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_RSQRT, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_sqrt(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_SQRT, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_abs(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_ABS, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_neg(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_NEG, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_relu(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_RELU, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_relu2(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_RELU2, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_silu(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_SILU, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_gelu(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_GELU, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_gelu_tanh(tiny_ctx *ctx, const tiny_tensor *x, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_GELU_TANH, x, NULL, NULL, y);
}
TINY_API tiny_status tiny_swiglu(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_SWIGLU, a, b, NULL, y);
}
TINY_API tiny_status tiny_geglu(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_GEGLU, a, b, NULL, y);
}
TINY_API tiny_status tiny_geglu_tanh(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_GEGLU_TANH, a, b, NULL, y);
}
TINY_API tiny_status tiny_reglu(tiny_ctx *ctx, const tiny_tensor *a, const tiny_tensor *b, const tiny_tensor *y)
{
    return tinyi_call(ctx, TINY_OP_REGLU, a, b, NULL, y);
}
