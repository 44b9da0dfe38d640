/* src/llm/lab/bipolar/bipolar.simd.h - products of bit planes and codes of activations, compiled once per target
 *
 * A lane is a row of weights, 32 numbers of which are one plane's part of it, and x has the same 32 numbers in all
 * lanes: no sum over lanes is ever made. For each 32 numbers all pairs of a block of P planes of w and Q planes of x
 * meet, and pairs of equal weight 2^(i+j) share one of P + Q - 1 accumulators, which stay in registers. How the bits
 *   are counted:
 *   vpopcntd  AVX-512 with VPOPCNTDQ: exclusive or, count, add, in 32 bits
 *   cnt       NEON: the same in bytes, which are emptied before they reach 256
 *   pshufb    nibbles of w and of x are taken apart before they meet, x when it is packed, w once for all planes and
 *             rows of x: a pair is two exclusive ors, two look-ups in a table of 16 and two additions of bytes. Harley
 *             and Seal's adders (a full adder of five operations for each vector, and the exclusive or) would take as
 *             many.
 *   plain C   64 bits, two rows, by halving
 * A byte counts at most 8 of a pair, so min(P, Q) pairs of each accumulator for 31 / min(P, Q) steps of 32 numbers
 * fit. */

#if V_SCALAR
#define TINYI_BIP_V uint64_t
#define TINYI_BIP_NONE 0
#define TINYI_BIP_PARTS 1
#define TINYI_BIP_PASS "plain C"
#elif V_NEON
#define TINYI_BIP_V v_i8
#define TINYI_BIP_NONE vb_zero()
#define TINYI_BIP_PARTS 1
#define TINYI_BIP_PASS "cnt"
#else
#define TINYI_BIP_V v_i8
#define TINYI_BIP_NONE vb_zero()
#define TINYI_BIP_PARTS 2
#define TINYI_BIP_PASS "pshufb"
#endif
/* A sum stays where it is, and x is loaded again for each plane of w: gcc makes partial sums of all pairs else, and
 * loads all of x before, for which there are no registers. */
#if !(TINYI_GCC || TINYI_CLANG) || V_SCALAR || TINYI_W128_SIMDE
#define TINYI_BIP_HERE(v) ((void)0)
#elif V_NEON
#define TINYI_BIP_HERE(v) __asm__("" : "+w"(v))
#elif V_AVX512
#define TINYI_BIP_HERE(v) __asm__("" : "+v"(v))
#else
#define TINYI_BIP_HERE(v) __asm__("" : "+x"(v))
#endif
#if TINYI_GCC || TINYI_CLANG
#define TINYI_BIP_AGAIN(p) __asm__("" : "+r"(p))
#else
#define TINYI_BIP_AGAIN(p) ((void)0)
#endif
#define TINYI_BIP_VECTORS (64 / (int)sizeof(TINYI_BIP_V))      /* of a line: 16 rows */

