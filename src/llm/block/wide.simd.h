/* src/llm/block/wide.simd.h - many rows of activations on AVX-512 (a part of tree.simd.h in vectors of half the width)
 *
 * Sixteen rows of activations lie side by side, four numbers of each in a vector of 64 bytes, and four numbers of a row
 * of weights are spread over a vector: a lane is a row of activations. Four rows of weights meet 32 rows of
 * activations. Their sums of a group are eight registers, and so are the floats that these are added to for all groups
 * of a block. */

#define TINYI_WIDE 16
#define TINYI_WIDE_PANEL (2 * TINYI_BLK_PANEL)

/* For each 256 numbers and each 32 of them, eight vectors of four numbers of each row, then d, sums of 32, sums of the
 * first 16 and of the other 16, times d. block, group: bytes from one to the next. */
static void TINY_FN(tinyi_wide_turn)(unsigned char *to, const tinyi_q8 *x, size_t n, ptrdiff_t block, ptrdiff_t group)
{
    size_t b, r;
    int g, i;
    for (b = 0; b < x->blocks; b++, to += block)
        for (g = 0; g < 8; g++) {
            unsigned char *p = to + g * group;
            float *f = (float *)(void *)(p + 32 * TINYI_WIDE);
            if (n < TINYI_WIDE) memset(p, 0, TINYI_WIDE_PANEL);
            for (r = 0; r < n; r++) {
                const size_t at = r * x->blocks + b;
                const float *halves = x->sum + 16 * at + g / 4 * 8 + g % 4, d = x->d[16 * at + (size_t)g];
                for (i = 0; i < 8; i++) memcpy(p + 4 * TINYI_WIDE * i + 4 * r, x->code + 256 * at + 32 * g + 4 * i, 4);
                f[r] = d;
                f[TINYI_WIDE + r] = d * x->d[16 * at + 8 + (size_t)g];
                f[2 * TINYI_WIDE + r] = d * halves[0];
                f[3 * TINYI_WIDE + r] = d * halves[4];
            }
        }
}

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
            q[c] = _mm512_loadu_si512((const void *)(x + c * TINYI_WIDE_PANEL + 4 * TINYI_WIDE * i));
        TINYI_BLK_EACH(r, high) {
            const __m512i k = TINY_FN(tinyi_wide_four)(w + r * TINYI_BLK_PANEL + 4 * i);
            TINYI_BLK_EACH(c, wide) {
                __m512i *to = &sum[r * wide + c];
                *to = _mm512_dpbusd_epi32(i ? *to : _mm512_setzero_si512(), k, q[c]);
            }
        }
    }
    TINYI_BLK_EACH(c, wide) {
        each[c] = _mm512_loadu_ps(d + c * (TINYI_WIDE_PANEL / 4));
        more[c] = _mm512_loadu_ps(offset + c * (TINYI_WIDE_PANEL / 4));
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
            acc[r * wide + c] = _mm512_loadu_ps(y + TINYI_WIDE * r + c * TINYI_WIDE * TINYI_BLK_LOW);
    for (g = 0; g < 8; g++, x += x_group, code += 32) {
        const float *d = (const float *)(const void *)(x + 32 * TINYI_WIDE);
        if (fine) {
            const int at = g / 4 * 8 + g % 4;
            TINY_FN(tinyi_wide_piece)(acc, code, s + at, x, d, d + 2 * TINYI_WIDE, 4, high, wide);
            TINY_FN(tinyi_wide_piece)
            (acc, code + 16, s + at + 4, x + 16 * TINYI_WIDE, d, d + 3 * TINYI_WIDE, 4, high, wide);
        } else TINY_FN(tinyi_wide_piece)(acc, code, s + g, x, d, d + TINYI_WIDE, 8, high, wide);
    }
    TINYI_BLK_EACH(r, high)
        TINYI_BLK_EACH(c, wide)
            _mm512_storeu_ps(y + TINYI_WIDE * r + c * TINYI_WIDE * TINYI_BLK_LOW, acc[r * wide + c]);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_wide_tiles)(float *y, const unsigned char *code, size_t rows,
                                                  const unsigned char *x, ptrdiff_t x_group, size_t count, int fine)
{
    size_t r, j;
    for (j = 0; j < count; j += 2, x += 2 * TINYI_WIDE_PANEL, y += 2 * TINYI_WIDE * TINYI_BLK_LOW)
        for (r = 0; r < rows; r += 4) {
            float *to = y + TINYI_WIDE * r;
            if (j + 1 < count)
                TINY_FN(tinyi_wide_tile)(to, code + r * TINYI_BLK_PANEL, x, x_group, 4, 2, fine);
            else if (r % 8 == 0)
                TINY_FN(tinyi_wide_tile)(to, code + r * TINYI_BLK_PANEL, x, x_group, 8, 1, fine);
        }
}
static void TINY_FN(tinyi_wide_panel)(float *y, const unsigned char *code, int traits, size_t rows,
                                      const unsigned char *x, ptrdiff_t x_group, size_t count)
{
    if (traits & TINYI_BLK_FINE) TINY_FN(tinyi_wide_tiles)(y, code, rows, x, x_group, count, 1);
    else TINY_FN(tinyi_wide_tiles)(y, code, rows, x, x_group, count, 0);
}
