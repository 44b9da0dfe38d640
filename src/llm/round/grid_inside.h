/* src/llm/round/grid_inside.h - inside GPTQ: block formats as grids; scales are fitted first, codes are stored later
 *
 * Number i of a block is s * code + m, with s and m of its group; codes are stored as code - low, from 0 on. */
#ifndef TINYI_GRID_H
#define TINYI_GRID_H
#include "llm/block/format.h"
#include "llm/round/plain.h"
TINYI_C_BEGIN

typedef struct tinyi_grid {
    const tllm_format *format;              /* its pack, with importance, fits the scales of a block */
    int size, low, high;                    /* numbers of a group; codes */
} tinyi_grid;

TINYI_FN int tinyi_grid_of(int format, tinyi_grid *g);      /* 0: the format is not such a grid */
TINYI_FN void tinyi_grid_scale(const tinyi_grid *g, const unsigned char *block, int group, float *s, float *m);
/* all codes of a block; its scales stay */
TINYI_FN void tinyi_grid_put(const tinyi_grid *g, unsigned char *block, const unsigned char *code);

/* plain grids: the desc with its brackets filled in */
TINYI_FN tllm_plain_desc tinyi_plain_whole(const tllm_plain_desc *desc);
/* index of the first of n numbers that is NaN or infinite; n: none */
TINYI_FN tiny_idx tinyi_plain_strange(const float *w, tiny_idx n);
/* *first: the lowest value reported by any thread; 0: none */
TINYI_FN void tinyi_plain_first(tiny_idx *first, tiny_idx at);

TINYI_C_END
#endif
