/* src/llm/block/block.c - compiles the kernels of block formats once for each target, and chooses among them */
#include "llm/block/block_inside.h"
#include "llm/block/format.h"
#include "llm/block/matmul.h"
#include "llm/lab/flashllm/flash_inside.h"
#include "core/cpu_inside.h"
#include "core/target.h"

/* what the codes of IQ4_NL and IQ4_XS, and those of MXFP4 stand for; with an offset for instructions that want no sign */
static const signed char tinyi_blk_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
static const unsigned char tinyi_blk_iq4_128[16] = { 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241 };
static const unsigned char tinyi_blk_e2m1_16[16] = { 16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4 };

#if TINYI_GCC || TINYI_CLANG
#define TINYI_BLK_AHEAD(p) __builtin_prefetch(p)
#define TINYI_BLK_AHEAD2(p) __builtin_prefetch(p, 0, 2)
#else
#define TINYI_BLK_AHEAD(p) ((void)0)
#define TINYI_BLK_AHEAD2(p) ((void)0)
#endif

#define TINYI_PASS_FILE "llm/block/kernels.h"
#define TINYI_PASSES (TINYI_PASSES_PLAIN | TINYI_PASSES_DOT | TINYI_PASS_NEONMM | TINYI_PASS_AMX)
#include "core/each_target.h"

/* Every pass has an int8 product of its own: where that one comes from is the target of the context. */
TINYI_FN const tinyi_blk_kernels *tinyi_blk_kernels_of(const tinyi_kernels *k)
{
    switch ((tiny_target)k->from[TINYI_K_gemm_i8_tile]) {
#if TINYI_HAVE_W128
    case TINY_TARGET_W128: return &tinyi_quad_table_w128;
#endif
#if TINYI_HAVE_NEON
    case TINY_TARGET_NEON:
#if TINYI_HAVE_NEONMM
        if ((k->cpu & TINY_CPU_DOTPROD) && (k->cpu & TINY_CPU_I8MM)) return &tinyi_quad_table_neonmm;
#endif
#if TINYI_HAVE_NEONDOT
        if (k->cpu & TINY_CPU_DOTPROD) return &tinyi_quad_table_neondot;
#endif
        return &tinyi_quad_table_neon;
#endif
#if TINYI_HAVE_AVX2VNNI
    case TINY_TARGET_AVX2: return k->cpu & TINY_CPU_AVXVNNI ? &tinyi_tree_table_avx2vnni : &tinyi_tree_table_avx2;
#elif TINYI_HAVE_AVX2
    case TINY_TARGET_AVX2: return &tinyi_tree_table_avx2;
#endif
#if TINYI_HAVE_AVX512
    case TINY_TARGET_AVX512: return &tinyi_blk_table_avx512;
#endif
#if TINYI_HAVE_AMX
    case TINY_TARGET_AMX: return &tinyi_blk_table_avx512;
#endif
    default: return tinyi_blk_scalar();
    }
}

#ifndef TINYI_NO_FLASH
TINYI_FN const tinyi_csl_kernels *tinyi_csl_kernels_of(const tinyi_kernels *k)
{
    switch ((tiny_target)k->from[TINYI_K_gemm_f32_tile]) {
#if TINYI_HAVE_W128
    case TINY_TARGET_W128: return &tinyi_csl_table_w128;
#endif
#if TINYI_HAVE_NEON
    case TINY_TARGET_NEON: return &tinyi_csl_table_neon;
#endif
#if TINYI_HAVE_AVX2
    case TINY_TARGET_AVX2: return &tinyi_csl_table_avx2;
#endif
#if TINYI_HAVE_AVX512
    case TINY_TARGET_AVX512: return &tinyi_csl_table_avx512;
#endif
#if TINYI_HAVE_SCALAR
    default: return &tinyi_csl_table_scalar;
#else
    default: return NULL;                   /* no kernels come from it */
#endif
    }
}
#endif

TINYI_FN const tinyi_blk_kernels *tinyi_blk_scalar(void)
{
#if TINYI_HAVE_SCALAR
    return &tinyi_blk_table_scalar;
#else
    return NULL;
#endif
}

TINYI_FN const tinyi_blk_tiles *tinyi_blk_tiles_of(const tinyi_kernels *k)
{
#if TINYI_HAVE_AMX
    if (k->from[TINYI_K_gemm_i8_tile] == TINY_TARGET_AMX) return &tinyi_blk_tiles_amx;
#endif
    (void)k;
    return NULL;
}

TINY_API const char *tllm_matmul_pass(const tiny_ctx *ctx)
{
    static const struct { const char *name; const tinyi_blk_kernels *kernels; } pass[] = {
#if TINYI_HAVE_W128
        { "w128", &tinyi_quad_table_w128 },
#endif
#if TINYI_HAVE_NEON
        { "neon", &tinyi_quad_table_neon },
#endif
#if TINYI_HAVE_NEONDOT
        { "neondot", &tinyi_quad_table_neondot },
#endif
#if TINYI_HAVE_NEONMM
        { "neonmm", &tinyi_quad_table_neonmm },
#endif
#if TINYI_HAVE_AVX2
        { "avx2", &tinyi_tree_table_avx2 },
#endif
#if TINYI_HAVE_AVX2VNNI
        { "avx2vnni", &tinyi_tree_table_avx2vnni },
#endif
#if TINYI_HAVE_AVX512
        { "avx512", &tinyi_blk_table_avx512 },
#endif
#if TINYI_HAVE_SCALAR
        { "scalar", &tinyi_blk_table_scalar },
#endif
    };
    const tinyi_blk_kernels *kn;
    size_t i = 0;
    if (tinyi_ctx_check(ctx) || ctx->target == TINY_TARGET_REFERENCE) return "reference";
    if (tinyi_blk_tiles_of(ctx->k)) return "amx";
    kn = tinyi_blk_kernels_of(ctx->k);
    while (pass[i].kernels != kn) i++;      /* one of them it is */
    return pass[i].name;
}

#define TINYI_BLK_CASE(name, values, bytes, wide) case TLLM_FORMAT_##name: return TINYI_BLK_##name;
TINYI_FN int tinyi_blk_of(int format)
{
    switch (format) {
    TINYI_BLKS(TINYI_BLK_CASE)
    default: return -1;
    }
}
#undef TINYI_BLK_CASE

#define TINYI_EIGHT_CASE(name, values, bytes, traits) case TLLM_FORMAT_##name: return TINYI_EIGHT_##name;
TINYI_FN int tinyi_eight_of(int format)
{
    switch (format) {
    TINYI_EIGHTS(TINYI_EIGHT_CASE)
    default: return -1;
    }
}
#undef TINYI_EIGHT_CASE
