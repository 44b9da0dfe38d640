/* src/llm/model/forward.c - states, and the forward pass: embedding, layers, output
 *
 * The pass is written once. A dry run only counts the scratch memory that the pass needs. The size of a state is thus
 * known before anything is computed, and cannot differ from the real need.
 * Rows    The last layer that keeps something of each token (keys, a state) drops the rows whose results are not
 *         wanted, as soon as it has kept it. A prompt of which only the last row is wanted saves most of that layer,
 *         and all of the layers after it. A piece without wanted rows ends there. Left out: hyper-connections
 *         (deepseek4) and saved streams (kimi-k3), whose layers mix the streams of all rows. */
#include "llm/model/model_inside.h"
#include <string.h>

#define TINYI_LM_STATE_MAGIC 0x74617473u
#define TINYI_LM_BATCH \
    128 /* tokens at once: weights are unpacked so often that it costs little, and scratch memory is small yet */

/* ---- rows that are not wanted ----------------------------------------------------------------------------------- */

/* Later tokens read the keys, values and states of a layer, but its results only where they are wanted. */
static void tinyi_lm_gather(tinyi_lm_fwd *f, float *x, tiny_idx d)
{
    tiny_idx i;
    for (i = 0; i < f->n_want; i++)         /* want goes up: no row is overwritten before it is read */
        if (f->want[i] != i) tinyi_lm_copy(f, x + i * d, d, x + f->want[i] * d, d, 1, d);
}

TINYI_FN void tinyi_lm_narrow(tinyi_lm_fwd *f, float *also, tiny_idx ld)
{
    tllm_state *s = f->s;
    tiny_idx i, at = 0, n_run = 0;
    if (also) tinyi_lm_gather(f, also, ld);
    for (i = 0; i < f->n_in_layer; i++) tinyi_lm_gather(f, f->in_layer[i], f->d_layer);
    for (i = 0; i < f->m->n_rope; i++) {
        tinyi_lm_gather(f, f->rope_cos[i], f->m->rope[i].n_rot / 2);
        tinyi_lm_gather(f, f->rope_sin[i], f->m->rope[i].n_rot / 2);
    }
    if (f->ple) tinyi_lm_gather(f, f->ple, f->m->n_ple * f->m->n_layer);
    for (i = 0; i < f->n_want; i++) {
        memmove(s->row + 4 * i, s->row + 4 * f->want[i], 4 * sizeof *s->row);
        s->token[i] = s->token[f->want[i]];
    }
    for (i = 0; i < f->n_run; i++) {
        const tinyi_lm_span r = s->run[i];
        tinyi_lm_span *to = &s->run[n_run];
        const tiny_idx first = at;
        while (at < f->n_want && f->want[at] < r.row0 + r.n) at++;
        if (at == first) continue;
        to->seq = r.seq;
        to->row0 = first;
        to->n = at - first;
        to->at0 = r.at0 + r.n - to->n;      /* its sequence holds as many cells as before */
        n_run++;
    }
    f->n_run = n_run;
    f->n = f->n_want;
    f->ladder.n = f->n * f->m->n_embd;
    f->want = NULL;
    if (f->tree) f->tree = f->n && !f->st ? tinyi_lm_tree(f) : NULL;
}

/* The last layer that needs all tokens, as it keeps something of each; -1: none does. Those after it have no network
 * that looks back, and no keys or those of an earlier layer. */
static tiny_idx tinyi_lm_deepest(const tllm_model *m)
{
    tiny_idx i = m->n_layer - 1;
    while (i >= 0) {
        const tinyi_lm_layer *l = &m->layer[i];
        if (TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_CHANNEL || l->mix2 != TINYI_LM_NO_MIX || l->w[TINYI_T_INDEX_BLOCK_Q])
            break;
        if (l->mix != TINYI_LM_NO_MIX && (l->kv_from == i || tinyi_lm_mixer_of(l->mix)->kept)) break;
        i--;
    }
    return i;
}

/* May a piece go on with the wanted rows alone? Then *last is the last layer that runs on all of them. */
static int tinyi_lm_narrows(const tinyi_lm_fwd *f, tiny_idx *last)
{
    const tllm_model *m = f->m;
    const tiny_accel *accel = f->ctx->desc.accel;
    if (f->dry || f->encoding || TINYI_LM_ARCH(m)->block == TINYI_LM_HYPER || m->bank > 0) return 0;
    if (accel && accel->version > 2 && accel->all_rows) return 0;
    *last = tinyi_lm_deepest(m);
    /* a sum of all rows may be in flight otherwise */
    return *last >= 0 &&
           (!f->ladder.y[0] || (*last == m->n_layer - 1 && m->layer[*last].route[0] == TLLM_ROUTE_STANDARD &&
                                m->layer[*last].route[1] == TLLM_ROUTE_STANDARD));
}

/* ---- layers ----------------------------------------------------------------------------------------------------- */

/* y (f->n, d_mid) afterwards: fewer rows than before where the pass goes on with those that are wanted */
TINYI_FN void tinyi_lm_mix(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    if (TINYI_LM_DISK(f->m)) tinyi_lm_disk_enter(f, l->i, 0);
    if (f->st) return;
    tinyi_lm_mixer_of(l->mix)->run(f, l, y, h);
    if (TINYI_LM_DISK(f->m)) tinyi_lm_disk_leave(f, l->i, 0);
    if (l->mix2 != TINYI_LM_NO_MIX) {
        const size_t used = f->used;
        float *z = tinyi_lm_take(f, f->n, f->m->n_embd);
        tinyi_lm_mixer_of(l->mix2)->run(f, l, z, h);
        tinyi_lm_add(f, y, y, z, f->n * f->m->n_embd);
        f->used = used;
    }
    if (f->want) tinyi_lm_narrow(f, y, l->d_mid);
}

TINYI_FN void tinyi_lm_feed(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    if (TINYI_HAS(CLUSTER) && f->s->ear && f->s->ear->layer == l->i && !f->st && !f->dry) {
        tinyi_lm_ear *e = f->s->ear;
        e->n = (size_t)f->n <= e->room / (size_t)f->m->n_embd ? f->n : 0;
        tinyi_lm_host(f, h, e->n * f->m->n_embd);
        if (e->n) memcpy(e->h, h, (size_t)(e->n * f->m->n_embd) * sizeof *h);
    }
    if (TINYI_LM_ARCH(f->m)->ffn & TINYI_LM_F_CHANNEL) tinyi_lm_channel_run(f, l, y, h);
    else tinyi_lm_ffn_run(f, l, y, h);
}

/* ---- how a half reaches the stream ------------------------------------------------------------------------------ */

