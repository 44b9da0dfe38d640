/* src/llm/model/arch.c - the table of architectures; docs/architectures.md says in words what is special in each */
#include "llm/model/arch.h"
#include <string.h>

#define RMS TINYI_LM_RMS
#define LN TINYI_LM_LAYERNORM
#define NONE TINYI_LM_NO_ROPE
#define PAIRS TINYI_LM_PAIRS
#define HALVES TINYI_LM_HALVES
#define A(x) TINYI_LM_A_##x
#define F(x) TINYI_LM_F_##x
#define T(x) TINYI_LM_T_##x
#define K(x) TINYI_LM_K_##x
#define M(x) TINYI_LM_##x
#define ATTN TINYI_LM_ATTN, 0, TINYI_LM_NEVER
#define MLA TINYI_LM_MLA, 0, TINYI_LM_NEVER

/* ROW(name as TINYLLM_ONLY_ARCH has it, name as files have it, ...) */
#ifdef TINYLLM_ONLY_ARCH
#define ROW(id, ...) static const tinyi_lm_arch tinyi_lm_arch_##id TINYI_UNUSED = { __VA_ARGS__ };
#else
#define ROW(id, ...) { __VA_ARGS__ },
static const tinyi_lm_arch tinyi_lm_archs[] = {
#endif
    /* name           norm  rope    act          block        mixers                              period attention; feed-forward; top; keys */
    ROW(llama, "llama",        RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), F(RENORM), 0, 0)
    ROW(llama4, "llama4",       RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               4, A(QK_PLAIN) | A(NOPE_GLOBAL) | A(CHUNKED), F(SIGMOID) | F(WEIGHT_FIRST), 0, K(GROWTH) | K(LOCAL_BASE))
    ROW(llama_embed, "llama-embed",  RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW) | A(ENCODER), F(RENORM), T(HIDDEN), 0)
    ROW(mistral3, "mistral3",     RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW) | A(YARN_PLAIN) | A(YARN_BETAS), F(RENORM), 0, K(GROWTH))
    ROW(qwen2, "qwen2",        RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), 0, 0, 0)
    ROW(qwen2vl, "qwen2vl",      RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), 0, 0, 0)
    ROW(qwen2moe, "qwen2moe",     RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), 0, 0, 0)
    ROW(qwen3, "qwen3",        RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), 0, 0, 0)
    ROW(qwen3vl, "qwen3vl",      RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), 0, 0, 0)
    ROW(qwen3moe, "qwen3moe",     RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), F(RENORM), 0, 0)
    ROW(qwen3vlmoe, "qwen3vlmoe",   RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), F(RENORM), 0, 0)
    ROW(qwen3next, "qwen3next",    RMS, HALVES, M(SILU),     M(PRE),      M(ATTN), M(DELTA), M(INTERVAL),     0, A(NORM2_IS_POST) | A(GATED) | A(KEY_BLOCKS), F(RENORM), 0, 0)
    ROW(qwen35, "qwen35",       RMS, HALVES, M(SILU),     M(PRE),      M(ATTN), M(DELTA), M(INTERVAL),     0, A(NORM2_IS_POST) | A(GATED), 0, 0, 0)
    ROW(qwen35moe, "qwen35moe",    RMS, HALVES, M(SILU),     M(PRE),      M(ATTN), M(DELTA), M(INTERVAL),     0, A(NORM2_IS_POST) | A(GATED), F(RENORM), 0, 0)
    ROW(gemma, "gemma",        RMS, HALVES, M(GELU),     M(PRE),      ATTN,                               0, 0, 0, T(SQRT), 0)
    ROW(gemma2, "gemma2",       RMS, HALVES, M(GELU),     M(PRE),      ATTN,                               2, A(27B), 0, T(SQRT), K(LOGIT_CAP) | K(ATTN_CAP) | K(LOCAL_BASE))
    ROW(gemma3, "gemma3",       RMS, HALVES, M(GELU),     M(PRE),      ATTN,                               6, A(LOCAL_10000) | A(27B), 0, T(SQRT), K(LOGIT_CAP) | K(LOCAL_BASE))
    ROW(gemma3n, "gemma3n",      RMS, HALVES, M(GELU),     M(ALTUP),    ATTN,                               5, A(LOCAL_10000) | A(SCALE_ONE) | A(V_PLAIN), 0, T(SQRT), K(LOGIT_CAP) | K(LOCAL_BASE))
    ROW(gemma4, "gemma4",       RMS, HALVES, M(GELU),     M(PRE),      ATTN,                               6, A(SCALE_ONE) | A(V_PLAIN), F(RENORM) | F(SIDE_BY_SIDE), T(SQRT), K(LOGIT_CAP) | K(LOCAL_BASE))
    ROW(gemma_embedding, "gemma-embedding", RMS, HALVES, M(GELU),  M(PRE),      ATTN,                               6, A(LOCAL_10000) | A(ENCODER), 0, T(SQRT) | T(HIDDEN), K(LOCAL_BASE))
    ROW(phi2, "phi2",         LN,  HALVES, M(GELU),     M(PARALLEL), ATTN,                               0, 0, F(PLAIN), 0, 0)
    ROW(phi3, "phi3",         RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), 0, 0, 0)
    ROW(phimoe, "phimoe",       RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), F(RENORM), 0, 0)
    ROW(gpt2, "gpt2",         LN,  NONE,   M(GELU),     M(PRE),      ATTN,                               0, 0, F(PLAIN), T(POSITIONS), 0)
    ROW(gptneox, "gptneox",      LN,  HALVES, M(GELU),     M(PARALLEL), ATTN,                               0, 0, F(PLAIN), 0, 0)
    ROW(falcon, "falcon",       LN,  HALVES, M(GELU),     M(PARALLEL), ATTN,                               0, A(FALCON), F(PLAIN), 0, 0)
    ROW(bloom, "bloom",        LN,  NONE,   M(GELU),     M(PRE),      ATTN,                               0, A(ALIBI), F(PLAIN), T(EMBD_NORM), 0)
    ROW(mpt, "mpt",          LN,  NONE,   M(GELU),     M(PRE),      ATTN,                               0, A(ALIBI), F(PLAIN), 0, K(CLAMP))
    ROW(starcoder, "starcoder",    LN,  NONE,   M(GELU),     M(PRE),      ATTN,                               0, 0, F(PLAIN), T(POSITIONS), 0)
    ROW(starcoder2, "starcoder2",   LN,  HALVES, M(GELU),     M(PRE),      ATTN,                               0, A(NO_WINDOW), F(PLAIN), 0, 0)
    ROW(stablelm, "stablelm",     LN,  HALVES, M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(xverse, "xverse",       RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(openelm, "openelm",      RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(codeshell, "codeshell",    LN,  HALVES, M(GELU),     M(PRE),      ATTN,                               0, 0, F(PLAIN), 0, 0)
    ROW(deepseek, "deepseek",     RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, K(WEIGHT))
    ROW(olmo2, "olmo2",        RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               4, A(NO_NORM) | A(NO_FFN_NORM) | A(WINDOW_KEY) | A(LOCAL_UNSCALED), 0, 0, 0)
    ROW(olmoe, "olmoe",        RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(granite, "granite",      RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, A(ROPE_SWITCH), F(RENORM), T(LOGIT_DIVIDE), K(SCALES) | K(ATTN_SCALE) | K(LOGIT_SCALE))
    ROW(granitemoe, "granitemoe",   RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, F(RENORM), T(LOGIT_DIVIDE), K(SCALES) | K(ATTN_SCALE) | K(LOGIT_SCALE))
    ROW(granitehybrid, "granitehybrid", RMS, PAIRS, M(SILU),     M(PRE),      M(ATTN), M(MAMBA2), M(WHERE_NO_KV), 0, A(ROPE_SWITCH), F(RENORM), T(LOGIT_DIVIDE), K(SCALES) | K(ATTN_SCALE) | K(LOGIT_SCALE))
    ROW(minicpm, "minicpm",      RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, F(RENORM), T(LOGIT_DIVIDE) | T(MINICPM), K(SCALES) | K(LOGIT_SCALE))
    ROW(deepseek2, "deepseek2",    RMS, PAIRS,  M(SILU),     M(PRE),      MLA,                                0, A(YARN_MSCALE) | A(YARN_GROWS), 0, 0, K(GROWTH) | K(ROUTER))
    ROW(deepseek32, "deepseek32",   RMS, PAIRS,  M(SILU),     M(PRE),      MLA,                                0, A(YARN_MSCALE) | A(INDEXER), F(SIGMOID), 0, K(GROWTH) | K(ROUTER))
    ROW(glm_dsa, "glm-dsa",      RMS, PAIRS,  M(SILU),     M(PRE),      MLA,                                0, A(YARN_MSCALE) | A(INDEXER) | A(INDEX_PAIRS), F(SIGMOID), 0, K(GROWTH) | K(ROUTER))
    ROW(mistral4, "mistral4",     RMS, PAIRS,  M(SILU),     M(PRE),      MLA,                                0, A(YARN_MSCALE) | A(YARN_BETAS), 0, 0, K(GROWTH) | K(ROUTER))
    ROW(plm, "plm",          RMS, PAIRS,  M(RELU2),    M(PRE),      MLA,                                0, 0, F(PLAIN), 0, 0)
    ROW(minicpm3, "minicpm3",     RMS, HALVES, M(SILU),     M(PRE),      MLA,                                0, 0, 0, T(MINICPM) | T(LOGIT_DIVIDE), 0)
    ROW(kimi_linear, "kimi-linear",  RMS, NONE,   M(SILU),     M(PRE),      M(MLA), M(KDA), M(WHERE_NO_KV),     0, 0, F(SIGMOID) | F(RENORM), 0, K(GATING) | K(WEIGHT))
    ROW(bitnet, "bitnet",       RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(smollm3, "smollm3",      RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, A(NOPE_4TH), 0, 0, 0)
    ROW(command_r, "command-r",    LN,  PAIRS,  M(SILU),     M(PARALLEL), ATTN,                               0, 0, 0, 0, K(LOGIT_SCALE))
    ROW(cohere2, "cohere2",      LN,  PAIRS,  M(SILU),     M(PARALLEL), ATTN,                               4, A(NOPE_GLOBAL), 0, 0, K(LOGIT_SCALE))
    ROW(cohere2moe, "cohere2moe",   LN,  PAIRS,  M(SILU),     M(PARALLEL), ATTN,                               -4, A(NOPE_GLOBAL) | A(DENSE_ROPE) | A(EPS_SAYS), F(SIGMOID) | F(HALF), 0, K(LOGIT_SCALE) | K(ROUTER))
    ROW(internlm2, "internlm2",    RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(chatglm, "chatglm",      RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(glm4, "glm4",         RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(glm4moe, "glm4moe",      RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NORM2_IS_POST), F(SIGMOID), 0, K(ROUTER))
    ROW(exaone, "exaone",       RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(exaone4, "exaone4",      RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               4, A(NO_NORM) | A(NO_FFN_NORM) | A(64_LAYERS) | A(NOPE_GLOBAL), 0, 0, 0)
    ROW(exaone_moe, "exaone-moe",   RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               4, A(NOPE_GLOBAL), F(SIGMOID), 0, K(ROUTER))
    ROW(arcee, "arcee",        RMS, PAIRS,  M(RELU2),    M(PRE),      ATTN,                               0, 0, F(PLAIN), 0, 0)
    ROW(nemotron, "nemotron",     LN,  HALVES, M(RELU2),    M(PRE),      ATTN,                               0, 0, F(PLAIN), 0, 0)
    ROW(gpt_oss, "gpt-oss",      RMS, HALVES, M(CLAMPED),  M(PRE),      ATTN,                               2, A(NORM2_IS_POST), F(OF_CHOSEN), 0, K(LOCAL_BASE))
    ROW(minimax_m2, "minimax-m2",   RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, 0, F(SIGMOID) | F(RENORM), 0, K(GATING))
    ROW(hunyuan_dense, "hunyuan-dense", RMS, HALVES, M(SILU),    M(PRE),      ATTN,                               0, A(QK_AFTER), 0, 0, 0)
    ROW(hunyuan_moe, "hunyuan-moe",  RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(QK_AFTER), F(RENORM), 0, 0)
    ROW(ernie4_5, "ernie4_5",     RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, 0)
    ROW(ernie4_5_moe, "ernie4_5-moe", RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, F(RENORM), 0, 0)
    ROW(seed_oss, "seed_oss",     RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(NORM2_IS_POST), 0, 0, 0)
    ROW(apertus, "apertus",      RMS, HALVES, M(XIELU),    M(PRE),      ATTN,                               0, 0, F(PLAIN), 0, 0)
    ROW(smallthinker, "smallthinker", RMS, HALVES, M(RELU),     M(PRE),      ATTN,                               -4, A(NOPE_GLOBAL) | A(WINDOW_KEY), F(RENORM) | F(ROUTER_EARLY), 0, K(GATING) | K(LOCAL_BASE))
    ROW(dots1, "dots1",        RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, K(ROUTER))
    ROW(bailingmoe, "bailingmoe",   RMS, PAIRS,  M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, K(NORM) | K(WEIGHT))
    ROW(bailingmoe2, "bailingmoe2",  RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, 0, 0, 0, K(ROUTER))
    ROW(lfm2, "lfm2",         RMS, HALVES, M(SILU),     M(PRE),      M(ATTN), M(SHORTCONV), M(WHERE_NO_KV), M(EVERY), A(WINDOW_KEY), 0, T(OUTPUT_IS_EMBD), 0)
    ROW(lfm2moe, "lfm2moe",      RMS, HALVES, M(SILU),     M(PRE),      M(ATTN), M(SHORTCONV), M(WHERE_NO_KV), 0, 0, F(SIGMOID) | F(RENORM), T(OUTPUT_IS_EMBD), K(GATING))
    ROW(falcon_h1, "falcon-h1",    RMS, HALVES, M(SILU),     M(PRE),      M(ATTN), M(MAMBA2), M(BOTH),        0, 0, 0, 0, 0)
    ROW(nemotron_h, "nemotron_h",   RMS, NONE,   M(RELU2),    M(SINGLE),   M(ATTN), M(MAMBA2), M(WHERE_NO_KV), 0, 0, F(PLAIN), 0, 0)
    ROW(nemotron_h_moe, "nemotron_h_moe", RMS, NONE, M(RELU2),    M(SINGLE),   M(ATTN), M(MAMBA2), M(WHERE_NO_KV), 0, 0, F(PLAIN) | F(SIGMOID), 0, K(NORM) | K(WEIGHT))
    ROW(jamba, "jamba",        RMS, NONE,   M(SILU),     M(PRE),      M(ATTN), M(MAMBA), M(WHERE_NO_KV),  0, 0, 0, 0, 0)
    ROW(plamo2, "plamo2",       RMS, HALVES, M(SILU),     M(PRE),      M(ATTN), M(PLAMO), M(WHERE_NO_KV),  0, 0, 0, 0, 0)
    ROW(mamba, "mamba",        RMS, NONE,   M(SILU),     M(PRE),      M(MAMBA), 0, M(NEVER),              0, 0, F(NONE), 0, 0)
    ROW(mamba2, "mamba2",       RMS, NONE,   M(SILU),     M(PRE),      M(MAMBA2), 0, M(NEVER),             0, 0, F(NONE), 0, 0)
    ROW(rwkv6, "rwkv6",        LN,  NONE,   M(RELU2),    M(PRE),      M(RWKV6), 0, M(NEVER),              0, 0, F(CHANNEL), T(EMBD_NORM), 0)
    ROW(rwkv6qwen2, "rwkv6qwen2",   RMS, NONE,   M(SILU),     M(PRE),      M(RWKV6), 0, M(NEVER),              0, 0, 0, 0, 0)
    ROW(rwkv7, "rwkv7",        LN,  NONE,   M(RELU2),    M(PRE),      M(RWKV7), 0, M(NEVER),              0, 0, F(CHANNEL), T(EMBD_NORM), 0)
    ROW(bert, "bert",         LN,  NONE,   M(GELU),     M(POST),     ATTN,                               0, A(ENCODER), F(PLAIN), T(EMBD_NORM) | T(POSITIONS) | T(HIDDEN) | T(NO_OUTPUT_NORM) | T(TYPES), 0)
    ROW(nomic_bert, "nomic-bert",   LN,  HALVES, M(SILU),     M(POST),     ATTN,                               0, A(ENCODER), 0, T(EMBD_NORM) | T(HIDDEN) | T(NO_OUTPUT_NORM), 0)
    ROW(nomic_bert_moe, "nomic-bert-moe", LN, HALVES, M(GELU),    M(POST),     ATTN,                               0, A(ENCODER), F(PLAIN), T(EMBD_NORM) | T(HIDDEN) | T(NO_OUTPUT_NORM), 0)
    ROW(jina_bert_v2, "jina-bert-v2", LN,  NONE,   M(GELU),     M(POST),     ATTN,                               0, A(ENCODER) | A(ALIBI), 0, T(EMBD_NORM) | T(HIDDEN) | T(NO_OUTPUT_NORM), 0)
    ROW(jina_bert_v3, "jina-bert-v3", LN,  HALVES, M(GELU),     M(POST),     ATTN,                               0, A(ENCODER), F(PLAIN), T(EMBD_NORM) | T(HIDDEN) | T(NO_OUTPUT_NORM), 0)
    ROW(eurobert, "eurobert",     RMS, HALVES, M(SILU),     M(PRE),      ATTN,                               0, A(ENCODER), 0, T(HIDDEN), 0)
    ROW(modern_bert, "modern-bert",  LN,  HALVES, M(GELU),     M(PRE),      ATTN,                               -3, A(ENCODER) | A(FIRST_NO_NORM) | A(LOCAL_10000), 0, T(EMBD_NORM) | T(HIDDEN), K(LOCAL_BASE))
    ROW(t5, "t5",           RMS, NONE,   M(GELU),     M(PRE),      ATTN,                               0, A(SCALE_ONE) | A(RELATIVE), F(PLAIN), T(T5), 0)
    ROW(t5encoder, "t5encoder",    RMS, NONE,   M(GELU),     M(PRE),      ATTN,                               0, A(SCALE_ONE) | A(RELATIVE) | A(ENCODER), F(PLAIN), T(T5) | T(HIDDEN), 0)
#ifndef TINYLLM_ONLY_ARCH
};
#define TINYI_LM_ARCHS tinyi_lm_archs
#define TINYI_LM_N_ARCHS TINYI_COUNT(tinyi_lm_archs)
#else
#define TINYI_LM_ARCHS (&TINYI_LM_ONLY)
#define TINYI_LM_N_ARCHS 1
#endif
#undef ROW

#undef RMS
#undef LN
#undef NONE
#undef PAIRS
#undef HALVES
#undef A
#undef F
#undef T
#undef K
#undef M
#undef ATTN
#undef MLA

TINYI_FN const tinyi_lm_arch *tinyi_lm_arch_at(size_t i)
{
    return i < TINYI_LM_N_ARCHS ? &TINYI_LM_ARCHS[i] : NULL;
}

TINYI_FN const tinyi_lm_arch *tinyi_lm_arch_find(const char *name, size_t n)
{
    size_t i;
    for (i = 0; i < TINYI_LM_N_ARCHS; i++)
        if (strlen(TINYI_LM_ARCHS[i].name) == n && !memcmp(TINYI_LM_ARCHS[i].name, name, n)) return &TINYI_LM_ARCHS[i];
    return NULL;
}

/* Levenshtein distance of two names of at most 40 letters */
static int tinyi_lm_arch_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int row[41], i, j;
    for (j = 0; j <= (int)n_b; j++) row[j] = j;
    for (i = 1; i <= (int)n_a; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (j = 1; j <= (int)n_b; j++) {
            int up = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            best = TINYI_MIN(best, up + 1);
            row[j] = TINYI_MIN(best, row[j - 1] + 1);
            diagonal = up;
        }
    }
    return row[n_b];
}

TINYI_FN void tinyi_lm_arch_nearest(const char *name, size_t n, char text[160])
{
    const char *best[3] = { "", "", "" };
    int distance[3] = { 1000, 1000, 1000 }, k, j;
    size_t i, at = 0;
    n = TINYI_MIN(n, 40);
    for (i = 0; i < TINYI_LM_N_ARCHS; i++) {
        const char *other = TINYI_LM_ARCHS[i].name;
        const int d = tinyi_lm_arch_distance(name, n, other, TINYI_MIN(strlen(other), 40));
        for (k = 0; k < 3 && d >= distance[k]; k++) {}
        if (k == 3) continue;
        for (j = 2; j > k; j--) { distance[j] = distance[j - 1]; best[j] = best[j - 1]; }
        distance[k] = d;
        best[k] = other;
    }
    for (k = 0; k < 3 && *best[k]; k++) {
        const size_t m = strlen(best[k]);
        if (k) { memcpy(text + at, ", ", 2); at += 2; }
        memcpy(text + at, best[k], m);
        at += m;
    }
    text[at] = 0;
}
