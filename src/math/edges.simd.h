/* src/math/edges.simd.h - rows of features gathered, weighted and combined along edges */

TINYI_FORCE_INLINE const float *TINY_FN(tinyi_edge_row)(const tinyi_edges *j, int64_t p)
{
    return j->x + (ptrdiff_t)(j->col ? (int64_t)j->col[p] : p) * j->x_row;
}

TINYI_FORCE_INLINE void TINY_FN(tinyi_edge_lines)(const float *x, size_t n, int askew)
{
    size_t i;
    for (i = 0; i < n; i += 16) TINYI_PREFETCH(x + i);
    if (askew && n) TINYI_PREFETCH(x + n - 1);
}

/* Rows lie anywhere: features f .. f + n of one are asked for j->ahead edges before they are used. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_edge_fetch)(const tinyi_edges *j, int64_t p, size_t f, size_t n)
{
    if (j->col && p + j->ahead < j->m)
        TINY_FN(tinyi_edge_lines)(j->x + (ptrdiff_t)j->col[p + j->ahead] * j->x_row + f, n, j->askew);
}

/* R vectors of a row from feature f on. One weight an edge serves them all, or (many) each vector has the one of its
 * head. */
#define TINYI_EDGE_HEAD(r) (many ? (f / V_LANES + (size_t)(r)) >> (many - 1) : head)
#define TINYI_EDGE_BLOCK(R)                                                                                    \
    for (; f + R * V_LANES <= end; f += R * V_LANES) {                                                         \
        v_f32 acc[R];                                                                                          \
        size_t of[R];                                                                                          \
        TINYI_UNROLL for (r = 0; r < R; r++) of[r] = TINYI_EDGE_HEAD(r);                                       \
        TINYI_UNROLL for (r = 0; r < R; r++) acc[r] =                                                          \
            keep ? v_mul(v_load(y + f + r * V_LANES), v_set(keep[of[r]])) : v_zero();                          \
        if (fetch && !many && !w)                                                                              \
            for (p = p0; p < p1; p++) {                                                                        \
                const float *x = TINY_FN(tinyi_edge_row)(j, p) + f;                                            \
                if (fetch) TINY_FN(tinyi_edge_fetch)(j, p, f, R * V_LANES);                                    \
                TINYI_UNROLL for (r = 0; r < R; r++) acc[r] = v_add(acc[r], v_load(x + r * V_LANES));          \
            }                                                                                                  \
        else                                                                                                   \
            for (p = p0, q = w; p < p1; p++, q += w_row) {                                                     \
                const float *x = TINY_FN(tinyi_edge_row)(j, p) + f;                                            \
                if (fetch) TINY_FN(tinyi_edge_fetch)(j, p, f, R * V_LANES);                                    \
                if (many)                                                                                      \
                    TINYI_UNROLL for (r = 0; r < R; r++) acc[r] =                                              \
                        v_fma(v_set(q[of[r]]), v_load(x + r * V_LANES), acc[r]);                               \
                else {                                                                                         \
                    const v_f32 one = v_set(q[head]);                                                          \
                    TINYI_UNROLL for (r = 0; r < R; r++) acc[r] = v_fma(one, v_load(x + r * V_LANES), acc[r]); \
                }                                                                                              \
            }                                                                                                  \
        TINYI_UNROLL for (r = 0; r < R; r++) v_store(y + f + r * V_LANES, v_mul(acc[r], v_set(times)));        \
    }

