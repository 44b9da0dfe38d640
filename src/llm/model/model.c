/* src/llm/model/model.c - opening a model: its numbers, then its layers, each from the table and its tensors
 *
 * Everything that the forward pass reads is checked: every number against its limits, every tensor against the shape
 * that the numbers imply. Sizes are bounded by the file, because each is a dimension of some tensor in it. */
#include "llm/model/model_inside.h"
#include <stdio.h>
#include <string.h>

#define TINYI_LM_MAGIC 0x6c646f6du
#define TINYI_LM_MAX_LAYERS 4096
#define TINYI_LM_MAX_EXPERTS 4096
#define TINYI_LM_MAX_USED 256               /* experts of one token */
#define TINYI_LM_MOST_CONTEXT INT32_MAX

#define TINYI_LM_KINDS(M) \
    M(NO_MIX, "none", NULL, NULL, NULL) \
    M(ATTN, "attention", tinyi_lm_attn_load, NULL, tinyi_lm_attn_run) \
    M(MLA, "latent attention", tinyi_lm_mla_load, NULL, tinyi_lm_mla_run) \
    M(DELTA, "gated delta net", tinyi_lm_delta_load, tinyi_lm_delta_kept, tinyi_lm_delta_run) \
    M(KDA, "Kimi delta attention", tinyi_lm_kda_load, tinyi_lm_kda_kept, tinyi_lm_kda_run) \
    M(MAMBA, "state space 1", tinyi_lm_mamba_load, tinyi_lm_mamba_kept, tinyi_lm_mamba_run) \
    M(MAMBA2, "state space 2", tinyi_lm_mamba2_load, tinyi_lm_mamba2_kept, tinyi_lm_mamba2_run) \
    M(PLAMO, "state space of PLaMo", tinyi_lm_plamo_load, tinyi_lm_plamo_kept, tinyi_lm_plamo_run) \
    M(SHORTCONV, "short convolution", tinyi_lm_shortconv_load, tinyi_lm_shortconv_kept, tinyi_lm_shortconv_run) \
    M(RWKV6, "RWKV-6", tinyi_lm_rwkv6_load, tinyi_lm_rwkv_kept, tinyi_lm_rwkv6_run) \
    M(RWKV7, "RWKV-7", tinyi_lm_rwkv7_load, tinyi_lm_rwkv_kept, tinyi_lm_rwkv7_run) \
    M(COMPRESSED, "attention over compressed keys", tinyi_lm_comp_load, NULL, tinyi_lm_comp_run)
#define TINYI_LM_KIND(kind, name, load, kept, run) \
    static const tinyi_lm_mixer tinyi_lm_mixer_##kind TINYI_UNUSED = { name, load, kept, run };
TINYI_LM_KINDS(TINYI_LM_KIND)
#undef TINYI_LM_KIND

TINYI_FN const tinyi_lm_mixer *tinyi_lm_mixer_of(int kind)
{
    switch (kind) {
#define TINYI_LM_KIND(kind, name, load, kept, run) \
    case TINYI_LM_##kind: return TINYI_LM_MIXES(TINYI_LM_##kind) ? &tinyi_lm_mixer_##kind : &tinyi_lm_mixer_NO_MIX;
        TINYI_LM_KINDS(TINYI_LM_KIND)
#undef TINYI_LM_KIND
    default: return &tinyi_lm_mixer_NO_MIX;
    }
}

TINY_API const char *tllm_arch_name(size_t i)
{
    const tinyi_lm_arch *a = tinyi_lm_arch_at(i);
    return a ? a->name : NULL;
}

/* ---- numbers of the whole model --------------------------------------------------------------------------------- */

static void tinyi_lm_positive(tinyi_lm_load *ld, const char *key, tiny_idx v)
{
    if (!ld->st && v <= 0)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s is %td, it must be at least 1", ld->m->path,
                            TINYI_LM_ARCH(ld->m)->name, key, v);
}

/* a number that not every architecture has: what is missing, where this one has none */
static float tinyi_lm_own_real(tinyi_lm_load *ld, unsigned has, const char *key, float missing)
{
    return TINYI_LM_ARCH(ld->m)->keys & has ? tinyi_lm_real(ld, key, missing) : missing;
}

