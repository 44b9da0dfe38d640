/* src/llm/round/fold_list.c - the list of folds of a model: see fold.c
 * Legal    everything between producer and consumer must pass a positive factor of a channel through: nothing (a norm
 *          and its readers), a sum over tokens (attention), a product with something else (a gate), ReLU. All readers
 *          of the producer must be consumers. The loaded model tells this: the norm and the matrices of each half, and
 *          the row of its architecture.
 * Left out grouped value heads (heads that share one would need equal factors), squared ReLU (needs the root of the
 *          factor), latent attention, delta nets, state spaces and convolutions: their halves have a reason instead of
 *          a fold */
#include <string.h>
#include "core/state_inside.h"
#include "llm/round/fold_inside.h"

typedef struct tinyi_fold_list {
    tiny_ctx *ctx;
    tllm_folds *f;
    const tllm_model *m;
    int share;                              /* some layers read the values of others */
    tiny_status st;
} tinyi_fold_list;

TINYI_FN const tllm_gguf_tensor *tinyi_fold_bias(const tllm_gguf *file, const tllm_gguf_tensor *t)
{
    char name[300];
    size_t n = t->name.n;
    if (n >= 7 && !memcmp(t->name.at + n - 7, ".weight", 7)) n -= 7;
    if (n > sizeof name - 6) return NULL;
    memcpy(name, t->name.at, n);
    memcpy(name + n, ".bias", 6);
    return tllm_gguf_tensor_find(file, name);
}

/* a kind that a layer has is not taken back by another network of it that has none */
static void tinyi_fold_none(tinyi_fold_list *l, tiny_idx layer, int kind, const char *why)
{
    const char **at = &l->f->why[(layer + 1) * TLLM_FOLD_KINDS + kind];
    if (*at) *at = why;
}

