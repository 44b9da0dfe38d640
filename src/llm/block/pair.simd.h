/* src/llm/block/pair.simd.h - many rows of activations on w128 (a part of quad.simd.h)
 *
 * Sixteen rows of activations lie next to each other, two numbers of each as 16-bit integers: a vector is a pair of
 * four rows. Two rows of weights meet them: a pair of codes is spread over a vector, and one instruction multiplies
 * four pairs and adds within them, so that a lane is a row of activations. That is half the instructions of products
 * of floats, on targets that add after they multiply.
 * All codes are signed bytes; the offset of formats without minima was added when the row was expanded. A sum of 32
 * products of two bytes is below 2^19.
 *
 * Relaxed SIMD of WebAssembly: one instruction multiplies four bytes of four rows of activations and adds the products.
 * Every engine computes the same only if the bytes of one operand are in 0..127. Codes of all formats but Q8_0, IQ4_NL
 * and IQ4_XS are in -64..63, so 64 is added to them, and sums begin with -64 times those of the activations: they stay
 * exact. */
/* compilers know that additions of integers may be done in any order, and choose one for which registers do not
 * suffice; for WebAssembly, clang 19 fails at such a statement with a vector, 14 to 16 do not */
#if TINYI_X86 && (TINYI_GCC || TINYI_CLANG)
#define TINYI_PAIR_IN_ORDER(v) __asm__("" : "+x"(v))
#elif defined __wasm_simd128__ && TINYI_CLANG && TINYI_CLANG < 17
#define TINYI_PAIR_IN_ORDER(v) __asm__("" : "+r"(v))
#else
#define TINYI_PAIR_IN_ORDER(v) ((void)0)
#endif
#define TINYI_PAIR_SIDE 16
#define TINYI_PAIR_FLOATS 1024              /* 16 pairs of 16 rows; then scales and sums */
#if TINYI_W128_RELAXED
#define TINYI_PAIR_BYTES 1280               /* the same numbers as bytes, four of each row; then sums of integers */
#define TINYI_PAIR_SUMS (1280 + 512)
#define TINYI_PAIR_PART (1280 + 512 + 192)
#else
#define TINYI_PAIR_PART 1280
#endif

#if TINYI_W128_RELAXED
/* row r of activations as bytes, and -OFFSET times their sums: of all 32, of the first 16, of the others */
#define TINYI_PAIR_OFFSET 64                /* is added to codes of weights */
TINYI_FORCE_INLINE void TINY_FN(tinyi_pair_bytes)(unsigned char *p, size_t r, const int8_t *code)
{
    int32_t sum[3] = { 0, 0, 0 };
    int i;
    for (i = 0; i < 8; i++) memcpy(p + TINYI_PAIR_BYTES + 64 * i + 4 * r, code + 4 * i, 4);
    for (i = 0; i < 32; i++) sum[1 + i / 16] -= TINYI_PAIR_OFFSET * code[i];
    sum[0] = sum[1] + sum[2];
    for (i = 0; i < 3; i++) memcpy(p + TINYI_PAIR_SUMS + 64 * i + 4 * r, sum + i, 4);
}
#endif

/* For each 256 numbers and each 32 of them: 16 vectors of pairs of each four rows; then d, sums of 32, sums of the
 * first 16 and of the other 16, times d. block, group: bytes from one to the next. */
static void TINY_FN(tinyi_pair_turn)(unsigned char *to, const tinyi_q8 *x, size_t n, ptrdiff_t block, ptrdiff_t group)
{
    size_t b, r;
    int g, i;
    for (b = 0; b < x->blocks; b++, to += block)
        for (g = 0; g < 8; g++) {
            unsigned char *p = to + g * group;
            if (n < TINYI_PAIR_SIDE) memset(p, 0, TINYI_PAIR_PART);
            for (r = 0; r < n; r++) {
                const size_t at = r * x->blocks + b;
                const float *halves = x->sum + 16 * at + g / 4 * 8 + g % 4, d = x->d[16 * at + (size_t)g];
                const int8_t *code = x->code + 256 * at + 32 * g;
                float *f = (float *)(void *)(p + TINYI_PAIR_FLOATS) + r;
                for (i = 0; i < 16; i++) {
                    int16_t two[2];
                    two[0] = code[2 * i];
                    two[1] = code[2 * i + 1];
                    memcpy(p + 64 * i + 4 * r, two, 4);
                }
                f[0] = d;
                f[16] = d * x->d[16 * at + 8 + (size_t)g];
                f[32] = d * halves[0];
                f[48] = d * halves[4];
#if TINYI_W128_RELAXED
                TINY_FN(tinyi_pair_bytes)(p, r, code);
#endif
            }
        }
}

