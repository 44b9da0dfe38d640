/* src/gnn/operator/lines.simd.h - the gradient of a filter: dots of one field with shifted copies of another */
#include "gnn/operator/lines_inside.h"

/* up to four taps of some rows; a sum of floats is at most as long as these rows */
TINYI_FORCE_INLINE void TINY_FN(tinyi_lines_dots4)(double *sum, const float *y, ptrdiff_t ys, const float *x,
                                                   ptrdiff_t pitch, const int32_t *off, size_t taps, size_t rows,
                                                   size_t n)
{
    const int32_t o0 = off[0], o1 = off[taps > 1], o2 = off[taps > 2 ? 2 : 0], o3 = off[taps > 3 ? 3 : 0];
    v_f32 s0 = v_zero(), s1 = v_zero(), s2 = v_zero(), s3 = v_zero();
    size_t i, j;
    for (i = 0; i < rows; i++, y += ys, x += pitch) {
        for (j = 0; j + V_LANES <= n; j += V_LANES) {
            const v_f32 v = v_load(y + j);
            const float *p = x + j;
            s0 = v_fma(v, v_load(p + o0), s0);
            if (taps > 1) s1 = v_fma(v, v_load(p + o1), s1);
            if (taps > 2) s2 = v_fma(v, v_load(p + o2), s2);
            if (taps > 3) s3 = v_fma(v, v_load(p + o3), s3);
        }
        if (j < n) {
            const v_f32 v = v_load_n(y + j, n - j);
            const float *p = x + j;
            s0 = v_fma(v, v_load_n(p + o0, n - j), s0);
            if (taps > 1) s1 = v_fma(v, v_load_n(p + o1, n - j), s1);
            if (taps > 2) s2 = v_fma(v, v_load_n(p + o2, n - j), s2);
            if (taps > 3) s3 = v_fma(v, v_load_n(p + o3, n - j), s3);
        }
    }
    sum[0] += (double)v_sum(s0);
    if (taps > 1) sum[1] += (double)v_sum(s1);
    if (taps > 2) sum[2] += (double)v_sum(s2);
    if (taps > 3) sum[3] += (double)v_sum(s3);
}

static void TINY_FN(tinyi_lines_dots)(double *sum, const float *y, ptrdiff_t ys, const float *x, ptrdiff_t pitch,
                                      const int32_t *off, size_t taps, size_t rows, size_t n)
{
    for (; taps >= 4; taps -= 4, sum += 4, off += 4)
        TINY_FN(tinyi_lines_dots4)(sum, y, ys, x, pitch, off, 4, rows, n);
    if (taps == 3) TINY_FN(tinyi_lines_dots4)(sum, y, ys, x, pitch, off, 3, rows, n);
    else if (taps == 2) TINY_FN(tinyi_lines_dots4)(sum, y, ys, x, pitch, off, 2, rows, n);
    else if (taps == 1) TINY_FN(tinyi_lines_dots4)(sum, y, ys, x, pitch, off, 1, rows, n);
}

static const tinyi_lines_kernels TINY_FN(tinyi_lines_table) = { TINYI_PASS_TARGET, TINY_FN(tinyi_lines_dots) };
TINYI_TABLE(tinyi_lines_kernels, tinyi_lines_kernels, TINY_FN(tinyi_lines_table))