static tllm_fold *tinyi_fold_new(tinyi_fold_list *l, tiny_idx layer, int kind, tiny_idx n)
{
    tllm_folds *f = l->f;
    tllm_fold *fold;
    if (l->st) return NULL;
    if (f->n == f->room) {
        const size_t room = f->room ? 2 * f->room : 64;
        fold = (tllm_fold *)tinyi_alloc(l->ctx, room, sizeof *fold);
        if (!fold) {
            l->st = tiny_ctx_status(l->ctx);
            return NULL;
        }
        if (f->n) memcpy(fold, f->fold, f->n * sizeof *fold);
        tiny_free(l->ctx, f->fold);
        f->fold = fold;
        f->room = room;
    }
    fold = &f->fold[f->n++];
    memset(fold, 0, sizeof *fold);
    fold->kind = kind;
    fold->layer = layer;
    fold->n = n;
    tinyi_fold_none(l, layer, kind, NULL);
    return fold;
}
/* rows from row on of w and, where there is one, of its bias */
static void tinyi_fold_from(tinyi_fold_list *l, tllm_fold *fold, const tinyi_lm_w *w, tiny_idx row)
{
    const tllm_gguf_tensor *bias = w->bias ? tinyi_fold_bias(l->f->file, w->t) : NULL;
    fold->from[fold->n_from].t = w->t;
    fold->from[fold->n_from].vector = w->v != NULL;
    fold->from[fold->n_from++].row = row;
    if (!bias) return;
    fold->from[fold->n_from].t = bias;
    fold->from[fold->n_from].vector = 1;
    fold->from[fold->n_from++].row = row;
}
static void tinyi_fold_to(tllm_fold *fold, const tinyi_lm_w *w, tiny_idx mat, tiny_idx n_mat)
{
    if (!w) return;
    fold->to[fold->n_to].t = w->t;
    fold->to[fold->n_to].vector = w->v != NULL;
    fold->to[fold->n_to].mat = mat;
    fold->to[fold->n_to++].n_mat = n_mat;
}
static tllm_fold *tinyi_fold_of_norm(tinyi_fold_list *l, const tinyi_lm_layer *layer, int kind, const tinyi_lm_w *norm)
{
    tllm_fold *fold = tinyi_fold_new(l, layer->i, kind, norm->n_in);
    if (!fold) return NULL;
    tinyi_fold_from(l, fold, norm, 0);
    fold->from_norm = 1;
    return fold;
}
static void tinyi_fold_reads_mix(tllm_fold *fold, const tinyi_lm_layer *a)
{
    tinyi_fold_to(fold, a->w[TINYI_T_ATTN_GATE], 0, 1);
    tinyi_fold_to(fold, a->w[TINYI_T_INDEX_BLOCK_Q], 0, 1);
    tinyi_fold_to(fold, a->w[TINYI_T_INDEX_BLOCK_K], 0, 1);
    tinyi_fold_to(fold, a->w[TINYI_T_ATTN_QKV], 0, 1);
    if (a->w[TINYI_T_ATTN_QKV]) return;
    tinyi_fold_to(fold, a->w[TINYI_T_ATTN_Q], 0, 1);
    tinyi_fold_to(fold, a->w[TINYI_T_ATTN_K], 0, 1);
    tinyi_fold_to(fold, a->w[TINYI_T_ATTN_V], 0, 1);
}
static void tinyi_fold_reads_feed(tllm_fold *fold, const tllm_model *m, const tinyi_lm_layer *a)
{
    static const int dense[] = { TINYI_T_FFN_GATE, TINYI_T_FFN_UP };
    static const int experts[] = { TINYI_T_GATE_EXPS, TINYI_T_UP_EXPS, TINYI_T_GATE_UP_EXPS };
    static const int shared[] = { TINYI_T_GATE_SHEXP, TINYI_T_UP_SHEXP, TINYI_T_ROUTER_SHEXP };
    int k;
    if (!a->moe) {
        for (k = 0; k < 2; k++) tinyi_fold_to(fold, a->w[dense[k]], 0, 1);
        return;
    }
    if (!(TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_ROUTER_EARLY)) tinyi_fold_to(fold, a->w[TINYI_T_ROUTER], 0, 1);
    tinyi_fold_to(fold, a->w[TINYI_T_ROUTED_DOWN], 0, 1);
    for (k = 0; k < 3 && !a->w[TINYI_T_ROUTED_DOWN]; k++) tinyi_fold_to(fold, a->w[experts[k]], 0, m->n_expert);
    for (k = 0; k < 3; k++) tinyi_fold_to(fold, a->w[shared[k]], 0, 1);
}

/* is the attention alone in the first half? */
static const char *tinyi_fold_mixes(const tinyi_lm_layer *a)
{
    if (a->mix == TINYI_LM_NO_MIX) return "the layer has no attention";
    if (a->mix2 != TINYI_LM_NO_MIX) return "the attention shares its input with a second mixer, which is not folded";
    if (a->mix == TINYI_LM_MLA) return "latent attention is not folded";
    if (a->mix != TINYI_LM_ATTN) return "the mixer of the layer is not attention";
    return NULL;
}

