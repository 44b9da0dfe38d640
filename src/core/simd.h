/* src/core/simd.h - vectors of one target, in one vocabulary (included once per pass, see core/target.h)
 *
 * V_LANES floats or 32-bit integers a vector, 4 * V_LANES bytes. Macros of a pass, 0 or 1: V_SCALAR V_W128 V_NEON V_AVX2
 * V_AVX512 V_AMX (with V_AVX512: an amx pass has the avx512 vectors), V_VNNI (v_dot is one instruction on x86),
 * V_DOTPROD (the same on ARM), V_EXTRA (a second pass of avx2 or neon for one more instruction).
 *
 *   v_load v_store            any alignment; the _n forms touch the first n <= V_LANES lanes only, other lanes are read as 0
 *   v_load_f16 v_load_bf16    16-bit floats; stores round to nearest, ties to even, NaN stays NaN (quiet), as core/half.h
 *   v_fma(a,b,c)              a * b + c, rounded once or twice as the target can; v_fnma: c - a * b
 *   v_min v_max               a < b ? a : b and a > b ? a : b: the second operand where one is NaN or both are zeros
 *   v_round                   to nearest, ties to even; any size, and the sign of zero is kept, as in v_floor and v_trunc
 *   v_sum v_hmax v_hmin       over the lanes, in any order; the last two want no NaN
 *   v_lt v_le v_eq            false where one is NaN; v_ne: true there
 *   v_select(m,a,b)           m ? a : b; v_first(n): the first n lanes
 *   v_to_i32                  rounds to nearest even; any value without meaning outside of -2^31 <= x < 2^31
 *   v_exp2i(n)                2^n for -126 <= n <= 127
 *   vi_                       32-bit integers, wrapping; vi_shl vi_shr (fills with 0) vi_sra (fills with the sign) by 0..31, the
 *                             same for all lanes; vi_load_i8, vi_load_u8: V_LANES bytes widened
 *   vb_                       bytes; vb_set4(p): the four bytes at p, again and again; vb_shr: each byte by 0..7, fills with 0; vb_table16(t, i): t[i] of 16 bytes, 0 <= i < 16
 *   v_dot_i8(acc,a,b)         acc[j] + a[4j]*b[4j] + ... + a[4j+3]*b[4j+3], signed bytes, exact
 *   v_dot_u8i8                a unsigned, b signed, exact
 *   v_dot_i8_b127             as v_dot_i8 where no byte of b is -128; v_dot_u7i8: as v_dot_u8i8 where a <= 127: two
 *                             promises that make plain AVX2 twice as fast                                               */
#ifndef TINYI_PASS
#error "tiny: core/simd.h is included inside a pass, see core/target.h"
#endif
#if TINYI_PASS == TINYI_PASS_SCALAR
#define TINYI_SUFFIX _scalar
#define TINYI_PASS_TARGET TINY_TARGET_SCALAR
#define V_LANES 1
#define V_SCALAR 1
#ifndef TINYI_SIMD_SCALAR                    /* once in a unit, though several passes may ask */
#define TINYI_SIMD_SCALAR 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_W128
#define TINYI_SUFFIX _w128
#define TINYI_PASS_TARGET TINY_TARGET_W128
#define V_LANES 4
#define V_W128 1
#ifndef TINYI_SIMD_W128
#define TINYI_SIMD_W128 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_NEON
#define TINYI_SUFFIX _neon
#define TINYI_PASS_TARGET TINY_TARGET_NEON
#define V_LANES 4
#define V_NEON 1
#ifdef __ARM_FEATURE_DOTPROD
#define V_DOTPROD 1
#endif
#ifndef TINYI_SIMD_NEON
#define TINYI_SIMD_NEON 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_NEONDOT
#define TINYI_SUFFIX _neondot
#define TINYI_PASS_TARGET TINY_TARGET_NEON
#define V_LANES 4
#define V_NEON 1
#define V_DOTPROD 1
#define V_EXTRA 1
#ifndef TINYI_SIMD_NEONDOT
#define TINYI_SIMD_NEONDOT 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AVX2
#define TINYI_SUFFIX _avx2
#define TINYI_PASS_TARGET TINY_TARGET_AVX2
#define V_LANES 8
#define V_AVX2 1
#ifndef TINYI_SIMD_AVX2
#define TINYI_SIMD_AVX2 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AVX2VNNI
#define TINYI_SUFFIX _avx2vnni
#define TINYI_PASS_TARGET TINY_TARGET_AVX2
#define V_LANES 8
#define V_AVX2 1
#define V_VNNI 1
#define V_EXTRA 1
#ifndef TINYI_SIMD_AVX2VNNI
#define TINYI_SIMD_AVX2VNNI 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AVX512
#define TINYI_SUFFIX _avx512
#define TINYI_PASS_TARGET TINY_TARGET_AVX512
#define V_LANES 16
#define V_AVX512 1
#define V_VNNI 1
#ifndef TINYI_SIMD_AVX512
#define TINYI_SIMD_AVX512 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AMX
#define TINYI_SUFFIX _amx
#define TINYI_PASS_TARGET TINY_TARGET_AMX
#define V_LANES 16
#define V_AVX512 1
#define V_VNNI 1
#define V_AMX 1
#ifndef TINYI_SIMD_AMX
#define TINYI_SIMD_AMX 1
#define TINYI_SIMD_NEW 1
#endif
#endif
#ifndef V_SCALAR
#define V_SCALAR 0
#endif
#ifndef V_W128
#define V_W128 0
#endif
#ifndef V_NEON
#define V_NEON 0
#endif
#ifndef V_AVX2
#define V_AVX2 0
#endif
#ifndef V_AVX512
#define V_AVX512 0
#endif
#ifndef V_AMX
#define V_AMX 0
#endif
#ifndef V_VNNI
#define V_VNNI 0
#endif
#ifndef V_DOTPROD
#define V_DOTPROD 0
#endif
#ifndef V_EXTRA
#define V_EXTRA 0
#endif
#ifndef TINYI_SIMD_NEW
#define TINYI_SIMD_NEW 0
#endif
#include "core/simd_names.h"

#if V_SCALAR && TINYI_SIMD_NEW
/* ======== scalar: the v_ layer in plain C: one lane, four bytes */
typedef float v_f32;
typedef int32_t v_i32;
typedef int v_mask;
typedef struct { uint8_t b[4]; } v_i8;      /* bytes; signed ones in two's complement */

TINYI_FORCE_INLINE int32_t TINY_FN(tinyi_wrap)(uint32_t u)
{
    return u <= 0x7fffffffu ? (int32_t)u : (int32_t)(u - 0x7fffffffu - 1u) - 0x7fffffff - 1;
}
TINYI_FORCE_INLINE int32_t TINY_FN(tinyi_sbyte)(uint8_t b) { return (int32_t)b - ((b & 0x80) << 1); }

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_mask v_first(size_t n) { return n > 0; }
TINYI_FORCE_INLINE v_f32 v_zero(void) { return 0.0f; }
TINYI_FORCE_INLINE v_f32 v_set(float x) { return x; }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return *p; }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { *p = v; }
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n) { return n ? *p : 0.0f; }
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n) { if (n) *p = v; }
TINYI_FORCE_INLINE v_f32 v_load_f16(const uint16_t *p) { return tinyi_f16_to_f32(*p); }
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n) { return n ? tinyi_f16_to_f32(*p) : 0.0f; }
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v) { *p = tinyi_f32_to_f16(v); }
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n) { if (n) *p = tinyi_f32_to_f16(v); }
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p) { return tinyi_bf16_to_f32(*p); }
TINYI_FORCE_INLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n) { return n ? tinyi_bf16_to_f32(*p) : 0.0f; }
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v) { *p = tinyi_f32_to_bf16(v); }
TINYI_FORCE_INLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n) { if (n) *p = tinyi_f32_to_bf16(v); }

