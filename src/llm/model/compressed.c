/* src/llm/model/compressed.c - deepseek4: streams mixed by learned matrices, and attention over a window and compressed
 * keys
 * After    the published model; Z. Xie et al., "mHC: Manifold-Constrained Hyper-Connections", 2025 (arXiv 2512.24880).
 * Streams  of a token: X_1 .. X_S. Before a half m = F rms(X), X as one row; a_s = sigmoid(u_0 m_s + b_s) + eps; the
 *          half reads sum_s a_s X_s. p_s = 2 sigmoid(u_1 m_(S+s) + b_(S+s)); C = softmax of u_2 m + b over the stream
 *          that is written, + eps; columns and rows are then divided by their sums (+ eps) in turn, columns first and
 *          last;
 *          X_t = p_t y + sum_s C_st X_s. The output reads sum_s a_s X_s.
 * Keys     one row of d numbers serves as key and value of all heads: k = rms(W_kv h), its last numbers rotated; q =
 *          rms of each head of W_b rms(W_a h), rotated there too. A query sees its window. In a layer with ratio R it
 *          also sees complete blocks of R tokens: c_b = rms(sum over rows of softmax(W_g h + e) * (W_c h)), each number
 *          by itself, rotated to the start of the block. With R = 4, rows have two halves: a block uses the first
 *          halves of the block before it and its own second halves. An indexer then picks the best blocks by
 *          sum_i w_i max(0, iq_i . ic_b); ic is computed like c. The softmax sum includes the sinks. o is rotated back;
 *          y = W_o2 (W_o1g o_g), o_g the heads of a group.
 * Kept     pages of k, and pages of the inputs of the blocks; the last cell of a block also holds the block. Blocks are
 *          counted by cells.                                                                                         */
#include "llm/model/model_inside.h"
#include <string.h>

/* ---- numbers and tensors ---------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_hyper_numbers(tinyi_lm_load *ld)
{
    tllm_model *m = ld->m;
    const char *name = TINYI_LM_ARCH(m)->name;
    m->n_hyper = tinyi_lm_count(ld, "hyper_connection.count", -1, -1, 1, 16);
    m->hyper_turns = tinyi_lm_count(ld, "hyper_connection.sinkhorn_iterations", -1, -1, 1, 1000);
    m->hyper_eps = tinyi_lm_real(ld, "hyper_connection.epsilon", -1.0f);
    m->n_hash = tinyi_lm_count(ld, "hash_layer_count", -1, -1, 0, TINYI_LM_MOST);
    m->out_groups = tinyi_lm_count(ld, "attention.output_group_count", -1, -1, 1, 65536);
    m->out_rank = tinyi_lm_count(ld, "attention.output_lora_rank", -1, -1, 1, TINYI_LM_MOST);
    m->r_q = tinyi_lm_count(ld, "attention.q_lora_rank", -1, -1, 1, TINYI_LM_MOST);
    m->index_heads = tinyi_lm_count(ld, "attention.indexer.head_count", -1, -1, 1, 65536);
    m->index_d = tinyi_lm_count(ld, "attention.indexer.key_length", -1, -1, 1, TINYI_LM_MOST);
    m->index_top = tinyi_lm_count(ld, "attention.indexer.top_k", -1, -1, 1, TINYI_LM_MOST);
    if (!ld->st && !(m->hyper_eps >= 0.0f && m->hyper_eps <= 1.0f))
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.hyper_connection.epsilon is missing or not in 0..1",
            m->path, name);
    if (!ld->st && m->gating != 4)
        ld->st = tinyi_fail(ld->ctx, TINY_E_UNSUPPORTED,
                            "%s: %s.expert_gating_func is %d: only 4, the root of softplus, is supported for %s",
                            m->path, name, m->gating, name);
}

TINYI_FN void tinyi_lm_hyper_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tiny_idx S = ld->m->n_hyper, D = ld->m->n_embd, mix = (2 + S) * S;
    if (l->i < 0) {
        tinyi_lm_need(ld, l, TINYI_T_HYPER_FN, S * D, S, 0);
        tinyi_lm_vec(ld, l, TINYI_T_HYPER_BASE, S);
        tinyi_lm_vec(ld, l, TINYI_T_HYPER_SCALE, 1);
        return;
    }
    tinyi_lm_need(ld, l, TINYI_T_HYPER_ATTN_FN, S * D, mix, 0);
    tinyi_lm_vec(ld, l, TINYI_T_HYPER_ATTN_BASE, mix);
    tinyi_lm_vec(ld, l, TINYI_T_HYPER_ATTN_SCALE, 3);
    tinyi_lm_need(ld, l, TINYI_T_HYPER_FFN_FN, S * D, mix, 0);
    tinyi_lm_vec(ld, l, TINYI_T_HYPER_FFN_BASE, mix);
    tinyi_lm_vec(ld, l, TINYI_T_HYPER_FFN_SCALE, 3);
}

/* what a cell holds for the blocks of its layer: rows and scores of both kinds, then the block that ends there */
typedef struct tinyi_lm_comp { tiny_idx wide, iwide, score, irow, iscore, block, iblock, all; } tinyi_lm_comp;
static tinyi_lm_comp tinyi_lm_comp_of(const tllm_model *m, const tinyi_lm_layer *l)
{
    tinyi_lm_comp c;
    c.wide = l->ratio == 4 ? 2 * l->d_k : l->d_k;
    c.iwide = l->ratio == 4 ? 2 * m->index_d : 0;
    c.score = c.wide;
    c.irow = 2 * c.wide;
    c.iscore = c.irow + c.iwide;
    c.block = c.iscore + c.iwide;
    c.iblock = c.block + l->d_k;
    c.all = c.iblock + c.iwide / 2;
    return c;
}
TINYI_FN tiny_idx tinyi_lm_comp_width(const tllm_model *m, const tinyi_lm_layer *l) { return l->ratio
    ? tinyi_lm_comp_of(m, l).all : 0; }

