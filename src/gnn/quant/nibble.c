/* src/gnn/quant/nibble.c - compiles the loops over codes once for each target, and chooses among them */
#include <string.h>
#include "gnn/quant/nibble.h"
#include "core/target.h"

#if TINYI_HAVE_SCALAR
#define TINYI_PASS TINYI_PASS_SCALAR
TINYI_TARGET_BEGIN_SCALAR
#include "gnn/quant/kernels.h"
TINYI_TARGET_END_SCALAR
#undef TINYI_PASS
#endif

#if TINYI_HAVE_W128
#define TINYI_PASS TINYI_PASS_W128
TINYI_TARGET_BEGIN_W128
#include "gnn/quant/kernels.h"
TINYI_TARGET_END_W128
#undef TINYI_PASS
#endif

#if TINYI_HAVE_NEON
#define TINYI_PASS TINYI_PASS_NEON
TINYI_TARGET_BEGIN_NEON
#include "gnn/quant/kernels.h"
TINYI_TARGET_END_NEON
#undef TINYI_PASS
#endif

#if TINYI_HAVE_AVX2
#define TINYI_PASS TINYI_PASS_AVX2
TINYI_TARGET_BEGIN_AVX2
#include "gnn/quant/kernels.h"
TINYI_TARGET_END_AVX2
#undef TINYI_PASS
#endif

#if TINYI_HAVE_AVX512
#define TINYI_PASS TINYI_PASS_AVX512
TINYI_TARGET_BEGIN_AVX512
#include "gnn/quant/kernels.h"
TINYI_TARGET_END_AVX512
#undef TINYI_PASS
#endif

/* Every pass has an int8 product of its own: where that one comes from is the target of the context. */
const tinyi_nibble_kernels *tinyi_nibble_kernels_of(const tinyi_kernels *k)
{
    switch ((tiny_target)k->from[TINYI_K_gemm_i8_tile]) {
#if TINYI_HAVE_W128
    case TINY_TARGET_W128: return &tinyi_nibble_table_w128;
#endif
#if TINYI_HAVE_NEON
    case TINY_TARGET_NEON: return &tinyi_nibble_table_neon;
#endif
#if TINYI_HAVE_AVX2
    case TINY_TARGET_AVX2: return &tinyi_nibble_table_avx2;
#endif
#if TINYI_HAVE_AVX512
    case TINY_TARGET_AVX512: case TINY_TARGET_AMX: return &tinyi_nibble_table_avx512;
#endif
    default: return &tinyi_nibble_table_scalar;
    }
}
