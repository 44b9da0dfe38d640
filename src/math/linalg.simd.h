/* src/math/linalg.simd.h - kernels of linear algebra in double; see math/linalg_block_inside.h for what stands on them
 *
 * The v_ layer has no doubles, so a small d_ layer comes first: D_LANES doubles a vector.
 *   d_fma(a,b,c) a * b + c, d_fnma c - a * b: fused where the target can
 *   d_load_n, d_store_n: the first n < D_LANES lanes, n >= 1                                                         */
#if V_AVX512
#define D_LANES 8
#define D_MR 8
#define D_NV 3
#define D_ROT_NV 4
#define d_f64 __m512d
#define d_zero _mm512_setzero_pd
#define d_set _mm512_set1_pd
#define d_load _mm512_loadu_pd
#define d_store _mm512_storeu_pd
#define d_load_n(p, n) _mm512_maskz_loadu_pd((__mmask8)((1u << (n)) - 1u), p)
#define d_store_n(p, v, n) _mm512_mask_storeu_pd(p, (__mmask8)((1u << (n)) - 1u), v)
#define d_add _mm512_add_pd
#define d_mul _mm512_mul_pd
#define d_fma _mm512_fmadd_pd
#define d_fnma _mm512_fnmadd_pd
#define d_max _mm512_max_pd
#define d_abs _mm512_abs_pd
#define d_sum _mm512_reduce_add_pd
#define d_top _mm512_reduce_max_pd
#elif V_AVX2
#define D_LANES 4
#define D_MR 4
#define D_NV 3
#define D_ROT_NV 2
#define d_f64 __m256d
#define d_zero _mm256_setzero_pd
#define d_set _mm256_set1_pd
#define d_load _mm256_loadu_pd
#define d_store _mm256_storeu_pd
#define d_add _mm256_add_pd
#define d_mul _mm256_mul_pd
#define d_fma _mm256_fmadd_pd
#define d_fnma _mm256_fnmadd_pd
#define d_load_n TINY_FN(tinyi_d_load_n)
#define d_store_n TINY_FN(tinyi_d_store_n)
#define d_sum TINY_FN(tinyi_d_sum)
TINYI_FORCE_INLINE __m256i TINY_FN(tinyi_d_first)(size_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)n), _mm256_setr_epi64x(0, 1, 2, 3));
}
TINYI_FORCE_INLINE d_f64 d_load_n(const double *p, size_t n)
{
    return _mm256_maskload_pd(p, TINY_FN(tinyi_d_first)(n));
}
TINYI_FORCE_INLINE void d_store_n(double *p, d_f64 v, size_t n)
{
    _mm256_maskstore_pd(p, TINY_FN(tinyi_d_first)(n), v);
}
TINYI_FORCE_INLINE double d_sum(d_f64 a)
{
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}
#define d_max _mm256_max_pd
#define d_abs(a) _mm256_andnot_pd(_mm256_set1_pd(-0.0), a)
#define d_top TINY_FN(tinyi_d_top)
TINYI_FORCE_INLINE double d_top(d_f64 a)
{
    __m128d s = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_max_sd(s, _mm_unpackhi_pd(s, s)));
}
#elif V_NEON
#define D_LANES 2
#define D_MR 8
#define D_NV 3
#define D_ROT_NV 4
#define d_f64 float64x2_t
#define d_zero() vdupq_n_f64(0.0)
#define d_set vdupq_n_f64
#define d_load vld1q_f64
#define d_store vst1q_f64
#define d_load_n(p, n) vld1q_lane_f64(p, vdupq_n_f64(0.0), 0)
#define d_store_n(p, v, n) vst1q_lane_f64(p, v, 0)
#define d_add vaddq_f64
#define d_mul vmulq_f64
#define d_fma(a, b, c) vfmaq_f64(c, a, b)
#define d_fnma(a, b, c) vfmsq_f64(c, a, b)
#define d_max vmaxq_f64
#define d_abs vabsq_f64
#define d_sum vaddvq_f64
#define d_top vmaxvq_f64
#elif V_W128
#define D_LANES 2
#define D_MR 4
#define D_NV 2
#define D_ROT_NV 2
#if TINYI_W128_SIMDE
#define D_SSE(f) simde_mm_##f
#define d_f64 simde__m128d
#else
#define D_SSE(f) _mm_##f
#define d_f64 __m128d
#endif
#define d_zero D_SSE(setzero_pd)
#define d_set TINY_FN(tinyi_d_set)
TINYI_FORCE_INLINE d_f64 d_set(double x) { TINYI_W_LOADED(x); return D_SSE(set1_pd)(x); }
#define d_load D_SSE(loadu_pd)
#define d_store D_SSE(storeu_pd)
#define d_load_n(p, n) D_SSE(load_sd)(p)
#define d_store_n(p, v, n) D_SSE(store_sd)(p, v)
#define d_add D_SSE(add_pd)
#define d_mul D_SSE(mul_pd)
#define d_fma(a, b, c) D_SSE(add_pd)(D_SSE(mul_pd)(a, b), c)
#define d_fnma(a, b, c) D_SSE(sub_pd)(c, D_SSE(mul_pd)(a, b))
#define d_sum TINY_FN(tinyi_d_sum)
TINYI_FORCE_INLINE double d_sum(d_f64 a) { return D_SSE(cvtsd_f64)(D_SSE(add_sd)(a, D_SSE(unpackhi_pd)(a, a))); }
#define d_max D_SSE(max_pd)
#define d_abs(a) D_SSE(andnot_pd)(D_SSE(set1_pd)(-0.0), a)
#define d_top TINY_FN(tinyi_d_top)
TINYI_FORCE_INLINE double d_top(d_f64 a) { return D_SSE(cvtsd_f64)(D_SSE(max_sd)(a, D_SSE(unpackhi_pd)(a, a))); }
#else
#define D_LANES 1
#define D_MR 4
#define D_NV 2
#define D_ROT_NV 2
#define d_f64 double
#define d_zero() 0.0
#define d_set(x) (x)
#define d_load(p) (*(p))
#define d_store(p, v) (*(p) = (v))
#define d_load_n(p, n) (*(p))
#define d_store_n(p, v, n) (*(p) = (v))
#define d_add(a, b) ((a) + (b))
#define d_mul(a, b) ((a) * (b))
#define d_fma(a, b, c) ((a) * (b) + (c))
#define d_fnma(a, b, c) ((c) - (a) * (b))
#define d_max(a, b) ((a) > (b) ? (a) : (b))
#define d_abs(a) ((a) < 0.0 ? -(a) : (a))
#define d_sum(a) (a)
#define d_top(a) (a)
#endif
#define D_NR (D_NV * D_LANES)

