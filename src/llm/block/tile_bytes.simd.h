/* src/llm/block/tile_bytes.simd.h - products of bytes on the tiles of AMX
 *
 * Both sides lie as the pass avx512half leaves them for tiles (tree.simd.h): a tile of weights is 32 numbers of sixteen
 * expanded rows, unsigned; a tile of activations is a group of 32 numbers of sixteen rows, four of each in a line.
 * TDPBUSD adds up 16 x 16 sums of 32 products, exactly. They are stored and become floats in the order of
 * across.simd.h, so that results have the same bits. FINE formats have tiles of 16 numbers.
 *
 * Two tiles of sums are used in turn: one is computed while vectors scale the other.
 *
 * The file that includes this one defines TINYI_TILE_CONFIG(p), TINYI_TILE_ZERO(t), TINYI_TILE_LOAD(t, p, step),
 * TINYI_TILE_DOT(c, a, b) and TINYI_TILE_STORE(t, p, step): tile.simd.h as instructions, a test in plain C. */

#define TINYI_TILE_EACH(i, n) TINYI_UNROLL for (i = 0; i < (n); i++)
#define TINYI_TILE_VECTORS (16 / V_LANES)
#if TINYI_GCC || TINYI_CLANG
#define TINYI_TILE_LINES __attribute__((aligned(64)))
#else
#define TINYI_TILE_LINES
#endif

static void TINY_FN(tinyi_tile_begin)(int fine)
{
    /* tiles 0 and 1 are sums, 2 and 3 weights, 4 and 5 activations: bytes of a line from 16 on, lines from 48 on */
    static const unsigned char config[2][64] = {
        { 1,  0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 32, 0, 32, 0, 64, 0, 64, 0, 0, 0, 0, 0,
          0,  0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
        { 1,  0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 16, 0, 16, 0, 64, 0, 64, 0, 0, 0, 0, 0,
          0,  0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
    };
    TINYI_TILE_CONFIG(config[fine != 0]);
}

/* the sums of one group of sixteen rows of weights and sixteen of activations, with tiles t, a and b */
#define TINYI_TILE_SUMS(t, a, b, to, w, x)          \
    do {                                            \
        TINYI_TILE_ZERO(t);                         \
        TINYI_TILE_LOAD(a, w, TINYI_BLK_PANEL);     \
        TINYI_TILE_LOAD(b, x, 64);                  \
        TINYI_TILE_DOT(t, a, b);                    \
        TINYI_TILE_STORE(t, to, 64);                \
    } while (0)
/* acc += s d sum + m (d sum of codes) */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tile_scale)(v_f32 (*acc)[TINYI_TILE_VECTORS], const int32_t *sum, const float *s,
                                                  const float *d, const float *offset)
{
    int r, v;
    TINYI_TILE_EACH(r, 16) {
        const v_f32 scale = v_set(s[r * (TINYI_BLK_PANEL / 4)]), low = v_set(s[r * (TINYI_BLK_PANEL / 4) + 16]);
        TINYI_TILE_EACH(v, TINYI_TILE_VECTORS)
            acc[r][v] = v_fma(v_mul(scale, v_load(d + v * V_LANES)), v_from_i32(vi_load(sum + 16 * r + v * V_LANES)),
                              v_fma(low, v_load(offset + v * V_LANES), acc[r][v]));
    }
}
/* 256 numbers of sixteen rows of weights and sixteen of activations */
TINYI_FORCE_INLINE void TINY_FN(tinyi_tile_block)(float *y, const unsigned char *code, const unsigned char *x,
                                                  ptrdiff_t x_group, int fine)
{
    const float *s = (const float *)(const void *)(code + 256);
    v_f32 acc[16][TINYI_TILE_VECTORS];
    TINYI_TILE_LINES int32_t sum[2][256];   /* a line of a tile is one of the cache */
    int g, r, v;
    TINYI_TILE_EACH(r, 16)
        TINYI_TILE_EACH(v, TINYI_TILE_VECTORS) acc[r][v] = v_load(y + 16 * r + v * V_LANES);
    TINYI_TILE_SUMS(0, 2, 4, sum[0], code, x);
    for (g = 0; g < 8; g++, x += x_group, code += 32) {
        const float *d = (const float *)(const void *)(x + 512);
        const unsigned char *next = g < 7 ? x + x_group : x;     /* after the last one nothing is left to compute */
        if (fine) {
            const int at = g / 4 * 8 + g % 4;
            TINYI_TILE_SUMS(1, 3, 5, sum[1], code + 16, x + 256);
            TINY_FN(tinyi_tile_scale)(acc, sum[0], s + at, d, d + 32);
            if (g < 7) TINYI_TILE_SUMS(0, 2, 4, sum[0], code + 32, next);
            TINY_FN(tinyi_tile_scale)(acc, sum[1], s + at + 4, d, d + 48);
        } else if (g % 2 == 0) {
            TINYI_TILE_SUMS(1, 3, 5, sum[1], code + 32, next);
            TINY_FN(tinyi_tile_scale)(acc, sum[0], s + g, d, d + 16);
        } else {
            if (g < 7) TINYI_TILE_SUMS(0, 2, 4, sum[0], code + 32, next);
            TINY_FN(tinyi_tile_scale)(acc, sum[1], s + g, d, d + 16);
        }
    }
    TINYI_TILE_EACH(r, 16)
        TINYI_TILE_EACH(v, TINYI_TILE_VECTORS) v_store(y + 16 * r + v * V_LANES, acc[r][v]);
}
/* rows: a multiple of 16; otherwise as `panel` of tinyi_blk_kernels */
static void TINY_FN(tinyi_tile_panel)(float *y, const unsigned char *code, int traits, size_t rows,
                                      const unsigned char *x, ptrdiff_t x_group, size_t n)
{
    for (;; n -= 16, x += 2 * TINYI_BLK_PANEL, y += 16 * TINYI_BLK_LOW) {
        size_t r;
        for (r = 0; r < rows; r += 16)
            if (traits & TINYI_BLK_FINE)
                TINY_FN(tinyi_tile_block)(y + 16 * r, code + r * TINYI_BLK_PANEL, x, x_group, 1);
            else TINY_FN(tinyi_tile_block)(y + 16 * r, code + r * TINYI_BLK_PANEL, x, x_group, 0);
        if (n <= 16) return;
    }
}

#undef TINYI_TILE_EACH
#undef TINYI_TILE_VECTORS
#undef TINYI_TILE_LINES
#undef TINYI_TILE_SUMS
