/* src/llm/model/attn.c - plain attention: grouped heads, windows, sinks, biases by distance, shared keys, gates
 * Formula  q, k, v = W h + b, each split into heads, normed if the file has weights for it, rotated by position;
 *          s = scale q . k; cap tanh(s / cap); + bias; hidden keys -inf; p = softmax(s), with the sink's logit in its
 *          sum; o = sum p v; y = W_o norm(o gate)
 *          blocks   score of a block of keys for key head g = max of iq_g . ik_j over its visible keys, iq and ik
 *                   normed and rotated; the query sees the index_top best blocks, its last index_local ones first
 *                   (minimax-m3)
 * The middle part is an operation. tllm_paged_attention takes keys in pages, where a query sees a range of cells.
 * tiny_attention takes encoders and all other cases: its bias, a matrix of numbers and -inf, holds the distances of an
 * encoder, windows to both sides, and the choices of an indexer. */
#include "llm/model/model_inside.h"
#include "llm/attention/place.h"
#include <string.h>

typedef struct tinyi_lm_mask {
    const tinyi_lm_attend *a;
    float *m;
    tiny_idx head;
    float slope;
} tinyi_lm_mask;

TINY_REF_BEGIN
/* bucket of a distance (key - query): C. Raffel et al., 2019 (arXiv 1910.10683) */
static tiny_idx tinyi_lm_bucket(int64_t d, tiny_idx n_bucket, int both)
{
    tiny_idx n = both ? n_bucket / 2 : n_bucket, exact = n / 2, at = 0, most;
    float large;
    if (both) {
        if (d > 0) at = n;
        else d = -d;
    } else d = d < 0 ? -d : 0;
    if (d < (int64_t)exact) return at + (tiny_idx)d;
    if (d > 1000000) return at + n - 1;
    large = tinyi_log_ref((float)d / (float)exact) * (float)(n - exact) / tinyi_log_ref(128.0f / (float)exact);
    most = exact + (tiny_idx)large;
    return at + (most < n - 1 ? most : n - 1);
}

static void tinyi_lm_mask_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_mask *q = (const tinyi_lm_mask *)arg;
    const tinyi_lm_attend *a = q->a;
    tiny_idx t, j;
    for (t = t0; t < t1; t++) {
        const int64_t at = a->row[4 * t + 3];
        float *m = q->m + t * a->n_key;
        for (j = 0; j < a->n_key; j++) {
            const int64_t d = at - (a->key_pos ? (int64_t)a->key_pos[j] : (int64_t)j);
            int sees = 1;
            if (a->causal && d < 0) sees = 0;
            if (a->window > 0 && 2 * (d < 0 ? -d : d) > (int64_t)a->window) sees = 0;
            if (a->allow && a->allow[q->head / (a->q.n_head / a->n_kv) * a->allow_kv + t * a->ld_allow + j] == 0.0f)
                sees = 0;
            m[j] = !sees ? -INFINITY : 0.0f;
            if (!sees) continue;
            if (a->alibi > 0.0f) m[j] = -q->slope * (float)(d < 0 ? -d : d);
            if (a->relative)
                m[j] += a->relative[tinyi_lm_bucket(-d, a->n_bucket, a->both_ways) * a->q.n_head + q->head];
        }
    }
}
TINY_REF_END

TINYI_FN void tinyi_lm_attention(tinyi_lm_fwd *f, const tinyi_lm_attend *a)
{
    const int each = a->alibi > 0.0f || a->relative, by_head = each || a->allow_kv > 0;
    const tiny_idx step = each || a->n_kv < 1 ? 1 : a->q.n_head / a->n_kv;      /* heads that see the same */
    const size_t used = f->used;
    tiny_idx h;
    int masked = by_head || a->allow || a->window > 0;
    tiny_tensor q, k, v, o, bias;
    tiny_attention_params p;
    tinyi_lm_mask mask;
    tiny_op op;
    if (f->st) return;
    memset(&mask, 0, sizeof mask);
    mask.m = masked ? tinyi_lm_take(f, a->n, a->n_key) : NULL;
    f->used = used;
    if (f->st) return;
    if (f->dry) masked = 0;
    q = tiny_tensor_3d(a->q.p, TINY_F32, a->n, a->q.n_head, a->d_k);
    q.stride[0] = a->q.ld;
    q.stride[1] = a->q.head;
    k = tiny_tensor_3d((void *)(uintptr_t)a->k, TINY_F32, a->n_key, a->n_kv, a->d_k);
    k.stride[0] = a->ld_k;
    k.stride[1] = a->head_k;
    v = tiny_tensor_3d((void *)(uintptr_t)a->v, TINY_F32, a->n_key, a->n_kv, a->d_v);
    v.stride[0] = a->ld_v;
    v.stride[1] = a->head_v;
    o = tiny_tensor_3d(a->o, TINY_F32, a->n, a->q.n_head, a->d_v);
    memset(&p, 0, sizeof p);
    p.scale = a->scale;
    p.softcap = a->softcap;
    p.causal = a->causal && !masked;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_ATTENTION;
    op.in[0] = &q;
    op.in[1] = &k;
    op.in[2] = &v;
    op.out[0] = &o;
    op.params = &p;
    if (!masked) { tinyi_lm_door(f, &op); return; }
    mask.a = a;
    bias = tiny_tensor_2d(mask.m, TINY_F32, a->n, a->n_key);
    op.in[3] = &bias;
    if (!by_head) {
        tinyi_lm_each(f, a->n, 4, tinyi_lm_mask_fn, &mask);
        tinyi_lm_door(f, &op);
        return;
    }
    for (h = 0; h < a->q.n_head && !f->st; h += step) {
        const tiny_idx kv = h / (a->q.n_head / a->n_kv);
        tiny_tensor qh = q, kh = k, vh = v, oh = o;
        qh.data = a->q.p + h * a->q.head;
        kh.data = (float *)k.data + kv * a->head_k;
        vh.data = (float *)v.data + kv * a->head_v;
        oh.data = a->o + h * a->d_v;
        qh.dim[1] = oh.dim[1] = step;
        kh.dim[1] = vh.dim[1] = 1;
        op.in[0] = &qh;
        op.in[1] = &kh;
        op.in[2] = &vh;
        op.out[0] = &oh;
        mask.head = h;
        if (a->alibi > 0.0f) mask.slope = tinyi_alibi_slope(a->alibi, a->q.n_head, h);
        tinyi_lm_each(f, a->n, 4, tinyi_lm_mask_fn, &mask);
        tinyi_lm_door(f, &op);
    }
}

