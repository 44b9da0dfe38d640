/* src/gnn/operator/modes.simd.h - lines of modes, V_LANES channels at a time; see modes_inside.h */
#include "gnn/operator/modes_inside.h"

static void TINY_FN(tinyi_modes_fold)(float *s, float *d, const float *x, size_t n, ptrdiff_t step)
{
    const size_t h = n / 2;
    size_t i;
    v_store(s, v_load(x));
    v_store(d, v_zero());
    for (i = 1; i <= h; i++) {
        const v_f32 a = v_load(x + (ptrdiff_t)i * step), b = v_load(x + (ptrdiff_t)(n - i) * step);
        const int middle = 2 * i == n;
        v_store(s + i * V_LANES, middle ? a : v_add(a, b));
        v_store(d + i * V_LANES, middle ? v_zero() : v_sub(a, b));
    }
}

static void TINY_FN(tinyi_modes_unfold)(float *y, const float *e, const float *o, size_t n, ptrdiff_t step)
{
    size_t i;
    v_store(y, v_sub(v_load(e), v_load(o)));
    for (i = 1; i <= n / 2; i++) {
        const v_f32 a = v_load(e + i * V_LANES), b = v_load(o + i * V_LANES);
        v_store(y + (ptrdiff_t)i * step, v_sub(a, b));
        if (2 * i != n) v_store(y + (ptrdiff_t)(n - i) * step, v_add(a, b));
    }
}

/* eight sums at a time: four of a and four of b */
static void TINY_FN(tinyi_modes_dots)(float *y, float *z, size_t y_step, const float *a, const float *b, size_t a_step,
                                      const float *t, size_t n_in, size_t n_out)
{
    const size_t row = 2 * n_out;
    size_t j = 0, k;
    for (; j + 4 <= n_out; j += 4) {
        const float *w = t + 2 * j;
        v_f32 y0 = v_zero(), y1 = v_zero(), y2 = v_zero(), y3 = v_zero();
        v_f32 z0 = v_zero(), z1 = v_zero(), z2 = v_zero(), z3 = v_zero();
        for (k = 0; k < n_in; k++, w += row) {
            const v_f32 u = v_load(a + k * a_step), v = v_load(b + k * a_step);
            y0 = v_fma(v_set(w[0]), u, y0);
            z0 = v_fma(v_set(w[1]), v, z0);
            y1 = v_fma(v_set(w[2]), u, y1);
            z1 = v_fma(v_set(w[3]), v, z1);
            y2 = v_fma(v_set(w[4]), u, y2);
            z2 = v_fma(v_set(w[5]), v, z2);
            y3 = v_fma(v_set(w[6]), u, y3);
            z3 = v_fma(v_set(w[7]), v, z3);
        }
        v_store(y + j * y_step, y0);
        v_store(z + j * y_step, z0);
        v_store(y + (j + 1) * y_step, y1);
        v_store(z + (j + 1) * y_step, z1);
        v_store(y + (j + 2) * y_step, y2);
        v_store(z + (j + 2) * y_step, z2);
        v_store(y + (j + 3) * y_step, y3);
        v_store(z + (j + 3) * y_step, z3);
    }
    for (; j < n_out; j++) {
        const float *w = t + 2 * j;
        v_f32 y0 = v_zero(), z0 = v_zero();
        for (k = 0; k < n_in; k++, w += row) {
            y0 = v_fma(v_set(w[0]), v_load(a + k * a_step), y0);
            z0 = v_fma(v_set(w[1]), v_load(b + k * a_step), z0);
        }
        v_store(y + j * y_step, y0);
        v_store(z + j * y_step, z0);
    }
}

static void TINY_FN(tinyi_modes_apart)(float *up, float *down, const float *r, const float *s, const float *q,
                                       const float *p)
{
    const v_f32 a = v_load(r), b = v_load(p), c = v_load(q), d = v_load(s);
    if (up) {
        v_store(up, v_add(a, b));
        v_store(up + V_LANES, v_sub(c, d));
    }
    if (down) {
        v_store(down, v_sub(a, b));
        v_store(down + V_LANES, v_add(c, d));
    }
}

