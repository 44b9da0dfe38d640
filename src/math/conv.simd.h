/* src/math/conv.simd.h - the tile of a convolution: output channels by output positions, sums in registers */

/* registers: rows x vectors of sums, the vectors of x, one weight */
#if V_AVX512 || V_NEON
#define TINYI_CONV_EIGHT 1                  /* 8 x 3 of 32 */
#define TINYI_CONV_WIDE 3
#elif V_AVX2
#define TINYI_CONV_EIGHT 0                  /* 4 x 3 of 16 */
#define TINYI_CONV_WIDE 3
#else
#define TINYI_CONV_EIGHT 0                  /* 4 x 2: a multiplication needs a register too */
#define TINYI_CONV_WIDE 2
#endif

#define TINYI_CONV_1(F, N) F(0, N)
#define TINYI_CONV_4(F, N) F(0, N) F(1, N) F(2, N) F(3, N)
#define TINYI_CONV_8(F, N) TINYI_CONV_4(F, N) F(4, N) F(5, N) F(6, N) F(7, N)
/* per vector of x, number v; the last one may have fewer than V_LANES outputs */
#define TINYI_CONV_EACH1(G, j) G(j, 0)
#define TINYI_CONV_EACH2(G, j) G(j, 0) G(j, 1)
#define TINYI_CONV_EACH3(G, j) G(j, 0) G(j, 1) G(j, 2)
#define TINYI_CONV_EACH6(G, j) G(j, 0) G(j, 1) G(j, 2) G(j, 3) G(j, 4) G(j, 5)
#define TINYI_CONV_SUM(j, v) v_f32 a##j##v = b##j;
#define TINYI_CONV_SUMS(j, N)                                 \
    const v_f32 b##j = v_set(first && bias ? bias[j] : 0.0f); \
    TINYI_CONV_EACH##N(TINYI_CONV_SUM, j)
#define TINYI_CONV_READ(j, v)                                                                \
    a##j##v = (v) < LAST || m == (LAST + 1) * V_LANES ? v_load(y + (j)*ys + i + (v)*V_LANES) \
                                                      : v_load_n(y + (j)*ys + i + (v)*V_LANES, m - (v)*V_LANES);
#define TINYI_CONV_READS(j, N) TINYI_CONV_EACH##N(TINYI_CONV_READ, j)
#define TINYI_CONV_X(j, v) const v_f32 x##v = v_load(p + (v) * V_LANES);
#define TINYI_CONV_FMA(j, v) a##j##v = v_fma(c##j, x##v, a##j##v);
#define TINYI_CONV_FMAS(j, N)                           \
    const v_f32 c##j = v_set(w[(j)*ws + (ptrdiff_t)t]); \
    TINYI_CONV_EACH##N(TINYI_CONV_FMA, j)
