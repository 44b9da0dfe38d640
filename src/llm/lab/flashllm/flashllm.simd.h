/* src/llm/lab/flashllm/flashllm.simd.h - lists of items to floats, to tiles, and into sums, compiled once per target
 *
 * Positions and values are taken apart by whole vectors into two short lists, which stay in the first-level cache; then
 * they go one by one, since no target scatters faster than it stores. Every position is cut to 12 bits: what it says
 * leads nowhere else. */
#define TINYI_CSL_SHIFT \
    (V_LANES == 1 ? 1 : V_LANES == 4 ? 3 : V_LANES == 8 ? 4 : 5) /* of 2 V_LANES, the rows of a panel */

/* values of V_LANES items */
#if V_AVX2
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_csl_halves)(v_i32 a)
{
    const __m256i low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}
#elif V_AVX512
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_csl_halves)(v_i32 a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
#elif V_NEON
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_csl_halves)(v_i32 a)
{
    return TINY_FN(tinyi_f16_up)(vmovn_u32(vreinterpretq_u32_s32(a)));
}
#elif V_SCALAR
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_csl_halves)(v_i32 a)
{
    return tinyi_f16_to_f32((uint16_t)((uint32_t)a & 0xffffu));
}
#else
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_csl_halves)(v_i32 a)
{
    return TINY_FN(tinyi_f16_up)(a);
} /* it takes the lower halves by itself */
#endif
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_csl_values)(v_i32 a, int bf16)
{
    return bf16 ? v_float(vi_shl(a, 16)) : TINY_FN(tinyi_csl_halves)(a);
}

/* what is left of a list beyond whole vectors */
TINYI_FORCE_INLINE v_i32 TINY_FN(tinyi_csl_load)(const uint32_t *item, size_t n)
{
    const int32_t *p = (const int32_t *)(const void *)item;
    return n >= V_LANES ? vi_load(p) : vi_load_n(p, n);
}

static void TINY_FN(tinyi_csl_list)(float *value, uint32_t *at, const uint32_t *item, size_t n, int bf16, int np)
{
    const v_i32 row = vi_set(63 << 16), column = vi_set(63), width = vi_set(np);
    size_t i;
    for (i = 0; i < n; i += V_LANES) {
        const v_i32 a = TINY_FN(tinyi_csl_load)(item + i, n - i);
        v_store(value + i, TINY_FN(tinyi_csl_values)(a, bf16));
        vi_store((int32_t *)(void *)(at + i),
                 vi_mul(vi_or(vi_and(vi_shr(a, 6), row), vi_and(vi_shr(a, 16), column)), width));
    }
}

static void TINY_FN(tinyi_csl_expand)(float *image, float *value, uint32_t *at, const uint32_t *item, size_t n,
                                      int bf16)
{
    const v_i32 panel = vi_set(0xfff & ~((64 << TINYI_CSL_SHIFT) - 1)), column = vi_set(63),
                row = vi_set(2 * V_LANES - 1);
    size_t i;
    for (i = 0; i < 4096; i += V_LANES) v_store(image + i, v_zero());
    for (i = 0; i < n; i += V_LANES) {
        const v_i32 a = TINY_FN(tinyi_csl_load)(item + i, n - i), place = vi_shr(a, 16);
        v_store(value + i, TINY_FN(tinyi_csl_values)(a, bf16));
        vi_store((int32_t *)(void *)(at + i),
                 vi_or(vi_and(place, panel),
                       vi_or(vi_shl(vi_and(place, column), TINYI_CSL_SHIFT), vi_and(vi_shr(place, 6), row))));
    }
    for (i = 0; i < n; i += 4) {
        image[at[i]] = value[i];
        image[at[i + 1]] = value[i + 1];
        image[at[i + 2]] = value[i + 2];
        image[at[i + 3]] = value[i + 3];
    }
}

/* Fours of one row load and store its sums once. What is left goes one by one, where sums of one row wait for each
 * other, a store and a load each: so eight parts of the list (four, where rows are wide) take turns, which are in
 * different rows nearly always. Where they meet, the order of the program is that of the sum. */
#define TINYI_CSL_V1(X) X(0)
#define TINYI_CSL_V2(X) X(0) X(1)
#define TINYI_CSL_V3(X) X(0) X(1) X(2)
#define TINYI_CSL_V4(X) X(0) X(1) X(2) X(3)
#define TINYI_CSL_SUM(v) TINYI_CSL_PUT(to, v, TINYI_CSL_FMA(w, from, v, TINYI_CSL_GET(to, v)))
#define TINYI_CSL_SUM4(v)                                                \
    TINYI_CSL_PUT(to, v,                                                 \
                  TINYI_CSL_FMA(w3, from3, v,                            \
                                TINYI_CSL_FMA(w2, from2, v,              \
                                              TINYI_CSL_FMA(w1, from1, v, \
                                                            TINYI_CSL_FMA(w, from, v, TINYI_CSL_GET(to, v))))))
#define TINYI_CSL_ITEM(i, LIST)                         \
    {                                                   \
        const uint32_t place = at[i];                   \
        const TINYI_CSL_F w = TINYI_CSL_SET(value[i]);  \
        const float *from = x + (place & 65535u);       \
        float *to = y + (place >> 16);                  \
        LIST(TINYI_CSL_SUM)                             \
    }
