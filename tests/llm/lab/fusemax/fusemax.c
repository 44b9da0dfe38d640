/* tests/llm/lab/fusemax/fusemax.c - cascades, their passes, the four attention cascades, the mapping model
 *
 * Truth    the passes, levels, counts and cycles that the specification works out; attention by its formula in double, written
 *          here; and three ways to a count that must agree: from the description, by running the description, by running the kernels. */
#include "t.h"
#include <math.h>

static int level_of(const tllm_cascade *c, const tllm_cascade_analysis *a, const char *tensor) { return a->level[c->tensor[tllm_cascade_find(c, tensor)].made_by]; }

static void sized(tiny_ctx *ctx, int which, tllm_cascade *c, tiny_idx n, tiny_idx m0)
{
    T_OK(tllm_cascade_parse(ctx, tllm_fusemax_text(which), c));
    T_OK(tllm_cascade_size(ctx, c, "e", 64));
    T_OK(tllm_cascade_size(ctx, c, "f", 64));
    T_OK(tllm_cascade_size(ctx, c, "m", n));
    T_OK(tllm_cascade_size(ctx, c, "p", n));
    if (c->split[0] >= 0) T_OK(tllm_cascade_size(ctx, c, "m0", m0));
}

static void test_passes(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    static const char *const three[6] = { "QK", "GM", "SN", "SD", "A", "AV" };
    static const int level[6] = { 1, 1, 2, 2, 3, 3 };
    tllm_cascade c;
    tllm_cascade_analysis a;
    int i;
    sized(ctx, TLLM_FUSEMAX_3_PASS, &c, 1024, 256);
    T_OK(tllm_cascade_analyse(ctx, &c, "m", &a));
    for (i = 0; i < 6; i++) T_EQ_INT(level_of(&c, &a, three[i]), level[i]);
    T_EQ_INT(a.passes, 3);
    T_TRUE(a.kept[tllm_cascade_find(&c, "QK")] && a.kept[tllm_cascade_find(&c, "SN")] && !a.kept[tllm_cascade_find(&c, "A")]);
    T_CLOSE(a.live[tllm_cascade_find(&c, "QK")], 1048576, 0);
    T_CLOSE(a.live[tllm_cascade_find(&c, "A")], 1024, 0);
    T_CLOSE(a.ops.divides, 1048576, 0);
    T_CLOSE(a.ops.exps, 1048576, 0);
    sized(ctx, TLLM_FUSEMAX_DEFERRED, &c, 1024, 256);
    T_OK(tllm_cascade_analyse(ctx, &c, "m", &a));
    T_EQ_INT(a.passes, 2);
    T_CLOSE(a.ops.divides, 65536, 0);
    sized(ctx, TLLM_FUSEMAX_2_PASS, &c, 1024, 256);
    T_OK(tllm_cascade_analyse(ctx, &c, "m1 m0", &a));
    T_EQ_INT(a.passes, 2);
    for (i = 0; i < c.n_einsum; i++) T_TRUE(!a.reads_fiber[i] || a.level[i] == 1 || a.level[i] == 3);     /* not 2: that one runs over chunks only */
    T_EQ_INT(level_of(&c, &a, "PLM"), 2);
    T_EQ_INT(level_of(&c, &a, "AV"), 3);
    sized(ctx, TLLM_FUSEMAX_1_PASS, &c, 1024, 256);
    T_OK(tllm_cascade_analyse(ctx, &c, "m1,m0", &a));
    T_EQ_INT(a.passes, 1);
    for (i = 0; i < c.n_einsum; i++) T_EQ_INT(a.level[i], 1);
    for (i = 0; i < c.n_tensor; i++) T_TRUE(!a.kept[i]);
    T_CLOSE(a.ops.exps, 1052672, 0);
    T_CLOSE(a.ops.divides, 65536, 0);
    T_CLOSE(a.ops.rescales, 266240, 0);
    t_close(ctx);
    T_PROOF("attention 2", "levels and passes of the four cascades");
    T_PROOF("attention 2", "divisions, exps and extra multiplies at E = F = 64, M = P = 1024");
}

