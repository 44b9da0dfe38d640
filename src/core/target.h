/* src/core/target.h - the targets that this compiler can make, and how they are switched on
 *
 * One binary holds every target of its architecture. A pass compiles a file of kernels for one target.
 * core/each_target.h makes the passes of this program:
 *
 *     #define TINYI_PASS_FILE "math/kernels.h"             core/simd.h first, core/simd_unname.h last
 *     #include "core/each_target.h"
 *
 * math, llm and gnn each have one such file, kernels.h, and one targets.c that compiles it. A stitched header holds all
 * of them at its end and includes itself once for each pass.
 *
 *   pass       lanes  needs                                        target in reports
 *   SCALAR     1      nothing                                      scalar
 *   W128       4      x86: SSE4.1; elsewhere SIMDe                 w128
 *   NEON       4      aarch64                                      neon
 *   NEONDOT    4      aarch64 with dotprod                         neon
 *   NEONMM     4      aarch64 with dotprod and i8mm                neon
 *   AVX2       8      AVX2, FMA, F16C                              avx2
 *   AVX2VNNI   8      the same and AVX-VNNI                        avx2
 *   AVX512     16     AVX-512 F, BW, DQ, VL, CD and VNNI           avx512
 *   AVX512HALF 8      the same                                     avx512
 *   AMX        16     the same and VBMI, BF16, AMX tile/int8/bf16  amx
 *
 * A processor with AVX-512 but without its VNNI (Skylake-X) uses avx2. NEONDOT and AVX2VNNI compile only the kernels
 * that gain from a faster v_dot, NEONMM those that multiply pairs of rows, AVX512HALF those that are fastest in vectors
 * of half the width (the same source as AVX2VNNI). In a pass the compiler may not fuse v_mul with v_add, and
 * -ffast-math is off: so all compilers give the same bits. */
#ifndef TINYI_TARGET_H
#define TINYI_TARGET_H
#include "core/half_inside.h"

/* values of TINYI_PASS */
#define TINYI_PASS_SCALAR 1
#define TINYI_PASS_W128 2
#define TINYI_PASS_NEON 3
#define TINYI_PASS_NEONDOT 4
#define TINYI_PASS_NEONMM 5
#define TINYI_PASS_AVX2 6
#define TINYI_PASS_AVX2VNNI 7
#define TINYI_PASS_AVX512 9
#define TINYI_PASS_AVX512HALF 10
#define TINYI_PASS_AMX 8
#if defined __x86_64__ || defined _M_X64 || defined __i386__ || defined _M_IX86
#define TINYI_X86 1
#else
#define TINYI_X86 0
#endif
#if (defined __aarch64__ || defined _M_ARM64) && !defined __AARCH64EB__
#define TINYI_ARM64 1
#else
#define TINYI_ARM64 0
#endif

/* The major version of a compiler with known intrinsics and target switches, else 0. Apple numbers its clang
 * differently, but every version in use is new enough for the tests below. */
#if defined __clang__
#define TINYI_CLANG __clang_major__
#define TINYI_GCC 0
#elif defined __GNUC__ && !defined __TINYC__
#define TINYI_CLANG 0
#define TINYI_GCC __GNUC__
#else
#define TINYI_CLANG 0
#define TINYI_GCC 0
#endif
#if defined _MSC_VER && !defined __clang__
#define TINYI_MSVC _MSC_VER
#else
#define TINYI_MSVC 0
#endif

/* before a loop of few constant rounds over vectors in an array: gcc at -O2 keeps the array in memory otherwise */
#if TINYI_GCC >= 8
#define TINYI_UNROLL _Pragma("GCC unroll 16")
#elif TINYI_CLANG
#define TINYI_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TINYI_UNROLL
#endif