TINYI_FN void tinyi_lm_comp_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->n_embd, H = l->n_head, d = l->d_k, wide = l->ratio == 4 ? 2 * d : d, G = m->out_groups;
    const tllm_gguf_tensor *found;
    if (ld->st || !tinyi_lm_small(ld, l, H, d) || !tinyi_lm_small(ld, l, G, m->out_rank) || !tinyi_lm_small(ld, l,
        m->index_heads, m->index_d) || !tinyi_lm_small(ld, l, wide, l->ratio + 1)) return;
    if (H % G) tinyi_lm_disagree(ld, l, "attention.head_count is not a multiple of attention.output_group_count", H, G);
    if (l->d_v != d || l->n_kv != 1) tinyi_lm_disagree(ld, l,
        "one row is key and value, but their lengths differ", d, l->d_v);
    if (m->rope[l->rope].n_rot > m->index_d) tinyi_lm_disagree(ld, l,
        "keys of the indexer, and their rotated numbers", m->index_d, m->rope[l->rope].n_rot);
    tinyi_lm_need(ld, l, TINYI_T_ATTN_Q_A, D, m->r_q, 0);
    tinyi_lm_vec(ld, l, TINYI_T_ATTN_Q_A_NORM, m->r_q);
    tinyi_lm_need(ld, l, TINYI_T_ATTN_Q_B, m->r_q, H * d, 0);
    tinyi_lm_need(ld, l, TINYI_T_ATTN_KV, D, d, 0);
    tinyi_lm_vec(ld, l, TINYI_T_ATTN_KV_A_NORM, d);
    tinyi_lm_vec(ld, l, TINYI_T_ATTN_SINKS, H);
    found = tinyi_lm_find(ld, l, TINYI_T_ATTN_OUT_A, NULL);
    if (found && found->rank == 2) tinyi_lm_need(ld, l, TINYI_T_ATTN_OUT_A, H / G * d, G * m->out_rank, 0);
    else tinyi_lm_need(ld, l, TINYI_T_ATTN_OUT_A, H / G * d, m->out_rank, G);
    tinyi_lm_need(ld, l, TINYI_T_ATTN_OUT_B, G * m->out_rank, D, 0);
    if (!l->ratio) return;
    tinyi_lm_need(ld, l, TINYI_T_COMP_KV, D, wide, 0);
    tinyi_lm_need(ld, l, TINYI_T_COMP_GATE, D, wide, 0);
    tinyi_lm_vec(ld, l, TINYI_T_COMP_APE, wide * l->ratio);
    tinyi_lm_vec(ld, l, TINYI_T_COMP_NORM, d);
    if (l->ratio != 4) return;
    tinyi_lm_need(ld, l, TINYI_T_INDEX_PROJ, D, m->index_heads, 0);
    tinyi_lm_need(ld, l, TINYI_T_INDEX_Q_B, m->r_q, m->index_heads * m->index_d, 0);
    tinyi_lm_need(ld, l, TINYI_T_INDEX_COMP_KV, D, 2 * m->index_d, 0);
    tinyi_lm_need(ld, l, TINYI_T_INDEX_COMP_GATE, D, 2 * m->index_d, 0);
    tinyi_lm_vec(ld, l, TINYI_T_INDEX_COMP_APE, 2 * m->index_d * l->ratio);
    tinyi_lm_vec(ld, l, TINYI_T_INDEX_COMP_NORM, m->index_d);
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

