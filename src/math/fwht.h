/* src/math/fwht.h - Walsh-Hadamard transform of rows
 *
 *   y[i] = scale * sum over j of (-1)^(number of bits that i and j share) x[j],  i, j < block
 *
 * The order of Sylvester's matrices (1 1; 1 -1) x (1 1; 1 -1) x ... A block that is no power of two is r times one, and
 * y = scale (H_r x H) x with a Hadamard matrix of order r before it: r is 4, 8, ... times its odd part, 256 at most,
 * and one of those that src/math/hadamard_inside.h makes. */
#ifndef TINYI_FWHT_H
#define TINYI_FWHT_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_fwht_params {           /* all zero: whole rows, orthonormal; of powers of two its own inverse */
    /* rows are cut in blocks of so many, see tiny_fwht_block; 0: the whole row */
    tiny_idx block;
    float scale;                            /* 0: 1 / sqrt(block) */
    int transposed;                         /* the inverse, where it is orthonormal; of powers of two the same */
} tiny_fwht_params;

/* The largest block that rows of n can be cut in: n itself where there is a matrix of that order, else the largest
 * power of two in n. */
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
