/* src/gnn/quant/nibble.c - compiles the loops over codes once for each target, and chooses among them */
#include <string.h>
#include "gnn/quant/nibble_inside.h"
#include "core/target.h"

#define TINYI_PASS_FILE "gnn/quant/kernels.h"
#define TINYI_PASSES (TINYI_PASSES_PLAIN)
#include "core/each_target.h"

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
#if TINYI_HAVE_SCALAR
    default: return &tinyi_nibble_table_scalar;
#else
    default: return NULL;                   /* no kernels come from it */
#endif
    }
}
