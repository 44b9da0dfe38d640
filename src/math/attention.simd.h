/* src/math/attention.simd.h - the three steps of a tile of TINYI_ATT_ROWS rows by TINYI_ATT_KEYS keys */

#define TINYI_ATT_SCORES(R)                                                                        \
    do {                                                                                           \
        v_f32 a[R], b[R];                                                                          \
        for (c = 0; c < TINYI_ATT_KEYS; c += (2 * V_LANES)) {                                     \
            TINYI_UNROLL for (j = 0; j < R; j++) a[j] = b[j] = v_zero();                                        \
            for (i = 0; i < d; i++) {                                                              \
                const float *row = kt + i * TINYI_ATT_KEYS + c;                                    \
                v_f32 k0 = v_load(row), k1 = v_load(row + V_LANES);               \
                TINYI_UNROLL for (j = 0; j < R; j++) {                                                          \
                    v_f32 x = v_set(q[j * d + i]);                                                 \
                    a[j] = v_fma(x, k0, a[j]);                                                     \
                    b[j] = v_fma(x, k1, b[j]);                                                     \
                }                                                                                  \
            }                                                                                      \
            TINYI_UNROLL for (j = 0; j < R; j++) {                                                              \
                v_store(s + j * TINYI_ATT_KEYS + c, a[j]);                                         \
                v_store(s + j * TINYI_ATT_KEYS + c + V_LANES, b[j]);              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* s[r][c] = sum_i q[r][i] * kt[i][c]: four rows and two vectors of keys stay in registers */
static void TINY_FN(tinyi_attention_scores_f32)(float *s, const float *q, const float *kt, int n_row, tiny_idx d)
{
    tiny_idx i;
    int c, j;
    for (; n_row >= 4; n_row -= 4, q += 4 * d, s += 4 * TINYI_ATT_KEYS) TINYI_ATT_SCORES(4);
    for (; n_row >= 1; n_row -= 1, q += d, s += TINYI_ATT_KEYS) TINYI_ATT_SCORES(1);
}
#undef TINYI_ATT_SCORES

/* One row of scores becomes weights under the running maximum; the answer is the factor for what was summed before. */
static float TINY_FN(tinyi_attention_weights_f32)(float *s, int n, float softcap, float *m, float *l)
{
    v_f32 top = v_set(-INFINITY), sum = v_zero(), mn;
    float most, f;
    int i;
    if (softcap > 0.0f) {
        v_f32 c = v_set(softcap), inv = v_set(1.0f / softcap);
        for (i = 0; i + V_LANES <= n; i += V_LANES) v_store(s + i, v_mul(c, v_tanh(v_mul(v_load(s + i), inv))));
        if (i < n) v_store_n(s + i, v_mul(c, v_tanh(v_mul(v_load_n(s + i, (size_t)(n - i)), inv))), (size_t)(n - i));
    }
    for (i = 0; i + V_LANES <= n; i += V_LANES) top = v_max(v_load(s + i), top);
    if (i < n) top = v_select(v_first((size_t)(n - i)), v_max(v_load_n(s + i, (size_t)(n - i)), top), top);
    most = v_hmax(top);
    if (most < *m) most = *m;
    if (most == -INFINITY && *l == 0.0f) {
        /* every key is hidden so far, or a score is NaN: exp(NaN) must still reach the sum */
        for (i = 0; i < n; i++) {
            s[i] = s[i] == -INFINITY ? 0.0f : s[i];
            *l += s[i];
        }
        return 1.0f;
    }
    mn = v_set(most);
    for (i = 0; i + V_LANES <= n; i += V_LANES) {
        v_f32 p = v_exp(v_sub(v_load(s + i), mn));
        v_store(s + i, p);
        sum = v_add(sum, p);
    }
    if (i < n) {
        v_f32 p = v_select(v_first((size_t)(n - i)), v_exp(v_sub(v_load_n(s + i, (size_t)(n - i)), mn)), v_zero());
        v_store_n(s + i, p, (size_t)(n - i));
        sum = v_add(sum, p);
    }
    f = *m == -INFINITY ? 0.0f : tinyi_exp_ref(*m - most);
    *m = most;
    *l = f * *l + v_sum(sum);
    return f;
}

/* R rows, U vectors of each at a time: R * U sums that do not wait for each other */
#define TINYI_ATT_MIX_STEP(R, U)                                                                   \
    for (; i + U * V_LANES <= d_v; i += U * V_LANES) {                                             \
        v_f32 a[R][U], x[U];                                                                       \
        TINYI_UNROLL for (j = 0; j < R; j++)                                                       \
            TINYI_UNROLL for (u = 0; u < U; u++) a[j][u] = v_mul(v_set(f[j]), v_load(acc + j * d_v + i + u * V_LANES)); \
        for (c = 0; c < n; c++) {                                                                  \
            TINYI_UNROLL for (u = 0; u < U; u++) x[u] = v_load(v + c * ldv + i + u * V_LANES);     \
            TINYI_UNROLL for (j = 0; j < R; j++) {                                                 \
                const v_f32 w = v_set(p[j * TINYI_ATT_KEYS + c]);                                  \
                TINYI_UNROLL for (u = 0; u < U; u++) a[j][u] = v_fma(w, x[u], a[j][u]);            \
            }                                                                                      \
        }                                                                                          \
        TINYI_UNROLL for (j = 0; j < R; j++) {                                                     \
            for (c = n; c < n_vis[j]; c++)                                                         \
                TINYI_UNROLL for (u = 0; u < U; u++)                                               \
                    a[j][u] = v_fma(v_set(p[j * TINYI_ATT_KEYS + c]), v_load(v + c * ldv + i + u * V_LANES), a[j][u]); \
            TINYI_UNROLL for (u = 0; u < U; u++) v_store(acc + j * d_v + i + u * V_LANES, a[j][u]); \
        }                                                                                          \
    }
#define TINYI_ATT_MIX(R, U)                                                                        \
    do {                                                                                           \
        int n = n_vis[0];                                                                          \
        for (j = 1; j < R; j++) if (n_vis[j] < n) n = n_vis[j];                                    \
        i = 0;                                                                                     \
        TINYI_ATT_MIX_STEP(R, U)                                                                   \
        TINYI_ATT_MIX_STEP(R, 1)                                                                   \
        for (; i < d_v; i++)                                                                       \
            TINYI_UNROLL for (j = 0; j < R; j++) {                                                 \
                float a = f[j] * acc[j * d_v + i];                                                 \
                for (c = 0; c < n_vis[j]; c++) a += p[j * TINYI_ATT_KEYS + c] * v[c * ldv + i];    \
                acc[j * d_v + i] = a;                                                              \
            }                                                                                      \
    } while (0)
#define TINYI_ATT_MIX_ROWS(R, U) \
    for (; n_row >= R; n_row -= R, acc += R * d_v, p += R * TINYI_ATT_KEYS, f += R, n_vis += R) TINYI_ATT_MIX(R, U)

/* acc[r] = f[r] * acc[r] + sum_c p[r][c] * v[c], over the keys that row r sees: what a hidden key holds does not matter */
static void TINY_FN(tinyi_attention_mix_f32)(float *acc, const float *p, const float *f, const float *v, tiny_idx ldv, const int *n_vis, int n_row, tiny_idx d_v)
{
    tiny_idx i;
    int c, j, u;
    TINYI_ATT_MIX_ROWS(8, 1);
    TINYI_ATT_MIX_ROWS(4, 2);
    TINYI_ATT_MIX_ROWS(2, 4);
    TINYI_ATT_MIX_ROWS(1, 4);
}
#undef TINYI_ATT_MIX
#undef TINYI_ATT_MIX_STEP
#undef TINYI_ATT_MIX_ROWS

static void TINY_FN(tinyi_use_attention)(tinyi_kernels *k)
{
    TINYI_USE(k, attention_scores_f32);
    TINYI_USE(k, attention_weights_f32);
    TINYI_USE(k, attention_mix_f32);
}