/* 64 bytes of w are 16 rows: a vector of them, in its parts */
TINYI_FORCE_INLINE void TINY_FN(tinyi_bip_w)(TINYI_BIP_V a[TINYI_BIP_PARTS], const unsigned char *p)
{
#if V_SCALAR
    memcpy(a, p, 8);
#elif V_NEON
    a[0] = vb_load(p);
#else
    const v_i8 v = vb_load(p);
    a[0] = vb_and(v, vb_set(15));
    a[1] = vb_and(vi_shr(v, 4), vb_set(15));
#endif
}
/* 32 numbers of x, the same in each row */
TINYI_FORCE_INLINE TINYI_BIP_V TINY_FN(tinyi_bip_x)(const unsigned char *p)
{
#if V_SCALAR
    uint32_t v;
    memcpy(&v, p, 4);
    return v * UINT64_C(0x100000001);
#else
    return vb_set4(p);
#endif
}
/* acc and the bits in which a and b differ, byte by byte */
TINYI_FORCE_INLINE TINYI_BIP_V TINY_FN(tinyi_bip_count)(TINYI_BIP_V acc, const TINYI_BIP_V a[TINYI_BIP_PARTS],
                                                        const TINYI_BIP_V b[TINYI_BIP_PARTS])
{
#if V_SCALAR
    uint64_t w = a[0] ^ b[0];
    w -= w >> 1 & UINT64_C(0x5555555555555555);
    w = (w & UINT64_C(0x3333333333333333)) + (w >> 2 & UINT64_C(0x3333333333333333));
    return acc + ((w + (w >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f));
#elif V_NEON
    return vb_add(acc, vcntq_s8(vb_xor(a[0], b[0])));
#else
    static const unsigned char bits[16] = { 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4 };
    acc = vb_add(acc, vb_table16(bits, vb_xor(a[0], b[0])));
    return vb_add(acc, vb_table16(bits, vb_xor(a[1], b[1])));
#endif
}
/* the four bytes of each row together */
#if V_SCALAR
TINYI_FORCE_INLINE uint64_t TINY_FN(tinyi_bip_rows)(uint64_t v)
{
    v = (v & UINT64_C(0x00ff00ff00ff00ff)) + (v >> 8 & UINT64_C(0x00ff00ff00ff00ff));
    return (v & UINT64_C(0x0000ffff0000ffff)) + (v >> 16 & UINT64_C(0x0000ffff0000ffff));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_bip_sum)(int32_t *sum, uint64_t t, int shift)
{
    uint64_t s;
    memcpy(&s, sum, 8);
    s += t << shift;                        /* of a sum below 2^31 nothing goes to the other row */
    memcpy(sum, &s, 8);
}
#define TINYI_BIP_TWICE(t, v) (((t) << 1) + (v))
#else
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_bip_rows)(v_i8 v)
{
#if V_NEON
    return vreinterpretq_s32_u32(vpaddlq_u16(vpaddlq_u8(vreinterpretq_u8_s8(v))));
#elif V_AVX2 && !V_VNNI
    return _mm256_madd_epi16(_mm256_maddubs_epi16(v, vb_set(1)), _mm256_set1_epi16(1));
#elif V_W128 && !TINYI_W128_SIMDE
    return _mm_madd_epi16(_mm_maddubs_epi16(v, vb_set(1)), _mm_set1_epi16(1));
#else
    return v_dot_u8i8(vi_zero(), v, vb_set(1));
#endif
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_bip_sum)(int32_t *sum, v_i32 t, int shift)
{
    vi_store(sum, vi_add(vi_load(sum), vi_shl(t, shift)));
}
#define TINYI_BIP_TWICE(t, v) vi_add(vi_add(t, t), v)
#endif

/* sum[r][16] += 2^shift sum_ij 2^(i+j) popcount(w_i xor x_rj) for M rows of x; units of 32 numbers */
TINYI_FORCE_INLINE void TINY_FN(tinyi_bip_block)(int32_t *sum, const unsigned char *w, size_t w_unit,
                                                 const unsigned char *x, size_t x_unit, size_t x_row, size_t units,
                                                 int shift, const int P, const int Q, const int M)
{
    const size_t fits = (size_t)(31 / (P < Q ? P : Q));
    size_t n;
    int h, r, i, j;
    for (; units; units -= n, w += n * w_unit, x += n * x_unit) {
        n = units < fits ? units : fits;
        for (h = 0; h < TINYI_BIP_VECTORS; h++) {
            const unsigned char *wp = w + h * (int)sizeof(TINYI_BIP_V), *xp = x;
            TINYI_BIP_V acc[4][7];
            size_t u;
            TINYI_UNROLL
            for (r = 0; r < M; r++) {
                TINYI_UNROLL
                for (i = 0; i < P + Q - 1; i++) acc[r][i] = TINYI_BIP_NONE;
            }
            for (u = 0; u < n; u++, wp += w_unit, xp += x_unit) {
                TINYI_UNROLL
                for (i = 0; i < P; i++) {
                    TINYI_BIP_V a[TINYI_BIP_PARTS], b[TINYI_BIP_PARTS];
                    TINY_FN(tinyi_bip_w)(a, wp + 64 * i);
                    TINYI_BIP_AGAIN(xp);
                    TINYI_UNROLL
                    for (r = 0; r < M; r++) {
                        TINYI_UNROLL
                        for (j = 0; j < Q; j++) {
                            const unsigned char *at = xp + (size_t)r * x_row + 4 * TINYI_BIP_PARTS * j;
                            b[0] = TINY_FN(tinyi_bip_x)(at);
                            if (TINYI_BIP_PARTS > 1)
                                b[TINYI_BIP_PARTS - 1] = TINY_FN(tinyi_bip_x)(at + 4 * (TINYI_BIP_PARTS - 1));
                            acc[r][i + j] = TINY_FN(tinyi_bip_count)(acc[r][i + j], a, b);
                            TINYI_BIP_HERE(acc[r][i + j]);
                        }
                    }
                }
            }
            TINYI_UNROLL
            for (r = 0; r < M; r++) {       /* Horner: the heaviest first */
#if V_SCALAR
                uint64_t t = TINY_FN(tinyi_bip_rows)(acc[r][P + Q - 2]);
#else
                v_i32 t = TINY_FN(tinyi_bip_rows)(acc[r][P + Q - 2]);
#endif
                TINYI_UNROLL
                for (i = P + Q - 3; i >= 0; i--) t = TINYI_BIP_TWICE(t, TINY_FN(tinyi_bip_rows)(acc[r][i]));
                TINY_FN(tinyi_bip_sum)(sum + 16 * r + h * (16 / TINYI_BIP_VECTORS), t, shift);
            }
        }
    }
}

