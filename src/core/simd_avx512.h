/* src/core/simd_avx512.h - the v_ layer in AVX-512 F, BW, DQ, VL and VNNI; for the avx512 and amx passes */
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
TINYI_FORCE_INLINE v_f32 v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p));
}
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n)
{
    _mm256_mask_storeu_epi16(p, v_first(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p)
{
    return TINY_FN(tinyi_bf16_up)(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
TINYI_FORCE_INLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n)
{
    return TINY_FN(tinyi_bf16_up)(_mm256_maskz_loadu_epi16(v_first(n), p));
}
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, TINY_FN(tinyi_bf16_down)(v));
}
TINYI_FORCE_INLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n)
{
    _mm256_mask_storeu_epi16(p, v_first(n), TINY_FN(tinyi_bf16_down)(v));
}

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
TINYI_FORCE_INLINE v_f32 v_round(v_f32 a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
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
TINYI_FORCE_INLINE void v_sum4(float *y, v_f32 a, v_f32 b, v_f32 c, v_f32 d)
{
    const __m512 s = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)),
                 t = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d u = _mm512_castps_pd(s), v = _mm512_castps_pd(t);
    const __m512 w =
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(u, v)), _mm512_castpd_ps(_mm512_unpackhi_pd(u, v)));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(w), TINY_FN(tinyi_upper)(w));
    _mm_storeu_ps(y, _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
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
TINYI_FORCE_INLINE v_f32 v_table4(const float *t, v_i32 i)
{
    return _mm512_maskz_permutevar_ps((__mmask16)0xffff,
                                      _mm512_maskz_broadcast_f32x4((__mmask16)0xffff, _mm_loadu_ps(t)), i);
}

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return _mm512_setzero_si512(); }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { return _mm512_set1_epi32(x); }
TINYI_FORCE_INLINE v_i32 vi_iota(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { _mm512_storeu_si512(p, v); }
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n) { return _mm512_maskz_loadu_epi32(v_first(n), p); }
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n) { _mm512_mask_storeu_epi32(p, v_first(n), v); }
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
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
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n)
{
    return _mm512_and_si512((__m512i)((__v32hu)a >> n), _mm512_set1_epi8((char)(0xff >> n)));
}
#else
TINYI_FORCE_INLINE v_i32 vi_shl(v_i32 a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
TINYI_FORCE_INLINE v_i32 vi_shr(v_i32 a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
TINYI_FORCE_INLINE v_i32 vi_sra(v_i32 a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n)
{
    return _mm512_and_si512(_mm512_srli_epi16(a, (unsigned)n), _mm512_set1_epi8((char)(0xff >> n)));
}
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

/* vpdpbusd wants a unsigned: a + 128 is, and 128 * b is taken back. A loop over several a with one b makes the latter
 * once. */
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b) { return _mm512_dpbusd_epi32(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    const __m512i top = _mm512_set1_epi8((char)-128);
    const __m512i back = _mm512_dpbusd_epi32(_mm512_setzero_si512(), top, b);
    return _mm512_sub_epi32(_mm512_dpbusd_epi32(acc, _mm512_xor_si512(a, top), b), back);
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b) { return v_dot_i8(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return _mm512_dpbusd_epi32(acc, a, b); }