static void tinyi_lm_numbers(tinyi_lm_load *ld)
{
    tllm_model *m = ld->m;
    const tinyi_lm_arch *a = TINYI_LM_ARCH(m);
    const tllm_meta *meta;
    m->n_embd = tinyi_lm_count(ld, "embedding_length", -1, -1, 1, TINYI_LM_MOST);
    m->d_first = m->d_last = m->n_embd;
    m->n_layer = tinyi_lm_count(ld, "block_count", -1, -1, 1, TINYI_LM_MAX_LAYERS);
    m->n_context = tinyi_lm_count(ld, "context_length", -1, 2048, 1, TINYI_LM_MOST_CONTEXT);
    if (a->top & TINYI_LM_T_T5) {
        m->n_enc = m->n_layer;
        m->n_layer = a->top & TINYI_LM_T_HIDDEN
                         ? 0
                         : tinyi_lm_count(ld, "decoder_block_count", -1, m->n_enc, 1, TINYI_LM_MAX_LAYERS);
        m->n_bucket = tinyi_lm_count(ld, "attention.relative_buckets_count", -1, -1, 4, 65536);
        m->first_token = (int)tinyi_lm_count(ld, "decoder_start_token_id", -1, 0, 0, TINYI_LM_MOST);
    } else m->first_token = -1;
    /* blocks that only draft */
    m->n_layer -= tinyi_lm_count(ld, "nextn_predict_layers", -1, 0, 0, m->n_layer > 1 ? m->n_layer - 1 : 0);
    if (a->block == TINYI_LM_HYPER && !ld->st) {     /* some files count them and have none */
        tinyi_lm_layer draft;
        const tiny_idx all = tinyi_lm_count(ld, "block_count", -1, -1, 1, TINYI_LM_MAX_LAYERS);
        memset(&draft, 0, sizeof draft);
        draft.i = m->n_layer;
        if (m->n_layer < all && !tinyi_lm_find(ld, &draft, TINYI_T_NEXTN, NULL)) m->n_layer = all;
    }
    m->n_once = m->n_layer;
    if (a->keys & TINYI_LM_K_LOOPS) {
        const tiny_idx loops = tinyi_lm_count(ld, "num_loops", -1, 1, 1, TINYI_LM_MAX_LAYERS);
        m->loop_norm = loops > 1 && !tinyi_lm_bool(ld, "skip_loop_final_norm", -1, 0);
        m->n_layer *= loops;
        if (!ld->st && m->n_layer > TINYI_LM_MAX_LAYERS)
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %td layers, each run %td times, are more than %d", m->path,
                                m->n_once, loops, TINYI_LM_MAX_LAYERS);
    }
    m->norm = a->norm;
    if (a->attn & TINYI_LM_A_EPS_SAYS)
        m->norm =
            tinyi_lm_real(ld, "attention.layer_norm_rms_epsilon", 0.0f) == 0.0f ? TINYI_LM_LAYERNORM : TINYI_LM_RMS;
    meta = tinyi_lm_meta(ld,
                         m->norm == TINYI_LM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon");
    m->eps = tinyi_lm_real(
        ld, m->norm == TINYI_LM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 1e-5f);
    if (!ld->st && !meta)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.attention.layer_norm_%sepsilon is missing", m->path,
                            a->name, m->norm == TINYI_LM_RMS ? "rms_" : "");
    if (!ld->st && !(m->eps >= 0.0f && m->eps <= 1.0f))
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: the norms of %s add %g to a variance: not in 0..1", m->path,
                            a->name, (double)m->eps);
    m->embd_scale = a->top & TINYI_LM_T_SQRT      ? tinyi_sqrtf((float)m->n_embd)
                    : a->top & TINYI_LM_T_MINICPM ? 12.0f
                                                  : 1.0f;
    m->embd_scale = tinyi_lm_own_real(ld, TINYI_LM_K_SCALES, "embedding_scale", m->embd_scale);
    if (m->embd_scale == 0.0f) m->embd_scale = 1.0f;
    m->residual_scale =
        a->top & TINYI_LM_T_MINICPM && m->n_layer > 0 ? (float)(1.4 / tinyi_sqrt64((double)m->n_layer)) : 1.0f;
    m->residual_scale = tinyi_lm_own_real(ld, TINYI_LM_K_SCALES, "residual_scale", m->residual_scale);
    if (m->residual_scale == 0.0f) m->residual_scale = 1.0f;
    m->logit_scale = 0.0f;
    /* as other engines take files without the key: the first kind by the inverse of what was meant */
    if (a->top & TINYI_LM_T_MINICPM)
        m->logit_scale = a->mixer == TINYI_LM_MLA ? (float)m->n_embd / 256.0f : 256.0f / (float)m->n_embd;
    m->logit_scale = tinyi_lm_own_real(ld, TINYI_LM_K_LOGIT_SCALE, "logit_scale", m->logit_scale);
    if (m->logit_scale == 0.0f) m->logit_scale = 1.0f;
    if (a->top & TINYI_LM_T_LOGIT_DIVIDE) m->logit_scale = 1.0f / m->logit_scale;
    m->logit_cap = tinyi_lm_own_real(ld, TINYI_LM_K_LOGIT_CAP, "final_logit_softcapping",
                                     a->top & TINYI_LM_T_CAP_30 ? 30.0f : 0.0f);
    m->attn_cap = tinyi_lm_own_real(ld, TINYI_LM_K_ATTN_CAP, "attn_logit_softcapping",
                                    a->attn & TINYI_LM_A_CAP_50 ? 50.0f : 0.0f);
    m->alibi = a->attn & TINYI_LM_A_ALIBI
                   ? tinyi_lm_real(ld, "attention.max_alibi_bias", a->attn & TINYI_LM_A_ALIBI_KEY ? 0.0f : 8.0f)
                   : 0.0f;
    m->clamp_kqv = tinyi_lm_own_real(ld, TINYI_LM_K_CLAMP, "attention.clamp_kqv", 0.0f);
    m->value_scale = tinyi_lm_own_real(ld, TINYI_LM_K_VALUE_SCALE, "attention.value_scale", 1.0f);
    if (m->value_scale == 0.0f) m->value_scale = 1.0f;
    m->n_expert = tinyi_lm_count(ld, "expert_count", -1, 0, 0, TINYI_LM_MAX_EXPERTS);
    m->n_used = tinyi_lm_count(ld, "expert_used_count", -1, 0, 0, TINYI_MIN(m->n_expert, TINYI_LM_MAX_USED));
    m->n_group = tinyi_lm_count(ld, "expert_group_count", -1, 0, 0, m->n_expert);
    m->n_group_used = tinyi_lm_count(ld, "expert_group_used_count", -1, 0, 0, m->n_group);
    if (!ld->st && m->n_group > 1 &&
        (m->n_expert % m->n_group || m->n_group_used < 1 || m->n_expert / m->n_group * m->n_group_used < m->n_used))
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                            "%s: %td experts in %td groups, %td of them kept, cannot give %td per token", m->path,
                            m->n_expert, m->n_group, m->n_group_used, m->n_used);
    m->gating = a->ffn & TINYI_LM_F_OF_CHOSEN ? 3 : a->ffn & TINYI_LM_F_SIGMOID ? 2 : 1;
    if (a->keys & TINYI_LM_K_GATING)
        m->gating = (int)tinyi_lm_count(ld, "expert_gating_func", -1, m->gating, 0, a->block == TINYI_LM_HYPER ? 4 : 3);
    if (m->gating == 0) m->gating = a->ffn & TINYI_LM_F_SIGMOID ? 2 : 1;
    m->renorm = (a->ffn & TINYI_LM_F_RENORM) != 0;
    if (!m->renorm && a->keys & TINYI_LM_K_NORM) m->renorm = tinyi_lm_bool(ld, "expert_weights_norm", -1, 0);
    m->expert_scale = tinyi_lm_own_real(ld, TINYI_LM_K_WEIGHT, "expert_weights_scale", 1.0f);
    if (m->expert_scale == 0.0f) m->expert_scale = 1.0f;
    if (a->keys & TINYI_LM_K_GROWTH)
        m->temp_length = tinyi_lm_count(ld, "attention.temperature_length", -1, 0, 0, TINYI_LM_MOST_CONTEXT);
    m->temp_scale = tinyi_lm_own_real(ld, TINYI_LM_K_GROWTH, "attention.temperature_scale", 0.0f);
    if (m->temp_scale != 0.0f && !m->temp_length)
        m->temp_length =
            tinyi_lm_count(ld, "rope.scaling.original_context_length", -1, m->n_context, 1, TINYI_LM_MOST_CONTEXT);
    if (a->attn & TINYI_LM_A_CHUNKED) {
        m->temp_length = m->temp_length ? m->temp_length : 8192;
        m->temp_scale = m->temp_scale != 0.0f ? m->temp_scale : 0.1f;
        m->temp_offset = 1.0f;
    }
    m->ssm_conv = tinyi_lm_count(ld, "ssm.conv_kernel", -1, 0, 0, 4096);
    m->ssm_inner = tinyi_lm_count(ld, "ssm.inner_size", -1, 0, 0, TINYI_LM_MOST);
    m->ssm_state = tinyi_lm_count(ld, "ssm.state_size", -1, 0, 0, TINYI_LM_MOST);
    m->ssm_rank = tinyi_lm_count(ld, "ssm.time_step_rank", -1, 0, 0, TINYI_LM_MOST);
    m->ssm_group = tinyi_lm_count(ld, "ssm.group_count", -1, 0, 0, TINYI_LM_MOST);
    m->head_size = tinyi_lm_count(ld, "wkv.head_size", -1, 0, 0, TINYI_LM_MOST);
    m->rescale = tinyi_lm_count(ld, "rescale_every_n_layers", -1, 0, 0, TINYI_LM_MOST);
    if (a->other == TINYI_LM_SHORTCONV) m->ssm_conv = tinyi_lm_count(ld, "shortconv.l_cache", -1, -1, 2, 4096);
    if (a->other == TINYI_LM_KDA) m->head_size = tinyi_lm_count(ld, "kda.head_dim", -1, -1, 1, TINYI_LM_MOST);
    if (a->keys & TINYI_LM_K_DECAY) {
        m->decay = tinyi_lm_real(ld, "kda.gate_lower_bound", 0.0f);
        if (!ld->st && !(m->decay < 0.0f) &&
            (a->keys & TINYI_LM_K_DECAY_PLUS || tinyi_lm_meta(ld, "kda.gate_lower_bound")))
            ld->st =
                tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.kda.gate_lower_bound is %g or missing, it must be below 0",
                           m->path, a->name, (double)m->decay);
        if (!ld->st && a->keys & TINYI_LM_K_DECAY_PLUS && !tinyi_lm_bool(ld, "kda.safe_gate", -1, 1))
            ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                                "%s: %s.kda.safe_gate is false: decays without a bound are not supported for %s",
                                m->path, a->name, a->name);
    }
    if (a->block == TINYI_LM_HYPER) tinyi_lm_hyper_numbers(ld);
    if (a->keys & TINYI_LM_K_BANK) m->bank = tinyi_lm_count(ld, "attn_res.block_size", -1, -1, 0, TINYI_LM_MAX_LAYERS);
    if (a->keys & TINYI_LM_K_LATENT) m->n_latent = tinyi_lm_count(ld, "expert_latent_length", -1, 0, 0, TINYI_LM_MOST);
    if (a->act == TINYI_LM_SITU) {
        m->situ[0] = tinyi_lm_real(ld, "activation.situ_beta", 0.0f);
        m->situ[1] = tinyi_lm_real(ld, "activation.situ_linear_beta", 0.0f);
        if (!ld->st && !(m->situ[0] > 0.0f))
            ld->st =
                tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.activation.situ_beta is %g or missing, it must be above 0",
                           m->path, a->name, (double)m->situ[0]);
    }
    m->n_ple = tinyi_lm_count(ld, "embedding_length_per_layer_input", -1, a->block == TINYI_LM_ALTUP ? 256 : 0,
                              a->block == TINYI_LM_ALTUP, TINYI_LM_MOST);
    m->n_sparse = a->block == TINYI_LM_ALTUP ? 10 : 0;
    if (a->mixer == TINYI_LM_MLA) {
        const tiny_idx key = tinyi_lm_count(ld, "attention.key_length", -1, -1, 1, TINYI_LM_MOST),
                       val = tinyi_lm_count(ld, "attention.value_length", -1,
                                            tinyi_lm_meta(ld, "attention.value_length_mla") ? 1 : -1, 1, TINYI_LM_MOST);
        tiny_idx d;
        m->d_rope = tinyi_lm_count(ld, "rope.dimension_count", -1, -1, 1, TINYI_LM_MOST);
        m->r_q = tinyi_lm_count(ld, "attention.q_lora_rank", -1, 0, 0, TINYI_LM_MOST);
        m->r_kv = tinyi_lm_count(ld, "attention.kv_lora_rank", -1, -1, 1, TINYI_LM_MOST);
        d = tinyi_lm_count(ld, "attention.key_length_mla", -1, key, 1, TINYI_LM_MOST);
        m->d_vm = tinyi_lm_count(ld, "attention.value_length_mla", -1, val, 1, TINYI_LM_MOST);
        m->d_nope = d - m->d_rope;
        if (!ld->st && m->d_nope < 1)
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                                "%s: %td numbers of a key, %td of them rotated, leave none for the rest", m->path, d,
                                m->d_rope);
        if (a->attn & TINYI_LM_A_INDEXER) {
            m->index_heads = tinyi_lm_count(ld, "attention.indexer.head_count", -1, -1, 1, 65536);
            m->index_d = tinyi_lm_count(ld, "attention.indexer.key_length", -1, -1, 1, TINYI_LM_MOST);
            m->index_top = tinyi_lm_count(ld, "attention.indexer.top_k", -1, -1, 1, TINYI_LM_MOST);
            if (!ld->st && m->index_d < m->d_rope)
                ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                                    "%s: keys of the indexer have %td numbers, fewer than the %td that are rotated",
                                    m->path, m->index_d, m->d_rope);
        }
    }
    if (a->mixer == TINYI_LM_ATTN && a->attn & TINYI_LM_A_INDEXER) {
        m->index_heads = tinyi_lm_count(ld, "attention.indexer.head_count", -1, -1, 1, 65536);
        m->index_d = tinyi_lm_count(ld, "attention.indexer.key_length", -1, -1, 1, TINYI_LM_MOST);
        m->index_top = tinyi_lm_count(ld, "attention.indexer.top_k", -1, -1, 1, TINYI_LM_MOST);
        m->index_block = tinyi_lm_count(ld, "attention.indexer.block_size", -1, -1, 1, TINYI_LM_MOST);
        m->index_local = tinyi_lm_count(ld, "attention.indexer.local_blocks", -1, 0, 0, m->index_top);
    }
    m->block = a->block;
    m->encoder = (a->attn & TINYI_LM_A_ENCODER) != 0;
    /* a decoder that was made an encoder */
    if (!m->encoder && !(a->top & TINYI_LM_T_T5) && !tinyi_lm_bool(ld, "attention.causal", -1, 1)) {
        m->encoder = 1;
        if (!ld->st && (a->mixer != TINYI_LM_ATTN || a->other || a->attn & (TINYI_LM_A_CHUNKED | TINYI_LM_A_INDEXER)))
            ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                                "%s: %s.attention.causal is false, but not all layers of %s can look ahead", m->path,
                                a->name, a->name);
    }
    if (a->block == TINYI_LM_PARALLEL && !tinyi_lm_bool(ld, "use_parallel_residual", -1, 1)) m->block = TINYI_LM_PRE;
    m->pooling = (int)tinyi_lm_count(ld, "pooling_type", -1, 0, 0, 4);
}

