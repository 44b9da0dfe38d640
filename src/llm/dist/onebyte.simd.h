/* src/llm/dist/onebyte.simd.h - adds a number with random signs, compiled once per target */
static void TINY_FN(tinyi_onebyte_add)(float *y, const float *x, const uint32_t *bits, size_t n, float c)
{
    static const int32_t bit[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768 };
    const v_f32 plus = v_set(c), minus = v_set(-c);
    const v_i32 lane = vi_load(bit), zero = vi_zero();
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const uint32_t w = bits[i / 32];
        size_t k;
        for (k = 0; k < 32; k += V_LANES) {
            const v_i32 of = vi_and(vi_set((int32_t)(w >> k)), lane);
            v_store(y + i + k, v_add(v_load(x + i + k), v_select(vi_eq(of, zero), plus, minus)));
        }
    }
    for (; i < n; i++) y[i] = x[i] + (bits[i / 32] >> i % 32 & 1u ? -c : c);
}

static const tinyi_onebyte_kernels TINY_FN(tinyi_onebyte_table) = { TINYI_PASS_TARGET, TINY_FN(tinyi_onebyte_add) };
TINYI_TABLE(tinyi_onebyte_kernels, tinyi_onebyte_kernels, TINY_FN(tinyi_onebyte_table))
