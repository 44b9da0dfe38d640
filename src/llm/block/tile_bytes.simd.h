/* src/llm/block/tile_bytes.simd.h - products of bytes on the tiles of AMX
 *
 * Both sides lie as across.simd.h has them. Four numbers of each of sixteen rows of weights are a line of a tile, and
 * the codes of sixteen rows of activations, TINYI_BLK_PANEL bytes apart, are the lines of another: nothing is moved for
 * tiles, and across.simd.h can multiply rows of activations beyond whole sixteens. TDPBSUD adds up 16 x 16 sums of 32
 * products, exactly. They are stored and become floats in the order of across.simd.h, so that results have the same
 * bits. FINE formats, of half as many products for a scale, do not gain (measured) and stay there.
 *
 * Two tiles of sums are used in turn. A tile is stored while the sums before it are scaled, since a vector cannot be
 * loaded from it before it has reached the first-level cache; both have 2 KB together, since a load waits for a store
 * to the same place in another page.
 *
 * The file that includes this one defines TINYI_TILE_CONFIG(p), TINYI_TILE_ZERO(t), TINYI_TILE_LOAD(t, p, step),
 * TINYI_TILE_DOT(c, a, b) and TINYI_TILE_STORE(t, p, step): tile.simd.h as instructions, a test in plain C. */

#define TINYI_TILE_EACH(i, n) TINYI_UNROLL for (i = 0; i < (n); i++)
#if TINYI_GCC || TINYI_CLANG
#define TINYI_TILE_LINES __attribute__((aligned(64)))
#else
#define TINYI_TILE_LINES
#endif

static void TINY_FN(tinyi_tile_begin)(void)
{
    /* tiles 0 and 1 are sums, 2 and 3 activations, 4 and 5 weights: bytes of a line from 16 on, lines from 48 on */
    static const unsigned char config[64] = {
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 32, 0, 32, 0, 64, 0, 64, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    };
    TINYI_TILE_CONFIG(config);
}

/* the sums of group g of a block, 32 numbers, in tile c */
#define TINYI_TILE_SUMS(c, a, b, g)                             \
    do {                                                        \
        TINYI_TILE_LOAD(a, x + 32 * (g), TINYI_BLK_PANEL);      \
        TINYI_TILE_ZERO(c);                                     \
        TINYI_TILE_LOAD(b, w + 512 * (g), 64);                  \
        TINYI_TILE_DOT(c, a, b);                                \
    } while (0)
/* acc += s d sum + m (d sum of codes) of a group: s and d of the first rows of both */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tile_scale)(__m512 *acc, const int32_t *sum, const float *s, const float *d)
{
    const __m512 scale = _mm512_loadu_ps(s), m = _mm512_loadu_ps(s + 16 * 16);
    int r;
    TINYI_TILE_EACH(r, 16) {
        const __m512 codes = _mm512_cvtepi32_ps(_mm512_loadu_si512((const void *)(sum + 16 * r)));
        acc[r] = _mm512_fmadd_ps(m, _mm512_set1_ps(d[r * (TINYI_BLK_PANEL / 4) + 8]), acc[r]);
        acc[r] = _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_set1_ps(d[r * (TINYI_BLK_PANEL / 4)])), codes, acc[r]);
    }
}
/* 256 numbers of sixteen rows of weights and sixteen of activations. Meanwhile `lines` lines from `soon` on are asked
 * from memory. */
static void TINY_FN(tinyi_tile_block)(float *y, const unsigned char *w, const unsigned char *x,
                                      const unsigned char *soon, size_t lines)
{
    const float *s = (const float *)(const void *)(w + 256 * 16), *d = (const float *)(const void *)(x + 256);
    TINYI_TILE_LINES int32_t sum[2][256];               /* a line of a tile is one of the cache */
    __m512 acc[16];
    size_t asked = 0;
    int g, r;
    TINYI_TILE_EACH(r, 16) acc[r] = _mm512_loadu_ps(y + r * TINYI_BLK_LOW);
    TINYI_TILE_SUMS(0, 2, 4, 0);
    TINYI_TILE_SUMS(1, 3, 5, 1);
    TINYI_TILE_STORE(0, sum[0], 64);
    for (g = 0; g < 8; g += 2) {
        if (g < 6) TINYI_TILE_SUMS(0, 2, 4, g + 2);
        TINYI_TILE_STORE(1, sum[1], 64);
        TINY_FN(tinyi_tile_scale)(acc, sum[0], s + 16 * g, d + g);
        if (g < 6) {
            TINYI_TILE_SUMS(1, 3, 5, g + 3);
            TINYI_TILE_STORE(0, sum[0], 64);
        }
        TINY_FN(tinyi_tile_scale)(acc, sum[1], s + 16 * (g + 1), d + g + 1);
        for (; asked < lines * (size_t)(g + 2) / 8; asked++) TINYI_BLK_AHEAD2(soon + 64 * asked);
    }
    TINYI_TILE_EACH(r, 16) _mm512_storeu_ps(y + r * TINYI_BLK_LOW, acc[r]);
}
/* as `meet` of tinyi_blk_kernels, for formats that are not FINE; n is a multiple of 16 */
static void TINY_FN(tinyi_tile_meet)(float *y, const unsigned char *code, size_t rows, const unsigned char *x, size_t n,
                                     const unsigned char *soon, size_t lines)
{
    const size_t vectors = (rows + 15) / 16, each = lines / (n / 16 * vectors) + 1;
    size_t v;
    for (; n; n -= 16, x += 16 * TINYI_BLK_PANEL, y += 16 * TINYI_BLK_LOW)
        for (v = 0; v < vectors; v++) {
            const size_t ask = TINYI_MIN(lines, each);
            TINY_FN(tinyi_tile_block)(y + 16 * v, code + v * 16 * TINYI_BLK_PANEL, x, soon, ask);
            soon += 64 * ask;
            lines -= ask;
        }
}

#undef TINYI_TILE_EACH
#undef TINYI_TILE_SUMS
#undef TINYI_TILE_LINES
