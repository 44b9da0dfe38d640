/* src/llm/block/quad.simd.h - products of block formats on vectors of four lanes: neon with and without dotprod, w128
 *
 * Half a super-block, 128 numbers, is unpacked to eight vectors of codes in their natural order. Two byte dots give
 * four partial sums of a group of 32; four such vectors are folded by three additions of pairs into one, whose lanes
 * are the sums of four groups: one conversion, one multiplication by scales, one multiply-add for 128 numbers. An
 * offset that all codes share is taken off the sums while these are exact.
 *
 *   coarse      groups of 32; scales in order
 *   FINE        groups of 16; of each half those of groups 0 2 4 6, then 1 3 5 7: the lanes then meet the same scales
 *               of activations
 *
 * For each 256 activations: d holds 8 scales and 8 sums of codes of 32 numbers, sum those of 16 numbers, FINE order.
 *
 * One row of activations: two rows of weights share what is loaded of it (neon). A few rows of activations: the codes
 * of a half stay in registers for all of them; with i8mm they are multiplied two by two. Many rows: many.simd.h,
 * without byte dots long.simd.h and, on w128, pair.simd.h. Repacked matrices: eight_dot.simd.h. */

#define TINYI_BLK_EACH(i, n) TINYI_UNROLL for (i = 0; i < (n); i++)
#if V_W128                                  /* one text for both */
#define TINYI_QUAD_HALVES(h) for (h = 0; h < 2; h++)
#else
#define TINYI_QUAD_HALVES(h) TINYI_BLK_EACH(h, 2)
#endif

/* The pointer is said to change: gcc 12 loads ahead, for which there are no registers; clang 14 would choose between
 * two addresses at each load. */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_QUAD_HERE(p) __asm__ volatile("" : "+r"(p))
#else
#define TINYI_QUAD_HERE(p) ((void)0)
#endif

/* ---- sums of groups */

#if V_DOTPROD
#define TINYI_QUAD_BEGIN 0x4b400000         /* the bits of 1.5 * 2^23: see many.simd.h */
#define TINYI_QUAD_START 12582912.0f
#if TINYI_GCC || TINYI_CLANG
/* to = a times element `lane` of b, which gcc 12 would rather copy to all lanes first */
#define TINYI_QUAD_TIMES(to, a, b, lane) __asm__("fmul %0.4s, %1.4s, %2.s[" #lane "]" : "=w"(to) : "w"(a), "w"(b))
#else
#define TINYI_QUAD_TIMES(to, a, b, lane) to = vmulq_laneq_f32(a, b, lane)
#endif
/* Four constants that an instruction will overwrite: a copy would take a slot of the pipes that multiply, a load takes
 * none. */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_quad_again)(const int32_t *p)
{
#if TINYI_GCC || TINYI_CLANG
    v_i32 v;
    __asm__ volatile("ldr %q0, %1" : "=w"(v) : "m"(*(const int32_t(*)[4])p));
    return v;
#else
    return vld1q_s32(p);
#endif
}
/* What four partial sums begin with: together it is BEGIN. general: from a general register, where loads are the
 * limit. */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_quad_from)(int general)
{
    static const int32_t begin[4] = { TINYI_QUAD_BEGIN, 0, 0, 0 };
#if TINYI_GCC                               /* clang 14 spills then */
    if (general) {
        v_i32 v;
        __asm__ volatile("fmov %s0, %w1" : "=w"(v) : "r"(TINYI_QUAD_BEGIN));
        return v;
    }
    return TINY_FN(tinyi_quad_again)(begin);
#else
    (void)general;
    return vld1q_s32(begin);
#endif
}
/* sums from there on as floats, of which what all codes share is added: `shared` times the sums of activations */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_quad_floats_of)(v_i32 p, v_f32 sums, float shared)
{
    return v_sub(v_float(p), shared != 0.0f ? v_fnma(sums, v_set(shared), v_set(TINYI_QUAD_START))
                                            : v_set(TINYI_QUAD_START));
}
#else
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_quad_from)(int general) { (void)general; return vi_zero(); }
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_quad_floats_of)(v_i32 p, v_f32 sums, float shared)
{
    return shared != 0.0f ? v_fma(sums, v_set(shared), v_from_i32(p)) : v_from_i32(p);
}
#endif

TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_quad_product)(v_i32 acc, v_i8 c, v_i8 q, int traits)
{
    return traits & TINYI_BLK_HAS_SIGN ? v_dot_i8_b127(acc, c, q) : v_dot_u7i8(acc, c, q);
}
/* of the groups of a half: one vector, or two where they are FINE */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_sums)(v_i32 *p, const v_i8 *c, const v_i8 *q, int traits)
{
    v_i32 t[8];
    int i;
    if (traits & TINYI_BLK_FINE) {
        TINYI_BLK_EACH(i, 8)
            t[i] = TINY_FN(tinyi_quad_product)(TINY_FN(tinyi_quad_from)(0), c[i], q[i], traits);
        p[0] = vi_pairs(vi_pairs(t[0], t[2]), vi_pairs(t[4], t[6]));
        p[1] = vi_pairs(vi_pairs(t[1], t[3]), vi_pairs(t[5], t[7]));
    } else {
        TINYI_BLK_EACH(i, 4) {
            const int is_q8_0 = traits == (TINYI_BLK_FITS | TINYI_BLK_HAS_SIGN);
            t[i] = TINY_FN(tinyi_quad_product)(TINY_FN(tinyi_quad_from)(is_q8_0 && i % 2), c[2 * i], q[2 * i], traits);
            t[i] = TINY_FN(tinyi_quad_product)(t[i], c[2 * i + 1], q[2 * i + 1], traits);
        }
        p[0] = vi_pairs(vi_pairs(t[0], t[1]), vi_pairs(t[2], t[3]));
    }
}
/* Half h of a super-block times one row of activations: scales s, offsets m where a format has them, one offset
 * `shared` by all codes. */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_quad_step)(v_f32 acc, const v_i8 *c, const v_i8 *q, const v_f32 *s,
                                                  const v_f32 *m, float shared, const float *d, const float *sum, int h,
                                                  int traits)
{
    const v_f32 scale = v_load(d + 4 * h);
    v_i32 p[2];
    int i;
    TINY_FN(tinyi_quad_sums)(p, c, q, traits);
    TINYI_BLK_EACH(i, 2) {
        const int at = traits & TINYI_BLK_FINE ? 2 * h + i : h;
        v_f32 f, sums = scale;
        if (i && !(traits & TINYI_BLK_FINE)) break;
        if ((traits & TINYI_BLK_MINIMA) || shared != 0.0f)
            sums = v_load(traits & TINYI_BLK_FINE ? sum + 4 * at : d + 8 + 4 * h);
        f = TINY_FN(tinyi_quad_floats_of)(p[i], sums, shared);
        if (traits & TINYI_BLK_MINIMA) acc = v_fma(scale, v_fma(s[at], f, v_mul(m[at], sums)), acc);
        else acc = v_fma(v_mul(s[at], scale), f, acc);
    }
    return acc;
}

/* ---- codes: the 128 numbers of half h as eight vectors */

