/* src/llm/block/block.simd.h - the kernels of block formats in plain C (vectors: tree.simd.h, quad.simd.h)
 *
 * A super-block of 256 numbers is unpacked to 64 words of four codes in their natural order and to 16 scales and 16
 * offsets. Offsets need only the sums of activations, 16 of them for 256 numbers. */

TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_blk_up)(v_i8 a, int n)
{
    int i;
    for (i = 0; i < 4; i++) a.b[i] = (uint8_t)(a.b[i] << n);
    return a;
}

/* ---- codes: 256 numbers as 64 vectors ------------------------------------------------------------------- */

/* Group g of 32: bits of the 32 bytes at p + 32 * (g / per), from bit unit * (g % per) on. crossed: of Q6_K, where
 * groups 0 and 2, 1 and 3 of four share their bytes. */
TINYI_FORCE_INLINE int TINY_FN(tinyi_blk_byte)(int g, int per, int crossed)
{
    return crossed ? g / 4 * 64 + g % 2 * 32 : g / per * 32;
}
TINYI_FORCE_INLINE int TINY_FN(tinyi_blk_bit)(int g, int per, int unit, int crossed)
{
    return crossed ? g % 4 / 2 * 4 : g % per * unit;
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_groups)(v_i8 *c, const unsigned char *p, int per, int unit, int crossed,
                                                  int mask)
{
    const v_i8 m = vb_set((int8_t)mask);
    int i, j;
    for (i = 0; i < 8; i++)
        for (j = 0; j < 8; j++)
            c[i * 8 + j] =
                vb_and(vb_shr(vb_load(p + TINY_FN(tinyi_blk_byte)(i, per, crossed) + 4 * j),
                              TINY_FN(tinyi_blk_bit)(i, per, unit, crossed)),
                       m);
}

/* eight blocks of 16 bytes, step apart: low halves are numbers 0..15, high ones 16..31 */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_nibbles)(v_i8 *c, const unsigned char *p, int step)
{
    const v_i8 m = vb_set(15);
    int i, j;
    for (i = 0; i < 8; i++)
        for (j = 0; j < 4; j++) {
            const v_i8 b = vb_load(p + i * step + 4 * j);
            c[i * 8 + j] = vb_and(b, m);
            c[i * 8 + 4 + j] = vb_shr(b, 4);
        }
}

/* the fifth bits of eight blocks, step apart: bit j of 32 belongs to number j */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_fifth)(v_i8 *c, const unsigned char *p, int step)
{
    unsigned char t[256];
    int i, j;
    for (i = 0; i < 8; i++)
        for (j = 0; j < 32; j++) t[32 * i + j] = (unsigned char)((p[i * step + j / 8] >> j % 8 & 1) << 4);
    for (i = 0; i < 64; i++) c[i] = vb_or(c[i], vb_load(t + 4 * i));
}

/* ---- scales and offsets: 16 numbers as 16 vectors ------------------------------------------------------- */

TINYI_FORCE_INLINE float TINY_FN(tinyi_blk_half)(const unsigned char *p)
{
    return tinyi_q_half(p);
}

/* eight halves, step bytes apart, each for two groups */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_halves8)(v_f32 *s, const unsigned char *p, int step)
{
    uint16_t t[16];
    int i;
    for (i = 0; i < 8; i++) t[2 * i] = t[2 * i + 1] = tinyi_q_u16(p + i * step);
    for (i = 0; i < 16; i++) s[i] = v_load_f16(t + i);
}

/* d times 16 bytes, without sign and with one */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_times_u8)(v_f32 *s, float d, const unsigned char *k)
{
    int i;
    for (i = 0; i < 16; i++) s[i] = v_mul(v_set(d), v_from_i32(vi_load_u8(k + i)));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_times_i8)(v_f32 *s, float d, const int8_t *k)
{
    int i;
    for (i = 0; i < 16; i++) s[i] = v_mul(v_set(d), v_from_i32(vi_load_i8(k + i)));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_offset)(v_f32 *m, const v_f32 *s, float by)
{
    int i;
    for (i = 0; i < 16; i++) m[i] = v_mul(s[i], v_set(by));
}