/* four numbers for each layer, under keys without the name of the architecture */
static void tinyi_lm_xielu_load(tinyi_lm_load *ld)
{
    static const char *const key[4] = { "xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps" };
    tiny_idx i;
    int k;
    if (TINYI_LM_ARCH(ld->m)->act != TINYI_LM_XIELU) return;
    ld->m->xielu = (float *)tinyi_lm_keep(ld, (size_t)ld->m->n_layer * 4, sizeof(float));
    for (k = 0; k < 4 && !ld->st; k++) {
        const tllm_meta *m = tllm_gguf_find(ld->g, key[k]);
        for (i = 0; i < ld->m->n_layer && !ld->st; i++) {
            double v;
            if (!tllm_meta_f64(m, m && m->type == TLLM_ARRAY ? (size_t)i : 0, &v))
                ld->st =
                    tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s has no number for layer %td", ld->m->path, key[k], i);
            else ld->m->xielu[4 * i + k] = (float)v;
        }
    }
}

/* ---- which layers have windows ----------------------------------------------------------------------------------- */

/* what a list of truth values or of whole numbers says of layer i */
static int tinyi_lm_list_says(tinyi_lm_load *ld, const char *key, const tllm_meta *list, tiny_idx i)
{
    int v = 0;
    int64_t n = 0;
    if (list->type == TLLM_ARRAY && tllm_meta_bool(list, (size_t)i, &v)) return v;
    if (list->type == TLLM_ARRAY && tllm_meta_i64(list, (size_t)i, &n)) return n != 0;
    if (!ld->st && list->type != TLLM_ARRAY)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s is not a list with a value for each layer", ld->m->path,
                            TINYI_LM_ARCH(ld->m)->name, key);
    if (!ld->st)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.%s has %zu items, none for layer %td", ld->m->path,
                            TINYI_LM_ARCH(ld->m)->name, key, list->count, i);
    return 0;
}

/* has layer i a window (or is it one that a window would be in)? */
static int tinyi_lm_is_local(tinyi_lm_load *ld, tiny_idx i)
{
    const tinyi_lm_arch *a = TINYI_LM_ARCH(ld->m);
    const tllm_meta *list = tinyi_lm_meta(ld, "attention.sliding_window_pattern");
    tiny_idx period = a->period;
    if (!period) return 0;
    if (a->attn & TINYI_LM_A_OWN_PATTERN) list = NULL;
    if (a->keys & TINYI_LM_K_WINDOW_LIST && !list) {
        if (!ld->st)
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.attention.sliding_window_pattern is missing",
                                ld->m->path, a->name);
        return 0;
    }
    if (a->attn & TINYI_LM_A_64_LAYERS && ld->m->n_layer != 64) return 0;
    if (a->attn & TINYI_LM_A_WINDOW_KEY &&
        tinyi_lm_count(ld, "attention.sliding_window", -1, 0, 0, TINYI_LM_MOST_CONTEXT) == 0)
        return 0;
    if (list && (list->type == TLLM_ARRAY || a->keys & TINYI_LM_K_WINDOW_LIST))
        return tinyi_lm_list_says(ld, "attention.sliding_window_pattern", list, i);
    if (list) {
        period = tinyi_lm_count(ld, "attention.sliding_window_pattern", -1, -1, 0, 65536);
        if (a->period < 0) period = -period;
    }
    if (period == 0) return 1;              /* as other engines take it: every layer */
    return period > 0 ? i % period < period - 1 : i % -period != 0;
}

