/* src/llm/block/eight_dot.simd.h - products of repacked matrices (eight.h) on NEON with dotprod (a part of quad.simd.h)
 *
 * A lane is a row of weights: a vector of 16 bytes has four codes of each of four rows, and SDOT multiplies it with one
 * element of a vector of activations. There is no shuffle and no sum over lanes. The two times four rows of a group
 * share what is loaded of activations.
 *
 * Everything but loads and scalar instructions goes through two pipes, so vector instructions are what is saved:
 *   - Sums of integers begin at the bits of 1.5 * 2^23 (many.simd.h); one subtraction converts them and takes off the
 *     offset that all codes share.
 *   - A byte k becomes the float 2^23 + k by one table look-up. One fma with -2^23 d in place gives k d, rounded once.
 *   - Constants that an instruction overwrites are loaded each time, since a copy would take a slot of the same pipes.
 *
 * Activations lie in order. For each 256 of them d holds 8 scales and 8 times scale times sum of 32 codes; the place of
 * `sum` has 16 sums of 16 codes as 16-bit integers, then 8 times -2^23 times a scale. */

#define TINYI_LANE_ROWS 4                  /* of activations that meet codes in registers */

#if TINYI_DOT_ASM
#define TINYI_LANE_DOT(t, a, b, lane) __asm__("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(t) : "w"(a), "w"(b))
#else
#define TINYI_LANE_DOT(t, a, b, lane) t = vdotq_laneq_s32(t, a, b, lane)
#endif

/* what is taken off each code; 0 for formats with minima */
TINYI_FORCE_INLINE int TINY_FN(tinyi_lane_offset)(int blk)
{
    if (blk == TINYI_BLK_Q4_0) return 8;
    if (blk == TINYI_BLK_Q6_K) return 32;
#ifndef TINYLLM_FEW_FORMATS
    if (blk == TINYI_BLK_Q5_0) return 16;
#endif
    return 0;
}

TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_lane_begin)(void)
{
    static const int32_t begin[4] = { TINYI_QUAD_BEGIN, TINYI_QUAD_BEGIN, TINYI_QUAD_BEGIN, TINYI_QUAD_BEGIN };
    return TINY_FN(tinyi_quad_again)(begin);
}
/* a number in every lane, by an instruction that no vector pipe executes */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_lane_splat)(const float *p)
{
    int32_t bits;
    memcpy(&bits, p, 4);
#if TINYI_GCC || TINYI_CLANG
    {
        v_f32 v;
        __asm__ volatile("dup %0.4s, %w1" : "=w"(v) : "r"(bits));
        return v;
    }
#else
    return vreinterpretq_f32_s32(vdupq_n_s32(bits));
#endif
}

/* a number that multiplies as element 0 of its register, without a copy of it in every lane */
TINYI_FORCE_INLINE float TINY_FN(tinyi_lane_scalar)(const float *p)
{
#if TINYI_GCC || TINYI_CLANG
    float x;
    __asm__ volatile("ldr %s0, %1" : "=w"(x) : "m"(*p));
    return x;
#else
    return *p;
#endif
}

/* where tinyi_quad_bytes finds bytes, to stay in registers */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_places)(v_i8 *to)
{
    int i;
    TINYI_BLK_EACH(i, 4) to[i] = TINY_FN(tinyi_quad_places)(i);
#if TINYI_GCC || TINYI_CLANG
    __asm__("" : "+w"(to[0]), "+w"(to[1]), "+w"(to[2]), "+w"(to[3]));
#endif
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_lane_halves)(const unsigned char *p)
{
    return TINY_FN(tinyi_f16_up)(vreinterpret_u16_u8(vld1_u8(p)));
}

/* ---- codes of four rows */

TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_lane_under)(v_i8 a, v_i8 b)     /* two bits of a, those of b after them */
{
    return vreinterpretq_s8_u8(vsriq_n_u8(vreinterpretq_u8_s8(a), vreinterpretq_u8_s8(b), 2));
}
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_lane_last)(v_i8 a, v_i8 b)      /* four bits of a, those of b after them */
{
    return vreinterpretq_s8_u8(vsriq_n_u8(vreinterpretq_u8_s8(a), vreinterpretq_u8_s8(b), 4));
}
/* 32 numbers; p: where the four rows lie in the first vector of 32 bytes. second: of 64 numbers of Q4_K the others.
 * Written out: gcc 12 stores an array that loops fill. What SRI overwrites is loaded again, which is no copy. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_codes)(v_i8 *c, const unsigned char *p, int blk, int second)
{
#define TINYI_LANE_AT(v) vb_load(p + 32 * (v))
#define TINYI_LANE_4(X) do { X(0); X(1); X(2); X(3); } while (0)
#define TINYI_LANE_8(X) do { X(0); X(1); X(2); X(3); X(4); X(5); X(6); X(7); } while (0)
#define TINYI_LANE_PLAIN(v) c[v] = TINYI_LANE_AT(v)
#define TINYI_LANE_LOW(v) c[v] = vb_and(TINYI_LANE_AT(v), vb_set(15))
#define TINYI_LANE_HIGH(v) c[v] = vb_shr(TINYI_LANE_AT(v), 4)
#define TINYI_LANE_BOTH(v) c[v] = vb_and(TINYI_LANE_AT(v), vb_set(15)), c[4 + (v)] = vb_shr(TINYI_LANE_AT(v), 4)
    const unsigned char *again = p;
    if (blk == TINYI_BLK_Q8_0) TINYI_LANE_8(TINYI_LANE_PLAIN);
    else if (blk == TINYI_BLK_Q6_K) {
        const v_i8 x0 = TINYI_LANE_AT(0), x1 = TINYI_LANE_AT(1), x2 = TINYI_LANE_AT(2), x3 = TINYI_LANE_AT(3),
                   x4 = TINYI_LANE_AT(4), x5 = TINYI_LANE_AT(5), mask = vb_set(63);
        c[0] = vb_and(x0, mask);
        c[1] = vb_and(x1, mask);
        c[2] = vb_and(x2, mask);
        TINYI_QUAD_HERE(again);
        c[3] = vb_shr(TINY_FN(tinyi_lane_last)(TINY_FN(tinyi_lane_under)(vb_load(again + 64), x1), x0), 2);
        c[4] = vb_and(x3, mask);
        c[5] = vb_and(x4, mask);
        c[6] = vb_and(x5, mask);
        c[7] = vb_shr(TINY_FN(tinyi_lane_last)(TINY_FN(tinyi_lane_under)(vb_load(again + 160), x4), x3), 2);
    } else if (tinyi_eight_has_five(blk)) {
        const v_i8 x0 = TINYI_LANE_AT(0), x1 = TINYI_LANE_AT(1), x2 = TINYI_LANE_AT(2), x3 = TINYI_LANE_AT(3),
                   x4 = TINYI_LANE_AT(4), mask = vb_set(31);
        uint8x16_t t;
        TINYI_QUAD_HERE(again);
        t = vsriq_n_u8(vreinterpretq_u8_s8(vb_load(again + 32)), vreinterpretq_u8_s8(x3), 1);
        c[0] = vb_and(x0, mask);
        c[1] = vb_and(x1, mask);
        c[2] = vb_and(x2, mask);
        c[3] = vb_and(x3, mask);
        c[4] = vb_and(x4, mask);
        /* bits 5, 6 of one, then 5 - 7 of the other */
        c[5] = vb_shr(TINY_FN(tinyi_lane_under)(vb_shl(x1, 1), x0), 3);
        c[6] = vb_shr(TINY_FN(tinyi_lane_under)(vb_shl(x3, 1), x2), 3);
        c[7] = vb_shr(TINY_FN(tinyi_lane_under)(vreinterpretq_s8_u8(t), x4), 3);
    } else if (blk != TINYI_BLK_Q4_K) TINYI_LANE_4(TINYI_LANE_BOTH);
    else if (second) TINYI_LANE_8(TINYI_LANE_HIGH);
    else TINYI_LANE_8(TINYI_LANE_LOW);
