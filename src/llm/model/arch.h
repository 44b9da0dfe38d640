/* src/llm/model/arch.h - the architectures: one row each
 *
 * A row says which norm stands where, which mixer is in which layer, how positions are rotated, what the feed-forward
 * network and its router do, what is scaled, and what is special about embedding and output. Everything else (biases,
 * norms of q and k, fused or separate projections, experts in a layer) follows from the tensors that a file holds. A new
 * relative is a row; a new kind of mixer is a row of TINYI_LM_KINDS and a file beside this one.                        */
#ifndef TINYI_ARCH_H
#define TINYI_ARCH_H
#include "core/ctx.h"
TINYI_C_BEGIN

enum { TINYI_LM_RMS, TINYI_LM_LAYERNORM };
enum { TINYI_LM_NO_ROPE, TINYI_LM_PAIRS, TINYI_LM_HALVES };         /* (2i, 2i + 1) or (i, i + n/2) */
enum {
    TINYI_LM_SILU, TINYI_LM_GELU, TINYI_LM_GELU_ERF, TINYI_LM_RELU, TINYI_LM_RELU2, TINYI_LM_XIELU, TINYI_LM_CLAMPED
};
enum {
    TINYI_LM_PRE,                           /* x += post(mix(norm(x))); x += post(ffn(norm(x))), each norm where it is */
    TINYI_LM_PARALLEL,                      /* x += mix(norm(x)) + ffn(norm(x)) */
    TINYI_LM_POST,                          /* x = norm(x + mix(x)); x = norm(x + ffn(x)) */
    TINYI_LM_SINGLE,                        /* x += mix(norm(x)), or ffn in its place */
    TINYI_LM_ALTUP                          /* four streams, gemma3n */
};
/* kinds of mixers: TINYI_LM_KINDS of model.c, in this order */
enum {
    TINYI_LM_NO_MIX, TINYI_LM_ATTN, TINYI_LM_MLA, TINYI_LM_DELTA, TINYI_LM_KDA, TINYI_LM_MAMBA, TINYI_LM_MAMBA2, TINYI_LM_PLAMO,
    TINYI_LM_SHORTCONV, TINYI_LM_RWKV6, TINYI_LM_RWKV7, TINYI_LM_MIXERS
};
enum { TINYI_LM_EVERY = 32767 };            /* a period: every layer has a window */
/* which layers take the second mixer of the row */
enum {
    TINYI_LM_NEVER, TINYI_LM_ALWAYS,
    TINYI_LM_WHERE_NO_KV,                   /* attention.head_count_kv of the layer is 0 */
    TINYI_LM_INTERVAL,                      /* (l + 1) % full_attention_interval != 0, or attention.recurrent_layers */
    TINYI_LM_BOTH                           /* both, their outputs added */
};

/* attention */
#define TINYI_LM_A_NORM2_IS_POST    0x1u    /* the norm before the feed-forward is named post_attention_norm */
#define TINYI_LM_A_QK_AFTER         0x2u    /* q and k are normed after the rotation */
#define TINYI_LM_A_QK_PLAIN         0x4u    /* and without weights, in rotated layers */
#define TINYI_LM_A_V_PLAIN          0x8u    /* v is normed without weights */
#define TINYI_LM_A_SCALE_ONE        0x10u   /* scores are not scaled */
#define TINYI_LM_A_GATED            0x20u   /* attn_q gives a query and a gate for each head */
#define TINYI_LM_A_NOPE_GLOBAL      0x40u   /* layers without a window are not rotated */
#define TINYI_LM_A_NOPE_4TH         0x80u   /* every fourth layer is not rotated */
#define TINYI_LM_A_ALIBI            0x100u
#define TINYI_LM_A_ENCODER          0x200u  /* every token sees every token */
#define TINYI_LM_A_LOCAL_10000      0x400u  /* rope base of layers with a window, where no key says it; not scaled */
#define TINYI_LM_A_LOCAL_UNSCALED   0x800u
#define TINYI_LM_A_CHUNKED          0x1000u /* layers with a window see the keys of their own chunk */
#define TINYI_LM_A_64_LAYERS        0x2000u /* windows only with 64 layers */
#define TINYI_LM_A_WINDOW_KEY       0x4000u /* windows only where attention.sliding_window stands */
#define TINYI_LM_A_RELATIVE         0x8000u /* bias by the bucket of the distance */
#define TINYI_LM_A_NO_NORM          0x10000u /* no norm before the mixer */
#define TINYI_LM_A_FIRST_NO_NORM    0x20000u /* none before the mixer of the first layer */
#define TINYI_LM_A_NO_FFN_NORM      0x40000u /* no norm before the feed-forward */
#define TINYI_LM_A_INDEXER          0x80000u /* sparse: an indexer picks the keys */
#define TINYI_LM_A_YARN_MSCALE      0x100000u /* the size of YaRN goes into the scores by yarn_log_multiplier */
#define TINYI_LM_A_FALCON           0x200000u /* attn_norm_2, where it is, belongs to the attention */
#define TINYI_LM_A_NO_WINDOW        0x400000u /* attention.sliding_window is not looked at */
#define TINYI_LM_A_27B              0x800000u /* the largest size scales by its width over its heads */
#define TINYI_LM_A_INDEX_PAIRS      0x1000000u /* the indexer rotates pairs; else halves */
#define TINYI_LM_A_KEY_BLOCKS       0x2000000u /* delta nets: neighbouring value heads share a key head; else heads a multiple apart */

#define TINYI_LM_A_ROPE_SWITCH      0x4000000u /* rope.scaling.finetuned false: nothing is rotated */
#define TINYI_LM_A_DENSE_ROPE       0x8000000u /* the leading dense layers are rotated, window or not */
#define TINYI_LM_A_EPS_SAYS         0x10000000u /* rms or layer norm: as the file names the epsilon */
#define TINYI_LM_A_YARN_BETAS       0x40000000u /* the betas of YaRN are the file's; for all others 32 and 1, as other engines take them */
#define TINYI_LM_A_YARN_GROWS       0x80000000u /* with YARN_MSCALE: scores grow by YaRN's own size too, see tinyi_lm_yarn_scores */
#define TINYI_LM_A_YARN_PLAIN       0x20000000u /* yarn_log_multiplier is the size itself, not a tenth of it */

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

/* numbers that a file of this architecture may name; in files of all others they are passed over, as in llama.cpp: converters
 * copy what a configuration says, whether the model reads it or not */
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

typedef struct tinyi_lm_arch {
    const char *name;
    short norm, rope, act, block;
    short mixer, other, where;
    short period;                           /* n: layers l % n < n - 1 have a window (EVERY: all); -n: l % n != 0 */
    unsigned attn, ffn, top, keys;
} tinyi_lm_arch;

/* The row of a model. TINYLLM_ONLY_ARCH: a constant, so that the compiler leaves out what only other architectures want. */
#ifdef TINYLLM_ONLY_ARCH
#define TINYI_LM_ONLY TINYI_CAT(tinyi_lm_arch_, TINYLLM_ONLY_ARCH)
#endif
#if defined TINYLLM_ONLY_ARCH && defined TINYI_STITCHED
#define TINYI_LM_ARCH(m) ((void)(m), &TINYI_LM_ONLY)
#define TINYI_LM_MIXES(kind) (TINYI_LM_ONLY.mixer == (kind) || TINYI_LM_ONLY.other == (kind))   /* some layer may do it */
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