/* ---- floats: arithmetic */
TINYI_FORCE_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return a + b; }
TINYI_FORCE_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return a - b; }
TINYI_FORCE_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return a * b; }
TINYI_FORCE_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return a / b; }
#if defined __FP_FAST_FMAF && (TINYI_GCC || TINYI_CLANG)
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return __builtin_fmaf(a, b, c); }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return __builtin_fmaf(-a, b, c); }
#else
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return a * b + c; }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return c - a * b; }
#endif
TINYI_FORCE_INLINE v_f32 v_neg(v_f32 a) { return tinyi_bits_f32(tinyi_f32_bits(a) ^ 0x80000000u); }
TINYI_FORCE_INLINE v_f32 v_abs(v_f32 a) { return tinyi_bits_f32(tinyi_f32_bits(a) & 0x7fffffffu); }
TINYI_FORCE_INLINE v_f32 v_sqrt(v_f32 a) { return tinyi_simd_sqrt(a); }
TINYI_FORCE_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return a < b ? a : b; }
TINYI_FORCE_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return a > b ? a : b; }
/* From 2^23 on every float is whole; below it fits an int, and a minus its whole part is exact. */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_like)(float size, float sign)
{
    return tinyi_bits_f32((tinyi_f32_bits(size) & 0x7fffffffu) | (tinyi_f32_bits(sign) & 0x80000000u));
}
TINYI_FORCE_INLINE int32_t TINY_FN(tinyi_near)(float a)
{
    const int32_t i = (int32_t)a;
    const float d = a - (float)i;
    return i + (d > 0.5f || (d == 0.5f && (i & 1))) - (d < -0.5f || (d == -0.5f && (i & 1)));
}
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a) { return v_abs(a) < 8388608.0f ? TINY_FN(tinyi_like)((float)TINY_FN(tinyi_near)(a), a) : a; }
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a) { return v_abs(a) < 8388608.0f ? TINY_FN(tinyi_like)((float)(int32_t)a, a) : a; }
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a)
{
    const float t = v_trunc(a);
    return t > a ? t - 1.0f : t;
}
TINYI_FORCE_INLINE float v_sum(v_f32 a) { return a; }
TINYI_FORCE_INLINE float v_hmax(v_f32 a) { return a; }
TINYI_FORCE_INLINE float v_hmin(v_f32 a) { return a; }

/* ---- comparisons and masks */
TINYI_FORCE_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return a < b; }
TINYI_FORCE_INLINE v_mask v_le(v_f32 a, v_f32 b) { return a <= b; }
TINYI_FORCE_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return a == b; }
TINYI_FORCE_INLINE v_mask v_ne(v_f32 a, v_f32 b) { return a != b; }
TINYI_FORCE_INLINE v_mask v_isnan(v_f32 a) { return (tinyi_f32_bits(a) & 0x7fffffffu) > 0x7f800000u; }
TINYI_FORCE_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return m ? a : b; }
TINYI_FORCE_INLINE v_mask vm_and(v_mask a, v_mask b) { return a & b; }
TINYI_FORCE_INLINE v_mask vm_or(v_mask a, v_mask b) { return a | b; }
TINYI_FORCE_INLINE v_mask vm_not(v_mask a) { return !a; }
TINYI_FORCE_INLINE int vm_any(v_mask a) { return a; }
TINYI_FORCE_INLINE int vm_all(v_mask a) { return a; }

/* ---- conversions */
TINYI_FORCE_INLINE v_i32 v_to_i32(v_f32 a)
{
    if (v_abs(a) < 8388608.0f) return TINY_FN(tinyi_near)(a);
    return a >= -2147483648.0f && a < 2147483648.0f ? (int32_t)a : -0x7fffffff - 1;
}
TINYI_FORCE_INLINE v_f32 v_from_i32(v_i32 a) { return (float)a; }
TINYI_FORCE_INLINE v_i32 v_bits(v_f32 a) { return TINY_FN(tinyi_wrap)(tinyi_f32_bits(a)); }
TINYI_FORCE_INLINE v_f32 v_float(v_i32 a) { return tinyi_bits_f32((uint32_t)a); }
TINYI_FORCE_INLINE v_f32 v_exp2i(v_i32 n) { return tinyi_bits_f32((uint32_t)(n + 127) << 23); }
TINYI_FORCE_INLINE v_f32 v_gather(const float *p, v_i32 i) { return p[i]; }

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return 0; }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { return x; }
TINYI_FORCE_INLINE v_i32 vi_iota(void) { return 0; }
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return *p; }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { *p = v; }
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n) { return n ? *p : 0; }
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n) { if (n) *p = v; }
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p) { return *p; }
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p) { return *p; }
TINYI_FORCE_INLINE v_i32 vi_add(v_i32 a, v_i32 b) { return TINY_FN(tinyi_wrap)((uint32_t)a + (uint32_t)b); }
TINYI_FORCE_INLINE v_i32 vi_sub(v_i32 a, v_i32 b) { return TINY_FN(tinyi_wrap)((uint32_t)a - (uint32_t)b); }
TINYI_FORCE_INLINE v_i32 vi_mul(v_i32 a, v_i32 b) { return TINY_FN(tinyi_wrap)((uint32_t)a * (uint32_t)b); }
TINYI_FORCE_INLINE v_i32 vi_and(v_i32 a, v_i32 b) { return a & b; }
TINYI_FORCE_INLINE v_i32 vi_or(v_i32 a, v_i32 b) { return a | b; }
TINYI_FORCE_INLINE v_i32 vi_xor(v_i32 a, v_i32 b) { return a ^ b; }
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return TINY_FN(tinyi_wrap)((uint32_t)a << n); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { return TINY_FN(tinyi_wrap)((uint32_t)a >> n); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return a < 0 ? ~(~a >> n) : a >> n; }
TINYI_FORCE_INLINE v_i32 vi_min(v_i32 a, v_i32 b) { return a < b ? a : b; }
TINYI_FORCE_INLINE v_i32 vi_max(v_i32 a, v_i32 b) { return a > b ? a : b; }
TINYI_FORCE_INLINE v_mask vi_eq(v_i32 a, v_i32 b) { return a == b; }
TINYI_FORCE_INLINE v_mask vi_gt(v_i32 a, v_i32 b) { return a > b; }
TINYI_FORCE_INLINE v_i32 vi_select(v_mask m, v_i32 a, v_i32 b) { return m ? a : b; }
TINYI_FORCE_INLINE int32_t vi_sum(v_i32 a) { return a; }

/* ---- bytes */
TINYI_FORCE_INLINE v_i8 vb_load_n(const void *p, size_t n)
{
    const uint8_t *from = (const uint8_t *)p;
    v_i8 r;
    size_t i;
    for (i = 0; i < 4; i++) r.b[i] = (uint8_t)(i < n ? from[i] : 0);
    return r;
}
TINYI_FORCE_INLINE v_i8 vb_set(int8_t x)
{
    v_i8 r;
    r.b[0] = r.b[1] = r.b[2] = r.b[3] = (uint8_t)x;
    return r;
}
TINYI_FORCE_INLINE v_i8 vb_zero(void) { return vb_set(0); }
TINYI_FORCE_INLINE v_i8 vb_load(const void *p) { v_i8 r; memcpy(r.b, p, 4); return r; }
TINYI_FORCE_INLINE v_i8 vb_set4(const void *p) { return vb_load(p); }
TINYI_FORCE_INLINE void vb_store(void *p, v_i8 v) { memcpy(p, v.b, 4); }
#define TINYI_SIMD_BYTES(expr) v_i8 r; int i; for (i = 0; i < 4; i++) r.b[i] = (uint8_t)(expr); return r
TINYI_FORCE_INLINE v_i8 vb_and(v_i8 a, v_i8 b) { TINYI_SIMD_BYTES(a.b[i] & b.b[i]); }
TINYI_FORCE_INLINE v_i8 vb_or(v_i8 a, v_i8 b) { TINYI_SIMD_BYTES(a.b[i] | b.b[i]); }
TINYI_FORCE_INLINE v_i8 vb_xor(v_i8 a, v_i8 b) { TINYI_SIMD_BYTES(a.b[i] ^ b.b[i]); }
TINYI_FORCE_INLINE v_i8 vb_add(v_i8 a, v_i8 b) { TINYI_SIMD_BYTES(a.b[i] + b.b[i]); }
TINYI_FORCE_INLINE v_i8 vb_sub(v_i8 a, v_i8 b) { TINYI_SIMD_BYTES(a.b[i] - b.b[i]); }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n) { TINYI_SIMD_BYTES(a.b[i] >> n); }
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 k) { TINYI_SIMD_BYTES(((const uint8_t *)t)[k.b[i] & 15]); }
#undef TINYI_SIMD_BYTES
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    int32_t s = 0;
    int i;
    for (i = 0; i < 4; i++) s += TINY_FN(tinyi_sbyte)(a.b[i]) * TINY_FN(tinyi_sbyte)(b.b[i]);
    return vi_add(acc, s);
}
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b)
{
    int32_t s = 0;
    int i;
    for (i = 0; i < 4; i++) s += (int32_t)a.b[i] * TINY_FN(tinyi_sbyte)(b.b[i]);
    return vi_add(acc, s);
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_u8i8(acc, a, b); }
#endif /* V_SCALAR */

#if V_W128 && TINYI_SIMD_NEW
/* ======== w128: the v_ layer in the words of SSE4.1, native on x86, SIMDe elsewhere; lanes are numbered as in memory,
 * also on big-endian machines. On 32-bit ARM with NEON subnormal floats count as 0. */
