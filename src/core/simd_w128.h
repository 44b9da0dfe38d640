/* src/core/simd_w128.h - the v_ layer in the words of SSE4.1, native on x86, SIMDe elsewhere; lanes are numbered as in
 * memory, also on big-endian machines. On 32-bit ARM with NEON subnormal floats count as 0. */
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
/* clang for WebAssembly (seen with emscripten 3.1.6) moves a load that fills all lanes (v128.load32_splat,
 * load64_splat) past stores to the same place: what is loaded for that rests in a register first. The name stays after
 * a pass, for kernels of a second header. */
#if defined __wasm__ && TINYI_CLANG
#define TINYI_W_LOADED(x) if (!__builtin_constant_p(x)) __asm__("" : "+r"(x))
TINYI_FORCE_INLINE TINY_FN(tinyi_bits128) TINY_FN(tinyi_low)(const void *p)
{
    int64_t t;
    memcpy(&t, p, 8);
    TINYI_W_LOADED(t);
    return TINYI_W(set_epi64x)(0, t);
}
#else
#define TINYI_W_LOADED(x) ((void)0)
TINYI_FORCE_INLINE TINY_FN(tinyi_bits128) TINY_FN(tinyi_low)(const void *p)
{
    return TINYI_W(loadl_epi64)(TINYI_W_FROM(p));
}
#endif

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return TINYI_W(setzero_si128)(); }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { TINYI_W_LOADED(x); return TINYI_W(set1_epi32)(x); }
TINYI_FORCE_INLINE v_i32 vi_iota(void) { return TINYI_W(setr_epi32)(0, 1, 2, 3); }
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return TINYI_W(loadu_si128)(TINYI_W_FROM(p)); }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { TINYI_W(storeu_si128)(TINYI_W_TO(p), v); }
/* two lanes if there are two, then one: no loop, no call */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_lane)(const void *p)
{
    int32_t t;
    memcpy(&t, p, 4);
    return TINYI_W(setr_epi32)(t, 0, 0, 0);
}
/* fewer than four: the last ones of a row, rare, and long enough to stand once */
static TINYI_UNUSED TINYI_NOINLINE v_i32 TINY_FN(tinyi_load_part)(const int32_t *p, size_t n)
{
    if (n == 3) return TINYI_W(unpacklo_epi64)(TINY_FN(tinyi_low)(p), TINY_FN(tinyi_lane)(p + 2));
    if (n == 2) return TINY_FN(tinyi_low)(p);
    return n ? TINY_FN(tinyi_lane)(p) : vi_zero();
}
static TINYI_UNUSED TINYI_NOINLINE void TINY_FN(tinyi_store_part)(int32_t *p, v_i32 v, size_t n)
{
    int32_t t;
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
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n)
{
    return n > 3 ? vi_load(p) : TINY_FN(tinyi_load_part)(p, n);
}
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n)
{
    if (n > 3) vi_store(p, v);
    else TINY_FN(tinyi_store_part)(p, v, n);
}
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p)
{
    int32_t t;
    memcpy(&t, p, 4);
    return TINYI_W(cvtepi8_epi32)(vi_set(t));
}
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p)
{
    int32_t t;
    memcpy(&t, p, 4);
    return TINYI_W(cvtepu8_epi32)(vi_set(t));
}
TINYI_FORCE_INLINE v_i32 vi_add(v_i32 a, v_i32 b) { return TINYI_W(add_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_sub(v_i32 a, v_i32 b) { return TINYI_W(sub_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_mul(v_i32 a, v_i32 b) { return TINYI_W(mullo_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_and(v_i32 a, v_i32 b) { return TINYI_W(and_si128)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_or(v_i32 a, v_i32 b) { return TINYI_W(or_si128)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_xor(v_i32 a, v_i32 b) { return TINYI_W(xor_si128)(a, b); }
#if TINYI_W128_SIMDE && (TINYI_GCC || TINYI_CLANG) /* SIMDe wants a literal count; the compiler's own vectors do not \
                                                    */
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
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_shl16)(v_i32 a, int n) { return TINYI_W(slli_epi16)(a, n); }
/* the bytes of even and odd places as 16-bit lanes; on a big-endian machine the other way round */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_even)(v_i32 a) { return TINYI_W(srai_epi16)(TINYI_W(slli_epi16)(a, 8), 8); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_odd)(v_i32 a) { return TINYI_W(srai_epi16)(a, 8); }
#endif
TINYI_FORCE_INLINE v_i32 vi_pairs(v_i32 a, v_i32 b) { return TINYI_W(hadd_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_min(v_i32 a, v_i32 b) { return TINYI_W(min_epi32)(a, b); }
TINYI_FORCE_INLINE v_i32 vi_max(v_i32 a, v_i32 b) { return TINYI_W(max_epi32)(a, b); }
TINYI_FORCE_INLINE v_mask vi_eq(v_i32 a, v_i32 b) { return TINYI_W(castsi128_ps)(TINYI_W(cmpeq_epi32)(a, b)); }
TINYI_FORCE_INLINE v_mask vi_gt(v_i32 a, v_i32 b) { return TINYI_W(castsi128_ps)(TINYI_W(cmpgt_epi32)(a, b)); }
TINYI_FORCE_INLINE v_i32 vi_select(v_mask m, v_i32 a, v_i32 b)
{
    return TINYI_W(blendv_epi8)(b, a, TINYI_W(castps_si128)(m));
}
TINYI_FORCE_INLINE int32_t vi_sum(v_i32 a)
{
    int32_t t[4];
    vi_store(t, a);
    return (int32_t)(((uint32_t)t[0] + (uint32_t)t[1]) + ((uint32_t)t[2] + (uint32_t)t[3]));
}

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_mask v_first(size_t n) { return vi_gt(vi_set((int32_t)n), vi_iota()); }
TINYI_FORCE_INLINE v_f32 v_zero(void) { return TINYI_W(setzero_ps)(); }
TINYI_FORCE_INLINE v_f32 v_set(float x) { TINYI_W_LOADED(x); return TINYI_W(set1_ps)(x); }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return TINYI_W(loadu_ps)(p); }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { TINYI_W(storeu_ps)(p, v); }
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n)
{
    return TINYI_W(castsi128_ps)(vi_load_n((const int32_t *)(const void *)p, n));
}
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n)
{
    vi_store_n((int32_t *)(void *)p, TINYI_W(castps_si128)(v), n);
}
TINYI_FORCE_INLINE v_i32 v_bits(v_f32 a) { return TINYI_W(castps_si128)(a); }
TINYI_FORCE_INLINE v_f32 v_float(v_i32 a) { return TINYI_W(castsi128_ps)(a); }

/* ---- floats: arithmetic */
TINYI_FORCE_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return TINYI_W(add_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return TINYI_W(sub_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return TINYI_W(mul_ps)(a, b); }
#if TINYI_W128_RELAXED
typedef float TINY_FN(tinyi_f32x4) __attribute__((vector_size(16)));
#define TINYI_W_RELAXED(how) \
    return (v_f32)how((TINY_FN(tinyi_f32x4))a, (TINY_FN(tinyi_f32x4))b, (TINY_FN(tinyi_f32x4))c)
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { TINYI_W_RELAXED(__builtin_wasm_relaxed_madd_f32x4); }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { TINYI_W_RELAXED(__builtin_wasm_relaxed_nmadd_f32x4); }
#undef TINYI_W_RELAXED
#else
TINYI_FORCE_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return TINYI_W(add_ps)(TINYI_W(mul_ps)(a, b), c); }
TINYI_FORCE_INLINE v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return TINYI_W(sub_ps)(c, TINYI_W(mul_ps)(a, b)); }
#endif
TINYI_FORCE_INLINE v_f32 v_neg(v_f32 a) { return v_float(vi_xor(v_bits(a), vi_set(-0x7fffffff - 1))); }
TINYI_FORCE_INLINE v_f32 v_abs(v_f32 a) { return v_float(vi_and(v_bits(a), vi_set(0x7fffffff))); }
TINYI_FORCE_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return TINYI_W(min_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return TINYI_W(max_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return TINYI_W(blendv_ps)(b, a, m); }
TINYI_FORCE_INLINE v_f32 v_from_i32(v_i32 a) { return TINYI_W(cvtepi32_ps)(a); }
#if TINYI_W128_SIMDE && defined SIMDE_ARM_NEON_A32V7_NATIVE && \
    !defined SIMDE_ARM_NEON_A64V8_NATIVE /* SIMDe estimates there */
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
#if !TINYI_W128_SIMDE || defined SIMDE_X86_SSE_NATIVE || defined SIMDE_WASM_SIMD128_NATIVE || \
    defined SIMDE_ARM_NEON_A64V8_NATIVE || defined SIMDE_POWER_ALTIVEC_P7_NATIVE ||           \
    defined SIMDE_ZARCH_ZVECTOR_14_NATIVE
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
#define TINYI_W_WASM(how)                              \
    simde__m128_private t = simde__m128_to_private(a); \
    t.wasm_v128 = how(t.wasm_v128);                    \
    return simde__m128_from_private(t)
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a) { TINYI_W_WASM(wasm_f32x4_nearest); }
TINYI_FORCE_INLINE v_f32 v_floor(v_f32 a) { TINYI_W_WASM(wasm_f32x4_floor); }
TINYI_FORCE_INLINE v_f32 v_trunc(v_f32 a) { TINYI_W_WASM(wasm_f32x4_trunc); }
#undef TINYI_W_WASM
#else                                       /* SIMDe calls the C library for these */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_whole)(v_f32 r,
                                              v_f32 a) /* r with the sign of a; a itself from 2^23 on, and NaN */
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
TINYI_FORCE_INLINE void v_sum4(float *y, v_f32 a, v_f32 b, v_f32 c, v_f32 d)
{
    const v_f32 s = v_add(TINYI_W(unpacklo_ps)(a, b), TINYI_W(unpackhi_ps)(a, b)),
                t = v_add(TINYI_W(unpacklo_ps)(c, d), TINYI_W(unpackhi_ps)(c, d));
    v_store(y, v_add(TINYI_W(movelh_ps)(s, t), TINYI_W(movehl_ps)(t, s)));
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

/* ---- 16-bit floats, by integers as in core/half_inside.h */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_half_load_n)(const uint16_t *p, size_t n)
{
    uint16_t t[4] = { 0, 0, 0, 0 };
    size_t i;
    for (i = 0; i < n; i++) t[i] = p[i];
    return TINYI_W(cvtepu16_epi32)(TINY_FN(tinyi_low)(t));
}
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_half_load)(const uint16_t *p)
{
    return TINYI_W(cvtepu16_epi32)(TINY_FN(tinyi_low)(p));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_half_store)(uint16_t *p, v_i32 h)
{
    TINYI_W(storel_epi64)(TINYI_W_TO(p), TINYI_W(packus_epi32)(h, h));
}
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
    /* 2^-14 (1 + f) - 2^-14 */
    const v_i32 low = v_bits(v_sub(v_float(vi_add(a, vi_set(0x38800000))), v_float(vi_set(0x38800000))));
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
    /* the sum rounds to units of 2^-24 */
    const v_i32 low = vi_sub(v_bits(v_add(v_float(a), v_set(0.5f))), vi_set(0x3f000000));
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
TINYI_FORCE_INLINE v_f32 v_load_f16_each(const void *p, ptrdiff_t step)
{
    const unsigned char *at = (const unsigned char *)p;
    uint16_t t[4];
    int i;
    for (i = 0; i < 4; i++, at += step) t[i] = (uint16_t)(at[0] | at[1] << 8);
    return v_load_f16(t);
}
TINYI_FORCE_INLINE v_f32 v_set_f16(const void *p)
{
    return v_set(tinyi_f16_to_f32((uint16_t)(*(const unsigned char *)p | ((const unsigned char *)p)[1] << 8)));
}
/* the last ones of a row: rare, and long enough to stand once */
static TINYI_UNUSED TINYI_NOINLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n)
{
    return TINY_FN(tinyi_f16_up)(TINY_FN(tinyi_half_load_n)(p, n));
}
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v) { TINY_FN(tinyi_half_store)(p, TINY_FN(tinyi_f16_down)(v)); }
static TINYI_UNUSED TINYI_NOINLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n)
{
    TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_f16_down)(v), n);
}
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p) { return v_float(vi_shl(TINY_FN(tinyi_half_load)(p), 16)); }
static TINYI_UNUSED TINYI_NOINLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n)
{
    return v_float(vi_shl(TINY_FN(tinyi_half_load_n)(p, n), 16));
}
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v)
{
    TINY_FN(tinyi_half_store)(p, TINY_FN(tinyi_bf16_down)(v));
}
static TINYI_UNUSED TINYI_NOINLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n)
{
    TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_bf16_down)(v), n);
}

