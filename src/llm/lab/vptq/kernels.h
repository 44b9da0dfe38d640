/* src/llm/lab/vptq/kernels.h - products with vectors of books for one target (included once per pass, see core/target.h) */
#include "core/simd.h"
#include "llm/lab/vptq/vptq.simd.h"
#include "core/simd_unname.h"