#if TINYI_W128_SIMDE
#define TINYI_W(x) simde_mm_##x
typedef simde__m128 v_f32;
typedef simde__m128i v_i32;
typedef simde__m128 v_mask;                 /* all bits of a lane or none */
typedef simde__m128i v_i8;
typedef simde__m128i TINY_FN(tinyi_bits128);
#else
#define TINYI_W(x) _mm_##x
typedef __m128 v_f32;
typedef __m128i v_i32;
typedef __m128 v_mask;
typedef __m128i v_i8;
typedef __m128i TINY_FN(tinyi_bits128);
#endif
#define TINYI_W_FROM(p) ((const TINY_FN(tinyi_bits128) *)(const void *)(p))
#define TINYI_W_TO(p) ((TINY_FN(tinyi_bits128) *)(void *)(p))

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return TINYI_W(setzero_si128)(); }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { return TINYI_W(set1_epi32)(x); }
TINYI_FORCE_INLINE v_i32 vi_iota(void) { return TINYI_W(setr_epi32)(0, 1, 2, 3); }
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return TINYI_W(loadu_si128)(TINYI_W_FROM(p)); }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { TINYI_W(storeu_si128)(TINYI_W_TO(p), v); }
/* two lanes if there are two, then one: no loop, no call */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_lane)(const void *p) { int32_t t; memcpy(&t, p, 4); return TINYI_W(setr_epi32)(t, 0, 0, 0); }
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n)
{
    if (n > 3) return vi_load(p);
    if (n == 3) return TINYI_W(unpacklo_epi64)(TINYI_W(loadl_epi64)(TINYI_W_FROM(p)), TINY_FN(tinyi_lane)(p + 2));
    if (n == 2) return TINYI_W(loadl_epi64)(TINYI_W_FROM(p));
    return n ? TINY_FN(tinyi_lane)(p) : vi_zero();
}
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n)
{
    int32_t t;
    if (n > 3) { vi_store(p, v); return; }
    if (n > 1) {
        TINYI_W(storel_epi64)(TINYI_W_TO(p), v);
        if (n == 2) return;
        v = TINYI_W(unpackhi_epi64)(v, v);
        p += 2;
    }
    if (!n) return;
    t = TINYI_W(cvtsi128_si32)(v);
    memcpy(p, &t, 4);
}
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p) { int32_t t; memcpy(&t, p, 4); return TINYI_W(cvtepi8_epi32)(vi_set(t)); }
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p) { int32_t t; memcpy(&t, p, 4); return TINYI_W(cvtepu8_epi32)(vi_set(t)); }
TINYI_FORCE_INLINE v_i32 vi_add(v_i32 a, v_i32 b) { return TINYI_W(add_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_sub(v_i32 a, v_i32 b) { return TINYI_W(sub_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_mul(v_i32 a, v_i32 b) { return TINYI_W(mullo_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_and(v_i32 a, v_i32 b) { return TINYI_W(and_si128)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_or(v_i32 a, v_i32 b) { return TINYI_W(or_si128)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_xor(v_i32 a, v_i32 b) { return TINYI_W(xor_si128)(a, b); }
#if TINYI_W128_SIMDE && (TINYI_GCC || TINYI_CLANG)     /* SIMDe wants a literal count; the compiler's own vectors do not */
typedef int32_t TINY_FN(tinyi_s32) __attribute__((vector_size(16)));
typedef uint32_t TINY_FN(tinyi_u32) __attribute__((vector_size(16)));
typedef int16_t TINY_FN(tinyi_s16) __attribute__((vector_size(16)));
typedef uint16_t TINY_FN(tinyi_u16) __attribute__((vector_size(16)));
#define TINYI_W_SHIFT(type, how) TINY_FN(tinyi_##type) t; memcpy(&t, &a, 16); t = how; memcpy(&a, &t, 16); return a
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { TINYI_W_SHIFT(u32, t << (uint32_t)n); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { TINYI_W_SHIFT(u32, t >> (uint32_t)n); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { TINYI_W_SHIFT(s32, t >> n); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_shr16)(v_i32 a, int n) { TINYI_W_SHIFT(u16, t >> (uint16_t)n); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_shl16)(v_i32 a, int n) { TINYI_W_SHIFT(u16, t << (uint16_t)n); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_odd)(v_i32 a) { TINYI_W_SHIFT(s16, t >> (int16_t)8); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_even)(v_i32 a) { return TINY_FN(tinyi_odd)(TINY_FN(tinyi_shl16)(a, 8)); }
#undef TINYI_W_SHIFT
#else
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return TINYI_W(slli_epi32)(a, n); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { return TINYI_W(srli_epi32)(a, n); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return TINYI_W(srai_epi32)(a, n); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_shr16)(v_i32 a, int n) { return TINYI_W(srli_epi16)(a, n); }
/* the bytes of even and odd places as 16-bit lanes; on a big-endian machine the other way round */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_even)(v_i32 a) { return TINYI_W(srai_epi16)(TINYI_W(slli_epi16)(a, 8), 8); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_odd)(v_i32 a) { return TINYI_W(srai_epi16)(a, 8); }
#endif
TINYI_FORCE_INLINE v_i32 vi_min(v_i32 a, v_i32 b) { return TINYI_W(min_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_max(v_i32 a, v_i32 b) { return TINYI_W(max_epi32)(a, b); }
TINYI_FORCE_INLINE v_mask vi_eq(v_i32 a, v_i32 b) { return TINYI_W(castsi128_ps)(TINYI_W(cmpeq_epi32)(a, b)); }
TINYI_FORCE_INLINE v_mask vi_gt(v_i32 a, v_i32 b) { return TINYI_W(castsi128_ps)(TINYI_W(cmpgt_epi32)(a, b)); }
TINYI_FORCE_INLINE v_i32 vi_select(v_mask m, v_i32 a, v_i32 b) { return TINYI_W(blendv_epi8)(b, a, TINYI_W(castps_si128)(m)); }
TINYI_FORCE_INLINE int32_t vi_sum(v_i32 a)
{
    int32_t t[4];
    vi_store(t, a);
    return (int32_t)(((uint32_t)t[0] + (uint32_t)t[1]) + ((uint32_t)t[2] + (uint32_t)t[3]));
}

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_mask v_first(size_t n) { return vi_gt(vi_set((int32_t)n), vi_iota()); }
TINYI_FORCE_INLINE v_f32 v_zero(void) { return TINYI_W(setzero_ps)(); }
TINYI_FORCE_INLINE v_f32 v_set(float x) { return TINYI_W(set1_ps)(x); }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return TINYI_W(loadu_ps)(p); }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { TINYI_W(storeu_ps)(p, v); }
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n) { return TINYI_W(castsi128_ps)(vi_load_n((const int32_t *)(const void *)p, n)); }
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n) { vi_store_n((int32_t *)(void *)p, TINYI_W(castps_si128)(v), n); }
TINYI_FORCE_INLINE v_i32 v_bits(v_f32 a) { return TINYI_W(castps_si128)(a); }
TINYI_FORCE_INLINE v_f32 v_float(v_i32 a) { return TINYI_W(castsi128_ps)(a); }

/* ---- floats: arithmetic */
TINYI_FORCE_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return TINYI_W(add_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return TINYI_W(sub_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return TINYI_W(mul_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return TINYI_W(add_ps)(TINYI_W(mul_ps)(a, b), c); }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return TINYI_W(sub_ps)(c, TINYI_W(mul_ps)(a, b)); }
TINYI_FORCE_INLINE v_f32 v_neg(v_f32 a) { return v_float(vi_xor(v_bits(a), vi_set(-0x7fffffff - 1))); }
TINYI_FORCE_INLINE v_f32 v_abs(v_f32 a) { return v_float(vi_and(v_bits(a), vi_set(0x7fffffff))); }
TINYI_FORCE_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return TINYI_W(min_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return TINYI_W(max_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return TINYI_W(blendv_ps)(b, a, m); }
TINYI_FORCE_INLINE v_f32 v_from_i32(v_i32 a) { return TINYI_W(cvtepi32_ps)(a); }
#if TINYI_W128_SIMDE && defined SIMDE_ARM_NEON_A32V7_NATIVE && !defined SIMDE_ARM_NEON_A64V8_NATIVE     /* SIMDe estimates there */
TINYI_FORCE_INLINE v_f32 v_div(v_f32 a, v_f32 b)
{
    float x[4], y[4];
    int i;
    v_store(x, a);
    v_store(y, b);
    for (i = 0; i < 4; i++) x[i] /= y[i];
    return v_load(x);
}
#else
TINYI_FORCE_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return TINYI_W(div_ps)(a, b); }
#endif
#if !TINYI_W128_SIMDE || defined SIMDE_X86_SSE_NATIVE || defined SIMDE_WASM_SIMD128_NATIVE || defined SIMDE_ARM_NEON_A64V8_NATIVE || \
    defined SIMDE_POWER_ALTIVEC_P7_NATIVE || defined SIMDE_ZARCH_ZVECTOR_14_NATIVE
TINYI_FORCE_INLINE v_f32 v_sqrt(v_f32 a) { return TINYI_W(sqrt_ps)(a); }
#else
TINYI_FORCE_INLINE v_f32 v_sqrt(v_f32 a)
{
    float x[4];
    int i;
    v_store(x, a);
    for (i = 0; i < 4; i++) x[i] = tinyi_simd_sqrt(x[i]);
    return v_load(x);
}
#endif
#if !TINYI_W128_SIMDE || defined SIMDE_X86_SSE4_1_NATIVE
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a) { return TINYI_W(round_ps)(a, 0x08); }
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a) { return TINYI_W(round_ps)(a, 0x09); }
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a) { return TINYI_W(round_ps)(a, 0x0b); }
#elif defined SIMDE_WASM_SIMD128_NATIVE
#define TINYI_W_WASM(how) simde__m128_private t = simde__m128_to_private(a); t.wasm_v128 = how(t.wasm_v128); return simde__m128_from_private(t)
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a) { TINYI_W_WASM(wasm_f32x4_nearest); }
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a) { TINYI_W_WASM(wasm_f32x4_floor); }
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a) { TINYI_W_WASM(wasm_f32x4_trunc); }
#undef TINYI_W_WASM
#else                                       /* SIMDe calls the C library for these */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_whole)(v_f32 r, v_f32 a)     /* r with the sign of a; a itself from 2^23 on, and NaN */
{
    const v_i32 top = vi_set(-0x7fffffff - 1);
    r = v_float(vi_or(vi_and(v_bits(a), top), TINYI_W(andnot_si128)(top, v_bits(r))));
    return v_select(TINYI_W(cmplt_ps)(v_abs(a), v_set(8388608.0f)), r, a);
}
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a)
{
    const v_f32 big = v_set(8388608.0f);    /* from here on the last bit of a float is 1 */
    return TINY_FN(tinyi_whole)(v_sub(v_add(v_abs(a), big), big), a);
}
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a)
{
    const v_f32 r = v_round(a), x = v_abs(r);
    const v_f32 over = v_select(TINYI_W(cmpgt_ps)(x, v_abs(a)), v_set(1.0f), v_zero());
    return TINY_FN(tinyi_whole)(v_sub(x, over), a);
}
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a)
{
    const v_f32 r = v_round(a);
    return v_sub(r, v_select(TINYI_W(cmpgt_ps)(r, a), v_set(1.0f), v_zero()));
}
#endif
#if !TINYI_W128_SIMDE || defined SIMDE_X86_SSE2_NATIVE
TINYI_FORCE_INLINE v_i32 v_to_i32(v_f32 a) { return TINYI_W(cvtps_epi32)(a); }
#else
TINYI_FORCE_INLINE v_i32 v_to_i32(v_f32 a) { return TINYI_W(cvttps_epi32)(v_round(a)); }
#endif
TINYI_FORCE_INLINE float v_sum(v_f32 a)
{
    const v_f32 s = v_add(a, TINYI_W(movehl_ps)(a, a));
    return TINYI_W(cvtss_f32)(v_add(s, TINYI_W(shuffle_ps)(s, s, 1)));
}
TINYI_FORCE_INLINE float v_hmax(v_f32 a)
{
    const v_f32 s = v_max(a, TINYI_W(movehl_ps)(a, a));
    return TINYI_W(cvtss_f32)(v_max(s, TINYI_W(shuffle_ps)(s, s, 1)));
}
TINYI_FORCE_INLINE float v_hmin(v_f32 a)
{
    const v_f32 s = v_min(a, TINYI_W(movehl_ps)(a, a));
    return TINYI_W(cvtss_f32)(v_min(s, TINYI_W(shuffle_ps)(s, s, 1)));
}