/* pair `i` of eight codes of each row of weights, which are pair `at` of activations */
#define TINYI_PAIR_STEP(at, i)                                      \
    do {                                                            \
        const v_i8 wa = vw_pair(a, i), wb = vw_pair(b, i);          \
        TINYI_BLK_EACH(q, fours) {                                  \
            const v_i8 v = vb_load(x + 64 * ((at) + (i)) + 16 * q); \
            ta[q] = vi_add(ta[q], vw_dot(v, wa));                   \
            tb[q] = vi_add(tb[q], vw_dot(v, wb));                   \
            TINYI_PAIR_IN_ORDER(ta[q]);                             \
            TINYI_PAIR_IN_ORDER(tb[q]);                             \
        }                                                           \
    } while (0)
/* ta, tb: pairs `from` to `to` of eight codes of a group of 32 of two rows of weights, times 4 * fours rows */
TINYI_FORCE_INLINE void TINY_FN(tinyi_pair_sums)(v_i32 *ta, v_i32 *tb, const unsigned char *w, const unsigned char *x,
                                                 int from, int to, int fours)
{
    int i, q;
    TINYI_BLK_EACH(q, fours) ta[q] = tb[q] = vi_zero();
    for (i = from; i < to; i++) {
        const v_i8 a = vw_load_i8(w + 8 * i), b = vw_load_i8(w + 8 * i + TINYI_BLK_PANEL);
        TINYI_PAIR_STEP(4 * i, 0);
        TINYI_PAIR_STEP(4 * i, 1);
        TINYI_PAIR_STEP(4 * i, 2);
        TINYI_PAIR_STEP(4 * i, 3);
    }
}
#if TINYI_W128_RELAXED
#define TINYI_PAIR_BYTES_STEP(at, i)                                \
    do {                                                            \
        const v_i8 wa = vw_pair(a, i), wb = vw_pair(b, i);          \
        TINYI_BLK_EACH(q, fours) {                                  \
            const v_i8 v = vb_load(x + 64 * ((at) + (i)) + 16 * q); \
            ta[q] = v_dot_u7i8(ta[q], wa, v);                       \
            tb[q] = v_dot_u7i8(tb[q], wb, v);                       \
        }                                                           \
    } while (0)