#define TINYI_HAVE_SCALAR 1
#if defined TINY_NO_SIMD || !(TINYI_GCC || TINYI_CLANG || TINYI_MSVC)
#define TINYI_HAVE_W128 0
#define TINYI_HAVE_NEON 0
#define TINYI_HAVE_NEONDOT 0
#define TINYI_HAVE_AVX2 0
#define TINYI_HAVE_AVX2VNNI 0
#define TINYI_HAVE_AVX512 0
#define TINYI_HAVE_AMX 0
#elif TINYI_X86
#define TINYI_HAVE_W128 1
#define TINYI_HAVE_NEON 0
#define TINYI_HAVE_NEONDOT 0
#if TINYI_GCC >= 9 || TINYI_CLANG >= 9 || TINYI_MSVC >= 1930
#define TINYI_HAVE_AVX2 1
#define TINYI_HAVE_AVX512 1
#else
#define TINYI_HAVE_AVX2 0
#define TINYI_HAVE_AVX512 0
#endif
#if TINYI_GCC >= 11 || TINYI_CLANG >= 12 || TINYI_MSVC >= 1930
#define TINYI_HAVE_AVX2VNNI 1
#else
#define TINYI_HAVE_AVX2VNNI 0
#endif
#if TINYI_GCC >= 10 || TINYI_CLANG >= 9
#define TINYI_HAVE_BF16 TINYI_HAVE_AVX512   /* products of bfloat16 in avx512, on processors that have them */
#endif
#if (TINYI_GCC >= 11 || TINYI_CLANG >= 12) && defined __x86_64__ && \
    defined __linux__ /* Linux grants the tiles by arch_prctl */
#define TINYI_HAVE_AMX 1
#else
#define TINYI_HAVE_AMX 0
#endif
#else
#if TINYI_ARM64
#define TINYI_HAVE_NEON 1
#ifdef __ARM_FEATURE_DOTPROD
#define TINYI_HAVE_NEONDOT 0                /* the whole file may use it: NEON has it already */
#else
#define TINYI_HAVE_NEONDOT 1
#endif
#if TINYI_GCC >= 10 || TINYI_CLANG >= 12
#define TINYI_HAVE_NEONMM 1
#endif
#else
#define TINYI_HAVE_NEON 0
#define TINYI_HAVE_NEONDOT 0
#endif
#define TINYI_HAVE_AVX2 0
#define TINYI_HAVE_AVX2VNNI 0
#define TINYI_HAVE_AVX512 0
#define TINYI_HAVE_AMX 0
/* the vectors of 32-bit ARM flush denormal numbers, which no operation here may do unless it is asked to */
#if !defined TINY_NO_SIMDE && defined __has_include && (!defined __arm__ || defined TINY_ARM_FLUSH)
#if __has_include("simde/x86/sse4.1.h")
#define TINYI_HAVE_W128 1
#endif
#endif
#ifndef TINYI_HAVE_W128
#define TINYI_HAVE_W128 0
#if !TINYI_ARM64 && !defined TINY_NO_SIMDE && !defined __arm__
#pragma message("tiny: SIMDe is not on the include path, the w128 target is left out")
#endif
#endif
#endif

#ifndef TINYI_HAVE_NEONMM
#define TINYI_HAVE_NEONMM 0
#endif
#ifndef TINYI_HAVE_BF16
#define TINYI_HAVE_BF16 0
#endif

/* Targets that the user switches off for a faster compile and a smaller program, and the targets that build on them. */
#ifdef TINY_NO_W128
#undef TINYI_HAVE_W128
#define TINYI_HAVE_W128 0
#endif
#if defined TINY_NO_AVX2
#undef TINYI_HAVE_AVX2
#define TINYI_HAVE_AVX2 0
#undef TINYI_HAVE_AVX2VNNI
#define TINYI_HAVE_AVX2VNNI 0
#endif
#ifdef TINY_NO_VNNI
#undef TINYI_HAVE_AVX2VNNI
#define TINYI_HAVE_AVX2VNNI 0
#endif
#if defined TINY_NO_AVX512 || defined TINY_NO_AVX2
#undef TINYI_HAVE_AVX512
#define TINYI_HAVE_AVX512 0
#endif
#if defined TINY_NO_AMX || defined TINY_NO_AVX512 || defined TINY_NO_AVX2
#undef TINYI_HAVE_AMX
#define TINYI_HAVE_AMX 0
#endif