/* ---- pages ------------------------------------------------------------------------------------------------------ */

static int tinyi_lm_pool(tinyi_pool *p, const tllm_format *type, tiny_idx block, tiny_idx n_part, tiny_idx n_kv,
                         tiny_idx d)
{
    p->at = NULL;
    p->type = type;
    p->block = block;
    p->n_part = n_part;
    p->d_part = n_part > 0 ? n_kv / n_part * d : 0;
    p->row_bytes = tllm_format_bytes(type, (uint64_t)p->d_part);
    return n_part > 0;
}

TINYI_FN int tinyi_lm_pools(const tllm_state *s, const tinyi_lm_layer *l, tinyi_lm_held *h)
{
    const tllm_model *m = s->m;
    const tiny_idx block = s->pages.block;
    int ok = 1;
    memset(h, 0, sizeof *h);
    /* one row for all heads: value and key in one */
    if (TINYI_LM_MIXES(TINYI_LM_COMPRESSED) && l->mix == TINYI_LM_COMPRESSED) {
        const tiny_idx wide = tinyi_lm_comp_width(m, l);
        ok = tinyi_lm_pool(&h->k, s->type_k, block, tinyi_pool_parts(s->type_k, 1, l->d_k), 1, l->d_k);
        if (wide) (void)tinyi_lm_pool(&h->index, tllm_format_of(TLLM_FORMAT_F32), block, 1, 1, wide);
        return ok;
    }
    if (l->mix == TINYI_LM_MLA)             /* one latent row: value and key in one */
        ok = tinyi_lm_pool(&h->k, s->type_k, block, tinyi_pool_parts(s->type_k, 1, m->r_kv + m->d_rope), 1,
                           m->r_kv + m->d_rope);
    else {
        const tiny_idx n_part =
            TINYI_MIN(tinyi_pool_parts(s->type_k, l->n_kv, l->d_k), tinyi_pool_parts(s->type_v, l->n_kv, l->d_v));
        ok = tinyi_lm_pool(&h->k, s->type_k, block, n_part, l->n_kv, l->d_k) &&
             tinyi_lm_pool(&h->v, s->type_v, block, n_part, l->n_kv, l->d_v);
    }
    if (m->index_heads && (l->mix == TINYI_LM_MLA || l->w[TINYI_T_INDEX_BLOCK_Q]))
        (void)tinyi_lm_pool(&h->index, tllm_format_of(TLLM_FORMAT_F32), block, 1, 1, m->index_d);
    return ok;
}

typedef struct tinyi_lm_hold_arg {
    const tllm_state *s;
    const tinyi_pool *p;
    const int32_t *row;
    const float *x;
    tiny_idx ld;
} tinyi_lm_hold_arg;
static void tinyi_lm_hold_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_hold_arg *q = (const tinyi_lm_hold_arg *)arg;
    tiny_idx t;
    for (t = t0; t < t1; t++) {
        const int32_t *r = q->row + 4 * t;
        const tiny_idx at = r[2] - 1;
        tinyi_pool_write(q->p, tllm_pages_table(&q->s->pages, r[0])[at / q->p->block], at % q->p->block,
                         q->x + t * q->ld);
    }
}
TINYI_FN void tinyi_lm_hold(tinyi_lm_fwd *f, const tinyi_pool *p, const float *x, tiny_idx ld)
{
    tinyi_lm_hold_arg q;
    tiny_idx i;
    if (f->dry || f->st) return;
    for (i = 0; i < f->s->n_twin; i++)      /* no reader before the caller's next step */
        tinyi_pool_write(p, f->s->twin[i].page, f->s->twin[i].in, x + f->s->twin[i].item * ld);
    if (TINYI_HAS(OPS) && !f->st && tinyi_op_watched(f->ctx)) {
        tiny_tensor pages = tinyi_pool_tensor(p, f->s->pages.n_block),
                    tx = tiny_tensor_2d((void *)(uintptr_t)x, TINY_F32, f->n, p->n_part * p->d_part);
        tiny_tensor place = tiny_tensor_2d(f->s->place, TINY_I32, f->n, 2);
        tllm_put_params params;
        tx.stride[0] = ld;
        params.format = p->type->id;
        f->st = tllm_put_rows(f->ctx, &pages, &tx, &place, &params, &pages);
        return;
    }
    q.s = f->s;
    q.p = p;
    q.row = f->row;
    q.x = x;
    q.ld = ld;
    tinyi_lm_each(f, f->n, 8, tinyi_lm_hold_fn, &q);
}

