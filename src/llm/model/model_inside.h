/* src/llm/model/model_inside.h - the structs of a model and a state, and the steps of a forward pass */
#ifndef TINYI_INSIDE_H
#define TINYI_INSIDE_H
#include "math/table_inside.h"
#include "llm/ops.h"
#include "llm/attention/paged.h"
#include "llm/attention/latent.h"
#include "llm/attention/position.h"
#include "llm/attention/pages.h"
#include "llm/model/arch_inside.h"
#include "llm/dist/ladder.h"
#include "llm/model/model.h"
#include "llm/model/rotated.h"
#include "llm/model/sliced.h"
#include "llm/block/format.h"
#include "core/bytes.h"
#include "core/file.h"
#include "core/hash_inside.h"
TINYI_C_BEGIN

/* ---- what a program may leave out -------------------------------------------------------------------------------- */

/* Models that give no logits, other ranks, routes, adapters: tllm_model_open and tllm_state_open refuse them then, so
 * that these are constants. */
#ifdef TINYI_NO_ENCODERS
#define TINYI_LM_ENCODER(m) ((void)(m), 0)
#define TINYI_LM_N_ENC(m) ((void)(m), (tiny_idx)0)
#define TINYI_LM_OUTPUT(m) ((void)(m), (int)TLLM_LOGITS)
#else
#define TINYI_LM_ENCODER(m) ((m)->encoder)
#define TINYI_LM_N_ENC(m) ((m)->n_enc)
#define TINYI_LM_OUTPUT(m) ((m)->output)
#endif
#ifdef TINYI_NO_RANKS
#define TINYI_LM_ROUTES(m) ((void)(m), 0)
#define TINYI_LM_COMM(s) ((void)(s), (tiny_comm *)NULL)
#else
#define TINYI_LM_ROUTES(m) ((m)->routes)
#define TINYI_LM_COMM(s) ((s)->comm)
#endif
#ifdef TINYI_NO_ADAPTERS
#define TINYI_LM_ATTACHED(s) ((void)(s), (struct tinyi_lm_attached *)NULL)
#else
#define TINYI_LM_ATTACHED(s) ((s)->attached)
#endif

/* what is turned while a model runs, and to how many bits inputs are rounded; without TURNS there is no transform for
 * it */
#ifdef TINYI_NO_TURNS
#define TINYI_LM_ROTATED(m) ((void)(m), 0u)
#define TINYI_LM_X_BITS(s) ((void)(s), 0)
#else
#define TINYI_LM_ROTATED(m) ((m)->rotated)
#define TINYI_LM_X_BITS(s) ((s)->x_bits)
#endif

/* a stream of several widths, with shortcut matrices between them: sliced.c */
#ifdef TINYI_NO_SLICED
#define TINYI_LM_SLICED(m) ((void)(m), 0)
#else
#define TINYI_LM_SLICED(m) ((m)->sliced)
#endif
#define TINYI_LM_STITCHED 2

/* a model that stays on disk (llm/dist/disk.h), and one whose layers are on the ranks of a ring (llm/dist/ring.h) */
#ifdef TINYI_NO_DISK
#define TINYI_LM_DISK(m) ((void)(m), 0)
#else
#define TINYI_LM_DISK(m) ((m)->disk != NULL)
#endif
#ifdef TINYI_NO_RING
#define TINYI_LM_RING(m) ((void)(m), 0)
#else
#define TINYI_LM_RING(m) ((m)->ring != NULL)
#endif

/* ---- weights ------------------------------------------------------------------------------------------------- */

