/* tests/llm/dist/cut.c - models over several ranks, with layers of either route
 *
 * Truth    a small model in double, attention and all, written out here, in every pattern of 4 layers; the ordinary
 *          model on one rank. Delays are those of a virtual clock, or must not matter. */
#include "cut_kit.h"

/* Every pattern of 4 layers, on 1, 2 and 4 ranks, against the model in double: logits to 1e-5 of their size, keys too;
 * the ranks the same bits. */
static void patterns(tiny_target target, int step, int fused)
{
    weights *w = (weights *)t_keep(sizeof *w);
    double *want = (double *)t_keep(TOKENS * V * sizeof *want),
           *keys = (double *)t_keep(L * TOKENS * KV * DK * sizeof *keys);
    unsigned char route[2 * L];
    made file;
    int code, i, l, t, world;
    w->fused = fused;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (code = 0; code < 16; code += step) {
        double size = 0.0, off;
        for (i = 0; i < 2 * L; i++) route[i] = code >> i / 2 & 1 ? TLLM_ROUTE_LADDER : TLLM_ROUTE_STANDARD;
        plain_model(w, route, want, keys);
        for (i = 0; i < TOKENS * V; i++) if (fabs(want[i]) > size) size = fabs(want[i]);
        for (world = 1; world <= MOST; world *= 2) {
            run r;
            memset(&r, 0, sizeof r);
            r.file = &file;
            r.world = world;
            r.route = route;
            r.target = target;
            r.n_batch = code % 3 ? 4 : 0;
            r.one_by_one = code % 5 == 2;
            r.no_thread = code % 2;
            if (!run_model(&r, NULL)) { unmake(&file); return; }
            if (!all_ok(&r)) { forget(&r); break; }
            for (i = 0; i < world; i++) {
                T_CLOSE(apart(r.logits[i], want, TOKENS * V), 0.0, 1e-5 * size);
                T_SAME(r.logits[i], r.logits[0], TOKENS * V);
                T_WALLS(r.logits[i], TOKENS * V);
            }
            for (off = 0.0, l = 0; l < L; l++)
                for (t = 0; t < TOKENS; t++)
                    for (i = 0; i < KV * DK; i++)
                        off = fmax(off, fabs((double)key_at(&r, l, t, i) - keys[(l * TOKENS + t) * KV * DK + i]));
            T_CLOSE(off, 0.0, 3e-5);
            forget(&r);
        }
    }
    unmake(&file);
}
static void test_models(tiny_target target)
{
    patterns(target, target == TINY_TARGET_SCALAR ? 1 : 5, 0);
    T_PROOF("attention 8", "ranks 1, 2, 4: the same to 1e-5, bit-identical across ranks");
    T_PROOF("attention 8", "KV caches equal");
    T_PROOF("attention 8", "border handling in every pattern of 4 layers");
}
static void test_reference(void) { patterns(TINY_TARGET_REFERENCE, 15, 0); }
static void test_fused(void) { patterns(TINY_TARGET_AUTO, 5, 1); }

/* The last layer computes the wanted rows alone, and its sums are as short, unless those of all rows are in flight: the
 * same logits, and the same bits on all ranks. Keys, which later tokens read, are the same bits. */
static void test_few_rows(tiny_target target)
{
    static const unsigned char route[3][2 * L] = { { 0 }, { 1, 1, 1, 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1, 1, 0, 0 } };
    static const int without[3] = { TOKENS - 1, TOKENS, 2 };
    weights *w = (weights *)t_keep(sizeof *w);
    int world, i, j, k;
    made file;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (k = 0; k < 3; k++)
        for (world = 1; world <= MOST; world *= 2)
            for (j = 0; j < 3; j++) {
                run all, few;
                memset(&all, 0, sizeof all);
                all.file = &file;
                all.target = target;
                all.world = world;
                all.route = route[k];
                few = all;
                few.without = without[j];
                if (!run_model(&all, NULL) || !run_model(&few, NULL)) { unmake(&file); return; }
                for (i = 0; i < world && all_ok(&all) && all_ok(&few); i++) {
                    const int n = (TOKENS - without[j]) * V, at = without[j] * V;
                    int c;
                    for (c = 0; c < n; c++) T_CLOSE(few.logits[i][at + c], all.logits[i][at + c], 3e-5);
                    T_SAME(few.logits[i] + at, few.logits[0] + at, n);
                    if (T_EQ_INT(few.n_state[i], all.n_state[i]))
                        T_TRUE(!memcmp((const char *)few.state[i] + 192, (const char *)all.state[i] + 192,
                                       few.n_state[i] - 192 - 8));
                }
                forget(&all);
                forget(&few);
            }
    unmake(&file);
}

