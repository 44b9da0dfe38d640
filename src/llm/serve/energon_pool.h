/* src/llm/serve/energon_pool.h - every k-th layer of a stage lives in the memory of another rank, or in a file
 *
 *   tllm_pool_desc d = { 0 };
 *   d.layers = 24; d.k = 4; d.bytes = bytes;              layers 3, 7, 11 ... are lent; all layers have that size
 *   d.resident = blocks;                                  (layers): the others, here
 *   d.net = net;                                          2 ranks: this one is 0, and rank 1 calls tllm_pool_lend
 *   d.read = read;                                        and, or, the function that reads a layer of the file
 *   tllm_pool_open(ctx, &d, &pool);
 *   for each layer j in turn, and from the first again:
 *       tllm_pool_acquire(pool, j, &data);                waits until it is there
 *       ... computes with data ...
 *
 * Two lent layers are in memory at a time. A thread loads layer j from the moment when layer j - ahead begins. So
 * loading takes no time if it is faster than `ahead` layers compute. Weights are only read: nothing is written back. */
#ifndef TINYI_ENERGON_POOL_H
#define TINYI_ENERGON_POOL_H
#include "core/net.h"
#include "llm/dist/loader.h"
TINYI_C_BEGIN

typedef struct tllm_pool_desc {
    tiny_idx layers, k;                     /* k divides layers */
    size_t bytes;                           /* of a layer, a multiple of 4 */
    const void *const *resident;            /* (layers), kept by the caller; those of lent layers are not read */
    /* Reads a lent layer, on a thread of the pool: tllm_loader_desc has the rules. NULL: none */
    tiny_status (*read)(void *user, tiny_idx layer, void *to, char says[TLLM_LOADER_SAYS]);
    void *user;
    /* NULL: none. Stays the caller's; only the pool uses it until the close. With both, the faster one is used, and the
     * other one when it fails */
    tiny_net *net;
    uint64_t print;                         /* of the layers: a lender with another one is refused */
    /* 0: 2, or 1 if k is below 3; negative: a layer is loaded when it is needed (to compare with) */
    int ahead;
    uint64_t timeout_ns;                    /* of an answer of the lender; 0: 10 s */
    double bytes_per_second;                /* loads no faster, to try a slow link; 0: no limit */
} tllm_pool_desc;

typedef struct tllm_pool_about {
    uint64_t loads, from_net;               /* lent layers loaded so far; those from the lender */
    double net_rate, read_rate;             /* bytes a second, measured at the open if there are both; else 0 */
    int lost;                               /* nonzero: the lender is gone, and the file took over */
    tllm_loader_counts loader;
} tllm_pool_about;

typedef struct tllm_pool tllm_pool;
TINY_API tiny_status tllm_pool_open(tiny_ctx *ctx, const tllm_pool_desc *desc, tllm_pool **out);
TINY_API void tllm_pool_close(tllm_pool *pool);         /* takes NULL; the lender's call then returns */
/* data is valid until the next call. */
TINY_API tiny_status tllm_pool_acquire(tllm_pool *pool, tiny_idx layer, const void **data);
TINY_API void tllm_pool_look(tllm_pool *pool, tllm_pool_about *about);
/* Rank 1 of net: hands out blocks of that size until the borrower closes its pool. block (layers): NULL where it has
 * none. */
TINY_API tiny_status tllm_pool_lend(tiny_ctx *ctx, tiny_net *net, const void *const *block, tiny_idx layers,
                                    size_t bytes, uint64_t print);

/* How long n layers take, in the unit of layer and load. ahead 0: a layer is loaded when it is needed. NaN for bad
 * arguments. */
TINY_API double tllm_pool_time(tiny_idx n, tiny_idx k, double layer, double load, int ahead);

TINYI_C_END
#endif
