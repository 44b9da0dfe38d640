/* src/llm/model/rwkv.c - RWKV 6 (Finch), with gated linear attention too, and 7 (Goose): time mixing and channel mixing
 * Papers   B. Peng et al., "Eagle and Finch", 2024 (arXiv 2404.05892), 4; B. Peng et al., "RWKV-7 Goose", 2025
 *          (arXiv 2503.14456), 4; S. Yang et al., "Gated Linear Attention", 2023 (arXiv 2312.06635).
 * Formula  delta = h of the previous token - h.
 *   6      s = W2 tanh(W1 (h + delta mu_x)), five of them; x_i = h + delta (mu_i + s_i) for w, k, v, r, g;
 *          decay e = exp(-exp(w0 + D2 tanh(D1 x_w))); per head, M (key by value):
 *          o = M^T r + (first r . k) v (the sum over keys of r_i first_i k_i);  M <- diag(e) M + k v^T
 *   6, rwkv6qwen2: no `first`. log e = -exp(w0 + ..); key and value heads are repeated, k <- k (1 - e); o and M by the
 *          operation gla (math/gla.c: recurrent for a token, chunked for a prompt), r scaled by 1 / sqrt(head); y = W_o
 *          (o sigmoid(gate)), no norm; then a gated SiLU layer
 *   7      x_i = h + delta mu_i for r, w, k, v, a, g; e = exp(-0.606531 sigmoid(w0 + W2 tanh(W1 x_w)));
 *          a = sigmoid(a0 + A2 A1 x_a); later layers v += (v of layer 0 - v) sigmoid(v0 + V2 V1 x_v); n = k k_k of
 *          length 1; k <- k (1 + (a - 1) k_a); M (value by key): M <- M diag(e) - (M n)(n a)^T + v k^T; o = M r;
 *          then norm per head, plus (sum r k r_k) v
 *   both   y = W_o (group norm of o per head, eps 64e-5) gate; channel: W_v max(0, W_k (h + delta mu_k))^2, in 6 times
 *          sigmoid(W_r ..)
 * Kept     h of the last token, before each of the two mixings, and M. */
#include "llm/model/model_inside.h"
#include <string.h>

#define TINYI_LM_RWKV_EPS 64e-5f

TINYI_FN size_t tinyi_lm_rwkv_kept(const tllm_model *m, const tinyi_lm_layer *l)
{
    size_t a, b;
    (void)l;
    if (!tinyi_size_mul((size_t)m->n_embd, (size_t)m->head_size, &a) ||
        !tinyi_size_mul((size_t)m->n_embd, TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_CHANNEL ? 2 : 1, &b) ||
        !tinyi_size_add(a, b, &a))
        return SIZE_MAX;
    return a;
}

static int tinyi_lm_rwkv_sizes(tinyi_lm_load *ld)
{
    tllm_model *m = ld->m;
    if (ld->st) return 0;
    if (m->head_size < 1 || m->n_embd % m->head_size) {
        ld->st =
            tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: %s.embedding_length %td is not a multiple of %s.wkv.head_size %td",
                       m->path, TINYI_LM_ARCH(m)->name, m->n_embd, TINYI_LM_ARCH(m)->name, m->head_size);
        return 0;
    }
    return 1;
}

typedef struct tinyi_lm_shift {
    const float *h, *last, *mu, *add;       /* add: (n, D) more to mu, or NULL */
    float *y;
    tiny_idx n, D;
} tinyi_lm_shift;

TINY_REF_BEGIN
static void tinyi_lm_shift_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_shift *p = (const tinyi_lm_shift *)arg;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < p->D; i++) {
            const float h = p->h[t * p->D + i], before = t ? p->h[(t - 1) * p->D + i] : p->last[i];
            p->y[t * p->D + i] = h + (before - h) * (p->mu[i] + (p->add ? p->add[t * p->D + i] : 0.0f));
        }
}
TINY_REF_END

