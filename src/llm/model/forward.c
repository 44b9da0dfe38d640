/* src/llm/model/forward.c - states, and the forward pass: embedding, layers, output
 *
 * The pass is written once. Run dry, it only counts the scratch memory that it would take: so the size of a state is known
 * before anything is computed, and cannot disagree with it.                                                             */
#include "llm/model/inside.h"
#include <string.h>

#define TINYI_LM_STATE_MAGIC 0x74617473u

/* ---- layers ----------------------------------------------------------------------------------------------------- */

static void tinyi_lm_mix(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    if (f->st) return;
    tinyi_lm_mixer_of(l->mix)->run(f, l, y, h);
    if (l->mix2 != TINYI_LM_NO_MIX) {
        const size_t used = f->used;
        float *z = tinyi_lm_take(f, f->n, f->m->n_embd);
        tinyi_lm_mixer_of(l->mix2)->run(f, l, z, h);
        tinyi_lm_add(f, y, y, z, f->n * f->m->n_embd);
        f->used = used;
    }
}

static void tinyi_lm_feed(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    if (f->m->arch->ffn & TINYI_LM_F_CHANNEL) tinyi_lm_channel_run(f, l, y, h);
    else tinyi_lm_ffn_run(f, l, y, h);
}

/* x (n, n_embd) through a layer */
static void tinyi_lm_layer_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x)
{
    const tllm_model *m = f->m;
    const tinyi_lm_arch *a = m->arch;
    const tiny_idx n = f->n, D = m->n_embd;
    const size_t used = f->used;
    float *h = tinyi_lm_take(f, n, D), *y = tinyi_lm_take(f, n, D), *z;
    if (f->st) return;
    f->layer_in = x;
    if (m->block == TINYI_LM_POST) {
        if (l->w[TINYI_T_ATTN_NORM_2]) tinyi_lm_copy(f, h, D, x, D, n, D);
        tinyi_lm_mix(f, l, y, x);
        tinyi_lm_add(f, y, y, x, n * D);
        tinyi_lm_norm(f, l->post1, x, y, n, D);
        if (l->w[TINYI_T_ATTN_NORM_2]) {    /* jina-bert-v2 for code: the input once more, and a second norm */
            tinyi_lm_add(f, x, x, h, n * D);
            tinyi_lm_norm(f, l->w[TINYI_T_ATTN_NORM_2], x, x, n, D);
        }
        tinyi_lm_feed(f, l, y, x);
        tinyi_lm_add(f, y, y, x, n * D);
        tinyi_lm_norm(f, l->post2, x, y, n, D);
    } else if (m->block == TINYI_LM_PARALLEL) {
        z = tinyi_lm_take(f, n, D);
        tinyi_lm_norm(f, l->norm1, h, x, n, D);
        if (l->w[TINYI_T_ATTN_NORM_2]) {    /* falcon 40B: the attention has a norm of its own */
            tinyi_lm_norm(f, l->w[TINYI_T_ATTN_NORM_2], z, x, n, D);
            tinyi_lm_mix(f, l, y, z);
        } else tinyi_lm_mix(f, l, y, h);
        if (l->norm2) tinyi_lm_norm(f, l->norm2, h, x, n, D);
        tinyi_lm_feed(f, l, z, h);
        tinyi_lm_add(f, x, x, y, n * D);
        tinyi_lm_add(f, x, x, z, n * D);
    } else if (l->mix == TINYI_LM_NO_MIX) {
        tinyi_lm_norm(f, l->norm1, h, x, n, D);
        tinyi_lm_feed(f, l, y, h);
        tinyi_lm_add(f, x, x, y, n * D);
    } else {
        const int early = (a->ffn & TINYI_LM_F_ROUTER_EARLY) != 0;
        float *first = early ? tinyi_lm_take(f, n, D) : NULL;
        if (early) {
            tinyi_lm_copy(f, first, D, x, D, n, D);
            f->layer_in = first;
        }
        if (l->norm1) tinyi_lm_norm(f, l->norm1, h, x, n, D);
        tinyi_lm_mix(f, l, y, l->norm1 ? h : x);
        if (l->post1) tinyi_lm_norm(f, l->post1, y, y, n, D);
        tinyi_lm_scale(f, y, y, m->residual_scale, n * D);
        tinyi_lm_add(f, x, x, y, n * D);
        if (l->cross) {
            tinyi_lm_norm(f, l->w[TINYI_T_CROSS_NORM], h, x, n, D);
            tinyi_lm_attn_cross(f, l, y, h);
            tinyi_lm_add(f, x, x, y, n * D);
        }
        if (a->ffn & TINYI_LM_F_CHANNEL || l->ffn) {
            if (l->moe && a->ffn & TINYI_LM_F_SIDE_BY_SIDE) tinyi_lm_side_run(f, l, y, x);
            else {
                /* stablelm without a norm of its own feeds the normed input of the layer to both */
                if (l->norm2) tinyi_lm_norm(f, l->norm2, h, x, n, D);
                tinyi_lm_feed(f, l, y, l->norm2 || a->attn & TINYI_LM_A_NO_FFN_NORM ? (l->norm2 ? h : x) : h);
            }
            if (l->post2) tinyi_lm_norm(f, l->post2, y, y, n, D);
            tinyi_lm_scale(f, y, y, m->residual_scale, n * D);
            tinyi_lm_add(f, x, x, y, n * D);
        }
    }
    if (l->w[TINYI_T_INP_GATE] && a->block != TINYI_LM_ALTUP) tinyi_lm_ple_add(f, l, x);
    if (m->rescale > 0 && (l->i + 1) % m->rescale == 0) tinyi_lm_scale(f, x, x, 0.5f, n * D);
    if (l->w[TINYI_T_LAYER_SCALE]) tinyi_lm_scale(f, x, x, l->w[TINYI_T_LAYER_SCALE]->v[0], n * D);
    f->used = used;
}

