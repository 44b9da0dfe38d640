/* src/llm/block/order.simd.h - products of block formats on AVX2 without VNNI, and on AVX-512 with it: super-blocks
 * times one row of activations
 *
 * What a super-block is folded by waits for its products, and fills the window that the processor looks ahead in. So
 * the tree of one is written between the products of the next, each step some instructions behind what it waits for;
 * compilers would put them apart again.
 * Sums and their order are those of tree.simd.h, of which this is a part. */

#ifdef TINYLLM_FEW_FORMATS
#define TINYI_ORDER_Q5_0 (-1)
#else
#define TINYI_ORDER_Q5_0 TINYI_BLK_Q5_0
#endif
/* clang 14 has not the registers for two of them, and is faster where it chooses the order itself. AVX2 with VNNI was
 * not measured. */
#define TINYI_ORDER_HAS(format)                                                              \
    ((!V_VNNI || V_HALF) && ((format) == TINYI_BLK_Q8_0 || (format) == TINYI_BLK_Q6_K ||     \
                             (TINYI_GCC && ((format) == TINYI_BLK_Q4_K || (format) == TINYI_ORDER_Q5_0))))

/* Q8_0. t: what the block at b0 left, then what that at b leaves; acc += block b0 */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_order_bytes)(v_f32 acc, v_i32 *t, const unsigned char *b, const int8_t *q,
                                                    const unsigned char *b0, const float *d0)
{
    const v_i32 one = _mm256_set1_epi16(1);
    v_i32 p[8], u[4];
    v_f32 f = v_zero(), scale = v_zero();   /* compilers that do not unroll see them used before */
    int g, i;
    TINYI_BLK_EACH(g, 7) {
        TINYI_BLK_EACH(i, 2)
            if (g < 4) {
                const int at = g + 4 * i;
                v_i8 c = vb_load(b + 34 * at + 2);
#if V_VNNI
                c = vb_xor(c, vb_set(-128));
                TINYI_TREE_HERE(c);
                p[at] = v_dot_u8i8(vi_zero(), c, vb_load(q + 32 * at));
#else
                v_i8 a = _mm256_sign_epi8(c, c);
                TINYI_TREE_HERE(a);
                c = _mm256_sign_epi8(vb_load(q + 32 * at), c);
                TINYI_TREE_HERE(c);
                p[at] = _mm256_maddubs_epi16(a, c);
#endif
                TINYI_TREE_HERE(p[at]);
            }
        TINYI_BLK_EACH(i, 2)
            if (!V_VNNI && g > 0 && g < 5) {
                p[g - 1 + 4 * i] = _mm256_madd_epi16(p[g - 1 + 4 * i], one);
                TINYI_TREE_HERE(p[g - 1 + 4 * i]);
            }
        if (g > 1 && g < 6) {
            v_i32 *x = p + g - 2;
            const v_i32 high = _mm256_permute2x128_si256(x[0], x[4], 0x21);
            x[0] = _mm256_blend_epi32(x[0], x[4], 0xf0);
            x[4] = high;
            TINYI_TREE_HERE(x[0]);
            TINYI_TREE_HERE(x[4]);
        }
        if (g == 0)
            TINYI_BLK_EACH(i, 2) {
                u[2 * i] = _mm256_unpacklo_epi32(t[2 * i], t[2 * i + 1]);
                u[2 * i + 1] = _mm256_unpackhi_epi32(t[2 * i], t[2 * i + 1]);
                TINYI_TREE_HERE(u[2 * i]);
                TINYI_TREE_HERE(u[2 * i + 1]);
            }
        if (g == 1)
            TINYI_BLK_EACH(i, 2) {
                u[2 * i] = vi_add(u[2 * i], u[2 * i + 1]);
                TINYI_TREE_HERE(u[2 * i]);
            }
        if (g == 2) {
            u[1] = _mm256_unpackhi_epi64(u[0], u[2]);
            u[0] = _mm256_unpacklo_epi64(u[0], u[2]);
            TINYI_TREE_HERE(u[0]);
            TINYI_TREE_HERE(u[1]);
            scale = TINY_FN(tinyi_tree_halves8)(b0, 34);
        }
        if (g > 2) {
            t[g - 3] = vi_add(p[g - 3], p[g + 1]);
            TINYI_TREE_HERE(t[g - 3]);
        }
        if (g == 3) {
            u[0] = vi_add(u[0], u[1]);
            TINYI_TREE_HERE(u[0]);
            scale = v_mul(scale, v_load(d0));
            TINYI_TREE_HERE(scale);
        }
        if (g == 4) {
            f = v_from_i32(u[0]);
            TINYI_TREE_HERE(f);
            if (V_VNNI) f = v_fma(v_load(d0 + 8), v_set(-128.0f), f);
        }
        if (g == 5) acc = v_fma(scale, f, acc);
    }
    return acc;
}