/* the same cascades told otherwise, so that nothing can come from a table; and others */
static void test_passes_are_derived(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    static const struct { const char *text; int passes; } more[] = {
        { "input X[i]\nS[] = sum i: X[i]\n", 1 },
        { "input X[i]\nM[] = sum i: X[i]\nD[i] = X[i] / M[]\n", 2 },                                                        /* to the sum 1 */
        { "input X[i] Y[i]\nD[] = sum i: X[i] * Y[i]\nZ[i] = X[i] * D[]\nE[] = max i: Z[i]\nW[i] = Y[i] * E[]\n", 3 },        /* reads Y thrice */
        { "input X[i] Y[j]\nS[j] = sum i: X[i] * Y[j]\n# done\n", 1 },
        { "input X[i]\nstate R[i] = 0\nR[i+1] = R[i] + X[i]\nB[] = R[last] / R[last]\n", 1 },
        { "input X[i]\nA[i] = exp(X[i] - X[i])\nB[i] = max(A[i], X[i])\nC[] = max i: B[i]\nD[] = C[] + C[]\n", 1 }
    };
    tllm_cascade c;
    tllm_cascade_analysis a;
    size_t i;
    for (i = 0; i < T_COUNT(more); i++) {
        T_OK(tllm_cascade_parse(ctx, more[i].text, &c));
        T_OK(tllm_cascade_size(ctx, &c, "i", 7));
        if (c.n_rank > 1) T_OK(tllm_cascade_size(ctx, &c, "j", 5));
        T_OK(tllm_cascade_analyse(ctx, &c, "i", &a));
        T_EQ_INT(a.passes, more[i].passes);
    }
    /* what follows the traversal has a level of it, though no input has the rank */
    T_OK(tllm_cascade_parse(ctx, "input X[j]\nstate R[i,j] = 0\nR[i+1,j] = R[i,j] + X[j]\nA[j] = R[last,j] * X[j]\n", &c));
    T_OK(tllm_cascade_size(ctx, &c, "i", 7));
    T_OK(tllm_cascade_size(ctx, &c, "j", 5));
    T_OK(tllm_cascade_analyse(ctx, &c, "i", &a));
    T_EQ_INT(level_of(&c, &a, "A"), 1);
    t_close(ctx);
    T_PROOF("attention 2", "passes are derived: other cascades");
}

static void test_run_by_hand(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    double x[5] = { 3, 1, 4, 1, 5 }, most[3], all[1], run[4], *data[TLLM_CASCADE_TENSORS] = { NULL };
    tllm_cascade_ops ops;
    tllm_cascade c;
    /* five numbers in chunks of two: the last chunk has one */
    T_OK(tllm_cascade_parse(ctx, "split i i1 i0\ninput X[i1,i0]\nstate R[i1] = -inf\nL[i1] = max i0: X[i1,i0]\nR[i1+1] = max(R[i1], L[i1])\nS[] = sum i1 i0: X[i1,i0]\n", &c));
    T_OK(tllm_cascade_size(ctx, &c, "i", 5));
    T_OK(tllm_cascade_size(ctx, &c, "i0", 2));
    data[tllm_cascade_find(&c, "X")] = x;
    data[tllm_cascade_find(&c, "L")] = most;
    data[tllm_cascade_find(&c, "R")] = run;
    data[tllm_cascade_find(&c, "S")] = all;
    T_OK(tllm_cascade_run(ctx, &c, data, &ops));
    T_TRUE(most[0] == 3 && most[1] == 4 && most[2] == 5);
    T_TRUE(isinf(run[0]) && run[1] == 3 && run[2] == 4 && run[3] == 5);
    T_CLOSE(all[0], 14, 0);
    T_TRUE(ops.adds == 5 && ops.maxima == 5 + 3);
    t_close(ctx);
    T_PROOF("attention 2", "bad input: M no multiple of M0, the last chunk short");
}

