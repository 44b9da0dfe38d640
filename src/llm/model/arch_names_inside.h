/* src/llm/model/arch_names_inside.h - the values of TINYLLM_ONLY_ARCH: a line for each row of arch_inside.h. The
 * preprocessor has no other way to detect a misspelt name (tests/units/run.sh compares both lists) */
#ifndef TINYI_ARCH_NAMES_H
#define TINYI_ARCH_NAMES_H

#ifdef TINYLLM_ONLY_ARCH
#define TINYI_LM_KNOWS_llama 1
#define TINYI_LM_KNOWS_llama4 1
#define TINYI_LM_KNOWS_llama_embed 1
#define TINYI_LM_KNOWS_mistral3 1
#define TINYI_LM_KNOWS_qwen2 1
#define TINYI_LM_KNOWS_qwen2vl 1
#define TINYI_LM_KNOWS_qwen2moe 1
#define TINYI_LM_KNOWS_qwen3 1
#define TINYI_LM_KNOWS_qwen3vl 1
#define TINYI_LM_KNOWS_qwen3moe 1
#define TINYI_LM_KNOWS_qwen3vlmoe 1
#define TINYI_LM_KNOWS_qwen3next 1
#define TINYI_LM_KNOWS_qwen35 1
#define TINYI_LM_KNOWS_qwen35moe 1
#define TINYI_LM_KNOWS_gemma 1
#define TINYI_LM_KNOWS_gemma2 1
#define TINYI_LM_KNOWS_gemma3 1
#define TINYI_LM_KNOWS_gemma3n 1
#define TINYI_LM_KNOWS_gemma4 1
#define TINYI_LM_KNOWS_gemma_embedding 1
#define TINYI_LM_KNOWS_phi2 1
#define TINYI_LM_KNOWS_phi3 1
#define TINYI_LM_KNOWS_phimoe 1
#define TINYI_LM_KNOWS_gpt2 1
#define TINYI_LM_KNOWS_gptneox 1
#define TINYI_LM_KNOWS_falcon 1
#define TINYI_LM_KNOWS_bloom 1
#define TINYI_LM_KNOWS_mpt 1
#define TINYI_LM_KNOWS_starcoder 1
#define TINYI_LM_KNOWS_starcoder2 1
#define TINYI_LM_KNOWS_stablelm 1
#define TINYI_LM_KNOWS_xverse 1
#define TINYI_LM_KNOWS_openelm 1
#define TINYI_LM_KNOWS_codeshell 1
#define TINYI_LM_KNOWS_deepseek 1
#define TINYI_LM_KNOWS_olmo2 1
#define TINYI_LM_KNOWS_olmoe 1
#define TINYI_LM_KNOWS_granite 1
#define TINYI_LM_KNOWS_granitemoe 1
#define TINYI_LM_KNOWS_granitehybrid 1
#define TINYI_LM_KNOWS_granite_swa 1
#define TINYI_LM_KNOWS_minicpm 1
#define TINYI_LM_KNOWS_deepseek2 1
#define TINYI_LM_KNOWS_deepseek32 1
#define TINYI_LM_KNOWS_glm_dsa 1
#define TINYI_LM_KNOWS_deepseek4 1
#define TINYI_LM_KNOWS_mistral4 1
#define TINYI_LM_KNOWS_plm 1
#define TINYI_LM_KNOWS_minicpm3 1
#define TINYI_LM_KNOWS_kimi_linear 1
#define TINYI_LM_KNOWS_kimi_k3 1
#define TINYI_LM_KNOWS_bitnet 1
#define TINYI_LM_KNOWS_smollm3 1
#define TINYI_LM_KNOWS_nanbeige 1
#define TINYI_LM_KNOWS_command_r 1
#define TINYI_LM_KNOWS_cohere2 1
#define TINYI_LM_KNOWS_cohere2moe 1
#define TINYI_LM_KNOWS_internlm2 1
#define TINYI_LM_KNOWS_chatglm 1
#define TINYI_LM_KNOWS_glm4 1
#define TINYI_LM_KNOWS_glm4moe 1
#define TINYI_LM_KNOWS_exaone 1
#define TINYI_LM_KNOWS_exaone4 1
#define TINYI_LM_KNOWS_exaone_moe 1
#define TINYI_LM_KNOWS_arcee 1
#define TINYI_LM_KNOWS_nemotron 1
#define TINYI_LM_KNOWS_gpt_oss 1
#define TINYI_LM_KNOWS_minimax_m2 1
#define TINYI_LM_KNOWS_minimax_m3 1
#define TINYI_LM_KNOWS_hunyuan_dense 1
#define TINYI_LM_KNOWS_hunyuan_moe 1
#define TINYI_LM_KNOWS_hy_v3 1
#define TINYI_LM_KNOWS_ernie4_5 1
#define TINYI_LM_KNOWS_ernie4_5_moe 1
#define TINYI_LM_KNOWS_seed_oss 1
#define TINYI_LM_KNOWS_apertus 1
#define TINYI_LM_KNOWS_smallthinker 1
#define TINYI_LM_KNOWS_mellum 1
#define TINYI_LM_KNOWS_afmoe 1
#define TINYI_LM_KNOWS_laguna 1
#define TINYI_LM_KNOWS_mimo2 1
#define TINYI_LM_KNOWS_step35 1
#define TINYI_LM_KNOWS_dots1 1
#define TINYI_LM_KNOWS_bailingmoe 1
#define TINYI_LM_KNOWS_bailingmoe2 1
#define TINYI_LM_KNOWS_bailingmoe3 1
#define TINYI_LM_KNOWS_lfm2 1
#define TINYI_LM_KNOWS_lfm2moe 1
#define TINYI_LM_KNOWS_falcon_h1 1
#define TINYI_LM_KNOWS_nemotron_h 1
#define TINYI_LM_KNOWS_nemotron_h_moe 1
#define TINYI_LM_KNOWS_jamba 1
#define TINYI_LM_KNOWS_plamo2 1
#define TINYI_LM_KNOWS_plamo3 1
#define TINYI_LM_KNOWS_mamba 1
#define TINYI_LM_KNOWS_mamba2 1
#define TINYI_LM_KNOWS_rwkv6 1
#define TINYI_LM_KNOWS_rwkv6qwen2 1
#define TINYI_LM_KNOWS_rwkv7 1
#define TINYI_LM_KNOWS_bert 1
#define TINYI_LM_KNOWS_nomic_bert 1
#define TINYI_LM_KNOWS_nomic_bert_moe 1
#define TINYI_LM_KNOWS_jina_bert_v2 1
#define TINYI_LM_KNOWS_jina_bert_v3 1
#define TINYI_LM_KNOWS_eurobert 1
#define TINYI_LM_KNOWS_modern_bert 1
#define TINYI_LM_KNOWS_t5 1
#define TINYI_LM_KNOWS_t5encoder 1
#if TINYI_CAT(TINYI_LM_KNOWS_, TINYLLM_ONLY_ARCH) * 2 != \
    2 /* twice: gemma-embedding is gemma - 0 here, and is refused */
