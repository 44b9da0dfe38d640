/* src/llm/model/ffn.c - feed-forward networks, dense and of experts, and their routers
 * Formula  dense    y = down(act(gate h) * up h), or down(act(up h)); gate and up may be one matrix, gate first
 *          router   z = W h + b; p = softmax(z), sigmoid(z), or the softmax of the chosen z; the experts with the
 *                   largest p + bias are chosen, from the best groups if experts are grouped (a group is ranked by the
 *                   sum of its two largest); weights p, divided by their sum if the model asks for it, times a constant
 *          experts  y = sum_e w_e ffn_e(h) [+ sigmoid(g . h)] shared(h), or up(norm(sum_e w_e ffn_e(down h))) +
 *                   shared(h)
 * The tokens of one expert are gathered, so that its weights are read once for all of them. */
#include "llm/model/model_inside.h"
#include <string.h>

static void tinyi_lm_dense_load(tinyi_lm_load *ld, tinyi_lm_layer *l, int gate, int up, int down, tiny_idx n_ff)
{
    const tllm_gguf_tensor *t = tinyi_lm_find(ld, l, up, NULL);
    const tiny_idx D = ld->m->block == TINYI_LM_PARALLEL ? l->d_in : l->d_mid;
    const int plain = (TINYI_LM_ARCH(ld->m)->ffn & TINYI_LM_F_PLAIN) != 0;
    if (ld->st) return;
    if (tinyi_lm_find(ld, l, gate, NULL)) {
        tinyi_lm_need(ld, l, gate, D, n_ff, 0);
        tinyi_lm_need(ld, l, up, D, n_ff, 0);
    } else if (t && t->dim[1] == 2 * (uint64_t)n_ff) tinyi_lm_need(ld, l, up, D, 2 * n_ff, 0);
    else {
        if (!plain) tinyi_lm_need(ld, l, gate, D, n_ff, 0);
        tinyi_lm_need(ld, l, up, D, n_ff, 0);
    }
    tinyi_lm_need(ld, l, down, n_ff, l->d_out, 0);
}

/* deepseek4: the experts of each token of the vocabulary, as in the file */
static void tinyi_lm_token_experts(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tinyi_lm_w *w;
    tiny_idx i;
    if (!tinyi_lm_small(ld, l, m->n_used, m->n_vocab)) return;
    w = tinyi_lm_vec(ld, l, TINYI_T_TOKEN_EXPERTS, m->n_used * m->n_vocab);
    for (i = 0; w && i < m->n_used * m->n_vocab; i++)
        if (!(w->v[i] >= 0.0f && w->v[i] < (float)m->n_expert && w->v[i] == (float)(tiny_idx)w->v[i])) {
            ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: layer %td: ffn_gate_tid2eid names expert %g of %td",
                                m->path, l->i, (double)w->v[i], m->n_expert);
            return;
        }
}

