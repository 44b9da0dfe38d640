/* tests/llm/model/hostile.c - models with false descriptions: each fault has its own sentence, and none does harm
 *
 * Files of the large oracle are changed in memory: a number, a name, a shape. Then thousands of changed bytes in the
 * descriptions of all of them: a model that still opens must run a token, a refused one must give a sentence. */
#include "t.h"

static unsigned char *slurp(const char *name, size_t *n)
{
    char path[256];
    const char *full;
    FILE *f;
    unsigned char *b = NULL;
    long size = -1;
    (void)snprintf(path, sizeof path, "oracle/llm/%.60s.gguf", name);
    full = t_one_of(path);
    f = full ? fopen(full, "rb") : NULL;
    if (f && !fseek(f, 0, SEEK_END)) size = ftell(f);
    if (size > 0) {
        b = (unsigned char *)t_keep((size_t)size);
        rewind(f);
        if (fread(b, 1, (size_t)size, f) != (size_t)size) b = NULL;
    }
    if (f) (void)fclose(f);
    *n = (size_t)(size > 0 ? size : 0);
    return b;
}

/* the place of the length and text of a key or a tensor's name; NULL: not found */
static unsigned char *find(unsigned char *b, size_t n, const char *text)
{
    const size_t m = strlen(text);
    size_t i;
    for (i = 8; i + m < n; i++)
        if (b[i] == (unsigned char)text[0] && !memcmp(b + i, text, m) && b[i - 8] == (unsigned char)m && !b[i - 7])
            return b + i;
    return NULL;
}

static void put(unsigned char *p, uint64_t v, int bytes)
{
    int i;
    for (i = 0; i < bytes; i++) p[i] = (unsigned char)(v >> 8 * i);
}

/* the change: a key whose value of 4 bytes becomes v; a key or name that becomes another ("-" first: its last letter
 * changes); or a tensor whose first dimensions become v, and the rest of their product */
typedef struct lie { const char *model, *what; uint32_t v; const char *says; } lie;
enum { SHAPE = 1, NUMBER = 2, NAME = 3 };

static tiny_status open_bytes(tiny_ctx *ctx, const unsigned char *b, size_t n, tllm_gguf **file, tllm_model **model)
{
    tiny_status st = tllm_gguf_open_memory(ctx, b, n, file);
    return st ? st : tllm_model_open(ctx, *file, model);
}

/* "A|B": A of the whole model, B of the one in tests/golden with fewer numbers; the half that the message has */
static const char *either(const tiny_ctx *ctx, const char *says, char half[120])
{
    const char *bar = strchr(says, '|');
    if (!bar) return says;
    (void)snprintf(half, 120, "%.*s", (int)(bar - says), says);
    return strstr(tiny_ctx_message(ctx), bar + 1) ? bar + 1 : half;
}

/* the number of faults that were tried, on the models that are present */
static int tell(const lie *l, int kind)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    size_t n;
    unsigned char *b = slurp(l->model, &n), *p = b ? find(b, n, l->what) : NULL;
    const size_t m = strlen(l->what);
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    char half[120];
    tiny_status st;
    if (!b) { t_close(ctx); return 0; }
    if (T_TRUE(p != NULL)) {
        if (kind == NAME) p[m - 1] ^= 1;
        else if (kind == NUMBER) put(p + m + 4, l->v, 4);
        else {
            uint64_t a = 0, c = 0;
            int i;
            for (i = 7; i >= 0; i--) { a = a << 8 | p[m + 4 + (size_t)i]; c = c << 8 | p[m + 12 + (size_t)i]; }
            put(p + m + 4, l->v, 8);
            put(p + m + 12, a * c / l->v, 8);
        }
        st = open_bytes(ctx, b, n, &file, &model);
        if (!T_STATUS(st, kind == NAME && strstr(l->says, "is unknown") ? TINY_E_UNSUPPORTED : TINY_E_FORMAT,
                      either(ctx, l->says, half)))
            printf("  %s: %s\n", l->model, l->what);
        T_TRUE(model == NULL);
    }
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
    return 1;
}
static void tell_all(const lie *l, size_t n, int kind)
{
    size_t i;
    int told = 0;
    for (i = 0; i < n; i++) told += tell(l + i, kind);
    T_SOME(told);
}

