/* src/llm/block/tree.simd.h - products of block formats on AVX2: sums of groups by a tree of integers
 *
 * A super-block has eight scales (groups of 32) or sixteen (of 16). Scaling every vector of products by itself costs a
 * conversion, a multiply-add and the way of its scales into its lanes. Here products stay integers until each lane of
 * one vector holds the sum of one group: eight vectors are folded into one by three levels of two shuffles (or one and
 * a blend) and an addition. As long as sums fit, that is done on 16-bit numbers: codes of 4 bits times 7 give at most
 * 3810 in a pair, so that eight pairs may be added.
 *
 *   coarse      groups of 32; scales in order
 *   FINE        groups of 16; scales of groups 0 2 4 6 1 3 5 7, then 8 10 12 14 9 11 13 15: what the folding leaves
 *   PAIRED      low and high halves of bytes are numbers i and i + 16 of one group: blocks g and g + 4 are loaded into
 *               one vector, so that the two vectors of them add up without a shuffle. One row of activations is stored
 *               in that order for it.
 *
 * For each 256 activations: d holds 8 scales and 8 sums of codes of 32 numbers, sum those of 16 numbers, FINE order. An
 * offset that all codes share is taken off while everything is still exact.
 *
 * A few rows of activations: codes and scales of a super-block stay in registers for all of them.
 * Many rows: see across.simd.h. */

#define TINYI_BLK_EACH(i, n) TINYI_UNROLL for (i = 0; i < (n); i++)
#define TINYI_BLK_256(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define TINYI_BLK_128(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define TINYI_TREE_FIT(traits) \
    (V_VNNI ? 0 : (traits) / TINYI_BLK_FITS) /* pairs of products that a 16-bit number can sum */
/* compilers know that additions of integers may be done in any order, and choose one for which registers do not
 * suffice */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_TREE_IN_ORDER(v) __asm__("" : "+x"(v))
#define TINYI_TREE_HERE(v) \
    __asm__ volatile("" : "+x"(v)) /* one after the other, whatever they have to do with each other */
#else
#define TINYI_TREE_IN_ORDER(v) ((void)0)
#define TINYI_TREE_HERE(v) ((void)0)
#endif
/* Q4_K is PAIRED by halves of groups: low nibbles of 32 bytes are one group, high nibbles the next. AVX2 with VNNI
 * keeps its codes in order; PAIRED was not measured on such a processor. VNNI needs codes without sign. */
#define TINYI_TREE_Q4_K_PAIRED (!V_VNNI || V_HALF)
#define TINYI_TREE_TRAITS(name, traits) \
    ((V_VNNI ? (traits) & ~TINYI_BLK_HAS_SIGN : (traits)) | \
     (TINYI_BLK_##name == TINYI_BLK_Q4_K && TINYI_TREE_Q4_K_PAIRED ? TINYI_BLK_PAIRED : 0))
#define TINYI_TREE_SIGNED(traits) (((traits) & TINYI_BLK_HAS_SIGN) && !V_VNNI)

/* ---- sums */

TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_tree_product)(v_i8 c, v_i8 q, int traits)
{
#if V_VNNI
    (void)traits;
    return v_dot_u8i8(vi_zero(), c, q);
#else
    if (TINYI_TREE_SIGNED(traits)) return _mm256_maddubs_epi16(_mm256_sign_epi8(c, c), _mm256_sign_epi8(q, c));
    return _mm256_maddubs_epi16(c, q);
#endif
}
/* n sums of `from` pairs are to become sums of `to`: in 32 bits from here on, if these do not fit */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_widen)(v_i32 *p, int n, int from, int to, int traits)
{
    int i;
    if (from <= TINYI_TREE_FIT(traits) && to > TINYI_TREE_FIT(traits))
        TINYI_BLK_EACH(i, n) p[i] = _mm256_madd_epi16(p[i], _mm256_set1_epi16(1));
}
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_tree_add)(v_i32 a, v_i32 b, int to, int traits)
{
    return to <= TINYI_TREE_FIT(traits) ? _mm256_add_epi16(a, b) : _mm256_add_epi32(a, b);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_pairs)(v_i32 *p, int n, int to, int traits)
{
    int i;
    TINYI_BLK_EACH(i, n)
        p[i] = TINY_FN(tinyi_tree_add)(_mm256_unpacklo_epi32(p[2 * i], p[2 * i + 1]),
                                       _mm256_unpackhi_epi32(p[2 * i], p[2 * i + 1]), to, traits);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_quads)(v_i32 *p, int n, int to, int traits)
{
    int i;
    TINYI_BLK_EACH(i, n)
        p[i] = TINY_FN(tinyi_tree_add)(_mm256_unpacklo_epi64(p[2 * i], p[2 * i + 1]),
                                       _mm256_unpackhi_epi64(p[2 * i], p[2 * i + 1]), to, traits);
    TINY_FN(tinyi_tree_widen)(p, n, to, 1 << 20, traits);
}
/* on top of products of the same group */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_tree_more)(v_i32 p, v_i8 c, v_i8 q, int traits)
{
#if V_VNNI
    (void)traits;
    return v_dot_u8i8(p, c, q);
#else
    return TINY_FN(tinyi_tree_add)(p, TINY_FN(tinyi_tree_product)(c, q, traits), 2, traits);
#endif
}
/* the sums of 8 vectors of products: one vector, or two where groups have 16 numbers. paired: with VNNI every second
 * vector holds the one before it too */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_fold)(v_i32 *p, int traits, int paired)
{
    int i;
    TINY_FN(tinyi_tree_widen)(p, 8, 1, 2, traits);
    if (traits & TINYI_BLK_FINE) {
        TINY_FN(tinyi_tree_pairs)(p, 4, 2, traits);
        TINY_FN(tinyi_tree_widen)(p, 4, 2, 4, traits);
        TINY_FN(tinyi_tree_quads)(p, 2, 4, traits);
        return;
    }
    TINYI_BLK_EACH(i, 4)
        if (paired) p[i] = V_VNNI ? p[2 * i + 1] : TINY_FN(tinyi_tree_add)(p[2 * i], p[2 * i + 1], 2, traits);
        else
            p[i] = TINY_FN(tinyi_tree_add)(_mm256_blend_epi32(p[i], p[i + 4], 0xf0),
                                           _mm256_permute2x128_si256(p[i], p[i + 4], 0x21), 2, traits);
    TINY_FN(tinyi_tree_widen)(p, 4, 2, 4, traits);
    TINY_FN(tinyi_tree_pairs)(p, 2, 4, traits);
    TINY_FN(tinyi_tree_widen)(p, 2, 4, 8, traits);
    TINY_FN(tinyi_tree_quads)(p, 1, 8, traits);
}

