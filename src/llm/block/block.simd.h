/* src/llm/block/block.simd.h - the kernels of block formats, one text for scalar and avx512 (the others: tree.simd.h,
 * quad.simd.h)
 *
 * A super-block of 256 numbers is unpacked to TINYI_BLK_N vectors of codes in their natural order and TINYI_BLK_S
 * vectors of 16 scales and 16 offsets. Codes times activations are summed by the byte dot instruction, four products a
 * lane; lanes of a vector belong to one or more groups and are multiplied by the scales of these. Offsets need only the
 * sums of activations, 16 of them for 256 numbers, so that a code may carry any offset that spares an instruction.
 *
 * A row is read in order, but the processor's own prefetching stops at each page: lines are asked for twice, 8 KB ahead
 * into the second level and 2 KB ahead into the first, which brings decode from 0.8 to 0.9 and more of the speed of
 * reading.
 *
 * AVX-512 takes two groups of 32 in a vector: 32 bytes are loaded into both halves, and one shift by different counts
 * brings two sets of bits down. */

#define TINYI_BLK_N (64 / V_LANES)          /* vectors of 256 codes */
#define TINYI_BLK_S (16 / V_LANES)          /* vectors of 16 floats */
#if V_LANES == 1 /* 64 of what is one number there: unrolled, that is a quarter of the code of all targets */
#define TINYI_BLK_EACH(i, n) for (i = 0; i < (n); i++)
#else
#define TINYI_BLK_EACH(i, n) TINYI_UNROLL for (i = 0; i < (n); i++)
#endif

#if V_AVX512
#define TINYI_BLK_256(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define TINYI_BLK_128(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_blk_two)(const unsigned char *p0, int shift0, const unsigned char *p1, int shift1)
{
    const __m512i z = p0 == p1 ? _mm512_broadcast_i64x4(TINYI_BLK_256(p0))
                               : _mm512_inserti64x4(_mm512_castsi256_si512(TINYI_BLK_256(p0)), TINYI_BLK_256(p1), 1);
    if (shift0 == 0 && shift1 == 0) return z;
    if (shift0 == shift1) return _mm512_srli_epi16(z, (unsigned)shift0);
    return _mm512_srlv_epi16(z,
                             _mm512_inserti64x4(_mm512_set1_epi16((short)shift0), _mm256_set1_epi16((short)shift1), 1));
}
/* bits to the left, where none of a byte reaches the next one */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_blk_up)(v_i8 a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
#else
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_blk_up)(v_i8 a, int n)
{
    int i;
    for (i = 0; i < 4; i++) a.b[i] = (uint8_t)(a.b[i] << n);
    return a;
}
#endif

/* ---- codes: 256 numbers as TINYI_BLK_N vectors ------------------------------------------------------------------- */

/* Group g of 32: bits of the 32 bytes at p + 32 * (g / per), from bit unit * (g % per) on. crossed: of Q6_K, where
 * groups 0 and 2, 1 and 3 of four share their bytes. */
TINYI_FORCE_INLINE int TINY_FN(tinyi_blk_byte)(int g, int per, int crossed)
{
    return crossed ? g / 4 * 64 + g % 2 * 32 : g / per * 32;
}
TINYI_FORCE_INLINE int TINY_FN(tinyi_blk_bit)(int g, int per, int unit, int crossed)
{
    return crossed ? g % 4 / 2 * 4 : g % per * unit;
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_groups)(v_i8 *c, const unsigned char *p, int per, int unit, int crossed,
                                                  int mask)
{
    const v_i8 m = vb_set((int8_t)mask);
    int i;
#if V_AVX512
    TINYI_BLK_EACH(i, 4)
    c[i] = vb_and(TINY_FN(tinyi_blk_two)(p + TINY_FN(tinyi_blk_byte)(2 * i, per, crossed),
                                         TINY_FN(tinyi_blk_bit)(2 * i, per, unit, crossed),
                                         p + TINY_FN(tinyi_blk_byte)(2 * i + 1, per, crossed),
                                         TINY_FN(tinyi_blk_bit)(2 * i + 1, per, unit, crossed)),
                  m);
#else
    int j;
    for (i = 0; i < 8; i++)
        TINYI_BLK_EACH(j, 8 / V_LANES)
    c[i * 8 / V_LANES + j] = vb_and(vb_shr(vb_load(p + TINY_FN(tinyi_blk_byte)(i, per, crossed) + 4 * V_LANES * j),
                                           TINY_FN(tinyi_blk_bit)(i, per, unit, crossed)),
                                    m);
#endif
}

/* eight blocks of 16 bytes, step apart: low halves are numbers 0..15, high ones 16..31 */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_nibbles)(v_i8 *c, const unsigned char *p, int step)
{
    const v_i8 m = vb_set(15);
    int i;
#if V_AVX512
    const __m512i shift =
        _mm512_set_epi64(0x0004000400040004, 0x0004000400040004, 0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0);
    TINYI_BLK_EACH(i, 4) {
        const __m512i z = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(TINYI_BLK_128(p + 2 * i * step)),
                                                      (__mmask16)0xff00, TINYI_BLK_128(p + (2 * i + 1) * step));
        c[i] = vb_and(_mm512_srlv_epi16(z, shift), m);
    }
#else
    int j;
    for (i = 0; i < 8; i++)
        TINYI_BLK_EACH(j, 4 / V_LANES) {
            const v_i8 b = vb_load(p + i * step + 4 * V_LANES * j);
            c[i * 8 / V_LANES + j] = vb_and(b, m);
            c[i * 8 / V_LANES + 4 / V_LANES + j] = vb_shr(b, 4);
        }
