/* src/llm/lab/vptq/kmeans/kernels.h - the nearest centre for one target (included once per pass, see core/target.h) */
#include "core/simd.h"
#include "llm/lab/vptq/kmeans.simd.h"
#include "core/simd_unname.h"