/* TINY_ONLY_TARGET: one target, known at compile time. Its kernels are called by name, so unused ones are dropped. */
#ifdef TINY_ONLY_TARGET
#define TINYI_ONLY_scalar TINYI_PASS_SCALAR
#define TINYI_ONLY_w128 TINYI_PASS_W128
#define TINYI_ONLY_neon TINYI_PASS_NEON
#define TINYI_ONLY_avx2 TINYI_PASS_AVX2
#define TINYI_ONLY_avx512 TINYI_PASS_AVX512
#define TINYI_ONLY_PASS TINYI_CAT(TINYI_ONLY_, TINY_ONLY_TARGET)
#if !TINYI_ONLY_PASS
#error "tiny: TINY_ONLY_TARGET must be scalar, w128, neon, avx2 or avx512"
#undef TINY_ONLY_TARGET                     /* one sentence is enough */
#elif (TINYI_ONLY_PASS == TINYI_PASS_W128 && !TINYI_HAVE_W128) || \
    (TINYI_ONLY_PASS == TINYI_PASS_NEON && !TINYI_HAVE_NEON) ||   \
    (TINYI_ONLY_PASS == TINYI_PASS_AVX2 && !TINYI_HAVE_AVX2) ||   \
    (TINYI_ONLY_PASS == TINYI_PASS_AVX512 && !TINYI_HAVE_AVX512)
#error "tiny: this compiler, its processor or the other options do not have the target that TINY_ONLY_TARGET names"
#undef TINY_ONLY_TARGET
#endif
#endif
#ifdef TINY_ONLY_TARGET
#define TINYI_ONLY_TARGET                                      \
    (TINYI_ONLY_PASS == TINYI_PASS_SCALAR ? TINY_TARGET_SCALAR \
     : TINYI_ONLY_PASS == TINYI_PASS_W128 ? TINY_TARGET_W128   \
     : TINYI_ONLY_PASS == TINYI_PASS_NEON ? TINY_TARGET_NEON   \
     : TINYI_ONLY_PASS == TINYI_PASS_AVX2 ? TINY_TARGET_AVX2   \
                                          : TINY_TARGET_AVX512)
#if TINYI_ONLY_PASS != TINYI_PASS_SCALAR
#undef TINYI_HAVE_SCALAR
#define TINYI_HAVE_SCALAR 0
#endif
#if TINYI_ONLY_PASS != TINYI_PASS_W128
#undef TINYI_HAVE_W128
#define TINYI_HAVE_W128 0
#endif
#if TINYI_ONLY_PASS != TINYI_PASS_NEON
#undef TINYI_HAVE_NEON
#undef TINYI_HAVE_NEONDOT
#undef TINYI_HAVE_NEONMM
#define TINYI_HAVE_NEON 0
#define TINYI_HAVE_NEONDOT 0
#define TINYI_HAVE_NEONMM 0
#endif
#if TINYI_ONLY_PASS != TINYI_PASS_AVX2
#undef TINYI_HAVE_AVX2
#undef TINYI_HAVE_AVX2VNNI
#define TINYI_HAVE_AVX2 0
#define TINYI_HAVE_AVX2VNNI 0
#endif
#if TINYI_ONLY_PASS != TINYI_PASS_AVX512
#undef TINYI_HAVE_AVX512
#define TINYI_HAVE_AVX512 0
#endif
#undef TINYI_HAVE_AMX
#define TINYI_HAVE_AMX 0
#else
#undef TINYI_ONLY_PASS
#define TINYI_ONLY_PASS 0
#endif
#define TINYI_HAVE_AVX512HALF TINYI_HAVE_AVX512
/* kernels by name: needs all bodies in one unit */
#if TINYI_ONLY_PASS && TINYI_WHOLE && !defined TINYI_OPEN
#define TINYI_BY_NAME 1
#else
#define TINYI_BY_NAME 0
#endif

/* w128 is one source in SSE4.1 intrinsics: native on x86, SIMDe elsewhere. TINYI_W128_SIMDE uses SIMDe on x86 too, for
 * tests. */
#if TINYI_HAVE_W128 && (!TINYI_X86 || defined TINYI_W128_SIMDE)
#undef TINYI_W128_SIMDE
#define TINYI_W128_SIMDE 1
#else
#undef TINYI_W128_SIMDE
#define TINYI_W128_SIMDE 0
#endif

/* Relaxed SIMD of WebAssembly (-mrelaxed-simd, clang 16 and newer): products of four bytes, which are exact where those
 * of one operand are below 128, and multiply-adds that round once or twice, as the engine can. */
