/* src/math/gemm_i8.h - the int8 product as its driver and kernels see it
 *
 * Everything is packed into one form that the byte dot products and the tiles of AMX share:
 *   a   rows of unsigned bytes, k4 groups of four, k padded with zeros to 64; signed bytes are stored + 128
 *   b   panels of 16 rows: [k4][16][4] signed bytes, zeros where there is nothing
 *   start  for each row of b: 0, or -128 times its sum where a was stored + 128 (sums are exact modulo 2^32)          */
#ifndef TINYI_GEMM_I8_H
#define TINYI_GEMM_I8_H
#include "math/gemm.h"
TINYI_C_BEGIN

TINYI_FN void tinyi_gemm_plan_i8(tinyi_gemm_plan *p, const tinyi_gemm *g);
TINYI_FN void tinyi_gemm_run_i8(tiny_team *team, const tinyi_gemm_plan *p, int to_f32);

TINYI_C_END
#endif