/* ---- comparisons and masks */
TINYI_FORCE_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return TINYI_W(cmplt_ps)(a, b); }
TINYI_FORCE_INLINE v_mask v_le(v_f32 a, v_f32 b) { return TINYI_W(cmple_ps)(a, b); }
TINYI_FORCE_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return TINYI_W(cmpeq_ps)(a, b); }
TINYI_FORCE_INLINE v_mask v_ne(v_f32 a, v_f32 b) { return TINYI_W(cmpneq_ps)(a, b); }
TINYI_FORCE_INLINE v_mask v_isnan(v_f32 a) { return vi_gt(v_bits(v_abs(a)), vi_set(0x7f800000)); }
TINYI_FORCE_INLINE v_mask vm_and(v_mask a, v_mask b) { return TINYI_W(and_ps)(a, b); }
TINYI_FORCE_INLINE v_mask vm_or(v_mask a, v_mask b) { return TINYI_W(or_ps)(a, b); }
TINYI_FORCE_INLINE v_mask vm_not(v_mask a) { return v_float(vi_xor(v_bits(a), vi_set(-1))); }
TINYI_FORCE_INLINE int vm_any(v_mask a) { return TINYI_W(movemask_ps)(a) != 0; }
TINYI_FORCE_INLINE int vm_all(v_mask a) { return TINYI_W(movemask_ps)(a) == 15; }

/* ---- 16-bit floats, by integers as in core/half.h */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_half_load_n)(const uint16_t *p, size_t n)
{
    uint16_t t[4] = { 0, 0, 0, 0 };
    size_t i;
    for (i = 0; i < n; i++) t[i] = p[i];
    return TINYI_W(cvtepu16_epi32)(TINYI_W(loadl_epi64)(TINYI_W_FROM(t)));
}
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_half_load)(const uint16_t *p) { return TINYI_W(cvtepu16_epi32)(TINYI_W(loadl_epi64)(TINYI_W_FROM(p))); }
TINYI_FORCE_INLINE void TINY_FN(tinyi_half_store)(uint16_t *p, v_i32 h) { TINYI_W(storel_epi64)(TINYI_W_TO(p), TINYI_W(packus_epi32)(h, h)); }
TINYI_FORCE_INLINE void TINY_FN(tinyi_half_store_n)(uint16_t *p, v_i32 h, size_t n)
{
    uint16_t t[4];
    size_t i;
    TINY_FN(tinyi_half_store)(t, h);
    for (i = 0; i < n; i++) p[i] = t[i];
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_f16_up)(v_i32 h)
{
    const v_i32 a = vi_shl(vi_and(h, vi_set(0x7fff)), 13), sign = vi_shl(vi_and(h, vi_set(0x8000)), 16);
    const v_i32 low = v_bits(v_sub(v_float(vi_add(a, vi_set(0x38800000))), v_float(vi_set(0x38800000))));  /* 2^-14 (1 + f) - 2^-14 */
    const v_i32 quiet = vi_and(v_bits(vi_gt(a, vi_set(0x0f800000))), vi_set(0x400000));
    v_i32 r = vi_add(a, vi_set(0x38000000));
    r = vi_select(vi_gt(a, vi_set(0x0f7fffff)), vi_or(vi_add(a, vi_set(0x70000000)), quiet), r);
    r = vi_select(vi_gt(vi_set(0x00800000), a), low, r);
    return v_float(vi_or(r, sign));
}
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_f16_down)(v_f32 v)
{
    const v_i32 a = v_bits(v_abs(v)), sign = vi_and(vi_shr(v_bits(v), 16), vi_set(0x8000));
    const v_i32 odd = vi_and(vi_shr(a, 13), vi_set(1));
    const v_i32 low = vi_sub(v_bits(v_add(v_float(a), v_set(0.5f))), vi_set(0x3f000000));    /* the sum rounds to units of 2^-24 */
    v_i32 r = vi_shr(vi_add(a, vi_add(odd, vi_set(0xfff - 0x38000000))), 13);
    r = vi_select(vi_gt(vi_set(0x38800000), a), low, r);
    r = vi_select(vi_gt(a, vi_set(0x477fffff)), vi_set(0x7c00), r);
    r = vi_select(vi_gt(a, vi_set(0x7f800000)), vi_or(vi_set(0x7e00), vi_and(vi_shr(a, 13), vi_set(0x1ff))), r);
    return vi_or(r, sign);
}
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_bf16_down)(v_f32 v)
{
    const v_i32 u = v_bits(v), odd = vi_and(vi_shr(u, 16), vi_set(1));
    const v_i32 r = vi_shr(vi_add(u, vi_add(odd, vi_set(0x7fff))), 16);
    return vi_select(v_isnan(v), vi_or(vi_shr(u, 16), vi_set(0x40)), r);
}
TINYI_FORCE_INLINE v_f32 v_load_f16(const uint16_t *p) { return TINY_FN(tinyi_f16_up)(TINY_FN(tinyi_half_load)(p)); }
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n) { return TINY_FN(tinyi_f16_up)(TINY_FN(tinyi_half_load_n)(p, n)); }
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v) { TINY_FN(tinyi_half_store)(p, TINY_FN(tinyi_f16_down)(v)); }
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n) { TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_f16_down)(v), n); }
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p) { return v_float(vi_shl(TINY_FN(tinyi_half_load)(p), 16)); }
TINYI_FORCE_INLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n) { return v_float(vi_shl(TINY_FN(tinyi_half_load_n)(p, n), 16)); }
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v) { TINY_FN(tinyi_half_store)(p, TINY_FN(tinyi_bf16_down)(v)); }
TINYI_FORCE_INLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n) { TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_bf16_down)(v), n); }

