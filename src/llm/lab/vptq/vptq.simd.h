/* src/llm/lab/vptq/vptq.simd.h - sums over a row of codes, compiled once per target
 *
 * A vector of a book is one to four vectors of the machine, so sums of v outputs grow side by side and no sum over
 * lanes is made. Eight codes are as many bytes as a code has bits: of the usual widths all places are constants. Even
 * and odd inputs have sums of their own, since one multiply-add waits four cycles for the one before. */
/* Books: halves where the machine takes them as they are, so that twice as many vectors stay in a cache; else
 * floats. */
#if V_AVX2 || V_AVX512 || V_NEON
#define TINYI_VQ_HALF 1
#define TINYI_VQ_NUMBER uint16_t
#define TINYI_VQ_LOAD v_load_f16
#else
#define TINYI_VQ_HALF 0
#define TINYI_VQ_NUMBER float
#define TINYI_VQ_LOAD v_load
#endif
#define TINYI_VQ_C ((const TINYI_VQ_NUMBER *)r->c)
#define TINYI_VQ_D ((const TINYI_VQ_NUMBER *)r->d)
#if V_LANES == 1
static void TINY_FN(tinyi_vptq_gather)(float *y, const tinyi_vptq_run *r, int pad)
{
    const unsigned width = (unsigned)(r->bits + r->bits2);
    const uint32_t mask = tinyi_vptq_mask((int)width), low = tinyi_vptq_mask(r->bits);
    size_t j;
    int i;
    for (i = 0; i < pad; i++) y[i] = 0.0f;
    for (j = 0; j < r->n; j++) {
        const uint32_t word = tinyi_vptq_word(r->at, j, width, mask);
        const float *c = TINYI_VQ_C + (size_t)(word & low) * (size_t)pad,
                    *d = r->d ? TINYI_VQ_D + (size_t)(word >> r->bits) * (size_t)pad : NULL, x = r->x[j];
        for (i = 0; i < pad; i++) y[i] += x * (d ? c[i] + d[i] : c[i]);
    }
}
#else
#define TINYI_VQ_LIST1(X, s) X(s, 0)
#define TINYI_VQ_LIST2(X, s) X(s, 0) X(s, 1)
#define TINYI_VQ_LIST3(X, s) X(s, 0) X(s, 1) X(s, 2)
#define TINYI_VQ_LIST4(X, s) X(s, 0) X(s, 1) X(s, 2) X(s, 3)
#define TINYI_VQ_ZERO(s, i) v_f32 y##s##_##i = v_zero();
#define TINYI_VQ_KEEP(s, i) v_store(y + (i) * V_LANES, v_add(y##s##_##i, y1_##i));
#define TINYI_VQ_FMA1(s, i) y##s##_##i = v_fma(xx, TINYI_VQ_LOAD(c + (i) * V_LANES), y##s##_##i);
#define TINYI_VQ_FMA2(s, i) \
    y##s##_##i = v_fma(xx, v_add(TINYI_VQ_LOAD(c + (i)*V_LANES), TINYI_VQ_LOAD(d + (i)*V_LANES)), y##s##_##i);
#define TINYI_VQ_ONE(LIST, VECS, s, j)                                                                              \
    {                                                                                                               \
        const TINYI_VQ_NUMBER *c = book + (size_t)tinyi_vptq_word(at, j, width, mask) * ((VECS) * V_LANES);         \
        const v_f32 xx = v_set(x[j]);                                                                               \
        LIST(TINYI_VQ_FMA1, s)                                                                                      \
    }
#define TINYI_VQ_TWO(LIST, VECS, s, j)                                                     \
    {                                                                                      \
        const uint32_t word = tinyi_vptq_word(at, j, width, mask);                         \
        const TINYI_VQ_NUMBER *c = book + (size_t)(word & low) * ((VECS)*V_LANES),         \
                              *d = TINYI_VQ_D + (size_t)(word >> bits) * ((VECS)*V_LANES); \
        const v_f32 xx = v_set(x[j]);                                                      \
        LIST(TINYI_VQ_FMA2, s)                                                             \
    }
