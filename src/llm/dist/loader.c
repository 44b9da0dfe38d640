/* src/llm/dist/loader.c - the sliding window of blocks
 * Paper    Z. Li et al., "TPI-LLM", 2024 (arXiv 2410.00531): sliding window memory scheduler.
 * Order    use i is of block i mod n, in slot i mod w. The loader may read use i once use i - w is released:
 *          released <= i < released + w. The caller releases before the all-reduce, so that it overlaps with reading.
 * Memory   owned buffers, each as large as its block. The caller's thread alone allocates: on release the slot gets a
 *          buffer for use i + w, the same one if both blocks have the same size. So the allocator of the context is
 *          called by one thread, and an even window over layers of one size allocates nothing while it runs.
 * Skips    a pass that ends early (no logits wanted, a failure) leaves blocks unused. The next acquire drops them: it
 *          waits for a read in progress, and those that were not begun are not read. */
#include "llm/dist/loader.h"
#include "core/mem.h"
#include "core/state_inside.h"
#include "core/time.h"
#include <stdio.h>
#include <string.h>

struct tllm_loader {
    tiny_ctx *ctx;
    tllm_loader_desc d;                     /* window: at least 1, at most n */
    uint64_t *bytes;                        /* (n) */
    unsigned char **slot;                   /* (window) */
    uint64_t *slot_bytes;                   /* (window): of its buffer, 0: none */
    uint64_t loaded, released;              /* uses: read or skipped; free again. loaded >= released */
    int reading, acquired, quit, has_thread;
    tiny_status failed;
    char says[TLLM_LOADER_SAYS];
    tllm_loader_counts count;
#if TINYI_HAVE_PTHREAD
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
#endif
};

#if TINYI_HAVE_PTHREAD
static void tinyi_loader_lock(tllm_loader *l) { (void)pthread_mutex_lock(&l->lock); }
static void tinyi_loader_unlock(tllm_loader *l) { (void)pthread_mutex_unlock(&l->lock); }
static void tinyi_loader_wake(tllm_loader *l) { (void)pthread_cond_broadcast(&l->wake); }
static void tinyi_loader_wait(tllm_loader *l) { (void)pthread_cond_wait(&l->wake, &l->lock); }
#else
static void tinyi_loader_lock(tllm_loader *l) { (void)l; }
static void tinyi_loader_unlock(tllm_loader *l) { (void)l; }
static void tinyi_loader_wake(tllm_loader *l) { (void)l; }
static void tinyi_loader_wait(tllm_loader *l) { (void)l; }
#endif

/* Until the time that the bytes take on the slow disk; under the lock. */
static void tinyi_loader_slow(tllm_loader *l, uint64_t until)
{
    while (!l->quit) {
        const uint64_t now = tiny_now_ns();
        if (now >= until) return;
#if TINYI_HAVE_PTHREAD
        tinyi_wait(&l->wake, &l->lock, TINYI_MIN(until - now, UINT64_C(50000000)));
#else
        tinyi_pause();
#endif
    }
}

/* Reads the next use; under the lock, which is open meanwhile. */
static void tinyi_loader_next(tllm_loader *l)
{
    const uint64_t use = l->loaded, w = (uint64_t)l->d.window;
    const tiny_idx block = (tiny_idx)(use % (uint64_t)l->d.n);
    unsigned char *to = l->slot[use % w];
    const uint64_t bytes = l->bytes[block], from = tiny_now_ns();
    char says[TLLM_LOADER_SAYS];
    tiny_status st;
    says[0] = 0;
    l->reading = 1;
    tinyi_loader_unlock(l);
    st = l->d.read(l->d.user, block, to, says);
    tinyi_loader_lock(l);
    if (!st && l->d.bytes_per_second > 0)
        tinyi_loader_slow(l, from + (uint64_t)(1e9 * (double)bytes / l->d.bytes_per_second));
    l->reading = 0;
    if (st) {
        l->failed = st;
        says[sizeof says - 1] = 0;
        (void)snprintf(l->says, sizeof l->says, "%s", says[0] ? says : "a block could not be read");
    } else {
        l->loaded = use + 1;
        l->count.blocks++;
        l->count.bytes += bytes;
        l->count.read_ns += tiny_now_ns() - from;
    }
    tinyi_loader_wake(l);
}

