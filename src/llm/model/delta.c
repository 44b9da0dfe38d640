/* src/llm/model/delta.c - gated delta nets (qwen3next, qwen35) and Kimi delta attention
 * Papers   S. Yang et al., "Gated Delta Networks", 2024 (arXiv 2412.06464), eq. 10; Kimi Team, "Kimi Linear", 2025
 *          (arXiv 2510.26692), eq. 1.
 * Formula  per value head, state M (key by value), zero at the start:
 *            M <- diag(e_t) M;  d = b_t (v_t - M^T k_t);  M <- M + k_t d^T;  o_t = M^T q_t
 *          q and k of length 1, q / sqrt(S); b = sigmoid; e = exp(a softplus(x + bias)), one number for a head, or one
 *          for each of its key dimensions (Kimi), or exp(bound sigmoid(-a (x + bias))) if the file names a bound.
 *          y = W rms(o) act(z), act = silu, or sigmoid (Kimi).
 * Kept     the last rows before the convolutions, and M of each head. */
#include "llm/model/model_inside.h"
#include <string.h>

typedef struct tinyi_lm_delta {
    const float *q, *k, *v;                 /* rows ld apart */
    const float *decay, *beta;              /* (n, H[, S]) and (n, H) */
    float *m, *o;                           /* (H, S, S), (n, H, S) */
    double *acc;                            /* (H, S) */
    tiny_idx n, H, Hk, S, ld_q, ld_v;
    int by_key, blocks;
    /* gates */
    const float *x, *bias, *a;
    float *y;
    double bound, sign;                     /* of the exponent; 0: none */
} tinyi_lm_delta;

TINY_REF_BEGIN
static void tinyi_lm_delta_fn(const void *arg, tiny_idx h0, tiny_idx h1)
{
    const tinyi_lm_delta *p = (const tinyi_lm_delta *)arg;
    const tiny_idx S = p->S;
    tiny_idx h, t, i, j;
    for (h = h0; h < h1; h++) {
        const tiny_idx hk = p->blocks ? h / (p->H / p->Hk) : h % p->Hk;
        float *M = p->m + h * S * S;
        double *acc = p->acc + h * S;
        for (t = 0; t < p->n; t++) {
            const float *q = p->q + t * p->ld_q + hk * S, *k = p->k + t * p->ld_q + hk * S,
                        *v = p->v + t * p->ld_v + h * S;
            const float *e = p->by_key ? p->decay + (t * p->H + h) * S : p->decay + t * p->H + h;
            const float b = p->beta[t * p->H + h];
            float *o = p->o + (t * p->H + h) * S;
            for (j = 0; j < S; j++) acc[j] = 0.0;
            for (i = 0; i < S; i++) {
                const float f = e[p->by_key ? i : 0];
                for (j = 0; j < S; j++) {
                    M[i * S + j] *= f;
                    acc[j] += (double)M[i * S + j] * (double)k[i];
                }
            }
            for (j = 0; j < S; j++) {
                o[j] = b * (v[j] - (float)acc[j]);
                acc[j] = 0.0;
            }
            for (i = 0; i < S; i++)
                for (j = 0; j < S; j++) {
                    M[i * S + j] += k[i] * o[j];
                    acc[j] += (double)M[i * S + j] * (double)q[i];
                }
            for (j = 0; j < S; j++) o[j] = (float)acc[j];
        }
    }
}

/* y = exp(a softplus(x + bias)) or exp(bound sigmoid(sign a (x + bias))), rows of H or H S numbers */
static void tinyi_lm_decay_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_delta *p = (const tinyi_lm_delta *)arg;
    const tiny_idx d = p->by_key ? p->H * p->S : p->H;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < d; i++)
            if (p->bound != 0.0)
                p->y[t * d + i] =
                    (float)tinyi_exp64(p->bound / (1.0 + tinyi_exp64(-p->sign * (double)p->a[i / p->S] *
                                                                     ((double)p->x[t * d + i] + (double)p->bias[i]))));
            else
                p->y[t * d + i] = (float)tinyi_exp64((double)p->a[p->by_key ? i / p->S : i] *
                                                     tinyi_lm_softplus((double)p->x[t * d + i] + (double)p->bias[i]));
}
TINY_REF_END

