/* src/llm/model/mla.c - latent attention, and the indexer that makes it sparse
 * Papers   DeepSeek-AI, "DeepSeek-V2", 2024 (arXiv 2405.04434), 2.1; "DeepSeek-V3.2", 2025 (arXiv 2512.02556), 2.1.
 * Formula  c = rms(first r of W_kv h), k_rope the rest; key of head i = [K_i c, k_rope], value = V_i c.
 *          Each position keeps one row [c, k_rope] of r + rope numbers, independent of the number of heads.
 *          Files with attn_k_b and attn_v_b: q_i' = [K_i^T q_i, q_rope] is multiplied with the rows, and V_i is applied
 *          after the sum.
 *          Files with attn_kv_b (rows K_i, V_i of each head): tllm_latent_attention does the same, or expands the rows
 *          of long prompts piece by piece. If attn_kv_b has a bias or an adapter, the steps of the absorbed form run
 *          one by one.
 *          A gate sigmoid(W_g h), one number per head or per value, multiplies the input of the output matrix.
 *          indexer: score(t, j) = sum_i w_i max(0, iq_i . ik_j); the index_top best keys are seen, the earlier of
 *          equals. */
#include "llm/model/model_inside.h"
#include "core/half_inside.h"
#include <string.h>

TINYI_FN void tinyi_lm_mla_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->n_embd, H = l->n_head, d = m->d_nope + m->d_rope, r = m->r_kv;
    if (!tinyi_lm_small(ld, l, H, d + m->d_vm) || !tinyi_lm_small(ld, l, H, r + m->d_rope) ||
        !tinyi_lm_small(ld, l, m->index_heads, m->index_d))
        return;
    if (m->r_q > 0) {
        tinyi_lm_need(ld, l, TINYI_T_ATTN_Q_A, D, m->r_q, 0);
        tinyi_lm_vec(ld, l, TINYI_T_ATTN_Q_A_NORM, m->r_q);
        tinyi_lm_need(ld, l, TINYI_T_ATTN_Q_B, m->r_q, H * d, 0);
    } else tinyi_lm_need(ld, l, TINYI_T_ATTN_Q, D, H * d, 0);
    tinyi_lm_need(ld, l, TINYI_T_ATTN_KV_A, D, r + m->d_rope, 0);
    tinyi_lm_vec(ld, l, TINYI_T_ATTN_KV_A_NORM, r);
    if (tinyi_lm_find(ld, l, TINYI_T_ATTN_K_B, NULL)) {
        tinyi_lm_need(ld, l, TINYI_T_ATTN_K_B, m->d_nope, r, H);
        tinyi_lm_need(ld, l, TINYI_T_ATTN_V_B, r, m->d_vm, H);
    } else {
        if (r + m->d_rope > TLLM_LATENT_MOST || m->d_rope % 2)
            tinyi_lm_disagree(ld, l, "latent rows and their rotated numbers, in pairs", r + m->d_rope,
                              m->d_rope);
        tinyi_lm_need(ld, l, TINYI_T_ATTN_KV_B, r, H * (m->d_nope + m->d_vm), 0);
    }
    tinyi_lm_need(ld, l, TINYI_T_ATTN_OUT, H * m->d_vm, D, 0);
    if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_GATE_HEADS) tinyi_lm_need(ld, l, TINYI_T_ATTN_GATE, D, H, 0);
    else tinyi_lm_may(ld, l, TINYI_T_ATTN_GATE, D, H * m->d_vm, 0);
    if (m->index_heads) {
        if (m->r_q < 1)
            tinyi_lm_disagree(ld, l, "the indexer needs queries of low rank, attention.q_lora_rank and 1", m->r_q, 1);
        tinyi_lm_need(ld, l, TINYI_T_INDEX_K, D, m->index_d, 0);
        tinyi_lm_vec(ld, l, TINYI_T_INDEX_K_NORM, m->index_d);
        tinyi_lm_need(ld, l, TINYI_T_INDEX_PROJ, D, m->index_heads, 0);
        tinyi_lm_need(ld, l, TINYI_T_INDEX_Q_B, m->r_q, m->index_heads * m->index_d, 0);
    }
}

