/* src/llm/lab/nets/share.simd.h - products and copies of weights with signs, compiled once per target
 *
 * Weights before the first multiple of 16 and after the last whole vector go one by one; rows of 16 k weights have
 * none. With one row of x four sums grow side by side, since one multiply-add waits four cycles for the one before;
 * with up to four rows each has its own sum and a weight is loaded once for all. */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_share_signed)(const float *w, const uint32_t *sign, size_t place)
{
    const v_i32 bits = vi_load((const int32_t *)(const void *)(sign + (place >> 9 << 4) + (place & 15)));
    return v_float(vi_xor(v_bits(v_load(w)), vi_and(vi_shl(bits, 31 - (int)(place >> 4 & 31)), vi_set(INT32_MIN))));
}
TINYI_FORCE_INLINE float TINY_FN(tinyi_share_one)(const float *w, const uint32_t *sign, size_t place)
{
    return tinyi_share_minus(sign, place) ? -*w : *w;
}
TINYI_FORCE_INLINE size_t TINY_FN(tinyi_share_before)(size_t first, size_t n)
{
    const size_t head = (16 - first % 16) % 16;
    return head < n ? head : n;
}

static void TINY_FN(tinyi_share_dot)(float *y, ptrdiff_t y_step, const float *w, const uint32_t *sign, size_t first,
                                     size_t n, const float *x, ptrdiff_t x_step, size_t n_x, float scale)
{
    const size_t head = TINY_FN(tinyi_share_before)(first, n);
    for (; n_x >= 4; n_x -= 4, x += 4 * x_step, y += 4 * y_step) {
        const float *x1 = x + x_step, *x2 = x + 2 * x_step, *x3 = x + 3 * x_step;
        v_f32 a0 = v_zero(), a1 = a0, a2 = a0, a3 = a0;
        float sum[4], one;
        size_t i = head, k;
        for (; i + V_LANES <= n; i += V_LANES) {
            const v_f32 t = TINY_FN(tinyi_share_signed)(w + i, sign, first + i);
            a0 = v_fma(t, v_load(x + i), a0);
            a1 = v_fma(t, v_load(x1 + i), a1);
            a2 = v_fma(t, v_load(x2 + i), a2);
            a3 = v_fma(t, v_load(x3 + i), a3);
        }
        sum[0] = v_sum(a0); sum[1] = v_sum(a1); sum[2] = v_sum(a2); sum[3] = v_sum(a3);
        for (k = head ? 0 : i; k < n; k = k + 1 == head ? i : k + 1) {     /* before and after the vectors */
            one = TINY_FN(tinyi_share_one)(w + k, sign, first + k);
            sum[0] += one * x[k]; sum[1] += one * x1[k]; sum[2] += one * x2[k]; sum[3] += one * x3[k];
        }
        for (k = 0; k < 4; k++) y[(ptrdiff_t)k * y_step] += scale * sum[k];
    }
    for (; n_x > 0; n_x--, x += x_step, y += y_step) {
        v_f32 a0 = v_zero(), a1 = a0, a2 = a0, a3 = a0;
        float sum;
        size_t i = head, k;
        for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
            a0 = v_fma(TINY_FN(tinyi_share_signed)(w + i, sign, first + i), v_load(x + i), a0);
            a1 = v_fma(TINY_FN(tinyi_share_signed)(w + i + V_LANES, sign, first + i + V_LANES),
                       v_load(x + i + V_LANES), a1);
            a2 = v_fma(TINY_FN(tinyi_share_signed)(w + i + 2 * V_LANES, sign, first + i + 2 * V_LANES),
                       v_load(x + i + 2 * V_LANES), a2);
            a3 = v_fma(TINY_FN(tinyi_share_signed)(w + i + 3 * V_LANES, sign, first + i + 3 * V_LANES),
                       v_load(x + i + 3 * V_LANES), a3);
        }
        for (; i + V_LANES <= n; i += V_LANES)
            a0 = v_fma(TINY_FN(tinyi_share_signed)(w + i, sign, first + i), v_load(x + i), a0);
        sum = v_sum(v_add(v_add(a0, a1), v_add(a2, a3)));
        for (k = 0; k < head; k++) sum += TINY_FN(tinyi_share_one)(w + k, sign, first + k) * x[k];
        for (k = i; k < n; k++) sum += TINY_FN(tinyi_share_one)(w + k, sign, first + k) * x[k];
        *y += scale * sum;
    }
}

static void TINY_FN(tinyi_share_put)(float *y, const float *w, const uint32_t *sign, size_t first, size_t n,
                                     float scale)
{
    const size_t head = TINY_FN(tinyi_share_before)(first, n);
    const v_f32 by = v_set(scale);
    size_t i;
    for (i = 0; i < head; i++) y[i] = scale * TINY_FN(tinyi_share_one)(w + i, sign, first + i);
    for (; i + V_LANES <= n; i += V_LANES)
        v_store(y + i, v_mul(by, TINY_FN(tinyi_share_signed)(w + i, sign, first + i)));
    for (; i < n; i++) y[i] = scale * TINY_FN(tinyi_share_one)(w + i, sign, first + i);
}

static void TINY_FN(tinyi_share_add)(float *y, const float *w, const uint32_t *sign, size_t first, size_t n,
                                     float scale)
{
    const size_t head = TINY_FN(tinyi_share_before)(first, n);
    const v_f32 by = v_set(scale);
    size_t i;
    for (i = 0; i < head; i++) y[i] += scale * TINY_FN(tinyi_share_one)(w + i, sign, first + i);
    for (; i + V_LANES <= n; i += V_LANES)
        v_store(y + i, v_fma(by, TINY_FN(tinyi_share_signed)(w + i, sign, first + i), v_load(y + i)));
    for (; i < n; i++) y[i] += scale * TINY_FN(tinyi_share_one)(w + i, sign, first + i);
}

static void TINY_FN(tinyi_share_sum)(float *sum, const float *x, size_t n)
{
    const v_f32 zero = v_zero(), one = v_set(1.0f);
    for (; n; n -= TINYI_MIN(n, V_LANES), x += V_LANES, sum += V_LANES) {
        const v_f32 v = v_load_n(x, TINYI_MIN(n, V_LANES));
        v_store_n(sum,
                  v_add(v_load_n(sum, TINYI_MIN(n, V_LANES)),
                        v_sub(v_select(v_lt(zero, v), one, zero), v_select(v_lt(v, zero), one, zero))),
                  TINYI_MIN(n, V_LANES));
    }
}

static const tinyi_share_kernels TINY_FN(tinyi_share_table) = { TINYI_PASS_TARGET, TINY_FN(tinyi_share_dot),
                                                                TINY_FN(tinyi_share_put), TINY_FN(tinyi_share_add),
                                                                TINY_FN(tinyi_share_sum) };
TINYI_TABLE(tinyi_share_kernels, tinyi_share_kernels, TINY_FN(tinyi_share_table))
