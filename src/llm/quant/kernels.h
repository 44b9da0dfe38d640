/* src/llm/quant/kernels.h - the kernels of block formats for one target (included once per pass, see core/target.h) */
#include "core/simd.h"
#if V_AMX
#include "llm/quant/tile.simd.h"
#elif V_AVX2
#include "llm/quant/tree.simd.h"
#elif V_NEON || V_W128
#include "llm/quant/quad.simd.h"
#else
#include "llm/quant/block.simd.h"
#endif
#if !V_EXTRA && !V_AMX && !defined TINYI_NO_FLASH
#include "llm/quant/flashllm.simd.h"
#endif
#include "core/simd_unname.h"