#endif
}

/* the fifth bits of eight blocks, step apart: bit j of 32 belongs to number j */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_fifth)(v_i8 *c, const unsigned char *p, int step)
{
    int i;
#if V_AVX512
    TINYI_BLK_EACH(i, 4) {
        const uint64_t k = (uint64_t)tinyi_q_u32(p + (2 * i + 1) * step) << 32 | tinyi_q_u32(p + 2 * i * step);
        c[i] = _mm512_mask_add_epi8(c[i], (__mmask64)k, c[i], _mm512_set1_epi8(16));
    }
#else
    unsigned char t[256];
    int j;
    for (i = 0; i < 8; i++)
        for (j = 0; j < 32; j++) t[32 * i + j] = (unsigned char)((p[i * step + j / 8] >> j % 8 & 1) << 4);
    for (i = 0; i < TINYI_BLK_N; i++) c[i] = vb_or(c[i], vb_load(t + 4 * V_LANES * i));
#endif
}

/* ---- scales and offsets: 16 numbers as TINYI_BLK_S vectors ------------------------------------------------------- */

TINYI_FORCE_INLINE float TINY_FN(tinyi_blk_half)(const unsigned char *p)
{
#if V_AVX512
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(tinyi_q_u16(p))));
#else
    return tinyi_q_half(p);
#endif
}

#if V_AVX512
/* eight floats, each twice */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_twice)(v_f32 *s, __m256 x)
{
#if V_AVX512
    s[0] = _mm512_permutexvar_ps(_mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0),
                                 _mm512_castps256_ps512(x));
#else
    s[0] = _mm256_permutevar8x32_ps(x, _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0));
    s[1] = _mm256_permutevar8x32_ps(x, _mm256_set_epi32(7, 7, 6, 6, 5, 5, 4, 4));
#endif
}
#endif

/* eight halves, step bytes apart, each for two groups */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_halves8)(v_f32 *s, const unsigned char *p, int step)
{
#if V_AVX512
#define TINYI_BLK_U16(i) (short)tinyi_q_u16(p + (i) * step)
    TINY_FN(tinyi_blk_twice)
    (s, _mm256_cvtph_ps(_mm_set_epi16(TINYI_BLK_U16(7), TINYI_BLK_U16(6), TINYI_BLK_U16(5), TINYI_BLK_U16(4),
                                      TINYI_BLK_U16(3), TINYI_BLK_U16(2), TINYI_BLK_U16(1), TINYI_BLK_U16(0))));
#undef TINYI_BLK_U16
#else
    uint16_t t[16];
    int i;
    for (i = 0; i < 8; i++) t[2 * i] = t[2 * i + 1] = tinyi_q_u16(p + i * step);
    TINYI_BLK_EACH(i, TINYI_BLK_S) s[i] = v_load_f16(t + i * V_LANES);
#endif
}

/* d times 16 bytes, without sign and with one */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_times_u8)(v_f32 *s, float d, const unsigned char *k)
{
    int i;
    TINYI_BLK_EACH(i, TINYI_BLK_S) s[i] = v_mul(v_set(d), v_from_i32(vi_load_u8(k + i * V_LANES)));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_times_i8)(v_f32 *s, float d, const int8_t *k)
{
    int i;
    TINYI_BLK_EACH(i, TINYI_BLK_S) s[i] = v_mul(v_set(d), v_from_i32(vi_load_i8(k + i * V_LANES)));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_offset)(v_f32 *m, const v_f32 *s, float by)
{
    int i;
    TINYI_BLK_EACH(i, TINYI_BLK_S) m[i] = v_mul(s[i], v_set(by));
}

/* Q4_K, Q5_K: eight scales and eight minima of six bits in twelve bytes */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_scales6)(v_f32 *s, v_f32 *m, const unsigned char *b)
{
    const uint32_t a0 = tinyi_q_u32(b + 4), a1 = tinyi_q_u32(b + 8), a2 = tinyi_q_u32(b + 12);
    const uint32_t k0 = a0 & 0x3f3f3f3fu, m0 = a1 & 0x3f3f3f3fu, k1 = (a2 & 0x0f0f0f0fu) | (a0 >> 2 & 0x30303030u),
                   m1 = (a2 >> 4 & 0x0f0f0f0fu) | (a1 >> 2 & 0x30303030u);
#if V_AVX512
    const __m512 all = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_set_epi32((int)m1, (int)m0, (int)k1, (int)k0)));
    const __m512 d = _mm512_permutexvar_ps(
        _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        /* the minima are taken off */
        _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128((int)(tinyi_q_u32(b) ^ 0x80000000u)))));
    const __m512 x = _mm512_mul_ps(all, d);
    s[0] = _mm512_permutexvar_ps(_mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0), x);
    m[0] = _mm512_permutexvar_ps(_mm512_set_epi32(15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8), x);
#else
    unsigned char k[16], n[16];
    int i;
    for (i = 0; i < 4; i++) {
        k[2 * i] = k[2 * i + 1] = (unsigned char)(k0 >> 8 * i);
        k[2 * i + 8] = k[2 * i + 9] = (unsigned char)(k1 >> 8 * i);
        n[2 * i] = n[2 * i + 1] = (unsigned char)(m0 >> 8 * i);
        n[2 * i + 8] = n[2 * i + 9] = (unsigned char)(m1 >> 8 * i);
    }
    TINY_FN(tinyi_blk_times_u8)(s, TINY_FN(tinyi_blk_half)(b), k);
    TINY_FN(tinyi_blk_times_u8)(m, -TINY_FN(tinyi_blk_half)(b + 2), n);
