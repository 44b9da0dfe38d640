/* tests/llm/dist/cut_models.c - the models of the large oracle over 2 and 4 ranks: norms after a half, fused
 * matrices, windows, biases, norms of heads
 *
 * Truth    the same model whole, on one rank, which oracle.c holds against its golden numbers. A cut model gives the
 *          same, or is refused with a sentence. Models that must not be refused are named here, and must be in the
 *          index. */
#include "rank.h"

enum { TOKENS = 11, MOST = 4 };

typedef struct run {
    const char *path;
    int world;
    tiny_local *local;
    tiny_idx n_out;
    float *logits[MOST];
    tiny_status st[MOST];
    char says[MOST][300];
} run;

/* tokens of a text in two pieces: a prompt, and steps */
static tiny_status forward(tllm_state *s, const tllm_about *about, float *logits)
{
    int32_t token[TOKENS];
    tiny_status st;
    int i;
    for (i = 0; i < TOKENS; i++) token[i] = (int32_t)((i * 37 + 5) % about->n_vocab);
    st = tllm_forward(s, token, TOKENS - 2, 0, TOKENS - 2, logits);
    for (i = TOKENS - 2; i < TOKENS && !st; i++) st = tllm_forward(s, token + i, 1, i, 1, logits + i * about->n_out);
    return st;
}

static void on_rank(int rank, void *arg)
{
    run *r = (run *)arg;
    tiny_comm_desc cd;
    tllm_about about;
    t_rank m;
    memset(&cd, 0, sizeof cd);
    cd.timeout_ns = UINT64_C(600000000000);
    cd.n_most = 1 << 16;
    if (r->local) cd.net = tiny_local_net(r->local, rank);
    m = t_rank_model(TINY_TARGET_AUTO, r->local ? &cd : NULL, r->path, NULL, 0);
    if (!m.st) tllm_model_about(m.model, &about);
    if (r->world > 1) t_rank_cut(&m, rank, r->world);
    t_rank_state(&m, 32, 0);
    if (!m.st) m.st = forward(m.state, &about, r->logits[rank]);
    r->st[rank] = t_rank_leave(&m, r->says[rank], sizeof r->says[rank]);
}

/* 1: cut and the same. 0: refused with a sentence, or a failure. */
static int compare(const char *path, const char *name, const tllm_about *about, int world)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const int n = TOKENS * (int)about->n_out;
    tiny_local_desc line;
    run whole, r;
    double size = 0.0, off = 0.0;
    int i, k, refused = 0;
    memset(&whole, 0, sizeof whole);
    memset(&line, 0, sizeof line);
    whole.path = path;
    whole.world = 1;
    whole.logits[0] = t_guarded((size_t)n);
    on_rank(0, &whole);
    if (!T_EQ_INT(whole.st[0], TINY_OK)) { printf("  %s: %s\n", name, whole.says[0]); return 0; }
    r = whole;
    r.world = world;
    for (i = 0; i < world; i++) r.logits[i] = t_guarded((size_t)n);
    line.world = world;
    line.queue_bytes = 1 << 18;
    T_OK(tiny_local_open(ctx, &line, &r.local));
    k = t_ranks(world, on_rank, &r);
    tiny_local_close(ctx, r.local);
    t_close(ctx);
    if (!k) return 0;
    for (i = 0; i < world; i++) refused += r.st[i] != TINY_OK;
    if (refused) {
        T_EQ_INT(refused, world);
        for (i = 0; i < world; i++)
            if (!strstr(r.says[i], "cut over ranks") && !strstr(r.says[i], "divided by") &&
                !strstr(r.says[i], " columns: "))
                t_fail(__FILE__, __LINE__, "%s over %d ranks: %s", name, world, r.says[i]);
        /* two ranks divide the heads of every llama: only blocks that are larger than a part may be the reason */
        for (i = 0; i < world && world == 2 && !strncmp(name, "llama-", 6); i++)
            if (!strstr(r.says[i], "cannot be cut into 2 parts of 128 columns: Q4_K has blocks of 256"))
                t_fail(__FILE__, __LINE__, "%s over %d ranks: %s", name, world, r.says[i]);
        return 0;
    }
    for (k = 0; k < n; k++) size = fmax(size, fabs((double)whole.logits[0][k]));
    for (i = 0; i < world; i++) {
        T_SAME(r.logits[i], r.logits[0], n);
        T_WALLS(r.logits[i], n);
        for (k = 0; k < n; k++) {
            const double d = fabs((double)r.logits[i][k] - (double)whole.logits[0][k]);
            if (!(d <= off)) off = d;
        }
    }
    if (!T_CLOSE(off, 0.0, 5e-6 * (1.0 + size))) { printf("  %s over %d ranks\n", name, world); return 0; }
    return 1;
}

static void test_models(void)
{
    static const char *const must[] = { "llama",     "qwen2",   "qwen3", "gemma2",     "phi3",     "seed_oss",
                                        "internlm2", "smollm3", "gpt2",  "llama-bf16", "llama-f16",
                                        "llama-q8_0", "llama-q4_0" };
    const char *index = t_shared("oracle/llm/index.tsv");
    static char line[65536], last[80], cut[2][4000], listed[8000];
    int n_models = 0, n_cut[2] = { 0, 0 }, n_must = 0, world;
    size_t k;
    FILE *f = index ? fopen(index, "r") : NULL;
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        char name[80], path[120];
        const char *at;
        tllm_gguf *g = NULL;
        tllm_model *m = NULL;
        tllm_about about;
        tiny_ctx *ctx;
        if (sscanf(line, "%79[^\t]", name) != 1 || !strcmp(name, "name") || !strcmp(name, last)) continue;
        (void)snprintf(last, sizeof last, "%s", name);
        (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", name);
        at = t_find(path);
        if (!T_TRUE(at != NULL)) continue;      /* the index lists the files next to it */
        (void)snprintf(listed + strlen(listed), sizeof listed - strlen(listed), " %s ", name);
        ctx = t_ctx(TINY_TARGET_AUTO, 1);
        T_OK(tllm_gguf_open(ctx, at, &g));
        T_OK(tllm_model_open(ctx, g, &m));
        tllm_model_about(m, &about);
        tllm_model_close(ctx, m);
        tllm_gguf_close(ctx, g);
        t_close(ctx);
        if (about.is_encoder || about.has_decoder || about.output != TLLM_LOGITS) continue;
        n_models++;
        for (world = 2; world <= MOST; world += 2)
            if (compare(at, name, &about, world) == 1) {
                char *list = cut[world / 4];
                n_cut[world / 4]++;
                (void)snprintf(list + strlen(list), sizeof cut[0] - strlen(list), " %s ", name);
            }
    }
    (void)fclose(f);
    for (k = 0; k < T_COUNT(must); k++) {
        char name[80], path[120];
        (void)snprintf(name, sizeof name, " %s ", must[k]);
        (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", must[k]);
        t_case(path, strstr(listed, name) != NULL);
        if (!strstr(listed, name)) continue;
        n_must++;
        if (!strstr(cut[0], name)) t_fail(__FILE__, __LINE__, "%s is refused over 2 ranks", must[k]);
    }
    T_TRUE(n_must >= 9);                    /* those that come with the repository */
    printf("  models: %d of %d over 2 ranks, %d over 4\n", n_cut[0], n_models, n_cut[1]);
}

int main(void)
{
    T_RUN(test_models);
    return t_done();
}