/* Features f .. end of one row: y = times (keep y + sum over its edges of w x). w: the weights of edge p0, w_row
 * numbers an edge; NULL, only with fetch and without many: ones. keep: a number a head; NULL: zeros. many, 0: all
 * belong to head `head`; 1, 2: a head is one vector, or two. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_edge_sum)(float *y, const tinyi_edges *j, int64_t p0, int64_t p1, const float *w,
                                                size_t w_row, const float *keep, float times, size_t head, size_t f,
                                                size_t end, int many, int fetch)
{
    const float *q;
    int64_t p;
    int r;
#if !V_SCALAR
    TINYI_EDGE_BLOCK(8)
#endif
    TINYI_EDGE_BLOCK(4)
    TINYI_EDGE_BLOCK(2)
    TINYI_EDGE_BLOCK(1)
#if V_AVX512
    if (f < end && end - f <= 8) {          /* half a vector: a whole one would often reach into the next line */
        const __mmask8 some = (__mmask8)(0xff >> (8 - (end - f)));
        __m256 acc = keep ? _mm256_mul_ps(_mm256_maskz_loadu_ps(some, y + f), _mm256_set1_ps(keep[head]))
                          : _mm256_setzero_ps();
        for (p = p0, q = w; p < p1; p++) {
            const __m256 x = _mm256_maskz_loadu_ps(some, TINY_FN(tinyi_edge_row)(j, p) + f);
            if (fetch) TINY_FN(tinyi_edge_fetch)(j, p, f, end - f);
            if (w) {
                acc = _mm256_fmadd_ps(_mm256_set1_ps(q[head]), x, acc);
                q += w_row;
            } else acc = _mm256_add_ps(acc, x);
        }
        _mm256_mask_storeu_ps(y + f, some, _mm256_mul_ps(acc, _mm256_set1_ps(times)));
        return;
    }
#endif
    if (f < end) {                          /* of one head */
        const size_t n = end - f;
        v_f32 acc = keep ? v_mul(v_load_n(y + f, n), v_set(keep[head])) : v_zero();
        for (p = p0, q = w; p < p1; p++) {
            v_f32 x = v_load_n(TINY_FN(tinyi_edge_row)(j, p) + f, n);
            if (fetch) TINY_FN(tinyi_edge_fetch)(j, p, f, n);
            if (w) {
                acc = v_fma(v_set(q[head]), x, acc);
                q += w_row;
            } else acc = v_add(acc, x);
        }
        v_store_n(y + f, v_mul(acc, v_set(times)), n);
    }
}
#undef TINYI_EDGE_BLOCK
#undef TINYI_EDGE_HEAD

/* All features of a row whose edges have a weight for each of so many heads, w_row numbers apart. Heads of one or two
 * vectors go together, so that an edge is looked at once for eight vectors. */
