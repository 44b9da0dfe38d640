/* src/llm/model/streams.c - per-layer inputs (gemma3n, gemma4), the four streams of gemma3n, the saved streams of
 * kimi-k3
 * Papers   C. Baykal et al., "Alternating Updates for Efficient Transformers", 2023 (arXiv 2301.13310), alg. 1;
 *          G. Menghani et al., "LAuReL", 2024 (arXiv 2411.07501), 2; the rest after the published models.
 * Formula  per-layer input of a token: e_l = (rms(P x0 / sqrt(D)) + sqrt(p) E[token, l]) / sqrt(2), p numbers for layer
 *          l streams: X_0 = x0, X_i = A_i x0 at the length of x0. Layer: m(v) = tanh(router(rms(v) / D));
 *          pred_o = X_o + sum_i C[4 o + i] X_i, C = predict m(X_0); a = pred_0; h = rms(a); laurel = h + rms(R L h);
 *          b = a + rms(attention(h)); c = (b + laurel) / sqrt(2); y = c + rms(ffn(rms(c)));
 *          X_i = pred_i + (1 + correct m(y))_i (y - a); s = rms(proj(gelu(gate (X_0 scale)) e_l)) joins X_1, X_2, X_3
 *          end: mean of X_0 and B_i X_i at the length of X_0
 *          saved: mix(x) = sum_k p_k X_k, p = softmax(w . rms(X_k)), X the saved streams and x itself. A half reads
 *          rms(mix(x)). Before every bank-th layer x is saved and then restarts as the output of that layer's mixer */
#include "llm/model/model_inside.h"
#include <string.h>

/* ---- per-layer inputs ------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_ple_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->n_embd, p = m->n_ple, L = m->n_layer;
    if (ld->st) return;
    if (l->i < 0) {
        if (p > INT32_MAX / L) {
            tinyi_lm_disagree(ld, l, "width times layers of the per-layer inputs is too large", p, L);
            return;
        }
        tinyi_lm_need(ld, l, TINYI_T_PLE_EMBD, p * L, m->n_vocab, 0);
        tinyi_lm_need(ld, l, TINYI_T_PLE_PROJ, D, p * L, 0);
        tinyi_lm_vec(ld, l, TINYI_T_PLE_NORM, p);
    } else {
        tinyi_lm_need(ld, l, TINYI_T_INP_GATE, D, p, 0);
        tinyi_lm_need(ld, l, TINYI_T_PROJ, p, D, 0);
        tinyi_lm_vec(ld, l, TINYI_T_POST_NORM, D);
    }
}

TINYI_FN void tinyi_lm_ple_inputs(tinyi_lm_fwd *f)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, p = m->n_ple, all = p * m->n_layer;
    float *e = f->ple = tinyi_lm_take(f, n, all);
    const size_t used = f->used;
    float *rows = tinyi_lm_take(f, n, all);
    if (f->st) return;
    tinyi_lm_linear(f, m->top.w[TINYI_T_PLE_PROJ], e, f->embd, n);
    tinyi_lm_scale(f, e, e, (float)(1.0 / tinyi_sqrt64((double)m->n_embd)), n * all);
    tinyi_lm_rms(f, m->top.w[TINYI_T_PLE_NORM]->v, e, e, n * m->n_layer, p);
    tinyi_lm_rows(f, m->top.w[TINYI_T_PLE_EMBD], rows, f->tokens, n);
    tinyi_lm_scale(f, rows, rows, tinyi_sqrtf((float)p), n * all);
    tinyi_lm_add(f, e, e, rows, n * all);
    tinyi_lm_scale(f, e, e, (float)(1.0 / tinyi_sqrt64(2.0)), n * all);
    f->used = used;
}

/* s = rms(proj(gelu(gate x) e_l)) */
static void tinyi_lm_ple_side(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *s, const float *x)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, p = m->n_ple;
    const size_t used = f->used;
    float *g = tinyi_lm_take(f, n, p), *e = tinyi_lm_take(f, n, p);
    if (f->st) return;
    tinyi_lm_linear(f, l->w[TINYI_T_INP_GATE], g, x, n);
    if (!f->dry) tinyi_lm_copy(f, e, p, f->ple + l->i * p, p * m->n_layer, n, p);
    tinyi_lm_run(f, TINY_OP_GEGLU_TANH, g, g, e, n * p);
    tinyi_lm_linear(f, l->w[TINYI_T_PROJ], s, g, n);
    tinyi_lm_norm(f, l->w[TINYI_T_POST_NORM], s, s, n, m->n_embd);
    f->used = used;
}

