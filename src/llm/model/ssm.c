/* src/llm/model/ssm.c - state space layers of the first and second kind, and the short convolution
 * Papers   A. Gu, T. Dao, "Mamba", 2023 (arXiv 2312.00752), alg. 2; T. Dao, A. Gu, "Transformers are SSMs", 2024
 *          (arXiv 2405.21060), 7; LFM2 and PLaMo 2 after their published models.
 * Formula  first   [x, z] = W h; x = silu(conv x); [dt, B, C] = W_x x, each normed if the file has weights for it;
 *                  dt = softplus(W_dt dt + b); M[i][s] <- exp(dt_i a_is) M[i][s] + dt_i x_i B_s; y_i = sum_s M[i][s]
 *                  C_s + d_i x_i
 *          second  [z, x B C, dt] = W h; [x B C] = silu(conv); heads of i share dt and a number a; groups of heads
 *                  share B, C
 *          both    y = W_out (y silu(z)), the second with an rms norm over each group before it
 *          short   [B, C, u] = W h; y = W_out (C conv(B u)), no activation
 * Kept     the last rows before the convolution, and M. */
#include "llm/model/model_inside.h"
#include <string.h>

static size_t tinyi_lm_ssm_floats(tiny_idx K, tiny_idx channels, tiny_idx inner, tiny_idx state)
{
    size_t a, b;
    if (!tinyi_size_mul((size_t)(K - 1), (size_t)channels, &a) || !tinyi_size_mul((size_t)inner, (size_t)state, &b) ||
        !tinyi_size_add(a, b, &a))
        return SIZE_MAX;
    return a;
}

static int tinyi_lm_ssm_sizes(tinyi_lm_load *ld, const tinyi_lm_layer *l, tiny_idx rank)
{
    const tllm_model *m = ld->m;
    if (ld->st) return 0;
    if (m->ssm_conv < 2 || m->ssm_inner < 1 || m->ssm_state < 1 || rank < 1) {
        ld->st = tinyi_fail(ld->ctx, TINY_E_FORMAT,
                            "%s: a state space of %td channels, %td numbers, rank %td and a kernel of %td", m->path,
                            m->ssm_inner, m->ssm_state, rank, m->ssm_conv);
        return 0;
    }
    return tinyi_lm_small(ld, l, m->ssm_conv, m->ssm_inner) && tinyi_lm_small(ld, l, m->ssm_inner, m->ssm_state);
}

/* ---- the first kind --------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_mamba_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->n_embd, N = m->ssm_inner, S = m->ssm_state, R = m->ssm_rank;
    if (!tinyi_lm_ssm_sizes(ld, l, R)) return;
    tinyi_lm_need(ld, l, TINYI_T_SSM_IN, D, 2 * N, 0);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_CONV, m->ssm_conv * N);
    tinyi_lm_need(ld, l, TINYI_T_SSM_X, N, R + 2 * S, 0);
    tinyi_lm_need(ld, l, TINYI_T_SSM_DT, R, N, 0);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_A, S * N);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_D, N);
    tinyi_lm_need(ld, l, TINYI_T_SSM_OUT, N, D, 0);
    tinyi_lm_may_vec(ld, l, TINYI_T_SSM_DT_NORM, R);
    tinyi_lm_may_vec(ld, l, TINYI_T_SSM_B_NORM, S);
    tinyi_lm_may_vec(ld, l, TINYI_T_SSM_C_NORM, S);
}
TINYI_FN size_t tinyi_lm_mamba_kept(const tllm_model *m, const tinyi_lm_layer *l)
{
    (void)l;
    return tinyi_lm_ssm_floats(m->ssm_conv, m->ssm_inner, m->ssm_inner, m->ssm_state);
}

typedef struct tinyi_lm_scan {
    const float *x, *B, *C, *dt, *a, *d, *z;
    float *m, *y;
    tiny_idx n, ld_x, ld_b, ld_dt, ld_z, S, H, P, G;    /* heads, channels of a head, groups */
    tiny_idx z_head;                        /* from the z of a head to that of the next */
} tinyi_lm_scan;

