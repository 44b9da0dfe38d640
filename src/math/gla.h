/* src/math/gla.h - gated linear attention: a state instead of keys and values, in three forms
 *
 *     state: a K x V matrix for each head, zero at the start
 *     tiny_gla(ctx, &state, &q, &k, &v, &g, NULL, &state, &o);          a prompt
 *     tiny_gla(ctx, &state, &q1, &k1, &v1, &g1, NULL, &state, &o1);     the next token, and so on
 *
 * S_t = diag(exp g_t) S_{t-1} + k_t v_t^T,  o_t = scale S_t^T q_t.  S. Yang et al., "Gated Linear Attention
 * Transformers with Hardware-Efficient Training", 2023 (arXiv 2312.06635).
 *
 * state (H, K, V), q and k (T, H, K), v (T, H, V), g (T, H, K), o (T, H, V); all f32. g holds logarithms, at most 0;
 * -inf clears the channel. g NULL: no gates, the state keeps everything (plain linear attention). Use a view of stride
 * 0 to share keys, values and gates between heads, or one gate between the channels of a head.
 * state_out may be state; otherwise state is not changed. T may be 0. K is at most TINY_GLA_KEYS. */
#ifndef TINYI_GLA_H
#define TINYI_GLA_H
#include "core/op.h"
TINYI_C_BEGIN

#define TINY_GLA_KEYS 1024

typedef enum tiny_gla_form {
    TINY_GLA_AUTO,                          /* RECURRENT up to 64 tokens, else CHUNKED */
    TINY_GLA_RECURRENT,                     /* token by token */
    TINY_GLA_CHUNKED,                       /* matrix products over pieces of the text */
    /* the formula without a state, in double, to compare with. At most 256 tokens; fails where exp(-sum g) exceeds
     * e^80 */
    TINY_GLA_PARALLEL
} tiny_gla_form;
typedef struct tiny_gla_params {
    float scale;                            /* 0: 1 / sqrt(K) */
    int form;                               /* tiny_gla_form */
    /* tokens of a piece, 1..256; of each of its parts, a divisor of chunk; 0: 64 and 16 */
    int chunk, sub;
    int clamp;                              /* nonzero: gates above 0 count as 0; else they are errors */
} tiny_gla_params;

TINY_API tiny_status tiny_gla(tiny_ctx *ctx, const tiny_tensor *state, const tiny_tensor *q, const tiny_tensor *k,
                              const tiny_tensor *v, const tiny_tensor *g, const tiny_gla_params *params,
                              const tiny_tensor *state_out, const tiny_tensor *o);

#define TINYI_OPS_GLA(ROW) ROW(GLA, gla)

/* ---- inside: what the bodies share ---- */

/* S (K, V), rows ld apart; e (K): the factors exp(g) of the gates. q has the scale in it.
 * step   S = diag(e) S + k v^T;  o = S^T q
 * query  the same S;  dq = S d_o
 * back   S += q d_o^T;  dk = S v;  dv = S^T k;  dg = e (sum over a row of S before), before (K, V) dense;  S = diag(e)
 *        S
 * span   qd[t] = q[t] e[0] .. e[t], kd[t] = k[t] e[t + 1] .. e[n - 1], left = e[0] .. e[n - 1]; products below 2^-126
 *        count as 0
 * near   a[u][t] = sum_d q[t][d] k[u][d] e[u + 1][d] .. e[t][d] for u <= t < n, 0 for t < u; rows K apart, those of a
 *        ld apart */
#define TINYI_KERNELS_GLA(K)                                                                                      \
    K(gla_step_f32, void,                                                                                         \
      (float *s, tiny_idx ld, const float *e, const float *k, const float *v, const float *q, float *o,           \
       tiny_idx n_key, tiny_idx n_value))                                                                         \
    K(gla_query_f32, void,                                                                                        \
      (float *s, tiny_idx ld, const float *e, const float *k, const float *v, const float *d_o, float *dq,        \
       tiny_idx n_key, tiny_idx n_value))                                                                         \
    K(gla_back_f32, void,                                                                                         \
      (float *s, tiny_idx ld, const float *e, const float *q, const float *d_o, const float *k, const float *v,   \
       const float *before, float *dk, float *dv, float *dg, tiny_idx n_key, tiny_idx n_value))                   \
    K(gla_span_f32, void,                                                                                         \
      (float *qd, float *kd, float *left, const float *q, const float *k, const float *e, int n, tiny_idx n_key)) \
    K(gla_near_f32, void,                                                                                         \
      (float *a, tiny_idx ld, const float *q, const float *k, const float *e, int n, tiny_idx n_key))             \
    K(gla_gates_f32, int, (const float *g, tiny_idx n))

/* one call as its drivers see it, forward and back (gla_grad.c) */
typedef struct tinyi_gla {
    const tiny_tensor *state, *q, *k, *v, *g;
    tiny_idx n, n_head, n_key, n_value;
    double scale;
    int form, chunk, sub, clamp;
    tiny_dtype type;
} tinyi_gla;
/* g: which input holds the gates */
TINYI_FN void tinyi_gla_read(const tiny_op *op, int g, tinyi_gla *a);
TINYI_FN tiny_status tinyi_gla_check(tiny_ctx *ctx, const char *name, const tiny_op *op, int g, tinyi_gla *a);
/* the factor of gate d of token t and head h: exp(min(g, 0)) */
TINYI_FN double tinyi_gla_left(const tinyi_gla *a, tiny_idx t, tiny_idx h, tiny_idx d);
TINYI_FN void tinyi_gla_table(tiny_case *c, int i_input, void *data);                   /* gates for generated cases */
/* row (t, h) of x as dense numbers from column j on: in place, or copied to room */
TINYI_FN const float *tinyi_gla_row(const tiny_tensor *x, tiny_idx t, tiny_idx h, tiny_idx j, tiny_idx n, float *room);
/* e = exp(min(g, 0)) of a token */
TINYI_FN void tinyi_gla_leave(tiny_team *team, const tinyi_gla *a, tiny_idx t, tiny_idx h, float *e);

TINYI_C_END
#endif