#endif
}

/* Q3_K: sixteen scales of six bits, 32 more than meant, in twelve bytes */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_scales3)(v_f32 *s, const unsigned char *b, float d)
{
    const uint32_t a0 = tinyi_q_u32(b), a1 = tinyi_q_u32(b + 4), a2 = tinyi_q_u32(b + 8);
    uint32_t k[4];
    int i;
    k[0] = (a0 & 0x0f0f0f0fu) | (a2 << 4 & 0x30303030u);
    k[1] = (a1 & 0x0f0f0f0fu) | (a2 << 2 & 0x30303030u);
    k[2] = (a0 >> 4 & 0x0f0f0f0fu) | (a2 & 0x30303030u);
    k[3] = (a1 >> 4 & 0x0f0f0f0fu) | (a2 >> 2 & 0x30303030u);
#if V_AVX512
    (void)i;
    s[0] = v_mul(v_set(d), v_from_i32(_mm512_sub_epi32(
                               _mm512_cvtepu8_epi32(_mm_set_epi32((int)k[3], (int)k[2], (int)k[1], (int)k[0])),
                               _mm512_set1_epi32(32))));
#else
    {
        int8_t t[16];
        for (i = 0; i < 16; i++) t[i] = (int8_t)((int)(k[i / 4] >> i % 4 * 8 & 63) - 32);
        TINY_FN(tinyi_blk_times_i8)(s, d, t);
    }
#endif
}

/* IQ4_XS: eight scales of six bits, 32 more than meant: four bits each in four bytes, two each in two */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_scales_xs)(v_f32 *s, const unsigned char *b)
{
    uint64_t low = tinyi_q_u32(b + 4), high = tinyi_q_u16(b + 2), k;
    low = (low | low << 16) & 0x0000ffff0000ffffu;         /* nibble i to byte i */
    low = (low | low << 8) & 0x00ff00ff00ff00ffu;
    low = (low | low << 4) & 0x0f0f0f0f0f0f0f0fu;
    high = (high | high << 24) & 0x000000ff000000ffu;
    high = (high | high << 12) & 0x000f000f000f000fu;
    high = (high | high << 6) & 0x0303030303030303u;
    k = low | high << 4;
#if V_AVX512
    TINY_FN(tinyi_blk_twice)
    (s, _mm256_mul_ps(_mm256_set1_ps(TINY_FN(tinyi_blk_half)(b)),
                      _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu8_epi32(_mm_set_epi64x(0, (long long)k)),
                                                          _mm256_set1_epi32(32)))));
#else
    {
        int8_t t[16];
        int i;
        for (i = 0; i < 16; i++) t[i] = (int8_t)((int)(k >> i / 2 * 8 & 63) - 32);
        TINY_FN(tinyi_blk_times_i8)(s, TINY_FN(tinyi_blk_half)(b), t);
    }
#endif
}

/* MXFP4: 2^(e - 128), since the codes are doubled */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_powers)(v_f32 *s, const unsigned char *p, int step)
{
#if V_AVX512
    const __m256i e =
        _mm256_set_epi32(p[7 * step], p[6 * step], p[5 * step], p[4 * step], p[3 * step], p[2 * step], p[step], p[0]);
    const __m256i low = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e),
                  large = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    TINY_FN(tinyi_blk_twice)
    (s, _mm256_castsi256_ps(_mm256_blendv_epi8(large, low, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e))));
#else
    float t[16];
    int i;
    for (i = 0; i < 8; i++)
        t[2 * i] = t[2 * i + 1] =
            tinyi_bits_f32(p[i * step] < 2 ? 0x00200000u << p[i * step] : (uint32_t)(p[i * step] - 1) << 23);
    TINYI_BLK_EACH(i, TINYI_BLK_S) s[i] = v_load(t + i * V_LANES);
#endif
}

/* ---- the formats: codes, scales, offsets. A zero offset is known when this is compiled, and nothing is made of it  */

#if V_VNNI
#define TINYI_BLK_SIGNED 0 /* the byte dot wants one factor without sign: codes are 128 more than meant */
#define TINYI_BLK_DOT v_dot_u8i8
#else
#define TINYI_BLK_SIGNED 1                  /* and codes without sign have 7 bits at most */
#define TINYI_BLK_DOT v_dot_u7i8
#endif

TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q8_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
#if V_AVX512
    TINYI_BLK_EACH(i, 4) c[i] = TINY_FN(tinyi_blk_two)(b + 68 * i + 2, 0, b + 68 * i + 36, 0);
#else
    int j;
    for (i = 0; i < 8; i++)
        TINYI_BLK_EACH(j, 8 / V_LANES) c[i * 8 / V_LANES + j] = vb_load(b + 34 * i + 2 + 4 * V_LANES * j);
