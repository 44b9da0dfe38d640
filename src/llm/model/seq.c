/* src/llm/model/seq.c - the sequences of a state: fork, copy, trim, shift, share */
#include "llm/model/model_inside.h"
#include <string.h>

static tiny_status tinyi_lm_seq_check(const tllm_state *s, tiny_idx seq)
{
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    st = tinyi_ctx_check(s->ctx);
    if (!st && (seq < 0 || seq >= s->n_seq))
        st = tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: there is no sequence %td: this state has %td", s->m->path, seq,
                        s->n_seq);
    return st;
}

TINY_API tiny_idx tllm_state_sequences(const tllm_state *s) { return s ? s->n_seq : 0; }
TINY_API tiny_idx tllm_state_free_cells(const tllm_state *s)
{
    return s ? tllm_pages_free(&s->pages) * s->pages.block : 0;
}
TINY_API tiny_idx tllm_seq_length(const tllm_state *s, tiny_idx seq)
{
    return s ? tllm_pages_length(&s->pages, seq) : 0;
}
TINY_API int64_t tllm_seq_next(const tllm_state *s, tiny_idx seq)
{
    const tiny_idx n = tllm_seq_length(s, seq);
    return n ? (int64_t)s->pos[seq * s->n_ctx + n - 1] + 1 : 0;
}

TINY_API void tllm_seq_clear(tllm_state *s, tiny_idx seq)
{
    if (!s || seq < 0 || seq >= s->n_seq) return;
    (void)tllm_pages_trim(&s->pages, seq, 0);
    if (s->n_kept) memset(s->kept + seq * s->n_kept, 0, (size_t)s->n_kept * sizeof(float));
}

TINY_API tiny_status tllm_seq_trim(tllm_state *s, tiny_idx seq, tiny_idx n)
{
    tiny_status st = tinyi_lm_seq_check(s, seq);
    const tiny_idx held = st ? 0 : tllm_pages_length(&s->pages, seq);
    if (st) return st;
    if (n < 0 || n > held)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: the sequence has %td tokens: %td cannot be kept", s->m->path,
                          held, n);
    if (n == held) return TINY_OK;
    if (n == 0) { tllm_seq_clear(s, seq); return TINY_OK; }
    if (s->m->recurrent)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED, "%s: a recurrent state cannot be trimmed to %td tokens",
                          s->m->path, n);
    return tllm_pages_trim(&s->pages, seq, n);
}

TINY_API tiny_status tllm_seq_fork(tllm_state *s, tiny_idx from, tiny_idx to)
{
    tiny_status st = tinyi_lm_seq_check(s, from);
    if (!st) st = tinyi_lm_seq_check(s, to);
    if (st || from == to) return st;
    st = tllm_pages_fork(&s->pages, from, to);
    memcpy(s->pos + to * s->n_ctx, s->pos + from * s->n_ctx,
           (size_t)tllm_pages_length(&s->pages, from) * sizeof *s->pos);
    if (s->n_kept) memcpy(s->kept + to * s->n_kept, s->kept + from * s->n_kept, (size_t)s->n_kept * sizeof(float));
    return st;
}

/* bytes of a cell in one pool */
static void tinyi_lm_cell_copy(const tllm_state *s, const tinyi_pool *p, tiny_idx from, tiny_idx at, tiny_idx to,
                               tiny_idx to_at)
{
    const int32_t a = tllm_pages_table(&s->pages, from)[at / p->block],
                  b = tllm_pages_table(&s->pages, to)[to_at / p->block];
    tiny_idx part;
    for (part = 0; part < p->n_part; part++)
        memcpy(tinyi_pool_row(p, b, part, to_at % p->block), tinyi_pool_row(p, a, part, at % p->block), p->row_bytes);
}

TINY_API tiny_status tllm_seq_copy(tllm_state *s, tiny_idx from, tiny_idx to, tiny_idx first, tiny_idx n)
{
    tiny_status st = tinyi_lm_seq_check(s, from);
    tllm_page_copy copy;
    tiny_idx held, there, i, j;
    int k;
    if (!st) st = tinyi_lm_seq_check(s, to);
    if (st) return st;
    held = tllm_pages_length(&s->pages, from);
    there = tllm_pages_length(&s->pages, to);
    if (first < 0 || n < 0 || first > held || n > held - first)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "%s: sequence %td holds %td tokens: %td from index %td on cannot be copied", s->m->path,
                          from, held, n, first);
    if (from == to)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: sequence %td cannot be appended to itself", s->m->path, from);
    if (!n) return TINY_OK;
    if (s->m->recurrent && (there || n != held))
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED,
                          "%s: %td tokens of a recurrent state cannot be copied: only the whole sequence", s->m->path,
                          n);
    if (TINYI_LM_ARCH(s->m)->mixer == TINYI_LM_COMPRESSED && (first || there))
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED,
                          "%s: blocks of keys are made of neighbouring tokens: only the first tokens can be copied, "
                          "to an empty sequence",
                          s->m->path);
    if (!first && !there) {
        st = tllm_seq_fork(s, from, to);
        return st ? st : tllm_seq_trim(s, to, n);
    }
    if (there && s->pos[from * s->n_ctx + first] < tllm_seq_next(s, to))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "%s: position %d does not come after the positions held by sequence %td", s->m->path,
                          (int)s->pos[from * s->n_ctx + first], to);
    st = tllm_pages_append(&s->pages, to, n, &copy);
    if (st) return st;
    st = tinyi_lm_page_copy(s, &copy);
    if (!st) st = tinyi_lm_pages_home(s);
    if (st) return st;
    memcpy(s->pos + to * s->n_ctx + there, s->pos + from * s->n_ctx + first, (size_t)n * sizeof *s->pos);
    for (i = 0; i < s->m->n_layer; i++) {
        const tinyi_lm_held *h = &s->held[i];
        const tinyi_pool *pool[3];
        pool[0] = &h->k;
        pool[1] = &h->v;
        pool[2] = &h->index;
        for (k = 0; k < 3; k++)
            for (j = 0; j < n && pool[k]->type; j++) tinyi_lm_cell_copy(s, pool[k], from, first + j, to, there + j);
    }
    return TINY_OK;
}