typedef struct tinyi_lm_hyper { const float *mix, *scale, *base, *y; float *x, *pre, *in; double *c; tiny_idx S, D,
    width, turns; double eps; } tinyi_lm_hyper;
TINY_REF_BEGIN
static double tinyi_lm_hyper_gate(double x) { return 1.0 / (1.0 + tinyi_exp64(-x)); }
/* what a half reads */
static void tinyi_lm_hyper_in(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_hyper *q = (const tinyi_lm_hyper *)arg;
    tiny_idx t, s, i;
    for (t = t0; t < t1; t++) {
        float *y = q->in + t * q->D;
        for (i = 0; i < q->D; i++) y[i] = 0.0f;
        for (s = 0; s < q->S; s++) {
            const double a = tinyi_lm_hyper_gate((double)q->mix[t * q->width + s] * (double)q->scale[0]
                + (double)q->base[s]) + q->eps;
            const float *x = q->x + (t * q->S + s) * q->D;
            for (i = 0; i < q->D; i++) y[i] = (float)((double)y[i] + a * (double)x[i]);
        }
    }
}
/* y (n, D) of a half joins the streams */
static void tinyi_lm_hyper_out(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_hyper *q = (const tinyi_lm_hyper *)arg;
    const tiny_idx S = q->S;
    tiny_idx t, r, s, w, i;
    for (t = t0; t < t1; t++) {
        const float *m = q->mix + t * q->width;
        float *x = q->x + t * S * q->D;
        /* c: from stream s to stream w at s S + w */
        double *c = q->c + t * (S * S + 2 * S), *p = c + S * S, *now = p + S;
        for (s = 0; s < S; s++) {
            double top = -INFINITY, sum = 0.0;
            for (w = 0; w < S; w++) {
                c[s * S + w] = (double)m[2 * S + s * S + w] * (double)q->scale[2] + (double)q->base[2 * S + s * S + w];
                if (c[s * S + w] > top) top = c[s * S + w];
            }
            for (w = 0; w < S; w++) sum += c[s * S + w] = tinyi_exp64(c[s * S + w] - top);
            for (w = 0; w < S; w++) c[s * S + w] = c[s * S + w] / sum + q->eps;
            p[s] = 2.0 * tinyi_lm_hyper_gate((double)m[S + s] * (double)q->scale[1] + (double)q->base[S + s]);
        }
        for (r = 0; r < 2 * q->turns - 1; r++)      /* columns, rows, columns ... */
            for (s = 0; s < S; s++) {
                const tiny_idx a = r % 2 ? s * S : s, step = r % 2 ? 1 : S;
                double sum = q->eps;
                for (w = 0; w < S; w++) sum += c[a + w * step];
                for (w = 0; w < S; w++) c[a + w * step] /= sum;
            }
        for (i = 0; i < q->D; i++) {
            for (w = 0; w < S; w++) {
                now[w] = p[w] * (double)q->y[t * q->D + i];
                for (s = 0; s < S; s++) now[w] += c[s * S + w] * (double)x[s * q->D + i];
            }
            for (w = 0; w < S; w++) x[w * q->D + i] = (float)now[w];
        }
    }
}
TINY_REF_END