#endif
    TINY_FN(tinyi_blk_halves8)(s, b, 34);
    if (TINYI_BLK_SIGNED) {
        TINYI_BLK_EACH(i, TINYI_BLK_S) m[i] = v_zero();
    } else {
        TINYI_BLK_EACH(i, TINYI_BLK_N) c[i] = vb_xor(c[i], vb_set(-128));
        TINY_FN(tinyi_blk_offset)(m, s, -128.0f);
    }
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q4_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 2, 18);
    TINY_FN(tinyi_blk_halves8)(s, b, 18);
    TINY_FN(tinyi_blk_offset)(m, s, -8.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q4_1)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 4, 20);
    TINY_FN(tinyi_blk_halves8)(s, b, 20);
    TINY_FN(tinyi_blk_halves8)(m, b + 2, 20);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q5_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 6, 22);
    TINY_FN(tinyi_blk_fifth)(c, b + 2, 22);
    TINY_FN(tinyi_blk_halves8)(s, b, 22);
    TINY_FN(tinyi_blk_offset)(m, s, -16.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q5_1)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 8, 24);
    TINY_FN(tinyi_blk_fifth)(c, b + 4, 24);
    TINY_FN(tinyi_blk_halves8)(s, b, 24);
    TINY_FN(tinyi_blk_halves8)(m, b + 2, 24);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q2_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    const v_f32 d = v_set(TINY_FN(tinyi_blk_half)(b + 80)), dm = v_set(-TINY_FN(tinyi_blk_half)(b + 82));
    int i;
    TINY_FN(tinyi_blk_groups)(c, b + 16, 4, 2, 0, 3);
    TINYI_BLK_EACH(i, TINYI_BLK_S) {
        const v_i32 k = vi_load_u8(b + i * V_LANES);
        s[i] = v_mul(d, v_from_i32(vi_and(k, vi_set(15))));
        m[i] = v_mul(dm, v_from_i32(vi_shr(k, 4)));
    }
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q3_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    v_i8 high[TINYI_BLK_N];
    int i;
    TINY_FN(tinyi_blk_groups)(c, b + 32, 4, 2, 0, 3);
    TINY_FN(tinyi_blk_groups)(high, b, 8, 1, 0, 1);
    TINYI_BLK_EACH(i, TINYI_BLK_N) c[i] = vb_or(c[i], TINY_FN(tinyi_blk_up)(high[i], 2));
    TINY_FN(tinyi_blk_scales3)(s, b + 96, TINY_FN(tinyi_blk_half)(b + 108));
    TINY_FN(tinyi_blk_offset)(m, s, -4.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q4_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_groups)(c, b + 16, 2, 4, 0, 15);
    TINY_FN(tinyi_blk_scales6)(s, m, b);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q5_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    v_i8 high[TINYI_BLK_N];
    int i;
    TINY_FN(tinyi_blk_groups)(c, b + 48, 2, 4, 0, 15);
    TINY_FN(tinyi_blk_groups)(high, b + 16, 8, 1, 0, 1);
    TINYI_BLK_EACH(i, TINYI_BLK_N) c[i] = vb_or(c[i], TINY_FN(tinyi_blk_up)(high[i], 4));
    TINY_FN(tinyi_blk_scales6)(s, m, b);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q6_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    v_i8 high[TINYI_BLK_N];
    int i;
    TINY_FN(tinyi_blk_groups)(c, b, 1, 4, 1, 15);
    TINY_FN(tinyi_blk_groups)(high, b + 128, 4, 2, 0, 3);
    TINYI_BLK_EACH(i, TINYI_BLK_N) c[i] = vb_or(c[i], TINY_FN(tinyi_blk_up)(high[i], 4));
    TINY_FN(tinyi_blk_times_i8)(s, TINY_FN(tinyi_blk_half)(b + 208), (const int8_t *)(b + 192));
    TINY_FN(tinyi_blk_offset)(m, s, -32.0f);
}
/* codes are looked up; with an offset of 128 or with their sign */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_iq4)(v_i8 *c, const v_f32 *s, v_f32 *m)
{
    int i;
    TINYI_BLK_EACH(i, TINYI_BLK_N)
    c[i] = vb_table16(TINYI_BLK_SIGNED ? (const void *)tinyi_blk_iq4 : (const void *)tinyi_blk_iq4_128, c[i]);
    if (TINYI_BLK_SIGNED) {
        TINYI_BLK_EACH(i, TINYI_BLK_S) m[i] = v_zero();
    } else TINY_FN(tinyi_blk_offset)(m, s, -128.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_IQ4_NL)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 2, 18);
    TINY_FN(tinyi_blk_halves8)(s, b, 18);
    TINY_FN(tinyi_blk_iq4)(c, s, m);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_IQ4_XS)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 8, 16);
    TINY_FN(tinyi_blk_scales_xs)(s, b);
    TINY_FN(tinyi_blk_iq4)(c, s, m);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_MXFP4)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
    TINY_FN(tinyi_blk_nibbles)(c, b + 1, 17);
    TINYI_BLK_EACH(i, TINYI_BLK_N) c[i] = vb_table16(tinyi_blk_e2m1_16, c[i]);
    TINY_FN(tinyi_blk_powers)(s, b, 17);
    TINY_FN(tinyi_blk_offset)(m, s, -16.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_TQ2_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
    TINY_FN(tinyi_blk_groups)(c, b, 4, 2, 0, 3);
    TINYI_BLK_EACH(i, TINYI_BLK_S) s[i] = v_set(TINY_FN(tinyi_blk_half)(b + 64));
    TINY_FN(tinyi_blk_offset)(m, s, -1.0f);
}