/* y = h + (previous h - h) (mu + add) */
static void tinyi_lm_shift_by(tinyi_lm_fwd *f, float *y, const float *h, const float *last, const float *mu,
                              const float *add)
{
    const tiny_idx D = f->m->n_embd;
    tinyi_lm_shift p;
    tiny_idx i;
    for (i = 0; i < f->n_run && !f->st; i++) {
        const tinyi_lm_span *r = &f->run[i];
        tiny_idx j = i;
        p.h = h + r->row0 * D;
        while (j-- > 0 && f->run[j].seq != r->seq) { }      /* an earlier part of the piece, or what was kept */
        p.last = j >= 0 ? h + (f->run[j].row0 + f->run[j].n - 1) * D : last + r->seq * f->s->n_kept;
        p.mu = mu;
        p.add = add ? add + r->row0 * D : NULL;
        p.y = y + r->row0 * D;
        p.n = r->n;
        p.D = D;
        tinyi_lm_each(f, r->n, 16, tinyi_lm_shift_fn, &p);
    }
}
static void tinyi_lm_shift_keep(tinyi_lm_fwd *f, float *last, const float *h)
{
    const tiny_idx D = f->m->n_embd;
    tiny_idx i;
    for (i = 0; i < f->n_run && last; i++)
        tinyi_lm_copy(f, tinyi_lm_of(f, &f->run[i], last), D, h + (f->run[i].row0 + f->run[i].n - 1) * D, D, 1, D);
}

typedef struct tinyi_lm_wkv {
    const float *r, *k, *v, *w, *first, *nk, *a;
    const float *k_k, *k_a, *r_k, *v0, *gate, *g, *b;
    float *m, *o, *x, *y;
    double *acc;
    tiny_idx n, D, S;
} tinyi_lm_wkv;

TINY_REF_BEGIN
static void tinyi_lm_wkv6_fn(const void *arg, tiny_idx h0, tiny_idx h1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    const tiny_idx S = p->S;
    tiny_idx h, t, i, j;
    for (h = h0; h < h1; h++) {
        float *M = p->m + h * S * S;
        double *acc = p->acc + h * S;
        for (t = 0; t < p->n; t++) {
            const tiny_idx at = t * p->D + h * S;
            const float *r = p->r + at, *k = p->k + at, *v = p->v + at, *w = p->w + at;
            for (j = 0; j < S; j++) acc[j] = 0.0;
            for (i = 0; i < S; i++)
                for (j = 0; j < S; j++) {
                    const float kv = k[i] * v[j];
                    acc[j] += (double)r[i] * ((double)p->first[h * S + i] * (double)kv + (double)M[i * S + j]);
                    M[i * S + j] = M[i * S + j] * w[i] + kv;
                }
            for (j = 0; j < S; j++) p->o[at + j] = (float)acc[j];
        }
    }
}
static void tinyi_lm_wkv7_fn(const void *arg, tiny_idx h0, tiny_idx h1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    const tiny_idx S = p->S;
    tiny_idx h, t, i, j;
    for (h = h0; h < h1; h++) {
        float *M = p->m + h * S * S;
        for (t = 0; t < p->n; t++) {
            const tiny_idx at = t * p->D + h * S;
            const float *r = p->r + at, *k = p->k + at, *v = p->v + at, *w = p->w + at, *u = p->nk + at, *a = p->a + at;
            for (i = 0; i < S; i++) {
                float *row = M + i * S, s;
                double sum = 0.0;
                for (j = 0; j < S; j++) sum += (double)row[j] * (double)u[j];
                s = (float)sum;
                sum = 0.0;
                for (j = 0; j < S; j++) {
                    row[j] = row[j] * w[j] - s * (u[j] * a[j]) + v[i] * k[j];
                    sum += (double)row[j] * (double)r[j];
                }
                p->o[at + i] = (float)sum;
            }
        }
    }
}
/* decay of 6: exp(-exp(x + b)) */
static void tinyi_lm_decay6_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < p->D; i++)
            p->x[t * p->D + i] = (float)tinyi_exp64(-tinyi_exp64((double)p->x[t * p->D + i] + (double)p->b[i]));
}
/* decay of 7: exp(-0.606531 sigmoid(x + b)) */
static void tinyi_lm_decay7_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < p->D; i++)
            p->x[t * p->D + i] =
                (float)tinyi_exp64(-0.606531 / (1.0 + tinyi_exp64(-((double)p->x[t * p->D + i] + (double)p->b[i]))));
}
/* x = sigmoid(x + b) */
static void tinyi_lm_sigmoid_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < p->D; i++) p->x[t * p->D + i] = tinyi_sigmoid_ref(p->x[t * p->D + i] + p->b[i]);
}
/* y += (v0 - y) gate */
static void tinyi_lm_lerp_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    tiny_idx i;
    for (i = t0 * p->D; i < t1 * p->D; i++) p->y[i] += (p->v0[i] - p->y[i]) * p->gate[i];
}
/* n = k k_k (y), and k <- k (1 + (a - 1) k_a) (x) */
static void tinyi_lm_keys7_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < p->D; i++) {
            const tiny_idx at = t * p->D + i;
            p->y[at] = p->x[at] * p->k_k[i];
            p->x[at] *= 1.0f + (p->a[at] - 1.0f) * p->k_a[i];
        }
}
/* norm per head, with weight and bias; in 7 plus (sum r k r_k) v */
static void tinyi_lm_headnorm_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    const tiny_idx S = p->S, H = p->D / S;
    tiny_idx t, h, i;
    for (t = t0; t < t1; t++)
        for (h = 0; h < H; h++) {
            const tiny_idx at = t * p->D + h * S;
            double sum = 0.0, ss = 0.0, mean, size, own = 0.0;
            for (i = 0; i < S; i++) sum += (double)p->o[at + i];
            mean = sum / (double)S;
            for (i = 0; i < S; i++) ss += ((double)p->o[at + i] - mean) * ((double)p->o[at + i] - mean);
            size = 1.0 / tinyi_sqrt64(ss / (double)S + (double)TINYI_LM_RWKV_EPS);
            if (p->r_k)
                for (i = 0; i < S; i++) own += (double)p->r[at + i] * (double)p->k[at + i] * (double)p->r_k[h * S + i];
            for (i = 0; i < S; i++)
                p->o[at + i] = (float)(((double)p->o[at + i] - mean) * size * (double)p->g[h * S + i] +
                                       (double)p->b[h * S + i] + own * (double)p->v[at + i]);
        }
}
TINY_REF_END