/* four blocks of 16 bytes, step apart: low halves are numbers 0..15, high ones 16..31 */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_nibbles)(v_i8 *c, const unsigned char *p, int step)
{
    int i;
    TINYI_BLK_EACH(i, 4) {
        const v_i8 x = vb_load(p + i * step);
        c[2 * i] = vb_and(x, vb_set(15));
        c[2 * i + 1] = vb_shr(x, 4);
    }
}
/* the fifth bits of four blocks, step apart: bit j of 32 belongs to number j */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_fifth)(v_i8 *c, const unsigned char *p, int step)
{
    int i;
    TINYI_BLK_EACH(i, 8) c[i] = vb_merge(c[i], vb_bits(p + i / 2 * step + i % 2 * 2), vb_set(16));
}
/* 64 bytes: low halves of 32 are a group, then their high halves */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_fours)(v_i8 *c, const unsigned char *p)
{
    int i;
    TINYI_BLK_EACH(i, 4) {
        const v_i8 x = vb_load(p + 16 * i);
        c[i / 2 * 4 + i % 2] = vb_and(x, vb_set(15));
        c[i / 2 * 4 + i % 2 + 2] = vb_shr(x, 4);
    }
}
/* 32 bytes: two bits each of four groups */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_twos)(v_i8 *c, const unsigned char *p)
{
    int i;
    TINYI_BLK_EACH(i, 2) {
        const v_i8 x = vb_load(p + 16 * i);
        c[i] = vb_and(x, vb_set(3));
        c[i + 2] = vb_and(vb_shr(x, 2), vb_set(3));
        c[i + 4] = vb_and(vb_shr(x, 4), vb_set(3));
        c[i + 6] = vb_shr(x, 6);
    }
}
/* bit `from` + i of 32 bytes belongs to group i, where it is worth 2^at */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_high)(v_i8 *c, const unsigned char *p, int from, int at)
{
    int i;
    TINYI_BLK_EACH(i, 8) {
        const v_i8 x = vb_load(p + i % 2 * 16);
        const int by = at - from - i / 2;
        c[i] = vb_merge(c[i],
                        by > 0   ? vb_shl(x, by > 0 ? by : 0)
                        : by < 0 ? vb_shr(x, by < 0 ? -by : 0)
                                 : x,
                        vb_set((int8_t)(1 << at)));
    }
}

/* ---- scales: s and m of the whole super-block, 2 vectors or, FINE, 4 */

#if V_DOTPROD
/* Bytes 4 i .. 4 i + 3 of a vector become the lowest bytes of four lanes; the other bytes stay. */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_quad_places)(int i)
{
    static const unsigned char at[4][16] = {
        { 0, 255, 255, 255, 1, 255, 255, 255, 2, 255, 255, 255, 3, 255, 255, 255 },
        { 4, 255, 255, 255, 5, 255, 255, 255, 6, 255, 255, 255, 7, 255, 255, 255 },
        { 8, 255, 255, 255, 9, 255, 255, 255, 10, 255, 255, 255, 11, 255, 255, 255 },
        { 12, 255, 255, 255, 13, 255, 255, 255, 14, 255, 255, 255, 15, 255, 255, 255 }
    };
    return vb_load(at[i]);
}
/* 2^23 + those four bytes of k: one table look-up in place of two steps to 32 bits and a conversion */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_quad_bytes)(v_i8 k, v_i8 places)
{
    static const int32_t ones[4] = { 0x4b000000, 0x4b000000, 0x4b000000, 0x4b000000 };
    return vreinterpretq_f32_s8(
        vqtbx1q_s8(vreinterpretq_s8_s32(TINY_FN(tinyi_quad_again)(ones)), k, vreinterpretq_u8_s8(places)));
}
#endif

#if V_NEON
/* a float of each of four expanded rows */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_quad_of_rows)(const float *s)
{
    v_f32 t = vld1q_dup_f32(s);
    t = vld1q_lane_f32(s + TINYI_BLK_PANEL / 4, t, 1);
    t = vld1q_lane_f32(s + 2 * (TINYI_BLK_PANEL / 4), t, 2);
    return vld1q_lane_f32(s + 3 * (TINYI_BLK_PANEL / 4), t, 3);
}
/* Four halves, put together in a general register: loads into lanes take slots of the vector pipes. */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_quad_four)(const unsigned char *p, int step)
{
    uint16_t t[4];
    memcpy(t, p, 2);
    memcpy(t + 1, p + step, 2);
    memcpy(t + 2, p + 2 * step, 2);
    memcpy(t + 3, p + 3 * step, 2);
    return TINY_FN(tinyi_f16_up)(
        vcreate_u16((uint64_t)t[0] | (uint64_t)t[1] << 16 | (uint64_t)t[2] << 32 | (uint64_t)t[3] << 48));
}
#endif
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_halves)(v_f32 *s, const unsigned char *p, int step)
{
#if V_NEON
    if (step != 34) {                       /* blocks of Q8_0: there the number of instructions limits, not the pipes */
        s[0] = TINY_FN(tinyi_quad_four)(p, step);
        s[1] = TINY_FN(tinyi_quad_four)(p + 4 * step, step);
        return;
    }
#endif
    s[0] = v_load_f16_each(p, step);
    s[1] = v_load_f16_each(p + 4 * step, step);
}
/* 16 bytes of scales in FINE order */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_quad_order)(const unsigned char *p)
{
    static const unsigned char order[16] = { 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15 };
    return vb_table16(p, vb_load(order));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_times)(v_f32 *s, v_f32 d, v_i8 k)
{
    int i;
#if V_DOTPROD                               /* 128 more than meant: without a sign */
    k = vb_xor(k, vb_set(-128));
    TINYI_BLK_EACH(i, 4)
        s[i] = v_mul(d, v_sub(TINY_FN(tinyi_quad_bytes)(k, TINY_FN(tinyi_quad_places)(i)), v_set(8388736.0f)));
#else
    int8_t t[16];
    vb_store(t, k);
    TINYI_BLK_EACH(i, 4) s[i] = v_mul(d, v_from_i32(vi_load_i8(t + 4 * i)));
#endif
}
/* Q4_K, Q5_K: eight scales and eight minima of six bits in twelve bytes, behind the halves that both are multiplied
 * by */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_scales6)(v_f32 *s, v_f32 *m, const unsigned char *b)
{
    uint32_t a[3], k[4];
    int i;
    /* four bytes side by side: their order is that of this machine before and after */
    memcpy(a, b + 4, 12);
    k[0] = a[0] & 0x3f3f3f3fu;
    k[1] = (a[2] & 0x0f0f0f0fu) | (a[0] >> 2 & 0x30303030u);
    k[2] = a[1] & 0x3f3f3f3fu;
    k[3] = (a[2] >> 4 & 0x0f0f0f0fu) | (a[1] >> 2 & 0x30303030u);
#if V_DOTPROD
    {
        const int8x8_t none = vdup_n_s8(0);
        const v_i8 up = vcombine_s8(vcreate_s8((uint64_t)k[1] << 32 | k[0]), none),
                   down = vcombine_s8(vcreate_s8((uint64_t)k[3] << 32 | k[2]), none);
        const v_f32 ones = v_set(8388608.0f);
        uint32_t both;
        v_f32 d;
        memcpy(&both, b, 4);
        d = TINY_FN(tinyi_f16_up)(vreinterpret_u16_u32(vdup_n_u32(both)));
        TINYI_BLK_EACH(i, 2) {
            const v_i8 places = TINY_FN(tinyi_quad_places)(i);
            TINYI_QUAD_TIMES(s[i], v_sub(TINY_FN(tinyi_quad_bytes)(up, places), ones), d, 0);
            TINYI_QUAD_TIMES(m[i], v_sub(ones, TINY_FN(tinyi_quad_bytes)(down, places)), d, 1);
        }
    }
#else
    {
        const v_f32 d = v_set_f16(b), low = v_neg(v_set_f16(b + 2));
        TINYI_BLK_EACH(i, 2) {
            s[i] = v_mul(d, v_from_i32(vi_load_u8((const unsigned char *)(k + i))));
            m[i] = v_mul(low, v_from_i32(vi_load_u8((const unsigned char *)(k + 2 + i))));
        }
    }
#endif
}
/* Q3_K: sixteen scales of six bits, 32 more than meant, in the twelve bytes before the half at b + 12 */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_scales3)(v_f32 *s, const unsigned char *b)
{
    uint32_t a[3], k[4];
    memcpy(a, b, 12);
    k[0] = (a[0] & 0x0f0f0f0fu) | (a[2] << 4 & 0x30303030u);
    k[1] = (a[1] & 0x0f0f0f0fu) | (a[2] << 2 & 0x30303030u);
    k[2] = (a[0] >> 4 & 0x0f0f0f0fu) | (a[2] & 0x30303030u);
    k[3] = (a[1] >> 4 & 0x0f0f0f0fu) | (a[2] >> 2 & 0x30303030u);
    TINY_FN(tinyi_quad_times)
    (s, v_set_f16(b + 12), vb_sub(TINY_FN(tinyi_quad_order)((const unsigned char *)k), vb_set(32)));
}
/* IQ4_XS: eight scales of six bits, 32 more than meant: four bits each in four bytes, two each in two */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_scales_xs)(v_f32 *s, const unsigned char *b)
{
    uint64_t low = tinyi_q_u32(b + 4), high = tinyi_q_u16(b + 2);
    int8_t t[8];
    int i;
    low = (low | low << 16) & 0x0000ffff0000ffffu;         /* nibble i to byte i */
    low = (low | low << 8) & 0x00ff00ff00ff00ffu;
    low = (low | low << 4) & 0x0f0f0f0f0f0f0f0fu;
    high = (high | high << 24) & 0x000000ff000000ffu;
    high = (high | high << 12) & 0x000f000f000f000fu;
    high = (high | high << 6) & 0x0303030303030303u;
    low |= high << 4;
    for (i = 0; i < 8; i++) t[i] = (int8_t)((int)(low >> 8 * i & 63) - 32);
    TINYI_BLK_EACH(i, 2) s[i] = v_mul(v_set_f16(b), v_from_i32(vi_load_i8(t + 4 * i)));
}
/* MXFP4: 2^(e - 128), since the codes are doubled */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_powers)(v_f32 *s, const unsigned char *p, int step)
{
    float t[8];
    int i;
    for (i = 0; i < 8; i++)
        t[i] = tinyi_bits_f32(p[i * step] < 2 ? 0x00200000u << p[i * step] : (uint32_t)(p[i * step] - 1) << 23);
    s[0] = v_load(t);
    s[1] = v_load(t + 4);
}

