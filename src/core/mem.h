/* src/core/mem.h - sizes that cannot wrap, and memory through the user's allocator */
#ifndef TINYI_MEM_H
#define TINYI_MEM_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* Memory of the context's allocator, 64-byte aligned, not cleared. NULL: the context has the sentence.
 * 0 bytes give a pointer that may be freed. Everything is given back by hand before the context is closed.
 * On Linux, blocks of 4 MB and more of the default allocator begin at a multiple of 2 MB, and the system is asked for
 * pages of that size. A block that is written as a whole, or from its start on, takes no more memory so; one that is
 * written here and there may. The user's allocator is asked for what is needed, and decides itself. */
TINY_API void *tiny_alloc(tiny_ctx *ctx, size_t bytes);
TINY_API void tiny_free(tiny_ctx *ctx, void *memory);      /* takes NULL */
/* A block that is handed out from its start and given back at once: sessions take their memory so. */
typedef struct tiny_arena {
    unsigned char *base;
    size_t size, used, high;                /* high: the most that was ever used */
} tiny_arena;

TINY_API tiny_status tiny_arena_open(tiny_ctx *ctx, tiny_arena *arena, size_t bytes);
TINY_API void tiny_arena_close(tiny_ctx *ctx, tiny_arena *arena);
/* n * bytes_each, 64-byte aligned; NULL and TINY_E_WORKSPACE in the context when it does not fit. */
TINY_API void *tiny_arena_take(tiny_ctx *ctx, tiny_arena *arena, size_t n, size_t bytes_each);
TINY_API void tiny_arena_reset(tiny_arena *arena, size_t used);

/* ---- inside: what the bodies share ---- */

/* Every size that comes from a file, a peer or a shape goes through these. 0: it does not fit. */
TINYI_INLINE int tinyi_size_mul(size_t a, size_t b, size_t *r)
{
    if ((a | b) >> 4 * sizeof(size_t) && b && a > SIZE_MAX / b) return 0;      /* two halves always fit: no division */
    *r = a * b;
    return 1;
}
TINYI_INLINE int tinyi_size_add(size_t a, size_t b, size_t *r)
{
    if (a > SIZE_MAX - b) return 0;
    *r = a + b;
    return 1;
}

#define TINYI_ALIGN 64                      /* a cache line, and the widest vector */

/* A caller that gets NULL returns tiny_ctx_status(ctx), the status of that sentence: TINY_E_MEMORY or
 * TINY_E_OVERFLOW. */
TINYI_FN void *tinyi_alloc(tiny_ctx *ctx, size_t n, size_t bytes_each);
/* In small pages: what is reserved for the most that may come and written in many places as it fills, like the keys and
 * values of all layers for a context of 100 000 tokens, is resident only where it was written. */
TINYI_FN void *tinyi_reserve(tiny_ctx *ctx, size_t bytes);

TINYI_C_END
#endif