/* ---- rotation --------------------------------------------------------------------------------------------------- */

TINY_REF_BEGIN
static void tinyi_lm_rope_make(tinyi_lm_load *ld, tinyi_lm_rope *r, tiny_idx n_rot, double base, double factor,
                               int yarn, const float *short_f, const float *long_f)
{
    tllm_model *m = ld->m;
    const tiny_idx half = n_rot / 2;
    double low = 0.0, high = 0.0, beta_fast, beta_slow;
    size_t bytes = 0, k;
    tiny_idx i;
    for (k = 0; k < tllm_gguf_n_parts(m->file); k++) bytes += tllm_gguf_bytes(m->file, k);
    /* before the tables: such heads have wider matrices than the file has bytes */
    if (!ld->st && (size_t)half > (bytes + 1000000) / 64)
        ld->st =
            tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: heads that rotate %td numbers cannot be in a file of %zu bytes",
                       m->path, n_rot, bytes);
    r->n_rot = n_rot;
    r->size = tinyi_lm_real(ld, "rope.scaling.attn_factor", 1.0f);
    if (r->size == 0.0f) r->size = 1.0f;
    r->freq = (double *)tinyi_lm_keep(ld, (size_t)half, sizeof(double));
    if (long_f) r->freq_long = (double *)tinyi_lm_keep(ld, (size_t)half, sizeof(double));
    beta_fast = 32.0;
    beta_slow = 1.0;
    if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_YARN_BETAS) {
        beta_fast = (double)tinyi_lm_real(ld, "rope.scaling.yarn_beta_fast", 32.0f);
        beta_slow = (double)tinyi_lm_real(ld, "rope.scaling.yarn_beta_slow", 1.0f);
    }
    if (ld->st) return;
    if (yarn && !(beta_fast > 0.0 && beta_slow > 0.0 && base > 1.0)) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                            "%s: YaRN needs a rope base above 1 and betas above 0, not %g, %g and %g", m->path, base,
                            beta_fast, beta_slow);
        return;
    }
    if (yarn) {
        tinyi_yarn_range(beta_fast, beta_slow, n_rot, (double)m->rope_original, base, &low, &high);
        if (!(TINYI_LM_ARCH(m)->attn & (TINYI_LM_A_YARN_MSCALE | TINYI_LM_A_YARN_PLAIN)) ||
            (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_YARN_GROWS &&
             tinyi_lm_real(ld, "rope.scaling.yarn_log_multiplier", 0.0f) == 0.0f))
            r->size = (float)((double)r->size * (1.0 + 0.1 * tinyi_log64(factor)));
    }
    for (i = 0; i < half; i++) {
        double f = tinyi_exp64(-2.0 * (double)i / (double)n_rot * tinyi_log64(base)), g = f;
        if (short_f) f /= (double)short_f[i];
        if (yarn) {
            double t = ((double)i - low) / (high - low > 0.001 ? high - low : 0.001);
            t = 1.0 - (t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t);
            f = f / factor * (1.0 - t) + f * t;
        } else f /= factor;
        r->freq[i] = f;
        if (long_f) r->freq_long[i] = g / (double)long_f[i] / factor;
    }
    /* cos and sin then also carry the size of YaRN, without what the scores carry by themselves */
    if (yarn &&
        (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_YARN_PLAIN ||
         (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_YARN_MSCALE && !(TINYI_LM_ARCH(m)->attn & TINYI_LM_A_YARN_GROWS)))) {
        const int plain = (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_YARN_PLAIN) != 0;
        const double mul =
            (plain ? 1.0 : 10.0) * (double)tinyi_lm_real(ld, "rope.scaling.yarn_log_multiplier", plain ? 0.0f : 0.1f);
        r->size =
            (float)((double)r->size * (1.0 + 0.1 * tinyi_log64(factor)) / (1.0 + 0.1 * mul * tinyi_log64(factor)));
    }
}

static const float *tinyi_lm_rope_factors(tinyi_lm_load *ld, int t, tiny_idx half)
{
    const tinyi_lm_w *w = tinyi_lm_may_vec(ld, &ld->m->top, t, half);
    tiny_idx i;
    if (!w || ld->st) return NULL;
    for (i = 0; i < half; i++)
        if (!(w->v[i] > 0.0f)) {
            ld->st =
                tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor %.*s: value %td is %g, but a divisor must be above 0",
                           ld->m->path, (int)TINYI_MIN(w->t->name.n, 80), w->t->name.at, i, (double)w->v[i]);
            return NULL;
        }
    return w->v;
}

/* In latent attention only a part of a key is rotated, so the YaRN factor goes into the scores. In deepseek2 the scores
 * also grow by YaRN's own factor if the file names no multiplier for it, and for a rotation that is only stretched, as
 * in llama.cpp. */
static float tinyi_lm_yarn_scores(tinyi_lm_load *ld, double factor, int yarn)
{
    const double mul = 10.0 * (double)tinyi_lm_real(ld, "rope.scaling.yarn_log_multiplier", 0.0f);
    const double plain = !(TINYI_LM_ARCH(ld->m)->attn & TINYI_LM_A_YARN_GROWS) || (yarn && mul != 0.0)
                             ? 1.0
                             : 1.0 + 0.1 * tinyi_log64(factor);
    const double size = plain * (1.0 + 0.1 * mul * tinyi_log64(factor));
    return (float)(size * size);
}

/* an index of pairs that turns as a decimal fraction: (d_k)^-1/2 */
static float tinyi_lm_inverse_root(tiny_idx d) { return (float)(1.0 / tinyi_sqrt64((double)d)); }
TINY_REF_END

/* The rotations of a model: everywhere, and in layers with a window. d_k, d_k_local: sizes of a head. Returns what
 * scores are multiplied with. */
