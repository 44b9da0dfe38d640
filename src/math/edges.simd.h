/* src/math/edges.simd.h - rows of features gathered, weighted and combined along edges */

/* Rows lie anywhere: their lines are asked for so many edges before they are used. Chosen, not tuned. */
#define TINYI_EDGE_AHEAD 16

TINYI_FORCE_INLINE const float *TINY_FN(tinyi_edge_row)(const tinyi_edges *j, int64_t p) { return j->x + (ptrdiff_t)(j->col ? (int64_t)j->col[p] : p) * j->x_row; }

TINYI_FORCE_INLINE void TINY_FN(tinyi_edge_fetch)(const tinyi_edges *j, int64_t p, size_t f, size_t n)
{
    size_t i;
    if (!j->col || p + TINYI_EDGE_AHEAD >= j->m) return;
    for (i = 0; i < n; i += 16) TINYI_PREFETCH(j->x + (ptrdiff_t)j->col[p + TINYI_EDGE_AHEAD] * j->x_row + f + i);
}

/* R vectors of the row from feature f on */
#define TINYI_SPMM_BLOCK(R)                                                                                 \
    for (; f + R * V_LANES <= n; f += R * V_LANES) {                                                        \
        v_f32 acc[R];                                                                                       \
        TINYI_UNROLL for (r = 0; r < R; r++) acc[r] = v_zero();                                             \
        if (w) for (p = p0; p < p1; p++) {                                                                  \
            const float *x = TINY_FN(tinyi_edge_row)(j, p) + f;                                             \
            const v_f32 wp = v_set(w[p]);                                                                   \
            TINY_FN(tinyi_edge_fetch)(j, p, f, R * V_LANES);                                                \
            TINYI_UNROLL for (r = 0; r < R; r++) acc[r] = v_fma(wp, v_load(x + r * V_LANES), acc[r]);       \
        } else for (p = p0; p < p1; p++) {                                                                  \
            const float *x = TINY_FN(tinyi_edge_row)(j, p) + f;                                             \
            TINY_FN(tinyi_edge_fetch)(j, p, f, R * V_LANES);                                                \
            TINYI_UNROLL for (r = 0; r < R; r++) acc[r] = v_add(acc[r], v_load(x + r * V_LANES));           \
        }                                                                                                   \
        TINYI_UNROLL for (r = 0; r < R; r++) v_store(y + f + r * V_LANES, acc[r]);                          \
    }

static void TINY_FN(tinyi_spmm_f32)(float *y, const tinyi_edges *j, int64_t p0, int64_t p1)
{
    const float *w = j->w;
    const size_t n = j->f;
    size_t f = 0;
    int64_t p;
    int r;
#if !V_SCALAR
    TINYI_SPMM_BLOCK(8)
#endif
    TINYI_SPMM_BLOCK(4)
    TINYI_SPMM_BLOCK(2)
    TINYI_SPMM_BLOCK(1)
    if (f < n) {
        v_f32 acc = v_zero();
        for (p = p0; p < p1; p++) {
            v_f32 x = v_load_n(TINY_FN(tinyi_edge_row)(j, p) + f, n - f);
            TINY_FN(tinyi_edge_fetch)(j, p, f, n - f);
            acc = w ? v_fma(v_set(w[p]), x, acc) : v_add(acc, x);
        }
        v_store_n(y + f, acc, n - f);
    }
}
#undef TINYI_SPMM_BLOCK

static void TINY_FN(tinyi_spmm_any_f32)(float *y, const tinyi_edges *j, int64_t p0, int64_t p1)
{
    const size_t each = j->f / j->heads;
    size_t h, f, k;
    int64_t p;
    for (h = 0; h < j->heads; h++)
        for (k = 0; k < each; k += V_LANES) {
            const size_t n = TINYI_MIN(each - k, (size_t)V_LANES);
            v_f32 acc = v_zero();
            f = h * each + k;
            for (p = p0; p < p1; p++) {
                v_f32 v = v_load_n(TINY_FN(tinyi_edge_row)(j, p) + f, n);
                TINY_FN(tinyi_edge_fetch)(j, p, f, n);
                if (j->e) v = v_add(v, v_load_n(j->e + (size_t)p * j->f + f, n));
                if (j->relu) v = v_select(v_lt(v, v_zero()), v_zero(), v);
                if (j->w) v = v_mul(v, v_set(j->w[(size_t)p * j->heads + h]));
                if (j->reduce < TINY_EDGE_MAX) acc = v_add(acc, v);
                else if (p == p0) acc = v;
                else {
                    v_mask keep = j->reduce == TINY_EDGE_MAX ? v_le(v, acc) : v_le(acc, v);
                    acc = v_select(v_isnan(acc), acc, v_select(keep, acc, v));
                }
            }
            v_store_n(y + f, acc, n);
        }
}