/* TQ1_0: a byte is a fraction of 256; times 3, the digit is what goes over */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_TQ1_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    unsigned char t[256];
    int i, j;
    for (i = 0; i < 52; i++) {
        const int step = i < 32 ? 32 : i < 48 ? 16 : 4, first = i < 32 ? i : i < 48 ? 128 + i : 192 + i;
        unsigned left = b[i];
        for (j = 0; j < (i < 48 ? 5 : 4); j++, left &= 255) {
            left *= 3;
            t[first + j * step] = (unsigned char)(left >> 8);
        }
    }
    TINYI_BLK_EACH(i, TINYI_BLK_N) c[i] = vb_load(t + 4 * V_LANES * i);
    TINYI_BLK_EACH(i, TINYI_BLK_S) s[i] = v_set(TINY_FN(tinyi_blk_half)(b + 52));
    TINY_FN(tinyi_blk_offset)(m, s, -1.0f);
}
/* code books; with an offset of 128 or with their sign */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_book)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b, tinyi_book_get get)
{
    tinyi_book t;
    int i;
    get(&t, b);
#if V_AVX512
    TINYI_BLK_EACH(i, TINYI_BLK_N) {
        const v_i8 x = vb_load(t.code + 64 * i);
        const uint64_t minus = (uint64_t)tinyi_q_u32(t.sign + 8 * i + 4) << 32 | tinyi_q_u32(t.sign + 8 * i);
        c[i] = vb_xor(_mm512_mask_sub_epi8(x, (__mmask64)minus, _mm512_setzero_si512(), x),
                      vb_set(TINYI_BLK_SIGNED ? 0 : -128));
    }
#else
    for (i = 0; i < 256; i++) if (t.sign[i / 8] >> i % 8 & 1) t.code[i] = (unsigned char)(256 - t.code[i]);
    TINYI_BLK_EACH(i, TINYI_BLK_N) c[i] = vb_load(t.code + 4 * V_LANES * i);
#endif
    TINY_FN(tinyi_blk_times_u8)(s, t.d, t.k);
    TINY_FN(tinyi_blk_offset)(m, s, TINYI_BLK_SIGNED ? 0.0f : -128.0f);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* scales of the lanes of vector i, from 16 floats in memory or, where one vector holds them, in a register */
#if V_AVX512
#define TINYI_BLK_LANES(i) \
    _mm512_add_epi32(_mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0), _mm512_set1_epi32(4 * (i)))
#define TINYI_BLK_SCALE(t, i) _mm512_permutexvar_ps(TINYI_BLK_LANES(i), (t)[0])
#else
#define TINYI_BLK_SCALE(t, i) v_set((t)[(i) * V_LANES / 4])
#endif

