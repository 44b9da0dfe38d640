/* src/math/layout.simd.h - rows copied, blocks turned in registers, rows added by index */

/* ---- rows */

TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_row)(unsigned char *y, const unsigned char *x, size_t bytes)
{
#if V_SCALAR
    memcpy(y, x, bytes);
#else
    size_t i = 0;
    /* lengths between two powers are covered by two copies that overlap */
    if (bytes > 2048) memcpy(y, x, bytes);
    else if (bytes >= 4 * V_LANES) {
        for (; i + 16 * V_LANES <= bytes; i += 16 * V_LANES) {
            const v_i8 a = vb_load(x + i), b = vb_load(x + i + 4 * V_LANES), c = vb_load(x + i + 8 * V_LANES),
                       d = vb_load(x + i + 12 * V_LANES);
            vb_store(y + i, a);
            vb_store(y + i + 4 * V_LANES, b);
            vb_store(y + i + 8 * V_LANES, c);
            vb_store(y + i + 12 * V_LANES, d);
        }
        for (; i + 4 * V_LANES <= bytes; i += 4 * V_LANES) vb_store(y + i, vb_load(x + i));
        if (i < bytes) vb_store(y + bytes - 4 * V_LANES, vb_load(x + bytes - 4 * V_LANES));
    } else if (bytes >= 8) {
        for (; i + 8 <= bytes; i += 8) memcpy(y + i, x + i, 8);
        if (i < bytes) memcpy(y + bytes - 8, x + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(y, x, 4);
        if (bytes > 4) memcpy(y + bytes - 4, x + bytes - 4, 4);
    } else
        for (; i < bytes; i++) y[i] = x[i];
#endif
}

static void TINY_FN(tinyi_copy_rows)(unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, size_t n,
                                     size_t bytes)
{
    size_t i;
    for (i = 0; i < n; i++, y += ys, x += xs) TINY_FN(tinyi_layout_row)(y, x, bytes);
}

/* one loop for each width of the index; ahead rows are on their way */
#define TINYI_LAYOUT_GATHER(ROW)                                                            \
    for (i = 0; i < n; i++, y += ys) {                                                      \
        const unsigned char *row = x + (ptrdiff_t)index[(ptrdiff_t)i * index_step] * xs;    \
        if (i + ahead < n) {                                                                \
            const unsigned char *next = x + (ptrdiff_t)index[(ptrdiff_t)(i + ahead) * index_step] * xs; \
            TINYI_PREFETCH(next);                                                           \
            if (bytes > 64) TINYI_PREFETCH(next + 64);                                      \
        }                                                                                   \
        ROW;                                                                                \
    }

TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_gather32)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                       ptrdiff_t xs, const int32_t *index, ptrdiff_t index_step,
                                                       size_t n, size_t bytes)
{
    const size_t ahead = 8;
    size_t i;
    if (bytes == 4) TINYI_LAYOUT_GATHER(memcpy(y, row, 4))
    else TINYI_LAYOUT_GATHER(TINY_FN(tinyi_layout_row)(y, row, bytes))
}

TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_gather64)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                       ptrdiff_t xs, const int64_t *index, ptrdiff_t index_step,
                                                       size_t n, size_t bytes)
{
    const size_t ahead = 8;
    size_t i;
    if (bytes == 4) TINYI_LAYOUT_GATHER(memcpy(y, row, 4))
    else TINYI_LAYOUT_GATHER(TINY_FN(tinyi_layout_row)(y, row, bytes))
}
#undef TINYI_LAYOUT_GATHER

static void TINY_FN(tinyi_gather_rows)(unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs,
                                       const void *index, ptrdiff_t index_step, int wide, size_t n, size_t bytes)
{
    if (wide) TINY_FN(tinyi_layout_gather64)(y, ys, x, xs, (const int64_t *)index, index_step, n, bytes);
    else TINY_FN(tinyi_layout_gather32)(y, ys, x, xs, (const int32_t *)index, index_step, n, bytes);
}

