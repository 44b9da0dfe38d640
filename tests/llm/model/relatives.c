/* tests/llm/model/relatives.c - near relatives of the architectures of the oracle, which has no files of them
 *
 * Where a relative computes the same as a model of the oracle, or the same once its special features are switched off,
 * the file of that model is written again under the relative's name, and must give that model's golden logits. Where
 * there is no such file, the same model is described in two ways, which must agree. More than names change: keys are
 * added, and other rows of the table, other defaults and other paths are taken. */
#include "t.h"

/* type: u, f, b (u32, f32, bool), - (not written); key without the architecture */
typedef struct extra { const char *key; char type; double v; } extra;
typedef struct relative {
    const char *source, *arch, *to;         /* the oracle's file, its architecture, the relative */
    extra more[6];
    const char *text_key, *text;            /* one more key */
} relative;

static int same_key(tllm_text key, const char *arch, const char *rest)
{
    const size_t a = strlen(arch), r = strlen(rest);
    return key.n == a + 1 + r && !memcmp(key.at, arch, a) && key.at[a] == '.' && !memcmp(key.at + a + 1, rest, r);
}

/* the file again, in memory; factors: another tensor of that many floats of one value */
static tllm_writer *rewrite(tiny_ctx *ctx, const tllm_gguf *g, const relative *r, const char *tensor,
                            uint64_t n_factors, const float *factors)
{
    tllm_writer *w = NULL;
    tllm_writer_desc desc;
    char key[256];
    size_t i, k;
    tiny_status st;
    memset(&desc, 0, sizeof desc);
    st = tllm_writer_open(ctx, &desc, &w);
    for (i = 0; i < tllm_gguf_n_meta(g) && !st; i++) {
        tllm_meta m = *tllm_gguf_meta_at(g, i);
        const size_t a = strlen(r->arch);
        int replaced = 0;
        if (tllm_text_is(m.key, "general.architecture")) {
            st = tllm_writer_put_text(ctx, w, "general.architecture", r->to);
            continue;
        }
        for (k = 0; k < T_COUNT(r->more) && r->more[k].key; k++) replaced |= same_key(m.key, r->arch, r->more[k].key);
        if (replaced) continue;
        if (m.key.n > a && !memcmp(m.key.at, r->arch, a) && m.key.at[a] == '.') {
            (void)snprintf(key, sizeof key, "%s%.*s", r->to, (int)(m.key.n - a), m.key.at + a);
            m.key.at = key;
            m.key.n = strlen(key);
        }
        st = tllm_writer_put_meta(ctx, w, &m);
    }
    for (k = 0; k < T_COUNT(r->more) && r->more[k].key && !st; k++) {
        const extra *e = &r->more[k];
        (void)snprintf(key, sizeof key, "%s.%s", r->to, e->key);
        if (e->type == 'u') st = tllm_writer_put_u32(ctx, w, key, (uint32_t)e->v);
        else if (e->type == 'f') st = tllm_writer_put_f32(ctx, w, key, (float)e->v);
        else if (e->type == 'b') st = tllm_writer_put_bool(ctx, w, key, e->v != 0.0);
    }
    if (!st && r->text_key) {
        (void)snprintf(key, sizeof key, "%s.%s", r->to, r->text_key);
        st = tllm_writer_put_text(ctx, w, key, r->text);
    }
    for (i = 0; i < tllm_gguf_n_tensors(g) && !st; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        st = tllm_writer_put_tensor(ctx, w, t->name, t->type, t->rank, t->dim, t->data);
    }
    if (!st && tensor) {
        tllm_text name;
        name.at = tensor;
        name.n = strlen(tensor);
        st = tllm_writer_put_tensor(ctx, w, name, TLLM_FORMAT_F32, 1, &n_factors, factors);
    }
    if (!st) st = tllm_writer_finish(ctx, w);
    if (st) {
        T_TRUE(!"the file could not be written");
        printf("  %s\n", tiny_ctx_message(ctx));
        tllm_writer_close(ctx, w);
        return NULL;
    }
    return w;
}

/* the tokens of a model of the index, and the mark of its golden numbers: 2e-4 where its line has none of its own */
static int line_of(const char *model, int32_t *tokens, double *mark)
{
    const char *path = t_shared("oracle/llm/index.tsv");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[4096];
    int n = 0;
    *mark = 2e-4;
    while (f && !n && fgets(line, sizeof line, f)) {
        char *p = line;
        int field;
        if (strncmp(line, model, strlen(model)) || line[strlen(model)] != '\t') continue;
        for (field = 0; field < 14 && p; field++) {
            if (field == 6)
                while (*p >= '0' && *p <= '9' && n < 128) {
                    tokens[n++] = (int32_t)strtol(p, &p, 10);
                    if (*p == ',') p++;
                }
            p = strchr(p, '\t');
            if (p) p++;
        }
        if (p && atof(p) > 0) *mark = atof(p);
    }
    if (f) (void)fclose(f);
    return n;
}
static int tokens_of(const char *model, int32_t *tokens)
{
    char path[120];
    double mark;
    const int n = line_of(model, tokens, &mark);
    (void)snprintf(path, sizeof path, "oracle/llm/%.60s.gguf", model);
    t_case(path, n > 0);
    return n;
}

/* logits of the relative; NULL: it failed with a message */
static float *run(tiny_ctx *ctx, const relative *r, const int32_t *tokens, int n, tiny_idx n_ctx, const char *tensor,
                  uint64_t n_factors, const float *factors, tiny_idx *n_out)
{
    char path[256];
    const char *full;
    tllm_gguf *g = NULL, *again = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc desc;
    tllm_about about;
    tllm_writer *w = NULL;
    float *out = NULL;
    size_t bytes = 0;
    memset(&desc, 0, sizeof desc);
    desc.n_ctx = n_ctx;
    (void)snprintf(path, sizeof path, "oracle/llm/%.60s.gguf", r->source);
    full = t_shared(path);
    if (full && T_OK(tllm_gguf_open(ctx, full, &g)) && (w = rewrite(ctx, g, r, tensor, n_factors, factors)) != NULL) {
        const void *memory = tllm_writer_memory(w, &bytes);
        tiny_status st = tllm_gguf_open_memory(ctx, memory, bytes, &again);
        if (!st) st = tllm_model_open(ctx, again, &model);
        if (!st) st = tllm_state_open(ctx, model, &desc, &state);
        if (!st) {
            tllm_model_about(model, &about);
            T_EQ_TEXT(about.arch, r->to);
            *n_out = about.n_out;
            out = (float *)t_keep((size_t)n * (size_t)about.n_out * sizeof *out);
            if (about.is_encoder) st = tllm_forward_all(state, tokens, n, out);
            else st = tllm_forward(state, tokens, n, 0, n, out);
        }
        if (st) {
            T_TRUE(!"the relative failed");
            printf("  %s from %s: %s\n", r->to, r->source, tiny_ctx_message(ctx));
            out = NULL;
        }
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, again);
    tllm_writer_close(ctx, w);
    tllm_gguf_close(ctx, g);
    return out;
}