TINY_REF_BEGIN
static void tinyi_lm_mamba_fn(const void *arg, tiny_idx i0, tiny_idx i1)
{
    const tinyi_lm_scan *p = (const tinyi_lm_scan *)arg;
    const tiny_idx S = p->S;
    tiny_idx i, t, s;
    for (i = i0; i < i1; i++) {
        float *M = p->m + i * S;
        for (t = 0; t < p->n; t++) {
            const float x = p->x[t * p->ld_x + i];
            const double dt = tinyi_lm_softplus((double)p->dt[t * p->ld_dt + i]);
            double y = 0.0;
            for (s = 0; s < S; s++) {
                M[s] = (float)(tinyi_exp64(dt * (double)p->a[i * S + s]) * (double)M[s] +
                               dt * (double)x * (double)p->B[t * p->ld_b + s]);
                y += (double)M[s] * (double)p->C[t * p->ld_b + s];
            }
            p->y[t * p->ld_x + i] = (float)(y + (double)p->d[i] * (double)x);
        }
    }
}

static void tinyi_lm_mamba2_fn(const void *arg, tiny_idx h0, tiny_idx h1)
{
    const tinyi_lm_scan *p = (const tinyi_lm_scan *)arg;
    const tiny_idx S = p->S, P = p->P;
    tiny_idx h, t, i, s;
    for (h = h0; h < h1; h++) {
        const tiny_idx g = h * p->G / p->H;
        for (t = 0; t < p->n; t++) {
            const double dt = tinyi_lm_softplus((double)p->dt[t * p->ld_dt + h]);
            const float e = (float)tinyi_exp64(dt * (double)p->a[h]), step = (float)dt;
            const float *x = p->x + t * p->ld_x + h * P, *B = p->B + t * p->ld_b + g * S,
                        *C = p->C + t * p->ld_b + g * S;
            float *y = p->y + (t * p->H + h) * P;
            for (i = 0; i < P; i++) {
                float *M = p->m + (h * P + i) * S;
                const float dx = step * x[i];
                double sum = 0.0;
                for (s = 0; s < S; s++) {
                    M[s] = e * M[s] + dx * B[s];
                    sum += (double)M[s] * (double)C[s];
                }
                y[i] = (float)(sum + (double)p->d[h] * (double)x[i]);
            }
        }
    }
}

/* y *= silu(z), z in rows ld apart */
static void tinyi_lm_silu_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_scan *p = (const tinyi_lm_scan *)arg;
    const tiny_idx N = p->H * p->P;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < N; i++) p->y[t * N + i] *= tinyi_silu_ref(p->z[t * p->ld_z + i / p->P * p->z_head + i % p->P]);
}
TINY_REF_END

/* fn over 0..n for each sequence of the piece; rows of y are ld_y apart */
static void tinyi_lm_scan_runs(tinyi_lm_fwd *f, const tinyi_lm_scan *p, tiny_idx ld_y, tiny_idx n, tiny_idx grain,
                               tinyi_lm_fn fn)
{
    tiny_idx i;
    for (i = 0; i < f->n_run && !f->st; i++) {
        const tinyi_lm_span *r = &f->run[i];
        tinyi_lm_scan q = *p;
        q.n = r->n;
        q.x += r->row0 * p->ld_x;
        q.B += r->row0 * p->ld_b;
        q.C += r->row0 * p->ld_b;
        q.dt += r->row0 * p->ld_dt;
        q.y += r->row0 * ld_y;
        q.m = tinyi_lm_of(f, r, p->m);
        tinyi_lm_each(f, n, grain, fn, &q);
    }
}

/* rms of a piece of each row; plain: without weights where there are none */
static void tinyi_lm_piece_norm(tinyi_lm_fwd *f, const tinyi_lm_w *w, float *x, tiny_idx ld, tiny_idx d)
{
    tiny_tensor t = tiny_tensor_2d(x, TINY_F32, f->n, d);
    if (!w) return;
    t.stride[0] = ld;
    tinyi_lm_norm_view(f, TINY_OP_RMSNORM, w->v, NULL, f->m->eps, &t, &t);
}