/* for what the operation on pages does not know: the keys of each sequence are laid out one after the other */
static void tinyi_lm_attention_laid(tinyi_lm_fwd *f, const tinyi_lm_attend *a, const tinyi_lm_held *h)
{
    const size_t used = f->used;
    const tiny_idx block = f->s->pages.block, nk = h->k.n_part * h->k.d_part, nv = h->v.n_part * h->v.d_part;
    float *k = tinyi_lm_take(f, f->n_key, nk), *v = h->v.type ? tinyi_lm_take(f, f->n_key, nv) : k;
    tinyi_lm_attend b = *a;
    tiny_idx i, j;
    b.n = f->n;
    b.n_key = f->n_key;
    b.k = k;
    b.v = v;
    b.ld_k = nk;
    b.ld_v = h->v.type ? nv : nk;
    b.head_k = a->d_k;
    b.head_v = h->v.type ? a->d_v : a->d_k;
    if (f->dry) tinyi_lm_attention(f, &b);
    else if (!f->st) f->st = tinyi_lm_pages_home(f->s);
    for (i = 0; i < f->n_run && !f->st; i++) {
        const tinyi_lm_span *r = &f->run[i];
        const int32_t *table = tllm_pages_table(&f->s->pages, r->seq);
        b.n = r->n;
        b.n_key = r->at0 + r->n;
        for (j = 0; j < b.n_key; j++) {
            tinyi_pool_read(&h->k, table[j / block], j % block, k + j * nk);
            if (h->v.type) tinyi_pool_read(&h->v, table[j / block], j % block, v + j * nv);
        }
        b.q.p = a->q.p + r->row0 * a->q.ld;
        b.o = a->o + r->row0 * a->q.n_head * a->d_v;
        b.row = f->row + 4 * r->row0;
        b.key_pos = f->s->pos + r->seq * f->s->n_ctx;
        if (a->allow) b.allow = a->allow + r->row0 * a->ld_allow;
        tinyi_lm_attention(f, &b);
    }
    f->used = used;
}

/* Continuations of one prompt share its pages. A plan that reads shared pages once is used if it saves at least a third
 * of the cells. The tree is the same for all layers of the step. Without memory for it the step runs without a tree. */
#define TINYI_LM_TREE_SAVES 512             /* cells */
TINYI_FN const tllm_tree_plan *tinyi_lm_tree(tinyi_lm_fwd *f)
{
    tllm_state *s = f->s;
    tllm_tree_plan_desc d = { 256, 0, TLLM_TREE_FLAT };
    tiny_tensor rows = tiny_tensor_2d((void *)(uintptr_t)f->row, TINY_I32, f->n, 4),
                table = tiny_tensor_2d(s->pages.table, TINY_I32, s->n_seq, s->pages.n_table);
    tllm_tree_counts c;
    tiny_idx i, together = 0;
    for (i = 1; i < f->n_run; i++)          /* they begin with the same page */
        together += f->run[i].at0 > 0 && f->run[i - 1].at0 > 0 &&
                    tllm_pages_table(&s->pages, f->run[i].seq)[0] == tllm_pages_table(&s->pages, f->run[i - 1].seq)[0];
    if (!TINYI_HAS(TREES) || !together || together * f->n_key < TINYI_LM_TREE_SAVES) return NULL;
    if (!s->tree && tllm_tree_plan_open(f->ctx, &d, &s->tree)) return NULL;
    if (tllm_tree_plan_set(s->tree, &rows, &table, s->pages.block)) return NULL;
    c = tllm_tree_plan_counts(s->tree);
    return c.n_path - c.n_tree >= TINYI_LM_TREE_SAVES && 3 * c.n_tree <= 2 * c.n_path ? s->tree : NULL;
}

TINYI_FN void tinyi_lm_attention_held(tinyi_lm_fwd *f, const tinyi_lm_attend *a, const tinyi_lm_layer *l)
{
    const size_t used = f->used;
    const tllm_state *s = f->s;
    tinyi_lm_held h;
    tiny_tensor q, k, v, table, rows, pos, slopes, sinks, o;
    tllm_paged_params p;
    tiny_op op;
    float *slope = NULL;
    int32_t *row = NULL;
    tiny_idx i;
    if (f->st) return;
    if (f->dry) (void)tinyi_lm_pools(s, l, &h);
    else h = s->held[l->kv_from];
    if (a->relative || a->allow) { tinyi_lm_attention_laid(f, a, &h); return; }
    memset(&p, 0, sizeof p);
    tinyi_lm_op_start(&op, TLLM_OP_PAGED_ATTENTION, tllm_paged_attention_row(), &p);
    if (a->window > 0) row = (int32_t *)(void *)tinyi_lm_take(f, f->n, 4);
    if (a->alibi > 0.0f) slope = tinyi_lm_take(f, 1, a->q.n_head);
    if (f->st) return;
    for (i = 0; row && i < f->n && !f->dry; i++) {
        const int32_t *r = f->row + 4 * i, *at = s->pos + r[0] * s->n_ctx;
        const int64_t first = a->chunked ? r[3] / a->window * a->window : (int64_t)r[3] - a->window + 1;
        int32_t lo = 0, hi = r[2] - 1, mid;         /* the first cell at or after that position: positions go up */
        while (lo < hi) {
            mid = lo + (hi - lo) / 2;
            if (at[mid] < first) lo = mid + 1;
            else hi = mid;
        }
        memcpy(row + 4 * i, r, 4 * sizeof *r);
        row[4 * i + 1] = lo;
    }
    for (i = 0; slope && i < a->q.n_head && !f->dry; i++) slope[i] = tinyi_alibi_slope(a->alibi, a->q.n_head, i);
    q = tiny_tensor_3d(a->q.p, TINY_F32, f->n, a->q.n_head, a->d_k);
    q.stride[0] = a->q.ld;
    q.stride[1] = a->q.head;
    k = tinyi_pool_tensor(&h.k, s->pages.n_block);
    table = tiny_tensor_2d(s->pages.table, TINY_I32, s->n_seq, s->pages.n_table);
    rows = tiny_tensor_2d((void *)(uintptr_t)(row ? row : f->row), TINY_I32, f->n, 4);
    pos = tiny_tensor_2d(s->pos, TINY_I32, s->n_seq, s->n_ctx);
    slopes = tiny_tensor_1d(slope, TINY_F32, a->q.n_head);
    sinks = tiny_tensor_1d((void *)(uintptr_t)a->sinks, TINY_F32, a->q.n_head);
    o = tiny_tensor_3d(a->o, TINY_F32, f->n, a->q.n_head, a->d_v);
    p.scale = a->scale;
    p.softcap = a->softcap;
    p.format_k = s->type_k->id;
    p.format_v = s->type_v->id;
    p.n_kv = a->n_kv;
    p.d_v = a->d_v;
    p.tree = row ? NULL : f->tree;          /* a window sees other cells than the plan */
    p.alone = s->exact;
    op.in[0] = &q;
    op.in[1] = &k;
    op.in[2] = &table;
    op.in[3] = &rows;
    if (h.v.type) {
        v = tinyi_pool_tensor(&h.v, s->pages.n_block);
        op.in[4] = &v;
    }
    if (slope) {
        op.in[5] = &pos;
        op.in[6] = &slopes;
    }
    if (a->sinks) op.in[7] = &sinks;
    op.out[0] = &o;
    tinyi_lm_door(f, &op);
    f->used = used;
}

