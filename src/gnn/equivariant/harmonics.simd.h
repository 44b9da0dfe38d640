/* src/gnn/equivariant/harmonics.simd.h - harmonics of V_LANES vectors at a time; see harmonics_inside.h */
#include "gnn/equivariant/harmonics_inside.h"

#if V_AVX512
#define TINYI_SPH_PAST(p, v) _mm512_stream_ps(p, v)
#define TINYI_SPH_PAST_END() _mm_sfence()
#elif V_AVX2
#define TINYI_SPH_PAST(p, v) _mm256_stream_ps(p, v)
#define TINYI_SPH_PAST_END() _mm_sfence()
#else
#define TINYI_SPH_PAST(p, v) v_store(p, v)
#define TINYI_SPH_PAST_END() ((void)0)
#endif

/* Leaves the direction of x, y, z in their place, 1 / max(|x|, 2^-126) in inverse (0 for the vector 0), and returns
 * |direction|^2: with that of the rounded direction, an error of its length costs l u and not l^2 u. The largest
 * component is divided out first, so that no square overflows or vanishes. */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_sph_direction)(v_f32 *x, v_f32 *y, v_f32 *z, v_f32 *inverse)
{
    const v_f32 one = v_set(1.0f), most = v_max(v_max(v_abs(*x), v_abs(*y)), v_abs(*z));
    const v_mask none = v_eq(v_add(v_add(v_abs(*x), v_abs(*y)), v_abs(*z)), v_zero());     /* false for a NaN */
    const v_f32 by = v_select(none, one, most);
    v_f32 a = v_div(*x, by), b = v_div(*y, by), c = v_div(*z, by);
    const v_f32 length = v_sqrt(v_fma(a, a, v_fma(b, b, v_mul(c, c))));
    const v_f32 part = v_div(one, v_select(none, one, length));
    *x = v_mul(a, part);
    *y = v_mul(b, part);
    *z = v_mul(c, part);
    *inverse = v_select(none, v_zero(), v_min(v_div(part, by), v_set(8.507059173e37f)));
    return v_fma(*x, *x, v_fma(*y, *y, v_mul(*z, *z)));
}

TINYI_FORCE_INLINE void TINY_FN(tinyi_sph_some)(const tinyi_sph_plan *p, int l_max, float *to, size_t step,
                                                const float *from)
{
    const v_f32 root2 = v_set(1.41421356f);
    v_f32 x = v_load(from), y = v_load(from + step), z = v_load(from + 2 * step), inverse;
    v_f32 c = v_set(1.0f), s = v_zero();
    const v_f32 r2 = p->solid ? v_fma(x, x, v_fma(y, y, v_mul(z, z)))
                              : TINY_FN(tinyi_sph_direction)(&x, &y, &z, &inverse);
    int l, m;
    for (m = 0; m <= l_max; m++) {
        v_f32 q0 = v_zero(), q1 = v_set(p->diagonal[m]);
        if (m == 1) {
            c = v_mul(root2, z);
            s = v_mul(root2, x);
        } else if (m > 1) {
            const v_f32 old = c;
            c = v_fnma(s, x, v_mul(c, z));
            s = v_fma(old, x, v_mul(s, z));
        }
        for (l = m;;) {
            float *row = to + (size_t)(l * l + l) * step;
            v_f32 q;
            v_store(row + (size_t)m * step, v_mul(q1, c));
            if (m) v_store(row - (size_t)m * step, v_mul(q1, s));
            if (++l > l_max) break;
            q = v_mul(v_mul(v_set(p->a[TINYI_SPH_AT(l, m)]), y), q1);
            if (l > m + 1) q = v_fnma(v_mul(v_set(p->b[TINYI_SPH_AT(l, m)]), r2), q0, q);
            q0 = q1;
            q1 = q;
        }
    }
}

static void TINY_FN(tinyi_sph_values)(const tinyi_sph_plan *p, float *y, size_t step, const float *x, size_t n)
{
    size_t i;
    for (i = 0; i < n; i += V_LANES) TINY_FN(tinyi_sph_some)(p, p->l_max, y + i, step, x + i);
}

/* d of q c or q s by x, y, z to its three rows: of the polynomial, or of the direction, where the part along the vector
 * is degree * value */