/* Q4_K, Q5_K: eight scales and eight minima of six bits in twelve bytes */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_scales6)(v_f32 *s, v_f32 *m, const unsigned char *b)
{
    const uint32_t a0 = tinyi_q_u32(b + 4), a1 = tinyi_q_u32(b + 8), a2 = tinyi_q_u32(b + 12);
    const uint32_t k0 = a0 & 0x3f3f3f3fu, m0 = a1 & 0x3f3f3f3fu, k1 = (a2 & 0x0f0f0f0fu) | (a0 >> 2 & 0x30303030u),
                   m1 = (a2 >> 4 & 0x0f0f0f0fu) | (a1 >> 2 & 0x30303030u);
    unsigned char k[16], n[16];
    int i;
    for (i = 0; i < 4; i++) {
        k[2 * i] = k[2 * i + 1] = (unsigned char)(k0 >> 8 * i);
        k[2 * i + 8] = k[2 * i + 9] = (unsigned char)(k1 >> 8 * i);
        n[2 * i] = n[2 * i + 1] = (unsigned char)(m0 >> 8 * i);
        n[2 * i + 8] = n[2 * i + 9] = (unsigned char)(m1 >> 8 * i);
    }
    TINY_FN(tinyi_blk_times_u8)(s, TINY_FN(tinyi_blk_half)(b), k);
    TINY_FN(tinyi_blk_times_u8)(m, -TINY_FN(tinyi_blk_half)(b + 2), n);
}

/* Q3_K: sixteen scales of six bits, 32 more than meant, in twelve bytes */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_scales3)(v_f32 *s, const unsigned char *b, float d)
{
    const uint32_t a0 = tinyi_q_u32(b), a1 = tinyi_q_u32(b + 4), a2 = tinyi_q_u32(b + 8);
    uint32_t k[4];
    int i;
    k[0] = (a0 & 0x0f0f0f0fu) | (a2 << 4 & 0x30303030u);
    k[1] = (a1 & 0x0f0f0f0fu) | (a2 << 2 & 0x30303030u);
    k[2] = (a0 >> 4 & 0x0f0f0f0fu) | (a2 & 0x30303030u);
    k[3] = (a1 >> 4 & 0x0f0f0f0fu) | (a2 >> 2 & 0x30303030u);
    {
        int8_t t[16];
        for (i = 0; i < 16; i++) t[i] = (int8_t)((int)(k[i / 4] >> i % 4 * 8 & 63) - 32);
        TINY_FN(tinyi_blk_times_i8)(s, d, t);
    }
}

/* IQ4_XS: eight scales of six bits, 32 more than meant: four bits each in four bytes, two each in two */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_scales_xs)(v_f32 *s, const unsigned char *b)
{
    uint64_t low = tinyi_q_u32(b + 4), high = tinyi_q_u16(b + 2), k;
    low = (low | low << 16) & 0x0000ffff0000ffffu;         /* nibble i to byte i */
    low = (low | low << 8) & 0x00ff00ff00ff00ffu;
    low = (low | low << 4) & 0x0f0f0f0f0f0f0f0fu;
    high = (high | high << 24) & 0x000000ff000000ffu;
    high = (high | high << 12) & 0x000f000f000f000fu;
    high = (high | high << 6) & 0x0303030303030303u;
    k = low | high << 4;
    {
        int8_t t[16];
        int i;
        for (i = 0; i < 16; i++) t[i] = (int8_t)((int)(k >> i / 2 * 8 & 63) - 32);
        TINY_FN(tinyi_blk_times_i8)(s, TINY_FN(tinyi_blk_half)(b), t);
    }
}