static void compare(const relative *r, const float *got, const float *want, size_t n)
{
    double rms = 0.0, top = 0.0, mark;
    int32_t tokens[128];
    size_t i;
    if (!got || !want) return;
    (void)line_of(r->source, tokens, &mark);
    for (i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - (double)want[i]);
        rms += (double)want[i] * (double)want[i];
        if (!(d <= top)) top = d;
    }
    rms = sqrt(rms / (double)n);
    if (!T_CLOSE(top, 0.0, mark * (1.0 + rms))) printf("  %s from %s\n", r->to, r->source);
    T_TRUE(rms > 0.1);
}

static float *golden(const char *name, size_t n)
{
    char path[256];
    const char *full;
    float *x = (float *)t_keep(n * sizeof *x);
    unsigned char b[4];
    size_t i = 0;
    FILE *f;
    (void)snprintf(path, sizeof path, "oracle/llm/%.60s.logits", name);
    full = t_shared(path);
    f = full ? fopen(full, "rb") : NULL;
    for (; f && i < n && fread(b, 1, 4, f) == 4; i++) {
        uint32_t u = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        memcpy(&x[i], &u, 4);
    }
    if (f) (void)fclose(f);
    return T_TRUE(i == n) ? x : NULL;
}

static void test_same_as_golden(tiny_target target)
{
    static const relative all[] = {
        { "llama", "llama", "mistral3", { { NULL, 0, 0 } }, NULL, NULL },
        { "llama", "llama", "granite", { { NULL, 0, 0 } }, NULL, NULL },
        { "llama",
          "llama",
          "granite",
          { { "embedding_scale", 'f', 1 },
            { "residual_scale", 'f', 1 },
            { "logit_scale", 'f', 1 },
            { "attention.scale", 'f', 0.25 },
            { NULL, 0, 0 } },
          NULL,
          NULL },
        { "llama",
          "llama",
          "minicpm",
          { { "embedding_scale", 'f', 1 }, { "residual_scale", 'f', 1 }, { "logit_scale", 'f', 1 }, { NULL, 0, 0 } },
          NULL,
          NULL },
        { "llama", "llama", "ernie4_5", { { NULL, 0, 0 } }, NULL, NULL },
        { "llama", "llama", "smollm3", { { NULL, 0, 0 } }, NULL, NULL },
        { "llama-linear-rope", "llama", "internlm2", { { NULL, 0, 0 } }, NULL, NULL },
        { "llama3-rope", "llama", "glm4", { { NULL, 0, 0 } }, NULL, NULL },
        { "mixtral", "llama", "granitemoe", { { NULL, 0, 0 } }, NULL, NULL },
        { "mixtral", "llama", "mistral3", { { NULL, 0, 0 } }, NULL, NULL },
        { "granitemoe", "granitemoe", "granite", { { NULL, 0, 0 } }, NULL, NULL },
        { "qwen2", "qwen2", "qwen2vl", { { NULL, 0, 0 } }, NULL, NULL },
        { "qwen3", "qwen3", "qwen3vl", { { NULL, 0, 0 } }, NULL, NULL },
        { "qwen3moe", "qwen3moe", "qwen3vlmoe", { { NULL, 0, 0 } }, NULL, NULL },
        { "qwen3moe", "qwen3moe", "phimoe", { { NULL, 0, 0 } }, NULL, NULL },
        { "olmoe", "olmoe", "qwen2moe", { { NULL, 0, 0 } }, NULL, NULL },
        { "chatglm", "chatglm", "glm4", { { NULL, 0, 0 } }, NULL, NULL },
        { "gptneox-seq", "gptneox", "starcoder2", { { NULL, 0, 0 } }, NULL, NULL },
        { "phi2", "phi2", "gptneox", { { "use_parallel_residual", 'b', 1 }, { NULL, 0, 0 } }, NULL, NULL },
        { "phi2", "phi2", "falcon", { { NULL, 0, 0 } }, NULL, NULL },
        { "olmo2", "olmo2", "olmo2", { { "attention.sliding_window", 'u', 64 }, { NULL, 0, 0 } }, NULL, NULL },
        { "dots1", "dots1", "exaone-moe", { { NULL, 0, 0 } }, NULL, NULL },
        { "llama", "llama", "xverse", { { NULL, 0, 0 } }, NULL, NULL },
        { "qwen3", "qwen3", "openelm", { { NULL, 0, 0 } }, NULL, NULL },
        { "gptneox-seq", "gptneox", "codeshell", { { NULL, 0, 0 } }, NULL, NULL },
        { "mixtral", "llama", "bailingmoe", { { "expert_weights_norm", 'b', 1 }, { NULL, 0, 0 } }, NULL, NULL },
        /* numbers of other architectures are passed over */
        { "mixtral",
          "llama",
          "llama",
          { { "expert_gating_func", 'u', 2 },
            { "expert_weights_norm", 'b', 0 },
            { "expert_weights_scale", 'f', 2.5 },
            { "embedding_scale", 'f', 3 },
            { "attention.scale", 'f', 0.1 },
            { NULL, 0, 0 } },
          NULL,
          NULL },
        { "olmoe",
          "olmoe",
          "qwen2moe",
          { { "expert_weights_norm", 'b', 1 },
            { "residual_scale", 'f', 0.5 },
            { "logit_scale", 'f', 0.5 },
            { "final_logit_softcapping", 'f', 1 },
            { "attn_logit_softcapping", 'f', 1 },
            { NULL, 0, 0 } },
          NULL,
          NULL },
        { "llama",
          "llama",
          "mistral3",
          { { "attention.clamp_kqv", 'f', 0.01 },
            { "final_logit_softcapping", 'f', 1 },
            { "logit_scale", 'f', 2 },
            { NULL, 0, 0 } },
          NULL,
          NULL },
        { "llama",
          "llama",
          "llama",
          { { "attention.temperature_scale", 'f', 1 },
            { "attention.temperature_length", 'u', 4 },
            { "attn_logit_softcapping", 'f', 1 },
            { NULL, 0, 0 } },
          NULL,
          NULL },
        { "gpt2", "gpt2", "starcoder", { { NULL, 0, 0 } }, NULL, NULL },
        { "phi3",
          "phi3",
          "phi3",
          { { "rope.scaling.attn_factor", 'f', 1 }, { "attention.sliding_window", 'u', 4 }, { NULL, 0, 0 } },
          "rope.scaling.type",
          "longrope" },
        { "llama",
          "llama",
          "llama",
          { { "rope.scaling.factor", 'f', 1 }, { "rope.scaling.original_context_length", 'u', 64 }, { NULL, 0, 0 } },
          "rope.scaling.type",
          "yarn" }
    };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t i;
    int ran = 0;
    for (i = 0; i < T_COUNT(all); i++) {
        int32_t tokens[128];
        tiny_idx n_out = 0;
        const int n = tokens_of(all[i].source, tokens);
        float *got;
        if (!n) continue;
        ran++;
        got = run(ctx, &all[i], tokens, n, 64, NULL, 0, NULL, &n_out);
        if (got) compare(&all[i], got, golden(all[i].source, (size_t)n * (size_t)n_out), (size_t)n * (size_t)n_out);
        t_free_blocks();
    }
    T_SOME(ran);
    t_close(ctx);
}

