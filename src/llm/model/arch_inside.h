/* src/llm/model/arch_inside.h - the architectures: one row each
 *
 * A row describes the norms, the mixer of each layer, the rotation of positions, the feed-forward network and its
 * router, scalings, and special rules of embedding and output. Everything else follows from the tensors of the file:
 * biases, norms of q and k, fused or separate projections, experts in a layer. A variant of a known architecture is a
 * new row. A new kind of mixer is a row of TINYI_LM_KINDS and a new file in this folder. */
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
#define TINYI_LM_A_WINDOW_KEY        TINYI_LM_BIT(14) /* windows only if attention.sliding_window is present */
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
#define TINYI_LM_A_WINDOW_4096       TINYI_LM_BIT(41) /* the window if attention.sliding_window is absent */
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
#define TINYI_LM_K_WINDOW_LIST 0x8000u /* attention.sliding_window_pattern is required: no period is known */

#define TINYI_LM_K_DECAY            0x10000u /* kda.gate_lower_bound: a decay between that and none */
#define TINYI_LM_K_DECAY_PLUS       0x20000u /* the same, always there, and ssm_a has the other sign */
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
#define ATT(x) TINYI_LM_A_##x
#define FFN(x) TINYI_LM_F_##x
#define TOP(x) TINYI_LM_T_##x
#define KEY(x) TINYI_LM_K_##x
#define LM(x) TINYI_LM_##x
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
ROW(llama, "llama", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), FFN(RENORM), 0, 0)
ROW(llama4, "llama4", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 4, ATT(QK_PLAIN) | ATT(NOPE_GLOBAL) | ATT(CHUNKED),
    FFN(SIGMOID) | FFN(WEIGHT_FIRST), 0, KEY(GROWTH) | KEY(LOCAL_BASE))
ROW(llama_embed, "llama-embed", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW) | ATT(ENCODER), FFN(RENORM),
    TOP(HIDDEN), 0)
ROW(mistral3, "mistral3", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW) | ATT(YARN_PLAIN) | ATT(YARN_BETAS),
    FFN(RENORM), 0, KEY(GROWTH))