/* fn over the heads for each sequence of the piece */
static void tinyi_lm_wkv_runs(tinyi_lm_fwd *f, const tinyi_lm_wkv *p, tinyi_lm_fn fn)
{
    tiny_idx i;
    for (i = 0; i < f->n_run && !f->st; i++) {
        const tinyi_lm_span *r = &f->run[i];
        const tiny_idx at = r->row0 * p->D;
        tinyi_lm_wkv q = *p;
        q.n = r->n;
        q.r += at;
        q.k += at;
        q.v += at;
        q.w += at;
        if (q.nk) {
            q.nk += at;
            q.a += at;
        }
        q.o += at;
        q.m = tinyi_lm_of(f, r, p->m);
        tinyi_lm_each(f, p->D / p->S, 1, fn, &q);
    }
}

/* ---- 6 ---------------------------------------------------------------------------------------------------------- */

/* gated linear attention where no channel mixing follows: rwkv6qwen2 */
static int tinyi_lm_rwkv6_gla(const tllm_model *m) { return !(TINYI_LM_ARCH(m)->ffn & TINYI_LM_F_CHANNEL); }

TINYI_FN void tinyi_lm_rwkv6_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const int gla = tinyi_lm_rwkv6_gla(m);
    tiny_idx kv = m->n_embd;
    const tiny_idx D = m->n_embd, E = tinyi_lm_count(ld, "time_mix_extra_dim", -1, -1, 1, 65536),
                   W = tinyi_lm_count(ld, "time_decay_extra_dim", -1, -1, 1, 65536);
    if (!tinyi_lm_rwkv_sizes(ld)) return;
    tinyi_lm_vec(ld, l, TINYI_T_TM_LERP_X, D);
    tinyi_lm_need(ld, l, TINYI_T_TM_W1, D, 5 * E, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_W2, E, D, 5);
    tinyi_lm_vec(ld, l, TINYI_T_TM_LERP, 5 * D);
    if (!gla) tinyi_lm_vec(ld, l, TINYI_T_TM_FIRST, D);
    tinyi_lm_vec(ld, l, TINYI_T_TM_DECAY, D);
    tinyi_lm_need(ld, l, TINYI_T_TM_DECAY_W1, D, W, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_DECAY_W2, W, D, 0);
    if (gla) {
        kv = tinyi_lm_width(ld, l, TINYI_T_TM_KEY);
        if (!ld->st && (kv < m->head_size || kv % m->head_size || D % kv))
            tinyi_lm_disagree(ld, l, "heads of time_mix_key do not divide those of the embedding; numbers of each", kv,
                              D);
        if (!ld->st && m->head_size > TINY_GLA_KEYS)
            tinyi_lm_disagree(ld, l, "wkv.head_size is above the limit of gated linear attention", m->head_size,
                              TINY_GLA_KEYS);
        if (ld->st) return;
    }
    tinyi_lm_need(ld, l, TINYI_T_TM_KEY, D, kv, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_VALUE, D, kv, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_RECEPTANCE, D, D, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_GATE, D, D, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_OUT, D, D, 0);
    if (gla) return;
    tinyi_lm_vec(ld, l, TINYI_T_TM_LN, D);
    if (!ld->st && !l->w[TINYI_T_TM_LN]->bias)
        tinyi_lm_disagree(ld, l, "time_mix_ln has no bias; its numbers and those needed", 0, D);
}

