/* src/llm/lab/nets/mask.h - masks of one bit a number, an exact choice of the best, the cubic schedule of pruning
 *
 *     tllm_mask_open(ctx, n, &m);                         all bits 1
 *     tllm_mask_top(ctx, &m, 0, n, score, k);             exactly the k highest keep their bit
 *     tllm_mask_close(ctx, &m); */
#ifndef TINYI_LLM_MASK_H
#define TINYI_LLM_MASK_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef struct tllm_mask {
    size_t n;
    unsigned char *bits;                    /* ((n + 7) / 8): number i is bit i % 8 of byte i / 8; the rest is 0 */
} tllm_mask;

TINY_API tiny_status tllm_mask_open(tiny_ctx *ctx, size_t n, tllm_mask *out);
TINY_API void tllm_mask_close(tiny_ctx *ctx, tllm_mask *mask);
TINY_API int tllm_mask_has(const tllm_mask *mask, size_t i);        /* 0 past the end */
TINY_API void tllm_mask_put(tllm_mask *mask, size_t i, int bit);
TINY_API size_t tllm_mask_count(const tllm_mask *mask, size_t first, size_t n);        /* bits that are 1 */

/* Of the numbers first .. first + n - 1, the k with the highest scores get the bit 1, the others 0. Among equal scores
 * the lowest index loses its bit first, as in a stable sort. score[0] belongs to number first. NaN is an error; then no
 * bit changes. */
TINY_API tiny_status tllm_mask_top(tiny_ctx *ctx, tllm_mask *mask, size_t first, size_t n, const double *score,
                                   size_t k);
/* share * n, rounded to the nearest integer, halves to the even one */
TINY_API size_t tllm_mask_part(double share, size_t n);

/* Gradual pruning: after step start the share of zeros is `from`; n events, one every `every` steps, raise it:
 *     s = to + (from - to) (1 - (step - start) / (n every))^3
 * M. Zhu, S. Gupta, "To prune, or not to prune", 2017 (arXiv 1710.01878), eq. 1. */
typedef struct tllm_gradual {
    double from, to;                        /* 0 <= from <= to < 1 */
    int64_t start, every;                   /* steps; every >= 1 */
    int64_t n;                              /* events after the first; 1: all at start + every */
    int global;                             /* nonzero: one threshold for all layers; 0: the same share in each layer */
    int hard;                               /* nonzero: masked weights become 0 and never come back */
    uint64_t skip;                          /* bit l: layer l of the weights is not pruned */
} tllm_gradual;

TINY_API tiny_status tllm_gradual_check(tiny_ctx *ctx, const tllm_gradual *g);
TINY_API double tllm_gradual_at(const tllm_gradual *g, int64_t step);   /* the share of zeros after this step */
TINY_API int tllm_gradual_due(const tllm_gradual *g, int64_t step);     /* nonzero: an event follows this step */

TINYI_C_END
#endif
