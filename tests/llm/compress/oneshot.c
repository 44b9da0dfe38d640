/* tests/llm/compress/oneshot.c - one-shot pruning: the numbers of numpy, and the order of three ways on a model
 *
 * Truth    tests/golden/oneshot.tsv, by numpy in double from the papers' formulas (tests/golden/make/oneshot.py);
 *          matrices worked by hand; divergences of story-small */
#include "llm/model/apart.h"
#include "llm/compress/divergence.h"
#include <math.h>

static const char small[] = "examples/models/story-small.gguf";
enum { R = 12, N = 40, T = 300 };

static void congruence(uint32_t seed, float *x, int n)
{
    int i;
    for (i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        x[i] = (float)((int)(seed >> 16) - 32768) / 32768.0f;
    }
}

/* products of 300 inputs with a common part, both triangles */
static void inputs(double *h)
{
    static float x[T * N], common[T];
    int t, i, j;
    congruence(21, x, T * N);
    congruence(22, common, T);
    for (t = 0; t < T * N; t++) x[t] = (float)(((double)x[t] + (double)common[t / N]) * (1 + t % N % 5));
    memset(h, 0, N * N * sizeof *h);
    for (t = 0; t < T; t++)
        for (i = 0; i < N; i++)
            for (j = 0; j < N; j++) h[i * N + j] += (double)x[t * N + i] * (double)x[t * N + j];
}

/* numbers of the line "kind\tway\tpattern\t..." */
static int golden(const char *kind, const char *way, const char *pattern, double *x, int most)
{
    static char line[4096];
    FILE *in = fopen("tests/golden/oneshot.tsv", "r");
    char want[80];
    int n = 0;
    (void)snprintf(want, sizeof want, "%s\t%s\t%s\t", kind, way, pattern);
    while (in && !n && fgets(line, sizeof line, in)) {
        char *at = line, *end;
        if (strncmp(line, want, strlen(want))) continue;
        for (at += strlen(want); n < most; at = end) {
            x[n] = strtod(at, &end);
            if (end == at) break;
            n++;
        }
    }
    if (in) (void)fclose(in);
    return n;
}

static void test_golden(tiny_target target)
{
    static const char *const way[] = { "magnitude", "wanda", "sparsegpt" };
    static const struct { const char *name; double share; int zeros, of; } how[] = {
        { "0.5", 0.5, 0, 0 }, { "0.7", 0.7, 0, 0 }, { "2:4", 0, 2, 4 }, { "5:8", 0, 5, 8 }
    };
    static double h[N * N];
    tiny_ctx *ctx = t_ctx(target, 2), *plain = t_ctx(TINY_TARGET_REFERENCE, 1);
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, N, N);
    int k, p, i, r, run;
    inputs(h);
    for (run = 0; run < 2; run++)
        for (k = 0; k < TLLM_ONESHOT_WAYS; k++)
            for (p = 0; p < 4; p++) {
                tllm_oneshot_desc d;
                tllm_oneshot_about a;
                float *w = t_guarded(R * N);
                double want[2], row[N];
                memset(&d, 0, sizeof d);
                d.by = k;
                d.share = how[p].share;
                d.zeros = how[p].zeros;
                d.of = how[p].of;
                d.block = 16;               /* as in the script: blocks of 16, 16 and 8 columns */
                congruence(23, w, R * N);
                t_use(run ? ctx : plain);
                if (!T_OK(tllm_oneshot(run ? ctx : plain, &d, w, R, N, &th, &a))) continue;
                T_WALLS(w, R * N);
                if (!T_EQ_INT(golden("loss", way[k], how[p].name, want, 2), 2)) continue;
                T_EQ_INT(a.zeros, (int)want[1]);
                T_EQ_INT(a.numbers, R * N);
                if (!T_CLOSE(a.loss, want[0], 1e-5 * want[0])) printf("  %s, %s\n", way[k], how[p].name);
                T_EQ_INT(golden("row", way[k], how[p].name, row, N), N);
                for (i = 0; i < N; i++) T_CLOSE(w[(R - 1) * N + i], row[i], 1e-5);
                for (r = 0; r < R && d.of; r++)
                    for (i = 0; i < N; i++) {
                        static int zeros;
                        if (i % d.of == 0) zeros = 0;
                        zeros += w[r * N + i] == 0.0f;
                        if (i % d.of == d.of - 1) T_EQ_INT(zeros, d.zeros);
                    }
                t_free_blocks();
            }
    t_use(plain);
    t_close(plain);
    t_use(ctx);
    t_close(ctx);
}

