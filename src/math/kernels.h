/* src/math/kernels.h - every kernel of math for one target (included once per pass, see core/target.h) */
#include "core/simd.h"

static void TINY_FN(tinyi_use_all)(tinyi_kernels *k)
{
    (void)k;
}
#include "core/simd_unname.h"
