/* src/llm/block/eight.simd.h - products of repacked matrices (eight.h) on AVX2 and AVX-512, with and without VNNI
 *
 * A lane is a row of weights. Four numbers of activations are spread over a vector by their load, products are added up
 * lane by lane, in 16 bits as long as they fit, and the scales of eight rows are one vector of halves: no shuffle, no
 * tree, no sum over lanes. One row of activations goes through four groups of eight rows in turn, which lie in four
 * places, since a core reads four places faster than one.
 *
 * Activations lie in order, d as everywhere, and sums of 32 codes times d; in place of the sums of 16 codes stands, for
 * each 16, a pair of 16-bit numbers: 32 times the sum of codes 0, 1 of each four, and of 2, 3. That is what the offset
 * of Q6_K amounts to in its 16-bit sums, which may run over before. */

#define TINYI_EIGHT_PLACES 4
#define TINYI_EIGHT_AHEAD 1024
#define TINYI_EIGHT_ROWS 4                  /* of activations that meet codes in registers */

/* Vector v of the codes at p: of 32 numbers, or of 16 where they have six bits. second: of 64 numbers of Q4_K the
 * others. */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_eight_code)(const unsigned char *p, int v, int blk, int second)
{
#define TINYI_EIGHT_BITS(i, by, mask) vb_and(TINYI_TREE_DOWN(TINYI_BLK_256(p + 32 * (i)), by), vb_set(mask))
    if (blk == TINYI_BLK_Q8_0)
        return V_VNNI ? vb_xor(TINYI_BLK_256(p + 32 * v), vb_set(-128)) : TINYI_BLK_256(p + 32 * v);
    if (blk == TINYI_BLK_Q6_K)
        return v < 3 ? vb_and(TINYI_BLK_256(p + 32 * v), vb_set(63))
                     : vb_or(TINYI_EIGHT_BITS(0, 6, 3), vb_or(TINYI_EIGHT_BITS(1, 4, 12), TINYI_EIGHT_BITS(2, 2, 48)));
    if (tinyi_eight_has_five(blk)) {
        if (v < 5) return vb_and(TINYI_BLK_256(p + 32 * v), vb_set(31));
        if (v < 7) return vb_or(TINYI_EIGHT_BITS(2 * v - 10, 5, 7), TINYI_EIGHT_BITS(2 * v - 9, 2, 24));
        return vb_or(TINYI_EIGHT_BITS(4, 5, 7), vb_or(TINYI_EIGHT_BITS(3, 4, 8), TINYI_EIGHT_BITS(1, 3, 16)));
    }
    if (tinyi_eight_has_256(blk))
        return second ? TINYI_EIGHT_BITS(v, 4, 15) : vb_and(TINYI_BLK_256(p + 32 * v), vb_set(15));
    return v < 4 ? vb_and(TINYI_BLK_256(p + 32 * v), vb_set(15)) : TINYI_EIGHT_BITS(v - 4, 4, 15);
#undef TINYI_EIGHT_BITS
}
/* all of 32 numbers */
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_codes)(v_i8 *c, const unsigned char *p, int blk, int second)
{
    int v;
    if (blk == TINYI_BLK_Q6_K) TINYI_BLK_EACH(v, 8) c[v] = TINY_FN(tinyi_eight_code)(p + v / 4 * 96, v % 4, blk, 0);
    else TINYI_BLK_EACH(v, 8) c[v] = TINY_FN(tinyi_eight_code)(p, v, blk, second);
}

/* The sums of 32 products: one for each row of weights. */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_eight_sum)(const v_i8 *c, const int8_t *q, int traits)
{
    v_i32 t = vi_zero(), sum = vi_zero();
    int v;
#if V_VNNI
    (void)traits;
    (void)sum;
    TINYI_BLK_EACH(v, 8) t = v_dot_u8i8(t, c[v], vb_set4(q + 4 * v));
    return t;
#else
    const int fit = TINYI_TREE_FIT(traits);
    TINYI_BLK_EACH(v, 8) {
        const v_i32 p = TINY_FN(tinyi_tree_product)(c[v], vb_set4(q + 4 * v), traits);
        t = v % fit ? _mm256_add_epi16(t, p) : p;
        TINYI_TREE_IN_ORDER(t);
        if (v % fit != fit - 1) continue;
        sum = v >= fit ? vi_add(sum, _mm256_madd_epi16(t, _mm256_set1_epi16(1)))
                       : _mm256_madd_epi16(t, _mm256_set1_epi16(1));
    }
    return sum;
#endif
}
/* eight bytes as eight pairs of 16-bit numbers (or as 32 bits with VNNI): a scale for each row */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_eight_pairs)(const unsigned char *k, int is_signed)
{
#if V_VNNI
    return is_signed ? _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)k))
                     : _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)k));
