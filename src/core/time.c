/* src/core/time.c */
#include "core/time.h"
#include <time.h>
#if defined _WIN32
/* windows.h is large and full of macros: these two are all we need */
#ifdef __cplusplus
extern "C" {
#endif
union _LARGE_INTEGER;
__declspec(dllimport) int __stdcall QueryPerformanceCounter(union _LARGE_INTEGER *);
__declspec(dllimport) int __stdcall QueryPerformanceFrequency(union _LARGE_INTEGER *);
#ifdef __cplusplus
}
#endif
#elif defined __unix__ || defined __APPLE__ || defined __EMSCRIPTEN__ || defined __wasi__
#include <sys/time.h>
#if defined __linux__ && !defined CLOCK_MONOTONIC && !defined __cplusplus
#include <sys/syscall.h>
extern long syscall(long number, ...);      /* strict C99 hides it, and clock_gettime too */
#endif
#endif

TINY_API uint64_t tiny_now_ns(void)
{
#if defined _WIN32
    uint64_t ticks = 0, rate = 1;
    (void)QueryPerformanceCounter((union _LARGE_INTEGER *)&ticks);
    (void)QueryPerformanceFrequency((union _LARGE_INTEGER *)&rate);
    return ticks / rate * 1000000000u + ticks % rate * 1000000000u / rate;
#elif defined CLOCK_MONOTONIC
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t)) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#elif defined __unix__ || defined __APPLE__ || defined __EMSCRIPTEN__ || defined __wasi__
    /* strict -std=c99 hides clock_gettime unless a feature macro is set before the first include: Linux has a system
     * call, other systems use the time of day, which can be set back */
    struct timeval t;
#ifdef SYS_clock_gettime
#if defined __x86_64__ && defined __ILP32__
    int64_t now[2];                         /* x32: the system writes twice what a long holds */
#else
    long now[2];
#endif
    if (!syscall(SYS_clock_gettime, 1L, now))
        return (uint64_t)now[0] * 1000000000u + (uint64_t)now[1]; /* 1: monotonic */
#endif
    if (gettimeofday(&t, NULL)) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
#else
    return 0;
#endif
}