TINY_REF_BEGIN
/* x: what the decay is made of, becomes its logarithm g; y: keys, times 1 - e^g */
static void tinyi_lm_gates6_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_wkv *p = (const tinyi_lm_wkv *)arg;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < p->D; i++) {
            const double g = -tinyi_exp64((double)p->x[t * p->D + i] + (double)p->b[i]);
            p->x[t * p->D + i] = (float)g;
            p->y[t * p->D + i] *= (float)(1.0 - tinyi_exp64(g));
        }
}
TINY_REF_END

/* o = gated linear attention of r, k, v, w (n, H, S) for each sequence of the piece; state: of sequence 0 */
static void tinyi_lm_gla(tinyi_lm_fwd *f, float *r, float *k, float *v, float *w, float *o, float *state, tiny_idx H,
                         tiny_idx S)
{
    tiny_idx i;
    for (i = 0; i < (f->dry ? 1 : f->n_run) && !f->st; i++) {
        const tiny_idx at = f->dry ? 0 : f->run[i].row0 * H * S, n = f->dry ? f->n : f->run[i].n;
        tiny_tensor x[6];
        tiny_op op;
        int j;
        x[0] = tiny_tensor_3d(f->dry ? NULL : tinyi_lm_of(f, &f->run[i], state), TINY_F32, H, S, S);
        for (j = 1; j < 6; j++) {
            float *p = j == 1 ? r : j == 2 ? k : j == 3 ? v : j == 4 ? w : o;
            x[j] = tiny_tensor_3d(p ? p + at : NULL, TINY_F32, n, H, S);
        }
        memset(&op, 0, sizeof op);
        op.kind = TINY_OP_GLA;
        for (j = 0; j < 5; j++) op.in[j] = &x[j];
        op.out[0] = &x[0];
        op.out[1] = &x[5];
        tinyi_lm_door(f, &op);
    }
}

/* heads of key and value that several heads share, for each of these */
static void tinyi_lm_heads_repeat(tinyi_lm_fwd *f, float *y, const float *x, tiny_idx kv, tiny_idx S)
{
    const tiny_idx D = f->m->n_embd, group = D / kv;
    tiny_idx h;
    for (h = 0; h < D / S && !f->st && !f->dry; h++) tinyi_lm_copy(f, y + h * S, D, x + h / group * S, kv, f->n, S);
}

