/* src/math/attention_few.simd.h - the steps of a tile of few rows: keys and values as they lie in memory, each read
 * once
 *
 * One token has a handful of rows, the heads of a group, and its keys and values come from memory: so a number is used
 * for all rows while it stands in a register. Types are told apart where a vector is loaded: f32, f16, and blocks of 34
 * bytes (an f16 factor and 32 signed bytes), which become floats in registers. Eight sums are kept, which hides the
 * latency of a multiply-add: 8 keys for one row, 4 for two, 2 for four; of values 4 vectors for one row (two keys in
 * turn) and for two, 2 for four. Rows that are not there repeat the last one; their sums are dropped.
 *
 * A processor follows a stream to the end of its page of memory at best, and the pages of a cache lie anywhere. So keys
 * ask for the keys of the next tile, and values for its values: 2 to 32 KB ahead, some lines a step. Asked for a tile
 * of the other kind ahead, half as far, some came late. */

#define TINYI_FEW_ZERO                                                                                             \
    v_f32 a0 = v_zero(), a1 = v_zero(), a2 = v_zero(), a3 = v_zero(), a4 = v_zero(), a5 = v_zero(), a6 = v_zero(), \
          a7 = v_zero();

/* a vector from number i of a row on; r: how many there are */
#define TINYI_FEW_F32(w, i) v_load((const float *)(const void *)(w) + (i))
#define TINYI_FEW_F16(w, i) v_load_f16((const uint16_t *)(const void *)(w) + (i))
#define TINYI_FEW_Q8(w, i) v_from_i32(vi_load_i8((const int8_t *)(w) + (i)))
#define TINYI_FEW_F32_N(w, i) v_load_n((const float *)(const void *)(w) + (i), r)
#define TINYI_FEW_F16_N(w, i) v_load_f16_n((const uint16_t *)(const void *)(w) + (i), r)
#define TINYI_FEW_Q8_N(w, i) TINYI_FEW_Q8(w, i)                /* blocks are whole vectors */
/* times the factor of its block, where blocks have one */
#define TINYI_FEW_TIMES(Q, x, g) ((Q) ? v_mul(x, g) : (x))
/* the factors of the blocks up to that of number i push it back by so many bytes */
#define TINYI_FEW_PUSH(Q, i) ((Q) ? (i) / 32 * 2 + 2 : 0)

/* a vector that is used twice is loaded once */
#if V_AVX512 && TINYI_GCC
#define TINYI_FEW_PIN(x) __asm__("" : "+v"(x))
#elif V_AVX2 && TINYI_GCC
#define TINYI_FEW_PIN(x) __asm__("" : "+x"(x))
#else
#define TINYI_FEW_PIN(x) ((void)0)
#endif

/* Asks for bytes from .. to of what comes next, a line of each span in turn: four streams side by side are read half as
 * fast again as one after the other (25 and 17 GB/s of a Zen 3 core, in pieces of 2 to 8 KB); where it ended. */
TINYI_FORCE_INLINE tiny_idx TINY_FN(tinyi_attention_ask)(const tinyi_att_span *x, int n_x, tiny_idx from, tiny_idx to)
{
    int k;
    for (; from < to; from += 64)
        for (k = 0; k < n_x; k++)
            if (x[k].ahead) TINYI_PREFETCH((const unsigned char *)x[k].ahead + from);
    return from;
}

/* ---- keys: a[k R + j] is the sum of key k and row j */
#define TINYI_FEW_Y(j) v_load(q##j + i)
#define TINYI_FEW_Y_N(j) v_load_n(q##j + i, r)
#define TINYI_FEW_KEYS1(Q, LOAD, Y)                                    \
    {                                                                  \
        const v_f32 t = Y(0);                                          \
        a0 = v_fma(TINYI_FEW_TIMES(Q, LOAD(w0, i + push), g0), t, a0); \
        a1 = v_fma(TINYI_FEW_TIMES(Q, LOAD(w1, i + push), g1), t, a1); \
        a2 = v_fma(TINYI_FEW_TIMES(Q, LOAD(w2, i + push), g2), t, a2); \
        a3 = v_fma(TINYI_FEW_TIMES(Q, LOAD(w3, i + push), g3), t, a3); \
        a4 = v_fma(TINYI_FEW_TIMES(Q, LOAD(w4, i + push), g4), t, a4); \
        a5 = v_fma(TINYI_FEW_TIMES(Q, LOAD(w5, i + push), g5), t, a5); \
        a6 = v_fma(TINYI_FEW_TIMES(Q, LOAD(w6, i + push), g6), t, a6); \
        a7 = v_fma(TINYI_FEW_TIMES(Q, LOAD(w7, i + push), g7), t, a7); \
    }
