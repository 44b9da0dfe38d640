/* src/core/simd_avx2.h - the v_ layer in AVX2, FMA, F16C; v_dot with AVX-VNNI in the avx2vnni pass */
typedef __m256 v_f32;
typedef __m256i v_i32;
typedef __m256 v_mask;                      /* all bits of a lane or none */
typedef __m256i v_i8;

/* ---- floats: make, load, store */
TINYI_FORCE_INLINE v_mask v_first(size_t n)
{
    return _mm256_castsi256_ps(
        _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}
TINYI_FORCE_INLINE v_f32 v_zero(void) { return _mm256_setzero_ps(); }
TINYI_FORCE_INLINE v_f32 v_set(float x) { return _mm256_set1_ps(x); }
TINYI_FORCE_INLINE v_f32 v_load(const float *p) { return _mm256_loadu_ps(p); }
TINYI_FORCE_INLINE void v_store(float *p, v_f32 v) { _mm256_storeu_ps(p, v); }
TINYI_FORCE_INLINE v_f32 v_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, _mm256_castps_si256(v_first(n)));
}
TINYI_FORCE_INLINE void v_store_n(float *p, v_f32 v, size_t n)
{
    _mm256_maskstore_ps(p, _mm256_castps_si256(v_first(n)), v);
}

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
TINYI_FORCE_INLINE v_f32 v_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
TINYI_FORCE_INLINE v_f32 v_load_f16_n(const uint16_t *p, size_t n)
{
    return _mm256_cvtph_ps(TINY_FN(tinyi_half_load_n)(p, n));
}
TINYI_FORCE_INLINE void v_store_f16(uint16_t *p, v_f32 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
TINYI_FORCE_INLINE void v_store_f16_n(uint16_t *p, v_f32 v, size_t n)
{
    TINY_FN(tinyi_half_store_n)(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT), n);
}
TINYI_FORCE_INLINE v_f32 v_load_bf16(const uint16_t *p)
{
    return TINY_FN(tinyi_bf16_up)(_mm_loadu_si128((const __m128i *)(const void *)p));
}
TINYI_FORCE_INLINE v_f32 v_load_bf16_n(const uint16_t *p, size_t n)
{
    return TINY_FN(tinyi_bf16_up)(TINY_FN(tinyi_half_load_n)(p, n));
}
TINYI_FORCE_INLINE void v_store_bf16(uint16_t *p, v_f32 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, TINY_FN(tinyi_bf16_down)(v));
}
TINYI_FORCE_INLINE void v_store_bf16_n(uint16_t *p, v_f32 v, size_t n)
{
    TINY_FN(tinyi_half_store_n)(p, TINY_FN(tinyi_bf16_down)(v), n);
}

/* eight vectors as the columns of eight rows, `step` apart: pairs, then fours, then the halves change places */
TINYI_FORCE_INLINE void TINY_FN(tinyi_turn8)(float *to, ptrdiff_t step, v_f32 a0, v_f32 a1, v_f32 a2, v_f32 a3,
                                             v_f32 a4, v_f32 a5, v_f32 a6, v_f32 a7)
{
    const __m256d b0 = _mm256_castps_pd(_mm256_unpacklo_ps(a0, a1)), b1 = _mm256_castps_pd(_mm256_unpackhi_ps(a0, a1));
    const __m256d b2 = _mm256_castps_pd(_mm256_unpacklo_ps(a2, a3)), b3 = _mm256_castps_pd(_mm256_unpackhi_ps(a2, a3));
    const __m256d b4 = _mm256_castps_pd(_mm256_unpacklo_ps(a4, a5)), b5 = _mm256_castps_pd(_mm256_unpackhi_ps(a4, a5));
    const __m256d b6 = _mm256_castps_pd(_mm256_unpacklo_ps(a6, a7)), b7 = _mm256_castps_pd(_mm256_unpackhi_ps(a6, a7));
    a0 = _mm256_castpd_ps(_mm256_unpacklo_pd(b0, b2)); a1 = _mm256_castpd_ps(_mm256_unpackhi_pd(b0, b2));
    a2 = _mm256_castpd_ps(_mm256_unpacklo_pd(b1, b3)); a3 = _mm256_castpd_ps(_mm256_unpackhi_pd(b1, b3));
    a4 = _mm256_castpd_ps(_mm256_unpacklo_pd(b4, b6)); a5 = _mm256_castpd_ps(_mm256_unpackhi_pd(b4, b6));
    a6 = _mm256_castpd_ps(_mm256_unpacklo_pd(b5, b7)); a7 = _mm256_castpd_ps(_mm256_unpackhi_pd(b5, b7));
    v_store(to, _mm256_permute2f128_ps(a0, a4, 0x20));
    v_store(to + step, _mm256_permute2f128_ps(a1, a5, 0x20));
    v_store(to + 2 * step, _mm256_permute2f128_ps(a2, a6, 0x20));
    v_store(to + 3 * step, _mm256_permute2f128_ps(a3, a7, 0x20));
    v_store(to + 4 * step, _mm256_permute2f128_ps(a0, a4, 0x31));
    v_store(to + 5 * step, _mm256_permute2f128_ps(a1, a5, 0x31));
    v_store(to + 6 * step, _mm256_permute2f128_ps(a2, a6, 0x31));
    v_store(to + 7 * step, _mm256_permute2f128_ps(a3, a7, 0x31));
}

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
TINYI_FORCE_INLINE void v_sum4(float *y, v_f32 a, v_f32 b, v_f32 c, v_f32 d)
{
    const __m256 s = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)),
                 t = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256d u = _mm256_castps_pd(s), v = _mm256_castps_pd(t);
    const __m256 w =
        _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(u, v)), _mm256_castpd_ps(_mm256_unpackhi_pd(u, v)));
    _mm_storeu_ps(y, _mm_add_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1)));
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
TINYI_FORCE_INLINE v_f32 v_exp2i(v_i32 n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
TINYI_FORCE_INLINE v_f32 v_gather(const float *p, v_i32 i) { return _mm256_i32gather_ps(p, i, 4); }
TINYI_FORCE_INLINE v_f32 v_table4(const float *t, v_i32 i)
{
    return _mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)(const void *)t), i);
}

