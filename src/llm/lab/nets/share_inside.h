/* src/llm/lab/nets/share_inside.h - inside shared parameters: signs, and what every target has
 *
 * Weights are numbered over all matrices. 512 of them are a block with 16 words: bit t of word l is the sign of weight
 * 16 t + l of the block, 1 for minus. So one vector of words, shifted, has the signs of a vector of weights, for every
 * width up to 16. */
#ifndef TINYI_SHARE_INSIDE_H
#define TINYI_SHARE_INSIDE_H
#include "math/table_inside.h"
#include "llm/lab/nets/share.h"
TINYI_C_BEGIN

#define TINYI_SHARE_BLOCK 512
#define TINYI_SHARE_WORDS 16
/* words of the blocks that n weights may touch, wherever they begin */
TINYI_INLINE size_t tinyi_share_room(size_t n) { return (n / TINYI_SHARE_BLOCK + 2) * TINYI_SHARE_WORDS; }

/* sign: words from the block of the first weight on; first: its place there, 0 .. 511; n weights from it on */
typedef struct tinyi_share_kernels {
    tiny_target from;
    /* y[q y_step] += scale sum of +-w[i] x[q x_step + i], n_x rows of x */
    void (*dot)(float *y, ptrdiff_t y_step, const float *w, const uint32_t *sign, size_t first, size_t n,
                const float *x, ptrdiff_t x_step, size_t n_x, float scale);
    void (*put)(float *y, const float *w, const uint32_t *sign, size_t first, size_t n, float scale);   /* y = +-w */
    void (*add)(float *y, const float *w, const uint32_t *sign, size_t first, size_t n, float scale);   /* y += +-w */
    void (*signs)(float *sum, const float *x, size_t n);    /* sum += 1, 0 or -1, as x is; 0 where it is not a number */
} tinyi_share_kernels;
TINYI_TABLES(tinyi_share_kernels, tinyi_share_kernels)

TINYI_INLINE int tinyi_share_minus(const uint32_t *sign, size_t place)
{
    return (int)(sign[place / TINYI_SHARE_BLOCK * TINYI_SHARE_WORDS + place % 16] >> (place / 16 % 32) & 1u);
}
/* the words of blocks block, block + 1, ... */
TINYI_FN void tinyi_share_signs(const tllm_share *s, size_t block, size_t n_block, uint32_t *sign);

TINYI_C_END
#endif
