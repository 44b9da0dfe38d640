/* src/llm/model/arch_inside.h - the architectures: one row each
 *
 * A row says which norm stands where, which mixer is in which layer, how positions are rotated, what the feed-forward
 * network and its router do, what is scaled, and what is special about embedding and output. Everything else (biases,
 * norms of q and k, fused or separate projections, experts in a layer) follows from the tensors that a file holds. A
 * new relative is a row; a new kind of mixer is a row of TINYI_LM_KINDS and a file beside this one. */
#ifndef TINYI_ARCH_H
#define TINYI_ARCH_H
#include "core/ctx.h"
#include "llm/model/arch_names_inside.h"
TINYI_C_BEGIN

enum { TINYI_LM_RMS, TINYI_LM_LAYERNORM };
enum { TINYI_LM_NO_ROPE, TINYI_LM_PAIRS, TINYI_LM_HALVES };         /* (2i, 2i + 1) or (i, i + n/2) */
enum {
    TINYI_LM_SILU, TINYI_LM_GELU, TINYI_LM_GELU_ERF, TINYI_LM_RELU, TINYI_LM_RELU2, TINYI_LM_XIELU, TINYI_LM_CLAMPED,
    TINYI_LM_SITU                           /* b tanh(g / b) sigmoid(g) c tanh(u / c), b and c of the file */
};
enum {
    /* x += post(mix(norm(x))); x += post(ffn(norm(x))), each norm where it is */
    TINYI_LM_PRE,
    TINYI_LM_PARALLEL,                      /* x += mix(norm(x)) + ffn(norm(x)) */
    TINYI_LM_POST,                          /* x = norm(x + mix(x)); x = norm(x + ffn(x)) */
    TINYI_LM_SINGLE,                        /* x += mix(norm(x)), or ffn in its place */
    TINYI_LM_ALTUP,                         /* four streams, gemma3n */
    TINYI_LM_HYPER                          /* streams mixed by matrices of their own, deepseek4 */
};
/* kinds of mixers: TINYI_LM_KINDS of model.c, in this order */
enum {
    TINYI_LM_NO_MIX,
    TINYI_LM_ATTN,
    TINYI_LM_MLA,
    TINYI_LM_DELTA,
    TINYI_LM_KDA,
    TINYI_LM_MAMBA,
    TINYI_LM_MAMBA2,
    TINYI_LM_PLAMO,
    TINYI_LM_SHORTCONV,
    TINYI_LM_RWKV6,
    TINYI_LM_RWKV7,
    TINYI_LM_COMPRESSED,
    TINYI_LM_MIXERS
};
enum { TINYI_LM_EVERY = 32767 };            /* a period: every layer has a window */
/* which layers take the second mixer of the row */
enum {
    TINYI_LM_NEVER, TINYI_LM_ALWAYS,
    TINYI_LM_WHERE_NO_KV,                   /* attention.head_count_kv of the layer is 0 */
    TINYI_LM_INTERVAL,                      /* (l + 1) % full_attention_interval != 0, or attention.recurrent_layers */
    TINYI_LM_BOTH                           /* both, their outputs added */
};

#define TINYI_LM_BIT(n) ((uint64_t)1 << (n))

/* attention */
#define TINYI_LM_A_NORM2_IS_POST TINYI_LM_BIT(0) /* the norm before the feed-forward is named post_attention_norm */
#define TINYI_LM_A_QK_AFTER          TINYI_LM_BIT(1)  /* q and k are normed after the rotation */
#define TINYI_LM_A_QK_PLAIN          TINYI_LM_BIT(2)  /* and without weights, in rotated layers */
#define TINYI_LM_A_V_PLAIN           TINYI_LM_BIT(3)  /* v is normed without weights */
#define TINYI_LM_A_SCALE_ONE         TINYI_LM_BIT(4)  /* scores are not scaled */
#define TINYI_LM_A_GATED             TINYI_LM_BIT(5)  /* attn_q gives a query and a gate for each head */
#define TINYI_LM_A_NOPE_GLOBAL       TINYI_LM_BIT(6)  /* layers without a window are not rotated */
#define TINYI_LM_A_NOPE_4TH          TINYI_LM_BIT(7)  /* every fourth layer is not rotated */
#define TINYI_LM_A_ALIBI             TINYI_LM_BIT(8)
#define TINYI_LM_A_ENCODER           TINYI_LM_BIT(9)  /* every token sees every token */
#define TINYI_LM_A_LOCAL_10000 \
    TINYI_LM_BIT(10) /* rope base of layers with a window, where no key says it; not scaled */
