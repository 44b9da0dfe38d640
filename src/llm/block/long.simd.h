/* src/llm/block/long.simd.h - many rows of activations on NEON without byte dots (a part of quad.simd.h)
 *
 * SMULL and SMLAL multiply eight bytes with eight bytes and add the products in 16 bits. Cores without byte dots
 * (Cortex-A53, A57, A72) start one of them in a cycle: twice as many products as with float32.
 *
 * Sixteen rows of activations lie side by side, two numbers of each: a vector is a pair of eight rows. Four rows of
 * weights meet them. A pair of codes is spread over a vector, and two lanes next to each other belong to one row of
 * activations: nothing is shuffled, and SADDLP or SADALP adds the two lanes when a sum becomes 32 bits wide.
 *
 * All codes are signed bytes; what formats without minima add to each code has been added when the row was expanded.
 * Activations are -127 .. 127. This many products fit a lane of 16 bits:
 *   bytes     (Q8_0, IQ4_NL, IQ4_XS)  |c| <= 128   2    2 * 128 * 127 = 32512
 *   FINE      (Q6_K the largest)      |c| <= 32    8    8 * 32 * 127 = 32512, all of a group of 16
 *   books     (IQ3_XXS the largest)   |c| <= 62    4    4 * 62 * 127 = 31496
 *   MINIMA    (Q5_1, Q5_K)            c <= 31      8    8 * 31 * 127 = 31496
 *   the rest  (Q5_0 the largest)      |c| <= 16   16    16 * 16 * 127 = 32512, all of a group of 32 */

/* gcc 12 loads ahead, for which there are no registers, unless memory is said to change */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_LONG_HERE __asm__ volatile("" ::: "memory")
/* in a vector: it would load each pair into a general register, and from there into a vector */
#define TINYI_LONG_KEEP(v) __asm__("" : "+w"(v))
/* one after the other: it would compute several at once, for which there are no registers */
#define TINYI_LONG_ORDER(v) __asm__ volatile("" : "+w"(v))
#else
#define TINYI_LONG_HERE ((void)0)
#define TINYI_LONG_KEEP(v) ((void)0)
#define TINYI_LONG_ORDER(v) ((void)0)
#endif
#define TINYI_LONG_SIDE 16
#define TINYI_LONG_PART 768                 /* 16 pairs of 16 rows; then scales and sums */

/* Rows side by side: for each 256 numbers and each 32 of them, 16 times a pair of each row, then d, sums of 32, sums of
 * the first 16 and of the other 16, times d. block, group: bytes from one to the next. */
static void TINY_FN(tinyi_long_turn)(unsigned char *to, const tinyi_q8 *x, size_t n, ptrdiff_t block, ptrdiff_t group)
{
    size_t b, r;
    int g, i;
    for (b = 0; b < x->blocks; b++, to += block)
        for (g = 0; g < 8; g++) {
            unsigned char *p = to + g * group;
            if (n < TINYI_LONG_SIDE) memset(p, 0, TINYI_LONG_PART);
            for (r = 0; r < n; r++) {
                const size_t at = r * x->blocks + b;
                const float *halves = x->sum + 16 * at + g / 4 * 8 + g % 4, d = x->d[16 * at + (size_t)g];
                float *f = (float *)(void *)(p + 512) + r;
                for (i = 0; i < 16; i++) memcpy(p + 32 * i + 2 * r, x->code + 256 * at + 32 * g + 2 * i, 2);
                f[0] = d;
                f[16] = d * x->d[16 * at + 8 + (size_t)g];
                f[32] = d * halves[0];
                f[48] = d * halves[4];
            }
        }
}