#define TINYI_FEW_KEYS2(Q, LOAD, Y)                                                                                   \
    {                                                                                                                 \
        const v_f32 t0 = Y(0), t1 = Y(1);                                                                             \
        v_f32 x = TINYI_FEW_TIMES(Q, LOAD(w0, i + push), g0); a0 = v_fma(x, t0, a0); a1 = v_fma(x, t1, a1);           \
        x = TINYI_FEW_TIMES(Q, LOAD(w1, i + push), g1); a2 = v_fma(x, t0, a2); a3 = v_fma(x, t1, a3);                 \
        x = TINYI_FEW_TIMES(Q, LOAD(w2, i + push), g2); a4 = v_fma(x, t0, a4); a5 = v_fma(x, t1, a5);                 \
        x = TINYI_FEW_TIMES(Q, LOAD(w3, i + push), g3); a6 = v_fma(x, t0, a6); a7 = v_fma(x, t1, a7);                 \
    }
#define TINYI_FEW_KEYS4(Q, LOAD, Y) \
    { \
        const v_f32 x0 = TINYI_FEW_TIMES(Q, LOAD(w0, i + push), g0), x1 = TINYI_FEW_TIMES(Q, LOAD(w1, i + push), g1); \
        v_f32 t = Y(0); TINYI_FEW_PIN(t); a0 = v_fma(x0, t, a0); a4 = v_fma(x1, t, a4); \
        t = Y(1); TINYI_FEW_PIN(t); a1 = v_fma(x0, t, a1); a5 = v_fma(x1, t, a5); \
        t = Y(2); TINYI_FEW_PIN(t); a2 = v_fma(x0, t, a2); a6 = v_fma(x1, t, a6); \
        t = Y(3); TINYI_FEW_PIN(t); a3 = v_fma(x0, t, a3); a7 = v_fma(x1, t, a7); \
    }
#define TINYI_FEW_AT(k) w##k = w + TINYI_MIN(k, left - 1) * row
#define TINYI_FEW_AT1 const unsigned char *TINYI_FEW_AT(0), *TINYI_FEW_AT(1), *TINYI_FEW_AT(2), *TINYI_FEW_AT(3), \
                                          *TINYI_FEW_AT(4), *TINYI_FEW_AT(5), *TINYI_FEW_AT(6), *TINYI_FEW_AT(7);
#define TINYI_FEW_AT2 const unsigned char *TINYI_FEW_AT(0), *TINYI_FEW_AT(1), *TINYI_FEW_AT(2), *TINYI_FEW_AT(3);
#define TINYI_FEW_AT4 const unsigned char *TINYI_FEW_AT(0), *TINYI_FEW_AT(1);
#define TINYI_FEW_G(k) g##k = v_set(g[TINYI_MIN(k, left - 1) * n_factor])
#define TINYI_FEW_G1                                                                                                \
    TINYI_FEW_G(0), TINYI_FEW_G(1), TINYI_FEW_G(2), TINYI_FEW_G(3), TINYI_FEW_G(4), TINYI_FEW_G(5), TINYI_FEW_G(6), \
        TINYI_FEW_G(7)
