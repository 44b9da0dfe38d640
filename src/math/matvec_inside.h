/* src/math/matvec_inside.h - inside the products: a few vectors times a large matrix */
#ifndef TINYI_MATVEC_H
#define TINYI_MATVEC_H
#include "math/gemm_inside.h"
TINYI_C_BEGIN

/* DOT and AXPY: g->m vectors, g->b the matrix. */
TINYI_FN void tinyi_gemm_run_vectors(tiny_team *team, const tinyi_gemm_plan *p);

TINYI_C_END
#endif
