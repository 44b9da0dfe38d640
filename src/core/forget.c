/* src/core/forget.c - pages of a mapped file that are not needed for now */
#include "core/forget.h"
#if defined __linux__ && !defined TINY_NO_STDIO && (defined _DEFAULT_SOURCE || !defined __cplusplus)
#include <sys/mman.h>
#include <unistd.h>
#ifndef MADV_DONTNEED /* strict C99 hides it, and the function; of a private mapping of a file they drop what is only \
                         read */
#define TINYI_DONTNEED 4
#else
#define TINYI_DONTNEED MADV_DONTNEED
#endif
#ifndef __cplusplus
extern int madvise(void *at, size_t n, int advice);
#endif
#define TINYI_HAVE_FORGET 1
#endif

TINYI_FN int tinyi_file_forget(const tiny_file *file, const unsigned char *at, size_t n)
{
#ifdef TINYI_HAVE_FORGET
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at, start = (uintptr_t)file->mapped;
    uintptr_t a, b;
    if (!file->mapped || from < start || from - start > file->mapped_bytes || n > file->mapped_bytes - (from - start) ||
        page < 512 || page & (page - 1))
        return 0;
    a = (from + page - 1) & ~(page - 1);
    b = (from + n) & ~(page - 1);
    return a < b && !madvise((void *)a, b - a, TINYI_DONTNEED);
#else
    (void)file;
    (void)at;
    (void)n;
    return 0;
#endif
}
