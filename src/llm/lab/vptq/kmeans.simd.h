/* src/llm/lab/vptq/kmeans.simd.h - the nearest of many centres, compiled once per target
 *
 * Lanes are centres. Four vectors share what is loaded of them. A difference, a product and a sum for each number, none
 * of them fused: the bits are those of the plain form. (|c|^2 / 2 - x c would be a third of the work, and takes the
 * wrong one of two centres that are close to each other.) */
#define TINYI_NEAREST_STEP(j) { const v_f32 t = v_sub(c, v_set(x[(j) * v + i])); d##j = v_add(d##j, v_mul(t, t)); }
#define TINYI_NEAREST_KEEP(j)                 \
    {                                         \
        const v_mask m = v_lt(d##j, best##j); \
        best##j = v_select(m, d##j, best##j); \
        at##j = vi_select(m, here, at##j);    \
    }

/* the least over the lanes; of equal ones the lowest centre */
TINYI_FORCE_INLINE void TINY_FN(tinyi_nearest_least)(uint32_t *code, float *distance, v_f32 best, v_i32 at)
{
    float b[V_LANES];
    int32_t a[V_LANES];
    int i, least = 0;
    v_store(b, best);
    vi_store(a, at);
    for (i = 1; i < V_LANES; i++)
        if (b[i] < b[least] || (b[i] == b[least] && a[i] < a[least])) least = i;
    *code = (uint32_t)a[least];
    *distance = b[least];
}

static void TINY_FN(tinyi_nearest)(uint32_t *code, float *distance, const float *x, size_t n, size_t v,
                                   const float *laid, size_t n_centre)
{
    const v_f32 most = v_set(FLT_MAX);
    size_t k, i, s;
    for (; n >= 4; n -= 4, x += 4 * v, code += 4, distance += 4) {
        v_f32 best0 = most, best1 = most, best2 = most, best3 = most;
        v_i32 at0 = vi_zero(), at1 = at0, at2 = at0, at3 = at0, here = vi_iota();
        const float *block = laid;
        for (k = 0; k < n_centre; k += 16, block += 16 * v)
            for (s = 0; s < 16; s += V_LANES) {
                v_f32 d0 = v_zero(), d1 = d0, d2 = d0, d3 = d0;
                for (i = 0; i < v; i++) {
                    const v_f32 c = v_load(block + 16 * i + s);
                    TINYI_NEAREST_STEP(0) TINYI_NEAREST_STEP(1) TINYI_NEAREST_STEP(2) TINYI_NEAREST_STEP(3)
                }
                TINYI_NEAREST_KEEP(0) TINYI_NEAREST_KEEP(1) TINYI_NEAREST_KEEP(2) TINYI_NEAREST_KEEP(3)
                here = vi_add(here, vi_set(V_LANES));
            }
        TINY_FN(tinyi_nearest_least)(code, distance, best0, at0);
        TINY_FN(tinyi_nearest_least)(code + 1, distance + 1, best1, at1);
        TINY_FN(tinyi_nearest_least)(code + 2, distance + 2, best2, at2);
        TINY_FN(tinyi_nearest_least)(code + 3, distance + 3, best3, at3);
    }
    for (; n > 0; n--, x += v, code++, distance++) {
        v_f32 best0 = most;
        v_i32 at0 = vi_zero(), here = vi_iota();
        const float *block = laid;
        for (k = 0; k < n_centre; k += 16, block += 16 * v)
            for (s = 0; s < 16; s += V_LANES) {
                v_f32 d0 = v_zero();
                for (i = 0; i < v; i++) {
                    const v_f32 c = v_load(block + 16 * i + s);
                    TINYI_NEAREST_STEP(0)
                }
                TINYI_NEAREST_KEEP(0)
                here = vi_add(here, vi_set(V_LANES));
            }
        TINY_FN(tinyi_nearest_least)(code, distance, best0, at0);
    }
}
#undef TINYI_NEAREST_STEP
#undef TINYI_NEAREST_KEEP

static const tinyi_nearest_kernels TINY_FN(tinyi_nearest_table) = { TINY_FN(tinyi_nearest) };
TINYI_TABLE(tinyi_nearest_kernels, tinyi_nearest_kernels, TINY_FN(tinyi_nearest_table))
