/* src/core/config.h - the options of the user, and the differences between compilers
 *
 * Options. Define them before the include:
 *   TINY_STATIC        every function is static: a private copy in one unit
 *   TINY_NO_OPENMP     no OpenMP, even if the compiler offers it
 *   TINY_PTHREAD       uses POSIX threads even without OpenMP; link with -pthread
 *   TINY_NO_SIMD       only the scalar target
 *   TINY_NO_SIMDE      no w128 target through SIMDe (x86 has a native one)
 *   TINY_ARM_FLUSH     the w128 target on 32-bit ARM too, although its vectors flush denormal numbers to zero
 *   TINY_NO_W128, TINY_NO_AVX2, TINY_NO_AVX512, TINY_NO_AMX
 *                      without these targets and those that build on them; docs/guide/limits.md has program sizes
 *   TINY_ONLY_TARGET   only this target (scalar, w128, neon, avx2, avx512): -DTINY_ONLY_TARGET=avx2. Nothing is chosen
 *                      at run time, and tiny_ctx_open fails on a processor without it. Implies TINY_NO_CONFORM
 *   TINY_NO_VNNI       no VNNI kernels in the avx2 target, for processors with VNNI but without AVX-512
 *   TINY_NO_STDIO      no files: bytes come from memory only
 *   TINY_NO_MALLOC     no default allocator: every context needs one from the program
 *   TINY_NO_HUGE_PAGES no pages of 2 MB for large blocks of the default allocator (Linux; see core/mem.h)
 *   TINY_NO_MESSAGES   no specific error sentences: the message of a context is the text of its status
 *   TINYLLM_ONLY_CHAT  (tinyllm.h) only the functions that continue a text: see the manual of tinyllm.h
 *   TINY_ASSERT(x)     checks the library's own invariants; empty unless defined */
#ifndef TINYI_CONFIG_H
#define TINYI_CONFIG_H

#ifdef TINY_ONLY_MODELS
#error "tiny: TINY_ONLY_MODELS is the default: do not define it; TINYLLM_TOOLS, TINYLLM_LAB, TINYLLM_ALL add features"
#endif
#if defined TINY_ONLY_TARGET && !defined TINY_NO_CONFORM
#define TINY_NO_CONFORM                     /* the kit also needs the scalar kernels */
#endif
/* 1 if the feature X of src/features.txt is in this program, else 0; also for #if. A removed feature has
 * TINYI_NO_X, which is 1. */
#define TINYI_HAS(X) TINYI_HAS_1(TINYI_NO_##X)
#define TINYI_HAS_1(no) TINYI_HAS_2(no)
#define TINYI_HAS_2(no) TINYI_HAS_3(TINYI_LEFT_OUT_##no)
#define TINYI_HAS_3(comma) TINYI_SECOND_OF(comma 0, 1, 0)
#define TINYI_LEFT_OUT_1 0,
#define TINYI_SECOND_OF(a, b, ...) b

#include <stddef.h>
#include <stdint.h>
#include <limits.h>

/* the one place that has the version: headers, packages and make dist take it from here */
#define TINY_VERSION_MAJOR 0
#define TINY_VERSION_MINOR 2
#define TINY_VERSION_PATCH 0
#define TINY_VERSION (TINY_VERSION_MAJOR * 10000 + TINY_VERSION_MINOR * 100 + TINY_VERSION_PATCH)

#if defined __GNUC__ || defined __clang__
#define TINYI_UNUSED __attribute__((unused))
#define TINYI_NOINLINE __attribute__((noinline))
#if defined __MINGW32__ && !defined __clang__
#define TINYI_PRINTF(f, a) __attribute__((format(gnu_printf, f, a)))
#else
#define TINYI_PRINTF(f, a) __attribute__((format(printf, f, a)))
#endif
#else
#define TINYI_UNUSED
#define TINYI_NOINLINE
#define TINYI_PRINTF(f, a)
#endif

