/* src/math/sort.simd.h - the filter of topk, and sums along a row */

static size_t TINY_FN(tinyi_topk_scan_f32)(uint32_t *hit, const float *x, size_t n, float limit)
{
    const v_f32 l = v_set(limit);
    size_t i = 0, j, hits = 0;
    /* finds are rare: one branch for four vectors, the lanes are looked at only when there is one */
    for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
        const v_mask a = vm_and(v_le(v_load(x + i), l), v_le(v_load(x + i + V_LANES), l));
        const v_mask b = vm_and(v_le(v_load(x + i + 2 * V_LANES), l), v_le(v_load(x + i + 3 * V_LANES), l));
        if (vm_all(vm_and(a, b))) continue;
        for (j = i; j < i + 4 * V_LANES; j++) {
            hit[hits] = (uint32_t)j;
            hits += !(x[j] <= limit);
        }
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

/* A sum waits four cycles for the one before. So four stretches are summed side by side, each from the total of those before it. */
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