TINYI_FN tiny_status tinyi_lm_seq_move(tllm_state *s, tiny_idx from, tiny_idx to, size_t *bytes)
{
    tiny_status st = tinyi_lm_seq_check(s, from);
    const tiny_idx n = tllm_pages_length(&s->pages, from), block = s->pages.block;
    const int32_t *a, *b;
    tllm_page_copy copy;
    tiny_idx i, p, m;
    int k;
    if (!st) st = tinyi_lm_seq_check(s, to);
    if (st || from == to) return st;
    tllm_seq_clear(s, to);
    st = tllm_pages_append(&s->pages, to, n, &copy);
    if (!st) st = tinyi_lm_pages_home(s);
    if (st) return st;
    a = tllm_pages_table(&s->pages, from);
    b = tllm_pages_table(&s->pages, to);
    for (i = 0; i < s->m->n_layer; i++) {
        const tinyi_lm_held *h = &s->held[i];
        const tinyi_pool *pool[3];
        pool[0] = &h->k;
        pool[1] = &h->v;
        pool[2] = &h->index;
        for (k = 0; k < 3; k++)
            for (p = 0; p * block < n && pool[k]->type; p++) {
                m = TINYI_MIN(block, n - p * block);
                tinyi_pool_copy(pool[k], a[p], b[p], m);
                *bytes += (size_t)(m * pool[k]->n_part) * pool[k]->row_bytes;
            }
    }
    memcpy(s->pos + to * s->n_ctx, s->pos + from * s->n_ctx, (size_t)n * sizeof *s->pos);
    if (s->n_kept) memcpy(s->kept + to * s->n_kept, s->kept + from * s->n_kept, (size_t)s->n_kept * sizeof(float));
    *bytes += (size_t)n * sizeof *s->pos + (size_t)s->n_kept * sizeof(float);
    tllm_seq_clear(s, from);
    return TINY_OK;
}

/* ---- moving to lower positions ---------------------------------------------------------------------------------- */

static tiny_status tinyi_lm_may_move(const tllm_state *s)
{
    const tllm_model *m = s->m;
    const char *why = NULL;
    tiny_idx i;
    if (m->recurrent) why = "layers are recurrent";
    else if (m->top.w[TINYI_T_POSITION_EMBD]) why = "positions are learned";
    else if (TINYI_LM_ROTATED(m) & TLLM_ROTATE_KEYS)
        why = "keys are rotated once more after their rotation by position";
    else if (TINYI_LM_ARCH(m)->mixer == TINYI_LM_COMPRESSED)
        why = "blocks of keys are made of neighbouring tokens";
    else if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_CHUNKED) why = "the chunks of its windows depend on positions";
    else if (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_QK_AFTER)
        for (i = 0; i < m->n_layer; i++)
            if (m->layer[i].w[TINYI_T_ATTN_K_NORM] && m->layer[i].rope >= 0)
                why = "keys are normed after their rotation";
    if (why)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED,
                          "%s: tokens cannot move to other positions, %s: compute them again", m->path, why);
    return TINY_OK;
}

TINY_REF_BEGIN
/* pairs turned by -by positions, as tinyi_lm_rotate turns them forward */
static void tinyi_lm_turn_back(float *x, const double *freq, tiny_idx half, int style, int64_t by)
{
    const tiny_idx a_step = style == TINYI_LM_PAIRS ? 2 : 1, b_at = style == TINYI_LM_PAIRS ? 1 : half;
    tiny_idx j;
    for (j = 0; j < half; j++) {
        const double c = tinyi_cos64((double)by * freq[j]), n = tinyi_sin64((double)by * freq[j]);
        const double a = (double)x[j * a_step], b = (double)x[j * a_step + b_at];
        x[j * a_step] = (float)(a * c + b * n);
        x[j * a_step + b_at] = (float)(b * c - a * n);
    }
}
TINY_REF_END