#undef TINYI_LANE_AT
#undef TINYI_LANE_4
#undef TINYI_LANE_8
#undef TINYI_LANE_PLAIN
#undef TINYI_LANE_LOW
#undef TINYI_LANE_HIGH
#undef TINYI_LANE_BOTH
}
/* 16 numbers: t += */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_lane_sum)(v_i32 t, const v_i8 *c, v_i8 q)
{
    TINYI_LANE_DOT(t, c[0], q, 0);
    TINYI_LANE_DOT(t, c[1], q, 1);
    TINYI_LANE_DOT(t, c[2], q, 2);
    TINYI_LANE_DOT(t, c[3], q, 3);
    return t;
}
/* The floats of sums of 32 (g < 8) or 16 codes (`fine`) from BEGIN on, of which offset times the sum of activations is
 * taken off; sums: 16 integers. */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_lane_base)(const float *sums, int g, int fine, int offset)
{
    const unsigned char *p = (const unsigned char *)(const void *)sums + (fine ? 2 : 4) * g;
    int16_t one, two;
    if (!offset) return v_set(TINYI_QUAD_START);
    memcpy(&one, p, 2);
    if (fine) return v_float(vi_set(TINYI_QUAD_BEGIN + offset * one));
    memcpy(&two, p + 2, 2);
    return v_float(vi_set(TINYI_QUAD_BEGIN + offset * (one + two)));
}

/* ---- products */

/* the minima of groups 2 j and 2 j + 1 of Q4_K and Q5_K as bytes; p: 16 j bytes after the first of the 96 */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_lane_minima)(const unsigned char *p, int j)
{
    if (j < 2) return vb_and(vb_load(p + 64), vb_set(63));
    return vb_shr(TINY_FN(tinyi_lane_last)(TINY_FN(tinyi_lane_under)(vb_load(p + 32), vb_load(p)), vb_load(p - 32)), 2);
}
/* bytes of a block of eight rows where its codes of 32 numbers g lie */
#define TINYI_LANE_WHERE(blk, five, g) \
    ((blk) == TINYI_BLK_Q6_K ? 144 + (g)*192 : 128 + ((five) ? (g)*160 : (g) / 2 * 256))

/* One block of eight rows times `rows` rows of activations: block b of 256 numbers, and for blocks of 32 g of them. acc
 * (4 rows, then the other 4) += */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_narrow)(v_f32 *acc, const unsigned char *w, const tinyi_q8 *x, size_t b,
                                                    int g, int rows, int blk, int traits)
{
    const int minima = (traits & TINYI_BLK_MINIMA) != 0, offset = TINY_FN(tinyi_lane_offset)(blk);
    int h, r;
    TINYI_BLK_EACH(h, 2) {
        const v_f32 s = TINY_FN(tinyi_lane_halves)(w + 8 * h),
                    m = minima ? TINY_FN(tinyi_lane_halves)(w + 16 + 8 * h) : s;
        v_i8 c[8];
        TINY_FN(tinyi_lane_codes)(c, w + (minima ? 32 : 16) + 16 * h, blk, 0);
        TINYI_BLK_EACH(r, rows) {
            const size_t at = (size_t)r * x->blocks + b;
            const int8_t *q = x->code + 256 * at + 32 * g;
            const float *d = x->d + 16 * at + g;
            v_i32 t = TINY_FN(tinyi_lane_sum)(TINY_FN(tinyi_lane_begin)(), c, vb_load(q));
            v_f32 f;
            t = TINY_FN(tinyi_lane_sum)(t, c + 4, vb_load(q + 16));
            f = v_sub(v_float(t), TINY_FN(tinyi_lane_base)(x->sum + 16 * at, g, 0, offset));
            acc[h * rows + r] = v_fma(f, vmulq_n_f32(s, TINY_FN(tinyi_lane_scalar)(d)), acc[h * rows + r]);
            if (minima) acc[h * rows + r] = vfmaq_n_f32(acc[h * rows + r], m, TINY_FN(tinyi_lane_scalar)(d + 8));
        }
    }
}
/* Sums t of 32 numbers of four rows: part += scale d sum, low += minimum d (sum of codes); s: 2^23 + scale, m: minimum.
 * d, z: of the group */