static void test_numbers(void)
{
    static const lie lies[] = {
        { "llama", "llama.attention.head_count", 0, "head_count" },
        { "llama", "llama.attention.head_count", 3, "not a multiple" },
        { "llama", "llama.attention.head_count", 0xffffffffu, "not in" },
        { "llama", "llama.attention.head_count_kv", 0, "at least 1" },
        { "llama", "llama.attention.head_count_kv", 3, "4 heads, not a multiple of its 3 key heads" },
        { "llama", "llama.attention.head_count_kv", 4, "attn_k.weight is 64x32, not 64x64" },
        { "llama", "llama.block_count", 0, "block_count is 0" },
        { "llama", "llama.block_count", 3, "blk.2.attn_norm.weight is missing" },
        { "llama", "llama.block_count", 4097, "not in 1..4096" },
        { "llama", "llama.block_count", 0x7fffffff, "not in 1..4096" },
        { "llama", "llama.embedding_length", 0, "embedding_length is 0" },
        { "llama", "llama.embedding_length", 65, "token_embd.weight is 64x320, not 65x320" },
        { "llama", "llama.embedding_length", 0x7fffffff, "not in 1..67108864" },
        { "llama", "llama.feed_forward_length", 0, "feed_forward_length is 0" },
        { "llama", "llama.feed_forward_length", 127, "ffn_gate.weight is 64x128, not 64x127" },
        { "llama", "llama.vocab_size", 321, "token_embd.weight has 320 rows" },
        { "llama", "llama.rope.dimension_count", 15, "even number" },
        { "llama", "llama.rope.dimension_count", 18, "not in 0..16" },
        { "llama", "llama.rope.freq_base", 0, "rope bases" },
        { "llama", "llama.rope.freq_base", 0x7fc00000u, "finite" },
        { "llama", "llama.attention.layer_norm_rms_epsilon", 0x7f800000u, "finite" },
        { "llama", "llama.attention.layer_norm_rms_epsilon", 0xbf800000u, "not in 0..1" },
        { "qwen3", "qwen3.attention.key_length", 1 << 26,
          "heads that rotate 67108864 numbers cannot be in a file of" },
        { "rwkv7-b", "rwkv7.feed_forward_length", 1 << 27, "not in 1..67108864" },
        { "kimi-linear", "kimi-linear.kda.head_dim", 1 << 26, "more than a row may have" },
        { "mixtral", "llama.expert_count", 0, "not in 0..0" },
        { "mixtral", "llama.expert_count", 5, "not 64x5|not 16x5" },
        { "mixtral", "llama.expert_used_count", 5, "not in 0..4" },
        { "mixtral", "llama.expert_used_count", 0, "expert_used_count 0" },
        { "deepseek2-v3", "deepseek2.expert_group_count", 3, "in 3 groups" },
        { "deepseek2-v3", "deepseek2.expert_group_used_count", 0, "0 of them kept" },
        { "deepseek2", "deepseek2.attention.kv_lora_rank", 0, "kv_lora_rank is 0" },
        { "deepseek2", "deepseek2.attention.key_length_mla", 4, "leave none" },
        { "deepseek32", "deepseek32.attention.indexer.top_k", 0, "top_k is 0" },
        { "deepseek32", "deepseek32.attention.indexer.key_length", 4, "fewer than the 8" },
        { "qwen35", "qwen35.ssm.state_size", 0, "delta net of 0" },
        { "qwen35", "qwen35.ssm.group_count", 3, "not a multiple of ssm.group_count" },
        { "qwen35", "qwen35.ssm.inner_size", 80, "ssm.inner_size" },
        { "qwen35", "qwen35.full_attention_interval", 0, "not in 1..65536" },
        { "mamba", "mamba.ssm.conv_kernel", 0, "kernel of 0" },
        { "mamba", "mamba.ssm.state_size", 17, "not 128x38" },
        { "mamba2-b", "mamba2.ssm.group_count", 0, "do not form whole groups" },
        { "mamba2-b", "mamba2.ssm.time_step_rank", 5, "do not form whole groups" },
        { "rwkv7-b", "rwkv7.wkv.head_size", 0, "wkv.head_size 0" },
        { "rwkv7-b", "rwkv7.wkv.head_size", 7, "not a multiple" },
        { "rwkv6", "rwkv6.time_mix_extra_dim", 9, "time_mix_w1" },
        { "lfm2", "lfm2.shortconv.l_cache", 1, "not in 2..4096" },
        { "gemma4", "gemma4.attention.shared_kv_layers", 6, "not in 0..5" },
        { "gemma4", "gemma4.attention.shared_kv_layers", 5, "no keys of its own" },
        { "gemma3n", "gemma3n.altup.num_inputs", 5, "not in 4..4" },
        { "gemma3n", "gemma3n.embedding_length_per_layer_input", 0, "not in 1..67108864" },
        { "gemma3n", "gemma3n.embedding_length_per_layer_input", 255,
          "per_layer_token_embd.weight is 6400x16, not 6375x16" },
        { "t5", "t5.attention.relative_buckets_count", 2, "not in 4..65536" },
        { "t5", "t5.attention.relative_buckets_count", 16, "attn_rel_b.weight is 4x8" },
        { "minimax-m3", "minimax-m3.attention.indexer.head_count", 3, "a head for each key head" },
        { "minimax-m3", "minimax-m3.attention.indexer.key_length", 2, "their rotated numbers: 2 and 4" },
        { "minimax-m3", "minimax-m3.attention.indexer.key_length", 9, "indexer.q_proj.weight is 24x16, not 24x18" },
        { "minimax-m3", "minimax-m3.attention.indexer.top_k", 0, "top_k is 0" },
        { "minimax-m3", "minimax-m3.attention.indexer.block_size", 0, "block_size is 0" },
        { "minimax-m3", "minimax-m3.attention.indexer.local_blocks", 3, "local_blocks is 3, not in 0..2" },
        { "bailingmoe3", "bailingmoe3.kda.gate_lower_bound", 0x3f800000u, "gate_lower_bound is 1 or missing" },
        { "kimi-k3", "kimi-k3.kda.gate_lower_bound", 0, "must be below 0" },
        { "kimi-k3", "kimi-k3.activation.situ_beta", 0xbf800000u, "situ_beta is -1 or missing" },
        { "kimi-k3", "kimi-k3.attn_res.block_size", 4097, "not in 0..4096" },
        { "kimi-k3", "kimi-k3.expert_latent_length", 13, "not 13x5x4" },
        { "deepseek4", "deepseek4.hyper_connection.count", 0, "hyper_connection.count is 0" },
        { "deepseek4", "deepseek4.hyper_connection.count", 3, "output_hc_fn.weight is 32x4, not 24x3" },
        { "deepseek4", "deepseek4.hyper_connection.sinkhorn_iterations", 0, "sinkhorn_iterations is 0" },
        { "deepseek4", "deepseek4.hyper_connection.epsilon", 0xbf800000u, "missing or not in 0..1" },
        { "deepseek4", "deepseek4.attention.output_group_count", 3,
          "not a multiple of attention.output_group_count: 4 and 3" },
        { "deepseek4", "deepseek4.attention.sliding_window", 0, "sliding_window is 0" },
        { "deepseek4", "deepseek4.attention.compress_rope_freq_base", 0, "missing or not above 0" },
        { "deepseek4", "deepseek4.attention.indexer.key_length", 2, "their rotated numbers: 2 and 4" },
        { "deepseek4", "deepseek4.attention.head_count_kv", 2, "one row is key and value" },
        { "deepseek4", "deepseek4.hash_layer_count", 2, "blk.1.ffn_gate_tid2eid.weight is missing" },
        { "hy_v3", "hy_v3.attention.key_length", 10, "attn_q.weight is 24x48, not 24x40" }
    };
    tell_all(lies, T_COUNT(lies), NUMBER);
}

