/* src/llm/dist/codes.simd.h - codes of blocks, compiled once per target: exact operations, so the same bits on each */
static float TINY_FN(tinyi_codes_top)(const float *x, size_t n)
{
    v_f32 top = v_zero(), bad = v_zero();   /* 0 times NaN or infinity is NaN, and stays in the sum */
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) {
        const v_f32 v = v_load(x + i);
        top = v_max(v_abs(v), top);
        bad = v_fma(v, v_zero(), bad);
    }
    if (i < n) {
        const v_f32 v = v_load_n(x + i, n - i);
        top = v_max(v_abs(v), top);
        bad = v_fma(v, v_zero(), bad);
    }
    {
        const float sum = v_sum(bad);
        return sum == 0.0f ? v_hmax(top) : sum;
    }
}

static void TINY_FN(tinyi_codes_round)(int32_t *y, const float *x, const float *noise, size_t n, float scale,
                                       float most)
{
    const v_f32 s = v_set(scale), high = v_set(most), low = v_set(-most);
    size_t i;
    for (i = 0; i < n; i += V_LANES) {
        const size_t some = n - i < V_LANES ? n - i : V_LANES;
        v_f32 v = v_div(v_load_n(x + i, some), s);
        v = noise ? v_floor(v_add(v, v_load_n(noise + i, some))) : v_round(v);
        vi_store_n(y + i, v_to_i32(v_max(v_min(v, high), low)), some);
    }
}

static void TINY_FN(tinyi_codes_times)(float *y, const int8_t *x, size_t n, float scale)
{
    const v_f32 s = v_set(scale);
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_mul(v_from_i32(vi_load_i8(x + i)), s));
    for (; i < n; i++) y[i] = (float)x[i] * scale;
}

static void TINY_FN(tinyi_codes_sum)(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_add(v_load(y + i), v_load(x + i)));
    for (; i < n; i++) y[i] += x[i];
}

static const tinyi_codes_kernels TINY_FN(tinyi_codes_table) = { TINYI_PASS_TARGET, TINY_FN(tinyi_codes_top),
                                                                TINY_FN(tinyi_codes_round), TINY_FN(tinyi_codes_times),
                                                                TINY_FN(tinyi_codes_sum) };
TINYI_TABLE(tinyi_codes_kernels, tinyi_codes_kernels, TINY_FN(tinyi_codes_table))