#error \
    "tiny: TINYLLM_ONLY_ARCH must be one of llama, llama4, llama_embed, mistral3, qwen2, qwen2vl, qwen2moe, qwen3, \
qwen3vl, qwen3moe, qwen3vlmoe, qwen3next, qwen35, qwen35moe, gemma, gemma2, gemma3, gemma3n, gemma4, \
gemma_embedding, phi2, phi3, phimoe, gpt2, gptneox, falcon, bloom, mpt, starcoder, starcoder2, stablelm, xverse, \
openelm, codeshell, deepseek, olmo2, olmoe, granite, granitemoe, granitehybrid, granite_swa, minicpm, deepseek2, \
deepseek32, glm_dsa, deepseek4, mistral4, plm, minicpm3, kimi_linear, kimi_k3, bitnet, smollm3, nanbeige, command_r, \
cohere2, cohere2moe, internlm2, chatglm, glm4, glm4moe, exaone, exaone4, exaone_moe, arcee, nemotron, gpt_oss, \
minimax_m2, minimax_m3, hunyuan_dense, hunyuan_moe, hy_v3, ernie4_5, ernie4_5_moe, seed_oss, apertus, smallthinker, \
mellum, afmoe, laguna, mimo2, step35, dots1, bailingmoe, bailingmoe2, bailingmoe3, lfm2, lfm2moe, falcon_h1, \
nemotron_h, nemotron_h_moe, jamba, plamo2, plamo3, mamba, mamba2, rwkv6, rwkv6qwen2, rwkv7, bert, nomic_bert, \
nomic_bert_moe, jina_bert_v2, jina_bert_v3, eurobert, modern_bert, t5, t5encoder"
#undef TINYLLM_ONLY_ARCH                    /* one sentence is enough */
#endif
#endif

#endif