TINYI_FN void tinyi_lm_rwkv6_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, D = m->n_embd, S = m->head_size, E = l->w[TINYI_T_TM_W2]->n_in;
    const size_t used = f->used;
    float *kept = f->dry ? NULL : f->s->held[l->i].x, *x[5];
    float *low = tinyi_lm_take(f, n, 5 * E), *add = tinyi_lm_take(f, n, D), *k = tinyi_lm_take(f, n, D),
          *v = tinyi_lm_take(f, n, D), *r = tinyi_lm_take(f, n, D);
    float *g = tinyi_lm_take(f, n, D), *w = tinyi_lm_take(f, n, D),
          *dl = tinyi_lm_take(f, n, l->w[TINYI_T_TM_DECAY_W1]->n_out), *o = tinyi_lm_take(f, n, D);
    double *acc = (double *)(void *)tinyi_lm_take(f, 2, D);
    const int gla = tinyi_lm_rwkv6_gla(m);
    const tiny_idx kv = l->w[TINYI_T_TM_KEY]->n_out;
    float *made = tinyi_lm_take(f, n, kv);
    tinyi_lm_wkv p;
    int i;
    for (i = 0; i < 5; i++) x[i] = tinyi_lm_take(f, n, D);
    if (f->st) return;
    tinyi_lm_shift_by(f, x[0], h, kept, l->w[TINYI_T_TM_LERP_X]->v, NULL);
    tinyi_lm_linear(f, l->w[TINYI_T_TM_W1], low, x[0], n);
    tinyi_lm_run(f, TINY_OP_TANH, low, low, NULL, n * 5 * E);
    for (i = 0; i < 5; i++) {               /* w, k, v, r, g */
        tinyi_lm_linear_at(f, l->w[TINYI_T_TM_W2], i, add, D, low + i * E, 5 * E, n);
        tinyi_lm_shift_by(f, x[i], h, kept, l->w[TINYI_T_TM_LERP]->v + i * D, add);
    }
    tinyi_lm_linear(f, l->w[TINYI_T_TM_DECAY_W1], dl, x[0], n);
    tinyi_lm_run(f, TINY_OP_TANH, dl, dl, NULL, n * l->w[TINYI_T_TM_DECAY_W1]->n_out);
    tinyi_lm_linear(f, l->w[TINYI_T_TM_DECAY_W2], w, dl, n);
    for (i = 0; i < 2; i++) {
        tinyi_lm_linear(f, l->w[i ? TINYI_T_TM_VALUE : TINYI_T_TM_KEY], kv < D ? made : i ? v : k, x[1 + i], n);
        if (kv < D) tinyi_lm_heads_repeat(f, i ? v : k, made, kv, S);
    }
    tinyi_lm_linear(f, l->w[TINYI_T_TM_RECEPTANCE], r, x[3], n);
    tinyi_lm_linear(f, l->w[TINYI_T_TM_GATE], g, x[4], n);
    memset(&p, 0, sizeof p);
    p.n = n;
    p.D = D;
    p.S = S;
    p.x = w;
    p.b = l->w[TINYI_T_TM_DECAY]->v;
    if (gla) {
        p.y = k;
        tinyi_lm_each(f, n, 4, tinyi_lm_gates6_fn, &p);
        tinyi_lm_gla(f, r, k, v, w, o, kept ? kept + D : NULL, D / S, S);
        tinyi_lm_run(f, TINY_OP_SIGMOID, g, g, NULL, n * D);
        tinyi_lm_mul(f, o, o, g, n * D);
        tinyi_lm_linear(f, l->w[TINYI_T_TM_OUT], y, o, n);
        tinyi_lm_shift_keep(f, kept, h);
        f->used = used;
        return;
    }
    tinyi_lm_each(f, n, 4, tinyi_lm_decay6_fn, &p);
    p.r = r;
    p.k = k;
    p.v = v;
    p.w = w;
    p.first = l->w[TINYI_T_TM_FIRST]->v;
    p.m = kept ? kept + 2 * D : NULL;
    p.o = o;
    p.acc = acc;
    tinyi_lm_wkv_runs(f, &p, tinyi_lm_wkv6_fn);
    p.g = l->w[TINYI_T_TM_LN]->v;
    p.b = l->w[TINYI_T_TM_LN]->bias;
    tinyi_lm_each(f, n, 8, tinyi_lm_headnorm_fn, &p);
    tinyi_lm_run(f, TINY_OP_SILU, g, g, NULL, n * D);
    tinyi_lm_mul(f, o, o, g, n * D);
    tinyi_lm_linear(f, l->w[TINYI_T_TM_OUT], y, o, n);
    tinyi_lm_shift_keep(f, kept, h);
    f->used = used;
}

/* ---- 7 ---------------------------------------------------------------------------------------------------------- */

static void tinyi_lm_low_load(tinyi_lm_load *ld, tinyi_lm_layer *l, int t1, int t2)
{
    const tiny_idx D = ld->m->n_embd, r = tinyi_lm_width(ld, l, t1);
    tinyi_lm_need(ld, l, t1, D, r > 0 ? r : 1, 0);
    tinyi_lm_need(ld, l, t2, r > 0 ? r : 1, D, 0);
}