#if TINYI_W128_SIMDE && defined __wasm_relaxed_simd__ && defined __has_builtin
#if __has_builtin(__builtin_wasm_relaxed_dot_i8x16_i7x16_add_s_i32x4) && \
    __has_builtin(__builtin_wasm_relaxed_madd_f32x4) && __has_builtin(__builtin_wasm_relaxed_nmadd_f32x4)
#define TINYI_W128_RELAXED 1
#endif
#endif
#ifndef TINYI_W128_RELAXED
#define TINYI_W128_RELAXED 0
#endif

#if TINYI_X86 && (TINYI_HAVE_W128 || TINYI_HAVE_AVX2 || TINYI_HAVE_AVX512)
#include <immintrin.h>
#endif
/* SSE in every function, whatever the targets: the scalar target uses its square root */
#if defined _M_X64 || (defined __SSE__ && TINYI_X86 && (TINYI_GCC || TINYI_CLANG))
#define TINYI_SSE 1
#include <xmmintrin.h>
#else
#define TINYI_SSE 0
#endif
#if TINYI_HAVE_NEON
#include <arm_neon.h>
#endif
#if TINYI_W128_SIMDE
#include "simde/x86/sse4.1.h"
#endif

/* The correctly rounded square root, in integers. */
TINYI_INLINE float tinyi_simd_sqrt_bits(float x)
{
    uint32_t u = tinyi_f32_bits(x), m, root = 0, rest = 0;
    int e, i;
    if (u << 1 == 0 || u == 0x7f800000u) return x;
    if ((u & 0x7fffffffu) > 0x7f800000u) return tinyi_bits_f32(u | 0x400000u);
    if (u >> 31) return tinyi_bits_f32(0x7fc00000u);
    e = (int)(u >> 23);
    m = u & 0x7fffffu;
    if (e) m |= 0x800000u;
    else for (e = 1; !(m & 0x800000u); e--) m <<= 1;
    /* x = m * 2^(e - 150) with m of 24 bits; e becomes odd, m is set with its point after the second bit, and each step
     * takes two bits of m and gives one of the root: 24 and one more that rounds */
    if (!(e & 1)) { m <<= 1; e--; }
    m <<= 7;
    for (i = 0; i < 25; i++) {
        uint32_t t = root << 2 | 1u;
        rest = rest << 2 | m >> 30;
        m <<= 2;
        root <<= 1;
        if (rest >= t) { rest -= t; root |= 1u; }
    }
    root = (root + 1) >> 1;                 /* never a tie: a root that ends in the 25th bit has a square of 50 bits */
    return tinyi_bits_f32(root + ((uint32_t)((e + 127) / 2 - 1) << 23));
}

