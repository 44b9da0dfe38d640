/* src/llm/compress/join_train.c - training of two joined models on the tape
 * Paper    Z. Pan, J. Cai, B. Zhuang, "Stitchable Neural Networks", 2023 (arXiv 2302.06586), algorithm 1
 * Formula  the layers of llama: x += O attention(rope(Q h), rope(K h), V h), h = norm(x); x += D (silu(G h) U h), h =
 *          norm(x). The loss of a network is the mean cross-entropy of the next token over a piece of the text
 * Data     all tensors of both files as floats; gradients the same
 * Cost     6 operations a weight and token, and those of the attention
 * Left out distillation from the larger model */
#include "llm/compress/join_train.h"
#include "llm/compress/join_inside.h"
#include "math/attention.h"
#include "math/layer.h"
#include "math/norm.h"
#include "math/rope.h"
#include "math/elem.h"
#include <stdio.h>
#include <string.h>

enum { TINYI_JT_NORM1, TINYI_JT_Q, TINYI_JT_K, TINYI_JT_V, TINYI_JT_O, TINYI_JT_NORM2, TINYI_JT_GATE, TINYI_JT_UP,
       TINYI_JT_DOWN, TINYI_JT_LAYER };

typedef struct tinyi_jt_side {
    const tllm_model *m;
    tiny_idx window;
    tiny_param *param;                      /* in the order of the tensors of the file */
    size_t n_param, n;                      /* n: numbers of all of them */
    float *weight, *grad;
    const tiny_param *embd, *norm, *head;
    const tiny_param **layer;               /* (n_layer, TINYI_JT_LAYER) */
    char (*name)[80];
} tinyi_jt_side;

/* ---- the model on the tape */

static tiny_tensor tinyi_jt_linear(tiny_tape *tape, const tiny_tensor *x, const tiny_param *w)
{
    return tiny_tape_linear(tape, x, &w->value, NULL, TINY_ACT_NONE);
}

static tiny_tensor tinyi_jt_norm(const tinyi_jt_side *s, tiny_tape *tape, const tiny_tensor *x, const tiny_param *g)
{
    tiny_norm_params p;
    memset(&p, 0, sizeof p);
    p.eps = s->m->eps;
    return tiny_tape_call(tape, TINY_OP_RMSNORM, x, &g->value, NULL, NULL, &p);
}

/* x (samples, window + 1), floats that are tokens: those from `at` on of each sample */
static tiny_tensor tinyi_jt_tokens(tiny_tape *tape, const tiny_tensor *x, tiny_idx window, tiny_idx at)
{
    const tiny_idx n = x->dim[0] * window;
    tiny_tensor t = tiny_tape_new(tape, TINY_I32, 1, &n);
    tiny_idx s, i;
    if (tiny_tape_status(tape) || tiny_tape_dry(tape)) return t;
    for (s = 0; s < x->dim[0]; s++)
        for (i = 0; i < window; i++)
            ((int32_t *)t.data)[s * window + i] = (int32_t)((const float *)x->data)[s * (window + 1) + at + i];
    return t;
}

static tiny_tensor tinyi_jt_first(void *user, tiny_tape *tape, const tiny_tensor *x)
{
    const tinyi_jt_side *s = (const tinyi_jt_side *)user;
    const tiny_tensor t = tinyi_jt_tokens(tape, x, s->window, 0);
    return tiny_tape_call(tape, TINY_OP_GATHER, &s->embd->value, &t, NULL, NULL, NULL);
}

/* one sample of x (samples window, heads d) as (window, heads, d): a view */
static tiny_tensor tinyi_jt_heads(const tinyi_jt_side *s, const tiny_tensor *x, tiny_idx heads, tiny_idx sample)
{
    tiny_idx dim[3];
    dim[0] = s->window;
    dim[1] = heads;
    dim[2] = x->dim[1] / heads;
    return tiny_tensor_nd((float *)x->data + sample * s->window * x->dim[1], TINY_F32, 3, dim);
}