static void TINY_FN(tinyi_scatter_rows_f32)(float *y, ptrdiff_t ys, const float *x, ptrdiff_t xs, const void *index,
                                            ptrdiff_t index_step, int wide, size_t n, size_t cols, int64_t low,
                                            int64_t high)
{
    const size_t ahead = 6;
    size_t i, c;
    if (cols == 1) {
        for (i = 0; i < n; i++, x += xs) {
            const int64_t ix = wide ? ((const int64_t *)index)[(ptrdiff_t)i * index_step]
                                    : (int64_t)((const int32_t *)index)[(ptrdiff_t)i * index_step];
            if (ix >= low && ix < high) y[(ptrdiff_t)ix * ys] += *x;
        }
        return;
    }
    for (i = 0; i < n; i++, x += xs) {
        const int64_t ix = wide ? ((const int64_t *)index)[(ptrdiff_t)i * index_step]
                                : (int64_t)((const int32_t *)index)[(ptrdiff_t)i * index_step];
        float *row;
        if (ix < low || ix >= high) continue;
        row = y + (ptrdiff_t)ix * ys;
        if (i + ahead < n) {
            const int64_t next = wide ? ((const int64_t *)index)[(ptrdiff_t)(i + ahead) * index_step]
                                      : (int64_t)((const int32_t *)index)[(ptrdiff_t)(i + ahead) * index_step];
            if (next >= low && next < high) TINYI_PREFETCH(y + (ptrdiff_t)next * ys);
        }
        for (c = 0; c + 4 * V_LANES <= cols; c += 4 * V_LANES) {
            const v_f32 a0 = v_add(v_load(row + c), v_load(x + c)),
                        a1 = v_add(v_load(row + c + V_LANES), v_load(x + c + V_LANES));
            const v_f32 a2 = v_add(v_load(row + c + 2 * V_LANES), v_load(x + c + 2 * V_LANES)),
                        a3 = v_add(v_load(row + c + 3 * V_LANES), v_load(x + c + 3 * V_LANES));
            v_store(row + c, a0);
            v_store(row + c + V_LANES, a1);
            v_store(row + c + 2 * V_LANES, a2);
            v_store(row + c + 3 * V_LANES, a3);
        }
        for (; c + V_LANES <= cols; c += V_LANES) v_store(row + c, v_add(v_load(row + c), v_load(x + c)));
        for (; c < cols; c++) row[c] += x[c];
    }
}

/* ---- blocks turned in registers
 * N rows of N elements: zip(i, i + N/2) for all i, log2(N) times. After round r the rows hold the elements with r bits
 * of their row and column numbers exchanged. */

#if V_NEON
#define TINYI_T_REG uint8x16_t
#define TINYI_T_LOAD(p) vld1q_u8(p)
#define TINYI_T_STORE(p, v) vst1q_u8(p, v)
#define TINYI_T_LOW_1(a, b) vzip1q_u8(a, b)
#define TINYI_T_HIGH_1(a, b) vzip2q_u8(a, b)
#define TINYI_T_LOW_2(a, b) vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)))
#define TINYI_T_HIGH_2(a, b) vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)))
#define TINYI_T_LOW_4(a, b) vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)))
#define TINYI_T_HIGH_4(a, b) vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)))
#define TINYI_T_LOW_8(a, b) vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)))
#define TINYI_T_HIGH_8(a, b) vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)))
#elif V_W128 && TINYI_W128_SIMDE
#define TINYI_T_REG simde__m128i
#define TINYI_T_LOAD(p) simde_mm_loadu_si128((const simde__m128i *)(const void *)(p))
#define TINYI_T_STORE(p, v) simde_mm_storeu_si128((simde__m128i *)(void *)(p), v)
#define TINYI_T_LOW_1(a, b) simde_mm_unpacklo_epi8(a, b)
#define TINYI_T_HIGH_1(a, b) simde_mm_unpackhi_epi8(a, b)
#define TINYI_T_LOW_2(a, b) simde_mm_unpacklo_epi16(a, b)
#define TINYI_T_HIGH_2(a, b) simde_mm_unpackhi_epi16(a, b)
#define TINYI_T_LOW_4(a, b) simde_mm_unpacklo_epi32(a, b)
#define TINYI_T_HIGH_4(a, b) simde_mm_unpackhi_epi32(a, b)
#define TINYI_T_LOW_8(a, b) simde_mm_unpacklo_epi64(a, b)
#define TINYI_T_HIGH_8(a, b) simde_mm_unpackhi_epi64(a, b)
#elif !V_SCALAR
#define TINYI_T_REG __m128i
#define TINYI_T_LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define TINYI_T_STORE(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
#define TINYI_T_LOW_1(a, b) _mm_unpacklo_epi8(a, b)
#define TINYI_T_HIGH_1(a, b) _mm_unpackhi_epi8(a, b)
#define TINYI_T_LOW_2(a, b) _mm_unpacklo_epi16(a, b)
#define TINYI_T_HIGH_2(a, b) _mm_unpackhi_epi16(a, b)
#define TINYI_T_LOW_4(a, b) _mm_unpacklo_epi32(a, b)
#define TINYI_T_HIGH_4(a, b) _mm_unpackhi_epi32(a, b)
#define TINYI_T_LOW_8(a, b) _mm_unpacklo_epi64(a, b)
#define TINYI_T_HIGH_8(a, b) _mm_unpackhi_epi64(a, b)
#endif