/* The same by one instruction where there is one. It does not set errno. */
#if (TINYI_GCC || TINYI_CLANG) && defined __aarch64__
TINYI_FORCE_INLINE float tinyi_simd_sqrt(float x) { __asm__("fsqrt %s0, %s1" : "=w"(x) : "w"(x)); return x; }
#elif (TINYI_GCC || TINYI_CLANG) && defined __arm__ && defined __VFP_FP__ && !defined __SOFTFP__
TINYI_FORCE_INLINE float tinyi_simd_sqrt(float x) { __asm__("vsqrt.f32 %0, %1" : "=t"(x) : "t"(x)); return x; }
#elif (TINYI_GCC || TINYI_CLANG) && defined __riscv_flen
TINYI_FORCE_INLINE float tinyi_simd_sqrt(float x) { __asm__("fsqrt.s %0, %1" : "=f"(x) : "f"(x)); return x; }
#elif (TINYI_GCC || TINYI_CLANG) && defined __s390x__
TINYI_FORCE_INLINE float tinyi_simd_sqrt(float x) { __asm__("sqebr %0, %1" : "=f"(x) : "f"(x)); return x; }
#elif TINYI_SSE
TINYI_FORCE_INLINE float tinyi_simd_sqrt(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
#elif TINYI_CLANG && defined __wasm__
TINYI_FORCE_INLINE float tinyi_simd_sqrt(float x) { return __builtin_sqrtf(x); }
#else
TINYI_FORCE_INLINE float tinyi_simd_sqrt(float x) { return tinyi_simd_sqrt_bits(x); }
#endif

/* ---- switching a target on for the functions that follow */
#define TINYI_PRAGMA(x) _Pragma(#x)
#if TINYI_CLANG
#define TINYI_TARGET_BEGIN_SCALAR _Pragma("STDC FP_CONTRACT OFF")
#define TINYI_TARGET_END_SCALAR _Pragma("STDC FP_CONTRACT DEFAULT")
#define TINYI_TARGET_PUSH(list) \
    TINYI_TARGET_BEGIN_SCALAR TINYI_PRAGMA(clang attribute push(__attribute__((target(list))), apply_to = function))
#define TINYI_TARGET_END _Pragma("clang attribute pop") TINYI_TARGET_END_SCALAR
#define TINYI_ATTR(list) __attribute__((target(list)))
#elif TINYI_GCC
/* gcc 12 drops the target list when it follows a no-fast-math that changes something, and drops fp-contract=off
 * when that follows the list and nothing else changes: hence two orders. */
#define TINYI_TARGET_BEGIN_SCALAR \
    _Pragma("GCC push_options") _Pragma("GCC optimize(\"no-fast-math\", \"fp-contract=off\")")
#define TINYI_TARGET_END_SCALAR _Pragma("GCC pop_options")
#ifdef __FAST_MATH__
#define TINYI_TARGET_PUSH(list) _Pragma("GCC push_options") TINYI_PRAGMA(GCC target(list)) \
    _Pragma("GCC optimize(\"no-fast-math\", \"fp-contract=off\")")
#else
#define TINYI_TARGET_PUSH(list) _Pragma("GCC push_options") _Pragma("GCC optimize(\"fp-contract=off\")") \
    TINYI_PRAGMA(GCC target(list))
#endif
#define TINYI_TARGET_END _Pragma("GCC pop_options")
#define TINYI_ATTR(list) __attribute__((target(list)))
#elif TINYI_MSVC
#define TINYI_TARGET_BEGIN_SCALAR __pragma(float_control(precise, on, push)) __pragma(fp_contract(off))
#define TINYI_TARGET_END_SCALAR __pragma(float_control(pop))
#define TINYI_TARGET_PUSH(list) TINYI_TARGET_BEGIN_SCALAR
#define TINYI_TARGET_END TINYI_TARGET_END_SCALAR
#define TINYI_ATTR(list)
#else
#define TINYI_TARGET_BEGIN_SCALAR
#define TINYI_TARGET_END_SCALAR
#define TINYI_TARGET_END
#define TINYI_ATTR(list)
#endif

#define TINYI_LIST_AVX2 "avx2,fma,f16c"
#define TINYI_LIST_AVX512 "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vnni"
#define TINYI_LIST_AMX TINYI_LIST_AVX512 ",avx512vbmi,avx512bf16,amx-tile,amx-int8,amx-bf16"
#if TINYI_GCC /* gcc 12 warns of its own avx512 header: undefined operands in C++, masks at -O0 */
#define TINYI_QUIET_BEGIN _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wuninitialized\"") \
    _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"") _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")
#define TINYI_QUIET_END _Pragma("GCC diagnostic pop")
#else
#define TINYI_QUIET_BEGIN
#define TINYI_QUIET_END
#endif
#if TINYI_X86
#define TINYI_TARGET_BEGIN_W128 TINYI_TARGET_PUSH("sse4.1")
#define TINYI_TARGET_END_W128 TINYI_TARGET_END
#else
#define TINYI_TARGET_BEGIN_W128 TINYI_TARGET_BEGIN_SCALAR
#define TINYI_TARGET_END_W128 TINYI_TARGET_END_SCALAR
#endif
#define TINYI_TARGET_BEGIN_AVX2 TINYI_TARGET_PUSH(TINYI_LIST_AVX2)
#define TINYI_TARGET_END_AVX2 TINYI_TARGET_END
#define TINYI_TARGET_BEGIN_AVX2VNNI TINYI_TARGET_PUSH(TINYI_LIST_AVX2 ",avxvnni")
#define TINYI_TARGET_END_AVX2VNNI TINYI_TARGET_END
#define TINYI_TARGET_BEGIN_AVX512 TINYI_QUIET_BEGIN TINYI_TARGET_PUSH(TINYI_LIST_AVX512)
#define TINYI_TARGET_END_AVX512 TINYI_TARGET_END TINYI_QUIET_END
#define TINYI_TARGET_BEGIN_AVX512HALF TINYI_TARGET_BEGIN_AVX512
#define TINYI_TARGET_END_AVX512HALF TINYI_TARGET_END_AVX512
#define TINYI_TARGET_BEGIN_AMX TINYI_QUIET_BEGIN TINYI_TARGET_PUSH(TINYI_LIST_AMX)
#define TINYI_TARGET_END_AMX TINYI_TARGET_END TINYI_QUIET_END
#define TINYI_TARGET_BEGIN_NEON TINYI_TARGET_BEGIN_SCALAR
#define TINYI_TARGET_END_NEON TINYI_TARGET_END_SCALAR
/* clang before 16 has the dotprod and i8mm intrinsics only where the whole file may use them: SDOT is then written as
 * assembler, and kernels that want more test TINYI_ARM_ATTR. MSVC has all of them everywhere. */