static tiny_tensor tinyi_jt_attention(const tinyi_jt_side *s, tiny_tape *tape, const tinyi_lm_layer *l,
                                      const tiny_tensor *q, const tiny_tensor *k, const tiny_tensor *v, tiny_idx sample)
{
    tiny_attention_params causal;
    tiny_rope_params turn;
    tiny_tensor a = tinyi_jt_heads(s, q, l->n_head, sample), b = tinyi_jt_heads(s, k, l->n_kv, sample),
                c = tinyi_jt_heads(s, v, l->n_kv, sample);
    tiny_idx dim[2];
    memset(&causal, 0, sizeof causal);
    memset(&turn, 0, sizeof turn);
    causal.causal = 1;
    causal.scale = l->scale;
    turn.interleaved = 1;
    turn.n_rot = (int)s->m->rope[0].n_rot;
    if (s->m->rope[0].n_rot > 2)            /* freq[1] = base^(-2 / n_rot) */
        turn.base = (float)tinyi_exp64(-0.5 * (double)s->m->rope[0].n_rot * tinyi_log64(s->m->rope[0].freq[1]));
    a = tiny_tape_call(tape, TINY_OP_ROPE, &a, NULL, NULL, NULL, &turn);
    b = tiny_tape_call(tape, TINY_OP_ROPE, &b, NULL, NULL, NULL, &turn);
    a = tiny_tape_call(tape, TINY_OP_ATTENTION, &a, &b, &c, NULL, &causal);
    dim[0] = s->window;
    dim[1] = l->n_head * l->d_v;
    return tiny_tape_status(tape) ? a : tiny_tape_reshape(tape, &a, 2, dim);
}

static tiny_tensor tinyi_jt_block(void *user, tiny_tape *tape, int i, const tiny_tensor *x)
{
    const tinyi_jt_side *s = (const tinyi_jt_side *)user;
    const tiny_param *const *w = s->layer + (size_t)i * TINYI_JT_LAYER;
    const tiny_idx samples = x->dim[0] / s->window;
    tiny_tensor h = tinyi_jt_norm(s, tape, x, w[TINYI_JT_NORM1]), q, k, v, o, u, g, y;
    tiny_tensor all[64];
    tiny_idx b;
    q = tinyi_jt_linear(tape, &h, w[TINYI_JT_Q]);
    k = tinyi_jt_linear(tape, &h, w[TINYI_JT_K]);
    v = tinyi_jt_linear(tape, &h, w[TINYI_JT_V]);
    if (tiny_tape_status(tape)) return h;
    for (b = 0; b < samples; b++) all[b] = tinyi_jt_attention(s, tape, &s->m->layer[i], &q, &k, &v, b);
    o = samples > 1 ? tiny_tape_concat(tape, (int)samples, all, 0) : all[0];
    o = tinyi_jt_linear(tape, &o, w[TINYI_JT_O]);
    y = tiny_tape_add(tape, x, &o);
    h = tinyi_jt_norm(s, tape, &y, w[TINYI_JT_NORM2]);
    g = tinyi_jt_linear(tape, &h, w[TINYI_JT_GATE]);
    u = tinyi_jt_linear(tape, &h, w[TINYI_JT_UP]);
    u = tiny_tape_call(tape, TINY_OP_SWIGLU, &g, &u, NULL, NULL, NULL);
    u = tinyi_jt_linear(tape, &u, w[TINYI_JT_DOWN]);
    return tiny_tape_add(tape, &y, &u);
}

static tiny_tensor tinyi_jt_last(void *user, tiny_tape *tape, const tiny_tensor *x)
{
    const tinyi_jt_side *s = (const tinyi_jt_side *)user;
    tiny_tensor h = tinyi_jt_norm(s, tape, x, s->norm);
    return tinyi_jt_linear(tape, &h, s->head);
}

