/* src/llm/block/book.simd.h - products of formats with code books on AVX2: a part of tree.simd.h
 *
 * A table of all entries is made at each call, and by each thread of a product with many rows of activations. Entries
 * go from there into vectors, get their signs in registers, and leave as vectors: bytes that are written one by one
 * would be waited for by the vectors that read them. */

#if TINYI_BLK_ANY_BOOKS
/* 32 bits are signs of 32 codes */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_leaf_negate)(v_i8 c, uint32_t signs)
{
    const __m256i pick = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0),
                  bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i minus = _mm256_cmpeq_epi8(vb_and(_mm256_shuffle_epi8(_mm256_set1_epi32((int)signs), pick), bit), bit);
    return vb_sub(vb_xor(c, minus), minus);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_leaf_put16)(unsigned char *to, __m128i k)
{
    _mm_storeu_si128((__m128i *)(void *)to, k);
}
/* four entries of eight codes; eight of four */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_leaf_entries8)(const unsigned char *t, const unsigned *i)
{
#define TINYI_LEAF_PAIR(a, b)                                                                            \
    _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(const void *)(t + 8 * (a)))), \
                                  (const __m64 *)(const void *)(t + 8 * (b))))
    return _mm256_inserti128_si256(_mm256_castsi128_si256(TINYI_LEAF_PAIR(i[0], i[1])), TINYI_LEAF_PAIR(i[2], i[3]), 1);
#undef TINYI_LEAF_PAIR
}
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_leaf_entries4)(const unsigned char *t, const unsigned *i)
{
#define TINYI_LEAF_WORD(a) ((int)tinyi_q_u32(t + 4 * (a)))
    return _mm256_set_epi32(TINYI_LEAF_WORD(i[7]), TINYI_LEAF_WORD(i[6]), TINYI_LEAF_WORD(i[5]), TINYI_LEAF_WORD(i[4]),
                            TINYI_LEAF_WORD(i[3]), TINYI_LEAF_WORD(i[2]), TINYI_LEAF_WORD(i[1]), TINYI_LEAF_WORD(i[0]));
#undef TINYI_LEAF_WORD
}
/* the eighth bit of bytes, so that an even number of bits is set */
TINYI_FORCE_INLINE __m256i TINY_FN(tinyi_leaf_even)(__m256i seven)
{
    __m256i p = vb_xor(seven, vb_and(_mm256_srli_epi16(seven, 4), vb_set(15)));
    p = vb_xor(p, _mm256_srli_epi16(p, 2));
    p = vb_xor(p, _mm256_srli_epi16(p, 1));
    return _mm256_or_si256(seven, _mm256_slli_epi16(vb_and(p, vb_set(1)), 7));
}
/* scales are 2 s + 1 */
TINYI_FORCE_INLINE __m128i TINY_FN(tinyi_leaf_odd)(__m128i s)
{
    return _mm_add_epi8(_mm_add_epi8(s, s), _mm_set1_epi8(1));
}
/* Eight words: four times 7 bits, each with the eighth that makes their number even, are the signs of 32 codes; the
 * upper four bits are the scale of two groups of 16. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_leaf_words)(tinyi_book *to, __m256i w)
{
    const __m256i seven = _mm256_or_si256(
        _mm256_or_si256(vb_and(w, _mm256_set1_epi32(0x7f)), _mm256_slli_epi32(vb_and(w, _mm256_set1_epi32(0x3f80)), 1)),
        _mm256_or_si256(_mm256_slli_epi32(vb_and(w, _mm256_set1_epi32(0x1fc000)), 2),
                        _mm256_slli_epi32(vb_and(w, _mm256_set1_epi32(0xfe00000)), 3)));
    __m256i s = _mm256_srli_epi32(w, 28);
    vb_store(to->sign, TINY_FN(tinyi_leaf_even)(seven));
    s = _mm256_or_si256(s, _mm256_slli_epi32(s, 8));
    TINY_FN(tinyi_leaf_put16)
    (to->k, TINY_FN(tinyi_leaf_odd)(_mm_packus_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1))));
}
/* 8 bytes with two scales of four bits each */
TINYI_FORCE_INLINE __m128i TINY_FN(tinyi_leaf_scales16)(const unsigned char *p)
{
    const __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)p), low = _mm_set1_epi8(15);
    return TINY_FN(tinyi_leaf_odd)(_mm_unpacklo_epi8(_mm_and_si128(x, low), _mm_and_si128(_mm_srli_epi16(x, 4), low)));
}
/* eight scales, each for two groups of 16 */
TINYI_FORCE_INLINE __m128i TINY_FN(tinyi_leaf_scales8)(uint64_t s)
{
    const __m128i x = _mm_set_epi64x(0, (long long)s);
    return TINY_FN(tinyi_leaf_odd)(_mm_unpacklo_epi8(x, x));
}