TINYI_FN void tinyi_lm_mamba_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, N = m->ssm_inner, S = m->ssm_state, R = m->ssm_rank, K = m->ssm_conv, ld = R + 2 * S;
    const size_t used = f->used;
    float *kept = f->dry ? NULL : f->s->held[l->i].x;
    float *xz = tinyi_lm_take(f, n, 2 * N), *x = tinyi_lm_take(f, n, N), *dbc = tinyi_lm_take(f, n, ld),
          *dt = tinyi_lm_take(f, n, N), *o = tinyi_lm_take(f, n, N);
    tinyi_lm_scan p;
    if (f->st) return;
    tinyi_lm_linear(f, l->w[TINYI_T_SSM_IN], xz, h, n);
    tinyi_lm_conv(f, x, N, xz, 2 * N, l->w[TINYI_T_SSM_CONV]->v, l->w[TINYI_T_SSM_CONV]->bias, kept, K, N, 1);
    tinyi_lm_linear(f, l->w[TINYI_T_SSM_X], dbc, x, n);
    tinyi_lm_piece_norm(f, l->w[TINYI_T_SSM_DT_NORM], dbc, ld, R);
    tinyi_lm_piece_norm(f, l->w[TINYI_T_SSM_B_NORM], dbc + R, ld, S);
    tinyi_lm_piece_norm(f, l->w[TINYI_T_SSM_C_NORM], dbc + R + S, ld, S);
    if (f->st) return;
    tinyi_lm_linear_at(f, l->w[TINYI_T_SSM_DT], 0, dt, N, dbc, ld, n);
    memset(&p, 0, sizeof p);
    p.x = x;
    p.B = dbc + R;
    p.C = dbc + R + S;
    p.dt = dt;
    p.a = l->w[TINYI_T_SSM_A]->v;
    p.d = l->w[TINYI_T_SSM_D]->v;
    p.m = kept ? kept + (K - 1) * N : NULL;
    p.y = o;
    p.n = n;
    p.ld_x = p.ld_dt = N;
    p.ld_b = ld;
    p.S = S;
    tinyi_lm_scan_runs(f, &p, N, N, 16, tinyi_lm_mamba_fn);
    p.H = 1;
    p.P = N;
    p.z = xz + N;
    p.ld_z = 2 * N;
    tinyi_lm_each(f, n, 4, tinyi_lm_silu_fn, &p);
    tinyi_lm_linear(f, l->w[TINYI_T_SSM_OUT], y, o, n);
    f->used = used;
}

/* ---- the second kind -------------------------------------------------------------------------------------------- */

TINYI_FN void tinyi_lm_mamba2_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->n_embd, N = m->ssm_inner, S = m->ssm_state, H = m->ssm_rank, G = m->ssm_group;
    if (!tinyi_lm_ssm_sizes(ld, l, H)) return;
    if (G < 1 || N % G || H % G)
        tinyi_lm_disagree(ld, l, "channels and heads do not form whole groups, ssm.time_step_rank and ssm.group_count",
                          H, G);
    if (N % H) tinyi_lm_disagree(ld, l, "ssm.inner_size is not a multiple of ssm.time_step_rank", N, H);
    if (!tinyi_lm_small(ld, l, G, S) || !tinyi_lm_small(ld, l, m->ssm_conv, N + 2 * G * S)) return;
    tinyi_lm_need(ld, l, TINYI_T_SSM_IN, D, 2 * N + 2 * G * S + H, 0);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_CONV, m->ssm_conv * (N + 2 * G * S));
    tinyi_lm_bias(ld, l, TINYI_T_SSM_DT, H, 1);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_A, H);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_D, H);
    tinyi_lm_may_vec(ld, l, TINYI_T_SSM_NORM, N);
    tinyi_lm_need(ld, l, TINYI_T_SSM_OUT, N, D, 0);
}
TINYI_FN size_t tinyi_lm_mamba2_kept(const tllm_model *m, const tinyi_lm_layer *l)
{
    (void)l;
    return tinyi_lm_ssm_floats(m->ssm_conv, m->ssm_inner + 2 * m->ssm_group * m->ssm_state, m->ssm_inner, m->ssm_state);
}

typedef struct tinyi_lm_add_bias { float *x; const float *b; tiny_idx ld, d; } tinyi_lm_add_bias;
TINY_REF_BEGIN
static void tinyi_lm_add_bias_fn(const void *arg, tiny_idx t0, tiny_idx t1)
{
    const tinyi_lm_add_bias *p = (const tinyi_lm_add_bias *)arg;
    tiny_idx t, i;
    for (t = t0; t < t1; t++)
        for (i = 0; i < p->d; i++) p->x[t * p->ld + i] += p->b[i];
}
TINY_REF_END