static void tinyi_lm_delta_scan(tinyi_lm_fwd *f, tinyi_lm_delta *p)
{
    tiny_idx i;
    p->acc = (double *)(void *)tinyi_lm_take(f, 2 * p->H, p->S);
    for (i = 0; i < f->n_run && !f->st; i++) {
        const tinyi_lm_span *r = &f->run[i];
        tinyi_lm_delta q = *p;
        q.n = r->n;
        q.q += r->row0 * p->ld_q;
        q.k += r->row0 * p->ld_q;
        q.v += r->row0 * p->ld_v;
        q.decay += r->row0 * p->H * (p->by_key ? p->S : 1);
        q.beta += r->row0 * p->H;
        q.o += r->row0 * p->H * p->S;
        q.m = tinyi_lm_of(f, r, p->m);
        tinyi_lm_each(f, p->H, 1, tinyi_lm_delta_fn, &q);
    }
}

/* heads of q and k to length 1, q then by 1 / sqrt(S). bailingmoe3 and kimi-k3 add epsilon to the square, as the
 * published kernels do: the rms norm with another epsilon and size; the older ones divide by no less than epsilon. */
static void tinyi_lm_unit(tinyi_lm_fwd *f, float *x, tiny_idx ld, tiny_idx n_head, tiny_idx S, float scale)
{
    tiny_tensor t = tiny_tensor_3d(x, TINY_F32, f->n, n_head, S);
    tiny_idx i;
    t.stride[0] = ld;
    if (TINYI_LM_ARCH(f->m)->keys & TINYI_LM_K_DECAY) {
        tinyi_lm_norm_view(f, TINY_OP_RMSNORM, NULL, NULL, (float)((double)f->m->eps / (double)S), &t, &t);
        scale = (float)((double)scale / tinyi_sqrt64((double)S));
    } else tinyi_lm_norm_view(f, TINY_OP_L2NORM, NULL, NULL, f->m->eps, &t, &t);
    for (i = 0; i < f->n && scale != 1.0f; i++) tinyi_lm_scale(f, x + i * ld, x + i * ld, scale, n_head * S);
}

/* rms of each head of o, times act(z), through the output matrix */
static void tinyi_lm_delta_end(tinyi_lm_fwd *f, const tinyi_lm_layer *l, int out, float *y, float *o, float *z,
                               tiny_idx H, tiny_idx S, int act)
{
    tinyi_lm_rms(f, l->w[TINYI_T_SSM_NORM]->v, o, o, f->n * H, S);
    tinyi_lm_run(f, act, z, z, NULL, f->n * H * S);
    tinyi_lm_mul(f, o, o, z, f->n * H * S);
    tinyi_lm_linear(f, l->w[out], y, o, f->n);
}

/* ---- qwen3next, qwen35 ------------------------------------------------------------------------------------------ */

TINYI_FN void tinyi_lm_delta_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->n_embd, S = m->ssm_state, Hk = m->ssm_group, H = m->ssm_rank, K = m->ssm_conv;
    if (ld->st) return;
    if (S < 1 || Hk < 1 || H < 1 || K < 2) {
        ld->st =
            tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: a delta net of %td numbers, %td and %td heads and a kernel of %td",
                       m->path, S, Hk, H, K);
        return;
    }
    if (!tinyi_lm_small(ld, l, S, Hk) || !tinyi_lm_small(ld, l, S, H) || !tinyi_lm_small(ld, l, K, 2 * Hk * S + H * S))
        return;
    if (H % Hk) tinyi_lm_disagree(ld, l, "ssm.time_step_rank is not a multiple of ssm.group_count", H, Hk);
    if (m->ssm_inner / S != H || m->ssm_inner % S)
        tinyi_lm_disagree(ld, l, "ssm.inner_size is not ssm.time_step_rank heads of ssm.state_size", m->ssm_inner, S);
    if (ld->st) return;
    if (tinyi_lm_find(ld, l, TINYI_T_SSM_IN, NULL)) tinyi_lm_need(ld, l, TINYI_T_SSM_IN, D, 2 * Hk * S + 2 * H * S, 0);
    else {
        tinyi_lm_need(ld, l, TINYI_T_ATTN_QKV, D, 2 * Hk * S + H * S, 0);
        tinyi_lm_need(ld, l, TINYI_T_ATTN_GATE, D, H * S, 0);
    }
    if (tinyi_lm_find(ld, l, TINYI_T_SSM_BA, NULL)) tinyi_lm_need(ld, l, TINYI_T_SSM_BA, D, 2 * H, 0);
    else {
        tinyi_lm_need(ld, l, TINYI_T_SSM_BETA, D, H, 0);
        tinyi_lm_need(ld, l, TINYI_T_SSM_ALPHA, D, H, 0);
    }
    tinyi_lm_vec(ld, l, TINYI_T_SSM_CONV, K * (2 * Hk * S + H * S));
    tinyi_lm_bias(ld, l, TINYI_T_SSM_DT, H, 1);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_A, H);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_NORM, S);
    tinyi_lm_need(ld, l, TINYI_T_SSM_OUT, H * S, D, 0);
}

