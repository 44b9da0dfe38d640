/* src/llm/lab/weave/weave.simd.h - bit-weaved data in vectors, compiled once per target
 *
 * A word holds one bit of 32 features, so s words hold 32 codes of s bits. Turned round between registers, not within
 * them: where bit m of register r and bit r of register m change places, for fields of 2, 4 or 8 bits, register r holds
 * in each field the code of one feature. That is the 8 x 8 transpose of math/bits_inside.h in all lanes at once,
 * without a byte having to be next to another, and the features keep their places because the model is stored as they
 * come. A field becomes a float by one `and` and one conversion: where it stands in the word is a power of two, which
 * the model's numbers have in them already. */

/* x and y exchange the bits of places with h and those of places without */
#define TINYI_WEAVE_TURN(x, y, h, places)                                 \
    do {                                                                  \
        const v_i32 t_ = vi_and(vi_xor(vi_shr(x, h), y), vi_set(places)); \
        y = vi_xor(y, t_);                                                \
        x = vi_xor(x, vi_shl(t_, h));                                     \
    } while (0)
/* plane of bit m of a field of f bits, of which the upper s are there */
#define TINYI_WEAVE_PLANE(m)     \
    if (f > (m) && (m) >= f - s) \
    b[m] = vi_load((const int32_t *)(const void *)(plane + (size_t)(f - 1 - (m)) * V_LANES))
/* number p of 32: field p / f of register p % f. The uppermost field goes down: converted where it stands it would have
 * a sign. */
#define TINYI_WEAVE_ONE(p)                                                                                   \
    do {                                                                                                     \
        const v_i32 c_ = (p) / f == 32 / f - 1 ? vi_shr(b[(p) % f], 32 - f)                                  \
                                               : vi_and(b[(p) % f], vi_set((int32_t)(ones << (p) / f * f))); \
        v_f32 x_ = v_from_i32(c_);                                                                           \
        if (more) x_ = v_fma(x_, v_set(scale), v_load(x + (p)*V_LANES));                                     \
        v_store(x + (p)*V_LANES, x_);                                                                        \
        sum[(p) & (f < 8 ? 7 : 3)] = v_fma(x_, v_load(w + (p)*V_LANES), sum[(p) & (f < 8 ? 7 : 3)]);         \
    } while (0)

/* One part: s planes to 32 vectors of numbers, and their products with w added up by lanes. more: times scale on top of
 * what is in x. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_weave_part)(float *x, float *lanes, const uint32_t *plane, const float *w,
                                                  const int f, int s, const int more, float scale)
{
    const uint32_t ones = (1u << f) - 1;
    /* an addition takes four cycles and two begin in each: eight, where there are registers for them */
    v_f32 sum[8];
    v_i32 b[8];
    int q;
    b[0] = b[1] = b[2] = b[3] = b[4] = b[5] = b[6] = b[7] = vi_zero();
    sum[0] = sum[1] = sum[2] = sum[3] = sum[4] = sum[5] = sum[6] = sum[7] = v_zero();
    TINYI_WEAVE_PLANE(0);
    TINYI_WEAVE_PLANE(1);
    TINYI_WEAVE_PLANE(2);
    TINYI_WEAVE_PLANE(3);
    TINYI_WEAVE_PLANE(4);
    TINYI_WEAVE_PLANE(5);
    TINYI_WEAVE_PLANE(6);
    TINYI_WEAVE_PLANE(7);
    if (f >= 8) {
        TINYI_WEAVE_TURN(b[0], b[4], 4, 0x0f0f0f0f);
        TINYI_WEAVE_TURN(b[1], b[5], 4, 0x0f0f0f0f);
        TINYI_WEAVE_TURN(b[2], b[6], 4, 0x0f0f0f0f);
        TINYI_WEAVE_TURN(b[3], b[7], 4, 0x0f0f0f0f);
        TINYI_WEAVE_TURN(b[4], b[6], 2, 0x33333333);
        TINYI_WEAVE_TURN(b[5], b[7], 2, 0x33333333);
        TINYI_WEAVE_TURN(b[4], b[5], 1, 0x55555555);
        TINYI_WEAVE_TURN(b[6], b[7], 1, 0x55555555);
    }
    if (f >= 4) {
        TINYI_WEAVE_TURN(b[0], b[2], 2, 0x33333333);
        TINYI_WEAVE_TURN(b[1], b[3], 2, 0x33333333);
        TINYI_WEAVE_TURN(b[2], b[3], 1, 0x55555555);
    }
    if (f >= 2) TINYI_WEAVE_TURN(b[0], b[1], 1, 0x55555555);
    TINYI_UNROLL
    for (q = 0; q < 16; q++) {
        TINYI_WEAVE_ONE(2 * q);
        TINYI_WEAVE_ONE(2 * q + 1);
    }
    v_store(lanes, v_add(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])),
                         v_add(v_add(sum[4], sum[5]), v_add(sum[6], sum[7]))));
}