/* One super-block times one row of activations: scales s, offsets m where a format has them, one offset `shared` by all
 * codes. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_step)(v_f32 *acc, const v_i8 *c, const v_f32 *s, const v_f32 *m,
                                                 float shared, const int8_t *q, const float *d, const float *sum,
                                                 int traits, int paired)
{
    v_i32 p[8];
    int i;
    TINYI_BLK_EACH(i, 8)
        p[i] = V_VNNI && paired && i % 2 ? TINY_FN(tinyi_tree_more)(p[i - 1], c[i], vb_load(q + 32 * i), traits)
                                         : TINY_FN(tinyi_tree_product)(c[i], vb_load(q + 32 * i), traits);
    TINY_FN(tinyi_tree_fold)(p, traits, paired);
    TINYI_BLK_EACH(i, 2) {
        if (i && !(traits & TINYI_BLK_FINE)) break;
        const v_f32 scale =
            traits & TINYI_BLK_FINE ? _mm256_broadcast_ps((const __m128 *)(const void *)(d + 4 * i)) : v_load(d);
        const v_f32 sums = v_load(traits & TINYI_BLK_FINE ? sum + 8 * i : d + 8);
        v_f32 f = v_from_i32(p[i]);
        if (shared != 0.0f) f = v_fma(sums, v_set(shared), f);
        if (traits & TINYI_BLK_MINIMA) acc[i] = v_fma(scale, v_fma(s[i], f, v_mul(m[i], sums)), acc[i]);
        else acc[i] = v_fma(v_mul(s[i], scale), f, acc[i]);
    }
}

/* ---- the end of a row whose length k is no multiple of 256
 *
 * Its last super-block is read whole: what follows belongs to the next rows. Codes there meet activations of 0, and
 * their scales must be finite, or are taken out. Where too few rows follow, the end is copied. */

/* of the last super-block of `full` bytes, those after `rest` lie beyond the end; rows: how many follow */
#define TINYI_TREE_BEYOND(rows, w_row, full, rest) ((ptrdiff_t)(rows) * (w_row) < (ptrdiff_t)((full) - (rest)))
/* b, or a copy of its end. step: bytes of a block, which begins with its scale */
static const unsigned char *TINY_FN(tinyi_tree_end)(unsigned char *last, const unsigned char *b, size_t rest,
                                                    size_t step, int beyond)
{
    size_t i = beyond ? 0 : rest;
    while (i >= rest && i < 8 * step && (tinyi_q_u16(b + i) & 0x7c00) != 0x7c00) i += step;
    return i == 8 * step ? b : tinyi_blk_last(last, 8 * step, b, rest);
}
/* scales of groups beyond the end become 0 */
static const int32_t TINY_FN(tinyi_tree_keep)[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
#define TINYI_TREE_KEEP(s, groups) \
    ((s) = _mm256_and_ps(s, _mm256_castsi256_ps(TINYI_BLK_256(TINY_FN(tinyi_tree_keep) + 8 - (groups)))))

/* ---- codes: 256 numbers as 8 vectors, in order or PAIRED */

#define TINYI_TREE_SHIFT(x, by) \
    ((by) < 0 ? _mm256_slli_epi16(x, (by) < 0 ? -(by) : 0) : _mm256_srli_epi16(x, (by) < 0 ? 0 : (by)))

TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_tree_halves)(const unsigned char *p, int step)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(TINYI_BLK_128(p)), TINYI_BLK_128(p + step), 1);
}
/* The same, where 16 bytes before p + step may be read. Any port of a vector unit blends, one inserts; but Q4_0, two
 * blocks at once from memory, loses by it. */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_tree_blended)(const unsigned char *p, int step)
{
    return _mm256_blend_epi32(_mm256_castsi128_si256(TINYI_BLK_128(p)), TINYI_BLK_256(p + step - 16), 0xf0);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_nibbles)(v_i8 *c, const unsigned char *p, int step)
{
    int i;
    TINYI_BLK_EACH(i, 4) {
        const v_i8 x = TINY_FN(tinyi_tree_halves)(p + i * step, 4 * step);
        c[2 * i] = vb_and(x, vb_set(15));
        c[2 * i + 1] = vb_and(_mm256_srli_epi16(x, 4), vb_set(15));
    }
}
/* fifth bits of two blocks, step apart, where bit j of 32 belongs to number j: of the first or the second 16 numbers */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_tree_fifth)(const unsigned char *p, int step, int second)
{
    const __m256i low = _mm256_set_epi64x(0x0101010101010101, 0, 0x0101010101010101, 0),
                  bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i bits =
        _mm256_blend_epi32(_mm256_set1_epi32((int)tinyi_q_u32(p)), _mm256_set1_epi32((int)tinyi_q_u32(p + step)), 0xf0);
    const __m256i k = vb_and(_mm256_shuffle_epi8(bits, second ? _mm256_or_si256(low, vb_set(2)) : low), bit);
    return vb_and(_mm256_cmpeq_epi8(k, bit), vb_set(16));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_fifths)(v_i8 *c, const unsigned char *p, int step)
{
    int i;
    TINYI_BLK_EACH(i, 8) c[i] = vb_or(c[i], TINY_FN(tinyi_tree_fifth)(p + i / 2 * step, 4 * step, i % 2));
}
/* 32 bytes hold two or four vectors */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_fours)(v_i8 *c, const unsigned char *p)
{
    int i;
    TINYI_BLK_EACH(i, 8) c[i] = vb_and(_mm256_srli_epi16(TINYI_BLK_256(p + i / 2 * 32), i % 2 * 4), vb_set(15));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_twos)(v_i8 *c, const unsigned char *p)
{
    int i;
    TINYI_BLK_EACH(i, 8) c[i] = vb_and(_mm256_srli_epi16(TINYI_BLK_256(p + i / 4 * 32), i % 4 * 2), vb_set(3));
}
/* bit i of 32 bytes belongs to vector i, where it is worth 2^at */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_bits)(v_i8 *c, const unsigned char *p, int at)
{
    const __m256i x = TINYI_BLK_256(p);
    int i;
    TINYI_BLK_EACH(i, 8) c[i] = vb_or(c[i], vb_and(TINYI_TREE_SHIFT(x, i - at), vb_set((int8_t)(1 << at))));
}

/* ---- scales */

TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_half)(const unsigned char *p)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(tinyi_q_u16(p))));
}
/* the factors of eight blocks of 18 bytes: 16 i bytes on, that of block i is number i of eight, so that a load has two
 * of them in their places */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_tree_halves18)(const unsigned char *p)
{
    const __m256i x = _mm256_blend_epi32(_mm256_blend_epi32(TINYI_BLK_256(p), TINYI_BLK_256(p + 32), 0x22),
                                         _mm256_blend_epi32(TINYI_BLK_256(p + 64), TINYI_BLK_256(p + 96), 0x88), 0xcc);
    return _mm256_cvtph_ps(_mm_blend_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1), 0xaa));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_tree_halves8)(const unsigned char *p, int step)
{
#define TINYI_BLK_U16(i) (short)tinyi_q_u16(p + (i) * step)
    return _mm256_cvtph_ps(_mm_set_epi16(TINYI_BLK_U16(7), TINYI_BLK_U16(6), TINYI_BLK_U16(5), TINYI_BLK_U16(4),
                                         TINYI_BLK_U16(3), TINYI_BLK_U16(2), TINYI_BLK_U16(1), TINYI_BLK_U16(0)));
#undef TINYI_BLK_U16
}
/* 16 bytes of scales in FINE order */
TINYI_FORCE_INLINE __m128i TINY_FN(tinyi_tree_order)(__m128i k)
{
    return _mm_shuffle_epi8(k, _mm_set_epi8(15, 13, 11, 9, 14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_times)(v_f32 *s, v_f32 d, __m128i k)
{
    s[0] = v_mul(d, v_from_i32(_mm256_cvtepi8_epi32(k)));
    s[1] = v_mul(d, v_from_i32(_mm256_cvtepi8_epi32(_mm_srli_si128(k, 8))));
}
/* Q4_K, Q5_K: eight scales and eight minima of six bits in twelve bytes, behind the halves that both are multiplied by.
 * Those of the second four lie in two bytes each, which a product of bytes puts together; 16 times the number is what
 * comes of it. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_scales6)(v_f32 *s, v_f32 *m, const unsigned char *b)
{
    const v_i8 x = _mm256_broadcastsi128_si256(TINYI_BLK_128(b));
    /* bytes 7 15, 6 14, 5 13, 4 12; 7, 6, 5, 4 */
    const v_i8 k =
        _mm256_shuffle_epi8(x, _mm256_set_epi32(-0xf8f1, -0xf9f2, -0xfaf3, -0xfbf4, -0xf9, -0xfa, -0xfb, -0xfc));
    /* 11 15, 10 14, 9 13, 8 12; 11, 10, 9, 8 */
    const v_i8 l =
        _mm256_shuffle_epi8(x, _mm256_set_epi32(-0xf4f1, -0xf5f2, -0xf6f3, -0xf7f4, -0xf5, -0xf6, -0xf7, -0xf8));
    const v_i32 scale =
        _mm256_maddubs_epi16(vb_and(k, _mm256_setr_epi32(0x3f, 0x3f, 0x3f, 0x3f, 0xc00f, 0xc00f, 0xc00f, 0xc00f)),
                             _mm256_setr_epi32(16, 16, 16, 16, 0x410, 0x410, 0x410, 0x410));
    const v_i32 low =
        _mm256_maddubs_epi16(vb_and(l, _mm256_setr_epi32(0x3f, 0x3f, 0x3f, 0x3f, 0xc0f0, 0xc0f0, 0xc0f0, 0xc0f0)),
                             _mm256_setr_epi32(16, 16, 16, 16, 0x401, 0x401, 0x401, 0x401));
    const v_f32 d = v_mul(_mm256_cvtph_ps(_mm_shuffle_epi32(_mm256_castsi256_si128(x), 0)),
                          _mm256_set_ps(-0.0625f, 0.0625f, -0.0625f, 0.0625f, -0.0625f, 0.0625f, -0.0625f, 0.0625f));
    s[0] = v_mul(_mm256_moveldup_ps(d), v_from_i32(scale));
    m[0] = v_mul(_mm256_movehdup_ps(d), v_from_i32(low));
}
/* Q6_K: sixteen scales of a byte and what they are multiplied by. Bytes become the highest of 32 bits, 2^24 times too
 * large. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_scales8)(v_f32 *s, const unsigned char *k, const unsigned char *half)
{
    const v_i8 x = _mm256_broadcastsi128_si256(TINYI_BLK_128(k)),
               even = _mm256_setr_epi32(0x00808080, 0x02808080, 0x04808080, 0x06808080, 0x01808080, 0x03808080,
                                        0x05808080, 0x07808080);
    const v_f32 d = v_mul(_mm256_cvtph_ps(_mm_set1_epi16((short)tinyi_q_u16(half))), v_set(5.9604644775390625e-8f));
    s[0] = v_mul(d, v_from_i32(_mm256_shuffle_epi8(x, even)));
    s[1] = v_mul(d, v_from_i32(_mm256_shuffle_epi8(x, _mm256_or_si256(even, _mm256_set1_epi32(0x08000000)))));
}
/* Q3_K: sixteen scales of six bits, 32 more than meant, in the twelve bytes before the half at b + 12 */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_scales3)(v_f32 *s, const unsigned char *b)
{
    const __m128i x = TINYI_BLK_128(b - 2);
    const __m128i low = _mm_shuffle_epi8(x, _mm_set_epi8(9, 8, 7, 6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)),
                  high = _mm_shuffle_epi32(_mm_alignr_epi8(x, x, 10), 0);
    const __m128i k = _mm_or_si128(
        _mm_and_si128(_mm_srlv_epi32(low, _mm_set_epi32(4, 4, 0, 0)), _mm_set1_epi8(15)),
        _mm_slli_epi16(_mm_and_si128(_mm_srlv_epi32(high, _mm_set_epi32(6, 4, 2, 0)), _mm_set1_epi8(3)), 4));
    TINY_FN(tinyi_tree_times)
    (s, v_set(TINY_FN(tinyi_tree_half)(b + 12)), TINY_FN(tinyi_tree_order)(_mm_sub_epi8(k, _mm_set1_epi8(32))));
}
/* IQ4_XS: eight scales of six bits, 32 more than meant: four bits each in four bytes, two each in two */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_tree_scales_xs)(const unsigned char *b)
{
    const __m256i low = _mm256_and_si256(
        _mm256_srlv_epi32(_mm256_set1_epi32((int)tinyi_q_u32(b + 4)), _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0)),
        _mm256_set1_epi32(15));
    const __m256i high = _mm256_and_si256(
        _mm256_srlv_epi32(_mm256_set1_epi32((int)tinyi_q_u16(b + 2) << 4), _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0)),
        _mm256_set1_epi32(0x30));
    return v_mul(v_set(TINY_FN(tinyi_tree_half)(b)),
                 v_from_i32(_mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32))));
}
/* MXFP4: 2^(e - 128), since the codes are doubled */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_tree_powers)(const unsigned char *p, int step)
{
    const __m256i e =
        _mm256_set_epi32(p[7 * step], p[6 * step], p[5 * step], p[4 * step], p[3 * step], p[2 * step], p[step], p[0]);
    const __m256i low = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e),
                  large = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(large, low, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

/* ---- the formats: codes, scales, minima; what comes back is the offset that all codes share */

TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q8_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
    (void)m;
    TINYI_BLK_EACH(i, 8) c[i] = V_VNNI ? vb_xor(vb_load(b + 34 * i + 2), vb_set(-128)) : vb_load(b + 34 * i + 2);
    s[0] = TINY_FN(tinyi_tree_halves8)(b, 34);
    return V_VNNI ? -128.0f : 0.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q4_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    (void)m;
    TINY_FN(tinyi_tree_nibbles)(c, b + 2, 18);
    s[0] = TINY_FN(tinyi_tree_halves18)(b);
    return -8.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q4_1)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_tree_nibbles)(c, b + 4, 20);
    s[0] = TINY_FN(tinyi_tree_halves8)(b, 20);
    m[0] = TINY_FN(tinyi_tree_halves8)(b + 2, 20);
    return 0.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q5_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    (void)m;
    TINY_FN(tinyi_tree_nibbles)(c, b + 6, 22);
    TINY_FN(tinyi_tree_fifths)(c, b + 2, 22);
    s[0] = TINY_FN(tinyi_tree_halves8)(b, 22);
    return -16.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q5_1)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_tree_nibbles)(c, b + 8, 24);
    TINY_FN(tinyi_tree_fifths)(c, b + 4, 24);
    s[0] = TINY_FN(tinyi_tree_halves8)(b, 24);
    m[0] = TINY_FN(tinyi_tree_halves8)(b + 2, 24);
    return 0.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q2_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    const __m128i k = TINY_FN(tinyi_tree_order)(TINYI_BLK_128(b));
    TINY_FN(tinyi_tree_twos)(c, b + 16);
    TINY_FN(tinyi_tree_times)(s, v_set(TINY_FN(tinyi_tree_half)(b + 80)), _mm_and_si128(k, _mm_set1_epi8(15)));
    TINY_FN(tinyi_tree_times)
    (m, v_set(-TINY_FN(tinyi_tree_half)(b + 82)), _mm_and_si128(_mm_srli_epi16(k, 4), _mm_set1_epi8(15)));
    return 0.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q3_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    (void)m;
    TINY_FN(tinyi_tree_twos)(c, b + 32);
    TINY_FN(tinyi_tree_bits)(c, b, 2);
    TINY_FN(tinyi_tree_scales3)(s, b + 96);
    return -4.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q4_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
    if (!TINYI_TREE_Q4_K_PAIRED) TINY_FN(tinyi_tree_fours)(c, b + 16);
    else
        TINYI_BLK_EACH(i, 8)
            c[i] = vb_and(
                _mm256_srli_epi16(TINY_FN(tinyi_tree_blended)(b + 16 + i / 4 * 32 + i % 2 * 16, 64), i / 2 % 2 * 4),
                vb_set(15));
    TINY_FN(tinyi_tree_scales6)(s, m, b);
    return 0.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q5_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_tree_fours)(c, b + 48);
    TINY_FN(tinyi_tree_bits)(c, b + 16, 4);
    TINY_FN(tinyi_tree_scales6)(s, m, b);
    return 0.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q6_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
    (void)m;
    TINYI_BLK_EACH(i, 8)                    /* of 128 numbers: 0, 32 in low halves, 64, 96 in high ones */
        c[i] = vb_or(vb_and(_mm256_srli_epi16(TINYI_BLK_256(b + i / 4 * 64 + i % 2 * 32), i % 4 / 2 * 4), vb_set(15)),
                     vb_and(TINYI_TREE_SHIFT(TINYI_BLK_256(b + 128 + i / 4 * 32), i % 4 * 2 - 4), vb_set(0x30)));
    TINY_FN(tinyi_tree_scales8)(s, b + 192, b + 208);
    return -32.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_iq4)(v_i8 *c)
{
    int i;
    TINYI_BLK_EACH(i, 8)
        c[i] = vb_table16(V_VNNI ? (const void *)tinyi_blk_iq4_128 : (const void *)tinyi_blk_iq4, c[i]);
    return V_VNNI ? -128.0f : 0.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_IQ4_NL)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    (void)m;
    TINY_FN(tinyi_tree_nibbles)(c, b + 2, 18);
    s[0] = TINY_FN(tinyi_tree_halves18)(b);
    return TINY_FN(tinyi_tree_iq4)(c);
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_IQ4_XS)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    (void)m;
    TINY_FN(tinyi_tree_nibbles)(c, b + 8, 16);
    s[0] = TINY_FN(tinyi_tree_scales_xs)(b);
    return TINY_FN(tinyi_tree_iq4)(c);
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_MXFP4)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
    (void)m;
    TINY_FN(tinyi_tree_nibbles)(c, b + 1, 17);
    TINYI_BLK_EACH(i, 8) c[i] = vb_table16(tinyi_blk_e2m1_16, c[i]);
    s[0] = TINY_FN(tinyi_tree_powers)(b, 17);
    return -16.0f;
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_TQ2_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    (void)m;
    TINY_FN(tinyi_tree_twos)(c, b);
    s[0] = v_set(TINY_FN(tinyi_tree_half)(b + 64));
    return -1.0f;
}

