/* src/llm/block/many.simd.h - many rows of activations on NEON with byte dots (a part of quad.simd.h)
 *
 * Sixteen rows of activations lie side by side. Four rows of weights meet them: their codes of 32 numbers are eight
 * registers, the sums of floats are sixteen. All codes are signed bytes; what formats without minima add to each code
 * has been added when the row was expanded.
 *
 *   dotprod  a vector holds four numbers of each of four rows of activations and is multiplied with four numbers of a
 *            row of weights, an element of its vector: a lane is a row of activations.
 *   i8mm     a vector holds eight numbers of each of two rows, and two rows meet two rows: the lanes are 0 0, 0 1, 1 0,
 *            1 1 (row of weights, row of activations).
 *
 * Sums of integers begin at 0x4b400000 in place of 0. Read as a float that is 1.5 * 2^23, whose unit in the last place
 * is 1 from 2^23 to 2^24: with a sum t of integers added, the bits are those of the float 1.5 * 2^23 + t exactly, as
 * long as |t| < 2^22. A group has at most 32 products of two bytes of -128 .. 127, |t| <= 32 * 2^14 = 2^19. The
 * difference of two floats of one binade is exact. So one subtraction does what a conversion does, which takes both
 * slots of one pipe on the cores that this is for. */

/* gcc 12 loads ahead, for which there are no registers, unless memory is said to change before every four rows */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_MANY_HERE __asm__ volatile("" ::: "memory")
#else
#define TINYI_MANY_HERE ((void)0)
#endif
#define TINYI_MANY_BEGIN vreinterpretq_s32_f32(start)
#define TINYI_MANY_SIDE 16
#if V_I8MM
#define TINYI_MANY_PART 1024                /* 512 codes; then scales and sums, each pair twice */
#else
#define TINYI_MANY_PART 768
#endif

/* 1.5 * 2^23 in a register, since a compiler would rather load it again */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_many_start)(void)
{
    v_f32 start = v_set(12582912.0f);
#if TINYI_GCC || TINYI_CLANG
    __asm__("" : "+w"(start));
#endif
    return start;
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_many_low)(v_f32 a, v_f32 b)     /* a0 a1 b0 b1 */
{
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_many_high)(v_f32 a, v_f32 b)    /* a2 a3 b2 b3 */
{
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}

#if V_I8MM
/* Rows side by side: for each 256 numbers and each 32 of them, of each of eight pairs of rows four vectors of eight
 * numbers of one and eight of the other; then, of each pair twice (a b a b), d, sums of 32, sums of the first 16 and of
 * the other 16, times d. block, group: bytes from one to the next. */
static void TINY_FN(tinyi_many_turn)(unsigned char *to, const tinyi_q8 *x, size_t n, ptrdiff_t block, ptrdiff_t group)
{
    size_t b, r;
    int g, i;
    for (b = 0; b < x->blocks; b++, to += block)
        for (g = 0; g < 8; g++) {
            unsigned char *p = to + g * group;
            if (n < TINYI_MANY_SIDE) memset(p, 0, TINYI_MANY_PART);
            for (r = 0; r < n; r++) {
                const size_t at = r * x->blocks + b;
                const float *halves = x->sum + 16 * at + g / 4 * 8 + g % 4, d = x->d[16 * at + (size_t)g];
                float *f = (float *)(void *)(p + 512) + r / 2 * 4 + r % 2;
                for (i = 0; i < 4; i++)
                    memcpy(p + 64 * (r / 2) + 16 * i + 8 * (r % 2), x->code + 256 * at + 32 * g + 8 * i, 8);
                f[0] = f[2] = d;
                f[32] = f[34] = d * x->d[16 * at + 8 + (size_t)g];
                f[64] = f[66] = d * halves[0];
                f[96] = f[98] = d * halves[4];
            }
        }
}
/* the codes of 32 numbers of rows a and b of weights, eight of one and eight of the other */
TINYI_FORCE_INLINE void TINY_FN(tinyi_many_codes)(v_i8 *c, const unsigned char *a, const unsigned char *b)
{
    int i;
    TINYI_BLK_EACH(i, 2) {
        const v_f32 x = vreinterpretq_f32_s8(vb_load(a + 16 * i)), y = vreinterpretq_f32_s8(vb_load(b + 16 * i));
        c[2 * i] = vreinterpretq_s8_f32(TINY_FN(tinyi_many_low)(x, y));
        c[2 * i + 1] = vreinterpretq_s8_f32(TINY_FN(tinyi_many_high)(x, y));
    }
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_many_two)(const float *a, const float *b)
{
    return vcombine_f32(vld1_dup_f32(a), vld1_dup_f32(b));
}
/* Numbers from..from + count (of four times eight) of four rows of weights and `pairs` of rows of activations: acc += s
 * d sum + m (d sum of codes); s: scales of the first row, offset: the place of their sums among the floats */