#else
    long long eight;
    v_i32 x;
    memcpy(&eight, k, 8);
    x = _mm256_set1_epi64x(eight);
    if (is_signed)                          /* the higher byte, shifted down with its sign */
        return _mm256_srai_epi16(
            _mm256_shuffle_epi8(x,
                                _mm256_setr_epi32((int)0x00800080, (int)0x01800180, (int)0x02800280, (int)0x03800380,
                                                  (int)0x04800480, (int)0x05800580, (int)0x06800680, (int)0x07800780)),
            8);
    return _mm256_shuffle_epi8(x, _mm256_setr_epi32((int)0x80008000u, (int)0x80018001u, (int)0x80028002u,
                                                    (int)0x80038003u, (int)0x80048004u, (int)0x80058005u,
                                                    (int)0x80068006u, (int)0x80078007u));
#endif
}
/* 32 numbers of Q4_K or Q5_K times their scale, as integers */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_eight_scaled)(const v_i8 *c, const int8_t *q, v_i32 k, int traits)
{
#if V_VNNI
    return vi_mul(TINY_FN(tinyi_eight_sum)(c, q, traits), k);
#else
    const int fit = TINYI_TREE_FIT(traits);
    v_i32 t = vi_zero(), sum = vi_zero();
    int v;
    TINYI_BLK_EACH(v, 8) {
        const v_i32 p = _mm256_maddubs_epi16(c[v], vb_set4(q + 4 * v));
        t = v % fit ? _mm256_add_epi16(t, p) : p;
        TINYI_TREE_IN_ORDER(t);
        if (v % fit != fit - 1) continue;
        sum = v >= fit ? vi_add(sum, _mm256_madd_epi16(t, k)) : _mm256_madd_epi16(t, k);
    }
    return sum;
#endif
}
/* 16 numbers of Q6_K, of which 32 each are taken off */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_eight_fine)(const v_i8 *c, const int8_t *q, const float *pair, v_i32 k)
{
    v_i32 t = vi_zero();
    int v;
#if V_VNNI
    TINYI_BLK_EACH(v, 4) t = v_dot_u8i8(t, c[v], vb_set4(q + 4 * v));
    return vi_mul(vi_sub(t, _mm256_madd_epi16(vb_set4(pair), _mm256_set1_epi16(1))), k);
#else
    TINYI_BLK_EACH(v, 4) {
        const v_i32 p = _mm256_maddubs_epi16(c[v], vb_set4(q + 4 * v));
        t = v ? _mm256_add_epi16(t, p) : p;
        TINYI_TREE_IN_ORDER(t);
    }
    return _mm256_madd_epi16(_mm256_sub_epi16(t, vb_set4(pair)), k);
#endif
}

/* the scales of six bits as bytes: 8 g + i of the scales, then those of the minima */
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_scales)(unsigned char *k, const unsigned char *p)
{
    const v_i8 a = TINYI_BLK_256(p), b = TINYI_BLK_256(p + 32), c = TINYI_BLK_256(p + 64);
    vb_store(k, vb_and(a, vb_set(63)));
    vb_store(k + 32, vb_and(b, vb_set(63)));
    vb_store(k + 64, vb_and(c, vb_set(63)));
    vb_store(k + 96, vb_or(vb_and(TINYI_TREE_DOWN(a, 6), vb_set(3)), vb_or(vb_and(TINYI_TREE_DOWN(b, 4), vb_set(12)),
                                                                           vb_and(TINYI_TREE_DOWN(c, 2), vb_set(48)))));
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_eight_halves)(const unsigned char *p)
{
    return _mm256_cvtph_ps(TINYI_BLK_128(p));
}

/* bytes of a block of eight rows; where its codes of 32 numbers g lie */
#define TINYI_EIGHT_AT(blk, five, g) \
    ((blk) == TINYI_BLK_Q6_K ? 144 + (g)*192 : 128 + ((five) ? (g)*160 : (g) / 2 * 256))

