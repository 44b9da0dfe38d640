/* src/math/gemm_i8_inside.h - the int8 product as its driver and kernels see it
 *
 * Both factors are packed, k padded with zeros to 64, in one of two forms; the target says which (gemm_i8_shape). Sums
 * are exact modulo 2^32 in both.
 *   bytes  for the byte dot products and the tiles of AMX
 *     a        rows of unsigned bytes; signed bytes are stored + 128
 *     b        panels of 16 rows: [k/4][16][4] signed bytes, zeros where there is nothing
 *     start_b  for each row of b: 0, or -128 times its sum where a was stored + 128
 *   pairs  for targets that multiply 16-bit lanes, by S. Winograd, "A New Algorithm for Inner Product", IEEE
 *          Transactions on Computers C-17 (1968): a0 b0 + a1 b1 = (a0 + b1)(a1 + b0) - a0 a1 - b0 b1, half of the
 *          products for two additions
 *     a        rows of 16-bit numbers: of each 4 * V_LANES bytes those of even places, then those of odd places
 *     b        panels of 16 rows: from [k/4][16][4] the same of each 4 * V_LANES bytes, [k/4][16 / V_LANES][2][2 *
 *              V_LANES]
 *     start_a, start_b  for each row of a, of b: minus the sum of the products of its neighbours (even times odd place)
 *
 *   gemm_i8_row    packs n bytes of a row of a, n a multiple of 64; returns start_a
 *   gemm_i8_start  adds to start_b for 16 rows of [k/4][16][4] bytes; pairs: and packs them
 *   gemm_i8_weave  groups of four rows of n bytes to [n][4]
 *   gemm_i8_tile   y = start_a + start_b + a b, or y += a b where both are NULL
 *   gemm_i8_dot    a row of a as it lies times rows of b as they lie */
#ifndef TINYI_GEMM_I8_H
#define TINYI_GEMM_I8_H
#include "math/gemm_inside.h"
TINYI_C_BEGIN

TINYI_FN void tinyi_gemm_plan_i8(tinyi_gemm_plan *p, const tinyi_gemm *g);
TINYI_FN void tinyi_gemm_run_i8(tiny_team *team, const tinyi_gemm_plan *p, int to_f32);

TINYI_C_END
#endif