/* ---- the mixer -------------------------------------------------------------------------------------------------- */

static const tinyi_lm_w *tinyi_lm_head_norm_load(tinyi_lm_load *ld, tinyi_lm_layer *l, int t, tiny_idx n_head,
                                                 tiny_idx d)
{
    const tllm_gguf_tensor *found = tinyi_lm_find(ld, l, t, NULL);
    uint64_t n;
    if (!found) return NULL;
    n = found->dim[0] * (found->rank > 1 ? found->dim[1] : 1);
    return tinyi_lm_vec(ld, l, t, n == (uint64_t)d ? d : n_head * d);
}

TINYI_FN void tinyi_lm_attn_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const uint64_t how = TINYI_LM_ARCH(m)->attn;
    const tiny_idx D = l->d_in;
    const int own = l->kv_from == l->i;
    tiny_idx q, k, v;
    if (ld->st) return;
    if (l->n_head <= 0 || l->n_kv <= 0 || l->d_k <= 0 || l->d_v <= 0) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                            "%s: layer %td has %td heads and %td key heads of %td and %td numbers: attention needs at "
                            "least one of each",
                            m->path, l->i, l->n_head, l->n_kv, l->d_k, l->d_v);
        return;
    }
    if (l->n_head % l->n_kv) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: layer %td has %td heads, not a multiple of its %td key heads",
                            m->path, l->i, l->n_head, l->n_kv);
        return;
    }
    if (!tinyi_lm_small(ld, l, l->n_head, l->d_k) || !tinyi_lm_small(ld, l, l->n_head, l->d_v) ||
        !tinyi_lm_small(ld, l, l->n_head, m->n_bucket))
        return;
    q = l->n_head * l->d_k;
    k = l->n_kv * l->d_k;
    v = l->n_kv * l->d_v;
    if (own && !(how & TINYI_LM_A_GATED) && tinyi_lm_find(ld, l, TINYI_T_ATTN_QKV, NULL)) {
        tinyi_lm_need(ld, l, TINYI_T_ATTN_QKV, D, q + k + v, 0);
    } else {
        tinyi_lm_need(ld, l, TINYI_T_ATTN_Q, D, how & TINYI_LM_A_GATED ? 2 * q : q, 0);
        if (own) {
            tinyi_lm_need(ld, l, TINYI_T_ATTN_K, D, k, 0);
            if (how & TINYI_LM_A_V_PLAIN && l->d_k == l->d_v) tinyi_lm_may(ld, l, TINYI_T_ATTN_V, D, v, 0);
            else tinyi_lm_need(ld, l, TINYI_T_ATTN_V, D, v, 0);
        }
    }
    if (TINYI_LM_ARCH(m)->top & TINYI_LM_T_T5)
        l->w[TINYI_T_ATTN_OUT] = tinyi_lm_need(ld, l, TINYI_T_ATTN_O, l->n_head * l->d_v, D, 0);
    else tinyi_lm_need(ld, l, TINYI_T_ATTN_OUT, l->n_head * l->d_v, l->d_mid, 0);
    if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_GATE) {
        const tiny_idx gates = tinyi_lm_width(ld, l, TINYI_T_ATTN_GATE) == l->n_head ? l->n_head : l->n_head * l->d_v;
        if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_GATE_ALWAYS) tinyi_lm_need(ld, l, TINYI_T_ATTN_GATE, D, gates, 0);
        else tinyi_lm_may(ld, l, TINYI_T_ATTN_GATE, D, gates, 0);
    }
    tinyi_lm_head_norm_load(ld, l, TINYI_T_ATTN_Q_NORM, l->n_head, l->d_k);
    tinyi_lm_head_norm_load(ld, l, TINYI_T_ATTN_K_NORM, l->n_kv, l->d_k);
    tinyi_lm_may_vec(ld, l, TINYI_T_ATTN_SUB_NORM, l->n_head * l->d_v);
    if (how & TINYI_LM_A_INDEXER && l->i >= tinyi_lm_count(ld, "leading_dense_block_count", -1, 0, 0, TINYI_LM_MOST)) {
        if (m->index_heads != l->n_kv)
            tinyi_lm_disagree(
                ld, l,
                "the indexer has a head for each key head: attention.indexer.head_count and attention.head_count_kv",
                m->index_heads, l->n_kv);
        if (l->rope >= 0 && m->rope[l->rope].n_rot > m->index_d)
            tinyi_lm_disagree(ld, l, "keys of the indexer, and their rotated numbers", m->index_d,
                              m->rope[l->rope].n_rot);
        if (!tinyi_lm_small(ld, l, m->index_heads, m->index_d)) return;
        tinyi_lm_need(ld, l, TINYI_T_INDEX_BLOCK_Q, D, m->index_heads * m->index_d, 0);
        tinyi_lm_need(ld, l, TINYI_T_INDEX_BLOCK_K, D, m->index_d, 0);
        tinyi_lm_vec(ld, l, TINYI_T_INDEX_Q_NORM, m->index_d);
        tinyi_lm_vec(ld, l, TINYI_T_INDEX_K_NORM, m->index_d);
    }
    if (!TINYI_LM_ENCODER(m) && !(TINYI_LM_ARCH(m)->top & TINYI_LM_T_T5))
        tinyi_lm_may_vec(ld, l, TINYI_T_ATTN_SINKS, l->n_head);
    if (how & TINYI_LM_A_RELATIVE) {        /* (n_bucket, n_head): head innermost in the file */
        if (l->i == 0) tinyi_lm_vec(ld, l, TINYI_T_ATTN_REL_B, m->n_bucket * l->n_head);
        else {
            tinyi_lm_may_vec(ld, l, TINYI_T_ATTN_REL_B, m->n_bucket * l->n_head);
            if (!l->w[TINYI_T_ATTN_REL_B]) l->w[TINYI_T_ATTN_REL_B] = (l - l->i)->w[TINYI_T_ATTN_REL_B];
        }
    }
    if (l->cross) {
        tinyi_lm_vec(ld, l, TINYI_T_CROSS_NORM, D);
        tinyi_lm_need(ld, l, TINYI_T_CROSS_Q, D, q, 0);
        tinyi_lm_need(ld, l, TINYI_T_CROSS_K, D, k, 0);
        tinyi_lm_need(ld, l, TINYI_T_CROSS_V, D, v, 0);
        tinyi_lm_need(ld, l, TINYI_T_CROSS_O, l->n_head * l->d_v, D, 0);
    }
}