typedef struct tinyi_lm_latent_gate { float *o; const float *g; tiny_idx n_head, d_v, by_head; } tinyi_lm_latent_gate;
TINY_REF_BEGIN
static void tinyi_lm_latent_gate_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_latent_gate *q = (const tinyi_lm_latent_gate *)arg;
    const tiny_idx n = q->n_head * q->d_v, step = q->by_head ? q->d_v : 1;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < n; i++) q->o[t * n + i] *= tinyi_sigmoid_ref(q->g[t * (n / step) + i / step]);
}
TINY_REF_END

typedef struct tinyi_lm_index {
    const float *q, *w;
    const tinyi_pool *k;
    const tllm_pages *pages;
    const int32_t *row;
    float *score;                           /* (n, n_key) */
    tiny_idx n_head, d, n_key;
} tinyi_lm_index;

TINY_REF_BEGIN
static void tinyi_lm_index_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_index *q = (const tinyi_lm_index *)arg;
    const double size = 1.0 / tinyi_sqrt64((double)q->n_head * (double)q->d);
    tiny_idx t, j, i;
    for (t = t0; t < t1; t++)
        for (j = 0; j < q->row[4 * t + 2]; j++) {
            const int32_t page = tllm_pages_table(q->pages, q->row[4 * t])[j / q->k->block];
            const float *key = (const float *)(const void *)tinyi_pool_row(q->k, page, 0, j % q->k->block);
            double s = 0.0;
            for (i = 0; i < q->n_head; i++) {
                const float x = tinyi_lm_dot(q->q + (t * q->n_head + i) * q->d, key, q->d);
                if (x > 0.0f) s += (double)q->w[t * q->n_head + i] * size * (double)x;
            }
            q->score[t * q->n_key + j] = (float)s;
        }
}
TINY_REF_END

/* 1 for the keys that each token sees, 0 for the others; NULL: all are seen */
static const float *tinyi_lm_index_keys(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const float *h, const float *q_a)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, Hi = m->index_heads, di = m->index_d, n_key = f->n_key;
    const int style = TINYI_LM_ARCH(m)->attn & TINYI_LM_A_INDEX_PAIRS ? TINYI_LM_PAIRS : TINYI_LM_HALVES;
    float *allow = tinyi_lm_take(f, n, n_key);
    const size_t used = f->used;
    float *iq = tinyi_lm_take(f, n, Hi * di), *ik = tinyi_lm_take(f, n, di), *w = tinyi_lm_take(f, n, Hi);
    uint64_t *item = (uint64_t *)(void *)tinyi_lm_take(f, 4, n_key);
    tiny_tensor t;
    tinyi_lm_index q;
    tiny_idx i, j;
    if (f->st) return NULL;
    tinyi_lm_linear(f, l->w[TINYI_T_INDEX_Q_B], iq, q_a, n);
    tinyi_lm_linear_both(f, l->w[TINYI_T_INDEX_K], ik, l->w[TINYI_T_INDEX_PROJ], w, 0, h, n);
    t = tiny_tensor_2d(ik, TINY_F32, n, di);
    tinyi_lm_norm_view(f, TINY_OP_LAYERNORM, l->w[TINYI_T_INDEX_K_NORM]->v, l->w[TINYI_T_INDEX_K_NORM]->bias, 1e-6f, &t,
                       &t);
    tinyi_lm_rotate(f, l->rope, style, tinyi_lm_heads_of(iq, Hi, di, Hi * di));
    tinyi_lm_rotate(f, l->rope, style, tinyi_lm_heads_of(ik, 1, di, di));
    if (!f->dry) tinyi_lm_hold(f, &f->s->held[l->i].index, ik, di);
    /* what the most would take */
    if (f->dry) { f->used = used; return f->s->n_ctx > m->index_top ? allow : NULL; }
    if (n_key <= m->index_top || f->st) { f->used = used; return NULL; }
    q.q = iq;
    q.k = &f->s->held[l->i].index;
    q.pages = &f->s->pages;
    q.row = f->row;
    q.w = w;
    q.score = allow;
    q.n_head = Hi;
    q.d = di;
    q.n_key = n_key;
    tinyi_lm_each(f, n, 1, tinyi_lm_index_fn, &q);
    for (i = 0; i < n && !f->st; i++) {
        const tiny_idx sees = f->row[4 * i + 2];
        float *a = allow + i * n_key;
        if (sees <= m->index_top) {
            for (j = 0; j < n_key; j++) a[j] = 1.0f;
            continue;
        }
        for (j = 0; j < sees; j++)
            item[j] = (uint64_t)(uint32_t)~tinyi_sort_key_f32(tinyi_f32_bits(a[j])) << 32 | (uint64_t)j;
        tinyi_sort_pairs(item, item + n_key, (size_t)sees);
        memset(a, 0, (size_t)n_key * sizeof *a);
        for (j = 0; j < m->index_top; j++) a[item[j] & 0xffffffffu] = 1.0f;
    }
    f->used = used;
    return allow;
}