TINYI_FN int tinyi_lm_can_ladder(const tllm_model *m, const tinyi_lm_layer *l)
{
    return m->block == TINYI_LM_PRE && TINYI_LM_ARCH(m)->block == TINYI_LM_PRE && l->mix != TINYI_LM_NO_MIX &&
           !TINYI_LM_SLICED(m) &&
           l->norm1 && l->norm2 && !l->cross && !m->n_ple && m->rescale <= 0 && m->bank <= 0 &&
           !l->w[TINYI_T_LAYER_SCALE] &&
           !(TINYI_LM_ARCH(m)->ffn & (TINYI_LM_F_SIDE_BY_SIDE | TINYI_LM_F_ROUTER_EARLY)) &&
           (l->ffn || TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_CHANNEL);
}

/* what becomes of the result of a half before it is added */
TINYI_FN void tinyi_lm_settle(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int half, float *y)
{
    const tinyi_lm_w *post = half ? l->post2 : l->post1;
    const tiny_idx d = half ? l->d_out : l->d_mid;
    if (post) tinyi_lm_norm(f, post, y, y, f->n, d);
    tinyi_lm_scale(f, y, y, f->m->residual_scale, f->n * d);
}
static tiny_status tinyi_lm_land(void *user, tiny_idx layer, int half, float *y)
{
    tinyi_lm_fwd *f = (tinyi_lm_fwd *)user;
    tinyi_lm_settle(f, &f->m->layer[layer], half, y);
    return f->st;
}

/* the place for the result of a half, x being what it reads */
static float *tinyi_lm_enter_half(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int half, float *x, float *y)
{
    if (!TINYI_HAS(RANKS) || !f->ladder.y[0] || f->encoding) return y;
    if (!f->st && !f->dry) f->st = tllm_ladder_enter(&f->ladder, l->route[half], half, x);
    return f->ladder.y[half];
}
static void tinyi_lm_leave_half(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int half, float *x, float *y)
{
    if (!TINYI_HAS(RANKS) || !f->ladder.y[0] || f->encoding || f->dry) {
        tinyi_lm_settle(f, l, half, y);
        tinyi_lm_add(f, x, x, y, f->n * f->m->n_embd);
    } else if (!f->st) f->st = tllm_ladder_leave(&f->ladder, l->route[half], half, l->i, x);
}

TINYI_FN void tinyi_lm_layer_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x)
{
    const tllm_model *m = f->m;
    const tinyi_lm_arch *a = TINYI_LM_ARCH(m);
    const tiny_idx D = m->n_embd;
    const size_t used = f->used;
    tiny_idx n = f->n;
    float *h, *y, *z;
    if (TINYI_LM_SLICED(m)) { tinyi_lm_sliced_run(f, l, x); return; }
    h = tinyi_lm_take(f, n, D);
    y = tinyi_lm_take(f, n, D);
    if (f->st) return;
    f->layer_in = x;
    f->in_layer[0] = x;
    f->in_layer[1] = h;
    f->n_in_layer = 2;
    f->d_layer = D;
    if (m->block == TINYI_LM_POST) {
        if (l->w[TINYI_T_ATTN_NORM_2]) tinyi_lm_copy(f, h, D, x, D, n, D);
        tinyi_lm_mix(f, l, y, x);
        if ((n = f->n) == 0) { f->used = used; return; }
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
        if (f->st) return;
        tinyi_lm_norm(f, l->norm1, h, x, n, D);
        if (TINYI_LM_X_BITS(f->s)) tinyi_lm_few_bits(f, h, n, D);
        if (l->w[TINYI_T_ATTN_NORM_2]) {    /* falcon 40B: the attention has a norm of its own */
            tinyi_lm_norm(f, l->w[TINYI_T_ATTN_NORM_2], z, x, n, D);
            if (TINYI_LM_X_BITS(f->s)) tinyi_lm_few_bits(f, z, n, D);
            f->in_layer[f->n_in_layer++] = z;
            tinyi_lm_mix(f, l, y, z);
        } else tinyi_lm_mix(f, l, y, h);
        if ((n = f->n) == 0) { f->used = used; return; }
        if (l->norm2) tinyi_lm_norm(f, l->norm2, h, x, n, D);
        if (TINYI_LM_X_BITS(f->s) && l->norm2) tinyi_lm_few_bits(f, h, n, D);
        tinyi_lm_feed(f, l, z, h);
        tinyi_lm_add(f, x, x, y, n * D);
        tinyi_lm_add(f, x, x, z, n * D);
    } else if (l->mix == TINYI_LM_NO_MIX) {
        tinyi_lm_norm(f, l->norm1, h, x, n, D);
        tinyi_lm_feed(f, l, y, h);
        tinyi_lm_add(f, x, x, y, n * D);
    } else if (a->keys & TINYI_LM_K_BANK &&
               m->bank > 0) { /* what a half reads is mixed from streams that were put by and the one of now */
        const int put = l->i % m->bank == 0;
        tinyi_lm_bank_mix(f, l->w[TINYI_T_ATTN_RES], y, x);
        tinyi_lm_norm(f, l->norm1, h, y, n, D);
        tinyi_lm_mix(f, l, y, h);
        if (put) {                          /* and the stream begins anew */
            tinyi_lm_bank_put(f, x);
            tinyi_lm_copy(f, x, D, y, D, n, D);
        } else tinyi_lm_add(f, x, x, y, n * D);
        tinyi_lm_bank_mix(f, l->w[TINYI_T_FFN_RES], y, x);
        tinyi_lm_norm(f, l->norm2, h, y, n, D);
        tinyi_lm_feed(f, l, y, h);
        tinyi_lm_add(f, x, x, y, n * D);
    } else {
        const int early = (a->ffn & TINYI_LM_F_ROUTER_EARLY) != 0;
        float *first = early ? tinyi_lm_take(f, n, D) : NULL;
        if (early) {
            tinyi_lm_copy(f, first, D, x, D, n, D);
            f->layer_in = f->in_layer[f->n_in_layer++] = first;
        }
        y = tinyi_lm_enter_half(f, l, 0, x, y);
        if (l->norm1) tinyi_lm_norm(f, l->norm1, h, x, n, D);
        if (TINYI_LM_X_BITS(f->s)) tinyi_lm_few_bits(f, h, n, D);
        tinyi_lm_mix(f, l, y, l->norm1 ? h : x);
        if ((n = f->n) == 0) { f->used = used; return; }
        tinyi_lm_leave_half(f, l, 0, x, y);
        if (l->cross) {
            tinyi_lm_norm(f, l->w[TINYI_T_CROSS_NORM], h, x, n, D);
            tinyi_lm_attn_cross(f, l, y, h);
            tinyi_lm_add(f, x, x, y, n * D);
        }
        if (a->ffn & TINYI_LM_F_CHANNEL || l->ffn) {
            y = tinyi_lm_enter_half(f, l, 1, x, y);
            if (l->moe && a->ffn & TINYI_LM_F_SIDE_BY_SIDE) tinyi_lm_side_run(f, l, y, x);
            else {
                /* stablelm without a norm of its own feeds the normed input of the layer to both */
                if (l->norm2) tinyi_lm_norm(f, l->norm2, h, x, n, D);
                if (TINYI_LM_X_BITS(f->s) && l->norm2) tinyi_lm_few_bits(f, h, n, D);
                tinyi_lm_feed(f, l, y, l->norm2 || a->attn & TINYI_LM_A_NO_FFN_NORM ? (l->norm2 ? h : x) : h);
            }
            tinyi_lm_leave_half(f, l, 1, x, y);
        }
    }
    if (l->w[TINYI_T_INP_GATE] && a->block != TINYI_LM_ALTUP) tinyi_lm_ple_add(f, l, x);
    if (m->rescale > 0 && (l->i + 1) % m->rescale == 0) tinyi_lm_scale(f, x, x, 0.5f, n * D);
    if (l->w[TINYI_T_LAYER_SCALE]) tinyi_lm_scale(f, x, x, l->w[TINYI_T_LAYER_SCALE]->v[0], n * D);
    f->used = used;
}