/* Heads of one number that do not rotate are valid: the fault is the tensor, which has other heads. */
static void test_heads_of_one(void)
{
    static const struct { const char *model, *key, *turned, *says; uint32_t n;
    } row[] = { { "qwen3", "qwen3.attention.key_length", NULL, "rope.dimension_count is 1: pairs need an even number",
                  1 },
                { "qwen3", "qwen3.attention.key_length", NULL, "key_length is 0, not in 1..67108864", 0 },
                { "gemma4", "gemma4.attention.key_length_swa", NULL, "rope.dimension_count_swa is 16, not in 0..1", 1 },
                { "gemma4", "gemma4.attention.key_length_swa", NULL, "key_length_swa is 0, not in 1..67108864", 0 },
                { "gemma4", "gemma4.attention.key_length_swa", "gemma4.rope.dimension_count_swa",
                  "blk.0.attn_q.weight is 64x64, not 64x4", 1 } };
    size_t i, n;
    int told = 0;
    for (i = 0; i < T_COUNT(row); i++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
        unsigned char *b = slurp(row[i].model, &n), *p = b ? find(b, n, row[i].key) : NULL,
                      *q = b && row[i].turned ? find(b, n, row[i].turned) : NULL;
        tllm_gguf *file = NULL;
        tllm_model *model = NULL;
        if (b && T_TRUE(p && !row[i].turned == !q)) {
            put(p + strlen(row[i].key) + 4, row[i].n, 4);
            if (q) put(q + strlen(row[i].turned) + 4, 0, 4);
            T_STATUS(open_bytes(ctx, b, n, &file, &model), TINY_E_FORMAT, row[i].says);
            told++;
        }
        tllm_model_close(ctx, model);
        tllm_gguf_close(ctx, file);
        t_close(ctx);
    }
    T_SOME(told);
}