/* TQ1_0: a byte is a fraction of 256; times 3, the digit is what goes over: 3 x / 4 without going over, then / 64 */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_tree_digit)(v_i8 x)
{
    const v_i8 half = vb_shr(x, 1);
    return vb_and(_mm256_srli_epi16(vb_add(vb_and(x, half), vb_shr(vb_xor(x, half), 1)), 6), vb_set(3));
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_TQ1_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    unsigned char t[16];
    v_i8 x = TINYI_BLK_256(b);
    __m128i y = TINYI_BLK_128(b + 32);
    int i, j;
    (void)m;
    TINYI_BLK_EACH(i, 5) {                  /* five digits of 32 bytes */
        c[i] = TINY_FN(tinyi_tree_digit)(x);
        x = vb_add(x, vb_add(x, x));
    }
    TINYI_BLK_EACH(i, 3) {                  /* five of 16, and four of four */
        const __m128i thrice = _mm_add_epi8(y, _mm_add_epi8(y, y));
        c[5 + i] = _mm256_inserti128_si256(_mm256_castsi128_si256(y), thrice, 1);
        y = _mm_add_epi8(thrice, _mm_add_epi8(thrice, thrice));
    }
    memcpy(t, b + 48, 4);
    for (i = 1; i < 4; i++)
        for (j = 0; j < 4; j++) t[4 * i + j] = (unsigned char)(3 * t[4 * i + j - 4]);
    c[7] = _mm256_inserti128_si256(c[7], TINYI_BLK_128(t), 1);
    TINYI_BLK_EACH(i, 3) c[5 + i] = TINY_FN(tinyi_tree_digit)(c[5 + i]);
    s[0] = v_set(TINY_FN(tinyi_tree_half)(b + 52));
    return -1.0f;
}
/* NVFP4: eight bytes are a group of 16, low halves first. The bits of an E4M3 number, seven places higher, are those of
 * a half that is 2^-8 of it; 2^7 times that is the scale, since the codes are doubled. */
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_NVFP4)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    __m128i k = _mm_set_epi32((int)tinyi_q_u32(b + 108), (int)tinyi_q_u32(b + 72), (int)tinyi_q_u32(b + 36),
                              (int)tinyi_q_u32(b));
    v_i32 half;
    int i;
    (void)m;
    TINYI_BLK_EACH(i, 4) {
        /* groups 0 2 1 3, so that both halves of bytes of a group meet in one lane */
        const v_i8 x = _mm256_permute4x64_epi64(TINYI_BLK_256(b + 36 * i + 4), 0xd8);
        const v_i8 low = vb_table16(tinyi_blk_e2m1_16, vb_and(x, vb_set(15))),
                   high = vb_table16(tinyi_blk_e2m1_16, vb_and(_mm256_srli_epi16(x, 4), vb_set(15)));
        c[2 * i] = _mm256_unpacklo_epi64(low, high);
        c[2 * i + 1] = _mm256_unpackhi_epi64(low, high);
    }
    k = TINY_FN(tinyi_tree_order)(_mm_andnot_si128(_mm_cmpeq_epi8(k, _mm_set1_epi8(0x7f)), k));
    half = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_and_si128(k, _mm_set1_epi8(0x7f))), 7);
    s[0] = v_mul(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), v_set(128.0f));
    s[1] = v_mul(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), v_set(128.0f));
    return -16.0f;
}
/* Q1_0: bit j of a block belongs to number j. 0 and 1 stand for -1/2 and 1/2 of twice the scale. */
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q1_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    const v_i8 x = TINY_FN(tinyi_tree_halves)(b + 2, 18), bit = _mm256_set1_epi64x((long long)0x8040201008040201u),
               low = _mm256_set_epi64x(0x0101010101010101, 0, 0x0101010101010101, 0);
    int i;
    (void)m;
    TINYI_BLK_EACH(i, 8)
        c[i] = _mm256_min_epu8(vb_and(_mm256_shuffle_epi8(x, vb_add(low, vb_set((int8_t)(2 * i)))), bit), vb_set(1));
    s[0] = _mm256_cvtph_ps(
        _mm_unpacklo_epi64(_mm_set1_epi16((short)tinyi_q_u16(b)), _mm_set1_epi16((short)tinyi_q_u16(b + 18))));
    s[0] = v_add(s[0], s[0]);
    return -0.5f;
}
/* Q2_0: a byte holds four numbers, the lowest bits first */
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_Q2_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    const __m128i d = _mm_set_epi16(0, 0, 0, 0, (short)tinyi_q_u16(b + 54), (short)tinyi_q_u16(b + 36),
                                    (short)tinyi_q_u16(b + 18), (short)tinyi_q_u16(b));
    int i, j;
    (void)m;
    TINYI_BLK_EACH(i, 2) {
        const v_i8 x = TINY_FN(tinyi_tree_halves)(b + 18 * i + 2, 36);
        v_i8 f[4], two[2];
        TINYI_BLK_EACH(j, 4) f[j] = vb_and(_mm256_srli_epi16(x, 2 * j), vb_set(3));
        two[0] = _mm256_unpacklo_epi8(f[0], f[1]);
        two[1] = _mm256_unpacklo_epi8(f[2], f[3]);
        c[4 * i] = _mm256_unpacklo_epi16(two[0], two[1]);
        c[4 * i + 1] = _mm256_unpackhi_epi16(two[0], two[1]);
        two[0] = _mm256_unpackhi_epi8(f[0], f[1]);
        two[1] = _mm256_unpackhi_epi8(f[2], f[3]);
        c[4 * i + 2] = _mm256_unpacklo_epi16(two[0], two[1]);
        c[4 * i + 3] = _mm256_unpackhi_epi16(two[0], two[1]);
    }
    s[0] = _mm256_cvtph_ps(_mm_unpacklo_epi16(d, d));
    return -1.0f;
}