/* ---- one piece -------------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_embed(tinyi_lm_fwd *f, float *x)
{
    const tllm_model *m = f->m;
    const tinyi_lm_w *pos = m->top.w[TINYI_T_POSITION_EMBD], *types = m->top.w[TINYI_T_TOKEN_TYPES];
    const tiny_idx n = f->n, D = m->d_first;
    const size_t used = f->used;
    const int hides = TINYI_HAS(RANKS) && f->s && TINYI_LM_COMM(f->s) && f->s->hides_tokens && !f->dry;
    float *row = tinyi_lm_take(f, 1, D);
    tiny_idx i;
    if (!hides || !m->rank) {
        tinyi_lm_rows(f, m->top.w[TINYI_T_TOKEN_EMBD], x, f->tokens, n);
        tinyi_lm_adapt_embd(f, x, f->tokens, n);
    } else memset(x, 0, (size_t)(n * D) * sizeof *x);
    /* the others add zeros; a tag above those of layers, which no format narrows and no audit hears */
    if (hides && !f->st) f->st = tiny_allreduce(TINYI_LM_COMM(f->s), x, (size_t)(n * D), 249);
    tinyi_lm_scale(f, x, x, m->embd_scale, n * D);
    for (i = 0; (pos || types) && i < n && !f->st && !f->dry; i++) {
        const int32_t zero = 0, at = f->row[4 * i + 3];
        if (types) {
            tinyi_lm_rows(f, types, row, &zero, 1);
            tinyi_lm_add(f, x + i * D, x + i * D, row, D);
        }
        if (pos) {
            tinyi_lm_rows(f, pos, row, &at, 1);
            tinyi_lm_add(f, x + i * D, x + i * D, row, D);
        }
    }
    if (TINYI_LM_ARCH(m)->top & TINYI_LM_T_EMBD_NORM && !TINYI_LM_SLICED(m))
        tinyi_lm_norm(f, m->top.w[TINYI_T_TOKEN_EMBD_NORM], x, x, n, D);
    f->used = used;
}

/* x: hidden states of rows tokens; out: results */
static void tinyi_lm_results(tinyi_lm_fwd *f, float *x, tiny_idx rows, float *out)
{
    const tllm_model *m = f->m;
    const tiny_idx D = m->d_last;
    const tinyi_lm_w *norm = TINYI_LM_ARCH(m)->top & TINYI_LM_T_OUTPUT_IS_EMBD ? m->top.w[TINYI_T_TOKEN_EMBD_NORM]
                                                                               : m->top.w[TINYI_T_OUTPUT_NORM];
    if (norm) tinyi_lm_norm(f, norm, x, x, rows, D);
    if (!out) return;
    if (TINYI_LM_OUTPUT(m) == TLLM_HIDDEN) tinyi_lm_copy(f, out, D, x, D, rows, D);
    else if (TINYI_LM_OUTPUT(m) == TLLM_RANK) {
        /* the first token, through a layer of its own where there is one; no softmax */
        if (f->encoding) {
            if (m->top.w[TINYI_T_CLS]) {
                tinyi_lm_linear(f, m->top.w[TINYI_T_CLS], x + D, x, 1);
                tinyi_lm_run(f, TINY_OP_TANH, x, x + D, NULL, D);
            }
            tinyi_lm_linear(f, m->top.w[TINYI_T_CLS_OUTPUT], out, x, 1);
            return;
        }
        tinyi_lm_linear(f, m->top.w[TINYI_T_CLS_OUTPUT], out, x, rows);
        tinyi_lm_softmax(f, out, out, rows, m->n_label);
    } else {
        if (TINYI_LM_DISK(m)) tinyi_lm_disk_enter(f, m->n_layer, 2);
        tinyi_lm_linear(f, m->output_w, out, x, rows);
        if (TINYI_LM_DISK(m)) tinyi_lm_disk_leave(f, m->n_layer, 2);
        tinyi_lm_scale(f, out, out, m->logit_scale, rows * m->n_vocab);
        tinyi_lm_cap(f, out, m->logit_cap, rows * m->n_vocab);
    }
}