/* One block of eight rows times `rows` rows of activations: block b of 256 numbers, and for blocks of 32 g of them. acc
 * += */
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_step)(v_f32 *acc, const unsigned char *w, const tinyi_q8 *x, size_t b,
                                                  int g, int rows, int blk, int traits)
{
    const size_t step = x->blocks;
    const int five = tinyi_eight_has_five(blk), minima = (traits & TINYI_BLK_MINIMA) != 0;
    const float offset = blk == TINYI_BLK_Q8_0 ? V_VNNI ? -128.0f : 0.0f : minima ? 0.0f : five ? -16.0f : -8.0f;
    v_i8 c[8];
    int r;
    if (!tinyi_eight_has_256(blk)) {
        const v_f32 s = TINY_FN(tinyi_eight_halves)(w), m = minima ? TINY_FN(tinyi_eight_halves)(w + 16) : s;
        TINY_FN(tinyi_eight_codes)(c, w + (minima ? 32 : 16), blk, 0);
        TINYI_BLK_EACH(r, rows) {
            const size_t at = (size_t)r * step + b;
            const float *d = x->d + 16 * at + g;
            v_f32 f = v_mul(v_set(d[0]), v_from_i32(TINY_FN(tinyi_eight_sum)(c, x->code + 256 * at + 32 * g, traits)));
            if (offset != 0.0f) f = v_fma(v_set(d[8]), v_set(offset), f);
            if (minima) acc[r] = v_fma(m, v_set(d[8]), acc[r]);
            acc[r] = v_fma(s, f, acc[r]);
        }
        return;
    }
    if (blk == TINYI_BLK_Q6_K) {
        v_f32 part[TINYI_EIGHT_ROWS];
        TINYI_BLK_EACH(r, rows) part[r] = v_zero();
        for (g = 0; g < 8; g++) {
            const v_i32 k0 = TINY_FN(tinyi_eight_pairs)(w + 16 + 16 * g, 1),
                        k1 = TINY_FN(tinyi_eight_pairs)(w + 24 + 16 * g, 1);
            TINY_FN(tinyi_eight_codes)(c, w + TINYI_EIGHT_AT(blk, 0, g), blk, 0);
            TINYI_BLK_EACH(r, rows) {
                const size_t at = (size_t)r * step + b;
                const int8_t *q = x->code + 256 * at + 32 * g;
                const float *pair = x->sum + 16 * at + 2 * g;
                part[r] = v_fma(v_set(x->d[16 * at + (size_t)g]),
                                v_from_i32(vi_add(TINY_FN(tinyi_eight_fine)(c, q, pair, k0),
                                                  TINY_FN(tinyi_eight_fine)(c + 4, q + 16, pair + 1, k1))),
                                part[r]);
            }
        }
        TINYI_BLK_EACH(r, rows) acc[r] = v_fma(TINY_FN(tinyi_eight_halves)(w), part[r], acc[r]);
    } else {
        const int together = five ? 1 : 2;  /* codes of four bits lie by twos in bytes */
        unsigned char k[128];
        v_f32 part[TINYI_EIGHT_ROWS], low[TINYI_EIGHT_ROWS];
        TINY_FN(tinyi_eight_scales)(k, w + 32);
        TINYI_BLK_EACH(r, rows) part[r] = low[r] = v_zero();
        for (g = 0; g < 8; g += together) {
            int h;
            TINYI_BLK_EACH(h, together) {
                const v_i32 k0 = TINY_FN(tinyi_eight_pairs)(k + 8 * (g + h), 0);
                const v_f32 m = v_from_i32(vi_load_u8(k + 64 + 8 * (g + h)));
                TINY_FN(tinyi_eight_codes)(c, w + TINYI_EIGHT_AT(blk, five, g + h), blk, h);
                TINYI_BLK_EACH(r, rows) {
                    const size_t at = (size_t)r * step + b;
                    const float *d = x->d + 16 * at + g + h;
                    part[r] =
                        v_fma(v_set(d[0]),
                              v_from_i32(TINY_FN(tinyi_eight_scaled)(c, x->code + 256 * at + 32 * (g + h), k0, traits)),
                              part[r]);
                    low[r] = v_fma(m, v_set(d[8]), low[r]);
                }
            }
        }
        TINYI_BLK_EACH(r, rows)
            acc[r] = v_fnma(TINY_FN(tinyi_eight_halves)(w + 16), low[r],
                            v_fma(TINY_FN(tinyi_eight_halves)(w), part[r], acc[r]));
    }
}