/* Each form by itself: beside another one, compilers take up what both have in common and keep 32 vectors of it on the
 * stack. All samples of a group at once, because a form begins with up to 32 masks. */
#define TINYI_WEAVE_PARTS(name, f, more)                                                                               \
    static TINYI_NOINLINE void TINY_FN(name)(const tinyi_weave_rows *r, const uint32_t *planes, const float *w, int s, \
                                             float scale)                                                              \
    {                                                                                                                  \
        size_t i, v;                                                                                                   \
        for (i = 0; i < r->m; i++) {                                                                                   \
            const uint32_t *plane = planes + i * r->n * r->step;                                                       \
            float *x = r->x + i * r->x_step, *sum = r->sum + i * r->n * V_LANES;                                       \
            for (v = 0; v < r->n; v++)                                                                                 \
                TINY_FN(tinyi_weave_part)                                                                              \
                (x + v * 32 * V_LANES, sum + v * V_LANES, plane + v * r->step, w + v * 32 * V_LANES, f, s, more,       \
                 scale);                                                                                               \
        }                                                                                                              \
    }
TINYI_WEAVE_PARTS(tinyi_weave_parts1, 1, 0)
TINYI_WEAVE_PARTS(tinyi_weave_parts2, 2, 0)
TINYI_WEAVE_PARTS(tinyi_weave_parts4, 4, 0)
TINYI_WEAVE_PARTS(tinyi_weave_parts8, 8, 0)
TINYI_WEAVE_PARTS(tinyi_weave_pieces, 8, 1)

static void TINY_FN(tinyi_weave_expand)(const tinyi_weave_rows *r, const float *w, int bits)
{
    tinyi_weave_rows one = *r;
    size_t i;
    int k;
    if (bits == 1) TINY_FN(tinyi_weave_parts1)(r, r->planes, w, 1, 1.0f);
    else if (bits == 2) TINY_FN(tinyi_weave_parts2)(r, r->planes, w, 2, 1.0f);
    else if (bits <= 4) TINY_FN(tinyi_weave_parts4)(r, r->planes, w, bits, 1.0f);
    else if (bits <= 8) TINY_FN(tinyi_weave_parts8)(r, r->planes, w, bits, 1.0f);
    if (bits <= 8) return;
    for (one.m = 1, i = 0; i < r->m;
         i++, one.planes += one.n * one.step, one.x += one.x_step, one.sum += one.n * V_LANES) {
        float scale = 1.0f / 256.0f;
        TINY_FN(tinyi_weave_parts8)(&one, one.planes, w, 8, 1.0f);
        /* pieces of eight bits; the product with the last one is of all */
        for (k = 8; k < bits; k += 8, scale *= 1.0f / 256.0f)
            TINY_FN(tinyi_weave_pieces)(&one, one.planes + (size_t)k * V_LANES, w, bits - k < 8 ? bits - k : 8, scale);
    }
}
#undef TINYI_WEAVE_TURN
#undef TINYI_WEAVE_PLANE
#undef TINYI_WEAVE_ONE
#undef TINYI_WEAVE_PARTS

#if V_AVX2 || V_AVX512
/* eight words of eight samples, which go `step` words apart: from four blocks, of which `there` are data */
TINYI_INLINE void TINY_FN(tinyi_weave_take8)(uint32_t *to, size_t step, const unsigned char *at, size_t there,
                                             size_t ahead)
{
    size_t i;
    for (i = 0; ahead && i < TINYI_MIN(there, 4); i++) TINYI_WEAVE_AHEAD(at + ahead + i * TINYI_WEAVE_BLOCK);
    for (i = 0; i < 8; i += 4, at += 32, to += 4 * step) {
        __m256i a[4], b[4];
        size_t l;
        TINYI_UNROLL
        for (l = 0; l < 4; l++)
            a[l] = l < there ? _mm256_loadu_si256((const __m256i *)(const void *)(at + l * TINYI_WEAVE_BLOCK))
                             : _mm256_setzero_si256();
        b[0] = _mm256_unpacklo_epi64(a[0], a[1]);
        b[1] = _mm256_unpackhi_epi64(a[0], a[1]);
        b[2] = _mm256_unpacklo_epi64(a[2], a[3]);
        b[3] = _mm256_unpackhi_epi64(a[2], a[3]);
        TINYI_UNROLL
        for (l = 0; l < 4; l++)
            _mm256_storeu_si256((__m256i *)(void *)(to + l * step),
                                l < 2 ? _mm256_permute2x128_si256(b[l], b[l + 2], 0x20)
                                      : _mm256_permute2x128_si256(b[l - 2], b[l], 0x31));
    }
}
#endif
/* The words of a group, sample by sample: those of one sample lie 2048 bytes apart in pairs, those of the eight samples
 * side by side. */