/* want: the rows with results, in order */
static void tinyi_lm_piece(tinyi_lm_fwd *f, tiny_idx rows, const int32_t *want, float *out)
{
    const tllm_model *m = f->m;
    const int several = TINYI_LM_ARCH(m)->block == TINYI_LM_HYPER, altup = TINYI_LM_ARCH(m)->block == TINYI_LM_ALTUP;
    const tiny_idx streams = altup ? 4 : several ? m->n_hyper : 1;
    const int enc = TINYI_HAS(ENCODERS) && f->encoding && TINYI_LM_N_ENC(m) > 0;
    const tiny_idx n = f->n, D = m->n_embd, n_layer = enc ? TINYI_LM_N_ENC(m) : m->n_layer;
    const tinyi_lm_layer *layer = enc ? m->enc : m->layer;
    float *x;
    tiny_idx i, j, last = -1;
    int few;
    f->used = 0;
    x = tinyi_lm_take(f, streams * n + 1, D);  /* a row more: rerankers need it for one token */
    tinyi_lm_rope_tables(f);
    if (f->s->order && !f->dry && !f->st) f->s->order->begin(f->s->order, f);
    if (f->st) return;
    if (TINYI_LM_RING(m)) tinyi_lm_ring_begin(f, rows, want);
    if (!TINYI_LM_RING(m) || f->dry || tinyi_lm_ring_head(m)) tinyi_lm_embed(f, x);
    f->embd = x;
    if (TINYI_LM_ARCH(m)->mixer == TINYI_LM_RWKV7) f->first_v = tinyi_lm_take(f, n, D);
    if (m->n_ple > 0) tinyi_lm_ple_inputs(f);
    if (altup) tinyi_lm_altup_start(f, x);
    if (several) tinyi_lm_hyper_start(f, x);
    if (TINYI_LM_ARCH(m)->keys & TINYI_LM_K_BANK && m->bank > 0) tinyi_lm_bank_open(f);
    if (TINYI_LM_ROUTES(m) || TINYI_LM_COMM(f->s)) {
        f->ladder.ctx = f->ctx;
        f->ladder.comm = TINYI_LM_COMM(f->s);
        f->ladder.n = n * D;
        f->ladder.y[0] = tinyi_lm_take(f, n, D);
        f->ladder.y[1] = tinyi_lm_take(f, n, D);
        f->ladder.land = tinyi_lm_land;
        f->ladder.user = f;
    }
    few = want && rows < n && tinyi_lm_narrows(f, &last);
    for (i = 0; i < n_layer && !f->st; i++) {
        if (f->ctx->desc.cancel && !f->dry && f->ctx->desc.cancel(f->ctx->desc.user)) {
            f->st = tinyi_fail(f->ctx, TINY_E_CANCELLED, "%s: stopped before layer %td of %td", m->path, i, n_layer);
            return;
        }
        if (f->s->order && !f->dry) {
            const tiny_idx n_done = f->s->order->group(f->s->order, f, i, x);
            if (n_done) {
                i += n_done - 1;
                continue;
            }
        }
        f->want = few && i == last && !altup && !(TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_CHANNEL) ? want : NULL;
        f->n_want = rows;
        if (TINYI_LM_RING(m) && !tinyi_lm_ring_here(f, i, x)) {        /* only the rows that go on matter here */
            f->n_in_layer = 0;
            if (f->want) tinyi_lm_narrow(f, NULL, 0);
            if (!f->n) return;
            continue;
        }
        if (altup) tinyi_lm_altup_layer(f, &layer[i], x);
        else if (several) tinyi_lm_hyper_layer(f, &layer[i], x);
        else tinyi_lm_layer_run(f, &layer[i], x);
        if (few && i == last && f->n == n) {        /* it does not do so inside */
            f->want = want;
            f->n_in_layer = 0;
            for (j = 0; j < streams; j++) {     /* a sliced stream is one, and narrows inside */
                tinyi_lm_gather(f, x + j * n * D, D);
                if (j) tinyi_lm_copy(f, x + j * rows * D, D, x + j * n * D, D, rows, D);
            }
            tinyi_lm_narrow(f, NULL, 0);
        }
        if (!f->n) return;
        tinyi_lm_steer(f, i, x);
        if (TINYI_LM_RING(m)) tinyi_lm_ring_pass(f, i, x);
        if (m->loop_norm && !enc && (i + 1) % m->n_once == 0 && i + 1 < n_layer)
            tinyi_lm_norm(f, m->top.w[TINYI_T_OUTPUT_NORM], x, x, f->n, D);
    }
    if (TINYI_LM_RING(m) && tinyi_lm_ring_ends(f, x)) return;
    if (TINYI_HAS(RANKS) && f->ladder.y[0] && !f->st && !f->dry) f->st = tllm_ladder_end(&f->ladder, x);
    if (altup) tinyi_lm_altup_end(f, x);
    if (several) tinyi_lm_hyper_end(f, x);
    if (TINYI_LM_ARCH(m)->keys & TINYI_LM_K_BANK && m->bank > 0)
        tinyi_lm_bank_mix(f, m->top.w[TINYI_T_OUTPUT_RES], x, x);
    if (enc) {
        tinyi_lm_norm(f, m->enc_norm, x, x, n, D);
        if (out) tinyi_lm_copy(f, out, D, x, D, rows, D);
        for (i = 0; i < m->n_layer && !f->st; i++) tinyi_lm_attn_cross_keys(f, &m->layer[i], x, n);
        return;
    }
    if (f->dry) rows = n;
    for (i = 0; i < rows && want && !few; i++)
        if (want[i] != i)
            tinyi_lm_copy(f, x + i * m->d_last, m->d_last, x + want[i] * m->d_last, m->d_last, 1, m->d_last);
    if (rows > 0) tinyi_lm_results(f, x, rows, f->dry ? x : out);
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

/* The reference computes each row by itself, and so does all that is made of attention over pages, products, norms and
 * networks. What looks back otherwise (recurrences, latent rows, blocks of keys) has kernels that are cut by the length
 * of a piece. */
static tiny_status tinyi_lm_may_be_exact(tiny_ctx *ctx, const tllm_model *m)
{
    const char *why = NULL;
    tiny_idx i;
    if (ctx->desc.accel) why = "with an accelerator";
    else if (m->world > 1) why = "over several ranks";
    if (!why && ctx->target == TINY_TARGET_REFERENCE) return TINY_OK;
    if (!why && (TINYI_LM_ENCODER(m) || TINYI_LM_N_ENC(m) > 0 || TINYI_LM_ARCH(m)->block > TINYI_LM_PARALLEL ||
                 m->n_ple > 0 || m->bank > 0 || TINYI_LM_SLICED(m)))
        why = "with this architecture";
    for (i = 0; i < m->n_layer && !why; i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        if (l->mix != TINYI_LM_ATTN || l->mix2 != TINYI_LM_NO_MIX || l->cross || l->w[TINYI_T_INDEX_BLOCK_Q] ||
            l->w[TINYI_T_ATTN_REL_B])
            why = "with layers other than plain attention";
    }
    if (!why) return TINY_OK;
    return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: results cannot be made independent of the batch %s", m->path, why);
}

static tiny_status tinyi_lm_desc(tiny_ctx *ctx, const tllm_model *m, const tllm_state_desc *desc, tllm_state *s)
{
    const int encoder = TINYI_LM_ENCODER(m) || TINYI_LM_N_ENC(m) > 0;
    tllm_pages_desc d;
    tinyi_lm_held h;
    tiny_idx i;
    tiny_status st;
    memset(&d, 0, sizeof d);
    s->ctx = ctx;
    s->m = m;
    s->comm = desc ? desc->comm : NULL;
    s->hides_tokens = desc && desc->hides_tokens;
    if (s->hides_tokens && (m->n_ple > 0 || TINYI_LM_SLICED(m)))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "%s: this model looks tokens up in its layers too, so all ranks need them", m->path);
    if (TINYI_LM_DISK(m) && ctx->desc.accel)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: a model that stays on disk cannot use an accelerator", m->path);
    if (!TINYI_HAS(RANKS) && s->comm)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "%s: models over several ranks are not compiled into this program",
                          m->path);
    if (TINYI_HAS(RANKS) &&
        (tiny_comm_world(TINYI_LM_COMM(s)) != m->world || tiny_comm_rank(TINYI_LM_COMM(s)) != m->rank))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: the model is cut for rank %d of %d, but the comm is rank %d of %d", m->path, m->rank,
                          m->world, tiny_comm_rank(TINYI_LM_COMM(s)), tiny_comm_world(TINYI_LM_COMM(s)));
    s->n_ctx = desc && desc->n_ctx ? desc->n_ctx : TINYI_MIN(m->n_context, 4096);
    s->n_batch = desc && desc->n_batch ? desc->n_batch : encoder ? s->n_ctx : TINYI_LM_BATCH;
    s->n_seq = desc && desc->n_seq ? desc->n_seq : 1;
    if (s->n_ctx < 1 || s->n_batch < 1 || s->n_ctx > TINYI_LM_MOST || s->n_batch > TINYI_LM_MOST)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: a state of %td tokens, %td at once: both must be in 1..%d",
                          m->path, s->n_ctx, s->n_batch, TINYI_LM_MOST);
    if (s->n_seq < 1 || s->n_seq > TINYI_LM_MOST / s->n_ctx)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: %td sequences of %td tokens: at least 1, and at most %d tokens together", m->path,
                          s->n_seq, s->n_ctx, TINYI_LM_MOST);
    if (encoder) s->n_batch = s->n_ctx;
    s->n_batch = TINYI_MIN(s->n_batch, s->n_seq * s->n_ctx);
    s->exact = desc && desc->exact;
    if (s->exact && (st = tinyi_lm_may_be_exact(ctx, m)) != TINY_OK) return st;
    if (TINYI_LM_COMM(s) && (size_t)s->n_batch > tiny_comm_most(TINYI_LM_COMM(s)) / (size_t)m->n_embd)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "%s: pieces of %td tokens need sums of %td numbers, but the comm was opened for %zu", m->path,
                          s->n_batch, m->n_embd, tiny_comm_most(TINYI_LM_COMM(s)));
    d.block = desc && desc->n_page ? desc->n_page : 16;
    d.n_seq = s->n_seq;
    d.n_most = s->n_ctx;
    if (d.block < 1 || d.block > TINYI_LM_MOST || (desc && desc->n_cells < 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: pages of %td tokens, %td together: at least 1", m->path, d.block,
                          desc->n_cells);
    d.block = TINYI_MIN(d.block, s->n_ctx);
    d.n_block = (s->n_ctx + d.block - 1) / d.block * s->n_seq;
    if (desc && desc->n_cells) d.n_block = TINYI_MIN(d.n_block, (desc->n_cells - 1) / d.block + 1);
    st = tinyi_pages_plan(ctx, &d, &s->pages);
    if (st) return st;
    s->type_k = tllm_format_of(desc ? desc->type_k : TLLM_FORMAT_F32);
    s->type_v = tllm_format_of(desc ? desc->type_v : TLLM_FORMAT_F32);
    for (i = 0; i < 2; i++) {
        const tllm_format *type = i ? s->type_v : s->type_k;
        if (!type || (type->id != TLLM_FORMAT_F32 && type->id != TLLM_FORMAT_F16 && type->id != TLLM_FORMAT_Q8_0 &&
                      type->id != TLLM_FORMAT_Q4_0))
            return tinyi_fail(
                ctx, TINY_E_UNSUPPORTED, "%s: %s cannot be kept as %s (format %d): use F32, F16, Q8_0 or Q4_0",
                m->path, i ? "values" : "keys", type ? type->name : "?", desc ? i ? desc->type_v : desc->type_k : 0);
    }
#ifndef TINYI_NO_TURNS
    s->x_bits = desc ? desc->x_bits : 0;
    s->x_clip = desc && desc->x_clip != 0.0f ? desc->x_clip : 0.9f;
    if (s->x_bits && (s->x_bits < 2 || s->x_bits > 8 || !(s->x_clip > 0.0f && s->x_clip <= 1.0f)))
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "%s: inputs of %d bits with a clip of %g: the limits are 2 to 8 bits, and a clip above 0 and at most 1",
            m->path, s->x_bits, (double)s->x_clip);
    for (i = 0; i < m->n_layer && s->x_bits; i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        if (m->block > TINYI_LM_PARALLEL || l->mix != TINYI_LM_ATTN || l->mix2 != TINYI_LM_NO_MIX || !l->norm1 ||
            l->cross || (l->moe && TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_SIDE_BY_SIDE))
            return tinyi_fail(
                ctx, TINY_E_UNSUPPORTED,
                "%s: layer %td is not attention and a network, each after a norm: its inputs cannot be rounded",
                m->path, i);
    }