TINYI_FORCE_INLINE void TINY_FN(tinyi_many_piece)(v_f32 *acc, const v_i8 *c, const float *s, const unsigned char *x,
                                                  const float *floats, int from, int count, int pairs, int offset,
                                                  int minima, v_f32 start)
{
    const float *s1 = s + TINYI_BLK_PANEL / 4, *s2 = s1 + TINYI_BLK_PANEL / 4, *s3 = s2 + TINYI_BLK_PANEL / 4;
    const v_f32 s01 = TINY_FN(tinyi_many_two)(s, s1), s23 = TINY_FN(tinyi_many_two)(s2, s3);
    v_f32 m01 = s01, m23 = s23;
    int i, q;
    if (minima) {
        m01 = TINY_FN(tinyi_many_two)(s + 16, s1 + 16);
        m23 = TINY_FN(tinyi_many_two)(s2 + 16, s3 + 16);
    }
    TINYI_BLK_EACH(q, pairs) {
        const float *d = floats + 4 * q;
        v_i32 t0 = TINYI_MANY_BEGIN, t1 = t0;
        v_f32 e;
        TINYI_MANY_HERE;
        TINYI_BLK_EACH(i, count) {
            const v_i8 v = vb_load(x + 64 * q + 16 * (from + i));
            t0 = v_mmla_i8(t0, c[from + i], v);
            t1 = v_mmla_i8(t1, c[4 + from + i], v);
        }
        TINYI_MANY_HERE;
        e = v_load(d);
        acc[2 * q] = v_fma(v_sub(v_float(t0), start), v_mul(s01, e), acc[2 * q]);
        acc[2 * q + 1] = v_fma(v_sub(v_float(t1), start), v_mul(s23, e), acc[2 * q + 1]);
        if (minima) {
            e = v_load(d + offset);
            acc[2 * q] = v_fma(m01, e, acc[2 * q]);
            acc[2 * q + 1] = v_fma(m23, e, acc[2 * q + 1]);
        }
    }
}
/* 256 numbers of four rows of weights times four rows (`fours` 1) or sixteen (4) of activations, whose codes are at x
 * and floats at d */
TINYI_FORCE_INLINE void TINY_FN(tinyi_many_tile)(float *y, const unsigned char *code, const unsigned char *x,
                                                 const float *d, ptrdiff_t x_group, int fours, int fine, int minima)
{
    const float *s = (const float *)(const void *)(code + 256);
    const v_f32 start = TINY_FN(tinyi_many_start)();
    v_f32 acc[16];
    int g, q, p;
    TINYI_BLK_EACH(q, fours)
        TINYI_BLK_EACH(p, 2) {
            const v_f32 a = v_load(y + 2 * TINYI_MANY_SIDE * p + 4 * q),
                        b = v_load(y + 2 * TINYI_MANY_SIDE * p + TINYI_MANY_SIDE + 4 * q);
            acc[4 * q + p] = TINY_FN(tinyi_many_low)(a, b);
            acc[4 * q + 2 + p] = TINY_FN(tinyi_many_high)(a, b);
        }
    for (g = 0; g < 8; g++, code += 32, s += 2, x += x_group, d += x_group / 4) {
        v_i8 c[8];
        TINY_FN(tinyi_many_codes)(c, code, code + TINYI_BLK_PANEL);
        TINY_FN(tinyi_many_codes)(c + 4, code + 2 * TINYI_BLK_PANEL, code + 3 * TINYI_BLK_PANEL);
        if (fine) {
            TINY_FN(tinyi_many_piece)(acc, c, s, x, d, 0, 2, 2 * fours, 64, minima, start);
            TINY_FN(tinyi_many_piece)(acc, c, s + 1, x, d, 2, 2, 2 * fours, 96, minima, start);
        } else TINY_FN(tinyi_many_piece)(acc, c, s, x, d, 0, 4, 2 * fours, 32, minima, start);
    }
    TINYI_BLK_EACH(q, fours)
        TINYI_BLK_EACH(p, 2) {
            v_store(y + 2 * TINYI_MANY_SIDE * p + 4 * q, TINY_FN(tinyi_many_low)(acc[4 * q + p], acc[4 * q + 2 + p]));
            v_store(y + 2 * TINYI_MANY_SIDE * p + TINYI_MANY_SIDE + 4 * q,
                    TINY_FN(tinyi_many_high)(acc[4 * q + p], acc[4 * q + 2 + p]));
        }
}
#define TINYI_MANY_NEXT 128                 /* bytes from the codes of four rows of activations to those of the next */
#define TINYI_MANY_FLOATS 8                 /* floats from theirs to those of the next */