TINYI_FORCE_INLINE void TINY_FN(tinyi_sph_write)(float *row, size_t apart, v_f32 dx, v_f32 dy, v_f32 dz, v_f32 value,
                                                 const v_f32 *n, v_f32 degree, v_f32 inverse, int solid)
{
    if (!solid) {
        const v_f32 along = v_mul(degree, value);
        dx = v_mul(v_fnma(along, n[0], dx), inverse);
        dy = v_mul(v_fnma(along, n[1], dy), inverse);
        dz = v_mul(v_fnma(along, n[2], dz), inverse);
    }
    v_store(row, dx);
    v_store(row + apart, dy);
    v_store(row + 2 * apart, dz);
}

TINYI_FORCE_INLINE void TINY_FN(tinyi_sph_some_slopes)(const tinyi_sph_plan *p, float *to, float *slope, float *factor,
                                                       size_t step, const float *from)
{
    const v_f32 root2 = v_set(1.41421356f), zero = v_zero();
    const size_t apart = (size_t)((p->l_max + 1) * (p->l_max + 1)) * step;
    v_f32 q[TINYI_SPH_PAIRS], n[3], c = v_set(1.0f), s = v_zero(), c0 = v_zero(), s0 = v_zero(), r2;
    v_f32 inverse = v_set(1.0f);
    int l, m;
    n[0] = v_load(from);
    n[1] = v_load(from + step);
    n[2] = v_load(from + 2 * step);
    r2 = p->solid ? v_fma(n[0], n[0], v_fma(n[1], n[1], v_mul(n[2], n[2])))
                  : TINY_FN(tinyi_sph_direction)(&n[0], &n[1], &n[2], &inverse);
    if (factor) {
        v_store(factor, inverse);
        inverse = v_set(1.0f);
    }
    q[0] = v_set(p->diagonal[0]);           /* also where a compiler thinks that l_max may be below 0 */
    for (m = 0; m <= p->l_max; m++) {
        q[TINYI_SPH_AT(m, m)] = v_set(p->diagonal[m]);
        for (l = m + 1; l <= p->l_max; l++) {
            v_f32 v = v_mul(v_mul(v_set(p->a[TINYI_SPH_AT(l, m)]), n[1]), q[TINYI_SPH_AT(l - 1, m)]);
            if (l > m + 1)
                v = v_fnma(v_mul(v_set(p->b[TINYI_SPH_AT(l, m)]), r2), q[TINYI_SPH_AT(l - 2, m)], v);
            q[TINYI_SPH_AT(l, m)] = v;
        }
    }
    v_store(to, q[0]);
    v_store(slope, zero);
    v_store(slope + apart, zero);
    v_store(slope + 2 * apart, zero);
    for (m = 0; m <= p->l_max; m++) {
        const v_f32 by = v_set((float)m);
        if (m == 1) {                       /* d of sqrt2 (z + i x)^m is m sqrt2 (z + i x)^(m - 1) */
            c0 = root2;
            c = v_mul(root2, n[2]);
            s = v_mul(root2, n[0]);
        } else if (m > 1) {
            c0 = c;
            s0 = s;
            c = v_fnma(s0, n[0], v_mul(c0, n[2]));
            s = v_fma(c0, n[0], v_mul(s0, n[2]));
        }
        for (l = m > 0 ? m : 1; l <= p->l_max; l++) {
            const size_t row = (size_t)(l * l + l) * step, off = (size_t)m * step;
            const int at = TINYI_SPH_AT(l, m), low = TINYI_SPH_AT(l - 1, m);
            const v_f32 degree = v_set((float)l);
            const v_f32 along = l > m ? v_mul(v_set(p->along[at]), q[low]) : zero;
            const v_f32 across = l > m + 1 ? v_mul(v_set(p->across[at]), q[low + 1]) : zero;
            const v_f32 ax = v_mul(across, n[0]), az = v_mul(across, n[2]), flow = v_mul(by, q[at]);
            v_f32 value = v_mul(q[at], c);
            v_store(to + row + off, value);
            TINY_FN(tinyi_sph_write)(slope + row + off, apart, v_neg(v_fma(flow, s0, v_mul(ax, c))), v_mul(along, c),
                                     v_fnma(az, c, v_mul(flow, c0)), value, n, degree, inverse, p->solid);
            if (!m) continue;
            value = v_mul(q[at], s);
            v_store(to + row - off, value);
            TINY_FN(tinyi_sph_write)(slope + row - off, apart, v_fnma(ax, s, v_mul(flow, c0)), v_mul(along, s),
                                     v_fnma(az, s, v_mul(flow, s0)), value, n, degree, inverse, p->solid);
        }
    }
}

static void TINY_FN(tinyi_sph_slopes)(const tinyi_sph_plan *p, float *y, float *s, float *factor, size_t step,
                                      const float *x, size_t n)
{
    size_t i;
    for (i = 0; i < n; i += V_LANES)
        TINY_FN(tinyi_sph_some_slopes)(p, y + i, s + i, factor ? factor + i : NULL, step, x + i);
}