static void TINY_FN(tinyi_sddmm_f32)(float *s, const tinyi_edges *j, const float *a, int64_t p0, int64_t p1)
{
    const size_t each = j->f / j->heads;
    const v_f32 slope = v_set(j->slope);
    size_t h, k;
    int64_t p;
    for (p = p0; p < p1; p++, s += j->heads) {
        const float *b = TINY_FN(tinyi_edge_row)(j, p), *e = j->e ? j->e + (size_t)p * j->f : NULL;
        TINY_FN(tinyi_edge_fetch)(j, p, 0, j->f);
        if (j->add && !j->att) {
            for (k = 0; k < j->f; k += V_LANES) {
                const size_t n = TINYI_MIN(j->f - k, (size_t)V_LANES);
                v_f32 t = v_load_n(b + k, n);
                if (e) t = v_add(t, v_load_n(e + k, n));
                t = v_add(v_load_n(a + k, n), t);
                v_store_n(s + k, v_select(v_le(t, v_zero()), v_mul(slope, t), t), n);
            }
            continue;
        }
        for (h = 0; h < j->heads; h++) {
            const size_t at = h * each;
            v_f32 s0 = v_zero(), s1 = v_zero();
            for (k = 0; k < each; k += V_LANES) {
                const size_t n = TINYI_MIN(each - k, (size_t)V_LANES);
                v_f32 t = v_load_n(b + at + k, n), q = v_load_n(a + at + k, n);
                if (e) t = v_add(t, v_load_n(e + at + k, n));
                if (j->add) {
                    t = v_add(q, t);
                    t = v_select(v_le(t, v_zero()), v_mul(slope, t), t);
                    q = v_load_n(j->att + at + k, n);
                }
                if (k / V_LANES & 1) s1 = v_fma(q, t, s1);
                else s0 = v_fma(q, t, s0);
            }
            s[h] = v_sum(v_add(s0, s1)) * (j->add ? 1.0f : j->scale);
        }
    }
}

/* one head: the edges of the row are the lanes; several: the heads are */
static void TINY_FN(tinyi_segment_softmax_f32)(float *p, const float *s, size_t n, size_t heads)
{
    size_t i, h, m;
    if (heads == 1) {
        v_f32 most = v_set(s[0]), sum = v_zero();
        float top, r;
        for (i = 0; i + V_LANES <= n; i += V_LANES) most = v_max(most, v_load(s + i));
        if (i < n) most = v_max(most, v_select(v_first(n - i), v_load_n(s + i, n - i), v_set(s[0])));
        top = v_hmax(most);
        most = v_set(top);
        for (i = 0; i + V_LANES <= n; i += V_LANES) {
            v_f32 v = v_exp(v_sub(v_load(s + i), most));
            v_store(p + i, v);
            sum = v_add(sum, v);
        }
        if (i < n) {
            v_f32 v = v_select(v_first(n - i), v_exp(v_sub(v_load_n(s + i, n - i), most)), v_zero());
            v_store_n(p + i, v, n - i);
            sum = v_add(sum, v);
        }
        r = 1.0f / v_sum(sum);
        for (i = 0; i < n; i += V_LANES) {
            m = TINYI_MIN(n - i, (size_t)V_LANES);
            v_store_n(p + i, v_mul(v_load_n(p + i, m), v_set(r)), m);
        }
        return;
    }
    for (h = 0; h < heads; h += V_LANES) {
        v_f32 most, sum = v_zero(), r;
        m = TINYI_MIN(heads - h, (size_t)V_LANES);
        most = v_load_n(s + h, m);
        for (i = 1; i < n; i++) most = v_max(most, v_load_n(s + i * heads + h, m));
        for (i = 0; i < n; i++) {
            v_f32 v = v_exp(v_sub(v_load_n(s + i * heads + h, m), most));
            v_store_n(p + i * heads + h, v, m);
            sum = v_add(sum, v);
        }
        r = v_div(v_set(1.0f), sum);
        for (i = 0; i < n; i++) v_store_n(p + i * heads + h, v_mul(v_load_n(p + i * heads + h, m), r), m);
    }
}

static void TINY_FN(tinyi_edge_mix_f32)(float *y, float *max, float *sum, float *s, const tinyi_edges *j, int64_t p0, int64_t p1)
{
    const size_t each = j->f / j->heads, n = (size_t)(p1 - p0);
    size_t h, i, k;
    for (h = 0; h < j->heads; h++) {
        float top = max[h], part = 0.0f, scale;
        float *ps = s + h;
        for (i = 0; i < n; i++)
            if (ps[i * j->heads] > top) top = ps[i * j->heads];
        for (i = 0; i < n; i += V_LANES) {  /* gathered, so that heads do not matter to exp */
            const size_t m = TINYI_MIN(n - i, (size_t)V_LANES);
            float lane[V_LANES];
            for (k = 0; k < m; k++) lane[k] = ps[(i + k) * j->heads];
            v_store_n(lane, v_exp(v_sub(v_load_n(lane, m), v_set(top))), m);
            for (k = 0; k < m; k++) {
                ps[(i + k) * j->heads] = lane[k];
                part += lane[k];
            }
        }
        scale = max[h] == top ? 1.0f : max[h] == -INFINITY ? 0.0f : tinyi_exp_ref(max[h] - top);
        sum[h] = sum[h] * scale + part;
        max[h] = top;
        for (k = 0; k < each; k += V_LANES) {
            const size_t m = TINYI_MIN(each - k, (size_t)V_LANES), f = h * each + k;
            v_f32 acc = v_mul(v_load_n(y + f, m), v_set(scale));
            for (i = 0; i < n; i++) acc = v_fma(v_set(ps[i * j->heads]), v_load_n(TINY_FN(tinyi_edge_row)(j, p0 + (int64_t)i) + f, m), acc);
            v_store_n(y + f, acc, m);
        }
    }
}
#undef TINYI_EDGE_AHEAD

static void TINY_FN(tinyi_use_edges)(tinyi_kernels *k)
{
    TINYI_USE(k, spmm_f32);
    TINYI_USE(k, spmm_any_f32);
    TINYI_USE(k, sddmm_f32);
    TINYI_USE(k, segment_softmax_f32);
    TINYI_USE(k, edge_mix_f32);
}
