/* src/llm/round/stream.c - which tensors of a model read its stream, which write it, whether its basis may change
 *
 * Rule     x may become Q^T x everywhere if each half of a layer reads it through a norm alone and adds to it, if
 *          nothing else touches it but the embedding and the last norm, and if every tensor of the file is known */
#include <stdio.h>
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/stream_inside.h"

TINYI_FN int tinyi_stream_role(int t)
{
    switch (t) {
    case TINYI_T_ATTN_Q:
    case TINYI_T_ATTN_K:
    case TINYI_T_ATTN_V:
    case TINYI_T_ATTN_QKV: return TINYI_STREAM_READS_MIX;
    case TINYI_T_FFN_GATE:
    case TINYI_T_FFN_UP:
    case TINYI_T_ROUTER:
    case TINYI_T_GATE_EXPS:
    case TINYI_T_UP_EXPS:
    case TINYI_T_GATE_UP_EXPS:
    case TINYI_T_GATE_SHEXP:
    case TINYI_T_UP_SHEXP:
    case TINYI_T_ROUTER_SHEXP: return TINYI_STREAM_READS_FEED;
    case TINYI_T_ATTN_OUT: return TINYI_STREAM_WRITES_MIX;
    case TINYI_T_FFN_DOWN:
    case TINYI_T_DOWN_EXPS:
    case TINYI_T_DOWN_SHEXP: return TINYI_STREAM_WRITES_FEED;
    case TINYI_T_ATTN_NORM:
    case TINYI_T_ATTN_NORM_2:
    case TINYI_T_FFN_NORM:
    case TINYI_T_ATTN_Q_NORM:
    case TINYI_T_ATTN_K_NORM:
    case TINYI_T_ATTN_SUB_NORM:
    case TINYI_T_ATTN_SINKS:
    case TINYI_T_FFN_SUB_NORM:
    case TINYI_T_ROUTER_BIAS:
    case TINYI_T_LAYER_SCALE: return TINYI_STREAM_OTHER;
    default: return TINYI_STREAM_UNKNOWN;
    }
}

static tiny_status tinyi_stream_unknown(tiny_ctx *ctx, const char *what, const tllm_model *m, const tinyi_lm_w *w)
{
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: %s: %.*s: this tensor is unknown here, so it cannot be rotated",
                      what, m->path, (int)TINYI_MIN(w->t->name.n, (size_t)200), w->t->name.at);
}

TINYI_FN tiny_status tinyi_stream_model(tiny_ctx *ctx, const char *what, const tllm_model *m)
{
    const char *why = NULL;
    if (TINYI_LM_SLICED(m)) why = "it is sliced already";
    else if (*m->prefix) why = "it already has rotations while it runs";
    else if (m->output != TLLM_LOGITS) why = "it gives no logits: its hidden states would change";
    else if (m->block != TINYI_LM_PRE && m->block != TINYI_LM_PARALLEL)
        why = "its layers do not have a norm before both halves";
    else if (!m->top.w[TINYI_T_OUTPUT_NORM]) why = "there is no norm before the logits";
    else if (m->n_layer < 1) why = "it has no layers";
    else if (m->n_ple > 0) why = "layers have inputs of their own";
    return why ? tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: %s: %s", what, m->path, why) : TINY_OK;
}

