/* src/llm/kernels.h - every kernel of tinyllm.h for one target (included once per pass, see core/target.h) */
#include "core/simd.h"
#if V_AMX
#include "llm/block/tile.simd.h"
#elif V_AVX2
#include "llm/block/tree.simd.h"
#elif V_NEON || V_W128
#include "llm/block/quad.simd.h"
#elif V_SCALAR
#include "llm/block/block.simd.h"
#elif V_AVX512
#include "llm/block/bfloat.simd.h"
#endif
#if !V_EXTRA && !V_AMX
#include "llm/lab/flashllm/flashllm.simd.h"
#include "llm/lab/bipolar/bipolar.simd.h"
#include "llm/lab/weave/weave.simd.h"
#include "llm/lab/vptq/vptq.simd.h"
#include "llm/lab/vptq/kmeans.simd.h"
#include "llm/lab/nets/share.simd.h"
#include "llm/dist/noloco.simd.h"
#include "llm/dist/onebyte.simd.h"
#include "llm/dist/moe_fold.simd.h"
#include "llm/dist/codes.simd.h"
#endif
#include "core/simd_unname.h"
