/* src/llm/dist/loader.h - blocks that are used in a fixed order again and again, read ahead of their use
 *
 *   tllm_loader_desc d = { 0 };
 *   d.n = n; d.bytes = bytes; d.read = read; d.user = file;      d.window = 2: two blocks in memory at a time
 *   tllm_loader_open(ctx, &d, &l);
 *   for each block i in turn, and from the first again:
 *       tllm_loader_acquire(l, i, &data);        waits until it is there
 *       ... computes with data ...
 *       tllm_loader_release(l);                  its memory takes the block `window` later
 *
 * A thread of the loader reads while the caller computes, if the library has threads (OpenMP or TINY_PTHREAD).
 * Otherwise a block is read when it is acquired. The memory of a block is allocated with its size. So at no time more
 * is held than the largest sum of `window` blocks in a row (tllm_slots_peak). */
#ifndef TINYI_LOADER_H
#define TINYI_LOADER_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_LOADER_SAYS 200                /* bytes of a sentence */

typedef struct tllm_loader_desc {
    tiny_idx n;                             /* blocks */
    const uint64_t *bytes;                  /* (n), copied */
    tiny_idx window;                        /* slots; 0: 2; at most n are used */
    /* Reads block i to `to`. Called on the loader's thread, one call at a time. After a failure says has the reason;
     * acquire fails with it, and reads no more. */
    tiny_status (*read)(void *user, tiny_idx block, void *to, char says[TLLM_LOADER_SAYS]);
    void *user;
    double bytes_per_second;                /* reads no faster, like a slow disk; 0: no limit */
    int no_thread;                          /* nonzero: reads in acquire */
} tllm_loader_desc;

typedef struct tllm_loader_counts {
    uint64_t blocks, bytes;                 /* read so far */
    uint64_t stalls, stall_ns;              /* acquires that waited, and for how long */
    uint64_t read_ns;                       /* time spent reading */
    uint64_t held, peak;                    /* bytes of blocks in memory; the most at any time */
    tiny_idx slots;                         /* the most blocks that were in memory at a time */
    int has_thread;
} tllm_loader_counts;

typedef struct tllm_loader tllm_loader;
TINY_API tiny_status tllm_loader_open(tiny_ctx *ctx, const tllm_loader_desc *desc, tllm_loader **out);
TINY_API void tllm_loader_close(tllm_loader *l);        /* takes NULL; waits for a read that has begun */
/* Blocks between the last one and this one are skipped, and those not read yet are never read. *data: aligned to 64
 * bytes, valid until the release. */
TINY_API tiny_status tllm_loader_acquire(tllm_loader *l, tiny_idx block, const unsigned char **data);
TINY_API void tllm_loader_release(tllm_loader *l);      /* the acquired block; nothing if there is none */
TINY_API tllm_loader_counts tllm_loader_count(const tllm_loader *l);    /* all zero for NULL */

TINYI_C_END
#endif
