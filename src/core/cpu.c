/* src/core/cpu.c - what this processor can do
 *
 * x86: Intel Software Developer's Manual vol. 2A, CPUID leaves 0, 1, 4, 7 and 0xd, XGETBV; AMD: leaf 0x8000001d for
 * caches, 0x8000001a for the width of its arithmetic.
 * ARM: the hardware capability words of the Linux kernel, sysctl names on Apple, fixed for 64-bit Windows.
 * Left out: hybrid processors whose cores differ; every core of a released one runs the same instructions.           */
#include "core/cpu_inside.h"
#include "core/target.h"

#if defined __linux__ || defined __ANDROID__
#define TINYI_CPU_LINUX 1
#include <unistd.h>
#include <sys/syscall.h>
#if TINYI_ARM64
#include <sys/auxv.h>
#endif
#ifndef TINY_NO_STDIO
#include <stdio.h>
#endif
#include <sched.h>
#include <sys/resource.h>
#ifndef __cplusplus
extern long syscall(long number, ...);      /* strict C99 hides them */
extern int sched_getcpu(void);
#endif
#else
#define TINYI_CPU_LINUX 0
#endif
#if defined _WIN32
/* windows.h is large and full of macros: these two are all we need */
#ifdef __cplusplus
extern "C" {
#endif
__declspec(dllimport) unsigned long __stdcall GetActiveProcessorCount(unsigned short group);
__declspec(dllimport) int __stdcall IsProcessorFeaturePresent(unsigned long feature);
#ifdef __cplusplus
}
#endif
#elif defined __APPLE__
#include <sys/types.h>
#include <sys/sysctl.h>
#include <unistd.h>
#elif !TINYI_CPU_LINUX && defined __unix__
#include <unistd.h>
#endif

#if TINYI_X86 && (TINYI_GCC || TINYI_CLANG)
#include <cpuid.h>
static int tinyi_cpu_id(unsigned leaf, unsigned sub, unsigned r[4])
{
    if ((unsigned)__get_cpuid_max(leaf & 0x80000000u, NULL) < leaf) return 0;
    __cpuid_count(leaf, sub, r[0], r[1], r[2], r[3]);
    return 1;
}
static uint64_t tinyi_cpu_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));     /* xgetbv */
    return (uint64_t)high << 32 | low;
}
#define TINYI_CPU_CPUID 1
#elif TINYI_X86 && TINYI_MSVC
#include <intrin.h>
static int tinyi_cpu_id(unsigned leaf, unsigned sub, unsigned r[4])
{
    int v[4];
    __cpuid(v, (int)(leaf & 0x80000000u));
    if ((unsigned)v[0] < leaf) return 0;
    __cpuidex(v, (int)leaf, (int)sub);
    r[0] = (unsigned)v[0]; r[1] = (unsigned)v[1]; r[2] = (unsigned)v[2]; r[3] = (unsigned)v[3];
    return 1;
}
static uint64_t tinyi_cpu_xcr0(void) { return _xgetbv(0); }
#define TINYI_CPU_CPUID 1
#else
#define TINYI_CPU_CPUID 0
#endif