/* d and s are letters: registers d0.. from s0.. */
#define TINYI_T_ZIP2(d, s, E) d##0 = TINYI_T_LOW_##E(s##0, s##1); d##1 = TINYI_T_HIGH_##E(s##0, s##1)
#define TINYI_T_ZIP4(d, s, E)            \
    d##0 = TINYI_T_LOW_##E(s##0, s##2);  \
    d##1 = TINYI_T_HIGH_##E(s##0, s##2); \
    d##2 = TINYI_T_LOW_##E(s##1, s##3);  \
    d##3 = TINYI_T_HIGH_##E(s##1, s##3)
#define TINYI_T_ZIP8(d, s, E)                                                     \
    d##0 = TINYI_T_LOW_##E(s##0, s##4); d##1 = TINYI_T_HIGH_##E(s##0, s##4);            \
    d##2 = TINYI_T_LOW_##E(s##1, s##5); d##3 = TINYI_T_HIGH_##E(s##1, s##5);            \
    d##4 = TINYI_T_LOW_##E(s##2, s##6); d##5 = TINYI_T_HIGH_##E(s##2, s##6);            \
    d##6 = TINYI_T_LOW_##E(s##3, s##7); d##7 = TINYI_T_HIGH_##E(s##3, s##7)
#define TINYI_T_ZIP16(d, s, E)                                                    \
    d##0 = TINYI_T_LOW_##E(s##0, s##8); d##1 = TINYI_T_HIGH_##E(s##0, s##8);            \
    d##2 = TINYI_T_LOW_##E(s##1, s##9); d##3 = TINYI_T_HIGH_##E(s##1, s##9);            \
    d##4 = TINYI_T_LOW_##E(s##2, s##10); d##5 = TINYI_T_HIGH_##E(s##2, s##10);          \
    d##6 = TINYI_T_LOW_##E(s##3, s##11); d##7 = TINYI_T_HIGH_##E(s##3, s##11);          \
    d##8 = TINYI_T_LOW_##E(s##4, s##12); d##9 = TINYI_T_HIGH_##E(s##4, s##12);          \
    d##10 = TINYI_T_LOW_##E(s##5, s##13); d##11 = TINYI_T_HIGH_##E(s##5, s##13);        \
    d##12 = TINYI_T_LOW_##E(s##6, s##14); d##13 = TINYI_T_HIGH_##E(s##6, s##14);        \
    d##14 = TINYI_T_LOW_##E(s##7, s##15); d##15 = TINYI_T_HIGH_##E(s##7, s##15)
#define TINYI_T_EACH4(F, r) F(r, 0); F(r, 1); F(r, 2); F(r, 3)
#define TINYI_T_EACH8(F, r) TINYI_T_EACH4(F, r); F(r, 4); F(r, 5); F(r, 6); F(r, 7)
#define TINYI_T_EACH16(F, r) \
    TINYI_T_EACH8(F, r);     \
    F(r, 8);                 \
    F(r, 9);                 \
    F(r, 10);                \
    F(r, 11);                \
    F(r, 12);                \
    F(r, 13);                \
    F(r, 14);                \
    F(r, 15)