/* the tensors of a layer, and of the model itself: name without "blk.N." and ".weight" */
#define TINYI_LM_TENSORS(T)                                                                                           \
    T(TOKEN_EMBD, "token_embd") T(TOKEN_TYPES, "token_types") T(POSITION_EMBD, "position_embd")                       \
    T(TOKEN_EMBD_NORM, "token_embd_norm") T(OUTPUT_NORM, "output_norm") T(OUTPUT, "output")                           \
    T(CLS_OUTPUT, "cls.output") T(CLS, "cls") T(ROPE_FREQS, "rope_freqs") T(ROPE_LONG, "rope_factors_long")           \
    T(ROPE_SHORT, "rope_factors_short") T(PLE_EMBD, "per_layer_token_embd") T(PLE_PROJ, "per_layer_model_proj")       \
    T(PLE_NORM, "per_layer_proj_norm")                                                                                \
    T(ALTUP_PROJ, "altup_proj") T(ALTUP_UNEMBD, "altup_unembd_proj")                                                  \
    T(ATTN_NORM, "attn_norm") T(ATTN_NORM_2, "attn_norm_2") T(POST_ATTN_NORM, "post_attention_norm")                  \
    T(FFN_NORM, "ffn_norm") T(POST_FFW_NORM, "post_ffw_norm") T(ATTN_OUT_NORM, "attn_output_norm")                    \
    T(LAYER_OUT_NORM, "layer_output_norm") T(LAYER_SCALE, "layer_output_scale")                                       \
    T(ATTN_QKV, "attn_qkv") T(ATTN_Q, "attn_q") T(ATTN_K, "attn_k") T(ATTN_V, "attn_v") T(ATTN_OUT, "attn_output")    \
    T(ATTN_GATE, "attn_gate") T(ATTN_Q_NORM, "attn_q_norm") T(ATTN_K_NORM, "attn_k_norm")                             \
    T(ATTN_SUB_NORM, "attn_sub_norm") T(ATTN_SINKS, "attn_sinks") T(ATTN_O, "attn_o") T(ATTN_REL_B, "attn_rel_b")     \
    T(CROSS_NORM, "cross_attn_norm") T(CROSS_Q, "cross_attn_q") T(CROSS_K, "cross_attn_k") T(CROSS_V, "cross_attn_v") \
    T(CROSS_O, "cross_attn_o")                                                                                        \
    T(ATTN_Q_A, "attn_q_a") T(ATTN_Q_B, "attn_q_b") T(ATTN_Q_A_NORM, "attn_q_a_norm") T(ATTN_KV_A, "attn_kv_a_mqa")   \
    T(ATTN_KV_A_NORM, "attn_kv_a_norm") T(ATTN_KV_B, "attn_kv_b") T(ATTN_K_B, "attn_k_b") T(ATTN_V_B, "attn_v_b")     \
    T(INDEX_K_NORM, "indexer.k_norm") T(INDEX_PROJ, "indexer.proj") T(INDEX_K, "indexer.attn_k")                      \
    T(INDEX_Q_B, "indexer.attn_q_b")                                                                                  \
    T(FFN_GATE, "ffn_gate") T(FFN_UP, "ffn_up") T(FFN_DOWN, "ffn_down") T(FFN_SUB_NORM, "ffn_sub_norm")               \
    T(ROUTER, "ffn_gate_inp") T(ROUTER_BIAS, "exp_probs_b") T(GATE_EXPS, "ffn_gate_exps") T(UP_EXPS, "ffn_up_exps")   \
    T(DOWN_EXPS, "ffn_down_exps") T(GATE_UP_EXPS, "ffn_gate_up_exps") T(GATE_SHEXP, "ffn_gate_shexp")                 \
    T(UP_SHEXP, "ffn_up_shexp") T(DOWN_SHEXP, "ffn_down_shexp") T(ROUTER_SHEXP, "ffn_gate_inp_shexp")                 \
    T(PRE_FFW_NORM_2, "pre_ffw_norm_2") T(POST_FFW_NORM_1, "post_ffw_norm_1") T(POST_FFW_NORM_2, "post_ffw_norm_2")   \
    T(INP_GATE, "inp_gate") T(PROJ, "proj") T(POST_NORM, "post_norm") T(ALTUP_CORRECT, "altup_correct_coef")          \
    T(ALTUP_SCALE, "altup_correct_scale") T(ALTUP_PREDICT, "altup_predict_coef") T(ALTUP_ROUTER, "altup_router")      \
    T(ALTUP_ROUTER_NORM, "altup_router_norm") T(LAUREL_L, "laurel_l") T(LAUREL_R, "laurel_r")                         \
    T(LAUREL_NORM, "laurel_post_norm")                                                                                \
    T(SSM_IN, "ssm_in") T(SSM_CONV, "ssm_conv1d") T(SSM_X, "ssm_x") T(SSM_DT, "ssm_dt") T(SSM_A, "ssm_a")             \
    T(SSM_D, "ssm_d") T(SSM_OUT, "ssm_out") T(SSM_NORM, "ssm_norm") T(SSM_DT_NORM, "ssm_dt_norm")                     \
    T(SSM_B_NORM, "ssm_b_norm") T(SSM_C_NORM, "ssm_c_norm") T(SSM_BETA, "ssm_beta") T(SSM_ALPHA, "ssm_alpha")         \
    T(SSM_BA, "ssm_ba") T(CONV_Q, "ssm_conv1d_q") T(CONV_K, "ssm_conv1d_k") T(CONV_V, "ssm_conv1d_v")                 \
    T(SSM_F_A, "ssm_f_a") T(SSM_F_B, "ssm_f_b") T(SSM_G_A, "ssm_g_a") T(SSM_G_B, "ssm_g_b")                           \
    T(SC_CONV, "shortconv.conv") T(SC_IN, "shortconv.in_proj") T(SC_OUT, "shortconv.out_proj")                        \
    T(TM_W0, "time_mix_w0") T(TM_W1, "time_mix_w1") T(TM_W2, "time_mix_w2") T(TM_A0, "time_mix_a0")                   \
    T(TM_A1, "time_mix_a1") T(TM_A2, "time_mix_a2") T(TM_V0, "time_mix_v0") T(TM_V1, "time_mix_v1")                   \
    T(TM_V2, "time_mix_v2") T(TM_G1, "time_mix_g1") T(TM_G2, "time_mix_g2") T(TM_KK, "time_mix_k_k")                  \
    T(TM_KA, "time_mix_k_a") T(TM_RK, "time_mix_r_k") T(TM_LERP_X, "time_mix_lerp_x")                                 \
    T(TM_LERP, "time_mix_lerp_fused") T(TM_FIRST, "time_mix_first") T(TM_DECAY, "time_mix_decay")                     \
    T(TM_DECAY_W1, "time_mix_decay_w1") T(TM_DECAY_W2, "time_mix_decay_w2") T(TM_KEY, "time_mix_key")                 \
    T(TM_VALUE, "time_mix_value") T(TM_RECEPTANCE, "time_mix_receptance") T(TM_GATE, "time_mix_gate")                 \
    T(TM_LN, "time_mix_ln") T(TM_OUT, "time_mix_output") T(CM_LERP_K, "channel_mix_lerp_k")                           \
    T(CM_LERP_R, "channel_mix_lerp_r") T(CM_KEY, "channel_mix_key") T(CM_VALUE, "channel_mix_value")                  \
    T(CM_RECEPTANCE, "channel_mix_receptance")                                                                        \
    T(SSM_G, "ssm_g") T(ATTN_RES, "attn_res_score") T(FFN_RES, "ffn_res_score") T(OUTPUT_RES, "output_res_score")     \
    T(ROUTED_DOWN, "ffn_routed_down") T(ROUTED_UP, "ffn_routed_up") T(ROUTED_NORM, "ffn_routed_norm")                 \
    T(INDEX_BLOCK_Q, "indexer.q_proj") T(INDEX_BLOCK_K, "indexer.k_proj") T(INDEX_Q_NORM, "indexer.q_norm")           \
    T(ATTN_KV, "attn_kv") T(ATTN_OUT_A, "attn_output_a") T(ATTN_OUT_B, "attn_output_b")                               \
    T(TOKEN_EXPERTS, "ffn_gate_tid2eid") T(COMP_KV, "attn_compressor_kv") T(COMP_GATE, "attn_compressor_gate")        \
    T(COMP_APE, "attn_compressor_ape")                                                                                \
    T(COMP_NORM, "attn_compressor_norm") T(INDEX_COMP_KV, "indexer_compressor_kv")                                    \
    T(INDEX_COMP_GATE, "indexer_compressor_gate") T(INDEX_COMP_APE, "indexer_compressor_ape")                         \
    T(INDEX_COMP_NORM, "indexer_compressor_norm") T(HYPER_FN, "output_hc_fn") T(HYPER_BASE, "output_hc_base")         \
    T(HYPER_SCALE, "output_hc_scale") T(HYPER_ATTN_FN, "hc_attn_fn") T(HYPER_ATTN_BASE, "hc_attn_base")               \
    T(HYPER_ATTN_SCALE, "hc_attn_scale") T(HYPER_FFN_FN, "hc_ffn_fn") T(HYPER_FFN_BASE, "hc_ffn_base")                \
    T(HYPER_FFN_SCALE, "hc_ffn_scale") T(NEXTN, "nextn.eh_proj") T(ATTN_SHORTCUT, "attn_shortcut")                    \
    T(FFN_SHORTCUT, "ffn_shortcut") T(STITCH, "stitch")