/* by heads, or over the whole row, as the weights are */
static void tinyi_lm_head_norm(tinyi_lm_fwd *f, const tinyi_lm_w *w, tinyi_lm_heads x)
{
    const int kind = f->m->norm == TINYI_LM_RMS ? TINY_OP_RMSNORM : TINY_OP_LAYERNORM;
    tiny_tensor t;
    tiny_idx h;
    if (!w || f->st) return;
    if (w->n_in == x.d) {
        t = tiny_tensor_3d(x.p, TINY_F32, f->n, x.n_head, x.d);
        t.stride[0] = x.ld;
        t.stride[1] = x.head;
        tinyi_lm_norm_view(f, kind, w->v, w->bias, f->m->eps, &t, &t);
    } else if (w->t->rank > 1) {
        for (h = 0; h < x.n_head; h++) {
            t = tiny_tensor_2d(x.p + h * x.head, TINY_F32, f->n, x.d);
            t.stride[0] = x.ld;
            tinyi_lm_norm_view(f, kind, w->v + h * x.d, w->bias ? w->bias + h * x.d : NULL, f->m->eps, &t, &t);
        }
    } else {
        t = tiny_tensor_2d(x.p, TINY_F32, f->n, x.n_head * x.d);
        t.stride[0] = x.ld;
        tinyi_lm_norm_view(f, kind, w->v, w->bias, f->m->eps, &t, &t);
    }
}
static void tinyi_lm_head_plain(tinyi_lm_fwd *f, tinyi_lm_heads x)
{
    tiny_tensor t = tiny_tensor_3d(x.p, TINY_F32, f->n, x.n_head, x.d);
    t.stride[0] = x.ld;
    t.stride[1] = x.head;
    tinyi_lm_norm_view(f, TINY_OP_RMSNORM, NULL, NULL, f->m->eps, &t, &t);
}

typedef struct tinyi_lm_turn {
    tinyi_lm_heads x;
    const int32_t *row;
    double scale, offset;
    tiny_idx length;
    float clamp;
    const float *gate;
    tiny_idx gate_ld, gate_head, gate_step;
    int softplus;
    float *o;
} tinyi_lm_turn;
TINY_REF_BEGIN
/* queries grow slowly with their position: q (1 + a ln(1 + floor((pos + offset) / length))) */
static void tinyi_lm_temper_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_turn *q = (const tinyi_lm_turn *)arg;
    tiny_idx t, h, i;
    for (t = t0; t < t1; t++) {
        const int64_t step = (q->row[4 * t + 3] + (int64_t)q->offset) / (int64_t)q->length;
        const float s = (float)(1.0 + q->scale * tinyi_log64(1.0 + (double)step));
        for (h = 0; h < q->x.n_head; h++)
            for (i = 0; i < q->x.d; i++) q->x.p[t * q->x.ld + h * q->x.head + i] *= s;
    }
}
static void tinyi_lm_clamp_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_turn *q = (const tinyi_lm_turn *)arg;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < q->x.d; i++) {
            float *x = q->x.p + t * q->x.ld + i;
            *x = *x < -q->clamp ? -q->clamp : *x > q->clamp ? q->clamp : *x;
        }
}
static void tinyi_lm_gate_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_turn *q = (const tinyi_lm_turn *)arg;
    const tiny_idx d = q->x.d, n_head = q->x.n_head;
    tiny_idx t, h, i;
    for (t = t0; t < t1; t++)
        for (h = 0; h < n_head; h++)
            for (i = 0; i < d; i++) {
                const float g = q->gate[t * q->gate_ld + h * q->gate_head + i * q->gate_step];
                q->o[(t * n_head + h) * d + i] *=
                    q->softplus ? (float)tinyi_lm_softplus((double)g) : tinyi_sigmoid_ref(g);
            }
}
TINY_REF_END

