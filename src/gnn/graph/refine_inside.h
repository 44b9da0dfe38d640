/* src/gnn/graph/refine_inside.h - moving nodes between the parts of a graph until its cut is small */
#ifndef TINYI_REFINE_H
#define TINYI_REFINE_H
#include "gnn/graph/coarsen_inside.h"
TINYI_C_BEGIN

/* edges to its own part, to others; place in the heap */
typedef struct tinyi_spot { int64_t in, out, key; int32_t at, part; } tinyi_spot;
typedef struct tinyi_spot_item { int64_t key; int32_t node; } tinyi_spot_item;

/* A partition in hand. Its arrays have room for n_room nodes and k_room parts; a level, k and the limits are set for
 * each job. */
typedef struct tinyi_cutter {
    tiny_ctx *ctx;
    tiny_idx n_room;
    const tinyi_level *l;
    int k;
    int32_t *part;                          /* of the nodes of l */
    int64_t cut;                            /* each edge once */
    int64_t *weight, *limit;                /* of the parts */
    int64_t unit;                           /* what an edge of the first level weighs on average, at least 1 */
    int64_t *meet;                          /* zeros between two looks: edges of a node to each part */
    int32_t *met;                           /* parts it has edges to */
    tinyi_spot *spot;
    tinyi_spot_item *heap;
    tiny_idx n_heap;
    int32_t *log;                           /* node and old part of each move of a pass */
} tinyi_cutter;

TINYI_FN tiny_status tinyi_cutter_open(tiny_ctx *ctx, tiny_idx n_room, int k_room, tinyi_cutter *c);
TINYI_FN void tinyi_cutter_close(tinyi_cutter *c);
/* c->l, k, part are set: counts weights, edges and the cut anew. */
TINYI_FN tiny_status tinyi_cutter_count(tinyi_cutter *c);
/* Fiduccia and Mattheyses: passes until one gains less than a 500th. The cut does not grow. slack 0: parts stay within
 * their limits; else a gain of c->unit may take a part above by so much. */
TINYI_FN void tinyi_cutter_refine(tinyi_cutter *c, int passes, int64_t slack);
/* Takes nodes out of parts above their limits, where they cost least. What can be moved is moved. */
TINYI_FN void tinyi_cutter_balance(tinyi_cutter *c);
/* Parts without a node get one. */
TINYI_FN void tinyi_cutter_fill(tinyi_cutter *c);
/* Two parts: all nodes are in part 1; part 0 grows from a node drawn by rng to its target. */
TINYI_FN void tinyi_cutter_grow(tinyi_cutter *c, tiny_rng *rng, int64_t target);

TINYI_C_END
#endif