#define TINYI_LM_TENSOR_ENUM(name, text) TINYI_T_##name,
enum { TINYI_LM_TENSORS(TINYI_LM_TENSOR_ENUM) TINYI_T_COUNT };
#undef TINYI_LM_TENSOR_ENUM

typedef struct tinyi_lm_w {
    const tllm_gguf_tensor *t;
    const tllm_format *format;
    const float *v;                         /* vectors: a copy as floats; NULL for matrices */
    const float *bias;                      /* n_mat rows of n_out, or NULL */
    const float *scale;                     /* n_scale numbers, each for a matrix, or one for all; or NULL */
    tiny_idx n_in, n_out, n_mat;            /* n_mat matrices (experts, heads) of n_out rows of n_in */
    tiny_idx n_scale;
    size_t row_bytes;
    /* bytes from one row to the next: more than row_bytes where the columns are cut */
    size_t row_step;
    int dtype;                              /* F32, F16, BF16 that a matrix product may read in place; else -1 */
    /* n_in rows of n_out numbers: the same column by column (tllm_model_sparse), or NULL */
    const void *turned;
    const tllm_format *turned_format;
    int repacked;                           /* TLLM_REPACKED: eight rows of t lie side by side; or 0 */
    /* a norm of the stream of a sliced model: an RMS norm with this many times the eps; else 0 */
    float widen;
} tinyi_lm_w;

typedef struct tinyi_lm_rope {
    tiny_idx n_rot;
    float size;                             /* of cos and sin */
    double *freq, *freq_long;               /* n_rot / 2; freq_long: for contexts above the original one, or NULL */
} tinyi_lm_rope;

typedef struct tinyi_lm_layer {
    tiny_idx i;
    int mix, mix2;                          /* kinds; mix2: next to the first, or TINYI_LM_NO_MIX */
    int ffn, moe;                           /* a feed-forward network is there; it has experts */
    int local;                              /* has a window */
    int rope;                               /* number of the rotation, or -1 */
    int cross;                              /* a decoder with an encoder */
    unsigned char route[2];                 /* tllm_route of both halves: mixer, network */
    tiny_idx n_head, n_kv, d_k, d_v, n_ff;
    /* width of the stream: before the layer, between its halves (of parallel ones: after both), after it */
    tiny_idx d_in, d_mid, d_out;
    tiny_idx d_from;                        /* width before the stitch that this layer begins with; 0: it has none */
    tiny_idx ratio;                         /* deepseek4: tokens of a block of keys; 0: there are none */
    tiny_idx window;                        /* keys that are seen, or size of a chunk; 0: all */
    tiny_idx kv_from;                       /* the layer whose keys and values are used */
    float scale;
    float clamp_exp, clamp_shared;          /* of SwiGLU, in experts and in other networks; 0: none */
    const tinyi_lm_w *norm1, *post1, *norm2, *post2;
    const tinyi_lm_w *w[TINYI_T_COUNT];
} tinyi_lm_layer;

/* Layer i is the one `once` before it, run again: the same weights, and keys of its own. */
TINYI_INLINE void tinyi_lm_layer_again(tinyi_lm_layer *all, tiny_idx i, tiny_idx once)
{
    all[i] = all[i - once];
    all[i].i = all[i].kv_from = i;
}

struct tinyi_lm_block;
struct tllm_model {
    uint32_t magic;
    const tllm_gguf *file;
    const tinyi_lm_arch *arch;
    const char *path;
    struct tinyi_lm_block *blocks;          /* memory of weights and tables */
    tiny_idx n_layer, n_enc, n_embd, n_vocab, n_context, n_out, n_label;
    /* layers of the file; n_layer is a multiple of them where they are run several times */
    tiny_idx n_once;
    int loop_norm;                          /* the last norm follows each of those times */
    int output, pooling, first_token, recurrent;
    int rank, world;                        /* which part of the heads and networks is here; world 1: all */
    uint64_t shares;                        /* a hash of the parts of all ranks, where they are not equal; 0: equal */
    int routes;                             /* some half is not standard */
    /* of its keys, before the name of the architecture: "" or that of rotated.h */
    const char *prefix;
    unsigned rotated;                       /* TLLM_ROTATE_... */
    int sliced;                             /* its stream has several widths, none above n_embd; 2: by stitches */
    tiny_idx d_first, d_last;               /* width of the stream after the embedding, and before the output */
    uint64_t n_merged;                      /* adapters that were merged into the weights */
    uint64_t merged;                        /* which: their fingerprint; 0: none */
    int encoder;                            /* every token sees every token */
    int block, norm;                        /* of the row, or what the file says instead */
    double n_params;
    float eps;
    float embd_scale, residual_scale, logit_scale, logit_cap, attn_cap, alibi;
    tiny_idx n_expert, n_used, n_group, n_group_used;
    int gating, renorm;                     /* 1 softmax, 2 sigmoid, 3 softmax of the chosen */
    float expert_scale;
    tiny_idx r_q, r_kv, d_rope, d_nope, d_vm;   /* latent attention: ranks, and sizes of a head */
    tiny_idx index_heads, index_d, index_top;
    /* index_top blocks of that many keys, the last index_local of them always; 0: index_top keys */
    tiny_idx index_block, index_local;
    float temp_scale, temp_offset;          /* queries grow with the position */
    tiny_idx temp_length;
    tiny_idx ssm_conv, ssm_inner, ssm_state, ssm_rank, ssm_group;
    tiny_idx head_size;                     /* rwkv, kda */
    tiny_idx rescale;                       /* rwkv6: the stream is halved every n layers; 0: never */
    float decay;                            /* kda: the decay's exponent is above this, below 0; 0: it has no bound */
    float situ[2];                          /* bounds of gate and up; the second 0: up has none */
    /* deepseek4: streams, rounds that even their matrices out, layers whose experts go by the token */
    tiny_idx n_hyper, hyper_turns, n_hash;
    float hyper_eps;
    tiny_idx out_groups, out_rank;          /* its output matrix: groups of heads, each first reduced to out_rank */
    tiny_idx bank;                          /* the stream is saved before every n-th layer; 0: never */
    tiny_idx n_latent;                      /* what routed experts read and write; 0: n_embd */
    tiny_idx n_bucket;
    tiny_idx n_ple;                         /* per-layer inputs */
    tiny_idx n_sparse;                      /* gemma3n: layers with sparse gates */
    tiny_idx rope_original;
    float clamp_kqv, value_scale;
    tinyi_lm_rope rope[2];                  /* everywhere; in layers with a window */
    int n_rope;
    float *xielu;                           /* n_layer rows of alpha_p, alpha_n, beta, eps */
    tinyi_lm_layer top;                     /* tensors that belong to no layer */
    tinyi_lm_layer *layer, *enc;
    const tinyi_lm_w *output_w;             /* of the logits */
    const tinyi_lm_w *enc_norm;
    size_t eights;                          /* matrices that are repacked */
    unsigned char *eight_memory;            /* where they are: here, */
    tiny_file *eight_file;                  /* or in this file */
    struct tllm_disk *disk;                 /* its matrices are there only between enter and leave; NULL: always */
    struct tllm_ring *ring;                 /* its layers are computed by several ranks in turn; NULL: here */
};