static void tinyi_lm_hyper_mix(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int fn, int scale, int base,
    tinyi_lm_hyper *q, float *x, float *mix, float *in)
{
    const tiny_idx n = f->n, S = f->m->n_hyper, D = f->m->n_embd;
    const size_t used = f->used;
    float *row = tinyi_lm_take(f, n, S * D);
    if (f->st) return;
    tinyi_lm_rms(f, NULL, row, x, n, S * D);
    tinyi_lm_linear(f, l->w[fn], mix, row, n);
    f->used = used;
    memset(q, 0, sizeof *q);
    q->mix = mix;
    q->scale = l->w[scale]->v;
    q->base = l->w[base]->v;
    q->x = x;
    q->in = in;
    q->S = S;
    q->D = D;
    q->width = l->w[fn]->n_out;
    q->turns = f->m->hyper_turns;
    q->eps = (double)f->m->hyper_eps;
    tinyi_lm_each(f, n, 4, tinyi_lm_hyper_in, q);
}

/* x: n rows of n_embd, which become n rows of n_hyper streams */
TINYI_FN void tinyi_lm_hyper_start(tinyi_lm_fwd *f, float *x)
{
    const tiny_idx S = f->m->n_hyper, D = f->m->n_embd;
    tiny_idx i;
    for (i = f->n * S - 1; i > 0; i--) tinyi_lm_copy(f, x + i * D, D, x + i / S * D, D, 1, D);
}

TINYI_FN void tinyi_lm_hyper_layer(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x)
{
    const tiny_idx n = f->n, S = f->m->n_hyper, D = f->m->n_embd;
    const size_t used = f->used;
    float *mix = tinyi_lm_take(f, n, (2 + S) * S), *h = tinyi_lm_take(f, n, D), *y = tinyi_lm_take(f, n, D);
    double *c = (double *)(void *)tinyi_lm_take(f, 2 * n, S * S + 2 * S);
    tinyi_lm_hyper q;
    if (f->st) return;
    tinyi_lm_hyper_mix(f, l, TINYI_T_HYPER_ATTN_FN, TINYI_T_HYPER_ATTN_SCALE, TINYI_T_HYPER_ATTN_BASE, &q, x, mix, h);
    tinyi_lm_norm(f, l->norm1, h, h, n, D);
    tinyi_lm_mixer_of(l->mix)->run(f, l, y, h);
    q.y = y;
    q.c = c;
    tinyi_lm_each(f, n, 4, tinyi_lm_hyper_out, &q);
    tinyi_lm_hyper_mix(f, l, TINYI_T_HYPER_FFN_FN, TINYI_T_HYPER_FFN_SCALE, TINYI_T_HYPER_FFN_BASE, &q, x, mix, h);
    tinyi_lm_norm(f, l->norm2, h, h, n, D);
    tinyi_lm_ffn_run(f, l, y, h);
    q.y = y;
    q.c = c;
    tinyi_lm_each(f, n, 4, tinyi_lm_hyper_out, &q);
    f->used = used;
}