static float tinyi_lm_ropes(tinyi_lm_load *ld, tiny_idx d_k, tiny_idx d_k_local)
{
    tllm_model *m = ld->m;
    const uint64_t how = TINYI_LM_ARCH(m)->attn;
    const tllm_meta *type = tinyi_lm_meta(ld, "rope.scaling.type");
    const float *freqs, *longs, *shorts;
    double base, base_local, factor;
    tiny_idx n_rot, n_local, half;
    tllm_text text = { "linear", 6 };
    int yarn, scaled;
    if (ld->st || TINYI_LM_ARCH(m)->rope == TINYI_LM_NO_ROPE) return 1.0f;
    if (type && !tllm_meta_text(type, 0, &text)) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.rope.scaling.type is not a text", m->path,
                            TINYI_LM_ARCH(m)->name);
        return 1.0f;
    }
    n_rot = tinyi_lm_count(ld, "rope.dimension_count", -1, d_k, 0, d_k);
    n_local = tinyi_lm_count(ld, "rope.dimension_count_swa", -1, TINYI_MIN(d_k_local, n_rot), 0, d_k_local);
    if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_ONE_WIDTH) {    /* as llama.cpp takes it */
        if (tinyi_lm_is_local(ld, 0)) n_rot = n_local;
        else n_local = TINYI_MIN(n_rot, d_k_local);
    }
    half = n_rot / 2;
    if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_HALF_ROPE) {
        n_rot /= 2;
        half = TINYI_MAX(n_rot, n_local) / 2;
    }
    base = (double)tinyi_lm_real(ld, "rope.freq_base", 10000.0f);
    base_local = (double)tinyi_lm_own_real(ld, TINYI_LM_K_LOCAL_BASE, "rope.freq_base_swa",
                                           how & TINYI_LM_A_LOCAL_10000 ? 10000.0f : (float)base);
    factor = (double)tinyi_lm_real(ld, "rope.scaling.factor", tinyi_lm_real(ld, "rope.scale_linear", 1.0f));
    m->rope_original =
        tinyi_lm_count(ld, "rope.scaling.original_context_length", -1, m->n_context, 1, TINYI_LM_MOST_CONTEXT);
    if (factor == 0.0 || tllm_text_is(text, "none")) factor = 1.0;
    yarn = tllm_text_is(text, "yarn") && factor != 1.0;
    scaled = !(how & (TINYI_LM_A_LOCAL_10000 | TINYI_LM_A_LOCAL_UNSCALED));
    if (ld->st) return 1.0f;
    if (!(base > 0.0) || !(base_local > 0.0) || !(factor > 0.0)) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: rope bases %g and %g and factor %g must be above 0", m->path,
                            base, base_local, factor);
        return 1.0f;
    }
    if (n_rot % 2 || n_local % 2) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.rope.dimension_count is %td: pairs need an even number",
                            m->path, TINYI_LM_ARCH(m)->name, n_rot % 2 ? n_rot : n_local);
        return 1.0f;
    }
    freqs = n_rot ? tinyi_lm_rope_factors(ld, TINYI_T_ROPE_FREQS, half) : NULL;
    longs = n_rot ? tinyi_lm_rope_factors(ld, TINYI_T_ROPE_LONG, half) : NULL;
    shorts = n_rot ? tinyi_lm_rope_factors(ld, TINYI_T_ROPE_SHORT, half) : NULL;
    tinyi_lm_rope_make(ld, &m->rope[0], n_rot, base, factor, yarn, freqs ? freqs : shorts, freqs ? NULL : longs);
    tinyi_lm_rope_make(
        ld, &m->rope[1], n_local, base_local, scaled ? factor : 1.0, scaled && yarn,
        n_local == n_rot && base == base_local && !(TINYI_LM_ARCH(m)->attn & TINYI_LM_A_HALF_ROPE) ? freqs : NULL,
        NULL);
    if (!scaled) m->rope[1].size = 1.0f;
    /* layers with blocks have a base and a stretching of their own; nothing grows by YaRN */
    if (TINYI_LM_ARCH(m)->mixer == TINYI_LM_COMPRESSED) {
        const double wide = (double)tinyi_lm_real(ld, "attention.compress_rope_freq_base", 0.0f);
        if (!ld->st && !(wide > 0.0))
            ld->st =
                tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.attention.compress_rope_freq_base is missing or not above 0",
                           m->path, TINYI_LM_ARCH(m)->name);
        tinyi_lm_rope_make(ld, &m->rope[0], n_rot, base, 1.0, 0, NULL, NULL);
        tinyi_lm_rope_make(ld, &m->rope[1], n_rot, wide, factor, yarn, NULL, NULL);
        m->rope[0].size = m->rope[1].size = 1.0f;
        m->n_rope = 2;
        return 1.0f;
    }
    m->n_rope = TINYI_LM_ARCH(m)->period || d_k_local != d_k ? 2 : 1;
    return how & TINYI_LM_A_YARN_MSCALE && (yarn || (factor != 1.0 && TINYI_LM_ARCH(m)->attn & TINYI_LM_A_YARN_GROWS))
               ? tinyi_lm_yarn_scores(ld, factor, yarn)
               : 1.0f;
}

/* ---- layers ----------------------------------------------------------------------------------------------------- */

static void tinyi_lm_layer_numbers(tinyi_lm_load *ld, tinyi_lm_layer *l, tinyi_lm_layer *all, float score,
                                   tiny_idx n_own)
{
    tllm_model *m = ld->m;
    const tinyi_lm_arch *a = TINYI_LM_ARCH(m);
    const int t5 = (a->top & TINYI_LM_T_T5) != 0;
    tiny_idx i = l->i, j, width, window;
    int recurrent = a->mixer != TINYI_LM_ATTN && a->mixer != TINYI_LM_MLA && a->mixer != TINYI_LM_COMPRESSED;
    l->mix = a->mixer;
    l->kv_from = i;
    l->rope = -1;
    if (recurrent) return;
    l->n_head = tinyi_lm_count(ld, "attention.head_count", i, -1, 0, 65536);
    l->n_kv = tinyi_lm_count(ld, "attention.head_count_kv", i, l->n_head, 0, 65536);
    if (ld->st) return;
    if (a->where == TINYI_LM_WHERE_NO_KV && l->n_kv == 0) l->mix = a->other;
    if (a->where == TINYI_LM_BOTH) l->mix2 = a->other;
    if (a->where == TINYI_LM_INTERVAL) {
        const tllm_meta *list = tinyi_lm_meta(ld, "attention.recurrent_layers");
        if (list) { if (tinyi_lm_bool(ld, "attention.recurrent_layers", i, 0)) l->mix = a->other; }
        else if ((i + 1) % tinyi_lm_count(ld, "full_attention_interval", -1, 4, 1, 65536)) l->mix = a->other;
    }
    if (a->block == TINYI_LM_SINGLE) {      /* one of three */
        const tiny_idx ff = tinyi_lm_count(ld, "feed_forward_length", i, 0, 0, TINYI_LM_MOST);
        if (l->n_kv == 0 && ff > 0) { l->mix = TINYI_LM_NO_MIX; l->ffn = 1; }
    }
    if (l->mix != TINYI_LM_ATTN && l->mix != TINYI_LM_MLA && l->mix != TINYI_LM_COMPRESSED) return;
    tinyi_lm_positive(ld, "attention.head_count", l->n_head);
    tinyi_lm_positive(ld, "attention.head_count_kv", l->n_kv);
    if (ld->st) return;
    l->local = tinyi_lm_is_local(ld, i);
    l->d_k = tinyi_lm_count(ld, "attention.key_length", i, m->n_embd / l->n_head, 1, TINYI_LM_MOST);
    l->d_v = tinyi_lm_count(ld, "attention.value_length", i, l->d_k, 1, TINYI_LM_MOST);
    if (!tinyi_lm_meta(ld, "attention.key_length") && !ld->st && m->n_embd % l->n_head)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                            "%s: %s.embedding_length %td is not a multiple of the %td heads of layer %td", m->path,
                            a->name, m->n_embd, l->n_head, i);
    if (l->local) {
        const tiny_idx own = a->attn & TINYI_LM_A_WINDOW_4096 ? 4096 : a->attn & TINYI_LM_A_WINDOW_128 ? 128 : 0;
        const int must = (a->keys & TINYI_LM_K_WINDOW_LIST) != 0;
        l->d_k = tinyi_lm_count(ld, "attention.key_length_swa", -1, l->d_k, 1, TINYI_LM_MOST);
        l->d_v = tinyi_lm_count(ld, "attention.value_length_swa", -1, l->d_v, 1, TINYI_LM_MOST);
        window = tinyi_lm_count(ld, "attention.sliding_window", -1, must ? -1 : own, must, TINYI_LM_MOST_CONTEXT);
        if (a->attn & TINYI_LM_A_CHUNKED)
            window = tinyi_lm_count(ld, "attention.chunk_size", -1, 8192, 1, TINYI_LM_MOST_CONTEXT);
        if (a->attn & TINYI_LM_A_WINDOW_FIXED) window = own;
        l->window = window;
    }
    if (l->mix == TINYI_LM_MLA) {
        l->d_k = m->d_nope + m->d_rope;
        l->d_v = m->d_vm;
    }
    if (ld->st) return;
    if (a->rope != TINYI_LM_NO_ROPE && m->rope[0].n_rot > 0) l->rope = l->local && m->n_rope > 1 ? 1 : 0;
    if (l->mix == TINYI_LM_COMPRESSED) {
        l->window = tinyi_lm_count(ld, "attention.sliding_window", -1, -1, 1, TINYI_LM_MOST_CONTEXT);
        l->ratio = tinyi_lm_count(ld, "attention.compress_ratios", i, -1, 0, 128);
        if (!ld->st && l->ratio != 0 && l->ratio != 4 && l->ratio != 128)
            ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                                "%s: layer %td compresses %td tokens to one key: only 4, 128 and none are supported",
                                m->path, i, l->ratio);
        if (!ld->st && m->rope[0].n_rot < 2)
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.rope.dimension_count is %td, it must be at least 2",
                                m->path, a->name, m->rope[0].n_rot);
        l->rope = l->ratio ? 1 : 0;
    }
    if (a->attn & TINYI_LM_A_NOPE_GLOBAL && !l->local) l->rope = -1;
    if (a->attn & TINYI_LM_A_NOPE_4TH && (i + 1) % 4 == 0) l->rope = -1;
    if (a->attn & TINYI_LM_A_64_LAYERS && m->n_layer != 64 && m->rope[0].n_rot > 0) l->rope = 0;
    if (a->attn & TINYI_LM_A_SHORT_ROPE && m->rope[0].n_rot > 0 &&
        (m->n_layer == 4 || tinyi_lm_count(ld, "attention.sliding_window", -1, 0, 0, TINYI_LM_MOST_CONTEXT) == 0))
        l->rope = 0;
    if (a->attn & TINYI_LM_A_DENSE_ROPE &&
        i < tinyi_lm_count(ld, "leading_dense_block_count", -1, 0, 0, TINYI_LM_MOST) && m->rope[0].n_rot > 0)
        l->rope = l->local;
    if (a->attn & TINYI_LM_A_ROPE_SWITCH && !tinyi_lm_bool(ld, "rope.scaling.finetuned", -1, 1)) l->rope = -1;
    if (a->keys & TINYI_LM_K_ROPE_LIST) {
        const tllm_meta *list = tinyi_lm_meta(ld, "attention.rope_pattern");
        if (list && !tinyi_lm_list_says(ld, "attention.rope_pattern", list, i)) l->rope = -1;
    }
    if (l->rope >= 0 && l->mix == TINYI_LM_ATTN && m->rope[l->rope].n_rot > l->d_k)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: layer %td rotates %td numbers of heads that have %td", m->path,
                            i, m->rope[l->rope].n_rot, l->d_k);
    width = l->d_k;
    if ((a->attn & TINYI_LM_A_46_LAYERS && m->n_layer == 46) || (a->attn & TINYI_LM_A_62_LAYERS && m->n_layer == 62))
        width = m->n_embd / l->n_head;
    l->scale =
        a->attn & TINYI_LM_A_SCALE_ONE ? 1.0f : tinyi_lm_own_real(ld, TINYI_LM_K_ATTN_SCALE, "attention.scale", 0.0f);
    if (l->scale == 0.0f) l->scale = tinyi_lm_inverse_root(width) * score;
    if (!t5 && i >= n_own) {                /* keys and values of the last layer of its kind that has some */
        for (j = n_own - 1; j >= 0 && all[j].local != l->local; j--) {}
        if (TINYI_LM_ENCODER(m) || l->mix != TINYI_LM_ATTN || j < 0 || all[j].mix != TINYI_LM_ATTN ||
            all[j].n_kv != l->n_kv || all[j].d_k != l->d_k || all[j].d_v != l->d_v) {
            if (!ld->st)
                ld->st = tinyi_fail(
                    ld->ctx, TINY_E_FORMAT,
                    "%s: layer %td has no keys of its own, and no earlier layer has the same kind of keys", m->path, i);
            return;
        }
        l->kv_from = j;
    }
}