#define TINYI_VQ_GATHER(name, LIST, VECS, COLUMN, WIDTH)                                                            \
    static void TINY_FN(name)(float *y, const tinyi_vptq_run *r)                                                    \
    {                                                                                                               \
        const unsigned width = (WIDTH);                                                                             \
        const int bits = r->bits;                                                                                   \
        const uint32_t mask = tinyi_vptq_mask((int)width), low = tinyi_vptq_mask(bits);                             \
        const unsigned char *at = r->at;                                                                            \
        const TINYI_VQ_NUMBER *book = TINYI_VQ_C;                                                                   \
        const float *x = r->x;                                                                                      \
        size_t n = r->n, j;                                                                                         \
        LIST(TINYI_VQ_ZERO, 0)                                                                                      \
        LIST(TINYI_VQ_ZERO, 1)                                                                                      \
        for (; n >= 8; n -= 8, x += 8, at += width) {                                                               \
            COLUMN(LIST, VECS, 0, 0) COLUMN(LIST, VECS, 1, 1) COLUMN(LIST, VECS, 0, 2) COLUMN(LIST, VECS, 1, 3)     \
            COLUMN(LIST, VECS, 0, 4) COLUMN(LIST, VECS, 1, 5) COLUMN(LIST, VECS, 0, 6) COLUMN(LIST, VECS, 1, 7)     \
        }                                                                                                           \
        for (j = 0; j < n; j++) COLUMN(LIST, VECS, 0, j)                                                            \
        LIST(TINYI_VQ_KEEP, 0)                                                                                      \
        (void)low;                                                                                                  \
    }