TINYI_FN void tinyi_lm_ple_add(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x)
{
    const size_t used = f->used;
    float *s = tinyi_lm_take(f, f->n, f->m->n_embd);
    tinyi_lm_ple_side(f, l, s, x);
    tinyi_lm_add(f, x, x, s, f->n * f->m->n_embd);
    f->used = used;
}

/* ---- four streams ----------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_altup_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tiny_idx D = ld->m->n_embd;
    tiny_idx r;
    if (l->i < 0) {
        (void)tinyi_lm_count(ld, "altup.num_inputs", -1, 4, 4, 4);
        (void)tinyi_lm_count(ld, "altup.active_idx", -1, 0, 0, 0);
        tinyi_lm_need(ld, l, TINYI_T_ALTUP_PROJ, D, D, 3);
        tinyi_lm_need(ld, l, TINYI_T_ALTUP_UNEMBD, D, D, 3);
        return;
    }
    r = tinyi_lm_width(ld, l, TINYI_T_LAUREL_L);
    tinyi_lm_need(ld, l, TINYI_T_ALTUP_ROUTER, D, 4, 0);
    tinyi_lm_vec(ld, l, TINYI_T_ALTUP_ROUTER_NORM, D);
    tinyi_lm_need(ld, l, TINYI_T_ALTUP_PREDICT, 4, 16, 0);
    tinyi_lm_need(ld, l, TINYI_T_ALTUP_CORRECT, 4, 4, 0);
    tinyi_lm_vec(ld, l, TINYI_T_ALTUP_SCALE, D);
    tinyi_lm_need(ld, l, TINYI_T_LAUREL_L, D, r > 0 ? r : 1, 0);
    tinyi_lm_need(ld, l, TINYI_T_LAUREL_R, r > 0 ? r : 1, D, 0);
    tinyi_lm_vec(ld, l, TINYI_T_LAUREL_NORM, D);
    if (!ld->st && (!l->post1 || !l->post2))
        tinyi_lm_disagree(ld, l, "norms after attention and feed-forward: there and wanted",
                          (l->post1 != NULL) + (l->post2 != NULL), 2);
}

typedef struct tinyi_lm_altup {
    float *x;                               /* (4, n, D) */
    const float *c, *a, *y, *g;
    float *out;
    tiny_idx n, D;
} tinyi_lm_altup;

TINY_REF_BEGIN
/* rows of streams 1..3 to the length of the same row of stream 0 */
static void tinyi_lm_altup_length_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_altup *p = (const tinyi_lm_altup *)arg;
    tiny_idx t, i, j;
    for (t = t0; t < t1; t++) {
        const float *x0 = p->x + t * p->D;
        double want = 0.0, have;
        for (j = 0; j < p->D; j++) want += (double)x0[j] * (double)x0[j];
        for (i = 1; i < 4; i++) {
            float *x = p->x + (i * p->n + t) * p->D;
            for (j = 0, have = 0.0; j < p->D; j++) have += (double)x[j] * (double)x[j];
            have = have > 0.0 ? tinyi_sqrt64(want) / tinyi_sqrt64(have) : 0.0;
            for (j = 0; j < p->D; j++) x[j] = (float)((double)x[j] * have);
        }
    }
}
/* out_o = X_o + sum_i c[4 o + i] X_i */
static void tinyi_lm_altup_predict_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_altup *p = (const tinyi_lm_altup *)arg;
    tiny_idx t, o, i, j;
    for (t = t0; t < t1; t++)
        for (o = 0; o < 4; o++)
            for (j = 0; j < p->D; j++) {
                double s = (double)p->x[(o * p->n + t) * p->D + j];
                for (i = 0; i < 4; i++) s += (double)p->c[t * 16 + 4 * o + i] * (double)p->x[(i * p->n + t) * p->D + j];
                p->out[(o * p->n + t) * p->D + j] = (float)s;
            }
}
/* X_i = out_i + (1 + c_i) (y - a) */
static void tinyi_lm_altup_correct_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_altup *p = (const tinyi_lm_altup *)arg;
    tiny_idx t, i, j;
    for (t = t0; t < t1; t++)
        for (i = 0; i < 4; i++)
            for (j = 0; j < p->D; j++)
                p->x[(i * p->n + t) * p->D + j] = p->out[(i * p->n + t) * p->D + j] +
                                                  (1.0f + p->c[t * 4 + i]) * (p->y[t * p->D + j] - p->a[t * p->D + j]);
}
static void tinyi_lm_altup_scale_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_altup *p = (const tinyi_lm_altup *)arg;
    tiny_idx t, j;
    for (t = t0; t < t1; t++)
        for (j = 0; j < p->D; j++) p->out[t * p->D + j] = p->y[t * p->D + j] * p->g[j];
}
TINY_REF_END