/* A file without the number of a row's flag gives the same as one that states it, bit for bit, and not the same as one
 * that states another. */
static void test_without_the_number(void)
{
    static const struct { const char *source, *arch, *to, *key; char type; double same, other; int n; } all[] = {
        { "gemma2", "gemma2", "gemma2", "attn_logit_softcapping", 'f', 50.0, 0.0, 16 },
        { "gemma2", "gemma2", "gemma2", "final_logit_softcapping", 'f', 30.0, 0.0, 16 },
        { "gemma2", "gemma2", "gemma2", "attention.sliding_window", 'u', 4096, 0, 4150 },
        { "gemma3n", "gemma3n", "gemma3n", "final_logit_softcapping", 'f', 30.0, 0.0, 16 },
        { "dots1", "dots1", "exaone-moe", "attention.sliding_window", 'u', 128, 0, 160 },
        { "bloom", "bloom", "bloom", "attention.max_alibi_bias", 'f', 8.0, 0.0, 16 },
        { "bloom", "bloom", "mpt", "attention.max_alibi_bias", 'f', 0.0, 8.0, 16 }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 2);
    size_t i;
    int ran = 0;
    for (i = 0; i < T_COUNT(all); i++) {
        relative r;
        int32_t some[128], *tokens = (int32_t *)t_keep((size_t)all[i].n * sizeof *tokens);
        const int n_some = tokens_of(all[i].source, some);
        float *without, *same, *other;
        tiny_idx n_out = 0;
        size_t bytes;
        int k;
        if (!n_some) continue;
        ran++;
        for (k = 0; k < all[i].n; k++) tokens[k] = some[k % n_some];
        memset(&r, 0, sizeof r);
        r.source = all[i].source;
        r.arch = all[i].arch;
        r.to = all[i].to;
        r.more[0].key = all[i].key;
        r.more[0].type = '-';
        without = run(ctx, &r, tokens, all[i].n, all[i].n, NULL, 0, NULL, &n_out);
        r.more[0].type = all[i].type;
        r.more[0].v = all[i].same;
        same = run(ctx, &r, tokens, all[i].n, all[i].n, NULL, 0, NULL, &n_out);
        r.more[0].v = all[i].other;
        other = run(ctx, &r, tokens, all[i].n, all[i].n, NULL, 0, NULL, &n_out);
        bytes = (size_t)all[i].n * (size_t)n_out * sizeof *same;
        if (!T_TRUE(without && same && other && !memcmp(without, same, bytes) && memcmp(same, other, bytes)))
            printf("  %s without %s (%s)\n", r.to, all[i].key,
                   !without || !same || !other    ? "failed"
                   : memcmp(without, same, bytes) ? "another number"
                                                  : "the number changes nothing");
        t_free_blocks();
    }
    T_SOME(ran);
    t_close(ctx);
}

/* factors of 4 in the selected list of the two equal a linear factor of 4; the size of the context selects the list */
static void test_long_rope(tiny_target target)
{
    const char *const source = t_find("oracle/llm/phi3.gguf") ? "phi3" : "llama";
    relative linear = { NULL,    NULL, NULL, { { "rope.scaling.factor", 'f', 4 }, { NULL, 0, 0 } }, "rope.scaling.type",
                        "linear" };
    relative twice = { NULL, NULL, NULL, { { "rope.scaling.original_context_length", 'u', 32 }, { NULL, 0, 0 } },
                       NULL, NULL };
    tiny_ctx *ctx = t_ctx(target, 1);
    float four[8], *want, *got, *plain;
    int32_t tokens[128];
    const int n = tokens_of(source, tokens);
    tiny_idx n_out = 0;
    int i;
    for (i = 0; i < 8; i++) four[i] = 4.0f;
    linear.source = linear.arch = linear.to = twice.source = twice.arch = twice.to = source;
    if (n) {
        want = run(ctx, &linear, tokens, n, 64, NULL, 0, NULL, &n_out);
        got = run(ctx, &twice, tokens, n, 64, "rope_factors_long.weight", 8, four, &n_out);
        compare(&twice, got, want, (size_t)n * (size_t)n_out);
        got = run(ctx, &twice, tokens, n, 32, "rope_factors_short.weight", 8, four, &n_out);
        compare(&twice, got, want, (size_t)n * (size_t)n_out);
        got = run(ctx, &twice, tokens, n, 32, "rope_factors_long.weight", 8, four, &n_out);
        plain = golden(source, (size_t)n * (size_t)n_out);
        compare(&twice, got, plain, (size_t)n * (size_t)n_out);
    }
    t_close(ctx);
}

/* a window in every layer of lfm2 that has attention: nothing is hidden from the first tokens, something from the
 * last */