TINYI_FORCE_INLINE v_f32 v_exp2i(v_i32 n) { return v_float(vi_shl(vi_add(n, vi_set(127)), 23)); }
TINYI_FORCE_INLINE v_f32 v_gather(const float *p, v_i32 i)
{
    int32_t t[4];
    vi_store(t, i);
    return TINYI_W(setr_ps)(p[t[0]], p[t[1]], p[t[2]], p[t[3]]);
}

/* ---- bytes */
TINYI_FORCE_INLINE v_i8 vb_zero(void) { return TINYI_W(setzero_si128)(); }
TINYI_FORCE_INLINE v_i8 vb_set(int8_t x) { return TINYI_W(set1_epi8)(x); }
TINYI_FORCE_INLINE v_i8 vb_load(const void *p) { return TINYI_W(loadu_si128)(TINYI_W_FROM(p)); }
TINYI_FORCE_INLINE v_i8 vb_set4(const void *p) { int32_t x; memcpy(&x, p, 4); return vi_set(x); }
TINYI_FORCE_INLINE void vb_store(void *p, v_i8 v) { TINYI_W(storeu_si128)(TINYI_W_TO(p), v); }
TINYI_FORCE_INLINE v_i8 vb_load_n(const void *p, size_t n)
{
    unsigned char t[16];
    memset(t, 0, sizeof t);
    memcpy(t, p, n);
    return vb_load(t);
}
TINYI_FORCE_INLINE v_i8 vb_and(v_i8 a, v_i8 b) { return TINYI_W(and_si128)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_or(v_i8 a, v_i8 b) { return TINYI_W(or_si128)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_xor(v_i8 a, v_i8 b) { return TINYI_W(xor_si128)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_add(v_i8 a, v_i8 b) { return TINYI_W(add_epi8)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_sub(v_i8 a, v_i8 b) { return TINYI_W(sub_epi8)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n) { return vb_and(TINY_FN(tinyi_shr16)(a, n), vb_set((int8_t)(0xff >> n))); }
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 i) { return TINYI_W(shuffle_epi8)(vb_load(t), i); }
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    acc = vi_add(acc, TINYI_W(madd_epi16)(TINY_FN(tinyi_even)(a), TINY_FN(tinyi_even)(b)));
    return vi_add(acc, TINYI_W(madd_epi16)(TINY_FN(tinyi_odd)(a), TINY_FN(tinyi_odd)(b)));
}
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b)
{
    acc = vi_add(acc, TINYI_W(madd_epi16)(vi_and(a, vi_set(0xff00ff)), TINY_FN(tinyi_even)(b)));
    return vi_add(acc, TINYI_W(madd_epi16)(TINY_FN(tinyi_shr16)(a, 8), TINY_FN(tinyi_odd)(b)));
}
#if !TINYI_W128_SIMDE
/* pmaddubsw adds two products in 16 bits: 2 * 128 * 127 and 2 * 127 * 128 still fit */
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b)
{
    return vi_add(acc, TINYI_W(madd_epi16)(TINYI_W(maddubs_epi16)(a, b), TINYI_W(set1_epi16)(1)));
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_u7i8(acc, TINYI_W(sign_epi8)(a, a), TINYI_W(sign_epi8)(b, a)); }
#else
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_u8i8(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
#endif
#undef TINYI_W_FROM
#undef TINYI_W_TO
#endif /* V_W128 */

#if V_NEON && TINYI_SIMD_NEW
/* ======== neon: the v_ layer in NEON of 64-bit ARM; v_dot with SDOT in the neondot pass */
typedef float32x4_t v_f32;
typedef int32x4_t v_i32;
typedef uint32x4_t v_mask;                  /* all bits of a lane or none */
typedef int8x16_t v_i8;

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_i32 vi_iota(void)
{
    static const int32_t t[4] = { 0, 1, 2, 3 };
    return vld1q_s32(t);
}
TINYI_FORCE_INLINE v_mask v_first(size_t n) { return vcgtq_s32(vdupq_n_s32((int32_t)n), vi_iota()); }
TINYI_FORCE_INLINE v_f32 v_zero(void) { return vdupq_n_f32(0.0f); }
TINYI_FORCE_INLINE v_f32 v_set(float x) { return vdupq_n_f32(x); }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return vld1q_f32(p); }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { vst1q_f32(p, v); }
/* two lanes if there are two, then one: no loop, no call */
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n)
{
    if (n > 3) return vld1q_f32(p);
    if (n == 3) return vld1q_lane_f32(p + 2, vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f)), 2);
    if (n == 2) return vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
    return n ? vld1q_lane_f32(p, vdupq_n_f32(0.0f), 0) : vdupq_n_f32(0.0f);
}
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n)
{
    if (n > 3) vst1q_f32(p, v);
    else if (n > 1) {
        vst1_f32(p, vget_low_f32(v));
        if (n == 3) vst1q_lane_f32(p + 2, v, 2);
    }
    else if (n) vst1q_lane_f32(p, v, 0);
}
TINYI_FORCE_INLINE uint16x4_t TINY_FN(tinyi_half_load_n)(const uint16_t *p, size_t n)
{
    uint16_t t[4] = { 0, 0, 0, 0 };
    size_t i;
    for (i = 0; i < n; i++) t[i] = p[i];
    return vld1_u16(t);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_half_store_n)(uint16_t *p, uint16x4_t h, size_t n)
{
    uint16_t t[4];
    size_t i;
    vst1_u16(t, h);
    for (i = 0; i < n; i++) p[i] = t[i];
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_f16_up)(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }
TINYI_FORCE_INLINE uint16x4_t TINY_FN(tinyi_f16_down)(v_f32 v) { return vreinterpret_u16_f16(vcvt_f16_f32(v)); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_bf16_up)(uint16x4_t h) { return vreinterpretq_f32_u32(vshll_n_u16(h, 16)); }
TINYI_FORCE_INLINE uint16x4_t TINY_FN(tinyi_bf16_down)(v_f32 v)
{
    const uint32x4_t u = vreinterpretq_u32_f32(v), top = vshrq_n_u32(u, 16);
    const uint32x4_t r = vaddq_u32(u, vaddq_u32(vandq_u32(top, vdupq_n_u32(1)), vdupq_n_u32(0x7fff)));
    return vmovn_u32(vbslq_u32(vceqq_f32(v, v), vshrq_n_u32(r, 16), vorrq_u32(top, vdupq_n_u32(0x40))));
}
TINYI_FORCE_INLINE v_f32 v_load_f16(const uint16_t *p) { return TINY_FN(tinyi_f16_up)(vld1_u16(p)); }
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n) { return TINY_FN(tinyi_f16_up)(TINY_FN(tinyi_half_load_n)(p, n)); }
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v) { vst1_u16(p, TINY_FN(tinyi_f16_down)(v)); }
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n) { TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_f16_down)(v), n); }
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p) { return TINY_FN(tinyi_bf16_up)(vld1_u16(p)); }
TINYI_FORCE_INLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n) { return TINY_FN(tinyi_bf16_up)(TINY_FN(tinyi_half_load_n)(p, n)); }
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v) { vst1_u16(p, TINY_FN(tinyi_bf16_down)(v)); }
TINYI_FORCE_INLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n) { TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_bf16_down)(v), n); }

/* ---- floats: arithmetic */
TINYI_FORCE_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return vaddq_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return vsubq_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return vmulq_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return vdivq_f32(a, b); }
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return vfmaq_f32(c, a, b); }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return vfmsq_f32(c, a, b); }
TINYI_FORCE_INLINE v_f32 v_neg(v_f32 a) { return vnegq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_abs(v_f32 a) { return vabsq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_sqrt(v_f32 a) { return vsqrtq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
TINYI_FORCE_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a) { return vrndnq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a) { return vrndmq_f32(a); }
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a) { return vrndq_f32(a); }
TINYI_FORCE_INLINE float v_sum(v_f32 a) { return vaddvq_f32(a); }
TINYI_FORCE_INLINE float v_hmax(v_f32 a) { return vmaxvq_f32(a); }
TINYI_FORCE_INLINE float v_hmin(v_f32 a) { return vminvq_f32(a); }

/* ---- comparisons and masks */
TINYI_FORCE_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return vcltq_f32(a, b); }
TINYI_FORCE_INLINE v_mask v_le(v_f32 a, v_f32 b) { return vcleq_f32(a, b); }
TINYI_FORCE_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return vceqq_f32(a, b); }
TINYI_FORCE_INLINE v_mask v_ne(v_f32 a, v_f32 b) { return vmvnq_u32(vceqq_f32(a, b)); }
TINYI_FORCE_INLINE v_mask v_isnan(v_f32 a) { return vmvnq_u32(vceqq_f32(a, a)); }
TINYI_FORCE_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return vbslq_f32(m, a, b); }
TINYI_FORCE_INLINE v_mask vm_and(v_mask a, v_mask b) { return vandq_u32(a, b); }
TINYI_FORCE_INLINE v_mask vm_or(v_mask a, v_mask b) { return vorrq_u32(a, b); }
TINYI_FORCE_INLINE v_mask vm_not(v_mask a) { return vmvnq_u32(a); }
TINYI_FORCE_INLINE int vm_any(v_mask a) { return vmaxvq_u32(a) != 0; }
TINYI_FORCE_INLINE int vm_all(v_mask a) { return vminvq_u32(a) != 0; }

