/* src/llm/dist/moe_fold.simd.h - products of the rows of an expert, compiled once per target
 *
 * Four rows by two vectors of columns keep eight sums, as many as two multiply-adds of four cycles can fill. Strips of
 * w are copied first, 128 of their rows at a time: rows of w that are a power of two apart would share their places in
 * the cache. Every sum runs over k in order from zero, in the block of four rows and in that of one. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_moe_four)(float *y, size_t y_row, const float *x, size_t x_row,
                                                const float *strip, size_t k, size_t some, int more)
{
    const float *x1 = x + x_row, *x2 = x + 2 * x_row, *x3 = x + 3 * x_row;
    float *y1 = y + y_row, *y2 = y + 2 * y_row, *y3 = y + 3 * y_row;
    const size_t n0 = some < V_LANES ? some : V_LANES, n1 = some - n0;
    v_f32 a0 = v_zero(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
    size_t i;
    if (more) {
        a0 = v_load_n(y, n0); b0 = v_load_n(y1, n0); c0 = v_load_n(y2, n0); d0 = v_load_n(y3, n0);
        if (n1) {
            a1 = v_load_n(y + V_LANES, n1); b1 = v_load_n(y1 + V_LANES, n1);
            c1 = v_load_n(y2 + V_LANES, n1); d1 = v_load_n(y3 + V_LANES, n1);
        }
    }
    for (i = 0; i < k; i++, strip += 2 * V_LANES) {
        const v_f32 u = v_load(strip), v = v_load(strip + V_LANES);
        v_f32 s = v_set(x[i]);
        a0 = v_fma(s, u, a0); a1 = v_fma(s, v, a1);
        s = v_set(x1[i]);
        b0 = v_fma(s, u, b0); b1 = v_fma(s, v, b1);
        s = v_set(x2[i]);
        c0 = v_fma(s, u, c0); c1 = v_fma(s, v, c1);
        s = v_set(x3[i]);
        d0 = v_fma(s, u, d0); d1 = v_fma(s, v, d1);
    }
    v_store_n(y, a0, n0); v_store_n(y1, b0, n0); v_store_n(y2, c0, n0); v_store_n(y3, d0, n0);
    if (!n1) return;
    v_store_n(y + V_LANES, a1, n1); v_store_n(y1 + V_LANES, b1, n1);
    v_store_n(y2 + V_LANES, c1, n1); v_store_n(y3 + V_LANES, d1, n1);
}

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
    const size_t fours = rows / 4 * 4;
    size_t r, i, j, i0;
    for (i0 = 0; i0 < k && fours; i0 += TINYI_MOE_DEEP) {
        const size_t deep = k - i0 < TINYI_MOE_DEEP ? k - i0 : TINYI_MOE_DEEP;
        for (j = 0; j < n; j += 2 * V_LANES) {
            const size_t some = n - j < 2 * V_LANES ? n - j : 2 * V_LANES;
            const size_t n0 = some < V_LANES ? some : V_LANES, n1 = some - n0;
            const float *p = w + i0 * w_row + j;
            float *to = strip;
            for (i = 0; i < deep; i++, p += w_row, to += 2 * V_LANES) {
                v_store(to, v_load_n(p, n0));
                v_store(to + V_LANES, n1 ? v_load_n(p + V_LANES, n1) : v_zero());
            }
            for (r = 0; r < fours; r += 4)
                TINY_FN(tinyi_moe_four)(y + r * y_row + j, y_row, x + r * x_row + i0, x_row, strip, deep, some, i0 > 0);
        }
    }
    for (r = fours; r < rows; r++) TINY_FN(tinyi_moe_one)(y + r * y_row, x + r * x_row, w, w_row, k, n);
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
