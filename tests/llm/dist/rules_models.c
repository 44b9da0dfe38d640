/* tests/llm/dist/rules_models.c - plans for model files, executed with the weights of the file
 *
 * Truth    the model's own forward on one rank, for single tokens: at the first position nothing is rotated, and the
 *          weights of a norm can be put into the matrices behind it; then the graph of the file is the model. For
 *          several tokens, and for a model whose embedding is its last matrix too, the same graph in double. */
#include "llm/dist/graph.h"

enum { FIRST = 4 };                         /* single tokens */

/* the number of a key of the architecture */
static int number(const tllm_gguf *g, const char *name)
{
    char key[120];
    tllm_text named;
    int64_t v = 0;
    if (!T_TRUE(tllm_meta_text(tllm_gguf_find(g, "general.architecture"), 0, &named))) return 0;
    (void)snprintf(key, sizeof key, "%.*s.%s", (int)named.n, named.at, name);
    return tllm_gguf_find(g, key) && tllm_meta_i64(tllm_gguf_find(g, key), 0, &v) ? (int)v : 0;
}
/* the weights of the norm that a matrix reads from; NULL: it reads no norm */
static const float *norm_before(const tllm_gguf *g, const tllm_gguf_tensor *t)
{
    static const char *const after[][2] = { { "attn_q.weight", "attn_norm" },   { "attn_k.weight", "attn_norm" },
                                            { "attn_v.weight", "attn_norm" },   { "attn_qkv.weight", "attn_norm" },
                                            { "ffn_gate.weight", "ffn_norm" },  { "ffn_up.weight", "ffn_norm" } };
    char name[100];
    const tllm_gguf_tensor *norm = NULL;
    const char *dot = (const char *)memchr(t->name.at + 4, '.', t->name.n - 4);
    size_t i, at;
    if (tllm_text_is(t->name, "output.weight")) norm = tllm_gguf_tensor_find(g, "output_norm.weight");
    for (i = 0; i < T_COUNT(after) && dot; i++) {
        at = (size_t)(dot + 1 - t->name.at);
        if (t->name.n - at != strlen(after[i][0]) || memcmp(dot + 1, after[i][0], t->name.n - at)) continue;
        (void)snprintf(name, sizeof name, "%.*s.%s.weight", (int)(dot - t->name.at), t->name.at, after[i][1]);
        norm = tllm_gguf_tensor_find(g, name);
    }
    return norm ? (const float *)(const void *)norm->data : NULL;
}

/* the graph of a file and its weights, with those of the norms in the matrices */
static int load(tiny_ctx *ctx, const tllm_gguf *g, const char *name, arch *a)
{
    size_t i, k;
    memset(a, 0, sizeof *a);
    a->name = name;
    a->n = tllm_gguf_n_tensors(g);
    a->d = number(g, "embedding_length");
    a->heads = number(g, "attention.head_count");
    a->kv = number(g, "attention.head_count_kv");
    a->embedding = GRAPH;
    if (!T_TRUE(a->n <= GRAPH) || !T_OK(tllm_shard_graph(ctx, g, a->node, GRAPH, &a->n_nodes))) return 0;
    for (i = 0; i < a->n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(g, i);
        const float *norm = norm_before(g, t);
        if (t->rank != 2) continue;
        if (!T_EQ_INT(t->type, TLLM_FORMAT_F32)) return 0;
        a->weight[i] = (float *)t_keep(t->bytes);
        memcpy(a->weight[i], t->data, t->bytes);
        for (k = 0; norm && k < (size_t)(t->dim[0] * t->dim[1]); k++) a->weight[i][k] *= norm[k % (size_t)t->dim[0]];
        a->t[i].rank = 2;
        if (tllm_text_is(t->name, "token_embd.weight")) {
            a->embedding = i;
            a->vocab = (int)t->dim[1];
        }
        a->t[i].dim[0] = t->dim[i == a->embedding];
        a->t[i].dim[1] = t->dim[i != a->embedding];
    }
    return T_TRUE(a->embedding < a->n) && T_TRUE(a->weight[a->embedding] != NULL);
}

/* the logits of each token alone, at the first position */
static int first_logits(tiny_ctx *ctx, const tllm_gguf *g, const int32_t *token, float *logits, size_t width)
{
    tllm_state_desc d;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    int i, ok;
    memset(&d, 0, sizeof d);
    d.n_ctx = 4;
    ok = T_OK(tllm_model_open(ctx, g, &model)) && T_OK(tllm_state_open(ctx, model, &d, &state));
    for (i = 0; i < FIRST && ok; i++) {
        ok = T_OK(tllm_forward(state, token + i, 1, 0, 1, logits + (size_t)i * width));
        tllm_state_clear(state);
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    return ok;
}

static void test_models(void)
{
    static const char *const name[] = { "llama", "phi3", "smollm3", "mistral", "internlm2" };
    int some = 0;
    size_t k;
    for (k = 0; k < T_COUNT(name); k++) {
        static int32_t token[GRAPH_TOKENS];
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tllm_gguf *g = NULL;
        char path[80];
        static arch a;
        float *logits;
        double *want, one[2000];
        size_t width = 0, i;
        int n, hand, tcp, first, exact = 0;
        const char *at;
        (void)snprintf(path, sizeof path, "oracle/llm/%s.gguf", name[k]);
        at = t_one_of(path);
        if (at && T_OK(tllm_gguf_open(ctx, at, &g)) && load(ctx, g, name[k], &a)) {
            for (i = 0; i < GRAPH_TOKENS; i++) token[i] = (int32_t)((i * 37 + 5) % (size_t)a.vocab);
            a.token = token;
            a.n_tokens = GRAPH_TOKENS;
            want = by_hand(&a, &width);
            if (!T_TRUE(width == (size_t)a.vocab && width <= T_COUNT(one))) return;
            logits = t_guarded(FIRST * width);
            if (tllm_gguf_tensor_find(g, "output.weight")) exact = first_logits(ctx, g, token, logits, width);
            some += exact;
            for (n = 1; n <= 4; n *= 2) {
                tllm_rules *rules = NULL;
                int cut = 0;
                T_OK(tllm_rules_file(ctx, g, n, &rules));
                for (i = 0; i < a.n; i++) cut += tllm_rules_dim(rules, i) >= 0;
                T_TRUE(cut == 0 ? n == 1 : cut > 8);
                for (hand = 0; hand < 2; hand++) {
                    if (hand) T_OK(tllm_shard_by_hand(ctx, rules, a.node, a.n_nodes));
                    for (tcp = 0; tcp < 1 + (n > 1); tcp++) {
                        a.token = token;
                        a.n_tokens = GRAPH_TOKENS;
                        executes(ctx, &a, rules, want, width, 1e-4, tcp);
                        for (first = 0; first < (!exact ? 0 : tcp ? 1 : FIRST); first++) {
                            for (i = 0; i < width; i++) one[i] = (double)logits[(size_t)first * width + i];
                            a.token = token + first;
                            a.n_tokens = 1;
                            executes(ctx, &a, rules, one, width, 1e-5, tcp);
                        }
                    }
                }
                tllm_rules_close(ctx, rules);
                t_use(ctx);
            }
        }
        tllm_gguf_close(ctx, g);
        t_close(ctx);
        t_free_blocks();
    }
    T_TRUE(some >= 2);                      /* those that come with the repository */
    T_PROOF("distributed 4", "plans of model files with their own weights, 1, 2 and 4 ranks, TCP: the model's logits");
}

int main(void)
{
    T_RUN(test_models);
    return t_done();
}