#define TINYI_T_READ(r, i) r##i = TINYI_T_LOAD(x + i * xs)
#define TINYI_T_WRITE(r, i) TINYI_T_STORE(y + i * ys, r##i)
#define TINYI_T_REGS8(R, r) R r##0, r##1, r##2, r##3, r##4, r##5, r##6, r##7
#define TINYI_T_REGS16(R, r) TINYI_T_REGS8(R, r), r##8, r##9, r##10, r##11, r##12, r##13, r##14, r##15

#if V_SCALAR
#define TINYI_TURN_B1 1
#define TINYI_TURN_B2 1
#define TINYI_TURN_B4 1
#define TINYI_TURN_B8 1
#else
#define TINYI_TURN_B1 16
#define TINYI_TURN_B2 8
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_b1)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    TINYI_T_REGS16(TINYI_T_REG, a);
    TINYI_T_REGS16(TINYI_T_REG, b);
    TINYI_T_EACH16(TINYI_T_READ, a);
    TINYI_T_ZIP16(b, a, 1);
    TINYI_T_ZIP16(a, b, 1);
    TINYI_T_ZIP16(b, a, 1);
    TINYI_T_ZIP16(a, b, 1);
    TINYI_T_EACH16(TINYI_T_WRITE, a);
}

TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_b2)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    TINYI_T_REGS8(TINYI_T_REG, a);
    TINYI_T_REGS8(TINYI_T_REG, b);
    TINYI_T_EACH8(TINYI_T_READ, a);
    TINYI_T_ZIP8(b, a, 2);
    TINYI_T_ZIP8(a, b, 2);
    TINYI_T_ZIP8(b, a, 2);
    TINYI_T_EACH8(TINYI_T_WRITE, b);
}
#endif

#if V_AVX512
/* whole cache lines on both sides */
#define TINYI_TURN_B4 16
#undef TINYI_T_LOAD
#undef TINYI_T_STORE
#undef TINYI_T_LOW_4
#undef TINYI_T_HIGH_4
#undef TINYI_T_LOW_8
#undef TINYI_T_HIGH_8
#define TINYI_T_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define TINYI_T_LOW_4(a, b) _mm512_permutex2var_epi32(a, low, b)
#define TINYI_T_HIGH_4(a, b) _mm512_permutex2var_epi32(a, high, b)
#define TINYI_T_LOW_8(a, b) _mm512_permutex2var_epi64(a, low, b)
#define TINYI_T_HIGH_8(a, b) _mm512_permutex2var_epi64(a, high, b)
#define TINYI_T_TURN_B4                                                                                               \
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);                    \
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);             \
    TINYI_T_REGS16(__m512i, a);                                                                                       \
    TINYI_T_REGS16(__m512i, b);                                                                                       \
    TINYI_T_EACH16(TINYI_T_READ, a);                                                                                  \
    TINYI_T_ZIP16(b, a, 4);                                                                                           \
    TINYI_T_ZIP16(a, b, 4);                                                                                           \
    TINYI_T_ZIP16(b, a, 4);                                                                                           \
    TINYI_T_ZIP16(a, b, 4);                                                                                           \
    TINYI_T_EACH16(TINYI_T_WRITE, a)