static void tinyi_lm_layer_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    tllm_model *m = ld->m;
    const tinyi_lm_arch *a = TINYI_LM_ARCH(m);
    const uint64_t how = a->attn;
    const tiny_idx D = l->d_in, mid = m->block == TINYI_LM_PARALLEL ? l->d_in : l->d_mid;
    if (ld->st) return;
    if (a->block == TINYI_LM_POST) {
        l->post1 = tinyi_lm_vec(ld, l, TINYI_T_ATTN_OUT_NORM, D);
        l->post2 = tinyi_lm_vec(ld, l, TINYI_T_LAYER_OUT_NORM, D);
        tinyi_lm_may_vec(ld, l, TINYI_T_ATTN_NORM_2, D);
    } else {
        if (!(how & TINYI_LM_A_NO_NORM) && !(how & TINYI_LM_A_FIRST_NO_NORM && l->i == 0))
            l->norm1 = tinyi_lm_vec(ld, l, TINYI_T_ATTN_NORM, D);
        if (a->ffn & TINYI_LM_F_CHANNEL) l->norm2 = tinyi_lm_vec(ld, l, TINYI_T_ATTN_NORM_2, D);
        else if (how & TINYI_LM_A_NORM2_IS_POST) l->norm2 = tinyi_lm_vec(ld, l, TINYI_T_POST_ATTN_NORM, mid);
        else {
            l->post1 = tinyi_lm_may_vec(ld, l, TINYI_T_POST_ATTN_NORM, D);
            if (how & TINYI_LM_A_FALCON) tinyi_lm_may_vec(ld, l, TINYI_T_ATTN_NORM_2, D);
            else if (!(how & TINYI_LM_A_NO_FFN_NORM) && a->block != TINYI_LM_SINGLE && !(a->ffn & TINYI_LM_F_NONE)) {
                if (m->block == TINYI_LM_PARALLEL) l->norm2 = tinyi_lm_may_vec(ld, l, TINYI_T_FFN_NORM, mid);
                else
                    l->norm2 = how & TINYI_LM_A_MAY_FFN_NORM ? tinyi_lm_may_vec(ld, l, TINYI_T_FFN_NORM, mid)
                                                             : tinyi_lm_vec(ld, l, TINYI_T_FFN_NORM, mid);
            }
        }
        l->post2 = tinyi_lm_may_vec(ld, l, TINYI_T_POST_FFW_NORM, D);
    }
    if (how & TINYI_LM_A_NO_NORM && !l->post1 && !ld->st) l->post1 = tinyi_lm_vec(ld, l, TINYI_T_POST_ATTN_NORM, D);
    if (l->mix != TINYI_LM_NO_MIX && !ld->st) tinyi_lm_mixer_of(l->mix)->load(ld, l);
    if (l->mix2 != TINYI_LM_NO_MIX && !ld->st) tinyi_lm_mixer_of(l->mix2)->load(ld, l);
    if (a->ffn & TINYI_LM_F_CHANNEL) tinyi_lm_channel_load(ld, l);
    else if (!(a->ffn & TINYI_LM_F_NONE) && (a->block != TINYI_LM_SINGLE || l->ffn)) {
        l->ffn = 1;
        tinyi_lm_ffn_load(ld, l);
    }
    if (m->n_ple > 0) tinyi_lm_ple_load(ld, l);
    if (a->block == TINYI_LM_ALTUP) tinyi_lm_altup_load(ld, l);
    if (a->block == TINYI_LM_HYPER) tinyi_lm_hyper_load(ld, l);
    if (a->keys & TINYI_LM_K_BANK && m->bank > 0) tinyi_lm_bank_load(ld, l);
    tinyi_lm_may_vec(ld, l, TINYI_T_LAYER_SCALE, 1);
    if (TINYI_LM_SLICED(m)) tinyi_lm_sliced_load(ld, l);
    m->recurrent |= (l->mix != TINYI_LM_NO_MIX && tinyi_lm_mixer_of(l->mix)->kept) ||
                    (l->mix2 != TINYI_LM_NO_MIX && tinyi_lm_mixer_of(l->mix2)->kept);
}

