/* src/math/convert.simd.h - f32 from and to f16, bf16 and int8 */

/* four vectors' worth of work a turn hides the conversion; DOWN and UP name the v_ functions */
#define TINYI_CONVERT_DOWN(name, DOWN, DOWN_N)                                          \
    static void TINY_FN(tinyi_f32_to_##name)(uint16_t *y, const float *x, size_t n)     \
    {                                                                                   \
        for (; n >= 2 * V_LANES; n -= 2 * V_LANES, x += 2 * V_LANES, y += 2 * V_LANES) { \
            const v_f32 a = v_load(x), b = v_load(x + V_LANES);                         \
            DOWN(y, a);                                                                 \
            DOWN(y + V_LANES, b);                                                       \
        }                                                                               \
        for (; n > 0; x += V_LANES, y += V_LANES) {                                     \
            const size_t m = n < V_LANES ? n : V_LANES;                                 \
            DOWN_N(y, v_load_n(x, m), m);                                               \
            n -= m;                                                                     \
        }                                                                               \
    }
#define TINYI_CONVERT_UP(name, UP, UP_N)                                                \
    static void TINY_FN(tinyi_##name##_to_f32)(float *y, const uint16_t *x, size_t n)   \
    {                                                                                   \
        for (; n >= 2 * V_LANES; n -= 2 * V_LANES, x += 2 * V_LANES, y += 2 * V_LANES) { \
            const v_f32 a = UP(x), b = UP(x + V_LANES);                                 \
            v_store(y, a);                                                              \
            v_store(y + V_LANES, b);                                                    \
        }                                                                               \
        for (; n > 0; x += V_LANES, y += V_LANES) {                                     \
            const size_t m = n < V_LANES ? n : V_LANES;                                 \
            v_store_n(y, UP_N(x, m), m);                                                \
            n -= m;                                                                     \
        }                                                                               \
    }
TINYI_CONVERT_DOWN(f16, v_store_f16, v_store_f16_n)
TINYI_CONVERT_DOWN(bf16, v_store_bf16, v_store_bf16_n)
TINYI_CONVERT_UP(f16, v_load_f16, v_load_f16_n)
TINYI_CONVERT_UP(bf16, v_load_bf16, v_load_bf16_n)
#undef TINYI_CONVERT_DOWN
#undef TINYI_CONVERT_UP

/* V_LANES integers of -128..127 */
TINYI_FORCE_INLINE void TINY_FN(tinyi_convert_store_i8)(int8_t *y, v_i32 v)
{
#if V_AVX512
    _mm_storeu_si128((__m128i *)(void *)y, _mm512_maskz_cvtepi32_epi8((__mmask16)0xffff, v));
#elif V_AVX2
    const __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)y, _mm_packs_epi16(h, h));
#elif V_NEON
    const int16x4_t h = vmovn_s32(v);
    const int32_t b = vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(h, h))), 0);
    memcpy(y, &b, 4);
#else
    int32_t t[V_LANES];
    int i;
    vi_store(t, v);
    for (i = 0; i < V_LANES; i++) y[i] = (int8_t)t[i];
#endif
}

TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_convert_quantize)(v_f32 x, v_f32 scale)
{
    const v_f32 q = v_div(x, scale), held = v_min(v_set(127.0f), v_max(v_set(-128.0f), q));
    return v_to_i32(v_select(v_isnan(q), v_zero(), held));
}

static void TINY_FN(tinyi_quantize_i8)(int8_t *y, const float *x, size_t n, float scale)
{
    const v_f32 s = v_set(scale);
    int8_t rest[V_LANES];
    for (; n >= 2 * V_LANES; n -= 2 * V_LANES, x += 2 * V_LANES, y += 2 * V_LANES) {
        const v_i32 a = TINY_FN(tinyi_convert_quantize)(v_load(x), s),
                    b = TINY_FN(tinyi_convert_quantize)(v_load(x + V_LANES), s);
        TINY_FN(tinyi_convert_store_i8)(y, a);
        TINY_FN(tinyi_convert_store_i8)(y + V_LANES, b);
    }
    for (; n > 0; x += V_LANES, y += V_LANES) {
        const size_t m = n < V_LANES ? n : V_LANES;
        TINY_FN(tinyi_convert_store_i8)(rest, TINY_FN(tinyi_convert_quantize)(v_load_n(x, m), s));
        memcpy(y, rest, m);
        n -= m;
    }
}

static void TINY_FN(tinyi_dequantize_i8)(float *y, const int8_t *x, size_t n, float scale)
{
    const v_f32 s = v_set(scale);
    int8_t rest[V_LANES];
    for (; n >= 2 * V_LANES; n -= 2 * V_LANES, x += 2 * V_LANES, y += 2 * V_LANES) {
        const v_f32 a = v_from_i32(vi_load_i8(x)), b = v_from_i32(vi_load_i8(x + V_LANES));
        v_store(y, v_mul(a, s));
        v_store(y + V_LANES, v_mul(b, s));
    }
    for (; n > 0; x += V_LANES, y += V_LANES) {
        const size_t m = n < V_LANES ? n : V_LANES;
        memset(rest, 0, sizeof rest);
        memcpy(rest, x, m);
        v_store_n(y, v_mul(v_from_i32(vi_load_i8(rest)), s), m);
        n -= m;
    }
}

static void TINY_FN(tinyi_use_convert)(tinyi_kernels *k)
{
    TINYI_USE(k, f32_to_f16);
    TINYI_USE(k, f16_to_f32);
    TINYI_USE(k, f32_to_bf16);
    TINYI_USE(k, bf16_to_f32);
    TINYI_USE(k, quantize_i8);
    TINYI_USE(k, dequantize_i8);
}
