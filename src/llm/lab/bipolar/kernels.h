/* src/llm/lab/bipolar/kernels.h - the products of bit planes for one target (included once per pass, see core/target.h) */
#include "core/simd.h"
#include "llm/lab/bipolar/bipolar.simd.h"
#include "core/simd_unname.h"
