/* src/llm/dist/moe_fold.simd.h - products of the rows of an expert, compiled once per target
 *
 * Four rows by two vectors of columns keep eight sums, as many as two multiply-adds of four cycles can fill; eight rows
 * where there are 32 registers. Strips of w are copied first, 128 of their rows at a time: rows of w that are a power
 * of two apart would share their places in the cache. Every sum runs over k in order from zero, whatever the block. */
#define TINYI_MOE_BEGIN(q)                                                                       \
    const float *x##q = x + q * x_row;                                                           \
    v_f32 a##q = more ? v_load_n(y + q * y_row, n0) : v_zero();                                  \
    v_f32 b##q = more && n1 ? v_load_n(y + q * y_row + V_LANES, n1) : v_zero();
#define TINYI_MOE_STEP(q) s = v_set(x##q[i]); a##q = v_fma(s, u, a##q); b##q = v_fma(s, v, b##q);
#define TINYI_MOE_END(q) v_store_n(y + q * y_row, a##q, n0); if (n1) v_store_n(y + q * y_row + V_LANES, b##q, n1);
#define TINYI_MOE_LONE(F) F(0)
#define TINYI_MOE_TWO(F) F(0) F(1)
#define TINYI_MOE_FOUR(F) F(0) F(1) F(2) F(3)
#define TINYI_MOE_EIGHT(F) TINYI_MOE_FOUR(F) F(4) F(5) F(6) F(7)
#define TINYI_MOE_TILE(name, ROWS)                                                                                  \
    static void TINY_FN(name)(float *y, size_t y_row, const float *x, size_t x_row, const float *strip, size_t k,   \
                              size_t some, int more)                                                                \
    {                                                                                                               \
        const size_t n0 = some < V_LANES ? some : V_LANES, n1 = some - n0;                                          \
        size_t i;                                                                                                   \
        ROWS(TINYI_MOE_BEGIN)                                                                                       \
        for (i = 0; i < k; i++, strip += 2 * V_LANES) {                                                             \
            const v_f32 u = v_load(strip), v = v_load(strip + V_LANES);                                             \
            v_f32 s;                                                                                                \
            ROWS(TINYI_MOE_STEP)                                                                                    \
        }                                                                                                           \
        ROWS(TINYI_MOE_END)                                                                                         \
    }
TINYI_MOE_TILE(tinyi_moe_lone, TINYI_MOE_LONE)
TINYI_MOE_TILE(tinyi_moe_two, TINYI_MOE_TWO)
TINYI_MOE_TILE(tinyi_moe_four, TINYI_MOE_FOUR)
#if V_AVX512 || V_NEON
TINYI_MOE_TILE(tinyi_moe_eight, TINYI_MOE_EIGHT)        /* 32 registers */
#endif
#undef TINYI_MOE_BEGIN
#undef TINYI_MOE_STEP
#undef TINYI_MOE_END
#undef TINYI_MOE_LONE
#undef TINYI_MOE_TWO
#undef TINYI_MOE_FOUR
#undef TINYI_MOE_EIGHT
#undef TINYI_MOE_TILE

/* Four rows of w at a time, read from front to back; y holds the sums in between. */
static void TINY_FN(tinyi_moe_one)(float *y, const float *x, const float *w, size_t w_row, size_t k, size_t n)
{
    size_t i, j;
    for (i = 0; i + 4 <= k; i += 4, w += 4 * w_row) {
        const v_f32 a = v_set(x[i]), b = v_set(x[i + 1]), c = v_set(x[i + 2]), d = v_set(x[i + 3]);
        const float *w1 = w + w_row, *w2 = w1 + w_row, *w3 = w2 + w_row;
        for (j = 0; j + V_LANES <= n; j += V_LANES) {
            v_f32 s = v_fma(a, v_load(w + j), i ? v_load(y + j) : v_zero());
            s = v_fma(c, v_load(w2 + j), v_fma(b, v_load(w1 + j), s));
            v_store(y + j, v_fma(d, v_load(w3 + j), s));
        }
        if (j < n) {
            v_f32 s = v_fma(a, v_load_n(w + j, n - j), i ? v_load_n(y + j, n - j) : v_zero());
            s = v_fma(c, v_load_n(w2 + j, n - j), v_fma(b, v_load_n(w1 + j, n - j), s));
            v_store_n(y + j, v_fma(d, v_load_n(w3 + j, n - j), s), n - j);
        }
    }
    for (; i < k; i++, w += w_row) {
        const v_f32 a = v_set(x[i]);
        for (j = 0; j < n; j += V_LANES) {
            const size_t some = n - j < V_LANES ? n - j : V_LANES;
            v_store_n(y + j, v_fma(a, v_load_n(w + j, some), i ? v_load_n(y + j, some) : v_zero()), some);
        }
    }
}