#define TINYI_LANE_ADD(part, low, t, s, m, d, z)                                                                 \
    do {                                                                                                         \
        const v_f32 scale = vfmaq_n_f32(TINY_FN(tinyi_lane_splat)(z), s, TINY_FN(tinyi_lane_scalar)(d));         \
        part = v_fma(v_sub(v_float(t), v_set(TINYI_QUAD_START)), scale, part);                                        \
        low = vfmaq_n_f32(low, m, TINY_FN(tinyi_lane_scalar)((d) + 8));                                          \
    } while (0)
/* 32 numbers of four rows, whose codes are at p */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_group)(v_f32 *part, v_f32 *low, const unsigned char *p, v_i8 k, v_i8 k_low,
                                                  v_i8 places, int second, const tinyi_q8 *x, size_t b, int g, int rows,
                                                  int blk)
{
    v_f32 s, m;
    v_i8 c[8];
    int r;
    TINYI_QUAD_HERE(p);
    TINY_FN(tinyi_lane_codes)(c, p, blk, second);
    s = TINY_FN(tinyi_quad_bytes)(k, places);
    m = v_sub(TINY_FN(tinyi_quad_bytes)(k_low, places), v_set(8388608.0f));
    TINYI_BLK_EACH(r, rows) {
        const size_t at = (size_t)r * x->blocks + b;
        const int8_t *q = x->code + 256 * at + 32 * g;
        v_i32 t = TINY_FN(tinyi_lane_sum)(TINY_FN(tinyi_lane_begin)(), c, vb_load(q));
        t = TINY_FN(tinyi_lane_sum)(t, c + 4, vb_load(q + 16));
        TINYI_LANE_ADD(part[r], low[r], t, s, m, x->d + 16 * at + g, x->sum + 16 * at + 8 + g);
    }
}
/* 64 numbers of Q4_K, of which each byte has two, times one row of activations: q, d, z are those of the first 32 */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_two)(v_f32 *part, v_f32 *low, const unsigned char *p, v_i8 k, v_i8 k_low,
                                                const v_i8 *places, const int8_t *q, const float *d, const float *z)
{
    v_i32 t0 = TINY_FN(tinyi_lane_begin)(), t1 = TINY_FN(tinyi_lane_begin)();
    v_f32 s, m;
    int i;
    TINYI_BLK_EACH(i, 2) {
        v_i8 x0, x1, x2, x3, q0, q1;
        TINYI_QUAD_HERE(p);
        x0 = vb_load(p + 128 * i);
        x1 = vb_load(p + 128 * i + 32);
        x2 = vb_load(p + 128 * i + 64);
        x3 = vb_load(p + 128 * i + 96);
        q0 = vb_load(q + 16 * i);
        q1 = vb_load(q + 16 * i + 32);
        TINYI_LANE_DOT(t0, vb_and(x0, vb_set(15)), q0, 0);
        TINYI_LANE_DOT(t1, vb_shr(x0, 4), q1, 0);
        TINYI_LANE_DOT(t0, vb_and(x1, vb_set(15)), q0, 1);
        TINYI_LANE_DOT(t1, vb_shr(x1, 4), q1, 1);
        TINYI_LANE_DOT(t0, vb_and(x2, vb_set(15)), q0, 2);
        TINYI_LANE_DOT(t1, vb_shr(x2, 4), q1, 2);
        TINYI_LANE_DOT(t0, vb_and(x3, vb_set(15)), q0, 3);
        TINYI_LANE_DOT(t1, vb_shr(x3, 4), q1, 3);
    }
    s = TINY_FN(tinyi_quad_bytes)(k, places[0]);
    m = v_sub(TINY_FN(tinyi_quad_bytes)(k_low, places[0]), v_set(8388608.0f));
    TINYI_LANE_ADD(*part, *low, t0, s, m, d, z);
    s = TINY_FN(tinyi_quad_bytes)(k, places[2]);
    m = v_sub(TINY_FN(tinyi_quad_bytes)(k_low, places[2]), v_set(8388608.0f));
    TINYI_LANE_ADD(*part, *low, t1, s, m, d + 1, z + 1);
}
/* halves h0 .. h1 - 1 of the eight rows of a block of 256 numbers */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_broad)(v_f32 *acc, const unsigned char *w, const tinyi_q8 *x, size_t b,
                                                   int rows, int h0, int h1, int blk)
{
    const int five = tinyi_eight_has_five(blk), high = h1 - h0;
    const unsigned char *at, *p;
    v_f32 part[2 * TINYI_LANE_ROWS], low[2 * TINYI_LANE_ROWS];
    v_i8 places[4];
    int g, h, r;
    TINY_FN(tinyi_lane_places)(places);
    TINYI_BLK_EACH(r, high * rows) part[r] = low[r] = v_zero();
    if (blk == TINYI_BLK_Q6_K) {
        for (g = 0; g < 8; g++) {
            const v_i8 k = vb_xor(vb_load(w + 16 + 16 * g), vb_set(-128));     /* 128 more than meant */
            TINYI_BLK_EACH(h, high) {
                v_i8 c[8];
                const v_f32 s0 = v_sub(TINY_FN(tinyi_quad_bytes)(k, places[h0 + h]), v_set(8388736.0f)),
                            s1 = v_sub(TINY_FN(tinyi_quad_bytes)(k, places[2 + h0 + h]), v_set(8388736.0f));
                TINY_FN(tinyi_lane_codes)(c, w + TINYI_LANE_WHERE(blk, 0, g) + 16 * (h0 + h), blk, 0);
                TINYI_BLK_EACH(r, rows) {
                    const size_t row = (size_t)r * x->blocks + b;
                    const int8_t *q = x->code + 256 * row + 32 * g;
                    const float *sums = x->sum + 16 * row;
                    const v_i32 t0 = TINY_FN(tinyi_lane_sum)(TINY_FN(tinyi_lane_begin)(), c, vb_load(q)),
                                t1 = TINY_FN(tinyi_lane_sum)(TINY_FN(tinyi_lane_begin)(), c + 4, vb_load(q + 16));
                    const v_f32 f0 = v_mul(s0, v_sub(v_float(t0), TINY_FN(tinyi_lane_base)(sums, 2 * g, 1, 32))),
                                f1 = v_sub(v_float(t1), TINY_FN(tinyi_lane_base)(sums, 2 * g + 1, 1, 32));
                    part[h * rows + r] = vfmaq_n_f32(part[h * rows + r], v_fma(s1, f1, f0),
                                                        TINY_FN(tinyi_lane_scalar)(x->d + 16 * row + g));
                }
            }
        }
        TINYI_BLK_EACH(h, high)
            TINYI_BLK_EACH(r, rows)
                acc[h * rows + r] =
                    v_fma(TINY_FN(tinyi_lane_halves)(w + 8 * (h0 + h)), part[h * rows + r], acc[h * rows + r]);
        return;
    }
    at = w + 32;
    p = w + 128 + 16 * h0;
    for (g = 0; g < 8; g += 2, at += 16, p += five ? 320 : 256) {
        const v_i8 k = vb_and(vb_load(at), vb_set(63)), k_low = TINY_FN(tinyi_lane_minima)(at, g / 2);
        TINYI_BLK_EACH(h, high) {
            if (rows == 1 && blk == TINYI_BLK_Q4_K) {
                TINY_FN(tinyi_lane_two)
                (part + h, low + h, p + 16 * h, k, k_low, places + h0 + h, x->code + 256 * b + 32 * g,
                 x->d + 16 * b + g, x->sum + 16 * b + 8 + g);
                continue;
            }
            TINY_FN(tinyi_lane_group)
            (part + h * rows, low + h * rows, p + 16 * h, k, k_low, places[h0 + h], 0, x, b, g, rows, blk);
            TINY_FN(tinyi_lane_group)
            (part + h * rows, low + h * rows, p + 16 * h + (five ? 160 : 0), k, k_low, places[2 + h0 + h], 1, x, b,
             g + 1, rows, blk);
        }
    }
    TINYI_BLK_EACH(h, high)
        TINYI_BLK_EACH(r, rows) {
            const unsigned char *head = w + 8 * (h0 + h);
            acc[h * rows + r] = v_fnma(TINY_FN(tinyi_lane_halves)(head + 16), low[h * rows + r],
                                       v_fma(TINY_FN(tinyi_lane_halves)(head), part[h * rows + r], acc[h * rows + r]));
        }
}