#define TINYI_FEW_G2 TINYI_FEW_G(0), TINYI_FEW_G(1), TINYI_FEW_G(2), TINYI_FEW_G(3)
#define TINYI_FEW_G4 TINYI_FEW_G(0), TINYI_FEW_G(1)
#define TINYI_FEW_UNUSED4 (void)g0; (void)g1;
#define TINYI_FEW_UNUSED2 TINYI_FEW_UNUSED4 (void)g2; (void)g3;
#define TINYI_FEW_UNUSED1 TINYI_FEW_UNUSED2 (void)g4; (void)g5; (void)g6; (void)g7;
#define TINYI_FEW_DOT(R, name, Q, LOAD, LOAD_N)                                                                    \
    static void TINY_FN(name##R)(float *s, tiny_idx ld, const tinyi_att_span *span, int n_span, tiny_idx row,      \
                                 const float *factor, tiny_idx n_factor, const float *q, int n_row, tiny_idx d,    \
                                 tiny_idx ahead_row)                                                               \
    {                                                                                                              \
        enum { N = 8 / R };                                                                                        \
        const float *q0 = q, *q1 = q + TINYI_MIN(1, n_row - 1) * d, *q2 = q + TINYI_MIN(2, n_row - 1) * d,         \
                    *q3 = q + (n_row - 1) * d;                                                                     \
        const tiny_idx step = N * ahead_row / n_span + 1;                                                          \
        tiny_idx asked = 0, ask = 0;                                                                               \
        int c, k, m;                                                                                               \
        (void)q1;                                                                                                  \
        (void)q2;                                                                                                  \
        (void)q3;                                                                                                  \
        for (m = 0; m < n_span; s += span[m].n * ld, factor += span[m].n * n_factor, m++) {                        \
            const unsigned char *w = (const unsigned char *)span[m].at;                                            \
            const int n = (int)span[m].n;                                                                          \
            for (c = 0; c < n; c += N, w += N * row) {                                                             \
                const int left = n - c;                                                                            \
                const float *g = factor + c * n_factor;                                                            \
                tiny_idx i = 0, end = (Q) ? 32 : d;                                                                \
                TINYI_FEW_AT##R TINYI_FEW_ZERO if (ahead_row) asked =                                              \
                    TINY_FN(tinyi_attention_ask)(span, n_span, asked, ask += step);                                \
                for (; i < d; end += 32, g++) {                                                                    \
                    const tiny_idx push = TINYI_FEW_PUSH(Q, i);                                                    \
                    const v_f32 TINYI_FEW_G##R;                                                                    \
                    TINYI_FEW_UNUSED##R for (; i + V_LANES <= end; i += V_LANES)                                   \
                        TINYI_FEW_KEYS##R(Q, LOAD, TINYI_FEW_Y) if (!(Q))                                          \
                    {                                                                                              \
                        const size_t r = (size_t)(d - i);                                                          \
                        if (r) TINYI_FEW_KEYS##R(Q, LOAD_N, TINYI_FEW_Y_N) break;                                  \
                    }                                                                                              \
                }                                                                                                  \
                if (R == 4) {                                                                                      \
                    v_sum4(s + c * ld, a0, a1, a2, a3);                                                            \
                    if (left > 1) v_sum4(s + (c + 1) * ld, a4, a5, a6, a7);                                        \
                } else if (ld == R) { /* in the places of keys that are not there: written later, or never read */ \
                    v_sum4(s + c * R, a0, a1, a2, a3);                                                             \
                    v_sum4(s + c * R + 4, a4, a5, a6, a7);                                                         \
                } else {                                                                                           \
                    float t[8];                                                                                    \
                    v_sum4(t, a0, a1, a2, a3);                                                                     \
                    v_sum4(t + 4, a4, a5, a6, a7);                                                                 \
                    for (k = 0; k < TINYI_MIN(N, left) * R; k++) s[(c + k / R) * ld + k % R] = t[k];               \
                }                                                                                                  \
                (void)k;                                                                                           \
            }                                                                                                      \
        }                                                                                                          \
    }

/* ---- values: a[j 8 / R + w] is the sum of row j and vector w; of one row a4 to a7 are those of every other key */
#define TINYI_FEW_VALUES(LOAD, A, B, C, D) \
    { \
        A = v_fma(LOAD(w, i + push0), t0, A); B = v_fma(LOAD(w, i + V_LANES + push0), t0, B); \
        C = v_fma(LOAD(w, i + 2 * V_LANES + push1), t1, C); D = v_fma(LOAD(w, i + 3 * V_LANES + push1), t1, D); \
    }