#if TINYI_GCC || TINYI_CLANG >= 16
#define TINYI_ARM_ATTR 1
#define TINYI_DOT_ASM 0
#define TINYI_TARGET_BEGIN_NEONDOT TINYI_TARGET_PUSH("arch=armv8.2-a+dotprod")
#define TINYI_TARGET_END_NEONDOT TINYI_TARGET_END
#define TINYI_MMLA_ASM 0
#if TINYI_GCC && defined __ARM_FEATURE_DOTPROD /* the whole file may use more than armv8.2-a, and gcc inlines nothing \
                                                  by force into less */
#define TINYI_TARGET_BEGIN_NEONMM TINYI_TARGET_PUSH("+i8mm")
#else
#define TINYI_TARGET_BEGIN_NEONMM TINYI_TARGET_PUSH("arch=armv8.2-a+dotprod+i8mm")
#endif
#define TINYI_TARGET_END_NEONMM TINYI_TARGET_END
#define TINYI_ATTR_DOTPROD TINYI_ATTR("arch=armv8.2-a+dotprod")
#define TINYI_ATTR_I8MM TINYI_ATTR("arch=armv8.2-a+dotprod+i8mm")
#else
#define TINYI_ARM_ATTR TINYI_MSVC
#if TINYI_CLANG && !defined __ARM_FEATURE_DOTPROD
#define TINYI_DOT_ASM 1
#else
#define TINYI_DOT_ASM 0
#endif
#if TINYI_CLANG && !defined __ARM_FEATURE_MATMUL_INT8
#define TINYI_MMLA_ASM 1
#else
#define TINYI_MMLA_ASM 0
#endif
#define TINYI_TARGET_BEGIN_NEONMM TINYI_TARGET_PUSH("dotprod,i8mm")
#define TINYI_TARGET_END_NEONMM TINYI_TARGET_END
#if TINYI_MSVC
#define TINYI_TARGET_BEGIN_NEONDOT TINYI_TARGET_BEGIN_SCALAR
#define TINYI_TARGET_END_NEONDOT TINYI_TARGET_END_SCALAR
#else
#define TINYI_TARGET_BEGIN_NEONDOT TINYI_TARGET_PUSH("dotprod")
#define TINYI_TARGET_END_NEONDOT TINYI_TARGET_END
#endif
#define TINYI_ATTR_DOTPROD
#define TINYI_ATTR_I8MM
#endif

/* gcc 12 tells its optimiser of 8 bytes read by ldtilecfg and of none read by tileloadd, so that stores to a
 * configuration or a packed tile may sink below them: these forms keep the order. t is a literal 0..7, stride counts
 * bytes. */
#if TINYI_HAVE_AMX
#define TINYI_AMX_FENCE __asm__ volatile("" : : : "memory")
#define TINYI_AMX_CONFIG(p)            \
    do {                               \
        const void *tinyi_amx_p = (p); \
        TINYI_AMX_FENCE;               \
        _tile_loadconfig(tinyi_amx_p); \
    } while (0)
#define TINYI_AMX_LOAD(t, p, stride) do { TINYI_AMX_FENCE; _tile_loadd(t, p, stride); } while (0)
#define TINYI_AMX_STORE(t, p, stride) do { _tile_stored(t, p, stride); TINYI_AMX_FENCE; } while (0)
#endif

