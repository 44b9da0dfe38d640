/* src/math/attention.h - plain attention, the operation that every other form is compared with */
#ifndef TINYI_ATTENTION_H
#define TINYI_ATTENTION_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_attention_params {
    float scale;                            /* 0: 1 / sqrt(d_head) */
    float softcap;                          /* > 0: s = softcap * tanh(s / softcap) */
    int causal;                             /* the last query sees all keys, each query before it one key less */
    /* twist_s not 0: weights of at most twist_t times the largest of their row are suppressed (math/twist.h) */
    float twist_t, twist_s;
} tiny_attention_params;

/* q (n_query, n_head, d), k (n_key, n_head_kv, d), v (n_key, n_head_kv, d_v), o (n_query, n_head, d_v), all f32.
 * n_head is a multiple of n_head_kv: query head h reads key head h / (n_head / n_head_kv).
 * bias: NULL, or (n_query, n_key) or (n_head, n_query, n_key), added to the scores; -inf hides a key.
 * To train twist_s on a tape, give the operation a fifth input of one number: op.in[4] replaces twist_s and gets a
 * gradient. */
TINY_API tiny_status tiny_attention(tiny_ctx *ctx, const tiny_tensor *q, const tiny_tensor *k, const tiny_tensor *v,
                                    const tiny_tensor *bias, const tiny_attention_params *params, const tiny_tensor *o);

#define TINYI_OPS_ATTENTION(ROW) ROW(ATTENTION, attention)

/* ---- inside: what the bodies share ---- */

/* ---- the tile of every form of attention: this one, over pages (llm/attention/paged.c), over trees
 * (llm/attention/tree.c)
 *
 * Up to TINYI_ATT_ROWS rows of queries that read the same keys, and their softmax states (m, l, acc): the running
 * maximum, the sum of the weights under it, the sum of weighted values; (-inf, 0, 0) is the empty one. One task of one
 * thread:
 *
 *   tinyi_att_tile_open(&tile, memory, d, d_v, n_row);                 names the parts of the memory; again later: the
 *                                                                      same tile
 *   tinyi_att_tile_begin(&tile);                                       empty states
 *   tinyi_att_tile_query(&tile, j, q, step, scale);                    for each row
 *   for each TINYI_ATT_KEYS keys, of which the rows j0 <= j < j1 may see some:
 *       tinyi_att_tile_scores(team, &tile, k, ldk, n, j0, j1);
 *       change scores in tile.s[c * tile.ld + j]: soft-cap, bias, and -inf where a key is hidden
 *       tinyi_att_tile_absorb(team, &tile, v, ldv, n, hides, j0, j1);
 *   the states are in tile.m, tile.l, tile.acc; tinyi_att_merge joins those of several parts
 *
 * j0 is a multiple of TINYI_ATT_STEP, j1 too or the number of rows. Up to TINYI_ATT_FEW rows meet keys by dot products;
 * more rows by tiles of registers.
 * Weights of hidden keys are exactly 0, and their values are ignored, even NaN.
 *
 * Few rows read keys and values of pages in place, in spans and in the types below, each number once
 * (math/attention_few.simd.h). tinyi_att_tile_dots then replaces tinyi_att_tile_scores, and tinyi_att_tile_blend
 * replaces tinyi_att_tile_absorb if no key is hidden. The rows of a span are contiguous. Strided keys, as in a tensor
 * of all heads, are faster with tinyi_att_tile_scores, which prefetches the next rows wherever they begin. */
#define TINYI_ATT_ROWS 96
#define TINYI_ATT_KEYS 64
#define TINYI_ATT_STEP 32
#define TINYI_ATT_FEW 8
#define TINYI_ATT_FEW_LD 16                 /* the longest vector */
#define TINYI_ATT_BLOCKS 16                 /* of a row of TINYI_ATT_Q8, at most */

/* numbers of a span; Q8: blocks of an f16, little-endian, and 32 signed bytes that it multiplies */
enum { TINYI_ATT_F32, TINYI_ATT_F16, TINYI_ATT_Q8 };

typedef struct tinyi_att_span {             /* n rows that follow each other */
    const void *at, *ahead;                 /* ahead: the n rows that are needed next; NULL: unknown */
    tiny_idx n;
} tinyi_att_span;

