/* src/math/attention_few.simd.h - the steps of a tile of few rows: keys and values as they lie in memory, each read once
 *
 * One token has a handful of rows, the heads of a group, and its keys and values come from memory: so a number is used for all rows
 * while it stands in a register. Types are told apart where a vector is loaded: f32, f16, and blocks of 34 bytes (an f16
 * factor and 32 signed bytes), which become floats in registers. Eight sums are kept, which hides the latency of a multiply-add: 8
 * keys for one row, 4 for two; twelve for four rows, 3 keys; of values 4 vectors for one row (two keys in turn) and for two, 3 for four. Rows that are
 * not there repeat the last one; their sums are dropped.
 *
 * A processor follows a stream to the end of its page of memory at best, and the pages of a cache lie anywhere. So keys ask for the keys of
 * the next tile, and values for its values: 2 to 32 KB ahead, some lines a step. Asked for a tile of the other kind ahead, half as far, some came late. */

#define TINYI_FEW_MORE 7                    /* keys behind the last one that a step of several may name */
#define TINYI_FEW_ZERO v_f32 a0 = v_zero(), a1 = v_zero(), a2 = v_zero(), a3 = v_zero(), a4 = v_zero(), a5 = v_zero(), a6 = v_zero(), a7 = v_zero();

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

/* Asks for some lines from byte `from` on of what comes next, a line of each span in turn: four streams side by side are read half as fast again as one
 * after the other (25 and 17 GB/s of a Zen 3 core, in pieces of 2 to 8 KB); where it ended. As many lines each time: a loop that a processor foresees. */
TINYI_FORCE_INLINE tiny_idx TINY_FN(tinyi_attention_ask)(const tinyi_att_span *x, int n_x, tiny_idx from, tiny_idx n_line)
{
    int k;
    if (n_x == 4 && x[3].ahead) {           /* pages of 16 cells, of which the last one came before the end: most calls; the others are there too */
        const unsigned char *w0 = (const unsigned char *)x[0].ahead + from, *w1 = (const unsigned char *)x[1].ahead + from;
        const unsigned char *w2 = (const unsigned char *)x[2].ahead + from, *w3 = (const unsigned char *)x[3].ahead + from;
        for (from += n_line * 64; n_line > 0; n_line--, w0 += 64, w1 += 64, w2 += 64, w3 += 64) {
            TINYI_PREFETCH(w0);
            TINYI_PREFETCH(w1);
            TINYI_PREFETCH(w2);
            TINYI_PREFETCH(w3);
        }
        return from;
    }
    for (; n_line > 0; n_line--, from += 64)
        for (k = 0; k < n_x; k++)
            if (x[k].ahead) TINYI_PREFETCH((const unsigned char *)x[k].ahead + from);
    return from;
}

/* ---- keys: a[k R + j] is the sum of key k and row j. Of blocks c is the sum inside the block, which meets the factor once for all of them; four rows
 * have no registers for that, and multiply a vector before they use it */
#define TINYI_FEW_Y(j) v_load(q##j + i)
#define TINYI_FEW_Y_N(j) v_load_n(q##j + i, r)
#define TINYI_FEW_KEYS1(LOAD, Y)                                                                                                   \
    {                                                                                                                           \
        const v_f32 t = Y(0);                                                                                                   \
        a0 = v_fma(LOAD(w0, i), t, a0); a1 = v_fma(LOAD(w1, i), t, a1); a2 = v_fma(LOAD(w2, i), t, a2); a3 = v_fma(LOAD(w3, i), t, a3); \
        a4 = v_fma(LOAD(w4, i), t, a4); a5 = v_fma(LOAD(w5, i), t, a5); a6 = v_fma(LOAD(w6, i), t, a6); a7 = v_fma(LOAD(w7, i), t, a7); \
    }