/* the norm before a half of the layer: kind MIX or FEED */
static void tinyi_fold_norms(tinyi_fold_list *l, const tinyi_lm_layer *a, int kind)
{
    const tllm_model *m = l->m;
    const char *mixes = tinyi_fold_mixes(a);
    const int side = a->moe && (TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_SIDE_BY_SIDE);
    const int parallel = m->block == TINYI_LM_PARALLEL;
    /* the norm that the network reads, if it is not its own, is that of the attention: both are then in one fold */
    const int both = a->ffn && a->norm1 && a->mix != TINYI_LM_NO_MIX && !a->norm2 &&
                     (parallel || !(TINYI_LM_ARCH(m)->attn & TINYI_LM_A_NO_FFN_NORM));
    const tinyi_lm_w *own = parallel ? a->w[TINYI_T_ATTN_NORM_2] : NULL;
    tllm_fold *fold;
    if (m->block == TINYI_LM_POST) {
        tinyi_fold_none(l, a->i, kind, "the norms come after the sums: this half reads the stream itself");
        return;
    }
    if (kind == TLLM_FOLD_MIX) {
        if (mixes) tinyi_fold_none(l, a->i, kind, mixes);
        else if (!a->norm1) tinyi_fold_none(l, a->i, kind, "there is no norm before the attention");
        else if ((fold = tinyi_fold_of_norm(l, a, kind, own ? own : a->norm1)) != NULL) {
            tinyi_fold_reads_mix(fold, a);
            if (both && !own) tinyi_fold_reads_feed(fold, m, a);
        }
        return;
    }
    if (!a->ffn) tinyi_fold_none(l, a->i, kind, "the layer has no network");
    else if (side)
        tinyi_fold_none(l, a->i, kind, "dense network and experts run in parallel, with separate norms");
    else if (both && !own)
        tinyi_fold_none(l, a->i, kind,
                        mixes ? mixes : "the network reads the norm of the attention, and belongs to its fold");
    else {
        const tinyi_lm_w *norm = a->norm2 ? a->norm2 : both || a->mix == TINYI_LM_NO_MIX ? a->norm1 : NULL;
        if (!norm) tinyi_fold_none(l, a->i, kind, "there is no norm before the network");
        else if ((fold = tinyi_fold_of_norm(l, a, kind, norm)) != NULL) tinyi_fold_reads_feed(fold, m, a);
    }
}

static void tinyi_fold_value(tinyi_fold_list *l, const tinyi_lm_layer *a)
{
    const tllm_model *m = l->m;
    const tiny_idx n = a->n_head * a->d_v;
    const char *why = tinyi_fold_mixes(a);
    tllm_fold *fold;
    tiny_idx i;
    /* only the output may read it */
    if (a->mix == TINYI_LM_ATTN && a->w[TINYI_T_ATTN_SUB_NORM] && !(m->rotated & TLLM_ROTATE_HEADS)) {
        fold = tinyi_fold_of_norm(l, a, TLLM_FOLD_VALUE, a->w[TINYI_T_ATTN_SUB_NORM]);
        if (fold) tinyi_fold_to(fold, a->w[TINYI_T_ATTN_OUT], 0, 1);
        return;
    }
    if (a->mix == TINYI_LM_ATTN) why = NULL;
    for (i = 0; l->share && i < m->n_layer && !why; i++)
        if (i != a->i && m->layer[i].mix == TINYI_LM_ATTN && m->layer[i].kv_from == a->kv_from)
            why = "several layers share these values";
    if (!why && a->n_head != a->n_kv) why = "several heads share a value head: their factors would have to be equal";
    if (!why && TINYI_LM_ARCH(m)->attn & TINYI_LM_A_V_PLAIN) why = "values are normed, which takes a factor away";
    if (!why && m->clamp_kqv > 0.0f) why = "values are clamped";
    if (!why && m->rotated & TLLM_ROTATE_HEADS) why = "heads are rotated between values and output";
    if (!why && !a->w[TINYI_T_ATTN_QKV] && !a->w[TINYI_T_ATTN_V]) why = "keys serve as values";
    if (why) {
        tinyi_fold_none(l, a->i, TLLM_FOLD_VALUE, why);
        return;
    }
    fold = tinyi_fold_new(l, a->i, TLLM_FOLD_VALUE, n);
    if (!fold) return;
    if (a->w[TINYI_T_ATTN_QKV]) tinyi_fold_from(l, fold, a->w[TINYI_T_ATTN_QKV], (a->n_head + a->n_kv) * a->d_k);
    else tinyi_fold_from(l, fold, a->w[TINYI_T_ATTN_V], 0);
    tinyi_fold_to(fold, a->w[TINYI_T_ATTN_OUT], 0, 1);
}