#endif
    for (i = 0; i < m->n_layer && !TINYI_LM_ENCODER(m); i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        if (l->kv_from == i && (l->mix == TINYI_LM_ATTN || l->mix == TINYI_LM_MLA || l->mix == TINYI_LM_COMPRESSED) &&
            !tinyi_lm_pools(s, l, &h))
            return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                              "%s: layer %td: keys as %s and values as %s: its heads are not whole blocks", m->path, i,
                              s->type_k->name, s->type_v->name);
    }
    return TINY_OK;
}

/* Hands out, or with base NULL only counts: 0 when a size does not fit. */
static void *tinyi_lm_part(unsigned char *base, size_t *at, size_t a, size_t b, size_t each, int *ok)
{
    size_t n;
    void *p = NULL;
    if (!tinyi_size_mul(a, b, &n) || !tinyi_size_mul(n, each, &n) || n > SIZE_MAX / 4 || *at > SIZE_MAX / 4) {
        *ok = 0;
        return NULL;
    }
    if (base) p = base + *at;
    *at += (n + 63) & ~(size_t)63;
    return p;
}

static int tinyi_lm_layout(tllm_state *s, unsigned char *base, size_t *bytes)
{
    const tllm_model *m = s->m;
    const size_t seqs = (size_t)s->n_seq, batch = (size_t)s->n_batch, blocks = (size_t)s->pages.n_block;
    size_t at = 0, kept0, pages, one;
    int ok = 1;
    tiny_idx i;
    tinyi_lm_held *held;
    (void)tinyi_lm_part(base, &at, 1, 1, sizeof *s, &ok);
    s->pos = (int32_t *)tinyi_lm_part(base, &at, seqs, (size_t)s->n_ctx, sizeof(int32_t), &ok);
    s->mark = (tinyi_lm_mark *)tinyi_lm_part(base, &at, seqs, 1, sizeof *s->mark, &ok);
    s->row = (int32_t *)tinyi_lm_part(base, &at, batch, 4, sizeof(int32_t), &ok);
    s->token = (int32_t *)tinyi_lm_part(base, &at, batch, 1, sizeof(int32_t), &ok);
    s->want = (int32_t *)tinyi_lm_part(base, &at, batch, 1, sizeof(int32_t), &ok);
    s->place = (int32_t *)tinyi_lm_part(base, &at, batch, 2, sizeof(int32_t), &ok);
    s->run = (tinyi_lm_span *)tinyi_lm_part(base, &at, batch, 1, sizeof *s->run, &ok);
    if (!tinyi_pages_layout(&s->pages, base ? base + at : NULL, &pages) || !tinyi_size_add(at, pages, &at) ||
        at > SIZE_MAX / 4)
        return 0;
    held = s->held = (tinyi_lm_held *)tinyi_lm_part(base, &at, (size_t)m->n_layer, 1, sizeof *s->held, &ok);
    kept0 = at;
    for (i = 0; i < m->n_layer && ok; i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        const tinyi_lm_mixer *mix = tinyi_lm_mixer_of(l->mix), *mix2 = tinyi_lm_mixer_of(l->mix2);
        size_t n = mix->kept ? mix->kept(m, l) : 0;
        if (!n && mix2->kept) n = mix2->kept(m, l);
        if (base) memset(&held[i], 0, sizeof held[i]);
        if (mix->kept || mix2->kept) {
            float *x = (float *)tinyi_lm_part(base, &at, n, 1, sizeof(float), &ok);
            if (n == SIZE_MAX) ok = 0;
            if (base) held[i].x = x;
        }
    }
    s->kept = base ? (float *)(void *)(base + kept0) : NULL;
    one = at - kept0;
    s->n_kept = (tiny_idx)(one / sizeof(float));
    (void)tinyi_lm_part(base, &at, seqs - 1, one, 1, &ok);
    /* pages are written before they are read: memory that is not used yet stays untouched */
    s->cleared = at;
    for (i = 0; i < m->n_layer && ok; i++) {
        const tinyi_lm_layer *l = &m->layer[i];
        tinyi_lm_held h;
        tinyi_pool *pool[3];
        int k;
        if (l->kv_from != i || TINYI_LM_ENCODER(m)) continue;
        memset(&h, 0, sizeof h);
        if ((l->mix == TINYI_LM_ATTN || l->mix == TINYI_LM_MLA || l->mix == TINYI_LM_COMPRESSED) &&
            !tinyi_lm_pools(s, l, &h))
            return 0;
        pool[0] = &h.k;
        pool[1] = &h.v;
        pool[2] = &h.index;
        for (k = 0; k < 3; k++)
            if (pool[k]->type) {
                size_t rows;
                if (!tinyi_size_mul((size_t)pool[k]->n_part, (size_t)pool[k]->block, &rows) ||
                    !tinyi_size_mul(rows, blocks, &rows))
                    return 0;
                pool[k]->at = (unsigned char *)tinyi_lm_part(base, &at, rows, pool[k]->row_bytes, 1, &ok);
            }
        if (l->cross) {
            h.cross_k =
                (float *)tinyi_lm_part(base, &at, (size_t)s->n_ctx, (size_t)(l->n_kv * l->d_k), sizeof(float), &ok);
            h.cross_v =
                (float *)tinyi_lm_part(base, &at, (size_t)s->n_ctx, (size_t)(l->n_kv * l->d_v), sizeof(float), &ok);
        }
        if (base) {
            h.x = held[i].x;
            held[i] = h;
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
    /* a whole piece, a whole sequence of an encoder; one token, and few, whose products go other ways */
    for (pass = 0; pass < 4; pass++) {
        tinyi_lm_fwd f;
        memset(&f, 0, sizeof f);
        f.ctx = s->ctx;
        f.s = s;
        f.m = s->m;
        f.dry = 1;
        f.n = pass < 2 ? s->n_batch : TINYI_MIN(pass == 2 ? 1 : 12, s->n_batch);
        f.n_key = s->n_ctx;
        f.encoding = pass == 1;
        if (pass == 1 ? !(TINYI_LM_N_ENC(s->m) || TINYI_LM_ENCODER(s->m)) : !s->m->n_layer) continue;
        if (f.encoding) f.n_key = f.n;
        tinyi_lm_piece(&f, 0, NULL, NULL);
        if (f.st) return f.st;
        if (f.high > s->scratch_bytes) s->scratch_bytes = f.high;
        if (f.work > s->work) s->work = f.work;
    }
    return TINY_OK;
}

static tiny_status tinyi_lm_size(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc, tllm_state *s,
                                 size_t *bytes)
{
    unsigned char there[64];                /* scratch of a dry pass: an address, never read */
    tiny_status st = tinyi_ctx_check(ctx);
    size_t fixed = 0;
    if (st) return st;
    if (!model) return tinyi_fail(ctx, TINY_E_ARGUMENT, "state: the model is NULL");
    memset(s, 0, sizeof *s);
    st = tinyi_lm_desc(ctx, model, desc, s);
    if (st) return st;
    if (!tinyi_lm_layout(s, NULL, &fixed))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: a state of %td tokens is larger than this machine can address",
                          model->path, s->n_ctx);
    s->scratch = there;
    st = tinyi_lm_measure(s);
    s->scratch = NULL;
    if (st) return st;
    if (!tinyi_size_add(fixed, s->scratch_bytes, bytes) || !tinyi_size_add(*bytes, 64, bytes))
        return tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: a state of %td tokens is larger than this machine can address",
                          model->path, s->n_ctx);
    return TINY_OK;
}

