/* src/math/table_inside.h - inside the table: its rows, and the kernel slots that each target fills */
#ifndef TINYI_TABLE_H
#define TINYI_TABLE_H
#include "core/state_inside.h"
#include "core/target.h"
#include "core/cpu_inside.h"
#include "core/conform.h"
#include "math/ops.h"
#include "math/optim.h"
#include "math/grad_inside.h"
#include <math.h>                           /* INFINITY; no function of it is called */
TINYI_C_BEGIN

#define TINYI_KERNELS(K)                                                                                \
    TINYI_KERNELS_BINARY(K) TINYI_KERNELS_ELEM(K) TINYI_KERNELS_CONVERT(K) TINYI_KERNELS_REDUCE(K)      \
    TINYI_KERNELS_SOFTMAX(K) TINYI_KERNELS_NORM(K) TINYI_KERNELS_MATMUL(K) TINYI_KERNELS_LAYOUT(K)      \
    TINYI_KERNELS_CONV(K) TINYI_KERNELS_SORT(K) TINYI_KERNELS_FFT(K) TINYI_KERNELS_FWHT(K) TINYI_KERNELS_ATTENTION(K) \
    TINYI_KERNELS_LINALG(K) TINYI_KERNELS_SLOPE(K) TINYI_KERNELS_OPTIM(K) TINYI_KERNELS_EDGES(K)      \
    TINYI_KERNELS_GLA(K) TINYI_KERNELS_TWIST(K)

/* of one target each slot is a declaration, and what is left out has none */
#if TINYI_BY_NAME
#ifdef TINYI_NO_CONV
#undef TINYI_KERNELS_CONV
#define TINYI_KERNELS_CONV(K)
#endif
#ifdef TINYI_NO_TRANSFORM
#undef TINYI_KERNELS_FFT
#define TINYI_KERNELS_FFT(K)
#undef TINYI_KERNELS_FWHT
#define TINYI_KERNELS_FWHT(K)
#endif
#ifdef TINYI_NO_LINALG
#undef TINYI_KERNELS_LINALG
#define TINYI_KERNELS_LINALG(K)
#endif
#ifdef TINYI_NO_EDGES
#undef TINYI_KERNELS_EDGES
#define TINYI_KERNELS_EDGES(K)
#endif
#ifdef TINYI_NO_TRAIN
#undef TINYI_KERNELS_SLOPE
#define TINYI_KERNELS_SLOPE(K)
#undef TINYI_KERNELS_OPTIM
#define TINYI_KERNELS_OPTIM(K)
#undef TINYI_KERNELS_TWIST
#define TINYI_KERNELS_TWIST(K)
#endif
#endif

#define TINYI_SLOT_ENUM(name, type, params) TINYI_K_##name,
enum { TINYI_KERNELS(TINYI_SLOT_ENUM) TINYI_K_COUNT };
#undef TINYI_SLOT_ENUM

#define TINYI_SLOT_TYPE(name, type, params) typedef type (*tinyi_fn_##name) params;
TINYI_KERNELS(TINYI_SLOT_TYPE)
#undef TINYI_SLOT_TYPE

#if TINYI_BY_NAME
#define TINYI_SLOT_FIELD(name, type, params)
#else
#define TINYI_SLOT_FIELD(name, type, params) tinyi_fn_##name name;
#endif
/* the kernels gemm_f32_* as math/gemm.c takes them: of avx2 where a target of 512 bits works in halves. In their own
 * slots other drivers find those of the target, by whose width they lay out their data. */
typedef struct tinyi_gemm_kernels {
    tinyi_fn_gemm_f32_shape shape;
    tinyi_fn_gemm_f32_pack pack;
    tinyi_fn_gemm_f32_turn turn;
    tinyi_fn_gemm_f32_tile tile;
    tinyi_fn_gemm_f32_rows rows;
} tinyi_gemm_kernels;
typedef struct tiny_kernels {
    TINYI_KERNELS(TINYI_SLOT_FIELD)
    unsigned cpu;                           /* features of this processor, for variants inside a target */
    tiny_target target;
    size_t cache[4];                        /* bytes of its data caches, by level; [3]: of the last one */
    unsigned char from[TINYI_K_COUNT];      /* the target that each slot was taken from */
#if !TINYI_BY_NAME
    tinyi_gemm_kernels gemm;
#endif
} tinyi_kernels;
#if !TINYI_BY_NAME
TINYI_FN void tinyi_gemm_lend(tinyi_kernels *k, const tinyi_kernels *from);     /* fills k->gemm */
#endif
#undef TINYI_SLOT_FIELD