TINYI_FN tiny_status tinyi_stream_tops(tiny_ctx *ctx, const char *what, const tllm_model *m, int learned)
{
    static const int top[] = { TINYI_T_TOKEN_EMBD, TINYI_T_OUTPUT,    TINYI_T_OUTPUT_NORM,
                               TINYI_T_ROPE_FREQS, TINYI_T_ROPE_LONG, TINYI_T_ROPE_SHORT };
    size_t k;
    int i;
    for (i = 0; i < TINYI_T_COUNT; i++) {
        for (k = 0; k < sizeof top / sizeof top[0] && top[k] != i; k++) {}
        if (m->top.w[i] && k == sizeof top / sizeof top[0] &&
            !(learned && (i == TINYI_T_POSITION_EMBD || i == TINYI_T_TOKEN_EMBD_NORM)))
            return tinyi_stream_unknown(ctx, what, m, m->top.w[i]);
    }
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_stream_layer(tiny_ctx *ctx, const char *what, const tllm_model *m, const tllm_folds *folds,
                                        const tinyi_lm_layer *a)
{
    const char *why = NULL;
    int k;
    if (a->mix != TINYI_LM_ATTN || a->mix2 != TINYI_LM_NO_MIX || a->cross)
        why = "its first half is not plain attention";
    else if (a->ffn && a->norm2 && (why = tllm_fold_why(folds, a->i, TLLM_FOLD_FEED)) != NULL) {}
    else if (a->post1 || a->post2) why = "a norm comes after a half: its gain would be in another basis";
    else if (!a->norm1 || (a->ffn && !a->norm2 && m->block != TINYI_LM_PARALLEL))
        why = "a half reads the stream without a norm";
    else if (a->moe && TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_ROUTER_EARLY)
        why = "its router does not read the same input as its experts";
    else why = tllm_fold_why(folds, a->i, TLLM_FOLD_MIX);
    if (why) return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: %s: layer %td: %s", what, m->path, a->i, why);
    for (k = 0; k < TINYI_T_COUNT; k++)
        if (a->w[k] && tinyi_stream_role(k) == TINYI_STREAM_UNKNOWN && a->w[k] != a->norm1 && a->w[k] != a->norm2)
            return tinyi_stream_unknown(ctx, what, m, a->w[k]);
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_stream_keys(tiny_ctx *ctx, const tllm_gguf *file, const char *prefix, tllm_writer *w)
{
    const size_t n = strlen(prefix);
    tllm_text arch = { "", 0 };
    char key[320];
    size_t i;
    tiny_status st = TINY_OK;
    (void)tllm_meta_text(tllm_gguf_find(file, "general.architecture"), 0, &arch);
    for (i = 0; !st && i < tllm_gguf_n_meta(file); i++) {
        tllm_meta m = *tllm_gguf_meta_at(file, i);
        if (n && tllm_text_is(m.key, "general.architecture")) {
            (void)snprintf(key, sizeof key, "%s%.*s", prefix, (int)TINYI_MIN(arch.n, (size_t)64), arch.at);
            st = tllm_writer_put_text(ctx, w, "general.architecture", key);
            continue;
        }
        if (n && n < 64 && m.key.n > arch.n && m.key.n < 240 && !memcmp(m.key.at, arch.at, arch.n) &&
            m.key.at[arch.n] == '.') {
            memcpy(key, prefix, n);
            memcpy(key + n, m.key.at, m.key.n);
            m.key.at = key;
            m.key.n += n;
        }
        st = tllm_writer_put_meta(ctx, w, &m);
    }
    return st;
}

TINYI_FN tiny_status tinyi_stream_begin(tiny_ctx *ctx, const char *what, tllm_state *s, const int32_t *token,
                                        tiny_idx n, tinyi_lm_fwd *f)
{
    tllm_page_copy copy;
    tiny_idx i;
    tiny_status st;
    tllm_state_clear(s);
    st = tllm_pages_append(&s->pages, 0, n, &copy);
    if (st) return tinyi_fail(ctx, st, "%s: %s: a window of %td tokens does not fit", what, s->m->path, n);
    tinyi_lm_begin(f, s);
    f->n = f->n_key = n;
    f->n_run = 1;
    for (i = 0; i < n; i++) {
        s->token[i] = token[i];
        s->row[4 * i] = s->row[4 * i + 1] = 0;
        s->row[4 * i + 2] = (int32_t)(i + 1);
        s->row[4 * i + 3] = s->pos[i] = (int32_t)i;
        s->place[2 * i] = tllm_pages_table(&s->pages, 0)[i / s->pages.block];
        s->place[2 * i + 1] = (int32_t)(i % s->pages.block);
    }
    s->run[0].seq = s->run[0].row0 = s->run[0].at0 = 0;
    s->run[0].n = n;
    return TINY_OK;
}