#if TINYI_HAVE_HELPERS
static void *tinyi_loader_main(void *arg)
{
    tllm_loader *l = (tllm_loader *)arg;
    tinyi_loader_lock(l);
    while (!l->quit) {
        if (!l->failed && l->loaded < l->released + (uint64_t)l->d.window) tinyi_loader_next(l);
        else tinyi_loader_wait(l);
    }
    tinyi_loader_unlock(l);
    return NULL;
}
#endif

/* the buffer of a slot for that use; under the lock, and by the caller's thread alone */
static void tinyi_loader_room(tllm_loader *l, uint64_t use)
{
    const tiny_idx s = (tiny_idx)(use % (uint64_t)l->d.window);
    const uint64_t bytes = l->bytes[use % (uint64_t)l->d.n];
    tiny_idx i, live = 0;
    if (l->slot[s] && l->slot_bytes[s] == bytes) return;
    tiny_free(l->ctx, l->slot[s]);
    l->count.held -= l->slot_bytes[s];
    l->slot_bytes[s] = 0;
    l->slot[s] = (unsigned char *)tiny_alloc(l->ctx, (size_t)bytes);
    if (!l->slot[s]) {
        if (!l->failed) {
            l->failed = tiny_ctx_status(l->ctx);
            tinyi_keep_says(l->says, sizeof l->says, tiny_ctx_message(l->ctx));
        }
        return;
    }
    l->slot_bytes[s] = bytes;
    l->count.held += bytes;
    l->count.peak = TINYI_MAX(l->count.peak, l->count.held);
    for (i = 0; i < l->d.window; i++) live += l->slot[i] != NULL;
    l->count.slots = TINYI_MAX(l->count.slots, live);
}

TINY_API tiny_status tllm_loader_open(tiny_ctx *ctx, const tllm_loader_desc *desc, tllm_loader **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_loader *l;
    tiny_idx i, window;
    if (out) *out = NULL;
    if (st) return st;
    if (!out || !desc || !desc->bytes || !desc->read)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_loader_open needs the sizes of the blocks, a function that reads "
                          "them, and an output pointer");
    if (desc->n < 1 || desc->window < 0 || !(desc->bytes_per_second >= 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%td blocks, a window of %td and %g bytes per second: there is at "
                          "least one block, and nothing is negative", desc->n, desc->window, desc->bytes_per_second);
    for (i = 0; i < desc->n; i++)
        if (desc->bytes[i] > SIZE_MAX / 4)
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "block %td is larger than this machine can address", i);
    window = TINYI_MIN(desc->window ? desc->window : 2, desc->n);
    l = (tllm_loader *)tinyi_alloc(ctx, 1, sizeof *l);
    if (!l) return tiny_ctx_status(ctx);
    memset(l, 0, sizeof *l);
    l->ctx = ctx;
    l->d = *desc;
    l->d.window = window;
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->wake, NULL);
#endif
    l->bytes = (uint64_t *)tinyi_alloc(ctx, (size_t)desc->n, sizeof *l->bytes);
    l->slot = l->bytes ? (unsigned char **)tinyi_alloc(ctx, (size_t)window, sizeof *l->slot) : NULL;
    if (l->slot) memset(l->slot, 0, (size_t)window * sizeof *l->slot);
    l->slot_bytes = l->slot ? (uint64_t *)tinyi_alloc(ctx, (size_t)window, sizeof *l->slot_bytes) : NULL;
    if (l->slot_bytes) {
        memset(l->slot_bytes, 0, (size_t)window * sizeof *l->slot_bytes);
        memcpy(l->bytes, desc->bytes, (size_t)desc->n * sizeof *l->bytes);
        for (i = 0; i < window && !l->failed; i++) tinyi_loader_room(l, (uint64_t)i);
    }
    if (!l->slot_bytes || l->failed) {
        st = tiny_ctx_status(ctx);
        tllm_loader_close(l);
        return st;
    }