TINYI_FN void tinyi_lm_ffn_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->block == TINYI_LM_PARALLEL ? l->d_in : l->d_mid, E = m->n_expert;
    const tiny_idx L = m->n_latent > 0 ? m->n_latent : D, L_out = m->n_latent > 0 ? m->n_latent : l->d_out;
    const unsigned how = TINYI_LM_ARCH(m)->ffn;
    if (ld->st) return;
    l->moe = tinyi_lm_find(ld, l, TINYI_T_ROUTER, NULL) != NULL;
    if (TINYI_LM_ARCH(m)->keys & TINYI_LM_K_SWIGLU_CLAMP) {
        l->clamp_exp = tinyi_lm_real_at(ld, "swiglu_clamp_exp", l->i, 0.0f);
        l->clamp_shared = tinyi_lm_real_at(ld, "swiglu_clamp_shexp", l->i,
                                           TINYI_LM_ARCH(m)->block == TINYI_LM_HYPER ? l->clamp_exp : 0.0f);
    }
    if (!l->moe || how & TINYI_LM_F_SIDE_BY_SIDE) {
        l->n_ff = tinyi_lm_count(ld, "feed_forward_length", l->i, -1, 1, TINYI_LM_MOST);
        tinyi_lm_dense_load(ld, l, TINYI_T_FFN_GATE, TINYI_T_FFN_UP, TINYI_T_FFN_DOWN, l->n_ff);
        tinyi_lm_may_vec(ld, l, TINYI_T_FFN_SUB_NORM, l->n_ff);
    }
    if (l->moe) {
        const int fused = tinyi_lm_find(ld, l, TINYI_T_GATE_UP_EXPS, NULL) != NULL;
        const int gated = fused || tinyi_lm_find(ld, l, TINYI_T_GATE_EXPS, NULL) != NULL || !(how & TINYI_LM_F_PLAIN);
        const tiny_idx ff = tinyi_lm_width(ld, l, fused ? TINYI_T_GATE_UP_EXPS : TINYI_T_UP_EXPS) / (fused ? 2 : 1);
        const tiny_idx all = tinyi_lm_count(ld, "feed_forward_length", l->i, 0, 0, TINYI_LM_MOST);
        tiny_idx one = tinyi_lm_count(ld, "expert_feed_forward_length", l->i, all, 0, TINYI_LM_MOST);
        const tllm_gguf_tensor *shared = tinyi_lm_find(ld, l, TINYI_T_UP_SHEXP, NULL);
        if (E <= 0 || m->n_used <= 0) {
            if (!ld->st)
                ld->st =
                    tinyi_fail(ld->ctx, TINY_E_FORMAT,
                               "%s: layer %td has a router, but %s.expert_count is %td and %s.expert_used_count %td",
                               m->path, l->i, TINYI_LM_ARCH(m)->name, E, TINYI_LM_ARCH(m)->name, m->n_used);
            return;
        }
        /* some files say it by the other key, for one or for all used */
        if (ff == all || (one == all && ff > 0 && ff == all / m->n_used)) one = ff;
        tinyi_lm_need(ld, l, TINYI_T_ROUTER, D, E, 0);
        if (TINYI_LM_ARCH(m)->block == TINYI_LM_HYPER && l->i < m->n_hash) tinyi_lm_token_experts(ld, l);
        else tinyi_lm_bias(ld, l, TINYI_T_ROUTER_BIAS, E, 0);
        if (l->i >= m->n_hash && !l->w[TINYI_T_ROUTER_BIAS]) tinyi_lm_may_vec(ld, l, TINYI_T_ROUTER_BIAS, E);
        if (fused) tinyi_lm_need(ld, l, TINYI_T_GATE_UP_EXPS, L, 2 * one, E);
        else {
            if (gated) tinyi_lm_need(ld, l, TINYI_T_GATE_EXPS, L, one, E);
            tinyi_lm_need(ld, l, TINYI_T_UP_EXPS, L, one, E);
        }
        tinyi_lm_need(ld, l, TINYI_T_DOWN_EXPS, one, L_out, E);
        if (m->n_latent > 0) {
            tinyi_lm_need(ld, l, TINYI_T_ROUTED_DOWN, D, L, 0);
            tinyi_lm_need(ld, l, TINYI_T_ROUTED_UP, L, l->d_out, 0);
            tinyi_lm_may_vec(ld, l, TINYI_T_ROUTED_NORM, L);
        }
        if (shared) {
            /* gate and up in one */
            const int both = !(how & TINYI_LM_F_PLAIN) && !tinyi_lm_find(ld, l, TINYI_T_GATE_SHEXP, NULL);
            tinyi_lm_dense_load(ld, l, TINYI_T_GATE_SHEXP, TINYI_T_UP_SHEXP, TINYI_T_DOWN_SHEXP,
                                tinyi_lm_width(ld, l, TINYI_T_UP_SHEXP) / (both ? 2 : 1));
            tinyi_lm_may_vec(ld, l, TINYI_T_ROUTER_SHEXP, D);
        }
    }
    if (how & TINYI_LM_F_SIDE_BY_SIDE && l->moe) {
        tinyi_lm_vec(ld, l, TINYI_T_PRE_FFW_NORM_2, D);
        tinyi_lm_vec(ld, l, TINYI_T_POST_FFW_NORM_1, D);
        tinyi_lm_vec(ld, l, TINYI_T_POST_FFW_NORM_2, D);
    }
}