#define TINYI_LM_A_LOCAL_UNSCALED    TINYI_LM_BIT(11)
#define TINYI_LM_A_CHUNKED           TINYI_LM_BIT(12) /* layers with a window see the keys of their own chunk */
#define TINYI_LM_A_64_LAYERS         TINYI_LM_BIT(13) /* windows only with 64 layers */
#define TINYI_LM_A_WINDOW_KEY        TINYI_LM_BIT(14) /* windows only where attention.sliding_window stands */
#define TINYI_LM_A_RELATIVE          TINYI_LM_BIT(15) /* bias by the bucket of the distance */
#define TINYI_LM_A_NO_NORM           TINYI_LM_BIT(16) /* no norm before the mixer */
#define TINYI_LM_A_FIRST_NO_NORM     TINYI_LM_BIT(17) /* none before the mixer of the first layer */
#define TINYI_LM_A_NO_FFN_NORM       TINYI_LM_BIT(18) /* no norm before the feed-forward */
#define TINYI_LM_A_INDEXER \
    TINYI_LM_BIT(19) /* sparse: an indexer picks the keys, or with plain attention blocks of them for each key head */
#define TINYI_LM_A_YARN_MSCALE       TINYI_LM_BIT(20) /* the size of YaRN goes into the scores by yarn_log_multiplier */
#define TINYI_LM_A_FALCON            TINYI_LM_BIT(21) /* attn_norm_2, where it is, belongs to the attention */
#define TINYI_LM_A_NO_WINDOW         TINYI_LM_BIT(22) /* attention.sliding_window is not looked at */
#define TINYI_LM_A_46_LAYERS         TINYI_LM_BIT(23) /* a model of 46 layers scales by its width over its heads */
#define TINYI_LM_A_62_LAYERS         TINYI_LM_BIT(24) /* the same with 62 layers */
#define TINYI_LM_A_INDEX_PAIRS       TINYI_LM_BIT(25) /* the indexer rotates pairs; else halves */
#define TINYI_LM_A_KEY_BLOCKS \
    TINYI_LM_BIT(26) /* delta nets: neighbouring value heads share a key head; else heads a multiple apart */
#define TINYI_LM_A_ROPE_SWITCH       TINYI_LM_BIT(27) /* rope.scaling.finetuned false: nothing is rotated */
#define TINYI_LM_A_DENSE_ROPE        TINYI_LM_BIT(28) /* the leading dense layers are rotated, window or not */
#define TINYI_LM_A_EPS_SAYS          TINYI_LM_BIT(29) /* rms or layer norm: as the file names the epsilon */
#define TINYI_LM_A_YARN_BETAS \
    TINYI_LM_BIT(30) /* the betas of YaRN are the file's; for all others 32 and 1, as other engines take them */
#define TINYI_LM_A_YARN_GROWS \
    TINYI_LM_BIT(31) /* with YARN_MSCALE: scores grow by YaRN's own size too, see tinyi_lm_yarn_scores */
#define TINYI_LM_A_YARN_PLAIN        TINYI_LM_BIT(32) /* yarn_log_multiplier is the size itself, not a tenth of it */
#define TINYI_LM_A_GATE \
    TINYI_LM_BIT(33) /* attn_gate, where it is: o times its sigmoid, a gate for each head or for each number */
#define TINYI_LM_A_GATE_ALWAYS       TINYI_LM_BIT(34) /* it must be there */
#define TINYI_LM_A_GATE_SOFTPLUS     TINYI_LM_BIT(35) /* ln(1 + e^x) in place of the sigmoid */
#define TINYI_LM_A_GATE_HEADS TINYI_LM_BIT(36) /* latent attention: attn_gate must be there, a gate for each head */
#define TINYI_LM_A_HALF_ROPE \
    TINYI_LM_BIT(37) /* layers without a window rotate half of rope.dimension_count, and only those take rope_freqs */
#define TINYI_LM_A_ONE_WIDTH \
    TINYI_LM_BIT(38) /* all layers rotate what the first one does: rope.dimension_count_swa if it has a window */
#define TINYI_LM_A_SHORT_ROPE \
    TINYI_LM_BIT(39) /* models of 4 layers, and those whose file has no window, rotate every layer */
#define TINYI_LM_A_OWN_PATTERN \
    TINYI_LM_BIT(40) /* attention.sliding_window_pattern is not looked at: the period of the row holds */
#define TINYI_LM_A_WINDOW_4096       TINYI_LM_BIT(41) /* the window where attention.sliding_window does not stand */
#define TINYI_LM_A_WINDOW_128        TINYI_LM_BIT(42) /* the same */
#define TINYI_LM_A_WINDOW_FIXED \
    TINYI_LM_BIT(43) /* with one of these two: it is the window, whatever attention.sliding_window says */