#if V_AVX512
#define TINYI_BIP_NATIVE TINYI_ATTR(TINYI_LIST_AVX512 ",avx512vpopcntdq")
/* the same where bits of 32 are counted by one instruction: nothing to empty, Horner at the end */
TINYI_FORCE_INLINE TINYI_BIP_NATIVE void TINY_FN(tinyi_bip_native)(int32_t *sum, const unsigned char *w, size_t w_unit,
                                                                   const unsigned char *x, size_t x_unit, size_t x_row,
                                                                   size_t units, int shift, const int P, const int Q,
                                                                   const int M)
{
    __m512i acc[4][7];
    int r, i, j;
    TINYI_UNROLL
    for (r = 0; r < M; r++) {
        TINYI_UNROLL
        for (i = 0; i < P + Q - 1; i++) acc[r][i] = _mm512_setzero_si512();
    }
    for (; units; units--, w += w_unit, x += x_unit) {
        TINYI_UNROLL
        for (i = 0; i < P; i++) {
            const __m512i a = _mm512_loadu_si512(w + 64 * i);
            TINYI_UNROLL
            for (r = 0; r < M; r++) {
                TINYI_UNROLL
                for (j = 0; j < Q; j++) {
                    int32_t b;
                    memcpy(&b, x + (size_t)r * x_row + 4 * j, 4);
                    acc[r][i + j] =
                        _mm512_add_epi32(acc[r][i + j], _mm512_popcnt_epi32(_mm512_xor_si512(a, _mm512_set1_epi32(b))));
                }
            }
        }
    }
    TINYI_UNROLL
    for (r = 0; r < M; r++) {
        __m512i t = acc[r][P + Q - 2];
        TINYI_UNROLL
        for (i = P + Q - 3; i >= 0; i--) t = _mm512_add_epi32(_mm512_add_epi32(t, t), acc[r][i]);
        t = _mm512_sll_epi32(t, _mm_cvtsi32_si128(shift));
        _mm512_storeu_si512(sum + 16 * r, _mm512_add_epi32(_mm512_loadu_si512(sum + 16 * r), t));
    }
}
#endif

/* a tile of one row of x, and one of as many as pay (TINYI_BIP_SHAPES); 16 shapes of a block */
#if V_SCALAR || V_W128 || V_AVX512 /* avx512 without VPOPCNTDQ is one generation of servers: not worth the code */
#define TINYI_BIP_TILES(S) TINYI_BIP_ALONE(S)
#else
#define TINYI_BIP_TILES(S) TINYI_BIP_SHAPES(S)
#endif
#define TINYI_BIP_PARAMS                                                                                        \
    (int32_t * sum, const unsigned char *w, size_t w_unit, const unsigned char *x, size_t x_unit, size_t x_row, \
     size_t units, int shift)