TINYI_FN void tinyi_lm_mamba2_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, N = m->ssm_inner, S = m->ssm_state, H = m->ssm_rank, G = m->ssm_group, K = m->ssm_conv,
                   C = N + 2 * G * S, ld = N + C + H;
    const size_t used = f->used;
    float *kept = f->dry ? NULL : f->s->held[l->i].x;
    float *all = tinyi_lm_take(f, n, ld), *x = tinyi_lm_take(f, n, C), *o = tinyi_lm_take(f, n, N);
    const tinyi_lm_w *norm = l->w[TINYI_T_SSM_NORM];
    tinyi_lm_add_bias bias;
    tinyi_lm_scan p;
    tiny_idx g;
    if (f->st) return;
    tinyi_lm_linear(f, l->w[TINYI_T_SSM_IN], all, h, n);
    tinyi_lm_conv(f, x, C, all + N, ld, l->w[TINYI_T_SSM_CONV]->v, l->w[TINYI_T_SSM_CONV]->bias, kept, K, C, 1);
    bias.x = all + N + C;
    bias.b = l->w[TINYI_T_SSM_DT]->v;
    bias.ld = ld;
    bias.d = H;
    tinyi_lm_each(f, n, 64, tinyi_lm_add_bias_fn, &bias);
    memset(&p, 0, sizeof p);
    p.x = x;
    p.B = x + N;
    p.C = x + N + G * S;
    p.dt = all + N + C;
    p.a = l->w[TINYI_T_SSM_A]->v;
    p.d = l->w[TINYI_T_SSM_D]->v;
    p.m = kept ? kept + (K - 1) * C : NULL;
    p.y = o;
    p.n = n;
    p.ld_x = p.ld_b = C;
    p.ld_dt = ld;
    p.S = S;
    p.H = H;
    p.P = N / H;
    p.G = G;
    tinyi_lm_scan_runs(f, &p, N, H, 1, tinyi_lm_mamba2_fn);
    p.z = all;
    p.ld_z = ld;
    p.H = 1;
    p.P = N;
    tinyi_lm_each(f, n, 4, tinyi_lm_silu_fn, &p);
    for (g = 0; g < G && norm; g++) {
        tiny_tensor t = tiny_tensor_2d(o + g * (N / G), TINY_F32, n, N / G);
        t.stride[0] = N;
        tinyi_lm_norm_view(f, TINY_OP_RMSNORM, norm->v + g * (N / G), NULL, m->eps, &t, &t);
    }
    tinyi_lm_linear(f, l->w[TINYI_T_SSM_OUT], y, o, n);
    f->used = used;
}

/* ---- PLaMo 2: heads as in the second kind, B, C and dt from the convolved x as in the first --------------------- */

static tiny_idx tinyi_lm_plamo_rank(const tllm_model *m) { return TINYI_MAX(64, m->n_embd / 16); }

TINYI_FN void tinyi_lm_plamo_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tllm_model *m = ld->m;
    const tiny_idx D = m->n_embd, N = m->ssm_inner, S = m->ssm_state, H = m->ssm_rank, R = tinyi_lm_plamo_rank(m);
    if (!tinyi_lm_ssm_sizes(ld, l, H)) return;
    if (N % H) tinyi_lm_disagree(ld, l, "ssm.inner_size is not a multiple of ssm.time_step_rank", N, H);
    tinyi_lm_need(ld, l, TINYI_T_SSM_IN, D, 2 * N, 0);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_CONV, m->ssm_conv * N);
    tinyi_lm_need(ld, l, TINYI_T_SSM_X, N, 2 * S + R, 0);
    tinyi_lm_need(ld, l, TINYI_T_SSM_DT, R, H, 0);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_A, H);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_D, H);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_DT_NORM, R);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_B_NORM, S);
    tinyi_lm_vec(ld, l, TINYI_T_SSM_C_NORM, S);
    tinyi_lm_need(ld, l, TINYI_T_SSM_OUT, N, D, 0);
}
TINYI_FN size_t tinyi_lm_plamo_kept(const tllm_model *m, const tinyi_lm_layer *l) { return tinyi_lm_mamba_kept(m, l); }