TINYI_FN void tinyi_lm_temper(tinyi_lm_fwd *f, tinyi_lm_heads x)
{
    tinyi_lm_turn t;
    memset(&t, 0, sizeof t);
    t.x = x;
    t.row = f->row;
    t.scale = (double)f->m->temp_scale;
    t.offset = (double)f->m->temp_offset;
    t.length = f->m->temp_length;
    if (t.scale != 0.0 && t.length > 0) tinyi_lm_each(f, f->n, 16, tinyi_lm_temper_fn, &t);
}
static void tinyi_lm_clamp(tinyi_lm_fwd *f, float *x, tiny_idx ld, tiny_idx d)
{
    tinyi_lm_turn t;
    memset(&t, 0, sizeof t);
    t.x = tinyi_lm_heads_of(x, 1, d, ld);
    t.clamp = f->m->clamp_kqv;
    if (t.clamp > 0.0f) tinyi_lm_each(f, f->n, 16, tinyi_lm_clamp_fn, &t);
}

typedef struct tinyi_lm_blocks {
    const float *q;
    const tinyi_pool *k;
    const tllm_pages *pages;
    const int32_t *row;
    float *allow, *score;
    tiny_idx n, n_head, d, n_key, n_block, block, top, local;
} tinyi_lm_blocks;
TINY_REF_BEGIN
/* 1 for the keys of the best blocks of each token and head, the earlier of equals */
static void tinyi_lm_blocks_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_blocks *p = (const tinyi_lm_blocks *)arg;
    tiny_idx i, b, j, k;
    for (i = i0; i < i1; i++) {
        const tiny_idx t = i / p->n_head, h = i % p->n_head, sees = p->row[4 * t + 2], last = (sees - 1) / p->block;
        const int32_t *table = tllm_pages_table(p->pages, p->row[4 * t]);
        float *allow = p->allow + (h * p->n + t) * p->n_key, *score = p->score + i * p->n_block;
        for (j = 0; j < p->n_key; j++) allow[j] = 0.0f;
        for (b = 0; b <= last; b++) score[b] = b > last - p->local ? INFINITY : -INFINITY;
        for (j = 0; j < sees; j++) {
            const float x = tinyi_lm_dot(
                p->q + i * p->d,
                (const float *)(const void *)tinyi_pool_row(p->k, table[j / p->k->block], 0, j % p->k->block), p->d);
            if (x > score[j / p->block]) score[j / p->block] = x;
        }
        for (k = 0; k < p->top && k <= last; k++) {
            tiny_idx best = -1;
            for (b = 0; b <= last; b++)
                if (score[b] == score[b] && (best < 0 || score[b] > score[best])) best = b;
            score[best] = NAN;              /* taken; as many blocks as rounds, so that one is left */
            for (j = best * p->block; j < (best + 1) * p->block && j < sees; j++) allow[j] = 1.0f;
        }
    }
}
TINY_REF_END

/* (n_kv, n, n_key) of 1 for the keys that heads of that key head see, 0 for the others; NULL: all are seen */
static const float *tinyi_lm_index_blocks(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, H = m->index_heads, d = m->index_d, n_block = (f->n_key - 1) / m->index_block + 1;
    const int all = (f->dry ? f->s->n_ctx : f->n_key) <= m->index_top * m->index_block;
    float *allow = all ? NULL : tinyi_lm_take(f, H * n, f->n_key);
    const size_t used = f->used;
    float *q = tinyi_lm_take(f, n, H * d), *k = tinyi_lm_take(f, n, d),
          *score = all ? NULL : tinyi_lm_take(f, H * n, n_block);
    tinyi_lm_heads hq, hk;
    tinyi_lm_blocks p;
    if (f->st) return NULL;
    hq = tinyi_lm_heads_of(q, H, d, H * d);
    hk = tinyi_lm_heads_of(k, 1, d, d);
    tinyi_lm_linear_both(f, l->w[TINYI_T_INDEX_BLOCK_Q], q, l->w[TINYI_T_INDEX_BLOCK_K], k, 0, h, n);
    tinyi_lm_head_norm(f, l->w[TINYI_T_INDEX_Q_NORM], hq);
    tinyi_lm_head_norm(f, l->w[TINYI_T_INDEX_K_NORM], hk);
    tinyi_lm_rotate(f, l->rope, TINYI_LM_ARCH(m)->rope, hq);
    tinyi_lm_rotate(f, l->rope, TINYI_LM_ARCH(m)->rope, hk);
    if (!f->dry) tinyi_lm_hold(f, &f->s->held[l->i].index, k, d);
    if (!all && !f->dry) {
        p.q = q;
        p.k = &f->s->held[l->i].index;
        p.pages = &f->s->pages;
        p.row = f->row;
        p.allow = allow;
        p.score = score;
        p.n = n;
        p.n_head = H;
        p.d = d;
        p.n_key = f->n_key;
        p.n_block = n_block;
        p.block = m->index_block;
        p.top = m->index_top;
        p.local = m->index_local;
        tinyi_lm_each(f, n * H, 1, tinyi_lm_blocks_fn, &p);
    }
    f->used = used;
    return allow;
}