static void TINY_FN(tinyi_leaf_open_IQ2_XXS)(tinyi_book *to, const unsigned char *b, const unsigned char *t)
{
    /* eight times four bytes of entries and a word */
    const __m256i x = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(TINYI_BLK_256(b + 2)),
                                                            _mm256_castsi256_ps(TINYI_BLK_256(b + 34)), 0xdd));
    int g, l;
    TINY_FN(tinyi_leaf_words)(to, _mm256_permute4x64_epi64(x, 0xd8));
    TINYI_BLK_EACH(g, 8) {
        unsigned i[4];
        TINYI_BLK_EACH(l, 4) i[l] = b[2 + 8 * g + l];
        vb_store(to->code + 32 * g,
                 TINY_FN(tinyi_leaf_negate)(TINY_FN(tinyi_leaf_entries8)(t, i), tinyi_q_u32(to->sign + 4 * g)));
    }
    to->d = tinyi_q_half(b) * 0.125f;
}
static void TINY_FN(tinyi_leaf_open_IQ2_XS)(tinyi_book *to, const unsigned char *b, const unsigned char *t)
{
    const __m256i x = TINYI_BLK_256(b + 2), z = TINYI_BLK_256(b + 34);
    int g, l;
    vb_store(to->sign,
             TINY_FN(tinyi_leaf_even)(_mm256_permute4x64_epi64(
                 _mm256_packus_epi16(_mm256_srli_epi16(x, 9), _mm256_srli_epi16(z, 9)), 0xd8)));
    TINYI_BLK_EACH(g, 8) {
        unsigned i[4];
        TINYI_BLK_EACH(l, 4) i[l] = tinyi_q_u16(b + 2 + 8 * g + 2 * l) & 511;
        vb_store(to->code + 32 * g,
                 TINY_FN(tinyi_leaf_negate)(TINY_FN(tinyi_leaf_entries8)(t, i), tinyi_q_u32(to->sign + 4 * g)));
    }
    TINY_FN(tinyi_leaf_put16)(to->k, TINY_FN(tinyi_leaf_scales16)(b + 66));
    to->d = tinyi_q_half(b) * 0.125f;
}
static void TINY_FN(tinyi_leaf_open_IQ2_S)(tinyi_book *to, const unsigned char *b,
                                           const unsigned char *t)
{
    int g, l;
    TINYI_BLK_EACH(g, 8) {
        const unsigned high = b[66 + g];
        unsigned i[4];
        TINYI_BLK_EACH(l, 4) i[l] = b[2 + 4 * g + l] | (high << (8 - 2 * l) & 0x300);
        vb_store(to->code + 32 * g,
                 TINY_FN(tinyi_leaf_negate)(TINY_FN(tinyi_leaf_entries8)(t, i), tinyi_q_u32(b + 34 + 4 * g)));
    }
    TINY_FN(tinyi_leaf_put16)(to->k, TINY_FN(tinyi_leaf_scales16)(b + 74));
    to->d = tinyi_q_half(b) * 0.125f;
}
static void TINY_FN(tinyi_leaf_open_IQ3_XXS)(tinyi_book *to, const unsigned char *b, const unsigned char *t)
{
    int g, l;
    TINY_FN(tinyi_leaf_words)(to, TINYI_BLK_256(b + 66));
    TINYI_BLK_EACH(g, 8) {
        unsigned i[8];
        TINYI_BLK_EACH(l, 8) i[l] = b[2 + 8 * g + l];
        vb_store(to->code + 32 * g,
                 TINY_FN(tinyi_leaf_negate)(TINY_FN(tinyi_leaf_entries4)(t, i), tinyi_q_u32(to->sign + 4 * g)));
    }
    to->d = tinyi_q_half(b) * 0.25f;
}
static void TINY_FN(tinyi_leaf_open_IQ3_S)(tinyi_book *to, const unsigned char *b,
                                           const unsigned char *t)
{
    const uint32_t four = tinyi_q_u32(b + 106);
    const uint64_t s = (four & 0xf0f0f0fu) | (uint64_t)(four >> 4 & 0xf0f0f0fu) << 32;
    __m128i x = _mm_set_epi64x(0, (long long)s);
    int g, l;
    TINYI_BLK_EACH(g, 8) {
        const unsigned high = b[66 + g];
        unsigned i[8];
        TINYI_BLK_EACH(l, 8) i[l] = b[2 + 8 * g + l] | (high << (8 - l) & 0x100);
        vb_store(to->code + 32 * g,
                 TINY_FN(tinyi_leaf_negate)(TINY_FN(tinyi_leaf_entries4)(t, i), tinyi_q_u32(b + 74 + 4 * g)));
    }
    /* low and high halves of the bytes alternate, each scale twice */
    x = _mm_shuffle_epi8(x, _mm_set_epi8(7, 7, 3, 3, 6, 6, 2, 2, 5, 5, 1, 1, 4, 4, 0, 0));
    TINY_FN(tinyi_leaf_put16)(to->k, TINY_FN(tinyi_leaf_odd)(x));
    to->d = tinyi_q_half(b);
}
static void TINY_FN(tinyi_leaf_open_IQ1_S)(tinyi_book *to, const unsigned char *b,
                                           const unsigned char *t)
{
    uint64_t s = 0;
    int g, l;
    TINYI_BLK_EACH(g, 8) {
        const unsigned word = (unsigned)tinyi_q_u16(b + 34 + 2 * g);
        unsigned i[4];
        TINYI_BLK_EACH(l, 4) i[l] = b[2 + 4 * g + l] | (word >> 3 * l & 7) << 8;
        s |= (uint64_t)(word >> 12 & 7) << 8 * g;
        vb_store(to->code + 32 * g, vb_add(TINY_FN(tinyi_leaf_entries8)(t, i), vb_set((int8_t)(word >> 15 ? -1 : 1))));
    }
    TINY_FN(tinyi_leaf_put16)(to->k, TINY_FN(tinyi_leaf_scales8)(s));
    to->d = tinyi_q_half(b) * 0.125f;
}
static void TINY_FN(tinyi_leaf_open_IQ1_M)(tinyi_book *to, const unsigned char *b,
                                           const unsigned char *t)
{
    unsigned char k[16];
    int g, l;
    TINYI_BLK_EACH(g, 8) {
        unsigned i[4];
        long long more[4];
        TINYI_BLK_EACH(l, 4) {
            const unsigned high = (unsigned)b[32 + 2 * g + l / 2] >> 4 * (l % 2);
            i[l] = b[4 * g + l] | (high & 7) << 8;
            more[l] = high & 8 ? -1 : 0x0101010101010101;
        }
        vb_store(to->code + 32 * g, vb_add(TINY_FN(tinyi_leaf_entries8)(t, i),
                                           _mm256_set_epi64x(more[3], more[2], more[1], more[0])));
    }
    for (g = 0; g < 16; g++) k[g] = (unsigned char)(tinyi_q_u16(b + 48 + g / 4 * 2) >> g % 4 * 3 & 7);
    TINY_FN(tinyi_leaf_put16)(to->k, TINY_FN(tinyi_leaf_odd)(TINYI_BLK_128(k)));
    to->d = tinyi_f16_to_f32((uint16_t)(b[49] >> 4 | (b[51] & 0xf0) | (b[53] & 0xf0) << 4 | (b[55] & 0xf0) << 8)) *
            0.125f;
}

