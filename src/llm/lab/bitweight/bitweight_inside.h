/* src/llm/lab/bitweight/bitweight_inside.h - what designs, statistics and the simulator of bit weights share */
#ifndef TINYI_BITWEIGHT_INSIDE_H
#define TINYI_BITWEIGHT_INSIDE_H
#include "llm/lab/bitweight/bitweight.h"
TINYI_C_BEGIN

/* a design taken apart for a product */
typedef struct tinyi_bw_plan {
    tiny_idx size[3], lanes[3], turns[3];   /* of m, n, k: numbers, parallel ones, turns in time */
    tiny_idx stride[TLLM_BW_LOOPS], trips[TLLM_BW_LOOPS];
    int time[3], par[3], bw;                /* places of the loops; -1: there is none */
    int late, sparse, bw_parallel;          /* shift after the sum over k */
    tiny_idx run;                           /* k that are summed before an add */
    int carried;                            /* a loop over k is around add: the sum so far goes in again */
    uint32_t mask, narrow_mask;
    int width, narrow;                      /* bits */
    uint64_t fills, registers;
} tinyi_bw_plan;
/* the row of codes of all 256 values: four times three bits, the lowest digit first; and how many are not 0 */
typedef struct tinyi_bw_table { uint16_t code[256]; uint8_t nonzero[256]; } tinyi_bw_table;
TINYI_FN int tinyi_bw_fused(const tllm_bw_design *d);
TINYI_FN void tinyi_bw_table_fill(tinyi_bw_table *t, int encoder);
TINYI_FN tiny_status tinyi_bw_plan_make(tiny_ctx *ctx, const tllm_bw_design *d, tiny_idx m, tiny_idx n, tiny_idx k,
                                        tinyi_bw_plan *p);

TINYI_C_END
#endif
