/* tests/llm/round/rotate.c - rotated models are the same function; rotations while they run; inputs in few bits
 *
 * Truth    logits of the model before, over all models of the large oracle; numbers of the file turned by a rotation
 *          that is written here (a permutation of channels with signs); recorded figures for outliers and for the
 *          rounding of four numbers */
#include "llm/model/apart.h"
#include <math.h>

static int rotated(tiny_ctx *ctx, const tllm_gguf *g, const tllm_rotated_desc *d, made *m)
{
    tllm_rotated *r = NULL;
    int ok;
    memset(m, 0, sizeof *m);
    if (!T_OK(tllm_rotated_open(ctx, g, d, &r))) return 0;
    ok = T_OK(tllm_writer_open(ctx, NULL, &m->w)) && T_OK(tllm_rotated_put(ctx, r, m->w)) && made_end(ctx, m);
    tllm_rotated_close(ctx, r);
    return ok;
}

/* each part alone and all together */
static void compare(tiny_ctx *ctx, const tllm_gguf *g, const char *name, int *parts)
{
    static const unsigned online[] = { 0, TLLM_ROTATE_FEED, TLLM_ROTATE_KEYS, TLLM_ROTATE_HEADS, TLLM_ROTATE_ALL };
    tllm_folds *f = NULL;
    made before, after;
    size_t n = 0, i;
    float *a;
    if (!T_OK(tllm_folds_open(ctx, g, &f)) || !make(ctx, f, &before)) return;
    a = results(ctx, before.file, &n);
    for (i = 0; a && i < T_COUNT(online); i++) {
        tllm_rotated_desc d;
        tllm_rotated *r = NULL;
        tllm_text arch = { "", 0 };
        double off;
        float *b;
        memset(&d, 0, sizeof d);
        d.seed = 7 + i;
        d.online = online[i];
        d.no_heads = i == 1;
        if (d.online & TLLM_ROTATE_HEADS && tllm_rotated_open(ctx, g, &d, &r)) {
            T_TRUE(strstr(tiny_ctx_message(ctx), "heads cannot be rotated") != NULL);
            continue;
        }
        tllm_rotated_close(ctx, r);
        if (!rotated(ctx, g, &d, &after)) break;
        T_TRUE(tllm_meta_text(tllm_gguf_find(after.file, "general.architecture"), 0, &arch));
        T_EQ_INT(arch.n > 8 && !memcmp(arch.at, "rotated-", 8), d.online != 0);
        b = results(ctx, after.file, &n);
        off = b ? apart(a, b, n) : 1;
        if (!T_TRUE(off <= 1e-5)) printf("  %s, online %u: %.3g apart\n", name, d.online, off);
        if (getenv("T_SAY")) printf("%-20s online %u: %.3g apart\n", name, d.online, off);
        ++*parts;
        drop(ctx, &after);
    }
    drop(ctx, &before);
    tllm_folds_close(ctx, f);
}

typedef struct tally { int refused, parts; } tally;
static void one_model(tiny_ctx *ctx, const tllm_gguf *g, const char *name, void *arg)
{
    /* parts that cannot be rotated, by hand, from the architecture of each */
    static const struct { const char *name, *why;
    } refused[] = { { "bert", "gives no logits" },
                    { "gpt2", "layer norms" },
                    { "gemma2", "a norm comes after a half" },
                    { "olmo2", "a norm comes after a half" },
                    { "bloom", "layer norms" },
                    { "deepseek2", "is not plain attention" },
                    { "t5", "folds are not supported" },
                    { "phi2", "layer norms" },
                    { "gemma4-moe", "dense network and experts run in parallel" } };
    tally *t = (tally *)arg;
    tllm_rotated *r = NULL;
    size_t i;
    for (i = 0; i < T_COUNT(refused) && strcmp(name, refused[i].name); i++) {}
    if (tllm_rotated_open(ctx, g, NULL, &r)) {
        T_TRUE(r == NULL && tiny_ctx_status(ctx) == TINY_E_UNSUPPORTED);
        if (i < T_COUNT(refused) && !T_TRUE(strstr(tiny_ctx_message(ctx), refused[i].why) != NULL))
            printf("  %s\n", tiny_ctx_message(ctx));
        if (getenv("T_SAY")) printf("%-20s %s\n", name, tiny_ctx_message(ctx));
        t->refused++;
        return;
    }
    T_TRUE(i == T_COUNT(refused));
    tllm_rotated_close(ctx, r);
    compare(ctx, g, name, &t->parts);
}

