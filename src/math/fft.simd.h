/* src/math/fft.simd.h - the steps of math/fft.c
 *
 * A number here is V_LANES complex values: V_LANES real parts, then V_LANES imaginary parts (W floats). A pass of radix
 * r over n = r m numbers in s interleaved sequences, decimation in frequency in the self-sorting order of T. Stockham
 * (W. Cochran et al., Proc. IEEE 55(10), 1967):
 *
 *   y[q + s (r p + t)] = w^(p t) * sum over u < r of x[q + s (p + m u)] exp(-2 pi i u t / r),  w = exp(-2 pi i / n), q
 *   < s, p < m
 *
 * Only the forward sign: the inverse exchanges real and imaginary parts on the way in and out. Blocks are turned by
 * tinyi_layout_turn_b4 of math/layout.simd.h.                                                                        */
#define F_W (2 * V_LANES)

#if V_AVX512
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_part)(v_f32 a, v_f32 b, v_f32 *re, v_f32 *im)
{
    *re = _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
    *im = _mm512_permutex2var_ps(a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_join)(v_f32 re, v_f32 im, v_f32 *a, v_f32 *b)
{
    *a = _mm512_permutex2var_ps(re, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), im);
    *b =
        _mm512_permutex2var_ps(re, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), im);
}
/* the first n lanes in the other order */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fft_back)(v_f32 a, size_t n)
{
    return _mm512_permutexvar_ps(vi_sub(vi_set((int)n - 1), vi_iota()), a);
}
#define F_LEAST 4                           /* values for which a vector takes less time than one after the other */
#elif V_AVX2
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_part)(v_f32 a, v_f32 b, v_f32 *re, v_f32 *im)
{
    *re = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)), 0xd8));
    *im = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8));
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_join)(v_f32 re, v_f32 im, v_f32 *a, v_f32 *b)
{
    const v_f32 low = _mm256_unpacklo_ps(re, im), high = _mm256_unpackhi_ps(re, im);
    *a = _mm256_permute2f128_ps(low, high, 0x20);
    *b = _mm256_permute2f128_ps(low, high, 0x31);
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fft_back)(v_f32 a, size_t n)
{
    return _mm256_permutevar8x32_ps(a, vi_sub(vi_set((int)n - 1), vi_iota()));
}
#define F_LEAST 4
#elif V_NEON
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_part)(v_f32 a, v_f32 b, v_f32 *re, v_f32 *im)
{
    *re = vuzp1q_f32(a, b);
    *im = vuzp2q_f32(a, b);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_join)(v_f32 re, v_f32 im, v_f32 *a, v_f32 *b)
{
    *a = vzip1q_f32(re, im);
    *b = vzip2q_f32(re, im);
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fft_back)(v_f32 a, size_t n)
{
    const v_f32 r = vrev64q_f32(a);
    (void)n;                                /* all of them */
    return vextq_f32(r, r, 2);
}
#elif V_W128
#if TINYI_W128_SIMDE
#define F_SSE(f) simde_mm_##f
#else
#define F_SSE(f) _mm_##f
#endif
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_part)(v_f32 a, v_f32 b, v_f32 *re, v_f32 *im)
{
    *re = F_SSE(shuffle_ps)(a, b, 0x88);
    *im = F_SSE(shuffle_ps)(a, b, 0xdd);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_join)(v_f32 re, v_f32 im, v_f32 *a, v_f32 *b)
{
    *a = F_SSE(unpacklo_ps)(re, im);
    *b = F_SSE(unpackhi_ps)(re, im);
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fft_back)(v_f32 a, size_t n) { (void)n; return F_SSE(shuffle_ps)(a, a, 0x1b); }
#else
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_part)(v_f32 a, v_f32 b, v_f32 *re, v_f32 *im)
{
    *re = a;
    *im = b;
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_join)(v_f32 re, v_f32 im, v_f32 *a, v_f32 *b)
{
    *a = re;
    *b = im;
}
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_fft_back)(v_f32 a, size_t n) { (void)n; return a; }
#endif
#ifndef F_LEAST
#define F_LEAST V_LANES
#endif

/* ---- complex vectors */