#define TINYI_LM_A_CAP_50            TINYI_LM_BIT(44) /* attn_logit_softcapping where the key is missing */
#define TINYI_LM_A_ALIBI_KEY \
    TINYI_LM_BIT(45) /* with ALIBI: no slopes where attention.max_alibi_bias is missing; else its largest is 8 */
#define TINYI_LM_A_MAY_FFN_NORM      TINYI_LM_BIT(46) /* the norm before the feed-forward may be missing */

/* feed-forward and router */
#define TINYI_LM_F_NONE             0x1u
#define TINYI_LM_F_PLAIN            0x2u    /* down(act(up x)) without a gate */
#define TINYI_LM_F_SIGMOID          0x4u    /* routers that say nothing else use sigmoid */
#define TINYI_LM_F_OF_CHOSEN        0x8u    /* softmax over the chosen logits */
#define TINYI_LM_F_RENORM           0x10u   /* weights of the chosen sum to 1 */
#define TINYI_LM_F_WEIGHT_FIRST     0x20u   /* the weight is multiplied to the input of the expert */
#define TINYI_LM_F_ROUTER_EARLY     0x40u   /* the router reads the input of the layer */
#define TINYI_LM_F_SIDE_BY_SIDE     0x80u   /* dense network and experts, with norms of their own */
#define TINYI_LM_F_CHANNEL          0x100u  /* channel mixing of RWKV */
#define TINYI_LM_F_HALF             0x200u  /* half the sum of chosen and shared experts */

/* embedding and output */
#define TINYI_LM_T_SQRT             0x1u    /* embedding times sqrt(n_embd) */
#define TINYI_LM_T_EMBD_NORM        0x2u    /* token_embd_norm after the embedding */
#define TINYI_LM_T_POSITIONS        0x4u    /* position_embd is needed */
#define TINYI_LM_T_NO_OUTPUT_NORM   0x8u
#define TINYI_LM_T_OUTPUT_IS_EMBD   0x10u   /* the final norm is named token_embd_norm */
#define TINYI_LM_T_LOGIT_DIVIDE     0x20u   /* by logit_scale; others multiply */
#define TINYI_LM_T_HIDDEN           0x40u   /* gives hidden states, never logits */
#define TINYI_LM_T_MINICPM          0x80u
#define TINYI_LM_T_T5               0x100u  /* an encoder; with a decoder where the file has one */
#define TINYI_LM_T_TYPES            0x200u
#define TINYI_LM_T_MAY_POSITIONS    0x400u  /* position_embd is taken where it is */
#define TINYI_LM_T_CAP_30           0x800u  /* final_logit_softcapping where the key is missing */
#define TINYI_LM_T_MASK_STRIPS      0x1000u /* its tokenizer: <mask> takes the white space in front of it along */

/* numbers that a file of this architecture may name; in files of all others they are passed over, as in llama.cpp:
 * converters copy what a configuration says, whether the model reads it or not */
#define TINYI_LM_K_SCALES           0x1u    /* embedding_scale, residual_scale */
#define TINYI_LM_K_ATTN_SCALE       0x2u    /* attention.scale */
#define TINYI_LM_K_LOGIT_SCALE      0x4u    /* logit_scale */
#define TINYI_LM_K_LOGIT_CAP        0x8u    /* final_logit_softcapping */
#define TINYI_LM_K_ATTN_CAP         0x10u   /* attn_logit_softcapping */
#define TINYI_LM_K_CLAMP            0x20u   /* attention.clamp_kqv */
#define TINYI_LM_K_GROWTH           0x40u   /* attention.temperature_scale, temperature_length */
#define TINYI_LM_K_GATING           0x80u   /* expert_gating_func */
#define TINYI_LM_K_NORM             0x100u  /* expert_weights_norm */
#define TINYI_LM_K_WEIGHT           0x200u  /* expert_weights_scale */
#define TINYI_LM_K_LOCAL_BASE       0x400u  /* rope.freq_base_swa */
#define TINYI_LM_K_ROUTER           0x380u  /* gating, norm, weight */
#define TINYI_LM_K_SWIGLU_CLAMP     0x800u  /* swiglu_clamp_exp, swiglu_clamp_shexp: a number for each layer */
#define TINYI_LM_K_VALUE_SCALE      0x1000u /* attention.value_scale */
#define TINYI_LM_K_LOOPS 0x2000u /* num_loops, skip_loop_final_norm: the layers of the file are run several times */
#define TINYI_LM_K_ROPE_LIST        0x4000u /* attention.rope_pattern: which layers are rotated */
#define TINYI_LM_K_WINDOW_LIST 0x8000u /* attention.sliding_window_pattern must stand there, for no period is known */

