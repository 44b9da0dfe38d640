/* src/core/simd.h - vectors of one target, in one vocabulary (included once per pass, see core/target.h)
 *
 * V_LANES floats or 32-bit integers a vector, 4 * V_LANES bytes. Macros of a pass, 0 or 1: V_SCALAR V_W128 V_NEON
 * V_AVX2 V_AVX512 V_AMX (with V_AVX512: an amx pass has the avx512 vectors), V_VNNI (v_dot is one instruction on x86),
 * V_DOTPROD (the same on ARM), V_I8MM (ARM multiplies two rows by two), V_EXTRA (a second pass of avx2 or neon for one
 * more instruction, or of avx512), V_HALF (with V_AVX2 and V_EXTRA: AVX-512 in vectors of 32 bytes).
 *
 *   v_load v_store            any alignment; the _n forms touch the first n <= V_LANES lanes only, other lanes are read
 *                             as 0
 *   v_load_f16 v_load_bf16    16-bit floats; stores round to nearest, ties to even, NaN stays NaN (quiet), as
 *                             core/half_inside.h
 *   v_fma(a,b,c)              a * b + c, rounded once or twice as the target can; v_fnma: c - a * b
 *   v_min v_max               a < b ? a : b and a > b ? a : b: the second operand where one is NaN or both are zeros
 *   v_round                   to nearest, ties to even; any size, and the sign of zero is kept, as in v_floor and
 *                             v_trunc
 *   v_sum v_hmax v_hmin       over the lanes, in any order; the last two want no NaN
 *   v_sum4(y,a,b,c,d)        y[0] to y[3]: the sums over the lanes of a, b, c, d
 *   v_lt v_le v_eq            false where one is NaN; v_ne: true there
 *   v_select(m,a,b)           m ? a : b; v_first(n): the first n lanes
 *   v_to_i32                  rounds to nearest even; any value without meaning outside of -2^31 <= x < 2^31
 *   v_exp2i(n)                2^n for -126 <= n <= 127
 *   v_table4(t, i)            t[i] of four floats; of i counts what the lowest two bits say
 *   vi_                       32-bit integers, wrapping; vi_shl vi_shr (fills with 0) vi_sra (fills with the sign) by
 *                             0..31, the same for all lanes; vi_load_i8, vi_load_u8: V_LANES bytes widened
 *   vb_                       bytes; vb_set4(p): the four bytes at p, again and again; vb_shr: each byte by 0..7, fills
 *                             with 0; vb_table16(t, i): t[i] of 16 bytes, 0 <= i < 16
 *   of four lanes (w128 and neon) only: vi_pairs(a, b): a0+a1 a2+a3 b0+b1 b2+b3; v_load_f16_each(p, step): four halves,
 *                             step bytes apart (8 bytes at p are read); v_set_f16(p): the half at p in all lanes;
 *                             vb_shl: each byte by 0..7; vb_merge(a, b, m): the bits of b where m has them, where a has
 *                             none, and those of a elsewhere; vb_bits(p): bit j of the two bytes at p as all bits of
 *                             byte j; v_zip_low(a, b): a0 b0 a1 b1, v_zip_high: a2 b2 a3 b3, vb_zip_low and vb_zip_high
 *                             the same with 16 bytes; vb_lows(a, b), vb_highs(a, b): the lower or upper halves next to
 *                             each other
 *   neon only: v_twice(p): p0 p1 p0 p1; v_mmla_i8(acc, a, b), V_I8MM: acc + the products of rows a0..7, a8..15 with
 *                             rows b0..7, b8..15: a0b0 a0b8 a8b0 a8b8
 *   vw_                       (w128 and avx2 only) a v_i8 as 16-bit lanes; vw_even_ and vw_odd_: the bytes of even and
 *                             odd places widened, on a big-endian machine the other way round; vw_dot: a[2j]*b[2j] +
 *                             a[2j+1]*b[2j+1]; w128 only: vw_load_i8(p): eight bytes widened; vw_pair(a, i): lanes 2 i
 *                             and 2 i + 1 again and again, i a constant
 *   v_dot_i8(acc,a,b)         acc[j] + a[4j]*b[4j] + ... + a[4j+3]*b[4j+3], signed bytes, exact
 *   v_dot_u8i8                a unsigned, b signed, exact
 *   v_dot_i8_b127             as v_dot_i8 where no byte of b is -128; v_dot_u7i8: as v_dot_u8i8 where a <= 127: two
 *                             promises that make plain AVX2 twice as fast */