typedef struct { v_f32 r, i; } TINY_FN(tinyi_fft_c);
#define f_c TINY_FN(tinyi_fft_c)
#define f_add TINY_FN(tinyi_fft_add)
#define f_sub TINY_FN(tinyi_fft_sub)
#define f_times TINY_FN(tinyi_fft_times)
#define f_by TINY_FN(tinyi_fft_by)
#define f_mi TINY_FN(tinyi_fft_mi)
#define f_get TINY_FN(tinyi_fft_get)
#define f_put TINY_FN(tinyi_fft_put)
#define f_read TINY_FN(tinyi_fft_read)
#define f_write TINY_FN(tinyi_fft_write)

TINYI_FORCE_INLINE f_c f_add(f_c a, f_c b) { f_c c; c.r = v_add(a.r, b.r); c.i = v_add(a.i, b.i); return c; }
TINYI_FORCE_INLINE f_c f_sub(f_c a, f_c b) { f_c c; c.r = v_sub(a.r, b.r); c.i = v_sub(a.i, b.i); return c; }
TINYI_FORCE_INLINE f_c f_times(f_c a, v_f32 wr, v_f32 wi)
{
    f_c c;
    c.r = v_fnma(a.i, wi, v_mul(a.r, wr));
    c.i = v_fma(a.i, wr, v_mul(a.r, wi));
    return c;
}
/* by the twiddle at w, the same for all lanes */
TINYI_FORCE_INLINE f_c f_by(f_c a, const float *w) { return f_times(a, v_set(w[0]), v_set(w[1])); }
/* -i a */
TINYI_FORCE_INLINE f_c f_mi(f_c a) { f_c c; c.r = a.i; c.i = v_neg(a.r); return c; }
TINYI_FORCE_INLINE f_c f_get(const float *z) { f_c c; c.r = v_load(z); c.i = v_load(z + V_LANES); return c; }
TINYI_FORCE_INLINE void f_put(float *z, f_c a) { v_store(z, a.r); v_store(z + V_LANES, a.i); }

/* n <= V_LANES complex values as they lie in tensors */
TINYI_FORCE_INLINE f_c f_read(const float *x, size_t n, int swap)
{
    f_c c;
    v_f32 a, b;
    if (n == V_LANES) {
        a = v_load(x);
        b = v_load(x + V_LANES);
    } else {
        a = v_load_n(x, TINYI_MIN(2 * n, V_LANES));
        b = 2 * n > V_LANES ? v_load_n(x + V_LANES, 2 * n - V_LANES) : v_zero();
    }
    if (swap) TINY_FN(tinyi_fft_part)(a, b, &c.i, &c.r);
    else TINY_FN(tinyi_fft_part)(a, b, &c.r, &c.i);
    return c;
}
TINYI_FORCE_INLINE void f_write(float *y, f_c c, size_t n, v_f32 scale, int swap)
{
    v_f32 a, b;
    c.r = v_mul(c.r, scale);
    c.i = v_mul(c.i, scale);
    if (swap) TINY_FN(tinyi_fft_join)(c.i, c.r, &a, &b);
    else TINY_FN(tinyi_fft_join)(c.r, c.i, &a, &b);
    if (n == V_LANES) {
        v_store(y, a);
        v_store(y + V_LANES, b);
    } else {
        v_store_n(y, a, TINYI_MIN(2 * n, V_LANES));
        if (2 * n > V_LANES) v_store_n(y + V_LANES, b, 2 * n - V_LANES);
    }
}

/* ---- small transforms in registers */

TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_dft3)(f_c *a, f_c *b, f_c *c)
{
    const v_f32 half = v_set(0.5f), root = v_set(0.866025404f);
    const f_c s = f_add(*b, *c), d = f_mi(f_sub(*b, *c));
    f_c m, e;
    m.r = v_fnma(half, s.r, a->r);
    m.i = v_fnma(half, s.i, a->i);
    e.r = v_mul(root, d.r);
    e.i = v_mul(root, d.i);
    *a = f_add(*a, s);
    *b = f_add(m, e);
    *c = f_sub(m, e);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_dft4)(f_c *a, f_c *b, f_c *c, f_c *d)
{
    const f_c s = f_add(*a, *c), t = f_sub(*a, *c), u = f_add(*b, *d), v = f_mi(f_sub(*b, *d));
    *a = f_add(s, u);
    *b = f_add(t, v);
    *c = f_sub(s, u);
    *d = f_sub(t, v);
}
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_dft5)(f_c *a, f_c *b, f_c *c, f_c *d, f_c *e)
{
    const v_f32 c1 = v_set(0.309016994f), c2 = v_set(-0.809016994f), s1 = v_set(0.951056516f), s2 = v_set(0.587785252f);
    const f_c p = f_add(*b, *e), q = f_add(*c, *d), u = f_mi(f_sub(*b, *e)), v = f_mi(f_sub(*c, *d));
    f_c m, n, x, y;
    m.r = v_fma(c2, q.r, v_fma(c1, p.r, a->r));
    m.i = v_fma(c2, q.i, v_fma(c1, p.i, a->i));
    n.r = v_fma(c1, q.r, v_fma(c2, p.r, a->r));
    n.i = v_fma(c1, q.i, v_fma(c2, p.i, a->i));
    x.r = v_fma(s2, v.r, v_mul(s1, u.r));
    x.i = v_fma(s2, v.i, v_mul(s1, u.i));
    y.r = v_fnma(s1, v.r, v_mul(s2, u.r));
    y.i = v_fnma(s1, v.i, v_mul(s2, u.i));
    *a = f_add(*a, f_add(p, q));
    *b = f_add(m, x);
    *c = f_add(n, y);
    *d = f_sub(n, y);
    *e = f_sub(m, x);
}
/* even numbers and odd ones by four, then pairs: bin k is even + w^k odd, bin k + 4 even - w^k odd, w = exp(-i pi /
 * 4) */
TINYI_FORCE_INLINE void TINY_FN(tinyi_fft_dft8)(f_c *a, f_c *b, f_c *c, f_c *d, f_c *e, f_c *f, f_c *g, f_c *h)
{
    const v_f32 root = v_set(0.707106781f);
    f_c even0 = *a, even1 = *c, even2 = *e, even3 = *g, odd0 = *b, odd1 = *d, odd2 = *f, odd3 = *h, t;
    TINY_FN(tinyi_fft_dft4)(&even0, &even1, &even2, &even3);
    TINY_FN(tinyi_fft_dft4)(&odd0, &odd1, &odd2, &odd3);
    t.r = v_mul(root, v_add(odd1.r, odd1.i));
    t.i = v_mul(root, v_sub(odd1.i, odd1.r));
    odd1 = t;
    odd2 = f_mi(odd2);
    t.r = v_mul(root, v_sub(odd3.i, odd3.r));
    t.i = v_neg(v_mul(root, v_add(odd3.r, odd3.i)));
    odd3 = t;
    *a = f_add(even0, odd0);
    *b = f_add(even1, odd1);
    *c = f_add(even2, odd2);
    *d = f_add(even3, odd3);
    *e = f_sub(even0, odd0);
    *f = f_sub(even1, odd1);
    *g = f_sub(even2, odd2);
    *h = f_sub(even3, odd3);
}

/* any r <= 31: pairs u and r - u; roots: r values exp(+2 pi i k / r). x and y: numbers xs and ys floats apart. w:
 * twiddles of bins 1 to r - 1, or NULL */