static void test_models(void)
{
    tally t = { 0, 0 };
    const int n_models = each_model(one_model, &t);
    if (!n_models) return;
    printf("  models: %d, of which %d are refused; %d rotated forms\n", n_models, t.refused, t.parts);
    T_TRUE(n_models - t.refused >= 3 && t.parts >= 12);
    T_PROOF("quantization 0", "rotated float model = original");
}

/* A permutation of channels with signs: the rotated stream can be written by hand. Gains first, since they go into
 * their consumers. */
static void test_by_hand(void)
{
    const char *path = t_shared("oracle/llm/llama.gguf");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_rotated_desc d;
    made m;
    tiny_idx n, i, k;
    float *q;
    if (!path) { t_close(ctx); return; }
    T_OK(tllm_gguf_open(ctx, path, &g));
    n = (tiny_idx)tllm_gguf_tensor_find(g, "token_embd.weight")->dim[0];
    q = t_guarded((size_t)(n * n));
    memset(q, 0, (size_t)(n * n) * sizeof *q);
    /* channel i goes to (5 i + 3) mod n: n is a power of two */
    for (i = 0; i < n; i++) q[i * n + (5 * i + 3) % n] = i % 3 ? 1.0f : -1.0f;
    memset(&d, 0, sizeof d);
    d.q = q;
    d.no_heads = 1;
    if (rotated(ctx, g, &d, &m)) {
        static const char *const reads[] = { "token_embd.weight", "blk.1.attn_q.weight", "blk.1.attn_v.weight",
                                             "blk.0.ffn_up.weight", "output.weight" };
        static const char *const gains[] = { NULL, "blk.1.attn_norm.weight", "blk.1.attn_norm.weight",
                                             "blk.0.ffn_norm.weight", "output_norm.weight" };
        static const char *const writes[] = { "blk.0.attn_output.weight", "blk.1.ffn_down.weight" };
        int t;
        for (t = 0; t < 5; t++) {
            const tllm_gguf_tensor *was = tllm_gguf_tensor_find(g, reads[t]),
                                   *now = tllm_gguf_tensor_find(m.file, reads[t]);
            const float *a = (const float *)(const void *)was->data, *b = (const float *)(const void *)now->data;
            const float *gain = gains[t] ? (const float *)(const void *)tllm_gguf_tensor_find(g, gains[t])->data : NULL;
            T_TRUE(now->type == TLLM_FORMAT_F32 && was->dim[1] == now->dim[1]);
            for (k = 0; k < (tiny_idx)was->dim[1]; k++)
                for (i = 0; i < n; i++) {
                    const double want = (i % 3 ? 1.0 : -1.0) * (double)a[k * n + i] * (gain ? (double)gain[i] : 1.0);
                    if (!T_CLOSE(b[k * n + (5 * i + 3) % n], want, 2e-7 * fabs(want))) return;
                }
        }
        for (t = 0; t < 2; t++) {
            const tllm_gguf_tensor *was = tllm_gguf_tensor_find(g, writes[t]),
                                   *now = tllm_gguf_tensor_find(m.file, writes[t]);
            const tiny_idx wide = (tiny_idx)was->dim[0];
            const float *a = (const float *)(const void *)was->data, *b = (const float *)(const void *)now->data;
            for (i = 0; i < n; i++)
                for (k = 0; k < wide; k++)
                    if (!T_TRUE(b[(5 * i + 3) % n * wide + k] == (i % 3 ? 1.0f : -1.0f) * a[i * wide + k])) return;
        }
        for (i = 0; i < n; i++)
            T_TRUE(((const float *)(const void *)tllm_gguf_tensor_find(m.file, "blk.1.ffn_norm.weight")->data)[i] ==
                   1.0f);
        drop(ctx, &m);
    }
    q[7] += 0.5f;
    {
        tllm_rotated *r = NULL;
        T_STATUS(tllm_rotated_open(ctx, g, &d, &r), TINY_E_ARGUMENT, "q is not orthogonal: the product of rows");
        T_TRUE(r == NULL);
    }
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* four numbers worked by hand; numbers beyond the clip go to the ends; rows that have no scale */
static void test_round(tiny_target target)
{
    tiny_ctx *ctx = t_ctx(target, 2);
    static const float w[4] = { 0.9f, -0.31f, 0.12f, -1.5f }, want[4] = { 0.857143f, -0.214286f, 0.214286f, -1.5f };
    float *x = t_guarded(4 * 3), y[8] = { 0, 0, 0, 0, NAN, 1, 2, 3 };
    int i;
    for (i = 0; i < 12; i++) x[i] = i % 6 < 4 ? w[i % 6] : 77.0f;
    T_OK(tllm_round_rows(ctx, x, 2, 4, 6, 4, 1.0f));
    for (i = 0; i < 12; i++) T_CLOSE(x[i], i % 6 < 4 ? (double)want[i % 6] : 77.0, 1e-6);
    T_PROOF("quantization 0", "S1 4-bit on w=(0.9,-0.31,0.12,-1.5)");
    {                                       /* the same bits as the reference, at every length */
        tiny_ctx *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
        int n, bits;
        for (n = 1; n < 70; n++)
            for (bits = 2; bits <= 8; bits++) {
                float *a = t_rand((size_t)n, -3, 3), *b = t_guarded((size_t)n);
                memcpy(b, a, (size_t)n * sizeof *a);
                T_OK(tllm_round_rows(ctx, a, 1, n, n, bits, 0.8f));
                T_OK(tllm_round_rows(plain, b, 1, n, n, bits, 0.8f));
                T_SAME(a, b, n);
                T_WALLS(a, n);
            }
        t_close(plain);
        t_use(ctx);
    }
    for (i = 0; i < 4; i++) x[i] = w[i];
    /* s = 0.75 / 7: the codes are 8.4, -2.9, 1.1, -14 before they are clamped */
    T_OK(tllm_round_rows(ctx, x, 1, 4, 4, 4, 0.5f));
    T_CLOSE(x[0], 0.75, 1e-6);
    T_CLOSE(x[1], -3 * 0.75 / 7, 1e-6);
    T_CLOSE(x[2], 0.75 / 7, 1e-6);
    T_CLOSE(x[3], -8 * 0.75 / 7, 1e-6);
    T_OK(tllm_round_rows(ctx, y, 2, 4, 4, 8, 1.0f));
    T_TRUE(y[0] == 0.0f && y[4] != y[4] && y[7] == 3.0f);
    T_OK(tllm_round_rows(ctx, y, 0, 4, 4, 8, 1.0f));
    T_STATUS(tllm_round_rows(ctx, y, 1, 4, 3, 8, 1.0f), TINY_E_ARGUMENT, "1 rows of 4 numbers, 3 apart");
    T_STATUS(tllm_round_rows(ctx, y, 1, 4, 4, 1, 1.0f), TINY_E_ARGUMENT, "1 bits");
    T_STATUS(tllm_round_rows(ctx, y, 1, 4, 4, 9, 1.0f), TINY_E_ARGUMENT, "9 bits");
    T_STATUS(tllm_round_rows(ctx, y, 1, 4, 4, 4, 1.5f), TINY_E_ARGUMENT, "a clip of 1.5");
    T_STATUS(tllm_round_rows(ctx, y, 1, 4, 4, 4, NAN), TINY_E_ARGUMENT, "a clip of nan");
    T_STATUS(tllm_round_rows(ctx, NULL, 1, 4, 4, 4, 1.0f), TINY_E_ARGUMENT, "not a matrix");
    T_STATUS(tllm_round_rows(NULL, y, 1, 4, 4, 4, 1.0f), TINY_E_ARGUMENT, NULL);
    t_close(ctx);
}

/* Two channels of 128 that are 30 and 20 times as large as the others, inputs to 4 bits a token: their squared error,
 * relative, which is that of the outputs of random matrices on average. One recorded matrix has 0.060 plain and 0.0055
 * rotated; numpy 0.0632 and 0.0059 over 24000 tokens. */
static void test_outliers(void)
{
    enum { N = 128, T = 6000 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tiny_rng rng = tiny_rng_make(5, 0);
    float *x = t_guarded(T * N), *q = t_guarded(T * N), sign[N];
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, T, N), tq = tiny_tensor_2d(q, TINY_F32, T, N);
    double error[2];
    int way, i;
    tiny_rng_fill_normal(&rng, x, T * N);
    for (i = 0; i < N; i++) sign[i] = tiny_rng_u32(&rng) & 1 ? 1.0f : -1.0f;
    for (i = 0; i < T; i++) {
        x[i * N + 17] *= 30.0f;
        x[i * N + 90] *= 20.0f;
    }
    for (way = 0; way < 2; way++) {
        double off = 0, size = 0;
        if (way) {
            for (i = 0; i < T * N; i++) x[i] *= sign[i % N];
            T_OK(tiny_fwht(ctx, &tx, NULL, &tq));
            memcpy(x, q, T * N * sizeof *x);
        }
        memcpy(q, x, T * N * sizeof *x);
        T_OK(tllm_round_rows(ctx, q, T, N, N, 4, 1.0f));
        for (i = 0; i < T * N; i++) {
            off += pow((double)x[i] - (double)q[i], 2);
            size += (double)x[i] * (double)x[i];
        }
        error[way] = off / size;
    }
    printf("  4-bit inputs with two outliers among 128: %.4f plain, %.4f rotated, %.1f times less\n", error[0],
           error[1], error[0] / error[1]);
    T_CLOSE(error[0], 0.0632, 0.003);
    T_CLOSE(error[1], 0.0059, 0.0003);
    T_PROOF("quantization 0", "relative squared output error 0.060 -> 0.0055 with a random Hadamard, about 11x");
    t_close(ctx);
}

/* divergence from base in bits a token; few: inputs in 4 bits, keys and values as Q4_0 */
static double divergence(tiny_ctx *ctx, const tllm_gguf *base, const tllm_gguf *file, int few)
{
    tllm_model *model[2] = { NULL, NULL };
    tllm_state_desc s;
    tllm_judge_desc d;
    tllm_judgement j;
    memset(&s, 0, sizeof s);
    memset(&d, 0, sizeof d);
    /* of 40 stories, the order of the two divergences depended on the choice */
    d.stories = 100;
    d.samples = d.greedy = -1;
    d.state = &s;
    s.x_bits = few ? 4 : 0;
    s.type_k = s.type_v = few ? TLLM_FORMAT_Q4_0 : TLLM_FORMAT_F32;
    memset(&j, 0, sizeof j);
    if (T_OK(tllm_model_open(ctx, base, &model[0])) && T_OK(tllm_model_open(ctx, file, &model[1])))
        T_OK(tllm_judge(ctx, model[1], model[0], &d, &j));
    tllm_model_close(ctx, model[0]);
    tllm_model_close(ctx, model[1]);
    return j.kl;
}

/* in place: blocks of m of the row, each times the Hadamard matrix of m, over sqrt(m): its own inverse */
static void walsh(double *x, int n, int m)
{
    int step, i, k;
    for (step = 1; step < m; step *= 2)
        for (i = 0; i < n; i += 2 * step)
            for (k = i; k < i + step; k++) {
                const double a = x[k], b = x[k + step];
                x[k] = a + b;
                x[k + step] = a - b;
            }
    for (i = 0; i < n; i++) x[i] /= sqrt((double)m);
}
/* The signs of the library, got back from the rows of the embedding by a Hadamard matrix written here: the same for all
 * rows, about half of them -1, others with another seed. And their purpose: a token along (1, 1 .. 1), which the
 * matrix alone would turn into one channel that has it all, is spread. */
static void test_signs(void)
{
    enum { MOST = 1024, ROWS = 40, ONES = 7, SEEDS = 3 };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static signed char sign[SEEDS][MOST];
    tllm_gguf *g = NULL;
    tllm_folds *f = NULL;
    made before;
    int seed, i, k, n = 0, m = 1;
    if (!T_OK(tllm_gguf_open(ctx, "examples/models/story.gguf", &g))) { t_close(ctx); return; }
    if (T_OK(tllm_folds_open(ctx, g, &f)) && make(ctx, f, &before)) {
        const tllm_gguf_tensor *was = tllm_gguf_tensor_find(before.file, "token_embd.weight");
        float *x = (float *)(uintptr_t)was->data;          /* of the writer, not of the file on disk */
        n = (int)was->dim[0];
        while (n % (2 * m) == 0) m *= 2;
        T_TRUE(n <= MOST && m >= 32);
        for (i = 0; i < n; i++) x[ONES * n + i] = 1.0f;
        for (seed = 0; seed < SEEDS; seed++) {
            tllm_rotated_desc d;
            made after;
            memset(&d, 0, sizeof d);
            d.seed = (uint64_t)seed;
            if (!rotated(ctx, before.file, &d, &after)) break;
            {
                const float *y =
                    (const float *)(const void *)tllm_gguf_tensor_find(after.file, "token_embd.weight")->data;
                double back[MOST], most = 0;
                int n_minus = 0;
                memset(sign[seed], 0, sizeof sign[seed]);
                for (k = 0; k < ROWS && n <= MOST; k++) {
                    for (i = 0; i < n; i++) back[i] = (double)y[k * n + i];
                    walsh(back, n, m);
                    for (i = 0; i < n; i++) {
                        const double want = (double)x[k * n + i];
                        if (!T_CLOSE(fabs(back[i]), fabs(want), 1e-5)) break;
                        if (fabs(want) < 1e-3) continue;
                        if (!sign[seed][i]) sign[seed][i] = back[i] * want < 0 ? -1 : 1;
                        if (!T_TRUE(sign[seed][i] * back[i] * want > 0)) break;
                    }
                }
                for (i = 0; i < n; i++) {
                    n_minus += sign[seed][i] < 0;
                    most = fmax(most, fabs((double)y[ONES * n + i]));
                }
                T_TRUE(fabs(n_minus - n / 2.0) < 2.5 * sqrt((double)n));    /* five standard deviations */
                T_TRUE(most < 5.0);         /* of root mean square 1: sqrt(m) with the matrix alone */
                printf("  seed %d: %d of %d signs are -1; (1, 1 .. 1) has %.2f as its largest number, %.2f without "
                       "signs\n",
                       seed, n_minus, n, most, sqrt((double)m));
            }
            drop(ctx, &after);
        }
        for (seed = 1; seed < SEEDS; seed++) {
            int other = 0;
            for (i = 0; i < n; i++) other += sign[seed][i] != sign[seed - 1][i];
            T_TRUE(fabs(other - n / 2.0) < 2.5 * sqrt((double)n));
        }
        drop(ctx, &before);
    }
    tllm_folds_close(ctx, f);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* everything in four bits: weights Q4_0, inputs S1 a token, keys and values Q4_0; with outlier channels, and without */
static void test_four_bits(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *g = NULL;
    tllm_rotated_desc d;
    made axes;
    int way;
    T_OK(tllm_gguf_open(ctx, "examples/models/story.gguf", &g));
    memset(&d, 0, sizeof d);
    d.axes = 1;
    if (rotated(ctx, g, &d, &axes))
        for (way = 0; way < 2; way++) {
            const tllm_gguf *of = way ? axes.file : g;
            made plain, turned, small;
            double lost, lost_rotated;
            d.axes = 0;
            d.online = TLLM_ROTATE_ALL;
            if (!packed(ctx, of, TLLM_FORMAT_Q4_0, &plain) || !rotated(ctx, of, &d, &turned) ||
                !packed(ctx, turned.file, TLLM_FORMAT_Q4_0, &small))
                break;
            lost = divergence(ctx, of, plain.file, 1);
            lost_rotated = divergence(ctx, of, small.file, 1);
            printf("  story.gguf%s, all in 4 bits: divergence %.4f bits a token, rotated %.4f\n",
                   way ? " in the axes of its embedding" : "", lost, lost_rotated);
            /* of the file's own blocks the inputs are rounded */
            T_TRUE(divergence(ctx, of, turned.file, 0) < (way ? 1e-6 : 1e-3));
            T_TRUE(lost_rotated > 0 && lost_rotated < (way ? 0.7 : 1.0) * lost);
            drop(ctx, &small);
            drop(ctx, &turned);
            drop(ctx, &plain);
        }
    drop(ctx, &axes);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* how many different numbers a row has */
static int different(const float *x, tiny_idx n)
{
    tiny_idx i, j;
    int found = 0;
    for (i = 0; i < n; i++) {
        for (j = 0; j < i && x[j] != x[i]; j++) {}
        found += j == i;
    }
    return found;
}

/* The inputs of each matrix of a layer, seen from outside: with inputs of 3 bits, one of 8 numbers; without,
 * many. */
static void watch_inputs(const tllm_gguf *g, int bits, const char *what)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *run = NULL;
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    tllm_watch *watch = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc sd;
    int32_t token[8] = { 1, 5, 9, 4, 7, 3, 2, 8 };
    size_t i, n_seen = 0;
    tiny_idx mat, k;
    T_OK(tllm_watch_open(ctx, g, &watch));
    cd.accel = tllm_watch_hook(watch);
    T_OK(tiny_ctx_open(&cd, &run));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++)
        if (!memcmp(tllm_gguf_tensor_at(g, i)->name.at, "blk.", 4) && tllm_gguf_tensor_at(g, i)->rank >= 2)
            T_OK(tllm_watch_pick(watch, tllm_gguf_tensor_at(g, i), TLLM_CALIB_SAMPLES));
    memset(&sd, 0, sizeof sd);
    sd.n_ctx = 16;
    sd.x_bits = bits;
    if (T_OK(tllm_model_open(run, g, &model)) && T_OK(tllm_state_open(run, model, &sd, &state)))
        T_OK(tllm_forward(state, token, 8, 0, 0, NULL));
    T_OK(tllm_watch_status(watch));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++)
        for (mat = 0; mat < (tiny_idx)tllm_gguf_tensor_at(g, i)->dim[2]; mat++) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
            const tllm_calib *c = tllm_watch_of(watch, t, mat);
            const float *x;
            const tiny_idx rows = c ? tllm_calib_samples(c, &x) : 0, n = c ? tllm_calib_n(c) : 0;
            for (k = 0; k < rows; k++) {
                const int found = different(x + k * n, n);
                if (!T_TRUE(bits ? found <= 1 << bits : found > n / 2))
                    printf("  %s: %.*s reads %d different numbers\n", what, (int)t->name.n, t->name.at, found);
            }
            n_seen += rows > 0;
        }
    T_TRUE(n_seen >= 8);
    tllm_state_close(run, state);
    tllm_model_close(run, model);
    tiny_ctx_close(run);
    tllm_watch_close(watch);
    t_close(ctx);
}
static void test_inputs(void)
{
    static const char *const name[] = { "examples/models/story-small.gguf", "oracle/llm/mixtral.gguf",
                                        "oracle/llm/phi3.gguf" };
    tllm_rotated_desc d;
    size_t i;
    memset(&d, 0, sizeof d);
    d.online = TLLM_ROTATE_ALL;
    for (i = 0; i < T_COUNT(name); i++) {
        const char *path = i ? t_one_of(name[i]) : name[i];
        tiny_ctx *ctx;
        tllm_gguf *g = NULL;
        made m;
        if (!path) continue;
        ctx = t_ctx(TINY_TARGET_AUTO, 1);
        if (T_OK(tllm_gguf_open(ctx, path, &g)) && rotated(ctx, g, &d, &m)) {
            watch_inputs(g, 3, name[i]);
            watch_inputs(m.file, 3, "the same, rotated");
            watch_inputs(m.file, 0, "rotated, as it is");
            t_use(ctx);
            drop(ctx, &m);
        }
        tllm_gguf_close(ctx, g);
        t_close(ctx);
    }
}