typedef struct tinyi_att_tile {
    float *q;                               /* few: (rows, d); else (d, TINYI_ATT_ROWS) */
    float *acc;                             /* (rows, d_v) */
    float *s;                               /* (TINYI_ATT_KEYS, ld) */
    float *m, *l, *f;                       /* (rows) */
    tiny_idx d, d_v, ld;
    int n, few;
} tinyi_att_tile;

TINYI_INLINE size_t tinyi_att_tile_floats(size_t d, size_t d_v)
{
    return TINYI_ATT_ROWS * (d + d_v + TINYI_ATT_KEYS + 3) + 16;
}
/* the first float after the tile */
TINYI_FN float *tinyi_att_tile_open(tinyi_att_tile *t, float *memory, tiny_idx d, tiny_idx d_v, int n_row);
TINYI_FN void tinyi_att_tile_begin(tinyi_att_tile *t);
TINYI_FN void tinyi_att_tile_query(tinyi_att_tile *t, int j, const float *q, tiny_idx step, float scale);
TINYI_FN void tinyi_att_tile_scores(tiny_team *team, tinyi_att_tile *t, const float *k, tiny_idx ldk, int n, int j0,
                                    int j1);
TINYI_FN void tinyi_att_tile_cap(tiny_team *team, tinyi_att_tile *t, int n, float cap, int j0, int j1);
/* hides: some score may be -inf */
TINYI_FN void tinyi_att_tile_absorb(tiny_team *team, tinyi_att_tile *t, const float *v, tiny_idx ldv, int n, int hides,
                                    int j0, int j1);
/* spans of TINYI_ATT_KEYS rows at most in all, row: bytes from one to the next */
TINYI_FN void tinyi_att_tile_dots(tiny_team *team, tinyi_att_tile *t, const tinyi_att_span *k, int n_k, int type,
                                  tiny_idx row);
TINYI_FN void tinyi_att_tile_blend(tiny_team *team, tinyi_att_tile *t, const tinyi_att_span *v, int n_v, int type,
                                   tiny_idx row);
/* The merge rule: state (m, l, acc) takes in another one. The order of merges is the caller's, and decides the last
 * bits. */
TINYI_FN void tinyi_att_merge(float *m, float *l, float *acc, float m2, float l2, const float *acc2, tiny_idx d_v);

#define TINYI_KERNELS_ATTENTION(K)                                                                                 \
    K(attention_scores_f32, void,                                                                                  \
      (float *s, tiny_idx ld, const float *k, tiny_idx ldk, int n, const float *q, tiny_idx ldq, int j0, int j1,   \
       tiny_idx d))                                                                                                \
    K(attention_cap_f32, void, (float *s, tiny_idx ld, int n, int j0, int j1, float cap))                          \
    K(attention_weights_f32, void, (float *s, tiny_idx ld, int n, float *m, float *l, float *f, int j0, int j1))   \
    K(attention_peak_f32, void, (const float *s, tiny_idx ld, int n, float *m, int j0, int j1))                    \
    K(attention_level_f32, void,                                                                                   \
      (float *s, tiny_idx ld, int n, const float *m, float *l, float *low_sum, float t, int j0, int j1))           \
    K(attention_weigh_f32, void, (float *s, tiny_idx ld, int n, const float *f, float t, int j0, int j1))          \
    K(attention_split_f32, int, (float *s, float *big, tiny_idx ld, int n, float t, int j0, int j1))               \
    K(attention_mix_f32, void,                                                                                     \
      (float *acc, tiny_idx d_v, const float *p, tiny_idx ld, const float *f, const float *v, tiny_idx ldv, int n, \
       int n_row))                                                                                                 \
    K(attention_dot, void,                                                                                         \
      (float *s, tiny_idx ld, const tinyi_att_span *x, int n_x, int type, tiny_idx row, const float *q, int n_row, \
       tiny_idx d))                                                                                                \
    K(attention_blend, void,                                                                                       \
      (float *acc, tiny_idx d_v, const float *p, tiny_idx ld, const float *f, const tinyi_att_span *x, int n_x,    \
       int type, tiny_idx row, int n_row))                                                                         \
    K(attention_finite_f32, int, (const float *v, tiny_idx ldv, int n, tiny_idx d_v))

TINYI_C_END
#endif
