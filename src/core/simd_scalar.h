/* src/core/simd_scalar.h - the v_ layer in plain C: one lane, four bytes */
typedef float v_f32;
typedef int32_t v_i32;
typedef int v_mask;
typedef struct { uint8_t b[4]; } v_i8;      /* bytes; signed ones in two's complement */

TINYI_FORCE_INLINE int32_t TINY_FN(tinyi_wrap)(uint32_t u)
{
    return u <= 0x7fffffffu ? (int32_t)u : (int32_t)(u - 0x7fffffffu - 1u) - 0x7fffffff - 1;
}

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_mask v_first(size_t n) { return n > 0; }
TINYI_FORCE_INLINE v_f32 v_zero(void) { return 0.0f; }
TINYI_FORCE_INLINE v_f32 v_set(float x) { return x; }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return *p; }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { *p = v; }
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n) { return n ? *p : 0.0f; }
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n) { if (n) *p = v; }
/* halves out of line: a hundred bytes each */
static TINYI_UNUSED TINYI_NOINLINE v_f32 v_load_f16(const uint16_t *p) { return tinyi_f16_to_f32(*p); }
static TINYI_UNUSED TINYI_NOINLINE void v_store_f16(uint16_t *p, v_f32 v) { *p = tinyi_f32_to_f16(v); }
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n) { return n ? v_load_f16(p) : 0.0f; }
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n) { if (n) v_store_f16(p, v); }
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
TINYI_FORCE_INLINE v_mask v_isnan(v_f32 a) { return (tinyi_f32_bits(a) & 0x7fffffffu) > 0x7f800000u; }
#ifdef TINYI_FAST_MATH_OFF /* gcc -ffast-math on x86: comparisons stay blind to NaN when all else is switched off */
#define TINYI_ORDERED(a, b, holds) (!(v_isnan(a) | v_isnan(b)) & (holds))
#else
#define TINYI_ORDERED(a, b, holds) (holds)
#endif
TINYI_FORCE_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return TINYI_ORDERED(a, b, a < b) ? a : b; }
TINYI_FORCE_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return TINYI_ORDERED(a, b, a > b) ? a : b; }
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
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a)
{
    return v_abs(a) < 8388608.0f ? TINY_FN(tinyi_like)((float)TINY_FN(tinyi_near)(a), a) : a;
}
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a)
{
    return v_abs(a) < 8388608.0f ? TINY_FN(tinyi_like)((float)(int32_t)a, a) : a;
}
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a)
{
    const float t = v_trunc(a);
    return t > a ? t - 1.0f : t;
}
TINYI_FORCE_INLINE float v_sum(v_f32 a) { return a; }
TINYI_FORCE_INLINE void v_sum4(float *y, v_f32 a, v_f32 b, v_f32 c, v_f32 d) { y[0] = a; y[1] = b; y[2] = c; y[3] = d; }
TINYI_FORCE_INLINE float v_hmax(v_f32 a) { return a; }
TINYI_FORCE_INLINE float v_hmin(v_f32 a) { return a; }

/* ---- comparisons and masks */
TINYI_FORCE_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return TINYI_ORDERED(a, b, a < b); }
TINYI_FORCE_INLINE v_mask v_le(v_f32 a, v_f32 b) { return TINYI_ORDERED(a, b, a <= b); }
TINYI_FORCE_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return TINYI_ORDERED(a, b, a == b); }
TINYI_FORCE_INLINE v_mask v_ne(v_f32 a, v_f32 b) { return !v_eq(a, b); }
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
TINYI_FORCE_INLINE v_f32 v_table4(const float *t, v_i32 i) { return t[i & 3]; }

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
/* four bytes in one word: what a shift or a sum carries over the border of a byte is masked */
TINYI_FORCE_INLINE uint32_t TINY_FN(tinyi_word)(v_i8 a) { uint32_t u; memcpy(&u, a.b, 4); return u; }
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_bytes)(uint32_t u) { v_i8 r; memcpy(r.b, &u, 4); return r; }
#define TINYI_SIMD_BYTES(expr) const uint32_t x = TINY_FN(tinyi_word)(a), y = TINY_FN(tinyi_word)(b); \
    return TINY_FN(tinyi_bytes)(expr)
TINYI_FORCE_INLINE v_i8 vb_and(v_i8 a, v_i8 b) { TINYI_SIMD_BYTES(x & y); }
TINYI_FORCE_INLINE v_i8 vb_or(v_i8 a, v_i8 b) { TINYI_SIMD_BYTES(x | y); }
TINYI_FORCE_INLINE v_i8 vb_xor(v_i8 a, v_i8 b) { TINYI_SIMD_BYTES(x ^ y); }
TINYI_FORCE_INLINE v_i8 vb_add(v_i8 a, v_i8 b)
{
    TINYI_SIMD_BYTES(((x & 0x7f7f7f7fu) + (y & 0x7f7f7f7fu)) ^ ((x ^ y) & 0x80808080u));
}
TINYI_FORCE_INLINE v_i8 vb_sub(v_i8 a, v_i8 b)
{
    TINYI_SIMD_BYTES(((x | 0x80808080u) - (y & 0x7f7f7f7fu)) ^ ((x ^ ~y) & 0x80808080u));
}
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n)
{
    return TINY_FN(tinyi_bytes)(TINY_FN(tinyi_word)(a) >> n & 0x01010101u * (0xffu >> n));
}
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 k)
{
    v_i8 r;
    int i;
    for (i = 0; i < 4; i++) r.b[i] = ((const uint8_t *)t)[k.b[i] & 15];
    return r;
}
#undef TINYI_SIMD_BYTES
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    int8_t x[4], y[4];
    memcpy(x, a.b, 4);
    memcpy(y, b.b, 4);
    return vi_add(acc, x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3]);
}
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b)
{
    int8_t y[4];
    memcpy(y, b.b, 4);
    return vi_add(acc, a.b[0] * y[0] + a.b[1] * y[1] + a.b[2] * y[2] + a.b[3] * y[3]);
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_u8i8(acc, a, b); }
#undef TINYI_ORDERED