static void test_window_of_lfm2(tiny_target target)
{
    static const relative narrow = { "lfm2", "lfm2", "lfm2", { { "attention.sliding_window", 'u', 5 }, { NULL, 0, 0 } },
                                     NULL,   NULL };
    tiny_ctx *ctx = t_ctx(target, 1);
    int32_t tokens[128];
    const int n = tokens_of("lfm2", tokens);
    tiny_idx n_out = 0;
    if (n > 12) {
        const float *got = run(ctx, &narrow, tokens, n, 64, NULL, 0, NULL, &n_out),
                    *want = golden("lfm2", (size_t)n * (size_t)n_out);
        compare(&narrow, got, want, 5 * (size_t)n_out);
        if (got && want) T_TRUE(fabs((double)got[(n - 1) * n_out] - (double)want[(n - 1) * n_out]) > 1e-2);
    }
    T_SOME(n);
    t_close(ctx);
}

/* two descriptions of one model */
static void test_two_ways(tiny_target target)
{
    static const relative pairs[][2] = {
        /* an indexer that keeps everything equals none, for either rotation */
        { { "deepseek32",
            "deepseek32",
            "glm-dsa",
            { { "attention.indexer.top_k", 'u', 64 }, { NULL, 0, 0 } },
            NULL,
            NULL },
          { "deepseek32", "deepseek32", "deepseek2", { { NULL, 0, 0 } }, NULL, NULL } },
        /* the first deepseek takes the weights of the chosen experts unnormalized, whatever the file says, and scales
         * them */
        { { "mixtral",
            "llama",
            "deepseek",
            { { "expert_weights_norm", 'b', 1 }, { "expert_weights_scale", 'f', 1.5 }, { NULL, 0, 0 } },
            NULL,
            NULL },
          { "mixtral", "llama", "bailingmoe", { { "expert_weights_scale", 'f', 1.5 }, { NULL, 0, 0 } }, NULL, NULL } },
        /* scalings of granite, given to minicpm */
        { { "llama",
            "llama",
            "minicpm",
            { { "embedding_scale", 'f', 3 },
              { "residual_scale", 'f', 0.5 },
              { "logit_scale", 'f', 2 },
              { NULL, 0, 0 } },
            NULL,
            NULL },
          { "llama",
            "llama",
            "granite",
            { { "embedding_scale", 'f', 3 },
              { "residual_scale", 'f', 0.5 },
              { "logit_scale", 'f', 2 },
              { NULL, 0, 0 } },
            NULL,
            NULL } },
        /* the scale of its scores minicpm passes over */
        { { "granitemoe", "granitemoe", "minicpm", { { NULL, 0, 0 } }, NULL, NULL },
          { "granitemoe", "granitemoe", "granite", { { "attention.scale", 'f', 0 }, { NULL, 0, 0 } }, NULL, NULL } },
        /* defaults of minicpm, and the same values explicitly: 1.4 / sqrt(2 layers) */
        { { "llama", "llama", "minicpm", { { NULL, 0, 0 } }, NULL, NULL },
          { "llama",
            "llama",
            "minicpm",
            { { "embedding_scale", 'f', 12 },
              { "residual_scale", 'f', 0.98994949366 },
              { "logit_scale", 'f', 4 },
              { NULL, 0, 0 } },
            NULL,
            NULL } },
        /* granite without rotation is llama with pairs that do not turn: a factor so large that every angle is 0 */
        { { "llama", "llama", "granite", { { "rope.scaling.finetuned", 'b', 0 }, { NULL, 0, 0 } }, NULL, NULL },
          { "llama", "llama", "llama", { { "rope.scaling.factor", 'f', 1e12 }, { NULL, 0, 0 } }, NULL, NULL } },
        /* mistral3: a multiplier of 1 takes the size of YaRN out of cos and sin again */
        { { "llama",
            "llama",
            "mistral3",
            { { "rope.scaling.factor", 'f', 4 },
              { "rope.scaling.original_context_length", 'u', 16 },
              { "rope.scaling.yarn_log_multiplier", 'f', 1 },
              { NULL, 0, 0 } },
            "rope.scaling.type",
            "yarn" },
          { "llama",
            "llama",
            "llama",
            { { "rope.scaling.factor", 'f', 4 },
              { "rope.scaling.original_context_length", 'u', 16 },
              { "rope.scaling.attn_factor", 'f', 0.87824738 },
              { NULL, 0, 0 } },
            "rope.scaling.type",
            "yarn" } },
        /* a window as large as the context hides nothing */
        { { "gemma3-b", "gemma3", "gemma3", { { "attention.sliding_window", 'u', 64 }, { NULL, 0, 0 } }, NULL, NULL },
          { "gemma3-b", "gemma3", "gemma3", { { "attention.sliding_window", 'u', 24 }, { NULL, 0, 0 } }, NULL, NULL } },
        /* command-r is cohere2 with all layers rotated and none with a window that hides */
        { { "cohere2",
            "cohere2",
            "cohere2",
            { { "attention.sliding_window", 'u', 64 }, { "attention.sliding_window_pattern", 'u', 5 }, { NULL, 0, 0 } },
            NULL,
            NULL },
          { "cohere2", "cohere2", "command-r", { { NULL, 0, 0 } }, NULL, NULL } },
        /* stablelm without a second norm also runs attention and network in parallel; the rotation differs, and its
         * logits are not scaled, whatever the file says */
        { { "cohere2", "cohere2", "stablelm", { { "rope.scaling.factor", 'f', 1e12 }, { NULL, 0, 0 } }, NULL, NULL },
          { "cohere2",
            "cohere2",
            "command-r",
            { { "rope.scaling.factor", 'f', 1e12 }, { "logit_scale", 'f', 1 }, { NULL, 0, 0 } },
            NULL,
            NULL } },
        /* a decoder whose file is marked non-causal; hidden states, as of the encoder */
        { { "llama",
            "llama",
            "llama",
            { { "attention.causal", 'b', 0 }, { "pooling_type", 'u', 1 }, { NULL, 0, 0 } },
            NULL,
            NULL },
          { "llama", "llama", "llama-embed", { { NULL, 0, 0 } }, NULL, NULL } },
        /* encoders of one kind, without rotation */
        { { "llama", "llama", "eurobert", { { "rope.scaling.factor", 'f', 1e12 }, { NULL, 0, 0 } }, NULL, NULL },
          { "llama", "llama", "llama-embed", { { "rope.scaling.factor", 'f', 1e12 }, { NULL, 0, 0 } }, NULL, NULL } },
        /* jina-bert-v3 is bert without positions in a table; rotation switched off by a factor */
        { { "jina-bert-v2",
            "jina-bert-v2",
            "jina-bert-v2",
            { { "attention.max_alibi_bias", 'f', 0 }, { NULL, 0, 0 } },
            NULL,
            NULL },
          { "jina-bert-v2",
            "jina-bert-v2",
            "jina-bert-v3",
            { { "rope.scaling.factor", 'f', 1e12 }, { NULL, 0, 0 } },
            NULL,
            NULL } }
    };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t i;
    int ran = 0;
    for (i = 0; i < T_COUNT(pairs); i++) {
        int32_t tokens[128];
        tiny_idx n_out = 0;
        const int n = tokens_of(pairs[i][0].source, tokens);
        float *a, *b;
        if (!n) continue;
        ran++;
        a = run(ctx, &pairs[i][0], tokens, n, 64, NULL, 0, NULL, &n_out);
        b = run(ctx, &pairs[i][1], tokens, n, 64, NULL, 0, NULL, &n_out);
        compare(&pairs[i][0], a, b, (size_t)n * (size_t)n_out);
        t_free_blocks();
    }
    T_SOME(ran);
    t_close(ctx);
}