#if V_W128                                  /* one text for words of all widths */
#define TINYI_VQ_WIDTHS(VECS)                                                                                       \
    TINYI_VQ_GATHER(tinyi_vptq_one_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_ONE, (unsigned)r->bits)              \
    TINYI_VQ_GATHER(tinyi_vptq_two_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_TWO, (unsigned)(r->bits + r->bits2)) \
    static void TINY_FN(tinyi_vptq_gather_##VECS)(float *y, const tinyi_vptq_run *r)                                \
    {                                                                                                               \
        (r->d ? TINY_FN(tinyi_vptq_two_##VECS) : TINY_FN(tinyi_vptq_one_##VECS))(y, r);                             \
    }
#else
#define TINYI_VQ_WIDTHS(VECS)                                                                                       \
    TINYI_VQ_GATHER(tinyi_vptq_one8_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_ONE, 8)                             \
    TINYI_VQ_GATHER(tinyi_vptq_one12_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_ONE, 12)                           \
    TINYI_VQ_GATHER(tinyi_vptq_one16_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_ONE, 16)                           \
    TINYI_VQ_GATHER(tinyi_vptq_one_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_ONE, (unsigned)r->bits)              \
    TINYI_VQ_GATHER(tinyi_vptq_two16_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_TWO, 16)                           \
    TINYI_VQ_GATHER(tinyi_vptq_two24_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_TWO, 24)                           \
    TINYI_VQ_GATHER(tinyi_vptq_two_##VECS, TINYI_VQ_LIST##VECS, VECS, TINYI_VQ_TWO, (unsigned)(r->bits + r->bits2)) \
    static void TINY_FN(tinyi_vptq_gather_##VECS)(float *y, const tinyi_vptq_run *r)                                \
    {                                                                                                               \
        const int width = r->bits + r->bits2;                                                                       \
        if (!r->d) (width == 8 ? TINY_FN(tinyi_vptq_one8_##VECS) : width == 12 ? TINY_FN(tinyi_vptq_one12_##VECS) : \
                    width == 16 ? TINY_FN(tinyi_vptq_one16_##VECS) : TINY_FN(tinyi_vptq_one_##VECS))(y, r);         \
        else (width == 16 ? TINY_FN(tinyi_vptq_two16_##VECS) : width == 24 ? TINY_FN(tinyi_vptq_two24_##VECS) :     \
              TINY_FN(tinyi_vptq_two_##VECS))(y, r);                                                                \
    }
#endif
TINYI_VQ_WIDTHS(1)
#if V_LANES <= 8
TINYI_VQ_WIDTHS(2)
#endif
#if V_LANES <= 4
TINYI_VQ_WIDTHS(3)
TINYI_VQ_WIDTHS(4)
#endif
static void TINY_FN(tinyi_vptq_gather)(float *y, const tinyi_vptq_run *r, int pad)
{
    switch (pad / V_LANES) {
#if V_LANES <= 8
    case 2: TINY_FN(tinyi_vptq_gather_2)(y, r); break;
#endif
#if V_LANES <= 4
    case 3: TINY_FN(tinyi_vptq_gather_3)(y, r); break;
    case 4: TINY_FN(tinyi_vptq_gather_4)(y, r); break;
#endif
    default: TINY_FN(tinyi_vptq_gather_1)(y, r);
    }
}
#endif

/* a[code] += x; two books have two lists */
#define TINYI_VQ_ADD1(j) a[tinyi_vptq_word(at, j, width, mask)] += x[j];
#define TINYI_VQ_ADD2(j)                                           \
    {                                                              \
        const uint32_t word = tinyi_vptq_word(at, j, width, mask); \
        a[word & low] += x[j];                                     \
        b[word >> bits] += x[j];                                   \
    }
#define TINYI_VQ_BUCKET(name, ADD, WIDTH)                                                       \
    static void TINY_FN(name)(const tinyi_vptq_run *r)                                          \
    {                                                                                           \
        const unsigned width = (WIDTH);                                                         \
        const int bits = r->bits;                                                               \
        const uint32_t mask = tinyi_vptq_mask((int)width), low = tinyi_vptq_mask(bits);         \
        const unsigned char *at = r->at;                                                        \
        const float *x = r->x;                                                                  \
        float *a = r->bucket, *b = a + ((size_t)1 << bits);                                     \
        size_t n = r->n, j;                                                                     \
        for (; n >= 8; n -= 8, x += 8, at += width) {                                           \
            ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7)                             \
        }                                                                                       \
        for (j = 0; j < n; j++) ADD(j)                                                          \
        (void)b;                                                                                \
        (void)low;                                                                              \
    }
TINYI_VQ_BUCKET(tinyi_vptq_bucket_one8, TINYI_VQ_ADD1, 8)
TINYI_VQ_BUCKET(tinyi_vptq_bucket_one, TINYI_VQ_ADD1, (unsigned)r->bits)
TINYI_VQ_BUCKET(tinyi_vptq_bucket_two16, TINYI_VQ_ADD2, 16)
TINYI_VQ_BUCKET(tinyi_vptq_bucket_two, TINYI_VQ_ADD2, (unsigned)(r->bits + r->bits2))

/* Most of the time goes to additions one by one: arithmetic on 64 bytes would lower the clock for them. */
#if V_AVX512
#define TINYI_VQ_LANES 8
#define TINYI_VQ_F __m256
#define TINYI_VQ_SET(x) _mm256_set1_ps(x)
#define TINYI_VQ_FMA(x, c, sum) \
    _mm256_fmadd_ps(_mm256_set1_ps(x), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(c))), sum)
#define TINYI_VQ_STORE(y, even, odd) _mm256_storeu_ps(y, _mm256_add_ps(even, odd))
#else
#define TINYI_VQ_LANES V_LANES
#define TINYI_VQ_F v_f32
#define TINYI_VQ_SET(x) v_set(x)
#define TINYI_VQ_FMA(x, c, sum) v_fma(v_set(x), TINYI_VQ_LOAD(c), sum)
#define TINYI_VQ_STORE(y, even, odd) v_store(y, v_add(even, odd))
#endif
static void TINY_FN(tinyi_vptq_bucket)(float *y, const tinyi_vptq_run *r, int pad)
{
    const size_t n = (size_t)1 << r->bits, n2 = r->d ? (size_t)1 << r->bits2 : 0;
    size_t c;
    int i;
    for (c = 0; c < n + n2; c++) r->bucket[c] = 0.0f;
    if (!r->d) (r->bits == 8 ? TINY_FN(tinyi_vptq_bucket_one8) : TINY_FN(tinyi_vptq_bucket_one))(r);
    else (r->bits + r->bits2 == 16 ? TINY_FN(tinyi_vptq_bucket_two16) : TINY_FN(tinyi_vptq_bucket_two))(r);
    for (i = 0; i < pad; i += TINYI_VQ_LANES) {
        const float *a = r->bucket, *b = a + n;
        TINYI_VQ_F even = TINYI_VQ_SET(0.0f), odd = even;
        for (c = 0; c < n; c += 2) {        /* a power of two, at least 2 */
            even = TINYI_VQ_FMA(a[c], TINYI_VQ_C + c * (size_t)pad + i, even);
            odd = TINYI_VQ_FMA(a[c + 1], TINYI_VQ_C + (c + 1) * (size_t)pad + i, odd);
        }
        for (c = 0; c < n2; c += 2) {
            even = TINYI_VQ_FMA(b[c], TINYI_VQ_D + c * (size_t)pad + i, even);
            odd = TINYI_VQ_FMA(b[c + 1], TINYI_VQ_D + (c + 1) * (size_t)pad + i, odd);
        }
        TINYI_VQ_STORE(y + i, even, odd);
    }
}
#undef TINYI_VQ_LANES
#undef TINYI_VQ_F
#undef TINYI_VQ_SET
#undef TINYI_VQ_FMA
#undef TINYI_VQ_STORE

static void TINY_FN(tinyi_vptq_tile)(float *to, size_t step, const tinyi_vptq_run *r, int pad)
{
    const unsigned width = (unsigned)(r->bits + r->bits2);
    const uint32_t mask = tinyi_vptq_mask((int)width), low = tinyi_vptq_mask(r->bits);
    size_t j;
    int i;
    for (j = 0; j < r->n; j++, to += step) {
        const uint32_t word = tinyi_vptq_word(r->at, j, width, mask);
        const TINYI_VQ_NUMBER *c = TINYI_VQ_C + (size_t)(word & low) * (size_t)pad,
                              *d = r->d ? TINYI_VQ_D + (size_t)(word >> r->bits) * (size_t)pad : NULL;
        for (i = 0; i < pad; i += V_LANES)
            v_store(to + i, d ? v_add(TINYI_VQ_LOAD(c + i), TINYI_VQ_LOAD(d + i)) : TINYI_VQ_LOAD(c + i));
    }
}

static const tinyi_vptq_kernels TINY_FN(tinyi_vptq_table) = {
    TINYI_PASS_TARGET,       V_LANES, TINYI_VQ_HALF, TINY_FN(tinyi_vptq_gather), TINY_FN(tinyi_vptq_bucket),
    TINY_FN(tinyi_vptq_tile)
};
TINYI_TABLE(tinyi_vptq_kernels, tinyi_vptq_kernels, TINY_FN(tinyi_vptq_table))
#undef TINYI_VQ_LIST1
#undef TINYI_VQ_LIST2
#undef TINYI_VQ_LIST3
#undef TINYI_VQ_LIST4
#undef TINYI_VQ_ZERO
#undef TINYI_VQ_KEEP
#undef TINYI_VQ_FMA1
#undef TINYI_VQ_FMA2
#undef TINYI_VQ_ONE
#undef TINYI_VQ_TWO
#undef TINYI_VQ_GATHER
#undef TINYI_VQ_WIDTHS
#undef TINYI_VQ_ADD1
#undef TINYI_VQ_ADD2
#undef TINYI_VQ_BUCKET
#undef TINYI_VQ_HALF
#undef TINYI_VQ_NUMBER
#undef TINYI_VQ_LOAD
#undef TINYI_VQ_C
#undef TINYI_VQ_D