/* cells at .. length of a layer to n cells lower, keys turned by -by: heads of d numbers, of which those from skip on
 * are turned */
static void tinyi_lm_move(tllm_state *s, const tinyi_pool *p, tiny_idx seq, tiny_idx at, tiny_idx n, float *x,
                          const tinyi_lm_rope *rope, int style, tiny_idx d, tiny_idx skip, int64_t by)
{
    const tiny_idx length = tllm_pages_length(&s->pages, seq);
    const int32_t *table = tllm_pages_table(&s->pages, seq);
    tiny_idx j, h;
    for (j = at; p->type && j < length; j++) {
        if (!rope) { tinyi_lm_cell_copy(s, p, seq, j, seq, j - n); continue; }
        tinyi_pool_read(p, table[j / p->block], j % p->block, x);
        for (h = 0; h < p->n_part * p->d_part / d; h++)
            tinyi_lm_turn_back(x + h * d + skip,
                               rope->freq_long && s->n_ctx > s->m->rope_original ? rope->freq_long : rope->freq,
                               rope->n_rot / 2, style, by);
        tinyi_pool_write(p, table[(j - n) / p->block], (j - n) % p->block, x);
    }
}

TINY_API tiny_status tllm_seq_shift(tllm_state *s, tiny_idx seq, tiny_idx first, tiny_idx n)
{
    tiny_status st = tinyi_lm_seq_check(s, seq);
    tllm_page_copy copy;
    tinyi_lm_fwd f;
    tiny_idx held, i, most = 1;
    int32_t *pos;
    int64_t by;
    float *x;
    if (st) return st;
    held = tllm_pages_length(&s->pages, seq);
    if (first < 0 || n < 0 || first > held || n > held - first)
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT,
                          "%s: sequence %td holds %td tokens: %td from index %td on cannot be dropped", s->m->path,
                          seq, held, n, first);
    if (first + n == held) return tllm_seq_trim(s, seq, first);
    if (!n) return TINY_OK;
    st = tinyi_lm_may_move(s);
    if (st) return st;
    for (i = 0; i < s->m->n_layer; i++)
        if (s->held[i].k.type) most = TINYI_MAX(most, s->held[i].k.n_part * s->held[i].k.d_part);
    if (s->m->index_heads) most = TINYI_MAX(most, s->m->index_d);
    tinyi_lm_begin(&f, s);
    x = tinyi_lm_take(&f, 1, most);
    if (f.st) return f.st;
    for (i = first / s->pages.block; i * s->pages.block < held && !st; i++) {      /* what is written must be its own */
        st = tllm_pages_own(&s->pages, seq, i, &copy);
        if (!st) st = tinyi_lm_page_copy(s, &copy);
    }
    if (st) return st;
    pos = s->pos + seq * s->n_ctx;
    st = tinyi_lm_pages_home(s);
    if (st) return st;
    by = (int64_t)pos[first + n] - pos[first];
    for (i = 0; i < s->m->n_layer; i++) {
        const tinyi_lm_layer *l = &s->m->layer[i];
        const tinyi_lm_held *h = &s->held[i];
        const tinyi_lm_rope *rope =
            l->rope >= 0 && TINYI_LM_ARCH(s->m)->rope != TINYI_LM_NO_ROPE ? &s->m->rope[l->rope] : NULL;
        const int latent = l->mix == TINYI_LM_MLA;
        tinyi_lm_move(s, &h->k, seq, first + n, n, x, rope, TINYI_LM_ARCH(s->m)->rope,
                      latent ? s->m->r_kv + s->m->d_rope : l->d_k, latent ? s->m->r_kv : 0, by);
        tinyi_lm_move(s, &h->v, seq, first + n, n, x, NULL, 0, 0, 0, 0);
        tinyi_lm_move(s, &h->index, seq, first + n, n, x, rope,
                      TINYI_LM_ARCH(s->m)->attn & TINYI_LM_A_INDEX_PAIRS ? TINYI_LM_PAIRS : TINYI_LM_HALVES,
                      s->m->index_d, 0, by);
    }
    for (i = first + n; i < held; i++) pos[i - n] = (int32_t)(pos[i] - by);
    return tllm_pages_trim(&s->pages, seq, held - n);
}

TINY_API tiny_status tllm_seq_share(tllm_state *s, tiny_idx seq, const int32_t *tokens, tiny_idx n, tiny_idx *n_held)
{
    tiny_status st = tinyi_lm_seq_check(s, seq);
    tiny_idx i, held = 0;
    if (n_held) *n_held = 0;
    if (st) return st;
    if (n < 0 || (n && !tokens))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "%s: the tokens are NULL", s->m->path);
    tinyi_lm_pages_now(s);
    st = tllm_pages_share(&s->pages, seq, tokens, n > 0 ? n - 1 : 0, &held);
    for (i = 0; i < held; i++) s->pos[seq * s->n_ctx + i] = (int32_t)i;
    if (n_held) *n_held = held;
    return st;
}