TINYI_FN tiny_idx tinyi_softmax_block(const tinyi_kernels *k);      /* values that may be summed in float */

/* Each family's .c defines its rows as TINYI_ROW tinyi_row_name = { ... };  math/ops.c stands after them all. */
#if TINYI_WHOLE
#define TINYI_ROW static const TINYI_UNUSED tiny_op_row
#else
#define TINYI_ROW const tiny_op_row
#define TINYI_ROW_DECLARE(KIND, name) extern const tiny_op_row tinyi_row_##name;
TINYI_OPS(TINYI_ROW_DECLARE)
#undef TINYI_ROW_DECLARE
#endif

/* TINYI_OF: a kernel of a table. TINYI_USE stands in the use functions of the kernel files. Of one target the kernels
 * are called by name. */
#if TINYI_BY_NAME
#if TINYI_HAVE_W128
#define TINYI_ONLY_BEGIN TINYI_TARGET_BEGIN_W128
#define TINYI_ONLY_END TINYI_TARGET_END_W128
#define TINYI_ONLY_FN(f) TINYI_CAT(f, _w128)
#elif TINYI_HAVE_NEON
#define TINYI_ONLY_BEGIN TINYI_TARGET_BEGIN_NEON
#define TINYI_ONLY_END TINYI_TARGET_END_NEON
#define TINYI_ONLY_FN(f) TINYI_CAT(f, _neon)
#elif TINYI_HAVE_AVX2
#define TINYI_ONLY_BEGIN TINYI_TARGET_BEGIN_AVX2
#define TINYI_ONLY_END TINYI_TARGET_END_AVX2
#define TINYI_ONLY_FN(f) TINYI_CAT(f, _avx2)
#elif TINYI_HAVE_AVX512
#define TINYI_ONLY_BEGIN TINYI_TARGET_BEGIN_AVX512
#define TINYI_ONLY_END TINYI_TARGET_END_AVX512
#define TINYI_ONLY_FN(f) TINYI_CAT(f, _avx512)
#else
#define TINYI_ONLY_BEGIN TINYI_TARGET_BEGIN_SCALAR
#define TINYI_ONLY_END TINYI_TARGET_END_SCALAR
#define TINYI_ONLY_FN(f) TINYI_CAT(f, _scalar)
#endif
#define TINYI_SLOT_DECLARE(name, type, params) static type TINYI_ONLY_FN(tinyi_##name) params TINYI_UNUSED;
TINYI_ONLY_BEGIN
TINYI_KERNELS(TINYI_SLOT_DECLARE)
TINYI_ONLY_END
#undef TINYI_SLOT_DECLARE
#define TINYI_OF(k, name) ((void)(k), TINYI_ONLY_FN(tinyi_##name))
#define TINYI_USE(k, f) ((void)(k))
#else
#define TINYI_OF(k, name) ((k)->name)
#define TINYI_USE(k, f) ((k)->f = TINY_FN(tinyi_##f), (k)->from[TINYI_K_##f] = (unsigned char)TINYI_PASS_TARGET)
#endif
/* A kernel of the team's target; notes where it came from, so that a test can prove which one ran. */
#define TINYI_K(team, name) ((team)->ran_on = (tiny_target)(team)->k->from[TINYI_K_##name], TINYI_OF((team)->k, name))

/* A family of llm or gnn gives its kernels as a table for each target. Its header declares the tables with
 * TINYI_TABLES(type, x), its kernels make them with TINYI_TABLE(type, x, table), and one .c file makes x_of, which
 * chooses by the target, with TINYI_TABLE_CHOICE(type, x). The _EXTRA forms have a table for each further pass of avx2
 * and neon, and that of half vectors for avx512. */