TINY_API tiny_status tllm_state_memory(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc,
                                       size_t *bytes)
{
    tllm_state s;
    size_t n = 0;
    tiny_status st = tinyi_lm_size(ctx, model, desc, &s, &n);
    if (!st && !tinyi_size_add(n, s.work, &n))
        st = tinyi_fail(ctx, TINY_E_OVERFLOW, "%s: the workspace is larger than this machine can address", model->path);
    if (bytes) *bytes = st ? 0 : n;
    return st;
}

TINY_API tiny_status tllm_state_open(tiny_ctx *ctx, const tllm_model *model, const tllm_state_desc *desc,
                                     tllm_state **out)
{
    const size_t head = (sizeof(tllm_state) + 63) & ~(size_t)63;
    tllm_state plan, *s;
    size_t bytes = 0, fixed = 0;
    tiny_status st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "state: the result pointer is NULL");
    *out = NULL;
    st = tinyi_lm_size(ctx, model, desc, &plan, &bytes);
    if (st) return st;
    s = (tllm_state *)tinyi_reserve(ctx, bytes);
    st = s ? tinyi_work_reserve(ctx, plan.work) : tiny_ctx_status(ctx);
    if (st) {
        /* no rank waits for one that failed */
        if (TINYI_HAS(RANKS) && plan.comm) tiny_comm_abort(plan.comm);
        tiny_free(ctx, s);
        return st;
    }
    *s = plan;
    s->stays = tinyi_lm_stays(ctx, s);
    s->magic = TINYI_LM_STATE_MAGIC;
    s->bytes = bytes;
    (void)tinyi_lm_layout(s, (unsigned char *)s, &fixed);
    memset((unsigned char *)s + head, 0, s->cleared - head);
    (void)tinyi_lm_layout(s, (unsigned char *)s, &fixed);   /* the table of layers was cleared with the rest */
    tinyi_pages_reset(&s->pages);
    /* the same tensors, routes and pieces on all ranks, or none begins */
    if (TINYI_LM_COMM(s)) {
        tinyi_hash h;
        tinyi_hash_start(&h);
        tinyi_lm_hash_u64(&h, tinyi_lm_model_print(model));
        tinyi_lm_hash_u64(&h, (uint64_t)s->n_batch);
        tinyi_lm_hash_u64(&h, model->shares);
        tinyi_lm_hash_u64(&h, (uint64_t)tinyi_lm_long_rope(s));
        st = tiny_comm_agree(TINYI_LM_COMM(s), "model, its shares or the length of its pieces", tinyi_hash_value(&h));
    }
    if (st) tiny_free(ctx, s);
    else *out = s;
    return st;
}

