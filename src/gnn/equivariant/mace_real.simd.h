/* src/gnn/equivariant/mace_real.simd.h - the kernels of a potential for one type of number; mace.simd.h includes it
 * twice, with R_T float and double, after the r_ calls of that type. See mace_inside.h for what each one does. All rows
 * are padded to whole panels, so no loop has a rest. */

#define R_PANEL (2 * R_LANES)
#define R_ROWS2(X) X(0) X(1)
#define R_ROWS4(X) R_ROWS2(X) X(2) X(3)
#define R_ROWS6(X) R_ROWS4(X) X(4) X(5)
#define R_ROWS12(X) R_ROWS6(X) X(6) X(7) X(8) X(9) X(10) X(11)

#define R_ROW_BEGIN(i)                                                          \
    const R_T *x##i = (const R_T *)x[(i) < n ? (i) : n - 1];                    \
    r_vec a##i = r_zero(), b##i = r_zero();
#define R_ROW_STEP(i)                                                           \
    {                                                                           \
        r_vec s = r_set(x##i[j]);                                               \
        R_PIN(s, a##i);                                                         \
        a##i = r_fma(s, u, a##i);                                               \
        b##i = r_fma(s, w, b##i);                                               \
    }
#define R_ROW_END(i)                                                            \
    if ((i) < n) {                                                              \
        R_T *to = (R_T *)y[i] + at;                                             \
        if (add) {                                                              \
            a##i = r_add(a##i, r_load(to));                                     \
            b##i = r_add(b##i, r_load(to + R_LANES));                           \
        }                                                                       \
        r_store(to, a##i);                                                      \
        r_store(to + R_LANES, b##i);                                            \
    }
#define R_TILE(M)                                                                                               \
    static void R_FN(tinyi_mace_tile##M)(void *const *y, const void *const *x, int n, int k, const R_T *p,      \
                                         size_t at, int add)                                                    \
    {                                                                                                           \
        int j;                                                                                                  \
        R_ROWS##M(R_ROW_BEGIN)                                                                                  \
        for (j = 0; j < k; j++) {                                                                               \
            const r_vec u = r_load(p), w = r_load(p + R_LANES);                                                 \
            R_ROWS##M(R_ROW_STEP)                                                                               \
            p += R_PANEL;                                                                                       \
        }                                                                                                       \
        R_ROWS##M(R_ROW_END)                                                                                    \
    }
R_TILE(2)
R_TILE(4)
R_TILE(6)
#if V_AVX512 || V_NEON
R_TILE(12)
#endif

static void R_FN(tinyi_mace_rows)(void *const *y, const void *const *x, int n, int k, const void *b, int n_panels,
                                  int add)
{
    const R_T *p = (const R_T *)b;
    int panel, i;
    for (panel = 0; panel < n_panels; panel++, p += (size_t)k * R_PANEL) {
        const size_t at = (size_t)panel * R_PANEL;
        for (i = 0; i < n;) {
            const int left = n - i;
#if V_AVX512 || V_NEON
            if (left > 6) {
                R_FN(tinyi_mace_tile12)(y + i, x + i, left < 12 ? left : 12, k, p, at, add);
                i += 12;
            } else
#endif
            if (left > 4) {
                R_FN(tinyi_mace_tile6)(y + i, x + i, left < 6 ? left : 6, k, p, at, add);
                i += 6;
            } else if (left > 2) {
                R_FN(tinyi_mace_tile4)(y + i, x + i, left, k, p, at, add);
                i += 4;
            } else {
                R_FN(tinyi_mace_tile2)(y + i, x + i, left, k, p, at, add);
                i += 2;
            }
        }
    }
}

/* ---- edges */

static void R_FN(tinyi_mace_couple)(void *to, const void *y, const tinyi_mace_term *term, int n_terms, int n)
{
    R_T *k = (R_T *)to;
    const R_T *from = (const R_T *)y;
    int i;
    for (i = 0; i < n; i++) k[i] = 0;
    for (i = 0; i < n_terms; i++) k[term[i].k] += (R_T)term[i].value * from[term[i].m2];
}

static void R_FN(tinyi_mace_uncouple)(void *to, const void *g, const tinyi_mace_term *term, int n_terms)
{
    R_T *y = (R_T *)to;
    const R_T *from = (const R_T *)g;
    int i;
    for (i = 0; i < n_terms; i++) y[term[i].m2] += (R_T)term[i].value * from[term[i].k];
}

#define R_FOLD(N)                                                                                                  \
    static void R_FN(tinyi_mace_fold##N)(R_T *a, int n1, size_t width, int n, const R_T *r, const void *const *up, \
                                         size_t up_at, const R_T *c, size_t c_step)                                \
    {                                                                                                              \
        size_t u;                                                                                                  \
        int e, i, j;                                                                                               \
        for (u = 0; u < width; u += R_LANES) {                                                                     \
            r_vec s[N];                                                                                            \
            TINYI_UNROLL for (j = 0; j < N; j++) s[j] = r_load(a + (size_t)j * width + u);                         \
            for (e = 0; e < n; e++) {                                                                              \
                const R_T *x = (const R_T *)up[e] + up_at + u, *k = c + (size_t)e * c_step;                        \
                const r_vec by = r_load(r + (size_t)e * width + u);                                                \
                for (i = 0; i < n1; i++, x += width, k += N) {                                                     \
                    const r_vec q = r_mul(by, r_load(x));                                                          \
                    TINYI_UNROLL for (j = 0; j < N; j++) s[j] = r_fma(r_set(k[j]), q, s[j]);                       \
                }                                                                                                  \
            }                                                                                                      \
            TINYI_UNROLL for (j = 0; j < N; j++) r_store(a + (size_t)j * width + u, s[j]);                         \
        }                                                                                                          \
    }
R_FOLD(1)
R_FOLD(3)
R_FOLD(5)
R_FOLD(7)
R_FOLD(9)

static void R_FN(tinyi_mace_fold)(void *a, int n3, int n1, size_t width, int n, const void *r, const void *const *up,
                                  size_t up_at, const void *c, size_t c_step)
{
    R_T *to = (R_T *)a;
    const R_T *by = (const R_T *)r, *k = (const R_T *)c;
    switch (n3) {
    case 1: R_FN(tinyi_mace_fold1)(to, n1, width, n, by, up, up_at, k, c_step); break;
    case 3: R_FN(tinyi_mace_fold3)(to, n1, width, n, by, up, up_at, k, c_step); break;
    case 5: R_FN(tinyi_mace_fold5)(to, n1, width, n, by, up, up_at, k, c_step); break;
    case 7: R_FN(tinyi_mace_fold7)(to, n1, width, n, by, up, up_at, k, c_step); break;
    default: R_FN(tinyi_mace_fold9)(to, n1, width, n, by, up, up_at, k, c_step); break;
    }
}

#define R_BACK(N)                                                                                                  \
    static double R_FN(tinyi_mace_unfold##N)(R_T *gx, R_T *gc, int n1, size_t width, const R_T *r, const R_T *dr,  \
                                             const R_T *x, const R_T *g, const R_T *k)                             \
    {                                                                                                              \
        r_vec slope = r_zero();                                                                                    \
        size_t u;                                                                                                  \
        int i, j;                                                                                                  \
        for (i = 0; i < n1; i++, x += width, gx += width, k += N, gc += N) {                                       \
            r_vec s[N];                                                                                            \
            TINYI_UNROLL for (j = 0; j < N; j++) s[j] = r_zero();                                                  \
            for (u = 0; u < width; u += R_LANES) {                                                                 \
                const r_vec by = r_load(r + u), at = r_load(x + u), w = r_mul(by, at);                             \
                r_vec q = r_zero();                                                                                \
                TINYI_UNROLL for (j = 0; j < N; j++) {                                                             \
                    const r_vec v = r_load(g + (size_t)j * width + u);                                             \
                    q = r_fma(r_set(k[j]), v, q);                                                                  \
                    s[j] = r_fma(w, v, s[j]);                                                                      \
                }                                                                                                  \
                r_store(gx + u, r_fma(by, q, r_load(gx + u)));                                                     \
                slope = r_fma(r_mul(r_load(dr + u), at), q, slope);                                                \
            }                                                                                                      \
            TINYI_UNROLL for (j = 0; j < N; j++) gc[j] = r_sum(s[j]);                                              \
        }                                                                                                          \
        return (double)r_sum(slope);                                                                               \
    }
R_BACK(1)
R_BACK(3)
R_BACK(5)
R_BACK(7)
R_BACK(9)

static double R_FN(tinyi_mace_unfold)(void *gx, void *gc, int n3, int n1, size_t width, const void *r, const void *dr,
                                      const void *x, const void *g, const void *k)
{
    R_T *to = (R_T *)gx, *toc = (R_T *)gc;
    const R_T *a = (const R_T *)r, *b = (const R_T *)dr, *c = (const R_T *)x, *d = (const R_T *)g, *e = (const R_T *)k;
    switch (n3) {
    case 1: return R_FN(tinyi_mace_unfold1)(to, toc, n1, width, a, b, c, d, e);
    case 3: return R_FN(tinyi_mace_unfold3)(to, toc, n1, width, a, b, c, d, e);
    case 5: return R_FN(tinyi_mace_unfold5)(to, toc, n1, width, a, b, c, d, e);
    case 7: return R_FN(tinyi_mace_unfold7)(to, toc, n1, width, a, b, c, d, e);
    default: return R_FN(tinyi_mace_unfold9)(to, toc, n1, width, a, b, c, d, e);
    }
}

/* ---- the first layer: sums over edges before the radial matrix */

static void R_FN(tinyi_mace_outer)(void *to, const void *const *h, const void *y, int n, int n_y, int width)
{
    int m, k, e;
    for (m = 0; m < n_y; m += 4)
        for (k = 0; k < width; k += R_PANEL) {
            R_T *s = (R_T *)to + (size_t)m * (size_t)width + (size_t)k;
            r_vec a0 = r_zero(), a1 = r_zero(), b0 = r_zero(), b1 = r_zero(), c0 = r_zero(), c1 = r_zero(),
                  d0 = r_zero(), d1 = r_zero();
            for (e = 0; e < n; e++) {
                const R_T *f = (const R_T *)y + (size_t)e * (size_t)n_y + m, *x = (const R_T *)h[e] + k;
                const r_vec u = r_load(x), v = r_load(x + R_LANES);
                r_vec t = r_set(f[0]);
                a0 = r_fma(t, u, a0);
                a1 = r_fma(t, v, a1);
                t = r_set(f[1]);
                b0 = r_fma(t, u, b0);
                b1 = r_fma(t, v, b1);
                t = r_set(f[2]);
                c0 = r_fma(t, u, c0);
                c1 = r_fma(t, v, c1);
                t = r_set(f[3]);
                d0 = r_fma(t, u, d0);
                d1 = r_fma(t, v, d1);
            }
            r_store(s, a0);
            r_store(s + R_LANES, a1);
            r_store(s + width, b0);
            r_store(s + width + R_LANES, b1);
            r_store(s + 2 * width, c0);
            r_store(s + 2 * width + R_LANES, c1);
            r_store(s + 3 * width, d0);
            r_store(s + 3 * width + R_LANES, d1);
        }
}

static double R_FN(tinyi_mace_outer_back)(void *gy, const void *q, const void *h, const void *dh, const void *y,
                                          int n_y, int width)
{
    const R_T *row = (const R_T *)q, *a = (const R_T *)h, *b = (const R_T *)dh, *f = (const R_T *)y;
    R_T *to = (R_T *)gy;
    r_vec slope = r_zero();
    int m, k;
    for (m = 0; m < n_y; m++, row += width) {
        const r_vec by = r_set(f[m]);
        r_vec s = r_zero();
        for (k = 0; k < width; k += R_LANES) {
            const r_vec v = r_load(row + k);
            s = r_fma(v, r_load(a + k), s);
            slope = r_fma(r_mul(by, v), r_load(b + k), slope);
        }
        to[m] += r_sum(s);
    }
    return (double)r_sum(slope);
}

/* ---- the symmetric contraction: a polynomial of the numbers of each channel */

static void R_FN(tinyi_mace_poly)(void *out, const void *x, const tinyi_mace_poly *p, const void *coef, size_t width)
{
    size_t u;
    const R_T *c = (const R_T *)coef;
    int i, k;
    for (u = 0; u < width; u += R_LANES, c += (size_t)p->n_coefs * R_LANES) {
        const R_T *in = (const R_T *)x + u;
        R_T *to = (R_T *)out + u;
        const R_T *at = c;
        for (i = 0; i < p->n_out; i++) r_store(to + (size_t)i * width, r_zero());
        for (i = 0; i < p->n_lines; i++, at += R_LANES) {
            R_T *o = to + (size_t)p->line[i].out * width;
            r_store(o, r_fma(r_load(at), r_load(in + (size_t)p->line[i].i * width), r_load(o)));
        }
        for (i = 0; i < p->n_rows; i++) {
            const tinyi_mace_row *r = &p->row[i];
            R_T *o = to + (size_t)r->out * width;
            r_vec s = r_load(at);
            at += R_LANES;
            for (k = r->first; k < r->end; k++, at += R_LANES)
                s = r_fma(r_load(at), r_load(in + (size_t)p->k[k] * width), s);
            s = r_mul(s, r_load(in + (size_t)r->i * width));
            r_store(o, r_fma(s, r_load(in + (size_t)r->j * width), r_load(o)));
        }
    }
}

static void R_FN(tinyi_mace_poly_back)(void *gx, const void *g, const void *x, const tinyi_mace_poly *p,
                                       const void *coef, size_t width)
{
    size_t u;
    const R_T *c = (const R_T *)coef;
    int i, k;
    for (u = 0; u < width; u += R_LANES, c += (size_t)p->n_coefs * R_LANES) {
        const R_T *in = (const R_T *)x + u, *from = (const R_T *)g + u;
        R_T *to = (R_T *)gx + u;
        const R_T *at = c;
        for (i = 0; i < p->n_in; i++) r_store(to + (size_t)i * width, r_zero());
        for (i = 0; i < p->n_lines; i++, at += R_LANES) {
            R_T *o = to + (size_t)p->line[i].i * width;
            r_store(o, r_fma(r_load(at), r_load(from + (size_t)p->line[i].out * width), r_load(o)));
        }
        for (i = 0; i < p->n_rows; i++) {
            const tinyi_mace_row *r = &p->row[i];
            const r_vec xi = r_load(in + (size_t)r->i * width), xj = r_load(in + (size_t)r->j * width),
                        by = r_load(from + (size_t)r->out * width), pair = r_mul(by, r_mul(xi, xj));
            R_T *oi = to + (size_t)r->i * width, *oj = to + (size_t)r->j * width;
            r_vec s = r_load(at);
            at += R_LANES;
            for (k = r->first; k < r->end; k++, at += R_LANES) {
                const size_t n = (size_t)p->k[k] * width;
                const r_vec f = r_load(at);
                s = r_fma(f, r_load(in + n), s);
                r_store(to + n, r_fma(f, pair, r_load(to + n)));
            }
            s = r_mul(s, by);
            r_store(oi, r_fma(s, xj, r_load(oi)));
            r_store(oj, r_fma(s, xi, r_load(oj)));
        }
    }
}

/* ---- rows */

/* y += a x, number by number, for n rows of the same a */
static void R_FN(tinyi_mace_muladd)(void *y, const void *x, const void *a, int n, size_t width)
{
    int i;
    size_t u;
    for (i = 0; i < n; i++)
        for (u = 0; u < width; u += R_LANES) {
            const size_t at = (size_t)i * width + u;
            R_T *to = (R_T *)y + at;
            r_store(to, r_fma(r_load((const R_T *)a + u), r_load((const R_T *)x + at), r_load(to)));
        }
}

static double R_FN(tinyi_mace_dot)(const void *x, const void *y, size_t n)
{
    r_vec s = r_zero();
    size_t u;
    for (u = 0; u < n; u += R_LANES) s = r_fma(r_load((const R_T *)x + u), r_load((const R_T *)y + u), s);
    return (double)r_sum(s);
}

static void R_FN(tinyi_mace_axpy)(void *y, const void *x, double a, size_t n)
{
    const r_vec by = r_set((R_T)a);
    size_t u;
    for (u = 0; u < n; u += R_LANES) {
        R_T *to = (R_T *)y + u;
        r_store(to, r_fma(by, r_load((const R_T *)x + u), r_load(to)));
    }
}

static const tinyi_mace_kernels R_FN(tinyi_mace_table) = {
    TINYI_PASS_TARGET, R_LANES, sizeof(R_T), R_FN(tinyi_mace_rows), R_FN(tinyi_mace_couple), R_FN(tinyi_mace_uncouple),
    R_FN(tinyi_mace_fold), R_FN(tinyi_mace_unfold), R_FN(tinyi_mace_outer), R_FN(tinyi_mace_outer_back),
    R_FN(tinyi_mace_poly), R_FN(tinyi_mace_poly_back), R_FN(tinyi_mace_muladd), R_FN(tinyi_mace_dot),
    R_FN(tinyi_mace_axpy), R_SILU
};
#undef R_PANEL
#undef R_ROWS2
#undef R_ROWS4
#undef R_ROWS6
#undef R_ROWS12
#undef R_ROW_BEGIN
#undef R_ROW_STEP
#undef R_ROW_END
#undef R_TILE
#undef R_FOLD
#undef R_BACK