/* ---- 32-bit integers */
TINYI_FORCE_INLINE v_i32 vi_zero(void) { return _mm256_setzero_si256(); }
TINYI_FORCE_INLINE v_i32 vi_set(int32_t x) { return _mm256_set1_epi32(x); }
TINYI_FORCE_INLINE v_i32 vi_iota(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
TINYI_FORCE_INLINE v_i32 vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
TINYI_FORCE_INLINE void vi_store(int32_t *p, v_i32 v) { _mm256_storeu_si256((__m256i *)(void *)p, v); }
TINYI_FORCE_INLINE v_i32 vi_load_n(const int32_t *p, size_t n)
{
    return _mm256_maskload_epi32((const int *)p, _mm256_castps_si256(v_first(n)));
}
TINYI_FORCE_INLINE void vi_store_n(int32_t *p, v_i32 v, size_t n)
{
    _mm256_maskstore_epi32((int *)p, _mm256_castps_si256(v_first(n)), v);
}
TINYI_FORCE_INLINE v_i32 vi_load_i8(const int8_t *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
TINYI_FORCE_INLINE v_i32 vi_load_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
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
TINYI_FORCE_INLINE v_i32 vi_select(v_mask m, v_i32 a, v_i32 b)
{
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m));
}
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
TINYI_FORCE_INLINE v_i8 vb_shr(v_i8 a, int n)
{
    return _mm256_and_si256(_mm256_srli_epi16(a, n), _mm256_set1_epi8((char)(0xff >> n)));
}
TINYI_FORCE_INLINE v_i8 vb_table16(const void *t, v_i8 i)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t)), i);
}

/* ---- 16-bit lanes */
TINYI_FORCE_INLINE v_i8 vw_even_i8(v_i8 a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
TINYI_FORCE_INLINE v_i8 vw_odd_i8(v_i8 a) { return _mm256_srai_epi16(a, 8); }
TINYI_FORCE_INLINE v_i8 vw_even_u8(v_i8 a) { return _mm256_and_si256(a, _mm256_set1_epi16(0xff)); }
TINYI_FORCE_INLINE v_i8 vw_odd_u8(v_i8 a) { return _mm256_srli_epi16(a, 8); }
TINYI_FORCE_INLINE v_i8 vw_add(v_i8 a, v_i8 b) { return _mm256_add_epi16(a, b); }
TINYI_FORCE_INLINE v_i32 vw_dot(v_i8 a, v_i8 b) { return _mm256_madd_epi16(a, b); }

#if V_VNNI
#if V_HALF
#define TINYI_DPBUSD _mm256_dpbusd_epi32
#else
#define TINYI_DPBUSD _mm256_dpbusd_avx_epi32
#endif
/* vpdpbusd wants a unsigned: a + 128 is, and 128 * b is taken back. A loop over several a with one b makes the latter
 * once. */
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b) { return TINYI_DPBUSD(acc, a, b); }
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    const __m256i top = _mm256_set1_epi8((char)-128);
    const __m256i back = TINYI_DPBUSD(_mm256_setzero_si256(), top, b);
    return _mm256_sub_epi32(TINYI_DPBUSD(acc, _mm256_xor_si256(a, top), b), back);
}
TINYI_FORCE_INLINE v_i32 v_dot_i8_b127(v_i32 acc, v_i8 a, v_i8 b)
{
    return TINYI_DPBUSD(acc, _mm256_sign_epi8(a, a), _mm256_sign_epi8(b, a));
}
TINYI_FORCE_INLINE v_i32 v_dot_u7i8(v_i32 acc, v_i8 a, v_i8 b) { return TINYI_DPBUSD(acc, a, b); }
#undef TINYI_DPBUSD
#else
/* even and odd bytes as 16-bit lanes: pmaddwd adds bytes 4j and 4j+2, then 4j+1 and 4j+3, and nothing is shuffled */
TINYI_FORCE_INLINE v_i32 v_dot_i8(v_i32 acc, v_i8 a, v_i8 b)
{
    return vi_add(vi_add(acc, vw_dot(vw_even_i8(a), vw_even_i8(b))), vw_dot(vw_odd_i8(a), vw_odd_i8(b)));
}
TINYI_FORCE_INLINE v_i32 v_dot_u8i8(v_i32 acc, v_i8 a, v_i8 b)
{
    return vi_add(vi_add(acc, vw_dot(vw_even_u8(a), vw_even_i8(b))), vw_dot(vw_odd_u8(a), vw_odd_i8(b)));
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