/* rows of a register tile, spelled out: compilers at -O2 keep arrays in memory */
#if D_MR == 8
#define D_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define D_ROWS(X) X(0) X(1) X(2) X(3)
#endif
#if D_NV == 3
#define D_COLS(X, i) X(i, 0) X(i, 1) X(i, 2)
#else
#define D_COLS(X, i) X(i, 0) X(i, 1)
#endif

/* the largest magnitude of x and of *largest; 0: a value is not finite, nothing was written */
static int TINY_FN(tinyi_la_peak)(const double *x, size_t n, double *largest)
{
    d_f64 top = d_zero(), bad = d_zero();
    double rest = 0.0, wrong;
    size_t i = 0;
    for (; i + D_LANES <= n; i += D_LANES) {
        const d_f64 v = d_load(x + i);
        top = d_max(top, d_abs(v));
        bad = d_fma(v, d_zero(), bad);      /* 0 * inf and 0 * NaN are NaN */
    }
    wrong = d_sum(bad);
    for (; i < n; i++) {
        const double a = x[i] < 0.0 ? -x[i] : x[i];
        if (a > rest) rest = a;
        wrong += 0.0 * a;
    }
    if (wrong != 0.0) return 0;
    rest = TINYI_MAX(rest, d_top(top));
    if (rest > *largest) *largest = rest;
    return 1;
}