/* ---- one row of activations: what its load spreads over a vector serves several groups of weights */

#define TINYI_EIGHT_TOGETHER 4
/* as many as there are registers for */
#define TINYI_EIGHT_MOST(blk) (tinyi_eight_has_256(blk) || tinyi_eight_has_five(blk) ? 2 : 4)
/* Codes of `many` groups, `place` bytes apart: n vectors times as many fours of q, `halves` times, the second time
 * (second numbers of bytes, or vectors behind) times those from q1 on. to[p][half]: sums, times scale[p][half] where
 * FITS does not allow n additions in 16 bits. Q6_K may run over: it ends within. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_meet)(v_i32 (*to)[2], const unsigned char *w, ptrdiff_t place,
                                                  const int8_t *q0, const int8_t *q1, int n, int halves, int many,
                                                  int blk, int traits, v_i32 (*scale)[2])
{
    const int wide = tinyi_eight_has_256(blk), fit = blk == TINYI_BLK_Q6_K ? 4 : TINYI_TREE_FIT(traits);
    v_i32 t[TINYI_EIGHT_TOGETHER][2];
    int i, p, h;
    (void)fit;
    (void)scale;
    TINYI_BLK_EACH(i, n) {
        v_i8 q[2];
        q[0] = vb_set4(q0 + 4 * i);
        if (halves > 1) q[1] = vb_set4(q1 + 4 * i);
        TINYI_BLK_EACH(p, many)
            TINYI_BLK_EACH(h, halves) {
                const v_i8 c = TINY_FN(tinyi_eight_code)(w + p * place, i + (wide ? 0 : 4 * h), blk, h);
#if V_VNNI
                t[p][h] = v_dot_u8i8(i ? t[p][h] : vi_zero(), c, q[h]);
#else
                const v_i32 product = TINY_FN(tinyi_tree_product)(c, q[h], traits);
                t[p][h] = i % fit ? _mm256_add_epi16(t[p][h], product) : product;
                TINYI_TREE_IN_ORDER(t[p][h]);
                if (fit < n && i % fit == fit - 1) {
                    const v_i32 wider = _mm256_madd_epi16(t[p][h], scale[p][h]);
                    to[p][h] = i >= fit ? vi_add(to[p][h], wider) : wider;
                }
#endif
            }
    }
    TINYI_BLK_EACH(p, many)
        TINYI_BLK_EACH(h, halves)
            if (V_VNNI || fit >= n) to[p][h] = t[p][h];
}

/* lines of each place are asked for a few at a time: a core waits for no more than a few dozen */
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_ask)(const unsigned char *w, ptrdiff_t place, int bytes, int many)
{
    int p, i;
    TINYI_BLK_EACH(p, many)
        TINYI_BLK_EACH(i, (bytes + 63) / 64) TINYI_BLK_AHEAD(w + p * place + TINYI_EIGHT_AHEAD + 64 * i);
}