#if V_SCALAR || V_W128                      /* one form for weights of all kinds, and for none */
static TINYI_NOINLINE void TINY_FN(tinyi_edge_heads)(float *y, const tinyi_edges *j, int64_t p0, int64_t p1,
                                                     const float *w, size_t heads, size_t w_row, const float *keep,
                                                     float times, int fetch)
{
    const size_t each = j->f / heads;
    const int many = heads == 1 ? 0 : each == V_LANES ? 1 : each == 2 * V_LANES ? 2 : 0;
    size_t h;
    for (h = 0; h < (many ? 1 : heads); h++)
        TINY_FN(tinyi_edge_sum)
        (y, j, p0, p1, w, w_row, keep, times, h, h * each, many ? j->f : (h + 1) * each, many, fetch);
}
#else
#if V_AVX512
/* Heads of 8 features, eight at once: two in a vector, whose weights are spread by a permutation. Returns how many. */
static size_t TINY_FN(tinyi_edge_eights)(float *y, const tinyi_edges *j, int64_t p0, int64_t p1, const float *w,
                                         size_t heads, size_t w_row, const float *keep, float times, int fetch)
{
    const __m512i first = _mm512_srli_epi32(vi_iota(), 3);
    size_t h;
    for (h = 0; h + 8 <= heads; h += 8) {
        const float *q = w + h;
        float *to = y + 8 * h;
        v_f32 acc[4];
        int64_t p;
        int r;
        TINYI_UNROLL for (r = 0; r < 4; r++) acc[r] = v_zero();
        if (keep)
            TINYI_UNROLL for (r = 0; r < 4; r++)
                acc[r] = v_mul(v_load(to + 16 * r),
                               _mm512_permutexvar_ps(_mm512_add_epi32(first, vi_set(2 * r)), v_load_n(keep + h, 8)));
        for (p = p0; p < p1; p++, q += w_row) {
            const float *x = TINY_FN(tinyi_edge_row)(j, p) + 8 * h;
            const v_f32 weights = _mm512_castps256_ps512(_mm256_loadu_ps(q));
            if (fetch) TINY_FN(tinyi_edge_fetch)(j, p, 8 * h, 64);
            TINYI_UNROLL for (r = 0; r < 4; r++)
                acc[r] = v_fma(_mm512_permutexvar_ps(_mm512_add_epi32(first, vi_set(2 * r)), weights),
                               v_load(x + 16 * r), acc[r]);
        }
        TINYI_UNROLL for (r = 0; r < 4; r++) v_store(to + 16 * r, v_mul(acc[r], v_set(times)));
    }
    return h;
}
#endif
static TINYI_NOINLINE void TINY_FN(tinyi_edge_heads)(float *y, const tinyi_edges *j, int64_t p0, int64_t p1,
                                                     const float *w, size_t heads, size_t w_row, const float *keep,
                                                     float times, int fetch)
{
    const size_t each = j->f / heads;
    size_t h = 0;
    if (heads > 1 && each == V_LANES)
        TINY_FN(tinyi_edge_sum)(y, j, p0, p1, w, w_row, keep, times, 0, 0, j->f, 1, fetch);
    else if (heads > 1 && each == 2 * V_LANES)
        TINY_FN(tinyi_edge_sum)(y, j, p0, p1, w, w_row, keep, times, 0, 0, j->f, 2, fetch);
    else {
#if V_AVX512
        if (each == 8 && w) h = TINY_FN(tinyi_edge_eights)(y, j, p0, p1, w, heads, w_row, keep, times, fetch);
#endif
        for (; h < heads; h++)
            TINY_FN(tinyi_edge_sum)(y, j, p0, p1, w, w_row, keep, times, h, h * each, (h + 1) * each, 0, fetch);
    }
}
#endif

#if V_AVX512
/* Rows of 16 features: two sums of 8 wait less for each other than one of 16. w: NULL for ones. */
TINYI_FORCE_INLINE void TINY_FN(tinyi_edge_sixteen)(float *y, const tinyi_edges *j, int64_t p0, int64_t p1,
                                                    const float *w, float times)
{
    __m256 a = _mm256_setzero_ps(), b = a;
    int64_t p;
    for (p = p0; p < p1; p++) {
        const float *x = TINY_FN(tinyi_edge_row)(j, p);
        TINY_FN(tinyi_edge_fetch)(j, p, 0, 16);
        if (w) {
            const __m256 one = _mm256_broadcast_ss(w + (p - p0));
            a = _mm256_fmadd_ps(one, _mm256_loadu_ps(x), a);
            b = _mm256_fmadd_ps(one, _mm256_loadu_ps(x + 8), b);
        } else {
            a = _mm256_add_ps(a, _mm256_loadu_ps(x));
            b = _mm256_add_ps(b, _mm256_loadu_ps(x + 8));
        }
    }
    _mm256_storeu_ps(y, _mm256_mul_ps(a, _mm256_set1_ps(times)));
    _mm256_storeu_ps(y + 8, _mm256_mul_ps(b, _mm256_set1_ps(times)));
}
#endif