static void test_names(void)
{
    static const lie lies[] = {
        { "llama", "llama.block_count", 0, "llama.block_count is missing" },
        { "llama", "llama.embedding_length", 0, "llama.embedding_length is missing" },
        { "llama", "llama.attention.head_count", 0, "llama.attention.head_count is missing" },
        { "llama", "llama.feed_forward_length", 0, "llama.feed_forward_length is missing" },
        { "llama", "llama.attention.layer_norm_rms_epsilon", 0, "layer_norm_rms_epsilon is missing" },
        { "llama", "general.architecture", 0, "general.architecture is missing" },
        { "llama", "llama", 0, "\"llam`\" is unknown; similar known names: llama" },
        { "llama", "token_embd.weight", 0, "token_embd.weight is missing" },
        { "llama", "output_norm.weight", 0, "output_norm.weight is missing" },
        { "llama", "blk.1.ffn_down.weight", 0, "blk.1.ffn_down.weight is missing" },
        { "llama", "blk.0.ffn_gate.weight", 0, "blk.0.ffn_gate.weight is missing" },
        { "phi2", "blk.0.attn_qkv.weight", 0, "blk.0.attn_q.weight is missing" },
        { "gpt2", "position_embd.weight", 0, "position_embd.weight is" },
        { "deepseek2", "blk.0.attn_k_b.weight", 0, "blk.0.attn_kv_b.weight is missing" },
        { "mamba2-b", "blk.1.ssm_dt.bias", 0, "blk.1.ssm_dt.bias is missing" },
        { "apertus", "xielu.beta", 0, "xielu.beta has no number for layer 0" },
        { "rwkv7-b", "blk.1.time_mix_ln.bias", 0, "time_mix_ln has no bias" },
        { "qwen3-rerank", "cls.output.weight", 0, "cls.output.weight is missing" },
        { "minimax-m3", "minimax-m3.attention.indexer.block_size", 0, "indexer.block_size is missing" },
        { "minimax-m3", "blk.1.indexer.q_proj.weight", 0, "blk.1.indexer.q_proj.weight is missing" },
        { "minimax-m3", "blk.0.indexer.k_norm.weight", 0, "blk.0.indexer.k_norm.weight is missing" },
        { "deepseek4", "deepseek4.attention.compress_ratios", 0, "compress_ratios is missing" },
        { "deepseek4", "blk.1.attn_compressor_ape.weight", 0, "blk.1.attn_compressor_ape.weight is missing" },
        { "deepseek4", "blk.2.hc_ffn_base.weight", 0, "blk.2.hc_ffn_base.weight is missing" },
        { "deepseek4", "output_hc_scale.weight", 0, "output_hc_scale.weight is missing" },
        { "deepseek4", "blk.0.attn_sinks.weight", 0, "blk.0.attn_sinks.weight is missing" },
        { "bailingmoe3", "bailingmoe3.kda.gate_lower_bound", 0, "gate_lower_bound is 0 or missing" },
        { "bailingmoe3", "blk.1.attn_gate.weight", 0, "blk.1.attn_gate.weight is missing" },
        { "bailingmoe3", "blk.0.ssm_g_a.weight", 0, "blk.0.ssm_g_a.weight is missing" },
        { "kimi-k3", "kimi-k3.attn_res.block_size", 0, "attn_res.block_size is missing" },
        { "kimi-k3", "kimi-k3.activation.situ_beta", 0, "situ_beta is 0 or missing" },
        { "kimi-k3", "output_res_score.weight", 0, "output_res_score.weight is missing" },
        { "kimi-k3", "blk.1.ffn_res_score.weight", 0, "blk.1.ffn_res_score.weight is missing" },
        { "kimi-k3", "blk.1.ffn_routed_up.weight", 0, "blk.1.ffn_routed_up.weight is missing" },
        { "kimi-k3", "blk.0.ssm_g.weight", 0, "blk.0.ssm_g.weight is missing" }
    };
    tell_all(lies, T_COUNT(lies), NAME);
}

