/* src/math/kernels.h - every kernel of math for one target (included once per pass, see core/target.h)
 *
 * Plain passes compile all kernels. A pass for one extra instruction (V_EXTRA, V_AMX) compiles only the int8 product,
 * which is built on v_dot and has a tile form. V_HALF compiles nothing here. A program with a single target has no
 * second form. */
#include "core/simd.h"
#if !V_HALF

#if !V_EXTRA && !V_AMX
#include "math/elem.simd.h"
#include "math/binary.simd.h"
#include "math/convert.simd.h"
#include "math/reduce.simd.h"
#include "math/softmax.simd.h"
#include "math/norm.simd.h"
#include "math/layout.simd.h"
#include "math/sort.simd.h"
#include "math/gemm_f32.simd.h"
#include "math/attention.simd.h"
#include "math/attention_few.simd.h"
#include "math/gemv.simd.h"
#include "math/optim.simd.h"
#include "math/conv.simd.h"
#include "math/fft.simd.h"
#include "math/linalg.simd.h"
#include "math/fwht.simd.h"
#include "math/slope.simd.h"
#include "math/edges.simd.h"
#include "math/twist.simd.h"
#include "math/gla.simd.h"
#endif
#if !V_I8MM && !(V_EXTRA && TINYI_BY_NAME)
#include "math/gemm_i8.simd.h"
#endif

TINYI_FN void TINY_FN(tinyi_use_all)(tinyi_kernels *k)
{
#if !V_EXTRA && !V_AMX
    TINY_FN(tinyi_use_elem)(k);
    TINY_FN(tinyi_use_binary)(k);
    TINY_FN(tinyi_use_convert)(k);
    TINY_FN(tinyi_use_reduce)(k);
    TINY_FN(tinyi_use_softmax)(k);
    TINY_FN(tinyi_use_norm)(k);
    TINY_FN(tinyi_use_layout)(k);
    TINY_FN(tinyi_use_sort)(k);
    TINY_FN(tinyi_use_attention)(k);
    TINY_FN(tinyi_use_gemm_f32)(k);
    TINY_FN(tinyi_use_gemv)(k);
#ifndef TINYI_NO_TRAIN
    TINY_FN(tinyi_use_optim)(k);
    TINY_FN(tinyi_use_slope)(k);
    TINY_FN(tinyi_use_twist)(k);
#endif
#ifndef TINYI_NO_CONV
    TINY_FN(tinyi_use_conv)(k);
#endif
#ifndef TINYI_NO_TRANSFORM
    TINY_FN(tinyi_use_fft)(k);
    TINY_FN(tinyi_use_fwht)(k);
#endif
#ifndef TINYI_NO_LINALG
    TINY_FN(tinyi_use_linalg)(k);
#endif
#ifndef TINYI_NO_EDGES
    TINY_FN(tinyi_use_edges)(k);
#endif
    TINY_FN(tinyi_use_gla)(k);
#endif
#if !V_I8MM && !(V_EXTRA && TINYI_BY_NAME)
    TINY_FN(tinyi_use_gemm_i8)(k);
#else
    (void)k;
#endif
}
#endif
#include "core/simd_unname.h"