TINY_API void tllm_state_close(tiny_ctx *ctx, tllm_state *state)
{
    if (!state) return;
    tinyi_lm_attached_free(state);
    if (TINYI_HAS(OPS) && !tinyi_ctx_check(ctx) && ctx->n_away) tinyi_accel_drop(ctx, state, state->bytes);
    if (TINYI_HAS(TREES)) tllm_tree_plan_close(ctx, state->tree);
    tiny_free(ctx, state);
}

TINY_API void tllm_state_clear(tllm_state *s)
{
    if (!s) return;
    tinyi_pages_reset(&s->pages);
    if (s->n_kept) memset(s->kept, 0, (size_t)s->n_kept * (size_t)s->n_seq * sizeof(float));
}
TINY_API tiny_idx tllm_state_length(const tllm_state *s) { return s ? tllm_pages_length(&s->pages, 0) : 0; }
TINY_API tiny_status tllm_state_trim(tllm_state *s, tiny_idx n) { return tllm_seq_trim(s, 0, n); }

/* ---- the pass over a batch -------------------------------------------------------------------------------------- */

static tiny_status tinyi_lm_token(const tllm_state *s, tiny_idx i, int32_t token)
{
    if (token >= 0 && token < s->m->n_vocab) return TINY_OK;
    return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: token %td is %d, but the vocabulary has %td", s->m->path, i,
                      (int)token, s->m->n_vocab);
}

TINYI_FN void tinyi_lm_begin(tinyi_lm_fwd *f, tllm_state *s)
{
    memset(f, 0, sizeof *f);
    f->ctx = s->ctx;
    f->s = s;
    f->m = s->m;
    f->base = s->scratch;
    f->size = s->scratch_bytes;
    f->tokens = s->token;
    f->row = s->row;
    f->run = s->run;
}

/* where the items of a call come from: a list, or the tokens of sequence 0 one after the other */
typedef struct tinyi_lm_source {
    const tllm_item *item;
    const int32_t *token;
    int64_t pos0;
    tiny_idx n, rows;
} tinyi_lm_source;
static tllm_item tinyi_lm_item(const tinyi_lm_source *q, tiny_idx i)
{
    tllm_item x;
    if (q->item) return q->item[i];
    x.token = q->token[i];
    x.seq = 0;
    x.pos = q->pos0 + i;
    x.want = i >= q->n - q->rows;
    return x;
}

/* All items before anything is touched: marks and how many cells each sequence will get. */
static tiny_status tinyi_lm_check_items(tllm_state *s, const tinyi_lm_source *q)
{
    const tinyi_lm_w *table = s->m->top.w[TINYI_T_POSITION_EMBD];
    tiny_status st = TINY_OK;
    tiny_idx i;
    for (i = 0; i < s->n_seq; i++) {
        tinyi_lm_mark *m = &s->mark[i];
        m->length = tllm_pages_length(&s->pages, i);
        m->more = 0;
        m->next = m->length ? (int64_t)s->pos[i * s->n_ctx + m->length - 1] + 1 : 0;
    }
    for (i = 0; i < q->n && !st; i++) {
        const tllm_item x = tinyi_lm_item(q, i);
        tinyi_lm_mark *m;
        int64_t at;
        if ((st = tinyi_lm_token(s, i, x.token)) != TINY_OK) return st;
        if (x.seq < 0 || x.seq >= s->n_seq)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                              "%s: token %td is for sequence %d, but this state has %td sequences", s->m->path, i,
                              (int)x.seq, s->n_seq);
        m = &s->mark[x.seq];
        at = x.pos < 0 && q->item ? m->next : x.pos;
        if (at < m->next || at > INT32_MAX - 1)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                              "%s: position %lld does not come after the positions held by sequence %d", s->m->path,
                              (long long)at, (int)x.seq);
        if (table && at >= table->n_out)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: position %lld is past the last of %td positions",
                              s->m->path, (long long)at, table->n_out);
        if (m->length + m->more >= s->n_ctx)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                              "%s: %td tokens after %td of sequence %d are more than the %td of this state", s->m->path,
                              q->item ? m->more + 1 : q->n, m->length, (int)x.seq, s->n_ctx);
        m->next = at + 1;
        m->more++;
    }
    return st;
}

/* a private copy of a page, in all layers */
TINYI_FN tiny_status tinyi_lm_page_copy(tllm_state *s, const tllm_page_copy *c)
{
    tiny_status st;
    tiny_idx i;
    if (c->from < 0) return TINY_OK;
    st = tinyi_lm_pages_home(s);
    if (st) return st;
    for (i = 0; i < s->m->n_layer; i++) {
        const tinyi_lm_held *h = &s->held[i];
        if (h->k.type) tinyi_pool_copy(&h->k, c->from, c->to, c->n);
        if (h->v.type) tinyi_pool_copy(&h->v, c->from, c->to, c->n);
        if (h->index.type) tinyi_pool_copy(&h->index, c->from, c->to, c->n);
    }
    return TINY_OK;
}

static void tinyi_lm_forget(tllm_state *s, int started)
{
    tiny_idx i;
    for (i = 0; i < s->n_seq; i++) {
        if (!s->mark[i].more) continue;
        if (started && s->m->recurrent) tllm_seq_clear(s, i);
        else if (tllm_pages_length(&s->pages, i) > s->mark[i].length)
            (void)tllm_pages_trim(&s->pages, i, s->mark[i].length);
    }
}

