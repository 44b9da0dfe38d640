/* src/math/targets.c - compiles the kernels of math once for each target, and fills the kernel table of the chosen
 * target */
#include "core/cpu_inside.h"
#include "core/target.h"
#include "math/table_inside.h"
#include <string.h>

/* Every kernel stands under its own name with a target suffix; what a target does not use stays unused. */
#define TINYI_USE_DECLARE(PASS, suffix, a, b) TINYI_AHEAD(PASS, TINYI_FN void tinyi_use_all_##suffix(tinyi_kernels *k);)
TINYI_C_BEGIN
TINYI_FOR_EACH(TINYI_USE_DECLARE, , )
TINYI_C_END

#define TINYI_PASS_FILE "math/kernels.h"
#include "core/each_target.h"

TINYI_FN int tinyi_target_available(tiny_target target, unsigned cpu)
{
    const unsigned avx512 = TINY_CPU_AVX512 | TINY_CPU_AVX512VNNI;
#ifdef TINYI_AMX_IN_C                       /* a test computes what the tiles would */
    const unsigned amx = avx512 | TINY_CPU_AVX512VBMI | TINY_CPU_AVX512BF16;
#define TINYI_AMX_ALLOWED 1
#else
    const unsigned amx =
        avx512 | TINY_CPU_AVX512VBMI | TINY_CPU_AVX512BF16 | TINY_CPU_AMX_TILE | TINY_CPU_AMX_INT8 | TINY_CPU_AMX_BF16;
#define TINYI_AMX_ALLOWED tinyi_amx_permission()
#endif
    switch (target) {
    case TINY_TARGET_SCALAR: return TINYI_HAVE_SCALAR;
    case TINY_TARGET_W128: return TINYI_HAVE_W128 && (!TINYI_X86 || (cpu & TINY_CPU_SSE41));
    case TINY_TARGET_NEON: return TINYI_HAVE_NEON && (cpu & TINY_CPU_NEON);
    case TINY_TARGET_AVX2: return TINYI_HAVE_AVX2 && (cpu & TINY_CPU_AVX2);
    case TINY_TARGET_AVX512: return TINYI_HAVE_AVX512 && (cpu & avx512) == avx512;
    case TINY_TARGET_AMX: return TINYI_HAVE_AMX && (cpu & amx) == amx && TINYI_AMX_ALLOWED;
    default: return 0;
    }
}
#undef TINYI_AMX_ALLOWED

/* Slots that avx512 takes from avx2, and on which processors:
 *   products      of floats, in halves (tinyi_kernels.gemm): a multiply-add of 64 bytes takes as long as two, and tiles
 *                 half as wide leave less empty at the edges of y
 *   transposes    in halves 64 shuffles of 16 x 16 numbers take as long as 128 of half a vector; squares of 8 x 8, 96
 *   quantize_i8   everywhere: divisions of 64 bytes take twice as long as those of 32, and where arithmetic on 64 bytes
 *                 lowers the clock, all that follows takes longer (docs/dev/notes-avx512.md) */
#define TINYI_NARROW(K) \
    K(transpose_b4, TINY_CPU_HALVES) K(transpose_b8, TINY_CPU_HALVES) K(transpose_past_b4, TINY_CPU_HALVES) \
    K(quantize_i8, TINY_CPU_AVX512)
#define TINYI_NARROW_HERE (TINYI_HAVE_AVX2 && TINYI_HAVE_AVX512 && !TINYI_ONLY_PASS && !TINYI_BY_NAME)

#if !TINYI_BY_NAME
TINYI_FN void tinyi_gemm_lend(tinyi_kernels *k, const tinyi_kernels *from)
{
    k->gemm.shape = from->gemm_f32_shape;
    k->gemm.pack = from->gemm_f32_pack;
    k->gemm.turn = from->gemm_f32_turn;
    k->gemm.tile = from->gemm_f32_tile;
    k->gemm.rows = from->gemm_f32_rows;
}
#endif

/* From the plainest up to the target, so that a slot which a target leaves alone keeps the next slower kernel. */
TINYI_FN void tinyi_kernels_fill(tinyi_kernels *k, tiny_target target, unsigned cpu)
{
#if TINYI_NARROW_HERE
    tinyi_kernels narrow;
    const tinyi_kernels *from = target >= TINY_TARGET_AVX512 && (cpu & TINY_CPU_HALVES) ? &narrow : k;
#elif !TINYI_BY_NAME
    const tinyi_kernels *from = k;
#endif
    int level;
    k->cpu = cpu;
    k->target = target == TINY_TARGET_REFERENCE ? TINY_TARGET_SCALAR : target;
    for (level = 1; level <= 3; level++) k->cache[level] = tinyi_cpu_cache(level);
#if TINYI_BY_NAME
    k->target = TINYI_ONLY_TARGET;
    memset(k->from, (int)TINYI_ONLY_TARGET, sizeof k->from);
#else
#if TINYI_HAVE_SCALAR
    tinyi_use_all_scalar(k);
#endif
#if TINYI_HAVE_W128
    if (TINYI_ONLY_PASS || target == TINY_TARGET_W128 ||
        (target > TINY_TARGET_W128 && !TINYI_HAVE_AVX2 && !TINYI_HAVE_NEON))
        tinyi_use_all_w128(k);
#endif
#if TINYI_HAVE_NEON
    if (TINYI_ONLY_PASS || target >= TINY_TARGET_NEON) tinyi_use_all_neon(k);
#endif
#if TINYI_HAVE_NEONDOT
    if ((TINYI_ONLY_PASS || target >= TINY_TARGET_NEON) && (cpu & TINY_CPU_DOTPROD)) tinyi_use_all_neondot(k);
#endif
#if TINYI_HAVE_AVX2
    if (TINYI_ONLY_PASS || target >= TINY_TARGET_AVX2) tinyi_use_all_avx2(k);
#endif
#if TINYI_HAVE_AVX2VNNI
    if ((TINYI_ONLY_PASS || target >= TINY_TARGET_AVX2) && (cpu & TINY_CPU_AVXVNNI)) tinyi_use_all_avx2vnni(k);
#endif
#if TINYI_NARROW_HERE
    narrow = *k;
#endif
#if TINYI_HAVE_AVX512
    if (TINYI_ONLY_PASS || target >= TINY_TARGET_AVX512) tinyi_use_all_avx512(k);
#endif
#if TINYI_NARROW_HERE
#define TINYI_NARROW_SLOT(name, where) \
    if (cpu & (where)) k->name = narrow.name, k->from[TINYI_K_##name] = narrow.from[TINYI_K_##name];
    if (target >= TINY_TARGET_AVX512) { TINYI_NARROW(TINYI_NARROW_SLOT) }
#undef TINYI_NARROW_SLOT
#endif
#if TINYI_HAVE_AMX
    if (target >= TINY_TARGET_AMX) tinyi_use_all_amx(k);
#endif
    tinyi_gemm_lend(k, from);
#endif
}
#undef TINYI_NARROW
#undef TINYI_NARROW_HERE