/* ---- dense ------------------------------------------------------------------------------------------------------ */

typedef struct tinyi_lm_sparse { float *x; tiny_idx d; } tinyi_lm_sparse;
TINY_REF_BEGIN
/* gemma3n: gates below mean + 1.6448533535 std are off, 95 of 100 for normal ones */
static void tinyi_lm_sparse_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_sparse *q = (const tinyi_lm_sparse *)arg;
    tiny_idx i, j;
    for (i = i0; i < i1; i++) {
        float *x = q->x + i * q->d;
        double s = 0.0, ss = 0.0, mean, cut;
        for (j = 0; j < q->d; j++) s += (double)x[j];
        mean = s / (double)q->d;
        for (j = 0; j < q->d; j++) ss += ((double)x[j] - mean) * ((double)x[j] - mean);
        cut = mean + 1.6448533535003662 * tinyi_sqrt64(ss / (double)(q->d > 1 ? q->d - 1 : 1));
        for (j = 0; j < q->d; j++) x[j] = (double)x[j] > cut ? (float)((double)x[j] - cut) : 0.0f;
    }
}
TINY_REF_END

typedef struct tinyi_lm_swiglu { float *y; const float *a, *b; float most; int before; } tinyi_lm_swiglu;
TINY_REF_BEGIN
/* silu(a) at most `most`, or silu of a at most that, times b between it and its negative */
static void tinyi_lm_swiglu_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_swiglu *q = (const tinyi_lm_swiglu *)arg;
    tiny_idx i;
    for (i = i0; i < i1; i++) {
        const float g = tinyi_silu_ref(q->before && q->a[i] > q->most ? q->most : q->a[i]), u = q->b[i];
        q->y[i] = (g > q->most ? q->most : g) * (u < -q->most ? -q->most : u > q->most ? q->most : u);
    }
}
TINY_REF_END

/* y = act(a) b, or act(a): with the clamp of the layer */
static void tinyi_lm_act_within(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float most, float *y, const float *a,
                                const float *b, tiny_idx n)
{
    tinyi_lm_swiglu q;
    if (!(TINYI_LM_ARCH(f->m)->keys & TINYI_LM_K_SWIGLU_CLAMP) || !(most > 1e-6f) || !b) {
        tinyi_lm_act(f, l, y, a, b, n);
        return;
    }
    q.y = y;
    q.a = a;
    q.b = b;
    q.most = most;
    q.before = TINYI_LM_ARCH(f->m)->block == TINYI_LM_HYPER;
    tinyi_lm_each(f, n, 1024, tinyi_lm_swiglu_fn, &q);
}

static void tinyi_lm_halves(tinyi_lm_fwd *f, const float *u, float *g, tiny_idx n, tiny_idx ff)
{
    /* gate and up of a fused product, to two dense blocks: g (n, ff), then (n, ff) */
    tinyi_lm_copy(f, g, ff, u, 2 * ff, n, ff);
    tinyi_lm_copy(f, g + n * ff, ff, u + ff, 2 * ff, n, ff);
}

