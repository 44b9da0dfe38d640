/* src/llm/lab/vision/tome.h - merging tokens: matching pairs, sizes, tracking, unmerging
 *
 *     r = tllm_tome_count(t, 16, TLLM_TOME_CLASS);                        at most the number of pairs
 *     tllm_tome_match(ctx, &keys, batch, TLLM_TOME_CLASS, &match);        match: i32 (2 t + r, batch), keys (t, batch
 *                                                                         heads, d)
 *     tllm_tome_merge(ctx, &x, &size, &match, NULL, &y);                  (llm/lab/vision/merge.h) y (t - r, batch, d)
 *     tllm_tome_sizes(ctx, &size, &match, &next);                         the number of tokens in each output
 *     to = tllm_tome_part(&match, t, TLLM_TOME_TO);
 *     tllm_tome_unmerge(ctx, &y, &to, &x);                                copies merged values back to all their tokens
 *
 * D. Bolya et al., "Token Merging: Your ViT But Faster", 2022 (arXiv 2210.09461), as used by Y. Xiong et al., "PYRA",
 * 2024 (arXiv 2403.09192).
 * Set A has the tokens with even numbers, set B those with odd numbers. Each token of A is paired with the most similar
 * token of B. In the r most similar pairs, the token of A merges into the token of B. The outputs are the remaining
 * tokens of A, then all of B. */
#ifndef TINYI_LLM_TOME_H
#define TINYI_LLM_TOME_H
#include "core/op.h"
TINYI_C_BEGIN

enum {
    TLLM_TOME_CLASS = 1,                    /* token 0 never merges into another one, and stays the first */
    TLLM_TOME_DISTILL = 2                   /* nothing merges into token 1; it stays the second */
};

#define TLLM_TOME_TOKENS 32768              /* most tokens of an image */

/* min(r, (t - tokens named by the flags) / 2), at least 0 */
TINY_API tiny_idx tllm_tome_count(tiny_idx t, tiny_idx r, unsigned flags);

/* Parts of a match, all i32 (..., batch). TO (t): the output of each token. FROM (t - r): the token that each output
 * was made from; others are merged into it. SOURCE and TARGET (r): the pairs, most similar first. */
typedef enum tllm_tome_parts { TLLM_TOME_TO, TLLM_TOME_FROM, TLLM_TOME_SOURCE, TLLM_TOME_TARGET } tllm_tome_parts;
/* data NULL: match is not (2 t + r, batch) */
TINY_API tiny_tensor tllm_tome_part(const tiny_tensor *match, tiny_idx t, tllm_tome_parts part);

/* keys (t, batch heads, d) f32 or f64. The similarity of two tokens is the cosine between the sums of their heads; 0 if
 * the length of a sum is 0 or not finite. Ties go to the first. match must be dense; its shape gives r. */
TINY_API tiny_status tllm_tome_match(tiny_ctx *ctx, const tiny_tensor *keys, tiny_idx batch, unsigned flags,
                                     const tiny_tensor *match);

/* next (t - r, batch): sums of size (t, batch); f32 or f64, dense; next must not overlap size */
TINY_API tiny_status tllm_tome_sizes(tiny_ctx *ctx, const tiny_tensor *size, const tiny_tensor *match,
                                     const tiny_tensor *next);
/* x[k] = y[to[k]] for each image; x (t, batch, d), y (fewer, batch, d), to (t, batch) i32: a part TO, or the places of
 * tllm_tome_track; x must not overlap y */
TINY_API tiny_status tllm_tome_unmerge(tiny_ctx *ctx, const tiny_tensor *y, const tiny_tensor *to,
                                       const tiny_tensor *x);
/* Tracks the output of each original token: place (original t, batch) i32 dense. match NULL: initialises place to the
 * tokens themselves; otherwise applies one more merge. */
TINY_API tiny_status tllm_tome_track(tiny_ctx *ctx, const tiny_tensor *place, const tiny_tensor *match, tiny_idx t);

/* ---- merges per block
 * tllm_tome_scheduled: the published schedules, for 197 tokens. tllm_tome_inflected: r merges per block on average,
 * with an inflection f: block i merges (int)(low + step i), low = (int)(r (1 - f)), step = (2 r - 2 low) / (blocks -
 * 1). f 0: r in each block; f above 0: more in later blocks */
typedef enum tllm_tome_schedule {
    TLLM_TOME_BASE_LOW,
    TLLM_TOME_BASE_HIGH,
    TLLM_TOME_LARGE_LOW,
    TLLM_TOME_LARGE_HIGH,
    TLLM_TOME_SCHEDULES
} tllm_tome_schedule;
/* NULL: unknown */
TINY_API const tiny_idx *tllm_tome_scheduled(tllm_tome_schedule schedule, tiny_idx *n_block);
TINY_API tiny_status tllm_tome_inflected(tiny_ctx *ctx, tiny_idx r, double f, tiny_idx n_block, tiny_idx *each);

/* ---- inside: what the bodies share ---- */

/* For merge and its gradient: a match in parts; check reports invalid numbers. */
typedef struct tinyi_tome { tiny_idx t, r, batch; const int32_t *to, *from, *src, *dst; } tinyi_tome;
/* 0: another shape */
TINYI_FN int tinyi_tome_read(const tiny_tensor *match, tiny_idx t, tiny_idx batch, tinyi_tome *m);
TINYI_FN tiny_status tinyi_tome_check(tiny_ctx *ctx, const char *name, const tinyi_tome *m);

TINYI_C_END
#endif