/* to[p * wide + j] = b[j * ldb + p] for p < k, j < n, and zeros for n <= j < wide; blocks are turned by
 * math/layout.simd.h */
static void TINY_FN(tinyi_la_turn)(double *to, size_t wide, const double *b, size_t ldb, size_t k, size_t n)
{
    size_t j = 0, p;
#if D_LANES > 1
    for (; j + D_LANES <= n; j += D_LANES) {
        for (p = 0; p + D_LANES <= k; p += D_LANES)
            TINY_FN(tinyi_layout_turn_b8)
            ((unsigned char *)(to + p * wide + j), (ptrdiff_t)(wide * sizeof *to),
             (const unsigned char *)(b + j * ldb + p), (ptrdiff_t)(ldb * sizeof *b));
        for (; p < k; p++) {
            size_t i;
            for (i = j; i < j + D_LANES; i++) to[p * wide + i] = b[i * ldb + p];
        }
    }
#endif
    for (p = 0; p < k; p++) {
        size_t i;
        for (i = j; i < n; i++) to[p * wide + i] = b[i * ldb + p];
        for (; i < wide; i++) to[p * wide + i] = 0.0;
    }
}

/* the tile of la_tile: 256 * rows + columns */
static int TINY_FN(tinyi_la_shape)(void) { return D_MR * 256 + D_NR; }

/* c (m, n) += alpha * A B for one tile, m <= D_MR, n <= D_NR; a: k steps of D_MR, b: k steps of D_NR, both whole */
static void TINY_FN(tinyi_la_tile)(double *c, size_t ldc, const double *a, const double *b, size_t k, double alpha,
                                   size_t m, size_t n)
{
    double t[D_MR * D_NR];
    d_f64 al = d_set(alpha);
    size_t i, j;
#define D_ACC(i, j) d_f64 c##i##j = d_zero();
#define D_ACCS(i) D_COLS(D_ACC, i)
    D_ROWS(D_ACCS)
    for (; k; k--) {
        d_f64 x, b0 = d_load(b), b1 = d_load(b + D_LANES);
#if D_NV == 3
        d_f64 b2 = d_load(b + 2 * D_LANES);
#endif
#define D_STEP(i, j) c##i##j = d_fma(x, b##j, c##i##j);
#define D_STEPS(i) x = d_set(a[i]); D_COLS(D_STEP, i)
        D_ROWS(D_STEPS)
        a += D_MR;
        b += D_NR;
    }
    if (m == D_MR && n == D_NR) {
#define D_OUT(i, j) d_store(c + i * ldc + j * D_LANES, d_fma(al, c##i##j, d_load(c + i * ldc + j * D_LANES)));
#define D_OUTS(i) D_COLS(D_OUT, i)
        D_ROWS(D_OUTS)
        return;
    }
#define D_KEEP(i, j) d_store(t + i * D_NR + j * D_LANES, c##i##j);
#define D_KEEPS(i) D_COLS(D_KEEP, i)
    D_ROWS(D_KEEPS)
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++) c[i * ldc + j] += alpha * t[i * D_NR + j];
#undef D_ACC
#undef D_ACCS
#undef D_STEP
#undef D_STEPS
#undef D_OUT
#undef D_OUTS
#undef D_KEEP
#undef D_KEEPS
}