#define TINYI_T_STORE(p, v) _mm512_stream_si512((__m512i *)(void *)(p), v)
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_past_b4)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    TINYI_T_TURN_B4;
}
#undef TINYI_T_STORE
#define TINYI_T_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_b4)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    TINYI_T_TURN_B4;
}
#define TINYI_TURN_B8 8
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_b8)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11),
                  high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    TINYI_T_REGS8(__m512i, a);
    TINYI_T_REGS8(__m512i, b);
    TINYI_T_EACH8(TINYI_T_READ, a);
    TINYI_T_ZIP8(b, a, 8);
    TINYI_T_ZIP8(a, b, 8);
    TINYI_T_ZIP8(b, a, 8);
    TINYI_T_EACH8(TINYI_T_WRITE, b);
}
#elif V_AVX2
/* zips stay inside halves of 128 bits: pairs, then fours, then the halves change places */
#define TINYI_TURN_B4 8
#undef TINYI_T_LOAD
#undef TINYI_T_STORE
#define TINYI_T_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define TINYI_T_TURN_B4                                                                                               \
    TINYI_T_REGS8(__m256i, a);                                                                                        \
    TINYI_T_REGS8(__m256i, b);                                                                                        \
    TINYI_T_EACH8(TINYI_T_READ, a);                                                                                   \
    b0 = _mm256_unpacklo_epi32(a0, a1); b1 = _mm256_unpackhi_epi32(a0, a1);                                           \
    b2 = _mm256_unpacklo_epi32(a2, a3); b3 = _mm256_unpackhi_epi32(a2, a3);                                           \
    b4 = _mm256_unpacklo_epi32(a4, a5); b5 = _mm256_unpackhi_epi32(a4, a5);                                           \
    b6 = _mm256_unpacklo_epi32(a6, a7); b7 = _mm256_unpackhi_epi32(a6, a7);                                           \
    a0 = _mm256_unpacklo_epi64(b0, b2); a1 = _mm256_unpackhi_epi64(b0, b2);                                           \
    a2 = _mm256_unpacklo_epi64(b1, b3); a3 = _mm256_unpackhi_epi64(b1, b3);                                           \
    a4 = _mm256_unpacklo_epi64(b4, b6); a5 = _mm256_unpackhi_epi64(b4, b6);                                           \
    a6 = _mm256_unpacklo_epi64(b5, b7); a7 = _mm256_unpackhi_epi64(b5, b7);                                           \
    b0 = _mm256_permute2x128_si256(a0, a4, 0x20); b4 = _mm256_permute2x128_si256(a0, a4, 0x31);                       \
    b1 = _mm256_permute2x128_si256(a1, a5, 0x20); b5 = _mm256_permute2x128_si256(a1, a5, 0x31);                       \
    b2 = _mm256_permute2x128_si256(a2, a6, 0x20); b6 = _mm256_permute2x128_si256(a2, a6, 0x31);                       \
    b3 = _mm256_permute2x128_si256(a3, a7, 0x20); b7 = _mm256_permute2x128_si256(a3, a7, 0x31);                       \
    TINYI_T_EACH8(TINYI_T_WRITE, b)