#define TINYI_CSL_ADD(name, LIST, PARTS)                                                                            \
    static void TINY_FN(name)(float *y, const float *x, const float *value, const uint32_t *at, size_t n,           \
                              size_t fours, const uint32_t *ahead)                                                  \
    {                                                                                                               \
        size_t i, part;                                                                                             \
        for (i = 0; i < fours; i++, value += 4, at += 4, ahead += 4) {                                              \
            const TINYI_CSL_F w = TINYI_CSL_SET(value[0]), w1 = TINYI_CSL_SET(value[1]),                            \
                              w2 = TINYI_CSL_SET(value[2]), w3 = TINYI_CSL_SET(value[3]);                           \
            const float *from = x + (at[0] & 65535u), *from1 = x + (at[1] & 65535u), *from2 = x + (at[2] & 65535u), \
                        *from3 = x + (at[3] & 65535u);                                                              \
            float *to = y + (at[0] >> 16);                                                                          \
            /* a line */                                                                                            \
            if (i % 4 == 0) TINYI_PREFETCH(ahead);                                                                  \
            LIST(TINYI_CSL_SUM4)                                                                                    \
        }                                                                                                           \
        n -= 4 * fours;                                                                                             \
        part = n / PARTS;                                                                                           \
        for (i = 0; i < part; i++) {                                                                                \
            if (PARTS * i % 16 == 0) TINYI_PREFETCH(ahead + PARTS * i);                                             \
            TINYI_CSL_ITEM(i, LIST)                                                                                 \
            TINYI_CSL_ITEM(part + i, LIST)                                                                          \
            TINYI_CSL_ITEM(2 * part + i, LIST)                                                                      \
            TINYI_CSL_ITEM(3 * part + i, LIST)                                                                      \
            if (PARTS == 8) {                                                                                       \
                TINYI_CSL_ITEM(4 * part + i, LIST)                                                                  \
                TINYI_CSL_ITEM(5 * part + i, LIST)                                                                  \
                TINYI_CSL_ITEM(6 * part + i, LIST)                                                                  \
                TINYI_CSL_ITEM(7 * part + i, LIST)                                                                  \
            }                                                                                                       \
        }                                                                                                           \
        for (i = PARTS * part; i < n; i++) TINYI_CSL_ITEM(i, LIST)                                                  \
    }
#define TINYI_CSL_F v_f32
#define TINYI_CSL_SET(x) v_set(x)
#define TINYI_CSL_GET(p, v) v_load((p) + (v)*V_LANES)
#define TINYI_CSL_PUT(p, v, sum) v_store((p) + (v)*V_LANES, sum);
#define TINYI_CSL_FMA(w, p, v, sum) v_fma(w, TINYI_CSL_GET(p, v), sum)
TINYI_CSL_ADD(tinyi_csl_add1, TINYI_CSL_V1, 8)
TINYI_CSL_ADD(tinyi_csl_add2, TINYI_CSL_V2, 8)
TINYI_CSL_ADD(tinyi_csl_add3, TINYI_CSL_V3, 4)
TINYI_CSL_ADD(tinyi_csl_add4, TINYI_CSL_V4, 4)

static void TINY_FN(tinyi_csl_add)(float *y, const float *x, const float *value, const uint32_t *at, size_t n,
                                   size_t fours, int vectors, const uint32_t *ahead)
{
    for (; vectors > 4; vectors -= 4, y += 4 * V_LANES, x += 4 * V_LANES)
        TINY_FN(tinyi_csl_add4)(y, x, value, at, n, fours, ahead);
    switch (vectors) {
    case 1: TINY_FN(tinyi_csl_add1)(y, x, value, at, n, fours, ahead); break;
    case 2: TINY_FN(tinyi_csl_add2)(y, x, value, at, n, fours, ahead); break;
    case 3: TINY_FN(tinyi_csl_add3)(y, x, value, at, n, fours, ahead); break;
    default: TINY_FN(tinyi_csl_add4)(y, x, value, at, n, fours, ahead);
    }
}

#undef TINYI_CSL_F
#undef TINYI_CSL_SET
#undef TINYI_CSL_GET
#undef TINYI_CSL_PUT
#undef TINYI_CSL_FMA
#if V_AVX512
#define TINYI_CSL_F __m256
#define TINYI_CSL_SET(x) _mm256_set1_ps(x)
#define TINYI_CSL_GET(p, v) _mm256_loadu_ps((p) + 8 * (v))
#define TINYI_CSL_PUT(p, v, sum) _mm256_storeu_ps((p) + 8 * (v), sum);
#define TINYI_CSL_FMA(w, p, v, sum) _mm256_fmadd_ps(w, TINYI_CSL_GET(p, v), sum)
TINYI_CSL_ADD(tinyi_csl_add8, TINYI_CSL_V1, 8)
#define TINYI_CSL_ADD8 TINY_FN(tinyi_csl_add8)
#undef TINYI_CSL_F
#undef TINYI_CSL_SET
#undef TINYI_CSL_GET
#undef TINYI_CSL_PUT
#undef TINYI_CSL_FMA
#else
#define TINYI_CSL_ADD8 NULL
#endif

static const tinyi_csl_kernels TINY_FN(tinyi_csl_table) = { TINYI_PASS_TARGET, V_LANES, TINY_FN(tinyi_csl_list),
                                                            TINY_FN(tinyi_csl_expand), TINY_FN(tinyi_csl_add),
                                                            TINYI_CSL_ADD8 };
TINYI_TABLE(tinyi_csl_kernels, tinyi_csl_kernels, TINY_FN(tinyi_csl_table))
#undef TINYI_CSL_ADD8
#undef TINYI_CSL_SHIFT
#undef TINYI_CSL_V1
#undef TINYI_CSL_V2
#undef TINYI_CSL_V3
#undef TINYI_CSL_V4
#undef TINYI_CSL_SUM
#undef TINYI_CSL_SUM4
#undef TINYI_CSL_ITEM
#undef TINYI_CSL_ADD