/* AMD's family 25 has one processor with AVX-512, Zen 4. A virtual machine may hide the leaf of `paths`. */
TINYI_FN int tinyi_cpu_halves(const unsigned *zero, const unsigned *one, unsigned paths)
{
    const unsigned least = one[0] >> 8 & 15, family = least == 15 ? least + (one[0] >> 20 & 255) : least,
                   bits256 = 1u << 2, bits512 = 1u << 3;
    const int amd = zero[1] == 0x68747541 && zero[3] == 0x69746e65 && zero[2] == 0x444d4163;   /* AuthenticAMD */
    return amd && (family == 25 || ((paths & bits256) && !(paths & bits512)));
}
#if TINYI_CPU_CPUID
TINYI_FN unsigned tinyi_cpu_features(void)
{
    /* fma, osxsave, avx, f16c */
    const unsigned all_1 = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29;
    /* f, dq, cd, bw, vl */
    const unsigned all_512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    unsigned one[4], zero[4], seven[4] = { 0, 0, 0, 0 }, more[4] = { 0, 0, 0, 0 }, paths[4] = { 0, 0, 0, 0 }, f = 0;
    uint64_t saved;
    if (!tinyi_cpu_id(1, 0, one)) return 0;
    if (one[2] & 1u << 19) f |= TINY_CPU_SSE41;
    if (tinyi_cpu_id(7, 0, seven) && seven[0] >= 1) (void)tinyi_cpu_id(7, 1, more);
    if ((f & TINY_CPU_SSE41) && (seven[1] & 1u << 29)) f |= TINY_CPU_SHA;
    if (seven[1] & 1u << 8) f |= TINY_CPU_BMI2;
    if ((one[2] & all_1) != all_1 || !(seven[1] & 1u << 5)) return f;
    saved = tinyi_cpu_xcr0();
    if ((saved & 6) != 6) return f;                                         /* xmm, ymm */
    f |= TINY_CPU_AVX2;
    if (more[0] & 1u << 4) f |= TINY_CPU_AVXVNNI;
    if ((saved & 0xe0) != 0xe0 || (seven[1] & all_512) != all_512) return f;        /* masks, zmm */
    f |= TINY_CPU_AVX512;
    (void)tinyi_cpu_id(0x8000001au, 0, paths);
    if (tinyi_cpu_id(0, 0, zero) && tinyi_cpu_halves(zero, one, paths[0])) f |= TINY_CPU_HALVES;
    if (seven[2] & 1u << 1) f |= TINY_CPU_AVX512VBMI;
    if (seven[2] & 1u << 11) f |= TINY_CPU_AVX512VNNI;
    if (seven[2] & 1u << 14) f |= TINY_CPU_AVX512POPCNT;
    if (more[0] & 1u << 5) f |= TINY_CPU_AVX512BF16;
    if (seven[3] & 1u << 23) f |= TINY_CPU_AVX512FP16;
    if ((saved & 0x60000) != 0x60000) return f;                             /* tile configuration, tiles */
    if (seven[3] & 1u << 24) f |= TINY_CPU_AMX_TILE;
    if (seven[3] & 1u << 25) f |= TINY_CPU_AMX_INT8;
    if (seven[3] & 1u << 22) f |= TINY_CPU_AMX_BF16;
    return f;
}
#elif TINYI_ARM64 && TINYI_CPU_LINUX
TINYI_FN unsigned tinyi_cpu_features(void)
{
    const unsigned long one = getauxval(16), two = getauxval(26);           /* AT_HWCAP, AT_HWCAP2 */
    unsigned f = TINY_CPU_NEON;
    if (one & 1ul << 6) f |= TINY_CPU_SHA_ARM;
    if (one & 1ul << 20) f |= TINY_CPU_DOTPROD;
    if ((one & 3ul << 9) == 3ul << 9) f |= TINY_CPU_FP16_ARM;               /* scalar and vector */
    if (two & 1ul << 13) f |= TINY_CPU_I8MM;
    if (two & 1ul << 14) f |= TINY_CPU_BF16_ARM;
    return f;
}
#elif TINYI_ARM64 && defined __APPLE__
static unsigned tinyi_cpu_asks(const char *name, unsigned bit)
{
    int v = 0;
    size_t n = sizeof v;
    return !sysctlbyname(name, &v, &n, NULL, 0) && v ? bit : 0u;
}
TINYI_FN unsigned tinyi_cpu_features(void)
{
    return TINY_CPU_NEON | tinyi_cpu_asks("hw.optional.arm.FEAT_DotProd", TINY_CPU_DOTPROD) |
           tinyi_cpu_asks("hw.optional.arm.FEAT_FP16", TINY_CPU_FP16_ARM) |
           tinyi_cpu_asks("hw.optional.arm.FEAT_I8MM", TINY_CPU_I8MM) |
           tinyi_cpu_asks("hw.optional.arm.FEAT_BF16", TINY_CPU_BF16_ARM) |
           tinyi_cpu_asks("hw.optional.arm.FEAT_SHA256", TINY_CPU_SHA_ARM);
}
#elif TINYI_ARM64 && defined _WIN32
TINYI_FN unsigned tinyi_cpu_features(void)
{
    /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE, PF_ARM_V8_CRYPTO_INSTRUCTIONS_AVAILABLE */
    return TINY_CPU_NEON | (IsProcessorFeaturePresent(43) ? (unsigned)TINY_CPU_DOTPROD : 0u) |
           (IsProcessorFeaturePresent(30) ? (unsigned)TINY_CPU_SHA_ARM : 0u);
}
#elif TINYI_ARM64
TINYI_FN unsigned tinyi_cpu_features(void) { return TINY_CPU_NEON; }
#else
TINYI_FN unsigned tinyi_cpu_features(void) { return 0; }
#endif