/* Codes, each more than meant by what comes back: 128 (VNNI), or so little that they are 0 to 126, or 0 to 31; and
 * their scales in FINE order. */
TINYI_FORCE_INLINE float TINY_FN(tinyi_tree_get_book)(v_i8 *c, v_f32 *s, const unsigned char *b,
                                                      const unsigned char *table, tinyi_book_open open, int traits)
{
    const int offset = V_VNNI ? 128 : traits / TINYI_BLK_FITS == 1 ? 64 : 16;
    tinyi_book page;
    int i;
    open(&page, b, table);
    TINYI_BLK_EACH(i, 8) c[i] = vb_add(vb_load(page.code + 32 * i), vb_set((int8_t)offset));
    TINY_FN(tinyi_tree_times)(s, v_set(page.d), TINY_FN(tinyi_tree_order)(TINYI_BLK_128(page.k)));
    return (float)-offset;
}
static void TINY_FN(tinyi_tree_book)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w, ptrdiff_t w_row,
                                     size_t n_row, const tinyi_q8 *x, size_t k, size_t n,
                                     tinyi_book_open open, size_t bytes, int blk)
{
    const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / 256 * bytes, 2048);
    const float shared = V_VNNI ? -128.0f : 0.0f;
    unsigned char table[TINYI_BOOK_TABLE];
    tinyi_book_table(table, blk);
    for (; n_row; n_row--, w += w_row, y += y_row) {
        const unsigned char *b = w;
        v_f32 acc[TINYI_BLK_FEW][2];
        size_t at, r;
        for (r = 0; r < n; r++) acc[r][0] = acc[r][1] = v_zero();
        for (at = 0; at < k; at += 256, b += bytes) {
            tinyi_book page;
            v_i8 c[8];
            v_f32 s[2];
            int i;
            for (i = 0; i < (int)bytes; i += 64) TINYI_BLK_AHEAD(b + soon + i);
            open(&page, b, table);
            TINYI_BLK_EACH(i, 8) {
                c[i] = vb_load(page.code + 32 * i);
                if (V_VNNI) c[i] = vb_xor(c[i], vb_set(-128));
            }
            TINY_FN(tinyi_tree_times)(s, v_set(page.d), TINY_FN(tinyi_tree_order)(TINYI_BLK_128(page.k)));
            for (r = 0; r < n; r++) {
                const size_t p = r * 256 * x->blocks + at;
                TINY_FN(tinyi_tree_step)
                (acc[r], c, s, s, shared, x->code + p, x->d + p / 16, x->sum + p / 16,
                 2 * TINYI_BLK_FITS | TINYI_BLK_HAS_SIGN | TINYI_BLK_FINE, 0);
            }
        }
        for (r = 0; r < n; r++) y[(ptrdiff_t)r * y_x] = v_sum(v_add(acc[r][0], acc[r][1]));
    }
}
#define TINYI_BLK_WITH_BOOK(name, values, bytes, traits)                                                             \
    static void TINY_FN(tinyi_tree_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,   \
                                               size_t n_row, const tinyi_q8 *x, size_t k)                            \
    {                                                                                                                \
        TINY_FN(tinyi_tree_book)                                                                                     \
        (y, y_row, 0, w, w_row, n_row, x, k, 1, TINY_FN(tinyi_leaf_open_##name), bytes, TINYI_BLK_##name);           \
    }                                                                                                                \
    static void TINY_FN(tinyi_tree_few_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,     \
                                               ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k, size_t n) \
    {                                                                                                                \
        TINY_FN(tinyi_tree_book)                                                                                     \
        (y, y_row, y_x, w, w_row, n_row, x, k, n, TINY_FN(tinyi_leaf_open_##name), bytes, TINYI_BLK_##name);         \
    }
TINYI_BLKS_BOOKS(TINYI_BLK_WITH_BOOK)
#undef TINYI_BLK_WITH_BOOK

#if V_HALF                                  /* an expanded row, for the tiles of AMX */
static void TINY_FN(tinyi_tree_book_expand)(unsigned char *code, float *s16, float *m16, const unsigned char *w,
                                            size_t k, ptrdiff_t ahead, const unsigned char *table,
                                            tinyi_book_open open, size_t bytes, int traits)
{
    for (; k; k -= 256, w += bytes, code += 256, s16 += 16, m16 += 16) {
        v_i8 c[8];
        v_f32 s[2];
        float shared;
        int i;
        for (i = 0; i < (int)bytes; i += 64) TINYI_BLK_AHEAD2(w + ahead + i);
        shared = TINY_FN(tinyi_tree_get_book)(c, s, w, table, open, traits);
        TINYI_BLK_EACH(i, 8) vb_store(code + 32 * i, c[i]);
        TINYI_BLK_EACH(i, 2) {
            v_store(s16 + 8 * i, s[i]);
            v_store(m16 + 8 * i, v_mul(s[i], v_set(shared)));
        }
    }
}
#define TINYI_BLK_EXPAND_BOOK(name, values, bytes, traits)                                                             \
    static void TINY_FN(tinyi_tree_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                  size_t k, ptrdiff_t ahead, const unsigned char *table)               \
    {                                                                                                                  \
        TINY_FN(tinyi_tree_book_expand)                                                                                \
        (code, s16, m16, w, k, ahead, table, TINY_FN(tinyi_leaf_open_##name), bytes, traits);                          \
    }
TINYI_BLKS_BOOKS(TINYI_BLK_EXPAND_BOOK)
#undef TINYI_BLK_EXPAND_BOOK
#endif
#endif
