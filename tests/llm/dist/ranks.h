/* tests/llm/dist/ranks.h - what Megatron Core and PyTorch computed for the tests of this folder */
#ifndef T_RANKS_H
#define T_RANKS_H
#include "t.h"
#include "golden/ranks.h"

/* a line of rank_groups: "tp cp dp pp etp ep axis: 0 1|2 3" */
typedef struct ranks_line {
    int size[6], ranks, each, group[64][64], of[64];        /* of: the group of each rank */
    char axis[16];
} ranks_line;

/* 0: it is not complete */
T_FN int ranks_read(const char *text, ranks_line *l)
{
    int n = 0, groups = 0, at = 0, rank, used;
    memset(l, 0, sizeof *l);
    if (sscanf(text, "%d %d %d %d %d %d %15[a-z]:%n", &l->size[0], &l->size[1], &l->size[2], &l->size[3], &l->size[4],
               &l->size[5], l->axis, &used) != 7)
        return 0;
    for (text += used; sscanf(text, "%d%n", &rank, &used) == 1; text += used + (*(text + used) == '|')) {
        if (rank < 0 || rank >= 64 || groups >= 64 || at >= 64) return 0;
        l->group[groups][at++] = rank;
        l->of[rank] = groups;
        l->each = at > l->each ? at : l->each;
        n++;
        if (text[used] == '|') groups++, at = 0;
    }
    l->ranks = n;
    return n == l->size[0] * l->size[1] * l->size[2] * l->size[3] && l->each * (groups + 1) == n;
}
#endif
