/* src/llm/block/block.c - chooses the kernels of block formats for a target */
#include "llm/block/block_inside.h"
#include "llm/block/format.h"
#include "llm/block/matmul.h"
#include "core/cpu_inside.h"
#include "core/target.h"

TINYI_TABLE_CHOICE_EXTRA(tinyi_blk_kernels, tinyi_blk_kernels)

TINYI_FN const tinyi_blk_kernels *tinyi_blk_scalar(void)
{
#if TINYI_HAVE_SCALAR
    return tinyi_blk_kernels_scalar(0);
#else
    return NULL;
#endif
}

TINYI_FN const tinyi_blk_tiles *tinyi_blk_tiles_of(const tinyi_kernels *k)
{
#if TINYI_HAVE_AMX
    if (k->target == TINY_TARGET_AMX) return tinyi_blk_tiles_amx(k->cpu);
#endif
    (void)k;
    return NULL;
}

TINYI_FN const tinyi_blk_tiles *tinyi_blk_bfloat_of(const tinyi_kernels *k)
{
#if TINYI_HAVE_BF16
#ifdef TINYI_BF16_IN_C                      /* a test computes what the processor would */
    const unsigned has = 1;
#else
    const unsigned has = k->cpu & TINY_CPU_AVX512BF16;
#endif
    if (has && k->target == TINY_TARGET_AVX512) return tinyi_blk_bfloat_avx512(k->cpu);
#endif
    return tinyi_blk_tiles_of(k);
}

TINY_API const char *tllm_matmul_pass(const tiny_ctx *ctx)
{
    if (tinyi_ctx_check(ctx) || ctx->target == TINY_TARGET_REFERENCE) return "reference";
    if (tinyi_blk_tiles_of(ctx->k)) return "amx";
    return tinyi_blk_kernels_of(ctx->k)->pass;
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