static void tinyi_lm_stack(tinyi_lm_load *ld, tinyi_lm_layer **out, tiny_idx n, const char *part, int cross)
{
    tllm_model *m = ld->m;
    tinyi_lm_layer *all;
    tiny_idx i, d_k, d_local, n_own, heads, once;
    size_t least = 0, k;
    float score = 1.0f;
    if (ld->st || n <= 0) return;
    for (k = 0; k < tllm_gguf_n_parts(m->file); k++) least += tllm_gguf_bytes(m->file, k);
    if ((size_t)n > (least + 1000000) / sizeof **out) {     /* no layer is smaller than what we keep of it */
        ld->st =
            tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %td layers cannot be in a file of %zu bytes", m->path, n, least);
        return;
    }
    all = (tinyi_lm_layer *)tinyi_lm_keep(ld, (size_t)n, sizeof *all);
    if (!all) return;
    *out = all;
    ld->part = part;
    once = m->n_once < m->n_layer ? m->n_once : n;
    /* a layer without heads may come first */
    for (i = 0, heads = TINYI_LM_ARCH(m)->mixer != TINYI_LM_ATTN; i < once && !heads && !ld->st; i++)
        heads = tinyi_lm_count(ld, "attention.head_count", i, -1, 0, 65536);
    if (TINYI_LM_ARCH(m)->mixer == TINYI_LM_ATTN) tinyi_lm_positive(ld, "attention.head_count", heads);
    d_k = TINYI_LM_ARCH(m)->mixer == TINYI_LM_MLA
              ? m->d_rope
              : tinyi_lm_count(ld, "attention.key_length", 0, heads ? m->n_embd / heads : 1, 1, TINYI_LM_MOST);
    d_local = tinyi_lm_count(ld, "attention.key_length_swa", -1, d_k, 1, TINYI_LM_MOST);
    if (TINYI_LM_ARCH(m)->mixer == TINYI_LM_ATTN || TINYI_LM_ARCH(m)->mixer == TINYI_LM_MLA ||
        TINYI_LM_ARCH(m)->mixer == TINYI_LM_COMPRESSED) {
        ld->part = "";
        score = tinyi_lm_ropes(ld, d_k, d_local);
        ld->part = part;
    }
    n_own = n - tinyi_lm_count(ld, "attention.shared_kv_layers", -1, 0, 0, n - 1);
    if (once < n) n_own = n;
    for (i = 0; i < n && !ld->st; i++) {
        if (i >= once) {
            tinyi_lm_layer_again(all, i, once);
            continue;
        }
        all[i].i = i;
        all[i].cross = cross;
        all[i].d_in = all[i].d_mid = all[i].d_out = m->n_embd;
        if (TINYI_LM_SLICED(m)) tinyi_lm_sliced_numbers(ld, &all[i]);
        tinyi_lm_layer_numbers(ld, &all[i], all, score, n_own);
        tinyi_lm_layer_load(ld, &all[i]);
        if (!ld->st && tinyi_lm_bool(ld, "ladder", i, 0)) {
            if (!TINYI_HAS(RANKS) && !ld->st)
                ld->st =
                    tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED, "%s: ladder layers are not compiled into this program",
                               m->path);
            all[i].route[0] = all[i].route[1] = TLLM_ROUTE_LADDER;
            m->routes = 1;
            if (!ld->st && (TINYI_LM_N_ENC(m) || once < n || !tinyi_lm_can_ladder(m, &all[i])))
                ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                                    "%s: layer %td is a ladder layer, which %s layers with these tensors cannot be",
                                    m->path, i, TINYI_LM_ARCH(m)->name);
        }
    }
    ld->part = "";
}

static void tinyi_lm_top(tinyi_lm_load *ld)
{
    tllm_model *m = ld->m;
    const unsigned how = TINYI_LM_ARCH(m)->top;
    const tllm_gguf_tensor *t = tinyi_lm_find(ld, &m->top, TINYI_T_TOKEN_EMBD, NULL);
    const tllm_meta *tokens = tllm_gguf_find(ld->g, "tokenizer.ggml.tokens");
    const tiny_idx D = m->d_first, last = m->d_last;
    tiny_idx n;
    if (ld->st) return;
    if (!t || t->rank < 2 || t->dim[1] < 1 || t->dim[1] > INT32_MAX) {
        if (t)
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor token_embd.weight has rows for %llu tokens",
                                m->path, (unsigned long long)(t->rank < 2 ? 0 : t->dim[1]));
        else ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor token_embd.weight is missing", m->path);
        return;
    }
    m->n_vocab = (tiny_idx)t->dim[1];
    n = tinyi_lm_count(ld, "vocab_size", -1, m->n_vocab, 1, TINYI_LM_MOST);
    if (!ld->st && n != m->n_vocab)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.vocab_size is %td, but token_embd.weight has %td rows",
                            m->path, TINYI_LM_ARCH(m)->name, n, m->n_vocab);
    if (!ld->st && tokens && tokens->type == TLLM_ARRAY && tokens->count != (size_t)m->n_vocab)
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: the vocabulary has %zu tokens, but token_embd.weight %td rows",
                            m->path, tokens->count, m->n_vocab);
    tinyi_lm_need(ld, &m->top, TINYI_T_TOKEN_EMBD, D, m->n_vocab, 0);
    if (how & (TINYI_LM_T_EMBD_NORM | TINYI_LM_T_OUTPUT_IS_EMBD) && !TINYI_LM_SLICED(m))
        tinyi_lm_vec(ld, &m->top, TINYI_T_TOKEN_EMBD_NORM, D);
    t = tinyi_lm_find(ld, &m->top, TINYI_T_POSITION_EMBD, NULL);
    if (how & TINYI_LM_T_POSITIONS || (t && how & TINYI_LM_T_MAY_POSITIONS)) {
        n = t && t->rank > 1 && t->dim[1] <= INT32_MAX ? (tiny_idx)t->dim[1] : 0;
        tinyi_lm_need(ld, &m->top, TINYI_T_POSITION_EMBD, D, n > 0 ? n : 1, 0);
        if (!ld->st && n < m->n_context) m->n_context = n;
    }
    t = tinyi_lm_find(ld, &m->top, TINYI_T_TOKEN_TYPES, NULL);
    if (t && how & TINYI_LM_T_HIDDEN)
        tinyi_lm_may(ld, &m->top, TINYI_T_TOKEN_TYPES, D,
                     t->rank > 1 && t->dim[1] <= INT32_MAX ? (tiny_idx)t->dim[1] : 1, 0);
    if (how & TINYI_LM_T_T5) {
        ld->part = "enc.";
        m->enc_norm = tinyi_lm_vec(ld, &m->top, TINYI_T_OUTPUT_NORM, D);
        ld->part = "dec.";
        if (m->n_layer) tinyi_lm_vec(ld, &m->top, TINYI_T_OUTPUT_NORM, D);
        ld->part = "";
    } else if (!(how & (TINYI_LM_T_NO_OUTPUT_NORM | TINYI_LM_T_OUTPUT_IS_EMBD)))
        tinyi_lm_vec(ld, &m->top, TINYI_T_OUTPUT_NORM, last);
    m->output = how & TINYI_LM_T_HIDDEN || (m->pooling >= TLLM_POOL_MEAN && m->pooling <= TLLM_POOL_LAST) ? TLLM_HIDDEN
                                                                                                          : TLLM_LOGITS;
    if (m->pooling == TLLM_POOL_RANK &&
        (m->output == TLLM_LOGITS ||
         (!(how & TINYI_LM_T_T5) && tinyi_lm_find(ld, &m->top, TINYI_T_CLS_OUTPUT, NULL)))) {
        if (m->output == TLLM_HIDDEN) tinyi_lm_may(ld, &m->top, TINYI_T_CLS, D, D, 0);
        t = tinyi_lm_find(ld, &m->top, TINYI_T_CLS_OUTPUT, NULL);
        m->n_label = t && t->rank > 1 && t->dim[1] > 0 && t->dim[1] <= 65536 ? (tiny_idx)t->dim[1] : 1;
        tinyi_lm_need(ld, &m->top, TINYI_T_CLS_OUTPUT, D, m->n_label, 0);
        m->output = TLLM_RANK;
    }
    if (m->output == TLLM_LOGITS) {
        tinyi_lm_may(ld, &m->top, TINYI_T_OUTPUT, last, m->n_vocab, 0);
        if (TINYI_LM_SLICED(m) && !ld->st && !m->top.w[TINYI_T_OUTPUT])
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: tensor output.weight is missing", m->path);
        m->output_w = m->top.w[TINYI_T_OUTPUT] ? m->top.w[TINYI_T_OUTPUT] : m->top.w[TINYI_T_TOKEN_EMBD];
    }
    m->n_out = m->output == TLLM_LOGITS ? m->n_vocab : m->output == TLLM_HIDDEN ? D : m->n_label;
    if (m->n_ple > 0) tinyi_lm_ple_load(ld, &m->top);
    if (TINYI_LM_ARCH(m)->block == TINYI_LM_ALTUP) tinyi_lm_altup_load(ld, &m->top);
    if (TINYI_LM_ARCH(m)->block == TINYI_LM_HYPER) tinyi_lm_hyper_load(ld, &m->top);
    if (TINYI_LM_ARCH(m)->keys & TINYI_LM_K_BANK && m->bank > 0) tinyi_lm_bank_load(ld, &m->top);
}