static void test_bad_descriptions(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    static const struct { const char *text; tiny_status st; const char *says; } bad[] = {
        { "", TINY_E_FORMAT, "no Einsum" },
        { "A[m] = B[m]\n", TINY_E_FORMAT, "line 1: unknown tensor B" },
        { "input X[m]\nA[m] = X[m] * B[m]\nB[m] = A[m]\n", TINY_E_FORMAT, "line 2: unknown tensor B" },
        { "input X[m]\nA[m] = A[m] * X[m]\n", TINY_E_FORMAT, "cyclic" },
        { "input X[m,p]\nA[p] = X[m,p]\n", TINY_E_SHAPE, "line 2: rank m is not in A, and nothing reduces over it" },
        { "input X[m]\nA[m,p] = X[m]\n", TINY_E_SHAPE, "a rank that no operand has" },
        { "input X[m]\nA[] = sum p: X[m]\n", TINY_E_SHAPE, "rank m is not in A" },
        { "input X[m]\nA[m] = sum m: X[m]\n", TINY_E_SHAPE, "reduced over a rank that it keeps" },
        { "input X[m]\nA[m] = X[m]\nA[m] = X[m]\n", TINY_E_FORMAT, "already a tensor A" },
        { "input X[m,p]\nA[m] = sum p: X[m,p]\nB[p] = sum m: A[m,p]\n", TINY_E_SHAPE, "does not have the ranks" },
        { "input X[m,m]\n", TINY_E_FORMAT, "rank m twice" },
        { "input X[m]\nA[m] = X[m] ^ X[m]\n", TINY_E_FORMAT, "the end of the line before '^'" },
        { "input X[m]\nA[m] = exp(X[m]\n", TINY_E_FORMAT, "- before the end of the line" },
        { "input X[m]\nstate R[m] = 0\nA[m] = R[m+1] * X[m]\nR[m+1] = R[m] + A[m]\n", TINY_E_FORMAT, "made by line 4: the description is cyclic" },
        { "input X[m]\nstate R[m] = 0\nG[] = sum m: R[m]\nR[m+1] = X[m] * G[]\n", TINY_E_FORMAT, "wants all of m inside of the loop" },
        { "input X[m]\nstate R[m] = 0\nA[] = R[last] * R[last]\nR[m+1] = R[m] + X[m]\n", TINY_E_FORMAT, "cyclic, or out of order" },
        { "input X[m]\nstate R[m] = 0\nA[m] = X[m]\n", TINY_E_FORMAT, "no line makes R[m+1" },
        { "input X[m]\nstate R[m] = zero\n", TINY_E_FORMAT, "a number before 'z'" },
        { "input X[m]\nA[m+1] = X[m]\n", TINY_E_FORMAT, "+1 after the first rank of a state" },
        { "input X[m]\nstate R[m] = 0\ninput R[m]\nA[m] = X[m]\n", TINY_E_FORMAT, "R is a state, it cannot be an input" },
        { "input X[a,b,c,d,e,f,g,h,i]\n", TINY_E_UNSUPPORTED, "rank i is one more than 8" },
        { "input AVeryLongNameIndeed[m]\n", TINY_E_FORMAT, "longer than 15 bytes" },
        { "split m m m0\ninput X[m]\nA[m] = X[m]\n", TINY_E_FORMAT, "cut into itself" },
        { "\x01", TINY_E_FORMAT, "odd byte" },
        { "input X[m", TINY_E_FORMAT, "before the end of the text" }
    };
    tllm_cascade c;
    tllm_cascade_analysis a;
    double *data[TLLM_CASCADE_TENSORS] = { NULL };
    size_t i;
    for (i = 0; i < T_COUNT(bad); i++) {
        T_STATUS(tllm_cascade_parse(ctx, bad[i].text, &c), bad[i].st, bad[i].says);
        T_EQ_INT(c.n_einsum, 0);
    }
    T_STATUS(tllm_cascade_parse(ctx, NULL, &c), TINY_E_ARGUMENT, "no text");
    T_OK(tllm_cascade_parse(ctx, tllm_fusemax_text(TLLM_FUSEMAX_1_PASS), &c));
    T_STATUS(tllm_cascade_size(ctx, &c, "z", 4), TINY_E_ARGUMENT, "no rank z");
    T_STATUS(tllm_cascade_size(ctx, &c, "m", 0), TINY_E_SHAPE, "rank m has the size 0");
    T_STATUS(tllm_cascade_size(ctx, &c, "m1", 4), TINY_E_ARGUMENT, "follows from");
    T_STATUS(tllm_cascade_analyse(ctx, &c, "m1 m0", &a), TINY_E_SHAPE, "has no size");
    sized(ctx, TLLM_FUSEMAX_1_PASS, &c, 10, 4);
    T_STATUS(tllm_cascade_analyse(ctx, &c, "m1 z", &a), TINY_E_ARGUMENT, "names z");
    T_STATUS(tllm_cascade_analyse(ctx, &c, "", &a), TINY_E_ARGUMENT, "no rank");
    T_STATUS(tllm_cascade_run(ctx, &c, data, NULL), TINY_E_ARGUMENT, "the input Q is missing");
    t_close(ctx);
    T_PROOF("attention 2", "bad input: unknown tensor, rank missing, cyclic, zero sizes");
}