static void tinyi_lm_altup_lengths(tinyi_lm_fwd *f, float *x)
{
    tinyi_lm_altup p;
    memset(&p, 0, sizeof p);
    p.x = x;
    p.n = f->n;
    p.D = f->m->n_embd;
    tinyi_lm_each(f, f->n, 8, tinyi_lm_altup_length_fn, &p);
}

TINYI_FN void tinyi_lm_altup_start(tinyi_lm_fwd *f, float *x)
{
    const tiny_idx n = f->n, D = f->m->n_embd;
    tiny_idx i;
    for (i = 1; i < 4; i++) tinyi_lm_linear_at(f, f->m->top.w[TINYI_T_ALTUP_PROJ], i - 1, x + i * n * D, D, x, D, n);
    tinyi_lm_altup_lengths(f, x);
}

TINYI_FN void tinyi_lm_altup_end(tinyi_lm_fwd *f, float *x)
{
    const tiny_idx n = f->n, D = f->m->n_embd;
    const size_t used = f->used;
    float *y = tinyi_lm_take(f, n, D);
    tiny_idx i;
    for (i = 1; i < 4; i++) {
        tinyi_lm_linear_at(f, f->m->top.w[TINYI_T_ALTUP_UNEMBD], i - 1, y, D, x + i * n * D, D, n);
        tinyi_lm_copy(f, x + i * n * D, D, y, D, n, D);
    }
    tinyi_lm_altup_lengths(f, x);
    for (i = 1; i < 4; i++) tinyi_lm_add(f, x, x, x + i * n * D, n * D);
    tinyi_lm_scale(f, x, x, 0.25f, n * D);
    f->used = used;
}

/* c (n, 4) = tanh(router(rms(v) / D)), then to n_out numbers by t */
static void tinyi_lm_altup_coef(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int t, float *c, const float *v)
{
    const tiny_idx n = f->n, D = f->m->n_embd;
    const size_t used = f->used;
    float *h = tinyi_lm_take(f, n, D), *m = tinyi_lm_take(f, n, 4);
    tinyi_lm_norm(f, l->w[TINYI_T_ALTUP_ROUTER_NORM], h, v, n, D);
    tinyi_lm_scale(f, h, h, 1.0f / (float)D, n * D);
    tinyi_lm_linear(f, l->w[TINYI_T_ALTUP_ROUTER], m, h, n);
    tinyi_lm_run(f, TINY_OP_TANH, m, m, NULL, n * 4);
    tinyi_lm_linear(f, l->w[t], c, m, n);
    f->used = used;
}

TINYI_FN void tinyi_lm_altup_layer(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *x)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, D = m->n_embd, r = l->w[TINYI_T_LAUREL_L]->n_out;
    const size_t used = f->used;
    float *c = tinyi_lm_take(f, n, 16), *pred = tinyi_lm_take(f, 4 * n, D), *h = tinyi_lm_take(f, n, D),
          *low = tinyi_lm_take(f, n, r);
    float *laurel = tinyi_lm_take(f, n, D), *y = tinyi_lm_take(f, n, D), *b = tinyi_lm_take(f, n, D);
    const float *a = pred;
    tinyi_lm_altup p;
    tiny_idx i;
    if (f->st) return;
    memset(&p, 0, sizeof p);
    p.x = x;
    p.n = n;
    p.D = D;
    p.c = c;
    p.out = pred;
    tinyi_lm_altup_coef(f, l, TINYI_T_ALTUP_PREDICT, c, x);
    tinyi_lm_each(f, n, 8, tinyi_lm_altup_predict_fn, &p);
    tinyi_lm_norm(f, l->norm1, h, a, n, D);
    tinyi_lm_linear(f, l->w[TINYI_T_LAUREL_L], low, h, n);
    tinyi_lm_linear(f, l->w[TINYI_T_LAUREL_R], laurel, low, n);
    tinyi_lm_norm(f, l->w[TINYI_T_LAUREL_NORM], laurel, laurel, n, D);
    tinyi_lm_add(f, laurel, laurel, h, n * D);
    tinyi_lm_attn_run(f, l, y, h);
    tinyi_lm_norm(f, l->post1, y, y, n, D);
    tinyi_lm_add(f, b, a, y, n * D);
    tinyi_lm_add(f, b, b, laurel, n * D);
    tinyi_lm_scale(f, b, b, (float)(1.0 / tinyi_sqrt64(2.0)), n * D);
    tinyi_lm_norm(f, l->norm2, h, b, n, D);
    tinyi_lm_ffn_run(f, l, y, h);
    tinyi_lm_norm(f, l->post2, y, y, n, D);
    tinyi_lm_add(f, y, y, b, n * D);
    tinyi_lm_altup_coef(f, l, TINYI_T_ALTUP_CORRECT, c, y);
    p.y = y;
    p.a = a;
    tinyi_lm_each(f, n, 8, tinyi_lm_altup_correct_fn, &p);
    p.y = x;
    p.g = l->w[TINYI_T_ALTUP_SCALE]->v;
    p.out = h;
    tinyi_lm_each(f, n, 8, tinyi_lm_altup_scale_fn, &p);
    tinyi_lm_ple_side(f, l, y, h);
    for (i = 1; i < 4; i++) tinyi_lm_add(f, x + i * n * D, x + i * n * D, y, n * D);
    f->used = used;
}

