/* src/core/mem.c */
#include "core/state_inside.h"
#include <stdlib.h>
#include <string.h>
#if defined __linux__ && !defined __hppa__ && !defined TINY_NO_HUGE_PAGES && !defined TINY_NO_MALLOC
#define TINYI_HAVE_HUGE_PAGES 1
#include <sys/mman.h>
#ifdef MADV_HUGEPAGE
#define TINYI_MADV_HUGEPAGE MADV_HUGEPAGE
#define TINYI_MADV_NOHUGEPAGE MADV_NOHUGEPAGE
#else /* strict C99 hides the call and the numbers, which are the same on every processor but PA-RISC */
#define TINYI_MADV_HUGEPAGE 14
#define TINYI_MADV_NOHUGEPAGE 15
#ifdef __cplusplus
extern "C"
#endif
int madvise(void *address, size_t n_bytes, int advice);
#endif
#else
#define TINYI_HAVE_HUGE_PAGES 0
#endif

/* stands right before each aligned block */
typedef struct tinyi_mem_head {
    void *raw;
    size_t raw_bytes, bytes;
} tinyi_mem_head;

/* A block of 4 MB is written for the first time in 0.2 ms so, in small pages in 2.1 (docs/dev/speed.md). From there on
 * at least half of a block can lie in large pages wherever it ends, and what is smaller malloc mostly has in its own
 * store, where pages were written before. */
#define TINYI_HUGE_PAGE ((size_t)2 << 20)
#define TINYI_HUGE_FROM ((size_t)4 << 20)

static void *tinyi_mem_take(tiny_ctx *ctx, size_t n, size_t bytes_each, int sparse)
{
    size_t bytes, raw_bytes, align = TINYI_ALIGN;
    unsigned char *raw, *p;
    tinyi_mem_head head;
    const int fits = tinyi_size_mul(n, bytes_each, &bytes);
    (void)sparse;                           /* where there are no large pages */
    if (TINYI_HAVE_HUGE_PAGES && fits && ctx->own_malloc && bytes >= TINYI_HUGE_FROM) align = TINYI_HUGE_PAGE;
    if (!fits || !tinyi_size_add(bytes, align + sizeof head, &raw_bytes) || raw_bytes > (size_t)TINY_IDX_MAX) {
        tinyi_fail(ctx, TINY_E_OVERFLOW, "%zu elements of %zu bytes are more than this machine can address", n,
                   bytes_each);
        return NULL;
    }
    if (ctx->desc.max_bytes &&
        (ctx->bytes_held > ctx->desc.max_bytes || bytes > ctx->desc.max_bytes - ctx->bytes_held)) {
        tinyi_fail(ctx, TINY_E_MEMORY,
                   "%zu bytes requested while %zu are held; max_bytes is %zu", bytes, ctx->bytes_held,
                   ctx->desc.max_bytes);
        return NULL;
    }
    raw = (unsigned char *)ctx->desc.allocator.realloc_fn(ctx->desc.allocator.user, NULL, 0, raw_bytes);
    if (!raw) {
        tinyi_fail(ctx, TINY_E_MEMORY,
                   "the allocator could not provide %zu bytes (%zu are held)", raw_bytes, ctx->bytes_held);
        return NULL;
    }
    p = raw + sizeof head;
    p += (size_t)(-(intptr_t)p & (intptr_t)(align - 1));
    head.raw = raw;
    head.raw_bytes = raw_bytes;
    head.bytes = bytes;
    memcpy(p - sizeof head, &head, sizeof head);
    ctx->bytes_held += bytes;
#if TINYI_HAVE_HUGE_PAGES
    /* Whole pages only: the rest of the block stays in small ones, so that what is written whole takes no more memory
     * than without. What is sparse may lie where a block with large pages was given back. */
    if (align == TINYI_HUGE_PAGE)
        (void)madvise(p, sparse ? bytes : bytes & ~(TINYI_HUGE_PAGE - 1),
                      sparse ? TINYI_MADV_NOHUGEPAGE : TINYI_MADV_HUGEPAGE);
#endif
    return p;
}

void *tinyi_alloc(tiny_ctx *ctx, size_t n, size_t bytes_each) { return tinyi_mem_take(ctx, n, bytes_each, 0); }

void *tinyi_reserve(tiny_ctx *ctx, size_t bytes)
{
    return tinyi_ctx_check(ctx) ? NULL : tinyi_mem_take(ctx, bytes, 1, 1);
}

TINY_API void *tiny_alloc(tiny_ctx *ctx, size_t bytes)
{
    return tinyi_ctx_check(ctx) ? NULL : tinyi_alloc(ctx, bytes, 1);
}

TINY_API void tiny_free(tiny_ctx *ctx, void *memory)
{
    tinyi_mem_head head;
    if (!memory || tinyi_ctx_check(ctx)) return;
    memcpy(&head, (unsigned char *)memory - sizeof head, sizeof head);
    ctx->bytes_held -= head.bytes;
    ctx->desc.allocator.realloc_fn(ctx->desc.allocator.user, head.raw, head.raw_bytes, 0);
}

TINY_API tiny_status tiny_arena_open(tiny_ctx *ctx, tiny_arena *arena, size_t bytes)
{
    if (!arena) return tinyi_fail(ctx, TINY_E_ARGUMENT, "the pointer to the arena is NULL");
    memset(arena, 0, sizeof *arena);
    arena->base = (unsigned char *)tiny_alloc(ctx, bytes);
    if (!arena->base) return ctx ? tiny_ctx_status(ctx) : TINY_E_ARGUMENT;
    arena->size = bytes;
    return TINY_OK;
}

TINY_API void tiny_arena_close(tiny_ctx *ctx, tiny_arena *arena)
{
    if (!arena) return;
    tiny_free(ctx, arena->base);
    memset(arena, 0, sizeof *arena);
}

TINY_API void *tiny_arena_take(tiny_ctx *ctx, tiny_arena *arena, size_t n, size_t bytes_each)
{
    size_t bytes, at;
    if (!arena) {
        tinyi_fail(ctx, TINY_E_ARGUMENT, "the arena is not open");
        return NULL;
    }
    at = (arena->used + TINYI_ALIGN - 1) & ~(size_t)(TINYI_ALIGN - 1);
    if (!tinyi_size_mul(n, bytes_each, &bytes) || at > arena->size || bytes > arena->size - at) {
        tinyi_fail(ctx, TINY_E_WORKSPACE,
                   "%zu elements of %zu bytes do not fit into the arena: %zu of %zu bytes are used", n, bytes_each,
                   arena->used, arena->size);
        return NULL;
    }
    arena->used = at + bytes;
    if (arena->used > arena->high) arena->high = arena->used;
    return arena->base + at;
}

TINY_API void tiny_arena_reset(tiny_arena *arena, size_t used)
{
    if (arena && used < arena->used) arena->used = used;
}

tiny_status tinyi_work_reserve(tiny_ctx *ctx, size_t bytes)
{
    if (bytes <= ctx->work.size) return TINY_OK;
    tiny_arena_close(ctx, &ctx->work);
    return tiny_arena_open(ctx, &ctx->work, bytes);
}