static void TINY_FN(tinyi_sph_dots)(float *dx, const float *g, const float *s, const float *factor, size_t n_terms,
                                    size_t step, size_t n)
{
    const size_t apart = n_terms * step;
    size_t i, k;
    for (i = 0; i < n; i += V_LANES) {
        const v_f32 by = v_load(factor + i);
        v_f32 a = v_zero(), b = v_zero(), c = v_zero();
        for (k = 0; k < n_terms; k++) {
            const size_t at = k * step + i;
            const v_f32 w = v_load(g + at);
            a = v_fma(w, v_load(s + at), a);
            b = v_fma(w, v_load(s + at + apart), b);
            c = v_fma(w, v_load(s + at + 2 * apart), c);
        }
        v_store(dx + i, v_mul(a, by));
        v_store(dx + step + i, v_mul(b, by));
        v_store(dx + 2 * step + i, v_mul(c, by));
    }
}

/* ---- second derivatives */

/* x in its place becomes n, 1 / |x| goes to row 3, and y of the solid harmonics at n is made. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_sph_unit_row)(const tinyi_sph_plan *p, const tinyi_sph_links *links, float *x,
                                                    float *y, size_t step)
{
    v_f32 a = v_load(x), b = v_load(x + step), c = v_load(x + 2 * step), inverse = v_set(1.0f);
    if (!links->solid) (void)TINY_FN(tinyi_sph_direction)(&a, &b, &c, &inverse);
    v_store(x, a);
    v_store(x + step, b);
    v_store(x + 2 * step, c);
    v_store(x + 3 * step, inverse);
    TINY_FN(tinyi_sph_some)(p, p->l_max, y, step, x);
}

/* derivatives of number k by x, y, z from the rows of y */
TINYI_FORCE_INLINE void TINY_FN(tinyi_sph_links_of)(const tinyi_sph_links *links, int k, const float *y, size_t step,
                                                    v_f32 *d)
{
    const short *at = links->at[k];
    const float *by = links->by[k];
    d[0] = v_fma(v_set(by[0]), v_load(y + (size_t)at[0] * step), v_mul(v_set(by[1]), v_load(y + (size_t)at[1] * step)));
    d[1] = v_mul(v_set(by[2]), v_load(y + (size_t)at[2] * step));
    d[2] = v_fma(v_set(by[3]), v_load(y + (size_t)at[3] * step), v_mul(v_set(by[4]), v_load(y + (size_t)at[4] * step)));
}

static void TINY_FN(tinyi_sph_hessians)(const tinyi_sph_plan *p, const tinyi_sph_links *links, float *x, float *y,
                                        float *s, float *d, size_t step, size_t n)
{
    const size_t apart = (size_t)links->count * step;
    size_t i;
    int k, l, a, b;
    for (i = 0; i < n; i += V_LANES, x += V_LANES, y += V_LANES, s += V_LANES, d += V_LANES) {
        v_f32 u[3], v[3], h[9], inverse;
        TINY_FN(tinyi_sph_unit_row)(p, links, x, y, step);
        for (a = 0; a < 3; a++) u[a] = v_load(x + (size_t)a * step);
        inverse = v_load(x + 3 * step);
        for (k = 0; k < links->count; k++) {
            TINY_FN(tinyi_sph_links_of)(links, k, y, step, v);
            for (a = 0; a < 3; a++) v_store(s + (size_t)a * apart + (size_t)k * step, v[a]);
        }
        for (k = 0, l = 0; k < links->count; k++) {
            const v_f32 degree = v_set((float)(k >= (l + 1) * (l + 1) ? ++l : l));
            const v_f32 r = v_load(y + (size_t)k * step), lr = v_mul(degree, r);
            for (a = 0; a < 3; a++) TINY_FN(tinyi_sph_links_of)(links, k, s + (size_t)a * apart, step, h + 3 * a);
            if (!links->solid) {
                const v_f32 more = v_mul(lr, v_set((float)(l + 2)));
                for (a = 0; a < 3; a++) v[a] = v_mul(degree, v_load(s + (size_t)a * apart + (size_t)k * step));
                for (a = 0; a < 3; a++)
                    for (b = a; b < 3; b++) {
                        v_f32 t = v_fnma(u[a], v[b], v_fnma(u[b], v[a], h[3 * a + b]));
                        if (a == b) t = v_sub(t, lr);
                        t = v_fma(more, v_mul(u[a], u[b]), t);
                        h[3 * a + b] = v_mul(v_mul(t, inverse), inverse);
                    }
            }
            for (a = 0; a < 3; a++)
                for (b = 0; b < 3; b++)
                    v_store(d + (size_t)(3 * a + b) * apart + (size_t)k * step, h[a < b ? 3 * a + b : 3 * b + a]);
        }
        if (links->solid) continue;
        for (k = 0, l = 0; k < links->count; k++) {
            const v_f32 lr = v_mul(v_set((float)(k >= (l + 1) * (l + 1) ? ++l : l)), v_load(y + (size_t)k * step));
            for (a = 0; a < 3; a++) {
                float *to = s + (size_t)a * apart + (size_t)k * step;
                v_store(to, v_mul(v_fnma(lr, u[a], v_load(to)), inverse));
            }
        }
    }
}