#define TINYI_FEW_VALUES1(Q, LOAD) \
    {                                       /* few rows: the factor goes to the weight */ \
        const v_f32 t = v_set(p[0]), t0 = TINYI_FEW_TIMES(Q, t, g0), t1 = TINYI_FEW_TIMES(Q, t, g1); \
        if (c & 1) TINYI_FEW_VALUES(LOAD, a4, a5, a6, a7) \
        else TINYI_FEW_VALUES(LOAD, a0, a1, a2, a3) \
    }
#define TINYI_FEW_VALUES2(Q, LOAD) \
    { \
        const v_f32 t0 = v_set(p[0]), t1 = v_set(p[1]); \
        v_f32 y0 = TINYI_FEW_TIMES(Q, t0, g0), y1 = TINYI_FEW_TIMES(Q, t1, g0), x; \
        x = LOAD(w, i + push0); a0 = v_fma(x, y0, a0); a4 = v_fma(x, y1, a4); \
        x = LOAD(w, i + V_LANES + push0); a1 = v_fma(x, y0, a1); a5 = v_fma(x, y1, a5); \
        if ((Q) && 4 * V_LANES > 32) { \
            y0 = v_mul(t0, g1); \
            y1 = v_mul(t1, g1); \
        } \
        x = LOAD(w, i + 2 * V_LANES + push1); a2 = v_fma(x, y0, a2); a6 = v_fma(x, y1, a6); \
        x = LOAD(w, i + 3 * V_LANES + push1); a3 = v_fma(x, y0, a3); a7 = v_fma(x, y1, a7); \
    }
#define TINYI_FEW_VALUES4(Q, LOAD)                                             \
    {                                                                          \
        const v_f32 x0 = TINYI_FEW_TIMES(Q, LOAD(w, i + push0), g0),           \
                    x1 = TINYI_FEW_TIMES(Q, LOAD(w, i + V_LANES + push0), g0); \
        v_f32 t = v_set(p[0]);                                                 \
        a0 = v_fma(x0, t, a0);                                                 \
        a1 = v_fma(x1, t, a1);                                                 \
        t = v_set(p[1]);                                                       \
        a2 = v_fma(x0, t, a2);                                                 \
        a3 = v_fma(x1, t, a3);                                                 \
        t = v_set(p[2]);                                                       \
        a4 = v_fma(x0, t, a4);                                                 \
        a5 = v_fma(x1, t, a5);                                                 \
        t = v_set(p[3]);                                                       \
        a6 = v_fma(x0, t, a6);                                                 \
        a7 = v_fma(x1, t, a7);                                                 \
    }
/* one vector of up to four rows */
#define TINYI_FEW_LAST(Q, LOAD) \
    { \
        const v_f32 x = TINYI_FEW_TIMES(Q, LOAD(w, i + push0), g0); \
        a0 = v_fma(x, v_set(p[0]), a0); \
        if (n_row > 1) a1 = v_fma(x, v_set(p[1]), a1); \
        if (n_row > 2) a2 = v_fma(x, v_set(p[2]), a2); \
        if (n_row > 3) a3 = v_fma(x, v_set(p[3]), a3); \
    }
#define TINYI_FEW_PUT(j, at, A)                       \
    if ((j) < n_row) {                                \
        float *y = acc + (j)*d_v + i + (at);          \
        v_store(y, v_fma(v_set(f[j]), v_load(y), A)); \
    }
#define TINYI_FEW_PUT_N(j, A)                                   \
    if ((j) < n_row) {                                          \
        float *y = acc + (j)*d_v + i;                           \
        v_store_n(y, v_fma(v_set(f[j]), v_load_n(y, r), A), r); \
    }
#define TINYI_FEW_PUTS1 TINYI_FEW_PUT(0, 0, v_add(a0, a4)) TINYI_FEW_PUT(0, V_LANES, v_add(a1, a5)) \
                        TINYI_FEW_PUT(0, 2 * V_LANES, v_add(a2, a6)) TINYI_FEW_PUT(0, 3 * V_LANES, v_add(a3, a7))