/* One block of `many` groups of eight rows times one row of activations; see tinyi_eight_step. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_one)(v_f32 *acc, const unsigned char *w, ptrdiff_t place, const tinyi_q8 *x,
                                                 size_t b, int g, int many, int bytes, int blk, int traits)
{
    const int five = tinyi_eight_has_five(blk), minima = (traits & TINYI_BLK_MINIMA) != 0,
              fit = TINYI_TREE_FIT(traits);
    const float offset = blk == TINYI_BLK_Q8_0 ? V_VNNI ? -128.0f : 0.0f
                         : minima              ? 0.0f
                         : five                ? -16.0f
                                               : -8.0f,
                *d = x->d + 16 * b + g;
    const int8_t *q = x->code + 256 * b + 32 * g;
    v_i32 t[TINYI_EIGHT_TOGETHER][2], k[TINYI_EIGHT_TOGETHER][2];
    int p, h;
    (void)fit;
    if (!tinyi_eight_has_256(blk)) {
        const int head = minima ? 32 : 16;
        TINY_FN(tinyi_eight_ask)(w, place, 8 * bytes, many);
#if !V_VNNI
        TINYI_BLK_EACH(p, many) TINYI_BLK_EACH(h, 2) k[p][h] = _mm256_set1_epi16(1);
#endif
        TINY_FN(tinyi_eight_meet)(t, w + head, place, q, q + 16, five ? 8 : 4, five ? 1 : 2, many, blk, traits, k);
        TINYI_BLK_EACH(p, many) {
            const unsigned char *at = w + p * place;
            v_i32 sum;
            v_f32 f;
#if V_VNNI
            sum = five ? t[p][0] : vi_add(t[p][0], t[p][1]);
#else
            if (fit >= 8) sum = _mm256_madd_epi16(_mm256_add_epi16(t[p][0], t[p][1]), k[p][0]);
            else sum = five ? t[p][0] : vi_add(t[p][0], t[p][1]);
#endif
            f = v_mul(v_set(d[0]), v_from_i32(sum));
            if (offset != 0.0f) f = v_fma(v_set(d[8]), v_set(offset), f);
            if (minima) acc[p] = v_fma(TINY_FN(tinyi_eight_halves)(at + 16), v_set(d[8]), acc[p]);
            acc[p] = v_fma(TINY_FN(tinyi_eight_halves)(at), f, acc[p]);
        }
        return;
    }
    if (blk == TINYI_BLK_Q6_K) {
        v_f32 part[TINYI_EIGHT_TOGETHER];
        TINYI_BLK_EACH(p, many) part[p] = v_zero();
        for (g = 0; g < 8; g++, q += 32) {
            v_i32 sum[TINYI_EIGHT_TOGETHER];
            const unsigned char *at = w + TINYI_EIGHT_AT(blk, 0, g);
            TINY_FN(tinyi_eight_ask)(w + g * bytes, place, bytes, many);
            TINYI_BLK_EACH(h, 2) {
                const float *pair = x->sum + 16 * b + 2 * g + h;
                TINY_FN(tinyi_eight_meet)(t, at + 96 * h, place, q + 16 * h, NULL, 4, 1, many, blk, traits, NULL);
                TINYI_BLK_EACH(p, many) {
                    const v_i32 scale = TINY_FN(tinyi_eight_pairs)(w + p * place + 16 + 16 * g + 8 * h, 1);
                    v_i32 one;
#if V_VNNI
                    one = vi_mul(vi_sub(t[p][0], _mm256_madd_epi16(vb_set4(pair), _mm256_set1_epi16(1))), scale);
#else
                    one = _mm256_madd_epi16(_mm256_sub_epi16(t[p][0], vb_set4(pair)), scale);
#endif
                    sum[p] = h ? vi_add(sum[p], one) : one;
                }
            }
            TINYI_BLK_EACH(p, many) part[p] = v_fma(v_set(d[g]), v_from_i32(sum[p]), part[p]);
        }
        TINYI_BLK_EACH(p, many) acc[p] = v_fma(TINY_FN(tinyi_eight_halves)(w + p * place), part[p], acc[p]);
    } else {
        const int halves = five ? 1 : 2;
        unsigned char scale[TINYI_EIGHT_TOGETHER][128];
        v_f32 part[TINYI_EIGHT_TOGETHER], low[TINYI_EIGHT_TOGETHER];
        TINYI_BLK_EACH(p, many) {
            TINY_FN(tinyi_eight_scales)(scale[p], w + p * place + 32);
            part[p] = low[p] = v_zero();
        }
        for (g = 0; g < 8; g += halves, q += 32 * halves) {
            const unsigned char *at = w + TINYI_EIGHT_AT(blk, five, g);
            TINY_FN(tinyi_eight_ask)(w + g * bytes, place, halves * bytes, many);
            if (V_VNNI || fit < 8)
                TINYI_BLK_EACH(p, many)
                    TINYI_BLK_EACH(h, halves) k[p][h] = TINY_FN(tinyi_eight_pairs)(scale[p] + 8 * (g + h), 0);
            TINY_FN(tinyi_eight_meet)(t, at, place, q, q + 32, 8, halves, many, blk, traits, k);
            TINYI_BLK_EACH(h, halves)
                TINYI_BLK_EACH(p, many) {
                    v_i32 sum;
#if V_VNNI
                    sum = vi_mul(t[p][h], k[p][h]);
#else
                    sum = fit < 8 ? t[p][h]
                                  : _mm256_madd_epi16(t[p][h], TINY_FN(tinyi_eight_pairs)(scale[p] + 8 * (g + h), 0));
#endif
                    part[p] = v_fma(v_set(d[g + h]), v_from_i32(sum), part[p]);
                    low[p] = v_fma(v_from_i32(vi_load_u8(scale[p] + 64 + 8 * (g + h))), v_set(d[8 + g + h]), low[p]);
                }
        }
        TINYI_BLK_EACH(p, many) {
            const unsigned char *head = w + p * place;
            acc[p] = v_fnma(TINY_FN(tinyi_eight_halves)(head + 16), low[p],
                            v_fma(TINY_FN(tinyi_eight_halves)(head), part[p], acc[p]));
        }
    }
}

/* `places` groups of eight rows, `place` bytes apart, times `rows` rows of activations from x on */
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_groups)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, ptrdiff_t y_place,
                                                    const unsigned char *w, ptrdiff_t place, const tinyi_q8 *x,
                                                    size_t k, int places, int rows, int values, int bytes, int blk,
                                                    int traits)
{
    v_f32 acc[TINYI_EIGHT_PLACES * TINYI_EIGHT_ROWS];
    const size_t blocks = k / (size_t)values;
    const int most = TINYI_EIGHT_MOST(blk), together = places < most ? places : most;
    size_t j;
    int p, r, i;
    TINYI_BLK_EACH(p, places * rows) acc[p] = v_zero();
    for (j = 0; j < blocks; j++, w += 8 * bytes) {
        const size_t at = values == 256 ? j : j / 8;
        const int g = values == 256 ? 0 : (int)(j % 8);
        if (rows > 1) TINY_FN(tinyi_eight_step)(acc, w, x, at, g, rows, blk, traits);
        else
            for (p = 0; p < places; p += together)
                TINY_FN(tinyi_eight_one)(acc + p, w + p * place, place, x, at, g, together, bytes, blk, traits);
    }
    TINYI_BLK_EACH(p, places)
        TINYI_BLK_EACH(r, rows) {
            float *to = y + p * y_place + r * y_x, t[8];
            if (y_row == 1) {
                v_store(to, acc[p * rows + r]);
                continue;
            }
            v_store(t, acc[p * rows + r]);
            for (i = 0; i < 8; i++) to[i * y_row] = t[i];
        }
}