static tiny_tensor tinyi_jt_loss(void *user, tiny_tape *tape, const tiny_tensor *logits, const tiny_tensor *x)
{
    const tinyi_jt_side *s = (const tinyi_jt_side *)user;
    const tiny_tensor next = tinyi_jt_tokens(tape, x, s->window, 1);
    return tiny_tape_cross_entropy(tape, logits, &next, 0.0);
}

/* ---- weights of a file as parameters */

static const tiny_param *tinyi_jt_param(const tinyi_jt_side *s, const tllm_gguf *file, const tinyi_lm_w *w)
{
    size_t i;
    for (i = 0; w && i < s->n_param; i++)
        if (tllm_gguf_tensor_at(file, i) == w->t) return &s->param[i];
    return NULL;
}

static tiny_status tinyi_jt_side_open(tiny_ctx *ctx, const tinyi_join_side *from, tiny_idx window, tinyi_jt_side *s)
{
    static const int of[TINYI_JT_LAYER] = { TINYI_T_ATTN_NORM, TINYI_T_ATTN_Q,   TINYI_T_ATTN_K,
                                            TINYI_T_ATTN_V,    TINYI_T_ATTN_OUT, TINYI_T_FFN_NORM,
                                            TINYI_T_FFN_GATE,  TINYI_T_FFN_UP,   TINYI_T_FFN_DOWN };
    const tllm_model *m = from->m;
    size_t i, at = 0;
    tiny_idx l;
    const int tops = 2 + (m->top.w[TINYI_T_OUTPUT] != NULL);
    int k, t, known = tops;
    s->m = m;
    s->window = window;
    s->n_param = tllm_gguf_n_tensors(from->file);
    for (i = 0; i < s->n_param; i++) s->n += (size_t)tinyi_join_count(tllm_gguf_tensor_at(from->file, i));
    s->param = (tiny_param *)tinyi_alloc(ctx, s->n_param, sizeof *s->param);
    if (s->param) s->name = (char(*)[80])tinyi_alloc(ctx, s->n_param, sizeof *s->name);
    if (s->name)
        s->layer = (const tiny_param **)tinyi_alloc(ctx, (size_t)m->n_layer * TINYI_JT_LAYER, sizeof *s->layer);
    if (s->layer) s->weight = (float *)tinyi_alloc(ctx, s->n, sizeof *s->weight);
    if (s->weight) s->grad = (float *)tinyi_alloc(ctx, s->n, sizeof *s->grad);
    if (!s->grad) return tiny_ctx_status(ctx);
    memset(s->grad, 0, s->n * sizeof *s->grad);
    for (i = 0; i < s->n_param; i++) {
        const tllm_gguf_tensor *g = tllm_gguf_tensor_at(from->file, i);
        const size_t n = (size_t)tinyi_join_count(g);
        tiny_param *p = &s->param[i];
        if (from->weight) memcpy(s->weight + at, from->weight + at, n * sizeof *s->weight);
        else tllm_format_of(g->type)->unpack(g->data, s->weight + at, n);
        (void)snprintf(s->name[i], sizeof s->name[i], "%.*s", (int)TINYI_MIN(g->name.n, (size_t)79), g->name.at);
        p->name = s->name[i];
        p->value = tiny_tensor_1d(s->weight + at, TINY_F32, (tiny_idx)n);
        if (g->rank > 1)
            p->value = tiny_tensor_2d(s->weight + at, TINY_F32, (tiny_idx)(n / g->dim[0]), (tiny_idx)g->dim[0]);
        p->grad = p->value;
        p->grad.data = s->grad + at;
        p->group = 0;
        at += n;
    }
    s->embd = tinyi_jt_param(s, from->file, m->top.w[TINYI_T_TOKEN_EMBD]);
    s->norm = tinyi_jt_param(s, from->file, m->top.w[TINYI_T_OUTPUT_NORM]);
    s->head = tinyi_jt_param(s, from->file, m->output_w);
    for (l = 0; l < m->n_layer; l++)
        for (t = 0; t < TINYI_T_COUNT; t++) {
            const tinyi_lm_w *w = m->layer[l].w[t];
            for (k = 0; k < TINYI_JT_LAYER && of[k] != t; k++) {}
            if (k < TINYI_JT_LAYER) s->layer[(size_t)l * TINYI_JT_LAYER + (size_t)k] = tinyi_jt_param(s, from->file, w);
            known += w && k < TINYI_JT_LAYER && !w->bias && !w->scale;
        }
    /* every tensor of the file is one of these */
    if ((size_t)known != s->n_param || known != tops + TINYI_JT_LAYER * (int)m->n_layer)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "join: %s has other tensors than those of plain llama layers: it cannot be trained here",
                          m->path);
    return TINY_OK;
}