static void test_shapes(void)
{
    static const lie lies[] = {
        { "llama", "blk.0.attn_q.weight", 32, "blk.0.attn_q.weight is 32x128, not 64x64" },
        { "llama", "blk.0.attn_k.weight", 32, "blk.0.attn_k.weight is 32x64, not 64x32" },
        { "llama", "blk.1.ffn_down.weight", 64, "blk.1.ffn_down.weight is 64x128, not 128x64" },
        { "llama", "output.weight", 320, "output.weight is 320x64, not 64x320" },
        { "llama", "token_embd.weight", 320, "token_embd.weight" },
        { "mamba", "blk.0.ssm_x.weight", 36, "blk.0.ssm_x.weight is 36x128, not 128x36" },
        { "jamba", "blk.0.ssm_dt.weight", 128,
          "blk.0.ssm_dt.weight is 128x4, not 4x128|128x1, not 4x32" },
        { "lfm2", "blk.0.shortconv.in_proj.weight", 192, "not 64x192|not 16x48" },
        { "rwkv7-b", "blk.0.time_mix_w2.weight", 128, "not 8x128|not 8x64" },
        { "llama-q8_0", "blk.0.attn_q.weight", 32, "is 32x128, not 64x64" }
    };
    tell_all(lies, T_COUNT(lies), SHAPE);
}

/* every model with changed bytes in its description */
static void test_changed_bytes(void)
{
    static const char *const names[] = { "llama",
                                         "llama-q4_k",
                                         "mixtral",
                                         "qwen3moe",
                                         "gemma2",
                                         "gemma3n",
                                         "gemma4",
                                         "gemma4-moe",
                                         "phi3",
                                         "gpt2",
                                         "falcon-40b",
                                         "bloom",
                                         "deepseek2-v3",
                                         "deepseek32",
                                         "kimi-linear",
                                         "plm",
                                         "gemma-embedding",
                                         "gemma3-b",
                                         "bert",
                                         "jina-bert-v2",
                                         "modern-bert",
                                         "t5",
                                         "t5encoder",
                                         "mamba",
                                         "mamba2-b",
                                         "jamba",
                                         "plamo2",
                                         "rwkv6",
                                         "rwkv7-b",
                                         "lfm2moe",
                                         "qwen35moe",
                                         "qwen3next",
                                         "granitehybrid-moe",
                                         "nemotron_h_moe",
                                         "falcon-h1",
                                         "llama4-b",
                                         "gpt-oss-mxfp4",
                                         "qwen3-rerank",
                                         "apertus",
                                         "smallthinker",
                                         "cohere2",
                                         "exaone4",
                                         "granite_swa",
                                         "nanbeige",
                                         "plamo3",
                                         "mellum",
                                         "afmoe",
                                         "mimo2",
                                         "step35",
                                         "laguna",
                                         "hy_v3",
                                         "minimax-m3",
                                         "bailingmoe3",
                                         "kimi-k3",
                                         "deepseek4" };
    const char *times = getenv("T_TIMES");
    const int each = times ? atoi(times) : 40;
    size_t i;
    int k, opened = 0, ran = 0, n_models = 0;
    for (i = 0; i < T_COUNT(names); i++) {
        size_t n, head, j;
        unsigned char *b = slurp(names[i], &n), *copy, *last;
        if (!b) continue;
        n_models++;
        copy = (unsigned char *)t_keep(n);
        last = find(b, n, "token_embd.weight");
        head = last ? (size_t)(last - b) + 8000 : 8000;    /* metadata and the list of tensors */
        head = head < n ? head : n;
        for (k = 0; k < each; k++) {
            tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
            tiny_ctx *ctx = NULL;
            tllm_gguf *file = NULL;
            tllm_model *model = NULL;
            tllm_state *state = NULL;
            tllm_state_desc sd;
            tllm_about about;
            const int32_t tokens[3] = { 1, 0, 2 };
            size_t bytes = 0, before;
            int c;
            memset(&sd, 0, sizeof sd);
            sd.n_ctx = 8;
            d.max_bytes = (size_t)64 << 20;
            memcpy(copy, b, n);
            for (c = 1 + (int)t_rand_below(2); c > 0; c--) {
                j = t_rand_below((uint32_t)head);
                copy[j] = (unsigned char)(t_rand_below(2) ? t_rand_u64() & 255u
                                                          : (uint64_t)copy[j] ^ (uint64_t)1 << t_rand_below(8));
            }
            if (!T_OK(tiny_ctx_open(&d, &ctx))) return;
            before = t_alloc.live_bytes;
            t_alloc.most_bytes = before;
            if (open_bytes(ctx, copy, n, &file, &model)) {
                if (!T_TRUE(tiny_ctx_message(ctx)[0])) printf("  %s, change %d\n", names[i], k);
            } else {
                opened++;
                tllm_model_about(model, &about);
                if (!T_TRUE(t_alloc.most_bytes - before <= 2 * n + 1000000))
                    printf("  %s: %lu bytes for a file of %lu\n", names[i],
                           (unsigned long)(t_alloc.most_bytes - before), (unsigned long)n);
                if (about.n_vocab > 2 && about.n_out < 100000 && !tllm_state_memory(ctx, model, &sd, &bytes) &&
                    !tllm_state_open(ctx, model, &sd, &state)) {
                    float *out = (float *)malloc((size_t)about.n_out * 3 * sizeof *out);
                    tiny_status st;
                    if (!out) { puts("the test itself has no memory"); exit(2); }
                    if (about.is_encoder || about.has_decoder || about.output != TLLM_LOGITS)
                        st = tllm_forward_all(state, tokens, 3, about.has_decoder ? NULL : out);
                    else st = tllm_forward(state, tokens, 3, 0, 3, out);
                    if (!st && about.has_decoder) st = tllm_forward(state, tokens, 2, 0, 2, out);
                    ran += !st;
                    free(out);
                }
            }
            tllm_state_close(ctx, state);
            tllm_model_close(ctx, model);
            tllm_gguf_close(ctx, file);
            tiny_ctx_close(ctx);
        }
    }
    if (getenv("T_VERBOSE")) printf("%d of %d opened, %d ran\n", opened, each * n_models, ran);
    T_SOME(n_models);
    T_TRUE(ran > 0 || !n_models);
}

