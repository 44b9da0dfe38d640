/* src/gnn/equivariant/mace.simd.h - kernels of a potential in float and in double; see mace_inside.h
 *
 * The r_ calls are the v_ layer for floats, and the same few for doubles. R_PIN keeps a broadcast where it is written
 * (math/gemm_f32.simd.h). */
#include "gnn/equivariant/mace_inside.h"

#if V_AVX512 && (TINYI_GCC || TINYI_CLANG)
#define R_PIN(s, a) __asm__("" : "+v"(s))
#elif V_AVX2 && (TINYI_GCC || TINYI_CLANG)
#define R_PIN(s, a) __asm__("" : "+x"(s))
#else
#define R_PIN(s, a) ((void)0)
#endif

#define R_FN(name) TINY_FN(TINYI_CAT(name, _f32))
#define R_T float
#define R_LANES V_LANES
#define r_vec v_f32
#define r_zero v_zero
#define r_set v_set
#define r_load v_load
#define r_store v_store
#define r_add v_add
#define r_mul v_mul
#define r_fma v_fma
#define r_sum v_sum
#include "gnn/equivariant/mace_real.simd.h"
#undef R_FN
#undef R_T
#undef R_LANES
#undef r_vec
#undef r_zero
#undef r_set
#undef r_load
#undef r_store
#undef r_add
#undef r_mul
#undef r_fma
#undef r_sum

#define R_FN(name) TINY_FN(TINYI_CAT(name, _f64))
#define R_T double
#if V_AVX512
#define R_LANES 8
#define r_vec __m512d
#define r_zero _mm512_setzero_pd
#define r_set _mm512_set1_pd
#define r_load _mm512_loadu_pd
#define r_store _mm512_storeu_pd
#define r_add _mm512_add_pd
#define r_mul _mm512_mul_pd
#define r_fma _mm512_fmadd_pd
#define r_sum _mm512_reduce_add_pd
#elif V_AVX2
#define R_LANES 4
#define r_vec __m256d
#define r_zero _mm256_setzero_pd
#define r_set _mm256_set1_pd
#define r_load _mm256_loadu_pd
#define r_store _mm256_storeu_pd
#define r_add _mm256_add_pd
#define r_mul _mm256_mul_pd
#define r_fma _mm256_fmadd_pd
#define r_sum TINY_FN(tinyi_mace_sum)
TINYI_FORCE_INLINE double r_sum(r_vec a)
{
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}
#elif V_NEON
#define R_LANES 2
#define r_vec float64x2_t
#define r_zero() vdupq_n_f64(0.0)
#define r_set vdupq_n_f64
#define r_load vld1q_f64
#define r_store vst1q_f64
#define r_add vaddq_f64
#define r_mul vmulq_f64
#define r_fma(a, b, c) vfmaq_f64(c, a, b)
#define r_sum vaddvq_f64
#elif V_W128
#define R_LANES 2
#if TINYI_W128_SIMDE
#define R_SSE(f) simde_mm_##f
#define r_vec simde__m128d
#else
#define R_SSE(f) _mm_##f
#define r_vec __m128d
#endif
#define r_zero R_SSE(setzero_pd)
#define r_set TINY_FN(tinyi_mace_set)
TINYI_FORCE_INLINE r_vec r_set(double x) { TINYI_W_LOADED(x); return R_SSE(set1_pd)(x); }
#define r_load R_SSE(loadu_pd)
#define r_store R_SSE(storeu_pd)
#define r_add R_SSE(add_pd)
#define r_mul R_SSE(mul_pd)
#define r_fma(a, b, c) R_SSE(add_pd)(R_SSE(mul_pd)(a, b), c)
#define r_sum TINY_FN(tinyi_mace_sum)
TINYI_FORCE_INLINE double r_sum(r_vec a) { return R_SSE(cvtsd_f64)(R_SSE(add_sd)(a, R_SSE(unpackhi_pd)(a, a))); }
#else
#define R_LANES 1
#define r_vec double
#define r_zero() 0.0
#define r_set(x) (x)
#define r_load(p) (*(p))
#define r_store(p, v) (*(p) = (v))
#define r_add(a, b) ((a) + (b))
#define r_mul(a, b) ((a) * (b))
#define r_fma(a, b, c) ((a) * (b) + (c))
#define r_sum(a) (a)
#endif
#include "gnn/equivariant/mace_real.simd.h"

static const tinyi_mace_pair TINY_FN(tinyi_mace_pair_table) = { { &TINY_FN(tinyi_mace_table_f32),
                                                                  &TINY_FN(tinyi_mace_table_f64) } };
TINYI_TABLE(tinyi_mace_pair, tinyi_mace_pair, TINY_FN(tinyi_mace_pair_table))
#undef R_FN
#undef R_T
#undef R_LANES
#undef R_SSE
#undef R_PIN
#undef r_vec
#undef r_zero
#undef r_set
#undef r_load
#undef r_store
#undef r_add
#undef r_mul
#undef r_fma
#undef r_sum