/* the same of bytes, to which OFFSET is added; `sums` takes it off again */
TINYI_FORCE_INLINE void TINY_FN(tinyi_pair_sums_of_bytes)(v_i32 *ta, v_i32 *tb, const unsigned char *w,
                                                          const unsigned char *x, const unsigned char *sums, int from,
                                                          int to, int fours)
{
    int i, q;
    TINYI_BLK_EACH(q, fours) ta[q] = tb[q] = vb_load(sums + 16 * q);
    for (i = from; i < to; i += 2) {
        const v_i8 a = vb_add(vb_load(w + 8 * i), vb_set(TINYI_PAIR_OFFSET)),
                   b = vb_add(vb_load(w + 8 * i + TINYI_BLK_PANEL), vb_set(TINYI_PAIR_OFFSET));
        TINYI_PAIR_BYTES_STEP(2 * i, 0);
        TINYI_PAIR_BYTES_STEP(2 * i, 1);
        TINYI_PAIR_BYTES_STEP(2 * i, 2);
        TINYI_PAIR_BYTES_STEP(2 * i, 3);
    }
}
#undef TINYI_PAIR_BYTES_STEP
#endif
/* 256 numbers of two rows of weights times four times `fours` rows of activations, whose codes are at x and floats at
 * d: y += s d sum + m (d sum of codes) for each group of 32, or of 16 where they are fine. bytes: a constant. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_pair_tile)(float *y, const unsigned char *code, const unsigned char *x,
                                                 const float *d, ptrdiff_t x_group, int fours, int traits, int bytes)
{
    const int fine = (traits & TINYI_BLK_FINE) != 0;
    const float *s = (const float *)(const void *)(code + 256), *sb = s + TINYI_BLK_PANEL / 4;
    int g, h, q;
    for (g = 0; g < 8; g++, x += x_group, d += x_group / 4)
        for (h = 0; h <= fine; h++) {
            v_i32 ta[4], tb[4];
            const int from = 2 * h, to = fine ? from + 2 : 4;
#if TINYI_W128_RELAXED
            if (bytes)
                TINY_FN(tinyi_pair_sums_of_bytes)
                (ta, tb, code + 32 * g, x + TINYI_PAIR_BYTES, x + TINYI_PAIR_SUMS + (fine ? 64 + 64 * h : 0), from, to,
                 fours);
            else
#endif
                TINY_FN(tinyi_pair_sums)(ta, tb, code + 32 * g, x, from, to, fours);
            (void)bytes;
            TINYI_BLK_EACH(q, fours) {
                float *at = y + 4 * q, *next = at + TINYI_PAIR_SIDE;
                const v_f32 e = v_load(d + 4 * q);
                v_f32 fa = v_fma(v_mul(v_set(s[2 * g + h]), e), v_from_i32(ta[q]), v_load(at)),
                      fb = v_fma(v_mul(v_set(sb[2 * g + h]), e), v_from_i32(tb[q]), v_load(next));
                if (traits & TINYI_BLK_MINIMA) {
                    const v_f32 sums = v_load(d + 4 * q + 16 * (fine ? 2 + h : 1));
                    fa = v_fma(v_set(s[16 + 2 * g + h]), sums, fa);
                    fb = v_fma(v_set(sb[16 + 2 * g + h]), sums, fb);
                }
                v_store(at, fa);
                v_store(next, fb);
            }
        }
}
/* two rows of weights times up to sixteen rows of activations: of fewer, eight and then four at a time */
TINYI_FORCE_INLINE void TINY_FN(tinyi_pair_rows)(float *y, const unsigned char *code, const unsigned char *x,
                                                 ptrdiff_t x_group, size_t n, int traits, int bytes)
{
    const float *d = (const float *)(const void *)(x + TINYI_PAIR_FLOATS);
    size_t at = 0;
    if (n > TINYI_PAIR_SIDE - 4) {
        TINY_FN(tinyi_pair_tile)(y, code, x, d, x_group, 4, traits, bytes);
        return;
    }
    if (n > 4) { TINY_FN(tinyi_pair_tile)(y, code, x, d, x_group, 2, traits, bytes); at = 8; }
    if (n > at) TINY_FN(tinyi_pair_tile)(y + at, code, x + 4 * at, d + at, x_group, 1, traits, bytes);
}
/* groups of sixteen rows of activations */
static void TINY_FN(tinyi_pair_panel)(float *y, const unsigned char *code, int traits, size_t rows,
                                      const unsigned char *x, ptrdiff_t x_group, size_t n)
{
    for (;; n -= TINYI_PAIR_SIDE, x += TINYI_PAIR_PART, y += TINYI_PAIR_SIDE * TINYI_BLK_LOW) {
        size_t r;
        for (r = 0; r < rows; r += 2) {
            float *to = y + TINYI_PAIR_SIDE * r;
            const unsigned char *w = code + r * TINYI_BLK_PANEL;
            if (TINYI_W128_RELAXED && traits / TINYI_BLK_FITS > 1)
                TINY_FN(tinyi_pair_rows)(to, w, x, x_group, n, traits, 1);
            else TINY_FN(tinyi_pair_rows)(to, w, x, x_group, n, traits, 0);
        }
        if (n <= TINYI_PAIR_SIDE) return;
    }
}

#undef TINYI_PAIR_STEP
#undef TINYI_PAIR_IN_ORDER
#undef TINYI_PAIR_FLOATS
#undef TINYI_PAIR_BYTES
#undef TINYI_PAIR_SUMS
#undef TINYI_PAIR_OFFSET