#define TINYI_T_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_b4)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    TINYI_T_TURN_B4;
}
/* Both halves of a line, one after the other: a processor gathers few lines at a time, and another program that
 * shares its core takes some of them. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_past_b4)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    __m256i half[2][8];
    int i;
    TINY_FN(tinyi_layout_turn_b4)((unsigned char *)half[0], 32, x, xs);
    TINY_FN(tinyi_layout_turn_b4)((unsigned char *)half[1], 32, x + 8 * xs, xs);
    for (i = 0; i < 8; i++) {
        _mm256_stream_si256((__m256i *)(void *)(y + i * ys), half[0][i]);
        _mm256_stream_si256((__m256i *)(void *)(y + i * ys + 32), half[1][i]);
    }
}
#define TINYI_TURN_B8 4
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_b8)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    __m256i a0, a1, a2, a3, b0, b1, b2, b3;
    TINYI_T_EACH4(TINYI_T_READ, a);
    b0 = _mm256_unpacklo_epi64(a0, a1); b1 = _mm256_unpackhi_epi64(a0, a1);
    b2 = _mm256_unpacklo_epi64(a2, a3); b3 = _mm256_unpackhi_epi64(a2, a3);
    a0 = _mm256_permute2x128_si256(b0, b2, 0x20); a2 = _mm256_permute2x128_si256(b0, b2, 0x31);
    a1 = _mm256_permute2x128_si256(b1, b3, 0x20); a3 = _mm256_permute2x128_si256(b1, b3, 0x31);
    TINYI_T_EACH4(TINYI_T_WRITE, a);
}
#elif !V_SCALAR
#define TINYI_TURN_B4 4
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_b4)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    TINYI_T_REG a0, a1, a2, a3, b0, b1, b2, b3;
    TINYI_T_EACH4(TINYI_T_READ, a);
    TINYI_T_ZIP4(b, a, 4);
    TINYI_T_ZIP4(a, b, 4);
    TINYI_T_EACH4(TINYI_T_WRITE, a);
}
#define TINYI_TURN_B8 2
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_b8)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                      ptrdiff_t xs)
{
    TINYI_T_REG a0, a1, b0, b1;
    TINYI_T_READ(a, 0);
    TINYI_T_READ(a, 1);
    TINYI_T_ZIP2(b, a, 8);
    TINYI_T_WRITE(b, 0);
    TINYI_T_WRITE(b, 1);
}
#endif

#if V_SCALAR
#define TINYI_LAYOUT_BLOCK(E) (void)0
#else
#define TINYI_LAYOUT_BLOCK(E)       \
    TINY_FN(tinyi_layout_turn_b##E) \
    (y + (ptrdiff_t)a * ys + (ptrdiff_t)b * E, ys, x + (ptrdiff_t)b * xs + (ptrdiff_t)a * E, xs)
#endif
/* whole blocks, then what is left of the columns, then of the rows */
#define TINYI_LAYOUT_TRANSPOSE(E)                                                                                   \
    static void TINY_FN(tinyi_transpose_b##E)(unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, \
                                              size_t na, size_t nb)                                                 \
    {                                                                                                               \
        const size_t ma = TINYI_TURN_B##E > 1 ? na / TINYI_TURN_B##E * TINYI_TURN_B##E : 0,                         \
                     mb = TINYI_TURN_B##E > 1 ? nb / TINYI_TURN_B##E * TINYI_TURN_B##E : 0;                         \
        size_t a, b;                                                                                                \
        for (a = 0; a < ma; a += TINYI_TURN_B##E)                                                                   \
            for (b = 0; b < mb; b += TINYI_TURN_B##E) TINYI_LAYOUT_BLOCK(E);                                        \
        for (a = 0; a < na; a++)                                                                                    \
            for (b = a < ma ? mb : 0; b < nb; b++)                                                                  \
                memcpy(y + (ptrdiff_t)a * ys + (ptrdiff_t)b * E, x + (ptrdiff_t)b * xs + (ptrdiff_t)a * E, E);      \
    }
TINYI_LAYOUT_TRANSPOSE(1)
TINYI_LAYOUT_TRANSPOSE(2)
TINYI_LAYOUT_TRANSPOSE(8)
#if V_AVX512 || V_AVX2
/* Four rows or columns: zips stay inside lanes of 128 bits, each of which is four numbers of a row or column. */
#if V_AVX512
#define TINYI_T_Z __m512i
#define TINYI_T_WIDE(f) _mm512_##f
#define TINYI_T_EACH_LANE(F) F(0) F(1) F(2) F(3)
#define TINYI_T_LANE(v, l) _mm512_extracti32x4_epi32(v, l)
#define TINYI_T_JOIN(v, l, p) _mm512_inserti32x4(v, TINYI_T_FOUR(p), l)
#define TINYI_T_FIRST(p) _mm512_castsi128_si512(TINYI_T_FOUR(p))
#define TINYI_T_WHOLE(p) _mm512_loadu_si512((const void *)(p))
#else
#define TINYI_T_Z __m256i
#define TINYI_T_WIDE(f) _mm256_##f
#define TINYI_T_EACH_LANE(F) F(0) F(1)
#define TINYI_T_LANE(v, l) _mm256_extracti128_si256(v, l)
#define TINYI_T_JOIN(v, l, p) _mm256_inserti128_si256(v, TINYI_T_FOUR(p), l)
#define TINYI_T_FIRST(p) _mm256_castsi128_si256(TINYI_T_FOUR(p))
#define TINYI_T_WHOLE(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#endif
#define TINYI_T_FOUR(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define TINYI_T_TURN_FOUR(W)                                                                                        \
    b0 = W(unpacklo_epi32)(a0, a1); b1 = W(unpackhi_epi32)(a0, a1);                                                 \
    b2 = W(unpacklo_epi32)(a2, a3); b3 = W(unpackhi_epi32)(a2, a3);                                                 \
    a0 = W(unpacklo_epi64)(b0, b2); a1 = W(unpackhi_epi64)(b0, b2);                                                 \
    a2 = W(unpacklo_epi64)(b1, b3); a3 = W(unpackhi_epi64)(b1, b3)

/* V_LANES rows of y with four numbers each, the first row first: a caller may have rows that overlap */
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_down)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                        ptrdiff_t xs)
{
    TINYI_T_Z a0 = TINYI_T_WHOLE(x), a1 = TINYI_T_WHOLE(x + xs), a2 = TINYI_T_WHOLE(x + 2 * xs),
              a3 = TINYI_T_WHOLE(x + 3 * xs), b0, b1, b2, b3;
    TINYI_T_TURN_FOUR(TINYI_T_WIDE);
#define TINYI_T_PUT(l, i) \
    _mm_storeu_si128((__m128i *)(void *)(y + (4 * (l) + (i)) * ys), TINYI_T_LANE(a##i, l));
#define TINYI_T_PUT4(l) TINYI_T_PUT(l, 0) TINYI_T_PUT(l, 1) TINYI_T_PUT(l, 2) TINYI_T_PUT(l, 3)
    TINYI_T_EACH_LANE(TINYI_T_PUT4)
#undef TINYI_T_PUT4
#undef TINYI_T_PUT
}

/* four rows of y with V_LANES numbers each */
TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_across)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                          ptrdiff_t xs)
{
    TINYI_T_Z a0 = TINYI_T_FIRST(x), a1 = TINYI_T_FIRST(x + xs), a2 = TINYI_T_FIRST(x + 2 * xs),
              a3 = TINYI_T_FIRST(x + 3 * xs), b0, b1, b2, b3;
#define TINYI_T_GET(l, i) a##i = TINYI_T_JOIN(a##i, l, x + (4 * (l) + (i)) * xs);
#define TINYI_T_GET4(l) TINYI_T_GET(l, 0) TINYI_T_GET(l, 1) TINYI_T_GET(l, 2) TINYI_T_GET(l, 3)
    TINYI_T_GET4(1)
#if V_AVX512
    TINYI_T_GET4(2)
    TINYI_T_GET4(3)
#endif
#undef TINYI_T_GET4
#undef TINYI_T_GET
    TINYI_T_TURN_FOUR(TINYI_T_WIDE);
    TINYI_T_STORE(y, a0);
    TINYI_T_STORE(y + ys, a1);
    TINYI_T_STORE(y + 2 * ys, a2);
    TINYI_T_STORE(y + 3 * ys, a3);
}

