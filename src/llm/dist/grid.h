/* src/llm/dist/grid.h - ranks as the points of a grid, and groups of them
 *
 * Axis 0 is the fastest: rank = i_0 + s_0 (i_1 + s_1 (i_2 + ...)). Megatron's order is tensor, data, pipeline. The
 * group of a rank over some axes holds all ranks that share its other indexes.
 *
 *   const int size[3] = { 2, 1, 4 };                        2 tensor ranks, 1 data rank, 4 stages
 *   tllm_grid_make(ctx, size, 3, net->rank, net->world, &grid);
 *   tllm_group_open(ctx, net, &grid, 1u << TLLM_AXIS_PIPE, &group);
 *   tllm_group_net(group)                                   a tiny_net of these 4 ranks
 *
 * The nets of several groups share one net. All ranks use them in an order in which the two ranks of every message
 * agree; the functions of llm/dist do. */
#ifndef TINYI_RANK_GRID_H
#define TINYI_RANK_GRID_H
#include "core/net.h"
TINYI_C_BEGIN

#define TLLM_GRID_AXES 6
enum { TLLM_AXIS_TENSOR, TLLM_AXIS_DATA, TLLM_AXIS_PIPE };

typedef struct tllm_grid { int n, size[TLLM_GRID_AXES], at[TLLM_GRID_AXES]; } tllm_grid;    /* at: of this rank */

TINY_API tiny_status tllm_grid_make(tiny_ctx *ctx, const int *size, int n, int rank, int world, tllm_grid *grid);
TINY_API int tllm_grid_rank(const tllm_grid *grid, const int *at);  /* at (n); NULL: of this rank; -1: not in it */
/* axes: bit i for axis i. The ranks of the group, the lowest axis fastest; room for the product of the sizes. Returns
 * how many; *me: which one is this rank. */
TINY_API int tllm_grid_group(const tllm_grid *grid, unsigned axes, int *ranks, int *me);

typedef struct tllm_group tllm_group;
/* net stays the caller's, and open longer. The failure of a group is that of the whole net. */
TINY_API tiny_status tllm_group_open(tiny_ctx *ctx, tiny_net *net, const tllm_grid *grid, unsigned axes,
                                     tllm_group **out);
TINY_API tiny_net *tllm_group_net(tllm_group *group);       /* NULL for NULL */
TINY_API void tllm_group_close(tiny_ctx *ctx, tllm_group *group);      /* takes NULL; the net stays open */

TINYI_C_END
#endif
