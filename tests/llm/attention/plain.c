/* tests/llm/attention/plain.c - the proofs of attention 0 (the plain family) that no other test has
 *
 * The worked case and its soft-cap: tests/math/attention.c and paged.c; tiles against the reference, hidden keys, rows
 * without keys, NaN: there too; pages in any order, forks and 10^5 random operations: paged.c, pages.c; softmax in four
 * forms: tests/math/softmax.c. */
#include "t.h"

/* weights of row 2, read by values that are the unit vectors; with a learned sink of 0 their sum is less than 1 */
static void test_proof_0_weights_and_sink(tiny_target target)
{
    static const double plain[3] = { 0.197776, 0.401112, 0.401112 }, sunk[3] = { 0.180203, 0.365472, 0.365472 };
    tiny_ctx *ctx = t_ctx(target, 1);
    float q[2] = { 1, 1 }, k[6] = { 1, 0, 0, 2, 1, 1 }, v[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 }, o[3], sink = 0.0f;
    int32_t table[1] = { 0 }, rows[4] = { 0, 0, 3, 2 };
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, 1, 1, 2), tk = tiny_tensor_4d(k, TINY_F32, 1, 1, 3, 2),
                tv = tiny_tensor_4d(v, TINY_F32, 1, 1, 3, 3), tt = tiny_tensor_2d(table, TINY_I32, 1, 1);
    tiny_tensor tr = tiny_tensor_2d(rows, TINY_I32, 1, 4), ts = tiny_tensor_1d(&sink, TINY_F32, 1),
                to = tiny_tensor_3d(o, TINY_F32, 1, 1, 3);
    tllm_paged_params p;
    int i;
    memset(&p, 0, sizeof p);
    p.d_v = 3;
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
    for (i = 0; i < 3; i++) T_CLOSE(o[i], plain[i], 1e-6);
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, &ts, &p, &to));
    for (i = 0; i < 3; i++) T_CLOSE(o[i], sunk[i], 1e-6);
    T_RAN_ON(ctx, t_vectors(target));
    t_close(ctx);
    T_PROOF("attention 0", "worked case: weights of row 2");
    T_PROOF("attention 0", "worked case: weights with a learned sink of 0");
}

/* row 2's keys {0, 1} | {2}: the parts, and their merged result: a plan with blocks of two keys */
static void test_proof_0_merge(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float q[2] = { 1, 1 }, k[6] = { 1, 0, 0, 2, 1, 1 }, v[6] = { 1, 2, 3, 4, 5, 6 }, ones[6] = { 1, 1, 1, 1, 1, 1 },
          sink = 0.0f, o[2];
    int32_t table[3] = { 0, 1, 2 }, rows[4] = { 0, 0, 2, 2 };
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, 1, 1, 2), tk = tiny_tensor_4d(k, TINY_F32, 3, 1, 1, 2),
                tv = tiny_tensor_4d(v, TINY_F32, 3, 1, 1, 2), tt = tiny_tensor_2d(table, TINY_I32, 1, 3);
    tiny_tensor tr = tiny_tensor_2d(rows, TINY_I32, 1, 4), to = tiny_tensor_3d(o, TINY_F32, 1, 1, 2),
                t1 = tiny_tensor_4d(ones, TINY_F32, 3, 1, 1, 2), ts = tiny_tensor_1d(&sink, TINY_F32, 1);
    tllm_tree_plan_desc d = { 2, 0, TLLM_TREE_FLAT };
    tllm_tree_plan *plan;
    tllm_paged_params p;
    memset(&p, 0, sizeof p);
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
    T_CLOSE(o[0], 2.339523, 1e-6); T_CLOSE(o[1], 3.339523, 1e-6);
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &t1, &tt, &tr, NULL, NULL, &ts, &p, &to));
    /* with a sink of 0 the weights sum to e^lse / (e^lse + 1) */
    T_CLOSE(log((double)o[0] / (1 - (double)o[0])), 1.815047, 2e-6);
    rows[1] = 2; rows[2] = 3;
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
    T_CLOSE(o[0], 5, 1e-6); T_CLOSE(o[1], 6, 1e-6);
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &t1, &tt, &tr, NULL, NULL, &ts, &p, &to));
    T_CLOSE(log((double)o[0] / (1 - (double)o[0])), 1.414214, 2e-6);
    rows[1] = 0;
    T_OK(tllm_tree_plan_open(ctx, &d, &plan));
    T_OK(tllm_tree_plan_set(plan, &tr, &tt, 1));
    T_EQ_INT(tllm_tree_plan_counts(plan).n_part, 2);
    p.tree = plan;
    T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, &p, &to));
    T_CLOSE(o[0], 3.406673, 1e-6); T_CLOSE(o[1], 4.406673, 1e-6);
    tllm_tree_plan_close(ctx, plan);
    t_close(ctx);
    T_PROOF("attention 0", "worked case: keys split in two, lse and outputs of the parts, merged");
}