/* a product that saturates: SIZE_MAX says that it does not fit */
static size_t tinyi_lm_delta_floats(size_t taps, size_t channels, size_t heads, size_t size)
{
    size_t a, b;
    if (!tinyi_size_mul(taps, channels, &a) || !tinyi_size_mul(heads, size, &b) || !tinyi_size_mul(b, size, &b) ||
        !tinyi_size_add(a, b, &a))
        return SIZE_MAX;
    return a;
}
TINYI_FN size_t tinyi_lm_delta_kept(const tllm_model *m, const tinyi_lm_layer *l)
{
    (void)l;
    return tinyi_lm_delta_floats((size_t)m->ssm_conv - 1, (size_t)((2 * m->ssm_group + m->ssm_rank) * m->ssm_state),
                                 (size_t)m->ssm_rank, (size_t)m->ssm_state);
}

TINYI_FN void tinyi_lm_delta_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, S = m->ssm_state, Hk = m->ssm_group, H = m->ssm_rank, K = m->ssm_conv,
                   C = 2 * Hk * S + H * S, R = H / Hk;
    const size_t used = f->used;
    float *kept = f->dry ? NULL : f->s->held[l->i].x;
    float *u = tinyi_lm_take(f, n, C), *c = tinyi_lm_take(f, n, C), *z = tinyi_lm_take(f, n, H * S),
          *o = tinyi_lm_take(f, n, H * S);
    float *b = tinyi_lm_take(f, n, H), *a = tinyi_lm_take(f, n, H), *both = tinyi_lm_take(f, n, 2 * H);
    tinyi_lm_delta p;
    tiny_idx g;
    if (f->st) return;
    if (l->w[TINYI_T_SSM_IN]) {             /* for each key head: q, k, R v, R z */
        const tiny_idx step = 2 * S + 2 * R * S;
        float *all = tinyi_lm_take(f, n, Hk * step);
        tinyi_lm_linear(f, l->w[TINYI_T_SSM_IN], all, h, n);
        for (g = 0; g < Hk && !f->st && !f->dry; g++) {
            tinyi_lm_copy(f, u + g * S, C, all + g * step, Hk * step, n, S);
            tinyi_lm_copy(f, u + (Hk + g) * S, C, all + g * step + S, Hk * step, n, S);
            tinyi_lm_copy(f, u + (2 * Hk + g * R) * S, C, all + g * step + 2 * S, Hk * step, n, R * S);
            tinyi_lm_copy(f, z + g * R * S, H * S, all + g * step + (2 + R) * S, Hk * step, n, R * S);
        }
    } else tinyi_lm_linear_both(f, l->w[TINYI_T_ATTN_QKV], u, l->w[TINYI_T_ATTN_GATE], z, 0, h, n);
    if (l->w[TINYI_T_SSM_BA]) {             /* for each key head: R b, R a */
        tinyi_lm_linear(f, l->w[TINYI_T_SSM_BA], both, h, n);
        for (g = 0; g < Hk; g++) {
            tinyi_lm_copy(f, b + g * R, H, both + g * 2 * R, 2 * H, n, R);
            tinyi_lm_copy(f, a + g * R, H, both + g * 2 * R + R, 2 * H, n, R);
        }
    } else tinyi_lm_linear_both(f, l->w[TINYI_T_SSM_BETA], b, l->w[TINYI_T_SSM_ALPHA], a, 0, h, n);
    tinyi_lm_conv(f, c, C, u, C, l->w[TINYI_T_SSM_CONV]->v, NULL, kept, K, C, 1);
    tinyi_lm_unit(f, c, C, Hk, S, (float)(1.0 / tinyi_sqrt64((double)S)));
    tinyi_lm_unit(f, c + Hk * S, C, Hk, S, 1.0f);
    tinyi_lm_run(f, TINY_OP_SIGMOID, b, b, NULL, n * H);
    memset(&p, 0, sizeof p);
    p.H = H;
    p.Hk = Hk;
    p.S = S;
    p.n = n;
    p.x = p.y = a;
    p.a = l->w[TINYI_T_SSM_A]->v;
    p.bias = l->w[TINYI_T_SSM_DT]->v;
    tinyi_lm_each(f, n, 16, tinyi_lm_decay_fn, &p);
    p.q = c;
    p.k = c + Hk * S;
    p.v = c + 2 * Hk * S;
    p.ld_q = p.ld_v = C;
    p.decay = a;
    p.beta = b;
    p.o = o;
    p.m = kept ? kept + (K - 1) * C : NULL;
    p.blocks = (TINYI_LM_ARCH(m)->attn & TINYI_LM_A_KEY_BLOCKS) != 0;
    tinyi_lm_delta_scan(f, &p);
    tinyi_lm_delta_end(f, l, TINYI_T_SSM_OUT, y, o, z, H, S, TINY_OP_SILU);
    f->used = used;
}

