/* tests/llm/plan/cascade.c - cascades of Einsums: their passes, a run by hand, and refused descriptions
 *
 * Truth    passes and levels worked out by hand, for the cascades of attention and for others. */
#include "t.h"
#include <math.h>

static int level_of(const tllm_cascade *c, const tllm_cascade_analysis *a, const char *tensor)
{
    return a->level[c->tensor[tllm_cascade_find(c, tensor)].made_by];
}

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
    T_TRUE(a.kept[tllm_cascade_find(&c, "QK")] && a.kept[tllm_cascade_find(&c, "SN")] &&
           !a.kept[tllm_cascade_find(&c, "A")]);
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
    /* not 2: that one runs over chunks only */
    for (i = 0; i < c.n_einsum; i++) T_TRUE(!a.reads_fiber[i] || a.level[i] == 1 || a.level[i] == 3);
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

/* the same cascades with other names, so that no result can come from a table; and others */
static void test_passes_are_derived(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 1);
    static const struct { const char *text; int passes; } more[] = {
        { "input X[i]\nS[] = sum i: X[i]\n", 1 },
        /* to the sum 1 */
        { "input X[i]\nM[] = sum i: X[i]\nD[i] = X[i] / M[]\n", 2 },
        /* reads Y thrice */
        { "input X[i] Y[i]\nD[] = sum i: X[i] * Y[i]\nZ[i] = X[i] * D[]\nE[] = max i: Z[i]\nW[i] = Y[i] * E[]\n", 3 },
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
    /* operations after the traversal have a level of it, though no input has the rank */
    T_OK(tllm_cascade_parse(ctx, "input X[j]\nstate R[i,j] = 0\nR[i+1,j] = R[i,j] + X[j]\nA[j] = R[last,j] * X[j]\n",
                            &c));
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
    T_OK(tllm_cascade_parse(ctx,
                            "split i i1 i0\ninput X[i1,i0]\nstate R[i1] = -inf\nL[i1] = max i0: X[i1,i0]\nR[i1+1] = "
                            "max(R[i1], L[i1])\nS[] = sum i1 i0: X[i1,i0]\n",
                            &c));
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
    static const struct { const char *text; tiny_status st; const char *says;
    } bad[] = {
        { "", TINY_E_FORMAT, "it has no Einsum" },
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
        { "input X[m]\nstate R[m] = 0\nA[m] = R[m+1] * X[m]\nR[m+1] = R[m] + A[m]\n", TINY_E_FORMAT,
          "made by line 4: the description is cyclic" },
        { "input X[m]\nstate R[m] = 0\nG[] = sum m: R[m]\nR[m+1] = X[m] * G[]\n", TINY_E_FORMAT,
          "needs all of m inside the loop" },
        { "input X[m]\nstate R[m] = 0\nA[] = R[last] * R[last]\nR[m+1] = R[m] + X[m]\n", TINY_E_FORMAT,
          "cyclic, or out of order" },
        { "input X[m]\nstate R[m] = 0\nA[m] = X[m]\n", TINY_E_FORMAT, "no line makes R[m+1" },
        { "input X[m]\nstate R[m] = zero\n", TINY_E_FORMAT, "a number before 'z'" },
        { "input X[m]\nA[m+1] = X[m]\n", TINY_E_FORMAT, "+1 after the first rank of a state" },
        { "input X[m]\nstate R[m] = 0\ninput R[m]\nA[m] = X[m]\n", TINY_E_FORMAT,
          "R is a state and cannot be an input" },
        { "input X[a,b,c,d,e,f,g,h,i]\n", TINY_E_UNSUPPORTED, "rank i exceeds the limit of 8 ranks" },
        { "input AVeryLongNameIndeed[m]\n", TINY_E_FORMAT, "longer than 15 bytes" },
        { "split m m m0\ninput X[m]\nA[m] = X[m]\n", TINY_E_FORMAT, "split into itself" },
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
    T_STATUS(tllm_cascade_parse(ctx, NULL, &c), TINY_E_ARGUMENT, "the text or the result pointer is NULL");
    T_OK(tllm_cascade_parse(ctx, tllm_fusemax_text(TLLM_FUSEMAX_1_PASS), &c));
    T_STATUS(tllm_cascade_size(ctx, &c, "z", 4), TINY_E_ARGUMENT, "no rank z");
    T_STATUS(tllm_cascade_size(ctx, &c, "m", 0), TINY_E_SHAPE, "rank m has size 0");
    T_STATUS(tllm_cascade_size(ctx, &c, "m1", 4), TINY_E_ARGUMENT, "follows from");
    T_STATUS(tllm_cascade_analyse(ctx, &c, "m1 m0", &a), TINY_E_SHAPE, "has no size");
    sized(ctx, TLLM_FUSEMAX_1_PASS, &c, 10, 4);
    T_STATUS(tllm_cascade_analyse(ctx, &c, "m1 z", &a), TINY_E_ARGUMENT, "names z");
    T_STATUS(tllm_cascade_analyse(ctx, &c, "", &a), TINY_E_ARGUMENT, "no rank");
    T_STATUS(tllm_cascade_run(ctx, &c, data, NULL), TINY_E_ARGUMENT, "the input Q is missing");
    t_close(ctx);
    T_PROOF("attention 2", "bad input: unknown tensor, rank missing, cyclic, zero sizes");
}

/* bytes of valid descriptions changed, deleted, doubled: refused with a sentence, or a cascade that can be analysed */
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
        for (n = 0; n < c.n_rank; n++)
            if (c.split[0] < 0 || n != c.split[1]) T_OK(tllm_cascade_size(ctx, &c, c.rank[n], 3));
        T_OK(tllm_cascade_analyse(ctx, &c, c.rank[c.einsum[0].ranks & 1 ? 0 : 1], &a));
        good++;
    }
    T_TRUE(good > 100 && good < 3000);
    t_close(ctx);
}

int main(void)
{
    T_RUN_FORMS(test_passes);
    T_RUN_FORMS(test_passes_are_derived);
    T_RUN_FORMS(test_run_by_hand);
    T_RUN_FORMS(test_bad_descriptions);
    T_RUN(test_hostile_text);
    return t_done();
}
