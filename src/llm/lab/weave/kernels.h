/* src/llm/lab/weave/kernels.h - the kernels of bit-weaved data for one target (included once per pass, see core/target.h) */
#include "core/simd.h"
#include "llm/lab/weave/weave.simd.h"
#include "core/simd_unname.h"