/* ---- the formats: the codes of half h; scales and minima, and what comes back is the offset that all codes share */

#define TINYI_QUAD_CODES(name) \
    TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_codes_##name)(v_i8 * c, const unsigned char *b, int h)
#define TINYI_QUAD_SCALES(name) \
    TINYI_FORCE_INLINE float TINY_FN(tinyi_quad_scales_##name)(v_f32 * s, v_f32 * m, const unsigned char *b)

TINYI_QUAD_CODES(Q8_0)
{
    int i;
    TINYI_BLK_EACH(i, 8) c[i] = vb_load(b + 136 * h + i / 2 * 34 + 2 + i % 2 * 16);
}
TINYI_QUAD_SCALES(Q8_0) { (void)m; TINY_FN(tinyi_quad_halves)(s, b, 34); return 0.0f; }
TINYI_QUAD_CODES(Q4_0) { TINY_FN(tinyi_quad_nibbles)(c, b + 72 * h + 2, 18); }
TINYI_QUAD_SCALES(Q4_0) { (void)m; TINY_FN(tinyi_quad_halves)(s, b, 18); return -8.0f; }
TINYI_QUAD_CODES(Q4_1) { TINY_FN(tinyi_quad_nibbles)(c, b + 80 * h + 4, 20); }
TINYI_QUAD_SCALES(Q4_1) { TINY_FN(tinyi_quad_halves)(s, b, 20); TINY_FN(tinyi_quad_halves)(m, b + 2, 20); return 0.0f; }
TINYI_QUAD_CODES(Q5_0)
{
    TINY_FN(tinyi_quad_nibbles)(c, b + 88 * h + 6, 22);
    TINY_FN(tinyi_quad_fifth)(c, b + 88 * h + 2, 22);
}
TINYI_QUAD_SCALES(Q5_0) { (void)m; TINY_FN(tinyi_quad_halves)(s, b, 22); return -16.0f; }
TINYI_QUAD_CODES(Q5_1)
{
    TINY_FN(tinyi_quad_nibbles)(c, b + 96 * h + 8, 24);
    TINY_FN(tinyi_quad_fifth)(c, b + 96 * h + 4, 24);
}
TINYI_QUAD_SCALES(Q5_1) { TINY_FN(tinyi_quad_halves)(s, b, 24); TINY_FN(tinyi_quad_halves)(m, b + 2, 24); return 0.0f; }
TINYI_QUAD_CODES(Q2_K) { TINY_FN(tinyi_quad_twos)(c, b + 16 + 32 * h); }
TINYI_QUAD_SCALES(Q2_K)
{
    const v_i8 k = TINY_FN(tinyi_quad_order)(b);
    TINY_FN(tinyi_quad_times)(s, v_set_f16(b + 80), vb_and(k, vb_set(15)));
    TINY_FN(tinyi_quad_times)(m, v_neg(v_set_f16(b + 82)), vb_shr(k, 4));
    return 0.0f;
}
TINYI_QUAD_CODES(Q3_K) { TINY_FN(tinyi_quad_twos)(c, b + 32 + 32 * h); TINY_FN(tinyi_quad_high)(c, b, 4 * h, 2); }
TINYI_QUAD_SCALES(Q3_K) { (void)m; TINY_FN(tinyi_quad_scales3)(s, b + 96); return -4.0f; }
TINYI_QUAD_CODES(Q4_K) { TINY_FN(tinyi_quad_fours)(c, b + 16 + 64 * h); }
TINYI_QUAD_SCALES(Q4_K) { TINY_FN(tinyi_quad_scales6)(s, m, b); return 0.0f; }
TINYI_QUAD_CODES(Q5_K) { TINY_FN(tinyi_quad_fours)(c, b + 48 + 64 * h); TINY_FN(tinyi_quad_high)(c, b + 16, 4 * h, 4); }
TINYI_QUAD_SCALES(Q5_K) { TINY_FN(tinyi_quad_scales6)(s, m, b); return 0.0f; }
TINYI_QUAD_CODES(Q6_K)
{
    int i;
    /* of 64 bytes low halves are groups 0 and 1, high ones 2 and 3; two bits each of four groups are in 32 others */
    TINYI_BLK_EACH(i, 4) {
        const v_i8 x = vb_load(b + 64 * h + 16 * i), top = vb_load(b + 128 + 32 * h + i % 2 * 16), mask = vb_set(0x30);
        c[i] = vb_merge(vb_and(x, vb_set(15)), vb_shl(top, i < 2 ? 4 : 2), mask);
        c[i + 4] = vb_merge(vb_shr(x, 4), i < 2 ? top : vb_shr(top, 2), mask);
    }
}
TINYI_QUAD_SCALES(Q6_K)
{
    (void)m;
    TINY_FN(tinyi_quad_times)(s, v_set_f16(b + 208), TINY_FN(tinyi_quad_order)(b + 192));
    return -32.0f;
}
/* TQ1_0: a byte is a fraction of 256; times 3, the digit is what goes over */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_quad_digit)(v_i8 x)      /* 3 x / 4 without going over, then / 64 */
{
    const v_i8 half = vb_shr(x, 1);
    return vb_shr(vb_add(vb_and(x, half), vb_shr(vb_xor(x, half), 1)), 6);
}
TINYI_QUAD_CODES(TQ1_0)
{
    unsigned char t[16];
    v_i8 x[2];
    int i, j;
    if (h == 0) {                           /* five digits of 32 bytes, four of them here */
        x[0] = vb_load(b);
        x[1] = vb_load(b + 16);
        TINYI_BLK_EACH(i, 8) {
            c[i] = TINY_FN(tinyi_quad_digit)(x[i % 2]);
            x[i % 2] = vb_add(x[i % 2], vb_add(x[i % 2], x[i % 2]));
        }
        return;
    }
    TINYI_BLK_EACH(i, 2) {                  /* the fifth: times 81 */
        x[i] = vb_load(b + 16 * i);
        x[i] = vb_add(x[i], vb_add(vb_shl(x[i], 4), vb_shl(x[i], 6)));
        c[i] = TINY_FN(tinyi_quad_digit)(x[i]);
    }
    x[0] = vb_load(b + 32);
    TINYI_BLK_EACH(i, 5) {
        c[2 + i] = TINY_FN(tinyi_quad_digit)(x[0]);
        x[0] = vb_add(x[0], vb_add(x[0], x[0]));
    }
    memcpy(t, b + 48, 4);                   /* four digits of four bytes */
    for (i = 1; i < 4; i++)
        for (j = 0; j < 4; j++) t[4 * i + j] = (unsigned char)(3 * t[4 * i + j - 4]);
    c[7] = TINY_FN(tinyi_quad_digit)(vb_load(t));
}
TINYI_QUAD_SCALES(TQ1_0) { (void)m; s[0] = s[1] = v_set_f16(b + 52); return -1.0f; }
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_look_up)(v_i8 *c, const void *table)
{
    int i;
    TINYI_BLK_EACH(i, 8) c[i] = vb_table16(table, c[i]);
}
TINYI_QUAD_CODES(IQ4_NL)
{
    TINY_FN(tinyi_quad_nibbles)(c, b + 72 * h + 2, 18);
    TINY_FN(tinyi_quad_look_up)(c, tinyi_blk_iq4);
}
TINYI_QUAD_SCALES(IQ4_NL) { (void)m; TINY_FN(tinyi_quad_halves)(s, b, 18); return 0.0f; }
TINYI_QUAD_CODES(IQ4_XS)
{
    TINY_FN(tinyi_quad_nibbles)(c, b + 8 + 64 * h, 16);
    TINY_FN(tinyi_quad_look_up)(c, tinyi_blk_iq4);
}
TINYI_QUAD_SCALES(IQ4_XS) { (void)m; TINY_FN(tinyi_quad_scales_xs)(s, b); return 0.0f; }
TINYI_QUAD_CODES(MXFP4)
{
    TINY_FN(tinyi_quad_nibbles)(c, b + 68 * h + 1, 17);
    TINY_FN(tinyi_quad_look_up)(c, tinyi_blk_e2m1_16);
}
TINYI_QUAD_SCALES(MXFP4) { (void)m; TINY_FN(tinyi_quad_powers)(s, b, 17); return -16.0f; }
TINYI_QUAD_CODES(TQ2_0) { TINY_FN(tinyi_quad_twos)(c, b + 32 * h); }
TINYI_QUAD_SCALES(TQ2_0) { (void)m; s[0] = s[1] = v_set_f16(b + 64); return -1.0f; }
TINYI_QUAD_CODES(NVFP4)
{
    int i;
    TINYI_BLK_EACH(i, 4) {                  /* eight bytes are a group of 16, low halves first */
        const v_i8 x = vb_load(b + 72 * h + i / 2 * 36 + 4 + i % 2 * 16), low = vb_and(x, vb_set(15)),
                   high = vb_shr(x, 4);
        c[2 * i] = vb_lows(low, high);
        c[2 * i + 1] = vb_highs(low, high);
    }
    TINY_FN(tinyi_quad_look_up)(c, tinyi_blk_e2m1_16);
}
TINYI_QUAD_SCALES(NVFP4)
{
    unsigned char k[16];
    int i;
    (void)m;
    TINYI_BLK_EACH(i, 4) memcpy(k + 4 * i, b + 36 * i, 4);
    vb_store(k, TINY_FN(tinyi_quad_order)(k));
    TINYI_BLK_EACH(i, 4) {                  /* tinyi_q_e4m3 */
        const v_i32 all = vi_load_u8(k + 4 * i), x = vi_and(all, vi_set(0x7f));
        const v_f32 large = v_float(vi_add(vi_shl(x, 20), vi_set(119 << 23))),
                    low = v_mul(v_from_i32(x), v_set(1.0f / 1024.0f));
        s[i] = v_select(vi_eq(all, vi_set(0x7f)), v_zero(), v_select(vi_gt(vi_set(8), x), low, large));
    }
    return -16.0f;
}
TINYI_QUAD_CODES(Q1_0)
{
    int i;
    TINYI_BLK_EACH(i, 8) c[i] = vb_and(vb_bits(b + 18 * h + 2 + 2 * i), vb_set(2));
}
TINYI_QUAD_SCALES(Q1_0) { (void)m; s[0] = v_set_f16(b); s[1] = v_set_f16(b + 18); return -1.0f; }
TINYI_QUAD_CODES(Q2_0)                      /* a byte holds four numbers, the lowest bits first */
{
    int i, j;
    TINYI_BLK_EACH(i, 2) {
        const v_i8 x = vb_load(b + 36 * h + 18 * i + 2), low = vb_and(x, vb_set(15)), high = vb_shr(x, 4);
        TINYI_BLK_EACH(j, 2) {
            const v_i8 two = j ? vb_zip_high(low, high) : vb_zip_low(low, high);
            const v_i8 even = vb_and(two, vb_set(3)), odd = vb_shr(two, 2);
            c[4 * i + 2 * j] = vb_zip_low(even, odd);
            c[4 * i + 2 * j + 1] = vb_zip_high(even, odd);
        }
    }
}
TINYI_QUAD_SCALES(Q2_0)
{
    const v_f32 d = v_load_f16_each(b, 18);
    (void)m;
    s[0] = v_zip_low(d, d);
    s[1] = v_zip_high(d, d);
    return -1.0f;
}

