/* src/llm/block/tile.simd.h - products of bfloat16 on the tiles of AMX
 *
 * A tile instruction multiplies 16 rows of 32 numbers with 32 rows of 16 in 16 cycles. Four of them share two tiles of
 * each side, so that four loads come with 64 cycles of work. Sums are float32. */

static void TINY_FN(tinyi_blk_begin)(void)
{
    /* eight tiles of 16 rows of 64 bytes; constant data, since gcc 12 may drop stores that fill it */
    static const unsigned char config[64] = {
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0
    };
    TINYI_AMX_CONFIG(config);
}
static void TINY_FN(tinyi_blk_end)(void) { _tile_release(); }

static void TINY_FN(tinyi_blk_tile)(float *c, ptrdiff_t c_row, const unsigned char *a, ptrdiff_t a_row,
                                    const unsigned char *b, ptrdiff_t b_panel, size_t k, int add, int low, int wide,
                                    const unsigned char *ahead)
{
    const ptrdiff_t step = c_row * 4, deep = 16 * a_row;
    size_t i;
    if (add) {
        TINYI_AMX_LOAD(0, c, step);
        if (wide) { TINYI_AMX_LOAD(1, c + 16, step); }
        if (low) { TINYI_AMX_LOAD(2, c + 16 * c_row, step); }
        if (low && wide) TINYI_AMX_LOAD(3, c + 16 * c_row + 16, step);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    if (low && wide)
        for (i = 0; i < k; i += 32, a += 64, b += 1024, ahead += 128) {
            TINYI_AMX_LOAD(4, a, a_row);
            TINYI_AMX_LOAD(6, b, 64);
            TINYI_BLK_AHEAD2(ahead);
            TINYI_BLK_AHEAD2(ahead + 64);
            _tile_dpbf16ps(0, 4, 6);
            TINYI_AMX_LOAD(7, b + b_panel, 64);
            _tile_dpbf16ps(1, 4, 7);
            TINYI_AMX_LOAD(5, a + deep, a_row);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    else
        for (i = 0; i < k; i += 32, a += 64, b += 1024) {
            TINYI_AMX_LOAD(4, a, a_row);
            TINYI_AMX_LOAD(6, b, 64);
            _tile_dpbf16ps(0, 4, 6);
            if (wide) {
                TINYI_AMX_LOAD(7, b + b_panel, 64);
                _tile_dpbf16ps(1, 4, 7);
            }
            if (low) {
                TINYI_AMX_LOAD(5, a + deep, a_row);
                _tile_dpbf16ps(2, 5, 6);
                if (wide) _tile_dpbf16ps(3, 5, 7);
            }
        }
    TINYI_AMX_STORE(0, c, step);
    if (wide) { TINYI_AMX_STORE(1, c + 16, step); }
    if (low) { TINYI_AMX_STORE(2, c + 16 * c_row, step); }
    if (low && wide) TINYI_AMX_STORE(3, c + 16 * c_row + 16, step);
}

/* an expanded row as tree.simd.h leaves it: one rounding to float32, one to bfloat16 */
static void TINY_FN(tinyi_blk_halves)(uint16_t *to, const unsigned char *code, const float *s, const float *m,
                                      int traits, size_t blocks)
{
    const int fine = (traits & TINYI_BLK_FINE) != 0;
    int g;
    for (; blocks; blocks--, s += 16, m += 16)
        for (g = 0; g < 8; g++, code += 32, to += 32) {
            const int at = fine ? g / 4 * 8 + g % 4 : g, next = fine ? at + 4 : at;
            const v_f32 x0 = v_fma(v_set(s[at]), v_from_i32(vi_load_u8(code)), v_set(m[at])),
                        x1 = v_fma(v_set(s[next]), v_from_i32(vi_load_u8(code + 16)), v_set(m[next]));
            _mm512_storeu_si512((void *)to, (__m512i)_mm512_cvtne2ps_pbh(x1, x0));
        }
}

static void TINY_FN(tinyi_blk_round)(uint16_t *to, const float *x, size_t n)
{
    for (; n >= 32; n -= 32, x += 32, to += 32)
        _mm512_storeu_si512((void *)to, (__m512i)_mm512_cvtne2ps_pbh(v_load(x + 16), v_load(x)));
    for (; n; n--) *to++ = tinyi_f32_to_bf16(*x++);
}

#define TINYI_TILE_CONFIG(p) TINYI_AMX_CONFIG(p)
#define TINYI_TILE_ZERO(t) _tile_zero(t)
#define TINYI_TILE_LOAD(t, p, step) TINYI_AMX_LOAD(t, p, step)
#define TINYI_TILE_DOT(c, a, b) _tile_dpbsud(c, a, b)
#define TINYI_TILE_STORE(t, p, step) TINYI_AMX_STORE(t, p, step)
#include "llm/block/tile_bytes.simd.h"
#undef TINYI_TILE_CONFIG
#undef TINYI_TILE_ZERO
#undef TINYI_TILE_LOAD
#undef TINYI_TILE_DOT
#undef TINYI_TILE_STORE

static const tinyi_blk_tiles TINY_FN(tinyi_blk_tiles_table) = { TINY_FN(tinyi_blk_begin), TINY_FN(tinyi_blk_end),
                                                                TINY_FN(tinyi_blk_tile), TINY_FN(tinyi_blk_halves),
                                                                TINY_FN(tinyi_blk_round), TINY_FN(tinyi_tile_begin),
                                                                TINY_FN(tinyi_tile_meet) };
TINYI_TABLE(tinyi_blk_tiles, tinyi_blk_tiles, TINY_FN(tinyi_blk_tiles_table))