static void tinyi_lm_dense(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int gate, int up, int down, float *y,
                           const float *h)
{
    const size_t used = f->used;
    const tiny_idx n = f->n;
    tiny_idx ff;
    float *u, *g;
    if (f->st) return;
    ff = l->w[down]->n_in;
    if (l->w[up]->n_out == 2 * ff) {
        u = tinyi_lm_take(f, n, 2 * ff);
        g = tinyi_lm_take(f, 2 * n, ff);
        tinyi_lm_linear(f, l->w[up], u, h, n);
        tinyi_lm_halves(f, u, g, n, ff);
        if (!f->st && !f->dry) tinyi_lm_act_within(f, l, l->clamp_shared, g, g, g + n * ff, n * ff);
    } else if (l->w[gate]) {
        g = tinyi_lm_take(f, n, ff);
        u = tinyi_lm_take(f, n, ff);
        tinyi_lm_linear_both(f, l->w[gate], g, l->w[up], u, 0, h, n);
        if (l->i < f->m->n_sparse && gate == TINYI_T_FFN_GATE) {
            tinyi_lm_sparse q;
            q.x = g;
            q.d = ff;
            tinyi_lm_each(f, n, 4, tinyi_lm_sparse_fn, &q);
        }
        tinyi_lm_act_within(f, l, l->clamp_shared, g, g, u, n * ff);
    } else {
        g = tinyi_lm_take(f, n, ff);
        tinyi_lm_linear(f, l->w[up], g, h, n);
        tinyi_lm_act(f, l, g, g, NULL, n * ff);
    }
    if (gate == TINYI_T_FFN_GATE && l->w[TINYI_T_FFN_SUB_NORM])
        tinyi_lm_norm(f, l->w[TINYI_T_FFN_SUB_NORM], g, g, n, ff);
    tinyi_lm_down(f, l, l->w[down], y, g);
    f->used = used;
}

/* ---- router ----------------------------------------------------------------------------------------------------- */

typedef struct tinyi_lm_route {
    const tllm_model *m;
    const float *z, *bias;                  /* (n, E) logits */
    float *p, *pick;                        /* (n, E) scratch */
    float *weight, *which;                  /* (n, k); expert numbers as floats are exact */
    float *group;                           /* (n, n_group) scratch */
    const float *table;                     /* the experts of each token, which are not chosen then */
    const int32_t *token;
} tinyi_lm_route;

TINY_REF_BEGIN
static void tinyi_lm_route_groups(const tllm_model *m, float *pick, float *score)
{
    const tiny_idx G = m->n_group, size = m->n_expert / G;
    tiny_idx g, e, left;
    for (g = 0; g < G; g++) {
        float a = -INFINITY, b = -INFINITY;
        for (e = g * size; e < (g + 1) * size; e++) {
            if (pick[e] > a) { b = a; a = pick[e]; }
            else if (pick[e] > b) b = pick[e];
        }
        score[g] = size > 1 ? a + b : a;
    }
    for (left = G - m->n_group_used; left > 0; left--) {        /* the worst group goes, the last of equals first */
        tiny_idx worst = -1;
        for (g = 0; g < G; g++)
            if (score[g] < INFINITY && (worst < 0 || score[g] <= score[worst])) worst = g;
        if (worst < 0) return;
        score[worst] = INFINITY;
        for (e = worst * size; e < (worst + 1) * size; e++) pick[e] = -INFINITY;
    }
}

static void tinyi_lm_route_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_route *q = (const tinyi_lm_route *)arg;
    const tllm_model *m = q->m;
    const tiny_idx E = m->n_expert, K = m->n_used;
    tiny_idx t, e, i;
    for (t = t0; t < t1; t++) {
        const float *z = q->z + t * E;
        float *p = q->p + t * E, *pick = q->pick + t * E, *w = q->weight + t * K, *which = q->which + t * K;
        double sum = 0.0, top = -INFINITY;
        for (e = 0; e < E; e++) if ((double)z[e] > top) top = (double)z[e];
        if (m->gating == 1) {
            for (e = 0; e < E; e++) sum += tinyi_exp64((double)z[e] - top);
            for (e = 0; e < E; e++) p[e] = (float)(tinyi_exp64((double)z[e] - top) / sum);
        } else if (m->gating == 4) for (e = 0; e < E; e++) p[e] = (float)tinyi_sqrt64(tinyi_lm_softplus((double)z[e]));
        else for (e = 0; e < E; e++) p[e] = m->gating == 2 ? tinyi_sigmoid_ref(z[e]) : z[e];
        for (e = 0; e < E; e++) pick[e] = q->bias ? p[e] + q->bias[e] : p[e];
        if (TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_WEIGHT_FIRST) for (e = 0; e < E; e++) pick[e] = z[e];
        /* from here on NaN means taken */
        for (e = 0; e < E; e++) if (pick[e] != pick[e]) pick[e] = -INFINITY;
        if (m->n_group > 1) tinyi_lm_route_groups(m, pick, q->group + t * m->n_group);
        for (i = 0; i < K && q->table; i++) {
            which[i] = q->table[q->token[t] * K + i];
            w[i] = p[(tiny_idx)which[i]];
        }
        for (i = 0; i < K && !q->table; i++) {
            tiny_idx best = -1;             /* K is at most E: one is left, and no token takes an expert twice */
            for (e = 0; e < E; e++)
                if (pick[e] == pick[e] && (best < 0 || pick[e] > pick[best])) best = e;
            which[i] = (float)best;
            w[i] = p[best];
            pick[best] = NAN;
        }
        if (m->gating == 3) {
            double most = (double)w[0];
            for (i = 0, sum = 0.0; i < K; i++) sum += tinyi_exp64((double)w[i] - most);
            for (i = 0; i < K; i++) w[i] = (float)(tinyi_exp64((double)w[i] - most) / sum);
        }
        if (m->renorm) {
            for (i = 0, sum = 0.0; i < K; i++) sum += (double)w[i];
            if (sum < 6.103515625e-5) sum = 6.103515625e-5;
            for (i = 0; i < K; i++) w[i] = (float)((double)w[i] / sum);
        }
        for (i = 0; i < K; i++) w[i] *= m->expert_scale;
    }
}