TINYI_FORCE_INLINE void TINY_FN(tinyi_layout_turn_four)(unsigned char *y, ptrdiff_t ys, const unsigned char *x,
                                                        ptrdiff_t xs)
{
    __m128i a0 = TINYI_T_FOUR(x), a1 = TINYI_T_FOUR(x + xs), a2 = TINYI_T_FOUR(x + 2 * xs),
            a3 = TINYI_T_FOUR(x + 3 * xs), b0, b1, b2, b3;
#define TINYI_T_NARROW(f) _mm_##f
    TINYI_T_TURN_FOUR(TINYI_T_NARROW);
#undef TINYI_T_NARROW
    _mm_storeu_si128((__m128i *)(void *)y, a0);
    _mm_storeu_si128((__m128i *)(void *)(y + ys), a1);
    _mm_storeu_si128((__m128i *)(void *)(y + 2 * ys), a2);
    _mm_storeu_si128((__m128i *)(void *)(y + 3 * ys), a3);
}

/* Whole squares; of what is left, fours; then single numbers. */
static void TINY_FN(tinyi_transpose_b4)(unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs, size_t na,
                                        size_t nb)
{
    const size_t ma = na / V_LANES * V_LANES, mb = nb / V_LANES * V_LANES, fa = na / 4 * 4, fb = nb / 4 * 4;
    size_t a, b;
#define TINYI_T_AT y + (ptrdiff_t)a * ys + (ptrdiff_t)b * 4, ys, x + (ptrdiff_t)b * xs + (ptrdiff_t)a * 4, xs
    for (a = 0; a < ma; a += V_LANES) {
        for (b = 0; b < mb; b += V_LANES) TINYI_LAYOUT_BLOCK(4);
        for (; b < fb; b += 4) TINY_FN(tinyi_layout_turn_down)(TINYI_T_AT);
    }
    for (; a < fa; a += 4) {
        for (b = 0; b < mb; b += V_LANES) TINY_FN(tinyi_layout_turn_across)(TINYI_T_AT);
        for (; b < fb; b += 4) TINY_FN(tinyi_layout_turn_four)(TINYI_T_AT);
    }
#undef TINYI_T_AT
    for (a = 0; a < na; a++)
        for (b = a < fa ? fb : 0; b < nb; b++)
            memcpy(y + (ptrdiff_t)a * ys + (ptrdiff_t)b * 4, x + (ptrdiff_t)b * xs + (ptrdiff_t)a * 4, 4);
}
#undef TINYI_T_Z
#undef TINYI_T_WIDE
#undef TINYI_T_EACH_LANE
#undef TINYI_T_LANE
#undef TINYI_T_JOIN
#undef TINYI_T_FIRST
#undef TINYI_T_WHOLE
#undef TINYI_T_FOUR
#undef TINYI_T_TURN_FOUR
#else
TINYI_LAYOUT_TRANSPOSE(4)
#endif
#undef TINYI_LAYOUT_TRANSPOSE