static tiny_status tinyi_jt_check(tiny_ctx *ctx, const tllm_model *m)
{
    const tinyi_lm_rope *r = &m->rope[0];
    const char *why = NULL;
    tiny_idx i;
    if (strcmp(TINYI_LM_ARCH(m)->name, "llama") != 0 || m->norm != TINYI_LM_RMS || m->attn_cap != 0.0f ||
        m->logit_cap != 0.0f || m->residual_scale != 1.0f || m->logit_scale != 1.0f)
        why = "only models of the architecture llama can be trained";
    if (!why && (r->n_rot < 2 || r->size != 1.0f || r->freq_long || r->freq[0] != 1.0)) why = "its rotation is scaled";
    for (i = 2; !why && i < r->n_rot / 2; i++) {
        const double off = r->freq[i] * r->freq[i - 2] / (r->freq[i - 1] * r->freq[i - 1]) - 1.0;
        if (off > 1e-9 || off < -1e-9) why = "its rotation is scaled";
    }
    return why ? tinyi_fail(ctx, TINY_E_UNSUPPORTED, "join: %s: %s", m->path, why) : TINY_OK;
}

static tllm_snnet_anchor tinyi_jt_anchor(tinyi_jt_side *s)
{
    tllm_snnet_anchor a;
    memset(&a, 0, sizeof a);
    a.size.width = s->m->n_embd;
    a.size.depth = (int)s->m->n_layer;
    a.params = s->param;
    a.n_params = s->n_param;
    a.first = tinyi_jt_first;
    a.block = tinyi_jt_block;
    a.last = tinyi_jt_last;
    a.user = s;
    return a;
}

/* the linear layers of j to those of net, or back */
static void tinyi_jt_linears(const tllm_join *j, const tllm_snnet *net, size_t first, int back)
{
    const size_t n_w = (size_t)(j->about.width[0] * j->about.width[1]), n_b = (size_t)j->about.width[1];
    const tiny_param *p = tllm_snnet_params(net, NULL) + first;
    size_t i;
    for (i = 0; i < j->about.n_linear; i++, p += 2) {
        float *at = j->linear + i * (n_w + n_b), *w = (float *)p[0].value.data, *b = (float *)p[1].value.data;
        memcpy(back ? at : w, back ? w : at, n_w * sizeof *at);
        memcpy(back ? at + n_w : b, back ? b : at + n_w, n_b * sizeof *at);
    }
}