/* naive attention in double, a head at a time: all scores, a softmax, a sum */
static void naive(const float *q, const float *k, const float *v, tiny_idx n, tiny_idx s, tiny_idx heads, tiny_idx kv,
                  tiny_idx d, int causal, double *want)
{
    double *p = (double *)t_keep((size_t)(s + 1) * sizeof *p);
    tiny_idx t, h, c, i;
    for (h = 0; h < heads; h++)
        for (t = 0; t < n; t++) {
            const float *own = q + (t * heads + h) * d;
            const tiny_idx g = h / (heads / kv);
            double top = -HUGE_VAL, sum = 0.0;
            for (c = 0; c < s; c++) {
                for (p[c] = 0.0, i = 0; i < d; i++) p[c] += (double)own[i] * (double)k[(c * kv + g) * d + i];
                p[c] = causal && c > s - n + t ? -HUGE_VAL : p[c] / sqrt((double)d);
                if (p[c] > top) top = p[c];
            }
            for (c = 0; c < s; c++) sum += p[c] = top == -HUGE_VAL ? 0.0 : exp(p[c] - top);
            for (i = 0; i < d; i++) {
                double o = 0.0;
                for (c = 0; c < s; c++) o += p[c] * (double)v[(c * kv + g) * d + i];
                want[(t * heads + h) * d + i] = sum > 0.0 ? o / sum : 0.0;
            }
        }
}

/* Tiles of any number of queries and keys, keys in pages cut among one to four threads, lengths that are no multiples
 * of a tile: naive attention. */
