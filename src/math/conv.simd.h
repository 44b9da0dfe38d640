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
#define TINYI_CONV_SUMS(j, N) const v_f32 b##j = v_set(first && bias ? bias[j] : 0.0f); TINYI_CONV_EACH##N(TINYI_CONV_SUM, j)
#define TINYI_CONV_READ(j, v) \
    a##j##v = (v) * V_LANES + V_LANES <= m ? v_load(y + (j) * ys + i + (v) * V_LANES) : v_load_n(y + (j) * ys + i + (v) * V_LANES, m - (v) * V_LANES);
#define TINYI_CONV_READS(j, N) TINYI_CONV_EACH##N(TINYI_CONV_READ, j)
#define TINYI_CONV_X(j, v) const v_f32 x##v = v_load(p + (v) * V_LANES);
#define TINYI_CONV_FMA(j, v) a##j##v = v_fma(c##j, x##v, a##j##v);
#define TINYI_CONV_FMAS(j, N) const v_f32 c##j = v_set(w[(j) * ws + (ptrdiff_t)t]); TINYI_CONV_EACH##N(TINYI_CONV_FMA, j)
#define TINYI_CONV_CLIP(j, v) a##j##v = v_max(v_zero(), a##j##v);
#define TINYI_CONV_CLIPS(j, N) TINYI_CONV_EACH##N(TINYI_CONV_CLIP, j)
#define TINYI_CONV_WRITE(j, v)                                                                              \
    if ((v) * V_LANES + V_LANES <= m) v_store(y + (j) * ys + i + (v) * V_LANES, a##j##v);                   \
    else v_store_n(y + (j) * ys + i + (v) * V_LANES, a##j##v, m - (v) * V_LANES);
#define TINYI_CONV_WRITES(j, N) TINYI_CONV_EACH##N(TINYI_CONV_WRITE, j)

/* m outputs from i on, (N - 1) * V_LANES < m <= N * V_LANES, of R rows */
#define TINYI_CONV_TILE(R, N)                                                                               \
    do {                                                                                                    \
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

#define TINYI_CONV_ROWS(R)                                                                                  \
    static void TINY_FN(tinyi_conv_rows##R)(float *y, ptrdiff_t ys, const float *x, const int32_t *off, size_t taps, const float *w, ptrdiff_t ws, \
                                            const float *bias, size_t n, int first, int relu)               \
    {                                                                                                       \
        size_t i = 0, m;                                                                                    \
        for (; i < n; i += m) {                                                                             \
            m = n - i < TINYI_CONV_WIDE * V_LANES ? n - i : TINYI_CONV_WIDE * V_LANES;                      \
            if (m <= V_LANES) TINYI_CONV_TILE(R, 1);                                                        \
            else if (m <= 2 * V_LANES) TINYI_CONV_TILE(R, 2);                                               \
            TINYI_CONV_THIRD(R)                                                                             \
        }                                                                                                   \
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
static void TINY_FN(tinyi_conv_rows1)(float *y, ptrdiff_t ys, const float *x, const int32_t *off, size_t taps, const float *w, ptrdiff_t ws, const float *bias, size_t n,
                                      int first, int relu)
{
    size_t i = 0, m;
    for (; i + 5 * V_LANES < n; i += m) {
        m = n - i < 6 * V_LANES ? n - i : 6 * V_LANES;
        TINYI_CONV_TILE(1, 6);
    }
    for (; i < n; i += m) {
        m = n - i < 2 * V_LANES ? n - i : 2 * V_LANES;
        if (m <= V_LANES) TINYI_CONV_TILE(1, 1);
        else TINYI_CONV_TILE(1, 2);
    }
}

static void TINY_FN(tinyi_conv_strip_f32)(float *y, ptrdiff_t ys, const float *x, const int32_t *off, size_t taps, const float *w, ptrdiff_t ws, const float *bias,
                                          size_t rows, size_t n, int first, int relu)
{
#if TINYI_CONV_EIGHT
    for (; rows >= 8; rows -= 8, y += 8 * ys, w += 8 * ws, bias = bias ? bias + 8 : bias) TINY_FN(tinyi_conv_rows8)(y, ys, x, off, taps, w, ws, bias, n, first, relu);
#endif
    for (; rows >= 4; rows -= 4, y += 4 * ys, w += 4 * ws, bias = bias ? bias + 4 : bias) TINY_FN(tinyi_conv_rows4)(y, ys, x, off, taps, w, ws, bias, n, first, relu);
    for (; rows >= 1; rows -= 1, y += ys, w += ws, bias = bias ? bias + 1 : bias) TINY_FN(tinyi_conv_rows1)(y, ys, x, off, taps, w, ws, bias, n, first, relu);
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
#undef TINYI_CONV_ROWS
#undef TINYI_CONV_THIRD

static void TINY_FN(tinyi_use_conv)(tinyi_kernels *k)
{
    TINYI_USE(k, conv_strip_f32);
}