#define TINYI_LM_MOST (1 << 26)            /* of any width; six times that is still counted on 32 bits */

/* ---- loading ------------------------------------------------------------------------------------------------- */

typedef struct tinyi_lm_load {
    tiny_ctx *ctx;
    const tllm_gguf *g;
    tllm_model *m;
    tiny_status st;                         /* the first failure; everything after it does nothing */
    const char *part;                       /* "", "enc." or "dec." */
} tinyi_lm_load;

/* cleared; NULL after a failure */
TINYI_FN void *tinyi_lm_keep(tinyi_lm_load *ld, size_t n, size_t bytes_each);
TINYI_FN void tinyi_lm_blocks_free(tiny_ctx *ctx, struct tinyi_lm_block *b);

/* Values of "ARCH.key" for layer i (arrays have one for each layer; i < 0: no layer). missing < 0: it must be there.
 * After a failure: least. */
TINYI_FN tiny_idx tinyi_lm_count(tinyi_lm_load *ld, const char *key, tiny_idx i, tiny_idx missing, tiny_idx least,
                                 tiny_idx most);
TINYI_FN float tinyi_lm_real(tinyi_lm_load *ld, const char *key, float missing);
TINYI_FN float tinyi_lm_real_at(tinyi_lm_load *ld, const char *key, tiny_idx i, float missing);      /* of layer i */
TINYI_FN int tinyi_lm_bool(tinyi_lm_load *ld, const char *key, tiny_idx i, int missing);
TINYI_FN const tllm_meta *tinyi_lm_meta(tinyi_lm_load *ld, const char *key);

/* A matrix of a layer, with its bias and scale where the file has them; every size is checked. NULL: not there, which
 * is a failure for need and none for may. n_mat 0: a plain matrix. */
TINYI_FN const tinyi_lm_w *tinyi_lm_need(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx n_in, tiny_idx n_out,
                                         tiny_idx n_mat);
TINYI_FN const tinyi_lm_w *tinyi_lm_may(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx n_in, tiny_idx n_out,
                                        tiny_idx n_mat);
/* A vector, or a small matrix that is used number by number: count floats in w->v, and as many in bias where there is
 * one. */
TINYI_FN const tinyi_lm_w *tinyi_lm_vec(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx count);
TINYI_FN const tinyi_lm_w *tinyi_lm_may_vec(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx count);
/* "NAME.bias" alone, without a weight: lands in w->v */
TINYI_FN const tinyi_lm_w *tinyi_lm_bias(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx count, int needed);
/* second dimension of a tensor, for sizes that no key names; 0: none */
TINYI_FN tiny_idx tinyi_lm_width(tinyi_lm_load *ld, const tinyi_lm_layer *l, int t);
/* Is a times b small enough to be counted on any machine? A failure with its sentence where not. */
TINYI_FN int tinyi_lm_small(tinyi_lm_load *ld, const tinyi_lm_layer *l, tiny_idx a, tiny_idx b);
/* a failure with its sentence, unless there was one before: what must hold, and the two numbers that do not agree */
TINYI_FN void tinyi_lm_disagree(tinyi_lm_load *ld, const tinyi_lm_layer *l, const char *what, tiny_idx a, tiny_idx b);
TINYI_FN const tllm_gguf_tensor *tinyi_lm_find(tinyi_lm_load *ld, const tinyi_lm_layer *l, int t, const char *suffix);

/* of architecture, vocabulary, tensors and routes: the same for all ranks of a model */
TINYI_FN uint64_t tinyi_lm_model_print(const tllm_model *m);
/* whether the halves of a layer can take other routes: the sum is all that joins them to the stream */
TINYI_FN int tinyi_lm_can_ladder(const tllm_model *m, const tinyi_lm_layer *l);

/* repacked matrices (repack.c): what tllm_model_close gives back; one row of numbers */
TINYI_FN void tinyi_lm_eights_free(tiny_ctx *ctx, tllm_model *m);
TINYI_FN void tinyi_lm_eight_unpack(const tinyi_lm_w *w, tiny_idx row, float *y);

/* ---- states and the forward pass ----------------------------------------------------------------------------- */

struct tinyi_lm_fwd;
typedef struct tinyi_lm_held {              /* what a layer keeps */
    tinyi_pool k, v, index;                 /* pages; without a type: none (values may lie inside keys) */
    float *x;                               /* recurrent state of sequence 0; the next one n_kept further on */
    float *cross_k, *cross_v;
} tinyi_lm_held;

/* rows row0 .. of one sequence, which held at0 cells before */
typedef struct tinyi_lm_span { tiny_idx seq, row0, n, at0; } tinyi_lm_span;
/* the row of an item is kept in one more cell: of another path of a tree of tokens (llm/serve/speculate_tree.c) */
typedef struct tinyi_lm_twin { int32_t item, page, in; } tinyi_lm_twin;
/* Another order of the layers (llm/serve/easyspec.c). Both are called before anything of the piece or of layer i is
 * computed; a failure goes into f->st. */
typedef struct tinyi_lm_order {
    int on;                                 /* the next passes take the other order */
    int keeps;                              /* what they computed stays in the cache of a draft */
    void (*begin)(struct tinyi_lm_order *o, struct tinyi_lm_fwd *f);
    /* computes layers from i on over x (f->n, n_embd) and gives their number; 0: layer i as always */
    tiny_idx (*group)(struct tinyi_lm_order *o, struct tinyi_lm_fwd *f, tiny_idx i, float *x);
} tinyi_lm_order;
/* a sequence before a call; cells that it adds, and has added */
typedef struct tinyi_lm_mark { tiny_idx length, more, done; int64_t next; } tinyi_lm_mark;