static void test_proof_0_tiles_and_splits(tiny_target target)
{
    static const tiny_idx shape[][5] = { { 1, 1, 1, 1, 3 },    { 1, 4097, 2, 1, 16 }, { 3, 1000, 4, 2, 33 },
                                         { 31, 65, 2, 2, 64 }, { 33, 63, 1, 1, 40 },  { 65, 129, 3, 1, 17 } };
    static const tiny_idx tile[] = { 1, 5, 32, 100 };
    tiny_ctx *ctx[4];
    size_t c, a, b, i;
    int threads, causal;
    for (threads = 0; threads < 4; threads++) ctx[threads] = t_ctx(target, threads + 1);
    for (c = 0; c < T_COUNT(shape); c++) {
        const tiny_idx n = shape[c][0], s = shape[c][1], H = shape[c][2], kv = shape[c][3], d = shape[c][4];
        const size_t out = (size_t)(n * H * d);
        /* a mean away from 0, since a mean of 0 would hide a wrong weight */
        float *q = t_rand(out, -1.7f, 1.7f), *k = t_rand((size_t)(s * kv * d), -1.7f, 1.7f),
              *v = t_rand((size_t)(s * kv * d), 0.3f, 1.7f), *o = t_guarded(out);
        double *want = (double *)t_keep(out * sizeof *want);
        tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, n, H, d), tk = tiny_tensor_3d(k, TINY_F32, s, kv, d),
                    tv = tiny_tensor_3d(v, TINY_F32, s, kv, d), to = tiny_tensor_3d(o, TINY_F32, n, H, d);
        const tiny_idx pages = (s + 15) / 16;
        float *page_k = (float *)t_keep((size_t)(pages * 16 * kv * d) * sizeof(float)),
              *page_v = (float *)t_keep((size_t)(pages * 16 * kv * d) * sizeof(float));
        int32_t *table = (int32_t *)t_keep((size_t)pages * sizeof *table),
                *rows = (int32_t *)t_keep((size_t)(4 * n) * sizeof *rows);
        tiny_tensor pk = tiny_tensor_4d(page_k, TINY_F32, pages, kv, 16, d),
                    pv = tiny_tensor_4d(page_v, TINY_F32, pages, kv, 16, d),
                    tt = tiny_tensor_2d(table, TINY_I32, 1, pages), tr = tiny_tensor_2d(rows, TINY_I32, n, 4);
        tiny_idx at, g;
        for (at = 0; at < s; at++)
            for (g = 0; g < kv; g++) {
                memcpy(page_k + ((at / 16 * kv + g) * 16 + at % 16) * d, k + (at * kv + g) * d, (size_t)d * sizeof *k);
                memcpy(page_v + ((at / 16 * kv + g) * 16 + at % 16) * d, v + (at * kv + g) * d, (size_t)d * sizeof *v);
            }
        for (at = 0; at < pages; at++) table[at] = (int32_t)at;
        for (at = 0; at < n; at++) rows[4 * at + 2] = (int32_t)(s - n + at + 1 > 0 ? s - n + at + 1 : 0);
        for (causal = 1; causal >= 0; causal--) {       /* ends with the values that the tiles below compute */
            tiny_attention_params p;
            memset(&p, 0, sizeof p);
            p.causal = causal;
            naive(q, k, v, n, s, H, kv, d, causal, want);
            for (threads = 0; threads < 4; threads++) {
                t_use(ctx[threads]);
                T_OK(tiny_attention(ctx[threads], &tq, &tk, &tv, NULL, &p, &to));
                T_RAN_ON(ctx[threads], t_vectors(target));
                for (i = 0; i < out; i++) if (!T_CLOSE(o[i], want[i], 2e-5 * 1.7)) break;
                T_WALLS(o, out);
                if (!causal) continue;
                /* few queries: keys are split */
                T_OK(tllm_paged_attention(ctx[threads], &tq, &pk, &pv, &tt, &tr, NULL, NULL, NULL, NULL, &to));
                for (i = 0; i < out; i++) if (!T_CLOSE(o[i], want[i], 2e-5 * 1.7)) break;
                T_WALLS(o, out);
            }
        }
        t_use(ctx[0]);
        for (a = 0; a < T_COUNT(tile); a++)
            for (b = 0; b < T_COUNT(tile); b++) {
                tllm_fusemax_desc how = { TLLM_FUSEMAX_1_PASS, 0, 0, 0.0f, (size_t)1 << 30 };
                tllm_fusemax_counts counts;
                how.p0 = tile[a];
                how.m0 = tile[b];
                T_OK(tllm_fusemax(ctx[0], &how, &tq, &tk, &tv, &to, &counts));
                for (i = 0; i < out; i++) if (!T_CLOSE(o[i], want[i], 2e-5 * 1.7)) break;
            }
    }
    for (threads = 3; threads >= 0; threads--) t_close(ctx[threads]);
    T_PROOF("attention 0", "tiled equals naive for all Br, Bc, n_split");
}

/* grouped heads equal repeated key heads; keys in one piece or cut among threads; S = 0 gives
 * zeros */