#define TINYI_CONV_CLIP(j, v) a##j##v = v_max(v_zero(), a##j##v);
#define TINYI_CONV_CLIPS(j, N) TINYI_CONV_EACH##N(TINYI_CONV_CLIP, j)
#define TINYI_CONV_WRITE(j, v)                                                                              \
    if ((v) < LAST || m == (LAST + 1) * V_LANES) v_store(y + (j) * ys + i + (v) * V_LANES, a##j##v);        \
    else v_store_n(y + (j) * ys + i + (v) * V_LANES, a##j##v, m - (v) * V_LANES);
#define TINYI_CONV_WRITES(j, N) TINYI_CONV_EACH##N(TINYI_CONV_WRITE, j)

/* m outputs from i on, (N - 1) * V_LANES < m <= N * V_LANES, of R rows */
#define TINYI_CONV_TILE(R, N)                                                                               \
    do {                                                                                                    \
        enum { LAST = (N) - 1 };            /* the only vector that may have fewer */                       \
        size_t t;                                                                                           \
        TINYI_CONV_##R(TINYI_CONV_SUMS, N)                                                       \
        if (!first) { TINYI_CONV_##R(TINYI_CONV_READS, N) }                                      \
        for (t = 0; t < taps; t++) {                                                                        \
            const float *p = x + off[t] + i;                                                                \
            TINYI_CONV_EACH##N(TINYI_CONV_X, 0)                                                             \
            TINYI_CONV_##R(TINYI_CONV_FMAS, N)                                                   \
        }                                                                                                   \
        if (relu) { TINYI_CONV_##R(TINYI_CONV_CLIPS, N) }                                        \
        TINYI_CONV_##R(TINYI_CONV_WRITES, N)                                                     \
    } while (0)

/* A tile that ends inside a vector starts earlier instead: some outputs are made twice, the same. */
#define TINYI_CONV_BACK                                                                                     \
    if (first && m % V_LANES) {                                                                             \
        const size_t whole = (m + V_LANES - 1) / V_LANES * V_LANES;                                         \
        if (whole <= n) {                                                                                   \
            i = n - whole;                                                                                  \
            m = whole;                                                                                      \
        }                                                                                                   \
    }

#define TINYI_CONV_ROWS(R)                                                                                           \
    static void TINY_FN(tinyi_conv_rows##R)(float *y, ptrdiff_t ys, const float *x, const int32_t *off, size_t taps, \
                                            const float *w, ptrdiff_t ws, const float *bias, size_t n, int first,    \
                                            int relu)                                                                \
    {                                                                                                                \
        size_t i = 0, m;                                                                                             \
        for (; i < n; i += m) {                                                                                      \
            m = n - i < TINYI_CONV_WIDE * V_LANES ? n - i : TINYI_CONV_WIDE * V_LANES;                               \
            TINYI_CONV_BACK;                                                                                         \
            if (m <= V_LANES) TINYI_CONV_TILE(R, 1);                                                                 \
            else if (m <= 2 * V_LANES) TINYI_CONV_TILE(R, 2);                                                        \
            TINYI_CONV_THIRD(R)                                                                                      \
        }                                                                                                            \
    }
#if TINYI_CONV_WIDE == 3
#define TINYI_CONV_THIRD(R) else TINYI_CONV_TILE(R, 3);
#else
#define TINYI_CONV_THIRD(R)
#endif
#if TINYI_CONV_EIGHT
TINYI_CONV_ROWS(8)
#endif
TINYI_CONV_ROWS(4)

/* a single row: more vectors, because each sum waits for the one before */
static void TINY_FN(tinyi_conv_rows1)(float *y, ptrdiff_t ys, const float *x, const int32_t *off, size_t taps,
                                      const float *w, ptrdiff_t ws, const float *bias, size_t n, int first, int relu)
{
    size_t i = 0, m;
    for (; i + 5 * V_LANES < n; i += m) {
        m = n - i < 6 * V_LANES ? n - i : 6 * V_LANES;
        TINYI_CONV_BACK;
        TINYI_CONV_TILE(1, 6);
    }
    for (; i < n; i += m) {
        m = n - i < 2 * V_LANES ? n - i : 2 * V_LANES;
        TINYI_CONV_BACK;
        if (m <= V_LANES) TINYI_CONV_TILE(1, 1);
        else TINYI_CONV_TILE(1, 2);
    }
}

static void TINY_FN(tinyi_conv_strip_f32)(float *y, ptrdiff_t ys, const float *x, const int32_t *off, size_t taps,
                                          const float *w, ptrdiff_t ws, const float *bias, size_t rows, size_t n,
                                          int first, int relu)
{
#if TINYI_CONV_EIGHT
    for (; rows >= 8; rows -= 8, y += 8 * ys, w += 8 * ws, bias = bias ? bias + 8 : bias)
        TINY_FN(tinyi_conv_rows8)(y, ys, x, off, taps, w, ws, bias, n, first, relu);
#endif
    for (; rows >= 4; rows -= 4, y += 4 * ys, w += 4 * ws, bias = bias ? bias + 4 : bias)
        TINY_FN(tinyi_conv_rows4)(y, ys, x, off, taps, w, ws, bias, n, first, relu);
    for (; rows >= 1; rows -= 1, y += ys, w += ws, bias = bias ? bias + 1 : bias)
        TINY_FN(tinyi_conv_rows1)(y, ys, x, off, taps, w, ws, bias, n, first, relu);
}

/* ---- one channel to one channel: four rows at a time; the last rows and the last vector overlap those before */

#define TINYI_CONV_PUT(i, a)                                                                                \
    do {                                                                                                    \
        const v_f32 v = relu ? v_max(v_zero(), a) : a;                                                      \
        if (m == V_LANES) v_store(y + (ptrdiff_t)(i) * ys + j, v);                                          \
        else v_store_n(y + (ptrdiff_t)(i) * ys + j, v, m);                                                  \
    } while (0)

static void TINY_FN(tinyi_conv_depth_f32)(float *y, ptrdiff_t ys, const float *x, ptrdiff_t pitch, const int32_t *off,
                                          size_t taps, const float *w, float start, size_t rows, size_t n, int relu)
{
    const v_f32 s = v_set(start);
    size_t i, j, t, m;
    for (i = 0; i < rows; i += 4) {
        if (i + 4 > rows && rows >= 4) i = rows - 4;
        for (j = 0; j < n; j += m) {
            m = n - j < V_LANES ? n - j : V_LANES;
            if (m < V_LANES && n >= V_LANES) {
                j = n - V_LANES;
                m = V_LANES;
            }
            if (rows >= 4) {
                v_f32 a0 = s, a1 = s, a2 = s, a3 = s;
                for (t = 0; t < taps; t++) {
                    const float *p = x + off[t] + (ptrdiff_t)i * pitch + (ptrdiff_t)j;
                    const v_f32 c = v_set(w[t]);
                    a0 = v_fma(c, v_load(p), a0);
                    a1 = v_fma(c, v_load(p + pitch), a1);
                    a2 = v_fma(c, v_load(p + 2 * pitch), a2);
                    a3 = v_fma(c, v_load(p + 3 * pitch), a3);
                }
                TINYI_CONV_PUT(i, a0);
                TINYI_CONV_PUT(i + 1, a1);
                TINYI_CONV_PUT(i + 2, a2);
                TINYI_CONV_PUT(i + 3, a3);
            } else {
                size_t r;
                for (r = 0; r < rows; r++) {
                    v_f32 a = s;
                    for (t = 0; t < taps; t++)
                        a = v_fma(v_set(w[t]), v_load(x + off[t] + (ptrdiff_t)r * pitch + (ptrdiff_t)j), a);
                    TINYI_CONV_PUT(r, a);
                }
            }
        }
    }
}

/* a row of x serves three rows of y: 18 loads for 36 products */
static void TINY_FN(tinyi_conv_depth3_f32)(float *y, ptrdiff_t ys, const float *x, ptrdiff_t pitch, const float *w,
                                           float start, size_t rows, size_t n, int relu)
{
    const v_f32 w0 = v_set(w[0]), w1 = v_set(w[1]), w2 = v_set(w[2]), w3 = v_set(w[3]), w4 = v_set(w[4]),
                w5 = v_set(w[5]), w6 = v_set(w[6]), w7 = v_set(w[7]), w8 = v_set(w[8]);
    const v_f32 s = v_set(start);
    size_t i, j, m;
    for (i = 0; i < rows; i += rows >= 4 ? 4 : 1) {
        if (i + 4 > rows && rows >= 4) i = rows - 4;
        for (j = 0; j < n; j += m) {
            const float *p;
            v_f32 a0, a1, a2, a3, x0, x1, x2;
            m = n - j < V_LANES ? n - j : V_LANES;
            if (m < V_LANES && n >= V_LANES) {
                j = n - V_LANES;
                m = V_LANES;
            }
            p = x + (ptrdiff_t)i * pitch + (ptrdiff_t)j;
#define TINYI_CONV_NEXT (x0 = v_load(p), x1 = v_load(p + 1), x2 = v_load(p + 2), p += pitch)
#define TINYI_CONV_ADD(a, c0, c1, c2) a = v_fma(c2, x2, v_fma(c1, x1, v_fma(c0, x0, a)))
            a0 = s;
            TINYI_CONV_NEXT;
            TINYI_CONV_ADD(a0, w0, w1, w2);
            TINYI_CONV_NEXT;
            TINYI_CONV_ADD(a0, w3, w4, w5);
            a1 = s;
            TINYI_CONV_ADD(a1, w0, w1, w2);
            TINYI_CONV_NEXT;
            TINYI_CONV_ADD(a0, w6, w7, w8);
            TINYI_CONV_PUT(i, a0);
            if (rows < 4) continue;
            a2 = s;
            TINYI_CONV_ADD(a1, w3, w4, w5);
            TINYI_CONV_ADD(a2, w0, w1, w2);
            TINYI_CONV_NEXT;
            a3 = s;
            TINYI_CONV_ADD(a1, w6, w7, w8);
            TINYI_CONV_ADD(a2, w3, w4, w5);
            TINYI_CONV_ADD(a3, w0, w1, w2);
            TINYI_CONV_PUT(i + 1, a1);
            TINYI_CONV_NEXT;
            TINYI_CONV_ADD(a2, w6, w7, w8);
            TINYI_CONV_ADD(a3, w3, w4, w5);
            TINYI_CONV_PUT(i + 2, a2);
            TINYI_CONV_NEXT;
            TINYI_CONV_ADD(a3, w6, w7, w8);
            TINYI_CONV_PUT(i + 3, a3);
#undef TINYI_CONV_NEXT
#undef TINYI_CONV_ADD
        }
    }
}
#undef TINYI_CONV_PUT

/* every second float of 2 * V_LANES */
#if V_AVX512
#define TINYI_CONV_EVEN(p) _mm512_permutex2var_ps(_mm512_loadu_ps(p), even, _mm512_loadu_ps((p) + 16))
#elif V_AVX2
#define TINYI_CONV_EVEN(p)                  \
    _mm256_castpd_ps(_mm256_permute4x64_pd( \
        _mm256_castps_pd(_mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps((p) + 8), 0x88)), 0xd8))
#elif V_NEON
#define TINYI_CONV_EVEN(p) vld2q_f32(p).val[0]
#elif V_W128 && TINYI_W128_SIMDE
#define TINYI_CONV_EVEN(p) simde_mm_shuffle_ps(simde_mm_loadu_ps(p), simde_mm_loadu_ps((p) + 4), 0x88)
#elif V_W128
#define TINYI_CONV_EVEN(p) _mm_shuffle_ps(_mm_loadu_ps(p), _mm_loadu_ps((p) + 4), 0x88)
#endif

static void TINY_FN(tinyi_conv_pack_f32)(float *slab, ptrdiff_t pitch, const float *x, ptrdiff_t row, ptrdiff_t step,
                                         size_t rows, size_t low, size_t high, size_t width)
{
    const size_t n = high - low;
    size_t i, j;
#if V_AVX512
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#endif
    for (i = 0; i < rows; i++, slab += pitch, x += row) {
        float *to = slab + low;
        for (j = 0; j < low; j++) slab[j] = 0.0f;
        j = 0;
        if (step == 1) {
            for (; j + 4 * V_LANES <= n; j += 4 * V_LANES) {
                const v_f32 a = v_load(x + j), b = v_load(x + j + V_LANES), c = v_load(x + j + 2 * V_LANES),
                            d = v_load(x + j + 3 * V_LANES);
                v_store(to + j, a);
                v_store(to + j + V_LANES, b);
                v_store(to + j + 2 * V_LANES, c);
                v_store(to + j + 3 * V_LANES, d);
            }
            for (; j + V_LANES <= n; j += V_LANES) v_store(to + j, v_load(x + j));
            if (j < n) v_store_n(to + j, v_load_n(x + j, n - j), n - j);
        } else {
#ifdef TINYI_CONV_EVEN
            /* the last read ends one past the last float that is wanted: stop before */
            if (step == 2)
                for (; j + V_LANES < n; j += V_LANES) v_store(to + j, TINYI_CONV_EVEN(x + 2 * j));
#endif
            for (; j < n; j++) to[j] = x[(ptrdiff_t)j * step];
        }
        for (j = high; j < width; j++) slab[j] = 0.0f;
    }
}
#undef TINYI_CONV_EVEN

static void TINY_FN(tinyi_patch_add_f32)(float *y, ptrdiff_t ys, const float *x, ptrdiff_t xs, size_t rows, size_t n)
{
    size_t i, j;
    for (i = 0; i < rows; i++, y += ys, x += xs) {
        for (j = 0; j + V_LANES <= n; j += V_LANES) v_store(y + j, v_add(v_load(y + j), v_load(x + j)));
        if (j < n) v_store_n(y + j, v_add(v_load_n(y + j, n - j), v_load_n(x + j, n - j)), n - j);
    }
}

#undef TINYI_CONV_EIGHT
#undef TINYI_CONV_WIDE
#undef TINYI_CONV_1
#undef TINYI_CONV_4
#undef TINYI_CONV_8
#undef TINYI_CONV_EACH1
#undef TINYI_CONV_EACH2
#undef TINYI_CONV_EACH3
#undef TINYI_CONV_EACH6
#undef TINYI_CONV_SUM
#undef TINYI_CONV_SUMS
#undef TINYI_CONV_READ
#undef TINYI_CONV_READS
#undef TINYI_CONV_X
#undef TINYI_CONV_FMA
#undef TINYI_CONV_FMAS
#undef TINYI_CONV_CLIP
#undef TINYI_CONV_CLIPS
#undef TINYI_CONV_WRITE
#undef TINYI_CONV_WRITES
#undef TINYI_CONV_TILE
#undef TINYI_CONV_BACK
#undef TINYI_CONV_ROWS
#undef TINYI_CONV_THIRD

static void TINY_FN(tinyi_use_conv)(tinyi_kernels *k)
{
    TINYI_USE(k, conv_pack_f32);
    TINYI_USE(k, conv_strip_f32);
    TINYI_USE(k, conv_depth_f32);
    TINYI_USE(k, conv_depth3_f32);
    TINYI_USE(k, patch_add_f32);
}