/* leaves n rows of n_embd */
TINYI_FN void tinyi_lm_hyper_end(tinyi_lm_fwd *f, float *x)
{
    const tiny_idx n = f->n, S = f->m->n_hyper, D = f->m->n_embd;
    const size_t used = f->used;
    float *mix = tinyi_lm_take(f, n, S), *y = tinyi_lm_take(f, n, D);
    tinyi_lm_hyper q;
    if (f->st) return;
    tinyi_lm_hyper_mix(f, &f->m->top, TINYI_T_HYPER_FN, TINYI_T_HYPER_SCALE, TINYI_T_HYPER_BASE, &q, x, mix, y);
    tinyi_lm_copy(f, x, D, y, D, n, D);
    f->used = used;
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

static float *tinyi_lm_comp_cell(const tllm_state *s, const tinyi_pool *p, tiny_idx seq, tiny_idx at)
{
    return (float *)(void *)tinyi_pool_row(p, tllm_pages_table(&s->pages, seq)[at / p->block], 0, at % p->block);
}

TINY_REF_BEGIN
/* d numbers of a block: rows of the cells from first on, those of the block before it in their first half; then
 * normed and rotated */
static void tinyi_lm_comp_block(const tinyi_lm_fwd *f, const tinyi_lm_layer *l, const tinyi_pool *p, tiny_idx seq,
    tiny_idx first, tiny_idx row, tiny_idx score, tiny_idx to, tiny_idx d, const float *g)
{
    const tllm_state *s = f->s;
    const tinyi_lm_rope *r = &f->m->rope[1];
    const tiny_idx R = l->ratio, half = r->n_rot / 2, from = R == 4 && first >= R ? first - R : first,
        skip = d - r->n_rot;
    float *y = tinyi_lm_comp_cell(s, p, seq, first + R - 1) + to;
    const double pos = (double)s->pos[seq * s->n_ctx + first];
    double ss = 0.0;
    tiny_idx i, j;
    for (i = 0; i < d; i++) {
        double top = -INFINITY, sum = 0.0, v = 0.0;
        for (j = from; j < first + R; j++) {
            const tiny_idx k = R == 4 && j >= first ? d + i : i;
            const double z = (double)tinyi_lm_comp_cell(s, p, seq, j)[score + k];
            if (z > top) top = z;
        }
        for (j = from; j < first + R; j++) {
            const tiny_idx k = R == 4 && j >= first ? d + i : i;
            const float *c = tinyi_lm_comp_cell(s, p, seq, j);
            const double e = tinyi_exp64((double)c[score + k] - top);
            sum += e;
            v += e * (double)c[row + k];
        }
        y[i] = (float)(v / sum);
    }
    for (i = 0; i < d; i++) ss += (double)y[i] * (double)y[i];
    ss = 1.0 / tinyi_sqrt64(ss / (double)d + (double)f->m->eps);
    for (i = 0; i < d; i++) y[i] = (float)((double)y[i] * ss) * g[i];
    for (i = 0; i < half; i++) {
        const double c = tinyi_cos64(pos * r->freq[i]), n = tinyi_sin64(pos * r->freq[i]),
            a = (double)y[skip + 2 * i], b = (double)y[skip + 2 * i + 1];
        y[skip + 2 * i] = (float)(a * c - b * n);
        y[skip + 2 * i + 1] = (float)(a * n + b * c);
    }
}

typedef struct tinyi_lm_unturn { float *x; const float *c, *s; tiny_idx n_head, d, half; } tinyi_lm_unturn;
static void tinyi_lm_unturn_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_unturn *q = (const tinyi_lm_unturn *)arg;
    tiny_idx t, h, i;
    for (t = t0; t < t1; t++)
        for (h = 0; h < q->n_head; h++) {
            float *x = q->x + (t * q->n_head + h) * q->d + q->d - 2 * q->half;
            for (i = 0; i < q->half; i++) {
                const float a = x[2 * i], b = x[2 * i + 1], c = q->c[t * q->half + i], s = q->s[t * q->half + i];
                x[2 * i] = a * c + b * s;
                x[2 * i + 1] = b * c - a * s;
            }
        }
}

typedef struct tinyi_lm_sees { const tinyi_lm_fwd *f; const tinyi_lm_layer *l; const tinyi_lm_span *run;
    const float *q, *w; float *m, *score; tiny_idx lo, n_raw, n_block, n_key; } tinyi_lm_sees;