/* one group of eight rows times `rows` rows of activations from x on */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_rows)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,
                                                  const tinyi_q8 *x, size_t k, int rows, int values, int bytes, int blk,
                                                  int traits)
{
    v_f32 acc[2 * TINYI_LANE_ROWS];
    size_t b;
    int g, h, r, i;
    TINYI_BLK_EACH(r, 2 * rows) acc[r] = v_zero();
    for (b = 0; 256 * b < k; b++) {
        if (values == 256) {
            if (rows == 1) TINY_FN(tinyi_lane_broad)(acc, w, x, b, 1, 0, 2, blk);
            else
                TINYI_BLK_EACH(h, 2)
                    TINY_FN(tinyi_lane_broad)(acc + h * rows, w, x, b, rows, h, h + 1, blk);
            w += 8 * bytes;
            continue;
        }
        for (g = 0; g < 8 && 256 * b + 32 * (size_t)g < k; g++, w += 8 * bytes) {
            TINY_FN(tinyi_lane_narrow)(acc, w, x, b, g, rows, blk, traits);
        }
    }
    TINYI_BLK_EACH(h, 2)
        TINYI_BLK_EACH(r, rows) {
            float *to = y + 4 * h * y_row + r * y_x, t[4];
            if (y_row == 1) {
                v_store(to, acc[h * rows + r]);
                continue;
            }
            v_store(t, acc[h * rows + r]);
            for (i = 0; i < 4; i++) to[i * y_row] = t[i];
        }
}