/* ---- the same weights in other tensors --------------------------------------------------------------------------- */

/* The file again, without the tensors whose names end in one of drop, and with those that `make` adds; under another
 * architecture, or NULL. */
typedef struct remade {
    const char *source;
    const char *drop[4];
    void (*make)(tiny_ctx *ctx, tllm_writer *w, const tllm_gguf *g);
    const char *to;
} remade;

static const float *floats_of(const tllm_gguf *g, const char *name)
{
    const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, name);
    float *x;
    if (!T_TRUE(t != NULL)) exit(2);
    x = (float *)t_keep(t->bytes);
    tllm_format_of(t->type)->unpack(t->data, x, t->bytes / 4);
    return x;
}
static void add_tensor(tiny_ctx *ctx, tllm_writer *w, const char *name, uint64_t n_in, uint64_t n_out, const float *x)
{
    uint64_t dim[2];
    tllm_text text;
    float *little = (float *)t_keep((size_t)(n_in * n_out) * 4);
    dim[0] = n_in;
    dim[1] = n_out;
    text.at = name;
    text.n = strlen(name);
    tllm_format_of(TLLM_FORMAT_F32)->pack(x, little, (size_t)(n_in * n_out), NULL);
    T_OK(tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, 2, dim, little));
}

/* latent attention with attn_kv_b: for each head the rows of its key part, then those of its value part */
static void make_kv_b(tiny_ctx *ctx, tllm_writer *w, const tllm_gguf *g)
{
    const tllm_gguf_tensor *key = tllm_gguf_tensor_find(g, "blk.0.attn_k_b.weight"),
                           *value = tllm_gguf_tensor_find(g, "blk.0.attn_v_b.weight");
    const size_t plain = (size_t)key->dim[0], rank = (size_t)key->dim[1], heads = (size_t)key->dim[2],
                 wide = (size_t)value->dim[1], each = plain + wide;
    static char name[2][64];
    size_t h, i, j;
    int layer;
    for (layer = 0; layer < 2; layer++) {
        const float *k, *v;
        float *kv = (float *)t_keep(sizeof *kv * rank * heads * each);
        (void)snprintf(name[layer], sizeof name[0], "blk.%d.attn_k_b.weight", layer);
        k = floats_of(g, name[layer]);
        (void)snprintf(name[layer], sizeof name[0], "blk.%d.attn_v_b.weight", layer);
        v = floats_of(g, name[layer]);
        for (h = 0; h < heads; h++)
            for (j = 0; j < rank; j++) {
                for (i = 0; i < plain; i++) kv[(h * each + i) * rank + j] = k[(h * rank + j) * plain + i];
                for (i = 0; i < wide; i++) kv[(h * each + plain + i) * rank + j] = v[(h * wide + i) * rank + j];
            }
        (void)snprintf(name[layer], sizeof name[0], "blk.%d.attn_kv_b.weight", layer);
        add_tensor(ctx, w, name[layer], rank, heads * each, kv);
    }
}

/* older qwen3next: ssm_in has for each key head q, k, its values and their gates */
static void make_ssm_in(tiny_ctx *ctx, tllm_writer *w, const tllm_gguf *g)
{
    enum { KEYS = 2, EACH = 2 };
    const tllm_gguf_tensor *first = tllm_gguf_tensor_find(g, "blk.0.attn_qkv.weight");
    const size_t D = (size_t)first->dim[0], S = (size_t)first->dim[1] / (KEYS * (2 + EACH));
    static char name[3][64];
    size_t key, at;
    int layer;
    for (layer = 0; layer < 3; layer++) {
        const float *qkv, *z;
        float *all = (float *)t_keep(sizeof *all * D * KEYS * S * (2 + 2 * EACH));
        (void)snprintf(name[layer], sizeof name[0], "blk.%d.attn_qkv.weight", layer);
        qkv = floats_of(g, name[layer]);
        (void)snprintf(name[layer], sizeof name[0], "blk.%d.attn_gate.weight", layer);
        z = floats_of(g, name[layer]);
        for (key = 0, at = 0; key < KEYS; key++) {
            memcpy(all + at * D, qkv + key * S * D, sizeof *all * S * D);
            at += S;
            memcpy(all + at * D, qkv + (KEYS + key) * S * D, sizeof *all * S * D);
            at += S;
            memcpy(all + at * D, qkv + (2 * KEYS + key * EACH) * S * D, sizeof *all * EACH * S * D);
            at += EACH * S;
            memcpy(all + at * D, z + key * EACH * S * D, sizeof *all * EACH * S * D);
            at += EACH * S;
        }
        (void)snprintf(name[layer], sizeof name[0], "blk.%d.ssm_in.weight", layer);
        add_tensor(ctx, w, name[layer], D, at, all);
    }
}

/* mpt is bloom without a norm after the embedding: the rows of the embedding are normed here, the output keeps the old
 * ones */
