/* src/core/mem.h - memory from the allocator of the context, and checked sizes */
#ifndef TINYI_MEM_H
#define TINYI_MEM_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* Memory from the context's allocator, 64-byte aligned, not cleared. On failure the result is NULL and the context has
 * the sentence. 0 bytes give a pointer that can be freed. Free every block before you close the context.
 * On Linux, blocks of at least 4 MB from the default allocator begin at a multiple of 2 MB, and the system is asked for
 * pages of that size. A block that is written sparsely may then use more memory; one that is written from its start on
 * does not. Your own allocator gets the plain request. */
TINY_API void *tiny_alloc(tiny_ctx *ctx, size_t bytes);
TINY_API void tiny_free(tiny_ctx *ctx, void *memory);      /* takes NULL */
/* A block that is handed out piece by piece from its start and freed as a whole. */
typedef struct tiny_arena {
    unsigned char *base;
    size_t size, used, high;                /* high: the largest value of used so far */
} tiny_arena;

TINY_API tiny_status tiny_arena_open(tiny_ctx *ctx, tiny_arena *arena, size_t bytes);
TINY_API void tiny_arena_close(tiny_ctx *ctx, tiny_arena *arena);
/* n * bytes_each bytes, 64-byte aligned. If they do not fit: NULL, and TINY_E_WORKSPACE in the context. */
TINY_API void *tiny_arena_take(tiny_ctx *ctx, tiny_arena *arena, size_t n, size_t bytes_each);
/* Frees all pieces that were taken since arena->used had this value. */
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
/* The same in small pages, for a large block that fills slowly and in many places, like the keys and values of all
 * layers: only the pages that were written are resident. */
TINYI_FN void *tinyi_reserve(tiny_ctx *ctx, size_t bytes);

TINYI_C_END
#endif