/* MXFP4: 2^(e - 128), since the codes are doubled */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_powers)(v_f32 *s, const unsigned char *p, int step)
{
    float t[16];
    int i;
    for (i = 0; i < 8; i++)
        t[2 * i] = t[2 * i + 1] =
            tinyi_bits_f32(p[i * step] < 2 ? 0x00200000u << p[i * step] : (uint32_t)(p[i * step] - 1) << 23);
    for (i = 0; i < 16; i++) s[i] = v_load(t + i);
}

/* ---- the formats: codes, scales, offsets. A zero offset is known when this is compiled, and nothing is made of it  */

TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q8_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i, j;
    for (i = 0; i < 8; i++)
        for (j = 0; j < 8; j++) c[i * 8 + j] = vb_load(b + 34 * i + 2 + 4 * j);
    TINY_FN(tinyi_blk_halves8)(s, b, 34);
    for (i = 0; i < 16; i++) m[i] = v_zero();
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q4_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 2, 18);
    TINY_FN(tinyi_blk_halves8)(s, b, 18);
    TINY_FN(tinyi_blk_offset)(m, s, -8.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q4_1)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 4, 20);
    TINY_FN(tinyi_blk_halves8)(s, b, 20);
    TINY_FN(tinyi_blk_halves8)(m, b + 2, 20);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q5_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 6, 22);
    TINY_FN(tinyi_blk_fifth)(c, b + 2, 22);
    TINY_FN(tinyi_blk_halves8)(s, b, 22);
    TINY_FN(tinyi_blk_offset)(m, s, -16.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q5_1)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 8, 24);
    TINY_FN(tinyi_blk_fifth)(c, b + 4, 24);
    TINY_FN(tinyi_blk_halves8)(s, b, 24);
    TINY_FN(tinyi_blk_halves8)(m, b + 2, 24);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q2_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    const v_f32 d = v_set(TINY_FN(tinyi_blk_half)(b + 80)), dm = v_set(-TINY_FN(tinyi_blk_half)(b + 82));
    int i;
    TINY_FN(tinyi_blk_groups)(c, b + 16, 4, 2, 0, 3);
    for (i = 0; i < 16; i++) {
        const v_i32 k = vi_load_u8(b + i);
        s[i] = v_mul(d, v_from_i32(vi_and(k, vi_set(15))));
        m[i] = v_mul(dm, v_from_i32(vi_shr(k, 4)));
    }
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q3_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    v_i8 high[64];
    int i;
    TINY_FN(tinyi_blk_groups)(c, b + 32, 4, 2, 0, 3);
    TINY_FN(tinyi_blk_groups)(high, b, 8, 1, 0, 1);
    for (i = 0; i < 64; i++) c[i] = vb_or(c[i], TINY_FN(tinyi_blk_up)(high[i], 2));
    TINY_FN(tinyi_blk_scales3)(s, b + 96, TINY_FN(tinyi_blk_half)(b + 108));
    TINY_FN(tinyi_blk_offset)(m, s, -4.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q4_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_groups)(c, b + 16, 2, 4, 0, 15);
    TINY_FN(tinyi_blk_scales6)(s, m, b);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q5_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    v_i8 high[64];
    int i;
    TINY_FN(tinyi_blk_groups)(c, b + 48, 2, 4, 0, 15);
    TINY_FN(tinyi_blk_groups)(high, b + 16, 8, 1, 0, 1);
    for (i = 0; i < 64; i++) c[i] = vb_or(c[i], TINY_FN(tinyi_blk_up)(high[i], 4));
    TINY_FN(tinyi_blk_scales6)(s, m, b);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q6_K)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    v_i8 high[64];
    int i;
    TINY_FN(tinyi_blk_groups)(c, b, 1, 4, 1, 15);
    TINY_FN(tinyi_blk_groups)(high, b + 128, 4, 2, 0, 3);
    for (i = 0; i < 64; i++) c[i] = vb_or(c[i], TINY_FN(tinyi_blk_up)(high[i], 4));
    TINY_FN(tinyi_blk_times_i8)(s, TINY_FN(tinyi_blk_half)(b + 208), (const int8_t *)(b + 192));
    TINY_FN(tinyi_blk_offset)(m, s, -32.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_iq4)(v_i8 *c, v_f32 *m)
{
    int i;
    for (i = 0; i < 64; i++) c[i] = vb_table16(tinyi_blk_iq4, c[i]);
    for (i = 0; i < 16; i++) m[i] = v_zero();
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_IQ4_NL)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 2, 18);
    TINY_FN(tinyi_blk_halves8)(s, b, 18);
    TINY_FN(tinyi_blk_iq4)(c, m);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_IQ4_XS)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    TINY_FN(tinyi_blk_nibbles)(c, b + 8, 16);
    TINY_FN(tinyi_blk_scales_xs)(s, b);
    TINY_FN(tinyi_blk_iq4)(c, m);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_MXFP4)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
    TINY_FN(tinyi_blk_nibbles)(c, b + 1, 17);
    for (i = 0; i < 64; i++) c[i] = vb_table16(tinyi_blk_e2m1_16, c[i]);
    TINY_FN(tinyi_blk_powers)(s, b, 17);
    TINY_FN(tinyi_blk_offset)(m, s, -16.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_TQ2_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int i;
    TINY_FN(tinyi_blk_groups)(c, b, 4, 2, 0, 3);
    for (i = 0; i < 16; i++) s[i] = v_set(TINY_FN(tinyi_blk_half)(b + 64));
    TINY_FN(tinyi_blk_offset)(m, s, -1.0f);
}