struct tllm_state {
    uint32_t magic;
    tiny_ctx *ctx;
    const tllm_model *m;
    /* of this block; of its start, which a new state has all zero; of the context's workspace, as far as it is known
     * beforehand */
    size_t bytes, cleared, work;
    tiny_idx n_ctx, n_batch, n_seq;
    int exact;                              /* no result depends on what else is computed */
    tllm_pages pages;
    const tllm_format *type_k, *type_v;
    int x_bits;                             /* of what matrices of layers read; 0: all of them */
    float x_clip;
    int32_t *pos;                           /* (n_seq, n_ctx): of each cell */
    tinyi_lm_mark *mark;                    /* (n_seq) */
    int32_t *row;                           /* (n_batch, 4) of the piece: sequence, 0, cells with this one, position */
    int32_t *token, *want;                  /* (n_batch) */
    int32_t *place;                         /* (n_batch, 2): page and row of the cell of each token */
    int stays;                              /* what operations give stays on the accelerator: see device.c */
    tinyi_lm_span *run;                      /* (n_batch) */
    tinyi_lm_held *held;                    /* for each layer */
    float *kept;                            /* (n_seq, n_kept): recurrent states of all layers, one after the other */
    tiny_idx n_kept;
    unsigned char *scratch;
    size_t scratch_bytes;
    tiny_idx n_encoded;
    struct tinyi_lm_attached *attached;     /* adapters; NULL: none was ever attached */
    uint64_t n_attach;                      /* how often they changed */
    uint64_t paged_with;                    /* tinyi_lm_weights_now of the pages that can be found */
    tllm_sparsity sparsity;                 /* of the steps so far */
    tllm_tree_plan *tree;                   /* NULL: no step was ever computed for sequences that share pages */
    tiny_comm *comm;                        /* NULL: the only rank */
    int hides_tokens;                       /* as in tllm_state_desc */
    struct tinyi_lm_ear *ear;               /* NULL, or what an audit wants to see of a pass */
    tinyi_lm_order *order;                  /* NULL: the layers one after the other */
    const tinyi_lm_twin *twin;              /* of the items of the call that is computed, which is one piece */
    tiny_idx n_twin;
};

/* what the network of a layer reads: h (n, n_embd), if room numbers are enough; n 0: nothing was read */
typedef struct tinyi_lm_ear { tiny_idx layer, n; float *h; size_t room; } tinyi_lm_ear;

typedef struct tinyi_lm_fwd {
    tiny_ctx *ctx;
    tllm_state *s;
    const tllm_model *m;
    tiny_status st;                         /* the first failure; everything after it does nothing */
    int dry;                                /* only measures scratch memory */
    int encoding;                           /* no cache: keys are those of this call */
    tiny_idx n, n_key;                      /* tokens of this piece; keys of the longest sequence with them */
    const int32_t *tokens;
    const int32_t *row;                     /* (n, 4), as in the state */
    const tinyi_lm_span *run;                /* the piece by sequences: what looks back goes by them */
    tiny_idx n_run;
    unsigned char *base;
    size_t used, high, size;
    size_t work;                            /* dry: the most that a step takes of the context's own workspace */
    float *rope_cos[2], *rope_sin[2];       /* (n, n_rot / 2) */
    float *embd;                            /* (n, n_embd): what the first layer reads */
    float *ple;                             /* (n, n_layer, n_ple) */
    float *first_v;                         /* rwkv7: values of layer 0 */
    float *bank;                            /* (n_bank, n, n_embd): streams that were put by */
    tiny_idx n_bank;
    const float *layer_in;                  /* the stream before the layer */
    /* of the last layer that needs all tokens: the rows that go on after it has its keys or its state, in order. NULL:
     * not this layer, or the pass has gone on with them already */
    const int32_t *want;
    tiny_idx n_want;
    float *in_layer[3];                     /* (n, d_layer): what the layer goes on with, as far as n_in_layer */
    int n_in_layer;
    tiny_idx d_layer;
    tllm_ladder ladder;                     /* y NULL: one rank, and all routes standard */
    /* of this piece, if its sequences share enough pages that reading them once is faster; or NULL */
    const tllm_tree_plan *tree;
} tinyi_lm_fwd;

/* The pass goes on with the rows f->want alone: positions, rotations, what the layer works on, and `also` (n, ld) or
 * NULL are gathered in place, and f->n becomes f->n_want, which may be 0. (forward.c) */
TINYI_FN void tinyi_lm_narrow(tinyi_lm_fwd *f, float *also, tiny_idx ld);
/* scratch memory: 64-byte aligned; give it back with f->used = what it was */
TINYI_FN float *tinyi_lm_take(tinyi_lm_fwd *f, tiny_idx a, tiny_idx b);
/* fn(arg, i0, i1) on the threads of the context for pieces of 0..n */
typedef void (*tinyi_lm_fn)(const void *arg, tiny_idx i0, tiny_idx i1);
/* Dispatches an operation; in a dry run, counts its workspace. */
TINYI_FN void tinyi_lm_door(tinyi_lm_fwd *f, const tiny_op *op);
/* no inputs, no outputs yet */
TINYI_FN void tinyi_lm_op_start(tiny_op *op, int kind, const tiny_op_row *row, const void *params);
TINYI_FN void tinyi_lm_each(tinyi_lm_fwd *f, tiny_idx n, tiny_idx grain, tinyi_lm_fn fn, const void *arg);

/* y (n, n_out) = w x + bias, rows ld apart; mat: which matrix of w */
TINYI_FN void tinyi_lm_linear(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *y, const float *x, tiny_idx n);
/* y[i] = w[i] x + bias of several, at most three, that read the same dense x: in one region of threads, x quantized
 * once */
TINYI_FN void tinyi_lm_linears(tinyi_lm_fwd *f, int n_w, const tinyi_lm_w *const *w, tiny_idx mat, float *const *y,
                               const float *x, tiny_idx n);
TINYI_FN void tinyi_lm_linear_both(tinyi_lm_fwd *f, const tinyi_lm_w *w0, float *y0, const tinyi_lm_w *w1, float *y1,
                                   tiny_idx mat, const float *x, tiny_idx n);
TINYI_FN void tinyi_lm_linear_at(tinyi_lm_fwd *f, const tinyi_lm_w *w, tiny_idx mat, float *y, tiny_idx ld_y,
                                 const float *x, tiny_idx ld_x, tiny_idx n);