static void TINY_FN(tinyi_fft_dft)(float *y, size_t ys, const float *x, size_t xs, const float *w, const float *roots,
                                   size_t r)
{
    f_c a[16], b[16], sum = f_get(x), first = sum, middle = sum;
    const size_t h = (r - 1) / 2;
    size_t t, u, k;
    for (u = 1; u <= h; u++) {
        const f_c p = f_get(x + u * xs), q = f_get(x + (r - u) * xs);
        a[u] = f_add(p, q);
        b[u] = f_mi(f_sub(p, q));
        sum = f_add(sum, a[u]);
    }
    if (r % 2 == 0) {
        middle = f_get(x + r / 2 * xs);
        sum = f_add(sum, middle);
    }
    for (t = 1; t <= r / 2; t++) {
        f_c even = first, odd;
        odd.r = odd.i = v_zero();
        if (r % 2 == 0) even = t & 1 ? f_sub(first, middle) : f_add(first, middle);
        for (u = 1, k = t; u <= h; u++, k = k + t >= r ? k + t - r : k + t) {
            const v_f32 c = v_set(roots[2 * k]), s = v_set(roots[2 * k + 1]);
            even.r = v_fma(c, a[u].r, even.r);
            even.i = v_fma(c, a[u].i, even.i);
            odd.r = v_fma(s, b[u].r, odd.r);
            odd.i = v_fma(s, b[u].i, odd.i);
        }
        a[0] = f_add(even, odd);
        b[0] = f_sub(even, odd);
        f_put(y + t * ys, w ? f_by(a[0], w + 2 * (t - 1)) : a[0]);
        if (2 * t < r) f_put(y + (r - t) * ys, w ? f_by(b[0], w + 2 * (r - t - 1)) : b[0]);
    }
    f_put(y, sum);
}

/* ---- a pass */

#define F_AT(u) f_get(x + (u) * xs)
#define F_TO(t, a) f_put(y + (t) * ys, p ? f_by(a, w + 2 * ((t) - 1)) : (a))
#if V_SCALAR || V_W128                      /* one loop, with a branch where a number is written */
#define F_LOOP(R, BODY)                                              \
    for (p = 0; p < m; p++, w += 2 * (R - 1)) {                      \
        const float *x = from + p * ys;                              \
        float *y = to + p * R * ys;                                  \
        for (q = 0; q < s; q++, x += F_W, y += F_W) { BODY }         \
    }
#else
/* the first of the p has no twiddles: the compiler makes two loops of it */
#define F_LOOP(R, BODY)                                              \
    for (p = 0; p < m; p++, w += 2 * (R - 1)) {                      \
        const float *x = from + p * ys;                              \
        float *y = to + p * R * ys;                                  \
        if (p == 0)                                                  \
            for (q = 0; q < s; q++, x += F_W, y += F_W) { BODY }     \
        else                                                         \
            for (q = 0; q < s; q++, x += F_W, y += F_W) { BODY }     \
    }
#endif

/* tw: r - 1 twiddles for each p */
static void TINY_FN(tinyi_fft_pass)(float *to, const float *from, const float *w, const float *roots, size_t r,
                                    size_t m, size_t s)
{
    const size_t ys = s * F_W, xs = m * ys;
    size_t p, q;
    switch (r) {
    case 2:
        F_LOOP(2, const f_c a = F_AT(0); const f_c b = F_AT(1); f_put(y, f_add(a, b)); F_TO(1, f_sub(a, b));)
        break;
    case 3:
        F_LOOP(3, f_c a = F_AT(0); f_c b = F_AT(1); f_c c = F_AT(2); TINY_FN(tinyi_fft_dft3)(&a, &b, &c); f_put(y, a);
               F_TO(1, b); F_TO(2, c);)
        break;
    case 4:
        F_LOOP(4, f_c a = F_AT(0); f_c b = F_AT(1); f_c c = F_AT(2); f_c d = F_AT(3);
               TINY_FN(tinyi_fft_dft4)(&a, &b, &c, &d); f_put(y, a); F_TO(1, b); F_TO(2, c); F_TO(3, d);)
        break;
    case 5:
        F_LOOP(5, f_c a = F_AT(0); f_c b = F_AT(1); f_c c = F_AT(2); f_c d = F_AT(3); f_c e = F_AT(4);
               TINY_FN(tinyi_fft_dft5)(&a, &b, &c, &d, &e); f_put(y, a); F_TO(1, b); F_TO(2, c); F_TO(3, d);
               F_TO(4, e);)
        break;
    case 8:
        F_LOOP(8, f_c a = F_AT(0); f_c b = F_AT(1); f_c c = F_AT(2); f_c d = F_AT(3); f_c e = F_AT(4); f_c f = F_AT(5);
               f_c g = F_AT(6); f_c h = F_AT(7); TINY_FN(tinyi_fft_dft8)(&a, &b, &c, &d, &e, &f, &g, &h); f_put(y, a);
               F_TO(1, b); F_TO(2, c); F_TO(3, d); F_TO(4, e); F_TO(5, f); F_TO(6, g); F_TO(7, h);)
        break;
    default:
        for (p = 0; p < m; p++)
            for (q = 0; q < s; q++)
                TINY_FN(tinyi_fft_dft)
                (to + p * r * ys + q * F_W, ys, from + p * ys + q * F_W, xs, p ? w + 2 * (r - 1) * p : NULL, roots, r);
    }
}