/* TQ1_0: a byte is a fraction of 256; times 3, the digit is what goes over */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_TQ1_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    unsigned char t[256];
    int i, j;
    for (i = 0; i < 52; i++) {
        const int step = i < 32 ? 32 : i < 48 ? 16 : 4, first = i < 32 ? i : i < 48 ? 128 + i : 192 + i;
        unsigned left = b[i];
        for (j = 0; j < (i < 48 ? 5 : 4); j++, left &= 255) {
            left *= 3;
            t[first + j * step] = (unsigned char)(left >> 8);
        }
    }
    for (i = 0; i < 64; i++) c[i] = vb_load(t + 4 * i);
    for (i = 0; i < 16; i++) s[i] = v_set(TINY_FN(tinyi_blk_half)(b + 52));
    TINY_FN(tinyi_blk_offset)(m, s, -1.0f);
}
/* NVFP4: eight bytes are a group of 16, low halves first */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_NVFP4)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    int g, j;
    for (g = 0; g < 16; g++) {
        const unsigned char *p = b + g / 4 * 36;
        s[g] = v_set(tinyi_q_e4m3(p[g % 4]));
        for (j = 0; j < 2; j++) {
            const v_i8 x = vb_load(p + 4 + g % 4 * 8 + 4 * j);
            c[4 * g + j] = vb_table16(tinyi_blk_e2m1_16, vb_and(x, vb_set(15)));
            c[4 * g + 2 + j] = vb_table16(tinyi_blk_e2m1_16, vb_shr(x, 4));
        }
    }
    TINY_FN(tinyi_blk_offset)(m, s, -16.0f);
}
/* Q1_0: bit j of a block belongs to number j */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q1_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    static const unsigned char code[16][4] = { { 0, 0, 0, 0 }, { 2, 0, 0, 0 }, { 0, 2, 0, 0 }, { 2, 2, 0, 0 },
                                               { 0, 0, 2, 0 }, { 2, 0, 2, 0 }, { 0, 2, 2, 0 }, { 2, 2, 2, 0 },
                                               { 0, 0, 0, 2 }, { 2, 0, 0, 2 }, { 0, 2, 0, 2 }, { 2, 2, 0, 2 },
                                               { 0, 0, 2, 2 }, { 2, 0, 2, 2 }, { 0, 2, 2, 2 }, { 2, 2, 2, 2 } };
    int i;
    for (i = 0; i < 64; i++) c[i] = vb_load(code[b[i / 32 * 18 + 2 + i % 32 / 2] >> i % 2 * 4 & 15]);
    for (i = 0; i < 16; i++) s[i] = v_set(TINY_FN(tinyi_blk_half)(b + i / 8 * 18));
    TINY_FN(tinyi_blk_offset)(m, s, -1.0f);
}
/* Q2_0: a byte holds four numbers, the lowest bits first */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_get_Q2_0)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b)
{
    static const unsigned char low[4] = { 15, 15, 0, 0 }, high[4] = { 0, 0, 15, 15 }, even[4] = { 3, 0, 3, 0 },
                               odd[4] = { 0, 3, 0, 3 };
    int i;
    for (i = 0; i < 64; i++) {
        const v_i8 x = vb_set((int8_t)b[i / 16 * 18 + 2 + i % 16]);
        const v_i8 two = vb_or(vb_and(x, vb_load(low)), vb_and(vb_shr(x, 4), vb_load(high)));
        c[i] = vb_or(vb_and(two, vb_load(even)), vb_and(vb_shr(two, 2), vb_load(odd)));
    }
    for (i = 0; i < 16; i++) s[i] = v_set(TINY_FN(tinyi_blk_half)(b + i / 4 * 18));
    TINY_FN(tinyi_blk_offset)(m, s, -1.0f);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_book)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b, tinyi_book_get get)
{
    tinyi_book t;
    int i;
    get(&t, b);
    for (i = 0; i < 256; i++) if (t.sign[i / 8] >> i % 8 & 1) t.code[i] = (unsigned char)(256 - t.code[i]);
    for (i = 0; i < 64; i++) c[i] = vb_load(t.code + 4 * i);
    TINY_FN(tinyi_blk_times_u8)(s, t.d, t.k);
    for (i = 0; i < 16; i++) m[i] = v_zero();
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* One super-block times one row of activations. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_step)(v_f32 *acc, v_f32 *off, const v_i8 *c, const v_f32 *s, const v_f32 *m,
                                                const int8_t *q, const float *d, const float *sum, int is_signed)
{
    int i;
    float t[16];
    for (i = 0; i < 16; i++) v_store(t + i, v_mul(s[i], v_load(d + i)));
    for (i = 0; i < 16; i++) {
        v_i32 n = vi_zero();
        int j;
        for (j = 4 * i; j < 4 * i + 4; j++) {
            const v_i8 x = vb_load(q + 4 * j);
            n = is_signed ? v_dot_i8_b127(n, c[j], x) : v_dot_u7i8(n, c[j], x);
        }
        acc[i & 1] = v_fma(v_from_i32(n), v_set(t[i]), acc[i & 1]);
    }
    if (!is_signed) {
        for (i = 0; i < 16; i++) *off = v_fma(m[i], v_load(sum + i), *off);
    }
}

