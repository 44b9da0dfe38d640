/* src/math/fwht.h - Walsh-Hadamard transform of rows
 *
 *   y[i] = scale * sum over j of (-1)^(number of bits that i and j share) x[j],  i, j < block
 *
 * The order of Sylvester's matrices (1 1; 1 -1) x (1 1; 1 -1) x ...                                                  */
#ifndef TINYI_FWHT_H
#define TINYI_FWHT_H
#include "core/op.h"
TINYI_C_BEGIN

typedef struct tiny_fwht_params {           /* all zero: whole rows, orthonormal, its own inverse */
    tiny_idx block;                         /* rows are cut in blocks of this power of two; 0: the whole row */
    float scale;                            /* 0: 1 / sqrt(block) */
} tiny_fwht_params;

#ifndef TINY_ONLY_MODELS
/* x and y (..., n), f32, n a multiple of the block; y must not overlap x. params may be NULL. */
TINY_API tiny_status tiny_fwht(tiny_ctx *ctx, const tiny_tensor *x, const tiny_fwht_params *params, const tiny_tensor *y);
#endif

#define TINYI_OPS_FWHT(ROW) ROW(FWHT, fwht)
#ifndef TINY_ONLY_MODELS
#define TINYI_KERNELS_FWHT(K) K(fwht_f32, void, (float *y, const float *x, size_t n, float scale))
#else
#define TINYI_KERNELS_FWHT(K)
#endif

TINYI_C_END
#endif