/* one network: up of n_mat matrices, each with the rows of a gate before its own where wide says so */
static void tinyi_fold_network(tinyi_fold_list *l, const tinyi_lm_layer *a, const tinyi_lm_w *gate,
                               const tinyi_lm_w *up, const tinyi_lm_w *down)
{
    const int act = TINYI_LM_ARCH(l->m)->act;
    const char *why = NULL;
    tiny_idx e, ff, wide;
    if (!up || !down) return;
    ff = down->n_in;
    wide = up->n_out == 2 * ff;
    if (act == TINYI_LM_CLAMPED || (down == a->w[TINYI_T_DOWN_EXPS] ? a->clamp_exp : a->clamp_shared) > 0.0f)
        why = "up is clamped before it is multiplied";
    else if (act == TINYI_LM_SITU && l->m->situ[1] > 0.0f) why = "up is bent before it is multiplied";
    else if (!gate && !wide && act != TINYI_LM_RELU) why = "without a gate, the activation is between up and down";
    if (why) {
        tinyi_fold_none(l, a->i, TLLM_FOLD_DOWN, why);
        return;
    }
    for (e = 0; e < down->n_mat; e++) {
        tllm_fold *fold = tinyi_fold_new(l, a->i, TLLM_FOLD_DOWN, ff);
        if (!fold) return;
        tinyi_fold_from(l, fold, up, e * up->n_out + (wide ? ff : 0));
        tinyi_fold_to(fold, down, e, 1);
    }
}

static void tinyi_fold_down(tinyi_fold_list *l, const tinyi_lm_layer *a)
{
    const tinyi_lm_w *const *w = a->w;
    if (!a->ffn) {
        tinyi_fold_none(l, a->i, TLLM_FOLD_DOWN, "the layer has no network");
        return;
    }
    if (l->m->rotated & TLLM_ROTATE_FEED) {
        tinyi_fold_none(l, a->i, TLLM_FOLD_DOWN, "networks are rotated between up and down");
        return;
    }
    if (w[TINYI_T_FFN_DOWN] && w[TINYI_T_FFN_SUB_NORM]) {
        tllm_fold *fold = tinyi_fold_of_norm(l, a, TLLM_FOLD_DOWN, w[TINYI_T_FFN_SUB_NORM]);
        if (fold) tinyi_fold_to(fold, w[TINYI_T_FFN_DOWN], 0, 1);
    } else tinyi_fold_network(l, a, w[TINYI_T_FFN_GATE], w[TINYI_T_FFN_UP], w[TINYI_T_FFN_DOWN]);
    if (!a->moe) return;
    tinyi_fold_network(l, a, w[TINYI_T_GATE_EXPS],
                       w[TINYI_T_GATE_UP_EXPS] ? w[TINYI_T_GATE_UP_EXPS] : w[TINYI_T_UP_EXPS], w[TINYI_T_DOWN_EXPS]);
    tinyi_fold_network(l, a, w[TINYI_T_GATE_SHEXP], w[TINYI_T_UP_SHEXP], w[TINYI_T_DOWN_SHEXP]);
}

static void tinyi_fold_output(tinyi_fold_list *l)
{
    const tllm_model *m = l->m;
    const tinyi_lm_w *norm = TINYI_LM_ARCH(m)->top & TINYI_LM_T_OUTPUT_IS_EMBD ? m->top.w[TINYI_T_TOKEN_EMBD_NORM]
                                                                               : m->top.w[TINYI_T_OUTPUT_NORM];
    tllm_fold *fold;
    if (m->output != TLLM_LOGITS) tinyi_fold_none(l, -1, TLLM_FOLD_OUTPUT, "the model gives no logits");
    else if (m->output_w != m->top.w[TINYI_T_OUTPUT])
        tinyi_fold_none(l, -1, TLLM_FOLD_OUTPUT, "the embedding gives the logits, and is also read row by row");
    else if (!norm) tinyi_fold_none(l, -1, TLLM_FOLD_OUTPUT, "there is no norm before the logits");
    else if ((fold = tinyi_fold_of_norm(l, &m->top, TLLM_FOLD_OUTPUT, norm)) != NULL)
        tinyi_fold_to(fold, m->output_w, 0, 1);
}