/* a format is what takes its blocks apart: the rest stands there once */
typedef void (*tinyi_blk_get)(v_i8 *c, v_f32 *s, v_f32 *m, const unsigned char *b);
static void TINY_FN(tinyi_blk_dot_by)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row, size_t n_row,
                                      const tinyi_q8 *x, size_t k, tinyi_blk_get get, size_t values, size_t bytes,
                                      int is_signed)
{
    for (; n_row; n_row--, w += w_row, y += y_row) {
        unsigned char last[8 * 34];             /* of Q8_0, the longest */
        const unsigned char *b = w;
        v_f32 acc[2], off = v_zero();
        size_t at;
        acc[0] = acc[1] = v_zero();
        for (at = 0; at < k; at += 256, b += 256 / values * bytes) {
            v_i8 c[64];
            v_f32 s[16], m[16];
            if (k - at < 256) b = tinyi_blk_last(last, sizeof last, b, (k - at) / values * bytes);
            get(c, s, m, b);
            TINY_FN(tinyi_blk_step)(acc, &off, c, s, m, x->code + at, x->d + at / 16, x->sum + at / 16, is_signed);
        }
        *y = v_sum(v_add(v_add(acc[0], acc[1]), off));
    }
}
static void TINY_FN(tinyi_blk_expand_by)(unsigned char *code, float *s16, float *m16, const unsigned char *w, size_t k,
                                         tinyi_blk_get get, size_t values, size_t bytes)
{
    for (; k; k -= TINYI_MIN(k, 256), w += 256 / values * bytes, code += 256, s16 += 16, m16 += 16) {
        unsigned char last[8 * 34];
        v_i8 c[64];
        int i;
        get(c, s16, m16, k < 256 ? tinyi_blk_last(last, sizeof last, w, k / values * bytes) : w);
        for (i = 0; i < 64; i++) vb_store(code + 4 * i, c[i]);
    }
}
#define TINYI_BLK_KERNELS(name, values, bytes, traits)                                                                \
    static void TINY_FN(tinyi_blk_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,     \
                                              size_t n_row, const tinyi_q8 *x, size_t k)                              \
    {                                                                                                                 \
        TINY_FN(tinyi_blk_dot_by)                                                                                     \
        (y, y_row, w, w_row, n_row, x, k, TINY_FN(tinyi_blk_get_##name), values, bytes,                               \
         (traits)&TINYI_BLK_HAS_SIGN);                                                          \
    }                                                                                                                 \
    static void TINY_FN(tinyi_blk_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                 size_t k, ptrdiff_t ahead, const unsigned char *table)               \
    {                                                                                                                 \
        (void)ahead;                                                                                                  \
        (void)table;                                                                                                  \
        TINY_FN(tinyi_blk_expand_by)(code, s16, m16, w, k, TINY_FN(tinyi_blk_get_##name), values, bytes);             \
    }
TINYI_BLKS_PLAIN(TINYI_BLK_KERNELS)

#if TINYI_BLK_ANY_BOOKS
static void TINY_FN(tinyi_blk_book_dot)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,
                                        size_t n_row, const tinyi_q8 *x, size_t k, tinyi_book_get get, size_t bytes)
{
    const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / 256 * bytes, 2048);
    for (; n_row; n_row--, w += w_row, y += y_row) {
        const unsigned char *b = w;
        v_f32 acc[2], off = v_zero();
        size_t at;
        acc[0] = acc[1] = v_zero();
        for (at = 0; at < k; at += 256, b += bytes) {
            v_i8 c[64];
            v_f32 s[16], m[16];
            size_t i;
            for (i = 0; i < bytes; i += 64) TINYI_BLK_AHEAD(b + soon + i);
            TINY_FN(tinyi_blk_book)(c, s, m, b, get);
            TINY_FN(tinyi_blk_step)
            (acc, &off, c, s, m, x->code + at, x->d + at / 16, x->sum + at / 16, 1);
        }
        *y = v_sum(v_add(v_add(acc[0], acc[1]), off));
    }
}
static void TINY_FN(tinyi_blk_book_expand)(unsigned char *code, float *s16, float *m16, const unsigned char *w,
                                           size_t k, tinyi_book_get get, size_t bytes)
{
    for (; k; k -= 256, w += bytes, code += 256, s16 += 16, m16 += 16) {
        v_i8 c[64];
        v_f32 s[16], m[16];
        int i;
        TINY_FN(tinyi_blk_book)(c, s, m, w, get);
        for (i = 0; i < 64; i++) vb_store(code + 4 * i, c[i]);
        for (i = 0; i < 16; i++) {
            v_store(s16 + i, s[i]);
            v_store(m16 + i, m[i]);
        }
    }
}
#define TINYI_BLK_WITH_BOOK(name, values, bytes, traits)                                                              \
    static void TINY_FN(tinyi_blk_dot_##name)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,     \
                                              size_t n_row, const tinyi_q8 *x, size_t k)                              \
    {                                                                                                                 \
        TINY_FN(tinyi_blk_book_dot)(y, y_row, w, w_row, n_row, x, k, tinyi_book_##name, bytes);                       \
    }                                                                                                                 \
    static void TINY_FN(tinyi_blk_expand_##name)(unsigned char *code, float *s16, float *m16, const unsigned char *w, \
                                                 size_t k, ptrdiff_t ahead, const unsigned char *table)               \
    {                                                                                                                 \
        (void)ahead;                                                                                                  \
        (void)table;                                                                                                  \
        TINY_FN(tinyi_blk_book_expand)(code, s16, m16, w, k, tinyi_book_##name, bytes);                               \
    }
TINYI_BLKS_BOOKS(TINYI_BLK_WITH_BOOK)
#undef TINYI_BLK_WITH_BOOK
#endif

/* R rows of activations and one expanded row of weights */
#define TINYI_BLK_DOTS(R)                                                                                          \
    TINYI_FORCE_INLINE void TINY_FN(tinyi_blk_dots##R)(float *y, ptrdiff_t y_step, const unsigned char *code,      \
                                                       const float *s16, const float *m16, int is_signed,          \
                                                       const tinyi_q8 *x, size_t n)                                \
    {                                                                                                              \
        v_f32 acc[R][2], off[R];                                                                                   \
        size_t b;                                                                                                  \
        int r, i;                                                                                                  \
        for (r = 0; r < R; r++) acc[r][0] = acc[r][1] = off[r] = v_zero();                                            \
        for (b = 0; b < x->blocks; b++) {                                                                          \
            v_i8 c[64];                                                                                   \
            v_f32 s[16], m[16];                                                                  \
            for (i = 0; i < 64; i++) c[i] = vb_load(code + 256 * b + (size_t)(4 * i));             \
            for (i = 0; i < 16; i++)                                                                         \
            {                                                                                                      \
                s[i] = v_load(s16 + 16 * b + (size_t)i);                                               \
                m[i] = v_load(m16 + 16 * b + (size_t)i);                                               \
            }                                                                                                      \
            for (r = 0; r < R; r++)                                                                                   \
            {                                                                                                      \
                const size_t at = ((size_t)r < n ? (size_t)r : n - 1) * x->blocks + b;                             \
                TINY_FN(tinyi_blk_step)                                                                            \
                (acc[r], &off[r], c, s, m, x->code + 256 * at, x->d + 16 * at, x->sum + 16 * at, is_signed);       \
            }                                                                                                      \
        }                                                                                                          \
        for (r = 0; r < R; r++) if ((size_t)r < n) y[r * y_step] = v_sum(v_add(v_add(acc[r][0], acc[r][1]), off[r])); \
    }
TINYI_BLK_DOTS(1)
static void TINY_FN(tinyi_blk_dots)(float *y, ptrdiff_t y_step, const unsigned char *code, const float *s,
                                    const float *m, int traits, const tinyi_q8 *x, size_t n)
{
    tinyi_q8 at = *x;
    for (; n; n--, y += y_step, at.code += 256 * x->blocks, at.d += 16 * x->blocks, at.sum += 16 * x->blocks)
        TINY_FN(tinyi_blk_dots1)(y, y_step, code, s, m, traits & TINYI_BLK_HAS_SIGN, &at, 1);
}

static void TINY_FN(tinyi_blk_floats)(float *to, const unsigned char *code, const float *s, const float *m,
                                      int is_signed, size_t blocks)
{
    size_t g;
    int i;
    for (g = 0; g < 16 * blocks; g++, code += 16, to += 16) {
        const v_f32 scale = v_set(s[g]), offset = v_set(m[g]);
        if (is_signed) {
            for (i = 0; i < 16; i++)
                v_store(to + i, v_mul(scale, v_from_i32(vi_load_i8((const int8_t *)code + i))));
        } else {
            for (i = 0; i < 16; i++)
                v_store(to + i, v_fma(scale, v_from_i32(vi_load_u8(code + i)), offset));
        }
    }
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static int TINY_FN(tinyi_blk_quantize)(int8_t *code, float *d, float *sum, const float *x, size_t n, int paired)
{
    const size_t end = (n + 255) / 256 * 256;
    v_f32 odd = v_zero();
    size_t b;
    int i, j;
    (void)paired;
    for (b = 0; b < n; b += 32, x += 32, code += 32, d += 2, sum += 2) {
        v_f32 v[32], top = v_zero();
        float most, up = 1.0f, down = 1.0f, inverse;
        for (i = 0; i < 32; i++) {
            v[i] = v_load(x + i);
            odd = v_fma(v[i], v_zero(), odd);       /* infinities and what is not a number leave their trace */
            top = v_max(v_abs(v[i]), top);
        }
        most = v_hmax(top);
        if (most < 1.262177448e-29f) {              /* 2^-96: the inverse might overflow */
            if (most == 0.0f) {
                memset(code, 0, 32);
                d[0] = d[1] = sum[0] = sum[1] = 0.0f;
                continue;
            }
            up = 7.92281625e28f;                    /* 2^96 */
            down = 1.262177448e-29f;
            most *= up;
        }
        inverse = 127.0f / most;
        d[0] = d[1] = most / 127.0f * down;
        for (j = 0; j < 2; j++) {
            v_i32 total = vi_zero();
            for (i = 0; i < 16; i++) {
                const v_i32 q = v_to_i32(v_mul(v_mul(v[j * 16 + i], v_set(up)), v_set(inverse)));
                total = vi_add(total, q);
                code[16 * j + i] = (int8_t)vi_sum(q);
            }
            sum[j] = d[j] * (float)vi_sum(total);
        }
    }
    for (; b < end; b += 32, code += 32, d += 2, sum += 2) {
        memset(code, 0, 32);
        d[0] = d[1] = sum[0] = sum[1] = 0.0f;
    }
    return v_sum(odd) == 0.0f;
}

#define TINYI_BLK_TABLE_TRAITS(name, values, bytes, traits) \
    (traits),
#define TINYI_BLK_TABLE_DOT(name, values, bytes, traits) TINY_FN(tinyi_blk_dot_##name),
#define TINYI_BLK_TABLE_EXPAND(name, values, bytes, traits) TINY_FN(tinyi_blk_expand_##name),
static const tinyi_blk_kernels TINY_FN(tinyi_blk_table) = {
    TINYI_PASS_TARGET, TINYI_PASS_NAME, 0,
    { TINYI_BLKS(TINYI_BLK_TABLE_TRAITS) },
    TINY_FN(tinyi_blk_quantize),
    { TINYI_BLKS(TINYI_BLK_TABLE_DOT) },
    { TINYI_BLKS(TINYI_BLK_TABLE_EXPAND) },
    TINY_FN(tinyi_blk_dots), TINY_FN(tinyi_blk_floats),
    { NULL }, 0, 0, 0, NULL, NULL, 0, { NULL }, NULL, NULL, NULL
};
TINYI_TABLE(tinyi_blk_kernels, tinyi_blk_kernels, TINY_FN(tinyi_blk_table))

#undef TINYI_BLK_KERNELS
#undef TINYI_BLK_DOTS
#undef TINYI_BLK_TABLE_TRAITS
#undef TINYI_BLK_TABLE_DOT
#undef TINYI_BLK_TABLE_EXPAND