static void make_mpt(tiny_ctx *ctx, tllm_writer *w, const tllm_gguf *g)
{
    const float *embd = floats_of(g, "token_embd.weight"), *gain = floats_of(g, "token_embd_norm.weight"),
                *shift = floats_of(g, "token_embd_norm.bias");
    const tllm_gguf_tensor *t = tllm_gguf_tensor_find(g, "token_embd.weight");
    const size_t D = (size_t)t->dim[0], V = (size_t)t->dim[1];
    float *normed = (float *)t_keep(sizeof *normed * V * D);
    size_t i, j;
    for (i = 0; i < V; i++) {
        double mean = 0.0, ss = 0.0;
        for (j = 0; j < D; j++) mean += (double)embd[i * D + j] / (double)D;
        for (j = 0; j < D; j++) ss += ((double)embd[i * D + j] - mean) * ((double)embd[i * D + j] - mean);
        for (j = 0; j < D; j++)
            normed[i * D + j] = (float)(((double)embd[i * D + j] - mean) / sqrt(ss / (double)D + 1e-5) *
                                        (double)gain[j] + (double)shift[j]);
    }
    add_tensor(ctx, w, "token_embd.weight", D, V, normed);
    add_tensor(ctx, w, "output.weight", D, V, embd);
    T_OK(tllm_writer_put_f32(ctx, w, "mpt.attention.max_alibi_bias", 8.0f));
    T_OK(tllm_writer_put_f32(ctx, w, "mpt.attention.clamp_kqv", 1000.0f));
}

/* recurrent layers by a list instead of an interval */
static void make_list(tiny_ctx *ctx, tllm_writer *w, const tllm_gguf *g)
{
    static const uint8_t list[4] = { 1, 1, 1, 0 };
    (void)g;
    T_OK(tllm_writer_put_array(ctx, w, "qwen35.attention.recurrent_layers", TLLM_BOOL, list, 4));
    T_OK(tllm_writer_put_u32(ctx, w, "qwen35.full_attention_interval", 2));
}

static int ends_in(tllm_text name, const char *end)
{
    const size_t n = strlen(end);
    return name.n >= n && !memcmp(name.at + name.n - n, end, n);
}

/* numbers of the remade model; NULL: no file, or it failed with a message */
static float *run_remade(tiny_ctx *ctx, const remade *r, const int32_t *tokens, int n, tiny_idx *n_out)
{
    char path[256];
    const char *full;
    size_t i, j, bytes;
    float *out = NULL;
    tllm_gguf *g = NULL, *again = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_writer *w = NULL;
    tllm_writer_desc desc;
    memset(&desc, 0, sizeof desc);
    (void)snprintf(path, sizeof path, "oracle/llm/%.60s.gguf", r->source);
    full = t_shared(path);
    if (!full) return NULL;
    if (T_OK(tllm_gguf_open(ctx, full, &g)) && T_OK(tllm_writer_open(ctx, &desc, &w))) {
        tllm_about about;
        for (i = 0; i < tllm_gguf_n_meta(g); i++) {
            tllm_meta m = *tllm_gguf_meta_at(g, i);
            char key[256];
            const char *dot = (const char *)memchr(m.key.at, '.', m.key.n);
            if (r->to && tllm_text_is(m.key, "general.architecture")) {
                T_OK(tllm_writer_put_text(ctx, w, "general.architecture", r->to));
                continue;
            }
            if (r->to && dot && (size_t)(dot - m.key.at) == strlen(r->source) &&
                !memcmp(m.key.at, r->source, strlen(r->source))) {
                (void)snprintf(key, sizeof key, "%s%.*s", r->to, (int)(m.key.n - strlen(r->source)), dot);
                m.key.at = key;
                m.key.n = strlen(key);
            }
            T_OK(tllm_writer_put_meta(ctx, w, &m));
        }
        for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
            for (j = 0; j < 4 && !(r->drop[j] && ends_in(t->name, r->drop[j])); j++) {}
            if (j == 4) T_OK(tllm_writer_put_tensor(ctx, w, t->name, t->type, t->rank, t->dim, t->data));
        }
        r->make(ctx, w, g);
        T_OK(tllm_writer_finish(ctx, w));
        full = (const char *)tllm_writer_memory(w, &bytes);
        if (T_OK(tllm_gguf_open_memory(ctx, full, bytes, &again)) && T_OK(tllm_model_open(ctx, again, &model)) &&
            T_OK(tllm_state_open(ctx, model, NULL, &state))) {
            tllm_model_about(model, &about);
            *n_out = about.n_out;
            out = (float *)t_keep((size_t)n * (size_t)about.n_out * sizeof *out);
            if (!T_OK(tllm_forward(state, tokens, n, 0, n, out))) out = NULL;
        }
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, again);
    tllm_writer_close(ctx, w);
    tllm_gguf_close(ctx, g);
    return out;
}

static void test_other_tensors(tiny_target target)
{
    static const remade all[] = {
        { "deepseek2", { "attn_k_b.weight", "attn_v_b.weight", NULL, NULL }, make_kv_b, NULL },
        { "qwen3next",
          { "attn_gate.weight", "0.attn_qkv.weight", "1.attn_qkv.weight", "2.attn_qkv.weight" },
          make_ssm_in,
          NULL },
        { "qwen35", { NULL, NULL, NULL, NULL }, make_list, NULL },
        { "bloom", { "token_embd.weight", "token_embd_norm.weight", "token_embd_norm.bias", NULL }, make_mpt, "mpt" }
    };
    tiny_ctx *ctx = t_ctx(target, 1);
    size_t k;
    int ran = 0;
    for (k = 0; k < T_COUNT(all); k++) {
        int32_t tokens[128];
        tiny_idx n_out = 0;
        const int n = tokens_of(all[k].source, tokens);
        const float *out;
        relative r;
        if (!n || (out = run_remade(ctx, &all[k], tokens, n, &n_out)) == NULL) continue;
        ran++;
        memset(&r, 0, sizeof r);
        r.source = r.to = all[k].source;
        compare(&r, out, golden(all[k].source, (size_t)n * (size_t)n_out), (size_t)n * (size_t)n_out);
    }
    T_SOME(ran);
    t_close(ctx);
}

/* ---- routers that cannot decide ---------------------------------------------------------------------------------- */

