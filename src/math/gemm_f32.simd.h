/* src/math/gemm_f32.simd.h - tiles of the f32 product
 *
 * A tile keeps mr x nr sums in registers, nr two vectors wide. Each step of k loads the two vectors of v once and
 * broadcasts mr numbers of s: mr + 2 loads for 2 mr multiply-adds. 12 rows where there are 32 registers, 6 where there
 * are 16. Smaller heights serve the rows that are left.
 *
 * The compilers like to load all broadcasts first and then run out of registers: TINYI_GEMM_PIN keeps a broadcast where
 * it is written. It makes no instruction.                                                                            */

#if V_AVX512 && TINYI_CLANG
#define TINYI_GEMM_PIN(s, p, a) __asm__ volatile("" : "+v"(s), "+r"(p), "+v"(a))
#elif V_AVX512 && TINYI_GCC
#define TINYI_GEMM_PIN(s, p, a) __asm__("" : "+v"(s))
#elif V_AVX2 && TINYI_CLANG
#define TINYI_GEMM_PIN(s, p, a) __asm__ volatile("" : "+x"(s), "+r"(p), "+x"(a))
#elif V_AVX2 && TINYI_GCC
#define TINYI_GEMM_PIN(s, p, a) __asm__("" : "+x"(s))
#else
#define TINYI_GEMM_PIN(s, p, a) ((void)0)
#endif

#define TINYI_G2(X) X(0) X(1)
#define TINYI_G4(X) TINYI_G2(X) X(2) X(3)
#define TINYI_G6(X) TINYI_G4(X) X(4) X(5)
#define TINYI_G8(X) TINYI_G6(X) X(6) X(7)
#define TINYI_G12(X) TINYI_G8(X) X(8) X(9) X(10) X(11)

#define TINYI_GEMM_NR (2 * V_LANES)
#define TINYI_GEMM_TURN_ROWS 32             /* at most in one call of gemm_f32_turn with halves */
#define TINYI_GEMM_TURN_DEEP 64
#if V_AVX512 || V_NEON
#define TINYI_GEMM_MR 12
#else
#define TINYI_GEMM_MR 6
#endif