/* y[0..n) += alpha * sum over p < k of c[p * cs] * a[p * lda + 0..n): a combination of rows */
static void TINY_FN(tinyi_la_comb)(double *y, size_t n, const double *a, size_t lda, size_t k, const double *c,
                                   size_t cs, double alpha)
{
    const d_f64 al = d_set(alpha);
    size_t j = 0, p;
    for (; j + 4 * D_LANES <= n; j += 4 * D_LANES) {
        const double *q = a + j;
        d_f64 s0 = d_zero(), s1 = d_zero(), s2 = d_zero(), s3 = d_zero();
        for (p = 0; p < k; p++, q += lda) {
            d_f64 x = d_set(c[p * cs]);
            s0 = d_fma(x, d_load(q), s0);
            s1 = d_fma(x, d_load(q + D_LANES), s1);
            s2 = d_fma(x, d_load(q + 2 * D_LANES), s2);
            s3 = d_fma(x, d_load(q + 3 * D_LANES), s3);
        }
        d_store(y + j, d_fma(al, s0, d_load(y + j)));
        d_store(y + j + D_LANES, d_fma(al, s1, d_load(y + j + D_LANES)));
        d_store(y + j + 2 * D_LANES, d_fma(al, s2, d_load(y + j + 2 * D_LANES)));
        d_store(y + j + 3 * D_LANES, d_fma(al, s3, d_load(y + j + 3 * D_LANES)));
    }
    for (; j + D_LANES <= n; j += D_LANES) {
        const double *q = a + j;
        d_f64 s0 = d_zero(), s1 = d_zero();
        for (p = 0; p + 2 <= k; p += 2, q += 2 * lda) {
            s0 = d_fma(d_set(c[p * cs]), d_load(q), s0);
            s1 = d_fma(d_set(c[(p + 1) * cs]), d_load(q + lda), s1);
        }
        if (p < k) s0 = d_fma(d_set(c[p * cs]), d_load(q), s0);
        d_store(y + j, d_fma(al, d_add(s0, s1), d_load(y + j)));
    }
    if (j < n) {
        const double *q = a + j;
        size_t r = n - j;
        d_f64 s0 = d_zero(), s1 = d_zero();
        for (p = 0; p + 2 <= k; p += 2, q += 2 * lda) {
            s0 = d_fma(d_set(c[p * cs]), d_load_n(q, r), s0);
            s1 = d_fma(d_set(c[(p + 1) * cs]), d_load_n(q + lda, r), s1);
        }
        if (p < k) s0 = d_fma(d_set(c[p * cs]), d_load_n(q, r), s0);
        d_store_n(y + j, d_fma(al, d_add(s0, s1), d_load_n(y + j, r)), r);
        (void)r;
    }
}

/* y[i * ys] += alpha * sum over j < n of a[i * lda + j] * x[j], i < m: products of rows with a vector */
static void TINY_FN(tinyi_la_dots)(double *y, size_t ys, const double *a, size_t lda, size_t m, size_t n,
                                   const double *x, double alpha)
{
    size_t i = 0, j;
    for (; i + 4 <= m; i += 4) {
        const double *p = a + i * lda, *q = p + lda, *r = q + lda, *s = r + lda;
        d_f64 s0 = d_zero(), s1 = d_zero(), s2 = d_zero(), s3 = d_zero(), v;
        for (j = 0; j + D_LANES <= n; j += D_LANES) {
            v = d_load(x + j);
            s0 = d_fma(d_load(p + j), v, s0);
            s1 = d_fma(d_load(q + j), v, s1);
            s2 = d_fma(d_load(r + j), v, s2);
            s3 = d_fma(d_load(s + j), v, s3);
        }
        if (j < n) {
            size_t t = n - j;
            v = d_load_n(x + j, t);
            s0 = d_fma(d_load_n(p + j, t), v, s0);
            s1 = d_fma(d_load_n(q + j, t), v, s1);
            s2 = d_fma(d_load_n(r + j, t), v, s2);
            s3 = d_fma(d_load_n(s + j, t), v, s3);
            (void)t;
        }
        y[i * ys] += alpha * d_sum(s0);
        y[(i + 1) * ys] += alpha * d_sum(s1);
        y[(i + 2) * ys] += alpha * d_sum(s2);
        y[(i + 3) * ys] += alpha * d_sum(s3);
    }
    for (; i < m; i++) {
        const double *p = a + i * lda;
        d_f64 s0 = d_zero(), s1 = d_zero(), s2 = d_zero(), s3 = d_zero();
        for (j = 0; j + 4 * D_LANES <= n; j += 4 * D_LANES) {
            s0 = d_fma(d_load(p + j), d_load(x + j), s0);
            s1 = d_fma(d_load(p + j + D_LANES), d_load(x + j + D_LANES), s1);
            s2 = d_fma(d_load(p + j + 2 * D_LANES), d_load(x + j + 2 * D_LANES), s2);
            s3 = d_fma(d_load(p + j + 3 * D_LANES), d_load(x + j + 3 * D_LANES), s3);
        }
        for (; j + D_LANES <= n; j += D_LANES) s0 = d_fma(d_load(p + j), d_load(x + j), s0);
        if (j < n) {
            size_t t = n - j;
            s1 = d_fma(d_load_n(p + j, t), d_load_n(x + j, t), s1);
            (void)t;
        }
        y[i * ys] += alpha * d_sum(d_add(d_add(s0, s1), d_add(s2, s3)));
    }
}