#define TINYI_BIP_KERNEL(P, Q, M)                                                          \
    static void TINY_FN(tinyi_bip_one_##P##Q) TINYI_BIP_PARAMS                             \
    {                                                                                      \
        TINY_FN(tinyi_bip_block)(sum, w, w_unit, x, x_unit, x_row, units, shift, P, Q, 1); \
    }                                                                                      \
    static void TINY_FN(tinyi_bip_few_##P##Q) TINYI_BIP_PARAMS                             \
    {                                                                                      \
        TINY_FN(tinyi_bip_block)(sum, w, w_unit, x, x_unit, x_row, units, shift, P, Q, M); \
    }
TINYI_BIP_TILES(TINYI_BIP_KERNEL)
#undef TINYI_BIP_KERNEL
#if V_AVX512
#define TINYI_BIP_KERNEL(P, Q, M)                                                           \
    static TINYI_BIP_NATIVE void TINY_FN(tinyi_bip_one_native_##P##Q) TINYI_BIP_PARAMS      \
    {                                                                                       \
        TINY_FN(tinyi_bip_native)(sum, w, w_unit, x, x_unit, x_row, units, shift, P, Q, 1); \
    }                                                                                       \
    static TINYI_BIP_NATIVE void TINY_FN(tinyi_bip_few_native_##P##Q) TINYI_BIP_PARAMS      \
    {                                                                                       \
        TINY_FN(tinyi_bip_native)(sum, w, w_unit, x, x_unit, x_row, units, shift, P, Q, M); \
    }
TINYI_BIP_SHAPES(TINYI_BIP_KERNEL)
#undef TINYI_BIP_KERNEL
#endif

/* the largest |x|; NaN where x has a NaN or an infinity */
static float TINY_FN(tinyi_bip_largest)(const float *x, size_t n)
{
    v_f32 most = v_zero(), odd = v_zero();
    size_t i;
    for (i = 0; i < n; i += V_LANES) {
        const size_t m = n - i < V_LANES ? n - i : V_LANES;
        const v_f32 v = v_abs(m < V_LANES ? v_load_n(x + i, m) : v_load(x + i));
        most = v_max(v, most);
        odd = v_add(odd, v_sub(v, v));      /* 0, or NaN */
    }
    return v_hmax(most) + v_sum(odd);
}

/* codes of n numbers, s above 0; the operations of tinyi_bip_code_of */
static void TINY_FN(tinyi_bip_codes)(uint8_t *code, const float *x, size_t n, float s, float top)
{
    const v_f32 all = v_set(s), t = v_set(top), half = v_set(0.5f);
    int32_t c[16];
    size_t i, j;
    for (i = 0; i < n; i += 16) {
        const size_t m = n - i < 16 ? n - i : 16;
        for (j = 0; j < m; j += V_LANES) {
            const size_t l = m - j < V_LANES ? m - j : V_LANES;
            const v_f32 z = v_mul(v_add(v_div(l < V_LANES ? v_load_n(x + i + j, l) : v_load(x + i + j), all), t), half);
            vi_store(c + j, v_to_i32(v_round(v_min(v_max(z, v_zero()), t))));
        }
        if (m == 16)
            for (j = 0; j < 16; j++) code[i + j] = (uint8_t)c[j];
        else
            for (j = 0; j < m; j++) code[i + j] = (uint8_t)c[j];
    }
}

/* Codes of a row of x to planes, 32 numbers at a time; two parts: as nibbles. x86 has the bits of a plane as the signs
 * of bytes, others turn eight codes round at a time. */
static void TINY_FN(tinyi_bip_lay_row)(unsigned char *to, const uint8_t *code, size_t units, int bits, int parts)
{
    for (; units; units--, code += 32, to += 4 * parts * bits) {
#if V_AVX2 || V_AVX512 || (V_W128 && !TINYI_W128_SIMDE)
        int j;
        for (j = 0; j < bits; j++) {
            unsigned char *at = to + 4 * parts * j;
            const __m128i up = _mm_cvtsi32_si128(7 - j);
            uint32_t m, low;
#if V_W128
            m = (uint32_t)_mm_movemask_epi8(_mm_sll_epi16(vb_load(code), up)) |
                (uint32_t)_mm_movemask_epi8(_mm_sll_epi16(vb_load(code + 16), up)) << 16;
#else
            m = (uint32_t)_mm256_movemask_epi8(
                _mm256_sll_epi16(_mm256_loadu_si256((const __m256i *)(const void *)code), up));
#endif
            low = parts > 1 ? m & 0x0f0f0f0fu : m;
            memcpy(at, &low, 4);
            m = m >> 4 & 0x0f0f0f0fu;
            if (parts > 1) memcpy(at + 4, &m, 4);
        }
#else
        tinyi_bip_lay(to, 4 * (size_t)parts, code, bits, parts > 1);
#endif
    }
}

/* v[r] = (c - 2 sum[r] - less[r]) >> halves for 16 rows */
static void TINY_FN(tinyi_bip_values)(int32_t *v, const int32_t *sum, int32_t c, const int32_t *less, int halves)
{
    int i;
    for (i = 0; i < 16; i += V_LANES) {
        v_i32 t = vi_load(sum + i);
        t = vi_sub(vi_set(c), vi_add(t, t));
        if (less) t = vi_sub(t, vi_load(less + i));
        vi_store(v + i, vi_sra(t, halves));
    }
}
/* y[r] = v[r] scale[r] factor, or y[r] += that; by the smaller of both first: beyond f32, or below it, only where the
 * product is */
static void TINY_FN(tinyi_bip_floats)(float *y, const int32_t *v, const float *scale, float factor, int add)
{
    int i;
    for (i = 0; i < 16; i += V_LANES) {
        v_f32 f = v_from_i32(vi_load(v + i));
        if (scale) {
            const v_f32 s = v_load(scale + i), o = v_set(factor);
            const v_mask less = v_lt(v_abs(s), v_abs(o));
            f = v_mul(v_mul(f, v_select(less, s, o)), v_select(less, o, s));
        } else f = v_mul(f, v_set(factor));
        v_store(y + i, add ? v_add(v_load(y + i), f) : f);
    }
}

#define TINYI_BIP_ROWS(P, Q, M) M,
#define TINYI_BIP_ONE(P, Q, M) TINY_FN(tinyi_bip_one_##P##Q),
#define TINYI_BIP_FEW(P, Q, M) TINY_FN(tinyi_bip_few_##P##Q),
static const tinyi_bip_kernels TINY_FN(tinyi_bip_table) = { TINYI_PASS_TARGET,
                                                            TINYI_BIP_PARTS,
                                                            TINYI_BIP_PASS,
                                                            { TINYI_BIP_TILES(TINYI_BIP_ROWS) },
                                                            { TINYI_BIP_TILES(TINYI_BIP_ONE) },
                                                            { TINYI_BIP_TILES(TINYI_BIP_FEW) },
                                                            TINY_FN(tinyi_bip_largest),
                                                            TINY_FN(tinyi_bip_codes),
                                                            TINY_FN(tinyi_bip_lay_row),
                                                            TINY_FN(tinyi_bip_values),
                                                            TINY_FN(tinyi_bip_floats) };
#undef TINYI_BIP_ONE
#undef TINYI_BIP_FEW
#if V_AVX512
#define TINYI_BIP_ONE(P, Q, M) TINY_FN(tinyi_bip_one_native_##P##Q),
#define TINYI_BIP_FEW(P, Q, M) TINY_FN(tinyi_bip_few_native_##P##Q),
static const tinyi_bip_kernels TINY_FN(tinyi_bip_table_native) = { TINYI_PASS_TARGET,
                                                                   1,
                                                                   "vpopcntd",
                                                                   { TINYI_BIP_SHAPES(TINYI_BIP_ROWS) },
                                                                   { TINYI_BIP_SHAPES(TINYI_BIP_ONE) },
                                                                   { TINYI_BIP_SHAPES(TINYI_BIP_FEW) },
                                                                   TINY_FN(tinyi_bip_largest),
                                                                   TINY_FN(tinyi_bip_codes),
                                                                   TINY_FN(tinyi_bip_lay_row),
                                                                   TINY_FN(tinyi_bip_values),
                                                                   TINY_FN(tinyi_bip_floats) };
#undef TINYI_BIP_ONE
#undef TINYI_BIP_FEW
#undef TINYI_BIP_NATIVE
TINYI_TABLE(tinyi_bip_kernels, tinyi_bip_kernels,
            *(cpu &TINY_CPU_AVX512POPCNT ? &TINY_FN(tinyi_bip_table_native) : &TINY_FN(tinyi_bip_table)))
#else
TINYI_TABLE(tinyi_bip_kernels, tinyi_bip_kernels, TINY_FN(tinyi_bip_table))
#endif
#undef TINYI_BIP_ROWS
#undef TINYI_BIP_PARAMS
#undef TINYI_BIP_TILES
#undef TINYI_BIP_TWICE
#undef TINYI_BIP_V
#undef TINYI_BIP_NONE
#undef TINYI_BIP_PARTS
#undef TINYI_BIP_PASS
#undef TINYI_BIP_VECTORS
#undef TINYI_BIP_HERE
#undef TINYI_BIP_AGAIN
