/* tests/llm/round/fold.c - folds: a model scaled inside stays the same function
 *
 * Truth    logits of the same model without a fold, in floats, over all models of the large oracle; the expected
 *          weights of a producer and its consumers, computed here from the file; the list of a few architectures,
 *          written by hand from their descriptions */
#include "llm/model/apart.h"
#include <math.h>

/* all folds at once, by factors from 1/4 to 4; and then the gains of norms into their consumers */
static void compare(tiny_ctx *ctx, tllm_folds *f, const char *name, int *gains)
{
    made before, after;
    float *a, *b;
    size_t n = 0, i;
    int way;
    if (!make(ctx, f, &before)) return;
    a = results(ctx, before.file, &n);
    for (way = 0; a && way < 2; way++) {
        double off;
        for (i = 0; i < tllm_folds_n(f); i++) {
            const tllm_fold *fold = tllm_fold_at(f, i);
            if (way == 0) {
                float *s = t_rand((size_t)fold->n, -2, 2);
                tiny_idx k;
                for (k = 0; k < fold->n; k++) s[k] = (float)exp2((double)s[k]);
                T_OK(tllm_fold_scale(ctx, f, i, s));
            } else if (!fold->from_norm) T_STATUS(tllm_fold_gain(ctx, f, i), TINY_E_ARGUMENT, "is not a norm");
            else if (fold->n_from > 1)
                T_STATUS(tllm_fold_gain(ctx, f, i), TINY_E_UNSUPPORTED, "is added after the gain");
            else {
                float *g = t_guarded((size_t)fold->n);
                tiny_idx k;
                T_OK(tllm_fold_gain(ctx, f, i));
                T_OK(tllm_folds_floats(ctx, f, fold->from[0].t, 0, fold->n, g));
                for (k = 0; k < fold->n; k++) T_TRUE(g[k] == 1.0f);
                ++*gains;
            }
        }
        if (!make(ctx, f, &after)) break;
        b = results(ctx, after.file, &n);
        off = b ? apart(a, b, n) : 1;
        if (!T_TRUE(off <= 1e-5)) printf("  %s, way %d: %.3g apart\n", name, way, off);
        if (getenv("T_SAY")) printf("%-20s way %d: %d folds, %.3g apart\n", name, way, (int)tllm_folds_n(f), off);
        drop(ctx, &after);
    }
    drop(ctx, &before);
}

typedef struct tally { int refused, folds, gains; } tally;
static void one_model(tiny_ctx *ctx, const tllm_gguf *g, const char *name, void *arg)
{
    tally *t = (tally *)arg;
    tllm_folds *f = NULL;
    const tiny_status st = tllm_folds_open(ctx, g, &f);
    if (st) {
        T_EQ_INT(st, TINY_E_UNSUPPORTED);
        T_TRUE(f == NULL && strstr(tiny_ctx_message(ctx), "folds are not supported") != NULL);
        T_TRUE(!strncmp(name, "t5", 2) || !strncmp(name, "rwkv", 4) || !strcmp(name, "gemma3n") ||
               !strncmp(name, "nanbeige", 8));
        t->refused++;
    } else {
        t->folds += (int)tllm_folds_n(f);
        compare(ctx, f, name, &t->gains);
    }
    tllm_folds_close(ctx, f);
}

static void test_models(void)
{
    tally t = { 0, 0, 0 };
    const int n_models = each_model(one_model, &t);
    if (!n_models) return;
    printf("  models: %d, of which %d are refused; %d folds, %d gains\n", n_models, t.refused, t.folds, t.gains);
    T_TRUE(n_models - t.refused >= 3 && t.folds >= 20 && t.gains >= 6);
    T_PROOF("quantization 0", "folds leave the float model unchanged (<=1e-5 relative)");
}