/* ---- Q4_0, the format of small machines: four rows of whole super-blocks at once, in the order of sums of the others
 *
 * Two rows go side by side through the tree, since a processor looks some sixty vector instructions ahead, which one
 * row fills with what waits for each other; and what four vectors sum up to is found together, which counts where rows
 * are short. */

/* an expression to compilers, who make it where it is used, and not a call whose result they keep in a register until
 * then */
#if TINYI_GCC || TINYI_CLANG
typedef unsigned short TINY_FN(tinyi_tree_u16) __attribute__((vector_size(32)));
#define TINYI_TREE_DOWN(x, by) ((__m256i)((TINY_FN(tinyi_tree_u16))(x) >> (by)))
#define TINYI_TREE_UP(x, by) ((__m256i)((TINY_FN(tinyi_tree_u16))(x) << (by)))
#else
#define TINYI_TREE_DOWN(x, by) _mm256_srli_epi16(x, by)
#define TINYI_TREE_UP(x, by) _mm256_slli_epi16(x, by)
#endif
/* the sums over the lanes of four vectors, each in the order of v_sum */
TINYI_FORCE_INLINE __m128 TINY_FN(tinyi_tree_sum4)(float (*x)[8])
{
    const v_f32 a = v_load(x[0]), b = v_load(x[1]), c = v_load(x[2]), d = v_load(x[3]);
    const v_f32 ab = v_add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)),
                cd = v_add(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    /* a0 a1 c0 c1 b0 b1 d0 d1 */
    v_f32 t = v_add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    t = v_add(t, _mm256_movehdup_ps(t));
    return _mm_blend_ps(_mm256_castps256_ps128(t), _mm_moveldup_ps(_mm256_extractf128_ps(t, 1)), 0xa);
}
/* two super-blocks side by side, each with its activations: acc += their products */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_two)(v_f32 *acc0, v_f32 *acc1, const unsigned char *b0,
                                                const unsigned char *b1, const int8_t *q0, const int8_t *q1,
                                                const float *d0, const float *d1)
{
    const unsigned char *b[2];
    const int8_t *q[2];
    const int traits = 8 * TINYI_BLK_FITS;
    v_i32 p[2][4];
    int j, r;
    b[0] = b0; q[0] = q0;
    b[1] = b1; q[1] = q1;
    TINYI_BLK_EACH(j, 4)
        TINYI_BLK_EACH(r, 2) {
            const v_i8 c = TINY_FN(tinyi_tree_halves)(b[r] + 2 + 18 * j, 72);
            p[r][j] = TINY_FN(tinyi_tree_product)(vb_and(c, vb_set(15)), vb_load(q[r] + 64 * j), traits);
            p[r][j] = TINY_FN(tinyi_tree_more)(p[r][j], vb_and(TINYI_TREE_DOWN(c, 4), vb_set(15)),
                                               vb_load(q[r] + 64 * j + 32), traits);
            if (j % 2 == 0) continue;
            p[r][j / 2] = p[r][j - 1];
            p[r][j / 2 + 1] = p[r][j];
            TINY_FN(tinyi_tree_pairs)(p[r] + j / 2, 1, 4, traits);
        }
    TINYI_BLK_EACH(r, 2) TINY_FN(tinyi_tree_quads)(p[r], 1, 8, traits);
    *acc0 = v_fma(v_mul(TINY_FN(tinyi_tree_halves18)(b0), v_load(d0)),
                  v_fma(v_load(d0 + 8), v_set(-8.0f), v_from_i32(p[0][0])), *acc0);
    *acc1 = v_fma(v_mul(TINY_FN(tinyi_tree_halves18)(b1), v_load(d1)),
                  v_fma(v_load(d1 + 8), v_set(-8.0f), v_from_i32(p[1][0])), *acc1);
}
static void TINY_FN(tinyi_tree_rows4)(float *y, const unsigned char *w, ptrdiff_t w_row, size_t n_row,
                                      const tinyi_q8 *x, size_t k)
{
    const size_t blocks = x->blocks, rest = k % 256 / 32 * 18;
    const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / 32 * 18, 2048), later = tinyi_blk_ahead(w_row, k / 32 * 18, 8192);
    unsigned char last[2][144];
    float t[2][4][8];
    size_t g, n;
    int i, j;
    for (g = 0; g < n_row / 4; g++)
        for (i = 0; i < 4; i += 2, w += 2 * w_row) {
            const int beyond = TINYI_TREE_BEYOND(n_row - 4 * g - (size_t)i - 2, w_row, (size_t)144, rest);
            const unsigned char *b = w, *b1 = w + w_row;
            const int8_t *q = x->code;
            const float *d = x->d;
            v_f32 acc[2];
            acc[0] = acc[1] = v_zero();
            if (blocks < 4) {               /* two rows */
                for (n = blocks; n; n--, b += 144, b1 += 144, q += 256, d += 16) {
                    TINYI_BLK_EACH(j, 3) {
                        TINYI_BLK_AHEAD(b + soon + 64 * j);
                        TINYI_BLK_AHEAD(b1 + soon + 64 * j);
                    }
                    if (n == 1 && rest) {
                        b = TINY_FN(tinyi_tree_end)(last[0], b, rest, 18, beyond);
                        b1 = TINY_FN(tinyi_tree_end)(last[1], b1, rest, 18, beyond);
                    }
                    TINY_FN(tinyi_tree_two)(&acc[0], &acc[1], b, b1, q, q, d, d);
                }
            } else {                        /* two blocks of a row: from memory one stream is faster than two */
                for (j = 0; j < 2; j++) {
                    v_f32 sum = v_zero(), none = v_zero();
                    b = w + j * w_row;
                    q = x->code;
                    d = x->d;
                    for (n = blocks; n > 1; n -= 2, b += 288, q += 512, d += 32) {
                        int c;
                        TINYI_BLK_EACH(c, 5) {
                            TINYI_BLK_AHEAD(b + soon + 64 * c);
                            TINYI_BLK_AHEAD2(b + later + 64 * c);
                        }
                        b1 = b + 144;
                        if (n == 2 && rest) b1 = TINY_FN(tinyi_tree_end)(last[0], b1, rest, 18, beyond);
                        TINY_FN(tinyi_tree_two)(&sum, &sum, b, b1, q, q + 256, d, d + 16);
                    }
                    if (n && rest) b = TINY_FN(tinyi_tree_end)(last[0], b, rest, 18, beyond);
                    if (n) TINY_FN(tinyi_tree_two)(&sum, &none, b, b, q, q, d, d);
                    acc[j] = sum;
                }
            }
            v_store(t[g % 2][i], acc[0]);
            v_store(t[g % 2][i + 1], acc[1]);
            /* of the rows before: what it waits for is there by now */
            if (i == 0 && g > 0) _mm_storeu_ps(y + 4 * g - 4, TINY_FN(tinyi_tree_sum4)(t[(g - 1) % 2]));
        }
    _mm_storeu_ps(y + 4 * g - 4, TINY_FN(tinyi_tree_sum4)(t[(g - 1) % 2]));
}