/* a (m, n) += alpha v x^T, v with stride vs */
static void TINY_FN(tinyi_la_rank1)(double *a, size_t lda, size_t m, size_t n, const double *v, size_t vs,
                                    const double *x, double alpha)
{
    size_t i, j;
    for (i = 0; i < m; i++) {
        double *p = a + i * lda;
        const d_f64 f = d_set(alpha * v[i * vs]);
        for (j = 0; j + 2 * D_LANES <= n; j += 2 * D_LANES) {
            d_store(p + j, d_fma(f, d_load(x + j), d_load(p + j)));
            d_store(p + j + D_LANES, d_fma(f, d_load(x + j + D_LANES), d_load(p + j + D_LANES)));
        }
        for (; j + D_LANES <= n; j += D_LANES) d_store(p + j, d_fma(f, d_load(x + j), d_load(p + j)));
        if (j < n) {
            size_t t = n - j;
            d_store_n(p + j, d_fma(f, d_load_n(x + j, t), d_load_n(p + j, t)), t);
            (void)t;
        }
    }
}

/* y += A x over rows i0..i1 of a symmetric (n, n) of which the upper triangle is stored: row i gives y[i] its product
 * from the diagonal on, and y[j], j > i, the part x[i] * a[i][j]. Four rows at once read y and x a quarter as often. */