/* vector v of the codes of a super-block, of eight */
TINYI_FORCE_INLINE v_i8 TINY_FN(tinyi_order_code)(const unsigned char *b, int v, int format)
{
    const int half = v / 4, four = v % 4;
    v_i8 x, high;
    if (format == TINYI_BLK_Q4_K) {
        x = TINY_FN(tinyi_tree_blended)(b + 16 + half * 32 + v % 2 * 16, 64);
        return vb_and(four > 1 ? TINYI_TREE_DOWN(x, 4) : x, vb_set(15));
    }
    if (format == TINYI_BLK_Q6_K) {
        x = TINYI_BLK_256(b + half * 64 + v % 2 * 32);
        high = TINYI_BLK_256(b + 128 + half * 32);
        high = four == 0   ? TINYI_TREE_UP(high, 4)
               : four == 1 ? TINYI_TREE_UP(high, 2)
               : four == 2 ? high
                           : TINYI_TREE_DOWN(high, 2);
        return vb_or(vb_and(four > 1 ? TINYI_TREE_DOWN(x, 4) : x, vb_set(15)), vb_and(high, vb_set(0x30)));
    }
    x = TINY_FN(tinyi_tree_halves)(b + 6 + v / 2 * 22, 88);
    return vb_or(vb_and(v % 2 ? TINYI_TREE_DOWN(x, 4) : x, vb_set(15)),
                 TINY_FN(tinyi_tree_fifth)(b + 2 + v / 2 * 22, 88, v % 2));
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_order_scales)(v_f32 *s, v_f32 *m, const unsigned char *b, int format)
{
    v_i8 unused[8];
    if (format == TINYI_BLK_Q4_K) return TINY_FN(tinyi_tree_get_Q4_K)(unused, s, m, b);
    if (format == TINYI_BLK_Q6_K) return TINY_FN(tinyi_tree_get_Q6_K)(unused, s, m, b);
    return TINY_FN(tinyi_tree_get_Q5_0)(unused, s, m, b);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_order_unpack)(v_i32 *u, v_i32 a, v_i32 b, int by64)
{
    u[0] = by64 ? _mm256_unpacklo_epi64(a, b) : _mm256_unpacklo_epi32(a, b);
    u[1] = by64 ? _mm256_unpackhi_epi64(a, b) : _mm256_unpackhi_epi32(a, b);
    TINYI_TREE_HERE(u[0]);
    TINYI_TREE_HERE(u[1]);
}
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_order_add)(v_i32 a, v_i32 b, int to, int traits)
{
    a = TINY_FN(tinyi_tree_add)(a, b, to, traits);
    TINYI_TREE_HERE(a);
    return a;
}
/* codes without sign, PAIRED or FINE; t and acc as above, acc two vectors where groups are FINE */
TINYI_FORCE_INLINE void TINY_FN(tinyi_order_codes)(v_f32 *acc, v_i32 *t, const unsigned char *b, const int8_t *q,
                                                   const unsigned char *b0, const float *d0, const float *sum0,
                                                   int format, int traits)
{
    const int fine = (traits & TINYI_BLK_FINE) != 0, many = fine ? 2 : 1;
    v_i32 p[8], u[4], o[2];
    v_f32 f[2], s[2], m[2], sums;
    float shared = 0;
    int g, i;
    TINYI_BLK_EACH(g, 7) {
        TINYI_BLK_EACH(i, 2)
            if (g < 4) {
                const v_i8 x = vb_load(q + 32 * (2 * g + i));
                v_i8 c = TINY_FN(tinyi_order_code)(b, 2 * g + i, format);
                TINYI_TREE_HERE(c);
                p[2 * g + i] = V_VNNI && i && !fine ? TINY_FN(tinyi_tree_more)(p[2 * g], c, x, traits)
                                                    : TINY_FN(tinyi_tree_product)(c, x, traits);
                TINYI_TREE_HERE(p[2 * g + i]);
            }
        if (!fine) {
            if (g == 0) {
                TINY_FN(tinyi_order_unpack)(u, t[0], t[1], 0);
                TINY_FN(tinyi_order_unpack)(u + 2, t[2], t[3], 0);
            }
            if (g == 1) {
                u[0] = TINY_FN(tinyi_order_add)(u[0], u[1], 4, traits);
                u[1] = TINY_FN(tinyi_order_add)(u[2], u[3], 4, traits);
                TINY_FN(tinyi_tree_widen)(u, 2, 4, 8, traits);
                TINYI_TREE_HERE(u[0]);
                TINYI_TREE_HERE(u[1]);
            }
            if (g == 2) TINY_FN(tinyi_order_unpack)(u, u[0], u[1], 1);
            if (g == 3) {
                u[0] = TINY_FN(tinyi_order_add)(u[0], u[1], 8, traits);
                TINY_FN(tinyi_tree_widen)(u, 1, 8, 1 << 20, traits);
                TINYI_TREE_HERE(u[0]);
            }
            if (g > 0 && g < 5)
                t[g - 1] = V_VNNI ? p[2 * g - 1] : TINY_FN(tinyi_order_add)(p[2 * g - 2], p[2 * g - 1], 2, traits);
        } else {
            if (g == 0) {
                TINY_FN(tinyi_order_unpack)(u, t[0], t[1], 1);
                TINY_FN(tinyi_order_unpack)(u + 2, t[2], t[3], 1);
            }
            if (g == 1) {
                u[0] = TINY_FN(tinyi_order_add)(u[0], u[1], 4, traits);
                u[1] = TINY_FN(tinyi_order_add)(u[2], u[3], 4, traits);
            }
            if (g > 1 && g < 6) {
                t[g - 2] = TINY_FN(tinyi_order_add)(o[0], o[1], 2, traits);
                TINY_FN(tinyi_tree_widen)(t + g - 2, 1, 2, 4, traits);
                TINYI_TREE_HERE(t[g - 2]);
            }
            if (g > 0 && g < 5) TINY_FN(tinyi_order_unpack)(o, p[2 * g - 2], p[2 * g - 1], 0);
        }
        if (g == (fine ? 2 : 1)) {
            shared = TINY_FN(tinyi_order_scales)(s, m, b0, format);
            TINYI_BLK_EACH(i, many) {
                const v_f32 scale = fine ? _mm256_broadcast_ps((const __m128 *)(const void *)(d0 + 4 * i)) : v_load(d0);
                if (traits & TINYI_BLK_MINIMA) m[i] = v_mul(m[i], v_load(d0 + 8));
                else s[i] = v_mul(s[i], scale);
                TINYI_TREE_HERE(s[i]);
                if (traits & TINYI_BLK_MINIMA) TINYI_TREE_HERE(m[i]);
            }
        }
        if (g == 4) TINYI_BLK_EACH(i, many) {
            f[i] = v_from_i32(u[i]);
            TINYI_TREE_HERE(f[i]);
        }
        if (g == 5) TINYI_BLK_EACH(i, many) {
            sums = v_load(fine ? sum0 + 8 * i : d0 + 8);
            if (shared != 0.0f) f[i] = v_fma(sums, v_set(shared), f[i]);
            if (traits & TINYI_BLK_MINIMA) acc[i] = v_fma(v_load(d0), v_fma(s[i], f[i], m[i]), acc[i]);
            else acc[i] = v_fma(s[i], f[i], acc[i]);
        }
    }
}