TINYI_FN void tinyi_lm_rwkv7_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tiny_idx D = ld->m->n_embd;
    int gate;
    if (!tinyi_lm_rwkv_sizes(ld)) return;
    gate = tinyi_lm_find(ld, l, TINYI_T_TM_G1, NULL) != NULL;
    tinyi_lm_vec(ld, l, TINYI_T_TM_W0, D);
    tinyi_lm_low_load(ld, l, TINYI_T_TM_W1, TINYI_T_TM_W2);
    tinyi_lm_vec(ld, l, TINYI_T_TM_A0, D);
    tinyi_lm_low_load(ld, l, TINYI_T_TM_A1, TINYI_T_TM_A2);
    if (l->i > 0) {
        tinyi_lm_vec(ld, l, TINYI_T_TM_V0, D);
        tinyi_lm_low_load(ld, l, TINYI_T_TM_V1, TINYI_T_TM_V2);
    }
    if (gate) tinyi_lm_low_load(ld, l, TINYI_T_TM_G1, TINYI_T_TM_G2);
    tinyi_lm_vec(ld, l, TINYI_T_TM_LERP, (gate ? 6 : 5) * D);
    tinyi_lm_vec(ld, l, TINYI_T_TM_KK, D);
    tinyi_lm_vec(ld, l, TINYI_T_TM_KA, D);
    tinyi_lm_vec(ld, l, TINYI_T_TM_RK, D);
    tinyi_lm_need(ld, l, TINYI_T_TM_KEY, D, D, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_VALUE, D, D, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_RECEPTANCE, D, D, 0);
    tinyi_lm_need(ld, l, TINYI_T_TM_OUT, D, D, 0);
    tinyi_lm_vec(ld, l, TINYI_T_TM_LN, D);
    if (!ld->st && !l->w[TINYI_T_TM_LN]->bias)
        tinyi_lm_disagree(ld, l, "time_mix_ln has no bias; its numbers and those needed", 0, D);
}

/* y = W2 act(W1 x), act an operation or 0 */
static void tinyi_lm_low(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int t1, int t2, float *y, const float *x, int act)
{
    const size_t used = f->used;
    const tiny_idx r = l->w[t1]->n_out;
    float *low = tinyi_lm_take(f, f->n, r);
    tinyi_lm_linear(f, l->w[t1], low, x, f->n);
    if (act) tinyi_lm_run(f, act, low, low, NULL, f->n * r);
    tinyi_lm_linear(f, l->w[t2], y, low, f->n);
    f->used = used;
}

TINYI_FN void tinyi_lm_rwkv7_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, D = m->n_embd, S = m->head_size;
    const size_t used = f->used;
    const float *mu = l->w[TINYI_T_TM_LERP]->v;
    float *kept = f->dry ? NULL : f->s->held[l->i].x;
    float *x = tinyi_lm_take(f, n, D), *k = tinyi_lm_take(f, n, D), *v = tinyi_lm_take(f, n, D),
          *r = tinyi_lm_take(f, n, D), *w = tinyi_lm_take(f, n, D);
    float *a = tinyi_lm_take(f, n, D), *g = tinyi_lm_take(f, n, D), *nk = tinyi_lm_take(f, n, D),
          *o = tinyi_lm_take(f, n, D);
    tiny_tensor t;
    tinyi_lm_wkv p;
    if (f->st) return;
    memset(&p, 0, sizeof p);
    p.n = n;
    p.D = D;
    p.S = S;
    tinyi_lm_shift_by(f, x, h, kept, mu, NULL);
    tinyi_lm_linear(f, l->w[TINYI_T_TM_RECEPTANCE], r, x, n);
    tinyi_lm_shift_by(f, x, h, kept, mu + D, NULL);
    tinyi_lm_low(f, l, TINYI_T_TM_W1, TINYI_T_TM_W2, w, x, TINY_OP_TANH);
    p.x = w;
    p.b = l->w[TINYI_T_TM_W0]->v;
    tinyi_lm_each(f, n, 4, tinyi_lm_decay7_fn, &p);
    tinyi_lm_shift_by(f, x, h, kept, mu + 2 * D, NULL);
    tinyi_lm_linear(f, l->w[TINYI_T_TM_KEY], k, x, n);
    tinyi_lm_shift_by(f, x, h, kept, mu + 3 * D, NULL);
    tinyi_lm_linear(f, l->w[TINYI_T_TM_VALUE], v, x, n);
    if (l->i == 0) tinyi_lm_copy(f, f->first_v, D, v, D, n, D);
    else {
        tinyi_lm_low(f, l, TINYI_T_TM_V1, TINYI_T_TM_V2, g, x, 0);
        p.x = g;
        p.b = l->w[TINYI_T_TM_V0]->v;
        tinyi_lm_each(f, n, 4, tinyi_lm_sigmoid_fn, &p);
        p.y = v;
        p.v0 = f->first_v;
        p.gate = g;
        tinyi_lm_each(f, n, 16, tinyi_lm_lerp_fn, &p);
    }
    tinyi_lm_shift_by(f, x, h, kept, mu + 4 * D, NULL);
    tinyi_lm_low(f, l, TINYI_T_TM_A1, TINYI_T_TM_A2, a, x, 0);
    p.x = a;
    p.b = l->w[TINYI_T_TM_A0]->v;
    tinyi_lm_each(f, n, 4, tinyi_lm_sigmoid_fn, &p);
    if (l->w[TINYI_T_TM_G1]) {
        tinyi_lm_shift_by(f, x, h, kept, mu + 5 * D, NULL);
        tinyi_lm_low(f, l, TINYI_T_TM_G1, TINYI_T_TM_G2, g, x, TINY_OP_SIGMOID);
    }
    p.x = k;
    p.y = nk;
    p.a = a;
    p.k_k = l->w[TINYI_T_TM_KK]->v;
    p.k_a = l->w[TINYI_T_TM_KA]->v;
    tinyi_lm_each(f, n, 16, tinyi_lm_keys7_fn, &p);
    t = tiny_tensor_2d(nk, TINY_F32, n * (D / S), S);
    tinyi_lm_norm_view(f, TINY_OP_L2NORM, NULL, NULL, 1e-12f, &t, &t);
    p.r = r;
    p.k = k;
    p.v = v;
    p.w = w;
    p.nk = nk;
    p.m = kept ? kept + 2 * D : NULL;
    p.o = o;
    tinyi_lm_wkv_runs(f, &p, tinyi_lm_wkv7_fn);
    p.g = l->w[TINYI_T_TM_LN]->v;
    p.b = l->w[TINYI_T_TM_LN]->bias;
    p.r_k = l->w[TINYI_T_TM_RK]->v;
    tinyi_lm_each(f, n, 8, tinyi_lm_headnorm_fn, &p);
    if (l->w[TINYI_T_TM_G1]) tinyi_lm_mul(f, o, o, g, n * D);
    tinyi_lm_linear(f, l->w[TINYI_T_TM_OUT], y, o, n);
    tinyi_lm_shift_keep(f, kept, h);
    f->used = used;
}