#define TINYI_TEXT_OF(x) #x
#define TINYI_TEXT(x) TINYI_TEXT_OF(x)
#define TINYI_PASS_NAME &TINYI_TEXT(TINYI_SUFFIX)[1]     /* of a pass, in its kernels: without the underscore */
#define TINYI_TABLE_DECLARE(PASS, suffix, type, x) \
    TINYI_AHEAD(PASS, TINYI_FN const type *x##_##suffix(unsigned cpu);)
#define TINYI_TABLES(type, x) \
    TINYI_FOR_PLAIN(TINYI_TABLE_DECLARE, type, x) TINYI_FN const type *x##_of(const tinyi_kernels *k);
#define TINYI_TABLES_EXTRA(type, x)                                                              \
    TINYI_FOR_SCALAR(TINYI_TABLE_DECLARE, type, x) TINYI_FOR_W128(TINYI_TABLE_DECLARE, type, x)  \
    TINYI_FOR_NEON(TINYI_TABLE_DECLARE, type, x) TINYI_FOR_AVX2(TINYI_TABLE_DECLARE, type, x)    \
    TINYI_FOR_AVX512HALF(TINYI_TABLE_DECLARE, type, x) TINYI_FOR_EXTRA(TINYI_TABLE_DECLARE, type, x) \
    TINYI_FN const type *x##_of(const tinyi_kernels *k);
#define TINYI_TABLE(type, x, table) TINYI_FN const type *TINY_FN(x)(unsigned cpu) { (void)cpu; return &(table); }

#define TINYI_TABLE_CASE(PASS, suffix, type, x) case TINY_TARGET_##PASS: return x##_##suffix(k->cpu);
#define TINYI_TABLE_TILES(PASS, suffix, type, x) \
    case TINY_TARGET_AMX: case TINY_TARGET_AVX512: return x##_##suffix(k->cpu);
#define TINYI_TABLE_REST(PASS, suffix, type, x) return x##_##suffix(k->cpu);
#define TINYI_TABLE_WITH_DOT(PASS, suffix, type, x) if (k->cpu & TINY_CPU_DOTPROD) return x##_##suffix(k->cpu);
#define TINYI_TABLE_WITH_MM(PASS, suffix, type, x) \
    if ((k->cpu & TINY_CPU_DOTPROD) && (k->cpu & TINY_CPU_I8MM)) return x##_##suffix(k->cpu);
#define TINYI_TABLE_WITH_VNNI(PASS, suffix, type, x) if (k->cpu & TINY_CPU_AVXVNNI) return x##_##suffix(k->cpu);
#define TINYI_TABLE_NEON(PASS, suffix, type, x) \
    case TINY_TARGET_NEON:                                                                      \
        TINYI_FOR_NEONMM(TINYI_TABLE_WITH_MM, type, x)                                          \
        TINYI_FOR_NEONDOT(TINYI_TABLE_WITH_DOT, type, x)                                        \
        return x##_##suffix(k->cpu);
#define TINYI_TABLE_AVX2(PASS, suffix, type, x) \
    case TINY_TARGET_AVX2: TINYI_FOR_AVX2VNNI(TINYI_TABLE_WITH_VNNI, type, x) return x##_##suffix(k->cpu);
#define TINYI_TABLE_CHOOSE(type, x, NEON, AVX2, AVX512)                                               \
    TINYI_FN const type *x##_of(const tinyi_kernels *k)                                         \
    {                                                                                           \
        switch (k->target) {                                                                    \
        TINYI_FOR_W128(TINYI_TABLE_CASE, type, x)                                               \
        TINYI_FOR_NEON(NEON, type, x)                                                           \
        TINYI_FOR_AVX2(AVX2, type, x)                                                           \
        AVX512(TINYI_TABLE_TILES, type, x)                                                      \
        default: break;                                                                         \
        }                                                                                       \
        TINYI_FOR_SCALAR(TINYI_TABLE_REST, type, x)                                             \
        TINYI_TABLE_NONE                                                                        \
    }
#if TINYI_HAVE_SCALAR
#define TINYI_TABLE_NONE
#else
#define TINYI_TABLE_NONE return NULL;       /* no kernels come from it */
#endif
#define TINYI_TABLE_CHOICE(type, x) \
    TINYI_TABLE_CHOOSE(type, x, TINYI_TABLE_CASE, TINYI_TABLE_CASE, TINYI_FOR_AVX512)
#define TINYI_TABLE_CHOICE_EXTRA(type, x) \
    TINYI_TABLE_CHOOSE(type, x, TINYI_TABLE_NEON, TINYI_TABLE_AVX2, TINYI_FOR_AVX512HALF)

TINYI_C_END
#endif
