/* src/llm/block/wide.simd.h - many rows of activations on AVX-512 (a part of tree.simd.h in vectors of half the width)
 *
 * Sixteen rows of activations lie side by side, four numbers of each in a vector of 64 bytes, and four numbers of a row
 * of weights are spread over a vector: a lane is a row of activations. Four rows of weights meet 32 rows of
 * activations. Their sums of a group are eight registers, and so are the floats that these are added to for all groups
 * of a block. Up to eight rows of activations beyond whole groups take vectors of 32 bytes. */

TINYI_FORCE_INLINE __m512i TINY_FN(tinyi_wide_four)(const unsigned char *p)
{
    int32_t k;
    memcpy(&k, p, 4);
    return _mm512_set1_epi32(k);
}
/* 32 numbers (`steps` 8) or 16 (4) of `high` rows of weights and `wide` times 16 rows of activations: acc += s d sum +
 * m (d sum of codes) */
TINYI_FORCE_INLINE void TINY_FN(tinyi_wide_piece)(__m512 *acc, const unsigned char *w, const float *s,
                                                  const unsigned char *x, const float *d, const float *offset,
                                                  int steps, int high, int wide)
{
    __m512i sum[8];
    __m512 each[2], more[2];
    int i, r, c;
    TINYI_BLK_EACH(i, steps) {
        __m512i q[2];
        TINYI_BLK_EACH(c, wide)
            q[c] = _mm512_loadu_si512((const void *)(x + c * TINYI_TREE_PANEL + 4 * TINYI_TREE_SIDE * i));
        TINYI_BLK_EACH(r, high) {
            const __m512i k = TINY_FN(tinyi_wide_four)(w + r * TINYI_BLK_PANEL + 4 * i);
            TINYI_BLK_EACH(c, wide) {
                __m512i *to = &sum[r * wide + c];
                *to = _mm512_dpbusd_epi32(i ? *to : _mm512_setzero_si512(), k, q[c]);
            }
        }
    }
    TINYI_BLK_EACH(c, wide) {
        each[c] = _mm512_loadu_ps(d + c * (TINYI_TREE_PANEL / 4));
        more[c] = _mm512_loadu_ps(offset + c * (TINYI_TREE_PANEL / 4));
    }
    TINYI_BLK_EACH(r, high) {
        const __m512 scale = _mm512_set1_ps(s[r * (TINYI_BLK_PANEL / 4)]),
                     low = _mm512_set1_ps(s[r * (TINYI_BLK_PANEL / 4) + 16]);
        TINYI_BLK_EACH(c, wide) {
            __m512 *to = &acc[r * wide + c];
            *to = _mm512_fmadd_ps(_mm512_mul_ps(scale, each[c]), _mm512_cvtepi32_ps(sum[r * wide + c]),
                                  _mm512_fmadd_ps(low, more[c], *to));
        }
    }
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_wide_tile)(float *y, const unsigned char *code, const unsigned char *x,
                                                 ptrdiff_t x_group, int high, int wide, int fine)
{
    const float *s = (const float *)(const void *)(code + 256);
    __m512 acc[8];
    int g, r, c;
    TINYI_BLK_EACH(r, high)
        TINYI_BLK_EACH(c, wide)
            acc[r * wide + c] = _mm512_loadu_ps(y + TINYI_TREE_SIDE * r + c * TINYI_TREE_SIDE * TINYI_BLK_LOW);
    for (g = 0; g < 8; g++, x += x_group, code += 32) {
        const float *d = (const float *)(const void *)(x + 32 * TINYI_TREE_SIDE);
        if (fine) {
            const int at = g / 4 * 8 + g % 4;
            TINY_FN(tinyi_wide_piece)(acc, code, s + at, x, d, d + 2 * TINYI_TREE_SIDE, 4, high, wide);
            TINY_FN(tinyi_wide_piece)
            (acc, code + 16, s + at + 4, x + 16 * TINYI_TREE_SIDE, d, d + 3 * TINYI_TREE_SIDE, 4, high, wide);
        } else TINY_FN(tinyi_wide_piece)(acc, code, s + g, x, d, d + TINYI_TREE_SIDE, 8, high, wide);
    }
    TINYI_BLK_EACH(r, high)
        TINYI_BLK_EACH(c, wide)
            _mm512_storeu_ps(y + TINYI_TREE_SIDE * r + c * TINYI_TREE_SIDE * TINYI_BLK_LOW, acc[r * wide + c]);
}
/* 16 times `count` rows, and up to 8 rows more, for which half a vector does */
TINYI_FORCE_INLINE void TINY_FN(tinyi_wide_tiles)(float *y, const unsigned char *code, size_t rows,
                                                  const unsigned char *x, ptrdiff_t x_group, size_t count, int more,
                                                  int traits)
{
    const int fine = (traits & TINYI_BLK_FINE) != 0;
    size_t r;
    int g;
    for (; count > 1; count -= 2, x += 2 * TINYI_TREE_PANEL, y += 2 * TINYI_TREE_SIDE * TINYI_BLK_LOW)
        for (r = 0; r < rows; r += 4)
            TINY_FN(tinyi_wide_tile)
            (y + TINYI_TREE_SIDE * r, code + r * TINYI_BLK_PANEL, x, x_group, 4, 2, fine);
    for (; count; count--, x += TINYI_TREE_PANEL, y += TINYI_TREE_SIDE * TINYI_BLK_LOW)
        for (r = 0; r < rows; r += 8)
            TINY_FN(tinyi_wide_tile)
            (y + TINYI_TREE_SIDE * r, code + r * TINYI_BLK_PANEL, x, x_group, 8, 1, fine);
    for (g = 0; more && g < 8; g++, x += x_group) TINY_FN(tinyi_tree_column)(y, code, rows, x, g, 8, 1, traits);
}
static void TINY_FN(tinyi_wide_panel)(float *y, const unsigned char *code, int traits, size_t rows,
                                      const unsigned char *x, ptrdiff_t x_group, size_t n)
{
    const int more = n % 16 >= 1 && n % 16 <= 8;
    const size_t count = more ? n / 16 : (n + 15) / 16;
    if (traits & TINYI_BLK_FINE)
        TINY_FN(tinyi_wide_tiles)(y, code, rows, x, x_group, count, more, TINYI_TREE_SIX);
    else TINY_FN(tinyi_wide_tiles)(y, code, rows, x, x_group, count, more, TINYI_TREE_SMALL);
}