/* ---- channel mixing --------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_channel_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tiny_idx D = ld->m->n_embd, ff = tinyi_lm_count(ld, "feed_forward_length", l->i, -1, 1, TINYI_LM_MOST);
    tinyi_lm_vec(ld, l, TINYI_T_CM_LERP_K, D);
    tinyi_lm_need(ld, l, TINYI_T_CM_KEY, D, ff, 0);
    tinyi_lm_need(ld, l, TINYI_T_CM_VALUE, ff, D, 0);
    if (TINYI_LM_ARCH(ld->m)->mixer == TINYI_LM_RWKV6) {
        tinyi_lm_vec(ld, l, TINYI_T_CM_LERP_R, D);
        tinyi_lm_need(ld, l, TINYI_T_CM_RECEPTANCE, D, D, 0);
    }
}

TINYI_FN void tinyi_lm_channel_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tiny_idx n = f->n, D = f->m->n_embd, ff = l->w[TINYI_T_CM_KEY]->n_out;
    const size_t used = f->used;
    float *kept = f->dry ? NULL : f->s->held[l->i].x + D;
    float *x = tinyi_lm_take(f, n, D), *k = tinyi_lm_take(f, n, ff), *r = tinyi_lm_take(f, n, D);
    if (f->st) return;
    tinyi_lm_shift_by(f, x, h, kept, l->w[TINYI_T_CM_LERP_K]->v, NULL);
    tinyi_lm_linear(f, l->w[TINYI_T_CM_KEY], k, x, n);
    tinyi_lm_run(f, TINY_OP_RELU2, k, k, NULL, n * ff);
    tinyi_lm_linear(f, l->w[TINYI_T_CM_VALUE], y, k, n);
    if (l->w[TINYI_T_CM_RECEPTANCE]) {
        tinyi_lm_shift_by(f, x, h, kept, l->w[TINYI_T_CM_LERP_R]->v, NULL);
        tinyi_lm_linear(f, l->w[TINYI_T_CM_RECEPTANCE], r, x, n);
        tinyi_lm_run(f, TINY_OP_SIGMOID, r, r, NULL, n * D);
        tinyi_lm_mul(f, y, y, r, n * D);
    }
    tinyi_lm_shift_keep(f, kept, h);
    f->used = used;
}