TINY_API tiny_status tllm_model_open(tiny_ctx *ctx, const tllm_gguf *file, tllm_model **out)
{
    tinyi_lm_load ld;
    tllm_text name;
    const tinyi_lm_arch *arch;
    const char *path, *prefix = "";
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!file || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_model_open: the file or the result pointer is NULL");
    path = tllm_gguf_path(file, 0) ? tllm_gguf_path(file, 0) : "model";
    if (!tllm_meta_text(tllm_gguf_find(file, "general.architecture"), 0, &name))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: general.architecture is missing or not a text", path);
#ifndef TINYI_NO_TURNS
    if (name.n > sizeof TINYI_ROTATED_PREFIX - 1 &&
        !memcmp(name.at, TINYI_ROTATED_PREFIX, sizeof TINYI_ROTATED_PREFIX - 1)) {
        prefix = TINYI_ROTATED_PREFIX;
        name.at += sizeof TINYI_ROTATED_PREFIX - 1;
        name.n -= sizeof TINYI_ROTATED_PREFIX - 1;
    }
#endif
#ifndef TINYI_NO_SLICED
    if (!*prefix && name.n > sizeof TINYI_SLICED_PREFIX - 1 &&
        !memcmp(name.at, TINYI_SLICED_PREFIX, sizeof TINYI_SLICED_PREFIX - 1)) {
        prefix = TINYI_SLICED_PREFIX;
        name.at += sizeof TINYI_SLICED_PREFIX - 1;
        name.n -= sizeof TINYI_SLICED_PREFIX - 1;
    } else if (!*prefix && name.n > sizeof TINYI_STITCHED_PREFIX - 1 &&
               !memcmp(name.at, TINYI_STITCHED_PREFIX, sizeof TINYI_STITCHED_PREFIX - 1)) {
        prefix = TINYI_STITCHED_PREFIX;
        name.at += sizeof TINYI_STITCHED_PREFIX - 1;
        name.n -= sizeof TINYI_STITCHED_PREFIX - 1;
    }
#endif
    arch = tinyi_lm_arch_find(name.at, name.n);
    if (!arch) {
        char nearest[160];
        tinyi_lm_arch_nearest(name.at, name.n, nearest);
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: the architecture \"%.*s\" is unknown; similar known names: %s", path,
                          (int)TINYI_MIN(name.n, 40), name.at, nearest);
    }
    memset(&ld, 0, sizeof ld);
    ld.ctx = ctx;
    ld.g = file;
    ld.part = "";
    ld.m = (tllm_model *)tinyi_alloc(ctx, 1, sizeof *ld.m);
    if (!ld.m) return tiny_ctx_status(ctx);
    memset(ld.m, 0, sizeof *ld.m);
    ld.m->magic = TINYI_LM_MAGIC;
    ld.m->world = 1;
    ld.m->file = file;
    ld.m->arch = arch;
    ld.m->path = path;
    ld.m->prefix = prefix;
    ld.m->top.i = -1;
#ifndef TINYI_NO_SLICED
    ld.m->sliced = *prefix && !strcmp(prefix, TINYI_SLICED_PREFIX);
    if (!strcmp(prefix, TINYI_STITCHED_PREFIX) && tinyi_lm_meta(&ld, "slice.width")) ld.m->sliced = TINYI_LM_STITCHED;
#endif
    if (*prefix && !TINYI_LM_SLICED(ld.m)) {
        static const char *const key[3] = { "rotation.feed", "rotation.heads", "rotation.keys" };
        int k;
        for (k = 0; k < 3; k++) ld.m->rotated |= tinyi_lm_bool(&ld, key[k], -1, 0) ? 1u << k : 0u;
    }
    tinyi_lm_numbers(&ld);
    if (TINYI_LM_SLICED(ld.m)) tinyi_lm_sliced_widths(&ld);
    tinyi_lm_top(&ld);
    if (TINYI_LM_SLICED(ld.m)) tinyi_lm_sliced_norm(ld.m, ld.m->top.w[TINYI_T_OUTPUT_NORM]);
    if (!TINYI_HAS(ENCODERS) && !ld.st && (ld.m->encoder || ld.m->n_enc || ld.m->output != TLLM_LOGITS))
        ld.st =
            tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                       "%s: encoders and models without logits are not compiled into this program", path);
    tinyi_lm_xielu_load(&ld);
    if (arch->top & TINYI_LM_T_T5) tinyi_lm_stack(&ld, &ld.m->enc, ld.m->n_enc, "enc.", 0);
    tinyi_lm_stack(&ld, &ld.m->layer, ld.m->n_layer, arch->top & TINYI_LM_T_T5 ? "dec." : "",
                   (arch->top & TINYI_LM_T_T5) != 0);
    if (ld.st) {
        tllm_model_close(ctx, ld.m);
        return ld.st;
    }
    tinyi_lm_weights_up(ctx, ld.m, 1);
    *out = ld.m;
    return TINY_OK;
}

TINY_API void tllm_model_close(tiny_ctx *ctx, tllm_model *model)
{
    if (!model) return;
    if (!tinyi_ctx_check(ctx)) tinyi_lm_weights_up(ctx, model, 0);
    tinyi_lm_eights_free(ctx, model);
    tinyi_lm_blocks_free(ctx, model->blocks);
    tiny_free(ctx, model);
}

TINY_API void tllm_model_about(const tllm_model *m, tllm_about *about)
{
    if (!about) return;
    memset(about, 0, sizeof *about);
    if (!m) return;
    about->arch = TINYI_LM_ARCH(m)->name;
    about->output = (tllm_output)TINYI_LM_OUTPUT(m);
    about->pooling = (tllm_pooling)m->pooling;
    about->n_vocab = m->n_vocab;
    about->n_embd = m->n_embd;
    about->n_layer = m->n_layer + TINYI_LM_N_ENC(m);
    about->n_out = m->n_out;
    about->n_context = m->n_context;
    about->has_decoder = TINYI_LM_N_ENC(m) > 0 && m->n_layer > 0;
    about->is_encoder =
        TINYI_LM_ENCODER(m) || TINYI_LM_OUTPUT(m) == TLLM_RANK || (TINYI_LM_N_ENC(m) > 0 && !m->n_layer);
    about->is_recurrent = m->recurrent;
    about->first_token = m->first_token;
    about->n_params = m->n_params;
    about->rank = m->rank;
    about->world = m->world;
    if (m->n_layer) {
        about->n_head = m->layer[0].n_head;
        about->n_kv = m->layer[0].n_kv;
        about->n_ff = m->layer[0].n_ff;
    }
}