#if V_I8MM
/* ---- products of pairs of rows: with i8mm, from two rows of activations on
 *
 * An instruction multiplies eight numbers of two rows of weights with eight of two rows of activations: a group of 32
 * is four of them, and no lane is folded into another. Activations lie in pairs: eight codes of one row, eight of the
 * other; each scale and sum of one beside that of the other. A row without a partner has zeros beside it. */

/* [a g][a g][b g][b g] for each lane g of the scales a and b of two rows */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_pair)(v_f32 *to, v_f32 a, v_f32 b)
{
    const v_f32 low = v_zip_low(a, b), high = v_zip_high(a, b);
    to[0] = v_zip_low(low, low);
    to[1] = v_zip_high(low, low);
    to[2] = v_zip_low(high, high);
    to[3] = v_zip_high(high, high);
}
/* Half h of a super-block of two rows of weights, pairs of eight codes in w, times two rows of activations. */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_quad_twin_step)(v_f32 acc, const v_i8 *w, const v_f32 *s, const v_f32 *m,
                                                       float shared, const int8_t *q, const float *d, const float *sum,
                                                       int h, int traits)
{
    static const int32_t begin[4] = { TINYI_QUAD_BEGIN, TINYI_QUAD_BEGIN, TINYI_QUAD_BEGIN, TINYI_QUAD_BEGIN };
    const int fine = (traits & TINYI_BLK_FINE) != 0;
    int g, i;
    TINYI_BLK_EACH(g, 8) {
        const int per = fine ? 2 : 4, at = fine ? g % 2 * 4 + g / 2 : g;        /* where a group stands among scales */
        const v_f32 scale = v_twice(d + 8 * h + 2 * (fine ? g / 2 : g));
        v_f32 f, sums = scale;
        v_i32 t;
        if (g >= 16 / per) break;
        t = TINY_FN(tinyi_quad_again)(begin);
        TINYI_BLK_EACH(i, 4) if (i < per) t = v_mmla_i8(t, w[per * g + i], vb_load(q + 16 * (per * g + i)));
        if ((traits & TINYI_BLK_MINIMA) || shared != 0.0f)
            sums = v_twice(fine ? sum + 16 * h + 2 * at : d + 16 + 8 * h + 2 * g);
        f = TINY_FN(tinyi_quad_floats_of)(t, sums, shared);
        if (traits & TINYI_BLK_MINIMA) acc = v_fma(scale, v_fma(s[at], f, v_mul(m[at], sums)), acc);
        else acc = v_fma(v_mul(s[at], scale), f, acc);
    }
    return acc;
}