#if V_AVX512 || V_AVX2
/* whole lines of 16 numbers past the caches; na and nb are multiples of 16, rows of y begin on a line */
static void TINY_FN(tinyi_transpose_past_b4)(unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs,
                                             size_t na, size_t nb)
{
    size_t a, b;
    for (a = 0; a < na; a += TINYI_TURN_B4)
        for (b = 0; b < nb; b += 16)
            TINY_FN(tinyi_layout_past_b4)
            (y + (ptrdiff_t)a * ys + (ptrdiff_t)b * 4, ys, x + (ptrdiff_t)b * xs + (ptrdiff_t)a * 4, xs);
    _mm_sfence();
}
#else
static void TINY_FN(tinyi_transpose_past_b4)(unsigned char *y, ptrdiff_t ys, const unsigned char *x, ptrdiff_t xs,
                                             size_t na, size_t nb)
{
    TINY_FN(tinyi_transpose_b4)(y, ys, x, xs, na, nb);
}
#endif
#undef TINYI_LAYOUT_BLOCK
#undef TINYI_TURN_B1
#undef TINYI_TURN_B2
#undef TINYI_TURN_B4
#undef TINYI_TURN_B8
#undef TINYI_T_REG
#undef TINYI_T_LOAD
#undef TINYI_T_STORE
#undef TINYI_T_LOW_1
#undef TINYI_T_HIGH_1
#undef TINYI_T_LOW_2
#undef TINYI_T_HIGH_2
#undef TINYI_T_LOW_4
#undef TINYI_T_HIGH_4
#undef TINYI_T_LOW_8
#undef TINYI_T_HIGH_8
#undef TINYI_T_ZIP2
#undef TINYI_T_ZIP4
#undef TINYI_T_ZIP8
#undef TINYI_T_ZIP16
#undef TINYI_T_EACH4
#undef TINYI_T_EACH8
#undef TINYI_T_EACH16
#undef TINYI_T_READ
#undef TINYI_T_WRITE
#undef TINYI_T_REGS8
#undef TINYI_T_REGS16
#undef TINYI_T_TURN_B4

static void TINY_FN(tinyi_use_layout)(tinyi_kernels *k)
{
    TINYI_USE(k, copy_rows);
    TINYI_USE(k, transpose_b1);
    TINYI_USE(k, transpose_b2);
    TINYI_USE(k, transpose_b4);
    TINYI_USE(k, transpose_b8);
    TINYI_USE(k, transpose_past_b4);
    TINYI_USE(k, gather_rows);
    TINYI_USE(k, scatter_rows_f32);
}