/* ---- conversions */
TINYI_FORCE_INLINE v_i32 v_to_i32(v_f32 a) { return vcvtnq_s32_f32(a); }
TINYI_FORCE_INLINE v_f32 v_from_i32(v_i32 a) { return vcvtq_f32_s32(a); }
TINYI_FORCE_INLINE v_i32 v_bits(v_f32 a) { return vreinterpretq_s32_f32(a); }
TINYI_FORCE_INLINE v_f32 v_float(v_i32 a) { return vreinterpretq_f32_s32(a); }
TINYI_FORCE_INLINE v_f32 v_exp2i(v_i32 n) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23)); }
TINYI_FORCE_INLINE v_f32 v_gather(const float *p, v_i32 i)
{
    float t[4];
    t[0] = p[vgetq_lane_s32(i, 0)];
    t[1] = p[vgetq_lane_s32(i, 1)];
    t[2] = p[vgetq_lane_s32(i, 2)];
    t[3] = p[vgetq_lane_s32(i, 3)];
    return vld1q_f32(t);
}

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return vdupq_n_s32(0); }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { return vdupq_n_s32(x); }
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return vld1q_s32(p); }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { vst1q_s32(p, v); }
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n)
{
    if (n > 3) return vld1q_s32(p);
    if (n == 3) return vld1q_lane_s32(p + 2, vcombine_s32(vld1_s32(p), vdup_n_s32(0)), 2);
    if (n == 2) return vcombine_s32(vld1_s32(p), vdup_n_s32(0));
    return n ? vld1q_lane_s32(p, vdupq_n_s32(0), 0) : vdupq_n_s32(0);
}
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n)
{
    if (n > 3) vst1q_s32(p, v);
    else if (n > 1) {
        vst1_s32(p, vget_low_s32(v));
        if (n == 3) vst1q_lane_s32(p + 2, v, 2);
    }
    else if (n) vst1q_lane_s32(p, v, 0);
}
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p)
{
    uint32_t t;
    memcpy(&t, p, 4);
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(t)))));
}
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p)
{
    uint32_t t;
    memcpy(&t, p, 4);
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(t))))));
}
TINYI_FORCE_INLINE v_i32 vi_add(v_i32 a, v_i32 b) { return vaddq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_sub(v_i32 a, v_i32 b) { return vsubq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_mul(v_i32 a, v_i32 b) { return vmulq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_and(v_i32 a, v_i32 b) { return vandq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_or(v_i32 a, v_i32 b) { return vorrq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_xor(v_i32 a, v_i32 b) { return veorq_s32(a, b); }
#if TINYI_GCC || TINYI_CLANG                /* the operator takes a variable at -O0 and becomes an immediate later */
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) << (uint32_t)n); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) >> (uint32_t)n); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return a >> n; }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n) { return vreinterpretq_s8_u8(vreinterpretq_u8_s8(a) >> (uint8_t)n); }
#else
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return vshlq_s32(a, vdupq_n_s32(n)); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-n))); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return vshlq_s32(a, vdupq_n_s32(-n)); }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n) { return vreinterpretq_s8_u8(vshlq_u8(vreinterpretq_u8_s8(a), vdupq_n_s8((int8_t)-n))); }
#endif
TINYI_FORCE_INLINE v_i32 vi_min(v_i32 a, v_i32 b) { return vminq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_max(v_i32 a, v_i32 b) { return vmaxq_s32(a, b); }
TINYI_FORCE_INLINE v_mask vi_eq(v_i32 a, v_i32 b) { return vceqq_s32(a, b); }
TINYI_FORCE_INLINE v_mask vi_gt(v_i32 a, v_i32 b) { return vcgtq_s32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_select(v_mask m, v_i32 a, v_i32 b) { return vbslq_s32(m, a, b); }
TINYI_FORCE_INLINE int32_t vi_sum(v_i32 a) { return vaddvq_s32(a); }

/* ---- bytes */
TINYI_FORCE_INLINE v_i8 vb_zero(void) { return vdupq_n_s8(0); }
TINYI_FORCE_INLINE v_i8 vb_set(int8_t x) { return vdupq_n_s8(x); }
TINYI_FORCE_INLINE v_i8 vb_load(const void *p) { return vld1q_s8((const int8_t *)p); }
TINYI_FORCE_INLINE v_i8 vb_set4(const void *p) { int32_t x; memcpy(&x, p, 4); return vreinterpretq_s8_s32(vdupq_n_s32(x)); }
TINYI_FORCE_INLINE void vb_store(void *p, v_i8 v) { vst1q_s8((int8_t *)p, v); }
TINYI_FORCE_INLINE v_i8 vb_load_n(const void *p, size_t n)
{
    int8_t t[16];
    memset(t, 0, sizeof t);
    memcpy(t, p, n);
    return vld1q_s8(t);
}
TINYI_FORCE_INLINE v_i8 vb_and(v_i8 a, v_i8 b) { return vandq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_or(v_i8 a, v_i8 b) { return vorrq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_xor(v_i8 a, v_i8 b) { return veorq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_add(v_i8 a, v_i8 b) { return vaddq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_sub(v_i8 a, v_i8 b) { return vsubq_s8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 i) { return vqtbl1q_s8(vb_load(t), vreinterpretq_u8_s8(i)); }
#if V_DOTPROD
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
#if TINYI_DOT_ASM
    __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(a), "w"(b));
    return acc;
#else
    return vdotq_s32(acc, a, b);
#endif
}
#else
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    const int16x8_t lo = vmull_s8(vget_low_s8(a), vget_low_s8(b)), hi = vmull_high_s8(a, b);
    /* neighbours, then neighbours of those: byte products 4j..4j+3 meet in lane j */
    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(lo), vpaddlq_s16(hi)));
}
#endif
/* a unsigned is (a ^ 128) + 128 with the bracket signed; a sum of 128 * b takes part as another dot product */
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b)
{
    acc = v_dot_i8(acc, veorq_s8(a, vdupq_n_s8(-128)), b);
    return vsubq_s32(acc, v_dot_i8(vdupq_n_s32(0), vdupq_n_s8(-128), b));
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
#endif /* V_NEON */

#if V_AVX2 && TINYI_SIMD_NEW
/* ======== avx2: the v_ layer in AVX2, FMA, F16C; v_dot with AVX-VNNI in the avx2vnni pass */
typedef __m256 v_f32;
typedef __m256i v_i32;
typedef __m256 v_mask;                      /* all bits of a lane or none */
typedef __m256i v_i8;

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_mask v_first(size_t n)
{
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}
TINYI_FORCE_INLINE v_f32 v_zero(void) { return _mm256_setzero_ps(); }
TINYI_FORCE_INLINE v_f32 v_set(float x) { return _mm256_set1_ps(x); }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return _mm256_loadu_ps(p); }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { _mm256_storeu_ps(p, v); }
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n) { return _mm256_maskload_ps(p, _mm256_castps_si256(v_first(n))); }
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n) { _mm256_maskstore_ps(p, _mm256_castps_si256(v_first(n)), v); }

TINYI_FORCE_INLINE __m128i TINY_FN(tinyi_half_load_n)(const uint16_t *p, size_t n)
{
    uint16_t t[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
    size_t i;
    for (i = 0; i < n; i++) t[i] = p[i];
    return _mm_loadu_si128((const __m128i *)(const void *)t);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_half_store_n)(uint16_t *p, __m128i h, size_t n)
{
    uint16_t t[8];
    size_t i;
    _mm_storeu_si128((__m128i *)(void *)t, h);
    for (i = 0; i < n; i++) p[i] = t[i];
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_bf16_up)(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
TINYI_FORCE_INLINE __m128i TINY_FN(tinyi_bf16_down)(v_f32 v)
{
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i r = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
    const __m256i w = _mm256_blendv_epi8(r, quiet, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
    return _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
}
TINYI_FORCE_INLINE v_f32 v_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n) { return _mm256_cvtph_ps(TINY_FN(tinyi_half_load_n)(p, n)); }
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v) { _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n) { TINY_FN(tinyi_half_store_n)(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT), n); }
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p) { return TINY_FN(tinyi_bf16_up)(_mm_loadu_si128((const __m128i *)(const void *)p)); }
TINYI_FORCE_INLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n) { return TINY_FN(tinyi_bf16_up)(TINY_FN(tinyi_half_load_n)(p, n)); }
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v) { _mm_storeu_si128((__m128i *)(void *)p, TINY_FN(tinyi_bf16_down)(v)); }
TINYI_FORCE_INLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n) { TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_bf16_down)(v), n); }