/* ---- numbers in and out */

static size_t TINY_FN(tinyi_fft_lanes)(void) { return V_LANES; }

/* z[i] = the `lanes` complex values from x + i * step (in floats) */
static void TINY_FN(tinyi_fft_in)(float *z, const float *x, size_t n, ptrdiff_t step, size_t lanes, int swap)
{
    for (; n; n--, x += step, z += F_W) f_put(z, f_read(x, lanes, swap));
}
static void TINY_FN(tinyi_fft_out)(float *y, const float *z, size_t n, ptrdiff_t step, size_t lanes, float scale,
                                   int swap)
{
    const v_f32 f = v_set(scale);
    for (; n; n--, y += step, z += F_W) f_write(y, f_get(z), lanes, f, swap);
}

/* room of n floats on a cache line */
#define F_ROOM(name, n)                  \
    float name##_room[(n) + 16];         \
    float *const name = (float *)(void *)(((uintptr_t)name##_room + 63) & ~(uintptr_t)63);

/* One block of V_LANES rows of V_LANES floats, re and im apart: rows ys and xs floats apart. */
#if V_AVX512                                /* 64 shuffles */
static TINYI_NOINLINE
#else
TINYI_FORCE_INLINE
#endif
void TINY_FN(tinyi_fft_turn)(float *y, size_t ys, const float *x, size_t xs)
{
#if V_SCALAR
    *y = *x;
    (void)ys;
    (void)xs;
#else
    TINY_FN(tinyi_layout_turn_b4)
    ((unsigned char *)y, (ptrdiff_t)(ys * sizeof(float)), (const unsigned char *)x, (ptrdiff_t)(xs * sizeof(float)));
#endif
}

/* z[j], lane l = rows[l][j] for j < n; z has room for n rounded up to V_LANES numbers */
static void TINY_FN(tinyi_fft_in_rows)(float *z, const float *const *rows, size_t n_rows, size_t n, int swap)
{
    F_ROOM(re, V_LANES * V_LANES)
    F_ROOM(im, V_LANES * V_LANES)
    size_t j, l;
    for (l = n_rows; l < V_LANES; l++) {
        v_store(re + l * V_LANES, v_zero());
        v_store(im + l * V_LANES, v_zero());
    }
    for (j = 0; j < n; j += V_LANES, z += V_LANES * F_W) {
        const size_t k = TINYI_MIN(n - j, V_LANES);
        for (l = 0; l < n_rows; l++) {
            const f_c c = f_read(rows[l] + 2 * j, k, swap);
            v_store(re + l * V_LANES, c.r);
            v_store(im + l * V_LANES, c.i);
        }
        TINY_FN(tinyi_fft_turn)(z, F_W, re, V_LANES);
        TINY_FN(tinyi_fft_turn)(z + V_LANES, F_W, im, V_LANES);
    }
}
static void TINY_FN(tinyi_fft_out_rows)(float *const *rows, const float *z, size_t n_rows, size_t n, float scale,
                                        int swap)
{
    F_ROOM(re, V_LANES * V_LANES)
    F_ROOM(im, V_LANES * V_LANES)
    const v_f32 f = v_set(scale);
    size_t j, l;
    for (j = 0; j < n; j += V_LANES, z += V_LANES * F_W) {
        const size_t k = TINYI_MIN(n - j, V_LANES);
        TINY_FN(tinyi_fft_turn)(re, V_LANES, z, F_W);
        TINY_FN(tinyi_fft_turn)(im, V_LANES, z + V_LANES, F_W);
        for (l = 0; l < n_rows; l++) {
            f_c c;
            c.r = v_load(re + l * V_LANES);
            c.i = v_load(im + l * V_LANES);
            f_write(rows[l] + 2 * j, c, k, f, swap);
        }
    }
}

/* ---- the last step of one long row: z holds m numbers whose lanes l < split were transformed apart; tw: m numbers of
 * exp(-2 pi i l k / n). Then y[k + m t] = sum over l of (tw z)[k], lane l, times exp(-2 pi i l t / split), for blocks
 * of V_LANES values of k, turned so that lanes count k. */
static void TINY_FN(tinyi_fft_last)(float *y, const float *z, const float *tw, const float *roots, size_t m,
                                    size_t split, float scale, int swap)
{
    const v_f32 f = v_set(scale);
    F_ROOM(re, V_LANES * V_LANES)
    F_ROOM(im, V_LANES * V_LANES)
    F_ROOM(u, V_LANES * F_W)
    F_ROOM(v, V_LANES * F_W)
    size_t k, j, l, n;
    for (l = 0; l < V_LANES * V_LANES; l += V_LANES) {
        v_store(re + l, v_zero());
        v_store(im + l, v_zero());
    }
    for (k = 0; k < m; k += V_LANES) {
        float *out = y + 2 * k;
        const size_t os = 2 * m;
        n = TINYI_MIN(m - k, V_LANES);
        for (j = 0; j < n; j++, z += F_W, tw += F_W) {
            const f_c w = f_get(tw), c = f_times(f_get(z), w.r, w.i);
            v_store(re + j * V_LANES, c.r);
            v_store(im + j * V_LANES, c.i);
        }
#if V_AVX512
        if (split <= 12)                    /* fewer shuffles */
            for (l = 0; l < split; l += 4) {
                TINY_FN(tinyi_layout_turn_across)
                ((unsigned char *)(u + l * F_W), 4 * F_W, (const unsigned char *)(re + l), 4 * V_LANES);
                TINY_FN(tinyi_layout_turn_across)
                ((unsigned char *)(u + l * F_W + V_LANES), 4 * F_W, (const unsigned char *)(im + l), 4 * V_LANES);
            }
        else
#endif
        {
            TINY_FN(tinyi_fft_turn)(u, F_W, re, V_LANES);
            TINY_FN(tinyi_fft_turn)(u + V_LANES, F_W, im, V_LANES);
        }
#define F_U(l) f_get(u + (l) * F_W)
#define F_Y(t, c) f_write(out + (t) * os, c, n, f, swap)
        switch (split) {
        case 1: F_Y(0, F_U(0)); break;
#if V_LANES >= 4
        case 2: {
            const f_c a = F_U(0), b = F_U(1);
            F_Y(0, f_add(a, b)); F_Y(1, f_sub(a, b));
            break;
        }
        case 4: {
            f_c a = F_U(0), b = F_U(1), c = F_U(2), d = F_U(3);
            TINY_FN(tinyi_fft_dft4)(&a, &b, &c, &d);
            F_Y(0, a); F_Y(1, b); F_Y(2, c); F_Y(3, d);
            break;
        }
#endif
#if V_LANES >= 8
        case 8: {
            f_c a = F_U(0), b = F_U(1), c = F_U(2), d = F_U(3), e = F_U(4), g = F_U(5), h = F_U(6), i = F_U(7);
            TINY_FN(tinyi_fft_dft8)(&a, &b, &c, &d, &e, &g, &h, &i);
            F_Y(0, a); F_Y(1, b); F_Y(2, c); F_Y(3, d); F_Y(4, e); F_Y(5, g); F_Y(6, h); F_Y(7, i);
            break;
        }
#endif
#if V_LANES >= 16
        case 16:                            /* 4 x 4; roots hold exp(+2 pi i k / 16) */
            for (l = 0; l < 4; l++) {
                f_c a = F_U(l), b = F_U(l + 4), c = F_U(l + 8), d = F_U(l + 12);
                TINY_FN(tinyi_fft_dft4)(&a, &b, &c, &d);
                f_put(v + 4 * l * F_W, a);
                f_put(v + (4 * l + 1) * F_W, f_times(b, v_set(roots[2 * l]), v_set(-roots[2 * l + 1])));
                f_put(v + (4 * l + 2) * F_W, f_times(c, v_set(roots[4 * l]), v_set(-roots[4 * l + 1])));
                f_put(v + (4 * l + 3) * F_W, f_times(d, v_set(roots[6 * l]), v_set(-roots[6 * l + 1])));
            }
            for (l = 0; l < 4; l++) {
                f_c a = f_get(v + l * F_W), b = f_get(v + (l + 4) * F_W), c = f_get(v + (l + 8) * F_W),
                    d = f_get(v + (l + 12) * F_W);
                TINY_FN(tinyi_fft_dft4)(&a, &b, &c, &d);
                F_Y(l, a); F_Y(l + 4, b); F_Y(l + 8, c); F_Y(l + 12, d);
            }
            break;
        case 10:                            /* 2 x 5, which have no factor in common: no roots between them */
            for (l = 0; l < 2; l++) {
                f_c a = F_U(0), b = F_U(2), c = F_U(4), d = F_U(6), e = F_U(8);
                a = l ? f_sub(a, F_U(5)) : f_add(a, F_U(5));
                b = l ? f_sub(b, F_U(7)) : f_add(b, F_U(7));
                c = l ? f_sub(c, F_U(9)) : f_add(c, F_U(9));
                d = l ? f_sub(d, F_U(1)) : f_add(d, F_U(1));
                e = l ? f_sub(e, F_U(3)) : f_add(e, F_U(3));
                TINY_FN(tinyi_fft_dft5)(&a, &b, &c, &d, &e);
                F_Y(5 * l, a); F_Y(6 - 5 * l, b); F_Y(2 + 5 * l, c); F_Y(8 - 5 * l, d); F_Y(4 + 5 * l, e);
            }
            break;
#endif
        default:
            TINY_FN(tinyi_fft_dft)(v, F_W, u, F_W, NULL, roots, split);
            for (l = 0; l < split; l++) F_Y(l, f_get(v + l * F_W));
        }
#undef F_U
#undef F_Y
    }
}

/* ---- products and the two ends of real transforms; complex values as they lie in tensors */

/* y = scale * x * w */
static void TINY_FN(tinyi_fft_mul)(float *y, const float *x, const float *w, size_t n, float scale, int swap_in,
                                   int swap_out)
{
    const v_f32 f = v_set(scale);
    size_t k;
    for (; n; n -= k, y += 2 * k, x += 2 * k, w += 2 * k) {
        f_c a, b;
        k = TINYI_MIN(n, V_LANES);
        a = f_read(x, k, swap_in);
        b = f_read(w, k, 0);
        f_write(y, f_times(a, b.r, b.i), k, f, swap_out);
    }
}

/* From Z, the transform of x[2j] + i x[2j+1] (h values), the spectrum of the real x: with E = (Z[k] + conj Z[h-k]) / 2
 * and O = -i (Z[k] - conj Z[h-k]) / 2:  y[k] = E + w[k] O,  y[h-k] = conj(E - w[k] O);  w[k] = exp(-2 pi i k / 2h), k
 * <= h / 2. */
static void TINY_FN(tinyi_fft_real)(float *y, const float *z, const float *w, size_t h)
{
    const v_f32 one = v_set(1.0f), half = v_set(0.5f);
    size_t k = 1, n;
    y[0] = z[0] + z[1];
    y[2 * h] = z[0] - z[1];
    y[1] = y[2 * h + 1] = 0.0f;
    for (; V_LANES > 1 && k + F_LEAST <= h / 2 + 1; k += n) {
        size_t m;
        f_c a, b, t, e, o;
        n = TINYI_MIN(V_LANES, h / 2 + 1 - k);
        m = h - k - (n - 1);
        a = f_read(z + 2 * k, n, 0), t = f_read(w + 2 * k, n, 0), b = f_read(z + 2 * m, n, 0);
        b.r = TINY_FN(tinyi_fft_back)(b.r, n);
        b.i = v_neg(TINY_FN(tinyi_fft_back)(b.i, n));
        e.r = v_mul(half, v_add(a.r, b.r));
        e.i = v_mul(half, v_add(a.i, b.i));
        o.r = v_mul(half, v_sub(a.r, b.r));
        o.i = v_mul(half, v_sub(a.i, b.i));
        o = f_times(f_mi(o), t.r, t.i);
        f_write(y + 2 * k, f_add(e, o), n, one, 0);
        b = f_sub(e, o);
        b.r = TINY_FN(tinyi_fft_back)(b.r, n);
        b.i = v_neg(TINY_FN(tinyi_fft_back)(b.i, n));
        f_write(y + 2 * m, b, n, one, 0);
    }
    for (; k <= h / 2; k++) {
        const float ar = z[2 * k], ai = z[2 * k + 1], br = z[2 * (h - k)], bi = -z[2 * (h - k) + 1];
        const float er = 0.5f * (ar + br), ei = 0.5f * (ai + bi), dr = 0.5f * (ar - br), di = 0.5f * (ai - bi);
        const float tr = di * w[2 * k] + dr * w[2 * k + 1], ti = di * w[2 * k + 1] - dr * w[2 * k];
        y[2 * k] = er + tr;
        y[2 * k + 1] = ei + ti;
        y[2 * (h - k)] = er - tr;
        y[2 * (h - k) + 1] = ti - ei;
    }
}

/* The way back: z[k] = E + i O, z[h-k] = conj(E) + i conj(O), E = x[k] + conj x[h-k], O = conj(w[k]) (x[k] - conj
 * x[h-k]); the unscaled inverse transform of z is then 2h times the real rows, two values in a complex one. */
static void TINY_FN(tinyi_fft_unreal)(float *z, const float *x, const float *w, size_t h)
{
    const v_f32 one = v_set(1.0f);
    size_t k = 1, n;
    z[0] = x[0] + x[2 * h];
    z[1] = x[0] - x[2 * h];
    for (; V_LANES > 1 && k + F_LEAST <= h / 2 + 1; k += n) {
        size_t m;
        f_c a, b, t, e, o;
        n = TINYI_MIN(V_LANES, h / 2 + 1 - k);
        m = h - k - (n - 1);
        a = f_read(x + 2 * k, n, 0), t = f_read(w + 2 * k, n, 0), b = f_read(x + 2 * m, n, 0);
        b.r = TINY_FN(tinyi_fft_back)(b.r, n);
        b.i = v_neg(TINY_FN(tinyi_fft_back)(b.i, n));
        e = f_add(a, b);
        o = f_times(f_sub(a, b), t.r, v_neg(t.i));
        b.r = v_sub(e.r, o.i);
        b.i = v_add(e.i, o.r);
        f_write(z + 2 * k, b, n, one, 0);
        b.r = TINY_FN(tinyi_fft_back)(v_add(e.r, o.i), n);
        b.i = TINY_FN(tinyi_fft_back)(v_sub(o.r, e.i), n);
        f_write(z + 2 * m, b, n, one, 0);
    }
    for (; k <= h / 2; k++) {
        const float ar = x[2 * k], ai = x[2 * k + 1], br = x[2 * (h - k)], bi = -x[2 * (h - k) + 1];
        const float er = ar + br, ei = ai + bi, dr = ar - br, di = ai - bi;
        const float pr = dr * w[2 * k] + di * w[2 * k + 1], pi = di * w[2 * k] - dr * w[2 * k + 1];
        z[2 * k] = er - pi;
        z[2 * k + 1] = ei + pr;
        z[2 * (h - k)] = er + pi;
        z[2 * (h - k) + 1] = pr - ei;
    }
}

static void TINY_FN(tinyi_use_fft)(tinyi_kernels *k)
{
    TINYI_USE(k, fft_lanes);
    TINYI_USE(k, fft_pass);
    TINYI_USE(k, fft_in);
    TINYI_USE(k, fft_out);
    TINYI_USE(k, fft_in_rows);
    TINYI_USE(k, fft_out_rows);
    TINYI_USE(k, fft_last);
    TINYI_USE(k, fft_mul);
    TINYI_USE(k, fft_real);
    TINYI_USE(k, fft_unreal);
}
#undef F_W
#undef F_LEAST
#undef F_SSE
#undef F_AT
#undef F_TO
#undef F_LOOP
#undef f_c
#undef f_add
#undef f_sub
#undef f_times
#undef f_by
#undef f_mi
#undef f_get
#undef f_put
#undef f_read
#undef f_write
