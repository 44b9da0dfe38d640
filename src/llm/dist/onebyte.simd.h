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

/* Eight blocks side by side: the compiler makes vectors of the loops, which have a constant length. */
static void TINY_FN(tinyi_onebyte_blocks)(uint32_t *bits, uint64_t key, uint64_t tensor, uint64_t block)
{
    uint32_t c0[8], c1[8], c2[8], c3[8], k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    int round, l;
    for (l = 0; l < 8; l++) {
        c0[l] = (uint32_t)(block + (unsigned)l);
        c1[l] = (uint32_t)((block + (unsigned)l) >> 32);
        c2[l] = (uint32_t)tensor;
        c3[l] = (uint32_t)(tensor >> 32);
    }
    for (round = 0; round < 10; round++) {
        for (l = 0; l < 8; l++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0[l], p1 = (uint64_t)0xCD9E8D57u * c2[l];
            c0[l] = (uint32_t)(p1 >> 32) ^ c1[l] ^ k0;
            c2[l] = (uint32_t)(p0 >> 32) ^ c3[l] ^ k1;
            c1[l] = (uint32_t)p1;
            c3[l] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (l = 0; l < 8; l++) {
        bits[4 * l] = c0[l];
        bits[4 * l + 1] = c1[l];
        bits[4 * l + 2] = c2[l];
        bits[4 * l + 3] = c3[l];
    }
}

static const tinyi_onebyte_kernels TINY_FN(tinyi_onebyte_table) = { TINYI_PASS_TARGET, TINY_FN(tinyi_onebyte_add),
                                                                    TINY_FN(tinyi_onebyte_blocks) };
TINYI_TABLE(tinyi_onebyte_kernels, tinyi_onebyte_kernels, TINY_FN(tinyi_onebyte_table))