ROW(qwen2, "qwen2", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), 0, 0, 0)
ROW(qwen2vl, "qwen2vl", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), 0, 0, 0)
ROW(qwen2moe, "qwen2moe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), 0, 0, 0)
ROW(qwen3, "qwen3", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), 0, 0, 0)
ROW(qwen3vl, "qwen3vl", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), 0, 0, 0)
ROW(qwen3moe, "qwen3moe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), FFN(RENORM), 0, 0)
ROW(qwen3vlmoe, "qwen3vlmoe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), FFN(RENORM), 0, 0)
ROW(qwen3next, "qwen3next", RMS, HALVES, LM(SILU), LM(PRE), LM(ATTN), LM(DELTA), LM(INTERVAL), 0,
    ATT(NORM2_IS_POST) | ATT(GATED) | ATT(KEY_BLOCKS), FFN(RENORM), 0, 0)
ROW(qwen35, "qwen35", RMS, HALVES, LM(SILU), LM(PRE), LM(ATTN), LM(DELTA), LM(INTERVAL), 0,
    ATT(NORM2_IS_POST) | ATT(GATED), 0, 0, 0)
ROW(qwen35moe, "qwen35moe", RMS, HALVES, LM(SILU), LM(PRE), LM(ATTN), LM(DELTA), LM(INTERVAL), 0,
    ATT(NORM2_IS_POST) | ATT(GATED), FFN(RENORM), 0, 0)
ROW(gemma, "gemma", RMS, HALVES, LM(GELU), LM(PRE), ATTN, 0, 0, 0, TOP(SQRT), 0)
ROW(gemma2, "gemma2", RMS, HALVES, LM(GELU), LM(PRE), ATTN, 2, ATT(46_LAYERS) | ATT(WINDOW_4096) | ATT(CAP_50), 0,
    TOP(SQRT) | TOP(CAP_30), KEY(LOGIT_CAP) | KEY(ATTN_CAP) | KEY(LOCAL_BASE))
ROW(gemma3, "gemma3", RMS, HALVES, LM(GELU), LM(PRE), ATTN, 6, ATT(LOCAL_10000) | ATT(62_LAYERS), 0, TOP(SQRT),
    KEY(LOGIT_CAP) | KEY(LOCAL_BASE))
ROW(gemma3n, "gemma3n", RMS, HALVES, LM(GELU), LM(ALTUP), ATTN, 5, ATT(LOCAL_10000) | ATT(SCALE_ONE) | ATT(V_PLAIN), 0,
    TOP(SQRT) | TOP(CAP_30), KEY(LOGIT_CAP) | KEY(LOCAL_BASE))
ROW(gemma4, "gemma4", RMS, HALVES, LM(GELU), LM(PRE), ATTN, 6, ATT(SCALE_ONE) | ATT(V_PLAIN),
    FFN(RENORM) | FFN(SIDE_BY_SIDE), TOP(SQRT), KEY(LOGIT_CAP) | KEY(LOCAL_BASE))
ROW(gemma_embedding, "gemma-embedding", RMS, HALVES, LM(GELU), LM(PRE), ATTN, 6, ATT(LOCAL_10000) | ATT(ENCODER), 0,
    TOP(SQRT) | TOP(HIDDEN), KEY(LOCAL_BASE))
ROW(phi2, "phi2", LN, HALVES, LM(GELU), LM(PARALLEL), ATTN, 0, 0, FFN(PLAIN), 0, 0)
ROW(phi3, "phi3", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), 0, 0, 0)
ROW(phimoe, "phimoe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), FFN(RENORM), 0, 0)
ROW(gpt2, "gpt2", LN, NONE, LM(GELU), LM(PRE), ATTN, 0, 0, FFN(PLAIN), TOP(POSITIONS), 0)
ROW(gptneox, "gptneox", LN, HALVES, LM(GELU), LM(PARALLEL), ATTN, 0, 0, FFN(PLAIN), 0, 0)
ROW(falcon, "falcon", LN, HALVES, LM(GELU), LM(PARALLEL), ATTN, 0, ATT(FALCON), FFN(PLAIN), 0, 0)
ROW(bloom, "bloom", LN, NONE, LM(GELU), LM(PRE), ATTN, 0, ATT(ALIBI), FFN(PLAIN), TOP(EMBD_NORM), 0)
ROW(mpt, "mpt", LN, NONE, LM(GELU), LM(PRE), ATTN, 0, ATT(ALIBI) | ATT(ALIBI_KEY), FFN(PLAIN), TOP(MAY_POSITIONS),
    KEY(CLAMP))
ROW(starcoder, "starcoder", LN, NONE, LM(GELU), LM(PRE), ATTN, 0, 0, FFN(PLAIN), TOP(POSITIONS), 0)
ROW(starcoder2, "starcoder2", LN, HALVES, LM(GELU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), FFN(PLAIN), 0, 0)
ROW(stablelm, "stablelm", LN, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(MAY_FFN_NORM), 0, 0, 0)
ROW(xverse, "xverse", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(openelm, "openelm", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(codeshell, "codeshell", LN, HALVES, LM(GELU), LM(PRE), ATTN, 0, 0, FFN(PLAIN), 0, 0)
ROW(deepseek, "deepseek", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, KEY(WEIGHT))
ROW(olmo2, "olmo2", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 4,
    ATT(NO_NORM) | ATT(NO_FFN_NORM) | ATT(WINDOW_KEY) | ATT(LOCAL_UNSCALED), 0, 0, 0)
ROW(olmoe, "olmoe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(granite, "granite", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, ATT(ROPE_SWITCH), FFN(RENORM), TOP(LOGIT_DIVIDE),
    KEY(SCALES) | KEY(ATTN_SCALE) | KEY(LOGIT_SCALE))
ROW(granitemoe, "granitemoe", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, FFN(RENORM), TOP(LOGIT_DIVIDE),
    KEY(SCALES) | KEY(ATTN_SCALE) | KEY(LOGIT_SCALE))
ROW(granitehybrid, "granitehybrid", RMS, PAIRS, LM(SILU), LM(PRE), LM(ATTN), LM(MAMBA2), LM(WHERE_NO_KV), 0,
    ATT(ROPE_SWITCH), FFN(RENORM), TOP(LOGIT_DIVIDE), KEY(SCALES) | KEY(ATTN_SCALE) | KEY(LOGIT_SCALE))
ROW(granite_swa, "granite_swa", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, LM(EVERY), 0, FFN(RENORM), TOP(LOGIT_DIVIDE),
    KEY(SCALES) | KEY(ATTN_SCALE) | KEY(LOGIT_SCALE) | KEY(WINDOW_LIST) | KEY(ROPE_LIST))
ROW(minicpm, "minicpm", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, FFN(RENORM), TOP(LOGIT_DIVIDE) | TOP(MINICPM),
    KEY(SCALES) | KEY(LOGIT_SCALE))
ROW(deepseek2, "deepseek2", RMS, PAIRS, LM(SILU), LM(PRE), MLA, 0, ATT(YARN_MSCALE) | ATT(YARN_GROWS), 0, 0,
    KEY(GROWTH) | KEY(ROUTER))
ROW(deepseek32, "deepseek32", RMS, PAIRS, LM(SILU), LM(PRE), MLA, 0, ATT(YARN_MSCALE) | ATT(INDEXER), FFN(SIGMOID), 0,
    KEY(GROWTH) | KEY(ROUTER))
ROW(glm_dsa, "glm-dsa", RMS, PAIRS, LM(SILU), LM(PRE), MLA, 0, ATT(YARN_MSCALE) | ATT(INDEXER) | ATT(INDEX_PAIRS),
    FFN(SIGMOID), 0, KEY(GROWTH) | KEY(ROUTER))
ROW(deepseek4, "deepseek4", RMS, PAIRS, LM(SILU), LM(HYPER), LM(COMPRESSED), 0, LM(NEVER), 0, 0, 0, 0,
    KEY(ROUTER) | KEY(SWIGLU_CLAMP))
ROW(mistral4, "mistral4", RMS, PAIRS, LM(SILU), LM(PRE), MLA, 0, ATT(YARN_MSCALE) | ATT(YARN_BETAS), 0, 0,
    KEY(GROWTH) | KEY(ROUTER))
ROW(plm, "plm", RMS, PAIRS, LM(RELU2), LM(PRE), MLA, 0, 0, FFN(PLAIN), 0, 0)
ROW(minicpm3, "minicpm3", RMS, HALVES, LM(SILU), LM(PRE), MLA, 0, 0, 0, TOP(MINICPM) | TOP(LOGIT_DIVIDE), 0)
ROW(kimi_linear, "kimi-linear", RMS, NONE, LM(SILU), LM(PRE), LM(MLA), LM(KDA), LM(WHERE_NO_KV), 0, 0,
    FFN(SIGMOID) | FFN(RENORM), 0, KEY(GATING) | KEY(WEIGHT))
ROW(kimi_k3, "kimi-k3", RMS, NONE, LM(SITU), LM(PRE), LM(MLA), LM(KDA), LM(WHERE_NO_KV), 0, 0, FFN(SIGMOID), 0,
    KEY(ROUTER) | KEY(DECAY) | KEY(BANK) | KEY(LATENT))
ROW(bitnet, "bitnet", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(smollm3, "smollm3", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, ATT(NOPE_4TH), 0, 0, 0)
ROW(nanbeige, "nanbeige", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, ATT(NO_WINDOW), 0, 0, KEY(LOOPS))
ROW(command_r, "command-r", LN, PAIRS, LM(SILU), LM(PARALLEL), ATTN, 0, 0, 0, 0, KEY(LOGIT_SCALE))
ROW(cohere2, "cohere2", LN, PAIRS, LM(SILU), LM(PARALLEL), ATTN, 4, ATT(NOPE_GLOBAL), 0, 0, KEY(LOGIT_SCALE))
ROW(cohere2moe, "cohere2moe", LN, PAIRS, LM(SILU), LM(PARALLEL), ATTN, -4,
    ATT(NOPE_GLOBAL) | ATT(DENSE_ROPE) | ATT(EPS_SAYS), FFN(SIGMOID) | FFN(HALF), 0, KEY(LOGIT_SCALE) | KEY(ROUTER))
ROW(internlm2, "internlm2", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(chatglm, "chatglm", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(glm4, "glm4", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(glm4moe, "glm4moe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NORM2_IS_POST), FFN(SIGMOID), 0, KEY(ROUTER))
ROW(exaone, "exaone", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(exaone4, "exaone4", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 4,
    ATT(NO_NORM) | ATT(NO_FFN_NORM) | ATT(64_LAYERS) | ATT(NOPE_GLOBAL), 0, 0, 0)
ROW(exaone_moe, "exaone-moe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 4, ATT(NOPE_GLOBAL) | ATT(WINDOW_128), FFN(SIGMOID),
    0, KEY(ROUTER))
ROW(arcee, "arcee", RMS, PAIRS, LM(RELU2), LM(PRE), ATTN, 0, 0, FFN(PLAIN), 0, 0)
ROW(nemotron, "nemotron", LN, HALVES, LM(RELU2), LM(PRE), ATTN, 0, 0, FFN(PLAIN), 0, 0)
ROW(gpt_oss, "gpt-oss", RMS, HALVES, LM(CLAMPED), LM(PRE), ATTN, 2, ATT(NORM2_IS_POST), FFN(OF_CHOSEN), 0,
    KEY(LOCAL_BASE))
ROW(minimax_m2, "minimax-m2", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, 0, FFN(SIGMOID) | FFN(RENORM), 0, KEY(GATING))
ROW(minimax_m3, "minimax-m3", RMS, HALVES, LM(CLAMPED), LM(PRE), ATTN, 0, ATT(INDEXER), FFN(SIGMOID), 0, KEY(ROUTER))
ROW(hunyuan_dense, "hunyuan-dense", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(QK_AFTER), 0, 0, 0)
ROW(hunyuan_moe, "hunyuan-moe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(QK_AFTER), FFN(RENORM), 0, 0)
ROW(hy_v3, "hy_v3", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, 0, FFN(SIGMOID), 0, KEY(ROUTER))
ROW(ernie4_5, "ernie4_5", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, 0)
ROW(ernie4_5_moe, "ernie4_5-moe", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, FFN(RENORM), 0, 0)
ROW(seed_oss, "seed_oss", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(NORM2_IS_POST), 0, 0, 0)
ROW(apertus, "apertus", RMS, HALVES, LM(XIELU), LM(PRE), ATTN, 0, 0, FFN(PLAIN), 0, 0)
ROW(smallthinker, "smallthinker", RMS, HALVES, LM(RELU), LM(PRE), ATTN, -4,
    ATT(NOPE_GLOBAL) | ATT(WINDOW_KEY) | ATT(OWN_PATTERN) | ATT(WINDOW_4096) | ATT(WINDOW_FIXED) | ATT(SHORT_ROPE),
    FFN(RENORM) | FFN(ROUTER_EARLY), 0, KEY(GATING) | KEY(LOCAL_BASE))
ROW(mellum, "mellum", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 4, ATT(WINDOW_KEY) | ATT(LOCAL_UNSCALED), FFN(RENORM), 0, 0)
ROW(afmoe, "afmoe", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 4,
    ATT(WINDOW_KEY) | ATT(NOPE_4TH) | ATT(GATE) | ATT(GATE_ALWAYS), FFN(SIGMOID), TOP(SQRT),
    KEY(ROUTER) | KEY(LOCAL_BASE))
ROW(laguna, "laguna", RMS, HALVES, LM(SILU), LM(PRE), ATTN, -4,
    ATT(WINDOW_KEY) | ATT(LOCAL_UNSCALED) | ATT(GATE) | ATT(GATE_ALWAYS) | ATT(GATE_SOFTPLUS), FFN(SIGMOID), 0,
    KEY(ROUTER) | KEY(LOCAL_BASE))
ROW(mimo2, "mimo2", RMS, HALVES, LM(SILU), LM(PRE), ATTN, LM(EVERY), ATT(LOCAL_10000) | ATT(ONE_WIDTH),
    FFN(SIGMOID) | FFN(RENORM), 0, KEY(LOCAL_BASE) | KEY(WINDOW_LIST) | KEY(VALUE_SCALE))
ROW(step35, "step35", RMS, HALVES, LM(SILU), LM(PRE), ATTN, LM(EVERY), ATT(LOCAL_10000) | ATT(GATE) | ATT(HALF_ROPE),
    FFN(SIGMOID), 0, KEY(ROUTER) | KEY(LOCAL_BASE) | KEY(WINDOW_LIST) | KEY(SWIGLU_CLAMP))
ROW(dots1, "dots1", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, KEY(ROUTER))
ROW(bailingmoe, "bailingmoe", RMS, PAIRS, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, KEY(NORM) | KEY(WEIGHT))
ROW(bailingmoe2, "bailingmoe2", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, 0, 0, 0, KEY(ROUTER))
ROW(bailingmoe3, "bailingmoe3", RMS, PAIRS, LM(SILU), LM(PRE), LM(MLA), LM(KDA), LM(WHERE_NO_KV), 0, ATT(GATE_HEADS),
    FFN(SIGMOID), 0, KEY(ROUTER) | KEY(SWIGLU_CLAMP) | KEY(DECAY) | KEY(DECAY_PLUS))
ROW(lfm2, "lfm2", RMS, HALVES, LM(SILU), LM(PRE), LM(ATTN), LM(SHORTCONV), LM(WHERE_NO_KV), LM(EVERY),
    ATT(WINDOW_KEY) | ATT(OWN_PATTERN), 0, TOP(OUTPUT_IS_EMBD), 0)
ROW(lfm2moe, "lfm2moe", RMS, HALVES, LM(SILU), LM(PRE), LM(ATTN), LM(SHORTCONV), LM(WHERE_NO_KV), 0, 0,
    FFN(SIGMOID) | FFN(RENORM), TOP(OUTPUT_IS_EMBD), KEY(GATING))
ROW(falcon_h1, "falcon-h1", RMS, HALVES, LM(SILU), LM(PRE), LM(ATTN), LM(MAMBA2), LM(BOTH), 0, 0, 0, 0, 0)
ROW(nemotron_h, "nemotron_h", RMS, NONE, LM(RELU2), LM(SINGLE), LM(ATTN), LM(MAMBA2), LM(WHERE_NO_KV), 0, 0, FFN(PLAIN),
    0, 0)
ROW(nemotron_h_moe, "nemotron_h_moe", RMS, NONE, LM(RELU2), LM(SINGLE), LM(ATTN), LM(MAMBA2), LM(WHERE_NO_KV), 0, 0,
    FFN(PLAIN) | FFN(SIGMOID), 0, KEY(NORM) | KEY(WEIGHT))
ROW(jamba, "jamba", RMS, NONE, LM(SILU), LM(PRE), LM(ATTN), LM(MAMBA), LM(WHERE_NO_KV), 0, 0, 0, 0, 0)
ROW(plamo2, "plamo2", RMS, HALVES, LM(SILU), LM(PRE), LM(ATTN), LM(PLAMO), LM(WHERE_NO_KV), 0, 0, 0, 0, 0)
ROW(plamo3, "plamo3", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 8, ATT(WINDOW_KEY) | ATT(LOCAL_10000) | ATT(ONE_WIDTH), 0,
    0, KEY(LOCAL_BASE))
ROW(mamba, "mamba", RMS, NONE, LM(SILU), LM(PRE), LM(MAMBA), 0, LM(NEVER), 0, 0, FFN(NONE), 0, 0)
ROW(mamba2, "mamba2", RMS, NONE, LM(SILU), LM(PRE), LM(MAMBA2), 0, LM(NEVER), 0, 0, FFN(NONE), 0, 0)
ROW(rwkv6, "rwkv6", LN, NONE, LM(RELU2), LM(PRE), LM(RWKV6), 0, LM(NEVER), 0, 0, FFN(CHANNEL), TOP(EMBD_NORM), 0)
ROW(rwkv6qwen2, "rwkv6qwen2", RMS, NONE, LM(SILU), LM(PRE), LM(RWKV6), 0, LM(NEVER), 0, 0, 0, 0, 0)
ROW(rwkv7, "rwkv7", LN, NONE, LM(RELU2), LM(PRE), LM(RWKV7), 0, LM(NEVER), 0, 0, FFN(CHANNEL), TOP(EMBD_NORM), 0)
ROW(bert, "bert", LN, NONE, LM(GELU), LM(POST), ATTN, 0, ATT(ENCODER), FFN(PLAIN),
    TOP(EMBD_NORM) | TOP(POSITIONS) | TOP(HIDDEN) | TOP(NO_OUTPUT_NORM) | TOP(TYPES), 0)
ROW(nomic_bert, "nomic-bert", LN, HALVES, LM(SILU), LM(POST), ATTN, 0, ATT(ENCODER), 0,
    TOP(EMBD_NORM) | TOP(HIDDEN) | TOP(NO_OUTPUT_NORM), 0)
ROW(nomic_bert_moe, "nomic-bert-moe", LN, HALVES, LM(GELU), LM(POST), ATTN, 0, ATT(ENCODER), FFN(PLAIN),
    TOP(EMBD_NORM) | TOP(HIDDEN) | TOP(NO_OUTPUT_NORM) | TOP(MASK_STRIPS), 0)
ROW(jina_bert_v2, "jina-bert-v2", LN, NONE, LM(GELU), LM(POST), ATTN, 0, ATT(ENCODER) | ATT(ALIBI), 0,
    TOP(EMBD_NORM) | TOP(HIDDEN) | TOP(NO_OUTPUT_NORM), 0)
ROW(jina_bert_v3, "jina-bert-v3", LN, HALVES, LM(GELU), LM(POST), ATTN, 0, ATT(ENCODER), FFN(PLAIN),
    TOP(EMBD_NORM) | TOP(HIDDEN) | TOP(NO_OUTPUT_NORM) | TOP(MASK_STRIPS), 0)
ROW(eurobert, "eurobert", RMS, HALVES, LM(SILU), LM(PRE), ATTN, 0, ATT(ENCODER), 0, TOP(HIDDEN), 0)
ROW(modern_bert, "modern-bert", LN, HALVES, LM(GELU), LM(PRE), ATTN, -3,
    ATT(ENCODER) | ATT(FIRST_NO_NORM) | ATT(LOCAL_10000), 0, TOP(EMBD_NORM) | TOP(HIDDEN), KEY(LOCAL_BASE))
ROW(t5, "t5", RMS, NONE, LM(GELU), LM(PRE), ATTN, 0, ATT(SCALE_ONE) | ATT(RELATIVE), FFN(PLAIN), TOP(T5), 0)
ROW(t5encoder, "t5encoder", RMS, NONE, LM(GELU), LM(PRE), ATTN, 0, ATT(SCALE_ONE) | ATT(RELATIVE) | ATT(ENCODER),
    FFN(PLAIN), TOP(T5) | TOP(HIDDEN), 0)
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
#undef ATT
#undef FFN
#undef TOP
#undef KEY
#undef LM
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