#else
/* Rows side by side: for each 256 numbers and each 32 of them, eight vectors of four numbers of each row, then d, sums
 * of 32, sums of the first 16 and of the other 16, times d. block, group: bytes from one to the next. */
static void TINY_FN(tinyi_many_turn)(unsigned char *to, const tinyi_q8 *x, size_t n, ptrdiff_t block, ptrdiff_t group)
{
    size_t b, r;
    int g, i;
    for (b = 0; b < x->blocks; b++, to += block)
        for (g = 0; g < 8; g++) {
            unsigned char *p = to + g * group;
            if (n < TINYI_MANY_SIDE) memset(p, 0, TINYI_MANY_PART);
            for (r = 0; r < n; r++) {
                const size_t at = r * x->blocks + b;
                const float *halves = x->sum + 16 * at + g / 4 * 8 + g % 4, d = x->d[16 * at + (size_t)g];
                float *f = (float *)(void *)(p + 512) + r;
                for (i = 0; i < 8; i++)
                    memcpy(p + 128 * (r / 4) + 16 * i + 4 * (r % 4), x->code + 256 * at + 32 * g + 4 * i, 4);
                f[0] = d;
                f[16] = d * x->d[16 * at + 8 + (size_t)g];
                f[32] = d * halves[0];
                f[48] = d * halves[4];
            }
        }
}
#if TINYI_DOT_ASM
#define TINYI_MANY_DOT(t, a, b, lane) __asm__("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(t) : "w"(a), "w"(b))
#else
#define TINYI_MANY_DOT(t, a, b, lane) t = vdotq_laneq_s32(t, a, b, lane)
#endif
/* four numbers of four rows of activations with element `lane` of each row of weights */
#define TINYI_MANY_STEP(i, lane)                                      \
    do {                                                              \
        const v_i8 v = vb_load(x + 128 * q + 64 * (i) + 16 * (lane)); \
        TINYI_MANY_DOT(t0, v, c[i], lane);                            \
        TINYI_MANY_DOT(t1, v, c[2 + (i)], lane);                      \
        TINYI_MANY_DOT(t2, v, c[4 + (i)], lane);                      \
        TINYI_MANY_DOT(t3, v, c[6 + (i)], lane);                      \
    } while (0)
#define TINYI_MANY_ROW(t, lane)                                                      \
    do {                                                                             \
        v_f32 *to = &acc[4 * q + (lane)];                                            \
        *to = v_fma(v_sub(v_float(t), start), vmulq_laneq_f32(e, scale, lane), *to); \
    } while (0)
/* 16 numbers from `from` 0 or 1 on (`count` 1), or 32 (2), of four rows of weights and four times `fours` rows of
 * activations: acc += s d sum + m (d sum of codes); s: scales of the first row, offset: the place of their sums among
 * the floats */
TINYI_FORCE_INLINE void TINY_FN(tinyi_many_piece)(v_f32 *acc, const v_i8 *c, const float *s, const unsigned char *x,
                                                  const float *floats, int from, int count, int fours, int offset,
                                                  int minima, v_f32 start)
{
    const v_f32 scale = TINY_FN(tinyi_quad_of_rows)(s);
    const v_f32 low = minima ? TINY_FN(tinyi_quad_of_rows)(s + 16) : scale;
    int q;
    TINYI_BLK_EACH(q, fours) {
        const float *d = floats + 4 * q;
        v_i32 t0 = TINYI_MANY_BEGIN, t1 = t0, t2 = t0, t3 = t0;
        v_f32 e;
        TINYI_MANY_HERE;
        if (from == 0) {
            TINYI_MANY_STEP(0, 0);
            TINYI_MANY_STEP(0, 1);
            TINYI_MANY_STEP(0, 2);
            TINYI_MANY_STEP(0, 3);
        }
        if (from + count == 2) {
            TINYI_MANY_STEP(1, 0);
            TINYI_MANY_STEP(1, 1);
            TINYI_MANY_STEP(1, 2);
            TINYI_MANY_STEP(1, 3);
        }
        TINYI_MANY_HERE;
        e = v_load(d);
        TINYI_MANY_ROW(t0, 0);
        TINYI_MANY_ROW(t1, 1);
        TINYI_MANY_ROW(t2, 2);
        TINYI_MANY_ROW(t3, 3);
        if (minima) {
            e = v_load(d + offset);
            acc[4 * q] = vfmaq_laneq_f32(acc[4 * q], e, low, 0);
            acc[4 * q + 1] = vfmaq_laneq_f32(acc[4 * q + 1], e, low, 1);
            acc[4 * q + 2] = vfmaq_laneq_f32(acc[4 * q + 2], e, low, 2);
            acc[4 * q + 3] = vfmaq_laneq_f32(acc[4 * q + 3], e, low, 3);
        }
    }
}
/* 256 numbers of four rows of weights times four rows (`fours` 1) or sixteen (4) of activations, whose codes are at x
 * and floats at d */