static void TINY_FN(tinyi_modes_pair)(float *sum, float *difference, const float *u, const float *v)
{
    const v_f32 a = u ? v_load(u) : v_zero(), b = v ? v_load(v) : v_zero();
    v_store(sum, v_add(a, b));
    v_store(difference, v_sub(a, b));
}

/* y of one vector of channels; the sums of the four real products are apart, and joined with their signs at the end */
TINYI_FORCE_INLINE void TINY_FN(tinyi_modes_mix_at)(float *y, tinyi_modes_side ys, const float *x, tinyi_modes_side xs,
                                                    const float *w, tinyi_modes_side ws, size_t n_k, size_t n_rows,
                                                    size_t n, float sign, float out)
{
    const v_f32 s = v_set(sign), o = v_set(out);
    v_f32 rr0 = v_zero(), ii0 = v_zero(), ri0 = v_zero(), ir0 = v_zero();
    v_f32 rr1 = v_zero(), ii1 = v_zero(), ri1 = v_zero(), ir1 = v_zero();
    const float *x1 = n_rows > 1 ? x + xs.row : x;
    size_t left;
    for (left = n_k; left; left--, w += ws.row, x++, x1++) {
        const v_f32 wr = n == V_LANES ? v_load(w) : v_load_n(w, n);
        const v_f32 wi = n == V_LANES ? v_load(w + ws.pair) : v_load_n(w + ws.pair, n);
        v_f32 r = v_set(x[0]), i = v_set(x[xs.pair]);
        rr0 = v_fma(r, wr, rr0);
        ii0 = v_fma(i, wi, ii0);
        ri0 = v_fma(r, wi, ri0);
        ir0 = v_fma(i, wr, ir0);
        if (n_rows == 1) continue;
        r = v_set(x1[0]);
        i = v_set(x1[xs.pair]);
        rr1 = v_fma(r, wr, rr1);
        ii1 = v_fma(i, wi, ii1);
        ri1 = v_fma(r, wi, ri1);
        ir1 = v_fma(i, wr, ir1);
    }
    rr0 = v_fma(s, ii0, rr0);
    ri0 = v_mul(o, v_fnma(s, ir0, ri0));
    rr1 = v_fma(s, ii1, rr1);
    ri1 = v_mul(o, v_fnma(s, ir1, ri1));
    if (n == V_LANES) {
        v_store(y, rr0);
        v_store(y + ys.pair, ri0);
        if (n_rows == 1) return;
        v_store(y + ys.row, rr1);
        v_store(y + ys.row + ys.pair, ri1);
    } else {
        v_store_n(y, rr0, n);
        v_store_n(y + ys.pair, ri0, n);
        if (n_rows == 1) return;
        v_store_n(y + ys.row, rr1, n);
        v_store_n(y + ys.row + ys.pair, ri1, n);
    }
}

static void TINY_FN(tinyi_modes_mix)(float *y, tinyi_modes_side ys, const float *x, tinyi_modes_side xs, const float *w,
                                     tinyi_modes_side ws, size_t k, size_t n_rows, size_t n_c, float sign, float out)
{
    size_t c = 0;
    for (; c + V_LANES <= n_c; c += V_LANES)
        if (n_rows == 1) TINY_FN(tinyi_modes_mix_at)(y + c, ys, x, xs, w + c, ws, k, 1, V_LANES, sign, out);
        else TINY_FN(tinyi_modes_mix_at)(y + c, ys, x, xs, w + c, ws, k, 2, V_LANES, sign, out);
    if (c < n_c) TINY_FN(tinyi_modes_mix_at)(y + c, ys, x, xs, w + c, ws, k, n_rows, n_c - c, sign, out);
}

static const tinyi_modes_kernels TINY_FN(tinyi_modes_table) = {
    TINYI_PASS_TARGET, V_LANES, TINY_FN(tinyi_modes_fold), TINY_FN(tinyi_modes_unfold), TINY_FN(tinyi_modes_dots),
    TINY_FN(tinyi_modes_apart), TINY_FN(tinyi_modes_pair), TINY_FN(tinyi_modes_mix)
};
TINYI_TABLE(tinyi_modes_kernels, tinyi_modes_kernels, TINY_FN(tinyi_modes_table))