static void test_proof_0_groups_and_splits(tiny_target target)
{
    enum { S = 1500, H = 6, KV = 2, D = 20 };
    static const int queries[] = { 1, 7, 33, 97 };
    tiny_ctx *ctx = t_ctx(target, 3);
    float *k = t_rand(S * KV * D, -1.7f, 1.7f), *v = t_rand(S * KV * D, -1.7f, 1.7f), *kk = t_guarded(S * H * D),
          *vv = t_guarded(S * H * D);
    size_t c;
    int i, h, j;
    for (i = 0; i < S; i++)
        for (h = 0; h < H; h++)
            for (j = 0; j < D; j++) {
                kk[(i * H + h) * D + j] = k[(i * KV + h / (H / KV)) * D + j];
                vv[(i * H + h) * D + j] = v[(i * KV + h / (H / KV)) * D + j];
            }
    for (c = 0; c < T_COUNT(queries); c++) {
        const tiny_idx n = queries[c];
        const size_t out = (size_t)(n * H * D);
        float *a = t_guarded(out), *b = t_guarded(out);
        tiny_tensor q = tiny_tensor_3d(t_rand(out, -1.7f, 1.7f), TINY_F32, n, H, D),
                    tk = tiny_tensor_3d(k, TINY_F32, S, KV, D), tv = tiny_tensor_3d(v, TINY_F32, S, KV, D);
        tiny_tensor mk = tiny_tensor_3d(kk, TINY_F32, S, H, D), mv = tiny_tensor_3d(vv, TINY_F32, S, H, D),
                    ta = tiny_tensor_3d(a, TINY_F32, n, H, D), tb = tiny_tensor_3d(b, TINY_F32, n, H, D);
        tiny_attention_params p;
        memset(&p, 0, sizeof p);
        p.causal = 1;
        T_OK(tiny_attention(ctx, &q, &tk, &tv, NULL, &p, &ta));
        T_OK(tiny_attention(ctx, &q, &mk, &mv, NULL, &p, &tb));
        for (i = 0; i < (int)out; i++) if (!T_CLOSE(a[i], b[i], 2e-5 * 1.7)) break;
        T_WALLS(a, out);
        tk.dim[0] = tv.dim[0] = 0;
        T_OK(tiny_attention(ctx, &q, &tk, &tv, NULL, &p, &ta));
        for (i = 0; i < (int)out; i++) if (!T_TRUE(a[i] == 0.0f)) break;
    }
    t_close(ctx);
    T_PROOF("attention 0", "GQA equals MHA with repeated heads");
    T_PROOF("attention 0", "bad input: S = 0 gives zeros");
}

/* the window of the paged rows: as long as the text it is the causal form, bit for bit; shorter it is a bias of -inf */
static void test_proof_0_windows(tiny_target target)
{
    enum { T = 100, H = 2, D = 24, W = 9 };
    tiny_ctx *ctx = t_ctx(target, 2);
    const size_t n = T * H * D;
    float *q = t_rand(n, -1.7f, 1.7f), *k = t_rand(n, -1.7f, 1.7f), *v = t_rand(n, -1.7f, 1.7f), *full = t_guarded(n),
          *got = t_guarded(n), *bias = t_guarded(T * T);
    int32_t table[1] = { 0 }, rows[4 * T];
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, T, H, D), fk = tiny_tensor_3d(k, TINY_F32, T, H, D),
                fv = tiny_tensor_3d(v, TINY_F32, T, H, D), to = tiny_tensor_3d(full, TINY_F32, T, H, D);
    tiny_tensor tk, tv, tt = tiny_tensor_2d(table, TINY_I32, 1, 1), tr = tiny_tensor_2d(rows, TINY_I32, T, 4),
                        tb = tiny_tensor_2d(bias, TINY_F32, T, T);
    float *pk = t_guarded(n), *pv = t_guarded(n);
    size_t i;
    int t, h, j, w;
    for (t = 0; t < T; t++) for (h = 0; h < H; h++) for (j = 0; j < D; j++) {       /* (1, heads, tokens, d) */
        pk[(h * T + t) * D + j] = k[(t * H + h) * D + j];
        pv[(h * T + t) * D + j] = v[(t * H + h) * D + j];
    }
    tk = tiny_tensor_4d(pk, TINY_F32, 1, H, T, D);
    tv = tiny_tensor_4d(pv, TINY_F32, 1, H, T, D);
    for (w = W; w <= 2 * T; w += 2 * T - W) {
        for (t = 0; t < T; t++) {
            rows[4 * t] = 0;
            rows[4 * t + 1] = (int32_t)(t + 1 > w ? t + 1 - w : 0);
            rows[4 * t + 2] = (int32_t)(t + 1);
            rows[4 * t + 3] = (int32_t)t;
            for (j = 0; j < T; j++) bias[t * T + j] = j <= t && t - w < j ? 0.0f : -INFINITY;
        }
        to.data = full;
        T_OK(tiny_attention(ctx, &tq, &fk, &fv, &tb, NULL, &to));
        to.data = got;
        T_OK(tllm_paged_attention(ctx, &tq, &tk, &tv, &tt, &tr, NULL, NULL, NULL, NULL, &to));
        for (i = 0; i < n; i++) if (!T_CLOSE(got[i], full[i], 2e-5 * 1.7)) break;
    }
    /* StreamingLLM: the first four keys and a window */
    for (t = 0; t < T; t++) for (j = 0; j < T; j++) bias[t * T + j] = j <= t && (j < 4 || t - W < j) ? 0.0f : -INFINITY;
    to.data = got;
    T_OK(tiny_attention(ctx, &tq, &fk, &fv, &tb, NULL, &to));
    for (t = 0; t < T; t += 13) for (h = 0; h < H; h++) {
        double l = 0.0, sum = 0.0;
        for (j = 0; j <= t; j++) {
            double s = 0.0;
            int x;
            if (j >= 4 && t - W >= j) continue;
            for (x = 0; x < D; x++) s += (double)q[(t * H + h) * D + x] * (double)k[(j * H + h) * D + x];
            s = exp(s / sqrt((double)D));
            l += s;
            sum += s * (double)v[(j * H + h) * D + 5];
        }
        T_CLOSE(got[(t * H + h) * D + 5], sum / l, 2e-5 * 1.7);
    }
    t_close(ctx);
    T_PROOF("attention 0", "window >= S equals causal");
}