/* ---- one piece -------------------------------------------------------------------------------------------------- */

static void tinyi_lm_embed(tinyi_lm_fwd *f, float *x)
{
    const tllm_model *m = f->m;
    const tinyi_lm_w *pos = m->top.w[TINYI_T_POSITION_EMBD], *types = m->top.w[TINYI_T_TOKEN_TYPES];
    const tiny_idx n = f->n, D = m->n_embd;
    const size_t used = f->used;
    float *row = tinyi_lm_take(f, 1, D);
    tiny_idx i;
    tinyi_lm_rows(f, m->top.w[TINYI_T_TOKEN_EMBD], x, f->tokens, n);
    tinyi_lm_adapt_embd(f, x, f->tokens, n);
    tinyi_lm_scale(f, x, x, m->embd_scale, n * D);
    for (i = 0; (pos || types) && i < n && !f->st && !f->dry; i++) {
        const int32_t zero = 0, at = (int32_t)(f->pos0 + i);
        if (types) {
            tinyi_lm_rows(f, types, row, &zero, 1);
            tinyi_lm_add(f, x + i * D, x + i * D, row, D);
        }
        if (pos) {
            tinyi_lm_rows(f, pos, row, &at, 1);
            tinyi_lm_add(f, x + i * D, x + i * D, row, D);
        }
    }
    if (m->arch->top & TINYI_LM_T_EMBD_NORM) tinyi_lm_norm(f, m->top.w[TINYI_T_TOKEN_EMBD_NORM], x, x, n, D);
    f->used = used;
}

/* x: hidden states of rows tokens; out: results */
static void tinyi_lm_results(tinyi_lm_fwd *f, float *x, tiny_idx rows, float *out)
{
    const tllm_model *m = f->m;
    const tiny_idx D = m->n_embd;
    const tinyi_lm_w *norm = m->arch->top & TINYI_LM_T_OUTPUT_IS_EMBD ? m->top.w[TINYI_T_TOKEN_EMBD_NORM] : m->top.w[TINYI_T_OUTPUT_NORM];
    if (norm) tinyi_lm_norm(f, norm, x, x, rows, D);
    if (!out) return;
    if (m->output == TLLM_HIDDEN) tinyi_lm_copy(f, out, D, x, D, rows, D);
    else if (m->output == TLLM_RANK) {
        if (f->encoding) {                  /* the first token, through a layer of its own where there is one; no softmax */
            if (m->top.w[TINYI_T_CLS]) {
                tinyi_lm_linear(f, m->top.w[TINYI_T_CLS], x + D, x, 1);
                tinyi_lm_run(f, TINY_OP_TANH, x, x + D, NULL, D);
            }
            tinyi_lm_linear(f, m->top.w[TINYI_T_CLS_OUTPUT], out, x, 1);
            return;
        }
        tinyi_lm_linear(f, m->top.w[TINYI_T_CLS_OUTPUT], out, x + (rows - 1) * D, 1);
        tinyi_lm_softmax(f, out, out, 1, m->n_label);
    } else {
        tinyi_lm_linear(f, m->output_w, out, x, rows);
        tinyi_lm_scale(f, out, out, m->logit_scale, rows * m->n_vocab);
        tinyi_lm_cap(f, out, m->logit_cap, rows * m->n_vocab);
    }
}