TINYI_FN void tinyi_lm_plamo_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tllm_model *m = f->m;
    const tiny_idx n = f->n, N = m->ssm_inner, S = m->ssm_state, H = m->ssm_rank, R = tinyi_lm_plamo_rank(m),
                   K = m->ssm_conv, P = N / H, ld = 2 * S + R;
    const size_t used = f->used;
    float *kept = f->dry ? NULL : f->s->held[l->i].x;
    float *zx = tinyi_lm_take(f, n, 2 * N), *x = tinyi_lm_take(f, n, N), *bcd = tinyi_lm_take(f, n, ld),
          *dt = tinyi_lm_take(f, n, H), *o = tinyi_lm_take(f, n, N);
    tinyi_lm_scan p;
    tiny_idx i;
    if (f->st) return;
    tinyi_lm_linear(f, l->w[TINYI_T_SSM_IN], zx, h, n);
    /* rows of a head: z, then x */
    for (i = 0; i < H; i++) tinyi_lm_copy(f, o + i * P, N, zx + (2 * i + 1) * P, 2 * N, n, P);
    tinyi_lm_conv(f, x, N, o, N, l->w[TINYI_T_SSM_CONV]->v, l->w[TINYI_T_SSM_CONV]->bias, kept, K, N, 1);
    tinyi_lm_linear(f, l->w[TINYI_T_SSM_X], bcd, x, n);
    tinyi_lm_piece_norm(f, l->w[TINYI_T_SSM_B_NORM], bcd, ld, S);
    tinyi_lm_piece_norm(f, l->w[TINYI_T_SSM_C_NORM], bcd + S, ld, S);
    tinyi_lm_piece_norm(f, l->w[TINYI_T_SSM_DT_NORM], bcd + 2 * S, ld, R);
    if (f->st) return;
    tinyi_lm_linear_at(f, l->w[TINYI_T_SSM_DT], 0, dt, H, bcd + 2 * S, ld, n);
    memset(&p, 0, sizeof p);
    p.x = x;
    p.B = bcd;
    p.C = bcd + S;
    p.dt = dt;
    p.a = l->w[TINYI_T_SSM_A]->v;
    p.d = l->w[TINYI_T_SSM_D]->v;
    p.m = kept ? kept + (K - 1) * N : NULL;
    p.y = o;
    p.n = n;
    p.ld_x = N;
    p.ld_b = ld;
    p.ld_dt = H;
    p.S = S;
    p.H = H;
    p.P = P;
    p.G = 1;
    tinyi_lm_scan_runs(f, &p, N, H, 1, tinyi_lm_mamba2_fn);
    p.z = zx;
    p.ld_z = 2 * N;
    p.z_head = 2 * P;
    tinyi_lm_each(f, n, 4, tinyi_lm_silu_fn, &p);
    tinyi_lm_linear(f, l->w[TINYI_T_SSM_OUT], y, o, n);
    f->used = used;
}

/* ---- short convolution ------------------------------------------------------------------------------------------ */

TINYI_FN void tinyi_lm_shortconv_load(tinyi_lm_load *ld, tinyi_lm_layer *l)
{
    const tiny_idx D = ld->m->n_embd;
    if (!tinyi_lm_small(ld, l, ld->m->ssm_conv, D)) return;
    tinyi_lm_vec(ld, l, TINYI_T_SC_CONV, ld->m->ssm_conv * D);
    tinyi_lm_need(ld, l, TINYI_T_SC_IN, D, 3 * D, 0);
    tinyi_lm_need(ld, l, TINYI_T_SC_OUT, D, D, 0);
}
TINYI_FN size_t tinyi_lm_shortconv_kept(const tllm_model *m, const tinyi_lm_layer *l)
{
    (void)l;
    return tinyi_lm_ssm_floats(m->ssm_conv, m->n_embd, 0, 0);
}
TINYI_FN void tinyi_lm_shortconv_run(tinyi_lm_fwd *f, const tinyi_lm_layer *l, float *y, const float *h)
{
    const tiny_idx n = f->n, D = f->m->n_embd;
    const size_t used = f->used;
    float *all = tinyi_lm_take(f, n, 3 * D), *b = tinyi_lm_take(f, n, D), *c = tinyi_lm_take(f, n, D),
          *u = tinyi_lm_take(f, n, D);
    if (f->st) return;
    tinyi_lm_linear(f, l->w[TINYI_T_SC_IN], all, h, n);
    tinyi_lm_copy(f, b, D, all, 3 * D, n, D);
    tinyi_lm_copy(f, c, D, all + D, 3 * D, n, D);
    tinyi_lm_copy(f, u, D, all + 2 * D, 3 * D, n, D);
    tinyi_lm_mul(f, b, b, u, n * D);
    tinyi_lm_conv(f, u, D, b, D, l->w[TINYI_T_SC_CONV]->v, NULL, f->dry ? NULL : f->s->held[l->i].x, f->m->ssm_conv, D,
                  0);
    tinyi_lm_mul(f, u, u, c, n * D);
    tinyi_lm_linear(f, l->w[TINYI_T_SC_OUT], y, u, n);
    f->used = used;
}