static void TINY_FN(tinyi_weave_take)(uint32_t *planes, const unsigned char *group, size_t chunks, size_t first,
                                      size_t n, int bits, size_t ahead)
{
    const size_t one = n * (size_t)bits * V_LANES;
    size_t v, i, l;
    int k;
    for (v = 0; v < n; v++) {
        const size_t word = (first + v) * V_LANES;
        for (k = 0; k < bits; k++) {
            uint32_t *to = planes + (v * (size_t)bits + (size_t)k) * V_LANES;
#if V_AVX2 || V_AVX512
            size_t h;
            for (h = 0; h < V_LANES; h += 8)
                TINY_FN(tinyi_weave_take8)
                (to + h, one, group + (word + h) / 2 * TINYI_WEAVE_BLOCK + 64 * (size_t)k,
                 chunks > (word + h) / 2 ? chunks - (word + h) / 2 : 0, ahead);
            (void)i;
            (void)l;
#else
            for (l = 0; l < V_LANES; l++) {
                const int there = word + l < 2 * chunks;
                if (there && ahead && !(l & 1))
                    TINYI_WEAVE_AHEAD(group + ahead + (word + l) / 2 * TINYI_WEAVE_BLOCK + 64 * (size_t)k);
                for (i = 0; i < 8; i++) to[i * one + l] = there ? tinyi_weave_word(group, word + l, i, k) : 0;
            }
#endif
        }
    }
}

static void TINY_FN(tinyi_weave_products)(float *sum, const float *a, const float *b, size_t n)
{
    size_t v, p;
    for (v = 0; v < n; v++, a += 32 * V_LANES, b += 32 * V_LANES) {
        v_f32 s0 = v_zero(), s1 = v_zero();
        for (p = 0; p < 32 * V_LANES; p += 2 * V_LANES) {
            s0 = v_fma(v_load(a + p), v_load(b + p), s0);
            s1 = v_fma(v_load(a + p + V_LANES), v_load(b + p + V_LANES), s1);
        }
        v_store(sum + v * V_LANES, v_add(s0, s1));
    }
}

/* lanes of all parts, one part after the other, then those of a sample: a sum across lanes for each part would take as
 * long as its products */
static void TINY_FN(tinyi_weave_collect)(float *lanes, const float *sum, size_t m, size_t n, int first)
{
    size_t i, v;
    for (i = 0; i < m; i++, lanes += V_LANES) {
        v_f32 s = first ? v_zero() : v_load(lanes);
        for (v = 0; v < n; v++, sum += V_LANES) s = v_add(s, v_load(sum));
        v_store(lanes, s);
    }
}
static void TINY_FN(tinyi_weave_across)(float *z, const float *lanes, size_t m)
{
    size_t i;
    for (i = 0; i < m; i++) z[i] = v_sum(v_load(lanes + i * V_LANES));
}

/* m samples at once, so that g is read and written once for all of them; always in their order */
TINYI_FORCE_INLINE void TINY_FN(tinyi_weave_add_m)(float *g, const float *const *x, const float *d, const int m,
                                                   size_t n, int first)
{
    const float *row[8];                    /* in registers: x would be read anew for every vector */
    v_f32 by[8];
    size_t p;
    int i;
    TINYI_UNROLL
    for (i = 0; i < m; i++) {
        by[i] = v_set(d[i]);
        row[i] = x[i];
    }
    for (p = 0; p < n * 32 * V_LANES; p += V_LANES) {
        v_f32 s = first ? v_zero() : v_load(g + p);
        TINYI_UNROLL
        for (i = 0; i < m; i++) s = v_fma(by[i], v_load(row[i] + p), s);
        v_store(g + p, s);
    }
}
static void TINY_FN(tinyi_weave_add)(float *g, const float *const *x, const float *d, int m, size_t n, int first)
{
    int i = 0;
    if (!m && first) memset(g, 0, n * 32 * V_LANES * sizeof *g);
    for (; m - i >= 8; i += 8, first = 0) TINY_FN(tinyi_weave_add_m)(g, x + i, d + i, 8, n, first);
    for (; m - i >= 4; i += 4, first = 0) TINY_FN(tinyi_weave_add_m)(g, x + i, d + i, 4, n, first);
    for (; i < m; i++, first = 0) TINY_FN(tinyi_weave_add_m)(g, x + i, d + i, 1, n, first);
}

