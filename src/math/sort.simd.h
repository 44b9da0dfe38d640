/* src/math/sort.simd.h - the filter of topk, and sums along a row */

#if !V_AVX512 && !V_AVX2 && !V_SCALAR
TINYI_FORCE_INLINE size_t TINY_FN(tinyi_topk_lanes)(uint32_t *hit, size_t hits, const float *x, size_t i, float limit)
{
    size_t j;
    for (j = i; j < i + V_LANES; j++) {
        hit[hits] = (uint32_t)j;
        hits += !(x[j] <= limit);
    }
    return hits;
}
#endif

static size_t TINY_FN(tinyi_topk_scan_f32)(uint32_t *hit, const float *x, size_t n, float limit)
{
    const v_f32 l = v_set(limit);
    size_t i = 0, hits = 0;
    /* finds are rare: one branch for four vectors */
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        const v_mask a = v_le(v_load(x + i), l), b = v_le(v_load(x + i + V_LANES), l),
                     c = v_le(v_load(x + i + 2 * V_LANES), l), d = v_le(v_load(x + i + 3 * V_LANES), l);
        if (vm_all(vm_and(vm_and(a, b), vm_and(c, d)))) continue;
#if V_AVX512 || V_AVX2
        {
            /* one bit a lane, and from bit to bit */
#if V_AVX512
            uint64_t m = ~((uint64_t)a | (uint64_t)b << 16 | (uint64_t)c << 32 | (uint64_t)d << 48);
#else
            uint32_t m = ~((uint32_t)_mm256_movemask_ps(a) | (uint32_t)_mm256_movemask_ps(b) << 8 |
                           (uint32_t)_mm256_movemask_ps(c) << 16 | (uint32_t)_mm256_movemask_ps(d) << 24);
#endif
            for (; m; m &= m - 1) hit[hits++] = (uint32_t)i + (uint32_t)TINYI_LOW_BIT(m);
        }
#elif V_SCALAR
        if (!a) hit[hits++] = (uint32_t)i;
        if (!b) hit[hits++] = (uint32_t)i + 1;
        if (!c) hit[hits++] = (uint32_t)i + 2;
        if (!d) hit[hits++] = (uint32_t)i + 3;
#else
        if (!vm_all(a)) hits = TINY_FN(tinyi_topk_lanes)(hit, hits, x, i, limit);
        if (!vm_all(b)) hits = TINY_FN(tinyi_topk_lanes)(hit, hits, x, i + V_LANES, limit);
        if (!vm_all(c)) hits = TINY_FN(tinyi_topk_lanes)(hit, hits, x, i + 2 * V_LANES, limit);
        if (!vm_all(d)) hits = TINY_FN(tinyi_topk_lanes)(hit, hits, x, i + 3 * V_LANES, limit);
#endif
    }
    for (; i < n; i++)
        if (!(x[i] <= limit)) hit[hits++] = (uint32_t)i;
    return hits;
}

static double TINY_FN(tinyi_cumsum_total_f32)(const float *x, size_t n)
{
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a += (double)x[i];
        b += (double)x[i + 1];
        c += (double)x[i + 2];
        d += (double)x[i + 3];
    }
    for (; i < n; i++) a += (double)x[i];
    return (a + b) + (c + d);
}

/* A sum waits four cycles for the one before. So four stretches are summed side by side, each from the total of those
 * before it. */
static double TINY_FN(tinyi_cumsum_f32)(float *y, const float *x, size_t n, double start, int exclusive)
{
    enum { STRETCH = 512 };
    double s = start;
    size_t i = 0, j;
    for (; i + 4 * STRETCH <= n; i += 4 * STRETCH) {
        const float *p = x + i;
        float *q = y + i;
        double s0 = s, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        for (j = 0; j < STRETCH; j++) {
            s1 += (double)p[j];
            s2 += (double)p[j + STRETCH];
            s3 += (double)p[j + 2 * STRETCH];
        }
        s1 += s0;
        s2 += s1;
        s3 += s2;
        if (exclusive)
            for (j = 0; j < STRETCH; j++) {
                const float a = p[j], b = p[j + STRETCH], c = p[j + 2 * STRETCH], d = p[j + 3 * STRETCH];
                q[j] = (float)s0;
                q[j + STRETCH] = (float)s1;
                q[j + 2 * STRETCH] = (float)s2;
                q[j + 3 * STRETCH] = (float)s3;
                s0 += (double)a;
                s1 += (double)b;
                s2 += (double)c;
                s3 += (double)d;
            }
        else
            for (j = 0; j < STRETCH; j++) {
                s0 += (double)p[j];
                s1 += (double)p[j + STRETCH];
                s2 += (double)p[j + 2 * STRETCH];
                s3 += (double)p[j + 3 * STRETCH];
                q[j] = (float)s0;
                q[j + STRETCH] = (float)s1;
                q[j + 2 * STRETCH] = (float)s2;
                q[j + 3 * STRETCH] = (float)s3;
            }
        s = s3;
    }
    for (; i < n; i++) {
        const float a = x[i];
        if (exclusive) {
            y[i] = (float)s;
            s += (double)a;
        } else {
            s += (double)a;
            y[i] = (float)s;
        }
    }
    return s;
}

static void TINY_FN(tinyi_use_sort)(tinyi_kernels *k)
{
    TINYI_USE(k, topk_scan_f32);
    TINYI_USE(k, cumsum_f32);
    TINYI_USE(k, cumsum_total_f32);
}