TINYI_FORCE_INLINE void TINY_FN(tinyi_many_tile)(float *y, const unsigned char *code, const unsigned char *x,
                                                 const float *d, ptrdiff_t x_group, int fours, int fine, int minima)
{
    const float *s = (const float *)(const void *)(code + 256);
    const v_f32 start = TINY_FN(tinyi_many_start)();
    v_f32 acc[16];
    int g, q, r;
    TINYI_BLK_EACH(q, fours) TINYI_BLK_EACH(r, 4) acc[4 * q + r] = v_load(y + TINYI_MANY_SIDE * r + 4 * q);
    for (g = 0; g < 8; g++, code += 32, s += 2, x += x_group, d += x_group / 4) {
        v_i8 c[8];
        TINYI_BLK_EACH(r, 8) c[r] = vb_load(code + r / 2 * TINYI_BLK_PANEL + r % 2 * 16);
        if (fine) {
            TINY_FN(tinyi_many_piece)(acc, c, s, x, d, 0, 1, fours, 32, minima, start);
            TINY_FN(tinyi_many_piece)(acc, c, s + 1, x, d, 1, 1, fours, 48, minima, start);
        } else TINY_FN(tinyi_many_piece)(acc, c, s, x, d, 0, 2, fours, 16, minima, start);
    }
    TINYI_BLK_EACH(q, fours) TINYI_BLK_EACH(r, 4) v_store(y + TINYI_MANY_SIDE * r + 4 * q, acc[4 * q + r]);
}
#define TINYI_MANY_NEXT 128                 /* bytes from the codes of four rows of activations to those of the next */
#define TINYI_MANY_FLOATS 4                 /* floats from theirs to those of the next */
#endif

/* Groups of sixteen rows of activations; of one that is not full, four rows at a time. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_many_groups)(float *y, const unsigned char *code, size_t rows,
                                                   const unsigned char *x, ptrdiff_t x_group, size_t n, int fine,
                                                   int minima)
{
    for (;; n -= TINYI_MANY_SIDE, x += TINYI_MANY_PART, y += TINYI_MANY_SIDE * TINYI_BLK_LOW) {
        const float *d = (const float *)(const void *)(x + 512);
        size_t r, q;
        for (r = 0; r < rows; r += 4) {
            float *to = y + TINYI_MANY_SIDE * r;
            const unsigned char *w = code + r * TINYI_BLK_PANEL;
            if (n > TINYI_MANY_SIDE - 4) TINY_FN(tinyi_many_tile)(to, w, x, d, x_group, 4, fine, minima);
            else
                for (q = 0; 4 * q < n; q++)
                    TINY_FN(tinyi_many_tile)
                    (to + 4 * q, w, x + q * TINYI_MANY_NEXT, d + q * TINYI_MANY_FLOATS, x_group, 1, fine, minima);
        }
        if (n <= TINYI_MANY_SIDE) return;
    }
}
static void TINY_FN(tinyi_many_panel)(float *y, const unsigned char *code, int traits, size_t rows,
                                      const unsigned char *x, ptrdiff_t x_group, size_t n)
{
    if (traits & TINYI_BLK_FINE)
        if (traits & TINYI_BLK_MINIMA) TINY_FN(tinyi_many_groups)(y, code, rows, x, x_group, n, 1, 1);
        else TINY_FN(tinyi_many_groups)(y, code, rows, x, x_group, n, 1, 0);
    else if (traits & TINYI_BLK_MINIMA) TINY_FN(tinyi_many_groups)(y, code, rows, x, x_group, n, 0, 1);
    else TINY_FN(tinyi_many_groups)(y, code, rows, x, x_group, n, 0, 0);
}

#undef TINYI_MANY_HERE
#undef TINYI_MANY_BEGIN
#undef TINYI_MANY_DOT
#undef TINYI_MANY_STEP
#undef TINYI_MANY_ROW
#undef TINYI_MANY_NEXT
#undef TINYI_MANY_FLOATS