/* which folds: letters of the kinds in each layer, M V F D, and O at the end; n: of several experts */
static const char *list_of(tiny_ctx *ctx, const char *name, char text[400])
{
    static const char letter[] = "MVFDO";
    char path[120];
    const char *at;
    tllm_gguf *g = NULL;
    tllm_folds *f = NULL;
    size_t i, k = 0;
    tiny_idx layer = 0;
    text[0] = 0;
    (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", name);
    at = t_one_of(path);
    if (!at) return NULL;
    T_OK(tllm_gguf_open(ctx, at, &g));
    if (T_OK(tllm_folds_open(ctx, g, &f)))
        for (i = 0; i < tllm_folds_n(f) && k < 390; i++) {
            const tllm_fold *fold = tllm_fold_at(f, i);
            T_TRUE(tllm_fold_why(f, fold->layer, fold->kind) == NULL);
            if (fold->layer != layer) text[k++] = ' ';
            layer = fold->layer;
            text[k++] = letter[fold->kind];
        }
    text[k] = 0;
    tllm_folds_close(ctx, f);
    tllm_gguf_close(ctx, g);
    return text;
}
static void test_lists(void)
{
    /* by hand, from the architecture of each: grouped heads have no V, networks without a gate no D, post norms no
     * M and F, tied outputs no O */
    static const struct { const char *name, *folds;
    } want[] = { { "llama", "MFD MFD O" }, /* grouped heads */
                 { "qwen2", "MFD MFD O" },
                 { "gemma", "MFD MFD" },
                 { "phi3", "MVFD MVFD O" },
                 { "gpt2", "MVF MVF" },
                 { "phi2", "MV MV O" },
                 { "olmo2", "D D O" },
                 { "bert", "V V" },
                 { "jina-bert-v2", "VD VD" },
                 { "mixtral", "MFDDDD MFDDDD O" },
                 { "falcon-40b", "MF MF O" },
                 { "bitnet", "MVFD MVFD" },
                 { "arcee", "MF MF" },
                 { "gpt-oss-b", "MF MF O" },
                 { "mamba", "" },
                 { "deepseek2", "FD FDDDDD O" } };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    char text[400];
    size_t i;
    int n = 0;
    for (i = 0; i < T_COUNT(want); i++) {
        const char *got = list_of(ctx, want[i].name, text);
        if (got && strcmp(got, want[i].folds))
            t_fail(__FILE__, __LINE__, "%s has the folds \"%s\", not \"%s\"", want[i].name, got, want[i].folds);
        n += got != NULL;
    }
    T_SOME(n);
    t_close(ctx);
}

/* by hand, from the file: columns, rows, biases; and two scalings one after the other */
static void numbers_of(const char *path)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_folds *f = NULL;
    size_t i;
    if (!path) { t_close(ctx); return; }
    T_OK(tllm_gguf_open(ctx, path, &g));
    T_OK(tllm_folds_open(ctx, g, &f));
    for (i = 0; i < tllm_folds_n(f); i++) {
        const tllm_fold *fold = tllm_fold_at(f, i);
        float *s = t_rand((size_t)fold->n, 0.5f, 2), *again = t_rand((size_t)fold->n, 0.5f, 2);
        T_OK(tllm_fold_scale(ctx, f, i, s));
        T_OK(tllm_fold_scale(ctx, f, i, again));
        if (fold->kind == TLLM_FOLD_MIX && fold->layer == 1) {
            static const char *const reads[] = { "blk.1.attn_q.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight" };
            const tllm_gguf_tensor *norm = tllm_gguf_tensor_find(g, "blk.1.attn_norm.weight");
            float *now = t_guarded((size_t)fold->n);
            const float *was = (const float *)(const void *)norm->data;
            tiny_idx k, r;
            int t;
            T_TRUE(fold->from[0].t == norm && fold->n_from == 1 && fold->n_to == 3 && fold->from_norm);
            T_OK(tllm_folds_floats(ctx, f, norm, 0, fold->n, now));
            for (k = 0; k < fold->n; k++)
                T_CLOSE(now[k], (double)was[k] / ((double)s[k] * (double)again[k]), 1e-7 * fabs((double)now[k]));
            for (t = 0; t < 3; t++) {
                const tllm_gguf_tensor *w = fold->to[t].t;
                const double *column = tllm_folds_columns(f, w, 0);
                T_TRUE(tllm_text_is(w->name, reads[t]) && tllm_folds_touch(f, w));
                was = (const float *)(const void *)w->data;
                for (r = 0; r < (tiny_idx)w->dim[1]; r += 5) {
                    T_OK(tllm_folds_floats(ctx, f, w, r, 1, now));
                    for (k = 0; k < fold->n; k++)
                        T_CLOSE(now[k], (double)was[r * fold->n + k] * (double)s[k] * (double)again[k],
                                1e-7 * fabs((double)now[k]));
                }
                for (k = 0; k < fold->n; k++) T_CLOSE(column[k], (double)s[k] * (double)again[k], 1e-12);
                T_TRUE(tllm_folds_columns(f, w, 1) == NULL && tllm_folds_columns(f, w, -1) == NULL);
            }
        }
    }
    T_TRUE(!tllm_folds_touch(f, tllm_gguf_tensor_find(g, "token_embd.weight")) && tllm_folds_file(f) == g);
    T_TRUE(strstr(tllm_fold_why(f, 0, TLLM_FOLD_VALUE), "several heads share a value head") != NULL);
    T_TRUE(strstr(tllm_fold_why(f, 0, TLLM_FOLD_OUTPUT), "belongs to no layer") != NULL &&
           strstr(tllm_fold_why(f, 99, 0), "no such layer") != NULL);
    tllm_folds_close(ctx, f);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_numbers(void)
{
    numbers_of(t_shared("oracle/llm/llama.gguf"));
    numbers_of(t_one_of("oracle/llm/qwen2.gguf"));      /* with biases */
}

/* a gain of 0 takes its columns with it: nothing is divided by it */
static void test_zero_gain(void)
{
    const char *path = t_shared("oracle/llm/llama.gguf");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    unsigned char *bytes;
    long n = 0;
    tllm_gguf *g = NULL;
    tllm_folds *f = NULL;
    made before, after;
    float *a, *b, *s;
    size_t numbers, k, off;
    FILE *in = path ? fopen(path, "rb") : NULL;
    if (!in) { t_close(ctx); return; }
    (void)fseek(in, 0, SEEK_END);
    n = ftell(in);
    rewind(in);
    bytes = (unsigned char *)t_keep((size_t)n);
    T_EQ_INT(fread(bytes, 1, (size_t)n, in), n);
    (void)fclose(in);
    T_OK(tllm_gguf_open_memory(ctx, bytes, (size_t)n, &g));
    off = (size_t)(tllm_gguf_tensor_find(g, "blk.0.ffn_norm.weight")->data - bytes);
    memset(bytes + off + 12, 0, 4);
    T_OK(tllm_folds_open(ctx, g, &f));
    T_TRUE(make(ctx, f, &before));
    a = results(ctx, before.file, &numbers);
    for (k = 0; k < tllm_folds_n(f); k++) {
        s = t_rand((size_t)tllm_fold_at(f, k)->n, 0.5f, 2);
        T_OK(tllm_fold_scale(ctx, f, k, s));
        if (tllm_fold_at(f, k)->from_norm) T_OK(tllm_fold_gain(ctx, f, k));
    }
    T_TRUE(tllm_folds_columns(f, tllm_gguf_tensor_find(g, "blk.0.ffn_up.weight"), 0)[3] == 0.0);
    T_TRUE(make(ctx, f, &after));
    b = results(ctx, after.file, &numbers);
    T_TRUE(apart(a, b, numbers) <= 1e-5);
    drop(ctx, &after);
    drop(ctx, &before);
    tllm_folds_close(ctx, f);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

/* Some files give a norm a second axis of length 1. It is a vector all the same, the first one of the file too: factors
 * go in, and logits stay. */
static void test_norms_of_two_axes(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_folds *f = NULL;
    made wide, before, after;
    float *a, *b;
    size_t numbers = 0, i, k;
    int norms = 0;
    memset(&wide, 0, sizeof wide);
    if (!T_OK(tllm_gguf_open(ctx, "examples/models/story.gguf", &g)) || !T_OK(tllm_writer_open(ctx, NULL, &wide.w))) {
        t_close(ctx);
        return;
    }
    for (i = 0; i < tllm_gguf_n_meta(g); i++) T_OK(tllm_writer_put_meta(ctx, wide.w, tllm_gguf_meta_at(g, i)));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        norms += t->rank == 1;
        /* dim continues with ones */
        T_OK(tllm_writer_put_tensor(ctx, wide.w, t->name, t->type, t->rank == 1 ? 2 : t->rank, t->dim, t->data));
    }
    T_TRUE(norms > 2);
    if (made_end(ctx, &wide) && T_OK(tllm_folds_open(ctx, wide.file, &f))) {
        T_TRUE(make(ctx, f, &before));
        a = results(ctx, before.file, &numbers);
        for (k = 0; k < tllm_folds_n(f); k++) {
            const tllm_fold *fold = tllm_fold_at(f, k);
            T_OK(tllm_fold_scale(ctx, f, k, t_rand((size_t)fold->n, 0.5f, 2)));
            T_TRUE(!fold->from_norm || fold->from[0].vector);
        }
        T_TRUE(make(ctx, f, &after));
        b = results(ctx, after.file, &numbers);
        if (T_TRUE(a && b)) T_TRUE(apart(a, b, numbers) <= 1e-5);
        drop(ctx, &after);
        drop(ctx, &before);
    }
    tllm_folds_close(ctx, f);
    drop(ctx, &wide);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static int stop_now(void *user) { (void)user; return 1; }
static void test_refused(void)
{
    const char *path = t_shared("oracle/llm/llama.gguf");
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *stopped = NULL;
    tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_folds *f = NULL;
    tllm_writer *w = NULL;
    const tllm_gguf_tensor *norm;
    float *s, *x;
    if (!path) { t_close(ctx); return; }
    T_OK(tllm_gguf_open(ctx, path, &g));
    T_STATUS(tllm_folds_open(NULL, g, &f), TINY_E_ARGUMENT, NULL);
    T_STATUS(tllm_folds_open(ctx, NULL, &f), TINY_E_ARGUMENT, "a file and a result pointer");
    T_STATUS(tllm_folds_open(ctx, g, NULL), TINY_E_ARGUMENT, "a file and a result pointer");
    T_OK(tllm_folds_open(ctx, g, &f));
    s = t_rand((size_t)tllm_fold_at(f, 0)->n, 1, 2);
    x = t_guarded((size_t)tllm_fold_at(f, 0)->n);
    norm = tllm_fold_at(f, 0)->from[0].t;
    T_STATUS(tllm_fold_scale(ctx, NULL, 0, s), TINY_E_ARGUMENT, "the folds are NULL or closed");
    T_STATUS(tllm_fold_scale(ctx, f, 999, s), TINY_E_ARGUMENT, "index 999 is outside the list of");
    T_STATUS(tllm_fold_scale(ctx, f, 0, NULL), TINY_E_ARGUMENT, "the factors are NULL");
    s[3] = 0.0f;
    T_STATUS(tllm_fold_scale(ctx, f, 0, s), TINY_E_NUMERIC,
             "the factor of channel 3 of blk.0.attn_norm.weight is 0; it must be above 0");
    s[3] = -1.0f;
    T_STATUS(tllm_fold_scale(ctx, f, 0, s), TINY_E_NUMERIC, "is -1");
    s[3] = NAN;
    T_STATUS(tllm_fold_scale(ctx, f, 0, s), TINY_E_NUMERIC, "is nan");
    s[3] = INFINITY;
    T_STATUS(tllm_fold_scale(ctx, f, 0, s), TINY_E_NUMERIC, "is inf");
    T_TRUE(!tllm_folds_touch(f, norm));                     /* none was taken */
    /* a factor that makes its gain overflow or vanish is reported when it is read */
    s[3] = 1e-38f;
    T_OK(tllm_fold_scale(ctx, f, 0, s));
    s[3] = 1e-10f;
    T_OK(tllm_fold_scale(ctx, f, 0, s));
    T_STATUS(tllm_folds_floats(ctx, f, norm, 0, (tiny_idx)norm->dim[0], x), TINY_E_NUMERIC,
             "row 3 of blk.0.attn_norm.weight has numbers that overflow");
    T_STATUS(tllm_folds_floats(ctx, f, norm, 1, 3, x), TINY_E_ARGUMENT, "only be read as a whole");
    T_STATUS(tllm_folds_floats(ctx, f, norm, 0, 1000, x), TINY_E_ARGUMENT,
             "1000 rows from row 0 on, but blk.0.attn_norm.weight has");
    T_STATUS(tllm_folds_floats(ctx, f, NULL, 0, 1, x), TINY_E_ARGUMENT, "a tensor of the file");
    T_OK(tllm_writer_open(ctx, NULL, &w));
    T_STATUS(tllm_folds_put(ctx, f, w, NULL), TINY_E_NUMERIC, "overflow with their factors");
    tllm_writer_close(ctx, w);
    T_STATUS(tllm_folds_put(ctx, f, NULL, NULL), TINY_E_ARGUMENT, "folds and a writer");
    tllm_folds_close(ctx, f);
    d.cancel = stop_now;
    T_OK(tiny_ctx_open(&d, &stopped));
    t_use(stopped);
    T_OK(tllm_folds_open(stopped, g, &f));
    T_OK(tllm_writer_open(stopped, NULL, &w));
    T_STATUS(tllm_folds_put(stopped, f, w, NULL), TINY_E_CANCELLED, "fold: the cancel callback asked to stop");
    tllm_writer_close(stopped, w);
    tllm_folds_close(stopped, f);
    tiny_ctx_close(stopped);
    t_use(ctx);
    T_TRUE(tllm_folds_n(NULL) == 0 && tllm_fold_at(NULL, 0) == NULL && tllm_folds_file(NULL) == NULL &&
           !tllm_folds_touch(NULL, norm));
    tllm_folds_close(ctx, NULL);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_memory(void)
{
    const char *path = t_shared("oracle/llm/llama.gguf");
    if (!path) return;
    T_EACH_ALLOCATION(
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tllm_gguf *g = NULL;
        tllm_folds *f = NULL;
        tllm_writer *w = NULL;
        float s[512];
        size_t i;
        tiny_status st = tiny_ctx_open(&d, &ctx);
        for (i = 0; i < 512; i++) s[i] = 2.0f;
        if (!st) st = tllm_gguf_open(ctx, path, &g);
        if (!st) st = tllm_folds_open(ctx, g, &f);
        for (i = 0; !st && i < 3; i++) st = tllm_fold_scale(ctx, f, i, s);
        if (!st) st = tllm_fold_gain(ctx, f, 0);
        if (!st) st = tllm_writer_open(ctx, NULL, &w);
        if (!st) st = tllm_folds_put(ctx, f, w, NULL);
        if (!st) st = tllm_writer_finish(ctx, w);
        T_TRUE(st == TINY_OK || st == TINY_E_MEMORY);
        tllm_writer_close(ctx, w);
        tllm_folds_close(ctx, f);
        tllm_gguf_close(ctx, g);
        tiny_ctx_close(ctx);
    )
}

int main(void)
{
    T_RUN(test_models);
    T_RUN(test_lists);
    T_RUN(test_numbers);
    T_RUN(test_zero_gain);
    T_RUN(test_norms_of_two_axes);
    T_RUN(test_refused);
    T_RUN(test_memory);
    return t_done();
}