#define TINYI_GEMM_ZERO(i) v_f32 a##i = v_zero(), b##i = v_zero();
#define TINYI_GEMM_FMA(i, s, p)             \
    {                                       \
        v_f32 c = v_set(s);                 \
        TINYI_GEMM_PIN(c, p, a##i);         \
        a##i = v_fma(c, x0, a##i);          \
        b##i = v_fma(c, x1, b##i);          \
    }
#define TINYI_GEMM_STORE(i)                                         \
    if (i < mr) {                                                   \
        float *r = y + i * y_row;                                   \
        if (add) {                                                  \
            a##i = v_add(a##i, v_load(r));                          \
            b##i = v_add(b##i, v_load(r + V_LANES));                \
        }                                                           \
        v_store(r, a##i);                                           \
        v_store(r + V_LANES, b##i);                                 \
    }
/* y is wanted when the sums are done; until then it can travel */
#if TINYI_GCC || TINYI_CLANG
#define TINYI_GEMM_FETCH(i)                                         \
    if (i < mr && nr == TINYI_GEMM_NR) {                            \
        __builtin_prefetch(y + i * y_row);                          \
        __builtin_prefetch(y + i * y_row + TINYI_GEMM_NR - 1);      \
    }
#else
#define TINYI_GEMM_FETCH(i)
#endif
#define TINYI_GEMM_KEEP(i)                                          \
    v_store(t + i * TINYI_GEMM_NR, a##i);                           \
    v_store(t + i * TINYI_GEMM_NR + V_LANES, b##i);

/* a tile that hangs over the right edge of y */
static void TINY_FN(tinyi_gemm_f32_edge)(float *y, ptrdiff_t y_row, const float *t, int mr, int nr, int add)
{
    int i;
    for (i = 0; i < mr; i++, y += y_row, t += TINYI_GEMM_NR) {
        size_t n0 = (size_t)TINYI_MIN(nr, V_LANES), n1 = (size_t)nr - n0;
        v_f32 u = v_load(t), w = v_load(t + V_LANES);
        if (add) {
            u = v_add(u, v_load_n(y, n0));
            if (n1) w = v_add(w, v_load_n(y + V_LANES, n1));
        }
        v_store_n(y, u, n0);
        if (n1) v_store_n(y + V_LANES, w, n1);
    }
}

#define TINYI_GEMM_END(LIST, MR)                                    \
    if (nr == TINYI_GEMM_NR) {                                      \
        LIST(TINYI_GEMM_STORE)                                      \
    } else {                                                        \
        float t[MR * TINYI_GEMM_NR];                                \
        LIST(TINYI_GEMM_KEEP)                                       \
        TINY_FN(tinyi_gemm_f32_edge)(y, y_row, t, mr, nr, add);     \
    }

#if TINYI_GCC || TINYI_CLANG
#define TINYI_GEMM_AHEAD(p) __builtin_prefetch(p, 0, 2)
#else
#define TINYI_GEMM_AHEAD(p) ((void)0)
#endif

/* ---- packed rows: s is [k][MR] */
#define TINYI_GEMM_S(i) TINYI_GEMM_FMA(i, s[i], s)
#define TINYI_GEMM_STEP2(MR, LIST)                                                      \
    x0 = v_load(v); x1 = v_load(v + V_LANES);                                           \
    LIST(TINYI_GEMM_S)                                                                  \
    s += MR;                                                                            \
    x0 = v_load(v + TINYI_GEMM_NR); x1 = v_load(v + TINYI_GEMM_NR + V_LANES);           \
    LIST(TINYI_GEMM_S)                                                                  \
    s += MR;                                                                            \
    v += 2 * TINYI_GEMM_NR;
#define TINYI_GEMM_TILE(MR, LIST)                                                                                     \
    static void TINY_FN(tinyi_gemm_f32_tile##MR)(float *y, ptrdiff_t y_row, const float *s, const float *v, size_t k, \
                                                 int mr, int nr, int add, const tinyi_gemm_ahead *ahead)              \
    {                                                                                                                 \
        const unsigned char *p = ahead->a, *q = ahead->b;                                                             \
        const ptrdiff_t step = ahead->step;                                                                           \
        v_f32 x0, x1;                                                                                                 \
        LIST(TINYI_GEMM_ZERO)                                                                                         \
        LIST(TINYI_GEMM_FETCH)                                                                                        \
        for (; k >= 2; k -= 2) {                                                                                      \
            TINYI_GEMM_STEP2(MR, LIST)                                                                                \
            TINYI_GEMM_AHEAD(p);                                                                                      \
            TINYI_GEMM_AHEAD(q);                                                                                      \
            p += step;                                                                                                \
            q += step;                                                                                                \
        }                                                                                                             \
        if (k) {                                                                                                      \
            x0 = v_load(v);                                                                                           \
            x1 = v_load(v + V_LANES);                                                                                 \
            LIST(TINYI_GEMM_S)                                                                                        \
        }                                                                                                             \
        TINYI_GEMM_END(LIST, MR)                                                                                      \
    }

/* ---- rows where they lie: row i of s starts at s + i * s_row. Rows that are not there repeat the last one. */
#define TINYI_GEMM_P(i) const float *p##i = s + (i < mr ? i : mr - 1) * s_row;
#define TINYI_GEMM_R(i) TINYI_GEMM_FMA(i, p##i[j], v)
#define TINYI_GEMM_R1(i)                                            \
    {                                                               \
        v_f32 c = v_set(p##i[j]);                                   \
        TINYI_GEMM_PIN(c, v, a##i);                                 \
        a##i = v_fma(c, x0, a##i);                                  \
    }
#define TINYI_GEMM_ROWS(MR, LIST)                                                                                  \
    static void TINY_FN(tinyi_gemm_f32_rows##MR)(float *y, ptrdiff_t y_row, const float *s, ptrdiff_t s_row,       \
                                                 const float *v, ptrdiff_t v_k, size_t k, int mr, int nr, int add) \
    {                                                                                                              \
        size_t j;                                                                                                  \
        v_f32 x0, x1;                                                                                              \
        LIST(TINYI_GEMM_P)                                                                                         \
        LIST(TINYI_GEMM_ZERO)                                                                                      \
        if (nr == TINYI_GEMM_NR) {                                                                                 \
            for (j = 0; j < k; j++) {                                                                              \
                x0 = v_load(v);                                                                                    \
                x1 = v_load(v + V_LANES);                                                                          \
                LIST(TINYI_GEMM_R)                                                                                 \
                v += v_k;                                                                                          \
            }                                                                                                      \
        } else if (nr > V_LANES) {                                                                                 \
            const size_t n1 = (size_t)(nr - V_LANES);                                                              \
            for (j = 0; j < k; j++) {                                                                              \
                x0 = v_load(v);                                                                                    \
                x1 = v_load_n(v + V_LANES, n1);                                                                    \
                LIST(TINYI_GEMM_R)                                                                                 \
                v += v_k;                                                                                          \
            }                                                                                                      \
        } else {                            /* one vector holds all columns */                                     \
            for (j = 0; j < k; j++) {                                                                              \
                x0 = nr == V_LANES ? v_load(v) : v_load_n(v, (size_t)nr);                                          \
                LIST(TINYI_GEMM_R1)                                                                                \
                v += v_k;                                                                                          \
            }                                                                                                      \
        }                                                                                                          \
        TINYI_GEMM_END(LIST, MR)                                                                                   \
    }

#define TINYI_GEMM_BOTH(MR) TINYI_GEMM_TILE(MR, TINYI_G##MR) TINYI_GEMM_ROWS(MR, TINYI_G##MR)
#if TINYI_GEMM_MR == 12
TINYI_GEMM_BOTH(12)
TINYI_GEMM_BOTH(8)
TINYI_GEMM_BOTH(4)
#define TINYI_GEMM_PICK(name) (mr > 8 ? TINY_FN(name##12) : mr > 4 ? TINY_FN(name##8) : TINY_FN(name##4))
#else
TINYI_GEMM_BOTH(6)
TINYI_GEMM_BOTH(4)
TINYI_GEMM_BOTH(2)
#define TINYI_GEMM_PICK(name) (mr > 4 ? TINY_FN(name##6) : mr > 2 ? TINY_FN(name##4) : TINY_FN(name##2))
#endif

static void TINY_FN(tinyi_gemm_f32_tile)(float *y, ptrdiff_t y_row, const float *s, const float *v, size_t k, int mr,
                                         int nr, int add, const tinyi_gemm_ahead *ahead)
{
    TINYI_GEMM_PICK(tinyi_gemm_f32_tile)(y, y_row, s, v, k, mr, nr, add, ahead);
}

static void TINY_FN(tinyi_gemm_f32_rows)(float *y, ptrdiff_t y_row, const float *s, ptrdiff_t s_row, const float *v,
                                         ptrdiff_t v_k, size_t k, int mr, int nr, int add)
{
    TINYI_GEMM_PICK(tinyi_gemm_f32_rows)(y, y_row, s, s_row, v, v_k, k, mr, nr, add);
}

static void TINY_FN(tinyi_gemm_f32_shape)(tinyi_gemm_shape *shape)
{
    shape->mr = TINYI_GEMM_MR;
    shape->nr = TINYI_GEMM_NR;
#if V_AVX512
    shape->kc = 384;
    shape->nc = 256;
    shape->mc = 2040;
#elif V_AVX2
    shape->kc = 512;                        /* what a tile costs beside its products is a fiftieth then */
    shape->nc = 80;
    shape->mc = 2400;
#elif V_SCALAR
    shape->kc = 128;
    shape->nc = 64;
    shape->mc = 1020;
#else
    shape->kc = 256;
    shape->nc = 96;
    shape->mc = 1020;
#endif
}

/* ---- panels of v from rows that are dense along n: four rows at a time, which keeps four streams of reads going */
#define TINYI_GEMM_PACK(T, LOAD, LOAD_N)                                                     \
    for (i = 0; i < k; i += 4) {                                                             \
        const T *r0 = (const T *)b + (ptrdiff_t)i * ld, *r1 = i + 1 < k ? r0 + ld : r0,      \
                *r2 = i + 2 < k ? r1 + ld : r1, *r3 = i + 3 < k ? r2 + ld : r2;              \
        const size_t d1 = i + 1 < k ? TINYI_GEMM_NR : 0, d2 = i + 2 < k ? TINYI_GEMM_NR : 0, \
                     d3 = i + 3 < k ? TINYI_GEMM_NR : 0;                                     \
        float *to = v + i * TINYI_GEMM_NR;                                                   \
        for (j = 0; j + TINYI_GEMM_NR <= n; j += TINYI_GEMM_NR, to += k * TINYI_GEMM_NR) {   \
            float *to1 = to + d1, *to2 = to1 + d2, *to3 = to2 + d3;                          \
            v_store(to, LOAD(r0 + j));                                                       \
            v_store(to + V_LANES, LOAD(r0 + j + V_LANES));                                   \
            v_store(to1, LOAD(r1 + j));                                                      \
            v_store(to1 + V_LANES, LOAD(r1 + j + V_LANES));                                  \
            v_store(to2, LOAD(r2 + j));                                                      \
            v_store(to2 + V_LANES, LOAD(r2 + j + V_LANES));                                  \
            v_store(to3, LOAD(r3 + j));                                                      \
            v_store(to3 + V_LANES, LOAD(r3 + j + V_LANES));                                  \
        }                                                                                    \
        if (j < n) {                                                                         \
            const size_t n0 = TINYI_MIN(n - j, V_LANES), n1 = n - j - n0;                    \
            for (q = i; q < k && q < i + 4; q++, r0 += ld, to += TINYI_GEMM_NR) {            \
                v_store(to, LOAD_N(r0 + j, n0));                                             \
                v_store(to + V_LANES, n1 ? LOAD_N(r0 + j + V_LANES, n1) : v_zero());         \
            }                                                                                \
        }                                                                                    \
    }

static void TINY_FN(tinyi_gemm_f32_pack)(float *v, const void *b, int dtype, ptrdiff_t ld, size_t k, size_t n)
{
    size_t i, j, q;
    if (dtype == TINY_F16) TINYI_GEMM_PACK(uint16_t, v_load_f16, v_load_f16_n)
    else if (dtype == TINY_BF16) TINYI_GEMM_PACK(uint16_t, v_load_bf16, v_load_bf16_n)
    else TINYI_GEMM_PACK(float, v_load, v_load_n)
}

/* ---- panels from rows that are dense along k */

#if V_AVX512
/* 16 numbers of 4 * quarters rows. Loads put four rows' quarters where the second half of a transpose wants them: half
 * the shuffles of one in registers alone. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_gemm_turn16)(float *to, ptrdiff_t width, const float *x, ptrdiff_t step,
                                                   int quarters)
{
    const __mmask16 used = (__mmask16)((1u << 4 * quarters) - 1u);
    int q;
#define TINYI_GEMM_LOAD(z, i)                                                                               \
    z = _mm512_castps128_ps512(_mm_loadu_ps(x + (i) * step));                                               \
    if (quarters > 1) z = _mm512_insertf32x4(z, _mm_loadu_ps(x + (i + 4) * step), 1);                       \
    if (quarters > 2) z = _mm512_insertf32x4(z, _mm_loadu_ps(x + (i + 8) * step), 2);                       \
    if (quarters > 3) z = _mm512_insertf32x4(z, _mm_loadu_ps(x + (i + 12) * step), 3)
    for (q = 0; q < 4; q++, x += 4, to += 4 * width) {
        __m512 a, b, c, d, e, f;
        TINYI_GEMM_LOAD(a, 0);
        TINYI_GEMM_LOAD(b, 1);
        TINYI_GEMM_LOAD(c, 2);
        TINYI_GEMM_LOAD(d, 3);
        e = _mm512_unpacklo_ps(a, b);
        f = _mm512_unpacklo_ps(c, d);
        a = _mm512_unpackhi_ps(a, b);
        c = _mm512_unpackhi_ps(c, d);
        _mm512_mask_storeu_ps(to, used, _mm512_shuffle_ps(e, f, 0x44));
        _mm512_mask_storeu_ps(to + width, used, _mm512_shuffle_ps(e, f, 0xee));
        _mm512_mask_storeu_ps(to + 2 * width, used, _mm512_shuffle_ps(a, c, 0x44));
        _mm512_mask_storeu_ps(to + 3 * width, used, _mm512_shuffle_ps(a, c, 0xee));
    }
#undef TINYI_GEMM_LOAD
}
#endif

#if V_AVX2
/* Eight rows at a time: each line is taken whole before it can be pushed out, however far apart rows are. Rows that are
 * not there repeat the last one. Where fewer than eight numbers have room, the store reaches into the places of the
 * next k, which are written after it; the last few k go one by one. Returns how many k of the rows from r on are
 * done. */
#define TINYI_GEMM_TURN(name, T, LOAD)                                                                                \
    static size_t TINY_FN(name)(float *to, ptrdiff_t width, const T *x, ptrdiff_t step, ptrdiff_t rows, size_t k,     \
                                ptrdiff_t r)                                                                          \
    {                                                                                                                 \
        const ptrdiff_t last = rows - 1;                                                                              \
        const T *p0 = x + r * step, *p1 = x + TINYI_MIN(r + 1, last) * step, *p2 = x + TINYI_MIN(r + 2, last) * step, \
                *p3 = x + TINYI_MIN(r + 3, last) * step;                                                              \
        const T *p4 = x + TINYI_MIN(r + 4, last) * step, *p5 = x + TINYI_MIN(r + 5, last) * step,                     \
                *p6 = x + TINYI_MIN(r + 6, last) * step, *p7 = x + TINYI_MIN(r + 7, last) * step;                     \
        const size_t spare = width - r >= 8 ? 0 : (size_t)((8 - width) / width + 1);                                  \
        size_t i;                                                                                                     \
        for (i = 0; i + 8 + spare <= k; i += 8)                                                                       \
            TINY_FN(tinyi_turn8)                                                                                      \
            (to + (ptrdiff_t)i * width + r, width, LOAD(p0 + i), LOAD(p1 + i), LOAD(p2 + i), LOAD(p3 + i),            \
             LOAD(p4 + i), LOAD(p5 + i), LOAD(p6 + i), LOAD(p7 + i));                                                 \
        return i;                                                                                                     \
    }
TINYI_GEMM_TURN(tinyi_gemm_turn8_f32, float, v_load)
TINYI_GEMM_TURN(tinyi_gemm_turn8_f16, uint16_t, v_load_f16)
TINYI_GEMM_TURN(tinyi_gemm_turn8_bf16, uint16_t, v_load_bf16)
#undef TINYI_GEMM_TURN

static void TINY_FN(tinyi_gemm_f32_turn)(float *to, ptrdiff_t width, const void *from, int dtype, ptrdiff_t step,
                                         size_t rows, size_t k)
{
    const float *x = (const float *)from;
    const uint16_t *h = (const uint16_t *)from;
    ptrdiff_t r, q, n = (ptrdiff_t)rows;
    size_t i;
    for (r = 0; r < n; r += 8) {
        const int fits = r == 0 || width - r >= 8;
        i = !fits                ? 0
            : dtype == TINY_F16  ? TINY_FN(tinyi_gemm_turn8_f16)(to, width, h, step, n, k, r)
            : dtype == TINY_BF16 ? TINY_FN(tinyi_gemm_turn8_bf16)(to, width, h, step, n, k, r)
                                 : TINY_FN(tinyi_gemm_turn8_f32)(to, width, x, step, n, k, r);
        for (; i < k; i++)
            for (q = r; q < n && q < r + 8; q++) {
                const ptrdiff_t at = q * step + (ptrdiff_t)i;
                to[(ptrdiff_t)i * width + q] = dtype == TINY_F16    ? tinyi_f16_to_f32(h[at])
                                               : dtype == TINY_BF16 ? tinyi_bf16_to_f32(h[at])
                                                                    : x[at];
            }
    }
    for (i = 0; n < width && i < k; i++)
        for (q = n; q < width; q++) to[(ptrdiff_t)i * width + q] = 0.0f;
}
#else
static void TINY_FN(tinyi_gemm_turn_f32)(float *to, ptrdiff_t width, const float *x, ptrdiff_t step, size_t rows,
                                         size_t k)
{
    size_t i = 0, r;
#if V_AVX512
    const size_t quarters = rows / 4;
    size_t at;
    if (rows % 4 == 0 && rows <= 32) {
        for (; i + 16 <= k; i += 16)
            for (at = 0; at < quarters; at += 4) {
                float *t = to + (ptrdiff_t)i * width + at * 4;
                const float *p = x + (ptrdiff_t)(at * 4) * step + i;
                switch (quarters - at) {
                case 1: TINY_FN(tinyi_gemm_turn16)(t, width, p, step, 1); break;
                case 2: TINY_FN(tinyi_gemm_turn16)(t, width, p, step, 2); break;
                case 3: TINY_FN(tinyi_gemm_turn16)(t, width, p, step, 3); break;
                default: TINY_FN(tinyi_gemm_turn16)(t, width, p, step, 4); break;
                }
            }
    }
#endif
    TINY_FN(tinyi_transpose_b4)
    ((unsigned char *)(to + (ptrdiff_t)i * width), width * 4, (const unsigned char *)(x + i), step * 4, k - i, rows);
    for (i = 0; rows < (size_t)width && i < k; i++)
        for (r = rows; r < (size_t)width; r++) to[i * (size_t)width + r] = 0.0f;
}

/* halves: a piece at a time becomes floats, which lie in the first level when they are turned */
static void TINY_FN(tinyi_gemm_f32_turn)(float *to, ptrdiff_t width, const void *from, int dtype, ptrdiff_t step,
                                         size_t rows, size_t k)
{
    float t[TINYI_GEMM_TURN_ROWS * TINYI_GEMM_TURN_DEEP];
    const uint16_t *x = (const uint16_t *)from;
    size_t i, j, r, n;
    if (dtype == TINY_F32) {
        TINY_FN(tinyi_gemm_turn_f32)(to, width, (const float *)from, step, rows, k);
        return;
    }
    for (i = 0; i < k; i += n) {
        n = TINYI_MIN(k - i, TINYI_GEMM_TURN_DEEP);
        for (r = 0; r < rows; r++) {
            const uint16_t *p = x + (ptrdiff_t)r * step + i;
            float *row = t + r * TINYI_GEMM_TURN_DEEP;
            for (j = 0; j + V_LANES <= n; j += V_LANES)
                v_store(row + j, dtype == TINY_F16 ? v_load_f16(p + j) : v_load_bf16(p + j));
            for (; j < n; j++) row[j] = dtype == TINY_F16 ? tinyi_f16_to_f32(p[j]) : tinyi_bf16_to_f32(p[j]);
        }
        TINY_FN(tinyi_gemm_turn_f32)(to + (ptrdiff_t)i * width, width, t, TINYI_GEMM_TURN_DEEP, rows, n);
    }
}
#endif

static void TINY_FN(tinyi_use_gemm_f32)(tinyi_kernels *k)
{
    TINYI_USE(k, gemm_f32_shape);
    TINYI_USE(k, gemm_f32_pack);
    TINYI_USE(k, gemm_f32_turn);
    TINYI_USE(k, gemm_f32_tile);
    TINYI_USE(k, gemm_f32_rows);
}

/* the lists, the sizes and TINYI_GEMM_FMA serve math/attention.simd.h too, which ends them */
#undef TINYI_GEMM_STORE
#undef TINYI_GEMM_FETCH
#undef TINYI_GEMM_KEEP
#undef TINYI_GEMM_END
#undef TINYI_GEMM_AHEAD
#undef TINYI_GEMM_S
#undef TINYI_GEMM_STEP2
#undef TINYI_GEMM_TILE
#undef TINYI_GEMM_P
#undef TINYI_GEMM_R
#undef TINYI_GEMM_R1
#undef TINYI_GEMM_ROWS
#undef TINYI_GEMM_BOTH
#undef TINYI_GEMM_PICK
#undef TINYI_GEMM_PACK
#undef TINYI_GEMM_TURN_ROWS
#undef TINYI_GEMM_TURN_DEEP
