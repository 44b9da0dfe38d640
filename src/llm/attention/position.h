/* src/llm/attention/position.h - positions in attention: frequencies of rotary positions (RoPE) with their context
 * extensions, and slopes of ALiBi
 *
 *   tllm_rope_desc d = { 0 };  d.n_rot = 128;  d.kind = TLLM_ROPE_YARN;  d.factor = 16;  d.trained = 4096;
 *   tllm_rope_frequencies(ctx, &d, freq, &size);        angle = position * freq[i]; cos and sin are multiplied by size
 *
 * The frequencies of TLLM_ROPE_DYNAMIC depend on the length of the text. A key that was cached after its rotation would
 * keep old frequencies: cache keys before their rotation, or rotate them again. */
#ifndef TINYI_POSITION_H
#define TINYI_POSITION_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef enum tllm_rope_kind {
    TLLM_ROPE_PLAIN,                        /* base^(-2i / n_rot) */
    TLLM_ROPE_LINEAR,                       /* divided by factor: positions are interpolated */
    TLLM_ROPE_NTK,                          /* base' = base factor^(n / (n - 2)) */
    /* base' = base (factor length / trained - (factor - 1))^(n / (n - 2)) after `trained` tokens */
    TLLM_ROPE_DYNAMIC,
    /* the first pairs are kept, the last ones divided by factor, with a ramp between; *size is 1 + 0.1 ln factor */
    TLLM_ROPE_YARN,
    /* short wavelengths are kept, long ones divided by factor, with a blend between */
    TLLM_ROPE_LLAMA3
} tllm_rope_kind;

typedef struct tllm_rope_desc {
    tiny_idx n_rot;                         /* rotated numbers of a head: even, at least 2 */
    int kind;
    double base;                            /* 0: 10000 */
    double factor;                          /* 0: 1 */
    double trained;                         /* tokens that the model was trained on; DYNAMIC, YARN, LLAMA3 */
    double length;                          /* DYNAMIC: tokens of the text */
    double beta_fast, beta_slow;            /* YARN; 0: 32 and 1 */
    double low, high;                       /* LLAMA3; 0: 1 and 4 */
} tllm_rope_desc;

/* Writes the n_rot / 2 frequencies to freq, and the factor of cos and sin to *size. size may be NULL. */
TINY_API tiny_status tllm_rope_frequencies(tiny_ctx *ctx, const tllm_rope_desc *desc, double *freq, double *size);
/* Writes the slopes of ALiBi, slope (n_head): -slope[h] (position of the query - position of the key) is added to a
 * score. most: the largest exponent, 8 in the paper. */
TINY_API tiny_status tllm_alibi_slopes(tiny_ctx *ctx, tiny_idx n_head, float most, float *slope);

/* ---- inside: what the bodies share ---- */

TINYI_FN float tinyi_alibi_slope(float most, tiny_idx n_head, tiny_idx h);
/* the pairs between which YaRN blends from kept to divided frequencies */
TINYI_FN void tinyi_yarn_range(double beta_fast, double beta_slow, tiny_idx n_rot, double trained, double base,
                               double *low, double *high);

TINYI_C_END
#endif