/* bytes of good descriptions changed, left out, doubled: refused with a sentence, or a cascade that can be analysed */
static void test_hostile_text(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static const char bytes[] = "[],+*/()=:# \nmp1QRexp\x7f";
    char text[2048];
    tllm_cascade c;
    tllm_cascade_analysis a;
    int i, k, n, good = 0;
    for (i = 0; i < 4000; i++) {
        (void)snprintf(text, sizeof text, "%s", tllm_fusemax_text(i % TLLM_FUSEMAX_CASCADES));
        for (k = 1 + (int)t_rand_below(3); k > 0; k--) {
            char *at = text + t_rand_below((uint32_t)strlen(text));
            if (t_rand_below(3) == 0) memmove(at, at + 1, strlen(at));
            else if (t_rand_below(2)) *at = bytes[t_rand_below(sizeof bytes - 1)];
            else *at = text[t_rand_below((uint32_t)strlen(text))];
        }
        if (tllm_cascade_parse(ctx, text, &c)) {
            T_TRUE(strncmp(tiny_ctx_message(ctx), "cascade", 7) == 0);
            continue;
        }
        for (n = 0; n < c.n_rank; n++) if (c.split[0] < 0 || n != c.split[1]) T_OK(tllm_cascade_size(ctx, &c, c.rank[n], 3));
        T_OK(tllm_cascade_analyse(ctx, &c, c.rank[c.einsum[0].ranks & 1 ? 0 : 1], &a));
        good++;
    }
    T_TRUE(good > 100 && good < 3000);
    t_close(ctx);
}

/* ---- the four cascades */

typedef struct made { tiny_tensor q, k, v, o; float *out, *want, *ref; tllm_fusemax_shape s; tiny_idx kv; } made;

static void make(made *d, tiny_idx p, tiny_idx m, tiny_idx heads, tiny_idx kv, tiny_idx e, tiny_idx f)
{
    float *q = t_rand((size_t)(p * heads * e), -1.7f, 1.7f), *k = t_rand((size_t)(m * kv * e), -1.7f, 1.7f), *v = t_rand((size_t)(m * kv * f), -1.7f, 1.7f);
    double *s = (double *)t_keep((size_t)m * sizeof *s);
    tiny_idx h, i, j, c;
    d->s.e = e; d->s.f = f; d->s.m = m; d->s.p = p; d->s.heads = heads;
    d->kv = kv;
    d->out = t_guarded((size_t)(p * heads * f));
    d->ref = t_guarded((size_t)(p * heads * f));
    d->want = t_guarded((size_t)(p * heads * f));
    d->q = tiny_tensor_3d(q, TINY_F32, p, heads, e);
    d->k = tiny_tensor_3d(k, TINY_F32, m, kv, e);
    d->v = tiny_tensor_3d(v, TINY_F32, m, kv, f);
    d->o = tiny_tensor_3d(d->out, TINY_F32, p, heads, f);
    for (i = 0; i < p; i++)
        for (h = 0; h < heads; h++) {
            double sum = 0;
            for (c = 0; c < m; c++) {
                s[c] = 0;
                for (j = 0; j < e; j++) s[c] += (double)q[(i * heads + h) * e + j] * (double)k[(c * kv + h / (heads / kv)) * e + j];
                s[c] = exp(s[c] / sqrt((double)e));
                sum += s[c];
            }
            for (j = 0; j < f; j++) {
                double y = 0;
                for (c = 0; c < m; c++) y += s[c] * (double)v[(c * kv + h / (heads / kv)) * f + j];
                d->want[(i * heads + h) * f + j] = (float)(y / sum);
            }
        }
}

