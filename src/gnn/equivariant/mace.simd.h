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
#define R_SILU NULL
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
#undef R_SILU

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
#define r_min _mm512_min_pd
#define r_max _mm512_max_pd
#define r_div _mm512_div_pd
#define r_scale(t, one)                                                                                       \
    _mm512_castsi512_pd(_mm512_add_epi64(_mm512_slli_epi64(_mm512_castpd_si512(t), 52), _mm512_castpd_si512(one)))
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
#define r_min _mm256_min_pd
#define r_max _mm256_max_pd
#define r_div _mm256_div_pd
#define r_scale(t, one)                                                                                       \
    _mm256_castsi256_pd(_mm256_add_epi64(_mm256_slli_epi64(_mm256_castpd_si256(t), 52), _mm256_castpd_si256(one)))
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
#define r_min vminq_f64
#define r_max vmaxq_f64
#define r_div vdivq_f64
#define r_scale(t, one)                                                                                       \
    vreinterpretq_f64_s64(vaddq_s64(vshlq_n_s64(vreinterpretq_s64_f64(t), 52), vreinterpretq_s64_f64(one)))
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
#define r_min R_SSE(min_pd)
#define r_max R_SSE(max_pd)
#define r_div R_SSE(div_pd)
#define r_scale(t, one)                                                                                       \
    R_SSE(castsi128_pd)(R_SSE(add_epi64)(R_SSE(slli_epi64)(R_SSE(castpd_si128)(t), 52), R_SSE(castpd_si128)(one)))
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
#define r_min(a, b) ((a) < (b) ? (a) : (b))
#define r_max(a, b) ((a) > (b) ? (a) : (b))
#define r_div(a, b) ((a) / (b))
#define r_scale(t, one) tinyi_bits_f64((tinyi_f64_bits(t) << 52) + tinyi_f64_bits(one))
#endif

/* exp(-z) = 2^n exp(r), |r| <= log 2 / 2, by its series to r^13, whose rest is below 1e-17. The sum with 1.5 2^52
 * rounds to n and leaves it in the lowest bits; r_scale moves them to the exponent of one. */
static void TINY_FN(tinyi_mace_silu_f64)(double *z, double *dz, size_t n)
{
    static const double series[12] = { 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                                       1.0 / 362880.0,     1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,
                                       1.0 / 120.0,        1.0 / 24.0,        1.0 / 6.0,        0.5 };
    const r_vec one = r_set(1.0), minus = r_set(-1.0), most = r_set(700.0), least = r_set(-700.0),
                round = r_set(6755399441055744.0);
    size_t i;
    int k;
    for (i = 0; i < n; i += R_LANES) {
        const r_vec x = r_load(z + i), a = r_mul(minus, r_max(r_min(x, most), least)),
                    t = r_add(r_mul(a, r_set(1.4426950408889634074)), round), whole = r_add(t, r_mul(minus, round)),
                    r = r_fma(whole, r_set(-1.90821492927058770002e-10),
                              r_fma(whole, r_set(-0.693147180369123816490), a));
        r_vec p = r_set(series[0]), s;
        for (k = 1; k < 12; k++) p = r_fma(p, r, r_set(series[k]));
        p = r_fma(r_fma(p, r, one), r, one);
        s = r_div(one, r_fma(p, r_scale(t, one), one));
        if (dz) {
            const r_vec rest = r_fma(r_mul(minus, s), x, r_add(x, one));       /* 1 + x (1 - s) */
            r_store(dz + i, r_mul(r_load(dz + i), r_mul(s, rest)));
        }
        r_store(z + i, r_mul(x, s));
    }
}
#define R_SILU TINY_FN(tinyi_mace_silu_f64)
#include "gnn/equivariant/mace_real.simd.h"

static const tinyi_mace_pair TINY_FN(tinyi_mace_pair_table) = { { &TINY_FN(tinyi_mace_table_f32),
                                                                  &TINY_FN(tinyi_mace_table_f64) } };
TINYI_TABLE(tinyi_mace_pair, tinyi_mace_pair, TINY_FN(tinyi_mace_pair_table))
#undef R_FN
#undef R_T
#undef R_LANES
#undef R_SSE
#undef R_SILU
#undef r_min
#undef r_max
#undef r_div
#undef r_scale
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