#define TINYI_LM_K_DECAY            0x10000u /* kda.gate_lower_bound: a decay between that and none */
#define TINYI_LM_K_DECAY_PLUS       0x20000u /* the same, always there, and ssm_a stands with the other sign */
#define TINYI_LM_K_BANK 0x40000u /* attn_res.block_size: what a layer reads is mixed from streams that were put by */
#define TINYI_LM_K_LATENT           0x80000u /* expert_latent_length: the experts work on a narrower row */

typedef struct tinyi_lm_arch {
    const char *name;
    short norm, rope, act, block;
    short mixer, other, where;
    short period;                           /* n: layers l % n < n - 1 have a window (EVERY: all); -n: l % n != 0 */
    uint64_t attn;
    unsigned ffn, top, keys;
} tinyi_lm_arch;

/* ---- the table; docs/guide/architectures.md says in words what is special in each ---- */

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
static const tinyi_lm_arch
    tinyi_lm_archs
        [] TINYI_UNUSED = {
#endif
    /* name           norm  rope    act          block        mixers                              period attention;
     *                                                                                            feed-forward; top;
     *                                                                                            keys */
ROW(llama, "llama", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), F(RENORM), 0, 0)
ROW(llama4, "llama4", RMS, PAIRS, M(SILU), M(PRE), ATTN, 4, A(QK_PLAIN) | A(NOPE_GLOBAL) | A(CHUNKED),
    F(SIGMOID) | F(WEIGHT_FIRST), 0, K(GROWTH) | K(LOCAL_BASE))
ROW(llama_embed, "llama-embed", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW) | A(ENCODER), F(RENORM), T(HIDDEN),
    0)
ROW(mistral3, "mistral3", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW) | A(YARN_PLAIN) | A(YARN_BETAS), F(RENORM),
    0, K(GROWTH))
ROW(qwen2, "qwen2", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), 0, 0, 0)
ROW(qwen2vl, "qwen2vl", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), 0, 0, 0)
ROW(qwen2moe, "qwen2moe", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), 0, 0, 0)
ROW(qwen3, "qwen3", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), 0, 0, 0)
ROW(qwen3vl, "qwen3vl", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), 0, 0, 0)
ROW(qwen3moe, "qwen3moe", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), F(RENORM), 0, 0)
ROW(qwen3vlmoe, "qwen3vlmoe", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), F(RENORM), 0, 0)
ROW(qwen3next, "qwen3next", RMS, HALVES, M(SILU), M(PRE), M(ATTN), M(DELTA), M(INTERVAL), 0,
    A(NORM2_IS_POST) | A(GATED) | A(KEY_BLOCKS), F(RENORM), 0, 0)
ROW(qwen35, "qwen35", RMS, HALVES, M(SILU), M(PRE), M(ATTN), M(DELTA), M(INTERVAL), 0, A(NORM2_IS_POST) | A(GATED), 0,
    0, 0)
ROW(qwen35moe, "qwen35moe", RMS, HALVES, M(SILU), M(PRE), M(ATTN), M(DELTA), M(INTERVAL), 0,
    A(NORM2_IS_POST) | A(GATED), F(RENORM), 0, 0)
ROW(gemma, "gemma", RMS, HALVES, M(GELU), M(PRE), ATTN, 0, 0, 0, T(SQRT), 0)
ROW(gemma2, "gemma2", RMS, HALVES, M(GELU), M(PRE), ATTN, 2, A(46_LAYERS) | A(WINDOW_4096) | A(CAP_50), 0,
    T(SQRT) | T(CAP_30), K(LOGIT_CAP) | K(ATTN_CAP) | K(LOCAL_BASE))
ROW(gemma3, "gemma3", RMS, HALVES, M(GELU), M(PRE), ATTN, 6, A(LOCAL_10000) | A(62_LAYERS), 0, T(SQRT),
    K(LOGIT_CAP) | K(LOCAL_BASE))
ROW(gemma3n, "gemma3n", RMS, HALVES, M(GELU), M(ALTUP), ATTN, 5, A(LOCAL_10000) | A(SCALE_ONE) | A(V_PLAIN), 0,
    T(SQRT) | T(CAP_30), K(LOGIT_CAP) | K(LOCAL_BASE))
ROW(gemma4, "gemma4", RMS, HALVES, M(GELU), M(PRE), ATTN, 6, A(SCALE_ONE) | A(V_PLAIN), F(RENORM) | F(SIDE_BY_SIDE),
    T(SQRT), K(LOGIT_CAP) | K(LOCAL_BASE))