static void test_proof_0_slopes(tiny_target target)
{
    static const float four[4] = { 0.25f, 0.0625f, 0.015625f, 0.00390625f },
                       six[6] = { 0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f };
    tiny_ctx *ctx = t_ctx(target, 1);
    float s[6];
    int i;
    T_OK(tllm_alibi_slopes(ctx, 4, 8.0f, s));
    for (i = 0; i < 4; i++) T_CLOSE(s[i], four[i], 1e-7);
    T_OK(tllm_alibi_slopes(ctx, 6, 8.0f, s));
    for (i = 0; i < 6; i++) T_CLOSE(s[i], six[i], 1e-7);
    T_STATUS(tllm_alibi_slopes(ctx, 0, 8.0f, s), TINY_E_ARGUMENT, "slopes of 0 heads");
    T_STATUS(tllm_alibi_slopes(ctx, 4, NAN, s), TINY_E_ARGUMENT, "an exponent above 0");
    t_close(ctx);
    T_PROOF("attention 0", "ALiBi slopes of 4 and of 6 heads");
}

static void test_proof_0_frequencies(tiny_target target)
{
    static const struct {
        int i;
        double ratio;
    } llama[] = { { 0, 1 },          { 28, 1 },         { 29, 0.8281684 }, { 30, 0.6437431 },
                  { 32, 0.3711223 }, { 34, 0.1902107 }, { 35, 0.125 },     { 63, 0.125 } };
    static const struct {
        int i;
        double ratio;
    } yarn[] = { { 0, 1 },         { 20, 1 },      { 21, 0.963942 }, { 30, 0.639423 },
                 { 40, 0.278846 }, { 46, 0.0625 }, { 63, 0.0625 } };
    static const double ntk[4] = { 1, 0.062996, 0.003969, 0.00025 };
    tiny_ctx *ctx = t_ctx(target, 1);
    double w[64], plain[64], size;
    tllm_rope_desc d;
    size_t c;
    memset(&d, 0, sizeof d);
    d.n_rot = 8;
    d.kind = TLLM_ROPE_NTK;
    d.factor = 4;
    T_OK(tllm_rope_frequencies(ctx, &d, w, &size));
    for (c = 0; c < 4; c++) T_CLOSE(w[c], ntk[c], 5e-7);
    T_CLOSE(exp(-4.0 * log(w[1])), 63496.042, 1e-3);        /* base' = w1^(-d/2) */
    T_CLOSE(size, 1, 0);
    /* at twice the trained length with factor 1 it is NTK with factor 2; at that length plain */
    d.kind = TLLM_ROPE_DYNAMIC;
    d.factor = 1;
    d.trained = 100;
    d.length = 200;
    T_OK(tllm_rope_frequencies(ctx, &d, w, NULL));
    d.kind = TLLM_ROPE_NTK;
    d.factor = 2;
    T_OK(tllm_rope_frequencies(ctx, &d, plain, NULL));
    for (c = 0; c < 4; c++) T_CLOSE(w[c], plain[c], 1e-15);
    d.kind = TLLM_ROPE_DYNAMIC;
    d.length = 100;
    T_OK(tllm_rope_frequencies(ctx, &d, w, NULL));
    for (c = 0; c < 4; c++) T_CLOSE(w[c], pow(10000.0, -(double)c / 4.0), 1e-14);
    memset(&d, 0, sizeof d);
    d.n_rot = 128;
    d.base = 500000;
    T_OK(tllm_rope_frequencies(ctx, &d, plain, NULL));
    d.kind = TLLM_ROPE_LLAMA3;
    d.factor = 8;
    d.trained = 8192;
    T_OK(tllm_rope_frequencies(ctx, &d, w, NULL));
    for (c = 0; c < T_COUNT(llama); c++) T_CLOSE(w[llama[c].i] / plain[llama[c].i], llama[c].ratio, 1e-7);
    d.kind = TLLM_ROPE_LINEAR;
    T_OK(tllm_rope_frequencies(ctx, &d, w, NULL));
    for (c = 0; c < 64; c++) T_CLOSE(w[c] * 8, plain[c], 1e-15);
    memset(&d, 0, sizeof d);
    d.n_rot = 128;
    T_OK(tllm_rope_frequencies(ctx, &d, plain, NULL));
    d.kind = TLLM_ROPE_YARN;
    d.factor = 16;
    d.trained = 4096;
    T_OK(tllm_rope_frequencies(ctx, &d, w, &size));
    for (c = 0; c < T_COUNT(yarn); c++) T_CLOSE(w[yarn[c].i] / plain[yarn[c].i], yarn[c].ratio, 1e-6);
    T_CLOSE(size, 1.2772589, 1e-7);
    d.n_rot = 7;
    T_STATUS(tllm_rope_frequencies(ctx, &d, w, NULL), TINY_E_ARGUMENT, "7 rotated numbers");
    d.n_rot = 8;
    d.base = 1;
    T_STATUS(tllm_rope_frequencies(ctx, &d, w, NULL), TINY_E_ARGUMENT, "base 1 must be above 1");
    d.base = 0;
    d.factor = -1;
    T_STATUS(tllm_rope_frequencies(ctx, &d, w, NULL), TINY_E_ARGUMENT, "factor -1 above 0");
    d.factor = 1;
    d.trained = 0;
    T_STATUS(tllm_rope_frequencies(ctx, &d, w, NULL), TINY_E_ARGUMENT, "trained 0, length");
    d.trained = NAN;
    T_STATUS(tllm_rope_frequencies(ctx, &d, w, NULL), TINY_E_ARGUMENT, "all must be above 0");
    T_STATUS(tllm_rope_frequencies(ctx, NULL, w, NULL), TINY_E_ARGUMENT, "the description");
    t_close(ctx);
    T_PROOF("attention 0", "NTK: base and frequencies");
    T_PROOF("attention 0", "Llama-3: ratios of frequencies");
    T_PROOF("attention 0", "YaRN: ratios of frequencies, mscale");
    T_PROOF("attention 0", "bad input: odd d, base <= 1, factor <= 0");
}