#define TINYI_FEW_KEYS2(LOAD, Y)                                                                                                   \
    {                                                                                                                           \
        const v_f32 t0 = Y(0), t1 = Y(1);                                                                                       \
        v_f32 x = LOAD(w0, i); a0 = v_fma(x, t0, a0); a1 = v_fma(x, t1, a1);                                                    \
        x = LOAD(w1, i); a2 = v_fma(x, t0, a2); a3 = v_fma(x, t1, a3);                                                          \
        x = LOAD(w2, i); a4 = v_fma(x, t0, a4); a5 = v_fma(x, t1, a5);                                                          \
        x = LOAD(w3, i); a6 = v_fma(x, t0, a6); a7 = v_fma(x, t1, a7);                                                          \
    }
#define TINYI_FEW_KEYS4_OF(X0, X1, X2, Y) \
    { \
        const v_f32 x0 = X0, x1 = X1, x2 = X2; \
        v_f32 t = Y(0); TINYI_FEW_PIN(t); a0 = v_fma(x0, t, a0); a4 = v_fma(x1, t, a4); a8 = v_fma(x2, t, a8); \
        t = Y(1); TINYI_FEW_PIN(t); a1 = v_fma(x0, t, a1); a5 = v_fma(x1, t, a5); a9 = v_fma(x2, t, a9); \
        t = Y(2); TINYI_FEW_PIN(t); a2 = v_fma(x0, t, a2); a6 = v_fma(x1, t, a6); a10 = v_fma(x2, t, a10); \
        t = Y(3); TINYI_FEW_PIN(t); a3 = v_fma(x0, t, a3); a7 = v_fma(x1, t, a7); a11 = v_fma(x2, t, a11); \
    }
#define TINYI_FEW_KEYS4(LOAD, Y) TINYI_FEW_KEYS4_OF(LOAD(w0, i), LOAD(w1, i), LOAD(w2, i), Y)
/* a block of 32: its first vector, and the others */
#define TINYI_FEW_BLOCK1(OP) \
    { \
        const v_f32 t = TINYI_FEW_Y(0); \
        c0 = OP(TINYI_FEW_Q8(w0, i + push), t, c0); c1 = OP(TINYI_FEW_Q8(w1, i + push), t, c1); \
        c2 = OP(TINYI_FEW_Q8(w2, i + push), t, c2); c3 = OP(TINYI_FEW_Q8(w3, i + push), t, c3); \
    }
#define TINYI_FEW_BLOCK2(OP) \
    { \
        const v_f32 t0 = TINYI_FEW_Y(0), t1 = TINYI_FEW_Y(1); \
        v_f32 x = TINYI_FEW_Q8(w0, i + push); c0 = OP(x, t0, c0); c1 = OP(x, t1, c1); \
        x = TINYI_FEW_Q8(w1, i + push); c2 = OP(x, t0, c2); c3 = OP(x, t1, c3); \
    }
#define TINYI_FEW_MUL(a, b, c) v_mul(a, b)
#define TINYI_FEW_G(k) v_set(g[(k) * n_factor])
#define TINYI_FEW_BLOCKS(R) \
    for (; i < d; end += 32, g++) { \
        const tiny_idx push = TINYI_FEW_PUSH(1, i); \
        v_f32 c0, c1, c2, c3; \
        TINYI_FEW_BLOCK##R(TINYI_FEW_MUL) \
        for (i += V_LANES; i < end; i += V_LANES) TINYI_FEW_BLOCK##R(v_fma) \
        a0 = v_fma(TINYI_FEW_G(0), c0, a0); a1 = v_fma(TINYI_FEW_G(1 / R), c1, a1); \
        a2 = v_fma(TINYI_FEW_G(2 / R), c2, a2); a3 = v_fma(TINYI_FEW_G(3 / R), c3, a3); \
    }