/* a file that marks every layer as no ladder is the ordinary model, bit for bit, on one rank and on
 * several */
static void test_standard_flags(tiny_target target)
{
    static const unsigned char flags[L] = { 0 };
    weights *w = (weights *)t_keep(sizeof *w);
    made with, without;
    int world, i;
    if (!make(&with, w, TLLM_FORMAT_F32, flags, L)) return;
    t_now.rand_at = 0;
    if (!make(&without, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (world = 1; world <= MOST; world *= 2) {
        run a, b;
        memset(&a, 0, sizeof a);
        a.target = target;
        a.world = world;
        b = a;
        a.file = &with;
        b.file = &without;
        if (!run_model(&a, NULL) || !run_model(&b, NULL) || !all_ok(&a) || !all_ok(&b)) break;
        for (i = 0; i < world; i++) T_SAME(a.logits[i], b.logits[i], TOKENS * V);
        forget(&a);
        forget(&b);
    }
    unmake(&without);
    unmake(&with);
    T_PROOF("attention 8", "standard flag on all layers equals the ordinary model");
}

/* Keys of the first layer, whose input does not depend on the rotation: under YaRN each is 1 + 0.1 ln factor times as
 * long as without. */
static void test_yarn_lengths(tiny_target target)
{
    weights *w = (weights *)t_keep(sizeof *w);
    made plain, yarn;
    run a, b;
    int t, h, i;
    if (!make(&plain, w, TLLM_FORMAT_F32, NULL, 0)) return;
    t_now.rand_at = 0;
    w->yarn = 16.0f;
    if (!make(&yarn, w, TLLM_FORMAT_F32, NULL, 0)) return;
    memset(&a, 0, sizeof a);
    a.target = target;
    a.world = 1;
    b = a;
    a.file = &plain;
    b.file = &yarn;
    if (run_model(&a, NULL) && run_model(&b, NULL) && all_ok(&a) && all_ok(&b))
        for (t = 0; t < TOKENS; t++)
            for (h = 0; h < KV; h++) {
                double was = 0.0, is = 0.0;
                for (i = h * DK; i < (h + 1) * DK; i++) {
                    was += (double)key_at(&a, 0, t, i) * (double)key_at(&a, 0, t, i);
                    is += (double)key_at(&b, 0, t, i) * (double)key_at(&b, 0, t, i);
                }
                T_CLOSE(sqrt(is / was), 1.2772589, 1e-6);
            }
    forget(&a);
    forget(&b);
    unmake(&yarn);
    unmake(&plain);
    T_PROOF("attention 0", "YaRN: rotated keys are mscale times as long");
}

/* tllm_model_routes returns the routes of the file; delays, waits without a thread, other ways of summing: the same
 * bits, keys and values too */
static void test_same_bits(tiny_target target)
{
    static const unsigned char flags[L] = { 1, 0, 1, 1 }, route[2 * L] = { 1, 1, 0, 0, 1, 1, 1, 1 };
    static const tiny_local_desc line[5] = { { 0, 0, 0, 0.0, 0 },
                                             { 0, 0, 400000, 0.0, 0 },
                                             { 0, 1024, 100000, 1e8, 0 },
                                             { 0, 0, 5000000, 1e5, 1 },
                                             { 0, 0, 0, 0.0, 0 } };
    weights *w = (weights *)t_keep(sizeof *w);
    made with, without;
    int k, i, world;
    if (!make(&with, w, TLLM_FORMAT_F32, flags, L)) return;
    t_now.rand_at = 0;
    if (!make(&without, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (world = 1; world <= MOST; world *= 2) {
        run first;
        for (k = 0; k < 5; k++) {
            run r;
            memset(&r, 0, sizeof r);
            r.file = k == 4 ? &without : &with;
            r.route = k == 4 ? route : NULL;
            r.world = world;
            r.no_thread = k == 2;
            if (!run_model(&r, &line[k]) || !all_ok(&r)) return;
            if (!k) { first = r; continue; }
            for (i = 0; i < world; i++) {
                T_SAME(r.logits[i], first.logits[0], TOKENS * V);
                T_EQ_INT(r.n_state[i], first.n_state[i]);
                if (k < 4) T_SAME((unsigned char *)r.state[i], (unsigned char *)first.state[i], r.n_state[i]);
            }
            forget(&r);
        }
        forget(&first);
    }
    unmake(&without);
    unmake(&with);
    T_PROOF("attention 8", "a delay never changes results");
    T_PROOF("attention 8", "immediate waits equal async");
    (void)target;                           /* the workers read t_now */
}

/* weights in two bytes and in blocks: a cut row is a part of a row of the file */
static void test_formats(tiny_target target)
{
    static const int format[3] = { TLLM_FORMAT_F16, TLLM_FORMAT_BF16, TLLM_FORMAT_Q8_0 };
    static const unsigned char route[2 * L] = { 1, 1, 1, 1, 0, 0, 1, 1 };
    weights *w = (weights *)t_keep(sizeof *w);
    int k, i;
    for (k = 0; k < 3; k++) {
        run one, two;
        made file;
        if (!make(&file, w, format[k], NULL, 0)) return;
        memset(&one, 0, sizeof one);
        one.file = &file;
        one.route = route;
        one.target = target;
        two = one;
        one.world = 1;
        /* heads of 32 numbers together, networks of 48 are no whole blocks */
        two.world = format[k] == TLLM_FORMAT_Q8_0 ? 2 : 4;
        if (!run_model(&one, NULL) || !run_model(&two, NULL)) return;
        if (format[k] == TLLM_FORMAT_Q8_0)
            for (i = 0; i < 2; i++)
                T_TRUE(two.st[i] == TINY_E_UNSUPPORTED &&
                       strstr(two.says[i], "ffn_down cannot be cut into 2 parts of 48 columns: Q8_0 has") != NULL);
        else if (all_ok(&one) && all_ok(&two))
            for (i = 0; i < TOKENS * V; i++) T_CLOSE(two.logits[0][i], one.logits[0][i], 3e-5);
        forget(&one);
        forget(&two);
        unmake(&file);
    }
}

/* rows of a rank may be repacked: the part that it keeps by columns stays in place */
static void test_repacked(tiny_target target)
{
    weights *w = (weights *)t_keep(sizeof *w);
    run plain, eight;
    made file;
    double off = 0.0, all = 0.0;
    int i;
    w->ff = 64;                             /* 32 for each rank */
    if (!make(&file, w, TLLM_FORMAT_Q8_0, NULL, 0)) return;
    memset(&plain, 0, sizeof plain);
    plain.file = &file;
    plain.target = target;
    plain.world = 2;
    eight = plain;
    eight.repack = 1;
    if (!run_model(&plain, NULL) || !run_model(&eight, NULL)) return;
    if (all_ok(&plain) && all_ok(&eight)) {
        tiny_ctx *ctx = t_ctx(target, 1);
        const tiny_idx per_layer = 5;       /* q, k, v, gate, up */
        for (i = 0; i < 2; i++)
            T_EQ_INT(eight.repacked[i].n, tllm_repack_has(ctx, TLLM_FORMAT_Q8_0) == 2 ? L * per_layer + 1 : 0);
        t_close(ctx);
        for (i = 0; i < TOKENS * V; i++) {
            const double a = (double)plain.logits[0][i], b = (double)eight.logits[0][i];
            off += (a - b) * (a - b);
            all += a * a;
        }
        /* activations in 8 bits; another rank's rows would be off by all of it */
        T_TRUE(all > 0.0 && off <= 1e-4 * all);
        T_SAME(eight.logits[0], eight.logits[1], TOKENS * V);
    }
    forget(&plain);
    forget(&eight);
    unmake(&file);
}

/* a model that comes with the library, in blocks, over two ranks: greedy text is that of one */
typedef struct tale {
    tiny_local *local;
    char text[3][400];
    tiny_status st[3];
    char says[3][200];
    size_t held[3];
} tale;
static int tell(void *user, const char *bytes, size_t n)
{
    char *to = (char *)user;
    const size_t at = strlen(to);
    if (at + n < 399) memcpy(to + at, bytes, n);
    return 0;
}
static void tale_rank(int rank, void *arg)
{
    tale *t = (tale *)arg;
    tiny_ctx *ctx = t_rank_ctx(TINY_TARGET_AUTO);
    tllm_session *s = NULL;
    tllm_state_desc d;
    tllm_generate_desc g;
    tiny_comm_desc cd;
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    memset(&cd, 0, sizeof cd);
    d.n_ctx = 128;
    cd.net = tiny_local_net(t->local, rank);
    g.text = tell;
    g.user = t->text[rank];
    g.n_most = 40;
    if (rank < 2) t->st[rank] = tiny_comm_open(ctx, &cd, &d.comm);
    if (!t->st[rank]) t->st[rank] = tllm_session_open(ctx, "examples/models/story.gguf", &d, &s);
    if (!t->st[rank]) t->st[rank] = tllm_generate(s, "", 0, &g, NULL);
    (void)snprintf(t->says[rank], sizeof t->says[rank], "%s", tiny_ctx_message(ctx));
    tllm_session_close(s);
    tiny_comm_close(d.comm);
    tiny_ctx_close(ctx);
}
static void test_session(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_local_desc d;
    tale *t = (tale *)t_keep(sizeof *t);
    int i;
    memset(&d, 0, sizeof d);
    d.world = 2;
    T_OK(tiny_local_open(ctx, &d, &t->local));
    if (t_ranks(2, tale_rank, t)) {
        tale_rank(2, t);
        for (i = 0; i < 3; i++) if (!T_EQ_INT(t->st[i], TINY_OK)) printf("  %s\n", t->says[i]);
        T_TRUE(strlen(t->text[2]) > 20);
        T_EQ_TEXT(t->text[0], t->text[2]);
        T_EQ_TEXT(t->text[1], t->text[2]);
    }
    tiny_local_close(ctx, t->local);
    t_close(ctx);
}

/* the sums of a pass follow the routes: 4 layers on a line with latency only send 8 in a row, or 4 */
static void test_sums_in_flight(void)
{
    static const unsigned char standard[2 * L] = { 0 }, ladder[2 * L] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    static const tiny_local_desc line = { 0, 0, 1000000, 0.0, 1 };
    weights *w = (weights *)t_keep(sizeof *w);
    made file;
    int k, i;
    if (!make(&file, w, TLLM_FORMAT_F32, NULL, 0)) return;
    for (k = 0; k < 2; k++) {
        run r;
        memset(&r, 0, sizeof r);
        r.file = &file;
        r.world = 2;
        r.route = k ? ladder : standard;
        if (!run_model(&r, &line)) break;
        all_ok(&r);
        for (i = 0; i < 2; i++) T_EQ_INT(r.clock[i], (k ? 5 : 9) * 1000000);       /* and one to agree on the model */
        forget(&r);
    }
    unmake(&file);
}

int main(void)
{
    T_RUN_TARGETS(test_models);
    T_RUN(test_reference);
    T_RUN(test_fused);
    T_RUN_TARGETS(test_few_rows);
    T_RUN_TARGETS(test_standard_flags);
    T_RUN_TARGETS(test_yarn_lengths);
    T_RUN_TARGETS(test_same_bits);
    T_RUN_TARGETS(test_formats);
    T_RUN_TARGETS(test_repacked);
    T_RUN(test_session);
    T_RUN(test_sums_in_flight);
    return t_done();
}