/* a pair of each of four rows of activations, the low or the high half of v, times a pair of weights; and t + that */
TINYI_FORCE_INLINE int16x8_t TINY_FN(tinyi_long_first)(v_i8 v, v_i8 w, int high)
{
    return high ? vmull_high_s8(v, w) : vmull_s8(vget_low_s8(v), vget_low_s8(w));
}
TINYI_FORCE_INLINE int16x8_t TINY_FN(tinyi_long_more)(int16x8_t t, v_i8 v, v_i8 w, int high)
{
    return high ? vmlal_high_s8(t, v, w) : vmlal_s8(t, vget_low_s8(v), vget_low_s8(w));
}
#define TINYI_LONG_PAIR(c, i) vreinterpretq_s8_s16(vdupq_laneq_s16(vreinterpretq_s16_s8(c), i))
/* pair i of the 16 numbers in c, pair 8 h + i of the activations */
#define TINYI_LONG_STEP(i)                                                                              \
    do {                                                                                                \
        const int at = 8 * h + (i);                                                                     \
        v_i8 v[2];                                                                                      \
        TINYI_LONG_HERE;                                                                                \
        v[0] = vb_load(x + 32 * at);                                                                    \
        v[1] = fours > 2 ? vb_load(x + 32 * at + 16) : v[0];                                            \
        TINYI_BLK_EACH(r, 4) {                                                                          \
            const v_i8 w = TINYI_LONG_PAIR(c[r], i);                                                    \
            TINYI_BLK_EACH(q, fours)                                                                    \
                t[r][q] = at % fit ? TINY_FN(tinyi_long_more)(t[r][q], v[q / 2], w, q % 2)              \
                                   : TINY_FN(tinyi_long_first)(v[q / 2], w, q % 2);                     \
        }                                                                                               \
        if (at % fit == fit - 1)                                                                        \
            TINYI_BLK_EACH(r, 4)                                                                        \
                TINYI_BLK_EACH(q, fours)                                                                \
                    sum[r][q] = at >= fit ? vpadalq_s16(sum[r][q], t[r][q]) : vpaddlq_s16(t[r][q]);     \
    } while (0)
/* the same of pairs i and i + 1 of bytes, of which no third one fits */
#define TINYI_LONG_TWO(i)                                                                               \
    do {                                                                                                \
        const int at = 8 * h + (i);                                                                     \
        v_i8 v[4];                                                                                      \
        TINYI_LONG_HERE;                                                                                \
        v[0] = vb_load(x + 32 * at);                                                                    \
        v[2] = vb_load(x + 32 * at + 32);                                                               \
        v[1] = fours > 2 ? vb_load(x + 32 * at + 16) : v[0];                                            \
        v[3] = fours > 2 ? vb_load(x + 32 * at + 48) : v[2];                                            \
        TINYI_BLK_EACH(r, 4) {                                                                          \
            const v_i8 w0 = TINYI_LONG_PAIR(c[r], i), w1 = TINYI_LONG_PAIR(c[r], (i) + 1);              \
            TINYI_BLK_EACH(q, fours) {                                                                  \
                const int16x8_t one = TINY_FN(tinyi_long_first)(v[q / 2], w0, q % 2),                   \
                                two = TINY_FN(tinyi_long_more)(one, v[2 + q / 2], w1, q % 2);           \
                sum[r][q] = at ? vpadalq_s16(sum[r][q], two) : vpaddlq_s16(two);                        \
                TINYI_LONG_ORDER(sum[r][q]);                                                            \
            }                                                                                           \
        }                                                                                               \
    } while (0)
#define TINYI_LONG_ROW(lane)                                                                                       \
    do {                                                                                                           \
        float *to = y + TINYI_LONG_SIDE * (lane) + 4 * q;                                                          \
        v_f32 f = v_fma(v_from_i32(sum[lane][q]), vmulq_laneq_f32(e, scale, lane), v_load(to));                    \
        if (minima) f = vfmaq_laneq_f32(f, sums, low, lane);                                                       \
        v_store(to, f);                                                                                            \
    } while (0)
/* 16 numbers (`count` 1), or 32 (2), of four rows of weights and four times `fours` rows of activations: y += s d sum +
 * m (d sum of codes); s: scales of the first row, offset: sums of activations */
TINYI_FORCE_INLINE void TINY_FN(tinyi_long_piece)(float *y, const unsigned char *code, const float *s,
                                                  const unsigned char *x, const float *d, const float *offset,
                                                  int count, int fours, int fit, int minima)
{
    const v_f32 scale = TINY_FN(tinyi_quad_of_rows)(s), low = minima ? TINY_FN(tinyi_quad_of_rows)(s + 16) : scale;
    int16x8_t t[4][4];
    v_i32 sum[4][4];
    int h, q, r;
    TINYI_BLK_EACH(h, count) {
        v_i8 c[4];
        TINYI_BLK_EACH(r, 4) {
            c[r] = vb_load(code + r * TINYI_BLK_PANEL + 16 * h);
            TINYI_LONG_KEEP(c[r]);
        }
        if (fit == 2) {
            TINYI_LONG_TWO(0);
            TINYI_LONG_TWO(2);
            TINYI_LONG_TWO(4);
            TINYI_LONG_TWO(6);
        } else {
            TINYI_LONG_STEP(0);
            TINYI_LONG_STEP(1);
            TINYI_LONG_STEP(2);
            TINYI_LONG_STEP(3);
            TINYI_LONG_STEP(4);
            TINYI_LONG_STEP(5);
            TINYI_LONG_STEP(6);
            TINYI_LONG_STEP(7);
        }
    }
    TINYI_BLK_EACH(q, fours) {
        const v_f32 e = v_load(d + 4 * q), sums = minima ? v_load(offset + 4 * q) : e;
        TINYI_LONG_ROW(0);
        TINYI_LONG_ROW(1);
        TINYI_LONG_ROW(2);
        TINYI_LONG_ROW(3);
    }
}
/* 256 numbers of four rows of weights times four times `fours` rows of activations, whose codes are at x and floats at
 * d */