#define TINYI_FEW_BLOCKS_1 TINYI_FEW_BLOCKS(1)
#define TINYI_FEW_BLOCKS_2 TINYI_FEW_BLOCKS(2)
#define TINYI_FEW_BLOCKS_4 \
    for (; i < d; end += 32, g++) { \
        const tiny_idx push = TINYI_FEW_PUSH(1, i); \
        const v_f32 g0 = TINYI_FEW_G(0), g1 = TINYI_FEW_G(1), g2 = TINYI_FEW_G(2); \
        for (; i < end; i += V_LANES) \
            TINYI_FEW_KEYS4_OF(v_mul(TINYI_FEW_Q8(w0, i + push), g0), v_mul(TINYI_FEW_Q8(w1, i + push), g1), v_mul(TINYI_FEW_Q8(w2, i + push), g2), TINYI_FEW_Y) \
    }
#define TINYI_FEW_NUMBERS(R, LOAD, LOAD_N) \
    for (; i + V_LANES <= d; i += V_LANES) TINYI_FEW_KEYS##R(LOAD, TINYI_FEW_Y) \
    if (i < d) { \
        const size_t r = (size_t)(d - i); \
        TINYI_FEW_KEYS##R(LOAD_N, TINYI_FEW_Y_N) \
    }
/* where N keys lie: behind the last one it stands again, what is made of it lands in places that are written later or never read */
#define TINYI_FEW_DOT(R, N, name, LOOP) \
    static void TINY_FN(name##R)(float *s, tiny_idx ld, const unsigned char *const *at, int n, const float *factor, tiny_idx n_factor, const float *q, int n_row, tiny_idx d, \
                                 const tinyi_att_span *span, int n_span, tiny_idx ahead_row) \
    { \
        const float *q0 = q, *q1 = q + TINYI_MIN(1, n_row - 1) * d, *q2 = q + TINYI_MIN(2, n_row - 1) * d, *q3 = q + (n_row - 1) * d; \
        const tiny_idx n_line = (N * ahead_row + 64 * n_span - 1) / (64 * n_span), most = span[0].n * ahead_row; \
        tiny_idx asked = 0; \
        int c, k; \
        (void)q1; (void)q2; (void)q3; \
        for (c = 0; c < n; c += N, at += N, factor += N * n_factor) { \
            const unsigned char *w0 = at[0], *w1 = at[1], *w2 = at[2 % N], *w3 = at[3 % N], *w4 = at[4 % N], *w5 = at[5 % N], *w6 = at[6 % N], *w7 = at[7 % N]; \
            const float *g = factor; \
            tiny_idx i = 0, end = 32; \
            v_f32 a0 = v_zero(), a1 = v_zero(), a2 = v_zero(), a3 = v_zero(), a4 = v_zero(), a5 = v_zero(), a6 = v_zero(), a7 = v_zero(); \
            v_f32 a8 = v_zero(), a9 = v_zero(), a10 = v_zero(), a11 = v_zero(); \
            (void)w2; (void)w3; (void)w4; (void)w5; (void)w6; (void)w7; (void)g; (void)end; \
            if (asked < most) asked = TINY_FN(tinyi_attention_ask)(span, n_span, asked, n_line); \
            LOOP \
            if (R == 4) { \
                v_sum4(s + c * ld, a0, a1, a2, a3); \
                v_sum4(s + (c + 1) * ld, a4, a5, a6, a7); \
                v_sum4(s + (c + 2) * ld, a8, a9, a10, a11); \
            } else { \
                float t[8]; \
                v_sum4(ld == R ? s + c * R : t, a0, a1, a2, a3); \
                if (N * R == 8) v_sum4(ld == R ? s + c * R + 4 : t + 4, a4, a5, a6, a7); \
                for (k = 0; ld != R && k < N * R; k++) s[(c + k / R) * ld + k % R] = t[k]; \
            } \
            (void)k; (void)a4; (void)a5; (void)a6; (void)a7; (void)a8; (void)a9; (void)a10; (void)a11; \
        } \
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
#define TINYI_FEW_VALUES4(Q, LOAD) \
    { \
        const v_f32 x0 = TINYI_FEW_TIMES(Q, LOAD(w, i + push0), g0), x1 = TINYI_FEW_TIMES(Q, LOAD(w, i + V_LANES + push0), g0); \
        v_f32 t = v_set(p[0]); a0 = v_fma(x0, t, a0); a1 = v_fma(x1, t, a1); \
        t = v_set(p[1]); a2 = v_fma(x0, t, a2); a3 = v_fma(x1, t, a3); \
        t = v_set(p[2]); a4 = v_fma(x0, t, a4); a5 = v_fma(x1, t, a5); \
        t = v_set(p[3]); a6 = v_fma(x0, t, a6); a7 = v_fma(x1, t, a7); \
    }
/* three vectors: what four rows take as long as it leaves no single one */
#define TINYI_FEW_VALUES4_3(Q, LOAD) \
    { \
        const v_f32 x0 = TINYI_FEW_TIMES(Q, LOAD(w, i + push0), v_set(*g)), x1 = TINYI_FEW_TIMES(Q, LOAD(w, i + V_LANES + push1), v_set(g[b1])); \
        const v_f32 x2 = TINYI_FEW_TIMES(Q, LOAD(w, i + 2 * V_LANES + push2), v_set(g[b2])); \
        v_f32 t = v_set(p[0]); a0 = v_fma(x0, t, a0); a1 = v_fma(x1, t, a1); a8 = v_fma(x2, t, a8); \
        t = v_set(p[1]); a2 = v_fma(x0, t, a2); a3 = v_fma(x1, t, a3); a9 = v_fma(x2, t, a9); \
        t = v_set(p[2]); a4 = v_fma(x0, t, a4); a5 = v_fma(x1, t, a5); a10 = v_fma(x2, t, a10); \
        t = v_set(p[3]); a6 = v_fma(x0, t, a6); a7 = v_fma(x1, t, a7); a11 = v_fma(x2, t, a11); \
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
#define TINYI_FEW_PUT(j, at, A) if ((j) < n_row) { float *y = acc + (j) * d_v + i + (at); v_store(y, v_fma(v_set(f[j]), v_load(y), A)); }
#define TINYI_FEW_PUT_N(j, A) if ((j) < n_row) { float *y = acc + (j) * d_v + i; v_store_n(y, v_fma(v_set(f[j]), v_load_n(y, r), A), r); }
#define TINYI_FEW_PUTS1 TINYI_FEW_PUT(0, 0, v_add(a0, a4)) TINYI_FEW_PUT(0, V_LANES, v_add(a1, a5)) \
                        TINYI_FEW_PUT(0, 2 * V_LANES, v_add(a2, a6)) TINYI_FEW_PUT(0, 3 * V_LANES, v_add(a3, a7))
#define TINYI_FEW_PUTS2 TINYI_FEW_PUT(0, 0, a0) TINYI_FEW_PUT(0, V_LANES, a1) TINYI_FEW_PUT(0, 2 * V_LANES, a2) TINYI_FEW_PUT(0, 3 * V_LANES, a3) \
                        TINYI_FEW_PUT(1, 0, a4) TINYI_FEW_PUT(1, V_LANES, a5) TINYI_FEW_PUT(1, 2 * V_LANES, a6) TINYI_FEW_PUT(1, 3 * V_LANES, a7)
#define TINYI_FEW_PUTS4 TINYI_FEW_PUT(0, 0, a0) TINYI_FEW_PUT(0, V_LANES, a1) TINYI_FEW_PUT(1, 0, a2) TINYI_FEW_PUT(1, V_LANES, a3) \
                        TINYI_FEW_PUT(2, 0, a4) TINYI_FEW_PUT(2, V_LANES, a5) TINYI_FEW_PUT(3, 0, a6) TINYI_FEW_PUT(3, V_LANES, a7)
#define TINYI_FEW_MIX(R, name, Q, LOAD, LOAD_N) \
    static void TINY_FN(name##R)(float *acc, tiny_idx d_v, const float *p0, tiny_idx ld, const float *f, const tinyi_att_span *span, int n_span, tiny_idx row, \
                                 const float *factor, tiny_idx n_factor, tiny_idx ahead_row, int n_row) \
    { \
        enum { WIDE = (R == 4 ? 2 : 4) * V_LANES, LEAST = (R == 4 ? 3 : 4) * V_LANES }; \
        const tiny_idx most = span[0].n * ahead_row, n_line = most / (64 * TINYI_MAX(d_v / LEAST, 1) * n_span) + 1; \
        tiny_idx i = 0, asked = 0; \
        int k, c; \
        if (R == 4) for (; d_v - i >= 5 * V_LANES || (d_v - i) / V_LANES == 3; i += 3 * V_LANES) { \
            const tiny_idx push0 = TINYI_FEW_PUSH(Q, i), push1 = TINYI_FEW_PUSH(Q, i + V_LANES), push2 = TINYI_FEW_PUSH(Q, i + 2 * V_LANES); \
            const tiny_idx b1 = (push1 - push0) / 2, b2 = (push2 - push0) / 2; \
            const float *p = p0, *g = factor + ((Q) ? i / 32 : 0); \
            v_f32 a8 = v_zero(), a9 = v_zero(), a10 = v_zero(), a11 = v_zero(); \
            TINYI_FEW_ZERO \
            (void)b1; \
            (void)b2; \
            for (k = 0; k < n_span; k++) { \
                const unsigned char *w = (const unsigned char *)span[k].at; \
                if (asked < most) asked = TINY_FN(tinyi_attention_ask)(span, n_span, asked, n_line); \
                for (c = 0; c < span[k].n; c++, w += row, p += ld, g += n_factor) TINYI_FEW_VALUES4_3(Q, LOAD) \
            } \
            TINYI_FEW_PUTS4 \
            TINYI_FEW_PUT(0, 2 * V_LANES, a8) TINYI_FEW_PUT(1, 2 * V_LANES, a9) TINYI_FEW_PUT(2, 2 * V_LANES, a10) TINYI_FEW_PUT(3, 2 * V_LANES, a11) \
        } \
        for (; i + WIDE <= d_v; i += WIDE) { \
            const tiny_idx push0 = TINYI_FEW_PUSH(Q, i), push1 = TINYI_FEW_PUSH(Q, i + 2 * V_LANES); \
            const float *p = p0, *g = factor + ((Q) ? i / 32 : 0); \
            TINYI_FEW_ZERO \
            (void)push1; \
            for (k = 0; k < n_span; k++) { \
                const unsigned char *w = (const unsigned char *)span[k].at; \
                if (asked < most) asked = TINY_FN(tinyi_attention_ask)(span, n_span, asked, n_line); \
                for (c = 0; c < span[k].n; c++, w += row, p += ld, g += n_factor) { \
                    const v_f32 g0 = v_set(*g), g1 = (Q) && WIDE > 32 ? v_set(g[1]) : g0; \
                    (void)g0; \
                    (void)g1; \
                    TINYI_FEW_VALUES##R(Q, LOAD) \
                } \
            } \
            TINYI_FEW_PUTS##R \
        } \
        for (; i < d_v; i += V_LANES) { \
            const tiny_idx push0 = TINYI_FEW_PUSH(Q, i); \
            const size_t r = (size_t)TINYI_MIN(d_v - i, V_LANES); \
            const float *p = p0, *g = factor + ((Q) ? i / 32 : 0); \
            v_f32 a0 = v_zero(), a1 = v_zero(), a2 = v_zero(), a3 = v_zero(); \
            for (k = 0; k < n_span; k++) { \
                const unsigned char *w = (const unsigned char *)span[k].at; \
                for (c = 0; c < span[k].n; c++, w += row, p += ld, g += n_factor) { \
                    const v_f32 g0 = v_set(*g); \
                    (void)g0; \
                    if (r == V_LANES) TINYI_FEW_LAST(Q, LOAD) \
                    else TINYI_FEW_LAST(Q, LOAD_N) \
                } \
            } \
            TINYI_FEW_PUT_N(0, a0) TINYI_FEW_PUT_N(1, a1) TINYI_FEW_PUT_N(2, a2) TINYI_FEW_PUT_N(3, a3) \
        } \
    }

#define TINYI_FEW_TYPE(name, LOAD)                                                                                              \
    TINYI_FEW_DOT(1, 8, tinyi_attention_dot_##name, TINYI_FEW_NUMBERS(1, LOAD, LOAD##_N))                                       \
    TINYI_FEW_DOT(2, 4, tinyi_attention_dot_##name, TINYI_FEW_NUMBERS(2, LOAD, LOAD##_N))                                       \
    TINYI_FEW_DOT(4, 3, tinyi_attention_dot_##name, TINYI_FEW_NUMBERS(4, LOAD, LOAD##_N))                                       \
    TINYI_FEW_MIX(1, tinyi_attention_blend_##name, 0, LOAD, LOAD##_N)                                                           \
    TINYI_FEW_MIX(2, tinyi_attention_blend_##name, 0, LOAD, LOAD##_N)                                                           \
    TINYI_FEW_MIX(4, tinyi_attention_blend_##name, 0, LOAD, LOAD##_N)
TINYI_FEW_TYPE(f32, TINYI_FEW_F32)
TINYI_FEW_TYPE(f16, TINYI_FEW_F16)
TINYI_FEW_DOT(1, 4, tinyi_attention_dot_q8, TINYI_FEW_BLOCKS_1)
TINYI_FEW_DOT(2, 2, tinyi_attention_dot_q8, TINYI_FEW_BLOCKS_2)
TINYI_FEW_DOT(4, 3, tinyi_attention_dot_q8, TINYI_FEW_BLOCKS_4)
TINYI_FEW_MIX(1, tinyi_attention_blend_q8, 1, TINYI_FEW_Q8, TINYI_FEW_Q8_N)
TINYI_FEW_MIX(2, tinyi_attention_blend_q8, 1, TINYI_FEW_Q8, TINYI_FEW_Q8_N)
TINYI_FEW_MIX(4, tinyi_attention_blend_q8, 1, TINYI_FEW_Q8, TINYI_FEW_Q8_N)

#define TINYI_FEW_HALF(b) (uint16_t)(w[34 * (b)] | w[34 * (b) + 1] << 8)
/* the factors of blocks, a row after the other, as floats */
static void TINY_FN(tinyi_attention_factors)(float *to, const tinyi_att_span *x, int n_x, tiny_idx row, tiny_idx n_block)
{
    uint16_t h[TINYI_ATT_KEYS * TINYI_ATT_BLOCKS + V_LANES];
    tiny_idx n = 0, i, b;
    int k, c;
    for (k = 0; k < n_x; k++) {
        const unsigned char *w = (const unsigned char *)x[k].at;
        for (c = 0; c < x[k].n; c++, w += row) {
            for (b = 0; b + 4 <= n_block; b += 4, n += 4) {
                h[n] = TINYI_FEW_HALF(b);
                h[n + 1] = TINYI_FEW_HALF(b + 1);
                h[n + 2] = TINYI_FEW_HALF(b + 2);
                h[n + 3] = TINYI_FEW_HALF(b + 3);
            }
            for (; b < n_block; b++) h[n++] = TINYI_FEW_HALF(b);
        }
    }
    for (i = 0; i < V_LANES; i++) h[n + i] = 0;
    for (i = 0; i < n; i += V_LANES) v_store(to + i, v_load_f16(h + i));
    for (i = 0; i < TINYI_FEW_MORE * n_block; i++) to[n + i] = 0.0f;        /* of keys that are not there */
}

#define TINYI_FEW_PICK(form, R) (type == TINYI_ATT_F32 ? TINY_FN(tinyi_attention_##form##_f32##R) : type == TINYI_ATT_F16 ? TINY_FN(tinyi_attention_##form##_f16##R) : \
                                 TINY_FN(tinyi_attention_##form##_q8##R))
static void TINY_FN(tinyi_attention_dot)(float *s, tiny_idx ld, const tinyi_att_span *x, int n_x, int type, tiny_idx row, const float *q, int n_row, tiny_idx d)
{
    float room[(TINYI_ATT_KEYS + TINYI_FEW_MORE) * TINYI_ATT_BLOCKS + V_LANES];
    const unsigned char *at[TINYI_ATT_KEYS + TINYI_FEW_MORE];
    const tiny_idx n_factor = type == TINYI_ATT_Q8 ? d / 32 : 0;
    int j, k, c, n = 0;
    room[0] = 0.0f;
    if (n_factor) TINY_FN(tinyi_attention_factors)(room, x, n_x, row, n_factor);
    for (k = 0; k < n_x; k++)
        for (c = 0; c < x[k].n; c++) at[n++] = (const unsigned char *)x[k].at + c * row;
    for (k = 0; k < TINYI_FEW_MORE; k++) at[n + k] = at[n - 1];
    for (j = 0; j < n_row; j += 4) {
        const int r = TINYI_MIN(n_row - j, 4);
        (r == 1 ? TINYI_FEW_PICK(dot, 1) : r == 2 ? TINYI_FEW_PICK(dot, 2) : TINYI_FEW_PICK(dot, 4))
            (s + j, ld, at, n, room, n_factor, q + j * d, r, d, x, n_x, j ? 0 : row);
    }
}

static void TINY_FN(tinyi_attention_blend)(float *acc, tiny_idx d_v, const float *p, tiny_idx ld, const float *f, const tinyi_att_span *x, int n_x, int type, tiny_idx row, int n_row)
{
    float room[(TINYI_ATT_KEYS + TINYI_FEW_MORE) * TINYI_ATT_BLOCKS + V_LANES];
    const tiny_idx n_factor = type == TINYI_ATT_Q8 ? d_v / 32 : 0;
    int j;
    room[0] = 0.0f;
    if (n_factor) TINY_FN(tinyi_attention_factors)(room, x, n_x, row, n_factor);
    for (j = 0; j < n_row; j += 4) {
        const int r = TINYI_MIN(n_row - j, 4);
        (r == 1 ? TINYI_FEW_PICK(blend, 1) : r == 2 ? TINYI_FEW_PICK(blend, 2) : TINYI_FEW_PICK(blend, 4))
            (acc + j * d_v, d_v, p + j, ld, f + j, x, n_x, row, room, n_factor, j ? 0 : row, r);
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
#undef TINYI_FEW_BLOCK1
#undef TINYI_FEW_BLOCK2
#undef TINYI_FEW_BLOCKS
#undef TINYI_FEW_BLOCKS_1
#undef TINYI_FEW_BLOCKS_2
#undef TINYI_FEW_BLOCKS_4
#undef TINYI_FEW_DOT
#undef TINYI_FEW_F16
#undef TINYI_FEW_F16_N
#undef TINYI_FEW_F32
#undef TINYI_FEW_F32_N
#undef TINYI_FEW_G
#undef TINYI_FEW_HALF
#undef TINYI_FEW_KEYS1
#undef TINYI_FEW_KEYS2
#undef TINYI_FEW_KEYS4
#undef TINYI_FEW_KEYS4_OF
#undef TINYI_FEW_LAST
#undef TINYI_FEW_MIX
#undef TINYI_FEW_MORE
#undef TINYI_FEW_MUL
#undef TINYI_FEW_NUMBERS
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
#undef TINYI_FEW_TIMES
#undef TINYI_FEW_TYPE
#undef TINYI_FEW_VALUES
#undef TINYI_FEW_VALUES1
#undef TINYI_FEW_VALUES2
#undef TINYI_FEW_VALUES4
#undef TINYI_FEW_VALUES4_3
#undef TINYI_FEW_Y
#undef TINYI_FEW_Y_N
#undef TINYI_FEW_ZERO