/* what each token of a run sees: 0 or -inf for its raw keys from cell lo on and for the blocks; the last column is
 * the sink's */
static void tinyi_lm_sees_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_sees *q = (const tinyi_lm_sees *)arg;
    const tllm_model *m = q->f->m;
    const tllm_state *s = q->f->s;
    const tinyi_lm_comp o = tinyi_lm_comp_of(m, q->l);
    const int32_t *pos = s->pos + q->run->seq * s->n_ctx;
    const double size = 1.0 / tinyi_sqrt64((double)m->index_heads * (double)m->index_d);
    tiny_idx t, j, b, i;
    for (t = t0; t < t1; t++) {
        const int32_t *row = q->f->row + 4 * (q->run->row0 + t);
        const tiny_idx at = row[2] - 1, whole = q->l->ratio ? row[2] / q->l->ratio : 0;
        float *a = q->m + t * q->n_key, *z = q->score + t * q->n_block;
        for (j = 0; j < q->n_raw; j++) a[j] = q->lo + j <= at
            && (int64_t)row[3] - pos[q->lo + j] < (int64_t)q->l->window ? 0.0f : -INFINITY;
        a += q->n_raw;
        for (b = 0; b < q->n_block; b++) a[b] = b < whole && (q->l->ratio != 4 || whole <= m->index_top) ? 0.0f
            : -INFINITY;
        if (q->l->ratio != 4 || whole <= m->index_top) continue;
        for (b = 0; b < whole; b++) {
            const float *key = tinyi_lm_comp_cell(s, &s->held[q->l->i].index, q->run->seq, (b + 1) * 4 - 1) + o.iblock;
            double sum = 0.0;
            for (i = 0; i < m->index_heads; i++) {
                const float x = tinyi_lm_dot(q->q + ((q->run->row0 + t) * m->index_heads + i) * m->index_d, key,
                    m->index_d);
                if (x > 0.0f) sum += (double)q->w[(q->run->row0 + t) * m->index_heads + i] * size * (double)x;
            }
            z[b] = (float)sum;
        }
        for (i = 0; i < m->index_top; i++) {        /* fewer than there are blocks: one is left */
            tiny_idx best = -1;
            for (b = 0; b < whole; b++)
                if (a[b] != 0.0f && (best < 0 || z[b] > z[best])) best = b;
            a[best] = 0.0f;
        }
    }
}
TINY_REF_END