static void TINY_FN(tinyi_weave_step)(float *w, const float *g, const float *scale, size_t n, const tinyi_weave_step *s)
{
    const v_f32 shrink = v_set(s->shrink);
    size_t v, p;
    for (v = 0; v < n; v++)
        for (p = 0; p < 32; p++, w += V_LANES, g += V_LANES) {
            if (s->fixed) {                 /* w' - scale 2^-23 floor(2^23 by scale g) */
                const v_f32 whole = v_floor(v_mul(v_load(g), v_set(s->by * scale[p] * 8388608.0f)));
                v_store(w, v_fnma(v_set(scale[p] * (1.0f / 8388608.0f)), whole, v_mul(v_load(w), shrink)));
            } else v_store(w, v_fnma(v_set(s->by * scale[p] * scale[p]), v_load(g), v_mul(v_load(w), shrink)));
        }
}

/* Each bit of a word decides over one number of w: added up for the lowest bit, halved, the next one on top of it. */
static float TINY_FN(tinyi_weave_masked)(const unsigned char *group, size_t sample, size_t chunks, int bits,
                                         const float *w)
{
    v_f32 sum = v_zero();
    size_t c, h, p;
    int k;
#if !V_AVX512 && V_LANES > 1
    int32_t place[V_LANES];
    v_i32 at;
    for (p = 0; p < V_LANES; p++) place[p] = 1 << p;
    at = vi_load(place);
#endif
    for (c = 0; c < chunks; c++, w += 64) {
        v_f32 s0 = v_zero(), s1 = v_zero();
        for (k = bits; k-- > 0;) {
            for (h = 0; h < 2; h++) {
                const uint32_t word = tinyi_weave_word(group, 2 * c + h, sample, k);
                const float *u = w + 32 * h;
#if V_AVX512
                s0 = _mm512_mask_add_ps(s0, (__mmask16)word, s0, v_load(u));
                s1 = _mm512_mask_add_ps(s1, (__mmask16)(word >> 16), s1, v_load(u + 16));
                (void)p;
#elif V_LANES > 1
                for (p = 0; p < 32; p += 2 * V_LANES) {
                    const v_i32 a = vi_set((int32_t)(word >> p)), b = vi_set((int32_t)(word >> (p + V_LANES)));
                    s0 = v_add(s0, v_select(vi_eq(vi_and(a, at), at), v_load(u + p), v_zero()));
                    s1 = v_add(s1, v_select(vi_eq(vi_and(b, at), at), v_load(u + p + V_LANES), v_zero()));
                }
#else
                for (p = 0; p < 32; p += 2) {
                    s0 = v_add(s0, word >> p & 1 ? u[p] : 0.0f);
                    s1 = v_add(s1, word >> (p + 1) & 1 ? u[p + 1] : 0.0f);
                }
#endif
            }
            s0 = v_mul(s0, v_set(0.5f));
            s1 = v_mul(s1, v_set(0.5f));
        }
        sum = v_add(sum, v_add(s0, s1));
    }
    return v_sum(sum);
}

static const tinyi_weave_kernels TINY_FN(tinyi_weave_table) = { TINYI_PASS_TARGET,
                                                                V_LANES,
                                                                V_AVX512 ? 1 : 0,
                                                                TINY_FN(tinyi_weave_take),
                                                                TINY_FN(tinyi_weave_expand),
                                                                TINY_FN(tinyi_weave_products),
                                                                TINY_FN(tinyi_weave_collect),
                                                                TINY_FN(tinyi_weave_across),
                                                                TINY_FN(tinyi_weave_add),
                                                                TINY_FN(tinyi_weave_step),
                                                                TINY_FN(tinyi_weave_masked) };
TINYI_TABLE(tinyi_weave_kernels, tinyi_weave_kernels, TINY_FN(tinyi_weave_table))