/* Eight expanded rows (block_inside.h): 256 numbers from block w on, n of them there. The 32 numbers of a vector of
 * each row come apart by three levels of shuffles; across: they stay as they are, in eight lanes (across.simd.h). */
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_apart)(unsigned char *to, int g, const v_i8 *c, int across)
{
    v_i32 a[8], b[8];
    int i;
    if (across) {
        TINYI_BLK_EACH(i, 8) vb_store(to + (8 * g + i) * TINYI_ACROSS_STEP, c[i]);
        return;
    }
    to += 32 * g;
    TINYI_BLK_EACH(i, 4) {
        a[2 * i] = _mm256_unpacklo_epi32(c[2 * i], c[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(c[2 * i], c[2 * i + 1]);
    }
    TINYI_BLK_EACH(i, 2) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    TINYI_BLK_EACH(i, 4) {
        vb_store(to + i * TINYI_BLK_PANEL, _mm256_permute2x128_si256(b[i], b[4 + i], 0x20));
        vb_store(to + (4 + i) * TINYI_BLK_PANEL, _mm256_permute2x128_si256(b[i], b[4 + i], 0x31));
    }
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_column)(unsigned char *to, int at, v_f32 s, int across)
{
    float t[8];
    int i;
    if (across) {
        v_store((float *)(void *)(to + (64 + at) * TINYI_ACROSS_STEP), s);
        return;
    }
    v_store(t, s);
    for (i = 0; i < 8; i++) memcpy(to + i * TINYI_BLK_PANEL + 256 + 4 * at, t + i, 4);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_eight_out)(unsigned char *to, const unsigned char *w, size_t n, ptrdiff_t ahead,
                                                 int values, int bytes, int blk, int traits, int across)
{
    const int five = tinyi_eight_has_five(blk), minima = (traits & TINYI_BLK_MINIMA) != 0;
    const float offset = blk == TINYI_BLK_Q8_0   ? V_VNNI ? -128.0f : 0.0f
                         : blk == TINYI_BLK_Q6_K ? -32.0f
                         : five                  ? -16.0f
                                                 : -8.0f;
    unsigned char k[128];
    v_i8 c[8];
    v_f32 s, m;
    int g, h;
    for (g = 0; g < 8 * bytes * (256 / values); g += 64) TINYI_BLK_AHEAD2(w + ahead + g);
    if (n < 256) {
        for (h = 0; h < 8; h++) c[h] = vb_set(0);
        for (h = 0; h < 8; h++) TINY_FN(tinyi_eight_apart)(to, h, c, across);
        for (h = 0; h < 32; h++) TINY_FN(tinyi_eight_column)(to, h, v_zero(), across);
    }
    if (tinyi_eight_has_256(blk) && blk != TINYI_BLK_Q6_K) TINY_FN(tinyi_eight_scales)(k, w + 32);
    for (g = 0; g < (int)(n / 32); g++) {
        if (values == 32) {
            TINY_FN(tinyi_eight_codes)(c, w + (minima ? 32 : 16), blk, 0);
            s = TINY_FN(tinyi_eight_halves)(w);
            m = minima ? TINY_FN(tinyi_eight_halves)(w + 16) : v_mul(s, v_set(offset));
            w += 8 * bytes;
        } else if (blk == TINYI_BLK_Q6_K) {
            TINY_FN(tinyi_eight_codes)(c, w + TINYI_EIGHT_AT(blk, 0, g), blk, 0);
            for (h = 0; h < 2; h++) {
                const int at = g / 4 * 8 + g % 4 + 4 * h;      /* FINE order */
                s = v_mul(TINY_FN(tinyi_eight_halves)(w),
                          v_from_i32(vi_load_i8((const int8_t *)(w + 16 + 16 * g + 8 * h))));
                TINY_FN(tinyi_eight_column)(to, at, s, across);
                TINY_FN(tinyi_eight_column)(to, 16 + at, v_mul(s, v_set(offset)), across);
            }
            TINY_FN(tinyi_eight_apart)(to, g, c, across);
            continue;
        } else {
            TINY_FN(tinyi_eight_codes)(c, w + TINYI_EIGHT_AT(blk, five, g), blk, g % 2);
            s = v_mul(TINY_FN(tinyi_eight_halves)(w), v_from_i32(vi_load_u8(k + 8 * g)));
            m = v_neg(v_mul(TINY_FN(tinyi_eight_halves)(w + 16), v_from_i32(vi_load_u8(k + 64 + 8 * g))));
        }
        TINY_FN(tinyi_eight_column)(to, g, s, across);
        TINY_FN(tinyi_eight_column)(to, 16 + g, m, across);
        TINY_FN(tinyi_eight_apart)(to, g, c, across);
    }
}

/* in place of the sums of 16 codes: what the head of this file says */
static int TINY_FN(tinyi_eight_ready)(const int8_t *code, float *d, float *sum, size_t blocks)
{
    v_f32 largest = v_zero();
    size_t b;
    int g;
    for (b = 0; b < blocks; b++) {
        largest = v_max(largest, v_load(d + 16 * b));
        v_store(d + 16 * b + 8, v_mul(v_load(d + 16 * b), v_load(d + 16 * b + 8)));
        for (g = 0; g < 8; g++) {
            v_i32 t = _mm256_maddubs_epi16(vb_set(32), vb_load(code + 256 * b + 32 * g));
            int two[2];
            t = _mm256_add_epi16(t, _mm256_shuffle_epi32(t, 0x4e));
            t = _mm256_add_epi16(t, _mm256_shuffle_epi32(t, 0xb1));
            two[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(t));
            two[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(t, 1));
            memcpy(sum + 16 * b + 2 * g, two, sizeof two);
        }
    }
    return v_hmax(largest) < 1e29f;         /* scales of weights come after sums, which are below 2^31 */
}

#define TINYI_EIGHT_KERNELS(name, values, bytes, traits)                                                            \
    static void TINY_FN(tinyi_eight_dot_##name)(float *y, ptrdiff_t y_row, ptrdiff_t y_x, const unsigned char *w,   \
                                                ptrdiff_t group_step, size_t groups, const tinyi_q8 *x, size_t k,   \
                                                size_t n)                                                           \
    {                                                                                                               \
        const ptrdiff_t each = (ptrdiff_t)(groups / TINYI_EIGHT_PLACES);                                            \
        ptrdiff_t i;                                                                                                \
        /* each place goes on where its last group ended */                                                         \
        if (n == 1) {                                                                                               \
            for (i = 0; i < each; i++, w += group_step, y += 8 * y_row)                                             \
                TINY_FN(tinyi_eight_groups)                                                                         \
                (y, y_row, y_x, 8 * each * y_row, w, each * group_step, x, k, TINYI_EIGHT_PLACES, 1, values, bytes, \
                 TINYI_BLK_##name, traits);                                                                         \
            w += (TINYI_EIGHT_PLACES - 1) * each * group_step;                                                      \
            y += 8 * (TINYI_EIGHT_PLACES - 1) * each * y_row;                                                       \
            groups %= TINYI_EIGHT_PLACES;                                                                           \
        }                                                                                                           \
        for (; groups; groups--, w += group_step, y += 8 * y_row) {                                                 \
            tinyi_q8 at = *x;                                                                                       \
            /* the row twice: only the last groups come here so */                                                  \
            if (n == 1) at.blocks = 0, y_x = 0;                                                                     \
            float *to = y;                                                                                          \
            size_t left = n, step;                                                                                  \
            for (; left; left -= step, to += (ptrdiff_t)step * y_x, at.code += step * 256 * x->blocks,              \
                         at.d += step * 16 * x->blocks, at.sum += step * 16 * x->blocks) {                          \
                /* 3 + 2, 3 + 3, 4 + 3 */                                                                           \
                step = left == 4 || left > 6 ? 4 : left > 4 ? 3 : left;                                             \
                switch (step) {                                                                                     \
                case 4:                                                                                             \
                    TINY_FN(tinyi_eight_groups)                                                                     \
                    (to, y_row, y_x, 0, w, 0, &at, k, 1, 4, values, bytes, TINYI_BLK_##name, traits);               \
                    break;                                                                                          \
                case 3:                                                                                             \
                    TINY_FN(tinyi_eight_groups)                                                                     \
                    (to, y_row, y_x, 0, w, 0, &at, k, 1, 3, values, bytes, TINYI_BLK_##name, traits);               \
                    break;                                                                                          \
                default:                                                                                            \
                    TINY_FN(tinyi_eight_groups)                                                                     \
                    (to, y_row, y_x, 0, w, 0, &at, k, 1, 2, values, bytes, TINYI_BLK_##name, traits);               \
                    break;                                                                                          \
                }                                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
    }                                                                                                               \
    static void TINY_FN(tinyi_eight_expand_##name)(unsigned char *to, const unsigned char *w, size_t n,             \
                                                   ptrdiff_t ahead, int across)                                     \
    {                                                                                                               \
        if (V_HALF && !across)              /* for tiles of bfloat16 */                                             \
            TINY_FN(tinyi_eight_out)(to, w, n, ahead, values, bytes, TINYI_BLK_##name, traits, 0);                  \
        else TINY_FN(tinyi_eight_out)(to, w, n, ahead, values, bytes, TINYI_BLK_##name, traits, 1);                 \
    }
TINYI_EIGHTS(TINYI_EIGHT_KERNELS)
#define TINYI_EIGHT_DOT(name, values, bytes, traits) TINY_FN(tinyi_eight_dot_##name),
#define TINYI_EIGHT_EXPAND(name, values, bytes, traits) TINY_FN(tinyi_eight_expand_##name),
static const tinyi_eight_kernels TINY_FN(tinyi_eight_table) = { { TINYI_EIGHTS(TINYI_EIGHT_DOT) },
                                                                { TINYI_EIGHTS(TINYI_EIGHT_EXPAND) },
                                                                TINY_FN(tinyi_eight_ready) };

#undef TINYI_EIGHT_PLACES
#undef TINYI_EIGHT_ROWS
#undef TINYI_EIGHT_AHEAD
#undef TINYI_EIGHT_TOGETHER
#undef TINYI_EIGHT_MOST
#undef TINYI_EIGHT_AT
#undef TINYI_EIGHT_KERNELS
#undef TINYI_EIGHT_DOT
#undef TINYI_EIGHT_EXPAND
