/* src/llm/block/across.simd.h - many rows of activations on AVX2 and AVX-512 (a part of tree.simd.h)
 *
 * A lane is a row of weights: eight of them, or sixteen with AVX-512, lie side by side, four numbers of each in a
 * vector, and four numbers of a row of activations are spread over a vector by their load. Rows of activations go in
 * tiles of two to six. Nothing is empty in a vector, whatever their number: a row more costs what
 * the rows before it cost, and each block of weights is unpacked once for all of them. (With rows of activations in the
 * lanes a batch of 17 takes as long as one of 24 or 32.)
 *
 * Rows are expanded, and then laid side by side by 4 x 4 transpositions within 16 bytes; repacked weights lie like that
 * already.
 *
 *   weights      for each 256 numbers 64 vectors of codes, 16 of s, 16 of m; groups of 16 in FINE order
 *   activations  for each 256 numbers of a row 256 codes, 8 scales d, 8 times d sum of 32 codes, 16 times d sum of 16
 *
 * y += s d sum + m (d sum of codes) for each group of 32, or of 16 where they are fine. The tiles of AMX do the same in
 * the same order (tile_bytes.simd.h), so that both targets give the same bits. */

#if V_HALF
#define TINYI_ACROSS_LANES 16
/* of n rows of activations: up to six in one */
#define TINYI_ACROSS_TILES(n) (((n) + 5) / 6)
#define TINYI_ACROSS_I __m512i
#define TINYI_ACROSS_F __m512
#define TINYI_ACROSS_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define TINYI_ACROSS_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#define TINYI_ACROSS_LOAD_F(p) _mm512_loadu_ps(p)
#define TINYI_ACROSS_STORE_F(p, v) _mm512_storeu_ps(p, v)
#define TINYI_ACROSS_SET(x) _mm512_set1_ps(x)
#define TINYI_ACROSS_MUL(a, b) _mm512_mul_ps(a, b)
#define TINYI_ACROSS_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define TINYI_ACROSS_FLOAT(v) _mm512_cvtepi32_ps(v)
#define TINYI_ACROSS_UNPACK(kind, bits, a, b) _mm512_unpack##kind##_epi##bits(a, b)
#else
#define TINYI_ACROSS_LANES 8
/* of n rows of activations: fours, fives where one row is left or two, threes of six */
#define TINYI_ACROSS_TILES(n) TINYI_MAX(((n) + 1) / 4, ((n) + 4) / 5)
#define TINYI_ACROSS_I v_i32
#define TINYI_ACROSS_F v_f32
#define TINYI_ACROSS_LOAD(p) TINYI_BLK_256(p)
#define TINYI_ACROSS_STORE(p, v) vb_store(p, v)
#define TINYI_ACROSS_LOAD_F(p) v_load(p)
#define TINYI_ACROSS_STORE_F(p, v) v_store(p, v)
#define TINYI_ACROSS_SET(x) v_set(x)
#define TINYI_ACROSS_MUL(a, b) v_mul(a, b)
#define TINYI_ACROSS_FMA(a, b, c) v_fma(a, b, c)
#define TINYI_ACROSS_FLOAT(v) v_from_i32(v)
#define TINYI_ACROSS_UNPACK(kind, bits, a, b) _mm256_unpack##kind##_epi##bits(a, b)
#endif
#define TINYI_ACROSS_STEP (4 * TINYI_ACROSS_LANES)                     /* bytes of a vector */
#define TINYI_ACROSS_PANEL (TINYI_BLK_PANEL * TINYI_ACROSS_LANES)     /* 256 numbers of as many rows as lanes */

/* ---- weights */

/* 16 bytes of each fourth row, from p on */
TINYI_FORCE_INLINE TINYI_ACROSS_I TINY_FN(tinyi_across_gather)(const unsigned char *p)
{
#if V_HALF
    __m512i v = _mm512_castsi128_si512(TINYI_BLK_128(p));
    v = _mm512_inserti32x4(v, TINYI_BLK_128(p + 4 * TINYI_BLK_PANEL), 1);
    v = _mm512_inserti32x4(v, TINYI_BLK_128(p + 8 * TINYI_BLK_PANEL), 2);
    return _mm512_inserti32x4(v, TINYI_BLK_128(p + 12 * TINYI_BLK_PANEL), 3);
#else
    return TINY_FN(tinyi_tree_halves)(p, 4 * TINYI_BLK_PANEL);
#endif
}
/* As many expanded rows as lanes, TINYI_BLK_PANEL bytes apart, side by side. paired: codes are vectors of 32 bytes, 16
 * numbers of group g of 32 next to those of group g + 4 */
