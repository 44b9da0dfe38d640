/* src/math/fwht.h - Walsh-Hadamard transform of rows
 *
 *   y[i] = scale * sum over j of (-1)^(number of bits that i and j share) x[j],  i, j < block
 *
 * The matrix is Sylvester's: (1 1; 1 -1) x (1 1; 1 -1) x ... If the block is r times a power of two, with an odd part
 * above 1, y = scale (H_r x H) x with a Hadamard matrix H_r: r is the odd part times 4, 8, ..., at most 256, and one of
 * the orders that src/math/hadamard_inside.h makes. */
#ifndef TINYI_FWHT_H
#define TINYI_FWHT_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_fwht_params {           /* all zero: whole rows, orthonormal; for powers of two its own inverse */
    /* rows are cut into blocks of this length, see tiny_fwht_block; 0: the whole row */
    tiny_idx block;
    float scale;                            /* 0: 1 / sqrt(block) */
    int transposed;                         /* the inverse, if orthonormal; for powers of two the same */
} tiny_fwht_params;

/* The largest block for rows of n: n itself if there is a matrix of that order, else the largest power of two that
 * divides n. */
TINY_API tiny_idx tiny_fwht_block(tiny_idx n);

/* x and y (..., n), f32, n a multiple of the block; y must not overlap x. params may be NULL. */
TINY_API tiny_status tiny_fwht(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fwht_params *params,
                               const tiny_tensor *y);

#define TINYI_OPS_FWHT(ROW) ROW(FWHT, fwht)

/* ---- inside: what the bodies share ---- */

#define TINYI_KERNELS_FWHT(K)                                                                                         \
    K(fwht_f32, void, (float *y, const float *x, size_t n, float scale))                                              \
    K(fwht_mix_f32, void, (float *y, const float *x, const float *h, size_t r, size_t n))                             \
    K(few_bits_f32, void, (float *x, size_t n, float clip, float high))

TINYI_C_END
#endif