/* keys, or queries: normed and rotated */
static void tinyi_lm_keys_ready(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const tinyi_lm_w *norm, tinyi_lm_heads x)
{
    const uint64_t how = TINYI_LM_ARCH(f->m)->attn;
    if (!(how & TINYI_LM_A_QK_AFTER)) tinyi_lm_head_norm(f, norm, x);
    tinyi_lm_rotate(f, l->rope, TINYI_LM_ARCH(f->m)->rope, x);
    if (how & TINYI_LM_A_QK_AFTER) tinyi_lm_head_norm(f, norm, x);
    if (how & TINYI_LM_A_QK_PLAIN && l->rope >= 0 && f->m->n_expert != 128) tinyi_lm_head_plain(f, x);
}

TINYI_FN void tinyi_lm_attn_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const uint64_t how = TINYI_LM_ARCH(m)->attn;
    const tiny_idx nq = l->n_head * l->d_k, nk = l->n_kv * l->d_k, nv = l->n_kv * l->d_v;
    const size_t used = f->used;
    const int keeps = !TINYI_HAS(ENCODERS) || (!f->encoding && !TINYI_LM_ENCODER(m));
    /* keys and values of all tokens, and queries of those that are wanted */
    const int narrows = f->want && l->mix2 == TINYI_LM_NO_MIX && !l->w[TINYI_T_INDEX_BLOCK_Q];
    const float *gate = NULL;
    tiny_idx n = f->n, ld = nq;
    tinyi_lm_heads q, k, v;
    const tinyi_lm_w *w[3];
    tinyi_lm_attend a;
    float *o, *buf, *out[3];
    int n_w = 0;
    memset(&k, 0, sizeof k);
    memset(&v, 0, sizeof v);
    if (l->w[TINYI_T_ATTN_QKV]) {
        ld = nq + nk + nv;
        buf = tinyi_lm_take(f, n, ld);
        if (f->st) return;
        tinyi_lm_linear(f, l->w[TINYI_T_ATTN_QKV], buf, h, n);
        q = tinyi_lm_heads_of(buf, l->n_head, l->d_k, ld);
        k = tinyi_lm_heads_of(buf + nq, l->n_kv, l->d_k, ld);
        v = tinyi_lm_heads_of(buf + nq + nk, l->n_kv, l->d_v, ld);
        tinyi_lm_clamp(f, buf, ld, ld);
    } else {
        if (how & TINYI_LM_A_GATED) ld = 2 * nq;
        buf = tinyi_lm_take(f, n, ld);
        if (f->st) return;
        q = tinyi_lm_heads_of(buf, l->n_head, l->d_k, ld);
        if (!narrows) {
            w[n_w] = l->w[TINYI_T_ATTN_Q];
            out[n_w++] = buf;
        }
        if (how & TINYI_LM_A_GATED) {
            q.head = 2 * l->d_k;
            gate = buf + l->d_k;
        }
        if (l->w[TINYI_T_ATTN_K]) {
            buf = tinyi_lm_take(f, n, nk);
            k = tinyi_lm_heads_of(buf, l->n_kv, l->d_k, nk);
            buf = tinyi_lm_take(f, n + 1, nv);
            v = tinyi_lm_heads_of(buf, l->n_kv, l->d_v, nv);
            w[n_w] = l->w[TINYI_T_ATTN_K];
            out[n_w++] = k.p;
            if (l->w[TINYI_T_ATTN_V]) {
                w[n_w] = l->w[TINYI_T_ATTN_V];
                out[n_w++] = v.p;
            }
        }
        tinyi_lm_linears(f, n_w, w, 0, out, h, n);
        if (k.p && !l->w[TINYI_T_ATTN_V]) tinyi_lm_copy(f, v.p, nv, k.p, nk, n, nv);
        if (!narrows) tinyi_lm_clamp(f, q.p, ld, ld);
        if (k.p) {
            tinyi_lm_clamp(f, k.p, nk, nk);
            tinyi_lm_clamp(f, v.p, nv, nv);
        }
    }
    if (how & TINYI_LM_A_V_PLAIN && v.p) tinyi_lm_head_plain(f, v);
    if (k.p) {
        tinyi_lm_keys_ready(f, l, l->w[TINYI_T_ATTN_K_NORM], k);
        if (TINYI_LM_ROTATED(m) & TLLM_ROTATE_KEYS) k = tinyi_lm_turn_heads(f, k);
        if (keeps && !f->dry) {
            tinyi_lm_hold(f, &f->s->held[l->kv_from].k, k.p, k.ld);
            tinyi_lm_hold(f, &f->s->held[l->kv_from].v, v.p, v.ld);
        }
    }
    if (narrows) {
        tinyi_lm_narrow(f, l->w[TINYI_T_ATTN_QKV] ? q.p : NULL, ld);
        if ((n = f->n) == 0) { f->used = used; return; }
        if (!l->w[TINYI_T_ATTN_QKV]) {
            tinyi_lm_linear(f, l->w[TINYI_T_ATTN_Q], q.p, h, n);
            tinyi_lm_clamp(f, q.p, ld, ld);
        }
    }
    tinyi_lm_keys_ready(f, l, l->w[TINYI_T_ATTN_Q_NORM], q);
    if (!(how & TINYI_LM_A_CHUNKED) || l->rope < 0) tinyi_lm_temper(f, q);
    if (TINYI_LM_ROTATED(m) & TLLM_ROTATE_KEYS) q = tinyi_lm_turn_heads(f, q);
    o = tinyi_lm_take(f, n, l->n_head * l->d_v);
    memset(&a, 0, sizeof a);
    a.q = q;
    a.n = a.n_key = n;
    a.row = f->row;
    a.n_kv = l->n_kv;
    a.d_k = l->d_k;
    a.d_v = l->d_v;
    a.head_k = l->d_k;
    a.head_v = l->d_v;
    a.k = k.p;
    a.v = v.p;
    a.ld_k = k.ld;
    a.ld_v = v.ld;
    a.o = o;
    a.scale = l->scale;
    a.softcap = m->attn_cap;
    a.causal = keeps;
    if (how & TINYI_LM_A_INDEXER && l->w[TINYI_T_INDEX_BLOCK_Q]) {
        a.allow = tinyi_lm_index_blocks(f, l, h);
        a.ld_allow = f->n_key;
        a.allow_kv = a.allow ? n * f->n_key : 0;
    }
    a.window = l->window;
    a.chunked = (how & TINYI_LM_A_CHUNKED) != 0;
    a.sinks = l->w[TINYI_T_ATTN_SINKS] ? l->w[TINYI_T_ATTN_SINKS]->v : NULL;
    a.alibi = m->alibi;
    if (l->w[TINYI_T_ATTN_REL_B]) {
        a.relative = l->w[TINYI_T_ATTN_REL_B]->v;
        a.n_bucket = m->n_bucket;
        a.both_ways = !a.causal;
    }
    if (keeps) tinyi_lm_attention_held(f, &a, l);
    else tinyi_lm_attention(f, &a);
    if (gate) {
        tinyi_lm_turn t;
        memset(&t, 0, sizeof t);
        t.x = tinyi_lm_heads_of(NULL, l->n_head, l->d_v, 0);
        t.gate = gate;
        t.gate_ld = q.ld;
        t.gate_head = q.head;
        t.gate_step = 1;
        t.o = o;
        tinyi_lm_each(f, n, 4, tinyi_lm_gate_fn, &t);
    }
    if (l->w[TINYI_T_ATTN_GATE] && TINYI_LM_ARCH(m)->attn & TINYI_LM_A_GATE) {
        const tiny_idx gates = l->w[TINYI_T_ATTN_GATE]->n_out;
        float *g = tinyi_lm_take(f, n, gates);
        tinyi_lm_turn t;
        if (f->st) return;
        tinyi_lm_linear(f, l->w[TINYI_T_ATTN_GATE], g, h, n);
        memset(&t, 0, sizeof t);
        t.x = tinyi_lm_heads_of(NULL, l->n_head, l->d_v, 0);
        t.gate = g;
        t.gate_ld = gates;
        t.gate_head = gates / l->n_head;
        t.gate_step = gates != l->n_head;
        t.softplus = (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_GATE_SOFTPLUS) != 0;
        t.o = o;
        tinyi_lm_each(f, n, 4, tinyi_lm_gate_fn, &t);
    }
    if (m->value_scale != 1.0f) tinyi_lm_scale(f, o, o, m->value_scale, n * l->n_head * l->d_v);
    if (l->w[TINYI_T_ATTN_SUB_NORM]) tinyi_lm_norm(f, l->w[TINYI_T_ATTN_SUB_NORM], o, o, n, l->n_head * l->d_v);
    if (TINYI_LM_ROTATED(m) & TLLM_ROTATE_HEADS) o = tinyi_lm_turn_across(f, o, n, l->n_head, l->d_v);
    if (TINYI_LM_X_BITS(f->s)) tinyi_lm_few_bits(f, o, n, l->n_head * l->d_v);
    tinyi_lm_linear(f, l->w[TINYI_T_ATTN_OUT], y, o, n);
    f->used = used;
}