/* Lines are asked for 2 KB ahead only: 8 KB as well makes it slower here. Rows within a page come from both halves of a
 * piece in turn, since a core reads two places faster than one; of longer rows each begins so many pages of its own
 * that nothing is won. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_order_rows)(float *y, ptrdiff_t y_row, const unsigned char *w, ptrdiff_t w_row,
                                                  size_t n_row, const tinyi_q8 *x, size_t k, int values, int n_bytes,
                                                  int format, int traits)
{
    const int bytes = 256 / values * n_bytes;
    const size_t half = w_row <= 4096 ? (n_row + 1) / 2 : 0, blocks = x->blocks;
    const size_t rest = k % 256 / (size_t)values * (size_t)n_bytes;
    const ptrdiff_t soon = tinyi_blk_ahead(w_row, k / (size_t)values * (size_t)n_bytes, 2048);
    unsigned char last[2][8 * 34];          /* of two rows in turn: one is b0 still */
    const unsigned char *b, *b0 = w;
    const int8_t *const code = x->code;
    const float *d0 = x->d, *sum0 = x->sum;
    float none, *to = &none;
    v_f32 acc[2];
    v_i32 t[4];
    size_t r, at;
    int i;
    acc[0] = acc[1] = v_zero();
    TINYI_BLK_EACH(i, 4) t[i] = vi_zero();
    if (rest) b0 = tinyi_blk_last(last[1], sizeof last[1], w, rest);    /* a row may be shorter than a super-block */
    /* once more, for the sums of the last block: of its products nobody hears */
    for (r = 0; r <= n_row; r++) {
        const ptrdiff_t row = r == n_row ? 0 : (ptrdiff_t)(!half ? r : r % 2 ? half + r / 2 : r / 2);
        b = w + row * w_row;
        for (at = 0; at < (r < n_row ? blocks : 1); at++, b += bytes) {
            for (i = 0; i < bytes; i += 64) TINYI_BLK_AHEAD(b + soon + i);
            if (rest && at + 1 == blocks)
                b = TINY_FN(tinyi_tree_end)
                    (last[r % 2], b, rest, (size_t)n_bytes,
                     TINYI_TREE_BEYOND((ptrdiff_t)n_row - 1 - row, w_row, (size_t)bytes, rest));
            if (format == TINYI_BLK_Q8_0) acc[0] = TINY_FN(tinyi_order_bytes)(acc[0], t, b, code + 256 * at, b0, d0);
            else TINY_FN(tinyi_order_codes)(acc, t, b, code + 256 * at, b0, d0, sum0, format, traits);
            if (at == 0) {                  /* with that the row before is whole */
                *to = v_sum(v_add(acc[0], acc[1]));
                acc[0] = acc[1] = v_zero();
                to = y + row * y_row;
            }
            b0 = b;
            d0 = x->d + 16 * at;
            sum0 = x->sum + 16 * at;
        }
    }
}