/* each query head has a value head of its own there: values to output were a fold, until heads are rotated in
 * between */
static void test_folds_after_rotation(void)
{
    const char *path = t_shared("oracle/llm/phi3.gguf");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_rotated_desc d;
    int online;
    if (!path) { t_close(ctx); return; }
    memset(&d, 0, sizeof d);
    T_OK(tllm_gguf_open(ctx, path, &g));
    for (online = 0; online < 2; online++) {
        made m;
        tllm_folds *f = NULL;
        d.online = online ? TLLM_ROTATE_HEADS : 0;
        if (!rotated(ctx, g, &d, &m)) break;
        if (T_OK(tllm_folds_open(ctx, m.file, &f))) {
            const char *why = tllm_fold_why(f, 1, TLLM_FOLD_VALUE);
            T_TRUE(online ? why && strstr(why, "heads are rotated between values and output") : !why);
            T_TRUE(tllm_fold_why(f, 1, TLLM_FOLD_DOWN) == NULL);
        }
        tllm_folds_close(ctx, f);
        drop(ctx, &m);
    }
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* layers whose norms come after the sums have no inputs that could be rounded by the token */
static void test_bits_refused(void)
{
    const char *path = t_shared("oracle/llm/bert.gguf");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc d;
    memset(&d, 0, sizeof d);
    d.n_ctx = 16;
    d.x_bits = 4;
    if (path && T_OK(tllm_gguf_open(ctx, path, &g)) && T_OK(tllm_model_open(ctx, g, &model)))
        T_STATUS(tllm_state_open(ctx, model, &d, &state), TINY_E_UNSUPPORTED,
                 "layer 0 is not attention and a network, each after a norm");
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static int stop_now(void *user) { (void)user; return 1; }

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *stopped = NULL;
    tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_rotated *r = NULL;
    tllm_rotated_desc d;
    tllm_model *model = NULL, *other = NULL;
    tllm_state *state = NULL, *from = NULL;
    tllm_state_desc sd;
    tllm_writer *w = NULL;
    tllm_folds *folds = NULL;
    made m, plain;
    void *bytes = NULL;
    size_t n_bytes = 0;
    int32_t token[6] = { 1, 5, 9, 4, 7, 3 };
    T_OK(tllm_gguf_open(ctx, "examples/models/story.gguf", &g));
    memset(&d, 0, sizeof d);
    memset(&sd, 0, sizeof sd);
    T_STATUS(tllm_rotated_open(NULL, g, &d, &r), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_rotated_open(ctx, NULL, &d, &r), TINY_E_ARGUMENT, "a file and a result pointer");
    T_STATUS(tllm_rotated_open(ctx, g, &d, NULL), TINY_E_ARGUMENT, "a file and a result pointer");
    d.q = (const float *)(const void *)token;
    d.axes = 1;
    T_STATUS(tllm_rotated_open(ctx, g, &d, &r), TINY_E_ARGUMENT, "use one of them");
    d.q = NULL;
    d.axes = 0;
    d.online = 8;
    T_STATUS(tllm_rotated_open(ctx, g, &d, &r), TINY_E_ARGUMENT, "online is 8");
    d.online = TLLM_ROTATE_ALL;
    d.format = 9999;
    T_STATUS(tllm_rotated_open(ctx, g, &d, &r), TINY_E_ARGUMENT, "format 9999");
    d.format = 0;
    T_STATUS(tllm_rotated_put(ctx, NULL, NULL), TINY_E_ARGUMENT, "a rotated model and a writer");
    T_TRUE(tllm_rotated_what(NULL).tensors == 0);
    tllm_rotated_close(ctx, NULL);
    if (!rotated(ctx, g, &d, &m)) return;
    d.online = TLLM_ROTATE_FEED | TLLM_ROTATE_HEADS;         /* the same tensors, and other keys */
    if (!rotated(ctx, g, &d, &plain)) return;
    T_OK(tllm_folds_open(ctx, m.file, &folds));     /* a rotation in between lets no factor through */
    T_TRUE(strstr(tllm_fold_why(folds, 0, TLLM_FOLD_DOWN), "networks are rotated between") != NULL);
    T_TRUE(tllm_fold_why(folds, 0, TLLM_FOLD_MIX) == NULL);
    tllm_folds_close(ctx, folds);
    T_STATUS(tllm_rotated_open(ctx, m.file, &d, &r), TINY_E_UNSUPPORTED, "it already has rotations while it runs");
    d.online = 0;
    T_OK(tllm_model_open(ctx, m.file, &model));
    T_STATUS(tllm_model_cut(ctx, model, 0, 2), TINY_E_UNSUPPORTED, "cannot be cut");
    T_STATUS(tllm_model_sparse(ctx, model, -1, NULL), TINY_E_UNSUPPORTED, "its networks are rotated");
    sd.x_bits = 1;
    T_STATUS(tllm_state_open(ctx, model, &sd, &state), TINY_E_ARGUMENT, "inputs of 1 bits");
    sd.x_bits = 4;
    sd.x_clip = 2.0f;
    T_STATUS(tllm_state_open(ctx, model, &sd, &state), TINY_E_ARGUMENT, "a clip of 2");
    memset(&sd, 0, sizeof sd);
    T_OK(tllm_state_open(ctx, model, &sd, &state));
    T_OK(tllm_forward(state, token, 6, 0, 0, NULL));
    T_STATUS(tllm_seq_shift(state, 0, 1, 2), TINY_E_UNSUPPORTED, "keys are rotated once more");
    T_OK(tllm_state_pack(state, 0, NULL, 0, &bytes, &n_bytes));
    T_OK(tllm_model_open(ctx, plain.file, &other));
    T_OK(tllm_state_open(ctx, other, &sd, &from));
    /* one stores another cache than the other reads */
    T_TRUE(tllm_state_unpack(from, 0, bytes, n_bytes, NULL, 0, NULL) != TINY_OK);
    T_OK(tllm_state_unpack(state, 0, bytes, n_bytes, NULL, 0, NULL));
    tiny_free(ctx, bytes);
    tllm_state_close(ctx, from);
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, other);
    tllm_model_close(ctx, model);
    drop(ctx, &plain);
    drop(ctx, &m);
    cd.cancel = stop_now;
    T_OK(tiny_ctx_open(&cd, &stopped));
    t_use(stopped);
    T_OK(tllm_rotated_open(stopped, g, &d, &r));
    T_OK(tllm_writer_open(stopped, NULL, &w));
    T_STATUS(tllm_rotated_put(stopped, r, w), TINY_E_CANCELLED, "rotate: the cancel callback asked to stop");
    tllm_writer_close(stopped, w);
    tllm_rotated_close(stopped, r);
    t_close(stopped);
    t_use(ctx);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_memory(void)
{
    const char *path = t_shared("oracle/llm/llama.gguf");
    if (!path) return;
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        tllm_rotated_desc d;
        tiny_ctx *ctx = NULL;
        tllm_gguf *g = NULL;
        tllm_rotated *r = NULL;
        tllm_writer *w = NULL;
        tiny_status st = tiny_ctx_open(&cd, &ctx);
        memset(&d, 0, sizeof d);
        d.online = TLLM_ROTATE_ALL;
        if (!st) st = tllm_gguf_open(ctx, path, &g);
        if (!st) st = tllm_rotated_open(ctx, g, &d, &r);
        if (!st) st = tllm_writer_open(ctx, NULL, &w);
        if (!st) st = tllm_rotated_put(ctx, r, w);
        if (!st) st = tllm_writer_finish(ctx, w);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        tllm_writer_close(ctx, w);
        tllm_rotated_close(ctx, r);
        tllm_gguf_close(ctx, g);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN(test_models);
    T_RUN(test_by_hand);
    T_RUN_TARGETS(test_round);
    T_RUN(test_outliers);
    T_RUN(test_signs);
    T_RUN(test_four_bits);
    T_RUN(test_inputs);
    T_RUN(test_folds_after_rotation);
    T_RUN(test_bits_refused);
    T_RUN(test_refused);
    T_RUN(test_memory);
    return t_done();
}
