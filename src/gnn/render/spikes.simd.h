/* src/gnn/render/spikes.simd.h - layers of spiking neurons, V_LANES neurons at a time; see spikes_inside.h */
#include "gnn/render/spikes_inside.h"

/* two rows, four vectors: eight sums, so that a weight is read once for two rows */
static void TINY_FN(tinyi_spike_dense)(float *y, const float *x, const float *w, size_t rows, size_t n_in, size_t n)
{
    size_t r, j, k;
    for (r = 0; r < rows; r += 2) {
        const int two = r + 1 < rows;
        const float *a = x + r * n_in, *b = two ? a + n_in : a;
        float *to = y + r * n, *under = two ? to + n : to;
        for (j = 0; j + 4 * V_LANES <= n; j += 4 * V_LANES) {
            v_f32 s0 = v_zero(), s1 = v_zero(), s2 = v_zero(), s3 = v_zero();
            v_f32 t0 = v_zero(), t1 = v_zero(), t2 = v_zero(), t3 = v_zero();
            const float *from = w + j;
            for (k = 0; k < n_in; k++, from += n) {
                const v_f32 p = v_set(a[k]), q = v_set(b[k]);
                const v_f32 w0 = v_load(from), w1 = v_load(from + V_LANES), w2 = v_load(from + 2 * V_LANES),
                            w3 = v_load(from + 3 * V_LANES);
                s0 = v_fma(p, w0, s0);
                s1 = v_fma(p, w1, s1);
                s2 = v_fma(p, w2, s2);
                s3 = v_fma(p, w3, s3);
                t0 = v_fma(q, w0, t0);
                t1 = v_fma(q, w1, t1);
                t2 = v_fma(q, w2, t2);
                t3 = v_fma(q, w3, t3);
            }
            v_store(under + j, t0);         /* one row: both are the same */
            v_store(under + j + V_LANES, t1);
            v_store(under + j + 2 * V_LANES, t2);
            v_store(under + j + 3 * V_LANES, t3);
            v_store(to + j, s0);
            v_store(to + j + V_LANES, s1);
            v_store(to + j + 2 * V_LANES, s2);
            v_store(to + j + 3 * V_LANES, s3);
        }
        for (; j < n; j += V_LANES) {
            const size_t left = n - j < V_LANES ? n - j : V_LANES;
            v_f32 s = v_zero(), t = v_zero();
            for (k = 0; k < n_in; k++) {
                const v_f32 u = v_load_n(w + k * n + j, left);
                s = v_fma(v_set(a[k]), u, s);
                t = v_fma(v_set(b[k]), u, t);
            }
            v_store_n(under + j, t, left);
            v_store_n(to + j, s, left);
        }
    }
}

static void TINY_FN(tinyi_spike_fire)(uint32_t *bits, float *h, float *v, const float *x, float leak, size_t n)
{
    static const int32_t lane[16] = { 1,   2,   4,    8,    16,   32,   64,    128,
                                      256, 512, 1024, 2048, 4096, 8192, 16384, 32768 };
    const v_f32 p = v_set(leak), one = v_set(1.0f);
    const v_i32 bit = vi_load(lane);
    size_t i, k;
    for (i = 0; i < n; i += 32) {
        uint32_t word = 0;
        for (k = 0; k < 32; k += V_LANES) {
            const v_f32 old = v_load(v + i + k), z = v_fma(v_sub(v_load(x + i + k), old), p, old);
            const v_mask fires = v_le(one, z);
            word |= (uint32_t)vi_sum(vi_select(fires, bit, vi_zero())) << k;
            if (h) v_store(h + i + k, z);
            v_store(v + i + k, v_select(fires, v_zero(), z));
        }
        bits[i / 32] = word;
    }
}

static void TINY_FN(tinyi_spike_fade)(float *v, float leak, size_t times, size_t n)
{
    const v_f32 p = v_set(leak);
    size_t i, k;
    for (i = 0; i < n; i += V_LANES) {
        v_f32 z = v_load(v + i);
        for (k = 0; k < times; k++) z = v_fma(v_sub(v_zero(), z), p, z);
        v_store(v + i, z);
    }
}

/* the rows of w that are set, first as a list */
static size_t TINY_FN(tinyi_spike_add)(float *y, const uint32_t *bits, const float *w, size_t words, size_t n, int more)
{
    uint16_t list[512];
    size_t i, j, count = 0;
    for (i = 0; i < words; i++) {
        uint32_t b = bits[i];
        size_t at = i * 32;
        while (b) {                         /* from bit to bit, zeros eight at a time */
            for (; !(b & 255u); b >>= 8) at += 8;
            for (; !(b & 1u); b >>= 1) at++;
            list[count++] = (uint16_t)at++;
            b >>= 1;
        }
    }
    for (j = 0; j + 4 * V_LANES <= n; j += 4 * V_LANES) {
        v_f32 s0 = v_zero(), s1 = v_zero(), s2 = v_zero(), s3 = v_zero();
        if (more) {
            s0 = v_load(y + j);
            s1 = v_load(y + j + V_LANES);
            s2 = v_load(y + j + 2 * V_LANES);
            s3 = v_load(y + j + 3 * V_LANES);
        }
        for (i = 0; i < count; i++) {
            const float *from = w + list[i] * n + j;
            s0 = v_add(s0, v_load(from));
            s1 = v_add(s1, v_load(from + V_LANES));
            s2 = v_add(s2, v_load(from + 2 * V_LANES));
            s3 = v_add(s3, v_load(from + 3 * V_LANES));
        }
        v_store(y + j, s0);
        v_store(y + j + V_LANES, s1);
        v_store(y + j + 2 * V_LANES, s2);
        v_store(y + j + 3 * V_LANES, s3);
    }
    for (; j < n; j += V_LANES) {
        const size_t left = n - j < V_LANES ? n - j : V_LANES;
        v_f32 s = more ? v_load_n(y + j, left) : v_zero();
        for (i = 0; i < count; i++) s = v_add(s, v_load_n(w + list[i] * n + j, left));
        v_store_n(y + j, s, left);
    }
    return count;
}

static const tinyi_spike_kernels TINY_FN(tinyi_spike_table) = {
    TINYI_PASS_TARGET, TINY_FN(tinyi_spike_dense), TINY_FN(tinyi_spike_fire), TINY_FN(tinyi_spike_fade),
    TINY_FN(tinyi_spike_add)
};
TINYI_TABLE(tinyi_spike_kernels, tinyi_spike_kernels, TINY_FN(tinyi_spike_table))