/* Scores of rotated queries and keys depend on the distance alone, and rotation keeps norms: both layouts of pairs. */
static void test_proof_0_rotation(tiny_target target)
{
    enum { D = 32, N = 5 };
    static const int32_t pos[2][N] = { { 0, 3, 17, 40, 41 }, { 1000, 1003, 1017, 1040, 1041 } };
    tiny_ctx *ctx = t_ctx(target, 1);
    float *x = t_rand(N * D, -1.0f, 1.0f), *y[2];
    tiny_tensor tx = tiny_tensor_3d(x, TINY_F32, N, 1, D);
    tiny_rope_params p;
    int k, i, j, c;
    memset(&p, 0, sizeof p);
    for (p.interleaved = 0; p.interleaved < 2; p.interleaved++) {
        for (k = 0; k < 2; k++) {
            tiny_tensor ty, tp = tiny_tensor_1d((void *)(uintptr_t)pos[k], TINY_I32, N);
            y[k] = t_guarded(N * D);
            ty = tiny_tensor_3d(y[k], TINY_F32, N, 1, D);
            T_OK(tiny_rope(ctx, &tx, &tp, &p, &ty));
        }
        for (i = 0; i < N; i++)
            for (j = 0; j < N; j++) {
                double s[2] = { 0, 0 }, own = 0.0;
                for (c = 0; c < D; c++) {
                    for (k = 0; k < 2; k++) s[k] += (double)y[k][i * D + c] * (double)y[k][j * D + c];
                    own += (double)x[i * D + c] * (double)x[i * D + c];
                }
                /* angles up to 1041 of f32 products with 32 numbers below 1 */
                T_CLOSE(s[0], s[1], 2e-5);
                if (i == j) T_CLOSE(s[0], own, 2e-5);
            }
    }
    p.n_rot = D + 2;
    T_STATUS(tiny_rope(ctx, &tx, NULL, &p, &tx), TINY_E_ARGUMENT, "34 of 32 numbers of a head: n_rot must be even");
    p.n_rot = 7;
    T_STATUS(tiny_rope(ctx, &tx, NULL, &p, &tx), TINY_E_ARGUMENT, "7 of 32 numbers");
    p.n_rot = 0;
    {
        tiny_tensor flat = tiny_tensor_2d(tx.data, TINY_F32, N, D), deep = tiny_tensor_nd(tx.data, TINY_F32, 3, tx.dim),
                    few = tiny_tensor_1d((void *)(uintptr_t)pos[0], TINY_I32, N - 1);
        deep.rank = 4;                                  /* (N, 1, D, 1) */
        deep.dim[3] = deep.stride[3] = 1;
        T_STATUS(tiny_rope(ctx, &flat, NULL, &p, &flat), TINY_E_SHAPE, "it must be (tokens, heads, d)");
        T_STATUS(tiny_rope(ctx, &deep, NULL, &p, &deep), TINY_E_SHAPE, "it must be (tokens, heads, d)");
        T_STATUS(tiny_rope(ctx, &tx, &few, &p, &tx), TINY_E_SHAPE, "tokens");
    }
    t_close(ctx);
    T_PROOF("attention 0", "RoPE scores depend on distances only");
    T_PROOF("attention 0", "rotation keeps norms");
    T_PROOF("attention 0", "bad input: d > D");
}