static void TINY_FN(tinyi_spmm_f32)(float *y, ptrdiff_t y_row, const tinyi_edges *j, const int64_t *offset, tiny_idx n)
{
    const size_t heads = j->w ? j->heads : 1;
    tiny_idx i;
    for (i = 0; i < n; i++, y += y_row) {
        const int64_t p0 = offset[i], p1 = offset[i + 1];
        const float times = j->reduce == TINY_EDGE_MEAN && p1 > p0 ? 1.0f / (float)(p1 - p0) : 1.0f;
#if V_AVX512
        if (j->f == 16 && heads == 1) {
            TINY_FN(tinyi_edge_sixteen)(y, j, p0, p1, j->w ? j->w + p0 : NULL, times);
            continue;
        }
#endif
        if (!(V_SCALAR || V_W128) && !j->w)
            TINY_FN(tinyi_edge_sum)(y, j, p0, p1, NULL, 1, NULL, times, 0, 0, j->f, 0, 1);
        else if (!(V_SCALAR || V_W128) && heads == 1)
            TINY_FN(tinyi_edge_sum)(y, j, p0, p1, j->w + p0, 1, NULL, times, 0, 0, j->f, 0, 1);
        else
            TINY_FN(tinyi_edge_heads)
            (y, j, p0, p1, j->w ? j->w + (size_t)p0 * heads : NULL, heads, heads, NULL, times, 1);
    }
}

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

/* the row of edge p + ahead, and where its values lie elsewhere, those too */
TINYI_FORCE_INLINE void TINY_FN(tinyi_edge_fetch_both)(const tinyi_edges *j, int64_t p)
{
    if (!j->col || p + j->ahead >= j->m) return;
    TINY_FN(tinyi_edge_lines)(j->x + (ptrdiff_t)j->col[p + j->ahead] * j->x_row, j->f, j->askew);
    if (j->then) TINY_FN(tinyi_edge_lines)(j->then + (ptrdiff_t)j->col[p + j->ahead] * j->then_row, j->then_f, 1);
}

/* one vector of a score: sum + a t, or with add: sum + att leaky(a + t) */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_edge_term)(v_f32 sum, const tinyi_edges *j, const float *a, const float *b,
                                                  size_t k, int add)
{
    v_f32 t = v_load(b + k), q = v_load(a + k);
    if (!add) return v_fma(q, t, sum);
    t = v_add(q, t);
    return v_fma(v_load(j->att + k), v_select(v_le(t, v_zero()), v_mul(v_set(j->slope), t), t), sum);
}

/* scores of heads of whole vectors, without e */
TINYI_FORCE_INLINE void TINY_FN(tinyi_edge_scores)(float *s, const tinyi_edges *j, const float *a, int64_t p0,
                                                   int64_t p1, int add)
{
    const size_t each = j->f / j->heads;
    int64_t p;
    for (p = p0; p < p1; p++) {
        const float *b = TINY_FN(tinyi_edge_row)(j, p);
        size_t h, k = 0, end;
        TINY_FN(tinyi_edge_fetch_both)(j, p);
        for (h = 0, end = each; h < j->heads; h++, end += each) {
            v_f32 s0 = v_zero(), s1 = v_zero();
            for (; k + 2 * V_LANES <= end; k += 2 * V_LANES) {
                s0 = TINY_FN(tinyi_edge_term)(s0, j, a, b, k, add);
                s1 = TINY_FN(tinyi_edge_term)(s1, j, a, b, k + V_LANES, add);
            }
            for (; k < end; k += V_LANES) s0 = TINY_FN(tinyi_edge_term)(s0, j, a, b, k, add);
            *s++ = v_sum(v_add(s0, s1)) * (add ? 1.0f : j->scale);
        }
    }
}