#ifndef TINYI_PASS
#error "tiny: core/simd.h is included inside a pass, see core/target.h"
#endif
#if TINYI_PASS == TINYI_PASS_SCALAR
#define TINYI_SUFFIX _scalar
#define TINYI_PASS_TARGET TINY_TARGET_SCALAR
#define V_LANES 1
#define V_SCALAR 1
#ifndef TINYI_SIMD_SCALAR                    /* once in a unit, though several passes may ask */
#define TINYI_SIMD_SCALAR 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_W128
#define TINYI_SUFFIX _w128
#define TINYI_PASS_TARGET TINY_TARGET_W128
#define V_LANES 4
#define V_W128 1
#ifndef TINYI_SIMD_W128
#define TINYI_SIMD_W128 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_NEON
#define TINYI_SUFFIX _neon
#define TINYI_PASS_TARGET TINY_TARGET_NEON
#define V_LANES 4
#define V_NEON 1
#ifdef __ARM_FEATURE_DOTPROD
#define V_DOTPROD 1
#endif
#ifndef TINYI_SIMD_NEON
#define TINYI_SIMD_NEON 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_NEONDOT
#define TINYI_SUFFIX _neondot
#define TINYI_PASS_TARGET TINY_TARGET_NEON
#define V_LANES 4
#define V_NEON 1
#define V_DOTPROD 1
#define V_EXTRA 1
#ifndef TINYI_SIMD_NEONDOT
#define TINYI_SIMD_NEONDOT 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_NEONMM
#define TINYI_SUFFIX _neonmm
#define TINYI_PASS_TARGET TINY_TARGET_NEON
#define V_LANES 4
#define V_NEON 1
#define V_DOTPROD 1
#define V_I8MM 1
#define V_EXTRA 1
#ifndef TINYI_SIMD_NEONMM
#define TINYI_SIMD_NEONMM 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AVX2
#define TINYI_SUFFIX _avx2
#define TINYI_PASS_TARGET TINY_TARGET_AVX2
#define V_LANES 8
#define V_AVX2 1
#ifndef TINYI_SIMD_AVX2
#define TINYI_SIMD_AVX2 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AVX2VNNI
#define TINYI_SUFFIX _avx2vnni
#define TINYI_PASS_TARGET TINY_TARGET_AVX2
#define V_LANES 8
#define V_AVX2 1
#define V_VNNI 1
#define V_EXTRA 1
#ifndef TINYI_SIMD_AVX2VNNI
#define TINYI_SIMD_AVX2VNNI 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AVX512
#define TINYI_SUFFIX _avx512
#define TINYI_PASS_TARGET TINY_TARGET_AVX512
#define V_LANES 16
#define V_AVX512 1
#define V_VNNI 1
#ifndef TINYI_SIMD_AVX512
#define TINYI_SIMD_AVX512 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AVX512HALF
#define TINYI_SUFFIX _avx512half
#define TINYI_PASS_TARGET TINY_TARGET_AVX512
#define V_LANES 8
#define V_AVX2 1
#define V_VNNI 1
#define V_HALF 1
#define V_EXTRA 1
#ifndef TINYI_SIMD_AVX512HALF
#define TINYI_SIMD_AVX512HALF 1
#define TINYI_SIMD_NEW 1
#endif
#elif TINYI_PASS == TINYI_PASS_AMX
#define TINYI_SUFFIX _amx
#define TINYI_PASS_TARGET TINY_TARGET_AMX
#define V_LANES 16
#define V_AVX512 1
#define V_VNNI 1
#define V_AMX 1
#ifndef TINYI_SIMD_AMX
#define TINYI_SIMD_AMX 1
#define TINYI_SIMD_NEW 1
#endif
#endif
#ifndef V_SCALAR
#define V_SCALAR 0
#endif
#ifndef V_W128
#define V_W128 0
#endif
#ifndef V_NEON
#define V_NEON 0
#endif
#ifndef V_AVX2
#define V_AVX2 0
#endif
#ifndef V_AVX512
#define V_AVX512 0
#endif
#ifndef V_AMX
#define V_AMX 0
#endif
#ifndef V_VNNI
#define V_VNNI 0
#endif
#ifndef V_DOTPROD
#define V_DOTPROD 0
#endif
#ifndef V_I8MM
#define V_I8MM 0
#endif
#ifndef V_HALF
#define V_HALF 0
#endif
#ifndef V_EXTRA
#define V_EXTRA 0
#endif
#ifndef TINYI_SIMD_NEW
#define TINYI_SIMD_NEW 0
#endif
#include "core/simd_names.h"

#if V_SCALAR && TINYI_SIMD_NEW
#include "core/simd_scalar.h"
#endif
#if V_W128 && TINYI_SIMD_NEW
#include "core/simd_w128.h"
#endif
#if V_NEON && TINYI_SIMD_NEW
#include "core/simd_neon.h"
#endif
#if V_AVX2 && TINYI_SIMD_NEW
#include "core/simd_avx2.h"
#endif
#if V_AVX512 && TINYI_SIMD_NEW
#include "core/simd_avx512.h"
#endif