/* One function of a pass with a feature that only some of its processors have: for use behind a test of k->cpu. */
#define TINYI_ATTR_AVXVNNI TINYI_ATTR(TINYI_LIST_AVX2 ",avxvnni")                       /* in avx2 */
#define TINYI_ATTR_VBMI TINYI_ATTR(TINYI_LIST_AVX512 ",avx512vbmi")                     /* in avx512 */
#define TINYI_ATTR_AVX512BF16 TINYI_ATTR(TINYI_LIST_AVX512 ",avx512bf16")               /* in avx512 */
#define TINYI_ATTR_AMX TINYI_ATTR(TINYI_LIST_AMX) /* in amx, where the pass has it anyway */

/* Around a declaration that stands before the pass which has the function. clang wants to know the target there too.
 * gcc does not, and loses what follows several of its pragmas in one macro. */
#if TINYI_CLANG
#define TINYI_AHEAD(PASS, declaration) TINYI_TARGET_BEGIN_##PASS declaration TINYI_TARGET_END_##PASS
#else
#define TINYI_AHEAD(PASS, declaration) declaration
#endif

/* X(PASS, its suffix, a, b), where this program has the pass.
 * TINYI_FOR_PLAIN: for each target. TINYI_FOR_EACH: for each pass. */
#if TINYI_HAVE_SCALAR
#define TINYI_FOR_SCALAR(X, a, b) X(SCALAR, scalar, a, b)
#else
#define TINYI_FOR_SCALAR(X, a, b)
#endif
#if TINYI_HAVE_W128
#define TINYI_FOR_W128(X, a, b) X(W128, w128, a, b)
#else
#define TINYI_FOR_W128(X, a, b)
#endif
#if TINYI_HAVE_NEON
#define TINYI_FOR_NEON(X, a, b) X(NEON, neon, a, b)
#else
#define TINYI_FOR_NEON(X, a, b)
#endif
#if TINYI_HAVE_NEONDOT
#define TINYI_FOR_NEONDOT(X, a, b) X(NEONDOT, neondot, a, b)
#else
#define TINYI_FOR_NEONDOT(X, a, b)
#endif
#if TINYI_HAVE_NEONMM
#define TINYI_FOR_NEONMM(X, a, b) X(NEONMM, neonmm, a, b)
#else
#define TINYI_FOR_NEONMM(X, a, b)
#endif
#if TINYI_HAVE_AVX2
#define TINYI_FOR_AVX2(X, a, b) X(AVX2, avx2, a, b)
#else
#define TINYI_FOR_AVX2(X, a, b)
#endif
#if TINYI_HAVE_AVX2VNNI
#define TINYI_FOR_AVX2VNNI(X, a, b) X(AVX2VNNI, avx2vnni, a, b)
#else
#define TINYI_FOR_AVX2VNNI(X, a, b)
#endif
#if TINYI_HAVE_AVX512
#define TINYI_FOR_AVX512(X, a, b) X(AVX512, avx512, a, b)
#define TINYI_FOR_AVX512HALF(X, a, b) X(AVX512HALF, avx512half, a, b)
#else
#define TINYI_FOR_AVX512(X, a, b)
#define TINYI_FOR_AVX512HALF(X, a, b)
#endif
#if TINYI_HAVE_AMX
#define TINYI_FOR_AMX(X, a, b) X(AMX, amx, a, b)
#else
#define TINYI_FOR_AMX(X, a, b)
#endif
#define TINYI_FOR_PLAIN(X, a, b) \
    TINYI_FOR_SCALAR(X, a, b)    \
    TINYI_FOR_W128(X, a, b) TINYI_FOR_NEON(X, a, b) TINYI_FOR_AVX2(X, a, b) TINYI_FOR_AVX512(X, a, b)
#define TINYI_FOR_EXTRA(X, a, b) TINYI_FOR_NEONDOT(X, a, b) TINYI_FOR_NEONMM(X, a, b) TINYI_FOR_AVX2VNNI(X, a, b)
#define TINYI_FOR_EACH(X, a, b) TINYI_FOR_PLAIN(X, a, b) TINYI_FOR_EXTRA(X, a, b) TINYI_FOR_AMX(X, a, b)

#endif
