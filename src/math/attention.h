/* src/math/attention.h - plain attention: the operation that every other form is compared with */
#ifndef TINYI_ATTENTION_H
#define TINYI_ATTENTION_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_attention_params {
    float scale;                            /* 0: 1 / sqrt(d_head) */
    float softcap;                          /* > 0: s = softcap * tanh(s / softcap) */
    int causal;                             /* the last query sees all keys, each one before it one key less */
} tiny_attention_params;

/* q (n_query, n_head, d), k (n_key, n_head_kv, d), v (n_key, n_head_kv, d_v), o (n_query, n_head, d_v), all f32.
 * n_head is a multiple of n_head_kv: query head h reads key head h / (n_head / n_head_kv).
 * bias: NULL, or (n_query, n_key) or (n_head, n_query, n_key), added to the scores; -inf hides a key. */
TINY_API tiny_status tiny_attention(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *k, const tiny_tensor *v, const tiny_tensor *bias,
                                    const tiny_attention_params *params, const tiny_tensor *o);

#define TINYI_ATT_ROWS 32                   /* of a tile */
#define TINYI_ATT_KEYS 64

#define TINYI_OPS_ATTENTION(ROW) ROW(ATTENTION, attention)
#define TINYI_KERNELS_ATTENTION(K)                                                                                                \
    K(attention_scores_f32, void, (float *s, const float *q, const float *kt, int n_row, tiny_idx d))                             \
    K(attention_weights_f32, float, (float *s, int n, float softcap, float *m, float *l))                                         \
    K(attention_mix_f32, void, (float *acc, const float *p, const float *f, const float *v, tiny_idx ldv, const int *n_vis, int n_row, tiny_idx d_v))

TINYI_C_END
#endif