#if TINYI_HAVE_HELPERS
    if (!desc->no_thread) l->has_thread = pthread_create(&l->thread, NULL, tinyi_loader_main, l) == 0;
#endif
    l->count.has_thread = l->has_thread;
    *out = l;
    return TINY_OK;
}

TINY_API void tllm_loader_close(tllm_loader *l)
{
    tiny_idx i;
    if (!l) return;
    tinyi_loader_lock(l);
    l->quit = 1;
    tinyi_loader_wake(l);
    tinyi_loader_unlock(l);
#if TINYI_HAVE_HELPERS
    if (l->has_thread) (void)pthread_join(l->thread, NULL);
#endif
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_destroy(&l->wake);
    (void)pthread_mutex_destroy(&l->lock);
#endif
    for (i = 0; l->slot && i < l->d.window; i++) tiny_free(l->ctx, l->slot[i]);
    tiny_free(l->ctx, l->slot_bytes);
    tiny_free(l->ctx, l->slot);
    tiny_free(l->ctx, l->bytes);
    tiny_free(l->ctx, l);
}

/* The oldest use is over: its slot is for the use `window` later. Under the lock. */
static void tinyi_loader_drop(tllm_loader *l)
{
    const uint64_t use = l->released;
    while (l->reading && l->loaded == use) tinyi_loader_wait(l);
    l->released = use + 1;
    if (l->loaded < l->released) l->loaded = l->released;
    tinyi_loader_room(l, use + (uint64_t)l->d.window);
    tinyi_loader_wake(l);
}

TINY_API tiny_status tllm_loader_acquire(tllm_loader *l, tiny_idx block, const unsigned char **data)
{
    tiny_status st;
    if (data) *data = NULL;
    if (!l) return TINY_E_ARGUMENT;
    if (!data || block < 0 || block >= l->d.n)
        return tinyi_fail(l->ctx, TINY_E_ARGUMENT, "block %td: there are %td, and the result pointer is needed", block,
                          l->d.n);
    tllm_loader_release(l);
    tinyi_loader_lock(l);
    while ((tiny_idx)(l->released % (uint64_t)l->d.n) != block) tinyi_loader_drop(l);
    if (!l->failed && l->loaded <= l->released) {
        const uint64_t from = tiny_now_ns();
        while (!l->failed && l->loaded <= l->released) {
            if (l->has_thread) tinyi_loader_wait(l);
            else tinyi_loader_next(l);
        }
        l->count.stalls++;
        l->count.stall_ns += tiny_now_ns() - from;
    }
    st = l->loaded > l->released ? TINY_OK : l->failed;     /* what was read before the failure is good */
    if (!st) {
        *data = l->slot[l->released % (uint64_t)l->d.window];
        l->acquired = 1;
    }
    tinyi_loader_unlock(l);
    return st ? tinyi_fail(l->ctx, st, "%s", l->says) : TINY_OK;
}

TINY_API void tllm_loader_release(tllm_loader *l)
{
    if (!l || !l->acquired) return;
    tinyi_loader_lock(l);
    l->acquired = 0;
    tinyi_loader_drop(l);
    tinyi_loader_unlock(l);
}

TINY_API tllm_loader_counts tllm_loader_count(const tllm_loader *l)
{
    tllm_loader_counts c;
    memset(&c, 0, sizeof c);
    if (!l) return c;
    tinyi_loader_lock((tllm_loader *)(uintptr_t)l);
    c = l->count;
    tinyi_loader_unlock((tllm_loader *)(uintptr_t)l);
    return c;
}