/* ---- expanded rows, as `panel` needs them */

/* 32 numbers of four rows, of which `offset` is taken off */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_apart)(unsigned char *to, const v_i8 *c, int offset)
{
    int i;
    TINYI_BLK_EACH(i, 2) {
        const v_f32 c0 = vreinterpretq_f32_s8(c[4 * i]), c1 = vreinterpretq_f32_s8(c[4 * i + 1]),
                    c2 = vreinterpretq_f32_s8(c[4 * i + 2]), c3 = vreinterpretq_f32_s8(c[4 * i + 3]);
        const v_f32 a0 = v_zip_low(c0, c2), a1 = v_zip_low(c1, c3), b0 = v_zip_high(c0, c2), b1 = v_zip_high(c1, c3);
        const v_i8 off = vb_set((int8_t)offset);
        vb_store(to + 16 * i, vb_sub(vreinterpretq_s8_f32(v_zip_low(a0, a1)), off));
        vb_store(to + 16 * i + TINYI_BLK_PANEL, vb_sub(vreinterpretq_s8_f32(v_zip_high(a0, a1)), off));
        vb_store(to + 16 * i + 2 * TINYI_BLK_PANEL, vb_sub(vreinterpretq_s8_f32(v_zip_low(b0, b1)), off));
        vb_store(to + 16 * i + 3 * TINYI_BLK_PANEL, vb_sub(vreinterpretq_s8_f32(v_zip_high(b0, b1)), off));
    }
}
/* number `at` of 32 floats after the codes of four rows, and the next one if `twice` */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_column)(unsigned char *to, int at, v_f32 s, int twice)
{
    float t[4];
    int i;
    v_store(t, s);
    for (i = 0; i < 4; i++, to += TINYI_BLK_PANEL) {
        memcpy(to + 256 + 4 * at, t + i, 4);
        if (twice) memcpy(to + 260 + 4 * at, t + i, 4);
    }
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_lane_out)(unsigned char *to, const unsigned char *w, size_t n, ptrdiff_t ahead,
                                                 int values, int bytes, int blk, int traits)
{
    const int five = tinyi_eight_has_five(blk), minima = (traits & TINYI_BLK_MINIMA) != 0,
              offset = TINY_FN(tinyi_lane_offset)(blk);
    v_i8 c[8];
    v_f32 s, m;
    int g, h, i;
    for (i = 0; i < 8 * bytes * (256 / values); i += 64) TINYI_BLK_AHEAD(w + ahead + i);
    if (n < 256)
        for (i = 0; i < 8; i++) memset(to + i * TINYI_BLK_PANEL, 0, TINYI_BLK_PANEL);
    for (g = 0; g < (int)(n / 32); g++)
        for (h = 0; h < 2; h++) {
            unsigned char *at = to + 4 * h * TINYI_BLK_PANEL;
            const unsigned char *head = values == 32 ? w + g * 8 * bytes : w;
            s = TINY_FN(tinyi_lane_halves)(head + 8 * h);
            if (values == 32) {
                TINY_FN(tinyi_lane_codes)(c, head + (minima ? 32 : 16) + 16 * h, blk, 0);
                m = TINY_FN(tinyi_lane_halves)(head + (minima ? 16 : 0) + 8 * h);
            } else if (blk == TINYI_BLK_Q6_K) {
                TINY_FN(tinyi_lane_codes)(c, w + TINYI_LANE_WHERE(blk, 0, g) + 16 * h, blk, 0);
                for (i = 0; i < 2; i++)
                    TINY_FN(tinyi_lane_column)
                    (at, 2 * g + i, v_mul(s, v_from_i32(vi_load_i8((const int8_t *)(w + 16 + 16 * g + 8 * i + 4 * h)))),
                     0);
                TINY_FN(tinyi_lane_apart)(at + 32 * g, c, offset);
                continue;
            } else {
                unsigned char k[32];
                vb_store(k, vb_and(vb_load(w + 32 + g / 2 * 16), vb_set(63)));
                vb_store(k + 16, TINY_FN(tinyi_lane_minima)(w + 32 + g / 2 * 16, g / 2));
                TINY_FN(tinyi_lane_codes)(c, w + TINYI_LANE_WHERE(blk, five, g) + 16 * h, blk, g % 2);
                m = v_neg(v_mul(TINY_FN(tinyi_lane_halves)(w + 16 + 8 * h),
                                v_from_i32(vi_load_u8(k + 16 + 8 * (g % 2) + 4 * h))));
                s = v_mul(s, v_from_i32(vi_load_u8(k + 8 * (g % 2) + 4 * h)));
            }
            TINY_FN(tinyi_lane_column)(at, 2 * g, s, 1);
            if (minima) TINY_FN(tinyi_lane_column)(at, 16 + 2 * g, m, 1);
            TINY_FN(tinyi_lane_apart)(at + 32 * g, c, offset);
        }
}