static void same_ops(const tllm_cascade_ops *a, const tllm_cascade_ops *b)
{
    T_CLOSE(a->exps, b->exps, 0);
    T_CLOSE(a->multiplies, b->multiplies, 0);
    T_CLOSE(a->divides, b->divides, 0);
    T_CLOSE(a->adds, b->adds, 0);
    T_CLOSE(a->maxima, b->maxima, 0);
    T_CLOSE(a->rescales, b->rescales, 0);
}

/* agreement with double, and counts that are exact, over tiles and buffers, the last chunk short */
static void test_cascades(tiny_target target)
{
    static const tiny_idx shape[][6] = { { 1, 1, 1, 1, 1, 1 }, { 5, 7, 1, 1, 3, 2 }, { 33, 70, 2, 1, 64, 33 }, { 40, 130, 4, 2, 17, 64 }, { 6, 257, 3, 3, 128, 128 }, { 40, 600, 2, 1, 8, 4 } };
    static const tiny_idx tile[][2] = { { 0, 0 }, { 4, 16 }, { 7, 33 }, { 32, 64 }, { 64, 1000 } };
    static const size_t buffer[] = { 0, (size_t)1 << 20, (size_t)1 << 30 };
    tiny_ctx *ctx = t_ctx(target, 2), *ref = t_ctx(TINY_TARGET_REFERENCE, 1);
    size_t s, t, i, n;
    int which;
    for (s = 0; s < T_COUNT(shape); s++) {
        made d;
        make(&d, shape[s][0], shape[s][1], shape[s][2], shape[s][3], shape[s][4], shape[s][5]);
        n = (size_t)(d.s.p * d.s.heads * d.s.f);
        for (which = 0; which < TLLM_FUSEMAX_CASCADES; which++)
            for (t = 0; t < T_COUNT(tile); t++) {
                tllm_fusemax_desc how = { 0, 0, 0, 0.0f, 0 };
                tllm_fusemax_counts got, want;
                how.cascade = which;
                how.p0 = tile[t][0];
                how.m0 = tile[t][1];
                how.buffer_bytes = t ? buffer[1 + t % 2] : 0;
                if (t == 1) how.buffer_bytes = (size_t)160 << 10;
                if (s == 5 && t < 4) how.buffer_bytes = (size_t)(t ? 16 : 8) << 10;     /* what is kept does not fit, nor do all keys; the values do */
                t_use(ctx);
                T_OK(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, &got));
                T_RAN_ON(ctx, t_vectors(target));
                for (i = 0; i < n; i++) T_CLOSE(d.out[i], d.want[i], 2e-5 * 1.7);
                T_WALLS(d.out, n);
                T_OK(tllm_fusemax_predict(ctx, &how, &d.s, d.kv, &want));
                same_ops(&got.ops, &want.ops);
                T_CLOSE(got.read_q, want.read_q, 0);
                T_CLOSE(got.read_k, want.read_k, 0);
                T_CLOSE(got.read_v, want.read_v, 0);
                T_CLOSE(got.read_kept, want.read_kept, 0);
                T_CLOSE(got.written_kept, want.written_kept, 0);
                T_CLOSE(got.written_o, want.written_o, 0);
                T_EQ_INT(got.live_bytes, want.live_bytes);
                if (s == 5 && t == 3) T_TRUE((got.written_kept > 0) == (which != TLLM_FUSEMAX_1_PASS) && got.read_k > got.read_v * 2);
                if (t > 2 || s > 3) continue;                               /* the text itself, slowly */
                d.o.data = d.ref;
                t_use(ref);
                T_OK(tllm_fusemax(ref, &how, &d.q, &d.k, &d.v, &d.o, &got));
                T_RAN_ON(ref, TINY_TARGET_REFERENCE);
                for (i = 0; i < n; i++) T_CLOSE(d.ref[i], d.want[i], 3e-7 * 1.7);
                d.o.data = d.out;
                if (t) same_ops(&got.ops, &want.ops);
            }
        t_use(ctx);
        T_OK(tllm_fusemax(ctx, NULL, &d.q, &d.k, &d.v, &d.o, NULL));        /* what users call: tiny_attention */
        T_RAN_ON(ctx, t_vectors(target));
        for (i = 0; i < n; i++) T_CLOSE(d.out[i], d.want[i], 2e-5 * 1.7);
    }
    t_close(ref);
    t_close(ctx);
    T_PROOF("attention 2", "counters of the executor equal the analytic counts");
    T_PROOF("attention 2", "all cascades agree with double to 2e-5");
}