#define TINYI_BLK_KERNELS(name, values, bytes, traits)                                                                 \
    static void TINY_FN(tinyi_quad_few_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,       \
                                               ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k, size_t n)   \
    {                                                                                                                  \
        const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / (values) * (bytes), 2048);                                   \
        size_t row;                                                                                                    \
        for (row = 0; row < n_row; row += 2, w += 2 * w_row, y += 2 * y_row) {                                         \
            unsigned char last[2][256 / (values) * (bytes)];                                                           \
            const unsigned char *b[2];                                                                                 \
            float acc[TINYI_BLK_FEW / 2][4];                                                                           \
            size_t at, r;                                                                                              \
            int h, i, j;                                                                                               \
            b[0] = w;                                                                                                  \
            b[1] = row + 1 < n_row ? w + w_row : w;                                                                    \
            for (r = 0; 2 * r < n; r++) v_store(acc[r], v_zero());                                                     \
            for (at = 0; at < k; at += 256) {                                                                          \
                v_f32 s[2][4], m[2][4];                                                                                \
                float shared = 0.0f;                                                                                   \
                TINYI_BLK_EACH(j, 2)                                                                                   \
                {                                                                                                      \
                    if (k - at < 256)                                                                                  \
                        b[j] = tinyi_blk_last(last[j], sizeof last[j], b[j], (k - at) / (values) * (bytes));           \
                    else                                                                                               \
                        TINYI_BLK_EACH(i, (256 / (values) * (bytes) + 63) / 64) TINYI_BLK_AHEAD(b[j] + soon + 64 * i); \
                    shared = TINY_FN(tinyi_quad_scales_##name)(s[j], m[j], b[j]);                                      \
                }                                                                                                      \
                TINYI_BLK_EACH(h, 2)                                                                                   \
                {                                                                                                      \
                    v_i8 c[2][8], both[16];                                                                            \
                    v_f32 scale[8], low[8];                                                                            \
                    TINYI_BLK_EACH(j, 2) TINY_FN(tinyi_quad_codes_##name)(c[j], b[j], h);                              \
                    TINYI_BLK_EACH(i, 8)                                                                               \
                    {                                                                                                  \
                        both[2 * i] = vb_lows(c[0][i], c[1][i]);                                                       \
                        both[2 * i + 1] = vb_highs(c[0][i], c[1][i]);                                                  \
                    }                                                                                                  \
                    TINYI_BLK_EACH(i, (traits)&TINYI_BLK_FINE ? 2 : 1)                                                 \
                    {                                                                                                  \
                        const int of = (traits)&TINYI_BLK_FINE ? 2 * h + i : h;                                        \
                        TINY_FN(tinyi_quad_pair)(scale + 4 * i, s[0][of], s[1][of]);                                   \
                        if ((traits)&TINYI_BLK_MINIMA) TINY_FN(tinyi_quad_pair)(low + 4 * i, m[0][of], m[1][of]);      \
                    }                                                                                                  \
                    for (r = 0; 2 * r < n; r++) {                                                                      \
                        const size_t p = 2 * (r * 256 * x->blocks + at);                                               \
                        v_store(acc[r], TINY_FN(tinyi_quad_twin_step)(v_load(acc[r]), both, scale, low, shared,        \
                                                                      x->code + p + 256 * h, x->d + p / 16,            \
                                                                      x->sum + p / 16, h, (traits)));                  \
                    }                                                                                                  \
                }                                                                                                      \
                TINYI_BLK_EACH(j, 2) b[j] += 256 / (values) * (bytes);                                                 \
            }                                                                                                          \
            for (r = 0; r < n; r++) {                                                                                  \
                y[(ptrdiff_t)r * y_x] = acc[r / 2][r % 2];                                                             \
                if (row + 1 < n_row) y[y_row + (ptrdiff_t)r * y_x] = acc[r / 2][2 + r % 2];                            \
            }                                                                                                          \
        }                                                                                                              \
    }
TINYI_BLKS_PLAIN(TINYI_BLK_KERNELS)

#else
/* ---- products, and rows of weights expanded: codes in order, 16 scales and 16 offsets */

#if V_W128
/* vector i of scales to the 16 of a super-block, in order */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_spread)(float *to, v_f32 s, int i, int fine)
{
    float t[4];
    int l;
    v_store(t, s);
    for (l = 0; l < 4; l++)
        if (fine) to[i / 2 * 8 + 2 * l + i % 2] = t[l];
        else to[8 * i + 2 * l] = to[8 * i + 2 * l + 1] = t[l];
}
/* a format is what takes its blocks apart: what comes after stands here once for each kind of format. SIZES: of all
 * formats the largest */