static void TINY_FN(tinyi_la_symv)(double *y, const double *x, const double *a, size_t lda, size_t i0, size_t i1,
                                   size_t n)
{
    size_t i = i0, j, r, c;
    for (; i < i1; i += r) {
        const double *p = a + i * lda;
        r = i1 - i < 4 ? 1 : 4;
        for (j = 0; j < r; j++) {
            double s = p[j * lda + i + j] * x[i + j];
            for (c = j + 1; c < r; c++) {
                s += p[j * lda + i + c] * x[i + c];
                y[i + c] += p[j * lda + i + c] * x[i + j];
            }
            y[i + j] += s;
        }
        j = i + r;
        if (r == 4) {
            const double *p1 = p + lda, *p2 = p1 + lda, *p3 = p2 + lda;
            const d_f64 x0 = d_set(x[i]), x1 = d_set(x[i + 1]), x2 = d_set(x[i + 2]), x3 = d_set(x[i + 3]);
            d_f64 s0 = d_zero(), s1 = d_zero(), s2 = d_zero(), s3 = d_zero();
            for (; j + D_LANES <= n; j += D_LANES) {
                d_f64 a0 = d_load(p + j), a1 = d_load(p1 + j), a2 = d_load(p2 + j), a3 = d_load(p3 + j),
                      v = d_load(x + j);
                s0 = d_fma(a0, v, s0);
                s1 = d_fma(a1, v, s1);
                s2 = d_fma(a2, v, s2);
                s3 = d_fma(a3, v, s3);
                d_store(y + j, d_add(d_fma(a1, x1, d_fma(a0, x0, d_load(y + j))), d_fma(a3, x3, d_mul(a2, x2))));
            }
            if (j < n) {
                size_t t = n - j;
                d_f64 a0 = d_load_n(p + j, t), a1 = d_load_n(p1 + j, t), a2 = d_load_n(p2 + j, t),
                      a3 = d_load_n(p3 + j, t), v = d_load_n(x + j, t);
                s0 = d_fma(a0, v, s0);
                s1 = d_fma(a1, v, s1);
                s2 = d_fma(a2, v, s2);
                s3 = d_fma(a3, v, s3);
                d_store_n(y + j, d_add(d_fma(a1, x1, d_fma(a0, x0, d_load_n(y + j, t))), d_fma(a3, x3, d_mul(a2, x2))),
                          t);
                (void)t;
            }
            y[i] += d_sum(s0);
            y[i + 1] += d_sum(s1);
            y[i + 2] += d_sum(s2);
            y[i + 3] += d_sum(s3);
        } else {
            const d_f64 x0 = d_set(x[i]);
            d_f64 s0 = d_zero();
            for (; j + D_LANES <= n; j += D_LANES) {
                d_f64 a0 = d_load(p + j);
                s0 = d_fma(a0, d_load(x + j), s0);
                d_store(y + j, d_fma(a0, x0, d_load(y + j)));
            }
            if (j < n) {
                size_t t = n - j;
                d_f64 a0 = d_load_n(p + j, t);
                s0 = d_fma(a0, d_load_n(x + j, t), s0);
                d_store_n(y + j, d_fma(a0, x0, d_load_n(y + j, t)), t);
                (void)t;
            }
            y[i] += d_sum(s0);
        }
    }
}

/* rows p, q of n: (p, q) <- (c p - s q, s p + c q) */
static void TINY_FN(tinyi_la_rot)(double *p, double *q, size_t n, double c, double s)
{
    const d_f64 vc = d_set(c), vs = d_set(s);
    size_t j = 0;
    for (; j + D_LANES <= n; j += D_LANES) {
        d_f64 a = d_load(p + j), b = d_load(q + j);
        d_store(p + j, d_fnma(vs, b, d_mul(vc, a)));
        d_store(q + j, d_fma(vs, a, d_mul(vc, b)));
    }
    for (; j < n; j++) {
        double a = p[j], b = q[j];
        p[j] = c * a - s * b;
        q[j] = s * a + c * b;
    }
}

/* Four sweeps of rotations in one pass over rows of z (stride ld), n columns. Sweep f turns rows (i, i+1) for i = hi-1
 * down to lo by cs[f][2 i], cs[f][2 i + 1], f = 0 first; the sweeps run three rows behind each other, so that a row
 * comes from memory once for four rotations. hi - lo >= 4. */