/* scores far apart and far from 0: only the maximum keeps exp in its range */
static void test_large_scores(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    float q[2] = { 100, -100 }, k[6] = { 1, 3, -3, 2, 3, 2 }, v[6] = { 1, 2, 3, 4, 5, 6 }, o[2];
    tiny_tensor tq = tiny_tensor_3d(q, TINY_F32, 2, 1, 1), tk = tiny_tensor_3d(k, TINY_F32, 6, 1, 1), tv = tiny_tensor_3d(v, TINY_F32, 6, 1, 1), to = tiny_tensor_3d(o, TINY_F32, 2, 1, 1);
    tllm_fusemax_desc how = { 0, 0, 2, 1.0f, 0 };
    for (how.cascade = 0; how.cascade < TLLM_FUSEMAX_CASCADES; how.cascade++) {
        T_OK(tllm_fusemax(ctx, &how, &tq, &tk, &tv, &to, NULL));
        T_CLOSE(o[0], 3.5, 1e-6);               /* keys 1 and 4 share the maximum */
        T_CLOSE(o[1], 3, 1e-6);
    }
    t_close(ctx);
}

static void test_counts_of_the_paper(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_fusemax_shape s = { 64, 64, 1024, 1024, 1 };
    tllm_fusemax_desc how = { 0, 0, 256, 0.0f, 0 };
    tllm_fusemax_counts n, more;
    how.buffer_bytes = (size_t)256 << 10;
    T_OK(tllm_fusemax_predict(ctx, &how, &s, 1, &n));
    T_TRUE(n.ops.exps == 1052672 && n.ops.divides == 65536 && n.ops.rescales == 266240);
    T_TRUE(n.read_kept == 0 && n.written_kept == 0);
    s.m = 65536;
    T_OK(tllm_fusemax_predict(ctx, &how, &s, 1, &more));
    T_EQ_INT(more.live_bytes, n.live_bytes);        /* one pass: not a byte more for 64 times the keys */
    for (how.cascade = TLLM_FUSEMAX_2_PASS; how.cascade < TLLM_FUSEMAX_CASCADES; how.cascade++) {
        s.m = 1024;
        how.m0 = 128;
        how.p0 = 64;
        T_OK(tllm_fusemax_predict(ctx, &how, &s, 1, &n));
        T_CLOSE(n.ops.divides, how.cascade == TLLM_FUSEMAX_3_PASS ? 1048576 : how.cascade == TLLM_FUSEMAX_2_PASS ? 8 * 1024 : 65536, 0);
        T_CLOSE(n.written_kept, 0, 0);              /* 64 x 1024 floats are the buffer */
        s.m = 2048;
        T_OK(tllm_fusemax_predict(ctx, &how, &s, 1, &more));
        T_TRUE(more.live_bytes >= n.live_bytes + 64 * 1024 * 4);
        T_CLOSE(more.written_kept, (how.cascade == TLLM_FUSEMAX_3_PASS ? 2.0 : 1.0) * 1024 * 2048, 0);
        T_CLOSE(more.read_kept, more.written_kept, 0);
        T_CLOSE(more.read_k, 16.0 * 2048 * 64, 0);  /* 512 KB of keys, once for each of 16 tiles of queries */
    }
    t_close(ctx);
    T_PROOF("attention 2", "1-pass live bytes do not depend on M");
}