/* in place of sums: what the head of this file says */
static int TINY_FN(tinyi_lane_ready)(const int8_t *code, float *d, float *sum, size_t blocks)
{
    float largest = 0.0f;
    size_t b;
    int g;
    (void)code;
    for (b = 0; b < blocks; b++, d += 16, sum += 16) {
        int16_t sums[16];
        for (g = 0; g < 8; g++) {
            const int at = g / 4 * 8 + g % 4;
            sums[2 * g] = (int16_t)sum[at];
            sums[2 * g + 1] = (int16_t)sum[at + 4];
        }
        memcpy(sum, sums, sizeof sums);
        for (g = 0; g < 8; g++) {
            largest = TINYI_MAX(largest, d[g]);
            d[8 + g] *= d[g];
            sum[8 + g] = -8388608.0f * d[g];
        }
    }
    return largest < 1e29f;                 /* scales of weights come after sums, which are below 2^31 */
}

#define TINYI_LANE_CASE(name, values, bytes, traits, n)                                                              \
    TINY_FN(tinyi_lane_rows)(to, y_row, y_x, w, &at, k, n, values, bytes, TINYI_BLK_##name, traits)
#define TINYI_LANE_KERNELS(name, values, bytes, traits)                                                              \
    static void TINY_FN(tinyi_lane_dot_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,     \
                                                ptrdiff_t group_step, size_t groups, const tinyi_q8 *x, size_t k,     \
                                                size_t n)                                                             \
    {                                                                                                                 \
        for (; groups; groups--, w += group_step, y += 8 * y_row) {                                                   \
            tinyi_q8 at = *x;                                                                                         \
            float *to = y;                                                                                            \
            size_t left = n, step;                                                                                    \
            for (; left; left -= step, to += (ptrdiff_t)step * y_x, at.code += step * 256 * x->blocks,                \
                         at.d += step * 16 * x->blocks, at.sum += step * 16 * x->blocks) {                            \
                /* 3 + 2, 3 + 3, 4 + 3 */                                                                             \
                step = left == 4 || left > 6 ? 4 : left > 4 ? 3 : left;                                               \
                if (step == 1) TINYI_LANE_CASE(name, values, bytes, traits, 1);                                      \
                else if (step == 2) TINYI_LANE_CASE(name, values, bytes, traits, 2);                                 \
                else if (step == 3) TINYI_LANE_CASE(name, values, bytes, traits, 3);                                 \
                else TINYI_LANE_CASE(name, values, bytes, traits, 4);                                                \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    static void TINY_FN(tinyi_lane_expand_##name)(unsigned char *to, const unsigned char *w, size_t n,               \
                                                   ptrdiff_t ahead, int across)                                       \
    {                                                                                                                 \
        (void)across;                                                                                                 \
        TINY_FN(tinyi_lane_out)(to, w, n, ahead, values, bytes, TINYI_BLK_##name, traits);                           \
    }
TINYI_EIGHTS(TINYI_LANE_KERNELS)
#define TINYI_LANE_DOT_OF(name, values, bytes, traits) TINY_FN(tinyi_lane_dot_##name),
#define TINYI_LANE_EXPAND(name, values, bytes, traits) TINY_FN(tinyi_lane_expand_##name),
static const tinyi_eight_kernels TINY_FN(tinyi_lane_table) = { { TINYI_EIGHTS(TINYI_LANE_DOT_OF) },
                                                                { TINYI_EIGHTS(TINYI_LANE_EXPAND) },
                                                                TINY_FN(tinyi_lane_ready) };

#undef TINYI_LANE_ROWS
#undef TINYI_LANE_DOT
#undef TINYI_LANE_WHERE
#undef TINYI_LANE_ADD
#undef TINYI_LANE_CASE
#undef TINYI_LANE_KERNELS
#undef TINYI_LANE_DOT_OF
#undef TINYI_LANE_EXPAND
