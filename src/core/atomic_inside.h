/* src/core/atomic_inside.h - the few atomic operations that the teams need
 *
 * A compiler without them (tcc) has no threads either: plain code is right there. */
#ifndef TINYI_ATOMIC_H
#define TINYI_ATOMIC_H
#include "core/config.h"

#if (defined __GNUC__ || defined __clang__) && !defined __TINYC__
#define TINYI_HAVE_ATOMICS 1
TINYI_INLINE tiny_idx tinyi_atomic_add(tiny_idx *p, tiny_idx d) { return __atomic_fetch_add(p, d, __ATOMIC_ACQ_REL); }
TINYI_INLINE tiny_idx tinyi_atomic_get(const tiny_idx *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
TINYI_INLINE void tinyi_atomic_set(tiny_idx *p, tiny_idx v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
TINYI_INLINE int tinyi_atomic_swap_if(tiny_idx *p, tiny_idx old, tiny_idx v)
{
    return __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
#elif defined _MSC_VER
#include <intrin.h>
#define TINYI_HAVE_ATOMICS 1
#ifdef _WIN64
#define TINYI_MSC(f) f##64
typedef __int64 tinyi_msc_idx;
#else
#define TINYI_MSC(f) f
typedef long tinyi_msc_idx;
#endif
TINYI_INLINE tiny_idx tinyi_atomic_add(tiny_idx *p, tiny_idx d)
{
    return (tiny_idx)TINYI_MSC(_InterlockedExchangeAdd)((tinyi_msc_idx *)p, d);
}
TINYI_INLINE tiny_idx tinyi_atomic_get(const tiny_idx *p)
{
    return (tiny_idx)TINYI_MSC(_InterlockedExchangeAdd)((tinyi_msc_idx *)(uintptr_t)p, 0);
}
TINYI_INLINE void tinyi_atomic_set(tiny_idx *p, tiny_idx v)
{
    (void)TINYI_MSC(_InterlockedExchange)((tinyi_msc_idx *)p, v);
}
TINYI_INLINE int tinyi_atomic_swap_if(tiny_idx *p, tiny_idx old, tiny_idx v)
{
    return TINYI_MSC(_InterlockedCompareExchange)((tinyi_msc_idx *)p, v, old) == old;
}
#else
#define TINYI_HAVE_ATOMICS 0
TINYI_INLINE tiny_idx tinyi_atomic_add(tiny_idx *p, tiny_idx d) { tiny_idx v = *p; *p += d; return v; }
TINYI_INLINE tiny_idx tinyi_atomic_get(const tiny_idx *p) { return *p; }
TINYI_INLINE void tinyi_atomic_set(tiny_idx *p, tiny_idx v) { *p = v; }
TINYI_INLINE int tinyi_atomic_swap_if(tiny_idx *p, tiny_idx old, tiny_idx v)
{
    if (*p != old) return 0;
    *p = v;
    return 1;
}
#endif

/* a hint to the processor that this is a waiting loop */
TINYI_INLINE void tinyi_pause(void)
{
#if (defined __GNUC__ || defined __clang__) && (defined __x86_64__ || defined __i386__) && !defined __TINYC__
    __builtin_ia32_pause();
#elif (defined __GNUC__ || defined __clang__) && defined __aarch64__
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

#endif