/* weights that are NaN: a router still gives each token different experts (an expert chosen twice once wrote past the
 * rows) */
static void test_router_of_nan(void)
{
    static const char *const names[] = { "mixtral", "deepseek2-v3", "gpt-oss-b", "llama4-b" };
    size_t i, k, n;
    int n_models = 0;
    for (i = 0; i < T_COUNT(names); i++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
        unsigned char *b = slurp(names[i], &n);
        tllm_gguf *file = NULL;
        tllm_model *model = NULL;
        tllm_state *state = NULL;
        const int32_t tokens[5] = { 1, 2, 3, 4, 5 };
        n_models += b != NULL;
        if (b && T_OK(tllm_gguf_open_memory(ctx, b, n, &file))) {
            const tllm_gguf_tensor *t = tllm_gguf_tensor_find(file, "blk.1.ffn_gate_inp.weight");
            if (T_TRUE(t != NULL))
                for (k = 0; k < t->bytes; k++) b[(size_t)(t->data - b) + k] = 0xff;
            if (T_OK(tllm_model_open(ctx, file, &model)) && T_OK(tllm_state_open(ctx, model, NULL, &state))) {
                float *out = t_guarded(5 * 320);
                T_OK(tllm_forward(state, tokens, 5, 0, 5, out));
                T_WALLS(out, 5 * 320);
            }
        }
        tllm_state_close(ctx, state);
        tllm_model_close(ctx, model);
        tllm_gguf_close(ctx, file);
        t_close(ctx);
    }
    T_SOME(n_models);
}