static void tinyi_lm_axpy_row(float *y, const float *x, float a, tiny_idx n)
{
    tiny_idx i;
    for (i = 0; i < n; i++) y[i] += a * x[i];
}
static void tinyi_lm_scale_row(float *y, const float *x, float a, tiny_idx n)
{
    tiny_idx i;
    for (i = 0; i < n; i++) y[i] = a * x[i];
}
typedef struct tinyi_lm_share { float *y; const float *s, *h, *g; tiny_idx d, wide; } tinyi_lm_share;
static void tinyi_lm_share_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_share *q = (const tinyi_lm_share *)arg;
    tiny_idx t;
    for (t = t0; t < t1; t++)
        tinyi_lm_axpy_row(q->y + t * q->d, q->s + t * q->d,
                          q->g ? tinyi_sigmoid_ref(tinyi_lm_dot(q->g, q->h + t * q->wide, q->wide)) : 1.0f, q->d);
}
TINY_REF_END

/* y = the experts of h; the router reads r */
static void tinyi_lm_experts(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h, const float *r)
{
    const tllm_model *m = f->m;
    const size_t used = f->used;
    const tiny_idx n = f->n, E = m->n_expert, K = m->n_used;
    const tinyi_lm_w *fused = l->w[TINYI_T_GATE_UP_EXPS], *gate_w = l->w[TINYI_T_GATE_EXPS],
                     *up_w = l->w[TINYI_T_UP_EXPS], *down_w = l->w[TINYI_T_DOWN_EXPS];
    const int first = (TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_WEIGHT_FIRST) != 0;
    /* D, wide: numbers of a row of y and of h: the widths of the stream, or what routed experts have in their place */
    const tiny_idx ff = down_w->n_in, D = down_w->n_out, wide = (fused ? fused : up_w)->n_in;
    tinyi_lm_route q;
    float *z, *x, *g, *u, *o;
    int32_t *start, *order;
    tiny_idx e, i;
    z = tinyi_lm_take(f, n, E);
    memset(&q, 0, sizeof q);
    q.m = m;
    q.z = z;
    q.bias = l->w[TINYI_T_ROUTER_BIAS] ? l->w[TINYI_T_ROUTER_BIAS]->v : NULL;
    q.table = TINYI_LM_ARCH(m)->block == TINYI_LM_HYPER && l->w[TINYI_T_TOKEN_EXPERTS] ? l->w[TINYI_T_TOKEN_EXPERTS]->v
                                                                                       : NULL;
    q.token = f->tokens;
    q.p = tinyi_lm_take(f, n, E);
    q.pick = tinyi_lm_take(f, n, E);
    q.weight = tinyi_lm_take(f, n, K);
    q.which = tinyi_lm_take(f, n, K);
    q.group = tinyi_lm_take(f, n, m->n_group > 0 ? m->n_group : 1);
    x = tinyi_lm_take(f, n, wide);
    g = tinyi_lm_take(f, 2 * n, ff);
    u = tinyi_lm_take(f, n, fused ? 2 * ff : ff);
    o = tinyi_lm_take(f, n, D);
    start = (int32_t *)(void *)tinyi_lm_take(f, 1, E + 1);
    order = (int32_t *)(void *)tinyi_lm_take(f, n, K);
    if (f->st) return;
    tinyi_lm_linear(f, l->w[TINYI_T_ROUTER], z, r, n);
    tinyi_lm_each(f, n, 8, tinyi_lm_route_fn, &q);
    tinyi_lm_zero(f, y, n * D);
    if (f->dry) {                           /* what the largest share would take */
        if (gate_w && !fused) tinyi_lm_linear_both(f, gate_w, g, up_w, u, 0, x, n);
        else tinyi_lm_linear_at(f, fused ? fused : up_w, 0, u, fused ? 2 * ff : ff, x, wide, n);
        if (TINYI_LM_ROTATED(m) & TLLM_ROTATE_FEED) tinyi_lm_turn_rows(f, u, g, n, ff);
        tinyi_lm_linear_at(f, down_w, 0, o, D, g, ff, n);
    }
    if (f->st || f->dry) { f->used = used; return; }
    for (e = 0; e <= E; e++) start[e] = 0;  /* the places of each expert, in order of tokens */
    for (i = 0; i < n * K; i++) start[(tiny_idx)q.which[i] + 1]++;
    for (e = 0; e < E; e++) start[e + 1] += start[e];
    for (i = 0; i < n * K; i++) order[start[(tiny_idx)q.which[i]]++] = (int32_t)i;
    for (e = E; e > 0; e--) start[e] = start[e - 1];
    start[0] = 0;
    for (e = 0; e < E && !f->st; e++) {
        const int32_t *mine = order + start[e];
        const tiny_idx rows = start[e + 1] - start[e];
        if (!rows) continue;
        for (i = 0; i < rows; i++) {
            const float *from = h + mine[i] / K * wide;
            if (first) tinyi_lm_scale_row(x + i * wide, from, q.weight[mine[i]], wide);
            else memcpy(x + i * wide, from, (size_t)wide * sizeof *x);
        }
        if (fused) {
            tinyi_lm_linear_at(f, fused, e, u, 2 * ff, x, wide, rows);
            tinyi_lm_halves(f, u, g, rows, ff);
            tinyi_lm_act_within(f, l, l->clamp_exp, g, g, g + rows * ff, rows * ff);
        } else if (gate_w) {
            tinyi_lm_linear_both(f, gate_w, g, up_w, u, e, x, rows);
            tinyi_lm_act_within(f, l, l->clamp_exp, g, g, u, rows * ff);
        } else {
            tinyi_lm_linear_at(f, up_w, e, g, ff, x, wide, rows);
            tinyi_lm_act(f, l, g, g, NULL, rows * ff);
        }
        if (TINYI_LM_ROTATED(m) & TLLM_ROTATE_FEED) tinyi_lm_turn_rows(f, u, g, rows, ff);
        if (TINYI_LM_X_BITS(f->s)) tinyi_lm_few_bits(f, TINYI_LM_ROTATED(m) & TLLM_ROTATE_FEED ? u : g, rows, ff);
        tinyi_lm_linear_at(f, down_w, e, o, D, TINYI_LM_ROTATED(m) & TLLM_ROTATE_FEED ? u : g, ff, rows);
        for (i = 0; i < rows && !f->st; i++)
            tinyi_lm_axpy_row(y + mine[i] / K * D, o + i * D, first ? 1.0f : q.weight[mine[i]], D);
    }
    f->used = used;
}