/* ---- floats: arithmetic */
TINYI_FORCE_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return _mm256_add_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return _mm256_sub_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return _mm256_mul_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return _mm256_div_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return _mm256_fmadd_ps(a, b, c); }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return _mm256_fnmadd_ps(a, b, c); }
TINYI_FORCE_INLINE v_f32 v_neg(v_f32 a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
TINYI_FORCE_INLINE v_f32 v_abs(v_f32 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
TINYI_FORCE_INLINE v_f32 v_sqrt(v_f32 a) { return _mm256_sqrt_ps(a); }
TINYI_FORCE_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return _mm256_min_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return _mm256_max_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a) { return _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
TINYI_FORCE_INLINE float v_sum(v_f32 a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
TINYI_FORCE_INLINE float v_hmax(v_f32 a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
TINYI_FORCE_INLINE float v_hmin(v_f32 a)
{
    __m128 s = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_min_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_min_ss(s, _mm_movehdup_ps(s)));
}

/* ---- comparisons and masks */
TINYI_FORCE_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
TINYI_FORCE_INLINE v_mask v_le(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
TINYI_FORCE_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
TINYI_FORCE_INLINE v_mask v_ne(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
TINYI_FORCE_INLINE v_mask v_isnan(v_f32 a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
TINYI_FORCE_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return _mm256_blendv_ps(b, a, m); }
TINYI_FORCE_INLINE v_mask vm_and(v_mask a, v_mask b) { return _mm256_and_ps(a, b); }
TINYI_FORCE_INLINE v_mask vm_or(v_mask a, v_mask b) { return _mm256_or_ps(a, b); }
TINYI_FORCE_INLINE v_mask vm_not(v_mask a) { return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }
TINYI_FORCE_INLINE int vm_any(v_mask a) { return _mm256_movemask_ps(a) != 0; }
TINYI_FORCE_INLINE int vm_all(v_mask a) { return _mm256_movemask_ps(a) == 0xff; }

/* ---- conversions */
TINYI_FORCE_INLINE v_i32 v_to_i32(v_f32 a) { return _mm256_cvtps_epi32(a); }
TINYI_FORCE_INLINE v_f32 v_from_i32(v_i32 a) { return _mm256_cvtepi32_ps(a); }
TINYI_FORCE_INLINE v_i32 v_bits(v_f32 a) { return _mm256_castps_si256(a); }
TINYI_FORCE_INLINE v_f32 v_float(v_i32 a) { return _mm256_castsi256_ps(a); }
TINYI_FORCE_INLINE v_f32 v_exp2i(v_i32 n) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23)); }
TINYI_FORCE_INLINE v_f32 v_gather(const float *p, v_i32 i) { return _mm256_i32gather_ps(p, i, 4); }

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return _mm256_setzero_si256(); }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { return _mm256_set1_epi32(x); }
TINYI_FORCE_INLINE v_i32 vi_iota(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { _mm256_storeu_si256((__m256i *)(void *)p, v); }
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n) { return _mm256_maskload_epi32((const int *)p, _mm256_castps_si256(v_first(n))); }
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n) { _mm256_maskstore_epi32((int *)p, _mm256_castps_si256(v_first(n)), v); }
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); }
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); }
TINYI_FORCE_INLINE v_i32 vi_add(v_i32 a, v_i32 b) { return _mm256_add_epi32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_sub(v_i32 a, v_i32 b) { return _mm256_sub_epi32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_mul(v_i32 a, v_i32 b) { return _mm256_mullo_epi32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_and(v_i32 a, v_i32 b) { return _mm256_and_si256(a, b); }
TINYI_FORCE_INLINE v_i32 vi_or(v_i32 a, v_i32 b) { return _mm256_or_si256(a, b); }
TINYI_FORCE_INLINE v_i32 vi_xor(v_i32 a, v_i32 b) { return _mm256_xor_si256(a, b); }
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return _mm256_slli_epi32(a, n); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { return _mm256_srli_epi32(a, n); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return _mm256_srai_epi32(a, n); }
TINYI_FORCE_INLINE v_i32 vi_min(v_i32 a, v_i32 b) { return _mm256_min_epi32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_max(v_i32 a, v_i32 b) { return _mm256_max_epi32(a, b); }
TINYI_FORCE_INLINE v_mask vi_eq(v_i32 a, v_i32 b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
TINYI_FORCE_INLINE v_mask vi_gt(v_i32 a, v_i32 b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
TINYI_FORCE_INLINE v_i32 vi_select(v_mask m, v_i32 a, v_i32 b) { return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m)); }
TINYI_FORCE_INLINE int32_t vi_sum(v_i32 a)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0x55)));
}

/* ---- bytes */
TINYI_FORCE_INLINE v_i8 vb_zero(void) { return _mm256_setzero_si256(); }
TINYI_FORCE_INLINE v_i8 vb_set(int8_t x) { return _mm256_set1_epi8(x); }
TINYI_FORCE_INLINE v_i8 vb_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
TINYI_FORCE_INLINE v_i8 vb_set4(const void *p) { int32_t x; memcpy(&x, p, 4); return vi_set(x); }
TINYI_FORCE_INLINE void vb_store(void *p, v_i8 v) { _mm256_storeu_si256((__m256i *)p, v); }
TINYI_FORCE_INLINE v_i8 vb_load_n(const void *p, size_t n)
{
    unsigned char t[32];
    memset(t, 0, sizeof t);
    memcpy(t, p, n);
    return _mm256_loadu_si256((const __m256i *)(const void *)t);
}
TINYI_FORCE_INLINE v_i8 vb_and(v_i8 a, v_i8 b) { return _mm256_and_si256(a, b); }
TINYI_FORCE_INLINE v_i8 vb_or(v_i8 a, v_i8 b) { return _mm256_or_si256(a, b); }
TINYI_FORCE_INLINE v_i8 vb_xor(v_i8 a, v_i8 b) { return _mm256_xor_si256(a, b); }
TINYI_FORCE_INLINE v_i8 vb_add(v_i8 a, v_i8 b) { return _mm256_add_epi8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_sub(v_i8 a, v_i8 b) { return _mm256_sub_epi8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n) { return _mm256_and_si256(_mm256_srli_epi16(a, n), _mm256_set1_epi8((char)(0xff >> n))); }
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 i)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t)), i);
}

#if V_VNNI
/* vpdpbusd wants a unsigned: a + 128 is, and 128 * b is taken back. A loop over several a with one b makes the latter once. */
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b) { return _mm256_dpbusd_avx_epi32(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    const __m256i top = _mm256_set1_epi8((char)-128);
    const __m256i back = _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), top, b);
    return _mm256_sub_epi32(_mm256_dpbusd_avx_epi32(acc, _mm256_xor_si256(a, top), b), back);
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b)
{
    return _mm256_dpbusd_avx_epi32(acc, _mm256_sign_epi8(a, a), _mm256_sign_epi8(b, a));
}
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return _mm256_dpbusd_avx_epi32(acc, a, b); }
#else
/* even and odd bytes as 16-bit lanes: pmaddwd adds bytes 4j and 4j+2, then 4j+1 and 4j+3, and nothing is shuffled */
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    const __m256i a0 = _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8), a1 = _mm256_srai_epi16(a, 8);
    const __m256i b0 = _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8), b1 = _mm256_srai_epi16(b, 8);
    return _mm256_add_epi32(_mm256_add_epi32(acc, _mm256_madd_epi16(a0, b0)), _mm256_madd_epi16(a1, b1));
}
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b)
{
    const __m256i a0 = _mm256_and_si256(a, _mm256_set1_epi16(0xff)), a1 = _mm256_srli_epi16(a, 8);
    const __m256i b0 = _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8), b1 = _mm256_srai_epi16(b, 8);
    return _mm256_add_epi32(_mm256_add_epi32(acc, _mm256_madd_epi16(a0, b0)), _mm256_madd_epi16(a1, b1));
}
/* pmaddubsw adds two products in 16 bits: 2 * 128 * 127 and 2 * 127 * 128 still fit */
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b)
{
    return v_dot_u7i8(acc, _mm256_sign_epi8(a, a), _mm256_sign_epi8(b, a));
}
#endif
#endif /* V_AVX2 */