static void TINY_FN(tinyi_sph_twice)(const tinyi_sph_plan *p, const tinyi_sph_links *links, float *x, const float *w,
                                     float *y, const float *g, float *d, float *dg, float *dx, size_t step, size_t n)
{
    size_t i;
    int k, l, a;
    for (i = 0; i < n; i += V_LANES, x += V_LANES, w += V_LANES, y += V_LANES, g += V_LANES, d += V_LANES,
        dg += V_LANES, dx += V_LANES) {
        v_f32 u[3], t[3], v[3], h[3], first[3], inverse, along, bends = v_zero(), value = v_zero(), more = v_zero();
        TINY_FN(tinyi_sph_unit_row)(p, links, x, y, step);
        inverse = v_load(x + 3 * step);
        for (a = 0; a < 3; a++) {
            u[a] = v_load(x + (size_t)a * step);
            t[a] = v_load(w + (size_t)a * step);
            h[a] = first[a] = v_zero();
        }
        along = v_fma(u[0], t[0], v_fma(u[1], t[1], v_mul(u[2], t[2])));
        for (k = 0, l = 0; k < links->count; k++) {
            const v_f32 degree = v_set((float)(k >= (l + 1) * (l + 1) ? ++l : l));
            v_f32 sum;
            TINY_FN(tinyi_sph_links_of)(links, k, y, step, v);
            sum = v_fma(t[0], v[0], v_fma(t[1], v[1], v_mul(t[2], v[2])));
            v_store(d + (size_t)k * step, sum);
            if (!links->solid) {
                const v_f32 by = v_mul(degree, v_load(g + (size_t)k * step)), r = v_load(y + (size_t)k * step);
                const v_f32 part = v_mul(by, r);
                for (a = 0; a < 3; a++) first[a] = v_fma(by, v[a], first[a]);
                bends = v_fma(by, sum, bends);
                value = v_add(value, part);
                more = v_fma(part, v_set((float)(l + 2)), more);
                sum = v_mul(v_fnma(v_mul(degree, r), along, sum), inverse);
            }
            v_store(dg + (size_t)k * step, sum);
        }
        for (k = 1; k < links->count; k++) {
            const v_f32 by = v_load(g + (size_t)k * step);
            TINY_FN(tinyi_sph_links_of)(links, k, d, step, v);
            for (a = 0; a < 3; a++) h[a] = v_fma(by, v[a], h[a]);
        }
        for (a = 0; a < 3; a++) {
            if (!links->solid) {
                h[a] = v_fnma(u[a], bends, v_fnma(along, first[a], v_fnma(t[a], value, h[a])));
                h[a] = v_mul(v_mul(v_fma(v_mul(u[a], along), more, h[a]), inverse), inverse);
            }
            v_store(dx + (size_t)a * step, h[a]);
        }
    }
}

static void TINY_FN(tinyi_sph_past)(float *y, const float *x, size_t n)
{
    size_t i;
    for (i = 0; i < n; i += V_LANES) TINYI_SPH_PAST(y + i, v_load(x + i));
    if (!n) TINYI_SPH_PAST_END();
}

static const tinyi_sph_kernels TINY_FN(tinyi_sph_table) = { TINYI_PASS_TARGET, V_LANES, TINY_FN(tinyi_sph_values),
                                                            TINY_FN(tinyi_sph_slopes), TINY_FN(tinyi_sph_dots),
                                                            TINY_FN(tinyi_sph_hessians),
                                                            TINY_FN(tinyi_sph_twice), TINY_FN(tinyi_sph_past) };
TINYI_TABLE(tinyi_sph_kernels, tinyi_sph_kernels, TINY_FN(tinyi_sph_table))
#undef TINYI_SPH_PAST
#undef TINYI_SPH_PAST_END
