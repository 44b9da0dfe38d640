/* src/llm/model/device.c - models on an accelerator with its own memory
 *
 * Weights are uploaded when the model is opened and released when it is closed. If a model is resident, the outputs of
 * operations stay on the device: keys and values from call to call, scratch memory until it is reused. Host code that
 * touches such memory must fetch it first: tinyi_lm_each for the scratch memory of the pass; tinyi_lm_copy,
 * tinyi_lm_zero and the few inline steps for their operands; tinyi_lm_pages_home for pages. A model whose steps touch
 * the memory in other places is not resident: its outputs come back after each operation. */
#include "llm/model/model_inside.h"
#include <string.h>

static int tinyi_lm_has_device(const tiny_ctx *ctx) { return TINYI_HAS(OPS) && ctx->desc.accel != NULL; }

/* bytes of w that operations read */
static tiny_status tinyi_lm_weight_pass(tiny_ctx *ctx, const void *p, size_t n, size_t bytes_each, int up)
{
    tiny_tensor t;
    size_t bytes;
    if (!p || !n || !tinyi_size_mul(n, bytes_each, &bytes) || bytes > (size_t)TINY_IDX_MAX) return TINY_OK;
    t = tiny_tensor_1d((void *)(uintptr_t)p, TINY_U8, (tiny_idx)bytes);
    return up ? tiny_upload(ctx, &t) : tiny_forget(ctx, &t);
}

static tiny_status tinyi_lm_weights_of(tiny_ctx *ctx, const tllm_model *m, const tinyi_lm_layer *l, int up)
{
    tiny_status st = TINY_OK;
    int t, j;
    for (t = 0; t < TINYI_T_COUNT && !st; t++) {
        const tinyi_lm_w *w = l->w[t];
        if (!w || (t == TINYI_T_TOKEN_EMBD && w != m->output_w) || t == TINYI_T_TOKEN_TYPES ||
            t == TINYI_T_POSITION_EMBD || t == TINYI_T_PLE_EMBD || t == TINYI_T_ATTN_REL_B || (up && w->repacked))
            continue;
        for (j = 0; j < t && !(l->w[j] && l->w[j]->t == w->t); j++) {}
        if (j < t) continue;                /* one tensor by two names */
        if (w->v) st = tinyi_lm_weight_pass(ctx, w->v, (size_t)w->n_in, sizeof(float), up);
        else if (w->t) st = tinyi_lm_weight_pass(ctx, w->t->data, (size_t)w->n_out * (size_t)w->n_mat, w->row_step, up);
        if (!st && w->bias)
            st = tinyi_lm_weight_pass(ctx, w->bias, (size_t)w->n_out * (size_t)w->n_mat, sizeof(float), up);
    }
    return st;
}

TINYI_FN void tinyi_lm_weights_up(tiny_ctx *ctx, const tllm_model *m, int up)
{
    tiny_status st;
    tiny_idx i;
    if (!tinyi_lm_has_device(ctx) || !(up ? ctx->desc.accel->upload != NULL : ctx->desc.accel->forget != NULL)) return;
    st = tinyi_lm_weights_of(ctx, m, &m->top, up);
    for (i = 0; i < m->n_enc && m->enc && !st; i++) st = tinyi_lm_weights_of(ctx, m, &m->enc[i], up);
    for (i = 0; i < (m->n_once > 0 ? m->n_once : m->n_layer) && m->layer && !st; i++)
        st = tinyi_lm_weights_of(ctx, m, &m->layer[i], up);
    if (st && up)
        tinyi_log(ctx, TINY_LOG_WARNING,
                  "%s: not all weights fit on the accelerator: the rest is uploaded for each operation", m->path);
}

/* Its passes touch scratch memory only where this file's head says so. */
TINYI_FN int tinyi_lm_stays(const tiny_ctx *ctx, const tllm_state *s)
{
    const tllm_model *m = s->m;
    const tinyi_lm_arch *a = TINYI_LM_ARCH(m);
    tiny_idx i;
    if (!tinyi_lm_has_device(ctx) || ctx->desc.accel->version < 2 || !ctx->desc.accel->fetch) return 0;
    if (TINYI_LM_ENCODER(m) || TINYI_LM_N_ENC(m) || !m->n_layer || TINYI_LM_COMM(s) || TINYI_LM_ROUTES(m) ||
        TINYI_LM_X_BITS(s) || TINYI_LM_ROTATED(m) || TINYI_LM_SLICED(m))
        return 0;
    if (m->block != a->block ||
        (m->block != TINYI_LM_PRE && m->block != TINYI_LM_PARALLEL && m->block != TINYI_LM_POST))
        return 0;
    if (m->n_ple || m->bank > 0 || m->index_heads || m->n_expert || tinyi_lm_fires(m) ||
        a->ffn & (TINYI_LM_F_CHANNEL | TINYI_LM_F_SIDE_BY_SIDE | TINYI_LM_F_ROUTER_EARLY))
        return 0;
    for (i = 0; i < m->n_layer; i++)
        if (m->layer[i].mix != TINYI_LM_ATTN || m->layer[i].mix2 != TINYI_LM_NO_MIX || m->layer[i].cross ||
            m->layer[i].moe)
            return 0;
    return 1;
}

TINYI_FN tiny_status tinyi_lm_pages_home(const tllm_state *s)
{
    const unsigned char *first = (const unsigned char *)s + s->cleared;
    return TINYI_HOME(s->ctx, first, (size_t)(s->scratch - first));
}

TINYI_FN void tinyi_lm_host(tinyi_lm_fwd *f, const void *p, tiny_idx n)
{
    if (!f->st && !f->dry && n > 0) f->st = TINYI_HOME(f->ctx, p, (size_t)n * sizeof(float));
}