static void test_mapping_model(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    static const struct { tiny_idx n; double cycles, use; } worked[] = { { 1024, 2464, 0.890 }, { 4096, 36352, 0.965 }, { 16384, 569344, 0.986 } };
    tllm_fusemax_shape s = { 64, 64, 0, 0, 1 };
    tllm_machine cpu;
    tllm_fusemax_plan p;
    int i;
    for (i = 0; i < 3; i++) {
        s.m = s.p = worked[i].n;
        memset(&p, 0, sizeof p);
        T_OK(tllm_fusemax_model(ctx, NULL, &s, &p));
        T_CLOSE(p.cycles, worked[i].cycles, 0);
        T_CLOSE(p.use_2d, worked[i].use, 5e-4);
        T_EQ_INT(p.m0, 256);
        T_EQ_INT(p.p0, worked[i].n);                /* all queries fit: 16384 x 130 x 2 bytes */
    }
    memset(&cpu, 0, sizeof cpu);
    cpu.buffer_bytes = 1 << 20;                     /* P1 x 256 x 260 <= 2^20 - 65536: 14, and of 64 the factor 8 */
    memset(&p, 0, sizeof p);
    T_OK(tllm_fusemax_model(ctx, &cpu, &s, &p));
    T_EQ_INT(p.p0, 8 * 256);
    cpu.bytes_per_s = 1e9;
    T_OK(tllm_fusemax_model(ctx, &cpu, &s, &p));
    T_CLOSE(p.bytes, 2.0 * (2 * 16384 * 64 + 8.0 * 2 * 16384 * 64), 0);
    T_CLOSE(p.seconds, p.bytes / 1e9, 1e-12);
    cpu.buffer_bytes = 100000;
    p.p0 = 0;
    T_STATUS(tllm_fusemax_model(ctx, &cpu, &s, &p), TINY_E_WORKSPACE, "does not hold one tile of 256 queries");
    cpu = tllm_machine_of(ctx, 0, 20e9);
    T_OK(tllm_fusemax_best(ctx, &cpu, &s, &p));
    for (i = 0; i < TLLM_FUSEMAX_CASCADES; i++) {   /* none is faster than the best */
        tllm_fusemax_plan other;
        memset(&other, 0, sizeof other);
        other.cascade = i;
        other.p0 = other.m0 = 64;
        T_OK(tllm_fusemax_model(ctx, &cpu, &s, &other));
        T_TRUE(other.seconds >= p.seconds);
    }
    cpu.bytes_per_s = 1e8;                          /* where memory is slow, what stays near wins */
    T_OK(tllm_fusemax_best(ctx, &cpu, &s, &p));
    T_EQ_INT(p.cascade, TLLM_FUSEMAX_1_PASS);
    t_close(ctx);
    T_PROOF("attention 2", "model: cycles and 2-D use at 1024, 4096, 16384");
}