typedef float (*tinyi_quad_get)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b);
#define TINYI_QUAD_SIZES (8 * 34)
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_few_of)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,
                                                   ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k, size_t n,
                                                   tinyi_quad_get get, size_t values, size_t bytes, int traits)
{
    const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / values * bytes, 2048);
    const size_t each = 256 / values * bytes;
    for (; n_row; n_row--, w += w_row, y += y_row) {
        unsigned char last[TINYI_QUAD_SIZES];
        const unsigned char *b = w;
        float acc[TINYI_BLK_FEW][4];
        size_t at, r, ask;
        for (r = 0; r < n; r++) v_store(acc[r], v_zero());
        for (at = 0; at < k; at += 256, b += each) {
            v_i8 c[16];
            v_f32 s[4], m[4];
            float shared;
            int h, i;
            if (k - at < 256) b = tinyi_blk_last(last, each, b, (k - at) / values * bytes);
            else for (ask = 0; ask < each; ask += 64) TINYI_BLK_AHEAD(b + soon + ask);
            shared = get(c, s, m, b);
            for (r = 0; r < n; r++) {
                const size_t from = r * 256 * x->blocks + at;
                v_f32 sum = v_load(acc[r]);
                TINYI_BLK_EACH(h, 2) {
                    v_i8 part[8];
                    TINYI_BLK_EACH(i, 8) part[i] = vb_load(x->code + from + 128 * h + 16 * i);
                    sum = TINY_FN(tinyi_quad_step)(sum, c + 8 * h, part, s, m, shared, x->d + from / 16,
                                                   x->sum + from / 16, h, traits);
                }
                v_store(acc[r], sum);
            }
        }
        for (r = 0; r < n; r++) y[(ptrdiff_t)r * y_x] = v_sum(v_load(acc[r]));
    }
}
static void TINY_FN(tinyi_quad_few_by)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,
                                       ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k, size_t n,
                                       tinyi_quad_get get, size_t values, size_t bytes, int traits)
{
    const int minima = traits & TINYI_BLK_MINIMA;
    if (traits & TINYI_BLK_HAS_SIGN)
        TINY_FN(tinyi_quad_few_of)(y, y_row, y_x, w, w_row, n_row, x, k, n, get, values, bytes, TINYI_BLK_HAS_SIGN);
    else if (traits & TINYI_BLK_FINE)
        TINY_FN(tinyi_quad_few_of)
        (y, y_row, y_x, w, w_row, n_row, x, k, n, get, values, bytes, TINYI_BLK_FINE | minima);
    else TINY_FN(tinyi_quad_few_of)(y, y_row, y_x, w, w_row, n_row, x, k, n, get, values, bytes, minima);
}
static void TINY_FN(tinyi_quad_expand_by)(unsigned char *code, float *s16, float *m16, const unsigned char *w, size_t k,
                                          ptrdiff_t ahead, tinyi_quad_get get, size_t values, size_t bytes, int traits)
{
    const size_t each = 256 / values * bytes;
    unsigned char last[TINYI_QUAD_SIZES];
    size_t ask;
    for (; k; k -= 256, w += each, code += 256, s16 += 16, m16 += 16) {
        v_i8 c[16];
        v_f32 s[4], m[4];                   /* two of each where groups are coarse */
        float shared;
        int i;
        if (k < 256) {
            w = tinyi_blk_last(last, each, w, k / values * bytes);
            k = 256;
        } else
            for (ask = 0; ask < each; ask += 64) TINYI_BLK_AHEAD(w + ahead + (ptrdiff_t)ask);
        shared = get(c, s, m, w);
        for (i = 0; i < 16; i++) vb_store(code + 16 * i, vb_add(c[i], vb_set((int8_t)shared)));
        TINYI_BLK_EACH(i, 4) {
            const int fine = (traits & TINYI_BLK_FINE) != 0;
            if (i == 2 && !fine) break;
            TINY_FN(tinyi_quad_spread)(s16, s[i], i, fine);
            if (traits & TINYI_BLK_MINIMA) TINY_FN(tinyi_quad_spread)(m16, m[i], i, fine);
        }
    }
}
#define TINYI_BLK_KERNELS(name, values, bytes, traits)                                                                 \
    static float TINY_FN(tinyi_quad_get_##name)(v_i8 * c, v_f32 * s, v_f32 * m, const unsigned char *b)                \
    {                                                                                                                  \
        TINY_FN(tinyi_quad_codes_##name)(c, b, 0);                                                                     \
        TINY_FN(tinyi_quad_codes_##name)(c + 8, b, 1);                                                                 \
        return TINY_FN(tinyi_quad_scales_##name)(s, m, b);                                                             \
    }                                                                                                                  \
    static void TINY_FN(tinyi_quad_few_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,       \
                                               ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k, size_t n)   \
    {                                                                                                                  \
        TINY_FN(tinyi_quad_few_by)                                                                                     \
        (y, y_row, y_x, w, w_row, n_row, x, k, n, TINY_FN(tinyi_quad_get_##name), values, bytes, traits);              \
    }                                                                                                                  \
    static void TINY_FN(tinyi_quad_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                  size_t k, ptrdiff_t ahead, const unsigned char *table)               \
    {                                                                                                                  \
        (void)table;                                                                                                   \
        TINY_FN(tinyi_quad_expand_by)                                                                                  \
        (code, s16, m16, w, k, ahead, TINY_FN(tinyi_quad_get_##name), values, bytes, traits);                          \
    }
TINYI_BLKS_PLAIN(TINYI_BLK_KERNELS)
#undef TINYI_QUAD_SIZES

#else
/* scales to the 16 of a super-block, in order */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_spread)(float *to, const v_f32 *s, int fine)
{
    int i;
    TINYI_BLK_EACH(i, 2) {
        const v_f32 a = s[fine ? 2 * i : i], b = s[fine ? 2 * i + 1 : i];
        v_store(to + 8 * i, v_zip_low(a, b));
        v_store(to + 8 * i + 4, v_zip_high(a, b));
    }
}
#define TINYI_BLK_KERNELS(name, values, bytes, traits)                                                                 \
    static void TINY_FN(tinyi_quad_few_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,       \
                                               ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k, size_t n)   \
    {                                                                                                                  \
        const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / (values) * (bytes), 2048);                                   \
        for (; n_row; n_row--, w += w_row, y += y_row) {                                                               \
            unsigned char last[256 / (values) * (bytes)];                                                              \
            const unsigned char *b = w;                                                                                \
            float acc[TINYI_BLK_FEW][4];                                                                               \
            size_t at, r;                                                                                              \
            for (r = 0; r < n; r++) v_store(acc[r], v_zero());                                                         \
            for (at = 0; at < k; at += 256, b += 256 / (values) * (bytes)) {                                           \
                v_f32 s[4], m[4];                                                                                      \
                float shared;                                                                                          \
                int h, i;                                                                                              \
                if (k - at < 256) b = tinyi_blk_last(last, sizeof last, b, (k - at) / (values) * (bytes));             \
                else TINYI_BLK_EACH(i, (256 / (values) * (bytes) + 63) / 64) TINYI_BLK_AHEAD(b + soon + 64 * i);       \
                shared = TINY_FN(tinyi_quad_scales_##name)(s, m, b);                                                   \
                TINYI_BLK_EACH(h, 2)                                                                                   \
                {                                                                                                      \
                    v_i8 c[8];                                                                                         \
                    TINY_FN(tinyi_quad_codes_##name)(c, b, h);                                                         \
                    for (r = 0; r < n; r++) {                                                                          \
                        const size_t p = r * 256 * x->blocks + at;                                                     \
                        v_i8 part[8];                                                                                  \
                        TINYI_BLK_EACH(i, 8) part[i] = vb_load(x->code + p + 128 * h + 16 * i);                        \
                        v_store(acc[r], TINY_FN(tinyi_quad_step)(v_load(acc[r]), c, part, s, m, shared, x->d + p / 16, \
                                                                 x->sum + p / 16, h, (traits)));                       \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
            for (r = 0; r < n; r++) y[(ptrdiff_t)r * y_x] = v_sum(v_load(acc[r]));                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static void TINY_FN(tinyi_quad_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                  size_t k, ptrdiff_t ahead, const unsigned char *table)               \
    {                                                                                                                  \
        unsigned char last[256 / (values) * (bytes)];                                                                  \
        for (; k; k -= 256, w += 256 / (values) * (bytes), code += 256, s16 += 16, m16 += 16) {                        \
            v_f32 s[4], m[4];                                                                                          \
            float shared;                                                                                              \
            int h, i;                                                                                                  \
            (void)table;                                                                                               \
            if (k < 256) {                                                                                             \
                w = tinyi_blk_last(last, sizeof last, w, k / (values) * (bytes));                                      \
                k = 256;                                                                                               \
            } else                                                                                                     \
                for (i = 0; i < 256 / (values) * (bytes); i += 64) TINYI_BLK_AHEAD(w + ahead + i);                     \
            shared = TINY_FN(tinyi_quad_scales_##name)(s, m, w);                                                       \
            TINYI_BLK_EACH(h, 2)                                                                                       \
            {                                                                                                          \
                v_i8 c[8];                                                                                             \
                TINY_FN(tinyi_quad_codes_##name)(c, w, h);                                                             \
                TINYI_BLK_EACH(i, 8)                                                                                   \
                vb_store(code + 128 * h + 16 * i, vb_add(c[i], vb_set((int8_t)shared)));                               \
            }                                                                                                          \
            TINY_FN(tinyi_quad_spread)(s16, s, (traits)&TINYI_BLK_FINE);                                               \
            if ((traits)&TINYI_BLK_MINIMA) TINY_FN(tinyi_quad_spread)(m16, m, (traits)&TINYI_BLK_FINE);                \
        }                                                                                                              \
    }
TINYI_BLKS_PLAIN(TINYI_BLK_KERNELS)
#endif

#if V_W128 /* two rows of weights at a time gain less there than they cost in compiling */
#define TINYI_BLK_DOTS(name, values, bytes, traits)                                                                \
    static void TINY_FN(tinyi_quad_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row, \
                                               size_t n_row, const tinyi_q8 *x, size_t k)                          \
    {                                                                                                              \
        TINY_FN(tinyi_quad_few_##name)(y, y_row, 0, w, w_row, n_row, x, k, 1);                                     \
    }
#else
#define TINYI_BLK_DOTS(name, values, bytes, traits)                                                                    \
    /* two rows of weights times one row of activations */                                                             \
    TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_two_##name)(float *y, ptrdiff_t y_row, const unsigned char *w,          \
                                                           ptrdiff_t w_row, const tinyi_q8 *x, size_t k)               \
    {                                                                                                                  \
        const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / (values) * (bytes), 2048);                                   \
        unsigned char last[2][256 / (values) * (bytes)];                                                               \
        const unsigned char *b[2];                                                                                     \
        const int8_t *q = x->code;                                                                                     \
        const float *d = x->d, *sum = x->sum;                                                                          \
        v_f32 acc[2][2];                                                                                               \
        size_t left = k;                                                                                               \
        int h, r, i;                                                                                                   \
        TINYI_BLK_EACH(r, 2)                                                                                           \
        {                                                                                                              \
            b[r] = w + r * w_row;                                                                                      \
            acc[r][0] = acc[r][1] = v_zero();                                                                          \
            /* here, since a call in the loop would make it store the sums */                                          \
            if (k % 256)                                                                                               \
                (void)tinyi_blk_last(last[r], sizeof last[r], b[r] + k / 256 * (256 / (values) * (bytes)),             \
                                     k % 256 / (values) * (bytes));                                                    \
        }                                                                                                              \
        while (left) {                                                                                                 \
            v_f32 s[2][4], m[2][4];                                                                                    \
            float shared = 0.0f;                                                                                       \
            TINYI_BLK_EACH(r, 2)                                                                                       \
            {                                                                                                          \
                if (left < 256) b[r] = last[r];                                                                        \
                TINYI_QUAD_HERE(b[r]);                                                                                 \
                TINYI_BLK_EACH(i, (256 / (values) * (bytes) + 63) / 64) TINYI_BLK_AHEAD(b[r] + soon + 64 * i);         \
                shared = TINY_FN(tinyi_quad_scales_##name)(s[r], m[r], b[r]);                                          \
            }                                                                                                          \
            TINYI_BLK_EACH(h, 2)                                                                                       \
            {                                                                                                          \
                v_i8 part[8];                                                                                          \
                TINYI_BLK_EACH(i, 8) part[i] = vb_load(q + 128 * h + 16 * i);                                          \
                TINYI_BLK_EACH(r, 2)                                                                                   \
                {                                                                                                      \
                    v_i8 c[8];                                                                                         \
                    if (TINYI_GCC && V_DOTPROD) TINYI_QUAD_HERE(b[r]);                                                 \
                    TINY_FN(tinyi_quad_codes_##name)(c, b[r], h);                                                      \
                    acc[r][h] = TINY_FN(tinyi_quad_step)(acc[r][h], c, part, s[r], m[r], shared, d, sum, h, (traits)); \
                }                                                                                                      \
            }                                                                                                          \
            left = left < 256 ? 0 : left - 256;                                                                        \
            TINYI_BLK_EACH(r, 2) b[r] += 256 / (values) * (bytes);                                                     \
            q += 256;                                                                                                  \
            d += 16;                                                                                                   \
            sum += 16;                                                                                                 \
        }                                                                                                              \
        TINYI_BLK_EACH(r, 2) y[r * y_row] = v_sum(v_add(acc[r][0], acc[r][1]));                                        \
    }                                                                                                                  \
    static void TINY_FN(tinyi_quad_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,     \
                                               size_t n_row, const tinyi_q8 *x, size_t k)                              \
    {                                                                                                                  \
        while (n_row) {                                                                                                \
            /* the last of an odd number is its own partner */                                                         \
            const ptrdiff_t high = n_row > 1 ? 2 : 1;                                                                  \
            TINY_FN(tinyi_quad_two_##name)(y, high > 1 ? y_row : 0, w, high > 1 ? w_row : 0, x, k);                    \
            n_row -= (size_t)high;                                                                                     \
            w += high * w_row;                                                                                         \
            y += high * y_row;                                                                                         \
        }                                                                                                              \
    }
#endif
TINYI_BLKS_PLAIN(TINYI_BLK_DOTS)
#undef TINYI_BLK_DOTS

/* ---- code books */

#if TINYI_BLK_ANY_BOOKS
/* codes 16 i to 16 i + 15 with their signs */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_quad_book_codes)(const tinyi_book *t, int i)
{
    const v_i8 minus = vb_bits(t->sign + 2 * i);
    return vb_sub(vb_xor(vb_load(t->code + 16 * i), minus), minus);
}
static void TINY_FN(tinyi_quad_book_expand)(unsigned char *code, float *s16, const unsigned char *w, size_t k,
                                            ptrdiff_t ahead, tinyi_book_get get, size_t bytes)
{
    for (; k; k -= 256, w += bytes, code += 256, s16 += 16) {
        tinyi_book t;
        int i;
        for (i = 0; i < (int)bytes; i += 64) TINYI_BLK_AHEAD(w + ahead + i);
        get(&t, w);
        for (i = 0; i < 16; i++) {
            vb_store(code + 16 * i, TINY_FN(tinyi_quad_book_codes)(&t, i));
            s16[i] = t.d * (float)t.k[i];
        }
    }
}
static void TINY_FN(tinyi_quad_book)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w, ptrdiff_t w_row,
                                     size_t n_row, const tinyi_q8 *x, size_t k, size_t n, tinyi_book_get get,
                                     size_t bytes)
{
    const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / 256 * bytes, 2048);
    for (; n_row; n_row--, w += w_row, y += y_row) {
        const unsigned char *b = w;
        float acc[TINYI_BLK_FEW][4];
        size_t at, r;
        for (r = 0; r < n; r++) v_store(acc[r], v_zero());
        for (at = 0; at < k; at += 256, b += bytes) {
            tinyi_book t;
            v_f32 s[4];
            int h, i;
            for (i = 0; i < (int)bytes; i += 64) TINYI_BLK_AHEAD(b + soon + i);
            get(&t, b);
            TINY_FN(tinyi_quad_times)(s, v_set(t.d), TINY_FN(tinyi_quad_order)(t.k));
            TINYI_QUAD_HALVES(h) {
                v_i8 c[8];
                TINYI_BLK_EACH(i, 8) c[i] = TINY_FN(tinyi_quad_book_codes)(&t, 8 * h + i);
                for (r = 0; r < n; r++) {
                    const size_t p = r * 256 * x->blocks + at;
                    v_i8 part[8];
                    TINYI_BLK_EACH(i, 8) part[i] = vb_load(x->code + p + 128 * h + 16 * i);
                    v_store(acc[r], TINY_FN(tinyi_quad_step)(v_load(acc[r]), c, part, s, s, 0.0f, x->d + p / 16,
                                                             x->sum + p / 16, h, TINYI_BLK_BOOK));
                }
            }
        }
        for (r = 0; r < n; r++) y[(ptrdiff_t)r * y_x] = v_sum(v_load(acc[r]));
    }
}
#define TINYI_BLK_WITH_BOOK(name, values, bytes, traits)                                                             \
    static void TINY_FN(tinyi_quad_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,   \
                                               size_t n_row, const tinyi_q8 *x, size_t k)                            \
    {                                                                                                                \
        TINY_FN(tinyi_quad_book)(y, y_row, 0, w, w_row, n_row, x, k, 1, tinyi_book_##name, bytes);                   \
    }                                                                                                                \
    static void TINY_FN(tinyi_quad_few_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,     \
                                               ptrdiff_t w_row, size_t n_row, const tinyi_q8 *x, size_t k, size_t n) \
    {                                                                                                                \
        TINY_FN(tinyi_quad_book)(y, y_row, y_x, w, w_row, n_row, x, k, n, tinyi_book_##name, bytes);                 \
    }                                                                                                                \
    static void TINY_FN(tinyi_quad_expand_##name)(unsigned char *code, float *s, float *m, const unsigned char *w,   \
                                                  size_t k, ptrdiff_t ahead, const unsigned char *table)             \
    {                                                                                                                \
        (void)m;                                                                                                     \
        (void)table;                                                                                                 \
        TINY_FN(tinyi_quad_book_expand)(code, s, w, k, ahead, tinyi_book_##name, bytes);                             \
    }
TINYI_BLKS_BOOKS(TINYI_BLK_WITH_BOOK)
#undef TINYI_BLK_WITH_BOOK
#endif

#endif

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* the low bytes of eight numbers */
TINYI_FORCE_INLINE void TINY_FN(tinyi_quad_put)(int8_t *to, v_i32 a, v_i32 b)
{
#if V_NEON
    vst1_s8(to, vmovn_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b))));
#else
    int32_t t[8];
    int i;
    vi_store(t, a);
    vi_store(t + 4, b);
    for (i = 0; i < 8; i++) to[i] = (int8_t)t[i];
#endif
}
/* paired, with i8mm: this row is one of two; what is written lies as the head of the products of pairs says. */
static int TINY_FN(tinyi_quad_quantize)(int8_t *code, float *d, float *sum, const float *x, size_t n, int paired)
{
    const int two = V_I8MM && paired ? 2 : 1;
    v_f32 odd = v_zero();
    size_t b;
    int g, i, j;
    for (b = 0; b < n; b += 256, code += 256 * two, d += 16 * two, sum += 16 * two)
        for (g = 0; g < 8; g++) {
            const int at = g / 4 * 8 + g % 4;
            v_f32 v[8], top = v_zero();
            float most, up = 1.0f, inverse, total[2];
            if (b + 32 * (size_t)g >= n) {
                for (i = 0; i < 32; i++) code[two * (32 * g + i / 8 * 8) + i % 8] = 0;
                d[two * g] = d[two * (8 + g)] = sum[two * at] = sum[two * (at + 4)] = 0.0f;
                continue;
            }
            TINYI_BLK_EACH(i, 8) {
                v[i] = v_load(x + 4 * i);
                odd = v_fma(v[i], v_zero(), odd);   /* infinities and what is not a number leave their trace */
                top = v_max(v_abs(v[i]), top);
            }
            x += 32;
            most = v_hmax(top);
            if (most < 1.262177448e-29f) up = 7.92281625e28f;       /* 2^-96: the inverse might overflow; 2^96 */
            inverse = most > 0.0f ? 127.0f / (most * up) : 0.0f;
            d[two * g] = most * up / 127.0f * (up > 1.0f ? 1.262177448e-29f : 1.0f);
            for (j = 0; j < 2; j++) {
                v_i32 all = vi_zero();
                TINYI_BLK_EACH(i, 2) {
                    const v_f32 *u = v + 4 * j + 2 * i;
                    const v_i32 q0 = v_to_i32(v_mul(v_mul(u[0], v_set(up)), v_set(inverse))),
                                q1 = v_to_i32(v_mul(v_mul(u[1], v_set(up)), v_set(inverse)));
                    all = vi_add(all, vi_add(q0, q1));
                    TINY_FN(tinyi_quad_put)(code + two * (32 * g + 16 * j + 8 * i), q0, q1);
                }
                total[j] = (float)vi_sum(all);
            }
            d[two * (8 + g)] = total[0] + total[1];
            sum[two * at] = total[0];
            sum[two * (at + 4)] = total[1];
        }
    return v_sum(odd) == 0.0f;
}

#if !V_DOTPROD || defined TINYI_NO_REPACK
#define TINYI_QUAD_EIGHT NULL
#elif V_I8MM && TINYI_HAVE_NEONDOT          /* no form of pairs */
#define TINYI_QUAD_EIGHT &tinyi_lane_table_neondot
#elif V_I8MM
#define TINYI_QUAD_EIGHT &tinyi_lane_table_neon
#else
#include "llm/block/eight_dot.simd.h"
#define TINYI_QUAD_EIGHT &TINY_FN(tinyi_lane_table)
#endif
#if V_DOTPROD
#include "llm/block/many.simd.h"
#define TINYI_QUAD_MANY                                                                                \
    TINYI_MANY_SIDE, TINYI_MANY_PART, 0, TINY_FN(tinyi_many_turn), TINY_FN(tinyi_many_panel), 0, { NULL }, NULL, NULL
#elif V_W128
#include "llm/block/pair.simd.h"
#define TINYI_QUAD_MANY                                                                                \
    TINYI_PAIR_SIDE, TINYI_PAIR_PART, 0, TINY_FN(tinyi_pair_turn), TINY_FN(tinyi_pair_panel), 0, { NULL }, NULL, NULL
#else
#include "llm/block/long.simd.h"
#define TINYI_QUAD_MANY                                                                                \
    TINYI_LONG_SIDE, TINYI_LONG_PART, 1, TINY_FN(tinyi_long_turn), TINY_FN(tinyi_long_panel), 0, { NULL }, NULL, NULL
#endif
/* what is expanded for many rows has a sign */
#define TINYI_BLK_TABLE_TRAITS(name, values, bytes, traits) \
    ((traits) & ~TINYI_BLK_PAIRED) | TINYI_BLK_HAS_SIGN,
#define TINYI_BLK_TABLE_FEW(name, values, bytes, traits) TINY_FN(tinyi_quad_few_##name),
#if V_I8MM && TINYI_HAVE_NEONDOT            /* one row of activations has nothing to gain */
#define TINYI_BLK_TABLE_DOT(name, values, bytes, traits) tinyi_quad_dot_##name##_neondot,
#define TINYI_BLK_TABLE_EXPAND(name, values, bytes, traits) tinyi_quad_expand_##name##_neondot,
#define TINYI_BLK_TABLE_BOOK_FEW(name, values, bytes, traits) tinyi_quad_few_##name##_neondot,
#elif V_I8MM
#define TINYI_BLK_TABLE_DOT(name, values, bytes, traits) tinyi_quad_dot_##name##_neon,
#define TINYI_BLK_TABLE_EXPAND(name, values, bytes, traits) tinyi_quad_expand_##name##_neon,
#define TINYI_BLK_TABLE_BOOK_FEW(name, values, bytes, traits) tinyi_quad_few_##name##_neon,
#else
#define TINYI_BLK_TABLE_DOT(name, values, bytes, traits) TINY_FN(tinyi_quad_dot_##name),
#define TINYI_BLK_TABLE_EXPAND(name, values, bytes, traits) TINY_FN(tinyi_quad_expand_##name),
#define TINYI_BLK_TABLE_BOOK_FEW(name, values, bytes, traits) TINY_FN(tinyi_quad_few_##name),
#endif
static const tinyi_blk_kernels TINY_FN(tinyi_quad_table) = {
    TINYI_PASS_TARGET, TINYI_PASS_NAME, V_I8MM,
    { TINYI_BLKS(TINYI_BLK_TABLE_TRAITS) },
    TINY_FN(tinyi_quad_quantize),
    { TINYI_BLKS(TINYI_BLK_TABLE_DOT) },
    { TINYI_BLKS(TINYI_BLK_TABLE_EXPAND) },
    NULL, NULL,
    { TINYI_BLKS_PLAIN(TINYI_BLK_TABLE_FEW) TINYI_BLKS_BOOKS(TINYI_BLK_TABLE_BOOK_FEW) },
    TINYI_QUAD_MANY, TINYI_QUAD_EIGHT
};
TINYI_TABLE(tinyi_blk_kernels, tinyi_blk_kernels, TINY_FN(tinyi_quad_table))

#undef TINYI_BLK_EACH
#undef TINYI_QUAD_CODES
#undef TINYI_QUAD_BEGIN
#undef TINYI_QUAD_START
#undef TINYI_QUAD_HERE
#undef TINYI_QUAD_TIMES
#undef TINYI_QUAD_HALVES
#undef TINYI_QUAD_SCALES
#undef TINYI_QUAD_MANY
#undef TINYI_QUAD_EIGHT
#undef TINYI_MANY_SIDE
#undef TINYI_MANY_PART
#undef TINYI_LONG_SIDE
#undef TINYI_LONG_PART
#undef TINYI_PAIR_SIDE
#undef TINYI_PAIR_PART
#undef TINYI_BLK_KERNELS
#undef TINYI_BLK_TABLE_TRAITS
#undef TINYI_BLK_TABLE_DOT
#undef TINYI_BLK_TABLE_BOOK_FEW
#undef TINYI_BLK_TABLE_FEW
#undef TINYI_BLK_TABLE_EXPAND