/* One matrix for keys and values of all heads: q (n, H d) against the rows that are held. */
static void tinyi_lm_mla_latent(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const tinyi_lm_attend *how, float *q,
                                float *o)
{
    const tllm_model *m = f->m;
    const tinyi_lm_w *w = l->w[TINYI_T_ATTN_KV_B];
    const tiny_idx n = f->n, H = l->n_head, nope = m->d_nope, d = nope + m->d_rope, r = m->r_kv, v = m->d_vm,
                   ld = r + m->d_rope, step = nope + v;
    const tllm_state *s = f->s;
    tinyi_lm_attend att = *how;
    tinyi_lm_held h;
    tiny_tensor tq, tk, table, rows, tw, to;
    tllm_latent_params p;
    tiny_op op;
    float *qa, *oc;
    tiny_idx i, j;
    if (f->st) return;
    if (f->dry) (void)tinyi_lm_pools(s, l, &h);
    else h = s->held[l->i];
    memset(&p, 0, sizeof p);
    memset(&op, 0, sizeof op);
    tq = tiny_tensor_3d(q, TINY_F32, n, H, d);
    tk = tinyi_pool_tensor(&h.k, s->pages.n_block);
    table = tiny_tensor_2d(s->pages.table, TINY_I32, s->n_seq, s->pages.n_table);
    rows = tiny_tensor_2d((void *)(uintptr_t)f->row, TINY_I32, n, 4);
    tw = w->dtype >= 0 ? tiny_tensor_2d((void *)(uintptr_t)w->t->data, (tiny_dtype)w->dtype, w->n_out, r)
                       : tiny_tensor_2d((void *)(uintptr_t)w->t->data, TINY_U8, w->n_out, (tiny_idx)w->row_bytes);
    to = tiny_tensor_3d(o, TINY_F32, n, H, v);
    p.scale = att.scale;
    p.format_k = s->type_k->id;
    p.format_w = w->format->id;
    p.d_nope = nope;
    p.d_v = v;
    p.tree = f->tree;
    op.kind = TLLM_OP_LATENT_ATTENTION;
    op.row = tllm_latent_attention_row();
    op.in[0] = &tq;
    op.in[1] = &tk;
    op.in[2] = &table;
    op.in[3] = &rows;
    op.in[4] = &tw;
    op.out[0] = &to;
    op.params = &p;
    if (!m->index_heads && !w->bias && !w->scale && (f->dry || !tinyi_lm_adapted(f, w))) {
        tinyi_lm_door(f, &op);
        if (!f->dry) return;                /* in a dry pass the steps below are measured too: an adapter may come */
    }
    qa = tinyi_lm_take(f, n, H * ld);
    oc = tinyi_lm_take(f, n, H * r);
    if (f->st) return;
    for (i = 0; i < H; i++) {
        tinyi_lm_linear_part(f, w, i * step, nope, 1, qa + i * ld, H * ld, q + i * d, H * d, n);
        tinyi_lm_copy(f, qa + i * ld + r, H * ld, q + i * d + nope, H * d, n, m->d_rope);
    }
    att.q = tinyi_lm_heads_of(qa, H, ld, H * ld);
    att.n_kv = 1;
    att.d_k = ld;
    att.d_v = r;
    att.o = oc;
    tinyi_lm_attention_held(f, &att, l);
    for (i = 0; i < H; i++) {
        tinyi_lm_linear_part(f, w, i * step + nope, v, 0, o + i * v, H * v, oc + i * r, H * r, n);
        /* that of the keys adds the same to all scores of a head */
        for (j = 0; w->bias && j < n && !f->st && !f->dry; j++)
            tinyi_lm_add(f, o + (j * H + i) * v, o + (j * H + i) * v, w->bias + i * step + nope, v);
    }
}