#if defined __cplusplus || (defined __STDC_VERSION__ && __STDC_VERSION__ >= 199901L)
#define TINYI_INLINE static inline TINYI_UNUSED
#else
#define TINYI_INLINE static TINYI_UNUSED
#endif
#if defined __GNUC__ || defined __clang__
#define TINYI_FORCE_INLINE static inline __attribute__((always_inline, unused))
#else
#define TINYI_FORCE_INLINE TINYI_INLINE
#endif

/* Internal functions that several files share. In the stitched headers they are private to the unit; in src/ each file
 * is compiled alone and linked. TINYI_OPEN makes them visible to tests of internal functions. */
#ifndef TINYI_PARTED                        /* one unit has all bodies; see stitch.c */
#define TINYI_PARTED 0
#define TINYI_SLICE(i) 1
#define TINYI_PASS_HERE(pass) 1
#endif
#if defined TINYI_STITCHED && !TINYI_PARTED
#define TINYI_WHOLE 1
#else
#define TINYI_WHOLE 0
#endif
#if TINYI_WHOLE && !defined TINYI_OPEN
#define TINYI_FN static TINYI_UNUSED
#elif TINYI_PARTED && (defined __GNUC__ || defined __clang__) && !defined _WIN32
#define TINYI_FN __attribute__((visibility("hidden")))
#else
#define TINYI_FN
#endif

#if defined __GNUC__ || defined __clang__ || defined _MSC_VER
#define TINYI_RESTRICT __restrict
#else
#define TINYI_RESTRICT
#endif

#ifdef __cplusplus
#define TINYI_C_BEGIN extern "C" {
#define TINYI_C_END }
#else
#define TINYI_C_BEGIN
#define TINYI_C_END
#endif

/* The declaration of a public function begins its line with TINY_API: src/stitch.c reads these declarations and gives
 * the function a link name for each header. */
#ifndef TINY_API
#ifdef TINY_STATIC
#define TINY_API static TINYI_UNUSED
#else
#define TINY_API
#endif
#endif

/* Marks, after TINY_API, a shared function whose result depends on the operations of the header. Each header has its
 * own body of it, made by TINYI_DOORS (core/state_inside.h), and does not forward it. */
#define TINYI_EACH

#ifndef TINY_ASSERT
#define TINY_ASSERT(x) ((void)0)
#endif

/* The reference gives the same bits everywhere: no contraction to fma, no reassociation, no excess precision. Compiler
 * modes that cannot guarantee this are errors. */
#if defined __FLT_EVAL_METHOD__ && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16 && \
    !defined TINY_ALLOW_EXCESS_PRECISION
#error \
    "tiny: this compiler keeps extra bits in float arithmetic; on 32-bit x86 add -msse2 -mfpmath=sse, \
on s390x -fexcess-precision=fast or -std=gnu99"
#endif                                      /* 16: extra bits for _Float16 only */
#if defined __clang__ && defined __FAST_MATH__
#error "tiny: clang cannot turn -ffast-math off for the reference; compile this file without it"
#endif

#if defined __clang__
#define TINY_REF_BEGIN _Pragma("STDC FP_CONTRACT OFF")
#define TINY_REF_END _Pragma("STDC FP_CONTRACT DEFAULT")
#elif defined __GNUC__
#define TINY_REF_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"no-fast-math\", \"fp-contract=off\")")
#define TINY_REF_END _Pragma("GCC pop_options")
#elif defined _MSC_VER
#define TINY_REF_BEGIN __pragma(float_control(precise, on, push)) __pragma(fp_contract(off))
#define TINY_REF_END __pragma(float_control(pop))
#else
#define TINY_REF_BEGIN
#define TINY_REF_END
#endif

typedef ptrdiff_t tiny_idx;                 /* a size or an index; negative values are errors */
#define TINY_IDX_MAX PTRDIFF_MAX

#define TINYI_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TINYI_CAT2(a, b) a##b
#define TINYI_CAT(a, b) TINYI_CAT2(a, b)
#define TINYI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TINYI_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