/* llama with random experts instead of its network. A router of zeros gives every expert the same p, to the bit: the
 * first of equals are taken, each with weight 1 / n. That equals one dense network of their total width, its gates and
 * ups below one another, the downs side by side and divided by n. A bias of (0 1 1 1) leaves ties among those with 1,
 * and no effect on the weights. */
enum { MOE_D = 64, MOE_FF = 80, MOE_E = 4 };
static float moe_weights[2][3][MOE_E * MOE_FF * MOE_D];      /* gates, ups, downs of two layers */

static struct { int used, first, dense, biased; } moe;       /* the output of make_moe: the experts from first on */

static void make_moe(tiny_ctx *ctx, tllm_writer *w, const tllm_gguf *g)
{
    static const char *const kind[3] = { "gate", "up", "down" };
    static char name[2][5][64];
    static const float zero[MOE_D * MOE_E] = { 0 }, bias[MOE_E] = { 0, 1, 1, 1 };
    const int n = moe.used;
    int layer, k, e, i, j;
    (void)g;
    T_OK(tllm_writer_put_u32(ctx, w, "llama.expert_count", moe.dense ? 0 : MOE_E));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.expert_used_count", moe.dense ? 0 : (uint32_t)n));
    T_OK(tllm_writer_put_u32(ctx, w, "llama.feed_forward_length", moe.dense ? (uint32_t)(n * MOE_FF) : MOE_FF));
    for (layer = 0; layer < 2; layer++) {
        if (!moe.dense) {
            (void)snprintf(name[layer][3], sizeof name[0][0], "blk.%d.ffn_gate_inp.weight", layer);
            add_tensor(ctx, w, name[layer][3], MOE_D, MOE_E, zero);
            (void)snprintf(name[layer][4], sizeof name[0][0], "blk.%d.exp_probs_b.bias", layer);
            if (moe.biased) add_tensor(ctx, w, name[layer][4], MOE_E, 1, bias);
        }
        for (k = 0; k < 3 && !moe.dense; k++) {
            const uint64_t dim[3] = { k < 2 ? MOE_D : MOE_FF, k < 2 ? MOE_FF : MOE_D, MOE_E };
            float *little = (float *)t_keep(sizeof moe_weights[0][0]);
            tllm_text text;
            (void)snprintf(name[layer][k], sizeof name[0][0], "blk.%d.ffn_%s_exps.weight", layer, kind[k]);
            text.at = name[layer][k];
            text.n = strlen(text.at);
            tllm_format_of(TLLM_FORMAT_F32)->pack(moe_weights[layer][k], little, T_COUNT(moe_weights[0][0]), NULL);
            T_OK(tllm_writer_put_tensor(ctx, w, text, TLLM_FORMAT_F32, 3, dim, little));
        }
        for (k = 0; k < 3 && moe.dense; k++) {
            const float *x = moe_weights[layer][k];
            float *y = (float *)t_keep(sizeof *y * (size_t)(n * MOE_FF * MOE_D));
            for (e = 0; e < n; e++) {
                const float *one = x + (moe.first + e) * MOE_FF * MOE_D;
                if (k < 2) memcpy(y + e * MOE_FF * MOE_D, one, sizeof *y * MOE_FF * MOE_D);
                else
                    for (i = 0; i < MOE_D; i++)
                        for (j = 0; j < MOE_FF; j++) y[(i * n + e) * MOE_FF + j] = one[i * MOE_FF + j] / (float)n;
            }
            (void)snprintf(name[layer][k], sizeof name[0][0], "blk.%d.ffn_%s.weight", layer, kind[k]);
            add_tensor(ctx, w, name[layer][k], k < 2 ? MOE_D : (uint64_t)(n * MOE_FF),
                       k < 2 ? (uint64_t)(n * MOE_FF) : MOE_D, y);
        }
    }
}

static void test_router_ties(tiny_target target)
{
    static const remade
        routed = { "llama", { "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", NULL }, make_moe, NULL },
        dense = { "llama", { "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", NULL }, make_moe, NULL };
    static const struct {
        int used, biased, first;
    } row[] = { { 1, 0, 0 }, { 2, 0, 0 }, { 3, 0, 0 }, { MOE_E, 0, 0 },
                { 1, 1, 1 }, { 2, 1, 1 }, { 3, 1, 1 }, { MOE_E, 1, 0 } };
    tiny_ctx *ctx = t_ctx(target, 2);
    int32_t tokens[128];
    const int n = tokens_of("llama", tokens);
    size_t i, e;
    for (i = 0; i < 6; i++)
        for (e = 0; e < T_COUNT(moe_weights[0][0]); e++) moe_weights[i / 3][i % 3][e] = t_rand_float(-0.3f, 0.3f);
    for (i = 0; i < T_COUNT(row) && n; i++) {
        const float *got, *want, *other;
        relative r;
        tiny_idx n_out = 0, k, differ = 0;
        memset(&r, 0, sizeof r);
        r.source = r.to = "llama with experts";
        moe.used = row[i].used;
        moe.biased = row[i].biased;
        moe.first = row[i].first;
        moe.dense = 0;
        got = run_remade(ctx, &routed, tokens, n, &n_out);
        moe.dense = 1;
        want = run_remade(ctx, &dense, tokens, n, &n_out);
        if (!got || !want) break;
        compare(&r, got, want, (size_t)n * (size_t)n_out);
        if (moe.used < MOE_E - moe.first) {     /* and the next experts would have been read */
            moe.first++;
            other = run_remade(ctx, &dense, tokens, n, &n_out);
            for (k = 0; other && k < n * n_out; k++) differ += fabs((double)got[k] - (double)other[k]) > 0.01;
            T_TRUE(differ > n * n_out / 2);
        }
        t_free_blocks();
    }
    T_SOME(n);
    t_close(ctx);
}

/* calls that an encoder cannot do are refused */
/* Gated linear attention whose keys and values are those of one head for `group` others: the first heads of a present
 * model, once each, or each as often as it is used. Rows are copied in their format. */