/* a table that names missing experts; blocks of keys of another size */
static void test_tables(void)
{
    static const struct { const char *tensor, *key; size_t at; uint32_t v; tiny_status st; const char *says; } all[] = {
        { "blk.0.ffn_gate_tid2eid.weight", NULL, 63, 4, TINY_E_FORMAT, "names expert 4 of 4" },
        { "blk.0.ffn_gate_tid2eid.weight", NULL, 0, 0xffffffffu, TINY_E_FORMAT, "names expert -1 of 4" },
        { NULL, "deepseek4.attention.compress_ratios", 1, 8, TINY_E_UNSUPPORTED, "layer 1 compresses 8 tokens" },
        { NULL, "deepseek4.attention.compress_ratios", 2, 129, TINY_E_FORMAT, "not in 0..128" },
        { NULL, "deepseek4.expert_gating_func", 0, 2, TINY_E_UNSUPPORTED, "expert_gating_func is 2" } };
    size_t i, n;
    for (i = 0; i < T_COUNT(all); i++) {
        tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
        unsigned char *b = slurp("deepseek4", &n), *p = b && all[i].key ? find(b, n, all[i].key) : NULL;
        tllm_gguf *file = NULL;
        tllm_model *model = NULL;
        const tllm_gguf_tensor *t = NULL;
        if (b && all[i].tensor && T_OK(tllm_gguf_open_memory(ctx, b, n, &file))) {
            t = tllm_gguf_tensor_find(file, all[i].tensor);
            if (T_TRUE(t && t->bytes >= 4 * all[i].at + 4)) put(b + (t->data - b) + 4 * all[i].at, all[i].v, 4);
            tllm_gguf_close(ctx, file);
        } else if (b && T_TRUE(p != NULL))
            put(p + strlen(all[i].key) + (p[strlen(all[i].key)] == 9 ? 16 : 4) + 4 * all[i].at, all[i].v, 4);
        file = NULL;
        if (b) T_STATUS(open_bytes(ctx, b, n, &file, &model), all[i].st, all[i].says);
        tllm_model_close(ctx, model);
        tllm_gguf_close(ctx, file);
        t_close(ctx);
    }
}

static void test_calls(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    size_t n;
    unsigned char *b = slurp("llama", &n);
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    tllm_state *state = NULL;
    tllm_state_desc d;
    const int32_t bad[2] = { 0, 320 }, low[1] = { -1 }, good[2] = { 1, 2 };
    float *out = t_guarded(640);
    if (b && T_OK(open_bytes(ctx, b, n, &file, &model))) {
        memset(&d, 0, sizeof d);
        d.n_ctx = -1;
        T_STATUS(tllm_state_open(ctx, model, &d, &state), TINY_E_ARGUMENT, "-1 tokens");
        d.n_ctx = 3;
        T_STATUS(tllm_state_open(ctx, NULL, &d, &state), TINY_E_ARGUMENT, "the model is NULL");
        T_OK(tllm_state_open(ctx, model, &d, &state));
        T_STATUS(tllm_forward(state, bad, 2, 0, 2, out), TINY_E_ARGUMENT, "token 1 is 320, but the vocabulary has 320");
        T_STATUS(tllm_forward(state, low, 1, 0, 1, out), TINY_E_ARGUMENT, "token 0 is -1");
        T_STATUS(tllm_forward(state, good, 0, 0, 0, out), TINY_E_ARGUMENT, "at least one token");
        T_STATUS(tllm_forward(state, good, 2, 0, 3, out), TINY_E_ARGUMENT, "results of 3 of 2 tokens");
        T_STATUS(tllm_forward(state, good, 2, -1, 2, out), TINY_E_ARGUMENT, "position -1");
        T_OK(tllm_forward(state, good, 2, 0, 2, out));
        T_WALLS(out, 640);
        T_STATUS(tllm_forward(state, good, 2, 2, 2, out), TINY_E_ARGUMENT, "more than the 3");
        T_STATUS(tllm_forward(state, good, 1, 1, 1, out), TINY_E_ARGUMENT, "position 1");
        T_STATUS(tllm_state_trim(state, 3), TINY_E_ARGUMENT, "3 cannot be kept");
        T_OK(tllm_state_trim(state, 1));
        T_OK(tllm_forward(state, good + 1, 1, 1, 1, out + 320));
        T_STATUS(tllm_forward_all(state, good, 2, out), TINY_E_ARGUMENT, "not an encoder");
    }
    tllm_state_close(ctx, state);
    tllm_model_close(ctx, model);
    tllm_model_close(ctx, NULL);
    tllm_state_close(ctx, NULL);
    tllm_gguf_close(ctx, file);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_numbers);
    T_RUN(test_heads_of_one);
    T_RUN(test_names);
    T_RUN(test_shapes);
    T_RUN(test_tables);
    T_RUN(test_calls);
    T_RUN(test_router_of_nan);
    T_RUN(test_changed_bytes);
    return t_done();
}