static void TINY_FN(tinyi_la_rot4)(double *z, size_t ld, size_t n, const double *const *cs, size_t lo, size_t hi)
{
    const double *w0 = cs[0], *w1 = cs[1] + 2, *w2 = cs[2] + 4, *w3 = cs[3] + 6;
    size_t f, i, j, k, top = hi - 4;
    for (f = 0; f < 3; f++)                 /* the start: what the later sweeps wait for */
        for (i = hi; i-- > top + f + 1;)
            TINY_FN(tinyi_la_rot)(z + i * ld, z + (i + 1) * ld, n, cs[f][2 * i], cs[f][2 * i + 1]);
#define D_TURN(x, y, c, s) t = x; x = d_fnma(s, y, d_mul(c, t)); y = d_fma(s, t, d_mul(c, y));
#if D_ROT_NV == 4
#define D_ALL(X) X(0) X(1) X(2) X(3)
#else
#define D_ALL(X) X(0) X(1)
#endif
    for (j = 0; j + D_ROT_NV * D_LANES <= n; j += D_ROT_NV * D_LANES) {
        double *p = z + top * ld + j;
        d_f64 t, c, s;
#define D_BEGIN(v) d_f64 r0##v, r1##v = d_load(p + ld + v * D_LANES), r2##v = d_load(p + 2 * ld + v * D_LANES), \
    r3##v = d_load(p + 3 * ld + v * D_LANES), r4##v = d_load(p + 4 * ld + v * D_LANES);
        D_ALL(D_BEGIN)
        for (k = top + 1; k-- > lo;) {
            p = z + k * ld + j;
#define D_IN(v) r0##v = d_load(p + v * D_LANES);
            D_ALL(D_IN)
#define D_T0(v) D_TURN(r0##v, r1##v, c, s)
            c = d_set(w0[2 * k]); s = d_set(w0[2 * k + 1]); D_ALL(D_T0)
#define D_T1(v) D_TURN(r1##v, r2##v, c, s)
            c = d_set(w1[2 * k]); s = d_set(w1[2 * k + 1]); D_ALL(D_T1)
#define D_T2(v) D_TURN(r2##v, r3##v, c, s)
            c = d_set(w2[2 * k]); s = d_set(w2[2 * k + 1]); D_ALL(D_T2)
#define D_T3(v) D_TURN(r3##v, r4##v, c, s)
            c = d_set(w3[2 * k]); s = d_set(w3[2 * k + 1]); D_ALL(D_T3)
#define D_MOVE(v) d_store(p + 4 * ld + v * D_LANES, r4##v); r4##v = r3##v; r3##v = r2##v; r2##v = r1##v; r1##v = r0##v;
            D_ALL(D_MOVE)
        }
#define D_END(v) d_store(p + v * D_LANES, r1##v); d_store(p + ld + v * D_LANES, r2##v); \
    d_store(p + 2 * ld + v * D_LANES, r3##v); d_store(p + 3 * ld + v * D_LANES, r4##v);
        D_ALL(D_END)
    }
    if (j < n)
        for (f = 0; f < 4; f++)
            for (i = top + f + 1; i-- > lo + f;)
                TINY_FN(tinyi_la_rot)(z + i * ld + j, z + (i + 1) * ld + j, n - j, cs[f][2 * i], cs[f][2 * i + 1]);
    for (f = 1; f < 4; f++)                 /* the end */
        for (i = lo + f; i-- > lo;)
            TINY_FN(tinyi_la_rot)(z + i * ld, z + (i + 1) * ld, n, cs[f][2 * i], cs[f][2 * i + 1]);
#undef D_TURN
#undef D_ALL
#undef D_BEGIN
#undef D_IN
#undef D_T0
#undef D_T1
#undef D_T2
#undef D_T3
#undef D_MOVE
#undef D_END
}

static void TINY_FN(tinyi_use_linalg)(tinyi_kernels *k)
{
    TINYI_USE(k, la_peak);
    TINYI_USE(k, la_turn);
    TINYI_USE(k, la_shape);
    TINYI_USE(k, la_tile);
    TINYI_USE(k, la_comb);
    TINYI_USE(k, la_dots);
    TINYI_USE(k, la_rank1);
    TINYI_USE(k, la_symv);
    TINYI_USE(k, la_rot);
    TINYI_USE(k, la_rot4);
}

#undef D_LANES
#undef D_MR
#undef D_NV
#undef D_NR
#undef D_ROT_NV
#undef D_ROWS
#undef D_COLS
#undef D_SSE
#undef d_f64
#undef d_zero
#undef d_set
#undef d_load
#undef d_store
#undef d_load_n
#undef d_store_n
#undef d_add
#undef d_mul
#undef d_fma
#undef d_fnma
#undef d_max
#undef d_abs
#undef d_sum
#undef d_top