/* o (n, H, d) of the run */
static void tinyi_lm_comp_attend(tinyi_lm_fwd *f, const tinyi_lm_layer *l, const tinyi_lm_held *held,
    const tinyi_lm_span *run, float *q, const float *iq, const float *iw, float *o)
{
    const tiny_idx H = l->n_head, d = l->d_k, first = run->at0 - l->window + 1, lo = f->dry || first < 0 ? 0 : first,
        end = run->at0 + run->n;
    const tiny_idx n_raw = f->dry ? TINYI_MIN(end, run->n + l->window) : end - lo, n_block = l->ratio ? end / l->ratio
        : 0, n_key = n_raw + n_block + 1;
    const size_t used = f->used;
    float *k = tinyi_lm_take(f, n_key, d), *m = tinyi_lm_take(f, run->n, n_key), *score = tinyi_lm_take(f, run->n,
        n_block + 1);
    const tinyi_lm_comp c = tinyi_lm_comp_of(f->m, l);
    tiny_tensor tq, tk, bias, to;
    tiny_attention_params p;
    tiny_op op;
    tiny_idx h, j;
    if (f->st) return;
    if (!f->dry) {
        const int32_t *table = tllm_pages_table(&f->s->pages, run->seq);
        tinyi_lm_sees a;
        for (j = 0; j < n_raw; j++) tinyi_pool_read(&held->k, table[(lo + j) / held->k.block],
            (lo + j) % held->k.block, k + j * d);
        for (j = 0; j < n_block; j++) memcpy(k + (n_raw + j) * d, tinyi_lm_comp_cell(f->s, &held->index, run->seq,
            (j + 1) * l->ratio - 1) + c.block, (size_t)d * sizeof *k);
        memset(k + (n_key - 1) * d, 0, (size_t)d * sizeof *k);
        memset(&a, 0, sizeof a);
        a.f = f;
        a.l = l;
        a.run = run;
        a.q = iq;
        a.w = iw;
        a.m = m;
        a.score = score;
        a.lo = lo;
        a.n_raw = n_raw;
        a.n_block = n_block;
        a.n_key = n_key;
        tinyi_lm_each(f, run->n, 1, tinyi_lm_sees_fn, &a);
    }
    tq = tiny_tensor_3d(q, TINY_F32, run->n, H, d);
    to = tiny_tensor_3d(o, TINY_F32, run->n, H, d);
    tk = tiny_tensor_3d(k, TINY_F32, n_key, 1, d);
    bias = tiny_tensor_2d(m, TINY_F32, run->n, n_key);
    tq.dim[1] = to.dim[1] = 1;
    memset(&p, 0, sizeof p);
    p.scale = l->scale;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_ATTENTION;
    op.in[0] = &tq;
    op.in[1] = op.in[2] = &tk;
    op.in[3] = &bias;
    op.out[0] = &to;
    op.params = &p;
    /* a key of zeros is the sink: its logit is its bias, and it adds nothing */
    for (h = 0; h < (f->dry ? 1 : H) && !f->st; h++) {
        tq.data = q + h * d;
        to.data = o + h * d;
        for (j = 0; !f->dry && j < run->n; j++) m[(j + 1) * n_key - 1] = l->w[TINYI_T_ATTN_SINKS]->v[h];
        tinyi_lm_door(f, &op);
    }
    f->used = used;
}