/* rows and shares worked by hand; inputs that depend on each other in pairs */
static void test_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    /* the second input is the first: what is deleted there can be had here */
    float h[16] = { 4, 4, 0, 0, 4, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0 };
    float w[4] = { 1, 0.5f, 0.9f, 7 }, v[8] = { 1, -2, 3, -4, 5, -6, 7, -8 };
    tiny_tensor th = tiny_tensor_2d(h, TINY_F32, 4, 4);
    tllm_oneshot_desc d;
    tllm_oneshot_about a;
    memset(&d, 0, sizeof d);
    d.by = TLLM_ONESHOT_SPARSEGPT;
    d.damp = 1e-6f;
    T_OK(tllm_oneshot(ctx, &d, w, 1, 4, &th, &a));
    /* one of the pair goes, its output is in the other; and the dead input */
    T_TRUE(w[0] == 0.0f && w[3] == 0.0f && a.zeros == 2);
    T_CLOSE(w[1], 1.5, 1e-4);
    T_CLOSE(w[2], 0.9, 1e-6);
    T_CLOSE(a.loss, 0, 1e-6);
    memset(&d, 0, sizeof d);
    T_OK(tllm_oneshot(ctx, NULL, v, 2, 4, NULL, &a));       /* half of the matrix, not of each row */
    T_TRUE(v[0] == 0 && v[3] == 0 && v[4] == 5 && v[7] == -8 && a.zeros == 4 && a.loss == 0.0);
    t_close(ctx);
}

/* the model with its pruned matrices, in floats */
static int pruned(tiny_ctx *ctx, const tllm_gguf *g, const tllm_oneshot_desc *d, const int32_t *token, int n, made *m)
{
    const size_t n_all = tllm_gguf_n_tensors(g);
    tllm_oneshot_tensor *list = (tllm_oneshot_tensor *)calloc(n_all, sizeof *list);
    size_t i, k, n_list = 0;
    int ok;
    memset(m, 0, sizeof *m);
    for (i = 0; i < n_all; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        if (!is_matrix(t)) continue;
        list[n_list].t = t;
        list[n_list++].to = (float *)malloc((size_t)(t->dim[0] * t->dim[1]) * sizeof(float));
    }
    ok = T_OK(tllm_oneshot_model(ctx, g, d, token, n, list, n_list)) && T_OK(tllm_writer_open(ctx, NULL, &m->w));
    for (i = 0; ok && i < tllm_gguf_n_meta(g); i++) T_OK(tllm_writer_put_meta(ctx, m->w, tllm_gguf_meta_at(g, i)));
    for (i = k = 0; ok && i < n_all; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        T_OK(tllm_writer_put_tensor(ctx, m->w, t->name, is_matrix(t) ? TLLM_FORMAT_F32 : t->type, t->rank, t->dim,
                                    is_matrix(t) ? (const void *)list[k].to : (const void *)t->data));
        if (!is_matrix(t)) continue;
        T_TRUE(list[k].found);
        T_EQ_INT(list[k].about.numbers, (uint64_t)(t->dim[0] * t->dim[1]));
        T_EQ_INT(list[k].about.zeros, (uint64_t)(t->dim[0] * t->dim[1] / 2));
        k++;
    }
    ok = ok && made_end(ctx, m);
    for (k = 0; k < n_list; k++) free(list[k].to);
    free(list);
    return ok;
}