ROW(gemma_embedding, "gemma-embedding", RMS, HALVES, M(GELU), M(PRE), ATTN, 6, A(LOCAL_10000) | A(ENCODER), 0,
    T(SQRT) | T(HIDDEN), K(LOCAL_BASE))
ROW(phi2, "phi2", LN, HALVES, M(GELU), M(PARALLEL), ATTN, 0, 0, F(PLAIN), 0, 0)
ROW(phi3, "phi3", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), 0, 0, 0)
ROW(phimoe, "phimoe", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), F(RENORM), 0, 0)
ROW(gpt2, "gpt2", LN, NONE, M(GELU), M(PRE), ATTN, 0, 0, F(PLAIN), T(POSITIONS), 0)
ROW(gptneox, "gptneox", LN, HALVES, M(GELU), M(PARALLEL), ATTN, 0, 0, F(PLAIN), 0, 0)
ROW(falcon, "falcon", LN, HALVES, M(GELU), M(PARALLEL), ATTN, 0, A(FALCON), F(PLAIN), 0, 0)
ROW(bloom, "bloom", LN, NONE, M(GELU), M(PRE), ATTN, 0, A(ALIBI), F(PLAIN), T(EMBD_NORM), 0)
ROW(mpt, "mpt", LN, NONE, M(GELU), M(PRE), ATTN, 0, A(ALIBI) | A(ALIBI_KEY), F(PLAIN), T(MAY_POSITIONS), K(CLAMP))
ROW(starcoder, "starcoder", LN, NONE, M(GELU), M(PRE), ATTN, 0, 0, F(PLAIN), T(POSITIONS), 0)
ROW(starcoder2, "starcoder2", LN, HALVES, M(GELU), M(PRE), ATTN, 0, A(NO_WINDOW), F(PLAIN), 0, 0)
ROW(stablelm, "stablelm", LN, HALVES, M(SILU), M(PRE), ATTN, 0, A(MAY_FFN_NORM), 0, 0, 0)
ROW(xverse, "xverse", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(openelm, "openelm", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(codeshell, "codeshell", LN, HALVES, M(GELU), M(PRE), ATTN, 0, 0, F(PLAIN), 0, 0)
ROW(deepseek, "deepseek", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, K(WEIGHT))
ROW(olmo2, "olmo2", RMS, HALVES, M(SILU), M(PRE), ATTN, 4,
    A(NO_NORM) | A(NO_FFN_NORM) | A(WINDOW_KEY) | A(LOCAL_UNSCALED), 0, 0, 0)
ROW(olmoe, "olmoe", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(granite, "granite", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, A(ROPE_SWITCH), F(RENORM), T(LOGIT_DIVIDE),
    K(SCALES) | K(ATTN_SCALE) | K(LOGIT_SCALE))
ROW(granitemoe, "granitemoe", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, F(RENORM), T(LOGIT_DIVIDE),
    K(SCALES) | K(ATTN_SCALE) | K(LOGIT_SCALE))
ROW(granitehybrid, "granitehybrid", RMS, PAIRS, M(SILU), M(PRE), M(ATTN), M(MAMBA2), M(WHERE_NO_KV), 0, A(ROPE_SWITCH),
    F(RENORM), T(LOGIT_DIVIDE), K(SCALES) | K(ATTN_SCALE) | K(LOGIT_SCALE))
ROW(granite_swa, "granite_swa", RMS, PAIRS, M(SILU), M(PRE), ATTN, M(EVERY), 0, F(RENORM), T(LOGIT_DIVIDE),
    K(SCALES) | K(ATTN_SCALE) | K(LOGIT_SCALE) | K(WINDOW_LIST) | K(ROPE_LIST))
ROW(minicpm, "minicpm", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, F(RENORM), T(LOGIT_DIVIDE) | T(MINICPM),
    K(SCALES) | K(LOGIT_SCALE))
ROW(deepseek2, "deepseek2", RMS, PAIRS, M(SILU), M(PRE), MLA, 0, A(YARN_MSCALE) | A(YARN_GROWS), 0, 0,
    K(GROWTH) | K(ROUTER))
ROW(deepseek32, "deepseek32", RMS, PAIRS, M(SILU), M(PRE), MLA, 0, A(YARN_MSCALE) | A(INDEXER), F(SIGMOID), 0,
    K(GROWTH) | K(ROUTER))
ROW(glm_dsa, "glm-dsa", RMS, PAIRS, M(SILU), M(PRE), MLA, 0, A(YARN_MSCALE) | A(INDEXER) | A(INDEX_PAIRS), F(SIGMOID),
    0, K(GROWTH) | K(ROUTER))
ROW(deepseek4, "deepseek4", RMS, PAIRS, M(SILU), M(HYPER), M(COMPRESSED), 0, M(NEVER), 0, 0, 0, 0,
    K(ROUTER) | K(SWIGLU_CLAMP))
ROW(mistral4, "mistral4", RMS, PAIRS, M(SILU), M(PRE), MLA, 0, A(YARN_MSCALE) | A(YARN_BETAS), 0, 0,
    K(GROWTH) | K(ROUTER))
ROW(plm, "plm", RMS, PAIRS, M(RELU2), M(PRE), MLA, 0, 0, F(PLAIN), 0, 0)
ROW(minicpm3, "minicpm3", RMS, HALVES, M(SILU), M(PRE), MLA, 0, 0, 0, T(MINICPM) | T(LOGIT_DIVIDE), 0)
ROW(kimi_linear, "kimi-linear", RMS, NONE, M(SILU), M(PRE), M(MLA), M(KDA), M(WHERE_NO_KV), 0, 0,
    F(SIGMOID) | F(RENORM), 0, K(GATING) | K(WEIGHT))
ROW(kimi_k3, "kimi-k3", RMS, NONE, M(SITU), M(PRE), M(MLA), M(KDA), M(WHERE_NO_KV), 0, 0, F(SIGMOID), 0,
    K(ROUTER) | K(DECAY) | K(BANK) | K(LATENT))
ROW(bitnet, "bitnet", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(smollm3, "smollm3", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, A(NOPE_4TH), 0, 0, 0)
ROW(nanbeige, "nanbeige", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, A(NO_WINDOW), 0, 0, K(LOOPS))
ROW(command_r, "command-r", LN, PAIRS, M(SILU), M(PARALLEL), ATTN, 0, 0, 0, 0, K(LOGIT_SCALE))
ROW(cohere2, "cohere2", LN, PAIRS, M(SILU), M(PARALLEL), ATTN, 4, A(NOPE_GLOBAL), 0, 0, K(LOGIT_SCALE))
ROW(cohere2moe, "cohere2moe", LN, PAIRS, M(SILU), M(PARALLEL), ATTN, -4, A(NOPE_GLOBAL) | A(DENSE_ROPE) | A(EPS_SAYS),
    F(SIGMOID) | F(HALF), 0, K(LOGIT_SCALE) | K(ROUTER))
ROW(internlm2, "internlm2", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(chatglm, "chatglm", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(glm4, "glm4", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(glm4moe, "glm4moe", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NORM2_IS_POST), F(SIGMOID), 0, K(ROUTER))
ROW(exaone, "exaone", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(exaone4, "exaone4", RMS, HALVES, M(SILU), M(PRE), ATTN, 4,
    A(NO_NORM) | A(NO_FFN_NORM) | A(64_LAYERS) | A(NOPE_GLOBAL), 0, 0, 0)
ROW(exaone_moe, "exaone-moe", RMS, HALVES, M(SILU), M(PRE), ATTN, 4, A(NOPE_GLOBAL) | A(WINDOW_128), F(SIGMOID), 0,
    K(ROUTER))
ROW(arcee, "arcee", RMS, PAIRS, M(RELU2), M(PRE), ATTN, 0, 0, F(PLAIN), 0, 0)
ROW(nemotron, "nemotron", LN, HALVES, M(RELU2), M(PRE), ATTN, 0, 0, F(PLAIN), 0, 0)
ROW(gpt_oss, "gpt-oss", RMS, HALVES, M(CLAMPED), M(PRE), ATTN, 2, A(NORM2_IS_POST), F(OF_CHOSEN), 0, K(LOCAL_BASE))
ROW(minimax_m2, "minimax-m2", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, 0, F(SIGMOID) | F(RENORM), 0, K(GATING))
ROW(minimax_m3, "minimax-m3", RMS, HALVES, M(CLAMPED), M(PRE), ATTN, 0, A(INDEXER), F(SIGMOID), 0, K(ROUTER))
ROW(hunyuan_dense, "hunyuan-dense", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(QK_AFTER), 0, 0, 0)
ROW(hunyuan_moe, "hunyuan-moe", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(QK_AFTER), F(RENORM), 0, 0)
ROW(hy_v3, "hy_v3", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, 0, F(SIGMOID), 0, K(ROUTER))
ROW(ernie4_5, "ernie4_5", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(ernie4_5_moe, "ernie4_5-moe", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, F(RENORM), 0, 0)
ROW(seed_oss, "seed_oss", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(NORM2_IS_POST), 0, 0, 0)
ROW(apertus, "apertus", RMS, HALVES, M(XIELU), M(PRE), ATTN, 0, 0, F(PLAIN), 0, 0)
ROW(smallthinker, "smallthinker", RMS, HALVES, M(RELU), M(PRE), ATTN, -4,
    A(NOPE_GLOBAL) | A(WINDOW_KEY) | A(OWN_PATTERN) | A(WINDOW_4096) | A(WINDOW_FIXED) | A(SHORT_ROPE),
    F(RENORM) | F(ROUTER_EARLY), 0, K(GATING) | K(LOCAL_BASE))
ROW(mellum, "mellum", RMS, HALVES, M(SILU), M(PRE), ATTN, 4, A(WINDOW_KEY) | A(LOCAL_UNSCALED), F(RENORM), 0, 0)
ROW(afmoe, "afmoe", RMS, HALVES, M(SILU), M(PRE), ATTN, 4, A(WINDOW_KEY) | A(NOPE_4TH) | A(GATE) | A(GATE_ALWAYS),
    F(SIGMOID), T(SQRT), K(ROUTER) | K(LOCAL_BASE))
ROW(laguna, "laguna", RMS, HALVES, M(SILU), M(PRE), ATTN, -4,
    A(WINDOW_KEY) | A(LOCAL_UNSCALED) | A(GATE) | A(GATE_ALWAYS) | A(GATE_SOFTPLUS), F(SIGMOID), 0,
    K(ROUTER) | K(LOCAL_BASE))
ROW(mimo2, "mimo2", RMS, HALVES, M(SILU), M(PRE), ATTN, M(EVERY), A(LOCAL_10000) | A(ONE_WIDTH), F(SIGMOID) | F(RENORM),
    0, K(LOCAL_BASE) | K(WINDOW_LIST) | K(VALUE_SCALE))
ROW(step35, "step35", RMS, HALVES, M(SILU), M(PRE), ATTN, M(EVERY), A(LOCAL_10000) | A(GATE) | A(HALF_ROPE), F(SIGMOID),
    0, K(ROUTER) | K(LOCAL_BASE) | K(WINDOW_LIST) | K(SWIGLU_CLAMP))
ROW(dots1, "dots1", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, K(ROUTER))
ROW(bailingmoe, "bailingmoe", RMS, PAIRS, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, K(NORM) | K(WEIGHT))
ROW(bailingmoe2, "bailingmoe2", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, 0, 0, 0, K(ROUTER))
ROW(bailingmoe3, "bailingmoe3", RMS, PAIRS, M(SILU), M(PRE), M(MLA), M(KDA), M(WHERE_NO_KV), 0, A(GATE_HEADS),
    F(SIGMOID), 0, K(ROUTER) | K(SWIGLU_CLAMP) | K(DECAY) | K(DECAY_PLUS))
ROW(lfm2, "lfm2", RMS, HALVES, M(SILU), M(PRE), M(ATTN), M(SHORTCONV), M(WHERE_NO_KV), M(EVERY),
    A(WINDOW_KEY) | A(OWN_PATTERN), 0, T(OUTPUT_IS_EMBD), 0)
ROW(lfm2moe, "lfm2moe", RMS, HALVES, M(SILU), M(PRE), M(ATTN), M(SHORTCONV), M(WHERE_NO_KV), 0, 0,
    F(SIGMOID) | F(RENORM), T(OUTPUT_IS_EMBD), K(GATING))
ROW(falcon_h1, "falcon-h1", RMS, HALVES, M(SILU), M(PRE), M(ATTN), M(MAMBA2), M(BOTH), 0, 0, 0, 0, 0)
ROW(nemotron_h, "nemotron_h", RMS, NONE, M(RELU2), M(SINGLE), M(ATTN), M(MAMBA2), M(WHERE_NO_KV), 0, 0, F(PLAIN), 0, 0)
ROW(nemotron_h_moe, "nemotron_h_moe", RMS, NONE, M(RELU2), M(SINGLE), M(ATTN), M(MAMBA2), M(WHERE_NO_KV), 0, 0,
    F(PLAIN) | F(SIGMOID), 0, K(NORM) | K(WEIGHT))
ROW(jamba, "jamba", RMS, NONE, M(SILU), M(PRE), M(ATTN), M(MAMBA), M(WHERE_NO_KV), 0, 0, 0, 0, 0)
ROW(plamo2, "plamo2", RMS, HALVES, M(SILU), M(PRE), M(ATTN), M(PLAMO), M(WHERE_NO_KV), 0, 0, 0, 0, 0)
ROW(plamo3, "plamo3", RMS, HALVES, M(SILU), M(PRE), ATTN, 8, A(WINDOW_KEY) | A(LOCAL_10000) | A(ONE_WIDTH), 0, 0,
    K(LOCAL_BASE))
ROW(mamba, "mamba", RMS, NONE, M(SILU), M(PRE), M(MAMBA), 0, M(NEVER), 0, 0, F(NONE), 0, 0)
ROW(mamba2, "mamba2", RMS, NONE, M(SILU), M(PRE), M(MAMBA2), 0, M(NEVER), 0, 0, F(NONE), 0, 0)
ROW(rwkv6, "rwkv6", LN, NONE, M(RELU2), M(PRE), M(RWKV6), 0, M(NEVER), 0, 0, F(CHANNEL), T(EMBD_NORM), 0)
ROW(rwkv6qwen2, "rwkv6qwen2", RMS, NONE, M(SILU), M(PRE), M(RWKV6), 0, M(NEVER), 0, 0, 0, 0, 0)
ROW(rwkv7, "rwkv7", LN, NONE, M(RELU2), M(PRE), M(RWKV7), 0, M(NEVER), 0, 0, F(CHANNEL), T(EMBD_NORM), 0)
ROW(bert, "bert", LN, NONE, M(GELU), M(POST), ATTN, 0, A(ENCODER), F(PLAIN),
    T(EMBD_NORM) | T(POSITIONS) | T(HIDDEN) | T(NO_OUTPUT_NORM) | T(TYPES), 0)
ROW(nomic_bert, "nomic-bert", LN, HALVES, M(SILU), M(POST), ATTN, 0, A(ENCODER), 0,
    T(EMBD_NORM) | T(HIDDEN) | T(NO_OUTPUT_NORM), 0)
ROW(nomic_bert_moe, "nomic-bert-moe", LN, HALVES, M(GELU), M(POST), ATTN, 0, A(ENCODER), F(PLAIN),
    T(EMBD_NORM) | T(HIDDEN) | T(NO_OUTPUT_NORM) | T(MASK_STRIPS), 0)
ROW(jina_bert_v2, "jina-bert-v2", LN, NONE, M(GELU), M(POST), ATTN, 0, A(ENCODER) | A(ALIBI), 0,
    T(EMBD_NORM) | T(HIDDEN) | T(NO_OUTPUT_NORM), 0)
ROW(jina_bert_v3, "jina-bert-v3", LN, HALVES, M(GELU), M(POST), ATTN, 0, A(ENCODER), F(PLAIN),
    T(EMBD_NORM) | T(HIDDEN) | T(NO_OUTPUT_NORM) | T(MASK_STRIPS), 0)
ROW(eurobert, "eurobert", RMS, HALVES, M(SILU), M(PRE), ATTN, 0, A(ENCODER), 0, T(HIDDEN), 0)
ROW(modern_bert, "modern-bert", LN, HALVES, M(GELU), M(PRE), ATTN, -3, A(ENCODER) | A(FIRST_NO_NORM) | A(LOCAL_10000),
    0, T(EMBD_NORM) | T(HIDDEN), K(LOCAL_BASE))
ROW(t5, "t5", RMS, NONE, M(GELU), M(PRE), ATTN, 0, A(SCALE_ONE) | A(RELATIVE), F(PLAIN), T(T5), 0)
ROW(t5encoder, "t5encoder", RMS, NONE, M(GELU), M(PRE), ATTN, 0, A(SCALE_ONE) | A(RELATIVE) | A(ENCODER), F(PLAIN),
    T(T5) | T(HIDDEN), 0)
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

/* The row of a model. TINYLLM_ONLY_ARCH: a constant, so that the compiler leaves out what only other architectures
 * want. */
#ifdef TINYLLM_ONLY_ARCH
#define TINYI_LM_ONLY TINYI_CAT(tinyi_lm_arch_, TINYLLM_ONLY_ARCH)
#endif
#if defined TINYLLM_ONLY_ARCH && TINYI_WHOLE
#define TINYI_LM_ARCH(m) ((void)(m), &TINYI_LM_ONLY)
#define TINYI_LM_MIXES(kind) (TINYI_LM_ONLY.mixer == (kind) || TINYI_LM_ONLY.other == (kind)) /* some layer may do it \
                                                                                               */
#else
#define TINYI_LM_ARCH(m) ((m)->arch)
#define TINYI_LM_MIXES(kind) 1
#endif
/* NULL: there is none */
TINYI_FN const tinyi_lm_arch *tinyi_lm_arch_find(const char *name, size_t n);
TINYI_FN const tinyi_lm_arch *tinyi_lm_arch_at(size_t i);
/* "qwen3, qwen2, qwen35": the names nearest to one that is not there */
TINYI_FN void tinyi_lm_arch_nearest(const char *name, size_t n, char text[160]);

TINYI_C_END
#endif
