/* src/llm/block/bfloat.simd.h - products of bfloat16 by the vectors of AVX-512, on processors that have them
 *
 * One instruction multiplies 16 pairs of numbers and adds them to 16 sums. Eight rows of weights by two panels of
 * activations are 16 sums, so that ten loads come with 16 products and none waits for the one before. The layouts are
 * those of the tiles of AMX (tile.simd.h). */

#if TINYI_HAVE_BF16
#define TINYI_BFLOAT_ROWS 8
TINYI_ATTR_AVX512BF16
static void TINY_FN(tinyi_blk_bfloats)(float *c, ptrdiff_t c_row, const unsigned char *a, ptrdiff_t a_row,
                                       const unsigned char *b, ptrdiff_t b_panel, size_t k, int add, int low, int wide,
                                       const unsigned char *ahead)
{
    int r, q;
    size_t i;
    (void)ahead;                            /* panels of b follow each other: the processor sees that */
    for (r = 0; r < (low ? 32 : 16); r += TINYI_BFLOAT_ROWS) {
        const unsigned char *to = b;
        __m512 s[TINYI_BFLOAT_ROWS], t[TINYI_BFLOAT_ROWS];
        TINYI_UNROLL
        for (q = 0; q < TINYI_BFLOAT_ROWS; q++) {
            s[q] = add ? _mm512_loadu_ps(c + q * c_row) : _mm512_setzero_ps();
            t[q] = add && wide ? _mm512_loadu_ps(c + q * c_row + 16) : _mm512_setzero_ps();
        }
        if (wide)
            for (i = 0; i < k; i += 2, to += 64) {
                const __m512bh x = (__m512bh)_mm512_loadu_si512((const void *)to),
                               y = (__m512bh)_mm512_loadu_si512((const void *)(to + b_panel));
                TINYI_UNROLL
                for (q = 0; q < TINYI_BFLOAT_ROWS; q++) {
                    int32_t pair;
                    memcpy(&pair, a + q * a_row + 2 * i, 4);
                    s[q] = _mm512_dpbf16_ps(s[q], (__m512bh)_mm512_set1_epi32(pair), x);
                    t[q] = _mm512_dpbf16_ps(t[q], (__m512bh)_mm512_set1_epi32(pair), y);
                }
            }
        else
            for (i = 0; i < k; i += 2, to += 64) {
                const __m512bh x = (__m512bh)_mm512_loadu_si512((const void *)to);
                TINYI_UNROLL
                for (q = 0; q < TINYI_BFLOAT_ROWS; q++) {
                    int32_t pair;
                    memcpy(&pair, a + q * a_row + 2 * i, 4);
                    s[q] = _mm512_dpbf16_ps(s[q], (__m512bh)_mm512_set1_epi32(pair), x);
                }
            }
        TINYI_UNROLL
        for (q = 0; q < TINYI_BFLOAT_ROWS; q++) {
            _mm512_storeu_ps(c + q * c_row, s[q]);
            if (wide) _mm512_storeu_ps(c + q * c_row + 16, t[q]);
        }
        c += TINYI_BFLOAT_ROWS * c_row;
        a += TINYI_BFLOAT_ROWS * a_row;
    }
}

static void TINY_FN(tinyi_blk_to_bfloat)(uint16_t *to, const float *x, size_t n)
{
    for (; n >= V_LANES; n -= V_LANES, x += V_LANES, to += V_LANES) v_store_bf16(to, v_load(x));
    for (; n; n--) *to++ = tinyi_f32_to_bf16(*x++);
}

static void TINY_FN(tinyi_blk_nothing)(void) {}

static const tinyi_blk_tiles TINY_FN(tinyi_blk_bfloat_table) = {
    TINY_FN(tinyi_blk_nothing), TINY_FN(tinyi_blk_nothing), TINY_FN(tinyi_blk_bfloats), NULL,
    TINY_FN(tinyi_blk_to_bfloat), NULL, NULL
};
TINYI_TABLE(tinyi_blk_tiles, tinyi_blk_bfloat, TINY_FN(tinyi_blk_bfloat_table))
#endif