static void test_models(void)
{
    enum { TEXT = 8192 };
    static int32_t token[TEXT];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    tllm_gguf *g = NULL;
    double kl[2][TLLM_ONESHOT_WAYS];
    int k, by;
    stories(token, TEXT, 4);
    if (!T_OK(tllm_gguf_open(ctx, small, &g))) return;
    for (k = 0; k < 2; k++) {
        for (by = 0; by < TLLM_ONESHOT_WAYS; by++) {
            tllm_oneshot_desc d;
            made m;
            memset(&d, 0, sizeof d);
            d.by = by;
            d.zeros = k ? 2 : 0;
            d.of = k ? 4 : 0;
            if (!pruned(ctx, g, &d, token, TEXT, &m)) return;
            kl[k][by] = divergence(ctx, g, m.file);
            drop(ctx, &m);
        }
        printf("  story-small, half of the weights %s: divergence by magnitude %.4f, Wanda %.4f, SparseGPT %.4f\n",
               k ? "in 2:4" : "zero", kl[k][0], kl[k][1], kl[k][2]);
        /* Wanda is not ahead of magnitude on a model without outlier channels */
        T_TRUE(kl[k][TLLM_ONESHOT_SPARSEGPT] < kl[k][TLLM_ONESHOT_MAGNITUDE]);
        T_TRUE(kl[k][TLLM_ONESHOT_SPARSEGPT] < kl[k][TLLM_ONESHOT_WANDA]);
    }
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_refused(void)
{
    static double h[N * N];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, N, N), wrong = tiny_tensor_2d(h, TINY_F64, N - 1, N - 1);
    float *w = t_guarded(R * N);
    int32_t token[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    tllm_oneshot_desc d;
    tllm_oneshot_tensor one;
    tllm_gguf *g = NULL;
    inputs(h);
    congruence(23, w, R * N);
    memset(&d, 0, sizeof d);
    memset(&one, 0, sizeof one);
    T_STATUS(tllm_oneshot(NULL, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_oneshot(ctx, &d, NULL, R, N, &th, NULL), TINY_E_ARGUMENT, "a matrix of 12 rows of 40 numbers");
    T_STATUS(tllm_oneshot(ctx, &d, w, 0, N, &th, NULL), TINY_E_ARGUMENT, "a matrix of 0 rows");
    d.by = TLLM_ONESHOT_WANDA;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, NULL, NULL), TINY_E_ARGUMENT, "the products of the inputs are NULL");
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &wrong, NULL), TINY_E_SHAPE, "for 40 inputs");
    d.by = 3;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, "way 3");
    d.by = 0;
    d.share = 1.0;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, "a share of 1");
    d.share = NAN;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, "a share of nan");
    d.share = 0;
    d.zeros = 4;
    d.of = 4;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, "4 zeros of 4 neighbours");
    d.of = 0;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, "4 zeros of 0 neighbours");
    d.of = 300;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, "4 zeros of 300 neighbours");
    d.of = 7;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, "not whole groups of 7");
    d.zeros = d.of = 0;
    d.damp = -1;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_ARGUMENT, "damping by -1");
    d.damp = 0;
    w[45] = INFINITY;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_NUMERIC, "row 1, input 5 is inf");
    w[45] = 0;
    h[5 * N + 5] = -1;
    d.by = TLLM_ONESHOT_SPARSEGPT;
    T_STATUS(tllm_oneshot(ctx, &d, w, R, N, &th, NULL), TINY_E_NUMERIC, "-1 on its diagonal at input 5");
    T_OK(tllm_gguf_open(ctx, small, &g));
    T_STATUS(tllm_oneshot_model(ctx, g, &d, token, 8, &one, 0), TINY_E_ARGUMENT, "at least one tensor");
    T_STATUS(tllm_oneshot_model(ctx, g, &d, token, 8, &one, 1), TINY_E_ARGUMENT, "entry 0 of the list");
    one.t = tllm_gguf_tensor_find(g, "blk.0.attn_norm.weight");
    one.to = w;
    T_STATUS(tllm_oneshot_model(ctx, g, &d, token, 8, &one, 1), TINY_E_ARGUMENT, "is not a readable matrix");
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_memory(void)
{
    static double h[N * N];
    static float w[R * N];
    inputs(h);
    T_EACH_ALLOCATION(
        tiny_ctx_desc cd = t_desc(TINY_TARGET_AUTO, 1);
        const tiny_tensor th = tiny_tensor_2d(h, TINY_F64, N, N);
        tllm_oneshot_about a;
        tllm_oneshot_desc d;
        tiny_ctx *ctx = NULL;
        int by;
        tiny_status st = tiny_ctx_open(&cd, &ctx);
        memset(&d, 0, sizeof d);
        congruence(23, w, R * N);
        for (by = 0; by < TLLM_ONESHOT_WAYS && !st; by++) {
            d.by = by;
            st = tllm_oneshot(ctx, &d, w, R, N, &th, &a);
        }
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN_TARGETS(test_golden);
    T_RUN(test_by_hand);
    T_RUN(test_models);
    T_RUN(test_refused);
    T_RUN(test_memory);
    return t_done();
}