/* ---- Kimi ------------------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_kda_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->n_embd, S = m->head_size, H = l->n_head, K = m->ssm_conv;
    const unsigned keys = TINYI_LM_ARCH(m)->keys;
    if (ld->st) return;
    if (H < 1 || K < 2) {
        ld->st =
            tinyi_fail(ld->ctx, TINY_E_FORMAT, "%s: delta attention of %td heads and a kernel of %td", m->path, H, K);
        return;
    }
    if (!tinyi_lm_small(ld, l, H, S) || !tinyi_lm_small(ld, l, K, H * S)) return;
    tinyi_lm_need(ld, l, TINYI_T_ATTN_Q, D, H * S, 0);
    tinyi_lm_need(ld, l, TINYI_T_ATTN_K, D, H * S, 0);
    tinyi_lm_need(ld, l, TINYI_T_ATTN_V, D, H * S, 0);
    tinyi_lm_vec(ld, l, TINYI_T_CONV_Q, K * H * S);
    tinyi_lm_vec(ld, l, TINYI_T_CONV_K, K * H * S);
    tinyi_lm_vec(ld, l, TINYI_T_CONV_V, K * H * S);
    if (keys & TINYI_LM_K_DECAY_PLUS) tinyi_lm_need(ld, l, TINYI_T_SSM_F_A, D, H * S, 0);
    else {                                  /* in two steps, through S numbers */
        tinyi_lm_need(ld, l, TINYI_T_SSM_F_A, D, S, 0);
        tinyi_lm_need(ld, l, TINYI_T_SSM_F_B, S, H * S, 0);
    }
    if (keys & TINYI_LM_K_DECAY)
        tinyi_lm_need(ld, l, keys & TINYI_LM_K_DECAY_PLUS ? TINYI_T_SSM_G_A : TINYI_T_SSM_G, D, H * S, 0);
    else {
        tinyi_lm_need(ld, l, TINYI_T_SSM_G_A, D, S, 0);
        tinyi_lm_need(ld, l, TINYI_T_SSM_G_B, S, H * S, 0);
    }
    tinyi_lm_need(ld, l, TINYI_T_SSM_BETA, D, H, 0);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_A, H);
    tinyi_lm_bias(ld, l, TINYI_T_SSM_DT, H * S, 1);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_NORM, S);
    tinyi_lm_need(ld, l, TINYI_T_ATTN_OUT, H * S, D, 0);
}
TINYI_FN size_t tinyi_lm_kda_kept(const tllm_model *m, const tinyi_lm_layer *l)
{
    return tinyi_lm_delta_floats(3 * ((size_t)m->ssm_conv - 1), (size_t)(l->n_head * m->head_size), (size_t)l->n_head,
                                 (size_t)m->head_size);
}