TINYI_FORCE_INLINE v_f32 v_exp2i(v_i32 n) { return v_float(vi_shl(vi_add(n, vi_set(127)), 23)); }
TINYI_FORCE_INLINE v_f32 v_gather(const float *p, v_i32 i)
{
    int32_t t[4];
    vi_store(t, i);
    return TINYI_W(setr_ps)(p[t[0]], p[t[1]], p[t[2]], p[t[3]]);
}

/* ---- bytes */
/* SIMDe 0.7 writes these two as loops over bytes for WebAssembly, which has instructions for them. Bytes of k are below
 * 16. */
#if TINYI_W128_SIMDE && defined SIMDE_WASM_SIMD128_NATIVE
#define TINYI_W_WASM(how)                                                                        \
    simde__m128i_private x = simde__m128i_to_private(a);                                         \
    const simde__m128i_private y = simde__m128i_to_private(b);                                   \
    x.wasm_v128 = how(x.wasm_v128, y.wasm_v128);                                                 \
    return simde__m128i_from_private(x)
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_pick)(v_i8 a, v_i8 b) { TINYI_W_WASM(wasm_i8x16_swizzle); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_dot16)(v_i8 a, v_i8 b) { TINYI_W_WASM(wasm_i32x4_dot_i16x8); }
#undef TINYI_W_WASM
#else
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_pick)(v_i8 a, v_i8 b) { return TINYI_W(shuffle_epi8)(a, b); }
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_dot16)(v_i8 a, v_i8 b) { return TINYI_W(madd_epi16)(a, b); }
#endif
TINYI_FORCE_INLINE v_i8 vb_zero(void) { return TINYI_W(setzero_si128)(); }
TINYI_FORCE_INLINE v_i8 vb_set(int8_t x) { TINYI_W_LOADED(x); return TINYI_W(set1_epi8)(x); }
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
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n)
{
    return vb_and(TINY_FN(tinyi_shr16)(a, n), vb_set((int8_t)(0xff >> n)));
}
TINYI_FORCE_INLINE v_i8 vb_shl(v_i8 a, int n)
{
    return vb_and(TINY_FN(tinyi_shl16)(a, n), vb_set((int8_t)(0xff << n & 0xff)));
}
TINYI_FORCE_INLINE v_i8 vb_merge(v_i8 a, v_i8 b, v_i8 m) { return vb_or(a, vb_and(b, m)); }
TINYI_FORCE_INLINE v_i8 vb_bits(const void *p)
{
    static const unsigned char bit[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 },
                               which[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1 };
    int32_t t = 0;
    memcpy(&t, p, 2);                       /* the order in memory, on every machine */
    return TINYI_W(cmpeq_epi8)(vb_and(TINY_FN(tinyi_pick)(vi_set(t), vb_load(which)), vb_load(bit)), vb_load(bit));
}
TINYI_FORCE_INLINE v_i8 vb_zip_low(v_i8 a, v_i8 b) { return TINYI_W(unpacklo_epi8)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_zip_high(v_i8 a, v_i8 b) { return TINYI_W(unpackhi_epi8)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_lows(v_i8 a, v_i8 b) { return TINYI_W(unpacklo_epi64)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_highs(v_i8 a, v_i8 b) { return TINYI_W(unpackhi_epi64)(a, b); }
TINYI_FORCE_INLINE v_f32 v_zip_low(v_f32 a, v_f32 b) { return TINYI_W(unpacklo_ps)(a, b); }
TINYI_FORCE_INLINE v_f32 v_zip_high(v_f32 a, v_f32 b) { return TINYI_W(unpackhi_ps)(a, b); }
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 i) { return TINY_FN(tinyi_pick)(vb_load(t), i); }
/* the bytes of number i stand at 4 i and the three behind it */
TINYI_FORCE_INLINE v_f32 v_table4(const float *t, v_i32 i)
{
    static const unsigned char order[4] = { 0, 1, 2, 3 };
    return v_float(vb_table16(t, vi_add(vi_mul(vi_and(i, vi_set(3)), vi_set(0x04040404)), vb_set4(order))));
}

/* ---- 16-bit lanes */
TINYI_FORCE_INLINE v_i8 vw_even_i8(v_i8 a) { return TINY_FN(tinyi_even)(a); }
TINYI_FORCE_INLINE v_i8 vw_odd_i8(v_i8 a) { return TINY_FN(tinyi_odd)(a); }
TINYI_FORCE_INLINE v_i8 vw_even_u8(v_i8 a) { return vi_and(a, vi_set(0xff00ff)); }
TINYI_FORCE_INLINE v_i8 vw_odd_u8(v_i8 a) { return TINY_FN(tinyi_shr16)(a, 8); }
TINYI_FORCE_INLINE v_i8 vw_load_i8(const void *p) { return TINYI_W(cvtepi8_epi16)(TINY_FN(tinyi_low)(p)); }
TINYI_FORCE_INLINE v_i8 vw_pair(v_i8 a, int i)
{
    return i == 0 ? TINYI_W(shuffle_epi32)(a, 0x00) : i == 1 ? TINYI_W(shuffle_epi32)(a, 0x55)
                                                    : i == 2 ? TINYI_W(shuffle_epi32)(a, 0xaa)
                                                             : TINYI_W(shuffle_epi32)(a, 0xff);
}
TINYI_FORCE_INLINE v_i8 vw_add(v_i8 a, v_i8 b) { return TINYI_W(add_epi16)(a, b); }
TINYI_FORCE_INLINE v_i32 vw_dot(v_i8 a, v_i8 b) { return TINY_FN(tinyi_dot16)(a, b); }

TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    return vi_add(vi_add(acc, vw_dot(vw_even_i8(a), vw_even_i8(b))), vw_dot(vw_odd_i8(a), vw_odd_i8(b)));
}
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b)
{
    return vi_add(vi_add(acc, vw_dot(vw_even_u8(a), vw_even_i8(b))), vw_dot(vw_odd_u8(a), vw_odd_i8(b)));
}
#if !TINYI_W128_SIMDE
/* pmaddubsw adds two products in 16 bits: 2 * 128 * 127 and 2 * 127 * 128 still fit */
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b)
{
    return vi_add(acc, TINYI_W(madd_epi16)(TINYI_W(maddubs_epi16)(a, b), TINYI_W(set1_epi16)(1)));
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b)
{
    return v_dot_u7i8(acc, TINYI_W(sign_epi8)(a, a), TINYI_W(sign_epi8)(b, a));
}
#else
#if TINYI_W128_RELAXED
/* An engine may read the bytes of a with or without sign and may saturate sums of two products at 16 bits. Bytes below
 * 128 give the same result either way. v_dot_i8_b127 cannot use it: a may be -128. */
typedef signed char TINY_FN(tinyi_s8x16) __attribute__((vector_size(16)));
typedef int32_t TINY_FN(tinyi_s32x4) __attribute__((vector_size(16)));
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b)
{
    return (v_i32)__builtin_wasm_relaxed_dot_i8x16_i7x16_add_s_i32x4(
        (TINY_FN(tinyi_s8x16))b, (TINY_FN(tinyi_s8x16))a, (TINY_FN(tinyi_s32x4))acc);
}
#else
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_u8i8(acc, a, b); }
#endif
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
#endif
#undef TINYI_W_FROM
#undef TINYI_W_TO