TINYI_FN tiny_status tinyi_fold_make(tiny_ctx *ctx, tllm_folds *f, const tllm_model *m)
{
    const tinyi_lm_arch *arch = TINYI_LM_ARCH(m);
    tinyi_fold_list l;
    tiny_idx i;
    size_t k;
    memset(&l, 0, sizeof l);
    l.ctx = ctx;
    l.f = f;
    l.m = m;
    if (arch->top & TINYI_LM_T_T5 || m->n_enc)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "fold: %s: %s has an encoder and a decoder that share inputs; folds are not supported",
                          m->path, arch->name);
    if (arch->block == TINYI_LM_ALTUP)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "fold: %s: the four streams of %s read each other; folds are not supported", m->path,
                          arch->name);
    if (arch->ffn & TINYI_LM_F_CHANNEL || arch->mixer == TINYI_LM_RWKV6 || arch->mixer == TINYI_LM_RWKV7)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "fold: %s: %s mixes its norms with the previous token; folds are not supported", m->path,
                          arch->name);
    if (m->n_once < m->n_layer)
        return tinyi_fail(
            ctx, TINY_E_UNSUPPORTED,
            "fold: %s: the layers of %s run several times with the same weights; folds are not supported", m->path,
            arch->name);
    f->n_layer = m->n_layer;
    f->why = (const char **)tinyi_alloc(ctx, ((size_t)m->n_layer + 1) * TLLM_FOLD_KINDS, sizeof *f->why);
    if (!f->why) return tiny_ctx_status(ctx);
    for (k = 0; k < ((size_t)m->n_layer + 1) * TLLM_FOLD_KINDS; k++)
        f->why[k] = k < TLLM_FOLD_KINDS ? "it belongs to a layer" : "it belongs to no layer";
    for (i = 0; i < m->n_layer; i++) l.share |= m->layer[i].mix == TINYI_LM_ATTN && m->layer[i].kv_from != i;
    for (i = 0; i < m->n_layer; i++) {
        tinyi_fold_norms(&l, &m->layer[i], TLLM_FOLD_MIX);
        tinyi_fold_value(&l, &m->layer[i]);
        tinyi_fold_norms(&l, &m->layer[i], TLLM_FOLD_FEED);
        tinyi_fold_down(&l, &m->layer[i]);
    }
    tinyi_fold_output(&l);
    if (l.st) return l.st;
    f->n_item = tllm_gguf_n_tensors(f->file);
    f->item = (tinyi_fold_item *)tinyi_alloc(ctx, f->n_item ? f->n_item : 1, sizeof *f->item);
    if (!f->item) return tiny_ctx_status(ctx);
    memset(f->item, 0, f->n_item * sizeof *f->item);
    for (k = 0; k < f->n_item; k++) {
        f->item[k].t = tllm_gguf_tensor_at(f->file, k);
        f->item[k].vector = f->item[k].t->rank <= 1;
    }
    for (k = 0; k < f->n; k++) {            /* biases of experts, and norms, have more axes in some files */
        int e;
        for (e = 0; e < f->fold[k].n_from; e++)
            tinyi_fold_item_of(f, f->fold[k].from[e].t)->vector |= f->fold[k].from[e].vector;
        for (e = 0; e < f->fold[k].n_to; e++)
            tinyi_fold_item_of(f, f->fold[k].to[e].t)->vector |= f->fold[k].to[e].vector;
    }
    for (k = 0; k < f->n_item; k++) {
        tinyi_fold_item *it = &f->item[k];
        int d;
        it->len = it->vector ? 1 : (tiny_idx)it->t->dim[0];
        it->rows = it->vector ? (tiny_idx)it->t->dim[0] : 1;
        for (d = 1; d < it->t->rank; d++) it->rows *= (tiny_idx)it->t->dim[d];
        it->n_mat = !it->vector && it->t->dim[1] ? it->rows / (tiny_idx)it->t->dim[1] : 1;
    }
    return TINY_OK;
}