static void TINY_FN(tinyi_across_turn)(unsigned char *to, const unsigned char *code, int paired, int fine)
{
    int i;
    for (i = 0; i < TINYI_BLK_PANEL / 16; i++, to += 4 * TINYI_ACROSS_STEP) {
        const unsigned char *from = code + (paired && i < 16 ? i % 8 * 32 + i / 8 * 16 : 16 * i);
        TINYI_ACROSS_I a, b, c, d, ab, cd;
        if (i % 4 > 1 && i >= 16 && !fine) continue;   /* half of the scales */
        a = TINY_FN(tinyi_across_gather)(from);
        b = TINY_FN(tinyi_across_gather)(from + TINYI_BLK_PANEL);
        c = TINY_FN(tinyi_across_gather)(from + 2 * TINYI_BLK_PANEL);
        d = TINY_FN(tinyi_across_gather)(from + 3 * TINYI_BLK_PANEL);
        ab = TINYI_ACROSS_UNPACK(lo, 32, a, b);
        cd = TINYI_ACROSS_UNPACK(lo, 32, c, d);
        TINYI_ACROSS_STORE(to, TINYI_ACROSS_UNPACK(lo, 64, ab, cd));
        TINYI_ACROSS_STORE(to + TINYI_ACROSS_STEP, TINYI_ACROSS_UNPACK(hi, 64, ab, cd));
        ab = TINYI_ACROSS_UNPACK(hi, 32, a, b);
        cd = TINYI_ACROSS_UNPACK(hi, 32, c, d);
        TINYI_ACROSS_STORE(to + 2 * TINYI_ACROSS_STEP, TINYI_ACROSS_UNPACK(lo, 64, ab, cd));
        TINYI_ACROSS_STORE(to + 3 * TINYI_ACROSS_STEP, TINYI_ACROSS_UNPACK(hi, 64, ab, cd));
    }
}
#define TINYI_ACROSS_LAY(name, values, bytes, traits)                                                                 \
    static void TINY_FN(tinyi_across_lay_##name)(unsigned char *to, unsigned char *code, const unsigned char *w,      \
                                                 ptrdiff_t w_row, size_t rows, size_t n, ptrdiff_t ahead,             \
                                                 const unsigned char *table)                                          \
    {                                                                                                                 \
        unsigned char last[256 / (values) * (bytes)], *at = code;                                                     \
        (void)table;                                                                                                  \
        for (; rows; rows--, w += w_row, at += TINYI_BLK_PANEL) {                                                     \
            float *scale = (float *)(void *)(at + 256), shared;                                                       \
            const unsigned char *b = w;                                                                               \
            v_i8 c[8];                                                                                                \
            v_f32 s[2], m[2];                                                                                         \
            int i;                                                                                                    \
            if (n < 256) b = tinyi_blk_last(last, sizeof last, w, n / (values) * (bytes));                            \
            else if (ahead)                                                                                           \
                for (i = 0; i < 256 / (values) * (bytes); i += 64) TINYI_BLK_AHEAD2(w + ahead + i);                   \
            shared = TINY_FN(tinyi_tree_get_##name)(c, s, m, b);                                                      \
            TINYI_BLK_EACH(i, 8) vb_store(at + 32 * i, c[i]);                                                         \
            TINYI_BLK_EACH(i, 2)                                                                                      \
            {                                                                                                         \
                if (i && !((traits)&TINYI_BLK_FINE)) break;                                                           \
                v_store(scale + 8 * i, s[i]);                                                                         \
                v_store(scale + 16 + 8 * i, (traits)&TINYI_BLK_MINIMA ? m[i] : v_mul(s[i], v_set(shared)));           \
            }                                                                                                         \
        }                                                                                                             \
        if (at < code + TINYI_ACROSS_PANEL) memset(at, 0, (size_t)(code + TINYI_ACROSS_PANEL - at));                  \
        TINY_FN(tinyi_across_turn)                                                                                    \
        (to, code, TINYI_TREE_TRAITS(name, traits) & TINYI_BLK_PAIRED, (traits)&TINYI_BLK_FINE);                      \
    }
TINYI_BLKS_PLAIN(TINYI_ACROSS_LAY)
#undef TINYI_ACROSS_LAY

#if TINYI_BLK_ANY_BOOKS
static void TINY_FN(tinyi_across_lay_book)(unsigned char *to, unsigned char *code, const unsigned char *w,
                                           ptrdiff_t w_row, size_t rows, ptrdiff_t ahead, const unsigned char *table,
                                           tinyi_book_open open, size_t bytes, int traits)
{
    unsigned char *at = code;
    for (; rows; rows--, w += w_row, at += TINYI_BLK_PANEL) {
        float *scale = (float *)(void *)(at + 256), shared;
        v_i8 c[8];
        v_f32 s[2];
        int i;
        if (ahead) for (i = 0; i < (int)bytes; i += 64) TINYI_BLK_AHEAD2(w + ahead + i);
        shared = TINY_FN(tinyi_tree_get_book)(c, s, w, table, open, traits);
        TINYI_BLK_EACH(i, 8) vb_store(at + 32 * i, c[i]);
        TINYI_BLK_EACH(i, 2) {
            v_store(scale + 8 * i, s[i]);
            v_store(scale + 16 + 8 * i, v_mul(s[i], v_set(shared)));
        }
    }
    if (at < code + TINYI_ACROSS_PANEL) memset(at, 0, (size_t)(code + TINYI_ACROSS_PANEL - at));
    TINY_FN(tinyi_across_turn)(to, code, 0, 1);
}
#define TINYI_ACROSS_LAY_BOOK(name, values, bytes, traits)                                                        \
    static void TINY_FN(tinyi_across_lay_##name)(unsigned char *to, unsigned char *code, const unsigned char *w,  \
                                                 ptrdiff_t w_row, size_t rows, size_t n, ptrdiff_t ahead,         \
                                                 const unsigned char *table)                                      \
    {                                                                                                             \
        (void)n;                            /* always 256 */                                                      \
        TINY_FN(tinyi_across_lay_book)                                                                            \
        (to, code, w, w_row, rows, ahead, table, TINY_FN(tinyi_leaf_open_##name), bytes, traits);                 \
    }
TINYI_BLKS_BOOKS(TINYI_ACROSS_LAY_BOOK)
#undef TINYI_ACROSS_LAY_BOOK
#endif

/* ---- activations */

/* A row of k numbers: its blocks of 256 go `step` bytes apart. 0: one is infinite or not a number */
static int TINY_FN(tinyi_across_row)(unsigned char *to, ptrdiff_t step, const float *x, size_t k)
{
    int finite = 1;
    for (; k; k -= TINYI_MIN(k, 256), x += 256, to += step) {
        float *d = (float *)(void *)(to + 256), *sum = d + 16;
        v_f32 s;
        finite &= TINY_FN(tinyi_tree_quantize)((int8_t *)to, d, sum, x, TINYI_MIN(k, 256), 0);
        s = v_load(d);
        v_store(d + 8, v_mul(s, v_load(d + 8)));
        v_store(sum, v_mul(_mm256_permute2f128_ps(s, s, 0x00), v_load(sum)));
        v_store(sum + 8, v_mul(_mm256_permute2f128_ps(s, s, 0x11), v_load(sum + 8)));
    }
    return finite;
}

/* ---- products */

/* 32 numbers (`steps` 8) or 16 (4) of `high` vectors of rows of weights and `wide` rows of activations: to sum[wide *
 * high]. Products are added in 16 bits as long as they fit. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_across_sums)(TINYI_ACROSS_I *sum, const unsigned char *w, const unsigned char *x,
                                                   int steps, int high, int wide, int traits)
{
    const int fit = TINYI_TREE_FIT(traits) < steps ? TINYI_TREE_FIT(traits) : steps;
    TINYI_ACROSS_I part[12];
    int i, r, h;
    (void)fit;
    (void)part;
    TINYI_BLK_EACH(i, steps) {
        TINYI_ACROSS_I c[2];
        TINYI_BLK_EACH(h, high) c[h] = TINYI_ACROSS_LOAD(w + h * TINYI_ACROSS_PANEL + i * TINYI_ACROSS_STEP);
        TINYI_BLK_EACH(r, wide) {
#if V_HALF
            int32_t four;
            __m512i q;
            memcpy(&four, x + r * TINYI_BLK_PANEL + 4 * i, 4);
            q = _mm512_set1_epi32(four);
#else
            const v_i8 q = vb_set4(x + r * TINYI_BLK_PANEL + 4 * i);
#endif
            TINYI_BLK_EACH(h, high) {
                TINYI_ACROSS_I *to = &sum[r * high + h];
#if V_HALF
                *to = _mm512_dpbusd_epi32(i ? *to : _mm512_setzero_si512(), c[h], q);
#elif V_VNNI
                *to = v_dot_u8i8(i ? *to : vi_zero(), c[h], q);
#else
                v_i32 *of = &part[r * high + h];
                const v_i32 product = TINY_FN(tinyi_tree_product)(c[h], q, traits);
                *of = i % fit ? _mm256_add_epi16(*of, product) : product;
                if (i % fit == fit - 1)
                    *to = i >= fit ? vi_add(*to, _mm256_madd_epi16(*of, _mm256_set1_epi16(1)))
                                   : _mm256_madd_epi16(*of, _mm256_set1_epi16(1));
                TINYI_TREE_IN_ORDER(*of);
                if (i >= fit) { TINYI_TREE_IN_ORDER(*to); }
#endif
            }
        }
    }
}
/* the same with their scales, number `at` of them: acc += s d sum + m (d sum of codes). d, offset: of the first row */
TINYI_FORCE_INLINE void TINY_FN(tinyi_across_piece)(TINYI_ACROSS_F *acc, const unsigned char *w, const float *s,
                                                    const unsigned char *x, const float *d, const float *offset,
                                                    int steps, int high, int wide, int traits)
{
    TINYI_ACROSS_I sum[12];
    TINYI_ACROSS_F scale[2], low[2];
    int r, h;
    TINY_FN(tinyi_across_sums)(sum, w, x, steps, high, wide, traits);
    TINYI_BLK_EACH(h, high) {
        scale[h] = TINYI_ACROSS_LOAD_F(s + h * (TINYI_ACROSS_PANEL / 4));
        low[h] = scale[h];
        if (traits & TINYI_BLK_MINIMA) low[h] = TINYI_ACROSS_LOAD_F(s + h * (TINYI_ACROSS_PANEL / 4) +
                                                                    16 * TINYI_ACROSS_LANES);
    }
    TINYI_BLK_EACH(r, wide) {
        const TINYI_ACROSS_F each = TINYI_ACROSS_SET(d[r * (TINYI_BLK_PANEL / 4)]),
                             more = TINYI_ACROSS_SET(offset[r * (TINYI_BLK_PANEL / 4)]);
        TINYI_BLK_EACH(h, high) {
            TINYI_ACROSS_F *to = &acc[r * high + h], t = *to;
            if (traits & TINYI_BLK_MINIMA) t = TINYI_ACROSS_FMA(low[h], more, t);
            *to = TINYI_ACROSS_FMA(TINYI_ACROSS_MUL(scale[h], each), TINYI_ACROSS_FLOAT(sum[r * high + h]), t);
        }
    }
}
/* 256 numbers of `high` vectors of rows of weights and `wide` rows of activations. Meanwhile `lines` lines from `soon`
 * on are asked from memory, after each group as many as it takes: a core waits for no more than a dozen. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_across_tile)(float *y, const unsigned char *w, const unsigned char *x, int high,
                                                   int wide, int traits, const unsigned char *soon, size_t lines)
{
    const float *s = (const float *)(const void *)(w + 64 * TINYI_ACROSS_STEP),
                *d = (const float *)(const void *)(x + 256);
    TINYI_ACROSS_F acc[12];
    size_t asked = 0;
    int g, r, h;
    TINYI_BLK_EACH(r, wide)
        TINYI_BLK_EACH(h, high) acc[r * high + h] = TINYI_ACROSS_LOAD_F(y + r * TINYI_BLK_LOW + h * TINYI_ACROSS_LANES);
    for (g = 0; g < 8; g++, w += 8 * TINYI_ACROSS_STEP, x += 32) {
        if (traits & TINYI_BLK_FINE) {
            const int at = g / 4 * 8 + g % 4;
            TINY_FN(tinyi_across_piece)
            (acc, w, s + at * TINYI_ACROSS_LANES, x, d + g, d + 16 + at, 4, high, wide, traits);
            TINY_FN(tinyi_across_piece)
            (acc, w + 4 * TINYI_ACROSS_STEP, s + (at + 4) * TINYI_ACROSS_LANES, x + 16, d + g, d + 20 + at, 4, high,
             wide, traits);
        } else
            TINY_FN(tinyi_across_piece)
            (acc, w, s + g * TINYI_ACROSS_LANES, x, d + g, d + 8 + g, 8, high, wide, traits);
        for (; asked < lines * (size_t)(g + 1) / 8; asked++) TINYI_BLK_AHEAD2(soon + 64 * asked);
    }
    TINYI_BLK_EACH(r, wide)
        TINYI_BLK_EACH(h, high)
            TINYI_ACROSS_STORE_F(y + r * TINYI_BLK_LOW + h * TINYI_ACROSS_LANES, acc[r * high + h]);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_across_all)(float *y, const unsigned char *code, size_t vectors,
                                                  const unsigned char *x, size_t n, int high, int traits,
                                                  const unsigned char *soon, size_t lines)
{
    size_t tiles = TINYI_ACROSS_TILES(n), wide, v, ask, each;
    each = lines / (tiles * ((vectors + (size_t)high - 1) / (size_t)high)) + 1;
    for (; n; n -= wide, tiles--, x += wide * TINYI_BLK_PANEL, y += wide * TINYI_BLK_LOW) {
        wide = (n + tiles - 1) / tiles;
        for (v = 0; v < vectors; v += (size_t)high) {
            const unsigned char *w = code + v * TINYI_ACROSS_PANEL;
            float *to = y + v * TINYI_ACROSS_LANES;
            ask = TINYI_MIN(lines, each);
            if (wide == 4) TINY_FN(tinyi_across_tile)(to, w, x, high, 4, traits, soon, ask);
            else if (V_HALF && wide == 6) TINY_FN(tinyi_across_tile)(to, w, x, high, V_HALF ? 6 : 2, traits, soon, ask);
            else if (wide == 5) TINY_FN(tinyi_across_tile)(to, w, x, high, 5, traits, soon, ask);
            else if (wide == 3) TINY_FN(tinyi_across_tile)(to, w, x, high, 3, traits, soon, ask);
            else TINY_FN(tinyi_across_tile)(to, w, x, high, 2, traits, soon, ask);
            soon += 64 * ask;
            lines -= ask;
        }
    }
}
/* as many vectors as hold `rows` rows of weights, and one more where they go in twos, times n >= 2 rows of activations:
 * y[row of activations][TINYI_BLK_LOW] +=; `lines` lines from `soon` on are asked from memory */
static void TINY_FN(tinyi_across_meet)(float *y, const unsigned char *code, int traits, size_t rows,
                                       const unsigned char *x, size_t n, const unsigned char *soon, size_t lines)
{
    const size_t vectors = (rows + TINYI_ACROSS_LANES - 1) / TINYI_ACROSS_LANES;
    if (!V_VNNI && (traits & TINYI_BLK_FINE) && traits / TINYI_BLK_FITS == 1)
        TINY_FN(tinyi_across_all)(y, code, vectors, x, n, 1, TINYI_TREE_BOOKS, soon, lines);
    else if (traits & TINYI_BLK_FINE)
        TINY_FN(tinyi_across_all)(y, code, vectors, x, n, V_VNNI ? 2 : 1, TINYI_TREE_SIX, soon, lines);
    else if (!V_VNNI && (traits & TINYI_BLK_HAS_SIGN))
        TINY_FN(tinyi_across_all)(y, code, vectors, x, n, 1, TINYI_TREE_BYTES, soon, lines);
    else if (!V_VNNI && traits / TINYI_BLK_FITS < 8)
        TINY_FN(tinyi_across_all)(y, code, vectors, x, n, 1, TINYI_TREE_FIVE, soon, lines);
    else TINY_FN(tinyi_across_all)(y, code, vectors, x, n, 2, TINYI_TREE_SMALL, soon, lines);
}

#undef TINYI_ACROSS_TILES
#undef TINYI_ACROSS_I
#undef TINYI_ACROSS_F
#undef TINYI_ACROSS_LOAD
#undef TINYI_ACROSS_STORE
#undef TINYI_ACROSS_LOAD_F
#undef TINYI_ACROSS_STORE_F
#undef TINYI_ACROSS_SET
#undef TINYI_ACROSS_MUL
#undef TINYI_ACROSS_FMA
#undef TINYI_ACROSS_FLOAT
#undef TINYI_ACROSS_UNPACK