/* y = x w[row0 .. row0 + rows]^T; turned: y (n, n_in) = x (n, rows) w[row0 .. row0 + rows]. Of w without its bias. */
TINYI_FN void tinyi_lm_linear_part(tinyi_lm_fwd *f, const tinyi_lm_w *w, tiny_idx row0, tiny_idx rows, int turned,
                                   float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, tiny_idx n);
/* the norm of the architecture; w NULL: without weights */
TINYI_FN void tinyi_lm_norm(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *y, const float *x, tiny_idx n, tiny_idx d);
TINYI_FN void tinyi_lm_norm_view(tinyi_lm_fwd *f, int kind, const float *g, const float *b, float eps,
                                 const tiny_tensor *x, const tiny_tensor *y);
TINYI_FN void tinyi_lm_rms(tinyi_lm_fwd *f, const float *g, float *y, const float *x, tiny_idx n, tiny_idx d);
/* y = a op b over n numbers */
TINYI_FN void tinyi_lm_add(tinyi_lm_fwd *f, float *y, const float *a, const float *b, tiny_idx n);
TINYI_FN void tinyi_lm_mul(tinyi_lm_fwd *f, float *y, const float *a, const float *b, tiny_idx n);
TINYI_FN void tinyi_lm_scale(tinyi_lm_fwd *f, float *y, const float *x, float alpha, tiny_idx n);
TINYI_FN void tinyi_lm_copy(tinyi_lm_fwd *f, float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, tiny_idx n,
                            tiny_idx d);
TINYI_FN void tinyi_lm_zero(tinyi_lm_fwd *f, float *y, tiny_idx n);
/* an operation on dense numbers */
TINYI_FN void tinyi_lm_run(tinyi_lm_fwd *f, int kind, float *y, const float *a, const float *b, tiny_idx n);
/* y = cap * tanh(y / cap) */
TINYI_FN void tinyi_lm_cap(tinyi_lm_fwd *f, float *y, float cap, tiny_idx n);
/* y = act(a) * b, or act(a) with b NULL */
TINYI_FN void tinyi_lm_act(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *a, const float *b,
                           tiny_idx n);
TINYI_FN void tinyi_lm_softmax(tinyi_lm_fwd *f, float *y, const float *x, tiny_idx n, tiny_idx d);
/* one row of numbers of an embedding for each token */
TINYI_FN void tinyi_lm_rows(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *y, const int32_t *tokens, tiny_idx n);

/* what the adapters of the state add (adapter.c): to a product, to rows of the embedding, to the stream after a
 * layer */
TINYI_FN void tinyi_lm_adapt(tinyi_lm_fwd *f, const tinyi_lm_w *w, tiny_idx mat, float *y, tiny_idx ld_y,
                             const float *x, tiny_idx ld_x, tiny_idx n);
TINYI_FN int tinyi_lm_adapted(const tinyi_lm_fwd *f, const tinyi_lm_w *w);     /* some adapter changes w */
TINYI_FN void tinyi_lm_adapt_part(tinyi_lm_fwd *f, const tinyi_lm_w *w, tiny_idx row0, tiny_idx rows, int turned,
                                  float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, tiny_idx n);
TINYI_FN void tinyi_lm_adapt_embd(tinyi_lm_fwd *f, float *y, const int32_t *tokens, tiny_idx n);
TINYI_FN void tinyi_lm_steer(tinyi_lm_fwd *f, tiny_idx layer, float *x);
TINYI_FN void tinyi_lm_attached_free(tllm_state *s);
/* what is merged and attached, in any order, by its numbers; 0: nothing */
TINYI_FN uint64_t tinyi_lm_adapters_print(const tllm_state *s);
TINYI_FN void tinyi_lm_hash_u64(tinyi_hash *h, uint64_t v);
/* of the model and its adapters, as saved states carry it */
/* 0 keys, 1 values, 2 keys of an indexer */
TINYI_FN const tinyi_pool *tinyi_lm_pool_at(const tllm_state *s, tiny_idx layer, int k);
TINYI_FN uint64_t tinyi_lm_fingerprint(const tllm_state *s);
TINYI_FN size_t tinyi_lm_cell_bytes(const tllm_state *s);           /* of a token of one sequence, as it is saved */
TINYI_FN size_t tinyi_lm_pack_bytes(const tllm_state *s, size_t n);     /* of tllm_state_pack with n tokens */
/* what tllm_state_pack has written, in front of it: u32 what, ... (save.c) */
TINYI_FN tiny_status tinyi_lm_saved_body(tiny_ctx *ctx, const char *where, const void *bytes, size_t n_bytes,
                                         int no_checksum, tinyi_cursor *body);
TINYI_FN int tinyi_lm_long_rope(const tllm_state *s);     /* its keys are turned as those of long contexts */
TINYI_FN tiny_idx tinyi_lm_seq_room(const tllm_state *s, tiny_idx seq);
/* Pages that were computed with other weights than those of the next call are not found by tllm_seq_share from here
 * on. */
TINYI_FN void tinyi_lm_pages_now(tllm_state *s);

/* a view of heads inside rows: (n, n_head, d), ld and head are steps in floats */
typedef struct tinyi_lm_heads { float *p; tiny_idx n_head, d, ld, head; } tinyi_lm_heads;
TINYI_FN tinyi_lm_heads tinyi_lm_heads_of(float *p, tiny_idx n_head, tiny_idx d, tiny_idx ld);
#ifndef TINYI_NO_TURNS
/* rotated.c: y (n, d) = x turned; o (n, n_head, d) turned across heads, and heads turned each by itself, in scratch
 * memory of their own; x in place to few bits */
TINYI_FN void tinyi_lm_turn_rows(tinyi_lm_fwd *f, float *y, const float *x, tiny_idx n, tiny_idx d);
TINYI_FN float *tinyi_lm_turn_across(tinyi_lm_fwd *f, const float *o, tiny_idx n, tiny_idx n_head, tiny_idx d);
TINYI_FN tinyi_lm_heads tinyi_lm_turn_heads(tinyi_lm_fwd *f, tinyi_lm_heads x);
TINYI_FN void tinyi_lm_few_bits(tinyi_lm_fwd *f, float *x, tiny_idx n, tiny_idx d);
#else
#define tinyi_lm_turn_rows(f, y, x, n, d) ((void)0)
#define tinyi_lm_turn_across(f, o, n, n_head, d) (o)
#define tinyi_lm_turn_heads(f, x) (x)
#define tinyi_lm_few_bits(f, x, n, d) ((void)0)
#endif
/* rotates the first n_rot numbers of each head in place */
TINYI_FN void tinyi_lm_rotate(tinyi_lm_fwd *f, int rope, int style, tinyi_lm_heads x);
TINYI_FN void tinyi_lm_rope_tables(tinyi_lm_fwd *f);