/* ---- streams that were put by (kimi-k3) -------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_bank_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tiny_idx D = ld->m->n_embd;
    if (l->i < 0) { tinyi_lm_vec(ld, l, TINYI_T_OUTPUT_RES, D); return; }
    tinyi_lm_vec(ld, l, TINYI_T_ATTN_RES, D);
    tinyi_lm_vec(ld, l, TINYI_T_FFN_RES, D);
}

TINYI_FN void tinyi_lm_bank_open(tinyi_lm_fwd *f)
{
    const tiny_idx most = (f->m->n_layer - 1) / f->m->bank + 1;
    f->n_bank = 0;
    f->bank = f->n > 0 && most <= TINYI_LM_MOST / f->n ? tinyi_lm_take(f, most * f->n, f->m->n_embd) : NULL;
    if (!f->bank && !f->st)
        f->st =
            tinyi_fail(f->ctx, TINY_E_OVERFLOW, "%s: %td streams of %td tokens are more than this machine can address",
                       f->m->path, most, f->n);
}

TINYI_FN void tinyi_lm_bank_put(tinyi_lm_fwd *f, const float *x)
{
    const tiny_idx n = f->n * f->m->n_embd;
    if (!f->dry) tinyi_lm_copy(f, f->bank + f->n_bank * n, n, x, n, 1, n);
    f->n_bank++;
}

typedef struct tinyi_lm_bank { const float *old, *x, *w; float *y; tiny_idx n_old, n, d; double eps; } tinyi_lm_bank;
TINY_REF_BEGIN
static double tinyi_lm_bank_score(const float *x, const float *w, tiny_idx d, double eps)
{
    double ss = 0.0, s = 0.0;
    tiny_idx i;
    for (i = 0; i < d; i++) {
        ss += (double)x[i] * (double)x[i];
        s += (double)x[i] * (double)w[i];
    }
    return s / tinyi_sqrt64(ss / (double)d + eps);
}
/* The softmax is taken as it goes: a larger score scales down the sums so far. y and x may be the same row. */
static void tinyi_lm_bank_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_bank *q = (const tinyi_lm_bank *)arg;
    const tiny_idx d = q->d;
    tiny_idx t, i, k;
    for (t = t0; t < t1; t++) {
        const float *x = q->x + t * d;
        float *y = q->y + t * d;
        double top = tinyi_lm_bank_score(x, q->w, d, q->eps), sum = 1.0;
        for (i = 0; i < d; i++) y[i] = x[i];
        for (k = 0; k < q->n_old; k++) {
            const float *old = q->old + (k * q->n + t) * d;
            const double s = tinyi_lm_bank_score(old, q->w, d, q->eps);
            const double was = s > top ? tinyi_exp64(top - s) : 1.0, is = s > top ? 1.0 : tinyi_exp64(s - top);
            if (s > top) top = s;
            sum = sum * was + is;
            for (i = 0; i < d; i++) y[i] = (float)((double)y[i] * was + is * (double)old[i]);
        }
        for (i = 0; i < d; i++) y[i] = (float)((double)y[i] / sum);
    }
}
TINY_REF_END

TINYI_FN void tinyi_lm_bank_mix(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *y, const float *x)
{
    tinyi_lm_bank q;
    if (f->st || f->dry) return;
    q.old = f->bank;
    q.x = x;
    q.w = w->v;
    q.y = y;
    q.n_old = f->n_bank;
    q.n = f->n;
    q.d = f->m->n_embd;
    q.eps = (double)f->m->eps;
    tinyi_lm_each(f, f->n, 4, tinyi_lm_bank_fn, &q);
}