static void TINY_FN(tinyi_moe_product)(float *y, size_t y_row, const float *x, size_t x_row, size_t rows,
                                       const float *w, size_t w_row, size_t k, size_t n, float *strip)
{
    const size_t pair = 2 * V_LANES, widest = TINYI_MOE_PAIRS * pair;
    size_t r, i, j, q, i0;
    if (rows < 4) {
        for (r = 0; r < rows; r++) TINY_FN(tinyi_moe_one)(y + r * y_row, x + r * x_row, w, w_row, k, n);
        return;
    }
    for (i0 = 0; i0 < k; i0 += TINYI_MOE_DEEP) {
        const size_t deep = k - i0 < TINYI_MOE_DEEP ? k - i0 : TINYI_MOE_DEEP;
        for (j = 0; j < n; j += widest) {
            const size_t wide = n - j < widest ? n - j : widest;
            for (i = 0; i < deep; i++)      /* whole lines of a row at a time: its next row is on another page */
                for (q = 0; q < wide; q += pair) {
                    const float *p = w + (i0 + i) * w_row + j + q;
                    float *to = strip + q * deep + i * pair;
                    const size_t some = wide - q;
                    if (some >= pair) {
                        v_store(to, v_load(p));
                        v_store(to + V_LANES, v_load(p + V_LANES));
                    } else {
                        v_store(to, some < V_LANES ? v_load_n(p, some) : v_load(p));
                        v_store(to + V_LANES, some > V_LANES ? v_load_n(p + V_LANES, some - V_LANES) : v_zero());
                    }
                }
            for (q = 0; q < wide; q += pair) {
                const size_t some = wide - q < pair ? wide - q : pair;
                const float *u = x + i0, *v = strip + q * deep;
                float *to = y + j + q;
                const int more = i0 > 0;
                r = rows;
#if V_AVX512 || V_NEON
                for (; r >= 8; r -= 8, to += 8 * y_row, u += 8 * x_row)
                    TINY_FN(tinyi_moe_eight)(to, y_row, u, x_row, v, deep, some, more);
#endif
                for (; r >= 4; r -= 4, to += 4 * y_row, u += 4 * x_row)
                    TINY_FN(tinyi_moe_four)(to, y_row, u, x_row, v, deep, some, more);
                if (r & 2) {
                    TINY_FN(tinyi_moe_two)(to, y_row, u, x_row, v, deep, some, more);
                    to += 2 * y_row;
                    u += 2 * x_row;
                }
                if (r & 1) TINY_FN(tinyi_moe_lone)(to, y_row, u, x_row, v, deep, some, more);
            }
        }
    }
}

static void TINY_FN(tinyi_moe_add)(float *y, const float *x, float scale, size_t n)
{
    const v_f32 s = v_set(scale);
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_fma(s, v_load(x + i), v_load(y + i)));
    if (i < n) v_store_n(y + i, v_fma(s, v_load_n(x + i, n - i), v_load_n(y + i, n - i)), n - i);
}

static const tinyi_moe_kernels TINY_FN(tinyi_moe_table) = { TINYI_PASS_TARGET, TINY_FN(tinyi_moe_product),
                                                            TINY_FN(tinyi_moe_add) };
TINYI_TABLE(tinyi_moe_kernels, tinyi_moe_kernels, TINY_FN(tinyi_moe_table))