TINYI_FN void tinyi_lm_kda_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    static const short in[3] = { TINYI_T_ATTN_Q, TINYI_T_ATTN_K, TINYI_T_ATTN_V },
                       conv[3] = { TINYI_T_CONV_Q, TINYI_T_CONV_K, TINYI_T_CONV_V };
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, S = m->head_size, H = l->n_head, K = m->ssm_conv, C = H * S;
    const size_t used = f->used;
    float *kept = f->dry ? NULL : f->s->held[l->i].x;
    float *c[3], *u = tinyi_lm_take(f, n, C), *g = tinyi_lm_take(f, n, C), *z = tinyi_lm_take(f, n, C),
                 *o = tinyi_lm_take(f, n, C);
    float *low[3], *made[3], *into[3], *b;
    const tinyi_lm_w *w[3];
    tinyi_lm_delta p;
    int i;
    for (i = 0; i < 3; i++) {
        c[i] = tinyi_lm_take(f, n, C);
        low[i] = tinyi_lm_take(f, n, i < 2 ? S : H);
    }
    if (f->st) return;
    made[0] = u;                            /* g and z are made later */
    made[1] = g;
    made[2] = z;
    for (i = 0; i < 3; i++) w[i] = l->w[in[i]];
    tinyi_lm_linears(f, 3, w, 0, made, h, n);
    for (i = 0; i < 3; i++)
        tinyi_lm_conv(f, c[i], C, made[i], C, l->w[conv[i]]->v, NULL, kept ? kept + i * (K - 1) * C : NULL, K, C, 1);
    tinyi_lm_unit(f, c[0], C, H, S, (float)(1.0 / tinyi_sqrt64((double)S)));
    tinyi_lm_unit(f, c[1], C, H, S, 1.0f);
    w[0] = l->w[TINYI_T_SSM_F_A];
    w[1] = l->w[TINYI_T_SSM_G] ? l->w[TINYI_T_SSM_G] : l->w[TINYI_T_SSM_G_A];
    w[2] = l->w[TINYI_T_SSM_BETA];
    into[0] = l->w[TINYI_T_SSM_F_B] ? low[0] : g;       /* at once, or in two steps */
    into[1] = l->w[TINYI_T_SSM_G_B] ? low[1] : z;
    into[2] = low[2];
    tinyi_lm_linears(f, 3, w, 0, into, h, n);
    if (l->w[TINYI_T_SSM_F_B]) tinyi_lm_linear(f, l->w[TINYI_T_SSM_F_B], g, low[0], n);
    if (l->w[TINYI_T_SSM_G_B]) tinyi_lm_linear(f, l->w[TINYI_T_SSM_G_B], z, low[1], n);
    b = low[2];
    tinyi_lm_run(f, TINY_OP_SIGMOID, b, b, NULL, n * H);
    memset(&p, 0, sizeof p);
    p.H = p.Hk = H;
    p.S = S;
    p.n = n;
    p.by_key = 1;
    p.x = p.y = g;
    p.a = l->w[TINYI_T_SSM_A]->v;
    p.bias = l->w[TINYI_T_SSM_DT]->v;
    p.bound = (double)m->decay;
    p.sign = TINYI_LM_ARCH(m)->keys & TINYI_LM_K_DECAY_PLUS ? 1.0 : -1.0;
    tinyi_lm_each(f, n, 4, tinyi_lm_decay_fn, &p);
    p.q = c[0];
    p.k = c[1];
    p.v = c[2];
    p.ld_q = p.ld_v = C;
    p.decay = g;
    p.beta = b;
    p.o = o;
    p.m = kept ? kept + 3 * (K - 1) * C : NULL;
    tinyi_lm_delta_scan(f, &p);
    tinyi_lm_delta_end(f, l, TINYI_T_ATTN_OUT, y, o, z, H, S, TINY_OP_SIGMOID);
    f->used = used;
}