static void tinyi_lm_ffn_any(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const size_t used = f->used;
    if (f->st) return;
    if (!l->moe) {
        tinyi_lm_dense(f, l, TINYI_T_FFN_GATE, TINYI_T_FFN_UP, TINYI_T_FFN_DOWN, y, h);
        return;
    }
    if (TINYI_LM_ARCH(f->m)->keys & TINYI_LM_K_LATENT && l->w[TINYI_T_ROUTED_DOWN]) {
        const tiny_idx L = f->m->n_latent;
        float *in = tinyi_lm_take(f, f->n, L), *out = tinyi_lm_take(f, f->n, L);
        if (f->st) return;
        tinyi_lm_linear(f, l->w[TINYI_T_ROUTED_DOWN], in, h, f->n);
        tinyi_lm_experts(f, l, out, in, h);
        if (l->w[TINYI_T_ROUTED_NORM]) tinyi_lm_norm(f, l->w[TINYI_T_ROUTED_NORM], out, out, f->n, L);
        tinyi_lm_linear(f, l->w[TINYI_T_ROUTED_UP], y, out, f->n);
        f->used = used;
    } else tinyi_lm_experts(f, l, y, h, TINYI_LM_ARCH(f->m)->ffn & TINYI_LM_F_ROUTER_EARLY ? f->layer_in : h);
    if (l->w[TINYI_T_UP_SHEXP]) {
        tinyi_lm_share q;
        float *s = tinyi_lm_take(f, f->n, l->d_out);
        tinyi_lm_dense(f, l, TINYI_T_GATE_SHEXP, TINYI_T_UP_SHEXP, TINYI_T_DOWN_SHEXP, s, h);
        q.y = y;
        q.s = s;
        q.h = h;
        q.g = l->w[TINYI_T_ROUTER_SHEXP] ? l->w[TINYI_T_ROUTER_SHEXP]->v : NULL;
        q.d = l->d_out;
        q.wide = l->w[TINYI_T_UP_SHEXP]->n_in;
        tinyi_lm_each(f, f->n, 8, tinyi_lm_share_fn, &q);
        if (TINYI_LM_ARCH(f->m)->ffn & TINYI_LM_F_HALF) tinyi_lm_scale(f, y, y, 0.5f, f->n * l->d_out);
    }
    f->used = used;
}
TINYI_FN void tinyi_lm_ffn_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    if (TINYI_LM_DISK(f->m)) tinyi_lm_disk_enter(f, l->i, 1);
    tinyi_lm_ffn_any(f, l, y, h);
    if (TINYI_LM_DISK(f->m)) tinyi_lm_disk_leave(f, l->i, 1);
}