#define TINYI_FEW_PUTS2                                                                               \
    TINYI_FEW_PUT(0, 0, a0)                                                                           \
    TINYI_FEW_PUT(0, V_LANES, a1) TINYI_FEW_PUT(0, 2 * V_LANES, a2) TINYI_FEW_PUT(0, 3 * V_LANES, a3) \
        TINYI_FEW_PUT(1, 0, a4) TINYI_FEW_PUT(1, V_LANES, a5) TINYI_FEW_PUT(1, 2 * V_LANES, a6)       \
            TINYI_FEW_PUT(1, 3 * V_LANES, a7)
#define TINYI_FEW_PUTS4                                                                                         \
    TINYI_FEW_PUT(0, 0, a0)                                                                                     \
    TINYI_FEW_PUT(0, V_LANES, a1) TINYI_FEW_PUT(1, 0, a2) TINYI_FEW_PUT(1, V_LANES, a3) TINYI_FEW_PUT(2, 0, a4) \
        TINYI_FEW_PUT(2, V_LANES, a5) TINYI_FEW_PUT(3, 0, a6) TINYI_FEW_PUT(3, V_LANES, a7)
#define TINYI_FEW_MIX(R, name, Q, LOAD, LOAD_N)                                                             \
    static void TINY_FN(name##R)(float *acc, tiny_idx d_v, const float *p0, tiny_idx ld, const float *f,    \
                                 const tinyi_att_span *span, int n_span, tiny_idx row, const float *factor, \
                                 tiny_idx n_factor, tiny_idx ahead_row, int n_row)                          \
    {                                                                                                       \
        enum { WIDE = (R == 4 ? 2 : 4) * V_LANES };                                                         \
        const tiny_idx step = span[0].n * ahead_row / (TINYI_MAX(d_v / WIDE, 1) * n_span) + 1;              \
        tiny_idx i = 0, asked = 0, ask = 0;                                                                 \
        int k, c;                                                                                           \
        for (; i + WIDE <= d_v; i += WIDE) {                                                                \
            const tiny_idx push0 = TINYI_FEW_PUSH(Q, i), push1 = TINYI_FEW_PUSH(Q, i + 2 * V_LANES);        \
            const float *p = p0, *g = factor + ((Q) ? i / 32 : 0);                                          \
            TINYI_FEW_ZERO(void) push1;                                                                     \
            for (k = 0; k < n_span; k++) {                                                                  \
                const unsigned char *w = (const unsigned char *)span[k].at;                                 \
                if (ahead_row) asked = TINY_FN(tinyi_attention_ask)(span, n_span, asked, ask += step);      \
                for (c = 0; c < span[k].n; c++, w += row, p += ld, g += n_factor) {                         \
                    const v_f32 g0 = v_set(*g), g1 = (Q) && WIDE > 32 ? v_set(g[1]) : g0;                   \
                    (void)g0;                                                                               \
                    (void)g1;                                                                               \
                    TINYI_FEW_VALUES##R(Q, LOAD)                                                            \
                }                                                                                           \
            }                                                                                               \
            TINYI_FEW_PUTS##R                                                                               \
        }                                                                                                   \
        for (; i < d_v; i += V_LANES) {                                                                     \
            const tiny_idx push0 = TINYI_FEW_PUSH(Q, i);                                                    \
            const size_t r = (size_t)TINYI_MIN(d_v - i, V_LANES);                                           \
            const float *p = p0, *g = factor + ((Q) ? i / 32 : 0);                                          \
            v_f32 a0 = v_zero(), a1 = v_zero(), a2 = v_zero(), a3 = v_zero();                               \
            for (k = 0; k < n_span; k++) {                                                                  \
                const unsigned char *w = (const unsigned char *)span[k].at;                                 \
                for (c = 0; c < span[k].n; c++, w += row, p += ld, g += n_factor) {                         \
                    const v_f32 g0 = v_set(*g);                                                             \
                    (void)g0;                                                                               \
                    if (r == V_LANES) TINYI_FEW_LAST(Q, LOAD)                                               \
                    else TINYI_FEW_LAST(Q, LOAD_N)                                                          \
                }                                                                                           \
            }                                                                                               \
            TINYI_FEW_PUT_N(0, a0) TINYI_FEW_PUT_N(1, a1) TINYI_FEW_PUT_N(2, a2) TINYI_FEW_PUT_N(3, a3)     \
        }                                                                                                   \
    }