/* One super-block times one row of activations. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_step)(v_f32 *acc, v_f32 *off, const v_i8 *c, const v_f32 *s, const v_f32 *m,
                                                const int8_t *q, const float *d, const float *sum, int is_signed)
{
    int i;
#if V_AVX512
    v_f32 t[1];
    t[0] = v_mul(s[0], v_load(d));
#else
    float t[16];
    for (i = 0; i < TINYI_BLK_S; i++) v_store(t + i * V_LANES, v_mul(s[i], v_load(d + i * V_LANES)));
#endif
    TINYI_BLK_EACH(i, TINYI_BLK_N) {
        const v_i8 x = vb_load(q + 4 * V_LANES * i);
        const v_i32 n = is_signed ? v_dot_i8_b127(vi_zero(), c[i], x) : TINYI_BLK_DOT(vi_zero(), c[i], x);
        acc[i & 1] = v_fma(v_from_i32(n), TINYI_BLK_SCALE(t, i), acc[i & 1]);
    }
    if (!is_signed) {
        TINYI_BLK_EACH(i, TINYI_BLK_S) *off = v_fma(m[i], v_load(sum + i * V_LANES), *off);
    }
}

#if V_SCALAR
/* a format is what takes its blocks apart: the rest stands there once */
typedef void (*tinyi_blk_get)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b);
static void TINY_FN(tinyi_blk_dot_by)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row, size_t n_row,
                                      const tinyi_q8 *x, size_t k, tinyi_blk_get get, size_t values, size_t bytes,
                                      int is_signed)
{
    for (; n_row; n_row--, w += w_row, y += y_row) {
        unsigned char last[8 * 34];             /* of Q8_0, the longest */
        const unsigned char *b = w;
        v_f32 acc[2], off = v_zero();
        size_t at;
        acc[0] = acc[1] = v_zero();
        for (at = 0; at < k; at += 256, b += 256 / values * bytes) {
            v_i8 c[TINYI_BLK_N];
            v_f32 s[TINYI_BLK_S], m[TINYI_BLK_S];
            if (k - at < 256) b = tinyi_blk_last(last, sizeof last, b, (k - at) / values * bytes);
            get(c, s, m, b);
            TINY_FN(tinyi_blk_step)(acc, &off, c, s, m, x->code + at, x->d + at / 16, x->sum + at / 16, is_signed);
        }
        *y = v_sum(v_add(v_add(acc[0], acc[1]), off));
    }
}
static void TINY_FN(tinyi_blk_expand_by)(unsigned char *code, float *s16, float *m16, const unsigned char *w, size_t k,
                                         tinyi_blk_get get, size_t values, size_t bytes)
{
    for (; k; k -= TINYI_MIN(k, 256), w += 256 / values * bytes, code += 256, s16 += 16, m16 += 16) {
        unsigned char last[8 * 34];
        v_i8 c[TINYI_BLK_N];
        int i;
        get(c, s16, m16, k < 256 ? tinyi_blk_last(last, sizeof last, w, k / values * bytes) : w);
        for (i = 0; i < TINYI_BLK_N; i++) vb_store(code + 4 * i, c[i]);
    }
}
#define TINYI_BLK_KERNELS(name, values, bytes, traits)                                                                \
    static void TINY_FN(tinyi_blk_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,     \
                                              size_t n_row, const tinyi_q8 *x, size_t k)                              \
    {                                                                                                                 \
        TINY_FN(tinyi_blk_dot_by)                                                                                     \
        (y, y_row, w, w_row, n_row, x, k, TINY_FN(tinyi_blk_get_##name), values, bytes,                               \
         ((traits)&TINYI_BLK_HAS_SIGN) && TINYI_BLK_SIGNED);                                                          \
    }                                                                                                                 \
    static void TINY_FN(tinyi_blk_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                 size_t k, ptrdiff_t ahead)                                           \
    {                                                                                                                 \
        (void)ahead;                                                                                                  \
        TINY_FN(tinyi_blk_expand_by)(code, s16, m16, w, k, TINY_FN(tinyi_blk_get_##name), values, bytes);             \
    }
#else
#define TINYI_BLK_KERNELS(name, values, bytes, traits)                                                                \
    static void TINY_FN(tinyi_blk_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,     \
                                              size_t n_row, const tinyi_q8 *x, size_t k)                              \
    {                                                                                                                 \
        for (; n_row; n_row--, w += w_row, y += y_row) {                                                              \
            v_f32 acc[2], off = v_zero();                                                                             \
            const unsigned char *b = w;                                                                               \
            const int8_t *q = x->code;                                                                                \
            const float *d = x->d, *sum = x->sum;                                                                     \
            size_t left = k;                                                                                          \
            unsigned char last[256 / (values) * (bytes)];                                                             \
            acc[0] = acc[1] = v_zero();                                                                               \
            while (left) {                                                                                            \
                v_i8 c[TINYI_BLK_N];                                                                                  \
                v_f32 s[TINYI_BLK_S], m[TINYI_BLK_S];                                                                 \
                int i;                                                                                                \
                if (left < 256) {                                                                                     \
                    b = tinyi_blk_last(last, sizeof last, b, left / (values) * (bytes));                              \
                    left = 256;                                                                                       \
                } else                                                                                                \
                    for (i = 0; i < 256 / (values) * (bytes); i += 64) {                                              \
                        TINYI_BLK_AHEAD(b + 2048 + i);                                                                \
                        TINYI_BLK_AHEAD2(b + 8192 + i);                                                               \
                    }                                                                                                 \
                TINY_FN(tinyi_blk_get_##name)(c, s, m, b);                                                            \
                TINY_FN(tinyi_blk_step)                                                                               \
                (acc, &off, c, s, m, q, d, sum, ((traits)&TINYI_BLK_HAS_SIGN) && TINYI_BLK_SIGNED);                   \
                left -= 256;                                                                                          \
                b += 256 / (values) * (bytes);                                                                        \
                q += 256;                                                                                             \
                d += 16;                                                                                              \
                sum += 16;                                                                                            \
            }                                                                                                         \
            *y = v_sum(v_add(v_add(acc[0], acc[1]), off));                                                            \
        }                                                                                                             \
    }                                                                                                                 \
    static void TINY_FN(tinyi_blk_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                 size_t k, ptrdiff_t ahead)                                           \
    {                                                                                                                 \
        unsigned char last[256 / (values) * (bytes)];                                                                 \
        for (; k; k -= 256, w += 256 / (values) * (bytes), code += 256, s16 += 16, m16 += 16) {                       \
            v_i8 c[TINYI_BLK_N];                                                                                      \
            v_f32 s[TINYI_BLK_S], m[TINYI_BLK_S];                                                                     \
            int i;                                                                                                    \
            if (k < 256) {                                                                                            \
                w = tinyi_blk_last(last, sizeof last, w, k / (values) * (bytes));                                     \
                k = 256;                                                                                              \
            } else                                                                                                    \
                for (i = 0; i < 256 / (values) * (bytes); i += 64) TINYI_BLK_AHEAD(w + ahead + i);                    \
            TINY_FN(tinyi_blk_get_##name)(c, s, m, w);                                                                \
            TINYI_BLK_EACH(i, TINYI_BLK_N) vb_store(code + 4 * V_LANES * i, c[i]);                                    \
            TINYI_BLK_EACH(i, TINYI_BLK_S)                                                                            \
            {                                                                                                         \
                v_store(s16 + i * V_LANES, s[i]);                                                                     \
                v_store(m16 + i * V_LANES, m[i]);                                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }
#endif
TINYI_BLKS_PLAIN(TINYI_BLK_KERNELS)

#if TINYI_BLK_ANY_BOOKS
static void TINY_FN(tinyi_blk_book_dot)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,
                                        size_t n_row, const tinyi_q8 *x, size_t k, tinyi_book_get get, size_t bytes)
{
    for (; n_row; n_row--, w += w_row, y += y_row) {
        const unsigned char *b = w;
        v_f32 acc[2], off = v_zero();
        size_t at;
        acc[0] = acc[1] = v_zero();
        for (at = 0; at < k; at += 256, b += bytes) {
            v_i8 c[TINYI_BLK_N];
            v_f32 s[TINYI_BLK_S], m[TINYI_BLK_S];
            size_t i;
            for (i = 0; i < bytes; i += 64) TINYI_BLK_AHEAD(b + 2048 + i);
            TINY_FN(tinyi_blk_book)(c, s, m, b, get);
            TINY_FN(tinyi_blk_step)
            (acc, &off, c, s, m, x->code + at, x->d + at / 16, x->sum + at / 16, TINYI_BLK_SIGNED);
        }
        *y = v_sum(v_add(v_add(acc[0], acc[1]), off));
    }
}
static void TINY_FN(tinyi_blk_book_expand)(unsigned char *code, float *s16, float *m16, const unsigned char *w,
                                           size_t k, tinyi_book_get get, size_t bytes)
{
    for (; k; k -= 256, w += bytes, code += 256, s16 += 16, m16 += 16) {
        v_i8 c[TINYI_BLK_N];
        v_f32 s[TINYI_BLK_S], m[TINYI_BLK_S];
        int i;
        TINY_FN(tinyi_blk_book)(c, s, m, w, get);
        TINYI_BLK_EACH(i, TINYI_BLK_N) vb_store(code + 4 * V_LANES * i, c[i]);
        TINYI_BLK_EACH(i, TINYI_BLK_S) {
            v_store(s16 + i * V_LANES, s[i]);
            v_store(m16 + i * V_LANES, m[i]);
        }
    }
}
#define TINYI_BLK_WITH_BOOK(name, values, bytes, traits)                                                              \
    static void TINY_FN(tinyi_blk_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,     \
                                              size_t n_row, const tinyi_q8 *x, size_t k)                              \
    {                                                                                                                 \
        TINY_FN(tinyi_blk_book_dot)(y, y_row, w, w_row, n_row, x, k, tinyi_book_##name, bytes);                       \
    }                                                                                                                 \
    static void TINY_FN(tinyi_blk_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                 size_t k, ptrdiff_t ahead)                                           \
    {                                                                                                                 \
        (void)ahead;                                                                                                  \
        TINY_FN(tinyi_blk_book_expand)(code, s16, m16, w, k, tinyi_book_##name, bytes);                               \
    }
TINYI_BLKS_BOOKS(TINYI_BLK_WITH_BOOK)
#undef TINYI_BLK_WITH_BOOK
#endif

/* R rows of activations and one expanded row of weights */
#define TINYI_BLK_DOTS(R)                                                                                          \
    TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_dots##R)(float *y, ptrdiff_t y_step, const unsigned char *code,      \
                                                       const float *s16, const float *m16, int is_signed,          \
                                                       const tinyi_q8 *x, size_t n)                                \
    {                                                                                                              \
        v_f32 acc[R][2], off[R];                                                                                   \
        size_t b;                                                                                                  \
        int r, i;                                                                                                  \
        TINYI_BLK_EACH(r, R) acc[r][0] = acc[r][1] = off[r] = v_zero();                                            \
        for (b = 0; b < x->blocks; b++) {                                                                          \
            v_i8 c[TINYI_BLK_N];                                                                                   \
            v_f32 s[TINYI_BLK_S], m[TINYI_BLK_S];                                                                  \
            TINYI_BLK_EACH(i, TINYI_BLK_N) c[i] = vb_load(code + 256 * b + (size_t)(4 * V_LANES * i));             \
            TINYI_BLK_EACH(i, TINYI_BLK_S)                                                                         \
            {                                                                                                      \
                s[i] = v_load(s16 + 16 * b + (size_t)(i * V_LANES));                                               \
                m[i] = v_load(m16 + 16 * b + (size_t)(i * V_LANES));                                               \
            }                                                                                                      \
            TINYI_BLK_EACH(r, R)                                                                                   \
            {                                                                                                      \
                const size_t at = ((size_t)r < n ? (size_t)r : n - 1) * x->blocks + b;                             \
                TINY_FN(tinyi_blk_step)                                                                            \
                (acc[r], &off[r], c, s, m, x->code + 256 * at, x->d + 16 * at, x->sum + 16 * at, is_signed);       \
            }                                                                                                      \
        }                                                                                                          \
        TINYI_BLK_EACH(r, R) if ((size_t)r < n) y[r * y_step] = v_sum(v_add(v_add(acc[r][0], acc[r][1]), off[r])); \
    }
TINYI_BLK_DOTS(1)
#if V_SCALAR
static void TINY_FN(tinyi_blk_dots)(float *y, ptrdiff_t y_step, const unsigned char *code, const float *s,
                                    const float *m, int traits, const tinyi_q8 *x, size_t n)
{
    tinyi_q8 at = *x;
    for (; n; n--, y += y_step, at.code += 256 * x->blocks, at.d += 16 * x->blocks, at.sum += 16 * x->blocks)
        TINY_FN(tinyi_blk_dots1)(y, y_step, code, s, m, traits & TINYI_BLK_HAS_SIGN, &at, 1);
}
#else
TINYI_BLK_DOTS(2)
TINYI_BLK_DOTS(4)
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_dots_of)(float *y, ptrdiff_t y_step, const unsigned char *code,
                                                   const float *s, const float *m, int is_signed, const tinyi_q8 *x,
                                                   size_t n)
{
    tinyi_q8 at = *x;
    for (; n; y += 4 * y_step) {
        const size_t rows = n < 4 ? n : 4;
        if (rows > 2) TINY_FN(tinyi_blk_dots4)(y, y_step, code, s, m, is_signed, &at, rows);
        else if (rows == 2) TINY_FN(tinyi_blk_dots2)(y, y_step, code, s, m, is_signed, &at, rows);
        else TINY_FN(tinyi_blk_dots1)(y, y_step, code, s, m, is_signed, &at, rows);
        n -= rows;
        at.code += rows * 256 * x->blocks;
        at.d += rows * 16 * x->blocks;
        at.sum += rows * 16 * x->blocks;
    }
}
static void TINY_FN(tinyi_blk_dots)(float *y, ptrdiff_t y_step, const unsigned char *code, const float *s,
                                    const float *m, int traits, const tinyi_q8 *x, size_t n)
{
    if (traits & TINYI_BLK_HAS_SIGN) TINY_FN(tinyi_blk_dots_of)(y, y_step, code, s, m, 1, x, n);
    else TINY_FN(tinyi_blk_dots_of)(y, y_step, code, s, m, 0, x, n);
}
#endif

static void TINY_FN(tinyi_blk_floats)(float *to, const unsigned char *code, const float *s, const float *m,
                                      int is_signed, size_t blocks)
{
    size_t g;
    int i;
    for (g = 0; g < 16 * blocks; g++, code += 16, to += 16) {
        const v_f32 scale = v_set(s[g]), offset = v_set(m[g]);
        if (is_signed) {
            TINYI_BLK_EACH(i, TINYI_BLK_S)
            v_store(to + i * V_LANES, v_mul(scale, v_from_i32(vi_load_i8((const int8_t *)code + i * V_LANES))));
        } else {
            TINYI_BLK_EACH(i, TINYI_BLK_S)
            v_store(to + i * V_LANES, v_fma(scale, v_from_i32(vi_load_u8(code + i * V_LANES)), offset));
        }
    }
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static int TINY_FN(tinyi_blk_quantize)(int8_t *code, float *d, float *sum, const float *x, size_t n, int paired)
{
    const size_t end = (n + 255) / 256 * 256;
    v_f32 odd = v_zero();
    size_t b;
    int i, j;
    (void)paired;
    for (b = 0; b < n; b += 32, x += 32, code += 32, d += 2, sum += 2) {
        v_f32 v[32 / V_LANES], top = v_zero();
        float most, up = 1.0f, down = 1.0f, inverse;
        TINYI_BLK_EACH(i, 32 / V_LANES) {
            v[i] = v_load(x + i * V_LANES);
            odd = v_fma(v[i], v_zero(), odd);       /* infinities and what is not a number leave their trace */
            top = v_max(v_abs(v[i]), top);
        }
        most = v_hmax(top);
        if (most < 1.262177448e-29f) {              /* 2^-96: the inverse might overflow */
            if (most == 0.0f) {
                memset(code, 0, 32);
                d[0] = d[1] = sum[0] = sum[1] = 0.0f;
                continue;
            }
            up = 7.92281625e28f;                    /* 2^96 */
            down = 1.262177448e-29f;
            most *= up;
        }
        inverse = 127.0f / most;
        d[0] = d[1] = most / 127.0f * down;
        for (j = 0; j < 2; j++) {
            v_i32 total = vi_zero();
            TINYI_BLK_EACH(i, TINYI_BLK_S) {
                const v_i32 q = v_to_i32(v_mul(v_mul(v[j * TINYI_BLK_S + i], v_set(up)), v_set(inverse)));
                total = vi_add(total, q);
#if V_AVX512
                _mm_storeu_si128((__m128i *)(void *)(code + 16 * j), _mm512_cvtepi32_epi8(q));
#else
                {
                    int32_t t[V_LANES];
                    int l;
                    vi_store(t, q);
                    for (l = 0; l < V_LANES; l++) code[16 * j + i * V_LANES + l] = (int8_t)t[l];
                }
#endif
            }
            sum[j] = d[j] * (float)vi_sum(total);
        }
    }
    for (; b < end; b += 32, code += 32, d += 2, sum += 2) {
        memset(code, 0, 32);
        d[0] = d[1] = sum[0] = sum[1] = 0.0f;
    }
    return v_sum(odd) == 0.0f;
}

#define TINYI_BLK_TABLE_TRAITS(name, values, bytes, traits) \
    (traits) & (TINYI_BLK_SIGNED ? 255 : 255 - TINYI_BLK_HAS_SIGN),
#define TINYI_BLK_TABLE_DOT(name, values, bytes, traits) TINY_FN(tinyi_blk_dot_##name),
#define TINYI_BLK_TABLE_EXPAND(name, values, bytes, traits) TINY_FN(tinyi_blk_expand_##name),
static const tinyi_blk_kernels TINY_FN(tinyi_blk_table) = { TINYI_PASS_TARGET,
                                                            TINYI_PASS_NAME,
                                                            0,
                                                            { TINYI_BLKS(TINYI_BLK_TABLE_TRAITS) },
                                                            TINY_FN(tinyi_blk_quantize),
                                                            { TINYI_BLKS(TINYI_BLK_TABLE_DOT) },
                                                            { TINYI_BLKS(TINYI_BLK_TABLE_EXPAND) },
                                                            TINY_FN(tinyi_blk_dots),
                                                            TINY_FN(tinyi_blk_floats),
                                                            { NULL },
                                                            NULL,
                                                            NULL,
                                                            NULL,
                                                            NULL,
                                                            NULL };
TINYI_TABLE(tinyi_blk_kernels, tinyi_blk_kernels, TINY_FN(tinyi_blk_table))

#undef TINYI_BLK_N
#undef TINYI_BLK_S
#undef TINYI_BLK_EACH
#undef TINYI_BLK_256
#undef TINYI_BLK_128
#undef TINYI_BLK_SIGNED
#undef TINYI_BLK_DOT
#undef TINYI_BLK_LANES
#undef TINYI_BLK_SCALE
#undef TINYI_BLK_KERNELS
#undef TINYI_BLK_DOTS
#undef TINYI_BLK_TABLE_TRAITS
#undef TINYI_BLK_TABLE_DOT
#undef TINYI_BLK_TABLE_EXPAND