static tiny_status tinyi_lm_batch(tllm_state *s, const tinyi_lm_source *q, float *out)
{
    tinyi_lm_fwd f;
    tllm_page_copy copy;
    tiny_idx done, i, take, rows, made = 0;
    tiny_status st = tinyi_lm_check_items(s, q);
    if (st) return st;
    tinyi_lm_pages_now(s);
    for (i = 0; i < s->n_seq && !st; i++) {
        if (!s->mark[i].more) continue;
        st = tllm_pages_append(&s->pages, i, s->mark[i].more, &copy);
        if (!st) st = tinyi_lm_page_copy(s, &copy);
    }
    if (st) {
        if (TINYI_LM_COMM(s)) tiny_comm_abort(TINYI_LM_COMM(s));
        tinyi_lm_forget(s, 0);
        return st;
    }
    for (i = 0; i < s->n_seq; i++) {
        s->mark[i].next = s->mark[i].length ? (int64_t)s->pos[i * s->n_ctx + s->mark[i].length - 1] + 1 : 0;
        s->mark[i].done = 0;
    }
    for (done = 0; done < q->n && !st; done += take) {
        take = TINYI_MIN(q->n - done, s->n_batch);
        tinyi_lm_begin(&f, s);
        f.n = take;
        for (i = rows = 0; i < take; i++) {
            const tllm_item x = tinyi_lm_item(q, done + i);
            tinyi_lm_mark *m = &s->mark[x.seq];
            const int64_t pos = x.pos < 0 && q->item ? m->next : x.pos;
            const tiny_idx at = m->length + m->done++;
            s->token[i] = x.token;
            s->row[4 * i] = x.seq;
            s->row[4 * i + 1] = 0;
            s->row[4 * i + 2] = (int32_t)(at + 1);
            s->row[4 * i + 3] = s->pos[x.seq * s->n_ctx + at] = (int32_t)pos;
            s->place[2 * i] = tllm_pages_table(&s->pages, x.seq)[at / s->pages.block];
            s->place[2 * i + 1] = (int32_t)(at % s->pages.block);
            m->next = pos + 1;
            if (x.want) s->want[rows++] = (int32_t)i;
            if (!i || s->run[f.n_run - 1].seq != x.seq) {
                s->run[f.n_run].seq = x.seq;
                s->run[f.n_run].row0 = i;
                s->run[f.n_run].n = 0;
                s->run[f.n_run++].at0 = at;
            }
            s->run[f.n_run - 1].n++;
            f.n_key = TINYI_MAX(f.n_key, at + 1);
        }
        f.tree = s->exact ? NULL : tinyi_lm_tree(&f);
        if (s->stays) {                     /* the contents that the last pass left in scratch memory are not read */
            tinyi_accel_drop(s->ctx, s->scratch, s->scratch_bytes);
            tiny_stay(s->ctx, 1);
        }
        tinyi_lm_piece(&f, rows, s->want, rows && out ? out + made * s->m->n_out : NULL);
        if (s->stays) tiny_stay(s->ctx, 0);
        if (rows && out) tinyi_lm_host(&f, out + made * s->m->n_out, rows * s->m->n_out);
        st = f.st;
        made += rows;
    }
    if (st) {
        /* the others wait for sums that this rank will not give; and nothing writes into scratch any more */
        if (TINYI_HAS(RANKS)) tiny_comm_abort(TINYI_LM_COMM(s));
        if (TINYI_LM_RING(s->m)) tinyi_lm_ring_abort(s->m);
        tinyi_lm_forget(s, 1);
        return st;
    }
    for (i = 0; i < s->n_seq; i++) s->mark[i].done = 0;
    /* tokens recorded in order from position 0 on can be shared */
    for (i = 0; i < q->n && !s->m->recurrent; i++) {
        const tllm_item x = tinyi_lm_item(q, i);
        tinyi_lm_mark *m = &s->mark[x.seq];
        const tiny_idx at = m->length + m->done++;
        if (s->pos[x.seq * s->n_ctx + at] == at) tllm_pages_note(&s->pages, x.seq, at, &x.token, 1);
    }
    return TINY_OK;
}

static tiny_status tinyi_lm_enter(tllm_state *s, const char *call, const void *tokens, tiny_idx n)
{
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    if ((st = tinyi_ctx_check(s->ctx)) != TINY_OK) return st;
    if (!tokens || n < 1)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %s needs at least one token", s->m->path, call);
    return TINY_OK;
}
static tiny_status tinyi_lm_decodes(tllm_state *s, const char *call)
{
    if (TINYI_LM_ENCODER(s->m) || !s->m->n_layer)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %s is an encoder: use tllm_forward_all, not %s",
                          s->m->path, TINYI_LM_ARCH(s->m)->name, call);
    if (TINYI_LM_N_ENC(s->m) && !s->n_encoded)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "%s: the decoder has no encoder output: call tllm_forward_all first", s->m->path);
    return TINY_OK;
}

TINY_API tiny_status tllm_forward(tllm_state *s, const int32_t *tokens, tiny_idx n, int64_t pos0, tiny_idx rows,
                                  float *out)
{
    tinyi_lm_source q;
    tiny_status st = tinyi_lm_enter(s, "tllm_forward", tokens, n);
    if (!st) st = tinyi_lm_decodes(s, "tllm_forward");
    if (st) return st;
    if (rows < 0 || rows > n || (rows && !out && !s->m->rank))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: results of %td of %td tokens are wanted%s", s->m->path, rows, n,
                          out ? "" : ", but out is NULL");
    if (pos0 < 0 || pos0 > INT32_MAX - n)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "%s: position %lld does not come after the positions held by sequence 0", s->m->path,
                          (long long)pos0);
    memset(&q, 0, sizeof q);
    q.token = tokens;
    q.pos0 = pos0;
    q.n = n;
    q.rows = rows && TINYI_LM_OUTPUT(s->m) == TLLM_RANK ? 1 : rows;      /* one row for the whole sequence */
    return tinyi_lm_batch(s, &q, out);
}

TINY_API tiny_status tllm_forward_batch(tllm_state *s, const tllm_item *items, tiny_idx n, float *out)
{
    tinyi_lm_source q;
    tiny_idx i;
    tiny_status st = tinyi_lm_enter(s, "tllm_forward_batch", items, n);
    if (!st) st = tinyi_lm_decodes(s, "tllm_forward_batch");
    if (st) return st;
    for (i = 0; i < n && !out; i++)
        if (items[i].want)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                              "%s: results are wanted for token %td, but out is NULL", s->m->path, i);
    memset(&q, 0, sizeof q);
    q.item = items;
    q.n = n;
    return tinyi_lm_batch(s, &q, out);
}

TINY_API tiny_status tllm_forward_all(tllm_state *s, const int32_t *tokens, tiny_idx n, float *out)
{
    tinyi_lm_fwd f;
    const tinyi_lm_w *table;
    tiny_idx i;
    tiny_status st = tinyi_lm_enter(s, "tllm_forward_all", tokens, n);
    for (i = 0; i < n && !st; i++) st = tinyi_lm_token(s, i, tokens[i]);
    if (st) return st;
    if (!(TINYI_LM_ENCODER(s->m)) && !TINYI_LM_N_ENC(s->m)) {    /* a decoder that gives hidden states or ranks */
        if (TINYI_LM_OUTPUT(s->m) == TLLM_LOGITS)
            return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %s is not an encoder: use tllm_forward",
                              s->m->path, TINYI_LM_ARCH(s->m)->name);
        tllm_state_clear(s);
        return tllm_forward(s, tokens, n, 0, out ? (TINYI_LM_OUTPUT(s->m) == TLLM_RANK ? 1 : n) : 0, out);
    }
    if (n > s->n_batch || n > s->n_ctx)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %td tokens are more than the %td of this state", s->m->path, n,
                          s->n_batch);
    table = s->m->top.w[TINYI_T_POSITION_EMBD];
    if (table && n > table->n_out)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: %td tokens are more than its %td positions", s->m->path, n,
                          table->n_out);
    tinyi_lm_begin(&f, s);
    f.n = f.n_key = n;
    f.encoding = 1;
    f.n_run = 1;
    for (i = 0; i < n; i++) {
        s->token[i] = tokens[i];
        s->row[4 * i] = s->row[4 * i + 1] = 0;
        s->row[4 * i + 2] = (int32_t)n;
        s->row[4 * i + 3] = (int32_t)i;
    }
    s->run[0].seq = s->run[0].row0 = s->run[0].at0 = 0;
    s->run[0].n = n;
    s->n_encoded = 0;
    tinyi_lm_piece(&f, out || !TINYI_LM_N_ENC(s->m) ? n : 0, NULL, out);
    if (!f.st) {
        s->n_encoded = n;
        tllm_state_clear(s);
    }
    return f.st;
}