TINYI_FN void tinyi_lm_mla_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx H = l->n_head, nope = m->d_nope, rope = m->d_rope, d = nope + rope, r = m->r_kv, v = m->d_vm,
                   ld = r + rope;
    /* the latent rows of all tokens, and queries of those that are wanted; an indexer wants all of these too */
    const int narrows = f->want && l->mix2 == TINYI_LM_NO_MIX && !m->index_heads;
    const size_t used = f->used;
    tiny_idx n = f->n;
    const tinyi_lm_held *held = f->dry ? NULL : &f->s->held[l->i];
    const tinyi_lm_w *first = l->w[m->r_q > 0 ? TINYI_T_ATTN_Q_A : TINYI_T_ATTN_Q];
    float *q = tinyi_lm_take(f, n, H * d), *kv = tinyi_lm_take(f, n, ld), *o = tinyi_lm_take(f, n, H * v), *a = NULL;
    tiny_tensor t;
    tinyi_lm_attend att;
    tiny_idx i;
    if (f->st) return;
    memset(&att, 0, sizeof att);
    if (m->r_q > 0) {
        a = tinyi_lm_take(f, n, m->r_q);
        if (f->st) return;
    }
    if (narrows) tinyi_lm_linear(f, l->w[TINYI_T_ATTN_KV_A], kv, h, n);
    else tinyi_lm_linear_both(f, first, a ? a : q, l->w[TINYI_T_ATTN_KV_A], kv, 0, h, n);
    t = tiny_tensor_2d(kv, TINY_F32, n, r);
    t.stride[0] = ld;
    tinyi_lm_norm_view(f, TINY_OP_RMSNORM, l->w[TINYI_T_ATTN_KV_A_NORM]->v, NULL, m->eps, &t, &t);
    tinyi_lm_rotate(f, l->rope, TINYI_LM_ARCH(m)->rope, tinyi_lm_heads_of(kv + r, 1, rope, ld));
    if (held) tinyi_lm_hold(f, &held->k, kv, ld);
    if (narrows) {
        tinyi_lm_narrow(f, NULL, 0);
        if ((n = f->n) == 0) { f->used = used; return; }
        tinyi_lm_linear(f, first, a ? a : q, h, n);
    }
    if (a) {
        tinyi_lm_norm(f, l->w[TINYI_T_ATTN_Q_A_NORM], a, a, n, m->r_q);
        tinyi_lm_linear(f, l->w[TINYI_T_ATTN_Q_B], q, a, n);
    }
    att.q = tinyi_lm_heads_of(q + nope, H, rope, H * d);
    att.q.head = d;
    tinyi_lm_rotate(f, l->rope, TINYI_LM_ARCH(m)->rope, att.q);
    tinyi_lm_temper(f, tinyi_lm_heads_of(q, H, d, H * d));
    if (m->index_heads) att.allow = tinyi_lm_index_keys(f, l, h, a);
    att.ld_allow = f->n_key;
    att.scale = l->scale;
    att.causal = 1;
    if (l->w[TINYI_T_ATTN_K_B]) {
        float *qa = tinyi_lm_take(f, n, H * ld), *oc = tinyi_lm_take(f, n, H * r);
        if (f->st) return;
        for (i = 0; i < H; i++) {
            tinyi_lm_linear_at(f, l->w[TINYI_T_ATTN_K_B], i, qa + i * ld, H * ld, q + i * d, H * d, n);
            tinyi_lm_copy(f, qa + i * ld + r, H * ld, q + i * d + nope, H * d, n, rope);
        }
        att.q = tinyi_lm_heads_of(qa, H, ld, H * ld);
        att.n_kv = 1;
        att.d_k = ld;
        att.d_v = r;
        att.o = oc;
        tinyi_lm_attention_held(f, &att, l);
        for (i = 0; i < H; i++)
            tinyi_lm_linear_at(f, l->w[TINYI_T_ATTN_V_B], i, o + i * v, H * v, oc + i * r, H * r, n);
    } else tinyi_lm_mla_latent(f, l, &att, q, o);
    if (l->w[TINYI_T_ATTN_GATE]) {
        const tiny_idx width = l->w[TINYI_T_ATTN_GATE]->n_out;
        tinyi_lm_latent_gate gate;
        float *g = tinyi_lm_take(f, n, width);
        if (f->st) return;
        tinyi_lm_linear(f, l->w[TINYI_T_ATTN_GATE], g, h, n);
        gate.o = o;
        gate.g = g;
        gate.n_head = H;
        gate.d_v = v;
        gate.by_head = width == H;
        tinyi_lm_each(f, n, 4, tinyi_lm_latent_gate_fn, &gate);
    }
    tinyi_lm_linear(f, l->w[TINYI_T_ATTN_OUT], y, o, n);
    f->used = used;
}