/* gemma4 with experts: y = rms(ffn(rms(x))) + rms(experts(rms(x))); the router reads rms(x without weights) / sqrt(D) *
 * scale */
TINYI_FN void tinyi_lm_side_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *x)
{
    const size_t used = f->used;
    const tiny_idx n = f->n, D = f->m->n_embd;
    float *h = tinyi_lm_take(f, n, D), *z = tinyi_lm_take(f, n, D), *r = tinyi_lm_take(f, n, D);
    tiny_idx i, j;
    if (f->st) return;
    tinyi_lm_norm(f, l->norm2, h, x, n, D);
    tinyi_lm_dense(f, l, TINYI_T_FFN_GATE, TINYI_T_FFN_UP, TINYI_T_FFN_DOWN, y, h);
    tinyi_lm_norm(f, l->w[TINYI_T_POST_FFW_NORM_1], y, y, n, D);
    tinyi_lm_norm(f, l->w[TINYI_T_PRE_FFW_NORM_2], h, x, n, D);
    tinyi_lm_rms(f, NULL, r, x, n, D);
    tinyi_lm_scale(f, r, r, (float)(1.0 / tinyi_sqrt64((double)D)), n * D);
    if (l->w[TINYI_T_ROUTER]->scale && !f->st && !f->dry)
        for (i = 0; i < n; i++)
            for (j = 0; j < D; j++) r[i * D + j] *= l->w[TINYI_T_ROUTER]->scale[j];
    tinyi_lm_experts(f, l, z, h, r);
    tinyi_lm_norm(f, l->w[TINYI_T_POST_FFW_NORM_2], z, z, n, D);
    tinyi_lm_add(f, y, y, z, n * D);
    f->used = used;
}