TINYI_FN int tinyi_amx_permission(void)
{
#if TINYI_CPU_LINUX && defined __x86_64__
    return syscall(SYS_arch_prctl, 0x1023L, 18L) == 0;      /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
#else
    return 0;
#endif
}

TINYI_FN int tinyi_cpu_count(void)
{
    long n = 0;
#if TINYI_CPU_LINUX
    unsigned long set[128];                 /* room for 8192 processors on a 64-bit machine */
    long bytes = syscall(SYS_sched_getaffinity, 0L, sizeof set, set);
    size_t i;
    for (i = 0; bytes > 0 && i < (size_t)bytes / sizeof set[0]; i++) {
        unsigned long w = set[i];
        for (; w; w &= w - 1) n++;
    }
#endif
#if defined _WIN32
    n = (long)GetActiveProcessorCount(0xffff);      /* of all groups */
#elif defined _SC_NPROCESSORS_ONLN
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return n < 1 ? 1 : n > 1 << 20 ? 1 << 20 : (int)n;
}

TINYI_FN int tinyi_cpu_here(void)
{
#if TINYI_CPU_LINUX
    return sched_getcpu();
#else
    return -1;
#endif
}

TINYI_FN long tinyi_cpu_thread(void)
{
#if TINYI_CPU_LINUX
    return syscall(SYS_gettid);
#else
    return 0;
#endif
}

TINYI_FN uint64_t tinyi_cpu_faults(void)
{
#if TINYI_CPU_LINUX
    struct rusage u;
    if (!getrusage(RUSAGE_SELF, &u)) return (uint64_t)u.ru_majflt;
#endif
    return 0;
}

TINYI_FN uint64_t tinyi_cpu_used(long thread)
{
#if TINYI_CPU_LINUX && defined SYS_clock_gettime && !(defined __x86_64__ && defined __ILP32__)
    long t[2]; /* the clock of a thread: pthread_getcpuclockid, which strict C99 hides, makes it so too */
    if (thread > 0 && !syscall(SYS_clock_gettime, ~thread * 8 | 6, t))
        return (uint64_t)t[0] * 1000000000u + (uint64_t)t[1];
#endif
    (void)thread;
    return 0;
}

TINYI_FN size_t tinyi_cpu_cache(int level)
{
    static const size_t usual[4] = { 0, (size_t)32 << 10, (size_t)256 << 10, (size_t)2 << 20 };
    size_t found = 0;
    if (level < 1 || level > 3) return 0;
#if TINYI_CPU_CPUID
    {
        unsigned r[4], i, leaf = 4;
        if (tinyi_cpu_id(0x80000001u, 0, r) && r[2] & 1u << 22) leaf = 0x8000001du;     /* AMD's topology extensions */
        for (i = 0; i < 16 && tinyi_cpu_id(leaf, i, r) && (r[0] & 31u); i++) {
            const size_t bytes =
                ((size_t)(r[1] >> 22) + 1) * ((r[1] >> 12 & 0x3ffu) + 1) * ((r[1] & 0xfffu) + 1) * ((size_t)r[2] + 1);
            if ((r[0] & 31u) == 2) continue;                                /* instructions */
            if ((int)(r[0] >> 5 & 7u) == level || (level == 3 && (r[0] >> 5 & 7u) >= 2 && bytes > found)) found = bytes;
        }
    }
#elif TINYI_CPU_LINUX && !defined TINY_NO_STDIO
    {
        char path[64], type[16];
        unsigned long size;
        int i, at;
        for (i = 0; i < 8; i++) {
            FILE *f;
            at = 0;
            type[0] = 0;
            size = 0;
            (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
            f = fopen(path, "r");
            if (!f) break;
            if (fscanf(f, "%d", &at) != 1) at = 0;
            fclose(f);
            (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
            f = fopen(path, "r");
            if (f) { if (fscanf(f, "%15s", type) != 1) type[0] = 0; fclose(f); }
            (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
            f = fopen(path, "r");
            if (f) { if (fscanf(f, "%luK", &size) != 1) size = 0; fclose(f); }
            if (type[0] == 'I' || size > 1ul << 21) continue;
            size *= 1024;
            if (at == level || (level == 3 && at >= 2 && size > found)) found = size;
        }
    }
#elif defined __APPLE__
    {
        static const char *const names[4] = { "", "hw.l1dcachesize", "hw.l2cachesize", "hw.l2cachesize" };
        uint64_t v = 0;
        size_t n = sizeof v;
        if (!sysctlbyname(names[level], &v, &n, NULL, 0)) found = (size_t)v;
    }
#endif
    return found ? found : usual[level];
}