static void tinyi_lm_piece(tinyi_lm_fwd *f, tiny_idx rows, float *out)
{
    const tllm_model *m = f->m;
    const int streams = m->arch->block == TINYI_LM_ALTUP ? 4 : 1, enc = f->encoding && m->n_enc > 0;
    const tiny_idx n = f->n, D = m->n_embd, n_layer = enc ? m->n_enc : m->n_layer;
    const tinyi_lm_layer *layer = enc ? m->enc : m->layer;
    float *x;
    tiny_idx i;
    f->used = 0;
    x = tinyi_lm_take(f, streams * n + 1, D);  /* a row more: rerankers need it for one token */
    tinyi_lm_rope_tables(f);
    if (f->st) return;
    tinyi_lm_embed(f, x);
    f->embd = x;
    if (m->arch->mixer == TINYI_LM_RWKV7) f->first_v = tinyi_lm_take(f, n, D);
    if (m->n_ple > 0) tinyi_lm_ple_inputs(f);
    if (streams == 4) tinyi_lm_altup_start(f, x);
    for (i = 0; i < n_layer && !f->st; i++) {
        if (f->ctx->desc.cancel && !f->dry && f->ctx->desc.cancel(f->ctx->desc.user)) {
            f->st = tinyi_fail(f->ctx, TINY_E_CANCELLED, "%s: stopped before layer %td of %td", m->path, i, n_layer);
            return;
        }
        if (streams == 4) tinyi_lm_altup_layer(f, &layer[i], x);
        else tinyi_lm_layer_run(f, &layer[i], x);
        tinyi_lm_steer(f, i, x);
    }
    if (streams == 4) tinyi_lm_altup_end(f, x);
    if (enc) {
        tinyi_lm_norm(f, m->enc_norm, x, x, n, D);
        if (out) tinyi_lm_copy(f, out, D, x, D, rows, D);
        for (i = 0; i < m->n_layer && !f->st; i++) tinyi_lm_attn_cross_keys(f, &m->layer[i], x, n);
        return;
    }
    if (f->dry) rows = n;
    if (rows > 0) tinyi_lm_results(f, x + (n - rows) * D, rows, f->dry ? x : out);
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

static tiny_status tinyi_lm_desc(tiny_ctx *ctx, const tllm_model *m, const tllm_state_desc *desc, tllm_state *s)
{
    const int encoder = m->encoder || m->n_enc > 0;
    s->ctx = ctx;
    s->m = m;
    s->n_ctx = desc && desc->n_ctx ? desc->n_ctx : TINYI_MIN(m->n_context, 4096);
    s->n_batch = desc && desc->n_batch ? desc->n_batch : encoder ? s->n_ctx : 64;
    if (s->n_ctx < 1 || s->n_batch < 1 || s->n_ctx > TINYI_LM_MOST || s->n_batch > TINYI_LM_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a state of %td tokens, %td at once: both must be in 1..%d", m->path, s->n_ctx, s->n_batch, TINYI_LM_MOST);
    if (encoder) s->n_batch = s->n_ctx;
    s->n_batch = TINYI_MIN(s->n_batch, s->n_ctx);
    return TINY_OK;
}

/* Hands out, or with base NULL only counts: 0 when a size does not fit. */
static float *tinyi_lm_part(unsigned char *base, size_t *at, size_t a, size_t b, size_t each, int *ok)
{
    size_t n;
    float *p = NULL;
    if (!tinyi_size_mul(a, b, &n) || !tinyi_size_mul(n, each, &n) || n > SIZE_MAX / 4 || *at > SIZE_MAX / 4) { *ok = 0; return NULL; }
    if (base) p = (float *)(void *)(base + *at);
    *at += (n + 63) & ~(size_t)63;
    return p;
}

static int tinyi_lm_layout(tllm_state *s, unsigned char *base, size_t *bytes)
{
    const tllm_model *m = s->m;
    const size_t cells = (size_t)s->n_ctx + 1;
    size_t at = 0, kept0;
    int ok = 1;
    tiny_idx i;
    tinyi_lm_held *held;
    (void)tinyi_lm_part(base, &at, 1, 1, sizeof *s, &ok);
    s->pos = (int64_t *)(void *)tinyi_lm_part(base, &at, cells, 1, sizeof(int64_t), &ok);
    held = s->held = (tinyi_lm_held *)(void *)tinyi_lm_part(base, &at, (size_t)m->n_layer, 1, sizeof *s->held, &ok);
    kept0 = at;
    for (i = 0; i < m->n_layer && ok; i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        const tinyi_lm_mixer *mix = tinyi_lm_mixer_of(l->mix), *mix2 = tinyi_lm_mixer_of(l->mix2);
        size_t n = mix->kept ? mix->kept(m, l) : 0;
        if (!n && mix2->kept) n = mix2->kept(m, l);
        if (mix->kept || mix2->kept) {
            float *x = tinyi_lm_part(base, &at, n, 1, sizeof(float), &ok);
            if (n == SIZE_MAX) ok = 0;
            if (base) held[i].x = x;
        }
    }
    s->kept = base ? (float *)(void *)(base + kept0) : NULL;
    s->n_kept = (at - kept0) / sizeof(float);
    for (i = 0; i < m->n_layer && ok; i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        float *k = NULL, *v = NULL;
        if (l->kv_from != i || m->encoder) continue;
        if (l->mix == TINYI_LM_ATTN) {
            k = tinyi_lm_part(base, &at, cells, (size_t)(l->n_kv * l->d_k), sizeof(float), &ok);
            v = tinyi_lm_part(base, &at, cells, (size_t)(l->n_kv * l->d_v), sizeof(float), &ok);
        } else if (l->mix == TINYI_LM_MLA) {
            if (l->w[TINYI_T_ATTN_K_B]) {   /* one latent row: value and key in one */
                k = tinyi_lm_part(base, &at, cells, (size_t)(m->r_kv + m->d_rope), sizeof(float), &ok);
                v = k;
            } else {
                k = tinyi_lm_part(base, &at, cells, (size_t)l->n_head * (size_t)l->d_k, sizeof(float), &ok);
                v = tinyi_lm_part(base, &at, cells, (size_t)l->n_head * (size_t)l->d_v, sizeof(float), &ok);
            }
            if (m->index_heads) {
                float *x = tinyi_lm_part(base, &at, cells, (size_t)m->index_d, sizeof(float), &ok);
                if (base) held[i].x = x;
            }
        }
        if (base) { held[i].k = k; held[i].v = v; }
        if (l->cross) {
            k = tinyi_lm_part(base, &at, (size_t)s->n_ctx, (size_t)(l->n_kv * l->d_k), sizeof(float), &ok);
            v = tinyi_lm_part(base, &at, (size_t)s->n_ctx, (size_t)(l->n_kv * l->d_v), sizeof(float), &ok);
            if (base) { held[i].cross_k = k; held[i].cross_v = v; }
        }
    }
    s->scratch = base ? base + at : NULL;
    *bytes = at;
    return ok;
}

/* scratch memory by dry passes */
static tiny_status tinyi_lm_measure(tllm_state *s)
{
    int pass;
    s->scratch_bytes = s->work = 0;
    for (pass = 0; pass < 4; pass++) {      /* a whole piece, a whole sequence of an encoder; one token, and few, whose products go other ways */
        tinyi_lm_fwd f;
        memset(&f, 0, sizeof f);
        f.ctx = s->ctx;
        f.s = s;
        f.m = s->m;
        f.dry = 1;
        f.n = pass < 2 ? s->n_batch : TINYI_MIN(pass == 2 ? 1 : 12, s->n_batch);
        f.n_key = s->n_ctx;
        f.encoding = pass == 1;
        if (pass == 1 ? !(s->m->n_enc || s->m->encoder) : !s->m->n_layer) continue;
        if (f.encoding) f.n_key = f.n;
        tinyi_lm_piece(&f, 0, NULL);
        if (f.st) return f.st;
        if (f.high > s->scratch_bytes) s->scratch_bytes = f.high;
        if (f.work > s->work) s->work = f.work;
    }
    return TINY_OK;
}

static tiny_status tinyi_lm_size(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc, tllm_state *s, size_t *bytes)
{
    unsigned char there[64];                /* scratch of a dry pass: an address, never read */
    tiny_status st = tinyi_ctx_check(ctx);
    size_t fixed = 0;
    if (st) return st;
    if (!model) return tinyi_fail(ctx, TINY_E_ARGUMENT, "a state needs a model");
    memset(s, 0, sizeof *s);
    st = tinyi_lm_desc(ctx, model, desc, s);
    if (st) return st;
    if (!tinyi_lm_layout(s, NULL, &fixed))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: a state of %td tokens is larger than this machine can address", model->path, s->n_ctx);
    s->scratch = there;
    st = tinyi_lm_measure(s);
    s->scratch = NULL;
    if (st) return st;
    if (!tinyi_size_add(fixed, s->scratch_bytes, bytes) || !tinyi_size_add(*bytes, 64, bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: a state of %td tokens is larger than this machine can address", model->path, s->n_ctx);
    return TINY_OK;
}

TINY_API tiny_status tllm_state_memory(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc, size_t *bytes)
{
    tllm_state s;
    size_t n = 0;
    tiny_status st = tinyi_lm_size(ctx, model, desc, &s, &n);
    if (!st && !tinyi_size_add(n, s.work, &n)) st = tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: the workspace is larger than this machine can address", model->path);
    if (bytes) *bytes = st ? 0 : n;
    return st;
}

TINY_API tiny_status tllm_state_open(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc, tllm_state **out)
{
    tllm_state plan, *s;
    size_t bytes = 0, fixed = 0;
    tiny_status st;
    if (!out) return TINY_E_ARGUMENT;
    *out = NULL;
    st = tinyi_lm_size(ctx, model, desc, &plan, &bytes);
    if (st) return st;
    s = (tllm_state *)tiny_alloc(ctx, bytes);
    if (!s) return tiny_ctx_status(ctx);
    st = tinyi_work_reserve(ctx, plan.work);
    if (st) { tiny_free(ctx, s); return st; }
    *s = plan;
    s->magic = TINYI_LM_STATE_MAGIC;
    s->bytes = bytes;
    (void)tinyi_lm_layout(s, (unsigned char *)s, &fixed);
    memset((unsigned char *)s + 64 * ((sizeof *s + 63) / 64), 0, fixed - 64 * ((sizeof *s + 63) / 64));
    (void)tinyi_lm_layout(s, (unsigned char *)s, &fixed);   /* the table of layers was cleared with the rest */
    *out = s;
    return TINY_OK;
}

TINY_API void tllm_state_close(tiny_ctx *ctx, tllm_state *state)
{
    if (!state) return;
    tinyi_lm_attached_free(state);
    tiny_free(ctx, state);
}

TINY_API void tllm_state_clear(tllm_state *s)
{
    if (!s) return;
    s->n_held = 0;
    if (s->n_kept) memset(s->kept, 0, s->n_kept * sizeof(float));
}
TINY_API tiny_idx tllm_state_length(const tllm_state *s) { return s ? s->n_held : 0; }
TINY_API tiny_status tllm_state_trim(tllm_state *s, tiny_idx n)
{
    if (!s) return TINY_E_ARGUMENT;
    if (n < 0 || n > s->n_held) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: of %td tokens %td cannot be kept", s->m->path, s->n_held, n);
    if (n == s->n_held) return TINY_OK;
    if (n == 0) { tllm_state_clear(s); return TINY_OK; }
    if (s->m->recurrent) return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s: a recurrent state cannot go back to %td tokens", s->m->path, n);
    s->n_held = n;
    return TINY_OK;
}

static tiny_status tinyi_lm_tokens(tllm_state *s, const char *call, const int32_t *tokens, tiny_idx n)
{
    tiny_idx i;
    if (!tokens || n < 1) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %s needs at least one token", s->m->path, call);
    for (i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= s->m->n_vocab)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: token %td is %d, the vocabulary has %td", s->m->path, i, (int)tokens[i], s->m->n_vocab);
    return TINY_OK;
}

static void tinyi_lm_begin(tinyi_lm_fwd *f, tllm_state *s)
{
    memset(f, 0, sizeof *f);
    f->ctx = s->ctx;
    f->s = s;
    f->m = s->m;
    f->base = s->scratch;
    f->size = s->scratch_bytes;
}

TINY_API tiny_status tllm_forward(tllm_state *s, const int32_t *tokens, tiny_idx n, int64_t pos0, tiny_idx rows, float *out)
{
    tinyi_lm_fwd f;
    tiny_status st;
    tiny_idx done, held, j;
    const tinyi_lm_w *table;
    if (!s) return TINY_E_ARGUMENT;
    if ((st = tinyi_ctx_check(s->ctx)) != TINY_OK || (st = tinyi_lm_tokens(s, "tllm_forward", tokens, n)) != TINY_OK) return st;
    if (s->m->encoder || !s->m->n_layer)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %s is an encoder: tllm_forward_all takes its sequences", s->m->path, s->m->arch->name);
    if (rows < 0 || rows > n || (rows && !out)) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %td rows of %td tokens%s", s->m->path, rows, n, out ? "" : ", and no room for them");
    if (s->m->n_enc && !s->n_encoded) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: the decoder has nothing to look at: tllm_forward_all comes first", s->m->path);
    if (n > s->n_ctx - s->n_held) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %td tokens after %td are more than the %td of this state", s->m->path, n, s->n_held, s->n_ctx);
    if (pos0 < 0 || pos0 > INT32_MAX - n || (s->n_held && pos0 <= s->pos[s->n_held - 1]))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: position %lld does not come after those that are held", s->m->path, (long long)pos0);
    table = s->m->top.w[TINYI_T_POSITION_EMBD];
    if (table && pos0 + n > table->n_out)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: position %lld is past the last of %td", s->m->path, (long long)(pos0 + n - 1), table->n_out);
    held = s->n_held;
    for (done = 0; done < n && !st; ) {
        const tiny_idx take = TINYI_MIN(n - done, s->n_batch);
        const tiny_idx first = TINYI_MAX(done, n - rows), want = TINYI_MAX(done + take - first, 0);    /* results of this piece */
        tinyi_lm_begin(&f, s);
        f.tokens = tokens + done;
        f.n = take;
        f.pos0 = pos0 + done;
        f.n_key = s->n_held + take;
        for (j = 0; j < take; j++) s->pos[s->n_held + j] = f.pos0 + j;
        tinyi_lm_piece(&f, want, !want || s->m->output == TLLM_RANK ? out : out + (first - (n - rows)) * s->m->n_out);
        st = f.st;
        if (!st) s->n_held += take;
        done += take;
    }
    if (st) {
        if (s->m->recurrent) tllm_state_clear(s);
        else s->n_held = held;
    }
    return st;
}

TINY_API tiny_status tllm_forward_all(tllm_state *s, const int32_t *tokens, tiny_idx n, float *out)
{
    tinyi_lm_fwd f;
    tiny_status st;
    const tinyi_lm_w *table;
    if (!s) return TINY_E_ARGUMENT;
    if ((st = tinyi_ctx_check(s->ctx)) != TINY_OK || (st = tinyi_lm_tokens(s, "tllm_forward_all", tokens, n)) != TINY_OK) return st;
    if (!(s->m->encoder) && !s->m->n_enc) {    /* a decoder that gives hidden states or ranks */
        if (s->m->output == TLLM_LOGITS) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %s is no encoder: tllm_forward takes its tokens", s->m->path, s->m->arch->name);
        tllm_state_clear(s);
        return tllm_forward(s, tokens, n, 0, out ? (s->m->output == TLLM_RANK ? 1 : n) : 0, out);
    }
    if (n > s->n_batch) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %td tokens are more than the %td of this state", s->m->path, n, s->n_batch);
    table = s->m->top.w[TINYI_T_POSITION_EMBD];
    if (table && n > table->n_out) return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %td tokens are more than its %td positions", s->m->path, n, table->n_out);
    tinyi_lm_begin(&f, s);
    f.tokens = tokens;
    f.n = f.n_key = n;
    f.encoding = 1;
    s->n_encoded = 0;
    tinyi_lm_piece(&f, out || !s->m->n_enc ? n : 0, out);
    if (!f.st) {
        s->n_encoded = n;
        tllm_state_clear(s);
    }
    return f.st;
}
