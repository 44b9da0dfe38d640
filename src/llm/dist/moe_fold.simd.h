/* src/llm/dist/moe_fold.simd.h - products of the rows of an expert, compiled once per target
 *
 * Four rows by two vectors of columns keep eight sums, as many as two multiply-adds of four cycles can fill. Every sum
 * runs over k in order from zero, in the block of four rows and in that of one. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_moe_four)(float *y, size_t y_row, const float *x, size_t x_row, const float *w,
                                                size_t w_row, size_t k, size_t n)
{
    const float *x1 = x + x_row, *x2 = x + 2 * x_row, *x3 = x + 3 * x_row;
    float *y1 = y + y_row, *y2 = y + 2 * y_row, *y3 = y + 3 * y_row;
    size_t i, j = 0;
    for (; j + 2 * V_LANES <= n; j += 2 * V_LANES) {
        v_f32 a0 = v_zero(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
        const float *p = w + j;
        for (i = 0; i < k; i++, p += w_row) {
            const v_f32 u = v_load(p), v = v_load(p + V_LANES);
            v_f32 s = v_set(x[i]);
            a0 = v_fma(s, u, a0); a1 = v_fma(s, v, a1);
            s = v_set(x1[i]);
            b0 = v_fma(s, u, b0); b1 = v_fma(s, v, b1);
            s = v_set(x2[i]);
            c0 = v_fma(s, u, c0); c1 = v_fma(s, v, c1);
            s = v_set(x3[i]);
            d0 = v_fma(s, u, d0); d1 = v_fma(s, v, d1);
        }
        v_store(y + j, a0); v_store(y + j + V_LANES, a1);
        v_store(y1 + j, b0); v_store(y1 + j + V_LANES, b1);
        v_store(y2 + j, c0); v_store(y2 + j + V_LANES, c1);
        v_store(y3 + j, d0); v_store(y3 + j + V_LANES, d1);
    }
    for (; j < n; j += V_LANES) {
        const size_t some = n - j < V_LANES ? n - j : V_LANES;
        v_f32 a = v_zero(), b = a, c = a, d = a;
        const float *p = w + j;
        for (i = 0; i < k; i++, p += w_row) {
            const v_f32 u = v_load_n(p, some);
            a = v_fma(v_set(x[i]), u, a);
            b = v_fma(v_set(x1[i]), u, b);
            c = v_fma(v_set(x2[i]), u, c);
            d = v_fma(v_set(x3[i]), u, d);
        }
        v_store_n(y + j, a, some);
        v_store_n(y1 + j, b, some);
        v_store_n(y2 + j, c, some);
        v_store_n(y3 + j, d, some);
    }
}

TINYI_FORCE_INLINE void TINY_FN(tinyi_moe_one)(float *y, const float *x, const float *w, size_t w_row, size_t k,
                                               size_t n)
{
    size_t i, j = 0;
    for (; j + 4 * V_LANES <= n; j += 4 * V_LANES) {
        v_f32 a = v_zero(), b = a, c = a, d = a;
        const float *p = w + j;
        for (i = 0; i < k; i++, p += w_row) {
            const v_f32 s = v_set(x[i]);
            a = v_fma(s, v_load(p), a);
            b = v_fma(s, v_load(p + V_LANES), b);
            c = v_fma(s, v_load(p + 2 * V_LANES), c);
            d = v_fma(s, v_load(p + 3 * V_LANES), d);
        }
        v_store(y + j, a);
        v_store(y + j + V_LANES, b);
        v_store(y + j + 2 * V_LANES, c);
        v_store(y + j + 3 * V_LANES, d);
    }
    for (; j < n; j += V_LANES) {
        const size_t some = n - j < V_LANES ? n - j : V_LANES;
        v_f32 a = v_zero();
        const float *p = w + j;
        for (i = 0; i < k; i++, p += w_row) a = v_fma(v_set(x[i]), v_load_n(p, some), a);
        v_store_n(y + j, a, some);
    }
}

static void TINY_FN(tinyi_moe_product)(float *y, size_t y_row, const float *x, size_t x_row, size_t rows,
                                       const float *w, size_t w_row, size_t k, size_t n)
{
    size_t r, j;
    for (j = 0; j < n; j += 4 * V_LANES) {      /* a strip of w stays in the cache while all rows pass */
        const size_t some = n - j < 4 * V_LANES ? n - j : 4 * V_LANES;
        for (r = 0; r + 4 <= rows; r += 4)
            TINY_FN(tinyi_moe_four)(y + r * y_row + j, y_row, x + r * x_row, x_row, w + j, w_row, k, some);
        for (; r < rows; r++) TINY_FN(tinyi_moe_one)(y + r * y_row + j, x + r * x_row, w + j, w_row, k, some);
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