/* ---- a decoder that looks at an encoder ------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_attn_cross_keys(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const float *encoded, tiny_idx n)
{
    if (f->st || f->dry) return;
    tinyi_lm_linear_both(f, l->w[TINYI_T_CROSS_K], f->s->held[l->i].cross_k, l->w[TINYI_T_CROSS_V],
                         f->s->held[l->i].cross_v, 0, encoded, n);
}

TINYI_FN void tinyi_lm_attn_cross(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const size_t used = f->used;
    const tiny_idx n = f->n;
    tinyi_lm_attend a;
    memset(&a, 0, sizeof a);
    a.q = tinyi_lm_heads_of(tinyi_lm_take(f, n, l->n_head * l->d_k), l->n_head, l->d_k, l->n_head * l->d_k);
    a.o = tinyi_lm_take(f, n, l->n_head * l->d_v);
    if (f->st) return;
    tinyi_lm_linear(f, l->w[TINYI_T_CROSS_Q], a.q.p, h, n);
    if (!f->dry) {
        a.k = f->s->held[l->i].cross_k;
        a.v = f->s->held[l->i].cross_v;
    }
    a.n = n;
    a.n_key = f->dry ? f->s->n_ctx : f->s->n_encoded;
    a.n_kv = l->n_kv;
    a.d_k = l->d_k;
    a.d_v = l->d_v;
    a.ld_k = l->n_kv * l->d_k;
    a.ld_v = l->n_kv * l->d_v;
    a.head_k = l->d_k;
    a.head_v = l->d_v;
    a.scale = l->scale;
    tinyi_lm_attention(f, &a);
    tinyi_lm_linear(f, l->w[TINYI_T_CROSS_O], y, a.o, n);
    f->used = used;
}