static float *run_shared(tiny_ctx *ctx, const tllm_gguf *g, int group, int often, const int32_t *tokens, int n,
                         tiny_idx *n_out)
{
    float *out = NULL;
    int64_t width = 0, S = 0;
    size_t i, bytes;
    tllm_gguf *again = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_writer *w = NULL;
    if (!T_TRUE(tllm_meta_i64(tllm_gguf_find(g, "rwkv6qwen2.embedding_length"), 0, &width) &&
                tllm_meta_i64(tllm_gguf_find(g, "rwkv6qwen2.wkv.head_size"), 0, &S)))
        return NULL;
    if (!T_TRUE(width % (S * group) == 0) || !T_OK(tllm_writer_open(ctx, NULL, &w))) return NULL;
    for (i = 0; i < tllm_gguf_n_meta(g); i++) T_OK(tllm_writer_put_meta(ctx, w, tllm_gguf_meta_at(g, i)));
    for (i = 0; i < tllm_gguf_n_tensors(g); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        if (ends_in(t->name, "time_mix_key.weight") || ends_in(t->name, "time_mix_value.weight")) {
            const size_t each = t->bytes / (size_t)width;
            unsigned char *rows = (unsigned char *)t_keep(t->bytes);
            uint64_t dim[2];
            int64_t r;
            dim[0] = t->dim[0];
            dim[1] = (uint64_t)(often ? width : width / group);
            for (r = 0; r < (int64_t)dim[1]; r++)
                memcpy(rows + (size_t)r * each, t->data + (size_t)(often ? r / S / group * S + r % S : r) * each, each);
            T_OK(tllm_writer_put_tensor(ctx, w, t->name, t->type, 2, dim, rows));
        } else T_OK(tllm_writer_put_tensor(ctx, w, t->name, t->type, t->rank, t->dim, t->data));
    }
    T_OK(tllm_writer_finish(ctx, w));
    {
        const void *file = tllm_writer_memory(w, &bytes);
        if (T_OK(tllm_gguf_open_memory(ctx, file, bytes, &again)) && T_OK(tllm_model_open(ctx, again, &model)) &&
            T_OK(tllm_state_open(ctx, model, NULL, &state))) {
            tllm_about about;
            tllm_model_about(model, &about);
            *n_out = about.n_out;
            out = (float *)t_keep((size_t)n * (size_t)about.n_out * sizeof *out);
            T_OK(tllm_forward(state, tokens, n - 1, 0, n - 1, out));           /* a piece, and one token alone */
            T_OK(tllm_forward(state, tokens + n - 1, 1, n - 1, 1, out + (size_t)(n - 1) * (size_t)about.n_out));
        }
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, again);
    tllm_writer_close(ctx, w);
    return out;
}

static void test_shared_heads(tiny_target target)
{
    enum { N = 40 };
    tiny_ctx *ctx = t_ctx(target, 1);
    tllm_gguf *g = NULL;
    int32_t tokens[N];
    int i, group;
    for (i = 0; i < N; i++) tokens[i] = (7 * i * i + 3 * i + 1) % 500;
    if (T_OK(tllm_gguf_open(ctx, "examples/models/story-gla.gguf", &g)))
        for (group = 1; group <= 4; group *= 2) {
            tiny_idx n_out = 0, k;
            const float *few = run_shared(ctx, g, group, 0, tokens, N, &n_out),
                        *all = run_shared(ctx, g, group, 1, tokens, N, &n_out);
            double most = 0, off = 0;
            if (!few || !all) continue;
            for (k = 0; k < N * n_out; k++) {
                most = fabs((double)all[k]) > most ? fabs((double)all[k]) : most;
                off = fabs((double)all[k] - (double)few[k]) > off || few[k] != few[k]
                          ? fabs((double)all[k] - (double)few[k])
                          : off;
            }
            T_TRUE(most > 1);
            T_CLOSE(off, 0, 1e-5 * most);
        }
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_refused(void)
{
    static const relative all[] = {
        { "gemma-embedding",
          "gemma-embedding",
          "gemma-embedding",
          { { "attention.shared_kv_layers", 'u', 3 }, { NULL, 0, 0 } },
          "no keys of its own",
          NULL },
        { "gemma4",
          "gemma4",
          "gemma4",
          { { "attention.causal", 'b', 0 }, { NULL, 0, 0 } },
          "no keys of its own",
          NULL },
        { "deepseek2",
          "deepseek2",
          "deepseek2",
          { { "attention.causal", 'b', 0 }, { NULL, 0, 0 } },
          "look ahead",
          NULL },
        { "deepseek2",
          "deepseek2",
          "deepseek2",
          { { "attention.shared_kv_layers", 'u', 1 }, { NULL, 0, 0 } },
          "no keys of its own",
          NULL },
        { "jamba", "jamba", "jamba", { { "attention.causal", 'b', 0 }, { NULL, 0, 0 } }, "look ahead", NULL }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    size_t i, bytes;
    int n = 0;
    for (i = 0; i < T_COUNT(all); i++) {
        relative r = all[i];
        char path[256];
        const char *full;
        tllm_gguf *g = NULL, *again = NULL;
        tllm_model *model = NULL;
        tllm_writer *w = NULL;
        r.text_key = NULL;                  /* here it holds the sentence of the refusal */
        (void)snprintf(path, sizeof path, "oracle/llm/%.60s.gguf", r.source);
        full = t_one_of(path);
        if (!full) continue;
        n++;
        if (T_OK(tllm_gguf_open(ctx, full, &g)) && (w = rewrite(ctx, g, &r, NULL, 0, NULL)) != NULL) {
            full = (const char *)tllm_writer_memory(w, &bytes);
            T_OK(tllm_gguf_open_memory(ctx, full, bytes, &again));
            if (!T_TRUE(tllm_model_open(ctx, again, &model) != TINY_OK &&
                        strstr(tiny_ctx_message(ctx), all[i].text_key)))
                printf("  %s: %s\n", r.source, tiny_ctx_message(ctx));
        }
        tllm_model_close(ctx, model);
        tllm_gguf_close(ctx, again);
        tllm_writer_close(ctx, w);
        tllm_gguf_close(ctx, g);
    }
    T_SOME(n);
    t_close(ctx);
}

int main(void)
{
    T_RUN_TARGETS(test_same_as_golden);
    T_RUN_TARGETS(test_long_rope);
    T_RUN_TARGETS(test_two_ways);
    T_RUN_TARGETS(test_shared_heads);
    T_RUN_TARGETS(test_window_of_lfm2);
    T_RUN_TARGETS(test_other_tensors);
    T_RUN_TARGETS(test_router_ties);
    T_RUN(test_without_the_number);
    T_RUN(test_refused);
    return t_done();
}