/* The workspace is the context's own, allocated when an operation needs it: a failure is a status, and nothing
 * leaks. */
static void test_proof_0_no_room(tiny_target target)
{
    enum { T = 40, S = 700, D = 64 };
    float *q = t_rand(T * D, -1, 1), *k = t_rand(S * D, -1, 1), *o = t_guarded(T * D);
    int refused = 0;
    T_EACH_ALLOCATION(tiny_ctx_desc desc = t_desc(target, 2); tiny_ctx *ctx = NULL; if (!tiny_ctx_open(&desc, &ctx)) {
        tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, T, 1, D);
        tiny_tensor tk = tiny_tensor_3d(k, TINY_F32, S, 1, D);
        tiny_tensor to = tiny_tensor_3d(o, TINY_F32, T, 1, D);
        const tiny_status st = tiny_attention(ctx, &tq, &tk, &tk, NULL, NULL, &to);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        refused += st == TINY_E_MEMORY;
        tiny_ctx_close(ctx);
    })
    T_TRUE(refused > 0);
    T_PROOF("attention 0", "bad input: no room for the workspace");
}

int main(void)
{
    T_RUN_TARGETS(test_proof_0_tiles_and_splits);
    T_RUN_TARGETS(test_proof_0_no_room);
    T_RUN_TARGETS(test_proof_0_weights_and_sink);
    T_RUN_TARGETS(test_proof_0_merge);
    T_RUN_TARGETS(test_proof_0_groups_and_splits);
    T_RUN_TARGETS(test_proof_0_windows);
    T_RUN_TARGETS(test_proof_0_slopes);
    T_RUN_TARGETS(test_proof_0_frequencies);
    T_RUN_TARGETS(test_proof_0_rotation);
    return t_done();
}