static void TINY_FN(tinyi_sddmm_f32)(float *s, const tinyi_edges *j, const float *a, int64_t p0, int64_t p1)
{
    const size_t each = j->f / j->heads;
    const v_f32 slope = v_set(j->slope);
    size_t h, k;
    int64_t p;
    if (!j->e && each % V_LANES == 0 && !(j->add && !j->att)) {
        if (j->add) TINY_FN(tinyi_edge_scores)(s, j, a, p0, p1, 1);
        else TINY_FN(tinyi_edge_scores)(s, j, a, p0, p1, 0);
        return;
    }
    for (p = p0; p < p1; p++, s += j->heads) {
        const float *b = TINY_FN(tinyi_edge_row)(j, p), *e = j->e ? j->e + (size_t)p * j->f : NULL;
        TINY_FN(tinyi_edge_fetch_both)(j, p);
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

/* One chunk of edges of a row: weights from scores, with the largest score and the sum that the chunks before left in
 * state, then values.
 * Vectors are stored whole, into room that the buffers have behind their ends: masked stores are slow on some
 * processors. */
static void TINY_FN(tinyi_edge_mix_f32)(float *y, float *state, float *s, const tinyi_edges *j, int64_t p0, int64_t p1,
                                        int first, int last)
{
    const size_t heads = j->heads, n = (size_t)(p1 - p0) * heads, room = (heads + V_LANES - 1) / V_LANES * V_LANES;
    float *max = state, *sum = max + room, *keep = sum + room, *weight = keep + room, times = 1.0f, *w;
    size_t h, i;
    if (heads == 1) {                       /* the edges are the lanes; behind the last one -inf, whose weight is 0 */
        v_f32 most = v_set(first ? -INFINITY : max[0]), part = v_zero(), shift;
        float top;
        v_store(s + n, v_set(-INFINITY));
        for (i = 0; i < n; i += V_LANES) most = v_max(v_load(s + i), most);     /* a NaN is not the largest */
        top = v_hmax(most);
        shift = v_set(top == -INFINITY ? 0.0f : top);
        for (i = 0; i < n; i += V_LANES) {
            v_f32 e = v_exp(v_sub(v_load(s + i), shift));
            v_store(s + i, e);
            part = v_add(part, e);
        }
        keep[0] = first || max[0] == -INFINITY ? 0.0f : max[0] == top ? 1.0f : tinyi_exp_ref(max[0] - top);
        sum[0] = (first ? 0.0f : sum[0] * keep[0]) + v_sum(part);
        max[0] = top;
        if (last) times = 1.0f / sum[0];
    } else v_store(s + n, v_zero());
    /* the heads are; lanes that are none of this group's are of no matter */
    for (h = 0; heads > 1 && h < heads; h += V_LANES) {
        v_f32 old = first ? v_set(-INFINITY) : v_load(max + h), most = old, part = v_zero(), shift, factor;
        for (i = h; i < n; i += heads) most = v_max(v_load(s + i), most);
        shift = v_select(v_eq(most, v_set(-INFINITY)), v_zero(), most);
        factor = v_exp(v_sub(old, shift));
        for (i = h, w = weight + h; i < n; i += heads, w += room) {
            v_f32 e = v_exp(v_sub(v_load(s + i), shift));
            v_store(w, e);
            part = v_add(part, e);
        }
        if (!first) part = v_fma(v_load(sum + h), factor, part);
        v_store(max + h, most);
        v_store(sum + h, part);
        if (last) {
            const v_f32 r = v_div(v_set(1.0f), part);
            factor = v_mul(factor, r);
            for (i = h, w = weight + h; i < n; i += heads, w += room) v_store(w, v_mul(v_load(w), r));
        }
        v_store(keep + h, factor);
    }
    TINY_FN(tinyi_edge_heads)
    (y, j, p0, p1, heads > 1 ? weight : s, heads, heads > 1 ? room : 1, first ? NULL : keep, times, 0);
}

static void TINY_FN(tinyi_use_edges)(tinyi_kernels *k)
{
    TINYI_USE(k, spmm_f32);
    TINYI_USE(k, spmm_any_f32);
    TINYI_USE(k, sddmm_f32);
    TINYI_USE(k, segment_softmax_f32);
    TINYI_USE(k, edge_mix_f32);
}
