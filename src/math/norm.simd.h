/* src/math/norm.simd.h */

static double TINY_FN(tinyi_norm_squares)(const float *x, size_t n, float eps)
{
    double ss = 0.0;
    size_t i;
    for (i = 0; i < n; i += TINYI_NORM_BLOCK)
        ss += (double)TINY_FN(tinyi_dot_f32)(x + i, x + i, TINYI_MIN(n - i, TINYI_NORM_BLOCK));
    if (!tinyi_norm_doubtful(ss, eps)) return ss;
    for (ss = 0.0, i = 0; i < n; i++) ss += (double)x[i] * (double)x[i];
    return ss;
}

static void TINY_FN(tinyi_rmsnorm_f32)(float *y, const float *x, const float *g, size_t n, float eps)
{
    const double mean = TINY_FN(tinyi_norm_squares)(x, n, eps) / (double)n;
    const v_f32 r = v_set((float)(1.0 / tinyi_sqrt(mean + (double)eps)));
    size_t i = 0;
    if (!g) {
        for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_mul(v_load(x + i), r));
        if (i < n) v_store_n(y + i, v_mul(v_load_n(x + i, n - i), r), n - i);
        return;
    }
    for (; i + 2 * V_LANES <= n; i += 2 * V_LANES) {
        v_f32 p = v_mul(v_load(x + i), r), q = v_mul(v_load(x + i + V_LANES), r);
        v_store(y + i, v_mul(v_load(g + i), p));
        v_store(y + i + V_LANES, v_mul(v_load(g + i + V_LANES), q));
    }
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_mul(v_load(g + i), v_mul(v_load(x + i), r)));
    if (i < n) v_store_n(y + i, v_mul(v_load_n(g + i, n - i), v_mul(v_load_n(x + i, n - i), r)), n - i);
}

static void TINY_FN(tinyi_norm_moments_f32)(const float *x, size_t n, float mid, double *sum, double *squares)
{
    const v_f32 m = v_set(mid);
    size_t i = 0, end;
    *sum = *squares = 0.0;
    while (i < n) {
        v_f32 a = v_zero(), b = a, c = a, d = a, aa = a, bb = a, cc = a, dd = a;
        end = i + TINYI_MIN(n - i, TINYI_NORM_BLOCK);
        for (; i + 4 * V_LANES <= end; i += 4 * V_LANES) {
            v_f32 p = v_sub(v_load(x + i), m), q = v_sub(v_load(x + i + V_LANES), m);
            v_f32 s = v_sub(v_load(x + i + 2 * V_LANES), m), t = v_sub(v_load(x + i + 3 * V_LANES), m);
            a = v_add(a, p);
            b = v_add(b, q);
            c = v_add(c, s);
            d = v_add(d, t);
            aa = v_fma(p, p, aa);
            bb = v_fma(q, q, bb);
            cc = v_fma(s, s, cc);
            dd = v_fma(t, t, dd);
        }
        for (; i < end; i += V_LANES) {
            const size_t r = TINYI_MIN(end - i, (size_t)V_LANES);
            v_f32 p = v_select(v_first(r), v_sub(v_load_n(x + i, r), m), v_zero());
            a = v_add(a, p);
            aa = v_fma(p, p, aa);
        }
        i = end;
        *sum += (double)v_sum(v_add(v_add(a, b), v_add(c, d)));
        *squares += (double)v_sum(v_add(v_add(aa, bb), v_add(cc, dd)));
    }
}

/* normed value of the vector v */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_norm_value)(v_f32 v, v_f32 mid, v_f32 rest, v_f32 r)
{
    return v_mul(v_sub(v_sub(v, mid), rest), r);
}

static void TINY_FN(tinyi_layernorm_f32)(float *y, const float *x, const float *g, const float *b, size_t n, float eps)
{
    tinyi_norm_fit fit;
    double sum, squares;
    v_f32 mid, rest, r;
    size_t i = 0;
    /* a mean from the distances to a value of the row, then the variance around that mean, with the mean's own error */
    TINY_FN(tinyi_norm_moments_f32)(x, n, x[0], &sum, &squares);
    fit.mid = (float)((double)x[0] + sum / (double)n);
    TINY_FN(tinyi_norm_moments_f32)(x, n, fit.mid, &sum, &squares);
    tinyi_norm_finish(&fit, x, n, sum, squares, eps);
    mid = v_set(fit.mid);
    rest = v_set(fit.rest);
    r = v_set(fit.r);
    for (; i + V_LANES <= n; i += V_LANES) {
        v_f32 v = TINY_FN(tinyi_norm_value)(v_load(x + i), mid, rest, r);
        if (g && b) v = v_fma(v_load(g + i), v, v_load(b + i));
        else if (g) v = v_mul(v_load(g + i), v);
        else if (b) v = v_add(v, v_load(b + i));
        v_store(y + i, v);
    }
    if (i < n) {
        const size_t m = n - i;
        v_f32 v = TINY_FN(tinyi_norm_value)(v_load_n(x + i, m), mid, rest, r);
        if (g && b) v = v_fma(v_load_n(g + i, m), v, v_load_n(b + i, m));
        else if (g) v = v_mul(v_load_n(g + i, m), v);
        else if (b) v = v_add(v, v_load_n(b + i, m));
        v_store_n(y + i, v, m);
    }
}

static void TINY_FN(tinyi_norm_affine_f32)(float *y, const float *x, size_t n, const tinyi_norm_fit *fit, float g,
                                           float b)
{
    const v_f32 mid = v_set(fit->mid), rest = v_set(fit->rest), r = v_set(fit->r), vg = v_set(g), vb = v_set(b);
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES)
        v_store(y + i, v_fma(vg, TINY_FN(tinyi_norm_value)(v_load(x + i), mid, rest, r), vb));
    if (i < n) v_store_n(y + i, v_fma(vg, TINY_FN(tinyi_norm_value)(v_load_n(x + i, n - i), mid, rest, r), vb), n - i);
}

static void TINY_FN(tinyi_use_norm)(tinyi_kernels *k)
{
    TINYI_USE(k, rmsnorm_f32);
    TINYI_USE(k, layernorm_f32);
    TINYI_USE(k, norm_moments_f32);
    TINYI_USE(k, norm_affine_f32);
}