TINYI_FN void tinyi_lm_begin(tinyi_lm_fwd *f, tllm_state *s);
TINYI_FN tiny_status tinyi_lm_page_copy(tllm_state *s, const tllm_page_copy *c);    /* in all layers */
/* Makes `to` what `from` was, in pages of its own, and empties `from`. Needs as many free pages, with those that `to`
 * holds. *bytes grows by what was copied. After a failure `to` is empty and `from` unchanged. */
TINYI_FN tiny_status tinyi_lm_seq_move(tllm_state *s, tiny_idx from, tiny_idx to, size_t *bytes);
/* device.c: weights to the accelerator, or forgotten there; whether a state's passes stay there; its pages, and n
 * floats, for our own hands */
TINYI_FN int tinyi_lm_fires(const tllm_model *m);        /* sparse.c: few of its activations are not 0 */
TINYI_FN void tinyi_lm_weights_up(tiny_ctx *ctx, const tllm_model *m, int up);
TINYI_FN int tinyi_lm_stays(const tiny_ctx *ctx, const tllm_state *s);
TINYI_FN tiny_status tinyi_lm_pages_home(const tllm_state *s);
TINYI_FN void tinyi_lm_host(tinyi_lm_fwd *f, const void *p, tiny_idx n);
/* the recurrent state of a run */
TINYI_INLINE float *tinyi_lm_of(const tinyi_lm_fwd *f, const tinyi_lm_span *r, float *x)
{
    return x ? x + r->seq * f->s->n_kept : NULL;
}

/* o (n, n_head, d_v) of n queries against keys that lie one after the other. allow: NULL or rows of ld_allow, 0 hides a
 * key. */
typedef struct tinyi_lm_attend {
    tinyi_lm_heads q;
    tiny_idx n;
    const int32_t *row;                     /* (n, 4): positions of the queries; NULL where they do not matter */
    const int32_t *key_pos;                 /* NULL: key j is at j */
    const float *k, *v;                     /* (n_key, n_kv, d): steps below */
    tiny_idx n_key, n_kv, d_k, d_v, ld_k, ld_v, head_k, head_v;
    float *o;                               /* (n, n_head, d_v) dense */
    float scale, softcap;
    int causal;                             /* by positions */
    tiny_idx window;
    int chunked;                            /* held ones only; of others the window goes to both sides */
    const float *sinks;                     /* n_head; held ones only */
    float alibi;                            /* largest bias; 0: none */
    const float *relative;                  /* (n_bucket, n_head) or NULL */
    tiny_idx n_bucket;
    int both_ways;                          /* buckets for keys after the query too */
    const float *allow;
    /* allow_kv: from the rows of one key head to those of the next; 0: all see the same */
    tiny_idx ld_allow, allow_kv;
} tinyi_lm_attend;
/* the same against the pages of a layer, each query within its sequence; of a, what tells of keys and values is not
 * read */
/* the plan for the rows of this piece; NULL: its sequences share too little */
TINYI_FN const tllm_tree_plan *tinyi_lm_tree(tinyi_lm_fwd *f);
TINYI_FN void tinyi_lm_attention_held(tinyi_lm_fwd *f, const tinyi_lm_attend *a, const tinyi_lm_layer *l);
/* pages of a layer, without memory: 0 where the heads are no whole blocks of the format. The layer must have keys of
 * its own. */
TINYI_FN int tinyi_lm_pools(const tllm_state *s, const tinyi_lm_layer *l, tinyi_lm_held *h);
/* rows of x, ld apart, to the cells of the piece */
TINYI_FN void tinyi_lm_hold(tinyi_lm_fwd *f, const tinyi_pool *p, const float *x, tiny_idx ld);
TINYI_FN void tinyi_lm_temper(tinyi_lm_fwd *f, tinyi_lm_heads x);   /* queries that grow with their position */
TINYI_FN void tinyi_lm_attention(tinyi_lm_fwd *f, const tinyi_lm_attend *a);

/* Causal convolution over time, a kernel of n_tap for each channel: y[t][c] = act(sum_j w[c][j] x[t - n_tap + 1 + j][c]
 * + b[c]). past holds the n_tap - 1 rows before the first, of sequence 0, and is moved on. */
TINYI_FN void tinyi_lm_conv(tinyi_lm_fwd *f, float *y, tiny_idx ld_y, const float *x, tiny_idx ld_x, const float *w,
                            const float *b, float *past, tiny_idx n_tap, tiny_idx n_channel, int silu);