TINYI_FORCE_INLINE void TINY_FN(tinyi_long_tile)(float *y, const unsigned char *code, const unsigned char *x,
                                                 const float *d, ptrdiff_t x_group, int fours, int fit, int fine,
                                                 int minima)
{
    const float *s = (const float *)(const void *)(code + 256);
    int g;
    for (g = 0; g < 8; g++, code += 32, s += 2, x += x_group, d += x_group / 4)
        if (fine) {
            TINY_FN(tinyi_long_piece)(y, code, s, x, d, d + 32, 1, fours, fit, minima);
            TINY_FN(tinyi_long_piece)(y, code + 16, s + 1, x + 256, d, d + 48, 1, fours, fit, minima);
        } else TINY_FN(tinyi_long_piece)(y, code, s, x, d, d + 16, 2, fours, fit, minima);
}
/* Groups of sixteen rows of activations; of one that is not full, eight and then four. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_long_groups)(float *y, const unsigned char *code, size_t rows,
                                                   const unsigned char *x, ptrdiff_t x_group, size_t n, int fit,
                                                   int fine, int minima)
{
    for (;; n -= TINYI_LONG_SIDE, x += TINYI_LONG_PART, y += TINYI_LONG_SIDE * TINYI_BLK_LOW) {
        const float *d = (const float *)(const void *)(x + 512);
        size_t r;
        for (r = 0; r < rows; r += 4) {
            float *to = y + TINYI_LONG_SIDE * r;
            const unsigned char *w = code + r * TINYI_BLK_PANEL;
            size_t at = 0;
            if (n > TINYI_LONG_SIDE - 4) {
                TINY_FN(tinyi_long_tile)(to, w, x, d, x_group, 4, fit, fine, minima);
                continue;
            }
            if (n > 4) {
                TINY_FN(tinyi_long_tile)(to, w, x, d, x_group, 2, fit, fine, minima);
                at = 8;
            }
            if (n > at) TINY_FN(tinyi_long_tile)(to + at, w, x + 2 * at, d + at, x_group, 1, fit, fine, minima);
        }
        if (n <= TINYI_LONG_SIDE) return;
    }
}
static void TINY_FN(tinyi_long_panel)(float *y, const unsigned char *code, int traits, size_t rows,
                                      const unsigned char *x, ptrdiff_t x_group, size_t n)
{
    const int minima = (traits & TINYI_BLK_MINIMA) != 0;
    if (traits & TINYI_BLK_FINE)
        if (traits / TINYI_BLK_FITS == 1) TINY_FN(tinyi_long_groups)(y, code, rows, x, x_group, n, 4, 1, 0);
        else if (minima) TINY_FN(tinyi_long_groups)(y, code, rows, x, x_group, n, 8, 1, 1);
        else TINY_FN(tinyi_long_groups)(y, code, rows, x, x_group, n, 8, 1, 0);
    else if (minima) TINY_FN(tinyi_long_groups)(y, code, rows, x, x_group, n, 8, 0, 1);
    else if (traits / TINYI_BLK_FITS == 1) TINY_FN(tinyi_long_groups)(y, code, rows, x, x_group, n, 2, 0, 0);
    else TINY_FN(tinyi_long_groups)(y, code, rows, x, x_group, n, 16, 0, 0);
}

#undef TINYI_LONG_HERE
#undef TINYI_LONG_KEEP
#undef TINYI_LONG_ORDER
#undef TINYI_LONG_PAIR
#undef TINYI_LONG_STEP
#undef TINYI_LONG_TWO
#undef TINYI_LONG_ROW