#include "llm/block/order.simd.h"

/* ---- one row of activations, and rows of weights expanded: codes in order, 16 scales and 16 offsets, 8 of them used
 * where groups are coarse */

/* one row of activations has a form of its own; where it is for a few rows of weights or ends only, that of several
 * rows serves */
#define TINYI_TREE_BY_FEW(format) (TINYI_ORDER_HAS(format) || (format) == TINYI_BLK_Q4_0)
#define TINYI_BLK_KERNELS(name, values, bytes, traits)                                                                 \
    TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_dots_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x,                  \
                                                            const unsigned char *w, ptrdiff_t w_row, size_t n_row,     \
                                                            const tinyi_q8 *x, size_t k, size_t n)                     \
    {                                                                                                                  \
        const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / (values) * (bytes), 2048),                                   \
                        later = tinyi_blk_ahead(w_row, k / (values) * (bytes), 8192);                                  \
        for (; n_row; n_row--, w += w_row, y += y_row) {                                                               \
            v_f32 acc[TINYI_BLK_FEW][2];                                                                               \
            const unsigned char *b = w;                                                                                \
            unsigned char last[256 / (values) * (bytes)];                                                              \
            size_t at, r;                                                                                              \
            for (r = 0; r < n; r++) acc[r][0] = acc[r][1] = v_zero();                                                  \
            for (at = 0; at < k; at += 256, b += 256 / (values) * (bytes)) {                                           \
                v_i8 c[8];                                                                                             \
                v_f32 s[2], m[2];                                                                                      \
                float shared;                                                                                          \
                int i;                                                                                                 \
                if (k - at < 256) {                                                                                    \
                    const size_t rest = (k - at) / (values) * (bytes);                                                 \
                    if (((traits)&TINYI_BLK_FINE) || TINYI_TREE_BEYOND(n_row - 1, w_row, sizeof last, rest))           \
                        b = tinyi_blk_last(last, sizeof last, b, rest);                                                \
                } else                                                                                                 \
                    for (i = 0; i < 256 / (values) * (bytes); i += 64) {                                               \
                        TINYI_BLK_AHEAD(b + soon + i);                                                                 \
                        TINYI_BLK_AHEAD2(b + later + i);                                                               \
                    }                                                                                                  \
                shared = TINY_FN(tinyi_tree_get_##name)(c, s, m, b);                                                   \
                if (k - at < 256 && !((traits)&TINYI_BLK_FINE)) {                                                      \
                    TINYI_TREE_KEEP(s[0], (k - at) / 32);                                                              \
                    if ((traits)&TINYI_BLK_MINIMA) TINYI_TREE_KEEP(m[0], (k - at) / 32);                               \
                }                                                                                                      \
                for (r = 0; r < n; r++) {                                                                              \
                    const size_t p = r * 256 * x->blocks + at;                                                         \
                    TINY_FN(tinyi_tree_step)                                                                           \
                    (acc[r], c, s, m, shared, x->code + p, x->d + p / 16, x->sum + p / 16, (traits),                   \
                     TINYI_TREE_TRAITS(name, traits) & TINYI_BLK_PAIRED);                                              \
                }                                                                                                      \
            }                                                                                                          \
            for (r = 0; r < n; r++) y[(ptrdiff_t)r * y_x] = v_sum(v_add(acc[r][0], acc[r][1]));                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void TINY_FN(tinyi_tree_few_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,       \
                                               ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k, size_t n)   \
    {                                                                                                                  \
        TINY_FN(tinyi_tree_dots_##name)(y, y_row, y_x, w, w_row, n_row, x, k, n);                                      \
    }                                                                                                                  \
    static void TINY_FN(tinyi_tree_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,     \
                                               size_t n_row, const tinyi_q8 *x, size_t k)                              \
    {                                                                                                                  \
        if (TINYI_BLK_##name == TINYI_BLK_Q4_0 && n_row >= 4 && k && y_row == 1) {                                     \
            const size_t whole = n_row / 4 * 4;                                                                        \
            TINY_FN(tinyi_tree_rows4)(y, w, w_row, whole, x, k);                                                       \
            y += whole;                                                                                                \
            w += (ptrdiff_t)whole * w_row;                                                                             \
            n_row -= whole;                                                                                            \
        }                                                                                                              \
        if (TINYI_ORDER_HAS(TINYI_BLK_##name) && n_row && k)                                                           \
            TINY_FN(tinyi_order_rows)                                                                                  \
            (y, y_row, w, w_row, n_row, x, k, values, bytes, TINYI_BLK_##name, (traits));                              \
        else if (TINYI_TREE_BY_FEW(TINYI_BLK_##name))                                                                  \
            TINY_FN(tinyi_tree_few_##name)(y, y_row, 0, w, w_row, n_row, x, k, 1);                                     \
        else TINY_FN(tinyi_tree_dots_##name)(y, y_row, 0, w, w_row, n_row, x, k, 1);                                   \
    }                                                                                                                  \
    static void TINY_FN(tinyi_tree_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                  size_t k, ptrdiff_t ahead, const unsigned char *table)               \
    {                                                                                                                  \
        unsigned char last[256 / (values) * (bytes)];                                                                  \
        (void)table;                                                                                                   \
        for (; k; k -= 256, w += 256 / (values) * (bytes), code += 256, s16 += 16, m16 += 16) {                        \
            v_i8 c[8];                                                                                                 \
            v_f32 s[2], m[2];                                                                                          \
            float shared;                                                                                              \
            int i;                                                                                                     \
            if (k < 256) {                                                                                             \
                w = tinyi_blk_last(last, sizeof last, w, k / (values) * (bytes));                                      \
                k = 256;                                                                                               \
            } else                                                                                                     \
                for (i = 0; i < 256 / (values) * (bytes); i += 64) TINYI_BLK_AHEAD2(w + ahead + i);                    \
            shared = TINY_FN(tinyi_tree_get_##name)(c, s, m, w);                                                       \
            /* in order, as they are stored */                                                                         \
            if (TINYI_BLK_##name == TINYI_BLK_Q4_K) TINY_FN(tinyi_tree_fours)(c, w + 16);                              \
            TINYI_BLK_EACH(i, 8) TINY_FN(tinyi_tree_put)(code, i, c[i], (traits)&TINYI_BLK_PAIRED);                    \
            TINYI_BLK_EACH(i, 2)                                                                                       \
            {                                                                                                          \
                if (i && !((traits)&TINYI_BLK_FINE)) break;                                                            \
                v_store(s16 + 8 * i, s[i]);                                                                            \
                v_store(m16 + 8 * i, (traits)&TINYI_BLK_MINIMA ? m[i] : v_mul(s[i], v_set(shared)));                   \
            }                                                                                                          \
        }                                                                                                              \
    }
TINYI_FORCE_INLINE void TINY_FN(tinyi_tree_put)(unsigned char *code, int i, v_i8 c, int paired)
{
    if (!paired) { vb_store(code + 32 * i, c); return; }
    _mm_storeu_si128((__m128i *)(void *)(code + i / 2 * 32 + i % 2 * 16), _mm256_castsi256_si128(c));
    _mm_storeu_si128((__m128i *)(void *)(code + i / 2 * 32 + i % 2 * 16 + 128), _mm256_extracti128_si256(c, 1));
}
TINYI_BLKS_PLAIN(TINYI_BLK_KERNELS)

#include "llm/block/book.simd.h"

/* an expanded row is used by formats of one kind alike: what fits is what the largest codes of the kind need; with VNNI
 * there is nothing to fit */
#define TINYI_TREE_SMALL (8 * TINYI_BLK_FITS | TINYI_BLK_MINIMA)
#define TINYI_TREE_FIVE (4 * TINYI_BLK_FITS | TINYI_BLK_MINIMA)
#define TINYI_TREE_SIX (2 * TINYI_BLK_FITS | TINYI_BLK_MINIMA | TINYI_BLK_FINE)
#define TINYI_TREE_BOOKS (TINYI_BLK_FITS | TINYI_BLK_MINIMA | TINYI_BLK_FINE)
#define TINYI_TREE_BYTES (TINYI_BLK_FITS | (V_VNNI ? TINYI_BLK_MINIMA : TINYI_BLK_HAS_SIGN))

/* ---- activations */

static int TINY_FN(tinyi_tree_quantize)(int8_t *code, float *d, float *sum, const float *x, size_t n, int paired)
{
    v_f32 odd = v_zero();
    size_t b;
    int g, i;
    for (b = 0; b < n; b += 256, code += 256, d += 16, sum += 16) {
        const int groups = n - b < 256 ? (int)(n - b) / 32 : 8;
        if (groups < 8) {
            memset(code, 0, 256);
            memset(d, 0, 16 * sizeof *d);
            memset(sum, 0, 16 * sizeof *sum);
        }
        for (g = 0; g < groups; g++, x += 32) {
            v_f32 v[4], top = v_zero();
            v_i32 q[4];
            __m128i low, high;
            float most, up = 1.0f, inverse, total[2];
            TINYI_BLK_EACH(i, 4) {
                v[i] = v_load(x + 8 * i);
                odd = v_fma(v[i], v_zero(), odd);   /* infinities and what is not a number leave their trace */
                top = v_max(v_abs(v[i]), top);
            }
            most = v_hmax(top);
            if (most < 1.262177448e-29f) up = 7.92281625e28f;       /* 2^-96: the inverse might overflow; 2^96 */
            inverse = most > 0.0f ? 127.0f / (most * up) : 0.0f;
            d[g] = most * up / 127.0f * (up > 1.0f ? 1.262177448e-29f : 1.0f);
            TINYI_BLK_EACH(i, 4) q[i] = v_to_i32(v_mul(v_mul(v[i], v_set(up)), v_set(inverse)));
            low = _mm_packs_epi32(_mm256_castsi256_si128(q[0]), _mm256_extracti128_si256(q[0], 1));
            high = _mm_packs_epi32(_mm256_castsi256_si128(q[1]), _mm256_extracti128_si256(q[1], 1));
            _mm_storeu_si128((__m128i *)(void *)(code + (paired ? g % 4 * 64 + g / 4 * 16 : 32 * g)),
                             _mm_packs_epi16(low, high));
            low = _mm_packs_epi32(_mm256_castsi256_si128(q[2]), _mm256_extracti128_si256(q[2], 1));
            high = _mm_packs_epi32(_mm256_castsi256_si128(q[3]), _mm256_extracti128_si256(q[3], 1));
            _mm_storeu_si128((__m128i *)(void *)(code + (paired ? g % 4 * 64 + g / 4 * 16 + 32 : 32 * g + 16)),
                             _mm_packs_epi16(low, high));
            total[0] = (float)vi_sum(vi_add(q[0], q[1]));
            total[1] = (float)vi_sum(vi_add(q[2], q[3]));
            d[8 + g] = total[0] + total[1];
            sum[g / 4 * 8 + g % 4] = total[0];
            sum[g / 4 * 8 + g % 4 + 4] = total[1];
        }
    }
    return v_sum(odd) == 0.0f;
}

/* ---- many rows of activations */

#include "llm/block/across.simd.h"
#ifdef TINYI_NO_REPACK
#define TINYI_TREE_EIGHT NULL               /* repacked weights are left out */
#else
#include "llm/block/eight.simd.h"
#define TINYI_TREE_EIGHT &TINY_FN(tinyi_eight_table)
#endif

#define TINYI_BLK_TABLE_TRAITS(name, values, bytes, traits) TINYI_TREE_TRAITS(name, traits),
#define TINYI_BLK_TABLE_DOT(name, values, bytes, traits) TINY_FN(tinyi_tree_dot_##name),
#define TINYI_BLK_TABLE_FEW(name, values, bytes, traits) TINY_FN(tinyi_tree_few_##name),
#define TINYI_BLK_TABLE_EXPAND(name, values, bytes, traits) TINY_FN(tinyi_tree_expand_##name),
#define TINYI_BLK_TABLE_LAY(name, values, bytes, traits) TINY_FN(tinyi_across_lay_##name),
#if V_HALF
#define TINYI_BLK_TABLE_BOOK(name, values, bytes, traits) TINY_FN(tinyi_tree_expand_##name),
#else
#define TINYI_BLK_TABLE_BOOK(name, values, bytes, traits) NULL,        /* only panels of AMX need it */
#endif
static const tinyi_blk_kernels TINY_FN(tinyi_tree_table) = {
    TINYI_PASS_TARGET, TINYI_PASS_NAME, 0,
    { TINYI_BLKS(TINYI_BLK_TABLE_TRAITS) },
    TINY_FN(tinyi_tree_quantize),
    { TINYI_BLKS(TINYI_BLK_TABLE_DOT) },
    { TINYI_BLKS_PLAIN(TINYI_BLK_TABLE_EXPAND) TINYI_BLKS_BOOKS(TINYI_BLK_TABLE_BOOK) },
    NULL, NULL,
    { TINYI_BLKS(TINYI_BLK_TABLE_FEW) },
    0, 0, 0, NULL, NULL,
    TINYI_ACROSS_LANES, { TINYI_BLKS(TINYI_BLK_TABLE_LAY) },
    TINY_FN(tinyi_across_row), TINY_FN(tinyi_across_meet),
    TINYI_TREE_EIGHT
};
TINYI_TABLE(tinyi_blk_kernels, tinyi_blk_kernels, TINY_FN(tinyi_tree_table))

#undef TINYI_BLK_EACH
#undef TINYI_BLK_256
#undef TINYI_BLK_128
#undef TINYI_BLK_KERNELS
#undef TINYI_BLK_TABLE_TRAITS
#undef TINYI_BLK_TABLE_DOT
#undef TINYI_BLK_TABLE_FEW
#undef TINYI_BLK_TABLE_EXPAND
#undef TINYI_BLK_TABLE_LAY
#undef TINYI_BLK_TABLE_BOOK
#undef TINYI_TREE_EIGHT
#undef TINYI_ACROSS_LANES
#undef TINYI_ACROSS_STEP
#undef TINYI_ACROSS_PANEL
#undef TINYI_TREE_FIT
#undef TINYI_TREE_BY_FEW
#undef TINYI_TREE_SIGNED
#undef TINYI_TREE_Q4_K_PAIRED
#undef TINYI_TREE_TRAITS
#undef TINYI_ORDER_HAS
#undef TINYI_ORDER_Q5_0
#undef TINYI_TREE_IN_ORDER
#undef TINYI_TREE_HERE
#undef TINYI_TREE_DOWN
#undef TINYI_TREE_UP
#undef TINYI_TREE_SHIFT
#undef TINYI_TREE_SMALL
#undef TINYI_TREE_FIVE
#undef TINYI_TREE_SIX
#undef TINYI_TREE_BYTES
#undef TINYI_TREE_BOOKS
