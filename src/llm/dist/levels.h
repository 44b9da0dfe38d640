/* src/llm/dist/levels.h - links of several classes: pairs, nodes and a network between them
 *
 *   tllm_levels_desc d = { 0 };
 *   d.net = net; d.n_level = 2;
 *   d.level[0].ranks = 4;      d.level[0].bits_per_second = 1e11;      ranks 0 to 3, 4 to 7, ...: fast
 *   d.level[1].ranks = world;  d.level[1].bits_per_second = 1e10;      everything else
 *   tllm_levels_open(ctx, &d, &levels);
 *   coll.net = tllm_levels_net(levels);
 *
 * A link belongs to the first level whose group of consecutive ranks holds both ends. On a virtual clock (tiny_local
 * with virtual_clock 1 and no delay of its own), a message of n bytes takes the latency and n times the seconds of a
 * byte of its level. Each rank has one port out and one port in for each level, so messages of one level leave one
 * after the other. On a real clock nothing is delayed. On both clocks the bytes of each level are counted. */
#ifndef TINYI_LEVELS_H
#define TINYI_LEVELS_H
#include "core/net.h"
TINYI_C_BEGIN

#define TLLM_LEVELS 8
typedef struct tllm_level {
    int ranks;                              /* of a group; each level's must divide that of the next one */
    uint64_t latency_ns;
    double bits_per_second;                 /* 0: no limit */
} tllm_level;

typedef struct tllm_levels_desc {
    tiny_net *net;                          /* of this rank; stays the caller's */
    int n_level;
    tllm_level level[TLLM_LEVELS];          /* the last one has all ranks */
} tllm_levels_desc;

typedef struct tllm_levels tllm_levels;
TINY_API tiny_status tllm_levels_open(tiny_ctx *ctx, const tllm_levels_desc *desc, tllm_levels **out);
TINY_API tiny_net *tllm_levels_net(tllm_levels *levels);                    /* NULL for NULL */
/* Bytes that this rank has received over links of a level. */
TINY_API uint64_t tllm_levels_received(const tllm_levels *levels, int level);
TINY_API void tllm_levels_close(tiny_ctx *ctx, tllm_levels *levels);        /* takes NULL */

TINYI_C_END
#endif