static void test_bad_input(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    made d;
    tiny_tensor t;
    tllm_fusemax_desc how = { 0, 0, 0, 0.0f, 0 };
    tllm_fusemax_counts n;
    tllm_fusemax_shape s = { 64, 64, 0, 5, 1 };
    tllm_machine m;
    tllm_fusemax_plan p;
    make(&d, 3, 8, 2, 1, 4, 4);
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, NULL, &d.v, &d.o, NULL), TINY_E_ARGUMENT, "k is missing");
    t = d.k; t.dtype = TINY_F16;
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &t, &d.v, &d.o, NULL), TINY_E_DTYPE, "k is f16");
    t = d.k; t.stride[2] = 2; t.dim[2] = 2;
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &t, &d.v, &d.o, NULL), TINY_E_SHAPE, "without gaps");
    t = d.k; t.dim[0] = 7;
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &t, &d.v, &d.o, NULL), TINY_E_SHAPE, "(queries, heads, e)");
    t = d.k; t.dim[0] = 0;
    { tiny_tensor v = d.v; v.dim[0] = 0; T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &t, &v, &d.o, NULL), TINY_E_SHAPE, "must be at least 1"); }
    T_STATUS(tllm_fusemax(ctx, NULL, &d.q, &d.k, &d.v, &d.q, NULL), TINY_E_ALIAS, "o overlaps q");
    how.cascade = 4;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_ARGUMENT, "no cascade 4");
    how.cascade = 1;
    how.p0 = -1;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_ARGUMENT, "a tile of -1 queries");
    how.p0 = how.m0 = 2;
    how.buffer_bytes = 64;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_WORKSPACE, "the buffer has 64");
    how.p0 = how.m0 = 0;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_WORKSPACE, "a tile of 1 queries and 1 keys");
    how.buffer_bytes = 0;
    how.scale = NAN;
    T_STATUS(tllm_fusemax(ctx, &how, &d.q, &d.k, &d.v, &d.o, NULL), TINY_E_ARGUMENT, "must be finite");
    T_STATUS(tllm_fusemax_predict(ctx, NULL, &s, 1, &n), TINY_E_SHAPE, "0 keys");
    s.m = TINY_IDX_MAX;
    T_STATUS(tllm_fusemax_predict(ctx, NULL, &s, 1, &n), TINY_E_OVERFLOW, "no size may be larger");
    s.m = 8;
    s.heads = 3;
    T_STATUS(tllm_fusemax_predict(ctx, NULL, &s, 2, &n), TINY_E_SHAPE, "not a multiple of 2");
    memset(&m, 0, sizeof m);
    m.hertz = -1;
    p.cascade = 0;
    T_STATUS(tllm_fusemax_model(ctx, &m, &s, &p), TINY_E_ARGUMENT, "above 0");
    T_TRUE(!tllm_fusemax_text(-1) && !tllm_fusemax_name(4));
    t_close(ctx);
    T_PROOF("attention 2", "bad input: buffer too small for one tile");
}

static void test_memory(void)
{
    static float x[64];
    int which;
    for (which = 0; which < 2; which++)
        T_EACH_ALLOCATION(
            tiny_ctx_desc desc = t_desc(which ? TINY_TARGET_REFERENCE : TINY_TARGET_AUTO, 1);
            tiny_ctx *ctx = NULL;
            if (!tiny_ctx_open(&desc, &ctx)) {
                float o[8];
                tiny_tensor q = tiny_tensor_3d(x, TINY_F32, 2, 1, 4); tiny_tensor k = tiny_tensor_3d(x + 8, TINY_F32, 5, 1, 4); tiny_tensor to = tiny_tensor_3d(o, TINY_F32, 2, 1, 4);
                tllm_fusemax_desc how = { TLLM_FUSEMAX_2_PASS, 0, 2, 0.0f, 0 };
                tllm_fusemax_counts n;
                tiny_status st = tllm_fusemax(ctx, &how, &q, &k, &k, &to, &n);
                T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
                tiny_ctx_close(ctx);
            }
        )
}

int main(void)
{
    T_RUN_FORMS(test_passes);
    T_RUN_FORMS(test_passes_are_derived);
    T_RUN_FORMS(test_run_by_hand);
    T_RUN_FORMS(test_bad_descriptions);
    T_RUN(test_hostile_text);
    T_RUN_FORMS(test_counts_of_the_paper);
    T_RUN_FORMS(test_mapping_model);
    T_RUN_FORMS(test_bad_input);
    T_RUN(test_memory);
    T_RUN_TARGETS(test_cascades);
    T_RUN_FORMS(test_large_scores);
    return t_done();
}