#if V_AVX512 && TINYI_SIMD_NEW
/* ======== avx512: the v_ layer in AVX-512 F, BW, DQ, VL and VNNI; for the avx512 and amx passes */
typedef __m512 v_f32;
typedef __m512i v_i32;
typedef __mmask16 v_mask;
typedef __m512i v_i8;

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_mask v_first(size_t n) { return (__mmask16)((1u << n) - 1u); }
TINYI_FORCE_INLINE v_f32 v_zero(void) { return _mm512_setzero_ps(); }
TINYI_FORCE_INLINE v_f32 v_set(float x) { return _mm512_set1_ps(x); }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return _mm512_loadu_ps(p); }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { _mm512_storeu_ps(p, v); }
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n) { _mm512_mask_storeu_ps(p, v_first(n), v); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_bf16_up)(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
/* The conversion of AVX512_BF16 turns subnormals into zero; these keep them. */
TINYI_FORCE_INLINE __m256i TINY_FN(tinyi_bf16_down)(v_f32 v)
{
    const __m512i u = _mm512_castps_si512(v), top = _mm512_srli_epi32(u, 16);
    const __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    const __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(r, nan, top, _mm512_set1_epi32(0x40)));
}
TINYI_FORCE_INLINE v_f32 v_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p)); }
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n)
{
    _mm256_mask_storeu_epi16(p, v_first(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p) { return TINY_FN(tinyi_bf16_up)(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
TINYI_FORCE_INLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n) { return TINY_FN(tinyi_bf16_up)(_mm256_maskz_loadu_epi16(v_first(n), p)); }
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v) { _mm256_storeu_si256((__m256i *)(void *)p, TINY_FN(tinyi_bf16_down)(v)); }
TINYI_FORCE_INLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n) { _mm256_mask_storeu_epi16(p, v_first(n), TINY_FN(tinyi_bf16_down)(v)); }

/* ---- floats: arithmetic */
TINYI_FORCE_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return _mm512_add_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return _mm512_sub_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return _mm512_mul_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return _mm512_div_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return _mm512_fmadd_ps(a, b, c); }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return _mm512_fnmadd_ps(a, b, c); }
TINYI_FORCE_INLINE v_f32 v_neg(v_f32 a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
TINYI_FORCE_INLINE v_f32 v_abs(v_f32 a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
TINYI_FORCE_INLINE v_f32 v_sqrt(v_f32 a) { return _mm512_sqrt_ps(a); }
TINYI_FORCE_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return _mm512_min_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return _mm512_max_ps(a, b); }
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
TINYI_FORCE_INLINE __m256 TINY_FN(tinyi_upper)(v_f32 a) { return _mm512_extractf32x8_ps(a, 1); }
TINYI_FORCE_INLINE float v_sum(v_f32 a)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), TINY_FN(tinyi_upper)(a));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
TINYI_FORCE_INLINE float v_hmax(v_f32 a)
{
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), TINY_FN(tinyi_upper)(a));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
TINYI_FORCE_INLINE float v_hmin(v_f32 a)
{
    const __m256 h = _mm256_min_ps(_mm512_castps512_ps256(a), TINY_FN(tinyi_upper)(a));
    __m128 s = _mm_min_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_min_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_min_ss(s, _mm_movehdup_ps(s)));
}

/* ---- comparisons and masks */
TINYI_FORCE_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
TINYI_FORCE_INLINE v_mask v_le(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
TINYI_FORCE_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
TINYI_FORCE_INLINE v_mask v_ne(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
TINYI_FORCE_INLINE v_mask v_isnan(v_f32 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
TINYI_FORCE_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return _mm512_mask_blend_ps(m, b, a); }
TINYI_FORCE_INLINE v_mask vm_and(v_mask a, v_mask b) { return (__mmask16)(a & b); }
TINYI_FORCE_INLINE v_mask vm_or(v_mask a, v_mask b) { return (__mmask16)(a | b); }
TINYI_FORCE_INLINE v_mask vm_not(v_mask a) { return (__mmask16)~a; }
TINYI_FORCE_INLINE int vm_any(v_mask a) { return a != 0; }
TINYI_FORCE_INLINE int vm_all(v_mask a) { return a == 0xffff; }

/* ---- conversions */
TINYI_FORCE_INLINE v_i32 v_to_i32(v_f32 a) { return _mm512_cvtps_epi32(a); }
TINYI_FORCE_INLINE v_f32 v_from_i32(v_i32 a) { return _mm512_cvtepi32_ps(a); }
TINYI_FORCE_INLINE v_i32 v_bits(v_f32 a) { return _mm512_castps_si512(a); }
TINYI_FORCE_INLINE v_f32 v_float(v_i32 a) { return _mm512_castsi512_ps(a); }
TINYI_FORCE_INLINE v_f32 v_exp2i(v_i32 n)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}
TINYI_FORCE_INLINE v_f32 v_gather(const float *p, v_i32 i) { return _mm512_i32gather_ps(i, p, 4); }

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return _mm512_setzero_si512(); }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { return _mm512_set1_epi32(x); }
TINYI_FORCE_INLINE v_i32 vi_iota(void) { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { _mm512_storeu_si512(p, v); }
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n) { return _mm512_maskz_loadu_epi32(v_first(n), p); }
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n) { _mm512_mask_storeu_epi32(p, v_first(n), v); }
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }
TINYI_FORCE_INLINE v_i32 vi_add(v_i32 a, v_i32 b) { return _mm512_add_epi32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_sub(v_i32 a, v_i32 b) { return _mm512_sub_epi32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_mul(v_i32 a, v_i32 b) { return _mm512_mullo_epi32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_and(v_i32 a, v_i32 b) { return _mm512_and_si512(a, b); }
TINYI_FORCE_INLINE v_i32 vi_or(v_i32 a, v_i32 b) { return _mm512_or_si512(a, b); }
TINYI_FORCE_INLINE v_i32 vi_xor(v_i32 a, v_i32 b) { return _mm512_xor_si512(a, b); }
#if TINYI_GCC                               /* whose intrinsics want a literal count at -O0 */
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return (__m512i)((__v16su)a << n); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { return (__m512i)((__v16su)a >> n); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return (__m512i)((__v16si)a >> n); }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n) { return _mm512_and_si512((__m512i)((__v32hu)a >> n), _mm512_set1_epi8((char)(0xff >> n))); }
#else
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n) { return _mm512_and_si512(_mm512_srli_epi16(a, (unsigned)n), _mm512_set1_epi8((char)(0xff >> n))); }
#endif
TINYI_FORCE_INLINE v_i32 vi_min(v_i32 a, v_i32 b) { return _mm512_min_epi32(a, b); }
TINYI_FORCE_INLINE v_i32 vi_max(v_i32 a, v_i32 b) { return _mm512_max_epi32(a, b); }
TINYI_FORCE_INLINE v_mask vi_eq(v_i32 a, v_i32 b) { return _mm512_cmpeq_epi32_mask(a, b); }
TINYI_FORCE_INLINE v_mask vi_gt(v_i32 a, v_i32 b) { return _mm512_cmpgt_epi32_mask(a, b); }
TINYI_FORCE_INLINE v_i32 vi_select(v_mask m, v_i32 a, v_i32 b) { return _mm512_mask_blend_epi32(m, b, a); }
TINYI_FORCE_INLINE int32_t vi_sum(v_i32 a)
{
    const __m256i h = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0x55)));
}

/* ---- bytes */
TINYI_FORCE_INLINE v_i8 vb_zero(void) { return _mm512_setzero_si512(); }
TINYI_FORCE_INLINE v_i8 vb_set(int8_t x) { return _mm512_set1_epi8(x); }
TINYI_FORCE_INLINE v_i8 vb_load(const void *p) { return _mm512_loadu_si512(p); }
TINYI_FORCE_INLINE v_i8 vb_set4(const void *p) { int32_t x; memcpy(&x, p, 4); return vi_set(x); }
TINYI_FORCE_INLINE void vb_store(void *p, v_i8 v) { _mm512_storeu_si512(p, v); }
TINYI_FORCE_INLINE v_i8 vb_load_n(const void *p, size_t n)
{
    return _mm512_maskz_loadu_epi8(n < 64 ? ((__mmask64)1 << n) - 1 : ~(__mmask64)0, p);
}
TINYI_FORCE_INLINE v_i8 vb_and(v_i8 a, v_i8 b) { return _mm512_and_si512(a, b); }
TINYI_FORCE_INLINE v_i8 vb_or(v_i8 a, v_i8 b) { return _mm512_or_si512(a, b); }
TINYI_FORCE_INLINE v_i8 vb_xor(v_i8 a, v_i8 b) { return _mm512_xor_si512(a, b); }
TINYI_FORCE_INLINE v_i8 vb_add(v_i8 a, v_i8 b) { return _mm512_add_epi8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_sub(v_i8 a, v_i8 b) { return _mm512_sub_epi8(a, b); }
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 i)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)t)), i);
}

/* vpdpbusd wants a unsigned: a + 128 is, and 128 * b is taken back. A loop over several a with one b makes the latter once. */
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b) { return _mm512_dpbusd_epi32(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    const __m512i top = _mm512_set1_epi8((char)-128);
    const __m512i back = _mm512_dpbusd_epi32(_mm512_setzero_si512(), top, b);
    return _mm512_sub_epi32(_mm512_dpbusd_epi32(acc, _mm512_xor_si512(a, top), b), back);
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return _mm512_dpbusd_epi32(acc, a, b); }
#endif /* V_AVX512 */
