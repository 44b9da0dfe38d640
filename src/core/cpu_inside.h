/* src/core/cpu_inside.h - what this processor can do */
#ifndef TINYI_CPU_H
#define TINYI_CPU_H
#include "core/config.h"
TINYI_C_BEGIN

/* A feature counts when the processor has it and the system saves its registers. */
enum {
    TINY_CPU_SSE41 = 1 << 0,
    TINY_CPU_AVX2 = 1 << 1,                 /* with FMA and F16C */
    TINY_CPU_AVXVNNI = 1 << 2,
    TINY_CPU_AVX512 = 1 << 3,               /* F, BW, DQ, VL, CD */
    TINY_CPU_AVX512VNNI = 1 << 4,
    TINY_CPU_AVX512VBMI = 1 << 5,
    TINY_CPU_AVX512BF16 = 1 << 6,
    TINY_CPU_AVX512FP16 = 1 << 7,
    TINY_CPU_AMX_TILE = 1 << 8,
    TINY_CPU_AMX_INT8 = 1 << 9,
    TINY_CPU_AMX_BF16 = 1 << 10,
    TINY_CPU_AVX512POPCNT = 1 << 11,        /* VPOPCNTDQ */
    TINY_CPU_SHA = 1 << 12,                 /* SHA instructions of x86; needs SSE4.1 only */
    TINY_CPU_HALVES = 1 << 13,              /* it has AVX512 and executes 512 bits as two halves, one after the other */
    TINY_CPU_BMI2 = 1 << 14,
    TINY_CPU_NEON = 1 << 16,                /* 64-bit ARM */
    TINY_CPU_DOTPROD = 1 << 17,
    TINY_CPU_I8MM = 1 << 18,
    TINY_CPU_BF16_ARM = 1 << 19,
    TINY_CPU_FP16_ARM = 1 << 20,            /* arithmetic, not only conversion */
    TINY_CPU_SHA_ARM = 1 << 21              /* SHA-256 */
};

TINYI_FN unsigned tinyi_cpu_features(void);     /* the same at every call; costs microseconds */
/* zero, one: registers a, b, c, d of CPUID leaves 0 and 1; paths: a of leaf 0x8000001a, 0 if there is none */
TINYI_FN int tinyi_cpu_halves(const unsigned *zero, const unsigned *one, unsigned paths);
/* Linux lends the tile registers to a process that asks once. Nonzero: they may be used. */
TINYI_FN int tinyi_amx_permission(void);
TINYI_FN int tinyi_cpu_count(void);             /* processors that this process may run on, at least 1 */
/* bytes of the data cache of level 1 or 2, or of the last one for 3; a guess where unknown */
TINYI_FN size_t tinyi_cpu_cache(int level);

/* Of this thread: the processor it runs on (-1: unknown), and its number for tinyi_cpu_used (0: unknown). */
TINYI_FN int tinyi_cpu_here(void);
TINYI_FN long tinyi_cpu_thread(void);
/* pages that this process had to wait for a disk for; 0 where the system does not tell */
TINYI_FN uint64_t tinyi_cpu_faults(void);
/* nanoseconds of processor time, of a thread of this process; 0 where the system does not tell */
TINYI_FN uint64_t tinyi_cpu_used(long thread);

TINYI_C_END
#endif