static tiny_status tinyi_jt_run(tiny_ctx *ctx, tllm_join *j, tinyi_jt_side s[2], const tllm_nn_set *set,
                                const tllm_join_train_desc *d, tllm_snnet_fit_state *last)
{
    tllm_snnet_anchor a[2];
    tllm_snnet_fit_desc f;
    tllm_snnet *net = NULL;
    int i;
    tiny_status st;
    for (i = 0; i < 2; i++) a[i] = tinyi_jt_anchor(&s[i]);
    st = tllm_snnet_open(ctx, a, 2, d->seed, &net);
    if (st) return st;
    tinyi_jt_linears(j, net, s[0].n_param + s[1].n_param, 0);
    memset(&f, 0, sizeof f);
    f.steps = d->steps ? d->steps : 500;
    f.batch = d->sequences ? d->sequences : 1;
    f.lr = d->lr != 0.0 ? d->lr : 3e-4;
    f.stitch_lr = d->stitch_lr;
    f.seed = d->seed;
    f.loss = tinyi_jt_loss;
    f.loss_user = &s[0];
    f.callback = d->callback;
    f.user = d->user;
    st = tllm_snnet_fit(net, set, &f, last);
    if (!st) {
        tinyi_jt_linears(j, net, s[0].n_param + s[1].n_param, 1);
        for (i = 0; i < 2; i++) {
            tiny_free(ctx, j->side[i].weight);
            j->side[i].weight = s[i].weight;
            s[i].weight = NULL;
        }
    }
    tllm_snnet_close(net);
    return st;
}

TINY_API tiny_status tllm_join_train(tiny_ctx *ctx, tllm_join *j, const int32_t *token, tiny_idx n,
                                     const tllm_join_train_desc *desc, tllm_snnet_fit_state *last)
{
    tllm_join_train_desc d;
    tinyi_jt_side s[2];
    tllm_nn_set set;
    tiny_idx window, pieces, i, k;
    float *x = NULL;
    int32_t *label = NULL;
    tiny_status st = tinyi_ctx_check(ctx);
    if (last) memset(last, 0, sizeof *last);
    if (st) return st;
    memset(&d, 0, sizeof d);
    memset(s, 0, sizeof s);
    memset(&set, 0, sizeof set);
    if (desc) d = *desc;
    if (!j || j->magic != TINYI_JOIN_MAGIC || !j->about.tokens || !token || n < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: two models that have read a text, and a text to train on");
    window = TINYI_MIN(j->d.window ? j->d.window : 256, TINYI_MIN(j->side[0].m->n_context, j->side[1].m->n_context));
    pieces = (n - 1) / window;
    if (d.sequences < 0 || d.sequences > 64 || d.steps < 0 || pieces < (d.sequences ? d.sequences : 1))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "join: %td pieces of %td tokens, of which a step takes %td (1 to 64); %lld steps", pieces,
                          window, d.sequences ? d.sequences : 1, (long long)d.steps);
    for (i = 0; i < n; i++)
        if (token[i] < 0 || token[i] >= j->side[0].m->n_vocab)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "join: token %td of the text is %d, but the models have %td", i,
                              (int)token[i], j->side[0].m->n_vocab);
    for (k = 0; k < 2 && !st; k++) st = tinyi_jt_check(ctx, j->side[k].m);
    for (k = 0; k < 2 && !st; k++) st = tinyi_jt_side_open(ctx, &j->side[k], window, &s[k]);
    if (!st) {
        x = (float *)tinyi_alloc(ctx, (size_t)pieces, (size_t)(window + 1) * sizeof *x);
        if (x) label = (int32_t *)tinyi_alloc(ctx, (size_t)pieces, sizeof *label);
        if (!label) st = tiny_ctx_status(ctx);
    }
    for (i = 0; !st && i < pieces; i++) {
        label[i] = 0;
        for (k = 0; k <= window; k++) x[i * (window + 1) + k] = (float)token[i * window + k];
    }
    set.x = tiny_tensor_2d(x, TINY_F32, pieces, window + 1);
    set.label = tiny_tensor_1d(label, TINY_I32, pieces);
    if (!st) st = tinyi_jt_run(ctx, j, s, &set, &d, last);
    for (k = 0; k < 2; k++) {
        tiny_free(ctx, s[k].param);
        tiny_free(ctx, s[k].name);
        tiny_free(ctx, (void *)(uintptr_t)s[k].layer);
        tiny_free(ctx, s[k].weight);
        tiny_free(ctx, s[k].grad);
    }
    tiny_free(ctx, label);
    tiny_free(ctx, x);
    return st;
}
