/* src/core/secret.c - memory for keys
 *
 * A block of the context's allocator has room for whole pages: a head of 64 bytes, then the caller's bytes. The advice
 * to leave pages out of core files is taken back before they are freed, because the next owner may want them there. */
#include "core/mem.h"
#include "core/secret_inside.h"
#include "core/state_inside.h"
#include <string.h>
#if defined __linux__ && !defined TINY_NO_STDIO && (defined _DEFAULT_SOURCE || !defined __cplusplus)
#include <sys/mman.h>
#include <unistd.h>
#define TINYI_HAVE_DONTDUMP 1
#ifdef MADV_DONTDUMP /* strict C99 hides it, and the function */
#define TINYI_DONTDUMP MADV_DONTDUMP
#define TINYI_DODUMP MADV_DODUMP
#else
#define TINYI_DONTDUMP 16
#define TINYI_DODUMP 17
#endif
#ifndef __cplusplus
extern int madvise(void *at, size_t n, int advice);
#endif
#else
#define TINYI_HAVE_DONTDUMP 0
#endif

typedef struct tinyi_secret_head { void *raw; size_t bytes; int hidden; } tinyi_secret_head;

void *tinyi_secret_alloc(tiny_ctx *ctx, size_t n)
{
    size_t page = TINYI_ALIGN, bytes, all;
    tinyi_secret_head h;
    unsigned char *at;
#if TINYI_HAVE_DONTDUMP
    const long is = sysconf(_SC_PAGESIZE);
    if (is >= 512 && is <= 65536 && !(is & (is - 1))) page = (size_t)is;
#endif
    if (!tinyi_size_add(n, TINYI_ALIGN + page - 1, &bytes) || !tinyi_size_add(bytes, page, &all)) {
        (void)tinyi_fail(ctx, TINY_E_OVERFLOW, "%zu bytes are more than this machine can address", n);
        return NULL;
    }
    bytes -= bytes % page;
    memset(&h, 0, sizeof h);
    h.raw = tinyi_alloc(ctx, bytes + page - TINYI_ALIGN, 1);
    if (!h.raw) return NULL;
    h.bytes = bytes;
    at = (unsigned char *)h.raw + (page - (uintptr_t)h.raw % page) % page;
    memset(at, 0, bytes);
#if TINYI_HAVE_DONTDUMP
    h.hidden = page > TINYI_ALIGN && !madvise(at, bytes, TINYI_DONTDUMP);
#endif
    memcpy(at, &h, sizeof h);
    return at + TINYI_ALIGN;
}

void tinyi_secret_free(tiny_ctx *ctx, void *memory)
{
    unsigned char *at;
    tinyi_secret_head h;
    if (!memory) return;
    at = (unsigned char *)memory - TINYI_ALIGN;
    memcpy(&h, at, sizeof h);
    tiny_wipe(at, h.bytes);
#if TINYI_HAVE_DONTDUMP
    if (h.hidden) (void)madvise(at, h.bytes, TINYI_DODUMP);
#endif
    tiny_free(ctx, h.raw);
}