/* parts of the pass (forward.c): the embedding; a mixer; a network; a result before it is added to the stream */
TINYI_FN void tinyi_lm_embed(tinyi_lm_fwd *f, float *x);
TINYI_FN void tinyi_lm_mix(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_feed(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_settle(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int half, float *y);
/* x (n, width before) through a layer, (f->n, width after) afterwards */
TINYI_FN void tinyi_lm_layer_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x);
#ifndef TINYI_NO_SLICED
/* sliced.c: widths of the layers from the file; the matrices of a layer, after its others; a layer */
TINYI_FN void tinyi_lm_sliced_widths(tinyi_lm_load *ld);
TINYI_FN void tinyi_lm_sliced_numbers(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_sliced_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_sliced_norm(const tllm_model *m, const tinyi_lm_w *w);
TINYI_FN void tinyi_lm_sliced_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x);
#else
#define tinyi_lm_sliced_widths(ld) ((void)0)
#define tinyi_lm_sliced_numbers(ld, l) ((void)0)
#define tinyi_lm_sliced_load(ld, l) ((void)0)
#define tinyi_lm_sliced_norm(m, w) ((void)0)
#define tinyi_lm_sliced_run(f, l, x) ((void)0)
#endif

#ifndef TINYI_NO_DISK
/* disk.c: before and after the matrices of half 0 (mixer), 1 (network) of a layer are read, 2: of the output; rows of
 * the embedding */
TINYI_FN void tinyi_lm_disk_enter(tinyi_lm_fwd *f, tiny_idx layer, int half);
TINYI_FN void tinyi_lm_disk_leave(tinyi_lm_fwd *f, tiny_idx layer, int half);
TINYI_FN void tinyi_lm_disk_rows(tinyi_lm_fwd *f, float *y, const int32_t *tokens, tiny_idx n);
/* n bytes of a tensor from the file; 0: they cannot be read */
TINYI_FN int tinyi_lm_disk_sample(const tllm_model *m, size_t tensor, size_t at, unsigned char *bytes, size_t n);
#else
#define tinyi_lm_disk_enter(f, layer, half) ((void)0)
#define tinyi_lm_disk_leave(f, layer, half) ((void)0)
#define tinyi_lm_disk_rows(f, y, tokens, n) ((void)0)
#define tinyi_lm_disk_sample(m, tensor, at, bytes, n) 0
#endif
#ifndef TINYI_NO_RING
/* ring.c: a piece begins; does this rank compute layer i? then x is there; after layer i x goes on; the end of the
 * layers; is the rest of the piece, the output, for another rank? */
TINYI_FN void tinyi_lm_ring_begin(tinyi_lm_fwd *f, tiny_idx rows, const int32_t *want);
TINYI_FN int tinyi_lm_ring_here(tinyi_lm_fwd *f, tiny_idx i, float *x);
TINYI_FN void tinyi_lm_ring_pass(tinyi_lm_fwd *f, tiny_idx i, float *x);
TINYI_FN int tinyi_lm_ring_ends(tinyi_lm_fwd *f, float *x);
TINYI_FN int tinyi_lm_ring_head(const tllm_model *m);   /* this rank embeds, and computes the output */
TINYI_FN void tinyi_lm_ring_abort(const tllm_model *m);
#else
#define tinyi_lm_ring_begin(f, rows, want) ((void)0)
#define tinyi_lm_ring_here(f, i, x) 1
#define tinyi_lm_ring_pass(f, i, x) ((void)0)
#define tinyi_lm_ring_ends(f, x) 0
#define tinyi_lm_ring_head(m) 1
#define tinyi_lm_ring_abort(m) ((void)0)
#endif

/* a kind of mixer: what it reads from the file, what it keeps, what it does */
typedef struct tinyi_lm_mixer {
    const char *name;
    void (*load)(tinyi_lm_load *ld, tinyi_lm_layer *l);
    /* floats of recurrent state; NULL: keys and values */
    size_t (*kept)(const tllm_model *m, const tinyi_lm_layer *l);
    void (*run)(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);    /* y, h (n, n_embd) */
} tinyi_lm_mixer;
TINYI_FN const tinyi_lm_mixer *tinyi_lm_mixer_of(int kind);

TINYI_FN void tinyi_lm_attn_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_attn_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_attn_cross(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_attn_cross_keys(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const float *encoded, tiny_idx n);
TINYI_FN void tinyi_lm_mla_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_mla_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_delta_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN size_t tinyi_lm_delta_kept(const tllm_model *m, const tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_delta_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_kda_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN size_t tinyi_lm_kda_kept(const tllm_model *m, const tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_kda_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_mamba_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN size_t tinyi_lm_mamba_kept(const tllm_model *m, const tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_mamba_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_mamba2_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN size_t tinyi_lm_mamba2_kept(const tllm_model *m, const tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_mamba2_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_plamo_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN size_t tinyi_lm_plamo_kept(const tllm_model *m, const tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_plamo_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_shortconv_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN size_t tinyi_lm_shortconv_kept(const tllm_model *m, const tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_shortconv_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_rwkv6_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_rwkv7_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN size_t tinyi_lm_rwkv_kept(const tllm_model *m, const tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_rwkv6_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_rwkv7_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
TINYI_FN void tinyi_lm_channel_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_channel_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);

/* y = w g after an activation that may leave most of g zero (sparse.c) */
TINYI_FN void tinyi_lm_down(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const tinyi_lm_w *w, float *y, float *g);
TINYI_FN int tinyi_lm_in_place(const tllm_format *t);      /* F32, F16, BF16 on a machine that has the bytes of files */
TINYI_FN void tinyi_lm_ffn_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
/* early: the input of the layer, for routers that read it */
TINYI_FN void tinyi_lm_ffn_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);
/* gemma4 with experts */
TINYI_FN void tinyi_lm_side_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *x);

/* per-layer inputs and the four streams of gemma3n (streams.c) */
TINYI_FN void tinyi_lm_ple_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_ple_inputs(tinyi_lm_fwd *f);
TINYI_FN void tinyi_lm_ple_add(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x);
/* deepseek4 (compressed.c) */
TINYI_FN void tinyi_lm_hyper_numbers(tinyi_lm_load *ld);
TINYI_FN void tinyi_lm_hyper_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_hyper_start(tinyi_lm_fwd *f, float *x);
TINYI_FN void tinyi_lm_hyper_layer(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x);
TINYI_FN void tinyi_lm_hyper_end(tinyi_lm_fwd *f, float *x);
/* floats of a cell in addition to its key; 0: none */
TINYI_FN tiny_idx tinyi_lm_comp_width(const tllm_model *m, const tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_comp_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_comp_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h);

/* streams that were put by (streams.c): what a half reads, what the output reads */
TINYI_FN void tinyi_lm_bank_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_bank_open(tinyi_lm_fwd *f);
TINYI_FN void tinyi_lm_bank_put(tinyi_lm_fwd *f, const float *x);
TINYI_FN void tinyi_lm_bank_mix(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *y, const float *x);
TINYI_FN void tinyi_lm_altup_load(tinyi_lm_load *ld, tinyi_lm_layer *l);
TINYI_FN void tinyi_lm_altup_start(tinyi_lm_fwd *f, float *x);      /* x (4, n, n_embd), stream 0 given */
TINYI_FN void tinyi_lm_altup_layer(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x);
TINYI_FN void tinyi_lm_altup_end(tinyi_lm_fwd *f, float *x);        /* leaves the mean in stream 0 */

TINYI_INLINE float tinyi_lm_dot(const float *a, const float *b, tiny_idx n)
{
    double s = 0.0;
    tiny_idx i;
    for (i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return (float)s;
}
/* ln(1 + e^x) */
TINYI_FN double tinyi_lm_softplus(double x);

#ifdef TINYI_NO_OPS
TINYI_FN const tiny_op_row *
tinyi_lm_row_of(int kind); /* of the operations of math that a model of this program calls (step.c) */
#endif

TINYI_C_END
#endif