/* Forms of one, two and four rows; the plainest targets have fewer: w128 one and four, scalar one row after the
 * other */
#if V_SCALAR
#define TINYI_FEW_EACH_R(X, name, Q, LOAD, LOAD_N) X(1, name, Q, LOAD, LOAD_N)
#elif V_W128
#define TINYI_FEW_EACH_R(X, name, Q, LOAD, LOAD_N) X(1, name, Q, LOAD, LOAD_N) X(4, name, Q, LOAD, LOAD_N)
#else
#define TINYI_FEW_EACH_R(X, name, Q, LOAD, LOAD_N) \
    X(1, name, Q, LOAD, LOAD_N) X(2, name, Q, LOAD, LOAD_N) X(4, name, Q, LOAD, LOAD_N)
#endif
#define TINYI_FEW_TYPE(name, Q, LOAD)                                                                                 \
    TINYI_FEW_EACH_R(TINYI_FEW_DOT, tinyi_attention_dot_##name, Q, LOAD, LOAD##_N)                                    \
    TINYI_FEW_EACH_R(TINYI_FEW_MIX, tinyi_attention_blend_##name, Q, LOAD, LOAD##_N)
TINYI_FEW_TYPE(f32, 0, TINYI_FEW_F32)
TINYI_FEW_TYPE(f16, 0, TINYI_FEW_F16)
TINYI_FEW_TYPE(q8, 1, TINYI_FEW_Q8)

/* the factors of blocks, a row after the other, as floats */
static void TINY_FN(tinyi_attention_factors)(float *to, const tinyi_att_span *x, int n_x, tiny_idx row,
                                             tiny_idx n_block)
{
    uint16_t h[TINYI_ATT_KEYS * TINYI_ATT_BLOCKS + V_LANES];
    tiny_idx n = 0, i, b;
    int k, c;
    for (k = 0; k < n_x; k++) {
        const unsigned char *w = (const unsigned char *)x[k].at;
        for (c = 0; c < x[k].n; c++, w += row)
            for (b = 0; b < n_block; b++) h[n++] = (uint16_t)(w[34 * b] | w[34 * b + 1] << 8);
    }
    for (i = 0; i < V_LANES; i++) h[n + i] = 0;
    for (i = 0; i < n; i += V_LANES) v_store(to + i, v_load_f16(h + i));
}

#define TINYI_FEW_PICK(form, R)                                         \
    (type == TINYI_ATT_F32   ? TINY_FN(tinyi_attention_##form##_f32##R) \
     : type == TINYI_ATT_F16 ? TINY_FN(tinyi_attention_##form##_f16##R) \
                             : TINY_FN(tinyi_attention_##form##_q8##R))
#if V_SCALAR
#define TINYI_FEW_ROWS(left) 1
#define TINYI_FEW_FORM(form) TINYI_FEW_PICK(form, 1)
#elif V_W128
#define TINYI_FEW_ROWS(left) TINYI_MIN(left, 4)
#define TINYI_FEW_FORM(form) (r == 1 ? TINYI_FEW_PICK(form, 1) : TINYI_FEW_PICK(form, 4))
#else
#define TINYI_FEW_ROWS(left) TINYI_MIN(left, 4)
#define TINYI_FEW_FORM(form) \
    (r == 1 ? TINYI_FEW_PICK(form, 1) : r == 2 ? TINYI_FEW_PICK(form, 2) : TINYI_FEW_PICK(form, 4))
#endif
static void TINY_FN(tinyi_attention_dot)(float *s, tiny_idx ld, const tinyi_att_span *x, int n_x, int type,
                                         tiny_idx row, const float *q, int n_row, tiny_idx d)
{
    float room[TINYI_ATT_KEYS * TINYI_ATT_BLOCKS + V_LANES];
    const tiny_idx n_factor = type == TINYI_ATT_Q8 ? d / 32 : 0;
    int j, r;
    room[0] = 0.0f;
    if (n_factor) TINY_FN(tinyi_attention_factors)(room, x, n_x, row, n_factor);
    for (j = 0; j < n_row; j += r) {
        r = TINYI_FEW_ROWS(n_row - j);
        TINYI_FEW_FORM(dot)(s + j, ld, x, n_x, row, room, n_factor, q + j * d, r, d, j ? 0 : row);
    }
}

static void TINY_FN(tinyi_attention_blend)(float *acc, tiny_idx d_v, const float *p, tiny_idx ld, const float *f,
                                           const tinyi_att_span *x, int n_x, int type, tiny_idx row, int n_row)
{
    float room[TINYI_ATT_KEYS * TINYI_ATT_BLOCKS + V_LANES];
    const tiny_idx n_factor = type == TINYI_ATT_Q8 ? d_v / 32 : 0;
    int j, r;
    room[0] = 0.0f;
    if (n_factor) TINY_FN(tinyi_attention_factors)(room, x, n_x, row, n_factor);
    for (j = 0; j < n_row; j += r) {
        r = TINYI_FEW_ROWS(n_row - j);
        TINYI_FEW_FORM(blend)(acc + j * d_v, d_v, p + j, ld, f + j, x, n_x, row, room, n_factor, j ? 0 : row, r);
    }
}

static void TINY_FN(tinyi_use_attention)(tinyi_kernels *k)
{
    TINYI_USE(k, attention_scores_f32);
    TINYI_USE(k, attention_cap_f32);
    TINYI_USE(k, attention_weights_f32);
    TINYI_USE(k, attention_peak_f32);
    TINYI_USE(k, attention_level_f32);
    TINYI_USE(k, attention_weigh_f32);
    TINYI_USE(k, attention_split_f32);
    TINYI_USE(k, attention_mix_f32);
    TINYI_USE(k, attention_finite_f32);
    TINYI_USE(k, attention_dot);
    TINYI_USE(k, attention_blend);
}
#undef TINYI_FEW_AT
#undef TINYI_FEW_AT1
#undef TINYI_FEW_AT2
#undef TINYI_FEW_AT4
#undef TINYI_FEW_DOT
#undef TINYI_FEW_EACH_R
#undef TINYI_FEW_F16
#undef TINYI_FEW_F16_N
#undef TINYI_FEW_F32
#undef TINYI_FEW_F32_N
#undef TINYI_FEW_FORM
#undef TINYI_FEW_G
#undef TINYI_FEW_G1
#undef TINYI_FEW_G2
#undef TINYI_FEW_G4
#undef TINYI_FEW_KEYS1
#undef TINYI_FEW_KEYS2
#undef TINYI_FEW_KEYS4
#undef TINYI_FEW_LAST
#undef TINYI_FEW_MIX
#undef TINYI_FEW_PICK
#undef TINYI_FEW_PIN
#undef TINYI_FEW_PUSH
#undef TINYI_FEW_PUT
#undef TINYI_FEW_PUTS1
#undef TINYI_FEW_PUTS2
#undef TINYI_FEW_PUTS4
#undef TINYI_FEW_PUT_N
#undef TINYI_FEW_Q8
#undef TINYI_FEW_Q8_N
#undef TINYI_FEW_ROWS
#undef TINYI_FEW_TIMES
#undef TINYI_FEW_TYPE
#undef TINYI_FEW_UNUSED1
#undef TINYI_FEW_UNUSED2
#undef TINYI_FEW_UNUSED4
#undef TINYI_FEW_VALUES
#undef TINYI_FEW_VALUES1
#undef TINYI_FEW_VALUES2
#undef TINYI_FEW_VALUES4
#undef TINYI_FEW_Y
#undef TINYI_FEW_Y_N
#undef TINYI_FEW_ZERO