TINYI_FN void tinyi_lm_comp_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, H = l->n_head, d = l->d_k, rot = m->rope[l->rope].n_rot, Hi = m->index_heads,
        di = m->index_d, G = m->out_groups, rank = m->out_rank;
    const tinyi_lm_comp c = tinyi_lm_comp_of(m, l);
    const tinyi_lm_held *held = f->dry ? NULL : &f->s->held[l->i];
    const tinyi_lm_w *w = l->w[TINYI_T_ATTN_OUT_A];
    const size_t used = f->used;
    float *q = tinyi_lm_take(f, n, H * d), *a = tinyi_lm_take(f, n, m->r_q), *kv = tinyi_lm_take(f, n, d),
        *o = tinyi_lm_take(f, n, H * d), *low = tinyi_lm_take(f, n, G * rank);
    float *row = NULL, *iq = NULL, *iw = NULL;
    tinyi_lm_heads part;
    tinyi_lm_span span;
    tinyi_lm_unturn back;
    tiny_tensor t;
    tiny_idx i, j;
    if (f->st) return;
    tinyi_lm_linear_both(f, l->w[TINYI_T_ATTN_Q_A], a, l->w[TINYI_T_ATTN_KV], kv, 0, h, n);
    tinyi_lm_norm(f, l->w[TINYI_T_ATTN_Q_A_NORM], a, a, n, m->r_q);
    tinyi_lm_linear(f, l->w[TINYI_T_ATTN_Q_B], q, a, n);
    t = tiny_tensor_2d(q, TINY_F32, n * H, d);
    tinyi_lm_norm_view(f, TINY_OP_RMSNORM, NULL, NULL, m->eps, &t, &t);
    tinyi_lm_norm(f, l->w[TINYI_T_ATTN_KV_A_NORM], kv, kv, n, d);
    part = tinyi_lm_heads_of(q + d - rot, H, rot, H * d);
    part.head = d;
    tinyi_lm_rotate(f, l->rope, TINYI_LM_PAIRS, part);
    tinyi_lm_rotate(f, l->rope, TINYI_LM_PAIRS, tinyi_lm_heads_of(kv + d - rot, 1, rot, d));
    if (held) tinyi_lm_hold(f, &held->k, kv, d);
    if (l->ratio) {
        row = tinyi_lm_take(f, n, c.all);
        if (l->ratio == 4) {
            iq = tinyi_lm_take(f, n, Hi * di);
            iw = tinyi_lm_take(f, n, Hi);
        }
        if (f->st) return;
        tinyi_lm_zero(f, row, n * c.all);
        tinyi_lm_linear_at(f, l->w[TINYI_T_COMP_KV], 0, row, c.all, h, m->n_embd, n);
        tinyi_lm_linear_at(f, l->w[TINYI_T_COMP_GATE], 0, row + c.score, c.all, h, m->n_embd, n);
        if (iq) {
            tinyi_lm_linear_at(f, l->w[TINYI_T_INDEX_COMP_KV], 0, row + c.irow, c.all, h, m->n_embd, n);
            tinyi_lm_linear_at(f, l->w[TINYI_T_INDEX_COMP_GATE], 0, row + c.iscore, c.all, h, m->n_embd, n);
            tinyi_lm_linear(f, l->w[TINYI_T_INDEX_PROJ], iw, h, n);
            tinyi_lm_linear(f, l->w[TINYI_T_INDEX_Q_B], iq, a, n);
            part = tinyi_lm_heads_of(iq + di - rot, Hi, rot, Hi * di);
            part.head = di;
            tinyi_lm_rotate(f, l->rope, TINYI_LM_PAIRS, part);
        }
        for (i = 0; i < n && held && !f->st; i++) {
            const tiny_idx in = (f->row[4 * i + 2] - 1) % l->ratio;
            tinyi_lm_add(f, row + i * c.all + c.score, row + i * c.all + c.score,
                l->w[TINYI_T_COMP_APE]->v + in * c.wide, c.wide);
            if (iq) tinyi_lm_add(f, row + i * c.all + c.iscore, row + i * c.all + c.iscore,
                l->w[TINYI_T_INDEX_COMP_APE]->v + in * c.iwide, c.iwide);
        }
        if (held) tinyi_lm_hold(f, &held->index, row, c.all);
        for (i = 0; i < n && held && !f->st; i++) {         /* the blocks that end with a token of this piece */
            const tiny_idx seq = f->row[4 * i], first = f->row[4 * i + 2] - l->ratio;
            if (f->row[4 * i + 2] % l->ratio) continue;
            tinyi_lm_comp_block(f, l, &held->index, seq, first, 0, c.score, c.block, d, l->w[TINYI_T_COMP_NORM]->v);
            if (iq) tinyi_lm_comp_block(f, l, &held->index, seq, first, c.irow, c.iscore, c.iblock, di,
                l->w[TINYI_T_INDEX_COMP_NORM]->v);
        }
    }
    if (f->dry) {
        span.seq = span.row0 = 0;
        span.n = TINYI_MIN(n, f->n_key);
        span.at0 = f->n_key - span.n;
        tinyi_lm_comp_attend(f, l, NULL, &span, q, iq, iw, o);
    }
    for (i = 0; i < f->n_run && held && !f->st; i++)
        tinyi_lm_comp_attend(f, l, held, &f->run[i], q + f->run[i].row0 * H * d, iq, iw, o + f->run[i].row0 * H * d);
    back.x = o;
    back.c = f->rope_cos[l->rope];
    back.s = f->rope_sin[l->rope];
    back.n_head = H;
    back.d = d;
    back.half = rot / 2;
    tinyi_lm_each(f, n, 4, tinyi_lm_unturn_fn, &back);
    for (j = 0; j < G; j++) {
        if (w->n_mat == G) tinyi_lm_linear_at(f, w, j, low + j * rank, G * rank, o + j * (H / G) * d, H * d, n);
        else tinyi_lm_linear_part(f, w, j * rank, rank, 0, low + j * rank, G * rank, o + j * (H / G) * d, H * d, n);
    }
    tinyi_lm_linear(f, l->w[TINYI_T_ATTN_OUT_B], y, low, n);
    f->used = used;
}
